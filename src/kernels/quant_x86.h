/* ===== [quant_x86] what the vector levels share =====
 * Two methods with the same arithmetic; the number of columns (activation rows) decides:
 *   dot    few columns: one weight row at a time, read as one sequential stream. Codes are unpacked in registers for up to eight
 *          columns; integer sums are stored, and the float terms of eight blocks are computed together
 *   panel  many columns: 32 rows are unpacked into u8 codes [k/4][row][4], then multiplied with tiles of columns
 * Codes are unsigned, u = q + 2^off, because vpdpbusd and vpmaddubsw need one unsigned operand. The offset is subtracted in
 * integers, with the sums of 16 activations. */

enum { K__ANY = K_TYPE_MAX };                         /* "type" of codes and scales that a scalar decoder has written */
enum {
    K__COLS  = 8,                                     /* columns of one dot, at most */
    K__TILE  = 8,                                     /* columns of one panel tile, at most */
    K__STRIP = 32                                     /* rows of a panel */
};

/* The offset of unsigned codes: u = q + 2^off, u <= 63; off -1: no offset. K__WIDE: q needs all eight bits. */
enum { K__WIDE = 7 };
static inline __attribute__((always_inline)) int k__off(uint32_t type) {
    switch (type) {
    case K_Q4_K: case K_Q5_K: case K_Q2_K: case K_Q4_1: case K_Q5_1: return -1;
    case K_TQ2_0: case K_Q1_0: return 0;
    case K_Q3_K: return 2;
    case K_Q4_0: return 3;
    case K_Q5_0: return 4;
    case K_Q6_K: return 5;
    default: return K__WIDE;
    }
}

/* Bytes of 256 weights. */
static inline size_t k__super_bytes(uint32_t type) {
    return (size_t)(K_SUPER / k_types[type].block) * k_types[type].bytes;
}

/* Up to eight columns of a product. A tail of less than 256 is padded with zeros in weights and activations. */
typedef struct {
    int            n, nb, tail;                       /* columns; whole blocks; weights after them */
    int            offset;                            /* of the codes: q = u - offset */
    int            bound;                             /* k__tiles.bound of the tiles that multiply them */
    const int8_t  *q[K__COLS];                        /* [nb][K_SUPER] codes of each column */
    const k_sums  *sum[K__COLS];                      /* [nb] */
    const float   *d[K__COLS];                        /* [nb], and that of the tail */
    int8_t         tq[K__COLS][K_SUPER];              /* the tail, padded */
    k_sums         tsum[K__COLS];                     /* its sums */
} k__cols;

static void k__cols_set(k__cols *x, const k_acts *a, int t0, int count, int n) {
    x->n = count;
    x->nb = n / K_SUPER;
    x->tail = n % K_SUPER;
    for (int c = 0; c < count; c++) {
        size_t row = (size_t)k__row_of(a, t0 + c);
        x->q[c] = a->q + row * a->ldq;
        x->sum[c] = a->sum + row * a->ldd;
        x->d[c] = a->d + row * a->ldd;
        if (!x->tail) continue;
        memset(x->tq[c], 0, sizeof x->tq[c]);
        memcpy(x->tq[c], x->q[c] + x->nb * K_SUPER, (size_t)x->tail);
        x->tsum[c] = x->sum[c][x->nb];
    }
}

static inline __attribute__((always_inline)) const int8_t *k__cols_q(const k__cols *x, int c, int b) {
    return b < x->nb ? x->q[c] + (size_t)b * K_SUPER : x->tq[c];
}
static inline __attribute__((always_inline)) const int16_t *k__cols_sum(const k__cols *x, int c, int b) {
    return b < x->nb ? x->sum[c][b].of16 : x->tsum[c].of16;
}

/* 256 weights of 32 rows: q[k / 4][row][k % 4] is the code plus k__cols.offset. INT: sc in the format of
 * the level's dot; mn: int16 pairs of groups 2p, 2p + 1. SCALE: fs of up to 16 groups, or fs of 8 and fm
 * of 8. k__ready512 fills the rest: fused, and fs of 8 .. 15 where there are 8 groups without minima. pairs: for tiles by
 * k__pair_sums512, sc of two groups of 16 or of 32 as words, the first in the upper half; other levels do not fill them. */
typedef struct {
    uint8_t q[K_SUPER / 4][K__STRIP][4];
    union {
        struct {
            int32_t sc[16][K__STRIP], mn[8][K__STRIP], pairs[8][K__STRIP];
            float   d[K__STRIP], dm[K__STRIP];
        };
        struct {
            float fs[16][K__STRIP];
            bool  fused;
        };
    };
} k__panel;

/* The bytes of the next strip, which a tile prefetches while it multiplies. */
typedef struct {
    const uint8_t *next;
    int            lines;                             /* cache lines to prefetch with each block */
} k__ahead;

#define K__LIST_AVX2   "avx2,fma,f16c"
#define K__LIST512     "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c"
#define K__LIST_AMX    K__LIST512 ",amx-tile,amx-int8"
#define K__IN_AVX2     static inline __attribute__((always_inline, target(K__LIST_AVX2)))
#define K__IN_512      static inline __attribute__((always_inline, target(K__LIST512)))
#define K__IN_AMX      static inline __attribute__((always_inline, target(K__LIST_AMX)))
#define K__AVX2        static __attribute__((noinline, target(K__LIST_AVX2)))
#define K__512         static __attribute__((noinline, target(K__LIST512)))
#define K__AMX         static __attribute__((noinline, target(K__LIST_AMX)))
#define K__SHARED_AVX2 K__SHARED __attribute__((noinline, target(K__LIST_AVX2)))
#define K__SHARED_512  K__SHARED __attribute__((noinline, target(K__LIST512)))
#define K__SHARED_AMX  K__SHARED __attribute__((noinline, target(K__LIST_AMX)))

/* What the sections of products give to [level]. */
#define K__PRODUCTS(target, l)                                                                                        \
    target void k_mul_quant_##l(uint32_t type, const void *w, size_t row_bytes, int nr, int n, const k_acts *a,       \
                                float *y, size_t ldy, void *scratch);                                                 \
    target bool k_mul_packed_##l(uint32_t type, const void *w, int nr, int n, const k_acts *a, float *y, size_t ldy,  \
                                 void *scratch, k__far_mem *far);
K__PRODUCTS(K__SHARED_AVX2, avx2)
K__PRODUCTS(K__SHARED_AVX2, vnni)
K__PRODUCTS(K__SHARED_512, avx512)
K__PRODUCTS(K__SHARED_AMX, amx)
K__SHARED_AVX2 int k_quant_act_avx2(const float *x, int n, int8_t *q, k_sums *sum, float *d);
K__SHARED_512 int  k_quant_act_avx512(const float *x, int n, int8_t *q, k_sums *sum, float *d);
K__SHARED_AVX2 int k_far_act_avx2(const float *x, int n, bool fine, uint8_t at[K_SUPER]);
K__SHARED_512 int  k_far_act_avx512(const float *x, int n, bool fine, uint8_t at[K_SUPER]);
K__SHARED bool     k__decoded_avx2(uint32_t type);
K__SHARED_512 void k_tile_trial_avx512(int cols);

/* Reorders words 0 1 2 3 of each half to 0 2 1 3. */
K__BODY __m128i k__crossed(__m128i v) { return _mm_shufflehi_epi16(_mm_shufflelo_epi16(v, 0xd8), 0xd8); }

K__IN_AVX2 int k__most8(__m256i v) {
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1)));
}

K__IN_AVX2 int k__total8(__m256i v) {
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
}

/* The largest sum of one sign: sums of magnitudes plus magnitudes of sums are twice that. */
K__IN_AVX2 int k__most_one_sign(__m256i sizes, __m256i sums) {
    return k__most8(_mm256_add_epi32(sizes, _mm256_abs_epi32(sums))) / 2;
}

/* Unaligned loads. */
static inline int32_t  k__i32(const void *p) { int32_t v; memcpy(&v, p, 4); return v; }
static inline uint32_t k__u32(const void *p) { uint32_t v; memcpy(&v, p, 4); return v; }
static inline uint16_t k__u16(const void *p) { uint16_t v; memcpy(&v, p, 2); return v; }
K__IN_AVX2 __m128i k__ld128(const void *p) { return _mm_loadu_si128((const __m128i *)p); }
K__IN_AVX2 __m256i k__ld256(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }

/* Scales of eight rows as floats: f16, E8M0, E4M3. */
K__IN_AVX2 __m256 k__lane_halves(const uint8_t *p) { return _mm256_cvtph_ps(k__ld128(p)); }
K__IN_AVX2 __m256 k__lane_e8(const uint8_t *p) {
    __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)), one = _mm256_set1_epi32(1);
    __m256i low = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    __m256i v = _mm256_slli_epi32(_mm256_sub_epi32(e, one), 23);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(low, v, _mm256_cmpgt_epi32(e, one)));
}

K__IN_AVX2 __m256 k__lane_e4(const uint8_t *p) {
    __m128i v = _mm_slli_epi16(_mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)p)), 7);
    return _mm256_mul_ps(_mm256_cvtph_ps(v), _mm256_set1_ps(0x1p7f));
}

/* In assembly, so that code compiled for AVX2 can contain it; only the avx_vnni level executes it. */
K__IN_AVX2 void k__dot8_vnni(__m256i *acc, __m256i u, __m256i x) {
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(*acc) : "x"(u), "x"(x));
}
K__IN_AVX2 void k__dot16_vnni(__m256i *acc, __m256i a, __m256i b) {
    __asm__("%{vex%} vpdpwssd %2, %1, %0" : "+x"(*acc) : "x"(a), "x"(b));
}

/* The float terms of one row and up to eight blocks, INT: sums of eight lanes each give the terms u*da. k__add_terms adds
 * the terms of several rows in order: the additions of one row wait for each other, those of several rows overlap. */
typedef struct {
    _Alignas(64) __m256i sum[K__COLS][8][2];          /* [column][block] partial isum and imin */
    uint32_t             d[8];                        /* [block] as in k__heads */
} k__int_park;

/* lane i = sum over the lanes of v[i * stride] */
K__IN_AVX2 __m256i k__sum8(const __m256i *v, int stride) {
    __m256i a = _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[stride]),
                                  _mm256_hadd_epi32(v[2 * stride], v[3 * stride]));
    __m256i b = _mm256_hadd_epi32(_mm256_hadd_epi32(v[4 * stride], v[5 * stride]),
                                  _mm256_hadd_epi32(v[6 * stride], v[7 * stride]));
    return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
}

/* Blocks m .. 7 do not exist: their values are set to zeros and not used. */
K__IN_AVX2 void k__int_blank(k__int_park *k, int nc, int m) {
    for (int i = m; i < 8; i++) k->d[i] = 0;
    for (int c = 0; c < nc; c++)
        for (int i = m; i < 8; i++) k->sum[c][i][0] = k->sum[c][i][1] = _mm256_setzero_si256();
}

/* d of eight blocks; dm when second. */
K__IN_AVX2 __m256 k__park_d(const k__int_park *k, bool half, bool second) {
    __m256i v = k__ld256(k->d);
    if (!half) return _mm256_castsi256_ps(v);
    v = second ? _mm256_srli_epi32(v, 16) : _mm256_and_si256(v, _mm256_set1_epi32(0xffff));
    v = _mm256_permute4x64_epi64(_mm256_packus_epi32(v, v), 0xd8);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(v));
}

K__IN_AVX2 void k__int_finish(const k__int_park *k, bool half, bool has_min, int c, const float *da,
                              float *term) {
    __m256 u = _mm256_mul_ps(k__park_d(k, half, false), _mm256_cvtepi32_ps(k__sum8(&k->sum[c][0][0], 2)));
    if (has_min)
        u = _mm256_sub_ps(
            u, _mm256_mul_ps(k__park_d(k, half, true), _mm256_cvtepi32_ps(k__sum8(&k->sum[c][0][1], 2))));
    _mm256_storeu_ps(term, _mm256_mul_ps(u, _mm256_loadu_ps(da)));
}

/* The same, SCALE: the sums of groups are complete; an 8x8 transpose makes the sum over groups a sum over vectors. */
typedef struct {
    __m256i  dot[K__COLS][8][2];                      /* [column][block] dots of eight groups; of 16: two vectors */
    __m256i  asum[K__COLS][8];                        /* [column][block] sums of activations of eight groups */
    float    fs[8][16];                               /* [block][group] scales */
    uint16_t hs[8][8], hm[8][8];                      /* [block][group] scales and minima of formats that store f16 */
} k__scale_park;

K__IN_AVX2 void k__scale_blank(k__scale_park *k, int nc, int m) {
    for (int i = m; i < 8; i++) {
        memset(k->fs[i], 0, sizeof k->fs[i]);
        memset(k->hs[i], 0, sizeof k->hs[i]);
        memset(k->hm[i], 0, sizeof k->hm[i]);
    }
    for (int c = 0; c < nc; c++)
        for (int i = m; i < 8; i++)
            k->dot[c][i][0] = k->dot[c][i][1] = k->asum[c][i] = _mm256_setzero_si256();
}

K__IN_AVX2 void k__transpose8(__m256 *r) {
    __m256 t[8];
    K__UNROLL for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    K__UNROLL for (int i = 0; i < 2; i++) {
        r[4 * i + 0] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
        r[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
        r[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
        r[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
    }
    K__UNROLL for (int i = 0; i < 4; i++) {
        t[i] = _mm256_permute2f128_ps(r[i], r[4 + i], 0x20);
        t[4 + i] = _mm256_permute2f128_ps(r[i], r[4 + i], 0x31);
    }
    K__UNROLL for (int i = 0; i < 8; i++) r[i] = t[i];
}

/* Scales of group-vector v of block i; half: stored as f16. */
K__IN_AVX2 __m256 k__park_fs(const k__scale_park *k, bool half, int i, int v) {
    return half ? _mm256_cvtph_ps(k__ld128(k->hs[i])) : _mm256_loadu_ps(k->fs[i] + 8 * v);
}

K__IN_AVX2 void k__scale_finish(const k__scale_park *k, bool half, int group, bool has_min, int c,
                                const float *da, float *term) {
    __m256 t = _mm256_setzero_ps(), x[8], y[8];
    for (int v = 0; v < 32 / group; v++) {
        K__UNROLL for (int i = 0; i < 8; i++)
            x[i] = _mm256_mul_ps(k__park_fs(k, half, i, v), _mm256_cvtepi32_ps(k->dot[c][i][v]));
        k__transpose8(x);
        if (has_min) {
            K__UNROLL for (int i = 0; i < 8; i++)
                y[i] = _mm256_mul_ps(_mm256_cvtph_ps(k__ld128(k->hm[i])), _mm256_cvtepi32_ps(k->asum[c][i]));
            k__transpose8(y);
        }
        K__UNROLL for (int i = 0; i < 8; i++) {
            t = _mm256_add_ps(t, x[i]);
            if (has_min) t = _mm256_add_ps(t, y[i]);
        }
    }
    _mm256_storeu_ps(term, _mm256_mul_ps(t, _mm256_loadu_ps(da)));
}

/* The scales of a SCALE block of 256, from file order. */
static inline __attribute__((always_inline)) bool k__has_halves(uint32_t type) {
    return type != K_MXFP4 && type != K_NVFP4 && type != K__ANY;
}
static inline __attribute__((always_inline)) void
k__park_scales(uint32_t type, const uint8_t *p, bool has_min, float *fs, uint16_t *hs, uint16_t *hm) {
    const k_type *ty = &k_types[type < K_TYPE_MAX ? type : K_Q8_0];
    if (type == K_MXFP4) {
        for (int g = 0; g < 8; g++) fs[g] = k_e8m0_half(p[17 * g]);
    } else if (type == K_NVFP4) {
        for (int g = 0; g < 16; g++) fs[g] = k_ue4m3_half(p[36 * (g / 4) + g % 4]);
    } else if (type == K__ANY) {
        memcpy(fs, ((const k__unpacked *)(const void *)p)->fs, 16 * sizeof(float));
    } else {
        K__UNROLL for (int g = 0; g < 8; g++) {
            const uint8_t *b = p + (size_t)(32 * g / ty->block) * ty->bytes;
            memcpy(hs + g, b, 2);
            if (has_min) memcpy(hm + g, b + 2, 2);
        }
    }
}

/* Scales of an INT block of 256, one for 16 weights. d: two f16, that of the minimum in the upper half; for K__ANY the bits of a
 * float. */
typedef struct {
    __m256i  sc, mn;                                  /* sixteen words each */
    uint32_t d;
} k__heads;

/* A broadcast from memory uses a load port. A move from a general register would use the shuffle port, which limits these
 * loops. */
K__IN_AVX2 __m256i k__bcast8(uint64_t v) {
    __asm__("" : "+m"(v));
    return _mm256_set1_epi64x((long long)v);
}

/* Eight bytes to sixteen words: each byte twice. */
K__IN_AVX2 __m256i k__twice8(uint64_t v) {
    return _mm256_shuffle_epi8(k__bcast8(v),
                               _mm256_setr_epi8(0, -1, 0, -1, 1, -1, 1, -1, 2, -1, 2, -1, 3, -1, 3, -1, 4, -1,
                                                4, -1, 5, -1, 5, -1, 6, -1, 6, -1, 7, -1, 7, -1));
}

/* The eight 6-bit scales of Q4_K and Q5_K, the eight minima. */
static inline __attribute__((always_inline)) uint64_t k__q4_K_sc(const uint8_t *p) {
    uint32_t a = k__u32(p + 4), c = k__u32(p + 12);
    return (a & 0x3f3f3f3f) | (uint64_t)((c & 0x0f0f0f0f) | (a >> 2 & 0x30303030)) << 32;
}
static inline __attribute__((always_inline)) uint64_t k__q4_K_mn(const uint8_t *p) {
    uint32_t b = k__u32(p + 8), c = k__u32(p + 12);
    return (b & 0x3f3f3f3f) | (uint64_t)((c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030)) << 32;
}

K__IN_AVX2 void k__heads_q3_K(k__heads *h, const uint8_t *p) {
    __m128i lo = _mm_loadl_epi64((const __m128i *)(p + 96)), m4 = _mm_set1_epi8(15);
    __m128i hi = _mm_srlv_epi32(_mm_set1_epi32(k__i32(p + 104)), _mm_setr_epi32(0, 2, 4, 6));
    lo = _mm_unpacklo_epi64(_mm_and_si128(lo, m4), _mm_and_si128(_mm_srli_epi16(lo, 4), m4));
    lo = _mm_or_si128(lo, _mm_slli_epi16(_mm_and_si128(hi, _mm_set1_epi8(3)), 4));
    h->sc = _mm256_cvtepi8_epi16(_mm_sub_epi8(lo, _mm_set1_epi8(32)));
    h->d = k__u16(p + 108);
}

K__IN_AVX2 void k__heads_iq4_xs(k__heads *h, const uint8_t *p) {
    __m128i m4 = _mm_set1_epi8(15), l = _mm_cvtsi32_si128(k__i32(p + 4));
    __m128i lo = _mm_cvtepu8_epi16(
        _mm_unpacklo_epi8(_mm_and_si128(l, m4), _mm_and_si128(_mm_srli_epi16(l, 4), m4)));
    __m128i up = _mm_setr_epi16(16384, 4096, 1024, 256, 64, 16, 4, 1);    /* bits 2g, 2g + 1 to the top */
    __m128i hi = _mm_srli_epi16(_mm_mullo_epi16(_mm_set1_epi16((short)k__u16(p + 2)), up), 14);
    __m128i sc = _mm_sub_epi16(_mm_or_si128(lo, _mm_slli_epi16(hi, 4)), _mm_set1_epi16(32));
    h->sc = _mm256_set_m128i(_mm_unpackhi_epi16(sc, sc), _mm_unpacklo_epi16(sc, sc));
    h->d = k__u16(p);
}

K__IN_AVX2 k__heads k__heads_of(uint32_t type, const uint8_t *p) {
    k__heads h;
    h.mn = _mm256_setzero_si256();
    switch (type) {
    case K_Q4_K: case K_Q5_K:
        h.sc = k__twice8(k__q4_K_sc(p));
        h.mn = k__twice8(k__q4_K_mn(p));
        h.d = k__u32(p);
        break;
    case K_Q3_K: k__heads_q3_K(&h, p); break;
    case K_IQ4_XS: k__heads_iq4_xs(&h, p); break;
    case K_Q2_K:
        h.sc = _mm256_cvtepu8_epi16(_mm_and_si128(k__ld128(p), _mm_set1_epi8(15)));
        h.mn = _mm256_cvtepu8_epi16(_mm_and_si128(_mm_srli_epi16(k__ld128(p), 4), _mm_set1_epi8(15)));
        h.d = k__u32(p + 80);
        break;
    case K_Q6_K:
        h.sc = _mm256_cvtepi8_epi16(k__ld128(p + 192));
        h.d = k__u16(p + 208);
        break;
    case K_TQ2_0:
        h.sc = _mm256_set1_epi16(1);
        h.d = k__u16(p + 64);
        break;
    default: {                                        /* K__ANY */
        const k__unpacked *u = (const k__unpacked *)(const void *)p;
        h.sc = k__ld256(u->sc);
        h.d = k__bits_of(u->d);
    }
    }
    return h;
}

/* d, or dm where `second`, as a float. */
K__IN_AVX2 float k__head_d(uint32_t type, uint32_t d, bool second) {
    if (type == K__ANY) return k__f32_of(d);
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128((int)(second ? d >> 16 : d))));
}

/* Copies a row's tail of n weights and pads it with zero bytes to 256 weights; their activations are zeros too. */
enum { K__PAD = 288 }; /* no SCALE type has more than 272 bytes for 256 weights */
static const uint8_t *k__pad_tail(uint32_t type, const uint8_t *p, int n, uint8_t *to) {
    size_t bytes = (size_t)(n / k_types[type].block) * k_types[type].bytes;
    memset(to, 0, K__PAD);
    memcpy(to, p, bytes);
    return to;
}

/* Multiplies the panels w of blocks first .. end - 1 with up to K__TILE columns; adds to y. */
typedef void k__tile(const k__panel *w, const k__cols *x, int first, int end, k__ahead *ahead, float (*y)[K__STRIP]);

/* The tiles of one kind of codes and scales. k__share() divides 8 and more
 * columns into parts of 4 to 6, or of 4 to 8 where these tiles exist. */
enum { K__TILE_MIN = 4, K__TILE_REGS = 6 /* up to here sums fit in registers beside the dots */,
       K__PANEL_COLS = 8, K__PANEL_ROWS = 8, K__ROWS = 8 };
typedef struct {
    k__tile *of[K__TILE + 1];                         /* index: columns, from 4 on; up to 6 where [K__TILE] is NULL */
    /* completes panels, once each, where a tile has more than 6 columns; NULL: nothing is missing */
    void (*ready)(k__panel *panel, int blocks);
    int bound;                                        /* k_sums.most16 or most32 up to which a group's dot fits in int16; or 0 */
} k__tiles;

/* How a level multiplies one format. */
typedef struct {
    /* terms of rows without gaps between them, [column][ld]: a term for each block */
    void (*row)(uint32_t type, const uint8_t *p, int rows, const k__cols *x, float *term, size_t ld);
    /* up to K__STRIP rows of n weights to panels [(n + 255)/256] */
    void (*pack)(uint32_t type, const uint8_t *w, size_t row_bytes, int rows, int n, k__panel *panel);
    const k__tiles *tiles;
} k__plan;

/* First column of part i where nt columns are split into `parts` equal parts. */
static int k__share(int nt, int parts, int i) { return (int)((int64_t)nt * i / parts); }

/* y[i] = the sum of the nb terms of row i, in order; eight rows in parallel. */
static void k__add_terms(const float *term, int nb, float *y, int rows) {
    const float *p[K__ROWS];
    float        acc[K__ROWS] = {0};
    for (int i = 0; i < K__ROWS; i++) p[i] = term + (size_t)(i < rows ? i : 0) * (size_t)nb;
    for (int b = 0; b < nb; b++)
        K__UNROLL for (int i = 0; i < K__ROWS; i++) acc[i] = acc[i] + p[i][b];
    memcpy(y, acc, (size_t)rows * sizeof(float));
}

/* Rows without gaps are one stream of blocks for p->row. The scales of the activations
 * are repeated, so that eight consecutive ones can be loaded from any block on. */
static void k__repeat_scales(k__cols *x, float *to) {
    int nb = x->nb + (x->tail > 0);
    for (int c = 0; c < x->n; c++, to += nb + 8) {
        for (int b = 0; b < nb + 8; b++) to[b] = x->d[c][b % nb];
        x->d[c] = to;
    }
}

/* mem: space for the scales and terms of eight rows and columns. */
static void k__mul_dots(const k__plan *p, uint32_t type, const uint8_t *w, size_t row_bytes, int nr, int n,
                        const k_acts *a, float *y, size_t ldy, float *mem) {
    int    parts = (a->nt + K__COLS - 1) / K__COLS, nb = (n + K_SUPER - 1) / K_SUPER;
    bool   gapless = n % K_SUPER == 0 && row_bytes == (size_t)nb * k__super_bytes(type);
    size_t ld = (size_t)nb * K__ROWS + 8;             /* terms are written in eights */
    float *term = mem + (size_t)(nb + 8) * K__COLS;
    for (int i = 0; i < parts; i++) {
        int     t0 = k__share(a->nt, parts, i), count = k__share(a->nt, parts, i + 1) - t0;
        k__cols x;
        k__cols_set(&x, a, t0, count, n);
        k__repeat_scales(&x, mem);
        for (int r = 0; r < nr; r += K__ROWS) {
            int rows = nr - r < K__ROWS ? nr - r : K__ROWS, step = gapless ? rows : 1;
            for (int k = 0; k < rows; k += step)
                p->row(type, w + (size_t)(r + k) * row_bytes, step, &x, term + (size_t)k * (size_t)nb, ld);
            for (int c = 0; c < count; c++)
                k__add_terms(term + (size_t)c * ld, nb, y + (size_t)(t0 + c) * ldy + r, rows);
        }
    }
}

/* Prefetches the lines of y that will get the sums of these rows. */
static inline void k__sums_ahead(const float *y, int rows) {
    __builtin_prefetch(y, 1);
    if (rows > 16) __builtin_prefetch(y + 16, 1);
    __builtin_prefetch(y + rows - 1, 1);
}

/* Sixteen floats; one register where the target has it. */
typedef float k__v16 __attribute__((vector_size(64), aligned(4), may_alias));

/* Copies the sums of a column to y. Whole strips are copied as vectors:
 * a copy of variable length costs as much as thirty stores. */
K__BODY void k__put_sums(float *y, const float *sum, int rows, int usual) {
    if (rows != usual) memcpy(y, sum, (size_t)rows * sizeof(float));
    else K__UNROLL for (int i = 0; i < usual; i += 16) *(k__v16 *)(y + i) = *(const k__v16 *)(sum + i);
}

/* Columns of one tile, at most: six, or eight where such tiles exist and k__tile_trial() found them faster. */
#if K__PART(3)
K__SHARED int g_k_tile_cols = K__TILE_REGS;
#else
extern K__SHARED int g_k_tile_cols;
#endif
static int k__tile_cols(const k__tiles *tiles) { return tiles->of[K__TILE] ? g_k_tile_cols : K__TILE_REGS; }

/* The number of tiles for nt columns. */
static int k__tile_parts(const k__tiles *tiles, int nt) {
    const int most = k__tile_cols(tiles);
    return (nt + most - 1) / most;
}

/* Completes panels where one of the tiles takes more than six columns. */
static void k__panels_ready(const k__tiles *tiles, int nt, int parts, k__panel *panel, int blocks) {
    if (tiles->ready && nt > parts * K__TILE_REGS) tiles->ready(panel, blocks);
}

/* Multiplies a strip of `rows` <= 32 rows of n weights, unpacked in panel [ceil(n / 256)], with the columns of a. y: those
 * of the first row, ldy floats from column to column. next: the next_bytes of the following strip, which are prefetched. */
K__BODY void k__mul_strip(const k__tiles *tiles, k__panel *panel, int offset, int rows, int n, const k_acts *a,
                          float *y, size_t ldy, const uint8_t *next, size_t next_bytes) {
    const int parts = k__tile_parts(tiles, a->nt), blocks = (n + K_SUPER - 1) / K_SUPER;
    size_t   steps = (size_t)parts * (size_t)blocks, each = (next_bytes / 64 + steps - 1) / steps;
    k__ahead ahead = {next, (int)each};
    k__cols  x;
    x.offset = offset;
    x.bound = tiles->bound;
    k__panels_ready(tiles, a->nt, parts, panel, blocks);
    for (int i = 0; i < parts; i++) {
        int   t0 = k__share(a->nt, parts, i), count = k__share(a->nt, parts, i + 1) - t0;
        _Alignas(64) float out[K__TILE][K__STRIP] = {{0}};
        if (ahead.next >= next + next_bytes) ahead.lines = 0;
        k__cols_set(&x, a, t0, count, n);
        for (int c = 0; c < count; c++) k__sums_ahead(y + (size_t)(t0 + c) * ldy, rows);
        tiles->of[count](panel, &x, 0, blocks, &ahead, out);
        for (int c = 0; c < count; c++) k__put_sums(y + (size_t)(t0 + c) * ldy, out[c], rows, K__STRIP);
    }
}

/* Returns the tiles to use in place of these. */
typedef const k__tiles *k__swap(const k__tiles *tiles);

K__BODY void k__mul_quant(const k__plan *plans, k__swap *swap, uint32_t type, const void *w, size_t row_bytes, int nr, int n,
                          const k_acts *a, float *y, size_t ldy, void *scratch) {
    const k__plan *p = &plans[type];
    const k__tiles *tiles = swap ? swap(p->tiles) : p->tiles;
    const uint8_t *src = w;
    k__panel      *panel = (k__panel *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63);
    int            r = 0, offset = k__off(type) < 0 ? 0 : 1 << k__off(type);
    if (a->nt >= K__PANEL_COLS)
        for (int rows; nr - r >= K__PANEL_ROWS; r += rows) {
            rows = nr - r < K__STRIP ? nr - r : K__STRIP;
            int next = nr - r - rows < K__STRIP ? nr - r - rows : K__STRIP;
            p->pack(type, src + (size_t)r * row_bytes, row_bytes, rows, n, panel);
            k__mul_strip(tiles, panel, offset, rows, n, a, y + r, ldy, src + (size_t)(r + rows) * row_bytes,
                         (size_t)next * row_bytes);
        }
    if (r < nr)
        k__mul_dots(p, type, src + (size_t)r * row_bytes, row_bytes, nr - r, n, a, y + r, ldy,
                    (float *)panel);
}

#define K__PANEL_BYTES sizeof(k__panel)           /* large enough for the stored sums of a dot of eight rows and columns */
enum { K__AMX_BYTES = 152 * 1024 };                   /* scratch of a product by tiles */
