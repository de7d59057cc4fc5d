/* [fit_grid] of ggml_kernels.h, against the errors that another quantiser leaves (gen/fit_grid.py), an
 * exhaustive search, and rows at the edges. */

enum { FIT_N = 1024 };

static double fit__uniform(uint64_t seed, uint64_t i) {
    return (double)(fmt__mix((seed << 32) + i) >> 40) * 0x1p-24;
}

/* The rows of gen/fit_grid.py. */
static void fit__row(int kind, float *x) {
    for (int i = 0; i < FIT_N; i++) {
        double v = 0;
        for (int k = 0; k < 4; k++) v += fit__uniform(50 + (uint64_t)kind, (uint64_t)(4 * i + k));
        v -= 2;
        if (kind == 1) v = v * v * v;
        if (kind == 2 && i % 256 == 77) v *= 64;
        if (kind == 3) v = ldexp(v, -(i / 32 % 6));
        x[i] = (float)(v * 0.0625);
    }
}

static void fit__weights(float *w) {
    for (int i = 0; i < FIT_N; i++) {
        double u = fit__uniform(99, (uint64_t)i);
        w[i] = (float)(1 / (u * u + 0.0625));
    }
}

/* Is it a type of [fit_grid]? */
static bool fit__grid_type(int id) {
    return k_fitters[id].fit && (id >= K_IQ2_XXS) && id != K_BF16 && id != K_F16;
}

static double fit__error(int id, const float *x, const float *w, uint8_t *dst) {
    static float y[FIT_N];
    double       sum = 0;
    k_fitters[id].fit(x, w, dst, FIT_N);
    k_types[id].dequant(dst, y, FIT_N);
    for (int i = 0; i < FIT_N; i++) {
        double e = (double)x[i] - (double)y[i];
        sum += (w ? (double)w[i] : 1) * e * e;
    }
    return sum;
}

static void t_fit_grid_golden(void) {
    static float   x[FIT_N], w[FIT_N];
    static uint8_t dst[FIT_N * 2];
    fenv_t         env = fmt__denormals();
    char          *whole, *line = (char *)fmt__golden("fit_grid.txt", &whole, &(size_t){0});
    int            seen = 0;
    fit__weights(w);
    for (; line && *line; line = strchr(line, '\n') + 1) {
        char   name[32];
        int    kind, weighed;
        double limit;
        bool read = sscanf(line, "%31s %d %d %lf", name, &kind, &weighed, &limit) == 4;
        if (!CHECKF(read, "bad line: %.60s", line)) break;
        int id = k_type_by_name(name);
        if (!CHECKF(id >= 0 && fit__grid_type(id), "%s has no quantiser", name)) continue;
        fit__row(kind, x);
        double got = fit__error(id, x, weighed ? w : NULL, dst);
        CHECKF(got <= limit * (1 + 1e-6), "%s, row %d, weighed %d: %g, another's %g", name, kind, weighed, got,
               limit);
        CHECKF(got > limit * 0.05, "%s, row %d, weighed %d: %g is too good", name, kind, weighed, got);
        seen++;
    }
    EQ_INT(seen, 15 * 8);
    mem_free(whole);
    fesetenv(&env);
}

/* Least bits first: on rows like a bell each of these leaves less error than the one before. (Long tails favour
 * the formats that have a code near zero, whatever their bits.) */
static void t_fit_grid_order(void) {
    static const int order[] = {K_IQ1_S, K_IQ1_M, K_IQ2_XXS, K_IQ2_XS, K_IQ2_S, K_IQ3_XXS, K_IQ3_S, K_IQ4_XS};
    static float     x[FIT_N], w[FIT_N];
    static uint8_t   dst[FIT_N * 2];
    fit__weights(w);
    for (int kind = 0; kind < 4; kind += 3) {
        fit__row(kind, x);
        for (int weighed = 0; weighed < 2; weighed++) {
            double last = INFINITY;
            for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
                double e = fit__error(order[i], x, weighed ? w : NULL, dst);
                CHECKF(e < last, "%s, row %d: %g after %g", k_types[order[i]].name, kind, e, last);
                last = e;
            }
        }
    }
}

/* Zeros stay zeros; a row of any size gives finite weights, no further from it than zeros are; weights of
 * nothing are as good as equal ones. */
static void t_fit_grid_edges(void) {
    static const float scale[] = {0, 1e-40f, 1e-30f, 1e-7f, 1e-5f, 1e-3f, 1, 1e5f, 1e15f, 1e30f, 1e38f};
    static float       x[FIT_N], y[FIT_N], none[FIT_N];
    static uint8_t     dst[FIT_N * 2], other[FIT_N * 2];
    for (int id = 0; id < K_TYPE_MAX; id++)
        for (size_t s = 0; fit__grid_type(id) && s < sizeof scale / sizeof *scale; s++) {
            double zero = 0, e = 0;
            fit__row(2, x);
            for (int i = 0; i < FIT_N; i++) x[i] *= scale[s];
            k_fitters[id].fit(x, NULL, dst, FIT_N);
            k_types[id].dequant(dst, y, FIT_N);
            bool finite = true;
            for (int i = 0; i < FIT_N; i++) {
                finite = finite && isfinite(y[i]);
                zero += (double)x[i] * x[i];
                e += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
            }
            CHECKF(finite, "%s at %g: not finite", k_types[id].name, (double)scale[s]);
            CHECKF(e <= zero * (1 + 1e-6) + 1e-74, "%s at %g: worse than zeros, %g > %g", k_types[id].name,
                   (double)scale[s], e, zero);
            k_fitters[id].fit(x, none, other, FIT_N);
            CHECKF(memcmp(dst, other, k_row_bytes((uint32_t)id, FIT_N)) == 0, "%s at %g: weights of 0 matter",
                   k_types[id].name, (double)scale[s]);
        }
}

/* The point found is the nearest of all. */
static void t_fit_grid_nearest(void) {
    static const k__fg_kind *const kinds[] = {&k__kind_iq2_xxs, &k__kind_iq2_xs,  &k__kind_iq2_s,
                                              &k__kind_iq1_s,   &k__kind_iq3_xxs, &k__kind_iq3_s};
    static struct k__lattice       L;
    static float                   x[FIT_N], w[FIT_N];
    fit__row(0, x);
    fit__weights(w);
    for (size_t t = 0; t < sizeof kinds / sizeof *kinds; t++) {
        const k__fg_kind *k = kinds[t];
        k__lattice_init(&L, k);
        for (int j = 0; j < FIT_N; j += k->dims) {
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

static const t_case t_fit_grid_cases[] = {
    {"fit_grid.golden", "blocks leave no more error than another quantiser's", t_fit_grid_golden},
    {"fit_grid.order", "more bits, less error", t_fit_grid_order},
    {"fit_grid.edges", "zeros, tiny and huge rows", t_fit_grid_edges},
    {"fit_grid.nearest", "a lattice's nearest point, against all of them", t_fit_grid_nearest},
};
