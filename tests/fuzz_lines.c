/* Fuzzes the files of a batch: the bytes are an input under several bounds, results to resume, their header, and the text of a
 * shard. Lines are those of a plain split, and a refusal has an error text. */
#include "program.h"

/* The input as a file without a name, read from its beginning. */
static int fz_file(const uint8_t *data, size_t n) {
    int fd = memfd_create("FILE", MFD_CLOEXEC);
    ASSERT(fd >= 0 && (!n || write(fd, data, n) == (ssize_t)n) && lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

/* Compares every line with the bytes at its offset; together the lines are the whole input. */
static void fz_reader(const uint8_t *data, size_t n, uint64_t most) {
    err_t     e = {0};
    lines_in *in = lines_from_fd(fz_file(data, n), false, "FILE", most, &e);
    uint64_t  at = n >= 3 && !memcmp(data, "\xef\xbb\xbf", 3) ? 3 : 0, no, last = 0;
    bytes     line;
    lines_got got;
    ASSERT(in);
    while ((got = lines_next(in, true, &line, &no, &e)) != LINES_END) {
        ASSERT(in->at == at && no == ++last && (got == LINES_LONG ? in->n_bytes > most : got == LINES_LINE));
        const uint8_t *end = memchr(data + at, '\n', n - at);
        ASSERT(in->complete == (end != NULL));
        size_t all = end ? (size_t)(end - data - (ptrdiff_t)at) : (size_t)(n - at), own = all;
        if (end && own && data[at + own - 1] == '\r') own--;
        const size_t some = got == LINES_LONG ? (size_t)(most < LINES_HEAD ? most : LINES_HEAD) : own;
        ASSERT(in->n_bytes == own && line.n == some && (!some || !memcmp(line.p, data + at, some)));
        at += all + (end != NULL);
    }
    ASSERT(at == n && !e.code);
    lines_close(in);
}

/* A name in a folder of this process, in memory where fsync() costs nothing: where lines are damaged, the file is written anew
 * and another one beside it. */
static char fz_folder[32], fz_name[48], fz_stale[64];

static void fz_leave(void) { rmdir(fz_folder); }

static void fz_enter(void) {
    if (fz_folder[0]) return;
    snprintf(fz_folder, sizeof fz_folder, "%s/llmrun-fuzz-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    ASSERT(mkdtemp(fz_folder) && !atexit(fz_leave));
    snprintf(fz_name, sizeof fz_name, "%s/FILE", fz_folder);
    snprintf(fz_stale, sizeof fz_stale, "%s.stale", fz_name);
}

static void fz_results(const uint8_t *data, size_t n) {
    fz_enter();
    results r = {.name = fz_name, .fd = fz_file(data, n), .file = true};
    err_t   e = {0};
    hmap_init(&r.by_key, 0);
    bool        ok = results__resume(&r, &e);
    struct stat st;
    ASSERT(fstat(r.fd, &st) == 0 && ok == !e.code && (size_t)st.st_size <= 3 * n);   /* U+FFFD for a byte that is no UTF-8 */
    uint8_t last = '\n';                               /* of what is left: damaged lines are gone */
    ASSERT(!st.st_size || pread(r.fd, &last, 1, st.st_size - 1) == 1);
    if (ok) ASSERT(last == '\n' || (st.st_size == 3 && data[0] == 0xef));        /* a mark */
    else
        ASSERT(e.code == EXIT_INPUT && !strncmp(e.text, fz_name, strlen(fz_name)) &&
               !strncmp(e.text + strlen(fz_name), ": byte ", 7) && (size_t)st.st_size == n);
    for (size_t i = 0; i < r.n_old; i++) {            /* each record is found by what it says of its line */
        const results__old o = r.old[i];
        ASSERT(results_use_old(&r, o.file, o.line, (results_line){o.digest, o.digest.a}, o.by_id));
        str   record = {0}, id = {0};
        err_t none = {0};
        ASSERT(results__fetch(r.fd, fz_name, o.at, o.n, &record, &none));
        results__renumber(&record, UINT64_MAX, &id);
        results__repair(&record);
        results__record h;
        ASSERT(results__read(str_bytes(&record), &h, &id) && h.line == UINT64_MAX && digest_eq(h.digest, o.digest) && h.old == o.old &&
               utf8_whole(str_bytes(&record)));
        results__choices(&record, &id);
        str_drop(&record);
        str_drop(&id);
    }
    close(r.fd);
    unlink(fz_name);
    unlink(fz_stale);
    mem_free(r.by_key.at);
    mem_free(r.old);
}

static void fz_header(bytes b) {
    err_t e = {0};
    bytes settings, value;
    if (!results__header_read(b, "FILE", &settings, &e)) {
        ASSERT(e.code == EXIT_INPUT && !strncmp(e.text, "FILE: byte ", 11));
        return;
    }
    ASSERT(!e.code && settings.n < b.n);
    results__find(settings, bytes_of("seed"), &value);
    bytes all = settings, line, own;
    bool  once = true;                                /* a name that comes twice has one value, the first */
    while (results__next_line(&all, &line))
        once = once && results__find(settings, results__name(line), &value) &&
               results__is_setting(line, results__name(line), &own) && bytes_eq(value, own);
    ASSERT(results__same_settings("FILE", settings, settings, &e) == once);
}

static void fz_shard(bytes b) {
    lines_shard s;
    err_t       e = {0};
    char        text[32];
    snprintf(text, sizeof text, "%.*s", (int)(b.n < 31 ? b.n : 31), b.n ? (const char *)b.p : "");
    if (!lines_shard_parse(text, &s, &e)) {
        ASSERT(e.code == EXIT_INPUT);
        return;
    }
    ASSERT(s.i >= 1 && s.i <= s.n);
    lines_shard_drop(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    g_log_level = LOG_QUIET;
    fz_reader(data, n, 0);
    fz_reader(data, n, 7);
    fz_reader(data, n, 1 << 30);
    fz_results(data, n);
    fz_header((bytes){data, n});
    fz_shard((bytes){data, n});
    return 0;
}
