/* The server without a model: which endpoint a path is, keys, figures; folders in messages of refused requests. */
#include "program.h"
#include "check.h"

/* A request with this head. */
static bool t_serve_head(http_in *in, const char *head) {
    size_t taken;
    http_init(in, 1 << 20);
    const http_got got = http_feed(in, bytes_of(head), &taken);
    return CHECKF(got == HTTP_HEADED || got == HTTP_WHOLE, "%s: %s", head, in->why);
}

static void t_serve_paths(void) {
    static const struct {
        const char *line;
        int         kind;                             /* -1: no such path, -2: not with this method */
        post_shape  shape;
    } rows[] = {
        {"GET /health", SERVE_HEALTH, POST_CHAT}, {"GET /v1/health", SERVE_HEALTH, POST_CHAT}, {"HEAD /v1/models", SERVE_MODELS, POST_CHAT},
        {"GET /models/a/b", SERVE_MODELS, POST_CHAT}, {"GET /models/", -1, POST_CHAT}, {"GET /", SERVE_PAGE, POST_CHAT},
        {"POST /v1/chat/completions", SERVE_TEXTS, POST_CHAT}, {"POST /completions", SERVE_TEXTS, POST_COMPLETION},
        {"POST /v1/messages?beta=true", SERVE_TEXTS, POST_MESSAGES}, {"POST /v1/messages/count_tokens", SERVE_COUNT, POST_MESSAGES},
        {"POST /v1/responses", SERVE_TEXTS, POST_RESPONSES}, {"POST /embeddings", SERVE_VECTORS, POST_EMBED},
        {"GET /v1/chat/completions", -2, POST_CHAT}, {"POST /health", -2, POST_CHAT}, {"GET /v1/chat/completions/", -1, POST_CHAT},
        {"GET /v1", -1, POST_CHAT}, {"GET /v1/v1/health", -1, POST_CHAT}, {"GET /healthy", -1, POST_CHAT},
        {"DELETE /v1/files/x", SERVE_FILES, POST_CHAT}, {"POST /batches/x/cancel", SERVE_FILES, POST_CHAT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        http_in in;
        str     head = {0};
        const serve_endpoint *known;
        str_fmt(&head, "%s HTTP/1.1\r\nHost: a\r\n%s\r\n", rows[i].line, strncmp(rows[i].line, "POST", 4) ? "" : "Content-Length: 0\r\n");
        if (t_serve_head(&in, head.p)) {
            const serve_endpoint *to = serve__find(&in.req, &known);
            CHECKF((to ? (int)to->kind : known ? -2 : -1) == rows[i].kind, "%s", rows[i].line);
            if (to) CHECKF(to->shape == rows[i].shape, "%s: its shape", rows[i].line);
        }
        http_drop(&in);
        str_drop(&head);
    }
}

static void t_serve_keys(void) {
    static const struct {
        const char *field;
        bool        may;
    } rows[] = {{"Authorization: Bearer two", true}, {"Authorization: BEARER  one", true}, {"X-Api-Key: two", true}, {"Authorization: one", false},
                {"Authorization: Bearer", false}, {"Authorization: Bearer on", false}, {"Authorization: Bearer one1", false}, {"X-Api-Key:", false},
                {"Authorization: Basic one", false}, {"Other: one", false}};
    server *s = mem_new(1, sizeof *s);
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            http_in in;
            str     head = {0};
            str_fmt(&head, "GET /v1/models HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n", rows[i].field);
            if (t_serve_head(&in, head.p)) CHECKF(serve__may(s, &in.req) == (rows[i].may || !k), "%d keys, %s", 2 * k, rows[i].field);
            http_drop(&in);
            str_drop(&head);
        }
        serve__add_key(s, bytes_of("one"));
        serve__add_key(s, bytes_of("two"));
    }
    str_drop(&s->keys);
    mem_free(s);
}

static void t_serve_hist(void) {
    metrics_times h = {0};
    str        out = {0};
    const double times[] = {0.0005, 0.001, 0.0011, 0.5, 3, 1e9};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) metrics_time(&h, times[i]);
    metrics__put_times("x", &h, &out);
    CHECK(strstr(out.p, "llmrun_x_bucket{le=\"0.001\"} 2\n") && strstr(out.p, "llmrun_x_bucket{le=\"0.002\"} 3\n"));
    CHECK(strstr(out.p, "llmrun_x_bucket{le=\"0.512\"} 4\n") && strstr(out.p, "llmrun_x_bucket{le=\"+Inf\"} 6\n"));
    CHECK(strstr(out.p, "llmrun_x_count 6\n"));
    str_drop(&out);
}

/* Folders of a path leave a message, whatever else is in it. */
static void t_serve_folders(void) {
    static const struct { const char *path, *text, *want; } rows[] = {
        {"/a/b/m.gguf", "/a/b/m.gguf: broken", "m.gguf: broken"}, {"/a/b/m.gguf", "in /a/b/m.gguf and /a/b/m.gguf", "in m.gguf and m.gguf"},
        {"m.gguf", "m.gguf: broken", "m.gguf: broken"}, {"/a/m", "/a/b: broken", "/a/b: broken"}, {"x/m", "x/x/m", "x/m"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        err_t e = {0};
        err_set(&e, EXIT_INPUT, "%s", rows[i].text);
        ask__hide_path(rows[i].path, &e);
        EQ_STR(e.text, rows[i].want);
    }
}

static const t_case t_serve_cases[] = {
    {"serve paths", "a path and a method are an endpoint, with and without /v1", t_serve_paths},
    {"serve keys", "which fields have a key", t_serve_keys},
    {"serve hist", "times in buckets", t_serve_hist},
    {"serve folders", "no folder is in a message", t_serve_folders},
};
static const t_suite t_serve_suite = SUITE(t_serve_cases);
