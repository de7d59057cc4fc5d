/* products.c TYPE K N T TIMES [LEVEL] - T rows of K activations are quantised and multiplied with N packed rows of weights, TIMES times. A
 * plugin of an emulator counts the instructions (instructions.sh). */
#define GGML_KERNELS_DECLARE
#include "../../ggml_kernels.h"
#include <stdio.h>
#include <stdlib.h>

static void *memory(size_t bytes) {
    void *p = aligned_alloc(64, bytes / 64 * 64 + 64);
    if (!p) abort();
    return memset(p, 0, bytes);
}

int main(int argc, char **argv) {
    const int type = argc > 5 ? k_type_by_name(argv[1]) : -1;
    if (type < 0 || !k_init(argc > 6 ? argv[6] : "auto")) return 2;
    const int    K = atoi(argv[2]), N = atoi(argv[3]), T = atoi(argv[4]), nb = (K + K_SUPER - 1) / K_SUPER, ldq = nb * K_SUPER;
    const size_t bytes = k_row_bytes((uint32_t)type, K), t = (size_t)T;
    uint8_t     *w = memory(bytes * (size_t)N), *packed = memory(k_pack_bytes((uint32_t)type, N, K)), *split = memory(t);
    float       *x = memory(t * (size_t)K * sizeof *x), *y = memory(t * (size_t)N * sizeof *y), *d = memory(t * (size_t)(2 * nb) * sizeof *d);
    int8_t      *q = memory(t * (size_t)ldq * 3);
    k_sums      *sum = memory(t * (size_t)nb * sizeof *sum);
    void        *scratch = memory(k_scratch_bytes(K));
    k_thread_start();
    for (size_t i = 0; i < bytes * (size_t)N; i++) w[i] = (uint8_t)(i * 2654435761u >> 13 & 63);
    for (size_t i = 0; i < t * (size_t)K; i++) x[i] = (float)(i * 2654435761u >> 8 & 1023) / 512 - 1;
    k_pack_rows((uint32_t)type, w, bytes, N, K, packed);
    for (int i = 0; i < atoi(argv[5]); i++) {
        const k_acts a = {.q = q, .ldq = (size_t)ldq, .sum = sum, .d = d, .ldd = (size_t)nb, .split = split, .rest = T, .nt = T};
        const int    step = k_rows_step((uint32_t)type, T);
        for (int r = 0; r < T; r++)
            split[r] = k_quant_act(x + r * K, K, false, q + r * ldq, sum + r * nb, d + r * nb, (size_t)ldq, T);
        for (int r = 0; r < N; r += step)
            k_mul_packed((uint32_t)type, packed + k_pack_at((uint32_t)type, r, K), N - r < step ? N - r : step, K, &a, y + r, (size_t)N, scratch);
    }
    return 0;
}
