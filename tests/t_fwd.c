/* The step compared with logits that a framework computed in float64, and with itself: the same bits for every kernel
 * level, number of threads, chunk, block size and batch. */
#include "program.h"
#include "check.h"
#include "t_pool.h"

typedef struct {
    char name[64], file[64], ids[64], logits[64], greedy[64], metric[16];
    int  n_tokens, n_vocab, first, step, rows;
    double limit;
} t_tiny;

typedef struct {                                      /* how a model is run */
    const char *level;
    int         threads, chunk, block;
    uint32_t    kv_type;
    bool        packed;                               /* the matrices in their other layout */
} t_how;

static const t_how t_plain = {"scalar", 1, 512, 32, K_F32, false};

static const char *t_tiny_path(const char *name) {
    static char path[4][160];
    static int  turn;
    char       *p = path[turn++ & 3];
    snprintf(p, sizeof path[0], "tests/data/tiny/%s", name);
    return p;
}

static bool t_tiny_next(FILE *f, t_tiny *t) {
    return fscanf(f, "%63s %63s %63s %63s %63s %d %d %d %d %d %15s %lf", t->name, t->file, t->ids, t->logits, t->greedy,
                  &t->n_tokens,
                  &t->n_vocab, &t->first, &t->step, &t->rows, t->metric, &t->limit) == 12;
}

static bool t_tiny_find(const char *name, t_tiny *t) {
    FILE *f = fopen(t_tiny_path("manifest.txt"), "r");
    bool  found = false;
    while (f && !found && t_tiny_next(f, t)) found = strcmp(t->name, name) == 0;
    if (f) fclose(f);
    return CHECKF(found, "no tiny model %s", name);
}

static int32_t *t_read_ids(const char *path, int *n) {
    FILE    *f = fopen(path, "r");
    int32_t *ids = mem_new(4096, sizeof *ids);
    *n = 0;
    while (f && *n < 4096 && fscanf(f, "%d", &ids[*n]) == 1) (*n)++;
    if (f) fclose(f);
    return ids;
}

/* A model with everything a step needs. */
typedef struct {
    gguf_file g;
    model     m;
    pool     *p;
    kv_cache *kv;
    fwd      *f;
} t_rig;

static bool t_rig_open(t_rig *r, const char *path, const t_how *how) {
    err_t e = {0};
    memset(r, 0, sizeof *r);
    k_init(how->level);
    if (!CHECKF(gguf_open(&r->g, path, &e), "%s", e.text)) return false;
    if (!CHECKF(model_open(&r->m, &r->g, &rope_defaults, &e), "%s", e.text)) return false;
    kv_opts ko = {.type_k = how->kv_type, .type_v = how->kv_type, .block = t_stress() ? 2 : how->block};
    r->kv = kv_new(&r->m.hp, &ko, (kv_load){.tokens = 4096}, &e);
    if (!CHECKF(r->kv != NULL, "%s", e.text)) return false;
    r->p = pool_new(how->threads);
    if (how->packed) CHECK(!model_pack(&r->m, r->p, SIZE_MAX));
    r->f = fwd_new(&r->m, r->kv, r->p, 256, 128, r->m.hp.causal || arch_diffuses(&r->m.hp) ? FWD_LOGITS : FWD_HIDDEN);
    return true;
}

static void t_rig_close(t_rig *r) {
    fwd_free(r->f);
    kv_free(r->kv);
    pool_free(r->p);
    model_close(&r->m);
    gguf_close(&r->g);
}

/* Logits of every position, [n, V], owned by the caller. */
static float *t_rig_logits(t_rig *r, const int32_t *ids, int n, int chunk) {
    const size_t V = (size_t)r->m.hp.n_vocab;
    float       *all = mem_new((size_t)n * V, sizeof *all);
    kv_seq      *seq = kv_seq_new(r->kv);
    for (int at = 0; at < n;) {
        int k = 0;
        fwd_begin(r->f);
        for (; k < (t_stress() ? 1 : chunk) && k < 128 && at + k < n; k++) fwd_add(r->f, seq, ids[at + k], at + k, DEV_LOGITS);
        if (!CHECK(kv_reserve(seq, at + k))) break;
        if (!CHECK(fwd_step(r->f))) break;
        memcpy(all + (size_t)at * V, r->f->logits, (size_t)k * V * sizeof *all);
        at += k;
    }
    kv_seq_free(seq);
    return all;
}

static int t_tiny_rising(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Mean or median of n numbers, which are sorted. */
static double t_tiny_middle(double *x, int n, bool median) {
    double sum = 0;
    qsort(x, (size_t)n, sizeof *x, t_tiny_rising);
    for (int i = 0; i < n; i++) sum += x[i];
    return median ? (x[(n - 1) / 2] + x[n / 2]) / 2 : sum / n;
}

/* Distance of the golden rows from ours, in the manifest's metric. */
static double t_tiny_error(const t_tiny *t, const float *got) {
    size_t n_bytes;
    float *want = (float *)(void *)t_read(t_tiny_path(t->logits), &n_bytes);
    double num = 0, den = 0, *kl = mem_new((size_t)t->rows, sizeof *kl);
    memset(kl, 0, (size_t)t->rows * sizeof *kl);
    CHECK(want && n_bytes == (size_t)t->rows * (size_t)t->n_vocab * sizeof *want);
    for (int r = 0; want && r < t->rows; r++) {
        const float *a = got + (size_t)(t->first + r * t->step) * (size_t)t->n_vocab, *b = want + (size_t)r * (size_t)t->n_vocab;
        double       za = 0, zb = 0;
        for (int i = 0; i < t->n_vocab; i++) {
            num += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
            den += (double)b[i] * (double)b[i];
            za += exp((double)a[i]);
            zb += exp((double)b[i]);
        }
        for (int i = 0; i < t->n_vocab; i++) kl[r] += exp((double)b[i]) / zb * ((double)b[i] - log(zb) - (double)a[i] + log(za));
    }
    const double middle = t_tiny_middle(kl, t->rows, strcmp(t->metric, "kl-median") == 0);
    mem_free(kl);
    mem_free(want);
    return strcmp(t->metric, "nmse") == 0 ? num / den : middle;
}

/* Rows whose largest logit is that of another token than in the golden logits. */
static int t_tiny_wrong_tokens(const t_tiny *t, const float *got) {
    size_t n_bytes;
    float *want = (float *)(void *)t_read(t_tiny_path(t->logits), &n_bytes);
    int    wrong = 0;
    for (int r = 0; want && r < t->rows; r++) {
        const float *a = got + (size_t)(t->first + r * t->step) * (size_t)t->n_vocab, *b = want + (size_t)r * (size_t)t->n_vocab;
        int          best = 0, golden = 0;
        for (int i = 1; i < t->n_vocab; i++) {
            best = a[i] > a[best] ? i : best;
            golden = b[i] > b[golden] ? i : golden;
        }
        wrong += best != golden;
    }
    mem_free(want);
    return wrong;
}

static void t_fwd_golden_of(const char *list, int least) {
    FILE  *f = fopen(t_tiny_path(list), "r");
    t_tiny t;
    int    n_models = 0;
    if (!CHECK(f != NULL)) return;
    for (; t_tiny_next(f, &t); n_models++) {
        t_rig    r;
        int      n;
        int32_t *ids = t_read_ids(t_tiny_path(t.ids), &n);
        if (EQ_INT(n, t.n_tokens) && t_rig_open(&r, t_tiny_path(t.file), &t_plain)) {
            float *got = t_rig_logits(&r, ids, n, 512);
            double err = t_tiny_error(&t, got);
            CHECKF(err <= t.limit, "%s: %s %.3g, at most %.3g", t.name, t.metric, err, t.limit);
            if (strcmp(t.metric, "nmse") == 0) EQ_INT(t_tiny_wrong_tokens(&t, got), 0);
            mem_free(got);
            t_rig_close(&r);
        }
        mem_free(ids);
    }
    fclose(f);
    CHECK(n_models >= least);
}
static void t_fwd_golden(void) { t_fwd_golden_of("manifest.txt", 30); }

/* Every way of running gives the bits of the plain one; in every second one threads leave the team before each task. */
static void t_fwd_same_bits_of(const char *list) {
    static const t_how hows[] = {
        {"scalar", 2, 7, 16, K_F32, false},  {"avx2", 1, 512, 32, K_F32, false},   {"avx2", 2, 1, 2, K_F32, false},
        {"avx2", 3, 7, 64, K_F32, false},    {"avx512", 1, 512, 32, K_F32, false}, {"avx512", 2, 1, 1, K_F32, false},
        {"avx512", 3, 7, 256, K_F32, false}, {"avx512", 2, 33, 5, K_F32, false},   {"scalar", 1, 7, 32, K_F32, true},
        {"avx2", 2, 7, 32, K_F32, true},     {"avx2", 1, 1, 32, K_F32, true},      {"avx512", 2, 512, 32, K_F32, true},
        {"avx512", 3, 1, 32, K_F32, true},   {"avx512", 1, 5, 32, K_F32, true},    {"avx_vnni", 2, 512, 32, K_F32, false},
        {"avx_vnni", 3, 33, 32, K_F32, true}, {"avx512_bf16", 1, 512, 32, K_F32, false}, {"avx512_bf16", 3, 1, 5, K_F32, true},
        {"avx512_amx", 1, 512, 32, K_F32, false}, {"avx512_amx", 3, 33, 32, K_F32, true},
        {"neon", 2, 7, 32, K_F32, true},     {"i8mm", 1, 512, 32, K_F32, true},
    };
    FILE  *f = fopen(t_tiny_path(list), "r");
    t_tiny t;
    if (!CHECK(f != NULL)) return;
    t_pool_restless(true);
    for (size_t m = 0; t_tiny_next(f, &t); m++) {
        t_rig    r;
        int      n;
        int32_t *ids = t_read_ids(t_tiny_path(t.ids), &n);
        if (!t_rig_open(&r, t_tiny_path(t.file), &t_plain)) continue;
        float *want = t_rig_logits(&r, ids, n, 512);
        t_rig_close(&r);
        for (size_t i = 0; i < sizeof hows / sizeof *hows; i++) {
            if (!t_all() && (i + m) % 5) continue;    /* a fifth of the ways for each model, each way for a fifth of the models */
            if (!k_init(hows[i].level) || !t_rig_open(&r, t_tiny_path(t.file), &hows[i])) continue;
            for (int k = 0; i % 2 && k < r.p->n; k++) r.p->seat[k].crowded = INT_MAX;
            float *got = t_rig_logits(&r, ids, n, hows[i].chunk);
            CHECKF(memcmp(got, want, (size_t)n * (size_t)t.n_vocab * sizeof *got) == 0,
                   "%s: %s%s, %d threads, chunks of %d, blocks of %d: other bits", t.name, hows[i].level,
                   hows[i].packed ? ", packed" : "",
                   hows[i].threads, hows[i].chunk, hows[i].block);
            mem_free(got);
            t_rig_close(&r);
        }
        mem_free(want);
        mem_free(ids);
    }
    t_pool_restless(false);
    fclose(f);
}
static void t_fwd_same_bits(void) { t_fwd_same_bits_of("manifest.txt"); }

/* Experts that are read ahead stay in the file, all else is packed; the bits are the same, also where little is read. */
static void t_fwd_read_ahead(void) {
    t_tiny t;
    t_rig  r;
    int    n;
    if (!t_tiny_find("qwen3moe_q8_0", &t) || !t_rig_open(&r, t_tiny_path(t.file), &t_plain)) return;
    int32_t *ids = t_read_ids(t_tiny_path(t.ids), &n);
    float   *want = t_rig_logits(&r, ids, n, 512);
    t_rig_close(&r);
    for (size_t most = 1; most; most = most < SIZE_MAX ? SIZE_MAX : 0) {
        int at = 0, experts = 0;
        if (!t_rig_open(&r, t_tiny_path(t.file), &t_plain)) break;
        const model_bytes all = model_sizes(&r.m);
        CHECK(model_read_ahead(&r.m, most));
        const model_bytes rest = model_sizes(&r.m);
        CHECK(rest.file == all.file && rest.packed < all.packed && rest.given < all.given);
        CHECK(!model_pack(&r.m, r.p, SIZE_MAX));
        EQ_INT(r.m.packs_used, rest.packed);
        for (const dev_mat *w; (w = model__mat(&r.m, &at)); experts += w->ahead > 0) CHECK(!w->ahead || (!w->packed && w->n_mat > 1));
        EQ_INT(experts, 3 * r.m.hp.n_layer);
        float *got = t_rig_logits(&r, ids, n, 7);
        EQ_MEM(got, want, (size_t)n * (size_t)t.n_vocab * sizeof *got);
        mem_free(got);
        t_rig_close(&r);
    }
    mem_free_all(want, ids);
}

/* Types of ik_llama.cpp and bitnet.cpp. */
static void t_fwd_foreign(void) {
    t_fwd_golden_of("foreign.txt", 2);
    t_fwd_same_bits_of("foreign.txt");
}

/* Levels, threads, chunks and block sizes for each cache type must not change what a quantised cache holds. Heads of 32 fill
 * the blocks of a quantised type, heads of 20 do not. */
static void t_fwd_cache_model(const char *name) {
    static const uint32_t types[] = {K_F32, K_F16, K_BF16, K_Q8_0, K_Q4_0};
    static const double   limit[] = {1e-6, 1e-5, 1e-3, 1e-2, 0.3};       /* NMSE against the float64 logits */
    t_tiny t;
    if (!t_tiny_find(name, &t)) return;
    int      n;
    int32_t *ids = t_read_ids(t_tiny_path(t.ids), &n);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        t_rig r;
        t_how how = {"scalar", 1, 512, 32, types[i], false};
        t_how others[] = {{"auto", 2, 7, 3, types[i], false}, {"avx2", 2, 5, 32, types[i], false},
                          {"avx512", 1, 33, 8, types[i], true}};
        if (!t_rig_open(&r, t_tiny_path(t.file), &how)) continue;
        float *want = t_rig_logits(&r, ids, n, how.chunk);
        double err = t_tiny_error(&t, want);
        CHECKF(err <= limit[i], "%s, cache %s: NMSE %.3g, at most %.3g", name, k_types[types[i]].name, err, limit[i]);
        t_rig_close(&r);
        for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
            if (!k_init(others[k].level) || !t_rig_open(&r, t_tiny_path(t.file), &others[k])) continue;
            float *got = t_rig_logits(&r, ids, n, others[k].chunk);
            CHECKF(memcmp(got, want, (size_t)n * (size_t)t.n_vocab * sizeof *got) == 0,
                   "%s, cache %s: %s, blocks of %d give other bits",
                   name, k_types[types[i]].name, others[k].level, others[k].block);
            mem_free(got);
            t_rig_close(&r);
        }
        mem_free(want);
    }
    mem_free(ids);
}

static void t_fwd_cache_types(void) {
    t_fwd_cache_model("qwen3");
    t_fwd_cache_model("llama_odd");
    t_fwd_cache_model("minimax-m3");                 /* keys of an indexer too: in latent models rounding of them moves choices more */
    t_fwd_cache_model("qwen4exp");
    t_fwd_cache_model("deepseek4_odd");
}

/* One channel of K and one of V, of every head, as far above the others as trained models have them: a factor on them here, one
 * over it on Q and wo, so that the logits stay. The matrices become copies of their own: copy[4 * layer ..]. */
static void t_outliers(t_rig *r, float factor, float **copy) {
    const arch_hparams *hp = &r->m.hp;
    const int           pair[] = {5, 5 + hp->layer[0].n_rot / 2};
    for (int il = 0; il < hp->n_layer; il++, copy += 4) {
        model_tensors  *l = &r->m.layer[il];
        const int    heads = hp->layer[il].n_head, kv_heads = hp->layer[il].n_head_kv;
        const size_t nv = (size_t)l->mat[W_V].n_in * (size_t)l->mat[W_V].n_out,
                     no = (size_t)l->mat[W_O].n_in * (size_t)l->mat[W_O].n_out;
        const void  *from[] = {l->vec[W_K_NORM], l->vec[W_Q_NORM], l->mat[W_V].data, l->mat[W_O].data};
        const size_t size[] = {(size_t)hp->layer[il].hd_k, (size_t)hp->layer[il].hd_k, nv, no};
        for (int i = 0; i < 4; i++) copy[i] = memcpy(mem_new(size[i], sizeof **copy), from[i], size[i] * sizeof **copy);
        for (int i = 0; i < 2; i++) copy[0][pair[i]] *= factor, copy[1][pair[i]] /= factor;
        for (int h = 0; h < kv_heads; h++)
            k_scale(copy[2] + (size_t)(h * hp->layer[il].hd_v + 9) * (size_t)l->mat[W_V].n_in, factor, l->mat[W_V].n_in);
        for (int i = 0; i < l->mat[W_O].n_out; i++)
            for (int h = 0; h < heads; h++)
                copy[3][(size_t)i * (size_t)l->mat[W_O].n_in + (size_t)(h * hp->layer[il].hd_v + 9)] /= factor;
        l->vec[W_K_NORM] = copy[0];
        l->vec[W_Q_NORM] = copy[1];
        l->mat[W_V].data = (const uint8_t *)copy[2];
        l->mat[W_O].data = (const uint8_t *)copy[3];
    }
}

/* The Hadamard transform keeps the precision of a quantised cache where K or V has outliers. */
static void t_fwd_hadamard(void) {
    static const struct {
        uint32_t k, v;
        float    factor;
        double   limit;                               /* NMSE with both transformed, a third of what it is with neither */
    } cases[] = {
        {K_F32, K_F32, 32, 1e-6}, {K_Q8_0, K_F32, 32, 0.005}, {K_F32, K_Q8_0, 32, 0.003}, {K_Q4_0, K_F32, 8, 0.15},
        {K_F32, K_Q4_0, 8, 0.07},
    };
    t_tiny t;
    int    n;
    if (!t_tiny_find("qwen3", &t)) return;
    int32_t *ids = t_read_ids(t_tiny_path(t.ids), &n);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int plain = 0; plain < 2; plain++) {
            t_rig   r;
            err_t   e = {0};
            kv_opts o = {.type_k = cases[i].k, .type_v = cases[i].v, .block = 32};
            if (!t_rig_open(&r, t_tiny_path(t.file), &t_plain)) continue;
            float **copy = mem_new(4 * (size_t)r.m.hp.n_layer, sizeof *copy);
            t_outliers(&r, cases[i].factor, copy);
            fwd_free(r.f);
            kv_free(r.kv);
            r.kv = kv_new(&r.m.hp, &o, (kv_load){.tokens = 4096}, &e);
            r.f = fwd_new(&r.m, r.kv, r.p, 128, 128, FWD_LOGITS);
            for (int il = 0; plain && il < r.kv->n_layer; il++) r.kv->layer[il].hadamard_k = r.kv->layer[il].hadamard_v = 1;
            float *got = t_rig_logits(&r, ids, n, 512);
            double err = t_tiny_error(&t, got), limit = cases[i].limit;
            const bool pass = plain && cases[i].k != cases[i].v ? err > 3 * limit : err <= limit;
            CHECKF(pass, "K %s, V %s%s: NMSE %.3g, limit %.3g", k_types[o.type_k].name, k_types[o.type_v].name,
                   plain ? ", not transformed" : "",
                   err, limit);
            for (int k = 0; k < 4 * r.m.hp.n_layer; k++) mem_free(copy[k]);
            mem_free(copy);
            mem_free(got);
            t_rig_close(&r);
        }
    mem_free(ids);
}

/* Three sequences at different positions in one batch give the results of each alone. */
static void t_fwd_company_of(uint32_t cache) {
    static const char *names[] = {"llama", "qwen3", "qwen2moe", "llama_window", "llama_q4_k_m", "deepseek2_v3"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        t_tiny   t;
        t_rig    r;
        int      n;
        t_how    how = {"auto", 2, 512, 16, cache, false};
        if (!t_tiny_find(names[k], &t) || !t_rig_open(&r, t_tiny_path(t.file), &how)) continue;
        const size_t V = (size_t)t.n_vocab;
        int32_t     *ids = t_read_ids(t_tiny_path(t.ids), &n), other[128];
        for (int i = 0; i < n; i++) other[i] = ids[(i * 7 + 3) % n];
        float  *a = t_rig_logits(&r, ids, n, 512), *b = t_rig_logits(&r, other, n, 512);
        kv_seq *s[3] = {kv_seq_new(r.kv), kv_seq_new(r.kv), kv_seq_new(r.kv)};
        int     at[3] = {0, 0, 0};
        for (int turn = 0; at[0] < n || at[1] < n; turn++) {
            const int        grow[3] = {1 + turn % 5, turn > 2 ? 3 : 0, turn % 2};
            const dev_batch *x = &r.f->batch;
            fwd_begin(r.f);
            for (int q = 0; q < 3; q++) {
                for (int i = 0; i < grow[q] && at[q] < n; i++, at[q]++)
                    fwd_add(r.f, s[q], q == 1 ? other[at[q]] : ids[at[q]], at[q], DEV_LOGITS);
                CHECK(kv_reserve(s[q], at[q]));
            }
            if (!x->n) continue;
            CHECK(fwd_step(r.f));
            const float *l = r.f->logits;
            for (int i = 0; i < x->n; i++) {
                const float *alone = r.f->from[x->seq[i]] == s[1] ? b : a;
                CHECKF(memcmp(l + (size_t)i * V, alone + (size_t)x->pos[i] * V, V * sizeof *l) == 0,
                       "%s: position %d differs in company", names[k], x->pos[i]);
            }
        }
        for (int q = 0; q < 3; q++) kv_seq_free(s[q]);
        EQ_INT(r.kv->group[0].n_used, 0);
        mem_free(a);
        mem_free(b);
        mem_free(ids);
        t_rig_close(&r);
    }
}

static void t_fwd_company(void) {
    t_fwd_company_of(K_F32);
    t_fwd_company_of(K_Q8_0);
    t_fwd_company_of(K_Q4_0);
}

/* A fork shares the beginning, grows independently, and changes no other sequence; a rollback removes positions. */
static void t_fwd_fork(void) {
    t_tiny t;
    t_rig  r;
    t_how  how = {"auto", 2, 512, 8, K_F32, false};
    int    n;
    if (!t_tiny_find("llama", &t) || !t_rig_open(&r, t_tiny_path(t.file), &how)) return;
    const size_t V = (size_t)t.n_vocab;
    int32_t     *ids = t_read_ids(t_tiny_path(t.ids), &n), swapped[128];
    const int    cut = 21;                            /* in the middle of a block */
    for (int i = 0; i < n; i++) swapped[i] = i < cut ? ids[i] : ids[n - 1 - i + cut];
    float  *a = t_rig_logits(&r, ids, n, 512), *b = t_rig_logits(&r, swapped, n, 512);
    kv_seq *s = kv_seq_new(r.kv), *s2;
    CHECK(kv_reserve(s, cut));
    fwd_begin(r.f);
    for (int i = 0; i < cut; i++) fwd_add(r.f, s, ids[i], i, 0);
    fwd_step(r.f);
    s2 = kv_fork(s);
    EQ_INT(r.kv->group[0].n_used, (cut - 1) / r.kv->opts.block + 1);
    for (int i = cut; i < n; i++) {
        CHECK(kv_reserve(s2, i + 1) && kv_reserve(s, i + 1));
        fwd_begin(r.f);
        fwd_add(r.f, s2, swapped[i], i, DEV_LOGITS);
        fwd_add(r.f, s, ids[i], i, DEV_LOGITS);
        CHECK(fwd_step(r.f));
        const float *l = r.f->logits;
        CHECKF(memcmp(l, b + (size_t)i * V, V * sizeof *l) == 0 && memcmp(l + V, a + (size_t)i * V, V * sizeof *l) == 0,
               "position %d after a fork", i);
    }
    kv_truncate(s2, cut + 2);                         /* roll back and go the other way */
    for (int i = cut + 2; i < cut + 9; i++) {
        CHECK(kv_reserve(s2, i + 1));
        fwd_begin(r.f);
        fwd_add(r.f, s2, swapped[i], i, DEV_LOGITS);
        CHECK(fwd_step(r.f));
        const float *l = r.f->logits;
        CHECKF(memcmp(l, b + (size_t)i * V, V * sizeof *l) == 0, "position %d after a rollback", i);
    }
    kv_seq_free(s);
    kv_seq_free(s2);
    EQ_INT(r.kv->group[0].n_used, 0);
    mem_free(a);
    mem_free(b);
    mem_free(ids);
    t_rig_close(&r);
}

/* Rows [d - n + 1, d] of a sequence whose other keys and values are in the cache; the logits of row d. */
static const float *t_rows_at(t_rig *r, kv_seq *seq, const int32_t *ids, int n_ids, int d, int n) {
    fwd_begin(r->f);
    for (int p = d - n + 1; p <= d; p++) fwd_add(r->f, seq, ids[p % n_ids], p, p == d ? DEV_LOGITS : 0);
    return CHECK(fwd_step(r->f)) ? r->f->logits : NULL;
}

/* Whether attention has split the last step into segments. */
static bool t_apart(const t_rig *r) {
    const dev_plan *p = &r->f->plan;
    int             i = 0, deal, n;
    while (p->op[i].kind != OPS_ATTEND) i++;
    return ops__apart(&r->f->run, &p->op[i], &deal, &n);
}

/* Tasks of attention in the last step, one row, where segments are none: query heads of a K/V head are dealt to threads that would
 * have nothing to do. */
static void t_dealt(const t_rig *r) {
    const dev_plan      *p = &r->f->plan;
    const arch_layer_hp *l = &r->m.hp.layer[0];
    int                  i = 0, n = 1, group = l->n_head / l->n_head_kv;
    while (p->op[i].kind != OPS_ATTEND) i++;
    while (n < group && (group % n || n * l->n_head_kv < r->p->n)) n++;
    EQ_INT(ops__attend_tasks(&r->f->run, &p->op[i]), n * l->n_head_kv);
}

/* The model with another window and team of threads, over the same cache. */
static void t_rig_team(t_rig *r, int window, int threads) {
    for (int i = 0; i < r->m.hp.n_layer; i++) r->m.hp.layer[i].window = window;
    r->m.hp.n_ctx_train = 4096;
    fwd_free(r->f);
    pool_free(r->p);
    r->p = pool_new(threads);
    r->f = fwd_new(&r->m, r->kv, r->p, 256, 128, FWD_LOGITS);
}

enum { T_DEEP = 3000 };

static void t_fwd_segments_of(const char *name, int window, uint32_t cache) {
    static const int depth[] = {100, 511, 512, T_DEEP - 1}, rows[] = {1, 5, 40}, threads[] = {2, 3, 8};
    t_tiny t;
    t_rig  r;
    int    n;
    t_how  how = {"auto", 1, 128, 32, cache, false};
    if (!t_tiny_find(name, &t) || !t_rig_open(&r, t_tiny_path(t.file), &how)) return;
    const size_t V = (size_t)t.n_vocab;
    int32_t     *ids = t_read_ids(t_tiny_path(t.ids), &n);
    kv_seq      *seq = kv_seq_new(r.kv);
    float       *want = mem_new(4 * V, sizeof *want);
    t_rig_team(&r, window, 1);
    CHECK(kv_reserve(seq, T_DEEP));
    for (int d = 0; d < T_DEEP; d += 60) t_rows_at(&r, seq, ids, n, d + 59, 60);
    for (int i = 0; i < 4; i++) memcpy(want + (size_t)i * V, t_rows_at(&r, seq, ids, n, depth[i], 1), V * sizeof *want);
    for (int k = 0; k < 3; k++) {
        t_rig_team(&r, window, threads[k]);
        for (int i = 0; i < 12; i++) {
            const float *got = t_rows_at(&r, seq, ids, n, depth[i / 3], rows[i % 3]);
            CHECKF(got && !memcmp(got, want + (size_t)(i / 3) * V, V * sizeof *got),
                   "%s, window %d, cache %s: %d threads, %d rows, position %d: other bits",
                   name, window, k_types[cache].name, threads[k], rows[i % 3], depth[i / 3]);
            if (rows[i % 3] == 1) t_dealt(&r);
            if (rows[i % 3] == 1) EQ_INT(t_apart(&r), depth[i / 3] >= 512 && r.m.hp.layer[0].n_head_kv % threads[k] != 0);
        }
    }
    mem_free(want);
    mem_free(ids);
    kv_seq_free(seq);
    t_rig_close(&r);
}

/* Attention over many positions with fewer K/V heads than threads: one, and two. */
static void t_fwd_segments(void) {
    static const char *const names[] = {"llama_odd", "llama", "deepseek2"};
    for (int i = 0; i < 3; i++) {
        t_fwd_segments_of(names[i], 0, K_F32);
        t_fwd_segments_of(names[i], 0, K_Q8_0);
        if (i < 2) t_fwd_segments_of(names[i], 600, K_F32);
    }
}

static void t_fwd_greedy(void) {
    FILE  *f = fopen(t_tiny_path("manifest.txt"), "r");
    t_tiny t;
    int    done = 0;
    while (f && t_tiny_next(f, &t)) {
        t_rig r;
        t_how how = {"auto", 2, 512, 32, K_F16, false};
        int   n, n_want;
        if (strcmp(t.greedy, "-") == 0 || !t_rig_open(&r, t_tiny_path(t.file), &how)) continue;
        int32_t *ids = t_read_ids(t_tiny_path(t.ids), &n), *want = t_read_ids(t_tiny_path(t.greedy), &n_want), next = 0;
        kv_seq  *s = kv_seq_new(r.kv);
        CHECK(kv_reserve(s, n));
        fwd_begin(r.f);
        for (int i = 0; i < n; i++) fwd_add(r.f, s, ids[i], i, i == n - 1 ? DEV_LOGITS : 0);
        CHECK(fwd_step(r.f));
        const float *l = r.f->logits;
        for (int i = 0; i < n_want; i++) {
            k_max(l, t.n_vocab, &next);
            if (!EQ_INT(next, want[i])) break;
            CHECK(kv_reserve(s, n + i + 1));
            fwd_begin(r.f);
            fwd_add(r.f, s, next, n + i, DEV_LOGITS);
            CHECK(fwd_step(r.f));
        }
        kv_seq_free(s);
        mem_free(ids);
        mem_free(want);
        t_rig_close(&r);
        done++;
    }
    if (f) fclose(f);
    CHECK(done >= 5);
}

/* --- the tests above can fail: each fault below moves the logits past the limit --- */

static void t_break_rope(t_rig *r) {
    static arch_desc other;
    other = *r->m.hp.desc;
    other.rope = other.rope == ROPE_PAIRS ? ROPE_HALVES : ROPE_PAIRS;
    r->m.hp.desc = &other;
}
static void t_break_qk_norm(t_rig *r) {
    for (int i = 0; i < r->m.hp.n_layer; i++) r->m.layer[i].vec[W_Q_NORM] = NULL;
}
static void t_break_window(t_rig *r) {
    for (int i = 0; i < r->m.hp.n_layer; i++) r->m.hp.layer[i].window++;
}
static void t_break_no_window(t_rig *r) {
    for (int i = 0; i < r->m.hp.n_layer; i++) r->m.hp.layer[i].window = 0;
}
static void t_break_eps(t_rig *r) { r->m.hp.eps = 1e-2f; }
static void t_break_norm(t_rig *r) { r->m.layer[0].vec[W_ATTN_NORM] = r->m.layer[0].vec[W_FFN_NORM]; }
static void t_break_scale(t_rig *r) {
    for (int i = 0; i < r->m.hp.n_layer; i++) r->m.hp.layer[i].attn_scale *= 1.05f;
}
static void t_break_base(t_rig *r) { r->m.rope[0].freq[1] *= 1.05; }
static void t_break_mscale(t_rig *r) { r->m.rope[0].mscale *= 1.02f; }
static void t_break_bias(t_rig *r) { r->m.layer[0].vec[B_O] = NULL; }
static void t_break_bk(t_rig *r) { r->m.layer[0].vec[B_Q] = NULL; }
static void t_break_topk(t_rig *r) { r->m.hp.topk_norm = !r->m.hp.topk_norm; }
static void t_break_used(t_rig *r) {
    for (int i = 0; i < r->m.hp.n_layer; i++) r->m.hp.layer[i].n_expert_used = 1;
}
static void t_break_shared(t_rig *r) { r->m.layer[0].vec[W_SHEXP_GATE] = r->m.layer[0].vec[W_FFN_NORM]; }
static void t_break_factors(t_rig *r) {
    mem_free(r->m.rope[0].freq);
    r->m.glob.vec[W_ROPE_FREQS] = NULL;
    model__rope(&r->m, 0);
}
static void t_break_post_norm(t_rig *r) {
    for (int i = 0; i < r->m.hp.n_layer; i++) r->m.layer[i].vec[W_FFN_POST_NORM] = NULL;
}
static void t_break_no_ffn(t_rig *r) { r->m.hp.layer[1].ffn = FFN_NONE; }
static void t_break_table(t_rig *r) { r->m.hp.layer[2].rope = 0; }
static void t_break_windows(t_rig *r) { r->m.hp.layer[1].window = r->m.hp.layer[0].window; }
static void t_break_head(t_rig *r) { r->m.glob.mat[W_OUTPUT] = r->m.glob.mat[W_TOK_EMBD]; }

static void t_break_window_of_some(t_rig *r) { r->m.hp.layer[0].window++; }
static void t_break_cap(t_rig *r) {
    for (int i = 0; i < r->m.hp.n_layer; i++) r->m.hp.layer[i].cap = 0;
}
static void t_break_final_cap(t_rig *r) { r->m.hp.final_cap = 0; }
static void t_break_sinks(t_rig *r) { r->m.layer[1].vec[W_SINKS] = r->m.layer[0].vec[W_SINKS]; }
static void t_break_router_bias(t_rig *r) { r->m.layer[0].vec[B_ROUTER] = NULL; }
static void t_break_expert_bias(t_rig *r) { r->m.layer[1].vec[B_DOWN_EXPS] = NULL; }
static void t_break_embd_scale(t_rig *r) { r->m.hp.embd_scale *= 1.02f; }
static void t_break_residual_scale(t_rig *r) { r->m.hp.residual_scale *= 1.02f; }
static void t_break_temper(t_rig *r) { r->m.hp.temper_length++; }
static void t_break_mean(t_rig *r) {
    static arch_desc other;
    other = *r->m.hp.desc;
    other.traits &= ~(uint64_t)A_LAYER_NORM;
    r->m.hp.desc = &other;
}
static void t_break_act(t_rig *r) { r->m.hp.act = r->m.hp.act == ACT_GELU ? ACT_SILU : ACT_GELU; }
static void t_break_part(t_rig *r) {
    for (int i = 0; i < r->m.hp.n_layer; i++) r->m.hp.layer[i].n_rot -= 2;
}
static void t_break_local(t_rig *r) { r->m.hp.layer[0].rope = r->m.hp.layer[5].rope; }
static void t_break_no_rope(t_rig *r) { r->m.hp.layer[0].n_rot = 0; }
static void t_break_decay(t_rig *r) { r->m.layer[0].vec[W_REC_DECAY] = r->m.layer[1].vec[W_REC_DECAY]; }
static void t_break_step(t_rig *r) { r->m.layer[0].vec[B_REC_STEP] = r->m.layer[1].vec[B_REC_STEP]; }
static void t_break_gates(t_rig *r) { r->m.layer[0].mat[W_REC_BETA] = r->m.layer[0].mat[W_REC_ALPHA]; }
static void t_break_taps(t_rig *r) { r->m.layer[0].vec[W_REC_TAPS] = r->m.layer[2].vec[W_REC_TAPS]; }
static void t_break_out_norm(t_rig *r) { r->m.layer[0].vec[W_REC_NORM] = r->m.layer[1].vec[W_REC_NORM]; }
/* A vector of layer 0 becomes that of the next layer which has one. */
static void t_break_vec(t_rig *r, arch_slot_id id) {
    int il = 1;
    while (il < r->m.hp.n_layer - 1 && !r->m.layer[il].vec[id]) il++;
    r->m.layer[0].vec[id] = r->m.layer[il].vec[id];
}
static void t_break_rec_decay(t_rig *r) { t_break_vec(r, W_REC_DECAY); }
static void t_break_rec_step(t_rig *r) { t_break_vec(r, B_REC_STEP); }
static void t_break_rec_taps(t_rig *r) { t_break_vec(r, W_REC_TAPS); }
static void t_break_rec_norm(t_rig *r) { t_break_vec(r, W_REC_NORM); }
static void t_break_skip_share(t_rig *r) { t_break_vec(r, W_SKIP); }
static void t_break_conv_bias(t_rig *r) { r->m.layer[0].vec[B_CONV] = NULL; }
static void t_break_step_norm(t_rig *r) { t_break_vec(r, W_STEP_NORM); }
static void t_break_wkv_decay(t_rig *r) { t_break_vec(r, B_WKV_DECAY); }
static void t_break_wkv_rate(t_rig *r) { t_break_vec(r, B_WKV_RATE); }
static void t_break_wkv_key(t_rig *r) { t_break_vec(r, W_WKV_KEY); }
static void t_break_wkv_key_rate(t_rig *r) { t_break_vec(r, W_WKV_KEY_RATE); }
static void t_break_wkv_share(t_rig *r) { t_break_vec(r, W_WKV_SHARE); }
static void t_break_wkv_first(t_rig *r) { t_break_vec(r, W_WKV_FIRST); }
static void t_break_rec_gate(t_rig *r) { r->m.layer[0].mat[W_WKV_GATE_2] = r->m.layer[0].mat[W_WKV_DECAY_2]; }
static void t_break_choice(t_rig *r) {
    for (int il = 0; il < r->m.hp.n_layer; il++) r->m.layer[il].vec[B_ROUTER_CHOICE] = NULL;
}
static void t_break_scores(t_rig *r) { r->m.hp.expert_gate = r->m.hp.expert_gate == GATE_SIGMOID ? GATE_SOFTMAX : GATE_SIGMOID; }
static void t_break_expert_scale(t_rig *r) { r->m.hp.expert_scale = 1; }
static void t_break_clamp(t_rig *r) { r->m.hp.clamp = 0; }
static void t_break_slopes(t_rig *r) { r->m.slope[0] = r->m.slope[1]; }
static void t_break_output_bias(t_rig *r) { r->m.glob.vec[B_OUTPUT] = NULL; }
static void t_break_bare(t_rig *r) {
    static arch_desc other;
    other = *r->m.hp.desc;
    other.traits &= ~(uint64_t)A_BARE_NORM;
    r->m.hp.desc = &other;
}
static void t_break_value_heads(t_rig *r) {
    static arch_desc other;
    other = *r->m.hp.desc;
    other.traits ^= A_DELTA_GROUPED;
    r->m.hp.desc = &other;
}
static void t_break_groups(t_rig *r) { r->m.hp.n_group = 1; }
static void t_break_group_best(t_rig *r) {
    static arch_desc other;
    other = *r->m.hp.desc;
    other.traits &= ~(uint64_t)A_GROUP_BEST;
    r->m.hp.desc = &other;
}
static void t_break_latent_norm(t_rig *r) { r->m.layer[0].vec[W_KV_A_NORM] = r->m.layer[1].vec[W_KV_A_NORM]; }
static void t_break_quirk(t_rig *r, uint64_t bit) {
    static arch_desc other;
    other = *r->m.hp.desc;
    other.quirks &= ~bit;
    r->m.hp.desc = &other;
}
static void t_break_late(t_rig *r) { t_break_quirk(r, Q_LATE_QK_NORM); }
static void t_break_first(t_rig *r) { t_break_quirk(r, Q_ROUTE_FIRST); }
static void t_break_mixer(t_rig *r) { t_break_quirk(r, Q_MIXER); }
static void t_break_fine(t_rig *r) { t_break_quirk(r, Q_FINE_POST); }
static void t_break_embd_bare(t_rig *r) { t_break_quirk(r, Q_EMBD_BARE); }
static void t_break_soft(t_rig *r) { t_break_quirk(r, Q_SOFT_GATE); }
static void t_break_still(t_rig *r) { r->m.hp.layer[3].n_rot = r->m.hp.layer[2].n_rot; }
static void t_break_out_gate(t_rig *r) { r->m.layer[0].mat[W_OUT_GATE] = r->m.layer[1].mat[W_OUT_GATE]; }
static void t_break_head_gate(t_rig *r) { r->m.layer[1].mat[W_HEAD_GATE] = r->m.layer[2].mat[W_HEAD_GATE]; }
static void t_break_sub_norm(t_rig *r) { r->m.layer[1].vec[W_FFN_SUB_NORM] = NULL; }
static void t_break_skip(t_rig *r) { r->m.layer[1].vec[W_SKIP_SCALE] = NULL; }
static void t_break_head_gain(t_rig *r) { r->m.layer[0].vec[W_HEAD_GAIN] = r->m.layer[1].vec[W_HEAD_GAIN]; }
static void t_break_router_cap(t_rig *r) { r->m.hp.router_cap = 0; }
static void t_break_both(t_rig *r) { r->m.hp.layer[1].ffn = FFN_EXPERTS; }
static void t_break_loop(t_rig *r) { r->m.hp.loop_skip = !r->m.hp.loop_skip; }
static void t_break_adjugate(t_rig *r) { r->m.hp.adjugate_scale = 0; }
static void t_break_bend(t_rig *r) { r->m.hp.layer[1].xielu_n += 0.2f; }
static void t_break_linear(t_rig *r) { r->m.hp.layer[1].mixer = MIX_NONE; }
static void t_break_all_seen(t_rig *r) {
    for (int il = 0; il < r->m.hp.n_layer; il++) r->m.hp.layer[il].chooses = false;
}
static void t_break_top(t_rig *r) { r->m.hp.n_top--; }
static void t_break_last_block(t_rig *r) { r->m.hp.index_local = 0; }
static void t_break_index_own(t_rig *r) { r->m.hp.layer[2].indexed = false; }
static void t_break_index_share(t_rig *r) { r->m.layer[0].mat[W_INDEX_SHARE] = r->m.layer[1].mat[W_INDEX_SHARE]; }
static void t_break_index_bias(t_rig *r) { r->m.layer[1].vec[B_INDEX_K_NORM] = NULL; }
static void t_break_index_norm(t_rig *r) { r->m.layer[1].vec[W_INDEX_Q_NORM] = r->m.layer[1].vec[W_INDEX_K_NORM]; }
static void t_break_index_rope(t_rig *r) {
    static arch_desc other;
    other = *r->m.hp.desc;
    other.index_halves = !other.index_halves;
    r->m.hp.desc = &other;
}
static void t_break_hyper(t_rig *r) { r->m.layer[1].vec[W_HC_FFN_NORM] = r->m.layer[0].vec[W_HC_FFN_NORM]; }
static void t_break_inject(t_rig *r) { r->m.layer[1].mat[W_HC_ATTN_INJECT] = r->m.layer[0].mat[W_HC_ATTN_INJECT]; }
static void t_break_grams(t_rig *r) { r->m.hp.gram_layer = -1; }
static void t_break_gram_stop(t_rig *r) { r->m.hp.grams.stop = 0; }
static void t_break_gram_factor(t_rig *r) { r->m.hp.grams.factor[2] += 2; }
static void t_break_gram_rows(t_rig *r) { r->m.hp.grams.rows[3]--; }
static void t_break_all_groups(t_rig *r) { r->m.hp.layer[1].indexed = false; }
static void t_break_index_of_groups(t_rig *r) { r->m.layer[1].mat[W_INDEX_SHARE] = r->m.layer[3].mat[W_INDEX_SHARE]; }
static void t_break_place(t_rig *r) { r->m.layer[1].vec[W_POOL_PLACE] = r->m.layer[3].vec[W_POOL_PLACE]; }
static void t_break_index_place(t_rig *r) { r->m.layer[1].vec[W_POOL_INDEX_PLACE] = r->m.layer[3].vec[W_POOL_INDEX_PLACE]; }
static void t_break_span(t_rig *r) { r->m.hp.layer[2].pool_span--; }
static void t_break_pool_norm(t_rig *r) { r->m.layer[1].vec[W_POOL_NORM] = r->m.layer[2].vec[W_POOL_NORM]; }
static void t_break_out_groups(t_rig *r) { r->m.layer[1].mat[W_OUT_A] = r->m.layer[2].mat[W_OUT_A]; }
static void t_break_listed(t_rig *r) { r->m.layer[0].listed = NULL; }
static void t_break_turns(t_rig *r) { r->m.hp.hyper_turns--; }
static void t_break_hyper_base(t_rig *r) { r->m.layer[1].vec[B_HYPER_FFN] = r->m.layer[1].vec[B_HYPER_ATTN]; }
static void t_fwd_faults(void) {
    static const struct {
        const char *model, *fault;
        void (*apply)(t_rig *);
    } faults[] = {
        {"llama", "the other RoPE kind", t_break_rope},       {"qwen2", "the other RoPE kind", t_break_rope},
        {"qwen3", "no query norm", t_break_qk_norm},          {"llama_window", "a window one wider", t_break_window},
        {"llama_window", "no window", t_break_no_window},     {"llama", "another epsilon", t_break_eps},
        {"qwen3", "another layer norm", t_break_norm},        {"llama", "5 % more attention scale", t_break_scale},
        {"llama", "a frequency 5 % off", t_break_base},       {"llama_yarn", "2 % more YaRN magnitude", t_break_mscale},
        {"llama_bias", "no output bias", t_break_bias},       {"qwen2", "no query bias", t_break_bk},
        {"llama_moe", "unscaled experts", t_break_topk},      {"qwen2moe", "scaled experts", t_break_topk},
        {"qwen3moe", "one expert fewer", t_break_used},       {"qwen2moe", "another shared gate", t_break_shared},
        {"llama_rope3", "no RoPE factors", t_break_factors}, {"llama", "the wrong head", t_break_head},
        {"invented", "no norm after one block", t_break_post_norm}, {"invented", "no feed-forward in one layer", t_break_no_ffn},
        {"invented", "another layer's frequencies", t_break_table}, {"invented", "a window in every layer", t_break_windows},
        {"gemma2", "a window one wider", t_break_window_of_some}, {"gemma2", "no attention cap", t_break_cap},
        {"gemma2", "no final cap", t_break_final_cap},
        {"gemma3", "the other frequencies", t_break_local},   {"gemma3", "no norm after one block", t_break_post_norm},
        {"gemma", "2 % more scale of embeddings", t_break_embd_scale}, {"gemma", "another activation", t_break_act},
        {"gpt-oss", "another layer's sinks", t_break_sinks},  {"gpt-oss", "no bias of the router", t_break_router_bias},
        {"gpt-oss", "no bias of experts", t_break_expert_bias}, {"gpt-oss", "activations not clipped", t_break_act},
        {"phi3", "two dimensions fewer rotate", t_break_part}, {"mistral3", "the temperature changes later", t_break_temper},
        {"granite", "2 % more of each block", t_break_residual_scale}, {"smollm3", "no rotation in one layer", t_break_no_rope},
        {"starcoder2", "the mean stays", t_break_mean},       {"gpt2", "no output bias", t_break_bias},
        {"qwen35", "another layer's decay", t_break_decay},   {"qwen35", "another layer's steps", t_break_step},
        {"qwen35", "alpha for beta", t_break_gates},          {"qwen35", "value heads grouped", t_break_value_heads},
        {"qwen3next", "value heads tiled", t_break_value_heads}, {"qwen35", "another layer's norm of heads", t_break_out_norm},
        {"lfm2", "another layer's convolution", t_break_taps}, {"lfm2moe", "no bias of the choice", t_break_choice},
        {"glm4", "two dimensions fewer rotate", t_break_part}, {"glm4_sections", "the other RoPE kind", t_break_rope},
        {"glm4moe", "no bias of the choice", t_break_choice}, {"glm4moe_air", "scaled experts", t_break_topk},
        {"minimax-m2", "the other scores of experts", t_break_scores}, {"dots1", "no scale of experts", t_break_expert_scale},
        {"hy_v3", "no bias of the choice", t_break_choice},   {"ernie4_5-moe", "no bias of the choice", t_break_choice},
        {"nemotron", "the mean stays", t_break_mean},         {"arcee", "another activation", t_break_act},
        {"exaone", "no RoPE factors", t_break_factors},       {"minicpm_old", "2 % more of each block", t_break_residual_scale},
        {"olmo", "no norms", t_break_bare},                   {"olmo_clip", "values are not cut", t_break_clamp},
        {"bloom", "the slope of another head", t_break_slopes}, {"jais", "5 % more attention scale", t_break_scale},
        {"baichuan_13b", "the slope of another head", t_break_slopes}, {"mellum", "a window one wider", t_break_window_of_some},
        {"qwen2_output_bias", "no bias of the output", t_break_output_bias},
        {"deepseek2", "5 % more attention scale", t_break_scale}, {"deepseek2", "the other RoPE kind", t_break_rope},
        {"deepseek2_old", "two best experts of a group", t_break_group_best}, {"deepseek2_v3", "no groups", t_break_groups},
        {"deepseek2_v3", "no bias of the choice", t_break_choice}, {"bailingmoe2", "no groups", t_break_groups},
        {"deepseek2_glm", "the other scores of experts", t_break_scores}, {"mistral4", "the temperature changes later", t_break_temper},
        {"minicpm3", "2 % more of each block", t_break_residual_scale}, {"plm", "another activation", t_break_act},
        {"deepseek2_v3", "keys and values with the next layer's norm", t_break_latent_norm},
        {"deepseek32", "all positions", t_break_all_seen},    {"deepseek32", "one position fewer", t_break_top},
        {"deepseek32", "another layer's weights of the indexer", t_break_index_share},
        {"deepseek32", "no bias of the indexer's keys", t_break_index_bias},
        {"deepseek32", "the indexer's other RoPE", t_break_index_rope},
        {"glm-dsa", "all positions", t_break_all_seen},       {"glm-dsa", "the indexer's other RoPE", t_break_index_rope},
        {"glm-dsa", "the choice of the layer before", t_break_index_own},
        {"minimax-m3", "all positions", t_break_all_seen},    {"minimax-m3", "one block fewer", t_break_top},
        {"qwen4exp", "all positions", t_break_all_seen},      {"qwen4exp", "one block fewer", t_break_top},
        {"qwen4exp", "queries with the norm of keys", t_break_index_norm},
        {"qwen4exp", "another layer's norm of streams", t_break_hyper},
        {"qwen4exp", "another layer's weights of streams", t_break_inject},
        {"qwen4exp", "no n-grams", t_break_grams},            {"qwen4exp", "another token ends a text", t_break_gram_stop},
        {"qwen4exp", "another factor of the hash", t_break_gram_factor},
        {"qwen4exp", "one row of a head fewer", t_break_gram_rows},
        {"qwen4exp_odd", "all positions", t_break_all_seen},  {"qwen4exp_odd", "no n-grams", t_break_grams},
        {"deepseek4", "all groups", t_break_all_groups},      {"deepseek4", "one group fewer", t_break_top},
        {"deepseek4", "another layer's weights of the indexer", t_break_index_of_groups},
        {"deepseek4", "another layer's gates of places", t_break_place},
        {"deepseek4", "another layer's gates of places in the indexer", t_break_index_place},
        {"deepseek4", "a key of one position fewer", t_break_span}, {"deepseek4", "another layer's norm of groups", t_break_pool_norm},
        {"deepseek4", "another layer's outputs of groups", t_break_out_groups},
        {"deepseek4", "a window one wider", t_break_window_of_some}, {"deepseek4", "another layer's sinks", t_break_sinks},
        {"deepseek4", "experts by their scores", t_break_listed}, {"deepseek4", "no bias of the choice", t_break_choice},
        {"deepseek4", "the other scores of experts", t_break_scores}, {"deepseek4", "no scale of experts", t_break_expert_scale},
        {"deepseek4", "one normalisation fewer", t_break_turns}, {"deepseek4", "another block's base of streams", t_break_hyper_base},
        {"deepseek4_odd", "one group fewer", t_break_top},
        {"minimax-m3", "the last block by its score", t_break_last_block},
        {"minimax-m3", "queries with the norm of keys", t_break_index_norm},
        {"hunyuan-dense", "norms before RoPE", t_break_late}, {"exaone4_window", "RoPE in a layer without a window", t_break_still},
        {"afmoe", "another layer's gate", t_break_out_gate},  {"laguna", "another layer's gate", t_break_head_gate},
        {"laguna_each", "a sigmoid for softplus", t_break_soft}, {"muse-glimmer", "the same epsilon in all norms", t_break_fine},
        {"muse-glimmer", "embeddings as they are", t_break_embd_bare}, {"bitnet", "no norm in the feed-forward", t_break_sub_norm},
        {"talkie", "embeddings once", t_break_skip},          {"talkie", "another layer's gains", t_break_head_gain},
        {"smallthinker", "the router reads normed values", t_break_first}, {"phimoe", "one softmax for both experts", t_break_mixer},
        {"grok", "no cap of the router", t_break_router_cap}, {"grok", "no dense feed-forward", t_break_both},
        {"nanbeige", "no norm between loops", t_break_loop},  {"nanbeige_bare", "a norm between loops", t_break_loop},
        {"grovemoe", "no shared experts", t_break_adjugate},  {"apertus", "another bend", t_break_bend},
        {"mamba2", "another layer's decay", t_break_rec_decay}, {"mamba2", "another layer's steps", t_break_rec_step},
        {"mamba2", "another layer's convolution", t_break_rec_taps}, {"mamba2", "no bias of the convolution", t_break_conv_bias},
        {"mamba2", "another layer's share of values", t_break_skip_share}, {"mamba2", "another layer's norm", t_break_rec_norm},
        {"mamba", "another layer's decay", t_break_rec_decay}, {"mamba", "another layer's share of values", t_break_skip_share},
        {"plamo2", "another layer's decay", t_break_rec_decay}, {"jamba", "another layer's norm of steps", t_break_step_norm},
        {"falcon-h1", "another layer's steps", t_break_rec_step}, {"nemotron_h", "another layer's decay", t_break_rec_decay},
        {"rwkv7", "another layer's decay", t_break_wkv_decay}, {"rwkv7", "another layer's rates", t_break_wkv_rate},
        {"rwkv7", "another layer's correction keys", t_break_wkv_key}, {"rwkv7", "keys fall otherwise", t_break_wkv_key_rate},
        {"rwkv7", "another layer's share of values", t_break_wkv_share}, {"rwkv6", "another layer's decay", t_break_wkv_decay},
        {"rwkv6", "another layer's share of the position", t_break_wkv_first},
        {"kimi-linear", "another layer's decay", t_break_rec_decay}, {"kimi-linear", "another layer's steps", t_break_rec_step},
        {"kimi-linear", "another layer's filters", t_break_rec_taps}, {"kimi-linear", "another layer's norm", t_break_rec_norm},
        {"kimi-linear", "decays for gates", t_break_rec_gate},
        {"deci", "no product in place of attention", t_break_linear}, {"mpt_learned", "the slope of another head", t_break_slopes},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        t_tiny   t;
        t_rig    r;
        int      n;
        t_how    how = {"auto", 1, 512, 32, K_F32, false};
        if (!t_tiny_find(faults[i].model, &t) || !t_rig_open(&r, t_tiny_path(t.file), &how)) continue;
        int32_t *ids = t_read_ids(t_tiny_path(t.ids), &n);
        faults[i].apply(&r);
        fwd_free(r.f);
        r.f = fwd_new(&r.m, r.kv, r.p, 128, 128, FWD_LOGITS);
        float *got = t_rig_logits(&r, ids, n, 512);
        double err = t_tiny_error(&t, got);
        CHECKF(err > 10 * t.limit, "%s with %s: %s %.3g would pass", faults[i].model, faults[i].fault, t.metric, err);
        mem_free(got);
        mem_free(ids);
        t_rig_close(&r);
    }
}

/* Only marked rows get logits, and the mark changes no value. */
static void t_fwd_asking(void) {
    t_tiny t;
    t_rig  r;
    t_how  how = {"auto", 2, 512, 32, K_F32, false};
    int    n;
    if (!t_tiny_find("qwen3moe", &t) || !t_rig_open(&r, t_tiny_path(t.file), &how)) return;
    const size_t V = (size_t)t.n_vocab;
    int32_t     *ids = t_read_ids(t_tiny_path(t.ids), &n);
    float       *all = t_rig_logits(&r, ids, n, 512);
    kv_seq      *s = kv_seq_new(r.kv);
    CHECK(kv_reserve(s, n));
    fwd_begin(r.f);
    for (int i = 0; i < n; i++) fwd_add(r.f, s, ids[i], i, i % 3 == 1 ? DEV_LOGITS : 0);
    CHECK(fwd_step(r.f));
    const float *l = r.f->logits;
    for (int i = 1, k = 0; i < n; i += 3, k++)
        CHECKF(memcmp(l + (size_t)k * V, all + (size_t)i * V, V * sizeof *l) == 0, "row %d", i);
    kv_seq_free(s);
    mem_free(all);
    mem_free(ids);
    t_rig_close(&r);
}

enum { T_GUESSES = 3 };                               /* of a draft head in a row */

/* Logits [V] of guess i after `at` tokens, by head i if there are several, else by the only one; state [T_GUESSES + 1, D]: what
 * row i reads, and what it leaves behind that. */
static bool t_fwd_guess_one(t_rig *r, kv_seq *s, const int32_t *ids, int at, int i, float *state, float *to) {
    const size_t D = (size_t)r->m.hp.n_embd;
    const bool   many = r->m.hp.n_nextn > 1, assists = r->m.assist != NULL;
    fwd         *head = fwd_new_head(&r->m, r->kv, r->p, 2, many ? i : 0);
    fwd_begin(head);
    for (int k = many ? 0 : i; k <= i; k++) {
        fwd_add(head, s, ids[at + k], assists ? at - 1 : at + k, k == i ? FWD_LOGITS : 0);
        fwd_before(head, state + (size_t)k * D);
    }
    const bool ok = CHECK(fwd_step(head));
    if (ok) memcpy(state + (size_t)(i + 1) * D, fwd_state(head, 0), D * sizeof *state);
    if (ok) memcpy(to, head->logits, (size_t)r->m.hp.n_vocab * sizeof *to);
    fwd_free(head);
    return ok;
}

/* Logits [T_GUESSES, V] of the draft head after `at` tokens, whose next ones are the ids after them. The model reads the text in
 * chunks, beside another sequence; each chunk gets the state of the one before. */
static void t_fwd_guess(t_rig *r, const int32_t *ids, int at, int chunk, float *to) {
    const size_t D = (size_t)r->m.hp.n_embd, V = (size_t)r->m.hp.n_vocab;
    const bool   assists = r->m.assist != NULL;       /* then the last row of a step has a state, since it asks for logits */
    float       *h = mem_new((T_GUESSES + 1) * D, sizeof *h);
    kv_seq      *s = kv_seq_new(r->kv), *other = kv_seq_new(r->kv);
    int          n_other = 0;
    for (int p = 0, k; p < at; p += k) {
        k = min_int(chunk, at - p);
        fwd_begin(r->f);
        if (p % 2) fwd_add(r->f, other, ids[0], n_other++, FWD_LOGITS);
        const int first = r->f->batch.n;
        for (int i = p; i < p + k; i++) fwd_add(r->f, s, ids[i], i, i % 3 == 1 || (assists && i == p + k - 1) ? FWD_LOGITS : 0);
        fwd_before(r->f, p ? h : NULL);
        if (!CHECK(kv_reserve(s, p + k) && kv_reserve(other, n_other) && fwd_step(r->f))) break;
        memcpy(h, fwd_state(r->f, assists ? r->f->batch.n_out - 1 : first + k - 1), D * sizeof *h);
    }
    CHECK(kv_reserve(s, at + T_GUESSES));
    for (int i = 0; i < T_GUESSES && t_fwd_guess_one(r, s, ids, at, i, h, to + (size_t)i * V); i++) {}
    EQ_INT(kv_truncate(s, at), at);
    kv_seq_free(s);
    kv_seq_free(other);
    mem_free(h);
}

/* The guesses after 1 token, after a third of the prompt and at its end, [3 * T_GUESSES, V], owned by the caller. */
static float *t_fwd_guesses(t_rig *r, const t_tiny *t, const int32_t *ids, int chunk) {
    const int places[] = {1, t->n_tokens / 3, t->n_tokens - T_GUESSES};
    float    *got = mem_new((size_t)(3 * T_GUESSES * t->n_vocab), sizeof *got);
    for (int k = 0; k < 3; k++) t_fwd_guess(r, ids, places[k], chunk, got + (size_t)(k * T_GUESSES * t->n_vocab));
    return got;
}

/* The model gets the draft head of data/tiny/beside with this name; NULL: it has one of its own. */
static bool t_fwd_beside(t_rig *r, const char *name, gguf_file *g) {
    char  path[96];
    err_t e = {0};
    if (!name) return true;
    snprintf(path, sizeof path, "beside/%s.gguf", name);
    return CHECKF(gguf_open(g, t_tiny_path(path), &e) && model_add_head(&r->m, g, &e), "%s", e.text);
}

/* A draft head guesses as a float64 reading of its arrangement says, and with the same bits however the model runs. */
static void t_fwd_draft_head(void) {
    static const struct { const char *name; int heads; const char *beside; } models[] = {
        {"qwen3_mtp", 1, NULL}, {"qwen35_mtp", 1, NULL}, {"qwen35moe_mtp", 1, NULL}, {"glm4moe_air", 1, NULL}, {"exaone4_mtp", 1, NULL},
        {"exaone-moe", 1, NULL}, {"deepseek2_v3", 1, NULL}, {"bailingmoe2", 1, NULL}, {"cohere2moe_rms", 1, NULL},
        {"mimo2", 3, NULL}, {"step35", 3, NULL}, {"gemma4", 0, "gemma4-assistant"}, {"gemma4_far", 0, "gemma4-assistant_far"}};
    static const t_how hows[] = {{"scalar", 2, 7, 16, K_F32, false}, {"avx2", 3, 1, 2, K_F32, true},
                                 {"avx512", 2, 33, 5, K_F32, false}, {"avx512_bf16", 1, 5, 32, K_F32, true},
                                 {"i8mm", 2, 33, 5, K_F32, true}};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        t_tiny  t;
        t_rig   r;
        char    name[96];
        int     n;
        size_t  n_bytes;
        if (!t_tiny_find(models[m].name, &t) || !t_rig_open(&r, t_tiny_path(t.file), &t_plain)) return;
        gguf_file g = {0};
        if (!t_fwd_beside(&r, models[m].beside, &g)) return;
        snprintf(name, sizeof name, "%s%s.guess", g.path ? "beside/" : "", g.path ? models[m].beside : t.name);
        int32_t *ids = t_read_ids(t_tiny_path(t.ids), &n);
        float   *golden = (float *)(void *)t_read(t_tiny_path(name), &n_bytes), *want = t_fwd_guesses(&r, &t, ids, 128);
        double   num = 0, den = 0;
        const size_t all = (size_t)(3 * T_GUESSES * t.n_vocab);
        EQ_INT(r.m.hp.n_nextn, models[m].heads);
        CHECK(golden && n_bytes == all * sizeof *golden);
        for (size_t i = 0; golden && i < all; i++) {
            num += ((double)want[i] - (double)golden[i]) * ((double)want[i] - (double)golden[i]);
            den += (double)golden[i] * (double)golden[i];
        }
        CHECKF(den > 0 && num / den <= 1e-6, "%s: nmse of the guesses %.3g, at most 1e-6", t.name, num / den);
        t_rig_close(&r);
        for (size_t k = 0; k < sizeof hows / sizeof *hows; k++) {
            if (!k_init(hows[k].level) || !t_rig_open(&r, t_tiny_path(t.file), &hows[k])) continue;
            if (g.path && !CHECK(model_add_head(&r.m, &g, &(err_t){0}))) return;
            float *got = t_fwd_guesses(&r, &t, ids, hows[k].chunk);
            CHECKF(!memcmp(got, want, all * sizeof *got), "%s, %s, chunks of %d: other guesses", t.name, hows[k].level,
                   hows[k].chunk);
            mem_free(got);
            t_rig_close(&r);
        }
        mem_free_all(ids, golden, want);
        if (g.path) gguf_close(&g);
    }
}

/* --- encoder-decoders: tests/data/pairs, whose lists are those of tests/gen/tiny_pairs.py --- */

typedef struct {
    char   name[32], metric[16];
    int    n_text, n_answer, step;
    double limit;
} t_pair;

static bool t_pair_next(FILE *f, t_pair *t) {
    return fscanf(f, "%31s %d %d %d %15s %lf", t->name, &t->n_text, &t->n_answer, &t->step, t->metric, &t->limit) == 6;
}

static const char *t_pair_path(const t_pair *t, const char *end) {
    static char path[160];
    snprintf(path, sizeof path, "tests/data/pairs/%s.%s", t->name, end);
    return path;
}

/* Logits after each token of the answer, [n_answer, V], in steps of `chunk` rows after the text; the caller frees them. beside: the
 * text and the answer of another sequence run in the same steps. */
static float *t_pair_logits(t_rig *r, const t_pair *t, const int32_t *ids, int chunk, bool beside) {
    const size_t V = (size_t)r->m.hp.n_vocab;
    const int    n = t->n_text + t->n_answer;
    float       *all = mem_new((size_t)t->n_answer * V, sizeof *all);
    kv_seq      *seq = kv_seq_new(r->kv), *other = kv_seq_new(r->kv);
    seq->source = t->n_text, other->source = 2;
    for (int at = 0, k; at < n; at += k) {
        const int to = at < t->n_text ? t->n_text : min_int(n, at + (t_stress() ? 1 : chunk));
        fwd_begin(r->f);
        for (k = 0; at + k < to; k++) fwd_add(r->f, seq, ids[at + k], at + k, at < t->n_text ? 0 : DEV_LOGITS);
        for (int i = other->n; beside && i < other->n + 3; i++) fwd_add(r->f, other, ids[i % n], i, 0);
        if (!CHECK(kv_reserve(seq, to) && kv_reserve(other, other->n + 3 * beside) && fwd_step(r->f))) break;
        if (at >= t->n_text) memcpy(all + (size_t)(at - t->n_text) * V, r->f->logits, (size_t)k * V * sizeof *all);
    }
    kv_seq_free(other);
    kv_seq_free(seq);
    return all;
}

static void t_fwd_pair(const t_pair *t) {
    static const t_how hows[] = {{"scalar", 2, 7, 16, K_F32, false}, {"avx2", 3, 1, 2, K_F32, false},
                                 {"avx2", 1, 100, 32, K_F32, true}, {"avx512", 3, 33, 5, K_F32, false}, {"avx512_bf16", 2, 7, 32, K_F32, true}};
    const t_tiny tiny = {.n_vocab = 272, .first = t->n_answer - 1 - 9 * t->step, .step = t->step, .rows = 10};
    t_tiny       of = tiny;
    t_rig        r;
    int          n;
    int32_t     *ids = t_read_ids(t_pair_path(t, "ids"), &n);
    snprintf(of.logits, sizeof of.logits, "../pairs/%s.f32", t->name);
    snprintf(of.metric, sizeof of.metric, "%s", t->metric);
    if (!EQ_INT(n, t->n_text + t->n_answer) || !t_rig_open(&r, t_pair_path(t, "gguf"), &t_plain)) return;
    float       *want = t_pair_logits(&r, t, ids, 100, false);
    const size_t all = (size_t)t->n_answer * 272 * sizeof *want;
    const double err = t_tiny_error(&of, want);
    CHECKF(err <= t->limit, "%s: %s %.3g, at most %.3g", t->name, t->metric, err, t->limit);
    if (strcmp(t->metric, "nmse") == 0) EQ_INT(t_tiny_wrong_tokens(&of, want), 0);
    t_rig_close(&r);
    for (size_t k = 0; k < sizeof hows / sizeof *hows; k++) {
        if (!k_init(hows[k].level) || !t_rig_open(&r, t_pair_path(t, "gguf"), &hows[k])) continue;
        float *got = t_pair_logits(&r, t, ids, hows[k].chunk, k % 2);
        CHECKF(!memcmp(got, want, all), "%s, %s, chunks of %d: other logits", t->name, hows[k].level, hows[k].chunk);
        mem_free(got);
        t_rig_close(&r);
    }
    for (int c = 0; c < 3; c++) {                     /* caches of other types: one result at every level */
        static const uint32_t types[] = {K_BF16, K_Q8_0, K_Q4_0};
        const t_how           how[2] = {{"scalar", 1, 100, 32, types[c], false}, {"auto", 3, 9, 8, types[c], false}};
        float                *got[2];
        for (int i = 0; i < 2; i++) {
            if (!t_rig_open(&r, t_pair_path(t, "gguf"), &how[i])) return;
            got[i] = t_pair_logits(&r, t, ids, how[i].chunk, i);
            t_rig_close(&r);
        }
        CHECKF(!memcmp(got[0], got[1], all), "%s, a cache of %s: other logits", t->name, k_types[types[c]].name);
        CHECKF(t_tiny_error(&of, got[0]) < (c == 2 ? 0.1 : 0.01), "%s, a cache of %s: far from the golden logits", t->name,
               k_types[types[c]].name);
        mem_free_all(got[0], got[1]);
    }
    mem_free_all(ids, want);
    k_init("auto");
}

static void t_fwd_pairs(void) {
    FILE  *f = fopen("tests/data/pairs/pairs.txt", "r");
    t_pair t;
    int    n = 0;
    for (; f && t_pair_next(f, &t); n++) t_fwd_pair(&t);
    if (f) fclose(f);
    EQ_INT(n, 4);
}

/* Models that decode by diffusion: tests/data/diffuse. */
static void t_fwd_diffuse(void) {
    static const char *const names[] = {"dream", "llada", "llada-moe"};
    static const t_how       hows[] = {{"avx2", 3, 100, 2, K_F32, true}, {"avx512", 2, 100, 32, K_F32, false}};
    if (t_stress()) SKIP("a stress build has steps of one row");
    for (size_t m = 0; m < 3; m++) {
        t_tiny   t = {.n_vocab = 272, .first = 6, .step = 7, .rows = 10, .metric = "nmse"};
        t_rig    r;
        char     path[2][80];
        int      n;
        snprintf(path[0], sizeof path[0], "tests/data/diffuse/%s.ids", names[m]);
        snprintf(path[1], sizeof path[1], "tests/data/diffuse/%s.gguf", names[m]);
        snprintf(t.logits, sizeof t.logits, "../diffuse/%s.f32", names[m]);
        int32_t *ids = t_read_ids(path[0], &n);
        if (!EQ_INT(n, 70) || !t_rig_open(&r, path[1], &t_plain)) return;
        float *want = t_rig_logits(&r, ids, n, 100);
        const double err = t_tiny_error(&t, want);
        CHECKF(err <= 1e-6, "%s: nmse %.3g, at most 1e-6", names[m], err);
        EQ_INT(t_tiny_wrong_tokens(&t, want), 0);
        t_rig_close(&r);
        for (size_t k = 0; k < sizeof hows / sizeof *hows; k++) {
            if (!k_init(hows[k].level) || !t_rig_open(&r, path[1], &hows[k])) continue;
            float *got = t_rig_logits(&r, ids, n, 100);
            CHECKF(!memcmp(got, want, (size_t)n * 272 * sizeof *got), "%s, %s: other logits", names[m], hows[k].level);
            mem_free(got);
            t_rig_close(&r);
        }
        mem_free_all(ids, want);
    }
    k_init("auto");
}

static const t_case t_fwd_cases[] = {
    {"fwd golden", "logits of every tiny model against the framework's in float64", t_fwd_golden},
    {"fwd read ahead", "experts larger than memory: read when chosen, not packed, in the same bits", t_fwd_read_ahead},
    {"fwd foreign", "the same of models with types of ik_llama.cpp and bitnet.cpp, in the same bits in every way", t_fwd_foreign},
    {"fwd same bits", "levels, threads, chunks, block sizes and packed rows give the same bits", t_fwd_same_bits},
    {"fwd cache types", "f32 f16 bf16 q8_0 q4_0 caches, at any level, chunk and block size", t_fwd_cache_types},
    {"fwd hadamard", "outliers of K and V leave a quantised cache its precision", t_fwd_hadamard},
    {"fwd company", "a row's logits do not depend on what runs beside it", t_fwd_company},
    {"fwd fork", "forked and rolled-back sequences", t_fwd_fork},
    {"fwd segments", "more threads than K/V heads share the positions of one row: the same bits at any depth, with windows",
     t_fwd_segments},
    {"fwd greedy", "greedy ids of the framework", t_fwd_greedy},
    {"fwd draft head", "a draft head guesses as a float64 reading does, with the same bits however the model runs",
     t_fwd_draft_head},
    {"fwd pairs", "an encoder-decoder's logits against the framework's, with the same bits however it runs", t_fwd_pairs},
    {"fwd diffuse", "logits of models that decode by diffusion against the framework's", t_fwd_diffuse},
    {"fwd asking", "logits only for rows that ask", t_fwd_asking},
    {"fwd faults", "each of 132 faults is caught by the golden logits", t_fwd_faults},
};
static const t_suite t_fwd_suite = SUITE(t_fwd_cases);
