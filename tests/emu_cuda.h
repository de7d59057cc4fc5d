/* emu_cuda.h - thread blocks of an NVIDIA GPU on one CPU thread: with this file in front of ggml_kernels.h, [cuda] compiles as C.
 * Every GPU thread is a fiber. A fiber runs until it waits at a barrier or for its warp; then one of those that can go on
 * follows, at random, as the seed decides, where some warps are favoured so much that they get far ahead of others. What a GPU
 * leaves undefined is made visible: shared memory begins as NaN, and emu_launch returns a message when
 *     threads of a warp meet at different instructions, or some have ended
 *     threads of a block wait at a barrier that others have passed by or ended before
 *     an address is not aligned, or shared memory is larger than the 48 KB that a kernel gets unasked.
 * It does not know the time that anything takes, nor memory that is shared between blocks, which run one after the other.
 * Fragments of mma are placed as the PTX ISA says; [cuda] repeats it. How an mma of floats adds is the hardware's: here it adds
 * in float64 and rounds once, so what is compared with a GPU's results, or with another order of sums, takes a tolerance. */
#ifndef EMU_CUDA_H
#define EMU_CUDA_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#define K_CUDA_EMU
#define K_CUDA_FN                    static inline
#define K_CUDA_KERNEL(name)          static void name
#define K_CUDA_WIDE(name)            static void name
#define K_CUDA_SHARED(type, name, n) type *name = (type *)emu_shared((n) * sizeof(type))
#define K_CUDA_UNROLL
#define K_CUDA_ROLL
#define K_CUDA_THREAD                emu.me
#define K_CUDA_BLOCK_X               emu.block[0]
#define K_CUDA_BLOCK_Y               emu.block[1]
#define K_CUDA_GRID_Y                emu.grid_y
#define k__cuda_half                 k_f16_to_f32

enum { EMU_THREADS = 256, EMU_STACK = 64 << 10, EMU_SHARED = 48 << 10 };
enum { EMU_MMA16 = 1, EMU_MMA32, EMU_MMA_BF16, EMU_OTHER, EMU_WARP };         /* instructions of a whole warp */

typedef struct {
#if defined(__x86_64__)
    void *at;                                         /* its stack pointer while it does not run */
#else
    ucontext_t at;
#endif
    char  *stack;
    size_t shared;                                    /* bytes of shared memory that its declarations have taken */
    int    n_sync;
    bool   done;
} emu_fiber;

/* What the lanes of a warp bring to an instruction, and what it gives to them. */
typedef struct {
    int      op, n_in;
    unsigned rank;                                    /* the lowest is favoured */
    uint32_t a[32][4], b[32][2];
    int      c[32][4];
} emu_warp;

static struct {
    emu_fiber   fiber[EMU_THREADS], out;              /* out: who called emu_launch */
    emu_warp    warp[EMU_THREADS / 32];
    int         n, me, ready[EMU_THREADS], n_ready, n_sync, block[2], grid_y;
    int         tries;                                /* the fiber that goes on is the best of so many at random, 0: of eight */
    size_t      dirty;                                /* bytes of shared memory that the block before may have written */
    int         skip_sync;                            /* for tests: the barrier with this number + 1 does nothing; 0: all work */
    uint64_t    seed;
    const char *fault;
    void      (*fn)(const void *);
    const void *arg;
    _Alignas(64) uint8_t shared[EMU_SHARED];
} emu = {.dirty = EMU_SHARED};

/* --- fibers --- */

#if defined(__x86_64__)
/* Saves the registers that a function must keep on the stack, and that stack in *from; goes on with the other stack. */
void emu_switch(void **from, void *to);
__asm__(".text\n.local emu_switch\n.type emu_switch, @function\nemu_switch:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
        "    movq %rsp, (%rdi)\n    movq %rsi, %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n    ret\n"
        ".size emu_switch, .-emu_switch\n");

static void emu__go(emu_fiber *from, emu_fiber *to) {
    if (from != to) emu_switch(&from->at, to->at);
}

/* A stack as emu_switch leaves it: six registers, and the address where the fiber begins. */
static void emu__begin(emu_fiber *f, void (*entry)(void)) {
    void **top = (void **)(void *)(f->stack + EMU_STACK) - 8;
    memset(top, 0, 8 * sizeof *top);
    memcpy(top + 6, &entry, sizeof entry);
    f->at = top;
}
#else
static void emu__go(emu_fiber *from, emu_fiber *to) {
    if (from != to) swapcontext(&from->at, &to->at);
}

static void emu__begin(emu_fiber *f, void (*entry)(void)) {
    getcontext(&f->at);
    f->at.uc_stack.ss_sp = f->stack;
    f->at.uc_stack.ss_size = EMU_STACK;
    f->at.uc_link = NULL;
    makecontext(&f->at, entry, 0);
}
#endif

static void emu__fault(const char *what) {
    if (!emu.fault) emu.fault = what;
}

static unsigned emu__random(void) {
    return (unsigned)((emu.seed = emu.seed * 6364136223846793005u + 1442695040888963407u) >> 33);
}

/* The place in emu.ready of the fiber that goes on: of some at random, one of the most favoured warp. */
static int emu__pick(void) {
    int best = (int)(emu__random() % (unsigned)emu.n_ready);
    for (int i = 1; i < (emu.tries ? emu.tries : 8); i++) {
        const int k = (int)(emu__random() % (unsigned)emu.n_ready);
        if (emu.warp[emu.ready[k] / 32].rank < emu.warp[emu.ready[best] / 32].rank) best = k;
    }
    return best;
}

/* Goes on with a fiber that can run; with the caller of emu_launch when there is none. */
static void emu__next(void) {
    emu_fiber *from = &emu.fiber[emu.me];
    if (!emu.n_ready || emu.fault) {
        emu__go(from, &emu.out);
        return;
    }
    const int i = emu__pick();
    emu.me = emu.ready[i];
    emu.ready[i] = emu.ready[--emu.n_ready];
    emu__go(from, &emu.fiber[emu.me]);
}

static void emu__entry(void) {
    emu.fn(emu.arg);
    emu.fiber[emu.me].done = true;
    emu__next();
}

static void emu__block(int x, int y) {
    emu.block[0] = x, emu.block[1] = y;
    emu.n_ready = emu.n_sync = 0;
    memset(emu.shared, 0xff, emu.dirty);
    emu.dirty = 0;
    memset(emu.warp, 0, sizeof emu.warp);
    for (int i = 0; i < EMU_THREADS / 32; i++) emu.warp[i].rank = emu__random();
    for (int i = 0; i < emu.n; i++) {
        emu_fiber *f = &emu.fiber[i];
        if (!f->stack) f->stack = (char *)aligned_alloc(64, EMU_STACK);
        f->shared = 0, f->n_sync = 0, f->done = false;
        emu__begin(f, emu__entry);
        emu.ready[emu.n_ready++] = i;
    }
    emu.me = emu.ready[--emu.n_ready];
    emu__go(&emu.out, &emu.fiber[emu.me]);
    for (int i = 0; i < emu.n; i++)
        if (!emu.fiber[i].done) emu__fault("threads wait for others that never come");
}

static void emu_free(void) {
    for (int i = 0; i < EMU_THREADS; i++) free(emu.fiber[i].stack), emu.fiber[i].stack = NULL;
}

/* Runs a kernel with a grid of x times y blocks of n threads, a multiple of 32. NULL, or what went wrong. */
static const char *emu_launch(void (*fn)(const void *), const void *arg, int x, int y, int n, uint64_t seed) {
    emu.fn = fn, emu.arg = arg, emu.n = n, emu.grid_y = y, emu.seed = seed, emu.fault = NULL;
    for (int i = 0; i < x * y && !emu.fault; i++) emu__block(i % x, i / x);
    if (emu.fault) emu_free();                        /* stacks of threads that did not end */
    return emu.fault;
}

/* --- what kernels call --- */

/* Threads that run the same declarations get the same addresses. */
static void *emu_shared(size_t bytes) {
    emu_fiber   *f = &emu.fiber[emu.me];
    const size_t at = f->shared;
    f->shared += (bytes + 15) & ~(size_t)15;
    if (f->shared <= EMU_SHARED) {
        if (emu.dirty < f->shared) emu.dirty = f->shared;
        return emu.shared + at;
    }
    emu__fault("more than 48 KB of shared memory");
    emu__next();
    return NULL;
}

static void k__cuda_sync(void) {
    if (++emu.fiber[emu.me].n_sync == emu.skip_sync) return;
    if (++emu.n_sync == emu.n) {
        emu.n_sync = 0;
        for (int i = 0; i < emu.n; i++) emu.ready[emu.n_ready++] = i;
    }
    emu__next();
}

static uint32_t emu__load(const void *p, size_t bytes) {
    uint32_t v = 0;
    if ((uintptr_t)p % bytes) emu__fault("an address is not aligned");
    memcpy(&v, p, bytes);
    return v;
}

static inline uint32_t k__cuda_ld32(const void *p) { return emu__load(p, 4); }
static inline uint16_t k__cuda_ld16(const void *p) { return (uint16_t)emu__load(p, 2); }

static inline void k__cuda_ld64(const void *p, uint32_t v[2]) {
    if ((uintptr_t)p % 8) emu__fault("an address is not aligned");
    memcpy(v, p, 8);
}

static inline void k__cuda_ld128(const void *p, uint32_t v[4]) {
    if ((uintptr_t)p % 16) emu__fault("an address is not aligned");
    memcpy(v, p, 16);
}

/* dp2a.lo with signed numbers. */
static inline int k__cuda_dp2a(uint32_t a, uint32_t b, int c) {
    const int sum = (int16_t)a * (int8_t)b + (int16_t)(a >> 16) * (int8_t)(b >> 8);
    return (int)((unsigned)c + (unsigned)sum);
}

/* prmt: nibble i of s is the number of byte i of the result, of the eight bytes of a and b; its upper bit would repeat a sign. */
static inline uint32_t k__cuda_perm(uint32_t a, uint32_t b, uint32_t s) {
    const uint64_t both = (uint64_t)b << 32 | a;
    uint32_t       v = 0;
    if (s & 0x8888) emu__fault("prmt with a sign bit, which is not emulated");
    for (int i = 0; i < 4; i++) v |= (uint32_t)(both >> 8 * (s >> 4 * i & 7) & 255) << 8 * i;
    return v;
}

/* mma.m16n8k16 and m16n8k32 with .s8: c += a b. */
static void emu__multiply(emu_warp *w, int k) {
    int8_t a[16][32], b[8][32];                       /* rows of A, columns of B */
    for (int l = 0; l < 32; l++) {
        const int g = l / 4, t = l % 4;
        for (int i = 0; i < k / 8; i++) memcpy(&a[g + i % 2 * 8][4 * t + i / 2 * 16], &w->a[l][i], 4);
        for (int i = 0; i < k / 16; i++) memcpy(&b[g][4 * t + i * 16], &w->b[l][i], 4);
    }
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < 4; i++) {
            const int8_t *row = a[l / 4 + i / 2 * 8], *col = b[l % 4 * 2 + i % 2];
            int           s = 0;
            for (int j = 0; j < k; j++) s += row[j] * col[j];
            w->c[l][i] = (int)((unsigned)w->c[l][i] + (unsigned)s);
        }
}

static double emu__bf16(uint32_t pair, int i) {
    const uint32_t bits = pair >> 16 * i << 16;
    float          f;
    memcpy(&f, &bits, 4);
    return (double)f;
}

/* mma.m16n8k16 with bf16: c += a b. */
static void emu__multiply_bf16(emu_warp *w, int k) {
    double a[16][16], b[8][16];                       /* rows of A, columns of B */
    for (int l = 0; l < 32; l++) {
        const int g = l / 4, t = l % 4;
        for (int i = 0; i < 8; i++) a[g + i / 2 % 2 * 8][2 * t + i / 4 * 8 + i % 2] = emu__bf16(w->a[l][i / 2], i % 2);
        for (int i = 0; i < 4; i++) b[g][2 * t + i / 2 * 8 + i % 2] = emu__bf16(w->b[l][i / 2], i % 2);
    }
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < 4; i++) {
            const double *row = a[l / 4 + i / 2 * 8], *col = b[l % 4 * 2 + i % 2];
            float         c;
            double        s = 0;
            memcpy(&c, &w->c[l][i], 4);
            for (int j = 0; j < k; j++) s += row[j] * col[j];
            c = (float)(s + (double)c);
            memcpy(&w->c[l][i], &c, 4);
        }
}

/* A lane brings its part to an instruction of its warp, and goes on when all have; the last one calls `compute`. */
static void emu__meet(int op, void (*compute)(emu_warp *, int), int k) {
    emu_warp *w = &emu.warp[emu.me / 32];
    if (w->n_in && w->op != op) emu__fault("lanes of a warp are at different instructions");
    w->op = op;
    if (++w->n_in == 32) {
        compute(w, k);
        w->n_in = 0;
        for (int i = 0; i < 32; i++) emu.ready[emu.n_ready++] = emu.me / 32 * 32 + i;
    }
    emu__next();
}

static void emu__mma(int op, int c[4], const uint32_t *a, const uint32_t *b) {
    const int l = emu.me % 32, k = op == EMU_MMA32 ? 32 : 16;
    emu_warp *w = &emu.warp[emu.me / 32];
    memcpy(w->a[l], a, (size_t)k / 2);
    memcpy(w->b[l], b, (size_t)k / 4);
    memcpy(w->c[l], c, sizeof w->c[l]);
    emu__meet(op, emu__multiply, k);
    memcpy(c, w->c[l], sizeof w->c[l]);
}

static void k__cuda_mma32(int c[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
    emu__mma(EMU_MMA32, c, (const uint32_t[4]){a0, a1, a2, a3}, (const uint32_t[2]){b0, b1});
}
static void k__cuda_mma16(int c[4], uint32_t a0, uint32_t a1, uint32_t b0) {
    emu__mma(EMU_MMA16, c, (const uint32_t[2]){a0, a1}, &b0);
}

static void k__cuda_mma_bf16(float c[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
    const uint32_t a[4] = {a0, a1, a2, a3}, b[2] = {b0, b1};
    emu_warp      *w = &emu.warp[emu.me / 32];
    memcpy(w->a[emu.me % 32], a, sizeof a);
    memcpy(w->b[emu.me % 32], b, sizeof b);
    memcpy(w->c[emu.me % 32], c, sizeof *w->c);
    emu__meet(EMU_MMA_BF16, emu__multiply_bf16, 16);
    memcpy(c, w->c[emu.me % 32], sizeof *w->c);
}

/* cvt.rn.bf16x2: to the nearest, to even halfway; every NaN is 7fff. */
static uint32_t k__cuda_bf16x2(float low, float high) {
    const float x[2] = {low, high};
    uint32_t    v = 0;
    for (int i = 0; i < 2; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], 4);
        bits = x[i] != x[i] ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
        v |= bits << 16 * i;
    }
    return v;
}

static void emu__exchange(emu_warp *w, int far) {
    for (int l = 0; l < 32; l++) w->c[l][0] = (int)w->a[l ^ far][0];
}

static void emu__nothing(emu_warp *w, int none) { (void)w, (void)none; }
static void k__cuda_sync_warp(void) { emu__meet(EMU_WARP, emu__nothing, 0); }

static float k__cuda_other(float v, int far) {
    emu_warp *w = &emu.warp[emu.me / 32];
    memcpy(&w->a[emu.me % 32][0], &v, 4);
    emu__meet(EMU_OTHER, emu__exchange, far);
    memcpy(&v, &w->c[emu.me % 32][0], 4);
    return v;
}
#endif
