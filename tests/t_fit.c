/* [fit] and [fit_grid] of ggml_kernels.h: no fitter's error exceeds that of ggml's quantiser (golden figures of gen/golden_fit.py
 * and gen/fit_grid.py), a lattice's nearest point is the nearest, and what must hold for any weights at all. */
#include "program.h"
#include "check.h"
#include "t_fmt.h"

enum { TF_N = 512, TF_ROWS = 16 };                    /* fit_rows.bin: weights in a row, rows */
enum { TF_GRID_N = 1024 };                            /* weights in the rows of gen/fit_grid.py */

static uint64_t tf_seed;
static double   tf_unit(void) { return rng_unit(rng_at(12, 0, tf_seed++, 0)); }
static double   tf_normal(void) {
    double s = -6;
    for (int i = 0; i < 12; i++) s += tf_unit();
    return s;
}

static bool tf_blocks(int id) { return k_fitters[id].fit && k_types[id].block > 1; }

static double tf_error(const float *x, const float *w, const float *y, int n) {
    double s = 0;
    for (int i = 0; i < n; i++) s += (w ? w[i] : 1) * ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
    return s;
}

/* Fits n weights, at most TF_GRID_N, and reads them back; blocks, when wanted, gets the bytes. */
static double tf_fit(int id, const float *x, const float *w, int n, float *y, uint8_t *blocks) {
    uint8_t own[TF_GRID_N * 4];
    float   back[TF_GRID_N];
    k_fitters[id].fit(x, w, own, n);
    k_types[id].dequant(own, back, n);
    if (y) memcpy(y, back, (size_t)n * sizeof *y);
    if (blocks) memcpy(blocks, own, k_row_bytes((uint32_t)id, n));
    return tf_error(x, w, back, n);
}

static void t_fit_golden(void) {
    char        *rows, *errors;
    size_t       n;
    float       *x = mem_new((TF_ROWS + 1) * TF_N, sizeof *x), *w = x + TF_ROWS * TF_N;
    uint8_t     *p = fmt__golden("fit_rows.bin", &rows, &n);
    char        *line = (char *)fmt__golden("fit_errors.txt", &errors, &(size_t){0});
    int          seen = 0;
    if (p && EQ_INT(n, (TF_ROWS + 1) * TF_N * sizeof *x)) memcpy(x, p, n);
    for (; p && line && *line; line = strchr(line, '\n') + 1, seen++) {
        char   name[32];
        int    row = 0;
        double bound[2];
        if (!CHECK(sscanf(line, "%31s %d %lf %lf", name, &row, &bound[0], &bound[1]) == 4)) break;
        int id = k_type_by_name(name);
        for (int u = 0; u < 2; u++) {
            double e = tf_fit(id, x + row * TF_N, u ? w : NULL, TF_N, NULL, NULL);
            CHECKF(e <= bound[u] * (1 + 1e-6), "%s, row %d%s: error %.9g, ggml has %.9g", name, row,
                   u ? " with importances" : "", e, bound[u]);
        }
    }
    for (int id = 0; id < K_TYPE_MAX; id++) seen -= TF_ROWS * (tf_blocks(id) && k_types[id].quant);
    CHECK(seen == 5 * TF_ROWS);                       /* the K formats, which [ref] cannot write */
    mem_free(x);
    mem_free(rows);
    mem_free(errors);
}

/* --- the rows of gen/fit_grid.py --- */

static double tf_grid_unit(uint64_t seed, uint64_t i) {
    return (double)(fmt__mix((seed << 32) + i) >> 40) * 0x1p-24;
}

static void tf_grid_row(int kind, float *x) {
    for (int i = 0; i < TF_GRID_N; i++) {
        double v = 0;
        for (int k = 0; k < 4; k++) v += tf_grid_unit(50 + (uint64_t)kind, (uint64_t)(4 * i + k));
        v -= 2;
        if (kind == 1) v = v * v * v;
        if (kind == 2 && i % 256 == 77) v *= 64;
        if (kind == 3) v = ldexp(v, -(i / 32 % 6));
        x[i] = (float)(v * 0.0625);
    }
}

static void tf_grid_weights(float *w) {
    for (int i = 0; i < TF_GRID_N; i++) {
        double u = tf_grid_unit(99, (uint64_t)i);
        w[i] = (float)(1 / (u * u + 0.0625));
    }
}

static void t_fit_grid_golden(void) {
    static float x[TF_GRID_N], w[TF_GRID_N];
    fenv_t       env = fmt__denormals();
    char        *whole, *line = (char *)fmt__golden("fit_grid.txt", &whole, &(size_t){0});
    int          seen = 0;
    tf_grid_weights(w);
    for (; line && *line; line = strchr(line, '\n') + 1) {
        char   name[32];
        int    kind, weighed;
        double limit;
        bool read = sscanf(line, "%31s %d %d %lf", name, &kind, &weighed, &limit) == 4;
        if (!CHECKF(read, "bad line: %.60s", line)) break;
        int id = k_type_by_name(name);
        if (!CHECKF(id >= 0 && tf_blocks(id), "%s has no quantiser", name)) continue;
        tf_grid_row(kind, x);
        double got = tf_fit(id, x, weighed ? w : NULL, TF_GRID_N, NULL, NULL);
        CHECKF(got <= limit * (1 + 1e-6), "%s, row %d, weighed %d: %g, another's %g", name, kind, weighed, got,
               limit);
        CHECKF(got > limit * 0.05, "%s, row %d, weighed %d: %g is too good", name, kind, weighed, got);
        seen++;
    }
    EQ_INT(seen, 15 * 8);
    mem_free(whole);
    fesetenv(&env);
}

/* The point found is the nearest one. */
static void t_fit_grid_nearest(void) {
    static const k__fg_kind *const kinds[] = {&k__kind_iq2_xxs, &k__kind_iq2_xs,  &k__kind_iq2_s,
                                              &k__kind_iq1_s,   &k__kind_iq3_xxs, &k__kind_iq3_s};
    static struct k__lattice       L;
    static float                   x[TF_GRID_N], w[TF_GRID_N];
    tf_grid_row(0, x);
    tf_grid_weights(w);
    for (size_t t = 0; t < sizeof kinds / sizeof *kinds; t++) {
        const k__fg_kind *k = kinds[t];
        k__lattice_init(&L, k);
        for (int j = 0; j < TF_GRID_N; j += k->dims) {
            float  got = 0, s = k->start / 16 * (1 + (float)(j % 5)) / 2;
            double least = INFINITY;
            k__lattice_nearest(&L, k->value, x + j, w + j, s, &got);
            for (int p = 0; p < k->points; p++) {
                double cost = 0;
                int    bits = 16 / k->dims;
                for (int i = 0; i < k->dims; i++) {
                    double v = (double)s * (double)k->value[k->grid[p] >> bits * i & ((1 << bits) - 1)];
                    cost += (double)w[j + i] * v * (v - 2 * (double)x[j + i]);
                }
                least = fmin(least, cost);
            }
            bool near = NEAR((double)got, least, 1e-5 * fabs(least) + 1e-6);
            CHECKF(near, "grid %d, weight %d: %g, least %g", (int)t, j, (double)got, least);
        }
    }
}

/* --- any weights --- */

static void t_fit_better(void) {                      /* than reading the scale off the extremes */
    float   x[TF_N], y[TF_N];
    uint8_t plain[TF_N * 4];
    for (int id = 0; id < K_TYPE_MAX; id++)
        for (int r = 0; r < 50 && tf_blocks(id) && k_types[id].quant; r++) {
            for (int i = 0; i < TF_N; i++) x[i] = (float)(tf_normal() * (i % 97 ? 1 : 5));
            k_types[id].quant(x, plain, TF_N);
            k_types[id].dequant(plain, y, TF_N);
            double e = tf_fit(id, x, NULL, TF_N, NULL, NULL), was = tf_error(x, NULL, y, TF_N);
            CHECKF(e < was, "%s: %.9g, plain rounding has %.9g", k_types[id].name, e, was);
        }
}

static void t_fit_monotone(void) {
    static const int order[][8] = {{K_Q2_K, K_Q3_K, K_Q4_K, K_Q5_K, K_Q6_K, K_Q8_0, K_F16, -1},
                                   {K_Q4_0, K_Q4_1, K_Q5_0, K_Q5_1, K_Q8_0, K_F16, -1},
                                   {K_IQ1_S, K_IQ1_M, K_IQ2_XXS, K_IQ2_XS, K_IQ2_S, K_IQ3_XXS, K_IQ3_S, K_IQ4_XS}};
    float            x[TF_N], w[TF_N];
    for (int r = 0; r < 20; r++) {
        for (int i = 0; i < TF_N; i++) x[i] = (float)tf_normal(), w[i] = (float)exp(tf_normal());
        for (int o = 0; o < 3; o++) {
            double last = INFINITY;
            for (int k = 0; k < 8 && order[o][k] >= 0; k++) {
                double e = tf_fit(order[o][k], x, w, TF_N, NULL, NULL);
                CHECKF(e < last, "%s has %.9g, fewer bits only %.9g", k_types[order[o][k]].name, e, last);
                last = e;
            }
        }
    }
}

/* unpack's codes of a block; its scales are of no interest here */
static void tf_codes(int id, const void *blocks, int n, int8_t *q) {
    int16_t sc[TF_N / 16], mn[TF_N / 16];
    float   d[TF_N / 16], dm[TF_N / 16], fs[TF_N / 16], fm[TF_N / 16];
    k_urow  u = {q, sc, mn, d, dm, fs, fm};
    k_types[id].unpack(blocks, n, &u);
}

static void t_fit_recode(void) {
    float   x[TF_N];
    int8_t  q[TF_N], got[TF_N];
    uint8_t a[TF_N * 4], b[TF_N * 4];
    for (int id = 0; id < K_TYPE_MAX; id++) {
        const k_fitter *f = &k_fitters[id];
        if (!f->recode) continue;
        size_t size = k_row_bytes((uint32_t)id, TF_N);
        for (int i = 0; i < TF_N; i++) x[i] = (float)tf_normal();
        memset(b, 0xa5, sizeof b);
        tf_fit(id, x, NULL, TF_N, NULL, a);
        tf_codes(id, a, TF_N, q);
        memcpy(b + 1, a, size);                       /* an odd address */
        f->recode(q, b + 1, TF_N);
        CHECKF(!memcmp(a, b + 1, size), "%s: its own codes change its bytes", k_types[id].name);
        int n_codes = f->levels ? 1 : f->hi - f->lo + 1;
        while (f->levels && f->levels[n_codes - 1] < f->hi) n_codes++;
        for (int i = 0; i < TF_N; i++) {
            int k = (int)(tf_unit() * n_codes);
            q[i] = f->levels ? f->levels[k] : (int8_t)(f->lo + k);
        }
        f->recode(q, b + 1, TF_N);
        tf_codes(id, b + 1, TF_N, got);
        CHECKF(!memcmp(q, got, TF_N), "%s: codes do not come back", k_types[id].name);
        CHECKF(b[0] == 0xa5 && b[size + 1] == 0xa5, "%s: wrote beyond the blocks", k_types[id].name);
        tf_codes(id, a, TF_N, q);
        f->recode(q, b + 1, TF_N);
        CHECKF(!memcmp(a, b + 1, size), "%s: the scales did not stay", k_types[id].name);
    }
}

static void tf_odd_row(int id, const float *x, const char *what) {
    static const float none[TF_N];
    float              y[TF_N];
    uint8_t            a[TF_N * 4], b[TF_N * 4];
    double             zero = 0, off = 0;
    tf_fit(id, x, NULL, TF_N, y, a);
    tf_fit(id, x, none, TF_N, NULL, b);
    CHECKF(!memcmp(a, b, k_row_bytes((uint32_t)id, TF_N)), "%s, %s: no importance is not equal importance",
           k_types[id].name, what);
    for (int i = 0; i < TF_N; i++) {
        CHECKF(isfinite(y[i]), "%s, %s: weight %d is %g", k_types[id].name, what, i, y[i]);
        zero += (double)x[i] * x[i];
        off += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
    }
    CHECKF(off <= zero, "%s, %s: an error of %g where zeros have %g", k_types[id].name, what, off, zero);
}

static void t_fit_odd(void) {
    static const float size[] = {1e-45f, 1e-40f, 1e-38f, 1e-30f, 1e-10f, 3e-8f, 1e-6f, 1e-3f, 1e5f, 2e6f, 1e15f, 1e30f, 3e38f};
    float              x[TF_N], y[TF_N];
    for (int id = 0; id < K_TYPE_MAX; id++) {
        if (!k_fitters[id].fit) continue;
        memset(x, 0, sizeof x);
        tf_fit(id, x, NULL, TF_N, y, NULL);
        for (int i = 0; i < TF_N; i++) CHECKF(y[i] == 0, "%s: zeros become %g", k_types[id].name, y[i]);
        x[77] = 3;
        tf_odd_row(id, x, "one weight among zeros");
        for (int i = 0; i < TF_N; i++) x[i] = 0.37f;
        tf_odd_row(id, x, "a constant");
        for (int i = 0; i < TF_N; i++) x[i] = i == 300 ? 1e4f : (float)tf_normal();
        tf_odd_row(id, x, "an outlier");
        for (int i = 0; i < TF_N; i++) x[i] = i % 3 ? -FLT_MAX : FLT_MAX;
        tf_odd_row(id, x, "the largest floats");
        for (size_t s = 0; s < sizeof size / sizeof *size; s++) {
            for (int i = 0; i < TF_N; i++) x[i] = (float)(tf_unit() * 2 - 1) * size[s];
            tf_odd_row(id, x, "a size");
        }
    }
}

/* Blocks, and groups in a block, that hold one value keep it; what a type is for, it holds. */
static void t_fit_constant(void) {
    float x[TF_N], y[TF_N];
    for (int id = 0; id < K_TYPE_MAX; id++) {
        if (!k_fitters[id].fit) continue;
        const float most = k_most((uint32_t)id), value[] = {1, -1, 0.37f, most / 8};
        CHECKF(most > 2000 && most <= FLT_MAX, "%s: for weights of at most %g", k_types[id].name, most);
        for (size_t c = 0; c < sizeof value / sizeof *value; c++) {
            for (int i = 0; i < TF_N; i++) x[i] = value[c];
            tf_fit(id, x, NULL, TF_N, y, NULL);
            for (int i = 0; i < TF_N; i++)
                CHECKF(fabsf(y[i] / value[c] - 1) < 0.5f, "%s: a constant %g becomes %g", k_types[id].name, value[c], y[i]);
        }
        if (!k_types[id].has_min || k_types[id].block != 256) continue;
        for (int i = 0; i < TF_N; i++) x[i] = i / 32 % 4 == 1 ? -1.5f : (float)tf_normal() * 0.5f;
        tf_fit(id, x, NULL, TF_N, y, NULL);
        for (int i = 32; i < 64; i++)
            CHECKF(fabsf(y[i] + 1.5f) < 0.1f, "%s: among others -1.5 becomes %g", k_types[id].name, y[i]);
    }
}

/* A power of two moves the scale and nothing else, and so do importances times one. */
static void t_fit_scaled(void) {
    float x[TF_N], w[TF_N], x2[TF_N], w2[TF_N], y[TF_N], y2[TF_N];
    for (int id = 0; id < K_TYPE_MAX; id++) {
        if (!tf_blocks(id)) continue;
        for (int i = 0; i < TF_N; i++) {
            x[i] = (float)tf_normal(), w[i] = (float)tf_unit();
            x2[i] = x[i] * 8, w2[i] = w[i] * 0x1p20f;
        }
        tf_fit(id, x, w, TF_N, y, NULL);
        tf_fit(id, x2, w2, TF_N, y2, NULL);
        for (int i = 0; i < TF_N; i++) CHECKF(y2[i] == y[i] * 8, "%s: weight %d of a scaled row", k_types[id].name, i);
    }
}

/* Where importances are zero the codes still mean the weights, and a weight that matters more is closer. */
static void t_fit_importance(void) {
    static const float zeros[TF_N];
    float              x[TF_N], w[TF_N], y[TF_N], y1[TF_N];
    for (int id = 0; id < K_TYPE_MAX; id++) {
        if (!tf_blocks(id)) continue;
        for (int i = 0; i < TF_N; i++) x[i] = (float)tf_normal(), w[i] = i % 256 < 64 ? 0.f : i % 8 ? 0.01f : 1.f;
        tf_fit(id, x, w, TF_N, y, NULL);
        tf_fit(id, x, NULL, TF_N, y1, NULL);
        CHECKF(tf_error(x, NULL, y, 64) < 0.6 * tf_error(x, NULL, zeros, 64), "%s: weights of no importance are lost",
               k_types[id].name);
        CHECKF(tf_error(x, w, y, TF_N) < tf_error(x, w, y1, TF_N), "%s: importances do not tell", k_types[id].name);
    }
}

/* One channel has nearly all importance, as in the input of ffn_down of public models, and its group is smaller than the others,
 * as large, or larger. The error that counts is not above that of a fit without importances, and groups that have scales of
 * their own keep their range. */
static void t_fit_lonely(void) {
    static const float size[] = {0.25f, 1, 3};
    float              x[TF_N], w[TF_N], far[TF_N], y[TF_N], y1[TF_N];
    for (int id = 0; id < K_TYPE_MAX; id++) {
        const bool groups = id >= K_Q2_K && id <= K_Q6_K;
        double     sum = 0, plain_sum = 0;
        for (int r = 0; r < 30 && tf_blocks(id); r++) {
            int hot = 37 + 6 * r;
            for (int i = 0; i < TF_N; i++) {
                x[i] = (float)tf_normal() * (i / 16 == hot / 16 ? size[r % 3] : 1);
                w[i] = i == hot ? 1e6f : (float)(0.5 + tf_unit());
                far[i] = i / 32 != hot / 32;
            }
            sum += tf_fit(id, x, w, TF_N, y, NULL);
            tf_fit(id, x, NULL, TF_N, y1, NULL);
            plain_sum += tf_error(x, w, y1, TF_N);
            double e = tf_error(x, far, y, TF_N), plain = tf_error(x, far, y1, TF_N);
            CHECKF(!groups || e < 2.5 * plain, "%s, row %d: other groups have an error of %g, without importances %g",
                   k_types[id].name, r, e, plain);
        }
        CHECKF(sum <= plain_sum, "%s: an error of %g with importances, %g without", k_types[id].name, sum, plain_sum);
    }
}

/* Rows of many kinds: plain, with outliers, above zero, uneven, tiny and huge, constant, of a few values. */
static void tf_kind(int kind, float *x, float *w) {
    static const float size[] = {1e-40f, 1e-30f, 3e-8f, 1e-3f, 1e5f, 1e30f, 3e38f};
    for (int i = 0; i < TF_N; i++) {
        const float v = (float)tf_normal() * 0.02f;
        w[i] = (float)(tf_unit() + 1e-3);
        x[i] = kind == 1 ? (i % 97 ? v : 5 * v) : kind == 2 ? v * v * v : kind == 3 ? fabsf(v) + 0.1f : kind == 4 ? 0.37f
             : kind == 5 ? (i / 32 % 8 < 4 ? fabsf(v) : v) : kind == 6 ? (i % 3 ? -FLT_MAX : FLT_MAX) : kind == 7 ? (i % 256 == 77 ? 3 : 0)
             : kind == 8 ? v * ldexpf(1, -(i / 16 % 9)) : kind == 9 ? (float)((int)(tf_unit() * 3) - 1)
             : kind == 10 ? (i / 16 % 2 ? 0 : v) : kind == 11 ? (i / 16 % 4 ? v * 1e-4f : v) : kind == 12 ? (i / 32 % 3 ? v : -0.02f)
             : kind > 14 ? (float)(tf_unit() * 2 - 1) * size[(kind - 15) % 7] : v;
        if (kind == 11 || kind == 13) w[i] = (float)(i % 2);
        if (kind == 14) w[i] = i % 256 == 37 ? 1e6f : w[i];
    }
}

/* Types whose searches have forms for CPU levels, and plain floats. */
static bool tf_has_forms(int id) {
    const int ids[] = {K_F16, K_BF16, K_Q4_0, K_Q4_1, K_Q5_0, K_Q5_1, K_Q8_0, K_Q2_K, K_Q3_K, K_Q4_K, K_Q5_K, K_Q6_K, K_IQ4_NL, K_IQ4_XS};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (ids[i] == id) return true;
    return false;
}

/* What fewer blocks become does not depend on those after them. */
static void tf_prefixes(int id, const float *x, const float *w, const uint8_t *all) {
    uint8_t   got[TF_N * 4];
    const int block = k_types[id].block > 1 ? k_types[id].block : 7;    /* plain floats: ends of vectors, too */
    for (int n = block; n < TF_N; n += n < 3 * block ? block : 5 * block) {
        k_fitters[id].fit(x, w, got, n);
        CHECKF(!memcmp(got, all, k_row_bytes((uint32_t)id, n)), "%s: %d weights give other bytes than %d", k_types[id].name, n, TF_N);
    }
}

/* Groups of zeros, and blocks of 256 with importances beside some that have none, tiny ones, or each of these in turn. */
static void tf_mix(int i, float *x, float *w) {
    static const float scale[] = {1, 0, 1e-31f};
    if (i / 32 % 3 == 0) x[i] = 0;
    w[i] *= scale[i / 256 % 4 < 3 ? i / 256 % 4 : i / 32 % 4 % 3];
}

static void t_fit_levels(void) {
    enum { KINDS = 23 };
    static float   x[TF_N], w[TF_N];
    static uint8_t want[K_TYPE_MAX][KINDS][2][TF_N * 4], got[TF_N * 4];
    const char    *name[K_LEVELS];
    bool           can[K_LEVELS];
    const k_level *before = g_k_level;
    for (int l = 0, n = k_levels_list(name, can); l < n; l++) {
        if (!can[l]) continue;
        k_init(name[l]);
        tf_seed = 0;
        for (int kind = 0; kind < KINDS; kind++) {
            tf_kind(kind, x, w);
            for (int i = 0; i < TF_N && kind == KINDS - 1; i++) tf_mix(i, x, w);
            for (int id = 0; id < K_TYPE_MAX; id++)
                for (int u = 0; u < 2 && tf_has_forms(id); u++) {
                    k_fitters[id].fit(x, u ? w : NULL, l ? got : want[id][kind][u], TF_N);
                    CHECKF(!l || !memcmp(got, want[id][kind][u], k_row_bytes((uint32_t)id, TF_N)), "%s, %s, kind %d%s: other bytes",
                           name[l], k_types[id].name, kind, u ? " with importances" : "");
                    if (l && kind < 2) tf_prefixes(id, x, u ? w : NULL, want[id][kind][u]);
                }
        }
    }
    g_k_level = before;
}

static const t_case t_fit_cases[] = {
    {"fit_golden", "no error above that of ggml's quantiser, with importances and without", t_fit_golden},
    {"fit_grid_golden", "the same on the rows of another file", t_fit_grid_golden},
    {"fit_grid_nearest", "a lattice's nearest point, against all of them", t_fit_grid_nearest},
    {"fit_better", "searched scales beat those read off the extremes", t_fit_better},
    {"fit_monotone", "more bits, less error", t_fit_monotone},
    {"fit_recode", "recode is the inverse of unpack, scales and neighbours untouched", t_fit_recode},
    {"fit_odd", "zero, tiny, huge and lonely weights give finite blocks, no farther off than zero; "
                "importances of zero are as good as none", t_fit_odd},
    {"fit_constant", "blocks and groups of one value keep it", t_fit_constant},
    {"fit_scaled", "powers of two change the scales alone", t_fit_scaled},
    {"fit_lonely", "a channel with nearly all importance leaves other groups their range", t_fit_lonely},
    {"fit_levels", "blocks have the same bytes at every CPU level", t_fit_levels},
    {"fit_importance", "importances pull the error where they say, and zero ones lose nothing", t_fit_importance},
};
static const t_suite t_fit_suite = SUITE(t_fit_cases);
