/* Fuzzes the reader of adapters: what is accepted fits the matrices of a tiny model, and a refusal has an error text. */
#include "program.h"

static model fuzz_lora_model;                         /* tests/data/tiny/llama.gguf */

/* Every matrix with an update: A and B lie in memory of the adapter, whole. */
static uint64_t fuzz_lora_sum(const lora *l, const dev_mat *w) {
    const dev_low *low = w->low;
    uint64_t       sum = 0;
    if (!low || !low->rank) return 0;
    ASSERT(low->rank <= LORA_RANK_MOST && low->scale == low->scale && l->n_bytes > 0);
    const size_t n_a = k_row_bytes(low->type_a, low->rank) * (size_t)w->n_in * (size_t)w->n_mat;
    for (size_t i = 0; i < n_a && w != &fuzz_lora_model.glob.mat[W_TOK_EMBD]; i++) sum += low->a[i];
    for (size_t i = 0; i < low->bytes_b * (size_t)w->n_mat; i++) sum += low->b[i];
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static gguf_file base;
    err_t            e = {0};
    gguf_file        g;
    model           *m = &fuzz_lora_model;
    uint64_t         sum = 0;
    if (!base.path) {
        k_init("auto");
        ASSERT(gguf_open(&base, "tests/data/tiny/llama.gguf", &e) && model_open(m, &base, &rope_defaults, &e));
    }
    lora        *l = mem_new(1, sizeof *l);
    l->n = 1;
    l->of = mem_new(1, sizeof *l->of);
    l->of[0] = (lora_adapter){.path = "FILE", .scale = 1};
    lora_job     j = {.l = l, .a = &l->of[0], .m = m, .e = &e};
    const bool   open = gguf_parse(&g, data, n, "FILE", &e), ok = open && lora__read_gguf(&j, &g);
    ASSERT(ok || (e.code && !strncmp(e.text, "FILE: ", 6)));
    for (int il = -1; il < m->hp.n_layer; il++)
        for (int id = 0; id < ARCH_SLOTS; id++) {
            dev_mat *w = il < 0 ? &m->glob.mat[id] : &m->layer[il].mat[id];
            if (ok) sum += fuzz_lora_sum(l, w);
            w->low = NULL, w->n_low = 0;
        }
    if (open) gguf_close(&g);
    lora_close(l);
    return sum == UINT64_MAX;
}
