/* Fuzzes lines of a batch file. An odd first byte of the input: the rest is a line of JSON, else plain text. A request that
 * is read passes the sampler's checks, and its strings, written again, are read as the same; a refusal has an error text. In
 * both cases the record is one line of JSON and begins with its id. */
#include "program.h"
#include "tok_mem.h"
#include <jansson.h>

enum { FZ_TOKENS = 4 };

static const tok_vocab *fz_req_vocab(void) {
    static gguf_file  file;
    static str        mem;
    static tok_vocab *v;
    err_t             e = {0};
    if (v) return v;
    mem = tm_tiny_file(&tm_tinies[0], NULL);
    ASSERT(gguf_parse(&file, (const uint8_t *)mem.p, mem.n, "fuzz", &e) && (v = tok_load(&file, NULL, &e)));
    return v;
}

/* One line of JSON, which begins as [results] expects. */
static void fz_record(const str *s, size_t n_keys) {
    static const char head[] = "{\"id\":\"batch_req_7_000000000000002a\",\"custom_id\":";
    json_error_t      why;
    ASSERT(s->n > sizeof head && memcmp(s->p, head, sizeof head - 1) == 0);
    ASSERT(memchr(s->p, '\n', s->n) == s->p + s->n - 1);
    json_t *root = json_loadb(s->p, s->n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
    ASSERT(root != NULL);
    ASSERT(json_object_size(root) == n_keys);
    json_decref(root);
}

/* A JSON string of exactly these bytes, UTF-8 or not. */
static void fz_field(str *s, const char *before, bytes b) {
    str_fmt(s, "%s\"", before);
    for (size_t i = 0; i < b.n; i++) {
        if (b.p[i] < 0x20 || b.p[i] == '"' || b.p[i] == '\\') str_fmt(s, "\\u%04x", b.p[i]);
        else str_add(s, &b.p[i], 1);
    }
    str_put(s, "\"");
}

/* Writes the strings of q as a new line and reads it again. */
static void fz_again(const req *q) {
    str   line = {0};
    req   again;
    err_t e = {0};
    fz_field(&line, "{\"prompt\":", q->prompt[0].text);
    if (q->has_id) fz_field(&line, ",\"custom_id\":", q->custom_id);
    for (int i = 0; i < q->ask.gen.n_stop; i++) fz_field(&line, i ? "," : ",\"stop\":[", q->ask.gen.stop[i]);
    str_put(&line, q->ask.gen.n_stop ? "]}" : "}");
    const gen_request base = gen_ask(NULL, &gen_defaults, &samp_defaults, 0);
    const req_form    form = {&base, 1, true};
    ASSERT(req_read(&again, str_bytes(&line), &form, &e));
    ASSERT(bytes_eq(again.prompt[0].text, q->prompt[0].text) && bytes_eq(again.custom_id, q->custom_id) && again.ask.gen.n_stop == q->ask.gen.n_stop);
    for (int i = 0; i < q->ask.gen.n_stop; i++) ASSERT(bytes_eq(again.ask.gen.stop[i], q->ask.gen.stop[i]));
    req_drop(&again);
    str_drop(&line);
}

static void fz_answer(const req *q, const req_origin *o, const tok_vocab *v, str *out) {
    static int32_t top_id[FZ_TOKENS * REQ_TOP];
    static float   top_lp[FZ_TOKENS * REQ_TOP];
    gen_token      tok[FZ_TOKENS];
    static gen_answer a[REQ_CHOICES];
    for (int i = 0; i < FZ_TOKENS * REQ_TOP; i++) top_id[i] = i * 37 % tok_count(v), top_lp[i] = -(float)i;
    for (int i = 0; i < FZ_TOKENS; i++) tok[i] = (gen_token){i * 91 % tok_count(v), -1, (size_t)i};
    for (int i = 0; i < q->n; i++) a[i] = (gen_answer){.text = {.p = (char *)(uintptr_t)q->prompt[0].text.p, .n = q->prompt[0].text.n}, .finish = GEN_STOP_TEXT, .tok = tok,
                                                        .n_tok = i ? FZ_TOKENS : 0, .top = q->ask.top, .top_id = top_id, .top_lp = top_lp};
    req_origin more = *o;
    more.fields = REQ_PROMPT | REQ_SEED | REQ_LOGPROB | REQ_TIMES;
    req_print(q, a, o, v, out);
    fz_record(out, 5);
    str_clear(out);
    req_print(q, a, &more, v, out);
    fz_record(out, 8);
    str_clear(out);
    req_print_csv(q, a, &more, out);
    ASSERT(utf8_whole(str_bytes(out)) && out->p[out->n - 1] == '\n');
    str_clear(out);
    req shape = *q;                                   /* the other shape of the same answer */
    shape.chat = true;
    req_print(&shape, a, o, v, out);
    fz_record(out, 5);
}

/* The id that is found without the parser equals the parser's. */
static void fz_same_id(const req *q, bytes line) {
    req found = {0};
    req__find_id(&found, line);
    ASSERT(found.has_id == q->has_id && bytes_eq(found.custom_id, q->custom_id));
    req_drop(&found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const req_origin origin = {.line = 7, .hash = 42, .fingerprint = "f", .model_name = "m", .created = 1, .n_prompt = 1, .n_cached = 1};
    const tok_vocab        *v = fz_req_vocab();
    req                     q;
    err_t                   e = {0};
    str                     out = {0};
    g_log_level = LOG_QUIET;
    if (!size) return 0;
    const gen_request base = gen_ask(NULL, &gen_defaults, &samp_defaults, 0);
    const req_form form = {&base, tok_count(v), data[0] & 1};
    bool           ok = req_read(&q, (bytes){data + 1, size - 1}, &form, &e);
    ASSERT(ok == !e.code && ok == !q.fault && (ok || e.text[0]));
    if (ok && data[0] & 1) fz_same_id(&q, (bytes){data + 1, size - 1});
    if (!ok) req_print_error(&q, &origin, q.fault, e.text, &out), fz_record(&out, 5);
    else {
        ASSERT(samp_check(&q.ask.samp, tok_count(v), &e) && q.ask.n >= 1 && q.ask.n <= REQ_N && q.n == q.ask.n * q.n_prompt && q.n <= REQ_CHOICES && q.ask.top >= 0 && q.ask.top <= REQ_TOP && q.ask.gen.n_stop <= REQ_STOPS);
        for (int k = 0; k < q.n_prompt; k++)
            for (size_t i = 0; i < q.prompt[k].ids.n; i++) ASSERT(q.prompt[k].ids.id[i] >= 0 && q.prompt[k].ids.id[i] < tok_count(v));
        if (q.prompt[0].text.p && q.n <= REQ_N) fz_again(&q), fz_answer(&q, &origin, v, &out);
    }
    str_drop(&out);
    req_drop(&q);
    return 0;
}
