/* ===== [serve] the scheduler behind HTTP =====
 * Answers requests of programs that speak OpenAI's or Anthropic's API, with the schedule that answers files. The text of a
 * request is that of the same body in a file with the same seed, whatever else runs.
 *   Three threads beside the team that computes. The main one takes requests that are ready, runs step after step and notes
 * what each step has added to an answer, as raw bytes and tokens. The helper makes requests ready: JSON, templates, tokens,
 * constraints. The connection thread of [net] does the rest: it looks at heads, gives short answers at once, and makes the bytes
 * of answers from what the main thread noted. So nothing that a client does holds up a step.
 *   A request has two owners, the connection thread and the side that computes; it is freed by the connection thread when both
 * have left it. Each field has one of these owners at a time, or is guarded by the request's lock, or is atomic.
 * Invariants: every answer is put by the connection thread; a message names no file by its folders; what is kept for a slow
 * reader is bounded, and its sequence waits; the loop of steps waits for no client and for no other request.
 * To add an endpoint: a row of serve_endpoints, and its kind's function in serve__quick() or serve__prepare().
 * Public: serve_opts, serve_defaults, serve_open, serve_start, serve_run, serve_close, serve_stop, serve_list.
 * Opens: serve_opts, serve_job. */

typedef struct {
    const char *where;                                /* [HOST:]PORT or unix:PATH; "": 127.0.0.1:8080; NULL: no server */
    const char *key, *key_file;                       /* NULL: not given */
    bool        no_key;                               /* anybody may ask, whatever the address */
    const char *cors;                                 /* the origin whose pages may ask; NULL: none */
    uint64_t    max_body;                             /* bytes */
    int         queue;                                /* requests that may wait for their turn */
    const char *alias;                                /* the model's name; NULL: its file's */
    float       timeout;                              /* seconds in which a request must be answered; 0: any number */
    float       stall;                                /* in which a reader must take something */
    float       drain;                                /* in which running answers may end after a signal */
    int         connections;
    const char *files;                                /* where files and batches live; NULL: there are none */
    uint64_t    files_max;                            /* bytes of all of them */
} serve_opts;

static const serve_opts serve_defaults = {.max_body = 16 << 20, .queue = 256, .stall = 30, .drain = 5, .connections = 512,
                                          .files_max = 1 << 30};

enum {
    SERVE_NEWS = 64 << 10,                            /* bytes of an answer, logprobs too, that wait for the connection thread */
    SERVE_ALIVE = 5,                                  /* seconds without news after which a stream shows that it lives */
    SERVE_KEYS = 64,                                  /* keys at most */
    SERVE_BODIES = 4,                                 /* bodies of the largest size that may wait for the helper, together */
    SERVE_NOTES = 64,                                 /* notes on bodies that are printed without -v */
    SERVE_HEADER_S = 30,                              /* seconds for the head of a request */
    SERVE_IDLE_S = 120,                               /* and between two of a connection */
};

/* What a run takes from the command line and the model. */
typedef struct {
    ask_env               env;
    const gen_opts       *gen;
    const samp_opts      *samp;
    const constrain_spec *hold;                       /* the constraint of requests that have none of their own */
    int64_t               seed;                       /* of requests that have none; -1: each draws one */
    const char           *model_name;
    const char           *fingerprint;
    bytes                 settings;                   /* without the seed, as files of results have them */
    int                   n_parallel;                 /* sequences in flight */
    bool                  answers;                    /* the model makes texts */
    bool                  ranks;                      /* it scores pairs of texts */
} serve_job;

/* --- endpoints --- */

typedef enum {
    SERVE_HEALTH, SERVE_MODELS, SERVE_METRICS, SERVE_PAGE,           /* answered at once */
    SERVE_FILES, SERVE_TOKENIZE, SERVE_DETOKENIZE, SERVE_ADAPTERS, SERVE_TEMPLATE, SERVE_COUNT,   /* by the helper */
    SERVE_TEXTS, SERVE_VECTORS, SERVE_RANKS,          /* by the model */
} serve_kind;

typedef struct {
    const char *path;                                 /* without /v1, which may come before it; one that ends in / has more */
    http_method method;
    serve_kind  kind;
    post_shape  shape;
    bool        open;                                 /* needs no key, and answers while the model is loaded */
    const char *what;                                 /* for --help serve */
} serve_endpoint;

static const serve_endpoint serve_endpoints[] = {
    {"/health",                HTTP_GET,  SERVE_HEALTH,     POST_CHAT,       true,  "whether the server takes requests"},
    {"/models",                HTTP_GET,  SERVE_MODELS,     POST_CHAT,       false, "the model: name, context, vocabulary"},
    {"/models/",               HTTP_GET,  SERVE_MODELS,     POST_CHAT,       false, NULL},
    {"/metrics",               HTTP_GET,  SERVE_METRICS,    POST_CHAT,       false, "figures for Prometheus"},
    {"/chat/completions",      HTTP_POST, SERVE_TEXTS,      POST_CHAT,       false, "answers to messages (OpenAI)"},
    {"/completions",           HTTP_POST, SERVE_TEXTS,      POST_COMPLETION, false, "texts that go on (OpenAI)"},
    {"/responses",             HTTP_POST, SERVE_TEXTS,      POST_RESPONSES,  false, "answers to items (OpenAI), stateless"},
    {"/messages",              HTTP_POST, SERVE_TEXTS,      POST_MESSAGES,   false, "answers to messages (Anthropic)"},
    {"/messages/count_tokens", HTTP_POST, SERVE_COUNT,      POST_MESSAGES,   false, "tokens of such a request"},
    {"/embeddings",            HTTP_POST, SERVE_VECTORS,    POST_EMBED,      false, "vectors of texts (OpenAI)"},
    {"/rerank",                HTTP_POST, SERVE_RANKS,      POST_RERANK,     false, "documents by their relevance to a query"},
    {"/tokenize",              HTTP_POST, SERVE_TOKENIZE,   POST_CHAT,       false, "text to token ids"},
    {"/detokenize",            HTTP_POST, SERVE_DETOKENIZE, POST_CHAT,       false, "token ids to text"},
    {"/apply-template",        HTTP_POST, SERVE_TEMPLATE,   POST_CHAT,       false, "messages to the prompt"},
    {"/lora-adapters",         HTTP_GET,  SERVE_ADAPTERS,   POST_CHAT,       false, "adapters (--lora) and their scales"},
    {"/lora-adapters",         HTTP_POST, SERVE_ADAPTERS,   POST_CHAT,       false, "sets the scales of requests without lora"},
    {"/",                      HTTP_GET,  SERVE_PAGE,       POST_CHAT,       true,  "a page to chat"},
    {"/files",                 HTTP_POST, SERVE_FILES,      POST_CHAT,       false, "files of batches (OpenAI), with --files"},
    {"/batches",               HTTP_POST, SERVE_FILES,      POST_CHAT,       false, "batches (OpenAI), with --files"},
};
enum { SERVE_ENDPOINTS = sizeof serve_endpoints / sizeof *serve_endpoints };

/* Rows for the help: method, path, what it does. */
static void serve_list(void (*put)(void *ctx, const char *path, const char *what), void *ctx) {
    for (int i = 0; i < SERVE_ENDPOINTS; i++) {
        const serve_endpoint *to = &serve_endpoints[i];
        const serve_kind      k = to->kind;
        const bool            own = k == SERVE_HEALTH || k == SERVE_METRICS || k == SERVE_PAGE ||
                         (k >= SERVE_TOKENIZE && k <= SERVE_TEMPLATE);
        char                  line[64];
        snprintf(line, sizeof line, "%s %s%s", to->method == HTTP_GET ? "GET" : "POST", own ? "" : "/v1", to->path);
        if (to->what) put(ctx, line, to->what);
    }
}

/* The path without /v1. */
static bytes serve__short(bytes path) {
    return bytes_begins(path, bytes_of("/v1/")) ? bytes_slice(path, 3, path.n) : path;
}

/* The row of a path and a method; NULL: there is none. *known: a row of the path; NULL: there is none. */
static const serve_endpoint *serve__find(const http_request *h, const serve_endpoint **known) {
    const bytes path = serve__short(str_bytes(&h->path));
    *known = NULL;
    for (int i = 0; i < SERVE_ENDPOINTS; i++) {
        const serve_endpoint *to = &serve_endpoints[i];
        const bytes           own = bytes_of(to->path);
        const bool            more = own.n > 1 && own.p[own.n - 1] == '/';
        if (to->kind == SERVE_FILES && files_takes(h->path.p)) return *known = to;      /* it knows its own methods */
        if (more ? !bytes_begins(path, own) || path.n == own.n : !bytes_eq(path, own)) continue;
        *known = to;
        if (to->method == h->method || (to->method == HTTP_GET && h->method == HTTP_HEAD)) return to;
    }
    return NULL;
}

/* Whether the path of a row has one with this method. */
static bool serve__has(const serve_endpoint *to, http_method method) {
    int i = 0;
    while (i < SERVE_ENDPOINTS && (serve_endpoints[i].method != method || strcmp(serve_endpoints[i].path, to->path))) i++;
    return i < SERVE_ENDPOINTS;
}

/* --- requests --- */

/* An answer on its way to the connection thread. */
typedef struct {
    /* guarded by the request's lock */
    str         text;                                 /* bytes that it has not taken yet */
    gen_token  *tok;                                  /* [n_tok] tokens that it has not taken yet */
    int32_t    *top_id;                               /* [n_tok, top] */
    float      *top_lp;
    int         n_tok;
    gen_answer  end;                                  /* all of the answer, where it has ended */
    bool        ended;
    /* the main thread's */
    size_t      given;                                /* bytes of the text that were put into it */
    int         n_given;                              /* tokens */
    int         n_seen;                               /* tokens that the figures have */
    double      t_last;                               /* when the last of them came */
    /* the connection thread's */
    gen_answer  seen;                                 /* the answer so far */
    chat_reader *reader;                              /* of a chat */
    int         n_lp;                                 /* tokens whose logprobs are written */
    size_t      n_text;                               /* bytes of a completion that are written */
    bool        over;                                 /* its end is written */
} serve_box;

typedef struct server server;

typedef struct serve_req {
    server               *s;
    net_reply            *r;
    const serve_endpoint *to;
    char                  id[33];
    const char           *method;
    double                t0;                         /* when it came */
    int64_t               created;                    /* the same, in seconds since 1970 */
    _Atomic int           refs;                       /* its owners */
    _Atomic bool          gone;                       /* nobody wants the answer */
    _Atomic bool          ready;                      /* its prompts are tokens: what follows of the helper's is there */
    _Atomic bool          waits;                      /* its sequences are held back, as its reader is slow */
    pthread_mutex_t       lock;
    struct serve_req     *next;                       /* in a list of the server */
    /* the helper's, until it is ready */
    files_call            call;                       /* of SERVE_FILES */
    files_upload         *upload;                     /* its body; NULL: body is */
    files_line            line;                       /* of a batch: r is NULL, and the helper is the only reader */
    uint64_t              n_body;                     /* bytes of the body as it came */
    str                   body;
    wire                  w;                          /* then the connection thread's */
    ask_ready             a;
    serve_box            *box;                        /* [a.q.n] */
    /* guarded by lock: an answer that is no stream of the model's */
    bool                  has_direct;
    int                   status;
    const char           *type;                       /* of its body */
    int                   fd;                         /* a file in place of the body, -1: none; */
    uint64_t              size;                       /* bytes of it */
    const char           *allow;                      /* methods of the path, of an error 405 */
    str                   direct;                     /* the body; of an error its message, */
    const char           *fault;                      /* whose name in [wire] this is; NULL: no error */
    str                   param;
    /* the main thread's */
    int                   n_ended;                    /* answers that have ended */
    bool                  cancelled;                  /* they were ended */
    bool                  counted;                    /* its first token is in the figures */
    /* the connection thread's */
    size_t                at;                         /* its place in server.open */
    bool                  begun;                      /* the head of a stream has gone out */
    int                   n_over;                     /* answers that are written */
    double                t_put;                      /* when something went out last */
} serve_req;

typedef enum { SERVE_LOADING, SERVE_SERVING, SERVE_DRAINING, SERVE_ENDING } serve_state;

struct server {
    serve_opts       o;
    net             *n;
    const serve_job *job;
    engine          *eng;
    sched           *sc;
    str              keys;                            /* texts with a NUL after each */
    size_t           key_at[SERVE_KEYS + 1];          /* [n_keys + 1] where they begin */
    int              n_keys;
    _Atomic int      state;
    int              event;                           /* there is something for the main thread */
    int64_t          created;                         /* when it began, in seconds since 1970 */
    uint64_t         secret;                          /* of ids */
    _Atomic uint64_t n_ids;
    _Atomic int      live;                            /* requests for the model that have not ended */
    pthread_mutex_t  lock;                            /* of the lists */
    pthread_cond_t   more;                            /* the helper has something to do */
    serve_req       *todo, *todo_last;                /* for the helper */
    serve_req       *ready, *ready_last;              /* for the main thread */
    serve_req       *over, *over_last;                /* lines of batches that are answered, for the helper */
    serve_req       *dead;                            /* without owners, to be freed */
    bool             quits;                           /* guarded by lock */
    bool             news;                            /* the same: the helper looks for a line of a batch once more */
    _Atomic uint64_t bodies;                          /* bytes of bodies that wait for the helper */
    pthread_t        helper;
    /* the main thread's */
    serve_req      **run;                             /* [n_run] whose answers are in the schedule */
    size_t           n_run;
    hist             ttft;                            /* seconds from a request to its first token, for the terminal */
    double           t_shown;
    long long        shown_read, shown_written;
    /* the connection thread's */
    serve_req      **open;                            /* [n_open] all that it has */
    size_t           n_open;
    /* the helper's */
    files_store     *files;                           /* NULL: there are none */
    int              n_lines;                         /* lines of batches that are being answered */
    float           *scales;                          /* [adapters] that a client has set; NULL: none has */
    uint64_t         noted[SERVE_NOTES];
    int              n_noted;
    metrics          m;                               /* any thread's */
};

static server *volatile serve__of_signals;            /* the one that a signal stops */

/* Ends the main thread's wait. Async-signal-safe. */
static void serve__poke(const server *s) {
    if (write(s->event, &(uint64_t){1}, 8) < 0) {}
}

/* The first signal: no request is taken any more. Async-signal-safe. False: no server runs, or it was stopped before. */
static bool serve_stop(void) {
    server *s = serve__of_signals;
    int     serving = SERVE_SERVING;
    if (!s || !atomic_compare_exchange_strong(&s->state, &serving, SERVE_DRAINING)) return false;
    serve__poke(s);
    return true;
}

static void serve__append(serve_req **first, serve_req **last, serve_req *q) {
    q->next = NULL;
    if (*first) (*last)->next = q;
    else *first = q;
    *last = q;
}

static serve_req *serve__pop(serve_req **first) {
    serve_req *q = *first;
    if (q) *first = q->next;
    return q;
}

static void serve__box_drop(serve_box *b) {
    str_drop(&b->text);
    mem_free_all(b->tok, b->top_id, b->top_lp);
    gen_answer_drop(&b->end);
    gen_answer_drop(&b->seen);
    chat_reader_free(b->reader);
}

static void serve__free(serve_req *q) {
    for (int i = 0; q->box && i < q->a.q.n; i++) serve__box_drop(&q->box[i]);
    mem_free(q->box);
    ask_drop(&q->a);
    wire_drop(&q->w);
    str_drop_all(&q->body, &q->direct, &q->param);
    files_call_drop(&q->call);
    files_upload_drop(q->upload);
    if (q->fd >= 0) close(q->fd);
    pthread_mutex_destroy(&q->lock);
    if (q->r) net_reply_free(q->r);
    mem_free(q);
}

/* An owner leaves it. */
static void serve__leave(serve_req *q) {
    server *s = q->s;
    if (atomic_fetch_sub(&q->refs, 1) > 1) return;
    pthread_mutex_lock(&s->lock);
    q->next = s->dead;
    s->dead = q;
    pthread_mutex_unlock(&s->lock);
}

/* Frees what nobody owns; on the connection thread, or when it has ended. */
static void serve__sweep(server *s) {
    pthread_mutex_lock(&s->lock);
    serve_req *q = s->dead;
    s->dead = NULL;
    pthread_mutex_unlock(&s->lock);
    for (serve_req *next; q; q = next) {
        next = q->next;
        serve__free(q);
    }
}

/* --- heads and short answers: the connection thread --- */

static post_shape serve__shape_of(const http_request *h) {
    return h && wire_is_messages(str_bytes(&h->path)) ? POST_MESSAGES : POST_CHAT;
}

/* More lines of the head of every answer; id: of the request, NULL: it has none. */
static void serve__fields(const server *s, const char *id, str *out) {
    if (id) str_fmt(out, "X-Request-Id: req_%s\r\n", id);
    if (!s->o.cors) return;
    str_fmt(out, "Access-Control-Allow-Origin: %s\r\nVary: Origin\r\n", s->o.cors);
    str_put(out, "Access-Control-Expose-Headers: X-Request-Id\r\n");
}

/* Those of an error. */
static void serve__error_fields(int status, str *out) {
    if (status == 401) str_put(out, "WWW-Authenticate: Bearer\r\n");
    if (status == 503) str_put(out, "Retry-After: 1\r\n");
    if (status == 500) str_put(out, "X-Should-Retry: false\r\n");
}

static const char *serve__method(const http_request *h) {
    static const char *const names[HTTP_METHODS] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
    return names[h->method];
}

static void serve__log(const http_request *h, int status) {
    log_info("%s %.200s %d", serve__method(h), h->path.p, status);
}

/* Refuses a request by its head. name: of a row of wire_errors. */
__attribute__((format(printf, 5, 6))) static bool serve__deny(server *s, const http_request *h, net_refusal *out,
                                                              const char *name, const char *fmt, ...) {
    char    why[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    out->status = wire_status(name);
    serve__fields(s, NULL, &out->fields);
    serve__error_fields(out->status, &out->fields);
    wire_error(serve__shape_of(h), name, 0, (bytes){0}, why, &out->body);
    atomic_fetch_add(&s->m.outcomes[METRICS_REFUSED], 1);
    serve__log(h, out->status);
    return false;
}

/* Whether two texts are equal, in a time that does not depend on where they differ. */
static bool serve__same(bytes given, bytes own) {
    unsigned differ = given.n != own.n;
    for (size_t i = 0; i < own.n; i++) differ |= own.p[i] ^ (i < given.n ? given.p[i] : 0u);
    return !differ;
}

/* The key of a request: Authorization: Bearer KEY, or x-api-key: KEY. */
static bytes serve__key_of(const http_request *h) {
    const bytes field = http_value(h, "authorization"), own = http_value(h, "x-api-key");
    if (field.n > 7 && http_same(bytes_slice(field, 0, 7), "bearer ")) return bytes_trim(bytes_slice(field, 7, field.n));
    return own;
}

static bool serve__may(const server *s, const http_request *h) {
    const bytes given = serve__key_of(h);
    bool        any = !s->n_keys;
    for (int i = 0; i < s->n_keys; i++)
        any |= serve__same(given, (bytes){(const uint8_t *)s->keys.p + s->key_at[i], s->key_at[i + 1] - s->key_at[i] - 1});
    return any;
}

/* Why nothing is answered. */
static const char *serve__why_not(int state) {
    return state == SERVE_LOADING ? "the model is being loaded" : "the server is shutting down";
}

/* Whether a page of another server sends the request. A browser asks nobody before it sends a form. */
static bool serve__is_foreign(const server *s, const http_request *h) {
    const bytes    origin = http_value(h, "origin");
    const uint8_t *slash = origin.n ? memrchr(origin.p, '/', origin.n) : NULL;
    const bytes    host = slash ? bytes_slice(origin, (size_t)(slash - origin.p) + 1, origin.n) : (bytes){0};
    const bool     own = s->o.cors && (bytes_is(origin, s->o.cors) || strcmp(s->o.cors, "*") == 0);
    return origin.p && !own && !(host.n && bytes_eq(host, h->host));
}

/* The fields are read: whether the request may come. */
static bool serve__head(void *ctx, const http_request *h, void **sink, net_refusal *out) {
    server              *s = ctx;
    const serve_endpoint *known, *to = serve__find(h, &known);
    const int            state = atomic_load(&s->state);
    const bytes          type = http_value(h, "content-type");
    if (!s->n_keys && net_port(s->n) && h->host.p && !http_host_is_address(h->host))
        return serve__deny(s, h, out, "misdirected", "Host: found %.*s, expected an address or localhost (any name "
                           "with --api-key)", (int)min_size(h->host.n, 100), (const char *)h->host.p);
    if (h->method == HTTP_OPTIONS && s->o.cors) return true;
    if (!(to && to->open) && !serve__may(s, h))
        return serve__deny(s, h, out, "invalid_api_key", "a key is needed: Authorization: Bearer KEY, or x-api-key: KEY");
    if (!known)
        return serve__deny(s, h, out, "not_found", "%.*s: no such path", (int)min_size(h->path.n, 200), h->path.p);
    if (!to) {
        const bool gets = serve__has(known, HTTP_GET), posts = serve__has(known, HTTP_POST);
        str_fmt(&out->fields, "Allow: %s%s%s\r\n", gets ? "GET, HEAD" : "", gets && posts ? ", " : "", posts ? "POST" : "");
        return serve__deny(s, h, out, "method_not_allowed", "%s: not for this path, expected %s%s%s", serve__method(h),
                           gets ? "GET" : "", gets && posts ? " or " : "", posts ? "POST" : "");
    }
    if (!to->open && state != SERVE_SERVING)
        return serve__deny(s, h, out, "overloaded", "%s", serve__why_not(state));
    if (to->method == HTTP_POST && to->kind != SERVE_FILES && !http_is_type(type, "application/json"))
        return serve__deny(s, h, out, "media_type", "Content-Type: found %.*s, expected application/json",
                           type.n ? (int)min_size(type.n, 100) : 7, type.n ? (const char *)type.p : "nothing");
    if (h->method == HTTP_POST && to->kind == SERVE_FILES && serve__is_foreign(s, h))
        return serve__deny(s, h, out, "forbidden", "Origin: found %.*s, expected a page of this server (--cors)",
                           (int)min_size(http_value(h, "origin").n, 100), (const char *)http_value(h, "origin").p);
    if (h->method == HTTP_POST && to->kind == SERVE_FILES && s->files && http_is_type(type, "multipart/form-data")) {
        err_t e = {0};
        *sink = files_receive(s->files, &e);
        const int no = errno;
        if (!*sink)
            return serve__deny(s, h, out, no == ENOSPC || no == EDQUOT ? "quota" : e.code == EXIT_RESOURCE ? "overloaded"
                               : "server_error", "%s", e.text);
    }
    return true;
}

static bool serve__sink_put(void *ctx, void *sink, bytes b) {
    (void)ctx;
    return files_upload_put(sink, b);
}

static void serve__sink_drop(void *ctx, void *sink) {
    (void)ctx;
    files_upload_drop(sink);
}

/* An error of [net] itself. */
static void serve__error(void *ctx, const http_request *h, const char *message, net_refusal *out) {
    server *s = ctx;
    atomic_fetch_add(&s->m.outcomes[METRICS_REFUSED], 1);
    serve__fields(s, NULL, &out->fields);
    serve__error_fields(out->status, &out->fields);
    wire_error(serve__shape_of(h), NULL, out->status, (bytes){0}, message, &out->body);
}

static void serve__reply(server *s, const http_request *h, net_reply *r, int status, const char *type, bytes body) {
    str fields = {0};
    serve__fields(s, NULL, &fields);
    serve__error_fields(status, &fields);
    net_reply_whole(r, status, type, fields.p, body);
    str_drop(&fields);
    serve__log(h, status);
    net_reply_free(r);
}

static const char serve__json[] = "application/json";

static void serve__put_model(const server *s, jw *w) {
    const model    *m = &s->eng->m;
    jw_open(w, NULL, '{');
    jw_str(w, "id", s->job->model_name);
    jw_str(w, "object", "model");
    jw_fmt(w, "created", "%lld", (long long)s->created);
    jw_str(w, "owned_by", "llmrun");
    jw_fmt(w, "max_model_len", "%d", s->eng->n_ctx);
    jw_open(w, "meta", '{');
    jw_fmt(w, "n_ctx", "%d", s->eng->n_ctx);
    jw_fmt(w, "n_ctx_train", "%d", m->hp.n_ctx_train);
    jw_fmt(w, "n_vocab", "%d", m->hp.n_vocab);
    jw_fmt(w, "n_embd", "%d", m->hp.n_embd);
    jw_str(w, "architecture", m->hp.desc->name);
    jw_close(w, '}');
    jw_close(w, '}');
}

/* The list of models, or the one that the path names. */
static void serve__models(server *s, const http_request *h, net_reply *r) {
    const bytes path = serve__short(str_bytes(&h->path)), list = bytes_of("/models");
    str         out = {0};
    jw          w = jw_tight(&out);
    int         status = 200;
    if (bytes_eq(path, list)) {
        jw_open(&w, NULL, '{');
        jw_str(&w, "object", "list");
        jw_open(&w, "data", '[');
        serve__put_model(s, &w);
        jw_close(&w, ']');
        jw_close(&w, '}');
    } else if (bytes_is(bytes_slice(path, list.n + 1, path.n), s->job->model_name)) serve__put_model(s, &w);
    else {
        status = wire_status("model_not_found");
        wire_error(POST_CHAT, "model_not_found", 0, bytes_of("model"), "no such model (GET /v1/models lists it)", &out);
    }
    serve__reply(s, h, r, status, serve__json, str_bytes(&out));
    str_drop(&out);
}

/* Answers without a body to read. */
static void serve__quick(server *s, const http_request *h, serve_kind kind, net_reply *r) {
    str out = {0};
    if (kind == SERVE_MODELS) {
        serve__models(s, h, r);
        return;
    }
    if (kind == SERVE_PAGE) {
        net_reply_whole(r, 200, "text/html; charset=utf-8", page_fields, bytes_of(page_html));
        serve__log(h, 200);
        net_reply_free(r);
        return;
    }
    if (kind == SERVE_HEALTH && atomic_load(&s->state) == SERVE_SERVING) {
        serve__reply(s, h, r, 200, serve__json, bytes_of("{\"status\":\"ok\"}"));
        return;
    }
    if (kind == SERVE_HEALTH) {
        wire_error(POST_CHAT, "overloaded", 0, (bytes){0}, serve__why_not(atomic_load(&s->state)), &out);
        serve__reply(s, h, r, 503, serve__json, str_bytes(&out));
    } else {
        metrics_put(&s->m, &out);
        serve__reply(s, h, r, 200, "text/plain; version=0.0.4; charset=utf-8", str_bytes(&out));
    }
    str_drop(&out);
}

/* A page of the allowed origin asks what it may send. */
static void serve__preflight(server *s, const http_request *h, net_reply *r) {
    str fields = {0};
    serve__fields(s, NULL, &fields);
    str_put(&fields, "Access-Control-Allow-Methods: GET, POST, DELETE, OPTIONS\r\n"
                     "Access-Control-Max-Age: 600\r\n");
    const bytes asks = http_value(h, "access-control-request-headers");     /* the origin is allowed, so are its fields */
    if (asks.n) str_fmt(&fields, "Access-Control-Allow-Headers: %.*s\r\n", (int)min_size(asks.n, 2000), (const char *)asks.p);
    net_reply_whole(r, 204, NULL, fields.p, (bytes){0});
    str_drop(&fields);
    serve__log(h, 204);
    net_reply_free(r);
}

/* --- requests for the helper and the model --- */

static bool serve__by_model(const serve_req *q) { return q->to->kind >= SERVE_TEXTS; }

static void serve__count_outcome(serve_req *q, metrics_outcome how) {
    atomic_fetch_add(&q->s->m.outcomes[how], 1);
    if (how == METRICS_OK && serve__by_model(q)) metrics_time(&q->s->m.whole, clock_now() - q->t0);
}

/* The connection thread has put the whole answer, or nobody wants it. */
static void serve__let_go(serve_req *q, metrics_outcome how, int status) {
    server *s = q->s;
    serve__count_outcome(q, how);
    log_info("%s %s %s%d %s, %.3f s, %zu prompt tokens", q->method, q->to->path, how == METRICS_LEFT ? "left, " : "", status,
             q->id, clock_now() - q->t0, atomic_load(&q->ready) ? q->a.n_ids : (size_t)0);
    s->open[q->at] = s->open[--s->n_open];
    s->open[q->at]->at = q->at;
    serve__leave(q);
}

/* The answer is an error, in place of all or in the stream. */
static void serve__put_error(serve_req *q, const char *name, bytes param, const char *message, metrics_outcome how) {
    const int status = wire_status(name);
    str       out = {0}, fields = {0};
    if (q->begun) {
        wire_fail(&q->w, name, message, &out);
        net_reply_put(q->r, str_bytes(&out));
        net_reply_end(q->r);
    } else {
        serve__fields(q->s, q->id, &fields);
        serve__error_fields(status, &fields);
        wire_error(q->to->shape, name, 0, param, message, &out);
        net_reply_whole(q->r, status, serve__json, fields.p, str_bytes(&out));
    }
    str_drop_all(&out, &fields);
    serve__let_go(q, how, status);
}

/* Hands over an answer that the model has no part in. */
static void serve__give(serve_req *q, int status, const char *type, str *body) {
    pthread_mutex_lock(&q->lock);
    q->has_direct = true;
    q->status = status;
    q->type = type;
    q->direct = *body;
    pthread_mutex_unlock(&q->lock);
    *body = (str){0};
    net_reply_wake(q->r);
}

/* The same of an error. */
static void serve__refuse(serve_req *q, const char *name, const err_t *e) {
    const bytes param = wire_param(e);
    pthread_mutex_lock(&q->lock);
    q->has_direct = true;
    q->fault = name;
    str_put(&q->direct, e->text);
    str_add(&q->param, param.p, param.n);
    pthread_mutex_unlock(&q->lock);
    net_reply_wake(q->r);
}

/* The side that computes has done its part. */
static void serve__computed(serve_req *q) {
    server    *s = q->s;
    const bool line = !q->r;                          /* of a batch: the helper writes its record */
    if (!line && serve__by_model(q)) atomic_fetch_sub(&s->live, 1);
    if (!line) serve__leave(q);
    pthread_mutex_lock(&s->lock);
    if (line) serve__append(&s->over, &s->over_last, q);
    s->news = true;                                   /* there may be a place for a line of a batch */
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
}

/* The connection thread has a whole request. */
static void serve__request(void *ctx, const http_request *h, str *body, void *sink, net_reply *r) {
    server               *s = ctx;
    const serve_endpoint *known, *to = serve__find(h, &known);
    serve__sweep(s);
    if (h->method == HTTP_OPTIONS) {
        serve__preflight(s, h, r);
        return;
    }
    if (to->kind <= SERVE_PAGE) {
        serve__quick(s, h, to->kind, r);
        return;
    }
    const bool full = to->kind >= SERVE_TEXTS && atomic_load(&s->live) >= s->job->n_parallel + s->o.queue;
    const uint64_t bodies = atomic_load(&s->bodies), n_body = sink ? files_upload_bytes(sink) : body->n;
    if (full || (bodies && bodies + n_body > SERVE_BODIES * s->o.max_body)) {
        str out = {0};
        files_upload_drop(sink);
        atomic_fetch_add(&s->m.outcomes[METRICS_REFUSED], 1);
        wire_error(to->shape, "overloaded", 0, (bytes){0},
                   full ? "too many requests wait (--queue)" : "too many bytes of requests wait", &out);
        serve__reply(s, h, r, 503, serve__json, str_bytes(&out));
        str_drop(&out);
        return;
    }
    serve_req *q = mem_new(1, sizeof *q);
    q->s = s, q->r = r, q->to = to;
    q->method = serve__method(h);
    q->t0 = q->t_put = clock_now();
    q->created = (int64_t)time(NULL);
    q->body = *body;
    *body = (str){0};
    q->upload = sink;
    q->n_body = n_body;
    atomic_fetch_add(&s->bodies, n_body);
    const uint64_t number = atomic_fetch_add(&s->n_ids, 1);
    snprintf(q->id, sizeof q->id, "%016llx%016llx", (unsigned long long)rng_mix(s->secret ^ number),
             (unsigned long long)rng_mix(~s->secret ^ number));
    pthread_mutex_init(&q->lock, NULL);
    atomic_store(&q->refs, 2);
    q->fd = -1;
    if (to->kind == SERVE_FILES) files_call_read(&q->call, h);
    net_reply_set_data(r, q);
    if (serve__by_model(q)) atomic_fetch_add(&s->live, 1);
    q->at = s->n_open;
    MEM_PUSH(s->open, s->n_open, q);
    pthread_mutex_lock(&s->lock);
    serve__append(&s->todo, &s->todo_last, q);
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
}

/* --- answers that have ended --- */

/* Tokens of thinking in an answer. */
static int serve__thought(const serve_req *q, const gen_answer *a) {
    const gen_think *t = &q->a.q.ask.gen.think;
    const bytes      text = str_bytes(&a->text);
    int              n = 0;
    if (!q->a.q.chat || !t->end.n || (!t->inside && bytes_find(text, 0, t->open) == SIZE_MAX)) return 0;
    const size_t at = bytes_find(text, 0, t->end), to = at == SIZE_MAX ? text.n : at + t->end.n;
    while (n < a->n_tok && a->tok[n].end <= to) n++;
    return n;
}

/* Tokens of all answers, which have ended. */
static wire_usage serve__usage(const serve_req *q) {
    wire_usage u = {.prompt = (int)q->a.n_ids};
    for (int i = 0; i < q->a.q.n; i++) {
        const gen_answer *a = &q->box[i].end;
        if (i % q->a.q.ask.n == 0) u.cached += a->n_cached;
        u.made += a->n_tok;
        u.thought += serve__thought(q, a);
    }
    return u;
}

/* The error that an answer has ended with, its name; NULL: none. */
static const char *serve__failed(serve_req *q, err_t *e) {
    for (int i = 0; i < q->a.q.n; i++) {
        const gen_answer *a = &q->box[i].end;
        if (!q->box[i].ended) continue;
        if (a->finish == GEN_CANCELLED) {
            err_set(e, EXIT_RESOURCE, "%s", serve__why_not(SERVE_ENDING));
            return "overloaded";
        }
        if (a->finish != GEN_FAILED) continue;
        *e = a->err;
        ask_hide_paths(&q->s->job->env, e);
        return ask_error_code(e);
    }
    return NULL;
}

/* --- the helper: a request is made ready --- */

/* What a body leaves out is said once, and under -v each time. */
static void serve__note(server *s, const serve_req *q, const str *notes) {
    bytes rest = str_bytes(notes), one;
    while (bytes_cut_line(&rest, &one)) {
        const uint64_t h = bytes_hash(1, one);
        bool           had = false;
        for (int i = 0; i < s->n_noted; i++) had |= s->noted[i] == h;
        if (!had && s->n_noted < SERVE_NOTES) {
            s->noted[s->n_noted++] = h;
            log_warn("%s: %.*s", q->to->path, (int)min_size(one.n, 400), (const char *)one.p);
        } else log_info("%s: %.*s", q->to->path, (int)min_size(one.n, 400), (const char *)one.p);
    }
}

static bool serve__known_json(serve_req *q, err_t *e) {
    const bytes b = bytes_trim(str_bytes(&q->body));
    return (b.n && b.p[0] == '{' && bytes_is_json(b)) || err_set(e, EXIT_INPUT, "the body is no JSON object");
}

/* A flag of a body; what it is where it is missing. */
static bool serve__flag(bytes body, const char *name, bool otherwise) {
    const bytes v = bytes_trim(bytes_member(body, name));
    return v.n ? bytes_is(v, "true") : otherwise;
}

/* A token with its text, or with its bytes where they are not UTF-8. */
static void serve__put_piece(const tok_vocab *v, int32_t id, jw *w) {
    const bytes text = tok_is_control(v, id) ? tok_text(v, id) : tok_piece(v, id);
    jw_open(w, NULL, '{');
    jw_fmt(w, "id", "%d", id);
    if (utf8_whole(text)) jw_text(w, "piece", text);
    else {
        jw_open(w, "piece", '[');
        for (size_t i = 0; i < text.n; i++) jw_fmt(w, NULL, "%d", text.p[i]);
        jw_close(w, ']');
    }
    jw_close(w, '}');
}

/* {"content":TEXT,"add_special":false,"parse_special":true,"with_pieces":false} to {"tokens":[...]} */
static bool serve__tokenize(serve_req *q, err_t *e) {
    const tok_vocab *v = q->s->eng->v;
    const bytes      body = bytes_trim(str_bytes(&q->body));
    str              text = {0}, out = {0};
    tok_ids          ids = {0};
    const bool       pieces = serve__flag(body, "with_pieces", false), special = serve__flag(body, "parse_special", true);
    str_add(&text, "", 0);
    bool ok = str_unquote(&text, bytes_trim(bytes_member(body, "content")), false) ||
              err_set(e, EXIT_INPUT, "content: expected a text");
    const bool     begins = serve__flag(body, "add_special", false) && tok_add_bos(v);
    const unsigned flags = (special ? TOK_SPECIAL : 0) | (begins ? TOK_BOS : 0);
    ok = ok && tok_encode(v, str_bytes(&text), flags, &ids, e);
    jw w = jw_tight(&out);
    jw_open(&w, NULL, '{');
    jw_open(&w, "tokens", '[');
    for (size_t i = 0; ok && i < ids.n; i++) {
        if (pieces) serve__put_piece(v, ids.id[i], &w);
        else jw_fmt(&w, NULL, "%d", ids.id[i]);
    }
    jw_close(&w, ']');
    jw_close(&w, '}');
    if (ok) serve__give(q, 200, serve__json, &out);
    str_drop_all(&text, &out);
    tok_ids_drop(&ids);
    return ok;
}

/* {"tokens":[ids]} to {"content":TEXT} */
static bool serve__detokenize(serve_req *q, err_t *e) {
    const tok_vocab *v = q->s->eng->v;
    bytes            list = bytes_trim(bytes_member(bytes_trim(str_bytes(&q->body)), "tokens"));
    str              text = {0}, out = {0};
    tok_ids          ids = {0};
    bool             ok = (list.n && list.p[0] == '[') || err_set(e, EXIT_INPUT, "tokens: expected a list of token ids");
    for (bytes one; ok && bytes_cut_item(&list, &one);) {
        long long id = 0;
        size_t    n = 0;
        while (n < one.n && isdigit(one.p[n]) && id < tok_count(v)) id = 10 * id + (one.p[n++] - '0');
        ok = n == one.n && id < tok_count(v);
        if (ok) tok_ids_add(&ids, (int32_t)id);
        else err_set(e, EXIT_INPUT, "tokens: expected ids from 0 to %d", tok_count(v) - 1);
    }
    if (ok) {
        str_add(&text, "", 0);
        tok_decode(v, ids.id, ids.n, true, &text);
        jw w = jw_tight(&out);
        jw_open(&w, NULL, '{');
        jw_text(&w, "content", str_bytes(&text));
        jw_close(&w, '}');
        serve__give(q, 200, serve__json, &out);
    }
    str_drop_all(&text, &out);
    tok_ids_drop(&ids);
    return ok;
}

/* Reads the body into q->a.q. NULL: done; else the error's name. */
static const char *serve__read(serve_req *q, err_t *e) {
    server     *s = q->s;
    str         line = {0}, notes = {0};
    const bool  vectors = q->to->kind == SERVE_VECTORS || q->to->kind == SERVE_RANKS;
    gen_request base = gen_ask(NULL, s->job->gen, s->job->samp, s->job->seed < 0 ? rng_fresh() : (uint64_t)s->job->seed);
    if (vectors) base.embeds = true, base.embed = *s->job->env.embed;
    const req_form form = {.base = &base, .n_vocab = s->eng->m.hp.n_vocab, .json = true, .hold = s->job->hold};
    bool ok = post_read(&q->w.p, q->to->shape, str_bytes(&q->body), &line, &notes, e);
    const char *fault = ok ? NULL : q->w.p.fault;
    if (ok && !req_read(&q->a.q, str_bytes(&line), &form, e)) ok = false, fault = q->a.q.fault;
    serve__note(s, q, &notes);
    str_drop_all(&line, &notes);
    str_drop(&q->body);
    return ok ? NULL : fault ? fault : req_invalid;
}

/* What requests share, with the scales of adapters that a client has set. Lines of batches have the command's, since their
 * results go on in later runs. */
static ask_env serve__env(const server *s) {
    ask_env env = s->job->env;
    env.scales = s->scales;
    return env;
}

/* As llama.cpp's server has it: GET lists [{"id":0,"path":FILE,"scale":1}], POST takes such a list, whose scales count for the
 * requests after it that name no adapters; those that it does not name are off. */
static bool serve__adapters(serve_req *q, err_t *e) {
    server     *s = q->s;
    const lora *l = s->eng->adapters;
    const int   n = l ? l->n : 0;
    str         out = {0};
    jw          w = jw_tight(&out);
    if (q->to->method == HTTP_POST) {
        float     *scale = mem_new((size_t)n, sizeof *scale);
        req        r;
        const bool ok = req_read_adapters(&r, str_bytes(&q->body), e) && ask_scales(l, &r, scale, e);
        req_drop(&r);
        mem_free(ok ? s->scales : scale);
        if (!ok) return false;
        s->scales = scale;
        jw_open(&w, NULL, '{');
        jw_bool(&w, "success", true);
        jw_close(&w, '}');
        return serve__give(q, 200, serve__json, &out), true;
    }
    jw_open(&w, NULL, '[');
    for (int i = 0; i < n; i++) {
        const char *file = str_base_name(l->of[i].path);
        jw_open(&w, NULL, '{');
        jw_fmt(&w, "id", "%d", i);
        jw_str(&w, "name", l->of[i].name);
        jw_str(&w, "path", *file ? file : l->of[i].name);
        jw_number(&w, "scale", 7, (double)(s->scales ? s->scales[i] : l->of[i].scale));
        jw_close(&w, '}');
    }
    jw_close(&w, ']');
    return serve__give(q, 200, serve__json, &out), true;
}

/* {"messages":[...]} to {"prompt":TEXT}; or the number of its tokens. */
static bool serve__template(serve_req *q, const char **fault, err_t *e) {
    ask_env env = serve__env(q->s);
    str     out = {0};
    env.keep_text = true;
    *fault = serve__read(q, e);
    if (*fault) return false;
    *fault = ask_make(&env, &q->a, e);
    const req_prompt *p = q->a.q.prompt;
    if (*fault && (!p->text.p || !q->a.n_ids)) return false;
    if (q->to->kind == SERVE_COUNT) wire_count((int)q->a.n_ids, &out);
    else {
        jw w = jw_tight(&out);
        jw_open(&w, NULL, '{');
        jw_text(&w, "prompt", p->text);
        jw_close(&w, '}');
    }
    serve__give(q, 200, serve__json, &out);
    return true;
}

/* A request of /v1/files or /v1/batches. */
static bool serve__files(serve_req *q, const char **fault, err_t *e) {
    server        *s = q->s;
    files_answered a = {.fd = -1};
    str            out = {0};
    *fault = "not_found";
    if (!s->files) return err_set(e, EXIT_INPUT, "this server keeps no files (--files DIR)");
    if (q->upload) files_answer_upload(s->files, &q->call, q->upload, &a);
    else files_answer(s->files, &q->call, str_bytes(&q->body), &a);
    str_drop(&q->body);
    files_upload_drop(q->upload);
    q->upload = NULL;
    q->fd = a.fd, q->size = a.size, q->allow = a.allow;
    a.fd = -1;
    if (a.code) wire_error(POST_CHAT, NULL, a.status, a.param ? bytes_of(a.param) : (bytes){0}, a.body.p, &out);
    else str_cat(&out, str_bytes(&a.body));
    serve__give(q, a.status, serve__json, &out);
    files_answer_drop(&a);
    return true;
}

/* Whether the model can answer requests of this kind. */
static bool serve__can(const serve_req *q, err_t *e) {
    const serve_job *j = q->s->job;
    const serve_kind k = q->to->kind;
    if (k == SERVE_TEXTS && !j->answers) return err_set(e, EXIT_INPUT, "this model makes vectors, no texts (/v1/embeddings)");
    if (k == SERVE_RANKS && !j->ranks)
        return err_set(e, EXIT_INPUT, "this model does not score pairs of texts: it has no classifier, or --pooling is not rank");
    return k != SERVE_VECTORS || !j->ranks || err_set(e, EXIT_INPUT, "this model scores pairs of texts (/v1/rerank)");
}

/* A request for the model becomes ready. NULL: done; else the error's name. */
static const char *serve__ready(serve_req *q, err_t *e) {
    server       *s = q->s;
    const ask_env env = serve__env(s);
    const char   *fault;
    if (!serve__can(q, e)) return "not_supported_by_model";
    if ((fault = serve__read(q, e))) return fault;
    if (q->to->kind == SERVE_RANKS) q->a.query = str_bytes(&q->w.p.query);
    if ((fault = ask_make(&env, &q->a, e))) return fault;
    if (!ask_hold(&env, &q->a, e)) return ask_error_code(e);
    serve__note(s, q, &q->a.q.warnings);
    q->box = mem_new((size_t)q->a.q.n, sizeof *q->box);
    for (int i = 0; i < q->a.q.n; i++) {
        serve_box *b = &q->box[i];
        if (q->a.q.chat && q->w.p.stream) {
            b->reader = chat_reader_new(&q->a.chat, ask_tools(&q->a.q));
            chat_reader_watch(b->reader);
        }
        str_put(&b->seen.text, "");
        b->seen.top = q->a.q.ask.top;
    }
    return NULL;
}

static void serve__prepare(serve_req *q) {
    server     *s = q->s;
    const char *fault = req_invalid;
    err_t       e = {0};
    bool        ok = true;
    if (atomic_load(&q->gone)) {
        serve__computed(q);
        return;
    }
    switch (q->to->kind) {
    case SERVE_FILES: ok = serve__files(q, &fault, &e); break;
    case SERVE_TOKENIZE: ok = serve__known_json(q, &e) && serve__tokenize(q, &e); break;
    case SERVE_DETOKENIZE: ok = serve__known_json(q, &e) && serve__detokenize(q, &e); break;
    case SERVE_ADAPTERS: ok = serve__adapters(q, &e); break;
    case SERVE_TEMPLATE:
    case SERVE_COUNT: ok = serve__template(q, &fault, &e); break;
    default: ok = !(fault = serve__ready(q, &e));
    }
    if (!ok) ask_hide_paths(&s->job->env, &e), serve__refuse(q, fault, &e);
    if (!ok || !serve__by_model(q)) {
        serve__computed(q);
        return;
    }
    atomic_store(&q->ready, true);
    pthread_mutex_lock(&s->lock);
    serve__append(&s->ready, &s->ready_last, q);
    pthread_mutex_unlock(&s->lock);
    serve__poke(s);
}

/* --- the helper: lines of batches, while there are places beside requests --- */

/* Reads the line. NULL: it is ready; else the error's name. */
static const char *serve__read_line(serve_req *q, err_t *e) {
    server     *s = q->s;
    const gen_request base = gen_ask(NULL, s->job->gen, s->job->samp, q->line.seed);
    const req_form    form = {.base = &base, .n_vocab = s->eng->m.hp.n_vocab, .json = true, .hold = s->job->hold,
                              .embed = s->job->env.embed};
    if (!req_read(&q->a.q, q->line.text, &form, e)) return q->a.q.fault ? q->a.q.fault : req_invalid;
    if (q->a.q.ask.embeds ? s->job->ranks : !s->job->answers) {
        err_set(e, EXIT_INPUT, "the model does not answer requests of this kind");
        return req_unsupported;
    }
    const char *fault = ask_make(&s->job->env, &q->a, e);
    return fault ? fault : ask_hold(&s->job->env, &q->a, e) ? NULL : ask_error_code(e);
}

/* Takes the next line of a batch. False: there is none now. */
static bool serve__take_line(server *s) {
    files_line line;
    err_t      e = {0};
    if (!s->files || s->n_lines + atomic_load(&s->live) >= s->job->n_parallel || atomic_load(&s->state) != SERVE_SERVING ||
        !files_has_work(s->files)) return false;
    const files_got got = files_next(s->files, &line);
    if (got != FILES_LINE) return got == FILES_AGAIN;
    serve_req *q = mem_new(1, sizeof *q);
    q->s = s;
    q->fd = -1;
    q->line = line;
    q->t0 = clock_now();
    q->created = (int64_t)time(NULL);
    pthread_mutex_init(&q->lock, NULL);
    atomic_store(&q->refs, 1);
    const char *fault = serve__read_line(q, &e);
    if (fault) {
        files_refuse(s->files, &line, &q->a.q, fault, e.text);
        serve__free(q);
        return true;
    }
    q->box = mem_new((size_t)q->a.q.n, sizeof *q->box);
    s->n_lines++;
    pthread_mutex_lock(&s->lock);
    serve__append(&s->ready, &s->ready_last, q);
    pthread_mutex_unlock(&s->lock);
    serve__poke(s);
    return true;
}

/* Writes the record of a line whose answers have ended. */
static void serve__write_line(serve_req *q) {
    server     *s = q->s;
    err_t       e = {0};
    str         record = {0};
    gen_answer *a = mem_new((size_t)q->a.q.n, sizeof *a);
    const char *failed = serve__failed(q, &e);
    for (int i = 0; i < q->a.q.n; i++) a[i] = q->box[i].end;
    s->n_lines--;
    if (failed && strcmp(failed, "overloaded") == 0) files_give_up(s->files, &q->line);
    else if (failed) files_refuse(s->files, &q->line, &q->a.q, failed, e.text);
    else {
        const wire_usage u = serve__usage(q);
        const req_origin o = {.line = q->line.no, .digest = q->line.is.is, .model_name = s->job->model_name,
                              .fingerprint = q->line.fingerprint, .created = q->created, .n_prompt = u.prompt,
                              .n_cached = u.cached, .ids = q->a.ids};
        chat_answer *said = ask_parts(&q->a, a);
        req_print(&q->a.q, a, said, &o, s->eng->v, &record);
        files_put(s->files, &q->line, str_bytes(&record), false);
        for (int i = 0; said && i < q->a.q.n; i++) chat_answer_drop(&said[i]);
        mem_free(said);
    }
    mem_free(a);
    str_drop(&record);
    serve__free(q);
}

/* What there is to do: requests first, then records, then lines. */
static void *serve__helper(void *arg) {
    server *s = arg;
    mem_stand_beside();
    pthread_mutex_lock(&s->lock);
    while (!s->quits) {
        serve_req *q = serve__pop(&s->todo), *w = q ? NULL : serve__pop(&s->over);
        s->news = false;
        pthread_mutex_unlock(&s->lock);
        if (q) atomic_fetch_sub(&s->bodies, q->n_body);
        const bool did = q ? (serve__prepare(q), true) : w ? (serve__write_line(w), true) : serve__take_line(s);
        pthread_mutex_lock(&s->lock);
        while (!did && !s->todo && !s->over && !s->news && !s->quits) pthread_cond_wait(&s->more, &s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* --- answers: the connection thread makes their bytes --- */

/* Takes what the main thread has noted. True: the answer has ended. */
static bool serve__take_news(serve_req *q, serve_box *b) {
    pthread_mutex_lock(&q->lock);
    const bool ended = b->ended;
    if (!ended && b->text.n) str_cat(&b->seen.text, str_bytes(&b->text)), b->text.n = 0;
    if (!ended && b->n_tok) {
        const size_t had = (size_t)b->seen.n_tok, n = (size_t)b->n_tok, top = (size_t)b->seen.top;
        b->seen.tok = mem_grow(b->seen.tok, had + n, sizeof *b->seen.tok);
        memcpy(b->seen.tok + had, b->tok, n * sizeof *b->tok);
        if (top) {
            b->seen.top_id = mem_grow(b->seen.top_id, (had + n) * top, sizeof *b->seen.top_id);
            b->seen.top_lp = mem_grow(b->seen.top_lp, (had + n) * top, sizeof *b->seen.top_lp);
            memcpy(b->seen.top_id + had * top, b->top_id, n * top * sizeof *b->top_id);
            memcpy(b->seen.top_lp + had * top, b->top_lp, n * top * sizeof *b->top_lp);
        }
        b->seen.n_tok += b->n_tok;
        b->n_tok = 0;
    }
    pthread_mutex_unlock(&q->lock);
    return ended;
}

typedef struct {
    serve_req *q;
    int        choice;
    str       *out;
} serve__putter;

static void serve__put_part(void *ctx, chat_channel channel, bytes text) {
    const serve__putter *p = ctx;
    if (channel == CHAT_CALLS) return;
    wire_text(&p->q->w, p->choice, channel == CHAT_THINKING ? WIRE_THINKING : WIRE_CONTENT, text, p->out);
}

/* The stop text of the body that has ended an answer; empty: none has. */
static bytes serve__stop_text(const serve_req *q, const gen_answer *a) {
    return a->finish == GEN_STOP_TEXT && a->stop < q->a.q.n_stop ? q->a.q.stop[a->stop] : (bytes){0};
}

/* Appends what is new of one choice. */
static void serve__stream_choice(serve_req *q, int i, bool ended, str *out) {
    serve_box        *b = &q->box[i];
    const gen_answer *a = ended ? &b->end : &b->seen;
    const int         n = ended ? gen_visible_tokens(a) : a->n_tok;
    serve__putter     p = {q, i, out};
    chat_piece        piece;
    if (b->n_lp < n) wire_logprobs(&q->w, i, &q->a.q, a, b->n_lp, n, q->s->eng->v, out);
    b->n_lp = max_int(b->n_lp, n);
    if (b->reader) {
        chat_reader_feed(b->reader, str_bytes(&a->text), ended, serve__put_part, &p);
        while (chat_reader_call(b->reader, &piece)) wire_call(&q->w, i, piece.index, piece.id, piece.name, piece.arguments, out);
    } else wire_text(&q->w, i, WIRE_CONTENT, bytes_slice(str_bytes(&a->text), b->n_text, a->text.n), out);
    b->n_text = a->text.n;
    if (!ended) return;
    wire_finish(&q->w, i, a->finish, serve__stop_text(q, a), out);
    b->over = true;
    q->n_over++;
}

static void serve__begin_stream(serve_req *q, str *out) {
    const wire_origin o = {.id = q->id, .model_name = q->s->job->model_name, .fingerprint = q->s->job->fingerprint,
                           .created = q->created, .n_prompt = (int)q->a.n_ids};
    str fields = {0};
    if (q->begun) return;
    q->begun = true;
    serve__fields(q->s, q->id, &fields);
    str_put(&fields, "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n");
    net_reply_begin(q->r, 200, "text/event-stream; charset=utf-8", fields.p);
    wire_begin(&q->w, &q->a.q, &o, out);
    str_drop(&fields);
}

static void serve__stream(serve_req *q) {
    str  out = {0};
    bool any = false;
    serve__begin_stream(q, &out);
    for (int i = 0; i < q->a.q.n; i++) {
        if (q->box[i].over) continue;
        const bool ended = serve__take_news(q, &q->box[i]);
        serve__stream_choice(q, i, ended, &out);
    }
    if (q->n_over == q->a.q.n) {
        const wire_usage u = serve__usage(q);
        wire_end(&q->w, &u, &out);
    }
    any = out.n > 0;
    if (any) net_reply_put(q->r, str_bytes(&out)), q->t_put = clock_now();
    str_drop(&out);
    if (q->n_over < q->a.q.n) return;
    net_reply_end(q->r);
    serve__let_go(q, METRICS_OK, 200);
}

/* The whole answer as one object. */
static void serve__whole(serve_req *q) {
    server           *s = q->s;
    const wire_usage  u = serve__usage(q);
    const wire_origin o = {.id = q->id, .model_name = s->job->model_name, .fingerprint = s->job->fingerprint,
                           .created = q->created, .n_prompt = (int)q->a.n_ids};
    const req_origin  ro = {.id = q->id, .model_name = o.model_name, .fingerprint = o.fingerprint, .created = o.created,
                            .n_prompt = u.prompt, .n_cached = u.cached, .ids = q->a.ids};
    gen_answer  *a = mem_new((size_t)q->a.q.n, sizeof *a);
    chat_answer *said = NULL;
    str          out = {0}, fields = {0};
    for (int i = 0; i < q->a.q.n; i++) a[i] = q->box[i].end;
    said = ask_parts(&q->a, a);
    wire_begin(&q->w, &q->a.q, &o, &out);
    wire_whole(&q->w, &q->a.q, a, said, &ro, &u, serve__stop_text(q, a), s->eng->v, &out);
    serve__fields(s, q->id, &fields);
    net_reply_whole(q->r, 200, serve__json, fields.p, str_bytes(&out));
    for (int i = 0; said && i < q->a.q.n; i++) chat_answer_drop(&said[i]);
    mem_free_all(a, said);
    str_drop_all(&out, &fields);
    serve__let_go(q, METRICS_OK, 200);
}

/* Whether all answers have ended. *failed: the name of an error, NULL: none. */
static bool serve__all_ended(serve_req *q, const char **failed, err_t *e) {
    bool all = true;
    pthread_mutex_lock(&q->lock);
    for (int i = 0; i < q->a.q.n; i++) all = all && q->box[i].ended;
    *failed = serve__failed(q, e);
    pthread_mutex_unlock(&q->lock);
    return all;
}

/* There is something new for the client. */
static void serve__pull(void *ctx, net_reply *r) {
    server     *s = ctx;
    serve_req  *q = net_reply_data(r);
    const char *failed = NULL;
    err_t       e = {0};
    if (!q || atomic_load(&q->gone) || q->at >= s->n_open || s->open[q->at] != q) return;     /* let go: its answer is whole */
    pthread_mutex_lock(&q->lock);
    const bool direct = q->has_direct;
    pthread_mutex_unlock(&q->lock);
    if (direct && q->fault) serve__put_error(q, q->fault, str_bytes(&q->param), q->direct.p, METRICS_REFUSED);
    else if (direct) {
        str fields = {0};
        serve__fields(s, q->id, &fields);
        serve__error_fields(q->status, &fields);
        if (q->allow) str_fmt(&fields, "Allow: %s\r\n", q->allow);
        if (q->fd >= 0) net_reply_file(q->r, q->status, "application/octet-stream", fields.p, q->fd, q->size), q->fd = -1;
        else net_reply_whole(q->r, q->status, q->type, fields.p, str_bytes(&q->direct));
        str_drop(&fields);
        serve__let_go(q, q->status < 400 ? METRICS_OK : METRICS_REFUSED, q->status);
    } else if (atomic_load(&q->ready)) {
        const bool all = serve__all_ended(q, &failed, &e);
        if (failed) {
            serve__put_error(q, failed, (bytes){0}, e.text, METRICS_FAILED);
            atomic_store(&q->gone, true);
            serve__poke(s);
        } else if (q->w.p.stream) serve__stream(q);
        else if (all) serve__whole(q);
        if (atomic_load(&q->waits)) serve__poke(s);
    }
    serve__sweep(s);
}

/* The client wants nothing any more. */
static void serve__gone(void *ctx, net_reply *r) {
    server    *s = ctx;
    serve_req *q = net_reply_data(r);
    if (!q || atomic_exchange(&q->gone, true)) return;
    if (q->at < s->n_open && s->open[q->at] == q) serve__let_go(q, METRICS_LEFT, 0);
    serve__poke(s);
}

/* Once a second: what waits long shows that it lives, what waits too long ends. */
static void serve__tick(void *ctx) {
    server      *s = ctx;
    const double now = clock_now();
    for (size_t i = s->n_open; i-- > 0;) {
        serve_req *q = s->open[i];
        str        out = {0};
        if (s->o.timeout > 0 && now - q->t0 > (double)s->o.timeout) {
            char why[100];
            snprintf(why, sizeof why, "not answered within %g seconds (--request-timeout)", (double)s->o.timeout);
            serve__put_error(q, "overloaded", (bytes){0}, why, METRICS_LATE);
            atomic_store(&q->gone, true);
            serve__poke(s);
        } else if (serve__by_model(q) && atomic_load(&q->ready) && q->w.p.stream && now - q->t_put >= SERVE_ALIVE &&
                   !net_reply_full(q->r)) {
            serve__begin_stream(q, &out);
            wire_alive(&q->w, &out);
            net_reply_put(q->r, str_bytes(&out));
            q->t_put = now;
        }
        str_drop(&out);
    }
    pthread_mutex_lock(&s->lock);
    s->news = true;                                   /* a batch may wait for space or descriptors */
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
    serve__sweep(s);
}

/* --- the main thread: steps --- */

/* Whether as much of an answer waits for the connection thread as may. The caller has the lock. */
static bool serve__box_full(const serve_box *b) {
    const size_t top = (size_t)b->seen.top;
    return b->text.n + (size_t)b->n_tok * (sizeof *b->tok + top * (sizeof *b->top_id + sizeof *b->top_lp)) >= SERVE_NEWS;
}

/* Notes what a step has added to an answer. */
static void serve__news(void *ctx, const gen_answer *a) {
    server      *s = ctx;
    serve_req   *q = a->owner;
    serve_box   *b = &q->box[a->index];
    const double now = a->t_last;
    if (!q->r) return;                                /* a line of a batch */
    if (a->n_tok && !q->counted) {
        q->counted = true;
        metrics_time(&s->m.first, a->t_first - q->t0);
        hist_add(&s->ttft, a->t_first - q->t0);
    }
    for (int n = a->n_tok - b->n_seen; b->n_seen < a->n_tok; b->n_seen++)
        if (b->n_seen) metrics_time(&s->m.between, (now - b->t_last) / n);
    b->t_last = now;
    if (a->finish || !q->w.p.stream) return;
    const size_t to = a->text.n - gen_may_stop(&a->text, b->given, q->a.q.ask.gen.stop, q->a.q.ask.gen.n_stop);
    const bool   lps = q->a.q.ask.logprobs;
    int          n_to = b->n_given;
    while (lps && n_to < a->n_tok && a->tok[n_to].end <= to) n_to++;
    if (to == b->given && n_to == b->n_given) return;
    pthread_mutex_lock(&q->lock);
    const bool takes = !serve__box_full(b);
    if (takes) {
        const size_t n = (size_t)(n_to - b->n_given), had = (size_t)b->n_tok, from = (size_t)b->n_given, top = (size_t)a->top;
        str_add(&b->text, a->text.p + b->given, to - b->given);
        if (n) {
            b->tok = mem_grow(b->tok, had + n, sizeof *b->tok);
            memcpy(b->tok + had, a->tok + from, n * sizeof *b->tok);
            b->top_id = mem_grow(b->top_id, (had + n) * max_size(top, 1), sizeof *b->top_id);
            b->top_lp = mem_grow(b->top_lp, (had + n) * max_size(top, 1), sizeof *b->top_lp);
            if (top) memcpy(b->top_id + had * top, a->top_id + from * top, n * top * sizeof *b->top_id);
            if (top) memcpy(b->top_lp + had * top, a->top_lp + from * top, n * top * sizeof *b->top_lp);
        }
        b->n_tok += (int)n;
        b->given = to;
        b->n_given = n_to;
    }
    pthread_mutex_unlock(&q->lock);
    if (takes) net_reply_wake(q->r);                  /* a reader that has fallen behind costs the connection thread nothing */
}

/* An answer has ended. */
static void serve__ended(server *s, gen_answer *a) {
    serve_req *q = a->owner;
    serve_box *b = &q->box[a->index];
    pthread_mutex_lock(&q->lock);
    b->end = *a;
    b->ended = true;
    pthread_mutex_unlock(&q->lock);
    if (q->r) net_reply_wake(q->r);
    if (++q->n_ended < q->a.q.n) return;
    for (size_t i = 0; i < s->n_run; i++)
        if (s->run[i] == q) {
            s->run[i] = s->run[--s->n_run];
            break;
        }
    serve__computed(q);
}

/* A request that is ready joins the schedule. */
static void serve__join(server *s, serve_req *q) {
    err_t e = {0};
    if (atomic_load(&q->gone)) {
        serve__computed(q);
        return;
    }
    MEM_PUSH(s->run, s->n_run, q);
    if (!q->a.q.ask.embeds && !q->a.q.ask.gen.n_predict) {
        for (int i = 0, n = q->a.q.n; i < n; i++) {
            gen_answer a = {.owner = q, .index = i, .finish = GEN_LENGTH};
            str_put(&a.text, "");
            serve__ended(s, &a);
        }
        return;
    }
    for (int i = 0, n = q->a.q.n_prompt; i < n; i++) {
        const gen_request r = ask_request(&q->a, i, q);
        if (sched_add(s->sc, &r, &e)) continue;
        for (int k = 0; k < r.n; k++) {
            gen_answer a = {.owner = q, .index = r.index + k, .finish = GEN_FAILED, .err = e};
            serve__ended(s, &a);
        }
    }
}

/* Whether its reader has fallen behind. */
static bool serve__is_full(serve_req *q) {
    bool full = net_reply_full(q->r);
    pthread_mutex_lock(&q->lock);
    for (int k = 0; k < q->a.q.n; k++) full = full || serve__box_full(&q->box[k]);
    pthread_mutex_unlock(&q->lock);
    return full;
}

/* Ends the answers of requests that nobody wants, and holds back those whose reader is slow. */
static void serve__look_at_readers(server *s) {
    uint64_t n_paused = 0;
    for (size_t i = 0; i < s->n_run; i++) {
        serve_req *q = s->run[i];
        if (!q->r) continue;
        if ((atomic_load(&q->gone) || net_reply_gone(q->r)) && !q->cancelled) {
            q->cancelled = true;
            sched_cancel_of(s->sc, q);
        }
        if (q->cancelled || !q->w.p.stream) continue;
        const bool full = serve__is_full(q);
        n_paused += full;
        if (full == atomic_load(&q->waits)) continue;
        atomic_store(&q->waits, full);                /* a reader that takes something pokes from here on */
        if (full && !serve__is_full(q)) {
            atomic_store(&q->waits, false);
            n_paused--;
            continue;
        }
        for (int k = 0; k < q->a.q.n; k++) sched_pause(s->sc, q, k, full);
    }
    atomic_store(&s->m.paused, n_paused);
}

static void serve__take_ready(server *s) {
    pthread_mutex_lock(&s->lock);
    serve_req *q = s->ready;
    s->ready = NULL;
    pthread_mutex_unlock(&s->lock);
    for (serve_req *next; q; q = next) {
        next = q->next;
        serve__join(s, q);
    }
}

static void serve__publish(server *s) {
    const sched_stats *st = &s->sc->st;
    const spec        *sp = s->sc->guesser;
    uint64_t           guessed = 0, accepted = 0;
    int                peak;
    for (int i = 0; i < SPEC_SOURCES; i++) {
        guessed += (uint64_t)spec_guessed(sp, (spec_source)i);
        accepted += (uint64_t)spec_accepted(sp, (spec_source)i);
    }
    atomic_store(&s->m.running, (uint64_t)s->sc->n_run);
    atomic_store(&s->m.waiting, (uint64_t)s->sc->n_waiting);
    atomic_store(&s->m.blocks, (uint64_t)kv_held(s->eng->kv, &peak));
    atomic_store(&s->m.blocks_most, (uint64_t)s->eng->kv->max_blocks);
    atomic_store(&s->m.read, (uint64_t)st->prefill);
    if ((uint64_t)st->cached > atomic_load(&s->m.cached))        /* a preemption takes back what will be found once more */
        atomic_store(&s->m.cached, (uint64_t)st->cached);
    atomic_store(&s->m.written, (uint64_t)st->written);
    atomic_store(&s->m.steps, (uint64_t)st->steps);
    atomic_store(&s->m.preempted, (uint64_t)st->preempted);
    atomic_store(&s->m.guessed, guessed);
    atomic_store(&s->m.accepted, accepted);
}

/* A line a second on a terminal. */
static void serve__progress(server *s) {
    const double       now = clock_now(), gone = now - s->t_shown;
    const sched_stats *st = &s->sc->st;
    if (gone < 1) return;
    const double read = (double)(st->prefill - s->shown_read) / gone, written = (double)(st->written - s->shown_written) / gone;
    atomic_store(&s->m.rate, (uint64_t)(written + 0.5));
    s->t_shown = now, s->shown_read = st->prefill, s->shown_written = st->written;
    if (progress_on())
        progress_show("%d running, %d waiting | %.0f tokens/s read, %.0f written | first token %.2f s p50, %.2f s p95",
                      s->sc->n_run, s->sc->n_waiting, read, written, hist_at(&s->ttft, 0.5), hist_at(&s->ttft, 0.95));
}

/* Waits until there is something to do, at most a second. */
static void serve__wait(server *s, double most) {
    struct pollfd p = {.fd = s->event, .events = POLLIN};
    uint64_t      count;
    poll(&p, 1, (int)(1e3 * (most < 1 ? most : 1)) + 1);
    while (read(s->event, &count, 8) < 0 && errno == EINTR) {}
}

/* Whether the loop goes on: until a signal, and then until all answers have ended, or their time is over. */
static bool serve__goes_on(server *s, double *until) {
    const double now = clock_now();
    if (atomic_load(&s->state) == SERVE_SERVING) return true;
    if (*until <= 0) {
        *until = now + (double)s->o.drain;
        progress_clear();
        log_warn("shutting down: %d request%s", atomic_load(&s->live), atomic_load(&s->live) == 1 ? "" : "s");
        net_drain(s->n);
    }
    return now < *until && (atomic_load(&s->live) > 0 || s->n_run || net_busy(s->n) > 0);
}

static bool serve__loop(server *s, err_t *e) {
    double until = 0;
    while (serve__goes_on(s, &until)) {
        serve__take_ready(s);
        serve__look_at_readers(s);
        const bool ran = sched_step(s->sc, -1, e);
        if (e->code) return false;
        if (ran) sched_each_new(s->sc, serve__news, s);
        for (gen_answer a; sched_take(s->sc, &a);) serve__ended(s, &a);
        serve__publish(s);
        serve__progress(s);
        if (!ran) serve__wait(s, until > 0 ? 0.05 : 1);
    }
    return true;
}

/* What has not ended is cut off, and the connection thread tells its readers. */
static void serve__cut(server *s) {
    atomic_store(&s->state, SERVE_ENDING);
    pthread_mutex_lock(&s->lock);
    s->quits = true;
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->helper, NULL);
    serve__take_ready(s);
    sched_cancel(s->sc);
    for (gen_answer a; sched_take(s->sc, &a);) serve__ended(s, &a);
    for (serve_req *q; (q = serve__pop(&s->over));) serve__write_line(q);
    const double end = clock_now() + 1;
    while (net_busy(s->n) > 0 && clock_now() < end) serve__wait(s, 0.02);
    net_close(s->n);
    s->n = NULL;
    for (serve_req *q; (q = serve__pop(&s->todo));) serve__computed(q);
    serve__sweep(s);
    files_close(s->files);
}

/* --- the run --- */

static void serve__add_key(server *s, bytes key) {
    str_cat(&s->keys, key);
    str_add(&s->keys, "\0", 1);
    s->key_at[++s->n_keys] = s->keys.n;
}

/* The keys of the options: one, and each line of a file. */
static bool serve__keys(server *s, err_t *e) {
    str   file = {0};
    bytes rest, one;
    if (s->o.key_file && !str_read_file(&file, s->o.key_file, 0, 1 << 20, "a file of keys", e)) return false;
    if (s->o.key) serve__add_key(s, bytes_of(s->o.key));
    rest = str_bytes(&file);
    while (bytes_cut_line(&rest, &one)) {
        one = bytes_trim(one);
        if (!one.n || one.p[0] == '#') continue;
        if (s->n_keys == SERVE_KEYS) err_set(e, EXIT_INPUT, "%s: more than %d keys", s->o.key_file, SERVE_KEYS);
        else serve__add_key(s, one);
    }
    str_drop(&file);
    if (s->o.key_file && !s->n_keys) err_set(e, EXIT_INPUT, "%s: no key, expected one on a line", s->o.key_file);
    if (s->o.key && !*s->o.key) err_set(e, EXIT_INPUT, "--api-key: an empty key, expected some letters");
    return !e->code;
}

/* Frees a server; NULL is none. */
static void serve_close(server *s) {
    if (!s) return;
    net_close(s->n);
    serve__sweep(s);
    close(s->event);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->more);
    str_drop(&s->keys);
    mem_free_all(s->run, s->open, s->scales, s);
}

/* Binds and listens, before the sandbox: connections wait until serve_start(). NULL: e says why. */
static server *serve_open(const serve_opts *o, err_t *e) {
    static const net_handler handler = {.head = serve__head, .sink_put = serve__sink_put, .sink_drop = serve__sink_drop,
                                        .request = serve__request, .pull = serve__pull, .tick = serve__tick,
                                        .gone = serve__gone, .error = serve__error};
    const net_opts no = {.where = o->where, .connections = o->connections, .max_body = o->max_body, .header_s = SERVE_HEADER_S,
                         .idle_s = SERVE_IDLE_S, .stall_s = (double)o->stall};
    server *s = mem_new(1, sizeof *s);
    s->o = *o;
    s->secret = rng_secret();
    s->created = (int64_t)time(NULL);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->more, NULL);
    s->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->event < 0) err_set(e, err_code_of(errno), "eventfd: %s", strerror(errno));
    else if (o->files && mkdir(o->files, 0700) && errno != EEXIST)
        err_set(e, err_code_of(errno), "%s: %s", o->files, strerror(errno));
    else if (serve__keys(s, e)) s->n = net_open(&no, &handler, s, e);
    if (s->n && !net_is_local(s->n) && !s->n_keys && !o->no_key)
        err_set(e, EXIT_INPUT, "--serve %s: other machines can reach it, expected --api-key KEY (or --no-api-key)", o->where);
    if (!e->code) return s;
    serve_close(s);
    return NULL;
}

/* Connections are answered from now on: that the model is being loaded. */
static bool serve_start(server *s, err_t *e) { return net_start(s->n, e); }

/* Serves until a signal, or until an error of the whole run, which is in e. */
static bool serve_run(server *s, engine *eng, spec *guesser, const serve_job *job, err_t *e) {
    const int        n_seqs = min_int(job->n_parallel, max_int(eng->n_batch / 2, 1));
    const sched_opts so = {.n_seqs = n_seqs, .stress = LLMRUN_STRESS, .live = true};
    s->eng = eng;
    s->job = job;
    const files_opts fo = {.folder = s->o.files, .most = s->o.files_max, .line_bytes = s->o.max_body,
                           .settings = job->settings};
    if (s->o.files && !(s->files = files_open(&fo, e))) return false;
    if (!(s->sc = sched_new(eng, guesser, &so, e))) return files_close(s->files), false;
    if (job->env.chat) chat_learn_all(job->env.chat);
    const int why = host_thread(&s->helper, serve__helper, s);
    if (why) {
        sched_free(s->sc);
        files_close(s->files);
        return err_set(e, EXIT_RESOURCE, "no thread for requests: %s", strerror(why));
    }
    s->t_shown = clock_now();
    serve__of_signals = s;
    pthread_mutex_lock(&s->lock);
    atomic_store(&s->state, SERVE_SERVING);
    s->news = true;
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
    str line = {0};                                   /* with -q too: it tells the port */
    str_fmt(&line, "llmrun: listening on %s\n", net_name(s->n));
    log_text(str_bytes(&line));
    str_drop(&line);
    serve__loop(s, e);
    serve__cut(s);
    serve__of_signals = NULL;
    progress_clear();
    sched_free(s->sc);
    return !e->code;
}
