/* Fuzzes bodies of the server's endpoints. The first byte of the input: its number modulo the shapes, and with 128 the answer is a
 * stream; the second: bytes of a piece. A body that is read becomes a line that [req] reads or refuses with a text; its own bytes are
 * then the answer, in pieces: each event has one line of JSON, all of it is UTF-8, and the whole answer is one JSON object. */
#include "program.h"
#include "own_jansson.h"

static void fz_wire_object(bytes b) {
    json_error_t why;
    json_t      *v = json_loadb((const char *)b.p, b.n, JSON_ALLOW_NUL, &why);
    if (!v && json_error_code(&why) == json_error_null_byte_in_key) return;     /* JSON has such keys, jansson has not */
    ASSERT(v && json_typeof(v) == JANSSON_OBJECT);    /* the macro of jansson would take the constant of [json] */
    json_decref(v);
}

/* All of a stream is comments, names and data. */
static void fz_wire_events(bytes stream) {
    bytes line;
    ASSERT(utf8_whole(stream));
    while (bytes_cut_line(&stream, &line)) {
        const bool data = bytes_begins(line, bytes_of("data: ")), done = bytes_is(line, "data: [DONE]");
        ASSERT(!line.n || data || line.p[0] == ':' || bytes_begins(line, bytes_of("event: ")));
        if (data && !done) fz_wire_object(bytes_slice(line, 6, line.n));
    }
}

static void fz_wire_part(wire *w, int what, int *call, bytes text, str *out) {
    if (what < WIRE_CALLS) wire_text(w, 0, (wire_part)what, text, out);
    else if (*call < 0 || text.n % 5 == 0) ++*call, wire_call(w, 0, *call, bytes_of("id"), bytes_of("name"), text, out);
    else wire_call(w, 0, *call, (bytes){0}, (bytes){0}, text, out);
}

static void fz_wire_stream(wire *w, const req *q, bytes text, size_t step, str *out) {
    static const wire_origin o = {.id = "7", .model_name = "m", .fingerprint = "f", .created = 1, .n_prompt = 1};
    static const wire_usage  u = {1, 1, 1, 1};
    int                      call = -1;
    wire_begin(w, q, &o, out);
    wire_alive(w, out);
    for (size_t i = 0; i < text.n; i += step)
        fz_wire_part(w, q->chat ? text.p[i] % 3 : WIRE_CONTENT, &call, bytes_slice(text, i, min_size(i + step, text.n)), out);
    if (text.n % 3 == 0) wire_fail(w, "out_of_room", "no room", out);
    else wire_finish(w, 0, text.n % 3 == 1 ? GEN_END_TOKEN : GEN_LENGTH, text.n % 2 ? text : (bytes){0}, out), wire_end(w, &u, out);
    fz_wire_events(str_bytes(out));
}

/* The answer without a stream: the text is content and thinking, and the arguments of a call where it is JSON. */
static void fz_wire_whole(wire *w, const req *q, bytes text, str *out) {
    static const wire_origin o = {.id = "7", .model_name = "m", .fingerprint = "f", .created = 1, .n_prompt = 1};
    static const req_origin  ro = {.id = "7", .fingerprint = "f", .model_name = "m", .created = 1, .n_prompt = 1};
    static const wire_usage  u = {1, 1, 1, 1};
    float                    score = 0.5f;
    gen_answer              *a = mem_new((size_t)q->n, sizeof *a);
    chat_answer             *said = mem_new((size_t)q->n, sizeof *said);
    for (int i = 0; i < q->n; i++) {
        a[i] = q->ask.embeds ? (gen_answer){.finish = GEN_EMBEDDED, .vec = &score, .n_vec = 1, .width = 1} : (gen_answer){.finish = GEN_LENGTH};
        str_set(&said[i].content, text), str_set(&said[i].thinking, text), str_set(&a[i].text, text);
        str_put(&a[i].text, "");
        if (q->chat) call_list_add(&said[i].calls, bytes_slice(text, 0, text.n / 2), text, bytes_of("id"));
    }
    w->p.stream = false;
    wire_begin(w, q, &o, out);
    wire_whole(w, q, a, q->chat ? said : NULL, &ro, &u, (bytes){0}, NULL, out);
    fz_wire_object(str_bytes(out));
    for (int i = 0; i < q->n; i++) str_drop(&a[i].text), chat_answer_drop(&said[i]);
    mem_free_all(a, said);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    const post_shape shape = (post_shape)(data[0] % POST_SHAPES);
    const bytes      body = {data + 2, size - 2};
    gen_request      base = gen_ask(NULL, &gen_defaults, &samp_defaults, 0);
    const req_form   form = {&base, 1000, true, false, NULL, NULL};
    base.embeds = shape == POST_EMBED || shape == POST_RERANK;
    for (int whole = 0; whole < 2; whole++) {
        wire w = {0};
        req   q = {0};
        str   line = {0}, notes = {0}, out = {0}, error = {0};
        err_t e = {0};
        const bool read = post_read(&w.p, shape, body, &line, &notes, &e), ok = read && req_read(&q, str_bytes(&line), &form, &e);
        ASSERT(ok == !e.code && (ok || *e.text) && (read || w.p.fault) && notes.n < 2000);
        wire_error(shape, read ? q.fault : w.p.fault, 400, wire_param(&e), e.text, &error);
        fz_wire_object(str_bytes(&error));
        if (ok && whole && q.n < 4) fz_wire_whole(&w, &q, body, &out);
        w.p.stream = w.p.stream || data[0] & 128;
        if (ok && !whole && q.n < 4 && !base.embeds) fz_wire_stream(&w, &q, body, 1 + data[1] % 32u, &out);
        req_drop(&q);
        wire_drop(&w);
        str_drop_all(&line, &notes, &out, &error);
    }
    return 0;
}
