/* ===== [ref] dequantise, quantise =====
 * Dequantising computes [unpack]'s formulas in float with a rounding for each operation, in ggml's order: (d*sc)*q - dm*mn.
 * Quantising rounds as ggml's reference does where that is defined. Otherwise an infinity makes the scale infinite, a NaN counts
 * as zero, and a scale too small to divide by saturates the codes.
 * In a thread that flushes denormals the two smallest scales of MXFP4 are zero; no other block format has denormals.
 * Public: k_types[id].dequant, k_types[id].quant. */

typedef void (*k_unpack_fn)(const void *src, int n, k_urow *u);

/* scale: multiplies d. */
static void k__dequant_int(const void *src, float scale, float *dst, int64_t n, size_t bytes, bool has_min,
                          k_unpack_fn unpack) {
    int8_t  q[256];
    int16_t sc[16], mn[16];
    float   d, dm;
    k_urow  u = {q, sc, mn, &d, &dm, NULL, NULL};
    for (int64_t i = 0; i < n / 256; i++, dst += 256) {
        unpack((const uint8_t *)src + (size_t)i * bytes, 256, &u);
        d *= scale;
        for (int j = 0; j < 256; j++) {
            dst[j] = d * (float)sc[j / 16] * (float)q[j];
            if (has_min) dst[j] = dst[j] - dm * (float)mn[j / 16];
        }
    }
}

static void k__dequant_scale(const void *src, float *dst, int64_t n, int block, size_t bytes, int group,
                            bool has_min, k_unpack_fn unpack) {
    int8_t q[128];
    float  fs[8], fm[8];
    k_urow u = {q, NULL, NULL, NULL, NULL, fs, fm};
    for (int64_t i = 0; i < n / block; i++, dst += block) {
        unpack((const uint8_t *)src + (size_t)i * bytes, block, &u);
        for (int j = 0; j < block; j++) {
            dst[j] = fs[j / group] * (float)q[j];
            if (has_min) dst[j] = dst[j] + fm[j / group];
        }
    }
}

/* The quantised types of weights: [types] makes their rows of k_types from the same lists. */
#define K__SCALE_TYPES(X)                                        \
    /* id      name    block group min    quant */               \
    X(Q4_0,    q4_0,   32,   32,   false, k_quant_q4_0)          \
    X(Q4_1,    q4_1,   32,   32,   true,  k_quant_q4_1)          \
    X(Q5_0,    q5_0,   32,   32,   false, k_quant_q5_0)          \
    X(Q5_1,    q5_1,   32,   32,   true,  k_quant_q5_1)          \
    X(Q8_0,    q8_0,   32,   32,   false, k_quant_q8_0)          \
    X(IQ4_NL,  iq4_nl, 32,   32,   false, NULL)                  \
    X(MXFP4,   mxfp4,  32,   32,   false, NULL)                  \
    X(NVFP4,   nvfp4,  64,   16,   false, NULL)                  \
    X(Q1_0,    q1_0,   128,  32,   false, NULL)                  \
    X(Q2_0,    q2_0,   64,   32,   false, NULL)                  \
    X(Q6_0,    q6_0,   32,   32,   false, NULL)                  \
    X(I2_S,    i2_s,   128,  32,   false, NULL)
#define K__INT_TYPES(X)                                          \
    /* id      name     min */                                   \
    X(Q2_K,    q2_K,    true)                                    \
    X(Q3_K,    q3_K,    false)                                   \
    X(Q4_K,    q4_K,    true)                                    \
    X(Q5_K,    q5_K,    true)                                    \
    X(Q6_K,    q6_K,    false)                                   \
    X(TQ1_0,   tq1_0,   false)                                   \
    X(TQ2_0,   tq2_0,   false)                                   \
    X(IQ2_XXS, iq2_xxs, false)                                   \
    X(IQ2_XS,  iq2_xs,  false)                                   \
    X(IQ2_S,   iq2_s,   false)                                   \
    X(IQ3_XXS, iq3_xxs, false)                                   \
    X(IQ3_S,   iq3_s,   false)                                   \
    X(IQ1_S,   iq1_s,   false)                                   \
    X(IQ1_M,   iq1_m,   false)                                   \
    X(IQ4_XS,  iq4_xs,  false)                                   \
    X(IQ2_K,   iq2_k,   false)                                   \
    X(IQ3_K,   iq3_k,   false)                                   \
    X(IQ4_K,   iq4_k,   false)                                   \
    X(IQ5_K,   iq5_k,   false)                                   \
    X(IQ6_K,   iq6_k,   false)                                   \
    X(IQ2_KS,  iq2_ks,  false)                                   \
    X(IQ2_KL,  iq2_kl,  false)                                   \
    X(IQ3_KS,  iq3_ks,  false)                                   \
    X(IQ4_KS,  iq4_ks,  false)                                   \
    X(IQ4_KSS, iq4_kss, false)                                   \
    X(IQ5_KS,  iq5_ks,  false)                                   \
    X(IQ1_KT,  iq1_kt,  false)                                   \
    X(IQ2_KT,  iq2_kt,  false)                                   \
    X(IQ3_KT,  iq3_kt,  false)                                   \
    X(IQ4_KT,  iq4_kt,  false)

#define K_DEQUANT_SCALE(id, type, block, group, has_min, quant)                                            \
    static void k_dequant_##type(const void *src, float *dst, int64_t n) {                                 \
        k__dequant_scale(src, dst, n, block, sizeof(block_##type), group, has_min, k_unpack_##type);       \
    }
#define K_DEQUANT_INT(id, type, has_min)                                                                   \
    static void k_dequant_##type(const void *src, float *dst, int64_t n) {                                 \
        k__dequant_int((const uint8_t *)src + k__row_front(K_##id), k__row_scale(K_##id, src), dst, n,      \
                       sizeof(block_##type), has_min, k_unpack_##type);                                    \
    }
K__SCALE_TYPES(K_DEQUANT_SCALE)
K__INT_TYPES(K_DEQUANT_INT)

/* The formats of ggml's activations: not weights, but a file may contain them. */
static void k_dequant_q8_1(const void *src, float *dst, int64_t n) {
    const block_q8_1 *b = (const block_q8_1 *)src;
    for (int64_t i = 0; i < n; i++) dst[i] = k_f16_to_f32(b[i / 32].d) * (float)b[i / 32].qs[i % 32];
}

static void k_dequant_q8_K(const void *src, float *dst, int64_t n) {
    const block_q8_K *b = (const block_q8_K *)src;
    for (int64_t i = 0; i < n; i++) dst[i] = b[i / 256].d * (float)b[i / 256].qs[i % 256];
}

/* Plain numbers, at any alignment. Integers and F64 round to the nearest float; F64 beyond its range is
 * infinite. */
#define K_DEQUANT_PLAIN(name, ctype, convert)                                            \
    static void k_dequant_##name(const void *src, float *dst, int64_t n) {               \
        for (int64_t i = 0; i < n; i++) {                                                \
            ctype v;                                                                     \
            memcpy(&v, (const uint8_t *)src + (size_t)i * sizeof v, sizeof v);           \
            dst[i] = convert(v);                                                         \
        }                                                                                \
    }
K_DEQUANT_PLAIN(f32, float, )
K_DEQUANT_PLAIN(f16, uint16_t, k_f16_to_f32)
K_DEQUANT_PLAIN(bf16, uint16_t, k_bf16_to_f32)
K_DEQUANT_PLAIN(f16_round, uint16_t, k__f16_as_bf16)
K_DEQUANT_PLAIN(f64, double, (float))
K_DEQUANT_PLAIN(i8, int8_t, (float))
K_DEQUANT_PLAIN(i16, int16_t, (float))
K_DEQUANT_PLAIN(i32, int32_t, (float))
K_DEQUANT_PLAIN(i64, int64_t, (float))

static void k_quant_f32(const float *src, void *dst, int64_t n) { memcpy(dst, src, (size_t)n * sizeof *src); }

static void k_quant_f16(const float *src, void *dst, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t h = k_f32_to_f16(src[i]);
        memcpy((uint8_t *)dst + 2 * i, &h, 2);
    }
}

/* Each level compiles it again for its target. */
static inline __attribute__((always_inline)) void k__narrow_bf16(const float *src, void *dst, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t h = k_f32_to_bf16(src[i]);
        memcpy((uint8_t *)dst + 2 * i, &h, 2);
    }
}

static void k_quant_bf16(const float *src, void *dst, int64_t n) { k__narrow_bf16(src, dst, n); }

/* The value of largest magnitude, with its sign; the first among equals; never a NaN. */
static inline float k__extreme(const float *x, int n) {
    float at = 0;
    for (int i = 0; i < n; i++) at = k__farther(at, x[i]);
    return at;
}

/* d = amax/127, q = x/d. */
static void k_quant_q8_0(const float *src, void *dst, int64_t n) {
    block_q8_0 *b = (block_q8_0 *)dst;
    for (int64_t i = 0; i < n / 32; i++, src += 32) {
        float d = k__scale127(k__extreme(src, 32)), inv = k__inverse(d);
        b[i].d = k_f32_to_f16(d);
        for (int j = 0; j < 32; j++) b[i].qs[j] = k__round8(src[j] * inv);
    }
}

/* 32 codes of up to 5 bits: byte j holds the nibbles of j and j + 16, qh the fifth bits; qh NULL: codes of 4 bits. */
static inline void k__pack(const uint8_t q[32], uint8_t qs[16], uint8_t *qh) {
    for (int j = 0; j < 16; j++) qs[j] = (uint8_t)((q[j] & 15) | (q[j + 16] & 15) << 4);
    for (int j = 0; qh && j < 4; j++) {
        qh[j] = 0;
        for (int k = 0; k < 8; k++) qh[j] = (uint8_t)(qh[j] | q[8 * j + k] >> 4 << k);
    }
}

/* Codes around `mid`. Returns d. */
static inline float k__codes_mid(const float *x, int mid, uint8_t q[32]) {
    float d = k__scale_mid(k__extreme(x, 32), mid), inv = k__inverse(d);
    for (int j = 0; j < 32; j++) q[j] = k__code_mid(x[j] * inv, mid);
    return d;
}

/* Codes above a minimum. Returns d. */
static inline float k__codes_min(const float *x, int top, uint8_t q[32], float *min) {
    float lo = x[0], hi = x[0];
    for (int j = 1; j < 32; j++) {
        lo = x[j] < lo ? x[j] : lo;
        hi = x[j] > hi ? x[j] : hi;
    }
    float d = (hi - lo) / (float)top, inv = k__inverse(d);
    for (int j = 0; j < 32; j++) q[j] = (uint8_t)k__trunc_code((x[j] - lo) * inv, 0.5f, top);
    *min = lo;
    return d;
}

/* Defines k_quant of a type; fifth: where the fifth bits of block i go, or NULL. */
#define K_QUANT_MID(type, mid, fifth)                                        \
    static void k_quant_##type(const float *src, void *dst, int64_t n) {     \
        block_##type *b = (block_##type *)dst;                               \
        uint8_t       q[32];                                                 \
        for (int64_t i = 0; i < n / 32; i++) {                               \
            b[i].d = k_f32_to_f16(k__codes_mid(src + 32 * i, mid, q));       \
            k__pack(q, b[i].qs, fifth);                                      \
        }                                                                    \
    }
K_QUANT_MID(q4_0, 8, NULL)
K_QUANT_MID(q5_0, 16, b[i].qh)

#define K_QUANT_MIN(type, top, fifth)                                        \
    static void k_quant_##type(const float *src, void *dst, int64_t n) {     \
        block_##type *b = (block_##type *)dst;                               \
        uint8_t       q[32];                                                 \
        float         min;                                                   \
        for (int64_t i = 0; i < n / 32; i++) {                               \
            b[i].d = k_f32_to_f16(k__codes_min(src + 32 * i, top, q, &min)); \
            b[i].m = k_f32_to_f16(min);                                      \
            k__pack(q, b[i].qs, fifth);                                      \
        }                                                                    \
    }
K_QUANT_MIN(q4_1, 15, NULL)
K_QUANT_MIN(q5_1, 31, b[i].qh)
