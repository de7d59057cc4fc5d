/* ===== [vec] float products, norms, softmax, rope, activations, recurrent layers =====
 * The f32 operations of the forward pass at three levels: _ref in plain C, _avx2,
 * _avx512; products of bf16 have a fourth (k__dots_). The level table in [level] selects
 * one set. All levels give the same bits for any batch, tile, block size or alignment:
 * - multiplication and addition are fused where the source has fmaf() or an fmadd intrinsic, and nowhere else;
 * - the summation order is fixed. A dot product has 16 lanes: lane l adds elements l, l + 16, ... in order, and a short tail is
 *   padded with zeros. Softmax has 32 lanes. Then the upper half of the lanes is added to the lower half: 32, 16, 8, 4, 2, 1;
 * - bf16 weights are multiplied with activations rounded to bf16. Of each run of 32 elements lane l adds the product of element
 *   2l + 1, then that of element 2l, as the instruction vdpbf16ps does;
 * - exp, tanh and the normal distribution function are the same polynomials.
 * The sign and payload of a NaN may differ. Other sections call these
 * functions through the level table; k_hadamard_size is called directly. */

/* --- element by element: plain loops, which each level compiles again for its target --- */

K__BODY void k__add_each(float *y, const float *a, const float *b, int n) { for (int i = 0; i < n; i++) y[i] = a[i] + b[i]; }
K__BODY void k__mul_each(float *y, const float *a, const float *b, int n) { for (int i = 0; i < n; i++) y[i] = a[i] * b[i]; }
K__BODY void k__axpy_each(float *y, const float *x, float s, int n) { for (int i = 0; i < n; i++) y[i] = fmaf(s, x[i], y[i]); }
K__BODY void k__scale_each(float *y, float s, int n) { for (int i = 0; i < n; i++) y[i] *= s; }

/* y = x * r * w. */
K__BODY void k__norm(const float *x, const float *w, float r, int n, float *y) {
    if (w) for (int i = 0; i < n; i++) y[i] = x[i] * r * w[i];
    else   for (int i = 0; i < n; i++) y[i] = x[i] * r;
}

/* y = (x - mean) * r * w + b. */
K__BODY void k__shift(const float *x, const float *w, const float *b, float mean, float r, int n, float *y) {
    if (w && b) for (int i = 0; i < n; i++) y[i] = (x[i] - mean) * r * w[i] + b[i];
    else if (w) for (int i = 0; i < n; i++) y[i] = (x[i] - mean) * r * w[i];
    else if (b) for (int i = 0; i < n; i++) y[i] = (x[i] - mean) * r + b[i];
    else        for (int i = 0; i < n; i++) y[i] = (x[i] - mean) * r;
}

/* The two halves of x [n] become pairs: x[2i] is what x[i] was, x[2i + 1] what x[i + n/2] was. */
K__BODY void k__interleave(float *x, int n) {
    float t[K_ROPE_HEAD];
    memcpy(t, x, (size_t)n * sizeof *x);
    for (int i = 0; i < n / 2; i++) x[2 * i] = t[i], x[2 * i + 1] = t[i + n / 2];
}

/* cs: cos, sin of each pair. Pairs are (2i, 2i + 1) with K_ROPE_PAIRS, else (i, i + n_rot/2). Elements from n_rot on do not
 * change; K_ROPE_TO_PAIRS sorts a head afterwards. */
K__BODY void k__rotate(float *x, int n_heads, int hd, int n_rot, int form, const float *cs) {
    int half = n_rot / 2, far = form ? half : 1, step = form ? 1 : 2;
    for (int h = 0; h < n_heads; h++, x += hd) {
        for (int i = 0; i < half; i++) {
            float *p = x + i * step, a = p[0], b = p[far], c = cs[2 * i], s = cs[2 * i + 1];
            p[0] = a * c - b * s;
            p[far] = a * s + b * c;
        }
        if (form == K_ROPE_TO_PAIRS) k__interleave(x, hd);
    }
}

/* Defines the loops of a level, and the norms that follow from its k_dot. The L2 norm has the form of transformers, whose logits
 * are the reference; llama.cpp divides by max(sqrt(sum), eps). They differ by less than a rounding error unless
 * the row is almost 0. */
#define K__LOOPS_LEVEL(l, vec)                                                                                \
    static vec void k_add_##l(float *y, const float *a, const float *b, int n) { k__add_each(y, a, b, n); }   \
    static vec void k_mul_##l(float *y, const float *a, const float *b, int n) { k__mul_each(y, a, b, n); }   \
    static vec void k_axpy_##l(float *y, const float *x, float s, int n) { k__axpy_each(y, x, s, n); }        \
    static vec void k_scale_##l(float *y, float s, int n) { k__scale_each(y, s, n); }                         \
    static vec void k_rope_##l(float *x, int n_heads, int hd, int n_rot, int form, const float *cs) {         \
        k__rotate(x, n_heads, hd, n_rot, form, cs);                                                           \
    }                                                                                                         \
    static vec void k_rms_norm_##l(const float *x, const float *w, float eps, int n, float *y) {              \
        k__norm(x, w, 1.0f / sqrtf(k_dot_##l(x, x, n) / (float)n + eps), n, y);                               \
    }                                                                                                         \
    static vec void k_l2_norm_##l(float *x, float eps, int n) {                                               \
        k__scale_each(x, 1.0f / sqrtf(k_dot_##l(x, x, n) + eps), n);                                          \
    }

/* The first index of the maximum m; 0 where no element equals it (all are NaN, or n is 0). */
K__BODY int k__find(const float *x, int n, float m) {
    for (int i = 0; i < n; i++)
        if (x[i] == m) return i;
    return 0;
}

/* Whether weights of the type are multiplied as bf16. */
K__BODY bool k__is_bf16(uint32_t type) { return type == K_BF16 || type == K_F16_ROUND; }

/* The type of their activations; bytes of a value. */
K__BODY uint32_t k__act_type(uint32_t type) { return k__is_bf16(type) ? K_BF16 : K_F32; }
K__BODY size_t   k__float_size(uint32_t type) { return type == K_F32 ? 4 : 2; }

static const uint8_t *k__act_row(const k_acts *a, uint32_t type, int t) {
    const size_t at = (size_t)(a->idx ? a->idx[t] : t) * a->ldx;
    return k__is_bf16(type) ? (const uint8_t *)(a->h + at) : (const uint8_t *)(a->x + at);
}

/* --- scalar level --- */

static float k__lanes_ref(float *s, int n) {    /* s[n], n a power of two; destroyed */
    for (int h = n / 2; h; h >>= 1)
        for (int l = 0; l < h; l++) s[l] += s[l + h];
    return s[0];
}

/* Row w of f32 or f16 times x. */
static float k__dot_row_ref(uint32_t type, const uint8_t *w, const float *x, int n) {
    float s[16] = {0};
    for (int i = 0; i < n; i += 16) {
        const int len = n - i < 16 ? n - i : 16;
        float     a[16] = {0}, b[16] = {0};
        k_types[type].dequant(w + (size_t)i * (size_t)k_types[type].bytes, a, len);
        memcpy(b, x + i, (size_t)len * sizeof *b);
        for (int l = 0; l < 16; l++) s[l] = fmaf(a[l], b[l], s[l]);
    }
    return k__lanes_ref(s, 16);
}

/* Row w of bf16, or of f16 rounded to bf16, times x of bf16. */
static float k__dot_bf16_ref(uint32_t type, const uint8_t *w, const uint16_t *x, int n) {
    float s[16] = {0};
    for (int i = 0; i < n; i += 32) {
        const int len = n - i < 32 ? n - i : 32;
        float     a[32] = {0}, b[32] = {0};
        k_types[type].dequant(w + 2 * (size_t)i, a, len);
        k_dequant_bf16(x + i, b, len);
        for (int l = 0; l < 16; l++) s[l] = fmaf(a[2 * l], b[2 * l], fmaf(a[2 * l + 1], b[2 * l + 1], s[l]));
    }
    return k__lanes_ref(s, 16);
}

static float k_dot_ref(const float *a, const float *b, int n) { return k__dot_row_ref(K_F32, (const uint8_t *)a, b, n); }

/* y[t*ldy + r] = row r of weights of a float type times activation row t; any n >= 0. */
static void k_mul_float_ref(uint32_t type, const void *w, size_t row_bytes, int nr, int n, const k_acts *a, float *y,
                            size_t ldy) {
    for (int r = 0; r < nr; r++)
        for (int t = 0; t < a->nt; t++) {
            const uint8_t *row = (const uint8_t *)w + (size_t)r * row_bytes, *x = k__act_row(a, type, t);
            y[(size_t)t * ldy + (size_t)r] = k__is_bf16(type) ? k__dot_bf16_ref(type, row, (const uint16_t *)(const void *)x, n)
                                                              : k__dot_row_ref(type, row, (const float *)(const void *)x, n);
        }
}

/* n weights of f16 to bf16. */
static void k_f16_round_ref(const uint8_t *w, int n, uint16_t *to) {
    for (int i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, w + 2 * (size_t)i, 2);
        to[i] = k_f32_to_bf16(k_f16_to_f32(h));
    }
}

static void k_layer_norm_ref(const float *x, const float *w, const float *b, float eps, int n, float *y) {
    float s[16] = {0}, d[16] = {0};
    for (int i = 0; i < n; i++) s[i & 15] += x[i];
    const float mean = k__lanes_ref(s, 16) / (float)n;
    for (int i = 0; i < n; i++) d[i & 15] = fmaf(x[i] - mean, x[i] - mean, d[i & 15]);
    k__shift(x, w, b, mean, 1.0f / sqrtf(k__lanes_ref(d, 16) / (float)n + eps), n, y);
}

K__LOOPS_LEVEL(ref, )

static void k_add_low_ref(uint32_t type, const void *b, int rank, const float *u, int first, int n, float *y) {
    const size_t size = k__float_size(type);
    for (int i = 0; i < n; i++) {
        const size_t   r = (size_t)(first + i), tile = r / K_LOW_TILE * (size_t)rank;
        const uint8_t *at = (const uint8_t *)b + (tile * K_LOW_TILE + r % K_LOW_TILE) * size;
        for (int k = 0; k < rank; k++, at += K_LOW_TILE * size) {
            float v;
            k_types[type].dequant(at, &v, 1);
            y[i] = fmaf(u[k], v, y[i]);
        }
    }
}

/* Defines k_add_low of a level from its function for T whole tiles: rows before and after these go one by one. */
#define K__LOW_LEVEL(l, vec)                                                                                                \
    static vec void k__low_of_##l(const uint32_t type, const uint8_t *b, int rank, const float *u, int tiles, float *y) {   \
        const size_t bytes = K_LOW_TILE * (size_t)rank * k__float_size(type);                                               \
        for (; tiles >= 2; tiles -= 2, b += 2 * bytes, y += 2 * K_LOW_TILE) k__low_tiles_##l(type, 2, b, rank, u, y);       \
        if (tiles) k__low_tiles_##l(type, 1, b, rank, u, y);                                                                \
    }                                                                                                                       \
    static vec void k_add_low_##l(uint32_t type, const void *b, int rank, const float *u, int first, int n, float *y) {     \
        const int      over = first % K_LOW_TILE, lead = over ? K_LOW_TILE - over : 0, head = lead < n ? lead : n;          \
        const int      tiles = (n - head) / K_LOW_TILE, done = head + tiles * K_LOW_TILE;                                   \
        const uint8_t *at = (const uint8_t *)b + (size_t)(first + head) * (size_t)rank * k__float_size(type);               \
        if (head) k_add_low_ref(type, b, rank, u, first, head, y);                                                          \
        if (type == K_F32) k__low_of_##l(K_F32, at, rank, u, tiles, y + head);                                              \
        else k__low_of_##l(K_F16, at, rank, u, tiles, y + head);                                                            \
        if (done < n) k_add_low_ref(type, b, rank, u, first + done, n - done, y + done);                                    \
    }

/* --- Hadamard transform ---
 * The Walsh-Hadamard transform over runs of `size` values, divided by sqrt(size). It is a rotation and its own inverse: the dot
 * product of two transformed rows is that of the rows. One large value becomes `size` values of one magnitude, which
 * quantisation keeps better. Each pass takes sums and differences: of values size/2 apart, then size/4, down to neighbours. */

enum { K_HADAMARD_MAX = 256 };

K_PUBLIC int k_hadamard_size(int n) {
    const int size = n & -n;
    return size < K_HADAMARD_MAX ? size : K_HADAMARD_MAX;
}

/* Sums and differences of values half a run apart, stored side by side: the pairs of the next pass are half a run apart again. */
static void k__hadamard_pass(const float *restrict x, float *restrict y, int size) {
    for (int i = 0; i < size / 2; i++) {
        const float a = x[i], b = x[i + size / 2];
        y[2 * i] = a + b;
        y[2 * i + 1] = a - b;
    }
}

/* x[n] in place; n is a multiple of size, a power of two up to K_HADAMARD_MAX. */
static void k_hadamard_ref(float *x, int n, int size) {
    const float unit = k__hadamard_unit(size);
    for (int at = 0; at < n; at += size, x += size) {
        float  run[2][K_HADAMARD_MAX];
        float *from = x;
        for (int pass = 0; 1 << pass < size; pass++) {
            k__hadamard_pass(from, run[pass & 1], size);
            from = run[pass & 1];
        }
        for (int i = 0; i < size; i++) x[i] = from[i] * unit;
    }
}

static void k_activate_ref(k_act_fn fn, float *x, const float *up, int n) {
    for (int i = 0; i < n; i++) x[i] = up ? k__act_ref(fn, x[i]) * up[i] : k__act_ref(fn, x[i]);
}

static void k_swiglu_clip_ref(float *gate, const float *up, float limit, float alpha, int n) {
    for (int i = 0; i < n; i++) gate[i] = k__clip_ref(gate[i], up[i], limit, alpha);
}

static void k_cap_ref(float *x, float cap, int n) {
    for (int i = 0; i < n; i++) x[i] = cap * k__tanh_ref(x[i] / cap);
}

/* --- recurrent layers --- */

static void k_conv_ref(const float *const *x, const float *w, const float *bias, int taps, int n, int n_rows, bool silu,
                       float *y, size_t ldy) {
    for (int t = 0; t < n_rows; t++, x++, y += ldy)
        for (int c = 0; c < n; c++) {
            float sum = bias ? bias[c] : 0;
            for (int j = 0; j < taps; j++) sum = fmaf(w[(size_t)c * (size_t)taps + (size_t)j], x[j] ? x[j][c] : 0, sum);
            y[c] = silu ? k__act_ref(K_SILU, sum) : sum;
        }
}

/* o is computed from the state before the position, o = decay * S^T q + x (k . q): one pass over S gives both products,
 * and a pass that changes S gives those of the next position. Sums over rows of S are four interleaved ones. */

/* The parts of a position that a pass over the state uses. */
typedef struct {
    const float *q, *k, *v;
    float        decay, beta, kq;                     /* kq: k . q */
    bool         out;                                 /* o is wanted */
} k__delta_at;

typedef float k__dot_fn(const float *, const float *, int);

K__BODY k__delta_at k__delta_position(const k_delta_args *a, int p, k__dot_fn *dot) {
    const float *k = a->k + (size_t)p * a->ld_qk;
    const bool   out = p >= a->fold;
    const float *q = out ? a->q + (size_t)p * a->ld_qk : k;
    return (k__delta_at){q, k, a->v + (size_t)p * a->ld_v, a->decay[(size_t)p * a->ld_gate], a->beta[(size_t)p * a->ld_gate],
                         out ? dot(k, q, a->d_k) : 0, out};
}

/* A column of the state times a vector. */
static float k__delta_dot_ref(const float *s, size_t ld, const float *k, int d_k) {
    float sum[4] = {0};
    for (int j = 0; j < d_k; j++) sum[j & 3] = fmaf(s[(size_t)j * ld], k[j], sum[j & 3]);
    return k__lanes_ref(sum, 4);
}

/* Columns from `first` on. */
static void k__delta_from_ref(const k_delta_args *a, int first) {
    for (int p = 0; first < a->n && p < a->n_pos; p++) {
        const k__delta_at at = k__delta_position(a, p, k_dot_ref);
        for (int c = first; c < a->n; c++) {
            float      *s = a->s + c;
            const float u = k__delta_dot_ref(s, a->ld_s, at.k, a->d_k), x = at.beta * fmaf(-at.decay, u, at.v[c]);
            if (at.out)
                a->o[(size_t)(p - a->fold) * a->ld_o + (size_t)c] =
                    fmaf(x, at.kq, at.decay * k__delta_dot_ref(s, a->ld_s, at.q, a->d_k));
            if (a->peek && p == a->n_pos - 1) continue;
            for (size_t j = 0; j < (size_t)a->d_k; j++) s[j * a->ld_s] = fmaf(at.k[j], x, at.decay * s[j * a->ld_s]);
        }
    }
}

static void k_delta_ref(const k_delta_args *a) { k__delta_from_ref(a, 0); }

/* The vectors and numbers of position i. q is k where no o is wanted. */
typedef struct {
    const float *q, *p, *k, *w, *r, *v;
    float        beta, kq, rq;
    bool         out;                                 /* o is wanted */
} k__outer_at;

K__BODY k__outer_at k__outer_position(const k_outer_args *a, int i) {
    const size_t at = (size_t)i * a->ld;
    const bool   out = i >= a->fold;
    return (k__outer_at){(out ? a->q : a->k) + at, a->p ? a->p + at : NULL, a->k + at, a->w + at, a->r ? a->r + at : NULL,
                         a->v + (size_t)i * a->ld_v, a->beta[i], a->kq[i], a->rq[i], out};
}

/* Columns from `first` on. */
static void k__outer_from_ref(const k_outer_args *a, int first) {
    for (int i = 0; first < a->n && i < a->n_pos; i++) {
        const k__outer_at at = k__outer_position(a, i);
        for (int c = first; c < a->n; c++) {
            float      *s = a->s + c;
            const float u = at.p ? k__delta_dot_ref(s, a->ld_s, at.p, a->d_k) : 0, v = at.v[c],
                        x = at.beta * ((at.r ? 0 : v) - u);
            if (at.out)
                a->o[(size_t)(i - a->fold) * a->ld_o + (size_t)c] =
                    fmaf(at.rq, v, fmaf(at.kq, x, k__delta_dot_ref(s, a->ld_s, at.q, a->d_k)));
            if (a->peek && i == a->n_pos - 1) continue;
            for (size_t j = 0; j < (size_t)a->d_k; j++) {
                const float sum = fmaf(at.k[j], x, at.w[j] * s[j * a->ld_s]);
                s[j * a->ld_s] = at.r ? fmaf(at.r[j], v, sum) : sum;
            }
        }
    }
}

static void k_outer_ref(const k_outer_args *a) { k__outer_from_ref(a, 0); }

static void k_scan_ref(const k_scan_args *a) {
    for (int i = 0; i < a->n_pos; i++)
        for (int c = 0; c < a->n; c++) {
            const float *of = a->a + (size_t)c * (size_t)a->d_k, *k = a->k + (size_t)i * a->ld, *q = a->q + (size_t)i * a->ld;
            const float  dt = a->dt[(size_t)i * a->ld_v + (size_t)c], v = a->v[(size_t)i * a->ld_v + (size_t)c], x = dt * v;
            float       *s = a->s + (size_t)c * (size_t)a->d_k, sum[8] = {0};
            for (int j = 0; j < a->d_k; j++) {
                const float now = fmaf(k[j], x, k__exp_ref(dt * of[j]) * s[j]);
                if (i >= a->fold) sum[j & 7] = fmaf(now, q[j], sum[j & 7]);
                if (!a->peek || i < a->n_pos - 1) s[j] = now;
            }
            if (i >= a->fold) a->o[(size_t)(i - a->fold) * a->ld_o + (size_t)c] = fmaf(a->skip[c], v, k__lanes_ref(sum, 8));
        }
}

static float k_max_ref(const float *x, int n, int *arg) {
    float m = -INFINITY;
    for (int i = 0; i < n; i++)
        if (x[i] > m) m = x[i];
    int at = k__find(x, n, m);
    if (arg) *arg = at;
    return n > 0 && x[at] == m ? x[at] : m;     /* x[at]: m may be the zero of the other sign */
}

static void k_softmax_ref(float *x, int n) {
    float s[32] = {0}, m = k_max_ref(x, n, NULL);
    if (m == -INFINITY) m = 0;
    for (int i = 0; i < n; i++) {
        x[i] = k__exp_ref(x[i] - m);
        s[i & 31] += x[i];
    }
    k__scale_each(x, k__share_of(k__lanes_ref(s, 32)), n);
}

/* --- what the vector levels share --- */

#if defined(__clang__)
#define K__UNROLL    _Pragma("clang loop unroll(full)")
#define K__NO_UNROLL _Pragma("clang loop unroll(disable)")
#else
#define K__UNROLL    _Pragma("GCC unroll 16")
#define K__NO_UNROLL _Pragma("GCC unroll 1")
#endif

/* Calls f(fn, ...) with fn as a constant. */
#define K__BY_ACT(f, fn, ...)                              \
    switch (fn) {                                          \
    case K_SILU: f(K_SILU, __VA_ARGS__); break;            \
    case K_GELU: f(K_GELU, __VA_ARGS__); break;            \
    case K_GELU_ERF: f(K_GELU_ERF, __VA_ARGS__); break;    \
    case K_SIGMOID: f(K_SIGMOID, __VA_ARGS__); break;      \
    case K_RELU: f(K_RELU, __VA_ARGS__); break;            \
    case K_RELU2: f(K_RELU2, __VA_ARGS__); break;          \
    case K_EXP: f(K_EXP, __VA_ARGS__); break;              \
    case K_SOFTPLUS: f(K_SOFTPLUS, __VA_ARGS__); break;    \
    }

#if K__X86
/* Prefetches the bytes K__AHEAD after p, for a sequential reader: the hardware alone leaves a third of the bandwidth
 * unused. They may lie beyond the matrix; a prefetch never faults. */
enum { K__AHEAD = 6144, K__AHEAD_ONE = 8192 };
#if K__PART(3)
K__SHARED size_t g_k_ahead[2] = {K__AHEAD_ONE, K__AHEAD_ONE};     /* distances of one packed column: k__one_ahead() */
#else
extern K__SHARED size_t g_k_ahead[2];
#endif
static inline __attribute__((always_inline)) void k__fetch_ahead(const uint8_t *p, size_t bytes) {
    K__UNROLL for (size_t i = 0; i < bytes; i += 64)
        _mm_prefetch((const char *)((uintptr_t)p + K__AHEAD + i), _MM_HINT_T1);
}

/* --- avx2 level: 16 lanes are two registers; tails go through padded copies or masks --- */

#define K_VEC_AVX2 __attribute__((target("avx2,fma,f16c")))
#define K__V256 static inline __attribute__((always_inline)) K_VEC_AVX2

K__V256 __m256i k__mask_avx2(int left) {        /* lanes 0 .. left-1 */
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(left), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

K__V256 __m256 k__exp_avx2(__m256 x) {
    __m256 t = _mm256_fmadd_ps(x, _mm256_set1_ps(K_LOG2E), _mm256_set1_ps(K_ROUND)),
           n = _mm256_sub_ps(t, _mm256_set1_ps(K_ROUND));
    __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-K_LN2_LO), _mm256_fmadd_ps(n, _mm256_set1_ps(-K_LN2_HI), x));
    __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(k__exp_c[4]), r, _mm256_set1_ps(k__exp_c[3]));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(k__exp_c[2]));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(k__exp_c[1]));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(k__exp_c[0]));
    p = _mm256_add_ps(_mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r), _mm256_set1_ps(1.0f));
    p = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_castps_si256(t), 23)));
    p = _mm256_andnot_ps(_mm256_cmp_ps(x, _mm256_set1_ps(K_EXP_LO), _CMP_LT_OQ), p);
    p = _mm256_blendv_ps(p, _mm256_set1_ps(INFINITY), _mm256_cmp_ps(x, _mm256_set1_ps(K_EXP_HI), _CMP_GT_OQ));
    return _mm256_blendv_ps(p, x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

K__V256 __m256 k__tanh_avx2(__m256 x) {
    const __m256 one = _mm256_set1_ps(1.0f), two = _mm256_set1_ps(2.0f), sign = _mm256_set1_ps(-0.0f);
    __m256       z = _mm256_mul_ps(x, x), a = _mm256_andnot_ps(sign, x);
    __m256       p = _mm256_fmadd_ps(_mm256_set1_ps(k__tanh_c[4]), z, _mm256_set1_ps(k__tanh_c[3]));
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(k__tanh_c[2]));
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(k__tanh_c[1]));
    p = _mm256_fmadd_ps(p, z, _mm256_set1_ps(k__tanh_c[0]));
    p = _mm256_fmadd_ps(_mm256_mul_ps(x, z), p, x);
    __m256 big = _mm256_sub_ps(one, _mm256_div_ps(two, _mm256_add_ps(k__exp_avx2(_mm256_mul_ps(a, two)), one)));
    big = _mm256_or_ps(_mm256_andnot_ps(sign, big), _mm256_and_ps(sign, x));
    return _mm256_blendv_ps(big, p, _mm256_cmp_ps(a, _mm256_set1_ps(K_TANH_SMALL), _CMP_LT_OQ));
}

/* Lanes 32 -> 16 -> 8. */
K__V256 __m256 k__fold_avx2(const __m256 *s) {
    return _mm256_add_ps(_mm256_add_ps(s[0], s[2]), _mm256_add_ps(s[1], s[3]));
}

/* Lanes 8 -> 4 -> 2 -> 1. */
K__V256 float k__sum_avx2(__m256 h) {
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}

/* The largest of eight values without NaN. */
K__V256 float k__top_avx2(__m256 h) {
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}

/* 8 values of f32, f16 or bf16, widened. */
K__V256 __m256 k__load_avx2(const uint32_t type, const uint8_t *p) {
    if (type == K_F32) return _mm256_loadu_ps((const float *)(const void *)p);
    __m128i h = _mm_loadu_si128((const __m128i *)p);
    return type == K_F16 ? _mm256_cvtph_ps(h) : _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/* 8 values rounded as by k_f32_to_bf16, in the high halves of the lanes; the low halves are undefined. */
K__V256 __m256i k__near16_avx2(__m256 x) {
    const __m256i u = _mm256_castps_si256(x), odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i r = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(r, _mm256_or_si256(u, _mm256_set1_epi32(0x400000)), nan);
}
K__V256 __m256 k__rounded_avx2(__m256 x) {
    return _mm256_castsi256_ps(_mm256_and_si256(k__near16_avx2(x), _mm256_set1_epi32(-0x10000)));
}
/* The same as 32-bit integers. */
K__V256 __m256i k__round16_avx2(__m256 x) { return _mm256_srli_epi32(k__near16_avx2(x), 16); }

/* 16 weights or activations of bf16. */
K__V256 __m256i k__bf16_avx2(const uint32_t type, const uint8_t *p) {
    if (type == K_BF16) return _mm256_loadu_si256((const __m256i *)p);
    const __m256i a = k__round16_avx2(k__load_avx2(K_F16, p)), b = k__round16_avx2(k__load_avx2(K_F16, p + 16));
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8);
}

/* Defines k_f16_round of a level; `put` converts 32 weights at w and stores them at `to`. */
#define K__ROUND_LEVEL(l, vec, put)                                          \
    static vec void k_f16_round_##l(const uint8_t *w, int n, uint16_t *to) { \
        int i = 0;                                                           \
        for (; i + 32 <= n; i += 32, w += 64, to += 32) {                    \
            k__fetch_ahead(w, 64);                                           \
            put;                                                             \
        }                                                                    \
        k_f16_round_ref(w, n - i, to);                                       \
    }
K__ROUND_LEVEL(avx2, K_VEC_AVX2,
               for (int h = 0; h < 32; h += 16)
                   _mm256_storeu_si256((__m256i *)(void *)(to + h), k__bf16_avx2(K_F16_ROUND, w + 2 * h)))

/* Quarter h of a step of 32: values 8h to 8h + 7. Of bf16: the odd values of half h / 2 where h is even, else its even values. */
K__V256 __m256 k__part_avx2(const uint32_t type, const uint8_t *p, const int h) {
    if (!k__is_bf16(type)) return k__load_avx2(type, p + (size_t)8 * (size_t)h * k__float_size(type));
    const __m256i v = k__bf16_avx2(type, p + 32 * (h / 2));
    return _mm256_castsi256_ps(h % 2 ? _mm256_slli_epi32(v, 16) : _mm256_and_si256(v, _mm256_set1_epi32((int)0xffff0000)));
}

/* The quarter of a step that half p of the lanes adds first (i 0) and second (i 1). */
K__BODY int k__part_of(uint32_t type, int p, int i) { return k__is_bf16(type) ? 2 * p + i : p + 2 * i; }

K__V256 void k__step_avx2(const uint32_t type, const int C, const uint8_t *w, const uint8_t *const *x, size_t at,
                          __m256 (*acc)[2]) {
    const uint32_t xt = k__act_type(type);
    K__UNROLL for (int i = 0; i < 4; i++) {
        const int    h = k__part_of(type, i % 2, i / 2);
        const __m256 wv = k__part_avx2(type, w, h);
        for (int c = 0; c < C; c++) acc[c][i % 2] = _mm256_fmadd_ps(wv, k__part_avx2(xt, x[c] + at, h), acc[c][i % 2]);
    }
}

/* One row times C columns. */
K__V256 void k__row_avx2(const uint32_t type, const int C, const uint8_t *w, const uint8_t *const *x, int n, float *y,
                         size_t ldy) {
    const size_t size = k__float_size(type), x_size = k__float_size(k__act_type(type));
    __m256       acc[3][2];
    int          i = 0;
    for (int c = 0; c < C; c++) acc[c][0] = acc[c][1] = _mm256_setzero_ps();
    for (; i + 32 <= n; i += 32) {
        k__fetch_ahead(w + (size_t)i * size, 32 * size);
        k__step_avx2(type, C, w + (size_t)i * size, x, (size_t)i * x_size, acc);
    }
    if (i < n) {
        uint8_t        wp[32 * sizeof(float)] = {0}, xp[3][32 * sizeof(float)] = {{0}};
        const uint8_t *xs[3];
        memcpy(wp, w + (size_t)i * size, (size_t)(n - i) * size);
        for (int c = 0; c < C; c++) {
            memcpy(xp[c], x[c] + (size_t)i * x_size, (size_t)(n - i) * x_size);
            xs[c] = xp[c];
        }
        k__step_avx2(type, C, wp, xs, 0, acc);
    }
    for (int c = 0; c < C; c++) y[(size_t)c * ldy] = k__sum_avx2(_mm256_add_ps(acc[c][0], acc[c][1]));
}

K__V256 void k__cols_avx2(const uint32_t type, int n_cols, const uint8_t *w, const uint8_t *const *x, int n, float *y,
                          size_t ldy) {
    if (n_cols == 1) k__row_avx2(type, 1, w, x, n, y, ldy);
    else if (n_cols == 2) k__row_avx2(type, 2, w, x, n, y, ldy);
    else k__row_avx2(type, 3, w, x, n, y, ldy);
}

/* Many columns. Up to K__WIDE_GROUPS times four rows are widened once for up to K__WIDE_COLS columns, a span of k at a time. The
 * widened rows stay in the L2 cache. A tile of 4 x 3 holds half of the lanes in registers, so it is done in
 * two turns, and in runs of k whose columns stay in L1. The second turn of the last run adds the halves. */
enum { K__WIDE_ROWS = 4, K__WIDE_GROUPS = 4, K__WIDE_MOST = 32, K__WIDE_COLS = 96 };
enum { K__WIDE_SPAN_AVX2 = 3072, K__WIDE_RUN_AVX2 = 1024, K__WIDE_TILE_AVX2 = 3 };

typedef struct {
    float  w[K__WIDE_GROUPS][2][K__WIDE_SPAN_AVX2 / 32][2][K__WIDE_ROWS][8]; /* [group][half of the lanes][step][its part] */
    __m256 tile[K__WIDE_GROUPS][2][K__WIDE_TILE_AVX2][K__WIDE_ROWS];         /* lanes between runs */
    __m256 acc[K__WIDE_GROUPS][2][K__WIDE_COLS][K__WIDE_ROWS];               /* the same where a row has several spans */
} k__wide256;

/* Steps of 32 in the next piece of n from k on: pieces have equal length as far as possible, `most` at most. */
static int k__wide_steps(int k, int n, int most) {
    const int pieces = (n + most - 1) / most, steps = (n / 32 + pieces - 1) / pieces;
    return steps * 32 < n - k ? steps : (n - k) / 32;
}

/* One run of a tile: x[c] from byte `at`, the widened rows from step `from`. */
typedef struct {
    const uint8_t *const *x;
    size_t                at;
    int                   from, steps;
    bool                  fresh, last;                              /* lanes are 0 before; sums go to y[c * ldy + row] */
    /* lanes of half p of group g: from column (2 * g + p) * n_acc on */
    __m256              (*acc)[K__WIDE_ROWS];
    size_t                n_acc;
    float                *y;
    size_t                ldy;
} k__wide256_at;

/* k__sum_avx2 of four rows at once; a and b are the halves of their lanes. */
K__V256 void k__sum_rows_avx2(const __m256 *a, const __m256 *b, float *y) {
    __m128 q[4], pair[2];
    K__UNROLL for (int r = 0; r < 4; r++) {
        const __m256 h = _mm256_add_ps(a[r], b[r]);
        q[r] = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    }
    K__UNROLL for (int i = 0; i < 2; i++)
        pair[i] = _mm_add_ps(_mm_movelh_ps(q[2 * i], q[2 * i + 1]), _mm_movehl_ps(q[2 * i + 1], q[2 * i]));
    _mm_storeu_ps(y, _mm_add_ps(_mm_shuffle_ps(pair[0], pair[1], 0x88), _mm_shuffle_ps(pair[0], pair[1], 0xdd)));
}

/* Half p of the lanes, all groups. */
K__V256 void k__wide_turn_avx2(const int C, const uint32_t type, const int p, const k__wide256 *v, int groups,
                               const k__wide256_at *t) {
    const uint32_t xt = k__act_type(type);
    for (int g = 0; g < groups; g++) {
        __m256(*const acc)[K__WIDE_ROWS] = t->acc + (size_t)(2 * g + p) * t->n_acc;
        __m256 s[K__WIDE_TILE_AVX2][K__WIDE_ROWS];
        size_t at = t->at;
        K__UNROLL for (int c = 0; c < C; c++)
            K__UNROLL for (int r = 0; r < K__WIDE_ROWS; r++) s[c][r] = t->fresh ? _mm256_setzero_ps() : acc[c][r];
        for (int i = t->from; i < t->from + t->steps; i++, at += 32 * k__float_size(xt))
            K__UNROLL for (int j = 0; j < 2; j++) {
                __m256 xv[K__WIDE_TILE_AVX2];
                K__UNROLL for (int c = 0; c < C; c++) xv[c] = k__part_avx2(xt, t->x[c] + at, k__part_of(type, p, j));
                K__UNROLL for (int r = 0; r < K__WIDE_ROWS; r++) {
                    const __m256 wv = _mm256_load_ps(v->w[g][p][i][j][r]);
                    K__UNROLL for (int c = 0; c < C; c++) s[c][r] = _mm256_fmadd_ps(wv, xv[c], s[c][r]);
                }
            }
        K__UNROLL for (int c = 0; c < C; c++)
            if (p && t->last) k__sum_rows_avx2((acc - t->n_acc)[c], s[c], t->y + (size_t)c * t->ldy + g * K__WIDE_ROWS);
            else K__UNROLL for (int r = 0; r < K__WIDE_ROWS; r++) acc[c][r] = s[c][r];
    }
}

K__V256 void k__wide_cols_avx2(const int C, const uint32_t type, const k__wide256 *v, int groups, const k__wide256_at *t) {
    k__wide_turn_avx2(C, type, 0, v, groups, t);
    k__wide_turn_avx2(C, type, 1, v, groups, t);
}

/* A span of group g. Its four rows are read side by side, so that each line of v->w is written once; the four after them are
 * prefetched, since the hardware does not follow several short streams. */
K__V256 void k__widen_rows_avx2(const uint32_t type, const uint8_t *w, size_t row_bytes, int steps, k__wide256 *v, int g) {
    for (int i = 0; i < steps; i++, w += 32 * k__float_size(type)) {
        K__UNROLL for (size_t r = 0; r < K__WIDE_ROWS; r++)
            K__UNROLL for (size_t at = 0; at < 32 * k__float_size(type); at += 64)
                _mm_prefetch((const char *)((uintptr_t)w + (r + K__WIDE_ROWS) * row_bytes + at), _MM_HINT_T1);
        K__UNROLL for (int j = 0; j < 4; j++)
            K__UNROLL for (int r = 0; r < K__WIDE_ROWS; r++)
                _mm256_store_ps(v->w[g][j % 2][i][j / 2][r],
                                k__part_avx2(type, w + (size_t)r * row_bytes, k__part_of(type, j % 2, j / 2)));
    }
}

/* 4 * groups rows of n weights, n % 32 == 0, times up to K__WIDE_COLS columns. */
K__V256 void k__wide_rows_avx2(const uint32_t type, const uint8_t *w, size_t row_bytes, int groups, const uint8_t *const *x,
                               int n_cols, int n, float *y, size_t ldy) {
    const size_t size = k__float_size(type), x_size = k__float_size(k__act_type(type));
    k__wide256   v;
    for (int k = 0, steps, run; k < n; k += 32 * steps) {
        steps = k__wide_steps(k, n, K__WIDE_SPAN_AVX2);
        const bool whole = 32 * steps == n;
        for (int g = 0; g < groups; g++)
            k__widen_rows_avx2(type, w + (size_t)(g * K__WIDE_ROWS) * row_bytes + (size_t)k * size, row_bytes, steps, &v, g);
        for (int c = 0; c < n_cols; c += K__WIDE_TILE_AVX2)
            for (int i = 0; i < steps; i += run) {
                run = k__wide_steps(32 * i, 32 * steps, K__WIDE_RUN_AVX2);
                const k__wide256_at t = {.x = x + c, .at = (size_t)(k + 32 * i) * x_size, .from = i, .steps = run,
                                         .fresh = k + i == 0, .last = k + 32 * (i + run) == n,
                                         .acc = whole ? v.tile[0][0] : v.acc[0][0] + c,
                                         .n_acc = whole ? K__WIDE_TILE_AVX2 : K__WIDE_COLS,
                                         .y = y + (size_t)c * ldy, .ldy = ldy};
                if (n_cols - c >= 3) k__wide_cols_avx2(3, type, &v, groups, &t);
                else if (n_cols - c == 2) k__wide_cols_avx2(2, type, &v, groups, &t);
                else k__wide_cols_avx2(1, type, &v, groups, &t);
            }
    }
}

/* How a level multiplies float rows. */
typedef struct {
    /* one row times up to `few` columns */
    void (*few_cols)(uint32_t type, int n_cols, const uint8_t *w, const uint8_t *const *x, int n, float *y, size_t ldy);
    /* K__WIDE_ROWS * groups rows times up to K__WIDE_COLS columns, n % 32 == 0 */
    void (*wide_rows)(uint32_t type, const uint8_t *w, size_t row_bytes, int groups, const uint8_t *const *x, int n_cols,
                      int n, float *y, size_t ldy);
    int  few;
    size_t l2;                                        /* bytes of rows at a time, up to K__WIDE_MOST groups; 0: K__WIDE_GROUPS */
} k__float_level;

/* Up to four columns, the rows that do not fill a group, and rows with an incomplete step are read row by row: one sequential
 * stream. */
static void k__mul_float(const k__float_level *lv, uint32_t type, const uint8_t *w, size_t row_bytes, int nr, int n,
                         const k_acts *a, float *y, size_t ldy) {
    const int      wide = a->nt <= 4 || n % 32 ? 0 : nr - nr % K__WIDE_ROWS;
    const size_t   fit = row_bytes ? lv->l2 / (K__WIDE_ROWS * row_bytes) : 0;
    const int      most = fit <= K__WIDE_GROUPS ? K__WIDE_GROUPS : fit < K__WIDE_MOST ? (int)fit : K__WIDE_MOST;
    const uint8_t *x[K__WIDE_COLS];
    for (int t = 0, cols; wide && t < a->nt; t += cols) {
        cols = a->nt - t < K__WIDE_COLS ? a->nt - t : K__WIDE_COLS;
        for (int c = 0; c < cols; c++) x[c] = k__act_row(a, type, t + c);
        for (int r = 0, groups; r < wide; r += groups * K__WIDE_ROWS) {
            groups = (wide - r) / K__WIDE_ROWS < most ? (wide - r) / K__WIDE_ROWS : most;
            lv->wide_rows(type, w + (size_t)r * row_bytes, row_bytes, groups, x, cols, n, y + (size_t)t * ldy + r, ldy);
        }
    }
    for (int r = wide; r < nr; r++)
        for (int t = 0, cols; t < a->nt; t += cols) {
            cols = a->nt - t < lv->few ? a->nt - t : lv->few;
            for (int c = 0; c < cols; c++) x[c] = k__act_row(a, type, t + c);
            lv->few_cols(type, cols, w + (size_t)r * row_bytes, x, n, y + (size_t)t * ldy + r, ldy);
        }
}

/* Defines the two functions of a level; the type is a constant inside their loops. */
#define K__FLOAT_LEVEL(l, vec, few, l2)                                                                                     \
    static vec void k__float_few_##l(uint32_t type, int n_cols, const uint8_t *w, const uint8_t *const *x, int n, float *y, \
                                     size_t ldy) {                                                                          \
        if (type == K_F32) k__cols_##l(K_F32, n_cols, w, x, n, y, ldy);                                                     \
        else if (type == K_F16) k__cols_##l(K_F16, n_cols, w, x, n, y, ldy);                                                \
        else if (type == K_BF16) k__cols_##l(K_BF16, n_cols, w, x, n, y, ldy);                                              \
        else k__cols_##l(K_F16_ROUND, n_cols, w, x, n, y, ldy);                                                             \
    }                                                                                                                       \
    static vec void k__float_wide_##l(uint32_t type, const uint8_t *w, size_t row_bytes, int groups,                        \
                                      const uint8_t *const *x, int n_cols, int n, float *y, size_t ldy) {                   \
        if (type == K_F32) k__wide_rows_##l(K_F32, w, row_bytes, groups, x, n_cols, n, y, ldy);                             \
        else if (type == K_F16) k__wide_rows_##l(K_F16, w, row_bytes, groups, x, n_cols, n, y, ldy);                        \
        else if (type == K_BF16) k__wide_rows_##l(K_BF16, w, row_bytes, groups, x, n_cols, n, y, ldy);                      \
        else k__wide_rows_##l(K_F16_ROUND, w, row_bytes, groups, x, n_cols, n, y, ldy);                                     \
    }                                                                                                                       \
    static void k_mul_float_##l(uint32_t type, const void *w, size_t row_bytes, int nr, int n, const k_acts *a, float *y,   \
                                size_t ldy) {                                                                               \
        static const k__float_level lv = {k__float_few_##l, k__float_wide_##l, few, l2};                                    \
        k__mul_float(&lv, type, w, row_bytes, nr, n, a, y, ldy);                                                            \
    }
K__FLOAT_LEVEL(avx2, K_VEC_AVX2, 3, 0)

static K_VEC_AVX2 float k_dot_avx2(const float *a, const float *b, int n) {
    float y;
    k__row_avx2(K_F32, 1, (const uint8_t *)a, &(const uint8_t *){(const uint8_t *)b}, n, &y, 0);
    return y;
}

K__LOOPS_LEVEL(avx2, K_VEC_AVX2)

/* y [T * K_LOW_TILE] += T tiles times u. */
K__V256 void k__low_tiles_avx2(const uint32_t type, const int T, const uint8_t *b, int rank, const float *u, float *y) {
    enum { V = K_LOW_TILE / 8 };
    const size_t size = k__float_size(type), tile = K_LOW_TILE * size * (size_t)rank;
    __m256       s[2 * V];
    for (int i = 0; i < T * V; i++) s[i] = _mm256_loadu_ps(y + 8 * i);
    for (int k = 0; k < rank; k++, b += K_LOW_TILE * size) {
        const __m256 by = _mm256_set1_ps(u[k]);
        for (int i = 0; i < T * V; i++)
            s[i] = _mm256_fmadd_ps(by, k__load_avx2(type, b + (size_t)(i / V) * tile + 8 * (size_t)(i % V) * size), s[i]);
    }
    for (int i = 0; i < T * V; i++) _mm256_storeu_ps(y + 8 * i, s[i]);
}
K__LOW_LEVEL(avx2, K_VEC_AVX2)

static K_VEC_AVX2 void k_layer_norm_avx2(const float *x, const float *w, const float *b, float eps, int n, float *y) {
    __m256 s[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()}, d[2] = {s[0], s[0]};
    for (int i = 0; i < n; i += 16)
        for (int h = 0; h < 2; h++) s[h] = _mm256_add_ps(s[h], _mm256_maskload_ps(x + i + 8 * h, k__mask_avx2(n - i - 8 * h)));
    const float mean = k__sum_avx2(_mm256_add_ps(s[0], s[1])) / (float)n;
    for (int i = 0; i < n; i += 16)
        for (int h = 0; h < 2; h++) {
            const __m256i m = k__mask_avx2(n - i - 8 * h);
            const __m256  v = _mm256_sub_ps(_mm256_maskload_ps(x + i + 8 * h, m), _mm256_set1_ps(mean)),
                         z = _mm256_and_ps(v, _mm256_castsi256_ps(m));
            d[h] = _mm256_fmadd_ps(z, z, d[h]);
        }
    k__shift(x, w, b, mean, 1.0f / sqrtf(k__sum_avx2(_mm256_add_ps(d[0], d[1])) / (float)n + eps), n, y);
}

static K_VEC_AVX2 void k_hadamard_avx2(float *x, int n, int size) {
    const __m256 unit = _mm256_set1_ps(k__hadamard_unit(size));
    if (size < 8) {
        k_hadamard_ref(x, n, size);
        return;
    }
    for (int h = size / 2; h >= 8; h /= 2)
        for (int i = 0; i < n; i += 2 * h)
            for (int j = i; j < i + h; j += 8) {
                __m256 a = _mm256_loadu_ps(x + j), b = _mm256_loadu_ps(x + j + h);
                _mm256_storeu_ps(x + j, _mm256_add_ps(a, b));
                _mm256_storeu_ps(x + j + h, _mm256_sub_ps(a, b));
            }
    for (int i = 0; i < n; i += 8) {                  /* p: the lanes in reverse order; the blend takes the upper ones of p - v */
        __m256 v = _mm256_loadu_ps(x + i), p = _mm256_permute2f128_ps(v, v, 0x01);
        v = _mm256_blend_ps(_mm256_add_ps(p, v), _mm256_sub_ps(p, v), 0xf0);
        p = _mm256_permute_ps(v, 0x4e);
        v = _mm256_blend_ps(_mm256_add_ps(p, v), _mm256_sub_ps(p, v), 0xcc);
        p = _mm256_permute_ps(v, 0xb1);
        v = _mm256_blend_ps(_mm256_add_ps(p, v), _mm256_sub_ps(p, v), 0xaa);
        _mm256_storeu_ps(x + i, _mm256_mul_ps(v, unit));
    }
}

K__V256 __m256 k__poly_avx2(const float *c, const int n, __m256 x) {
    __m256 p = _mm256_set1_ps(c[n - 1]);
    K__UNROLL for (int i = n - 2; i >= 0; i--) p = _mm256_fmadd_ps(p, x, _mm256_set1_ps(c[i]));
    return p;
}

K__V256 __m256 k__minus_avx2(__m256 x) { return _mm256_xor_ps(x, _mm256_set1_ps(-0.0f)); }

/* 1 + exp(x) */
K__V256 __m256 k__exp1_avx2(__m256 x) { return _mm256_add_ps(_mm256_set1_ps(1.0f), k__exp_avx2(x)); }

K__V256 __m256 k__phi_avx2(__m256 x) {
    const __m256 one = _mm256_set1_ps(1.0f), half = _mm256_set1_ps(-0.5f);
    const __m256 a = _mm256_min_ps(_mm256_set1_ps(K_PHI_FAR), _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x)),
                 z = _mm256_mul_ps(a, a);
    const __m256 lost = _mm256_fmsub_ps(a, a, z), e = k__exp_avx2(_mm256_mul_ps(half, z));
    const __m256 t = _mm256_div_ps(one, _mm256_fmadd_ps(_mm256_set1_ps(0.3f), a, one));
    const __m256 tail = _mm256_mul_ps(_mm256_fmadd_ps(e, _mm256_mul_ps(half, lost), e), k__poly_avx2(k__tail_c, 9, t));
    const __m256 small = _mm256_fmadd_ps(x, k__poly_avx2(k__phi_c, 6, z), _mm256_set1_ps(0.5f));
    const __m256 far = _mm256_blendv_ps(tail, _mm256_sub_ps(one, tail), _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_GT_OQ));
    return _mm256_blendv_ps(far, small, _mm256_cmp_ps(a, _mm256_set1_ps(K_PHI_SMALL), _CMP_LT_OQ));
}

K__V256 __m256 k__softplus_avx2(__m256 x) {
    const __m256 two = _mm256_set1_ps(2.0f), e = k__exp_avx2(_mm256_or_ps(_mm256_set1_ps(-0.0f), x)), by = _mm256_add_ps(two, e),
                 s = _mm256_div_ps(e, by), z = _mm256_mul_ps(s, s);
    const __m256 log = _mm256_mul_ps(e, _mm256_div_ps(_mm256_fmadd_ps(z, k__poly_avx2(k__log_c, 5, z), two), by));
    return _mm256_blendv_ps(log, _mm256_add_ps(x, log), _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_GT_OQ));
}

K__V256 __m256 k__act_avx2(const k_act_fn fn, __m256 x) {
    const __m256 relu = _mm256_max_ps(_mm256_setzero_ps(), x),
                 inner = _mm256_fmadd_ps(_mm256_mul_ps(x, x), _mm256_set1_ps(K_GELU_3), _mm256_set1_ps(K_GELU_1));
    switch (fn) {
    case K_SILU: return _mm256_div_ps(x, k__exp1_avx2(k__minus_avx2(x)));
    case K_GELU: return _mm256_div_ps(x, k__exp1_avx2(_mm256_mul_ps(k__minus_avx2(x), inner)));
    case K_GELU_ERF: return _mm256_mul_ps(x, k__phi_avx2(x));
    case K_SIGMOID: return _mm256_div_ps(_mm256_set1_ps(1.0f), k__exp1_avx2(k__minus_avx2(x)));
    case K_RELU: return relu;
    case K_RELU2: return _mm256_mul_ps(relu, relu);
    case K_EXP: return k__exp_avx2(x);
    case K_SOFTPLUS: return k__softplus_avx2(x);
    }
    return x;
}

K__V256 void k__put_avx2(float *y, __m256i m, int left, __m256 v) {
    if (left >= 8) _mm256_storeu_ps(y, v);
    else _mm256_maskstore_ps(y, m, v);
}

K__V256 void k__apply_avx2(const k_act_fn fn, float *x, const float *up, int n) {
    for (int i = 0; i < n; i += 8) {
        const __m256i m = k__mask_avx2(n - i);
        const __m256  v = k__act_avx2(fn, _mm256_maskload_ps(x + i, m));
        k__put_avx2(x + i, m, n - i, up ? _mm256_mul_ps(v, _mm256_maskload_ps(up + i, m)) : v);
    }
}

static K_VEC_AVX2 void k_activate_avx2(k_act_fn fn, float *x, const float *up, int n) { K__BY_ACT(k__apply_avx2, fn, x, up, n) }

/* min_ps and max_ps return their second operand where one is NaN. */
static K_VEC_AVX2 void k_swiglu_clip_avx2(float *gate, const float *up, float limit, float alpha, int n) {
    const __m256 top = _mm256_set1_ps(limit), low = _mm256_set1_ps(-limit);
    for (int i = 0; i < n; i += 8) {
        const __m256i m = k__mask_avx2(n - i);
        const __m256  g = _mm256_min_ps(top, _mm256_maskload_ps(gate + i, m));
        const __m256  u = _mm256_max_ps(low, _mm256_min_ps(top, _mm256_maskload_ps(up + i, m)));
        const __m256  v = _mm256_div_ps(g, k__exp1_avx2(_mm256_mul_ps(_mm256_set1_ps(-alpha), g)));
        k__put_avx2(gate + i, m, n - i, _mm256_mul_ps(v, _mm256_add_ps(u, _mm256_set1_ps(1.0f))));
    }
}

static K_VEC_AVX2 void k_cap_avx2(float *x, float cap, int n) {
    const __m256 c = _mm256_set1_ps(cap);
    for (int i = 0; i < n; i += 8) {
        const __m256i m = k__mask_avx2(n - i);
        k__put_avx2(x + i, m, n - i, _mm256_mul_ps(c, k__tanh_avx2(_mm256_div_ps(_mm256_maskload_ps(x + i, m), c))));
    }
}

/* Eight channels at a time, whose filters are transposed once for all rows. */
static K_VEC_AVX2 void k_conv_avx2(const float *const *x, const float *w, const float *bias, int taps, int n, int n_rows,
                                   bool silu, float *y, size_t ldy) {
    const __m256i at = _mm256_mullo_epi32(_mm256_set1_epi32(taps), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    const __m256  zero = _mm256_setzero_ps();
    for (int c = 0; c < n; c += 8) {
        const __m256i m = k__mask_avx2(n - c);
        const __m256  base = bias ? _mm256_maskload_ps(bias + c, m) : zero;
        __m256        filter[K_CONV_TAPS];
        for (int j = 0; j < taps; j++)
            filter[j] = _mm256_mask_i32gather_ps(zero, w + (size_t)c * (size_t)taps + (size_t)j, at, _mm256_castsi256_ps(m), 4);
        for (int t = 0; t < n_rows; t++) {
            __m256 sum = base;
            for (int j = 0; j < taps; j++)
                sum = _mm256_fmadd_ps(filter[j], x[t + j] ? _mm256_maskload_ps(x[t + j] + c, m) : zero, sum);
            k__put_avx2(y + (size_t)t * ldy + c, m, n - c, silu ? k__act_avx2(K_SILU, sum) : sum);
        }
    }
}

/* Rows [j, j + 4) of eight columns: changes them by x where `change`,
 * then adds their products with k and q of `next` to u and w. */
K__V256 void k__delta_rows_avx2(const bool change, const bool dots, const bool whole, float *s, size_t ld, int j, int d_k,
                                const k__delta_at *at, __m256 x, const k__delta_at *next, __m256 *u, __m256 *w) {
    K__UNROLL for (int i = 0; i < 4; i++) {
        if (!whole && j + i >= d_k) break;
        float *row = s + (size_t)(j + i) * ld;
        __m256 v = _mm256_loadu_ps(row);
        if (change) {
            v = _mm256_fmadd_ps(_mm256_broadcast_ss(at->k + j + i), x, _mm256_mul_ps(_mm256_set1_ps(at->decay), v));
            _mm256_storeu_ps(row, v);
        }
        if (!dots) continue;
        u[i] = _mm256_fmadd_ps(v, _mm256_broadcast_ss(next->k + j + i), u[i]);
        w[i] = _mm256_fmadd_ps(v, _mm256_broadcast_ss(next->q + j + i), w[i]);
    }
}

/* A pass over eight columns: u and w become S^T k and S^T q. */
K__V256 void k__delta_pass_avx2(const bool change, const bool dots, float *s, size_t ld, int d_k, const k__delta_at *at, __m256 x,
                                const k__delta_at *next, __m256 *u, __m256 *w) {
    __m256 su[4], sw[4];
    int    j = 0;
    K__UNROLL for (int i = 0; i < 4; i++) su[i] = sw[i] = _mm256_setzero_ps();
    for (; j + 4 <= d_k; j += 4) k__delta_rows_avx2(change, dots, true, s, ld, j, d_k, at, x, next, su, sw);
    if (j < d_k) k__delta_rows_avx2(change, dots, false, s, ld, j, d_k, at, x, next, su, sw);
    *u = k__fold_avx2(su), *w = k__fold_avx2(sw);
}

/* 8 * H columns, H <= 4: the passes of one position do not wait for each other. */
static K_VEC_AVX2 void k__delta_strip_avx2(const k_delta_args *a, int c, int H) {
    k__delta_at at = k__delta_position(a, 0, k_dot_avx2);
    float      *s = a->s + c;
    __m256      x = _mm256_setzero_ps(), u[4], w[4];
    for (int h = 0; h < H; h++) k__delta_pass_avx2(false, true, s + 8 * h, a->ld_s, a->d_k, NULL, x, &at, &u[h], &w[h]);
    for (int p = 0; p < a->n_pos; p++) {
        const k__delta_at now = at;
        const __m256      decay = _mm256_set1_ps(now.decay);
        const bool        last = p == a->n_pos - 1;
        if (!last) at = k__delta_position(a, p + 1, k_dot_avx2);
        for (int h = 0; h < H; h++) {
            x = _mm256_mul_ps(_mm256_set1_ps(now.beta), _mm256_fnmadd_ps(decay, u[h], _mm256_loadu_ps(now.v + c + 8 * h)));
            if (now.out)
                _mm256_storeu_ps(a->o + (size_t)(p - a->fold) * a->ld_o + c + 8 * h,
                                 _mm256_fmadd_ps(x, _mm256_set1_ps(now.kq), _mm256_mul_ps(decay, w[h])));
            if (!last) k__delta_pass_avx2(true, true, s + 8 * h, a->ld_s, a->d_k, &now, x, &at, &u[h], &w[h]);
            else if (!a->peek) k__delta_pass_avx2(true, false, s + 8 * h, a->ld_s, a->d_k, &now, x, NULL, &u[h], &w[h]);
        }
    }
}

/* Columns from c on. */
static void k__delta_from_avx2(const k_delta_args *a, int c) {
    for (int H; (H = (a->n - c) / 8) > 0; c += 8 * H) {
        H = H < 4 ? H : 4;
        k__delta_strip_avx2(a, c, H);
    }
    k__delta_from_ref(a, c);
}

static void k_delta_avx2(const k_delta_args *a) { k__delta_from_avx2(a, 0); }

/* Rows [j, j + 4) of 8 * H columns, H <= 2: their products with q are added to w; where `change` they become those of the next
 * position, written with x. */
K__V256 void k__outer_rows_avx2(const bool change, const bool whole, const int H, float *s, size_t ld, int j, int d_k,
                                const k__outer_at *at, const __m256 *x, __m256 (*w)[2]) {
    K__UNROLL for (int i = 0; i < 4; i++) {
        if (!whole && j + i >= d_k) break;
        float       *row = s + (size_t)(j + i) * ld;
        const __m256 q = _mm256_broadcast_ss(at->q + j + i), k = _mm256_broadcast_ss(at->k + j + i),
                     fall = _mm256_broadcast_ss(at->w + j + i);
        K__UNROLL for (int h = 0; h < 2; h++) {
            if (h >= H) break;
            const __m256 y = _mm256_loadu_ps(row + 8 * h);
            w[i][h] = _mm256_fmadd_ps(y, q, w[i][h]);
            if (change) _mm256_storeu_ps(row + 8 * h, _mm256_fmadd_ps(k, x[h], _mm256_mul_ps(fall, y)));
        }
    }
}

/* One position of 8 * H columns without a correction: the state's products with q, *w, and where `change` its next value. */
K__V256 void k__outer_pass_avx2(const bool change, const int H, float *s, size_t ld, int d_k, const k__outer_at *at,
                                const __m256 *x, __m256 *w) {
    __m256 sum[4][2];
    int    j = 0;
    K__UNROLL for (int i = 0; i < 4; i++)
        K__UNROLL for (int h = 0; h < 2; h++) sum[i][h] = _mm256_setzero_ps();
    for (; j + 4 <= d_k; j += 4) k__outer_rows_avx2(change, true, H, s, ld, j, d_k, at, x, sum);
    if (j < d_k) k__outer_rows_avx2(change, false, H, s, ld, j, d_k, at, x, sum);
    K__UNROLL for (int h = 0; h < 2; h++)
        w[h] = _mm256_add_ps(_mm256_add_ps(sum[0][h], sum[2][h]), _mm256_add_ps(sum[1][h], sum[3][h]));
}

/* What position i gives of eight columns from c on, from the state's products with q, w. */
K__V256 void k__outer_give_avx2(const k_outer_args *a, int c, int i, const k__outer_at *at, __m256 x, __m256 w) {
    if (!at->out) return;
    w = _mm256_fmadd_ps(_mm256_set1_ps(at->kq), x, w);
    _mm256_storeu_ps(a->o + (size_t)(i - a->fold) * a->ld_o + c,
                     _mm256_fmadd_ps(_mm256_set1_ps(at->rq), _mm256_loadu_ps(at->v + c), w));
}

/* 8 * H columns go through all positions without a correction. */
K__V256 void k__outer_strip_avx2(const int H, const k_outer_args *a, int c) {
    for (int i = 0; i < a->n_pos; i++) {
        const k__outer_at at = k__outer_position(a, i);
        __m256            x[2], w[2];
        K__UNROLL for (int h = 0; h < 2; h++)
            x[h] = h < H ? _mm256_mul_ps(_mm256_set1_ps(at.beta), _mm256_loadu_ps(at.v + c + 8 * h)) : _mm256_setzero_ps();
        if (a->peek && i == a->n_pos - 1) k__outer_pass_avx2(false, H, a->s + c, a->ld_s, a->d_k, &at, x, w);
        else k__outer_pass_avx2(true, H, a->s + c, a->ld_s, a->d_k, &at, x, w);
        K__UNROLL for (int h = 0; h < 2; h++)
            if (h < H) k__outer_give_avx2(a, c + 8 * h, i, &at, x[h], w[h]);
    }
}

/* Rows [j, j + 4) of eight columns: written to with x and, with r, v at the position `at` where `change`; then their products
 * with p and q of `next` are added to u and w. */
K__V256 void k__fix_rows_avx2(const bool change, const bool second, const bool dots, const bool whole, float *s, size_t ld, int j,
                              int d_k, const k__outer_at *at, __m256 x, __m256 v, const k__outer_at *next, __m256 *u, __m256 *w) {
    K__UNROLL for (int i = 0; i < 4; i++) {
        if (!whole && j + i >= d_k) break;
        float *row = s + (size_t)(j + i) * ld;
        __m256 y = _mm256_loadu_ps(row);
        if (change) {
            y = _mm256_fmadd_ps(_mm256_broadcast_ss(at->k + j + i), x, _mm256_mul_ps(_mm256_broadcast_ss(at->w + j + i), y));
            if (second) y = _mm256_fmadd_ps(_mm256_broadcast_ss(at->r + j + i), v, y);
            _mm256_storeu_ps(row, y);
        }
        if (!dots) continue;
        u[i] = _mm256_fmadd_ps(y, _mm256_broadcast_ss(next->p + j + i), u[i]);
        w[i] = _mm256_fmadd_ps(y, _mm256_broadcast_ss(next->q + j + i), w[i]);
    }
}

/* A pass over eight columns: u and w become S^T p and S^T q of the next position. */
K__V256 void k__fix_pass_avx2(const bool change, const bool second, const bool dots, float *s, size_t ld, int d_k,
                              const k__outer_at *at, __m256 x, __m256 v, const k__outer_at *next, __m256 *u, __m256 *w) {
    __m256 su[4], sw[4];
    int    j = 0;
    K__UNROLL for (int i = 0; i < 4; i++) su[i] = sw[i] = _mm256_setzero_ps();
    for (; j + 4 <= d_k; j += 4) k__fix_rows_avx2(change, second, dots, true, s, ld, j, d_k, at, x, v, next, su, sw);
    if (j < d_k) k__fix_rows_avx2(change, second, dots, false, s, ld, j, d_k, at, x, v, next, su, sw);
    *u = k__fold_avx2(su), *w = k__fold_avx2(sw);
}

/* 8 * H columns, H <= 4, go through all positions with a correction. A pass that changes the state gives the products of the
 * next position; the passes of one position do not wait for each other. */
K__V256 void k__fix_strip_avx2(const bool second, const k_outer_args *a, int c, int H) {
    k__outer_at at = k__outer_position(a, 0);
    float      *s = a->s + c;
    __m256      x = _mm256_setzero_ps(), v = x, u[4], w[4];
    for (int h = 0; h < H; h++)
        k__fix_pass_avx2(false, second, true, s + 8 * h, a->ld_s, a->d_k, NULL, x, v, &at, &u[h], &w[h]);
    for (int i = 0; i < a->n_pos; i++) {
        const k__outer_at now = at;
        const bool        last = i == a->n_pos - 1;
        if (!last) at = k__outer_position(a, i + 1);
        for (int h = 0; h < H; h++) {
            v = _mm256_loadu_ps(now.v + c + 8 * h);
            x = _mm256_mul_ps(_mm256_set1_ps(now.beta), _mm256_sub_ps(second ? _mm256_setzero_ps() : v, u[h]));
            k__outer_give_avx2(a, c + 8 * h, i, &now, x, w[h]);
            if (!last) k__fix_pass_avx2(true, second, true, s + 8 * h, a->ld_s, a->d_k, &now, x, v, &at, &u[h], &w[h]);
            else if (!a->peek) k__fix_pass_avx2(true, second, false, s + 8 * h, a->ld_s, a->d_k, &now, x, v, NULL, &u[h], &w[h]);
        }
    }
}

/* Columns from c on. */
static K_VEC_AVX2 void k__outer_from_avx2(const k_outer_args *a, int c) {
    for (; !a->p && c + 16 <= a->n; c += 16) k__outer_strip_avx2(2, a, c);
    for (; !a->p && c + 8 <= a->n; c += 8) k__outer_strip_avx2(1, a, c);
    for (int H; (H = (a->n - c) / 8) > 0; c += 8 * H) {
        H = H < 4 ? H : 4;
        if (a->r) k__fix_strip_avx2(true, a, c, H);
        else k__fix_strip_avx2(false, a, c, H);
    }
    k__outer_from_ref(a, c);
}

static void k_outer_avx2(const k_outer_args *a) { k__outer_from_avx2(a, 0); }

static K_VEC_AVX2 void k_scan_avx2(const k_scan_args *a) {
    const size_t d_k = (size_t)a->d_k;
    for (int i = 0; i < a->n_pos; i++) {
        const float *k = a->k + (size_t)i * a->ld, *q = (i < a->fold ? a->k : a->q) + (size_t)i * a->ld;
        const bool   stays = a->peek && i == a->n_pos - 1;
        for (int c = 0; c < a->n; c++) {
            const float  dt = a->dt[(size_t)i * a->ld_v + (size_t)c], v = a->v[(size_t)i * a->ld_v + (size_t)c], x = dt * v;
            const float *of = a->a + (size_t)c * d_k;
            float       *s = a->s + (size_t)c * d_k;
            __m256       sum = _mm256_setzero_ps();
            for (int j = 0; j < a->d_k; j += 8) {
                const __m256i m = k__mask_avx2(a->d_k - j);
                const __m256  e = k__exp_avx2(_mm256_mul_ps(_mm256_set1_ps(dt), _mm256_maskload_ps(of + j, m)));
                const __m256  now = _mm256_fmadd_ps(_mm256_maskload_ps(k + j, m), _mm256_set1_ps(x),
                                                    _mm256_mul_ps(e, _mm256_maskload_ps(s + j, m)));
                sum = _mm256_fmadd_ps(now, _mm256_maskload_ps(q + j, m), sum);
                if (!stays) k__put_avx2(s + j, m, a->d_k - j, now);
            }
            if (i >= a->fold)
                a->o[(size_t)(i - a->fold) * a->ld_o + (size_t)c] = fmaf(a->skip[c], v, k__sum_avx2(sum));
        }
    }
}

/* max_ps returns its second operand where one operand is NaN, so a NaN on the left is ignored. */
static K_VEC_AVX2 float k_max_avx2(const float *x, int n, int *arg) {
    __m256 a = _mm256_set1_ps(-INFINITY);
    int    i = 0, at = 0;
    for (; i + 8 <= n; i += 8) a = _mm256_max_ps(_mm256_loadu_ps(x + i), a);
    float m = k__top_avx2(a);
    for (; i < n; i++) m = x[i] > m ? x[i] : m;
    for (i = 0; i + 8 <= n; i += 8)
        if (_mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(m), _CMP_EQ_OQ))) break;
    at = k__find(x + i, n - i, m);
    if (i + at < n && x[i + at] == m) at += i;
    else at = 0;
    if (arg) *arg = at;
    return n > 0 && x[at] == m ? x[at] : m;
}

static K_VEC_AVX2 void k_softmax_avx2(float *x, int n) {
    float  m = k_max_avx2(x, n, NULL);
    __m256 base = _mm256_set1_ps(m == -INFINITY ? 0 : m), sum[4];
    for (int h = 0; h < 4; h++) sum[h] = _mm256_setzero_ps();
    for (int i = 0; i < n; i += 8) {
        __m256i k = k__mask_avx2(n - i);
        __m256  e = k__exp_avx2(_mm256_sub_ps(_mm256_maskload_ps(x + i, k), base)), *s = &sum[i >> 3 & 3];
        *s = _mm256_blendv_ps(*s, _mm256_add_ps(*s, e), _mm256_castsi256_ps(k));
        if (n - i >= 8) _mm256_storeu_ps(x + i, e);
        else _mm256_maskstore_ps(x + i, k, e);
    }
    k__scale_each(x, k__share_of(k__sum_avx2(k__fold_avx2(sum))), n);
}

/* --- avx512 level: 16 lanes are one register; tails are masked --- */

#define K_VEC_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")))
#define K__V512 static inline __attribute__((always_inline)) K_VEC_AVX512

K__V512 __mmask16 k__mask_avx512(int left) { return left >= 16 ? 0xffff : left > 0 ? (__mmask16)((1u << left) - 1) : 0; }

/* exp(x) where x <= 0 or NaN. */
K__V512 __m512 k__decay_avx512(__m512 x) {
    __m512 t = _mm512_fmadd_ps(x, _mm512_set1_ps(K_LOG2E), _mm512_set1_ps(K_ROUND)),
           n = _mm512_sub_ps(t, _mm512_set1_ps(K_ROUND));
    __m512  r = _mm512_fmadd_ps(n, _mm512_set1_ps(-K_LN2_LO), _mm512_fmadd_ps(n, _mm512_set1_ps(-K_LN2_HI), x));
    __m512  p = _mm512_fmadd_ps(_mm512_set1_ps(k__exp_c[4]), r, _mm512_set1_ps(k__exp_c[3]));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(k__exp_c[2]));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(k__exp_c[1]));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(k__exp_c[0]));
    p = _mm512_add_ps(_mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r), _mm512_set1_ps(1.0f));
    p = _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), _mm512_slli_epi32(_mm512_castps_si512(t), 23)));
    p = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(K_EXP_LO), _CMP_NLT_UQ), p);
    return _mm512_mask_mov_ps(p, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), x);
}
K__V512 __m512 k__exp_avx512(__m512 x) {
    return _mm512_mask_mov_ps(k__decay_avx512(x), _mm512_cmp_ps_mask(x, _mm512_set1_ps(K_EXP_HI), _CMP_GT_OQ),
                              _mm512_set1_ps(INFINITY));
}

K__V512 __m512 k__tanh_avx512(__m512 x) {
    const __m512 one = _mm512_set1_ps(1.0f), two = _mm512_set1_ps(2.0f), sign = _mm512_set1_ps(-0.0f);
    __m512       z = _mm512_mul_ps(x, x), a = _mm512_andnot_ps(sign, x);
    __m512       p = _mm512_fmadd_ps(_mm512_set1_ps(k__tanh_c[4]), z, _mm512_set1_ps(k__tanh_c[3]));
    p = _mm512_fmadd_ps(p, z, _mm512_set1_ps(k__tanh_c[2]));
    p = _mm512_fmadd_ps(p, z, _mm512_set1_ps(k__tanh_c[1]));
    p = _mm512_fmadd_ps(p, z, _mm512_set1_ps(k__tanh_c[0]));
    p = _mm512_fmadd_ps(_mm512_mul_ps(x, z), p, x);
    __m512 big = _mm512_sub_ps(one, _mm512_div_ps(two, _mm512_add_ps(k__exp_avx512(_mm512_mul_ps(a, two)), one)));
    big = _mm512_or_ps(_mm512_andnot_ps(sign, big), _mm512_and_ps(sign, x));
    return _mm512_mask_mov_ps(big, _mm512_cmp_ps_mask(a, _mm512_set1_ps(K_TANH_SMALL), _CMP_LT_OQ), p);
}

/* Lanes 16 -> 8 -> 4 -> 2 -> 1. */
K__V512 __m128 k__add4_avx512(__m512 v) {
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    return _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
}
K__V512 float k__sum_avx512(__m512 v) {
    __m128 q = k__add4_avx512(v);
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}

/* 16 values of f32, f16 or bf16, widened; the mask m says which exist. */
K__V512 __m512 k__load_avx512(const uint32_t type, const uint8_t *p, const bool whole, __mmask16 m) {
    if (type == K_F32) return whole ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(m, p);
    __m256i h = whole ? _mm256_loadu_si256((const __m256i *)p) : _mm256_maskz_loadu_epi16(m, p);
    return type == K_F16 ? _mm512_cvtph_ps(h) : _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

/* 16 values rounded as by k_f32_to_bf16, in the high halves of the lanes; the low halves are undefined. */
K__V512 __m512i k__near16_avx512(__m512 x) {
    const __m512i u = _mm512_castps_si512(x), odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    const __m512i r = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    return _mm512_mask_or_epi32(r, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), u, _mm512_set1_epi32(0x400000));
}
K__V512 __m512 k__rounded_avx512(__m512 x) {
    return _mm512_castsi512_ps(_mm512_and_si512(k__near16_avx512(x), _mm512_set1_epi32(-0x10000)));
}
K__V512 __m256i k__round16_avx512(__m512 x) { return _mm512_cvtepi32_epi16(_mm512_srli_epi32(k__near16_avx512(x), 16)); }

/* The first `left` of 32 weights or activations of bf16, then zeros. */
K__V512 __m512i k__bf16_avx512(const uint32_t type, const uint8_t *p, const bool whole, int left) {
    const __mmask16 lo = whole ? 0xffff : k__mask_avx512(left), hi = whole ? 0xffff : k__mask_avx512(left - 16);
    if (type == K_BF16) return whole ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi16((__mmask32)hi << 16 | lo, p);
    return _mm512_inserti64x4(_mm512_castsi256_si512(k__round16_avx512(k__load_avx512(K_F16, p, whole, lo))),
                              k__round16_avx512(k__load_avx512(K_F16, p + 32, whole, hi)), 1);
}

K__ROUND_LEVEL(avx512, K_VEC_AVX512, _mm512_storeu_si512(to, k__bf16_avx512(K_F16_ROUND, w, true, 32)))

/* Half h of a step of 32, of which `left` values exist: values 16h to
 * 16h + 15; of bf16 the odd values (h 0) or the even ones (h 1). */
K__V512 __m512 k__part_avx512(const uint32_t type, const uint8_t *p, const int h, const bool whole, int left) {
    if (!k__is_bf16(type))
        return k__load_avx512(type, p + (size_t)16 * (size_t)h * k__float_size(type), whole, k__mask_avx512(left - 16 * h));
    const __m512i v = k__bf16_avx512(type, p, whole, left);
    return _mm512_castsi512_ps(h ? _mm512_slli_epi32(v, 16) : _mm512_and_si512(v, _mm512_set1_epi32((int)0xffff0000)));
}

/* Calls f(C, ...) with C as a constant, 1 to K__TILE_AVX512. */
#define K__BY_COLS(C, f, ...)                                                                      \
    switch (C) {                                                                                   \
    case 1: f(1, __VA_ARGS__); break;                                                              \
    case 2: f(2, __VA_ARGS__); break;                                                              \
    case 3: f(3, __VA_ARGS__); break;                                                              \
    case 4: f(4, __VA_ARGS__); break;                                                              \
    case 5: f(5, __VA_ARGS__); break;                                                              \
    default: f(6, __VA_ARGS__);                                                                    \
    }

/* k__sum_avx512 of four rows at once. */
K__V512 void k__sum_rows_avx512(const __m512 *v, float *y) {
    __m512 q[2];
    for (int i = 0; i < 2; i++)
        q[i] = _mm512_add_ps(_mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0x44),
                             _mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0xee));
    q[0] = _mm512_add_ps(_mm512_shuffle_f32x4(q[0], q[1], 0x88), _mm512_shuffle_f32x4(q[0], q[1], 0xdd));
    q[0] = _mm512_add_ps(q[0], _mm512_permute_ps(q[0], 0x4e));
    q[0] = _mm512_add_ps(q[0], _mm512_movehdup_ps(q[0]));
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
    _mm_storeu_ps(y, _mm512_castps512_ps128(_mm512_permutexvar_ps(order, q[0])));
}

/* Tiles of four rows for k__float_level.wide_rows. The inner loop goes over groups of rows, so that six columns stay in L1. The
 * rows stay in L2: with 16 at a time, columns that come from L2 or L3 and not the multiplications set the rate of a processor
 * with two of them a cycle (Zen 5). */
enum { K__WIDE_L2 = 512 << 10 };
#define K__TILES(tile)                                                                             \
    for (int c = 0; c < n_cols; c += K__TILE_AVX512)                                               \
        for (int r = 0; r < groups * K__WIDE_ROWS; r += K__WIDE_ROWS)                              \
            K__BY_COLS(n_cols - c, tile, K__WIDE_ROWS, type, w + (size_t)r * row_bytes, row_bytes, \
                       x + c, n, y + (size_t)c * ldy + r, ldy)

/* Sums of one row or four with C columns, to y. */
K__V512 void k__tile_end_avx512(const int C, const int R, __m512 (*s)[K__WIDE_ROWS], float *y, size_t ldy) {
    K__UNROLL for (int c = 0; c < C; c++)
        if (R == 1) y[(size_t)c * ldy] = k__sum_avx512(s[c][0]);
        else k__sum_rows_avx512(s[c], y + (size_t)c * ldy);
}

/* One or four rows times up to six columns, all lanes in registers: 10 loads for 24
 * multiplications. Weights are widened when they are loaded, once for six columns. A
 * widened copy was slower: it costs stores, and twice the bytes come from the L2 cache. */
enum { K__TILE_AVX512 = 6 };

/* One step of 32 elements, of which `left` exist, from element k. */
K__V512 void k__step_avx512(const int C, const int R, const uint32_t type, const uint8_t *w, size_t row_bytes,
                            const uint8_t *const *x, int k, const bool whole, int left, __m512 (*s)[K__WIDE_ROWS]) {
    const uint32_t xt = k__act_type(type);
    const size_t   at = (size_t)k * k__float_size(type), x_at = (size_t)k * k__float_size(xt);
    K__UNROLL for (int h = 0; h < 2; h++) {
        __m512 wv[K__WIDE_ROWS];
        K__UNROLL for (int r = 0; r < R; r++) wv[r] = k__part_avx512(type, w + (size_t)r * row_bytes + at, h, whole, left);
        K__UNROLL for (int c = 0; c < C; c++) {
            const __m512 xv = k__part_avx512(xt, x[c] + x_at, h, whole, left);
            K__UNROLL for (int r = 0; r < R; r++) s[c][r] = _mm512_fmadd_ps(wv[r], xv, s[c][r]);
        }
    }
}

/* Defines the tile of a level from its step; with four rows n % 32 == 0. */
#define K__TILE(tile, vec, step)                                                                                              \
    vec void tile(const int C, const int R, const uint32_t type, const uint8_t *w, size_t row_bytes, const uint8_t *const *x, \
                  int n, float *y, size_t ldy) {                                                                              \
        __m512 s[K__TILE_AVX512][K__WIDE_ROWS];                                                                               \
        int    k = 0;                                                                                                         \
        K__UNROLL for (int c = 0; c < C; c++)                                                                                 \
            K__UNROLL for (int r = 0; r < R; r++) s[c][r] = _mm512_setzero_ps();                                              \
        for (; k + 32 <= n; k += 32) {                                                                                        \
            if (R == 1) k__fetch_ahead(w + (size_t)k * k__float_size(type), 32 * k__float_size(type));                        \
            step(C, R, type, w, row_bytes, x, k, true, 32, s);                                                                \
        }                                                                                                                     \
        if (R == 1 && k < n) step(C, R, type, w, row_bytes, x, k, false, n - k, s);                                           \
        k__tile_end_avx512(C, R, s, y, ldy);                                                                                  \
    }
K__TILE(k__tile_avx512, K__V512, k__step_avx512)

K__V512 void k__cols_avx512(const uint32_t type, int n_cols, const uint8_t *w, const uint8_t *const *x, int n, float *y,
                            size_t ldy) {
    K__BY_COLS(n_cols, k__tile_avx512, 1, type, w, 0, x, n, y, ldy)
}

K__V512 void k__wide_rows_avx512(const uint32_t type, const uint8_t *w, size_t row_bytes, int groups,
                                 const uint8_t *const *x, int n_cols, int n, float *y, size_t ldy) {
    K__TILES(k__tile_avx512)
}

K__FLOAT_LEVEL(avx512, K_VEC_AVX512, K__TILE_AVX512, K__WIDE_L2)

/* --- avx512_bf16 level: products of bf16 by vdpbf16ps. It adds the odd product to the sum, rounds, adds the even one, rounds,
 * and treats denormals as zeros (Intel SDM, vol. 2): the summation order of this header. k__dots_in_order() tests that. --- */

#define K_VEC_BF16 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c")))
#define K__VBF16 static inline __attribute__((always_inline)) K_VEC_BF16

K__VBF16 __m512 k__dots_add(__m512 s, __m512i a, __m512i b) { return _mm512_dpbf16_ps(s, (__m512bh)a, (__m512bh)b); }

/* Whether vdpbf16ps of this processor gives the bits of two fused multiply-adds. The test sums differ for any other order or
 * rounding. */
static K_VEC_BF16 bool k__dots_in_order(void) {
    static const float ab[8][3] = {
        {1, 1.0f, 0x1p-24f}, {1, 0x1p-24f, 0x1p-24f},   {1, 0x1p-24f, -1},         {-3, 3, 0x1.02p-25f},
        {0x1p24f, 1, 1},     {0x1p24f, -0x1p24f, 0.5f}, {0.1f, 0.3f, -0x1.9ap-2f}, {0x1.fffffep0f, 0x1p-23f, 1}};
    float got[16], want[16], c[16];
    uint16_t a[32], one[32];
    for (int i = 0; i < 16; i++) {
        const float *t = ab[i % 8];
        c[i] = i < 8 ? t[0] : -t[0];
        a[2 * i + 1] = k_f32_to_bf16(t[1]), a[2 * i] = k_f32_to_bf16(t[2]);
        one[2 * i] = one[2 * i + 1] = k_f32_to_bf16(1.5f);
        want[i] = fmaf(k_bf16_to_f32(a[2 * i]), 1.5f, fmaf(k_bf16_to_f32(a[2 * i + 1]), 1.5f, c[i]));
    }
    _mm512_storeu_ps(got, k__dots_add(_mm512_loadu_ps(c), _mm512_loadu_si512(a), _mm512_loadu_si512(one)));
    return memcmp(got, want, sizeof got) == 0;
}

/* Like k__bf16_avx512. */
K__VBF16 __m512i k__dots_load(const uint32_t type, const uint8_t *p, const bool whole, int left) {
    if (type == K_BF16) return k__bf16_avx512(K_BF16, p, whole, left);
    return (__m512i)_mm512_cvtne2ps_pbh(k__load_avx512(K_F16, p + 32, whole, k__mask_avx512(left - 16)),
                                        k__load_avx512(K_F16, p, whole, k__mask_avx512(left)));
}

K__ROUND_LEVEL(bf16, K_VEC_BF16, _mm512_storeu_si512(to, k__dots_load(K_F16_ROUND, w, true, 32)))

/* Like k__step_avx512. */
K__VBF16 void k__dots_step(const int C, const int R, const uint32_t type, const uint8_t *w, size_t row_bytes,
                           const uint8_t *const *x, int k, const bool whole, int left, __m512 (*s)[K__WIDE_ROWS]) {
    const size_t at = 2 * (size_t)k;
    __m512i      wv[K__WIDE_ROWS];
    K__UNROLL for (int r = 0; r < R; r++) wv[r] = k__dots_load(type, w + (size_t)r * row_bytes + at, whole, left);
    K__UNROLL for (int c = 0; c < C; c++) {
        const __m512i xv = k__dots_load(K_BF16, x[c] + at, whole, left);
        K__UNROLL for (int r = 0; r < R; r++) s[c][r] = k__dots_add(s[c][r], wv[r], xv);
    }
}

K__TILE(k__dots_tile, K__VBF16, k__dots_step)

K__VBF16 void k__dots_rows(const uint32_t type, const uint8_t *w, size_t row_bytes, int groups, const uint8_t *const *x,
                           int n_cols, int n, float *y, size_t ldy) {
    K__TILES(k__dots_tile)
}

static K_VEC_BF16 void k__dots_few(uint32_t type, int n_cols, const uint8_t *w, const uint8_t *const *x, int n, float *y,
                                   size_t ldy) {
    if (type == K_BF16) K__BY_COLS(n_cols, k__dots_tile, 1, K_BF16, w, 0, x, n, y, ldy)
    else if (type == K_F16_ROUND) K__BY_COLS(n_cols, k__dots_tile, 1, K_F16_ROUND, w, 0, x, n, y, ldy)
    else k__float_few_avx512(type, n_cols, w, x, n, y, ldy);
}

static K_VEC_BF16 void k__dots_wide(uint32_t type, const uint8_t *w, size_t row_bytes, int groups, const uint8_t *const *x,
                                    int n_cols, int n, float *y, size_t ldy) {
    if (type == K_BF16) k__dots_rows(K_BF16, w, row_bytes, groups, x, n_cols, n, y, ldy);
    else if (type == K_F16_ROUND) k__dots_rows(K_F16_ROUND, w, row_bytes, groups, x, n_cols, n, y, ldy);
    else k__float_wide_avx512(type, w, row_bytes, groups, x, n_cols, n, y, ldy);
}

static void k_mul_float_bf16(uint32_t type, const void *w, size_t row_bytes, int nr, int n, const k_acts *a, float *y,
                             size_t ldy) {
    static const k__float_level lv = {k__dots_few, k__dots_wide, K__TILE_AVX512, K__WIDE_L2};
    k__mul_float(&lv, type, w, row_bytes, nr, n, a, y, ldy);
}

static K_VEC_AVX512 float k_dot_avx512(const float *a, const float *b, int n) {
    float y;
    k__tile_avx512(1, 1, K_F32, (const uint8_t *)a, 0, &(const uint8_t *){(const uint8_t *)b}, n, &y, 0);
    return y;
}

K__LOOPS_LEVEL(avx512, K_VEC_AVX512)

/* y [T * K_LOW_TILE] += T tiles times u. */
K__V512 void k__low_tiles_avx512(const uint32_t type, const int T, const uint8_t *b, int rank, const float *u, float *y) {
    enum { V = K_LOW_TILE / 16 };
    const size_t size = k__float_size(type), tile = K_LOW_TILE * size * (size_t)rank;
    __m512       s[2 * V];
    for (int i = 0; i < T * V; i++) s[i] = _mm512_loadu_ps(y + 16 * i);
    for (int k = 0; k < rank; k++, b += K_LOW_TILE * size) {
        const __m512 by = _mm512_set1_ps(u[k]);
        for (int i = 0; i < T * V; i++)
            s[i] = _mm512_fmadd_ps(by, k__load_avx512(type, b + (size_t)(i / V) * tile + 16 * (size_t)(i % V) * size, true, 0),
                                   s[i]);
    }
    for (int i = 0; i < T * V; i++) _mm512_storeu_ps(y + 16 * i, s[i]);
}
K__LOW_LEVEL(avx512, K_VEC_AVX512)

static K_VEC_AVX512 void k_layer_norm_avx512(const float *x, const float *w, const float *b, float eps, int n, float *y) {
    __m512 s = _mm512_setzero_ps(), d = s;
    for (int i = 0; i < n; i += 16) s = _mm512_add_ps(s, _mm512_maskz_loadu_ps(k__mask_avx512(n - i), x + i));
    const float mean = k__sum_avx512(s) / (float)n;
    for (int i = 0; i < n; i += 16) {
        const __mmask16 m = k__mask_avx512(n - i);
        const __m512    v = _mm512_maskz_sub_ps(m, _mm512_maskz_loadu_ps(m, x + i), _mm512_set1_ps(mean));
        d = _mm512_fmadd_ps(v, v, d);
    }
    k__shift(x, w, b, mean, 1.0f / sqrtf(k__sum_avx512(d) / (float)n + eps), n, y);
}

static K_VEC_AVX512 void k_hadamard_avx512(float *x, int n, int size) {
    const __m512 unit = _mm512_set1_ps(k__hadamard_unit(size));
    if (size < 16) {
        k_hadamard_avx2(x, n, size);
        return;
    }
    for (int h = size / 2; h >= 16; h /= 2)
        for (int i = 0; i < n; i += 2 * h)
            for (int j = i; j < i + h; j += 16) {
                __m512 a = _mm512_loadu_ps(x + j), b = _mm512_loadu_ps(x + j + h);
                _mm512_storeu_ps(x + j, _mm512_add_ps(a, b));
                _mm512_storeu_ps(x + j + h, _mm512_sub_ps(a, b));
            }
    for (int i = 0; i < n; i += 16) {                 /* p: the lanes in reverse order; the mask selects the upper ones */
        __m512 v = _mm512_loadu_ps(x + i), p = _mm512_shuffle_f32x4(v, v, 0x4e);
        v = _mm512_mask_sub_ps(_mm512_add_ps(p, v), 0xff00, p, v);
        p = _mm512_shuffle_f32x4(v, v, 0xb1);
        v = _mm512_mask_sub_ps(_mm512_add_ps(p, v), 0xf0f0, p, v);
        p = _mm512_permute_ps(v, 0x4e);
        v = _mm512_mask_sub_ps(_mm512_add_ps(p, v), 0xcccc, p, v);
        p = _mm512_permute_ps(v, 0xb1);
        v = _mm512_mask_sub_ps(_mm512_add_ps(p, v), 0xaaaa, p, v);
        _mm512_storeu_ps(x + i, _mm512_mul_ps(v, unit));
    }
}

K__V512 __m512 k__poly_avx512(const float *c, const int n, __m512 x) {
    __m512 p = _mm512_set1_ps(c[n - 1]);
    K__UNROLL for (int i = n - 2; i >= 0; i--) p = _mm512_fmadd_ps(p, x, _mm512_set1_ps(c[i]));
    return p;
}

K__V512 __m512 k__minus_avx512(__m512 x) { return _mm512_xor_ps(x, _mm512_set1_ps(-0.0f)); }

/* 1 + exp(x) */
K__V512 __m512 k__exp1_avx512(__m512 x) { return _mm512_add_ps(_mm512_set1_ps(1.0f), k__exp_avx512(x)); }

K__V512 __m512 k__phi_avx512(__m512 x) {
    const __m512 one = _mm512_set1_ps(1.0f), half = _mm512_set1_ps(-0.5f);
    const __m512 a = _mm512_min_ps(_mm512_set1_ps(K_PHI_FAR), _mm512_andnot_ps(_mm512_set1_ps(-0.0f), x)),
                 z = _mm512_mul_ps(a, a);
    const __m512 lost = _mm512_fmsub_ps(a, a, z), e = k__decay_avx512(_mm512_mul_ps(half, z));
    const __m512 t = _mm512_div_ps(one, _mm512_fmadd_ps(_mm512_set1_ps(0.3f), a, one));
    const __m512 tail = _mm512_mul_ps(_mm512_fmadd_ps(e, _mm512_mul_ps(half, lost), e), k__poly_avx512(k__tail_c, 9, t));
    const __m512 small = _mm512_fmadd_ps(x, k__poly_avx512(k__phi_c, 6, z), _mm512_set1_ps(0.5f));
    const __m512 far = _mm512_mask_sub_ps(tail, _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GT_OQ), one, tail);
    return _mm512_mask_mov_ps(far, _mm512_cmp_ps_mask(a, _mm512_set1_ps(K_PHI_SMALL), _CMP_LT_OQ), small);
}

K__V512 __m512 k__softplus_avx512(__m512 x) {
    const __m512 two = _mm512_set1_ps(2.0f), e = k__decay_avx512(_mm512_or_ps(_mm512_set1_ps(-0.0f), x)),
                 by = _mm512_add_ps(two, e), s = _mm512_div_ps(e, by), z = _mm512_mul_ps(s, s);
    const __m512 log = _mm512_mul_ps(e, _mm512_div_ps(_mm512_fmadd_ps(z, k__poly_avx512(k__log_c, 5, z), two), by));
    return _mm512_mask_add_ps(log, _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GT_OQ), x, log);
}

K__V512 __m512 k__act_avx512(const k_act_fn fn, __m512 x) {
    const __m512 relu = _mm512_max_ps(_mm512_setzero_ps(), x),
                 inner = _mm512_fmadd_ps(_mm512_mul_ps(x, x), _mm512_set1_ps(K_GELU_3), _mm512_set1_ps(K_GELU_1));
    switch (fn) {
    case K_SILU: return _mm512_div_ps(x, k__exp1_avx512(k__minus_avx512(x)));
    case K_GELU: return _mm512_div_ps(x, k__exp1_avx512(_mm512_mul_ps(k__minus_avx512(x), inner)));
    case K_GELU_ERF: return _mm512_mul_ps(x, k__phi_avx512(x));
    case K_SIGMOID: return _mm512_div_ps(_mm512_set1_ps(1.0f), k__exp1_avx512(k__minus_avx512(x)));
    case K_RELU: return relu;
    case K_RELU2: return _mm512_mul_ps(relu, relu);
    case K_EXP: return k__exp_avx512(x);
    case K_SOFTPLUS: return k__softplus_avx512(x);
    }
    return x;
}

K__V512 void k__apply_avx512(const k_act_fn fn, float *x, const float *up, int n) {
    for (int i = 0; i < n; i += 16) {
        const __mmask16 m = k__mask_avx512(n - i);
        const __m512    v = k__act_avx512(fn, _mm512_maskz_loadu_ps(m, x + i));
        _mm512_mask_storeu_ps(x + i, m, up ? _mm512_mul_ps(v, _mm512_maskz_loadu_ps(m, up + i)) : v);
    }
}

static K_VEC_AVX512 void k_activate_avx512(k_act_fn fn, float *x, const float *up, int n) {
    K__BY_ACT(k__apply_avx512, fn, x, up, n)
}

/* min_ps and max_ps return their second operand where one is NaN. */
static K_VEC_AVX512 void k_swiglu_clip_avx512(float *gate, const float *up, float limit, float alpha, int n) {
    const __m512 top = _mm512_set1_ps(limit), low = _mm512_set1_ps(-limit);
    for (int i = 0; i < n; i += 16) {
        const __mmask16 m = k__mask_avx512(n - i);
        const __m512    g = _mm512_min_ps(top, _mm512_maskz_loadu_ps(m, gate + i));
        const __m512    u = _mm512_max_ps(low, _mm512_min_ps(top, _mm512_maskz_loadu_ps(m, up + i)));
        const __m512    v = _mm512_div_ps(g, k__exp1_avx512(_mm512_mul_ps(_mm512_set1_ps(-alpha), g)));
        _mm512_mask_storeu_ps(gate + i, m, _mm512_mul_ps(v, _mm512_add_ps(u, _mm512_set1_ps(1.0f))));
    }
}

static K_VEC_AVX512 void k_cap_avx512(float *x, float cap, int n) {
    const __m512 c = _mm512_set1_ps(cap);
    for (int i = 0; i < n; i += 16) {
        const __mmask16 m = k__mask_avx512(n - i);
        _mm512_mask_storeu_ps(x + i, m, _mm512_mul_ps(c, k__tanh_avx512(_mm512_div_ps(_mm512_maskz_loadu_ps(m, x + i), c))));
    }
}

/* Sixteen channels at a time, whose filters are transposed once for all rows. */
static K_VEC_AVX512 void k_conv_avx512(const float *const *x, const float *w, const float *bias, int taps, int n,
                                       int n_rows, bool silu, float *y, size_t ldy) {
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i at = _mm512_mullo_epi32(_mm512_set1_epi32(taps), lane);
    const __m512  zero = _mm512_setzero_ps();
    for (int c = 0; c < n; c += 16) {
        const __mmask16 m = k__mask_avx512(n - c);
        const __m512    base = bias ? _mm512_maskz_loadu_ps(m, bias + c) : zero;
        __m512          filter[K_CONV_TAPS];
        for (int j = 0; j < taps; j++)
            filter[j] = _mm512_mask_i32gather_ps(zero, m, at, w + (size_t)c * (size_t)taps + (size_t)j, 4);
        for (int t = 0; t < n_rows; t++) {
            __m512 sum = base;
            for (int j = 0; j < taps; j++)
                sum = _mm512_fmadd_ps(filter[j], x[t + j] ? _mm512_maskz_loadu_ps(m, x[t + j] + c) : zero, sum);
            _mm512_mask_storeu_ps(y + (size_t)t * ldy + c, m, silu ? k__act_avx512(K_SILU, sum) : sum);
        }
    }
}

/* Like k__delta_rows_avx2, for 32 columns. */
K__V512 void k__delta_rows_avx512(const bool change, const bool dots, const bool whole, float *s, size_t ld, int j, int d_k,
                                  const k__delta_at *at, const __m512 *x, const k__delta_at *next, __m512 (*u)[2],
                                  __m512 (*w)[2]) {
    K__UNROLL for (int i = 0; i < 4; i++) {
        if (!whole && j + i >= d_k) break;
        float *row = s + (size_t)(j + i) * ld;
        K__UNROLL for (int h = 0; h < 2; h++) {
            __m512 v = _mm512_loadu_ps(row + 16 * h);
            if (change) {
                v = _mm512_fmadd_ps(_mm512_set1_ps(at->k[j + i]), x[h], _mm512_mul_ps(_mm512_set1_ps(at->decay), v));
                _mm512_storeu_ps(row + 16 * h, v);
            }
            if (!dots) continue;
            u[i][h] = _mm512_fmadd_ps(v, _mm512_set1_ps(next->k[j + i]), u[i][h]);
            w[i][h] = _mm512_fmadd_ps(v, _mm512_set1_ps(next->q[j + i]), w[i][h]);
        }
    }
}

K__V512 void k__delta_pass_avx512(const bool change, const bool dots, float *s, size_t ld, int d_k, const k__delta_at *at,
                                  const __m512 *x, const k__delta_at *next, __m512 *u, __m512 *w) {
    __m512 su[4][2], sw[4][2];
    int    j = 0;
    K__UNROLL for (int i = 0; i < 4; i++)
        K__UNROLL for (int h = 0; h < 2; h++) su[i][h] = sw[i][h] = _mm512_setzero_ps();
    for (; j + 4 <= d_k; j += 4) {
        if (!change)
            K__UNROLL for (int i = 0; i < 4; i++) k__fetch_ahead((const uint8_t *)(s + (size_t)(j + i) * ld), 128);
        k__delta_rows_avx512(change, dots, true, s, ld, j, d_k, at, x, next, su, sw);
    }
    if (j < d_k) k__delta_rows_avx512(change, dots, false, s, ld, j, d_k, at, x, next, su, sw);
    K__UNROLL for (int h = 0; h < 2; h++) {
        u[h] = _mm512_add_ps(_mm512_add_ps(su[0][h], su[2][h]), _mm512_add_ps(su[1][h], su[3][h]));
        w[h] = _mm512_add_ps(_mm512_add_ps(sw[0][h], sw[2][h]), _mm512_add_ps(sw[1][h], sw[3][h]));
    }
}

static K_VEC_AVX512 void k__delta_strip_avx512(const k_delta_args *a, int c) {
    k__delta_at at = k__delta_position(a, 0, k_dot_avx512);
    __m512      x[2], u[2], w[2];
    k__delta_pass_avx512(false, true, a->s + c, a->ld_s, a->d_k, NULL, NULL, &at, u, w);
    for (int p = 0; p < a->n_pos; p++) {
        const k__delta_at now = at;
        const __m512      decay = _mm512_set1_ps(now.decay);
        for (int h = 0; h < 2; h++) {
            x[h] = _mm512_mul_ps(_mm512_set1_ps(now.beta), _mm512_fnmadd_ps(decay, u[h], _mm512_loadu_ps(now.v + c + 16 * h)));
            if (now.out)
                _mm512_storeu_ps(a->o + (size_t)(p - a->fold) * a->ld_o + c + 16 * h,
                                 _mm512_fmadd_ps(x[h], _mm512_set1_ps(now.kq), _mm512_mul_ps(decay, w[h])));
        }
        if (p < a->n_pos - 1) {
            at = k__delta_position(a, p + 1, k_dot_avx512);
            k__delta_pass_avx512(true, true, a->s + c, a->ld_s, a->d_k, &now, x, &at, u, w);
        } else if (!a->peek) k__delta_pass_avx512(true, false, a->s + c, a->ld_s, a->d_k, &now, x, NULL, u, w);
    }
}

static void k_delta_avx512(const k_delta_args *a) {
    int c = 0;
    for (; c + 32 <= a->n; c += 32) k__delta_strip_avx512(a, c);
    k__delta_from_avx2(a, c);
}

/* Like k__outer_rows_avx2, for 32 columns and n positions, at most two: x does not depend on the state, which is read and written
 * once for all. `stays`: the last position does not change it. */
K__V512 void k__outer_rows_avx512(const int n, const bool stays, const bool whole, float *s, size_t ld, int j, int d_k,
                                  const k__outer_at *at, const __m512 (*x)[2], __m512 (*w)[4][2]) {
    K__UNROLL for (int i = 0; i < 4; i++) {
        if (!whole && j + i >= d_k) break;
        float *row = s + (size_t)(j + i) * ld;
        __m512 q[2], k[2], fall[2];
        if (stays) k__fetch_ahead((const uint8_t *)row, 128);
        K__UNROLL for (int p = 0; p < n; p++) {
            q[p] = _mm512_set1_ps(at[p].q[j + i]), k[p] = _mm512_set1_ps(at[p].k[j + i]);
            fall[p] = _mm512_set1_ps(at[p].w[j + i]);
        }
        K__UNROLL for (int h = 0; h < 2; h++) {
            __m512 y = _mm512_loadu_ps(row + 16 * h);
            K__UNROLL for (int p = 0; p < n; p++) {
                w[p][i][h] = _mm512_fmadd_ps(y, q[p], w[p][i][h]);
                if (!stays || p < n - 1) y = _mm512_fmadd_ps(k[p], x[p][h], _mm512_mul_ps(fall[p], y));
            }
            if (!stays || n > 1) _mm512_storeu_ps(row + 16 * h, y);
        }
    }
}

/* What position i gives of 32 columns, from the state's products with q, w. */
K__V512 void k__outer_give_avx512(const k_outer_args *a, int c, int i, const k__outer_at *at, const __m512 *x, const __m512 *w) {
    if (!at->out) return;
    K__UNROLL for (int h = 0; h < 2; h++) {
        const __m512 o = _mm512_fmadd_ps(_mm512_set1_ps(at->kq), x[h], w[h]), v = _mm512_loadu_ps(at->v + c + 16 * h);
        _mm512_storeu_ps(a->o + (size_t)(i - a->fold) * a->ld_o + c + 16 * h, _mm512_fmadd_ps(_mm512_set1_ps(at->rq), v, o));
    }
}

/* 32 columns go through n positions from i on without a correction. */
K__V512 void k__outer_pass_avx512(const int n, const bool stays, const k_outer_args *a, int c, int i) {
    k__outer_at at[2];
    __m512      x[2][2], sum[2][4][2];
    int         j = 0;
    K__UNROLL for (int p = 0; p < n; p++) {
        at[p] = k__outer_position(a, i + p);
        K__UNROLL for (int h = 0; h < 2; h++) {
            x[p][h] = _mm512_mul_ps(_mm512_set1_ps(at[p].beta), _mm512_loadu_ps(at[p].v + c + 16 * h));
            K__UNROLL for (int k = 0; k < 4; k++) sum[p][k][h] = _mm512_setzero_ps();
        }
    }
    for (; j + 4 <= a->d_k; j += 4) k__outer_rows_avx512(n, stays, true, a->s + c, a->ld_s, j, a->d_k, at, x, sum);
    if (j < a->d_k) k__outer_rows_avx512(n, stays, false, a->s + c, a->ld_s, j, a->d_k, at, x, sum);
    K__UNROLL for (int p = 0; p < n; p++) {
        __m512 w[2];
        K__UNROLL for (int h = 0; h < 2; h++)
            w[h] = _mm512_add_ps(_mm512_add_ps(sum[p][0][h], sum[p][2][h]), _mm512_add_ps(sum[p][1][h], sum[p][3][h]));
        k__outer_give_avx512(a, c, i + p, &at[p], x[p], w);
    }
}

/* 32 columns go through all positions without a correction. */
static K_VEC_AVX512 void k__outer_strip_avx512(const k_outer_args *a, int c) {
    int i = 0;
    for (; i + 2 <= a->n_pos - a->peek; i += 2) k__outer_pass_avx512(2, false, a, c, i);
    if (i + 2 == a->n_pos) k__outer_pass_avx512(2, true, a, c, i);
    else if (i < a->n_pos && a->peek) k__outer_pass_avx512(1, true, a, c, i);
    else if (i < a->n_pos) k__outer_pass_avx512(1, false, a, c, i);
}

/* Like k__fix_rows_avx2, for 32 columns. */
K__V512 void k__fix_rows_avx512(const bool change, const bool second, const bool dots, const bool whole, float *s, size_t ld,
                                int j, int d_k, const k__outer_at *at, const __m512 *x, const __m512 *v, const k__outer_at *next,
                                __m512 (*u)[2], __m512 (*w)[2]) {
    K__UNROLL for (int i = 0; i < 4; i++) {
        if (!whole && j + i >= d_k) break;
        float       *row = s + (size_t)(j + i) * ld;
        const __m512 zero = _mm512_setzero_ps(), p = dots ? _mm512_set1_ps(next->p[j + i]) : zero,
                     q = dots ? _mm512_set1_ps(next->q[j + i]) : zero, k = change ? _mm512_set1_ps(at->k[j + i]) : zero,
                     fall = change ? _mm512_set1_ps(at->w[j + i]) : zero,
                     r = second && change ? _mm512_set1_ps(at->r[j + i]) : zero;
        K__UNROLL for (int h = 0; h < 2; h++) {
            __m512 y = _mm512_loadu_ps(row + 16 * h);
            if (change) {
                y = _mm512_fmadd_ps(k, x[h], _mm512_mul_ps(fall, y));
                if (second) y = _mm512_fmadd_ps(r, v[h], y);
                _mm512_storeu_ps(row + 16 * h, y);
            }
            if (dots) u[i][h] = _mm512_fmadd_ps(y, p, u[i][h]), w[i][h] = _mm512_fmadd_ps(y, q, w[i][h]);
        }
    }
}

K__V512 void k__fix_pass_avx512(const bool change, const bool second, const bool dots, float *s, size_t ld, int d_k,
                                const k__outer_at *at, const __m512 *x, const __m512 *v, const k__outer_at *next, __m512 *u,
                                __m512 *w) {
    __m512 su[4][2], sw[4][2];
    int    j = 0;
    K__UNROLL for (int i = 0; i < 4; i++)
        K__UNROLL for (int h = 0; h < 2; h++) su[i][h] = sw[i][h] = _mm512_setzero_ps();
    for (; j + 4 <= d_k; j += 4) k__fix_rows_avx512(change, second, dots, true, s, ld, j, d_k, at, x, v, next, su, sw);
    if (j < d_k) k__fix_rows_avx512(change, second, dots, false, s, ld, j, d_k, at, x, v, next, su, sw);
    K__UNROLL for (int h = 0; h < 2; h++) {
        u[h] = _mm512_add_ps(_mm512_add_ps(su[0][h], su[2][h]), _mm512_add_ps(su[1][h], su[3][h]));
        w[h] = _mm512_add_ps(_mm512_add_ps(sw[0][h], sw[2][h]), _mm512_add_ps(sw[1][h], sw[3][h]));
    }
}

/* Like k__fix_strip_avx2, for 32 columns. */
K__V512 void k__fix_strip_avx512(const bool second, const k_outer_args *a, int c) {
    k__outer_at at = k__outer_position(a, 0);
    __m512      x[2], v[2], u[2], w[2];
    k__fix_pass_avx512(false, second, true, a->s + c, a->ld_s, a->d_k, NULL, NULL, NULL, &at, u, w);
    for (int i = 0; i < a->n_pos; i++) {
        const k__outer_at now = at;
        K__UNROLL for (int h = 0; h < 2; h++) {
            v[h] = _mm512_loadu_ps(now.v + c + 16 * h);
            x[h] = _mm512_mul_ps(_mm512_set1_ps(now.beta), _mm512_sub_ps(second ? _mm512_setzero_ps() : v[h], u[h]));
        }
        k__outer_give_avx512(a, c, i, &now, x, w);
        if (i < a->n_pos - 1) {
            at = k__outer_position(a, i + 1);
            k__fix_pass_avx512(true, second, true, a->s + c, a->ld_s, a->d_k, &now, x, v, &at, u, w);
        } else if (!a->peek) k__fix_pass_avx512(true, second, false, a->s + c, a->ld_s, a->d_k, &now, x, v, NULL, u, w);
    }
}

static K_VEC_AVX512 void k_outer_avx512(const k_outer_args *a) {
    int c = 0;
    for (; c + 32 <= a->n; c += 32) {
        if (a->r) k__fix_strip_avx512(true, a, c);
        else if (a->p) k__fix_strip_avx512(false, a, c);
        else k__outer_strip_avx512(a, c);
    }
    k__outer_from_avx2(a, c);
}

/* States of 16 values and more in 16 lanes would be summed in another order. */
static void k_scan_avx512(const k_scan_args *a) { k_scan_avx2(a); }

/* max_ps returns its second operand where one operand is NaN, so a NaN on the left is ignored. */
static K_VEC_AVX512 float k_max_avx512(const float *x, int n, int *arg) {
    const __m512 low = _mm512_set1_ps(-INFINITY);
    __m512       a = low, b = low;
    for (int i = 0; i < n; i += 32) {
        a = _mm512_max_ps(_mm512_mask_loadu_ps(low, k__mask_avx512(n - i), x + i), a);
        b = _mm512_max_ps(_mm512_mask_loadu_ps(low, k__mask_avx512(n - i - 16), x + i + 16), b);
    }
    float m = _mm512_reduce_max_ps(_mm512_max_ps(a, b));
    int   at = 0, i = 0;
    for (__mmask16 hit = 0; i < n && !hit; i += 16) {
        hit = _mm512_mask_cmp_ps_mask(k__mask_avx512(n - i), _mm512_maskz_loadu_ps(k__mask_avx512(n - i), x + i),
                                      _mm512_set1_ps(m), _CMP_EQ_OQ);
        if (hit) at = i + __builtin_ctz(hit);
    }
    if (arg) *arg = at;
    return n > 0 && x[at] == m ? x[at] : m;
}

static K_VEC_AVX512 void k_softmax_avx512(float *x, int n) {
    float  m = k_max_avx512(x, n, NULL);
    __m512 base = _mm512_set1_ps(m == -INFINITY ? 0 : m), sum[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    for (int i = 0; i < n; i += 16) {
        __mmask16 k = k__mask_avx512(n - i);
        __m512    e = k__exp_avx512(_mm512_sub_ps(_mm512_maskz_loadu_ps(k, x + i), base)), *s = &sum[i >> 4 & 1];
        *s = _mm512_mask_add_ps(*s, k, *s, e);
        _mm512_mask_storeu_ps(x + i, k, e);
    }
    k__scale_each(x, k__share_of(k__sum_avx512(_mm512_add_ps(sum[0], sum[1]))), n);
}
#endif
