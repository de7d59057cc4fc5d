/* Lines of a file: what is one and what is not, in bounded memory; shards that together are the whole file. */
#include "program.h"
#include "check.h"

static char  tl_dir[64];
static pid_t tl_owner;                                /* who made the folder, and removes it: no child does */

static void tl_clean(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", tl_dir);
    if (getpid() == tl_owner && system(command)) perror(tl_dir);
}

/* A path in a folder of this process; it stays where it is for as many names as the tests have. */
static const char *tl_path(const char *name) {
    static char path[64][160];
    static int  n;
    char        want[160];
    if (!tl_dir[0]) {
        snprintf(tl_dir, sizeof tl_dir, "/tmp/llmrun-lines-XXXXXX");
        if (!mkdtemp(tl_dir) || atexit(tl_clean)) abort();
        tl_owner = getpid();
    }
    snprintf(want, sizeof want, "%s/%s", tl_dir, name);
    for (int i = 0; i < n; i++)
        if (!strcmp(path[i], want)) return path[i];
    ASSERT(n < 64);
    return strcpy(path[n++], want);
}

static const char *tl_file(const char *name, const void *p, size_t n) {
    const char *path = tl_path(name);
    int         fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || (n && write(fd, p, n) != (ssize_t)n)) abort();
    close(fd);
    return path;
}

/* --- the reader --- */

/* What a call gave: " 3=abc" for a line, " 3!7" for one of 7 bytes that is too long, " ." for the end, " ?" for later. */
static void tl_say(str *s, const lines_in *in, lines_got got, bytes line, uint64_t no) {
    if (got == LINES_LINE) str_fmt(s, " %llu=", (unsigned long long)no);
    for (size_t i = 0; i < line.n && got == LINES_LINE; i++) {
        uint8_t c = line.p[i];
        if (c < 0x20 || c >= 0x7f) str_fmt(s, "<%02x>", c);
        else str_add(s, &line.p[i], 1);
    }
    if (got == LINES_LONG) str_fmt(s, " %llu!%llu", (unsigned long long)no, (unsigned long long)in->n_bytes);
    if (got == LINES_END) str_put(s, " .");
    if (got == LINES_FAILED) str_put(s, " failed");
}

static void tl_read_on(lines_in *in, bool wait, str *s) {
    lines_got got;
    bytes     line;
    uint64_t  no = 0;
    err_t     e = {0};
    do {
        got = lines_next(in, wait, &line, &no, &e);
        tl_say(s, in, got, line, no);
    } while (got == LINES_LINE || got == LINES_LONG);
}

typedef struct {
    const char *text;
    size_t      n;
    uint64_t    most;
    const char *want;
} tl_row;

#define TL(text) text, sizeof text - 1
static const tl_row tl_rows[] = {
    {TL(""), 100, " ."},
    {TL("a"), 100, " 1=a ."},
    {TL("a\n"), 100, " 1=a ."},
    {TL("\n"), 100, " 1= ."},
    {TL("a\n\nb"), 100, " 1=a 2= 3=b ."},
    {TL("a\r\nb\r\n"), 100, " 1=a 2=b ."},
    {TL("\r\n\r\n"), 100, " 1= 2= ."},
    {TL("a\rb\r\r\nc\r"), 100, " 1=a<0d>b<0d> 2=c<0d> ."},
    {TL("\xef\xbb\xbf" "a\nb\n"), 100, " 1=a 2=b ."},
    {TL("\xef\xbb\xbf"), 100, " ."},
    {TL("\xef\xbb\xbf\n"), 100, " 1= ."},
    {TL("\xef\xbb"), 100, " 1=<ef><bb> ."},
    {TL("\xef\xbb" "a\n"), 100, " 1=<ef><bb>a ."},
    {TL("\xef\xbb\xbf\xef\xbb\xbf" "a"), 100, " 1=<ef><bb><bf>a ."},
    {TL("a\n\xef\xbb\xbf" "b\n"), 100, " 1=a 2=<ef><bb><bf>b ."},
    {TL("a\0b\n\0\n\0"), 100, " 1=a<00>b 2=<00> 3=<00> ."},
    {TL("\xff\xfe\n\x80"), 100, " 1=<ff><fe> 2=<80> ."},
    {TL("abc\nabcd\nab\r\nabc\r\nabcd\r\nabcde"), 3, " 1=abc 2!4 3=ab 4=abc 5!4 6!5 ."},
    {TL("\xef\xbb\xbf" "abc\n\xef\xbb\xbf\n"), 3, " 1=abc 2=<ef><bb><bf> ."},
    {TL("abcdefghijklm\nab\n"), 3, " 1!13 2=ab ."},
    {TL("abcdefghijklm\r\nab\r"), 3, " 1!13 2=ab<0d> ."},
    {TL("\n\r\na\nab"), 0, " 1= 2= 3!1 4!2 ."},
};

static void t_lines_odd(void) {
    for (size_t i = 0; i < sizeof tl_rows / sizeof *tl_rows; i++) {
        const tl_row *r = &tl_rows[i];
        str           s = {0};
        err_t         e = {0};
        lines_in     *in = lines_open(tl_file("odd", r->text, r->n), r->most, &e);
        if (!CHECKF(in != NULL, "row %zu: %s", i, e.text)) continue;
        EQ_INT(in->size, r->n);
        tl_read_on(in, true, &s);
        CHECKF(!strcmp(s.p, r->want), "row %zu of a file: \"%s\", want \"%s\"", i, s.p, r->want);
        lines_close(in);

        int p[2];
        if (pipe(p)) abort();
        str_clear(&s);
        in = lines_from_fd(p[0], false, "PIPE", r->most, &e);
        for (size_t k = 0; k < r->n; k++) {           /* a byte at a time, looked at after each */
            if (write(p[1], r->text + k, 1) != 1) abort();
            tl_read_on(in, false, &s);
        }
        close(p[1]);
        tl_read_on(in, true, &s);
        CHECKF(!strcmp(s.p, r->want), "row %zu of a pipe: \"%s\", want \"%s\"", i, s.p, r->want);
        EQ_INT(lines_next(in, true, &(bytes){0}, &(uint64_t){0}, &e), LINES_END);
        lines_close(in);
        str_drop(&s);
    }
}

/* Lines around the sizes of a read, against the plain split of the same bytes; offsets too. */
static void t_lines_sizes(void) {
    static const size_t len[] = {0, 1, LINES_CHUNK - 2, 5, LINES_CHUNK - 1, LINES_CHUNK, LINES_CHUNK + 1, 0, 3 * LINES_CHUNK,
                                 7, 5 * LINES_CHUNK + 3, 1, 1, 8 * LINES_CHUNK, 2, LINES_CHUNK / 2, LINES_CHUNK / 2, 9};
    static const uint64_t most[] = {1 << 30, LINES_CHUNK, LINES_CHUNK - 1, 5 * LINES_CHUNK, 8, 0};
    const size_t          n_len = sizeof len / sizeof *len;
    str                   text = {0};
    for (size_t i = 0; i < n_len; i++) {
        str_reserve(&text, len[i] + 2);
        for (size_t k = 0; k < len[i]; k++) text.p[text.n++] = (char)('a' + (i + k) % 26);
        str_put(&text, i % 3 ? "\n" : "\r\n");
    }
    const char *path = tl_file("sizes", text.p, text.n);
    for (size_t m = 0; m < sizeof most / sizeof *most; m++) {
        err_t     e = {0};
        lines_in *in = lines_open(path, most[m], &e);
        bytes     line;
        uint64_t  no, at = 0;
        if (!CHECK(in != NULL)) continue;
        for (size_t i = 0; i < n_len; i++) {
            lines_got got = lines_next(in, true, &line, &no, &e);
            CHECKF(got == (len[i] > most[m] ? LINES_LONG : LINES_LINE) && no == i + 1 && in->n_bytes == len[i] &&
                   in->at == at,
                   "line %zu under %llu: %d, %llu bytes at %llu", i, (unsigned long long)most[m], got,
                   (unsigned long long)in->n_bytes, (unsigned long long)in->at);
            const uint64_t head = most[m] < LINES_HEAD ? most[m] : LINES_HEAD;
            CHECK(line.n == (got == LINES_LINE ? len[i] : head) && (!line.n || !memcmp(line.p, text.p + at, line.n)));
            at += len[i] + (i % 3 ? 1 : 2);
            CHECK(in->cap <= most[m] + 2 * LINES_CHUNK + LINES_KEEP);
        }
        EQ_INT(lines_next(in, true, &line, &no, &e), LINES_END);
        CHECK(in->cap <= LINES_KEEP);
        lines_close(in);
    }
    str_drop(&text);
}

/* Two million lines from another process, of which some are long. */
static void t_lines_many(void) {
    enum { N = 2000000 };
    int   p[2];
    err_t e = {0};
    if (pipe(p)) abort();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        FILE *f = fdopen(p[1], "w");
        for (int i = 1; i <= N; i++) fprintf(f, "%d %.*s\n", i, i % 100000 ? i % 20 : 0, "abcdefghijklmnopqrst");
        fflush(f);
        _exit(0);
    }
    close(p[1]);
    lines_in *in = lines_from_fd(p[0], false, "PIPE", 1 << 20, &e);
    bytes     line;
    uint64_t  no, last = 0;
    while (lines_next(in, true, &line, &no, &e) == LINES_LINE && no == last + 1) {
        char want[40];
        int  n = snprintf(want, sizeof want, "%d %.*s", (int)no, no % 100000 ? (int)(no % 20) : 0, "abcdefghijklmnopqrst");
        if (!bytes_eq(line, (bytes){(uint8_t *)want, (size_t)n})) break;
        last = no;
    }
    EQ_INT(last, N);
    CHECK(in->cap <= LINES_KEEP);
    lines_close(in);
    waitpid(pid, NULL, 0);
}

static void tl_alarm(int sig) { g_interrupt = sig; }

static void t_lines_waits(void) {
    int      p[2];
    err_t    e = {0};
    bytes    line;
    uint64_t no;
    if (pipe(p)) abort();
    lines_in *in = lines_from_fd(p[0], false, "PIPE", 100, &e);
    EQ_INT(lines_next(in, false, &line, &no, &e), LINES_LATER);
    if (write(p[1], "half", 4) != 4) abort();
    EQ_INT(lines_next(in, false, &line, &no, &e), LINES_LATER);

    struct sigaction act = {.sa_handler = tl_alarm, .sa_flags = SA_RESTART}, old;
    sigaction(SIGALRM, &act, &old);
    ualarm(20000, 20000);                             /* again and again: the first may come before the wait begins */
    EQ_INT(lines_next(in, true, &line, &no, &e), LINES_LATER);     /* the signal ends the wait, and no byte is lost */
    ualarm(0, 0);
    sigaction(SIGALRM, &old, NULL);
    EQ_INT(g_interrupt, SIGALRM);
    g_interrupt = 0;
    if (write(p[1], " a line\nrest", 12) != 12) abort();
    EQ_INT(lines_next(in, true, &line, &no, &e), LINES_LINE);
    CHECK(bytes_is(line, "half a line") && no == 1);
    close(p[1]);
    EQ_INT(lines_next(in, true, &line, &no, &e), LINES_LINE);
    CHECK(bytes_is(line, "rest") && !in->complete && !e.code);
    lines_close(in);

    const char *fifo = tl_path("fifo");
    unlink(fifo);
    if (mkfifo(fifo, 0600)) abort();
    in = lines_open(fifo, 100, &e);                   /* nobody has opened the other end: no end, but later */
    if (!CHECKF(in != NULL, "%s", e.text)) return;
    EQ_INT(lines_next(in, false, &line, &no, &e), LINES_LATER);
    int w = open(fifo, O_WRONLY);
    if (write(w, "x\n", 2) != 2) abort();
    close(w);
    EQ_INT(lines_next(in, true, &line, &no, &e), LINES_LINE);
    EQ_INT(lines_next(in, true, &line, &no, &e), LINES_END);
    lines_close(in);
}

static void t_lines_bad(void) {
    int      none = open("/dev/null", O_WRONLY), tty = posix_openpt(O_RDWR | O_NOCTTY);
    bytes    line;
    uint64_t no;
    struct { const char *path; int fd; const char *word; } rows[] = {
        {tl_path("absent"), -1, "No such file"}, {tl_path("."), -1, "is a directory"}, {"", -1, "No such file"},
        {NULL, tty, "is a terminal"}, {NULL, 1000, "Bad file"}, {NULL, none, "cannot read at byte 0"},
        {"/dev/zero", -1, "has not ended"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        err_t e = {0};
        if (!rows[i].path && rows[i].fd < 0) continue;
        lines_in *in = rows[i].path ? lines_open(rows[i].path, 4096, &e) : lines_from_fd(rows[i].fd, true, "FD", 4096, &e);
        if (in) EQ_INT(lines_next(in, true, &line, &no, &e), LINES_FAILED);
        lines_close(in);
        CHECKF(e.code == EXIT_INPUT && strstr(e.text, rows[i].word), "row %zu: \"%s\"", i, e.text);
    }
    close(none);
    close(tty);
}

/* --- shards --- */

static void t_lines_shard_parse(void) {
    static const struct { const char *text; uint32_t i, n; } good[] = {
        {"1/1", 1, 1}, {"2/8", 2, 8}, {"8/8", 8, 8}, {"0003/4", 3, 4}, {"1048576/1048576", 1048576, 1048576}};
    static const char *const bad[] = {"", "/", "1", "1/", "/1", "0/1", "2/1", "1/0", "-1/2", "1/-2", "+1/2", " 1/2",
                                      "1/2 ", "1/2/3",
                                      "1.0/2", "1/1048577", "18446744073709551617/18446744073709551617", "a/b", "1\\2"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        lines_shard s;
        err_t       e = {0};
        if (!CHECKF(lines_shard_parse(good[i].text, &s, &e), "%s: %s", good[i].text, e.text)) continue;
        CHECK(s.i == good[i].i && s.n == good[i].n);
        lines_shard_drop(&s);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lines_shard s;
        err_t       e = {0};
        CHECKF(!lines_shard_parse(bad[i], &s, &e) && e.code == EXIT_INPUT && strstr(e.text, "--shard"), "'%s'", bad[i]);
    }
}

/* Prompt number i of a file: of one group, of groups of 10 that are mixed, or all different. */
static bytes tl_prompt(int kind, int i, char *buf, size_t cap) {
    int n = kind == 0   ? snprintf(buf, cap, "%0300d%d", 7, i)
            : kind == 1 ? snprintf(buf, cap, "%0300d%d", i / 7 % 40 * 2 + i % 2, i)
                        : snprintf(buf, cap, "%d, a prompt", i);
    return (bytes){(uint8_t *)buf, (size_t)n};
}

static void t_lines_shard(void) {
    enum { N = 10000 };
    for (int kind = 0; kind < 3; kind++)
        for (uint32_t n = 1; n <= 7; n += 3) {
            uint8_t owners[N] = {0};
            size_t  least = N, most = 0;
            for (uint32_t i = 1; i <= n; i++) {
                char        text[32], buf[400];
                err_t       e = {0};
                size_t      mine = 0;
                lines_shard s;
                snprintf(text, sizeof text, "%u/%u", i, n);
                if (!CHECK(lines_shard_parse(text, &s, &e))) return;
                for (int k = 0; k < N; k++) {
                    bool is = lines_shard_is_mine(&s, tl_prompt(kind, k, buf, sizeof buf));
                    mine += is;
                    owners[k] += is;
                    if (kind == 0) CHECKF(is == ((uint32_t)k / LINES_GROUP % n == i - 1), "line %d of %d/%d", k, i, n);
                    if (kind == 2) CHECKF(is == ((uint32_t)k % n == i - 1), "line %d of %d/%d", k, i, n);
                }
                lines_shard_drop(&s);
                if (mine < least) least = mine;
                if (mine > most) most = mine;
            }
            for (int k = 0; k < N; k++) CHECKF(owners[k] == 1, "line %d has %d owners", k, owners[k]);
            CHECKF(most - least <= (kind == 2 ? 1 : kind == 0 ? LINES_GROUP : 40 * 2 * LINES_GROUP), "%zu to %zu",
                   least, most);
        }
}

/* More groups than may be open: still one owner each, and no more memory. */
static void t_lines_shard_many(void) {
    lines_shard a, b;
    err_t       e = {0};
    if (!CHECK(lines_shard_parse("1/2", &a, &e) && lines_shard_parse("2/2", &b, &e))) return;
    for (int k = 0; k < LINES_GROUPS + LINES_GROUPS / 4; k++) {
        char  buf[40];
        bytes p = tl_prompt(2, k, buf, sizeof buf);
        bool  x = lines_shard_is_mine(&a, p), y = lines_shard_is_mine(&b, p);
        if (!CHECKF(x != y && x == (k % 2 == 0), "line %d", k)) break;
    }
    CHECK(a.open.cap <= 2 * LINES_GROUPS && a.open.n < LINES_GROUPS);
    lines_shard_drop(&a);
    lines_shard_drop(&b);
}

static const t_case t_lines_cases[] = {
    {"lines odd", "endings, marks, NULs and long lines, from a file and from a pipe byte by byte", t_lines_odd},
    {"lines sizes", "lines around the size of a read are complete, and large buffers are freed", t_lines_sizes},
    {"lines many", "two million lines of a pipe in the memory of a few", t_lines_many},
    {"lines waits", "a pipe that pauses is waited for, or not; a signal ends the wait and loses nothing", t_lines_waits},
    {"lines bad", "folders, terminals, closed descriptors and files without end are refused", t_lines_bad},
    {"lines shard parse", "I/N, and nothing else", t_lines_shard_parse},
    {"lines shard", "each line has one owner, groups stay together, parts are even", t_lines_shard},
    {"lines shard many", "more groups than fit do not grow the table, nor change owners", t_lines_shard_many},
};
static const t_suite t_lines_suite = SUITE(t_lines_cases);
