#ifndef GGML_KERNELS_H
#define GGML_KERNELS_H
/* ggml_kernels.h - the GGML number formats and the arithmetic on them, for CPUs, in one header.
 *
 *     #include "ggml_kernels.h"          in one C file, or compiled once as an object ([api] explains both); needs libc and libm
 *     k_init("auto");                    chooses the fastest kernels for this CPU, once, before any thread starts
 *     k_types[id].dequant(src, dst, n);  any format to float
 *
 * IT DOES      Block layouts, conversions, a scalar reference and vector kernels for the tensor types of GGUF files;
 *              products of quantised rows, norms, activations, softmax, rotary embedding, attention, short convolutions, the gated
 *              delta rule.
 * IT DOES NOT  Allocate, read files, start threads, print, keep state other than the chosen CPU level, or know models.
 *              The caller checks sizes and types; the kernels do not check them again.
 *
 * Results have the same bits at every CPU level. So build for the baseline CPU with -ffp-contract=off and without
 * -ffast-math: a multiplication and an addition are fused only where the code says so. Little-endian machines only.
 *
 * SECTIONS  [fmt] blocks on disk   [conv] small floats   [api] public types, tables and functions
 *           [unpack] any format to int8 codes and scales   [math] functions of one value   [ref] dequantise, quantise
 *           [types] one row per format   [vec] float kernels   [attn] attention and the rows of its cache
 *           [cpu] features of this CPU   [quant] products of quantised weights in file order, scalar   [quant_x86] what the
 *           vector levels share   [quant_avx512] [quant_avx2] their products
 *           [packed] the packed layout (repack): 16 rows interleaved   [packed_x86] what the vector levels share
 *           [packed_avx512] [packed_avx2] their products   [probe] loops that measure this machine
 *           [level] CPU dispatch: the levels and the public functions   [thread] the start of every thread
 *           Offline quantisation, which inference does not need:   [fit] blocks of least squared error, scales searched
 *           [fit_grid] the same for tables, powers of two and lattices   [fitters] one row per format that can be made
 *           [cuda] a step on NVIDIA GPUs; nvcc compiles it, blocks, small floats, decoders, functions of one value,
 *           the rules of attention and the packed layout, and nothing else */
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#if defined(__FAST_MATH__) || FLT_EVAL_METHOD != 0
#error "results are promised to the bit: no -ffast-math, no excess precision"
#endif
#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "GGUF blocks are read in place: a little-endian machine is needed"
#endif

/* K_BOTH marks functions and tables that gcc and nvcc both compile, written in the common subset of C and C++; nvcc makes device code of
 * them. The other sections are inside #ifndef __CUDACC__. */
#ifdef __CUDACC__
#define K_BOTH static __device__ __attribute__((unused))
#define K_PARITY(x) (__popc(x) & 1)
#else
#define K_BOTH static
#define K_PARITY __builtin_parity
#endif
#define K__BODY K_BOTH inline __attribute__((always_inline))  /* bodies that each CPU level compiles again for its target */

/* ===== [fmt] blocks on disk =====
 * The ids are those of a GGUF tensor record, the structs are bytes of the file; both come from ggml's headers. A block has
 * alignment 1, since a row may begin at any byte. d is the scale, dmin or m the minimum; uint16_t scales are f16.
 * [unpack] defines the value of a code. */

enum {
    K_F32 = 0, K_F16 = 1, K_Q4_0 = 2, K_Q4_1 = 3, K_Q5_0 = 6, K_Q5_1 = 7, K_Q8_0 = 8, K_Q8_1 = 9,
    K_Q2_K = 10, K_Q3_K = 11, K_Q4_K = 12, K_Q5_K = 13, K_Q6_K = 14, K_Q8_K = 15,
    K_IQ2_XXS = 16, K_IQ2_XS = 17, K_IQ3_XXS = 18, K_IQ1_S = 19,
    K_IQ4_NL = 20, K_IQ3_S = 21, K_IQ2_S = 22, K_IQ4_XS = 23,
    K_I8 = 24, K_I16 = 25, K_I32 = 26, K_I64 = 27, K_F64 = 28, K_IQ1_M = 29, K_BF16 = 30,
    K_TQ1_0 = 34, K_TQ2_0 = 35, K_MXFP4 = 39, K_NVFP4 = 40, K_Q1_0 = 41, K_Q2_0 = 42
};
#define K_TYPE_MAX 43
#define K_F16_ROUND K_TYPE_MAX                           /* not a type of files: f16 weights that are rounded to bf16 when read */
#define K_SUPER    256                                   /* weights in a super-block */

#ifdef __cplusplus
#define FMT_SIZE(type, bytes) static_assert(sizeof(type) == (bytes), "blocks of the file have this size")
#else
#define FMT_SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), "blocks of the file have this size")
#endif
#define FMT_BLOCK struct __attribute__((packed))

/* Plain blocks: one scale for a few weights. */
typedef FMT_BLOCK { uint16_t d; uint8_t qs[16]; } block_q4_0;
typedef FMT_BLOCK { uint16_t d, m; uint8_t qs[16]; } block_q4_1;
typedef FMT_BLOCK { uint16_t d; uint8_t qh[4], qs[16]; } block_q5_0;
typedef FMT_BLOCK { uint16_t d, m; uint8_t qh[4], qs[16]; } block_q5_1;
typedef FMT_BLOCK { uint16_t d; int8_t qs[32]; } block_q8_0;
typedef FMT_BLOCK { uint16_t d, s; int8_t qs[32]; } block_q8_1;
typedef FMT_BLOCK { uint16_t d; uint8_t qs[16]; } block_iq4_nl;
typedef FMT_BLOCK { uint8_t e, qs[16]; } block_mxfp4;
typedef FMT_BLOCK { uint8_t d[4], qs[32]; } block_nvfp4;
typedef FMT_BLOCK { uint16_t d; uint8_t qs[16]; } block_q1_0;
typedef FMT_BLOCK { uint16_t d; uint8_t qs[16]; } block_q2_0;
FMT_SIZE(block_q4_0, 18); FMT_SIZE(block_q4_1, 20); FMT_SIZE(block_q5_0, 22); FMT_SIZE(block_q5_1, 24);
FMT_SIZE(block_q8_0, 34); FMT_SIZE(block_q8_1, 36); FMT_SIZE(block_iq4_nl, 18); FMT_SIZE(block_mxfp4, 17);
FMT_SIZE(block_nvfp4, 36); FMT_SIZE(block_q1_0, 18); FMT_SIZE(block_q2_0, 18);

/* Super-blocks of 256: one float scale, and a small integer scale for each group. */
typedef FMT_BLOCK { uint8_t scales[16], qs[64]; uint16_t d, dmin; } block_q2_K;
typedef FMT_BLOCK { uint8_t hmask[32], qs[64], scales[12]; uint16_t d; } block_q3_K;
typedef FMT_BLOCK { uint16_t d, dmin; uint8_t scales[12], qs[128]; } block_q4_K;
typedef FMT_BLOCK { uint16_t d, dmin; uint8_t scales[12], qh[32], qs[128]; } block_q5_K;
typedef FMT_BLOCK { uint8_t ql[128], qh[64]; int8_t scales[16]; uint16_t d; } block_q6_K;
typedef FMT_BLOCK { float d; int8_t qs[256]; int16_t bsums[16]; } block_q8_K;
typedef FMT_BLOCK { uint8_t qs[48], qh[4]; uint16_t d; } block_tq1_0;
typedef FMT_BLOCK { uint8_t qs[64]; uint16_t d; } block_tq2_0;
FMT_SIZE(block_q2_K, 84); FMT_SIZE(block_q3_K, 110); FMT_SIZE(block_q4_K, 144); FMT_SIZE(block_q5_K, 176);
FMT_SIZE(block_q6_K, 210); FMT_SIZE(block_q8_K, 292); FMT_SIZE(block_tq1_0, 54); FMT_SIZE(block_tq2_0, 66);

/* Super-blocks whose codes are points of a fixed grid of 4 or 8 weights. */
typedef FMT_BLOCK { uint16_t d; uint32_t qs[16]; } block_iq2_xxs;
typedef FMT_BLOCK { uint16_t d, qs[32]; uint8_t scales[8]; } block_iq2_xs;
typedef FMT_BLOCK { uint16_t d; uint8_t qs[32], signs[32], qh[8], scales[8]; } block_iq2_s;
typedef FMT_BLOCK { uint16_t d; uint8_t qs[64]; uint32_t aux[8]; } block_iq3_xxs;
typedef FMT_BLOCK { uint16_t d; uint8_t qs[64], qh[8], signs[32], scales[4]; } block_iq3_s;
typedef FMT_BLOCK { uint16_t d; uint8_t qs[32]; uint16_t qh[8]; } block_iq1_s;
typedef FMT_BLOCK { uint8_t qs[32], qh[16]; uint16_t scales[4]; } block_iq1_m;
typedef FMT_BLOCK { uint16_t d, scales_h; uint8_t scales_l[4], qs[128]; } block_iq4_xs;
FMT_SIZE(block_iq2_xxs, 66); FMT_SIZE(block_iq2_xs, 74); FMT_SIZE(block_iq2_s, 82);
FMT_SIZE(block_iq3_xxs, 98); FMT_SIZE(block_iq3_s, 110); FMT_SIZE(block_iq1_s, 50);
FMT_SIZE(block_iq1_m, 56); FMT_SIZE(block_iq4_xs, 136);

/* ===== [conv] small floats =====
 * Widening is exact. Narrowing rounds to nearest, ties to even. A NaN becomes quiet and keeps its sign and upper bits, as the
 * F16C instructions do. The rounding mode must be the default. */

K_BOTH inline float    k__f32_of(uint32_t bits) { float f; memcpy(&f, &bits, 4); return f; }
K_BOTH inline uint32_t k__bits_of(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }

K_BOTH inline float k_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, mag = h & 0x7fff;
    if (mag < 0x0400) return k__f32_of(sign | k__bits_of((float)mag * 0x1p-24f)); /* subnormal */
    if (mag < 0x7c00) return k__f32_of(sign | ((mag << 13) + (112u << 23)));      /* bias 15 to 127 */
    return k__f32_of(sign | 0x7f800000 | (mag & 0x3ff) << 13 | (mag > 0x7c00 ? 0x400000 : 0));
}

K_BOTH inline uint16_t k_f32_to_f16(float f) {
    uint32_t u = k__bits_of(f), mag = u & 0x7fffffff;
    uint16_t sign = (uint16_t)(u >> 16 & 0x8000);
    if (mag > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (mag >> 13 & 0x3ff));
    if (mag >= 0x477ff000) return (uint16_t)(sign | 0x7c00);      /* 65520, the tie above 65504 */
    /* Below 2^-14 the result is a multiple of 2^-24. Floats above 0.5 have that spacing, so the addition rounds. */
    if (mag < 0x38800000) return (uint16_t)(sign | (k__bits_of(k__f32_of(mag) + 0.5f) - 0x3f000000));
    mag -= 112u << 23;
    return (uint16_t)(sign | (mag + 0xfff + (mag >> 13 & 1)) >> 13);
}

K_BOTH inline float k_bf16_to_f32(uint16_t h) { return k__f32_of((uint32_t)h << 16); }

K_BOTH inline uint16_t k_f32_to_bf16(float f) {
    uint32_t u = k__bits_of(f);
    if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

K_BOTH inline float k__f16_round(uint16_t h) { return k_bf16_to_f32(k_f32_to_bf16(k_f16_to_f32(h))); }

/* Half of the OCP E8M0 scale, 2^(e - 128): the values of the E2M1 table are doubled. Code 255 is NaN in the OCP document and
 * 2^127 here, as in ggml. */
K_BOTH inline float k_e8m0_half(uint8_t e) {
    return k__f32_of(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

/* Half of an E4M3 scale, for the same table. The sign bit is ignored; 0x7f, a NaN in the standard, is zero. */
K_BOTH inline float k_ue4m3_half(uint8_t x) {
    int e = x >> 3 & 15, m = x & 7;
    if (x == 0x7f) return 0;
    if (!e) return (float)m * 0x1p-10f;
    return k__f32_of((uint32_t)(e + 119) << 23 | (uint32_t)m << 20);  /* (1 + m/8) * 2^(e - 8) */
}

/* ===== [api] public types, tables and functions =====
 * Everything after this section is private. A macro that is defined before the #include says where the code goes:
 *     neither macro           everything is static, in the one C file that includes the header
 *     GGML_KERNELS_OBJECT     this C file holds the kernels of the whole program: public functions are external
 *     GGML_KERNELS_DECLARE    another object holds the kernels: only the declarations of this section are compiled
 * nvcc compiles this section as declarations too.
 *
 * With GGML_KERNELS_OBJECT, GGML_KERNELS_PART=1, 2 and 3 give three objects in place of one, which compile in parallel and are linked together: 1, the
 * products of avx2; 2, those of avx512; 3, everything else. In parts 1 and 2 all but these products is static, so the compiler drops what they
 * do not call. K__SHARED marks what one part defines and another uses; it is hidden from other objects. */

#if defined(GGML_KERNELS_PART) && GGML_KERNELS_PART != 3
#define K_PUBLIC static
#define K_TABLE static
#elif defined(GGML_KERNELS_OBJECT) || defined(GGML_KERNELS_DECLARE) || defined(__CUDACC__)
#define K_PUBLIC
#define K_TABLE extern
#else
#define K_PUBLIC static
#define K_TABLE static
#endif

#ifdef GGML_KERNELS_PART
#define K__PART(n) (GGML_KERNELS_PART == (n))
#define K__SHARED __attribute__((visibility("hidden")))
#pragma GCC diagnostic ignored "-Wunused-function"       /* the whole header shows them */
#else
#define K__PART(n) 1
#define K__SHARED static
#endif

/* --- formats --- */

enum {
    K_KIND_NONE,                                         /* undefined or removed: refused */
    K_KIND_FLOAT, K_KIND_INT, K_KIND_SCALE,              /* weights; the kind of their scales decides how they are multiplied */
    K_KIND_DATA                                          /* readable, never a weight */
};

/* A row of n weights as codes and scales, in arrays of the caller. [unpack] gives the formulas of INT and SCALE. */
typedef struct {
    int8_t  *q;                                          /* [n]                                        */
    int16_t *sc, *mn;                                    /* [n/16]           INT                       */
    float   *d, *dm;                                     /* [(n + 255)/256]  INT                       */
    float   *fs, *fm;                                    /* [n/group]        SCALE; n/16 elements are always enough */
} k_urow;

typedef struct {
    const char *name;                                    /* as in ggml, also of removed types */
    uint16_t    block, bytes;                            /* weights and bytes per block */
    uint8_t     kind, group, has_min;                    /* group: weights per fs, SCALE only: 16 or 32 */
    void (*dequant)(const void *src, float *dst, int64_t n);  /* n: whole blocks; src at any alignment */
    void (*unpack)(const void *src, int n, k_urow *u);        /* INT and SCALE */
    void (*quant)(const float *src, void *dst, int64_t n);    /* may be NULL */
} k_type;

typedef struct {
    /* Quantises n weights, whole blocks, with a small error sum w*(x - x^)^2. w NULL: all equal. x, w finite, w >= 0. */
    void (*fit)(const float *x, const float *w, void *dst, int64_t n);
    /* Writes new codes, as unpack returns them, and keeps the scales of the blocks. NULL where codes are points of a grid. */
    void (*recode)(const int8_t *q, void *dst, int64_t n);
    int16_t       lo, hi;                                /* range of the codes */
    const int8_t *levels;                                /* all codes in rising order, where the range has gaps; else NULL */
} k_fitter;

K_TABLE const k_type   k_types[K_TYPE_MAX + 1];          /* index: the id in the file; an unused id has no name */
K_TABLE const k_fitter k_fitters[K_TYPE_MAX];            /* the same; zeros where the type cannot be written */

static inline __attribute__((unused)) bool k_type_ok(uint32_t id) { return id < K_TYPE_MAX && k_types[id].kind != K_KIND_NONE; }

/* The name of an id that only ik_llama.cpp uses, for the error message; NULL: not such an id. */
K_PUBLIC const char *k_type_foreign(uint32_t id);
/* True for types that a matrix of a model may have. */
K_PUBLIC bool k_type_weight(uint32_t id);
/* The id of a format that is in use, -1: no format has that name (letter case is ignored). */
K_PUBLIC int k_type_by_name(const char *name);
/* Bytes of a row of n weights; 0: a removed type, an incomplete block, or more than a size_t holds. */
K_PUBLIC size_t k_row_bytes(uint32_t id, int64_t n);
/* The largest finite magnitude that a type can represent. Slow: it quantises values to find out. */
K_PUBLIC float k_most(uint32_t id);

/* --- CPU dispatch: a level is a set of kernels --- */

/* Chooses the level; to be called before any thread starts. NULL and "auto": the fastest. False: an unknown name, or this CPU does
 * not support it. */
K_PUBLIC bool k_init(const char *level);
K_PUBLIC const char *k_level_name(void);
/* The number of levels in this build. Writes the name of each, and whether this CPU supports it; either array may be NULL. */
K_PUBLIC int k_levels_list(const char **names, bool *can);
/* Every thread calls it before it computes: it makes the CPU treat denormals as zero. */
K_PUBLIC void k_thread_start(void);

/* For the body of a loop that waits. */
static inline __attribute__((unused)) void k_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* --- products of weights and activations --- */

/* Number formats of activations; each has kernels of its own. */
typedef enum { K_ACT_F32, K_ACT_BF16, K_ACT_I8, K_ACTS } k_act_kind;

/* Sums of the codes of one block of 256: of each 16, and of each 32 in the order 0 2 1 3 4 6 5 7, which is the order of minima.
 * A shorter block is padded with zeros. most16: the largest sum of magnitudes of 16; most32: the largest magnitude of a sum of codes of
 * one sign among 32. They bound the dots of a group. */
typedef struct { int16_t of16[16], of32[8], most16, most32; } k_sums;

/* Rows of activations: row t of a product is row idx ? idx[t] : t of the arrays. A quantised row with outliers is the sum of two
 * rows: where split[r] is set, row r + rest holds what rounding took from row r. */
typedef struct {
    const float   *x;   size_t ldx;      /* f32 rows, for f32 and f16 weights             */
    const uint16_t *h;                   /* rows rounded to bf16, ldx apart, for weights of bf16 and K_F16_ROUND */
    const int8_t  *q;   size_t ldq;      /* quantised rows, for quantised weights         */
    const k_sums  *sum; const float *d; size_t ldd;  /* [(n+255)/256] sums and scales      */
    const uint8_t *split; int rest;      /* NULL: no row is split                         */
    bool           gaps;                 /* most blocks have scale 0: skip them */
    const int32_t *idx; int nt;
} k_acts;

/* The activations that weights of a type are multiplied with. */
K_PUBLIC k_act_kind k_act_of(uint32_t type);
K_PUBLIC bool k_wants_q8(uint32_t type);
/* Quantises x[n], n % 32 == 0: codes, sums and scales of blocks of 256 go to q, sum and d. True: the row has outliers, and its
 * rounding errors are quantised into the row that lies `rest` rows of ldq codes after. */
K_PUBLIC bool k_quant_act(const float *x, int n, int8_t *q, k_sums *sum, float *d, size_t ldq, int rest);
/* Size of a transform for rows of n values: the largest power of two that divides n, up to 256. 1: no transform. */
K_PUBLIC int k_hadamard_size(int n);
/* Walsh-Hadamard transform of each run of `size` values, its own inverse. */
K_PUBLIC void k_hadamard(float *x, int n, int size);
/* True where products with few columns are many times slower in file order than packed. */
K_PUBLIC bool k_slow_unpacked(uint32_t type);
/* Scratch of one thread for k_mul_rows and k_mul_packed with rows of up to n_max weights. */
K_PUBLIC size_t k_scratch_bytes(int n_max);
/* The number of weight rows of one task that is fastest, for nt columns. */
K_PUBLIC int k_rows_step(uint32_t type, int nt);
/* y[t*ldy + r] = row r of the weights times activation row t, for nr rows of n weights, row_bytes apart. */
K_PUBLIC void k_mul_rows(uint32_t type, const void *w, size_t row_bytes, int nr, int n, const k_acts *a, float *y, size_t ldy, void *scratch);
/* Bytes of nr packed rows of n weights; 0: not packed (no packed layout for the type, an incomplete block, too many bytes). */
K_PUBLIC size_t k_pack_bytes(uint32_t type, int64_t nr, int64_t n);
/* Offset of packed row r; r is a multiple of 16. */
K_PUBLIC size_t k_pack_at(uint32_t type, int r, int n);
/* Packs nr rows of n weights, row_bytes apart, into k_pack_bytes(type, nr, n) bytes at dst; that number must not be 0. */
K_PUBLIC void k_pack_rows(uint32_t type, const void *src, size_t row_bytes, int nr, int n, void *dst);
/* k_mul_rows for rows that k_pack_rows wrote; the first of the nr rows is at `packed`. */
K_PUBLIC void k_mul_packed(uint32_t type, const void *packed, int nr, int n, const k_acts *a, float *y, size_t ldy, void *scratch);

/* --- a step on a GPU ---
 * Kernels take one of the structs below. All pointers in them are the device's, all threads of a block are K_CUDA_THREADS. What changes
 * from step to step, kernels read from the step in the device's memory: their arguments stay the same, so launches can be recorded. */

enum { K_CUDA_THREADS = 256, K_CUDA_COLS = 8, K_CUDA_MANY_ROWS = 64, K_CUDA_MANY_COLS = 64 };

/* What a step does with the recurrent states of a sequence, in the order of llmrun's dev_batch_states. */
enum { K_STATE_IN, K_STATE_OUT, K_STATE_AT, K_STATE_TO, K_STATE_SNAP, K_STATE_SNAP_AT, K_STATES };

/* Rows of a set: 0, all rows of the batch; 1, those that ask for something. Row r of a set is row row[set][r] of the batch. */
typedef struct {
    int32_t        n[2];                                 /* rows of each set */
    const int32_t *row[2];                               /* [n] */
    const int32_t *pos, *seq;                            /* of rows of the batch: position; number of the sequence */
    const int32_t *end;                                  /* of rows of the batch: the position after the last row of the sequence */
    const int32_t *table;                                /* block numbers by position, of every sequence and group of the cache; -1: given back */
    const int64_t *table_at;                             /* [seq * n_group + group] where a table begins */
    int32_t        n_group, n_seq;
    const int32_t *seq_at;                               /* [n_seq + 1] first row of each sequence; this and what follows: of models with states */
    const int32_t *state[K_STATES];                      /* [n_seq] slots and positions, as in llmrun's dev_batch */
} k_cuda_step;

/* Rows of a buffer. */
typedef struct { float *x; size_t ld; } k_cuda_buf;

/* Keys and values of one layer: in each block K, then V, each [head][position][bytes of one head]. */
typedef struct {
    uint8_t *base;                                       /* of block 0 */
    size_t   block_bytes;                                /* between two blocks */
    size_t   k_at, v_at, k_stride, v_stride;             /* bytes from the block's start; bytes of one position of one head */
    int      group, block, n_head, hd_k, hd_v;           /* of the cache; positions of a block; K/V heads; values of one head */
    int      hadamard_k, hadamard_v;                     /* values of one transform; 1: stored as they are */
    uint32_t type_k, type_v;
} k_cuda_kv;

/* The recurrent state of one layer, all of it float32: llmrun's dev_state. */
typedef struct {
    uint8_t *base;                                       /* of slot 0 */
    size_t   slot_bytes;                                 /* between two slots */
    size_t   ring_at, gate_at, sum_at;                   /* bytes from the slot's start: inputs [taps - 1 + log][width]; gates [log][2 * n_v]; sums,
                                                          * strips of K_DELTA_COLS columns of each head one after the other */
    int      taps, width, log;                           /* taps of the convolution; its channels; rows of the log */
    int      n_k, n_v, d_k, d_v;                         /* heads of keys and of values, and their sizes; n_v 0: a convolution alone */
} k_cuda_state;

/* k_mul_packed on a GPU, and k_mul_rows for floats: y[t*ldy + r] = row r of the weights times activation row t. Grid: (nr + 15) / 16
 * times (nt + K_CUDA_COLS - 1) / K_CUDA_COLS, or more. Quantised weights are as k_cuda_pack writes them, aligned to 16; rows of floats to the
 * size of a float, a.q to 4; a.ldq is a multiple of 4. a.gaps is not used. */
typedef struct {
    const uint8_t *w;
    size_t         row_bytes;                            /* of rows of floats */
    k_acts         a;
    const int32_t *nt;                                   /* where the number of columns is; NULL: a.nt */
    float         *y;  size_t ldy;
    int            nr, n;
    float          scale;                                /* factor on the results; 0: none */
    const int32_t *tiles;                                /* of experts (k_cuda_sort_args), NULL: one matrix. Columns are slots then, and a.nt is not
                                                          * used; grid: k_cuda_tiles() in place of the columns' part */
    size_t         mat_bytes;                            /* between the matrices of two experts */
    const float   *scales;                               /* factor of each expert; NULL: none */
    uint32_t       values[4];                            /* these three: k_cuda_mul_of */
    int            off;
    float          factor;
} k_cuda_mul;

/* The name of the kernel for weights of a type, and what it reads of the type's form; NULL: there is none. `many`: of that for many columns, of
 * quantised weights alone, with a grid of (nr + K_CUDA_MANY_ROWS - 1) / K_CUDA_MANY_ROWS times (nt + K_CUDA_MANY_COLS - 1) / K_CUDA_MANY_COLS. */
K_PUBLIC const char *k_cuda_mul_of(uint32_t type, bool many, k_cuda_mul *m);
/* The name of the kernel for weights of floats by tensor cores, for few or for many columns, with the grids above; NULL: no floats. Results have not
 * the bits of the CPU, but the same ones for any number of columns. */
K_PUBLIC const char *k_cuda_tensor_of(uint32_t type, bool many);

/* --- rows on a GPU --- */

typedef enum {
    K_ROW_NORM, K_ROW_BIAS, K_ROW_ADD, K_ROW_SCALE, K_ROW_CAP, K_ROW_PICK, K_ROW_ROPE, K_ROW_HADAMARD, K_ROW_STORE, K_ROW_FORM,
    K_ROW_ACTIVATE, K_ROW_GATE, K_ROW_ADD_SCALED, K_ROW_SCALE_BY, K_ROW_MUL, K_ROW_SPARSE, K_ROW_BLEND, K_ROW_CORRECT, K_ROW_RAISE, K_ROW_LEVEL,
    K_ROW_ROUTE, K_ROW_MIX, K_ROW_CONV, K_ROW_KEEP, K_ROW_KINDS
} k_row_kind;

typedef enum { K_NORM_RMS, K_NORM_LAYER, K_NORM_L2 } k_norm_kind;

/* One operation for every row of a set: what llmrun's operation of that name does, with the same bits. */
typedef struct {
    k_row_kind   kind;
    int          set, each;                              /* of rows; tasks for each row: as many rows in the buffers */
    bool         beside;                                 /* the first operation of another chain */
    unsigned     gathers;                                /* mask of the inputs that hold all rows: row r is row row[1][r] there */
    k_cuda_buf   in[3], out;
    int          n, n_head;                              /* values of a vector; vectors of a row */
    const float *vec, *bias;                             /* [n] or NULL */
    float        scale;
    union {
        k_norm_kind norm;
        int         act;                                 /* a k_act_fn, K_ROW_CLIP: k_swiglu_clip with 7 and 1.702 */
        int         size;                                /* K_ROW_HADAMARD: values of one transform */
        int         to;                                  /* K_ROW_LEVEL: where its output begins */
        int         active;                              /* K_ROW_CORRECT: the stream that blocks read */
        struct { int stride, at, to; } pick;             /* values of a head in in[0]; where the wanted ones begin; where they go */
        struct { int n_rot, at; bool halves; } rope;     /* values that it rotates; where the angles begin in a row of in[0] */
        struct { int a, b, to; } mul;                    /* where the values begin in in[0], in[1], out */
        struct { int used; bool norm, sigmoid; k_cuda_buf weight; } route;   /* of n experts; out and weight: their numbers, int32_t, and weights */
        struct { const int32_t *of; int used; } experts; /* K_ROW_BIAS, K_ROW_MIX: the expert of each slot, row of vec; NULL: vec is one row. Slots of a row */
        k_cuda_kv   kv;                                  /* K_ROW_STORE: keys in[0], values in[1] */
        k_cuda_state state;                              /* K_ROW_CONV, K_ROW_KEEP, whose inputs are those of all rows of the batch */
        struct { unsigned forms; k_acts a; } form;       /* mask of 1 << K_ACT_; the arrays to fill, of which those of the wanted forms are writable */
    } u;
} k_row_op;

enum { K_ROW_CLIP = 100 };
enum { K_CUDA_ROW_OPS = 32 };                            /* most operations of a launch */

/* The kernel k_cuda_rows: every task goes through the operations of its chain. Grid: at least as many blocks as there are tasks: of each
 * chain, n[set] * max(each, 1). */
typedef struct {
    const k_cuda_step *step;
    const k_row_op    *op;                               /* [n] chains, one after the other; n <= K_CUDA_ROW_OPS */
    int                n;
} k_cuda_rows_args;

/* --- recurrent layers on a GPU --- */

enum { K_CUDA_DELTA_COLS = 64, K_CUDA_DELTA_KEYS = 128 };   /* columns of a thread block; most values of a key */

/* The kernel k_cuda_delta: k_conv and k_delta for all sequences of a step. Sums go from the slot that is read to the one that is written and to
 * the snapshot; what else slots hold is K_ROW_KEEP's. Grid: at least n_seq * n_v times (d_v + K_CUDA_DELTA_COLS - 1) / K_CUDA_DELTA_COLS. */
typedef struct {
    const k_cuda_step *step;
    k_cuda_state       st;                               /* d_k <= K_CUDA_DELTA_KEYS */
    k_cuda_buf         in[3], out;                       /* inputs of queries, keys and values; gates alpha and beta; [n_v][d_v] */
    const float       *taps, *decay, *gate;              /* [width][taps]; of each value head, decay and what is added to alpha */
    bool               grouped;                          /* neighbouring value heads share a key head */
    float              eps;                              /* of the norms of queries and keys */
} k_cuda_delta_args;

/* --- choices on a GPU: experts, tokens --- */

enum { K_CUDA_EXPERTS = 1024 };                          /* most experts of a layer */

/* The kernel k_cuda_best: the number of the largest of n values in each row of a set, as k_max has it; -1: one of them is not finite. Grid: n[set]
 * times 1. */
typedef struct {
    const k_cuda_step *step;
    int                set, n;
    k_cuda_buf         x;
    int32_t           *out;
} k_cuda_best_args;

/* The kernel k_cuda_sort: counting sort of the chosen experts, so that the slots of one are side by side. Row r of the set has slots
 * slot_of[r][used]. Tiles are up to K_CUDA_COLS or K_CUDA_MANY_COLS slots of one expert: their number, then expert, first slot and slots of
 * each. Grid: 1 times 1. */
typedef struct {
    const k_cuda_step *step;
    int                set, n_expert, used;
    k_cuda_buf         pick, slot_of;                    /* int32_t: the row's experts, its slots */
    int32_t           *row, *expert;                     /* of each slot */
    int32_t           *tiles[2];                         /* of few columns, of many; NULL: none */
} k_cuda_sort_args;

/* The most tiles of `cols` columns that so many slots can have. */
K_PUBLIC int k_cuda_tiles(int slots, int n_expert, int cols);

/* --- attention on a GPU --- */

/* k_attn for rows of a set: segments and their merge are two kernels, k_cuda_attend and k_cuda_attend_merge. Row `first` of the set is the
 * first of up to n_rows rows; segment s of K/V head h of row first + i has its partial results at parts + ((i * heads + h) * n_seg +
 * s - (first segment that the row sees)) * k_attn_part(group, hd_v). Grid: n_rows * K/V heads times n_seg, where no row sees more
 * segments; n_rows * K/V heads times 1 for the merge. */
typedef struct {
    const k_cuda_step *step;
    int                set, first, n_rows, n_seg;
    bool               gathers;                          /* q holds all rows */
    k_cuda_buf         q, o;                             /* [rows][heads * hd_k], [rows][heads * hd_v] */
    k_cuda_kv          kv;
    int                group;                            /* query heads of a K/V head */
    int                window;                           /* positions that a row sees, 0: all */
    bool               all;                              /* a row sees the rows after it, too (llmrun: VIEW_ALL) */
    float              scale, cap;
    const float       *sinks, *slopes;                   /* [query heads], NULL: none */
    float             *parts;
} k_cuda_attend_args;

/* The name of the kernel of the segments. NULL: the cache has types without one. `many`: of that for many rows of a sequence, which takes
 * k_cuda_attend_rows(group) rows at a time, with a grid of (n_rows + rows - 1) / rows * K/V heads times n_seg + 1. */
K_PUBLIC const char *k_cuda_attend_of(uint32_t type_k, uint32_t type_v, bool many);
K_PUBLIC int k_cuda_attend_rows(int group);
/* That of the kernel by tensor cores for any number of rows, with the grid of many; NULL: the cache's types have none. Results have not the bits of
 * the CPU; those of a row do not depend on the other rows. */
K_PUBLIC const char *k_cuda_attend_tensor_of(uint32_t type_k, uint32_t type_v);

/* --- packing on a GPU --- */

/* k_pack_rows on a GPU, in as many bytes, of which those of a unit have another order ([cuda]). Grid: (nr + 15) / 16 times 1 or more blocks, which share the columns of a strip, 1,024 at a time. */
typedef struct {
    const uint8_t *src;
    size_t         row_bytes;
    int            nr, n;
    uint8_t       *dst;
    uint32_t       type;                                 /* these two: k_cuda_pack_of */
    size_t         block_bytes;                          /* of 256 columns in src */
} k_cuda_pack_args;

/* The name of the kernel for a type, and what it reads of the type; NULL: the type is not packed. */
K_PUBLIC const char *k_cuda_pack_of(uint32_t type, k_cuda_pack_args *a);

/* --- vectors of floats --- */

/* y = x / sqrt(mean of x^2 + eps) * w; w may be NULL. */
K_PUBLIC void k_rms_norm(const float *x, const float *w, float eps, int n, float *y);
/* y = (x - mean) / sqrt(variance + eps) * w + b; w and b may be NULL. */
K_PUBLIC void k_layer_norm(const float *x, const float *w, const float *b, float eps, int n, float *y);
/* x /= sqrt(sum of x^2 + eps). */
K_PUBLIC void k_l2_norm(float *x, float eps, int n);
/* Sum of a[i] * b[i], in the summation order of [float]. */
K_PUBLIC float k_dot(const float *a, const float *b, int n);
K_PUBLIC void k_add(float *y, const float *a, const float *b, int n);          /* y = a + b */
K_PUBLIC void k_mul(float *y, const float *a, const float *b, int n);          /* y = a * b */
K_PUBLIC void k_axpy(float *y, const float *x, float s, int n);                /* y += s*x */
K_PUBLIC void k_scale(float *y, float s, int n);                               /* y *= s */

typedef enum {
    K_SILU,                                              /* x sigmoid(x) */
    K_GELU,                                              /* the tanh form: x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3)) */
    K_GELU_ERF,                                          /* the exact form: x times the normal distribution function of x */
    K_SIGMOID, K_RELU,
    K_RELU2                                              /* max(x, 0)^2 */
} k_act_fn;

/* x = fn(x) * up; up NULL: x = fn(x). */
K_PUBLIC void k_activate(k_act_fn fn, float *x, const float *up, int n);
/* gate = g sigmoid(alpha g) * (u + 1) with g = min(gate, limit) and u = up cut to [-limit, limit]. */
K_PUBLIC void k_swiglu_clip(float *gate, const float *up, float limit, float alpha, int n);
K_PUBLIC void k_cap(float *x, float cap, int n);                               /* x = cap * tanh(x / cap) */
/* x = exp(x - max) / sum of them, in place. n >= 1. */
K_PUBLIC void k_softmax(float *x, int n);
/* One value; like everything here, the same bits on every machine. */
K_PUBLIC float k_sigmoid(float x);
K_PUBLIC float k_softplus(float x);                                            /* log(1 + exp(x)) */
K_PUBLIC float k_expf(float x);
/* The maximum, which ignores NaN; -infinity: all are NaN. *arg: its first index, 0 where all are NaN; arg may be NULL. */
K_PUBLIC float k_max(const float *x, int n, int *arg);
/* Rotary position embedding (Su et al. 2021, arXiv 2104.09864) of n_heads vectors [hd], in place: the first n_rot values of each as pairs, (i, i + n_rot/2)
 * with halves, else (2i, 2i + 1). cs: [n_rot/2][2] cos and sin of each pair. */
K_PUBLIC void k_rope(float *x, int n_heads, int hd, int n_rot, bool halves, const float *cs);

/* --- recurrent layers --- */

enum { K_CONV_TAPS = 16 };                               /* the most taps of k_conv */

/* Causal convolution, a filter for each of n channels: y[t*ldy + c] = bias[c] + sum over j of w[c*taps + j] * x[t + j][c], for rows
 * 0 <= t < n_rows, then SiLU where `silu`. x: n_rows + taps - 1 rows of inputs, NULL: a row of zeros. bias may be NULL. */
K_PUBLIC void k_conv(const float *const *x, const float *w, const float *bias, int taps, int n, int n_rows, bool silu, float *y, size_t ldy);

/* The gated delta rule of one value head, for n_pos >= 1 positions in order. At each of them, with vectors q[d_k], k[d_k], v[n], o[n]
 * and numbers decay and beta:
 *     x = beta * (v - decay * S^T k);  S = decay * S + k x^T;  o = S^T q
 * Columns of S are independent. Any split into calls of fewer positions or columns gives the same bits. */
typedef struct {
    float       *s;                                      /* the state [d_k][ld_s], changed in place */
    const float *q, *k, *v, *decay, *beta;               /* of the first position; rows of q that give no o are not read */
    float       *o;                                      /* of position `fold` */
    size_t       ld_s, ld_qk, ld_v, ld_gate, ld_o;       /* floats between rows of s; between positions of q and of k, of v, of decay
                                                            and of beta, of o */
    int          d_k, n, n_pos;
    int          fold;                                   /* so many positions, the first ones, only change the state */
    bool         peek;                                   /* the last position does not change it; s of one position is only read */
} k_delta_args;

/* A state of [d_k][K_DELTA_COLS], with as many columns in a call, is read as one stream, and stays in L1. */
enum { K_DELTA_COLS = 32 };
K_PUBLIC void k_delta(const k_delta_args *a);

/* --- cache and attention --- */

/* One query row, which sees positions begin <= p < end. The result goes to o[hd_v]: zeros where it sees none. */
typedef struct {
    const float *q;
    float       *o;
    int64_t      begin, end;
    int64_t      at;                            /* its own position, for slopes */
} k_attn_row;

/* Query rows that share one K/V head: the query heads of its group, of some tokens of a sequence. */
typedef struct {
    int               n_rows;
    const k_attn_row *rows;
    int               hd_k, hd_v;               /* even; quantised heads are padded to whole blocks: k_kv_bytes() */
    float             scale, softcap;           /* s = scale * q.k; softcap 0: off, else cap*tanh(s/cap) */
    const float      *sinks;                    /* [n_rows] attention sinks: an extra logit in the denominator, or NULL */
    const float      *slopes;                   /* [n_rows] ALiBi: s -= slope * |position - at|, after the cap; or NULL */
    uint32_t          type_k, type_v;           /* f32 f16 bf16 q8_0 q4_0                           */
    const uint8_t *const *k_blocks, *const *v_blocks; /* [position / block] address of a block; NULL: before the window */
    int               block;                    /* positions per block, any >= 1                    */
    size_t            k_stride, v_stride;       /* bytes between positions inside a block           */
} k_attn_args;

/* Bytes of n values in the cache: whole blocks. */
K_PUBLIC size_t k_kv_bytes(uint32_t type, int n);
/* Stores n values of a head in k_kv_bytes(type, n) bytes; the last block is padded with zeros. */
K_PUBLIC void k_kv_store(uint32_t type, const float *x, void *dst, int n);
/* The number format in which attention multiplies keys or values of this type; other: that of the values or keys beside them. */
K_PUBLIC k_act_kind k_kv_act(uint32_t type, uint32_t other);
/* Bytes of scratch of one thread for k_attn and k_attn_segment. */
K_PUBLIC size_t k_attn_scratch(int n_rows, int hd_k, int hd_v);
/* o = softmax(scale q.k) v of all rows, with the maximum and the sum carried from block to block (online softmax, Milakov and Gimelshein 2018, as in
 * FlashAttention, Dao et al. 2022). scratch: k_attn_scratch() bytes, of any alignment. */
K_PUBLIC void k_attn(const k_attn_args *a, void *scratch);

/* The same in two steps, so that several threads can share the positions of one call: segment s is positions
 * [s * K_SEGMENT, (s + 1) * K_SEGMENT), each is computed by one thread, in any order, and the merge goes in rising order. k_attn
 * does just this, so the results have the same bits. */
enum { K_SEGMENT = 512 };
/* Floats that hold the partial results of n_rows rows in one segment: a multiple of 16. */
K_PUBLIC size_t k_attn_part(int n_rows, int hd_v);
/* The partial results of segment s to `part`, aligned to 64. */
K_PUBLIC void k_attn_segment(const k_attn_args *a, int64_t s, float *part, void *scratch);
/* Row r's result from the partial results of n >= 1 segments, which lie one after the other. */
K_PUBLIC void k_attn_merge(const k_attn_args *a, int r, const float *parts, int n);

/* --- limits of the machine, for benchmarks --- */

enum { K_PROBE_BYTES = 8192 };                           /* one half for each operand */

typedef struct {
    uint64_t (*read)(const void *p, size_t n);           /* reads n bytes in order; p aligned to 64, n % 512 == 0 */
    uint64_t (*mul[K_ACTS])(const void *x, int n);       /* n rounds; x: K_PROBE_BYTES of small numbers, aligned to 64 */
    int      round[K_ACTS];                              /* products of one round */
} k_probe;

/* The loops of the current level. */
K_PUBLIC const k_probe *k_probe_get(void);

#ifndef GGML_KERNELS_DECLARE
#if defined(__x86_64__) && !defined(__CUDACC__)
#include <immintrin.h>
#endif

/* ===== [unpack] any format to int8 codes and scales =====
 * One decoder for each format: the only place that defines the layout and the values of a format. [ref] dequantises with
 * it, and the kernels multiply its output. A weight w with code q is exactly
 *     KIND_INT    w = d*sc*q - dm*mn     sc, mn per 16 weights, d, dm per 256
 *     KIND_SCALE  w = fs*q + fm          per `group` weights, 16 or 32
 * A decoder writes the minimum (mn and dm, or fm) only where its format has one.
 * Call k_types[id].unpack(src, n, urow); n is a multiple of the block. */

/* q[0..half) = low nibbles of p, q[half..2*half) = high ones, both plus off. */
K_BOTH inline void k__nibbles(const uint8_t *p, int half, int8_t *q, int off) {
    for (int j = 0; j < half; j++) {
        q[j] = (int8_t)((p[j] & 15) + off);
        q[half + j] = (int8_t)((p[j] >> 4) + off);
    }
}

/* The same; a nibble is an index into a table. */
K_BOTH inline void k__nibbles_of(const uint8_t *p, int half, int8_t *q, const int8_t table[16]) {
    for (int j = 0; j < half; j++) {
        q[j] = table[p[j] & 15];
        q[half + j] = table[p[j] >> 4];
    }
}

/* Four planes of 32 two-bit codes from 32 bytes, lowest bits first: q[32*k + j] = bits 2k, 2k+1 of p[j], plus off. */
K_BOTH inline void k__crumbs(const uint8_t *p, int8_t *q, int off) {
    for (int k = 0; k < 4; k++)
        for (int j = 0; j < 32; j++) q[32 * k + j] = (int8_t)((p[j] >> 2 * k & 3) + off);
}

/* Eight planes of 32: q[32*k + j] += worth where bit k of p[j] is set. */
K_BOTH inline void k__add_bits(const uint8_t p[32], int worth, int8_t *q) {
    for (int k = 0; k < 8; k++)
        for (int j = 0; j < 32; j++) q[32 * k + j] = (int8_t)(q[32 * k + j] + (p[j] >> k & 1) * worth);
}

/* Byte j = bit j, 0 or 1. */
K_BOTH inline uint64_t k__spread1(uint8_t bits) {
    uint64_t each = bits * 0x0101010101010101u & 0x8040201008040201u;
    return (each + 0x7f7f7f7f7f7f7f7fu) >> 7 & 0x0101010101010101u;
}

/* Byte j = bits 2j, 2j+1. */
K_BOTH inline uint64_t k__spread2(uint16_t bits) {
    uint64_t x = bits;
    x = (x | x << 24) & 0x000000ff000000ffu;
    x = (x | x << 12) & 0x000f000f000f000fu;
    return (x | x << 6) & 0x0303030303030303u;
}

/* q[j] = byte j of v, times `times`, plus off. */
K_BOTH inline void k__put8(uint64_t v, int times, int off, int8_t *q) {
    uint8_t t[8];
    memcpy(t, &v, 8);
    for (int j = 0; j < 8; j++) q[j] = (int8_t)(t[j] * times + off);
}

K_BOTH inline void k__fill16(int16_t *p, int n, int v) { for (int i = 0; i < n; i++) p[i] = (int16_t)v; }

/* --- plain blocks --- */

K_BOTH void k_unpack_q4_0(const void *src, int n, k_urow *u) {
    const block_q4_0 *b = (const block_q4_0 *)src;
    for (int i = 0; i < n / 32; i++) {
        u->fs[i] = k_f16_to_f32(b[i].d);
        k__nibbles(b[i].qs, 16, u->q + 32 * i, -8);
    }
}

K_BOTH void k_unpack_q4_1(const void *src, int n, k_urow *u) {
    const block_q4_1 *b = (const block_q4_1 *)src;
    for (int i = 0; i < n / 32; i++) {
        u->fs[i] = k_f16_to_f32(b[i].d);
        u->fm[i] = k_f16_to_f32(b[i].m);
        k__nibbles(b[i].qs, 16, u->q + 32 * i, 0);
    }
}

/* Codes 0..15 of 32 weights get the upper bits `worth` where bit j of qh, flipped by `flip`, is set. */
K_BOTH inline void k__fifth(const uint8_t qh[4], uint8_t flip, uint8_t worth, int8_t *q) {
    for (int j = 0; j < 4; j++) {
        uint64_t v;
        memcpy(&v, q + 8 * j, 8);
        v |= k__spread1(qh[j] ^ flip) * worth;
        memcpy(q + 8 * j, &v, 8);
    }
}

K_BOTH void k_unpack_q5_0(const void *src, int n, k_urow *u) {
    const block_q5_0 *b = (const block_q5_0 *)src;
    for (int i = 0; i < n / 32; i++) {
        u->fs[i] = k_f16_to_f32(b[i].d);
        k__nibbles(b[i].qs, 16, u->q + 32 * i, 0);
        k__fifth(b[i].qh, 255, 0xf0, u->q + 32 * i);      /* a clear bit: minus 16, the upper nibble of ones */
    }
}

K_BOTH void k_unpack_q5_1(const void *src, int n, k_urow *u) {
    const block_q5_1 *b = (const block_q5_1 *)src;
    for (int i = 0; i < n / 32; i++) {
        u->fs[i] = k_f16_to_f32(b[i].d);
        u->fm[i] = k_f16_to_f32(b[i].m);
        k__nibbles(b[i].qs, 16, u->q + 32 * i, 0);
        k__fifth(b[i].qh, 0, 0x10, u->q + 32 * i);
    }
}

K_BOTH void k_unpack_q8_0(const void *src, int n, k_urow *u) {
    const block_q8_0 *b = (const block_q8_0 *)src;
    for (int i = 0; i < n / 32; i++) {
        u->fs[i] = k_f16_to_f32(b[i].d);
        memcpy(u->q + 32 * i, b[i].qs, 32);
    }
}

/* A 4-bit code is an index into 16 values, which are spaced for a normal distribution. */
K_BOTH const int8_t k__iq4_values[16] = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
};

K_BOTH void k_unpack_iq4_nl(const void *src, int n, k_urow *u) {
    const block_iq4_nl *b = (const block_iq4_nl *)src;
    for (int i = 0; i < n / 32; i++) {
        u->fs[i] = k_f16_to_f32(b[i].d);
        k__nibbles_of(b[i].qs, 16, u->q + 32 * i, k__iq4_values);
    }
}

/* E2M1 (sign, 2 exponent bits, 1 mantissa bit). The values are doubled, so that they are integers, and the scales are halved. */
K_BOTH const int8_t k__fp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

K_BOTH void k_unpack_mxfp4(const void *src, int n, k_urow *u) {
    const block_mxfp4 *b = (const block_mxfp4 *)src;
    for (int i = 0; i < n / 32; i++) {
        u->fs[i] = k_e8m0_half(b[i].e);
        k__nibbles_of(b[i].qs, 16, u->q + 32 * i, k__fp4_values);
    }
}

/* 64 weights are four groups of 16, each with its own scale and 8 bytes of codes. */
K_BOTH void k_unpack_nvfp4(const void *src, int n, k_urow *u) {
    const block_nvfp4 *b = (const block_nvfp4 *)src;
    for (int i = 0; i < n / 16; i++) {
        u->fs[i] = k_ue4m3_half(b[i / 4].d[i % 4]);
        k__nibbles_of(b[i / 4].qs + 8 * (i % 4), 8, u->q + 16 * i, k__fp4_values);
    }
}

/* 128 signs: a set bit is +d. */
K_BOTH void k_unpack_q1_0(const void *src, int n, k_urow *u) {
    const block_q1_0 *b = (const block_q1_0 *)src;
    for (int i = 0; i < n / 32; i++) u->fs[i] = k_f16_to_f32(b[i / 4].d);
    for (int i = 0; i < n / 8; i++) k__put8(k__spread1(b[i / 16].qs[i % 16]), 2, -1, u->q + 8 * i);
}

/* 64 codes of 2 bits in order: -1, 0, 1, 2. */
K_BOTH void k_unpack_q2_0(const void *src, int n, k_urow *u) {
    const block_q2_0 *b = (const block_q2_0 *)src;
    for (int i = 0; i < n / 32; i++) u->fs[i] = k_f16_to_f32(b[i / 2].d);
    for (int i = 0; i < n / 8; i++) {
        const uint8_t *p = b[i / 8].qs + 2 * (i % 8);
        k__put8(k__spread2((uint16_t)(p[0] | p[1] << 8)), 1, -1, u->q + 8 * i);
    }
}

/* --- K super-blocks --- */

K_BOTH void k_unpack_q2_K(const void *src, int n, k_urow *u) {
    const block_q2_K *b = (const block_q2_K *)src;
    for (int i = 0; i < n / 256; i++) {
        u->d[i] = k_f16_to_f32(b[i].d);
        u->dm[i] = k_f16_to_f32(b[i].dmin);
        for (int g = 0; g < 16; g++) {
            u->sc[16 * i + g] = b[i].scales[g] & 15;
            u->mn[16 * i + g] = b[i].scales[g] >> 4;
        }
        for (int h = 0; h < 2; h++) k__crumbs(b[i].qs + 32 * h, u->q + 256 * i + 128 * h, 0);
    }
}

/* The third bit comes from hmask, bit g of byte j for weight 32*g + j, and counts 4 when clear: codes are
 * -4..3. Scale g of 16: low nibbles in bytes 0..7 (g < 8 low, else high half), upper 2 bits in bytes
 * 8..11; minus 32. */
K_BOTH void k_unpack_q3_K(const void *src, int n, k_urow *u) {
    const block_q3_K *b = (const block_q3_K *)src;
    for (int i = 0; i < n / 256; i++) {
        int8_t *q = u->q + 256 * i;
        u->d[i] = k_f16_to_f32(b[i].d);
        for (int g = 0; g < 16; g++) {
            int low = b[i].scales[g % 8] >> g / 8 * 4 & 15, high = b[i].scales[8 + g % 4] >> g / 4 * 2 & 3;
            u->sc[16 * i + g] = (int16_t)((high << 4 | low) - 32);
        }
        for (int h = 0; h < 2; h++) k__crumbs(b[i].qs + 32 * h, q + 128 * h, -4);
        k__add_bits(b[i].hmask, 4, q);
    }
}

/* Eight 6-bit scales and eight 6-bit minima in 12 bytes, each for 32 weights: the first four of each are
 * the low 6 bits of bytes 0..3 and 4..7, the rest are nibbles of bytes 8..11 with the spare upper 2 bits
 * of bytes 0..7. */
K_BOTH inline void k__scales_q4_K(const uint8_t s[12], int16_t *sc, int16_t *mn) {
    for (int g = 0; g < 4; g++) {
        k__fill16(sc + 2 * g, 2, s[g] & 63);
        k__fill16(mn + 2 * g, 2, s[g + 4] & 63);
        k__fill16(sc + 2 * g + 8, 2, (s[g + 8] & 15) | s[g] >> 6 << 4);
        k__fill16(mn + 2 * g + 8, 2, s[g + 8] >> 4 | s[g + 4] >> 6 << 4);
    }
}

K_BOTH void k_unpack_q4_K(const void *src, int n, k_urow *u) {
    const block_q4_K *b = (const block_q4_K *)src;
    for (int i = 0; i < n / 256; i++) {
        u->d[i] = k_f16_to_f32(b[i].d);
        u->dm[i] = k_f16_to_f32(b[i].dmin);
        k__scales_q4_K(b[i].scales, u->sc + 16 * i, u->mn + 16 * i);
        for (int h = 0; h < 4; h++) k__nibbles(b[i].qs + 32 * h, 32, u->q + 256 * i + 64 * h, 0);
    }
}

/* Q4_K with a fifth bit: bit g of qh[j] for weight 32*g + j. */
K_BOTH void k_unpack_q5_K(const void *src, int n, k_urow *u) {
    const block_q5_K *b = (const block_q5_K *)src;
    for (int i = 0; i < n / 256; i++) {
        int8_t *q = u->q + 256 * i;
        u->d[i] = k_f16_to_f32(b[i].d);
        u->dm[i] = k_f16_to_f32(b[i].dmin);
        k__scales_q4_K(b[i].scales, u->sc + 16 * i, u->mn + 16 * i);
        for (int h = 0; h < 4; h++) k__nibbles(b[i].qs + 32 * h, 32, q + 64 * h, 0);
        k__add_bits(b[i].qh, 16, q);
    }
}

/* Per 128 weights: 64 bytes of nibbles, 32 bytes of upper bit pairs; codes are -32..31. */
K_BOTH void k_unpack_q6_K(const void *src, int n, k_urow *u) {
    const block_q6_K *b = (const block_q6_K *)src;
    for (int i = 0; i < n / 256; i++) {
        u->d[i] = k_f16_to_f32(b[i].d);
        for (int g = 0; g < 16; g++) u->sc[16 * i + g] = b[i].scales[g];
        for (int h = 0; h < 2; h++) {
            int8_t *q = u->q + 256 * i + 128 * h, high[128];
            k__crumbs(b[i].qh + 32 * h, high, -2);
            k__nibbles(b[i].ql + 64 * h, 64, q, 0);
            for (int j = 0; j < 128; j++) q[j] = (int8_t)(q[j] + high[j] * 16);
        }
    }
}

/* --- ternary super-blocks --- */

K_BOTH void k_unpack_tq2_0(const void *src, int n, k_urow *u) {
    const block_tq2_0 *b = (const block_tq2_0 *)src;
    k__fill16(u->sc, n / 16, 1);
    for (int i = 0; i < n / 256; i++) {
        u->d[i] = k_f16_to_f32(b[i].d);
        for (int h = 0; h < 2; h++) k__crumbs(b[i].qs + 32 * h, u->q + 256 * i + 128 * h, -1);
    }
}

/* A byte is a fraction of 256 with up to five base-3 digits: multiplied by 3^k modulo 256 it loses the first k digits, multiplied
 * by 3 again it shows the next digit above its 8 bits. Digit k of `width` bytes in a row gives weights k*width and following.
 * Returns the end of the codes. */
K_BOTH inline int8_t *k__trits(const uint8_t *p, int width, int digits, int8_t *q) {
    static const uint8_t pow3[5] = {1, 3, 9, 27, 81};
    for (int k = 0; k < digits; k++)
        for (int j = 0; j < width; j++) *q++ = (int8_t)(((uint8_t)(p[j] * pow3[k]) * 3 >> 8) - 1);
    return q;
}

K_BOTH void k_unpack_tq1_0(const void *src, int n, k_urow *u) {
    const block_tq1_0 *b = (const block_tq1_0 *)src;
    k__fill16(u->sc, n / 16, 1);
    for (int i = 0; i < n / 256; i++) {
        u->d[i] = k_f16_to_f32(b[i].d);
        int8_t *q = k__trits(b[i].qs, 32, 5, u->q + 256 * i);
        q = k__trits(b[i].qs + 32, 16, 5, q);
        k__trits(b[i].qh, 4, 4, q);
    }
}

/* --- IQ super-blocks ---
 * The grids: one point per entry, first weight in the lowest bits, 2 bits a weight (iq1, iq2) or 4 (iq3).
 * Made by: python3 tests/gen/grids.py */

K_BOTH const uint16_t k__grid_iq1[2048] = {
    0x0000,0x0002,0x0005,0x0008,0x000a,0x0011,0x0015,0x0020,0x0022,0x0028,0x002a,0x0045,0x0051,0x0054,0x0056,
    0x0065,0x0080,0x0082,0x0088,0x008a,0x0095,0x00a0,0x00a2,0x00a8,0x00aa,0x0104,0x0105,0x0111,0x0114,0x0116,
    0x0119,0x011a,0x0125,0x0141,0x0146,0x0149,0x0152,0x0155,0x015a,0x0161,0x0164,0x0166,0x0168,0x0185,0x0191,
    0x0194,0x0196,0x01a5,0x0200,0x0202,0x0208,0x020a,0x0215,0x0220,0x0222,0x0228,0x022a,0x0245,0x0251,0x0259,
    0x0264,0x0269,0x0280,0x0282,0x0288,0x028a,0x0291,0x0295,0x0299,0x02a0,0x02a2,0x02a8,0x02aa,0x0411,0x0414,
    0x0416,0x0425,0x0441,0x0449,0x0455,0x045a,0x0464,0x0465,0x0491,0x0499,0x04a5,0x0501,0x0504,0x0505,0x0506,
    0x0515,0x0518,0x051a,0x0529,0x0540,0x0545,0x054a,0x0550,0x0551,0x0554,0x0555,0x0556,0x0559,0x0560,0x0562,
    0x0565,0x0568,0x056a,0x0581,0x0591,0x0595,0x0598,0x059a,0x05a1,0x05a4,0x05a5,0x05a6,0x05a9,0x0614,0x0619,
    0x0641,0x0644,0x0650,0x0652,0x0655,0x0658,0x0660,0x0661,0x0666,0x0669,0x0685,0x0691,0x0694,0x0699,0x0800,
    0x0802,0x0808,0x080a,0x0815,0x0820,0x0822,0x0828,0x082a,0x0845,0x0851,0x0856,0x0865,0x0880,0x0882,0x0888,
    0x088a,0x0895,0x08a0,0x08a2,0x08a8,0x08aa,0x0905,0x0911,0x0914,0x0919,0x0924,0x0925,0x0941,0x0950,0x0951,
    0x0955,0x0961,0x0964,0x0969,0x0991,0x0994,0x0996,0x0999,0x09a5,0x0a00,0x0a02,0x0a08,0x0a0a,0x0a15,0x0a20,
    0x0a22,0x0a28,0x0a2a,0x0a45,0x0a51,0x0a59,0x0a61,0x0a65,0x0a80,0x0a82,0x0a85,0x0a88,0x0a8a,0x0a95,0x0aa0,
    0x0aa2,0x0aa8,0x0aaa,0x1010,0x1011,0x1014,0x1019,0x1024,0x1025,0x1041,0x1044,0x1050,0x1055,0x1058,0x1061,
    0x1064,0x1065,0x1069,0x1091,0x1094,0x1096,0x10a1,0x10a5,0x1101,0x1104,0x1106,0x1109,0x1110,0x1112,0x1115,
    0x1118,0x1121,0x1124,0x1129,0x1145,0x114a,0x1150,0x1151,0x1152,0x1154,0x1155,0x1156,0x1159,0x1160,0x1165,
    0x1184,0x1192,0x1195,0x11a1,0x11a4,0x1211,0x1214,0x1216,0x1225,0x1240,0x1246,0x1249,0x1252,0x1255,0x1258,
    0x125a,0x1264,0x1266,0x1285,0x1291,0x1294,0x1296,0x12a5,0x1401,0x1406,0x1409,0x1414,0x1415,0x1418,0x1419,
    0x1421,0x1426,0x1441,0x1445,0x1446,0x1448,0x144a,0x1451,0x1454,0x1455,0x1456,0x1459,0x1462,0x1465,0x1468,
    0x1484,0x1489,0x1490,0x1494,0x1495,0x1498,0x1499,0x149a,0x14a1,0x14a4,0x14a5,0x14a9,0x1502,0x1505,0x150a,
    0x1511,0x1514,0x1515,0x1516,0x1519,0x1520,0x1522,0x1525,0x1528,0x152a,0x1541,0x1544,0x1545,0x1546,0x1551,
    0x1552,0x1554,0x1555,0x1556,0x1559,0x155a,0x1561,0x1564,0x1565,0x1566,0x1569,0x1580,0x1582,0x1584,0x1585,
    0x1588,0x158a,0x1590,0x1591,0x1594,0x1595,0x1596,0x1599,0x159a,0x15a0,0x15a2,0x15a5,0x1601,0x1604,0x1605,
    0x1606,0x1615,0x1616,0x1618,0x161a,0x1621,0x1626,0x1640,0x1642,0x1644,0x1645,0x1648,0x164a,0x1651,0x1655,
    0x1656,0x1658,0x1659,0x1661,0x1664,0x1665,0x1668,0x1669,0x166a,0x1686,0x168a,0x1692,0x1695,0x16a4,0x16a9,
    0x1811,0x1816,0x1825,0x1841,0x1844,0x1846,0x1849,0x1850,0x1855,0x1858,0x185a,0x1860,0x1861,0x1864,0x1866,
    0x1869,0x1885,0x1891,0x1894,0x18a5,0x1910,0x1912,0x1915,0x191a,0x1921,0x1925,0x1942,0x1944,0x1945,0x1948,
    0x1951,0x1954,0x1955,0x1956,0x1959,0x195a,0x1960,0x1965,0x196a,0x1989,0x1991,0x1992,0x1995,0x1998,0x19a1,
    0x19a6,0x19a9,0x1a09,0x1a16,0x1a24,0x1a26,0x1a44,0x1a46,0x1a49,0x1a50,0x1a52,0x1a55,0x1a58,0x1a61,0x1a66,
    0x1a69,0x1a85,0x1a91,0x1a96,0x1a9a,0x2000,0x2002,0x2008,0x200a,0x2015,0x2020,0x2022,0x2025,0x2028,0x202a,
    0x2045,0x2051,0x2059,0x2061,0x2065,0x2080,0x2082,0x2088,0x208a,0x2095,0x20a0,0x20a2,0x20a5,0x20a8,0x20aa,
    0x2105,0x2111,0x2114,0x2119,0x2125,0x2142,0x2144,0x2149,0x2155,0x2158,0x215a,0x2161,0x2164,0x2165,0x2166,
    0x2185,0x2190,0x2196,0x2199,0x21a5,0x2201,0x2208,0x220a,0x2211,0x2215,0x2220,0x2222,0x2228,0x222a,0x2245,
    0x2251,0x2256,0x2259,0x2265,0x2281,0x2288,0x228a,0x2291,0x2295,0x22a0,0x22a2,0x22a8,0x22aa,0x2405,0x2414,
    0x2416,0x2419,0x2425,0x2444,0x2445,0x2446,0x2449,0x2452,0x2455,0x2458,0x245a,0x2466,0x2485,0x2491,0x2494,
    0x2499,0x24a1,0x24a5,0x2509,0x2515,0x2521,0x2529,0x2540,0x2545,0x2548,0x2551,0x2554,0x2555,0x2559,0x2562,
    0x2565,0x2568,0x2589,0x2590,0x2594,0x2595,0x2598,0x259a,0x25a1,0x25a4,0x25a6,0x25a9,0x2605,0x2610,0x2612,
    0x2619,0x2625,0x2641,0x2649,0x2655,0x2660,0x2661,0x2669,0x2684,0x2686,0x2690,0x269a,0x2800,0x2802,0x2808,
    0x280a,0x2815,0x2820,0x2822,0x2828,0x282a,0x2845,0x2851,0x2854,0x2865,0x2880,0x2882,0x2888,0x288a,0x28a0,
    0x28a2,0x28a8,0x28aa,0x2909,0x2911,0x2914,0x2919,0x2925,0x2946,0x2949,0x2952,0x2955,0x2961,0x2964,0x2966,
    0x2969,0x2985,0x2990,0x2996,0x2999,0x29a4,0x29a5,0x2a00,0x2a02,0x2a08,0x2a0a,0x2a20,0x2a22,0x2a28,0x2a2a,
    0x2a45,0x2a51,0x2a56,0x2a59,0x2a65,0x2a80,0x2a82,0x2a88,0x2a8a,0x2a95,0x2aa0,0x2aa2,0x2aa8,0x2aaa,0x4005,
    0x4011,0x4016,0x4025,0x4049,0x4052,0x4055,0x4058,0x405a,0x4061,0x4064,0x4066,0x4094,0x4099,0x40a1,0x40a6,
    0x4100,0x4101,0x4104,0x4106,0x4109,0x4112,0x4115,0x4116,0x4118,0x411a,0x4121,0x4126,0x4129,0x4145,0x4148,
    0x414a,0x4151,0x4154,0x4155,0x4156,0x4159,0x415a,0x4165,0x4168,0x416a,0x4181,0x4184,0x4186,0x4190,0x4192,
    0x4195,0x41a0,0x41a1,0x41a2,0x4205,0x4211,0x4214,0x4216,0x4225,0x4241,0x4252,0x4255,0x425a,0x4264,0x4269,
    0x4289,0x4294,0x42a5,0x4401,0x4415,0x4419,0x4429,0x4445,0x4448,0x444a,0x4451,0x4454,0x4455,0x4456,0x4461,
    0x4462,0x4465,0x4468,0x446a,0x4481,0x4486,0x4489,0x4490,0x4492,0x4495,0x44a0,0x44a1,0x44a9,0x4501,0x4502,
    0x4505,0x450a,0x4511,0x4514,0x4515,0x4516,0x4519,0x4520,0x4525,0x452a,0x4541,0x4544,0x4545,0x4546,0x4549,
    0x4550,0x4551,0x4554,0x4555,0x4556,0x4558,0x4559,0x4561,0x4564,0x4565,0x4566,0x4569,0x4582,0x4584,0x4585,
    0x4588,0x4591,0x4594,0x4595,0x4596,0x4599,0x459a,0x45a5,0x45a8,0x45aa,0x4601,0x4605,0x4609,0x4614,0x4615,
    0x4618,0x461a,0x4621,0x4624,0x4629,0x4640,0x4642,0x4645,0x4648,0x4650,0x4651,0x4652,0x4655,0x4656,0x4659,
    0x4662,0x4665,0x4668,0x4681,0x4685,0x468a,0x4694,0x4695,0x46a1,0x46a4,0x46a6,0x4805,0x4811,0x4815,0x481a,
    0x4825,0x4842,0x4849,0x4850,0x4855,0x4858,0x4861,0x4864,0x4866,0x4869,0x4885,0x4891,0x4894,0x4896,0x4899,
    0x48a5,0x4901,0x4905,0x4906,0x490a,0x4910,0x4914,0x4915,0x4918,0x4921,0x4924,0x4926,0x4940,0x4945,0x494a,
    0x4951,0x4952,0x4954,0x4955,0x4956,0x4959,0x4960,0x4962,0x4965,0x4966,0x496a,0x4986,0x4989,0x4992,0x4995,
    0x4996,0x4998,0x49a1,0x49a4,0x49a6,0x49a9,0x4a16,0x4a44,0x4a46,0x4a49,0x4a55,0x4a58,0x4a5a,0x4a64,0x4a69,
    0x4a94,0x4aa5,0x5001,0x5004,0x5005,0x5006,0x5009,0x5012,0x5015,0x501a,0x5021,0x5024,0x5029,0x5040,0x5045,
    0x5048,0x5051,0x5054,0x5055,0x5056,0x5059,0x5065,0x5068,0x5086,0x5089,0x5095,0x5098,0x50a0,0x50a1,0x50a6,
    0x50a9,0x5105,0x5108,0x5109,0x510a,0x5111,0x5114,0x5115,0x5116,0x5118,0x5119,0x5120,0x5125,0x5126,0x5128,
    0x512a,0x5141,0x5144,0x5145,0x5146,0x5149,0x5150,0x5151,0x5152,0x5154,0x5155,0x5156,0x5158,0x5159,0x515a,
    0x5161,0x5164,0x5165,0x5166,0x5169,0x5182,0x5185,0x5191,0x5194,0x5195,0x5196,0x5199,0x51a0,0x51a5,0x51aa,
    0x5201,0x5206,0x5212,0x5215,0x521a,0x5221,0x5224,0x5242,0x5245,0x524a,0x5251,0x5254,0x5255,0x5256,0x5259,
    0x5262,0x5265,0x5285,0x5290,0x5292,0x5295,0x5299,0x529a,0x52a4,0x5404,0x5405,0x5411,0x5414,0x5415,0x5416,
    0x5418,0x5419,0x5421,0x5425,0x5428,0x542a,0x5441,0x5444,0x5445,0x5446,0x5449,0x544a,0x5450,0x5451,0x5454,
    0x5455,0x5456,0x5458,0x5459,0x545a,0x5461,0x5462,0x5464,0x5465,0x5466,0x5469,0x5480,0x5488,0x548a,0x5491,
    0x5494,0x5495,0x5496,0x5499,0x54a1,0x54a4,0x54a5,0x54aa,0x5501,0x5502,0x5504,0x5505,0x5506,0x5509,0x5510,
    0x5511,0x5512,0x5514,0x5515,0x5516,0x5519,0x551a,0x5521,0x5524,0x5525,0x5526,0x5529,0x5540,0x5541,0x5542,
    0x5544,0x5545,0x5546,0x5548,0x5549,0x5550,0x5551,0x5552,0x5554,0x5555,0x5556,0x5558,0x5559,0x555a,0x5560,
    0x5561,0x5564,0x5565,0x5566,0x5568,0x5569,0x556a,0x5581,0x5584,0x5585,0x5589,0x558a,0x5590,0x5591,0x5594,
    0x5595,0x5596,0x5598,0x5599,0x55a1,0x55a4,0x55a5,0x55a6,0x55a9,0x5600,0x5601,0x5602,0x5604,0x5606,0x5608,
    0x5609,0x5611,0x5614,0x5615,0x5618,0x5619,0x5620,0x5621,0x5622,0x5624,0x5625,0x5626,0x5628,0x5629,0x5641,
    0x5645,0x5646,0x5648,0x5649,0x564a,0x5650,0x5651,0x5652,0x5654,0x5655,0x5656,0x5658,0x5659,0x565a,0x5661,
    0x5664,0x5665,0x5669,0x5682,0x5685,0x5686,0x5688,0x5689,0x568a,0x5691,0x5695,0x569a,0x56a2,0x56a5,0x56a6,
    0x56a8,0x56a9,0x5804,0x5805,0x5806,0x5809,0x5810,0x5815,0x5818,0x5821,0x582a,0x5845,0x5848,0x584a,0x5851,
    0x5854,0x5855,0x5856,0x5858,0x5859,0x5860,0x5862,0x5864,0x5865,0x5882,0x5889,0x5890,0x5892,0x5895,0x5898,
    0x58a1,0x58a9,0x5901,0x5902,0x5905,0x590a,0x5911,0x5914,0x5915,0x5916,0x5919,0x5925,0x5941,0x5944,0x5945,
    0x5946,0x5949,0x5950,0x5951,0x5952,0x5954,0x5955,0x5956,0x5958,0x5959,0x595a,0x5961,0x5964,0x5965,0x5966,
    0x5969,0x5981,0x5985,0x5989,0x5991,0x5994,0x5995,0x5996,0x5998,0x5999,0x59a5,0x5a04,0x5a08,0x5a15,0x5a1a,
    0x5a20,0x5a25,0x5a26,0x5a29,0x5a45,0x5a48,0x5a49,0x5a51,0x5a55,0x5a56,0x5a58,0x5a59,0x5a62,0x5a65,0x5a68,
    0x5a6a,0x5a81,0x5a8a,0x5a92,0x5a95,0x5a96,0x5a98,0x5a9a,0x5aa1,0x6005,0x6014,0x6016,0x6019,0x6025,0x6044,
    0x6050,0x6055,0x6056,0x6058,0x605a,0x6061,0x6064,0x6066,0x6069,0x6081,0x6096,0x60a5,0x6101,0x6104,0x6106,
    0x6109,0x6112,0x6115,0x6121,0x6122,0x6126,0x6129,0x6145,0x6149,0x6151,0x6155,0x6156,0x6159,0x6165,0x6166,
    0x616a,0x6184,0x618a,0x6192,0x6195,0x61a1,0x61a6,0x61a9,0x6211,0x6216,0x6219,0x6240,0x6241,0x6246,0x6255,
    0x6256,0x6258,0x6260,0x6285,0x6291,0x6296,0x62a5,0x6411,0x6412,0x6415,0x6416,0x641a,0x6421,0x6426,0x6429,
    0x6440,0x6442,0x6445,0x6448,0x644a,0x6451,0x6454,0x6455,0x6456,0x6459,0x645a,0x6460,0x6462,0x6465,0x6484,
    0x6485,0x6489,0x6490,0x6492,0x6494,0x6495,0x6496,0x6498,0x649a,0x64a1,0x64a4,0x64a9,0x6505,0x6508,0x650a,
    0x6511,0x6515,0x6516,0x6519,0x6544,0x6545,0x6546,0x6549,0x6550,0x6551,0x6554,0x6555,0x6556,0x6559,0x6561,
    0x6564,0x6565,0x6566,0x6569,0x6586,0x6589,0x658a,0x6591,0x6595,0x6596,0x6599,0x659a,0x65a2,0x65a5,0x65a6,
    0x65a8,0x6602,0x6609,0x6615,0x6620,0x6626,0x6628,0x6629,0x6640,0x6645,0x6648,0x664a,0x6651,0x6654,0x6655,
    0x6656,0x6658,0x665a,0x6660,0x6665,0x6668,0x6680,0x6682,0x6685,0x668a,0x6694,0x6696,0x6698,0x6699,0x66a0,
    0x66a4,0x66a6,0x66aa,0x6816,0x6819,0x6825,0x6841,0x6852,0x6855,0x685a,0x6861,0x6869,0x6885,0x6891,0x6898,
    0x68a6,0x6901,0x6904,0x6910,0x6915,0x6921,0x6924,0x6926,0x6929,0x6940,0x6941,0x6945,0x6946,0x6948,0x6951,
    0x6954,0x6955,0x6956,0x6959,0x6960,0x6965,0x696a,0x6982,0x6984,0x698a,0x6995,0x69a1,0x69a4,0x69a5,0x69a9,
    0x6a11,0x6a16,0x6a18,0x6a41,0x6a44,0x6a49,0x6a50,0x6a55,0x6a58,0x6a5a,0x6a64,0x6a65,0x6a69,0x6a86,0x6a94,
    0x6a98,0x6a9a,0x6aa6,0x8000,0x8002,0x8008,0x800a,0x8020,0x8022,0x8028,0x802a,0x8045,0x8050,0x8051,0x8054,
    0x8056,0x8059,0x8065,0x8080,0x8082,0x8088,0x808a,0x8095,0x80a0,0x80a2,0x80a8,0x80aa,0x8105,0x8111,0x8114,
    0x8116,0x8119,0x8125,0x8141,0x8144,0x8149,0x8150,0x8152,0x8155,0x8156,0x8158,0x8159,0x8164,0x8166,0x8169,
    0x8185,0x8189,0x8194,0x8196,0x8199,0x81a5,0x8200,0x8202,0x8208,0x820a,0x8215,0x8220,0x8222,0x8228,0x822a,
    0x8251,0x8254,0x8259,0x8265,0x8280,0x8282,0x8288,0x828a,0x8295,0x82a0,0x82a2,0x82a8,0x82aa,0x8414,0x8419,
    0x8441,0x8444,0x8451,0x8455,0x845a,0x8461,0x8464,0x8469,0x8494,0x8499,0x8501,0x8509,0x8512,0x8515,0x851a,
    0x8526,0x8529,0x8540,0x8541,0x8545,0x8548,0x8551,0x8554,0x8555,0x8556,0x8559,0x855a,0x8565,0x8566,0x8568,
    0x856a,0x8581,0x8584,0x8586,0x8589,0x8590,0x8592,0x8595,0x8598,0x85a6,0x8611,0x8616,0x8619,0x8625,0x8641,
    0x8644,0x8649,0x864a,0x8650,0x8655,0x8659,0x865a,0x8661,0x8666,0x866a,0x8685,0x8691,0x869a,0x86a4,0x8800,
    0x8802,0x8808,0x880a,0x8815,0x8820,0x8822,0x8828,0x882a,0x8841,0x8845,0x8851,0x8854,0x8859,0x8865,0x8869,
    0x8880,0x8882,0x8888,0x888a,0x8895,0x88a0,0x88a2,0x88a8,0x88aa,0x8905,0x8906,0x8911,0x8914,0x8916,0x8925,
    0x8941,0x8944,0x8946,0x8949,0x8950,0x8952,0x8955,0x895a,0x8961,0x8964,0x8985,0x8996,0x8999,0x89a5,0x8a00,
    0x8a02,0x8a08,0x8a0a,0x8a15,0x8a20,0x8a22,0x8a28,0x8a2a,0x8a45,0x8a51,0x8a54,0x8a56,0x8a80,0x8a82,0x8a88,
    0x8a8a,0x8a95,0x8aa0,0x8aa2,0x8aa8,0x8aaa,0x9005,0x9011,0x9016,0x9018,0x9019,0x9025,0x9041,0x9046,0x9049,
    0x9055,0x9058,0x905a,0x9069,0x906a,0x9085,0x9091,0x9094,0x9096,0x9099,0x90a5,0x9101,0x9104,0x9106,0x9109,
    0x9110,0x9115,0x9118,0x911a,0x9121,0x9124,0x9126,0x9129,0x9140,0x9145,0x9150,0x9151,0x9154,0x9155,0x9156,
    0x9159,0x9162,0x9165,0x9184,0x9186,0x9192,0x9195,0x9198,0x91a1,0x91a4,0x91a6,0x91a9,0x9205,0x9211,0x9214,
    0x9219,0x9225,0x9244,0x9246,0x9249,0x9250,0x9252,0x9255,0x9258,0x9266,0x9269,0x9285,0x9294,0x9296,0x92a9,
    0x9401,0x9404,0x9406,0x9410,0x9415,0x9418,0x9426,0x9440,0x944a,0x9451,0x9454,0x9455,0x9456,0x9458,0x9459,
    0x9460,0x9461,0x9462,0x9465,0x9484,0x9486,0x9492,0x9494,0x9495,0x9498,0x94a1,0x94a9,0x9500,0x9505,0x9508,
    0x950a,0x9510,0x9511,0x9514,0x9515,0x9516,0x9519,0x9521,0x9525,0x9529,0x952a,0x9541,0x9544,0x9545,0x9546,
    0x9549,0x9550,0x9551,0x9552,0x9554,0x9555,0x9556,0x9558,0x9559,0x955a,0x9561,0x9564,0x9565,0x9566,0x9569,
    0x9581,0x9585,0x9588,0x9591,0x9592,0x9594,0x9595,0x9596,0x9599,0x959a,0x95a0,0x95a2,0x95a5,0x95a8,0x95aa,
    0x9601,0x9604,0x9610,0x9615,0x9619,0x9620,0x9626,0x9629,0x9645,0x9648,0x9649,0x9651,0x9652,0x9655,0x9656,
    0x9659,0x9665,0x9668,0x9682,0x9684,0x9689,0x968a,0x9692,0x9694,0x9695,0x96a4,0x96a6,0x96a9,0x9805,0x9816,
    0x9819,0x9825,0x9841,0x9846,0x9850,0x9852,0x9855,0x9856,0x985a,0x9864,0x9865,0x9885,0x9891,0x9896,0x9899,
    0x98a5,0x9904,0x9906,0x9909,0x9910,0x9912,0x9915,0x9918,0x991a,0x9920,0x9921,0x9924,0x9926,0x9940,0x9942,
    0x9945,0x9948,0x994a,0x9951,0x9954,0x9955,0x9956,0x9959,0x9962,0x9965,0x9966,0x996a,0x9981,0x9984,0x9990,
    0x9992,0x9995,0x999a,0x99a1,0x99a6,0x9a05,0x9a15,0x9a25,0x9a44,0x9a46,0x9a49,0x9a50,0x9a55,0x9a58,0x9a61,
    0x9a85,0x9a91,0x9a94,0x9a95,0x9a96,0xa000,0xa002,0xa008,0xa00a,0xa015,0xa020,0xa022,0xa028,0xa02a,0xa045,
    0xa051,0xa054,0xa056,0xa059,0xa080,0xa082,0xa088,0xa08a,0xa095,0xa0a0,0xa0a2,0xa0a8,0xa0aa,0xa105,0xa109,
    0xa111,0xa114,0xa116,0xa119,0xa11a,0xa146,0xa149,0xa151,0xa155,0xa158,0xa15a,0xa161,0xa164,0xa185,0xa190,
    0xa192,0xa196,0xa199,0xa202,0xa208,0xa20a,0xa210,0xa219,0xa222,0xa228,0xa22a,0xa245,0xa251,0xa256,0xa259,
    0xa265,0xa280,0xa282,0xa288,0xa28a,0xa295,0xa2a0,0xa2a2,0xa2a8,0xa2aa,0xa419,0xa425,0xa441,0xa444,0xa450,
    0xa454,0xa455,0xa458,0xa45a,0xa461,0xa465,0xa466,0xa468,0xa469,0xa485,0xa506,0xa509,0xa510,0xa512,0xa515,
    0xa518,0xa526,0xa529,0xa542,0xa545,0xa551,0xa554,0xa555,0xa556,0xa559,0xa565,0xa56a,0xa581,0xa584,0xa585,
    0xa586,0xa589,0xa592,0xa595,0xa598,0xa605,0xa611,0xa616,0xa61a,0xa621,0xa625,0xa644,0xa646,0xa64a,0xa652,
    0xa655,0xa656,0xa658,0xa660,0xa662,0xa686,0xa690,0xa695,0xa696,0xa699,0xa6a1,0xa6a4,0xa6a6,0xa800,0xa802,
    0xa808,0xa80a,0xa820,0xa822,0xa828,0xa82a,0xa851,0xa854,0xa856,0xa859,0xa880,0xa882,0xa888,0xa88a,0xa895,
    0xa8a0,0xa8a2,0xa8a8,0xa8aa,0xa905,0xa914,0xa919,0xa921,0xa925,0xa941,0xa950,0xa955,0xa95a,0xa961,0xa966,
    0xa969,0xa990,0xa996,0xaa00,0xaa02,0xaa08,0xaa0a,0xaa20,0xaa22,0xaa28,0xaa2a,0xaa51,0xaa54,0xaa56,0xaa80,
    0xaa82,0xaa88,0xaa8a,0xaa95,0xaaa0,0xaaa2,0xaaa8,0xaaaa,
};
K_BOTH const uint16_t k__grid_iq2_xxs[256] = {
    0x0000,0x0002,0x0005,0x0008,0x000a,0x0011,0x0014,0x0020,0x0022,0x0028,0x002a,0x0041,0x0044,0x0050,0x0058,
    0x0061,0x0064,0x0080,0x0082,0x008a,0x00a2,0x0101,0x0104,0x0110,0x0115,0x0140,0x0184,0x0198,0x0200,0x0202,
    0x0222,0x0282,0x0401,0x0404,0x0410,0x0421,0x0424,0x0440,0x0442,0x0448,0x0460,0x0481,0x0484,0x0490,0x04a4,
    0x0500,0x0502,0x0508,0x0520,0x0546,0x0569,0x0580,0x0591,0x0609,0x0610,0x0640,0x0684,0x06a4,0x0800,0x0805,
    0x0808,0x0814,0x0828,0x0841,0x0844,0x0850,0x0852,0x0888,0x0904,0x0940,0x0a02,0x0a14,0x1001,0x1004,0x1010,
    0x1021,0x1040,0x1060,0x1084,0x1090,0x1095,0x1100,0x1108,0x1120,0x1150,0x115a,0x1180,0x1224,0x1245,0x1400,
    0x1408,0x1420,0x1425,0x1449,0x1480,0x1518,0x1562,0x1600,0x1616,0x1801,0x1804,0x1810,0x1840,0x1881,0x1900,
    0x1905,0x19a0,0x1a51,0x2000,0x2002,0x200a,0x2044,0x2061,0x2080,0x2082,0x2129,0x2148,0x2200,0x2202,0x2401,
    0x2404,0x2410,0x2440,0x2456,0x2500,0x2541,0x2564,0x2690,0x2808,0x2820,0x2894,0x2a44,0x4001,0x4004,0x4010,
    0x4018,0x4021,0x4024,0x4040,0x4048,0x4056,0x4060,0x4081,0x4084,0x4090,0x4100,0x4120,0x4161,0x4180,0x4185,
    0x4201,0x4210,0x4248,0x4256,0x4268,0x4400,0x4408,0x4420,0x4480,0x4499,0x4512,0x4524,0x4600,0x4801,0x4804,
    0x4810,0x4840,0x4845,0x4900,0x4958,0x4961,0x4982,0x4a45,0x4a90,0x5000,0x5008,0x5011,0x5019,0x5020,0x5080,
    0x5088,0x5104,0x5142,0x51a4,0x5291,0x5490,0x5492,0x550a,0x5601,0x5654,0x5800,0x5811,0x5819,0x5864,0x5940,
    0x5a08,0x6004,0x6010,0x6040,0x6068,0x6100,0x6155,0x6218,0x6260,0x6400,0x6405,0x6510,0x6512,0x6584,0x6842,
    0x8000,0x8002,0x800a,0x8041,0x8082,0x8104,0x8118,0x8140,0x8211,0x8401,0x8404,0x8410,0x8415,0x8440,0x8460,
    0x8500,0x8546,0x8594,0x8609,0x8640,0x8660,0x8802,0x8904,0x8a11,0x9004,0x9010,0x9024,0x9040,0x90a1,0x9116,
    0x9180,0x9245,0x9400,0x9422,0x9444,0x9551,0x9881,0x9920,0xa002,0xa050,0xa085,0xa109,0xa200,0xa418,0xa850,
    0xa904,
};
K_BOTH const uint16_t k__grid_iq2_xs[512] = {
    0x0000,0x0002,0x0005,0x0008,0x000a,0x0011,0x0014,0x0016,0x0019,0x0020,0x0022,0x0025,0x0028,0x0041,0x0044,
    0x0046,0x0049,0x0050,0x0052,0x0055,0x0058,0x0061,0x0064,0x0080,0x0082,0x0085,0x0088,0x0091,0x0094,0x0099,
    0x00a0,0x0101,0x0104,0x0106,0x0109,0x0110,0x0112,0x0115,0x0118,0x011a,0x0121,0x0124,0x0140,0x0142,0x0145,
    0x0148,0x0151,0x0154,0x0160,0x0168,0x0181,0x0184,0x0190,0x0200,0x0202,0x0205,0x0208,0x0211,0x0214,0x0220,
    0x0241,0x0244,0x0250,0x0255,0x0280,0x028a,0x0401,0x0404,0x0406,0x0409,0x0410,0x0412,0x0415,0x0418,0x0421,
    0x0424,0x0440,0x0442,0x0445,0x0448,0x0451,0x0454,0x0456,0x0460,0x0481,0x0484,0x0490,0x0500,0x0502,0x0505,
    0x0508,0x0511,0x0514,0x0520,0x0541,0x0544,0x0550,0x0561,0x0580,0x0601,0x0604,0x0610,0x0626,0x0640,0x0642,
    0x0684,0x0800,0x0802,0x0805,0x0808,0x080a,0x0811,0x0814,0x0820,0x0825,0x0841,0x0844,0x0850,0x0858,0x0880,
    0x08a0,0x08aa,0x0901,0x0904,0x0910,0x0940,0x0981,0x0989,0x0a00,0x0a20,0x0a28,0x0a96,0x0aa0,0x1001,0x1004,
    0x1006,0x1009,0x1010,0x1012,0x1015,0x1018,0x1021,0x1024,0x1040,0x1042,0x1045,0x1048,0x1051,0x1054,0x1060,
    0x106a,0x1081,0x1084,0x1090,0x1100,0x1102,0x1105,0x1108,0x1111,0x1114,0x1120,0x1141,0x1144,0x1150,0x1180,
    0x1194,0x1196,0x1201,0x1204,0x1206,0x1210,0x1240,0x1260,0x1400,0x1402,0x1405,0x1408,0x1411,0x1414,0x1420,
    0x1441,0x1444,0x1449,0x1450,0x1464,0x1480,0x1501,0x1504,0x1510,0x1540,0x1600,0x1614,0x1649,0x1801,0x1804,
    0x1810,0x1812,0x1840,0x1854,0x1886,0x1900,0x1905,0x1966,0x1a51,0x1aa9,0x2000,0x2002,0x2005,0x2008,0x200a,
    0x2011,0x2014,0x2020,0x2041,0x2044,0x2050,0x2080,0x20a0,0x2101,0x2104,0x2110,0x2140,0x2148,0x2165,0x2200,
    0x2222,0x2280,0x22a8,0x2401,0x2404,0x2410,0x2429,0x2440,0x2500,0x2541,0x2552,0x2599,0x2601,0x261a,0x26a6,
    0x2800,0x2808,0x280a,0x2820,0x2855,0x2888,0x28a2,0x2968,0x2990,0x2a08,0x2a20,0x2a82,0x2a88,0x2a8a,0x4001,
    0x4004,0x4006,0x4009,0x4010,0x4012,0x4015,0x4018,0x4021,0x4024,0x4040,0x4042,0x4045,0x4048,0x404a,0x4051,
    0x4054,0x4060,0x4065,0x4081,0x4084,0x4090,0x4100,0x4102,0x4105,0x4108,0x4111,0x4114,0x4120,0x4141,0x4144,
    0x4150,0x4180,0x4185,0x41a2,0x4201,0x4204,0x4210,0x4212,0x4229,0x4240,0x4400,0x4402,0x4405,0x4408,0x4411,
    0x4414,0x4419,0x4420,0x4441,0x4444,0x4450,0x4480,0x4494,0x4501,0x4504,0x4510,0x4524,0x4540,0x459a,0x4600,
    0x460a,0x4644,0x4650,0x4801,0x4804,0x4810,0x4840,0x4845,0x4854,0x4862,0x4900,0x4911,0x4944,0x4950,0x4969,
    0x4a04,0x5000,0x5002,0x5005,0x5008,0x5011,0x5014,0x5020,0x5028,0x5041,0x5044,0x5050,0x5080,0x5101,0x5104,
    0x5110,0x5115,0x5140,0x5142,0x5200,0x5244,0x52aa,0x5401,0x5404,0x5410,0x5421,0x5440,0x5460,0x5481,0x54a1,
    0x5500,0x5508,0x5580,0x5588,0x5621,0x5668,0x56a1,0x5800,0x5814,0x5841,0x5850,0x5899,0x591a,0x5940,0x5942,
    0x5a85,0x6001,0x6004,0x6010,0x6040,0x6054,0x6062,0x6086,0x60a9,0x6100,0x6224,0x624a,0x6292,0x6400,0x6416,
    0x6510,0x6540,0x6545,0x65a4,0x6801,0x686a,0x6925,0x6a06,0x6a54,0x6a62,0x8000,0x8002,0x8005,0x8008,0x8011,
    0x8014,0x8020,0x802a,0x8041,0x8044,0x8050,0x8080,0x8082,0x80a8,0x80aa,0x8101,0x8104,0x8106,0x8110,0x8140,
    0x8151,0x8159,0x8200,0x8220,0x8280,0x8282,0x82a0,0x82a8,0x8401,0x8404,0x8410,0x8412,0x8415,0x8440,0x8460,
    0x8489,0x8500,0x8544,0x85a5,0x8618,0x866a,0x8800,0x8808,0x8825,0x885a,0x8880,0x8882,0x88a8,0x8906,0x8a22,
    0x8a80,0x8a88,0x8a96,0x8aa8,0x9001,0x9004,0x9010,0x9040,0x9056,0x9084,0x9100,0x9122,0x9164,0x9256,0x9289,
    0x9400,0x9405,0x9444,0x9450,0x9458,0x9529,0x9590,0x9592,0x9641,0x9851,0x98a6,0x9949,0x9a15,0x9a60,0xa000,
    0xa002,0xa008,0xa00a,0xa020,0xa02a,0xa0a0,0xa151,0xa159,0xa1a6,0xa200,0xa202,0xa208,0xa22a,0xa280,0xa2a0,
    0xa440,0xa495,0xa665,0xa698,0xa80a,0xa820,0xa822,0xa828,0xa8a0,0xa8a8,0xa904,0xa984,0xa986,0xaa28,0xaa2a,
    0xaa91,0xaaaa,
};
K_BOTH const uint16_t k__grid_iq2_s[1024] = {
    0x0000,0x0002,0x0005,0x0008,0x000a,0x0011,0x0014,0x0016,0x0019,0x0020,0x0022,0x0025,0x0028,0x0041,0x0044,
    0x0046,0x0049,0x0050,0x0052,0x0055,0x0058,0x0061,0x0064,0x0066,0x0069,0x0080,0x0082,0x0085,0x0088,0x0091,
    0x0094,0x00a0,0x00a5,0x00aa,0x0101,0x0104,0x0106,0x0109,0x0110,0x0112,0x0115,0x0118,0x0121,0x0124,0x0140,
    0x0142,0x0145,0x0148,0x0151,0x0154,0x0156,0x0159,0x0160,0x0165,0x0168,0x0181,0x0184,0x0190,0x0192,0x0195,
    0x01a1,0x01a4,0x0200,0x0202,0x0205,0x0208,0x0211,0x0214,0x0220,0x022a,0x0241,0x0244,0x0246,0x0249,0x0250,
    0x0255,0x0280,0x0285,0x028a,0x0294,0x02a2,0x0401,0x0404,0x0406,0x0409,0x0410,0x0412,0x0415,0x0418,0x0421,
    0x0424,0x0426,0x0429,0x0440,0x0442,0x0445,0x0448,0x044a,0x0451,0x0454,0x0456,0x0459,0x0460,0x0462,0x0465,
    0x0481,0x0484,0x0486,0x0489,0x0490,0x0495,0x0498,0x04a1,0x04a4,0x0500,0x0502,0x0505,0x0508,0x050a,0x0511,
    0x0514,0x0516,0x0519,0x0520,0x0525,0x0528,0x0541,0x0544,0x0546,0x0549,0x0550,0x0552,0x0555,0x0558,0x0561,
    0x0564,0x0580,0x0582,0x0585,0x0588,0x0591,0x0594,0x05a0,0x0601,0x0604,0x0606,0x0609,0x0610,0x0615,0x0640,
    0x0645,0x0648,0x0651,0x0654,0x0660,0x0681,0x0684,0x0690,0x0800,0x0802,0x0805,0x0808,0x0811,0x0814,0x0816,
    0x0819,0x0820,0x0825,0x082a,0x0841,0x0844,0x0846,0x0849,0x0850,0x0852,0x0855,0x0858,0x0861,0x0864,0x0880,
    0x0885,0x0894,0x08aa,0x0901,0x0904,0x0910,0x0912,0x0915,0x0918,0x0921,0x0940,0x0945,0x0948,0x0951,0x0954,
    0x0960,0x0981,0x0990,0x0a00,0x0a11,0x0a14,0x0a22,0x0a28,0x0a2a,0x0a50,0x0a99,0x1001,0x1004,0x1006,0x1009,
    0x1010,0x1012,0x1015,0x1018,0x1021,0x1024,0x1026,0x1040,0x1042,0x1045,0x1048,0x1051,0x1054,0x1056,0x1059,
    0x1060,0x1062,0x1065,0x1068,0x1081,0x1084,0x1086,0x1090,0x1095,0x1098,0x10a1,0x10a4,0x1100,0x1102,0x1105,
    0x1108,0x110a,0x1111,0x1114,0x1116,0x1119,0x1120,0x1122,0x1125,0x1128,0x1141,0x1144,0x1146,0x1149,0x1150,
    0x1152,0x1155,0x1158,0x1161,0x1164,0x1180,0x1182,0x1185,0x1188,0x1191,0x1194,0x1201,0x1204,0x1209,0x1210,
    0x1215,0x1221,0x1224,0x1240,0x1245,0x1251,0x1254,0x1281,0x1284,0x1290,0x1400,0x1402,0x1405,0x1408,0x1411,
    0x1414,0x1416,0x1419,0x1420,0x1425,0x1428,0x1441,0x1444,0x1446,0x1449,0x1450,0x1452,0x1455,0x1458,0x1461,
    0x1464,0x1480,0x1482,0x1485,0x1488,0x1491,0x1494,0x14a0,0x1501,0x1504,0x1506,0x1509,0x1510,0x1512,0x1515,
    0x1518,0x1521,0x1524,0x1540,0x1542,0x1545,0x1548,0x1551,0x1554,0x1560,0x1581,0x1584,0x1590,0x1600,0x1605,
    0x1608,0x1611,0x1614,0x1620,0x1641,0x1644,0x1650,0x1680,0x16aa,0x1801,0x1804,0x1806,0x1809,0x1810,0x1815,
    0x1818,0x1821,0x1840,0x1842,0x1845,0x1848,0x1851,0x1854,0x1860,0x1881,0x1884,0x1900,0x1902,0x1905,0x1908,
    0x1911,0x1914,0x1920,0x1941,0x1944,0x1950,0x1969,0x19a2,0x1a04,0x1a10,0x1a40,0x1a56,0x2000,0x2002,0x2005,
    0x2008,0x2011,0x2014,0x2016,0x2019,0x2020,0x2025,0x202a,0x2041,0x2044,0x2050,0x2052,0x2055,0x2064,0x2080,
    0x208a,0x2094,0x20aa,0x2101,0x2104,0x2110,0x2112,0x2115,0x2121,0x2140,0x2142,0x2145,0x2151,0x2154,0x2160,
    0x2181,0x2184,0x2190,0x2200,0x220a,0x2222,0x2228,0x222a,0x2244,0x2250,0x2288,0x228a,0x22a8,0x2401,0x2404,
    0x2406,0x2409,0x2410,0x2415,0x2418,0x2421,0x2424,0x2440,0x2442,0x2445,0x2448,0x2451,0x2454,0x2460,0x2481,
    0x2484,0x2490,0x2500,0x2505,0x2508,0x2511,0x2514,0x2520,0x2541,0x2544,0x2550,0x2566,0x2580,0x2601,0x2604,
    0x2610,0x2640,0x2659,0x2800,0x2805,0x2811,0x2814,0x2841,0x2844,0x2850,0x288a,0x28aa,0x2901,0x2904,0x2910,
    0x2995,0x2a0a,0x2a22,0x2a64,0x2a88,0x2a8a,0x4001,0x4004,0x4006,0x4009,0x4010,0x4012,0x4015,0x4018,0x401a,
    0x4021,0x4024,0x4026,0x4040,0x4042,0x4045,0x4048,0x404a,0x4051,0x4054,0x4056,0x4059,0x4060,0x4062,0x4065,
    0x4081,0x4084,0x4090,0x4095,0x4098,0x40a1,0x40a4,0x4100,0x4102,0x4105,0x4108,0x4111,0x4114,0x4116,0x4119,
    0x4120,0x4122,0x4125,0x4141,0x4144,0x4146,0x4149,0x4150,0x4152,0x4155,0x4158,0x4161,0x4164,0x4180,0x4182,
    0x4185,0x4188,0x4191,0x4194,0x41a0,0x4201,0x4204,0x4210,0x4212,0x4215,0x4218,0x4224,0x4240,0x4245,0x4248,
    0x4251,0x4254,0x4260,0x4281,0x4284,0x4400,0x4402,0x4405,0x4408,0x440a,0x4411,0x4414,0x4416,0x4419,0x4420,
    0x4422,0x4425,0x4428,0x4441,0x4444,0x4446,0x4449,0x4450,0x4452,0x4455,0x4458,0x4461,0x4464,0x4480,0x4482,
    0x4485,0x4488,0x4491,0x4494,0x44a0,0x4501,0x4504,0x4506,0x4509,0x4510,0x4512,0x4515,0x4518,0x4521,0x4524,
    0x4540,0x4542,0x4545,0x4548,0x4551,0x4554,0x4560,0x456a,0x4581,0x4584,0x4590,0x4600,0x4602,0x4605,0x4608,
    0x4611,0x4614,0x4620,0x4641,0x4644,0x4650,0x4680,0x46a5,0x4801,0x4804,0x4809,0x4810,0x4812,0x4815,0x4818,
    0x4821,0x4824,0x4840,0x4842,0x4845,0x4848,0x4851,0x4854,0x4860,0x4884,0x4890,0x4900,0x4902,0x4905,0x4908,
    0x4911,0x4914,0x4920,0x4941,0x4944,0x4950,0x4980,0x4996,0x4a01,0x4a04,0x4a10,0x4a40,0x5000,0x5002,0x5005,
    0x5008,0x5011,0x5014,0x5016,0x5019,0x5020,0x5022,0x5025,0x5028,0x5041,0x5044,0x5046,0x5049,0x5050,0x5052,
    0x5055,0x5058,0x5061,0x5064,0x5080,0x5082,0x5085,0x5088,0x5091,0x5094,0x5101,0x5104,0x5106,0x5109,0x5110,
    0x5112,0x5115,0x5118,0x5121,0x5124,0x5140,0x5142,0x5145,0x5148,0x5151,0x5154,0x5160,0x5181,0x5184,0x5190,
    0x5200,0x5205,0x5208,0x5211,0x5214,0x5220,0x5241,0x5244,0x5250,0x5269,0x5280,0x5401,0x5404,0x5406,0x5409,
    0x5410,0x5412,0x5415,0x5418,0x5421,0x5424,0x5440,0x5442,0x5445,0x5448,0x5451,0x5454,0x5460,0x5481,0x5484,
    0x5490,0x5500,0x5502,0x5505,0x5508,0x5511,0x5514,0x5520,0x5541,0x5544,0x5550,0x5580,0x5601,0x5604,0x5610,
    0x5626,0x5640,0x5800,0x5802,0x5805,0x5808,0x5811,0x5814,0x5820,0x5841,0x5844,0x5850,0x585a,0x5880,0x5901,
    0x5904,0x5910,0x5940,0x5a00,0x5a19,0x5a85,0x5aa8,0x6001,0x6004,0x6006,0x6010,0x6012,0x6015,0x6018,0x6021,
    0x6024,0x6040,0x6045,0x6048,0x6051,0x6054,0x6060,0x6084,0x6090,0x6100,0x6102,0x6105,0x6108,0x6111,0x6114,
    0x6120,0x6141,0x6144,0x6150,0x6180,0x6199,0x6204,0x6210,0x6240,0x6256,0x62a1,0x6400,0x6405,0x6408,0x6411,
    0x6414,0x6420,0x6441,0x6444,0x6450,0x6480,0x6501,0x6504,0x6510,0x6540,0x654a,0x6568,0x6592,0x6600,0x6694,
    0x6801,0x6804,0x6810,0x6865,0x6898,0x6900,0x692a,0x6a42,0x6aa1,0x8000,0x8002,0x8005,0x8008,0x8011,0x8014,
    0x8019,0x8020,0x8025,0x8041,0x8044,0x8050,0x8052,0x8055,0x8058,0x8061,0x8080,0x8085,0x8091,0x8094,0x8101,
    0x8104,0x8109,0x8110,0x8112,0x8115,0x8118,0x8121,0x8124,0x8140,0x8142,0x8145,0x8148,0x8151,0x8154,0x8181,
    0x8184,0x8190,0x81a9,0x8200,0x8205,0x820a,0x8211,0x8214,0x8241,0x8244,0x8250,0x8401,0x8404,0x8406,0x8409,
    0x8410,0x8412,0x8415,0x8418,0x8421,0x8440,0x8442,0x8445,0x8448,0x8451,0x8454,0x8460,0x8481,0x8484,0x8490,
    0x8500,0x8502,0x8505,0x8508,0x8511,0x8514,0x8520,0x8541,0x8544,0x8550,0x8580,0x858a,0x8601,0x8604,0x8610,
    0x8629,0x8640,0x8800,0x8805,0x8811,0x8814,0x8841,0x8844,0x8850,0x88a2,0x8901,0x8904,0x8940,0x8965,0x8a22,
    0x8a58,0x8a5a,0x8a82,0x8aa2,0x9001,0x9004,0x9009,0x9010,0x9012,0x9015,0x9018,0x9024,0x9040,0x9042,0x9045,
    0x9048,0x9051,0x9054,0x9060,0x9081,0x9084,0x9090,0x9100,0x9105,0x9111,0x9114,0x9141,0x9144,0x9150,0x915a,
    0x9201,0x9204,0x9210,0x9240,0x92a6,0x9400,0x9402,0x9405,0x9408,0x9411,0x9414,0x9420,0x9441,0x9444,0x9450,
    0x9480,0x9496,0x9501,0x9504,0x9510,0x9540,0x9598,0x95a1,0x9600,0x9646,0x9664,0x9801,0x9804,0x9810,0x9826,
    0x9840,0x98a9,0x9900,0x9949,0x9952,0x9a90,0xa000,0xa005,0xa00a,0xa014,0xa022,0xa02a,0xa041,0xa044,0xa050,
    0xa0a2,0xa0aa,0xa140,0xa165,0xa202,0xa20a,0xa222,0xa228,0xa22a,0xa282,0xa288,0xa28a,0xa2a8,0xa401,0xa404,
    0xa410,0xa440,0xa489,0xa4a4,0xa500,0xa519,0xa651,0xa80a,0xa828,0xa8a2,0xa954,0xa986,0xaa08,0xaa0a,0xaa20,
    0xaa22,0xaa28,0xaa88,0xaaaa,
};
K_BOTH const uint16_t k__grid_iq3_xxs[256] = {
    0x0000,0x0002,0x0004,0x0011,0x0013,0x0017,0x0020,0x0022,0x0031,0x0042,0x0073,0x0075,0x0101,0x0103,0x0110,
    0x0112,0x0121,0x0125,0x0130,0x0132,0x0141,0x0154,0x0170,0x0200,0x0202,0x0204,0x0211,0x0220,0x0222,0x0231,
    0x0233,0x0237,0x0251,0x0257,0x0275,0x0301,0x0307,0x0310,0x0312,0x0325,0x0370,0x0413,0x0437,0x0444,0x0457,
    0x0473,0x0475,0x0501,0x0507,0x0532,0x0552,0x0635,0x0664,0x0710,0x0714,0x0716,0x0743,0x0761,0x1001,0x1003,
    0x1010,0x1012,0x1021,0x1023,0x1030,0x1032,0x1034,0x1047,0x1050,0x1100,0x1102,0x1111,0x1120,0x1122,0x1201,
    0x1203,0x1210,0x1212,0x1221,0x1230,0x1272,0x1300,0x1302,0x1320,0x1331,0x1346,0x1366,0x1401,0x1405,0x1450,
    0x1520,0x1524,0x1546,0x1571,0x1605,0x1722,0x1740,0x2000,0x2002,0x2011,0x2013,0x2020,0x2022,0x2026,0x2031,
    0x2042,0x2101,0x2103,0x2105,0x2110,0x2112,0x2121,0x2130,0x2163,0x2167,0x2170,0x2200,0x2202,0x2211,0x2217,
    0x2220,0x2222,0x2237,0x2240,0x2255,0x2301,0x2310,0x2314,0x2370,0x2374,0x2435,0x2453,0x2503,0x2527,0x2541,
    0x2574,0x2701,0x2703,0x2716,0x2745,0x3001,0x3010,0x3012,0x3021,0x3023,0x3050,0x3065,0x3072,0x3100,0x3102,
    0x3120,0x3131,0x3144,0x3146,0x3201,0x3203,0x3210,0x3225,0x3252,0x3272,0x3311,0x3333,0x3430,0x3447,0x3472,
    0x3500,0x3506,0x3522,0x3555,0x3614,0x3636,0x3663,0x3733,0x3760,0x4004,0x4017,0x4035,0x4037,0x4053,0x4057,
    0x4174,0x4220,0x4237,0x4240,0x4260,0x4266,0x4307,0x4345,0x4404,0x4451,0x4464,0x4525,0x4543,0x4570,0x4705,
    0x4710,0x4712,0x4730,0x5012,0x5041,0x5070,0x5100,0x5106,0x5126,0x5155,0x5214,0x5232,0x5272,0x5302,0x5353,
    0x5410,0x5423,0x5427,0x5472,0x5502,0x5531,0x5650,0x5724,0x5742,0x6024,0x6044,0x6046,0x6064,0x6121,0x6161,
    0x6217,0x6264,0x6330,0x6336,0x6444,0x6505,0x6552,0x6633,0x6703,0x6721,0x7003,0x7005,0x7007,0x7010,0x7032,
    0x7052,0x7126,0x7140,0x7212,0x7245,0x7252,0x7300,0x7315,0x7333,0x7360,0x7421,0x7441,0x7500,0x7502,0x7524,
    0x7630,
};
K_BOTH const uint16_t k__grid_iq3_s[512] = {
    0x0000,0x0001,0x0002,0x0005,0x0007,0x0010,0x0011,0x0012,0x0014,0x0016,0x0020,0x0021,0x0025,0x0033,0x0040,
    0x0042,0x0045,0x0047,0x0051,0x0053,0x0060,0x0062,0x0071,0x0074,0x0077,0x0100,0x0101,0x0102,0x0104,0x0110,
    0x0111,0x0115,0x0120,0x0123,0x0127,0x0131,0x0135,0x0144,0x0161,0x0165,0x0172,0x0200,0x0201,0x0205,0x0207,
    0x0210,0x0213,0x0216,0x0221,0x0225,0x0230,0x0234,0x0242,0x0245,0x0247,0x0251,0x0253,0x0270,0x0273,0x0303,
    0x0311,0x0315,0x0320,0x0322,0x0331,0x0333,0x0336,0x0344,0x0350,0x0352,0x0367,0x0371,0x0375,0x0400,0x0413,
    0x0417,0x0421,0x0424,0x0432,0x0440,0x0443,0x0451,0x0470,0x0502,0x0504,0x0520,0x0522,0x0526,0x0533,0x0541,
    0x0545,0x0547,0x0566,0x0573,0x0606,0x0611,0x0613,0x0631,0x0652,0x0671,0x0700,0x0702,0x0704,0x0720,0x0722,
    0x0726,0x0733,0x0750,0x0754,0x1000,0x1001,0x1002,0x1004,0x1010,0x1011,0x1013,0x1015,0x1017,0x1020,0x1022,
    0x1031,0x1034,0x1036,0x1054,0x1056,0x1061,0x1072,0x1100,0x1101,0x1103,0x1106,0x1110,0x1114,0x1121,0x1130,
    0x1133,0x1141,0x1150,0x1152,0x1170,0x1176,0x1200,0x1212,0x1215,0x1217,0x1220,0x1224,0x1232,0x1240,0x1243,
    0x1255,0x1260,0x1272,0x1301,0x1304,0x1307,0x1310,0x1313,0x1321,0x1327,0x1330,0x1334,0x1341,0x1362,0x1370,
    0x1403,0x1405,0x1412,0x1414,0x1431,0x1433,0x1442,0x1446,0x1450,0x1454,0x1501,0x1510,0x1513,0x1521,0x1530,
    0x1532,0x1551,0x1620,0x1624,0x1627,0x1644,0x1646,0x1701,0x1703,0x1710,0x1712,0x1721,0x1735,0x1741,0x1762,
    0x1770,0x2000,0x2001,0x2003,0x2005,0x2007,0x2010,0x2012,0x2014,0x2016,0x2021,0x2023,0x2027,0x2030,0x2032,
    0x2041,0x2043,0x2045,0x2050,0x2052,0x2067,0x2070,0x2073,0x2075,0x2100,0x2102,0x2110,0x2113,0x2117,0x2122,
    0x2125,0x2131,0x2134,0x2142,0x2151,0x2201,0x2204,0x2207,0x2221,0x2223,0x2230,0x2237,0x2241,0x2253,0x2257,
    0x2271,0x2274,0x2300,0x2302,0x2305,0x2311,0x2322,0x2324,0x2331,0x2333,0x2342,0x2350,0x2366,0x2401,0x2407,
    0x2420,0x2423,0x2432,0x2435,0x2441,0x2472,0x2475,0x2504,0x2511,0x2522,0x2537,0x2540,0x2553,0x2570,0x2600,
    0x2602,0x2607,0x2621,0x2655,0x2661,0x2705,0x2711,0x2726,0x2730,0x2743,0x2750,0x3002,0x3011,0x3013,0x3015,
    0x3017,0x3022,0x3031,0x3033,0x3035,0x3042,0x3044,0x3047,0x3051,0x3063,0x3071,0x3101,0x3103,0x3105,0x3114,
    0x3121,0x3123,0x3140,0x3160,0x3172,0x3176,0x3200,0x3212,0x3220,0x3232,0x3234,0x3250,0x3301,0x3310,0x3314,
    0x3321,0x3323,0x3327,0x3330,0x3341,0x3343,0x3347,0x3355,0x3373,0x3403,0x3411,0x3416,0x3422,0x3431,0x3452,
    0x3460,0x3464,0x3501,0x3510,0x3512,0x3525,0x3532,0x3544,0x3556,0x3573,0x3616,0x3641,0x3701,0x3703,0x3720,
    0x3722,0x3735,0x4000,0x4004,0x4012,0x4020,0x4024,0x4027,0x4032,0x4041,0x4050,0x4070,0x4102,0x4107,0x4111,
    0x4113,0x4122,0x4130,0x4135,0x4143,0x4151,0x4155,0x4201,0x4203,0x4210,0x4215,0x4221,0x4233,0x4240,0x4257,
    0x4262,0x4270,0x4304,0x4311,0x4313,0x4320,0x4322,0x4331,0x4335,0x4400,0x4402,0x4424,0x4437,0x4440,0x4471,
    0x4505,0x4507,0x4521,0x4562,0x4613,0x4634,0x4660,0x4710,0x4715,0x4730,0x4743,0x4751,0x5002,0x5010,0x5014,
    0x5022,0x5040,0x5044,0x5047,0x5052,0x5066,0x5074,0x5101,0x5103,0x5105,0x5112,0x5121,0x5132,0x5172,0x5200,
    0x5211,0x5223,0x5230,0x5236,0x5253,0x5302,0x5307,0x5310,0x5327,0x5344,0x5351,0x5365,0x5373,0x5401,0x5404,
    0x5420,0x5432,0x5446,0x5512,0x5526,0x5551,0x5553,0x5642,0x5702,0x5704,0x5722,0x6011,0x6013,0x6015,0x6031,
    0x6033,0x6060,0x6100,0x6120,0x6127,0x6164,0x6212,0x6234,0x6242,0x6255,0x6262,0x6270,0x6300,0x6314,0x6321,
    0x6340,0x6425,0x6443,0x6462,0x6500,0x6503,0x6534,0x6560,0x6605,0x6640,0x6711,0x6713,0x7000,0x7004,0x7007,
    0x7020,0x7022,0x7036,0x7040,0x7054,0x7062,0x7102,0x7111,0x7124,0x7143,0x7145,0x7201,0x7204,0x7210,0x7216,
    0x7221,0x7230,0x7251,0x7302,0x7332,0x7335,0x7353,0x7401,0x7405,0x7413,0x7420,0x7450,0x7522,0x7542,0x7602,
    0x7631,0x7700,
};

/* Byte j = nibble j of a point of 4 weights. */
K_BOTH inline uint32_t k__spread4(uint16_t point) {
    uint32_t x = point;
    x = (x | x << 8) & 0x00ff00ffu;
    return (x | x << 4) & 0x0f0f0f0fu;
}

/* Negates byte j of v, 1..127, where bit j of signs is set; the eight codes go to q. No byte carries into the next: v is not 0, so
 * ~v + 1 stays below 256. */
K_BOTH inline void k__put_signed(uint64_t v, uint8_t signs, int8_t *q) {
    uint64_t ones = k__spread1(signs);
    v = (v ^ ones * 0xff) + ones;
    memcpy(q, &v, 8);
}

/* Seven sign bits are stored; the eighth makes the number of set bits even. */
K_BOTH inline uint8_t k__signs7(uint32_t s) {
    s &= 127;
    return (uint8_t)(s | (uint32_t)K_PARITY(s) << 7);
}

/* Levels 0, 1, 2 have the values 8, 25, 43. */
K_BOTH inline uint64_t k__iq2_values(uint16_t point) {
    uint64_t x = k__spread2(point);
    return x * 17 + (x >> 1 & 0x0101010101010101u) + 0x0808080808080808u;
}

/* w = d/8 * (2*s + 1) * value. Per 32 weights: four grid numbers of 8 bits, then four times 7 signs and a
 * 4-bit s. */
K_BOTH void k_unpack_iq2_xxs(const void *src, int n, k_urow *u) {
    const block_iq2_xxs *b = (const block_iq2_xxs *)src;
    for (int i = 0; i < n / 256; i++) {
        u->d[i] = k_f16_to_f32(b[i].d) * 0.125f;
        for (int g = 0; g < 8; g++) {
            uint32_t at = b[i].qs[2 * g], aux = b[i].qs[2 * g + 1];
            k__fill16(u->sc + 16 * i + 2 * g, 2, (int)(aux >> 28) * 2 + 1);
            for (int l = 0; l < 4; l++)
                k__put_signed(k__iq2_values(k__grid_iq2_xxs[at >> 8 * l & 255]), k__signs7(aux >> 7 * l),
                              u->q + 256 * i + 32 * g + 8 * l);
        }
    }
}

/* 16 scales 2*s + 1 from 8 bytes of nibbles s, the low one first. */
K_BOTH inline void k__odd_scales(const uint8_t s[8], int16_t *sc) {
    for (int g = 0; g < 16; g++) sc[g] = (int16_t)((s[g / 2] >> 4 * (g % 2) & 15) * 2 + 1);
}

/* w = d/8 * (2*s + 1) * value. Per 8 weights: a grid number of 9 bits and 7 signs; s is a nibble per 16. */
K_BOTH void k_unpack_iq2_xs(const void *src, int n, k_urow *u) {
    const block_iq2_xs *b = (const block_iq2_xs *)src;
    for (int i = 0; i < n / 256; i++) {
        u->d[i] = k_f16_to_f32(b[i].d) * 0.125f;
        k__odd_scales(b[i].scales, u->sc + 16 * i);
        for (int l = 0; l < 32; l++) {
            uint32_t code = b[i].qs[l];
            k__put_signed(k__iq2_values(k__grid_iq2_xs[code & 511]), k__signs7(code >> 9),
                          u->q + 256 * i + 8 * l);
        }
    }
}

/* w = d/8 * (2*s + 1) * value. Per 8 weights: a grid number of 8 + 2 bits and a byte of signs; s is a
 * nibble per 16. */
K_BOTH void k_unpack_iq2_s(const void *src, int n, k_urow *u) {
    const block_iq2_s *b = (const block_iq2_s *)src;
    for (int i = 0; i < n / 256; i++) {
        u->d[i] = k_f16_to_f32(b[i].d) * 0.125f;
        k__odd_scales(b[i].scales, u->sc + 16 * i);
        for (int l = 0; l < 32; l++) {
            int at = b[i].qs[l] | (b[i].qh[l / 4] >> 2 * (l % 4) & 3) << 8;
            k__put_signed(k__iq2_values(k__grid_iq2_s[at]), b[i].signs[l], u->q + 256 * i + 8 * l);
        }
    }
}

/* w = d/4 * (2*s + 1) * value; levels 0..6 have the value 4 + 8*level, level 7 has 62. Per 32 weights: eight
 * grid numbers of 8 bits, four times 7 signs and a 4-bit s. */
K_BOTH inline uint32_t k__iq3_xxs_values(uint16_t point) {
    uint32_t x = k__spread4(point);
    return x * 8 + ((x + 0x01010101u) >> 3 & 0x01010101u) * 2 + 0x04040404u;
}

K_BOTH void k_unpack_iq3_xxs(const void *src, int n, k_urow *u) {
    const block_iq3_xxs *b = (const block_iq3_xxs *)src;
    for (int i = 0; i < n / 256; i++) {
        u->d[i] = k_f16_to_f32(b[i].d) * 0.25f;
        for (int g = 0; g < 8; g++) k__fill16(u->sc + 16 * i + 2 * g, 2, (int)(b[i].aux[g] >> 28) * 2 + 1);
        for (int l = 0; l < 32; l++) {
            uint32_t lo = k__iq3_xxs_values(k__grid_iq3_xxs[b[i].qs[2 * l]]);
            uint32_t hi = k__iq3_xxs_values(k__grid_iq3_xxs[b[i].qs[2 * l + 1]]);
            k__put_signed((uint64_t)hi << 32 | lo, k__signs7(b[i].aux[l / 4] >> 7 * (l % 4)),
                          u->q + 256 * i + 8 * l);
        }
    }
}

/* w = d * (2*s + 1) * value, and value = 1 + 2*level. Per 4 weights: a grid number of 8 + 1 bits;
 * per 8: a byte of signs; per 32: s, a nibble. */
K_BOTH inline uint32_t k__iq3_s_values(const block_iq3_s *b, int k) {
    return k__spread4(k__grid_iq3_s[b->qs[k] | (b->qh[k / 8] >> k % 8 & 1) << 8]) * 2 + 0x01010101u;
}

K_BOTH void k_unpack_iq3_s(const void *src, int n, k_urow *u) {
    const block_iq3_s *b = (const block_iq3_s *)src;
    for (int i = 0; i < n / 256; i++) {
        u->d[i] = k_f16_to_f32(b[i].d);
        for (int g = 0; g < 8; g++)
            k__fill16(u->sc + 16 * i + 2 * g, 2, (b[i].scales[g / 2] >> 4 * (g % 2) & 15) * 2 + 1);
        for (int l = 0; l < 32; l++) {
            uint64_t v = (uint64_t)k__iq3_s_values(b + i, 2 * l + 1) << 32 | k__iq3_s_values(b + i, 2 * l);
            k__put_signed(v, b[i].signs[l], u->q + 256 * i + 8 * l);
        }
    }
}

/* w = d * (2*s + 1) * (point +- 1/8) with points of -1 0 1. In integers: d/8 * (2*s + 1) * (8*point +- 1). */
K_BOTH inline void k__put_iq1(int at, bool minus, int8_t *q) {
    k__put8(k__spread2(k__grid_iq1[at]), 8, minus ? -9 : -7, q);
}

/* Per 32 weights: four grid numbers of 8 + 3 bits, s of 3 bits, the sign of the 1/8. */
K_BOTH void k_unpack_iq1_s(const void *src, int n, k_urow *u) {
    const block_iq1_s *b = (const block_iq1_s *)src;
    for (int i = 0; i < n / 256; i++) {
        u->d[i] = k_f16_to_f32(b[i].d) * 0.125f;
        for (int g = 0; g < 8; g++) {
            int h = b[i].qh[g];
            k__fill16(u->sc + 16 * i + 2 * g, 2, (h >> 12 & 7) * 2 + 1);
            for (int l = 0; l < 4; l++)
                k__put_iq1(b[i].qs[4 * g + l] | (h >> 3 * l & 7) << 8, h & 0x8000,
                           u->q + 256 * i + 32 * g + 8 * l);
        }
    }
}

/* Per 8 weights: a grid number of 8 + 3 bits and the sign of the 1/8; per 16: s of 3 bits, four to a word
 * whose top nibble is a quarter of the f16 scale. */
K_BOTH void k_unpack_iq1_m(const void *src, int n, k_urow *u) {
    const block_iq1_m *b = (const block_iq1_m *)src;
    for (int i = 0; i < n / 256; i++) {
        int d = 0;
        for (int k = 0; k < 4; k++) d |= b[i].scales[k] >> 12 << 4 * k;
        u->d[i] = k_f16_to_f32((uint16_t)d) * 0.125f;
        for (int g = 0; g < 16; g++)
            u->sc[16 * i + g] = (int16_t)((b[i].scales[g / 4] >> 3 * (g % 4) & 7) * 2 + 1);
        for (int l = 0; l < 32; l++) {
            int h = b[i].qh[l / 2] >> 4 * (l % 2);
            k__put_iq1(b[i].qs[l] | (h & 7) << 8, h & 8, u->q + 256 * i + 8 * l);
        }
    }
}

/* IQ4_NL's values; per 32 weights a 6-bit scale, minus 32: a nibble of scales_l and 2 bits of scales_h. */
K_BOTH void k_unpack_iq4_xs(const void *src, int n, k_urow *u) {
    const block_iq4_xs *b = (const block_iq4_xs *)src;
    for (int i = 0; i < n / 256; i++) {
        u->d[i] = k_f16_to_f32(b[i].d);
        for (int g = 0; g < 8; g++) {
            int low = b[i].scales_l[g / 2] >> 4 * (g % 2) & 15, high = b[i].scales_h >> 2 * g & 3;
            k__fill16(u->sc + 16 * i + 2 * g, 2, (high << 4 | low) - 32);
            k__nibbles_of(b[i].qs + 16 * g, 16, u->q + 256 * i + 32 * g, k__iq4_values);
        }
    }
}

/* Codes and scales of one block of 256. */
typedef struct {
    int8_t  q[K_SUPER];
    int16_t sc[16], mn[16];
    float   d, dm, fs[16], fm[16];
} k__unpacked;

/* ===== [math] functions of one value =====
 * What a CPU's scalar level and a GPU compute by the same code. Every operation rounds once: fused where the source has fmaf(), and
 * nowhere else. */

/* --- exp and tanh ---
 * exp: x = n ln2 + r with |r| <= 0.347, exp(r) = 1 + r + r^2 P(r), P minimax of degree 4 (relative error 3e-9).
 * n is added to the exponent bits. Below K_EXP_LO the result would be a denormal and is 0, above K_EXP_HI it is inf.
 * tanh: x + x^3 T(x^2) below 0.625 (minimax, 5e-9), 1 - 2/(exp(2x)+1) above. */
#define K_EXP_LO (-87.336f)
#define K_EXP_HI 0x1.62e42ep+6f
#define K_LOG2E 0x1.715476p+0f
#define K_LN2_HI 0x1.62e4p-1f
#define K_LN2_LO 0x1.7f7d1cp-20f
#define K_ROUND 0x1.8p+23f                      /* x + K_ROUND has the nearest integer in its low bits */
#define K_TANH_SMALL 0.625f
K_BOTH const float k__exp_c[5] = {0x1.fffffcp-2f, 0x1.555490p-3f, 0x1.5558f4p-5f, 0x1.123a6cp-7f, 0x1.6a234ap-10f};
K_BOTH const float k__tanh_c[5] = {-0x1.555532p-2f, 0x1.110726p-3f, -0x1.b83c58p-5f, 0x1.522692p-6f, -0x1.75e1a6p-8f};

K_BOTH inline float k__exp_ref(float x) {
    float    t = fmaf(x, K_LOG2E, K_ROUND), n = t - K_ROUND;
    float    r = fmaf(n, -K_LN2_LO, fmaf(n, -K_LN2_HI, x));
    float    p = fmaf(fmaf(k__exp_c[4], r, k__exp_c[3]), r, k__exp_c[2]);
    uint32_t bits, shift;
    p = fmaf(fmaf(p, r, k__exp_c[1]), r, k__exp_c[0]);
    p = fmaf(p, r * r, r) + 1.0f;
    memcpy(&bits, &p, 4);
    memcpy(&shift, &t, 4);
    bits += shift << 23;
    memcpy(&p, &bits, 4);
    return x != x ? x : x > K_EXP_HI ? INFINITY : x < K_EXP_LO ? 0.0f : p;
}

K_BOTH inline float k__tanh_ref(float x) {
    float z = x * x;
    float p = fmaf(fmaf(fmaf(fmaf(k__tanh_c[4], z, k__tanh_c[3]), z, k__tanh_c[2]), z, k__tanh_c[1]), z, k__tanh_c[0]);
    float big = 1.0f - 2.0f / (k__exp_ref(fabsf(x) * 2.0f) + 1.0f);
    return fabsf(x) < K_TANH_SMALL ? fmaf(x * z, p, x) : copysignf(big, x);
}

/* --- normal distribution function, logarithm ---
 * Phi: 1/2 + x S(x^2) up to 1 (minimax of degree 5, error 3e-10), 1 - tail(x) above, tail(-x) below -1. tail(a) = exp(-a^2/2) T(t) with
 * t = 1/(1 + 0.3a), T minimax of degree 8 (relative error 1e-8) up to a = 13.3. The rounding error of a^2 is taken into account, so the
 * result is within 4e-7 of its value even where it is 1e-37, and erf(x/sqrt(2)) = 2 Phi(x) - 1 within 1e-7.
 * log(1 + e) = s (2 + s^2 L(s^2)) with s = e/(2 + e), for 0 <= e <= 1 (minimax of degree 4, relative error 4e-10). */
#define K_PHI_SMALL 1.0f
#define K_PHI_FAR 14.0f                         /* exp(-98) is 0 here */
K_BOTH const float k__phi_c[6] = {0x1.988454p-2f, -0x1.105832p-4f, 0x1.46ce5ep-7f, -0x1.36fecep-10f, 0x1.dc1b4ap-14f, -0x1.012f18p-17f};
K_BOTH const float k__tail_c[9] = {0x1.5aedf8p-17f, 0x1.e93054p-4f, 0x1.f512b2p-4f, 0x1.7d7facp-4f, 0x1.2a54f6p-3f,
                                   -0x1.46160p-4f,  0x1.d56f78p-3f, -0x1.579d1ep-3f, 0x1.33dbd4p-5f};
K_BOTH const float k__log_c[5] = {0x1.555556p-1f, 0x1.9998cep-2f, 0x1.24ca56p-2f, 0x1.bc6ab8p-3f, 0x1.dc3cc8p-3f};

/* c[n - 1] x^(n-1) + ... + c[0]. */
K_BOTH inline float k__poly_ref(const float *c, int n, float x) {
    float p = c[n - 1];
    for (int i = n - 2; i >= 0; i--) p = fmaf(p, x, c[i]);
    return p;
}

K_BOTH inline float k__phi_ref(float x) {
    const float a = fabsf(x) > K_PHI_FAR ? K_PHI_FAR : fabsf(x), z = a * a, lost = fmaf(a, a, -z), e = k__exp_ref(-0.5f * z);
    const float tail = fmaf(e, -0.5f * lost, e) * k__poly_ref(k__tail_c, 9, 1.0f / fmaf(0.3f, a, 1.0f));
    if (a < K_PHI_SMALL) return fmaf(x, k__poly_ref(k__phi_c, 6, z), 0.5f);
    return x > 0 ? 1.0f - tail : tail;
}

/* log(1 + exp(x)) */
K_BOTH inline float k__softplus(float x) {
    const float e = k__exp_ref(-fabsf(x)), s = e / (2.0f + e), z = s * s;
    const float log = e * (fmaf(z, k__poly_ref(k__log_c, 5, z), 2.0f) / (2.0f + e));    /* s may be a denormal where e is none */
    return x > 0 ? x + log : log;
}

/* 1/sum, or the sum itself where it is 0 (everything is masked) or NaN. */
K_BOTH inline float k__share_of(float sum) { return sum > 0 ? 1.0f / sum : sum; }

/* --- activations ---
 * (1 + tanh(z))/2 = sigmoid(2z), so the tanh form of GELU needs one exp. */
#define K_GELU_1 0x1.988454p+0f                 /* 2 sqrt(2/pi), and that times 0.044715 */
#define K_GELU_3 0x1.2444f2p-4f

K_BOTH inline float k__act_ref(k_act_fn fn, float x) {
    switch (fn) {
    case K_SILU: return x / (1.0f + k__exp_ref(-x));
    case K_GELU: return x / (1.0f + k__exp_ref(-x * fmaf(x * x, K_GELU_3, K_GELU_1)));
    case K_GELU_ERF: return x * k__phi_ref(x);
    case K_SIGMOID: return 1.0f / (1.0f + k__exp_ref(-x));
    case K_RELU: return x < 0 ? 0 : x;
    case K_RELU2: return x < 0 ? 0 : x * x;
    }
    return x;
}

/* k_swiglu_clip for one value. */
K_BOTH inline float k__clip_ref(float gate, float up, float limit, float alpha) {
    const float g = gate > limit ? limit : gate, u = up > limit ? limit : up < -limit ? -limit : up;
    return g / (1.0f + k__exp_ref(-alpha * g)) * (u + 1.0f);
}

/* The factor of a Walsh-Hadamard transform of `size` values. */
K_BOTH inline float k__hadamard_unit(int size) { return 1.0f / sqrtf((float)size); }

/* --- rounding to the blocks of the cache --- */

/* v where its magnitude is larger, so that the first among equals stays; never a NaN. */
K_BOTH inline float k__farther(float at, float v) { return fabsf(v) > fabsf(at) ? v : at; }

/* The nearest integer, halves away from zero, limited to the range of codes; a NaN gives 0. */
K_BOTH inline int8_t k__round8(float v) {
    v = roundf(v);
    return (int8_t)(v >= 127 ? 127 : v <= -127 ? -127 : v == v ? (int)v : 0);
}

/* trunc(v + half), limited to 0..top; a NaN gives trunc(half), the code of 0. */
K_BOTH inline int k__trunc_code(float v, float half, int top) {
    v = v == v ? v + half : half;
    return v >= (float)top ? top : v > 0 ? (int)v : 0;
}

/* Codes come from the scale in f32, before it is rounded to f16. 0 where d is 0. */
K_BOTH inline float k__inverse(float d) { return d != 0 ? 1 / d : 0; }

/* Scales by the extreme value: of codes +-127, and of codes around `mid`, where the extreme gets code 0, whether it is positive or negative. */
K_BOTH inline float   k__scale127(float extreme) { return fabsf(extreme) / 127; }
K_BOTH inline float   k__scale_mid(float extreme, int mid) { return extreme / (float)-mid; }
K_BOTH inline uint8_t k__code_mid(float v, int mid) { return (uint8_t)k__trunc_code(v, (float)mid + 0.5f, 2 * mid - 1); }

/* --- rounding of activations: blocks of up to 256 codes with one scale, +-127 for the largest magnitude amax --- */

K_BOTH inline float  k__act_inverse(float amax) { return amax > 0 ? 127.0f / amax : 0.0f; }
K_BOTH inline float  k__act_scale(float amax, bool nan) { return nan ? NAN : amax / 127.0f; }
K_BOTH inline int8_t k__act_code(float x, float inv) {
    const float v = rintf(x * inv);
    return (int8_t)(v > 127 ? 127 : v < -127 ? -127 : v == v ? (int)v : 0);
}

/* The group of 32 whose sum is of32[i], and the place of group i's: bits 0 and 1 are swapped. */
K_BOTH inline int k__sums_at(int i) { return (i & 4) | (i & 1) << 1 | (i & 2) >> 1; }

enum { K_SPLIT_PEAK = 32 };

/* Whether the largest value of a block of n, whose code is 127 or -127, is more than K_SPLIT_PEAK times the mean magnitude of the
 * others; all: the sum of the magnitudes of all codes. */
K_BOTH inline bool k__peaked(int all, int n, float d) { return d > 0 && d <= FLT_MAX && (all - 127) * K_SPLIT_PEAK < 127 * (n - 1); }

#ifndef __CUDACC__
/* ===== [ref] dequantise, quantise =====
 * Dequantising computes [unpack]'s formulas in float with a rounding for each operation, in ggml's order: (d*sc)*q - dm*mn.
 * Quantising rounds as ggml's reference does where that is defined. Otherwise an infinity makes the scale infinite, a NaN counts
 * as zero, and a scale too small to divide by saturates the codes.
 * In a thread that flushes denormals the two smallest scales of MXFP4 are zero; no other block format has denormals.
 * Public: k_types[id].dequant, k_types[id].quant. */

typedef void (*k_unpack_fn)(const void *src, int n, k_urow *u);

static void k__dequant_int(const void *src, float *dst, int64_t n, size_t bytes, bool has_min,
                          k_unpack_fn unpack) {
    int8_t  q[256];
    int16_t sc[16], mn[16];
    float   d, dm;
    k_urow  u = {q, sc, mn, &d, &dm, NULL, NULL};
    for (int64_t i = 0; i < n / 256; i++, dst += 256) {
        unpack((const uint8_t *)src + (size_t)i * bytes, 256, &u);
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

#define K_DEQUANT_INT(type, has_min)                                                     \
    static void k_dequant_##type(const void *src, float *dst, int64_t n) {               \
        k__dequant_int(src, dst, n, sizeof(block_##type), has_min, k_unpack_##type);     \
    }
#define K_DEQUANT_SCALE(type, block, group, has_min)                                                       \
    static void k_dequant_##type(const void *src, float *dst, int64_t n) {                                 \
        k__dequant_scale(src, dst, n, block, sizeof(block_##type), group, has_min, k_unpack_##type);       \
    }

K_DEQUANT_SCALE(q4_0, 32, 32, false)
K_DEQUANT_SCALE(q4_1, 32, 32, true)
K_DEQUANT_SCALE(q5_0, 32, 32, false)
K_DEQUANT_SCALE(q5_1, 32, 32, true)
K_DEQUANT_SCALE(q8_0, 32, 32, false)
K_DEQUANT_SCALE(iq4_nl, 32, 32, false)
K_DEQUANT_SCALE(mxfp4, 32, 32, false)
K_DEQUANT_SCALE(nvfp4, 64, 16, false)
K_DEQUANT_SCALE(q1_0, 128, 32, false)
K_DEQUANT_SCALE(q2_0, 64, 32, false)
K_DEQUANT_INT(q2_K, true)
K_DEQUANT_INT(q3_K, false)
K_DEQUANT_INT(q4_K, true)
K_DEQUANT_INT(q5_K, true)
K_DEQUANT_INT(q6_K, false)
K_DEQUANT_INT(tq1_0, false)
K_DEQUANT_INT(tq2_0, false)
K_DEQUANT_INT(iq2_xxs, false)
K_DEQUANT_INT(iq2_xs, false)
K_DEQUANT_INT(iq2_s, false)
K_DEQUANT_INT(iq3_xxs, false)
K_DEQUANT_INT(iq3_s, false)
K_DEQUANT_INT(iq1_s, false)
K_DEQUANT_INT(iq1_m, false)
K_DEQUANT_INT(iq4_xs, false)

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
K_DEQUANT_PLAIN(f16_round, uint16_t, k__f16_round)
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
static inline __attribute__((always_inline)) void k__quant_bf16(const float *src, void *dst, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint16_t h = k_f32_to_bf16(src[i]);
        memcpy((uint8_t *)dst + 2 * i, &h, 2);
    }
}

static void k_quant_bf16(const float *src, void *dst, int64_t n) { k__quant_bf16(src, dst, n); }

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

static void k_quant_q4_0(const float *src, void *dst, int64_t n) {
    block_q4_0 *b = (block_q4_0 *)dst;
    uint8_t     q[32];
    for (int64_t i = 0; i < n / 32; i++) {
        b[i].d = k_f32_to_f16(k__codes_mid(src + 32 * i, 8, q));
        k__pack(q, b[i].qs, NULL);
    }
}

static void k_quant_q5_0(const float *src, void *dst, int64_t n) {
    block_q5_0 *b = (block_q5_0 *)dst;
    uint8_t     q[32];
    for (int64_t i = 0; i < n / 32; i++) {
        b[i].d = k_f32_to_f16(k__codes_mid(src + 32 * i, 16, q));
        k__pack(q, b[i].qs, b[i].qh);
    }
}

static void k_quant_q4_1(const float *src, void *dst, int64_t n) {
    block_q4_1 *b = (block_q4_1 *)dst;
    uint8_t     q[32];
    float       min;
    for (int64_t i = 0; i < n / 32; i++) {
        b[i].d = k_f32_to_f16(k__codes_min(src + 32 * i, 15, q, &min));
        b[i].m = k_f32_to_f16(min);
        k__pack(q, b[i].qs, NULL);
    }
}

static void k_quant_q5_1(const float *src, void *dst, int64_t n) {
    block_q5_1 *b = (block_q5_1 *)dst;
    uint8_t     q[32];
    float       min;
    for (int64_t i = 0; i < n / 32; i++) {
        b[i].d = k_f32_to_f16(k__codes_min(src + 32 * i, 31, q, &min));
        b[i].m = k_f32_to_f16(min);
        k__pack(q, b[i].qs, b[i].qh);
    }
}

/* ===== [types] one row per format =====
 * The index is the id in the file; an unused id has no name. To add a format: its id and block in [fmt], a decoder in [unpack], a
 * line of K_DEQUANT_* in [ref], a row here, a row in k__plans_512 and in k__plans_avx2 (any_int or any_scale multiply what the
 * decoder returns; kernels of its own come when a benchmark asks for them), golden blocks from tests/gen/golden_blocks.py. */

/* Parts 1 and 2 ([api]) need the numbers of a row; its functions are those of part 3. */
#if K__PART(3)
#define K__ROW_OF(...) __VA_ARGS__
#else
#define K__ROW_OF(...) NULL, NULL, NULL
#endif
#define K_ROW_PLAIN(type, bytes, kind, quant) {#type, 1, bytes, kind, 0, 0, K__ROW_OF(k_dequant_##type, NULL, quant)}
#define K_ROW_DATA(type, block) \
    {#type, block, sizeof(block_##type), K_KIND_DATA, 0, 0, K__ROW_OF(k_dequant_##type, NULL, NULL)}
#define K_ROW_INT(type, min) \
    {#type, 256, sizeof(block_##type), K_KIND_INT, 0, min, K__ROW_OF(k_dequant_##type, k_unpack_##type, NULL)}
#define K_ROW_SCALE(type, block, group, min, quant) \
    {#type, block, sizeof(block_##type), K_KIND_SCALE, group, min, K__ROW_OF(k_dequant_##type, k_unpack_##type, quant)}
#define K_ROW_GONE(name) {name, 0, 0, K_KIND_NONE, 0, 0, NULL, NULL, NULL}

K_PUBLIC const k_type k_types[K_TYPE_MAX + 1] = {
    [K_F32]     = K_ROW_PLAIN(f32, 4, K_KIND_FLOAT, k_quant_f32),
    [K_F16]     = K_ROW_PLAIN(f16, 2, K_KIND_FLOAT, k_quant_f16),
    [K_BF16]    = K_ROW_PLAIN(bf16, 2, K_KIND_FLOAT, k_quant_bf16),
    [K_F64]     = K_ROW_PLAIN(f64, 8, K_KIND_DATA, NULL),
    [K_I8]      = K_ROW_PLAIN(i8, 1, K_KIND_DATA, NULL),
    [K_I16]     = K_ROW_PLAIN(i16, 2, K_KIND_DATA, NULL),
    [K_I32]     = K_ROW_PLAIN(i32, 4, K_KIND_DATA, NULL),
    [K_I64]     = K_ROW_PLAIN(i64, 8, K_KIND_DATA, NULL),
    [K_Q8_1]    = K_ROW_DATA(q8_1, 32),
    [K_Q8_K]    = K_ROW_DATA(q8_K, 256),
    /*                        type    block group  min    quant */
    [K_Q4_0]    = K_ROW_SCALE(q4_0,   32,   32,    false, k_quant_q4_0),
    [K_Q4_1]    = K_ROW_SCALE(q4_1,   32,   32,    true,  k_quant_q4_1),
    [K_Q5_0]    = K_ROW_SCALE(q5_0,   32,   32,    false, k_quant_q5_0),
    [K_Q5_1]    = K_ROW_SCALE(q5_1,   32,   32,    true,  k_quant_q5_1),
    [K_Q8_0]    = K_ROW_SCALE(q8_0,   32,   32,    false, k_quant_q8_0),
    [K_IQ4_NL]  = K_ROW_SCALE(iq4_nl, 32,   32,    false, NULL),
    [K_MXFP4]   = K_ROW_SCALE(mxfp4,  32,   32,    false, NULL),
    [K_NVFP4]   = K_ROW_SCALE(nvfp4,  64,   16,    false, NULL),
    [K_Q1_0]    = K_ROW_SCALE(q1_0,   128,  32,    false, NULL),
    [K_Q2_0]    = K_ROW_SCALE(q2_0,   64,   32,    false, NULL),
    [K_Q2_K]    = K_ROW_INT(q2_K, true),
    [K_Q3_K]    = K_ROW_INT(q3_K, false),
    [K_Q4_K]    = K_ROW_INT(q4_K, true),
    [K_Q5_K]    = K_ROW_INT(q5_K, true),
    [K_Q6_K]    = K_ROW_INT(q6_K, false),
    [K_TQ1_0]   = K_ROW_INT(tq1_0, false),
    [K_TQ2_0]   = K_ROW_INT(tq2_0, false),
    [K_IQ2_XXS] = K_ROW_INT(iq2_xxs, false),
    [K_IQ2_XS]  = K_ROW_INT(iq2_xs, false),
    [K_IQ2_S]   = K_ROW_INT(iq2_s, false),
    [K_IQ3_XXS] = K_ROW_INT(iq3_xxs, false),
    [K_IQ3_S]   = K_ROW_INT(iq3_s, false),
    [K_IQ1_S]   = K_ROW_INT(iq1_s, false),
    [K_IQ1_M]   = K_ROW_INT(iq1_m, false),
    [K_IQ4_XS]  = K_ROW_INT(iq4_xs, false),
    [K_F16_ROUND] = {"f16 as bf16", 1, 2, K_KIND_FLOAT, 0, 0, K__ROW_OF(k_dequant_f16_round, NULL, NULL)},
    [4]  = K_ROW_GONE("q4_2"),
    [5]  = K_ROW_GONE("q4_3"),
    [31] = K_ROW_GONE("q4_0_4_4"),
    [32] = K_ROW_GONE("q4_0_4_8"),
    [33] = K_ROW_GONE("q4_0_8_8"),
    [36] = K_ROW_GONE("iq4_nl_4_4"),
    [37] = K_ROW_GONE("iq4_nl_4_8"),
    [38] = K_ROW_GONE("iq4_nl_8_8"),
};

/* Ids of formats that only ik_llama.cpp has; it also writes 36 for BitNet's i2_s. */
static const struct {
    uint16_t    id;
    const char *name;
} k__foreign[] = {
    {36, "i2_s"}, {97, "q8_0_x4"}, {98, "q8_1_x4"}, {99, "q8_2_x4"}, {133, "q6_0"},
    {134, "iq1_bn"}, {135, "iq2_bn"}, {136, "q8_K64"}, {137, "iq2_k"}, {138, "iq3_k"},
    {139, "iq4_k"}, {140, "iq5_k"}, {141, "iq6_k"}, {142, "iq2_tn"}, {143, "iq1_tn"},
    {144, "iq4_ks"}, {145, "iq2_ks"}, {146, "iq4_kss"}, {147, "q8_K16"}, {148, "q8_K32"},
    {149, "q8_KR8"}, {150, "q8_K128"}, {151, "q8_KV"}, {152, "iq5_ks"}, {153, "iq2_kt"},
    {154, "iq3_kt"}, {155, "iq4_kt"}, {156, "iq3_ks"}, {157, "iq2_kl"}, {158, "iq1_kt"},
    {202, "q4_0_r8"}, {206, "q5_0_r4"}, {208, "q8_0_r8"}, {210, "q2_k_r4"}, {211, "q3_k_r4"},
    {212, "q4_k_r4"}, {213, "q5_k_r4"}, {214, "q6_k_r4"}, {216, "iq2_xxs_r4"}, {217, "iq2_xs_r4"},
    {218, "iq3_xxs_r4"}, {219, "iq1_s_r4"}, {220, "iq4_nl_r4"}, {221, "iq3_s_r4"}, {222, "iq2_s_r4"},
    {223, "iq4_xs_r8"}, {229, "iq1_m_r4"}, {230, "bf16_r16"}, {233, "q6_0_r4"}, {335, "iq2_bn_r4"},
    {337, "iq2_k_r4"}, {338, "iq3_k_r4"}, {339, "iq4_k_r4"}, {340, "iq5_k_r4"}, {344, "iq4_ks_r4"},
    {352, "iq5_ks_r4"}, {353, "mxfp4_r8"}, {397, "q8_k_r16"}, {398, "q8_KV_r8"}, {399, "q8_k_r8"},
};

K_PUBLIC const char *k_type_foreign(uint32_t id) {
    for (size_t i = 0; i < sizeof k__foreign / sizeof *k__foreign; i++)
        if (k__foreign[i].id == id) return k__foreign[i].name;
    return NULL;
}

K_PUBLIC bool k_type_weight(uint32_t id) { return k_type_ok(id) && k_types[id].kind != K_KIND_DATA; }

K_PUBLIC int k_type_by_name(const char *name) {
    for (int id = 0; id < K_TYPE_MAX; id++)
        if (k_type_ok((uint32_t)id) && strcasecmp(k_types[id].name, name) == 0) return id;
    return -1;
}

K_PUBLIC size_t k_row_bytes(uint32_t id, int64_t n) {
    size_t bytes;
    if (!k_type_ok(id) || n < 0 || n % k_types[id].block) return 0;
    return __builtin_mul_overflow(n / k_types[id].block, k_types[id].bytes, &bytes) ? 0 : bytes;
}

/* ===== [vec] float products, norms, softmax, rope, activations, recurrent layers =====
 * The f32 operations of the forward pass at three levels: _ref in plain C, _avx2, _avx512; products of bf16 have a fourth (k__dots_).
 * The level table in [level] selects one set. All levels give the same bits for any batch, tile, block size or alignment:
 * - multiplication and addition are fused where the source has fmaf() or an fmadd intrinsic, and nowhere else;
 * - the summation order is fixed. A dot product has 16 lanes: lane l adds elements l, l + 16, ... in order, and a short tail is padded
 *   with zeros. Softmax has 32 lanes. Then the upper half of the lanes is added to the lower half: 32, 16, 8, 4, 2, 1;
 * - bf16 weights are multiplied with activations rounded to bf16. Of each run of 32 elements lane l adds the product of element
 *   2l + 1, then that of element 2l, as the instruction vdpbf16ps does;
 * - exp, tanh and the normal distribution function are the same polynomials.
 * The sign and payload of a NaN may differ. Other sections call these functions through the level table; k_hadamard_size is called
 * directly. */

/* --- element by element: plain loops, which each level compiles again for its target --- */

K__BODY void k__add(float *y, const float *a, const float *b, int n) { for (int i = 0; i < n; i++) y[i] = a[i] + b[i]; }
K__BODY void k__mul(float *y, const float *a, const float *b, int n) { for (int i = 0; i < n; i++) y[i] = a[i] * b[i]; }
K__BODY void k__axpy(float *y, const float *x, float s, int n) { for (int i = 0; i < n; i++) y[i] = fmaf(s, x[i], y[i]); }
K__BODY void k__scale(float *y, float s, int n) { for (int i = 0; i < n; i++) y[i] *= s; }

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

/* cs: cos, sin of each pair. Pairs are (i, i + n_rot/2) with halves, else (2i, 2i + 1). Elements from n_rot on do not change. */
K__BODY void k__rope(float *x, int n_heads, int hd, int n_rot, bool halves, const float *cs) {
    int half = n_rot / 2, far = halves ? half : 1, step = halves ? 1 : 2;
    for (int h = 0; h < n_heads; h++, x += hd)
        for (int i = 0; i < half; i++) {
            float *p = x + i * step, a = p[0], b = p[far], c = cs[2 * i], s = cs[2 * i + 1];
            p[0] = a * c - b * s;
            p[far] = a * s + b * c;
        }
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

static void k_rms_norm_ref(const float *x, const float *w, float eps, int n, float *y) {
    k__norm(x, w, 1.0f / sqrtf(k_dot_ref(x, x, n) / (float)n + eps), n, y);
}

static void k_layer_norm_ref(const float *x, const float *w, const float *b, float eps, int n, float *y) {
    float s[16] = {0}, d[16] = {0};
    for (int i = 0; i < n; i++) s[i & 15] += x[i];
    const float mean = k__lanes_ref(s, 16) / (float)n;
    for (int i = 0; i < n; i++) d[i & 15] = fmaf(x[i] - mean, x[i] - mean, d[i & 15]);
    k__shift(x, w, b, mean, 1.0f / sqrtf(k__lanes_ref(d, 16) / (float)n + eps), n, y);
}

/* The form of transformers, whose logits are the reference; llama.cpp divides by max(sqrt(sum), eps). They differ by less than a
 * rounding error unless the row is almost 0. */
static void k_l2_norm_ref(float *x, float eps, int n) { k__scale(x, 1.0f / sqrtf(k_dot_ref(x, x, n) + eps), n); }

static void k_mul_ref(float *y, const float *a, const float *b, int n) { k__mul(y, a, b, n); }
static void k_add_ref(float *y, const float *a, const float *b, int n) { k__add(y, a, b, n); }
static void k_axpy_ref(float *y, const float *x, float s, int n) { k__axpy(y, x, s, n); }
static void k_scale_ref(float *y, float s, int n) { k__scale(y, s, n); }
static void k_rope_ref(float *x, int n_heads, int hd, int n_rot, bool halves, const float *cs) {
    k__rope(x, n_heads, hd, n_rot, halves, cs);
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

static void k_conv_ref(const float *const *x, const float *w, const float *bias, int taps, int n, int n_rows, bool silu, float *y, size_t ldy) {
    for (int t = 0; t < n_rows; t++, x++, y += ldy)
        for (int c = 0; c < n; c++) {
            float sum = bias ? bias[c] : 0;
            for (int j = 0; j < taps; j++) sum = fmaf(w[(size_t)c * (size_t)taps + (size_t)j], x[j] ? x[j][c] : 0, sum);
            y[c] = silu ? k__act_ref(K_SILU, sum) : sum;
        }
}

/* o is computed from the state before the position, o = decay * S^T q + x (k . q): one pass over S gives both products, and a pass
 * that changes S gives those of the next position. Sums over rows of S are four interleaved ones. */

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
static void k__delta_ref(const k_delta_args *a, int first) {
    for (int p = 0; first < a->n && p < a->n_pos; p++) {
        const k__delta_at at = k__delta_position(a, p, k_dot_ref);
        for (int c = first; c < a->n; c++) {
            float      *s = a->s + c;
            const float u = k__delta_dot_ref(s, a->ld_s, at.k, a->d_k), x = at.beta * fmaf(-at.decay, u, at.v[c]);
            if (at.out) a->o[(size_t)(p - a->fold) * a->ld_o + (size_t)c] = fmaf(x, at.kq, at.decay * k__delta_dot_ref(s, a->ld_s, at.q, a->d_k));
            if (a->peek && p == a->n_pos - 1) continue;
            for (size_t j = 0; j < (size_t)a->d_k; j++) s[j * a->ld_s] = fmaf(at.k[j], x, at.decay * s[j * a->ld_s]);
        }
    }
}

static void k_delta_ref(const k_delta_args *a) { k__delta_ref(a, 0); }

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
    k__scale(x, k__share_of(k__lanes_ref(s, 32)), n);
}

#if defined(__x86_64__)
#if defined(__clang__)
#define K__UNROLL    _Pragma("clang loop unroll(full)")
#define K__NO_UNROLL _Pragma("clang loop unroll(disable)")
#else
#define K__UNROLL    _Pragma("GCC unroll 16")
#define K__NO_UNROLL _Pragma("GCC unroll 1")
#endif

/* Prefetches the bytes K__AHEAD after p, for a sequential reader: the hardware alone leaves a third of the bandwidth
 * unused. They may lie beyond the matrix; a prefetch never faults. */
enum { K__AHEAD = 6144 };
#if K__PART(3)
K__SHARED size_t g_k_ahead = K__AHEAD;                /* distance for a packed stream and one column */
#else
extern K__SHARED size_t g_k_ahead;
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
               for (int h = 0; h < 32; h += 16) _mm256_storeu_si256((__m256i *)(void *)(to + h), k__bf16_avx2(K_F16_ROUND, w + 2 * h)))

/* Quarter h of a step of 32: values 8h to 8h + 7. Of bf16: the odd values of half h / 2 where h is even, else its even values. */
K__V256 __m256 k__part_avx2(const uint32_t type, const uint8_t *p, const int h) {
    if (!k__is_bf16(type)) return k__load_avx2(type, p + (size_t)8 * (size_t)h * k__float_size(type));
    const __m256i v = k__bf16_avx2(type, p + 32 * (h / 2));
    return _mm256_castsi256_ps(h % 2 ? _mm256_slli_epi32(v, 16) : _mm256_and_si256(v, _mm256_set1_epi32((int)0xffff0000)));
}

/* The quarter of a step that half p of the lanes adds first (i 0) and second (i 1). */
K__BODY int k__part_of(uint32_t type, int p, int i) { return k__is_bf16(type) ? 2 * p + i : p + 2 * i; }

K__V256 void k__step_avx2(const uint32_t type, const int C, const uint8_t *w, const uint8_t *const *x, size_t at, __m256 (*acc)[2]) {
    const uint32_t xt = k__act_type(type);
    K__UNROLL for (int i = 0; i < 4; i++) {
        const int    h = k__part_of(type, i % 2, i / 2);
        const __m256 wv = k__part_avx2(type, w, h);
        for (int c = 0; c < C; c++) acc[c][i % 2] = _mm256_fmadd_ps(wv, k__part_avx2(xt, x[c] + at, h), acc[c][i % 2]);
    }
}

/* One row times C columns. */
K__V256 void k__row_avx2(const uint32_t type, const int C, const uint8_t *w, const uint8_t *const *x, int n, float *y, size_t ldy) {
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

K__V256 void k__cols_avx2(const uint32_t type, int n_cols, const uint8_t *w, const uint8_t *const *x, int n, float *y, size_t ldy) {
    if (n_cols == 1) k__row_avx2(type, 1, w, x, n, y, ldy);
    else if (n_cols == 2) k__row_avx2(type, 2, w, x, n, y, ldy);
    else k__row_avx2(type, 3, w, x, n, y, ldy);
}

/* Many columns. Up to K__WIDE_GROUPS times four rows are widened once for up to K__WIDE_COLS columns, a span of k at a time. The
 * widened rows stay in the L2 cache. A tile of 4 x 3 holds half of the lanes in registers, so it is done in two turns, and in runs
 * of k whose columns stay in L1. The second turn of the last run adds the halves. */
enum { K__WIDE_ROWS = 4, K__WIDE_GROUPS = 4, K__WIDE_COLS = 96, K__WIDE_SPAN_AVX2 = 3072, K__WIDE_RUN_AVX2 = 1024, K__WIDE_TILE_AVX2 = 3 };

typedef struct {
    float  w[K__WIDE_GROUPS][2][K__WIDE_SPAN_AVX2 / 32][2][K__WIDE_ROWS][8];        /* [group][half of the lanes][step][its part] */
    __m256 tile[K__WIDE_GROUPS][2][K__WIDE_TILE_AVX2][K__WIDE_ROWS];                /* lanes between runs */
    __m256 acc[K__WIDE_GROUPS][2][K__WIDE_COLS][K__WIDE_ROWS];                      /* the same where a row has several spans */
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
    __m256              (*acc)[K__WIDE_ROWS];                       /* lanes of half p, group g: from column (2 * g + p) * n_acc on */
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
    K__UNROLL for (int i = 0; i < 2; i++) pair[i] = _mm_add_ps(_mm_movelh_ps(q[2 * i], q[2 * i + 1]), _mm_movehl_ps(q[2 * i + 1], q[2 * i]));
    _mm_storeu_ps(y, _mm_add_ps(_mm_shuffle_ps(pair[0], pair[1], 0x88), _mm_shuffle_ps(pair[0], pair[1], 0xdd)));
}

/* Half p of the lanes, all groups. */
K__V256 void k__wide_turn_avx2(const int C, const uint32_t type, const int p, const k__wide256 *v, int groups, const k__wide256_at *t) {
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
                _mm256_store_ps(v->w[g][j % 2][i][j / 2][r], k__part_avx2(type, w + (size_t)r * row_bytes, k__part_of(type, j % 2, j / 2)));
    }
}

/* 4 * groups rows of n weights, n % 32 == 0, times up to K__WIDE_COLS columns. */
K__V256 void k__wide_rows_avx2(const uint32_t type, const uint8_t *w, size_t row_bytes, int groups, const uint8_t *const *x, int n_cols,
                               int n, float *y, size_t ldy) {
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
                                         .acc = whole ? v.tile[0][0] : v.acc[0][0] + c, .n_acc = whole ? K__WIDE_TILE_AVX2 : K__WIDE_COLS,
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
    void (*wide_rows)(uint32_t type, const uint8_t *w, size_t row_bytes, int groups, const uint8_t *const *x, int n_cols, int n, float *y, size_t ldy);
    int  few;
} k__float_level;

/* Up to four columns, the rows that do not fill a group, and rows with an incomplete step are read row by row: one sequential
 * stream. */
static void k__mul_float(const k__float_level *lv, uint32_t type, const uint8_t *w, size_t row_bytes, int nr, int n, const k_acts *a,
                         float *y, size_t ldy) {
    const int      wide = a->nt <= 4 || n % 32 ? 0 : nr - nr % K__WIDE_ROWS;
    const uint8_t *x[K__WIDE_COLS];
    for (int t = 0, cols; wide && t < a->nt; t += cols) {
        cols = a->nt - t < K__WIDE_COLS ? a->nt - t : K__WIDE_COLS;
        for (int c = 0; c < cols; c++) x[c] = k__act_row(a, type, t + c);
        for (int r = 0, groups; r < wide; r += groups * K__WIDE_ROWS) {
            groups = (wide - r) / K__WIDE_ROWS < K__WIDE_GROUPS ? (wide - r) / K__WIDE_ROWS : K__WIDE_GROUPS;
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
#define K__FLOAT_LEVEL(l, vec, few)                                                                                                               \
    static vec void k__float_few_##l(uint32_t type, int n_cols, const uint8_t *w, const uint8_t *const *x, int n, float *y,                       \
                                     size_t ldy) {                                                                                                \
        if (type == K_F32) k__cols_##l(K_F32, n_cols, w, x, n, y, ldy);                                                                           \
        else if (type == K_F16) k__cols_##l(K_F16, n_cols, w, x, n, y, ldy);                                                                      \
        else if (type == K_BF16) k__cols_##l(K_BF16, n_cols, w, x, n, y, ldy);                                                                    \
        else k__cols_##l(K_F16_ROUND, n_cols, w, x, n, y, ldy);                                                                                   \
    }                                                                                                                                             \
    static vec void k__float_wide_##l(uint32_t type, const uint8_t *w, size_t row_bytes, int groups, const uint8_t *const *x, int n_cols, int n,  \
                                      float *y, size_t ldy) {                                                                                     \
        if (type == K_F32) k__wide_rows_##l(K_F32, w, row_bytes, groups, x, n_cols, n, y, ldy);                                                   \
        else if (type == K_F16) k__wide_rows_##l(K_F16, w, row_bytes, groups, x, n_cols, n, y, ldy);                                              \
        else if (type == K_BF16) k__wide_rows_##l(K_BF16, w, row_bytes, groups, x, n_cols, n, y, ldy);                                            \
        else k__wide_rows_##l(K_F16_ROUND, w, row_bytes, groups, x, n_cols, n, y, ldy);                                                           \
    }                                                                                                                                             \
    static void k_mul_float_##l(uint32_t type, const void *w, size_t row_bytes, int nr, int n, const k_acts *a, float *y,                         \
                                size_t ldy) {                                                                                                     \
        static const k__float_level lv = {k__float_few_##l, k__float_wide_##l, few};                                                              \
        k__mul_float(&lv, type, w, row_bytes, nr, n, a, y, ldy);                                                                                  \
    }
K__FLOAT_LEVEL(avx2, K_VEC_AVX2, 3)

static K_VEC_AVX2 float k_dot_avx2(const float *a, const float *b, int n) {
    float y;
    k__row_avx2(K_F32, 1, (const uint8_t *)a, &(const uint8_t *){(const uint8_t *)b}, n, &y, 0);
    return y;
}

static K_VEC_AVX2 void k_mul_avx2(float *y, const float *a, const float *b, int n) { k__mul(y, a, b, n); }
static K_VEC_AVX2 void k_add_avx2(float *y, const float *a, const float *b, int n) { k__add(y, a, b, n); }
static K_VEC_AVX2 void k_axpy_avx2(float *y, const float *x, float s, int n) { k__axpy(y, x, s, n); }
static K_VEC_AVX2 void k_scale_avx2(float *y, float s, int n) { k__scale(y, s, n); }
static K_VEC_AVX2 void k_rope_avx2(float *x, int n_heads, int hd, int n_rot, bool halves, const float *cs) {
    k__rope(x, n_heads, hd, n_rot, halves, cs);
}

static K_VEC_AVX2 void k_rms_norm_avx2(const float *x, const float *w, float eps, int n, float *y) {
    k__norm(x, w, 1.0f / sqrtf(k_dot_avx2(x, x, n) / (float)n + eps), n, y);
}

static K_VEC_AVX2 void k_layer_norm_avx2(const float *x, const float *w, const float *b, float eps, int n, float *y) {
    __m256 s[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()}, d[2] = {s[0], s[0]};
    for (int i = 0; i < n; i += 16)
        for (int h = 0; h < 2; h++) s[h] = _mm256_add_ps(s[h], _mm256_maskload_ps(x + i + 8 * h, k__mask_avx2(n - i - 8 * h)));
    const float mean = k__sum_avx2(_mm256_add_ps(s[0], s[1])) / (float)n;
    for (int i = 0; i < n; i += 16)
        for (int h = 0; h < 2; h++) {
            const __m256i m = k__mask_avx2(n - i - 8 * h);
            const __m256  v = _mm256_sub_ps(_mm256_maskload_ps(x + i + 8 * h, m), _mm256_set1_ps(mean)), z = _mm256_and_ps(v, _mm256_castsi256_ps(m));
            d[h] = _mm256_fmadd_ps(z, z, d[h]);
        }
    k__shift(x, w, b, mean, 1.0f / sqrtf(k__sum_avx2(_mm256_add_ps(d[0], d[1])) / (float)n + eps), n, y);
}

static K_VEC_AVX2 void k_l2_norm_avx2(float *x, float eps, int n) { k__scale(x, 1.0f / sqrtf(k_dot_avx2(x, x, n) + eps), n); }

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
    for (int i = 0; i < n; i += 8) {                  /* p: the lanes in reverse order; the mask of the blend selects the upper ones */
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
    const __m256 a = _mm256_min_ps(_mm256_set1_ps(K_PHI_FAR), _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x)), z = _mm256_mul_ps(a, a);
    const __m256 lost = _mm256_fmsub_ps(a, a, z), e = k__exp_avx2(_mm256_mul_ps(half, z));
    const __m256 t = _mm256_div_ps(one, _mm256_fmadd_ps(_mm256_set1_ps(0.3f), a, one));
    const __m256 tail = _mm256_mul_ps(_mm256_fmadd_ps(e, _mm256_mul_ps(half, lost), e), k__poly_avx2(k__tail_c, 9, t));
    const __m256 small = _mm256_fmadd_ps(x, k__poly_avx2(k__phi_c, 6, z), _mm256_set1_ps(0.5f));
    const __m256 far = _mm256_blendv_ps(tail, _mm256_sub_ps(one, tail), _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_GT_OQ));
    return _mm256_blendv_ps(far, small, _mm256_cmp_ps(a, _mm256_set1_ps(K_PHI_SMALL), _CMP_LT_OQ));
}

K__V256 __m256 k__act_avx2(const k_act_fn fn, __m256 x) {
    const __m256 relu = _mm256_max_ps(_mm256_setzero_ps(), x), inner = _mm256_fmadd_ps(_mm256_mul_ps(x, x), _mm256_set1_ps(K_GELU_3), _mm256_set1_ps(K_GELU_1));
    switch (fn) {
    case K_SILU: return _mm256_div_ps(x, k__exp1_avx2(k__minus_avx2(x)));
    case K_GELU: return _mm256_div_ps(x, k__exp1_avx2(_mm256_mul_ps(k__minus_avx2(x), inner)));
    case K_GELU_ERF: return _mm256_mul_ps(x, k__phi_avx2(x));
    case K_SIGMOID: return _mm256_div_ps(_mm256_set1_ps(1.0f), k__exp1_avx2(k__minus_avx2(x)));
    case K_RELU: return relu;
    case K_RELU2: return _mm256_mul_ps(relu, relu);
    }
    return x;
}

K__V256 void k__put_avx2(float *y, __m256i m, int left, __m256 v) {
    if (left >= 8) _mm256_storeu_ps(y, v);
    else _mm256_maskstore_ps(y, m, v);
}

K__V256 void k__activate_avx2(const k_act_fn fn, float *x, const float *up, int n) {
    for (int i = 0; i < n; i += 8) {
        const __m256i m = k__mask_avx2(n - i);
        const __m256  v = k__act_avx2(fn, _mm256_maskload_ps(x + i, m));
        k__put_avx2(x + i, m, n - i, up ? _mm256_mul_ps(v, _mm256_maskload_ps(up + i, m)) : v);
    }
}

/* Calls f(fn, ...) with fn as a constant. */
#define K__BY_ACT(f, fn, ...)                              \
    switch (fn) {                                          \
    case K_SILU: f(K_SILU, __VA_ARGS__); break;            \
    case K_GELU: f(K_GELU, __VA_ARGS__); break;            \
    case K_GELU_ERF: f(K_GELU_ERF, __VA_ARGS__); break;    \
    case K_SIGMOID: f(K_SIGMOID, __VA_ARGS__); break;      \
    case K_RELU: f(K_RELU, __VA_ARGS__); break;            \
    case K_RELU2: f(K_RELU2, __VA_ARGS__); break;          \
    }

static K_VEC_AVX2 void k_activate_avx2(k_act_fn fn, float *x, const float *up, int n) { K__BY_ACT(k__activate_avx2, fn, x, up, n) }

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
static K_VEC_AVX2 void k_conv_avx2(const float *const *x, const float *w, const float *bias, int taps, int n, int n_rows, bool silu, float *y, size_t ldy) {
    const __m256i at = _mm256_mullo_epi32(_mm256_set1_epi32(taps), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    const __m256  zero = _mm256_setzero_ps();
    for (int c = 0; c < n; c += 8) {
        const __m256i m = k__mask_avx2(n - c);
        const __m256  base = bias ? _mm256_maskload_ps(bias + c, m) : zero;
        __m256        filter[K_CONV_TAPS];
        for (int j = 0; j < taps; j++) filter[j] = _mm256_mask_i32gather_ps(zero, w + (size_t)c * (size_t)taps + (size_t)j, at, _mm256_castsi256_ps(m), 4);
        for (int t = 0; t < n_rows; t++) {
            __m256 sum = base;
            for (int j = 0; j < taps; j++) sum = _mm256_fmadd_ps(filter[j], x[t + j] ? _mm256_maskload_ps(x[t + j] + c, m) : zero, sum);
            k__put_avx2(y + (size_t)t * ldy + c, m, n - c, silu ? k__act_avx2(K_SILU, sum) : sum);
        }
    }
}

/* Rows [j, j + 4) of eight columns: changes them by x where `change`, then adds their products with k and q of `next` to u and w. */
K__V256 void k__delta_rows_avx2(const bool change, const bool dots, const bool whole, float *s, size_t ld, int j, int d_k, const k__delta_at *at,
                                __m256 x, const k__delta_at *next, __m256 *u, __m256 *w) {
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
static void k__delta_avx2(const k_delta_args *a, int c) {
    for (int H; (H = (a->n - c) / 8) > 0; c += 8 * H) {
        H = H < 4 ? H : 4;
        k__delta_strip_avx2(a, c, H);
    }
    k__delta_ref(a, c);
}

static void k_delta_avx2(const k_delta_args *a) { k__delta_avx2(a, 0); }

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
    k__scale(x, k__share_of(k__sum_avx2(k__fold_avx2(sum))), n);
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
    return _mm512_mask_mov_ps(k__decay_avx512(x), _mm512_cmp_ps_mask(x, _mm512_set1_ps(K_EXP_HI), _CMP_GT_OQ), _mm512_set1_ps(INFINITY));
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

/* Half h of a step of 32, of which `left` values exist: values 16h to 16h + 15; of bf16 the odd values (h 0) or the even ones (h 1). */
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
        q[i] = _mm512_add_ps(_mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0x44), _mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0xee));
    q[0] = _mm512_add_ps(_mm512_shuffle_f32x4(q[0], q[1], 0x88), _mm512_shuffle_f32x4(q[0], q[1], 0xdd));
    q[0] = _mm512_add_ps(q[0], _mm512_permute_ps(q[0], 0x4e));
    q[0] = _mm512_add_ps(q[0], _mm512_movehdup_ps(q[0]));
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
    _mm_storeu_ps(y, _mm512_castps512_ps128(_mm512_permutexvar_ps(order, q[0])));
}

/* Tiles of four rows for k__float_level.wide_rows. The inner loop goes over groups of rows, so that six columns stay in L1. */
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

/* One or four rows times up to six columns, all lanes in registers: 10 loads for 24 multiplications. Weights are widened when they
 * are loaded, once for six columns. A widened copy was slower: it costs stores, and twice the bytes come from the L2 cache. */
enum { K__TILE_AVX512 = 6 };

/* One step of 32 elements, of which `left` exist, from element k. */
K__V512 void k__step_avx512(const int C, const int R, const uint32_t type, const uint8_t *w, size_t row_bytes, const uint8_t *const *x, int k,
                            const bool whole, int left, __m512 (*s)[K__WIDE_ROWS]) {
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

K__V512 void k__cols_avx512(const uint32_t type, int n_cols, const uint8_t *w, const uint8_t *const *x, int n, float *y, size_t ldy) {
    K__BY_COLS(n_cols, k__tile_avx512, 1, type, w, 0, x, n, y, ldy)
}

K__V512 void k__wide_rows_avx512(const uint32_t type, const uint8_t *w, size_t row_bytes, int groups, const uint8_t *const *x, int n_cols,
                                 int n, float *y, size_t ldy) {
    K__TILES(k__tile_avx512)
}

K__FLOAT_LEVEL(avx512, K_VEC_AVX512, K__TILE_AVX512)

/* --- avx512_bf16 level: products of bf16 by vdpbf16ps. It adds the odd product to the sum, rounds, adds the even one, rounds, and
 * treats denormals as zeros (Intel SDM, vol. 2): the summation order of this header. k__dots_in_order() tests that. --- */

#define K_VEC_BF16 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c")))
#define K__VBF16 static inline __attribute__((always_inline)) K_VEC_BF16

K__VBF16 __m512 k__dots_add(__m512 s, __m512i a, __m512i b) { return _mm512_dpbf16_ps(s, (__m512bh)a, (__m512bh)b); }

/* Whether vdpbf16ps of this processor gives the bits of two fused multiply-adds. The test sums differ for any other order or
 * rounding. */
static K_VEC_BF16 bool k__dots_in_order(void) {
    static const float ab[8][3] = {{1, 1.0f, 0x1p-24f},     {1, 0x1p-24f, 0x1p-24f},   {1, 0x1p-24f, -1},        {-3, 3, 0x1.02p-25f},
                                   {0x1p24f, 1, 1},         {0x1p24f, -0x1p24f, 0.5f}, {0.1f, 0.3f, -0x1.9ap-2f}, {0x1.fffffep0f, 0x1p-23f, 1}};
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
K__VBF16 void k__dots_step(const int C, const int R, const uint32_t type, const uint8_t *w, size_t row_bytes, const uint8_t *const *x, int k,
                           const bool whole, int left, __m512 (*s)[K__WIDE_ROWS]) {
    const size_t at = 2 * (size_t)k;
    __m512i      wv[K__WIDE_ROWS];
    K__UNROLL for (int r = 0; r < R; r++) wv[r] = k__dots_load(type, w + (size_t)r * row_bytes + at, whole, left);
    K__UNROLL for (int c = 0; c < C; c++) {
        const __m512i xv = k__dots_load(K_BF16, x[c] + at, whole, left);
        K__UNROLL for (int r = 0; r < R; r++) s[c][r] = k__dots_add(s[c][r], wv[r], xv);
    }
}

K__TILE(k__dots_tile, K__VBF16, k__dots_step)

K__VBF16 void k__dots_rows(const uint32_t type, const uint8_t *w, size_t row_bytes, int groups, const uint8_t *const *x, int n_cols, int n,
                           float *y, size_t ldy) {
    K__TILES(k__dots_tile)
}

static K_VEC_BF16 void k__dots_few(uint32_t type, int n_cols, const uint8_t *w, const uint8_t *const *x, int n, float *y, size_t ldy) {
    if (type == K_BF16) K__BY_COLS(n_cols, k__dots_tile, 1, K_BF16, w, 0, x, n, y, ldy)
    else if (type == K_F16_ROUND) K__BY_COLS(n_cols, k__dots_tile, 1, K_F16_ROUND, w, 0, x, n, y, ldy)
    else k__float_few_avx512(type, n_cols, w, x, n, y, ldy);
}

static K_VEC_BF16 void k__dots_wide(uint32_t type, const uint8_t *w, size_t row_bytes, int groups, const uint8_t *const *x, int n_cols,
                                    int n, float *y, size_t ldy) {
    if (type == K_BF16) k__dots_rows(K_BF16, w, row_bytes, groups, x, n_cols, n, y, ldy);
    else if (type == K_F16_ROUND) k__dots_rows(K_F16_ROUND, w, row_bytes, groups, x, n_cols, n, y, ldy);
    else k__float_wide_avx512(type, w, row_bytes, groups, x, n_cols, n, y, ldy);
}

static void k_mul_float_bf16(uint32_t type, const void *w, size_t row_bytes, int nr, int n, const k_acts *a, float *y, size_t ldy) {
    static const k__float_level lv = {k__dots_few, k__dots_wide, K__TILE_AVX512};
    k__mul_float(&lv, type, w, row_bytes, nr, n, a, y, ldy);
}

static K_VEC_AVX512 float k_dot_avx512(const float *a, const float *b, int n) {
    float y;
    k__tile_avx512(1, 1, K_F32, (const uint8_t *)a, 0, &(const uint8_t *){(const uint8_t *)b}, n, &y, 0);
    return y;
}

static K_VEC_AVX512 void k_mul_avx512(float *y, const float *a, const float *b, int n) { k__mul(y, a, b, n); }
static K_VEC_AVX512 void k_add_avx512(float *y, const float *a, const float *b, int n) { k__add(y, a, b, n); }
static K_VEC_AVX512 void k_axpy_avx512(float *y, const float *x, float s, int n) { k__axpy(y, x, s, n); }
static K_VEC_AVX512 void k_scale_avx512(float *y, float s, int n) { k__scale(y, s, n); }
static K_VEC_AVX512 void k_rope_avx512(float *x, int n_heads, int hd, int n_rot, bool halves, const float *cs) {
    k__rope(x, n_heads, hd, n_rot, halves, cs);
}

static K_VEC_AVX512 void k_rms_norm_avx512(const float *x, const float *w, float eps, int n, float *y) {
    k__norm(x, w, 1.0f / sqrtf(k_dot_avx512(x, x, n) / (float)n + eps), n, y);
}

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

static K_VEC_AVX512 void k_l2_norm_avx512(float *x, float eps, int n) { k__scale(x, 1.0f / sqrtf(k_dot_avx512(x, x, n) + eps), n); }

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
    const __m512 a = _mm512_min_ps(_mm512_set1_ps(K_PHI_FAR), _mm512_andnot_ps(_mm512_set1_ps(-0.0f), x)), z = _mm512_mul_ps(a, a);
    const __m512 lost = _mm512_fmsub_ps(a, a, z), e = k__decay_avx512(_mm512_mul_ps(half, z));
    const __m512 t = _mm512_div_ps(one, _mm512_fmadd_ps(_mm512_set1_ps(0.3f), a, one));
    const __m512 tail = _mm512_mul_ps(_mm512_fmadd_ps(e, _mm512_mul_ps(half, lost), e), k__poly_avx512(k__tail_c, 9, t));
    const __m512 small = _mm512_fmadd_ps(x, k__poly_avx512(k__phi_c, 6, z), _mm512_set1_ps(0.5f));
    const __m512 far = _mm512_mask_sub_ps(tail, _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GT_OQ), one, tail);
    return _mm512_mask_mov_ps(far, _mm512_cmp_ps_mask(a, _mm512_set1_ps(K_PHI_SMALL), _CMP_LT_OQ), small);
}

K__V512 __m512 k__act_avx512(const k_act_fn fn, __m512 x) {
    const __m512 relu = _mm512_max_ps(_mm512_setzero_ps(), x), inner = _mm512_fmadd_ps(_mm512_mul_ps(x, x), _mm512_set1_ps(K_GELU_3), _mm512_set1_ps(K_GELU_1));
    switch (fn) {
    case K_SILU: return _mm512_div_ps(x, k__exp1_avx512(k__minus_avx512(x)));
    case K_GELU: return _mm512_div_ps(x, k__exp1_avx512(_mm512_mul_ps(k__minus_avx512(x), inner)));
    case K_GELU_ERF: return _mm512_mul_ps(x, k__phi_avx512(x));
    case K_SIGMOID: return _mm512_div_ps(_mm512_set1_ps(1.0f), k__exp1_avx512(k__minus_avx512(x)));
    case K_RELU: return relu;
    case K_RELU2: return _mm512_mul_ps(relu, relu);
    }
    return x;
}

K__V512 void k__activate_avx512(const k_act_fn fn, float *x, const float *up, int n) {
    for (int i = 0; i < n; i += 16) {
        const __mmask16 m = k__mask_avx512(n - i);
        const __m512    v = k__act_avx512(fn, _mm512_maskz_loadu_ps(m, x + i));
        _mm512_mask_storeu_ps(x + i, m, up ? _mm512_mul_ps(v, _mm512_maskz_loadu_ps(m, up + i)) : v);
    }
}

static K_VEC_AVX512 void k_activate_avx512(k_act_fn fn, float *x, const float *up, int n) { K__BY_ACT(k__activate_avx512, fn, x, up, n) }

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
static K_VEC_AVX512 void k_conv_avx512(const float *const *x, const float *w, const float *bias, int taps, int n, int n_rows, bool silu, float *y, size_t ldy) {
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i at = _mm512_mullo_epi32(_mm512_set1_epi32(taps), lane);
    const __m512  zero = _mm512_setzero_ps();
    for (int c = 0; c < n; c += 16) {
        const __mmask16 m = k__mask_avx512(n - c);
        const __m512    base = bias ? _mm512_maskz_loadu_ps(m, bias + c) : zero;
        __m512          filter[K_CONV_TAPS];
        for (int j = 0; j < taps; j++) filter[j] = _mm512_mask_i32gather_ps(zero, m, at, w + (size_t)c * (size_t)taps + (size_t)j, 4);
        for (int t = 0; t < n_rows; t++) {
            __m512 sum = base;
            for (int j = 0; j < taps; j++) sum = _mm512_fmadd_ps(filter[j], x[t + j] ? _mm512_maskz_loadu_ps(m, x[t + j] + c) : zero, sum);
            _mm512_mask_storeu_ps(y + (size_t)t * ldy + c, m, silu ? k__act_avx512(K_SILU, sum) : sum);
        }
    }
}

/* Like k__delta_rows_avx2, for 32 columns. */
K__V512 void k__delta_rows_avx512(const bool change, const bool dots, const bool whole, float *s, size_t ld, int j, int d_k, const k__delta_at *at,
                                  const __m512 *x, const k__delta_at *next, __m512 (*u)[2], __m512 (*w)[2]) {
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

K__V512 void k__delta_pass_avx512(const bool change, const bool dots, float *s, size_t ld, int d_k, const k__delta_at *at, const __m512 *x,
                                  const k__delta_at *next, __m512 *u, __m512 *w) {
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
            if (now.out) _mm512_storeu_ps(a->o + (size_t)(p - a->fold) * a->ld_o + c + 16 * h, _mm512_fmadd_ps(x[h], _mm512_set1_ps(now.kq), _mm512_mul_ps(decay, w[h])));
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
    k__delta_avx2(a, c);
}

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
    k__scale(x, k__share_of(k__sum_avx512(_mm512_add_ps(sum[0], sum[1]))), n);
}
#endif
/* ===== [attn] rows of the cache, attention =====
 * k_kv_store and k_attn at every level: _ref in plain C, _avx2, _avx512, _bf16. The rules of [vec] hold, and sums have this order:
 * Positions are taken in tiles of 32, at absolute multiples of 32. A tile of K and V is widened to f32 once (or to pairs of bf16) for
 * all rows. K is transposed, so that a lane is a position and no sum goes across lanes: s = fma(q[d], k[d], s).
 * Sixteen tiles are a segment: 512 positions, at absolute multiples of 512. In a segment each row has the largest score m so far, the
 * sum l of the weights, and the output o before the division by l. A tile updates them:
 *     m' = max(m, s);  c = exp(m - m');  p = exp(s - m');  l = l*c + sum(p);  o = o*c, then o = fma(p[i], v[i], o)
 * Segments are merged in rising order, each into the result (M, L, O) of those before it, which begins as that of the first:
 *     M' = max(M, m);  a = exp(M - M');  b = exp(m - M');  L = L*a + l*b;  O = O*a + o*b, every operation rounded
 * One of a and b is 1. So any thread can compute a segment, and up to 512 positions need no merge. The result is O / L.
 * Sums over dimensions (s) and positions (o) add pairs, the odd element first. Caches of bf16 and of quantised types are multiplied
 * as bf16: their values are rounded to bf16, and so are q and p (as in FlashAttention); these are the sums of the instruction
 * vdpbf16ps. Where K and V are both q8_0, a segment is computed in integers ("both caches q8_0" below). A row adds only positions that
 * it sees, so its result does not depend on the other rows of the call. */

#endif /* __CUDACC__ */

/* --- what a GPU computes by the same code --- */

enum { K_TILE = 32, K_ATTN_GROUP = 8 };         /* positions in a tile; rows that a level computes together */
enum { K_ATTN8_Q = 16383, K_ATTN8_P = 32767 };  /* "both caches q8_0": the largest code of a query, of a weight */

/* For one row and some positions: m is the largest score, l the sum of the weights exp(score - m). */
typedef struct {
    float m, l;
} k__attn_sum;

/* A partial result: outputs [n_rows][hd_v rounded up to 32], then the sums of the rows. */
K__BODY int    k__round_up(int n, int to) { return (n + to - 1) / to * to; }
K__BODY size_t k__attn_part(int n_rows, int hd_v) {
    return (size_t)n_rows * (size_t)k__round_up(hd_v, 32) + (size_t)k__round_up(2 * n_rows, 16);
}

/* Whether caches of the type are multiplied as bf16; whether both are multiplied as integers. */
K__BODY bool k__kv_rounds(uint32_t type) { return type != K_F32 && type != K_F16; }
K__BODY bool k__kv_codes(uint32_t type_k, uint32_t type_v) { return type_k == K_Q8_0 && type_v == K_Q8_0; }

K__BODY float k__bf16_round(float x) { return k_bf16_to_f32(k_f32_to_bf16(x)); }

/* A score, times the scale, with the cap and what ALiBi takes from it: slope NULL: nothing; far: positions between key and query. */
K__BODY float k__attn_shape(float s, float cap, const float *slope, int far) {
    if (cap != 0) s = cap * k__tanh_ref(s / cap);
    return slope ? fmaf(-*slope, fabsf((float)far), s) : s;
}

/* The factors with which a segment (part) is merged into the result of those before it (all, which is updated). */
K__BODY void k__attn_factors(float (*decay)(float), k__attn_sum *all, const k__attn_sum *part, float *a, float *b) {
    const bool  less = all->m < part->m;
    const float top = less ? part->m : all->m, low = less ? all->m : part->m, c = decay(low - (top == -INFINITY ? 0 : top));
    *a = less ? c : 1, *b = less ? 1 : c;
    all->l = all->l * *a + part->l * *b;
    all->m = top;
}

/* The factor of a row's outputs at the end. A sink is one more weight without a value; NULL: there is none. */
K__BODY float k__attn_share(k__attn_sum all, const float *sink) {
    float c = 1;
    if (sink && *sink != -INFINITY) {
        const float top = all.m < *sink ? *sink : all.m;
        c = k__exp_ref(all.m - top);
        all.l = fmaf(all.l, c, k__exp_ref(*sink - top));
    }
    return k__share_of(all.l) * c;
}

/* The nearest integer, to even, of |x| < 2^22; anything of a NaN. */
K__BODY int32_t k__attn8_round(float x) { return (int32_t)(k__bits_of(x + K_ROUND) - k__bits_of(K_ROUND)); }

/* Codes of 1 in a query whose largest magnitude is top; bad: not all of it is finite. What a code of it stands for. */
K__BODY float k__attn8_codes(float top, bool bad) { return top < 0x1p-100f || bad ? 0 : K_ATTN8_Q / top; }
K__BODY float k__attn8_unit(float top, bool bad) { return bad ? NAN : top < 0x1p-100f ? 0 : top / K_ATTN8_Q; }

/* What one step of w stands for, and the steps in 1. */
K__BODY float k__attn8_step(float top) { return top < 0x1p-100f ? 0 : top < 0x1p17f ? top / K_ATTN8_P : NAN; }
K__BODY float k__attn8_steps(float top) { return top < 0x1p-100f ? 0 : K_ATTN8_P / top; }

/* The scale of a block of V. */
K__BODY float k__attn8_scale(float d) { return fabsf(d) < INFINITY ? d : 0x1p127f; }

#ifndef __CUDACC__

/* The bytes of the next tile that are not prefetched yet. A level prefetches a line of K with every dimension of the scores, and two
 * of V with every position of the sums. The hardware does not prefetch across blocks, and all lines at once would stall. */
typedef struct {
    const uint8_t *k, *k_end, *v, *v_end;
} k__attn_ahead;

/* Up to K_ATTN_GROUP rows: their spans [lo, hi) of the tile, their state (m, l, o) and the factor c of the tile. The last four rows
 * are filled up with empty spans, so that a level can compute weights of four rows at a time. */
typedef struct {
    int          n, row[K_ATTN_GROUP], lo[K_ATTN_GROUP], hi[K_ATTN_GROUP];
    const float *q[K_ATTN_GROUP];
    float       *o[K_ATTN_GROUP], m[K_ATTN_GROUP], l[K_ATTN_GROUP], c[K_ATTN_GROUP];
    float        slope[K_ATTN_GROUP];           /* where there are slopes */
    int          far[K_ATTN_GROUP];             /* the first position of the tile minus the row's own one */
} k__attn_rows;

/* Converts n_pos positions of n values, stride bytes apart, into rows ld floats apart. */
typedef void k__attn_widen(uint32_t type, const uint8_t *src, size_t stride, int n_pos, int n, float *dst, int ld);

/* How a level multiplies keys: as f32, or as pairs of bf16 (a pair takes the place of a float). */
typedef struct {
    int            per;                         /* dimensions in 4 bytes */
    k__attn_widen *widen;
    /* kt[d*32 + i] = k[i*ld + d], ld a multiple of 16 */
    void (*transpose)(const float *k, int ld, float *kt);
    /* rounds a query to bf16, in the format of the keys */
    void (*round)(const float *q, int n, float *dst);
    /* s[r*32 + i] = q[r] . kt[., i], n times 4 bytes of each */
    void (*scores)(const float *const *q, int n_rows, const float *kt, int n, k__attn_ahead *ahead, float *s);
} k__attn_keys;

/* How a level multiplies values; pairs are of positions: [16][ld]. */
typedef struct {
    int            per;                         /* positions in 4 bytes */
    k__attn_widen *widen;
    /* rows of bf16 [32][ld] to pairs; NULL with f32 */
    void (*pair)(const float *v, int ld, float *pairs);
    /* o[r] = o[r]*c[r], then += s[r*32 + i] * v[i] for i = lo..hi-1; ld a multiple of 32 */
    void (*gather)(float *const *o, const float *c, int n_rows, const float *s, const float *v, int ld, int lo, int hi,
                   k__attn_ahead *ahead);
} k__attn_values;

/* --- both caches q8_0: integers ---
 * Where K and V are both q8_0, products are sums of integers, which are exact in any order. For each row, with K and V in blocks of 32:
 *   q:      qi = round(q * (K_ATTN8_Q / max|q|)), to even; dq = max|q| / K_ATTN8_Q; both 0 where max|q| < 2^-100, and dq is NaN where
 *           max|q| is not finite or some q is NaN
 *   scores: s = the sum over blocks g of (float)(sum of qi * k) * dk[g], the first a product, the others by fma in rising order;
 *           then s * (dq * scale), the cap, the slope; positions that the row does not see have -inf
 *   m:      the largest s of the segment that is not NaN; p = exp(s - m), with m = 0 where all are -inf
 *   l:      the sum of p: 32 lanes, lane i the positions i, 32 + i, .. of the segment in this order; lanes are added as in [vec]
 *   V:      a weight contains its position's scale: x = p * dv[g]; top[g] = the largest |x| that is not NaN;
 *           w = round(x * (K_ATTN8_P / top)), to even; o = (float)(sum of w * v) * (top / K_ATTN8_P); 0 where top < 2^-100
 * A scale dv that is not finite counts as 2^127, and a top of 2^17 or more (finite ones stay below) makes o NaN. m, l and o are the
 * partial results of the segment, merged as those of other caches. Codes are -128 .. 127, so that no int32 sum overflows:
 * 32 * 16383 * 128 and 512 * 32767 * 128. Positions outside a row's span have w = 0; blocks before the window read as zeros. */

enum { K_ATTN8_ROWS = 8 };

/* What a call holds. Products add pairs of int16: K has pairs of dimensions, 16 positions side by side; V pairs of positions, 16
 * dimensions side by side; q and w lie in the same order. */
typedef struct {
    int      ld_k, ld_v;                        /* dimensions, multiples of 32 */
    int16_t *k;                                 /* [K_SEGMENT/16][ld_k/2][16][2], dimensions in the order of k__attn8_at() */
    int16_t *v;                                 /* [ld_v/16][K_SEGMENT/2][16][2] */
    float   *dk, *dv;                           /* [ld_k/32][K_SEGMENT], [ld_v/32][K_SEGMENT] */
    int16_t *q;                                 /* [n_rows][ld_k] in the same order */
    float   *dq;                                /* [n_rows] times the scale of scores */
    float   *s;                                 /* [K_ATTN8_ROWS][K_SEGMENT] scores, then weights p */
    int16_t *w;                                 /* [ld_v/32][K_ATTN8_ROWS][K_SEGMENT] */
    float   *step;                              /* [ld_v/32][K_ATTN8_ROWS] what one step of w stands for */
    uint8_t *zeros;                             /* a row of K or V without values */
} k__attn8;

/* Some rows: places [lo[r], hi[r]) of the segment that row r sees, all of them in [first, last), multiples of K_TILE. */
typedef struct {
    int n, first, last, row[K_ATTN8_ROWS], lo[K_ATTN8_ROWS], hi[K_ATTN8_ROWS];
} k__attn8_rows;

/* How a level computes it. */
typedef struct {
    /* rows of 16 positions from `place` of the segment on, in their layouts */
    void (*pack_k)(const k__attn8 *c, const uint8_t *const *row, int place);
    void (*pack_v)(const k__attn8 *c, const uint8_t *const *row, int place);
    void (*scores)(const k__attn8 *c, const k__attn8_rows *g);
    /* the r-th row's scores to weights; part receives m and l */
    void (*weigh)(const k_attn_args *a, const k__attn8 *c, const k__attn8_rows *g, int r, int64_t base, k__attn_sum *part);
    /* o[row][ld_v] of each row */
    void (*gather)(const k__attn8 *c, const k__attn8_rows *g, float *o);
} k__attn8_level;

typedef struct {
    const k__attn_keys   *keys;
    const k__attn_values *values;
    /* turns scores s[r*32 + i] into weights p, 0 outside the spans, rounded to bf16 where values are; updates m and l, sets c */
    void (*weigh)(const k_attn_args *a, k__attn_rows *g, float *s);
    /* merges the next segment (part, output from[n]) into the result of those before it (all, o[n]) */
    void (*join)(k__attn_sum *all, float *o, const k__attn_sum *part, const float *from, int n);
    const k__attn8_level *codes;                /* where K and V are q8_0; NULL: other caches */
} k__attn_level;

typedef struct {
    float *k, *kt, *v, *s;                      /* [32][ld_k], [ld_k][32], [32][ld_v], [K_ATTN_GROUP][32] */
    float *q, *o;                               /* [n_rows][ld_k] padded queries, [n_rows][ld_v] outputs of the current segment */
    k__attn_sum *part, *all;                    /* [n_rows] of the current segment, stored after o; of the segments before it */
    int    ld_k, ld_v;
    k__attn_ahead ahead;
    k__attn8      codes;                        /* where K and V are q8_0 */
} k__attn_mem;

K_PUBLIC size_t k_attn_part(int n_rows, int hd_v) { return k__attn_part(n_rows, hd_v); }

static size_t k__attn8_bytes(size_t n_rows, size_t ld_k, size_t ld_v) {
    const size_t floats = (ld_k + ld_v) / 32 * K_SEGMENT + (K_SEGMENT + ld_v / 32) * K_ATTN8_ROWS + n_rows;
    return floats * sizeof(float) + (K_SEGMENT * (ld_k + ld_v + ld_v / 32 * K_ATTN8_ROWS) + n_rows * ld_k) * sizeof(int16_t) + (ld_k + ld_v) / 32 * sizeof(block_q8_0);
}

/* Carves p, aligned to 64; what is read as vectors comes first. */
static k__attn8 k__attn8_carve(size_t n_rows, size_t ld_k, size_t ld_v, uint8_t *p) {
    k__attn8 c = {.ld_k = (int)ld_k, .ld_v = (int)ld_v};
    c.k = (int16_t *)(void *)p, p += K_SEGMENT * ld_k * sizeof *c.k;
    c.v = (int16_t *)(void *)p, p += K_SEGMENT * ld_v * sizeof *c.v;
    c.w = (int16_t *)(void *)p, p += ld_v / 32 * K_ATTN8_ROWS * K_SEGMENT * sizeof *c.w;
    c.dk = (float *)(void *)p, p += ld_k / 32 * K_SEGMENT * sizeof *c.dk;
    c.dv = (float *)(void *)p, p += ld_v / 32 * K_SEGMENT * sizeof *c.dv;
    c.s = (float *)(void *)p, p += K_ATTN8_ROWS * K_SEGMENT * sizeof *c.s;
    c.step = (float *)(void *)p, p += ld_v / 32 * K_ATTN8_ROWS * sizeof *c.step;
    c.dq = (float *)(void *)p, p += n_rows * sizeof *c.dq;
    c.q = (int16_t *)(void *)p, p += n_rows * ld_k * sizeof *c.q;
    c.zeros = p;
    return c;
}

K_PUBLIC size_t k_attn_scratch(int n_rows, int hd_k, int hd_v) {
    const size_t ld_k = (size_t)k__round_up(hd_k, 32), ld_v = (size_t)k__round_up(hd_v, 32), n = (size_t)n_rows;
    return (K_TILE * (2 * ld_k + ld_v + K_ATTN_GROUP) + n * (ld_k + 2) + k_attn_part(n_rows, hd_v)) * sizeof(float) + 128 +
           k__attn8_bytes(n, ld_k, ld_v);
}

/* The partial results of the current segment go to `part`. */
static void k__attn_part_to(k__attn_mem *w, const k_attn_args *a, float *part) {
    w->o = part;
    w->part = (k__attn_sum *)(void *)(part + (size_t)a->n_rows * (size_t)w->ld_v);
}

static k__attn_mem k__attn_carve(const k_attn_args *a, void *scratch) {
    k__attn_mem w = {.ld_k = k__round_up(a->hd_k, 32), .ld_v = k__round_up(a->hd_v, 32)};
    size_t      n = (size_t)a->n_rows;
    float      *p = (float *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63);
    w.k = p, p += (size_t)w.ld_k * K_TILE;
    w.kt = p, p += (size_t)w.ld_k * K_TILE;
    w.v = p, p += (size_t)w.ld_v * K_TILE;
    w.s = p, p += K_ATTN_GROUP * K_TILE;
    w.q = p, p += (size_t)w.ld_k * n;
    k__attn_part_to(&w, a, p);
    p += k_attn_part(a->n_rows, a->hd_v);
    w.all = (k__attn_sum *)(void *)p;
    p += 2 * n;
    w.codes = k__attn8_carve(n, (size_t)w.ld_k, (size_t)w.ld_v, (uint8_t *)(((uintptr_t)p + 63) & ~(uintptr_t)63));
    return w;
}

static float *k__attn_o(const k__attn_mem *w, int r) { return w->o + (size_t)r * (size_t)w->ld_v; }

/* Prepares row r for a segment. */
static void k__attn_clear(const k__attn_mem *w, int r) {
    memset(k__attn_o(w, r), 0, (size_t)w->ld_v * sizeof(float));
    w->part[r] = (k__attn_sum){-INFINITY, 0};
}

/* Where dimension d lies: of four the order is 0, 2, 1, 3. */
K__BODY int k__attn8_at(int d) { return (d & ~3) | (d & 1) << 1 | (d >> 1 & 1); }

/* Quantises the query of row r. */
static void k__attn8_ask(const k_attn_args *a, const k__attn8 *c, int r) {
    const float *x = a->rows[r].q;
    int16_t     *q = c->q + (size_t)r * (size_t)c->ld_k;
    float        top = 0, bad = 0;
    for (int i = 0; i < a->hd_k; i++) {
        top = fabsf(x[i]) > top ? fabsf(x[i]) : top;
        bad += x[i] * 0;
    }
    const float f = k__attn8_codes(top, bad != 0);
    c->dq[r] = k__attn8_unit(top, bad != 0) * a->scale;
    memset(q, 0, (size_t)c->ld_k * sizeof *q);
    for (int i = 0; i < a->hd_k && f != 0; i++) q[k__attn8_at(i)] = (int16_t)k__attn8_round(x[i] * f);
}

static void k__attn8_start(const k_attn_args *a, const k__attn8 *c) {
    memset(c->zeros, 0, (size_t)(c->ld_k + c->ld_v) / 32 * sizeof(block_q8_0));
    for (int r = 0; r < a->n_rows; r++) k__attn8_ask(a, c, r);
}

/* Zeros the padding of tiles and queries; copies the queries in the format of the level. */
static void k__attn_start(const k__attn_level *lv, const k_attn_args *a, const k__attn_mem *w) {
    const size_t tile = (size_t)(2 * w->ld_k + w->ld_v + K_ATTN_GROUP) * K_TILE;
    if (lv->codes) {
        for (int r = 0; r < a->n_rows; r++) k__attn_clear(w, r);
        k__attn8_start(a, &w->codes);
        return;
    }
    memset(w->k, 0, (tile + (size_t)w->ld_k * (size_t)a->n_rows) * sizeof(float));
    for (int r = 0; r < a->n_rows; r++) {
        k__attn_clear(w, r);
        float *q = w->q + (size_t)r * (size_t)w->ld_k;
        if (k__kv_rounds(a->type_k)) lv->keys->round(a->rows[r].q, a->hd_k, q);
        else memcpy(q, a->rows[r].q, (size_t)a->hd_k * sizeof *q);
    }
}

/* Address of position p, and how many of the `want` positions from there are in the same block. NULL: the block is before the window. */
static const uint8_t *k__attn_find(const uint8_t *const *blocks, size_t stride, int block, int64_t p, int want, int *run) {
    const uint8_t *at = blocks[p / block];
    int            off = (int)(p % block);
    *run = block - off < want ? block - off : want;
    return at ? at + (size_t)off * stride : NULL;
}

/* Widens positions [lo, hi) of the tile at base. It skips blocks before the window, since no row of the call sees them. A head that
 * ends inside a quantised block was padded with zeros up to the end of the block, and so is the tile up to ld. */
static void k__attn_fetch(k__attn_widen *widen, uint32_t type, const uint8_t *const *blocks, size_t stride, int block,
                          int n, int64_t base, int lo, int hi, float *dst, int ld) {
    n = k__round_up(n, k_types[type].block);
    for (int run; lo < hi; lo += run) {
        const uint8_t *src = k__attn_find(blocks, stride, block, base + lo, hi - lo, &run);
        if (src) widen(type, src, stride, run, n, dst + (size_t)lo * (size_t)ld, ld);
    }
}

/* The positions of the tile at base that row r sees, as [*lo, *hi) of 0..32; false: none. */
static bool k__attn_span(const k_attn_row *r, int64_t base, int *lo, int *hi) {
    int64_t b = r->begin - base, e = r->end - base;
    *lo = b < 0 ? 0 : b > K_TILE ? K_TILE : (int)b;
    *hi = e < 0 ? 0 : e > K_TILE ? K_TILE : (int)e;
    return *lo < *hi;
}

static int k__least(const int *v, int n) { int m = v[0]; for (int i = 1; i < n; i++) m = v[i] < m ? v[i] : m; return m; }
static int k__most(const int *v, int n) { int m = v[0]; for (int i = 1; i < n; i++) m = v[i] > m ? v[i] : m; return m; }

/* The t-th position in summation order, which takes the odd one of each pair first; false: it is not in the span. */
K__BODY bool k__pair_at(int t, int lo, int hi, int *i) {
    *i = t ^ 1;
    return *i >= lo && *i < hi;
}

/* Each row sums its own span in order. Whole pairs that all spans share are summed for all rows together. */
static void k__attn_gather(const k__attn_values *lv, k__attn_mem *w, k__attn_rows *g) {
    int lo = k__round_up(k__most(g->lo, g->n), 2), hi = k__least(g->hi, g->n) & ~1;
    if (lo > hi) hi = lo;
    for (int r = 0; r < g->n; r++)
        if (g->lo[r] < lo) {
            int stop = g->hi[r] < lo ? g->hi[r] : lo;
            lv->gather(&g->o[r], &g->c[r], 1, w->s + r * K_TILE, w->v, w->ld_v, g->lo[r], stop, &w->ahead);
            g->c[r] = 1;
        }
    if (lo < hi) lv->gather(g->o, g->c, g->n, w->s, w->v, w->ld_v, lo, hi, &w->ahead);
    for (int r = 0; r < g->n; r++) {
        int from = g->lo[r] > hi ? g->lo[r] : hi;
        if (lo < hi) g->c[r] = 1;
        if (from < g->hi[r]) lv->gather(&g->o[r], &g->c[r], 1, w->s + r * K_TILE, w->v, w->ld_v, from, g->hi[r], &w->ahead);
    }
}

/* What ALiBi takes from the scores of the tile at base. */
static void k__attn_lean(const k_attn_args *a, k__attn_rows *g, int64_t base) {
    for (int r = 0; r < K_ATTN_GROUP; r++) {
        g->slope[r] = r < g->n ? a->slopes[g->row[r]] : 0;
        g->far[r] = r < g->n ? (int)(base - a->rows[g->row[r]].at) : 0;
    }
}

static void k__attn_group(const k__attn_level *lv, const k_attn_args *a, k__attn_mem *w, k__attn_rows *g, int64_t base) {
    if (!g->n) return;
    if (a->slopes) k__attn_lean(a, g, base);
    for (int r = 0; r < k__round_up(g->n, 4); r++) {
        const bool there = r < g->n;
        g->m[r] = there ? w->part[g->row[r]].m : -INFINITY;
        g->l[r] = there ? w->part[g->row[r]].l : 0;
        if (!there) g->lo[r] = g->hi[r] = 0;
    }
    lv->keys->scores(g->q, g->n, w->kt, a->hd_k / lv->keys->per, &w->ahead, w->s);
    lv->weigh(a, g, w->s);
    for (int r = 0; r < g->n; r++) w->part[g->row[r]] = (k__attn_sum){g->m[r], g->l[r]};
    k__attn_gather(lv->values, w, g);
    g->n = 0;
}

/* Start and end of the tile at p in memory; an empty range where the tile is not inside one block. */
static const uint8_t *k__attn_next(const k_attn_args *a, const uint8_t *const *blocks, size_t stride, int64_t p, const uint8_t **end) {
    int            run;
    const uint8_t *at = k__attn_find(blocks, stride, a->block, p, K_TILE, &run);
    *end = at && run == K_TILE ? at + K_TILE * stride : at;
    return at;
}

static void k__attn_tile(const k__attn_level *lv, const k_attn_args *a, k__attn_mem *w, int64_t base, int64_t last) {
    const int    ld_k = w->ld_k / lv->keys->per, ld_v = w->ld_v / lv->values->per;
    float       *v = w->v + (size_t)(w->ld_v - ld_v) * K_TILE;      /* rows that will be paired are stored after the pairs */
    k__attn_rows g = {0};
    int          lo, hi, from = K_TILE, to = 0;
    for (int r = 0; r < a->n_rows; r++)
        if (k__attn_span(&a->rows[r], base, &lo, &hi)) from = lo < from ? lo : from, to = hi > to ? hi : to;
    k__attn_fetch(lv->keys->widen, a->type_k, a->k_blocks, a->k_stride, a->block, a->hd_k, base, from, to, w->k, ld_k);
    lv->keys->transpose(w->k, ld_k, w->kt);
    w->ahead = (k__attn_ahead){0};
    if (base + K_TILE < last) {
        w->ahead.k = k__attn_next(a, a->k_blocks, a->k_stride, base + K_TILE, &w->ahead.k_end);
        w->ahead.v = k__attn_next(a, a->v_blocks, a->v_stride, base + K_TILE, &w->ahead.v_end);
    }
    k__attn_fetch(lv->values->widen, a->type_v, a->v_blocks, a->v_stride, a->block, a->hd_v, base, from, to, v, ld_v);
    if (lv->values->pair) lv->values->pair(v, w->ld_v, w->v);
    for (int r = 0; r < a->n_rows; r++) {
        if (!k__attn_span(&a->rows[r], base, &g.lo[g.n], &g.hi[g.n])) continue;
        g.row[g.n] = r;
        g.q[g.n] = w->q + (size_t)r * (size_t)w->ld_k;
        g.o[g.n] = k__attn_o(w, r);
        if (++g.n == K_ATTN_GROUP) k__attn_group(lv, a, w, &g, base);
    }
    k__attn_group(lv, a, w, &g, base);
}

/* Positions [first, last) that some row of the call sees; [0, 0) when there are none. */
typedef struct {
    int64_t first, last;
} k__attn_reach;

static k__attn_reach k__attn_reach_of(const k_attn_args *a) {
    k__attn_reach all = {0, 0};
    for (int r = 0; r < a->n_rows; r++) {
        const k_attn_row *row = &a->rows[r];
        if (row->begin >= row->end) continue;
        all.first = !all.last || row->begin < all.first ? row->begin : all.first;
        all.last = row->end > all.last ? row->end : all.last;
    }
    return all;
}

/* Finds the rows of 16 positions from p on; those outside [from, to) and in blocks before the window are zeros. */
static void k__attn8_find(const k_attn_args *a, const uint8_t *const *blocks, size_t stride, int64_t p, int64_t from, int64_t to,
                          const uint8_t *zeros, const uint8_t **row) {
    int            run = 0;
    const uint8_t *at = NULL;
    for (int i = 0; i < 16; i++, p++, run--) {
        row[i] = zeros;
        if (p < from || p >= to) continue;
        if (run <= 0) at = k__attn_find(blocks, stride, a->block, p, 16, &run);
        if (!at) continue;
        row[i] = at;
        at += stride;
    }
}

/* Up to K_ATTN8_ROWS rows of a segment: scores, weights, sums of V. */
static void k__attn8_group(const k__attn8_level *lv, const k_attn_args *a, const k__attn_mem *w, k__attn8_rows *g, int64_t base) {
    if (!g->n) return;
    g->first = k__least(g->lo, g->n) / K_TILE * K_TILE, g->last = k__round_up(k__most(g->hi, g->n), K_TILE);
    lv->scores(&w->codes, g);
    for (int r = 0; r < g->n; r++) lv->weigh(a, &w->codes, g, r, base, &w->part[g->row[r]]);
    lv->gather(&w->codes, g, w->o);
    g->n = 0;
}

/* Segment s of rows, of positions [first, last). */
static void k__attn8_segment(const k__attn8_level *lv, const k_attn_args *a, const k__attn_mem *w, k__attn_reach all, int64_t s) {
    const int64_t  base = s * K_SEGMENT, from = all.first > base ? all.first : base, end = base + K_SEGMENT, to = all.last < end ? all.last : end;
    const uint8_t *row[16];
    k__attn8_rows  g = {0};
    for (int64_t p = from / K_TILE * K_TILE; p < (to + K_TILE - 1) / K_TILE * K_TILE; p += 16) {
        k__attn8_find(a, a->k_blocks, a->k_stride, p, from, to, w->codes.zeros, row);
        lv->pack_k(&w->codes, row, (int)(p - base));
        k__attn8_find(a, a->v_blocks, a->v_stride, p, from, to, w->codes.zeros, row);
        lv->pack_v(&w->codes, row, (int)(p - base));
    }
    for (int r = 0; r < a->n_rows; r++) {
        const k_attn_row *q = &a->rows[r];
        const int64_t     lo = q->begin > base ? q->begin : base, hi = q->end < end ? q->end : end;
        if (lo >= hi) continue;
        g.row[g.n] = r, g.lo[g.n] = (int)(lo - base), g.hi[g.n] = (int)(hi - base);
        if (++g.n == K_ATTN8_ROWS) k__attn8_group(lv, a, w, &g, base);
    }
    k__attn8_group(lv, a, w, &g, base);
}

/* Computes the partial results of segment s in w->o and w->part, which are clear. Its last tile prefetches the next one of `all`. */
static void k__attn_segment(const k__attn_level *lv, const k_attn_args *a, k__attn_mem *w, k__attn_reach all, int64_t s) {
    const int64_t from = s * K_SEGMENT, to = from + K_SEGMENT < all.last ? from + K_SEGMENT : all.last;
    if (lv->codes) {
        k__attn8_segment(lv->codes, a, w, all, s);
        return;
    }
    for (int64_t base = from > all.first ? from : all.first / K_TILE * K_TILE; base < to; base += K_TILE)
        k__attn_tile(lv, a, w, base, all.last);
}

/* Merges a segment into the result of those before it. A segment without positions changes nothing. */
K__BODY void k__attn_join(float (*decay)(float), k__attn_sum *all, float *o, const k__attn_sum *part, const float *from, int n) {
    float a, b;
    k__attn_factors(decay, all, part, &a, &b);
    for (int i = 0; i < n; i++) o[i] = o[i] * a + from[i] * b;
}

/* The same for row r, whose output is a->rows[r].o. The first segment is copied. */
static void k__attn_take(const k__attn_level *lv, const k_attn_args *a, int r, bool first, k__attn_sum *all, const k__attn_sum *part,
                         const float *from) {
    if (!first) {
        lv->join(all, a->rows[r].o, part, from, a->hd_v);
        return;
    }
    *all = *part;
    memcpy(a->rows[r].o, from, (size_t)a->hd_v * sizeof *from);
}

/* Divides row r's output by the sum of weights, in place. Where a row sees one position of
 * a pair, levels add + 0 for the other or skip it: only the sign of a zero can differ, and + 0 removes that. */
static void k__attn_finish(const k_attn_args *a, int r, k__attn_sum all) {
    float      *o = a->rows[r].o;
    const float s = k__attn_share(all, a->sinks ? a->sinks + r : NULL);
    for (int i = 0; i < a->hd_v; i++) o[i] = o[i] * s + 0.0f;
}

static void k__attn_run(const k__attn_level *lv, const k_attn_args *a, void *scratch) {
    const k__attn_reach all = k__attn_reach_of(a);
    k__attn_mem         w = k__attn_carve(a, scratch);
    k__attn_start(lv, a, &w);
    const int64_t first = all.first / K_SEGMENT;
    for (int64_t s = first; s == first || s * K_SEGMENT < all.last; s++) {
        k__attn_segment(lv, a, &w, all, s);
        for (int r = 0; r < a->n_rows; r++) {
            k__attn_take(lv, a, r, s == first, &w.all[r], &w.part[r], k__attn_o(&w, r));
            if ((s + 1) * K_SEGMENT < all.last) k__attn_clear(&w, r);
        }
    }
    for (int r = 0; r < a->n_rows; r++) k__attn_finish(a, r, w.all[r]);
}

/* --- scalar level --- */

static void k_kv_store_ref(uint32_t type, const float *x, void *dst, int n) { k_types[type].quant(x, dst, n); }

/* Values rounded to bf16, as f32. */
K__BODY void k__round_row(const float *x, int n, float *y) {
    for (int i = 0; i < n; i++) y[i] = k__bf16_round(x[i]);
}

static void k__attn_widen_ref(uint32_t type, const uint8_t *src, size_t stride, int n_pos, int n, float *dst, int ld) {
    for (int i = 0; i < n_pos; i++, dst += ld) {
        k_types[type].dequant(src + (size_t)i * stride, dst, n);
        if (k__kv_rounds(type)) k__round_row(dst, n, dst);
    }
}

static void k__attn_transpose_ref(const float *k, int ld, float *kt) {
    for (int d = 0; d < ld; d++)
        for (int i = 0; i < K_TILE; i++) kt[d * K_TILE + i] = k[(size_t)i * (size_t)ld + (size_t)d];
}

static void k__attn_scores_ref(const float *const *q, int n_rows, const float *kt, int n, k__attn_ahead *ahead, float *s) {
    (void)ahead;
    for (int r = 0; r < n_rows; r++, s += K_TILE) {
        memset(s, 0, K_TILE * sizeof *s);
        for (int i = 0; i < n; i++) k__axpy(s, kt + (size_t)(i ^ 1) * K_TILE, q[r][i ^ 1], K_TILE);
    }
}

static void k__attn_round_ref(const float *q, int n, float *dst) { k__round_row(q, n, dst); }

static void k__attn_weigh_ref(const k_attn_args *a, k__attn_rows *g, float *s) {
    for (int r = 0; r < g->n; r++, s += K_TILE) {
        float top = g->m[r], lane[K_TILE];
        for (int i = 0; i < K_TILE; i++) {
            const float v = k__attn_shape(s[i] * a->scale, a->softcap, a->slopes ? &g->slope[r] : NULL, g->far[r] + i);
            s[i] = i >= g->lo[r] && i < g->hi[r] ? v : -INFINITY;
            if (s[i] > top) top = s[i];
        }
        const float base = top == -INFINITY ? 0 : top;
        g->c[r] = top == g->m[r] ? 1.0f : k__exp_ref(g->m[r] - base);
        for (int i = 0; i < K_TILE; i++) s[i] = k__exp_ref(s[i] - base);
        if (k__kv_rounds(a->type_v)) k__round_row(s, K_TILE, s);
        memcpy(lane, s, sizeof lane);
        g->l[r] = fmaf(g->l[r], g->c[r], k__lanes_ref(lane, 32));
        g->m[r] = top;
    }
}

static void k__attn_gather_ref(float *const *o, const float *c, int n_rows, const float *s, const float *v, int ld, int lo,
                               int hi, k__attn_ahead *ahead) {
    (void)ahead;
    for (int r = 0; r < n_rows; r++) {
        k__scale(o[r], c[r], ld);
        for (int t = lo & ~1, i; t <= hi; t++)
            if (k__pair_at(t, lo, hi, &i)) k__axpy(o[r], v + (size_t)i * (size_t)ld, s[r * K_TILE + i], ld);
    }
}

static void k__attn8_pack_k_ref(const k__attn8 *c, const uint8_t *const *row, int place) {
    int16_t *to = c->k + (size_t)place * (size_t)c->ld_k;
    for (int i = 0; i < 16; i++)
        for (int g = 0; g < c->ld_k / 32; g++) {
            block_q8_0 b;
            memcpy(&b, row[i] + (size_t)g * sizeof b, sizeof b);
            c->dk[g * K_SEGMENT + place + i] = k_f16_to_f32(b.d);
            for (int d = 0; d < 32; d++) to[(16 * g + k__attn8_at(d) / 2) * 32 + 2 * i + k__attn8_at(d) % 2] = b.qs[d];
        }
}

static void k__attn8_pack_v_ref(const k__attn8 *c, const uint8_t *const *row, int place) {
    for (int i = 0; i < 16; i++)
        for (int g = 0; g < c->ld_v / 32; g++) {
            block_q8_0 b;
            memcpy(&b, row[i] + (size_t)g * sizeof b, sizeof b);
            c->dv[g * K_SEGMENT + place + i] = k__attn8_scale(k_f16_to_f32(b.d));
            for (int j = 0; j < 32; j++)
                c->v[((size_t)(2 * g + j / 16) * (K_SEGMENT / 2) + (size_t)(place + i) / 2) * 32 + (size_t)(j % 16 * 2 + i % 2)] = b.qs[j];
        }
}

static void k__attn8_scores_ref(const k__attn8 *c, const k__attn8_rows *g) {
    for (int r = 0; r < g->n; r++) {
        const int16_t *q = c->q + (size_t)g->row[r] * (size_t)c->ld_k;
        for (int i = g->first; i < g->last; i++) {
            const int16_t *k = c->k + (size_t)(i / 16 * 16) * (size_t)c->ld_k + i % 16 * 2;
            float          s = 0;
            for (int b = 0; b < c->ld_k / 32; b++) {
                int32_t sum = 0;
                for (int d = 32 * b; d < 32 * b + 32; d++) sum += q[d] * k[d / 2 * 32 + d % 2];
                s = b ? fmaf((float)sum, c->dk[b * K_SEGMENT + i], s) : (float)sum * c->dk[i];
            }
            c->s[r * K_SEGMENT + i] = s;
        }
    }
}

static void k__attn8_weigh_ref(const k_attn_args *a, const k__attn8 *c, const k__attn8_rows *g, int r, int64_t base, k__attn_sum *part) {
    const int row = g->row[r], far = a->slopes ? (int)(base - a->rows[row].at) : 0;
    float    *s = c->s + r * K_SEGMENT, lane[K_TILE] = {0}, m = -INFINITY;
    for (int i = g->first; i < g->last; i++) {
        const float v = k__attn_shape(s[i] * c->dq[row], a->softcap, a->slopes ? &a->slopes[row] : NULL, far + i);
        s[i] = i >= g->lo[r] && i < g->hi[r] ? v : -INFINITY;
        m = s[i] > m ? s[i] : m;
    }
    for (int i = g->first; i < g->last; i++) {
        s[i] = k__exp_ref(s[i] - (m == -INFINITY ? 0 : m));
        lane[i % K_TILE] += s[i];
    }
    *part = (k__attn_sum){m, k__lanes_ref(lane, K_TILE)};
    for (int b = 0; b < c->ld_v / 32; b++) {
        const float *dv = c->dv + b * K_SEGMENT;
        int16_t     *w = c->w + (b * K_ATTN8_ROWS + r) * K_SEGMENT;
        float        top = 0;
        for (int i = g->first; i < g->last; i++) top = fabsf(s[i] * dv[i]) > top ? fabsf(s[i] * dv[i]) : top;
        c->step[b * K_ATTN8_ROWS + r] = k__attn8_step(top);
        for (int i = g->first; i < g->last; i++) w[i] = (int16_t)k__attn8_round(s[i] * dv[i] * k__attn8_steps(top));
    }
}

static void k__attn8_gather_ref(const k__attn8 *c, const k__attn8_rows *g, float *o) {
    for (int r = 0; r < g->n; r++)
        for (int d = 0; d < c->ld_v; d++) {
            const int16_t *w = c->w + (d / 32 * K_ATTN8_ROWS + r) * K_SEGMENT, *v = c->v + (size_t)(d / 16) * (K_SEGMENT * 16) + d % 16 * 2;
            int32_t        sum = 0;
            for (int i = g->first; i < g->last; i++) sum = (int32_t)((uint32_t)sum + (uint32_t)(w[i] * v[i / 2 * 32 + i % 2]));
            o[(size_t)g->row[r] * (size_t)c->ld_v + (size_t)d] = (float)sum * c->step[d / 32 * K_ATTN8_ROWS + r];
        }
}

static const k__attn8_level k__attn8_level_ref = {k__attn8_pack_k_ref, k__attn8_pack_v_ref, k__attn8_scores_ref, k__attn8_weigh_ref, k__attn8_gather_ref};

static void k__attn_join_ref(k__attn_sum *all, float *o, const k__attn_sum *part, const float *from, int n) {
    k__attn_join(k__exp_ref, all, o, part, from, n);
}

static k__attn_level k_attn_ref(const k_attn_args *a) {
    static const k__attn_keys   keys = {1, k__attn_widen_ref, k__attn_transpose_ref, k__attn_round_ref, k__attn_scores_ref};
    static const k__attn_values values = {1, k__attn_widen_ref, NULL, k__attn_gather_ref};
    return (k__attn_level){&keys, &values, k__attn_weigh_ref, k__attn_join_ref, k__kv_codes(a->type_k, a->type_v) ? &k__attn8_level_ref : NULL};
}

#if defined(__x86_64__)
/* Prefetches the line at *next and advances, up to `end`. */
static inline __attribute__((always_inline)) void k__fetch(const uint8_t **next, const uint8_t *end) {
    _mm_prefetch((const char *)*next, _MM_HINT_T1);
    if (*next < end) *next += 64;
}

/* --- avx2 level --- */

static K_VEC_AVX2 void k_kv_store_avx2(uint32_t type, const float *x, void *dst, int n) {
    uint8_t *out = (uint8_t *)dst;
    int      i = 0;
    for (; type == K_F16 && i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(out + 2 * (size_t)i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
    k_types[type].quant(x + i, out + 2 * (size_t)i, n - i);
}

K__V256 void k__widen_float_avx2(const uint32_t type, const uint8_t *src, int n, float *dst) {
    int i = 0, size = type == K_F32 ? 4 : 2;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(dst + i, k__load_avx2(type, src + (size_t)i * (size_t)size));
    if (i < n) k_types[type].dequant(src + (size_t)i * (size_t)size, dst + i, n - i);
}

K__V256 void k__widen_q8_0_avx2(const uint8_t *src, int n, float *dst) {
    for (int i = 0; i < n; i += 32, src += sizeof(block_q8_0)) {
        uint16_t d;
        memcpy(&d, src, 2);
        __m256 dv = _mm256_set1_ps(_cvtsh_ss(d));
        for (int h = 0; h < 4; h++) {
            __m256i q = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(src + 2 + 8 * h)));
            _mm256_storeu_ps(dst + i + 8 * h, k__rounded_avx2(_mm256_mul_ps(dv, _mm256_cvtepi32_ps(q))));
        }
    }
}

K__V256 void k__widen_q4_0_avx2(const uint8_t *src, int n, float *dst) {
    for (int i = 0; i < n; i += 32, src += sizeof(block_q4_0)) {
        uint16_t d;
        memcpy(&d, src, 2);
        __m256 dv = _mm256_set1_ps(_cvtsh_ss(d));
        for (int h = 0; h < 4; h++) {
            __m256i b = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(src + 2 + 8 * (h & 1))));
            __m256i q = h < 2 ? _mm256_and_si256(b, _mm256_set1_epi32(15)) : _mm256_srli_epi32(b, 4);
            q = _mm256_sub_epi32(q, _mm256_set1_epi32(8));
            _mm256_storeu_ps(dst + i + 8 * h, k__rounded_avx2(_mm256_mul_ps(dv, _mm256_cvtepi32_ps(q))));
        }
    }
}

static K_VEC_AVX2 void k__attn_widen_avx2(uint32_t type, const uint8_t *src, size_t stride, int n_pos, int n, float *dst,
                                          int ld) {
    for (int i = 0; i < n_pos; i++, src += stride, dst += ld) {
        if (type == K_F16) k__widen_float_avx2(K_F16, src, n, dst);
        else if (type == K_BF16) k__widen_float_avx2(K_BF16, src, n, dst);
        else if (type == K_F32) k__widen_float_avx2(K_F32, src, n, dst);
        else if (type == K_Q8_0) k__widen_q8_0_avx2(src, n, dst);
        else k__widen_q4_0_avx2(src, n, dst);
    }
}

/* Transposes 8 x 8. */
K__V256 void k__flip_avx2(__m256 *r) {
    __m256 t[8];
    for (int j = 0; j < 8; j += 2) {
        t[j] = _mm256_unpacklo_ps(r[j], r[j + 1]);
        t[j + 1] = _mm256_unpackhi_ps(r[j], r[j + 1]);
    }
    for (int j = 0; j < 8; j += 4)                                  /* r[j + c]: columns c and c + 4 of rows j .. j + 3 */
        for (int c = 0; c < 4; c++)
            r[j + c] = c & 1 ? _mm256_shuffle_ps(t[j + c / 2], t[j + c / 2 + 2], 0xee)
                             : _mm256_shuffle_ps(t[j + c / 2], t[j + c / 2 + 2], 0x44);
    for (int c = 0; c < 4; c++) {
        const __m256 a = r[c], b = r[c + 4];
        r[c] = _mm256_permute2f128_ps(a, b, 0x20);
        r[c + 4] = _mm256_permute2f128_ps(a, b, 0x31);
    }
}

static K_VEC_AVX2 void k__attn_transpose_avx2(const float *k, int ld, float *kt) {
    for (int d = 0; d < ld; d += 8)
        for (int i = 0; i < K_TILE; i += 8) {
            __m256 r[8];
            for (int j = 0; j < 8; j++) r[j] = _mm256_loadu_ps(k + (size_t)(i + j) * (size_t)ld + d);
            k__flip_avx2(r);
            for (int c = 0; c < 8; c++) _mm256_storeu_ps(kt + (size_t)(d + c) * K_TILE + i, r[c]);
        }
}

K__V256 void k__scores_avx2(const int R, const float *const *q, const float *kt, int n, k__attn_ahead *ahead, float *s) {
    const uint8_t *next = ahead->k;
    __m256         acc[3][4];
    for (int r = 0; r < R; r++)
        for (int h = 0; h < 4; h++) acc[r][h] = _mm256_setzero_ps();
    for (int i = 0; i < n; i++) {
        const int    d = i ^ 1;
        const float *kd = kt + (size_t)d * K_TILE;
        __m256       qv[3];
        k__fetch(&next, ahead->k_end);
        for (int r = 0; r < R; r++) qv[r] = _mm256_set1_ps(q[r][d]);
        for (int h = 0; h < 4; h++) {
            const __m256 kv = _mm256_loadu_ps(kd + 8 * h);
            for (int r = 0; r < R; r++) acc[r][h] = _mm256_fmadd_ps(qv[r], kv, acc[r][h]);
        }
    }
    for (int r = 0; r < R; r++)
        for (int h = 0; h < 4; h++) _mm256_storeu_ps(s + r * K_TILE + 8 * h, acc[r][h]);
    ahead->k = next;
}

static K_VEC_AVX2 void k__attn_scores_avx2(const float *const *q, int n_rows, const float *kt, int n, k__attn_ahead *ahead, float *s) {
    for (; n_rows >= 3; n_rows -= 3, q += 3, s += 3 * K_TILE) k__scores_avx2(3, q, kt, n, ahead, s);
    if (n_rows == 2) k__scores_avx2(2, q, kt, n, ahead, s);
    else if (n_rows) k__scores_avx2(1, q, kt, n, ahead, s);
}

static K_VEC_AVX2 void k__attn_round_avx2(const float *q, int n, float *dst) { k__round_row(q, n, dst); }

/* Distances of eight positions. */
K__V256 __m256 k__far_avx2(int far) {
    return _mm256_cvtepi32_ps(_mm256_abs_epi32(_mm256_add_epi32(_mm256_set1_epi32(far), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))));
}

static K_VEC_AVX2 void k__attn_weigh_avx2(const k_attn_args *a, k__attn_rows *g, float *s) {
    const __m256 low = _mm256_set1_ps(-INFINITY), cap = _mm256_set1_ps(a->softcap);
    for (int r = 0; r < g->n; r++, s += K_TILE) {
        __m256 v[4], old = _mm256_set1_ps(g->m[r]), max = old;
        for (int h = 0; h < 4; h++) {
            v[h] = _mm256_mul_ps(_mm256_loadu_ps(s + 8 * h), _mm256_set1_ps(a->scale));
            if (a->softcap != 0) v[h] = _mm256_mul_ps(cap, k__tanh_avx2(_mm256_div_ps(v[h], cap)));
            if (a->slopes) v[h] = _mm256_fnmadd_ps(_mm256_set1_ps(g->slope[r]), k__far_avx2(g->far[r] + 8 * h), v[h]);
            __m256i in = _mm256_andnot_si256(k__mask_avx2(g->lo[r] - 8 * h), k__mask_avx2(g->hi[r] - 8 * h));
            v[h] = _mm256_blendv_ps(low, v[h], _mm256_castsi256_ps(in));
            max = _mm256_max_ps(v[h], max);
        }
        const float  top = k__top_avx2(max);
        const __m256 base = _mm256_set1_ps(top == -INFINITY ? 0 : top);
        g->c[r] = top == g->m[r] ? 1 : _mm256_cvtss_f32(k__exp_avx2(_mm256_sub_ps(old, base)));
        for (int h = 0; h < 4; h++) {
            v[h] = k__exp_avx2(_mm256_sub_ps(v[h], base));
            if (k__kv_rounds(a->type_v)) v[h] = k__rounded_avx2(v[h]);
            _mm256_storeu_ps(s + 8 * h, v[h]);
        }
        g->l[r] = fmaf(g->l[r], g->c[r], k__sum_avx2(k__fold_avx2(v)));
        g->m[r] = top;
    }
}

/* D registers of o for each of R rows stay in place while the loop goes over positions. */
K__V256 void k__gather_avx2(const int R, const int D, float *const *o, int at, const float *c, const float *s, const float *v,
                            int ld, int lo, int hi, k__attn_ahead *ahead) {
    const uint8_t *next = ahead->v;
    __m256         acc[2][4];
    for (int r = 0; r < R; r++)
        for (int d = 0; d < D; d++) acc[r][d] = _mm256_mul_ps(_mm256_loadu_ps(o[r] + at + 8 * d), _mm256_set1_ps(c[r]));
    for (int t = lo & ~1, i; t <= hi; t++) {
        if (!k__pair_at(t, lo, hi, &i)) continue;
        for (int k = 0; k < 2; k++) k__fetch(&next, ahead->v_end);
        const float *vi = v + (size_t)i * (size_t)ld + at;
        __m256       vv[4];
        for (int d = 0; d < D; d++) vv[d] = _mm256_loadu_ps(vi + 8 * d);
        for (int r = 0; r < R; r++)
            for (int d = 0; d < D; d++) acc[r][d] = _mm256_fmadd_ps(_mm256_set1_ps(s[r * K_TILE + i]), vv[d], acc[r][d]);
    }
    for (int r = 0; r < R; r++)
        for (int d = 0; d < D; d++) _mm256_storeu_ps(o[r] + at + 8 * d, acc[r][d]);
    ahead->v = next;
}

static K_VEC_AVX2 void k__attn_gather_avx2(float *const *o, const float *c, int n_rows, const float *s, const float *v, int ld,
                                           int lo, int hi, k__attn_ahead *ahead) {
    int r = 0;
    for (; r + 2 <= n_rows; r += 2)
        for (int at = 0; at < ld; at += 32) k__gather_avx2(2, 4, o + r, at, c + r, s + r * K_TILE, v, ld, lo, hi, ahead);
    for (int at = 0; r < n_rows && at < ld; at += 32) k__gather_avx2(1, 4, o + r, at, c + r, s + r * K_TILE, v, ld, lo, hi, ahead);
}

static const k__attn_keys   k__attn_keys_avx2 = {1, k__attn_widen_avx2, k__attn_transpose_avx2, k__attn_round_avx2, k__attn_scores_avx2};
static const k__attn_values k__attn_values_avx2 = {1, k__attn_widen_avx2, NULL, k__attn_gather_avx2};

/* --- both caches q8_0 --- */

K__V256 __m256 k__attn8_scales_avx2(const uint8_t *const *row, int g) {
    uint16_t d[8];
    for (int i = 0; i < 8; i++) memcpy(&d[i], row[i] + (size_t)g * sizeof(block_q8_0), 2);
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)d));
}

static K_VEC_AVX2 void k__attn8_pack_k_avx2(const k__attn8 *c, const uint8_t *const *row, int place) {
    int16_t *to = c->k + (size_t)place * (size_t)c->ld_k;
    for (int g = 0; g < c->ld_k / 32; g++)
        for (int h = 0; h < 16; h += 8) {
            __m256 r[8];
            for (int j = 0; j < 8; j++) r[j] = _mm256_loadu_ps((const float *)(const void *)(row[h + j] + (size_t)g * sizeof(block_q8_0) + 2));
            k__flip_avx2(r);                                        /* four dimensions of eight positions */
            for (int j = 0; j < 8; j++) {
                const __m256i x = _mm256_castps_si256(r[j]);
                int16_t      *at = to + (8 * g + j) * 64 + 2 * h;
                _mm256_store_si256((__m256i *)at, _mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8));
                _mm256_store_si256((__m256i *)(at + 32), _mm256_srai_epi16(x, 8));
            }
            _mm256_storeu_ps(c->dk + g * K_SEGMENT + place + h, k__attn8_scales_avx2(row + h, g));
        }
}

static K_VEC_AVX2 void k__attn8_pack_v_avx2(const k__attn8 *c, const uint8_t *const *row, int place) {
    const __m256 most = _mm256_set1_ps(INFINITY), sign = _mm256_set1_ps(-0.0f), over = _mm256_set1_ps(0x1p127f);
    for (int g = 0; g < c->ld_v / 32; g++) {
        for (int h = 0; h < 16; h += 8) {
            const __m256 d = k__attn8_scales_avx2(row + h, g);
            const __m256 there = _mm256_cmp_ps(_mm256_andnot_ps(sign, d), most, _CMP_LT_OQ);
            _mm256_storeu_ps(c->dv + g * K_SEGMENT + place + h, _mm256_blendv_ps(over, d, there));
        }
        for (int h = 0; h < 2; h++) {
            int16_t *to = c->v + ((size_t)(2 * g + h) * (K_SEGMENT / 2) + (size_t)place / 2) * 32;
            for (int i = 0; i < 16; i += 2, to += 32) {
                const size_t  at = (size_t)g * sizeof(block_q8_0) + 2 + 16 * (size_t)h;
                const __m256i a = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(row[i] + at)));
                const __m256i b = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(row[i + 1] + at)));
                const __m256i x = _mm256_unpacklo_epi16(a, b), y = _mm256_unpackhi_epi16(a, b);
                _mm256_storeu_si256((__m256i *)to, _mm256_permute2x128_si256(x, y, 0x20));
                _mm256_storeu_si256((__m256i *)(to + 16), _mm256_permute2x128_si256(x, y, 0x31));
            }
        }
    }
}

/* acc[r][16] = the sums over n_pairs pairs of x[r] times y[n_pairs][16][2]. */
K__V256 void k__attn8_sums_avx2(const int R, const int16_t *const *x, const int16_t *y, int n_pairs, __m256i acc[4][2]) {
    for (int r = 0; r < R; r++) acc[r][0] = acc[r][1] = _mm256_setzero_si256();
    for (int i = 0; i < n_pairs; i++, y += 32) {
        const __m256i lo = _mm256_load_si256((const __m256i *)y), hi = _mm256_load_si256((const __m256i *)(y + 16));
        for (int r = 0; r < R; r++) {
            int32_t pair;
            memcpy(&pair, x[r] + 2 * i, 4);
            const __m256i v = _mm256_set1_epi32(pair);
            acc[r][0] = _mm256_add_epi32(acc[r][0], _mm256_madd_epi16(v, lo));
            acc[r][1] = _mm256_add_epi32(acc[r][1], _mm256_madd_epi16(v, hi));
        }
    }
}

/* R rows and 16 positions. */
K__V256 void k__attn8_scores_of_avx2(const int R, const k__attn8 *c, const int *row, int place, float *s) {
    for (int g = 0; g < c->ld_k / 32; g++) {
        const int16_t *q[4];
        __m256i        acc[4][2];
        for (int r = 0; r < R; r++) q[r] = c->q + (size_t)row[r] * (size_t)c->ld_k + 32 * g;
        k__attn8_sums_avx2(R, q, c->k + (size_t)place * (size_t)c->ld_k + 512 * g, 16, acc);
        for (int r = 0; r < R; r++)
            for (int h = 0; h < 2; h++) {
                float       *to = s + r * K_SEGMENT + place + 8 * h;
                const __m256 v = _mm256_cvtepi32_ps(acc[r][h]), d = _mm256_loadu_ps(c->dk + g * K_SEGMENT + place + 8 * h);
                _mm256_storeu_ps(to, g ? _mm256_fmadd_ps(v, d, _mm256_loadu_ps(to)) : _mm256_mul_ps(v, d));
            }
    }
}

static K_VEC_AVX2 void k__attn8_scores_avx2(const k__attn8 *c, const k__attn8_rows *g) {
    for (int p = g->first; p < g->last; p += 16) {
        int r = 0;
        for (; r + 4 <= g->n; r += 4) k__attn8_scores_of_avx2(4, c, g->row + r, p, c->s + r * K_SEGMENT);
        for (; r + 2 <= g->n; r += 2) k__attn8_scores_of_avx2(2, c, g->row + r, p, c->s + r * K_SEGMENT);
        if (r < g->n) k__attn8_scores_of_avx2(1, c, g->row + r, p, c->s + r * K_SEGMENT);
    }
}

K__V256 __m256 k__attn8_shaped_avx2(const k_attn_args *a, int row, int far, __m256 v) {
    const __m256 cap = _mm256_set1_ps(a->softcap);
    if (a->softcap != 0) v = _mm256_mul_ps(cap, k__tanh_avx2(_mm256_div_ps(v, cap)));
    if (a->slopes) v = _mm256_fnmadd_ps(_mm256_set1_ps(a->slopes[row]), k__far_avx2(far), v);
    return v;
}

/* Scores with all that makes them, -inf where the row does not look; the largest. shaped: with a cap or slopes. */
K__V256 float k__attn8_mask_avx2(const bool shaped, const k_attn_args *a, const k__attn8 *c, const k__attn8_rows *g, int r, int64_t base) {
    const int    row = g->row[r], far = shaped && a->slopes ? (int)(base - a->rows[row].at) : 0;
    const __m256 f = _mm256_set1_ps(c->dq[row]), low = _mm256_set1_ps(-INFINITY);
    __m256       m = low;
    float       *s = c->s + r * K_SEGMENT;
    for (int i = g->first; i < g->last; i += 8) {
        __m256 v = _mm256_mul_ps(_mm256_loadu_ps(s + i), f);
        if (shaped) v = k__attn8_shaped_avx2(a, row, far + i, v);
        if (i < g->lo[r] || i + 8 > g->hi[r])
            v = _mm256_blendv_ps(low, v, _mm256_castsi256_ps(_mm256_andnot_si256(k__mask_avx2(g->lo[r] - i), k__mask_avx2(g->hi[r] - i))));
        m = _mm256_max_ps(v, m);
        _mm256_storeu_ps(s + i, v);
    }
    return k__top_avx2(m);
}

/* p of the scores; their sum. */
K__V256 float k__attn8_exp_avx2(float *s, int first, int last, float m) {
    const __m256 from = _mm256_set1_ps(m == -INFINITY ? 0 : m);
    __m256       sum[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
    for (int i = first; i < last; i += K_TILE)
        for (int h = 0; h < 4; h++) {
            const __m256 p = k__exp_avx2(_mm256_sub_ps(_mm256_loadu_ps(s + i + 8 * h), from));
            _mm256_storeu_ps(s + i + 8 * h, p);
            sum[h] = _mm256_add_ps(sum[h], p);
        }
    return k__sum_avx2(k__fold_avx2(sum));
}

/* Weights of one block of V from p; returns the largest p * dv. */
K__V256 float k__attn8_round_avx2(const float *p, const float *dv, int first, int last, int16_t *w) {
    __m256 most = _mm256_setzero_ps();
    for (int i = first; i < last; i += 8)
        most = _mm256_max_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), _mm256_mul_ps(_mm256_loadu_ps(p + i), _mm256_loadu_ps(dv + i))), most);
    const float  top = k__top_avx2(most);
    const __m256 f = _mm256_set1_ps(k__attn8_steps(top));
    for (int i = first; i < last; i += 16) {
        __m256i x[2];
        for (int h = 0; h < 2; h++)
            x[h] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_mul_ps(_mm256_loadu_ps(p + i + 8 * h), _mm256_loadu_ps(dv + i + 8 * h)), f));
        _mm256_storeu_si256((__m256i *)(w + i), _mm256_permute4x64_epi64(_mm256_packs_epi32(x[0], x[1]), 0xd8));
    }
    return top;
}

static K_VEC_AVX2 void k__attn8_weigh_avx2(const k_attn_args *a, const k__attn8 *c, const k__attn8_rows *g, int r, int64_t base,
                                           k__attn_sum *part) {
    float      *s = c->s + r * K_SEGMENT;
    const float m = a->softcap != 0 || a->slopes ? k__attn8_mask_avx2(true, a, c, g, r, base) : k__attn8_mask_avx2(false, a, c, g, r, base);
    *part = (k__attn_sum){m, k__attn8_exp_avx2(s, g->first, g->last, m)};
    for (int b = 0; b < c->ld_v / 32; b++)
        c->step[b * K_ATTN8_ROWS + r] =
            k__attn8_step(k__attn8_round_avx2(s, c->dv + b * K_SEGMENT, g->first, g->last, c->w + (b * K_ATTN8_ROWS + r) * K_SEGMENT));
}

/* R rows and 16 dimensions. */
K__V256 void k__attn8_gather_of_avx2(const int R, const k__attn8 *c, const k__attn8_rows *g, int from, int b, float *o) {
    const int16_t *w[4];
    __m256i        acc[4][2];
    for (int r = 0; r < R; r++) w[r] = c->w + (b / 2 * K_ATTN8_ROWS + from + r) * K_SEGMENT + g->first;
    k__attn8_sums_avx2(R, w, c->v + ((size_t)b * (K_SEGMENT / 2) + (size_t)g->first / 2) * 32, (g->last - g->first) / 2, acc);
    for (int r = 0; r < R; r++) {
        const __m256 step = _mm256_set1_ps(c->step[b / 2 * K_ATTN8_ROWS + from + r]);
        for (int h = 0; h < 2; h++)
            _mm256_storeu_ps(o + (size_t)g->row[from + r] * (size_t)c->ld_v + 16 * b + 8 * h, _mm256_mul_ps(_mm256_cvtepi32_ps(acc[r][h]), step));
    }
}

static K_VEC_AVX2 void k__attn8_gather_avx2(const k__attn8 *c, const k__attn8_rows *g, float *o) {
    for (int b = 0; b < c->ld_v / 16; b++) {
        int r = 0;
        for (; r + 4 <= g->n; r += 4) k__attn8_gather_of_avx2(4, c, g, r, b, o);
        for (; r + 2 <= g->n; r += 2) k__attn8_gather_of_avx2(2, c, g, r, b, o);
        if (r < g->n) k__attn8_gather_of_avx2(1, c, g, r, b, o);
    }
}

static const k__attn8_level k__attn8_level_avx2 = {k__attn8_pack_k_avx2, k__attn8_pack_v_avx2, k__attn8_scores_avx2, k__attn8_weigh_avx2,
                                             k__attn8_gather_avx2};

static K_VEC_AVX2 float k__attn_decay_avx2(float x) { return _mm256_cvtss_f32(k__exp_avx2(_mm256_set1_ps(x))); }

static K_VEC_AVX2 void k__attn_join_avx2(k__attn_sum *all, float *o, const k__attn_sum *part, const float *from, int n) {
    k__attn_join(k__attn_decay_avx2, all, o, part, from, n);
}

static k__attn_level k_attn_avx2(const k_attn_args *a) {
    return (k__attn_level){&k__attn_keys_avx2, &k__attn_values_avx2, k__attn_weigh_avx2, k__attn_join_avx2,
                           k__kv_codes(a->type_k, a->type_v) ? &k__attn8_level_avx2 : NULL};
}

/* --- avx512 level --- */

static K_VEC_AVX512 void k_kv_store_avx512(uint32_t type, const float *x, void *dst, int n) {
    uint8_t *out = (uint8_t *)dst;
    if (type == K_BF16) {
        k__quant_bf16(x, dst, n);
        return;
    }
    if (type != K_F16) {
        k_types[type].quant(x, dst, n);
        return;
    }
    for (int i = 0; i < n; i += 16) {
        __mmask16 m = k__mask_avx512(n - i);
        _mm256_mask_storeu_epi16(out + 2 * (size_t)i, m,
                                 _mm512_cvtps_ph(_mm512_maskz_loadu_ps(m, x + i), _MM_FROUND_TO_NEAREST_INT));
    }
}

K__V512 void k__widen_float_avx512(const uint32_t type, const uint8_t *src, size_t stride, int n_pos, int n, float *dst, int ld) {
    const size_t    size = type == K_F32 ? 4 : 2;
    const __mmask16 m = k__mask_avx512(n & 15);
    for (; n_pos > 0; n_pos--, src += stride, dst += ld) {
        int i = 0;
        for (; i + 64 <= n; i += 64)
            for (int h = 0; h < 64; h += 16)
                _mm512_storeu_ps(dst + i + h, k__load_avx512(type, src + (size_t)(i + h) * size, true, 0xffff));
        for (; i + 16 <= n; i += 16) _mm512_storeu_ps(dst + i, k__load_avx512(type, src + (size_t)i * size, true, 0xffff));
        if (m) _mm512_mask_storeu_ps(dst + i, m, k__load_avx512(type, src + (size_t)i * size, false, m));
    }
}

/* The 32 values of a block, not rounded. */
K__V512 void k__kv_q8_0_avx512(const uint8_t *src, __m512 *v) {
    uint16_t d;
    memcpy(&d, src, 2);
    for (int h = 0; h < 2; h++) {
        const __m512i q = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(src + 2 + 16 * h)));
        v[h] = _mm512_mul_ps(_mm512_set1_ps(_cvtsh_ss(d)), _mm512_cvtepi32_ps(q));
    }
}

K__V512 void k__kv_q4_0_avx512(const uint8_t *src, __m512 *v) {
    uint16_t d;
    memcpy(&d, src, 2);
    const __m512i b = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(src + 2)));
    for (int h = 0; h < 2; h++) {
        const __m512i q = h ? _mm512_srli_epi32(b, 4) : _mm512_and_si512(b, _mm512_set1_epi32(15));
        v[h] = _mm512_mul_ps(_mm512_set1_ps(_cvtsh_ss(d)), _mm512_cvtepi32_ps(_mm512_sub_epi32(q, _mm512_set1_epi32(8))));
    }
}
K__V512 const uint8_t *k__kv_values_avx512(const uint32_t type, const uint8_t *src, __m512 *v) {
    if (type == K_Q8_0) k__kv_q8_0_avx512(src, v);
    else k__kv_q4_0_avx512(src, v);
    return src + (type == K_Q8_0 ? sizeof(block_q8_0) : sizeof(block_q4_0));
}

K__V512 void k__widen_blocks_avx512(const uint32_t type, const uint8_t *src, int n, float *dst) {
    __m512 v[2];
    for (int i = 0; i < n; i += 32) {
        src = k__kv_values_avx512(type, src, v);
        for (int h = 0; h < 2; h++) _mm512_storeu_ps(dst + i + 16 * h, k__rounded_avx512(v[h]));
    }
}

static K_VEC_AVX512 void k__attn_widen_avx512(uint32_t type, const uint8_t *src, size_t stride, int n_pos, int n, float *dst,
                                              int ld) {
    if (type == K_F16) k__widen_float_avx512(K_F16, src, stride, n_pos, n, dst, ld);
    else if (type == K_BF16) k__widen_float_avx512(K_BF16, src, stride, n_pos, n, dst, ld);
    else if (type == K_F32) k__widen_float_avx512(K_F32, src, stride, n_pos, n, dst, ld);
    else
        for (int i = 0; i < n_pos; i++, src += stride, dst += ld) {
            if (type == K_Q8_0) k__widen_blocks_avx512(K_Q8_0, src, n, dst);
            else k__widen_blocks_avx512(K_Q4_0, src, n, dst);
        }
}

/* Blocks of 16 x 16: 4 x 4 inside 128 bits, then the 128 bits. */
static K_VEC_AVX512 void k__attn_transpose_avx512(const float *k, int ld, float *kt) {
    for (int d = 0; d < ld; d += 16)
        for (int i = 0; i < K_TILE; i += 16) {
            __m512 r[16], t[16];
            for (int j = 0; j < 16; j++) r[j] = _mm512_loadu_ps(k + (size_t)(i + j) * (size_t)ld + d);
            for (int j = 0; j < 16; j += 2) {
                t[j] = _mm512_unpacklo_ps(r[j], r[j + 1]);
                t[j + 1] = _mm512_unpackhi_ps(r[j], r[j + 1]);
            }
            for (int j = 0; j < 16; j += 4)                         /* r[j + c]: columns c, c + 4, .. of rows j .. j + 3 */
                for (int c = 0; c < 4; c++)
                    r[j + c] = c & 1 ? _mm512_shuffle_ps(t[j + c / 2], t[j + c / 2 + 2], 0xee)
                                     : _mm512_shuffle_ps(t[j + c / 2], t[j + c / 2 + 2], 0x44);
            for (int c = 0; c < 4; c++) {
                const __m512 even[2] = {_mm512_shuffle_f32x4(r[c], r[c + 4], 0x88), _mm512_shuffle_f32x4(r[c + 8], r[c + 12], 0x88)};
                const __m512 odd[2] = {_mm512_shuffle_f32x4(r[c], r[c + 4], 0xdd), _mm512_shuffle_f32x4(r[c + 8], r[c + 12], 0xdd)};
                float       *to = kt + (size_t)(d + c) * K_TILE + i;
                _mm512_storeu_ps(to, _mm512_shuffle_f32x4(even[0], even[1], 0x88));
                _mm512_storeu_ps(to + 4 * K_TILE, _mm512_shuffle_f32x4(odd[0], odd[1], 0x88));
                _mm512_storeu_ps(to + 8 * K_TILE, _mm512_shuffle_f32x4(even[0], even[1], 0xdd));
                _mm512_storeu_ps(to + 12 * K_TILE, _mm512_shuffle_f32x4(odd[0], odd[1], 0xdd));
            }
        }
}

/* Splits the rows of a group into eights, fours, twos and ones; at most fours for the sums of values, which need more registers. */
#define K__SCORES_BY_ROWS(fn)                                                           \
    for (; n_rows >= 8; n_rows -= 8, q += 8, s += 8 * K_TILE) fn(8, q, kt, n, ahead, s); \
    for (; n_rows >= 4; n_rows -= 4, q += 4, s += 4 * K_TILE) fn(4, q, kt, n, ahead, s); \
    for (; n_rows >= 2; n_rows -= 2, q += 2, s += 2 * K_TILE) fn(2, q, kt, n, ahead, s); \
    if (n_rows) fn(1, q, kt, n, ahead, s);
#define K__GATHER_BY_ROWS(fn)                                                                 \
    int r = 0;                                                                                \
    for (; r + 4 <= n_rows; r += 4) fn(4, o + r, c + r, s + r * K_TILE, v, ld, lo, hi, ahead); \
    for (; r + 2 <= n_rows; r += 2) fn(2, o + r, c + r, s + r * K_TILE, v, ld, lo, hi, ahead); \
    for (; r < n_rows; r++) fn(1, o + r, c + r, s + r * K_TILE, v, ld, lo, hi, ahead);

K__V512 void k__scores_avx512(const int R, const float *const *q, const float *kt, int n, k__attn_ahead *ahead, float *s) {
    const uint8_t *next = ahead->k;
    __m512         acc[K_ATTN_GROUP][2];
    for (int r = 0; r < R; r++) acc[r][0] = acc[r][1] = _mm512_setzero_ps();
    for (int i = 0; i < n; i++) {
        const int    d = i ^ 1;
        const __m512 lo = _mm512_loadu_ps(kt + (size_t)d * K_TILE), hi = _mm512_loadu_ps(kt + (size_t)d * K_TILE + 16);
        k__fetch(&next, ahead->k_end);
        for (int r = 0; r < R; r++) {
            const __m512 qv = _mm512_set1_ps(q[r][d]);
            acc[r][0] = _mm512_fmadd_ps(qv, lo, acc[r][0]);
            acc[r][1] = _mm512_fmadd_ps(qv, hi, acc[r][1]);
        }
    }
    for (int r = 0; r < R; r++)
        for (int h = 0; h < 2; h++) _mm512_storeu_ps(s + r * K_TILE + 16 * h, acc[r][h]);
    ahead->k = next;
}

static K_VEC_AVX512 void k__attn_scores_avx512(const float *const *q, int n_rows, const float *kt, int n, k__attn_ahead *ahead, float *s) {
    K__SCORES_BY_ROWS(k__scores_avx512)
}

static K_VEC_AVX512 void k__attn_round_avx512(const float *q, int n, float *dst) { k__round_row(q, n, dst); }

/* Reduces the four lanes of each of four rows: lane r of v[0] is the result of row r, in the order of k__sum_avx512. */
#define K__ACROSS_FOUR(op, v)                                                                        \
    do {                                                                                             \
        const __m128 ab = op(_mm_unpacklo_ps(v[0], v[1]), _mm_unpackhi_ps(v[0], v[1]));              \
        const __m128 cd = op(_mm_unpacklo_ps(v[2], v[3]), _mm_unpackhi_ps(v[2], v[3]));              \
        v[0] = op(_mm_movelh_ps(ab, cd), _mm_movehl_ps(cd, ab));                                     \
    } while (0)

K__V512 __m128 k__max4_avx512(__m512 v) {
    const __m256 h = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    return _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
}

/* Scores with their cap and slope; h: which 16 positions of the tile. */
K__V512 __m512 k__shape_avx512(const k_attn_args *a, const k__attn_rows *g, int r, int h, __m512 s) {
    const __m512  cap = _mm512_set1_ps(a->softcap);
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    if (a->softcap != 0) s = _mm512_mul_ps(cap, k__tanh_avx512(_mm512_div_ps(s, cap)));
    if (!a->slopes) return s;
    const __m512i far = _mm512_abs_epi32(_mm512_add_epi32(_mm512_set1_epi32(g->far[r] + 16 * h), lane));
    return _mm512_fnmadd_ps(_mm512_set1_ps(g->slope[r]), _mm512_cvtepi32_ps(far), s);
}

/* Four rows at a time: a lane holds the m, l and c of a row. shaped: with a cap or slopes. */
K__V512 void k__weigh_avx512(const bool shaped, const bool round, const k_attn_args *a, k__attn_rows *g, float *s) {
    const __m512 scale = _mm512_set1_ps(a->scale), low = _mm512_set1_ps(-INFINITY);
    for (int at = 0; at < g->n; at += 4, s += 4 * K_TILE) {
        const __m128 old = _mm_loadu_ps(g->m + at);
        __m512       v[4][2];
        __m128       f[4];
        float        base[4];
        for (int r = 0; r < 4; r++) {
            const uint64_t in = ((uint64_t)1 << g->hi[at + r]) - ((uint64_t)1 << g->lo[at + r]);
            const __m512   m = _mm512_set1_ps(g->m[at + r]);
            for (int h = 0; h < 2; h++) {
                v[r][h] = _mm512_mul_ps(_mm512_loadu_ps(s + r * K_TILE + 16 * h), scale);
                if (shaped) v[r][h] = k__shape_avx512(a, g, at + r, h, v[r][h]);
                v[r][h] = _mm512_mask_mov_ps(low, (__mmask16)(in >> (16 * h)), v[r][h]);
            }
            f[r] = k__max4_avx512(_mm512_max_ps(_mm512_max_ps(v[r][0], m), _mm512_max_ps(v[r][1], m)));
        }
        K__ACROSS_FOUR(_mm_max_ps, f);
        const __m128   top = f[0], from = _mm_maskz_mov_ps(_mm_cmp_ps_mask(top, _mm_set1_ps(-INFINITY), _CMP_NEQ_UQ), top);
        const __mmask8 same = _mm_cmp_ps_mask(top, old, _CMP_EQ_OQ);
        __m128         c = _mm512_castps512_ps128(k__decay_avx512(_mm512_castps128_ps512(_mm_sub_ps(old, from))));
        c = _mm_mask_mov_ps(c, same, _mm_set1_ps(1));
        _mm_storeu_ps(base, from);
        for (int r = 0; r < 4; r++) {
            for (int h = 0; h < 2; h++) {
                v[r][h] = k__decay_avx512(_mm512_sub_ps(v[r][h], _mm512_set1_ps(base[r])));
                if (round) v[r][h] = k__rounded_avx512(v[r][h]);
                _mm512_storeu_ps(s + r * K_TILE + 16 * h, v[r][h]);
            }
            f[r] = k__add4_avx512(_mm512_add_ps(v[r][0], v[r][1]));
        }
        K__ACROSS_FOUR(_mm_add_ps, f);
        _mm_storeu_ps(g->l + at, _mm_fmadd_ps(_mm_loadu_ps(g->l + at), c, f[0]));
        _mm_storeu_ps(g->c + at, c);
        _mm_storeu_ps(g->m + at, top);
    }
}

static K_VEC_AVX512 void k__attn_weigh_avx512(const k_attn_args *a, k__attn_rows *g, float *s) {
    if (a->softcap != 0 || a->slopes) k__weigh_avx512(true, k__kv_rounds(a->type_v), a, g, s);
    else if (k__kv_rounds(a->type_v)) k__weigh_avx512(false, true, a, g, s);
    else k__weigh_avx512(false, false, a, g, s);
}

/* D registers of o for each of R rows stay in place while the loop goes over positions. */
K__V512 void k__gather_avx512(const int R, const int D, float *const *o, int at, const float *c, const float *s, const float *v,
                              int ld, int lo, int hi, k__attn_ahead *ahead) {
    const uint8_t *next = ahead->v;
    __m512         acc[4][4];
    for (int r = 0; r < R; r++)
        for (int d = 0; d < D; d++) acc[r][d] = _mm512_mul_ps(_mm512_loadu_ps(o[r] + at + 16 * d), _mm512_set1_ps(c[r]));
    for (int t = lo & ~1, i; t <= hi; t++) {
        if (!k__pair_at(t, lo, hi, &i)) continue;
        for (int k = 0; k < 2; k++) k__fetch(&next, ahead->v_end);
        const float *vi = v + (size_t)i * (size_t)ld + at;
        __m512       vv[4];
        for (int d = 0; d < D; d++) vv[d] = _mm512_loadu_ps(vi + 16 * d);
        for (int r = 0; r < R; r++)
            for (int d = 0; d < D; d++) acc[r][d] = _mm512_fmadd_ps(_mm512_set1_ps(s[r * K_TILE + i]), vv[d], acc[r][d]);
    }
    for (int r = 0; r < R; r++)
        for (int d = 0; d < D; d++) _mm512_storeu_ps(o[r] + at + 16 * d, acc[r][d]);
    ahead->v = next;
}

K__V512 void k__gather_rows_avx512(const int R, float *const *o, const float *c, const float *s, const float *v, int ld, int lo,
                                   int hi, k__attn_ahead *ahead) {
    int at = 0;
    for (; at + 64 <= ld; at += 64) k__gather_avx512(R, 4, o, at, c, s, v, ld, lo, hi, ahead);
    for (; at < ld; at += 32) k__gather_avx512(R, 2, o, at, c, s, v, ld, lo, hi, ahead);
}

static K_VEC_AVX512 void k__attn_gather_avx512(float *const *o, const float *c, int n_rows, const float *s, const float *v,
                                               int ld, int lo, int hi, k__attn_ahead *ahead) {
    K__GATHER_BY_ROWS(k__gather_rows_avx512)
}

static const k__attn_keys   k__attn_keys_avx512 = {1, k__attn_widen_avx512, k__attn_transpose_avx512, k__attn_round_avx512, k__attn_scores_avx512};
static const k__attn_values k__attn_values_avx512 = {1, k__attn_widen_avx512, NULL, k__attn_gather_avx512};

/* --- both caches q8_0: the rest is the avx2 level's --- */

#define K_VEC_VNNI __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")))
#define K__VVNNI static inline __attribute__((always_inline)) K_VEC_VNNI

/* acc[r] = the 16 sums over n_pairs pairs of x[r] times y[n_pairs][16][2]. */
K__VVNNI void k__attn8_sums_avx512(const int R, const int16_t *const *x, const int16_t *y, int n_pairs, __m512i acc[K_ATTN8_ROWS]) {
    for (int r = 0; r < R; r++) acc[r] = _mm512_setzero_si512();
    for (int i = 0; i < n_pairs; i++, y += 32) {
        const __m512i v = _mm512_loadu_si512(y);
        for (int r = 0; r < R; r++) {
            int32_t pair;
            memcpy(&pair, x[r] + 2 * i, 4);
            acc[r] = _mm512_dpwssd_epi32(acc[r], v, _mm512_set1_epi32(pair));
        }
    }
}

/* R rows and 16 positions. */
K__VVNNI void k__attn8_scores_of_avx512(const int R, const k__attn8 *c, const int *row, int place, float *s) {
    for (int g = 0; g < c->ld_k / 32; g++) {
        const __m512   d = _mm512_loadu_ps(c->dk + g * K_SEGMENT + place);
        const int16_t *q[K_ATTN8_ROWS];
        __m512i        acc[K_ATTN8_ROWS];
        for (int r = 0; r < R; r++) q[r] = c->q + (size_t)row[r] * (size_t)c->ld_k + 32 * g;
        k__attn8_sums_avx512(R, q, c->k + (size_t)place * (size_t)c->ld_k + 512 * g, 16, acc);
        for (int r = 0; r < R; r++) {
            float       *to = s + r * K_SEGMENT + place;
            const __m512 v = _mm512_cvtepi32_ps(acc[r]);
            _mm512_storeu_ps(to, g ? _mm512_fmadd_ps(v, d, _mm512_loadu_ps(to)) : _mm512_mul_ps(v, d));
        }
    }
}

static K_VEC_VNNI void k__attn8_scores_avx512(const k__attn8 *c, const k__attn8_rows *g) {
    for (int p = g->first; p < g->last; p += 16) {
        int r = 0;
        for (; r + 8 <= g->n; r += 8) k__attn8_scores_of_avx512(8, c, g->row + r, p, c->s + r * K_SEGMENT);
        for (; r + 4 <= g->n; r += 4) k__attn8_scores_of_avx512(4, c, g->row + r, p, c->s + r * K_SEGMENT);
        for (; r < g->n; r++) k__attn8_scores_of_avx512(1, c, g->row + r, p, c->s + r * K_SEGMENT);
    }
}

/* R rows and 16 dimensions. */
K__VVNNI void k__attn8_gather_of_avx512(const int R, const k__attn8 *c, const k__attn8_rows *g, int from, int b, float *o) {
    const int16_t *w[K_ATTN8_ROWS];
    __m512i        acc[K_ATTN8_ROWS];
    for (int r = 0; r < R; r++) w[r] = c->w + (b / 2 * K_ATTN8_ROWS + from + r) * K_SEGMENT + g->first;
    k__attn8_sums_avx512(R, w, c->v + ((size_t)b * (K_SEGMENT / 2) + (size_t)g->first / 2) * 32, (g->last - g->first) / 2, acc);
    for (int r = 0; r < R; r++)
        _mm512_storeu_ps(o + (size_t)g->row[from + r] * (size_t)c->ld_v + 16 * b,
                         _mm512_mul_ps(_mm512_cvtepi32_ps(acc[r]), _mm512_set1_ps(c->step[b / 2 * K_ATTN8_ROWS + from + r])));
}

static K_VEC_VNNI void k__attn8_gather_avx512(const k__attn8 *c, const k__attn8_rows *g, float *o) {
    for (int b = 0; b < c->ld_v / 16; b++) {
        int r = 0;
        for (; r + 8 <= g->n; r += 8) k__attn8_gather_of_avx512(8, c, g, r, b, o);
        for (; r + 4 <= g->n; r += 4) k__attn8_gather_of_avx512(4, c, g, r, b, o);
        for (; r < g->n; r++) k__attn8_gather_of_avx512(1, c, g, r, b, o);
    }
}

static const k__attn8_level k__attn8_level_avx512 = {k__attn8_pack_k_avx2, k__attn8_pack_v_avx2, k__attn8_scores_avx512, k__attn8_weigh_avx2,
                                                     k__attn8_gather_avx512};

static K_VEC_AVX512 float k__attn_decay_avx512(float x) { return _mm512_cvtss_f32(k__decay_avx512(_mm512_set1_ps(x))); }

static K_VEC_AVX512 void k__attn_join_avx512(k__attn_sum *all, float *o, const k__attn_sum *part, const float *from, int n) {
    k__attn_join(k__attn_decay_avx512, all, o, part, from, n);
}

static k__attn_level k_attn_avx512(const k_attn_args *a) {
    return (k__attn_level){&k__attn_keys_avx512, &k__attn_values_avx512, k__attn_weigh_avx512, k__attn_join_avx512,
                           k__kv_codes(a->type_k, a->type_v) ? &k__attn8_level_avx512 : NULL};
}

/* --- avx512_bf16 level: caches that are multiplied as bf16, tiles as pairs --- */

K__VBF16 void k__round_blocks_bf16(const uint32_t type, const uint8_t *src, int n, float *dst) {
    __m512 v[2];
    for (int i = 0; i < n; i += 32) {
        src = k__kv_values_avx512(type, src, v);
        _mm512_storeu_si512(dst + i / 2, (__m512i)_mm512_cvtne2ps_pbh(v[1], v[0]));
    }
}

static K_VEC_BF16 void k__attn_widen_bf16(uint32_t type, const uint8_t *src, size_t stride, int n_pos, int n, float *dst, int ld) {
    for (int i = 0; i < n_pos; i++, src += stride, dst += ld) {
        if (type == K_BF16) memcpy(dst, src, 2 * (size_t)n);
        else if (type == K_Q8_0) k__round_blocks_bf16(K_Q8_0, src, n, dst);
        else k__round_blocks_bf16(K_Q4_0, src, n, dst);
    }
}

static K_VEC_BF16 void k__attn_round_bf16(const float *q, int n, float *dst) { k_kv_store_avx512(K_BF16, q, dst, n); }

K__VBF16 void k__scores_bf16(const int R, const float *const *q, const float *kt, int n, k__attn_ahead *ahead, float *s) {
    const uint8_t *next = ahead->k;
    __m512         acc[K_ATTN_GROUP][2];
    for (int r = 0; r < R; r++) acc[r][0] = acc[r][1] = _mm512_setzero_ps();
    for (int d = 0; d < n; d++, kt += K_TILE) {
        const __m512i lo = _mm512_loadu_si512(kt), hi = _mm512_loadu_si512(kt + 16);
        for (int i = 0; i < 2; i++) k__fetch(&next, ahead->k_end);
        for (int r = 0; r < R; r++) {
            const __m512i qv = _mm512_castps_si512(_mm512_set1_ps(q[r][d]));
            acc[r][0] = k__dots_add(acc[r][0], lo, qv);
            acc[r][1] = k__dots_add(acc[r][1], hi, qv);
        }
    }
    for (int r = 0; r < R; r++)
        for (int h = 0; h < 2; h++) _mm512_storeu_ps(s + r * K_TILE + 16 * h, acc[r][h]);
    ahead->k = next;
}

static K_VEC_BF16 void k__attn_scores_bf16(const float *const *q, int n_rows, const float *kt, int n, k__attn_ahead *ahead, float *s) {
    K__SCORES_BY_ROWS(k__scores_bf16)
}

/* Lane l holds value l of the even position in its low half, of the odd position in its high half. */
static K_VEC_BF16 void k__attn_pair_bf16(const float *v, int ld, float *pairs) {
    for (int i = 0; i < K_TILE / 2; i++, v += ld, pairs += ld)      /* two rows of ld values are ld floats */
        for (int d = 0; d < ld; d += 16) {
            const __m512i even = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(v + d / 2)));
            const __m512i odd = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(v + (ld + d) / 2)));
            _mm512_storeu_si512(pairs + d, _mm512_or_si512(even, _mm512_slli_epi32(odd, 16)));
        }
}

/* D registers of o for each of R rows stay in place while the loop goes over pairs; p: 16 pairs for each row. The first and the last
 * pair of the span may have a position outside it, which is masked. */
K__VBF16 void k__gather_bf16(const int R, const int D, float *const *o, int at, const float *c, const uint32_t *p, const float *v, int ld,
                             int lo, int hi, k__attn_ahead *ahead) {
    const uint8_t *next = ahead->v;
    __m512         acc[4][4];
    for (int r = 0; r < R; r++)
        for (int d = 0; d < D; d++) acc[r][d] = _mm512_mul_ps(_mm512_loadu_ps(o[r] + at + 16 * d), _mm512_set1_ps(c[r]));
    for (int i = lo / 2; i < (hi + 1) / 2; i++) {
        for (int k = 0; k < 4; k++) k__fetch(&next, ahead->v_end);
        const float   *vi = v + (size_t)i * (size_t)ld + at;
        const uint32_t in = (2 * i < lo ? 0 : 0xffff) | (2 * i + 1 < hi ? 0xffff0000u : 0);
        __m512i        vv[4];
        for (int d = 0; d < D; d++) vv[d] = _mm512_and_si512(_mm512_loadu_si512(vi + 16 * d), _mm512_set1_epi32((int)in));
        for (int r = 0; r < R; r++)
            for (int d = 0; d < D; d++) acc[r][d] = k__dots_add(acc[r][d], vv[d], _mm512_set1_epi32((int)p[16 * r + i]));
    }
    for (int r = 0; r < R; r++)
        for (int d = 0; d < D; d++) _mm512_storeu_ps(o[r] + at + 16 * d, acc[r][d]);
    ahead->v = next;
}

K__VBF16 void k__gather_rows_bf16(const int R, float *const *o, const float *c, const float *s, const float *v, int ld, int lo, int hi,
                                  k__attn_ahead *ahead) {
    uint32_t p[16 * 4];
    for (int r = 0; r < R; r++, s += K_TILE)
        _mm512_storeu_si512(p + 16 * r, (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(s + 16), _mm512_loadu_ps(s)));
    int at = 0;
    for (; at + 64 <= ld; at += 64) k__gather_bf16(R, 4, o, at, c, p, v, ld, lo, hi, ahead);
    for (; at < ld; at += 32) k__gather_bf16(R, 2, o, at, c, p, v, ld, lo, hi, ahead);
}

static K_VEC_BF16 void k__attn_gather_bf16(float *const *o, const float *c, int n_rows, const float *s, const float *v, int ld, int lo,
                                           int hi, k__attn_ahead *ahead) {
    K__GATHER_BY_ROWS(k__gather_rows_bf16)
}

static k__attn_level k_attn_bf16(const k_attn_args *a) {
    static const k__attn_keys   keys = {2, k__attn_widen_bf16, k__attn_transpose_avx512, k__attn_round_bf16, k__attn_scores_bf16};
    static const k__attn_values values = {2, k__attn_widen_bf16, k__attn_pair_bf16, k__attn_gather_bf16};
    k__attn_level lv = k_attn_avx512(a);
    if (k__kv_rounds(a->type_k)) lv.keys = &keys;
    if (k__kv_rounds(a->type_v)) lv.values = &values;
    return lv;
}
#endif

/* ===== [cpu] what this machine can run =====
 * The only place that reads features from the processor and the system (cpuid, xgetbv); other code uses levels. */

#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum { K_CPU_AVX2 = 1, K_CPU_FMA = 2, K_CPU_F16C = 4, K_CPU_AVX512 = 8 /* F BW DQ VL */, K_CPU_VNNI = 16, K_CPU_AVX_VNNI = 32,
       K_CPU_BF16 = 64 /* AVX512_BF16, in our summation order */ };

/* Features that the processor has and whose registers the system saves across task switches. */
static unsigned k__cpu_probe(void) {
    unsigned have = 0;
#if defined(__x86_64__)
    unsigned a, b, c, d, lo, hi;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return 0;
    unsigned c1 = c;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    bool ymm = (lo & 0x06) == 0x06;                   /* XCR0: xmm and ymm registers */
    bool zmm = (lo & 0xe6) == 0xe6;                   /* and masks and both parts of zmm */
    if (!ymm || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    if (b & bit_AVX2) have |= K_CPU_AVX2;
    if (c1 & bit_FMA) have |= K_CPU_FMA;
    if (c1 & bit_F16C) have |= K_CPU_F16C;
    unsigned all = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    if (zmm && (b & all) == all) have |= K_CPU_AVX512;
    if (zmm && (c & bit_AVX512VNNI)) have |= K_CPU_VNNI;
    if (!__get_cpuid_count(7, 1, &a, &b, &c, &d)) return have;
    if (a & 1 << 4) have |= K_CPU_AVX_VNNI;
    if (have & K_CPU_AVX512 && a & 1 << 5 && k__dots_in_order()) have |= K_CPU_BF16;
#endif
    return have;
}

/* ===== [quant] quantised products, scalar =====
 * The plain form of the products. Integers are summed exactly inside a block of 256 weights; the float terms of blocks are added in
 * one fixed order. Every other level must give the same bits. */

/* Codes q, their sums and the scale of one block of n activations, n % 32 == 0, n <= 256. A NaN makes the scale NaN, an infinity
 * makes it infinite; their codes are 0, so the result shows the fault without undefined behaviour. Returns the sum of the
 * magnitudes of the codes. */
static int k_quant_act_ref(const float *x, int n, int8_t *q, k_sums *sum, float *d) {
    float amax = 0;
    bool  nan = false;
    int   all = 0;
    for (int i = 0; i < n; i++) {
        float m = fabsf(x[i]);
        if (m > amax) amax = m;
        if (m != m) nan = true;
    }
    const float inv = k__act_inverse(amax);
    *d = k__act_scale(amax, nan);
    for (int i = 0; i < n; i++) {
        q[i] = k__act_code(x[i], inv);
        all += q[i] < 0 ? -q[i] : q[i];
    }
    memset(sum, 0, sizeof *sum);
    for (int i = 0; i < n; i++) sum->of16[i / 16] = (int16_t)(sum->of16[i / 16] + q[i]);
    for (int i = 0; i < 8; i++) {
        const int g = k__sums_at(i);
        sum->of32[i] = (int16_t)(sum->of16[2 * g] + sum->of16[2 * g + 1]);
    }
    for (int i = 0; i < n; i += 32) {
        int one[2] = {0, 0}, each[2] = {0, 0};        /* sums of each sign; of magnitudes, of each 16 */
        for (int k = 0; k < 32; k++) {
            const int size = q[i + k] < 0 ? -q[i + k] : q[i + k];
            one[q[i + k] < 0] += size;
            each[k / 16] += size;
        }
        for (int h = 0; h < 2; h++) {
            if (one[h] > sum->most32) sum->most32 = (int16_t)one[h];
            if (each[h] > sum->most16) sum->most16 = (int16_t)each[h];
        }
    }
    return all;
}

K__SHARED void k__unpack_block(uint32_t type, const void *src, int n, k__unpacked *u);
#if K__PART(3)
K__SHARED void k__unpack_block(uint32_t type, const void *src, int n, k__unpacked *u) {
    k_urow row = {.q = u->q, .sc = u->sc, .mn = u->mn, .d = &u->d, .dm = &u->dm, .fs = u->fs, .fm = u->fm};
    k_types[type].unpack(src, n, &row);
}
#endif

static int k__row_of(const k_acts *a, int t) { return a->idx ? a->idx[t] : t; }

static int k__dot_ref(const int8_t *w, const int8_t *x, int n) {
    int s = 0;
    for (int i = 0; i < n; i++) s += w[i] * x[i];
    return s;
}

static float k__int_block_ref(const k__unpacked *u, bool has_min, const int8_t *q, const int16_t *sum) {
    int isum = 0, imin = 0;
    for (int g = 0; g < 16; g++) {
        isum += u->sc[g] * k__dot_ref(u->q + 16 * g, q + 16 * g, 16);
        if (has_min) imin += u->mn[g] * sum[g];
    }
    float r = u->d * (float)isum;
    if (has_min) r = r - u->dm * (float)imin;
    return r;
}

static float k__scale_block_ref(const k__unpacked *u, int group, bool has_min, const int8_t *q,
                                const int16_t *sum, int n) {
    float t = 0;
    for (int g = 0; g * group < n; g++) {
        t = t + u->fs[g] * (float)k__dot_ref(u->q + g * group, q + g * group, group);
        if (!has_min) continue;
        int asum = 0;
        for (int i = 0; i < group / 16; i++) asum += sum[g * group / 16 + i];
        t = t + u->fm[g] * (float)asum;
    }
    return t;
}

static void k_mul_quant_ref(uint32_t type, const void *w, size_t row_bytes, int nr, int n, const k_acts *a,
                            float *y, size_t ldy, void *scratch) {
    const k_type *ty = &k_types[type];
    (void)scratch;
    for (int r = 0; r < nr; r++) {
        const uint8_t *p = (const uint8_t *)w + (size_t)r * row_bytes;
        for (int t = 0; t < a->nt; t++) y[(size_t)t * ldy + r] = 0;
        for (int k = 0; k < n; k += K_SUPER) {
            k__unpacked u;
            int         len = n - k < K_SUPER ? n - k : K_SUPER;
            k__unpack_block(type, p + (size_t)(k / ty->block) * ty->bytes, len, &u);
            for (int t = 0; t < a->nt; t++) {
                size_t         row = (size_t)k__row_of(a, t);
                const int8_t  *q = a->q + row * a->ldq + k;
                const int16_t *sum = a->sum[row * a->ldd + (size_t)k / K_SUPER].of16;
                float          v = ty->kind == K_KIND_INT
                                       ? k__int_block_ref(&u, ty->has_min, q, sum)
                                       : k__scale_block_ref(&u, ty->group, ty->has_min, q, sum, len);
                float         *out = &y[(size_t)t * ldy + r];
                *out = *out + v * a->d[row * a->ldd + k / K_SUPER];
            }
        }
    }
}

/* ===== [quant_x86] what the vector levels share =====
 * Two methods with the same arithmetic; the number of columns (activation rows) decides:
 *   dot    few columns: one weight row at a time, read as one sequential stream. Codes are unpacked in registers for up to eight
 *          columns; integer sums are stored, and the float terms of eight blocks are computed together
 *   panel  many columns: 32 rows are unpacked into u8 codes [k/4][row][4], then multiplied with tiles of columns
 * Codes are unsigned, u = q + 2^off, because vpdpbusd and vpmaddubsw need one unsigned operand. The offset is subtracted in
 * integers, with the sums of 16 activations. */

#if defined(__x86_64__)

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
    bool           gaps;
    const int8_t  *q[K__COLS];
    const k_sums  *sum[K__COLS];
    const float   *d[K__COLS];
    int8_t         tq[K__COLS][K_SUPER];
    k_sums         tsum[K__COLS];
} k__cols;

static void k__cols_set(k__cols *x, const k_acts *a, int t0, int count, int n) {
    x->n = count;
    x->nb = n / K_SUPER;
    x->tail = n % K_SUPER;
    x->gaps = a->gaps;
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

/* Whether block b is zero in all n columns of a tile. */
static inline __attribute__((always_inline)) bool k__blank(const k__cols *x, int n, int b) {
    if (!x->gaps) return false;
    for (int t = 0; t < n; t++)
        if (x->d[t][b] != 0) return false;
    return true;
}

/* 256 weights of 32 rows: q[k / 4][row][k % 4] is the code plus k__cols.offset. INT: sc in the format of the level's dot; mn: int16 pairs of groups 2p, 2p + 1. SCALE: fs of up to 16
 * groups, or fs of 8 and fm of 8. k__ready512 fills the rest: fused, and fs of 8 .. 15 where there are 8 groups without minima. */
typedef struct {
    uint8_t q[K_SUPER / 4][K__STRIP][4];
    union {
        struct {
            int32_t sc[16][K__STRIP], mn[8][K__STRIP];
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
#define K__IN_AVX2     static inline __attribute__((always_inline, target(K__LIST_AVX2)))
#define K__IN_512      static inline __attribute__((always_inline, target(K__LIST512)))
#define K__AVX2        static __attribute__((noinline, target(K__LIST_AVX2)))
#define K__512         static __attribute__((noinline, target(K__LIST512)))
#define K__SHARED_AVX2 K__SHARED __attribute__((noinline, target(K__LIST_AVX2)))
#define K__SHARED_512  K__SHARED __attribute__((noinline, target(K__LIST512)))

/* What the sections of products give to [level]. */
#define K__PRODUCTS(target, l)                                                                                                        \
    target void k_mul_quant_##l(uint32_t type, const void *w, size_t row_bytes, int nr, int n, const k_acts *a, float *y, size_t ldy, \
                                void *scratch);                                                                                       \
    target void k_mul_packed_##l(uint32_t type, const void *w, int nr, int n, const k_acts *a, float *y, size_t ldy, void *scratch);
K__PRODUCTS(K__SHARED_AVX2, avx2)
K__PRODUCTS(K__SHARED_AVX2, vnni)
K__PRODUCTS(K__SHARED_512, avx512)
K__SHARED_AVX2 int k_quant_act_avx2(const float *x, int n, int8_t *q, k_sums *sum, float *d);
K__SHARED_512 int  k_quant_act_avx512(const float *x, int n, int8_t *q, k_sums *sum, float *d);
K__SHARED bool     k__decoded_avx2(uint32_t type);

/* Reorders words 0 1 2 3 of each half to 0 2 1 3. */
K__BODY __m128i k__crossed(__m128i v) { return _mm_shufflehi_epi16(_mm_shufflelo_epi16(v, 0xd8), 0xd8); }

K__IN_AVX2 int k__most8(__m256i v) {
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1)));
}

/* The largest sum of one sign: sums of magnitudes plus magnitudes of sums are twice that. */
K__IN_AVX2 int k__most_one_sign(__m256i sizes, __m256i sums) { return k__most8(_mm256_add_epi32(sizes, _mm256_abs_epi32(sums))) / 2; }

/* Unaligned loads. */
static inline int32_t  k__i32(const void *p) { int32_t v; memcpy(&v, p, 4); return v; }
static inline uint32_t k__u32(const void *p) { uint32_t v; memcpy(&v, p, 4); return v; }
static inline uint16_t k__u16(const void *p) { uint16_t v; memcpy(&v, p, 2); return v; }
K__IN_AVX2 __m128i k__ld128(const void *p) { return _mm_loadu_si128((const __m128i *)p); }
K__IN_AVX2 __m256i k__ld256(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }

/* In assembly, so that code compiled for AVX2 can contain it; only the avx_vnni level executes it. */
K__IN_AVX2 void k__dot8_vnni(__m256i *acc, __m256i u, __m256i x) {
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(*acc) : "x"(u), "x"(x));
}
K__IN_AVX2 void k__dot16_vnni(__m256i *acc, __m256i a, __m256i b) {
    __asm__("%{vex%} vpdpwssd %2, %1, %0" : "+x"(*acc) : "x"(a), "x"(b));
}

/* The float terms of one row and up to eight blocks, INT: sums of eight lanes each give the terms u*da. k__add_terms adds the terms of
 * several rows in order: the additions of one row wait for each other, those of several rows overlap. */
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
    __m256i dot[K__COLS][8][2], asum[K__COLS][8]; /* [column][block] sums of eight groups (16: two vectors) */
    float    fs[8][16];                               /* [block][group]; for formats that store f16: */
    uint16_t hs[8][8], hm[8][8];
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
    __m256i  sc, mn;
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

/* The tiles of one kind of codes and scales. k__share() divides 8 and more columns into parts of 4 to 6, or of 4 to 8 where these tiles exist. */
enum { K__TILE_MIN = 4, K__TILE_REGS = 6 /* up to here sums fit in registers beside the dots */,
       K__PANEL_COLS = 8, K__PANEL_ROWS = 8, K__ROWS = 8 };
typedef struct {
    k__tile *of[K__TILE + 1];                         /* index: columns, from 4 on; up to 6 where [K__TILE] is NULL */
    void (*ready)(k__panel *panel, int blocks);       /* completes panels, once each, where a tile has more than 6 columns; NULL: nothing is missing */
    int bound;                                        /* k_sums.most16 or most32 up to which the dot of a group fits in int16; 0: not used */
} k__tiles;

/* How a level multiplies one format. */
typedef struct {
    void (*row)(uint32_t type, const uint8_t *p, int rows, const k__cols *x, float *term, size_t ld);
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

/* Rows without gaps are one stream of blocks for p->row. The scales of the activations are repeated, so that eight consecutive ones
 * can be loaded from any block on. */
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

/* Copies the sums of a column to y. Whole strips are copied as vectors: a copy of variable length costs as much as thirty stores. */
K__BODY void k__put_sums(float *y, const float *sum, int rows, int usual) {
    if (rows != usual) memcpy(y, sum, (size_t)rows * sizeof(float));
    else K__UNROLL for (int i = 0; i < usual; i += 16) *(k__v16 *)(y + i) = *(const k__v16 *)(sum + i);
}

/* Columns of one tile, at most: six, or eight where such tiles exist and k__tune_processor() chooses them. */
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

/* Multiplies a strip of `rows` <= 32 rows of n weights, unpacked in panel [ceil(n / 256)], with the columns of a. y: those of the first row, ldy floats
 * from column to column. next: the next_bytes of the following strip, which are prefetched. */
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

/* ===== [quant_avx512] =====
 * AVX-512 F BW DQ VL VNNI: vpdpbusd sums four products of u8 and s8 per lane, exactly. */

#if K__PART(2)

K__IN_512 __m512i k__ld512(const void *p) { return _mm512_loadu_si512(p); }
K__IN_512 __m512i k__twice512(const void *p) { return _mm512_broadcast_i64x4(k__ld256(p)); }
K__IN_512 __m512i k__pair512(__m256i a, __m256i b) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}

/* 64-bit lanes: lo in the lower 256 bits, hi in the upper. */
K__IN_512 __m512i k__halves512(int lo, int hi) { return _mm512_set_epi64(hi, hi, hi, hi, lo, lo, lo, lo); }

/* 32 bytes hold two planes of 32 codes: plane 0 after a right shift by lo, plane 1 by hi. */
K__IN_512 __m512i k__planes512(const uint8_t *p, int lo, int hi, int mask) {
    return _mm512_and_si512(_mm512_srlv_epi64(k__twice512(p), k__halves512(lo, hi)),
                            _mm512_set1_epi8((char)mask));
}

/* Bit g of byte j, for planes g = at (lower half) and at + 1 (upper half), moved to bit `to`. */
K__IN_512 __m512i k__bits512(const uint8_t *p, int at, int to) {
    __m512i by = k__halves512((to - at) & 63, (to - at - 1) & 63);
    return _mm512_and_si512(_mm512_rolv_epi64(k__twice512(p), by), _mm512_set1_epi8((char)(1 << to)));
}

/* Two blocks of 32 nibbles, 16 bytes each: low nibbles first. */
K__IN_512 __m512i k__nibbles512(const uint8_t *a, const uint8_t *b) {
    __m512i v = k__pair512(_mm256_broadcastsi128_si256(k__ld128(a)),
                           _mm256_broadcastsi128_si256(k__ld128(b)));
    v = _mm512_srlv_epi64(v, _mm512_set_epi64(4, 4, 0, 0, 4, 4, 0, 0));
    return _mm512_and_si512(v, _mm512_set1_epi8(15));
}

/* The same; a nibble is an index into a table of signed values, and the result is offset by 128. */
K__IN_512 __m512i k__table512(__m512i nibbles, const int8_t *table) {
    __m512i t = _mm512_xor_si512(_mm512_broadcast_i32x4(k__ld128(table)), _mm512_set1_epi8(-128));
    return _mm512_shuffle_epi8(t, nibbles);
}

/* Codes 64c .. 64c + 63 of the 256 at p, unsigned, in order. */
K__IN_512 __m512i k__codes512(uint32_t type, const uint8_t *p, int c) {
    const uint8_t *h = p + 32 * (c / 2);              /* for the formats in halves of 128 */
    int            plane = c % 2 * 4;
    switch (type) {
    case K_Q4_K: return k__planes512(p + 16 + 32 * c, 0, 4, 15);
    case K_Q5_K:
        return _mm512_or_si512(k__planes512(p + 48 + 32 * c, 0, 4, 15), k__bits512(p + 16, 2 * c, 4));
    case K_Q2_K: return k__planes512(h + 16, plane, plane + 2, 3);
    case K_TQ2_0: return k__planes512(h, plane, plane + 2, 3);
    case K_Q3_K: return _mm512_or_si512(k__planes512(h + 32, plane, plane + 2, 3), k__bits512(p, 2 * c, 2));
    case K_Q6_K: {
        __m512i lo = _mm512_srli_epi16(k__ld512(p + 64 * (c / 2)), c % 2 * 4), hi = k__twice512(h + 128);
        hi = c % 2 ? _mm512_srlv_epi64(hi, k__halves512(0, 2)) : _mm512_sllv_epi64(hi, k__halves512(4, 2));
        hi = _mm512_and_si512(hi, _mm512_set1_epi8(0x30));
        return _mm512_ternarylogic_epi64(lo, _mm512_set1_epi8(15), hi, 0xea);   /* (a & b) | c */
    }
    case K_Q4_0: return k__nibbles512(p + 36 * c + 2, p + 36 * c + 20);
    case K_Q4_1: return k__nibbles512(p + 40 * c + 4, p + 40 * c + 24);
    case K_Q5_0: {
        uint64_t bits = k__u32(p + 44 * c + 2) | (uint64_t)k__u32(p + 44 * c + 24) << 32;
        __m512i  lo = k__nibbles512(p + 44 * c + 6, p + 44 * c + 28);
        return _mm512_mask_add_epi8(lo, bits, lo, _mm512_set1_epi8(16));
    }
    case K_Q5_1: {
        uint64_t bits = k__u32(p + 48 * c + 4) | (uint64_t)k__u32(p + 48 * c + 28) << 32;
        __m512i  lo = k__nibbles512(p + 48 * c + 8, p + 48 * c + 32);
        return _mm512_mask_add_epi8(lo, bits, lo, _mm512_set1_epi8(16));
    }
    case K_Q1_0: {
        uint64_t bits;                                /* +-1 offset by 1: 0 or 2 */
        memcpy(&bits, p + 18 * (c / 2) + 2 + c % 2 * 8, 8);
        return _mm512_maskz_mov_epi8(bits, _mm512_set1_epi8(2));
    }
    case K_IQ4_NL: return k__table512(k__nibbles512(p + 36 * c + 2, p + 36 * c + 20), k__iq4_values);
    case K_IQ4_XS: return k__table512(k__nibbles512(p + 8 + 32 * c, p + 24 + 32 * c), k__iq4_values);
    case K_MXFP4: return k__table512(k__nibbles512(p + 34 * c + 1, p + 34 * c + 18), k__fp4_values);
    case K_NVFP4: {                                   /* every 8 bytes are 16 codes, low nibbles first */
        __m512i v = _mm512_castsi256_si512(k__ld256(p + 36 * c + 4));
        v = _mm512_permutexvar_epi64(_mm512_set_epi64(3, 3, 2, 2, 1, 1, 0, 0), v);
        v = _mm512_srlv_epi64(v, _mm512_set_epi64(4, 0, 4, 0, 4, 0, 4, 0));
        return k__table512(_mm512_and_si512(v, _mm512_set1_epi8(15)), k__fp4_values);
    }
    case K_Q8_0:
        return _mm512_xor_si512(k__pair512(k__ld256(p + 68 * c + 2), k__ld256(p + 68 * c + 36)),
                                _mm512_set1_epi8(-128));
    default: return _mm512_xor_si512(k__ld512(p + 64 * c), _mm512_set1_epi8(-128));   /* K__ANY */
    }
}

/* --- dot --- */

/* dword i of lane l of the result is the sum over lane l of v[i] */
K__IN_512 __m512i k__sum4x4(const __m512i *v) {
    __m512i a = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    __m512i b = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

/* Factors of four products each, in the format of k__scaled512. Narrow: words, s[0] for codes 0..127 and s[1] for the rest; lane l
 * holds groups l and 4 + l of its eight. Else dwords: s[j] for codes 64j .. 64j + 63. */
K__IN_512 void k__factors512(uint32_t type, const uint8_t *p, __m256i sc, __m512i *s) {
    const __m512i lane = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    if (k__off(type) == K__WIDE) {
        __m512i v = _mm512_cvtepi16_epi32(sc);
        K__UNROLL for (int j = 0; j < 4; j++)
            s[j] = _mm512_permutexvar_epi32(_mm512_add_epi32(lane, _mm512_set1_epi32(4 * j)), v);
    } else if (type == K_Q4_K || type == K_Q5_K) {    /* byte g is groups 2g and 2g + 1 */
        uint64_t bytes = k__q4_K_sc(p);
        __asm__("" : "+m"(bytes));
        __m512i v = _mm512_set1_epi64((long long)bytes);
        const long long b0 = (long long)0x8000800080008000u, b1 = b0 + 0x0001000100010001;
        const long long b2 = b1 + 0x0001000100010001, b3 = b2 + 0x0001000100010001;   /* byte b to words */
        const __m512i   first = _mm512_set_epi64(b3, b1, b3, b1, b2, b0, b2, b0);
        s[0] = _mm512_shuffle_epi8(v, first);
        s[1] = _mm512_shuffle_epi8(v, _mm512_add_epi8(first, _mm512_set1_epi16(4)));
    } else { /* words l and 4 + l of sixteen */
        __m512i v = _mm512_castsi256_si512(sc),
                at = _mm512_set_epi64(0x0007000700070007, 0x0003000300030003, 0x0006000600060006,
                                      0x0002000200020002, 0x0005000500050005, 0x0001000100010001,
                                      0x0004000400040004, 0);
        s[0] = _mm512_permutexvar_epi16(at, v);
        s[1] = _mm512_permutexvar_epi16(_mm512_add_epi16(at, _mm512_set1_epi16(8)), v);
    }
}

/* Sum of factor times dot over a block, as 8 partial sums. Narrow: u <= 63, so that four products fit in a word. */
K__IN_512 __m256i k__scaled512(bool narrow, const __m512i *w, const __m512i *s, const int8_t *q) {
    __m512i e[4], v;
    K__UNROLL for (int j = 0; j < 4; j++)
        e[j] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), w[j], k__ld512(q + 64 * j));
    if (narrow) {
        v = _mm512_madd_epi16(_mm512_packs_epi32(e[0], e[1]), s[0]);
        v = _mm512_dpwssd_epi32(v, _mm512_packs_epi32(e[2], e[3]), s[1]);
    } else {
        v = _mm512_add_epi32(_mm512_mullo_epi32(e[0], s[0]), _mm512_mullo_epi32(e[1], s[1]));
        v = _mm512_add_epi32(
            v, _mm512_add_epi32(_mm512_mullo_epi32(e[2], s[2]), _mm512_mullo_epi32(e[3], s[3])));
    }
    return _mm256_add_epi32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
}

/* The upper half of each vector holds the minima: one tree of sums, one conversion and one product for both. */
K__IN_512 void k__min_finish512(const k__int_park *k, int c, const float *da, float *term) {
    __m512i a[8];
    K__UNROLL for (int i = 0; i < 8; i++) a[i] = _mm512_load_si512(k->sum[c][i]);
    a[0] = k__sum4x4(a);
    a[4] = k__sum4x4(a + 4);                          /* lanes: isum, isum, imin, imin of four blocks each */
    a[0] = _mm512_add_epi32(_mm512_shuffle_i32x4(a[0], a[4], 0x88), _mm512_shuffle_i32x4(a[0], a[4], 0xdd));
    __m256  d = k__park_d(k, true, false), dm = k__park_d(k, true, true);
    __m512  f = _mm512_insertf32x8(_mm512_castps256_ps512(d), dm, 1);
    f = _mm512_mul_ps(_mm512_shuffle_f32x4(f, f, 0xd8), _mm512_cvtepi32_ps(a[0]));   /* isum imin isum imin */
    f = _mm512_shuffle_f32x4(f, f, 0xd8);
    __m256 u = _mm256_sub_ps(_mm512_castps512_ps256(f), _mm512_extractf32x8_ps(f, 1));
    _mm256_storeu_ps(term, _mm256_mul_ps(u, _mm256_loadu_ps(da)));
}

/* The terms of the rows at p times the columns of x: term[c*ld + block]. */
K__IN_512 void k__int_row512(uint32_t type, bool has_min, const uint8_t *p, int rows, uint32_t any,
                             const k__cols *x, int nc, float *term, size_t ld) {
    const size_t step = k__super_bytes(type == K__ANY ? any : type);
    const bool   narrow = k__off(type) != K__WIDE;
    k__int_park  park;
    k__unpacked  u;
    for (int b0 = 0, b = 0; b0 < rows * x->nb; b0 += 8) {
        const int m = rows * x->nb - b0 < 8 ? rows * x->nb - b0 : 8, first = b;
        if (m < 8) k__int_blank(&park, nc, m);
        for (int i = 0; i < m; i++, p += step, b = b + 1 < x->nb ? b + 1 : 0) {
            const uint8_t *src = p;
            k__fetch_ahead(p, step);
            if (type == K__ANY) {
                k__unpack_block(any, p, K_SUPER, &u);
                src = (const uint8_t *)&u;            /* the codes are its first member */
            }
            __m512i  w[4], s[4];
            k__heads h = k__heads_of(type, src);
            K__UNROLL for (int j = 0; j < 4; j++) w[j] = k__codes512(type, src, j);
            k__factors512(type, src, h.sc, s);
            park.d[i] = h.d;
            K__NO_UNROLL for (int c = 0; c < nc; c++) {
                __m256i sum = k__ld256(x->sum[c][b].of16);
                __m256i r = k__scaled512(narrow, w, s, x->q[c] + (size_t)b * K_SUPER);
                if (k__off(type) >= 0)
                    r = _mm256_sub_epi32(r, _mm256_slli_epi32(_mm256_madd_epi16(h.sc, sum), k__off(type)));
                park.sum[c][i][0] = r;
                if (has_min) park.sum[c][i][1] = _mm256_madd_epi16(h.mn, sum);
            }
        }
        K__NO_UNROLL for (int c = 0; c < nc; c++) {
            float *to = term + (size_t)c * ld + b0;
            if (has_min) k__min_finish512(&park, c, x->d[c] + first, to);
            else k__int_finish(&park, type != K__ANY, false, c, x->d[c] + first, to);
        }
    }
}

/* Sums of the groups of one block and column without the offset, in order: 8 groups of 32 or 16 of 16. */
K__IN_512 void k__group_sums512(uint32_t type, int group, bool has_min, const __m512i *w, const int8_t *q,
                                const int16_t *sum, __m256i *dot, __m256i *asum) {
    __m512i v[4];
    K__UNROLL for (int j = 0; j < 4; j++)
        v[j] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), w[j], k__ld512(q + 64 * j));
    __m512i r = k__sum4x4(v);                         /* lane l: groups of 16 l, 4 + l, 8 + l, 12 + l */
    __m256i s = k__ld256(sum);
    if (group == 16) {
        r = _mm512_permutexvar_epi32(_mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0),
                                     r);
        if (k__off(type) >= 0)
            r = _mm512_sub_epi32(r, _mm512_slli_epi32(_mm512_cvtepi16_epi32(s), (unsigned)k__off(type)));
        dot[0] = _mm512_castsi512_si256(r);
        dot[1] = _mm512_extracti64x4_epi64(r, 1);
        return;
    }
    r = _mm512_add_epi32(r, _mm512_shuffle_i32x4(r, r, 0xb1));
    r = _mm512_permutexvar_epi32(_mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 11, 3, 10, 2, 9, 1, 8, 0), r);
    __m256i g = _mm512_castsi512_si256(r), pairs = _mm256_madd_epi16(s, _mm256_set1_epi16(1));
    if (k__off(type) >= 0) g = _mm256_sub_epi32(g, _mm256_slli_epi32(pairs, k__off(type)));
    dot[0] = g;
    if (has_min) *asum = pairs;
}

K__IN_512 void k__scale_row512(uint32_t type, int group, bool has_min, const uint8_t *p, int rows,
                               uint32_t any, const k__cols *x, int nc, float *term, size_t ld) {
    const uint32_t real = type == K__ANY ? any : type;
    const size_t   step = k__super_bytes(real);
    const int      nb = x->nb + (x->tail > 0);
    uint8_t        last[K__PAD];
    k__scale_park  park;
    k__unpacked    u;
    for (int b0 = 0, b = 0; b0 < rows * nb; b0 += 8) {
        const int m = rows * nb - b0 < 8 ? rows * nb - b0 : 8, first = b;
        if (m < 8) k__scale_blank(&park, nc, m);
        for (int i = 0; i < m; i++, p += step, b = b + 1 < nb ? b + 1 : 0) {
            const uint8_t *src = b < x->nb ? p : k__pad_tail(real, p, x->tail, last);
            k__fetch_ahead(p, step);
            if (type == K__ANY) {
                k__unpack_block(any, src, K_SUPER, &u);
                src = (const uint8_t *)&u;
            }
            __m512i w[4];
            K__UNROLL for (int j = 0; j < 4; j++) w[j] = k__codes512(type, src, j);
            k__park_scales(type, src, has_min, park.fs[i], park.hs[i], park.hm[i]);
            for (int c = 0; c < nc; c++)
                k__group_sums512(type, group, has_min, w, k__cols_q(x, c, b), k__cols_sum(x, c, b),
                                 park.dot[c][i], &park.asum[c][i]);
        }
        K__NO_UNROLL for (int c = 0; c < nc; c++) k__scale_finish(
            &park, k__has_halves(type), group, has_min, c, x->d[c] + first, term + (size_t)c * ld + b0);
    }
}

/* --- panel --- */

/* 16x16 transpose of dwords. */
K__IN_512 void k__transpose16(__m512i *r) {
    __m512i t[16];
    K__UNROLL for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
    }
    K__UNROLL for (int i = 0; i < 4; i++) {
        r[4 * i + 0] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
    K__UNROLL for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0x88);
        t[4 + i] = _mm512_shuffle_i32x4(r[i], r[4 + i], 0xdd);
        t[8 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0x88);
        t[12 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0xdd);
    }
    K__UNROLL for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88);
        r[8 + i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0xdd);
        r[4 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0x88);
        r[12 + i] = _mm512_shuffle_i32x4(t[4 + i], t[12 + i], 0xdd);
    }
}

/* The same from memory to memory; row k goes to `to` + k strips. */
K__512 void k__spill16(const __m512i *from, void *to) {
    __m512i r[16];
    K__UNROLL for (int i = 0; i < 16; i++) r[i] = _mm512_load_si512(from + i);
    k__transpose16(r);
    K__UNROLL for (int i = 0; i < 16; i++) _mm512_storeu_si512((int32_t *)to + (size_t)i * K__STRIP, r[i]);
}

/* Stores the scales of 16 rows, sc in the lower and mn in the upper halves, in columns at .. at + 15 of an INT panel. */
K__512 void k__int_heads512(const __m512i *heads, bool narrow, int at, k__panel *panel) {
    __m512i r[16];
    K__UNROLL for (int i = 0; i < 16; i++) r[i] = _mm512_load_si512(heads + i);
    k__transpose16(r);                                /* r[p]: sc of groups 2p, 2p + 1; r[8 + p]: mn */
    K__UNROLL for (int p = 0; p < 8; p++) {
        __m512i odd = narrow ? _mm512_srli_epi32(r[p], 16) : _mm512_srai_epi32(r[p], 16),
                even = _mm512_slli_epi32(r[p], 16);
        even = narrow ? _mm512_srli_epi32(even, 16) : _mm512_srai_epi32(even, 16);
        _mm512_storeu_si512(&panel->sc[2 * p][at], even);
        _mm512_storeu_si512(&panel->sc[2 * p + 1][at], odd);
        _mm512_storeu_si512(&panel->mn[p][at], r[8 + p]);
    }
}

/* The offset is a minimum in integers, sc*(u - 2^o) = sc*u + (-sc*2^o)*1, and like one it is multiplied with the sums of 16. */
K__IN_512 __m512i k__int_head512(uint32_t type, const uint8_t *src, float *d, float *dm) {
    k__heads h = k__heads_of(type, src);
    if (k__off(type) >= 0)
        h.mn = _mm256_sub_epi16(_mm256_setzero_si256(), _mm256_slli_epi16(h.sc, k__off(type)));
    *d = k__head_d(type, h.d, false);
    *dm = k__head_d(type, h.d, true);
    return k__pair512(h.sc, h.mn);
}

/* fs of 16 groups, or fs and fm of 8 */
K__IN_512 __m512i k__scale_head512(uint32_t type, bool has_min, const uint8_t *src) {
    float    fs[16] = {0};
    uint16_t hs[8] = {0}, hm[8] = {0};
    k__park_scales(type, src, has_min, fs, hs, hm);
    return _mm512_castps_si512(k__has_halves(type)
                                   ? _mm512_cvtph_ps(_mm256_set_m128i(k__ld128(hm), k__ld128(hs)))
                                   : _mm512_loadu_ps(fs));
}

/* Unpacks up to 32 rows of nb blocks, and their tail if there is one, into panels. The last row stands in for missing ones. */
K__IN_512 void k__pack512(uint32_t type, bool is_int, bool has_min, bool narrow, uint32_t any,
                          const uint8_t *w, size_t row_bytes, int rows, int n, k__panel *panel) {
    const uint32_t real = type == K__ANY ? any : type;
    const size_t   step = k__super_bytes(real);
    __m512i        codes[4][16], heads[16];
    for (int b = 0; b * K_SUPER < n; b++, panel++) {
        int tail = n - b * K_SUPER < K_SUPER ? n - b * K_SUPER : 0;
        for (int at = 0; at < K__STRIP; at += 16) {
            K__NO_UNROLL for (int i = 0; i < 16; i++) {
                const uint8_t *src = w + (size_t)(at + i < rows ? at + i : rows - 1) * row_bytes +
                                     (size_t)b * step;
                uint8_t        last[K__PAD];
                k__unpacked    u;
                if (tail) src = k__pad_tail(real, src, tail, last);
                if (type == K__ANY) {
                    k__unpack_block(any, src, K_SUPER, &u);
                    src = (const uint8_t *)&u;
                }
                K__UNROLL for (int c = 0; c < 4; c++) codes[c][i] = k__codes512(type, src, c);
                heads[i] = is_int ? k__int_head512(type, src, &panel->d[at + i], &panel->dm[at + i])
                                  : k__scale_head512(type, has_min, src);
            }
            for (int c = 0; c < 4; c++) k__spill16(codes[c], panel->q[16 * c][at]);
            if (is_int) k__int_heads512(heads, narrow, at, panel);
            else k__spill16(heads, &panel->fs[0][at]);
        }
    }
}

K__IN_512 void k__ahead512(k__ahead *a) {
    for (int i = 0; i < a->lines; i++, a->next += 64) _mm_prefetch((const char *)a->next, _MM_HINT_T1);
}

K__IN_512 __m512i k__bcast512(const void *p) { return _mm512_set1_epi32(k__i32(p)); }

/* acc += W * x over count dwords of k from k4; a0: rows 0..15, a1: rows 16..31 */
K__IN_512 void k__dots512(int T, const k__panel *w, int k4, int count, const int8_t *const *q, __m512i *a0,
                          __m512i *a1) {
    K__UNROLL for (int k = k4; k < k4 + count; k++) {
        __m512i w0 = k__ld512(w->q[k][0]), w1 = k__ld512(w->q[k][16]);
        K__UNROLL for (int t = 0; t < T; t++) {
            __m512i x = k__bcast512(q[t] + 4 * k);
            a0[t] = _mm512_dpbusd_epi32(a0[t], w0, x);
            a1[t] = _mm512_dpbusd_epi32(a1[t], w1, x);
        }
    }
}

/* How the dots of groups are scaled: as int16 by vpdpwssd, where every dot fits (K__BY_WORDS); by multiplications of int32 (K__BY_INTS); or one
 * or the other for each block, by the bounds of the activations (K__BY_BOUND): a dot is at most the bound times the largest magnitude of a code. */
enum { K__BY_WORDS, K__BY_INTS, K__BY_BOUND };
enum { K__BOUND_4 = 32767 / 15, K__BOUND_5 = 32767 / 31, K__BOUND_6 = 32767 / 32 };    /* codes of 4, 5 and 6 bits */

/* Whether the bounds of block b of all T columns are at most `bound`: one of the differences would set the sign. */
K__IN_512 bool k__fits512(int T, int group, int bound, const k__cols *x, int b) {
    int signs = 0;
    K__UNROLL for (int t = 0; t < T; t++) signs |= bound - (group == 16 ? x->sum[t][b].most16 : x->sum[t][b].most32);
    return signs >= 0;
}

/* A tile of up to six columns keeps its sums in registers. With seven or eight only the 2 T dots stay there, which are enough independent chains
 * for two units with a latency of five. The sums are in memory, in the L1 cache: the empty assembly keeps the compiler from moving them
 * to registers, of which there are too few. */
#define K__IN_MEMORY(T, p)                                                        \
    do {                                                                          \
        if ((T) > K__TILE_REGS) __asm__ volatile("" : "+r"(p) : : "memory"); \
    } while (0)

/* The bits of 1.5 * 2^23 as a float, plus an integer below 2^22 in magnitude, are the float 1.5 * 2^23 + integer. So sums that start here
 * need no conversion: fma(s, sum, -1.5 * 2^23 * s) rounds s * integer once, like the product, where the last operand is
 * exact and finite. That operand is exact for scales of up to 22 bits. A product of -0 becomes +0, which sums that start at +0 do not
 * show. */
enum { K__BIAS_BITS = 0x4b400000 };
#define K__BIAS 0x1.8p23f

/* Start values of the dots of groups, so that they become u.x - off*sum(x) + bias. */
K__IN_512 void k__starts512(int group, int off, int bias, const int16_t *sum, int32_t *to) {
    const __m256i v = k__ld256(sum);
    if (group == 16) {
        const __m512i start = _mm512_mullo_epi32(_mm512_cvtepi16_epi32(v), _mm512_set1_epi32(-off));
        _mm512_store_si512(to, _mm512_add_epi32(start, _mm512_set1_epi32(bias)));
    } else {
        const __m256i start = _mm256_madd_epi16(v, _mm256_set1_epi16((int16_t)-off));
        _mm256_store_si256((__m256i *)to, _mm256_add_epi32(start, _mm256_set1_epi32(bias)));
    }
}

K__IN_512 void k__sums512(const int16_t *sum, float *to) {
    _mm256_store_ps(to, _mm256_cvtepi32_ps(_mm256_madd_epi16(k__ld256(sum), _mm256_set1_epi16(1))));
}

/* Minima of 16 rows of a panel, a pair of words in each lane, in the order of of16 or of32, which depends on the size of groups.
 * Returns the number of vectors. For groups of 32 both words in the panel are equal. */
K__IN_512 int k__mins512(int group, const k__panel *w, int at, __m512i *mn) {
    const int n = 256 / group / 2;
    K__UNROLL for (int i = 0; i < n; i++) {
        const int p = i / 2 * 4 + i % 2;
        if (group == 16) mn[i] = k__ld512(&w->mn[i][at]);
        else mn[i] = _mm512_mask_blend_epi16(0xaaaaaaaa, k__ld512(&w->mn[p][at]), k__ld512(&w->mn[p + 2][at]));
    }
    return n;
}

K__IN_512 void k__add_scaled512(float *y, __m512 u, float d) {
    _mm512_storeu_ps(y, _mm512_add_ps(_mm512_loadu_ps(y), _mm512_mul_ps(u, _mm512_set1_ps(d))));
}

/* Adds complete sums to the columns of y. fused: sums of minima start at K__BIAS_BITS. */
K__IN_512 void k__int_end512(int T, int group, bool has_min, bool fused, const k__panel *w, __m512i (*sum)[2], const k__cols *x,
                             int b, float (*y)[K__STRIP]) {
    const __m512 d[2] = {_mm512_loadu_ps(w->d), _mm512_loadu_ps(w->d + 16)}, bias = _mm512_set1_ps(-K__BIAS);
    const __m512 c[2] = {_mm512_mul_ps(_mm512_loadu_ps(w->dm), bias), _mm512_mul_ps(_mm512_loadu_ps(w->dm + 16), bias)};
    __m512i      mn[2][8];
    const int    n = has_min ? k__mins512(group, w, 0, mn[0]) : 0;
    if (has_min) k__mins512(group, w, 16, mn[1]);
    K__UNROLL for (int t = 0; t < T; t++) {
        const int16_t *pairs = group == 16 ? x->sum[t][b].of16 : x->sum[t][b].of32;
        __m512i        m[2];
        m[0] = m[1] = fused ? _mm512_set1_epi32(K__BIAS_BITS) : _mm512_setzero_si512();
        K__UNROLL for (int p = 0; p < n; p++) {
            const __m512i s = k__bcast512(pairs + 2 * p);
            m[0] = _mm512_dpwssd_epi32(m[0], mn[0][p], s);
            m[1] = _mm512_dpwssd_epi32(m[1], mn[1][p], s);
        }
        K__UNROLL for (int h = 0; h < 2; h++) {
            __m512 u = _mm512_mul_ps(d[h], _mm512_cvtepi32_ps(sum[t][h])), dm = _mm512_loadu_ps(w->dm + 16 * h);
            if (fused) u = _mm512_sub_ps(u, _mm512_fmadd_ps(dm, _mm512_castsi512_ps(m[h]), c[h]));
            else if (has_min) u = _mm512_sub_ps(u, _mm512_mul_ps(dm, _mm512_cvtepi32_ps(m[h])));
            k__add_scaled512(y[t] + 16 * h, u, x->d[t][b]);
        }
    }
}

/* Whether K__BIAS times each of 32 scales is finite. */
K__IN_512 bool k__fusible512(const float *scale) {
    const __m512 c0 = _mm512_mul_ps(_mm512_loadu_ps(scale), _mm512_set1_ps(K__BIAS));
    const __m512 c1 = _mm512_mul_ps(_mm512_loadu_ps(scale + 16), _mm512_set1_ps(K__BIAS));
    return !_mm512_cmp_ps_mask(_mm512_sub_ps(c0, c0), _mm512_sub_ps(c1, c1), _CMP_UNORD_Q);   /* inf - inf is NaN */
}

/* The dots of group g; without minima they begin with start. */
K__IN_512 void k__group_dots512(int T, int group, int g, bool has_min, const k__panel *w, const int8_t *const *q, const int32_t (*start)[16],
                                __m512i (*a)[K__TILE]) {
    K__UNROLL for (int t = 0; t < T; t++) a[0][t] = a[1][t] = has_min ? _mm512_setzero_si512() : k__bcast512(&start[t][g]);
    k__dots512(T, w, g * group / 4, group / 4, q, a[0], a[1]);
}

/* sum[t] = scale * dot over the groups of a block. words: dots fit in words. low: sc lies in the lower word alone. */
K__IN_512 void k__int_sums512(int T, int group, bool has_min, bool words, bool low, const k__panel *w, const int8_t *const *q,
                              const int32_t (*start)[16], __m512i (*sum)[2]) {
    K__UNROLL for (int t = 0; t < T; t++) sum[t][0] = sum[t][1] = _mm512_setzero_si512();
    K__NO_UNROLL for (int g = 0; g < K_SUPER / group; g++) {
        __m512i a[2][K__TILE];
        k__group_dots512(T, group, g, has_min, w, q, start, a);
        K__IN_MEMORY(T, sum);
        K__UNROLL for (int h = 0; h < 2; h++) {
            __m512i sc = k__ld512(&w->sc[g * group / 16][16 * h]);
            if (low && !words) sc = _mm512_srai_epi32(_mm512_slli_epi32(sc, 16), 16);
            K__UNROLL for (int t = 0; t < T; t++)
                sum[t][h] = words ? _mm512_dpwssd_epi32(sum[t][h], a[h][t], sc)
                                  : _mm512_add_epi32(sum[t][h], _mm512_mullo_epi32(a[h][t], sc));
        }
    }
    K__IN_MEMORY(T, sum);
}

/* Four columns whose dots do not all fit in int16, of the types with a bound: groups of 16 and an offset, or of 32 and minima. A tile of five to eight
 * columns calls it twice and computes some columns again, so that this rare case is compiled once. */
K__512 void k__int_sums4_512(int group, const k__panel *w, const int8_t *const *q, const int32_t (*start)[16], __m512i (*sum)[2]) {
    if (group == 16) k__int_sums512(4, 16, false, false, true, w, q, start, sum);
    else k__int_sums512(4, 32, true, false, false, w, q, start, sum);
}

/* Seven or eight columns with minima of groups of 16 or 32, whose scales are not fusible. */
K__512 void k__int_end_plain512(int T, int group, const k__panel *w, __m512i (*sum)[2], const k__cols *x, int b, float (*y)[K__STRIP]) {
    if (group == 16 && T == 7) k__int_end512(7, 16, true, false, w, sum, x, b, y);
    else if (group == 16) k__int_end512(8, 16, true, false, w, sum, x, b, y);
    else if (T == 7) k__int_end512(7, 32, true, false, w, sum, x, b, y);
    else k__int_end512(8, 32, true, false, w, sum, x, b, y);
}

K__IN_512 void k__int_tile512(int T, int group, bool has_min, int by, const k__panel *w, const k__cols *x, int first, int end,
                              k__ahead *ahead, float (*y)[K__STRIP]) {
    const bool low = by == K__BY_BOUND && !has_min;     /* signed scales in lower words */
    for (int b = first; b < end; b++, w++) {
        if (k__blank(x, T, b)) continue;
        _Alignas(64) int32_t start[K__TILE][16];
        __m512i       sums[K__TILE][2];
        __m512i     (*sum)[2] = sums;
        const int8_t *q[K__TILE];
        K__IN_MEMORY(T, sum);
        k__ahead512(ahead);
        K__UNROLL for (int t = 0; t < T; t++) {
            if (!has_min) k__starts512(group, x->offset, 0, x->sum[t][b].of16, start[t]);
            q[t] = x->q[t] + (size_t)b * K_SUPER;
        }
        const int32_t (*from)[16] = (const int32_t (*)[16])start;
        if (by != K__BY_BOUND || k__fits512(T, group, x->bound, x, b)) {
            k__int_sums512(T, group, has_min, by != K__BY_INTS, low, w, q, from, sum);
        } else {
            __m512i wide[K__TILE][2];
            k__int_sums4_512(group, w, q, from, wide);
            if (T > 4) k__int_sums4_512(group, w, q + T - 4, from + T - 4, wide + T - 4);
            K__UNROLL for (int t = 0; t < T; t++) sum[t][0] = wide[t][0], sum[t][1] = wide[t][1];
        }
        if (T <= K__TILE_REGS || !has_min) k__int_end512(T, group, has_min, false, w, sum, x, b, y);
        else if (k__fusible512(w->dm)) k__int_end512(T, group, has_min, true, w, sum, x, b, y);
        else k__int_end_plain512(T, group, w, sum, x, b, y);
    }
}

/* Completes panels with 8 groups and no minima: fs[8 + g] = -K__BIAS * fs[g], and fused = all scales are fusible. Other formats need neither. */
K__512 void k__ready512(k__panel *panel, int blocks) {
    for (; blocks > 0; blocks--, panel++) {
        panel->fused = true;
        for (int g = 0; g < 8; g++) {
            panel->fused &= k__fusible512(panel->fs[g]);
            for (int r = 0; r < K__STRIP; r += 16)
                _mm512_storeu_ps(&panel->fs[8 + g][r], _mm512_mul_ps(_mm512_loadu_ps(&panel->fs[g][r]), _mm512_set1_ps(-K__BIAS)));
        }
    }
}

/* sum[t] = scale * dot over the groups of a block, and the minima. fused: see k__ready512. */
K__IN_512 void k__scale_sums512(int T, int group, bool has_min, bool fused, const k__panel *w, const int8_t *const *q,
                                const int32_t (*start)[16], const float (*asum)[8], __m512 (*sum)[2]) {
    K__UNROLL for (int t = 0; t < T; t++) sum[t][0] = sum[t][1] = _mm512_setzero_ps();
    K__NO_UNROLL for (int g = 0; g < K_SUPER / group; g++) {
        __m512i a[2][K__TILE];
        k__group_dots512(T, group, g, has_min, w, q, start, a);
        K__IN_MEMORY(T, sum);
        K__UNROLL for (int h = 0; h < 2; h++) {
            const __m512 s = _mm512_loadu_ps(&w->fs[g][16 * h]), more = _mm512_loadu_ps(&w->fs[(8 + g) % 16][16 * h]);
            K__UNROLL for (int t = 0; t < T; t++) {
                const __m512 v = fused ? _mm512_fmadd_ps(s, _mm512_castsi512_ps(a[h][t]), more) : _mm512_mul_ps(s, _mm512_cvtepi32_ps(a[h][t]));
                sum[t][h] = _mm512_add_ps(sum[t][h], v);
                if (has_min) sum[t][h] = _mm512_add_ps(sum[t][h], _mm512_mul_ps(more, _mm512_set1_ps(asum[t][g])));
            }
        }
    }
    K__IN_MEMORY(T, sum);
}

/* Four columns of panels that are not fused. */
K__512 void k__scale_sums4_512(const k__panel *w, const int8_t *const *q, const int32_t (*start)[16], __m512 (*sum)[2]) {
    k__scale_sums512(4, 32, false, false, w, q, start, NULL, sum);
}

K__IN_512 void k__scale_tile512(int T, int group, bool has_min, const k__panel *w, const k__cols *x, int first, int end,
                                k__ahead *ahead, float (*y)[K__STRIP]) {
    const bool can = T > K__TILE_REGS && group == 32 && !has_min;
    for (int b = first; b < end; b++, w++) {
        if (k__blank(x, T, b)) continue;
        _Alignas(64) int32_t start[K__TILE][16];
        _Alignas(32) float   asum[K__TILE][8];
        __m512        sums[K__TILE][2];
        __m512      (*sum)[2] = sums;
        const int8_t *q[K__TILE];
        const bool    fused = can && w->fused;
        K__IN_MEMORY(T, sum);
        k__ahead512(ahead);
        K__UNROLL for (int t = 0; t < T; t++) {
            if (has_min) k__sums512(k__cols_sum(x, t, b), asum[t]);
            else k__starts512(group, x->offset, fused ? K__BIAS_BITS : 0, k__cols_sum(x, t, b), start[t]);
            q[t] = k__cols_q(x, t, b);
        }
        const int32_t (*from)[16] = (const int32_t (*)[16])start;
        const float (*minima)[8] = (const float (*)[8])asum;
        if (!can || fused) k__scale_sums512(T, group, has_min, can, w, q, from, minima, sum);
        else k__scale_sums4_512(w, q, from, sum), k__scale_sums4_512(w, q + T - 4, from + T - 4, sum + T - 4);
        K__UNROLL for (int t = 0; t < T; t++) {
            k__add_scaled512(y[t], sum[t][0], x->d[t][b]);
            k__add_scaled512(y[t] + 16, sum[t][1], x->d[t][b]);
        }
    }
}

/* One row function and one packer for each format, a few tiles. Narrow panels: sc in the lower word, for vpdpwssd. */
#define K__INT_512(name, type, min, narrow)                                                      \
    K__512 void k__row_##name##_512(uint32_t any, const uint8_t *p, int rows, const k__cols *x,  \
                                    float *term, size_t ld) {                                    \
        if (x->n == 1) k__int_row512(type, min, p, rows, any, x, 1, term, ld);                   \
        else k__int_row512(type, min, p, rows, any, x, x->n, term, ld);                          \
    }                                                                                            \
    K__512 void k__pack_##name##_512(uint32_t any, const uint8_t *w, size_t row_bytes, int rows, \
                                     int n, k__panel *to) {                                      \
        k__pack512(type, true, min, narrow, any, w, row_bytes, rows, n, to);                     \
    }
#define K__SCALE_512(name, type, group, min)                                                     \
    K__512 void k__row_##name##_512(uint32_t any, const uint8_t *p, int rows, const k__cols *x,  \
                                    float *term, size_t ld) {                                    \
        if (x->n == 1) k__scale_row512(type, group, min, p, rows, any, x, 1, term, ld);          \
        else k__scale_row512(type, group, min, p, rows, any, x, x->n, term, ld);                 \
    }                                                                                            \
    K__512 void k__pack_##name##_512(uint32_t any, const uint8_t *w, size_t row_bytes, int rows, \
                                     int n, k__panel *to) {                                      \
        k__pack512(type, false, min, false, any, w, row_bytes, rows, n, to);                     \
    }
K__INT_512(q2_K, K_Q2_K, true, true)
K__INT_512(q3_K, K_Q3_K, false, true)
K__INT_512(q4_K, K_Q4_K, true, false)
K__INT_512(q5_K, K_Q5_K, true, false)
K__INT_512(q6_K, K_Q6_K, false, true)
K__INT_512(tq2_0, K_TQ2_0, false, true)
K__INT_512(iq4_xs, K_IQ4_XS, false, false)
K__INT_512(any_int, K__ANY, false, false)
K__SCALE_512(q4_0, K_Q4_0, 32, false)
K__SCALE_512(q4_1, K_Q4_1, 32, true)
K__SCALE_512(q5_0, K_Q5_0, 32, false)
K__SCALE_512(q5_1, K_Q5_1, 32, true)
K__SCALE_512(q8_0, K_Q8_0, 32, false)
K__SCALE_512(q1_0, K_Q1_0, 32, false)
K__SCALE_512(iq4_nl, K_IQ4_NL, 32, false)
K__SCALE_512(mxfp4, K_MXFP4, 32, false)
K__SCALE_512(nvfp4, K_NVFP4, 16, false)
K__SCALE_512(any_scale, K__ANY, 32, false)

#define K__TILE_512(name, columns, call)                                                                                 \
    K__512 void k__tile_##name##_##columns##_512(const k__panel *w, const k__cols *x, int first, int end, k__ahead *ahead, \
                                                 float(*y)[K__STRIP]) {                                                  \
        const int T = columns;                                                                                           \
        call;                                                                                                            \
    }
#define K__TILES_512(name, call)                                                                                \
    K__TILE_512(name, 4, call) K__TILE_512(name, 5, call) K__TILE_512(name, 6, call) K__TILE_512(name, 7, call) \
    K__TILE_512(name, 8, call)
/*                                      group has_min by */
K__TILES_512(int16_min, k__int_tile512(T, 16, true, K__BY_WORDS, w, x, first, end, ahead, y))
K__TILES_512(int16_off, k__int_tile512(T, 16, false, K__BY_WORDS, w, x, first, end, ahead, y))
K__TILES_512(int16_bound, k__int_tile512(T, 16, false, K__BY_BOUND, w, x, first, end, ahead, y))
K__TILES_512(int16_wide, k__int_tile512(T, 16, false, K__BY_INTS, w, x, first, end, ahead, y))
K__TILES_512(int32_bound, k__int_tile512(T, 32, true, K__BY_BOUND, w, x, first, end, ahead, y))
K__TILES_512(int32_wide, k__int_tile512(T, 32, false, K__BY_INTS, w, x, first, end, ahead, y))
K__TILES_512(scale32, k__scale_tile512(T, 32, false, w, x, first, end, ahead, y))
K__TILES_512(scale32_min, k__scale_tile512(T, 32, true, w, x, first, end, ahead, y))
K__TILES_512(scale16, k__scale_tile512(T, 16, false, w, x, first, end, ahead, y))

#define K__FAMILY_512(name, tile, ready_, bound_)                                                                \
    static const k__tiles k__tiles_##name##_512 = {                                                              \
        .of = {[4] = k__tile_##tile##_4_512, k__tile_##tile##_5_512, k__tile_##tile##_6_512, k__tile_##tile##_7_512, \
               k__tile_##tile##_8_512},                                                                          \
        .ready = ready_, .bound = bound_};
K__FAMILY_512(int16_min, int16_min, NULL, 0)
K__FAMILY_512(int16_off, int16_off, NULL, 0)
K__FAMILY_512(int16_six, int16_bound, NULL, K__BOUND_6)
K__FAMILY_512(int16_wide, int16_wide, NULL, 0)
K__FAMILY_512(int32_four, int32_bound, NULL, K__BOUND_4)
K__FAMILY_512(int32_five, int32_bound, NULL, K__BOUND_5)
K__FAMILY_512(int32_wide, int32_wide, NULL, 0)
K__FAMILY_512(scale32, scale32, k__ready512, 0)
K__FAMILY_512(scale32_min, scale32_min, NULL, 0)
K__FAMILY_512(scale16, scale16, NULL, 0)

#define K__PLAN_512(name, tiles) {k__row_##name##_512, k__pack_##name##_512, &k__tiles_##tiles##_512}
static const k__plan k__plans_512[K_TYPE_MAX] = {
    [K_Q2_K]    = K__PLAN_512(q2_K, int16_min),
    [K_Q3_K]    = K__PLAN_512(q3_K, int16_off),
    [K_Q4_K]    = K__PLAN_512(q4_K, int32_four),
    [K_Q5_K]    = K__PLAN_512(q5_K, int32_five),
    [K_Q6_K]    = K__PLAN_512(q6_K, int16_six),
    [K_TQ1_0]   = K__PLAN_512(any_int, int32_wide),
    [K_TQ2_0]   = K__PLAN_512(tq2_0, int16_off),
    [K_IQ1_S]   = K__PLAN_512(any_int, int32_wide),
    [K_IQ1_M]   = K__PLAN_512(any_int, int16_wide),
    [K_IQ2_XXS] = K__PLAN_512(any_int, int32_wide),
    [K_IQ2_XS]  = K__PLAN_512(any_int, int16_wide),
    [K_IQ2_S]   = K__PLAN_512(any_int, int16_wide),
    [K_IQ3_XXS] = K__PLAN_512(any_int, int32_wide),
    [K_IQ3_S]   = K__PLAN_512(any_int, int32_wide),
    [K_IQ4_XS]  = K__PLAN_512(iq4_xs, int32_wide),
    [K_Q4_0]    = K__PLAN_512(q4_0, scale32),
    [K_Q4_1]    = K__PLAN_512(q4_1, scale32_min),
    [K_Q5_0]    = K__PLAN_512(q5_0, scale32),
    [K_Q5_1]    = K__PLAN_512(q5_1, scale32_min),
    [K_Q8_0]    = K__PLAN_512(q8_0, scale32),
    [K_Q1_0]    = K__PLAN_512(q1_0, scale32),
    [K_Q2_0]    = K__PLAN_512(any_scale, scale32),
    [K_IQ4_NL]  = K__PLAN_512(iq4_nl, scale32),
    [K_MXFP4]   = K__PLAN_512(mxfp4, scale32),
    [K_NVFP4]   = K__PLAN_512(nvfp4, scale16),
};

K__SHARED_512 void k_mul_quant_avx512(uint32_t type, const void *w, size_t row_bytes, int nr, int n, const k_acts *a,
                                      float *y, size_t ldy, void *scratch) {
    k__mul_quant(k__plans_512, NULL, type, w, row_bytes, nr, n, a, y, ldy, scratch);
}

/* Magnitudes of floats are compared as integers, so that a NaN is the largest. The reference handles blocks with NaN or infinity, or with
 * values whose inverse overflows. */
K__SHARED_512 int k_quant_act_avx512(const float *x, int n, int8_t *q, k_sums *sum, float *d) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), zero = _mm512_setzero_si512();
    __m512i       most = zero, fours[4], sizes[4], all = zero;
    for (int i = 0; i < n; i += 16) most = _mm512_max_epi32(most, _mm512_and_si512(k__ld512(x + i), _mm512_set1_epi32(0x7fffffff)));
    const float amax = k__f32_of((uint32_t)_mm512_reduce_max_epi32(most)), inv = amax > 0 ? 127.0f / amax : 0.0f;
    if (!(amax <= FLT_MAX && inv <= FLT_MAX)) return k_quant_act_ref(x, n, q, sum, d);
    *d = amax / 127.0f;
    for (int i = 0; i < n; i += 16) {
        const __m512 v = _mm512_mul_ps(_mm512_loadu_ps(x + i), _mm512_set1_ps(inv));
        _mm_storeu_si128((__m128i *)(q + i), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
    }
    K__UNROLL for (int i = 0; i < 4; i++) {
        const int     left = n - 64 * i;
        const __m512i v = _mm512_maskz_loadu_epi8(left >= 64 ? ~0ull : left > 0 ? (1ull << left) - 1 : 0, q + 64 * i);
        fours[i] = _mm512_dpbusd_epi32(zero, _mm512_set1_epi8(1), v);
        sizes[i] = _mm512_dpbusd_epi32(zero, _mm512_abs_epi8(v), _mm512_set1_epi8(1));
        all = _mm512_add_epi32(all, sizes[i]);
    }
    const __m256i of16 = _mm512_cvtepi32_epi16(_mm512_permutexvar_epi32(order, k__sum4x4(fours))), one = _mm256_set1_epi16(1);
    const __m512i size16 = _mm512_permutexvar_epi32(order, k__sum4x4(sizes));
    const __m256i of32 = _mm256_madd_epi16(of16, one), size32 = _mm256_madd_epi16(_mm512_cvtepi32_epi16(size16), one);
    _mm256_storeu_si256((__m256i *)(void *)sum->of16, of16);
    _mm_storeu_si128((__m128i *)(void *)sum->of32, k__crossed(_mm256_cvtepi32_epi16(of32)));
    sum->most16 = (int16_t)_mm512_reduce_max_epi32(size16);
    sum->most32 = (int16_t)k__most_one_sign(size32, of32);
    return _mm512_reduce_add_epi32(all);
}

#endif /* part 2 */

/* ===== [quant_avx2] =====
 * And avx_vnni, which is avx2 with other tiles.
 * Codes of up to 6 bits are multiplied as u8 (q + 2^off), wider ones as |q| with the sign moved to the activation. In both cases a
 * pair sum of vpmaddubsw is at most 2*128*127 = 32512 and cannot saturate. */

#if K__PART(1)

/* Codes 32j .. 32j + 31 of the 256 at p, in order; signed when k__off says K__WIDE. */
K__IN_AVX2 __m256i k__nibbles_avx2(const uint8_t *p) {
    __m128i v = k__ld128(p);
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(v, 4), v), _mm256_set1_epi8(15));
}

K__IN_AVX2 __m256i k__table_avx2(__m256i nibbles, const int8_t *table) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(k__ld128(table)), nibbles);
}

/* The bits of 32 bytes from bit `at` on, moved to bit `to`. */
K__IN_AVX2 __m256i k__bits_avx2(const uint8_t *p, int at, int to, int mask) {
    __m256i v = k__ld256(p);
    v = at < to ? _mm256_slli_epi16(v, to - at) : _mm256_srli_epi16(v, at - to);
    return _mm256_and_si256(v, _mm256_set1_epi8((char)mask));
}

/* Byte i = value where bit i is set, else 0. */
K__IN_AVX2 __m256i k__spread_avx2(uint32_t bits, int value) {
    __m256i v = _mm256_shuffle_epi8(
        _mm256_set1_epi32((int)bits),
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303));
    __m256i one = _mm256_set1_epi64x((long long)0x8040201008040201u);
    return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(v, one), one), _mm256_set1_epi8((char)value));
}

K__IN_AVX2 __m256i k__codes_avx2(uint32_t type, const uint8_t *p, int j) {
    int half = j / 4, part = j % 4;                   /* for the formats in halves of 128 */
    switch (type) {
    case K_Q4_K: return k__bits_avx2(p + 16 + 32 * (j / 2), j % 2 * 4, 0, 15);
    case K_Q5_K:
        return _mm256_or_si256(k__bits_avx2(p + 48 + 32 * (j / 2), j % 2 * 4, 0, 15),
                               k__bits_avx2(p + 16, j, 4, 16));
    case K_Q2_K: return k__bits_avx2(p + 16 + 32 * half, 2 * part, 0, 3);
    case K_TQ2_0: return k__bits_avx2(p + 32 * half, 2 * part, 0, 3);
    case K_Q3_K:
        return _mm256_or_si256(k__bits_avx2(p + 32 + 32 * half, 2 * part, 0, 3), k__bits_avx2(p, j, 2, 4));
    case K_Q6_K: {
        __m256i lo = k__bits_avx2(p + 64 * half + part % 2 * 32, part / 2 * 4, 0, 15);
        return _mm256_or_si256(lo, k__bits_avx2(p + 128 + 32 * half, 2 * part, 4, 0x30));
    }
    case K_Q4_0: return k__nibbles_avx2(p + 18 * j + 2);
    case K_Q4_1: return k__nibbles_avx2(p + 20 * j + 4);
    case K_Q5_0:
        return _mm256_or_si256(k__nibbles_avx2(p + 22 * j + 6), k__spread_avx2(k__u32(p + 22 * j + 2), 16));
    case K_Q5_1:
        return _mm256_or_si256(k__nibbles_avx2(p + 24 * j + 8), k__spread_avx2(k__u32(p + 24 * j + 4), 16));
    case K_Q1_0: return k__spread_avx2(k__u32(p + 18 * half + 2 + 4 * part), 2);
    case K_IQ4_NL: return k__table_avx2(k__nibbles_avx2(p + 18 * j + 2), k__iq4_values);
    case K_IQ4_XS: return k__table_avx2(k__nibbles_avx2(p + 8 + 16 * j), k__iq4_values);
    case K_MXFP4: return k__table_avx2(k__nibbles_avx2(p + 17 * j + 1), k__fp4_values);
    case K_NVFP4: {                                   /* every 8 bytes are 16 codes, low nibbles first */
        __m256i v = k__nibbles_avx2(p + 36 * (j / 2) + 4 + 16 * (j % 2));
        return k__table_avx2(_mm256_permute4x64_epi64(v, 0xd8), k__fp4_values);
    }
    case K_Q8_0: return k__ld256(p + 34 * j + 2);
    default: return k__ld256(p + 32 * j);             /* K__ANY */
    }
}

/* w.x in 16 pair sums */
K__IN_AVX2 __m256i k__pairs_avx2(bool wide, __m256i w, __m256i x) {
    return wide ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w))
                : _mm256_maddubs_epi16(w, x);
}

/* --- dot --- */

/* Partial isum and imin of a block and column; v: its products times their scales. */
K__IN_AVX2 void k__int_sums_avx2(uint32_t type, bool has_min, const k__heads *h, const int16_t *of16, __m256i v, __m256i *to) {
    const __m256i sum = k__ld256(of16);
    const int     off = k__off(type);
    if (off >= 0 && off != K__WIDE) v = _mm256_sub_epi32(v, _mm256_slli_epi32(_mm256_madd_epi16(h->sc, sum), off));
    to[0] = v;
    if (has_min) to[1] = _mm256_madd_epi16(h->mn, sum);
}

/* T: the number of columns, or 0: more than four, nc of them. Up to four have their sums in registers. */
K__IN_AVX2 void k__int_row_avx2(uint32_t type, bool has_min, const uint8_t *p, int rows, uint32_t any,
                                const k__cols *x, int T, int nc, float *term, size_t ld) {
    const size_t  step = k__super_bytes(type == K__ANY ? any : type);
    const bool    wide = k__off(type) == K__WIDE;
    const __m256i even_odd = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
    k__int_park   park;
    k__unpacked   u;
    for (int b0 = 0, b = 0; b0 < rows * x->nb; b0 += 8) {
        const int m = rows * x->nb - b0 < 8 ? rows * x->nb - b0 : 8, first = b;
        if (m < 8) k__int_blank(&park, nc, m);
        for (int i = 0; i < m; i++, p += step, b = b + 1 < x->nb ? b + 1 : 0) {
            const uint8_t *src = p;
            k__fetch_ahead(p, step);
            if (type == K__ANY) {
                k__unpack_block(any, p, K_SUPER, &u);
                src = (const uint8_t *)&u;            /* the codes are its first member */
            }
            __m256i  w[8], s[8], v[4];
            k__heads h = k__heads_of(type, src);
            __m256i  sides = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(h.sc, even_odd), 0xd8);
            K__UNROLL for (int j = 0; j < 8; j++) {   /* lower half: scale of group 2j, upper: 2j + 1 */
                w[j] = k__codes_avx2(type, src, j);
                s[j] = _mm256_shuffle_epi8(sides, _mm256_set1_epi16((short)(0x0100 + 0x0202 * j)));
                K__UNROLL for (int c = 0; c < T; c++) {
                    const __m256i q = k__ld256(x->q[c] + (size_t)b * K_SUPER + 32 * j);
                    v[c] = _mm256_add_epi32(j ? v[c] : _mm256_setzero_si256(), _mm256_madd_epi16(k__pairs_avx2(wide, w[j], q), s[j]));
                }
            }
            park.d[i] = h.d;
            K__UNROLL for (int c = 0; c < T; c++) k__int_sums_avx2(type, has_min, &h, x->sum[c][b].of16, v[c], park.sum[c][i]);
            for (int c = 0; !T && c < nc; c++) {
                const int8_t *q = x->q[c] + (size_t)b * K_SUPER;
                __m256i       all = _mm256_setzero_si256();
                K__UNROLL for (int j = 0; j < 8; j++) all = _mm256_add_epi32(
                    all, _mm256_madd_epi16(k__pairs_avx2(wide, w[j], k__ld256(q + 32 * j)), s[j]));
                k__int_sums_avx2(type, has_min, &h, x->sum[c][b].of16, all, park.sum[c][i]);
            }
        }
        K__NO_UNROLL for (int c = 0; c < nc; c++)
            k__int_finish(&park, type != K__ANY, has_min, c, x->d[c] + first, term + (size_t)c * ld + b0);
    }
}

/* Sums of 16 groups of 16: v[j] holds group 2j in its lower half, 2j + 1 in its upper. */
K__IN_AVX2 __m256i k__sum4x2(const __m256i *v) {
    __m256i r = _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
    return _mm256_permutevar8x32_epi32(r, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

K__IN_AVX2 void k__group_sums_avx2(uint32_t type, int group, bool has_min, const __m256i *w, const int8_t *q,
                                   const int16_t *sum, __m256i *dot, __m256i *asum) {
    const bool    wide = k__off(type) == K__WIDE;
    const __m256i ones = _mm256_set1_epi16(1), pairs = _mm256_madd_epi16(k__ld256(sum), ones);
    __m256i       v[8];
    K__UNROLL for (int j = 0; j < 8; j++)
        v[j] = _mm256_madd_epi16(k__pairs_avx2(wide, w[j], k__ld256(q + 32 * j)), ones);
    if (group == 16) {                                /* NVFP4, wide */
        dot[0] = k__sum4x2(v);
        dot[1] = k__sum4x2(v + 4);
        return;
    }
    dot[0] = k__sum8(v, 1);
    if (!wide && k__off(type) >= 0) dot[0] = _mm256_sub_epi32(dot[0], _mm256_slli_epi32(pairs, k__off(type)));
    if (has_min) *asum = pairs;
}

K__IN_AVX2 void k__scale_row_avx2(uint32_t type, int group, bool has_min, const uint8_t *p, int rows,
                                  uint32_t any, const k__cols *x, int nc, float *term, size_t ld) {
    const uint32_t real = type == K__ANY ? any : type;
    const size_t   step = k__super_bytes(real);
    const int      nb = x->nb + (x->tail > 0);
    uint8_t        last[K__PAD];
    k__scale_park  park;
    k__unpacked    u;
    for (int b0 = 0, b = 0; b0 < rows * nb; b0 += 8) {
        const int m = rows * nb - b0 < 8 ? rows * nb - b0 : 8, first = b;
        if (m < 8) k__scale_blank(&park, nc, m);
        for (int i = 0; i < m; i++, p += step, b = b + 1 < nb ? b + 1 : 0) {
            const uint8_t *src = b < x->nb ? p : k__pad_tail(real, p, x->tail, last);
            k__fetch_ahead(p, step);
            if (type == K__ANY) {
                k__unpack_block(any, src, K_SUPER, &u);
                src = (const uint8_t *)&u;
            }
            __m256i w[8];
            K__UNROLL for (int j = 0; j < 8; j++) w[j] = k__codes_avx2(type, src, j);
            k__park_scales(type, src, has_min, park.fs[i], park.hs[i], park.hm[i]);
            for (int c = 0; c < nc; c++)
                k__group_sums_avx2(type, group, has_min, w, k__cols_q(x, c, b),
                                   k__cols_sum(x, c, b), park.dot[c][i], &park.asum[c][i]);
        }
        K__NO_UNROLL for (int c = 0; c < nc; c++) k__scale_finish(
            &park, k__has_halves(type), group, has_min, c, x->d[c] + first, term + (size_t)c * ld + b0);
    }
}

/* --- panel --- */

/* 8x8 transpose of dwords, row k to `to` + k * stride dwords. */
K__AVX2 void k__spill8(const __m256i *from, void *to, size_t stride) {
    __m256 r[8];
    K__UNROLL for (int i = 0; i < 8; i++) r[i] = _mm256_castsi256_ps(_mm256_load_si256(from + i));
    k__transpose8(r);
    K__UNROLL for (int i = 0; i < 8; i++) _mm256_storeu_ps((float *)to + (size_t)i * stride, r[i]);
}

/* Stores the scales of 8 rows in columns at .. at + 7 of an INT panel, each twice for vpmaddwd. */
K__AVX2 void k__int_heads_avx2(const __m256i *sc, const __m256i *mn, int at, k__panel *panel) {
    int32_t pairs[8][8];
    k__spill8(mn, &panel->mn[0][at], K__STRIP);
    k__spill8(sc, pairs, 8);
    K__UNROLL for (int p = 0; p < 8; p++) {
        __m256i v = k__ld256(pairs[p]);
        _mm256_storeu_si256((__m256i *)&panel->sc[2 * p][at],
                            _mm256_blend_epi16(v, _mm256_slli_epi32(v, 16), 0xaa));
        _mm256_storeu_si256((__m256i *)&panel->sc[2 * p + 1][at],
                            _mm256_blend_epi16(_mm256_srli_epi32(v, 16), v, 0xaa));
    }
}

/* The offset becomes a minimum, as at the avx512 level; wide codes have no offset here. */
K__IN_AVX2 void k__int_head_avx2(uint32_t type, const uint8_t *src, __m256i *sc, __m256i *mn, float *d,
                                 float *dm) {
    k__heads h = k__heads_of(type, src);
    *sc = h.sc;
    *mn = k__off(type) < 0 ? h.mn
                           : _mm256_sub_epi16(_mm256_setzero_si256(), _mm256_slli_epi16(h.sc, k__off(type)));
    *d = k__head_d(type, h.d, false);
    *dm = k__head_d(type, h.d, true);
}

/* lo: fs of 8 groups; hi: fs of 8 more, or fm */
K__IN_AVX2 void k__scale_head_avx2(uint32_t type, bool has_min, const uint8_t *src, __m256i *lo,
                                   __m256i *hi) {
    float    fs[16] = {0};
    uint16_t hs[8] = {0}, hm[8] = {0};
    k__park_scales(type, src, has_min, fs, hs, hm);
    *lo = _mm256_castps_si256(k__has_halves(type) ? _mm256_cvtph_ps(k__ld128(hs)) : _mm256_loadu_ps(fs));
    *hi = _mm256_castps_si256(k__has_halves(type) ? _mm256_cvtph_ps(k__ld128(hm)) : _mm256_loadu_ps(fs + 8));
}

/* Like k__pack512. */
K__IN_AVX2 void k__pack_avx2(uint32_t type, bool is_int, bool has_min, uint32_t any, const uint8_t *w,
                             size_t row_bytes, int rows, int n, k__panel *panel) {
    const uint32_t real = type == K__ANY ? any : type;
    const size_t   step = k__super_bytes(real);
    __m256i        codes[8][8], lo[8], hi[8];
    for (int b = 0; b * K_SUPER < n; b++, panel++) {
        int tail = n - b * K_SUPER < K_SUPER ? n - b * K_SUPER : 0;
        for (int at = 0; at < K__STRIP; at += 8) {
            K__NO_UNROLL for (int i = 0; i < 8; i++) {
                const uint8_t *src = w + (size_t)(at + i < rows ? at + i : rows - 1) * row_bytes +
                                     (size_t)b * step;
                uint8_t        last[K__PAD];
                k__unpacked    u;
                if (tail) src = k__pad_tail(real, src, tail, last);
                if (type == K__ANY) {
                    k__unpack_block(any, src, K_SUPER, &u);
                    src = (const uint8_t *)&u;
                }
                K__UNROLL for (int j = 0; j < 8; j++) codes[j][i] = k__codes_avx2(type, src, j);
                if (is_int)
                    k__int_head_avx2(type, src, &lo[i], &hi[i], &panel->d[at + i], &panel->dm[at + i]);
                else k__scale_head_avx2(type, has_min, src, &lo[i], &hi[i]);
            }
            for (int j = 0; j < 8; j++) k__spill8(codes[j], panel->q[8 * j][at], K__STRIP);
            if (is_int) {
                k__int_heads_avx2(lo, hi, at, panel);
            } else {
                k__spill8(lo, &panel->fs[0][at], K__STRIP);
                k__spill8(hi, &panel->fs[8][at], K__STRIP);
            }
        }
    }
}

K__IN_AVX2 __m256i k__bcast_avx2(const void *p) { return _mm256_set1_epi32(k__i32(p)); }

/* Stops the compiler from turning a chain of additions into a tree, which would hold all products at once and spill them. */
#define K__IN_ORDER(v) __asm__("" : "+x"(v))

/* How the products of a group are summed. 1, 2, 4: that many pair sums are added in 16 bits (4: codes up to 31, 2: up to 63, 1: signed
 * codes). From K__VNNI on: four products at once in 32 bits, at the avx_vnni level. NARROW: the sum of a group fits in 16 bits; WIDE:
 * any; SIGNED: signed codes. */
enum { K__VNNI = 16, K__VNNI_NARROW = 16, K__VNNI_WIDE, K__VNNI_SIGNED };
K__IN_AVX2 bool k__signed_codes(int steps) { return steps == 1 || steps == K__VNNI_SIGNED; }

/* Like k__dots_avx2. scaled: s holds one scale for the whole group, twice; else all ones. */
K__IN_AVX2 void k__dots_vnni(int T, int how, bool scaled, const k__panel *w, int at, int k4, int count, const int8_t *const *q,
                             __m256i s, __m256i *acc) {
    __m256i dot[K__TILE];
    K__UNROLL for (int t = 0; t < T; t++) dot[t] = scaled ? _mm256_setzero_si256() : acc[t];
    K__UNROLL for (int k = k4; k < k4 + count; k++) {
        const __m256i wk = k__ld256(w->q[k][at]), u = how == K__VNNI_SIGNED ? _mm256_abs_epi8(wk) : wk;
        K__UNROLL for (int t = 0; t < T; t++) {
            const __m256i x = k__bcast_avx2(q[t] + 4 * k);
            k__dot8_vnni(&dot[t], u, how == K__VNNI_SIGNED ? _mm256_sign_epi8(x, wk) : x);
        }
    }
    s = how == K__VNNI_NARROW ? _mm256_srli_epi32(s, 16) : _mm256_srai_epi32(s, 16);
    K__UNROLL for (int t = 0; t < T; t++) {
        if (!scaled) acc[t] = dot[t];
        else if (how == K__VNNI_NARROW) k__dot16_vnni(&acc[t], dot[t], s);
        else acc[t] = _mm256_add_epi32(acc[t], _mm256_mullo_epi32(dot[t], s));
    }
}

/* acc[t] += sum over count dwords of k from k4, each pair of products times its half of s. */
K__IN_AVX2 void k__dots_avx2(int T, int steps, bool scaled, const k__panel *w, int at, int k4, int count,
                             const int8_t *const *q, __m256i s, __m256i *acc) {
    if (steps >= K__VNNI) {
        k__dots_vnni(T, steps, scaled, w, at, k4, count, q, s, acc);
        return;
    }
    K__UNROLL for (int k = k4; k < k4 + count; k += steps) {
        __m256i p[K__TILE];
        K__UNROLL for (int i = k; i < k + steps; i++) {
            __m256i wi = k__ld256(w->q[i][at]);
            K__UNROLL for (int t = 0; t < T; t++) {
                __m256i v = k__pairs_avx2(steps == 1, wi, k__bcast_avx2(q[t] + 4 * i));
                p[t] = i == k ? v : _mm256_add_epi16(p[t], v);
                K__IN_ORDER(p[t]);
                if (steps > 1) continue;
                acc[t] = _mm256_add_epi32(acc[t], _mm256_madd_epi16(p[t], s));
                K__IN_ORDER(acc[t]);
            }
        }
        if (steps == 1) continue;
        K__UNROLL for (int t = 0; t < T; t++) acc[t] = _mm256_add_epi32(acc[t], _mm256_madd_epi16(p[t], s));
    }
}

K__IN_AVX2 __m256i k__mins_avx2(const k__panel *w, int at, const int16_t *sum, __m256i i) {
    K__UNROLL for (int p = 0; p < 8; p++)
        i = _mm256_add_epi32(i, _mm256_madd_epi16(k__ld256(&w->mn[p][at]), k__bcast_avx2(sum + 2 * p)));
    return i;
}

/* The same for groups of 32, with half the products: of32 pairs groups 0 and 2, 1 and 3, and so on, and so does a blend of their mn. */
K__IN_AVX2 __m256i k__mins32_avx2(const k__panel *w, int at, const int16_t *of32) {
    __m256i i = _mm256_setzero_si256();
    K__UNROLL for (int p = 0; p < 4; p++) {
        const int     g = p / 2 * 4 + p % 2;
        const __m256i mn = _mm256_blend_epi16(k__ld256(&w->mn[g][at]), k__ld256(&w->mn[g + 2][at]), 0xaa);
        i = _mm256_add_epi32(i, _mm256_madd_epi16(mn, k__bcast_avx2(of32 + 2 * p)));
    }
    return i;
}

K__IN_AVX2 void k__add_scaled_avx2(float *y, __m256 u, float d) {
    _mm256_storeu_ps(y, _mm256_add_ps(_mm256_loadu_ps(y), _mm256_mul_ps(u, _mm256_set1_ps(d))));
}

/* The integer sums of eight rows and block b, times the scales, to y. min_group: 16, 32: groups of the minima; 0: none. */
K__IN_AVX2 void k__int_terms_avx2(int T, int steps, int min_group, const k__panel *w, int at, const k__cols *x, int b,
                                  __m256i *isum, float (*y)[K__STRIP]) {
    const __m256 d = _mm256_loadu_ps(w->d + at), dm = _mm256_loadu_ps(w->dm + at);
    K__UNROLL for (int t = 0; t < T; t++) {
        const k_sums *sum = &x->sum[t][b];
        if (!min_group && !k__signed_codes(steps)) isum[t] = k__mins_avx2(w, at, sum->of16, isum[t]);
        __m256 u = _mm256_mul_ps(d, _mm256_cvtepi32_ps(isum[t]));
        if (min_group) {
            __m256i imin = min_group == 32 ? k__mins32_avx2(w, at, sum->of32)
                                           : k__mins_avx2(w, at, sum->of16, _mm256_setzero_si256());
            u = _mm256_sub_ps(u, _mm256_mul_ps(dm, _mm256_cvtepi32_ps(imin)));
        }
        k__add_scaled_avx2(y[t] + at, u, x->d[t][b]);
    }
}

/* One tile, 8 rows from `at`. */
K__IN_AVX2 void k__int_rows_avx2(int T, int steps, int min_group, const k__panel *w, int at, const k__cols *x, int first, int end,
                                 float (*y)[K__STRIP]) {
    for (int b = first; b < end; b++, w++) {
        if (k__blank(x, T, b)) continue;
        __m256i       isum[K__TILE];
        const int8_t *q[K__TILE];
        K__UNROLL for (int t = 0; t < T; t++) {
            q[t] = x->q[t] + (size_t)b * K_SUPER;
            isum[t] = _mm256_setzero_si256();
        }
        for (int g = 0; g < 16; g++)
            k__dots_avx2(T, steps, true, w, at, 4 * g, 4, q, k__ld256(&w->sc[g][at]), isum);
        k__int_terms_avx2(T, steps, min_group, w, at, x, b, isum, y);
    }
}

/* One tile, 16 rows from `at`: a broadcast of activations serves two vectors of codes, since loads limit a tile of eight rows. The pair
 * sums of `steps` dwords of k are added in 16 bits: 8 where codes are at most 15 and groups have 32, 4 where they are at most 31, 2 up to
 * 63. They fill the registers; isum stays in the L1 cache. */
K__IN_AVX2 void k__int_rows16_avx2(int T, int steps, int min_group, const k__panel *w, int at, const k__cols *x, int first, int end,
                                   float (*y)[K__STRIP]) {
    for (int b = first; b < end; b++, w++) {
        if (k__blank(x, T, b)) continue;
        __m256i       isum[2][K__TILE];
        const int8_t *q[K__TILE];
        K__UNROLL for (int t = 0; t < T; t++) {
            q[t] = x->q[t] + (size_t)b * K_SUPER;
            isum[0][t] = isum[1][t] = _mm256_setzero_si256();
        }
        K__NO_UNROLL for (int k = 0; k < K_SUPER / 4; k += steps) {
            __m256i p[2][K__TILE];
            K__UNROLL for (int i = 0; i < steps; i++) {
                const __m256i w0 = k__ld256(w->q[k + i][at]), w1 = k__ld256(w->q[k + i][at + 8]);
                K__UNROLL for (int t = 0; t < T; t++) {
                    const __m256i v = k__bcast_avx2(q[t] + 4 * (k + i));
                    const __m256i v0 = _mm256_maddubs_epi16(w0, v), v1 = _mm256_maddubs_epi16(w1, v);
                    p[0][t] = i ? _mm256_add_epi16(p[0][t], v0) : v0;
                    K__IN_ORDER(p[0][t]);
                    p[1][t] = i ? _mm256_add_epi16(p[1][t], v1) : v1;
                    K__IN_ORDER(p[1][t]);
                }
            }
            K__UNROLL for (int h = 0; h < 2; h++) {
                const __m256i sc = k__ld256(&w->sc[k / 4][at + 8 * h]);
                K__UNROLL for (int t = 0; t < T; t++)
                    isum[h][t] = _mm256_add_epi32(isum[h][t], _mm256_madd_epi16(p[h][t], sc));
            }
        }
        K__UNROLL for (int h = 0; h < 2; h++)
            k__int_terms_avx2(T, steps, min_group, w, at + 8 * h, x, b, isum[h], y);
    }
}

K__IN_AVX2 void k__scale_rows_avx2(int T, int steps, int group, bool has_min, const k__panel *w, int at,
                                   const k__cols *x, int first, int end, float (*y)[K__STRIP]) {
    const __m256i ones = _mm256_set1_epi16(1), minus = _mm256_set1_epi16((short)-x->offset);
    for (int b = first; b < end; b++, w++) {
        if (k__blank(x, T, b)) continue;
        __m256         f[K__TILE];
        const int8_t  *q[K__TILE];
        const int16_t *sum[K__TILE];
        K__UNROLL for (int t = 0; t < T; t++) {
            q[t] = k__cols_q(x, t, b);
            sum[t] = k__cols_sum(x, t, b);
            f[t] = _mm256_setzero_ps();
        }
        for (int g = 0; g < K_SUPER / group; g++) {
            __m256i dot[K__TILE];
            K__UNROLL for (int t = 0; t < T; t++) {
                dot[t] = _mm256_setzero_si256();
                if (!has_min && !k__signed_codes(steps)) dot[t] = _mm256_madd_epi16(minus, k__bcast_avx2(sum[t] + 2 * g));
            }
            k__dots_avx2(T, steps, false, w, at, g * group / 4, group / 4, q, ones, dot);
            K__UNROLL for (int t = 0; t < T; t++) {
                f[t] = _mm256_add_ps(
                    f[t], _mm256_mul_ps(_mm256_loadu_ps(&w->fs[g][at]), _mm256_cvtepi32_ps(dot[t])));
                if (!has_min) continue;
                __m256 s = _mm256_cvtepi32_ps(_mm256_madd_epi16(ones, k__bcast_avx2(sum[t] + 2 * g)));
                f[t] = _mm256_add_ps(f[t], _mm256_mul_ps(_mm256_loadu_ps(&w->fs[8 + g][at]), s));
            }
        }
        K__UNROLL for (int t = 0; t < T; t++) k__add_scaled_avx2(y[t] + at, f[t], x->d[t][b]);
    }
}

K__IN_AVX2 void k__ahead_avx2(k__ahead *a, int blocks) {
    for (int i = 0; i < a->lines * blocks; i++, a->next += 64)
        _mm_prefetch((const char *)a->next, _MM_HINT_T1);
}

#define K__INT_AVX2(name, type, min)                                                               \
    K__AVX2 void k__row_##name##_avx2(uint32_t any, const uint8_t *p, int rows, const k__cols *x,  \
                                      float *term, size_t ld) {                                    \
        switch (x->n) {                                                                            \
        case 1: k__int_row_avx2(type, min, p, rows, any, x, 1, 1, term, ld); break;                \
        case 2: k__int_row_avx2(type, min, p, rows, any, x, 2, 2, term, ld); break;                \
        case 3: k__int_row_avx2(type, min, p, rows, any, x, 3, 3, term, ld); break;                \
        case 4: k__int_row_avx2(type, min, p, rows, any, x, 4, 4, term, ld); break;                \
        default: k__int_row_avx2(type, min, p, rows, any, x, 0, x->n, term, ld);                   \
        }                                                                                          \
    }                                                                                              \
    K__AVX2 void k__pack_##name##_avx2(uint32_t any, const uint8_t *w, size_t row_bytes, int rows, \
                                       int n, k__panel *to) {                                      \
        k__pack_avx2(type, true, min, any, w, row_bytes, rows, n, to);                             \
    }
#define K__SCALE_AVX2(name, type, group, min)                                                      \
    K__AVX2 void k__row_##name##_avx2(uint32_t any, const uint8_t *p, int rows, const k__cols *x,  \
                                      float *term, size_t ld) {                                    \
        if (x->n == 1) k__scale_row_avx2(type, group, min, p, rows, any, x, 1, term, ld);          \
        else k__scale_row_avx2(type, group, min, p, rows, any, x, x->n, term, ld);                 \
    }                                                                                              \
    K__AVX2 void k__pack_##name##_avx2(uint32_t any, const uint8_t *w, size_t row_bytes, int rows, \
                                       int n, k__panel *to) {                                      \
        k__pack_avx2(type, false, min, any, w, row_bytes, rows, n, to);                            \
    }
K__INT_AVX2(q2_K, K_Q2_K, true)
K__INT_AVX2(q3_K, K_Q3_K, false)
K__INT_AVX2(q4_K, K_Q4_K, true)
K__INT_AVX2(q5_K, K_Q5_K, true)
K__INT_AVX2(q6_K, K_Q6_K, false)
K__INT_AVX2(tq2_0, K_TQ2_0, false)
K__INT_AVX2(iq4_xs, K_IQ4_XS, false)
K__INT_AVX2(any_int, K__ANY, false)
K__SCALE_AVX2(q4_0, K_Q4_0, 32, false)
K__SCALE_AVX2(q4_1, K_Q4_1, 32, true)
K__SCALE_AVX2(q5_0, K_Q5_0, 32, false)
K__SCALE_AVX2(q5_1, K_Q5_1, 32, true)
K__SCALE_AVX2(q8_0, K_Q8_0, 32, false)
K__SCALE_AVX2(q1_0, K_Q1_0, 32, false)
K__SCALE_AVX2(iq4_nl, K_IQ4_NL, 32, false)
K__SCALE_AVX2(mxfp4, K_MXFP4, 32, false)
K__SCALE_AVX2(nvfp4, K_NVFP4, 16, false)
K__SCALE_AVX2(any_scale, K__ANY, 32, false)

#define K__TILE_AVX2(name, columns, rows, call)                                                      \
    K__AVX2 void k__tile_##name##_##columns##_avx2(const k__panel *w, const k__cols *x, int first, int end, k__ahead *a, \
                                                   float(*y)[K__STRIP]) {                            \
        const int T = columns;                                                                       \
        k__ahead_avx2(a, end - first);                                                               \
        for (int at = 0; at < K__STRIP; at += rows) call;                                            \
    }
#define K__TILES_OF_AVX2(name, rows, call)                                                                       \
    K__TILE_AVX2(name, 4, rows, call) K__TILE_AVX2(name, 5, rows, call) K__TILE_AVX2(name, 6, rows, call)        \
    static const k__tiles k__tiles_##name##_avx2 = {                                                             \
        .of = {[4] = k__tile_##name##_4_avx2, k__tile_##name##_5_avx2, k__tile_##name##_6_avx2}};
#define K__TILES_AVX2(name, call)   K__TILES_OF_AVX2(name, 8, call)
#define K__TILES16_AVX2(name, call) K__TILES_OF_AVX2(name, 16, call)
/*                                               steps, group of minima */
K__TILES16_AVX2(int4_min32, k__int_rows16_avx2(T, 8, 32, w, at, x, first, end, y))
K__TILES16_AVX2(int4_min, k__int_rows16_avx2(T, 4, 16, w, at, x, first, end, y))
K__TILES16_AVX2(int5_min, k__int_rows16_avx2(T, 4, 32, w, at, x, first, end, y))
K__TILES16_AVX2(int4_off, k__int_rows16_avx2(T, 4, 0, w, at, x, first, end, y))
K__TILES16_AVX2(int2_off, k__int_rows16_avx2(T, 2, 0, w, at, x, first, end, y))
K__TILES_AVX2(int_wide, k__int_rows_avx2(T, 1, 0, w, at, x, first, end, y))
K__TILES_AVX2(scale4_off, k__scale_rows_avx2(T, 4, 32, false, w, at, x, first, end, y))
K__TILES_AVX2(scale4_min, k__scale_rows_avx2(T, 4, 32, true, w, at, x, first, end, y))
K__TILES_AVX2(scale_wide, k__scale_rows_avx2(T, 1, 32, false, w, at, x, first, end, y))
K__TILES_AVX2(scale16_wide, k__scale_rows_avx2(T, 1, 16, false, w, at, x, first, end, y))

#define K__PLAN_AVX2(name, tiles) {k__row_##name##_avx2, k__pack_##name##_avx2, &k__tiles_##tiles##_avx2}
static const k__plan k__plans_avx2[K_TYPE_MAX] = {
    [K_Q2_K]    = K__PLAN_AVX2(q2_K, int4_min),
    [K_Q3_K]    = K__PLAN_AVX2(q3_K, int4_off),
    [K_Q4_K]    = K__PLAN_AVX2(q4_K, int4_min32),
    [K_Q5_K]    = K__PLAN_AVX2(q5_K, int5_min),
    [K_Q6_K]    = K__PLAN_AVX2(q6_K, int2_off),
    [K_TQ1_0]   = K__PLAN_AVX2(any_int, int_wide),
    [K_TQ2_0]   = K__PLAN_AVX2(tq2_0, int4_off),
    [K_IQ1_S]   = K__PLAN_AVX2(any_int, int_wide),
    [K_IQ1_M]   = K__PLAN_AVX2(any_int, int_wide),
    [K_IQ2_XXS] = K__PLAN_AVX2(any_int, int_wide),
    [K_IQ2_XS]  = K__PLAN_AVX2(any_int, int_wide),
    [K_IQ2_S]   = K__PLAN_AVX2(any_int, int_wide),
    [K_IQ3_XXS] = K__PLAN_AVX2(any_int, int_wide),
    [K_IQ3_S]   = K__PLAN_AVX2(any_int, int_wide),
    [K_IQ4_XS]  = K__PLAN_AVX2(iq4_xs, int_wide),
    [K_Q4_0]    = K__PLAN_AVX2(q4_0, scale4_off),
    [K_Q4_1]    = K__PLAN_AVX2(q4_1, scale4_min),
    [K_Q5_0]    = K__PLAN_AVX2(q5_0, scale4_off),
    [K_Q5_1]    = K__PLAN_AVX2(q5_1, scale4_min),
    [K_Q8_0]    = K__PLAN_AVX2(q8_0, scale_wide),
    [K_Q1_0]    = K__PLAN_AVX2(q1_0, scale4_off),
    [K_Q2_0]    = K__PLAN_AVX2(any_scale, scale_wide),
    [K_IQ4_NL]  = K__PLAN_AVX2(iq4_nl, scale_wide),
    [K_MXFP4]   = K__PLAN_AVX2(mxfp4, scale_wide),
    [K_NVFP4]   = K__PLAN_AVX2(nvfp4, scale16_wide),
};

K__SHARED_AVX2 void k_mul_quant_avx2(uint32_t type, const void *w, size_t row_bytes, int nr, int n, const k_acts *a,
                                     float *y, size_t ldy, void *scratch) {
    k__mul_quant(k__plans_avx2, NULL, type, w, row_bytes, nr, n, a, y, ldy, scratch);
}

/* Whether the decoder of a type has no vector form. */
K__SHARED bool k__decoded_avx2(uint32_t type) {
    const k__plan *p = &k__plans_avx2[type];
    return p->row == k__row_any_int_avx2 || p->row == k__row_any_scale_avx2;
}

/* --- avx_vnni: the avx2 level with other tiles --- */

K__TILES_AVX2(int4_min32_vnni, k__int_rows_avx2(T, K__VNNI_NARROW, 32, w, at, x, first, end, y))
K__TILES_AVX2(int4_min_vnni, k__int_rows_avx2(T, K__VNNI_NARROW, 16, w, at, x, first, end, y))
K__TILES_AVX2(int5_min_vnni, k__int_rows_avx2(T, K__VNNI_WIDE, 32, w, at, x, first, end, y))
K__TILES_AVX2(int4_off_vnni, k__int_rows_avx2(T, K__VNNI_WIDE, 0, w, at, x, first, end, y))
K__TILES_AVX2(int_wide_vnni, k__int_rows_avx2(T, K__VNNI_SIGNED, 0, w, at, x, first, end, y))
K__TILES_AVX2(scale4_off_vnni, k__scale_rows_avx2(T, K__VNNI_WIDE, 32, false, w, at, x, first, end, y))
K__TILES_AVX2(scale4_min_vnni, k__scale_rows_avx2(T, K__VNNI_WIDE, 32, true, w, at, x, first, end, y))
K__TILES_AVX2(scale_wide_vnni, k__scale_rows_avx2(T, K__VNNI_SIGNED, 32, false, w, at, x, first, end, y))
K__TILES_AVX2(scale16_wide_vnni, k__scale_rows_avx2(T, K__VNNI_SIGNED, 16, false, w, at, x, first, end, y))

static const k__tiles *const k__tiles_vnni[][2] = {   /* in place of the one, the other */
    {&k__tiles_int4_min32_avx2, &k__tiles_int4_min32_vnni_avx2},
    {&k__tiles_int4_min_avx2, &k__tiles_int4_min_vnni_avx2},
    {&k__tiles_int5_min_avx2, &k__tiles_int5_min_vnni_avx2},
    {&k__tiles_int4_off_avx2, &k__tiles_int4_off_vnni_avx2},
    {&k__tiles_int2_off_avx2, &k__tiles_int4_off_vnni_avx2},
    {&k__tiles_int_wide_avx2, &k__tiles_int_wide_vnni_avx2},
    {&k__tiles_scale4_off_avx2, &k__tiles_scale4_off_vnni_avx2},
    {&k__tiles_scale4_min_avx2, &k__tiles_scale4_min_vnni_avx2},
    {&k__tiles_scale_wide_avx2, &k__tiles_scale_wide_vnni_avx2},
    {&k__tiles_scale16_wide_avx2, &k__tiles_scale16_wide_vnni_avx2},
};

static const k__tiles *k__swap_vnni(const k__tiles *tiles) {
    for (size_t i = 0; i < sizeof k__tiles_vnni / sizeof k__tiles_vnni[0]; i++)
        if (tiles == k__tiles_vnni[i][0]) return k__tiles_vnni[i][1];
    return tiles;
}

K__SHARED_AVX2 void k_mul_quant_vnni(uint32_t type, const void *w, size_t row_bytes, int nr, int n, const k_acts *a, float *y, size_t ldy,
                                     void *scratch) {
    k__mul_quant(k__plans_avx2, k__swap_vnni, type, w, row_bytes, nr, n, a, y, ldy, scratch);
}

/* Like k_quant_act_avx512. */
K__SHARED_AVX2 int k_quant_act_avx2(const float *x, int n, int8_t *q, k_sums *sum, float *d) {
    const __m256i zero = _mm256_setzero_si256(), one = _mm256_set1_epi16(1);
    __m256i       most = zero;
    for (int i = 0; i < n; i += 8) most = _mm256_max_epi32(most, _mm256_and_si256(k__ld256(x + i), _mm256_set1_epi32(0x7fffffff)));
    const float amax = k__f32_of((uint32_t)k__most8(most)), inv = amax > 0 ? 127.0f / amax : 0.0f;
    if (!(amax <= FLT_MAX && inv <= FLT_MAX)) return k_quant_act_ref(x, n, q, sum, d);
    *d = amax / 127.0f;
    memset(sum, 0, sizeof *sum);
    _Alignas(32) int16_t sizes[16] = {0};
    for (int i = 0; i < n; i += 32) {
        __m256i v[4];
        K__UNROLL for (int k = 0; k < 4; k++)
            v[k] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i + 8 * k), _mm256_set1_ps(inv)));
        __m256i a = _mm256_packs_epi32(v[0], v[1]), b = _mm256_packs_epi32(v[2], v[3]);    /* a fourth in each lane */
        __m256i codes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(a, b), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        __m256i s = _mm256_hadd_epi32(_mm256_madd_epi16(a, one), _mm256_madd_epi16(b, one));
        __m128i t = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
        _mm256_storeu_si256((__m256i *)(void *)(q + i), codes);
        sum->of16[i / 16] = (int16_t)(_mm_extract_epi32(t, 0) + _mm_extract_epi32(t, 1));
        sum->of16[i / 16 + 1] = (int16_t)(_mm_extract_epi32(t, 2) + _mm_extract_epi32(t, 3));
        __m256i size = _mm256_sad_epu8(_mm256_abs_epi8(codes), zero);
        size = _mm256_add_epi32(size, _mm256_shuffle_epi32(size, 0x4e));
        sizes[i / 16] = (int16_t)_mm256_extract_epi16(size, 0);
        sizes[i / 16 + 1] = (int16_t)_mm256_extract_epi16(size, 8);
    }
    const __m256i of32 = _mm256_madd_epi16(k__ld256(sum->of16), one), size16 = k__ld256(sizes), size32 = _mm256_madd_epi16(size16, one);
    const __m128i lo = _mm256_castsi256_si128(of32), hi = _mm256_extracti128_si256(of32, 1);
    _mm_storeu_si128((__m128i *)(void *)sum->of32, k__crossed(_mm_packs_epi32(lo, hi)));
    sum->most16 = (int16_t)k__most8(_mm256_max_epi32(_mm256_srli_epi32(size16, 16), _mm256_and_si256(size16, _mm256_set1_epi32(0xffff))));
    sum->most32 = (int16_t)k__most_one_sign(size32, of32);
    const __m128i all = _mm_add_epi32(_mm256_castsi256_si128(size32), _mm256_extracti128_si256(size32, 1));
    return _mm_cvtsi128_si32(_mm_hadd_epi32(_mm_hadd_epi32(all, all), all));
}

#endif /* part 1 */

#define K__PANEL_BYTES sizeof(k__panel)           /* large enough for the stored sums of a dot of eight rows and columns */
#else
#define K__PANEL_BYTES 0
#endif /* __x86_64__ */

#endif /* __CUDACC__ */

/* ===== [packed] the packed layout of quantised weights (repack) =====
 * Sixteen rows are interleaved, so that the lanes of a vector are rows: no sum goes across lanes, scales are read as vectors, and a
 * code that is unpacked once serves every column of activations. The products have the bits of k_mul_rows, at every level, for any
 * number of columns.
 *
 * LAYOUT  A matrix is a sequence of strips of 16 rows. A strip is a sequence of units along its columns, in 64-byte lines that are
 * read from first to last. A unit is 64, 128 or 256 columns (k__forms): a head with all scales, in front of the codes (INT) or after
 * them (SCALE), and the codes of each 64 columns as planes. Byte 4r + i of a line of codes belongs to row r. A "k-line" is the four
 * columns 4k .. 4k + 3 of all rows; a line of a plane of b bits holds 8/b k-lines:
 *     4 bits  8 lines: k-line i in the low nibbles of line i, k-line 8 + i in the high ones
 *     2 bits  4 lines: k-line 4l + i in bits 2i, 2i + 1 of line l
 *     1 bit   2 lines: k-line 8l + i in bit i of line l
 *     8 bits 16 lines
 * Codes of 3, 5 and 6 bits have two planes, the lower bits in the wider one; k__plane1, 2 and 4 give the places of their lines. Codes
 * are unsigned, q = u - off. Where a format has few uneven values (tables and grids), u is an index into a table of them, so grids
 * are as fast as plain codes. Packing loses nothing: unpacked codes and scales are those of [unpack].
 *
 * USE  The caller allocates k_pack_bytes(type, nr, n) bytes, aligned to 64, gives them to k_pack_rows and frees them later. The rows of
 * the file are not needed afterwards. Row r, a multiple of K_PACK_ROWS, begins k_pack_bytes(type, r, n) bytes after the first,
 * so threads can pack and multiply parts of a matrix. Products with few columns are limited by memory: use pages of 2 MB, first
 * written by the thread that will read them. Size compared with the file: equal for Q4_K Q5_K Q2_K IQ4_XS Q4_0 Q4_1 Q5_0 Q5_1
 * Q8_0 IQ4_NL MXFP4 NVFP4 Q1_0 Q2_0 where n is a multiple of the unit, +1 % Q6_K, +2 % Q3_K, +3 % TQ2_0, +26 % TQ1_0, 1.2 to 1.4
 * times for IQ3_* and IQ2_S, 1.5 to 1.6 for IQ2_X*, 2.0 to 2.1 for IQ1_*. The number of rows is rounded up to a multiple of 16
 * with zero rows. Prefill needs no second copy: for many columns panels are made from the packed rows.
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
 * k-lines 0..3 with 8..11 and again for 4..7 with 12..15: two lines of bit pairs, four lines of nibbles (k-line i in the low nibbles,
 * 8 + i in the high ones). */
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

#define K__FORMS(X) \
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

/* The scales of one row in the unit that begins at column `first` of the block: its values in each line of the head, as one word. */
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

K_BOTH inline uint8_t k__code_of(const k__form *f, const uint8_t *code, int8_t q) { return f->values ? code[(uint8_t)q] : (uint8_t)(q + f->off); }

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

/* Writes up to 256 columns of sixteen rows, in whole units. Where the format has a table, code[(uint8_t)q] is the index of q. Returns
 * the end. */
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
    const k_type  *ty = &k_types[type];
    uint8_t        code[256], *w = dst;
    k__codes_of(f, code);
    for (int r0 = 0; r0 < nr; r0 += K_PACK_ROWS)
        for (int k = 0; k < n; k += K_SUPER) {
            k__unpacked u[K_PACK_ROWS];
            int         len = n - k < K_SUPER ? n - k : K_SUPER;
            memset(u, 0, sizeof u);
            for (int r = 0; r < K_PACK_ROWS && r0 + r < nr; r++)
                k__unpack_block(type,
                                (const uint8_t *)src + (size_t)(r0 + r) * row_bytes +
                                    (size_t)(k / ty->block) * ty->bytes,
                                len, &u[r]);
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

static void k_mul_packed_ref(uint32_t type, const void *w, int nr, int n, const k_acts *a, float *y,
                             size_t ldy, void *scratch) {
    size_t strip = k_pack_bytes(type, K_PACK_ROWS, n);
    (void)scratch;
    for (int r = 0; r < nr; r += K_PACK_ROWS)
        k__mul_strip_ref(type, (const uint8_t *)w + (size_t)(r / K_PACK_ROWS) * strip,
                         nr - r < K_PACK_ROWS ? nr - r : K_PACK_ROWS, n, a, y + r, ldy);
}

/* ===== [packed_x86] what the vector levels share =====
 * Few columns, up to eight in a pass (cols), are multiplied with the packed block itself: the codes of a line are unpacked in registers,
 * once for all columns. For more, two strips are unpacked into panels, which are multiplied by the tiles of [quant_x86]: a block of them at a
 * time for up to 64 columns, a whole strip at a time for many. The terms of offsets and minima come from sums of activations; `aux` holds them ready, so that a dot
 * starts with one broadcast load. A block is 16 rows by 256 columns. */

#if defined(__x86_64__)

enum {
    K__PASSES = 8,                                    /* passes of few columns, at most */
    K__LANE_WHOLE, K__LANE_LOW, K__LANE_BOTH          /* sc in a lane: as int32; in the low word; in both */
};

/* What a pass precomputes from k_sums: at most 16 int32 for each column and block. */
enum {
    K__AUX_NONE,
    K__AUX_OFF16, K__AUX_OFF32,                       /* -off * sum of 16 or 32: start value of a group's dot */
    K__AUX_OFF32X,                                    /* the same, times 16 for every second group */
    K__AUX_PAIRS16,                                   /* (0, 2) (1, 3) (4, 6) .. of the sums of 16 */
    K__AUX_FLOAT                                      /* the sums of 32 as float */
};

/* Columns that are computed together. */
typedef struct k__pass k__pass;
typedef void k__cols_fn(const k__panel *open, const uint8_t *w, const k__pass *x, int b,
                        float (*y)[K_PACK_ROWS]);
struct k__pass {
    const k__form *form;
    k__cols_fn    *fn;
    int32_t       *aux;                               /* [blocks][columns][16] */
    k__cols        c;
};

typedef struct {
    void (*codes)(const k__form *f, const uint8_t *w, int segs, k__panel *to, int at);
    void (*heads)(const k__form *f, const uint8_t *w, int groups, k__panel *to, int at);
    k__cols_fn *cols[K__COLS];
    bool opened;                                      /* cols needs the block in the panel */
    int  aux;
    const k__tiles *tiles;
    int width;                                        /* columns of a pass of k__packed_few() */
    int panel_cols;                                   /* from this number of columns on panels are faster, with tiles of up to six; measured */
} k__packed_plan;

/* Prefetches one line for each line that is read: many at once would fill the buffers of the core and stall the reads. The line may
 * lie beyond the matrix. With one column some processors are faster without it (g_k_ahead 0). */
static inline __attribute__((always_inline)) void k__line_ahead(int T, const uint8_t *p) {
    _mm_prefetch((const char *)((uintptr_t)p + (T == 1 ? g_k_ahead : K__AHEAD)), _MM_HINT_T1);
}
static inline __attribute__((always_inline)) void k__head_ahead(int T, const uint8_t *h, int lines) {
    K__UNROLL for (int i = 0; i < 5; i++)
        if (i < lines) k__line_ahead(T, h + 64 * i);
}

/* Eight rows of a head's line. */
K__IN_AVX2 __m256i k__lane_bits(__m256i v, int at, int mask) {
    return _mm256_and_si256(_mm256_srli_epi32(v, at), _mm256_set1_epi32(mask));
}

/* sc of group g; v: the lines of the head. */
K__IN_AVX2 __m256i k__lane_sc(int head, const __m256i *v, int g) {
    switch (head) {
    case K__HEAD_MIN6: return k__lane_bits(v[g / 8], g / 2 % 4 * 8, 63);
    case K__HEAD_MIN4: return k__lane_bits(v[g / 4], g % 4 * 8, 15);
    case K__HEAD_S8: return _mm256_srai_epi32(_mm256_slli_epi32(v[g / 4], 24 - g % 4 * 8), 24);
    case K__HEAD_S6: case K__HEAD_S6X2: {
        int     i = head == K__HEAD_S6 ? g : g / 2;
        __m256i lo = k__lane_bits(v[head == K__HEAD_S6 ? g / 8 : 0], i % 8 * 4, 15),
                hi = v[head == K__HEAD_S6 ? 2 : 1];
        hi = i < 2 ? _mm256_slli_epi32(hi, 4 - 2 * i) : _mm256_srli_epi32(hi, 2 * i - 4);
        hi = _mm256_and_si256(hi, _mm256_set1_epi32(0x30));
        return _mm256_sub_epi32(_mm256_or_si256(lo, hi), _mm256_set1_epi32(32));
    }
    default: return _mm256_set1_epi32(1);             /* K__HEAD_ONE */
    }
}

K__IN_AVX2 __m256i k__lane_mn(int head, const __m256i *v, int g) {
    if (head == K__HEAD_MIN4) return k__lane_bits(v[g / 4], g % 4 * 8 + 4, 15);
    int at = g / 2 % 4 * 8;
    if (g < 8) return k__lane_bits(v[2], at, 63);
    __m256i lo = k__lane_bits(v[0], at + 6, 3), mid = k__lane_bits(v[1], at + 6, 3),
            hi = k__lane_bits(v[2], at + 6, 3);
    return _mm256_or_si256(lo, _mm256_or_si256(_mm256_slli_epi32(mid, 2), _mm256_slli_epi32(hi, 4)));
}

/* Two words in a lane. */
K__IN_AVX2 __m256i k__lane_pair(__m256i lo, __m256i hi) {
    return _mm256_blend_epi16(lo, _mm256_slli_epi32(hi, 16), 0xaa);
}

K__IN_AVX2 __m256 k__lane_halves(const uint8_t *p) { return _mm256_cvtph_ps(k__ld128(p)); }

/* Unpacks the head at h of an INT block. The offset becomes a minimum: sc*(u - off) = sc*u + (-sc*off)*1. */
K__IN_AVX2 void k__open_int(int head, int lane, int lines, int off, float factor, const uint8_t *h,
                            k__panel *to, int at) {
    const bool has_min = head == K__HEAD_MIN6 || head == K__HEAD_MIN4;
    for (int r = 0; r < K_PACK_ROWS; r += 8, h += 32) {
        __m256i v[5], sc[2], mn[2];
        __m256  d;
        K__UNROLL for (int i = 0; i < 5; i++) v[i] = k__ld256(h + 64 * (i < lines ? i : 0));
        K__UNROLL for (int p = 0; p < 8; p++) {
            K__UNROLL for (int i = 0; i < 2; i++) {
                __m256i s = sc[i] = k__lane_sc(head, v, 2 * p + i);
                if (lane == K__LANE_LOW) s = _mm256_blend_epi16(s, _mm256_setzero_si256(), 0xaa);
                if (lane == K__LANE_BOTH) s = k__lane_pair(s, s);
                mn[i] = has_min ? k__lane_mn(head, v, 2 * p + i)
                                : _mm256_mullo_epi16(sc[i], _mm256_set1_epi32(-off & 0xffff));
                _mm256_store_si256((__m256i *)&to->sc[2 * p + i][at + r], s);
            }
            _mm256_store_si256((__m256i *)&to->mn[p][at + r], k__lane_pair(mn[0], mn[1]));
        }
        if (has_min) {
            const uint8_t *halves = h - 2 * r + 64 * (lines - 1);
            d = k__lane_halves(halves);
            _mm256_store_ps(&to->dm[at + r], k__lane_halves(halves + 32));
        } else if (head == K__HEAD_S6X2) {
            __m256i f16 = _mm256_srli_epi32(v[1], 16);
            f16 = _mm256_permute4x64_epi64(_mm256_packus_epi32(f16, f16), 0xd8);
            d = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(f16)), _mm256_set1_ps(factor));
        } else {
            d = _mm256_castsi256_ps(v[lines - 1]);
        }
        _mm256_store_ps(&to->d[at + r], d);
    }
}

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

/* Unpacks the heads of the units of a SCALE block; missing groups get scale zero. */
K__IN_AVX2 void k__open_scale(int head, int segs, size_t unit, int bits, const uint8_t *w, int groups,
                              k__panel *to, int at) {
    const int per = head == K__HEAD_E4 ? 16 : 32, each = 64 * segs / per, all = K_SUPER / per;
    for (int r = 0; r < K_PACK_ROWS; r += 8) {
        const uint8_t *h = w + 128 * bits * segs;
        int            g = 0;
        for (; g < groups; h += unit)
            for (int i = 0; i < each; i++, g++) {
                const uint8_t *half = h + 32 * (i / segs) + 2 * r;
                __m256         s = head == K__HEAD_E8   ? k__lane_e8(h + 16 * i + r)
                                   : head == K__HEAD_E4 ? k__lane_e4(h + 16 * i + r)
                                                        : k__lane_halves(half);
                _mm256_store_ps(&to->fs[g][at + r], s);
                if (head == K__HEAD_F16M) _mm256_store_ps(&to->fs[8 + g][at + r], k__lane_halves(half + 64));
            }
        for (; g < all; g++) {
            _mm256_store_ps(&to->fs[g][at + r], _mm256_setzero_ps());
            if (head == K__HEAD_F16M) _mm256_store_ps(&to->fs[8 + g][at + r], _mm256_setzero_ps());
        }
    }
}

#define K__HEADS_INT(name, head, lines, lane)                                                            \
    K__AVX2 void k__heads_##name(const k__form *f, const uint8_t *w, int groups, k__panel *to, int at) { \
        (void)groups;                                                                                    \
        k__open_int(head, lane, lines, f->off, f->factor, w, to, at);                                    \
    }
#define K__HEADS_SCALE(name, head)                                                                       \
    K__AVX2 void k__heads_##name(const k__form *f, const uint8_t *w, int groups, k__panel *to, int at) { \
        k__open_scale(head, f->segs, k__unit_bytes(f), f->bits, w, groups, to, at);                      \
    }
K__HEADS_INT(min6_whole, K__HEAD_MIN6, 4, K__LANE_WHOLE)
K__HEADS_INT(min6_both, K__HEAD_MIN6, 4, K__LANE_BOTH)
K__HEADS_INT(min4_low, K__HEAD_MIN4, 5, K__LANE_LOW)
K__HEADS_INT(min4_both, K__HEAD_MIN4, 5, K__LANE_BOTH)
K__HEADS_INT(s8_low, K__HEAD_S8, 5, K__LANE_LOW)
K__HEADS_INT(s8_both, K__HEAD_S8, 5, K__LANE_BOTH)
K__HEADS_INT(s6_low, K__HEAD_S6, 4, K__LANE_LOW)
K__HEADS_INT(s6_whole, K__HEAD_S6, 4, K__LANE_WHOLE)
K__HEADS_INT(s6_both, K__HEAD_S6, 4, K__LANE_BOTH)
K__HEADS_INT(s6x2_whole, K__HEAD_S6X2, 2, K__LANE_WHOLE)
K__HEADS_INT(s6x2_both, K__HEAD_S6X2, 2, K__LANE_BOTH)
K__HEADS_INT(one_low, K__HEAD_ONE, 1, K__LANE_LOW)
K__HEADS_INT(one_both, K__HEAD_ONE, 1, K__LANE_BOTH)
K__HEADS_SCALE(f16, K__HEAD_F16)
K__HEADS_SCALE(f16m, K__HEAD_F16M)
K__HEADS_SCALE(e8, K__HEAD_E8)
K__HEADS_SCALE(e4, K__HEAD_E4)

/* Unpacks one block of len columns into rows at .. at + 15 of the panel. */
static void k__open_block(const k__packed_plan *p, const k__form *f, const uint8_t *w, int len, k__panel *to,
                          int at) {
    p->codes(f, w, (len + 63) / 64, to, at);
    p->heads(f, w, f->head == K__HEAD_E4 ? len / 16 : len / 32, to, at);
}

/* The aux words of one block and column; in baseline vectors, since every task computes them again. */
K__BODY void k__aux_block(int kind, int off, const int16_t *sum, int32_t *to) {
    const __m128i v[2] = {_mm_loadu_si128((const __m128i *)(const void *)sum), _mm_loadu_si128((const __m128i *)(const void *)(sum + 8))};
    const __m128i even = _mm_set1_epi16((short)-off), odd = _mm_set1_epi16((short)(kind == K__AUX_OFF32X ? -16 * off : -off));
    const __m128i by = kind == K__AUX_OFF32 || kind == K__AUX_OFF32X ? _mm_unpacklo_epi32(even, odd) : _mm_set1_epi16(1);
    const __m128i s[2] = {_mm_madd_epi16(v[0], by), _mm_madd_epi16(v[1], by)}, zero = _mm_setzero_si128();
    __m128i      *m = (__m128i *)(void *)to;
    for (int h = 0; h < 2; h++)
        switch (kind) {
        case K__AUX_OFF16:
            _mm_storeu_si128(m + 2 * h, _mm_madd_epi16(_mm_unpacklo_epi16(v[h], zero), even));
            _mm_storeu_si128(m + 2 * h + 1, _mm_madd_epi16(_mm_unpackhi_epi16(v[h], zero), even));
            break;
        case K__AUX_PAIRS16: _mm_storeu_si128(m + h, k__crossed(v[h])); break;
        case K__AUX_FLOAT:   _mm_storeu_ps((float *)to + 4 * h, _mm_cvtepi32_ps(s[h])); break;
        default:             _mm_storeu_si128(m + h, s[h]);
        }
}

/* mem: 64 bytes for each block and column; returns its unused rest. */
K__BODY int32_t *k__aux_set(k__pass *x, int kind, int off, int32_t *mem) {
    const int blocks = x->c.nb + (x->c.tail > 0);
    x->aux = mem;
    if (kind == K__AUX_NONE) return mem;
    for (int b = 0; b < blocks; b++)
        for (int t = 0; t < x->c.n; t++, mem += 16) k__aux_block(kind, off, k__cols_sum(&x->c, t, b), mem);
    return mem;
}

/* Columns t0 .. t0 + count - 1. Where no kernel has that number of columns, the last one is repeated. */
static void k__pass_set(k__pass *x, k__cols_fn *const *cols, const k__form *f, const k_acts *a, int t0, int count, int n) {
    int32_t idx[K__COLS];
    k_acts  some = *a;
    int     width = count;
    while (!cols[width - 1]) width++;
    for (int c = 0; c < width; c++) idx[c] = k__row_of(a, t0 + (c < count ? c : count - 1));
    some.idx = idx;
    k__cols_set(&x->c, &some, 0, width, n);
    x->c.offset = f->off;
    x->form = f;
    x->fn = cols[width - 1];
}

/* Few columns: every strip is read once. block: one panel more than a row has blocks. The first panel holds the current block, the
 * others have space for the words of k__aux_set (4 KB a block). */
K__BODY void k__packed_few(const k__packed_plan *p, uint32_t type, const uint8_t *w, int nr, int n,
                           const k_acts *a, float *y, size_t ldy, k__panel *block) {
    const k__form *f = &k__forms[type];
    const int      parts = (a->nt + p->width - 1) / p->width;
    const int      nb = n / K_SUPER, tail = n % K_SUPER;
    const size_t   whole = (size_t)k__units(f, K_SUPER) * k__unit_bytes(f), last = (size_t)k__units(f, tail) * k__unit_bytes(f);
    int32_t       *mem = (int32_t *)(void *)(block + 1);
    int            first[K__PASSES + 1];
    k__pass        x[K__PASSES];
    _Alignas(64) float acc[K__PASSES][K__COLS][K_PACK_ROWS];
    for (int i = 0; i <= parts; i++) first[i] = i < parts ? i * p->width : a->nt;
    for (int i = 0; i < parts; i++) {
        k__pass_set(&x[i], p->cols, f, a, first[i], first[i + 1] - first[i], n);
        mem = k__aux_set(&x[i], p->aux, f->off, mem);
    }
    for (int r = 0; r < nr; r += K_PACK_ROWS) {
        const int rows = nr - r < K_PACK_ROWS ? nr - r : K_PACK_ROWS;
        for (int t = 0; t < a->nt; t++) k__sums_ahead(y + (size_t)t * ldy + r, rows);
        for (int i = 0; i < parts; i++)
            for (int t = 0; t < x[i].c.n; t++) *(k__v16 *)acc[i][t] = (k__v16){0};
        for (int b = 0; b < nb + (tail > 0); b++) {
            const size_t bytes = b < nb ? whole : last;
            const int    lines = (int)(bytes / 64);
            if (p->opened) k__open_block(p, f, w, b < nb ? K_SUPER : tail, block, 0);
            for (int i = 0; i < parts; i++) {
                for (int l = p->opened ? k__share(lines, parts, i) : lines; l < k__share(lines, parts, i + 1); l++)
                    k__line_ahead(K__COLS, w + 64 * l);
                if (!k__blank(&x[i].c, x[i].c.n, b)) x[i].fn(block, w, &x[i], b, acc[i]);
            }
            w += bytes;
        }
        for (int i = 0; i < parts; i++)
            for (int t = first[i]; t < first[i + 1]; t++)
                k__put_sums(y + (size_t)t * ldy + r, acc[i][t - first[i]], rows, K_PACK_ROWS);
    }
}

/* Unpacks block b of two strips, or of the last one twice, into a panel. */
static void k__open_pair(const k__packed_plan *p, const k__form *f, const uint8_t *w, size_t strip, int rows, int n, int b, k__panel *to) {
    const int      len = n - b * K_SUPER < K_SUPER ? n - b * K_SUPER : K_SUPER;
    const uint8_t *src = w + (size_t)b * (size_t)k__units(f, K_SUPER) * k__unit_bytes(f);
    k__open_block(p, f, src, len, to, 0);
    k__open_block(p, f, rows > K_PACK_ROWS ? src + strip : src, len, to, K_PACK_ROWS);
}

/* The same of all blocks. */
static void k__packed_panels(const k__packed_plan *p, const k__form *f, const uint8_t *w, size_t strip,
                             int rows, int n, k__panel *to) {
    for (int b = 0; b * K_SUPER < n; b++, to++) k__open_pair(p, f, w, strip, rows, n, b, to);
}

/* Up to this number of columns one panel, of a block of two strips, is multiplied with all columns before the next block is unpacked: the panel
 * stays in the L1 cache, and so do most of the columns' codes and sums. */
enum { K__BLOCK_COLS = 64 };

/* Multiplies nr packed rows at w with the columns of a, block by block; a->nt <= K__BLOCK_COLS. panel: space for one. y: [nt][ldy]. */
K__BODY void k__packed_blocks(const k__packed_plan *p, const k__tiles *tiles, uint32_t type, const uint8_t *w, int nr, int n, const k_acts *a,
                              float *y, size_t ldy, k__panel *panel) {
    const k__form *f = &k__forms[type];
    const int      parts = k__tile_parts(tiles, a->nt), blocks = (n + K_SUPER - 1) / K_SUPER;
    const size_t   strip = k_pack_bytes(type, K_PACK_ROWS, n);
    k__cols        x[(K__BLOCK_COLS + K__TILE_REGS - 1) / K__TILE_REGS];
    _Alignas(64) float out[K__BLOCK_COLS][K__STRIP];
    for (int i = 0; i < parts; i++) {
        const int t0 = k__share(a->nt, parts, i);
        k__cols_set(&x[i], a, t0, k__share(a->nt, parts, i + 1) - t0, n);
        x[i].offset = f->off;
        x[i].bound = tiles->bound;
    }
    for (int r = 0; r < nr; r += K__STRIP, w += 2 * strip) {
        const int      rows = nr - r < K__STRIP ? nr - r : K__STRIP, next = nr - r - rows;
        const uint8_t *end = w + 2 * strip + (next <= 0 ? 0 : next <= K_PACK_ROWS ? strip : 2 * strip);
        const int      steps = parts * blocks, lines = (int)((end - (w + 2 * strip)) / 64);
        k__ahead       ahead = {w + 2 * strip, (lines + steps - 1) / steps};
        memset(out, 0, (size_t)a->nt * sizeof *out);
        for (int t = 0; t < a->nt; t++) k__sums_ahead(y + (size_t)t * ldy + r, rows);
        for (int b = 0; b < blocks; b++) {
            bool blank = a->gaps;
            for (int i = 0; i < parts && blank; i++) blank = k__blank(&x[i], x[i].n, b);
            if (blank) continue;
            k__open_pair(p, f, w, strip, rows, n, b, panel);
            k__panels_ready(tiles, a->nt, parts, panel, 1);
            for (int i = 0, t = 0; i < parts; t += x[i++].n) {
                if (ahead.next >= end) ahead.lines = 0;
                tiles->of[x[i].n](panel, &x[i], b, b + 1, &ahead, out + t);
            }
        }
        for (int t = 0; t < a->nt; t++) k__put_sums(y + (size_t)t * ldy + r, out[t], rows, K__STRIP);
    }
}

/* Few columns: from the packed blocks. Up to 64: a block at a time, where that is faster: with tiles of eight columns, and at the levels that have tiles
 * of up to six alone. More: whole strips, unpacked into panels. */
K__BODY void k__mul_packed(const k__packed_plan *plans, k__swap *swap, uint32_t type, const void *packed, int nr, int n,
                           const k_acts *a, float *y, size_t ldy, void *scratch) {
    const k__packed_plan *p = &plans[type];
    const k__form        *f = &k__forms[type];
    const uint8_t        *w = packed;
    const size_t          strip = k_pack_bytes(type, K_PACK_ROWS, n);
    k__panel             *panel = (k__panel *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63);
    const k__tiles       *tiles = swap ? swap(p->tiles) : p->tiles;
    const bool            eight = k__tile_cols(tiles) == K__TILE;   /* then panels are faster from two tiles on */
    if (a->nt < (eight ? K__PANEL_COLS + 1 : p->panel_cols)) {
        k__packed_few(p, type, w, nr, n, a, y, ldy, panel);
        return;
    }
    if (a->nt <= K__BLOCK_COLS && (eight || !tiles->of[K__TILE])) {
        k__packed_blocks(p, tiles, type, w, nr, n, a, y, ldy, panel);
        return;
    }
    for (int r = 0; r < nr; r += K__STRIP, w += 2 * strip) {
        int rows = nr - r < K__STRIP ? nr - r : K__STRIP, next = nr - r - rows;
        k__packed_panels(p, f, w, strip, rows, n, panel);
        k__mul_strip(tiles, panel, f->off, rows, n, a, y + r, ldy, w + 2 * strip,
                     next <= 0 ? 0 : next <= K_PACK_ROWS ? strip : 2 * strip);
    }
}

/* ===== [packed_avx512] ===== */

#if K__PART(2)

/* Moves bit `from` of each byte to bit `to`, then applies the mask. */
K__IN_512 __m512i k__moved512(__m512i v, int from, int to, int mask) {
    if (from > to) v = _mm512_srli_epi16(v, (unsigned)(from - to));
    if (from < to) v = _mm512_slli_epi16(v, (unsigned)(to - from));
    return _mm512_and_si512(v, _mm512_set1_epi8((char)mask));
}

/* k-lines i and 8 + i of 64 columns at p. */
K__IN_512 void k__lines512(int bits, bool table, __m512i t, const uint8_t *p, int i, __m512i *lo,
                           __m512i *hi) {
    *lo = *hi = _mm512_setzero_si512();
    if (bits & 1) {
        *lo = k__moved512(k__ld512(p + k__plane1(i)), i, bits & 6, 1 << (bits & 6));
        *hi = k__moved512(k__ld512(p + k__plane1(8 + i)), i, bits & 6, 1 << (bits & 6));
    }
    if (bits & 2) {
        *lo = _mm512_or_si512(*lo, k__moved512(k__ld512(p + k__plane2(bits, i)), i % 4 * 2, bits & 4, 3 << (bits & 4)));
        *hi = _mm512_or_si512(*hi, k__moved512(k__ld512(p + k__plane2(bits, 8 + i)), i % 4 * 2, bits & 4, 3 << (bits & 4)));
    }
    if (bits & 4) {
        __m512i v = k__ld512(p + k__plane4(bits, i));
        *lo = _mm512_or_si512(*lo, k__moved512(v, 0, 0, 15));
        *hi = _mm512_or_si512(*hi, k__moved512(v, 4, 0, 15));
    }
    if (table) {
        *lo = _mm512_shuffle_epi8(t, *lo);
        *hi = _mm512_shuffle_epi8(t, *hi);
    }
}

K__IN_512 void k__codes_open512(int bits, bool table, const k__form *f, const uint8_t *w, int segs,
                                k__panel *to, int at) {
    __m512i t = _mm512_setzero_si512();
    if (table)
        t = _mm512_add_epi8(_mm512_broadcast_i32x4(k__ld128(f->values)), _mm512_set1_epi8((char)f->off));
    for (int s = 0; s < segs; s++) {
        const uint8_t *p =
            w + (size_t)(s / f->segs) * k__unit_bytes(f) + k__codes_at(f) + (size_t)(s % f->segs) * (size_t)(128 * bits);
        uint8_t (*q)[K__STRIP][4] = &to->q[16 * s];
        K__UNROLL for (int i = 0; i < 8; i++) {
            __m512i lo, hi;
            if (bits == 8) {
                lo = k__ld512(p + 64 * i);
                hi = k__ld512(p + 64 * i + 512);
            } else {
                k__lines512(bits, table, t, p, i, &lo, &hi);
            }
            _mm512_store_si512(q[i][at], lo);
            _mm512_store_si512(q[8 + i][at], hi);
        }
    }
}

#define K__CODES_512(name, bits, table)                                                                     \
    K__512 void k__codes_##name##_512(const k__form *f, const uint8_t *w, int segs, k__panel *to, int at) { \
        k__codes_open512(bits, table, f, w, segs, to, at);                                                  \
    }
K__CODES_512(1t, 1, true)
K__CODES_512(2, 2, false)
K__CODES_512(3, 3, false)
K__CODES_512(3t, 3, true)
K__CODES_512(4, 4, false)
K__CODES_512(4t, 4, true)
K__CODES_512(5, 5, false)
K__CODES_512(6, 6, false)
K__CODES_512(8, 8, false)

/* --- few columns, straight from the packed block --- */

/* k-lines i and 8 + i of 64 columns; plain nibbles are not shifted: the second line is 16 times its codes. */
K__IN_512 void k__direct512(int bits, bool table, __m512i t, const uint8_t *p, int i, __m512i *lo,
                            __m512i *hi) {
    if (bits == 4 && !table) {
        __m512i v = k__ld512(p + 64 * i);
        *lo = _mm512_and_si512(v, _mm512_set1_epi8(15));
        *hi = _mm512_and_si512(v, _mm512_set1_epi8(-16));
    } else {
        k__lines512(bits, table, t, p, i, lo, hi);
    }
}

/* Adds to a the dots of count k-lines from `from` on, to c those of the k-lines 8 after, of 64 columns; q[j]: their activations, row j. Codes of
 * whole bytes are two runs of lines, which are read one after the other, as one stream. */
K__IN_512 void k__direct_dots512(int T, int bits, bool table, __m512i t, const uint8_t *p, int from,
                                 int count, const int8_t *const *q, __m512i *a, __m512i *c) {
    if (bits == 8) {
        K__UNROLL for (int i = from; i < from + count; i++) {
            k__line_ahead(T, p + 64 * i);
            K__UNROLL for (int j = 0; j < T; j++)
                a[j] = _mm512_dpbusd_epi32(a[j], k__ld512(p + 64 * i), k__bcast512(q[j] + 4 * i));
        }
        K__UNROLL for (int i = 8 + from; i < 8 + from + count; i++) {
            k__line_ahead(T, p + 64 * i);
            K__UNROLL for (int j = 0; j < T; j++)
                c[j] = _mm512_dpbusd_epi32(c[j], k__ld512(p + 64 * i), k__bcast512(q[j] + 4 * i));
        }
        return;
    }
    K__UNROLL for (int i = from; i < from + count; i++) {
        __m512i lo, hi;
        K__UNROLL for (int l = 0; l < 2; l++)
            if (i * bits / 4 + l < (i + 1) * bits / 4) k__line_ahead(T, p + 64 * (i * bits / 4 + l));
        k__direct512(bits, table, t, p, i, &lo, &hi);
        K__UNROLL for (int j = 0; j < T; j++) {
            a[j] = _mm512_dpbusd_epi32(a[j], lo, k__bcast512(q[j] + 4 * i));
            c[j] = _mm512_dpbusd_epi32(c[j], hi, k__bcast512(q[j] + 4 * i + 32));
        }
    }
}

K__IN_512 __m512i k__values512(bool table, const k__form *f) {
    if (!table) return _mm512_setzero_si512();
    return _mm512_add_epi8(_mm512_broadcast_i32x4(k__ld128(f->values)), _mm512_set1_epi8((char)f->off));
}

/* Reads the lines of the head at their place in the stream, even if their values are used later. Returns their number. */
K__IN_512 int k__head_touch512(int T, int head, const uint8_t *h) {
    K__UNROLL for (int i = 0; i < k__head_lines(head); i++) {
        k__line_ahead(T, h + 64 * i);
        __asm__ volatile("" : : "v"(k__ld512(h + 64 * i)));
    }
    return k__head_lines(head);
}

/* Minima as words for the pairs of of32 and of K__AUX_PAIRS16. Returns the number of vectors. */
K__IN_512 int k__mins_open512(int head, const uint8_t *h, __m512i *mn) {
    const __m512i even = _mm512_set1_epi32(0x00ff00ff);
    if (head == K__HEAD_MIN4) {
        K__UNROLL for (int l = 0; l < 4; l++) {
            __m512i v = k__moved512(k__ld512(h + 64 * l), 4, 0, 15);
            mn[2 * l] = _mm512_and_si512(v, even);
            mn[2 * l + 1] = _mm512_and_si512(_mm512_srli_epi32(v, 8), even);
        }
        return 8;
    }
    __m512i v2 = k__ld512(h + 128), m0 = _mm512_and_si512(v2, _mm512_set1_epi8(63));
    __m512i m1 = k__moved512(k__ld512(h), 6, 0, 3);
    m1 = _mm512_or_si512(m1, k__moved512(k__ld512(h + 64), 6, 2, 12));
    m1 = _mm512_or_si512(m1, k__moved512(v2, 6, 4, 48));
    mn[0] = _mm512_and_si512(m0, even);
    mn[1] = _mm512_and_si512(_mm512_srli_epi32(m0, 8), even);
    mn[2] = _mm512_and_si512(m1, even);
    mn[3] = _mm512_and_si512(_mm512_srli_epi32(m1, 8), even);
    return 4;
}

/* y[t] += u * d of the column; isum is the complete sum, as float. */
K__IN_512 void k__int_finish512(int T, int head, const uint8_t *h, const k__pass *x, int b,
                                const __m512 *isum, float (*y)[K_PACK_ROWS]) {
    const bool     has_min = head == K__HEAD_MIN6 || head == K__HEAD_MIN4;
    const int32_t *aux = x->aux + (size_t)b * (size_t)T * 16;
    const uint8_t *last = h + 64 * (k__head_lines(head) - 1);
    __m512i        mn[8];
    __m512         d, dm;
    int            n = 0;
    if (has_min) {
        n = k__mins_open512(head, h, mn);
        d = _mm512_cvtph_ps(k__ld256(last));
        dm = _mm512_cvtph_ps(k__ld256(last + 32));
    } else if (head == K__HEAD_S6X2) {
        d = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(k__ld512(last), 16)));
        d = _mm512_mul_ps(d, _mm512_set1_ps(x->form->factor));
    } else {
        d = _mm512_castsi512_ps(k__ld512(last));
    }
    K__UNROLL for (int t = 0; t < T; t++) {
        __m512 u = _mm512_mul_ps(d, isum[t]);
        if (has_min) {
            const int16_t *pairs = head == K__HEAD_MIN6 ? x->c.sum[t][b].of32 : (const int16_t *)(aux + 16 * t);
            __m512i        m = _mm512_setzero_si512();
            K__UNROLL for (int i = 0; i < n; i++) m = _mm512_dpwssd_epi32(m, mn[i], k__bcast512(pairs + 2 * i));
            u = _mm512_sub_ps(u, _mm512_mul_ps(dm, _mm512_cvtepi32_ps(m)));
        }
        k__add_scaled512(y[t], u, x->c.d[t][b]);
    }
}

/* Q4_K. Scales are multiplied in float: 4 groups * 63 * 32 * 15 * 127 < 2^24, so the sum of half a block is exact. The sum of the
 * two halves is rounded once, like the conversion of an integer. */
K__IN_512 void k__q4_K_direct512(int T, const uint8_t *w, const k__pass *x, int b, float (*y)[K_PACK_ROWS]) {
    const uint8_t *h = w;
    const __m512i  six = _mm512_set1_epi32(63);
    const int8_t  *q[K__COLS];
    __m512i        v = k__ld512(h);
    __m512         f[K__COLS], half[K__COLS];
    K__UNROLL for (int t = 0; t < T; t++) {
        q[t] = x->c.q[t] + (size_t)b * K_SUPER;
        f[t] = half[t] = _mm512_setzero_ps();
    }
    w += 64 * k__head_touch512(T, K__HEAD_MIN6, h);
    K__NO_UNROLL for (int s = 0; s < 4; s++, w += 512, v = _mm512_srli_epi32(v, 16)) {
        __m512i a[K__COLS], c[K__COLS];
        K__UNROLL for (int t = 0; t < T; t++) a[t] = c[t] = _mm512_setzero_si512();
        k__direct_dots512(T, 4, false, v, w, 0, 8, q, a, c);
        if (s == 2) {
            v = k__ld512(h + 64);
            K__UNROLL for (int t = 0; t < T; t++) {
                half[t] = f[t];
                f[t] = _mm512_setzero_ps();
            }
        }
        __m512 s0 = _mm512_cvtepi32_ps(_mm512_and_si512(v, six));
        __m512 s1 = _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srli_epi32(v, 8), six));
        s1 = _mm512_mul_ps(s1, _mm512_set1_ps(0.0625f));
        K__UNROLL for (int t = 0; t < T; t++) {
            f[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(a[t]), s0, f[t]);
            f[t] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(c[t]), s1, f[t]);
            q[t] += 64;
        }
    }
    K__UNROLL for (int t = 0; t < T; t++) f[t] = _mm512_add_ps(half[t], f[t]);
    k__int_finish512(T, K__HEAD_MIN6, h, x, b, f, y);
}

/* sc of the groups of the s-th 64 columns; narrow: only in the lower word. */
K__IN_512 void k__direct_sc512(int head, bool narrow, const uint8_t *h, int s, __m512i *sc) {
    const __m512i minus = narrow ? _mm512_set1_epi32(32) : _mm512_set1_epi16(0);
    switch (head) {
    case K__HEAD_MIN6: {
        __m512i v = _mm512_srl_epi32(k__ld512(h + 64 * (s / 2)), _mm_cvtsi32_si128(s % 2 * 16));
        sc[0] = _mm512_and_si512(v, _mm512_set1_epi32(63));
        sc[1] = _mm512_and_si512(_mm512_srli_epi32(v, 8), _mm512_set1_epi32(63));
        return;
    }
    case K__HEAD_MIN4:
        K__UNROLL for (unsigned i = 0; i < 4; i++)
            sc[i] = _mm512_and_si512(_mm512_srli_epi32(k__ld512(h + 64 * s), 8 * i), _mm512_set1_epi32(15));
        return;
    case K__HEAD_S8:
        K__UNROLL for (unsigned i = 0; i < 4; i++) {
            sc[i] = _mm512_srai_epi32(_mm512_slli_epi32(k__ld512(h + 64 * s), 24 - 8 * i), 24);
            if (narrow) sc[i] = _mm512_and_si512(sc[i], _mm512_set1_epi32(0xffff));
        }
        return;
    case K__HEAD_S6: case K__HEAD_S6X2: {
        const bool each16 = head == K__HEAD_S6;
        __m512i    lo = k__ld512(each16 ? h + 64 * (s / 2) : h), hi = k__ld512(each16 ? h + 128 : h + 64);
        lo = _mm512_srl_epi32(lo, _mm_cvtsi32_si128(each16 ? s % 2 * 16 : s * 8));
        hi = _mm512_srl_epi32(hi, _mm_cvtsi32_si128(each16 ? s * 8 : s * 4));
        K__UNROLL for (unsigned i = 0; i < 4; i++) {
            if (!each16 && i == 2) break;
            __m512i low = _mm512_and_si512(_mm512_srli_epi32(lo, 4 * i), _mm512_set1_epi32(15));
            __m512i up = i < 2 ? _mm512_slli_epi32(hi, 4 - 2 * i) : _mm512_srli_epi32(hi, 2 * i - 4);
            low = _mm512_or_si512(low, _mm512_and_si512(up, _mm512_set1_epi32(0x30)));
            sc[i] = narrow ? _mm512_sub_epi16(low, minus) : _mm512_sub_epi32(low, _mm512_set1_epi32(32));
        }
        return;
    }
    }
}

/* Group g of both halves of 64 columns at w: sum[t] += sc * dot. The start value of a dot subtracts the offset. */
K__IN_512 void k__int_group512(int T, int bits, bool table, int head, bool narrow, int group, int g,
                               __m512i values, const uint8_t *w, const int32_t *start, const int8_t *const *q,
                               const __m512i *sc, __m512i *sum) {
    const bool has_min = head == K__HEAD_MIN6 || head == K__HEAD_MIN4;
    const int  other = g + 32 / group;
    __m512i    a[K__COLS], c[K__COLS];
    K__UNROLL for (int t = 0; t < T; t++) {
        a[t] = has_min ? _mm512_setzero_si512() : k__bcast512(start + 16 * t + g);
        c[t] = has_min ? _mm512_setzero_si512() : k__bcast512(start + 16 * t + other);
    }
    k__direct_dots512(T, bits, table, values, w, g * group / 4, group / 4, q, a, c);
    K__UNROLL for (int t = 0; t < T; t++) {
        if (head == K__HEAD_ONE) {
            sum[t] = _mm512_add_epi32(sum[t], _mm512_add_epi32(a[t], c[t]));
        } else if (narrow) {
            sum[t] = _mm512_dpwssd_epi32(sum[t], a[t], sc[g]);
            sum[t] = _mm512_dpwssd_epi32(sum[t], c[t], sc[other]);
        } else {
            __m512i v = _mm512_mullo_epi32(a[t], sc[g]);
            sum[t] = _mm512_add_epi32(sum[t], _mm512_add_epi32(v, _mm512_mullo_epi32(c[t], sc[other])));
        }
    }
}

/* The other INT formats. narrow: dots of groups fit in words. */
K__IN_512 void k__int_direct512(int T, int bits, bool table, int head, bool narrow, const uint8_t *w,
                                const k__pass *x, int b, float (*y)[K_PACK_ROWS]) {
    const int      group = head == K__HEAD_MIN4 || head == K__HEAD_S8 || head == K__HEAD_S6 ? 16 : 32;
    const uint8_t *h = w;
    const int32_t *start = x->aux + (size_t)b * (size_t)T * 16;
    const __m512i  values = k__values512(table, x->form);
    const int8_t  *q[K__COLS];
    __m512i        sum[K__COLS];
    __m512         f[K__COLS];
    K__UNROLL for (int t = 0; t < T; t++) {
        q[t] = x->c.q[t] + (size_t)b * K_SUPER;
        sum[t] = _mm512_setzero_si512();
    }
    w += 64 * k__head_touch512(T, head, h);
    K__NO_UNROLL for (int s = 0; s < 4; s++, w += 128 * bits, start += 64 / group) {
        __m512i sc[4];
        k__direct_sc512(head, narrow, h, s, sc);
        k__int_group512(T, bits, table, head, narrow, group, 0, values, w, start, q, sc, sum);
        if (group == 16)
            k__int_group512(T, bits, table, head, narrow, group, 1, values, w, start, q, sc, sum);
        K__UNROLL for (int t = 0; t < T; t++) q[t] += 64;
    }
    K__UNROLL for (int t = 0; t < T; t++) f[t] = _mm512_cvtepi32_ps(sum[t]);
    k__int_finish512(T, head, h, x, b, f, y);
}

/* Formats whose dots of groups fit in int16 where the bounds of all columns allow it. */
K__IN_512 void k__bound_direct512(int T, int bits, int head, int bound, const uint8_t *w, const k__pass *x, int b, float (*y)[K_PACK_ROWS]) {
    if (k__fits512(T, head == K__HEAD_S8 ? 16 : 32, bound, &x->c, b)) k__int_direct512(T, bits, false, head, true, w, x, b, y);
    else k__int_direct512(T, bits, false, head, false, w, x, b, y);
}

/* fs of a group of 32, the i-th of the s-th 64 columns of a unit. */
K__IN_512 __m512 k__direct_fs512(int head, int segs, const uint8_t *h, int s, int i) {
    if (head != K__HEAD_E8) return _mm512_cvtph_ps(k__ld256(h + 32 * ((2 * s + i) / segs)));
    __m512i   e = _mm512_cvtepu8_epi32(k__ld128(h + 16 * (2 * s + i))), one = _mm512_set1_epi32(1);
    __mmask16 low = _mm512_cmple_epi32_mask(e, one);
    __m512i   v = _mm512_slli_epi32(_mm512_sub_epi32(e, one), 23);
    return _mm512_castsi512_ps(_mm512_mask_sllv_epi32(v, low, _mm512_set1_epi32(0x00200000), e));
}

/* SCALE formats with groups of 32. */
K__IN_512 void k__scale_direct512(int T, int bits, bool table, int head, int segs, const uint8_t *w,
                                  const k__pass *x, int b, float (*y)[K_PACK_ROWS]) {
    const bool     has_min = head == K__HEAD_F16M;
    const int      groups = (b < x->c.nb ? K_SUPER : x->c.tail) / 32;
    const int32_t *aux = x->aux + (size_t)b * (size_t)T * 16;
    const __m512i  values = k__values512(table, x->form);
    const int8_t  *q[K__COLS];
    __m512         f[K__COLS];
    K__UNROLL for (int t = 0; t < T; t++) {
        q[t] = k__cols_q(&x->c, t, b);
        f[t] = _mm512_setzero_ps();
    }
    K__NO_UNROLL for (int g = 0, s = 0; g < groups; g += 2, w += 128 * bits, aux += 2) {
        const uint8_t *h = w + 128 * bits * (segs - s);
        __m512i        a[K__COLS], c[K__COLS];
        K__UNROLL for (int t = 0; t < T; t++) {
            a[t] = has_min ? _mm512_setzero_si512() : k__bcast512(aux + 16 * t);
            c[t] = has_min ? _mm512_setzero_si512() : k__bcast512(aux + 16 * t + 1);
        }
        k__direct_dots512(T, bits, table, values, w, 0, 8, q, a, c);
        __m512 s0 = k__direct_fs512(head, segs, h, s, 0), s1 = k__direct_fs512(head, segs, h, s, 1);
        if (bits == 4 && !table) s1 = _mm512_mul_ps(s1, _mm512_set1_ps(0.0625f));
        K__UNROLL for (int t = 0; t < T; t++) {
            f[t] = _mm512_add_ps(f[t], _mm512_mul_ps(s0, _mm512_cvtepi32_ps(a[t])));
            if (has_min)
                f[t] = _mm512_add_ps(f[t], _mm512_mul_ps(_mm512_cvtph_ps(k__ld256(h + 64)),
                                                         _mm512_castsi512_ps(k__bcast512(aux + 16 * t))));
            q[t] += 64;
        }
        if (g + 1 == groups) break;
        K__UNROLL for (int t = 0; t < T; t++) {
            f[t] = _mm512_add_ps(f[t], _mm512_mul_ps(s1, _mm512_cvtepi32_ps(c[t])));
            if (has_min)
                f[t] = _mm512_add_ps(f[t], _mm512_mul_ps(_mm512_cvtph_ps(k__ld256(h + 96)),
                                                         _mm512_castsi512_ps(k__bcast512(aux + 16 * t + 1))));
        }
        if (++s == segs) {                            /* skips the head of the next unit */
            k__head_ahead(T, h, k__head_lines(head));
            s = 0;
            w += 64 * k__head_lines(head);
        }
    }
    K__UNROLL for (int t = 0; t < T; t++) k__add_scaled512(y[t], f[t], x->c.d[t][b]);
}

/* --- few columns of an unpacked block: formats with float scales for 16 weights, whose groups are not in the order of the nibbles --- */

K__IN_512 void k__scale16_cols512(int T, const k__panel *w, const k__pass *x, int b,
                                  float (*y)[K_PACK_ROWS]) {
    const int      groups = (b < x->c.nb ? K_SUPER : x->c.tail) / 16;
    const int32_t *aux = x->aux + (size_t)b * (size_t)T * 16;
    __m512         f[K__COLS];
    const int8_t  *q[K__COLS];
    K__UNROLL for (int t = 0; t < T; t++) {
        q[t] = k__cols_q(&x->c, t, b);
        f[t] = _mm512_setzero_ps();
    }
    K__NO_UNROLL for (int g = 0; g < groups; g++) {
        __m512i a[K__COLS];
        K__UNROLL for (int t = 0; t < T; t++) a[t] = k__bcast512(aux + 16 * t + g);
        K__UNROLL for (int k = 4 * g; k < 4 * g + 4; k++) {
            __m512i v = k__ld512(w->q[k][0]);
            K__UNROLL for (int t = 0; t < T; t++)
                a[t] = _mm512_dpbusd_epi32(a[t], v, k__bcast512(q[t] + 4 * k));
        }
        __m512 s = _mm512_loadu_ps(&w->fs[g][0]);
        K__UNROLL for (int t = 0; t < T; t++)
            f[t] = _mm512_add_ps(f[t], _mm512_mul_ps(s, _mm512_cvtepi32_ps(a[t])));
    }
    K__UNROLL for (int t = 0; t < T; t++) k__add_scaled512(y[t], f[t], x->c.d[t][b]);
}

#define K__COLS_N512(name, T_, call)                                                                         \
    K__512 void k__cols_##name##_##T_##_512(const k__panel *open, const uint8_t *w, const k__pass *x, int b, \
                                            float(*y)[K_PACK_ROWS]) {                                        \
        const int T = T_;                                                                                    \
        (void)open, (void)w;                                                                                 \
        call;                                                                                                \
    }
#define K__COLS4_512(name, call)                                                          \
    K__COLS_N512(name, 1, call) K__COLS_N512(name, 2, call) K__COLS_N512(name, 4, call)   \
    K__COLS_N512(name, 8, call)
#define K__COLS8_512(name, call)                                                          \
    K__COLS4_512(name, call) K__COLS_N512(name, 3, call) K__COLS_N512(name, 5, call)      \
    K__COLS_N512(name, 6, call) K__COLS_N512(name, 7, call)
K__COLS8_512(q4_K, k__q4_K_direct512(T, w, x, b, y))
/*                                     bits head */
K__COLS8_512(q5_K, k__bound_direct512(T, 5, K__HEAD_MIN6, K__BOUND_5, w, x, b, y))
K__COLS8_512(q6_K, k__bound_direct512(T, 6, K__HEAD_S8, K__BOUND_6, w, x, b, y))
/*                                     bits table  head          narrow */
K__COLS8_512(q3_K, k__int_direct512(T, 3, false, K__HEAD_S6, true, w, x, b, y))
K__COLS8_512(q2_K, k__int_direct512(T, 2, false, K__HEAD_MIN4, true, w, x, b, y))
K__COLS8_512(iq4_xs, k__int_direct512(T, 4, true, K__HEAD_S6X2, false, w, x, b, y))
K__COLS4_512(iq2_s, k__int_direct512(T, 3, true, K__HEAD_S6, false, w, x, b, y))
K__COLS4_512(iq2_xxs, k__int_direct512(T, 3, true, K__HEAD_S6X2, false, w, x, b, y))
K__COLS4_512(tq2_0, k__int_direct512(T, 2, false, K__HEAD_ONE, false, w, x, b, y))
/*                                       bits table  head       segs */
K__COLS8_512(q4_0, k__scale_direct512(T, 4, false, K__HEAD_F16, 1, w, x, b, y))
K__COLS8_512(q8_0, k__scale_direct512(T, 8, false, K__HEAD_F16, 1, w, x, b, y))
K__COLS8_512(iq4_nl, k__scale_direct512(T, 4, true, K__HEAD_F16, 1, w, x, b, y))
K__COLS8_512(mxfp4, k__scale_direct512(T, 4, true, K__HEAD_E8, 2, w, x, b, y))
K__COLS4_512(q4_1, k__scale_direct512(T, 4, false, K__HEAD_F16M, 1, w, x, b, y))
K__COLS4_512(q5_0, k__scale_direct512(T, 5, false, K__HEAD_F16, 1, w, x, b, y))
K__COLS4_512(q5_1, k__scale_direct512(T, 5, false, K__HEAD_F16M, 1, w, x, b, y))
K__COLS4_512(q1_0, k__scale_direct512(T, 1, true, K__HEAD_F16, 4, w, x, b, y))
K__COLS4_512(q2_0, k__scale_direct512(T, 2, false, K__HEAD_F16, 2, w, x, b, y))
K__COLS4_512(nvfp4, k__scale16_cols512(T, open, x, b, y))

#define K__PACKED_512(code, head, family, sums, from)                                                      \
    .codes = k__codes_##code##_512, .heads = k__heads_##head, .width = 8, .aux = sums, .panel_cols = from, \
    .tiles = &k__tiles_##family##_512
#define K__BY8_512(name)                                                                                     \
    .cols = {k__cols_##name##_1_512, k__cols_##name##_2_512, k__cols_##name##_3_512, k__cols_##name##_4_512, \
             k__cols_##name##_5_512, k__cols_##name##_6_512, k__cols_##name##_7_512, k__cols_##name##_8_512}
#define K__BY4_512(name)                   \
    .cols = {[0] = k__cols_##name##_1_512, \
             [1] = k__cols_##name##_2_512, \
             [3] = k__cols_##name##_4_512, \
             [7] = k__cols_##name##_8_512}
static const k__packed_plan k__packed_512[K_TYPE_MAX] = {
    /*                            codes head      tiles     sums beforehand   panels from */
    [K_Q2_K]    = {K__PACKED_512(2, min4_low, int16_min, K__AUX_PAIRS16, 33), K__BY8_512(q2_K)},
    [K_Q3_K]    = {K__PACKED_512(3, s6_low, int16_off, K__AUX_OFF16, 25), K__BY8_512(q3_K)},
    [K_Q4_K]    = {K__PACKED_512(4, min6_whole, int32_four, K__AUX_NONE, 33), K__BY8_512(q4_K)},
    [K_Q5_K]    = {K__PACKED_512(5, min6_whole, int32_five, K__AUX_NONE, 33), K__BY8_512(q5_K)},
    [K_Q6_K]    = {K__PACKED_512(6, s8_low, int16_six, K__AUX_OFF16, 33), K__BY8_512(q6_K)},
    [K_TQ1_0]   = {K__PACKED_512(2, one_low, int16_off, K__AUX_OFF32, 33), K__BY4_512(tq2_0)},
    [K_TQ2_0]   = {K__PACKED_512(2, one_low, int16_off, K__AUX_OFF32, 33), K__BY4_512(tq2_0)},
    [K_IQ1_S]   = {K__PACKED_512(3t, s6x2_whole, int32_wide, K__AUX_OFF32, 17), K__BY4_512(iq2_xxs)},
    [K_IQ1_M]   = {K__PACKED_512(3t, s6_whole, int16_wide, K__AUX_OFF16, 17), K__BY4_512(iq2_s)},
    [K_IQ2_XXS] = {K__PACKED_512(3t, s6x2_whole, int32_wide, K__AUX_OFF32, 17), K__BY4_512(iq2_xxs)},
    [K_IQ2_XS]  = {K__PACKED_512(3t, s6_whole, int16_wide, K__AUX_OFF16, 17), K__BY4_512(iq2_s)},
    [K_IQ2_S]   = {K__PACKED_512(3t, s6_whole, int16_wide, K__AUX_OFF16, 17), K__BY4_512(iq2_s)},
    [K_IQ3_XXS] = {K__PACKED_512(4t, s6x2_whole, int32_wide, K__AUX_OFF32, 33), K__BY8_512(iq4_xs)},
    [K_IQ3_S]   = {K__PACKED_512(4t, s6x2_whole, int32_wide, K__AUX_OFF32, 33), K__BY8_512(iq4_xs)},
    [K_IQ4_XS]  = {K__PACKED_512(4t, s6x2_whole, int32_wide, K__AUX_OFF32, 33), K__BY8_512(iq4_xs)},
    [K_Q4_0]    = {K__PACKED_512(4, f16, scale32, K__AUX_OFF32X, 33), K__BY8_512(q4_0)},
    [K_Q4_1]    = {K__PACKED_512(4, f16m, scale32_min, K__AUX_FLOAT, 33), K__BY4_512(q4_1)},
    [K_Q5_0]    = {K__PACKED_512(5, f16, scale32, K__AUX_OFF32, 24), K__BY4_512(q5_0)},
    [K_Q5_1]    = {K__PACKED_512(5, f16m, scale32_min, K__AUX_FLOAT, 24), K__BY4_512(q5_1)},
    [K_Q8_0]    = {K__PACKED_512(8, f16, scale32, K__AUX_OFF32, 33), K__BY8_512(q8_0)},
    [K_Q1_0]    = {K__PACKED_512(1t, f16, scale32, K__AUX_OFF32, 33), K__BY4_512(q1_0)},
    [K_Q2_0]    = {K__PACKED_512(2, f16, scale32, K__AUX_OFF32, 33), K__BY4_512(q2_0)},
    [K_IQ4_NL]  = {K__PACKED_512(4t, f16, scale32, K__AUX_OFF32, 25), K__BY8_512(iq4_nl)},
    [K_MXFP4]   = {K__PACKED_512(4t, e8, scale32, K__AUX_OFF32, 24), K__BY8_512(mxfp4)},
    [K_NVFP4]   = {K__PACKED_512(4t, e4, scale16, K__AUX_OFF16, 17), K__BY4_512(nvfp4), .opened = true},
};

K__SHARED_512 void k_mul_packed_avx512(uint32_t type, const void *w, int nr, int n, const k_acts *a, float *y,
                                       size_t ldy, void *scratch) {
    k__mul_packed(k__packed_512, NULL, type, w, nr, n, a, y, ldy, scratch);
}

#endif /* part 2 */

/* ===== [packed_avx2] ===== */

#if K__PART(1)

/* k-line i of 64 columns, eight rows; p points to the first of these rows in a line. */
K__IN_AVX2 __m256i k__line_avx2(int bits, bool table, __m256i t, const uint8_t *p, int i) {
    __m256i v = _mm256_setzero_si256();
    if (bits & 4) v = k__bits_avx2(p + k__plane4(bits, i), i / 8 * 4, 0, 15);
    if (bits & 2)
        v = _mm256_or_si256(v, k__bits_avx2(p + k__plane2(bits, i), i % 4 * 2, bits & 4, 3 << (bits & 4)));
    if (bits & 1) v = _mm256_or_si256(v, k__bits_avx2(p + k__plane1(i), i % 8, bits & 6, 1 << (bits & 6)));
    return table ? _mm256_shuffle_epi8(t, v) : v;
}

/* is_signed: codes are q, else u. */
K__IN_AVX2 void k__codes_open_avx2(int bits, bool table, bool is_signed, const k__form *f, const uint8_t *w,
                                   int segs, k__panel *to, int at) {
    __m256i t = _mm256_setzero_si256();
    if (table) t = _mm256_broadcastsi128_si256(k__ld128(f->values));
    if (table && !is_signed) t = _mm256_add_epi8(t, _mm256_set1_epi8((char)f->off));
    for (int s = 0; s < segs; s++) {
        const uint8_t *p =
            w + (size_t)(s / f->segs) * k__unit_bytes(f) + k__codes_at(f) + (size_t)(s % f->segs) * (size_t)(128 * bits);
        uint8_t (*q)[K__STRIP][4] = &to->q[16 * s];
        K__UNROLL for (int i = 0; i < 16; i++)
            K__UNROLL for (int r = 0; r < 2; r++) {
            __m256i v = bits == 8 ? _mm256_xor_si256(k__ld256(p + 64 * i + 32 * r), _mm256_set1_epi8(-128))
                                  : k__line_avx2(bits, table, t, p + 32 * r, i);
            _mm256_store_si256((__m256i *)q[i][at + 8 * r], v);
            }
    }
}

#define K__CODES_AVX2(name, bits, table, is_signed)                                                 \
    K__AVX2 void k__codes_##name##_avx2(const k__form *f, const uint8_t *w, int segs, k__panel *to, \
                                        int at) {                                                   \
        k__codes_open_avx2(bits, table, is_signed, f, w, segs, to, at);                             \
    }
K__CODES_AVX2(1t, 1, true, false)
K__CODES_AVX2(2, 2, false, false)
K__CODES_AVX2(3, 3, false, false)
K__CODES_AVX2(3t, 3, true, false)
K__CODES_AVX2(3q, 3, true, true)
K__CODES_AVX2(4, 4, false, false)
K__CODES_AVX2(4t, 4, true, false)
K__CODES_AVX2(4q, 4, true, true)
K__CODES_AVX2(5, 5, false, false)
K__CODES_AVX2(6, 6, false, false)
K__CODES_AVX2(8, 8, false, true)

/* --- few columns, straight from the packed block, eight rows at a time --- */

K__IN_AVX2 __m256i k__direct_avx2(int bits, bool table, __m256i t, const uint8_t *p, int i) {
    if (bits == 8) return _mm256_xor_si256(k__ld256(p + 64 * i), _mm256_set1_epi8(-128));
    return k__line_avx2(bits, table, t, p, i);
}

/* acc[j] += products of count k-lines from `from` on of 64 columns, each pair times its half of s; steps: see k__dots_avx2, and 8 for codes
 * up to 15. */
K__IN_AVX2 void k__direct_dots_avx2(int T, int steps, int bits, bool table, __m256i t, const uint8_t *p,
                                    int from, int count, const int8_t *const *q, __m256i s, __m256i *acc) {
    K__UNROLL for (int i = from; i < from + count; i += steps) {
        __m256i v[K__COLS];
        K__UNROLL for (int k = i; k < i + steps; k++) {
            __m256i w = k__direct_avx2(bits, table, t, p, k);
            K__UNROLL for (int j = 0; j < T; j++) {
                __m256i x = k__pairs_avx2(steps == 1, w, k__bcast_avx2(q[j] + 4 * k));
                v[j] = k == i ? x : _mm256_add_epi16(v[j], x);
                if (T > 1) K__IN_ORDER(v[j]);
            }
        }
        K__UNROLL for (int j = 0; j < T; j++) acc[j] = _mm256_add_epi32(acc[j], _mm256_madd_epi16(v[j], s));
    }
}

/* Values of a table: q where steps is 1, else u. */
K__IN_AVX2 __m256i k__values_avx2(bool table, int steps, const k__form *f) {
    if (!table) return _mm256_setzero_si256();
    __m256i t = _mm256_broadcastsi128_si256(k__ld128(f->values));
    return steps == 1 ? t : _mm256_add_epi8(t, _mm256_set1_epi8((char)f->off));
}

/* Returns n and hides it from the compiler, which otherwise makes two copies of a long loop of two iterations. */
static inline __attribute__((always_inline)) int k__opaque(int n) {
    __asm__("" : "+r"(n));
    return n;
}

/* d and dm of eight rows; v: their lines of the head; last: the last line. */
K__IN_AVX2 void k__direct_d_avx2(int head, const __m256i *v, const uint8_t *last, const k__form *f, __m256 *d,
                                 __m256 *dm) {
    *dm = _mm256_setzero_ps();
    switch (head) {
    case K__HEAD_MIN6: case K__HEAD_MIN4:
        *d = k__lane_halves(last);
        *dm = k__lane_halves(last + 32);
        return;
    case K__HEAD_S6X2: {
        __m256i f16 = _mm256_srli_epi32(v[1], 16);
        f16 = _mm256_permute4x64_epi64(_mm256_packus_epi32(f16, f16), 0xd8);
        *d = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(f16)), _mm256_set1_ps(f->factor));
        return;
    }
    default: *d = _mm256_castsi256_ps(v[k__head_lines(f->head) - 1]);
    }
}

/* Two words in a lane: bytes a and b of the lane, without a sign. */
K__IN_AVX2 __m256i k__lane_bytes(__m256i v, int a, int b) {
    const int two = (int)0x80008000 | a | b << 16;    /* 0x80: zero */
    return _mm256_shuffle_epi8(v, _mm256_setr_epi32(two, two + 0x040004, two + 0x080008, two + 0x0c000c, two, two + 0x040004,
                                                    two + 0x080008, two + 0x0c000c));
}

/* The same, with a sign. */
K__IN_AVX2 __m256i k__lane_signed(__m256i v, int a, int b) {
    const int two = 0x800080 | a << 8 | b << 24;
    return _mm256_srai_epi16(_mm256_shuffle_epi8(v, _mm256_setr_epi32(two, two + 0x04000400, two + 0x08000800, two + 0x0c000c00, two,
                                                                      two + 0x04000400, two + 0x08000800, two + 0x0c000c00)), 8);
}

/* Whether groups of 32 share a scale; their minima then are in the order of k_sums.of32. */
static inline __attribute__((always_inline)) bool k__head_by32(int head) { return head == K__HEAD_MIN6; }

/* The scales of eight rows, twice in a lane each, and their minima, two in a lane; without minima, the scales are in their place. v: the
 * lines of the head. */
K__IN_AVX2 void k__direct_head_avx2(int head, const __m256i *v, __m256i *sc, __m256i *mn) {
    const __m256i low4 = _mm256_set1_epi8(15), low6 = _mm256_set1_epi8(63);
    switch (head) {
    case K__HEAD_MIN6: {
        const __m256i up = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(v[0], 6), _mm256_set1_epi8(0x03)),
                                           _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(v[1], 4), _mm256_set1_epi8(0x0c)),
                                                           _mm256_and_si256(_mm256_srli_epi32(v[2], 2), _mm256_set1_epi8(0x30))));
        K__UNROLL for (int g = 0; g < 8; g++) sc[2 * g] = sc[2 * g + 1] = k__lane_bytes(_mm256_and_si256(v[g / 4], low6), g % 4, g % 4);
        K__UNROLL for (int i = 0; i < 4; i++) mn[i] = k__lane_bytes(i < 2 ? _mm256_and_si256(v[2], low6) : up, i % 2, i % 2 + 2);
        return;
    }
    case K__HEAD_MIN4:
        K__UNROLL for (int g = 0; g < 16; g++) sc[g] = k__lane_bytes(_mm256_and_si256(v[g / 4], low4), g % 4, g % 4);
        K__UNROLL for (int i = 0; i < 8; i++)
            mn[i] = k__lane_bytes(_mm256_and_si256(_mm256_srli_epi32(v[i / 2], 4), low4), i % 2 * 2, i % 2 * 2 + 1);
        return;
    case K__HEAD_S8:
        K__UNROLL for (int g = 0; g < 16; g++) sc[g] = k__lane_signed(v[g / 4], g % 4, g % 4);
        break;
    default:
        K__UNROLL for (int g = 0; g < 16; g++) {
            const __m256i s = k__lane_sc(head, v, g);
            sc[g] = k__lane_pair(s, s);
        }
    }
    K__UNROLL for (int i = 0; i < 8; i++) mn[i] = _mm256_blend_epi16(sc[2 * i], sc[2 * i + 1], 0xaa);
}

K__IN_AVX2 void k__int_direct_avx2(int T, int steps, int bits, bool table, int head, const uint8_t *w,
                                   const k__pass *x, int b, float (*y)[K_PACK_ROWS]) {
    const bool     has_min = head == K__HEAD_MIN6 || head == K__HEAD_MIN4, by32 = k__head_by32(head);
    const int      each = steps > 4 ? steps : 4;      /* k-lines with one scale that are summed together */
    const int      n_min = by32 ? 4 : 8;
    const k__form *form = x->form;
    const __m256i  t = k__values_avx2(table, steps, form);
    K__NO_UNROLL for (int r = 0; r < k__opaque(K_PACK_ROWS); r += 8) {
        const uint8_t *h = w + 4 * r, *p = h + 64 * k__head_lines(head);
        const int8_t  *q[K__COLS];
        __m256i        v[5], sc[16], mn[8], sum[K__COLS];
        __m256         d, dm;
        K__UNROLL for (int i = 0; i < 5; i++) v[i] = k__ld256(h + 64 * (i < k__head_lines(head) ? i : 0));
        k__direct_head_avx2(head, v, sc, mn);
        K__UNROLL for (int j = 0; j < T; j++) {
            q[j] = x->c.q[j] + (size_t)b * K_SUPER;
            sum[j] = _mm256_setzero_si256();
        }
        if (!r) k__head_ahead(T, w, k__head_lines(head));
        K__NO_UNROLL for (int s = 0; s < 4; s++, p += 128 * bits) {
            if (!r) K__UNROLL for (int l = 0; l < 2 * bits; l++) k__line_ahead(T, p + 64 * l);
            K__UNROLL for (int i = 0; i < 16; i += each)
                k__direct_dots_avx2(T, steps, bits, table, t, p, i, each, q, sc[4 * s + i / 4], sum);
            K__UNROLL for (int j = 0; j < T; j++) q[j] += 64;
        }
        k__direct_d_avx2(head, v, w + 64 * (k__head_lines(head) - 1) + 2 * r, form, &d, &dm);
        K__UNROLL for (int j = 0; j < T; j++) {
            const int16_t *xs = by32 ? x->c.sum[j][b].of32 : x->c.sum[j][b].of16;
            __m256i        m = _mm256_setzero_si256();
            if (has_min || steps > 1)
                K__UNROLL for (int i = 0; i < n_min; i++)
                    m = _mm256_add_epi32(m, _mm256_madd_epi16(mn[i], k__bcast_avx2(xs + 2 * i)));
            if (!has_min && steps > 1)                /* the offset */
                sum[j] = _mm256_sub_epi32(sum[j], _mm256_mullo_epi32(m, _mm256_set1_epi32(form->off)));
            __m256 u = _mm256_mul_ps(d, _mm256_cvtepi32_ps(sum[j]));
            if (has_min) u = _mm256_sub_ps(u, _mm256_mul_ps(dm, _mm256_cvtepi32_ps(m)));
            k__add_scaled_avx2(y[j] + r, u, x->c.d[j][b]);
        }
    }
}

/* Group i of the s-th 64 columns of a unit, rows r .. r + 7; their codes are at p, the head at h: f[j] += fs * dot + fm * sum. The start
 * value of a dot subtracts the offset. */
K__IN_AVX2 void k__scale_group_avx2(int T, int steps, int bits, bool table, int head, int segs, __m256i t,
                                    const uint8_t *p, const uint8_t *h, int r, int s, int i,
                                    const int32_t *aux, const int8_t *const *q, __m256 *f) {
    const bool has_min = head == K__HEAD_F16M;
    __m256i    a[K__COLS];
    K__UNROLL for (int j = 0; j < T; j++)
        a[j] = has_min || steps == 1 ? _mm256_setzero_si256() : k__bcast_avx2(aux + 16 * j + i);
    k__direct_dots_avx2(T, steps, bits, table, t, p, 8 * i, 8, q, _mm256_set1_epi16(1), a);
    __m256 fs = head == K__HEAD_E8 ? k__lane_e8(h + 16 * (2 * s + i) + r)
                                   : k__lane_halves(h + 32 * ((2 * s + i) / segs) + 2 * r);
    K__UNROLL for (int j = 0; j < T; j++) {
        f[j] = _mm256_add_ps(f[j], _mm256_mul_ps(fs, _mm256_cvtepi32_ps(a[j])));
        if (!has_min) continue;
        __m256 fm = k__lane_halves(h + 64 + 32 * i + 2 * r),
               sum = _mm256_castsi256_ps(k__bcast_avx2(aux + 16 * j + i));
        f[j] = _mm256_add_ps(f[j], _mm256_mul_ps(fm, sum));
    }
}

/* SCALE formats with groups of 32. */
K__IN_AVX2 void k__scale_direct_avx2(int T, int steps, int bits, bool table, int head, int segs,
                                     const uint8_t *w, const k__pass *x, int b, float (*y)[K_PACK_ROWS]) {
    const int     groups = (b < x->c.nb ? K_SUPER : x->c.tail) / 32, tail = head == K__HEAD_F16M ? 128 : 64;
    const __m256i t = k__values_avx2(table, steps, x->form);
    K__NO_UNROLL for (int r = 0; r < k__opaque(K_PACK_ROWS); r += 8) {
        const uint8_t *p = w + 4 * r, *h = w + 128 * bits * segs;
        const int32_t *aux = x->aux + (size_t)b * (size_t)T * 16;
        const int8_t  *q[K__COLS];
        __m256         f[K__COLS];
        K__UNROLL for (int j = 0; j < T; j++) {
            q[j] = k__cols_q(&x->c, j, b);
            f[j] = _mm256_setzero_ps();
        }
        K__NO_UNROLL for (int g = 0, s = 0; g < groups; g += 2, p += 128 * bits, aux += 2) {
            if (!r) K__UNROLL for (int l = 0; l < 2 * bits + 1; l++) k__line_ahead(T, p + 64 * l);
            k__scale_group_avx2(T, steps, bits, table, head, segs, t, p, h, r, s, 0, aux, q, f);
            if (g + 1 == groups) break;
            k__scale_group_avx2(T, steps, bits, table, head, segs, t, p, h, r, s, 1, aux, q, f);
            K__UNROLL for (int j = 0; j < T; j++) q[j] += 64;
            if (++s == segs) {                        /* skips the head of the next unit */
                s = 0;
                p += tail;
                h += 128 * bits * segs + tail;
            }
        }
        K__UNROLL for (int j = 0; j < T; j++) k__add_scaled_avx2(y[j] + r, f[j], x->c.d[j][b]);
    }
}

/* --- few columns of an unpacked block --- */

/* Groups of 16 with float scales. */
K__IN_AVX2 void k__scale16_cols_avx2(int T, const k__panel *w, const k__pass *x, int b,
                                     float (*y)[K_PACK_ROWS]) {
    const __m256i ones = _mm256_set1_epi16(1);
    const int     groups = (b < x->c.nb ? K_SUPER : x->c.tail) / 16;
    for (int r = 0; r < K_PACK_ROWS; r += 8) {
        __m256        f[K__COLS];
        const int8_t *q[K__COLS];
        K__UNROLL for (int j = 0; j < T; j++) {
            q[j] = k__cols_q(&x->c, j, b);
            f[j] = _mm256_setzero_ps();
        }
        K__NO_UNROLL for (int g = 0; g < groups; g++) {
            __m256i a[K__COLS];
            K__UNROLL for (int j = 0; j < T; j++) a[j] = _mm256_setzero_si256();
            for (int k = 4 * g; k < 4 * g + 4; k++) {
                const __m256i wk = k__ld256(w->q[k][r]);
                K__UNROLL for (int j = 0; j < T; j++)
                    a[j] = _mm256_add_epi32(a[j], _mm256_madd_epi16(k__pairs_avx2(true, wk, k__bcast_avx2(q[j] + 4 * k)), ones));
            }
            __m256 s = _mm256_loadu_ps(&w->fs[g][r]);
            K__UNROLL for (int j = 0; j < T; j++)
                f[j] = _mm256_add_ps(f[j], _mm256_mul_ps(s, _mm256_cvtepi32_ps(a[j])));
        }
        K__UNROLL for (int j = 0; j < T; j++) k__add_scaled_avx2(y[j] + r, f[j], x->c.d[j][b]);
    }
}

#define K__COLS_NAVX2(name, T_, call)                                                                   \
    K__AVX2 void k__cols_##name##_##T_##_avx2(const k__panel *open, const uint8_t *w, const k__pass *x, \
                                              int b, float(*y)[K_PACK_ROWS]) {                          \
        const int T = T_;                                                                               \
        (void)open, (void)w;                                                                            \
        call;                                                                                           \
    }
#define K__COLS8_AVX2(name, call)                                                          \
    K__COLS_NAVX2(name, 1, call) K__COLS_NAVX2(name, 2, call) K__COLS_NAVX2(name, 3, call) \
    K__COLS_NAVX2(name, 4, call) K__COLS_NAVX2(name, 5, call) K__COLS_NAVX2(name, 6, call) \
    K__COLS_NAVX2(name, 7, call) K__COLS_NAVX2(name, 8, call)
/*                                        steps bits table head */
K__COLS8_AVX2(q4_K, k__int_direct_avx2(T, 8, 4, false, K__HEAD_MIN6, w, x, b, y))
K__COLS8_AVX2(q5_K, k__int_direct_avx2(T, 4, 5, false, K__HEAD_MIN6, w, x, b, y))
K__COLS8_AVX2(q6_K, k__int_direct_avx2(T, 2, 6, false, K__HEAD_S8, w, x, b, y))
K__COLS8_AVX2(q3_K, k__int_direct_avx2(T, 4, 3, false, K__HEAD_S6, w, x, b, y))
K__COLS8_AVX2(q2_K, k__int_direct_avx2(T, 4, 2, false, K__HEAD_MIN4, w, x, b, y))
K__COLS8_AVX2(tq2_0, k__int_direct_avx2(T, 8, 2, false, K__HEAD_ONE, w, x, b, y))
K__COLS8_AVX2(iq4_xs, k__int_direct_avx2(T, 1, 4, true, K__HEAD_S6X2, w, x, b, y))
K__COLS8_AVX2(iq3_s, k__int_direct_avx2(T, 4, 4, true, K__HEAD_S6X2, w, x, b, y))
K__COLS8_AVX2(iq2_s, k__int_direct_avx2(T, 1, 3, true, K__HEAD_S6, w, x, b, y))
K__COLS8_AVX2(iq2_xxs, k__int_direct_avx2(T, 1, 3, true, K__HEAD_S6X2, w, x, b, y))
/*                                          steps bits table head    segs */
K__COLS8_AVX2(q4_0, k__scale_direct_avx2(T, 8, 4, false, K__HEAD_F16, 1, w, x, b, y))
K__COLS8_AVX2(q4_1, k__scale_direct_avx2(T, 8, 4, false, K__HEAD_F16M, 1, w, x, b, y))
K__COLS8_AVX2(q5_0, k__scale_direct_avx2(T, 4, 5, false, K__HEAD_F16, 1, w, x, b, y))
K__COLS8_AVX2(q5_1, k__scale_direct_avx2(T, 4, 5, false, K__HEAD_F16M, 1, w, x, b, y))
K__COLS8_AVX2(q8_0, k__scale_direct_avx2(T, 1, 8, false, K__HEAD_F16, 1, w, x, b, y))
K__COLS8_AVX2(q1_0, k__scale_direct_avx2(T, 8, 1, true, K__HEAD_F16, 4, w, x, b, y))
K__COLS8_AVX2(q2_0, k__scale_direct_avx2(T, 8, 2, false, K__HEAD_F16, 2, w, x, b, y))
K__COLS8_AVX2(iq4_nl, k__scale_direct_avx2(T, 1, 4, true, K__HEAD_F16, 1, w, x, b, y))
K__COLS8_AVX2(mxfp4, k__scale_direct_avx2(T, 4, 4, true, K__HEAD_E8, 2, w, x, b, y))
K__COLS8_AVX2(scale16_wide, k__scale16_cols_avx2(T, open, x, b, y))

#define K__PACKED_AVX2(code, head, family, sums, from)                                                      \
    .codes = k__codes_##code##_avx2, .heads = k__heads_##head, .width = 8, .aux = sums, .panel_cols = from, \
    .tiles = &k__tiles_##family##_avx2
#define K__BY8_AVX2(name)                                                                                        \
    .cols = {k__cols_##name##_1_avx2, k__cols_##name##_2_avx2, k__cols_##name##_3_avx2, k__cols_##name##_4_avx2, \
             k__cols_##name##_5_avx2, k__cols_##name##_6_avx2, k__cols_##name##_7_avx2, k__cols_##name##_8_avx2}
static const k__packed_plan k__packed_avx2[K_TYPE_MAX] = {
    /*                                codes head      tiles   (sums)  panels from */
    [K_Q2_K]    = {K__PACKED_AVX2(2, min4_both, int4_min, K__AUX_NONE, 9), K__BY8_AVX2(q2_K)},
    [K_Q3_K]    = {K__PACKED_AVX2(3, s6_both, int4_off, K__AUX_NONE, 9), K__BY8_AVX2(q3_K)},
    [K_Q4_K]    = {K__PACKED_AVX2(4, min6_both, int4_min32, K__AUX_NONE, 33), K__BY8_AVX2(q4_K)},
    [K_Q5_K]    = {K__PACKED_AVX2(5, min6_both, int5_min, K__AUX_NONE, 13), K__BY8_AVX2(q5_K)},
    [K_Q6_K]    = {K__PACKED_AVX2(6, s8_both, int2_off, K__AUX_NONE, 9), K__BY8_AVX2(q6_K)},
    [K_TQ1_0]   = {K__PACKED_AVX2(2, one_both, int4_off, K__AUX_NONE, 17), K__BY8_AVX2(tq2_0)},
    [K_TQ2_0]   = {K__PACKED_AVX2(2, one_both, int4_off, K__AUX_NONE, 9), K__BY8_AVX2(tq2_0)},
    [K_IQ1_S]   = {K__PACKED_AVX2(3t, s6x2_both, int4_off, K__AUX_NONE, 9), K__BY8_AVX2(iq2_xxs)},
    [K_IQ1_M]   = {K__PACKED_AVX2(3t, s6_both, int4_off, K__AUX_NONE, 9), K__BY8_AVX2(iq2_s)},
    [K_IQ2_XXS] = {K__PACKED_AVX2(3q, s6x2_both, int_wide, K__AUX_NONE, 9), K__BY8_AVX2(iq2_xxs)},
    [K_IQ2_XS]  = {K__PACKED_AVX2(3q, s6_both, int_wide, K__AUX_NONE, 9), K__BY8_AVX2(iq2_s)},
    [K_IQ2_S]   = {K__PACKED_AVX2(3q, s6_both, int_wide, K__AUX_NONE, 9), K__BY8_AVX2(iq2_s)},
    [K_IQ3_XXS] = {K__PACKED_AVX2(4q, s6x2_both, int_wide, K__AUX_NONE, 9), K__BY8_AVX2(iq4_xs)},
    [K_IQ3_S]   = {K__PACKED_AVX2(4t, s6x2_both, int4_off, K__AUX_NONE, 9), K__BY8_AVX2(iq3_s)},
    [K_IQ4_XS]  = {K__PACKED_AVX2(4q, s6x2_both, int_wide, K__AUX_NONE, 9), K__BY8_AVX2(iq4_xs)},
    [K_Q4_0]    = {K__PACKED_AVX2(4, f16, scale4_off, K__AUX_OFF32, 65), K__BY8_AVX2(q4_0)},
    [K_Q4_1]    = {K__PACKED_AVX2(4, f16m, scale4_min, K__AUX_FLOAT, 65), K__BY8_AVX2(q4_1)},
    [K_Q5_0]    = {K__PACKED_AVX2(5, f16, scale4_off, K__AUX_OFF32, 25), K__BY8_AVX2(q5_0)},
    [K_Q5_1]    = {K__PACKED_AVX2(5, f16m, scale4_min, K__AUX_FLOAT, 33), K__BY8_AVX2(q5_1)},
    [K_Q8_0]    = {K__PACKED_AVX2(8, f16, scale_wide, K__AUX_NONE, 17), K__BY8_AVX2(q8_0)},
    [K_Q1_0]    = {K__PACKED_AVX2(1t, f16, scale4_off, K__AUX_OFF32, 49), K__BY8_AVX2(q1_0)},
    [K_Q2_0]    = {K__PACKED_AVX2(2, f16, scale4_off, K__AUX_OFF32, 25), K__BY8_AVX2(q2_0)},
    [K_IQ4_NL]  = {K__PACKED_AVX2(4q, f16, scale_wide, K__AUX_NONE, 9), K__BY8_AVX2(iq4_nl)},
    [K_MXFP4]   = {K__PACKED_AVX2(4t, e8, scale4_off, K__AUX_OFF32, 25), K__BY8_AVX2(mxfp4)},
    [K_NVFP4]   = {K__PACKED_AVX2(4q, e4, scale16_wide, K__AUX_NONE, 17), K__BY8_AVX2(scale16_wide),
                   .opened = true},
};

K__SHARED_AVX2 void k_mul_packed_avx2(uint32_t type, const void *w, int nr, int n, const k_acts *a, float *y,
                                      size_t ldy, void *scratch) {
    k__mul_packed(k__packed_avx2, NULL, type, w, nr, n, a, y, ldy, scratch);
}

K__SHARED_AVX2 void k_mul_packed_vnni(uint32_t type, const void *w, int nr, int n, const k_acts *a, float *y, size_t ldy, void *scratch) {
    k__mul_packed(k__packed_avx2, k__swap_vnni, type, w, nr, n, a, y, ldy, scratch);
}
#endif /* part 1 */
#endif /* __x86_64__ */

/* ===== [probe] loops that measure this machine =====
 * A benchmark compares its rates with these limits: reading memory in order, and the products of a level with all operands in registers
 * or the L1 cache. Each loop returns a value that depends on all its work, so that the compiler cannot remove it. */

#define K__LATER(x) __asm__ volatile("" : "+x"(x))       /* the compiler must assume that x has changed, and computes from it again */

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
        s += (uint64_t)(int64_t)k__dot_ref(a, a + K_PROBE_BYTES / 2, 1024);
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

#if defined(__x86_64__)
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

static const k_probe k_probe_avx512 = {
    k__probe_read_avx512, {k__probe_f32_avx512, k__probe_f32_avx512, k__probe_i8_avx512}, {16 * 16, 16 * 16, 16 * 64}};
static const k_probe k_probe_bf16 = {
    k__probe_read_avx512, {k__probe_f32_avx512, k__probe_dots, k__probe_i8_avx512}, {16 * 16, 16 * 32, 16 * 64}};
#endif /* __x86_64__ */

/* ===== [level] CPU dispatch: the levels and the public functions =====
 * A level is a row of functions. All levels give the same bits and differ only in speed. */

typedef struct {
    const char *name;
    unsigned    needs;                                /* K_CPU_ bits */
    int   (*quant_act)(const float *, int, int8_t *, k_sums *, float *);
    void  (*mul_quant)(uint32_t, const void *, size_t, int, int, const k_acts *, float *, size_t, void *);
    void  (*mul_packed)(uint32_t, const void *, int, int, const k_acts *, float *, size_t, void *);
    void  (*mul_float)(uint32_t, const void *, size_t, int, int, const k_acts *, float *, size_t);
    void  (*f16_round)(const uint8_t *, int, uint16_t *);
    void  (*rms_norm)(const float *, const float *, float, int, float *);
    float (*dot)(const float *, const float *, int);
    void  (*layer_norm)(const float *, const float *, const float *, float, int, float *);
    void  (*l2_norm)(float *, float, int);
    void  (*add)(float *, const float *, const float *, int);
    void  (*mul)(float *, const float *, const float *, int);
    void  (*axpy)(float *, const float *, float, int);
    void  (*scale)(float *, float, int);
    void  (*activate)(k_act_fn, float *, const float *, int);
    void  (*swiglu_clip)(float *, const float *, float, float, int);
    void  (*cap)(float *, float, int);
    void  (*conv)(const float *const *, const float *, const float *, int, int, int, bool, float *, size_t);
    void  (*delta)(const k_delta_args *);
    void  (*softmax)(float *, int);
    float (*max)(const float *, int, int *);
    void  (*rope)(float *, int, int, int, bool, const float *);
    void  (*hadamard)(float *, int, int);
    void  (*kv_store)(uint32_t, const float *, void *, int);
    k__attn_level (*attn)(const k_attn_args *);       /* the functions that attention over these caches uses */
    const k_probe *probe;
} k_level;

#define K__ROW(l) K__ROW_TILES(l, l, l, l)
#define K__ROW_TILES(l, tiles, floats, probes)                                                            \
    .quant_act = k_quant_act_##l, .mul_quant = k_mul_quant_##tiles, .mul_float = k_mul_float_##floats,    \
    .mul_packed = k_mul_packed_##tiles, .f16_round = k_f16_round_##floats, .rms_norm = k_rms_norm_##l,    \
    .dot = k_dot_##l, .add = k_add_##l, .axpy = k_axpy_##l, .scale = k_scale_##l, .softmax = k_softmax_##l, \
    .max = k_max_##l, .layer_norm = k_layer_norm_##l, .l2_norm = k_l2_norm_##l, .mul = k_mul_##l,         \
    .activate = k_activate_##l, .swiglu_clip = k_swiglu_clip_##l, .cap = k_cap_##l,                       \
    .conv = k_conv_##l, .delta = k_delta_##l,                                                             \
    .rope = k_rope_##l, .hadamard = k_hadamard_##l, .kv_store = k_kv_store_##l, .attn = k_attn_##floats, .probe = &k_probe_##probes

/* From the plainest to the fastest; k__pick() chooses. To add a level: its bits in k__cpu_probe(), a macro for its target, its functions
 * for the fields of k_level (those of a slower level serve where it has none), a row here. The tests and `make bench` walk the table. */
static const k_level k_levels[] = {
    {.name = "scalar", .needs = 0, K__ROW(ref)},
#if defined(__x86_64__)
    {.name = "avx2", .needs = K_CPU_AVX2 | K_CPU_FMA | K_CPU_F16C, K__ROW(avx2)},
    {.name = "avx_vnni", .needs = K_CPU_AVX2 | K_CPU_FMA | K_CPU_F16C | K_CPU_AVX_VNNI, K__ROW_TILES(avx2, vnni, avx2, vnni)},
    {.name = "avx512",
     .needs = K_CPU_AVX2 | K_CPU_FMA | K_CPU_F16C | K_CPU_AVX512 | K_CPU_VNNI,
     K__ROW(avx512)},
    {.name = "avx512_bf16",
     .needs = K_CPU_AVX2 | K_CPU_FMA | K_CPU_F16C | K_CPU_AVX512 | K_CPU_VNNI | K_CPU_BF16,
     K__ROW_TILES(avx512, avx512, bf16, bf16)},
#endif
};
enum { K_LEVELS = sizeof k_levels / sizeof k_levels[0] };

static const k_level *g_k_level = &k_levels[0];

static bool k__can(const k_level *l) { return (k__cpu_probe() & l->needs) == l->needs; }

/* Sets the prefetch of one column and the columns of a tile by the vendor of the processor. Prefetch: measured on Zen 4, its hardware reads a packed
 * stream as fast as plain memory, and software prefetches make it slower; Intel processors leave a third of the bandwidth unused without them.
 * Tiles: on Intel processors additions and conversions use the two ports of products, and loads and stores do not, so tiles have eight columns with
 * sums in memory. On Zen 4 additions use other ports, and a store of 64 bytes takes the place of a product. */
static void k__tune_processor(void) {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    if (!__get_cpuid(0, &a, &b, &c, &d)) return;
    if (b == signature_AMD_ebx) g_k_ahead = 0;
    if (b == signature_INTEL_ebx) g_k_tile_cols = K__TILE;
#endif
}

/* Clock ticks for 128000 products, the fewest of three runs: by FMA of floats, by vdpbf16ps. */
typedef struct { uint64_t f32, bf16; } k__trial;

/* Zeros on other processors than x86-64. */
static k__trial k__trial_dots(void) {
    k__trial best = {0, 0};
#if defined(__x86_64__)
    float    x[K_PROBE_BYTES / sizeof(float)] __attribute__((aligned(64))) = {0};
    uint64_t least[2] = {UINT64_MAX, UINT64_MAX};
    for (int i = 0; i < 6; i++) {
        const uint64_t t0 = __rdtsc();
        if (k_probe_bf16.mul[i % 2](x, 500 / (1 + i % 2))) return best;          /* always 0: the loop is not removed */
        const uint64_t t = __rdtsc() - t0;
        least[i % 2] = t < least[i % 2] ? t : least[i % 2];
    }
    best.f32 = least[K_ACT_F32], best.bf16 = least[K_ACT_BF16];
#endif
    return best;
}

/* The level of "auto" on a processor with these K_CPU_ features: the last one that it supports. avx512_bf16 is only chosen where
 * vdpbf16ps was faster than FMA in the trial: some processors run it at half the rate. */
static int k__pick(unsigned have, k__trial trial) {
    int best = 0;
    for (int i = 1; i < K_LEVELS; i++) {
        if ((have & k_levels[i].needs) != k_levels[i].needs) continue;
        if (k_levels[i].needs & K_CPU_BF16 && trial.bf16 >= trial.f32) continue;
        best = i;
    }
    return best;
}

static int k__level_auto(void) {
    const unsigned have = k__cpu_probe();
    return k__pick(have, have & K_CPU_BF16 ? k__trial_dots() : (k__trial){0, 0});
}

/* -1: an unknown name, or not supported by this CPU. */
static int k__level_by_name(const char *name) {
    for (int i = 0; i < K_LEVELS; i++)
        if (!strcmp(name, k_levels[i].name)) return k__can(&k_levels[i]) ? i : -1;
    return -1;
}

K_PUBLIC bool k_init(const char *level) {
    const int i = !level || !strcmp(level, "auto") ? k__level_auto() : k__level_by_name(level);
    if (i < 0) return false;
    g_k_level = &k_levels[i];
    k__tune_processor();
    return true;
}

K_PUBLIC const char *k_level_name(void) { return g_k_level->name; }

K_PUBLIC int k_levels_list(const char **names, bool *can) {
    for (int i = 0; i < K_LEVELS; i++) {
        if (names) names[i] = k_levels[i].name;
        if (can) can[i] = k__can(&k_levels[i]);
    }
    return K_LEVELS;
}

K_PUBLIC bool k_slow_unpacked(uint32_t type) {
#if defined(__x86_64__)
    return type < K_TYPE_MAX && k__decoded_avx2(type);
#else
    return (void)type, false;
#endif
}

K_PUBLIC k_act_kind k_act_of(uint32_t type) {
    if (type < K_TYPE_MAX && (k_types[type].kind == K_KIND_INT || k_types[type].kind == K_KIND_SCALE)) return K_ACT_I8;
    return k__is_bf16(type) ? K_ACT_BF16 : K_ACT_F32;
}

K_PUBLIC k_act_kind k_kv_act(uint32_t type, uint32_t other) {
    return k__kv_codes(type, other) ? K_ACT_I8 : k__kv_rounds(type) ? K_ACT_BF16 : K_ACT_F32;
}

K_PUBLIC bool k_wants_q8(uint32_t type) { return k_act_of(type) == K_ACT_I8; }

/* Rows of f16 that are rounded to bf16 together: the rows of a group of tiles. From this number of columns on that is faster than
 * rounding in each tile; with fewer, an even stream from memory is faster. */
enum { K__ROUND_ROWS = 16, K__ROUND_COLS = 17 };

K_PUBLIC size_t k_scratch_bytes(int n_max) {
    const size_t panels = (((size_t)n_max + K_SUPER - 1) / K_SUPER + 1) * K__PANEL_BYTES + 64;   /* one panel more for k__packed_few */
    const size_t rounded = K__ROUND_ROWS * sizeof(uint16_t) * (size_t)n_max;
    return panels > rounded ? panels : rounded;
}

/* Whole strips, several of them, so that a strip is prefetched while the one before it is multiplied; for few columns, a stream that
 * is long enough. */
K_PUBLIC int k_rows_step(uint32_t type, int nt) {
    (void)nt;
    return k_wants_q8(type) ? 128 : 32;
}

/* --- rows with outliers ---
 * In trained models single channels are a hundred times larger than the others. One scale for 256 activations then leaves almost
 * nothing of the other 255. So the rounding errors of such a block are quantised too, and the row becomes two rows, which are
 * columns of a product like any others; their results are added. Only the codes of a row decide whether it is split. */

enum { K__SPLIT_COLS = 128, K__SPLIT_ROWS = 128, K__SPLIT_ONCE = 8 };

K_PUBLIC bool k_quant_act(const float *x, int n, int8_t *q, k_sums *sum, float *d, size_t ldq, int rest) {
    const size_t at = (size_t)rest * ldq, blocks = ((size_t)n + K_SUPER - 1) / K_SUPER;
    bool         split = false;
    for (size_t b = 0, far = at / K_SUPER; b < blocks; b++, far++) {
        const size_t k = b * K_SUPER;
        const int    len = n - (int)k < K_SUPER ? n - (int)k : K_SUPER;
        const int    all = g_k_level->quant_act(x + k, len, q + k, sum + b, d + b);
        float        lost[K_SUPER];
        if (!k__peaked(all, len, d[b])) continue;
        if (!split) {
            memset(q + at, 0, (size_t)n);
            memset(sum + at / K_SUPER, 0, blocks * sizeof *sum);
            memset(d + at / K_SUPER, 0, blocks * sizeof *d);
            split = true;
        }
        for (int i = 0; i < len; i++) lost[i] = x[k + (size_t)i] - d[b] * (float)q[k + (size_t)i];
        g_k_level->quant_act(lost, len, q + at + k, sum + far, d + far);
    }
    return split;
}

/* Some columns of a product: row[c] of the activations gives column to[c] of y. */
typedef struct {
    int32_t row[K__SPLIT_COLS], to[K__SPLIT_COLS];
    int     n, fresh;                                 /* columns; the first `fresh` are stored, the others are added */
} k__split;

/* Rows of one matrix, in file order or packed. */
typedef struct {
    uint32_t       type;
    const uint8_t *data;
    size_t         row_bytes;                         /* 0: packed */
    int            n;
} k__weights;

/* Rows r .. r + nr; of packed ones r is a multiple of K_PACK_ROWS. */
static void k__mul_at(const k__weights *w, int r, int nr, const k_acts *a, float *y, size_t ldy, void *scratch) {
    if (w->row_bytes)
        g_k_level->mul_quant(w->type, w->data + (size_t)r * w->row_bytes, w->row_bytes, nr, w->n, a, y, ldy, scratch);
    else
        g_k_level->mul_packed(w->type, w->data + k_pack_at(w->type, r, w->n), nr, w->n, a, y, ldy, scratch);
}

static void k__mul_split(const k__split *s, const k__weights *w, int nr, k_acts a, float *y, size_t ldy, void *scratch) {
    float out[K__SPLIT_COLS][K__SPLIT_ROWS];
    a.idx = s->row;
    a.nt = s->n;
    a.gaps = !s->fresh;
    for (int r = 0, rows; s->n && r < nr; r += rows) {
        rows = nr - r < K__SPLIT_ROWS ? nr - r : K__SPLIT_ROWS;
        k__mul_at(w, r, rows, &a, out[0], K__SPLIT_ROWS, scratch);
        for (int c = 0; c < s->n; c++) {
            float *to = y + (size_t)s->to[c] * ldy + r;
            if (c < s->fresh) memcpy(to, out[c], (size_t)rows * sizeof *to);
            else g_k_level->add(to, to, out[c], rows);
        }
    }
}

/* Few columns: one pass over the weights for rows and their rounding errors. Many: a second product for the errors. */
static void k__mul_either(const k__weights *w, int nr, const k_acts *a, float *y, size_t ldy, void *scratch) {
    int      n_rest = 0;
    k__split s;
    for (int t = 0; a->split && t < a->nt; t++) n_rest += a->split[k__row_of(a, t)];
    const bool once = n_rest && a->nt + n_rest <= K__SPLIT_ONCE;
    s.n = s.fresh = once ? a->nt : 0;
    for (int t = 0; t < s.n; t++) s.row[t] = k__row_of(a, t), s.to[t] = t;
    if (!once) k__mul_at(w, 0, nr, a, y, ldy, scratch);
    for (int t = 0; n_rest && t < a->nt; t++) {
        const int row = k__row_of(a, t);
        if (!a->split[row]) continue;
        s.row[s.n] = row + a->rest;
        s.to[s.n++] = t;
        if (s.n < K__SPLIT_COLS) continue;
        k__mul_split(&s, w, nr, *a, y, ldy, scratch);
        s.n = 0;
    }
    if (n_rest) k__mul_split(&s, w, nr, *a, y, ldy, scratch);
}

/* Rows of f16 as bf16: each is rounded once for all columns. */
static void k__mul_rounded(const uint8_t *w, size_t row_bytes, int nr, int n, const k_acts *a, float *y, size_t ldy, uint16_t *rows) {
    for (int r = 0, some; r < nr; r += some) {
        some = nr - r < K__ROUND_ROWS ? nr - r : K__ROUND_ROWS;
        for (int i = 0; i < some; i++) g_k_level->f16_round(w + (size_t)(r + i) * row_bytes, n, rows + (size_t)i * (size_t)n);
        g_k_level->mul_float(K_BF16, rows, sizeof *rows * (size_t)n, some, n, a, y + r, ldy);
    }
}

K_PUBLIC void k_mul_rows(uint32_t type, const void *w, size_t row_bytes, int nr, int n, const k_acts *a,
                       float *y, size_t ldy, void *scratch) {
    for (int t = 0; n <= 0 && t < a->nt; t++) memset(y + (size_t)t * ldy, 0, (size_t)nr * sizeof *y);   /* empty sums */
    if (n <= 0) return;
    if (k_wants_q8(type)) k__mul_either(&(k__weights){type, w, row_bytes, n}, nr, a, y, ldy, scratch);
    else if (type == K_F16_ROUND && a->nt >= K__ROUND_COLS) k__mul_rounded(w, row_bytes, nr, n, a, y, ldy, scratch);
    else g_k_level->mul_float(type, w, row_bytes, nr, n, a, y, ldy);
}

K_PUBLIC void k_mul_packed(uint32_t type, const void *packed, int nr, int n, const k_acts *a, float *y, size_t ldy,
                         void *scratch) {
    k__mul_either(&(k__weights){type, packed, 0, n}, nr, a, y, ldy, scratch);
}

K_PUBLIC void k_rms_norm(const float *x, const float *w, float eps, int n, float *y) {
    g_k_level->rms_norm(x, w, eps, n, y);
}
K_PUBLIC void k_layer_norm(const float *x, const float *w, const float *b, float eps, int n, float *y) {
    g_k_level->layer_norm(x, w, b, eps, n, y);
}
K_PUBLIC void  k_l2_norm(float *x, float eps, int n) { g_k_level->l2_norm(x, eps, n); }
K_PUBLIC float k_dot(const float *a, const float *b, int n) { return g_k_level->dot(a, b, n); }
K_PUBLIC void  k_add(float *y, const float *a, const float *b, int n) { g_k_level->add(y, a, b, n); }
K_PUBLIC void  k_mul(float *y, const float *a, const float *b, int n) { g_k_level->mul(y, a, b, n); }
K_PUBLIC void  k_axpy(float *y, const float *x, float s, int n) { g_k_level->axpy(y, x, s, n); }
K_PUBLIC float k_sigmoid(float x) { return k__act_ref(K_SIGMOID, x); }
K_PUBLIC float k_softplus(float x) { return k__softplus(x); }
K_PUBLIC float k_expf(float x) { return k__exp_ref(x); }
K_PUBLIC void  k_scale(float *y, float s, int n) { g_k_level->scale(y, s, n); }
K_PUBLIC void  k_activate(k_act_fn fn, float *x, const float *up, int n) { g_k_level->activate(fn, x, up, n); }
K_PUBLIC void  k_swiglu_clip(float *gate, const float *up, float limit, float alpha, int n) {
    g_k_level->swiglu_clip(gate, up, limit, alpha, n);
}
K_PUBLIC void  k_cap(float *x, float cap, int n) { g_k_level->cap(x, cap, n); }
K_PUBLIC void  k_conv(const float *const *x, const float *w, const float *bias, int taps, int n, int n_rows, bool silu, float *y, size_t ldy) {
    g_k_level->conv(x, w, bias, taps, n, n_rows, silu, y, ldy);
}
K_PUBLIC void  k_delta(const k_delta_args *a) { g_k_level->delta(a); }
K_PUBLIC void  k_softmax(float *x, int n) { g_k_level->softmax(x, n); }
K_PUBLIC float k_max(const float *x, int n, int *arg) { return g_k_level->max(x, n, arg); }
K_PUBLIC void  k_rope(float *x, int n_heads, int hd, int n_rot, bool halves, const float *cs) {
    g_k_level->rope(x, n_heads, hd, n_rot, halves, cs);
}

K_PUBLIC void k_hadamard(float *x, int n, int size) {
    if (size > 1) g_k_level->hadamard(x, n, size);
}

K_PUBLIC size_t k_kv_bytes(uint32_t type, int n) { return k_row_bytes(type, k__round_up(n, k_types[type].block)); }

K_PUBLIC void k_kv_store(uint32_t type, const float *x, void *dst, int n) {
    const int block = k_types[type].block, whole = n - n % block;
    float     rest[32] = {0};                        /* no cache type has longer blocks */
    if (whole) g_k_level->kv_store(type, x, dst, whole);
    if (whole == n) return;
    memcpy(rest, x + whole, (size_t)(n - whole) * sizeof *rest);
    g_k_level->kv_store(type, rest, (uint8_t *)dst + k_row_bytes(type, whole), block);
}

K_PUBLIC void k_attn(const k_attn_args *a, void *scratch) {
    const k__attn_level lv = g_k_level->attn(a);
    k__attn_run(&lv, a, scratch);
}

K_PUBLIC void k_attn_segment(const k_attn_args *a, int64_t s, float *part, void *scratch) {
    const k__attn_level lv = g_k_level->attn(a);
    k__attn_reach       all = k__attn_reach_of(a);
    k__attn_mem         w = k__attn_carve(a, scratch);
    k__attn_part_to(&w, a, part);
    if (all.last > (s + 1) * K_SEGMENT) all.last = (s + 1) * K_SEGMENT;
    k__attn_start(&lv, a, &w);
    k__attn_segment(&lv, a, &w, all, s);
}

K_PUBLIC void k_attn_merge(const k_attn_args *a, int r, const float *parts, int n) {
    const k__attn_level lv = g_k_level->attn(a);
    const size_t        ld_v = (size_t)k__round_up(a->hd_v, 32), n_rows = (size_t)a->n_rows;
    k__attn_sum         all = {-INFINITY, 0};
    for (int i = 0; i < n; i++, parts += k_attn_part(a->n_rows, a->hd_v)) {
        const k__attn_sum *part = (const k__attn_sum *)(const void *)(parts + n_rows * ld_v);
        k__attn_take(&lv, a, r, i == 0, &all, part + r, parts + (size_t)r * ld_v);
    }
    k__attn_finish(a, r, all);
}

K_PUBLIC const k_probe *k_probe_get(void) { return g_k_level->probe; }

/* ===== [thread] the start of every thread ===== */

/* A denormal costs hundreds of cycles and does not matter here. Every thread must do this: a result must not depend on the thread that
 * computes it. */
K_PUBLIC void k_thread_start(void) {
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040u);               /* FTZ and DAZ */
#endif
}

/* ===== [fit] weights to blocks, scales searched =====
 * [ref] takes a scale from the extreme values of a block. Here scales are searched: blocks get a small error sum w*(x - x^)^2.
 * Eight trials run in parallel: each rounds the weights to codes and solves for the scale (and minimum) with the least error for
 * these codes. In a super-block the f16 scales and the small integers depend on each other. For some pairs of f16 scales every group
 * tries the integers near its own best line, with the error of the stored values; least squares over all groups proposes the next
 * pair, and the best one is kept.
 *
 * Every machine writes the same bytes: four-lane arithmetic in plain GNU C, no fused multiply-adds. A block is scaled by a power of
 * two first, so that its largest weight is in [1, 2) and no sum of squares overflows or underflows. A scale that f16 cannot hold
 * becomes the largest f16. Weights are finite; importances w are finite and not negative. NULL means that all are equal, as in a
 * block where none exceeds 1e-30.
 * Public: k_fitters[id].fit, k_fitters[id].recode. */

typedef float   k__v4 __attribute__((vector_size(16)));
typedef int32_t k__m4 __attribute__((vector_size(16)));
typedef union { k__v4 v[2]; float f[8]; } k__v8;         /* eight trials */

static inline k__v4 k__v4_all(float f) { return (k__v4){f, f, f, f}; }

static inline k__v4 k__v4_pick(k__m4 yes, k__v4 a, k__v4 b) {
    return (k__v4)(((k__m4)a & yes) | ((k__m4)b & ~yes));
}

/* a < b ? a : b and a > b ? a : b. The SSE intrinsics are there because gcc does not always find these instructions. */
#if defined(__x86_64__)
static inline k__v4 k__v4_min(k__v4 a, k__v4 b) { return (k__v4)_mm_min_ps((__m128)a, (__m128)b); }
static inline k__v4 k__v4_max(k__v4 a, k__v4 b) { return (k__v4)_mm_max_ps((__m128)a, (__m128)b); }
#else
static inline k__v4 k__v4_min(k__v4 a, k__v4 b) { return k__v4_pick(a < b, a, b); }
static inline k__v4 k__v4_max(k__v4 a, k__v4 b) { return k__v4_pick(a > b, a, b); }
#endif

static inline k__v4 k__v4_at(const float *p) { k__v4 v; memcpy(&v, p, sizeof v); return v; }
static inline float k__v4_sum(k__v4 v) { return (v[0] + v[2]) + (v[1] + v[3]); }
static inline k__v4 k__v4_if(k__m4 mask, k__v4 v) { return (k__v4)((k__m4)v & mask); }
static inline k__v4 k__v4_abs(k__v4 v) { return (k__v4)((k__m4)v & 0x7fffffff); }

/* Nearest integer, ties to even; |v| below 2^22. */
static inline k__v4 k__v4_round(k__v4 v) { return (v + 0x1.8p23f) - 0x1.8p23f; }

/* (v + K_FIT_ROUND) - K_FIT_ROUND is the nearest integer, ties to even, for |v| < 2^22. */
#define K_FIT_ROUND 12582912.f
/* A later line must be better than the first by more than rounding, so that equal groups get equal lines. */
#define K_FIT_TIE   1.000001f
#define K_FIT_TINY  1e-30f                               /* smaller divisors count as zero */

static inline float k__fit_inverse(float d) { return fabsf(d) > K_FIT_TINY ? 1 / d : 0; }

static inline k__v8 k__fit_inverses(const k__v8 *d) {
    k__v8 r;
    for (int h = 0; h < 2; h++) {
        k__v4 v = d->v[h];
        k__m4 some = (v > K_FIT_TINY) | (v < -K_FIT_TINY);
        r.v[h] = k__v4_pick(some, 1 / k__v4_pick(some, v, k__v4_all(1)), k__v4_all(0));
    }
    return r;
}

/* Sums over the codes q of eight trials: w*q, w*q*q, w*x*q. */
typedef struct { k__v8 q, qq, xq; } k__sums;

/* q = (x - off) * inv, rounded and limited to lo..hi. off NULL: no offset, and the inlined code has none. */
static inline __attribute__((always_inline)) void k__sum_codes(const float *x, const float *w, int n,
                                                               const k__v8 *inv, const k__v8 *off, float lo,
                                                               float hi, k__sums *s) {
    k__v4 q[2] = {{0}}, qq[2] = {{0}}, xq[2] = {{0}}, lo4 = k__v4_all(lo), hi4 = k__v4_all(hi);
    for (int j = 0; j < n; j++)
        for (int h = 0; h < 2; h++) {
            k__v4 v = (off ? x[j] - off->v[h] : k__v4_all(x[j])) * inv->v[h];
            v = k__v4_min(k__v4_max(v, lo4), hi4) + K_FIT_ROUND - K_FIT_ROUND;
            k__v4 wv = v * w[j];
            if (off) q[h] += wv;
            qq[h] += wv * v;
            xq[h] += wv * x[j];
        }
    memcpy(&s->q, q, sizeof q);
    memcpy(&s->qq, qq, sizeof qq);
    memcpy(&s->xq, xq, sizeof xq);
}

/* sum w*(x - d*q - off)^2 of the same codes. Computed directly: from the sums above it would cancel where a fit is nearly
 * exact. */
static inline void k__sum_errors(const float *x, const float *w, int n, const k__v8 *d, const k__v8 *off,
                                 float lo, float hi, k__v8 *err) {
    k__v8 inv = k__fit_inverses(d);
    k__v4 e[2] = {{0}}, lo4 = k__v4_all(lo), hi4 = k__v4_all(hi);
    for (int j = 0; j < n; j++)
        for (int h = 0; h < 2; h++) {
            k__v4 v = x[j] - off->v[h], q = v * inv.v[h];
            q = k__v4_min(k__v4_max(q, lo4), hi4) + K_FIT_ROUND - K_FIT_ROUND;
            v = v - q * d->v[h];
            e[h] += v * v * w[j];
        }
    memcpy(err, e, sizeof e);
}

/* The same codes of one trial, stored. */
static inline void k__fit_codes(const float *x, int n, float d, float off, float lo, float hi, int8_t *q) {
    float inv = k__fit_inverse(d);
    for (int j = 0; j < n; j++) {
        float v = (x[j] - off) * inv;
        v = v > lo ? v : lo;
        v = v < hi ? v : hi;
        q[j] = (int8_t)(v + K_FIT_ROUND - K_FIT_ROUND);
    }
}

/* --- a block scaled by a power of two, with its importances --- */

typedef struct {
    float  x[256], w[256];                               /* w at most 1 */
    double up, down;                                     /* 2^e and 2^-e: the weights are x * up */
} k__scaled;

/* False where all weights are too small for any f16 scale: zeros are the best block. */
static bool k__scaled_load(k__scaled *b, const float *x, const float *w, int n) {
    float top = 0, most = 0;
    for (int j = 0; j < n; j++) top = fabsf(x[j]) > top ? fabsf(x[j]) : top;
    if (top < 0x1p-25f) return false;
    for (int j = 0; w && j < n; j++) most = w[j] > most ? w[j] : most;
    int e = (int)(k__bits_of(top) >> 23) - 127;
    if (e > 126) e = 126;                                /* 2^-127 is a denormal */
    b->up = k__f32_of((uint32_t)(e + 127) << 23);
    b->down = k__f32_of((uint32_t)(127 - e) << 23);
    for (int j = 0; j < n; j++) b->x[j] = x[j] * (float)b->down;
    /* No importance becomes 0: the codes of unimportant weights should still be close to them. */
    float share = most > K_FIT_TINY ? 1 / most : 0;
    for (int j = 0; j < n; j++) b->w[j] = share > 0 ? w[j] * share + 1e-9f : 1;
    return true;
}

/* The finite f16 nearest to a scale of the scaled block; its value there; the same for eight trials. */
static uint16_t k__scaled_half(const k__scaled *b, float d) {
    double v = d * b->up;
    return k_f32_to_f16((float)(v > 65504 ? 65504 : v < -65504 ? -65504 : v));
}

static float k__scaled_round(const k__scaled *b, float d) {
    return (float)(k_f16_to_f32(k__scaled_half(b, d)) * b->down);
}

static void k__scaled_rounds(const k__scaled *b, k__v8 *d) {
    for (int l = 0; l < 8; l++) d->f[l] = k__scaled_round(b, d->f[l]);
}

/* --- one scale --- */

/* Weights with an importance below this one may lie outside the range of the codes. */
static float k__fit_least(const float *w, int n) {
    float sum = 0;
    for (int j = 0; j < n; j++) sum += w[j];
    return sum * 1e-3f / (float)n;
}

static float k__fit_extreme(const float *x, const float *w, int n) {
    float ext = 0, least = k__fit_least(w, n);
    for (int j = 0; j < n; j++)
        if (w[j] > least && fabsf(x[j]) > fabsf(ext)) ext = x[j];
    return ext;
}

/* Eight trial scales, t in [0, 1): with six of them the extreme value gets about the code `far`, with two about `close`. */
static inline void k__try_scales(float far, float close, float ext, float t, k__v8 *inv) {
    static const float more[8] = {-1.0f, -0.6f, -0.2f, 0.2f, 0.6f, 1.0f, -0.5f, 0.3f};
    for (int l = 0; l < 8; l++) {
        float end = l < 6 ? far : close, add = more[l] + (l < 6 ? 0.4f : 0.8f) * t;
        inv->f[l] = (end + (end < 0 ? -add : add)) / ext;
    }
}

/* The best scale of each lane in `rounds` rounds, any float, and its gain: how much less the error is than with zeros. */
static inline void k__rough_scales(const float *x, const float *w, int n, float lo, float hi, float ext,
                                   int rounds, k__v8 *scale, k__v8 *gain) {
    k__v8   inv;
    k__sums s;
    memset(scale, 0, sizeof *scale);
    memset(gain, 0, sizeof *gain);
    for (int t = 0; t < rounds; t++) {
        k__try_scales(lo < 0 ? lo : hi, hi, ext, (float)t / (float)rounds, &inv);
        k__sum_codes(x, w, n, &inv, NULL, lo, hi, &s);
        for (int h = 0; h < 2; h++) {
            k__v4 d = s.xq.v[h] / k__v4_max(s.qq.v[h], k__v4_all(K_FIT_TINY)), g = d * s.xq.v[h];
            k__m4 better = g > gain->v[h] * K_FIT_TIE;
            gain->v[h] = k__v4_pick(better, g, gain->v[h]);
            scale->v[h] = k__v4_pick(better, d, scale->v[h]);
        }
    }
}

/* The scale with the least error for n values and codes lo..hi. b: an f16 scale of that block; NULL: any float. */
static float k__fit_scale(const float *x, const float *w, int n, float lo, float hi, int rounds,
                          const k__scaled *b) {
    static const k__v8 none = {.f = {0}};
    float              ext = k__fit_extreme(x, w, n), best = 0, least = FLT_MAX;
    k__v8              scale, gain, inv, err;
    k__sums            s;
    if (ext == 0) return 0;
    k__rough_scales(x, w, n, lo, hi, ext, rounds, &scale, &gain);
    for (int t = 0;; t++) {
        if (b) k__scaled_rounds(b, &scale);
        k__sum_errors(x, w, n, &scale, &none, lo, hi, &err);
        for (int l = 0; l < 8; l++)
            if (err.f[l] < least) least = err.f[l], best = scale.f[l];
        if (t == 1) return best;
        inv = k__fit_inverses(&scale);
        k__sum_codes(x, w, n, &inv, NULL, lo, hi, &s);
        for (int h = 0; h < 2; h++) scale.v[h] = s.xq.v[h] / k__v4_max(s.qq.v[h], k__v4_all(K_FIT_TINY));
    }
}

/* --- one line: a scale and a minimum --- */

typedef struct {
    float sw, sx, lo, hi;                                /* sums of w and w*x, extremes */
    float s, m, c;                                       /* the line s*q + m, and the mean of the codes q */
} k__group;

static void k__group_load(k__group *u, const float *x, const float *w, int n) {
    float least = k__fit_least(w, n);
    *u = (k__group){.lo = FLT_MAX, .hi = -FLT_MAX};
    for (int j = 0; j < n; j++) {
        u->sw += w[j];
        u->sx += w[j] * x[j];
        if (w[j] > least && x[j] < u->lo) u->lo = x[j];
        if (w[j] > least && x[j] > u->hi) u->hi = x[j];
    }
}

typedef struct { k__v8 scale, min, gain; } k__lines;

/* The lines of least error for the codes of eight trials, and their gain over zeros. sign 1: the minimum is not above zero, -1: not
 * below, 0: any. */
static inline void k__solve_lines(const k__sums *s, float sw, float sx, float sign, k__lines *o) {
    k__v4 tiny = k__v4_all(K_FIT_TINY), zero = k__v4_all(0);
    for (int h = 0; h < 2; h++) {
        k__v4 q = s->q.v[h], qq = s->qq.v[h], xq = s->xq.v[h], det = sw * qq - q * q;
        k__m4 flat = det <= 1e-6f * sw * qq;             /* all codes are equal: the minimum alone */
        k__v4 a = k__v4_pick(flat, zero, (sw * xq - sx * q) / k__v4_max(det, tiny)), m = (sx - a * q) / sw;
        k__m4 wrong = m * sign > 0;
        a = k__v4_pick(wrong, k__v4_max(xq / k__v4_max(qq, tiny), zero), a);
        m = k__v4_pick(wrong, zero, m);
        o->scale.v[h] = a;
        o->min.v[h] = m;
        o->gain.v[h] = a * (2 * xq - a * qq - 2 * m * q) + m * (2 * sx - m * sw);
    }
}

/* The best line of each lane for codes 0..top. A trial puts the least weight at code a and the largest at top + b, for a grid of `rows`
 * values of a and eight of b; every line is solved twice. */
static inline void k__rough_lines(const float *x, const float *w, int n, float top, float sign, int rows,
                                  const k__group *u, k__lines *best) {
    static const float b[8] = {-0.9f, -0.65f, -0.4f, -0.15f, 0.1f, 0.35f, 0.6f, 0.85f};
    float              lo = u->lo * sign > 0 ? 0 : u->lo, range = u->hi - lo;
    k__v8              inv;
    k__sums            s;
    k__lines           now;
    memset(best, 0, sizeof *best);
    for (int h = 0; h < 2 && !(range > 0); h++) {        /* all values are equal: the minimum alone */
        best->min.v[h] = k__v4_all(lo);
        best->gain.v[h] = k__v4_all(lo * (2 * u->sx - lo * u->sw));
    }
    for (int t = 0; t < rows && range > 0; t++) {
        float a = (float)t / (float)(rows - 1) - 0.5f;
        for (int l = 0; l < 8; l++) {
            inv.f[l] = (top + b[l] - a) / range;
            now.min.f[l] = lo - a / inv.f[l];
        }
        for (int i = 0; i < 2; i++) {
            if (i) inv = k__fit_inverses(&now.scale);
            k__sum_codes(x, w, n, &inv, &now.min, 0, top, &s);
            k__solve_lines(&s, u->sw, u->sx, sign, &now);
        }
        for (int h = 0; h < 2; h++) {
            k__m4 better = now.gain.v[h] > best->gain.v[h] * K_FIT_TIE;
            best->gain.v[h] = k__v4_pick(better, now.gain.v[h], best->gain.v[h]);
            best->scale.v[h] = k__v4_pick(better, now.scale.v[h], best->scale.v[h]);
            best->min.v[h] = k__v4_pick(better, now.min.v[h], best->min.v[h]);
        }
    }
}

/* --- plain blocks of 32 --- */

static uint16_t k__fit_plain(const float *x, const float *w, int lo, int hi, int rounds, int8_t q[32]) {
    k__scaled b;
    memset(q, 0, 32);
    if (!k__scaled_load(&b, x, w, 32)) return 0;
    float d = k__fit_scale(b.x, b.w, 32, (float)lo, (float)hi, rounds, &b);
    k__fit_codes(b.x, 32, d, 0, (float)lo, (float)hi, q);
    return k__scaled_half(&b, d);
}

static void k__fit_plain_min(const float *x, const float *w, int top, uint16_t h[2], int8_t q[32]) {
    k__scaled b;
    k__group u;
    k__lines line;
    k__v8    inv, err;
    k__sums  s;
    float    least = FLT_MAX, d = 0, m = 0;
    memset(q, 0, 32);
    h[0] = h[1] = 0;
    if (!k__scaled_load(&b, x, w, 32)) return;
    k__group_load(&u, b.x, b.w, 32);
    k__rough_lines(b.x, b.w, 32, (float)top, 0, 5, &u, &line);
    for (int l = 0; l < 8; l++)
        if (line.gain.f[l] <= 0) line.min.f[l] = u.sx / u.sw;
    for (int t = 0;; t++) {
        k__scaled_rounds(&b, &line.scale);
        k__scaled_rounds(&b, &line.min);
        k__sum_errors(b.x, b.w, 32, &line.scale, &line.min, 0, (float)top, &err);
        for (int l = 0; l < 8; l++)
            if (err.f[l] < least) least = err.f[l], d = line.scale.f[l], m = line.min.f[l];
        if (t == 1) break;
        inv = k__fit_inverses(&line.scale);
        k__sum_codes(b.x, b.w, 32, &inv, &line.min, 0, (float)top, &s);
        k__solve_lines(&s, u.sw, u.sx, 0, &line);
    }
    h[0] = k__scaled_half(&b, d);
    h[1] = k__scaled_half(&b, m);
    k__fit_codes(b.x, 32, d, m, 0, (float)top, q);
}

/* --- super-blocks --- */

/* The ranges of a kind of super-block, and the effort of the search. */
typedef struct {
    float lo, hi, sc_lo, sc_hi;                          /* codes, integer scales; minima: 0..sc_hi */
    int   group;
    bool  min;
    int   starts, batches;                               /* pairs of f16 scales, batches of trials for each */
    int   rounds, polish, again;                         /* the same for the pairs that least squares proposes */
    int   minima;                                        /* per scale, in the last batches: 4 or 8 */
} k__super;

typedef struct {
    uint16_t d, dmin;
    int16_t  sc[16], mn[16];                             /* per group */
    int8_t   q[256];
} k__fitted;

/* The best trial of each lane: its gain over zeros, its integers, the sums of its codes. */
typedef struct { k__v8 gain, sc, mn; k__sums sum; } k__places;

typedef struct { float gain, sc, mn, q, qq, xq; } k__place;

static inline void k__keep_places(k__places *best, const k__places *now) {
    const k__v4 *from = (const k__v4 *)(const void *)now;
    k__v4       *to = (k__v4 *)(void *)best;
    for (int h = 0; h < 2; h++) {
        k__m4 better = from[h] > to[h];
        for (size_t i = (size_t)h; i < sizeof *best / sizeof *to; i += 2)
            to[i] = k__v4_pick(better, from[i], to[i]);
    }
}

static inline k__place k__best_place(const k__places *p) {
    int l = 0;
    for (int i = 1; i < 8; i++)
        if (p->gain.f[i] > p->gain.f[l]) l = i;
    return (k__place){p->gain.f[l], p->sc.f[l], p->mn.f[l], p->sum.q.f[l], p->sum.qq.f[l], p->sum.xq.f[l]};
}

/* Distances to the nearest integers, in rising magnitude. */
static const k__v4 k__around[8] = {
    {0, 1, -1, 2},   {-2, 3, -3, 4},     {-4, 5, -5, 6},     {-6, 7, -7, 8},
    {-8, 9, -9, 10}, {-10, 11, -11, 12}, {-12, 13, -13, 14}, {-14, 15, -15, 16},
};

/* The best integer scale of a group near u->s/d. With two batches or more, of the other sign too. */
static k__place k__place_scale(const k__super *p, const float *x, const float *w, float d, const k__group *u,
                               int batches) {
    k__places best, now;
    k__v8     step, inv;
    float     mid = floorf(u->s * k__fit_inverse(d));
    memset(&now, 0, sizeof now);
    for (int t = 0; t < (batches > 1 ? 2 * batches : 1); t++) {
        for (int h = 0; h < 2; h++) {
            k__v4 k = (t < batches ? mid : -mid) + k__around[t % batches * 2 + h];
            now.sc.v[h] = k__v4_min(k__v4_max(k, k__v4_all(p->sc_lo)), k__v4_all(p->sc_hi));
            step.v[h] = d * now.sc.v[h];
        }
        inv = k__fit_inverses(&step);
        k__sum_codes(x, w, p->group, &inv, NULL, p->lo, p->hi, &now.sum);
        for (int h = 0; h < 2; h++)
            now.gain.v[h] = step.v[h] * (2 * now.sum.xq.v[h] - step.v[h] * now.sum.qq.v[h]);
        if (t == 0) best = now;
        else k__keep_places(&best, &now);
    }
    return k__best_place(&best);
}

/* The best integer scale and minimum near the line of a group. The best minimum changes with the scale, so that the line keeps its
 * value at the mean code. */
static k__place k__place_line(const k__super *p, const float *x, const float *w, float d, float dm,
                              const k__group *u, int batches, int minima) {
    k__places best, now;
    k__v8     step, min, inv;
    float     mid = floorf(u->s * k__fit_inverse(d)), idm = k__fit_inverse(dm);
    for (int t = 0; t < batches; t++) {
        for (int h = 0; h < 2; h++) {
            int   i = minima == 8 ? t : 2 * t + h;
            float k = mid + k__around[i / 4][i % 4];
            k = k < 0 ? 0 : k > p->sc_hi ? p->sc_hi : k;
            float at = floorf((u->c * (d * k - u->s) - u->m) * idm);
            k__v4 mn = at + k__around[minima == 8 ? h : 0];
            now.sc.v[h] = k__v4_all(k);
            now.mn.v[h] = k__v4_min(k__v4_max(mn, k__v4_all(0)), k__v4_all(p->sc_hi));
            step.v[h] = d * now.sc.v[h];
            min.v[h] = -dm * now.mn.v[h];
        }
        inv = k__fit_inverses(&step);
        k__sum_codes(x, w, p->group, &inv, &min, 0, p->hi, &now.sum);
        for (int h = 0; h < 2; h++) {
            k__v4 a = step.v[h], m = min.v[h], q = now.sum.q.v[h], qq = now.sum.qq.v[h], xq = now.sum.xq.v[h];
            now.gain.v[h] = a * (2 * xq - a * qq - 2 * m * q) + m * (2 * u->sx - m * u->sw);
        }
        if (t == 0) best = now;
        else k__keep_places(&best, &now);
    }
    return k__best_place(&best);
}

/* The line of least error for the codes of a group. */
static void k__refit_line(k__group *u, const k__place *at, float sign) {
    float det = u->sw * at->qq - at->q * at->q;
    if (det <= 1e-6f * u->sw * at->qq) return;
    u->s = (u->sw * at->xq - u->sx * at->q) / det;
    u->m = (u->sx - u->s * at->q) / u->sw;
    if (u->m * sign > 0) u->m = 0, u->s = at->xq / at->qq;
    if (u->s < 0) u->s = 0;
    u->c = at->q / u->sw;
}

/* A choice for a super-block: f16 scales, integers, their gain over zeros, the groups with these, and the pair that least squares
 * proposes next. */
typedef struct {
    float    d, dm, gain, next_d, next_dm;
    int16_t  sc[16], mn[16];
    k__group u[16];
} k__settled;

static void k__settle(const k__scaled *b, const k__super *p, float sign, float d, float dm, int batches,
                      int minima, k__settled *s) {
    float dd = 0, dm2 = 0, mm = 0, xd = 0, xm = 0;
    s->d = s->next_d = d = k__scaled_round(b, d);
    s->dm = s->next_dm = dm = k__scaled_round(b, dm);
    s->gain = 0;
    for (int g = 0; g < 256 / p->group; g++) {
        const float *x = b->x + p->group * g, *w = b->w + p->group * g;
        k__group    *u = &s->u[g];
        k__place     at = p->min ? k__place_line(p, x, w, d, dm, u, batches, minima)
                                 : k__place_scale(p, x, w, d, u, batches);
        s->gain += at.gain;
        s->sc[g] = (int16_t)at.sc;
        s->mn[g] = (int16_t)at.mn;
        dd += at.sc * at.sc * at.qq;
        dm2 -= at.sc * at.mn * at.q;
        mm += at.mn * at.mn * u->sw;
        xd += at.sc * at.xq;
        xm -= at.mn * u->sx;
        if (p->min) k__refit_line(u, &at, sign);
        else if (at.qq > 0) u->s = at.xq / at.qq;
    }
    float det = dd * mm - dm2 * dm2;
    if (det > 1e-6f * dd * mm) {
        s->next_d = (xd * mm - xm * dm2) / det;
        s->next_dm = (xm * dd - xd * dm2) / det;
    } else if (dd > 0) {
        s->next_d = xd / dd;
    }
    if (p->min && s->next_d < 0) s->next_d = 0;
}

/* The best line of each group with any float as scale, and how much its error depends on the scale. */
static void k__rough_groups(const k__scaled *b, const k__super *p, float sign, k__group u[16],
                            float weight[16]) {
    k__lines line;
    for (int g = 0; g < 256 / p->group; g++) {
        const float *x = b->x + p->group * g, *w = b->w + p->group * g;
        float        ext = k__fit_extreme(x, w, p->group);
        int          l = 0;
        memset(&line, 0, sizeof line);
        k__group_load(&u[g], x, w, p->group);
        if (p->min) k__rough_lines(x, w, p->group, p->hi, sign, 3, &u[g], &line);
        else if (ext != 0) k__rough_scales(x, w, p->group, p->lo, p->hi, ext, 2, &line.scale, &line.gain);
        for (int i = 1; i < 8; i++)
            if (line.gain.f[i] > line.gain.f[l] * K_FIT_TIE) l = i;
        float inv = k__fit_inverse(line.scale.f[l]);
        u[g].s = line.scale.f[l];
        u[g].m = line.min.f[l];
        u[g].c = (u[g].sx / u[g].sw - u[g].m) * inv;
        weight[g] = p->min ? u[g].sw : line.gain.f[l] * inv * inv;
    }
}

/* Whether some groups are much larger than the others. Then clipping them can reduce the error. */
static bool k__scales_uneven(const float *s, int n) {
    float sum = 0, most = 0;
    for (int i = 0; i < n; i++) {
        sum += fabsf(s[i]);
        most = fabsf(s[i]) > most ? fabsf(s[i]) : most;
    }
    return sum < 0.5f * most * (float)n;
}

enum { K_FIT_LADDER = 30 };                              /* additional starts for an uneven block */

/* Start t: f16 scales as multiples of the pair of least error for the lines of all groups; 0: the pair that gives the largest line the
 * largest integer. The additional starts go down from there, with different steps for d and dm. */
static void k__start(const k__super *p, int t, float *d, float *dm) {
    static const float near[8][2] = {{1, 1},     {0, 0},         {0, 1},     {1, 0},
                                     {0.95f, 1}, {1.05f, 1.04f}, {1, 1.05f}, {1, 0.95f}};
    bool first = t < p->starts;
    int  rung = t - p->starts;
    *d = first ? near[t][0] : 1;
    *dm = first ? near[t][1] : 1;
    for (int i = 0; !first && i < (p->min ? rung / 6 : rung + 1); i++) *d *= p->min ? 0.75f : 0.955f;
    for (int i = 0; !first && i < rung % 6; i++) *dm *= 0.65f;
}

/* The pair of f16 scales of which starts are multiples, and the pair with which no line is clipped. */
static void k__super_scales(const k__super *p, const k__group *u, const float *weight, float fit[2],
                            float top[2], bool *uneven) {
    int   groups = 256 / p->group;
    float v[16] = {0};
    for (int g = 0; g < groups; g++) v[g] = u[g].s;
    fit[0] = k__fit_scale(v, weight, groups, p->sc_lo, p->sc_hi, 4, NULL);
    top[0] = k__fit_extreme(v, weight, groups) / (p->sc_lo < 0 ? p->sc_lo : p->sc_hi);
    *uneven = k__scales_uneven(v, groups);
    for (int g = 0; g < groups; g++) v[g] = -u[g].m;
    fit[1] = p->min ? k__fit_scale(v, weight, groups, 0, p->sc_hi, 4, NULL) : 0;
    top[1] = k__fit_extreme(v, weight, groups) / p->sc_hi;
}

#if defined(__clang__)
#define K__ONE_COPY
#else
#define K__ONE_COPY __attribute__((noclone))             /* gcc makes a copy for each constant argument, which takes long to compile */
#endif

/* The best choice for a super-block and its gain over zeros. sign: see k__solve_lines. A copy for each p is no faster. */
static K__ONE_COPY float k__fit_super(const k__scaled *b, const k__super *p, float sign, k__fitted *out) {
    float      weight[16] = {0}, fit[2], top[2], at[2];
    bool       uneven;
    k__settled rough = {0}, now, best = {.gain = -FLT_MAX};
    k__rough_groups(b, p, sign, rough.u, weight);
    k__super_scales(p, rough.u, weight, fit, top, &uneven);
    for (int t = 0; t < p->starts + (uneven ? K_FIT_LADDER : 0); t++) {
        memcpy(now.u, rough.u, sizeof now.u);
        k__start(p, t, &at[0], &at[1]);
        for (int i = 0; i < 2; i++) at[i] = at[i] > 0 ? fit[i] * at[i] : top[i];
        k__settle(b, p, sign, at[0], at[1], p->batches, 4, &now);
        if (now.gain > best.gain) best = now;
    }
    for (int t = 0; t < p->rounds + (uneven ? 2 : 0); t++) {
        memcpy(now.u, best.u, sizeof now.u);
        k__settle(b, p, sign, best.next_d, best.next_dm, t ? p->again : p->polish, t ? 4 : p->minima, &now);
        if (now.gain <= best.gain) break;
        best = now;
    }
    out->d = k__scaled_half(b, best.d);
    out->dmin = k__scaled_half(b, best.dm);
    memcpy(out->sc, best.sc, sizeof best.sc);
    memcpy(out->mn, best.mn, sizeof best.mn);
    for (int g = 0; g < 256 / p->group; g++) {
        float s = best.d * (float)best.sc[g], m = -best.dm * (float)best.mn[g];
        k__fit_codes(b->x + p->group * g, p->group, s, m, p->lo, p->hi, out->q + p->group * g);
    }
    return best.gain;
}

/* Minima below zero are best, except where all groups lie above zero; with half of the groups above, both signs are tried. */
static void k__fit_block(const k__scaled *b, const k__super *p, k__fitted *out) {
    int above = 0;
    for (int g = 0; p->min && g < 16; g++) {
        float lo = b->x[16 * g];
        for (int j = 1; j < 16; j++) lo = b->x[16 * g + j] < lo ? b->x[16 * g + j] : lo;
        above += lo > 0;
    }
    if (above == 16) {
        k__fit_super(b, p, -1, out);
        return;
    }
    k__fitted other;
    float     gain = k__fit_super(b, p, 1, out);
    if (above >= 8 && k__fit_super(b, p, -1, &other) > gain) *out = other;
}

/* --- codes to bytes: the inverses of [unpack] --- */

static inline void k__put_nibbles(const int8_t *q, int half, int off, uint8_t *p) {
    for (int j = 0; j < half; j++) p[j] = (uint8_t)(((q[j] - off) & 15) | ((q[half + j] - off) & 15) << 4);
}

static void k_recode_q4_0(const int8_t *q, void *dst, int64_t n) {
    block_q4_0 *b = (block_q4_0 *)dst;
    for (int64_t i = 0; i < n / 32; i++) k__put_nibbles(q + 32 * i, 16, -8, b[i].qs);
}

static void k_recode_q4_1(const int8_t *q, void *dst, int64_t n) {
    block_q4_1 *b = (block_q4_1 *)dst;
    for (int64_t i = 0; i < n / 32; i++) k__put_nibbles(q + 32 * i, 16, 0, b[i].qs);
}

/* Codes of five bits: nibbles, and the fifth bits in qh. */
static inline void k__put_fifth(const int8_t *q, int off, uint8_t qs[16], uint8_t qh[4]) {
    uint8_t u[32];
    for (int j = 0; j < 32; j++) u[j] = (uint8_t)(q[j] - off);
    k__pack(u, qs, qh);
}

static void k_recode_q5_0(const int8_t *q, void *dst, int64_t n) {
    block_q5_0 *b = (block_q5_0 *)dst;
    for (int64_t i = 0; i < n / 32; i++) k__put_fifth(q + 32 * i, -16, b[i].qs, b[i].qh);
}

static void k_recode_q5_1(const int8_t *q, void *dst, int64_t n) {
    block_q5_1 *b = (block_q5_1 *)dst;
    for (int64_t i = 0; i < n / 32; i++) k__put_fifth(q + 32 * i, 0, b[i].qs, b[i].qh);
}

static void k_recode_q8_0(const int8_t *q, void *dst, int64_t n) {
    block_q8_0 *b = (block_q8_0 *)dst;
    for (int64_t i = 0; i < n / 32; i++) memcpy(b[i].qs, q + 32 * i, 32);
}

/* Four planes of 32 two-bit codes, as k__crumbs reads them. */
static inline void k__put_crumbs(const int8_t *q, int off, int shift, uint8_t p[32]) {
    for (int j = 0; j < 32; j++) {
        int v = 0;
        for (int k = 0; k < 4; k++) v |= ((q[32 * k + j] - off) >> shift & 3) << 2 * k;
        p[j] = (uint8_t)v;
    }
}

/* Bit `shift` of eight planes of 32 codes, as k__add_bits reads them. */
static inline void k__put_bits(const int8_t *q, int off, int shift, uint8_t p[32]) {
    for (int j = 0; j < 32; j++) {
        int v = 0;
        for (int k = 0; k < 8; k++) v |= ((q[32 * k + j] - off) >> shift & 1) << k;
        p[j] = (uint8_t)v;
    }
}

static void k_recode_q2_K(const int8_t *q, void *dst, int64_t n) {
    block_q2_K *b = (block_q2_K *)dst;
    for (int64_t i = 0; i < n / 256; i++)
        for (int h = 0; h < 2; h++) k__put_crumbs(q + 256 * i + 128 * h, 0, 0, b[i].qs + 32 * h);
}

static void k_recode_q3_K(const int8_t *q, void *dst, int64_t n) {
    block_q3_K *b = (block_q3_K *)dst;
    for (int64_t i = 0; i < n / 256; i++) {
        for (int h = 0; h < 2; h++) k__put_crumbs(q + 256 * i + 128 * h, -4, 0, b[i].qs + 32 * h);
        k__put_bits(q + 256 * i, -4, 2, b[i].hmask);
    }
}

static void k_recode_q4_K(const int8_t *q, void *dst, int64_t n) {
    block_q4_K *b = (block_q4_K *)dst;
    for (int64_t i = 0; i < n / 256; i++)
        for (int h = 0; h < 4; h++) k__put_nibbles(q + 256 * i + 64 * h, 32, 0, b[i].qs + 32 * h);
}

static void k_recode_q5_K(const int8_t *q, void *dst, int64_t n) {
    block_q5_K *b = (block_q5_K *)dst;
    for (int64_t i = 0; i < n / 256; i++) {
        for (int h = 0; h < 4; h++) k__put_nibbles(q + 256 * i + 64 * h, 32, 0, b[i].qs + 32 * h);
        k__put_bits(q + 256 * i, 0, 4, b[i].qh);
    }
}

static void k_recode_q6_K(const int8_t *q, void *dst, int64_t n) {
    block_q6_K *b = (block_q6_K *)dst;
    for (int64_t i = 0; i < n / 256; i++)
        for (int h = 0; h < 2; h++) {
            k__put_nibbles(q + 256 * i + 128 * h, 64, -32, b[i].ql + 64 * h);
            k__put_crumbs(q + 256 * i + 128 * h, -32, 4, b[i].qh + 32 * h);
        }
}

static void k__put_scales_q4_K(const int16_t *sc, const int16_t *mn, uint8_t s[12]) {
    for (int g = 0; g < 4; g++) {
        s[g] = (uint8_t)(sc[g] | sc[g + 4] >> 4 << 6);
        s[g + 4] = (uint8_t)(mn[g] | mn[g + 4] >> 4 << 6);
        s[g + 8] = (uint8_t)((sc[g + 4] & 15) | (mn[g + 4] & 15) << 4);
    }
}

/* --- one function per format --- */

#define K_FIT_PLAIN(type, lo, hi, rounds)                                                     \
    static void k_fit_##type(const float *x, const float *w, void *dst, int64_t n) {          \
        block_##type *b = (block_##type *)dst;                                                \
        int8_t        q[32];                                                                  \
        for (int64_t i = 0; i < n / 32; i++) {                                                \
            b[i].d = k__fit_plain(x + 32 * i, w ? w + 32 * i : NULL, lo, hi, rounds, q);      \
            k_recode_##type(q, b + i, 32);                                                    \
        }                                                                                     \
    }
K_FIT_PLAIN(q4_0, -8, 7, 8)
K_FIT_PLAIN(q5_0, -16, 15, 8)
K_FIT_PLAIN(q8_0, -127, 127, 4)

#define K_FIT_PLAIN_MIN(type, top)                                                            \
    static void k_fit_##type(const float *x, const float *w, void *dst, int64_t n) {          \
        block_##type *b = (block_##type *)dst;                                                \
        int8_t        q[32];                                                                  \
        uint16_t      h[2];                                                                   \
        for (int64_t i = 0; i < n / 32; i++) {                                                \
            k__fit_plain_min(x + 32 * i, w ? w + 32 * i : NULL, top, h, q);                   \
            b[i].d = h[0];                                                                    \
            b[i].m = h[1];                                                                    \
            k_recode_##type(q, b + i, 32);                                                    \
        }                                                                                     \
    }
K_FIT_PLAIN_MIN(q4_1, 15)
K_FIT_PLAIN_MIN(q5_1, 31)

static void k__store_q2_K(const k__fitted *f, block_q2_K *b) {
    b->d = f->d;
    b->dmin = f->dmin;
    for (int g = 0; g < 16; g++) b->scales[g] = (uint8_t)(f->sc[g] | f->mn[g] << 4);
    k_recode_q2_K(f->q, b, 256);
}

static void k__store_q3_K(const k__fitted *f, block_q3_K *b) {
    b->d = f->d;
    for (int g = 0; g < 16; g++) {
        int v = f->sc[g] + 32;
        b->scales[g % 8] = (uint8_t)(b->scales[g % 8] | (v & 15) << g / 8 * 4);
        b->scales[8 + g % 4] = (uint8_t)(b->scales[8 + g % 4] | v >> 4 << g / 4 * 2);
    }
    k_recode_q3_K(f->q, b, 256);
}

static void k__store_q4_K(const k__fitted *f, block_q4_K *b) {
    b->d = f->d;
    b->dmin = f->dmin;
    k__put_scales_q4_K(f->sc, f->mn, b->scales);
    k_recode_q4_K(f->q, b, 256);
}

static void k__store_q5_K(const k__fitted *f, block_q5_K *b) {
    b->d = f->d;
    b->dmin = f->dmin;
    k__put_scales_q4_K(f->sc, f->mn, b->scales);
    k_recode_q5_K(f->q, b, 256);
}

static void k__store_q6_K(const k__fitted *f, block_q6_K *b) {
    b->d = f->d;
    for (int g = 0; g < 16; g++) b->scales[g] = (int8_t)f->sc[g];
    k_recode_q6_K(f->q, b, 256);
}

#define K_FIT_SUPER(type, ...)                                                                \
    static void k_fit_##type(const float *x, const float *w, void *dst, int64_t n) {          \
        static const k__super kind = {__VA_ARGS__};                                           \
        block_##type         *b = (block_##type *)dst;                                        \
        k__scaled              bench;                                                          \
        k__fitted             f;                                                              \
        memset(b, 0, (size_t)(n / 256) * sizeof *b);                                          \
        for (int64_t i = 0; i < n / 256; i++) {                                               \
            if (!k__scaled_load(&bench, x + 256 * i, w ? w + 256 * i : NULL, 256)) continue;   \
            k__fit_block(&bench, &kind, &f);                                                  \
            k__store_##type(&f, b + i);                                                       \
        }                                                                                     \
    }
/*                lo   hi  sc_lo sc_hi group min    starts batches rounds polish again minima */
K_FIT_SUPER(q2_K, 0,   3,  0,    15,   16,   true,  8,     1,      2,     3,     3,    4)
K_FIT_SUPER(q3_K, -4,  3,  -32,  31,   16,   false, 2,     1,      2,     2,     1,    4)
K_FIT_SUPER(q4_K, 0,   15, 0,    63,   32,   true,  8,     1,      2,     3,     3,    4)
K_FIT_SUPER(q5_K, 0,   31, 0,    63,   32,   true,  8,     1,      2,     6,     3,    8)
K_FIT_SUPER(q6_K, -32, 31, -128, 127,  16,   false, 2,     1,      2,     4,     1,    4)

/* Plain floats need no search. Values beyond their range become the largest one, as in all fits. */
static void k_fit_f16(const float *x, const float *w, void *dst, int64_t n) {
    (void)w;
    for (int64_t i = 0; i < n; i++) {
        uint16_t h = k_f32_to_f16(x[i] > 65504 ? 65504 : x[i] < -65504 ? -65504 : x[i]);
        memcpy((uint8_t *)dst + 2 * i, &h, 2);
    }
}

static void k_fit_bf16(const float *x, const float *w, void *dst, int64_t n) {
    (void)w;
    for (int64_t i = 0; i < n; i++) {
        uint16_t h = k_f32_to_bf16(x[i]);
        if ((h & 0x7fff) == 0x7f80) h--;                 /* rounded up to infinity */
        memcpy((uint8_t *)dst + 2 * i, &h, 2);
    }
}

/* ===== [fit_grid] weights to blocks of tables, powers of two and lattices =====
 * Formats whose codes are not plain integers. A search writes blocks with a small error sum w*(x - x^)^2 for any weights w. Every
 * search keeps the best block so far, and computes errors with the scale as it is stored. Scales beyond f16 saturate; values too
 * small for a scale give a block of zeros. There is no state and no rounding that depends on the CPU: the same input gives the same
 * bytes everywhere.
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

typedef struct { float b, c; } k__fg_sums;
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

/* One f16 scale for the block; errors are those with the stored scale. Returns it; 0 where zeros are as good. */
K_FG_INLINE uint16_t k__fg_block(const k__fg_in *in, int n, const float *inv, int n_inv, k__fg_near near,
                                 int8_t *q) {
    k__fg_sums t;
    float      best = 0, d = k__fg_scale(in->x, in->w, n, inv, n_inv, near, &t);
    uint16_t   h = 0;
    for (int round = 0; round < 3; round++) {
        uint16_t next = k__fg_half(d * in->up);
        if (!(next & 0x7fff)) next |= 1;                 /* the smallest f16, not 0 */
        if (next == h) break;
        float s = k_f16_to_f32(next) * in->down, e;
        t = k__fg_try(in->x, in->w, n, k__fg_inverse(s), near);
        if (!((e = k__fg_error(t, s)) < best)) break;
        best = e;
        h = next;
        d = t.b / t.c;
    }
    k__fg_codes(in->x, n, k__fg_inverse(k_f16_to_f32(h) * in->down), near, q);
    return h;
}

/* The extreme value of a group, from which starts are derived; 0: all values are zero. */
static inline float k__fg_extreme(const float *x, int n) {
    float top = k__fg_top(x, n);
    for (int j = 0; j < n; j++)
        if (fabsf(x[j]) == top) return x[j];
    return 0;
}

/* --- IQ4_NL --- */

enum { K__IQ4_STARTS = 57 };

/* Starts with the extreme value at or near either end of the table, beyond it, or well inside. */
static void k__fg_iq4_starts(const float *x, float inv[K__IQ4_STARTS]) {
    float top = k__fg_extreme(x, 32), step = top != 0 ? 1 / top : 0;
    inv[0] = -127 * step;
    for (int i = 1; i < 33; i++) inv[i] = -(86 + 2.5f * (float)(i - 1)) * step;
    for (int i = 33; i < K__IQ4_STARTS; i++) inv[i] = (76 + 3 * (float)(i - 33)) * step;
}

static inline int k__iq4_code(int8_t q) {
    int code = 0;
    for (int k = 1; k < 16; k++) code += q >= k__iq4_values[k];
    return code;
}

static void k__iq4_pack(const int8_t q[32], uint8_t qs[16]) {
    for (int j = 0; j < 16; j++) qs[j] = (uint8_t)(k__iq4_code(q[j]) | k__iq4_code(q[j + 16]) << 4);
}

static void k_fit_iq4_nl(const float *x, const float *w, void *dst, int64_t n) {
    block_iq4_nl *b = (block_iq4_nl *)dst;
    k__fg_in      in;
    float         inv[K__IQ4_STARTS];
    int8_t        q[32];
    for (int64_t i = 0; i < n / 32; i++) {
        memset(b + i, 0, sizeof b[i]);
        if (!k__fg_load(x + 32 * i, w ? w + 32 * i : NULL, 32, &in)) continue;
        k__fg_iq4_starts(in.x, inv);
        b[i].d = k__fg_block(&in, 32, inv, K__IQ4_STARTS, k__fg_near_iq4, q);
        if (b[i].d) k__iq4_pack(q, b[i].qs);
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

/* Integers that a group may have: first + step*l for l = 0..count-1. */
typedef struct { int first, step, count; } k__fg_ints;

/* The one nearest to v. */
static inline int k__fg_int(const k__fg_ints *set, float v) {
    float l = (v - (float)set->first) / (float)set->step + 0.5f;
    return set->first + set->step * (l < 1 ? 0 : l >= (float)set->count ? set->count - 1 : (int)l);
}

typedef struct k__fg_super {
    uint16_t h;                                          /* the f16 scale */
    float    d, error;                                   /* d as scale of in.x; error without sum w*x*x */
    int      m[16];
} k__fg_super;

/* A block and how it is fitted. code(): the nearest codes of group g at scale s. */
typedef struct k__fg_job k__fg_job;
struct k__fg_job {
    k__fg_in in;
    int      groups, size;                               /* size: weights of a group */
    float    unit;                                       /* a weight is d * unit * m * code */
    k__fg_ints ints;
    k__fg_sums (*code)(const k__fg_job *job, int g, float s);
    const struct k__lattice *lattice;                    /* lattice formats only */
    uint8_t  signs[K_SUPER / 8];                         /* the same: bit j is set where weight j of eight is negative */
    int8_t   turned[K_SUPER / 8];                        /* the weight of eight whose sign is wrong, or -1 */
    float (*turn)(k__fg_job *job, const struct k__fg_super *at); /* chooses these weights again; returns the error it saves */
};


/* With fixed codes the error of group g is c*(s - d*m)^2 larger than at its own best s. */
static float k__fg_spread(const k__fg_job *job, const float *s, const k__fg_sums *t, float d, float *next) {
    float cost = 0, up = 0, down = 0, inv = 1 / d;
    for (int g = 0; g < job->groups; g++) {
        float m = (float)k__fg_int(&job->ints, s[g] * inv), off = s[g] - d * m;
        cost += t[g].c * off * off;
        up += t[g].c * s[g] * m;
        down += t[g].c * m * m;
    }
    *next = down > 0 ? up / down : d;
    return cost;
}

/* The d with the least error of all groups: the largest scale is tried at every integer from the last one to well inside. */
static float k__fg_common(const k__fg_job *job, const float *s, const k__fg_sums *t) {
    float peak = 0, best = FLT_MAX, d = 0;
    for (int g = 0; g < job->groups; g++)
        if (fabsf(s[g]) > fabsf(peak)) peak = s[g];
    if (peak == 0) return 0;
    float end = (float)(job->ints.first + job->ints.step * (job->ints.count - 1));
    for (int i = 0; i < 24; i++)
        for (int side = job->ints.first < 0 ? -1 : 1; side <= 1; side += 2) {
            float next = peak / (end * (1.12f - 0.03f * (float)i)) * (float)side;
            for (int k = 0; k < 3; k++) {
                float at = next, cost = k__fg_spread(job, s, t, at, &next);
                if (cost < best) best = cost, d = at;
            }
        }
    return d;
}

/* Chooses the integer of each group: the one it has or, where `anew`, the one nearest to its own best scale and, where that is clearly
 * on one side, the next on that side; each with its best codes. *up and *down get the sums whose quotient is the least-squares d. */
static void k__fg_assign(const k__fg_job *job, const float *s, k__fg_super *at, bool anew, float *up,
                         float *down) {
    at->error = *up = *down = 0;
    for (int g = 0; g < job->groups; g++) {
        float      best = FLT_MAX, v = s[g] / at->d;
        int        near = anew ? k__fg_int(&job->ints, v) : at->m[g];
        int        other = anew ? k__fg_int(&job->ints, 2 * v - (float)near) : near;
        k__fg_sums t = {0, 0};
        at->m[g] = near;                                 /* where all errors overflow */
        for (int m = near;; m = other) {
            k__fg_sums u = job->code(job, g, at->d * (float)m);
            float      e = k__fg_error(u, at->d * (float)m);
            if (e < best) best = e, t = u, at->m[g] = m;
            if (m == other) break;
        }
        at->error += best;
        *up += t.b * (float)at->m[g];
        *down += t.c * (float)(at->m[g] * at->m[g]);
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
    float       d = k__fg_common(job, s, t), up, down;
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

static k__fg_sums k__fg_code_iq4(const k__fg_job *job, int g, float s) {
    return k__fg_try(job->in.x + 32 * g, job->in.w + 32 * g, 32, k__fg_inverse(s), k__fg_near_iq4);
}

static void k_recode_iq4_xs(const int8_t *q, void *dst, int64_t n) {
    block_iq4_xs *b = (block_iq4_xs *)dst;
    for (int64_t i = 0; i < n / 32; i++) k__iq4_pack(q + 32 * i, b[i / 8].qs + 16 * (i % 8));
}

static void k_fit_iq4_xs(const float *x, const float *w, void *dst, int64_t n) {
    block_iq4_xs *b = (block_iq4_xs *)dst;
    k__fg_job     job = {.groups = 8, .size = 32, .unit = 1, .ints = {-32, 1, 64}, .code = k__fg_code_iq4};
    float         inv[K__IQ4_STARTS], s[8];
    k__fg_sums    t[8];
    int8_t        q[256];
    for (int64_t i = 0; i < n / 256; i++) {
        memset(b + i, 0, sizeof b[i]);
        if (!k__fg_load(x + 256 * i, w ? w + 256 * i : NULL, 256, &job.in)) continue;
        for (int g = 0; g < 8; g++) {
            const float *xg = job.in.x + 32 * g;
            k__fg_iq4_starts(xg, inv);
            s[g] = k__fg_scale(xg, job.in.w + 32 * g, 32, inv, K__IQ4_STARTS, k__fg_near_iq4, t + g);
        }
        k__fg_super at = k__fg_fit(&job, s, t);
        if (!at.h) continue;
        b[i].d = at.h;
        for (int g = 0; g < 8; g++) {
            int l = at.m[g] + 32;
            b[i].scales_l[g / 2] |= (uint8_t)((l & 15) << 4 * (g % 2));
            b[i].scales_h |= (uint16_t)((l >> 4) << 2 * g);
            float s_inv = k__fg_inverse(at.d * (float)at.m[g]);
            k__fg_codes(job.in.x + 32 * g, 32, s_inv, k__fg_near_iq4, q + 32 * g);
        }
        k_recode_iq4_xs(q, b + i, 256);
    }
}

/* --- lattices: codes are points of a grid of 4 or 8 weights ---
 * The cost of a point is the sum of the costs of its weights. A half of a point has few values, 64 or 81 cells, so with a table of
 * costs for each half the cost of a point is one addition. Grids are sorted, so points with the same upper half are neighbours, and
 * an upper half that costs too much even with the cheapest lower half is skipped: the search is exact and looks at few points. */

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

/* The cell of half a point: two of eight levels, or four of three levels as rows of nine cells, padded to twelve so that vectors do not
 * cross rows. */
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

/* Costs of all cells of half a point, the least cost, and the cell that has it (or a good guess). The cost of level value v for weight
 * x is w * v*s * (v*s - 2*x): the error without w*x*x. */
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

static k__fg_sums k__fg_code_lattice(const k__fg_job *job, int g, float s) {
    return k__fg_codes_lattice(job, g, s, NULL);
}

/* Splits weights into signs and magnitudes. Where the number of negative signs must be even, the weight for which a wrong sign costs
 * least gets one: its magnitude becomes negative. */
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
    k__fg_sums t = job->code(job, g, s);
    float      gain = t.b > 0 ? k__fg_gain(t) : 0;
    if (!(gain > best->gain)) return false;
    *best = (k__fg_best){t.b / t.c, gain, t};
    return true;
}

/* The scale of a group with the largest gain: steps over its possible range, which follows from the weighted root mean square; then
 * half a step to both sides of the best; then alternating scale and codes. */
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

/* ===== [fitters] one row per format that can be made =====
 * The index is the id in the file, as in k_types. To add a format: its fit in [fit] or [fit_grid], a row here, error bounds from
 * tests/gen. */

/* Codes of formats that have gaps between them, in rising order. */
static const int8_t k__fp4_levels[15] = {-12, -8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12};
static const int8_t k__sign_levels[2] = {-1, 1};

K_PUBLIC const k_fitter k_fitters[K_TYPE_MAX] = {
    /*             fit            recode            lo     hi    levels */
    [K_F16]     = {k_fit_f16,     NULL,             0,     0,    NULL},
    [K_BF16]    = {k_fit_bf16,    NULL,             0,     0,    NULL},
    [K_Q4_0]    = {k_fit_q4_0,    k_recode_q4_0,    -8,    7,    NULL},
    [K_Q4_1]    = {k_fit_q4_1,    k_recode_q4_1,    0,     15,   NULL},
    [K_Q5_0]    = {k_fit_q5_0,    k_recode_q5_0,    -16,   15,   NULL},
    [K_Q5_1]    = {k_fit_q5_1,    k_recode_q5_1,    0,     31,   NULL},
    [K_Q8_0]    = {k_fit_q8_0,    k_recode_q8_0,    -127,  127,  NULL},
    [K_Q2_K]    = {k_fit_q2_K,    k_recode_q2_K,    0,     3,    NULL},
    [K_Q3_K]    = {k_fit_q3_K,    k_recode_q3_K,    -4,    3,    NULL},
    [K_Q4_K]    = {k_fit_q4_K,    k_recode_q4_K,    0,     15,   NULL},
    [K_Q5_K]    = {k_fit_q5_K,    k_recode_q5_K,    0,     31,   NULL},
    [K_Q6_K]    = {k_fit_q6_K,    k_recode_q6_K,    -32,   31,   NULL},
    [K_IQ4_NL]  = {k_fit_iq4_nl,  k_recode_iq4_nl,  -127,  113,  k__iq4_values},
    [K_IQ4_XS]  = {k_fit_iq4_xs,  k_recode_iq4_xs,  -127,  113,  k__iq4_values},
    [K_MXFP4]   = {k_fit_mxfp4,   k_recode_mxfp4,   -12,   12,   k__fp4_levels},
    [K_NVFP4]   = {k_fit_nvfp4,   k_recode_nvfp4,   -12,   12,   k__fp4_levels},
    [K_TQ1_0]   = {k_fit_tq1_0,   k_recode_tq1_0,   -1,    1,    NULL},
    [K_TQ2_0]   = {k_fit_tq2_0,   k_recode_tq2_0,   -1,    1,    NULL},
    [K_Q1_0]    = {k_fit_q1_0,    k_recode_q1_0,    -1,    1,    k__sign_levels},
    [K_Q2_0]    = {k_fit_q2_0,    k_recode_q2_0,    -1,    2,    NULL},
    [K_IQ2_XXS] = {k_fit_iq2_xxs, NULL,             0,     0,    NULL},
    [K_IQ2_XS]  = {k_fit_iq2_xs,  NULL,             0,     0,    NULL},
    [K_IQ2_S]   = {k_fit_iq2_s,   NULL,             0,     0,    NULL},
    [K_IQ3_XXS] = {k_fit_iq3_xxs, NULL,             0,     0,    NULL},
    [K_IQ3_S]   = {k_fit_iq3_s,   NULL,             0,     0,    NULL},
    [K_IQ1_S]   = {k_fit_iq1_s,   NULL,             0,     0,    NULL},
    [K_IQ1_M]   = {k_fit_iq1_m,   NULL,             0,     0,    NULL},
};

/* Quantises a block of 2^30, which no f16 scale reaches, or of the largest float. */
K_PUBLIC float k_most(uint32_t id) {
    float   x[K_SUPER], most = 0;
    uint8_t blocks[K_SUPER * sizeof(float)];
    if (!k_fitters[id].fit) return FLT_MAX;
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < K_SUPER; i++) x[i] = t ? FLT_MAX : 0x1p30f;
        k_fitters[id].fit(x, NULL, blocks, K_SUPER);
        k_types[id].dequant(blocks, x, K_SUPER);
        for (int i = 0; i < K_SUPER; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    }
    return most;
}

#endif /* __CUDACC__ */

/* ===== [cuda] a step on NVIDIA GPUs =====
 * The device code: nvcc compiles it and what of this header is outside of #ifndef __CUDACC__ (make cuda);
 * tests/emu_cuda.h runs the same text on a CPU, where K_CUDA_EMU is defined. Results have the bits of the scalar level, but for those of
 * floats by tensor cores: integers are exact inside a block of 256, the float terms of blocks are added in rising order, and nothing is fused.
 *
 * One kernel serves all types with the same bits of a code, segments of a unit, head, and table or none (k__forms); offsets, tables and
 * factors are arguments. To add a type with a new form: a row in K_CUDA_MULS. To add a head: its cases in k__cuda_scale and the functions
 * after it.
 *
 * FEW COLUMNS  A thread block of 8 warps multiplies a strip of 16 packed rows with up to 8 columns. Warp w takes blocks of 256 with the
 * numbers w, w + 8, ...: for each run of 32 columns (16 where scales are per 16) one mma gives the 16 x 8 sums, which the scales of
 * the group multiply. What a block gives is parked in shared memory; when K_CUDA_PARK blocks are there, one thread for each of the 128
 * results adds them in order. Rows with outliers are two columns each, which may need a second pass.
 *
 * MANY COLUMNS  A thread block of 8 warps multiplies 4 strips with 64 columns: a warp has a strip and 4 tiles of 8 columns, for which it decodes
 * the strip once. The codes of the columns go through shared memory, block of 256 after block, whose terms a lane adds in order.
 *
 * FLOATS  Sixteen threads are the sixteen lanes of [vec]'s sums of one row, for up to 8 columns; a thread block has 16 rows.
 *
 * FLOATS BY TENSOR CORES  The same products in another order, where results need not have the CPU's bits (k_cuda_tensor_of). What an mma adds in
 * which order, the hardware decides; so there is one order for any number of columns: a block of 256 is summed by mma from its first column to
 * its last, and the terms of blocks are added in rising order. A result depends on its own row and column. Few and many columns have grids and
 * warps as quantised weights do.
 *   Precision: weights of bf16 take activations rounded to bf16, as on the CPU: one mma. Weights of f16 and f32 and their activations are two bf16
 * each, the rounded value and what rounding took. Three products of these parts keep 16 bits of each factor, for a third of the rate. One
 * product would keep 8 bits, which --f16-as-bf16 asks for; f16 activations would overflow above 65504. A value that is not finite gives NaN.
 *
 * ROWS  A thread block takes a row through the operations of its chain, with a barrier between two of them. Work on single values is dealt to
 * all threads. In the sum of a long vector half a warp is the sixteen lanes, and the others fetch for it; of short vectors (heads) each half
 * warp takes one. A block of 256 values that is quantised belongs to a warp, and so does a Hadamard transform, which needs no shared memory.
 *
 * STATES  A thread block takes K_CUDA_DELTA_COLS columns of the sums of one value head through all positions of a sequence. Four threads have a
 * column in registers: thread l has rows l, l + 4, ..., which are one of the four sums of k_delta. Vectors of some positions at a time are
 * convolved and normed in shared memory.
 *
 * EXPERTS  A router's row is one warp's. k_cuda_sort deals the slots to warps as runs, counts each run's by expert, and then knows where each
 * run's go. It lists tiles of slots of one expert, for which a product's grid has thread blocks: those after the last tile do nothing.
 *
 * FRAGMENTS (PTX ISA, "Matrix Fragments for mma.m16n8k16 / m16n8k32 with .s8") Lane l of a warp has g = l/4 and t = l%4.
 *     A, 16 x 32: register i holds row g + i%2*8, elements 4t + i/2*16 and the three after; 16 x 16: registers 0 and 1 of it
 *     B, 32 x 8: register i holds column g, elements 4t + i*16 and the three after; 16 x 8: register 0 of it
 *     C, 16 x 8: register i holds row g + i/2*8, column 2t + i%2
 * So a dword of a k-line, four columns of a row, is a register of A. Of bf16 ("mma.m16n8k16 with floating point type")
 *     A, 16 x 16: register i holds row g + i%2*8, elements 2t + i/2*8 and the one after
 *     B, 16 x 8: register i holds column g, elements 2t + i*8 and the one after
 *     C as above. Which column of a matrix is which element is free: of 32 columns a lane reads those from 8t on, the elements of two mma.
 *
 * WEIGHTS  Strips, units, heads and codes are those of [packed], with the same sizes and places. Inside a head and inside the codes of a unit,
 * what a lane needs is together, so that it is read 16 bytes at a time:
 *     codes   Of 64 columns a lane needs 8 registers of A: register 4h + j is k-line t + 4j of row g + 8h. A plane of b bits has them in order, 8/b
 *             to a word: b words for each 64 columns of the unit. Narrow planes come first. Of each 4 words of a plane, those of lane 0 come
 *             first, then those of lane 1; where a plane has less than 4 words (q5_0), one of each lane
 *     heads   A row has a word in each line (k__head_row). The words of rows g and g + 8 are side by side; a fifth one after those of all rows */

/* name: the kernel is k_cuda_mul_NAME */
#define K_CUDA_MULS(X)                                                        \
    /*   bits segs head          table        also for                     */ \
    X(q4_K,    4, 4, K__HEAD_MIN6, false)                                     \
    X(q5_K,    5, 4, K__HEAD_MIN6, false)                                     \
    X(q2_K,    2, 4, K__HEAD_MIN4, false)                                     \
    X(q6_K,    6, 4, K__HEAD_S8,   false)                                     \
    X(q3_K,    3, 4, K__HEAD_S6,   false)                                     \
    X(tq2_0,   2, 4, K__HEAD_ONE,  false)     /* tq1_0 */                     \
    X(iq4_xs,  4, 4, K__HEAD_S6X2, true)      /* iq3_xxs iq3_s */             \
    X(iq2_xxs, 3, 4, K__HEAD_S6X2, true)      /* iq1_s */                     \
    X(iq2_xs,  3, 4, K__HEAD_S6,   true)      /* iq2_s iq1_m */               \
    X(q4_0,    4, 1, K__HEAD_F16,  false)                                     \
    X(q4_1,    4, 1, K__HEAD_F16M, false)                                     \
    X(q5_0,    5, 1, K__HEAD_F16,  false)                                     \
    X(q5_1,    5, 1, K__HEAD_F16M, false)                                     \
    X(q8_0,    8, 1, K__HEAD_F16,  false)                                     \
    X(q1_0,    1, 4, K__HEAD_F16,  true)                                      \
    X(q2_0,    2, 2, K__HEAD_F16,  false)                                     \
    X(iq4_nl,  4, 1, K__HEAD_F16,  true)                                      \
    X(mxfp4,   4, 2, K__HEAD_E8,   true)                                      \
    X(nvfp4,   4, 1, K__HEAD_E4,   true)

/* name, type: the kernel is k_cuda_mul_NAME, by tensor cores k_cuda_tensor_NAME */
#define K_CUDA_FLOATS(X) X(f32, K_F32) X(f16, K_F16) X(bf16, K_BF16) X(f16_round, K_F16_ROUND)

/* Query heads that are computed together where there are many rows, and rows of so many, with `group` heads each. */
enum { K_CUDA_ASKS = 32 };
K__BODY int k__cuda_rows_of(int group) { return group < K_CUDA_ASKS ? K_CUDA_ASKS / group : 1; }

#ifndef __CUDACC__
K_PUBLIC int k_cuda_tiles(int slots, int n_expert, int cols) {
    const int most = slots / cols + (n_expert < slots ? n_expert : slots);
    return most < slots ? most : slots;
}

K_PUBLIC const char *k_cuda_mul_of(uint32_t type, bool many, k_cuda_mul *m) {
#define K__CUDA_ROW(name, bits, segs, head, table) {{"k_cuda_mul_" #name, "k_cuda_many_" #name}, bits, segs, head, table},
    static const struct { const char *name[2]; uint8_t bits, segs, head; bool table; } rows[] = {K_CUDA_MULS(K__CUDA_ROW)};
#define K__CUDA_FLOAT_ROW(name, id) if (type == id) return many ? NULL : "k_cuda_mul_" #name;
    const k__form *f = type < K_TYPE_MAX ? &k__forms[type] : NULL;
    K_CUDA_FLOATS(K__CUDA_FLOAT_ROW)
    for (size_t i = 0; f && i < sizeof rows / sizeof *rows; i++) {
        if (f->bits != rows[i].bits || f->segs != rows[i].segs || f->head != rows[i].head || (f->values != NULL) != rows[i].table) continue;
        memset(m->values, 0, sizeof m->values);
        if (f->values) memcpy(m->values, f->values, sizeof m->values);
        m->off = f->off;
        m->factor = f->factor;
        return rows[i].name[many];
    }
    return NULL;
}

K_PUBLIC const char *k_cuda_tensor_of(uint32_t type, bool many) {
#define K__CUDA_TENSOR_ROW(name, id) if (type == id) return many ? "k_cuda_tensor_many_" #name : "k_cuda_tensor_" #name;
    K_CUDA_FLOATS(K__CUDA_TENSOR_ROW)
    return NULL;
}

K_PUBLIC const char *k_cuda_attend_of(uint32_t type_k, uint32_t type_v, bool many) {
    static const bool known[K_TYPE_MAX] = {[K_F32] = true, [K_F16] = true, [K_BF16] = true, [K_Q8_0] = true, [K_Q4_0] = true};
    if (type_k >= K_TYPE_MAX || type_v >= K_TYPE_MAX || !known[type_k] || !known[type_v]) return NULL;
    if (k__kv_codes(type_k, type_v)) return many ? "k_cuda_attend_codes_many" : "k_cuda_attend_codes";
    return many ? "k_cuda_attend_many" : "k_cuda_attend";
}

K_PUBLIC const char *k_cuda_attend_tensor_of(uint32_t type_k, uint32_t type_v) {
    return k_cuda_attend_of(type_k, type_v, false) && !k__kv_codes(type_k, type_v) ? "k_cuda_attend_tensor" : NULL;
}

K_PUBLIC int k_cuda_attend_rows(int group) { return k__cuda_rows_of(group); }

K_PUBLIC const char *k_cuda_pack_of(uint32_t type, k_cuda_pack_args *a) {
    if (type >= K_TYPE_MAX || !k__forms[type].bits) return NULL;
    a->type = type;
    a->block_bytes = (size_t)(K_SUPER / k_types[type].block * k_types[type].bytes);
    return "k_cuda_pack";
}
#endif

#if defined(__CUDACC__) || defined(K_CUDA_EMU)

/* --- what the device gives; the emulator has each of these too --- */

#ifdef __CUDACC__
#define K_CUDA_FN           static __device__ __forceinline__
#define K_CUDA_KERNEL(name) extern "C" __global__ void __launch_bounds__(K_CUDA_THREADS, 2) name
#define K_CUDA_WIDE(name)   extern "C" __global__ void __launch_bounds__(K_CUDA_THREADS, 1) name    /* with up to 255 registers */
#define K_CUDA_SHARED(type, name, n) __shared__ type name[n]
#define K_CUDA_UNROLL       _Pragma("unroll")
#define K_CUDA_ROLL         _Pragma("unroll 1")
#define K_CUDA_THREAD       ((int)threadIdx.x)
#define K_CUDA_BLOCK_X      ((int)blockIdx.x)
#define K_CUDA_BLOCK_Y      ((int)blockIdx.y)
#define K_CUDA_GRID_Y       ((int)gridDim.y)

K_CUDA_FN void     k__cuda_sync(void) { __syncthreads(); }
K_CUDA_FN void     k__cuda_sync_warp(void) { __syncwarp(); }
K_CUDA_FN uint16_t k__cuda_ld16(const void *p) { return __ldg((const unsigned short *)p); }
K_CUDA_FN uint32_t k__cuda_ld32(const void *p) { return __ldg((const unsigned int *)p); }
K_CUDA_FN void     k__cuda_ld64(const void *p, uint32_t v[2]) {
    const uint2 w = __ldg((const uint2 *)p);
    v[0] = w.x, v[1] = w.y;
}
K_CUDA_FN void     k__cuda_ld128(const void *p, uint32_t v[4]) {
    const uint4 w = __ldg((const uint4 *)p);
    v[0] = w.x, v[1] = w.y, v[2] = w.z, v[3] = w.w;
}
K_CUDA_FN uint32_t k__cuda_perm(uint32_t a, uint32_t b, uint32_t s) { return __byte_perm(a, b, s); }

/* c + the two int16 of a times the lower two int8 of b. */
K_CUDA_FN int      k__cuda_dp2a(uint32_t a, uint32_t b, int c) { return __dp2a_lo((int)a, (int)b, c); }
K_CUDA_FN float    k__cuda_half(uint16_t h) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}

/* The value of the lane whose number differs in the bits of `far`. */
K_CUDA_FN float k__cuda_other(float v, int far) { return __shfl_xor_sync(0xffffffffu, v, far); }

/* c += a b. */
K_CUDA_FN void k__cuda_mma32(int c[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
K_CUDA_FN void k__cuda_mma16(int c[4], uint32_t a0, uint32_t a1, uint32_t b0) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]) : "r"(a0), "r"(a1), "r"(b0));
}
K_CUDA_FN void k__cuda_mma_bf16(float c[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

/* Two values rounded to bf16, the first in the lower half. */
K_CUDA_FN uint32_t k__cuda_bf16x2(float low, float high) {
    uint32_t v;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(high), "f"(low));
    return v;
}
#endif

/* --- codes --- */

K_CUDA_FN bool k__cuda_has_min(int head) { return head == K__HEAD_MIN6 || head == K__HEAD_MIN4 || head == K__HEAD_F16M; }

/* Of a plane of b bits: the words of a lane that are side by side; its words for 64 columns in narrower planes. */
K_CUDA_FN int k__cuda_side(int segs, int b) { return b * segs < 4 ? b * segs : 4; }
K_CUDA_FN int k__cuda_before(int bits, int b) { return bits & (b - 1); }

/* Where word k of a lane in that plane of a unit is, after the beginning of the unit's codes. */
K_CUDA_FN int k__cuda_word_at(int bits, int segs, int b, int k, int lane) {
    const int side = k__cuda_side(segs, b);
    return 128 * (segs * k__cuda_before(bits, b) + k / side * side) + 4 * (side * lane + k % side);
}

/* A plane of b bits: the lowest of them in a code, and a mask of b bits in each byte. */
K_CUDA_FN int      k__cuda_low(int bits, int b) { return bits & -2 * b; }
K_CUDA_FN uint32_t k__cuda_mask(int b) { return (255u >> (8 - b)) * 0x01010101u; }

/* The lane's words of the unit whose codes are at p: c[s] for 64 columns, one plane after the other. */
K_CUDA_FN void k__cuda_codes(int bits, int segs, const uint8_t *p, int lane, uint32_t (*c)[8]) {
    K_CUDA_UNROLL for (int b = 1; b <= 8; b *= 2) {
        const int side = k__cuda_side(segs, b), before = k__cuda_before(bits, b);
        K_CUDA_UNROLL for (int k = 0; k < b * segs; k += side) {
            const uint8_t *at = p + k__cuda_word_at(bits, segs, b, k, lane);
            uint32_t       v[4];
            if (!(bits & b)) continue;
            if (side == 4) k__cuda_ld128(at, v);
            else v[0] = k__cuda_ld32(at);
            K_CUDA_UNROLL for (int i = 0; i < side; i++) c[(k + i) / b][before + (k + i) % b] = v[i];
        }
    }
}

/* Codes of k-line t + 4j of row g + 8h, from the lane's words of 64 columns. */
K_CUDA_FN uint32_t k__cuda_code(int bits, const uint32_t c[8], int j, int h) {
    const int at = 4 * h + j;
    uint32_t  u = 0;
    K_CUDA_UNROLL for (int b = 1; b <= 8; b *= 2)
        if (bits & b) u |= (c[k__cuda_before(bits, b) + at * b / 8] >> at * b % 8 & k__cuda_mask(b)) << k__cuda_low(bits, b);
    return u;
}

/* The inverse: word i of those that the lane has in a plane for 64 columns, whose k-lines are at `line`, [k-line][row]. */
typedef uint32_t k__cuda_line[K_PACK_ROWS];
K_CUDA_FN uint32_t k__cuda_word(int bits, int b, int i, int lane, const k__cuda_line *line) {
    uint32_t v = 0;
    for (int k = 0; k < 8 / b; k++) {
        const int at = 8 / b * i + k;
        v |= (line[lane % 4 + at % 4 * 4][lane / 4 + at / 4 * 8] >> k__cuda_low(bits, b) & k__cuda_mask(b)) << b * k;
    }
    return v;
}

/* Entry number (byte i of u) of a table of 16 bytes, for each i; codes of less than 4 bits use the first 8. */
K_CUDA_FN uint32_t k__cuda_lookup(int bits, const uint32_t v[4], uint32_t u) {
    uint32_t s = (u | u >> 4) & 0x00ff00ffu;          /* to nibbles */
    s = (s | s >> 8) & 0xffffu;
    const uint32_t low = k__cuda_perm(v[0], v[1], s & 0x7777u);
    return bits < 4 ? low : k__cuda_perm(low, k__cuda_perm(v[2], v[3], s & 0x7777u), 0x3210u | (s & 0x8888u) >> 1);
}

/* The values of four unsigned codes. Bytes do not borrow from each other: u + 128 - off is not negative. */
K_CUDA_FN uint32_t k__cuda_values(int bits, int head, bool table, const k_cuda_mul *m, uint32_t u) {
    if (table) return k__cuda_lookup(bits, m->values, u);
    if (bits == 8) return u ^ 0x80808080u;
    if (k__cuda_has_min(head)) return u;
    return ((u | 0x80808080u) - (uint32_t)m->off * 0x01010101u) ^ 0x80808080u;
}

/* --- scales --- */

/* Columns of a scale. */
K_CUDA_FN int k__cuda_group(int head) {
    return head == K__HEAD_MIN4 || head == K__HEAD_S8 || head == K__HEAD_S6 || head == K__HEAD_E4 ? 16 : 32;
}

/* Where word i of row r is in a head. */
K_CUDA_FN int k__cuda_head_at(int head, int r, int i) {
    const int lines = k__head_lines(head), side = lines < 4 ? lines : 4, place = r % 8 * 2 + r / 8;
    return i < 4 ? 4 * (side * place + i) : 256 + 4 * place;
}

/* The words of rows g and g + 8 in the head at h. */
K_CUDA_FN void k__cuda_head_words(int head, const uint8_t *h, int g, uint32_t v[2][5]) {
    const int lines = k__head_lines(head);
    uint32_t  w[4];
    h += k__cuda_head_at(head, g, 0);
    if (lines == 1) {
        k__cuda_ld64(h, w);
        v[0][0] = w[0], v[1][0] = w[1];
    } else if (lines == 2) {
        k__cuda_ld128(h, w);
        K_CUDA_UNROLL for (int i = 0; i < 4; i++) v[i / 2][i % 2] = w[i];
    } else {
        K_CUDA_UNROLL for (int r = 0; r < 2; r++) k__cuda_ld128(h + 16 * r, v[r]);
    }
    if (lines < 5) return;
    k__cuda_ld64(h + k__cuda_head_at(head, g, 4) - k__cuda_head_at(head, g, 0), w);
    v[0][4] = w[0], v[1][4] = w[1];
}

/* The head of one row of an INT block. */
typedef struct {
    const uint32_t *v;                                /* its words */
    float           d, dm;
} k__cuda_head;

K_CUDA_FN k__cuda_head k__cuda_head_of(int head, const uint32_t v[5], const k_cuda_mul *m) {
    const uint32_t last = v[k__head_lines(head) - 1];
    k__cuda_head   s = {v, 0.0f, 0.0f};
    if (k__cuda_has_min(head)) {
        s.d = k__cuda_half((uint16_t)last);
        s.dm = k__cuda_half((uint16_t)(last >> 16));
    } else if (head == K__HEAD_S6X2) {
        s.d = k__cuda_half((uint16_t)(last >> 16)) * m->factor;
    } else {
        s.d = k__f32_of(last);
    }
    return s;
}

/* Scale and minimum of group g of an INT block. */
K_CUDA_FN int k__cuda_scale(int head, const uint32_t v[4], int g) {
    switch (head) {
    case K__HEAD_MIN6: return (int)(v[g / 4] >> g % 4 * 8 & 63);
    case K__HEAD_MIN4: return (int)(v[g / 4] >> g % 4 * 8 & 15);
    case K__HEAD_S8: return (int8_t)(v[g / 4] >> g % 4 * 8);
    case K__HEAD_S6: return (int)((v[g / 8] >> g % 8 * 4 & 15) | (v[2] >> 2 * g & 3) << 4) - 32;
    case K__HEAD_S6X2: return (int)((v[0] >> 4 * g & 15) | (v[1] >> 2 * g & 3) << 4) - 32;
    default: return 1;
    }
}

K_CUDA_FN int k__cuda_min(int head, const uint32_t v[4], int g) {
    const int at = g % 4 * 8;
    if (head == K__HEAD_MIN4) return (int)(v[g / 4] >> at >> 4 & 15);
    if (g < 4) return (int)(v[2] >> at & 63);
    return (int)((v[0] >> at >> 6 & 3) | (v[1] >> at >> 6 & 3) << 2 | (v[2] >> at >> 6 & 3) << 4);
}

/* Scale i of a row of a SCALE unit, and its addend. */
K_CUDA_FN float k__cuda_fscale(int head, int segs, const uint32_t v[5], int i) {
    if (head == K__HEAD_E8) return k_e8m0_half((uint8_t)(v[0] >> 8 * i));
    if (head == K__HEAD_E4) return k__cuda_half((uint16_t)((v[0] >> 8 * i & 255) << 7)) * 128.0f;
    return k__cuda_half((uint16_t)(v[0] >> i / segs * 16));
}
K_CUDA_FN float k__cuda_fmin(const uint32_t v[5], int i) { return k__cuda_half((uint16_t)(v[1] >> 16 * i)); }

/* --- blocks of 256 --- */

/* What a lane reads of its columns: the codes of column g from element 4t on, sums and scales of columns 2t and 2t + 1. */
typedef struct {
    const int8_t *q;
    const k_sums *sum[2];
    const float  *d[2];
} k__cuda_cols;

/* The sum of the codes of group g. */
K_CUDA_FN int k__cuda_sum(int head, const k_sums *s, int g) {
    return (int16_t)k__cuda_ld16(k__cuda_group(head) == 16 ? &s->of16[g] : &s->of32[k__sums_at(g)]);
}

/* What a lane reads of a block of weights, all of it before the first is used: words of codes for each 64 columns, words of heads for each unit. */
typedef struct { uint32_t c[4][8], v[4][2][5]; } k__cuda_block;

K_CUDA_FN int k__cuda_unit(int bits, int segs, int head) { return 128 * bits * segs + 64 * k__head_lines(head); }

/* Reads the block of units from w on, of which `len` columns exist. */
K_CUDA_FN void k__cuda_read(int bits, int segs, int head, const uint8_t *w, int len, int lane, k__cuda_block *b) {
    const int codes_at = head <= K__HEAD_ONE ? 64 * k__head_lines(head) : 0, head_at = head <= K__HEAD_ONE ? 0 : 128 * bits * segs;
    K_CUDA_UNROLL for (int i = 0; i < 4; i += segs, w += k__cuda_unit(bits, segs, head)) {
        if (64 * i >= len) continue;
        k__cuda_codes(bits, segs, w + codes_at, lane, b->c + i);
        k__cuda_head_words(head, w + head_at, lane / 4, b->v[i / segs]);
    }
}

/* The values of 64 columns, from their codes: u[j][h] is k-line t + 4j of row g + 8h. */
K_CUDA_FN void k__cuda_weights(int bits, int head, bool table, const k_cuda_mul *m, const uint32_t c[8], uint32_t u[4][2]) {
    K_CUDA_UNROLL for (int j = 0; j < 4; j++)
        K_CUDA_UNROLL for (int h = 0; h < 2; h++) u[j][h] = k__cuda_values(bits, head, table, m, k__cuda_code(bits, c, j, h));
}

/* What a lane brings of its column for 64 columns of weights, or the first 32 of them: bytes 4t to 4t + 3 of each 16. */
K_CUDA_FN void k__cuda_cols64(const int8_t *x, int halves, uint32_t q[2][2]) {
    K_CUDA_UNROLL for (int s = 0; s < 2; s++)
        K_CUDA_UNROLL for (int i = 0; i < 2; i++) q[s][i] = s < halves ? k__cuda_ld32(x + 32 * s + 16 * i) : 0;
}

/* Sums of products for 64 columns of weights, or the first 32 of them (halves 1): c[k] is the tile of the k-th group. */
K_CUDA_FN void k__cuda_dots(int head, uint32_t u[4][2], uint32_t q[2][2], int halves, int c[4][4]) {
    K_CUDA_UNROLL for (int j = 0; j < 4; j++)
        K_CUDA_UNROLL for (int i = 0; i < 4; i++) c[j][i] = 0;
    K_CUDA_UNROLL for (int s = 0; s < 2; s++) {
        if (s >= halves) continue;
        if (k__cuda_group(head) == 32) {
            k__cuda_mma32(c[s], u[2 * s][0], u[2 * s][1], u[2 * s + 1][0], u[2 * s + 1][1], q[s][0], q[s][1]);
        } else {
            k__cuda_mma16(c[2 * s], u[2 * s][0], u[2 * s][1], q[s][0]);
            k__cuda_mma16(c[2 * s + 1], u[2 * s + 1][0], u[2 * s + 1][1], q[s][1]);
        }
    }
}

/* Sums of one block of INT weights for four results of a lane. */
typedef struct { int dot[4], min[4]; } k__cuda_isum;

/* Adds segment seg, whose tiles are c: sc * dot, and mn * the sums of the columns' codes. */
K_CUDA_FN void k__cuda_add_int(int head, k__cuda_head s[2], const k_sums *sum[2], int seg, int c[4][4], k__cuda_isum *to) {
    const int n_groups = 64 / k__cuda_group(head);
    K_CUDA_UNROLL for (int k = 0; k < n_groups; k++)
        K_CUDA_UNROLL for (int i = 0; i < 4; i++) {
            const int group = seg * n_groups + k;
            to->dot[i] += k__cuda_scale(head, s[i / 2].v, group) * c[k][i];
            if (k__cuda_has_min(head)) to->min[i] += k__cuda_min(head, s[i / 2].v, group) * k__cuda_sum(head, sum[i % 2], group);
        }
}

K_CUDA_FN float k__cuda_int_term(int head, const k__cuda_head *s, const k__cuda_isum *sum, int i) {
    const float v = s->d * (float)sum->dot[i];
    return k__cuda_has_min(head) ? v - s->dm * (float)sum->min[i] : v;
}

/* Adds segment seg of SCALE weights, whose tiles are c and whose unit has the head words h: fs * dot + fm * asum, group after group. */
K_CUDA_FN void k__cuda_add_scale(int head, int segs, uint32_t h[2][5], const k_sums *sum[2], int seg, int c[4][4], float v[4]) {
    const int n_groups = 64 / k__cuda_group(head);
    K_CUDA_UNROLL for (int k = 0; k < n_groups; k++) {
        const int group = seg * n_groups + k, in_unit = seg % segs * n_groups + k;
        K_CUDA_UNROLL for (int i = 0; i < 4; i++) {
            v[i] = v[i] + k__cuda_fscale(head, segs, h[i / 2], in_unit) * (float)c[k][i];
            if (k__cuda_has_min(head)) v[i] = v[i] + k__cuda_fmin(h[i / 2], in_unit) * (float)k__cuda_sum(head, sum[i % 2], group);
        }
    }
}

/* One block of INT weights, a unit at w, times the columns at block b: v = d * (sum of sc * dot) - dm * (sum of mn * asum). */
K_CUDA_FN void k__cuda_block_int(int bits, int head, bool table, const k_cuda_mul *m, const uint8_t *w, const k__cuda_cols *x, int b,
                                 int lane, float v[4]) {
    const k_sums *sum[2] = {x->sum[0] + b, x->sum[1] + b};
    k__cuda_isum  isum = {{0, 0, 0, 0}, {0, 0, 0, 0}};
    k__cuda_block block;
    k__cuda_read(bits, 4, head, w, 256, lane, &block);
    k__cuda_head  s[2] = {k__cuda_head_of(head, block.v[0][0], m), k__cuda_head_of(head, block.v[0][1], m)};
    K_CUDA_UNROLL for (int seg = 0; seg < 4; seg++) {
        uint32_t u[4][2], q[2][2];
        int      c[4][4];
        k__cuda_weights(bits, head, table, m, block.c[seg], u);
        k__cuda_cols64(x->q + 256 * b + 64 * seg, 2, q);
        k__cuda_dots(head, u, q, 2, c);
        k__cuda_add_int(head, s, sum, seg, c, &isum);
    }
    K_CUDA_UNROLL for (int i = 0; i < 4; i++) v[i] = k__cuda_int_term(head, &s[i / 2], &isum, i);
}

/* One block of SCALE weights, units from w on, of which `len` columns exist. Scales after the last column are 0. */
K_CUDA_FN void k__cuda_block_scale(int bits, int segs, int head, bool table, const k_cuda_mul *m, const uint8_t *w, const k__cuda_cols *x,
                                   int b, int len, int lane, float v[4]) {
    const k_sums *sum[2] = {x->sum[0] + b, x->sum[1] + b};
    k__cuda_block block;
    k__cuda_read(bits, segs, head, w, len, lane, &block);
    K_CUDA_UNROLL for (int i = 0; i < 4; i++) v[i] = 0.0f;
    K_CUDA_UNROLL for (int seg = 0; seg < 4; seg++) {
        const int halves = (len - 64 * seg + 31) / 32;
        uint32_t  u[4][2], q[2][2];
        int       c[4][4];
        if (halves <= 0) continue;
        k__cuda_weights(bits, head, table, m, block.c[seg], u);
        k__cuda_cols64(x->q + 256 * b + 64 * seg, halves, q);
        k__cuda_dots(head, u, q, halves, c);
        k__cuda_add_scale(head, segs, block.v[seg / segs], sum, seg, c, v);
    }
}

/* --- columns --- */

/* What a thread block multiplies: columns [first, first + nt) with the matrix at w. */
typedef struct {
    int            first, nt;                         /* nt <= 0: nothing */
    const uint8_t *w;
    float          scale;
} k__cuda_piece;

K_CUDA_FN k__cuda_piece k__cuda_piece_of(const k_cuda_mul *m, int cols) {
    k__cuda_piece p;
    if (m->tiles) {
        const bool     any = K_CUDA_BLOCK_Y < m->tiles[0];
        const int32_t *tile = m->tiles + 1 + (any ? 3 * K_CUDA_BLOCK_Y : 0), expert = any ? tile[0] : 0;
        p.first = any ? tile[1] : 0;
        p.nt = any ? tile[2] : 0;
        p.w = m->w + (size_t)expert * m->mat_bytes;
        p.scale = m->scales ? m->scales[expert] : 0.0f;
    } else {
        const int left = (m->nt ? *m->nt : m->a.nt) - cols * K_CUDA_BLOCK_Y;
        p.first = cols * K_CUDA_BLOCK_Y;
        p.nt = left < cols ? left : cols;
        p.w = m->w;
        p.scale = m->scale;
    }
    return p;
}

K_CUDA_FN int  k__cuda_row(const k_acts *a, int t) { return a->idx ? a->idx[t] : t; }
K_CUDA_FN bool k__cuda_split(const k_acts *a, int t) { return a->split && a->split[k__cuda_row(a, t)]; }

/* Columns of a product with nt rows from `first` on: the rows, then the rounding errors of those with outliers. */
K_CUDA_FN int k__cuda_columns(const k_acts *a, int first, int nt) {
    int n = nt;
    for (int i = 0; i < nt; i++) n += k__cuda_split(a, first + i);
    return n;
}

/* The row of column c; after the last column any row will do. */
K_CUDA_FN size_t k__cuda_column(const k_acts *a, int first, int nt, int c) {
    if (c < nt) return (size_t)k__cuda_row(a, first + c);
    for (int i = 0, k = nt; a->split && i < nt; i++)
        if (k__cuda_split(a, first + i) && k++ == c) return (size_t)(k__cuda_row(a, first + i) + a->rest);
    return (size_t)k__cuda_row(a, first);
}

K_CUDA_FN k__cuda_cols k__cuda_cols_of(const k_acts *a, int first, int nt, int pass, int lane) {
    const int    g = lane / 4, t = lane % 4;
    k__cuda_cols x;
    x.q = a->q + k__cuda_column(a, first, nt, pass + g) * a->ldq + 4 * t;
    K_CUDA_UNROLL for (int i = 0; i < 2; i++) {
        const size_t at = k__cuda_column(a, first, nt, pass + 2 * t + i) * a->ldd;
        x.sum[i] = a->sum + at;
        x.d[i] = a->d + at;
    }
    return x;
}

/* The term of block b for each of the 16 x 8 results, one after the other. */
K_CUDA_FN void k__cuda_park(int bits, int segs, int head, bool table, const k_cuda_mul *m, const uint8_t *strip, const k__cuda_cols *x, int b,
                            int lane, float *term) {
    const int      len = m->n - 256 * b < 256 ? m->n - 256 * b : 256;
    const uint8_t *w = strip + (size_t)b * (size_t)(4 / segs * k__cuda_unit(bits, segs, head));
    float          v[4];
    if (head <= K__HEAD_ONE) k__cuda_block_int(bits, head, table, m, w, x, b, lane, v);
    else k__cuda_block_scale(bits, segs, head, table, m, w, x, b, len, lane, v);
    K_CUDA_UNROLL for (int i = 0; i < 4; i++) term[8 * (lane / 4 + i / 2 * 8) + lane % 4 * 2 + i % 2] = v[i] * x->d[i % 2][b];
}

enum { K_CUDA_PARK = 64, K__CUDA_TILE = K_PACK_ROWS * K_CUDA_COLS };

K_CUDA_FN void k__cuda_mul(int bits, int segs, int head, bool table, const k_cuda_mul *m) {
    K_CUDA_SHARED(float, term, K_CUDA_PARK * K__CUDA_TILE);     /* [block][row][column] */
    K_CUDA_SHARED(float, sum, 2 * K__CUDA_TILE);                /* [pass][row][column] */
    const k_acts  *a = &m->a;
    const k__cuda_piece part = k__cuda_piece_of(m, K_CUDA_COLS);
    const int      me = K_CUDA_THREAD, lane = me % 32, first = part.first, nt = part.nt, nb = (m->n + 255) / 256;
    const int      n_cols = k__cuda_columns(a, first, nt);
    const size_t   units = (size_t)((m->n + 64 * segs - 1) / (64 * segs));
    const uint8_t *strip = part.w + (size_t)K_CUDA_BLOCK_X * units * (size_t)k__cuda_unit(bits, segs, head);
    if (nt <= 0) return;
    for (int pass = 0; pass < n_cols; pass += K_CUDA_COLS) {
        const k__cuda_cols x = k__cuda_cols_of(a, first, nt, pass, lane);
        float              s = 0.0f;
        for (int b0 = 0; b0 < nb; b0 += K_CUDA_PARK) {
            const int n = nb - b0 < K_CUDA_PARK ? nb - b0 : K_CUDA_PARK;
            if (pass || b0) k__cuda_sync();           /* the terms before these are added */
            for (int i = me / 32; i < n; i += K_CUDA_THREADS / 32)
                k__cuda_park(bits, segs, head, table, m, strip, &x, b0 + i, lane, term + K__CUDA_TILE * i);
            k__cuda_sync();
            for (int i = 0; me < K__CUDA_TILE && i < n; i++) s = s + term[K__CUDA_TILE * i + me];
        }
        if (me < K__CUDA_TILE) sum[pass / K_CUDA_COLS * K__CUDA_TILE + me] = s;
    }
    k__cuda_sync();
    const int r = me % K_PACK_ROWS, c = me / K_PACK_ROWS, row = K_PACK_ROWS * K_CUDA_BLOCK_X + r;
    if (c >= nt || row >= m->nr) return;
    float y = sum[8 * r + c];
    if (k__cuda_split(a, first + c)) {                /* and the column of its rounding errors */
        const int rest = k__cuda_columns(a, first, c) - c + nt;
        y = y + sum[rest / 8 * K__CUDA_TILE + 8 * r + rest % 8];
    }
    m->y[(size_t)(first + c) * m->ldy + (size_t)row] = part.scale != 0.0f ? y * part.scale : y;
}

/* --- many columns --- */

enum { K__CUDA_TILES = 4, K__CUDA_WORDS = 68 };              /* tiles of 8 columns of a warp; dwords between two columns in shared memory */

/* The columns of a pass: in the first the rows from `first` on, then the rounding errors of those of them that have outliers. */
typedef struct {
    uint32_t q[K_CUDA_MANY_COLS * K__CUDA_WORDS];            /* [column][64] codes of one block */
    int32_t  at[K_CUDA_MANY_COLS], to[K_CUDA_MANY_COLS];     /* rows of the quantised arrays; rows of y, from `first` on */
} k__cuda_many_mem;

/* Lists the columns of a pass and returns how many there are. */
K_CUDA_FN int k__cuda_list(const k_acts *a, int first, int nt, bool rest, k__cuda_many_mem *m) {
    const int i = K_CUDA_THREAD, all = rest ? k__cuda_columns(a, first, nt) - nt : nt;
    if (rest) k__cuda_sync();                         /* all have used the list before */
    if (i < K_CUDA_MANY_COLS) m->at[i] = k__cuda_row(a, first), m->to[i] = 0;     /* after the last column any row will do */
    if (rest) k__cuda_sync();                         /* columns are not listed by the thread of their number */
    if (i < nt && (!rest || k__cuda_split(a, first + i))) {
        const int c = rest ? k__cuda_columns(a, first, i) - i : i;
        m->at[c] = k__cuda_row(a, first + i) + (rest ? a->rest : 0);
        m->to[c] = i;
    }
    k__cuda_sync();
    return all;
}

/* The codes of block b of all columns go to shared memory. */
K_CUDA_FN void k__cuda_fetch(const k_acts *a, int b, k__cuda_many_mem *m) {
    for (int i = K_CUDA_THREAD; i < 64 * K_CUDA_MANY_COLS; i += K_CUDA_THREADS)
        m->q[i / 64 * K__CUDA_WORDS + i % 64] = k__cuda_ld32(a->q + (size_t)m->at[i / 64] * a->ldq + 256 * (size_t)b + 4 * (i % 64));
}

/* What a lane brings of column g of a tile, from segment seg. */
K_CUDA_FN void k__cuda_shared64(const k__cuda_many_mem *m, int col, int seg, int t, uint32_t q[2][2]) {
    const uint32_t *from = m->q + col * K__CUDA_WORDS + 16 * seg + t;
    K_CUDA_UNROLL for (int s = 0; s < 2; s++)
        K_CUDA_UNROLL for (int i = 0; i < 2; i++) q[s][i] = from[8 * s + 4 * i];
}

/* Where the sums and scales of column `col` have those of block b. */
K_CUDA_FN size_t k__cuda_many_at(const k_acts *a, const k__cuda_many_mem *m, int col, int b) { return (size_t)m->at[col] * a->ldd + (size_t)b; }

/* One tile from column `col` on, with segment seg of block b: sums of products with the weights u, and the sums of the lane's two columns. */
K_CUDA_FN void k__cuda_many_tile(int head, const k_acts *a, const k__cuda_many_mem *m, uint32_t u[4][2], int col, int b, int seg, int halves, int lane,
                                 const k_sums *sum[2], int c[4][4]) {
    uint32_t q[2][2];
    k__cuda_shared64(m, col + lane / 4, seg, lane % 4, q);
    K_CUDA_UNROLL for (int i = 0; i < 2; i++) sum[i] = a->sum + k__cuda_many_at(a, m, col + lane % 4 * 2 + i, b);
    k__cuda_dots(head, u, q, halves, c);
}

/* Adds block b of the strip at w, times the warp's columns from `col` on, to acc. */
K_CUDA_FN void k__cuda_many_int(int bits, int head, bool table, const k_cuda_mul *m, const uint8_t *w, const k__cuda_many_mem *x, int col, int b,
                                int lane, float acc[K__CUDA_TILES][4]) {
    k__cuda_block block;
    k__cuda_isum  isum[K__CUDA_TILES];
    k__cuda_read(bits, 4, head, w, 256, lane, &block);
    k__cuda_head  s[2] = {k__cuda_head_of(head, block.v[0][0], m), k__cuda_head_of(head, block.v[0][1], m)};
    K_CUDA_UNROLL for (int j = 0; j < K__CUDA_TILES; j++)
        K_CUDA_UNROLL for (int i = 0; i < 4; i++) isum[j].dot[i] = isum[j].min[i] = 0;
    K_CUDA_UNROLL for (int seg = 0; seg < 4; seg++) {
        uint32_t u[4][2];
        k__cuda_weights(bits, head, table, m, block.c[seg], u);
        K_CUDA_UNROLL for (int j = 0; j < K__CUDA_TILES; j++) {
            const k_sums *sum[2];
            int           c[4][4];
            k__cuda_many_tile(head, &m->a, x, u, col + 8 * j, b, seg, 2, lane, sum, c);
            k__cuda_add_int(head, s, sum, seg, c, &isum[j]);
        }
    }
    K_CUDA_UNROLL for (int j = 0; j < K__CUDA_TILES; j++)
        K_CUDA_UNROLL for (int i = 0; i < 4; i++) {
            const float d = m->a.d[k__cuda_many_at(&m->a, x, col + 8 * j + lane % 4 * 2 + i % 2, b)];
            acc[j][i] = acc[j][i] + k__cuda_int_term(head, &s[i / 2], &isum[j], i) * d;
        }
}

K_CUDA_FN void k__cuda_many_scale(int bits, int segs, int head, bool table, const k_cuda_mul *m, const uint8_t *w, const k__cuda_many_mem *x, int col,
                                  int b, int lane, float acc[K__CUDA_TILES][4]) {
    const int     len = m->n - 256 * b;
    float         v[K__CUDA_TILES][4];
    k__cuda_block block;
    k__cuda_read(bits, segs, head, w, len, lane, &block);
    K_CUDA_UNROLL for (int j = 0; j < K__CUDA_TILES; j++)
        K_CUDA_UNROLL for (int i = 0; i < 4; i++) v[j][i] = 0.0f;
    K_CUDA_UNROLL for (int seg = 0; seg < 4; seg++) {
        const int left = (len - 64 * seg + 31) / 32, halves = left < 2 ? left : 2;
        uint32_t  u[4][2];
        if (halves <= 0) continue;
        k__cuda_weights(bits, head, table, m, block.c[seg], u);
        K_CUDA_UNROLL for (int j = 0; j < K__CUDA_TILES; j++) {
            const k_sums *sum[2];
            int           c[4][4];
            k__cuda_many_tile(head, &m->a, x, u, col + 8 * j, b, seg, halves, lane, sum, c);
            k__cuda_add_scale(head, segs, block.v[seg / segs], sum, seg, c, v[j]);
        }
    }
    K_CUDA_UNROLL for (int j = 0; j < K__CUDA_TILES; j++)
        K_CUDA_UNROLL for (int i = 0; i < 4; i++)
            acc[j][i] = acc[j][i] + v[j][i] * m->a.d[k__cuda_many_at(&m->a, x, col + 8 * j + lane % 4 * 2 + i % 2, b)];
}

/* The results of a pass: the first one leaves rows with outliers unscaled, their rounding errors are added in the second. */
K_CUDA_FN void k__cuda_many_put(const k_cuda_mul *m, const k__cuda_many_mem *x, const k__cuda_piece *part, int n, bool rest, int row, int col, int lane,
                                float acc[K__CUDA_TILES][4]) {
    K_CUDA_UNROLL for (int j = 0; j < K__CUDA_TILES; j++)
        K_CUDA_UNROLL for (int i = 0; i < 4; i++) {
            const int c = col + 8 * j + lane % 4 * 2 + i % 2, r = row + lane / 4 + i / 2 * 8;
            if (c >= n || r >= m->nr) continue;
            const int t = part->first + x->to[c];
            float    *y = m->y + (size_t)t * m->ldy + (size_t)r;
            float     v = rest ? *y + acc[j][i] : acc[j][i];
            if (part->scale != 0.0f && (rest || !k__cuda_split(&m->a, t))) v = v * part->scale;
            *y = v;
        }
}

K_CUDA_FN void k__cuda_many(int bits, int segs, int head, bool table, const k_cuda_mul *m) {
    K_CUDA_SHARED(k__cuda_many_mem, x, 1);
    const k_acts *a = &m->a;
    const k__cuda_piece part = k__cuda_piece_of(m, K_CUDA_MANY_COLS);
    const int     warp = K_CUDA_THREAD / 32, lane = K_CUDA_THREAD % 32, col = warp / 4 * 8 * K__CUDA_TILES, nb = (m->n + 255) / 256;
    const int     row = K_CUDA_MANY_ROWS * K_CUDA_BLOCK_X + warp % 4 * K_PACK_ROWS;
    const size_t  unit = (size_t)k__cuda_unit(bits, segs, head), units = (size_t)((m->n + 64 * segs - 1) / (64 * segs));
    const uint8_t *strip = part.w + (size_t)((row < m->nr ? row : 0) / K_PACK_ROWS) * units * unit;
    if (part.nt <= 0) return;
    for (int rest = 0; rest < 2; rest++) {
        const int n = k__cuda_list(a, part.first, part.nt, rest != 0, x);
        float     acc[K__CUDA_TILES][4];
        K_CUDA_UNROLL for (int j = 0; j < K__CUDA_TILES; j++)
            K_CUDA_UNROLL for (int i = 0; i < 4; i++) acc[j][i] = 0.0f;
        for (int b = 0; n && b < nb; b++) {
            if (b) k__cuda_sync();
            k__cuda_fetch(a, b, x);
            k__cuda_sync();
            const uint8_t *w = strip + (size_t)b * (size_t)(4 / segs) * unit;
            if (head <= K__HEAD_ONE) k__cuda_many_int(bits, head, table, m, w, x, col, b, lane, acc);
            else k__cuda_many_scale(bits, segs, head, table, m, w, x, col, b, lane, acc);
        }
        k__cuda_many_put(m, x, &part, n, rest != 0, row, col, lane, acc);
    }
}

/* --- floats --- */

typedef struct { uint32_t v[4]; } __attribute__((aligned(16))) k__cuda_words;

/* Value i of a row of floats of a type, 0 after its n values. */
K_CUDA_FN float k__cuda_float_at(uint32_t type, const uint8_t *row, int i, int n) {
    if (i >= n) return 0.0f;
    if (type == K_F32) return k__f32_of(k__cuda_ld32(row + 4 * (size_t)i));
    const uint16_t h = k__cuda_ld16(row + 2 * (size_t)i);
    if (type == K_BF16) return k_bf16_to_f32(h);
    return type == K_F16 ? k__cuda_half(h) : k_bf16_to_f32(k_f32_to_bf16(k__cuda_half(h)));
}

/* Row of weights and lane of the sum by the thread. Of 32 values of bf16 lane l takes 2l + 1, then 2l; of 16 others value l. */
K_CUDA_FN void k__cuda_mul_floats(uint32_t type, const k_cuda_mul *m) {
    const k_acts  *a = &m->a;
    const bool     pairs = type == K_BF16 || type == K_F16_ROUND;
    const k__cuda_piece part = k__cuda_piece_of(m, K_CUDA_COLS);
    const int      l = K_CUDA_THREAD % 16, row = 16 * K_CUDA_BLOCK_X + K_CUDA_THREAD / 16, first = part.first, nt = part.nt;
    const uint8_t *w = part.w + (size_t)(row < m->nr ? row : m->nr - 1) * m->row_bytes, *x[K_CUDA_COLS];
    float          s[K_CUDA_COLS];
    if (nt <= 0) return;
    K_CUDA_UNROLL for (int c = 0; c < K_CUDA_COLS; c++) {
        const size_t at = (size_t)k__cuda_row(a, first + (c < nt ? c : 0)) * a->ldx;
        x[c] = pairs ? (const uint8_t *)(a->h + at) : (const uint8_t *)(a->x + at);
        s[c] = 0.0f;
    }
    for (int i = 0; i < m->n; i += pairs ? 32 : 16)
        K_CUDA_UNROLL for (int k = pairs ? 1 : 0; k >= 0; k--) {
            const int   at = pairs ? i + 2 * l + k : i + l;
            const float v = k__cuda_float_at(type, w, at, m->n);
            K_CUDA_UNROLL for (int c = 0; c < K_CUDA_COLS; c++)
                if (c < nt) s[c] = fmaf(v, k__cuda_float_at(pairs ? K_BF16 : K_F32, x[c], at, m->n), s[c]);
        }
    K_CUDA_UNROLL for (int c = 0; c < K_CUDA_COLS; c++) {
        K_CUDA_UNROLL for (int far = 8; far; far /= 2) s[c] = s[c] + k__cuda_other(s[c], far);
        if (c < nt && l == 0 && row < m->nr) m->y[(size_t)(first + c) * m->ldy + (size_t)row] = part.scale != 0.0f ? s[c] * part.scale : s[c];
    }
}

/* --- floats by tensor cores --- */

/* Types whose weights and activations are two bf16 each. */
K_CUDA_FN bool k__cuda_splits(uint32_t type) { return type == K_F32 || type == K_F16; }

/* Eight values of a row, rounded to bf16, and what rounding took. */
typedef struct { uint32_t hi[4], lo[4]; } k__cuda_eight;

/* The values at .. at + 7 of a row of n, 0 after the last one; at is a multiple of 8. */
K_CUDA_FN void k__cuda_floats8(uint32_t type, const uint8_t *row, int at, int n, float x[8]) {
    const int size = type == K_F32 ? 4 : 2;
    uint32_t  w[8];
    if (at + 8 > n || (uintptr_t)row % 16) {
        K_CUDA_UNROLL for (int i = 0; i < 8; i++) x[i] = k__cuda_float_at(type, row, at + i, n);
        return;
    }
    K_CUDA_UNROLL for (int i = 0; i < size / 2; i++) k__cuda_ld128(row + size * (size_t)at + 16 * i, w + 4 * i);
    K_CUDA_UNROLL for (int i = 0; i < 8; i++) {
        const uint16_t h = (uint16_t)(w[i / 2] >> i % 2 * 16);
        x[i] = size == 4 ? k__f32_of(w[i]) : type == K_BF16 ? k_bf16_to_f32(h) : k__cuda_half(h);
    }
}

/* The same in bf16. */
K_CUDA_FN void k__cuda_eight_of(uint32_t type, const uint8_t *row, int at, int n, k__cuda_eight *e) {
    float x[8];
    if (type == K_BF16 && at + 8 <= n && (uintptr_t)row % 16 == 0) {
        k__cuda_ld128(row + 2 * (size_t)at, e->hi);
        return;
    }
    k__cuda_floats8(type, row, at, n, x);
    K_CUDA_UNROLL for (int i = 0; i < 4; i++) {
        const uint32_t w = k__cuda_bf16x2(x[2 * i], x[2 * i + 1]);
        e->hi[i] = w;
        if (k__cuda_splits(type)) e->lo[i] = k__cuda_bf16x2(x[2 * i] - k__f32_of(w << 16), x[2 * i + 1] - k__f32_of(w & 0xffff0000u));
    }
}

/* Adds the products of 32 columns to c: weights of rows g and g + 8, activations of column g, from element 8t on. */
K_CUDA_FN void k__cuda_mma_floats(bool split, const k__cuda_eight w[2], const k__cuda_eight *x, float c[4]) {
    K_CUDA_UNROLL for (int i = 0; i < 4; i += 2) {
        if (split) {
            k__cuda_mma_bf16(c, w[0].lo[i], w[1].lo[i], w[0].lo[i + 1], w[1].lo[i + 1], x->hi[i], x->hi[i + 1]);
            k__cuda_mma_bf16(c, w[0].hi[i], w[1].hi[i], w[0].hi[i + 1], w[1].hi[i + 1], x->lo[i], x->lo[i + 1]);
        }
        k__cuda_mma_bf16(c, w[0].hi[i], w[1].hi[i], w[0].hi[i + 1], w[1].hi[i + 1], x->hi[i], x->hi[i + 1]);
    }
}

/* Row r of the weights; after the last row any will do. */
K_CUDA_FN const uint8_t *k__cuda_float_row(const k_cuda_mul *m, const k__cuda_piece *part, int r) {
    return part->w + (size_t)(r < m->nr ? r : m->nr - 1) * m->row_bytes;
}

/* Column c of a piece as the weights take it; after the last column any will do. */
K_CUDA_FN const uint8_t *k__cuda_float_column(bool split, const k_acts *a, const k__cuda_piece *part, int c) {
    const size_t at = (size_t)k__cuda_row(a, part->first + (c < part->nt ? c : 0)) * a->ldx;
    return split ? (const uint8_t *)(a->x + at) : (const uint8_t *)(a->h + at);
}

/* The term of block b for 16 x 8 results, of which the lane has rows g and g + 8 of the weights and column g. */
K_CUDA_FN void k__cuda_tensor_block(uint32_t type, const uint8_t *const w[2], const uint8_t *x, int b, int n, int lane, float c[4]) {
    const bool split = k__cuda_splits(type);
    K_CUDA_UNROLL for (int i = 0; i < 4; i++) c[i] = 0.0f;
    K_CUDA_UNROLL for (int k = 0; k < 8; k++) {
        const int     at = 256 * b + 32 * k, mine = at + lane % 4 * 8;
        k__cuda_eight rows[2], column;
        if (at >= n) continue;
        K_CUDA_UNROLL for (int i = 0; i < 2; i++) k__cuda_eight_of(type, w[i], mine, n, &rows[i]);
        k__cuda_eight_of(split ? K_F32 : K_BF16, x, mine, n, &column);
        k__cuda_mma_floats(split, rows, &column, c);
    }
}

/* A strip of 16 rows times up to 8 columns: warps share the blocks. */
K_CUDA_FN void k__cuda_tensor(uint32_t type, const k_cuda_mul *m) {
    K_CUDA_SHARED(float, term, K_CUDA_PARK * K__CUDA_TILE);     /* [block][row][column] */
    const k__cuda_piece part = k__cuda_piece_of(m, K_CUDA_COLS);
    const int           me = K_CUDA_THREAD, lane = me % 32, g = lane / 4, row = K_PACK_ROWS * K_CUDA_BLOCK_X, nb = (m->n + 255) / 256;
    const uint8_t      *w[2] = {k__cuda_float_row(m, &part, row + g), k__cuda_float_row(m, &part, row + g + 8)};
    float               s = 0.0f;
    if (part.nt <= 0) return;
    const uint8_t *x = k__cuda_float_column(k__cuda_splits(type), &m->a, &part, g);
    for (int b0 = 0; b0 < nb; b0 += K_CUDA_PARK) {
        const int n = nb - b0 < K_CUDA_PARK ? nb - b0 : K_CUDA_PARK;
        if (b0) k__cuda_sync();                       /* the terms before these are added */
        for (int i = me / 32; i < n; i += K_CUDA_THREADS / 32) {
            float c[4];
            k__cuda_tensor_block(type, w, x, b0 + i, m->n, lane, c);
            K_CUDA_UNROLL for (int k = 0; k < 4; k++) term[K__CUDA_TILE * i + 8 * (g + k / 2 * 8) + lane % 4 * 2 + k % 2] = c[k];
        }
        k__cuda_sync();
        for (int i = 0; me < K__CUDA_TILE && i < n; i++) s = s + term[K__CUDA_TILE * i + me];
    }
    if (me >= K__CUDA_TILE || me % 8 >= part.nt || row + me / 8 >= m->nr) return;
    m->y[(size_t)(part.first + me % 8) * m->ldy + (size_t)(row + me / 8)] = part.scale != 0.0f ? s * part.scale : s;
}

/* Dwords between two columns in shared memory: 128 of values, and so many more that lanes with columns side by side use all banks. */
enum { K__CUDA_TENSOR_WORDS = 144 };

/* Columns of weights that are in shared memory at a time. */
K_CUDA_FN int k__cuda_tensor_step(bool split) { return split ? 128 : 256; }

/* Values from `at` on of all columns go to shared memory: 256 of each, or the two parts of 128. */
K_CUDA_FN void k__cuda_tensor_fetch(bool split, const k_cuda_mul *m, const k__cuda_piece *part, int at, k__cuda_words *x) {
    const int each = k__cuda_tensor_step(split) / 8;
    for (int i = K_CUDA_THREAD; i < each * K_CUDA_MANY_COLS; i += K_CUDA_THREADS) {
        const int      c = i / each, k = i % each;
        k__cuda_words *to = x + c * K__CUDA_TENSOR_WORDS / 4 + k;
        k__cuda_eight  e;
        k__cuda_eight_of(split ? K_F32 : K_BF16, k__cuda_float_column(split, &m->a, part, c), at + 8 * k, m->n, &e);
        K_CUDA_UNROLL for (int j = 0; j < 4; j++) to->v[j] = e.hi[j];
        K_CUDA_UNROLL for (int j = 0; split && j < 4; j++) to[16].v[j] = e.lo[j];
    }
}

/* Column `col` + g of 32 columns of weights, number k of those in shared memory, as k__cuda_mma_floats takes it. */
K_CUDA_FN void k__cuda_tensor_column(bool split, const k__cuda_words *x, int col, int k, int lane, k__cuda_eight *e) {
    const k__cuda_words *from = x + (col + lane / 4) * K__CUDA_TENSOR_WORDS / 4 + 4 * k + lane % 4, hi = from[0];
    K_CUDA_UNROLL for (int j = 0; j < 4; j++) e->hi[j] = hi.v[j];
    if (!split) return;
    const k__cuda_words lo = from[16];
    K_CUDA_UNROLL for (int j = 0; j < 4; j++) e->lo[j] = lo.v[j];
}

K_CUDA_FN void k__cuda_tensor_put(const k_cuda_mul *m, const k__cuda_piece *part, int row, int col, int lane, float acc[K__CUDA_TILES][4]) {
    K_CUDA_UNROLL for (int j = 0; j < K__CUDA_TILES; j++)
        K_CUDA_UNROLL for (int i = 0; i < 4; i++) {
            const int c = col + 8 * j + lane % 4 * 2 + i % 2, r = row + lane / 4 + i / 2 * 8;
            if (c >= part->nt || r >= m->nr) continue;
            m->y[(size_t)(part->first + c) * m->ldy + (size_t)r] = part->scale != 0.0f ? acc[j][i] * part->scale : acc[j][i];
        }
}

/* 4 strips times 64 columns: a warp has a strip and 4 tiles of 8 columns. */
K_CUDA_FN void k__cuda_tensor_many(uint32_t type, const k_cuda_mul *m) {
    K_CUDA_SHARED(k__cuda_words, x, K_CUDA_MANY_COLS * K__CUDA_TENSOR_WORDS / 4);
    const bool          split = k__cuda_splits(type);
    const k__cuda_piece part = k__cuda_piece_of(m, K_CUDA_MANY_COLS);
    const int           warp = K_CUDA_THREAD / 32, lane = K_CUDA_THREAD % 32, step = k__cuda_tensor_step(split), col = warp / 4 * 8 * K__CUDA_TILES;
    const int           row = K_CUDA_MANY_ROWS * K_CUDA_BLOCK_X + warp % 4 * K_PACK_ROWS;
    const uint8_t      *w[2] = {k__cuda_float_row(m, &part, row + lane / 4), k__cuda_float_row(m, &part, row + lane / 4 + 8)};
    float               acc[K__CUDA_TILES][4], c[K__CUDA_TILES][4];
    if (part.nt <= 0) return;
    K_CUDA_UNROLL for (int j = 0; j < K__CUDA_TILES; j++)
        K_CUDA_UNROLL for (int i = 0; i < 4; i++) acc[j][i] = c[j][i] = 0.0f;
    for (int from = 0; from < m->n; from += step) {
        if (from) k__cuda_sync();                     /* the values before these are used */
        k__cuda_tensor_fetch(split, m, &part, from, x);
        k__cuda_sync();
        K_CUDA_UNROLL for (int k = 0; k < step / 32; k++) {
            k__cuda_eight rows[2], column;
            if (from + 32 * k >= m->n) continue;
            K_CUDA_UNROLL for (int i = 0; i < 2; i++) k__cuda_eight_of(type, w[i], from + 32 * k + lane % 4 * 8, m->n, &rows[i]);
            K_CUDA_UNROLL for (int j = 0; j < K__CUDA_TILES; j++) {
                k__cuda_tensor_column(split, x, col + 8 * j, k, lane, &column);
                k__cuda_mma_floats(split, rows, &column, c[j]);
            }
        }
        if ((from + step) % 256 && from + step < m->n) continue;
        K_CUDA_UNROLL for (int j = 0; j < K__CUDA_TILES; j++)
            K_CUDA_UNROLL for (int i = 0; i < 4; i++) acc[j][i] = acc[j][i] + c[j][i], c[j][i] = 0.0f;
    }
    k__cuda_tensor_put(m, &part, row, col, lane, acc);
}

/* --- rows: a thread block takes one row --- */

enum { K__CUDA_ROW_TILE = 8192 };

typedef struct {
    k_row_op op[K_CUDA_ROW_OPS];
    float    tile[K__CUDA_ROW_TILE];
    float    sum;
    double   part[8];
    int      split[K_CUDA_THREADS / 32];              /* by warp: a row has outliers */
} k__cuda_rows_mem;

/* The row of input i that the operation's row r reads. */
K_CUDA_FN float *k__cuda_in(const k_cuda_step *step, const k_row_op *op, int i, int r) {
    const int row = op->gathers >> i & 1 ? step->row[1][r] : r;
    return op->in[i].x ? op->in[i].x + (size_t)row * op->in[i].ld : NULL;
}

/* What each thread does with values of its own. */
enum { K__MAP_ADD, K__MAP_AXPY, K__MAP_MUL, K__MAP_SCALE, K__MAP_CAP, K__MAP_ABOVE, K__MAP_ACT, K__MAP_CLIP };

K_CUDA_FN float k__cuda_map_one(int fn, int act, float a, float b, bool two, float s) {
    switch (fn) {
    case K__MAP_ADD: return a + b;
    case K__MAP_AXPY: return fmaf(s, b, a);
    case K__MAP_MUL: return a * b;
    case K__MAP_SCALE: return a * s;
    case K__MAP_CAP: return s * k__tanh_ref(a / s);
    case K__MAP_ABOVE: return a > s ? a - s : 0.0f;
    case K__MAP_ACT: return two ? k__act_ref((k_act_fn)act, a) * b : k__act_ref((k_act_fn)act, a);
    default: return k__clip_ref(a, b, 7.0f, 1.702f);
    }
}

/* y = fn(a, b) for n values; b may be NULL. Several values are read before one is written: y may be a or b. */
K_CUDA_FN void k__cuda_map(int fn, int act, float *y, const float *a, const float *b, float s, int n) {
    const int many = fn >= K__MAP_CAP ? 2 : 8;
    for (int at = K_CUDA_THREAD; at < n; at += many * K_CUDA_THREADS) {
        float p[8], q[8];
        K_CUDA_UNROLL for (int k = 0; k < many; k++) {
            const int i = at + k * K_CUDA_THREADS;
            p[k] = i < n ? a[i] : 0.0f;
            q[k] = b && i < n ? b[i] : 0.0f;
        }
        K_CUDA_UNROLL for (int k = 0; k < many; k++) {
            const int i = at + k * K_CUDA_THREADS;
            if (i < n) y[i] = k__cuda_map_one(fn, act, p[k], q[k], b != NULL, s);
        }
    }
}

/* Sums in the 16 lanes of [vec]. */
enum { K__SUM_PLAIN, K__SUM_SQUARES, K__SUM_DOT };    /* of a; of (a - mean)^2; of a * b */

/* The sum s of a thread's lane, with elements [0, n) of a and b. */
K_CUDA_FN float k__cuda_lane(int how, const float *a, const float *b, int n, float mean, float s) {
    enum { MANY = 8 };
    for (int at = K_CUDA_THREAD % 16; at < n; at += 16 * MANY) {
        float p[MANY], q[MANY];
        K_CUDA_UNROLL for (int k = 0; k < MANY; k++) {
            const int i = at + 16 * k;
            p[k] = i < n ? a[i] : 0.0f;
            q[k] = how == K__SUM_DOT && i < n ? b[i] : 0.0f;
        }
        K_CUDA_UNROLL for (int k = 0; k < MANY; k++) {
            const float d = p[k] - mean;
            if (at + 16 * k >= n) continue;
            s = how == K__SUM_PLAIN ? s + p[k] : how == K__SUM_SQUARES ? fmaf(d, d, s) : fmaf(p[k], q[k], s);
        }
    }
    return s;
}

/* The sum of the 16 lanes of each half warp. */
K_CUDA_FN float k__cuda_fold(float s) {
    K_CUDA_UNROLL for (int far = 8; far; far /= 2) s = s + k__cuda_other(s, far);
    return s;
}

/* Copies n values: to shared memory, or to a slot. */
K_CUDA_FN void k__cuda_tile(float *to, const float *x, int n) {
    enum { MANY = 8 };
    for (int at = K_CUDA_THREAD; at < n; at += MANY * K_CUDA_THREADS) {
        float p[MANY];
        K_CUDA_UNROLL for (int k = 0; k < MANY; k++) p[k] = at + k * K_CUDA_THREADS < n ? x[at + k * K_CUDA_THREADS] : 0.0f;
        K_CUDA_UNROLL for (int k = 0; k < MANY; k++)
            if (at + k * K_CUDA_THREADS < n) to[at + k * K_CUDA_THREADS] = p[k];
    }
}

/* A sum over one vector: all threads fetch it, a half warp adds. Every thread gets the result. */
K_CUDA_FN float k__cuda_sum_of(int how, const float *a, const float *b, int n, float mean, k__cuda_rows_mem *m) {
    const int most = how == K__SUM_DOT ? K__CUDA_ROW_TILE / 2 : K__CUDA_ROW_TILE;
    float     s = 0.0f;
    for (int at = 0; at < n; at += most) {
        const int len = n - at < most ? n - at : most;
        if (at) k__cuda_sync();                       /* the values before these are added */
        k__cuda_tile(m->tile, a + at, len);
        if (how == K__SUM_DOT) k__cuda_tile(m->tile + most, b + at, len);
        k__cuda_sync();
        if (K_CUDA_THREAD < 32) s = k__cuda_lane(how, m->tile, m->tile + most, len, mean, s);
    }
    if (K_CUDA_THREAD < 32) s = k__cuda_fold(s);
    if (K_CUDA_THREAD == 0) m->sum = s;
    k__cuda_sync();
    return m->sum;
}

/* --- norms --- */

K_CUDA_FN float k__cuda_norm_factor(k_norm_kind kind, float sum, int n, float eps) {
    return 1.0f / sqrtf((kind == K_NORM_L2 ? sum : sum / (float)n) + eps);
}

/* y = (x - mean) * r * w + b: elements from, from + step, ... of n. */
K_CUDA_FN void k__cuda_shift(const k_row_op *op, const float *x, float *y, float mean, float r, int n, int from, int step) {
    enum { MANY = 8 };
    const float *w = op->u.norm == K_NORM_L2 ? NULL : op->vec, *b = op->u.norm == K_NORM_LAYER ? op->bias : NULL;
    for (int at = from; at < n; at += MANY * step) {
        float p[MANY];
        K_CUDA_UNROLL for (int k = 0; k < MANY; k++) {
            const int i = at + k * step;
            if (i >= n) continue;
            p[k] = (x[i] - mean) * r;
            if (w) p[k] = p[k] * w[i];
            if (b) p[k] = p[k] + b[i];
        }
        K_CUDA_UNROLL for (int k = 0; k < MANY; k++)
            if (at + k * step < n) y[at + k * step] = p[k];
    }
}

K_CUDA_FN void k__cuda_norm(const k_row_op *op, const float *x, float *y, k__cuda_rows_mem *m) {
    const int   n = op->n;
    const float mean = op->u.norm == K_NORM_LAYER ? k__cuda_sum_of(K__SUM_PLAIN, x, x, n, 0.0f, m) / (float)n : 0.0f;
    const float sum = k__cuda_sum_of(K__SUM_SQUARES, x, x, n, mean, m);
    k__cuda_shift(op, x, y, mean, k__cuda_norm_factor(op->u.norm, sum, n, op->scale), n, K_CUDA_THREAD, K_CUDA_THREADS);
}

/* Each half warp takes a head. */
K_CUDA_FN void k__cuda_norm_heads(const k_row_op *op, const float *x, float *y) {
    const int mine = K_CUDA_THREAD / 16, n_head = op->n_head;
    for (int h = mine; h - mine < n_head; h += K_CUDA_THREADS / 16) {
        const int    n = h < n_head ? op->n : 0;
        const size_t at = (size_t)h * (size_t)op->n;
        float        mean = 0.0f;
        if (op->u.norm == K_NORM_LAYER) mean = k__cuda_fold(k__cuda_lane(K__SUM_PLAIN, x + at, x, n, 0.0f, 0.0f)) / (float)op->n;
        const float  sum = k__cuda_fold(k__cuda_lane(K__SUM_SQUARES, x + at, x, n, mean, 0.0f));
        k__cuda_shift(op, x + at, y + at, mean, k__cuda_norm_factor(op->u.norm, sum, op->n, op->scale), n, K_CUDA_THREAD % 16, 16);
    }
}

/* --- heads --- */

K_CUDA_FN void k__cuda_pick(const k_row_op *op, const float *x, float *y) {
    const int n = op->n, all = n * (op->n_head ? op->n_head : 0);
    for (int i = K_CUDA_THREAD; i < all; i += K_CUDA_THREADS) y[op->u.pick.to + i] = x[op->u.pick.at + i / n * op->u.pick.stride + i % n];
}

K_CUDA_FN void k__cuda_rope(const k_row_op *op, float *x, const float *cs) {
    const int half = op->u.rope.n_rot / 2, far = op->u.rope.halves ? half : 1, step = op->u.rope.halves ? 1 : 2, all = half * op->n_head;
    for (int at = K_CUDA_THREAD; at < all; at += K_CUDA_THREADS) {
        const int   i = at % half;
        float      *p = x + (size_t)(at / half) * (size_t)op->n + i * step;
        const float a = p[0], b = p[far], c = cs[2 * i], s = cs[2 * i + 1];
        p[0] = a * c - b * s;
        p[far] = a * s + b * c;
    }
}

/* k_hadamard: each warp takes 256 values, which hold whole transforms. Sums and differences of values in one thread, then of two lanes. */
K_CUDA_FN void k__cuda_hadamard(float *x, int n, int size) {
    const int   lane = K_CUDA_THREAD % 32;
    const float unit = k__hadamard_unit(size);
    for (int at = K_CUDA_THREAD / 32 * 256; size > 1 && at < n; at += 8 * K_CUDA_THREADS) {
        float v[8];
        K_CUDA_UNROLL for (int k = 0; k < 8; k++) v[k] = at + 32 * k + lane < n ? x[at + 32 * k + lane] : 0.0f;
        K_CUDA_UNROLL for (int far = 4; far; far /= 2)
            K_CUDA_UNROLL for (int k = 0; k < 8; k++) {
                if (k & far || 32 * far >= size) continue;
                const float a = v[k], b = v[k + far];
                v[k] = a + b;
                v[k + far] = a - b;
            }
        K_CUDA_UNROLL for (int far = 16; far; far /= 2)
            K_CUDA_UNROLL for (int k = 0; k < 8; k++) {
                if (far >= size) continue;
                const float b = k__cuda_other(v[k], far);
                v[k] = lane & far ? b - v[k] : v[k] + b;
            }
        K_CUDA_UNROLL for (int k = 0; k < 8; k++)
            if (at + 32 * k + lane < n) x[at + 32 * k + lane] = v[k] * unit;
    }
}

/* --- cache --- */

/* The value of largest magnitude in a warp, with its sign; the one of the lowest lane among equals. */
K_CUDA_FN float k__cuda_extreme(float v) {
    const int lane = K_CUDA_THREAD % 32;
    v = k__farther(0.0f, v);
    K_CUDA_UNROLL for (int far = 1; far < 32; far *= 2) {
        const float other = k__cuda_other(v, far);
        v = lane & far ? k__farther(other, v) : k__farther(v, other);
    }
    return v;
}

/* k_kv_store for each head; a warp takes a block of 32. `to`: of head 0, heads `apart` bytes apart. */
K_CUDA_FN void k__cuda_store_blocks(uint32_t type, const float *x, int n_head, int hd, uint8_t *to, size_t apart) {
    const int lane = K_CUDA_THREAD % 32, blocks = (hd + 31) / 32;
    for (int b = K_CUDA_THREAD / 32; b < n_head * blocks; b += K_CUDA_THREADS / 32) {
        const int   h = b / blocks, i = b % blocks * 32 + lane;
        const float v = i < hd ? x[h * hd + i] : 0.0f, at = k__cuda_extreme(v);
        const float d = type == K_Q8_0 ? k__scale127(at) : k__scale_mid(at, 8);
        uint8_t    *head = to + (size_t)h * apart;
        if (type == K_Q8_0) {
            block_q8_0 *p = (block_q8_0 *)(void *)head + b % blocks;
            p->qs[lane] = k__round8(v * k__inverse(d));
            if (!lane) p->d = k_f32_to_f16(d);
        } else {
            block_q4_0 *p = (block_q4_0 *)(void *)head + b % blocks;
            const int   code = k__code_mid(v * k__inverse(d), 8), upper = (int)k__cuda_other((float)code, 16);
            if (lane < 16) p->qs[lane] = (uint8_t)(code | upper << 4);
            if (!lane) p->d = k_f32_to_f16(d);
        }
    }
}

K_CUDA_FN void k__cuda_store_heads(uint32_t type, const float *x, int n_head, int hd, uint8_t *to, size_t apart) {
    if (type == K_Q8_0 || type == K_Q4_0) {
        k__cuda_store_blocks(type, x, n_head, hd, to, apart);
        return;
    }
    for (int i = K_CUDA_THREAD; i < n_head * hd; i += K_CUDA_THREADS) {
        uint8_t *p = to + (size_t)(i / hd) * apart;
        if (type == K_F32) ((float *)(void *)p)[i % hd] = x[i];
        else ((uint16_t *)(void *)p)[i % hd] = type == K_F16 ? k_f32_to_f16(x[i]) : k_f32_to_bf16(x[i]);
    }
}

K_CUDA_FN void k__cuda_store(const k_cuda_step *step, const k_row_op *op, int r, float *k, float *v) {
    const k_cuda_kv *kv = &op->u.kv;
    const int        row = op->set ? step->row[1][r] : r, pos = step->pos[row];
    const int64_t    table = step->table_at[(int64_t)step->seq[row] * step->n_group + kv->group];
    uint8_t         *block = kv->base + (size_t)step->table[table + pos / kv->block] * kv->block_bytes;
    const size_t     at = (size_t)(pos % kv->block), len = (size_t)kv->block;
    k__cuda_hadamard(k, kv->n_head * kv->hd_k, kv->hadamard_k);
    k__cuda_hadamard(v, kv->n_head * kv->hd_v, kv->hadamard_v);
    if (kv->hadamard_k > 1 || kv->hadamard_v > 1) k__cuda_sync();
    k__cuda_store_heads(kv->type_k, k, kv->n_head, kv->hd_k, block + kv->k_at + at * kv->k_stride, len * kv->k_stride);
    k__cuda_store_heads(kv->type_v, v, kv->n_head, kv->hd_v, block + kv->v_at + at * kv->v_stride, len * kv->v_stride);
}

/* --- forms --- */

/* One of the reductions of a warp, in every lane. */
K_CUDA_FN float k__cuda_most(float v) {
    K_CUDA_UNROLL for (int far = 16; far; far /= 2) {
        const float other = k__cuda_other(v, far);
        v = other > v ? other : v;
    }
    return v;
}
K_CUDA_FN int k__cuda_add_far(int v, int far) { return v + (int)k__cuda_other((float)v, far); }   /* |v| < 2^24 */
K_CUDA_FN int k__cuda_total(int v) {
    K_CUDA_UNROLL for (int far = 16; far; far /= 2) v = k__cuda_add_far(v, far);
    return v;
}

/* Sum, or sum of magnitudes, of four codes. */
K_CUDA_FN int k__cuda_sum4(uint32_t codes, bool magnitudes) {
    int s = 0;
    K_CUDA_UNROLL for (int i = 0; i < 4; i++) {
        const int q = (int8_t)(codes >> 8 * i);
        s += magnitudes && q < 0 ? -q : q;
    }
    return s;
}

/* One block of k_quant_act by a warp, 8 values in each lane; `in`: the lane has values. Returns the sum of the magnitudes of all codes. */
K_CUDA_FN int k__cuda_quant(const float v[8], bool in, int8_t *q, k_sums *sum, float *d) {
    const int lane = K_CUDA_THREAD % 32;
    float     amax = 0.0f, nan = 0.0f;
    uint32_t  codes[2] = {0, 0};
    K_CUDA_UNROLL for (int i = 0; i < 8; i++) {
        const float m = fabsf(v[i]);
        if (m > amax) amax = m;
        if (m != m) nan = 1.0f;
    }
    amax = k__cuda_most(amax);
    const bool  bad = k__cuda_most(nan) > 0.0f;
    const float inv = k__act_inverse(amax);
    K_CUDA_UNROLL for (int i = 0; i < 8; i++) codes[i / 4] |= (uint32_t)(uint8_t)k__act_code(v[i], inv) << i % 4 * 8;
    K_CUDA_UNROLL for (int i = 0; in && i < 2; i++) ((uint32_t *)(void *)(q + 8 * lane))[i] = codes[i];
    const int of16 = k__cuda_add_far(k__cuda_sum4(codes[0], false) + k__cuda_sum4(codes[1], false), 1), of32 = k__cuda_add_far(of16, 2);
    if (lane % 2 == 0) sum->of16[lane / 2] = (int16_t)of16;
    if (lane % 4 == 0) sum->of32[k__sums_at(lane / 4)] = (int16_t)of32;
    const int size = k__cuda_sum4(codes[0], true) + k__cuda_sum4(codes[1], true), size16 = k__cuda_add_far(size, 1);
    const int size32 = k__cuda_add_far(size16, 2), most16 = (int)k__cuda_most((float)size16);
    const int most32 = (int)k__cuda_most((float)(size32 + (of32 < 0 ? -of32 : of32))) / 2;
    if (lane == 0) {
        sum->most16 = (int16_t)most16;
        sum->most32 = (int16_t)most32;
        *d = k__act_scale(amax, bad);
    }
    return k__cuda_total(size);
}

/* Where a row's quantised form lies. */
typedef struct {
    int8_t *q;
    k_sums *sum;
    float  *d;
} k__cuda_form_row;

K_CUDA_FN k__cuda_form_row k__cuda_form_at(const k_acts *a, int r) {
    k__cuda_form_row f;
    f.q = (int8_t *)a->q + (size_t)r * a->ldq;
    f.sum = (k_sums *)a->sum + (size_t)r * a->ldd;
    f.d = (float *)a->d + (size_t)r * a->ldd;
    return f;
}

/* What rounding took from the blocks with outliers, zeros for the others. A lane reads what it wrote, but for the scales. */
K_CUDA_FN void k__cuda_form_rest(const k_acts *a, const float *x, int r, int n) {
    const int              lane = K_CUDA_THREAD % 32;
    const k__cuda_form_row own = k__cuda_form_at(a, r), rest = k__cuda_form_at(a, r + a->rest);
    for (int b = K_CUDA_THREAD / 32; 256 * b < n; b += K_CUDA_THREADS / 32) {
        const int   at = 256 * b + 8 * lane, len = n - 256 * b < 256 ? n - 256 * b : 256;
        const float d = own.d[b];
        float       lost[8];
        int         all = 0;
        K_CUDA_UNROLL for (int i = 0; i < 8; i++) {
            const int q = at < n ? own.q[at + i] : 0;
            lost[i] = at < n ? x[at + i] - d * (float)q : 0.0f;
            all += q < 0 ? -q : q;
        }
        const bool peaked = k__peaked(k__cuda_total(all), len, d);
        K_CUDA_UNROLL for (int i = 0; i < 8; i++) lost[i] = peaked ? lost[i] : 0.0f;
        k__cuda_quant(lost, at < n, rest.q + 256 * b, rest.sum + b, rest.d + b);
    }
}

/* k_quant_act. */
K_CUDA_FN void k__cuda_form_i8(const k_acts *a, const float *x, int r, int n, k__cuda_rows_mem *m) {
    const int              lane = K_CUDA_THREAD % 32;
    const k__cuda_form_row own = k__cuda_form_at(a, r);
    bool                   split = false;
    for (int b = K_CUDA_THREAD / 32; 256 * b < n; b += K_CUDA_THREADS / 32) {
        const int at = 256 * b + 8 * lane, len = n - 256 * b < 256 ? n - 256 * b : 256;
        float     v[8], d = 0.0f;
        K_CUDA_UNROLL for (int i = 0; i < 8; i++) v[i] = at < n ? x[at + i] : 0.0f;
        const int all = k__cuda_quant(v, at < n, own.q + 256 * b, own.sum + b, &d);
        if (lane == 0) own.d[b] = d, split = k__peaked(all, len, d) || split;
    }
    if (lane == 0) m->split[K_CUDA_THREAD / 32] = split;
    k__cuda_sync();
    split = false;
    K_CUDA_UNROLL for (int i = 0; i < K_CUDA_THREADS / 32; i++) split = m->split[i] != 0 || split;
    if (K_CUDA_THREAD == 0) ((uint8_t *)a->split)[r] = split;
    if (split) k__cuda_form_rest(a, x, r, n);
}

K_CUDA_FN void k__cuda_form(const k_row_op *op, const float *x, int r, k__cuda_rows_mem *m) {
    const k_acts  *a = &op->u.form.a;
    const unsigned forms = op->u.form.forms;
    for (int i = K_CUDA_THREAD; forms & 1u << K_ACT_BF16 && i < op->n; i += K_CUDA_THREADS)
        ((uint16_t *)a->h)[(size_t)r * a->ldx + (size_t)i] = k_f32_to_bf16(x[i]);
    if (forms & 1u << K_ACT_I8) k__cuda_form_i8(a, x, r, op->n, m);
}

/* --- several streams --- */

K_CUDA_FN void k__cuda_blend(const k_row_op *op, const float *x, const float *c, float *y) {
    const int n = op->n, n_head = op->n_head;
    for (int i = K_CUDA_THREAD; i < n * n_head; i += K_CUDA_THREADS) {
        float v = x[i];
        for (int k = 0; k < n_head; k++) v = fmaf(c[i / n * n_head + k], x[k * n + i % n], v);
        y[i] = v;
    }
}

K_CUDA_FN void k__cuda_correct(const k_row_op *op, const float *x, const float *active, const float *c, float *y) {
    const int n = op->n, a = op->u.active;
    for (int i = K_CUDA_THREAD; i < n * op->n_head; i += K_CUDA_THREADS) {
        const float old = x[a * n + i % n], more = fmaf(-1.0f, old, active[i % n]), s = c[i / n] + 1.0f;
        y[i] = i / n == a ? more * s + old : fmaf(s, more, x[i]);
    }
}

K_CUDA_FN void k__cuda_raise(const k_row_op *op, const float *x, float *y) {
    for (int i = op->n + K_CUDA_THREAD; i < op->n * op->n_head; i += K_CUDA_THREADS) y[i] = y[i] + x[i % op->n];
}

/* The sum of n doubles or of their squared distances from the mean, in eight lanes. */
K_CUDA_FN double k__cuda_sum8(bool squares, const float *x, int n, double mean, k__cuda_rows_mem *m) {
    double s = 0;
    for (int at = 0; at < n; at += K__CUDA_ROW_TILE) {
        const int len = n - at < K__CUDA_ROW_TILE ? n - at : K__CUDA_ROW_TILE;
        if (at) k__cuda_sync();
        k__cuda_tile(m->tile, x + at, len);
        k__cuda_sync();
        for (int i = K_CUDA_THREAD; K_CUDA_THREAD < 8 && i < len; i += 8) {
            const double v = (double)m->tile[i];
            s += squares ? (v - mean) * (v - mean) : v;
        }
    }
    if (K_CUDA_THREAD < 8) m->part[K_CUDA_THREAD] = s;
    k__cuda_sync();
    return ((m->part[0] + m->part[1]) + (m->part[2] + m->part[3])) + ((m->part[4] + m->part[5]) + (m->part[6] + m->part[7]));
}

K_CUDA_FN void k__cuda_sparse(const k_row_op *op, float *y, k__cuda_rows_mem *m) {
    const double mean = k__cuda_sum8(false, y, op->n, 0, m) / op->n, deviation = sqrt(k__cuda_sum8(true, y, op->n, mean, m) / op->n);
    k__cuda_map(K__MAP_ABOVE, 0, y, y, NULL, (float)(mean + (double)op->scale * deviation), op->n);
}

K_CUDA_FN void k__cuda_level(const k_row_op *op, const float *x, const float *like, float *y, k__cuda_rows_mem *m) {
    const float now = k__cuda_sum_of(K__SUM_SQUARES, x, x, op->n, 0.0f, m) / (float)op->n;
    const float want = k__cuda_sum_of(K__SUM_SQUARES, like, like, op->n, 0.0f, m) / (float)op->n;
    k__cuda_map(K__MAP_SCALE, 0, y + op->u.to, x, NULL, sqrtf(want) / sqrtf(now > 1e-5f ? now : 1e-5f), op->n);
}

/* --- experts --- */

/* A score, or none: at < 0. */
typedef struct { float v, p; int at; } k__cuda_score;

/* The larger one by v, the one of the lower number among equals. */
K_CUDA_FN k__cuda_score k__cuda_better(k__cuda_score a, k__cuda_score b) {
    return b.at >= 0 && (a.at < 0 || b.v > a.v || (b.v == a.v && b.at < a.at)) ? b : a;
}

/* The best of a warp's, in every lane. Numbers are below 2^24. */
K_CUDA_FN k__cuda_score k__cuda_best_of(k__cuda_score best) {
    K_CUDA_UNROLL for (int far = 16; far; far /= 2) {
        k__cuda_score other;
        other.v = k__cuda_other(best.v, far);
        other.p = k__cuda_other(best.p, far);
        other.at = (int)k__cuda_other((float)best.at, far);
        best = k__cuda_better(best, other);
    }
    return best;
}

/* The best of a warp's n scores p, in every lane; `bias`, if any, is added for the comparison, where a NaN in front is taken, as on the CPU. */
K_CUDA_FN k__cuda_score k__cuda_best(const float *p, const float *bias, int n) {
    k__cuda_score best = {-INFINITY, 0.0f, -1};
    for (int i = K_CUDA_THREAD % 32; i < n; i += 32) {
        k__cuda_score s = {bias ? p[i] + bias[i] : p[i], p[i], i};
        if (s.v != s.v) {
            if (!bias || i) continue;
            s.v = INFINITY;
        }
        best = k__cuda_better(best, s);
    }
    return k__cuda_best_of(best);
}

/* The scores of a warp's n logits: a lane changes its own. */
K_CUDA_FN void k__cuda_route_scores(bool sigmoid, float *p, int n) {
    const int lane = K_CUDA_THREAD % 32;
    float     most = -INFINITY, sum = 0.0f;
    for (int i = lane; i < n; i += 32) most = p[i] > most ? p[i] : most;
    most = k__cuda_most(most);
    if (most == -INFINITY) most = 0.0f;
    for (int i = lane; i < n; i += 32) {
        p[i] = sigmoid ? k__act_ref(K_SIGMOID, p[i]) : k__exp_ref(p[i] - most);
        sum += p[i];
    }
    K_CUDA_UNROLL for (int far = 16; far; far /= 2) sum = sum + k__cuda_other(sum, far);
    sum = k__share_of(sum);
    for (int i = lane; !sigmoid && i < n; i += 32) p[i] *= sum;
}

/* The experts with the largest scores, from the logits p. The first warp does it: the others wait at the next barrier. */
K_CUDA_FN void k__cuda_route(const k_row_op *op, float *p, int32_t *pick, float *w) {
    const int lane = K_CUDA_THREAD % 32;
    float     sum = 0.0f;
    if (K_CUDA_THREAD >= 32) return;
    k__cuda_route_scores(op->u.route.sigmoid, p, op->n);
    for (int i = 0; i < op->u.route.used; i++) {
        k__cuda_score best = k__cuda_best(p, op->vec, op->n);
        if (best.at < 0) best.at = 0, best.p = NAN;   /* all are NaN */
        sum += best.p;
        if (lane == best.at % 32) p[best.at] = -INFINITY;
        if (lane == 0) pick[i] = best.at, w[i] = best.p;
    }
    for (int i = 0; lane == 0 && i < op->u.route.used; i++) w[i] = w[i] / (op->u.route.norm && sum > 0 ? sum : 1.0f) * op->scale;
}

/* y = the sum of the row's slots of x by their weights, each with the bias of its expert, in the order of the ranks. */
K_CUDA_FN void k__cuda_mix(const k_row_op *op, const k_cuda_buf *x, const float *w, const int32_t *slot, float *y) {
    enum { MANY = 8 };
    const int n = op->n;
    for (int at = K_CUDA_THREAD; at < n; at += MANY * K_CUDA_THREADS) {
        float v[MANY];
        K_CUDA_UNROLL for (int k = 0; k < MANY; k++) v[k] = 0.0f;
        for (int i = 0; i < op->u.experts.used; i++) {
            const float *from = x->x + (size_t)slot[i] * x->ld, *bias = op->vec ? op->vec + (size_t)op->u.experts.of[slot[i]] * (size_t)n : NULL;
            K_CUDA_UNROLL for (int k = 0; k < MANY; k++) {
                if (at + k * K_CUDA_THREADS >= n) continue;
                v[k] = fmaf(w[i], from[at + k * K_CUDA_THREADS], v[k]);
                if (bias) v[k] = fmaf(w[i], bias[at + k * K_CUDA_THREADS], v[k]);
            }
        }
        K_CUDA_UNROLL for (int k = 0; k < MANY; k++)
            if (at + k * K_CUDA_THREADS < n) y[at + k * K_CUDA_THREADS] = v[k];
    }
}

/* --- recurrent layers --- */

/* The way of one sequence through a step: positions [at, p) are in the log of its slot, [p, end) are rows of the batch from `first` on. */
typedef struct {
    const k_cuda_state *st;
    int      first, at, p, end;                       /* at: where the slot is that is read */
    int      to, snap_at;                             /* where the slot will be that is written; the same of the snapshot */
    uint8_t *in, *out, *snap;                         /* slots; in NULL: zeros; snap NULL: none is made */
} k__cuda_walk;

K_CUDA_FN k__cuda_walk k__cuda_walk_of(const k_cuda_step *s, const k_cuda_state *st, int seq) {
    const int    in = s->state[K_STATE_IN][seq], snap = s->state[K_STATE_SNAP][seq];
    k__cuda_walk w;
    w.st = st;
    w.first = s->seq_at[seq];
    w.at = s->state[K_STATE_AT][seq];
    w.p = s->pos[w.first];
    w.end = w.p + s->seq_at[seq + 1] - w.first;
    w.to = s->state[K_STATE_TO][seq];
    w.in = in < 0 ? NULL : st->base + (size_t)in * st->slot_bytes;
    w.out = st->base + (size_t)s->state[K_STATE_OUT][seq] * st->slot_bytes;
    w.snap = snap < 0 ? NULL : st->base + (size_t)snap * st->slot_bytes;
    w.snap_at = snap < 0 ? -1 : s->state[K_STATE_SNAP_AT][seq];
    return w;
}

/* Where a slot keeps the inputs of position t; its gates. */
K_CUDA_FN float *k__cuda_ring(const k_cuda_state *st, uint8_t *slot, int t) {
    return (float *)(void *)(slot + st->ring_at) + (size_t)(t % (st->taps - 1 + st->log)) * (size_t)st->width;
}
K_CUDA_FN float *k__cuda_log(const k_cuda_state *st, uint8_t *slot, int t) {
    return (float *)(void *)(slot + st->gate_at) + (size_t)(t % st->log) * 2 * (size_t)st->n_v;
}

/* Position t >= p among the rows of the batch. */
K_CUDA_FN const float *k__cuda_at(const k__cuda_walk *w, const k_cuda_buf *x, int t) { return x->x + (size_t)(w->first + t - w->p) * x->ld; }

/* The inputs x of position t; NULL: zeros. */
K_CUDA_FN const float *k__cuda_raw(const k__cuda_walk *w, const k_cuda_buf *x, int t) {
    if (t >= w->p) return k__cuda_at(w, x, t);
    return t < 0 || !w->in ? NULL : k__cuda_ring(w->st, w->in, t);
}

/* The gates of position t, x: alpha, i = 0, or beta, i = 1. */
K_CUDA_FN const float *k__cuda_gates(const k__cuda_walk *w, const k_cuda_buf *x, int i, int t) {
    return t >= w->p ? k__cuda_at(w, x, t) : k__cuda_log(w->st, w->in, t) + i * w->st->n_v;
}

/* k_conv for channel ch of position t. */
K_CUDA_FN float k__cuda_convolve(const k__cuda_walk *w, const k_cuda_buf *x, const float *filter, int t, int ch) {
    const int taps = w->st->taps;
    float     sum = 0.0f;
    for (int j = 0; j < taps; j++) {
        const float *raw = k__cuda_raw(w, x, t - taps + 1 + j);
        sum = fmaf(filter[(size_t)ch * (size_t)taps + (size_t)j], raw ? raw[ch] : 0.0f, sum);
    }
    return sum;
}

K_CUDA_FN void k__cuda_conv(const k_cuda_step *step, const k_row_op *op, int r, float *y) {
    const int          row = op->set ? step->row[1][r] : r;
    const k__cuda_walk w = k__cuda_walk_of(step, &op->u.state, step->seq[row]);
    for (int i = K_CUDA_THREAD; i < op->n; i += K_CUDA_THREADS) y[i] = k__cuda_convolve(&w, &op->in[0], op->vec, step->pos[row], i);
}

/* The inputs of positions [from, end) go into a slot. */
K_CUDA_FN void k__cuda_keep_inputs(const k__cuda_walk *w, const k_cuda_buf *x, uint8_t *slot, int from, int end) {
    for (int t = from < 0 ? 0 : from; t < end; t++) {
        const float *raw = k__cuda_raw(w, x, t);
        float       *to = k__cuda_ring(w->st, slot, t);
        if (raw != to) k__cuda_tile(to, raw, w->st->width);
    }
}

/* The first row of each sequence: what later steps need of inputs and gates goes into its slot, and before that, since it may be the one that is
 * read, into the snapshot. A thread has the same channels in both. */
K_CUDA_FN void k__cuda_keep(const k_cuda_step *step, const k_row_op *op, int r) {
    const k_cuda_state *st = &op->u.state;
    const k__cuda_walk  w = k__cuda_walk_of(step, st, step->seq[r]);
    if (r != w.first) return;
    if (w.snap) k__cuda_keep_inputs(&w, &op->in[0], w.snap, w.snap_at - (st->taps - 1), w.snap_at);
    k__cuda_keep_inputs(&w, &op->in[0], w.out, w.to - (st->taps - 1), w.end);
    for (int t = w.to; st->n_v && t < w.end; t++)
        for (int i = 0; i < 2; i++) {
            const float *from = k__cuda_gates(&w, &op->in[1 + i], i, t);
            float       *to = k__cuda_log(st, w.out, t) + i * st->n_v;
            if (from != to) k__cuda_tile(to, from, st->n_v);
        }
}

/* --- the gated delta rule --- */

enum { K__CUDA_DELTA_ROWS = 8, K__CUDA_DELTA_SUMS = K_CUDA_DELTA_KEYS / 4 };   /* positions whose vectors are computed together; rows of a thread */

/* Vectors and numbers of some positions. */
typedef struct {
    float q[K__CUDA_DELTA_ROWS * K_CUDA_DELTA_KEYS], k[K__CUDA_DELTA_ROWS * K_CUDA_DELTA_KEYS], v[K__CUDA_DELTA_ROWS * K_CUDA_DELTA_COLS];
    float decay[K__CUDA_DELTA_ROWS], beta[K__CUDA_DELTA_ROWS], kq[K__CUDA_DELTA_ROWS];   /* kq: k . q */
} k__cuda_delta_mem;

/* Rows 4i + l of a column, by the thread with number l of its four. */
typedef struct { float v[K__CUDA_DELTA_SUMS]; } k__cuda_delta_sums;

/* What the thread block works on: columns [col, col + cols) of a value head. Of the thread: its column, l, and how many rows it has; 0: there is
 * no such column. */
typedef struct { int head, key, col, cols, mine, l, rows; } k__cuda_delta_task;

K_CUDA_FN k__cuda_delta_task k__cuda_delta_of(const k_cuda_delta_args *a) {
    const k_cuda_state *st = &a->st;
    k__cuda_delta_task  d;
    d.head = K_CUDA_BLOCK_X % st->n_v;
    d.key = a->grouped ? d.head / (st->n_v / st->n_k) : d.head % st->n_k;
    d.col = K_CUDA_BLOCK_Y * K_CUDA_DELTA_COLS;
    d.cols = st->d_v - d.col < K_CUDA_DELTA_COLS ? st->d_v - d.col : K_CUDA_DELTA_COLS;
    d.mine = K_CUDA_THREAD / 4;
    d.l = K_CUDA_THREAD % 4;
    d.rows = d.mine < d.cols ? (st->d_k - d.l + 3) / 4 : 0;
    return d;
}

/* y = silu(the convolution) of `len` channels from ch on, for n positions from t on, ld values apart. */
K_CUDA_FN void k__cuda_delta_conv(const k_cuda_delta_args *a, const k__cuda_walk *w, int t, int n, int ch, int len, float *y, int ld) {
    for (int i = K_CUDA_THREAD; i < n * len; i += K_CUDA_THREADS)
        y[i / len * ld + i % len] = k__act_ref(K_SILU, k__cuda_convolve(w, &a->in[0], a->taps, t + i / len, ch + i % len));
}

/* k_l2_norm of a half warp's vector, then times s. */
K_CUDA_FN void k__cuda_delta_norm(float *x, int n, float eps, float s) {
    const float r = 1.0f / sqrtf(k__cuda_fold(k__cuda_lane(K__SUM_SQUARES, x, x, n, 0.0f, 0.0f)) + eps);
    for (int i = K_CUDA_THREAD % 16; i < n; i += 16) x[i] = x[i] * r * s;
}

/* Queries, keys, values and gates of n positions from t on. Positions of the log have no queries. Half warps norm a key or a query each. */
K_CUDA_FN void k__cuda_delta_vectors(const k_cuda_delta_args *a, const k__cuda_walk *w, const k__cuda_delta_task *d, int t, int n, k__cuda_delta_mem *m) {
    enum { ROWS = K__CUDA_DELTA_ROWS, LD = K_CUDA_DELTA_KEYS };
    const k_cuda_state *st = &a->st;
    const int           d_k = st->d_k, ask = t < w->p ? (w->p - t < n ? w->p - t : n) : 0, half = K_CUDA_THREAD / 16, i = half % ROWS;
    k__cuda_delta_conv(a, w, t + ask, n - ask, d->key * d_k, d_k, m->q + ask * LD, LD);
    k__cuda_delta_conv(a, w, t, n, (st->n_k + d->key) * d_k, d_k, m->k, LD);
    k__cuda_delta_conv(a, w, t, n, 2 * st->n_k * d_k + d->head * st->d_v + d->col, d->cols, m->v, K_CUDA_DELTA_COLS);
    if (K_CUDA_THREAD < n) {
        const float alpha = k__cuda_gates(w, &a->in[1], 0, t + K_CUDA_THREAD)[d->head], beta = k__cuda_gates(w, &a->in[2], 1, t + K_CUDA_THREAD)[d->head];
        m->decay[K_CUDA_THREAD] = k__exp_ref(a->decay[d->head] * k__softplus(alpha + a->gate[d->head]));
        m->beta[K_CUDA_THREAD] = k__act_ref(K_SIGMOID, beta);
    }
    k__cuda_sync();
    if (half < ROWS) k__cuda_delta_norm(m->k + i * LD, i < n ? d_k : 0, a->eps, 1.0f);
    else k__cuda_delta_norm(m->q + i * LD, i >= ask && i < n ? d_k : 0, a->eps, 1.0f / sqrtf((float)d_k));
    k__cuda_sync();
    if (half < ROWS) {
        const float kq = k__cuda_fold(k__cuda_lane(K__SUM_DOT, m->k + i * LD, m->q + i * LD, i >= ask && i < n ? d_k : 0, 0.0f, 0.0f));
        if (K_CUDA_THREAD % 16 == 0) m->kq[i] = kq;
    }
    k__cuda_sync();
}

/* Where a slot keeps the first of the thread's sums; *ld: values between two rows. */
K_CUDA_FN float *k__cuda_delta_column(const k_cuda_state *st, uint8_t *slot, const k__cuda_delta_task *d, size_t *ld) {
    const int c = d->col + d->mine, first = c / K_DELTA_COLS * K_DELTA_COLS;
    *ld = (size_t)(st->d_v - first < K_DELTA_COLS ? st->d_v - first : K_DELTA_COLS);
    return (float *)(void *)(slot + st->sum_at) + ((size_t)d->head * (size_t)st->d_v + (size_t)first) * (size_t)st->d_k + (c - first) + (size_t)d->l * *ld;
}

/* The sums from a slot, NULL: zeros. */
K_CUDA_FN void k__cuda_delta_load(const k_cuda_state *st, uint8_t *slot, const k__cuda_delta_task *d, k__cuda_delta_sums *s) {
    const int    rows = slot ? d->rows : 0;
    size_t       ld = 0;
    const float *from = rows ? k__cuda_delta_column(st, slot, d, &ld) : NULL;
    K_CUDA_UNROLL for (int i = 0; i < K__CUDA_DELTA_SUMS; i++) {
        s->v[i] = i < rows ? *from : 0.0f;
        from += 4 * ld;
    }
}

K_CUDA_FN void k__cuda_delta_save(const k_cuda_state *st, uint8_t *slot, const k__cuda_delta_task *d, const k__cuda_delta_sums *s) {
    size_t ld = 0;
    float *to = d->rows ? k__cuda_delta_column(st, slot, d, &ld) : NULL;
    K_CUDA_UNROLL for (int i = 0; i < K__CUDA_DELTA_SUMS; i++) {
        if (i < d->rows) *to = s->v[i];
        to += 4 * ld;
    }
}

/* The column times x, in its four threads. */
K_CUDA_FN float k__cuda_delta_dot(const k__cuda_delta_task *d, const k__cuda_delta_sums *s, const float *x) {
    float sum = 0.0f;
    x += d->l;
    K_CUDA_UNROLL for (int i = 0; i < K__CUDA_DELTA_SUMS; i++)
        if (i < d->rows) sum = fmaf(s->v[i], x[4 * i], sum);
    sum = sum + k__cuda_other(sum, 2);
    return sum + k__cuda_other(sum, 1);
}

/* The sums go through position t, number i of the vectors. */
K_CUDA_FN void k__cuda_delta_position(const k_cuda_delta_args *a, const k__cuda_walk *w, const k__cuda_delta_task *d, int t, int i,
                                      const k__cuda_delta_mem *m, k__cuda_delta_sums *s) {
    const float *k = m->k + i * K_CUDA_DELTA_KEYS, decay = m->decay[i];
    const float  u = k__cuda_delta_dot(d, s, k), x = m->beta[i] * fmaf(-decay, u, d->rows ? m->v[i * K_CUDA_DELTA_COLS + d->mine] : 0.0f);
    if (t >= w->p) {
        const float o = fmaf(x, m->kq[i], decay * k__cuda_delta_dot(d, s, m->q + i * K_CUDA_DELTA_KEYS));
        if (d->rows && d->l == 0) a->out.x[(size_t)(w->first + t - w->p) * a->out.ld + (size_t)(d->head * a->st.d_v + d->col + d->mine)] = o;
    }
    if (t + 1 == w->end && w->snap_at != w->end) return;   /* no slot keeps what would come */
    K_CUDA_UNROLL for (int j = 0; j < K__CUDA_DELTA_SUMS; j++)
        if (j < d->rows) s->v[j] = fmaf(k[4 * j + d->l], x, decay * s->v[j]);
}

/* Before position t: the slots that keep these sums. */
K_CUDA_FN void k__cuda_delta_keep(const k__cuda_walk *w, const k__cuda_delta_task *d, int t, const k__cuda_delta_sums *s) {
    K_CUDA_ROLL for (int snap = 0; snap < 2; snap++)
        if (t == (snap ? w->snap_at : w->to) && (snap || t > w->at || w->in != w->out)) k__cuda_delta_save(w->st, snap ? w->snap : w->out, d, s);
}

K_CUDA_FN void k__cuda_delta(const k_cuda_delta_args *a) {
    K_CUDA_SHARED(k__cuda_delta_mem, m, 1);
    const int                seq = K_CUDA_BLOCK_X / a->st.n_v;
    const k__cuda_delta_task d = k__cuda_delta_of(a);
    const bool               any = d.mine - K_CUDA_THREAD % 32 / 4 < d.cols;   /* the warp has a column */
    k__cuda_delta_sums       s;
    if (seq >= a->step->n_seq) return;
    const k__cuda_walk w = k__cuda_walk_of(a->step, &a->st, seq);
    k__cuda_delta_load(w.st, w.in, &d, &s);
    for (int t = w.at, i = 0;; t++, i = (i + 1) % K__CUDA_DELTA_ROWS) {
        k__cuda_delta_keep(&w, &d, t, &s);
        if (t == w.end) break;
        if (i == 0 && t > w.at) k__cuda_sync();       /* the vectors before these have been used */
        if (i == 0) k__cuda_delta_vectors(a, &w, &d, t, w.end - t < K__CUDA_DELTA_ROWS ? w.end - t : K__CUDA_DELTA_ROWS, m);
        if (any) k__cuda_delta_position(a, &w, &d, t, i, m, &s);
    }
}

/* --- the operations --- */

/* Those that work on values one by one. */
K_CUDA_FN void k__cuda_row_map(const k_row_op *op, int r, float *y, const float *a, const float *b) {
    const int n = op->n, expert = op->kind == K_ROW_BIAS && op->u.experts.of ? op->u.experts.of[r] : 0;
    switch (op->kind) {
    case K_ROW_BIAS: k__cuda_map(K__MAP_ADD, 0, y, y, op->vec + (size_t)expert * (size_t)n, 0.0f, n); break;
    case K_ROW_ADD:
        if (op->scale == 0.0f) k__cuda_map(K__MAP_ADD, 0, y, a, b, 0.0f, n);
        else k__cuda_map(K__MAP_AXPY, 0, y, a, b, op->scale, n);
        break;
    case K_ROW_SCALE:
        if (op->vec) k__cuda_map(K__MAP_MUL, 0, y, y, op->vec, 0.0f, n);
        else k__cuda_map(K__MAP_SCALE, 0, y, y, NULL, op->scale, n);
        break;
    case K_ROW_CAP: k__cuda_map(K__MAP_CAP, 0, y, y, NULL, op->scale, n); break;
    case K_ROW_ACTIVATE:
        if (op->u.act == K_ROW_CLIP) k__cuda_map(K__MAP_CLIP, 0, y, y, a, 0.0f, n);
        else k__cuda_map(K__MAP_ACT, op->u.act, y, y, a, 0.0f, n);
        break;
    case K_ROW_ADD_SCALED: k__cuda_map(K__MAP_AXPY, 0, y, y, a, *b, n); break;
    case K_ROW_SCALE_BY: k__cuda_map(K__MAP_SCALE, 0, y, y, NULL, *a, n); break;
    case K_ROW_MUL: k__cuda_map(K__MAP_MUL, 0, y + op->u.mul.to, a + op->u.mul.a, b + op->u.mul.b, 0.0f, n); break;
    default: break;
    }
}

/* Operation `op` for its row r. */
K_CUDA_FN void k__cuda_row_op(const k_cuda_step *step, const k_row_op *op, int r, k__cuda_rows_mem *m) {
    float *a = k__cuda_in(step, op, 0, r), *b = k__cuda_in(step, op, 1, r), *y = op->out.x + (size_t)r * op->out.ld;
    switch (op->kind) {
    case K_ROW_NORM:
        if (op->n_head > 1) k__cuda_norm_heads(op, a, y);
        else k__cuda_norm(op, a, y, m);
        break;
    case K_ROW_PICK: k__cuda_pick(op, a, y); break;
    case K_ROW_ROPE: k__cuda_rope(op, y, a + op->u.rope.at); break;
    case K_ROW_HADAMARD: k__cuda_hadamard(y, op->n * op->n_head, op->u.size); break;
    case K_ROW_STORE: k__cuda_store(step, op, r, a, b); break;
    case K_ROW_FORM: k__cuda_form(op, y, r, m); break;
    case K_ROW_GATE: {
        const float s = k__cuda_sum_of(K__SUM_DOT, a, op->vec, op->n, 0.0f, m);
        if (K_CUDA_THREAD == K_CUDA_THREADS - 1) *y = k__act_ref(K_SIGMOID, s);   /* any of them */
        break;
    }
    case K_ROW_SPARSE: k__cuda_sparse(op, y, m); break;
    case K_ROW_BLEND: k__cuda_blend(op, a, b, y); break;
    case K_ROW_CORRECT: k__cuda_correct(op, a, b, k__cuda_in(step, op, 2, r), y); break;
    case K_ROW_RAISE: k__cuda_raise(op, a, y); break;
    case K_ROW_LEVEL: k__cuda_level(op, a, b, y, m); break;
    case K_ROW_ROUTE: k__cuda_route(op, a, (int32_t *)(void *)y, op->u.route.weight.x + (size_t)r * op->u.route.weight.ld); break;
    case K_ROW_CONV: k__cuda_conv(step, op, r, y); break;
    case K_ROW_KEEP: k__cuda_keep(step, op, r); break;
    case K_ROW_MIX: k__cuda_mix(op, &op->in[0], b, (const int32_t *)(const void *)k__cuda_in(step, op, 2, r), y); break;
    default: k__cuda_row_map(op, r, y, a, b);
    }
}

/* --- the sort of slots: each warp takes a run of them, 32 at a time --- */

enum { K__CUDA_WARPS = K_CUDA_THREADS / 32 };

typedef struct {
    int32_t at[K__CUDA_WARPS][K_CUDA_EXPERTS];        /* slots of each run; then the next one of each run */
    int32_t all[K_CUDA_EXPERTS];                      /* slots of each expert */
} k__cuda_sort_mem;

/* Lanes with the same number: those in front of this one; all of them. */
K_CUDA_FN void k__cuda_alike(int e, int *rank, int *all) {
    const int lane = K_CUDA_THREAD % 32;
    *rank = 0, *all = 1;
    for (int far = 1; far < 32; far++) {
        const bool same = (int)k__cuda_other((float)e, far) == e;
        *all += same;
        *rank += same && (lane ^ far) < lane;
    }
}

/* Every slot in order: counted, or written to its place. */
K_CUDA_FN void k__cuda_slots(const k_cuda_sort_args *a, int n, bool place, k__cuda_sort_mem *m) {
    const int warp = K_CUDA_THREAD / 32, turns = (n + K_CUDA_THREADS - 1) / K_CUDA_THREADS;
    for (int i = 0; i < turns; i++) {
        const int j = (warp * turns + i) * 32 + K_CUDA_THREAD % 32, r = j / a->used, k = j % a->used;
        const int e = j < n ? ((const int32_t *)(const void *)(a->pick.x + (size_t)r * a->pick.ld))[k] : -1;
        int       rank, all;
        k__cuda_alike(e, &rank, &all);
        k__cuda_sync_warp();                          /* the run's slots before these are counted */
        const int at = e >= 0 ? m->at[warp][e] : 0;
        k__cuda_sync_warp();                          /* all know where their experts are */
        if (e < 0) continue;
        if (rank == all - 1) m->at[warp][e] = at + all;
        if (!place) continue;
        a->row[at + rank] = r;
        a->expert[at + rank] = e;
        ((int32_t *)(void *)(a->slot_of.x + (size_t)r * a->slot_of.ld))[k] = at + rank;
    }
}

/* Tiles of expert e, whose slots begin at `first`; `before`: tiles of the experts before it. */
K_CUDA_FN void k__cuda_tiles(int32_t *to, int e, int first, int n, int before, int cols, bool last) {
    if (!to) return;
    for (int i = 0; i < n; i += cols, before++) {
        int32_t *tile = to + 1 + 3 * before;
        tile[0] = e;
        tile[1] = first + i;
        tile[2] = n - i < cols ? n - i : cols;
    }
    if (last) to[0] = before;
}

/* Where each expert's slots begin, and those of each run; tiles. */
K_CUDA_FN void k__cuda_begins(const k_cuda_sort_args *a, k__cuda_sort_mem *m) {
    const int E = a->n_expert;
    for (int e = K_CUDA_THREAD; e < E; e += K_CUDA_THREADS) {
        int n = 0;
        for (int w = 0; w < K__CUDA_WARPS; w++) n += m->at[w][e];
        m->all[e] = n;
    }
    k__cuda_sync();
    for (int e = K_CUDA_THREAD; e < E; e += K_CUDA_THREADS) {
        int first = 0, few = 0, many = 0, at;
        for (int i = 0; i < e; i++) {
            first += m->all[i];
            few += (m->all[i] + K_CUDA_COLS - 1) / K_CUDA_COLS;
            many += (m->all[i] + K_CUDA_MANY_COLS - 1) / K_CUDA_MANY_COLS;
        }
        k__cuda_tiles(a->tiles[0], e, first, m->all[e], few, K_CUDA_COLS, e == E - 1);
        k__cuda_tiles(a->tiles[1], e, first, m->all[e], many, K_CUDA_MANY_COLS, e == E - 1);
        at = first;
        for (int w = 0; w < K__CUDA_WARPS; w++) {
            const int n = m->at[w][e];
            m->at[w][e] = at;
            at += n;
        }
    }
}

/* --- attention ---
 * A thread block computes one segment of one row and K/V head, up to K_CUDA_HEADS query heads of the group at a time, which share the loads
 * of K and V. Scores: a thread takes a position, a warp a tile, so that no sum goes across threads. Weights: a warp takes a tile (in
 * integers: a query head). Outputs: a thread takes a dimension of some heads, and goes over the positions in order; in integers, where
 * the order is free, a warp takes every eighth pair of positions. Rows of f32, f16 and bf16 are aligned to 4, those of blocks to 2; rows
 * of 16-bit values that are aligned to 16 are read faster. Values that a row does not see are not read. */

enum { K_CUDA_HEADS = 8, K_CUDA_TILES = K_SEGMENT / K_TILE, K_CUDA_WARPS = K_CUDA_THREADS / 32 };
enum { K_CUDA_DIMS = 512, K_CUDA_STAGE = 4096 };      /* the largest head; values of V in shared memory */

typedef struct { float v[2]; } __attribute__((aligned(8))) k__cuda_two;
typedef struct { float v[4]; } __attribute__((aligned(16))) k__cuda_four;

/* Row `row` of the set, number i of those of the launch, asks with row `from` of q for K/V head `head`. It sees positions
 * [begin, end); of the segment that begins at `base` the places [lo, hi), all of them in [first, last), multiples of K_TILE. */
typedef struct {
    int            i, row, from, head, begin, end, at, base, lo, hi, first, last;
    const int32_t *table;
} k__cuda_view;

/* What row i of the launch sees; false: there is no such row. */
K_CUDA_FN bool k__cuda_see(const k_cuda_attend_args *a, int i, int head, k__cuda_view *v) {
    const k_cuda_step *s = a->step;
    v->i = i, v->head = head, v->row = a->first + i;
    if (v->i >= a->n_rows || v->row >= s->n[a->set]) return false;
    const int b = a->set ? s->row[1][v->row] : v->row, half = a->window / 2;
    v->from = a->gathers ? b : v->row;
    v->at = s->pos[b];
    v->end = a->all ? s->end[b] : v->at + 1;
    v->begin = a->window && v->end > a->window ? v->end - a->window : 0;
    if (a->all) {
        if (a->window && v->at + half < v->end) v->end = v->at + half + 1;
        v->begin = a->window && v->at > half ? v->at - half : 0;
    }
    v->table = s->table + s->table_at[(size_t)s->seq[b] * (size_t)s->n_group + (size_t)a->kv.group];
    return true;
}

/* What it sees of the segment that begins at `base`; false: nothing. */
K_CUDA_FN bool k__cuda_segment(k__cuda_view *v, int base) {
    v->base = base;
    v->lo = v->begin > base ? v->begin - base : 0;
    v->hi = v->end - base < K_SEGMENT ? v->end - base : K_SEGMENT;
    v->first = v->lo / K_TILE * K_TILE;
    v->last = k__round_up(v->hi, K_TILE);
    return v->lo < v->hi;
}

/* The row, K/V head and segment of the block; false: there is nothing to do. */
K_CUDA_FN bool k__cuda_view_of_block(const k_cuda_attend_args *a, k__cuda_view *v) {
    if (!k__cuda_see(a, K_CUDA_BLOCK_X / a->kv.n_head, K_CUDA_BLOCK_X % a->kv.n_head, v)) return false;
    return k__cuda_segment(v, (v->begin / K_SEGMENT + K_CUDA_BLOCK_Y) * K_SEGMENT);
}

/* Partial result of segment n. */
K_CUDA_FN float *k__cuda_part(const k_cuda_attend_args *a, const k__cuda_view *v, int n) {
    return a->parts + ((size_t)(v->i * a->kv.n_head + v->head) * (size_t)a->n_seg + (size_t)n) * k__attn_part(a->group, a->kv.hd_v);
}

/* The sums of query head h in it. */
K_CUDA_FN k__attn_sum *k__cuda_part_sum(const k_cuda_attend_args *a, float *part, int h) {
    return (k__attn_sum *)(void *)(part + (size_t)a->group * (size_t)k__round_up(a->kv.hd_v, 32)) + h;
}

/* Where keys or values of a place are; NULL: the row does not see it. */
K_CUDA_FN const uint8_t *k__cuda_kv_row(const k_cuda_kv *kv, const k__cuda_view *v, bool values, int place) {
    if (place < v->lo || place >= v->hi) return NULL;
    const int p = v->base + place, block = p / kv->block;
    return kv->base + (size_t)v->table[block] * kv->block_bytes + (values ? kv->v_at : kv->k_at) +
           ((size_t)v->head * (size_t)kv->block + (size_t)(p - block * kv->block)) * (values ? kv->v_stride : kv->k_stride);
}

/* The values at .. at + 7 of a row of n, 0 after the last one; at is a multiple of 8. row NULL: zeros. */
K_CUDA_FN void k__cuda_widen(uint32_t type, const uint8_t *row, int at, int n, float x[8]) {
    K_CUDA_UNROLL for (int i = 0; i < 8; i++) x[i] = 0.0f;
    if (!row) return;
    if (type == K_F32) {
        K_CUDA_UNROLL for (int i = 0; i < 8; i++)
            if (at + i < n) x[i] = k__f32_of(k__cuda_ld32(row + 4 * (at + i)));
    } else if (type == K_F16 || type == K_BF16) {
        k__cuda_words w = {{0, 0, 0, 0}};
        if (at + 8 <= n && (uintptr_t)row % 16 == 0) {
            k__cuda_ld128(row + 2 * at, w.v);
        } else {
            K_CUDA_UNROLL for (int i = 0; i < 4; i++)
                if (at + 2 * i < n) w.v[i] = k__cuda_ld32(row + 2 * (at + 2 * i));
        }
        K_CUDA_UNROLL for (int i = 0; i < 8; i++) {
            const uint16_t h = (uint16_t)(w.v[i / 2] >> i % 2 * 16);
            x[i] = type == K_F16 ? k__cuda_half(h) : k_bf16_to_f32(h);
        }
    } else {
        const bool     wide = type == K_Q8_0;         /* else q4_0: the low nibbles of 16 bytes, then the high ones */
        const uint8_t *b = row + at / 32 * (int)(wide ? sizeof(block_q8_0) : sizeof(block_q4_0));
        const float    d = k__cuda_half(k__cuda_ld16(b));
        K_CUDA_UNROLL for (int i = 0; i < 8; i += 2) {
            const int      c = at % 32 + i, shift = c / 16 * 4;
            const uint16_t w = k__cuda_ld16(b + 2 + (wide ? c : c % 16));
            K_CUDA_UNROLL for (int k = 0; k < 2; k++) {
                const int q = wide ? (int8_t)(w >> 8 * k) : (w >> (8 * k + shift) & 15) - 8;
                if (at + i + k < n) x[i + k] = k__bf16_round(d * (float)q);
            }
        }
    }
}

/* The sum of the warp's values, in lane 0. */
K_CUDA_FN float k__cuda_add(float v) {
    K_CUDA_UNROLL for (int far = 16; far; far /= 2) v = v + k__cuda_other(v, far);
    return v;
}

/* Query head h, counted in its group. */
K_CUDA_FN const float *k__cuda_query(const k_cuda_attend_args *a, const k__cuda_view *v, int h) {
    return a->q.x + (size_t)v->from * a->q.ld + (size_t)(v->head * a->group + h) * (size_t)a->kv.hd_k;
}

/* What ALiBi takes from the scores of query head h, counted in its group; NULL: nothing. */
K_CUDA_FN const float *k__cuda_slope(const k_cuda_attend_args *a, const k__cuda_view *v, int h) {
    return a->slopes ? a->slopes + v->head * a->group + h : NULL;
}

/* A score with all that makes it, -inf where the row does not look (there); returns the largest of the warp that is not NaN. */
K_CUDA_FN float k__cuda_shape(bool there, float scale, float cap, const float *slope, int far, float *s) {
    *s = there ? k__attn_shape(*s * scale, cap, slope, far) : -INFINITY;
    return k__cuda_most(*s > -INFINITY ? *s : -INFINITY);
}

/* Scores of a tile to weights, a lane's is s; top is the largest score so far. The sum of the tile's weights, in lane 0. */
K_CUDA_FN float k__cuda_tile_weights(uint32_t type, float top, float *s) {
    const float x = k__exp_ref(*s - (top == -INFINITY ? 0.0f : top));
    *s = k__kv_rounds(type) ? k__bf16_round(x) : x;
    return k__cuda_add(*s);
}

/* The factor of what was summed before the tile, where the largest score was `before`. */
K_CUDA_FN float k__cuda_tile_factor(float before, float top) {
    return top == before ? 1.0f : k__exp_ref(before - (top == -INFINITY ? 0.0f : top));
}

/* Queries of heads h .. h + n - 1 as they are multiplied, of R heads: [head][ld], zeros after the last value and head. */
K_CUDA_FN void k__cuda_ask(int R, const k_cuda_attend_args *a, const k__cuda_view *v, int h, int n, float *q) {
    const int ld = k__round_up(a->kv.hd_k, 8);
    for (int i = K_CUDA_THREAD; i < R * ld; i += K_CUDA_THREADS) {
        const int   r = i / ld, d = i % ld;
        const float x = r < n && d < a->kv.hd_k ? k__cuda_query(a, v, h + r)[d] : 0.0f;
        q[i] = k__kv_rounds(a->kv.type_k) ? k__bf16_round(x) : x;
    }
}

/* Scores of R heads: s[head][place]; most[head][tile]: the largest of a tile. */
K_CUDA_FN void k__cuda_scores(int R, const k_cuda_attend_args *a, const k__cuda_view *v, int h, int n, const float *q, float *s, float *most) {
    const int lane = K_CUDA_THREAD % 32, ld = k__round_up(a->kv.hd_k, 8);
    for (int tile = v->first / K_TILE + K_CUDA_THREAD / 32; tile < v->last / K_TILE; tile += K_CUDA_WARPS) {
        const int      place = K_TILE * tile + lane;
        const uint8_t *row = k__cuda_kv_row(&a->kv, v, false, place);
        float          sum[K_CUDA_HEADS];
        K_CUDA_UNROLL for (int r = 0; r < R; r++) sum[r] = 0.0f;
        for (int d = 0; d < ld; d += 8) {
            float k[8];
            k__cuda_widen(a->kv.type_k, row, d, a->kv.hd_k, k);
            K_CUDA_UNROLL for (int j = 0; j < 8; j += 4)
                K_CUDA_UNROLL for (int r = 0; r < R; r++) {
                    const k__cuda_four x = *(const k__cuda_four *)(const void *)(q + r * ld + d + j);
                    K_CUDA_UNROLL for (int i = 0; i < 4; i++) sum[r] = fmaf(x.v[i ^ 1], k[j + (i ^ 1)], sum[r]);
                }
        }
        K_CUDA_UNROLL for (int r = 0; r < R; r++) s[r * K_SEGMENT + place] = sum[r];
        for (int r = 0; r < n; r++) {
            float      *x = s + r * K_SEGMENT + place;
            const bool  there = place >= v->lo && place < v->hi;
            const float top = k__cuda_shape(there, a->scale, a->cap, k__cuda_slope(a, v, h + r), v->base - v->at + place, x);
            if (lane == 0) most[r * K_CUDA_TILES + tile] = top;
        }
    }
}

/* Scores to weights. What each tile changes: c[head][tile], the factor of what was summed before it, l[head][tile], the sum of its weights. */
K_CUDA_FN void k__cuda_weigh(const k_cuda_attend_args *a, const k__cuda_view *v, int n, const float *most, float *s, float *c, float *l) {
    const int lane = K_CUDA_THREAD % 32, from = v->first / K_TILE, n_tiles = v->last / K_TILE - from;
    for (int i = K_CUDA_THREAD / 32; i < n * n_tiles; i += K_CUDA_WARPS) {
        const int r = i / n_tiles, tile = from + i % n_tiles, at = r * K_CUDA_TILES;
        float     before = -INFINITY, *p = s + r * K_SEGMENT + K_TILE * tile + lane;
        for (int t = from; t < tile; t++) before = most[at + t] > before ? most[at + t] : before;
        const float top = most[at + tile] > before ? most[at + tile] : before, sum = k__cuda_tile_weights(a->kv.type_v, top, p);
        if (lane) continue;
        c[at + tile] = k__cuda_tile_factor(before, top);
        l[at + tile] = sum;
    }
}

/* The sums of a head. */
K_CUDA_FN k__attn_sum k__cuda_sums(const k__cuda_view *v, const float *most, const float *c, const float *l) {
    k__attn_sum all = {-INFINITY, 0.0f};
    for (int t = v->first / K_TILE; t < v->last / K_TILE; t++) {
        all.m = most[t] > all.m ? most[t] : all.m;
        all.l = fmaf(all.l, c[t], l[t]);
    }
    return all;
}

/* Outputs of dimensions d0 .. d0 + width - 1 (at most 256) of n heads; a thread has J heads. x: K_CUDA_STAGE values; o[head][ld_v]. */
K_CUDA_FN void k__cuda_gather(int J, const k_cuda_attend_args *a, const k__cuda_view *v, int n, int d0, int width, const float *p, const float *c,
                              float *x, float *o) {
    const int n_pos = width <= 128 ? K_TILE : K_TILE / 2, each = width / 8, d = K_CUDA_THREAD % width, n_sub = K_CUDA_THREADS / width;
    const int sub = K_CUDA_THREAD / width, heads = sub < n_sub ? n : 0;
    float     acc[K_CUDA_HEADS];
    K_CUDA_UNROLL for (int j = 0; j < J; j++) acc[j] = 0.0f;
    for (int at = v->first; at < v->last; at += n_pos) {
        if (at > v->first || d0) k__cuda_sync();      /* the values before these are added */
        for (int i = K_CUDA_THREAD; i < n_pos * each; i += K_CUDA_THREADS) {
            const int place = i / each, from = i % each * 8;
            k__cuda_widen(a->kv.type_v, k__cuda_kv_row(&a->kv, v, true, at + place), d0 + from, a->kv.hd_v, x + place * width + from);
        }
        k__cuda_sync();
        K_CUDA_UNROLL for (int j = 0; j < J; j++) {
            const int r = sub + j * n_sub;
            if (at % K_TILE == 0 && r < heads) acc[j] = acc[j] * c[r * K_CUDA_TILES + at / K_TILE];
        }
        for (int i = 0; i < n_pos; i += 2) {
            const float even = x[i * width + d], odd = x[(i + 1) * width + d];
            K_CUDA_UNROLL for (int j = 0; j < J; j++) {
                const int r = sub + j * n_sub;
                if (r >= heads) continue;
                const k__cuda_two w = *(const k__cuda_two *)(const void *)(p + r * K_SEGMENT + at + i);
                acc[j] = fmaf(w.v[0], even, fmaf(w.v[1], odd, acc[j]));
            }
        }
    }
    K_CUDA_UNROLL for (int j = 0; j < J; j++) {
        const int r = sub + j * n_sub;
        if (r < heads) o[(size_t)r * (size_t)k__round_up(a->kv.hd_v, 32) + (size_t)(d0 + d)] = acc[j];
    }
}

/* All dimensions. */
K_CUDA_FN void k__cuda_outputs(const k_cuda_attend_args *a, const k__cuda_view *v, int n, const float *p, const float *c, float *x, float *o) {
    const int ld = k__round_up(a->kv.hd_v, 32);
    for (int d = 0; d < ld; d += 256) {
        const int width = ld - d < 256 ? ld - d : 256, n_sub = K_CUDA_THREADS / width;
        if (n <= n_sub) k__cuda_gather(1, a, v, n, d, width, p, c, x, o);
        else if (n <= 2 * n_sub) k__cuda_gather(2, a, v, n, d, width, p, c, x, o);
        else if (n <= 4 * n_sub) k__cuda_gather(4, a, v, n, d, width, p, c, x, o);
        else k__cuda_gather(8, a, v, n, d, width, p, c, x, o);
    }
}

K_CUDA_FN void k__cuda_attend(const k_cuda_attend_args *a) {
    K_CUDA_SHARED(k__cuda_four, stage, K_CUDA_STAGE / 4);                    /* queries, then values */
    K_CUDA_SHARED(k__cuda_two, weights, K_CUDA_HEADS * K_SEGMENT / 2);
    K_CUDA_SHARED(float, most, K_CUDA_HEADS * K_CUDA_TILES);
    K_CUDA_SHARED(float, c, K_CUDA_HEADS * K_CUDA_TILES);
    K_CUDA_SHARED(float, l, K_CUDA_HEADS * K_CUDA_TILES);
    float       *x = (float *)(void *)stage, *s = (float *)(void *)weights;
    const int    me = K_CUDA_THREAD;
    k__cuda_view v;
    if (!k__cuda_view_of_block(a, &v)) return;
    float *part = k__cuda_part(a, &v, K_CUDA_BLOCK_Y);
    for (int h = 0; h < a->group; h += K_CUDA_HEADS) {
        const int n = a->group - h < K_CUDA_HEADS ? a->group - h : K_CUDA_HEADS, R = n > 4 ? 8 : n > 1 ? 4 : 1;
        if (h) k__cuda_sync();                        /* the heads before these are done */
        k__cuda_ask(R, a, &v, h, n, x);
        k__cuda_sync();
        if (R == 8) k__cuda_scores(8, a, &v, h, n, x, s, most);
        else if (R == 4) k__cuda_scores(4, a, &v, h, n, x, s, most);
        else k__cuda_scores(1, a, &v, h, n, x, s, most);
        k__cuda_sync();
        k__cuda_weigh(a, &v, n, most, s, c, l);
        k__cuda_sync();
        if (me < n) *k__cuda_part_sum(a, part, h + me) = k__cuda_sums(&v, most + me * K_CUDA_TILES, c + me * K_CUDA_TILES, l + me * K_CUDA_TILES);
        k__cuda_outputs(a, &v, n, s, c, x, part + (size_t)h * (size_t)k__round_up(a->kv.hd_v, 32));
    }
}

/* --- attention for many rows ---
 * A thread block takes some rows of a sequence, up to K_CUDA_ASKS query heads of them at a time, through a segment, tile after tile: K to
 * shared memory, scores, weights, V to shared memory, outputs in registers. Heads above 128 values go there in parts. */

enum { K_CUDA_KV = 32 * 132 };                        /* floats of a tile of K or V: keys are 4 floats apart, so that threads use all banks */

/* A query head of a row: where its results go, NULL: it sees nothing; the places that it sees, and how far place 0 is from it. */
typedef struct {
    const float *q, *slope;
    float       *o;
    k__attn_sum *sum;
    int          lo, hi, far;
} k__cuda_asker;

typedef struct {
    float         c[K_CUDA_ASKS];                     /* the factor of what was summed before the tile */
    k__cuda_asker ask[K_CUDA_ASKS];
} k__cuda_heads;

typedef struct {
    k__cuda_four  q[1024];                            /* [head][ld_k] */
    k__cuda_four  kv[K_CUDA_KV / 4];                  /* [position][ld_k + 4] or [position][ld_v] */
    k__cuda_two   s[K_CUDA_ASKS * K_TILE / 2];        /* [head][position] */
    k__cuda_heads of;
} k__cuda_asks;

/* Head v of those of rows i, i + 1, ... of the launch, in the segment of `run`. */
K_CUDA_FN void k__cuda_asker_of(const k_cuda_attend_args *a, const k__cuda_view *run, int i, int v, k__cuda_asker *to) {
    const int    h = v % a->group;
    k__cuda_view w = *run;
    k__cuda_see(a, i + v / a->group, run->head, &w);
    const bool there = k__cuda_segment(&w, run->base);
    float     *part = there ? k__cuda_part(a, &w, run->base / K_SEGMENT - w.begin / K_SEGMENT) : NULL;
    to->q = k__cuda_query(a, &w, h), to->slope = k__cuda_slope(a, &w, h);
    to->o = there ? part + (size_t)h * (size_t)k__round_up(a->kv.hd_v, 32) : NULL;
    to->sum = there ? k__cuda_part_sum(a, part, h) : NULL;
    to->lo = there ? w.lo : 0, to->hi = there ? w.hi : 0, to->far = w.base - w.at;
}

/* n_pos keys or values from `place` on, `apart` floats apart. */
K_CUDA_FN void k__cuda_fetch_kv(const k_cuda_attend_args *a, const k__cuda_view *v, bool values, int place, int n_pos, int apart, k__cuda_four *to) {
    const int      hd = values ? a->kv.hd_v : a->kv.hd_k, each = k__round_up(hd, 8) / 8;
    const uint32_t type = values ? a->kv.type_v : a->kv.type_k;
    for (int i = K_CUDA_THREAD; i < n_pos * each; i += K_CUDA_THREADS) {
        const int p = i / each, at = i % each * 8;
        float     x[8];
        k__cuda_widen(type, k__cuda_kv_row(&a->kv, v, values, place + p), at, hd, x);
        K_CUDA_UNROLL for (int k = 0; k < 8; k += 4) {
            const k__cuda_four w = {{x[k], x[k + 1], x[k + 2], x[k + 3]}};
            to[(p * apart + at + k) / 4] = w;
        }
    }
}

/* Products of n heads with n_pos keys, which are places at .. of the tile; a thread has one key and H heads. */
K_CUDA_FN void k__cuda_products(int H, const k__cuda_asks *m, int n, int ld, int n_pos, int at, float *s) {
    const int p = K_CUDA_THREAD % n_pos, first = K_CUDA_THREAD / n_pos * H;
    float     sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (first >= n) return;
    for (int d = 0; d < ld; d += 4) {
        const k__cuda_four k = m->kv[(p * (ld + 4) + d) / 4];
        K_CUDA_UNROLL for (int h = 0; h < H; h++) {
            const k__cuda_four q = m->q[((first + h) * ld + d) / 4];
            K_CUDA_UNROLL for (int i = 0; i < 4; i++) sum[h] = fmaf(q.v[i ^ 1], k.v[i ^ 1], sum[h]);
        }
    }
    K_CUDA_UNROLL for (int h = 0; h < H; h++) s[(first + h) * K_TILE + at + p] = sum[h];
}

/* Products of the tile at `place` to weights, for every eighth head: all[j] are the sums of head warp + 8j. */
K_CUDA_FN void k__cuda_weigh_tile(const k_cuda_attend_args *a, k__cuda_heads *m, int n, int place, float *s, k__attn_sum all[4]) {
    const int warp = K_CUDA_THREAD / 32, lane = K_CUDA_THREAD % 32, at = place + lane;
    K_CUDA_UNROLL for (int j = 0; j < K_CUDA_ASKS / K_CUDA_WARPS; j++) {
        const int v = warp + j * K_CUDA_WARPS;
        if (v >= n) continue;
        const k__cuda_asker *ask = &m->ask[v];
        float               *p = s + v * K_TILE + lane, before = all[j].m, c = 1.0f;
        if (place < ask->hi && place + K_TILE > ask->lo) {
            const float most = k__cuda_shape(at >= ask->lo && at < ask->hi, a->scale, a->cap, ask->slope, ask->far + at, p);
            all[j].m = most > before ? most : before;
            c = k__cuda_tile_factor(before, all[j].m);
            all[j].l = fmaf(all[j].l, c, k__cuda_tile_weights(a->kv.type_v, all[j].m, p));
        } else {
            *p = 0.0f;
        }
        if (lane == 0) m->c[v] = c;
    }
}

/* Adds n_pos values, places at .. of the tile at `place`, to the outputs of the thread: 4 dimensions of up to 4 heads. whole: all heads see
 * all of the tile; else a head adds what it sees. */
K_CUDA_FN void k__cuda_add_values(bool whole, const k__cuda_asks *m, int n, int ld, int n_pos, int place, int at, float o[4][4]) {
    const int each = ld / 4, d = K_CUDA_THREAD % each, n_sub = K_CUDA_THREADS / each, sub = K_CUDA_THREAD / each, heads = sub < n_sub ? n : 0;
    K_CUDA_UNROLL for (int j = 0; j < 4; j++) {
        const int v = sub + j * n_sub;
        K_CUDA_UNROLL for (int k = 0; k < 4; k++)
            if (at == 0 && v < heads) o[j][k] = o[j][k] * m->of.c[v];
    }
    for (int i = 0; i < n_pos; i += 2) {
        const k__cuda_four even = m->kv[i * each + d], odd = m->kv[(i + 1) * each + d];
        K_CUDA_UNROLL for (int j = 0; j < 4; j++) {
            const int v = sub + j * n_sub, p = place + at + i;
            if (v >= heads) continue;
            const k__cuda_two w = m->s[(v * K_TILE + at + i) / 2];
            const bool        second = whole || (p + 1 >= m->of.ask[v].lo && p + 1 < m->of.ask[v].hi), first = whole || (p >= m->of.ask[v].lo && p < m->of.ask[v].hi);
            K_CUDA_UNROLL for (int k = 0; k < 4; k++) {
                if (second) o[j][k] = fmaf(w.v[1], odd.v[k], o[j][k]);
                if (first) o[j][k] = fmaf(w.v[0], even.v[k], o[j][k]);
            }
        }
    }
}

/* One tile: n heads, n_pos keys and values at a time. */
K_CUDA_FN void k__cuda_tile_many(const k_cuda_attend_args *a, const k__cuda_view *v, k__cuda_asks *m, int n, int n_pos, int place, bool whole,
                                 k__attn_sum all[4], float o[4][4]) {
    const int ld_k = k__round_up(a->kv.hd_k, 8), ld_v = k__round_up(a->kv.hd_v, 32);
    float    *s = (float *)(void *)m->s;
    for (int at = 0; at < K_TILE; at += n_pos) {
        if (at || place > v->first) k__cuda_sync();   /* the values or keys before these are used */
        k__cuda_fetch_kv(a, v, false, place + at, n_pos, ld_k + 4, m->kv);
        k__cuda_sync();
        if (n_pos == K_TILE) k__cuda_products(4, m, n, ld_k, K_TILE, at, s);
        else k__cuda_products(1, m, n, ld_k, n_pos, at, s);
    }
    k__cuda_sync();
    k__cuda_weigh_tile(a, &m->of, n, place, s, all);
    for (int at = 0; at < K_TILE; at += n_pos) {
        if (at) k__cuda_sync();
        k__cuda_fetch_kv(a, v, true, place + at, n_pos, ld_v, m->kv);
        k__cuda_sync();
        if (whole) k__cuda_add_values(true, m, n, ld_v, n_pos, place, at, o);
        else k__cuda_add_values(false, m, n, ld_v, n_pos, place, at, o);
    }
}

K_CUDA_FN void k__cuda_put_many(const k__cuda_asks *m, int n, int ld, const k__attn_sum all[4], float o[4][4]) {
    const int each = ld / 4, d = K_CUDA_THREAD % each, n_sub = K_CUDA_THREADS / each, sub = K_CUDA_THREAD / each, heads = sub < n_sub ? n : 0;
    K_CUDA_UNROLL for (int j = 0; j < 4; j++) {
        const int v = sub + j * n_sub, h = K_CUDA_THREAD / 32 + j * K_CUDA_WARPS;
        K_CUDA_UNROLL for (int k = 0; k < 4; k++)
            if (v < heads && m->of.ask[v].o) m->of.ask[v].o[4 * d + k] = o[j][k];
        if (K_CUDA_THREAD % 32 == 0 && h < n && m->of.ask[h].sum) *m->of.ask[h].sum = all[j];
    }
}

/* Heads v0 .. v0 + n - 1 of rows i, i + 1, ..., which see parts of `run`; again: not the first ones of the block. */
K_CUDA_FN void k__cuda_some(const k_cuda_attend_args *a, const k__cuda_view *run, k__cuda_asks *m, int i, int v0, int n, int n_pos, bool again) {
    const int   me = K_CUDA_THREAD, ld = k__round_up(a->kv.hd_k, 8);
    float       o[4][4], *q = (float *)(void *)m->q;
    k__attn_sum all[4];
    int         lo = 0, hi = K_SEGMENT;
    K_CUDA_UNROLL for (int j = 0; j < 4; j++) {
        all[j].m = -INFINITY, all[j].l = 0.0f;
        K_CUDA_UNROLL for (int k = 0; k < 4; k++) o[j][k] = 0.0f;
    }
    if (again) k__cuda_sync();                        /* the heads before these are done */
    if (me < n) k__cuda_asker_of(a, run, i, v0 + me, &m->of.ask[me]);
    k__cuda_sync();
    for (int k = me; k < 4096 && k / ld < K_CUDA_ASKS; k += K_CUDA_THREADS) {
        const int   v = k / ld, d = k % ld;
        const float x = v < n && d < a->kv.hd_k ? m->of.ask[v].q[d] : 0.0f;
        q[k] = k__kv_rounds(a->kv.type_k) ? k__bf16_round(x) : x;
    }
    for (int v = 0; v < n; v++) lo = m->of.ask[v].lo > lo ? m->of.ask[v].lo : lo, hi = m->of.ask[v].hi < hi ? m->of.ask[v].hi : hi;
    for (int place = run->first; place < run->last; place += K_TILE)
        k__cuda_tile_many(a, run, m, n, n_pos, place, place >= lo && place + K_TILE <= hi, all, o);
    k__cuda_put_many(m, n, k__round_up(a->kv.hd_v, 32), all, o);
}

/* Rows of one sequence, from row i of the launch on and before row `most`: what they see of the block's segment is in *run, which begins where the first
 * one's view does. The row after them; i: there is no such row. */
K_CUDA_FN int k__cuda_run(const k_cuda_attend_args *a, int i, int most, int head, k__cuda_view *run) {
    k__cuda_view v;
    int          end = i + 1;
    if (!k__cuda_see(a, i, head, run)) return i;
    for (; end < most && k__cuda_see(a, end, head, &v) && v.table == run->table; end++) run->end = v.end > run->end ? v.end : run->end;
    k__cuda_segment(run, (run->begin / K_SEGMENT + K_CUDA_BLOCK_Y) * K_SEGMENT);
    return end;
}

K_CUDA_FN void k__cuda_attend_many(const k_cuda_attend_args *a) {
    K_CUDA_SHARED(k__cuda_asks, m, 1);
    const int rows = k__cuda_rows_of(a->group), i0 = K_CUDA_BLOCK_X / a->kv.n_head * rows, head = K_CUDA_BLOCK_X % a->kv.n_head;
    const int hd = a->kv.hd_k > a->kv.hd_v ? a->kv.hd_k : a->kv.hd_v, n_pos = hd <= 128 ? K_TILE : hd <= 256 ? K_TILE / 2 : K_TILE / 4;
    bool      again = false;
    k__cuda_view run;
    for (int i = i0, end; i < i0 + rows && (end = k__cuda_run(a, i, i0 + rows, head, &run)) > i; i = end) {
        if (run.lo >= run.hi) continue;
        const int n = (end - i) * a->group;
        for (int v0 = 0; v0 < n; v0 += n_pos, again = true) k__cuda_some(a, &run, m, i, v0, n - v0 < n_pos ? n - v0 : n_pos, n_pos, again);
    }
}

/* --- attention by tensor cores ---
 * As for many rows, and for few: a row gives the same bits alone, since its sums take the same mma, tile after tile at absolute multiples of
 * K_TILE, and what it does not see it multiplies with 0. (A value that is infinite or NaN spoils rows of its own sequence that do not see it,
 * too.) Heads go through shared memory 128 dimensions at a time. A warp has 8 positions of a tile for 16 query heads, and then every fourth 8
 * dimensions of their outputs. Where the CPU rounds factors to bf16 (k__kv_rounds), so does this; factors of f32 and f16 caches are two bf16
 * each, as weights are. */

enum { K__CUDA_DIMS = 128, K__CUDA_HEAD_WORDS = 68, K__CUDA_POS_WORDS = 20 };    /* of a part; dwords between two rows of pairs of dimensions, of positions */
enum { K__CUDA_CHUNKS = K_CUDA_DIMS / K__CUDA_DIMS };

typedef struct {
    k__cuda_words q[2][K_CUDA_ASKS * K__CUDA_HEAD_WORDS / 4];                    /* [part][head][dimensions] */
    union {
        k__cuda_words k[2][K_TILE * K__CUDA_HEAD_WORDS / 4];                     /* [part][position][dimensions] */
        uint32_t      v[2][K__CUDA_DIMS * K__CUDA_POS_WORDS];                    /* [part][dimension][positions] */
    } kv;
    k__cuda_two   s[K_CUDA_ASKS * K_TILE / 2];                                   /* [head][position] */
} k__cuda_tensor_mem;

/* Two values in bf16, and what rounding took. */
K_CUDA_FN void k__cuda_two_of(bool split, float low, float high, uint32_t *hi, uint32_t *lo) {
    *hi = k__cuda_bf16x2(low, high);
    *lo = split ? k__cuda_bf16x2(low - k__f32_of(*hi << 16), high - k__f32_of(*hi & 0xffff0000u)) : 0;
}

/* Eight values of a row to both parts, from dword `at` on. */
K_CUDA_FN void k__cuda_put8(bool split, const float x[8], k__cuda_words *hi, k__cuda_words *lo) {
    K_CUDA_UNROLL for (int i = 0; i < 4; i++) {
        uint32_t rest;
        k__cuda_two_of(split, x[2 * i], x[2 * i + 1], &hi->v[i], &rest);
        if (split) lo->v[i] = rest;
    }
}

/* Dimensions from d0 on that go to shared memory: to the next multiple of 16, zeros after the last one. */
K_CUDA_FN int k__cuda_dims(int hd, int d0) { return hd - d0 < K__CUDA_DIMS ? k__round_up(hd - d0, 16) : K__CUDA_DIMS; }

/* Dimensions from d0 on of all n queries; zeros after the last one. */
K_CUDA_FN void k__cuda_tensor_ask(bool split, const k_cuda_attend_args *a, const k__cuda_heads *m, int n, int d0, k__cuda_tensor_mem *t) {
    const int each = k__cuda_dims(a->kv.hd_k, d0) / 8;
    for (int i = K_CUDA_THREAD; i < each * K_CUDA_ASKS; i += K_CUDA_THREADS) {
        const int v = i / each, d = d0 + i % each * 8, to = v * K__CUDA_HEAD_WORDS / 4 + i % each;
        float     x[8];
        K_CUDA_UNROLL for (int k = 0; k < 8; k++) x[k] = v < n && d + k < a->kv.hd_k ? m->ask[v].q[d + k] : 0.0f;
        k__cuda_put8(split, x, &t->q[0][to], &t->q[1][to]);
    }
}

/* Dimensions from d0 on of the keys of the tile at `place`. */
K_CUDA_FN void k__cuda_tensor_keys(bool split, const k_cuda_attend_args *a, const k__cuda_view *v, int place, int d0, k__cuda_tensor_mem *t) {
    const int each = k__cuda_dims(a->kv.hd_k, d0) / 8;
    for (int i = K_CUDA_THREAD; i < each * K_TILE; i += K_CUDA_THREADS) {
        const int p = i / each, to = p * K__CUDA_HEAD_WORDS / 4 + i % each;
        float     x[8];
        k__cuda_widen(a->kv.type_k, k__cuda_kv_row(&a->kv, v, false, place + p), d0 + i % each * 8, a->kv.hd_k, x);
        k__cuda_put8(split, x, &t->kv.k[0][to], &t->kv.k[1][to]);
    }
}

/* The same of values, two positions to a dword. */
K_CUDA_FN void k__cuda_tensor_values(bool split, const k_cuda_attend_args *a, const k__cuda_view *v, int place, int d0, k__cuda_tensor_mem *t) {
    const int each = k__cuda_dims(a->kv.hd_v, d0) / 8;
    for (int i = K_CUDA_THREAD; i < each * K_TILE / 2; i += K_CUDA_THREADS) {
        const int p = i % (K_TILE / 2), d = i / (K_TILE / 2) * 8;
        float     x[2][8];
        K_CUDA_UNROLL for (int k = 0; k < 2; k++)
            k__cuda_widen(a->kv.type_v, k__cuda_kv_row(&a->kv, v, true, place + 2 * p + k), d0 + d, a->kv.hd_v, x[k]);
        K_CUDA_UNROLL for (int k = 0; k < 8; k++) {
            const int to = (d + k) * K__CUDA_POS_WORDS + p;
            uint32_t  rest;
            k__cuda_two_of(split, x[0][k], x[1][k], &t->kv.v[0][to], &rest);
            if (split) t->kv.v[1][to] = rest;
        }
    }
}

/* c += a b for 16 elements, of both parts: b at word `from` of hi and lo. */
K_CUDA_FN void k__cuda_mma_parts(bool split, const uint32_t a[2][4], const uint32_t *hi, const uint32_t *lo, int from, float c[4]) {
    if (split) {
        k__cuda_mma_bf16(c, a[1][0], a[1][1], a[1][2], a[1][3], hi[from], hi[from + 4]);
        k__cuda_mma_bf16(c, a[0][0], a[0][1], a[0][2], a[0][3], lo[from], lo[from + 4]);
    }
    k__cuda_mma_bf16(c, a[0][0], a[0][1], a[0][2], a[0][3], hi[from], hi[from + 4]);
}

/* Adds to c the products of 16 queries with 8 keys, `steps` times 16 dimensions: rows `strip` and positions `col` on. */
K_CUDA_FN void k__cuda_tensor_scores(bool split, const k__cuda_tensor_mem *t, int strip, int col, int steps, int lane, float c[4]) {
    const uint32_t *k[2] = {t->kv.k[0][0].v, t->kv.k[1][0].v};
    for (int i = 0; i < steps; i++) {
        const int from = 8 * i + lane % 4, row = (strip + lane / 4) * K__CUDA_HEAD_WORDS + from;
        uint32_t  a[2][4];
        K_CUDA_UNROLL for (int part = 0; part < 2; part++)
            K_CUDA_UNROLL for (int j = 0; j < 4; j++)
                a[part][j] = part && !split ? 0 : t->q[part][0].v[row + j % 2 * 8 * K__CUDA_HEAD_WORDS + j / 2 * 4];
        k__cuda_mma_parts(split, a, k[0], k[1], (col + lane / 4) * K__CUDA_HEAD_WORDS + from, c);
    }
}

/* Scores of n heads for the tile at `place`, whose keys and, where they do not stay there, queries go to shared memory. */
K_CUDA_FN void k__cuda_tensor_tile(const k_cuda_attend_args *a, const k__cuda_view *v, const k__cuda_heads *m, k__cuda_tensor_mem *t, int n, int place) {
    const bool split = !k__kv_rounds(a->kv.type_k);
    const int  lane = K_CUDA_THREAD % 32, warp = K_CUDA_THREAD / 32, strip = warp % 2 * 16, col = warp / 2 * 8, hd = a->kv.hd_k;
    float      c[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int d0 = 0; d0 < hd; d0 += K__CUDA_DIMS) {
        if (d0 || place > v->first) k__cuda_sync();   /* the values or keys before these are used */
        if (place == v->first || hd > K__CUDA_DIMS) k__cuda_tensor_ask(split, a, m, n, d0, t);
        k__cuda_tensor_keys(split, a, v, place, d0, t);
        k__cuda_sync();
        if (strip < n) k__cuda_tensor_scores(split, t, strip, col, k__cuda_dims(hd, d0) / 16, lane, c);
    }
    K_CUDA_UNROLL for (int i = 0; i < 2; i++) {
        const k__cuda_two w = {{c[2 * i], c[2 * i + 1]}};
        t->s[((strip + lane / 4 + 8 * i) * K_TILE + col) / 2 + lane % 4] = w;
    }
}

/* Weights of 16 heads and 16 positions, from position `from` on. */
K_CUDA_FN void k__cuda_tensor_weights(bool split, const k__cuda_tensor_mem *t, int strip, int from, int lane, uint32_t a[2][4]) {
    K_CUDA_UNROLL for (int j = 0; j < 4; j++) {
        const k__cuda_two w = t->s[((strip + lane / 4 + j % 2 * 8) * K_TILE + from) / 2 + lane % 4 + j / 2 * 4];
        k__cuda_two_of(split, w.v[0], w.v[1], &a[0][j], &a[1][j]);
    }
}

/* Adds the tile at `place` to the outputs: o[chunk][j] of a warp are dimensions 32j on after the warp's first ones. */
K_CUDA_FN void k__cuda_tensor_outputs(const k_cuda_attend_args *a, const k__cuda_view *v, const k__cuda_heads *m, k__cuda_tensor_mem *t, int n, int place,
                                      float o[K__CUDA_CHUNKS][4][4]) {
    const bool split = !k__kv_rounds(a->kv.type_v);
    const int  lane = K_CUDA_THREAD % 32, warp = K_CUDA_THREAD / 32, strip = warp % 2 * 16, first = warp / 2 * 8;
    K_CUDA_UNROLL for (int chunk = 0; chunk < K__CUDA_CHUNKS; chunk++) {
        const int dims = k__cuda_dims(a->kv.hd_v, chunk * K__CUDA_DIMS);
        if (dims <= 0) continue;
        if (chunk) k__cuda_sync();                    /* the values before these are used */
        k__cuda_tensor_values(split, a, v, place, chunk * K__CUDA_DIMS, t);
        k__cuda_sync();
        K_CUDA_UNROLL for (int j = 0; j < 4; j++)
            K_CUDA_UNROLL for (int i = 0; i < 4; i++) o[chunk][j][i] = o[chunk][j][i] * m->c[strip + lane / 4 + i / 2 * 8];
        K_CUDA_UNROLL for (int at = 0; at < K_TILE; at += 16) {
            uint32_t w[2][4];
            if (strip >= n) continue;
            k__cuda_tensor_weights(split, t, strip, at, lane, w);
            K_CUDA_UNROLL for (int j = 0; j < 4; j++)
                if (first + 32 * j < dims)
                    k__cuda_mma_parts(split, w, t->kv.v[0], t->kv.v[1], (first + 32 * j + lane / 4) * K__CUDA_POS_WORDS + at / 2 + lane % 4, o[chunk][j]);
        }
    }
}

K_CUDA_FN void k__cuda_tensor_results(const k__cuda_heads *m, int n, int hd, const k__attn_sum all[4], float o[K__CUDA_CHUNKS][4][4]) {
    const int lane = K_CUDA_THREAD % 32, warp = K_CUDA_THREAD / 32, strip = warp % 2 * 16, first = warp / 2 * 8;
    K_CUDA_UNROLL for (int chunk = 0; chunk < K__CUDA_CHUNKS; chunk++)
        K_CUDA_UNROLL for (int j = 0; j < 4; j++)
            K_CUDA_UNROLL for (int i = 0; i < 4; i++) {
                const int v = strip + lane / 4 + i / 2 * 8, d = chunk * K__CUDA_DIMS + first + 32 * j + lane % 4 * 2 + i % 2;
                if (v < n && d < hd && m->ask[v].o) m->ask[v].o[d] = o[chunk][j][i];
            }
    K_CUDA_UNROLL for (int j = 0; j < K_CUDA_ASKS / K_CUDA_WARPS; j++) {
        const int v = warp + j * K_CUDA_WARPS;
        if (lane == 0 && v < n && m->ask[v].sum) *m->ask[v].sum = all[j];
    }
}

/* Heads v0 .. v0 + n - 1 of rows i, i + 1, ..., which see parts of `run`; again: not the first ones of the block. */
K_CUDA_FN void k__cuda_tensor_some(const k_cuda_attend_args *a, const k__cuda_view *run, k__cuda_heads *m, k__cuda_tensor_mem *t, int i, int v0, int n, bool again) {
    k__attn_sum all[4];
    float       o[K__CUDA_CHUNKS][4][4];
    K_CUDA_UNROLL for (int k = 0; k < K__CUDA_CHUNKS * 16; k++) o[k / 16][k / 4 % 4][k % 4] = 0.0f;
    K_CUDA_UNROLL for (int j = 0; j < 4; j++) all[j].m = -INFINITY, all[j].l = 0.0f;
    if (again) k__cuda_sync();                        /* the heads before these are done */
    if (K_CUDA_THREAD < n) k__cuda_asker_of(a, run, i, v0 + K_CUDA_THREAD, &m->ask[K_CUDA_THREAD]);
    k__cuda_sync();
    for (int place = run->first; place < run->last; place += K_TILE) {
        k__cuda_tensor_tile(a, run, m, t, n, place);
        k__cuda_sync();
        k__cuda_weigh_tile(a, m, n, place, (float *)(void *)t->s, all);
        k__cuda_tensor_outputs(a, run, m, t, n, place, o);
    }
    k__cuda_tensor_results(m, n, a->kv.hd_v, all, o);
}

K_CUDA_FN void k__cuda_attend_tensor(const k_cuda_attend_args *a) {
    K_CUDA_SHARED(k__cuda_tensor_mem, t, 1);
    K_CUDA_SHARED(k__cuda_heads, m, 1);
    const int rows = k__cuda_rows_of(a->group), i0 = K_CUDA_BLOCK_X / a->kv.n_head * rows, head = K_CUDA_BLOCK_X % a->kv.n_head;
    bool      again = false;
    k__cuda_view run;
    for (int i = i0, end; i < i0 + rows && (end = k__cuda_run(a, i, i0 + rows, head, &run)) > i; i = end) {
        if (run.lo >= run.hi) continue;
        const int n = (end - i) * a->group;
        for (int v0 = 0; v0 < n; v0 += K_CUDA_ASKS, again = true)
            k__cuda_tensor_some(a, &run, m, t, i, v0, n - v0 < K_CUDA_ASKS ? n - v0 : K_CUDA_ASKS, again);
    }
}

/* --- attention where both caches are q8_0 --- */

/* Codes of the query of head h, in pairs [ld / 2]; returns what a code stands for. The whole warp takes part. */
K_CUDA_FN float k__cuda_ask8(const k_cuda_attend_args *a, const float *x, int ld, uint32_t *q) {
    const int lane = K_CUDA_THREAD % 32, hd = a->kv.hd_k;
    float     top = 0.0f, bad = 0.0f;
    for (int d = lane; d < hd; d += 32) {
        const float m = fabsf(x[d]);
        top = m > top ? m : top;
        if (!(m < INFINITY)) bad = 1.0f;
    }
    top = k__cuda_most(top), bad = k__cuda_most(bad);
    const float f = k__attn8_codes(top, bad > 0.0f);
    for (int d = 2 * lane; d < ld; d += 64) {
        const int even = d < hd ? k__attn8_round(x[d] * f) : 0, odd = d < hd ? k__attn8_round(x[d + 1] * f) : 0;
        q[d / 2] = (uint32_t)(even & 0xffff) | (uint32_t)odd << 16;
    }
    return k__attn8_unit(top, bad > 0.0f);
}

/* Products of R heads, without the scale of the query; q[head][ld / 2]. */
K_CUDA_FN void k__cuda_scores8(int R, const k_cuda_attend_args *a, const k__cuda_view *v, const uint32_t *q, float *s) {
    const int ld = k__round_up(a->kv.hd_k, 32);
    for (int place = v->first + K_CUDA_THREAD; place < v->last; place += K_CUDA_THREADS) {
        const uint8_t *b = k__cuda_kv_row(&a->kv, v, false, place);
        float          x[K_CUDA_HEADS];
        K_CUDA_UNROLL for (int r = 0; r < R; r++) x[r] = 0.0f;
        for (int d = 0; b && d < ld; d += 32, b += sizeof(block_q8_0)) {
            const float scale = k__cuda_half(k__cuda_ld16(b));
            int         sum[K_CUDA_HEADS];
            K_CUDA_UNROLL for (int r = 0; r < R; r++) sum[r] = 0;
            K_CUDA_ROLL for (int j = 0; j < 16; j += 4) {
                uint32_t k[4];
                K_CUDA_UNROLL for (int i = 0; i < 4; i++) k[i] = k__cuda_ld16(b + 2 + 2 * (j + i));
                K_CUDA_UNROLL for (int r = 0; r < R; r++) {
                    const k__cuda_words w = *(const k__cuda_words *)(const void *)(q + (r * ld + d) / 2 + j);
                    K_CUDA_UNROLL for (int i = 0; i < 4; i++) sum[r] = k__cuda_dp2a(w.v[i], k[i], sum[r]);
                }
            }
            K_CUDA_UNROLL for (int r = 0; r < R; r++) x[r] = d ? fmaf((float)sum[r], scale, x[r]) : (float)sum[r] * scale;
        }
        K_CUDA_UNROLL for (int r = 0; r < R; r++) s[r * K_SEGMENT + place] = x[r];
    }
}

/* Products of head h to weights p; their sums. unit: what a code of the query stands for. The whole warp takes part. */
K_CUDA_FN k__attn_sum k__cuda_weigh8(const k_cuda_attend_args *a, const k__cuda_view *v, int h, float unit, float *s) {
    const int lane = K_CUDA_THREAD % 32;
    float     m = -INFINITY, l = 0.0f;
    for (int i = v->first + lane; i < v->last; i += 32) {
        const float top = k__cuda_shape(i >= v->lo && i < v->hi, unit * a->scale, a->cap, k__cuda_slope(a, v, h), v->base - v->at + i, s + i);
        m = top > m ? top : m;
    }
    for (int i = v->first + lane; i < v->last; i += 32) {
        s[i] = k__exp_ref(s[i] - (m == -INFINITY ? 0.0f : m));
        l = l + s[i];
    }
    l = k__cuda_add(l);
    const k__attn_sum all = {m, l};
    return all;
}

/* Weights of a head for a block of V, in pairs of positions, from p and the scales of the positions; returns what a step stands for. */
K_CUDA_FN float k__cuda_round8(const k__cuda_view *v, const float *p, const float *dv, uint32_t *w) {
    const int lane = K_CUDA_THREAD % 32;
    float     top = 0.0f;
    for (int i = v->first + lane; i < v->last; i += 32) {
        const float x = fabsf(p[i] * dv[i]);
        top = x > top ? x : top;
    }
    top = k__cuda_most(top);
    const float f = k__attn8_steps(top);
    for (int i = v->first + 2 * lane; i < v->last; i += 64) {
        const int even = k__attn8_round(p[i] * dv[i] * f), odd = k__attn8_round(p[i + 1] * dv[i + 1] * f);
        w[i / 2] = (uint32_t)(even & 0xffff) | (uint32_t)odd << 16;
    }
    return k__attn8_step(top);
}

/* Sums of one dimension of V (the thread's lane) for R heads, over the warp's pairs of positions: sum[head][lane]. */
K_CUDA_FN void k__cuda_gather8(int R, const k__cuda_view *v, const uint8_t *const *row, size_t at, const uint32_t *w, int *sum) {
    const int lane = K_CUDA_THREAD % 32;
    int       acc[K_CUDA_HEADS];
    K_CUDA_UNROLL for (int r = 0; r < R; r++) acc[r] = 0;
    for (int i = v->first / 2 + K_CUDA_THREAD / 32; i < v->last / 2; i += K_CUDA_WARPS) {
        const uint8_t *a = row[2 * i], *b = row[2 * i + 1];
        const uint32_t k = (a ? a[at + (size_t)lane] : 0u) | (b ? b[at + (size_t)lane] : 0u) << 8;
        K_CUDA_UNROLL for (int r = 0; r < R; r++) acc[r] = k__cuda_dp2a(w[r * (K_SEGMENT / 2) + i], k, acc[r]);
    }
    K_CUDA_UNROLL for (int r = 0; r < R; r++) sum[32 * r + lane] = acc[r];
}

/* Shared memory of a block. */
typedef struct {
    uint32_t       *q;                                /* [head][ld_k / 2] codes of queries */
    int            *sum;                              /* [warp][head][32], in the same place */
    float          *s, *dv, *unit, *step;             /* [head][K_SEGMENT], [K_SEGMENT], [head], [head] */
    uint32_t       *w;                                /* [head][K_SEGMENT / 2] */
    const uint8_t **row;                              /* [K_SEGMENT] values */
} k__cuda_codes8;

/* Block g of V: outputs of n heads. */
K_CUDA_FN void k__cuda_values8(const k_cuda_attend_args *a, const k__cuda_view *v, const k__cuda_codes8 *c, int R, int n, int g, float *o) {
    const int    me = K_CUDA_THREAD, warp = me / 32;
    const size_t at = (size_t)g * sizeof(block_q8_0), ld = (size_t)k__round_up(a->kv.hd_v, 32);
    for (int i = v->first + me; i < v->last; i += K_CUDA_THREADS) c->dv[i] = c->row[i] ? k__attn8_scale(k__cuda_half(k__cuda_ld16(c->row[i] + at))) : 0.0f;
    k__cuda_sync();
    if (warp < n) c->step[warp] = k__cuda_round8(v, c->s + warp * K_SEGMENT, c->dv, c->w + warp * (K_SEGMENT / 2));
    k__cuda_sync();
    int *sum = c->sum + warp * 32 * K_CUDA_HEADS;
    if (R == 8) k__cuda_gather8(8, v, c->row, at + 2, c->w, sum);
    else if (R == 4) k__cuda_gather8(4, v, c->row, at + 2, c->w, sum);
    else k__cuda_gather8(1, v, c->row, at + 2, c->w, sum);
    k__cuda_sync();
    if (warp >= n) return;
    int all = 0;
    for (int i = 0; i < K_CUDA_WARPS; i++) all += c->sum[i * 32 * K_CUDA_HEADS + me];
    o[(size_t)warp * ld + (size_t)(32 * g + me % 32)] = (float)all * c->step[warp];
}

K_CUDA_FN void k__cuda_attend_codes(const k_cuda_attend_args *a) {
    K_CUDA_SHARED(k__cuda_words, both, K_CUDA_WARPS * K_CUDA_HEADS * 32 / 4);
    K_CUDA_SHARED(float, s, K_CUDA_HEADS * K_SEGMENT);
    K_CUDA_SHARED(uint32_t, w, K_CUDA_HEADS * K_SEGMENT / 2);
    K_CUDA_SHARED(const uint8_t *, row, K_SEGMENT);
    K_CUDA_SHARED(float, dv, K_SEGMENT);
    K_CUDA_SHARED(float, unit, K_CUDA_HEADS);
    K_CUDA_SHARED(float, step, K_CUDA_HEADS);
    const k__cuda_codes8 c = {(uint32_t *)(void *)both, (int *)(void *)both, s, dv, unit, step, w, row};
    const int           me = K_CUDA_THREAD, warp = me / 32, ld = k__round_up(a->kv.hd_k, 32), ld_v = k__round_up(a->kv.hd_v, 32);
    k__cuda_view        v;
    if (!k__cuda_view_of_block(a, &v)) return;
    float *part = k__cuda_part(a, &v, K_CUDA_BLOCK_Y);
    for (int i = v.first + me; i < v.last; i += K_CUDA_THREADS) row[i] = k__cuda_kv_row(&a->kv, &v, true, i);
    for (int h = 0; h < a->group; h += K_CUDA_HEADS) {
        const int n = a->group - h < K_CUDA_HEADS ? a->group - h : K_CUDA_HEADS, R = n > 4 ? 8 : n > 1 ? 4 : 1;
        if (h) k__cuda_sync();                        /* the heads before these are done */
        if (warp < n) unit[warp] = k__cuda_ask8(a, k__cuda_query(a, &v, h + warp), ld, c.q + warp * ld / 2);
        k__cuda_sync();
        if (R == 8) k__cuda_scores8(8, a, &v, c.q, s);
        else if (R == 4) k__cuda_scores8(4, a, &v, c.q, s);
        else k__cuda_scores8(1, a, &v, c.q, s);
        k__cuda_sync();
        if (warp < n) {
            const k__attn_sum all = k__cuda_weigh8(a, &v, h + warp, unit[warp], s + warp * K_SEGMENT);
            if (me % 32 == 0) *k__cuda_part_sum(a, part, h + warp) = all;
        }
        for (int g = 0; g < ld_v / 32; g++) k__cuda_values8(a, &v, &c, R, n, g, part + (size_t)h * (size_t)ld_v);
    }
}

/* --- the same for many rows ---
 * Up to K_CUDA_ASKS query heads of some rows of a sequence go through a segment together, 4 to a warp. A lane has one position of each tile, and keeps the
 * scores of all tiles in registers, since the steps of weights are known after the last one. Blocks of V come one by one: a lane has one dimension. */

enum { K_CUDA_EACH = K_CUDA_ASKS / K_CUDA_WARPS };    /* query heads of a warp */

typedef struct {
    k__cuda_words q[1024];                            /* [head][ld_k / 8] codes of queries, in pairs */
    uint32_t      code[K_TILE * (K_CUDA_DIMS / 4 + 1)];   /* [position][ld_k / 4 + 1] a tile of keys: threads use all banks */
    float         scale[K_TILE * K_CUDA_DIMS / 32];   /* [block of the key][position] */
} k__cuda_keys8;

typedef struct {
    uint16_t      code[K_SEGMENT / 2][32];            /* a block of V, in pairs of positions */
    float         scale[K_SEGMENT];
    k__cuda_words w[K_CUDA_WARPS][K_CUDA_EACH][4];    /* weights of a tile, in pairs */
} k__cuda_block8;

typedef struct {
    union { k__cuda_keys8 k; k__cuda_block8 v; };
    const uint8_t *row[K_SEGMENT];                    /* values */
    k__cuda_asker  ask[K_CUDA_ASKS];
    float          unit[K_CUDA_ASKS];                 /* what a code of the query stands for, times the scale of scores */
} k__cuda_asks8;

/* Heads first .. first + n - 1 of a warp, and what its lane has of them: scores, then weights; a lane's position in each tile. */
typedef struct {
    int   first, n;
    float p[K_CUDA_TILES][K_CUDA_EACH];
} k__cuda_warp8;

/* Keys of the tile at `place`. */
K_CUDA_FN void k__cuda_fetch_keys8(const k_cuda_attend_args *a, const k__cuda_view *v, int ld, int place, k__cuda_keys8 *to) {
    const int each = ld / 8;
    for (int i = K_CUDA_THREAD; i < K_TILE * each; i += K_CUDA_THREADS) {
        const int      p = i / each, d = i % each * 8;
        const uint8_t *row = k__cuda_kv_row(&a->kv, v, false, place + p), *b = row ? row + d / 32 * (int)sizeof(block_q8_0) : NULL;
        uint32_t       w[2] = {0, 0};
        K_CUDA_UNROLL for (int k = 0; k < 4; k++)
            if (b) w[k / 2] |= (uint32_t)k__cuda_ld16(b + 2 + d % 32 + 2 * k) << k % 2 * 16;
        K_CUDA_UNROLL for (int k = 0; k < 2; k++) to->code[p * (ld / 4 + 1) + d / 4 + k] = w[k];
        if (d % 32 == 0) to->scale[d + p] = b ? k__cuda_half(k__cuda_ld16(b)) : 0.0f;
    }
}

/* Products of the warp's heads with the lane's key, without the scale of the query. */
K_CUDA_FN void k__cuda_products8(const k__cuda_keys8 *m, int ld, int first, float x[K_CUDA_EACH]) {
    const int       lane = K_CUDA_THREAD % 32;
    const uint32_t *code = m->code + lane * (ld / 4 + 1);
    K_CUDA_UNROLL for (int r = 0; r < K_CUDA_EACH; r++) x[r] = 0.0f;
    for (int d = 0; d < ld; d += 32) {
        int sum[K_CUDA_EACH];
        K_CUDA_UNROLL for (int r = 0; r < K_CUDA_EACH; r++) sum[r] = 0;
        K_CUDA_UNROLL for (int j = 0; j < 32; j += 8) {
            const uint32_t low = code[(d + j) / 4], high = code[(d + j) / 4 + 1];
            K_CUDA_UNROLL for (int r = 0; r < K_CUDA_EACH; r++) {
                const k__cuda_words q = m->q[((first + r) * ld + d + j) / 8];
                sum[r] = k__cuda_dp2a(q.v[0], low, sum[r]), sum[r] = k__cuda_dp2a(q.v[1], low >> 16, sum[r]);
                sum[r] = k__cuda_dp2a(q.v[2], high, sum[r]), sum[r] = k__cuda_dp2a(q.v[3], high >> 16, sum[r]);
            }
        }
        K_CUDA_UNROLL for (int r = 0; r < K_CUDA_EACH; r++) x[r] = d ? fmaf((float)sum[r], m->scale[d + lane], x[r]) : (float)sum[r] * m->scale[d + lane];
    }
}

/* Scores of the warp's heads for a tile. */
K_CUDA_FN void k__cuda_score8(const k_cuda_attend_args *a, const k__cuda_asks8 *m, int ld, int tile, k__cuda_warp8 *me) {
    const int place = K_TILE * tile + K_CUDA_THREAD % 32;
    float     x[K_CUDA_EACH];
    k__cuda_products8(&m->k, ld, me->first, x);
    K_CUDA_UNROLL for (int r = 0; r < K_CUDA_EACH; r++) {
        if (r >= me->n) continue;
        const k__cuda_asker *ask = &m->ask[me->first + r];
        const bool           there = place >= ask->lo && place < ask->hi;
        const float          s = there ? k__attn_shape(x[r] * m->unit[me->first + r], a->cap, ask->slope, ask->far + place) : -INFINITY;
        K_CUDA_UNROLL for (int t = 0; t < K_CUDA_TILES; t++) me->p[t][r] = t == tile ? s : me->p[t][r];   /* registers have no index */
    }
}

/* Scores of the warp's heads to weights; their sums go where `ask` says. */
K_CUDA_FN void k__cuda_weigh_warp8(const k__cuda_asker *ask, k__cuda_warp8 *me) {
    K_CUDA_UNROLL for (int r = 0; r < K_CUDA_EACH; r++) {
        k__attn_sum all = {-INFINITY, 0.0f};
        K_CUDA_UNROLL for (int t = 0; t < K_CUDA_TILES; t++) all.m = me->p[t][r] > all.m ? me->p[t][r] : all.m;
        all.m = k__cuda_most(all.m);
        K_CUDA_UNROLL for (int t = 0; t < K_CUDA_TILES; t++) {
            me->p[t][r] = k__exp_ref(me->p[t][r] - (all.m == -INFINITY ? 0.0f : all.m));
            all.l = all.l + me->p[t][r];
        }
        all.l = k__cuda_add(all.l);
        if (K_CUDA_THREAD % 32 == 0 && r < me->n && ask[me->first + r].sum) *ask[me->first + r].sum = all;
    }
}

/* Values whose codes begin at byte `at` of their rows, and their scales. */
K_CUDA_FN void k__cuda_fetch_block8(const k__cuda_view *v, size_t at, const uint8_t *const *row, k__cuda_block8 *to) {
    const int me = K_CUDA_THREAD;
    for (int i = v->first * 8 + me; i < v->last * 8; i += K_CUDA_THREADS) {
        const int      pair = i / 16, d = i % 16 * 2;
        const uint8_t *a = row[2 * pair], *b = row[2 * pair + 1];
        const uint32_t even = a ? k__cuda_ld16(a + at + d) : 0u, odd = b ? k__cuda_ld16(b + at + d) : 0u;
        to->code[pair][d] = (uint16_t)((even & 255) | (odd & 255) << 8);
        to->code[pair][d + 1] = (uint16_t)(even >> 8 | (odd >> 8) << 8);
    }
    for (int i = v->first + me; i < v->last; i += K_CUDA_THREADS) to->scale[i] = row[i] ? k__attn8_scale(k__cuda_half(k__cuda_ld16(row[i] + at - 2))) : 0.0f;
}

/* The largest weight of head r that contains the scale of its position. */
K_CUDA_FN float k__cuda_top8(const k__cuda_view *v, const float *scale, const k__cuda_warp8 *me, int r) {
    float top = 0.0f;
    K_CUDA_UNROLL for (int t = 0; t < K_CUDA_TILES; t++) {
        const int   place = K_TILE * t + K_CUDA_THREAD % 32;
        const float x = place >= v->first && place < v->last ? fabsf(me->p[t][r] * scale[place]) : 0.0f;
        top = x > top ? x : top;
    }
    return k__cuda_most(top);
}

/* Adds a tile's values, of which a lane has one dimension, to the sums of the warp's heads. */
K_CUDA_FN void k__cuda_add8(const k__cuda_block8 *m, int tile, int acc[K_CUDA_EACH]) {
    const k__cuda_words (*w)[4] = m->w[K_CUDA_THREAD / 32];
    K_CUDA_ROLL for (int i = 0; i < 4; i++) {
        const uint16_t *code = m->code[K_TILE / 2 * tile + 4 * i] + K_CUDA_THREAD % 32;
        K_CUDA_UNROLL for (int r = 0; r < K_CUDA_EACH; r++) {
            const k__cuda_words four = w[r][i];
            K_CUDA_UNROLL for (int k = 0; k < 4; k++) acc[r] = k__cuda_dp2a(four.v[k], code[32 * k], acc[r]);
        }
    }
}

/* Outputs of the warp's heads for block g of V. */
K_CUDA_FN void k__cuda_outputs8(const k__cuda_view *v, k__cuda_asks8 *m, const k__cuda_warp8 *me, int g) {
    const int      lane = K_CUDA_THREAD % 32;
    k__cuda_words (*w)[4] = m->v.w[K_CUDA_THREAD / 32];
    float          top[K_CUDA_EACH];
    int            acc[K_CUDA_EACH];
    K_CUDA_UNROLL for (int r = 0; r < K_CUDA_EACH; r++) top[r] = k__cuda_top8(v, m->v.scale, me, r), acc[r] = 0;
    K_CUDA_UNROLL for (int t = 0; t < K_CUDA_TILES; t++) {
        if (K_TILE * t < v->first || K_TILE * t >= v->last) continue;
        k__cuda_sync_warp();                          /* the weights before these are used */
        K_CUDA_UNROLL for (int r = 0; r < K_CUDA_EACH; r++) {
            const int own = k__attn8_round(me->p[t][r] * m->v.scale[K_TILE * t + lane] * k__attn8_steps(top[r]));
            const int other = (int)k__cuda_other((float)own, 1);
            if (lane % 2 == 0) w[r][lane / 8].v[lane % 8 / 2] = (uint32_t)(own & 0xffff) | (uint32_t)other << 16;
        }
        k__cuda_sync_warp();
        k__cuda_add8(&m->v, t, acc);
    }
    K_CUDA_UNROLL for (int r = 0; r < K_CUDA_EACH; r++)
        if (r < me->n && m->ask[me->first + r].o) m->ask[me->first + r].o[32 * g + lane] = (float)acc[r] * k__attn8_step(top[r]);
}

/* Heads v0 .. v0 + n - 1 of rows i, i + 1, ..., which see parts of `run`; again: not the first ones of the block. */
K_CUDA_FN void k__cuda_some8(const k_cuda_attend_args *a, const k__cuda_view *run, k__cuda_asks8 *m, int i, int v0, int n, bool again) {
    const int     me = K_CUDA_THREAD, ld = k__round_up(a->kv.hd_k, 32), first = me / 32 * K_CUDA_EACH;
    k__cuda_warp8 w;
    w.first = first, w.n = n - first;
    K_CUDA_UNROLL for (int t = 0; t < K_CUDA_TILES; t++)
        K_CUDA_UNROLL for (int r = 0; r < K_CUDA_EACH; r++) w.p[t][r] = -INFINITY;
    if (again) k__cuda_sync();                        /* the heads before these are done */
    if (me < n) k__cuda_asker_of(a, run, i, v0 + me, &m->ask[me]);
    for (int p = run->first + me; p < run->last; p += K_CUDA_THREADS) m->row[p] = k__cuda_kv_row(&a->kv, run, true, p);
    k__cuda_sync();
    for (int h = first; h < n && h < first + K_CUDA_EACH; h++) {
        const float unit = k__cuda_ask8(a, m->ask[h].q, ld, (uint32_t *)(void *)m->k.q + h * ld / 2);
        if (me % 32 == 0) m->unit[h] = unit * a->scale;
    }
    for (int tile = run->first / K_TILE; tile < run->last / K_TILE; tile++) {
        if (tile > run->first / K_TILE) k__cuda_sync();   /* the keys before these are used */
        k__cuda_fetch_keys8(a, run, ld, K_TILE * tile, &m->k);
        k__cuda_sync();
        if (w.n > 0) k__cuda_score8(a, m, ld, tile, &w);
    }
    k__cuda_weigh_warp8(m->ask, &w);
    for (int g = 0; g < k__round_up(a->kv.hd_v, 32) / 32; g++) {
        k__cuda_sync();                               /* the keys, or the values before these, are used */
        k__cuda_fetch_block8(run, (size_t)g * sizeof(block_q8_0) + 2, m->row, &m->v);
        k__cuda_sync();
        if (w.n > 0) k__cuda_outputs8(run, m, &w, g);
    }
}

K_CUDA_FN void k__cuda_attend_codes_many(const k_cuda_attend_args *a) {
    K_CUDA_SHARED(k__cuda_asks8, m, 1);
    const int rows = k__cuda_rows_of(a->group), i0 = K_CUDA_BLOCK_X / a->kv.n_head * rows, head = K_CUDA_BLOCK_X % a->kv.n_head;
    const int most = a->kv.hd_k <= 256 ? K_CUDA_ASKS : K_CUDA_ASKS / 2;   /* queries in shared memory */
    bool         again = false;
    k__cuda_view run;
    for (int i = i0, end; i < i0 + rows && (end = k__cuda_run(a, i, i0 + rows, head, &run)) > i; i = end) {
        if (run.lo >= run.hi) continue;
        const int n = (end - i) * a->group;
        for (int v0 = 0; v0 < n; v0 += most, again = true) k__cuda_some8(a, &run, m, i, v0, n - v0 < most ? n - v0 : most, again);
    }
}

/* --- segments to results --- */

K_CUDA_FN void k__cuda_attend_merge(const k_cuda_attend_args *a) {
    const int    hd = a->kv.hd_v;
    k__cuda_view v;
    if (!k__cuda_see(a, K_CUDA_BLOCK_X / a->kv.n_head, K_CUDA_BLOCK_X % a->kv.n_head, &v)) return;
    const int n = v.begin < v.end ? (v.end - 1) / K_SEGMENT - v.begin / K_SEGMENT + 1 : 0;
    for (int i = K_CUDA_THREAD; i < a->group * hd; i += K_CUDA_THREADS) {
        const int   h = i / hd, d = i % hd, head = v.head * a->group + h;
        k__attn_sum all = {-INFINITY, 0.0f};
        float       o = 0.0f, *part = k__cuda_part(a, &v, 0);
        for (int s = 0; s < n; s++, part += k__attn_part(a->group, hd)) {
            const float        x = part[(size_t)h * (size_t)k__round_up(hd, 32) + (size_t)d];
            const k__attn_sum *sum = k__cuda_part_sum(a, part, h);
            float              f, g;
            if (s) {
                k__attn_factors(k__exp_ref, &all, sum, &f, &g);
                o = o * f + x * g;
            } else {
                all = *sum, o = x;
            }
        }
        a->o.x[(size_t)v.row * a->o.ld + (size_t)head * (size_t)hd + (size_t)d] = o * k__attn_share(all, a->sinks ? a->sinks + head : NULL) + 0.0f;
    }
}

/* --- packing ---
 * A thread block packs a strip, or every so many columns of it, K_CUDA_PACK blocks of 256 columns at a time: a thread unpacks a block of
 * one row and writes its scales, then a thread writes the words of codes that a lane has of 64 columns. */

enum { K_CUDA_PACK = 4 };

K_CUDA_FN k__form k__cuda_form_of(uint32_t type) {
#define K__CUDA_FORM(id, name, ...) case K_##id: { const k__form f = {__VA_ARGS__}; return f; }
    switch (type) {
    K__FORMS(K__CUDA_FORM)
    default: break;
    }
    const k__form none = {0, 0, 0, 0, 0, 0, NULL};
    return none;
}

K_CUDA_FN void k__cuda_decode(uint32_t type, const void *src, int n, k_urow *u) {
#define K__CUDA_DECODE(id, name, ...) case K_##id: k_unpack_##name(src, n, u); break;
    switch (type) {
    K__FORMS(K__CUDA_DECODE)
    default: break;
    }
}

/* Row r of the strip in block b of the matrix. */
K_CUDA_FN void k__cuda_unpack(const k_cuda_pack_args *a, int r, int b, k__unpacked *u) {
    const int row = K_PACK_ROWS * K_CUDA_BLOCK_X + r, left = a->n - K_SUPER * b, len = left < K_SUPER ? left : K_SUPER;
    k_urow    to;
    to.q = u->q, to.sc = u->sc, to.mn = u->mn, to.d = &u->d, to.dm = &u->dm, to.fs = u->fs, to.fm = u->fm;
    if (row >= a->nr || len < K_SUPER) memset(u, 0, sizeof *u);
    if (row < a->nr) k__cuda_decode(a->type, a->src + (size_t)row * a->row_bytes + (size_t)b * a->block_bytes, len, &to);
}

/* Units that block b of a row has. */
K_CUDA_FN int k__cuda_units(const k__form *f, const k_cuda_pack_args *a, int b) {
    const int left = a->n - K_SUPER * b;
    return (int)k__units(f, left < K_SUPER ? left : K_SUPER);
}

/* The scales of row r in block b, whose units are at `block`. */
K_CUDA_FN void k__cuda_put_heads(const k__form *f, const k_cuda_pack_args *a, const k__unpacked *u, int b, int r, uint8_t *block) {
    uint8_t *h = block + k__head_at(f);
    for (int i = 0; i < k__cuda_units(f, a, b); i++, h += k__unit_bytes(f)) {
        uint32_t v[5];
        k__head_row(f, u, 64 * f->segs * i, v);
        K_CUDA_UNROLL for (int k = 0; k < 5; k++)
            if (k < k__head_lines(f->head)) memcpy(h + k__cuda_head_at(f->head, r, k), &v[k], 4);
    }
}

/* A lane's words of 64 columns, number s of their unit, whose codes are at p. */
K_CUDA_FN void k__cuda_put_codes(const k__form *f, const k__cuda_line *line, int s, int lane, uint8_t *p) {
    for (int b = 1; b <= 8; b *= 2)
        for (int i = 0; f->bits & b && i < b; i++) {
            const uint32_t v = k__cuda_word(f->bits, b, i, lane, line);
            memcpy(p + k__cuda_word_at(f->bits, f->segs, b, b * s + i, lane), &v, 4);
        }
}

K_CUDA_FN void k__cuda_pack(const k_cuda_pack_args *a) {
    K_CUDA_SHARED(k__unpacked, u, K_CUDA_PACK * K_PACK_ROWS);
    K_CUDA_SHARED(k__cuda_line, line, K_CUDA_PACK * 4 * 16);    /* [block][64 columns][k-line][row] */
    K_CUDA_SHARED(uint8_t, code, 256);
    const k__form form = k__cuda_form_of(a->type), *f = &form;
    const int    me = K_CUDA_THREAD, nb = (a->n + K_SUPER - 1) / K_SUPER;
    const size_t unit = k__unit_bytes(f), block = unit * (size_t)(4 / f->segs);
    uint8_t     *strip = a->dst + (size_t)K_CUDA_BLOCK_X * ((size_t)k__units(f, a->n) * unit);
    if (me == 0) k__codes_of(f, code);
    for (int b0 = K_CUDA_PACK * K_CUDA_BLOCK_Y; b0 < nb; b0 += K_CUDA_PACK * K_CUDA_GRID_Y) {
        const int n = nb - b0 < K_CUDA_PACK ? nb - b0 : K_CUDA_PACK;
        if (me < n * K_PACK_ROWS) {
            const int b = b0 + me / K_PACK_ROWS, r = me % K_PACK_ROWS;
            k__cuda_unpack(a, r, b, u + me);
            k__cuda_put_heads(f, a, u + me, b, r, strip + (size_t)b * block);
        }
        k__cuda_sync();
        for (int i = me; i < n * 4 * 16 * K_PACK_ROWS; i += K_CUDA_THREADS) {
            const int     r = i % K_PACK_ROWS, k = i / K_PACK_ROWS, s = k / 16;
            const int8_t *q = u[s / 4 * K_PACK_ROWS + r].q + s % 4 * 64 + k % 16 * 4;
            uint32_t      v = 0;
            for (int j = 0; j < 4; j++) v |= (uint32_t)k__code_of(f, code, q[j]) << 8 * j;
            line[k][r] = v;
        }
        k__cuda_sync();
        for (int i = me; i < n * 4 * 32; i += K_CUDA_THREADS) {
            const int s = i / 32, b = b0 + s / 4, at = s % 4 / f->segs;
            if (at < k__cuda_units(f, a, b))
                k__cuda_put_codes(f, line + 16 * s, s % f->segs, i % 32, strip + (size_t)b * block + (size_t)at * unit + k__codes_at(f));
        }
    }
}

/* --- kernels --- */

K_CUDA_KERNEL(k_cuda_sort)(const k_cuda_sort_args a) {
    K_CUDA_SHARED(k__cuda_sort_mem, m, 1);
    const int n = a.step->n[a.set] * a.used;
    for (int i = K_CUDA_THREAD; i < K__CUDA_WARPS * a.n_expert; i += K_CUDA_THREADS) m->at[i / a.n_expert][i % a.n_expert] = 0;
    k__cuda_sync();
    k__cuda_slots(&a, n, false, m);
    k__cuda_sync();
    k__cuda_begins(&a, m);
    k__cuda_sync();
    k__cuda_slots(&a, n, true, m);
}

K_CUDA_KERNEL(k_cuda_best)(const k_cuda_best_args a) {
    K_CUDA_SHARED(k__cuda_score, of, K__CUDA_WARPS);
    const int     r = K_CUDA_BLOCK_X;
    k__cuda_score best = {-INFINITY, 0.0f, -1};
    if (r >= a.step->n[a.set]) return;
    const float *x = a.x.x + (size_t)r * a.x.ld;
    for (int i = K_CUDA_THREAD; i < a.n; i += K_CUDA_THREADS) {
        const k__cuda_score s = {fabsf(x[i]) < INFINITY ? x[i] : INFINITY, 0.0f, i};
        best = k__cuda_better(best, s);
    }
    best = k__cuda_best_of(best);
    if (K_CUDA_THREAD % 32 == 0) of[K_CUDA_THREAD / 32] = best;
    k__cuda_sync();
    if (K_CUDA_THREAD) return;
    for (int i = 1; i < K__CUDA_WARPS; i++) best = k__cuda_better(best, of[i]);
    a.out[r] = best.v < INFINITY ? best.at : -1;
}

K_CUDA_KERNEL(k_cuda_rows)(const k_cuda_rows_args a) {
    K_CUDA_SHARED(k__cuda_rows_mem, m, 1);
    int i = 0, r = K_CUDA_BLOCK_X;
    if (K_CUDA_THREAD < a.n) m->op[K_CUDA_THREAD] = a.op[K_CUDA_THREAD];
    k__cuda_sync();
    for (int n; i < a.n && r >= (n = a.step->n[m->op[i].set] * (m->op[i].each > 1 ? m->op[i].each : 1)); r -= n)
        do i++;
        while (i < a.n && !m->op[i].beside);
    for (const int first = i; i < a.n && (i == first || !m->op[i].beside); i++) {
        if (i > first) k__cuda_sync();                /* the operation before is done */
        k__cuda_row_op(a.step, &m->op[i], r, m);
    }
}

K_CUDA_KERNEL(k_cuda_delta)(const k_cuda_delta_args a) { k__cuda_delta(&a); }

#define K__CUDA_MUL(name, bits, segs, head, table) \
    K_CUDA_KERNEL(k_cuda_mul_##name)(const k_cuda_mul m) { k__cuda_mul(bits, segs, head, table, &m); } \
    K_CUDA_WIDE(k_cuda_many_##name)(const k_cuda_mul m) { k__cuda_many(bits, segs, head, table, &m); }
K_CUDA_MULS(K__CUDA_MUL)

#define K__CUDA_FLOAT(name, type) \
    K_CUDA_KERNEL(k_cuda_mul_##name)(const k_cuda_mul m) { k__cuda_mul_floats(type, &m); } \
    K_CUDA_KERNEL(k_cuda_tensor_##name)(const k_cuda_mul m) { k__cuda_tensor(type, &m); } \
    K_CUDA_WIDE(k_cuda_tensor_many_##name)(const k_cuda_mul m) { k__cuda_tensor_many(type, &m); }
K_CUDA_FLOATS(K__CUDA_FLOAT)

K_CUDA_KERNEL(k_cuda_attend)(const k_cuda_attend_args a) { k__cuda_attend(&a); }
K_CUDA_KERNEL(k_cuda_attend_many)(const k_cuda_attend_args a) { k__cuda_attend_many(&a); }
K_CUDA_WIDE(k_cuda_attend_tensor)(const k_cuda_attend_args a) { k__cuda_attend_tensor(&a); }
K_CUDA_KERNEL(k_cuda_attend_codes)(const k_cuda_attend_args a) { k__cuda_attend_codes(&a); }
K_CUDA_WIDE(k_cuda_attend_codes_many)(const k_cuda_attend_args a) { k__cuda_attend_codes_many(&a); }
K_CUDA_KERNEL(k_cuda_attend_merge)(const k_cuda_attend_args a) { k__cuda_attend_merge(&a); }

K_CUDA_KERNEL(k_cuda_pack)(const k_cuda_pack_args a) { k__cuda_pack(&a); }

#endif /* __CUDACC__ or K_CUDA_EMU */

#endif /* GGML_KERNELS_DECLARE */
#endif /* GGML_KERNELS_H */
