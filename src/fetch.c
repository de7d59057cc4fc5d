/* ===== [fetch] downloads from a hub, through libcurl =====
 * Asks a hub for the list of a repository's files, downloads those of one model into the cache and gives them their names there.
 * libcurl is opened when it is needed; the few functions and numbers of it that are used stand here, as its headers may be
 * missing. The bytes of strangers are read in a process of its own, which can reach the network, but writes to the cache alone,
 * starts no programs, and reads only what libraries need.
 * Invariants: a file has its name only when its size and its SHA-256 are those of the list (of files that git has itself, its
 * SHA-1) and all of it is on disk; the config.json of a checkpoint, which makes a folder a model, gets its name last; what came
 * before an interruption stays in SHA256.incomplete and is not asked for again; the token goes to the host of the hub alone;
 * one run at a time downloads a file, under the lock that Hugging Face's tools use too.
 *   One download: fetch_model. In it: the list, page by page; for each file the lock, what is there already, a request for the
 * rest, the sum, the name; then links and the commit. Of a checkpoint the index comes before the weights that it names.
 * Public: fetch_model, fetch_library.
 * Opens: fetch_opts. */

typedef struct {
    const char *repo, *file;                          /* -hf, --hf-file; NULL: not given */
    const char *draft;                                /* the same for a draft model */
    const char *token;                                /* NULL: that of Hugging Face's tools, if there is one */
    bool        offline;                              /* connect to nothing */
} fetch_opts;

enum {
    FETCH_PAGE_MOST = 32 << 20,                       /* bytes of a page of a list */
    FETCH_PAGES_MOST = 200,                           /* of a list */
    FETCH_HOPS = 10,                                  /* redirects of a request */
    FETCH_TRIES = 5,                                  /* requests in a row that bring nothing */
    FETCH_STALL_S = 30,                               /* seconds without a byte, after which a request is made again */
    FETCH_OTHER_MOST = 1 << 20,                       /* bytes of an answer that is not wanted */
    FETCH_TOKEN_MOST = 4096,
};

/* --- libcurl: what is used of curl/curl.h, whose numbers never change --- */

typedef struct {
    int         (*global)(long);
    void       *(*init)(void);
    int         (*set)(void *, int, ...);
    int         (*perform)(void *);
    int         (*info)(void *, int, ...);
    void        (*cleanup)(void *);
    const char *(*error)(int);
    void       *(*add)(void *, const char *);
    void        (*free)(void *);
    const char *(*version)(void);
} fetch__lib;

static const struct {
    const char *name;
    size_t      at;
} fetch__lib_names[] = {
    {"curl_global_init", offsetof(fetch__lib, global)},   {"curl_easy_init", offsetof(fetch__lib, init)},
    {"curl_easy_setopt", offsetof(fetch__lib, set)},      {"curl_easy_perform", offsetof(fetch__lib, perform)},
    {"curl_easy_getinfo", offsetof(fetch__lib, info)},    {"curl_easy_cleanup", offsetof(fetch__lib, cleanup)},
    {"curl_easy_strerror", offsetof(fetch__lib, error)},  {"curl_slist_append", offsetof(fetch__lib, add)},
    {"curl_slist_free_all", offsetof(fetch__lib, free)},  {"curl_version", offsetof(fetch__lib, version)},
};

enum {                                                /* CURLOPT_: long, pointer, function */
    FETCH_LOW_SPEED = 19, FETCH_LOW_TIME = 20, FETCH_NO_PROGRESS = 43, FETCH_NO_BODY = 44, FETCH_FOLLOW = 52,
    FETCH_CONNECT_S = 78, FETCH_HTTP_GET = 80, FETCH_NO_SIGNAL = 99, FETCH_PROTOCOLS = 181, FETCH_ALIVE = 213,
    FETCH_NO_PROXY_HEADS = 265,
    FETCH_BODY_TO = 10001, FETCH_URL = 10002, FETCH_RANGE = 10007, FETCH_WHY = 10010, FETCH_AGENT = 10018,
    FETCH_FIELDS = 10023, FETCH_HEAD_TO = 10029, FETCH_PROGRESS_TO = 10057, FETCH_CA = 10065,
    FETCH_ON_BODY = 20011, FETCH_ON_HEAD = 20079, FETCH_ON_PROGRESS = 20219,
};
enum { FETCH_GLOBAL_ALL = 3, FETCH_HTTP = 1, FETCH_HTTPS = 2, FETCH_NEXT_URL = 0x100000 + 31 };     /* CURLINFO_REDIRECT_URL */

/* False: libcurl is not on this machine, or was left out of the build. */
static bool fetch__load(fetch__lib *lib) {
    static const char *const files[] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl-nss.so.4", "libcurl.so"};
    void                    *so = NULL;
    bool                     all = true;
    for (size_t i = 0; LLMRUN_HUB && !so && i < sizeof files / sizeof *files; i++) so = sandbox_library(files[i]);
    for (size_t i = 0; so && i < sizeof fetch__lib_names / sizeof *fetch__lib_names; i++) {
        void *f = dlsym(so, fetch__lib_names[i].name);
        memcpy((char *)lib + fetch__lib_names[i].at, &f, sizeof f);
        all = all && f;
    }
    return so && all;
}

/* The libcurl of this machine, for --version. */
static const char *fetch_library(void) {
    static char text[64];
    fetch__lib  lib;
    if (!fetch__load(&lib)) return LLMRUN_HUB ? "not found, -hf runs what is in the cache" : "left out (HUB=0)";
    snprintf(text, sizeof text, "%.*s", (int)strcspn(lib.version(), " "), lib.version());
    return text;
}

/* --- one request --- */

/* A file on its way into the cache. */
typedef struct {
    const hub_file *what;
    int             fd;                               /* of SHA256.incomplete */
    uint64_t        have;                             /* its bytes, which `sum` has taken */
    sha             sum;
    bool            begun;                            /* this answer has brought bytes */
    int             why;                              /* errno of a failed write */
    const char     *wrong;                            /* what is wrong with the answer; NULL: nothing */
    double          since;                            /* clock_now() at the beginning */
    uint64_t        from;                             /* bytes that were there then */
} fetch__file;

typedef struct {
    fetch__lib      lib;
    void           *curl;
    const hub_name *name;
    str             root;                             /* of the cache */
    str             endpoint;                         /* of the hub, without a slash at its end */
    str             token;                            /* empty: none */
    const char     *token_from;                       /* where it comes from, in errors */
    str             spelled;                          /* the name of the model, in messages */
    /* the answer to the last request */
    int             status;                           /* of its last hop; 0: none */
    bool            at_hub;                           /* this hop goes to the hub */
    str             commit;                           /* X-Repo-Commit; empty: none */
    str             etag;                             /* X-Linked-Etag, else an ETag of 40 digits, unquoted; empty: none */
    str             next;                             /* the next page of a list; empty: there is none */
    uint64_t        range_from, range_all;            /* of Content-Range; UINT64_MAX: not given */
    int64_t         retry_s;                          /* Retry-After; -1: not given */
    char            why[256];                         /* libcurl's words for an error */
    size_t          other;                            /* bytes that are not wanted */
    str             text;                             /* the body, where there is no file for it */
    fetch__file    *file;                             /* where the body goes; NULL: into `text` */
} fetch__client;

/* http://HOST:PORT of a URL; empty: it is none that is used here. */
static bytes fetch__origin(bytes url) {
    const bool   tls = url.n > 8 && strncasecmp((const char *)url.p, "https://", 8) == 0;
    const bool   plain = url.n > 7 && strncasecmp((const char *)url.p, "http://", 7) == 0;
    size_t       n = tls ? 8 : 7;
    if (!tls && !plain) return (bytes){0};
    while (n < url.n && !memchr("/?#", url.p[n], 3)) n++;
    return n > (tls ? 8u : 7u) ? bytes_slice(url, 0, n) : (bytes){0};
}

/* Whether two URLs lead to the same host and port by the same protocol. */
static bool fetch__same_origin(bytes a, bytes b) {
    a = fetch__origin(a), b = fetch__origin(b);
    return a.n && a.n == b.n && strncasecmp((const char *)a.p, (const char *)b.p, a.n) == 0;
}

/* The host of the hub, for messages. */
static const char *fetch__host(const fetch__client *c) { return strchr(c->endpoint.p, '/') + 2; }

/* A whole number at the beginning of a text; UINT64_MAX: there is none. */
static uint64_t fetch__number(bytes *b) {
    uint64_t n = 0;
    size_t   i = 0;
    for (; i < b->n && isdigit(b->p[i]); i++)
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, b->p[i] - '0', &n)) return UINT64_MAX;
    *b = bytes_slice(*b, i, b->n);
    return i ? n : UINT64_MAX;
}

/* Content-Range: bytes FIRST-LAST/ALL */
static void fetch__read_range(fetch__client *c, bytes v) {
    const bytes unit = bytes_of("bytes ");
    if (!bytes_begins(v, unit)) return;
    v = bytes_slice(v, unit.n, v.n);
    c->range_from = fetch__number(&v);
    const uint8_t *slash = v.n ? memchr(v.p, '/', v.n) : NULL;
    if (!slash) return;
    v = bytes_slice(v, (size_t)(slash - v.p) + 1, v.n);
    c->range_all = fetch__number(&v);
}

/* Link: <URL>; rel="next", <URL>; rel="last" */
static void fetch__read_link(fetch__client *c, bytes v) {
    for (size_t at = 0, end; (at = bytes_find(v, at, bytes_of("<"))) != SIZE_MAX; at = end) {
        const size_t close = bytes_find(v, at, bytes_of(">"));
        if (close == SIZE_MAX) return;
        end = min_size(bytes_find(v, close, bytes_of(",")), v.n);
        const bytes about = bytes_slice(v, close, end);
        if (bytes_find(about, 0, bytes_of("rel=\"next\"")) == SIZE_MAX && bytes_find(about, 0, bytes_of("rel=next")) == SIZE_MAX)
            continue;
        str_set(&c->next, bytes_slice(v, at + 1, close));
    }
}

/* Reads a line of the head of an answer. */
static void fetch__read_head(fetch__client *c, bytes line) {
    const uint8_t *colon = line.n ? memchr(line.p, ':', line.n) : NULL;
    if (bytes_begins(line, bytes_of("HTTP/"))) {
        const uint8_t *blank = memchr(line.p, ' ', line.n);
        bytes          rest = blank ? bytes_slice(line, (size_t)(blank - line.p) + 1, line.n) : (bytes){0};
        const uint64_t status = fetch__number(&rest);
        c->status = status < 1000 ? (int)status : 0;
        c->range_from = c->range_all = UINT64_MAX;
        c->retry_s = -1;
        str_clear(&c->next);
        return;
    }
    if (!colon) return;
    const bytes name = bytes_slice(line, 0, (size_t)(colon - line.p));
    bytes       value = bytes_trim(bytes_slice(line, name.n + 1, line.n));
    if (http_same(name, "link")) fetch__read_link(c, value);
    else if (http_same(name, "content-range")) fetch__read_range(c, value);
    else if (http_same(name, "retry-after")) {
        const uint64_t s = fetch__number(&value);     /* a date has none */
        c->retry_s = s == UINT64_MAX ? -1 : (int64_t)min_u64(s, 1 << 20);
    } else if (http_same(name, "x-repo-commit") && c->at_hub && !c->commit.n && hub_is_commit(value)) str_cat(&c->commit, value);
    else if (c->at_hub && (http_same(name, "x-linked-etag") || (http_same(name, "etag") && !c->etag.n))) {
        const bytes bare = value.n > 1 && value.p[0] == '"' ? bytes_slice(value, 1, value.n - 1) : value;
        if (name.n > 4 || hub_is_commit(bare)) str_set(&c->etag, bare);
    }
}

static size_t fetch__on_head(char *p, size_t size, size_t n, void *ctx) {
    fetch__read_head(ctx, bytes_trim((bytes){(const uint8_t *)p, size * n}));
    return size * n;
}

/* Whether git has the file itself: its sum is SHA-1 of a line with its size and of its bytes. */
static bool fetch__is_git(const hub_file *f) { return strlen(f->sha) == SHA_1_HEX; }

/* The sum of no bytes of a file. */
static void fetch__begin_sum(sha *sum, const hub_file *f) {
    char      line[32];
    const int n = snprintf(line, sizeof line, "blob %llu", (unsigned long long)f->bytes);
    sha_begin(sum, fetch__is_git(f) ? SHA_1 : SHA_256);
    if (fetch__is_git(f)) sha_add(sum, line, (size_t)n + 1);     /* with its NUL */
}

/* Begins the file anew. False: it cannot be cut. */
static bool fetch__anew(fetch__file *f) {
    fetch__begin_sum(&f->sum, f->what);
    f->have = f->from = 0;
    f->since = clock_now();
    if (out_cut(f->fd, 0) && lseek(f->fd, 0, SEEK_SET) == 0) return true;
    f->why = errno;
    return false;
}

/* The bar of a download on the terminal. */
static void fetch__show(const fetch__file *f) {
    enum { CELLS = 24 };
    static const char cells[] = "########################------------------------";
    const uint64_t    all = f->what->bytes;
    str               has = {0}, of = {0}, rate = {0};
    if (!progress_due()) return;
    const double gone = clock_now() - f->since, got = (double)(f->have - f->from);
    const int    full = all ? (int)((double)f->have / (double)all * CELLS) : CELLS;
    str_size(&has, (double)f->have);
    str_size(&of, (double)all);
    str_size(&rate, gone > 0 ? got / gone : 0);
    progress_show("%s [%.*s] %3.0f%% %s of %s, %s/s%s", str_base_name(f->what->path), CELLS, cells + CELLS - full,
                  all ? 100.0 * (double)f->have / (double)all : 100.0, has.p, of.p, rate.p,
                  progress_left(f->since, got, (double)(all - f->from)).p);
    str_drop_all(&has, &of, &rate);
}

/* The first bytes of an answer: whether they are those that were asked for. A server that has no ranges sends the file from its
 * beginning. */
static bool fetch__begin(fetch__client *c, fetch__file *f) {
    f->begun = true;
    if (c->status == 200) return !f->have || fetch__anew(f);
    if (c->range_from == f->have && (c->range_all == UINT64_MAX || c->range_all == f->what->bytes)) return true;
    f->wrong = c->range_all != UINT64_MAX && c->range_all != f->what->bytes ? "has another size than in the list"
                                                                            : "came from another place than was asked for";
    return false;
}

/* Appends bytes of the body. False: the answer is not what was asked for, or the disk has no place. */
static bool fetch__take(fetch__client *c, fetch__file *f, bytes b) {
    if (!f->begun && !fetch__begin(c, f)) return false;
    if (b.n > f->what->bytes - f->have) {
        f->wrong = "has more bytes than in the list";
        return false;
    }
    while (b.n) {
        const ssize_t n = write(f->fd, b.p, b.n);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            f->why = n ? errno : EIO;
            return false;
        }
        sha_add(&f->sum, b.p, (size_t)n);
        f->have += (uint64_t)n;
        b = bytes_slice(b, (size_t)n, b.n);
    }
    fetch__show(f);
    return true;
}

static size_t fetch__on_body(char *p, size_t size, size_t n, void *ctx) {
    fetch__client *c = ctx;
    const bytes    b = {(const uint8_t *)p, size * n};
    if (c->status != 200 && c->status != 206) return (c->other += b.n) > FETCH_OTHER_MOST ? 0 : b.n;
    if (c->file) return fetch__take(c, c->file, b) ? b.n : 0;
    if (c->text.n + b.n > FETCH_PAGE_MOST) return 0;
    str_cat(&c->text, b);
    return b.n;
}

/* Keeps the progress line alive while no bytes come. */
static int fetch__on_progress(void *ctx, int64_t all_down, int64_t down, int64_t all_up, int64_t up) {
    fetch__client *c = ctx;
    (void)all_down, (void)down, (void)all_up, (void)up;
    if (c->file) fetch__show(c->file);
    return 0;
}

typedef enum { FETCH_DONE, FETCH_AGAIN, FETCH_NO } fetch__end;       /* AGAIN: the same request may succeed */

/* What libcurl's error says to a person. */
static fetch__end fetch__failed(fetch__client *c, int code, const char *url, err_t *e) {
    const bytes  at = fetch__origin(bytes_of(url));
    const char  *text = c->why[0] ? c->why : c->lib.error(code);
    const int    n = (int)min_size(at.n, 120);
    const char  *host = (const char *)at.p;
    switch (code) {
    case 5: case 6:
        err_set(e, EXIT_RESOURCE, "%.*s: no such host: %s (--offline runs what is in the cache)", n, host, text);
        return FETCH_NO;
    case 7:
        err_set(e, EXIT_RESOURCE, "%.*s: cannot connect: %s (--offline runs what is in the cache)", n, host, text);
        return FETCH_NO;
    case 51: case 60:
        err_set(e, EXIT_INPUT, "%.*s: its certificate is not trusted: %s (SSL_CERT_FILE names other authorities; is the clock "
                "right?)", n, host, text);
        return FETCH_NO;
    case 77:
        err_set(e, EXIT_INPUT, "%.*s: no certificates of authorities: %s (Debian: ca-certificates; SSL_CERT_FILE names a file)",
                n, host, text);
        return FETCH_NO;
    case 23:                                          /* of a file fetch__file says more */
        err_set(e, EXIT_INPUT, "%.*s: an answer of more than %d bytes, expected a list of files", n, host, FETCH_PAGE_MOST);
        return FETCH_NO;
    default:
        err_set(e, EXIT_RESOURCE, "%.*s: the connection failed: %s; what is here is kept, run the command again", n, host, text);
        return FETCH_AGAIN;
    }
}

/* What a status of the host to which the hub redirects says. */
static fetch__end fetch__refused_elsewhere(const fetch__client *c, const char *url, const char *what, err_t *e) {
    const bytes at = fetch__origin(bytes_of(url));
    err_set(e, EXIT_RESOURCE, "%s: %.*s, to which %s redirects, answers %d for %s: run the command again", c->name->repo.p,
            (int)min_size(at.n, 120), (const char *)at.p, fetch__host(c), c->status, what);
    return c->status >= 500 || c->status == 408 || c->status == 429 ? FETCH_AGAIN : FETCH_NO;
}

/* What a status says to a person. */
static fetch__end fetch__refused(fetch__client *c, const char *url, const char *what, err_t *e) {
    const char *repo = c->name->repo.p, *host = fetch__host(c);
    if (c->status == 416 && c->file) {
        c->file->wrong = "has another size than in the list";
        return FETCH_NO;
    }
    if (!c->at_hub) return fetch__refused_elsewhere(c, url, what, e);
    switch (c->status) {
    case 401:
        if (c->token.n)
            err_set(e, EXIT_INPUT, "%s: %s refuses the token of %s (401): expected a token of its settings that is valid, and a "
                    "repository that exists", repo, host, c->token_from);
        else if (strstr(url, "/resolve/"))            /* its list was read */
            err_set(e, EXIT_INPUT, "%s: %s gives this file to no one without a token (401): accept its terms at %s/%s, then give "
                    "a token in HF_TOKEN", repo, host, c->endpoint.p, repo);
        else
            err_set(e, EXIT_INPUT, "%s: %s has no such public repository (401): expected another name, or a token in HF_TOKEN if "
                    "it is private", repo, host);
        return FETCH_NO;
    case 403:
        err_set(e, EXIT_INPUT, "%s: %s gives no access (403): accept its terms at %s/%s%s", repo, host, c->endpoint.p, repo,
                c->token.n ? ", with the account of the token" : ", then give a token in HF_TOKEN");
        return FETCH_NO;
    case 404: case 410:
        err_set(e, EXIT_INPUT, "%s: %s has no %s (%d): expected another name", repo, host, what, c->status);
        return FETCH_NO;
    case 429:
        if (c->retry_s >= 0)
            err_set(e, EXIT_RESOURCE, "%s: %s takes no more requests (429): run the command again in %lld s%s", repo, host,
                    (long long)c->retry_s, c->token.n ? "" : "; with a token in HF_TOKEN it takes more");
        else
            err_set(e, EXIT_RESOURCE, "%s: %s takes no more requests (429): run the command again later%s", repo, host,
                    c->token.n ? "" : "; with a token in HF_TOKEN it takes more");
        return FETCH_NO;
    default:
        err_set(e, EXIT_RESOURCE, "%s: %s answers %d: run the command again later", repo, host, c->status);
        return c->status >= 500 || c->status == 408 ? FETCH_AGAIN : FETCH_NO;
    }
}

/* One hop: 0, and c->status says how it went; or libcurl's error. */
static int fetch__hop(fetch__client *c, const char *url, bool head, uint64_t from) {
    char  range[32];
    void *fields = NULL;
    str   key = {0};
    snprintf(range, sizeof range, "%llu-", (unsigned long long)from);
    c->at_hub = fetch__same_origin(bytes_of(url), str_bytes(&c->endpoint));
    c->status = 0;
    c->why[0] = 0;
    c->other = 0;
    if (c->at_hub && c->token.n) {
        str_fmt(&key, "Authorization: Bearer %s", c->token.p);
        fields = c->lib.add(NULL, key.p);
    }
    c->lib.set(c->curl, FETCH_URL, url);
    c->lib.set(c->curl, FETCH_FIELDS, fields);
    if (head) c->lib.set(c->curl, FETCH_NO_BODY, 1L);
    else c->lib.set(c->curl, FETCH_HTTP_GET, 1L);
    c->lib.set(c->curl, FETCH_RANGE, from ? range : NULL);
    const int code = c->lib.perform(c->curl);
    c->lib.set(c->curl, FETCH_FIELDS, NULL);
    c->lib.free(fields);
    str_drop(&key);
    return code;
}

/* Whether a redirect may be followed: by HTTP, and never from TLS to none. */
static bool fetch__may_follow(const fetch__client *c, const char *from, const char *to, err_t *e) {
    const bytes at = fetch__origin(bytes_of(to));
    const bool  secure = strncasecmp(from, "https://", 8) == 0;
    if (at.n && (!secure || strncasecmp(to, "https://", 8) == 0)) return true;
    return err_set(e, EXIT_INPUT, "%s: %s redirects to %.100s, expected %s", c->name->repo.p, fetch__host(c), to,
                   secure ? "an address of https" : "an address of http or https");
}

static bool fetch__redirects(int status) { return (status >= 301 && status <= 303) || status == 307 || status == 308; }

/* A request and its redirects. head: for the fields alone, and no other host is asked. what: names the thing in errors. */
static fetch__end fetch__request(fetch__client *c, const char *first, bool head, uint64_t from, const char *what, err_t *e) {
    str        url = {0};
    fetch__end end = FETCH_NO;
    int        hops = 0;
    str_put(&url, first);
    str_clear(&c->text);
    str_clear(&c->commit), str_clear(&c->etag);
    if (c->file) c->file->begun = false;
    for (;; hops++) {
        char     *to = NULL;
        const int code = fetch__hop(c, url.p, head, from);
        if (code) {
            end = fetch__failed(c, code, url.p, e);
            break;
        }
        if (c->status == 200 || c->status == 206) {
            end = FETCH_DONE;
            break;
        }
        if (!fetch__redirects(c->status)) {
            end = fetch__refused(c, url.p, what, e);
            break;
        }
        c->lib.info(c->curl, FETCH_NEXT_URL, &to);
        if (head && (c->commit.n || !to || !fetch__same_origin(bytes_of(to), str_bytes(&c->endpoint)))) {
            end = FETCH_DONE;
            break;
        }
        if (!to || hops == FETCH_HOPS) {
            err_set(e, EXIT_INPUT, "%s: %s redirects %s, expected an answer", c->name->repo.p, fetch__host(c),
                    to ? "more than 10 times" : "to nowhere");
            break;
        }
        if (!fetch__may_follow(c, url.p, to, e)) break;
        str_set(&url, bytes_of(to));
    }
    str_drop(&url);
    return end;
}

/* Waits before another try, twice as long each time. */
static void fetch__wait(int fails) {
    const double    s = 0.05 * (1 << min_int(fails, 6));
    struct timespec t = {(time_t)s, (long)(1e9 * (s - floor(s)))};
    nanosleep(&t, NULL);
}

/* --- the list of a repository --- */

/* Replaces the address of a page by that of the next one, which may be a path of the same host. */
static bool fetch__next_page(const fetch__client *c, str *url, err_t *e) {
    str        to = {0};
    const bool path = c->next.p[0] == '/' && c->next.p[1] != '/';
    if (path) str_cat(&to, fetch__origin(str_bytes(url)));
    str_put(&to, c->next.p);
    const bool ok = fetch__may_follow(c, url->p, to.p, e);
    if (ok) str_set(url, str_bytes(&to));
    str_drop(&to);
    return ok;
}

/* Asks for the list of a repository's files, page by page. */
static bool fetch__list(fetch__client *c, hub_list *l, err_t *e) {
    str url = {0}, what = {0};
    str_fmt(&url, "%s/api/models/%s/tree/main?recursive=true", c->endpoint.p, c->name->repo.p);
    str_fmt(&what, "repository of this name");
    for (int page = 0; url.n && !e->code; page++) {
        if (page == FETCH_PAGES_MOST) {
            err_set(e, EXIT_INPUT, "%s: a list of more than %d pages, expected fewer", c->name->repo.p, FETCH_PAGES_MOST);
            break;
        }
        fetch__end end = FETCH_AGAIN;
        for (int fails = 0; end == FETCH_AGAIN && fails < FETCH_TRIES; fails++) {
            if (fails) fetch__wait(fails), *e = (err_t){0};
            end = fetch__request(c, url.p, false, 0, what.p, e);
        }
        if (end != FETCH_DONE || !hub_list_add(l, str_bytes(&c->text), c->name->repo.p, e)) break;
        if (c->next.n && !fetch__next_page(c, &url, e)) break;
        if (!c->next.n) str_clear(&url);
    }
    str_drop_all(&url, &what);
    return !e->code && hub_list_seal(l, c->name->repo.p, e);
}

/* --- one file --- */

/* Makes a folder and those above it. */
static bool fetch__folder(const char *path, err_t *e) {
    char *at = str_dup(path);
    bool  ok = true;
    for (char *p = at + 1; ok; p++) {
        const char was = *p;
        if (was && was != '/') continue;
        *p = 0;
        ok = !mkdir(at, 0777) || errno == EEXIST;
        *p = was;
        if (!was) break;
    }
    mem_free(at);
    return ok || err_set(e, err_code_of(errno), "%s: cannot be made: %s (HF_HOME names another folder)", path, strerror(errno));
}

/* The same for the folder that holds a file. */
static bool fetch__folder_of(const char *file, err_t *e) {
    str path = {0};
    str_add(&path, file, (size_t)(str_base_name(file) - file - 1));
    const bool ok = fetch__folder(path.p, e);
    str_drop(&path);
    return ok;
}

/* Waits until no other run downloads the file. The descriptor holds the lock; -1: e is set. Where a file system has no locks,
 * nothing is waited for. */
static int fetch__lock(const fetch__client *c, const hub_file *f, const char *path, const char *partly, err_t *e) {
    bool said = false;
    if (!fetch__folder_of(path, e)) return -1;
    for (;;) {
        struct stat st, now;
        const int   fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (fd < 0) return err_set(e, err_code_of(errno), "%s: cannot be made: %s", path, strerror(errno)), -1;
        while (flock(fd, LOCK_EX | LOCK_NB) && (errno == EWOULDBLOCK || errno == EINTR)) {
            str has = {0}, of = {0};
            if (!said) log_warn("%s: another run downloads %s: waits for it", c->spelled.p, f->path);
            said = true;
            str_size(&has, stat(partly, &st) ? 0 : (double)st.st_size);
            str_size(&of, (double)f->bytes);
            progress_show("%s: waits for another run, which has %s of %s", str_base_name(f->path), has.p, of.p);
            str_drop_all(&has, &of);
            fetch__wait(1);
        }
        /* Hugging Face's tools remove the file of a lock when they give it up. */
        if (!fstat(fd, &st) && !stat(path, &now) && st.st_dev == now.st_dev && st.st_ino == now.st_ino) return fd;
        close(fd);
    }
}

/* Reads what an earlier run has left, which the sum takes. */
static bool fetch__continue(fetch__file *f, const char *path, err_t *e) {
    struct stat st;
    enum { STEP = 1 << 20 };
    if (fstat(f->fd, &st)) return err_set(e, err_code_of(errno), "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode)) return err_set(e, EXIT_INPUT, "%s: is no file, expected one", path);
    if ((uint64_t)st.st_size > f->what->bytes)
        return fetch__anew(f) || err_set(e, err_code_of(f->why), "%s: %s", path, strerror(f->why));
    uint8_t *buf = mem_new(STEP, 1);
    ssize_t  n = 0;
    while (f->have < (uint64_t)st.st_size && (n = read(f->fd, buf, STEP)) != 0) {
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) break;
        sha_add(&f->sum, buf, (size_t)n);
        f->have += (uint64_t)n;
        progress_show("%s: reads what is here", str_base_name(f->what->path));
    }
    mem_free(buf);
    f->from = f->have;
    f->since = clock_now();
    return n >= 0 || err_set(e, err_code_of(errno), "%s: cannot read: %s", path, strerror(errno));
}

/* Whether so many more bytes fit on the disk of a file or a folder. what: needs them. */
static bool fetch__fits(const char *where, const char *what, uint64_t left, err_t *e) {
    struct statvfs fs;
    str            need = {0}, has = {0};
    if (statvfs(where, &fs) || !fs.f_frsize) return true;
    const double available = (double)fs.f_bavail * (double)fs.f_frsize;
    str_size(&need, (double)left);
    str_size(&has, available);
    if (available < (double)left)
        err_set(e, EXIT_RESOURCE, "%s: no space: needs %s, the disk of %s has %s (HF_HOME names another folder)", what, need.p,
                where, has.p);
    str_drop_all(&need, &has);
    return !e->code;
}

/* The address of a file: what is neither a letter nor one of -._~/ is escaped. */
static void fetch__address(const fetch__client *c, const char *path, str *url) {
    str_fmt(url, "%s/%s/resolve/main/", c->endpoint.p, c->name->repo.p);
    for (const uint8_t *p = (const uint8_t *)path; *p; p++)
        if (isalnum(*p) || strchr("-._~/", *p)) str_add(url, p, 1);
        else str_fmt(url, "%%%02X", *p);
}

/* Asks for the bytes that are not here until they are, or nothing comes any more. */
static bool fetch__bytes(fetch__client *c, fetch__file *f, const char *url, err_t *e) {
    bool     anew = false;
    uint64_t most = f->have;                          /* the most that has been here */
    for (int fails = 0; f->have < f->what->bytes;) {
        const uint64_t had = f->have;
        err_t          once = {0};
        f->wrong = NULL;
        const fetch__end end = fetch__request(c, url, false, f->have, f->what->path, &once);
        if (f->why)
            return err_set(e, err_code_of(f->why), "%s: cannot write to %s: %s (HF_HOME names another folder)", f->what->path,
                           c->root.p, strerror(f->why));
        if (f->wrong) {
            if (anew || !had)
                return err_set(e, EXIT_INPUT, "%s: what %s sends %s, expected %llu bytes: it may have changed, run the command "
                               "again", f->what->path, fetch__host(c), f->wrong, (unsigned long long)f->what->bytes);
            log_warn("%s: what %s sends does not go on where the bytes here end: begins anew", f->what->path, fetch__host(c));
            anew = true, most = 0;
            if (!fetch__anew(f)) return err_set(e, err_code_of(f->why), "%s: %s", f->what->path, strerror(f->why));
            continue;
        }
        if (f->have == f->what->bytes) break;
        if (end == FETCH_NO) return *e = once, false;
        fails = f->have > most ? 0 : fails + 1;
        most = max_u64(most, f->have);
        if (fails == FETCH_TRIES) {
            if (once.code) *e = once;
            return err_set(e, EXIT_RESOURCE, "%s: %s ended after %llu of %llu bytes: what is here is kept, run the command again",
                           f->what->path, fetch__host(c), (unsigned long long)f->have, (unsigned long long)f->what->bytes);
        }
        fetch__wait(fails);
    }
    return true;
}

/* Downloads what is missing of partly; it becomes `blob` if its sum is right. *again: the bytes that an earlier run left were not
 * of this file. */
static bool fetch__blob(fetch__client *c, const hub_file *what, const char *partly, const char *blob, bool *again, err_t *e) {
    fetch__file f = {.what = what, .fd = open(partly, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666)};
    str         url = {0}, size = {0};
    char        sum[SHA_HEX + 1];
    if (f.fd < 0) return err_set(e, err_code_of(errno), "%s: cannot be made: %s", partly, strerror(errno));
    fetch__begin_sum(&f.sum, what);
    f.since = clock_now();
    fetch__address(c, what->path, &url);
    bool ok = fetch__continue(&f, partly, e) && fetch__fits(partly, what->path, what->bytes - f.have, e);
    const uint64_t left = f.from;
    if (ok && !hub_goes_beside(what->path)) {         /* small files of a checkpoint go without saying */
        str_size(&size, (double)(what->bytes - f.have));
        log_warn("%s: downloads %s, %s%s", c->spelled.p, what->path, size.p, left ? " that are missing" : "");
    }
    c->file = &f;
    ok = ok && fetch__bytes(c, &f, url.p, e);
    c->file = NULL;
    progress_clear();
    if (ok) {
        sha_end(&f.sum, sum);
        const bool right = strcmp(sum, what->sha) == 0;
        *again = !right && left;
        if (!right) unlink(partly);
        if (!right && !left)
            err_set(e, EXIT_INPUT, "%s: the %s of what %s sent is %.12s..., expected %.12s...: it was thrown away, run the "
                    "command again", what->path, fetch__is_git(what) ? "SHA-1" : "SHA-256", fetch__host(c), sum, what->sha);
        else if (right && !out_replace(f.fd, partly, blob))
            err_set(e, err_code_of(errno), "%s: cannot be written: %s", blob, strerror(errno));
    }
    close(f.fd);
    str_drop_all(&url, &size);
    return !e->code;
}

/* Makes the relative link PATH of a snapshot to its blob. Where a file system has no links, the blob gets that name. */
static bool fetch__link(const char *folder, const char *commit, const hub_file *f, err_t *e) {
    str         path = {0}, to = {0}, blob = {0};
    char        was[PATH_MAX];
    str_fmt(&path, "%s/snapshots/%s/%s", folder, commit, f->path);
    str_fmt(&blob, "%s/blobs/%s", folder, f->sha);
    for (const char *p = f->path; p; p = (p = strchr(p, '/')) ? p + 1 : NULL) str_put(&to, "../");
    str_fmt(&to, "../blobs/%s", f->sha);
    if (fetch__folder_of(path.p, e)) {
        const ssize_t n = readlink(path.p, was, sizeof was - 1);
        const bool    there = n > 0 && (size_t)n == to.n && memcmp(was, to.p, to.n) == 0;
        if (!there) unlink(path.p);
        if (!there && symlink(to.p, path.p) && errno != EEXIST &&
            !((errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS) && rename(blob.p, path.p) == 0))
            err_set(e, err_code_of(errno), "%s: cannot be made: %s", path.p, strerror(errno));
    }
    str_drop_all(&path, &to, &blob);
    return !e->code;
}

/* Has the file in the cache: under its lock it is downloaded, unless its blob is there; then the hub is asked whether it is still
 * that of the list. *commit: the one that the hub names, which must be that of the files before it; empty: it is the first. */
static bool fetch__one(fetch__client *c, const char *folder, const hub_file *f, str *commit, err_t *e) {
    str         blob = {0}, partly = {0}, lock = {0}, url = {0};
    struct stat st;
    if (!f->sha[0])
        return err_set(e, EXIT_INPUT, "%s: the list has no sum of %s, expected one to check it against", c->name->repo.p,
                       f->path);
    str_fmt(&blob, "%s/blobs/%s", folder, f->sha);
    str_fmt(&partly, "%s.incomplete", blob.p);
    str_fmt(&lock, "%s/.locks/%s/%s.lock", c->root.p, str_base_name(folder), f->sha);
    const int fd = fetch__folder_of(blob.p, e) ? fetch__lock(c, f, lock.p, partly.p, e) : -1;
    if (fd >= 0) {
        const bool there = !stat(blob.p, &st) && S_ISREG(st.st_mode) && (uint64_t)st.st_size == f->bytes;
        bool       again = false;
        str_clear(&c->commit), str_clear(&c->etag);
        if (!there && fetch__blob(c, f, partly.p, blob.p, &again, e) && again) {
            log_warn("%s: the bytes that an earlier run left are not those of the hub: begins anew", f->path);
            fetch__blob(c, f, partly.p, blob.p, &again, e);
        }
        if (!e->code && !c->commit.n) {               /* nothing was asked for */
            fetch__address(c, f->path, &url);
            fetch__request(c, url.p, true, 0, f->path, e);
        }
        if (!e->code && !c->commit.n)
            err_set(e, EXIT_INPUT, "%s: %s names no commit (X-Repo-Commit), expected a hub", c->name->repo.p, fetch__host(c));
        if (!e->code && c->etag.n == strlen(f->sha) && strcmp(c->etag.p, f->sha) != 0)
            err_set(e, EXIT_RESOURCE, "%s: %s has changed since its list was read: what is here is kept, run the command again",
                    c->name->repo.p, f->path);
        if (!e->code && commit->n && !bytes_eq(str_bytes(commit), str_bytes(&c->commit)))
            err_set(e, EXIT_RESOURCE, "%s: it has changed during the download: what is here is kept, run the command again",
                    c->name->repo.p);
        if (!e->code) str_set(commit, str_bytes(&c->commit)), fetch__link(folder, commit->p, f, e);
        close(fd);
    }
    str_drop_all(&blob, &partly, &lock, &url);
    return !e->code;
}

/* Writes the commit of the branch. */
static bool fetch__ref(const char *folder, const char *commit, err_t *e) {
    str path = {0}, tmp = {0};
    str_fmt(&path, "%s/refs/main", folder);
    str_fmt(&tmp, "%s.%ld.tmp", path.p, (long)getpid());
    const bool can = fetch__folder_of(path.p, e);
    if (can) unlink(tmp.p);                           /* of a run that was killed: in containers numbers of processes repeat */
    const int  fd = can ? out_create(tmp.p, O_WRONLY, NULL) : -1;
    const bool ok = fd >= 0 && write(fd, commit, HUB_COMMIT) == HUB_COMMIT && out_replace(fd, tmp.p, path.p);
    if (!ok && !e->code) err_set(e, err_code_of(errno), "%s: cannot be written: %s", path.p, strerror(errno));
    if (fd >= 0) close(fd);
    if (!ok) out_settle(tmp.p, false);
    str_drop_all(&path, &tmp);
    return ok;
}

/* Bytes of the weights that are not here yet. */
static uint64_t fetch__missing(const char *folder, const hub_list *l, const st_names *shards) {
    uint64_t    n = 0;
    str         blob = {0};
    struct stat its;
    for (size_t i = 0; i < shards->n; i++) {
        const hub_file *f = hub_of_path(l, shards->at[i]);
        str_clear(&blob);
        str_fmt(&blob, "%s/blobs/%s", folder, f->sha);
        uint64_t left = stat(blob.p, &its) == 0 ? 0 : f->bytes;
        str_put(&blob, ".incomplete");
        if (left && stat(blob.p, &its) == 0) left -= min_u64(left, (uint64_t)its.st_size);
        if (__builtin_add_overflow(n, left, &n)) {
            n = UINT64_MAX;
            break;
        }
    }
    str_drop(&blob);
    return n;
}

/* Downloads a checkpoint: what is beside its weights, then they, and config.json at last. */
static void fetch__checkpoint(fetch__client *c, const char *folder, const hub_list *l, const hub_file *config, str *commit,
                              err_t *e) {
    st_names shards = {0};
    str      snapshot = {0};
    for (size_t i = 0; i < l->n && !e->code; i++)
        if (&l->file[i] != config && hub_goes_beside(l->file[i].path)) fetch__one(c, folder, &l->file[i], commit, e);
    str_fmt(&snapshot, "%s/snapshots/%s", folder, commit->n ? commit->p : "");
    if (!e->code && hub_shards(l, c->name->repo.p, snapshot.p, &shards, e))
        fetch__fits(folder, c->name->repo.p, fetch__missing(folder, l, &shards), e);
    for (size_t i = 0; i < shards.n && !e->code; i++) fetch__one(c, folder, hub_of_path(l, shards.at[i]), commit, e);
    if (!e->code) fetch__one(c, folder, config, commit, e);
    st_names_drop(&shards);
    str_drop(&snapshot);
}

/* The whole download. */
static bool fetch__run(fetch__client *c, err_t *e) {
    hub_list        l = {0};
    str             folder = {0}, commit = {0};
    const hub_file *first = fetch__list(c, &l, e) ? hub_choose(&l, c->name, e) : NULL;
    hub_repo_folder(c->root.p, c->name->repo.p, &folder);
    if (first && hub_is_checkpoint(first)) fetch__checkpoint(c, folder.p, &l, first, &commit, e);
    else
        for (int i = 0, n = first ? hub_parts(first) : 0; i < n && !e->code; i++)
            fetch__one(c, folder.p, hub_part(&l, first, i), &commit, e);
    const bool ok = first && !e->code && fetch__ref(folder.p, commit.p, e);
    hub_list_drop(&l);
    str_drop_all(&folder, &commit);
    return ok;
}

/* --- what it needs, and the process that does it --- */

/* The hub's address: HF_ENDPOINT, else the public one. */
static bool fetch__endpoint(str *out, err_t *e) {
    const char *own = getenv("HF_ENDPOINT");
    str_put(out, own && *own ? own : "https://huggingface.co");
    while (out->n && out->p[out->n - 1] == '/') out->p[--out->n] = 0;
    for (size_t i = 0; i < out->n; i++)
        if ((uint8_t)out->p[i] <= 0x20 || (uint8_t)out->p[i] >= 0x7f) return err_set(e, EXIT_INPUT, "HF_ENDPOINT: no address");
    return fetch__origin(str_bytes(out)).n ||
           err_set(e, EXIT_INPUT, "HF_ENDPOINT: %.200s is no address, expected one such as https://huggingface.co", out->p);
}

/* The token: that of the options, else that of Hugging Face's tools. */
static bool fetch__token(fetch__client *c, const char *given, err_t *e) {
    const char *old = getenv("HUGGING_FACE_HUB_TOKEN"), *quiet = getenv("HF_HUB_DISABLE_IMPLICIT_TOKEN");
    str         path = {0};
    err_t       none = {0};
    c->token_from = given && *given ? "HF_TOKEN" : "HUGGING_FACE_HUB_TOKEN";
    if (given && *given) str_put(&c->token, given);
    else if (old && *old) str_put(&c->token, old);
    else if (!(quiet && *quiet && strcmp(quiet, "0") != 0) && hub_cache(true, &path, &none)) {
        str_read_file(&c->token, path.p, O_NONBLOCK, FETCH_TOKEN_MOST, "a token", &none);
        c->token_from = "the token file of Hugging Face's tools";
    }
    const bytes bare = bytes_trim(str_bytes(&c->token));
    str         own = {0};
    str_cat(&own, bare);
    str_drop_all(&c->token, &path);
    c->token = own;
    for (size_t i = 0; i < own.n; i++)
        if ((uint8_t)own.p[i] <= 0x20 || (uint8_t)own.p[i] >= 0x7f)
            return err_set(e, EXIT_INPUT, "%s: byte %zu is in no token, expected letters and digits", c->token_from, i);
    return own.n <= FETCH_TOKEN_MOST || err_set(e, EXIT_INPUT, "%s: %zu bytes, expected a token", c->token_from, own.n);
}

static void fetch__close(fetch__client *c) {
    if (c->curl) c->lib.cleanup(c->curl);
    str_drop_all(&c->root, &c->endpoint, &c->token, &c->spelled, &c->commit, &c->etag, &c->next, &c->text);
}

static const char *fetch__authorities(void) {
    static const char *const names[] = {"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]) && *getenv(names[i])) return getenv(names[i]);
    return NULL;
}

/* Seconds without a byte, after which a request is made again. */
static long fetch__stall(void) {
    const char *own = getenv("HF_HUB_DOWNLOAD_TIMEOUT");
    const int   s = own ? atoi(own) : 0;
    return s > 0 ? s : FETCH_STALL_S;
}

/* Begins a session of libcurl. */
static bool fetch__begin_curl(fetch__client *c, err_t *e) {
    fetch__lib *lib = &c->lib;
    const bool  ok = !lib->global(FETCH_GLOBAL_ALL) && (c->curl = lib->init()) != NULL;
    const char *ca = fetch__authorities();
    if (!ok) return err_set(e, EXIT_RESOURCE, "libcurl cannot begin");
    lib->set(c->curl, FETCH_NO_SIGNAL, 1L);
    lib->set(c->curl, FETCH_FOLLOW, 0L);
    lib->set(c->curl, FETCH_PROTOCOLS, (long)(FETCH_HTTP | FETCH_HTTPS));
    lib->set(c->curl, FETCH_CONNECT_S, 30L);
    lib->set(c->curl, FETCH_LOW_SPEED, 1L);
    lib->set(c->curl, FETCH_LOW_TIME, fetch__stall());
    lib->set(c->curl, FETCH_ALIVE, 1L);
    lib->set(c->curl, FETCH_NO_PROXY_HEADS, 1L);
    lib->set(c->curl, FETCH_AGENT, "llmrun");
    lib->set(c->curl, FETCH_WHY, c->why);
    lib->set(c->curl, FETCH_ON_HEAD, fetch__on_head);
    lib->set(c->curl, FETCH_HEAD_TO, c);
    lib->set(c->curl, FETCH_ON_BODY, fetch__on_body);
    lib->set(c->curl, FETCH_BODY_TO, c);
    lib->set(c->curl, FETCH_ON_PROGRESS, fetch__on_progress);
    lib->set(c->curl, FETCH_PROGRESS_TO, c);
    lib->set(c->curl, FETCH_NO_PROGRESS, 0L);
    if (ca) lib->set(c->curl, FETCH_CA, ca);
    return true;
}

/* The process of the download keeps the network, what libraries read, and the cache. */
static void fetch__confine(const fetch__client *c) {
    static const char *const reads[] = {
        "/etc", "/usr", "/lib", "/lib64", "/bin", "/opt", "/nix/store", "/gnu/store", "/run/systemd/resolve", "/run/resolvconf",
        "/run/NetworkManager", "/run/nscd", "/var/run/nscd", "/var/lib/sss", "/var/lib/ca-certificates", "/mnt/wsl",
        "/sys/devices/system",
    };
    const char *ca = fetch__authorities();
    sandbox     s;
    str         folder = {0};
    sandbox_begin(&s, SANDBOX_NETWORK);
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) sandbox_read_all(&s, reads[i]);
    if (ca) sandbox_read_all(&s, ca);
    sandbox_keep_all(&s, c->root.p);
    hub_repo_folder(c->root.p, c->name->repo.p, &folder);
    sandbox_keep_all(&s, folder.p);                   /* which may be a link to another disk */
    sandbox_enter(&s);
    str_drop(&folder);
}

/* What the child process does: it writes its error to the pipe and ends. */
__attribute__((noreturn)) static void fetch__child(fetch__client *c, int to, pid_t parent) {
    err_t e = {0};
    prctl(PR_SET_PDEATHSIG, SIGTERM);                 /* it does not outlive the run that asks for it */
    if (getppid() != parent) _exit(EXIT_RESOURCE);
    fetch__confine(c);
    if (fetch__begin_curl(c, &e)) fetch__run(c, &e);
    progress_clear();
    out_sweep();
    const bool told = write(to, &e, sizeof e) == (ssize_t)sizeof e;
    _exit(told ? 0 : EXIT_RESOURCE);
}

/* Waits for the child. */
static bool fetch__await(pid_t child, int from, err_t *e) {
    err_t  told = {0};
    size_t n = 0;
    for (ssize_t got; n < sizeof told; n += (size_t)got) {
        got = read(from, (char *)&told + n, sizeof told - n);
        if (got < 0 && errno == EINTR) got = 0;
        else if (got <= 0) break;
    }
    int how = 0;
    while (waitpid(child, &how, 0) < 0 && errno == EINTR) {}
    told.text[sizeof told.text - 1] = 0;
    if (n < sizeof told)
        return err_set(e, EXIT_RESOURCE, "the process of the download ended without a word (%s %d)",
                       WIFSIGNALED(how) ? "signal" : "exit", WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how));
    if (!told.code) return true;
    return err_set(e, told.code == EXIT_INPUT ? EXIT_INPUT : EXIT_RESOURCE, "%s", told.text);
}

/* The download in a process of its own. */
static bool fetch__apart(fetch__client *c, err_t *e) {
    const pid_t self = getpid();
    int         fd[2];
    if (pipe2(fd, O_CLOEXEC)) return err_set(e, EXIT_RESOURCE, "%s: no pipe for the download: %s", c->spelled.p, strerror(errno));
    const pid_t child = fork();
    if (child == 0) fetch__child(c, fd[1], self);
    close(fd[1]);
    const bool ok = child > 0 ? fetch__await(child, fd[0], e)
                              : err_set(e, EXIT_RESOURCE, "%s: no process for the download: %s", c->spelled.p, strerror(errno));
    close(fd[0]);
    return ok;
}

/* Downloads the files of a model into the cache, where hub_find() finds them. open_all: in this process, without a sandbox.
 * False: e is set. */
static bool fetch_model(const hub_name *h, const fetch_opts *o, bool open_all, err_t *e) {
    fetch__client c = {.name = h};
    hub_spell(h, &c.spelled);
    if (!fetch__load(&c.lib))
        err_set(e, EXIT_INPUT, LLMRUN_HUB ? "%s: no libcurl.so.4 on this machine, which downloads models (Debian: libcurl4)"
                                          : "%s: this binary was built with HUB=0 and downloads nothing", c.spelled.p);
    bool ok = !e->code && fetch__endpoint(&c.endpoint, e) && fetch__token(&c, o->token, e) && hub_cache(false, &c.root, e) &&
              fetch__folder(c.root.p, e);
    if (ok && (open_all || !LLMRUN_SANDBOX)) ok = fetch__begin_curl(&c, e) && fetch__run(&c, e);
    else if (ok) ok = fetch__apart(&c, e);
    fetch__close(&c);
    return ok;
}
