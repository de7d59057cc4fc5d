/* Fuzzes lookup caches: the bytes are the file, first unchanged, then with correct hashes so that more of it is read. Only
 * tokens of the vocabulary come out of it, and it works like texts of this run. */
#include "program.h"
#include "tok_mem.h"

enum { FZ_SPEC_VOCAB = 1000, FZ_PLACES = 50 };

/* Where a key's text is in the file, if it has a hash's length. p: the file's bytes, which may be changed. */
static char *fz_word(const gguf_file *g, uint8_t *p, const char *key) {
    err_t none = {0};
    bytes word;
    if (gguf_get_str(g, key, &word, &none) != 1 || word.n != 16) return NULL;
    return (char *)p + (word.p - g->part[0].p);
}

static void fz_spec_hashes(const spec *sp, const gguf_file *g, uint8_t *p) {
    const gguf_tensor *t = gguf_tensor_find(g, "tokens");
    char              *vocab = fz_word(g, p, "lookup_cache.vocabulary"), *sum = fz_word(g, p, "lookup_cache.sum"), text[17];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)sp->vocab_hash);
    if (vocab) memcpy(vocab, text, 16);
    if (!sum || !t || t->type != K_I32 || t->n_dims != 1) return;
    spec__sum((const int32_t *)(const void *)t->data, t->dim[0], text);
    memcpy(sum, text, 16);
}

/* A text that ends like the earlier text at `at`: the lookup finds the same tokens, and what follows them are tokens. */
static void fz_guess(spec *sp, int at) {
    tok_ids ids = {0};
    int     from = at;
    while (from > 0 && at - from < 11 && sp->past.id[from - 1] >= 0) from--;
    for (int i = from; i <= at; i++) tok_ids_add(&ids, sp->past.id[i]);
    spec_seq *q = spec_seq_new(sp, &ids, NULL, NULL, NULL);
    spec__read(sp, q);
    spec_place place[SPEC_WALK];
    const int  n = spec__places(&q->text, &sp->past, place);
    for (int k = 0; k < n; k++)
        for (int i = 0; i < place[k].same; i++) ASSERT(sp->past.id[place[k].at - i] == ids.id[ids.n - 1 - (size_t)i]);
    spec__lookup(sp, q, SPEC_MOST);
    ASSERT(q->n >= 0 && q->n <= SPEC_MOST);
    for (int i = 0; i < q->n; i++) {
        ASSERT(q->id[i] >= 0 && q->id[i] < FZ_SPEC_VOCAB && !tok_is_eog(sp->eng->v, q->id[i]));
        ASSERT(q->p[i] > 0 && q->p[i] <= 1);
    }
    spec_finished(sp, &ids, at % 3);
    spec_seq_free(q);
    tok_ids_drop(&ids);
}

static void fz_use(spec *sp) {
    const int n = sp->past.n;
    for (int i = 0; i < n; i++) ASSERT(sp->past.id[i] >= -1 && sp->past.id[i] < FZ_SPEC_VOCAB);
    for (int i = 0; i < FZ_PLACES && i < n; i++) {
        const int at = n <= FZ_PLACES ? i : (int)((long long)n * i / FZ_PLACES);
        if (sp->past.id[at] >= 0) fz_guess(sp, at);
    }
    spec__past_trim(&sp->past, SPEC_PAST);
    ASSERT(!sp->past.n);
}

/* Some vocabulary, so that some tokens end a text. */
static const tok_vocab *fz_spec_vocab(void) {
    static tok_vocab *v;
    static gguf_file  g;
    static str        mem;
    err_t             e = {0};
    if (v) return v;
    mem = tm_tiny_file(&tm_tinies[0], NULL);
    ASSERT(gguf_parse(&g, (const uint8_t *)mem.p, mem.n, "words", &e) && (v = tok_load(&g, NULL, &e)));
    return v;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    engine   eng = {.v = fz_spec_vocab(), .m = {.hp = {.n_vocab = FZ_SPEC_VOCAB}}};
    uint8_t *own = mem_aligned(n + 1, 1);
    g_log_level = LOG_QUIET;
    memcpy(own, data, n);
    for (int right = 0; right < 2; right++) {
        gguf_file g;
        err_t     e = {0};
        spec      sp = {.o = spec_defaults, .eng = &eng, .vocab_hash = 1234};
        if (!gguf_parse(&g, own, n, "FILE", &e)) {
            ASSERT(e.code);
            break;
        }
        if (right) fz_spec_hashes(&sp, &g, own);
        if (spec__cache_tokens(&sp, &g, &e)) fz_use(&sp);
        else ASSERT(e.code == EXIT_INPUT && !sp.past.n);
        spec__text_drop(&sp.past);
        gguf_close(&g);
    }
    mem_free(own);
    return 0;
}
