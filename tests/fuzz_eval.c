/* Fuzzes bases of --kl-divergence: header, tokens, every record. Nothing is read outside the file, and a refusal has an
 * error text. */
#include "program.h"

enum { FZ_VOCAB_MOST = 1 << 20 };                          /* a larger vocabulary than any model's is not compared with */

static void fz_records(const eval_base *b) {
    const uint64_t n = (uint64_t)b->n_chunk * (uint64_t)(b->n_ctx - 1 - b->n_ctx / 2);
    float         *x = mem_new((size_t)b->form.n_vocab, sizeof *x);
    eval_scratch   s = {NULL, mem_new((size_t)b->form.n_vocab, 1), mem_new(b->form.bytes, 1)};
    const double   lse = eval__lse(x, b->form.n_vocab);
    for (uint64_t i = 0; i < n; i++) {
        eval_score score = {.nll = lse};
        eval__compare(&b->form, x, lse, b->rec + i * b->form.bytes, &s, &score);
        ASSERT(score.wrong || isfinite(score.kld + score.nll + score.nll_base + score.dp));
    }
    mem_free_all(s.mark, s.rec, x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    eval_base b = {0};
    err_t     e = {0};
    eval_plan p;
    k_init("scalar");
    if (gguf_parse(&b.g, data, n, "FILE", &e) && eval__base_read(&b, &e)) {
        ASSERT(!e.code && b.ids.n == (size_t)b.n_ctx * (size_t)b.n_chunk);
        ASSERT(eval_plan_base(&p, &b, &eval_defaults, &e) && p.n_chunk == b.n_chunk && eval__each(&p) > 0);
        if (b.form.n_vocab <= FZ_VOCAB_MOST) fz_records(&b);
    } else {
        ASSERT(e.code == EXIT_INPUT && !strncmp(e.text, "FILE: ", 6) && strstr(e.text, ", expected "));
    }
    eval_base_close(&b);
    return 0;
}
