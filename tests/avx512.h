/* avx512.h - the AVX-512, AVX-VNNI and AMX instructions of the kernels in plain C, for machines with AVX2 alone.
 *
 * tests/avx512.sed puts emu_mm512_add_ps in place of _mm512_add_ps, and so on, in a copy of ggml_kernels.h. An
 * instruction that is missing here is then an error of the compiler, which names it. Each function follows the
 * operation in Intel's manual (SDM, volume 2); lanes are counted from the lowest. What the manual leaves undefined is
 * filled with noise, masked lanes of memory are not touched, and an aligned access to another address ends the program.
 *
 * To add an instruction: a function here, and a case in tests/instructions.c that compares it with the processor's.
 * Masked forms of 128 and 256 bits and others that AVX2 lacks also need their name in tests/avx512.sed. */
#include <cpuid.h>
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int8_t   emu_i8 __attribute__((vector_size(64), may_alias));
typedef uint8_t  emu_u8 __attribute__((vector_size(64), may_alias));
typedef int16_t  emu_i16 __attribute__((vector_size(64), may_alias));
typedef uint16_t emu_u16 __attribute__((vector_size(64), may_alias));
typedef int32_t  emu_i32 __attribute__((vector_size(64), may_alias));
typedef uint32_t emu_u32 __attribute__((vector_size(64), may_alias));
typedef uint64_t emu_u64 __attribute__((vector_size(64), may_alias));

/* Inlined where one or two instructions of AVX2 do it; calls elsewhere, since kernels use some of them hundreds of times. */
#define EMU      static inline __attribute__((always_inline, unused, target("avx2,fma,f16c")))
#define EMU_CALL static __attribute__((noinline, unused, target("avx2,fma,f16c")))

/* A function whose lane i of n is x; r is the result. */
#define EMU_EACH(ret, name, args, type, n, x) \
    EMU_CALL ret name args {                  \
        type r;                               \
        for (int i = 0; i < (n); i++) r[i] = (x); \
        return (ret)r;                        \
    }

#define EMU_BIT(k, i) ((k) >> (i) & 1)

/* --- 512 bits as two times 256 --- */

typedef union { __m512 f; __m512i i; __m256 f8[2]; __m256i i8[2]; __m128 f4[4]; __m128i i4[4]; } emu_parts;

EMU __m256  emu_half_ps(__m512 v, int h) { return (emu_parts){.f = v}.f8[h]; }
EMU __m256i emu_half(__m512i v, int h) { return (emu_parts){.i = v}.i8[h]; }
EMU __m512  emu_join_ps(__m256 lo, __m256 hi) { return (emu_parts){.f8 = {lo, hi}}.f; }
EMU __m512i emu_join(__m256i lo, __m256i hi) { return (emu_parts){.i8 = {lo, hi}}.i; }
EMU __m256i emu_noise(void) { return _mm256_set1_epi32((int)0xa5c3961eu); }

/* f of both halves of one, two or three operands. */
#define EMU_HALVES1(f, a)       emu_join_ps(f(emu_half_ps(a, 0)), f(emu_half_ps(a, 1)))
#define EMU_HALVES2(f, a, b)    emu_join_ps(f(emu_half_ps(a, 0), emu_half_ps(b, 0)), f(emu_half_ps(a, 1), emu_half_ps(b, 1)))
#define EMU_HALVES3(f, a, b, c) emu_join_ps(f(emu_half_ps(a, 0), emu_half_ps(b, 0), emu_half_ps(c, 0)), \
                                            f(emu_half_ps(a, 1), emu_half_ps(b, 1), emu_half_ps(c, 1)))

EMU __m256  emu_mm512_castps512_ps256(__m512 a) { return emu_half_ps(a, 0); }
EMU __m256i emu_mm512_castsi512_si256(__m512i a) { return emu_half(a, 0); }
EMU __m128  emu_mm512_castps512_ps128(__m512 a) { return (emu_parts){.f = a}.f4[0]; }
EMU float   emu_mm512_cvtss_f32(__m512 a) { return a[0]; }
EMU __m512  emu_mm512_castsi512_ps(__m512i a) { return (__m512)a; }
EMU __m512i emu_mm512_castps_si512(__m512 a) { return (__m512i)a; }
EMU __m512i emu_mm512_castsi256_si512(__m256i a) { return emu_join(a, emu_noise()); }
EMU __m512  emu_mm512_castps256_ps512(__m256 a) { return emu_join_ps(a, (__m256)emu_noise()); }
EMU __m512  emu_mm512_castps128_ps512(__m128 a) {
    emu_parts p = {.i8 = {emu_noise(), emu_noise()}};
    p.f4[0] = a;
    return p.f;
}
EMU __m256  emu_mm512_extractf32x8_ps(__m512 a, int at) { return emu_half_ps(a, at & 1); }
EMU __m256i emu_mm512_extracti64x4_epi64(__m512i a, int at) { return emu_half(a, at & 1); }
EMU __m512  emu_mm512_insertf32x8(__m512 a, __m256 b, int at) {
    return at & 1 ? emu_join_ps(emu_half_ps(a, 0), b) : emu_join_ps(b, emu_half_ps(a, 1));
}
EMU __m512i emu_mm512_inserti64x4(__m512i a, __m256i b, int at) {
    return at & 1 ? emu_join(emu_half(a, 0), b) : emu_join(b, emu_half(a, 1));
}
EMU __m512i emu_mm512_broadcast_i64x4(__m256i a) { return emu_join(a, a); }
EMU __m512i emu_mm512_broadcast_i32x4(__m128i a) { return (emu_parts){.i4 = {a, a, a, a}}.i; }

/* --- constants --- */

EMU __m512  emu_mm512_setzero_ps(void) { return (__m512){0}; }
EMU __m512i emu_mm512_setzero_si512(void) { return (__m512i){0}; }
EMU __m512  emu_mm512_set1_ps(float x) { return emu_join_ps(_mm256_set1_ps(x), _mm256_set1_ps(x)); }
EMU __m512i emu_mm512_set1_epi8(char x) { return emu_join(_mm256_set1_epi8(x), _mm256_set1_epi8(x)); }
EMU __m512i emu_mm512_set1_epi16(short x) { return emu_join(_mm256_set1_epi16(x), _mm256_set1_epi16(x)); }
EMU __m512i emu_mm512_set1_epi32(int x) { return emu_join(_mm256_set1_epi32(x), _mm256_set1_epi32(x)); }
EMU __m512i emu_mm512_set1_epi64(long long x) { return emu_join(_mm256_set1_epi64x(x), _mm256_set1_epi64x(x)); }
EMU __m512i emu_mm512_setr_epi32(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j, int k, int l,
                                 int m, int n, int o, int p) {
    return (__m512i)(emu_i32){a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p};
}
EMU __m512i emu_mm512_set_epi32(int p, int o, int n, int m, int l, int k, int j, int i, int h, int g, int f, int e,
                                int d, int c, int b, int a) {
    return (__m512i)(emu_i32){a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p};
}
EMU __m512i emu_mm512_set_epi64(long long h, long long g, long long f, long long e, long long d, long long c, long long b,
                                long long a) {
    return (__m512i){a, b, c, d, e, f, g, h};
}

/* --- memory --- */

EMU const void *emu_aligned(const void *p) {
    if ((uintptr_t)p % 64) __builtin_trap();
    return p;
}
EMU __m512i emu_mm512_loadu_si512(const void *p) { __m512i r; memcpy(&r, p, 64); return r; }
EMU __m512  emu_mm512_loadu_ps(const void *p) { __m512 r; memcpy(&r, p, 64); return r; }
EMU __m512i emu_mm512_load_si512(const void *p) { return emu_mm512_loadu_si512(emu_aligned(p)); }
EMU __m512  emu_mm512_load_ps(const void *p) { return emu_mm512_loadu_ps(emu_aligned(p)); }
EMU void    emu_mm512_storeu_si512(void *p, __m512i a) { memcpy(p, &a, 64); }
EMU void    emu_mm512_storeu_ps(void *p, __m512 a) { memcpy(p, &a, 64); }
EMU void    emu_mm512_store_si512(void *p, __m512i a) { emu_aligned(p), memcpy(p, &a, 64); }

/* n elements of `size` bytes: those with a bit in k are copied. */
EMU_CALL void emu_copy(void *to, const void *from, uint64_t k, int n, int size) {
    for (int i = 0; i < n; i++)
        if (EMU_BIT(k, i)) memcpy((char *)to + i * size, (const char *)from + i * size, (size_t)size);
}
EMU __m512 emu_mm512_mask_loadu_ps(__m512 r, __mmask16 k, const void *p) { emu_copy(&r, p, k, 16, 4); return r; }
EMU __m512 emu_mm512_maskz_loadu_ps(__mmask16 k, const void *p) { return emu_mm512_mask_loadu_ps((__m512){0}, k, p); }
EMU __m512i emu_mm512_maskz_loadu_epi8(__mmask64 k, const void *p) { __m512i r = {0}; emu_copy(&r, p, k, 64, 1); return r; }
EMU __m512i emu_mm512_maskz_loadu_epi16(__mmask32 k, const void *p) { __m512i r = {0}; emu_copy(&r, p, k, 32, 2); return r; }
EMU __m256i emu_mm256_maskz_loadu_epi16(__mmask16 k, const void *p) { __m256i r = {0}; emu_copy(&r, p, k, 16, 2); return r; }
EMU void emu_mm512_mask_storeu_ps(void *p, __mmask16 k, __m512 a) { emu_copy(p, &a, k, 16, 4); }
EMU void emu_mm256_mask_storeu_epi16(void *p, __mmask16 k, __m256i a) { emu_copy(p, &a, k, 16, 2); }
EMU_CALL __m512 emu_mm512_mask_i32gather_ps(__m512 r, __mmask16 k, __m512i index, const void *base, int scale) {
    const emu_i32 at = (emu_i32)index;
    for (int i = 0; i < 16; i++)
        if (EMU_BIT(k, i)) { float x; memcpy(&x, (const char *)base + (ptrdiff_t)at[i] * scale, 4); r[i] = x; }
    return r;
}

/* --- floats: the processor's AVX2, whose rounding and treatment of NaN and denormals are the same --- */

EMU __m512 emu_mm512_add_ps(__m512 a, __m512 b) { return EMU_HALVES2(_mm256_add_ps, a, b); }
EMU __m512 emu_mm512_sub_ps(__m512 a, __m512 b) { return EMU_HALVES2(_mm256_sub_ps, a, b); }
EMU __m512 emu_mm512_mul_ps(__m512 a, __m512 b) { return EMU_HALVES2(_mm256_mul_ps, a, b); }
EMU __m512 emu_mm512_div_ps(__m512 a, __m512 b) { return EMU_HALVES2(_mm256_div_ps, a, b); }
EMU __m512 emu_mm512_min_ps(__m512 a, __m512 b) { return EMU_HALVES2(_mm256_min_ps, a, b); }
EMU __m512 emu_mm512_max_ps(__m512 a, __m512 b) { return EMU_HALVES2(_mm256_max_ps, a, b); }
EMU __m512 emu_mm512_fmadd_ps(__m512 a, __m512 b, __m512 c) { return EMU_HALVES3(_mm256_fmadd_ps, a, b, c); }
EMU __m512 emu_mm512_fmsub_ps(__m512 a, __m512 b, __m512 c) { return EMU_HALVES3(_mm256_fmsub_ps, a, b, c); }
EMU __m512 emu_mm512_fnmadd_ps(__m512 a, __m512 b, __m512 c) { return EMU_HALVES3(_mm256_fnmadd_ps, a, b, c); }
/* Whole numbers alone, so the upper half of `how` is 0. */
#define emu_mm512_roundscale_ps(a, how) emu_join_ps(_mm256_round_ps(emu_half_ps(a, 0), how), _mm256_round_ps(emu_half_ps(a, 1), how))
EMU __m512 emu_mm512_and_ps(__m512 a, __m512 b) { return (__m512)((__m512i)a & (__m512i)b); }
EMU __m512 emu_mm512_andnot_ps(__m512 a, __m512 b) { return (__m512)(~(__m512i)a & (__m512i)b); }
EMU __m512 emu_mm512_or_ps(__m512 a, __m512 b) { return (__m512)((__m512i)a | (__m512i)b); }
EMU __m512 emu_mm512_xor_ps(__m512 a, __m512 b) { return (__m512)((__m512i)a ^ (__m512i)b); }
EMU __m512 emu_mm512_cvtepi32_ps(__m512i a) {
    return emu_join_ps(_mm256_cvtepi32_ps(emu_half(a, 0)), _mm256_cvtepi32_ps(emu_half(a, 1)));
}
EMU __m512i emu_mm512_cvtps_epi32(__m512 a) {
    return emu_join(_mm256_cvtps_epi32(emu_half_ps(a, 0)), _mm256_cvtps_epi32(emu_half_ps(a, 1)));
}
EMU __m512 emu_mm512_cvtph_ps(__m256i a) {
    return emu_join_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(a)), _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1)));
}
#define emu_mm512_cvtps_ph(a, how) \
    _mm256_set_m128i(_mm256_cvtps_ph(emu_half_ps(a, 1), how), _mm256_cvtps_ph(emu_half_ps(a, 0), how))

EMU __mmask16 emu_signs(__m256 lo, __m256 hi) { return (__mmask16)(_mm256_movemask_ps(lo) | _mm256_movemask_ps(hi) << 8); }
#define emu_mm512_cmp_ps_mask(a, b, how) \
    emu_signs(_mm256_cmp_ps(emu_half_ps(a, 0), emu_half_ps(b, 0), how), _mm256_cmp_ps(emu_half_ps(a, 1), emu_half_ps(b, 1), how))
#define emu_mm512_mask_cmp_ps_mask(k, a, b, how) ((__mmask16)((k) & emu_mm512_cmp_ps_mask(a, b, how)))
#define emu_mm_cmp_ps_mask(a, b, how) ((__mmask8)_mm_movemask_ps(_mm_cmp_ps(a, b, how)))

EMU_CALL __m512 emu_mm512_mask_mov_ps(__m512 r, __mmask16 k, __m512 a) {
    for (int i = 0; i < 16; i++) if (EMU_BIT(k, i)) r[i] = a[i];
    return r;
}
EMU __m512 emu_mm512_maskz_mov_ps(__mmask16 k, __m512 a) { return emu_mm512_mask_mov_ps((__m512){0}, k, a); }
EMU __m512 emu_mm512_mask_add_ps(__m512 r, __mmask16 k, __m512 a, __m512 b) {
    return emu_mm512_mask_mov_ps(r, k, emu_mm512_add_ps(a, b));
}
EMU __m512 emu_mm512_mask_sub_ps(__m512 r, __mmask16 k, __m512 a, __m512 b) {
    return emu_mm512_mask_mov_ps(r, k, emu_mm512_sub_ps(a, b));
}
EMU __m512 emu_mm512_maskz_sub_ps(__mmask16 k, __m512 a, __m512 b) { return emu_mm512_maskz_mov_ps(k, emu_mm512_sub_ps(a, b)); }
EMU_CALL __m128 emu_mm_mask_mov_ps(__m128 r, __mmask8 k, __m128 a) {
    for (int i = 0; i < 4; i++) if (EMU_BIT(k, i)) r[i] = a[i];
    return r;
}
EMU __m128 emu_mm_maskz_mov_ps(__mmask8 k, __m128 a) { return emu_mm_mask_mov_ps((__m128){0}, k, a); }

/* A series of instructions in every compiler: 8 + 8 lanes, then 4 + 4, 2 + 2, 1 + 1. */
#define EMU_REDUCE(ret, name, arg, type, n, x)    \
    EMU_CALL ret name(arg v) {                    \
        type r = (type)v;                         \
        for (int h = (n) / 2; h; h /= 2)          \
            for (int i = 0; i < h; i++) r[i] = (x); \
        return r[0];                              \
    }
EMU_REDUCE(float, emu_mm512_reduce_add_ps, __m512, __m512, 16, r[i] + r[i + h])
EMU_REDUCE(float, emu_mm512_reduce_max_ps, __m512, __m512, 16, r[i] > r[i + h] ? r[i] : r[i + h])
EMU_REDUCE(int, emu_mm512_reduce_max_epi32, __m512i, emu_i32, 16, r[i] > r[i + h] ? r[i] : r[i + h])
EMU_REDUCE(int, emu_mm512_reduce_add_epi32, __m512i, emu_i32, 16, r[i] + r[i + h])

/* --- bf16: neither instruction reads or writes MXCSR; denormals are zeros, results are rounded to nearest even --- */

EMU uint16_t emu_to_bf16(uint32_t u) {
    const uint32_t mag = u & 0x7fffffff;
    if (mag < 0x00800000) return (uint16_t)(u >> 16 & 0x8000);
    if (mag >= 0x7f800000) return (uint16_t)(u >> 16 | (mag > 0x7f800000 ? 0x40 : 0));
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
/* The second operand is the lower half. */
EMU_EACH(__m512i, emu_mm512_cvtne2ps_pbh, (__m512 hi, __m512 lo), emu_u16, 32,
         emu_to_bf16(i < 16 ? ((emu_u32)lo)[i & 15] : ((emu_u32)hi)[i & 15]))

/* s + odd product, rounded, + even product, rounded. An infinity or NaN behaves as in other fused operations. */
EMU_CALL __m512 emu_mm512_dpbf16_ps(__m512 s, __m512bh a, __m512bh b) {
    const unsigned mode = _mm_getcsr();
    const __m512i  odd = (__m512i)((emu_u32){0} + 0xffff0000u);
    __m512         a1 = (__m512)((__m512i)a & odd), b1 = (__m512)((__m512i)b & odd);
    __m512         a0 = (__m512)((emu_u32)a << 16), b0 = (__m512)((emu_u32)b << 16);
    _mm_setcsr(0x9fc0);                                  /* FTZ and DAZ, to nearest even, no exceptions */
    __asm__ volatile("" : "+m"(s), "+m"(a1), "+m"(b1), "+m"(a0), "+m"(b0));
    s = EMU_HALVES3(_mm256_fmadd_ps, a1, b1, s);
    s = EMU_HALVES3(_mm256_fmadd_ps, a0, b0, s);
    __asm__ volatile("" : "+m"(s));
    _mm_setcsr(mode);
    return s;
}

/* --- integers: sums and products wrap --- */

EMU __m512i emu_mm512_add_epi8(__m512i a, __m512i b) { return (__m512i)((emu_u8)a + (emu_u8)b); }
EMU __m512i emu_mm512_add_epi16(__m512i a, __m512i b) { return (__m512i)((emu_u16)a + (emu_u16)b); }
EMU __m512i emu_mm512_add_epi32(__m512i a, __m512i b) { return (__m512i)((emu_u32)a + (emu_u32)b); }
EMU __m512i emu_mm512_add_epi64(__m512i a, __m512i b) { return (__m512i)((emu_u64)a + (emu_u64)b); }
EMU __m512i emu_mm512_sub_epi16(__m512i a, __m512i b) { return (__m512i)((emu_u16)a - (emu_u16)b); }
EMU __m512i emu_mm512_sub_epi32(__m512i a, __m512i b) { return (__m512i)((emu_u32)a - (emu_u32)b); }
EMU __m512i emu_mm512_mullo_epi32(__m512i a, __m512i b) { return (__m512i)((emu_u32)a * (emu_u32)b); }
EMU __m512i emu_mm512_and_si512(__m512i a, __m512i b) { return a & b; }
EMU __m512i emu_mm512_or_si512(__m512i a, __m512i b) { return a | b; }
EMU __m512i emu_mm512_xor_si512(__m512i a, __m512i b) { return a ^ b; }
EMU_EACH(__m512i, emu_mm512_abs_epi8, (__m512i a), emu_u8, 64,
         (uint8_t)(((emu_i8)a)[i] < 0 ? 0 - ((emu_u8)a)[i] : ((emu_u8)a)[i]))
EMU_EACH(__m512i, emu_mm512_abs_epi32, (__m512i a), emu_u32, 16, ((emu_i32)a)[i] < 0 ? 0 - ((emu_u32)a)[i] : ((emu_u32)a)[i])
EMU_EACH(__m512i, emu_mm512_max_epi32, (__m512i a, __m512i b), emu_i32, 16,
         ((emu_i32)a)[i] > ((emu_i32)b)[i] ? ((emu_i32)a)[i] : ((emu_i32)b)[i])
EMU_CALL __mmask16 emu_mm512_cmple_epi32_mask(__m512i a, __m512i b) {
    unsigned k = 0;
    for (int i = 0; i < 16; i++) k |= (unsigned)(((emu_i32)a)[i] <= ((emu_i32)b)[i]) << i;
    return (__mmask16)k;
}
EMU __mmask16 emu_mm512_cmpgt_epi32_mask(__m512i a, __m512i b) { return (__mmask16)~emu_mm512_cmple_epi32_mask(a, b); }
EMU_EACH(__m512i, emu_mm512_mask_add_epi32, (__m512i s, __mmask16 k, __m512i a, __m512i b), emu_u32, 16,
         EMU_BIT(k, i) ? ((emu_u32)a)[i] + ((emu_u32)b)[i] : ((emu_u32)s)[i])
EMU_CALL __m512i emu_mm512_mask_or_epi32(__m512i r, __mmask16 k, __m512i a, __m512i b) {
    return (__m512i)emu_mm512_mask_mov_ps((__m512)r, k, (__m512)(a | b));
}
EMU_EACH(__m512i, emu_mm512_maskz_mov_epi8, (__mmask64 k, __m512i a), emu_i8, 64, EMU_BIT(k, i) ? ((emu_i8)a)[i] : 0)
EMU_EACH(__m512i, emu_mm512_mask_add_epi8, (__m512i s, __mmask64 k, __m512i a, __m512i b), emu_u8, 64,
         (uint8_t)(EMU_BIT(k, i) ? ((emu_u8)a)[i] + ((emu_u8)b)[i] : ((emu_u8)s)[i]))
EMU_EACH(__m512i, emu_mm512_mask_blend_epi16, (__mmask32 k, __m512i a, __m512i b), emu_i16, 32,
         EMU_BIT(k, i) ? ((emu_i16)b)[i] : ((emu_i16)a)[i])
/* Bit 4a + 2b + c of the table, for each bit. */
EMU_CALL __m512i emu_mm512_ternarylogic_epi64(__m512i a, __m512i b, __m512i c, int table) {
    __m512i r = {0};
    for (int i = 0; i < 8; i++)
        if (EMU_BIT(table, i)) r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return r;
}

/* Shifts by the width or more give zeros or signs; a rotation takes the count modulo the width. */
EMU __m512i emu_mm512_slli_epi16(__m512i a, unsigned n) { return n > 15 ? (__m512i){0} : (__m512i)((emu_u16)a << n); }
EMU __m512i emu_mm512_srli_epi16(__m512i a, unsigned n) { return n > 15 ? (__m512i){0} : (__m512i)((emu_u16)a >> n); }
EMU __m512i emu_mm512_slli_epi32(__m512i a, unsigned n) { return n > 31 ? (__m512i){0} : (__m512i)((emu_u32)a << n); }
EMU __m512i emu_mm512_rol_epi32(__m512i a, int n) {
    return (__m512i)((emu_u32)a << (n & 31) | (emu_u32)a >> (-n & 31));
}
EMU __m512i emu_mm512_srli_epi32(__m512i a, unsigned n) { return n > 31 ? (__m512i){0} : (__m512i)((emu_u32)a >> n); }
EMU __m512i emu_mm512_srai_epi32(__m512i a, unsigned n) { return (__m512i)((emu_i32)a >> (n > 31 ? 31 : n)); }
EMU __m512i emu_mm512_srl_epi32(__m512i a, __m128i n) {
    const uint64_t by = (uint64_t)n[0];
    return emu_mm512_srli_epi32(a, by > 31 ? 32 : (unsigned)by);
}
EMU_EACH(__m512i, emu_mm512_srlv_epi32, (__m512i a, __m512i n), emu_u32, 16,
         ((emu_u32)n)[i] > 31 ? 0 : ((emu_u32)a)[i] >> ((emu_u32)n)[i])
EMU_EACH(__m512i, emu_mm512_srlv_epi64, (__m512i a, __m512i n), emu_u64, 8,
         ((emu_u64)n)[i] > 63 ? 0 : ((emu_u64)a)[i] >> ((emu_u64)n)[i])
EMU_EACH(__m512i, emu_mm512_sllv_epi64, (__m512i a, __m512i n), emu_u64, 8,
         ((emu_u64)n)[i] > 63 ? 0 : ((emu_u64)a)[i] << ((emu_u64)n)[i])
EMU_EACH(__m512i, emu_mm512_rolv_epi64, (__m512i a, __m512i n), emu_u64, 8,
         ((emu_u64)a)[i] << (((emu_u64)n)[i] & 63) | ((emu_u64)a)[i] >> (-((emu_u64)n)[i] & 63))
EMU_EACH(__m512i, emu_mm512_mask_sllv_epi32, (__m512i s, __mmask16 k, __m512i a, __m512i n), emu_u32, 16,
         !EMU_BIT(k, i) ? ((emu_u32)s)[i] : ((emu_u32)n)[i] > 31 ? 0 : ((emu_u32)a)[i] << ((emu_u32)n)[i])

/* Sums of products of 8 or 16 bits in 32 bits. */
#define EMU_DOT4(s, a, b, i) \
    ((s)[i] + (uint32_t)((a)[4 * (i)] * (b)[4 * (i)] + (a)[4 * (i) + 1] * (b)[4 * (i) + 1] + \
                         (a)[4 * (i) + 2] * (b)[4 * (i) + 2] + (a)[4 * (i) + 3] * (b)[4 * (i) + 3]))
#define EMU_DOT2(s, a, b, i) ((s)[i] + (uint32_t)((a)[2 * (i)] * (b)[2 * (i)]) + (uint32_t)((a)[2 * (i) + 1] * (b)[2 * (i) + 1]))
EMU_EACH(__m512i, emu_mm512_dpbusd_epi32, (__m512i s, __m512i a, __m512i b), emu_u32, 16,
         EMU_DOT4((emu_u32)s, (emu_u8)a, (emu_i8)b, i))
EMU_EACH(__m512i, emu_mm512_dpwssd_epi32, (__m512i s, __m512i a, __m512i b), emu_u32, 16,
         EMU_DOT2((emu_u32)s, (emu_i16)a, (emu_i16)b, i))
EMU __m512i emu_mm512_madd_epi16(__m512i a, __m512i b) { return emu_mm512_dpwssd_epi32((__m512i){0}, a, b); }
EMU __m256i emu_mm256_dpbusd_epi32(__m256i s, __m256i a, __m256i b) {
    return emu_half(emu_mm512_dpbusd_epi32(emu_join(s, s), emu_join(a, a), emu_join(b, b)), 0);
}
EMU __m256i emu_mm256_dpwssd_epi32(__m256i s, __m256i a, __m256i b) {
    return emu_half(emu_mm512_dpwssd_epi32(emu_join(s, s), emu_join(a, a), emu_join(b, b)), 0);
}

/* Widened and narrowed. */
EMU __m512i emu_mm512_cvtepi8_epi32(__m128i a) {
    return emu_join(_mm256_cvtepi8_epi32(a), _mm256_cvtepi8_epi32(_mm_srli_si128(a, 8)));
}
EMU __m512i emu_mm512_cvtepu8_epi32(__m128i a) {
    return emu_join(_mm256_cvtepu8_epi32(a), _mm256_cvtepu8_epi32(_mm_srli_si128(a, 8)));
}
EMU __m512i emu_mm512_cvtepi16_epi32(__m256i a) {
    return emu_join(_mm256_cvtepi16_epi32(_mm256_castsi256_si128(a)), _mm256_cvtepi16_epi32(_mm256_extracti128_si256(a, 1)));
}
EMU __m512i emu_mm512_cvtepu16_epi32(__m256i a) {
    return emu_join(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(a)), _mm256_cvtepu16_epi32(_mm256_extracti128_si256(a, 1)));
}
EMU_CALL __m256i emu_mm512_cvtepi32_epi16(__m512i a) {
    uint16_t r[16];
    for (int i = 0; i < 16; i++) r[i] = (uint16_t)((emu_u32)a)[i];
    return _mm256_loadu_si256((const __m256i *)r);
}
EMU_CALL __m128i emu_mm512_cvtepi32_epi8(__m512i a) {
    uint8_t r[16];
    for (int i = 0; i < 16; i++) r[i] = (uint8_t)((emu_u32)a)[i];
    return _mm_loadu_si128((const __m128i *)r);
}
EMU_CALL __m256i emu_mm512_cvtepi16_epi8(__m512i a) {
    uint8_t r[32];
    for (int i = 0; i < 32; i++) r[i] = (uint8_t)((emu_u16)a)[i];
    return _mm256_loadu_si256((const __m256i *)r);
}
EMU __m128i emu_mm256_cvtepi32_epi16(__m256i a) { return _mm256_castsi256_si128(emu_mm512_cvtepi32_epi16(emu_join(a, a))); }
EMU int16_t emu_sat16(int32_t x) { return (int16_t)(x < -32768 ? -32768 : x > 32767 ? 32767 : x); }

EMU_EACH(__m512i, emu_mm512_mullo_epi16, (__m512i a, __m512i b), emu_u16, 32,
         (uint16_t)((uint32_t)((emu_u16)a)[i] * ((emu_u16)b)[i]))
EMU_EACH(__m512i, emu_mm512_maddubs_epi16, (__m512i a, __m512i b), emu_i16, 32,
         emu_sat16(((emu_u8)a)[2 * i] * ((emu_i8)b)[2 * i] + ((emu_u8)a)[2 * i + 1] * ((emu_i8)b)[2 * i + 1]))

/* --- lanes elsewhere; most instructions work in each 128 bits alone: l is the first lane of these --- */

#define EMU_LANES(name, args, type, n, w, x)              \
    EMU_CALL __m512i name args {                          \
        type r;                                           \
        for (int l = 0; l < (n); l += (w))                \
            for (int j = 0; j < (w); j++) r[l + j] = (x); \
        return (__m512i)r;                                \
    }
EMU_LANES(emu_mm512_packs_epi32, (__m512i a, __m512i b), emu_i16, 32, 8,
          emu_sat16((j < 4 ? (emu_i32)a : (emu_i32)b)[l / 2 + (j & 3)]))
EMU_LANES(emu_mm512_shuffle_epi8, (__m512i a, __m512i at), emu_u8, 64, 16,
          ((emu_u8)at)[l + j] & 0x80 ? 0 : ((emu_u8)a)[l + (((emu_u8)at)[l + j] & 15)])
EMU_LANES(emu_mm512_unpacklo_epi32, (__m512i a, __m512i b), emu_i32, 16, 4, (j & 1 ? (emu_i32)b : (emu_i32)a)[l + j / 2])
EMU_LANES(emu_mm512_unpackhi_epi32, (__m512i a, __m512i b), emu_i32, 16, 4, (j & 1 ? (emu_i32)b : (emu_i32)a)[l + 2 + j / 2])
EMU_LANES(emu_mm512_unpacklo_epi64, (__m512i a, __m512i b), emu_u64, 8, 2, (j & 1 ? (emu_u64)b : (emu_u64)a)[l])
EMU_LANES(emu_mm512_unpackhi_epi64, (__m512i a, __m512i b), emu_u64, 8, 2, (j & 1 ? (emu_u64)b : (emu_u64)a)[l + 1])
EMU_LANES(emu__shuffle_ps, (__m512i a, __m512i b, int at), emu_i32, 16, 4,
          (j < 2 ? (emu_i32)a : (emu_i32)b)[l + (at >> 2 * j & 3)])
EMU_LANES(emu__movehdup_ps, (__m512i a), emu_i32, 16, 4, ((emu_i32)a)[l + (j | 1)])
EMU_LANES(emu_mm512_shuffle_i32x4, (__m512i a, __m512i b, int at), emu_i32, 16, 4,
          (l < 8 ? (emu_i32)a : (emu_i32)b)[4 * (at >> l / 2 & 3) + j])
EMU_EACH(__m512i, emu_mm512_permutexvar_epi16, (__m512i at, __m512i a), emu_i16, 32, ((emu_i16)a)[((emu_u16)at)[i] & 31])
EMU_EACH(__m512i, emu_mm512_permutexvar_epi32, (__m512i at, __m512i a), emu_i32, 16, ((emu_i32)a)[((emu_u32)at)[i] & 15])
EMU_EACH(__m512i, emu_mm512_permutexvar_epi64, (__m512i at, __m512i a), emu_u64, 8, ((emu_u64)a)[((emu_u64)at)[i] & 7])
EMU __m512 emu_mm512_permutexvar_ps(__m512i at, __m512 a) { return (__m512)emu_mm512_permutexvar_epi32(at, (__m512i)a); }
EMU __m512 emu_mm512_unpacklo_ps(__m512 a, __m512 b) { return (__m512)emu_mm512_unpacklo_epi32((__m512i)a, (__m512i)b); }
EMU __m512 emu_mm512_unpackhi_ps(__m512 a, __m512 b) { return (__m512)emu_mm512_unpackhi_epi32((__m512i)a, (__m512i)b); }
EMU __m512 emu_mm512_shuffle_f32x4(__m512 a, __m512 b, int at) {
    return (__m512)emu_mm512_shuffle_i32x4((__m512i)a, (__m512i)b, at);
}
EMU __m512 emu_mm512_shuffle_ps(__m512 a, __m512 b, int at) { return (__m512)emu__shuffle_ps((__m512i)a, (__m512i)b, at); }
EMU __m512 emu_mm512_permute_ps(__m512 a, int at) { return emu_mm512_shuffle_ps(a, a, at); }
EMU __m512 emu_mm512_movehdup_ps(__m512 a) { return (__m512)emu__movehdup_ps((__m512i)a); }

#include "amx.h"

/* --- the processor, with the features that this file emulates --- */

static inline __attribute__((unused)) int emu_cpuid_count(unsigned leaf, unsigned part, unsigned *a, unsigned *b,
                                                          unsigned *c, unsigned *d) {
    if (leaf != 7) return __get_cpuid_count(leaf, part, a, b, c, d);
    const int known = __get_cpuid_count(7, part, a, b, c, d);
    if (!known) return 0;
    if (part == 0) *b |= bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL, *c |= bit_AVX512VNNI;
    if (part == 0) *d |= 1u << 24 | 1u << 25;            /* AMX-TILE, AMX-INT8 */
    if (part == 1) *a |= 1 << 4 | 1 << 5;                /* AVX-VNNI, AVX512_BF16 */
    return 1;
}
