/* Logits of llmrun, for logits.py:
 *     build/main/own_logits MODEL < ids > logits
 * reads token ids as text and writes f32, one row for each id; K and V are f32. */
#include "../program.h"

enum { MOST = 4096, CHUNK = 128 };

static bool own_logits(const model *m, const int32_t *ids, int n, err_t *e) {
    const kv_opts ko = {.type_k = K_F32, .type_v = K_F32, .block = 32};
    kv_cache     *kv = kv_new(&m->hp, &ko, (kv_load){.tokens = MOST}, e);
    if (!kv) return false;
    pool   *p = pool_new(1);
    fwd    *f = fwd_new(m, kv, p, CHUNK, CHUNK, DEV_LOGITS);
    kv_seq *s = kv_seq_new(kv);
    bool    ok = true;
    for (int at = 0; ok && at < n; at += CHUNK) {
        const int k = n - at < CHUNK ? n - at : CHUNK;
        fwd_begin(f);
        for (int i = 0; i < k; i++) fwd_add(f, s, ids[at + i], at + i, DEV_LOGITS);
        ok = kv_reserve(s, at + k) && fwd_step(f);
        if (ok) fwrite(f->logits, sizeof *f->logits, (size_t)k * (size_t)m->hp.n_vocab, stdout);
    }
    kv_seq_free(s);
    fwd_free(f);
    kv_free(kv);
    pool_free(p);
    return ok && !fflush(stdout);
}

int main(int argc, char **argv) {
    static int32_t ids[MOST];
    gguf_file      g;
    model          m;
    err_t          e = {0};
    int            n = 0;
    while (n < MOST && scanf("%d", &ids[n]) == 1) n++;
    k_init("auto");
    if (argc != 2 || !n || !gguf_open(&g, argv[1], &e) || !model_open(&m, &g, &rope_defaults, &e) || !own_logits(&m, ids, n, &e)) {
        fprintf(stderr, "%s\n", e.text);
        return 2;
    }
    return 0;
}
