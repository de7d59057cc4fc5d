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
 *           [cuda] a step on NVIDIA GPUs: products   [cuda_rows] operations on rows, experts, recurrent layers
 *           [cuda_attn] attention   [cuda_pack] packing, and the kernels by name; nvcc compiles these, blocks, small floats,
 *           decoders, functions of one value, the rules of attention and the packed layout, and nothing else
 * A section is a file, src/kernels/NAME.h, included below in this order. */
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

#include "src/kernels/fmt.h"
#include "src/kernels/conv.h"
#include "src/kernels/api.h"
#ifndef GGML_KERNELS_DECLARE
#if defined(__x86_64__) && !defined(__CUDACC__)
#include <immintrin.h>
#endif
#include "src/kernels/unpack.h"
#include "src/kernels/math.h"
#ifndef __CUDACC__
#include "src/kernels/ref.h"
#include "src/kernels/types.h"
#include "src/kernels/vec.h"
#endif
#include "src/kernels/attn.h"
#ifndef __CUDACC__
#include "src/kernels/cpu.h"
#include "src/kernels/quant.h"
#include "src/kernels/quant_x86.h"
#if defined(__x86_64__) && K__PART(2)
#include "src/kernels/quant_avx512.h"
#endif
#if defined(__x86_64__) && K__PART(1)
#include "src/kernels/quant_avx2.h"
#endif
#endif
#include "src/kernels/packed.h"
#ifndef __CUDACC__
#if defined(__x86_64__)
#include "src/kernels/packed_x86.h"
#if K__PART(2)
#include "src/kernels/packed_avx512.h"
#endif
#if K__PART(1)
#include "src/kernels/packed_avx2.h"
#endif
#endif
#include "src/kernels/probe.h"
#include "src/kernels/level.h"
#include "src/kernels/thread.h"
#include "src/kernels/fit.h"
#include "src/kernels/fit_grid.h"
#include "src/kernels/fitters.h"
#endif
#include "src/kernels/cuda.h"
#if defined(__CUDACC__) || defined(K_CUDA_EMU)
#include "src/kernels/cuda_rows.h"
#include "src/kernels/cuda_attn.h"
#include "src/kernels/cuda_pack.h"
#endif
#endif /* GGML_KERNELS_DECLARE */
#endif /* GGML_KERNELS_H */
