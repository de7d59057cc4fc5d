/* [base]: exit codes, messages, bytes and texts, random numbers, UTF-8. */
#include "program.h"
#include "check.h"
#include <grp.h>

/* Runs fn in a child process. Returns its exit code (128 + signal if it was killed); `said` gets its stderr. */
static int t_base_child(void (*fn)(int), int arg, char *said, size_t cap) {
    int    fd[2], status = 0;
    size_t n = 0;
    fflush(NULL);                                     /* or the child prints our lines again */
    if (pipe(fd)) return -1;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fd[1], 2);
        close(fd[0]);
        close(fd[1]);
        fn(arg);
        _exit(99);                                    /* it came back */
    }
    close(fd[1]);
    for (ssize_t got; n + 1 < cap && (got = read(fd[0], said + n, cap - 1 - n)) > 0;) n += (size_t)got;
    said[n] = 0;
    close(fd[0]);
    if (pid < 0 || waitpid(pid, &status, 0) != pid) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Whether a text is one complete line without control characters. */
static bool t_base_one_line(const char *s) {
    size_t n = strlen(s);
    if (n == 0 || s[n - 1] != '\n') return false;
    for (size_t i = 0; i + 1 < n; i++)
        if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f) return false;
    return true;
}

/* --- err, log --- */

static void t_base_err(void) {
    err_t e = {0};
    CHECK(!err_set(&e, EXIT_INPUT, "%s: found %d, expected %d", "FILE", 7, 3));
    EQ_INT(e.code, 2);
    EQ_STR(e.text, "FILE: found 7, expected 3");
    CHECK(!err_set(&e, EXIT_RESOURCE, "a consequence"));
    EQ_INT(e.code, 2);
    EQ_STR(e.text, "FILE: found 7, expected 3");

    char  *big = mem_new(5000, 1);
    err_t  f = {0};
    size_t cut = sizeof f.text - 1;
    memset(big, 'x', 4999);
    err_set(&f, EXIT_INPUT, "%s", big);
    EQ_INT(strlen(f.text), cut);
    EQ_MEM(f.text, big, cut);
    for (int i = 0; i < 4; i++) {                     /* a character is cut off whole */
        err_t g = {0};
        memset(big, 'x', 4999);
        memcpy(big + cut - i, "\xf0\x9f\x90\xb6", 4);
        err_set(&g, EXIT_INPUT, "%s", big);
        EQ_INT(strlen(g.text), cut - (size_t)i);
        EQ_MEM(g.text, big, cut - (size_t)i);
    }
    mem_free(big);
    const int want[6] = {0, 1, 2, 3, 130, 143}, got[6] = {EXIT_DONE, EXIT_NO, EXIT_INPUT, EXIT_RESOURCE, EXIT_INT, EXIT_TERM};
    EQ_MEM(got, want, sizeof want);
}

static void t_base_dies(int code) {
    err_t e = {0};
    err_set(&e, code, "a\nb\x1b[31m\x7f%s", "\xc3\xa9");
    die(e.code, "%s", e.text);
}

static void t_base_dies_long(int n) {
    char *s = mem_new((size_t)n + 1, 1);
    memset(s, 'y', (size_t)n);
    die(EXIT_NO, "%s", s);
}

static void t_base_bug(int n) { ASSERT(n == 0); }

/* Logs at every level under log level `level`, then exits with 0. */
static void t_base_speaks(int level) {
    g_log_level = level;
    log_error("E");
    log_warn("W");
    log_info("I");
    _exit(0);
}

static void t_base_end(void) {
    char      said[4096];
    const int codes[] = {EXIT_NO, EXIT_INPUT, EXIT_RESOURCE};
    for (size_t i = 0; i < 3; i++) {
        EQ_INT(t_base_child(t_base_dies, codes[i], said, sizeof said), codes[i]);
        EQ_STR(said, "llmrun: a\\x0ab\\x1b[31m\\x7f\xc3\xa9\n");
    }
    for (int n = 2040; n < 2060; n++) {               /* around the length at which a line is cut */
        EQ_INT(t_base_child(t_base_dies_long, n, said, sizeof said), EXIT_NO);
        CHECK(t_base_one_line(said));
        EQ_INT(strlen(said), strlen("llmrun: \n") + (size_t)(n < 2047 ? n : 2047));
    }
    EQ_INT(t_base_child(t_base_bug, 0, said, sizeof said), 99);
    EQ_STR(said, "");
    EQ_INT(t_base_child(t_base_bug, 1, said, sizeof said), 128 + SIGABRT);
    CHECK(strstr(said, "llmrun: bug: ") == said && strstr(said, "n == 0 does not hold"));

    const char *words[] = {"llmrun: E\n", "llmrun: E\nllmrun: W\n", "llmrun: E\nllmrun: W\nllmrun: I\n"};
    for (int level = LOG_QUIET; level <= LOG_VERBOSE; level++) {
        EQ_INT(t_base_child(t_base_speaks, level, said, sizeof said), 0);
        EQ_STR(said, words[level]);
    }
}

/* --- mem --- */

static void t_base_allocates(int how) {
    str s = {0};
    if (how < 6) mem_freeze("the test");
    if (how == 0) mem_new(1, 1);
    if (how == 1) mem_new(0, 8);
    if (how == 2) mem_grow(NULL, 10, 1);
    if (how == 3) mem_aligned(1, 64);
    if (how == 4) str_put(&s, "x");
    if (how == 5) str_fmt(&s, "%d", 1);
    if (how == 6) mem_new(SIZE_MAX / 2, 3);
    if (how == 7) mem_grow(NULL, (size_t)1 << 33, (size_t)1 << 33);
    if (how == 8) mem_aligned(SIZE_MAX, 1);
    if (how == 9) mem_aligned(SIZE_MAX / 8 + 1, 8);
    if (how == 10) {
        char c = 0;
        s = (str){&c, 1, 1};                          /* a text that would not fit the address space */
        str_reserve(&s, SIZE_MAX - 1);
    }
}

static void t_base_mem(void) {
    char said[1024];
    for (int how = 0; how <= 10; how++) {
        EQ_INT(t_base_child(t_base_allocates, how, said, sizeof said), EXIT_RESOURCE);
        CHECKF(t_base_one_line(said), "case %d said: %s", how, said);
        CHECKF((strstr(said, "the test") != NULL) == (how < 6), "case %d said: %s", how, said);
        CHECKF((strstr(said, "out of memory") != NULL) == (how >= 6), "case %d said: %s", how, said);
    }
    mem_freeze("a moment");
    mem_thaw();
    for (size_t n = 0; n < 300; n += 7) {
        uint8_t *a = mem_new(n, 3), *b = mem_aligned(n, 3);
        CHECK(a && b);
        EQ_INT((uintptr_t)b % 64, 0);
        for (size_t i = 0; i < 3 * n; i++) {
            CHECK(a[i] == 0);
            a[i] = b[i] = (uint8_t)(i * 31);
        }
        a = mem_grow(a, n + 1000, 3);
        EQ_MEM(a, b, 3 * n);
        mem_free(a);
        mem_free(b);
    }
    mem_free(NULL);
}

/* --- bytes --- */

static void t_base_bytes(void) {
    const bytes none = {NULL, 0}, nul = {(const uint8_t *)"a\0b", 3};
    CHECK(bytes_eq(none, bytes_of("")) && bytes_is(none, ""));
    CHECK(bytes_is(bytes_of("abc"), "abc") && !bytes_is(bytes_of("abc"), "abd"));
    CHECK(!bytes_is(bytes_of("ab"), "abc") && !bytes_is(bytes_of("abc"), "ab"));
    CHECK(!bytes_is(nul, "a") && bytes_eq(nul, (bytes){(const uint8_t *)"a\0b", 3}));
    CHECK(!bytes_eq(nul, (bytes){(const uint8_t *)"a\0c", 3}));
    /* from a second implementation (python); an empty view may be NULL */
    CHECK(bytes_hash(7, none) == 0xb8b4c2977eabce45u && bytes_hash(7, bytes_of("")) == 0xb8b4c2977eabce45u);
    CHECK(bytes_hash(7, bytes_of("general.architecture")) == 0xebfad6b805ae1a5cu);
}

static int t_base_cmp64(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Pearson's statistic of n_bin counts that should be equal, in deviations from its mean: mean k, variance 2k. */
static double t_base_chi(const uint32_t *count, int n_bin) {
    double total = 0, chi = 0, k = n_bin - 1;
    for (int i = 0; i < n_bin; i++) total += count[i];
    for (int i = 0; i < n_bin; i++) chi += (count[i] - total / n_bin) * (count[i] - total / n_bin) / (total / n_bin);
    return (chi - k) / sqrt(2 * k);
}

/* The computations below are fixed. A limit of 5 deviations allows an unlikely seed, but no bad generator. */
#define T_BASE_FLAT(count, n_bin, what) CHECKF(fabs(t_base_chi(count, n_bin)) < 5, "%s: %.1f deviations", what, t_base_chi(count, n_bin))

/* Keys as in files: similar, short, different in one place. Tables use the low bits. */
static void t_base_hash(void) {
    static const char *const form[] = {"blk.%d.attn_q.weight", "%d", "<%05d>", "tok%x"};
    enum { N = 1 << 14, BINS = 1 << 10 };
    static uint64_t all[4 * N];
    static uint32_t low[BINS], high[BINS];
    for (int f = 0; f < 4; f++) {
        memset(low, 0, sizeof low);
        memset(high, 0, sizeof high);
        for (int i = 0; i < N; i++) {
            char key[64];
            snprintf(key, sizeof key, form[f], i);
            uint64_t h = bytes_hash(1, bytes_of(key));
            all[f * N + i] = h;
            low[h % BINS]++;
            high[h >> 54]++;
        }
        CHECKF(t_base_chi(low, BINS) < 5, "%s: %.1f deviations", form[f], t_base_chi(low, BINS));   /* more even than chance is welcome */
        CHECKF(t_base_chi(high, BINS) < 5, "%s: %.1f deviations", form[f], t_base_chi(high, BINS));
    }
    qsort(all, 4 * N, sizeof *all, t_base_cmp64);     /* 2^16 keys among 2^64: equal ones would be a defect */
    int same = 0;
    for (int i = 1; i < 4 * N; i++) same += all[i] == all[i - 1];
    EQ_INT(same, 0);
}

/* --- str --- */

static void t_base_str(void) {
    str    s = {0};
    char   plain[6000];
    size_t n = 0;
    for (int i = 0; n < 5000; i++) {
        char piece[300];
        int  len = (int)(rng_at(1, 0, (uint64_t)i, 0) % 290);
        for (int j = 0; j < len; j++) piece[j] = (char)rng_at(1, 1, (uint64_t)i, (uint64_t)j);   /* NULs too */
        piece[len] = 0;
        memcpy(plain + n, piece, (size_t)len);
        if (i % 3 == 0 && strlen(piece) == (size_t)len) str_put(&s, piece);
        else str_add(&s, piece, (size_t)len);
        n += (size_t)len;
        EQ_INT(s.n, n);
        CHECK(s.cap > s.n && s.p[s.n] == 0);
    }
    EQ_MEM(s.p, plain, n);
    EQ_MEM(str_bytes(&s).p, plain, n);
    EQ_INT(str_bytes(&s).n, n);
    str_clear(&s);
    EQ_INT(s.n, 0);
    EQ_STR(s.p, "");
    for (int w = 0; w < 200; w++) {                   /* every length around a doubling */
        char want[256];
        str_clear(&s);
        str_put(&s, "<");
        str_fmt(&s, "%*d|%s", w, 7, "ok");
        snprintf(want, sizeof want, "<%*d|%s", w, 7, "ok");
        EQ_STR(s.p, want);
        EQ_INT(s.n, strlen(want));
        if (w % 5 == 0) str_drop(&s);
    }
    str_fmt(&s, "%s", "");
    str_drop(&s);
    CHECK(!s.p && !s.n && !s.cap);
    str_clear(&s);                                    /* nothing to clear */
    str_add(&s, NULL, 0);
    EQ_STR(s.p, "");
    str_drop(&s);
}

static void t_base_json(void) {
    static const struct {
        const char *in;
        size_t      n;
        const char *out;
    } rows[] = {
        {"", 0, "\"\""},
        {"a b/c", 5, "\"a b/c\""},
        {"\"\\", 2, "\"\\\"\\\\\""},
        {"\n\r\t", 3, "\"\\n\\r\\t\""},
        {"\0\x01\x1f\x7f", 4, "\"\\u0000\\u0001\\u001f\\u007f\""},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9, "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""},
        {"\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0", 8, "\"\\u0080\\u009b\\u009f\xc2\xa0\""},                 /* C1 */
        {"\xd8\x9c\xe2\x80\x8d\xe2\x80\x8e", 8, "\"\\u061c\xe2\x80\x8d\\u200e\""},
        {"\xe2\x80\xaa\xe2\x80\xae\xe2\x81\xa6\xe2\x81\xa9", 12, "\"\\u202a\\u202e\\u2066\\u2069\""},
        {"\xef\xbb\xbf\xe2\x80\xa8\xe2\x80\xa9", 9, "\"\\ufeff\\u2028\\u2029\""},
        {"a\xc3", 2, "\"a\xef\xbf\xbd\""},                                        /* cut off */
        {"\xe2\x82", 2, "\"\xef\xbf\xbd\""},                                      /* one for as much of a character as there is */
        {"\xe2\x82z", 3, "\"\xef\xbf\xbdz\""},
        {"\xf0\x9f\x98\xc3\xa9", 5, "\"\xef\xbf\xbd\xc3\xa9\""},
        {"\xf0\x80\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\xf4\x90\x80\x80", 4, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
        {"\x80z", 2, "\"\xef\xbf\xbdz\""},                                        /* begins nothing */
        {"\xc0\xaf", 2, "\"\xef\xbf\xbd\xef\xbf\xbd\""},                          /* longer than needed */
        {"\xed\xa0\x80", 3, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},          /* a surrogate */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        str s = {0};
        str_json(&s, (bytes){(const uint8_t *)rows[i].in, rows[i].n});
        EQ_STR(s.p, rows[i].out);
        str_drop(&s);
    }
    static const struct { const char *in, *out; } copies[] = {   /* JSON of others: what it says stays */
        {"{ \"a\\\"\":\t[1, \"\xc3\xa9\\u00e9\\/\"]\n}", "{ \"a\\\"\":\t[1, \"\xc3\xa9\\u00e9\\/\"]\n}"},
        {"[\"\x1b\n\t\xc2\x9b\xe2\x80\xae\\\\\", \"\xff\"]", "[\"\\u001b\\n\\t\\u009b\\u202e\\\\\", \"\xef\xbf\xbd\"]"},
        {"\"\xe2\x80\xa8\"", "\"\\u2028\""}, {"-1.5e3", "-1.5e3"}, {"", ""},
    };
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++) {
        str s = {0};
        str_put(&s, "");
        str_json_copy(&s, bytes_of(copies[i].in), false);
        EQ_STR(s.p, copies[i].out);
        str_drop(&s);
    }
    str plain = {0};
    str_json_plain(&plain, bytes_of("\xe2\x80\xae\xff\r\x7f"));
    EQ_STR(plain.p, "\"\xe2\x80\xae\xef\xbf\xbd\\r\\u007f\"");
    str_clear(&plain);
    str_json_exact(&plain, bytes_of("\xe2\x80\xae\xff\r"));
    EQ_STR(plain.p, "\"\xe2\x80\xae\xff\\u000d\"");
    str_clear(&plain);
    str_json_copy(&plain, bytes_of("[\"\xff\xe2\x80\xae\x1b\xe2\\\x9b\"]"), true);
    EQ_STR(plain.p, "[\"\xff\\u202e\\u001b\xe2\\\x9b\"]");
    str_drop(&plain);
    for (int i = 0; i < 2000; i++) {                  /* any bytes give characters, none of them below a space */
        uint8_t b[24];
        str     s = {0};
        for (int j = 0; j < 24; j++) b[j] = (uint8_t)rng_at(2, 0, (uint64_t)i, (uint64_t)j);
        str_json(&s, (bytes){b, 24});
        for (size_t at = 0; at < s.n;) {
            int len = utf8_len((const uint8_t *)s.p + at, s.n - at);
            if (!CHECKF(len > 0 && (uint8_t)s.p[at] >= 0x20, "text %d, byte %zu", i, at)) break;
            at += (size_t)len;
        }
        str_drop(&s);
    }
}

/* Texts of one value, of none, and the beginnings of values; the escapes of strings; the members of objects. */
static void t_base_scan(void) {
    static const struct {
        const char *text;
        int         is;                               /* 1: a value; 0: none; -1: more of it is needed */
    } rows[] = {
        {" {\"a\": [1, -2.5e+3, true, null], \"b\": {}} ", 1}, {"[]", 1}, {"\"\\ud83d\\n\n\"", 1}, {"0", 1}, {"-0.0", 1},
        {"", -1}, {"{", -1}, {"[1,", -1}, {"\"a", -1}, {"\"\\", -1}, {"\"\\u12", -1}, {"tru", -1}, {"-", -1}, {"1.", -1},
        {"1e", -1}, {"{\"a\"", -1},
        {"}", 0}, {"[1,]", 0}, {"{1:2}", 0}, {"{\"a\":}", 0}, {"[1 2]", 0}, {"[}", 0}, {"01", 0}, {"\"\\x\"", 0},
        {"\"\\u12g4\"", 0}, {"True", 0}, {"1 2", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bytes_scan s = {.t = bytes_of(rows[i].text), .most = SIZE_MAX};
        const bool ok = bytes_scan_json(&s);
        CHECKF(bytes_is_json(s.t) == (rows[i].is > 0), "row %zu: %s", i, rows[i].text);
        if (rows[i].is < 0) CHECKF(!ok && s.more, "row %zu: %s", i, rows[i].text);
    }
    str deep = {0};
    for (int i = 0; i < BYTES_DEEP; i++) str_put(&deep, "[");
    for (int i = 0; i < BYTES_DEEP; i++) str_put(&deep, "]");
    CHECK(bytes_is_json(str_bytes(&deep)));
    str_put(&deep, "]");
    memmove(deep.p + 1, deep.p, deep.n - 1), deep.p[0] = '[';
    CHECK(!bytes_is_json(str_bytes(&deep)));
    bytes_scan few = {.t = bytes_of("[1, 2, 3]"), .most = 3};
    CHECK(!bytes_scan_json(&few) && !few.more);
    str_drop(&deep);
}

static void t_base_unquote(void) {
    static const struct {
        const char *text, *strict, *plain;            /* NULL: none */
    } rows[] = {
        {"\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\"", "a\"\\/\b\f\n\r\t\xc3\xa9\xf0\x9f\x98\x80",
         "a\"\\/\b\f\n\r\t\xc3\xa9\xf0\x9f\x98\x80"},
        {"\"\xff\"", "\xff", "\xff"}, {"\"a\nb\"", NULL, "a\nb"}, {"\"\\ud83dx\"", NULL, "\xef\xbf\xbdx"},
        {"\"\\ude00\"", NULL, "\xef\xbf\xbd"},
        {"\"\\ud83d\\u0041\"", NULL, "\xef\xbf\xbd" "A"}, {"\"a", NULL, NULL}, {"\"a\" ", NULL, NULL},
        {"\"\\x\"", NULL, NULL}, {"1", NULL, NULL}, {"", NULL, NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int strict = 0; strict < 2; strict++) {
            const char *want = strict ? rows[i].strict : rows[i].plain;
            str         s = {0};
            str_put(&s, "x");
            CHECKF(str_unquote(&s, bytes_of(rows[i].text), strict) == (want != NULL), "row %zu", i);
            EQ_STR(s.p + 1, want ? want : "");
            str_drop(&s);
        }
}

static void t_base_member(void) {
    static const char *const rows[][2] = {
        {"{\"id\":1,\"a\":[{\"id\":2}]}", "1"}, {" { \"a\" : \"}\\\"\" , \"id\" : {\"b\":[]} }", "{\"b\":[]}"},
        {"{\"id\":1,\"\\u0069d\":2}", "2"},
        {"{\"id\":1", "1"}, {"{\"a\":1;\"id\":2}", ""}, {"[\"id\",1]", ""}, {"{}", ""}, {"{\"id\"}", ""}, {"", ""},
        {",\"id\":1}", ""}, {"{\"a\":\"\"{\"id\":1}", ""}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECKF(bytes_is(bytes_member(bytes_of(rows[i][0]), "id"), rows[i][1]), "%s", rows[i][0]);
}

/* Commas are put by the writer, whatever is in a list and however its text is cut into pieces. */
static void t_base_writer(void) {
    str s = {0};
    jw  w = jw_tight(&s);
    jw_open(&w, NULL, '{');
    jw_open(&w, "a", '[');
    jw_fmt(&w, NULL, "%d", 1);
    jw_open(&w, NULL, '{');
    jw_close(&w, '}');
    str_clear(&s);                                    /* what was written so far is somewhere else */
    jw_open(jw_line(&w), NULL, '[');
    jw_close(&w, ']');
    jw_close(&w, ']');
    jw_bool(&w, "b", false);
    jw_number(jw_line(&w), "n", 3, 1.0 / 3);
    jw_number(&w, "i", 9, (double)INFINITY);
    jw_maybe(&w, "m", bytes_of("x"), false);
    jw_str(&w, "s", "\"");
    jw_bytes(&w, bytes_of("text"));
    jw_bytes(&w, bytes_of("\xff"));
    jw_close(&w, '}');
    EQ_STR(s.p, ",\n[]],\"b\":false,\n\"n\":0.333,\"i\":null,\"m\":null,\"s\":\"\\\"\",\"bytes\":\"/w==\"}");
    str_clear(&s);
    w = jw_loose(&s);
    jw_open(&w, NULL, '{');
    jw_open(jw_line(&w), "a", '[');
    jw_str(&w, NULL, "x");
    jw_str(&w, NULL, "y");
    jw_close(&w, ']');
    jw_fmt(jw_line(&w), "b", "%s", "null");
    EQ_STR(s.p, "{\n\"a\": [\"x\", \"y\"],\n\"b\": null");
    str_drop(&s);
}

static void t_base_csv(void) {
    static const char *const rows[][2] = {{"", ""}, {"a b", "a b"}, {"a,b", "\"a,b\""}, {"\"", "\"\"\"\""},
                                          {"a\"b\"", "\"a\"\"b\"\"\""}, {"a\nb\r", "\"a\nb\r\""},
                                          {"\xc3", "\xef\xbf\xbd"}, {"\xe2\x82,\xc3\xa9", "\"\xef\xbf\xbd,\xc3\xa9\""},
                                          {"\xe2\"\x82", "\"\xef\xbf\xbd\"\"\xef\xbf\xbd\""}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        str s = {0};
        str_put(&s, "x");                             /* what stands before it does not matter */
        str_csv(&s, bytes_of(rows[i][0]));
        EQ_STR(s.p + 1, rows[i][1]);
        str_drop(&s);
    }
}

static void t_base_base64(void) {
    static const char *const rows[][2] = {{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"}, {"foob", "Zm9vYg=="},
                                          {"fooba", "Zm9vYmE="},
                                          {"foobar", "Zm9vYmFy"}, {"\xff\xfe\xfb", "//77"}, {"\xc3", "ww=="}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        str s = {0};
        str_base64(&s, bytes_of(rows[i][0]));
        EQ_STR(s.p ? s.p : "", rows[i][1]);
        const bytes coded = str_bytes(&s);
        str back = {0};
        str_put(&back, "");
        str_unbase64(&back, coded);
        EQ_STR(back.p, rows[i][0]);
        str_drop(&back);
        str_drop(&s);
    }
}

/* --- what a progress line shows --- */

static void t_base_fit(void) {
    static const struct { const char *text; int columns; size_t fits; } cases[] = {
        {"", 5, 0}, {"abc", 5, 3}, {"abc", 3, 3}, {"abc", 2, 2}, {"abc", 0, 0}, {"abc", -1, 0},
        {"a\xc3\xa9z", 3, 3}, {"a\xc3\xa9z", 2, 1},         /* a character beyond ASCII may take two columns, and is never cut */
        {"\xe6\x97\xa5\xe6\x9c\xac", 3, 3}, {"\xff\xff", 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        EQ_INT(progress__fit(cases[i].text, cases[i].columns), cases[i].fits);
}

static void t_base_left(void) {
    static const struct { double since, done, all; const char *want; } cases[] = {
        {-1e6, 1, 2, ""}, {10, 0, 2, ""}, {10, 1, 1e9, ""},     /* too early, and too far off, to say */
        {1e6, 1e6, 1e6 + 10.5, ", 0:10 left"}, {1e6, 1e6, 1e6 + 121.5, ", 2:01 left"},
        {1e6, 1e6, 1e6 + 7201.5, ", 2:00:01 left"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        EQ_STR(progress_left(clock_now() - cases[i].since, cases[i].done, cases[i].all).p, cases[i].want);
}

static void t_base_kind(void) {
    static const struct { const char *text; size_t n; const char *want; } cases[] = {
        {"", 0, NULL}, {"GGUF", 4, NULL}, {"GGUF is a format", 16, NULL}, {"PK", 2, NULL}, {"BZh", 3, NULL},
        {"GGUF\3\0\0\0", 8, "a GGUF file"}, {"\x1f\x8b\x08", 3, "a gzip file"}, {"\x28\xb5\x2f\xfd", 4, "a zstd file"},
        {"BZh91AY&SY", 10, "a bzip2 file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *kind = bytes_kind((bytes){(const uint8_t *)cases[i].text, cases[i].n});
        EQ_STR(kind ? kind : "", cases[i].want ? cases[i].want : "");
    }
}

/* --- utf8, against RFC 3629 read as a definition: the encodings of all scalar values, and their beginnings --- */

static int t_base_encode(uint32_t cp, uint8_t out[4]) {
    if (cp < 0x80) return out[0] = (uint8_t)cp, 1;
    const int len = cp < 0x800 ? 2 : cp < 0x10000 ? 3 : 4;
    for (int i = len - 1; i > 0; i--, cp >>= 6) out[i] = (uint8_t)(0x80 | (cp & 0x3f));
    out[0] = (uint8_t)((0xf00 >> len) | cp);
    return len;
}

/* All beginnings of 1, 2 and 3 bytes: which are complete characters, which are incomplete ones. */
static uint8_t t_base_whole[3][1 << 21], t_base_part[3][1 << 21];
static bool    t_base_has(const uint8_t *set, uint32_t i) { return set[i >> 3] >> (i & 7) & 1; }

static void t_base_utf8_sets(void) {
    for (uint32_t cp = 0; cp <= 0x10ffff; cp++) {
        uint8_t  b[4];
        uint32_t key = 0;
        if (cp >= 0xd800 && cp < 0xe000) continue;
        const int len = t_base_encode(cp, b);
        for (int n = 1; n <= len && n <= 3; n++) {
            key = key << 8 | b[n - 1];
            uint8_t *set = n == len ? t_base_whole[n - 1] : t_base_part[n - 1];
            set[key >> 3] |= (uint8_t)(1 << (key & 7));
        }
        EQ_INT(utf8_len(b, (size_t)len), len);
    }
}

/* Length of the character at the start of n bytes, by RFC 3629's definition. */
static int t_base_utf8_want(const uint8_t *p, size_t n) {
    uint32_t key = 0;
    for (size_t len = 1; len <= n && len <= 3; len++) {
        key = key << 8 | p[len - 1];
        if (t_base_has(t_base_whole[len - 1], key)) return (int)len;
    }
    if (n < 4 || !t_base_has(t_base_part[2], key)) return 0;
    return p[3] >= 0x80 && p[3] < 0xc0 ? 4 : 0;       /* the last byte of four is free among continuations */
}

static void t_base_utf8(void) {
    static const uint8_t edge[] = {0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc2, 0xe0, 0xed, 0xf0,
                                   0xf4, 0xff};
    enum { N = sizeof edge };
    t_base_utf8_sets();
    EQ_INT(utf8_len(edge, 0), 0);
    CHECK(!utf8_incomplete(edge, 0));
    for (uint32_t i = 0; i < 65536u * N * N; i++) {   /* two bytes wholly, two at the edges */
        const uint8_t  b[4] = {(uint8_t)(i >> 8), (uint8_t)i, edge[(i >> 16) % N], edge[(i >> 16) / N]};
        const size_t   first = i < 65536 * N ? 1 : 4;  /* shorter ones once */
        for (size_t n = first; n <= 4; n++) {
            if (n < 3 && i >= 65536) continue;
            const int want = t_base_utf8_want(b, n);
            CHECKF(utf8_len(b, n) == want, "utf8_len(%02x %02x %02x %02x, %zu): want %d", b[0], b[1], b[2], b[3], n, want);
            uint32_t key = 0;
            for (size_t j = 0; j < n; j++) key = key << 8 | b[j];
            const bool open = n < 4 && t_base_has(t_base_part[n - 1], key);
            CHECKF(utf8_incomplete(b, n) == open, "utf8_incomplete(%02x %02x %02x %02x, %zu): want %d", b[0], b[1], b[2],
                   b[3], n, open);
        }
        if (t_failed) return;
    }
}

/* --- what a terminal is shown --- */

/* The visible form of n bytes that arrive in two pieces. */
static str t_base_shown(const uint8_t *p, size_t n, size_t cut) {
    str s = {0};
    str_put(&s, "");
    const size_t used = str_visible(&s, (bytes){p, cut}, false);
    CHECK(used <= cut && str_visible(&s, (bytes){p + used, n - used}, true) == n - used);
    return s;
}

static void t_base_visible(void) {
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"plain \t text\n", "plain \t text\n"}, {"a\r\nb\r", "a\nb\\x0d"},   {"\x1b[2J\a\x7f", "\\x1b[2J\\x07\\x7f"},
        {"\xc2\x9b" "31m", "\\xc2\\x9b31m"},    {"\xc2\xa0\xc3\xa4", "\xc2\xa0\xc3\xa4"},
        {"\x9b\xff\xe2\x82", "\\x9b\\xff\\xe2\\x82"},
        {"\xe2\x80\xae" "abc\xe2\x81\xa6", "\\xe2\\x80\\xaeabc\\xe2\\x81\\xa6"},
        {"\xe2\x82\xac \xf0\x9f\x90\xb6", "\xe2\x82\xac \xf0\x9f\x90\xb6"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const size_t n = strlen(rows[i].text);
        for (size_t cut = 0; cut <= n; cut++) {
            str s = t_base_shown((const uint8_t *)rows[i].text, n, cut);
            CHECKF(strcmp(s.p, rows[i].want) == 0, "row %zu cut at %zu: '%s'", i, cut, s.p);
            str_drop(&s);
        }
    }
    for (uint64_t seed = 0; seed < 20000; seed++) {   /* bytes at random, often beginnings of characters: nothing but text is left */
        uint8_t b[8];
        for (size_t k = 0; k < sizeof b; k++) {
            const uint64_t r = rng_at(seed, k, 0, 0);
            b[k] = (uint8_t)(r & 1 ? 0xc2 + (r >> 8) % 0x33 : r >> 8);
        }
        str s = t_base_shown(b, sizeof b, seed % 9);
        CHECK(utf8_whole(str_bytes(&s)));
        for (size_t k = 0; k < s.n; k++) {
            const uint8_t c = (uint8_t)s.p[k];
            CHECK((c >= 0x20 || c == '\n' || c == '\t') && c != 0x7f && !(c == 0xc2 && (uint8_t)s.p[k + 1] < 0xa0));
        }
        str_drop(&s);
    }
}

/* Whether a character is to be hidden, as the Unicode Character Database has it: General_Category Cc, Bidi_Control; and U+FEFF. */
static bool t_base_acts(uint32_t c) {
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

/* Each character alone: shown as it is, on a line, as JSON. */
static void t_base_acting(void) {
    str s = {0};
    for (uint32_t c = 0; c < 0x110000; c++) {
        uint8_t      b[4];
        const bytes  one = {b, (size_t)utf8_put(b, c)};
        const size_t n = one.n;
        const bool   acts = t_base_acts(c);
        if (c >= 0xd800 && c < 0xe000) continue;
        str_clear(&s);
        CHECK(str_visible(&s, one, true) == n);
        const bool shown = bytes_eq(str_bytes(&s), one);
        str_clear(&s);
        str_visible_line(&s, one);
        const bool line = bytes_eq(str_bytes(&s), one);
        str_clear(&s);
        str_json(&s, one);
        const bool json = bytes_eq(bytes_slice(str_bytes(&s), 1, s.n - 1), one);
        if (!CHECKF(shown == (!acts || c == '\n' || c == '\t') && line == !acts &&
                    json == (!acts && c != '"' && c != '\\' && c != 0x2028 && c != 0x2029), "U+%04X", c)) break;
    }
    char small[9];                                    /* what does not fit is left out, never a part of a form */
    for (size_t cap = 0; cap <= 8; cap++)
        EQ_INT(utf8_visible((const uint8_t *)"\x1b\xc3\xa9\x1b", 4, true, small, cap), cap < 4 ? 0 : cap < 6 ? 4 : 6);
    str_drop(&s);
}

/* --- digest --- */

/* The test of RFC 7693, appendix E: the hash of hashes of several lengths, with and without a key. */
static void t_base_fill(uint8_t *out, uint32_t n) {
    uint32_t a = 0xdead4bad * n, b = 1;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t t = a + b;
        a = b, b = t;
        out[i] = (uint8_t)(t >> 24);
    }
}

static void t_base_digest(void) {
    static const uint8_t want[32] = {0xc2, 0x3a, 0x78, 0x00, 0xd9, 0x81, 0x23, 0xbd, 0x10, 0xf5, 0x06, 0xc6, 0x1e, 0x29, 0xda, 0x56,
                                     0x03, 0xd7, 0x63, 0xb8, 0xbb, 0xad, 0x2e, 0x73, 0x7f, 0x5e, 0x76, 0x5a, 0x7b, 0xcc, 0xd4, 0x75};
    static const uint32_t out[4] = {20, 32, 48, 64}, in[6] = {0, 3, 128, 129, 255, 1024};
    uint8_t text[1024], key[64], hash[64];
    str     all = {0};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 6; k++) {
            t_base_fill(text, in[k]);
            t_base_fill(key, out[i]);
            for (int keyed = 0; keyed < 2; keyed++) {
                bytes__blake2b((bytes){key, keyed ? out[i] : 0}, (bytes){text, in[k]}, hash, out[i]);
                str_add(&all, hash, out[i]);
            }
        }
    bytes__blake2b((bytes){0}, str_bytes(&all), hash, 32);
    EQ_MEM(hash, want, 32);
    str_drop(&all);
    const digest d = bytes_digest((bytes){0}, bytes_of("abc"));      /* b2sum -l 128 */
    CHECK(d.a == 0xcf4ab791c62b8d2b && d.b == 0x2109c90275287816 && digest_eq(d, d));
    CHECK(!digest_eq(d, (digest){d.a, 0}) && !digest_eq(d, (digest){0, d.b}));
}

/* --- rng --- */

static void t_base_rng(void) {
    enum { SIDE = 16, N = SIDE * SIDE * SIDE * SIDE };
    static uint64_t all[N];
    const uint64_t  M = UINT64_MAX;
    /* from a second implementation (python); a text depends on these, so they never change */
    CHECK(rng_at(0, 0, 0, 0) == 0x2130748aaac80268u && rng_at(1, 2, 3, 4) == 0xd55ccd4aeb3ccafbu);
    CHECK(rng_at(M, M, M, M) == 0x9c666618c8f279d7u && rng_at(0xdeadbeef, 0, 1000, 1) == 0xe7a1607b113da6b0u);
    for (uint64_t i = 0; i < N; i++)
        all[i] = rng_at(i % SIDE, i / SIDE % SIDE, i / SIDE / SIDE % SIDE, i / SIDE / SIDE / SIDE);
    qsort(all, N, sizeof *all, t_base_cmp64);
    for (int i = 1; i < N; i++) CHECK(all[i] != all[i - 1]);   /* all neighbours, all orders of the same four numbers */
    CHECK(rng_unit(0) == 0 && rng_unit(M) == 1 - 0x1p-53 && rng_unit((uint64_t)1 << 63) == 0.5);
    CHECK(rng_fresh() <= UINT32_MAX && (rng_fresh() != rng_fresh() || rng_fresh() != rng_fresh()));
}

static void t_base_rng_flat(void) {
    enum { N = 1 << 17, BINS = 256 };
    static const char *const axis[] = {"seed", "sequence", "position", "draw"};
    static uint32_t          one[BINS], pair[BINS], low[BINS];
    for (int a = 0; a < 4; a++) {                     /* three fixed, one counting */
        double last = 0, sum = 0;
        memset(one, 0, sizeof one);
        memset(pair, 0, sizeof pair);
        memset(low, 0, sizeof low);
        for (uint64_t i = 0; i < N; i++) {
            uint64_t k[4] = {42, 0, 7, 0};
            k[a] = i;
            const uint64_t bits = rng_at(k[0], k[1], k[2], k[3]);
            const double   u = rng_unit(bits);
            CHECK(u >= 0 && u < 1);
            one[(int)(u * BINS)]++;
            pair[(int)(last * 16) * 16 + (int)(u * 16)]++;   /* a value and the one before */
            low[bits & 255]++;
            sum += u;
            last = u;
        }
        T_BASE_FLAT(one, BINS, axis[a]);
        T_BASE_FLAT(pair, BINS, axis[a]);
        T_BASE_FLAT(low, BINS, axis[a]);
        NEAR(sum / N, 0.5, 5 * sqrt(1.0 / 12 / N));    /* five deviations of the mean */
    }
    for (int bit = 0; bit < 64; bit++) {              /* one bit of one key turns about half of the result */
        double turned[4] = {0};
        for (uint64_t i = 0; i < 500; i++) {
            const uint64_t base = rng_at(i, i + 1, i + 2, i + 3), flip = (uint64_t)1 << bit;
            turned[0] += __builtin_popcountll(base ^ rng_at(i ^ flip, i + 1, i + 2, i + 3));
            turned[1] += __builtin_popcountll(base ^ rng_at(i, (i + 1) ^ flip, i + 2, i + 3));
            turned[2] += __builtin_popcountll(base ^ rng_at(i, i + 1, (i + 2) ^ flip, i + 3));
            turned[3] += __builtin_popcountll(base ^ rng_at(i, i + 1, i + 2, (i + 3) ^ flip));
        }
        for (int a = 0; a < 4; a++) NEAR(turned[a] / 500, 32, 5 * 4 / sqrt(500));   /* 64 coins: deviation 4 */
    }
}

static void t_base_clock(void) {
    double last = clock_now(), start = last;
    for (int i = 0; i < 1000; i++) {
        double now = clock_now();
        CHECK(now >= last);
        last = now;
    }
    usleep(20000);
    CHECK(clock_now() - start >= 0.02);               /* seconds */
}

/* --- output files --- */

static unsigned t_base_mode(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 ? st.st_mode & 07777 : 0;
}

/* A file is created for its owner alone and gets the mode of what it replaces while it is empty; a new one has that of any new
 * file. What stands there already is not opened. */
static void t_base_create(void) {
    static const struct { unsigned like, umask; const char *calls; } rows[] = {
        {0600, 022, ""}, {0644, 022, "600>644 "}, {0640, 077, "600>640 "}, {0666, 022, "600>666 "}, {0400, 022, "600>400 "},
        {0604, 0777, "0>604 "}, {06755, 022, "600>755 "},
    };
    char         path[64], link[80];
    struct stat  st = {.st_uid = geteuid(), .st_gid = getegid()};
    const mode_t was = umask(0);
    snprintf(path, sizeof path, "build/t_base.%d.create", (int)getpid());
    snprintf(link, sizeof link, "%s.link", path);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        umask(rows[i].umask);
        st.st_mode = S_IFREG | rows[i].like;
        t_calls();
        int fd = out_create(path, O_WRONLY, &st);
        CHECKF(fd >= 0, "row %zu: %s", i, strerror(errno));
        T_CALLED(rows[i].calls);
        EQ_INT(t_base_mode(path), rows[i].like & 0777);
        CHECK(out_create(path, O_WRONLY, &st) < 0 && errno == EEXIST);
        out_sweep();                                  /* a run that ends early */
        CHECK(access(path, F_OK) != 0);
        close(fd);
        fd = out_create(path, O_WRONLY, NULL);
        EQ_INT(t_base_mode(path), 0666 & ~rows[i].umask);
        CHECK(symlink(path, link) == 0 && out_create(link, O_WRONLY, &st) < 0 && errno == EEXIST);
        unlink(link);
        out_settle(path, false);
        close(fd);
    }
    umask(was);
}

/* In a child without rights: a file of root. Its owner cannot be kept, nor its group: members of the new one are as all others. */
static void t_base_not_mine(int mode) {
    char              path[64];
    const struct stat st = {.st_mode = S_IFREG | (mode_t)mode};
    snprintf(path, sizeof path, "/tmp/t_base.%d.other", (int)getpid());
    if (setgroups(0, NULL) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)) _exit(1);
    const int      fd = out_create(path, O_WRONLY, &st);
    const unsigned got = t_base_mode(path);
    out_sweep();
    _exit(fd < 0 ? 2 : (int)got & 077);
}

/* The owner and the group of what is replaced are kept where this process may give them. */
static void t_base_owner(void) {
    static const struct { int mode, left; } rows[] = {{0640, 0}, {0660, 0}, {0644, 044}, {0664, 044}, {0666, 066}, {0604, 004}};
    char        said[200], path[64];
    struct stat st = {.st_mode = S_IFREG | 0640, .st_uid = 12345, .st_gid = 54321}, now;
    if (geteuid() != 0) SKIP("needs root");
    snprintf(path, sizeof path, "build/t_base.%d.owner", (int)getpid());
    const int fd = out_create(path, O_WRONLY, &st);
    CHECKF(fd >= 0 && fstat(fd, &now) == 0, "%s", strerror(errno));
    EQ_INT(now.st_uid, 12345);
    EQ_INT(now.st_gid, 54321);
    EQ_INT(now.st_mode & 07777, 0640);
    close(fd);
    out_settle(path, false);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        EQ_INT(t_base_child(t_base_not_mine, rows[i].mode, said, sizeof said), rows[i].left);
}

/* A file gets its name when its bytes are on disk, and then the name goes there too. */
static void t_base_replace(void) {
    char tmp[64], path[64], *got;
    snprintf(tmp, sizeof tmp, "build/t_base.%d.tmp", (int)getpid());
    snprintf(path, sizeof path, "build/t_base.%d.path", (int)getpid());
    for (int i = 0; i < 2; i++) {
        const int fd = out_create(tmp, O_WRONLY, NULL);
        CHECK(write(fd, i ? "new" : "old", 3) == 3);
        t_calls();
        CHECK(out_replace(fd, tmp, path));
        T_CALLED("file name folder ");
        close(fd);
        out_sweep();
        CHECK(access(tmp, F_OK) != 0);
        got = t_read(path, NULL);
        EQ_STR(got, i ? "new" : "old");
        mem_free(got);
    }
    unlink(path);
    const int fd = open(".", O_RDONLY | O_DIRECTORY);   /* a name without a folder */
    CHECK(fd >= 0 && !out_replace(fd, "build/none.tmp", "none") && errno == ENOENT && out_sync_folder("none"));
    close(fd);
}

static const t_case t_base_cases[] = {
    {"base err", "the first error stays, complete or cut", t_base_err},
    {"base end", "one line on stderr and the right exit code; -q silences all but errors", t_base_end},
    {"base mem", "allocation while frozen and sizes beyond 64 bits end with exit 3", t_base_mem},
    {"base bytes", "views are compared by length and content", t_base_bytes},
    {"base hash", "similar keys are spread over a table", t_base_hash},
    {"base str", "a text grows like its plain copy, with a NUL after it", t_base_str},
    {"base json", "any bytes become a JSON string of whole characters", t_base_json},
    {"base scan", "one value of JSON is told from none and from the beginning of one, within a depth and an amount of work", t_base_scan},
    {"base unquote", "escapes of JSON strings, strictly or as models write them", t_base_unquote},
    {"base member", "the last member of a name is found in whatever has the shape of an object", t_base_member},
    {"base writer", "a JSON text has its commas and lines", t_base_writer},
    {"base csv", "fields of CSV are quoted where necessary, and valid UTF-8", t_base_csv},
    {"base base64", "bytes as base64 of RFC 4648, padded, and back", t_base_base64},
    {"base fit", "a progress line is cut to the number of columns, between characters", t_base_fit},
    {"base left", "the time left in minutes or hours, after the first second", t_base_left},
    {"base kind", "files of other kinds are recognised by their magic, texts are not", t_base_kind},
    {"base utf8", "characters and their beginnings are those of RFC 3629", t_base_utf8},
    {"base visible", "no character that could steer a terminal, and no byte of none, is shown as it is; pieces give the same as the whole", t_base_visible},
    {"base acting", "characters that act unseen are replaced where they are shown and escaped in JSON, no others are", t_base_acting},
    {"base digest", "digests are those of RFC 7693", t_base_digest},
    {"base rng", "values are fixed, and no two keys give the same one", t_base_rng},
    {"base rng flat", "uniform along each of its four keys", t_base_rng_flat},
    {"base create", "a file has the mode of what it replaces before it has a byte, a new one that of any new file", t_base_create},
    {"base owner", "a file keeps the owner and group of what it replaces, or is open to nobody else", t_base_owner},
    {"base replace", "bytes, name and folder go to the disk in this order", t_base_replace},
    {"base clock", "time moves forward, in seconds", t_base_clock},
};
static const t_suite t_base_suite = SUITE(t_base_cases);
