/* ===== [packed] the packed layout of quantised weights (repack) =====
 * Sixteen rows are interleaved, so that the lanes of a vector are rows: no sum goes across lanes,
 * scales are read as vectors, and a code that is unpacked once serves every column of activations.
 * The products have the bits of k_mul_rows, at every level, for any number of columns.
 *
 * LAYOUT  A matrix is a sequence of strips of 16 rows. A strip is a sequence of units along its columns, in 64-byte lines
 * that are read from first to last. A unit is 64, 128 or 256 columns (k__forms): a head with all scales, in front of the
 * codes (INT) or after them (SCALE), and the codes of each 64 columns as planes. Byte 4r + i of a line of codes belongs
 * to row r. A "k-line" is the four columns 4k .. 4k + 3 of all rows; a line of a plane of b bits holds 8/b k-lines:
 *     4 bits  8 lines: k-line i in the low nibbles of line i, k-line 8 + i in the high ones
 *     2 bits  4 lines: k-line 4l + i in bits 2i, 2i + 1 of line l
 *     1 bit   2 lines: k-line 8l + i in bit i of line l
 *     8 bits 16 lines
 * Codes of 3, 5 and 6 bits have two planes, the lower bits in the wider one; k__plane1, 2 and 4 give the places of their
 * lines. Codes are unsigned, q = u - off. Where a format has few uneven values (tables and grids), u is an index into a table
 * of them, so grids are as fast as plain codes. Packing loses nothing: unpacked codes and scales are those of [unpack].
 *
 * USE  The caller allocates k_pack_bytes(type, nr, n) bytes, aligned to 64, gives them to k_pack_rows and frees them later. The
 * rows of the file are not needed afterwards. Row r, a multiple of K_PACK_ROWS, begins k_pack_bytes(type, r, n) bytes after the
 * first, so threads can pack and multiply parts of a matrix. Products with few columns are limited by memory: use pages of 2
 * MB, first written by the thread that will read them. Size compared with the file: equal for Q4_K Q5_K Q2_K IQ4_XS Q4_0 Q4_1
 * Q5_0 Q5_1 Q8_0 IQ4_NL MXFP4 NVFP4 Q1_0 Q2_0 where n is a multiple of the unit, +1 % Q6_K, +2 % Q3_K, +3 % TQ2_0, +6 % I2_S,
 * +26 % TQ1_0, 1.2 to 1.4 times for IQ3_* and IQ2_S, 1.5 to 1.6 for IQ2_X*, 2.0 to 2.1 for IQ1_*; types of ik_llama.cpp have
 * codes of 8 bits: 1.3 times for IQ6_K and Q6_0, up to 4.9 for IQ1_KT. The number of rows is rounded up to a
 * multiple of 16 with zero rows. Prefill needs no second copy: for many columns panels are made from the packed rows.
 * Public: k_pack_bytes, k_pack_at, k_pack_rows; k_mul_packed in [level]. */

enum { K_PACK_ROWS = 16 };                            /* rows of a strip */

/* Contents of a unit's head, in lines of 64 bytes, 4 for each row, or as [value][row]. */
enum {
    K__HEAD_MIN6,   /* per 32: lines sc 0..3, sc 4..7, mn 0..3, 6 bits, mn 4..7 in the upper 2; f16 d, dm */
    K__HEAD_MIN4,   /* per 16: 4 lines of sc | mn << 4; f16 d, dm */
    K__HEAD_S8,     /* per 16: 4 lines of signed sc; f32 d */
    K__HEAD_S6,     /* per 16: sc + 32: 2 lines of low nibbles, one of upper bit pairs; f32 d */
    K__HEAD_S6X2,   /* per 32: sc + 32: low nibbles; then words: upper bit pairs, and above them the f16 of d / factor */
    K__HEAD_ONE,    /* sc is 1; f32 d */
    K__HEAD_F16,    /* f16 fs of each half of the unit */
    K__HEAD_F16M,   /* the same, then f16 fm */
    K__HEAD_E8,     /* E8M0 per 32 */
    K__HEAD_E4      /* E4M3 per 16 */
};

/* Lines of a unit's head. */
K__BODY int k__head_lines(int head) {
    switch (head) {
    case K__HEAD_MIN4: case K__HEAD_S8: return 5;
    case K__HEAD_MIN6: case K__HEAD_S6: return 4;
    case K__HEAD_S6X2: case K__HEAD_F16M: return 2;
    default: return 1;
    }
}

/* Lines of 64 columns in the order of reading. First the single upper bits: a line for k-lines 0..7, a line for 8..15. Then, for
 * k-lines 0..3 with 8..11 and again for 4..7 with 12..15: two lines of bit pairs,
 * four lines of nibbles (k-line i in the low nibbles, 8 + i in the high ones). */
K__BODY int k__plane1(int i) { return i / 8 * 64; }
K__BODY int k__plane2(int bits, int i) {
    return (bits & 1) * 128 + i / 4 % 2 * 64 * (bits & 6) + i / 8 * 64;
}
K__BODY int k__plane4(int bits, int i) {
    return (bits & 1) * 128 + i / 4 % 2 * 64 * (bits & 6) + (bits & 2) * 64 + i % 4 * 64;
}

/* How a type is packed; bits 0: it is not. */
typedef struct {
    uint8_t       bits, segs, head;                   /* bits of a code; columns of a unit / 64; K__HEAD_ */
    uint8_t       off, most;                          /* q = u - off; the largest u */
    float         factor;                             /* d = factor * the f16 of the file */
    const int8_t *values;                             /* [16] q of each code, NULL: q = code - off */
} k__form;

K_BOTH const int8_t k__values_q1[16] = {-1, 1};
K_BOTH const int8_t k__values_iq1[16] = {-9, -7, -1, 1, 7, 9};
K_BOTH const int8_t k__values_iq2[16] = {-43, -25, -8, 8, 25, 43};
K_BOTH const int8_t k__values_iq3_xxs[16] = {-62, -52, -44, -36, -28, -20, -12, -4,
                                             4,   12,  20,  28,  36,  44,  52,  62};
K_BOTH const int8_t k__values_iq3_s[16] = {-15, -13, -11, -9, -7, -5, -3, -1, 1, 3, 5, 7, 9, 11, 13, 15};

/* Types with a form of their own; the far values of the others are those of k__form_like(). */
#define K__FORMS_OWN(X) \
    /* id       name     bits segs head         off most factor values */ \
    X(Q4_K,    q4_K,    4, 4, K__HEAD_MIN6,   0,  15, 1, NULL) \
    X(Q5_K,    q5_K,    5, 4, K__HEAD_MIN6,   0,  31, 1, NULL) \
    X(Q2_K,    q2_K,    2, 4, K__HEAD_MIN4,   0,   3, 1, NULL) \
    X(Q6_K,    q6_K,    6, 4, K__HEAD_S8,    32,  63, 1, NULL) \
    X(Q3_K,    q3_K,    3, 4, K__HEAD_S6,     4,   7, 1, NULL) \
    X(TQ1_0,   tq1_0,   2, 4, K__HEAD_ONE,    1,   2, 1, NULL) \
    X(TQ2_0,   tq2_0,   2, 4, K__HEAD_ONE,    1,   3, 1, NULL) \
    X(IQ4_XS,  iq4_xs,  4, 4, K__HEAD_S6X2, 128, 241, 1, k__iq4_values) \
    X(IQ3_XXS, iq3_xxs, 4, 4, K__HEAD_S6X2,  62, 124, 0.25f, k__values_iq3_xxs) \
    X(IQ3_S,   iq3_s,   4, 4, K__HEAD_S6X2,  15,  30, 1, k__values_iq3_s) \
    X(IQ2_XXS, iq2_xxs, 3, 4, K__HEAD_S6X2,  43,  86, 0.125f, k__values_iq2) \
    X(IQ2_XS,  iq2_xs,  3, 4, K__HEAD_S6,    43,  86, 1, k__values_iq2) \
    X(IQ2_S,   iq2_s,   3, 4, K__HEAD_S6,    43,  86, 1, k__values_iq2) \
    X(IQ1_S,   iq1_s,   3, 4, K__HEAD_S6X2,   9,  18, 0.125f, k__values_iq1) \
    X(IQ1_M,   iq1_m,   3, 4, K__HEAD_S6,     9,  18, 1, k__values_iq1) \
    X(IQ6_K,   iq6_k,   8, 4, K__HEAD_S8,   128, 255, 1, NULL) \
    X(Q4_0,    q4_0,    4, 1, K__HEAD_F16,    8,  15, 1, NULL) \
    X(Q4_1,    q4_1,    4, 1, K__HEAD_F16M,   0,  15, 1, NULL) \
    X(Q5_0,    q5_0,    5, 1, K__HEAD_F16,   16,  31, 1, NULL) \
    X(Q5_1,    q5_1,    5, 1, K__HEAD_F16M,   0,  31, 1, NULL) \
    X(Q8_0,    q8_0,    8, 1, K__HEAD_F16,  128, 255, 1, NULL) \
    X(Q1_0,    q1_0,    1, 4, K__HEAD_F16,    1,   2, 1, k__values_q1) \
    X(Q2_0,    q2_0,    2, 2, K__HEAD_F16,    1,   3, 1, NULL) \
    X(IQ4_NL,  iq4_nl,  4, 1, K__HEAD_F16,  128, 241, 1, k__iq4_values) \
    X(MXFP4,   mxfp4,   4, 2, K__HEAD_E8,    12,  24, 1, k__fp4_values) \
    X(NVFP4,   nvfp4,   4, 1, K__HEAD_E4,    12,  24, 1, k__fp4_values)
#define K__FORMS_LIKE(X) \
    X(Q6_0,    q6_0,    8, 1, K__HEAD_F16,  128, 255, 1, NULL) \
    X(I2_S,    i2_s,    2, 2, K__HEAD_F16,    1,   3, 1, NULL) \
    X(IQ2_K,   iq2_k,   8, 4, K__HEAD_S8,   128, 255, 1, NULL) \
    X(IQ3_K,   iq3_k,   8, 4, K__HEAD_S8,   128, 255, 1, NULL) \
    X(IQ4_K,   iq4_k,   8, 4, K__HEAD_S8,   128, 255, 1, NULL) \
    X(IQ5_K,   iq5_k,   8, 4, K__HEAD_S8,   128, 255, 1, NULL) \
    X(IQ2_KS,  iq2_ks,  8, 4, K__HEAD_S8,   128, 255, 1, NULL) \
    X(IQ2_KL,  iq2_kl,  8, 4, K__HEAD_S8,   128, 255, 1, NULL) \
    X(IQ3_KS,  iq3_ks,  8, 4, K__HEAD_S8,   128, 255, 1, NULL) \
    X(IQ4_KS,  iq4_ks,  8, 4, K__HEAD_S8,   128, 255, 1, NULL) \
    X(IQ4_KSS, iq4_kss, 8, 4, K__HEAD_S8,   128, 255, 1, NULL) \
    X(IQ5_KS,  iq5_ks,  8, 4, K__HEAD_S8,   128, 255, 1, NULL) \
    X(IQ1_KT,  iq1_kt,  8, 4, K__HEAD_S8,   128, 255, 1, NULL) \
    X(IQ2_KT,  iq2_kt,  8, 4, K__HEAD_S8,   128, 255, 1, NULL) \
    X(IQ3_KT,  iq3_kt,  8, 4, K__HEAD_S8,   128, 255, 1, NULL) \
    X(IQ4_KT,  iq4_kt,  8, 4, K__HEAD_S8,   128, 255, 1, NULL)
#define K__FORMS(X) K__FORMS_OWN(X) K__FORMS_LIKE(X)

/* The type of K__FORMS_OWN with the same form. */
K_BOTH inline uint32_t k__form_like(uint32_t type) {
    switch (type) {
#define K__FORM_ITSELF(id, ...) case K_##id: return type;
    K__FORMS_OWN(K__FORM_ITSELF)
    case K_Q6_0: return K_Q8_0;
    case K_I2_S: return K_Q2_0;
    default: return K_IQ6_K;
    }
}

K_BOTH inline size_t k__unit_bytes(const k__form *f) { return 64u * (2u * f->bits * f->segs + (unsigned)k__head_lines(f->head)); }

/* INT kernels need scales first, so the head of a unit is in front of its codes; SCALE kernels need them last, so it is after. In
 * both cases lines are read in rising order, which the hardware prefetches. */
K_BOTH inline size_t k__head_at(const k__form *f) { return f->head <= K__HEAD_ONE ? 0 : 128u * f->bits * f->segs; }
K_BOTH inline size_t k__codes_at(const k__form *f) { return f->head <= K__HEAD_ONE ? 64u * (unsigned)k__head_lines(f->head) : 0; }

/* Units of n columns. */
K_BOTH inline int64_t k__units(const k__form *f, int64_t n) {
    return (n + 64 * f->segs - 1) / (64 * f->segs);
}

K_BOTH inline uint32_t k__bits2(uint32_t v, int at) { return v >> at & 3; }

/* The inverses of k_e8m0_half and k_ue4m3_half. An E4M3 byte shifted left by 7 is an f16 with 2^-7 times its value. */
K_BOTH inline int k__e8m0_of(float f) {
    uint32_t u = k__bits_of(f);
    return (int)(u < 0x00800000 ? u >> 22 : (u >> 23) + 1);
}
K_BOTH inline int   k__ue4m3_of(float f) { return k_f32_to_f16(f * 0x1p-7f) >> 7; }

/* Bytes of a value in a line of a head. */
K_BOTH inline int k__head_width(int head, int line) {
    if (head == K__HEAD_E8 || head == K__HEAD_E4) return 1;
    const bool mins = head == K__HEAD_MIN6 || head == K__HEAD_MIN4;
    return head >= K__HEAD_F16 || (mins && line == k__head_lines(head) - 1) ? 2 : 4;
}

/* The scales of one row in the unit that begins at column `first` of
 * the block: its values in each line of the head, as one word. */
K_BOTH inline void k__head_row(const k__form *f, const k__unpacked *u, int first, uint32_t v[5]) {
    for (int i = 0; i < 5; i++) v[i] = 0;
    switch (f->head) {
    case K__HEAD_MIN6:
        for (int j = 0; j < 4; j++) {
            uint32_t m = (uint32_t)u->mn[8 + 2 * j];
            v[0] |= ((uint32_t)u->sc[2 * j] | k__bits2(m, 0) << 6) << 8 * j;
            v[1] |= ((uint32_t)u->sc[8 + 2 * j] | k__bits2(m, 2) << 6) << 8 * j;
            v[2] |= ((uint32_t)u->mn[2 * j] | k__bits2(m, 4) << 6) << 8 * j;
        }
        v[3] = k_f32_to_f16(u->d) | (uint32_t)k_f32_to_f16(u->dm) << 16;
        break;
    case K__HEAD_MIN4:
        for (int g = 0; g < 16; g++) v[g / 4] |= (uint32_t)(u->sc[g] | u->mn[g] << 4) << g % 4 * 8;
        v[4] = k_f32_to_f16(u->d) | (uint32_t)k_f32_to_f16(u->dm) << 16;
        break;
    case K__HEAD_S8:
        for (int g = 0; g < 16; g++) v[g / 4] |= (uint32_t)(u->sc[g] & 255) << g % 4 * 8;
        v[4] = k__bits_of(u->d);
        break;
    case K__HEAD_S6:
        for (int g = 0; g < 16; g++) {
            uint32_t s = (uint32_t)(u->sc[g] + 32);
            v[g / 8] |= (s & 15) << g % 8 * 4;
            v[2] |= s >> 4 << 2 * g;
        }
        v[3] = k__bits_of(u->d);
        break;
    case K__HEAD_S6X2:
        for (int g = 0; g < 8; g++) {
            uint32_t s = (uint32_t)(u->sc[2 * g] + 32);
            v[0] |= (s & 15) << 4 * g;
            v[1] |= s >> 4 << 2 * g;
        }
        v[1] |= (uint32_t)k_f32_to_f16(u->d / f->factor) << 16;
        break;
    case K__HEAD_ONE: v[0] = k__bits_of(u->d); break;
    case K__HEAD_F16: case K__HEAD_F16M:
        for (int i = 0; i < 2; i++) {
            v[0] |= (uint32_t)k_f32_to_f16(u->fs[(first + 32 * f->segs * i) / 32]) << 16 * i;
            if (f->head == K__HEAD_F16M) v[1] |= (uint32_t)k_f32_to_f16(u->fm[first / 32 + i]) << 16 * i;
        }
        break;
    case K__HEAD_E8:
        for (int i = 0; i < 4; i++) v[0] |= (uint32_t)k__e8m0_of(u->fs[first / 32 + i]) << 8 * i;
        break;
    case K__HEAD_E4:
        for (int i = 0; i < 4; i++) v[0] |= (uint32_t)k__ue4m3_of(u->fs[first / 16 + i]) << 8 * i;
        break;
    }
}

/* Where a format has a table: code[(uint8_t)q] is the index of q, the first of equal ones. */
K_BOTH inline void k__codes_of(const k__form *f, uint8_t code[256]) {
    memset(code, 0, 256);
    for (int i = 15; f->values && i >= 0; i--)
        if (i < 1 << f->bits) code[(uint8_t)f->values[i]] = (uint8_t)i;
}

K_BOTH inline uint8_t k__code_of(const k__form *f, const uint8_t *code, int8_t q) {
    return f->values ? code[(uint8_t)q] : (uint8_t)(q + f->off);
}

#ifndef __CUDACC__

#define K__FORM_ROW(id, name, ...) [K_##id] = {__VA_ARGS__},
static const k__form k__forms[K_TYPE_MAX] = {K__FORMS(K__FORM_ROW)};

K_PUBLIC size_t k_pack_bytes(uint32_t type, int64_t nr, int64_t n) {
    size_t bytes;
    if (type >= K_TYPE_MAX || !k__forms[type].bits || nr <= 0 || n <= 0 || n % k_types[type].block) return 0;
    const k__form *f = &k__forms[type];
    if (nr > INT64_MAX - K_PACK_ROWS || n > INT64_MAX - K_SUPER) return 0;
    if (__builtin_mul_overflow((size_t)k__units(f, n), k__unit_bytes(f), &bytes)) return 0;
    return __builtin_mul_overflow(bytes, (size_t)((nr + K_PACK_ROWS - 1) / K_PACK_ROWS), &bytes) ? 0 : bytes;
}

K_PUBLIC size_t k_pack_at(uint32_t type, int r, int n) { return r ? k_pack_bytes(type, r, n) : 0; }

/* The lines of planes from those of sixteen k-lines of 64 columns; k__planes_get converts back. */
static void k__planes_put(int bits, const uint8_t line[16][64], uint8_t *p) {
    if (bits == 8) {
        memcpy(p, line, 1024);
        return;
    }
    for (int i = 0; bits & 4 && i < 8; i++)
        for (int b = 0; b < 64; b++) p[k__plane4(bits, i) + b] = (uint8_t)((line[i][b] & 15) | (line[i + 8][b] & 15) << 4);
    for (int i = 0; bits & 2 && i < 16; i += 4)
        for (int b = 0; b < 64; b++) {
            unsigned v = 0;
            for (int k = 0; k < 4; k++) v |= (line[i + k][b] >> (bits & 4) & 3u) << 2 * k;
            p[k__plane2(bits, i) + b] = (uint8_t)v;
        }
    for (int i = 0; bits & 1 && i < 16; i += 8)
        for (int b = 0; b < 64; b++) {
            unsigned v = 0;
            for (int k = 0; k < 8; k++) v |= (line[i + k][b] >> (bits & 6) & 1u) << k;
            p[k__plane1(i) + b] = (uint8_t)v;
        }
}

static void k__planes_get(int bits, const uint8_t *p, uint8_t line[16][64]) {
    if (bits == 8) {
        memcpy(line, p, 1024);
        return;
    }
    for (int i = 0; i < 16; i++)
        for (int b = 0; b < 64; b++) {
            int v = 0;
            if (bits & 4) v = p[k__plane4(bits, i) + b] >> i / 8 * 4 & 15;
            if (bits & 2) v |= (p[k__plane2(bits, i) + b] >> i % 4 * 2 & 3) << (bits & 4);
            if (bits & 1) v |= (p[k__plane1(i) + b] >> i % 8 & 1) << (bits & 6);
            line[i][b] = (uint8_t)v;
        }
}

static inline uint16_t k__head_get16(const uint8_t *h, int i, int r) {
    uint16_t v;
    memcpy(&v, h + 32 * i + 2 * r, 2);
    return v;
}
static inline uint32_t k__head_get32(const uint8_t *h, int i, int r) {
    uint32_t v;
    memcpy(&v, h + 64 * i + 4 * r, 4);
    return v;
}

static inline float k__ue4m3_float(uint8_t x) { return k_f16_to_f32((uint16_t)(x << 7)) * 0x1p7f; }

/* Writes the scales of row r to the head h of the unit that begins at column `first` of the block. */
static void k__head_put(const k__form *f, const k__unpacked *u, int first, int r, uint8_t *h) {
    uint32_t v[5];
    k__head_row(f, u, first, v);
    for (int i = 0; i < k__head_lines(f->head); i++) {
        const int width = k__head_width(f->head, i);
        for (int at = 0; at < 4 / width; at++) {
            const uint32_t part = v[i] >> 8 * width * at;
            memcpy(h + 64 * i + 16 * width * at + width * r, &part, (size_t)width);
        }
    }
}

/* The inverse of k__head_put. */
static void k__head_get(const k__form *f, const uint8_t *h, int first, int r, k__unpacked *u) {
    const int last = k__head_lines(f->head) - 1;
    uint32_t  v[5] = {0};
    for (int i = 0; i <= last; i++) v[i] = k__head_get32(h, i, r);
    u->d = k__f32_of(v[last]);
    switch (f->head) {
    case K__HEAD_MIN6:
        for (int j = 0; j < 4; j++) {
            uint32_t a = v[0] >> 8 * j & 255, b = v[1] >> 8 * j & 255, c = v[2] >> 8 * j & 255;
            k__fill16(u->sc + 2 * j, 2, (int)(a & 63));
            k__fill16(u->sc + 8 + 2 * j, 2, (int)(b & 63));
            k__fill16(u->mn + 2 * j, 2, (int)(c & 63));
            k__fill16(u->mn + 8 + 2 * j, 2, (int)(a >> 6 | b >> 6 << 2 | c >> 6 << 4));
        }
        break;
    case K__HEAD_MIN4:
        for (int g = 0; g < 16; g++) {
            u->sc[g] = (int16_t)(v[g / 4] >> g % 4 * 8 & 15);
            u->mn[g] = (int16_t)(v[g / 4] >> (g % 4 * 8 + 4) & 15);
        }
        break;
    case K__HEAD_S8:
        for (int g = 0; g < 16; g++) u->sc[g] = (int8_t)(v[g / 4] >> g % 4 * 8);
        break;
    case K__HEAD_S6:
        for (int g = 0; g < 16; g++)
            u->sc[g] = (int16_t)((v[g / 8] >> g % 8 * 4 & 15) + (k__bits2(v[2], 2 * g) << 4)) - 32;
        break;
    case K__HEAD_S6X2:
        for (int g = 0; g < 8; g++)
            k__fill16(u->sc + 2 * g, 2, (int)((v[0] >> 4 * g & 15) + (k__bits2(v[1], 2 * g) << 4)) - 32);
        u->d = k_f16_to_f32((uint16_t)(v[1] >> 16)) * f->factor;
        break;
    case K__HEAD_ONE: k__fill16(u->sc, 16, 1); break;
    case K__HEAD_F16: case K__HEAD_F16M:
        for (int i = 0; i < 2 * f->segs; i++) {       /* for each 32 columns */
            u->fs[first / 32 + i] = k_f16_to_f32(k__head_get16(h, i / f->segs, r));
            if (f->head == K__HEAD_F16M) u->fm[first / 32 + i] = k_f16_to_f32(k__head_get16(h, 2 + i, r));
        }
        break;
    case K__HEAD_E8:
        for (int i = 0; i < 4; i++) u->fs[first / 32 + i] = k_e8m0_half(h[16 * i + r]);
        break;
    case K__HEAD_E4:
        for (int i = 0; i < 4; i++) u->fs[first / 16 + i] = k__ue4m3_float(h[16 * i + r]);
        break;
    }
    if (f->head == K__HEAD_MIN6 || f->head == K__HEAD_MIN4) {
        u->d = k_f16_to_f32(k__head_get16(h, 2 * last, r));
        u->dm = k_f16_to_f32(k__head_get16(h, 2 * last + 1, r));
    }
}

/* Writes up to 256 columns of sixteen rows, in whole units. Where the format
 * has a table, code[(uint8_t)q] is the index of q. Returns the end. */
static uint8_t *k__block_put(const k__form *f, const uint8_t *code, const k__unpacked *u, int units,
                             uint8_t *w) {
    uint8_t codes[K_PACK_ROWS][K_SUPER], line[16][64];
    for (int r = 0; r < K_PACK_ROWS; r++)
        for (int c = 0; c < K_SUPER; c++) codes[r][c] = k__code_of(f, code, u[r].q[c]);
    for (int i = 0; i < units; i++, w += k__unit_bytes(f)) {
        uint8_t *head = w + k__head_at(f);
        for (int s = 0; s < f->segs; s++) {
            for (int k = 0; k < 16; k++)
                for (int r = 0; r < K_PACK_ROWS; r++)
                    memcpy(line[k] + 4 * r, codes[r] + 64 * (i * f->segs + s) + 4 * k, 4);
            k__planes_put(f->bits, line, w + k__codes_at(f) + 128 * f->bits * s);
        }
        for (int r = 0; r < K_PACK_ROWS; r++) k__head_put(f, &u[r], 64 * f->segs * i, r, head);
    }
    return w;
}

static void k__block_get(const k__form *f, const uint8_t *w, int units, k__unpacked *u) {
    uint8_t line[16][64];
    for (int i = 0; i < units; i++, w += k__unit_bytes(f)) {
        for (int s = 0; s < f->segs; s++) {
            int first = 64 * (i * f->segs + s);
            k__planes_get(f->bits, w + k__codes_at(f) + 128 * f->bits * s, line);
            for (int r = 0; r < K_PACK_ROWS; r++)
                for (int c = 0; c < 64; c++) {
                    uint8_t v = line[c / 4][4 * r + c % 4];
                    u[r].q[first + c] = (int8_t)(f->values ? f->values[v & 15] : v - f->off);
                }
        }
        for (int r = 0; r < K_PACK_ROWS; r++)
            k__head_get(f, w + k__head_at(f), 64 * f->segs * i, r, &u[r]);
    }
}

K_PUBLIC void k_pack_rows(uint32_t type, const void *src, size_t row_bytes, int nr, int n, void *dst) {
    const k__form *f = &k__forms[type];
    uint8_t        code[256], *w = dst;
    k__codes_of(f, code);
    for (int r0 = 0; r0 < nr; r0 += K_PACK_ROWS)
        for (int k = 0; k < n; k += K_SUPER) {
            k__unpacked u[K_PACK_ROWS];
            int         len = n - k < K_SUPER ? n - k : K_SUPER;
            memset(u, 0, sizeof u);
            for (int r = 0; r < K_PACK_ROWS && r0 + r < nr; r++)
                k__unpack_at(type, (const uint8_t *)src + (size_t)(r0 + r) * row_bytes, k, len, &u[r]);
            w = k__block_put(f, code, u, (int)k__units(f, len), w);
        }
}

/* One strip times all columns. */
static void k__mul_strip_ref(uint32_t type, const uint8_t *w, int rows, int n, const k_acts *a, float *y,
                             size_t ldy) {
    const k__form *f = &k__forms[type];
    const k_type  *ty = &k_types[type];
    for (int k = 0; k < n; k += K_SUPER) {
        k__unpacked u[K_PACK_ROWS];
        int         len = n - k < K_SUPER ? n - k : K_SUPER, units = (int)k__units(f, len);
        k__block_get(f, w, units, u);
        w += (size_t)units * k__unit_bytes(f);
        for (int t = 0; t < a->nt; t++) {
            size_t         row = (size_t)k__row_of(a, t);
            const int8_t  *q = a->q + row * a->ldq + k;
            const int16_t *sum = a->sum[row * a->ldd + (size_t)k / K_SUPER].of16;
            float          d = a->d[row * a->ldd + (size_t)(k / K_SUPER)];
            for (int r = 0; r < rows; r++) {
                float *out = &y[(size_t)t * ldy + (size_t)r];
                float  v = ty->kind == K_KIND_INT
                               ? k__int_block_ref(&u[r], ty->has_min, q, sum)
                               : k__scale_block_ref(&u[r], ty->group, ty->has_min, q, sum, len);
                *out = (k ? *out : 0.0f) + v * d;
            }
        }
    }
}

/* Whether far values have been added. */
static bool k_mul_packed_ref(uint32_t type, const void *w, int nr, int n, const k_acts *a, float *y, size_t ldy, void *scratch,
                             k__far_mem *far) {
    size_t strip = k_pack_bytes(type, K_PACK_ROWS, n);
    (void)scratch, (void)far;
    for (int r = 0; r < nr; r += K_PACK_ROWS)
        k__mul_strip_ref(type, (const uint8_t *)w + (size_t)(r / K_PACK_ROWS) * strip,
                         nr - r < K_PACK_ROWS ? nr - r : K_PACK_ROWS, n, a, y + r, ldy);
    return false;
}

#endif /* __CUDACC__ */
