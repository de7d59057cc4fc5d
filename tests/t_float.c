/* [vec]: float products, norms, activations, rope, softmax, attention. Two tests of each: results are right (compared with double
 * precision), and have the same bits at every level, length, alignment, batch and block size. */
#include "program.h"
#include "check.h"
#ifdef __x86_64__
#include "tiles.h"
#endif

static bool tf_tiles;                                 /* avx512_amx is one more level, whose instructions a handler does */
static const char *tf_level[K_LEVELS];                /* the levels this machine can run, scalar first */

/* The processor is asked once: where the system runs in a virtual machine, that takes a thousand times longer than a kernel. */
static int tf_levels(void) {
    static int  m;
    const char *name[K_LEVELS];
    bool        can[K_LEVELS];
    for (int i = 0, n = m ? 0 : k_levels_list(name, can); i < n; i++)
        if (can[i]) tf_level[m++] = name[i];
    if (tf_tiles) tf_level[m] = "avx512_amx";
    return m + tf_tiles;
}

static void tf_use(int l) {
    static const k_level *row[K_LEVELS];
    if (!row[l] && k_init(tf_level[l])) row[l] = g_k_level;
    g_k_level = row[l] ? row[l] : &k_levels[K_LEVELS - 1];
}

static uint64_t tf_at;                                /* every test restarts the sequence */
static float    tf_rand(void) { return (float)(rng_unit(rng_at(3, 0, tf_at++, 0)) * 2 - 1); }
static void     tf_fill(float *x, int n, float scale) { for (int i = 0; i < n; i++) x[i] = tf_rand() * scale; }

/* Equal bits, but any NaN equals any other: payloads are outside the promise. */
static bool tf_same(const float *a, const float *b, int n) {
    for (int i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) && !(a[i] != a[i] && b[i] != b[i])) return false;
    return true;
}

/* Distance from the truth in units of the last place of the float nearest to it. */
static double tf_ulps(float got, double want) {
    float near = (float)want;
    return fabs((double)got - want) / fabs((double)nextafterf(near, INFINITY) - (double)near);
}

static float tf_from_bits(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }

/* --- exp, tanh --- */

static void tf_exp(void) {
    double worst = 0, worst_tanh = 0;
    for (uint64_t u = 0; u < 0x100000000u; u += t_all() ? 1021 : 4093) {
        float x = tf_from_bits((uint32_t)u);
        if (x != x) continue;
        float e = k__exp_ref(x), t = k__tanh_ref(x);
        if (x >= K_EXP_LO && x <= K_EXP_HI) worst = fmax(worst, tf_ulps(e, exp((double)x)));
        else if (x > 0) CHECK(e == INFINITY);
        else CHECK(e == 0 && exp((double)x) < 1.18e-38);
        if (fabsf(x) > 1e-37f) worst_tanh = fmax(worst_tanh, tf_ulps(t, tanh((double)x)));
    }
    CHECKF(worst <= 2, "exp is off by %.3f ulp, at most 2 are allowed", worst);
    CHECKF(worst_tanh <= 2, "tanh is off by %.3f ulp, at most 2 are allowed", worst_tanh);
    CHECK(k__exp_ref(0) == 1 && k__exp_ref(-0.0f) == 1 && k__exp_ref(-INFINITY) == 0 && k__exp_ref(INFINITY) == INFINITY);
    CHECK(k__exp_ref(K_EXP_HI) < INFINITY && k__exp_ref(nextafterf(K_EXP_HI, INFINITY)) == INFINITY);
    CHECK(isnan(k__exp_ref(NAN)) && isnan(k__tanh_ref(NAN)));
    CHECK(k__tanh_ref(INFINITY) == 1 && k__tanh_ref(-INFINITY) == -1 && k__tanh_ref(0) == 0);
}

/* The normal distribution function keeps its relative error far into the lower tail. */
static void tf_phi(void) {
    double worst = 0, worst_log = 0;
    for (uint64_t u = 0; u < 0x100000000u; u += t_all() ? 1021 : 24571) {
        const float  x = tf_from_bits((uint32_t)u), p = k__phi_ref(x), s = k_softplus(x);
        const double tail = 0.5 * erfc(-x * sqrt(0.5));
        if (x != x) continue;
        if (x > -12.9f) worst = fmax(worst, tf_ulps(p, tail));
        else CHECKF(p >= 0 && p < 3e-38f, "Phi(%g) is %g", (double)x, (double)p);
        if (x > -87) worst_log = fmax(worst_log, tf_ulps(s, log1p(exp(-fabs((double)x))) + fmax(x, 0)));
        else CHECK(s >= 0 && s < 2e-38f);
    }
    CHECKF(worst <= 6, "the distribution function is off by %.3f ulp, at most 6 are allowed", worst);
    CHECKF(worst_log <= 4, "softplus is off by %.3f ulp, at most 4 are allowed", worst_log);
    CHECK(k__phi_ref(0) == 0.5f && k__phi_ref(-INFINITY) == 0 && k__phi_ref(INFINITY) == 1 && isnan(k__phi_ref(NAN)));
    CHECK(k_softplus(INFINITY) == INFINITY && k_softplus(-INFINITY) == 0 && isnan(k_softplus(NAN)));
}

typedef struct {
    const char *name;
    void (*run)(float *x, const float *up, int n);
} tf_each_fn;

static void tf_all_silu(float *x, const float *up, int n) { k_activate(K_SILU, x, up, n); }
static void tf_all_gelu(float *x, const float *up, int n) { k_activate(K_GELU, x, up, n); }
static void tf_all_gelu_erf(float *x, const float *up, int n) { k_activate(K_GELU_ERF, x, up, n); }
static void tf_all_sigmoid(float *x, const float *up, int n) { k_activate(K_SIGMOID, x, NULL, n), k_mul(x, x, up, n); }
static void tf_all_relu(float *x, const float *up, int n) { k_activate(K_RELU, x, up, n); }
static void tf_all_relu2(float *x, const float *up, int n) { k_activate(K_RELU2, x, up, n); }
static void tf_all_exp(float *x, const float *up, int n) { k_activate(K_EXP, x, up, n); }
static void tf_all_softplus(float *x, const float *up, int n) { k_activate(K_SOFTPLUS, x, up, n); }
static void tf_all_cap(float *x, const float *up, int n) { (void)up; k_cap(x, 30, n); }
static void tf_all_clip_gate(float *x, const float *up, int n) { k_swiglu_clip(x, up, 7, 1.702f, n); }
static void tf_all_clip_up(float *x, const float *up, int n) {
    float one[4096];
    memcpy(one, up, (size_t)n * sizeof *one);
    k_swiglu_clip(one, x, 7, 1.702f, n);
    memcpy(x, one, (size_t)n * sizeof *one);
}

static const tf_each_fn tf_each_fns[] = {
    {"silu", tf_all_silu},
    {"gelu", tf_all_gelu},
    {"gelu erf", tf_all_gelu_erf},
    {"sigmoid", tf_all_sigmoid},
    {"relu", tf_all_relu},
    {"relu2", tf_all_relu2},
    {"exp", tf_all_exp},
    {"softplus", tf_all_softplus},
    {"cap", tf_all_cap},
    {"clipped gate", tf_all_clip_gate},
    {"clipped up", tf_all_clip_up},
};

/* Every kind of float, one value at a time: the levels agree on infinities, denormals and NaN too. */
static void tf_each_levels(void) {
    enum { N = 4096 };
    static float x[N], up[N], want[N], got[N];
    for (size_t f = 0; f < sizeof tf_each_fns / sizeof *tf_each_fns; f++)
        for (uint32_t round = 0; round < 8; round++) {
            for (int i = 0; i < N; i++) x[i] = tf_from_bits((uint32_t)i * 1048573u + round * 131041u), up[i] = i % 3 ? 1 : -0.7f;
            for (int l = 0; l < tf_levels(); l++) {
                float *y = l ? got : want;
                memcpy(y, x, sizeof x);
                tf_use(l);
                tf_each_fns[f].run(y, up, N);
                CHECKF(tf_same(y, want, N), "%s at level %s, round %u", tf_each_fns[f].name, tf_level[l], round);
            }
        }
    k_init("scalar");
    for (int i = 0; i < 4; i++) x[i] = (float[]){INFINITY, 100, -100, NAN}[i];
    k_activate(K_GELU_ERF, x, NULL, 4);
    CHECK(x[0] == INFINITY && x[1] == 100 && x[2] == 0 && isnan(x[3]));
    k_init("auto");
}

/* The vector exps see every kind of float through silu, where exp(-x) is x's only way in. */
static void tf_exp_levels(void) {
    enum { N = 4096 };
    float *x = mem_new(N, sizeof *x), *up = mem_new(N, sizeof *up), *want = mem_new(N, sizeof *want);
    for (uint32_t round = 0; round < 64; round++) {
        for (int i = 0; i < N; i++) x[i] = tf_from_bits((uint32_t)i * 1048573u + round * 16381u), up[i] = 1;
        for (int l = 0; l < tf_levels(); l++) {
            float *g = mem_new(N, sizeof *g);
            memcpy(g, x, N * sizeof *g);
            tf_use(l);
            k_activate(K_SILU, g, up, N);
            if (!l) memcpy(want, g, N * sizeof *g);
            else CHECKF(tf_same(g, want, N), "exp at level %s, round %u", tf_level[l], round);
            mem_free(g);
        }
    }
    k_init("auto");
    mem_free(x), mem_free(up), mem_free(want);
}

/* --- functions over one row: every length, three alignments, nothing written past the end --- */

enum { TF_MAX = 1023, TF_PAD = 40 };

typedef struct {
    const char *name;
    void (*run)(float *y, const float *a, const float *b, int n);        /* y holds a copy of a */
    void (*want)(const float *a, const float *b, int n, double *y);      /* the result in double */
    double tol;                                                          /* inputs lie in -4..4 */
} tf_row_fn;

static void tf_run_add(float *y, const float *a, const float *b, int n) { k_add(y, a, b, n); }
static void tf_run_axpy(float *y, const float *a, const float *b, int n) { (void)a; k_axpy(y, b, 0.7f, n); }
static void tf_run_scale(float *y, const float *a, const float *b, int n) { (void)a, (void)b; k_scale(y, 0.3f, n); }
static void tf_run_norm(float *y, const float *a, const float *b, int n) { k_rms_norm(a, b, 1e-5f, n, y); }
static void tf_run_norm_bare(float *y, const float *a, const float *b, int n) {
    (void)a, (void)b;
    k_rms_norm(y, NULL, 1e-5f, n, y);
}
static void tf_run_layer(float *y, const float *a, const float *b, int n) { k_layer_norm(a, b, a, 1e-5f, n, y); }
static void tf_run_layer_bare(float *y, const float *a, const float *b, int n) {
    (void)b;
    k_layer_norm(a, NULL, NULL, 1e-5f, n, y);
}
static void tf_run_layer_gain(float *y, const float *a, const float *b, int n) { k_layer_norm(a, b, NULL, 1e-5f, n, y); }
static void tf_run_layer_bias(float *y, const float *a, const float *b, int n) { k_layer_norm(a, NULL, b, 1e-5f, n, y); }
static void tf_run_l2(float *y, const float *a, const float *b, int n) { (void)a, (void)b; k_l2_norm(y, 1e-6f, n); }
static void tf_run_mul(float *y, const float *a, const float *b, int n) { k_mul(y, a, b, n); }
static void tf_run_cap(float *y, const float *a, const float *b, int n) { (void)a, (void)b; k_cap(y, 2.5f, n); }
static void tf_run_clip(float *y, const float *a, const float *b, int n) { (void)a; k_swiglu_clip(y, b, 1.5f, 1.702f, n); }
static void tf_run_silu(float *y, const float *a, const float *b, int n) { (void)a; k_activate(K_SILU, y, b, n); }
static void tf_run_gelu(float *y, const float *a, const float *b, int n) { (void)a; k_activate(K_GELU, y, b, n); }
static void tf_run_gelu_bare(float *y, const float *a, const float *b, int n) {
    (void)a, (void)b;
    k_activate(K_GELU, y, NULL, n);
}
static void tf_run_erf(float *y, const float *a, const float *b, int n) { (void)a; k_activate(K_GELU_ERF, y, b, n); }
static void tf_run_sigmoid(float *y, const float *a, const float *b, int n) { (void)a; k_activate(K_SIGMOID, y, b, n); }
static void tf_run_relu(float *y, const float *a, const float *b, int n) { (void)a; k_activate(K_RELU, y, b, n); }
static void tf_run_relu2(float *y, const float *a, const float *b, int n) { (void)a; k_activate(K_RELU2, y, b, n); }
static void tf_run_exp(float *y, const float *a, const float *b, int n) { (void)a; k_activate(K_EXP, y, b, n); }
static void tf_run_softplus(float *y, const float *a, const float *b, int n) {
    (void)a, (void)b;
    k_activate(K_SOFTPLUS, y, NULL, n);
}
static void tf_run_softmax(float *y, const float *a, const float *b, int n) { (void)a, (void)b; k_softmax(y, n); }
static void tf_run_dot(float *y, const float *a, const float *b, int n) { y[0] = k_dot(a, b, n); }

/* Each fills y[n] with the result in double. */
typedef double tf_term(double a, double b);
static void tf_each(const float *a, const float *b, int n, double *y, tf_term *f) {
    for (int i = 0; i < n; i++) y[i] = f(a[i], b[i]);
}
#define TF_EACH(name, formula)                                                                                       \
    static double tf_term_##name(double a, double b) { return (void)a, (void)b, formula; }                           \
    static void   tf_want_##name(const float *a, const float *b, int n, double *y) { tf_each(a, b, n, y, tf_term_##name); }
TF_EACH(add, a + b)
TF_EACH(mul, a * b)
TF_EACH(axpy, a + (double)0.7f * b)
TF_EACH(scale, a * (double)0.3f)
TF_EACH(silu, a / (1 + exp(-a)) * b)
TF_EACH(cap, 2.5 * tanh(a / 2.5))
TF_EACH(clip, fmin(a, 1.5) / (1 + exp(-(double)1.702f * fmin(a, 1.5))) * (fmax(fmin(b, 1.5), -1.5) + 1))
TF_EACH(gelu_bare, 0.5 * a * (1 + tanh(sqrt(2 / M_PI) * (a + 0.044715 * a * a * a))))
TF_EACH(gelu, tf_term_gelu_bare(a, b) * b)
TF_EACH(erf, 0.5 * a * erfc(-a / sqrt(2)) * b)
TF_EACH(sigmoid, 1 / (1 + exp(-a)) * b)
TF_EACH(relu, fmax(a, 0) * b)
TF_EACH(relu2, fmax(a, 0) * fmax(a, 0) * b)
TF_EACH(exp, exp(a) * b)
TF_EACH(softplus, log1p(exp(a)))

static double tf_sum(const float *a, const float *b, int n, double mean) {    /* of (a - mean) (b - mean) */
    double s = 0;
    for (int k = 0; k < n; k++) s += (a[k] - mean) * (b[k] - mean);
    return s;
}
static void tf_want_norm_bare(const float *a, const float *b, int n, double *y) {
    const double r = 1 / sqrt(tf_sum(a, a, n, 0) / n + 1e-5);
    (void)b;
    for (int i = 0; i < n; i++) y[i] = a[i] * r;
}
static void tf_want_norm(const float *a, const float *b, int n, double *y) {
    tf_want_norm_bare(a, b, n, y);
    for (int i = 0; i < n; i++) y[i] *= b[i];
}
static void tf_want_layer_bare(const float *a, const float *b, int n, double *y) {
    double mean = 0;
    (void)b;
    for (int k = 0; k < n; k++) mean += (double)a[k] / n;
    const double r = 1 / sqrt(tf_sum(a, a, n, mean) / n + 1e-5);
    for (int i = 0; i < n; i++) y[i] = (a[i] - mean) * r;
}
static void tf_want_layer_gain(const float *a, const float *b, int n, double *y) {
    tf_want_layer_bare(a, b, n, y);
    for (int i = 0; i < n; i++) y[i] *= b[i];
}
static void tf_want_layer_bias(const float *a, const float *b, int n, double *y) {
    tf_want_layer_bare(a, b, n, y);
    for (int i = 0; i < n; i++) y[i] += b[i];
}
static void tf_want_layer(const float *a, const float *b, int n, double *y) {
    tf_want_layer_gain(a, b, n, y);
    for (int i = 0; i < n; i++) y[i] += a[i];
}
static void tf_want_l2(const float *a, const float *b, int n, double *y) {
    const double r = 1 / sqrt(tf_sum(a, a, n, 0) + 1e-6);
    (void)b;
    for (int i = 0; i < n; i++) y[i] = a[i] * r;
}
static void tf_want_softmax(const float *a, const float *b, int n, double *y) {
    double sum = 0;
    (void)b;
    for (int i = 0; i < n; i++) sum += y[i] = exp((double)a[i]);
    for (int i = 0; i < n; i++) y[i] /= sum;
}
static void tf_want_dot(const float *a, const float *b, int n, double *y) {
    for (int i = 0; i < n; i++) y[i] = a[i];
    y[0] = tf_sum(a, b, n, 0);
}

static const tf_row_fn tf_row_fns[] = {
    {"add",       tf_run_add,       tf_want_add,       1e-6},
    {"axpy",      tf_run_axpy,      tf_want_axpy,      1e-6},
    {"scale",     tf_run_scale,     tf_want_scale,     1e-6},
    {"norm",      tf_run_norm,      tf_want_norm,      8e-6},
    {"norm bare", tf_run_norm_bare, tf_want_norm_bare, 2e-6},
    {"layer norm", tf_run_layer,    tf_want_layer,     1e-5},
    {"layer norm gain", tf_run_layer_gain, tf_want_layer_gain, 1e-5},
    {"layer norm bias", tf_run_layer_bias, tf_want_layer_bias, 4e-6},
    {"layer norm bare", tf_run_layer_bare, tf_want_layer_bare, 4e-6},
    {"l2 norm",   tf_run_l2,        tf_want_l2,        5e-7},
    {"mul",       tf_run_mul,       tf_want_mul,       1e-6},
    {"cap",       tf_run_cap,       tf_want_cap,       1e-6},
    {"swiglu clip", tf_run_clip,    tf_want_clip,      2e-6},
    {"silu",      tf_run_silu,      tf_want_silu,    3e-6},
    {"gelu",      tf_run_gelu,      tf_want_gelu,      4e-6},
    {"gelu bare", tf_run_gelu_bare, tf_want_gelu_bare, 1e-6},
    {"gelu erf",  tf_run_erf,       tf_want_erf,       3e-6},
    {"sigmoid",   tf_run_sigmoid,   tf_want_sigmoid,   1e-6},
    {"relu",      tf_run_relu,      tf_want_relu,      1e-6},
    {"relu2",     tf_run_relu2,     tf_want_relu2,     4e-6},
    {"softmax",   tf_run_softmax,   tf_want_softmax,   1e-6},
    {"dot",       tf_run_dot,       tf_want_dot,       5e-5},
    {"exp",       tf_run_exp,       tf_want_exp,       4e-5},
    {"softplus",  tf_run_softplus,  tf_want_softplus,  2e-6},
};

static void tf_rows(void) {
    static float a[TF_MAX + TF_PAD], b[TF_MAX + TF_PAD], y[TF_MAX + TF_PAD], want[TF_MAX + TF_PAD];
    for (size_t f = 0; f < sizeof tf_row_fns / sizeof *tf_row_fns; f++)
        for (int n = 1; n <= TF_MAX; n += n < 70 ? 1 : 29) {
            const tf_row_fn *fn = &tf_row_fns[f];
            tf_fill(a, TF_MAX + TF_PAD, 4), tf_fill(b, TF_MAX + TF_PAD, 4);
            for (int l = 0; l < tf_levels(); l++)
                for (int off = 0; off < 3; off++) {
                    tf_use(l);
                    memmove(y + off, a, (size_t)(n + 8) * sizeof *y);
                    float *b2 = mem_new((size_t)(n + off), sizeof *b2), *a2 = mem_new((size_t)(n + off), sizeof *a2);
                    memcpy(b2 + off, b, (size_t)n * sizeof *b), memcpy(a2 + off, a, (size_t)n * sizeof *a);
                    fn->run(y + off, a2 + off, b2 + off, n);
                    if (!l && !off) {
                        static double near[TF_MAX];
                        memcpy(want, y, (size_t)n * sizeof *y);
                        fn->want(a, b, n, near);
                        for (int i = 0; i < n; i++)
                            CHECKF(fabs(y[i] - near[i]) <= fn->tol, "%s n %d at %d: got %.9g, want %.9g", fn->name, n, i,
                                   (double)y[i], near[i]);
                    } else
                        CHECKF(!memcmp(y + off, want, (size_t)n * sizeof *y), "%s at level %s, n %d, offset %d", fn->name,
                               tf_level[l], n, off);
                    CHECKF(!memcmp(y + off + n, a + n, 8 * sizeof *y), "%s at level %s writes past n %d", fn->name, tf_level[l],
                           n);
                    mem_free(b2), mem_free(a2);
                }
        }
    k_init("auto");
}

/* The summation order is part of the specification, so it is written here again. */
static void tf_dot_order(void) {
    static float a[TF_MAX], b[TF_MAX];
    tf_fill(a, TF_MAX, 3), tf_fill(b, TF_MAX, 3);
    for (int n = 0; n <= TF_MAX; n += 7) {
        float lane[16] = {0};
        for (int i = 0; i < (n + 15) / 16 * 16; i++) lane[i % 16] = fmaf(i < n ? a[i] : 0, i < n ? b[i] : 0, lane[i % 16]);
        for (int h = 8; h; h /= 2)
            for (int i = 0; i < h; i++) lane[i] += lane[i + h];
        for (int l = 0; l < tf_levels(); l++) {
            tf_use(l);
            float got = k_dot(a, b, n);
            CHECKF(!memcmp(&got, lane, 4), "dot at level %s, n %d: got %.9g, want %.9g", tf_level[l], n, (double)got,
                   (double)lane[0]);
        }
    }
    k_init("auto");
}

static void tf_softmax_edges(void) {
    for (int l = 0; l < tf_levels(); l++) {
        tf_use(l);
        for (int n = 1; n < 70; n++) {
            float x[70];
            for (int i = 0; i < n; i++) x[i] = -INFINITY;
            k_softmax(x, n);
            for (int i = 0; i < n; i++) CHECK(x[i] == 0);
            for (int i = 0; i < n; i++) x[i] = -INFINITY;
            x[n - 1] = -5;
            k_softmax(x, n);
            for (int i = 0; i < n; i++) CHECK(x[i] == (i == n - 1));
            for (int i = 0; i < n; i++) x[i] = i & 1 ? -3e38f : 3e38f;
            k_softmax(x, n);
            for (int i = 0; i < n; i++) NEAR(x[i], i & 1 ? 0.0 : 1.0 / ((n + 1) / 2), 1e-7);
            for (int i = 0; i < n; i++) x[i] = i == n / 2 ? NAN : 1;
            k_softmax(x, n);
            for (int i = 0; i < n; i++) CHECK(isnan(x[i]));
        }
    }
    k_init("auto");
}

static void tf_max(void) {
    static float x[300];
    for (int l = 0; l < tf_levels(); l++) {
        tf_use(l);
        int arg = -1;
        for (int n = 1; n <= 300; n++)
            for (int at = 0; at < n; at += n < 40 ? 1 : 23) {
                for (int i = 0; i < n; i++) x[i] = i % 3 ? -1.0f - (float)i : NAN;
                x[at] = 7;
                if (at + 5 < n) x[at + 5] = 7;                    /* the lower index wins */
                CHECK(k_max(x, n, &arg) == 7);
                CHECKF(arg == at, "max at level %s, n %d: index %d, want %d", tf_level[l], n, arg, at);
            }
        for (int i = 0; i < 300; i++) x[i] = NAN;
        CHECK(k_max(x, 300, &arg) == -INFINITY && arg == 0);
        x[200] = -INFINITY;
        CHECK(k_max(x, 300, &arg) == -INFINITY && arg == 200);
        x[201] = -0.0f, x[202] = 0.0f;
        CHECK(signbit(k_max(x, 300, &arg)) && arg == 201);
        CHECK(k_max(x, 0, &arg) == -INFINITY && arg == 0);
        CHECK(k_max(x, 300, NULL) == 0);
    }
    k_init("auto");
}

/* --- rope --- */

static void tf_rope(void) {
    static const struct {
        int hd, n_rot, n_heads;
    } shape[] = {{64, 64, 3}, {128, 128, 1}, {80, 32, 2}, {10, 6, 5}, {2, 2, 1}, {34, 34, 2}};
    for (size_t s = 0; s < sizeof shape / sizeof *shape; s++)
        for (int form = K_ROPE_PAIRS; form <= K_ROPE_TO_PAIRS; form++) {
            int   hd = shape[s].hd, n_rot = shape[s].n_rot, n = hd * shape[s].n_heads;
            float x[384], cs[128], want[384] = {0}, got[384];
            tf_fill(x, n, 2);
            for (int i = 0; i < n_rot / 2; i++) cs[2 * i] = (float)cos(0.3 * i + 1), cs[2 * i + 1] = (float)sin(0.3 * i + 1);
            for (int l = 0; l < tf_levels(); l++) {
                tf_use(l);
                memcpy(got, x, sizeof x);
                k_rope(got, shape[s].n_heads, hd, n_rot, form, cs);
                if (!l) memcpy(want, got, sizeof got);
                EQ_MEM(got, want, (size_t)n * sizeof *got);
            }
            for (int i = 0; i < n; i++) {
                int    h = i / hd * hd, at = i % hd, half = n_rot / 2, halves = form != K_ROPE_PAIRS;
                int    d = form == K_ROPE_TO_PAIRS ? at / 2 + at % 2 * (hd / 2) : at;
                int    pair = halves ? d % half : d / 2, second = halves ? d >= half : d & 1;
                double a = x[h + (halves ? pair : 2 * pair)], b = x[h + (halves ? pair + half : 2 * pair + 1)], c = cs[2 * pair],
                       z = cs[2 * pair + 1];
                NEAR(want[i], d >= n_rot ? x[h + d] : second ? a * z + b * c : a * c - b * z, d >= n_rot ? 0 : 1e-6);
            }
        }
    k_init("auto");
}

/* --- Hadamard transform --- */

/* Against the matrix: entry (i, j) is -1 to the number of bits that i and j share, over sqrt(size). */
static void tf_hadamard(void) {
    static const struct {
        int n, size;
    } shape[] = {{2, 2},    {20, 4},    {80, 16},   {96, 32}, {64, 64}, {128, 128},
                 {192, 64}, {256, 256}, {512, 256}, {15, 1},  {8, 8},   {24, 8}};
    for (size_t s = 0; s < sizeof shape / sizeof *shape; s++) {
        const int n = shape[s].n, size = shape[s].size;
        float     x[512] = {0}, y[512], z[513], top = 0;
        EQ_INT(k_hadamard_size(n), size);
        for (int i = 0; i < n; i++) x[i] = (float)(i * 37 % 255 - 127);
        memcpy(y, x, (size_t)n * sizeof *y);
        k_hadamard(y, n, size);
        for (int i = 0; i < n; i++) {
            double sum = 0;
            for (int j = 0, run = i / size * size; j < size; j++)
                sum += __builtin_parity((unsigned)(i & j)) ? -x[run + j] : x[run + j];
            NEAR(y[i], sum / sqrt(size), 1e-4 * (size > 1));
        }
        k_hadamard(y, n, size);                       /* sqrt(size) is a power of two where size is one of four: exact */
        for (int i = 0; i < n; i++) NEAR(y[i], x[i], __builtin_ctz((unsigned)size) & 1 ? 1e-4 : 0);
        for (int l = 0; l < tf_levels(); l++) {       /* values that round; and one at an odd address */
            tf_at = 0;
            tf_fill(z + 1, n, 1e3f);
            tf_use(l);
            k_hadamard(z + 1, n, size);
            if (!l) memcpy(y, z + 1, (size_t)n * sizeof *y);
            EQ_MEM(z + 1, y, (size_t)n * sizeof *y);
        }
        memset(x, 0, sizeof x);
        x[n / 3] = -100;
        k_hadamard(x, n, size);
        for (int i = 0; i < n; i++) top = fmaxf(top, fabsf(x[i]));
        NEAR(top, 100 / sqrt(size), 1e-4);
    }
    EQ_INT(k_hadamard_size(1), 1);
    EQ_INT(k_hadamard_size(1 << 20), K_HADAMARD_MAX);
    k_init("auto");
}

/* --- the cache's types --- */

static const struct { uint32_t type; double step; } tf_kv[] = {       /* step: error bound relative to the largest of 32 */
    {K_F32, 0}, {K_F16, 0x1p-11}, {K_BF16, 0x1p-8}, {K_Q8_0, 0.51 / 127 + 0x1p-11}, {K_Q4_0, 1.5 / 8},
};
enum { TF_KV = sizeof tf_kv / sizeof *tf_kv };

/* The squared error of values d * y, where y are the nearest codes -8 .. 7 with the extreme value of 32 at -aim, and d is the scale
 * of the least squares. */
static double tf_kv_fit(const float *x, double aim) {
    double top = 0, xy = 0, yy = 0, error = 0, y[32];
    for (int i = 0; i < 32; i++) top = fabs(x[i]) > fabs(top) ? x[i] : top;
    for (int i = 0; i < 32; i++) {
        y[i] = fmin(fmax(round(x[i] / (top / -aim)), -8), 7);
        xy += x[i] * y[i];
        yy += y[i] * y[i];
    }
    for (int i = 0; i < 32; i++) error += (x[i] - xy / yy * y[i]) * (x[i] - xy / yy * y[i]);
    return error;
}

static double tf_kv_error(const float *x, const float *back, int n) {
    double error = 0;
    for (int i = 0; i < n; i++) error += ((double)x[i] - back[i]) * ((double)x[i] - back[i]);
    return error;
}

/* A block of q4_0 in a cache is as near as the best of three fits in double, and blocks are nearer than the quantiser's. */
static void tf_kv_fits(void) {
    enum { BLOCKS = 500 };
    float   x[32], back[32];
    uint8_t row[18];
    double  all = 0, plain = 0;
    for (int b = 0; b < BLOCKS; b++) {
        tf_fill(x, 32, b % 2 ? 30 : 0.01f);
        if (b % 3 == 0) x[b % 32] *= 5;
        const double norm = tf_kv_error(x, (float[32]){0}, 32), least = fmin(tf_kv_fit(x, 8), fmin(tf_kv_fit(x, 7.3), tf_kv_fit(x, 8.6))) / norm;
        k_kv_store(K_Q4_0, x, row, 32);
        k_types[K_Q4_0].dequant(row, back, 32);
        const double own = tf_kv_error(x, back, 32) / norm;
        CHECKF(fabs(own - least) <= 1e-3 * least + 1e-6, "block %d: squared error %g of the squares, %g in double", b, own, least);
        k_types[K_Q4_0].quant(x, row, 32);
        k_types[K_Q4_0].dequant(row, back, 32);
        all += own;
        plain += tf_kv_error(x, back, 32) / norm;
    }
    CHECK(all < 0.92 * plain);
}

static void tf_kv_store(void) {
    float   x[257], back[257];
    uint8_t want[2048], got[2048];
    for (int k = 0; k < TF_KV; k++)
        for (int n = 1; n <= 257; n++) {
            const k_type *ty = &k_types[tf_kv[k].type];
            if (n % ty->block) continue;
            tf_fill(x, n, 30);
            if (ty->block == 1 && n > 6) x[0] = NAN, x[1] = -INFINITY, x[2] = 1e-6f, x[3] = 65520, x[4] = -1e-8f, x[5] = -0.0f;
            memset(want, 0xa5, sizeof want);
            if (tf_kv[k].type == K_Q4_0) {            /* its scale is fitted: tf_kv_fits() */
                tf_use(0);
                k_kv_store(K_Q4_0, x, want, n);
            } else ty->quant(x, want, n);
            for (int l = 0; l < tf_levels(); l++) {
                tf_use(l);
                memset(got, 0xa5, sizeof got);
                k_kv_store(tf_kv[k].type, x, got, n);
                EQ_MEM(got, want, sizeof want);
            }
            if (ty->block == 1 && n > 6) continue;
            ty->dequant(got, back, n);
            for (int i = 0; i < n; i++) {
                float top = 0;
                for (int j = i / 32 * 32; j < n && j < i / 32 * 32 + 32; j++) top = fmaxf(top, fabsf(x[j]));
                NEAR(back[i], x[i], tf_kv[k].step * top);
            }
        }
    k_init("auto");
}

/* --- products with float weights --- */

static void tf_mul_case(uint32_t type, int n, int nr, int nt, bool pick) {
    const uint32_t file = type == K_F16_ROUND ? K_F16 : type;
    size_t   row_bytes = k_row_bytes(file, n) + 3, ldx = (size_t)n + 1, ldy = (size_t)nr + 2, y_n = ldy * (size_t)nt;
    float   *x = mem_new(ldx * (size_t)nt, sizeof *x), *wf = mem_new((size_t)n, sizeof *wf);
    float   *want = mem_new(y_n, sizeof *want), *y = mem_new(y_n, sizeof *y), *one = mem_new(ldy, sizeof *one);
    uint8_t *w = mem_new(row_bytes * (size_t)nr, 1);  /* rows at odd addresses; the last ends with the allocation */
    uint16_t *h = mem_new(ldx * (size_t)nt, sizeof *h);
    void     *scratch = mem_new(k_scratch_bytes(n), 1);
    int32_t  idx[128];
    tf_fill(x, (int)ldx * nt, 1);
    k_types[K_BF16].quant(x, h, (int64_t)ldx * nt);
    if (k_act_of(type) == K_ACT_BF16) k_types[K_BF16].dequant(h, x, (int64_t)ldx * nt);
    for (int t = 0; t < nt; t++) idx[t] = (t * 7 + 3) % nt;
    for (int r = 0; r < nr; r++) {
        tf_fill(wf, n, 1);
        k_types[file].quant(wf, w + (size_t)r * row_bytes + 3, n);
    }
    k_acts a = {.x = x, .h = h, .ldx = ldx, .idx = pick ? idx : NULL, .nt = nt};
    for (int l = 0; l < tf_levels(); l++) {
        tf_use(l);
        memset(y, 0x55, y_n * sizeof *y);
        k_mul_rows(type, w + 3, row_bytes, nr, n, &a, y, ldy, scratch);
        if (!l) memcpy(want, y, y_n * sizeof *y);
        CHECKF(!memcmp(want, y, y_n * sizeof *y), "%s at level %s: n %d, %d rows, %d columns", k_types[type].name,
               tf_level[l], n, nr, nt);
        for (int t = 0; t < (l ? nt : 1); t++) {      /* a column alone is the column in company */
            const size_t at = (size_t)(pick ? idx[t] : t) * ldx;
            k_acts       alone = {.x = x + at, .h = h + at, .ldx = 0, .nt = 1};
            k_mul_rows(type, w + 3, row_bytes, nr, n, &alone, one, ldy, scratch);
            CHECKF(!memcmp(one, want + (size_t)t * ldy, (size_t)nr * sizeof *one), "%s at level %s: column %d of %d, n %d",
                   k_types[type].name, tf_level[l], t, nt, n);
        }
    }
    for (int r = 0; r < nr; r++) {
        k_types[type].dequant(w + (size_t)r * row_bytes + 3, wf, n);
        for (int t = 0; t < nt; t++)
            NEAR(want[(size_t)t * ldy + (size_t)r], tf_sum(wf, x + (size_t)(pick ? idx[t] : t) * ldx, n, 0), 2e-6 * sqrt(n));
    }
    mem_free(x), mem_free(h), mem_free(wf), mem_free(want), mem_free(y), mem_free(one), mem_free(w), mem_free(scratch);
}

/* Every f16 there is, in rows that end inside a step. */
static void tf_round(void) {
    static uint16_t h[1 << 16], got[1 << 16], want[1 << 16];
    for (int i = 0; i < 1 << 16; i++) {
        h[i] = (uint16_t)i;
        want[i] = k_f32_to_bf16(k_f16_to_f32(h[i]));
    }
    for (int l = 0; l < tf_levels(); l++) {
        tf_use(l);
        memset(got, 0x55, sizeof got);
        for (int i = 0, n = 0; i < 1 << 16; i += n) {
            n = (1 << 16) - i < 1021 ? (1 << 16) - i : 1021;
            g_k_level->f16_round((const uint8_t *)(h + i), n, got + i);
        }
        CHECKF(!memcmp(got, want, sizeof got), "f16 to bf16 at level %s", tf_level[l]);
    }
    k_init("auto");
}

static void tf_mul(void) {
    static const uint32_t type[] = {K_F32, K_F16, K_BF16, K_F16_ROUND};
    /* more columns than a block has, longer rows than a run, a span or a task */
    static const struct { int n, rows, cols; } large[] = {
        {64, 29, 97}, {95, 35, 40}, {96, 16, 101}, {1056, 13, 101}, {2848, 23, 7}, {3136, 20, 98}, {5632, 4, 13}, {5664, 4, 5}};
    static const int      len[] = {1, 2, 3, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 65, 95, 100, 127, 255, 257, 1023};
    static const int      cols[] = {1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14, 15, 16};
    for (size_t k = 0; k < sizeof type / sizeof *type; k++) {
        for (size_t i = 0; i < sizeof large / sizeof *large; i++)
            tf_mul_case(type[k], large[i].n, large[i].rows, large[i].cols, i & 1);
        for (size_t i = 0; i < sizeof len / sizeof *len; i++)
            for (size_t c = 0; c < sizeof cols / sizeof *cols; c++)
                tf_mul_case(type[k], len[i], 1 + (int)(i * 5 + c * 3) % 9, cols[c], (i + c) & 1);
    }
    k_init("auto");
}

/* NaN and infinity in some columns show there, in every row, and leave the
 * other columns as they are; rows of one run, of one span and of two. */
static void tf_mul_odd(void) {
    enum { ROWS = 21, COLS = 98, NAN_AT = 4, INF_AT = 50, BOTH_AT = 97 };
    static const uint32_t type[] = {K_F32, K_F16, K_BF16, K_F16_ROUND};
    static const int      len[] = {64, 2080, 3136};
    for (size_t i = 0; i < sizeof type / sizeof *type * 3; i++) {
        const int      n = len[i % 3];
        const uint32_t file = type[i / 3] == K_F16_ROUND ? K_F16 : type[i / 3];
        const size_t   row_bytes = k_row_bytes(file, n), n_x = (size_t)n * COLS;
        float         *x = mem_new(n_x, sizeof *x), *w = mem_new((size_t)n * ROWS, sizeof *w),
              (*y)[COLS][ROWS] = mem_new(3, sizeof *y);
        uint16_t      *h = mem_new(n_x, sizeof *h);
        uint8_t       *rows = mem_new(row_bytes, ROWS);
        void          *scratch = mem_new(k_scratch_bytes(n), 1);
        const k_acts   a = {.x = x, .h = h, .ldx = (size_t)n, .nt = COLS};
        tf_fill(w, n * ROWS, 1);
        for (int r = 0; r < ROWS; r++) k_types[file].quant(w + (size_t)r * (size_t)n, rows + (size_t)r * row_bytes, n);
        for (int l = 0; l < tf_levels(); l++) {       /* y: without them, with them, the scalar level with them */
            tf_use(l);
            tf_at = 7;
            tf_fill(x, (int)n_x, 1);
            for (int odd = 0; odd < 2; odd++) {
                if (odd) x[(size_t)n * NAN_AT + 17] = NAN, x[(size_t)n * INF_AT + (size_t)n - 1] = INFINITY;
                if (odd) x[(size_t)n * BOTH_AT] = INFINITY, x[(size_t)n * BOTH_AT + (size_t)n - 32] = NAN;
                k_types[K_BF16].quant(x, h, (int64_t)n_x);
                k_mul_rows(type[i / 3], rows, row_bytes, ROWS, n, &a, y[odd][0], ROWS, scratch);
            }
            if (!l) memcpy(y[2], y[1], sizeof *y);
            CHECKF(tf_same(y[1][0], y[2][0], COLS * ROWS), "%s at level %s, n %d", k_types[type[i / 3]].name, tf_level[l], n);
            for (int c = 0; c < COLS; c++)
                for (int r = 0; r < ROWS; r++)
                    if (c == NAN_AT || c == BOTH_AT) CHECK(isnan(y[1][c][r]));
                    else if (c == INF_AT) CHECK(isinf(y[1][c][r]));
                    else CHECK(y[1][c][r] == y[0][c][r]);
        }
        mem_free(x), mem_free(w), mem_free(y), mem_free(h), mem_free(rows), mem_free(scratch);
    }
    k_init("auto");
}

/* --- attention --- */

/* A cache of one layer: `heads` K/V heads side by side, T positions in blocks. Each block is its own allocation, so that
 * a read outside it is found. The numbers depend on (head, position, element) alone, not on the block size. */
typedef struct {
    int            T, block, n_blocks, heads, hd_k, hd_v;
    uint32_t       type_k, type_v;
    uint8_t      **k, **v;
    const uint8_t **kh, **vh;                         /* of one head, what k_attn wants */
    size_t         k_row, v_row;
} tf_cache;

static uint8_t *tf_block(const tf_cache *c, int b, uint32_t type, int hd, size_t row, int salt) {
    uint8_t *p = mem_new((size_t)c->block * (size_t)c->heads, row);
    float    x[256];
    for (int i = 0; i < c->block && b * c->block + i < c->T; i++)
        for (int h = 0; h < c->heads; h++) {
            for (int d = 0; d < hd; d++)
                x[d] = (float)(rng_unit(rng_at(9, (uint64_t)(salt + h), (uint64_t)(b * c->block + i), (uint64_t)d)) * 2 - 1);
            k_types[type].quant(x, p + ((size_t)i * (size_t)c->heads + (size_t)h) * row, hd);
        }
    return p;
}

static tf_cache tf_cache_new(int T, int block, int hd_k, int hd_v, uint32_t type_k, uint32_t type_v) {
    tf_cache c = {.T = T,
                  .block = block,
                  .n_blocks = (T + block - 1) / block,
                  .heads = 2,
                  .hd_k = hd_k,
                  .hd_v = hd_v,
                  .type_k = type_k,
                  .type_v = type_v};
    c.k_row = k_row_bytes(type_k, hd_k), c.v_row = k_row_bytes(type_v, hd_v);
    c.k = mem_new((size_t)c.n_blocks, sizeof *c.k), c.v = mem_new((size_t)c.n_blocks, sizeof *c.v);
    c.kh = mem_new((size_t)c.n_blocks, sizeof *c.kh), c.vh = mem_new((size_t)c.n_blocks, sizeof *c.vh);
    for (int b = 0; b < c.n_blocks; b++) {
        c.k[b] = tf_block(&c, b, type_k, hd_k, c.k_row, 0), c.v[b] = tf_block(&c, b, type_v, hd_v, c.v_row, 100);
        c.kh[b] = c.k[b] + c.k_row, c.vh[b] = c.v[b] + c.v_row;       /* the second head */
    }
    return c;
}

static void tf_cache_free(tf_cache *c) {
    for (int b = 0; b < c->n_blocks; b++) mem_free(c->k[b]), mem_free(c->v[b]);
    mem_free(c->k), mem_free(c->v), mem_free(c->kh), mem_free(c->vh);
}

typedef struct {
    int      hd_k, hd_v;
    uint32_t type_k, type_v;
    int      group, tokens, T, window;                /* the last `tokens` positions ask; window 0: all before */
    float    softcap;
    bool     sinks, slopes;
    int      ahead;                                   /* a row sees so many positions after its own */
} tf_attn_case;

typedef struct {                                      /* queries and results of one case */
    int         n;
    float      *q, *o, *sink, *slope;
    k_attn_row *row;
} tf_ask;

static tf_ask tf_ask_new(const tf_attn_case *t) {
    tf_ask k = {.n = t->group * t->tokens};
    k.q = mem_new((size_t)(k.n * t->hd_k), sizeof *k.q), k.o = mem_new((size_t)(k.n * t->hd_v), sizeof *k.o);
    k.sink = mem_new((size_t)k.n, sizeof *k.sink), k.slope = mem_new((size_t)k.n, sizeof *k.slope),
    k.row = mem_new((size_t)k.n, sizeof *k.row);
    tf_at = 1000;
    tf_fill(k.q, k.n * t->hd_k, 4);
    tf_fill(k.sink, k.n, 3);
    for (int r = 0; r < k.n; r++) {                   /* head-major, so that neighbours differ in range */
        const int64_t end = t->T - t->tokens + r % t->tokens + 1, last = end + t->ahead;
        k.row[r] = (k_attn_row){k.q + r * t->hd_k, k.o + r * t->hd_v, t->window && end > t->window ? end - t->window : 0,
                                last < t->T ? last : t->T, end - 1, NULL};
        k.slope[r] = 0.5f / (float)(1 + r % 7);
    }
    return k;
}

static void tf_ask_free(tf_ask *k) { mem_free(k->q), mem_free(k->o), mem_free(k->sink), mem_free(k->slope), mem_free(k->row); }

/* n rows; in_parts: each segment on its own, the last one first. */
static void tf_attend(const tf_attn_case *t, const tf_cache *c, const tf_ask *k, int from, int n, bool in_parts) {
    const size_t size = k_attn_part(n, t->hd_v), segments = (size_t)((t->T - 1) / K_SEGMENT + 1);
    void        *scratch = mem_aligned(k_attn_scratch(n, t->hd_k, t->hd_v), 1);
    k_attn_args a = {.n_rows = n,
                     .rows = k->row + from,
                     .hd_k = t->hd_k,
                     .hd_v = t->hd_v,
                     .scale = 0.125f,
                     .softcap = t->softcap,
                     .sinks = t->sinks ? k->sink + from : NULL,
                     .slopes = t->slopes ? k->slope + from : NULL,
                     .type_k = t->type_k,
                     .type_v = t->type_v,
                     .k_blocks = c->kh,
                     .v_blocks = c->vh,
                     .block = c->block,
                     .k_stride = c->k_row * (size_t)c->heads,
                     .v_stride = c->v_row * (size_t)c->heads};
    if (in_parts) {
        float *parts = mem_aligned(segments * size, sizeof *parts);
        for (size_t s = segments; s-- > 0;) k_attn_segment(&a, (int64_t)s, parts + s * size, scratch);
        for (int r = 0; r < n; r++) k_attn_merge(&a, r, parts, (int)segments);
        mem_free(parts);
    } else {
        k_attn(&a, scratch);
    }
    mem_free(scratch);
}

/* All rows, `chunk` at a time. */
static void tf_attend_all(const tf_attn_case *t, const tf_cache *c, const tf_ask *k, int chunk) {
    memset(k->o, 0x7f, (size_t)(k->n * t->hd_v) * sizeof *k->o);
    for (int r = 0; r < k->n; r += chunk) tf_attend(t, c, k, r, k->n - r < chunk ? k->n - r : chunk, false);
}

/* Caches but those of f32 and f16 are multiplied as bf16; where both are q8_0, as integers: the double sums leave
 * out the rounding of weights, half a step of 1/32767 for each position. */
static bool   tf_rounds(uint32_t type) { return type != K_F32 && type != K_F16; }
static bool   tf_integers(const tf_attn_case *t) { return t->type_k == K_Q8_0 && t->type_v == K_Q8_0; }
static double tf_rounded(double x, const tf_attn_case *t, uint32_t type) {
    return tf_rounds(type) && !tf_integers(t) ? k_bf16_to_f32(k_f32_to_bf16((float)x)) : x;
}

/* Element d of a query as it is multiplied. */
static double tf_asked(const tf_attn_case *t, const float *q, int d) {
    double top = 0;
    for (int i = 0; i < t->hd_k; i++) top = fmax(top, fabs((double)q[i]));
    return tf_integers(t) ? rint(q[d] / top * 16383) * top / 16383 : tf_rounded(q[d], t, t->type_k);
}

/* What a row has of some positions, in double: the largest score, the sum of the weights below it, values times weights. */
typedef struct { double top, sum, o[256]; } tf_part;

/* The sums as they are with weights below another maximum. */
static void tf_part_below(tf_part *a, double to) {
    const double c = a->top == to ? 1 : exp(a->top - to);
    for (int d = 0; d < 256; d++) a->o[d] *= c;
    a->sum *= c;
    a->top = to;
}

static void tf_part_join(tf_part *all, tf_part *one) {
    const double top = fmax(all->top, one->top);
    tf_part_below(all, top);
    tf_part_below(one, top);
    for (int d = 0; d < 256; d++) all->o[d] += one->o[d];
    all->sum += one->sum;
}

/* Scores of row r in double, over the numbers that the cache really holds. */
static void tf_scores(const tf_attn_case *t, const tf_cache *c, const tf_ask *k, int r, double *s) {
    float x[256];
    for (int64_t p = k->row[r].begin; p < k->row[r].end; p++) {
        k_types[t->type_k].dequant(c->kh[p / c->block] + (size_t)(p % c->block) * c->k_row * 2, x, t->hd_k);
        for (int d = 0; d < t->hd_k; d++) s[p] += tf_asked(t, k->row[r].q, d) * tf_rounded(x[d], t, t->type_k);
        s[p] *= 0.125;
        if (t->softcap > 0) s[p] = t->softcap * tanh(s[p] / t->softcap);
        if (t->slopes) s[p] -= (double)k->slope[r] * fabs((double)(p - k->row[r].at));
    }
}

/* Row r in double; weights are rounded below the largest score of their segment up to their tile's end. */
static void tf_attn_naive(const tf_attn_case *t, const tf_cache *c, const tf_ask *k, int r, double *o) {
    float         x[256];
    double       *s = mem_new((size_t)c->T, sizeof *s);
    const int64_t begin = k->row[r].begin, end = k->row[r].end;
    tf_part       all = {.top = -INFINITY}, part = all;
    tf_scores(t, c, k, r, s);
    for (int64_t p = begin; p < end; p++) {
        if (p == begin || p % K_TILE == 0) {
            double top = part.top;
            for (int64_t i = p; i < end && i / K_TILE == p / K_TILE; i++) top = fmax(top, s[i]);
            tf_part_below(&part, top);
        }
        k_types[t->type_v].dequant(c->vh[p / c->block] + (size_t)(p % c->block) * c->v_row * 2, x, t->hd_v);
        const double weight = tf_rounded(exp(s[p] - part.top), t, t->type_v);
        part.sum += weight;
        for (int d = 0; d < t->hd_v; d++) part.o[d] += weight * tf_rounded(x[d], t, t->type_v);
        if ((p + 1) % K_SEGMENT && p + 1 < end) continue;
        tf_part_join(&all, &part);
        part = (tf_part){.top = -INFINITY};
    }
    if (t->sinks) tf_part_join(&all, &(tf_part){.top = k->sink[r], .sum = 1});
    for (int d = 0; d < t->hd_v; d++) o[d] = all.sum > 0 ? all.o[d] / all.sum : 0;
    mem_free(s);
}

static void tf_attn_run(const tf_attn_case *t) {
    static const int blocks[] = {32, 1, 2, 16, 64, 7};
    tf_ask           k = tf_ask_new(t);
    size_t           size = (size_t)(k.n * t->hd_v) * sizeof *k.o;
    float           *want = mem_new(size, 1);
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
        tf_cache c = tf_cache_new(t->T, blocks[b], t->hd_k, t->hd_v, t->type_k, t->type_v);
        for (int64_t i = 0; i < c.n_blocks && (i + 1) * c.block <= k.row[0].begin; i++)
            c.kh[i] = c.vh[i] = NULL; /* dropped by the window */
        if (!b) {
            double o[256];
            k_init("scalar");
            tf_attend_all(t, &c, &k, k.n);
            memcpy(want, k.o, size);
            for (int r = 0; r < k.n; r++) {
                tf_attn_naive(t, &c, &k, r, o);
                for (int d = 0; d < t->hd_v; d++)
                    if (!NEAR(k.o[r * t->hd_v + d], o[d], tf_integers(t) ? 3e-4 : tf_rounds(t->type_v) ? 1e-4 : 3e-6))
                        r = k.n, d = t->hd_v;
            }
        }
        for (int l = 0; l < tf_levels(); l++) {
            if (!l && b && blocks[b] != 7) continue;                  /* the slow level need not prove everything */
            tf_use(l);
            for (int chunk = 1; chunk <= k.n; chunk += chunk < 5 ? 2 : k.n) {
                tf_attend_all(t, &c, &k, chunk);
                CHECKF(!memcmp(k.o, want, size),
                       "attention at level %s: hd %d %d, %s %s, T %d, group %d, window %d, block %d, %d rows a call", tf_level[l],
                       t->hd_k, t->hd_v, k_types[t->type_k].name, k_types[t->type_v].name, t->T, t->group, t->window, blocks[b],
                       chunk);
            }
            tf_attend_all(t, &c, &k, k.n);
            CHECKF(!memcmp(k.o, want, size), "attention at level %s: block %d, all rows in one call", tf_level[l], blocks[b]);
            memset(k.o, 0x7f, size);
            tf_attend(t, &c, &k, 0, k.n, true);
            CHECKF(!memcmp(k.o, want, size), "attention at level %s: block %d, each segment on its own", tf_level[l], blocks[b]);
        }
        tf_cache_free(&c);
    }
    mem_free(want);
    tf_ask_free(&k);
    k_init("auto");
}

static void tf_attn_types(void) {
    for (int a = 0; a < TF_KV; a++)
        for (int b = 0; b < TF_KV; b++)
            tf_attn_run(&(tf_attn_case){
                .hd_k = 64, .hd_v = 32, .type_k = tf_kv[a].type, .type_v = tf_kv[b].type, .group = 2, .tokens = 3, .T = 75});
}

static void tf_attn_shapes(void) {
    static const tf_attn_case cases[] = {
        /* hd_k hd_v types         g  tok  T    window cap sinks slopes ahead */
        {64,   64,  K_F16, K_F16,  1, 1,   1,   0,   0,   false, false, 0},
        {64,   64,  K_F16, K_F16,  1, 1,   32,  0,   0,   false, false, 0},
        {64,   64,  K_F16, K_F16,  1, 1,   33,  0,   0,   true, false, 0},
        {128,  128, K_F16, K_BF16, 2, 1,   150, 0,   0,   false, false, 0},
        {80,   80,  K_F32, K_F32,  3, 5,   70,  0,   0,   false, false, 0},
        {96,   112, K_BF16, K_F16, 4, 2,   64,  0,   30,  false, false, 0},
        {6,    10,  K_F32, K_F16,  5, 3,   40,  0,   0,   false, false, 0},
        {2,    2,   K_F16, K_F32,  6, 1,   65,  0,   0,   true, false, 0},
        {64,   64,  K_F16, K_F16,  7, 4,   130, 20,  0,   false, false, 0},
        {64,   64,  K_F16, K_F16,  8, 9,   200, 33,  0,   true, false, 0},
        {128,  64,  K_Q8_0, K_Q4_0, 8, 1,  99,  64,  50,  true, false, 0},
        {64,   64,  K_F32, K_F32,  1, 70,  70,  0,   0,   false, false, 0},
        {32,   32,  K_F16, K_F16,  2, 40,  90,  1,   0,   false, false, 0},
        {256,  192, K_F16, K_F16,  2, 2,   66,  0,   1,   false, false, 0},
        {64,   64,  K_Q8_0, K_Q8_0, 8, 1,  200, 0,   0,   false, false, 0},
        {96,   128, K_Q8_0, K_Q8_0, 5, 3,  150, 33,  30,  true, false, 0},
        {256,  192, K_Q8_0, K_Q8_0, 1, 70, 70,  0,   0,   false, false, 0},
        {32,   64,  K_Q8_0, K_Q8_0, 2, 40, 90,  1,   0,   false, false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) tf_attn_run(&cases[i]);
}

/* The machine code of the tiles, on a processor with AVX-512 that lacks their instructions. */
static void tf_attn_tiles(void) {
#ifdef __x86_64__
    static const tf_attn_case cases[] = {
        {.hd_k = 64, .hd_v = 64, .type_k = K_Q8_0, .type_v = K_Q8_0, .group = 4, .tokens = 3, .T = 70},
        {.hd_k = 96, .hd_v = 32, .type_k = K_Q8_0, .type_v = K_Q8_0, .group = 8, .tokens = 2, .T = 550, .window = 400},
    };
    if (!tiles_missing()) SKIP("the processor runs the instructions of tiles, or make levels does, or it has no AVX-512");
    tiles_on();
    tf_tiles = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) tf_attn_run(&cases[i]);
    tf_tiles = false;
    tiles_off();
#endif
}

static void tf_attn_segments(void) {
    static const tf_attn_case cases[] = {
        /* hd_k hd_v types         g  tok  T                 window cap sinks slopes ahead */
        {32,   32,  K_F32, K_F32,  1, 3,   K_SEGMENT + 1,     0,    0,  false, false, 0},
        {64,   32,  K_BF16, K_BF16, 2, 2,  3 * K_SEGMENT,     0,    0,  true, false, 0},
        {32,   64,  K_Q8_0, K_Q4_0, 3, 4,  2 * K_SEGMENT + 5, 600,  0,  false, false, 0},
        {32,   32,  K_F16, K_F16,  1, 5,   K_SEGMENT + 2,     7,    20, true, false, 0},
        {64,   64,  K_Q8_0, K_Q8_0, 3, 4,  2 * K_SEGMENT + 5, 600,  0,  true, false, 0},
        {64,   32,  K_Q8_0, K_Q8_0, 8, 9,  3 * K_SEGMENT,     0,    0,  false, false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) tf_attn_run(&cases[i]);
}

static void tf_attn_slopes(void) {
    static const tf_attn_case cases[] = {
        {.hd_k = 64, .hd_v = 64, .type_k = K_F16, .type_v = K_F16, .group = 3, .tokens = 5, .T = 100, .slopes = true},
        {.hd_k = 64, .hd_v = 32, .type_k = K_Q8_0, .type_v = K_BF16, .group = 2, .tokens = 3, .T = 99, .window = 40,
         .softcap = 50, .sinks = true, .slopes = true},
        {.hd_k = 32, .hd_v = 32, .type_k = K_F32, .type_v = K_F32, .group = 1, .tokens = 70, .T = 70,
         .slopes = true, .ahead = 70},
        {.hd_k = 64, .hd_v = 32, .type_k = K_Q8_0, .type_v = K_Q8_0, .group = 3, .tokens = 9, .T = K_SEGMENT + 40,
         .softcap = 50, .slopes = true, .ahead = 4},
        {.hd_k = 32, .hd_v = 32, .type_k = K_F16, .type_v = K_F16, .group = 2, .tokens = 20, .T = 60, .window = 9, .ahead = 4},
        {.hd_k = 32, .hd_v = 32, .type_k = K_BF16, .type_v = K_F32, .group = 1, .tokens = 3, .T = K_SEGMENT + 3,
         .slopes = true, .ahead = 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) tf_attn_run(&cases[i]);
}

/* A row does not depend on positions outside its window, whatever they hold and whichever other row reads them. */
static void tf_attn_private(void) {
    const tf_attn_case t = {.hd_k = 32, .hd_v = 32, .type_k = K_F32, .type_v = K_F32, .group = 1, .tokens = 6, .T = 50};
    tf_ask             k = tf_ask_new(&t);
    float              alone[6 * 32];
    tf_cache           c = tf_cache_new(t.T, 8, t.hd_k, t.hd_v, t.type_k, t.type_v);
    k.row[0].begin = 5, k.row[0].end = 20;
    k.row[2].begin = 9, k.row[2].end = 9;             /* sees nothing */
    k.row[3].begin = 40, k.row[3].end = 41;
    k.row[4].begin = 33, k.row[4].end = 36;           /* in one tile with the next row, and apart from it */
    k.row[5].begin = 40, k.row[5].end = 44;
    for (int l = 0; l < tf_levels(); l++) {
        tf_use(l);
        tf_attend_all(&t, &c, &k, 1);
        memcpy(alone, k.o, sizeof alone);
        for (int p = 0; p < t.T; p++)                 /* positions 2, 30, 38 and 44 go bad: only row 1 looks there */
            if (p == 2 || p == 30 || p == 38 || p == 44)
                for (int d = 0; d < 32; d++) {
                    size_t at = (size_t)(p % 8) * c.k_row * 2 + (size_t)d * 4;
                    memcpy(c.k[p / 8] + c.k_row + at, &(float){p == 30 ? INFINITY : NAN}, 4);
                    memcpy(c.v[p / 8] + c.v_row + at, &(float){p == 30 ? -INFINITY : NAN}, 4);
                }
        tf_attend_all(&t, &c, &k, 6);
        EQ_MEM(k.o, alone, 32 * sizeof(float));
        EQ_MEM(k.o + 3 * 32, alone + 3 * 32, 3 * 32 * sizeof(float));
        for (int d = 0; d < 32; d++) CHECK(k.o[2 * 32 + d] == 0 && isnan(k.o[32 + d]));
        tf_cache_free(&c);
        c = tf_cache_new(t.T, 8, t.hd_k, t.hd_v, t.type_k, t.type_v);
    }
    tf_cache_free(&c);
    tf_ask_free(&k);
    k_init("auto");
}

/* Scores of -inf everywhere give zeros; a NaN query gives NaN; a first tile of -inf does not spoil the second. */
static void tf_attn_infinite(void) {
    const tf_attn_case t = {.hd_k = 32, .hd_v = 32, .type_k = K_F32, .type_v = K_F32, .group = 1, .tokens = 3, .T = 40};
    tf_ask             k = tf_ask_new(&t);
    tf_cache           c = tf_cache_new(t.T, 64, t.hd_k, t.hd_v, t.type_k, t.type_v);
    for (int p = 0; p < 32; p++) memcpy(c.k[0] + c.k_row + (size_t)p * 2 * c.k_row, &(float){-INFINITY}, 4);
    k.q[0] = 1, k.q[32] = 1, k.q[64] = NAN;
    k.row[0].end = 32;
    for (int l = 0; l < tf_levels(); l++) {
        float want[32];
        tf_use(l);
        tf_attend_all(&t, &c, &k, 3);
        memcpy(want, k.o + 32, sizeof want);
        for (int d = 0; d < 32; d++) CHECK(k.o[d] == 0 && isfinite(k.o[32 + d]) && isnan(k.o[64 + d]));
        k.row[1].begin = 32;
        tf_attend_all(&t, &c, &k, 3);
        EQ_MEM(k.o + 32, want, sizeof want);
        k.row[1].begin = 0;
        tf_attn_case sunk = t;                        /* a sink far above all scores takes everything, one far below nothing */
        sunk.sinks = true;
        k.sink[0] = 0, k.sink[1] = 1e30f, k.sink[2] = 0;
        tf_attend_all(&sunk, &c, &k, 3);
        for (int d = 0; d < 32; d++) CHECK(k.o[d] == 0 && k.o[32 + d] == 0);
        k.sink[1] = l & 1 ? -1e30f : -INFINITY;
        tf_attend_all(&sunk, &c, &k, 3);
        EQ_MEM(k.o + 32, want, sizeof want);
    }
    tf_cache_free(&c);
    tf_ask_free(&k);
    k_init("auto");
}

/* Writes a head of q8_0 with one code and one scale. */
static void tf_one_code(uint8_t *to, int hd, uint16_t d, int code) {
    block_q8_0 b = {.d = d};
    memset(b.qs, code, sizeof b.qs);
    for (int i = 0; i < hd; i += 32, to += sizeof b) memcpy(to, &b, sizeof b);
}

/* Caches of q8_0: the largest sums that files can cause do not overflow,
 * scales of infinity and NaN stay with the rows that see them. */
static void tf_attn_codes(void) {
    enum { HD = 64, N = 6 };
    const tf_attn_case t = {.hd_k = HD, .hd_v = HD, .type_k = K_Q8_0, .type_v = K_Q8_0, .group = 1, .tokens = N, .T = K_SEGMENT};
    tf_ask             k = tf_ask_new(&t);
    float              want[N * HD];
    for (int r = 0; r < N; r++)
        for (int d = 0; d < HD; d++) k.q[r * HD + d] = r < 4 ? 1 : 0;
    k.q[3 * HD + 5] = NAN, k.q[4 * HD] = 1e-38f, k.q[5 * HD + 1] = -INFINITY;
    k.row[0].begin = 0, k.row[0].end = K_SEGMENT;
    k.row[1].begin = 33, k.row[1].end = 400;
    k.row[2].begin = 33, k.row[2].end = 33;
    for (int l = 0; l < tf_levels(); l++) {
        tf_cache c = tf_cache_new(t.T, 32, HD, HD, K_Q8_0, K_Q8_0);
        for (int i = 0; i < t.T; i++) {
            tf_one_code(c.k[i / 32] + c.k_row + (size_t)(i % 32) * 2 * c.k_row, HD, 0x3c00, -128);
            tf_one_code(c.v[i / 32] + c.v_row + (size_t)(i % 32) * 2 * c.v_row, HD, 0x3c00, -128);
        }
        tf_use(l);
        tf_attend_all(&t, &c, &k, N);
        for (int d = 0; d < HD; d++) {
            CHECK(k.o[d] == -128 && k.o[HD + d] == -128 && k.o[2 * HD + d] == 0 && k.o[4 * HD + d] == -128);
            CHECK(isnan(k.o[3 * HD + d]) && isnan(k.o[5 * HD + d]));
        }
        memcpy(want, k.o, sizeof want);
        tf_one_code(c.v[0] + c.v_row + 3 * 2 * c.v_row, HD, 0x7c00, 1);          /* position 3: row 1 does not see it */
        tf_one_code(c.k[12] + c.k_row + 20 * 2 * c.k_row, HD, 0x7e00, 1);        /* position 404 */
        tf_attend_all(&t, &c, &k, N);
        EQ_MEM(k.o + HD, want + HD, 2 * HD * sizeof *want);
        for (int d = 0; d < HD; d++) CHECK(isnan(k.o[d]));
        k.row[0].end = 404;                                                   /* the scale of V alone */
        tf_attend_all(&t, &c, &k, N);
        for (int d = 0; d < HD; d++) CHECK(isnan(k.o[d]));
        k.row[0].begin = 4, k.row[0].end = K_SEGMENT;                         /* the scale of K alone */
        tf_attend_all(&t, &c, &k, N);
        for (int d = 0; d < HD; d++) CHECK(isnan(k.o[d]));
        k.row[0].begin = 0;
        tf_cache_free(&c);
    }
    tf_ask_free(&k);
    k_init("auto");
}

/* --- recurrent layers --- */

/* Against double: filters of 1 to 5 taps, rows of zeros before the start, slices of the channels, every level. */
static void tf_conv(void) {
    enum { N = 83, ROWS = 6, LD = 90 };
    static float  data[ROWS + 4][N], w[N * 5], bias[N], y[ROWS * LD], want[ROWS * LD];
    const float  *x[ROWS + 4];
    tf_fill(data[0], (ROWS + 4) * N, 2), tf_fill(w, N * 5, 1), tf_fill(bias, N, 1);
    for (int round = 0; round < 4 * 5; round++) {
        const int  taps = 1 + round % 5, n = round % 2 ? N : 32;
        const bool silu = round % 3, biased = round % 4 > 1;
        for (int i = 0; i < ROWS + taps - 1; i++) x[i] = i < taps / 2 ? NULL : data[i];
        for (int l = 0; l < tf_levels(); l++) {
            memset(y, 0x55, sizeof y);
            tf_use(l);
            k_conv(x, w, biased ? bias : NULL, taps, n, ROWS, silu, y, LD);
            if (!l) memcpy(want, y, sizeof y);
            CHECKF(!memcmp(y, want, sizeof y), "convolution at level %s, %d taps, %d channels", tf_level[l], taps, n);
            for (int t = 0; t < ROWS; t++) k_conv(x + t, w, biased ? bias : NULL, taps, n, 1, silu, y + t * LD, LD);
            CHECKF(!memcmp(y, want, sizeof y), "convolution row by row at level %s, %d taps", tf_level[l], taps);
        }
        for (int t = 0; t < ROWS; t++)
            for (int c = 0; c < n; c++) {
                double s = biased ? bias[c] : 0;
                for (int j = 0; j < taps; j++) s += x[t + j] ? (double)w[c * taps + j] * x[t + j][c] : 0;
                NEAR(want[t * LD + c], silu ? s / (1 + exp(-s)) : s, 2e-6);
            }
        for (int c = n; c < LD; c++) CHECK(!memcmp(&want[c], "UUUU", 4));
    }
    k_init("auto");
}

enum { TF_POS = 9, TF_DV = 77, TF_DK = 130 };

typedef struct {
    float s[TF_DK * TF_DV], q[TF_POS * TF_DK], k[TF_POS * TF_DK], v[TF_POS * TF_DV], gate[TF_POS * 2], o[TF_POS * TF_DV];
} tf_delta_data;

static k_delta_args tf_delta_args(tf_delta_data *d, int d_k, int n) {
    return (k_delta_args){.s = d->s, .q = d->q, .k = d->k, .v = d->v, .decay = d->gate, .beta = d->gate + 1, .o = d->o,
                          .ld_s = TF_DV, .ld_qk = TF_DK, .ld_v = TF_DV, .ld_gate = 2, .ld_o = TF_DV,
                          .d_k = d_k, .n = n, .n_pos = TF_POS};
}

static void tf_delta_fill(tf_delta_data *d, int d_k) {
    tf_at = 77;
    tf_fill(d->s, TF_DK * TF_DV, 1), tf_fill(d->q, TF_POS * TF_DK, 1), tf_fill(d->k, TF_POS * TF_DK, 1),
        tf_fill(d->v, TF_POS * TF_DV, 1);
    tf_fill(d->gate, TF_POS * 2, 0.5f), memset(d->o, 0x55, sizeof d->o);
    for (int i = 0; i < TF_POS * 2; i++) d->gate[i] += 0.5f;
    for (int p = 0; p < TF_POS; p++) k_l2_norm(d->k + p * TF_DK, 1e-6f, d_k);
}

/* The rule as it is written in the paper, in double. */
static void tf_delta_naive(const tf_delta_data *d, int d_k, int n) {
    static double s[TF_DK];
    for (int c = 0; c < n; c++) {
        for (int j = 0; j < d_k; j++) s[j] = d->s[j * TF_DV + c];
        for (int p = 0; p < TF_POS; p++) {
            const float *q = d->q + p * TF_DK, *k = d->k + p * TF_DK;
            double       u = 0, o = 0;
            for (int j = 0; j < d_k; j++) s[j] *= (double)d->gate[2 * p], u += s[j] * k[j];
            for (int j = 0; j < d_k; j++) s[j] += (double)d->gate[2 * p + 1] * (d->v[p * TF_DV + c] - u) * k[j], o += s[j] * q[j];
            if (!NEAR(d->o[p * TF_DV + c], o, 2e-5)) return;
        }
    }
}

/* The same in calls of `step` positions and `cols` columns. Each call folds its first positions and peeks at its last one. */
static void tf_delta_parts(tf_delta_data *d, int d_k, int n, int step, int cols) {
    for (int c = 0; c < n; c += cols)
        for (int p = 0; p < TF_POS; p += step) {
            k_delta_args a = tf_delta_args(d, d_k, n - c < cols ? n - c : cols);
            a.s += c, a.v += p * TF_DV + c, a.q += p * TF_DK, a.k += p * TF_DK, a.decay += 2 * p, a.beta += 2 * p;
            a.n_pos = TF_POS - p < step ? TF_POS - p : step;
            for (int i = 0; i < a.n_pos; i++) {       /* each output on its own: fold up to it, look, go back */
                static float old[TF_DK * TF_DV];
                k_delta_args one = a;
                memcpy(old, d->s, sizeof old);
                one.fold = i, one.n_pos = i + 1, one.peek = true, one.o = d->o + (p + i) * TF_DV + c;
                k_delta(&one);
                if (!i) EQ_MEM(d->s, old, sizeof old);
                memcpy(d->s, old, sizeof old);
            }
            a.fold = a.n_pos, a.o = NULL;
            k_delta(&a);
        }
}

static void tf_delta(void) {
    static const int     shape[][2] = {{128, 64}, {128, 77}, {130, 33}, {7, 16}, {3, 5}, {1, 8}, {64, 32}};
    static tf_delta_data want, got;
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        const int d_k = shape[i][0], n = shape[i][1];
        tf_delta_fill(&want, d_k);
        got = want;
        k_init("scalar");
        k_delta(&(k_delta_args[]){tf_delta_args(&want, d_k, n)}[0]);
        memcpy(got.o, want.o, sizeof got.o);
        tf_delta_naive(&got, d_k, n);
        for (int l = 0; l < tf_levels(); l++)
            for (int step = TF_POS; step; step = step == TF_POS ? 4 : step == 4 ? 1 : 0) {
                tf_use(l);
                tf_delta_fill(&got, d_k);
                if (step == TF_POS) k_delta(&(k_delta_args[]){tf_delta_args(&got, d_k, n)}[0]);
                else tf_delta_parts(&got, d_k, n, step, step == 1 ? 8 : 32);
                CHECKF(!memcmp(got.o, want.o, sizeof got.o), "delta rule at level %s: o of %d x %d, steps of %d",
                       tf_level[l], d_k, n, step);
                CHECKF(!memcmp(got.s, want.s, sizeof got.s), "delta rule at level %s: state of %d x %d, steps of %d",
                       tf_level[l], d_k, n, step);
            }
    }
    k_init("auto");
}

/* --- the same for k_outer and k_scan --- */

typedef struct {
    float s[TF_DK * TF_DV], a[TF_DK * TF_DV], of[5][TF_POS * TF_DK], v[TF_POS * TF_DV], dt[TF_POS * TF_DV], num[3][TF_POS], skip[TF_DV],
        o[TF_POS * TF_DV];
} tf_outer_data;

static void tf_outer_fill(tf_outer_data *d, int d_k) {
    tf_at = 99;
    tf_fill(d->s, TF_DK * TF_DV, 1), tf_fill(d->v, TF_POS * TF_DV, 1), tf_fill(d->a, TF_DK * TF_DV, 1), tf_fill(d->dt, TF_POS * TF_DV, 1),
        tf_fill(d->skip, TF_DV, 1);
    for (int i = 0; i < 5; i++) tf_fill(d->of[i], TF_POS * TF_DK, 1.0f / sqrtf((float)d_k));
    for (int i = 0; i < 3; i++) tf_fill(d->num[i], TF_POS, 1);
    for (int i = 0; i < TF_DK * TF_DV; i++) d->a[i] = -fabsf(d->a[i]);
    for (int i = 0; i < TF_POS * TF_DV; i++) d->dt[i] = fabsf(d->dt[i]);
    memset(d->o, 0x55, sizeof d->o);
}

/* kind 0: no correction; 1: with one; 2: with a second key; 3: k_scan. From position p on, columns from c on. */
static void tf_outer_run(tf_outer_data *d, int kind, int d_k, int n, int c, int p, int n_pos, int fold, bool peek, float *o) {
    const int at = p * TF_DK, in = p * TF_DV + c;
    if (kind == 3)
        k_scan(&(k_scan_args){.s = d->s + c * d_k, .a = d->a + c * d_k, .q = d->of[0] + at, .k = d->of[2] + at, .v = d->v + in,
                              .dt = d->dt + in, .skip = d->skip + c, .o = o, .ld = TF_DK, .ld_v = TF_DV, .ld_o = TF_DV, .d_k = d_k,
                              .n = n, .n_pos = n_pos, .fold = fold, .peek = peek});
    else
        k_outer(&(k_outer_args){.s = d->s + c, .q = d->of[0] + at, .p = kind ? d->of[1] + at : NULL, .k = d->of[2] + at,
                                .w = d->of[3] + at, .r = kind == 2 ? d->of[4] + at : NULL, .v = d->v + in, .beta = d->num[0] + p,
                                .kq = d->num[1] + p, .rq = d->num[2] + p, .o = o, .ld_s = TF_DV, .ld = TF_DK, .ld_v = TF_DV,
                                .ld_o = TF_DV, .d_k = d_k, .n = n, .n_pos = n_pos, .fold = fold, .peek = peek});
}

/* As the header writes it, in double. */
static void tf_outer_naive(const tf_outer_data *d, const float *got, int kind, int d_k, int n) {
    static double s[TF_DK];
    for (int c = 0; c < n; c++) {
        for (int j = 0; j < d_k; j++) s[j] = (double)d->s[kind == 3 ? c * d_k + j : j * TF_DV + c];
        for (int p = 0; p < TF_POS; p++) {
            const float *of[5];
            double       u = 0, o = 0, v = (double)d->v[p * TF_DV + c], dt = (double)d->dt[p * TF_DV + c];
            for (int i = 0; i < 5; i++) of[i] = d->of[i] + p * TF_DK;
            for (int j = 0; j < d_k; j++) u += kind == 1 || kind == 2 ? s[j] * (double)of[1][j] : 0, o += s[j] * (double)of[0][j];
            const double x = kind == 3 ? dt * v : (double)d->num[0][p] * ((kind == 2 ? 0 : v) - u);
            o = kind == 3 ? (double)d->skip[c] * v : o + (double)d->num[1][p] * x + (double)d->num[2][p] * v;
            for (int j = 0; j < d_k; j++) {
                const double fall = kind == 3 ? exp(dt * (double)d->a[c * d_k + j]) : (double)of[3][j];
                s[j] = fall * s[j] + (double)of[2][j] * x + (kind == 2 ? (double)of[4][j] * v : 0);
                if (kind == 3) o += s[j] * (double)of[0][j];
            }
            if (!NEAR(got[p * TF_DV + c], o, 3e-5)) return;
        }
    }
}

/* In calls of `step` positions and `cols` columns, each output on its own: fold up to it, look, go back. */
static void tf_outer_parts(tf_outer_data *d, int kind, int d_k, int n, int step, int cols) {
    static float old[TF_DK * TF_DV];
    for (int c = 0; c < n; c += cols)
        for (int p = 0; p < TF_POS; p += step) {
            const int wide = n - c < cols ? n - c : cols, left = TF_POS - p < step ? TF_POS - p : step;
            for (int i = 0; i < left; i++) {
                memcpy(old, d->s, sizeof old);
                tf_outer_run(d, kind, d_k, wide, c, p, i + 1, i, true, d->o + (p + i) * TF_DV + c);
                if (!i) EQ_MEM(d->s, old, sizeof old);
                memcpy(d->s, old, sizeof old);
            }
            tf_outer_run(d, kind, d_k, wide, c, p, left, left, false, NULL);
        }
}

static void tf_outer(void) {
    static const int     shape[][2] = {{128, 64}, {128, 77}, {130, 33}, {7, 16}, {3, 5}, {1, 8}, {16, 32}};
    static tf_outer_data want, got;
    for (size_t i = 0; i < 4 * sizeof shape / sizeof *shape; i++) {
        const int d_k = shape[i / 4][0], n = shape[i / 4][1], kind = (int)i % 4;
        tf_outer_fill(&want, d_k);
        got = want;
        k_init("scalar");
        tf_outer_run(&want, kind, d_k, n, 0, 0, TF_POS, 0, false, want.o);
        tf_outer_naive(&got, want.o, kind, d_k, n);
        for (int l = 0; l < tf_levels(); l++)
            for (int step = TF_POS; step; step = step == TF_POS ? 4 : step == 4 ? 1 : 0) {
                tf_use(l);
                tf_outer_fill(&got, d_k);
                if (step == TF_POS) tf_outer_run(&got, kind, d_k, n, 0, 0, TF_POS, 0, false, got.o);
                else tf_outer_parts(&got, kind, d_k, n, step, step == 1 ? 8 : 32);
                CHECKF(!memcmp(got.o, want.o, sizeof got.o) && !memcmp(got.s, want.s, sizeof got.s),
                       "kind %d at level %s: %d x %d, steps of %d", kind, tf_level[l], d_k, n, step);
            }
    }
    k_init("auto");
}

static const t_case t_float_cases[] = {
    {"float exp",           "exp and tanh stay within 2 ulp all over the floats, with exact ends", tf_exp},
    {"float phi",           "the normal distribution function within 6 ulp into its tail, softplus within 4", tf_phi},
    {"float each levels",   "activations and caps give the scalar bits on every kind of float", tf_each_levels},
    {"float exp levels",    "the vector exps give the scalar bits on every kind of float", tf_exp_levels},
    {"float rows",          "row functions: right, same bits at every level, length and alignment, no overrun", tf_rows},
    {"float dot order",     "a dot is the documented sum, to the bit", tf_dot_order},
    {"float softmax",       "softmax of all -inf is zeros, huge values survive, NaN shows", tf_softmax_edges},
    {"float max",           "max finds the lowest index; NaN never wins", tf_max},
    {"float rope",          "both pairings, partial rotation, same bits", tf_rope},
    {"float hadamard",      "the Walsh-Hadamard matrix, its own inverse, one large value over a run; same bits", tf_hadamard},
    {"float conv",          "causal convolutions: the double sums, rows of zeros, same bits at every level and split", tf_conv},
    {"float delta",         "the gated delta rule is that of the paper; same bits at every level and for any split", tf_delta},
    {"float outer",         "states of Mamba, linear attention, RWKV: as the header says; same bits at every level, for any split", tf_outer},
    {"float kv store",      "cache rows are what the type's quantiser writes (q4_0: the scalar level), within its step", tf_kv_store},
    {"float kv fit",        "the scale of q4_0 in a cache has the least squared error of three fits in double", tf_kv_fits},
    {"float round",         "every f16 to bf16, the same at each level", tf_round},
    {"float mul",           "F32 F16 BF16 products, F16 as BF16: right, same bits for any level, column mix and address", tf_mul},
    {"float mul odd",       "NaN and infinity stay in their columns of a product, at every level", tf_mul_odd},
    {"float attn types",    "attention equals the double one for all pairs of K and V types", tf_attn_types},
    {"float attn shapes",   "groups, windows, caps, sinks: same bits for any level, block size and chunking", tf_attn_shapes},
    {"float attn tiles",    "the machine code of avx512_amx gives the same bits, its instructions done by a handler", tf_attn_tiles},
    {"float attn segments", "segments of 512 positions: the double sums, same bits in parts, windows, sinks", tf_attn_segments},
    {"float attn slopes",   "ALiBi, and rows that see positions after their own, alone and with all else", tf_attn_slopes},
    {"float attn private",  "a row is untouched by what it does not see", tf_attn_private},
    {"float attn codes",    "caches of q8_0: no sum overflows, bad scales stay with the rows that see them", tf_attn_codes},
    {"float attn inf",      "all -inf gives zeros, NaN shows, a dead tile is forgotten", tf_attn_infinite},
};
static const t_suite t_float_suite = SUITE(t_float_cases);
