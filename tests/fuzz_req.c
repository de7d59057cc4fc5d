/* Fuzzes lines of a batch file. Bits of the first byte of the input: 1, the rest is a line of JSON, else plain text, which with
 * 2 is a user's message; 8, the lines ask for vectors. A request that is read passes the sampler's checks, and its strings,
 * written again, are read as the same; the messages of a chat are rendered, and no text of theirs becomes a control token; a
 * refusal has an error text. In all cases the record is one line of JSON and begins with its id. */
#include "program.h"
#include "tok_mem.h"
#include "own_jansson.h"

enum { FZ_TOKENS = 4 };

/* A template without a control token. */
static const char fz_chat_template[] = "{% for m in messages %}[{{ m.role }}] {{ m.content }} {{ m | tojson }}\n{% for c in m.tool_calls or [] %}<call>{{ c | tojson }}</call>{% endfor %}"
                                  "{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}{% if add_generation_prompt %}[assistant] {% endif %}";

typedef struct {
    gguf_file  file;
    str        mem;
    tok_vocab *v;
    chat      *c;
} fz_chat_model;

static const fz_chat_model *fz_req_model(void) {
    static fz_chat_model m;
    const tm_kv     with[] = {{"tokenizer.chat_template", 'S', fz_chat_template}, {0}};
    err_t           e = {0};
    if (m.v) return &m;
    m.mem = tm_tiny_file(&tm_tinies[0], with);
    ASSERT(gguf_parse(&m.file, (const uint8_t *)m.mem.p, m.mem.n, "fuzz", &e) && (m.v = tok_load(&m.file, NULL, &e)));
    ASSERT((m.c = chat_open(&m.file, m.v, &chat_defaults, &e)));
    return &m;
}

/* One line of JSON, which begins as [results] expects. */
static void fz_record(const str *s, size_t n_keys) {
    static const char head[] = "{\"id\":\"batch_req_7_0000000000000000000000000000002a\",\"custom_id\":";
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
    const req_form    form = {&base, 1, true, false, NULL, NULL};
    ASSERT(req_read(&again, str_bytes(&line), &form, &e));
    ASSERT(bytes_eq(again.prompt[0].text, q->prompt[0].text) && bytes_eq(again.custom_id, q->custom_id) && again.ask.gen.n_stop == q->ask.gen.n_stop);
    for (int i = 0; i < q->ask.gen.n_stop; i++) ASSERT(bytes_eq(again.ask.gen.stop[i], q->ask.gen.stop[i]));
    req_drop(&again);
    str_drop(&line);
}

/* The record in every form: rows have as many cells as the table has names. */
static void fz_forms(const str *record, unsigned fields) {
    for (forms_kind kind = FORMS_CSV; kind <= FORMS_LIST; kind++) {
        forms_spec f = {.kind = kind, .parts = true, .fields = fields};
        str        out = {0};
        forms_add(&f, bytes_of("x"));
        if (fields & REQ_SEED) forms_add_keys(&f, bytes_of("{\"properties\":{\"a\":{},\"x\":{}}}"));
        bool texts = false;
        if (fields & REQ_TIMES) forms_learn(&f, str_bytes(record), &texts);
        forms_head(&f, &out);
        forms_put(&f, str_bytes(record), true, &out);
        forms_tail(&f, &out);
        ASSERT(out.n && out.p[out.n - 1] == '\n' && (kind == FORMS_TEXT || utf8_whole(str_bytes(&out))));
        if (kind == FORMS_LIST) ASSERT(bytes_is_json(str_bytes(&out)));
        if (kind < FORMS_TEXT) {
            int       fd = memfd_create("FILE", MFD_CLOEXEC);
            table_in  t;
            table_row row = {0};
            bytes     raw;
            err_t     e = {0};
            ASSERT(fd >= 0 && write(fd, out.p, out.n) == (ssize_t)out.n && lseek(fd, 0, SEEK_SET) == 0);
            lines_in *in = lines_from_fd(fd, false, "FILE", 1 << 30, &e);
            table_init(&t, kind == FORMS_CSV ? TABLE_CSV : TABLE_TSV);
            while (table_next(&t, in, true, &raw, &e) == LINES_LINE) ASSERT(memchr(raw.p, 0, raw.n) || table_cells(&t, raw, &row, &e));
            ASSERT(!e.code && t.n_rows);
            table_row_drop(&row);
            table_drop(&t);
            lines_close(in);
        }
        forms_drop(&f);
        str_drop(&out);
    }
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
    req_print(q, a, NULL, o, v, out);
    fz_record(out, 5);
    str_clear(out);
    req_print(q, a, NULL, &more, v, out);
    fz_record(out, 8);
    str_clear(out);
    fz_forms(out, more.fields);
}

/* Vectors as JSON and as base64, one or two for each text. */
static void fz_vectors(const req *q, const req_origin *o, const tok_vocab *v, str *out) {
    static float      vec[6] = {0, -1.5f, 1e-38f, 3e38f, 0.1f, -0.0f};
    static gen_answer a[REQ_CHOICES];
    req               each = *q;
    for (int i = 0; i < q->n; i++) a[i] = (gen_answer){.finish = GEN_EMBEDDED, .vec = vec, .n_vec = 1, .width = 3};
    req_print(q, a, NULL, o, v, out);
    fz_record(out, 5);
    str_clear(out);
    for (int i = 0; i < q->n; i++) a[i].n_vec = 2;
    each.ask.embed.pooling = POOLING_NONE;
    req_print(&each, a, NULL, o, v, out);
    fz_record(out, 5);
}

/* The tokens of a chat; an answer of the bytes of the line, sorted into its parts and written. */
static void fz_chat_line(req *q, bytes line, const req_origin *o, const fz_chat_model *m, str *out) {
    chat_prompt p = {0};
    chat_answer said[REQ_N] = {{.content = {0}}};
    gen_answer  a[REQ_N] = {{.owner = NULL}};
    err_t       e = {0};
    if (!chat_make_prompt(m->c, &q->input, &p, &e)) {
        ASSERT(e.code && e.text[0]);
        chat_prompt_drop(&p);
        return;
    }
    for (size_t i = 0; i < p.ids.n; i++) ASSERT(!tok_is_control(m->v, p.ids.id[i]) || (!i && p.ids.id[i] == tok_bos(m->v)));
    chat_ask(m->c, &p, &q->ask);
    for (int i = 0; i < q->n; i++) {
        chat_reader *r = chat_reader_new(&p, val_get(q->input.vars, "tools"));
        chat_reader_feed(r, i ? (bytes){line.p, line.n / 2} : line, true, NULL, NULL);
        chat_reader_finish(r, &said[i]);
        a[i].finish = i % 2 ? GEN_LENGTH : GEN_STOP_TEXT;
    }
    req_print(q, a, said, o, m->v, out);
    fz_record(out, 5);
    str_clear(out);
    req_origin more = *o;
    more.fields = REQ_PROMPT | REQ_SEED | REQ_LOGPROB | REQ_TIMES;
    req_print(q, a, said, &more, m->v, out);
    fz_forms(out, more.fields);
    for (int i = 0; i < q->n; i++) chat_answer_drop(&said[i]);
    chat_prompt_drop(&p);
}

/* The id that is found without the parser equals the parser's. */
static void fz_same_id(const req *q, bytes line) {
    req found = {0};
    req__find_id(&found, line);
    ASSERT(found.has_id == q->has_id && bytes_eq(found.custom_id, q->custom_id));
    req_drop(&found);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const req_origin origin = {.line = 7, .digest = {0, 42}, .fingerprint = "f", .model_name = "m", .created = 1, .n_prompt = 1, .n_cached = 1};
    const fz_chat_model         *m = fz_req_model();
    const tok_vocab        *v = m->v;
    req                     q;
    err_t                   e = {0};
    str                     out = {0};
    g_log_level = LOG_QUIET;
    if (!size) return 0;
    gen_request base = gen_ask(NULL, &gen_defaults, &samp_defaults, 0);
    base.embeds = data[0] & 8;
    const req_form form = {&base, tok_count(v), data[0] & 1, !base.embeds && data[0] & 2, NULL, NULL};
    const bytes    line = {data + 1, size - 1};
    bool           ok = req_read(&q, line, &form, &e);
    ASSERT(ok == !e.code && ok == !q.fault && (ok || e.text[0]));
    if (ok && data[0] & 1) fz_same_id(&q, line);
    if (!ok) req_print_error(&q, &origin, q.fault, e.text, &out), fz_record(&out, 5);
    else {
        ASSERT(samp_check(&q.ask.samp, tok_count(v), &e) && q.ask.n >= 1 && q.ask.n <= REQ_N && q.n == q.ask.n * q.n_prompt && q.n <= REQ_CHOICES && q.ask.top >= 0 && q.ask.top <= REQ_TOP && q.ask.gen.n_stop <= REQ_STOPS);
        for (int k = 0; k < q.n_prompt; k++)
            for (size_t i = 0; i < q.prompt[k].ids.n; i++) ASSERT(q.prompt[k].ids.id[i] >= 0 && q.prompt[k].ids.id[i] < tok_count(v));
        if (q.chat && q.n <= REQ_N) fz_chat_line(&q, line, &origin, m, &out);
        if (base.embeds) ASSERT(q.n == q.n_prompt && q.dims >= 0), fz_vectors(&q, &origin, v, &out);
        else if (q.prompt[0].text.p && q.n <= REQ_N) fz_again(&q), fz_answer(&q, &origin, v, &out);
    }
    str_drop(&out);
    req_drop(&q);
    return 0;
}
