/* instructions.c - tests/avx512.h against the processor.
 *
 * This file is compiled twice: as it is, for processors that have the instructions, and through tests/avx512.sed.
 * Each case runs on random operands, with denormals and without, and both must give the same bytes. Where the
 * processor lacks an instruction, its case is skipped, unless hashes of another processor's results are given.
 *     instructions [FILE]      FILE: hashes, "NAME HASH" a line, as --record prints them
 *     instructions --record    prints the hashes of this processor */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct {
    _Alignas(64) uint8_t a[64], b[64], c[64];            /* integers, or floats with denormals, infinities and a NaN */
    uint64_t k;                                          /* a mask */
} operands;

typedef enum { AVX512, BF16, TILES } feature;            /* AVX-512 F BW DQ VL VNNI; that and AVX512_BF16; that and AMX INT8 */

typedef struct {
    const char *name;
    feature     of;
    void (*run)(const operands *o, uint8_t *out);        /* writes 64 bytes or less */
} instruction;

extern const instruction emulated[];

/* The operands of a case. */
#define A   (*(const __m512i *)o->a)
#define B   (*(const __m512i *)o->b)
#define C   (*(const __m512i *)o->c)
#define FA  (*(const __m512 *)o->a)
#define FB  (*(const __m512 *)o->b)
#define FC  (*(const __m512 *)o->c)
#define HA  (*(const __m256i *)o->a)
#define HFA (*(const __m256 *)o->a)
#define QA  (*(const __m128i *)o->a)
#define QFA (*(const __m128 *)o->a)
#define QFB (*(const __m128 *)o->b)
#define K   o->k
#define K16 (__mmask16)o->k
#define K8  (__mmask8)(o->k & 15)
/* So that counts and indices are within their range and a little beyond. */
#define SMALL(v, most) _mm512_and_si512(v, _mm512_set1_epi32(most))

#define CASES(X)                                                                                                             \
    X(castps512_ps256, _mm512_castps512_ps256(FA)) X(castps512_ps128, _mm512_castps512_ps128(FA))                            \
    X(castsi512_si256, _mm512_castsi512_si256(A)) X(castsi256_si512, _mm512_castsi512_si256(_mm512_castsi256_si512(HA)))     \
    X(castps256_ps512, _mm512_castps512_ps256(_mm512_castps256_ps512(HFA)))                                                  \
    X(castps128_ps512, _mm512_castps512_ps128(_mm512_castps128_ps512(QFA)))                                                  \
    X(castsi512_ps, _mm512_castsi512_ps(A)) X(castps_si512, _mm512_castps_si512(FA)) X(cvtss_f32, _mm512_cvtss_f32(FA))      \
    X(extractf32x8_ps_0, _mm512_extractf32x8_ps(FA, 0)) X(extractf32x8_ps_1, _mm512_extractf32x8_ps(FA, 1))                  \
    X(extracti64x4_epi64_0, _mm512_extracti64x4_epi64(A, 0)) X(extracti64x4_epi64_1, _mm512_extracti64x4_epi64(A, 1))        \
    X(insertf32x8_0, _mm512_insertf32x8(FB, HFA, 0)) X(insertf32x8_1, _mm512_insertf32x8(FB, HFA, 1))                        \
    X(inserti64x4_0, _mm512_inserti64x4(B, HA, 0)) X(inserti64x4_1, _mm512_inserti64x4(B, HA, 1))                            \
    X(broadcast_i64x4, _mm512_broadcast_i64x4(HA)) X(broadcast_i32x4, _mm512_broadcast_i32x4(QA))                            \
    X(setzero_ps, _mm512_setzero_ps()) X(setzero_si512, _mm512_setzero_si512()) X(set1_ps, _mm512_set1_ps(((float *)o->a)[3])) \
    X(set1_epi8, _mm512_set1_epi8((char)K)) X(set1_epi16, _mm512_set1_epi16((short)K))                                       \
    X(set1_epi32, _mm512_set1_epi32((int)K)) X(set1_epi64, _mm512_set1_epi64((long long)K))                                  \
    X(setr_epi32, _mm512_setr_epi32((int)K, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))                              \
    X(set_epi32, _mm512_set_epi32((int)K, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))                                \
    X(set_epi64, _mm512_set_epi64((long long)K, 1, 2, 3, 4, 5, 6, 7))                                                        \
    X(loadu_si512, _mm512_loadu_si512(o->a + 1)) X(loadu_ps, _mm512_loadu_ps(o->a + 1))                                      \
    X(load_si512, _mm512_load_si512(o->a)) X(load_ps, _mm512_load_ps(o->b))                                                  \
    X(mask_loadu_ps, _mm512_mask_loadu_ps(FB, K16, o->a + 1)) X(maskz_loadu_ps, _mm512_maskz_loadu_ps(K16, o->a + 1))        \
    X(maskz_loadu_epi8, _mm512_maskz_loadu_epi8(K, o->a + 1))                                                                \
    X(maskz_loadu_epi16, _mm512_maskz_loadu_epi16((__mmask32)K, o->a + 1))                                                   \
    X(256_maskz_loadu_epi16, _mm256_maskz_loadu_epi16(K16, o->a + 1))                                                        \
    X(mask_i32gather_ps, _mm512_mask_i32gather_ps(FC, K16, SMALL(A, 15), o->b, 4))                                           \
    X(mask_i32gather_ps_1, _mm512_mask_i32gather_ps(FC, K16, _mm512_sub_epi32(SMALL(A, 63), _mm512_set1_epi32(32)), o->b, 1)) \
    X(add_ps, _mm512_add_ps(FA, FB)) X(sub_ps, _mm512_sub_ps(FA, FB)) X(mul_ps, _mm512_mul_ps(FA, FB))                       \
    X(roundscale_ps_near, _mm512_roundscale_ps(FA, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))                           \
    X(roundscale_ps_down, _mm512_roundscale_ps(FA, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC))                               \
    X(div_ps, _mm512_div_ps(FA, FB)) X(min_ps, _mm512_min_ps(FA, FB)) X(max_ps, _mm512_max_ps(FA, FB))                       \
    X(fmadd_ps, _mm512_fmadd_ps(FA, FB, FC)) X(fmsub_ps, _mm512_fmsub_ps(FA, FB, FC)) X(fnmadd_ps, _mm512_fnmadd_ps(FA, FB, FC)) \
    X(and_ps, _mm512_and_ps(FA, FB)) X(andnot_ps, _mm512_andnot_ps(FA, FB)) X(or_ps, _mm512_or_ps(FA, FB))                   \
    X(xor_ps, _mm512_xor_ps(FA, FB)) X(cvtepi32_ps, _mm512_cvtepi32_ps(A)) X(cvtps_epi32, _mm512_cvtps_epi32(FA))            \
    X(cvtph_ps, _mm512_cvtph_ps(HA)) X(cvtps_ph, _mm512_cvtps_ph(FA, _MM_FROUND_TO_NEAREST_INT))                             \
    X(cmp_ps_mask_eq, _mm512_cmp_ps_mask(FA, FB, _CMP_EQ_OQ)) X(cmp_ps_mask_lt, _mm512_cmp_ps_mask(FA, FB, _CMP_LT_OQ))      \
    X(cmp_ps_mask_gt, _mm512_cmp_ps_mask(FA, FB, _CMP_GT_OQ)) X(cmp_ps_mask_nlt, _mm512_cmp_ps_mask(FA, FB, _CMP_NLT_UQ))    \
    X(cmp_ps_mask_neq, _mm512_cmp_ps_mask(FA, FB, _CMP_NEQ_UQ)) X(cmp_ps_mask_nan, _mm512_cmp_ps_mask(FA, FB, _CMP_UNORD_Q)) \
    X(mask_cmp_ps_mask, _mm512_mask_cmp_ps_mask(K16, FA, FB, _CMP_EQ_OQ))                                                    \
    X(128_cmp_ps_mask, _mm_cmp_ps_mask(QFA, QFB, _CMP_NEQ_UQ)) X(128_mask_mov_ps, _mm_mask_mov_ps(QFA, K8, QFB))             \
    X(128_maskz_mov_ps, _mm_maskz_mov_ps(K8, QFB))                                                                           \
    X(mask_mov_ps, _mm512_mask_mov_ps(FA, K16, FB)) X(maskz_mov_ps, _mm512_maskz_mov_ps(K16, FB))                            \
    X(mask_add_ps, _mm512_mask_add_ps(FC, K16, FA, FB)) X(mask_sub_ps, _mm512_mask_sub_ps(FC, K16, FA, FB))                  \
    X(maskz_sub_ps, _mm512_maskz_sub_ps(K16, FA, FB))                                                                        \
    X(reduce_add_ps, _mm512_reduce_add_ps(_mm512_cvtepi32_ps(A))) X(reduce_max_ps, _mm512_reduce_max_ps(_mm512_cvtepi32_ps(A))) \
    X(reduce_max_epi32, _mm512_reduce_max_epi32(A)) X(reduce_add_epi32, _mm512_reduce_add_epi32(A))                          \
    X(sub_epi8, _mm512_sub_epi8(A, B)) X(cvttps_epi32, _mm512_cvttps_epi32(FA))                                              \
    X(add_epi8, _mm512_add_epi8(A, B)) X(add_epi16, _mm512_add_epi16(A, B)) X(add_epi32, _mm512_add_epi32(A, B))             \
    X(add_epi64, _mm512_add_epi64(A, B)) X(sub_epi16, _mm512_sub_epi16(A, B)) X(sub_epi32, _mm512_sub_epi32(A, B))           \
    X(mullo_epi32, _mm512_mullo_epi32(A, B)) X(mullo_epi16, _mm512_mullo_epi16(A, B))                       \
    X(maddubs_epi16, _mm512_maddubs_epi16(A, B)) X(and_si512, _mm512_and_si512(A, B)) X(or_si512, _mm512_or_si512(A, B))         \
    X(xor_si512, _mm512_xor_si512(A, B)) X(abs_epi8, _mm512_abs_epi8(A)) X(abs_epi32, _mm512_abs_epi32(A))                   \
    X(max_epi32, _mm512_max_epi32(A, B)) X(cmple_epi32_mask, _mm512_cmple_epi32_mask(SMALL(A, 3), SMALL(B, 3)))              \
    X(cmpgt_epi32_mask, _mm512_cmpgt_epi32_mask(SMALL(A, 3), SMALL(B, 3)))                                                   \
    X(mask_add_epi32, _mm512_mask_add_epi32(C, K16, A, B))                                                                   \
    X(srlv_epi32, _mm512_srlv_epi32(A, SMALL(B, 63))) X(srlv_epi32_far, _mm512_srlv_epi32(A, B))                             \
    X(mask_or_epi32, _mm512_mask_or_epi32(C, K16, A, B)) X(maskz_mov_epi8, _mm512_maskz_mov_epi8(K, A))                      \
    X(mask_add_epi8, _mm512_mask_add_epi8(C, K, A, B)) X(mask_blend_epi16, _mm512_mask_blend_epi16((__mmask32)K, A, B))      \
    X(ternarylogic_ea, _mm512_ternarylogic_epi64(A, B, C, 0xea)) X(ternarylogic_1b, _mm512_ternarylogic_epi64(A, B, C, 0x1b)) \
    X(slli_epi16, _mm512_slli_epi16(A, 3)) X(srli_epi16, _mm512_srli_epi16(A, 3)) X(slli_epi16_16, _mm512_slli_epi16(A, 16)) \
    X(slli_epi32, _mm512_slli_epi32(A, 5)) X(srli_epi32, _mm512_srli_epi32(A, 5)) X(srai_epi32, _mm512_srai_epi32(A, 5))     \
    X(srli_epi32_32, _mm512_srli_epi32(A, 32)) X(srai_epi32_32, _mm512_srai_epi32(A, 32))                                    \
    X(rol_epi32, _mm512_rol_epi32(A, 16)) X(rol_epi32_37, _mm512_rol_epi32(A, 37)) X(rol_epi32_0, _mm512_rol_epi32(A, 0))    \
    X(srl_epi32, _mm512_srl_epi32(A, _mm_cvtsi32_si128((int)(K & 63)))) X(srl_epi32_far, _mm512_srl_epi32(A, QA))            \
    X(srlv_epi64, _mm512_srlv_epi64(A, _mm512_and_si512(B, _mm512_set1_epi64(127)))) X(srlv_epi64_far, _mm512_srlv_epi64(A, B)) \
    X(sllv_epi64, _mm512_sllv_epi64(A, _mm512_and_si512(B, _mm512_set1_epi64(127)))) X(rolv_epi64, _mm512_rolv_epi64(A, B))  \
    X(mask_sllv_epi32, _mm512_mask_sllv_epi32(C, K16, A, SMALL(B, 63)))                                                      \
    X(dpbusd_epi32, _mm512_dpbusd_epi32(C, A, B)) X(dpwssd_epi32, _mm512_dpwssd_epi32(C, A, B))                              \
    X(256_dpbusd_epi32, _mm256_dpbusd_epi32(HA, *(const __m256i *)o->b, *(const __m256i *)o->c))                             \
    X(256_dpwssd_epi32, _mm256_dpwssd_epi32(HA, *(const __m256i *)o->b, *(const __m256i *)o->c))                             \
    X(madd_epi16, _mm512_madd_epi16(A, B))                                                                                   \
    X(cvtepi8_epi32, _mm512_cvtepi8_epi32(QA)) X(cvtepu8_epi32, _mm512_cvtepu8_epi32(QA))                                    \
    X(cvtepi16_epi32, _mm512_cvtepi16_epi32(HA)) X(cvtepu16_epi32, _mm512_cvtepu16_epi32(HA))                                \
    X(cvtepi32_epi16, _mm512_cvtepi32_epi16(A)) X(cvtepi32_epi8, _mm512_cvtepi32_epi8(A))                                    \
    X(256_cvtepi32_epi16, _mm256_cvtepi32_epi16(HA)) X(cvtepi16_epi8, _mm512_cvtepi16_epi8(A))                                                                         \
    X(packs_epi32, _mm512_packs_epi32(_mm512_srai_epi32(A, 15), B)) X(shuffle_epi8, _mm512_shuffle_epi8(A, B))               \
    X(unpacklo_epi32, _mm512_unpacklo_epi32(A, B)) X(unpackhi_epi32, _mm512_unpackhi_epi32(A, B))                            \
    X(unpacklo_epi64, _mm512_unpacklo_epi64(A, B)) X(unpackhi_epi64, _mm512_unpackhi_epi64(A, B))                            \
    X(unpacklo_ps, _mm512_unpacklo_ps(FA, FB)) X(unpackhi_ps, _mm512_unpackhi_ps(FA, FB))                                    \
    X(shuffle_ps_93, _mm512_shuffle_ps(FA, FB, 0x93)) X(shuffle_ps_4e, _mm512_shuffle_ps(FA, FB, 0x4e))                      \
    X(permute_ps_b1, _mm512_permute_ps(FA, 0xb1)) X(permute_ps_1b, _mm512_permute_ps(FA, 0x1b))                              \
    X(movehdup_ps, _mm512_movehdup_ps(FA))                                                                                   \
    X(shuffle_f32x4_93, _mm512_shuffle_f32x4(FA, FB, 0x93)) X(shuffle_f32x4_4e, _mm512_shuffle_f32x4(FA, FB, 0x4e))          \
    X(shuffle_i32x4_93, _mm512_shuffle_i32x4(A, B, 0x93)) X(shuffle_i32x4_d8, _mm512_shuffle_i32x4(A, B, 0xd8))              \
    X(permutexvar_epi16, _mm512_permutexvar_epi16(A, B)) X(permutexvar_epi32, _mm512_permutexvar_epi32(A, B))                \
    X(permutexvar_epi64, _mm512_permutexvar_epi64(A, B)) X(permutexvar_ps, _mm512_permutexvar_ps(A, FB))                     \
    X(permutex2var_ps, _mm512_permutex2var_ps(FA, B, FC))

/* Stores write to out themselves. */
#define STORES(X) \
    X(storeu_si512, _mm512_storeu_si512(out + 1, A)) \
    X(storeu_ps, _mm512_storeu_ps(out + 1, FA)) \
    X(store_si512, _mm512_store_si512(out + 64, A)) \
    X(mask_storeu_ps, _mm512_mask_storeu_ps(out + 1, K16, FA)) \
    X(256_mask_storeu_epi16, _mm256_mask_storeu_epi16(out + 1, K16, HA))

#define BF16_CASES(X)                                                                                                        \
    X(cvtne2ps_pbh, _mm512_cvtne2ps_pbh(FA, FB))                                                                             \
    X(dpbf16_ps, _mm512_dpbf16_ps(FC, (__m512bh)_mm512_cvtne2ps_pbh(FA, FB), (__m512bh)_mm512_cvtne2ps_pbh(FB, FC)))

/* The bits of tile 0 after x, on tiles of random shapes: 0 [m][n] sums, 1 [m][k] and 2 [k][n] operands, n and k in fours of
 * bytes. Rows have gaps between them in memory. Before x tile 0 is loaded, after it stored. */
#define TILE_CASES(X)                                                                                                        \
    X(tile_loadd, (void)0) X(tile_stored, _tile_stored(1, t.of[2], 80); _tile_loadd(2, t.of[2], 80); _tile_dpbssd(0, 1, 2))  \
    X(tile_zero, _tile_zero(0)) X(tile_dpbssd, _tile_dpbssd(0, 1, 2)) X(tile_dpbsud, _tile_dpbsud(0, 1, 2))                  \
    X(tile_dpbusd, _tile_dpbusd(0, 1, 2)) X(tile_loadconfig, _tile_loadconfig(&t.config))                                    \
    X(tile_release, _tile_release(); _tile_loadconfig(&t.config))

typedef struct {
    struct { uint8_t palette, none[15]; uint16_t bytes[16]; uint8_t rows[16]; } config;
    uint8_t of[3][16][80];
} tiles;

static void tiles_of(const operands *o, tiles *t) {
    const int      m = 1 + (int)(o->k & 15), n = 1 + (int)(o->k >> 8 & 15), k = 1 + (int)(o->k >> 16 & 15);
    const int      rows[3] = {m, m, k}, words[3] = {n, k, n};
    const uint8_t *from[3] = {o->c, o->a, o->b};
    memset(t, 0, sizeof *t);
    t->config.palette = 1;
    for (int i = 0; i < 3; i++) {
        t->config.rows[i] = (uint8_t)rows[i];
        t->config.bytes[i] = (uint16_t)(4 * words[i]);
        for (int r = 0; r < 16; r++)
            for (int b = 0; b < 80; b++) t->of[i][r][b] = (uint8_t)(from[i][(b + 13 * r) % 64] ^ (r & 1 ? b << 7 : 0));
    }
    __asm__ volatile("" : : "r"(t) : "memory");
}

/* All 1,024 bytes as 64. */
static void tiles_fold(uint8_t (*of)[80], uint8_t *out) {
    memset(out, 0, 64);
    for (int r = 0; r < 16; r++)
        for (int b = 0; b < 80; b++) out[b % 64] = (uint8_t)(out[b % 64] * 31 + of[r][b]);
}

#define TARGET __attribute__((noinline, target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16,avx2,fma,f16c")))
#define RETURNS(name, x)                                             \
    static TARGET void run_##name(const operands *o, uint8_t *out) { \
        const __typeof__(x) r = x;                                   \
        memcpy(out, &r, sizeof r);                                   \
        (void)o;                                                     \
    }
#define WRITES(name, x) static TARGET void run_##name(const operands *o, uint8_t *out) { x; }
#define TILE_TARGET __attribute__((noinline, target("avx512f,avx512bw,avx2,fma,f16c" ",amx-tile,amx-int8")))
#define ON_TILES(name, ...)                                               \
    static TILE_TARGET void run_##name(const operands *o, uint8_t *out) { \
        tiles t;                                                          \
        tiles_of(o, &t);                                                  \
        _tile_loadconfig(&t.config);                                      \
        _tile_loadd(0, t.of[0], 80);                                      \
        _tile_loadd(1, t.of[1], 80);                                      \
        _tile_loadd(2, t.of[2], 80);                                      \
        __VA_ARGS__;                                                      \
        _tile_stored(0, t.of[0], 80);                                     \
        _tile_release();                                                  \
        __asm__ volatile("" : : : "memory");                              \
        tiles_fold(t.of[0], out);                                         \
    }
CASES(RETURNS)
STORES(WRITES)
BF16_CASES(RETURNS)
TILE_CASES(ON_TILES)

#define ROW(name, x)        {#name, AVX512, run_##name},
#define BF16_ROW(name, x)   {#name, BF16, run_##name},
#define TILE_ROW(name, ...) {#name, TILES, run_##name},
#define ROWS {CASES(ROW) STORES(ROW) BF16_CASES(BF16_ROW) TILE_CASES(TILE_ROW){NULL, AVX512, NULL}}

#ifdef EMU
const instruction emulated[] = ROWS;
#else
static const instruction real[] = ROWS;

enum { SETS = 1000, OUT = 192, MODES = 2 };

static uint32_t random32(void) {                         /* xorshift64* of Marsaglia and Vigna */
    static uint64_t x = 0x9e3779b97f4a7c15u;
    x ^= x >> 12, x ^= x << 25, x ^= x >> 27;
    return (uint32_t)(x * 0x2545f4914f6cdd1du >> 32);
}

/* Random bits; floats near 1; tiny floats and denormals; ends of the ranges. All NaN are the same, since an
 * instruction of two NaN returns either of them, depending on the order that a compiler gives its operands. */
static uint32_t random_word(int set) {
    static const uint32_t ends[] = {0,          0x80000000, 0x7f800000, 0xff800000, 0x7fc00000, 1,          0x807fffff,
                                    0x00800000, 0x7f7fffff, 0xff7fffff, 0x3f800000, 0xbf800000, 0x80808080, 0x7f7f7f7f,
                                    0x80008000, 0x7fff7fff, 0xffff0000, 0x4b000001, 0x477ff000, 0x3f808000};
    const uint32_t u = random32(), end = ends[(u >> 8) % (sizeof ends / sizeof *ends)];
    const uint32_t w[4] = {u, (u & 0x807fffff) | (120 + (u >> 23 & 15)) << 23, u & 0x81ffffff, end};
    const uint32_t v = w[set % 4];
    return (v & 0x7fffffff) > 0x7f800000 ? 0x7fc00000 : v;
}

static void random_operands(int set, operands *o) {
    uint8_t *all[] = {o->a, o->b, o->c};
    for (int v = 0; v < 3; v++)
        for (int i = 0; i < 16; i++) {
            const uint32_t w = random_word(set + (random32() % 4 == 0));
            memcpy(all[v] + 4 * i, &w, 4);
        }
    o->k = (uint64_t)random32() << 32 | random32();
}

/* What an instruction makes of one set; which NaN AVX512_BF16 returns is not compared. */
static void one_result(const instruction *in, const operands *o, bool flush, uint8_t *out) {
    const unsigned mode = _mm_getcsr();
    memset(out, 0x5a, OUT);
    _mm_setcsr(flush ? 0x9fc0 : 0x1f80);
    in->run(o, out);
    _mm_setcsr(mode);
    for (int i = 0; in->of == BF16 && i < 64; i += 4) {
        uint32_t w;
        memcpy(&w, out + i, 4);
        if ((w & 0x7fffffff) > 0x7f800000) memset(out + i, 0xff, 4);
    }
}

static uint64_t hash_of(const instruction *in, const operands *sets) {
    uint64_t h = 0xcbf29ce484222325u;                    /* FNV-1a */
    _Alignas(64) uint8_t out[OUT];
    for (int s = 0; s < SETS * MODES; s++) {
        one_result(in, &sets[s / MODES], s % MODES, out);
        for (int i = 0; i < OUT; i++) h = (h ^ out[i]) * 0x100000001b3u;
    }
    return h;
}

/* Whether both give the same bytes; prints the first set where they differ. */
static bool same(const instruction *want, const instruction *got, const operands *sets) {
    _Alignas(64) uint8_t a[OUT], b[OUT];
    for (int s = 0; s < SETS * MODES; s++) {
        one_result(want, &sets[s / MODES], s % MODES, a);
        one_result(got, &sets[s / MODES], s % MODES, b);
        for (int i = 0; i < OUT; i++)
            if (a[i] != b[i])
                return printf("    %s: set %d, byte %d: emulated %02x, the processor %02x\n", got->name, s, i, b[i], a[i]), false;
    }
    return true;
}

/* Linux gives a process the registers of tiles when it asks for them. */
static bool has_tiles(void) {
    unsigned a, b, c, d, lo, hi;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return false;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (lo & 0x600e6) == 0x600e6 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 24 & 3) == 3 &&
           syscall(SYS_arch_prctl, 0x1023, 18) == 0;
}

static bool can_run(const instruction *in) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni") &&
           (in->of != BF16 || __builtin_cpu_supports("avx512bf16")) && (in->of != TILES || has_tiles());
}

/* The hash of an instruction in the file; false: it has none. */
static bool recorded(FILE *f, const char *name, uint64_t *hash) {
    char               line[100];
    unsigned long long h;
    for (rewind(f); fgets(line, sizeof line, f);) {
        char of[50];
        if (sscanf(line, "%49s %llx", of, &h) == 2 && !strcmp(of, name)) return *hash = h, true;
    }
    return false;
}

int main(int argc, char **argv) {
    static operands sets[SETS];
    const bool      record = argc > 1 && !strcmp(argv[1], "--record");
    FILE           *f = argc > 1 && !record ? fopen(argv[1], "r") : NULL;
    int             passed = 0, failed = 0, skipped = 0;
    if (argc > 1 && !record && !f) return fprintf(stderr, "instructions: cannot read %s\n", argv[1]), 2;
    for (int i = 0; i < SETS; i++) random_operands(i, &sets[i]);
    for (const instruction *r = real, *e = emulated; r->name; r++, e++) {
        const bool can = can_run(r);
        uint64_t   want, got;
        if (record) {
            if (can) printf("%s %016llx\n", r->name, (unsigned long long)hash_of(r, sets));
            continue;
        }
        const bool known = f && recorded(f, r->name, &want), right = !known || (got = hash_of(e, sets)) == want;
        if (!right)
            printf("    %s: the hash is %016llx, %016llx is recorded\n", e->name, (unsigned long long)got,
                   (unsigned long long)want);
        if (!right || (can && !same(r, e, sets))) failed++;
        else if (can || known) passed++;
        else skipped++, printf("skip  %s: not recorded, and this processor does not have it\n", r->name);
    }
    if (!record) printf("instructions: %d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed != 0;
}
#endif
