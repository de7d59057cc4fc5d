/* Logits and embeddings of llama.cpp, for logits.py and embeddings.py:
 *     build/main/peer_logits MODEL < ids > logits
 *     build/main/peer_logits MODEL POOLING < ids > embedding
 * reads token ids as text and writes f32: one row of logits for each id, or the embedding of all of them (POOLING: 1 mean, 2 cls, 3 last, 4 the
 * scores of a classifier), whose length is not made 1. Its own choices that would cost precision are off: K and V are f32, attention
 * is the plain one, weights stay as they are in the file, the window's cache is whole. */
#include "llama.h"
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 4096 };

static void quiet(enum ggml_log_level level, const char *text, void *arg) {
    (void)arg;
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static struct llama_context *open_model(const char *path, int pooling) {
    struct llama_model_params mp = llama_model_default_params();
    mp.use_extra_bufts = false;
    struct llama_model *m = llama_model_load_from_file(path, mp);
    if (!m) return NULL;
    struct llama_context_params cp = llama_context_default_params();
    cp.n_ctx = 0;                                      /* as the model says */
    cp.n_batch = cp.n_ubatch = MOST;
    cp.n_threads = cp.n_threads_batch = 1;
    cp.type_k = cp.type_v = GGML_TYPE_F32;
    cp.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    cp.swa_full = true;
    cp.embeddings = pooling > 0;
    cp.pooling_type = pooling > 0 ? (enum llama_pooling_type)pooling : LLAMA_POOLING_TYPE_UNSPECIFIED;
    return llama_init_from_model(m, cp);
}

static int write_logits(struct llama_context *c, int n) {
    const size_t V = (size_t)llama_vocab_n_tokens(llama_model_get_vocab(llama_get_model(c)));
    for (int i = 0; i < n; i++)
        if (fwrite(llama_get_logits_ith(c, i), sizeof(float), V, stdout) != V) return 1;
    return 0;
}

static int write_embedding(struct llama_context *c, int pooling) {
    const struct llama_model *m = llama_get_model(c);
    const size_t              n = pooling == LLAMA_POOLING_TYPE_RANK ? llama_model_n_cls_out(m) : (size_t)llama_model_n_embd(m);
    return fwrite(llama_get_embeddings_seq(c, 0), sizeof(float), n, stdout) != n;
}

int main(int argc, char **argv) {
    static llama_token ids[MOST];
    const int          pooling = argc > 2 ? atoi(argv[2]) : 0;
    int                n = 0;
    while (n < MOST && scanf("%d", &ids[n]) == 1) n++;
    llama_log_set(quiet, NULL);
    struct llama_context *c = argc >= 2 && n ? open_model(argv[1], pooling) : NULL;
    if (!c) return 2;
    struct llama_batch b = llama_batch_init(n, 0, 1);
    for (b.n_tokens = 0; b.n_tokens < n; b.n_tokens++) {
        const int i = b.n_tokens;
        b.token[i] = ids[i], b.pos[i] = i, b.n_seq_id[i] = 1, b.seq_id[i][0] = 0, b.logits[i] = true;
    }
    if (llama_decode(c, b)) return 1;
    return pooling ? write_embedding(c, pooling) : write_logits(c, n);
}
