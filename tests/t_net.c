/* Connections: requests in, answers out from any thread, slow and broken clients, limits, addresses. Clients are in the test's
 * own thread. */
#include "program.h"
#include "check.h"

enum { NT_MOST = 64 };

typedef struct nt_server nt_server;

/* What the handler keeps of a request. */
typedef struct {
    nt_server  *s;
    net_reply  *r;
    char        path[40];
    _Atomic size_t made, want;                        /* bytes of a stream */
    _Atomic int    pulled, gone;
} nt_request;

struct nt_server {
    net        *n;
    net_opts    o;
    nt_request  q[NT_MOST];
    _Atomic int n_q;                                  /* requests that have come */
    _Atomic int ticks;
    str         sunk;
    _Atomic int dropped;
};

static bool nt_head(void *ctx, const http_request *h, void **sink, net_refusal *out) {
    if (!strcmp(h->path.p, "/sink")) *sink = ctx;
    if (strcmp(h->path.p, "/refused")) return true;
    out->status = 401;
    str_put(&out->fields, "WWW-Authenticate: Bearer\r\n");
    str_put(&out->body, "who?");
    return false;
}

/* The bodies of /sink are added to s->sunk, up to so many bytes. */
enum { NT_SUNK = 3500 };

static bool nt_sink_put(void *ctx, void *sink, bytes b) {
    nt_server *s = sink;
    CHECK(ctx == sink && !atomic_load(&s->n_q));
    if (s->sunk.n + b.n > NT_SUNK) return false;
    str_cat(&s->sunk, b);
    return true;
}

static void nt_sink_drop(void *ctx, void *sink) {
    nt_server *s = sink;
    CHECK(ctx == sink);
    str_drop(&s->sunk);
    atomic_fetch_add(&s->dropped, 1);
}

/* /echo is answered at once; other answers are the test's. */
static void nt_request_come(void *ctx, const http_request *h, str *body, void *sink, net_reply *r) {
    nt_server  *s = ctx;
    CHECK(sink == (strcmp(h->path.p, "/sink") ? NULL : s));
    const int   i = atomic_load(&s->n_q);
    nt_request *q = &s->q[i % NT_MOST];
    *q = (nt_request){.s = s, .r = r};
    snprintf(q->path, sizeof q->path, "%s", h->path.p);
    net_reply_set_data(r, q);
    if (!strcmp(h->path.p, "/echo")) {
        net_reply_whole(r, 200, body->n ? "text/plain" : NULL, NULL, str_bytes(body));
        net_reply_free(r);
        q->r = NULL;
    }
    atomic_store(&s->n_q, i + 1);
}

/* Streams made of pieces of 1,000 bytes, up to q->want. */
static void nt_pull(void *ctx, net_reply *r) {
    nt_request *q = net_reply_data(r);
    char        piece[1000];
    (void)ctx;
    atomic_fetch_add(&q->pulled, 1);
    while (!net_reply_full(r) && q->made < q->want) {
        memset(piece, 'a' + (int)(q->made / sizeof piece % 26), sizeof piece);
        net_reply_put(r, (bytes){(uint8_t *)piece, sizeof piece});
        q->made += sizeof piece;
    }
    if (q->want && q->made == q->want) net_reply_end(r), q->want = 0;
}

static void nt_tick(void *ctx) { atomic_fetch_add(&((nt_server *)ctx)->ticks, 1); }

static void nt_gone(void *ctx, net_reply *r) {
    (void)ctx;
    atomic_fetch_add(&((nt_request *)net_reply_data(r))->gone, 1);
}

static void nt_error(void *ctx, const http_request *h, const char *message, net_refusal *out) {
    (void)ctx;
    str_put(&out->fields, "X-Error: y\r\n");
    str_fmt(&out->body, "%s %d %s", h ? h->path.p : "-", out->status, message);
}

static const net_handler nt_handler = {nt_head, nt_sink_put, nt_sink_drop, nt_request_come, nt_pull, nt_tick, nt_gone, nt_error};

static const net_opts nt_opts = {
    .where = "127.0.0.1:0", .connections = 32, .max_body = 4000, .header_s = 60, .idle_s = 60, .stall_s = 60};

/* False: there are no sockets here. */
static bool nt_open(nt_server *s, net_opts o) {
    err_t e = {0};
    memset(s, 0, sizeof *s);
    s->o = o;
    s->n = net_open(&o, &nt_handler, s, &e);
    if (!s->n) return false;
    return CHECK(net_start(s->n, &e));
}

static void nt_close(nt_server *s) {
    net_close(s->n);
    for (int i = 0; i < atomic_load(&s->n_q); i++)
        if (s->q[i].r) net_reply_free(s->q[i].r);
}

static struct sockaddr_in nt_address(const nt_server *s) {
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)net_port(s->n)),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int nt_connect(const nt_server *s) {
    const struct sockaddr_in a = nt_address(s);
    const struct timeval     most = {.tv_sec = 20};
    const int                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    if (connect(fd, (const struct sockaddr *)&a, sizeof a)) perror("connect");
    return fd;
}

static void nt_send(int fd, const char *text) {
    for (size_t n = strlen(text), at = 0; at < n;) {
        const ssize_t got = send(fd, text + at, n - at, MSG_NOSIGNAL);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return;
        at += (size_t)got;
    }
}

/* Reads up to `most` bytes, or to the end of the connection, without the field Date: its value is never the same. */
static void nt_read(int fd, str *s, size_t most) {
    char buf[65536];
    str_put(s, "");
    for (ssize_t got = 1; got > 0 && s->n < most;) {
        do got = recv(fd, buf, min_size(sizeof buf, most - s->n), 0);
        while (got < 0 && errno == EINTR);
        if (got < 0) str_fmt(s, " (%s)", strerror(errno));
        if (got > 0) str_add(s, buf, (size_t)got);
    }
}

/* Removes each line Date. */
static void nt_undate(str *s) {
    for (char *at; (at = strstr(s->p, "Date: ")) && at[35] == '\r';) {
        memmove(at, at + 37, s->n - (size_t)(at - s->p) - 36);
        s->n -= 37;
    }
}

/* Whether the connection gives this text now, but for Date; *: and its end. */
static void nt_expect(int fd, const char *want, int line) {
    const bool ends = *want == '*';
    size_t     n = strlen(want += ends), heads = 0;
    str        s = {0};
    for (const char *at = want; (at = strstr(at, "HTTP/1.1 ")); at++) heads += strncmp(at, "HTTP/1.1 100", 12) != 0;
    nt_read(fd, &s, ends ? SIZE_MAX : n + 37 * heads);
    nt_undate(&s);
    t__eq_str(s.p, want, "the answer", __FILE__, line);
    str_drop(&s);
}
#define NT_EXPECT(fd, want) nt_expect(fd, want, __LINE__)

static void nt_nap(void) { nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); }

/* Waits for something that comes soon. */
#define NT_SOON(what)                                                                  \
    do {                                                                               \
        int nt_left = 20000;                                                           \
        while (!(what) && nt_left--) nt_nap();                                         \
        CHECKF(nt_left > 0, "%s does not become true", #what);                         \
    } while (0)

#define NT_SERVER(s, opts)                                                             \
    static nt_server s;                                                                \
    if (!nt_open(&s, opts)) SKIP("no sockets here")

#define H    "Host: a\r\n"
#define JSON "Content-Type: application/json\r\n"
#define NT_E "X-Error: y\r\n"

/* --- requests and answers --- */

static void t_net_answers(void) {
    NT_SERVER(s, nt_opts);
    int fd = nt_connect(&s);
    nt_send(fd, "GET /echo HTTP/1.1\r\n" H "\r\n");
    NT_EXPECT(fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    nt_send(fd, "POST /echo HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\nhi");
    NT_EXPECT(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nhi");
    nt_send(fd, "HEAD /echo HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n");
    NT_EXPECT(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\n");
    nt_send(fd, "GET /echo HTTP/1.1\r\n" H "Connection: close\r\n\r\n");
    NT_EXPECT(fd, "*HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    close(fd);
    fd = nt_connect(&s);
    nt_send(fd, "GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    NT_EXPECT(fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n");
    nt_send(fd, "GET /echo HTTP/1.0\r\n\r\n");
    NT_EXPECT(fd, "*HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    close(fd);
    /* A client that has sent all and closes its side is answered where the answer is there at once. */
    fd = nt_connect(&s);
    nt_send(fd, "GET /echo HTTP/1.1\r\n" H "\r\n");
    NT_EXPECT(fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    shutdown(fd, SHUT_WR);
    NT_EXPECT(fd, "*");
    close(fd);
    EQ_INT(atomic_load(&s.n_q), 6 + 1);
    EQ_INT(net_busy(s.n), 0);
    nt_close(&s);
}

/* The second request is not handled before the first answer has ended, whatever comes in one piece. */
static void t_net_pipeline(void) {
    NT_SERVER(s, nt_opts);
    int fd = nt_connect(&s);
    nt_send(fd, "GET /a HTTP/1.1\r\n" H "\r\nPOST /b HTTP/1.1\r\n" H "Content-Length: 1\r\n\r\nx"
                "GET /echo HTTP/1.1\r\n" H "\r\nG");
    NT_SOON(atomic_load(&s.n_q) == 1);
    for (int i = 0; i < 20; i++) nt_nap();
    EQ_INT(atomic_load(&s.n_q), 1);
    net_reply_whole(s.q[0].r, 404, "text/plain", "X: y\r\n", bytes_of("one"));
    NT_EXPECT(fd, "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 3\r\nX: y\r\n\r\none");
    NT_SOON(atomic_load(&s.n_q) == 2);
    EQ_STR(s.q[1].path, "/b");
    net_reply_begin(s.q[1].r, 200, "text/plain", NULL);
    net_reply_put(s.q[1].r, bytes_of("two"));
    net_reply_end(s.q[1].r);
    NT_EXPECT(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ntwo\r\n0\r\n\r\n"
                  "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    EQ_INT(atomic_load(&s.q[0].gone) + atomic_load(&s.q[1].gone), 0);
    nt_send(fd, "ET /echo HTTP/1.1\r\n" H "\r\n");
    NT_EXPECT(fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    close(fd);
    nt_close(&s);
}

/* What is refused, by the handler and by the syntax, is answered, and the connection closes where a body would follow. */
static void t_net_refused(void) {
    NT_SERVER(s, nt_opts);
    int fd = nt_connect(&s);
    nt_send(fd, "GET /refused HTTP/1.1\r\n" H "\r\nGET /echo HTTP/1.1\r\n" H "\r\n");
    NT_EXPECT(fd, "HTTP/1.1 401 Unauthorized\r\n" JSON "Content-Length: 4\r\nWWW-Authenticate: Bearer\r\n\r\nwho?"
                  "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    nt_send(fd, "POST /refused HTTP/1.1\r\n" H "Content-Length: 9\r\n\r\n");
    NT_EXPECT(fd, "*HTTP/1.1 401 Unauthorized\r\n" JSON "Content-Length: 4\r\nConnection: close\r\n"
                  "WWW-Authenticate: Bearer\r\n\r\nwho?");
    close(fd);
    fd = nt_connect(&s);
    nt_send(fd, "POST /a HTTP/1.1\r\n" H "Content-Length: 4001\r\n\r\n");
    NT_EXPECT(fd, "*HTTP/1.1 413 Content Too Large\r\n" JSON "Content-Length: 37\r\nConnection: close\r\n" NT_E "\r\n"
                  "/a 413 a body of more than 4000 bytes");
    close(fd);
    fd = nt_connect(&s);
    nt_send(fd, "GET / HTTP/1.1\r\n\r\nGET /echo HTTP/1.1\r\n" H "\r\n");
    NT_EXPECT(fd, "*HTTP/1.1 400 Bad Request\r\n" JSON "Content-Length: 19\r\nConnection: close\r\n" NT_E "\r\n/ 400 no field Host");
    close(fd);
    fd = nt_connect(&s);
    nt_send(fd, "hello\r\n");
    NT_EXPECT(fd, "*HTTP/1.1 400 Bad Request\r\n" JSON "Content-Length: 65\r\nConnection: close\r\n" NT_E "\r\n"
                  "- 400 the first line is no request, expected METHOD PATH HTTP/1.1");
    close(fd);
    EQ_INT(atomic_load(&s.n_q), 1);
    nt_close(&s);
}

static void t_net_expects(void) {
    NT_SERVER(s, nt_opts);
    int fd = nt_connect(&s);
    nt_send(fd, "POST /echo HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    NT_EXPECT(fd, "HTTP/1.1 100 Continue\r\n\r\n");
    nt_send(fd, "hi");
    NT_EXPECT(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nhi");
    nt_send(fd, "POST /echo HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 2\r\n\r\nhi");     /* it did not wait */
    NT_EXPECT(fd, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nhi");
    nt_send(fd, "POST /refused HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    NT_EXPECT(fd, "*HTTP/1.1 401 Unauthorized\r\n" JSON "Content-Length: 4\r\nConnection: close\r\n"
                  "WWW-Authenticate: Bearer\r\n\r\nwho?");
    close(fd);
    nt_close(&s);
}

/* A body that has a sink comes there in pieces, whatever its form; one that is cut, too long or finds no space is dropped. */
static void t_net_sinks(void) {
    static const struct { const char *head, *end; int n; const char *want; } rows[] = {
        {"Content-Length: 3000\r\n\r\n", "", 3000, "200 OK"},
        {"Transfer-Encoding: chunked\r\n\r\nbb8\r\n", "\r\n0\r\n\r\n", 3000, "200 OK"},
        {"Content-Length: 3600\r\n\r\n", "", 3600, "507 Insufficient Storage"},
        {"Content-Length: 4001\r\n\r\n", "", 0, "413 Content Too Large"},
        {"Transfer-Encoding: chunked\r\n\r\n7d0\r\n", "\r\n7d1\r\nx", 2000, "413 Content Too Large"},
        {"Content-Length: 3000\r\n\r\n", NULL, 1000, ""},
    };
    char *text = mem_new(4000, 1);
    for (int i = 0; i < 3999; i++) text[i] = (char)('a' + i % 26);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const bool good = !strncmp(rows[i].want, "200", 3);
        str        got = {0};
        NT_SERVER(s, nt_opts);
        const int fd = nt_connect(&s);
        nt_send(fd, "POST /sink HTTP/1.1\r\n" H);
        nt_send(fd, rows[i].head);
        for (int at = 0; at < rows[i].n; at += 500) {
            char piece[501] = "";
            memcpy(piece, text + at, (size_t)min_int(500, rows[i].n - at));
            nt_send(fd, piece);
        }
        nt_send(fd, rows[i].end ? rows[i].end : "");
        if (!rows[i].end) shutdown(fd, SHUT_WR);
        if (good) {
            NT_SOON(atomic_load(&s.n_q) == 1);
            CHECKF(s.sunk.n == 3000 && !memcmp(s.sunk.p, text, 3000), "row %zu: %zu bytes", i, s.sunk.n);
            net_reply_whole(s.q[0].r, 200, NULL, NULL, (bytes){0});
            nt_read(fd, &got, 12);
        } else {
            nt_read(fd, &got, SIZE_MAX);
            NT_SOON(atomic_load(&s.dropped) == 1);
        }
        CHECKF(!strncmp(got.p, "HTTP/1.1 ", 9) ? !strncmp(got.p + 9, rows[i].want, 3) : !*rows[i].want, "row %zu: %.40s", i, got.p);
        if (i == 4) CHECKF(strstr(got.p, "more than 4000 bytes") != NULL, "%s", got.p);
        close(fd);
        nt_close(&s);
        EQ_INT(atomic_load(&s.dropped), !good);
        str_drop_all(&got, &s.sunk);
    }
    mem_free(text);
}

/* --- streams --- */

/* The text that nt_pull() makes; chunked: with the sizes. */
static void nt_stream(str *s, size_t n, bool chunked) {
    for (size_t i = 0; i < n; i += 1000) {
        if (chunked) str_put(s, "3e8\r\n");
        for (int k = 0; k < 1000; k++) str_add(s, &"abcdefghijklmnopqrstuvwxyz"[i / 1000 % 26], 1);
        if (chunked) str_put(s, "\r\n");
    }
    if (chunked) str_put(s, "0\r\n\r\n");
}

/* A reader that takes nothing stops pull() when NET_WAITING bytes wait, and gets every byte later. */
static void t_net_slow(void) {
    enum { ALL = 16000000 };
    NT_SERVER(s, nt_opts);
    for (int old = 0; old < 2; old++) {
        str         got = {0}, want = {0};
        const int   fd = nt_connect(&s);
        nt_request *q = &s.q[old];
        nt_send(fd, old ? "GET /a HTTP/1.0\r\n\r\n" : "GET /a HTTP/1.1\r\n" H "Connection: close\r\n\r\n");
        NT_SOON(atomic_load(&s.n_q) == old + 1);
        q->want = ALL;
        net_reply_begin(q->r, 200, NULL, NULL);
        net_reply_wake(q->r);
        NT_SOON(atomic_load(&q->r->waiting) > NET_WAITING / 2);
        for (int before = -1; before != atomic_load(&q->pulled);) {
            before = atomic_load(&q->pulled);
            for (int i = 0; i < 50; i++) nt_nap();
        }
        CHECKF(q->made < ALL, "all %zu bytes were made for a reader that reads nothing", q->made);
        CHECK(atomic_load(&q->r->waiting) > NET_WAITING / 2 && atomic_load(&q->r->waiting) < NET_WAITING + 2000);
        for (int i = 0; i < 3; i++) net_reply_wake(q->r);      /* changes nothing */
        str_put(&want, "HTTP/1.1 200 OK\r\n");
        if (!old) str_put(&want, "Transfer-Encoding: chunked\r\n");
        str_put(&want, "Connection: close\r\n\r\n");
        nt_stream(&want, ALL, !old);
        nt_read(fd, &got, SIZE_MAX);
        nt_undate(&got);
        CHECKF(got.n == want.n && !memcmp(got.p, want.p, got.n), "%zu bytes, expected %zu", got.n, want.n);
        EQ_INT(atomic_load(&q->gone), 0);
        EQ_INT(atomic_load(&q->r->waiting), 0);
        close(fd);
        str_drop_all(&got, &want);
    }
    nt_close(&s);
}

/* Files are sent whole, however long; an answer whose file became shorter ends the connection. */
static void t_net_file(void) {
    enum { SIZE = 3000000 };
    static const struct { const char *method; size_t size; bool cut; } rows[] = {
        {"GET", SIZE, false}, {"GET", 5, false}, {"GET", 0, false}, {"HEAD", SIZE, false}, {"GET", SIZE, true}};
    char *text = mem_new(SIZE, 1);
    for (size_t i = 0; i < SIZE; i++) text[i] = (char)('a' + i / 10 % 26);
    NT_SERVER(s, nt_opts);
    for (int i = 0; i < 5; i++) {
        const int    file = memfd_create("FILE", MFD_CLOEXEC), fd = nt_connect(&s);
        const size_t body = !strcmp(rows[i].method, "HEAD") ? 0 : rows[i].cut ? 1000 : rows[i].size;
        str          got = {0}, want = {0};
        if (file < 0 || pwrite(file, text, SIZE, 0) != SIZE || (rows[i].cut && ftruncate(file, 1000))) abort();
        str_fmt(&want, "%s /a HTTP/1.1\r\n" H "Connection: close\r\n\r\n", rows[i].method);
        nt_send(fd, want.p);
        NT_SOON(atomic_load(&s.n_q) == i + 1);
        net_reply_file(s.q[i].r, 200, "text/plain", NULL, file, rows[i].size);
        nt_read(fd, &got, SIZE_MAX);
        nt_undate(&got);
        str_clear(&want);
        str_fmt(&want, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
                rows[i].size);
        str_add(&want, text, body);
        CHECKF(got.n == want.n && !memcmp(got.p, want.p, got.n), "%s of %zu: %zu bytes, expected %zu", rows[i].method,
               rows[i].size, got.n, want.n);
        close(fd);
        NT_SOON(!net_busy(s.n));
        EQ_INT(atomic_load(&s.q[i].gone), rows[i].cut);
        str_drop_all(&got, &want);
    }
    nt_close(&s);
    mem_free(text);
}

/* An answer that has ended and is freed, and whose reader takes nothing, costs no time. */
static void t_net_calm(void) {
    NT_SERVER(s, nt_opts);
    const int fd = nt_connect(&s);
    nt_send(fd, "GET /a HTTP/1.1\r\n" H "\r\n");
    NT_SOON(atomic_load(&s.n_q) == 1);
    net_reply_begin(s.q[0].r, 200, NULL, NULL);
    atomic_store(&s.q[0].want, (NET_WAITING / 1007 + 1) * 1000);      /* it is full when it ends */
    net_reply_wake(s.q[0].r);
    NT_SOON(atomic_load(&s.q[0].made) && !atomic_load(&s.q[0].want));
    net_reply_free(s.q[0].r);
    s.q[0].r = NULL;
    const double before = t_cpu();
    for (int i = 0; i < 1500; i++) nt_nap();          /* the kernel takes more of it when it looks again, after a second */
    CHECKF(t_cpu() - before < 0.3, "%.2f s", t_cpu() - before);
    close(fd);
    nt_close(&s);
}

/* A client that goes, or closes its side, while it waits for its answer, or that takes nothing for stall_s. */
static void t_net_gone(void) {
    net_opts o = nt_opts;
    o.stall_s = 0.2;
    NT_SERVER(s, o);
    for (int kind = 0; kind < 4; kind++) {
        const int fd = nt_connect(&s);
        nt_send(fd, kind == 1 ? "GET /a HTTP/1.1\r\n" H "\r\nGET /b HTTP/1.1\r\n" H "\r\n" : "GET /a HTTP/1.1\r\n" H "\r\n");
        NT_SOON(atomic_load(&s.n_q) == kind + 1);
        nt_request *q = &s.q[kind];
        CHECK(!net_reply_gone(q->r));
        if (kind > 1) net_reply_begin(q->r, 200, NULL, NULL);
        q->want = kind == 2 ? 50000000 : 0;           /* and it is not read */
        if (kind == 2) net_reply_wake(q->r);
        if (kind == 1) shutdown(fd, SHUT_WR);
        if (kind == 0 || kind == 3) close(fd);
        NT_SOON(net_reply_gone(q->r));
        NT_SOON(atomic_load(&q->gone) == 1);
        if (kind < 2) net_reply_whole(q->r, 200, NULL, NULL, bytes_of("late"));
        if (kind == 1 || kind == 2) close(fd);
        NT_SOON(!net_busy(s.n));
    }
    EQ_INT(atomic_load(&s.n_q), 4);
    nt_close(&s);
    for (int i = 0; i < 4; i++) EQ_INT(atomic_load(&s.q[i].gone), 1);
}

/* A reply that is freed without an answer, and one in the middle of its answer. */
static void t_net_freed(void) {
    NT_SERVER(s, nt_opts);
    int fd = nt_connect(&s);
    nt_send(fd, "GET /a HTTP/1.1\r\n" H "\r\n");
    NT_SOON(atomic_load(&s.n_q) == 1);
    net_reply_free(s.q[0].r);
    s.q[0].r = NULL;
    NT_EXPECT(fd, "HTTP/1.1 500 Internal Server Error\r\n" JSON "Content-Length: 16\r\n" NT_E "\r\n/a 500 no answer");
    nt_send(fd, "GET /a HTTP/1.1\r\n" H "\r\n");
    NT_SOON(atomic_load(&s.n_q) == 2);
    net_reply_begin(s.q[1].r, 200, NULL, NULL);
    net_reply_put(s.q[1].r, bytes_of("abc"));
    net_reply_free(s.q[1].r);
    s.q[1].r = NULL;
    str got = {0};
    nt_read(fd, &got, SIZE_MAX);
    CHECK(!strstr(got.p, "0\r\n\r\n"));
    str_drop(&got);
    close(fd);
    nt_close(&s);
    EQ_INT(atomic_load(&s.q[0].gone) + atomic_load(&s.q[1].gone), 0);
}

/* --- time and number --- */

/* What a new connection gives when it sends this and then nothing, up to its end. One that is closed before the bytes arrive, as this
 * machine did something else for longer than the server waits, is tried again. */
static void nt_expect_late(const nt_server *s, const char *send, const char *want, int line) {
    str got = {0};
    for (int i = 0; i < 100 && !got.n; i++) {
        const int fd = nt_connect(s);
        nt_send(fd, send);
        str_clear(&got);
        nt_read(fd, &got, SIZE_MAX);
        if (strstr(got.p, " (")) str_clear(&got);     /* reset: bytes came when it was closed */
        close(fd);
    }
    nt_undate(&got);
    t__eq_str(got.p, want, "the answer", __FILE__, line);
    str_drop(&got);
}

static void t_net_late(void) {
    net_opts o = nt_opts;
    o.header_s = o.idle_s = 0.3;
    NT_SERVER(s, o);
    const int fd = nt_connect(&s);
    NT_EXPECT(fd, "*");                               /* it sent nothing */
    close(fd);
    nt_expect_late(&s, "GET /a HTTP/1.1\r\nHo", "HTTP/1.1 408 Request Timeout\r\n" JSON
                   "Content-Length: 44\r\nConnection: close\r\n" NT_E "\r\n/a 408 the head of the request took too long", __LINE__);
    nt_expect_late(&s, "POST /a HTTP/1.1\r\n" H "Content-Length: 2\r\n\r\nx", "HTTP/1.1 408 Request Timeout\r\n" JSON
                   "Content-Length: 44\r\nConnection: close\r\n" NT_E "\r\n/a 408 the body of the request took too long", __LINE__);
    nt_expect_late(&s, "GET /echo HTTP/1.1\r\n" H "\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", __LINE__);
    nt_close(&s);
}

/* One more than net_opts.connections waits for a place; it gets that of one that is without a request. */
static void t_net_places(void) {
    net_opts o = nt_opts;
    o.connections = 2;
    NT_SERVER(s, o);
    int fd[3];
    for (int i = 0; i < 3; i++) {                     /* one after the other: who has a request gives its place to nobody */
        fd[i] = nt_connect(&s);
        nt_send(fd[i], i < 2 ? "GET /a HTTP/1.1\r\n" H "\r\n" : "GET /echo HTTP/1.1\r\n" H "\r\n");
        if (i < 2) NT_SOON(atomic_load(&s.n_q) == i + 1);
    }
    for (int i = 0; i < 50; i++) nt_nap();
    EQ_INT(atomic_load(&s.n_q), 2);
    net_reply_whole(s.q[1].r, 204, NULL, NULL, (bytes){0});
    NT_EXPECT(fd[1], "HTTP/1.1 204 No Content\r\n\r\n");
    NT_EXPECT(fd[2], "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");    /* in place of fd[1] */
    NT_EXPECT(fd[1], "*");
    net_reply_whole(s.q[0].r, 204, NULL, NULL, (bytes){0});
    NT_EXPECT(fd[0], "HTTP/1.1 204 No Content\r\n\r\n");
    for (int i = 0; i < 3; i++) close(fd[i]);
    nt_close(&s);
}

/* Without a descriptor left, a client is turned away at once, and the next one that finds one is served. */
static void t_net_descriptors(void) {
    struct rlimit was, few;
    NT_SERVER(s, nt_opts);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), above = dup(fd);
    const struct sockaddr_in a = nt_address(&s);
    getrlimit(RLIMIT_NOFILE, &was);
    few = (struct rlimit){.rlim_cur = (rlim_t)above, .rlim_max = was.rlim_max};
    close(above);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = 20}, sizeof(struct timeval));
    bool holes = false;                               /* descriptors below it would be taken in place of the missing one */
    for (int i = 0; i < above && !holes; i++) holes = fcntl(i, F_GETFD) < 0;
    if (!holes && !setrlimit(RLIMIT_NOFILE, &few)) {
        char c;
        connect(fd, (const struct sockaddr *)&a, sizeof a);
        const ssize_t got = recv(fd, &c, 1, 0);
        setrlimit(RLIMIT_NOFILE, &was);
        EQ_INT(got, 0);
    }
    close(fd);
    const int next = nt_connect(&s);
    nt_send(next, "GET /echo HTTP/1.1\r\n" H "\r\n");
    NT_EXPECT(next, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    close(next);
    nt_close(&s);
}

/* Draining closes what waits and lets an answer end; closing cuts it off. */
static void t_net_ends(void) {
    NT_SERVER(s, nt_opts);
    const int idle = nt_connect(&s), a = nt_connect(&s), b = nt_connect(&s);
    nt_send(a, "GET /a HTTP/1.1\r\n" H "\r\n");
    NT_SOON(atomic_load(&s.n_q) == 1);
    nt_send(b, "GET /b HTTP/1.1\r\n" H "\r\n");
    NT_SOON(atomic_load(&s.n_q) == 2);
    net_reply_begin(s.q[1].r, 200, NULL, NULL);
    NT_EXPECT(b, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    EQ_INT(net_busy(s.n), 2);
    net_drain(s.n);
    NT_EXPECT(idle, "*");
    net_reply_whole(s.q[0].r, 200, NULL, NULL, bytes_of("a"));
    NT_EXPECT(a, "*HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\na");
    NT_SOON(net_busy(s.n) == 1);
    NT_SOON(atomic_load(&s.ticks));
    net_close(s.n);
    NT_EXPECT(b, "*");
    EQ_INT(atomic_load(&s.q[0].gone), 0);
    EQ_INT(atomic_load(&s.q[1].gone), 1);
    net_reply_put(s.q[1].r, bytes_of("late"));        /* a reply outlives the thread */
    net_reply_wake(s.q[1].r);
    net_reply_free(s.q[0].r);
    net_reply_free(s.q[1].r);
    close(idle), close(a), close(b);
}

/* --- many threads --- */

enum { NT_STREAMS = 24, NT_THREADS = 3, NT_PIECES = 200 };

typedef struct {
    nt_server *s;
    int        ith;
} nt_worker;

static void *nt_work(void *arg) {
    const nt_worker *w = arg;
    for (int k = 0; k < NT_PIECES; k++)
        for (int i = w->ith; i < NT_STREAMS; i += NT_THREADS) {
            char text[16];
            snprintf(text, sizeof text, "%d,", k);
            if (i % 4 == 1 && k == NT_PIECES / 2) {   /* let go in the middle */
                net_reply_free(w->s->q[i].r);
                w->s->q[i].r = NULL;
            }
            net_reply *r = w->s->q[i].r;
            if (!r) continue;
            net_reply_put(r, bytes_of(text));
            net_reply_wake(r);
            if (k == NT_PIECES - 1) net_reply_end(r);
        }
    return NULL;
}

/* Several threads write to answers whose clients read, leave, and read late. */
static void t_net_threads(void) {
    pthread_t thread[NT_THREADS];
    nt_worker w[NT_THREADS];
    int       fd[NT_STREAMS];
    str       want = {0};
    NT_SERVER(s, nt_opts);
    for (int i = 0; i < NT_STREAMS; i++) {
        fd[i] = nt_connect(&s);
        nt_send(fd[i], "GET /a HTTP/1.0\r\n\r\n");
        NT_SOON(atomic_load(&s.n_q) == i + 1);
        net_reply_begin(s.q[i].r, 200, NULL, NULL);
    }
    for (int i = 0; i < NT_THREADS; i++) {
        w[i] = (nt_worker){&s, i};
        pthread_create(&thread[i], NULL, nt_work, &w[i]);
    }
    for (int i = 0; i < NT_STREAMS; i += 4) close(fd[i]);
    for (int i = 0; i < NT_THREADS; i++) pthread_join(thread[i], NULL);
    str_put(&want, "*HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
    for (int k = 0; k < NT_PIECES; k++) str_fmt(&want, "%d,", k);
    for (int i = 0; i < NT_STREAMS; i++) {
        if (i % 4 > 1) NT_EXPECT(fd[i], want.p);
        if (i % 4) close(fd[i]);
    }
    str_drop(&want);
    nt_close(&s);
}

/* --- addresses --- */

static void t_net_where(void) {
    static const struct { const char *where, *name; bool local; } good[] = {
        {"0", "http://127.0.0.1:", true}, {"localhost:0", "http://127.0.0.1:", true}, {"127.0.0.2:0", "http://127.0.0.2:", true},
        {"0.0.0.0:0", "http://0.0.0.0:", false}, {"[::1]:0", "http://[::1]:", true}, {"[::]:0", "http://[::]:", false},
    };
    static const char *const bad[] = {"x", "65536", "-1", "1x", ":80", "example.org:80", "[::1:80", "::1:80", "[]:80",
                                      "[127.0.0.1]:80", "1.2.3:80", "127.0.0.1:", "127.0.0.1", "unix:", "127.0.0.1:123456"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        net_opts o = nt_opts;
        err_t    e = {0};
        o.where = good[i].where;
        net *n = net_open(&o, &nt_handler, NULL, &e);
        if (!n) continue;                             /* no IPv6 here */
        CHECKF(!strncmp(net_name(n), good[i].name, strlen(good[i].name)) && net_port(n) > 0, "%s", net_name(n));
        CHECKF(net_is_local(n) == good[i].local, "%s", good[i].where);
        net_close(n);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        net_opts o = nt_opts;
        err_t    e = {0};
        o.where = bad[i];
        CHECKF(!net_open(&o, &nt_handler, NULL, &e) && e.code == EXIT_INPUT, "%s is taken", bad[i]);
    }
}

/* A Unix socket is its user's alone; the file of a server that has died is replaced, that of one that lives is not. */
static void t_net_path(void) {
    char        dir[] = "/tmp/llmrun-net-XXXXXX", where[64];
    struct stat st;
    err_t       e = {0};
    if (!mkdtemp(dir)) SKIP("no folder for temporary files");
    snprintf(where, sizeof where, "unix:%s/s", dir);
    const char *path = where + 5;
    net_opts    o = nt_opts;
    o.where = where;
    net *n = net_open(&o, &nt_handler, NULL, &e);
    if (!n) SKIP("no sockets here");
    EQ_STR(net_name(n), where);
    CHECK(!lstat(path, &st) && S_ISSOCK(st.st_mode) && (st.st_mode & 0777) == 0600 && net_is_local(n) && !net_port(n));
    CHECK(!net_open(&o, &nt_handler, NULL, &e) && strstr(e.text, "another server listens there"));
    CHECK(!lstat(path, &st) && S_ISSOCK(st.st_mode));
    net_close(n);
    CHECK(lstat(path, &st) && errno == ENOENT);
    struct sockaddr_un a = {.sun_family = AF_UNIX};   /* a server that has died */
    strcpy(a.sun_path, path);
    const int dead = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(!bind(dead, (struct sockaddr *)&a, sizeof a) && !listen(dead, 1));
    close(dead);
    e = (err_t){0};
    static nt_server s;
    if (CHECK(nt_open(&s, o))) {
        const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        CHECK(!connect(fd, (struct sockaddr *)&a, sizeof a));
        nt_send(fd, "GET /echo HTTP/1.1\r\n" H "\r\n");
        NT_EXPECT(fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        close(fd);
        nt_close(&s);
    }
    const int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    CHECK(file >= 0 && !net_open(&o, &nt_handler, NULL, &e) && strstr(e.text, "is no socket"));
    CHECK(!lstat(path, &st) && S_ISREG(st.st_mode));
    close(file);
    unlink(path);
    rmdir(dir);
}

static const t_case t_net_cases[] = {
    {"net answers", "answers with and without a body, connections that stay and that close", t_net_answers},
    {"net pipeline", "a second request waits until the first answer has ended", t_net_pipeline},
    {"net refused", "what the handler or the syntax refuses is answered, and what follows it is not read", t_net_refused},
    {"net expects", "100 before the body that waits for it", t_net_expects},
    {"net sinks", "bodies that come to a sink of the handler's", t_net_sinks},
    {"net slow", "a reader that takes nothing has a bounded part of its stream waiting, and then all of it", t_net_slow},
    {"net calm", "an answer that only its reader holds up costs no time", t_net_calm},
    {"net file", "files as bodies, and one that became shorter", t_net_file},
    {"net gone", "clients that leave, close their side or take nothing are seen once", t_net_gone},
    {"net freed", "a reply that is let go is an answer 500, or ends the connection", t_net_freed},
    {"net late", "heads, bodies and idle connections have their time", t_net_late},
    {"net places", "connections beyond the limit wait, and idle ones make space", t_net_places},
    {"net descriptors", "no descriptor is left: a client is turned away, the next is served", t_net_descriptors},
    {"net ends", "draining lets answers end, closing cuts them off, replies may be freed later", t_net_ends},
    {"net threads", "answers that several threads write arrive whole", t_net_threads},
    {"net where", "addresses, and what is none", t_net_where},
    {"net path", "Unix sockets: mode 0600, stale ones replaced, live ones and files left alone", t_net_path},
};
static const t_suite t_net_suite = SUITE(t_net_cases);
