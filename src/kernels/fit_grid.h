/* ===== [fit_grid] weights to blocks of tables, powers of two and lattices =====
 * Formats whose codes are not plain integers. A search writes blocks with a small error sum w*(x - x^)^2 for any weights w. Every
 * search keeps the best block so far, and computes errors with the scale as it is stored. Scales beyond f16 saturate; values too
 * small for a scale give a block of zeros. There is no state and no rounding
 * that depends on the CPU: the same input gives the same bytes everywhere.
 * A group shares one scale s. For codes q let b = sum w*x*q and c = sum w*q*q. The error is sum w*x*x - 2*s*b + s*s*c, least at
 * s = b/c, where the gain over zeros is b*b/c.
 * Public: k_fitters[id] of these types. */

/* A block scaled by powers of two, which loses no bit: |x| below 4, mostly below 1, and 0 < w <= 1. An importance of 0 becomes a
 * tiny one, so that such weights still get codes close to them. */
typedef struct {
    float x[K_SUPER], w[K_SUPER];
    float up, down;                                      /* weight = x * up; scale of x = stored scale * down */
} k__fg_in;

static inline float k__fg_pow2(int e) { return k__f32_of((uint32_t)(e + 127) << 23); } /* -126..127 */

/* The exponent e with v < 2^e, limited so that 2^e and 2^-e are normal. */
static inline int k__fg_above(float v) {
    int e = (int)(k__bits_of(v) >> 23) - 126;
    return e > 126 ? 126 : e;
}

static inline float k__fg_top(const float *x, int n) {
    k__v4 top = {0};
    for (int j = 0; j < n; j += 4) {
        k__v4 v = k__v4_abs(k__v4_at(x + j));
        top = k__v4_pick(v > top, v, top);
    }
    float a = top[0] > top[1] ? top[0] : top[1], b = top[2] > top[3] ? top[2] : top[3];
    return a > b ? a : b;
}

/* False where the block is zero: only zeros, or values too small for any scale. n % 4 == 0. */
static bool k__fg_load(const float *x, const float *w, int n, k__fg_in *in) {
    float top = k__fg_top(x, n), heavy = w ? k__fg_top(w, n) : 0;
    if (!(top >= 0x1p-120f)) return false;
    int e = k__fg_above(top), we = k__fg_above(heavy);
    in->up = k__fg_pow2(e);
    in->down = k__fg_pow2(-e);
    for (int j = 0; j < n; j++) in->x[j] = x[j] * in->down;
    if (we <= -120) {
        for (int j = 0; j < n; j++) in->w[j] = 1;
        return true;
    }
    float down = k__fg_pow2(-we);
    for (int j = 0; j < n; j++) in->w[j] = w[j] * down + 0x1p-40f;
    return true;
}

/* An f16 scale, saturated: finite weights never give an infinite block. */
static inline uint16_t k__fg_half(float d) {
    return k_f32_to_f16(d > 65504 ? 65504 : d < -65504 ? -65504 : d);
}

/* --- codes of a table: alternately the scale by least squares and the codes by rounding --- */

static inline float k__fg_gain(k__fg_sums t) { return t.c > 0 ? t.b * t.b / t.c : 0; }
static inline float k__fg_error(k__fg_sums t, float s) { return s * (s * t.c - 2 * t.b); }

typedef k__v4 (*k__fg_near)(k__v4 v);                    /* the nearest value of the table */
#define K_FG_INLINE static inline __attribute__((always_inline)) /* `near` is a constant in each caller */

/* The table of IQ4: one step up for every midpoint below v. */
static inline k__v4 k__fg_near_iq4(k__v4 v) {
    k__v4 q = k__v4_all(k__iq4_values[0]);
    for (int k = 0; k < 15; k++) {
        float lo = k__iq4_values[k], hi = k__iq4_values[k + 1];
        q += k__v4_if(v > (lo + hi) * 0.5f, k__v4_all(hi - lo));
    }
    return q;
}

static inline k__v4 k__fg_near_within(k__v4 v, float lo, float hi) {
    v = k__v4_pick(v > lo, v, k__v4_all(lo));
    return k__v4_round(k__v4_pick(v < hi, v, k__v4_all(hi)));
}
static inline k__v4 k__fg_near_trit(k__v4 v) { return k__fg_near_within(v, -1, 1); }
static inline k__v4 k__fg_near_q2_0(k__v4 v) { return k__fg_near_within(v, -1, 2); }

K_FG_INLINE k__fg_sums k__fg_try(const float *x, const float *w, int n, float inv, k__fg_near near) {
    k__v4 b = {0}, c = {0};
    for (int j = 0; j < n; j += 4) {
        k__v4 v = k__v4_at(x + j), q = near(v * inv), wq = k__v4_at(w + j) * q;
        b += wq * v;
        c += wq * q;
    }
    return (k__fg_sums){k__v4_sum(b), k__v4_sum(c)};
}

/* The scale with the largest gain: from the given starts 1/s, then alternating until the gain stops growing. */
K_FG_INLINE float k__fg_scale(const float *x, const float *w, int n, const float *inv, int n_inv,
                              k__fg_near near, k__fg_sums *at) {
    float best = 0, s = 0;
    *at = (k__fg_sums){0, 0};
    for (int i = 0; i < n_inv; i++) {
        k__fg_sums t = k__fg_try(x, w, n, inv[i], near);
        float      gain = k__fg_gain(t);
        if (gain > best * 1.0000005f) best = gain, s = t.b / t.c, *at = t;  /* the first of equal ones */
    }
    for (int i = 0; s != 0 && i < 6; i++) {
        k__fg_sums t = k__fg_try(x, w, n, 1 / s, near);
        float      gain = k__fg_gain(t);
        if (!(gain > best)) break;
        best = gain, s = t.b / t.c, *at = t;
    }
    return s;
}

static inline float k__fg_inverse(float s) { return s != 0 ? 1 / s : 0; }

K_FG_INLINE void k__fg_codes(const float *x, int n, float inv, k__fg_near near, int8_t *q) {
    for (int j = 0; j < n; j += 4) {
        k__v4 v = near(k__v4_at(x + j) * inv);
        for (int l = 0; l < 4; l++) q[j + l] = (int8_t)v[l];
    }
}

/* The f16 scale nearest to d, or one that the codes with it propose; errors are those with the stored scale. 0: zeros are as
 * good. up, down: those of k__fg_in. */
K_FG_INLINE uint16_t k__fg_stored(const float *x, const float *w, float up, float down, int n, float d, k__fg_near near,
                                  int8_t *q) {
    float    best = 0;
    uint16_t h = 0;
    for (int round = 0; round < 3; round++) {
        uint16_t next = k__fg_half(d * up);
        if (!(next & 0x7fff)) next |= 1;                 /* the smallest f16, not 0 */
        if (next == h) break;
        float      s = k_f16_to_f32(next) * down, e;
        k__fg_sums t = k__fg_try(x, w, n, k__fg_inverse(s), near);
        if (!((e = k__fg_error(t, s)) < best)) break;
        best = e;
        h = next;
        d = t.b / t.c;
    }
    k__fg_codes(x, n, k__fg_inverse(k_f16_to_f32(h) * down), near, q);
    return h;
}

/* One f16 scale for the block. Returns it; 0 where zeros are as good. */
K_FG_INLINE uint16_t k__fg_block(const k__fg_in *in, int n, const float *inv, int n_inv, k__fg_near near,
                                 int8_t *q) {
    k__fg_sums  t;
    const float d = k__fg_scale(in->x, in->w, n, inv, n_inv, near, &t);
    return k__fg_stored(in->x, in->w, in->up, in->down, n, d, near, q);
}

/* The extreme value of a group, from which starts are derived; 0: all values are zero. */
static inline float k__fg_extreme(const float *x, int n) {
    float top = k__fg_top(x, n);
    for (int j = 0; j < n; j++)
        if (fabsf(x[j]) == top) return x[j];
    return 0;
}

/* --- IQ4_NL --- */

enum { K__IQ4_STARTS = 57, K__IQ4_BLOCKS = 16 };

/* Start i as a multiple of 1 / the extreme value: that is at or near either end of the table, beyond it, or well inside. */
static inline float k__fg_iq4_start(int i) {
    return i == 0 ? -127 : i < 33 ? -(86 + 2.5f * (float)(i - 1)) : 76 + 3 * (float)(i - 33);
}

/* 1 / the extreme value of 32 weights; 0: all are zero. */
static inline float k__fg_iq4_step(const float *x) {
    const float top = k__fg_extreme(x, 32);
    return top != 0 ? 1 / top : 0;
}

/* The best scale s of each of n groups of 32 weights, any float, and the sums of its codes. */
static void k__fg_iq4_scales_ref(const float *x, const float *w, int n, float *s, k__fg_sums *t) {
    float inv[K__IQ4_STARTS];
    for (int g = 0; g < n; g++, x += 32, w += 32) {
        const float step = k__fg_iq4_step(x);
        for (int i = 0; i < K__IQ4_STARTS; i++) inv[i] = k__fg_iq4_start(i) * step;
        s[g] = k__fg_scale(x, w, 32, inv, K__IQ4_STARTS, k__fg_near_iq4, t + g);
    }
}

/* Codes of values: the number of table values up to each, which compilers turn into vectors. */
static void k__iq4_pack(const int8_t q[32], uint8_t qs[16]) {
    int8_t code[32] = {0};
    for (int k = 1; k < 16; k++)
        for (int j = 0; j < 32; j++) code[j] = (int8_t)(code[j] + (q[j] >= k__iq4_values[k]));
    for (int j = 0; j < 16; j++) qs[j] = (uint8_t)(code[j] | code[j + 16] << 4);
}

/* Fits up to K__IQ4_BLOCKS blocks, those of zeros left out of the search. */
static void k__fit_iq4_some(const float *x, const float *w, block_iq4_nl *b, int n) {
    k__fg_in     in;
    float        xs[32 * K__IQ4_BLOCKS], ws[32 * K__IQ4_BLOCKS], up[K__IQ4_BLOCKS], down[K__IQ4_BLOCKS], s[K__IQ4_BLOCKS];
    k__fg_sums   t[K__IQ4_BLOCKS];
    int8_t       q[32], at[K__IQ4_BLOCKS];
    int          some = 0;
    for (int i = 0; i < n; i++) {
        memset(b + i, 0, sizeof b[i]);
        if (!k__fg_load(x + 32 * i, w ? w + 32 * i : NULL, 32, &in)) continue;
        memcpy(xs + 32 * some, in.x, 32 * sizeof *xs);
        memcpy(ws + 32 * some, in.w, 32 * sizeof *ws);
        up[some] = in.up, down[some] = in.down, at[some++] = (int8_t)i;
    }
    if (some) k__fit_form_of_level()->iq4(xs, ws, some, s, t);
    for (int i = 0; i < some; i++) {
        block_iq4_nl *to = b + at[i];
        to->d = k__fg_stored(xs + 32 * i, ws + 32 * i, up[i], down[i], 32, s[i], k__fg_near_iq4, q);
        if (to->d) k__iq4_pack(q, to->qs);
    }
}

static void k_fit_iq4_nl(const float *x, const float *w, void *dst, int64_t n) {
    block_iq4_nl *b = (block_iq4_nl *)dst;
    for (int64_t i = 0; i < n / 32; i += K__IQ4_BLOCKS) {
        const int some = n / 32 - i < K__IQ4_BLOCKS ? (int)(n / 32 - i) : K__IQ4_BLOCKS;
        k__fit_iq4_some(x + 32 * i, w ? w + 32 * i : NULL, b + i, some);
    }
}

static void k_recode_iq4_nl(const int8_t *q, void *dst, int64_t n) {
    block_iq4_nl *b = (block_iq4_nl *)dst;
    for (int64_t i = 0; i < n / 32; i++) k__iq4_pack(q + 32 * i, b[i].qs);
}

/* --- two bits or less: ternary, Q2_0, Q1_0 --- */

enum { K__TRIT_STARTS = 14 };

/* Thresholds: fractions of the largest weight, one half first, and values around the weighted mean. */
static void k__fg_trit_starts(const k__fg_in *in, int n, float inv[K__TRIT_STARTS]) {
    float at = k__fg_top(in->x, n), mean;
    k__v4 wx = {0}, ws = {0};
    for (int j = 0; j < n; j += 4) {
        k__v4 v = k__v4_at(in->w + j);
        wx += v * k__v4_abs(k__v4_at(in->x + j));
        ws += v;
    }
    mean = k__v4_sum(wx) / k__v4_sum(ws);
    for (int i = 0; i < 7; i++, at *= 0.7f) inv[i] = 1 / at;
    for (int i = 7; i < K__TRIT_STARTS; i++) inv[i] = 1 / (mean * (0.8f + 0.3f * (float)(i - 7)));
}

static uint16_t k__fg_trits(const float *x, const float *w, int8_t q[256]) {
    k__fg_in in;
    float    inv[K__TRIT_STARTS];
    memset(q, 0, 256);
    if (!k__fg_load(x, w, 256, &in)) return 0;
    k__fg_trit_starts(&in, 256, inv);
    uint16_t h = k__fg_block(&in, 256, inv, K__TRIT_STARTS, k__fg_near_trit, q);
    if (!h) memset(q, 0, 256);
    return h;
}

/* Packs digits of weights `width` apart into a byte: a fraction of 256, rounded up. */
static const int8_t *k__trits_pack(const int8_t *q, int width, int digits, uint8_t *p) {
    for (int j = 0; j < width; j++) {
        int v = 0;
        for (int k = 0; k < 5; k++) v = 3 * v + (k < digits ? q[k * width + j] + 1 : 0);
        p[j] = (uint8_t)((v * 256 + 242) / 243);
    }
    return q + digits * width;
}

static void k_recode_tq1_0(const int8_t *q, void *dst, int64_t n) {
    block_tq1_0 *b = (block_tq1_0 *)dst;
    for (int64_t i = 0; i < n / 256; i++) {
        q = k__trits_pack(q, 32, 5, b[i].qs);
        q = k__trits_pack(q, 16, 5, b[i].qs + 32);
        q = k__trits_pack(q, 4, 4, b[i].qh);
    }
}

static void k_recode_tq2_0(const int8_t *q, void *dst, int64_t n) {
    block_tq2_0 *b = (block_tq2_0 *)dst;
    for (int64_t i = 0; i < n / 128; i++, q += 128)
        for (int j = 0; j < 32; j++)
            b[i / 2].qs[32 * (i % 2) + j] =
                (uint8_t)((q[j] + 1) | (q[32 + j] + 1) << 2 | (q[64 + j] + 1) << 4 | (q[96 + j] + 1) << 6);
}

/* The two formats differ only in the packing. */
#define K_FIT_TRITS(type)                                                                \
    static void k_fit_##type(const float *x, const float *w, void *dst, int64_t n) {     \
        block_##type *b = (block_##type *)dst;                                           \
        int8_t        q[256];                                                            \
        for (int64_t i = 0; i < n / 256; i++) {                                          \
            b[i].d = k__fg_trits(x + 256 * i, w ? w + 256 * i : NULL, q);                \
            k_recode_##type(q, b + i, 256);                                              \
        }                                                                                \
    }
K_FIT_TRITS(tq1_0)
K_FIT_TRITS(tq2_0)

static void k_recode_q2_0(const int8_t *q, void *dst, int64_t n) {
    block_q2_0 *b = (block_q2_0 *)dst;
    for (int64_t i = 0; i < n / 4; i++, q += 4)
        b[i / 16].qs[i % 16] = (uint8_t)((q[0] + 1) | (q[1] + 1) << 2 | (q[2] + 1) << 4 | (q[3] + 1) << 6);
}

enum { K__Q2_0_STARTS = 18 };

/* Starts with the largest value at or near code 2, at code -1, and between, with d of either sign. */
static void k_fit_q2_0(const float *x, const float *w, void *dst, int64_t n) {
    block_q2_0 *b = (block_q2_0 *)dst;
    k__fg_in    in;
    float       inv[K__Q2_0_STARTS];
    int8_t      q[64];
    for (int64_t i = 0; i < n / 64; i++) {
        b[i].d = 0;
        memset(q, 0, 64);
        if (k__fg_load(x + 64 * i, w ? w + 64 * i : NULL, 64, &in)) {
            float top = k__fg_top(in.x, 64);
            for (int k = 0; k < K__Q2_0_STARTS / 2; k++) {
                inv[2 * k] = (0.9f + 0.45f * (float)k) / top;
                inv[2 * k + 1] = -inv[2 * k];
            }
            b[i].d = k__fg_block(&in, 64, inv, K__Q2_0_STARTS, k__fg_near_q2_0, q);
        }
        k_recode_q2_0(q, b + i, 64);
    }
}

/* q > 0 sets the bit: codes are -1 and 1. */
static void k_recode_q1_0(const int8_t *q, void *dst, int64_t n) {
    block_q1_0 *b = (block_q1_0 *)dst;
    for (int64_t i = 0; i < n / 8; i++, q += 8) {
        int bits = 0;
        for (int k = 0; k < 8; k++) bits |= (q[k] > 0) << k;
        b[i / 16].qs[i % 16] = (uint8_t)bits;
    }
}

/* The codes are the signs, and the scale is the weighted mean of the magnitudes: no search. */
static void k_fit_q1_0(const float *x, const float *w, void *dst, int64_t n) {
    block_q1_0 *b = (block_q1_0 *)dst;
    k__fg_in    in;
    int8_t      q[128];
    for (int64_t i = 0; i < n / 128; i++) {
        const float *xb = x + 128 * i;
        b[i].d = 0;
        for (int j = 0; j < 128; j++) q[j] = xb[j] >= 0 ? 1 : -1;
        if (k__fg_load(xb, w ? w + 128 * i : NULL, 128, &in)) {
            k__v4 wx = {0}, ws = {0};
            for (int j = 0; j < 128; j += 4) {
                k__v4 v = k__v4_at(in.w + j);
                wx += v * k__v4_abs(k__v4_at(in.x + j));
                ws += v;
            }
            b[i].d = k__fg_half(k__v4_sum(wx) / k__v4_sum(ws) * in.up);
        }
        k_recode_q1_0(q, b + i, 128);
    }
}

/* --- FP4: scales have few values, and all that can be best are tried --- */

static inline k__v4 k__fg_near_fp4(k__v4 v) {
    k__v4 a = k__v4_abs(v), q = {0};
    for (int k = 0; k < 7; k++) {
        float lo = k__fp4_values[k], hi = k__fp4_values[k + 1];
        q += k__v4_if(a > (lo + hi) * 0.5f, k__v4_all(hi - lo));
    }
    return (k__v4)((k__m4)q | ((k__m4)v & INT32_MIN));
}

/* The error at scale s. *cut gets the part of it from values beyond the table, which grows as s falls. */
static float k__fg_try_fp4(const float *x, const float *w, int n, float s, float *cut) {
    k__v4 all = {0}, over = {0};
    float inv = 1 / s;
    for (int j = 0; j < n; j += 4) {
        k__v4 v = k__v4_at(x + j), at = v * inv, e = v - s * k__fg_near_fp4(at);
        k__v4 we = k__v4_at(w + j) * e * e;
        all += we;
        over += k__v4_if(k__v4_abs(at) > 12, we);
    }
    *cut = k__v4_sum(over);
    return k__v4_sum(all);
}

static inline int k__fp4_code(int8_t q) {
    int a = q < 0 ? -q : q, code = 0;
    for (int k = 1; k < 8; k++) code += a >= k__fp4_values[k];
    return code | (q < 0) << 3;
}

static void k__fp4_pack(const int8_t *q, int half, uint8_t *qs) {
    for (int j = 0; j < half; j++) qs[j] = (uint8_t)(k__fp4_code(q[j]) | k__fp4_code(q[half + j]) << 4);
}

static void k_recode_mxfp4(const int8_t *q, void *dst, int64_t n) {
    block_mxfp4 *b = (block_mxfp4 *)dst;
    for (int64_t i = 0; i < n / 32; i++) k__fp4_pack(q + 32 * i, 16, b[i].qs);
}

static void k_fit_mxfp4(const float *x, const float *w, void *dst, int64_t n) {
    block_mxfp4 *b = (block_mxfp4 *)dst;
    k__fg_in     in;
    int8_t       q[32];
    for (int64_t i = 0; i < n / 32; i++) {
        memset(b + i, 0, sizeof b[i]);
        if (!k__fg_load(x + 32 * i, w ? w + 32 * i : NULL, 32, &in)) continue;
        int   top = (int)(k__bits_of(in.up) >> 23) + 1;  /* the code with which the table's 1 is in.up */
        float best = FLT_MAX, cut = 0, err;
        for (int e = top < 252 ? top : 252; e >= 0 && cut < best; e--) {  /* 12 times 2^(252-128) is finite */
            if ((err = k__fg_try_fp4(in.x, in.w, 32, k_e8m0_half((uint8_t)e) * in.down, &cut)) < best) {
                best = err;
                b[i].e = (uint8_t)e;
            }
        }
        k__fg_codes(in.x, 32, 1 / (k_e8m0_half(b[i].e) * in.down), k__fg_near_fp4, q);
        k__fp4_pack(q, 16, b[i].qs);
    }
}

/* The least code whose scale is v or more; 0x7e at most. */
static inline int k__ue4m3_above(float v) {
    if (v <= 0x1p-7f) return (int)ceilf(v * 0x1p10f);
    int64_t code = (((int64_t)k__bits_of(v) + 0xfffff) >> 20) - 119 * 8;
    return code > 0x7e ? 0x7e : (int)code;
}

static void k_recode_nvfp4(const int8_t *q, void *dst, int64_t n) {
    block_nvfp4 *b = (block_nvfp4 *)dst;
    for (int64_t i = 0; i < n / 16; i++) k__fp4_pack(q + 16 * i, 8, b[i / 4].qs + 8 * (i % 4));
}

/* Scales from the one that puts the largest value at the table's 3, down to where clipping alone costs more than the best. */
static void k_fit_nvfp4(const float *x, const float *w, void *dst, int64_t n) {
    block_nvfp4 *b = (block_nvfp4 *)dst;
    k__fg_in     in;
    int8_t       q[16];
    for (int64_t i = 0; i < n / 16; i++) {
        uint8_t *code = &b[i / 4].d[i % 4];
        float    best = 0, cut = 0, err;
        *code = 0;
        memset(q, 0, 16);
        if (k__fg_load(x + 16 * i, w ? w + 16 * i : NULL, 16, &in)) {
            for (int j = 0; j < 16; j++) best += in.w[j] * in.x[j] * in.x[j];
            for (int u = k__ue4m3_above(k__fg_top(in.x, 16) / 3 * in.up); u > 0 && cut < best; u--)
                if ((err = k__fg_try_fp4(in.x, in.w, 16, k_ue4m3_half((uint8_t)u) * in.down, &cut)) < best) {
                    best = err;
                    *code = (uint8_t)u;
                }
            if (*code) k__fg_codes(in.x, 16, 1 / (k_ue4m3_half(*code) * in.down), k__fg_near_fp4, q);
        }
        k__fp4_pack(q, 8, b[i / 4].qs + 8 * (i % 4));
    }
}

/* --- super-blocks: one f16 scale d, and per group a small integer m: s = d*m --- */

/* The integer nearest to v; the first one where v is no number. */
static inline int k__fg_int(const k__fg_ints *set, float v) {
    float l = (v - (float)set->first) / (float)set->step + 0.5f;
    return set->first + set->step * (!(l >= 1) ? 0 : l >= (float)set->count ? set->count - 1 : (int)l);
}

typedef struct k__fg_super {
    uint16_t h;                                          /* the f16 scale */
    float    d, error;                                   /* d as scale of in.x; error without sum w*x*x */
    int      m[16];
} k__fg_super;

/* A block and how it is fitted. code(): the nearest codes of the groups whose bit is set in want[i], at scales s[i], i < n. */
typedef struct k__fg_job k__fg_job;
struct k__fg_job {
    k__fg_in in;
    int      groups, size;                               /* size: weights of a group */
    float    unit;                                       /* a weight is d * unit * m * code */
    k__fg_ints ints;
    void (*code)(const k__fg_job *job, const float s[2][16], const int want[2], int n, k__fg_sums t[2][16]);
    const struct k__lattice *lattice;                    /* lattice formats only */
    uint8_t  signs[K_SUPER / 8];                         /* the same: bit j is set where weight j of eight is negative */
    int8_t   turned[K_SUPER / 8];                        /* the weight of eight whose sign is wrong, or -1 */
    float (*turn)(k__fg_job *job, const struct k__fg_super *at); /* chooses these weights again; returns the error it saves */
};


/* With fixed codes the error of group g is c*(s - d*m)^2 larger than at its own best s. */
static float k__fg_spread(const k__fg_ints *ints, int groups, const float *s, const k__fg_sums *t, float d, float *next) {
    float cost = 0, up = 0, down = 0, inv = 1 / d;
    for (int g = 0; g < groups; g++) {
        float m = (float)k__fg_int(ints, s[g] * inv), off = s[g] - d * m;
        cost += t[g].c * off * off;
        up += t[g].c * s[g] * m;
        down += t[g].c * m * m;
    }
    *next = down > 0 ? up / down : d;
    return cost;
}

enum { K__GRID_ENDS = 24, K__GRID_ROUNDS = 3 };

/* Values of d to begin with, at most 48: the largest scale gets every integer from the last one to well inside, with both signs
 * where integers have them. Returns their number; 0: all scales are 0. */
static int k__fg_starts(const k__fg_ints *ints, int groups, const float *s, float *d) {
    const float end = (float)(ints->first + ints->step * (ints->count - 1));
    float       peak = 0;
    int         n = 0;
    for (int g = 0; g < groups; g++)
        if (fabsf(s[g]) > fabsf(peak)) peak = s[g];
    for (int i = 0; i < K__GRID_ENDS && peak != 0; i++)
        for (int side = ints->first < 0 ? -1 : 1; side <= 1; side += 2)
            d[n++] = peak / (end * (1.12f - 0.03f * (float)i)) * (float)side;
    return n;
}

/* The d with the least error of all groups; 0: all scales are 0. */
static float k__fg_common_ref(const k__fg_ints *ints, int groups, const float *s, const k__fg_sums *t) {
    float     start[2 * K__GRID_ENDS], best = FLT_MAX, d = 0;
    const int n = k__fg_starts(ints, groups, s, start);
    for (int i = 0; i < n; i++) {
        float next = start[i];
        for (int k = 0; k < K__GRID_ROUNDS; k++) {
            float at = next, cost = k__fg_spread(ints, groups, s, t, at, &next);
            if (cost < best) best = cost, d = at;
        }
    }
    return d;
}

/* Chooses the integer of each group: the one it has or, where `anew`, the one nearest to
 * its own best scale and, where that is clearly on one side, the next on that side; each
 * with its best codes. *up and *down get the sums whose quotient is the least-squares d. */
static void k__fg_assign(const k__fg_job *job, const float *s, k__fg_super *at, bool anew, float *up,
                         float *down) {
    float      scale[2][16];
    int        m[2][16], want[2] = {0, 0};
    k__fg_sums t[2][16];
    for (int g = 0; g < job->groups; g++) {
        const float v = s[g] / at->d;
        m[0][g] = anew ? k__fg_int(&job->ints, v) : at->m[g];
        m[1][g] = anew ? k__fg_int(&job->ints, 2 * v - (float)m[0][g]) : m[0][g];
        for (int i = 0; i < 2; i++) scale[i][g] = at->d * (float)m[i][g];
        want[0] |= 1 << g;
        want[1] |= (m[1][g] != m[0][g]) << g;
    }
    job->code(job, (const float (*)[16])scale, want, 1 + (want[1] != 0), t);
    at->error = *up = *down = 0;
    for (int g = 0; g < job->groups; g++) {
        float      best = FLT_MAX;
        k__fg_sums u = {0, 0};
        at->m[g] = m[0][g];                              /* where all errors overflow */
        for (int i = 0; i < 1 + (want[1] >> g & 1); i++) {
            const float e = k__fg_error(t[i][g], scale[i][g]);
            if (e < best) best = e, u = t[i][g], at->m[g] = m[i][g];
        }
        at->error += best;
        *up += u.b * (float)at->m[g];
        *down += u.c * (float)(at->m[g] * at->m[g]);
    }
}

static void k__fg_store(const k__fg_job *job, float d, k__fg_super *at) {
    at->h = k__fg_half(d / job->unit * job->in.up);
    if (!(at->h & 0x7fff)) at->h |= 1;                   /* the smallest f16, not 0 */
    at->d = k_f16_to_f32(at->h) * job->in.down * job->unit;
}

/* The best d and integers, from the best scale of every group. h is 0 where zeros are as good. */
static k__fg_super k__fg_fit(k__fg_job *job, const float *s, const k__fg_sums *t) {
    k__fg_super best = {0, 0, 0, {0}}, at;
    float       d = k__fit_form_of_level()->grid_common(&job->ints, job->groups, s, t), up, down;
    for (int round = 0; d != 0 && round < 3; round++) {
        uint16_t was = round ? at.h : 0;
        k__fg_store(job, d, &at);
        if (round && at.h == was) break;
        k__fg_assign(job, s, &at, round == 0, &up, &down);
        if (at.error < best.error) best = at;
        else if (round) break;
        if (round == 0 && job->turn) best.error -= job->turn(job, &at);
        d = down > 0 ? up / down : 0;
    }
    return best;
}

/* --- IQ4_XS --- */

/* Sums of the codes of 8 groups of 32 at n scales each. */
static void k__fg_iq4_sums_ref(const float *x, const float *w, const float s[2][8], int n, k__fg_sums t[2][8]) {
    for (int i = 0; i < n; i++)
        for (int g = 0; g < 8; g++) t[i][g] = k__fg_try(x + 32 * g, w + 32 * g, 32, k__fg_inverse(s[i][g]), k__fg_near_iq4);
}

/* The codes of 8 groups of 32. */
static void k__fg_iq4_codes_ref(const float *x, const float s[8], int8_t *q) {
    for (int g = 0; g < 8; g++) k__fg_codes(x + 32 * g, 32, k__fg_inverse(s[g]), k__fg_near_iq4, q + 32 * g);
}

static void k__fg_code_iq4(const k__fg_job *job, const float s[2][16], const int want[2], int n, k__fg_sums t[2][16]) {
    float      at[2][8];
    k__fg_sums sums[2][8];
    (void)want;
    for (int i = 0; i < n; i++) memcpy(at[i], s[i], sizeof at[i]);
    k__fit_form_of_level()->iq4_sums(job->in.x, job->in.w, (const float (*)[8])at, n, sums);
    for (int i = 0; i < n; i++) memcpy(t[i], sums[i], sizeof sums[i]);
}

static void k_recode_iq4_xs(const int8_t *q, void *dst, int64_t n) {
    block_iq4_xs *b = (block_iq4_xs *)dst;
    for (int64_t i = 0; i < n / 32; i++) k__iq4_pack(q + 32 * i, b[i / 8].qs + 16 * (i % 8));
}

static void k_fit_iq4_xs(const float *x, const float *w, void *dst, int64_t n) {
    block_iq4_xs *b = (block_iq4_xs *)dst;
    k__fg_job     job = {.groups = 8, .size = 32, .unit = 1, .ints = {-32, 1, 64}, .code = k__fg_code_iq4};
    float         s[8];
    k__fg_sums    t[8];
    int8_t        q[256];
    for (int64_t i = 0; i < n / 256; i++) {
        memset(b + i, 0, sizeof b[i]);
        if (!k__fg_load(x + 256 * i, w ? w + 256 * i : NULL, 256, &job.in)) continue;
        k__fit_form_of_level()->iq4(job.in.x, job.in.w, 8, s, t);
        k__fg_super at = k__fg_fit(&job, s, t);
        if (!at.h) continue;
        b[i].d = at.h;
        for (int g = 0; g < 8; g++) {
            int l = at.m[g] + 32;
            b[i].scales_l[g / 2] |= (uint8_t)((l & 15) << 4 * (g % 2));
            b[i].scales_h |= (uint16_t)((l >> 4) << 2 * g);
            s[g] = at.d * (float)at.m[g];
        }
        k__fit_form_of_level()->iq4_codes(job.in.x, s, q);
        k_recode_iq4_xs(q, b + i, 256);
    }
}

/* --- lattices: codes are points of a grid of 4 or 8 weights ---
 * The cost of a point is the sum of the costs of its weights. A half of a point has few values, 64
 * or 81 cells, so with a table of costs for each half the cost of a point is one addition. Grids are
 * sorted, so points with the same upper half are neighbours, and an upper half that costs too much
 * even with the cheapest lower half is skipped: the search is exact and looks at few points. */

enum { K__CELLS = 108, K__POINTS = 2048 };

typedef struct {
    const uint16_t *grid;
    int             points, dims, levels;                /* levels: 3 in 8 dims, 8 in 4 */
    float           value[8];                            /* the value of a level */
    float           start, ratio;                        /* trial scales: the least one, for weights around 1 */
    int             steps;                               /* their number; each is `ratio` times the one before */
    int             group;                               /* weights that share an integer of 1 3 5 ... */
    int             ints;                                /* the number of these integers */
    float           unit;
    enum {
        K__EVEN,                                         /* signs are stored; the number of negative ones of eight is even */
        K__FREE,                                         /* signs are stored */
        K__SHIFT                                         /* no signs; a bit lowers all values of a span by 2 */
    } signs;
    int             span;                                /* weights that share a shift or a set of signs */
} k__fg_kind;

struct k__lattice {
    const k__fg_kind *kind;
    int               cells;
    uint16_t          from[K__CELLS + 1];                /* first point of an upper half */
    uint8_t           low[K__POINTS], high[K__POINTS];   /* cells of a point's halves */
    float             worth[2][K__CELLS][4];             /* values of a cell, as lower and as upper half */
};

/* The cell of half a point: two of eight levels, or four of three levels as
 * rows of nine cells, padded to twelve so that vectors do not cross rows. */
static int k__lattice_cell(const k__fg_kind *k, int half) {
    if (k->dims == 4) return (half & 15) + 8 * (half >> 4);
    return (half & 3) + 3 * (half >> 2 & 3) + 12 * ((half >> 4 & 3) + 3 * (half >> 6));
}

static void k__lattice_init(struct k__lattice *L, const k__fg_kind *k) {
    int at = 0;
    memset(L->worth, 0, sizeof L->worth);
    L->kind = k;
    L->cells = k->dims == 8 ? K__CELLS : 64;
    for (int p = 0; p < k->points; p++) {
        L->low[p] = (uint8_t)k__lattice_cell(k, k->grid[p] & 255);
        L->high[p] = (uint8_t)k__lattice_cell(k, k->grid[p] >> 8);
        for (; at <= L->high[p]; at++) L->from[at] = (uint16_t)p;
    }
    for (; at <= L->cells; at++) L->from[at] = (uint16_t)k->points;
    for (int p = 0; p < k->points; p++)
        for (int j = 0; j < k->dims; j++) {
            int bits = 16 / k->dims, high = j >= k->dims / 2, cell = high ? L->high[p] : L->low[p];
            L->worth[high][cell][j % 4] = k->value[k->grid[p] >> bits * j & ((1 << bits) - 1)];
        }
}

/* Costs of all cells of half a point, the least cost, and the cell that has it (or a good guess).
 * The cost of level value v for weight x is w * v*s * (v*s - 2*x): the error without w*x*x. */
typedef struct {
    float price[K__CELLS];
    float least;
    int   at;
} k__fg_cells;

/* out[4*n*b + a] = low[a] + high[b] for a < 4*n */
K_FG_INLINE void k__fg_outer(const float *low, int n, const float *high, int rows, float *out) {
    for (int b = 0; b < rows; b++)
        for (int a = 0; a < n; a++, out += 4) {
            k__v4 v = k__v4_at(low + 4 * a) + high[b];
            memcpy(out, &v, sizeof v);
        }
}

/* Four weights of three levels; lanes are weights. */
static void k__fg_cells8(const float *value, const float *x, const float *w, float s, k__fg_cells *out) {
    k__v4 xs = k__v4_at(x) * 2, ws = k__v4_at(w), least = {0}, at = {0}, price;
    float one[3][4], two[2][12];
    for (int l = 0; l < 3; l++) {
        float v = value[l] * s;
        price = ws * v * (v - xs);
        k__m4 less = price < least;
        least = l ? k__v4_pick(less, price, least) : price;
        at = l ? k__v4_pick(less, k__v4_all((float)l), at) : at;
        memcpy(one[l], &price, sizeof price);
    }
    out->least = k__v4_sum(least);
    out->at = (int)(at[0] + 3 * at[1] + 12 * at[2] + 36 * at[3]);
    for (int i = 0; i < 9; i++) {
        two[0][i] = one[i % 3][0] + one[i / 3][1];
        two[1][i] = one[i % 3][2] + one[i / 3][3];
    }
    for (int i = 9; i < 12; i++) two[0][i] = FLT_MAX / 4;
    k__fg_outer(two[0], 3, two[1], 9, out->price);
}

/* Two weights of eight levels; lanes are levels. These are nearly evenly spaced, which is enough to guess the cheapest. */
static void k__fg_cells4(const float *value, const float *x, const float *w, float s, k__fg_cells *out) {
    k__v4 low = k__v4_at(value) * s, high = k__v4_at(value + 4) * s;
    float one[2][8], step = 1 / (s * (value[1] - value[0]));
    out->at = 0;
    out->least = 0;
    for (int j = 0; j < 2; j++) {
        k__v4 a = w[j] * low * (low - 2 * x[j]), b = w[j] * high * (high - 2 * x[j]);
        k__v4 c = k__v4_pick(a < b, a, b);
        float p = c[0] < c[1] ? c[0] : c[1], q = c[2] < c[3] ? c[2] : c[3], l = (x[j] - low[0]) * step + 0.5f;
        memcpy(one[j], &a, sizeof a);
        memcpy(one[j] + 4, &b, sizeof b);
        out->least += p < q ? p : q;
        out->at += (l > 7 ? 7 : l > 0 ? (int)l : 0) << 3 * j;
    }
    k__fg_outer(one[0], 2, one[1], 8, out->price);
}

/* Searches the points of upper half h, whose cost is `high`. */
static inline void k__lattice_scan(const struct k__lattice *L, const k__fg_cells *low, float high, int h,
                                   float *best, int *at) {
    for (int p = L->from[h]; p < L->from[h + 1]; p++) {
        float cost = low->price[L->low[p]] + high;
        if (cost < *best) *best = cost, *at = p;
    }
}

/* The grid point nearest to dims weights at scale s, with the given values of levels; adds its cost to *cost. */
static int k__lattice_nearest(const struct k__lattice *L, const float *value, const float *x, const float *w,
                              float s, float *cost) {
    k__fg_cells low, high;
    float       best = FLT_MAX;
    int         at = 0;
    if (L->kind->dims == 8) {
        k__fg_cells8(value, x, w, s, &low);
        k__fg_cells8(value, x + 4, w + 4, s, &high);
    } else {
        k__fg_cells4(value, x, w, s, &low);
        k__fg_cells4(value, x + 2, w + 2, s, &high);
    }
    k__lattice_scan(L, &low, high.price[high.at], high.at, &best, &at);
    for (int h = 0; h < L->cells; h += 4) {
        k__m4    near = k__v4_at(high.price + h) < best - low.least;
        uint64_t any[2];
        memcpy(any, &near, sizeof any);
        if (!(any[0] | any[1])) continue;
        for (int l = 0; l < 4; l++)
            if (near[l] && high.price[h + l] + low.least < best)
                k__lattice_scan(L, &low, high.price[h + l], h + l, &best, &at);
    }
    *cost += best;
    return at;
}

static inline void k__fg_add(k__v4 v, const float *x, const float *w, k__v4 *b, k__v4 *c) {
    k__v4 wv = k__v4_at(w) * v;
    *b += wv * k__v4_at(x);
    *c += wv * v;
}

/* Sums and cost of the codes of a span. Grid numbers go to `at` unless it is NULL; bit 15 is the shift. */
typedef struct { k__v4 b, c; float cost; } k__fg_span;
enum { K__SHIFTED = 0x8000 };

static k__fg_span k__lattice_span(const struct k__lattice *L, const float *x, const float *w, float s,
                                  bool shift, uint16_t *at) {
    const k__fg_kind *k = L->kind;
    float             by = shift ? 2 : 0, value[8];
    k__fg_span        sum = {{0}, {0}, 0};
    for (int l = 0; l < 8; l++) value[l] = k->value[l] - by;
    for (int j = 0; j < k->span; j += k->dims) {
        int   p = k__lattice_nearest(L, value, x + j, w + j, s, &sum.cost);
        k__v4 low = k__v4_at(L->worth[0][L->low[p]]) - by, high = k__v4_at(L->worth[1][L->high[p]]) - by;
        k__fg_add(k->dims == 8 ? low : low + high, x + j, w + j, &sum.b, &sum.c);
        if (k->dims == 8) k__fg_add(high, x + j + 4, w + j + 4, &sum.b, &sum.c);
        if (at) at[j / k->dims] = (uint16_t)(p | (shift ? K__SHIFTED : 0));
    }
    return sum;
}

static k__fg_sums k__fg_codes_lattice(const k__fg_job *job, int g, float s, uint16_t *at) {
    const k__fg_kind *k = job->lattice->kind;
    k__v4             b = {0}, c = {0};
    for (int j = g * job->size; j < (g + 1) * job->size; j += k->span) {
        const float *x = job->in.x + j, *w = job->in.w + j;
        uint16_t    *to = at ? at + j / k->dims : NULL;
        k__fg_span   sum = k__lattice_span(job->lattice, x, w, s, false, to);
        if (k->signs == K__SHIFT) {
            uint16_t   other_at[4];
            k__fg_span other = k__lattice_span(job->lattice, x, w, s, true, other_at);
            if (other.cost < sum.cost) {
                sum = other;
                if (to) memcpy(to, other_at, (size_t)(k->span / k->dims) * sizeof *to);
            }
        }
        b += sum.b;
        c += sum.c;
    }
    return (k__fg_sums){k__v4_sum(b), k__v4_sum(c)};
}

static void k__fg_code_lattice(const k__fg_job *job, const float s[2][16], const int want[2], int n, k__fg_sums t[2][16]) {
    for (int i = 0; i < n; i++)
        for (int g = 0; g < job->groups; g++)
            if (want[i] >> g & 1) t[i][g] = k__fg_codes_lattice(job, g, s[i][g], NULL);
}

/* Splits weights into signs and magnitudes. Where the number of negative signs must be even,
 * the weight for which a wrong sign costs least gets one: its magnitude becomes negative. */
static void k__fg_unsign(k__fg_job *job, bool even) {
    for (int i = 0; i < K_SUPER / 8; i++) {
        float *x = job->in.x + 8 * i, *w = job->in.w + 8 * i;
        int    signs = 0, turn = 0;
        for (int j = 0; j < 8; j++) {
            signs |= (x[j] < 0) << j;
            x[j] = fabsf(x[j]);
            if (x[j] * w[j] < x[turn] * w[turn]) turn = j;
        }
        job->turned[i] = -1;
        if (even && __builtin_parity((unsigned)signs)) {
            signs ^= 1 << turn;
            x[turn] = -x[turn];
            job->turned[i] = (int8_t)turn;
        }
        job->signs[i] = (uint8_t)signs;
    }
}

/* The same choice with known scales: among the weights for which a wrong sign costs about the least, the one that gives the least
 * error. */
static float k__fg_turn(k__fg_job *job, const k__fg_super *at) {
    float saved = 0;
    for (int i = 0; i < K_SUPER / 8; i++) {
        float *x = job->in.x + 8 * i, *w = job->in.w + 8 * i, s = at->d * (float)at->m[8 * i / job->size];
        int    was = job->turned[i], best = was;
        if (was < 0) continue;
        float first = k__lattice_span(job->lattice, x, w, s, false, NULL).cost, least = first;
        for (int j = 0; j < 8; j++) {
            if (j == was || w[j] * x[j] > -3 * w[was] * x[was]) continue;
            x[was] = -x[was];
            x[j] = -x[j];
            float cost = k__lattice_span(job->lattice, x, w, s, false, NULL).cost;
            x[was] = -x[was];
            x[j] = -x[j];
            if (cost < least) least = cost, best = j;
        }
        x[was] = -x[was];
        x[best] = -x[best];
        job->signs[i] ^= (uint8_t)((1 << was) ^ (1 << best));
        job->turned[i] = (int8_t)best;
        saved += first - least;
    }
    return saved;
}

typedef struct { float s, gain; k__fg_sums t; } k__fg_best;

static bool k__fg_better(const k__fg_job *job, int g, float s, k__fg_best *best) {
    k__fg_sums t = k__fg_codes_lattice(job, g, s, NULL);
    float      gain = t.b > 0 ? k__fg_gain(t) : 0;
    if (!(gain > best->gain)) return false;
    *best = (k__fg_best){t.b / t.c, gain, t};
    return true;
}

/* The scale of a group with the largest gain: steps over its possible range, which follows from the weighted
 * root mean square; then half a step to both sides of the best; then alternating scale and codes. */
static k__fg_best k__fg_lattice_scale(const k__fg_job *job, int g) {
    const k__fg_kind *k = job->lattice->kind;
    const float      *x = job->in.x + g * job->size, *w = job->in.w + g * job->size;
    float             wxx = 0, ws = 0, mid = 0;
    k__fg_best        best = {0, 0, {0, 0}};
    for (int j = 0; j < job->size; j++) {
        wxx += w[j] * x[j] * x[j];
        ws += w[j];
    }
    float at = sqrtf(wxx / ws) * k->start;
    for (int i = 0; at > 0 && i < k->steps; i++, at *= k->ratio)
        if (k__fg_better(job, g, at, &best)) mid = at;
    float half = sqrtf(k->ratio);
    if (mid > 0) {
        k__fg_better(job, g, mid * half, &best);
        k__fg_better(job, g, mid / half, &best);
    }
    for (int i = 0; best.s > 0 && i < 4 && k__fg_better(job, g, best.s, &best); i++) continue;
    return best;
}

/* Grid numbers of a super-block and the integers of its scales. */
typedef struct {
    uint16_t at[64];
    uint8_t  m[16];                                      /* (integer - 1) / 2 */
    uint16_t h;
} k__fg_points;

/* Fits one super-block; false: it is zero. */
static bool k__fg_lattice(k__fg_job *job, const float *x, const float *w, k__fg_points *out) {
    const k__fg_kind *k = job->lattice->kind;
    float             s[16];
    k__fg_sums        t[16];
    if (!k__fg_load(x, w, K_SUPER, &job->in)) return false;
    if (k->signs != K__SHIFT) k__fg_unsign(job, k->signs == K__EVEN);
    for (int g = 0; g < job->groups; g++) {
        k__fg_best best = k__fg_lattice_scale(job, g);
        s[g] = best.s;
        t[g] = best.t;
    }
    k__fg_super at = k__fg_fit(job, s, t);
    out->h = at.h;
    for (int g = 0; g < job->groups; g++) out->m[g] = (uint8_t)((at.m[g] - 1) / 2);
    for (int g = 0; at.h && g < job->groups; g++) k__fg_codes_lattice(job, g, at.d * (float)at.m[g], out->at);
    return at.h != 0;
}

static void k__fg_lattice_job(k__fg_job *job, struct k__lattice *L, const k__fg_kind *k) {
    k__lattice_init(L, k);
    job->groups = K_SUPER / k->group;
    job->size = k->group;
    job->unit = k->unit;
    job->ints = (k__fg_ints){1, 2, k->ints};
    job->code = k__fg_code_lattice;
    job->turn = k->signs == K__EVEN ? k__fg_turn : NULL;
    job->lattice = L;
}

/* Defines a fit function: fits every super-block and calls pack, which writes the result into a block of zeros. */
#define K_FIT_LATTICE(type, kind, pack)                                                       \
    static void k_fit_##type(const float *x, const float *w, void *dst, int64_t n) {          \
        block_##type     *b = (block_##type *)dst;                                            \
        k__fg_job         job;                                                                \
        struct k__lattice lattice;                                                            \
        k__fg_points      p;                                                                  \
        k__fg_lattice_job(&job, &lattice, &kind);                                             \
        for (int64_t i = 0; i < n / K_SUPER; i++) {                                           \
            memset(b + i, 0, sizeof b[i]);                                                    \
            if (k__fg_lattice(&job, x + K_SUPER * i, w ? w + K_SUPER * i : NULL, &p)) pack(b + i, &job, &p); \
        }                                                                                     \
    }

static const k__fg_kind k__kind_iq2_xxs = {
    k__grid_iq2_xxs, 256, 8, 3, {8, 25, 43}, 0.016f, 1.32f, 6, 32, 16, 0.125f, K__EVEN, 8};
static const k__fg_kind k__kind_iq2_xs = {
    k__grid_iq2_xs, 512, 8, 3, {8, 25, 43}, 0.016f, 1.32f, 6, 16, 16, 0.125f, K__EVEN, 8};
static const k__fg_kind k__kind_iq2_s = {
    k__grid_iq2_s, 1024, 8, 3, {8, 25, 43}, 0.016f, 1.32f, 6, 16, 16, 0.125f, K__FREE, 8};
static const k__fg_kind k__kind_iq1_s = {
    k__grid_iq1, 2048, 8, 3, {-7, 1, 9}, 0.1f, 1.4f, 4, 32, 8, 0.125f, K__SHIFT, 32};
static const k__fg_kind k__kind_iq1_m = {
    k__grid_iq1, 2048, 8, 3, {-7, 1, 9}, 0.1f, 1.4f, 4, 16, 8, 0.125f, K__SHIFT, 8};
static const k__fg_kind k__kind_iq3_xxs = {
    k__grid_iq3_xxs, 256, 4, 8, {4, 12, 20, 28, 36, 44, 52, 62}, 0.011f, 1.32f, 8, 32, 16, 0.25f, K__EVEN, 8};
static const k__fg_kind k__kind_iq3_s = {
    k__grid_iq3_s, 512, 4, 8, {1, 3, 5, 7, 9, 11, 13, 15}, 0.044f, 1.32f, 8, 32, 16, 1, K__FREE, 8};

/* Four times 7 sign bits, then 4 bits of the integer. */
static uint32_t k__fg_signs7(const k__fg_job *job, const k__fg_points *p, int g) {
    uint32_t aux = (uint32_t)p->m[g] << 28;
    for (int l = 0; l < 4; l++) aux |= (job->signs[4 * g + l] & 127u) << 7 * l;
    return aux;
}

static void k__pack_iq2_xxs(block_iq2_xxs *b, const k__fg_job *job, const k__fg_points *p) {
    b->d = p->h;
    for (int g = 0; g < 8; g++) {
        uint32_t at = 0;
        for (int l = 0; l < 4; l++) at |= (uint32_t)p->at[4 * g + l] << 8 * l;
        b->qs[2 * g] = at;
        b->qs[2 * g + 1] = k__fg_signs7(job, p, g);
    }
}

static void k__pack_odd(const k__fg_points *p, int n, uint8_t *scales) {
    for (int g = 0; g < n; g++) scales[g / 2] |= (uint8_t)(p->m[g] << 4 * (g % 2));
}

static void k__pack_iq2_xs(block_iq2_xs *b, const k__fg_job *job, const k__fg_points *p) {
    b->d = p->h;
    k__pack_odd(p, 16, b->scales);
    for (int l = 0; l < 32; l++) b->qs[l] = (uint16_t)(p->at[l] | (job->signs[l] & 127) << 9);
}

static void k__pack_iq2_s(block_iq2_s *b, const k__fg_job *job, const k__fg_points *p) {
    b->d = p->h;
    k__pack_odd(p, 16, b->scales);
    memcpy(b->signs, job->signs, 32);
    for (int l = 0; l < 32; l++) {
        b->qs[l] = (uint8_t)p->at[l];
        b->qh[l / 4] |= (uint8_t)(p->at[l] >> 8 << 2 * (l % 4));
    }
}

static void k__pack_iq3_xxs(block_iq3_xxs *b, const k__fg_job *job, const k__fg_points *p) {
    b->d = p->h;
    for (int l = 0; l < 64; l++) b->qs[l] = (uint8_t)p->at[l];
    for (int g = 0; g < 8; g++) b->aux[g] = k__fg_signs7(job, p, g);
}

static void k__pack_iq3_s(block_iq3_s *b, const k__fg_job *job, const k__fg_points *p) {
    b->d = p->h;
    k__pack_odd(p, 8, b->scales);
    memcpy(b->signs, job->signs, 32);
    for (int l = 0; l < 64; l++) {
        b->qs[l] = (uint8_t)p->at[l];
        b->qh[l / 8] |= (uint8_t)(p->at[l] >> 8 << l % 8);
    }
}

/* The bit of the shift is above the three bits of the integer. */
static void k__pack_iq1_s(block_iq1_s *b, const k__fg_job *job, const k__fg_points *p) {
    (void)job;
    b->d = p->h;
    for (int g = 0; g < 8; g++) b->qh[g] = (uint16_t)(p->m[g] << 12 | (p->at[4 * g] & K__SHIFTED));
    for (int l = 0; l < 32; l++) {
        b->qs[l] = (uint8_t)p->at[l];
        b->qh[l / 4] |= (uint16_t)((p->at[l] >> 8 & 7) << 3 * (l % 4));
    }
}

static void k__pack_iq1_m(block_iq1_m *b, const k__fg_job *job, const k__fg_points *p) {
    (void)job;
    for (int k = 0; k < 4; k++) b->scales[k] = (uint16_t)((p->h >> 4 * k & 15) << 12);
    for (int g = 0; g < 16; g++) b->scales[g / 4] |= (uint16_t)(p->m[g] << 3 * (g % 4));
    for (int l = 0; l < 32; l++) {
        b->qs[l] = (uint8_t)p->at[l];
        b->qh[l / 2] |= (uint8_t)(((p->at[l] >> 8 & 7) | (p->at[l] & K__SHIFTED ? 8 : 0)) << 4 * (l % 2));
    }
}

K_FIT_LATTICE(iq2_xxs, k__kind_iq2_xxs, k__pack_iq2_xxs)
K_FIT_LATTICE(iq2_xs, k__kind_iq2_xs, k__pack_iq2_xs)
K_FIT_LATTICE(iq2_s, k__kind_iq2_s, k__pack_iq2_s)
K_FIT_LATTICE(iq3_xxs, k__kind_iq3_xxs, k__pack_iq3_xxs)
K_FIT_LATTICE(iq3_s, k__kind_iq3_s, k__pack_iq3_s)
K_FIT_LATTICE(iq1_s, k__kind_iq1_s, k__pack_iq1_s)
K_FIT_LATTICE(iq1_m, k__kind_iq1_m, k__pack_iq1_m)
