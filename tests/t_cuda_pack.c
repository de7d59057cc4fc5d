/* Packing by the kernels of [cuda], run by emu_cuda.h: what k_pack_rows writes, in the order of tc_far, and no other bytes. */
#include "program.h"
#include "check.h"
#include "t_cuda.h"

static void tcp_run(const void *a) { k_cuda_pack(*(const k_cuda_pack_args *)a); }

enum { TCP_GUARD = 64 };

static bool tcp_is_packed(uint32_t type) {
    return type < K_TYPE_MAX && k_types[type].block && k_pack_bytes(type, 1, k_types[type].block) > 0;
}

/* Rows of random bytes: any code, any scale. They end where the memory ends, and `gap` bytes lie between them. */
static uint8_t *tcp_rows(uint32_t type, int nr, int n, size_t gap) {
    const size_t stride = k_row_bytes(type, n) + gap;
    uint8_t     *w = mem_new((size_t)nr * stride - gap, 1);
    for (size_t i = 0; i < (size_t)nr * stride - gap; i++) w[i] = (uint8_t)rng_at(type, (uint64_t)(nr * 4096 + n), i, 0);
    return w;
}

/* Packs with a grid of y blocks for a strip: the bytes of k_pack_rows in that order? False too where the emulator found a
 * fault. */
static bool tcp_same(uint32_t type, const uint8_t *w, size_t stride, int nr, int n, int y) {
    const size_t     size = k_pack_bytes(type, nr, n);
    uint8_t         *want = mem_aligned(size, 1), *got = mem_aligned(size + 2 * TCP_GUARD, 1);
    k_cuda_pack_args a = {.src = w, .row_bytes = stride, .nr = nr, .n = n, .dst = got + TCP_GUARD};
    const char      *name = k_cuda_pack_of(type, &a);
    bool             same = false;
    k_pack_rows(type, w, stride, nr, n, want);
    tc_far(type, want, size);
    memset(got, 0x5a, size + 2 * TCP_GUARD);
    if (CHECKF(name && !strcmp(name, "k_cuda_pack"), "%s: no kernel", k_types[type].name)) {
        const char *fault = emu_launch(tcp_run, &a, (nr + K_PACK_ROWS - 1) / K_PACK_ROWS, y, K_CUDA_THREADS, tc_seed++);
        CHECKF(!fault, "%s: %s", k_types[type].name, fault);
        same = !fault && !memcmp(want, got + TCP_GUARD, size);
        for (size_t k = 0; k < TCP_GUARD; k++)
            CHECKF(got[k] == 0x5a && got[TCP_GUARD + size + k] == 0x5a, "%s: written outside", k_types[type].name);
    }
    mem_free(want), mem_free(got);
    return same;
}

static void t_cuda_pack_types(void) {
    k_cuda_pack_args a;
    for (uint32_t type = 0; type < K_TYPE_MAX + 2; type++)
        CHECKF((k_cuda_pack_of(type, &a) != NULL) == tcp_is_packed(type), "type %u", type);
}

/* Rows of one block, of a part of a unit, of blocks of 256 and a rest, of more than a thread block takes at a time; whole strips
 * and parts. */
static void t_cuda_pack_bytes(void) {
    static const int ns[] = {32, 64, 96, 128, 256, 352, 512, 1024, 1312, 2304}, nrs[] = {16, 1, 33, 15, 17};
    for (uint32_t type = 0; type < K_TYPE_MAX; type++)
        for (int i = 0; i < 10 && tcp_is_packed(type); i++) {
            const int    n = ns[i], nr = nrs[(i + (int)type) % 5];
            const size_t gap = i % 3 ? 0 : 6;
            if (n % k_types[type].block) continue;
            uint8_t *w = tcp_rows(type, nr, n, gap);
            CHECKF(tcp_same(type, w, k_row_bytes(type, n) + gap, nr, n, 1 + i % 3), "%s: n %d, rows %d: other bytes",
                   k_types[type].name, n, nr);
            mem_free(w);
        }
}

/* A kernel without any one of its barriers gives other bytes in some order of the threads. */
static void t_cuda_pack_barriers(void) {
    enum { N = 2304 };
    uint8_t *w = tcp_rows(K_Q4_K, K_PACK_ROWS, N, 0);
    tc_seed = 1;
    CHECK(tcp_same(K_Q4_K, w, k_row_bytes(K_Q4_K, N), K_PACK_ROWS, N, 1));
    const int n = emu.fiber[0].n_sync;
    EQ_INT(n, 6);                                     /* two for each 1,024 columns */
    for (int skip = 1; skip <= n; skip++) {
        bool seen = false;
        emu.skip_sync = skip;
        for (int i = 0; i < 20 && !seen; i++) seen = !tcp_same(K_Q4_K, w, k_row_bytes(K_Q4_K, N), K_PACK_ROWS, N, 1);
        emu.skip_sync = 0;
        CHECKF(seen, "barrier %d of %d could go", skip, n);
    }
    mem_free(w);
    emu_free();
}

static const t_case t_cuda_pack_cases[] = {
    {"cuda_pack types", "there is a kernel for every type that is packed, and for no other", t_cuda_pack_types},
    {"cuda_pack bytes", "the bytes of k_pack_rows in a GPU's order for every type, any width and number of rows, nothing outside",
     t_cuda_pack_bytes},
    {"cuda_pack barriers", "none of the barriers can be left out", t_cuda_pack_barriers},
};
static const t_suite t_cuda_pack_suite = SUITE(t_cuda_pack_cases);
