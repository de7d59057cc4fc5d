/* Fuzzes blocks of every type of weights: the first byte is the type, the second the length of a row, rows follow. Nothing is read
 * outside of them, parts of a row mean what the row means, and products have the same bits at every level, packed or not. */
#include "program.h"

enum { FZ_COLS = 3, FZ_ROWS = 20, FZ_WEIGHTS = 1024, FZ_STEP = FZ_WEIGHTS / 256 };

/* Activations in all forms, the same in every run. */
typedef struct {
    float    x[FZ_COLS * FZ_WEIGHTS];
    uint16_t h[FZ_COLS * FZ_WEIGHTS];
    _Alignas(64) int8_t q[3 * FZ_COLS * FZ_WEIGHTS];
    k_sums   sum[FZ_COLS * FZ_STEP];
    float    d[2 * FZ_COLS * FZ_STEP];
    uint8_t  split[FZ_COLS];
} fz_cols;

static k_acts fz_acts(fz_cols *c, uint32_t type, int n) {
    for (int i = 0; i < FZ_COLS * FZ_WEIGHTS; i++) c->x[i] = (float)(i * 2654435761u % 2048) / 1024 - 1;
    c->x[n / 2] = 40;
    for (int t = 0; t < FZ_COLS; t++) {
        const float *x = c->x + t * FZ_WEIGHTS;
        k_kv_store(K_BF16, x, c->h + t * FZ_WEIGHTS, n);
        c->split[t] = k_quant_act(x, n, k_forms_of(type) & K_FORM_FINE, c->q + t * FZ_WEIGHTS, c->sum + t * FZ_STEP,
                                  c->d + t * FZ_STEP, FZ_WEIGHTS, FZ_COLS);
    }
    return (k_acts){.x = c->x, .ldx = FZ_WEIGHTS, .h = c->h, .q = c->q, .ldq = FZ_WEIGHTS, .sum = c->sum, .d = c->d, .ldd = FZ_STEP,
                    .split = c->split, .rest = FZ_COLS, .nt = FZ_COLS};
}

static bool fz_floats_equal(const float *a, const float *b, int n) {
    for (int i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) && !(isnan(a[i]) && isnan(b[i]))) return false;
    return true;
}

/* Whether the weights are finite. */
static bool fz_means(uint32_t type, const uint8_t *row, int n) {
    float    *all = mem_new((size_t)n, sizeof *all), *part = mem_new((size_t)n, sizeof *part);
    bool      ok = true;
    const int block = k_types[type].block;
    k_dequant_part(type, row, 0, all, n);
    for (int i = 0; i < n; i += block) k_dequant_part(type, row, i, part + i, block);
    ASSERT(fz_floats_equal(all, part, n));
    for (int i = 0; i < n; i++) ok = ok && isfinite(all[i]);
    mem_free_all(all, part);
    return ok;
}

static void fz_multiply(uint32_t type, const uint8_t *w, size_t row, int nr, int n) {
    static fz_cols c;
    float          y[3][FZ_COLS * FZ_ROWS] = {{0}};
    const char    *name[16];
    bool           can[16];
    const size_t   packed = k_pack_bytes(type, nr, n);
    uint8_t       *to = packed ? mem_aligned(packed, 1) : NULL, *scratch = mem_new(k_scratch_bytes(n), 1);
    for (int l = 0, levels = k_levels_list(name, can); l < levels; l++) {
        if (!can[l]) continue;
        k_init(name[l]);
        const k_acts a = fz_acts(&c, type, n);
        k_mul_rows(type, w, row, nr, n, &a, y[l > 0], FZ_ROWS, scratch);
        ASSERT(!l || fz_floats_equal(y[0], y[1], FZ_COLS * FZ_ROWS));
        if (!packed) continue;
        k_pack_rows(type, w, row, nr, n, to);
        k_mul_packed(type, to, nr, n, &a, y[2], FZ_ROWS, scratch);
        ASSERT(fz_floats_equal(y[0], y[2], FZ_COLS * FZ_ROWS));
    }
    mem_free_all(to, scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint32_t type = size > 2 ? data[0] : K_TYPE_MAX;
    if (!k_type_weight(type)) return 0;
    const int    step = max_int(k_types[type].block, 32), n = step * (1 + data[1] % (FZ_WEIGHTS / step));
    const size_t row = k_row_bytes(type, n);
    const int    nr = (int)min_size((size - 2) / row, FZ_ROWS);
    uint8_t     *w = mem_new(max_size((size_t)nr * row, 1), 1);
    bool         finite = nr > 0;
    memcpy(w, data + 2, (size_t)nr * row);
    for (int r = 0; r < nr; r++) finite = fz_means(type, w + (size_t)r * row, n) && finite;
    if (finite) fz_multiply(type, w, row, nr, n);
    mem_free(w);
    return 0;
}
