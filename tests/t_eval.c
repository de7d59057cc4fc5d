/* Perplexity and divergence: windows, figures against plain sums over a model's own logits, small distributions by
 * hand, what a record keeps, the error of its truncation, and damaged bases. */
#include "program.h"
#include "check.h"
#include "t_fwd.h"
#include "t_gguf.h"

static tok_ids te_ids(int n, int n_vocab) {           /* n tokens, the same ones every time */
    tok_ids ids = {0};
    for (int i = 0; i < n; i++) tok_ids_add(&ids, (int32_t)(rng_at(1, 2, (uint64_t)i, 0) % (uint64_t)n_vocab));
    return ids;
}

static void t_eval_windows(void) {
    static const struct {
        int     n, n_ctx, chunks, stride;             /* tokens of the text, of a window; options */
        int     n_chunk, first, last_at;              /* want: windows; first scored row; the last window's first token */
        int32_t bos, begin;                           /* start token; what the second window begins with, -1: its own */
    } rows[] = {
        {64, 16, -1, 0, 4, 8, 48, 7, 7},   {79, 16, -1, 0, 4, 8, 48, -1, -1}, {16, 16, -1, 0, 1, 8, 0, 7, 7},
        {64, 16, 2, 0, 2, 8, 16, 7, 7},    {64, 16, 9, 0, 4, 8, 48, 7, 7},    {64, 15, -1, 0, 4, 7, 45, 7, 7},
        {64, 16, -1, 4, 12, 11, 44, 7, -1}, {65, 16, -1, 4, 13, 11, 48, 7, -1}, {17, 16, -1, 15, 1, 0, 0, 7, -1},
        {9, 4, -1, 0, 2, 2, 4, -1, -1},
    };
    tok_ids ids = te_ids(80, 100);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const eval_opts o = {.n_chunks = rows[i].chunks, .stride = rows[i].stride};
        eval_plan       p;
        err_t           e = {0};
        ids.n = (size_t)rows[i].n;
        if (!CHECKF(eval_plan_text(&p, &ids, rows[i].n_ctx, rows[i].bos, &o, &e), "row %zu: %s", i, e.text)) continue;
        EQ_INT(p.n_chunk, rows[i].n_chunk);
        EQ_INT(p.first, rows[i].first);
        EQ_INT((p.n_chunk - 1) * p.step, rows[i].last_at);
        if (p.n_chunk > 1) EQ_INT(eval__token(&p, 1, 0), rows[i].begin >= 0 ? rows[i].begin : ids.id[p.step]);
        EQ_INT(eval__token(&p, p.n_chunk - 1, 1), ids.id[(p.n_chunk - 1) * p.step + 1]);
        CHECK((p.n_chunk - 1) * p.step + p.n_ctx <= rows[i].n);
    }
    static const struct { int n, n_ctx, chunks, stride; const char *word; } bad[] = {
        {15, 16, -1, 0, "of one chunk"}, {16, 16, -1, 4, "of one chunk"}, {64, 3, -1, 0, "at least 4"},
        {64, 16, 0, 0, "--chunks"}, {64, 16, -1, 16, "--ppl-stride"}, {0, 16, -1, 0, "0 tokens"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const eval_opts o = {.n_chunks = bad[i].chunks, .stride = bad[i].stride};
        eval_plan       p;
        err_t           e = {0};
        ids.n = (size_t)bad[i].n;
        CHECK(!eval_plan_text(&p, &ids, bad[i].n_ctx, -1, &o, &e));
        CHECKF(e.code == EXIT_INPUT && strstr(e.text, bad[i].word), "row %zu: \"%s\"", i, e.text);
    }
    tok_ids_drop(&ids);
}

/* --- a model over windows --- */

typedef struct {
    gguf_file g;
    engine   *eng;
} te_rig;

static bool te_open(te_rig *r, const char *path, int n_ctx, int64_t n_rows, int threads, int batch, int block) {
    err_t    e = {0};
    engine_opts fo = engine_defaults;
    kv_opts  ko = kv_defaults;
    fo.n_ctx = n_ctx;
    fo.n_threads = threads;
    fo.n_batch = batch;
    ko.type_k = ko.type_v = K_F32;
    ko.block = block;
    r->eng = NULL;
    if (!CHECKF(gguf_open(&r->g, path, &e), "%s", e.text)) return false;
    r->eng = engine_open(&r->g, NULL, &fo, &ko, (engine_plan){.n_need = n_rows}, clock_now(), &e);
    return CHECKF(r->eng != NULL, "%s", e.text);
}

static void te_close(te_rig *r) {
    engine_close(r->eng);
    gguf_close(&r->g);
}

/* What eval_perplexity or, with a base, eval_divergence prints; the caller frees. NULL: it failed with *e. */
static char *te_say(te_rig *r, const eval_plan *p, const eval_opts *o, const eval_base *b, bool json, err_t *e) {
    char  *text = NULL;
    size_t n = 0;
    err_t  end = {0};
    out_t  out = {open_memstream(&text, &n), "memory", 0, false};
    bool   ok = b ? eval_divergence(r->eng, b, p, json, &out, e) : eval_perplexity(r->eng, p, o, json, &out, e);
    CHECK(out_end(&out, &end));
    if (ok) return text;
    CHECKF(n == 0 && e->code, "a failure that printed \"%s\"", text);
    free(text);
    return NULL;
}

static double te_number(const char *json, const char *key) {
    char name[64];
    snprintf(name, sizeof name, "\"%s\": ", key);
    const char *at = json ? strstr(json, name) : NULL;
    return at ? strtod(at + strlen(name), NULL) : NAN;
}

/* -log p of every scored token, from the logits of each window in a run of its own. */
static double *te_plain(const char *path, const eval_plan *p, int *n) {
    gguf_file g;
    err_t     e = {0};
    engine_opts  fo = engine_defaults;
    kv_opts   ko = kv_defaults;
    tok_ids   ids = {0};
    double   *nll = mem_new((size_t)(p->n_chunk * eval__each(p)), sizeof *nll);
    fo.n_threads = 1;
    ko.type_k = ko.type_v = K_F32;
    *n = 0;
    if (!CHECK(gguf_open(&g, path, &e))) return nll;
    engine *eng = engine_open(&g, NULL, &fo, &ko, score_plan(&fo, p->n_ctx), clock_now(), &e);
    for (int c = 0; eng && c < p->n_chunk; c++) {
        char  *buf = NULL;
        size_t n_buf = 0;
        out_t  out = {open_memstream(&buf, &n_buf), "memory", 0, false};
        ids.n = 0;
        for (int i = 0; i < p->n_ctx; i++) tok_ids_add(&ids, eval__token(p, c, i));
        CHECK(score_logits(eng, &ids, &out, &e) && out_end(&out, &e));
        const float *x = (const float *)(void *)buf;
        const int    V = eng->m.hp.n_vocab;
        for (int i = p->first; i < p->n_ctx - 1; i++) {
            long double sum = 0;
            for (int v = 0; v < V; v++) sum += expl((long double)x[i * V + v]);
            nll[(*n)++] = (double)(logl(sum) - (long double)x[i * V + ids.id[i + 1]]);
        }
        free(buf);
    }
    tok_ids_drop(&ids);
    engine_close(eng);
    gguf_close(&g);
    return nll;
}

static void t_eval_perplexity(void) {
    static const struct { const char *model; int n_ctx, stride, chunks; int32_t bos; } rows[] = {
        {"llama.gguf", 16, 0, -1, 1}, {"llama.gguf", 24, 5, -1, 1}, {"qwen3moe.gguf", 20, 0, 3, -1}, {"llama_window.gguf", 48, 0, -1, 1},
    };
    static const struct { int threads, batch, block; } how[] = {{1, 512, 32}, {2, 7, 2}, {2, 33, 5}, {1, 1, 32}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const eval_opts o = {.n_chunks = rows[i].chunks, .stride = rows[i].stride};
        tok_ids         ids = te_ids(150, 200);
        eval_plan       p;
        err_t           e = {0};
        int             n;
        char           *first = NULL;
        if (!CHECKF(eval_plan_text(&p, &ids, rows[i].n_ctx, rows[i].bos, &o, &e), "%s", e.text)) return;
        double *nll = te_plain(t_tiny_path(rows[i].model), &p, &n), mean = 0, var = 0;
        for (int k = 0; k < n; k++) mean += nll[k] / n;
        for (int k = 0; k < n; k++) var += (nll[k] - mean) * (nll[k] - mean) / n;
        for (size_t h = 0; h < sizeof how / sizeof *how; h++) {
            te_rig r;
            const int batch = t_stress() ? 1 : how[h].batch;
            if (te_open(&r, t_tiny_path(rows[i].model), p.n_ctx, (int64_t)ids.n, how[h].threads, batch, how[h].block)) {
                char *json = te_say(&r, &p, &o, NULL, true, &e), *text = te_say(&r, &p, &o, NULL, false, &e);
                double ppl, error;
                EQ_INT(te_number(json, "scored"), n);
                NEAR(te_number(json, "nll") / mean, 1, 1e-8);
                NEAR(te_number(json, "nll_error") / sqrt(var / (n - 1)), 1, 1e-8);
                NEAR(te_number(json, "perplexity") / exp(mean), 1, 1e-7);
                EQ_INT(sscanf(text ? text : "", "Final estimate: PPL = %lf +/- %lf\n", &ppl, &error), 2);
                NEAR(ppl, exp(mean), 1e-4 * exp(mean));
                NEAR(error / (sqrt(var / (n - 1)) * exp(mean)), 1, 1e-3);
                if (!first) first = json;
                else {
                    if (json) EQ_STR(json, first);    /* to the last bit, whatever the steps are */
                    free(json);
                }
                free(text);
            }
            te_close(&r);
        }
        free(first);
        mem_free(nll);
        tok_ids_drop(&ids);
    }
}

/* With a cache for one window the windows run one by one; a smaller cache is an error. */
static void t_eval_cache(void) {
    const char     *path = t_tiny_path("llama.gguf");
    const eval_opts o = eval_defaults;
    tok_ids         ids = te_ids(100, 200);
    eval_plan       p;
    err_t           e = {0};
    char           *want = NULL;
    CHECK(eval_plan_text(&p, &ids, 16, 1, &o, &e));
    for (int blocks = 0; blocks <= 4; blocks++) {     /* of 4 tokens: 15 rows of a window need 4 of them */
        te_rig   r = {.eng = NULL};
        engine_opts fo = engine_defaults;
        kv_opts  ko = {.type_k = K_F32, .type_v = K_F32, .block = 4, .max_blocks = blocks};
        fo.n_ctx = 16;
        fo.n_threads = 1;
        e = (err_t){0};
        if (!CHECK(gguf_open(&r.g, path, &e))) return;
        r.eng = engine_open(&r.g, NULL, &fo, &ko, (engine_plan){.n_need = (int64_t)ids.n}, clock_now(), &e);
        char *text = r.eng ? te_say(&r, &p, &o, NULL, true, &e) : NULL;
        if (blocks == 0) want = text;
        else if (blocks == 4) {
            if (CHECKF(text != NULL, "%s", e.text)) EQ_STR(text, want);
        } else CHECKF(e.code == EXIT_RESOURCE && strstr(e.text, "KV cache"), "%d blocks: \"%s\"", blocks, e.text);
        if (blocks) free(text);
        te_close(&r);
    }
    free(want);
    tok_ids_drop(&ids);
}

/* --- records --- */

typedef struct {
    eval_form    f;
    eval_scratch s;
    uint8_t     *rec;
} te_record;

static te_record te_record_new(int n_vocab, int k) {
    te_record r = {.f = eval__form_for(n_vocab, k)};
    r.s = (eval_scratch){mem_new((size_t)r.f.k, sizeof(int32_t)), mem_new((size_t)n_vocab, 1), mem_new(r.f.bytes, 1)};
    r.rec = mem_new(1, r.f.bytes);
    return r;
}

static void te_record_drop(te_record *r) {
    mem_free_all(r->s.heap, r->s.mark, r->s.rec, r->rec);
}

static eval_score te_compare(te_record *r, const float *q, int32_t next) {
    const double lse = eval__lse(q, r->f.n_vocab);
    eval_score   s = {.nll = lse - (double)q[next]};
    eval__compare(&r->f, q, lse, r->rec, &r->s, &s);
    for (int i = 0; i < r->f.n_vocab; i++)
        if (!CHECKF(!r->s.mark[i], "a mark is left on %d", i)) break;
    return s;
}

static eval_score te_divergence(const float *p, const float *q, int n, int k, int32_t next) {
    te_record r = te_record_new(n, k);
    eval__pack(&r.f, p, eval__lse(p, n), next, &r.s, r.rec);
    eval_score s = te_compare(&r, q, next);
    te_record_drop(&r);
    return s;
}

/* p = (1/2, 1/4, 1/8, 1/8) against q: sums of a few logarithms. A form of all four is smaller than one of two or three. */
static void t_eval_by_hand(void) {
    const double l2 = log(2);
    const float  p[] = {(float)(3 * l2), (float)(2 * l2), (float)l2, (float)l2}, even[] = {5, 5, 5, 5};
    const float  q[] = {(float)l2, (float)l2, (float)(2 * l2), (float)(3 * l2)};   /* (2, 2, 4, 8) / 16 */
    eval_score   s = te_divergence(p, even, 4, 0, 0);
    NEAR(s.kld, l2 / 4, 1e-7);
    NEAR(s.nll, 2 * l2, 1e-7);
    NEAR(s.nll_base, l2, 1e-7);
    NEAR(s.dp, -0.25, 1e-7);
    CHECK(s.same && !s.wrong);                        /* among equals the lowest number */
    s = te_divergence(p, q, 4, 0, 3);
    NEAR(s.kld, 0.5 * 2 * l2 + 0.25 * l2 - 0.125 * l2 - 0.125 * 2 * l2, 1e-7);
    NEAR(s.dp, 0.5 - 0.125, 1e-7);
    CHECK(!s.same);
    for (int k = 1; k <= 2; k++) {                    /* the tail is one outcome */
        te_record r = te_record_new(4, 0);
        r.f = eval__form(4, k);
        mem_free(r.rec);
        r.rec = mem_new(1, r.f.bytes);
        eval__pack(&r.f, p, eval__lse(p, 4), 1, &r.s, r.rec);
        s = te_compare(&r, q, 1);
        NEAR(s.kld, k == 1 ? 0.5 * log(4) + 0.5 * log(0.5 / 0.875) : 0.5 * log(4) + 0.25 * log(2) + 0.25 * log(0.25 / 0.75), 1e-7);
        NEAR(s.dp, 0.125 - 0.25, 1e-7);
        te_record_drop(&r);
    }
}

static void t_eval_figures(void) {
    static const struct { double percent, want; } cut[] = {{0, 1}, {100, 5}, {50, 3}, {25, 2}, {10, 1.4}, {99, 4.96}, {99.9, 4.996}};
    const double x[] = {1, 2, 3, 4, 5};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) NEAR(eval__percentile(x, 5, cut[i].percent), cut[i].want, 1e-12);
    NEAR(eval__percentile(x, 4, 50), 2.5, 1e-12);     /* the median of an even number lies between the middle two */
    NEAR(eval__percentile(x + 4, 1, 37), 5, 0);
    eval_mean m = {0};
    for (int i = 0; i < 5; i++) eval__add(&m, 1e9 + x[i]);
    NEAR(m.mean, 1e9 + 3, 1e-6);
    NEAR(eval__error(&m), sqrt(2.0 / 4), 1e-9);
    m = (eval_mean){0};
    eval__add(&m, 7);
    NEAR(eval__error(&m), 0, 0);
    eval_run r = {.at = 4, .n_same = 3};
    const double a[] = {1, 2, 3, 5}, b[] = {1, 1, 4, 4};
    for (int i = 0; i < 4; i++) eval__add(&r.nll, a[i]), eval__add(&r.nll_base, b[i]), eval__add(&r.ratio, a[i] - b[i]);
    const eval_figures f = eval__figures(&r);
    const double       cov = (1 + 2 + 12 + 20) / 4.0 - 2.75 * 2.5, va = 39 / 4.0 - 2.75 * 2.75, vb = 34 / 4.0 - 6.25;
    NEAR(f.cor, cov / sqrt(va * vb), 1e-12);
    NEAR(f.ln, 0.25, 1e-12);
    NEAR(f.ln_error, sqrt((va + vb - 2 * cov) / 3), 1e-12);
    NEAR(f.ppl, exp(2.75), 1e-12);
    NEAR(f.ppl_error, exp(2.75) * sqrt(va / 3), 1e-12);
    NEAR(f.ratio, exp(0.25), 1e-12);
    NEAR(f.diff, exp(2.75) - exp(2.5), 1e-12);
    NEAR(f.diff_error, sqrt((exp(5.5) * va + exp(5) * vb - 2 * exp(5.25) * cov) / 3), 1e-9);
    NEAR(f.same, 0.75, 0);
    NEAR(f.same_error, sqrt(0.75 * 0.25 / 3), 1e-12);
}

/* Logits like a model's: a few likely tokens, a long tail. */
static void te_logits(float *x, int n, uint64_t seed) {
    for (int i = 0; i < n; i++) {
        double u = rng_unit(rng_at(seed, 0, (uint64_t)i, 0)), v = rng_unit(rng_at(seed, 0, (uint64_t)i, 1));
        x[i] = (float)(2.5 * sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v));
    }
}

/* The chosen k are sorted, ties by number; a model compared with itself gives 0 for every k and width of ids. */
static void t_eval_top(void) {
    static const struct { int n, k, id_bytes; } rows[] = {{300, 7, 2}, {300, 1, 2}, {300, 199, 2}, {300, 200, 0}, {300, 0, 0}, {70000, 40, 4}, {65536, 40, 2}};
    float *x = mem_new(70000, sizeof *x);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int n = rows[i].n;
        te_logits(x, n, i);
        for (int j = 0; j < n; j++) x[j] = roundf(x[j] * 4) / 4;      /* many equals */
        te_record r = te_record_new(n, rows[i].k);
        EQ_INT(r.f.id_bytes, rows[i].id_bytes);
        EQ_INT(r.f.k, rows[i].id_bytes ? rows[i].k : n);
        EQ_INT(r.f.bytes % 4, 0);
        eval__pack(&r.f, x, eval__lse(x, n), 5, &r.s, r.rec);
        for (int j = 1; rows[i].id_bytes && j < r.f.k; j++) CHECK(eval__before(x, eval__id(&r.f, r.rec, j - 1), eval__id(&r.f, r.rec, j)));
        int beyond = 0;                               /* nobody outside comes before the last one inside */
        for (int j = 0; rows[i].id_bytes && j < n; j++) beyond += eval__before(x, j, eval__id(&r.f, r.rec, r.f.k - 1));
        if (rows[i].id_bytes) EQ_INT(beyond, r.f.k - 1);
        const eval_score s = te_compare(&r, x, 5);
        CHECK(!s.wrong && s.same && s.kld == 0 && s.dp == 0 && s.nll == s.nll_base);
        te_record_drop(&r);
    }
    mem_free(x);
}

/* A smaller k never gives a larger divergence, and 256 of 3,000 give nearly all of it: the tail is small. */
static void t_eval_truncation(void) {
    enum { N = 3000 };
    static const int ks[] = {1, 4, 16, 64, 256, 1024, 0};
    float           *p = mem_new(N, sizeof *p), *q = mem_new(N, sizeof *q), *noise = mem_new(N, sizeof *noise);
    double           sum[7] = {0}, floor = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        te_logits(p, N, seed);
        te_logits(noise, N, seed + 1000);
        for (int i = 0; i < N; i++) q[i] = p[i] * 1.6f + 0.05f * noise[i], p[i] *= 1.6f;
        double exact = 0, zp = 0, zq = 0, before = -1;
        for (int i = 0; i < N; i++) zp += exp((double)p[i]), zq += exp((double)q[i]);
        for (int i = 0; i < N; i++) exact += exp((double)p[i]) / zp * ((double)p[i] - log(zp) - (double)q[i] + log(zq));
        for (int k = 0; k < 7; k++) {
            const double kld = te_divergence(p, q, N, ks[k], 3).kld;
            CHECKF(kld >= before - 1e-7, "k %d: %.9g after %.9g", ks[k], kld, before);
            sum[k] += before = kld;
        }
        floor = fmax(floor, fabs(before - exact));
    }
    CHECKF(floor < 1e-7, "f32 values cost %.3g", floor);
    CHECKF(sum[4] > 0.98 * sum[6], "256 of 3000 keep %.4f", sum[4] / sum[6]);
    mem_free(p);
    mem_free(q);
    mem_free(noise);
}

static void t_eval_bad_records(void) {
    static const struct { int at, how; const char *word; } rows[] = {
        {0, 0, "outside the vocabulary"}, {4, 1, "above 0"}, {4, 2, "above 0"}, {8, 1, "tail"}, {8, 3, "tail"}, {12, 1, "above 0"},
        {16, 2, "above 0"}, {16, 3, "above 0"}, {12, 4, "add up"}, {12 + 4 * 8, 5, "outside the vocabulary"}, {12 + 4 * 8, 6, "twice"},
    };
    const float one = 1, nan = NAN, minus = -INFINITY, small = -30;
    float       x[500];
    te_logits(x, 500, 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        te_record r = te_record_new(500, 8);
        eval__pack(&r.f, x, eval__lse(x, 500), 9, &r.s, r.rec);
        CHECK(!te_compare(&r, x, 9).wrong);
        uint8_t *at = r.rec + rows[i].at;
        switch (rows[i].how) {
        case 0: memset(at, 0xff, 4); break;
        case 1: memcpy(at, &one, 4); break;
        case 2: memcpy(at, &nan, 4); break;
        case 3: memcpy(at, &minus, 4); break;
        case 4: memcpy(at, &small, 4); break;
        case 5: memset(at, 0xff, 2); break;
        default: memcpy(at, at + 2, 2); break;
        }
        const char *wrong = te_compare(&r, x, 9).wrong;
        CHECKF(wrong && strstr(wrong, rows[i].word), "row %zu: %s", i, wrong ? wrong : "accepted");
        te_record_drop(&r);
    }
}

/* A record that changes while it is compared: refused, or a figure; no logit outside the vocabulary is read, whenever it changes. */
static void t_eval_changing(void) {
    te_record r = te_record_new(1024, 8);
    float     some[1024], *x;
    te_logits(some, 1024, 1);
    eval__pack(&r.f, some, eval__lse(some, 1024), 9, &r.s, r.rec);
    uint8_t *own = r.rec;
    for (int when = 1; when < TG_TRAP_WHEN; when++) {
        r.rec = (uint8_t *)(uintptr_t)tg_trap_new(own, r.f.bytes, 32, when, &x);
        memcpy(x, some, sizeof some);
        const eval_score s = te_compare(&r, x, 9);
        CHECKF(!tg_trap.beyond, "read %d: a logit outside the vocabulary", when);
        CHECKF(s.wrong || isfinite(s.kld), "read %d: %g", when, s.kld);
        tg_trap_end();
    }
    r.rec = own;
    te_record_drop(&r);
}

/* --- bases --- */

static char te_path[64];

static bool te_base_write(te_rig *r, const eval_plan *p, int top_k, err_t *e) {
    eval_opts o = eval_defaults;
    snprintf(te_path, sizeof te_path, "/tmp/t_eval.%d.gguf", (int)getpid());
    o.base = te_path;
    o.top_k = top_k;
    char *text = te_say(r, p, &o, NULL, true, e);
    free(text);
    return CHECKF(text != NULL, "%s", e->text);
}

/* A base read by the model that wrote it: the same tokens, divergence 0. Read by another model: the divergence of their logits. */
static void t_eval_base(void) {
    static const int tops[] = {0, 20};
    tok_ids          ids = te_ids(100, 200);
    eval_opts        o = eval_defaults;
    for (int k = 0; k < 2; k++) {
        eval_plan p, again;
        eval_base b;
        te_rig    r, other;
        err_t     e = {0};
        CHECK(eval_plan_text(&p, &ids, 24, 1, &o, &e));
        if (!te_open(&r, t_tiny_path("llama.gguf"), 24, 100, 2, 512, 32) || !te_base_write(&r, &p, tops[k], &e)) return;
        if (!CHECKF(eval_base_open(&b, te_path, &e), "%s", e.text)) return;
        EQ_INT(b.n_ctx, 24);
        EQ_INT(b.n_chunk, 4);
        EQ_INT(b.form.n_vocab, r.eng->m.hp.n_vocab);
        EQ_INT(b.form.k, tops[k] ? tops[k] : b.form.n_vocab);
        CHECKF(eval_plan_base(&again, &b, &o, &e), "%s", e.text);
        for (int c = 0; c < 4; c++)
            for (int i = 0; i < 24; i++) EQ_INT(eval__token(&again, c, i), eval__token(&p, c, i));
        char *own = te_say(&r, &again, &o, &b, true, &e);
        NEAR(te_number(own, "mean"), 0, 0);
        NEAR(te_number(own, "max"), 0, 0);
        NEAR(te_number(own, "ln_ratio"), 0, 0);
        NEAR(te_number(own, "same_top"), 1, 0);
        NEAR(te_number(own, "correlation"), 1, 1e-12);
        EQ_INT(te_number(own, "scored"), 4 * 11);
        free(own);
        int     n;
        double *base = te_plain(t_tiny_path("llama.gguf"), &p, &n), mean = 0;
        for (int i = 0; i < n; i++) mean += base[i] / n;
        if (te_open(&other, t_tiny_path("llama_yarn.gguf"), 24, 100, 1, 5, 4) && other.eng->m.hp.n_vocab == b.form.n_vocab) {
            char *json = te_say(&other, &again, &o, &b, true, &e), *text = te_say(&other, &again, &o, &b, false, &e);
            NEAR(te_number(json, "base_perplexity") / exp(mean), 1, 1e-6);
            CHECK(te_number(json, "mean") > 1e-4 && te_number(json, "min") >= -1e-7 && te_number(json, "max") >= te_number(json, "p99"));
            CHECK(text && strstr(text, "Mean    KLD:") && strstr(text, "99.9%   Δp:") && strstr(text, "Same top p:"));
            free(json);
            free(text);
        }
        te_close(&other);
        mem_free(base);
        eval_base_close(&b);
        te_close(&r);
        unlink(te_path);
    }
    tok_ids_drop(&ids);
}

/* Every byte of header, directory and tokens changed, and every length: refused with an error text, or still a valid base. */
static void t_eval_damage(void) {
    tok_ids   ids = te_ids(20, 200);
    eval_plan p;
    te_rig    r;
    err_t     e = {0};
    size_t    n;
    CHECK(eval_plan_text(&p, &ids, 8, 1, &eval_defaults, &e));
    if (!te_open(&r, t_tiny_path("llama.gguf"), 8, 20, 1, 512, 32) || !te_base_write(&r, &p, 4, &e)) return;
    te_close(&r);
    tok_ids_drop(&ids);
    uint8_t *good = (uint8_t *)t_read(te_path, &n), *copy = mem_new(n, 1);
    unlink(te_path);
    int refused = 0;
    for (size_t i = 0; i < 2 * n; i++) {
        eval_base b = {0};
        memcpy(copy, good, n);
        if (i < n) copy[i] ^= (uint8_t)(1 + i % 255);
        e = (err_t){0};
        bool ok = gguf_parse(&b.g, copy, i < n ? n : i - n, "FILE", &e) && eval__base_read(&b, &e);
        if (ok) {
            CHECK(!e.code && b.ids.n == (size_t)b.n_ctx * (size_t)b.n_chunk);
            const uint64_t each = (uint64_t)(b.n_ctx - 1 - b.n_ctx / 2);
            CHECK(b.rec >= copy && b.rec + (uint64_t)b.n_chunk * each * b.form.bytes <= copy + n);
        } else if (CHECKF(e.code == EXIT_INPUT && !strncmp(e.text, "FILE: ", 6) && strstr(e.text, ", expected "), "byte %zu: \"%s\"", i, e.text)) refused++;
        eval_base_close(&b);
    }
    CHECK(refused > (int)n);                          /* every length, and some bytes */
    const gguf_tensor many = {.n_bytes = ((uint64_t)EVAL_TOKENS + 1) * 4};
    eval_base         b = {.g.path = "FILE"};
    e = (err_t){0};
    CHECK(!eval__base_tokens(&b, &many, &e) && !b.ids.n);
    EQ_STR(e.text, "FILE: more than 268435456 tokens, expected those of a text");
    mem_free(good);
    mem_free(copy);
}

static const t_case t_eval_cases[] = {
    {"eval windows", "windows of a text: number, first scored token, start token, stride; refusals", t_eval_windows},
    {"eval perplexity", "perplexity equals that of the windows' logits, for all sizes of steps", t_eval_perplexity},
    {"eval cache", "a cache for one window is enough, a smaller one is an error", t_eval_cache},
    {"eval by hand", "divergences of four tokens, with and without a tail", t_eval_by_hand},
    {"eval figures", "means, errors, percentiles, correlation by hand", t_eval_figures},
    {"eval top", "the k most likely tokens in order; divergence 0 between a model and itself", t_eval_top},
    {"eval truncation", "errors of a truncated record and of f32", t_eval_truncation},
    {"eval bad records", "each error in a record is named", t_eval_bad_records},
    {"eval changing", "a record that changes while it is used reads nothing outside the vocabulary", t_eval_changing},
    {"eval base", "a base is written and read; divergence of another model", t_eval_base},
    {"eval damage", "a base with any byte changed or cut", t_eval_damage},
};
static const t_suite t_eval_suite = SUITE(t_eval_cases);
