/* Fuzzes model files: parsing, every lookup, every element. Nothing is read outside the file, and a refusal has an error
 * text. */
#include "program.h"

static uint64_t fz_sum;                               /* everything read goes here, so that nothing is optimised away */

static void fz_bytes(bytes b) {
    for (size_t i = 0; i < b.n; i++) fz_sum += b.p[i];
}

static void fz_array(const gguf_file *g, const gguf_kv *kv) {
    gguf_strs it = gguf_strs_of(g, kv);
    bytes     s;
    uint64_t  u, strings = 0;
    while (gguf_strs_next(&it, &s)) fz_bytes(s), strings++;
    ASSERT(it.left == 0);
    ASSERT(strings == (kv->type == GGUF_ARR && kv->elem == GGUF_STR ? kv->count : 0));
    for (uint64_t i = 0; i <= kv->count; i++)
        if (gguf_arr_u64(kv, i, &u)) ASSERT(kv->type == GGUF_ARR && i < kv->count);
}

static void fz_lookup(const gguf_file *g, const gguf_kv *kv) {
    char           key[65536];
    uint64_t       u;
    float          f;
    bool           b;
    bytes          s;
    const gguf_kv *arr;
    err_t          e[5] = {{0}};
    memcpy(key, kv->key.p, kv->key.n);
    key[kv->key.n] = 0;
    ASSERT(gguf_find(g, key) == kv);
    int got[5] = {gguf_get_u64(g, key, 1, 1000, &u, &e[0]), gguf_get_f32(g, key, -1, 1e9f, &f, &e[1]), gguf_get_bool(g, key, &b, &e[2]),
                  gguf_get_str(g, key, &s, &e[3]), gguf_get_arr(g, key, &arr, &e[4])};
    for (int i = 0; i < 5; i++) ASSERT(got[i] == (e[i].code ? -1 : 1) && (got[i] == 1 || strstr(e[i].text, ", expected ")));
    if (got[3] == 1) fz_bytes(s);
}

static void fz_tensor(const gguf_file *g, const gguf_tensor *t) {
    char name[GGUF_NAME_MAX + 1];
    memcpy(name, t->name.p, t->name.n);
    name[t->name.n] = 0;
    ASSERT(gguf_tensor_find(g, name) == t);
    ASSERT(t->n_dims >= 1 && t->n_dims <= 4 && k_type_ok(t->type) && t->n_bytes > 0 && t->at % g->align == 0);
    fz_bytes((bytes){t->data, (size_t)t->n_bytes});
}

/* The file as a model: checks and prints it, and runs a few tokens if it can run. */
static void fz_model(const gguf_file *g) {
    static out_t null;
    err_t        e = {0};
    engine_opts     fo = engine_defaults;
    tok_ids      ids = {0};
    if (!null.f) null = (out_t){fopen("/dev/null", "wb"), "null", 0, false};
    g_log_level = LOG_QUIET;
    bool ok = inspect_print(g, NULL, g->n_kv % 2, &null, &e);
    ASSERT(ok == !e.code && (ok || e.code == EXIT_INPUT));
    if (!ok || !g->n_tensor || lora_is_adapter(g)) return;
    fo.n_threads = 1;
    tok_vocab *v = tok_load(g, NULL, &e);
    engine    *eng = v ? engine_open(g, v, &fo, &kv_defaults, score_plan(&fo, 3), 0, &e) : NULL;
    ASSERT(eng || e.code);
    for (int i = 0; eng && i < 3 && i < eng->n_ctx; i++) tok_ids_add(&ids, i % eng->m.hp.n_vocab);
    if (eng) ASSERT(score_logits(eng, &ids, &null, &e) || e.code);
    tok_ids_drop(&ids);
    engine_close(eng);
    tok_free(v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    gguf_file g;
    err_t     e = {0};
    if (gguf_parse(&g, data, n, "FILE", &e)) {
        ASSERT(!e.code && !gguf_find(&g, "") && !gguf_tensor_find(&g, ""));
        for (uint64_t i = 0; i < g.n_kv; i++) {
            fz_bytes((bytes){g.kv[i].data, (size_t)g.kv[i].n_bytes});
            fz_array(&g, &g.kv[i]);
            fz_lookup(&g, &g.kv[i]);
        }
        for (uint64_t i = 0; i < g.n_tensor; i++) fz_tensor(&g, &g.tensor[i]);
        fz_model(&g);
    } else {
        ASSERT(e.code == EXIT_INPUT && !strncmp(e.text, "FILE: ", 6) && strstr(e.text, ", expected "));
    }
    gguf_close(&g);
    return 0;
}
