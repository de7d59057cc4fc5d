#ifndef GGML_KERNELS_H
#define GGML_KERNELS_H
/* ggml_kernels.h - the GGML number formats and the arithmetic on them, for CPUs, in one header.
 *
 *     #include "ggml_kernels.h"          in one C file, or compiled once as an object ([api] explains both); needs libc and libm
 *     k_init("auto");                    chooses the fastest kernels for this CPU, once, before any thread starts
 *     k_types[id].dequant(src, dst, n);  any format to float
 *
 * IT DOES      Block layouts, conversions, a scalar reference and vector kernels for the tensor types of GGUF files;
 *              products of quantised rows, norms, activations, softmax, rotary embedding, attention, short convolutions,
 *              the gated delta rule; the same steps on NVIDIA GPUs; offline quantisation.
 * IT DOES NOT  Allocate, read files, start threads, print, keep state other than the chosen CPU level, or know models.
 *              The caller checks sizes and types; the kernels do not check them again.
 *
 * Results have the same bits at every CPU level. So build for the baseline CPU with -ffp-contract=off and without
 * -ffast-math: a multiplication and an addition are fused only where the code says so. Little-endian machines only.
 *
 * SECTIONS in the order of the includes below, each a file, src/kernels/NAME.h. After the bar: who compiles it besides the CPU's
 * compiler, or what it needs.
 *   [fmt]            blocks on disk                                            | nvcc; declarations
 *   [conv]           small floats                                              | nvcc; declarations
 *   [api]            public types, tables and functions                        | nvcc; declarations
 *   [unpack]         any format to int8 codes and scales                       | nvcc
 *   [math]           functions of one value                                    | nvcc
 *   [ref]            dequantise, quantise
 *   [types]          one row per format; how to add a format
 *   [vec]            float products, norms, softmax, rope, activations, recurrent layers
 *   [vec_neon]       those of ARM's levels                                     | aarch64
 *   [attn]           attention and the rows of its cache                       | its rules: nvcc
 *   [attn_neon]      those of ARM's levels                                     | aarch64
 *   [cpu]            features of this CPU
 *   [quant]          products of quantised weights in file order, scalar
 *   [quant_x86]      what the products of the vector levels share              | x86-64
 *   [quant_avx512]   those of avx512                                           | x86-64, part 2
 *   [quant_avx2]     those of avx2 and avx_vnni                                | x86-64, part 1
 *   [packed]         the packed layout (repack): 16 rows interleaved           | nvcc
 *   [far]            outliers of activations
 *   [packed_x86]     what the products of packed rows share                    | x86-64
 *   [packed_avx512]  those of avx512                                           | x86-64, part 2
 *   [packed_avx2]    those of avx2 and avx_vnni                                | x86-64, part 1
 *   [amx]            those of avx512_amx, in file order, too                   | x86-64, part 2
 *   [packed_neon]    products, packed and not, of neon and i8mm                | aarch64
 *   [probe]          loops that measure this machine
 *   [level]          CPU dispatch: the levels and the public functions; how to add a level
 *   [thread]         the start of every thread
 *   Offline quantisation, which inference does not need:
 *   [fit]            blocks of least squared error, scales searched
 *   [fit_grid]       the same for tables, powers of two and lattices
 *   [fit_lanes]      searches of both for avx2 and for avx512                  | x86-64
 *   [fitters]        one row per format that can be made
 *   A step on NVIDIA GPUs, nvcc alone (the emulator of the tests has it, too), but for the names of kernels:
 *   [cuda]           products
 *   [cuda_rows]      operations on rows, experts, recurrent layers
 *   [cuda_attn]      attention
 *   [cuda_pack]      packing, and the kernels by name */
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
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF                             /* clang fuses where the target has FMA, at -O0 too */
#endif
#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "GGUF blocks are read in place: a little-endian machine is needed"
#endif

/* Three compilers read this header: the CPU's (K__CPU), with vector levels on x86-64 (K__X86) and aarch64 (K__NEON); nvcc, which
 * makes device code of what a GPU computes by the same text (K__GPU); and the tests' emulator of a GPU,
 * which is the CPU's with both. K_BOTH marks functions and tables of the common subset of C and C++. */
#ifdef __CUDACC__
#define K__CPU 0
#define K__X86 0
#define K__NEON 0
#define K__GPU 1
#define K_BOTH static __device__ __attribute__((unused))
#define K_PARITY(x) (__popc(x) & 1)
#else
#define K__CPU 1
#ifdef __x86_64__
#define K__X86 1
#else
#define K__X86 0
#endif
#ifdef __aarch64__
#define K__NEON 1
#else
#define K__NEON 0
#endif
#ifdef K_CUDA_EMU
#define K__GPU 1
#else
#define K__GPU 0
#endif
#define K_BOTH static
#define K_PARITY __builtin_parity
#endif
#define K__BODY K_BOTH inline __attribute__((always_inline))  /* bodies that each CPU level compiles again for its target */

/* --- what a user of the kernels sees --- */
#include "src/kernels/fmt.h"
#include "src/kernels/conv.h"
#include "src/kernels/api.h"
#ifndef GGML_KERNELS_DECLARE                             /* else the rest is in another object */

/* --- formats and values --- */
#if K__X86
#include <immintrin.h>
#elif K__NEON
#include <arm_neon.h>
#endif
#include "src/kernels/unpack.h"
#include "src/kernels/math.h"
#if K__CPU
#include "src/kernels/ref.h"
#include "src/kernels/types.h"

/* --- floats, attention --- */
#include "src/kernels/vec.h"
#endif
#if K__NEON
#include "src/kernels/vec_neon.h"
#endif
#include "src/kernels/attn.h"
#if K__NEON
#include "src/kernels/attn_neon.h"
#endif

/* --- products of quantised weights --- */
#if K__CPU
#include "src/kernels/cpu.h"
#include "src/kernels/quant.h"
#endif
#if K__X86
#include "src/kernels/quant_x86.h"
#if K__PART(2)
#include "src/kernels/quant_avx512.h"
#endif
#if K__PART(1)
#include "src/kernels/quant_avx2.h"
#endif
#endif
#include "src/kernels/packed.h"
#if K__CPU
#include "src/kernels/far.h"
#endif
#if K__X86
#include "src/kernels/packed_x86.h"
#if K__PART(2)
#include "src/kernels/packed_avx512.h"
#endif
#if K__PART(1)
#include "src/kernels/packed_avx2.h"
#endif
#if K__PART(2)
#include "src/kernels/amx.h"
#endif
#endif

#if K__NEON
#include "src/kernels/packed_neon.h"
#endif

/* --- public functions, offline quantisation --- */
#if K__CPU
#include "src/kernels/probe.h"
#include "src/kernels/level.h"
#include "src/kernels/thread.h"
#include "src/kernels/fit.h"
#include "src/kernels/fit_grid.h"
#if K__X86
#define FL_N 8
#include "src/kernels/fit_lanes.h"
#define FL_N 16
#include "src/kernels/fit_lanes.h"
#endif
#include "src/kernels/fitters.h"
#endif

/* --- GPUs --- */
#include "src/kernels/cuda.h"
#if K__GPU
#include "src/kernels/cuda_rows.h"
#include "src/kernels/cuda_attn.h"
#include "src/kernels/cuda_pack.h"
#endif
#endif /* GGML_KERNELS_DECLARE */
#endif /* GGML_KERNELS_H */
