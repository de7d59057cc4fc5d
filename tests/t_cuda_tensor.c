/* Float matrices by tensor cores, run by emu_cuda.h. They have an order of their own, and the order in which a GPU's mma adds is
 * not specified: results are near a sum in float64, and equal among themselves, whatever columns are beside a column. */
#include "program.h"
#include "check.h"
#include "t_cuda.h"
#include "t_quant.h"

#define TCT_RUN(name, type) \
    static void tct_few_##name(const void *m) { k_cuda_tensor_##name(*(const k_cuda_mul *)m); } \
    static void tct_many_##name(const void *m) { k_cuda_tensor_many_##name(*(const k_cuda_mul *)m); }
K_CUDA_FLOATS(TCT_RUN)

#define TCT_ROW(name, type) {"k_cuda_tensor_" #name, tct_few_##name}, {"k_cuda_tensor_many_" #name, tct_many_##name},
static const struct {
    const char *name;
    void      (*run)(const void *);
} tct_kernels[] = {K_CUDA_FLOATS(TCT_ROW)};
enum { TCT_KERNELS = sizeof tct_kernels / sizeof *tct_kernels };

static const uint32_t tct_types[] = {K_F32, K_F16, K_BF16, K_F16_ROUND};
enum { TCT_COLS = 67, TCT_ROWS = 70, TCT_LD = 73, TCT_N = 608, TCT_GUARD = 64 };

typedef struct {
    uint32_t  type;
    int       n, nr, ldx;
    uint8_t  *w;                                      /* [nr, n] */
    float    *x, *alone, *got;                        /* [TCT_COLS, ldx]; [TCT_COLS, TCT_LD]: a column at a time; guarded at the
                                                       * end */
    uint16_t *h;                                      /* x rounded */
} tct_case;

static int tct_size(uint32_t type) { return type == K_F32 ? 4 : 2; }
static bool tct_rounds(uint32_t type) { return k_act_of(type) == K_ACT_BF16; }

static void tct_put(const tct_case *c, int r, int i, float f) {
    const uint16_t half = c->type == K_BF16 ? k_f32_to_bf16(f) : k_f32_to_f16(f);
    memcpy(c->w + tct_size(c->type) * (r * c->n + i), c->type == K_F32 ? (const void *)&f : &half, (size_t)tct_size(c->type));
}

/* Weight i of row r and value i of column t as they are multiplied. */
static double tct_w(const tct_case *c, int r, int i) {
    const uint8_t *at = c->w + tct_size(c->type) * (r * c->n + i);
    uint16_t       half;
    float          f;
    memcpy(&half, at, 2);
    if (c->type == K_F32) memcpy(&f, at, 4);
    else f = c->type == K_BF16 ? k_bf16_to_f32(half) : c->type == K_F16 ? k_f16_to_f32(half) : k__f16_as_bf16(half);
    return (double)f;
}

static double tct_x(const tct_case *c, int t, int i) {
    const int at = t * c->ldx + i;
    return (double)(tct_rounds(c->type) ? k_bf16_to_f32(c->h[at]) : c->x[at]);
}

/* Rows and columns of n values, some columns far larger than others; values of columns are `gap` apart from those of the next. */
static tct_case tct_new(uint32_t type, int n, int nr, int gap) {
    tct_case c = {.type = type, .n = n, .nr = nr, .ldx = n + gap};
    const int all = TCT_COLS * c.ldx;
    c.w = mem_aligned((size_t)(nr * n), 4);
    c.x = mem_aligned((size_t)all, 4), c.h = mem_aligned((size_t)all, 2);
    c.alone = mem_new(TCT_COLS * TCT_LD, 4), c.got = mem_new(TCT_COLS * TCT_LD + TCT_GUARD, 4);
    for (int i = 0; i < nr * n; i++) tct_put(&c, i / n, i % n, tq_unit() * (i % 5 ? 1.0f : 0.01f));
    for (int i = 0; i < all; i++)
        c.x[i] = i % c.ldx < n ? tq_unit() * tq_unit() * (i / c.ldx % 3 ? 1.0f : 3000.0f) : NAN, c.h[i] = k_f32_to_bf16(c.x[i]);
    return c;
}

static void tct_drop(tct_case *c) {
    void *all[] = {c->w, c->x, c->h, c->alone, c->got};
    for (int i = 0; i < 5; i++) mem_free(all[i]);
}

static int tct_find(uint32_t type, bool many) {
    const char *name = k_cuda_tensor_of(type, many);
    for (int i = 0; name && i < TCT_KERNELS; i++)
        if (!strcmp(name, tct_kernels[i].name)) return i;
    return -1;
}

static k_cuda_mul tct_args(const tct_case *c, int first, int nt) {
    return (k_cuda_mul){.w = c->w, .row_bytes = (size_t)(c->n * tct_size(c->type)), .y = c->got, .ldy = TCT_LD,
                        .nr = c->nr, .n = c->n,
                        .a = {.x = c->x + first * c->ldx, .h = c->h + first * c->ldx, .ldx = (size_t)c->ldx, .nt = nt}};
}

/* Nothing is written after the rows and columns. False: the emulator found a fault. */
static bool tct_launch(const tct_case *c, const k_cuda_mul *m, bool many) {
    const int i = tct_find(c->type, many), rows = many ? K_CUDA_MANY_ROWS : K_PACK_ROWS,
              cols = many ? K_CUDA_MANY_COLS : K_CUDA_COLS, nt = m->a.nt;
    if (!CHECKF(i >= 0, "%s: no kernel", k_types[c->type].name)) return false;
    memset(c->got, 0xa5, (TCT_COLS * TCT_LD + TCT_GUARD) * 4);
    const char *fault = emu_launch(tct_kernels[i].run, m, (m->nr + rows - 1) / rows,
                                   m->tiles ? m->tiles[0] + 1 : (nt + cols - 1) / cols, K_CUDA_THREADS, tc_seed++);
    for (int k = 0; k < TCT_COLS * TCT_LD + TCT_GUARD; k++)
        if (k / TCT_LD >= nt || k % TCT_LD >= m->nr)
            CHECKF(k__bits_of(c->got[k]) == 0xa5a5a5a5, "%s: written outside", tct_kernels[i].name);
    return CHECKF(!fault, "%s, n %d, rows %d, columns %d: %s", tct_kernels[i].name, c->n, c->nr, nt, fault);
}

/* Every column alone. */
static void tct_alone(const tct_case *c) {
    for (int t = 0; t < TCT_COLS; t++) {
        const k_cuda_mul m = tct_args(c, t, 1);
        if (tct_launch(c, &m, false)) memcpy(c->alone + t * TCT_LD, c->got, TCT_LD * 4);
    }
}

/* Columns `first`, first + 1, ... equal what each gave alone. */
static void tct_equal(const tct_case *c, int first, int nt, bool many) {
    const k_cuda_mul m = tct_args(c, first, nt);
    if (!tct_launch(c, &m, many)) return;
    for (int t = 0; t < nt; t++)
        CHECKF(!memcmp(c->got + t * TCT_LD, c->alone + (first + t) * TCT_LD, (size_t)c->nr * 4),
               "%s, n %d, rows %d: column %d of %d%s is another than alone",
               k_types[c->type].name, c->n, c->nr, t, nt, many ? ", many" : "");
}

static void t_cuda_tensor_kernels(void) {
    for (uint32_t type = 0; type < K_TYPE_MAX + 2; type++) {
        const bool is = type == K_F32 || type == K_F16 || type == K_BF16 || type == K_F16_ROUND;
        for (int many = 0; many < 2; many++) CHECKF((tct_find(type, many) >= 0) == is, "type %u", type);
    }
}

/* A[r][k] = r - 2k, B[k][c] = 3k + c, C = 100r + c at first: whole numbers that bf16 holds, and their sums floats. */
static void tct_multiply(const void *arg) {
    const int g = K_CUDA_THREAD % 32 / 4, t = K_CUDA_THREAD % 4;
    uint32_t  a[4], b[2];
    float     c[4];
    for (int i = 0; i < 4; i++) {
        const int r = g + i % 2 * 8, k = 2 * t + i / 2 * 8;
        a[i] = k__cuda_bf16x2((float)(r - 2 * k), (float)(r - 2 * (k + 1)));
        c[i] = (float)(100 * (g + i / 2 * 8) + 2 * t + i % 2);
    }
    for (int i = 0; i < 2; i++) b[i] = k__cuda_bf16x2((float)(3 * (2 * t + 8 * i) + g), (float)(3 * (2 * t + 8 * i + 1) + g));
    k__cuda_mma_bf16(c, a[0], a[1], a[2], a[3], b[0], b[1]);
    for (int i = 0; i < 4; i++) {
        const int r = g + i / 2 * 8, col = 2 * t + i % 2;
        int       want = 100 * r + col;
        for (int k = 0; k < 16; k++) want += (r - 2 * k) * (3 * k + col);
        *(int *)(uintptr_t)arg += c[i] != (float)want;
    }
}

static void t_cuda_tensor_mma(void) {
    static const float halfway[] = {0x1.01p0f, 0x1.03p0f, 0x1.0100002p0f, -0x1.01p0f, 0x1.ffp127f, INFINITY, 0x1p-126f, 0};
    int bad = 0;
    CHECK(!emu_launch(tct_multiply, &bad, 1, 1, 64, 1));
    EQ_INT(bad, 0);
    for (int i = 0; i < 8; i++)
        CHECK(k__cuda_bf16x2(halfway[i],
                             halfway[7 - i]) == (k_f32_to_bf16(halfway[i]) | (uint32_t)k_f32_to_bf16(halfway[7 - i]) << 16));
    emu_free();
}

/* Every type; rows of any length, aligned to 16 bytes and not; parts of a strip and several strips; any number of columns. */
static void t_cuda_tensor_equal(void) {
    static const int ns[] = {1, 32, 33, 95, 128, 256, 320, 600, 608}, nr[] = {16, 1, 17, 70, 64, 16, 33, 18, 31},
    nts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 64};
    for (int i = 0; i < 4 * 9; i++) {
        tct_case c = tct_new(tct_types[i % 4], ns[i / 4], nr[i / 4], i / 4 % 3 ? (8 - ns[i / 4] % 8) % 8 + 8 : 3);
        tct_alone(&c);
        for (int k = 0; k < 12; k++) {
            if (k % 3 != i % 3 && ns[i / 4] != 256) continue;
            tct_equal(&c, (i + k) % (TCT_COLS - nts[k] + 1), nts[k], false);
            tct_equal(&c, (i + k) % (TCT_COLS - nts[k] + 1), nts[k], true);
        }
        tct_drop(&c);
    }
}

/* A sum of float64. Beside the products, an mma rounds once for each 16 of them, at 2^-24 of what it has so far, and so do the
 * sums of the blocks. Where factors are in two parts, the parts have 2^-18 less than a factor, and the product of the two small
 * parts is left out, which is as much. */
static void t_cuda_tensor_near(void) {
    static const int ns[] = {32, 95, 600};
    for (int i = 0; i < 4 * 3; i++) {
        tct_case     c = tct_new(tct_types[i % 4], ns[i / 4], 18, 8);
        double       worst = 0;
        const bool   split = !tct_rounds(c.type);
        const double most = (split ? 3 * 0x1p-18 : 0) + ((split ? 3 : 1) * (c.n / 16 + 1) + 3) * 0x1p-24;
        tct_alone(&c);
        for (int t = 0; t < 9; t++)
            for (int r = 0; r < c.nr; r++) {
                double sum = 0, all = 0;
                for (int k = 0; k < c.n; k++)
                    sum += tct_w(&c, r, k) * tct_x(&c, t, k), all += fabs(tct_w(&c, r, k) * tct_x(&c, t, k));
                const double off = fabs((double)c.alone[t * TCT_LD + r] - sum) / all;
                if (off > worst) worst = off;
                CHECKF(off <= most, "%s, n %d: row %d, column %d is %g, not %g", k_types[c.type].name, c.n, r, t,
                       (double)c.alone[t * TCT_LD + r], sum);
            }
        CHECKF(worst < 0x1p-12, "%g", worst);
        tct_drop(&c);
    }
}

/* Gathered columns, a factor, counts from the step, a grid that is larger than what is there; slots of experts. */
static void t_cuda_tensor_places(void) {
    enum { N = 288, NT = 11, EXPERTS = 2, SLOTS = 9 };
    static const int32_t idx[NT] = {5, 0, 5, 31, 2, 2, 66, 19, 1, 30, 11}, nt = 7, tiles[] = {2, 1, 0, 5, 0, 5, 4};
    static const float   scales[EXPERTS] = {0.5f, -3};
    for (int i = 0; i < 4 * 2; i++) {
        tct_case   c = tct_new(tct_types[i % 4], N, 36, 8);
        const bool many = i / 4;
        tct_alone(&c);
        k_cuda_mul m = tct_args(&c, 0, NT);
        m.a.idx = idx, m.scale = 0.37f;
        if (tct_launch(&c, &m, many))
            for (int k = 0; k < NT * 36; k++)
                CHECKF(c.got[k / 36 * TCT_LD + k % 36] == c.alone[idx[k / 36] * TCT_LD + k % 36] * 0.37f,
                       "%s: gathered column %d", k_types[c.type].name, k / 36);
        m = tct_args(&c, 0, nt);
        m.nt = &nt;
        m.a.nt = 60;                                  /* more than the kernel finds in the step */
        memset(c.got, 0xa5, TCT_COLS * TCT_LD * 4);
        const char *fault = emu_launch(tct_kernels[tct_find(c.type, many)].run, &m, 4, 8, K_CUDA_THREADS, tc_seed++);
        for (int k = 0; k < nt * 36; k++) CHECK(c.got[k / 36 * TCT_LD + k % 36] == c.alone[k / 36 * TCT_LD + k % 36]);
        CHECK(!fault && k__bits_of(c.got[nt * TCT_LD]) == 0xa5a5a5a5);
        m = tct_args(&c, 0, SLOTS);                   /* 18 rows of each expert */
        m.nr = 18, m.mat_bytes = 18 * m.row_bytes, m.tiles = tiles, m.scales = scales;
        if (tct_launch(&c, &m, many))
            for (int k = 0; k < SLOTS * 18; k++) {
                const int t = k / 18, e = t < 5;
                CHECKF(c.got[t * TCT_LD + k % 18] == c.alone[t * TCT_LD + 18 * e + k % 18] * scales[e], "%s: slot %d",
                       k_types[c.type].name, t);
            }
        tct_drop(&c);
    }
}

/* A weight or a value that is infinite or NaN spoils its row or its column, and no other result. */
static void t_cuda_tensor_odd(void) {
    static const float odd[] = {INFINITY, -INFINITY, NAN};
    for (int i = 0; i < 4 * 3 * 2; i++) {
        tct_case   c = tct_new(tct_types[i % 4], 300, 20, 4);
        const bool many = i >= 12;
        int        bad = 0;
        tct_put(&c, 7, 130, odd[i / 4 % 3]);
        c.x[4 * c.ldx + 299] = odd[i / 4 % 3], c.h[4 * c.ldx + 299] = k_f32_to_bf16(odd[i / 4 % 3]);
        const k_cuda_mul m = tct_args(&c, 0, 9);
        if (tct_launch(&c, &m, many))
            for (int t = 0; t < 9; t++)
                for (int r = 0; r < 20; r++) bad += (fabsf(c.got[t * TCT_LD + r]) < INFINITY) == (t == 4 || r == 7);
        CHECKF(!bad, "%s: %d results", k_types[c.type].name, bad);
        tct_drop(&c);
    }
}

/* More blocks than are parked at a time: terms of blocks added in rising order are the result, whatever warp had them. */
static void t_cuda_tensor_order(void) {
    enum { NB = 2 * K_CUDA_PARK + 3 };
    tct_case c = tct_new(K_BF16, 256 * NB, 2, 8);
    float    up[2] = {0}, down[2] = {0}, term[NB][2];
    for (int b = 0; b < NB; b++) {
        k_cuda_mul m = tct_args(&c, 0, 1);
        m.w += 512 * b, m.a.h += 256 * b, m.n = 256;
        if (tct_launch(&c, &m, b % 2)) memcpy(term[b], c.got, sizeof up);
    }
    for (int b = 0; b < NB; b++)
        for (int r = 0; r < 2; r++) up[r] += term[b][r], down[r] += term[NB - 1 - b][r];
    for (int many = 0; many < 2; many++) {
        const k_cuda_mul m = tct_args(&c, 0, 1);
        if (tct_launch(&c, &m, many)) EQ_MEM(c.got, up, sizeof up);
    }
    CHECK(memcmp(up, down, sizeof up) != 0);
    tct_drop(&c);
}

/* A kernel without any one of its barriers gives something else in some order of the threads. */
static void tct_barriers(const tct_case *c, int nt, bool many, int n_want) {
    const k_cuda_mul m = tct_args(c, 0, nt);
    const size_t     n_bytes = (size_t)nt * TCT_LD * 4;
    tc_seed = 1;
    if (!tct_launch(c, &m, many)) return;
    memcpy(c->alone, c->got, n_bytes);
    const int n_sync = emu.fiber[0].n_sync;
    EQ_INT(n_sync, n_want);
    for (int skip = 1; skip <= n_sync; skip++) {
        bool seen = false;
        emu.skip_sync = skip;
        for (int i = 0; i < 20 && !seen; i++) seen = tct_launch(c, &m, many) && memcmp(c->got, c->alone, n_bytes) != 0;
        emu.skip_sync = 0;
        CHECKF(seen, "%s: barrier %d of %d could go", many ? "many" : "few", skip, n_sync);
    }
}

static void t_cuda_tensor_barriers(void) {
    tct_case c = tct_new(K_BF16, 256 * (K_CUDA_PARK + 9), 16, 8);
    tct_barriers(&c, 8, false, 3);
    tct_drop(&c);
    for (int i = 0; i < 2; i++) {
        c = tct_new(i ? K_F32 : K_BF16, 600, 64, 8);
        tct_barriers(&c, 64, true, i ? 9 : 5);        /* two for each 128 or 256 columns but the first */
        tct_drop(&c);
    }
    emu_free();
}

static const t_case t_cuda_tensor_cases[] = {
    {"cuda_tensor mma", "the emulated GPU multiplies and rounds bf16 as the PTX ISA says", t_cuda_tensor_mma},
    {"cuda_tensor kernels", "floats have kernels by tensor cores, no other type has", t_cuda_tensor_kernels},
    {"cuda_tensor equal", "a column gives the same bits alone and among others, by few and by many columns, at any place",
     t_cuda_tensor_equal},
    {"cuda_tensor near", "results are near those in float64", t_cuda_tensor_near},
    {"cuda_tensor places", "gathered columns, factors, counts from the step, slots of experts", t_cuda_tensor_places},
    {"cuda_tensor odd", "what is not finite spoils its own row or column", t_cuda_tensor_odd},
    {"cuda_tensor order", "the terms of blocks are added in rising order", t_cuda_tensor_order},
    {"cuda_tensor barriers", "none of the barriers can be left out", t_cuda_tensor_barriers},
};
static const t_suite t_cuda_tensor_suite = SUITE(t_cuda_tensor_cases);
