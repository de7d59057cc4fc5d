/* ===== [net] sockets, and the thread that serves connections =====
 * One thread accepts connections, reads requests, and writes answers, for all of them with one poll(). It calls a net_handler
 * when a request is there; what the handler does there must return at once. The answer is a net_reply, whose functions any thread
 * may call: bytes are put into it whenever they are known, and go out as the client takes them. A thread that computes calls
 * net_reply_wake() alone, which costs an atomic operation, and the handler's pull() then makes the bytes on this thread, while
 * the answer's reader has taken all but NET_WAITING of those before. A slow reader delays no other and holds little memory.
 *   Invariants: at most net_opts.connections at a time; a connection reads and writes at most NET_READ and NET_WRITE bytes
 * before the next one has its turn; a second request of a connection is read when the first answer has ended; a client that
 * closes its side before its answer is whole has gone. Bodies that are being read have about NET_BODIES times
 * net_opts.max_body together, and the oldest goes on; one with a sink of the handler's holds at most NET_READ bytes in memory.
 *   System calls of the thread: poll, accept4, recv, send, shutdown, close, read and write of an eventfd, open of /dev/null,
 * pread of files. None of them names an address.
 * Public: net_open, net_start, net_drain, net_close, net_port, net_name, net_is_local, net_busy, net_reply_data,
 * net_reply_set_data, net_reply_whole, net_reply_file, net_reply_begin, net_reply_put, net_reply_end, net_reply_full,
 * net_reply_gone, net_reply_wake, net_reply_free.
 * Opens: net_handler, net_opts, net_refusal. */

enum {
    NET_READ = 64 << 10,                              /* bytes that a connection reads in its turn */
    NET_WRITE = 256 << 10,                            /* bytes that it writes */
    NET_WAITING = 1 << 20,                            /* bytes of an answer that wait for its reader before pull() pauses */
    NET_BUFFER = 256 << 10,                           /* the kernel's buffer of what a connection sends */
    NET_BODIES = 4,
    NET_BODY_RATE = 16 << 10,                         /* bytes a second that a body comes with at least, after header_s */
    NET_BACKLOG = 511,
    NET_LINGER = 2,                                   /* seconds in which the client may read the last answer */
    NET_PATIENCE = 2,                                 /* after so many a connection without a request makes space for another */
};

typedef struct net       net;
typedef struct net_reply net_reply;

typedef struct {
    const char *where;                                /* [HOST:]PORT, [ADDRESS]:PORT or unix:PATH; "": 127.0.0.1:8080 */
    int         connections;                          /* most at a time */
    uint64_t    max_body;                             /* bytes of a request's body */
    double      header_s;                             /* seconds for the head of a request */
    double      idle_s;                               /* seconds between two requests of a connection */
    double      stall_s;                              /* seconds in which an answer's reader may take nothing */
} net_opts;

/* An answer in place of the request. */
typedef struct {
    int         status;
    const char *type;                                 /* of the body; NULL: application/json */
    str         fields;                               /* more lines of the head, each with CR LF */
    str         body;
} net_refusal;

/* All are called by the connection thread, and return at once. NULL where nothing is to be done: head, pull, tick, gone; those of
 * sinks where there are none. */
typedef struct {
    /* The fields are read, the body is not. False: the request is answered with *out. *sink, NULL before: what takes the body. */
    bool (*head)(void *ctx, const http_request *h, void **sink, net_refusal *out);
    /* More of a body that has a sink. False: there is no space for it, and the request is answered with 507. */
    bool (*sink_put)(void *ctx, void *sink, bytes b);
    /* A request that has a sink will not become whole. */
    void (*sink_drop)(void *ctx, void *sink);
    /* The request is whole. h is valid until this returns, r until net_reply_free(); the callee may take the body. sink: it has
     * the body and is the callee's from here on; NULL: there is none. */
    void (*request)(void *ctx, const http_request *h, str *body, void *sink, net_reply *r);
    /* After net_reply_wake(), or when there is space again: more of the answer may be put. */
    void (*pull)(void *ctx, net_reply *r);
    /* Once a second. */
    void (*tick)(void *ctx);
    /* The client has left or is too slow. Called once; r must still be freed, and another thread may free it during the call. */
    void (*gone)(void *ctx, net_reply *r);
    /* An answer that [net] itself gives, out->status: 400, 408, 413, ... h is NULL where no path was read. */
    void (*error)(void *ctx, const http_request *h, const char *message, net_refusal *out);
} net_handler;

struct net_reply {
    net             *n;
    void            *data;                            /* the handler's */
    pthread_mutex_t  lock;                            /* of out, begun, ended */
    str              out;                             /* bytes for the client, which the connection takes */
    bool             begun, ended;
    int              file;                            /* whose bytes follow those of out; -1: none */
    uint64_t         file_at, file_end;               /* those that are to be sent */
    bool             bare;                            /* an answer without a body: HEAD */
    bool             chunked;
    bool             old;                             /* HTTP/1.0 */
    bool             keep;                            /* the connection goes on after it */
    net_reply       *next;                            /* in net.woken */
    _Atomic int      refs;                            /* the handler's, the connection's, and that of net.woken */
    _Atomic size_t   waiting;                         /* bytes that the kernel has not taken */
    _Atomic bool     gone, listed, pulls, freed;      /* listed: in net.woken; pulls: pull() is asked for */
};

typedef enum {
    NET_READS,
    NET_ANSWERS,
    NET_LINGERS,                                      /* the last answer is sent */
} net__stage;

typedef struct {
    int        fd;
    net__stage stage;
    http_in    in;
    str        rest;                                  /* bytes that came after the request */
    str        out;                                   /* what is being sent */
    size_t     sent;                                  /* bytes of it */
    size_t     own;                                   /* its first bytes that are not of the reply */
    net_reply *r;
    void      *sink;                                  /* takes the body that is being read; NULL: memory does */
    uint64_t   sunk;                                  /* bytes that it has taken */
    bool       half;                                  /* the client sends no more */
    bool       dead;
    bool       used;                                  /* it has had an answer */
    bool       waited;                                /* the reply was full: pull() is due when there is space */
    double     since;                                 /* when the stage or the request began */
    double     moved;                                 /* when the client last sent or took bytes, or it was not its turn */
} net__conn;

struct net {
    net_handler   h;
    void         *ctx;
    net_opts      o;
    char          name[160];                          /* http://HOST:PORT or unix:PATH */
    char          path[108];                          /* of a Unix socket, else "" */
    struct stat   st;                                 /* of that file */
    int           port;
    bool          local;
    int           listener, event, spare;
    double        paused;                             /* when connections are accepted again */
    pthread_t     thread;
    bool          started;
    net__conn   **conn;                               /* [n_conn] */
    int           n_conn;
    struct pollfd *poll;
    uint8_t      *buf;                                /* [NET_READ] */
    unsigned      turn;                               /* whose turn is first */
    double        ticked;
    bool          again;                              /* tick() may have put something into any answer */
    uint64_t      held;                               /* bytes of bodies that are being read */
    double        oldest;                             /* since of the first of these requests */
    _Atomic(net_reply *) woken;                       /* replies for the thread to look at */
    _Atomic bool  poked, drains, stops;
    _Atomic int   refs;                               /* one, and one for each reply */
    _Atomic int   busy;                               /* requests that are read or answered */
};

static _Thread_local net *net__here;                  /* whose connection thread this is */

/* --- replies --- */

static void net__unref(net *n) {
    if (atomic_fetch_sub(&n->refs, 1) > 1) return;
    close(n->event);
    mem_free(n);
}

static void net__reply_unref(net_reply *r) {
    if (atomic_fetch_sub(&r->refs, 1) > 1) return;
    net *n = r->n;
    if (r->file >= 0) close(r->file);
    pthread_mutex_destroy(&r->lock);
    str_drop(&r->out);
    mem_free(r);
    net__unref(n);
}

/* Ends the thread's poll(). */
static void net__poke(net *n) {
    if (atomic_exchange(&n->poked, true)) return;
    while (write(n->event, &(uint64_t){1}, 8) < 0 && errno == EINTR) {}
}

/* Lets the thread look at the reply, from any thread. */
static void net__list(net_reply *r) {
    net *n = r->n;
    if (net__here == n || atomic_load(&r->gone) || atomic_exchange(&r->listed, true)) return;
    atomic_fetch_add(&r->refs, 1);
    r->next = atomic_load(&n->woken);
    while (!atomic_compare_exchange_weak(&n->woken, &r->next, r)) {}
    net__poke(n);
}

/* What the handler keeps of this answer. */
static void *net_reply_data(net_reply *r) { return r->data; }
static void  net_reply_set_data(net_reply *r, void *p) { r->data = p; }

/* Whether the client wants the answer no more. */
static bool net_reply_gone(const net_reply *r) { return atomic_load(&r->gone); }

/* Whether more than NET_WAITING bytes wait for the client. */
static bool net_reply_full(const net_reply *r) { return atomic_load(&r->waiting) > NET_WAITING; }

/* Has pull() called, from any thread and at little cost. */
static void net_reply_wake(net_reply *r) {
    if (atomic_load(&r->gone)) return;
    atomic_store(&r->pulls, true);
    net__list(r);
}

/* Gives the answer back, from any thread. One that has not ended is cut off; one that has not begun is an answer 500. */
static void net_reply_free(net_reply *r) {
    atomic_store(&r->freed, true);
    net__list(r);
    net__reply_unref(r);
}

/* The field Date. The names do not depend on the locale. */
static void net__date(str *s) {
    const time_t now = time(NULL);
    struct tm    t;
    gmtime_r(&now, &t);
    str_fmt(s, "Date: %.3s, %02d %.3s %04d %02d:%02d:%02d GMT\r\n", &"SunMonTueWedThuFriSat"[3 * t.tm_wday], t.tm_mday,
            &"JanFebMarAprMayJunJulAugSepOctNovDec"[3 * t.tm_mon], t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
}

/* The head of an answer. length: of the body; UINT64_MAX: not known. */
static void net__head(net_reply *r, int status, const char *type, const char *fields, uint64_t length) {
    net *n = r->n;
    str *s = &r->out;
    r->begun = true;
    str_fmt(s, "HTTP/1.1 %d %s\r\n", status, http_reason(status));
    net__date(s);
    if (type) str_fmt(s, "Content-Type: %s\r\n", type);
    const bool known = length != UINT64_MAX, none = status == 204 || status < 200;
    r->chunked = !known && !none && !r->old;
    r->keep = r->keep && (known || none || r->chunked) && !atomic_load(&n->drains);
    if (known && !none) str_fmt(s, "Content-Length: %llu\r\n", (unsigned long long)length);
    if (r->chunked) str_put(s, "Transfer-Encoding: chunked\r\n");
    if (!r->keep) str_put(s, "Connection: close\r\n");
    else if (r->old) str_put(s, "Connection: keep-alive\r\n");
    if (fields) str_put(s, fields);
    str_put(s, "\r\n");
    r->bare = r->bare || none;
}

static void net__unlock(net_reply *r, size_t before) {
    atomic_fetch_add(&r->waiting, r->out.n - before);
    pthread_mutex_unlock(&r->lock);
    net__list(r);
}

/* The whole answer, which ends with it. type: of the body, NULL with an empty one; fields: more lines of the head, each with
 * CR LF, NULL: none. */
static void net_reply_whole(net_reply *r, int status, const char *type, const char *fields, bytes body) {
    pthread_mutex_lock(&r->lock);
    const size_t before = r->out.n;
    ASSERT(!r->begun);
    net__head(r, status, type, fields, body.n);
    if (!r->bare) str_cat(&r->out, body);
    r->ended = true;
    net__unlock(r, before);
}

/* The whole answer, whose body is the first `size` bytes of a file. fd is closed with the reply. A file that is shorter ends the
 * connection before the answer is whole. */
static void net_reply_file(net_reply *r, int status, const char *type, const char *fields, int fd, uint64_t size) {
    pthread_mutex_lock(&r->lock);
    const size_t before = r->out.n;
    ASSERT(!r->begun && r->file < 0);
    net__head(r, status, type, fields, size);
    r->file = fd;
    r->file_end = r->bare ? 0 : size;
    r->ended = true;
    atomic_fetch_add(&r->waiting, (size_t)r->file_end);
    net__unlock(r, before);
}

/* The head of an answer whose length is not known: it is chunked, and for HTTP/1.0 it ends with the connection. */
static void net_reply_begin(net_reply *r, int status, const char *type, const char *fields) {
    pthread_mutex_lock(&r->lock);
    const size_t before = r->out.n;
    ASSERT(!r->begun);
    net__head(r, status, type, fields, UINT64_MAX);
    net__unlock(r, before);
}

/* More of an answer that has begun. It is copied. */
static void net_reply_put(net_reply *r, bytes piece) {
    pthread_mutex_lock(&r->lock);
    const size_t before = r->out.n;
    ASSERT(r->begun && !r->ended);
    if (piece.n && !r->bare && !atomic_load(&r->gone)) {
        if (r->chunked) str_fmt(&r->out, "%zx\r\n", piece.n);
        str_cat(&r->out, piece);
        if (r->chunked) str_put(&r->out, "\r\n");
    }
    net__unlock(r, before);
}

/* The end of an answer that net_reply_begin() has begun. */
static void net_reply_end(net_reply *r) {
    pthread_mutex_lock(&r->lock);
    const size_t before = r->out.n;
    ASSERT(r->begun && !r->ended);
    if (r->chunked && !r->bare) str_put(&r->out, "0\r\n\r\n");
    r->ended = true;
    net__unlock(r, before);
}

static net_reply *net__reply_new(net *n, const http_request *h) {
    net_reply *r = mem_new(1, sizeof *r);
    r->n = n;
    r->keep = h && h->keep;
    r->old = h && !h->minor;
    r->bare = h && h->method == HTTP_HEAD;
    pthread_mutex_init(&r->lock, NULL);
    r->file = -1;
    atomic_store(&r->refs, 2);
    atomic_fetch_add(&n->refs, 1);
    return r;
}

/* --- connections --- */

/* Whether all of the answer is sent. The caller has its lock. */
static bool net__is_sent(const net__conn *c) {
    return c->r->ended && !c->r->out.n && c->r->file_at == c->r->file_end && c->sent == c->out.n;
}

/* Lets the reply go. */
static void net__leave(net *n, net__conn *c) {
    net_reply *r = c->r;
    if (!r) return;
    pthread_mutex_lock(&r->lock);
    const bool whole = net__is_sent(c);
    pthread_mutex_unlock(&r->lock);
    c->r = NULL;
    atomic_fetch_sub(&n->busy, 1);
    if (!whole && !atomic_exchange(&r->gone, true) && !atomic_load(&r->freed) && n->h.gone) n->h.gone(n->ctx, r);
    atomic_store(&r->gone, true);
    net__reply_unref(r);
}

/* The body that is being read is of no use. */
static void net__drop_sink(net *n, net__conn *c) {
    if (c->sink) n->h.sink_drop(n->ctx, c->sink);
    c->sink = NULL;
    c->sunk = 0;
}

/* Marks the connection to be closed at the end of the round. */
static void net__die(net *n, net__conn *c) {
    net__drop_sink(n, c);
    net__leave(n, c);
    c->dead = true;
}

static void net__stage_is(net__conn *c, net__stage s, double now) {
    c->stage = s;
    c->since = c->moved = now;
}

/* Puts the answer, and frees what it holds. */
static void net__put_refusal(net_reply *r, net_refusal *f) {
    net_reply_whole(r, f->status, f->type ? f->type : "application/json", f->fields.p, str_bytes(&f->body));
    str_drop_all(&f->fields, &f->body);
}

/* Answers with an error of [net] itself, or with the handler's refusal, and closes the connection afterwards unless the request
 * was whole. */
static void net__refuse(net *n, net__conn *c, net_refusal *f, bool whole, double now) {
    net_reply *r = net__reply_new(n, c->in.req.path.n ? &c->in.req : NULL);
    net__drop_sink(n, c);
    r->keep = r->keep && whole;
    net__put_refusal(r, f);
    atomic_store(&r->freed, true);
    atomic_fetch_sub(&r->refs, 1);                    /* no handler has it */
    c->r = r;
    atomic_fetch_add(&n->busy, 1);
    net__stage_is(c, NET_ANSWERS, now);
}

static void net__fail(net *n, net__conn *c, int status, const char *why, double now) {
    net_refusal f = {.status = status};
    n->h.error(n->ctx, c->in.req.path.n ? &c->in.req : NULL, why, &f);
    net__refuse(n, c, &f, false, now);
}

/* Gives what has come of the body to the sink. False: it has no space. */
static bool net__sink(net *n, net__conn *c) {
    const size_t got = c->in.body.n;
    if (!c->sink || !got) return true;
    if (!n->h.sink_put(n->ctx, c->sink, str_bytes(&c->in.body))) return false;
    c->sunk += got;
    c->in.max_body -= got;
    str_clear(&c->in.body);
    return true;
}

/* The request is whole: it is the handler's. */
static void net__request(net *n, net__conn *c, double now) {
    void *sink = c->sink;
    c->sink = NULL;
    c->sunk = 0;
    c->r = net__reply_new(n, &c->in.req);
    atomic_fetch_add(&n->busy, 1);
    net__stage_is(c, NET_ANSWERS, now);
    n->h.request(n->ctx, &c->in.req, &c->in.body, sink, c->r);
    str_drop(&c->in.body);
}

/* Takes bytes of the client. */
static void net__take(net *n, net__conn *c, bytes b, double now) {
    if (!c->in.begun && b.n) c->since = now;
    while (c->stage == NET_READS && !c->dead) {
        size_t         taken;
        net_refusal    f = {0};
        const http_got got = http_feed(&c->in, b, &taken);
        b = bytes_slice(b, taken, b.n);
        if (got != HTTP_BAD && !net__sink(n, c)) net__fail(n, c, 507, "no space for the body", now);
        else if (got == HTTP_MORE) break;
        else if (got == HTTP_BAD) net__fail(n, c, c->in.status, c->in.why, now);
        else if (got == HTTP_WHOLE) net__request(n, c, now);
        else if (n->h.head && !n->h.head(n->ctx, &c->in.req, &c->sink, &f))
            net__refuse(n, c, &f, !c->in.req.chunked && !c->in.req.length, now);
        else if (c->in.req.expects && !b.n && (c->in.req.chunked || c->in.req.length <= c->in.max_body))
            str_put(&c->out, "HTTP/1.1 100 Continue\r\n\r\n"), c->own = c->out.n;
    }
    if (b.n && c->stage == NET_ANSWERS) str_cat(&c->rest, b);
}

/* Goes on with bytes that came after the last request. */
static void net__take_rest(net *n, net__conn *c, double now) {
    str rest = c->rest;
    c->rest = (str){0};
    net__take(n, c, str_bytes(&rest), now);
    str_drop(&rest);
}

/* Bytes that have come of the body. */
static uint64_t net__body(const net__conn *c) { return c->in.body.n + c->sunk; }

/* Counts the bodies that are being read. */
static void net__count_bodies(net *n) {
    n->held = 0;
    n->oldest = HUGE_VAL;
    for (int i = 0; i < n->n_conn; i++) {
        const net__conn *c = n->conn[i];
        if (c->stage != NET_READS || !net__body(c)) continue;
        n->held += net__body(c);
        n->oldest = c->since < n->oldest ? c->since : n->oldest;
    }
}

/* Whether the body that c reads may grow: those of all connections together are small, or this one is the oldest. */
static bool net__may_read(const net *n, const net__conn *c) {
    return !net__body(c) || c->since <= n->oldest || n->held <= NET_BODIES * n->o.max_body;
}

static void net__read(net *n, net__conn *c, double now) {
    const ssize_t got = recv(c->fd, n->buf, NET_READ, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
        net__die(n, c);
        return;
    }
    c->moved = now;
    if (c->stage == NET_READS) net__take(n, c, (bytes){n->buf, (size_t)got}, now);
}

/* Takes the next bytes of the reply's file. False: they are not there. The caller has the lock. */
static bool net__fill_file(net__conn *c, net_reply *r) {
    const size_t  n = (size_t)min_u64(NET_WRITE, r->file_end - r->file_at);
    ssize_t       got;
    str_reserve(&c->out, n);
    do got = pread(r->file, c->out.p, n, (off_t)r->file_at);
    while (got < 0 && errno == EINTR);
    if (got <= 0) return false;
    c->out.n = (size_t)got;
    r->file_at += (uint64_t)got;
    return true;
}

/* Takes what the reply has. False: its file is not what it was. */
static bool net__fill(net__conn *c) {
    net_reply *r = c->r;
    bool       ok = true;
    if (!r || c->sent < c->out.n) return true;
    str_drop(&c->out);
    c->sent = 0;
    pthread_mutex_lock(&r->lock);
    c->out = r->out;
    r->out = (str){0};
    if (!c->out.n && r->file_at < r->file_end) ok = net__fill_file(c, r);
    pthread_mutex_unlock(&r->lock);
    return ok;
}

/* Sends what the client takes, at most NET_WRITE bytes. */
static void net__write(net *n, net__conn *c, double now) {
    for (size_t most = NET_WRITE; most && !c->dead;) {
        if (!net__fill(c)) { net__die(n, c); return; }
        if (c->sent == c->out.n) { c->moved = now; return; }
        const ssize_t got = send(c->fd, c->out.p + c->sent, min_size(c->out.n - c->sent, most), MSG_NOSIGNAL);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (got < 0) { net__die(n, c); return; }
        const size_t sent = (size_t)got, own = min_size(c->own, sent);
        c->sent += sent;
        c->own -= own;
        most -= sent;
        c->moved = now;
        if (c->r) atomic_fetch_sub(&c->r->waiting, sent - own);
    }
}

/* Whether the handler still has the answer. */
static bool net__may_pull(const net__conn *c) { return c->r && !atomic_load(&c->r->freed); }

/* Has more of the answer made, if there is cause and space. */
static void net__pull(net *n, net__conn *c) {
    net_reply *r = c->r;
    if (!net__may_pull(c)) return;
    const size_t waiting = atomic_load(&r->waiting);
    if (waiting > NET_WAITING) { c->waited = true; return; }
    const bool again = c->waited && waiting <= NET_WAITING / 2;
    if (!again && !atomic_load(&r->pulls)) return;
    c->waited = false;
    atomic_store(&r->pulls, false);
    if (n->h.pull) n->h.pull(n->ctx, r);
    c->waited = net_reply_full(r);
}

/* The answer has ended and is sent. */
static void net__answered(net *n, net__conn *c, double now) {
    const bool keep = c->r->keep && !c->half && !atomic_load(&n->drains);
    c->used = true;
    net__leave(n, c);
    if (keep) {
        str_drop(&c->out);                            /* its bytes are no longer those of an answer */
        c->sent = c->own = 0;
        http_next(&c->in);
        net__stage_is(c, NET_READS, now);
    } else if (c->half) c->dead = true;
    else {
        shutdown(c->fd, SHUT_WR);
        str_drop_all(&c->rest, &c->out);
        c->sent = 0;
        net__stage_is(c, NET_LINGERS, now);
    }
}

/* What there is to do for an answer beside reading and writing. */
static void net__answer(net *n, net__conn *c, double now) {
    net_reply *r = c->r;
    bool       begun, ended, sent;
    pthread_mutex_lock(&r->lock);
    begun = r->begun, ended = r->ended, sent = net__is_sent(c);
    pthread_mutex_unlock(&r->lock);
    if (!ended && atomic_load(&r->freed)) {           /* the handler has let it go */
        if (begun) { net__die(n, c); return; }
        net_refusal f = {.status = 500};
        n->h.error(n->ctx, &c->in.req, "no answer", &f);
        net__put_refusal(r, &f);
        return;
    }
    if (sent) net__answered(n, c, now);
}

/* Whether there is something to send. */
static bool net__waits(const net__conn *c) { return c->sent < c->out.n || (c->r && atomic_load(&c->r->waiting)); }

/* When the connection has used up its time; HUGE_VAL: it may wait. */
static double net__deadline(const net *n, const net__conn *c) {
    if (c->stage == NET_LINGERS) return c->since + NET_LINGER;
    if (c->stage == NET_ANSWERS) return net__waits(c) ? c->moved + n->o.stall_s : HUGE_VAL;
    if (!c->in.begun) return c->since + (c->used ? n->o.idle_s : n->o.header_s);
    if (c->in.stage == HTTP_AT_HEAD) return c->since + n->o.header_s;
    if (!net__may_read(n, c)) return HUGE_VAL;
    return fmin(c->moved, c->since + (double)net__body(c) / NET_BODY_RATE) + n->o.header_s;
}

static void net__expired(net *n, net__conn *c, double now) {
    if (c->stage != NET_READS || !c->in.begun) { net__die(n, c); return; }
    const bool head = c->in.stage == HTTP_AT_HEAD;
    net__fail(n, c, 408, head ? "the head of the request took too long" : "the body of the request took too long", now);
}

static void net__conn_free(net__conn *c) {
    close(c->fd);
    http_drop(&c->in);
    str_drop_all(&c->rest, &c->out);
    mem_free(c);
}

/* The connection that is closed where there is no place for another one: the one that has been without a request for longest. */
static net__conn *net__idlest(const net *n, double now) {
    net__conn *best = NULL;
    for (int i = 0; i < n->n_conn; i++) {
        net__conn *c = n->conn[i];
        const bool idle = c->stage == NET_LINGERS || (c->stage == NET_READS && c->in.stage == HTTP_AT_HEAD);
        if (idle && !c->dead && now - c->since >= NET_PATIENCE && (!best || c->since < best->since)) best = c;
    }
    return best;
}

/* --- the thread --- */

static bool net__has_place(net *n, double now) {
    return n->n_conn < n->o.connections || net__idlest(n, now);
}

static void net__add(net *n, int fd, double now) {
    net__conn *c = mem_new(1, sizeof *c);
    c->fd = fd;
    http_init(&c->in, n->o.max_body);
    net__stage_is(c, NET_READS, now);
    n->conn[n->n_conn++] = c;
}

/* Closes what is dead. */
static void net__sweep(net *n) {
    int k = 0;
    for (int i = 0; i < n->n_conn; i++) {
        if (n->conn[i]->dead) net__conn_free(n->conn[i]);
        else n->conn[k++] = n->conn[i];
    }
    n->n_conn = k;
}

/* Accepts what waits, as long as there are places. */
static void net__accept(net *n, double now) {
    for (int i = 0; i < 64; i++) {
        if (n->n_conn == n->o.connections) {
            net__conn *c = net__idlest(n, now);
            if (!c) return;
            net__die(n, c);
            net__sweep(n);
        }
        int fd = accept4(n->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) { net__add(n, fd, now); continue; }
        if (errno == EINTR || errno == ECONNABORTED || errno == EPROTO) continue;
        if ((errno == EMFILE || errno == ENFILE) && n->spare >= 0) {   /* a client is told at once that there is no place */
            close(n->spare);
            fd = accept4(n->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
            if (fd >= 0) close(fd);
            n->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
            continue;
        }
        if (errno != EAGAIN) n->paused = now + 0.1;
        return;
    }
}

/* Takes the replies that other threads have listed. signalled: the eventfd is set. What another thread lists after `poked` is
 * reset sets it again; what it has listed before is seen here. */
static void net__take_woken(net *n, bool signalled) {
    uint64_t count;
    while (signalled && read(n->event, &count, 8) < 0 && errno == EINTR) {}
    if (signalled) atomic_store(&n->poked, false);
    for (net_reply *r = atomic_exchange(&n->woken, NULL), *next; r; r = next) {
        next = r->next;
        atomic_store(&r->listed, false);
        net__reply_unref(r);
    }
}

/* Milliseconds to a moment, 0 to 1000. */
static int net__until(double when, double now) {
    return when <= now ? 0 : when - now >= 1 ? 1000 : (int)((when - now) * 1e3) + 1;
}

/* What to wait for. Returns the milliseconds. */
static int net__prepare(net *n, double now) {
    int        most = n->again ? 0 : net__until(n->ticked + 1, now);
    const bool accepts = n->listener >= 0 && now >= n->paused && net__has_place(n, now);
    n->poll[0] = (struct pollfd){.fd = n->event, .events = POLLIN};
    n->poll[1] = (struct pollfd){.fd = accepts ? n->listener : -1, .events = POLLIN};
    if (now < n->paused) most = min_int(most, net__until(n->paused, now));
    n->again = false;
    net__count_bodies(n);
    for (int i = 0; i < n->n_conn; i++) {
        net__conn *c = n->conn[i];
        short      events = 0;
        if (c->stage == NET_READS && !net__may_read(n, c)) c->moved = now;      /* held back */
        else if (c->stage != NET_ANSWERS) events |= POLLIN;
        if (net__waits(c)) events |= POLLOUT;
        if (c->stage == NET_ANSWERS && !c->half) events |= POLLRDHUP;
        n->poll[2 + i] = (struct pollfd){.fd = c->fd, .events = events};
        if (c->stage == NET_READS && c->rest.n) most = 0;
        if (net__may_pull(c) && c->waited && atomic_load(&c->r->waiting) <= NET_WAITING / 2) most = 0;
        const double end = net__deadline(n, c);
        if (end < now + 1) most = min_int(most, net__until(end, now));
    }
    return most;
}

static void net__serve_one(net *n, net__conn *c, short got, double now) {
    if (got & (POLLERR | POLLNVAL)) { net__die(n, c); return; }
    if (c->stage == NET_READS && c->rest.n) net__take_rest(n, c, now);
    else if ((c->stage == NET_READS || c->stage == NET_LINGERS) && got & (POLLIN | POLLHUP)) net__read(n, c, now);
    else if (c->stage == NET_ANSWERS && got & (POLLRDHUP | POLLHUP)) {
        pthread_mutex_lock(&c->r->lock);
        const bool ended = c->r->ended;
        pthread_mutex_unlock(&c->r->lock);
        if (!ended || got & POLLHUP) { net__die(n, c); return; }
        c->half = true;
    }
    if (!c->dead && c->stage == NET_ANSWERS) net__pull(n, c);
    if (!c->dead) net__write(n, c, now);
    if (!c->dead && c->stage == NET_ANSWERS) net__answer(n, c, now);
    if (!c->dead && now >= net__deadline(n, c)) net__expired(n, c, now);
}

/* Closes what waits for a request, and accepts no more. */
static void net__stop_listening(net *n) {
    if (n->listener >= 0) close(n->listener);
    n->listener = -1;
    for (int i = 0; i < n->n_conn; i++)
        if (n->conn[i]->stage == NET_READS && !n->conn[i]->in.begun && !n->conn[i]->rest.n) net__die(n, n->conn[i]);
    net__sweep(n);
}

static void *net__thread(void *arg) {
    net *n = arg;
    net__here = n;
    mem_stand_beside();
    n->ticked = clock_now();
    while (!atomic_load(&n->stops)) {
        double now = clock_now();
        if (atomic_load(&n->drains)) net__stop_listening(n);
        const int ready = poll(n->poll, (nfds_t)n->n_conn + 2, net__prepare(n, now)), n_polled = n->n_conn;
        now = clock_now();
        net__take_woken(n, ready > 0 && n->poll[0].revents);
        for (int i = 0; i < n_polled; i++) {
            const int at = (int)((n->turn + (unsigned)i) % (unsigned)n_polled);
            net__serve_one(n, n->conn[at], ready > 0 ? n->poll[2 + at].revents : 0, now);
        }
        n->turn++;
        net__sweep(n);
        if (ready > 0 && n->poll[1].revents && n->listener >= 0) net__accept(n, now);
        if (now >= n->ticked + 1) {
            n->ticked = now;
            if (n->h.tick) n->h.tick(n->ctx);
            n->again = true;
        }
    }
    for (int i = 0; i < n->n_conn; i++) net__die(n, n->conn[i]);
    net__sweep(n);
    net__take_woken(n, false);
    return NULL;
}

/* --- opening and closing --- */

typedef union {
    struct sockaddr     any;
    struct sockaddr_in  four;
    struct sockaddr_in6 six;
    struct sockaddr_un  local;
} net__address;

/* Reads [HOST:]PORT, [ADDRESS]:PORT or unix:PATH. */
static bool net__parse(const char *where, net__address *a, socklen_t *size, bool *local, err_t *e) {
    char        host[64] = "127.0.0.1";
    const char *colon = strrchr(where, ':'), *port = colon ? colon + 1 : where;
    *a = (net__address){0};
    if (!strncmp(where, "unix:", 5)) {
        const char *path = where + 5;
        if (!*path || strlen(path) >= sizeof a->local.sun_path)
            return err_set(e, EXIT_INPUT, "%s: expected unix: and a path of 1 to %zu bytes", where, sizeof a->local.sun_path - 1);
        a->local.sun_family = AF_UNIX;
        strcpy(a->local.sun_path, path);
        *size = sizeof a->local;
        *local = true;
        return true;
    }
    if (!*where) port = "8080";
    const size_t n = strspn(port, "0123456789");
    const bool   six = *where == '[';
    const size_t n_host = colon ? (size_t)(colon - where) : 0;
    const bool   shut = !six || (n_host > 2 && where[n_host - 1] == ']');
    if (!n || n > 5 || port[n] || atoi(port) > 65535 || n_host >= sizeof host || !shut)
        return err_set(e, EXIT_INPUT, "%s: expected [HOST:]PORT with a port from 0 to 65535, or unix:PATH", where);
    if (colon) snprintf(host, sizeof host, "%.*s", (int)n_host - 2 * six, where + six);
    if (!strcmp(host, "localhost")) strcpy(host, "127.0.0.1");
    const in_port_t number = htons((uint16_t)atoi(port));
    if (six && inet_pton(AF_INET6, host, &a->six.sin6_addr) == 1) {
        a->six.sin6_family = AF_INET6;
        a->six.sin6_port = number;
        *size = sizeof a->six;
        *local = IN6_IS_ADDR_LOOPBACK(&a->six.sin6_addr);
        return true;
    }
    if (six || inet_pton(AF_INET, host, &a->four.sin_addr) != 1)
        return err_set(e, EXIT_INPUT, "%s: expected an address of this machine, such as 127.0.0.1, [::1] or localhost", where);
    a->four.sin_family = AF_INET;
    a->four.sin_port = number;
    *size = sizeof a->four;
    *local = ntohl(a->four.sin_addr.s_addr) >> 24 == 127;
    return true;
}

/* Removes the file of a socket on which no server listens any more. */
static bool net__clear_stale(const char *path, const net__address *a, socklen_t size, err_t *e) {
    struct stat st;
    if (lstat(path, &st)) return errno == ENOENT || err_set(e, err_code_of(errno), "unix:%s: %s", path, strerror(errno));
    if (!S_ISSOCK(st.st_mode)) return err_set(e, EXIT_INPUT, "unix:%s: is there already, and is no socket", path);
    const int  fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const bool stale = fd >= 0 && connect(fd, &a->any, size) && errno == ECONNREFUSED;
    if (fd >= 0) close(fd);
    if (!stale) return err_set(e, EXIT_INPUT, "unix:%s: another server listens there", path);
    return !unlink(path) || err_set(e, err_code_of(errno), "unix:%s: %s", path, strerror(errno));
}

/* Binds the path. A lock on its folder keeps a server that starts at the same time from removing it. */
static bool net__bind_path(net *n, const net__address *a, socklen_t size, err_t *e) {
    const char *path = a->local.sun_path, *slash = strrchr(path, '/');
    char        folder[sizeof a->local.sun_path + 1];
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    const int lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock >= 0 && flock(lock, LOCK_EX)) {}         /* where a file system has no locks, it goes on without */
    bool ok = net__clear_stale(path, a, size, e);
    const mode_t mask = umask(0177);
    ok = ok && (!bind(n->listener, &a->any, size) || err_set(e, err_code_of(errno), "unix:%s: %s", path, strerror(errno)));
    umask(mask);
    ok = ok && (!listen(n->listener, NET_BACKLOG) || err_set(e, err_code_of(errno), "unix:%s: %s", path, strerror(errno)));
    if (ok && !lstat(path, &n->st)) strcpy(n->path, path);
    if (lock >= 0) close(lock);
    return ok;
}

static bool net__bind_port(net *n, const char *where, net__address *a, socklen_t size, err_t *e) {
    const int  on = 1, buffer = NET_BUFFER, dead = (int)(n->o.stall_s * 1e3), idle = 30;
    char       text[INET6_ADDRSTRLEN];
    const bool six = a->any.sa_family == AF_INET6;
    /* Connections inherit them: small pieces go out at once, what waits in the kernel is bounded, lost clients are seen. */
    setsockopt(n->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(n->listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(n->listener, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    setsockopt(n->listener, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(n->listener, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(n->listener, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead, sizeof dead);
    if (bind(n->listener, &a->any, size) || listen(n->listener, NET_BACKLOG) || getsockname(n->listener, &a->any, &size))
        return err_set(e, err_code_of(errno), "%s: %s", *where ? where : "127.0.0.1:8080", strerror(errno));
    n->port = ntohs(six ? a->six.sin6_port : a->four.sin_port);
    inet_ntop(a->any.sa_family, six ? (void *)&a->six.sin6_addr : (void *)&a->four.sin_addr, text, sizeof text);
    snprintf(n->name, sizeof n->name, six ? "http://[%s]:%d" : "http://%s:%d", text, n->port);
    return true;
}

static void net__shut(net *n) {
    if (n->listener >= 0) close(n->listener);
    if (n->spare >= 0) close(n->spare);
    n->listener = n->spare = -1;
}

/* Binds and listens at o->where; connections wait until net_start(). h and ctx: who answers. On failure NULL, and e is set. */
static net *net_open(const net_opts *o, const net_handler *h, void *ctx, err_t *e) {
    net__address a;
    socklen_t    size = 0;
    bool         local = false;
    if (!net__parse(o->where, &a, &size, &local, e)) return NULL;
    net *n = mem_new(1, sizeof *n);
    n->h = *h, n->ctx = ctx, n->o = *o, n->local = local;
    n->listener = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    n->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    n->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    atomic_store(&n->refs, 1);
    const bool path = a.any.sa_family == AF_UNIX;
    if (path) snprintf(n->name, sizeof n->name, "unix:%s", a.local.sun_path);
    if (n->listener < 0 || n->event < 0) err_set(e, err_code_of(errno), "%s: %s", o->where, strerror(errno));
    else if (path ? net__bind_path(n, &a, size, e) : net__bind_port(n, o->where, &a, size, e)) {
        n->conn = mem_new((size_t)o->connections, sizeof *n->conn);
        n->poll = mem_new((size_t)o->connections + 2, sizeof *n->poll);
        n->buf = mem_new(NET_READ, 1);
        return n;
    }
    net__shut(n);
    net__unref(n);
    return NULL;
}

/* The port that it listens on; 0: a Unix socket. */
static int net_port(const net *n) { return n->port; }

/* Where it listens, as an address that a client takes: http://HOST:PORT, or unix:PATH. */
static const char *net_name(const net *n) { return n->name; }

/* Whether programs of this machine alone can connect. */
static bool net_is_local(const net *n) { return n->local; }

/* Requests that are being answered. */
static int net_busy(const net *n) { return atomic_load(&n->busy); }

/* Starts the connection thread, which takes no signals. */
static bool net_start(net *n, err_t *e) {
    const int why = host_thread(&n->thread, net__thread, n);
    n->started = !why;
    return n->started || err_set(e, EXIT_RESOURCE, "no thread for connections: %s", strerror(why));
}

/* Accepts nothing more, and closes connections that wait for a request; from any thread. Answers go on. */
static void net_drain(net *n) {
    atomic_store(&n->drains, true);
    net__poke(n);
}

/* Ends the thread and frees what it has; answers that have not ended are cut off. NULL is none. Replies may be freed later. */
static void net_close(net *n) {
    struct stat st;
    if (!n) return;
    atomic_store(&n->stops, true);
    net__poke(n);
    if (n->started) pthread_join(n->thread, NULL);
    net__shut(n);
    if (n->path[0] && !lstat(n->path, &st) && st.st_dev == n->st.st_dev && st.st_ino == n->st.st_ino) unlink(n->path);
    net__take_woken(n, false);
    mem_free_all(n->conn, n->poll, n->buf);
    net__unref(n);
}
