/* ===== [lines] reader of long files =====
 * Reads a file, a pipe or standard input line by line and keeps one line in memory.
 *   A shard is a part of a file's lines. Lines whose prompts begin alike form a group, of at most LINES_GROUP
 * lines, and stay together.
 *   Invariant: memory is bounded by the longest line allowed and, with a shard, by LINES_GROUPS groups.
 * Public: lines_open, lines_from_fd, lines_next, lines_close, lines_shard_parse, lines_shard_is_mine,
 * lines_shard_drop.
 * Opens: lines_in.borrowed, lines_in.complete, lines_in.fd, lines_in.no, lines_in.stream. */

enum {
    LINES_CHUNK = 1 << 18,                            /* bytes of one read */
    LINES_KEEP = 1 << 20,                             /* bytes of buffer that stay after a long line */
    LINES_PAUSE = 100,                                /* milliseconds between two looks at g_interrupt */
    LINES_PATIENCE = 10,                              /* pauses before the message that the stream is waited for */
    LINES_ENDLESS = 64,                               /* a line of a stream may be this many times too long */
    LINES_HEAD = 4096,                                /* bytes that are kept of a line over the bound */
    LINES_ALIKE = 256,                                /* first bytes of a prompt that decide its group */
    LINES_GROUP = 64,                                 /* lines of a group */
    LINES_GROUPS = 1 << 20,                           /* groups open at a time */
    LINES_SHARDS = 1 << 20,                           /* shards of a file at most */
};

/* --- the reader --- */

typedef enum {
    LINES_LINE,
    LINES_END,
    LINES_LATER,                                      /* nothing to read yet, or a signal asks to stop */
    LINES_LONG,                                       /* a line over the bound: its first bytes; the rest was skipped */
    LINES_FAILED
} lines_got;

typedef struct {
    const char *name;                                 /* in errors: a path, or standard input */
    int         fd;
    bool        borrowed;                             /* the caller closes fd */
    bool        stream;                               /* no regular file: it may pause or never end */
    int         pauses;                               /* since the last bytes */
    uint64_t    size;                                 /* bytes of a regular file, else 0 */
    uint64_t    most;                                 /* bytes of a line */
    uint8_t    *buf;                                  /* [cap] */
    size_t      cap;                                  /* bytes of buf */
    size_t      from;                                 /* of the first byte that was not returned yet */
    size_t      to;                                   /* after the last byte that was read */
    size_t      seen;                                 /* bytes at `from` without a newline */
    uint64_t    passed;                               /* bytes of the line at `from` that were dropped */
    uint64_t    next;                                 /* offset of that line in the file */
    bool        begun;                                /* past any byte order mark */
    bool        ended;                                /* past the last byte */
    uint64_t    no;                                   /* number of the last line, from 1; 0: none yet */
    uint64_t    at;                                   /* its offset in the file */
    uint64_t    n_bytes;                              /* its bytes without its ending */
    bool        complete;                             /* it had a newline */
    uint8_t     head[LINES_HEAD];                     /* of a line over the bound, whose bytes are dropped */
} lines_in;

/* Frees the reader; NULL is none. */
static void lines_close(lines_in *in) {
    if (!in) return;
    if (!in->borrowed) close(in->fd);
    mem_free(in->buf);
    mem_free(in);
}

/* A reader of a descriptor, as lines_open() gives one of a file; `name` is kept. */
static lines_in *lines_from_fd(int fd, bool borrowed, const char *name, uint64_t most, err_t *e) {
    lines_in   *in = mem_new(1, sizeof *in);
    struct stat st;
    *in = (lines_in){.name = name, .fd = fd, .borrowed = borrowed, .stream = true};
    in->most = min_u64(most, SIZE_MAX / 4);
    if (fstat(fd, &st)) err_set(e, err_code_of(errno), "%s: %s", name, strerror(errno));
    else if (S_ISDIR(st.st_mode))
        err_set(e, EXIT_INPUT, "%s: is a directory, expected a file of lines", name);
    else if (isatty(fd)) err_set(e, EXIT_INPUT, "%s: is a terminal, expected a file or a pipe", name);
    else if (S_ISREG(st.st_mode)) in->stream = false, in->size = (uint64_t)st.st_size;
    if (!e->code) return in;
    lines_close(in);
    return NULL;
}

/* path "-": standard input. most: bytes of the longest line that is returned. Does not wait for a named pipe;
 * lines_next() does. On failure NULL, and e is set. */
static lines_in *lines_open(const char *path, uint64_t most, err_t *e) {
    if (strcmp(path, "-") == 0) return lines_from_fd(STDIN_FILENO, true, "standard input", most, e);
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0) return lines_from_fd(fd, false, path, most, e);
    err_set(e, err_code_of(errno), "%s: %s", path, strerror(errno));
    return NULL;
}

/* Whether a read would not block. With `wait` it waits, in short pauses: a signal may arrive just before poll(). */
static bool lines__ready(lines_in *in, bool wait) {
    struct pollfd p = {.fd = in->fd, .events = POLLIN};
    do {
        if (g_interrupt) return false;
        int n = in->stream ? poll(&p, 1, wait ? LINES_PAUSE : 0) : 1;
        if (n > 0 || (n < 0 && errno != EINTR)) return true;   /* the read reports an error */
        if (wait && n == 0 && ++in->pauses == LINES_PATIENCE) log_warn("waiting for %s", in->name);
    } while (wait);
    return false;
}

/* Makes space for one read, and shrinks a buffer that a long line has left. */
static void lines__make_space(lines_in *in) {
    size_t n = in->to - in->from;
    if (in->from && n) memmove(in->buf, in->buf + in->from, n);
    in->from = 0;
    in->to = n;
    size_t cap = in->cap > LINES_KEEP && n <= LINES_CHUNK ? LINES_KEEP : in->cap;
    if (cap - n < LINES_CHUNK) {
        size_t most = (size_t)in->most + 2 * (size_t)LINES_CHUNK;
        cap = max_size(min_size(cap * 2, most), n + LINES_CHUNK);
    }
    if (cap == in->cap) return;
    in->buf = mem_grow(in->buf, cap, 1);
    in->cap = cap;
}

/* One read. LINES_LINE: there are more bytes now, or `ended` is set. */
static lines_got lines__fill(lines_in *in, bool wait, err_t *e) {
    for (;;) {
        if (!lines__ready(in, wait)) return LINES_LATER;
        lines__make_space(in);
        ssize_t got = read(in->fd, in->buf + in->to, LINES_CHUNK);
        if (got >= 0) {
            in->to += (size_t)got;
            in->ended = got == 0;
            return LINES_LINE;
        }
        if (errno == EINTR) continue;
        if (errno == EAGAIN && wait) continue;
        if (errno == EAGAIN) return LINES_LATER;
        err_set(e, err_code_of(errno), "%s: cannot read at byte %llu: %s", in->name,
                (unsigned long long)(in->next + in->passed + (in->to - in->from)), strerror(errno));
        return LINES_FAILED;
    }
}

/* Skips a byte order mark at the beginning. False: too few bytes to decide. */
static bool lines__skip_mark(lines_in *in) {
    static const uint8_t mark[3] = {0xef, 0xbb, 0xbf};
    if (in->begun) return true;
    size_t n = min_size(in->to - in->from, sizeof mark);
    bool   like = n == 0 || memcmp(in->buf + in->from, mark, n) == 0;
    if (like && n < sizeof mark && !in->ended) return false;
    if (like && n == sizeof mark) in->from += n, in->next += n;
    return in->begun = true;
}

/* Keeps the first bytes of the line at `from`, which is over the bound: `most` of them or LINES_HEAD. */
static bytes lines__keep_head(lines_in *in) {
    const size_t n = (size_t)min_u64(in->most, LINES_HEAD);
    if (!in->passed) memcpy(in->head, in->buf + in->from, n);
    return (bytes){in->head, n};
}

/* Returns the n bytes at `from`, which are the rest of a line. */
static lines_got lines__end_line(lines_in *in, size_t n, bool newline, bytes *line, uint64_t *no) {
    const uint8_t *p = in->buf + in->from;
    const size_t   all = n + newline;
    if (newline && n && p[n - 1] == '\r') n--;
    in->at = in->next;
    in->n_bytes = in->passed + n;
    const bool is_long = in->n_bytes > in->most;
    *line = is_long ? lines__keep_head(in) : (bytes){p, n};
    in->next += in->passed + all;
    in->from += all;
    in->seen = 0;
    in->complete = newline;
    in->passed = 0;
    *no = ++in->no;
    return is_long ? LINES_LONG : LINES_LINE;
}

/* Drops the bytes of a line that is too long already, except the last one: it may belong to the ending. False:
 * the line of a stream does not end, and e is set. */
static bool lines__skip_long(lines_in *in, err_t *e) {
    size_t n = in->to - in->from;
    if (n > in->most + 1 || (in->passed && n > 1)) {
        lines__keep_head(in);
        in->passed += n - 1;
        in->from = in->to - 1;
    }
    in->seen = in->to - in->from;
    if (!in->stream || in->passed / LINES_ENDLESS <= in->most + LINES_CHUNK) return true;
    return err_set(e, EXIT_INPUT, "%s: line %llu has %llu bytes and has not ended, expected at most %llu",
                   in->name, (unsigned long long)in->no + 1, (unsigned long long)in->passed,
                   (unsigned long long)in->most);
}

/* The next line, without its ending (LF or CR LF), and its number, 1 for the first. It is valid until the next
 * call. Of a line over the bound it has the first bytes; in->n_bytes is its length. wait: waits for a pipe.
 * LINES_FAILED: e is set. */
static lines_got lines_next(lines_in *in, bool wait, bytes *line, uint64_t *no, err_t *e) {
    *line = (bytes){0};
    for (;;) {
        if (lines__skip_mark(in)) {
            size_t n = in->to - in->from;
            if (n > in->seen) {
                const uint8_t *at = in->buf + in->from, *end = memchr(at + in->seen, '\n', n - in->seen);
                if (end) return lines__end_line(in, (size_t)(end - at), true, line, no);
            }
            if (in->ended && !n) return LINES_END;
            if (in->ended) return lines__end_line(in, n, false, line, no);
            if (!lines__skip_long(in, e)) return LINES_FAILED;
        }
        lines_got got = lines__fill(in, wait, e);
        if (got != LINES_LINE) return got;
    }
}

/* --- shards --- */

typedef struct {
    uint32_t     i;                                   /* this shard is number i, from 1 */
    uint32_t     n;                                   /* of n */
    uint64_t     n_group;                             /* groups so far */
    hmap         open;                                /* hash of the beginning of a prompt -> group << 8 | its lines */
} lines_shard;

static bool lines__read_number(const char **s, uint32_t *out) {
    uint64_t    v = 0;
    const char *p = *s;
    for (; *p >= '0' && *p <= '9' && v <= LINES_SHARDS; p++) v = v * 10 + (uint64_t)(*p - '0');
    bool ok = p > *s && v >= 1 && v <= LINES_SHARDS;
    *s = p;
    *out = (uint32_t)v;
    return ok;
}

/* Reads "2/8", the second of eight shards. On failure e is set. */
static bool lines_shard_parse(const char *text, lines_shard *s, err_t *e) {
    const char *p = text;
    *s = (lines_shard){0};
    if (!lines__read_number(&p, &s->i) || *p++ != '/' || !lines__read_number(&p, &s->n) || *p || s->i > s->n)
        return err_set(e, EXIT_INPUT, "--shard: expected auto or I/N, part I of N (1/8 to 8/8), found '%.100s'",
                       text);
    hmap_init(&s->open, 0);
    return true;
}

/* Frees what lines_shard_parse() has allocated; the empty shard has nothing. */
static void lines_shard_drop(lines_shard *s) {
    hmap_drop(&s->open);
    *s = (lines_shard){0};
}

/* Whether the next line of the file belongs to this shard; to be called once for every line, in order. Groups are
 * numbered in order of their first lines and assigned to the shards in turn. Where LINES_GROUPS are open all are
 * closed; every shard does so at the same line. */
static bool lines_shard_is_mine(lines_shard *s, bytes prompt) {
    if (prompt.n > LINES_ALIKE) prompt.n = LINES_ALIKE;
    if (s->open.n >= LINES_GROUPS) {
        memset(s->open.at, 0, s->open.cap * sizeof *s->open.at);
        s->open.n = 0;
    }
    hmap_entry *en = hmap_add(&s->open, bytes_hash(0, prompt) | 1, 0);
    if ((en->b & 0xff) % LINES_GROUP == 0) en->b = s->n_group++ << 8;
    en->b++;
    return (en->b >> 8) % s->n == s->i - 1;
}
