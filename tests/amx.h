/* amx.h - the instructions of AMX in plain C: for copies of the kernels (avx512.h), and for a handler where the processor lacks
 * them (tiles.h). They follow Intel's manual (SDM, volume 2); what the processor refuses ends the program. */
#ifndef EMU_TILE
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EMU_TILE static __attribute__((noinline, unused))

enum { EMU_TILES = 8, EMU_TILE_ROWS = 16, EMU_TILE_BYTES = 64 };

typedef struct {
    uint8_t  palette, start_row, none[14];
    uint16_t bytes[16];                                  /* of a row */
    uint8_t  rows[16];
} emu_tile_config;

static __thread struct {
    emu_tile_config is;                                  /* palette 0: tiles are not configured */
    uint8_t         data[EMU_TILES][EMU_TILE_ROWS][EMU_TILE_BYTES];
} emu_tiles;

/* What a thread has executed. */
static __thread struct {
    uint64_t loads, stores, products;
} emu_tile_count;

static inline __attribute__((unused)) void emu_tile_must(int right) {
    if (!right) __builtin_trap();
}
EMU_TILE void emu_tile_loadconfig(const void *p) {
    memcpy(&emu_tiles.is, p, sizeof emu_tiles.is);
    memset(emu_tiles.data, 0, sizeof emu_tiles.data);
    emu_tile_must(emu_tiles.is.palette == 1 && emu_tiles.is.start_row == 0);
    for (int i = 0; i < 14; i++) emu_tile_must(emu_tiles.is.none[i] == 0);
    for (int i = 0; i < 16; i++) {
        const int rows = emu_tiles.is.rows[i], width = emu_tiles.is.bytes[i];
        emu_tile_must(i < EMU_TILES ? rows <= EMU_TILE_ROWS && width <= EMU_TILE_BYTES && !rows == !width : !rows && !width);
    }
}
EMU_TILE void emu_tile_release(void) { memset(&emu_tiles, 0, sizeof emu_tiles); }
EMU_TILE void emu_tile_zero(int t) {
    emu_tile_must(emu_tiles.is.palette && emu_tiles.is.rows[t]);
    memset(emu_tiles.data[t], 0, sizeof *emu_tiles.data);
}
EMU_TILE void emu_tile_loadd(int t, const void *p, size_t stride) {
    emu_tile_zero(t);
    for (int r = 0; r < emu_tiles.is.rows[t]; r++)
        memcpy(emu_tiles.data[t][r], (const char *)p + (size_t)r * stride, emu_tiles.is.bytes[t]);
    emu_tile_count.loads++;
}
EMU_TILE void emu_tile_stored(int t, void *p, size_t stride) {
    emu_tile_must(emu_tiles.is.palette && emu_tiles.is.rows[t]);
    for (int r = 0; r < emu_tiles.is.rows[t]; r++)
        memcpy((char *)p + (size_t)r * stride, emu_tiles.data[t][r], emu_tiles.is.bytes[t]);
    emu_tile_count.stores++;
}

/* c[m][n] += sum over k of a[m][4k .. 4k + 3] * b[k][4n .. 4n + 3], bytes that are signed or not. */
#define EMU_TILE_DOTS(name, ta, tb)                                                                                   \
    EMU_TILE void emu_tile_##name(int c, int a, int b) {                                                              \
        const emu_tile_config *is = &emu_tiles.is;                                                                    \
        emu_tile_must(is->palette && c != a && c != b && a != b && is->rows[c] && is->rows[a] && is->rows[b]);        \
        emu_tile_must(is->rows[c] == is->rows[a] && is->bytes[c] == is->bytes[b] && is->bytes[a] == 4 * is->rows[b]); \
        emu_tile_must(is->bytes[a] % 4 == 0 && is->bytes[b] % 4 == 0);                                                \
        for (int m = 0; m < is->rows[c]; m++)                                                                         \
            for (int n = 0; n < is->bytes[c] / 4; n++) {                                                              \
                const ta *x = (const ta *)emu_tiles.data[a][m];                                                       \
                uint32_t  s;                                                                                          \
                memcpy(&s, emu_tiles.data[c][m] + 4 * n, 4);                                                          \
                for (int k = 0; k < is->rows[b]; k++) {                                                               \
                    const tb *y = (const tb *)emu_tiles.data[b][k] + 4 * n;                                           \
                    for (int i = 0; i < 4; i++) s += (uint32_t)(x[4 * k + i] * y[i]);                                 \
                }                                                                                                     \
                memcpy(emu_tiles.data[c][m] + 4 * n, &s, 4);                                                          \
            }                                                                                                         \
        emu_tile_count.products++;                                                                                    \
    }
EMU_TILE_DOTS(dpbssd, int8_t, int8_t)
EMU_TILE_DOTS(dpbsud, int8_t, uint8_t)
EMU_TILE_DOTS(dpbusd, uint8_t, int8_t)
#endif
