/* Quantised products: every level gives the bits of the scalar one, a column does not depend on other columns, and the results are
 * those of the dequantised weights. */
#include "program.h"
#include "check.h"

enum { TQ_N = 4096, TQ_ROWS = 140, TQ_COLS = 65 };

typedef struct {
    uint8_t *w;                                       /* rows of one type, exactly as long as they must be */
    size_t   row_bytes;
    float   *x, *d;
    int8_t  *q;
    k_sums  *sum;
    float   *want, *got;                              /* [TQ_COLS][TQ_ROWS] */
    void    *scratch;
    k_acts   a;
} tq_case;

static uint64_t tq_seed;
static uint64_t tq_rand(void) { return rng_at(11, 0, tq_seed++, 0); }
static float    tq_unit(void) { return (float)(rng_unit(tq_rand()) * 2 - 1); }

static void tq_new(tq_case *c) {
    *c = (tq_case){.x = mem_new(TQ_COLS * TQ_N, 4), .d = mem_new(TQ_COLS * TQ_N / 256, 4),
                   .q = mem_new(TQ_COLS * TQ_N, 1), .sum = mem_new(TQ_COLS * TQ_N / 256, sizeof(k_sums)),
                   .want = mem_new(TQ_COLS * TQ_ROWS, 4), .got = mem_new(TQ_COLS * TQ_ROWS, 4),
                   .scratch = mem_new(k_scratch_bytes(TQ_N), 1)};
}

static void tq_drop(tq_case *c) {
    void *all[] = {c->w, c->x, c->d, c->q, c->sum, c->want, c->got, c->scratch};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) mem_free(all[i]);
}

static bool tq_is_quant(uint32_t type) { return k_types[type].kind == K_KIND_INT || k_types[type].kind == K_KIND_SCALE; }

/* Whether a type differs from another one in its decoder alone, so that few shapes say what is left to say. */
static bool tq_is_like(uint32_t type) { return type >= K_Q6_0 || type == K_I2_S; }

/* Where the f16 fields of a block are; -1: no such one. */
static void tq_fields(uint32_t type, int at[2]) {
    static const struct { uint8_t type; int16_t at[2]; } field[] = {
        {K_Q2_K, {80, 82}}, {K_Q3_K, {108, -1}}, {K_Q6_K, {208, -1}}, {K_Q4_K, {0, 2}}, {K_Q5_K, {0, 2}}, {K_Q4_1, {0, 2}},
        {K_Q5_1, {0, 2}}, {K_TQ1_0, {52, -1}}, {K_TQ2_0, {64, -1}}, {K_I2_S, {-1, -1}},
    };
    at[0] = 0;
    at[1] = -1;
    for (size_t i = 0; i < sizeof field / sizeof *field; i++)
        if (field[i].type == type) memcpy(at, (int[2]){field[i].at[0], field[i].at[1]}, 2 * sizeof *at);
}

/* A scale of a block, in place of one of its f16 fields; for formats of bytes, the largest byte. */
static void tq_put_odd(uint32_t type, uint8_t *p, uint16_t f16) {
    int at[2];
    tq_fields(type, at);
    if (type == K_MXFP4 || type == K_NVFP4) p[0] = type == K_MXFP4 ? (uint8_t)(f16 & 1 ? 254 : f16 >> 8) : 0x7e;
    else if (type == K_IQ1_M)
        for (int i = 0; i < 4; i++) p[49 + 2 * i] = (uint8_t)((p[49 + 2 * i] & 15) | (f16 >> 4 * i & 15) << 4);
    else if (at[0] >= 0) memcpy(p + at[at[1] >= 0 && tq_rand() % 2], &f16, 2);
}

/* The scale in front of a row. */
static void tq_put_front(uint32_t type, uint8_t *row, float scale) {
    const uint16_t half = k_f32_to_f16(scale);
    if (k__row_front(type) == 2) memcpy(row, &half, 2);
    if (k__row_front(type) == 4) memcpy(row, &scale, 4);
}

/* A random f16 field could be infinite; `mag` keeps them sane. */
static void tq_put_scales(uint32_t type, uint8_t *p, float mag) {
    int at[2];
    tq_fields(type, at);
    if (type == K_MXFP4) {
        p[0] = (uint8_t)(110 + tq_rand() % 20);
    } else if (type == K_NVFP4) {
        for (int i = 0; i < 4; i++) p[i] = (uint8_t)(tq_rand() % 0x7f);
    } else if (type == K_IQ1_M) {                     /* the f16 is spread over the top nibbles of four words at 48 */
        uint16_t h = k_f32_to_f16(tq_unit() * mag);
        for (int i = 0; i < 4; i++) p[49 + 2 * i] = (uint8_t)((p[49 + 2 * i] & 15) | (h >> 4 * i & 15) << 4);
    } else {
        for (int i = 0; i < 2 && at[i] >= 0; i++) {
            uint16_t h = k_f32_to_f16(tq_unit() * mag);
            memcpy(p + at[i], &h, 2);
        }
    }
}

/* A row's blocks, one after the other. */
static void tq_quant(const k_level *l, const float *x, int n, int8_t *q, k_sums *sum, float *d, int *all) {
    for (int k = 0; k < n; k += 256) {
        int got = l->quant_act(x + k, n - k < 256 ? n - k : 256, q + k, sum + k / 256, d + k / 256);
        if (all) all[k / 256] = got;
    }
}

/* fill: -1 random bytes, else every byte of the codes */
static void tq_weights(tq_case *c, uint32_t type, int n, int rows, int fill) {
    c->row_bytes = k_row_bytes(type, n);
    mem_free(c->w);
    c->w = mem_new((size_t)rows, c->row_bytes);
    for (size_t i = 0; i < (size_t)rows * c->row_bytes; i++) c->w[i] = fill < 0 ? (uint8_t)tq_rand() : (uint8_t)fill;
    for (int r = 0; r < rows; r++) {
        uint8_t *row = c->w + (size_t)r * c->row_bytes;
        if (k__row_front(type)) tq_put_front(type, row, tq_unit() * 0.01f);
        for (size_t at = 0; at < c->row_bytes && !k__row_front(type); at += k_types[type].bytes)
            tq_put_scales(type, row + at, 0.01f);
    }
}

static void tq_acts(tq_case *c, int n, bool extreme) {
    c->a = (k_acts){.x = c->x, .ldx = (size_t)n, .q = c->q, .ldq = (size_t)n, .sum = c->sum, .d = c->d,
                    .ldd = (size_t)(n + 255) / 256};
    for (int t = 0; t < TQ_COLS; t++) {
        for (int i = 0; i < n; i++)
            c->x[t * n + i] = extreme ? (t % 3 == 2 ? (i & 1 ? 1.f : -1.f) : t % 3 ? -1.f : 1.f) : tq_unit() * tq_unit();
        tq_quant(&k_levels[0], c->x + t * n, n, c->q + t * n, c->sum + t * ((n + 255) / 256), c->d + t * ((n + 255) / 256), NULL);
    }
}

/* Equal bits; any NaN equals any other. */
static bool tq_same(const float *a, const float *b, int n) {
    for (int i = 0; i < n; i++)
        if (k__bits_of(a[i]) != k__bits_of(b[i]) && !(a[i] != a[i] && b[i] != b[i])) return false;
    return true;
}

static void tq_mul(tq_case *c, const k_level *l, uint32_t type, int n, int nr, int nt, float *y, int ldy) {
    c->a.nt = nt;
    memset(y, 0xa5, (size_t)nt * (size_t)ldy * 4);
    l->mul_quant(type, c->w, c->row_bytes, nr, n, &c->a, y, (size_t)ldy, c->scratch);
}

static void tq_against_scalar(tq_case *c, uint32_t type, int n, int nr, int nt) {
    tq_mul(c, &k_levels[0], type, n, nr, nt, c->want, nr);
    for (int l = 1; l < K_LEVELS; l++) {
        if (!k__can(&k_levels[l])) continue;
        tq_mul(c, &k_levels[l], type, n, nr, nt, c->got, nr);
        CHECKF(!memcmp(c->want, c->got, (size_t)nr * (size_t)nt * 4), "%s at %s: n %d, rows %d, columns %d differ from scalar",
               k_types[type].name, k_levels[l].name, n, nr, nt);
    }
}

/* A test with tiles of up to six columns, or of eight at the levels that have them. */
static void tq_tiles(bool wide, void (*test)(void)) {
#if defined(__x86_64__)
    bool      any = !wide;
    const int was = g_k_tile_cols;
    for (int l = 0; l < K_LEVELS; l++) any |= (k_levels[l].needs & K_CPU_AVX512) && k__can(&k_levels[l]);
    if (!any) SKIP("no level with tiles of eight columns runs here; make levels emulates them");
    g_k_tile_cols = wide ? K__TILE : K__TILE_REGS;
    test();
    g_k_tile_cols = was;
#else
    if (wide) SKIP("no tiles of eight columns");
    test();
#endif
}

/* k_init without its choice of tiles. */
static bool tq_init(const k_level *l) {
#if defined(__x86_64__)
    const int  was = g_k_tile_cols;
    const bool can = k_init(l->name);
    g_k_tile_cols = was;
    return can;
#else
    return k_init(l->name);
#endif
}

static void tq_levels(void) {
    static const int nt[] = {1, 2, 3, 5, 8, 9, 16, 17, 33}, nr[] = {1, 3, 16, 31, 32, 33, 70};
    static const int ns[] = {32, 64, 96, 128, 224, 256, 288, 512, 1024, 1184, 2048, 2304, 4096};
    tq_case          c;
    tq_new(&c);
    for (uint32_t type = 0; type < K_TYPE_MAX; type++)
        for (size_t i = 0; tq_is_quant(type) && i < sizeof ns / sizeof *ns; i++) {
            if (ns[i] % k_types[type].block) continue;
            if (tq_is_like(type) && ns[i] != 256 && ns[i] != 1024) continue;
            bool all = ns[i] <= 288 || ns[i] == 1184; /* the long rows: a few shapes say as much */
            for (size_t r = 0; r < 7; r += tq_is_like(type) ? 2 : 1) {
                tq_weights(&c, type, ns[i], nr[r], -1);      /* exactly nr rows: reading one more is seen by a sanitizer */
                tq_acts(&c, ns[i], false);
                for (size_t t = 0; t < 9; t++)
                    if (all || (r + t) % 7 == i % 7) tq_against_scalar(&c, type, ns[i], nr[r], nt[t]);
            }
        }
    tq_drop(&c);
}

static void t_quant_levels(void) { tq_tiles(false, tq_levels); }
static void t_quant_levels_wide(void) { tq_tiles(true, tq_levels); }

/* The largest codes against activations of +-127 everywhere: whatever can saturate does it here. */
static void tq_extremes(void) {
    static const int fill[] = {0xff, 0x00, 0x80, 0x7f, 0x88, 0x77, 0xf0, 0x0f};
    tq_case          c;
    tq_new(&c);
    for (uint32_t type = 0; type < K_TYPE_MAX; type++)
        for (size_t f = 0; tq_is_quant(type) && f < sizeof fill / sizeof *fill; f++) {
            int n = 512;
            tq_weights(&c, type, n, 33, fill[f]);
            tq_acts(&c, n, true);
            for (int nt = 1; nt <= 17; nt += 4) tq_against_scalar(&c, type, n, 33, nt);
            tq_against_scalar(&c, type, n, 33, 16);
        }
    tq_drop(&c);
}

static void t_quant_extremes(void) { tq_tiles(false, tq_extremes); }
static void t_quant_extremes_wide(void) { tq_tiles(true, tq_extremes); }

/* Weights of one block with the largest codes of their type, and nine columns with a
 * group whose sum times that code is just inside or outside a word, of either sign. */
enum { TQ_BOUND_TYPES = 3, TQ_BOUND_SUMS = 12, TQ_BOUND_ROWS = 32, TQ_BOUND_COLS = 9 };
static uint32_t tq_bound(tq_case *c, int i, int k) {
    static const struct {
        uint8_t type;
        int     fill, code, group;
    } rows[] = {{K_Q4_K, 0xff, 15, 32}, {K_Q5_K, 0xff, 31, 32}, {K_Q6_K, 0x00, 32, 16}};
    const int total = 32768 / rows[i].code + k / 2 - 3, each = total / rows[i].group, more = total % rows[i].group;
    tq_weights(c, rows[i].type, 256, TQ_BOUND_ROWS, rows[i].fill);
    for (int r = 0; rows[i].type == K_Q6_K && r < TQ_BOUND_ROWS; r++)
        memset(c->w + (size_t)r * c->row_bytes + 192, 0x55, 16);   /* its scales */
    tq_acts(c, 256, false);
    for (int t = 0; t < TQ_BOUND_COLS; t++) {
        float *x = c->x + t * 256;
        memset(x, 0, 256 * sizeof *x);
        for (int g = 0; g < rows[i].group; g++) x[g] = (float)(each + (g < more)) * (k % 2 ? -1 : 1);
        x[255] = 127;                                 /* so that codes are the values */
        tq_quant(&k_levels[0], x, 256, c->q + t * 256, c->sum + t, c->d + t, NULL);
        EQ_INT(rows[i].group == 16 ? c->sum[t].most16 : c->sum[t].most32, total);
    }
    return rows[i].type;
}

static void tq_bounds(void) {
    tq_case c;
    tq_new(&c);
    for (int i = 0; i < TQ_BOUND_TYPES; i++)
        for (int k = 0; k < TQ_BOUND_SUMS; k++)
            tq_against_scalar(&c, tq_bound(&c, i, k), 256, TQ_BOUND_ROWS, TQ_BOUND_COLS);
    tq_drop(&c);
}
static void t_quant_bounds(void) { tq_tiles(false, tq_bounds); }
static void t_quant_bounds_wide(void) { tq_tiles(true, tq_bounds); }

/* Scales that are infinite, NaN or the largest a block can hold: every level gives the scalar bits, or NaN where that does. */
static void tq_odd_scales(void) {
    static const uint16_t odd[] = {0x7c00, 0xfc00, 0x7e00, 0x7bff, 0x0001, 0x8001};
    const int             n = 512, nr = 34;
    tq_case               c;
    tq_new(&c);
    for (uint32_t type = 0; type < K_TYPE_MAX; type++)
        for (size_t o = 0; tq_is_quant(type) && o < sizeof odd / sizeof *odd; o++) {
            tq_weights(&c, type, n, nr, -1);
            tq_acts(&c, n, false);
            for (int r = 0; r < nr; r++) {
                uint8_t *row = c.w + (size_t)r * c.row_bytes;
                if (k__row_front(type) && tq_rand() % 3 == 0) tq_put_front(type, row, k_f16_to_f32(odd[o]));
                for (size_t at = 0; at < c.row_bytes && !k__row_front(type); at += k_types[type].bytes)
                    if (tq_rand() % 5 == 0) tq_put_odd(type, row + at, odd[o]);
            }
            for (int nt = 1; nt <= 16; nt += 5) {
                tq_mul(&c, &k_levels[0], type, n, nr, nt, c.want, nr);
                for (int l = 1; l < K_LEVELS; l++) {
                    if (!k__can(&k_levels[l])) continue;
                    tq_mul(&c, &k_levels[l], type, n, nr, nt, c.got, nr);
                    CHECKF(tq_same(c.want, c.got, nr * nt), "%s at %s: scale %#x, columns %d differ from scalar",
                           k_types[type].name, k_levels[l].name, (unsigned)odd[o], nt);
                }
            }
        }
    tq_drop(&c);
}
static void t_quant_odd_scales(void) { tq_tiles(false, tq_odd_scales); }
static void t_quant_odd_scales_wide(void) { tq_tiles(true, tq_odd_scales); }

/* Calls fn for each quantised type and level that runs here, with random weights [nr, n] and activations. */
static void tq_each(int n, int nr, void (*fn)(tq_case *c, uint32_t type, int l, int n, int nr)) {
    tq_case c;
    tq_new(&c);
    for (uint32_t type = 0; type < K_TYPE_MAX; type++)
        for (int l = 0; tq_is_quant(type) && l < K_LEVELS; l++) {
            if (!k__can(&k_levels[l])) continue;
            tq_weights(&c, type, n, nr, -1);
            tq_acts(&c, n, false);
            fn(&c, type, l, n, nr);
        }
    tq_drop(&c);
}

/* Column t alone, found through idx. */
static void tq_columns(tq_case *c, uint32_t type, int l, int n, int nr) {
    for (int nt = 2; nt <= TQ_COLS; nt += 5) {
        tq_mul(c, &k_levels[l], type, n, nr, nt, c->want, nr);
        for (int t = 0; t < nt; t++) {
            int32_t pick = t;
            c->a.idx = &pick;
            tq_mul(c, &k_levels[l], type, n, nr, 1, c->got, nr);
            c->a.idx = NULL;
            CHECKF(!memcmp(c->want + t * nr, c->got, (size_t)nr * 4), "%s at %s: column %d of %d alone differs",
                   k_types[type].name, k_levels[l].name, t, nt);
        }
    }
}
static void t_quant_columns(void) { tq_each(512, 34, tq_columns); }

static void tq_gather(tq_case *c, uint32_t type, int l, int n, int nr) {
    static const int32_t idx[18] = {3, 3, 0, 17, 5, 31, 2, 9, 9, 1, 30, 12, 4, 4, 28, 6, 7, 8};
    const int            ldy = 47;
    tq_mul(c, &k_levels[l], type, n, nr, TQ_COLS, c->want, ldy);
    for (int nt = 2; nt <= 18; nt += 16) {
        c->a.idx = idx;
        tq_mul(c, &k_levels[l], type, n, nr, nt, c->got, ldy);
        c->a.idx = NULL;
        for (int t = 0; t < nt; t++) {
            CHECKF(!memcmp(c->got + t * ldy, c->want + idx[t] * ldy, (size_t)nr * 4), "%s at %s: gathered column %d of %d",
                   k_types[type].name, k_levels[l].name, t, nt);
            for (int r = nr; r < ldy; r++)
                CHECKF(k__bits_of(c->got[t * ldy + r]) == 0xa5a5a5a5, "written past the rows");
        }
    }
}
static void t_quant_gather(void) { tq_each(256, 40, tq_gather); }

/* Relative to the sum of magnitudes: f32 sums of a few dozen terms lose no more than this. */
static void t_quant_truth(void) {
    tq_case c;
    int     n = 1024, nr = 5, nt = 3;
    float  *w = mem_new((size_t)n, 4);
    tq_new(&c);
    for (uint32_t type = 0; type < K_TYPE_MAX; type++) {
        if (!tq_is_quant(type)) continue;
        tq_weights(&c, type, n, nr, -1);
        tq_acts(&c, n, false);
        tq_mul(&c, &k_levels[0], type, n, nr, nt, c.want, nr);
        for (int r = 0; r < nr; r++) {
            k_types[type].dequant(c.w + (size_t)r * c.row_bytes, w, n);
            for (int t = 0; t < nt; t++) {
                double s = 0, mag = 0;
                for (int i = 0; i < n; i++) {
                    double v = (double)w[i] * c.q[t * n + i] * c.d[t * (n / 256) + i / 256];
                    s += v;
                    mag += fabs(v);
                }
                CHECKF(fabs(s - c.want[t * nr + r]) <= 1e-5 * mag, "%s: %.9g, want %.9g", k_types[type].name,
                       c.want[t * nr + r], s);
            }
        }
    }
    mem_free(w);
    tq_drop(&c);
}

static void tq_act_case(const float *x, int n, const char *what) {
    int8_t  q[2][600];
    k_sums  sum[2][3];
    float   d[2][3];
    int     all[2][3] = {{0}};
    memset(q, 1, sizeof q);
    memset(sum, 1, sizeof sum);
    memset(d, 1, sizeof d);
    tq_quant(&k_levels[0], x, n, q[0], sum[0], d[0], all[0]);
    for (int l = 1; l < K_LEVELS; l++) {
        if (!k__can(&k_levels[l])) continue;
        tq_quant(&k_levels[l], x, n, q[1], sum[1], d[1], all[1]);
        CHECKF(!memcmp(q[0], q[1], sizeof q[0]), "%s, n %d at %s: codes differ", what, n, k_levels[l].name);
        CHECKF(!memcmp(sum[0], sum[1], sizeof sum[0]), "%s, n %d at %s: sums differ", what, n, k_levels[l].name);
        CHECKF(!memcmp(d[0], d[1], sizeof d[0]), "%s, n %d at %s: scales differ", what, n, k_levels[l].name);
        CHECKF(!memcmp(all[0], all[1], sizeof all[0]), "%s, n %d at %s: magnitudes differ", what, n, k_levels[l].name);
    }
    for (int i = 0; i < n; i++) CHECKF(q[0][i] >= -127, "%s: code -128", what);
}

static void t_quant_acts(void) {
    static const float odd[] = {NAN, INFINITY, -INFINITY, -0.0f, 1e-40f, -1e-45f, 3e38f, -3e38f, 1e-38f};
    float              x[600];
    for (int n = 32; n <= 576; n += 32) {
        for (int i = 0; i < n; i++) x[i] = tq_unit();
        tq_act_case(x, n, "random");
        for (int i = 0; i < n; i++) x[i] = (float)(int)(tq_rand() % 255) - 127;
        x[7] = 127;
        tq_act_case(x, n, "whole numbers");
        for (int i = 0; i < n; i++) x[i] = (float)(int)(tq_rand() % 128) - 63.5f;
        x[7] = 127;
        tq_act_case(x, n, "ties");
        memset(x, 0, sizeof x);
        tq_act_case(x, n, "zeros");
        for (size_t o = 0; o < sizeof odd / sizeof *odd; o++) {
            memset(x, 0, sizeof x);
            x[n - 3] = odd[o];
            tq_act_case(x, n, "one odd value among zeros");
            for (int i = 0; i < n; i++) x[i] = i % 5 ? tq_unit() : odd[o];
            tq_act_case(x, n, "odd values");
        }
    }
}

/* The error of a code is at most half a step. */
static void t_quant_acts_truth(void) {
    float   x[320], d[2];
    int8_t  q[320];
    k_sums  sum[2];
    int     all[2], want[2] = {0};
    for (int i = 0; i < 320; i++) x[i] = tq_unit() * (i < 256 ? 3 : 100);
    tq_quant(&k_levels[0], x, 320, q, sum, d, all);
    for (int i = 0; i < 320; i++) {
        NEAR(q[i] * d[i / 256], x[i], 0.5001 * d[i / 256]);
        want[i / 256] += abs(q[i]);
    }
    for (int b = 0; b < 2; b++) EQ_INT(all[b], want[b]);
    for (int g = 0; g < 20; g++) {
        int s = 0;
        for (int i = 0; i < 16; i++) s += q[16 * g + i];
        EQ_INT(sum[g / 16].of16[g % 16], s);
    }
    for (int i = 0; i < 8; i++) {
        static const int order[8] = {0, 2, 1, 3, 4, 6, 5, 7};
        EQ_INT(sum[0].of32[i], sum[0].of16[2 * order[i]] + sum[0].of16[2 * order[i] + 1]);
        EQ_INT(sum[1].of32[i], order[i] > 1 ? 0 : sum[1].of16[2 * order[i]] + sum[1].of16[2 * order[i] + 1]);
    }
    int most16[2] = {0}, most32[2] = {0};
    for (int g = 0; g < 20; g++) {
        int size = 0, one[2] = {0};
        for (int i = 0; i < 16; i++) size += abs(q[16 * g + i]);
        for (int i = 0; i < 32; i++) one[q[16 * (g & ~1) + i] < 0] += abs(q[16 * (g & ~1) + i]);
        most16[g / 16] = size > most16[g / 16] ? size : most16[g / 16];
        for (int h = 0; h < 2; h++) most32[g / 16] = one[h] > most32[g / 16] ? one[h] : most32[g / 16];
    }
    for (int b = 0; b < 2; b++) {
        EQ_INT(sum[b].most16, most16[b]);
        EQ_INT(sum[b].most32, most32[b]);
    }
}

/* With room for far values. */
static void tq_new_apart(tq_case *c) {
    tq_new(c);
    c->q = mem_grow(c->q, 3 * TQ_COLS * TQ_N, 1);
    c->sum = mem_grow(c->sum, 2 * TQ_COLS * TQ_N / 256, sizeof(k_sums));
    c->d = mem_grow(c->d, 2 * TQ_COLS * TQ_N / 256, 4);
}

/* Rows of TQ_COLS columns, quantised in two parts; some of their blocks have a value a hundred times the others, long rows two. */
static void tq_peaked_acts(tq_case *c, int n, uint8_t *split) {
    const int ldq = (n + 255) & ~255;
    c->a = (k_acts){.x = c->x, .ldx = (size_t)n, .q = c->q, .ldq = (size_t)ldq, .sum = c->sum, .d = c->d,
                    .ldd = (size_t)ldq / 256, .split = split, .rest = TQ_COLS};
    for (int t = 0; t < TQ_COLS; t++) {
        float *x = c->x + t * n;
        for (int i = 0; i < n; i++) x[i] = tq_unit();
        for (int b = 0; b * 256 < n; b++) {
            const int at = (t * 37 + b) % (n - 256 * b < 256 ? 32 : 256);
            if ((t + b) % 3 || t % 4 == 0) continue;
            x[256 * b + at] = t & 1 ? 100 : -60;
            if (n > 2048) x[256 * b + (at ^ 128)] = 55;
        }
        split[t] = k_quant_act(x, n, t % 2, c->q + t * ldq, c->sum + t * (ldq / 256), c->d + t * (ldq / 256), (size_t)ldq, TQ_COLS);
    }
}

/* Root of the squared distance from the product of the dequantised weights and the float activations, over its own. */
static double tq_loss(tq_case *c, uint32_t type, int n, int nr, int nt, const float *y) {
    float *w = mem_new((size_t)n, sizeof *w);
    double off = 0, all = 0;
    for (int r = 0; r < nr; r++) {
        k_types[type].dequant(c->w + (size_t)r * c->row_bytes, w, n);
        for (int t = 0; t < nt; t++) {
            double want = 0;
            for (int i = 0; i < n; i++) want += (double)w[i] * (double)c->x[t * n + i] * (fabsf(c->x[t * n + i]) < 10);
            double got = (double)y[t * nr + r];
            for (int i = 0; i < n; i++) got -= (double)w[i] * (double)c->x[t * n + i] * (fabsf(c->x[t * n + i]) >= 10);
            off += (got - want) * (got - want);
            all += want * want;
        }
    }
    mem_free(w);
    return sqrt(off / all);
}

/* Packed rows give the bits of c->want, which has nr results for each of TQ_COLS columns. */
static void tq_split_packed(tq_case *c, uint32_t type, int n, int nr, const int *nts, int n_nts) {
    const size_t size = k_pack_bytes(type, nr, n);
    uint8_t     *packed = mem_aligned(size + 1, 1);
    if (size) k_pack_rows(type, c->w, c->row_bytes, nr, n, packed);
    for (int j = 0; size && j < n_nts; j++) {
        c->a.nt = nts[j];
        memset(c->got, 0xa5, (size_t)nts[j] * (size_t)nr * 4);
        k_mul_packed(type, packed, nr, n, &c->a, c->got, (size_t)nr, c->scratch);
        CHECKF(tq_same(c->want, c->got, nts[j] * nr), "%s at %s: n %d, %d columns: packed rows give other bits",
               k_types[type].name, k_level_name(), n, nts[j]);
    }
    for (int t = 1; size && t < 4; t++) {             /* alone, with far values in other blocks each */
        k_acts one = c->a;
        one.idx = &(int32_t){t};
        one.nt = 1;
        k_mul_packed(type, packed, nr, n, &one, c->got, (size_t)nr, c->scratch);
        CHECKF(tq_same(c->want + t * nr, c->got, nr), "%s at %s: n %d, column %d: packed rows give other bits alone",
               k_types[type].name, k_level_name(), n, t);
    }
    mem_free(packed);
}

/* A product without the share of its outliers equals the product of the other values. */
static void tq_split(void) {
    static const int      ns[] = {256, 288, 1024}, nts[] = {1, 3, 5, 8, 9, TQ_COLS};
    const char           *was = k_level_name();
    uint8_t               split[TQ_COLS];
    tq_case               c;
    tq_new_apart(&c);
    for (uint32_t type = 0; type < K_TYPE_MAX; type++)
        for (int k = 0; k < 3; k++) {
            const int n = ns[k], nr = type == K_Q4_K ? TQ_ROWS : 37;
            if (!k_wants_q8(type) || n % k_types[type].block) continue;
            tq_weights(&c, type, n, nr, -1);
            for (int l = 0; l < K_LEVELS; l++) {
                if (!tq_init(&k_levels[l])) continue;
                tq_seed = 1000 + n;                   /* the same rows at every level */
                tq_peaked_acts(&c, n, split);
                for (int t = 0; t < TQ_COLS; t++) EQ_INT(split[t], t % 4 && (t % 3 == 0 || n > 256) && !(n == 288 && t % 3 == 1));
                for (int j = 0; j < 6; j++) {
                    float alone[TQ_ROWS];
                    memset(c.got, 0xa5, (size_t)nts[j] * (size_t)nr * 4);
                    c.a.nt = nts[j];
                    k_mul_rows(type, c.w, c.row_bytes, nr, n, &c.a, c.got, (size_t)nr, c.scratch);
                    for (int t = 0; t < nts[j]; t++) {
                        k_acts one = c.a;
                        one.idx = &(int32_t){t};
                        one.nt = 1;
                        k_mul_rows(type, c.w, c.row_bytes, nr, n, &one, alone, (size_t)nr, c.scratch);
                        CHECKF(!memcmp(alone, c.got + t * nr, (size_t)nr * sizeof *alone), "%s at %s: n %d, column %d of %d is another alone",
                               k_types[type].name, k_levels[l].name, n, t, nts[j]);
                    }
                }
                if (l == 0) memcpy(c.want, c.got, TQ_COLS * (size_t)nr * 4);
                CHECKF(!memcmp(c.want, c.got, TQ_COLS * (size_t)nr * 4), "%s at %s: n %d differs from scalar", k_types[type].name,
                       k_levels[l].name, n);
                const double two = tq_loss(&c, type, n, nr, TQ_COLS, c.got);
                tq_split_packed(&c, type, n, nr, nts, 6);
                c.a.split = NULL;
                k_mul_rows(type, c.w, c.row_bytes, nr, n, &c.a, c.got, (size_t)nr, c.scratch);
                const double one = tq_loss(&c, type, n, nr, TQ_COLS, c.got);
                CHECKF(two < 0.012 && one > 5 * two, "%s, n %d: loss %.4f, in one part %.4f", k_types[type].name, n, two, one);
            }
        }
    k_init(was);
    tq_drop(&c);
}

/* A row of two blocks, the first with values of about 1000 and of about `size` among ones, at every level: codes and far values add
 * up to the row, and all levels have the same. n_far: how many values are expected to be far. */
static void tq_far_case(bool fine, int huge, int large, float size, int n_far) {
    enum { N = 320 };
    _Alignas(8) int8_t q[2][3 * 512];
    k_sums             sum[2][4];
    float              d[2][4], x[N];
    const char        *was = k_level_name();
    tq_seed = 77;
    for (int i = 0; i < N; i++) x[i] = (i & 1 ? 1.0f : -1.0f) * (0.9f + 0.1f * tq_unit());
    for (int i = 0; i < huge + large; i++) x[3 + 7 * i] = (i < huge ? -1000.0f : size) * (1 + 0.01f * tq_unit());
    for (int l = 0; l < K_LEVELS; l++) {
        const int at = l > 0;
        if (!tq_init(&k_levels[l])) continue;
        memset(q[at], 0x5a, sizeof q[at]);
        memset(d[at], 0x5a, sizeof d[at]);
        const bool    split = k_quant_act(x, N, fine, q[at], sum[at], d[at], 512, 1);
        const k__far *list = (const k__far *)(const void *)(q[at] + 1024);
        EQ_INT(split, huge > 0);
        if (split) EQ_INT(list->k, n_far);
        for (int i = 0, k = 1; split && i < N; i++) {
            float v = d[at][i / 256] * (float)q[at][i];
            if (k <= list->k && list[k].k == i) {
                CHECK(list[k].v == d[at][2 + i / 256] * (float)q[at][512 + i]);
                v += list[k++].v;
            }
            NEAR(v, x[i], 0.5001 * d[at][i / 256]);
        }
        const float most = n_far < huge + large ? size : 4;   /* 1000 / 127 / 2 is left of a far value */
        if (n_far) CHECK(d[at][0] < 1.02f * most / 127);
        CHECKF(!memcmp(q[0], q[at], sizeof q[0]) && !memcmp(d[0], d[at], sizeof d[0]), "%d and %d values at %s differ", huge,
               large, k_levels[l].name);
    }
    k_init(was);
}

/* Magnitudes at the ends of those that can be told in units, among zeros: nothing becomes infinite. */
static void tq_far_edges(void) {
    static const float edges[] = {3.4e38f, 9.6290625e-35f, 9.6293e-35f, 9.7e-35f};
    _Alignas(8) int8_t q[3 * 256];
    const char        *was = k_level_name();
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        for (int l = 0; l < K_LEVELS; l++) {
            float  x[256] = {[9] = edges[i]}, d[2];
            k_sums sum[2];
            if (!tq_init(&k_levels[l])) continue;
            const bool    split = k_quant_act(x, 256, i % 2, q, sum, d, 256, 1);
            const k__far *list = (const k__far *)(const void *)(q + 512);
            const float   v = d[0] * (float)q[9] + (split && list->k ? list[1].v : 0);
            CHECKF(d[0] <= FLT_MAX && fabsf(v / edges[i] - 1) < 0.01f, "%g at %s: %g", (double)edges[i], k_levels[l].name,
                   (double)v);
        }
    k_init(was);
}

static void t_quant_far(void) {
    for (int fine = 0; fine < 2; fine++) {
        tq_far_case(fine, 0, 0, 50, 0);
        tq_far_case(fine, 1, 0, 50, 1);
        tq_far_case(fine, 3, 5, 50, 8);
        tq_far_case(fine, 10, 20, 50, 30);
        tq_far_case(fine, 20, 12, 50, 0);             /* one for 8 values and more: these are no exceptions */
        tq_far_case(fine, 1, 3, 8, fine ? 4 : 1);     /* between the two limits */
    }
    tq_far_edges();
}

/* Rows with more far values than columns are dequantised at a time (K__FAR_SLOTS): one row, and few rows with other columns each. */
static void t_quant_far_many(void) {
    static const uint32_t types[] = {K_Q4_K, K_Q6_K, K_Q8_0, K_Q4_1};
    static const int      nts[] = {1, 2, 3, 5};
    enum { N = TQ_N, NR = 37, MOST = 5, EACH = 20 };
    const char *was = k_level_name();
    uint8_t     split[TQ_COLS];
    tq_case     c;
    tq_new_apart(&c);
    c.a = (k_acts){.x = c.x, .ldx = N, .q = c.q, .ldq = N, .sum = c.sum, .d = c.d, .ldd = N / 256, .split = split, .rest = TQ_COLS};
    for (int t = 0; t < MOST; t++) {
        float *x = c.x + t * N;
        for (int i = 0; i < N; i++) x[i] = tq_unit();
        for (int i = 0; i < N / 256 * EACH; i++) x[i / EACH * 256 + (i % EACH * 12 + 5 * t) % 256] = i & 1 ? 100 : -60;
        split[t] = k_quant_act(x, N, t % 2, c.q + t * N, c.sum + t * (N / 256), c.d + t * (N / 256), N, TQ_COLS);
        EQ_INT(((const k__far *)(const void *)(c.q + (t + 2 * TQ_COLS) * N))->k, N / 256 * EACH);
    }
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        tq_weights(&c, types[i], N, NR, -1);
        for (int l = 0; l < K_LEVELS; l++) {
            if (!tq_init(&k_levels[l])) continue;
            c.a.nt = MOST;
            k_mul_rows(types[i], c.w, c.row_bytes, NR, N, &c.a, l ? c.got : c.want, NR, c.scratch);
            CHECKF(l == 0 || tq_same(c.want, c.got, MOST * NR), "%s at %s differs from scalar", k_types[types[i]].name, k_levels[l].name);
            tq_split_packed(&c, types[i], N, NR, nts, 4);
        }
    }
    k_init(was);
    tq_drop(&c);
}

static void t_quant_split(void) { tq_tiles(false, tq_split); }
static void t_quant_split_wide(void) { tq_tiles(true, tq_split); }

static void t_quant_init(void) {
    const char *names[K_LEVELS];
    bool        can[K_LEVELS];
    const char *was = k_level_name();
    EQ_INT(k_levels_list(names, can), K_LEVELS);
    EQ_STR(names[0], "scalar");
    CHECK(can[0]);
    CHECK(!k_init("sse9") && !k_init(""));
    EQ_STR(k_level_name(), was);                      /* a refused name changes nothing */
    for (int i = 0; i < K_LEVELS; i++) {
        EQ_INT(k_init(names[i]), can[i]);
        if (can[i]) EQ_STR(k_level_name(), names[i]);
    }
    CHECK(k_init(NULL) && k_init("auto"));
    CHECK(k_init(was));
}

/* "auto" on processors and timings that are made up: the last level whose features are all there, that of bf16 only where its
 * instruction was faster. */
static void t_quant_auto(void) {
#if defined(__x86_64__)
    const unsigned avx2 = K_CPU_AVX2 | K_CPU_FMA | K_CPU_F16C, avx512 = avx2 | K_CPU_AVX512 | K_CPU_VNNI,
                   all = avx512 | K_CPU_AVX_VNNI | K_CPU_BF16, tiles = all | K_CPU_AMX;
    const k__trial  none = {0, 0}, faster = {100, 60}, equal = {100, 100}, slower = {100, 190};
    const struct { unsigned have; k__trial trial; const char *want; } rows[] = {
        {0, none, "scalar"},
        {K_CPU_AVX2, faster, "scalar"},                   /* without FMA and F16C */
        {avx2, none, "avx2"},
        {avx2 | K_CPU_AVX512, none, "avx2"},              /* without VNNI */
        {avx2 | K_CPU_AVX_VNNI, none, "avx_vnni"},
        {avx512, faster, "avx512"},                       /* a trial counts only where there is the instruction */
        {all, faster, "avx512_bf16"},
        {all, slower, "avx512"},
        {all, equal, "avx512"},
        {all, none, "avx512"},                            /* nothing was measured */
        {avx2 | K_CPU_BF16, faster, "avx2"},
        {tiles, faster, "avx512_amx"},
        {tiles, slower, "avx512_amx"},
        {avx512 | K_CPU_AMX, none, "avx512_amx"},
        {avx2 | K_CPU_AMX, none, "avx2"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        CHECKF(!strcmp(k_levels[k__pick(rows[i].have, rows[i].trial)].name, rows[i].want), "row %zu: got %s, want %s", i,
               k_levels[k__pick(rows[i].have, rows[i].trial)].name, rows[i].want);
    /* tiles of six or eight columns, by a trial that is done once */
    const char *was = k_level_name();
    const int   cols = k__tile_trial();
    CHECKF(cols == K__TILE_REGS || cols == K__TILE, "tiles of %d columns", cols);
    for (int i = 0; i < K_LEVELS; i++) {
        if (!k_init(k_levels[i].name)) continue;
        const bool tried = k_levels[i].needs & K_CPU_AVX512 && !(k_levels[i].needs & K_CPU_AMX);
        EQ_INT(k_tile_columns(), tried ? cols : 0);
    }
    CHECK(k_init(was));
#else
    EQ_INT(k__pick(0, (k__trial){0, 0}), 0);
#if defined(__aarch64__)
    EQ_STR(k_levels[k__pick(K_CPU_I8MM, (k__trial){0, 0})].name, "scalar");
    EQ_STR(k_levels[k__pick(K_CPU_DOTPROD, (k__trial){0, 0})].name, "neon");
    EQ_STR(k_levels[k__pick(K_CPU_DOTPROD | K_CPU_I8MM, (k__trial){0, 0})].name, "i8mm");
#endif
#endif
}

static const t_case t_quant_cases[] = {
    {"quant_levels", "every format, level and shape gives the scalar bits", t_quant_levels},
    {"quant_levels_wide", "the same with tiles of eight columns", t_quant_levels_wide},
    {"quant_extremes", "nothing saturates at the largest codes and activations", t_quant_extremes},
    {"quant_extremes_wide", "the same with tiles of eight columns", t_quant_extremes_wide},
    {"quant_bounds", "dots at the ends of a word keep their bits", t_quant_bounds},
    {"quant_bounds_wide", "the same with tiles of eight columns", t_quant_bounds_wide},
    {"quant_odd_scales", "infinite, NaN and huge scales give the scalar bits", t_quant_odd_scales},
    {"quant_odd_scales_wide", "the same with tiles of eight columns", t_quant_odd_scales_wide},
    {"quant_columns", "a column's bits do not depend on the batch", t_quant_columns},
    {"quant_gather", "idx picks activation rows, and ldy is respected", t_quant_gather},
    {"quant_truth", "products are those of the dequantised weights", t_quant_truth},
    {"quant_acts", "activations quantise to the same bits at every level, odd values included", t_quant_acts},
    {"quant_acts_truth", "activation codes are the nearest, sums are sums", t_quant_acts_truth},
    {"quant_far", "values far above the mean of their block are apart, at every level alike", t_quant_far},
    {"quant_far_many", "more far values than columns are dequantised at a time, in one row and in few", t_quant_far_many},
    {"quant_split", "rows with outliers keep what stands beside them, at every level, alone and in company", t_quant_split},
    {"quant_split_wide", "the same with tiles of eight columns", t_quant_split_wide},
    {"quant_init", "levels are chosen by name, and refused when they cannot run", t_quant_init},
    {"quant_auto", "the level by itself is the last that the processor runs, bf16 where it was faster in the trial",
     t_quant_auto},
};
static const t_suite t_quant_suite = SUITE(t_quant_cases);
