/* ===== [probe] loops that measure this machine =====
 * A benchmark compares its rates with these limits: reading memory in order, and the products of a level with all operands in
 * registers or the L1 cache. Each loop returns a value that depends on all its work, so that the compiler cannot remove it. */

/* The compiler must assume that x has changed, and computes from it again. */
#if K__NEON
#define K__LATER(x) __asm__ volatile("" : "+w"(x))
#else
#define K__LATER(x) __asm__ volatile("" : "+x"(x))
#endif

static uint64_t k__probe_read_ref(const void *p, size_t n) {
    const uint64_t *q = p;
    uint64_t        s[4] = {0};
    for (size_t i = 0; i + 4 <= n / 8; i += 4)
        for (int j = 0; j < 4; j++) s[j] += q[i + (size_t)j];
    return s[0] ^ s[1] ^ s[2] ^ s[3];
}

static uint64_t k__probe_i8_ref(const void *x, int n) {
    const int8_t *a = x;
    uint64_t      s = 0;
    for (int i = 0; i < n; i++) {
        __asm__ volatile("" ::: "memory");
        s += (uint64_t)(int64_t)k__dot8_ref(a, a + K_PROBE_BYTES / 2, 1024);
    }
    return s;
}

static uint64_t k__probe_f32_ref(const void *x, int n) {
    const float *a = x;
    float        s = 0;
    for (int i = 0; i < n; i++) {
        __asm__ volatile("" ::: "memory");
        s += k_dot_ref(a, a + K_PROBE_BYTES / 8, 1024);
    }
    return s > 0;
}

static const k_probe k_probe_ref = {k__probe_read_ref, {k__probe_f32_ref, k__probe_f32_ref, k__probe_i8_ref}, {1024, 1024, 1024}};

#if K__X86
/* A word that depends on every lane. */
K__IN_AVX2 uint64_t k__any256(__m256i v) {
    uint64_t out[4];
    _mm256_storeu_si256((__m256i *)out, v);
    return out[0] ^ out[1] ^ out[2] ^ out[3];
}

K__IN_512 uint64_t k__any512(__m512i v) {
    return k__any256(_mm256_xor_si256(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1)));
}

/* Prefetches some kilobytes ahead, as the row kernels do; the hardware alone does not reach that far. */
K__AVX2 uint64_t k__probe_read_avx2(const void *p, size_t n) {
    const uint8_t *q = p;
    __m256i        s[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    for (size_t i = 0; i + 128 <= n; i += 128) {
        k__fetch_ahead(q + i, 128);
        K__UNROLL for (int j = 0; j < 4; j++)
            s[j] = _mm256_add_epi64(s[j], _mm256_load_si256((const __m256i *)(q + i + 32 * j)));
    }
    return k__any256(_mm256_xor_si256(_mm256_xor_si256(s[0], s[1]), _mm256_xor_si256(s[2], s[3])));
}

/* Adds pairs in 16 bits over eight steps, then widens: the fewest operations that 4-bit codes allow. */
K__AVX2 uint64_t k__probe_i8_avx2(const void *x, int n) {
    const __m256i one = _mm256_set1_epi16(1), b = _mm256_load_si256((const __m256i *)x);
    __m256i       a = _mm256_and_si256(b, _mm256_set1_epi8(7)), s[4];
    for (int c = 0; c < 4; c++) s[c] = _mm256_setzero_si256();
    for (int i = 0; i < n; i++) {
        __m256i t[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
        K__UNROLL for (int j = 0; j < 8; j++)
            K__UNROLL for (int c = 0; c < 4; c++) {
                K__LATER(a);
                t[c] = _mm256_add_epi16(t[c], _mm256_maddubs_epi16(a, b));
                K__LATER(t[c]);                          /* added here, not stored */
            }
        K__UNROLL for (int c = 0; c < 4; c++) s[c] = _mm256_add_epi32(s[c], _mm256_madd_epi16(t[c], one));
    }
    return k__any256(_mm256_xor_si256(_mm256_xor_si256(s[0], s[1]), _mm256_xor_si256(s[2], s[3])));
}

K__AVX2 uint64_t k__probe_f32_avx2(const void *x, int n) {
    __m256 a = _mm256_load_ps(x), b = _mm256_load_ps((const float *)x + K_PROBE_BYTES / 8), s[12];
    float  out[8];
    for (int c = 0; c < 12; c++) s[c] = _mm256_setzero_ps();
    for (int i = 0; i < n; i++)
        K__UNROLL for (int c = 0; c < 12; c++) {
            K__LATER(a);
            s[c] = _mm256_fmadd_ps(a, b, s[c]);
        }
    for (int c = 1; c < 12; c++) s[0] = _mm256_add_ps(s[0], s[c]);
    _mm256_storeu_ps(out, s[0]);
    return out[0] + out[7] > 0;
}

K__AVX2 uint64_t k__probe_i8_vnni(const void *x, int n) {
    __m256i a = _mm256_load_si256((const __m256i *)x), b = _mm256_load_si256((const __m256i *)x + 1), s[12];
    for (int c = 0; c < 12; c++) s[c] = _mm256_setzero_si256();
    for (int i = 0; i < n; i++)
        K__UNROLL for (int c = 0; c < 12; c++) k__dot8_vnni(&s[c], a, b);
    for (int c = 1; c < 12; c++) s[0] = _mm256_add_epi32(s[0], s[c]);
    return k__any256(s[0]);
}

static const k_probe k_probe_vnni = {
    k__probe_read_avx2, {k__probe_f32_avx2, k__probe_f32_avx2, k__probe_i8_vnni}, {12 * 8, 12 * 8, 12 * 32}};
static const k_probe k_probe_avx2 = {
    k__probe_read_avx2, {k__probe_f32_avx2, k__probe_f32_avx2, k__probe_i8_avx2}, {12 * 8, 12 * 8, 4 * 8 * 32}};

K__512 uint64_t k__probe_read_avx512(const void *p, size_t n) {
    const uint8_t *q = p;
    __m512i        s[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
    for (size_t i = 0; i + 256 <= n; i += 256) {
        k__fetch_ahead(q + i, 256);
        K__UNROLL for (int j = 0; j < 4; j++)
            s[j] = _mm512_add_epi64(s[j], _mm512_load_si512((const void *)(q + i + 64 * j)));
    }
    return k__any512(_mm512_add_epi64(_mm512_add_epi64(s[0], s[1]), _mm512_add_epi64(s[2], s[3])));
}

K__512 uint64_t k__probe_i8_avx512(const void *x, int n) {
    __m512i a = _mm512_load_si512(x), b = _mm512_load_si512((const uint8_t *)x + K_PROBE_BYTES / 2), s[16];
    for (int c = 0; c < 16; c++) s[c] = _mm512_setzero_si512();
    for (int i = 0; i < n; i++)
        K__UNROLL for (int c = 0; c < 16; c++) s[c] = _mm512_dpbusd_epi32(s[c], a, b);
    for (int c = 1; c < 16; c++) s[0] = _mm512_add_epi32(s[0], s[c]);
    return k__any512(s[0]);
}

K__512 uint64_t k__probe_f32_avx512(const void *x, int n) {
    __m512 a = _mm512_load_ps(x), b = _mm512_load_ps((const float *)x + K_PROBE_BYTES / 8), s[16];
    for (int c = 0; c < 16; c++) s[c] = _mm512_setzero_ps();
    for (int i = 0; i < n; i++)
        K__UNROLL for (int c = 0; c < 16; c++) {
            K__LATER(a);
            s[c] = _mm512_fmadd_ps(a, b, s[c]);
        }
    for (int c = 1; c < 16; c++) s[0] = _mm512_add_ps(s[0], s[c]);
    return _mm512_reduce_add_ps(s[0]) > 0;
}

static K_VEC_BF16 uint64_t k__probe_dots(const void *x, int n) {
    const __m512i a = _mm512_load_si512(x), b = _mm512_load_si512((const uint8_t *)x + K_PROBE_BYTES / 2);
    __m512        s[16];
    for (int c = 0; c < 16; c++) s[c] = _mm512_setzero_ps();
    for (int i = 0; i < n; i++)
        K__UNROLL for (int c = 0; c < 16; c++) s[c] = k__dots_add(s[c], a, b);
    for (int c = 1; c < 16; c++) s[0] = _mm512_add_ps(s[0], s[c]);
    return _mm512_reduce_add_ps(s[0]) > 0;
}

/* Four tiles of sums, as the products have them. */
K__AMX uint64_t k__probe_i8_amx(const void *x, int n) {
    const uint8_t *b = (const uint8_t *)x + K_PROBE_BYTES / 2;
    _Alignas(64) int32_t sums[16][16];
    uint64_t any = 0;
    k__tiles_start(16, 64);
    __asm__ volatile("" : : "r"(sums) : "memory");
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, x, 64);
    _tile_loadd(5, (const uint8_t *)x + 1024, 64);
    _tile_loadd(6, b, 64);
    _tile_loadd(7, b + 1024, 64);
    for (int i = 0; i < n; i++) {
        _tile_dpbsud(0, 4, 6);
        _tile_dpbsud(1, 5, 6);
        _tile_dpbsud(2, 4, 7);
        _tile_dpbsud(3, 5, 7);
    }
    _tile_stored(0, sums, 64);
    K__TILES_SEEN();
    any ^= k__any512(_mm512_load_si512(sums));
    _tile_stored(1, sums, 64);
    K__TILES_SEEN();
    any ^= k__any512(_mm512_load_si512(sums));
    _tile_stored(2, sums, 64);
    K__TILES_SEEN();
    any ^= k__any512(_mm512_load_si512(sums));
    _tile_stored(3, sums, 64);
    K__TILES_SEEN();
    any ^= k__any512(_mm512_load_si512(sums));
    _tile_release();
    return any;
}

static const k_probe k_probe_avx512 = {
    k__probe_read_avx512, {k__probe_f32_avx512, k__probe_f32_avx512, k__probe_i8_avx512}, {16 * 16, 16 * 16, 16 * 64}};
static const k_probe k_probe_amx = {
    k__probe_read_avx512, {k__probe_f32_avx512, k__probe_f32_avx512, k__probe_i8_amx}, {16 * 16, 16 * 16, 4 * 16 * 16 * 64}};
static const k_probe k_probe_amx_bf16 = {
    k__probe_read_avx512, {k__probe_f32_avx512, k__probe_dots, k__probe_i8_amx}, {16 * 16, 16 * 32, 4 * 16 * 16 * 64}};
static const k_probe k_probe_bf16 = {
    k__probe_read_avx512, {k__probe_f32_avx512, k__probe_dots, k__probe_i8_avx512}, {16 * 16, 16 * 32, 16 * 64}};
#endif /* K__X86 */

#if K__NEON
static uint64_t k__probe_read_neon(const void *p, size_t n) {
    const uint8_t *q = p;
    uint64x2_t     s[4] = {vdupq_n_u64(0), vdupq_n_u64(0), vdupq_n_u64(0), vdupq_n_u64(0)};
    for (size_t i = 0; i + 64 <= n; i += 64)
        K__UNROLL for (int j = 0; j < 4; j++) s[j] = vaddq_u64(s[j], vreinterpretq_u64_u8(vld1q_u8(q + i + 16 * (size_t)j)));
    return vaddvq_u64(vaddq_u64(vaddq_u64(s[0], s[1]), vaddq_u64(s[2], s[3])));
}

static uint64_t k__probe_f32_neon(const void *x, int n) {
    float32x4_t a = vld1q_f32(x), b = vld1q_f32((const float *)x + K_PROBE_BYTES / 8), s[16];
    for (int c = 0; c < 16; c++) s[c] = vdupq_n_f32(0);
    for (int i = 0; i < n; i++)
        K__UNROLL for (int c = 0; c < 16; c++) {
            K__LATER(a);
            s[c] = vfmaq_f32(s[c], a, b);
        }
    for (int c = 1; c < 16; c++) s[0] = vaddq_f32(s[0], s[c]);
    return vaddvq_f32(s[0]) > 0;
}

/* mm: by smmla, which multiplies twice as many, else by sdot. */
K__NEON_IN uint64_t k__probe_dots_neon(const bool mm, const void *x, int n) {
    int8x16_t a = vld1q_s8(x), b = vld1q_s8((const int8_t *)x + K_PROBE_BYTES / 2);
    int32x4_t s[16];
    for (int c = 0; c < 16; c++) s[c] = vdupq_n_s32(0);
    for (int i = 0; i < n; i++)
        K__UNROLL for (int c = 0; c < 16; c++) {
            K__LATER(a);
            if (mm) K__SMMLA(s[c], a, b);
            else K__SDOT(s[c], a, b, 0);
            K__LATER(s[c]);
        }
    for (int c = 1; c < 16; c++) s[0] = vaddq_s32(s[0], s[c]);
    return (uint64_t)(int64_t)vaddvq_s32(s[0]);
}
K__NEON_DOTS uint64_t k__probe_i8_neon(const void *x, int n) { return k__probe_dots_neon(false, x, n); }
K__NEON_DOTS uint64_t k__probe_i8_i8mm(const void *x, int n) { return k__probe_dots_neon(true, x, n); }

static const k_probe k_probe_neon = {
    k__probe_read_neon, {k__probe_f32_neon, k__probe_f32_neon, k__probe_i8_neon}, {16 * 4, 16 * 4, 16 * 16}};
static const k_probe k_probe_i8mm = {
    k__probe_read_neon, {k__probe_f32_neon, k__probe_f32_neon, k__probe_i8_i8mm}, {16 * 4, 16 * 4, 16 * 32}};
#endif
