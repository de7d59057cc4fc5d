/* tiles.c - what the level avx512_amx executes for a product, counted: instructions, and those that load, multiply and store tiles,
 * beside the instructions of avx512. No AMX is needed: a handler does what tiles do (tests/tiles.h).
 *     make bench-tiles, build/main/tiles [TYPE...]        needs AVX-512 with VNNI; some seconds for each type */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#define GGML_KERNELS_DECLARE
#include "../../ggml_kernels.h"
#include "../tiles.h"

/* Of the levels ([quant_x86]): their products, and the columns of a tile of avx512, which are eight on Intel's processors. */
typedef bool product(uint32_t type, const void *w, int nr, int n, const k_acts *a, float *y, size_t ldy, void *scratch, void *far);
extern product k_mul_packed_amx, k_mul_packed_avx512;
extern int g_k_tile_cols;

enum { ROWS = 128, N = 256, COLS = 256 };                /* the rows of a task of [dev] */

static void *some(size_t bytes) {
    uint8_t *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!p) exit(1);
    for (size_t i = 0; i < bytes; i++) p[i] = (uint8_t)(i * 37 + i / 64 * 11);
    return p;
}

/* Instructions for 1,000 products. */
static double counted(product *mul, uint32_t type, const void *w, const k_acts *a, float *y, void *scratch) {
    emu_tile_count.loads = emu_tile_count.stores = emu_tile_count.products = 0;
    tiles_steps(true);
    mul(type, w, ROWS, N, a, y, ROWS, scratch, NULL);
    tiles_steps(false);
    return 1e3 * (double)tiles_executed / ((double)ROWS * N * a->nt);
}

static bool wanted(const char *name, int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], name)) return true;
    return argc < 2;
}

int main(int argc, char **argv) {
    static const int cols[] = {16, 32, COLS};
    k_acts a = {.q = some((size_t)COLS * N), .ldq = N, .sum = some(sizeof(k_sums) * COLS * N / 256), .d = some(4 * COLS * N / 256),
                .ldd = N / 256};
    float *y = some(sizeof *y * ROWS * COLS);
    void  *scratch = some(k_scratch_bytes(N));
    if (!tiles_missing()) return printf("counted where the processor has AVX-512 with VNNI and no AMX\n"), 0;
    tiles_on();
    g_k_tile_cols = 8;
    printf("| type | columns | instructions a 1,000 products | avx512 | of 65,536 products: tile loads | products | stores |\n");
    printf("|---|---|---|---|---|---|---|\n");
    for (uint32_t type = 0; type < K_TYPE_MAX; type++) {
        const size_t bytes = k_pack_bytes(type, ROWS, N);
        if (!bytes || !wanted(k_types[type].name, argc, argv)) continue;
        void *w = some(bytes);
        for (int i = 0; i < 3; i++) {
            a.nt = cols[i];
            const double plain = counted(k_mul_packed_avx512, type, w, &a, y, scratch), blocks = (double)ROWS * N * a.nt / 65536;
            const double tiles = counted(k_mul_packed_amx, type, w, &a, y, scratch);
            printf("| %s | %d | %.2f | %.2f | %.1f | %.1f | %.1f |\n", k_types[type].name, a.nt, tiles, plain,
                   (double)emu_tile_count.loads / blocks, (double)emu_tile_count.products / blocks, (double)emu_tile_count.stores / blocks);
        }
        free(w);
    }
    tiles_off();
    return 0;
}
