/* ===== [cuda] a step on NVIDIA GPUs =====
 * The device code: nvcc compiles it and what of this header is outside of #ifndef __CUDACC__ (make cuda);
 * tests/emu_cuda.h runs the same text on a CPU, where K_CUDA_EMU is defined. Results have the bits of the scalar level, but for
 * those of floats by tensor cores: integers are exact inside a block of 256, the float terms of blocks are added in rising order,
 * and nothing is fused but the products of far values.
 *
 * One kernel serves all types with the same bits of a code, segments of a unit, head, and table or none (k__forms); offsets,
 * tables and factors are arguments. To add a type with a new form: a row in K_CUDA_MULS. To add a head: its cases in
 * k__cuda_scale and the functions after it.
 *
 * TO ADD A KERNEL with arguments of its own. The compiler or a test finds a place that was forgotten, but for those marked *.
 *     1. k_cuda_NAME_args in [api], the only argument, without padding (*). Its comment gives the grid. Nothing in it changes
 *        from step to step (*), since launches are recorded: that is read from k_cuda_step.
 *     2. Its device code: K_CUDA_FN functions in the section of its subject, and K_CUDA_KERNEL(k_cuda_NAME) at the end of
 *        [cuda_pack]; K_CUDA_WIDE where it needs more than 128 registers. Shared memory is K_CUDA_SHARED, 48 KB at most. A grid
 *        may have more blocks than there are rows: those return at once. An input that `gathers` names holds all rows: row r of
 *        the set is row step->row[set][r] there. What the device gives beside C stands below and in tests/emu_cuda.h.
 *     3. Its launch: the struct in the union of dev_gpu_launch ([dev_gpu]); in [ops] a dev_gpu_way, whose `add` fills the struct
 *        and takes the kernel by its name (gpu_kernel), and whose `launch` gives the grid. It is .gpu of the operation's row;
 *        limits of the kernel are .gpu_can. The row has OPS_TASKS, not OPS_ROW (*): an operation with OPS_ROW shares a phase
 *        with others on rows, and the launch of the phase's first operation serves them all.
 *     4. Its name and struct in FAKE_KERNELS of tests/fake_cuda.c; else the driver of the tests says error 500.
 *     5. An example of its operation in tests/t_ops.c. Cases of its own (*) in a t_cuda_*.c that tests/kernels.c lists:
 *        emu_launch() runs it and names wrong use, tc_seen_apart() shows that each barrier is needed. Then `make cuda`,
 *        `build/test/kernel_tests ops cuda` and tests/cuda.py.
 *
 * FEW COLUMNS  A thread block of 8 warps multiplies a strip of 16 packed rows with up to 8 columns. Warp w takes blocks of 256
 * with the numbers w, w + 8, ...: for each run of 32 columns (16 where scales are per 16) one mma gives the 16 x 8 sums, which
 * the scales of the group multiply. What a block gives is parked in shared memory; when K_CUDA_PARK blocks are there, one thread
 * for each of the 128 results adds them in order.
 *
 * MANY COLUMNS  A thread block of 8 warps multiplies 4 strips with 64 columns: a warp has a strip and 4 tiles of 8 columns, for
 * which it decodes the strip once. The codes of the columns go through shared memory, block of 256 after block, whose terms a
 * lane adds in order.
 *
 * FAR VALUES  Results of rows with outliers get their far values after the product, as in [far]. Columns of the matrix where any
 * row of activations has one are found for K__CUDA_FAR_BLOCKS blocks at a time. K__CUDA_FAR_SLOTS of them at a time are
 * dequantised to shared memory, beside the far values of all rows of activations there. Then each thread adds to results of its
 * own in y, in rising order of the columns. A factor of the matrix comes last.
 *
 * FLOATS  Sixteen threads are the sixteen lanes of [vec]'s sums of one row, for up to 8 columns; a thread block has 16 rows.
 *
 * FLOATS BY TENSOR CORES  The same products in another order, where results need not have the CPU's bits (k_cuda_tensor_of). What
 * an mma adds in which order, the hardware decides; so there is one order for any number of columns: a block of 256 is summed by
 * mma from its first column to its last, and the terms of blocks are added in rising order. A result depends on its own row and
 * column. Few and many columns have grids and warps as quantised weights do.
 *   Precision: weights of bf16 take activations rounded to bf16, as on the CPU: one mma. Weights of f16 and f32 and their
 *   activations are two bf16 each, the rounded value and what rounding took. Three products of these parts keep 16 bits of each
 *   factor, for a third of the rate. One product would keep 8 bits, which --f16-as-bf16 asks for; f16 activations would overflow
 *   above 65504. A value that is not finite gives NaN.
 *
 * ROWS  A thread block takes a row through the operations of its chain, with a barrier between two of them. Work on single values
 * is dealt to all threads. In the sum of a long vector half a warp is the sixteen lanes, and the others fetch for it; of short
 * vectors (heads) each half warp takes one. A block of 256 values that is quantised belongs to a warp, and so does a Hadamard
 * transform, which needs no shared memory.
 *
 * STATES  A thread block takes K_CUDA_DELTA_COLS columns of the sums of one value head through all positions of a sequence. Four
 * threads have a column in registers: thread l has rows l, l + 4, ..., which are one of the four sums of k_delta. Vectors of some
 * positions at a time are convolved and normed in shared memory. Rules of k_outer go the same way: a half warp makes the vectors
 * of a position. Of k_scan eight threads have a channel, one for each lane of its sums, without shared memory.
 *
 * HEADS  Latent attention multiplies each head with a matrix of its own: K_ROW_DEAL lays the rows of one head after those of the
 * other, and a product's grid has the columns of every head. All query heads read one K/V head; those that one thread block has
 * no space for are dealt to others (k__cuda_deal_of).
 *
 * EXPERTS  A router's row is one warp's. k_cuda_sort deals the slots to warps as runs, counts each run's by expert, and then
 * knows where each run's go. It lists tiles of slots of one expert, for which a product's grid has thread blocks: those after the
 * last tile do nothing.
 *
 * FRAGMENTS (PTX ISA, "Matrix Fragments for mma.m16n8k16 / m16n8k32 with .s8") Lane l of a warp has g = l/4 and t = l%4.
 *     A, 16 x 32: register i holds row g + i%2*8, elements 4t + i/2*16 and the three after; 16 x 16: registers 0 and 1 of it
 *     B, 32 x 8: register i holds column g, elements 4t + i*16 and the three after; 16 x 8: register 0 of it
 *     C, 16 x 8: register i holds row g + i/2*8, column 2t + i%2
 * So a dword of a k-line, four columns of a row, is a register of A. Of bf16 ("mma.m16n8k16 with floating point type")
 *     A, 16 x 16: register i holds row g + i%2*8, elements 2t + i/2*8 and the one after
 *     B, 16 x 8: register i holds column g, elements 2t + i*8 and the one after
 *     C as above. Which column of a matrix is which element is free: of 32 columns a lane reads those from 8t on, the elements of
 *     two mma.
 *
 * WEIGHTS  Strips, units, heads and codes are those of [packed], with the same sizes and places. Inside a head and inside the
 * codes of a unit, what a lane needs is together, so that it is read 16 bytes at a time:
 *     codes   Of 64 columns a lane needs 8 registers of A: register 4h + j is k-line t + 4j of row g + 8h. A plane of b bits has
 *     them in order, 8/b
 *             to a word: b words for each 64 columns of the unit. Narrow planes come first. Of each 4 words of a plane, those of
 *             lane 0 come
 *             first, then those of lane 1; where a plane has less than 4 words (q5_0), one of each lane
 *     heads   A row has a word in each line (k__head_row). The words of rows g and g + 8 are side by side; a fifth one after
 *     those of all rows */

/* name: the kernel is k_cuda_mul_NAME */
#define K_CUDA_MULS(X)                                                        \
    /*   bits segs head          table        also for                     */ \
    X(q4_K,    4, 4, K__HEAD_MIN6, false)                                     \
    X(q5_K,    5, 4, K__HEAD_MIN6, false)                                     \
    X(q2_K,    2, 4, K__HEAD_MIN4, false)                                     \
    X(q6_K,    6, 4, K__HEAD_S8,   false)                                     \
    X(iq6_k,   8, 4, K__HEAD_S8,   false)     /* the others of ik_llama.cpp */ \
    X(q3_K,    3, 4, K__HEAD_S6,   false)                                     \
    X(tq2_0,   2, 4, K__HEAD_ONE,  false)     /* tq1_0 */                     \
    X(iq4_xs,  4, 4, K__HEAD_S6X2, true)      /* iq3_xxs iq3_s */             \
    X(iq2_xxs, 3, 4, K__HEAD_S6X2, true)      /* iq1_s */                     \
    X(iq2_xs,  3, 4, K__HEAD_S6,   true)      /* iq2_s iq1_m */               \
    X(q4_0,    4, 1, K__HEAD_F16,  false)                                     \
    X(q4_1,    4, 1, K__HEAD_F16M, false)                                     \
    X(q5_0,    5, 1, K__HEAD_F16,  false)                                     \
    X(q5_1,    5, 1, K__HEAD_F16M, false)                                     \
    X(q8_0,    8, 1, K__HEAD_F16,  false)     /* q6_0 */                      \
    X(q1_0,    1, 4, K__HEAD_F16,  true)                                      \
    X(q2_0,    2, 2, K__HEAD_F16,  false)     /* i2_s */                      \
    X(iq4_nl,  4, 1, K__HEAD_F16,  true)                                      \
    X(mxfp4,   4, 2, K__HEAD_E8,   true)                                      \
    X(nvfp4,   4, 1, K__HEAD_E4,   true)

/* name, type: the kernel is k_cuda_mul_NAME, by tensor cores k_cuda_tensor_NAME */
#define K_CUDA_FLOATS(X) X(f32, K_F32) X(f16, K_F16) X(bf16, K_BF16) X(f16_round, K_F16_ROUND)

/* Query heads that are computed together where there are many rows, and rows of so many, with `group` heads each. */
enum { K_CUDA_ASKS = 32 };
K__BODY int k__cuda_rows_of(int group) { return group < K_CUDA_ASKS ? K_CUDA_ASKS / group : 1; }
/* Thread blocks among which the query heads of a K/V head are dealt. */
enum { K_CUDA_HEADS = 8 };                            /* of a block where there are few rows */
K__BODY int k__cuda_deal_of(int group, bool many) {
    const int each = many ? K_CUDA_ASKS : K_CUDA_HEADS;
    return (group + each - 1) / each;
}

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
        if (f->bits != rows[i].bits || f->segs != rows[i].segs || f->head != rows[i].head || (f->values != NULL) != rows[i].table)
            continue;
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
K_PUBLIC int k_cuda_attend_deal(int group, bool many) { return k__cuda_deal_of(group, many); }

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
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
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

/* last: its last word. */
K_CUDA_FN k__cuda_head k__cuda_head_of(int head, const uint32_t *v, uint32_t last, const k_cuda_mul *m) {
    k__cuda_head s = {v, 0.0f, 0.0f};
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
K_CUDA_FN int k__cuda_scale(int head, const uint32_t *v, int g) {
    switch (head) {
    case K__HEAD_MIN6: return (int)(v[g / 4] >> g % 4 * 8 & 63);
    case K__HEAD_MIN4: return (int)(v[g / 4] >> g % 4 * 8 & 15);
    case K__HEAD_S8: return (int8_t)(v[g / 4] >> g % 4 * 8);
    case K__HEAD_S6: return (int)((v[g / 8] >> g % 8 * 4 & 15) | (v[2] >> 2 * g & 3) << 4) - 32;
    case K__HEAD_S6X2: return (int)((v[0] >> 4 * g & 15) | (v[1] >> 2 * g & 3) << 4) - 32;
    default: return 1;
    }
}

K_CUDA_FN int k__cuda_min(int head, const uint32_t *v, int g) {
    const int at = g % 4 * 8;
    if (head == K__HEAD_MIN4) return (int)(v[g / 4] >> at >> 4 & 15);
    if (g < 4) return (int)(v[2] >> at & 63);
    return (int)((v[0] >> at >> 6 & 3) | (v[1] >> at >> 6 & 3) << 2 | (v[2] >> at >> 6 & 3) << 4);
}

/* Scale i of a row of a SCALE unit, and its addend. */
K_CUDA_FN float k__cuda_fscale(int head, int segs, const uint32_t *v, int i) {
    if (head == K__HEAD_E8) return k_e8m0_half((uint8_t)(v[0] >> 8 * i));
    if (head == K__HEAD_E4) return k__cuda_half((uint16_t)((v[0] >> 8 * i & 255) << 7)) * 128.0f;
    return k__cuda_half((uint16_t)(v[0] >> i / segs * 16));
}
K_CUDA_FN float k__cuda_fmin(const uint32_t *v, int i) { return k__cuda_half((uint16_t)(v[1] >> 16 * i)); }

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

/* What a lane reads of a block of weights, all of it before the first is used: words of codes for each 64 columns, words of heads
 * for each unit. */
typedef struct { uint32_t c[4][8], v[4][2][5]; } k__cuda_block;

K_CUDA_FN int k__cuda_unit(int bits, int segs, int head) { return 128 * bits * segs + 64 * k__head_lines(head); }

/* Reads the block of units from w on, of which `len` columns exist. */
K_CUDA_FN void k__cuda_read(int bits, int segs, int head, const uint8_t *w, int len, int lane, k__cuda_block *b) {
    const int codes_at = head <= K__HEAD_ONE ? 64 * k__head_lines(head) : 0,
              head_at = head <= K__HEAD_ONE ? 0 : 128 * bits * segs;
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

/* Adds segment seg of SCALE weights, whose tiles are c and whose unit has the head words h: fs * dot + fm * asum, group after
 * group. */
K_CUDA_FN void k__cuda_add_scale(int head, int segs, uint32_t h[2][5], const k_sums *sum[2], int seg, int c[4][4], float v[4]) {
    const int n_groups = 64 / k__cuda_group(head);
    K_CUDA_UNROLL for (int k = 0; k < n_groups; k++) {
        const int group = seg * n_groups + k, in_unit = seg % segs * n_groups + k;
        K_CUDA_UNROLL for (int i = 0; i < 4; i++) {
            v[i] = v[i] + k__cuda_fscale(head, segs, h[i / 2], in_unit) * (float)c[k][i];
            if (k__cuda_has_min(head))
                v[i] = v[i] + k__cuda_fmin(h[i / 2], in_unit) * (float)k__cuda_sum(head, sum[i % 2], group);
        }
    }
}

/* One block of INT weights, a unit at w, times the columns at block b: v = d * (sum of sc * dot) - dm * (sum of mn * asum). */
K_CUDA_FN void k__cuda_block_int(int bits, int head, bool table, const k_cuda_mul *m, const uint8_t *w,
                                 const k__cuda_cols *x, int b,
                                 int lane, float v[4]) {
    const int     last = k__head_lines(head) - 1;
    const k_sums *sum[2] = {x->sum[0] + b, x->sum[1] + b};
    k__cuda_isum  isum = {{0, 0, 0, 0}, {0, 0, 0, 0}};
    k__cuda_block block;
    k__cuda_read(bits, 4, head, w, 256, lane, &block);
    k__cuda_head  s[2] = {k__cuda_head_of(head, block.v[0][0], block.v[0][0][last], m),
                          k__cuda_head_of(head, block.v[0][1], block.v[0][1][last], m)};
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
K_CUDA_FN void k__cuda_block_scale(int bits, int segs, int head, bool table, const k_cuda_mul *m, const uint8_t *w,
                                   const k__cuda_cols *x,
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

/* What a thread block multiplies: columns [first, first + nt) with the matrix at w; the results of the first one go to y. */
typedef struct {
    int            first, nt;                         /* nt <= 0: nothing */
    const uint8_t *w;
    float         *y;
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
        p.y = m->y + (size_t)p.first * m->ldy;
        p.scale = m->scales ? m->scales[expert] : 0.0f;
    } else {
        const int heads = m->heads ? m->heads : 1, head = K_CUDA_BLOCK_Y % heads, at = cols * (K_CUDA_BLOCK_Y / heads),
                  nt = m->nt ? *m->nt : m->a.nt;
        p.first = head * nt + at;
        p.nt = nt - at < cols ? nt - at : cols;
        p.w = m->w + (size_t)head * m->mat_bytes;
        p.y = m->y + (size_t)at * m->ldy + (size_t)(head * m->step);
        p.scale = m->scales ? m->scales[head] : m->scale;
    }
    return p;
}

K_CUDA_FN int  k__cuda_row(const k_acts *a, int t) { return a->idx ? a->idx[t] : t; }
K_CUDA_FN bool k__cuda_split(const k_acts *a, int t) { return a->split && a->split[k__cuda_row(a, t)]; }

/* The row of column c; after the last column any row will do. */
K_CUDA_FN size_t k__cuda_column(const k_acts *a, int first, int nt, int c) {
    return (size_t)k__cuda_row(a, first + (c < nt ? c : 0));
}

K_CUDA_FN k__cuda_cols k__cuda_cols_of(const k_acts *a, int first, int nt, int lane) {
    const int    g = lane / 4, t = lane % 4;
    k__cuda_cols x;
    x.q = a->q + k__cuda_column(a, first, nt, g) * a->ldq + 4 * t;
    K_CUDA_UNROLL for (int i = 0; i < 2; i++) {
        const size_t at = k__cuda_column(a, first, nt, 2 * t + i) * a->ldd;
        x.sum[i] = a->sum + at;
        x.d[i] = a->d + at;
    }
    return x;
}

/* --- far values --- */

enum {
    K_CUDA_PARK   = 64,                               /* blocks whose terms are parked */
    K__CUDA_TILE  = K_PACK_ROWS * K_CUDA_COLS,
    K__CUDA_WORDS = 68,                               /* dwords between two columns in shared memory */
    K__CUDA_FAR_SLOTS = 64,                           /* columns that are dequantised at a time */
    K__CUDA_FAR_BLOCKS = K_CUDA_THREADS / 4           /* blocks that are searched at a time: 64 columns for each thread */
};

typedef struct {
    float w[K__CUDA_FAR_SLOTS * K_CUDA_MANY_ROWS];           /* [slot][row] dequantised weights */
    float v[K_CUDA_MANY_COLS * K__CUDA_FAR_SLOTS];           /* [row of activations][slot], 0: none */
} k__cuda_far_slots;

/* What a product has in shared memory. */
typedef struct {
    union {
        float             term[K_CUDA_PARK * K__CUDA_TILE];  /* few columns: [block][row][column] */
        uint32_t          q[K_CUDA_MANY_COLS * K__CUDA_WORDS];   /* many: [column][64] codes of one block */
        k__cuda_far_slots far;                               /* after the last block */
    } u;
    int32_t  at[K_CUDA_MANY_COLS];                           /* many columns: rows of the quantised arrays */
    int32_t  far[K_CUDA_MANY_COLS];                          /* rows with the far values of each column, -1: none */
    uint32_t any[K__CUDA_FAR_BLOCKS * 8];                    /* bit i: column i of the matrix meets a far value */
    int32_t  fours[K_CUDA_MANY_COLS];                        /* of a row of activations, bit i: some in slots 4i .. 4i + 3 */
    int32_t  k[K__CUDA_FAR_SLOTS];                           /* the columns in the slots */
    int32_t  count[K_CUDA_THREADS / 32];                     /* columns that were found, by warp */
} k__cuda_mul_mem;

/* The row with the far values of column c of a piece. */
K_CUDA_FN int k__cuda_far_row(const k_acts *a, const k__cuda_piece *part, int c) {
    return c < part->nt && k__cuda_split(a, part->first + c) ? k__cuda_row(a, part->first + c) + a->rest : -1;
}

/* A result goes to y; rows of activations with far values have no factor yet. */
K_CUDA_FN void k__cuda_put(const k_cuda_mul *m, const k__cuda_piece *part, const k__cuda_mul_mem *x, int c, int row, float v) {
    if (c >= part->nt || row >= m->nr) return;
    part->y[(size_t)c * m->ldy + (size_t)row] = part->scale != 0.0f && x->far[c] < 0 ? v * part->scale : v;
}

/* The weight of row r of a strip in column k, as dequantising computes it. */
K_CUDA_FN float k__cuda_weight(int bits, int segs, int head, bool table, const k_cuda_mul *m, const uint8_t *strip, int r,
                               int k) {
    const int       in_unit = k % (64 * segs), group = in_unit / k__cuda_group(head), lines = k__head_lines(head);
    const int       at = r / 8 * 4 + k % 64 / 16, lane = r % 8 * 4 + k / 4 % 4;          /* register and lane */
    const uint8_t  *unit = strip + (size_t)(k / (64 * segs)) * (size_t)k__cuda_unit(bits, segs, head);
    const uint8_t  *codes = head <= K__HEAD_ONE ? unit + 64 * lines : unit,
                   *h = head <= K__HEAD_ONE ? unit : unit + 128 * bits * segs;
    const uint32_t *v = (const uint32_t *)(const void *)(h + k__cuda_head_at(head, r, 0));
    uint32_t        u = 0;
    K_CUDA_UNROLL for (int b = 1; b <= 8; b *= 2) {
        if (!(bits & b)) continue;
        const uint8_t *word = codes + k__cuda_word_at(bits, segs, b, in_unit / 64 * b + at * b / 8, lane);
        u |= (k__cuda_ld32(word) >> (k % 4 * 8 + at * b % 8) & (255u >> (8 - b))) << k__cuda_low(bits, b);
    }
    const float q = (float)(int8_t)k__cuda_values(bits, head, table, m, u);
    if (head > K__HEAD_ONE) {
        const float w = k__cuda_fscale(head, segs, v, group) * q;
        return k__cuda_has_min(head) ? w + k__cuda_fmin(v, group) : w;
    }
    const k__cuda_head s = k__cuda_head_of(head, v, k__cuda_ld32(h + k__cuda_head_at(head, r, lines - 1)), m);
    const float        w = s.d * (float)k__cuda_scale(head, v, group) * q;
    return k__cuda_has_min(head) ? w - s.dm * (float)k__cuda_min(head, v, group) : w;
}

/* Finds the columns of blocks b0 .. b0 + K__CUDA_FAR_BLOCKS - 1: a warp takes a block, of which a lane has 8 columns. */
K_CUDA_FN void k__cuda_far_scan(const k_acts *a, int nt, int n, int b0, k__cuda_mul_mem *x) {
    enum { MANY = 16 };
    for (int b = K_CUDA_THREAD / 32; b < K__CUDA_FAR_BLOCKS; b += K_CUDA_THREADS / 32) {
        const int k = 256 * (b0 + b) + K_CUDA_THREAD % 32 * 8;
        uint32_t  u[2] = {0, 0}, bits = 0;
        for (int c = 0; k < n && c < nt; c += MANY)
            K_CUDA_UNROLL for (int i = 0; i < MANY; i++) {
                const int     row = c + i < nt ? x->far[c + i] : -1;
                const int8_t *q = a->q + (size_t)(row < 0 ? 0 : row) * a->ldq + k;
                if (row >= 0) u[0] |= k__cuda_ld32(q), u[1] |= k__cuda_ld32(q + 4);
            }
        K_CUDA_UNROLL for (int i = 0; i < 8; i++)
            if (u[i / 4] >> i % 4 * 8 & 255) bits |= 1u << i;
        ((uint8_t *)x->any)[32 * b + K_CUDA_THREAD % 32] = (uint8_t)bits;
    }
}

/* How many of the columns that were found are before the thread's 64; *all: how many there are. */
K_CUDA_FN int k__cuda_far_count(const uint32_t mine[2], int *all, k__cuda_mul_mem *x) {
    const int warp = K_CUDA_THREAD / 32, lane = K_CUDA_THREAD % 32;
    int       before = 0, sum = 0;
    K_CUDA_UNROLL for (int i = 0; i < 2; i++)
        for (uint32_t v = mine[i]; v; v &= v - 1) sum++;
    K_CUDA_UNROLL for (int far = 1; far < 32; far *= 2) {
        const int other = (int)k__cuda_other((float)sum, far);
        before += lane & far ? other : 0;
        sum += other;
    }
    if (lane == 0) x->count[warp] = sum;
    k__cuda_sync();
    *all = 0;
    K_CUDA_UNROLL for (int i = 0; i < K_CUDA_THREADS / 32; i++) {
        before += i < warp ? x->count[i] : 0;
        *all += x->count[i];
    }
    return before;
}

/* Gives the thread's 64 columns, from k on, the slots from `slot` on that exist. */
K_CUDA_FN void k__cuda_far_place(const uint32_t mine[2], int k, int slot, k__cuda_mul_mem *x) {
    K_CUDA_UNROLL for (int i = 0; i < 2; i++)
        for (uint32_t v = mine[i], at = 0; v; v >>= 1, at++) {
            if (!(v & 1)) continue;
            if (slot >= 0 && slot < K__CUDA_FAR_SLOTS) x->k[slot] = k + 32 * i + (int)at;
            slot++;
        }
}

/* The far values in the slots: half a warp takes a row of activations, of which a lane has four. */
K_CUDA_FN void k__cuda_far_values(const k_acts *a, int nt, int slots, k__cuda_mul_mem *x) {
    const int lane = K_CUDA_THREAD % 16;
    for (int c = K_CUDA_THREAD / 16; c - K_CUDA_THREAD / 16 % 2 < nt; c += K_CUDA_THREADS / 16) {
        const int     row = c < nt ? x->far[c] : -1;
        const size_t  at = (size_t)(row < 0 ? 0 : row);
        const int8_t *q = a->q + at * a->ldq;
        const float  *d = a->d + at * a->ldd;
        float         some = 0.0f;
        K_CUDA_UNROLL for (int i = 0; i < 4; i++) {
            const int slot = 4 * lane + i, k = x->k[slot < slots ? slot : 0];
            float     v = 0.0f;
            if (row >= 0 && slot < slots) v = d[k / 256] * (float)(int8_t)(k__cuda_ld32(q + k / 4 * 4) >> k % 4 * 8);
            if (v != 0.0f) some = (float)(1 << lane);
            x->u.far.v[c * K__CUDA_FAR_SLOTS + slot] = v;
        }
        K_CUDA_UNROLL for (int other = 1; other < 16; other *= 2) some = some + k__cuda_other(some, other);
        if (lane == 0) x->fours[c] = (int32_t)some;
    }
}

/* The weights of `rows` rows in the slots; those after the last row are 0. */
K_CUDA_FN void k__cuda_far_weights(int bits, int segs, int head, bool table, int rows, const k_cuda_mul *m, const uint8_t *w,
                                   int slots, k__cuda_mul_mem *x) {
    enum { MANY = 4 };
    const size_t strip = (size_t)((m->n + 64 * segs - 1) / (64 * segs)) * (size_t)k__cuda_unit(bits, segs, head);
    for (int at = K_CUDA_THREAD; at < slots * rows; at += MANY * K_CUDA_THREADS) {
        float v[MANY];
        K_CUDA_UNROLL for (int i = 0; i < MANY; i++) {
            const int place = at + i * K_CUDA_THREADS, row = rows * K_CUDA_BLOCK_X + place % rows;
            v[i] = 0.0f;
            if (place < slots * rows && row < m->nr)
                v[i] = k__cuda_weight(bits, segs, head, table, m, w + (size_t)(row / K_PACK_ROWS) * strip, row % K_PACK_ROWS,
                                      x->k[place / rows]);
        }
        K_CUDA_UNROLL for (int i = 0; i < MANY; i++)
            if (at + i * K_CUDA_THREADS < slots * rows) x->u.far.w[at + i * K_CUDA_THREADS] = v[i];
    }
}

/* Adds what is in the slots to the results: a thread has one row of weights, with some rows of activations. */
K_CUDA_FN void k__cuda_far_sums(int rows, const k_cuda_mul *m, const k__cuda_piece *part, const k__cuda_mul_mem *x) {
    const int r = K_CUDA_THREAD % rows, row = rows * K_CUDA_BLOCK_X + r;
    for (int c = K_CUDA_THREAD / rows; row < m->nr && c < part->nt; c += K_CUDA_THREADS / rows) {
        if (x->far[c] < 0) continue;
        float *y = part->y + (size_t)c * m->ldy + (size_t)row, s = *y;
        int    slot = 0;
        for (int fours = x->fours[c]; fours; fours >>= 1, slot += 4)
            K_CUDA_UNROLL for (int i = 0; fours & 1 && i < 4; i++) {
                const float v = x->u.far.v[c * K__CUDA_FAR_SLOTS + slot + i];
                if (v != 0.0f) s = fmaf(v, x->u.far.w[(slot + i) * rows + r], s);
            }
        *y = s;
    }
}

/* Adds far values to the results of a thread block, of `rows` rows of weights; then the factor. */
K_CUDA_FN void k__cuda_far_add(int bits, int segs, int head, bool table, int rows, const k_cuda_mul *m, const k__cuda_piece *part,
                               k__cuda_mul_mem *x) {
    const int me = K_CUDA_THREAD, row = rows * K_CUDA_BLOCK_X + me % rows;
    bool      some = false;
    for (int c = 0; c < part->nt; c++) some = x->far[c] >= 0 || some;
    for (int b0 = 0; some && 256 * b0 < m->n; b0 += K__CUDA_FAR_BLOCKS) {
        int all;
        k__cuda_far_scan(&m->a, part->nt, m->n, b0, x);
        k__cuda_sync();                               /* and the product is done */
        const uint32_t mine[2] = {x->any[2 * me], x->any[2 * me + 1]};
        const int      before = k__cuda_far_count(mine, &all, x);
        for (int from = 0; from < all; from += K__CUDA_FAR_SLOTS) {
            const int slots = all - from < K__CUDA_FAR_SLOTS ? all - from : K__CUDA_FAR_SLOTS;
            k__cuda_far_place(mine, 256 * b0 + 64 * me, before - from, x);
            k__cuda_sync();                           /* and the slots before these are used */
            k__cuda_far_values(&m->a, part->nt, slots, x);
            k__cuda_far_weights(bits, segs, head, table, rows, m, part->w, slots, x);
            k__cuda_sync();
            k__cuda_far_sums(rows, m, part, x);
        }
    }
    for (int c = me / rows; part->scale != 0.0f && row < m->nr && c < part->nt; c += K_CUDA_THREADS / rows)
        if (x->far[c] >= 0) part->y[(size_t)c * m->ldy + (size_t)row] *= part->scale;
}

/* --- few columns --- */

/* The term of block b for each of the 16 x 8 results, one after the other. */
K_CUDA_FN void k__cuda_park(int bits, int segs, int head, bool table, const k_cuda_mul *m, const uint8_t *strip,
                            const k__cuda_cols *x, int b,
                            int lane, float *term) {
    const int      len = m->n - 256 * b < 256 ? m->n - 256 * b : 256;
    const uint8_t *w = strip + (size_t)b * (size_t)(4 / segs * k__cuda_unit(bits, segs, head));
    float          v[4];
    if (head <= K__HEAD_ONE) k__cuda_block_int(bits, head, table, m, w, x, b, lane, v);
    else k__cuda_block_scale(bits, segs, head, table, m, w, x, b, len, lane, v);
    K_CUDA_UNROLL for (int i = 0; i < 4; i++) term[8 * (lane / 4 + i / 2 * 8) + lane % 4 * 2 + i % 2] = v[i] * x->d[i % 2][b];
}

K_CUDA_FN void k__cuda_mul(int bits, int segs, int head, bool table, const k_cuda_mul *m) {
    K_CUDA_SHARED(k__cuda_mul_mem, x, 1);
    const k__cuda_piece part = k__cuda_piece_of(m, K_CUDA_COLS);
    const int      me = K_CUDA_THREAD, lane = me % 32, nb = (m->n + 255) / 256;
    const size_t   units = (size_t)((m->n + 64 * segs - 1) / (64 * segs));
    const uint8_t *strip = part.w + (size_t)K_CUDA_BLOCK_X * units * (size_t)k__cuda_unit(bits, segs, head);
    float          s = 0.0f;
    if (part.nt <= 0) return;
    if (me < K_CUDA_COLS) x->far[me] = k__cuda_far_row(&m->a, &part, me);
    const k__cuda_cols cols = k__cuda_cols_of(&m->a, part.first, part.nt, lane);
    for (int b0 = 0; b0 < nb; b0 += K_CUDA_PARK) {
        const int n = nb - b0 < K_CUDA_PARK ? nb - b0 : K_CUDA_PARK;
        if (b0) k__cuda_sync();                       /* the terms before these are added */
        for (int i = me / 32; i < n; i += K_CUDA_THREADS / 32)
            k__cuda_park(bits, segs, head, table, m, strip, &cols, b0 + i, lane, x->u.term + K__CUDA_TILE * i);
        k__cuda_sync();
        for (int i = 0; me < K__CUDA_TILE && i < n; i++) s = s + x->u.term[K__CUDA_TILE * i + me];
    }
    if (me < K__CUDA_TILE) k__cuda_put(m, &part, x, me % 8, K_PACK_ROWS * K_CUDA_BLOCK_X + me / 8, s);
    k__cuda_far_add(bits, segs, head, table, K_PACK_ROWS, m, &part, x);
}

/* --- many columns --- */

enum { K__CUDA_TILES = 4 };                           /* tiles of 8 columns of a warp */

/* Lists the columns. */
K_CUDA_FN void k__cuda_list(const k_acts *a, const k__cuda_piece *part, k__cuda_mul_mem *m) {
    const int i = K_CUDA_THREAD;
    if (i < K_CUDA_MANY_COLS) {
        m->at[i] = (int32_t)k__cuda_column(a, part->first, part->nt, i);
        m->far[i] = k__cuda_far_row(a, part, i);
    }
    k__cuda_sync();
}

/* The codes of block b of all columns go to shared memory. */
K_CUDA_FN void k__cuda_fetch(const k_acts *a, int b, k__cuda_mul_mem *m) {
    for (int i = K_CUDA_THREAD; i < 64 * K_CUDA_MANY_COLS; i += K_CUDA_THREADS)
        m->u.q[i / 64 * K__CUDA_WORDS + i % 64] = k__cuda_ld32(a->q + (size_t)m->at[i / 64] * a->ldq + 256 * (size_t)b + 4
                                                             * (i % 64));
}

/* What a lane brings of column g of a tile, from segment seg. */
K_CUDA_FN void k__cuda_shared64(const k__cuda_mul_mem *m, int col, int seg, int t, uint32_t q[2][2]) {
    const uint32_t *from = m->u.q + col * K__CUDA_WORDS + 16 * seg + t;
    K_CUDA_UNROLL for (int s = 0; s < 2; s++)
        K_CUDA_UNROLL for (int i = 0; i < 2; i++) q[s][i] = from[8 * s + 4 * i];
}

/* Where the sums and scales of column `col` have those of block b. */
K_CUDA_FN size_t k__cuda_many_at(const k_acts *a, const k__cuda_mul_mem *m, int col, int b) {
    return (size_t)m->at[col] * a->ldd + (size_t)b;
}

/* One tile from column `col` on, with segment seg of block b: sums of products with the weights u, and the sums of the lane's two
 * columns. */
K_CUDA_FN void k__cuda_many_tile(int head, const k_acts *a, const k__cuda_mul_mem *m, uint32_t u[4][2], int col, int b,
                                 int seg, int halves, int lane,
                                 const k_sums *sum[2], int c[4][4]) {
    uint32_t q[2][2];
    k__cuda_shared64(m, col + lane / 4, seg, lane % 4, q);
    K_CUDA_UNROLL for (int i = 0; i < 2; i++) sum[i] = a->sum + k__cuda_many_at(a, m, col + lane % 4 * 2 + i, b);
    k__cuda_dots(head, u, q, halves, c);
}

/* Adds block b of the strip at w, times the warp's columns from `col` on, to acc. */
K_CUDA_FN void k__cuda_many_int(int bits, int head, bool table, const k_cuda_mul *m, const uint8_t *w,
                                const k__cuda_mul_mem *x, int col, int b,
                                int lane, float acc[K__CUDA_TILES][4]) {
    const int     last = k__head_lines(head) - 1;
    k__cuda_block block;
    k__cuda_isum  isum[K__CUDA_TILES];
    k__cuda_read(bits, 4, head, w, 256, lane, &block);
    k__cuda_head  s[2] = {k__cuda_head_of(head, block.v[0][0], block.v[0][0][last], m),
                          k__cuda_head_of(head, block.v[0][1], block.v[0][1][last], m)};
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

K_CUDA_FN void k__cuda_many_scale(int bits, int segs, int head, bool table, const k_cuda_mul *m, const uint8_t *w,
                                  const k__cuda_mul_mem *x, int col,
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

K_CUDA_FN void k__cuda_many(int bits, int segs, int head, bool table, const k_cuda_mul *m) {
    K_CUDA_SHARED(k__cuda_mul_mem, x, 1);
    const k_acts *a = &m->a;
    const k__cuda_piece part = k__cuda_piece_of(m, K_CUDA_MANY_COLS);
    const int     warp = K_CUDA_THREAD / 32, lane = K_CUDA_THREAD % 32, col = warp / 4 * 8 * K__CUDA_TILES,
                  nb = (m->n + 255) / 256;
    const int     row = K_CUDA_MANY_ROWS * K_CUDA_BLOCK_X + warp % 4 * K_PACK_ROWS;
    const size_t  unit = (size_t)k__cuda_unit(bits, segs, head), units = (size_t)((m->n + 64 * segs - 1) / (64 * segs));
    const uint8_t *strip = part.w + (size_t)((row < m->nr ? row : 0) / K_PACK_ROWS) * units * unit;
    float          acc[K__CUDA_TILES][4];
    if (part.nt <= 0) return;
    k__cuda_list(a, &part, x);
    K_CUDA_UNROLL for (int j = 0; j < K__CUDA_TILES; j++)
        K_CUDA_UNROLL for (int i = 0; i < 4; i++) acc[j][i] = 0.0f;
    for (int b = 0; b < nb; b++) {
        if (b) k__cuda_sync();
        k__cuda_fetch(a, b, x);
        k__cuda_sync();
        const uint8_t *w = strip + (size_t)b * (size_t)(4 / segs) * unit;
        if (head <= K__HEAD_ONE) k__cuda_many_int(bits, head, table, m, w, x, col, b, lane, acc);
        else k__cuda_many_scale(bits, segs, head, table, m, w, x, col, b, lane, acc);
    }
    K_CUDA_UNROLL for (int j = 0; j < K__CUDA_TILES; j++)
        K_CUDA_UNROLL for (int i = 0; i < 4; i++)
            k__cuda_put(m, &part, x, col + 8 * j + lane % 4 * 2 + i % 2, row + lane / 4 + i / 2 * 8, acc[j][i]);
    k__cuda_far_add(bits, segs, head, table, K_CUDA_MANY_ROWS, m, &part, x);
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
        if (c < nt && l == 0 && row < m->nr)
            part.y[(size_t)c * m->ldy + (size_t)row] = part.scale != 0.0f ? s[c] * part.scale : s[c];
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
        if (k__cuda_splits(type))
            e->lo[i] = k__cuda_bf16x2(x[2 * i] - k__f32_of(w << 16), x[2 * i + 1] - k__f32_of(w & 0xffff0000u));
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
K_CUDA_FN void k__cuda_tensor_block(uint32_t type, const uint8_t *const w[2], const uint8_t *x, int b, int n, int lane,
                                    float c[4]) {
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
    const int           me = K_CUDA_THREAD, lane = me % 32, g = lane / 4, row = K_PACK_ROWS * K_CUDA_BLOCK_X,
                        nb = (m->n + 255) / 256;
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
    part.y[(size_t)(me % 8) * m->ldy + (size_t)(row + me / 8)] = part.scale != 0.0f ? s * part.scale : s;
}

/* Dwords between two columns in shared memory: 128 of values, and so many more that lanes with columns side by side use all
 * banks. */
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

K_CUDA_FN void k__cuda_tensor_put(const k_cuda_mul *m, const k__cuda_piece *part, int row, int col, int lane,
                                  float acc[K__CUDA_TILES][4]) {
    K_CUDA_UNROLL for (int j = 0; j < K__CUDA_TILES; j++)
        K_CUDA_UNROLL for (int i = 0; i < 4; i++) {
            const int c = col + 8 * j + lane % 4 * 2 + i % 2, r = row + lane / 4 + i / 2 * 8;
            if (c >= part->nt || r >= m->nr) continue;
            part->y[(size_t)c * m->ldy + (size_t)r] = part->scale != 0.0f ? acc[j][i] * part->scale : acc[j][i];
        }
}

/* 4 strips times 64 columns: a warp has a strip and 4 tiles of 8 columns. */
K_CUDA_FN void k__cuda_tensor_many(uint32_t type, const k_cuda_mul *m) {
    K_CUDA_SHARED(k__cuda_words, x, K_CUDA_MANY_COLS * K__CUDA_TENSOR_WORDS / 4);
    const bool          split = k__cuda_splits(type);
    const k__cuda_piece part = k__cuda_piece_of(m, K_CUDA_MANY_COLS);
    const int           warp = K_CUDA_THREAD / 32, lane = K_CUDA_THREAD % 32, step = k__cuda_tensor_step(split),
                        col = warp / 4 * 8 * K__CUDA_TILES;
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

#endif /* __CUDACC__ or K_CUDA_EMU */
