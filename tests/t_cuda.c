/* The kernels of [cuda], run by emu_cuda.h: products have the bits of the scalar level. What the emulator must notice is tested
 * too: removed barriers, diverging threads, reads of uninitialised shared memory. */
#include "program.h"
#include "check.h"
#include "t_pack.h"
#include "t_quant.h"

#define TC_RUN(name, bits, segs, head, table) \
    static void tc_run_##name(const void *m) { k_cuda_mul_##name(*(const k_cuda_mul *)m); } \
    static void tc_many_##name(const void *m) { k_cuda_many_##name(*(const k_cuda_mul *)m); }
#define TC_RUN_FLOAT(name, type) static void tc_run_##name(const void *m) { k_cuda_mul_##name(*(const k_cuda_mul *)m); }
K_CUDA_MULS(TC_RUN)
K_CUDA_FLOATS(TC_RUN_FLOAT)

#define TC_ROW_FLOAT(name, type) {"k_cuda_mul_" #name, tc_run_##name},
#define TC_ROW(name, bits, segs, head, table) {"k_cuda_mul_" #name, tc_run_##name}, {"k_cuda_many_" #name, tc_many_##name},
static const struct {
    const char *name;
    void      (*run)(const void *);
} tc_kernels[] = {K_CUDA_MULS(TC_ROW) K_CUDA_FLOATS(TC_ROW_FLOAT)};
enum { TC_KERNELS = sizeof tc_kernels / sizeof *tc_kernels };

static uint64_t tc_seed;                              /* another order of the threads in each launch */

/* The kernel of m for weights of a type, -1: none. */
static int tc_find(uint32_t type, bool many, k_cuda_mul *m) {
    const char *name = k_cuda_mul_of(type, many, m);
    for (int i = 0; name && i < TC_KERNELS; i++)
        if (!strcmp(name, tc_kernels[i].name)) return i;
    return -1;
}

static bool tc_many;                                  /* the kernels for many columns run, where there are such */

/* Runs the kernel of a product. False: the emulator found a fault. */
static bool tc_launch(uint32_t type, k_cuda_mul m) {
    const bool many = tc_many && k_wants_q8(type);
    const int  i = tc_find(type, many, &m), rows = many ? K_CUDA_MANY_ROWS : K_PACK_ROWS,
               cols = many ? K_CUDA_MANY_COLS : K_CUDA_COLS;
    memset(m.y, 0xa5, (size_t)m.a.nt * m.ldy * 4);
    if (!CHECKF(i >= 0, "%s: no kernel", k_types[type].name)) return false;
    const char *fault = emu_launch(tc_kernels[i].run, &m, (m.nr + rows - 1) / rows, (m.a.nt + cols - 1) / cols,
                                   K_CUDA_THREADS, tc_seed++);
    return CHECKF(!fault, "%s, n %d, rows %d, columns %d: %s", tc_kernels[i].name, m.n, m.nr, m.a.nt, fault);
}

/* Where k_cuda_pack puts the codes and the scales of a unit that k_pack_rows wrote to `from`; `to` is all 0. */
static void tc_far_unit(const k__form *f, const uint8_t *from, uint8_t *to) {
    /* bits of the wider, of the narrower one */
    static const int planes[9][2] = {{0}, {1}, {2}, {2, 1}, {4}, {4, 1}, {4, 2}, {0}, {8}};
    const uint8_t   *codes = from + k__codes_at(f), *head = from + k__head_at(f);
    for (int c = 0; c < 1024 * f->segs; c++) {
        const int r = c % 16, col = c / 16, lane = r % 8 * 4 + col / 4 % 4, reg = r / 8 * 4 + col % 64 / 16,
                  wide = planes[f->bits][0];
        uint8_t   line[16][64];
        if (c % 1024 == 0) k__planes_get(f->bits, codes + col / 64 * 128 * f->bits, line);
        const int code = line[col % 64 / 4][4 * r + col % 4];
        for (int p = 0, width; p < 2 && (width = planes[f->bits][p]); p++) {
            const int word = (col / 64 * 8 + reg) * width / 8, part = p ? code >> wide : code & ((1 << wide) - 1);
            const int place = width * f->segs < 4 ? 4 * lane : word / 4 * 512 + lane * 16 + word % 4 * 4;
            to[(int)k__codes_at(f) + (p ? 0 : planes[f->bits][1] * f->segs * 128) + place
               + col % 4] |= (uint8_t)(part << reg * width % 8);
        }
    }
    for (int line = 0; line < k__head_lines(f->head); line++)
        for (int r = 0; r < 16; r++) {
            const int beside = r % 8 * 2 + r / 8, few = k__head_lines(f->head) < 4 ? k__head_lines(f->head) : 4,
                      width = k__head_width(f->head, line);
            uint8_t  *at = to + k__head_at(f) + (line < 4 ? (beside * few + line) * 4 : 256 + beside * 4);
            for (int b = 0; b < 4; b++) at[b] = head[64 * line + b / width * 16 * width + r * width + b % width];
        }
}

/* The order of k_cuda_pack, in place of that of k_pack_rows. */
static void tc_far(uint32_t type, uint8_t *packed, size_t n_bytes) {
    const k__form *f = &k__forms[type];
    uint8_t        unit[8192];
    for (size_t at = 0; at < n_bytes; at += k__unit_bytes(f)) {
        memset(unit, 0, sizeof unit);
        tc_far_unit(f, packed + at, unit);
        memcpy(packed + at, unit, k__unit_bytes(f));
    }
}

/* c's packed rows times its activations. */
static bool tc_mul(tp_case *c, uint32_t type, int n, int nr, int nt, float *y, int ldy) {
    c->q.a.nt = nt;
    return tc_launch(type, (k_cuda_mul){.w = c->packed, .a = c->q.a, .y = y, .ldy = (size_t)ldy, .nr = nr, .n = n});
}

/* Both kernels of the type; that for many columns with some numbers of them. */
static void tc_against_scalar(tp_case *c, uint32_t type, int n, int nr, int nt) {
    tq_mul(&c->q, &k_levels[0], type, n, nr, nt, c->q.want, nr);
    for (int many = 0; many < 2; many++) {
        if (many && nt > 1 && nt < 9) continue;
        tc_many = many;
        if (tc_mul(c, type, n, nr, nt, c->q.got, nr))
            CHECKF(tq_same(c->q.want, c->q.got, nr * nt), "%s: n %d, rows %d, columns %d differ from the scalar level",
                   k_types[type].name, n, nr, nt);
    }
    tc_many = false;
}

static void tc_pack(tp_case *c, uint32_t type, int n, int nr) {
    tp_pack(c, type, n, nr, nr);
    tc_far(type, c->packed, c->bytes);
}

static void tc_weights(tp_case *c, uint32_t type, int n, int nr, int fill) {
    tq_weights(&c->q, type, n, nr, fill);
    tc_pack(c, type, n, nr);
}

static void t_cuda_kernels(void) {
    k_cuda_mul m;
    bool       used[TC_KERNELS] = {0};
    for (uint32_t type = 0; type < K_TYPE_MAX + 2; type++) {
        const int i = tc_find(type, false, &m), many = tc_find(type, true, &m);
        CHECKF((i >= 0) == (type == K_F16_ROUND || k_type_weight(type)), "type %u: kernel %d", type, i);
        CHECKF((many >= 0) == (type < K_TYPE_MAX && tp_is_packed(type)), "type %u: kernel %d for many columns", type, many);
        if (i >= 0) used[i] = true;
        if (many >= 0) used[many] = true;
    }
    for (int i = 0; i < TC_KERNELS; i++) CHECKF(used[i], "%s serves no type", tc_kernels[i].name);
}

/* Every type and number of columns; rows of one unit, of a part of a unit, of a part of a block, of more blocks than there are
 * warps. */
static void t_cuda_products(void) {
    static const int ns[] = {32, 96, 128, 256, 352, 512, 2304}, nr[] = {16, 1, 17, 15, 33, 18, 16},
    nts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 64};
    tp_case          c;
    tp_new(&c);
    for (uint32_t type = 0; type < K_TYPE_MAX; type++)
        for (int i = 0; tp_is_packed(type) && i < 7; i++) {
            if (ns[i] % k_types[type].block) continue;
            tc_weights(&c, type, ns[i], nr[i], -1);
            tq_acts(&c.q, ns[i], false);
            for (int t = 0; t < 12; t++)
                if (ns[i] == 256 || (t + i) % 6 == 0) tc_against_scalar(&c, type, ns[i], nr[i], nts[t]);
        }
    tp_drop(&c);
}

/* The largest codes and scales; scales that are infinite, NaN, subnormal. */
static void t_cuda_extremes(void) {
    static const int fill[] = {0xff, 0x00, 0x80, 0x7f, 0x88, 0x77, 0xf0, 0x0f};
    tp_case          c;
    tp_new(&c);
    for (uint32_t type = 0; type < K_TYPE_MAX; type++)
        for (int f = 0; tp_is_packed(type) && f < 12; f++) {
            tq_weights(&c.q, type, 512, 16, f < 8 ? fill[f] : -1);
            for (size_t at = 0; f >= 8 && at < 16 * c.q.row_bytes; at++)
                c.q.w[at] = (uint8_t)(f % 2 ? tq_rand() : tq_rand() % 4 * 85 & 0xfe);
            tq_acts(&c.q, 512, f < 8);
            tc_pack(&c, type, 512, 16);
            tc_against_scalar(&c, type, 512, 16, 3);
        }
    tp_drop(&c);
}

static void t_cuda_gather(void) {
    static const int32_t idx[] = {5, 0, 5, 31, 2, 2, 7, 19, 1, 30, 11};
    enum { N = 512, NR = 20, LDY = 27, NT = 11 };
    tp_case c;
    tp_new(&c);
    for (uint32_t type = 0; type < K_TYPE_MAX; type++) {
        if (!tp_is_packed(type)) continue;
        tc_weights(&c, type, N, NR, -1);
        tq_acts(&c.q, N, false);
        tq_mul(&c.q, &k_levels[0], type, N, NR, 33, c.q.want, NR);
        c.q.a.idx = idx;
        for (int many = 0; many < 2; many++) {
            tc_many = many;
            tc_mul(&c, type, N, NR, NT, c.q.got, LDY);
            for (int t = 0; t < NT; t++) {
                CHECKF(!memcmp(c.q.got + t * LDY, c.q.want + idx[t] * NR, NR * 4), "%s: gathered column %d",
                       k_types[type].name, t);
                for (int r = NR; r < LDY; r++) CHECKF(k__bits_of(c.q.got[t * LDY + r]) == 0xa5a5a5a5, "written past the rows");
            }
            CHECK(tp_guarded(&c));
        }
        tc_many = false;
    }
    tp_drop(&c);
}

/* `rows` quantised rows, of which every fourth has no far values; the others have up to `most` in a block. */
static void tc_far_acts(tp_case *c, int n, int rows, int most, uint8_t *split) {
    const int ldq = (n + 255) & ~255;
    c->q.q = mem_grow(c->q.q, 3 * (size_t)(rows * ldq), 1);
    c->q.sum = mem_grow(c->q.sum, 2 * (size_t)(rows * ldq / 256), sizeof(k_sums));
    c->q.d = mem_grow(c->q.d, 2 * (size_t)(rows * ldq / 256), 4);
    c->q.a = (k_acts){.q = c->q.q, .ldq = (size_t)ldq, .sum = c->q.sum, .d = c->q.d, .ldd = (size_t)ldq / 256, .split = split,
                      .rest = rows};
    float *x = mem_new((size_t)n, sizeof *x);
    for (int t = 0; t < rows; t++) {
        for (int i = 0; i < n; i++) x[i] = tq_unit();
        for (int b = 0; t % 4 && 256 * b < n; b++)
            for (int i = (int)(tq_rand() % (unsigned)(most + 1)); i > 0; i--)
                x[256 * b + tq_rand() % (unsigned)min_int(256, n - 256 * b)] = tq_unit() < 0 ? -100 : 60;
        split[t] = k_quant_act(x, n, t % 2, c->q.q + t * ldq, c->q.sum + t * (ldq / 256), c->q.d + t * (ldq / 256), (size_t)ldq, rows);
    }
    mem_free(x);
}

/* Both kernels against k_mul_rows. */
static void tc_split_case(tp_case *c, uint32_t type, int n, int nr, int nt, float scale) {
    c->q.a.nt = nt;
    k_mul_rows(type, c->q.w, c->q.row_bytes, nr, n, &c->q.a, c->q.want, (size_t)nr, c->q.scratch);
    if (scale != 0) k_scale(c->q.want, scale, nt * nr);
    for (int many = 0; many < 2; many++) {
        tc_many = many;
        if (!tc_launch(type, (k_cuda_mul){.w = c->packed, .a = c->q.a, .y = c->q.got, .ldy = (size_t)nr, .nr = nr, .n = n,
                                          .scale = scale})) continue;
        CHECKF(!memcmp(c->q.want, c->q.got, (size_t)nt * (size_t)nr * 4), "%s%s: n %d, columns %d differ", k_types[type].name,
               many ? ", many" : "", n, nt);
    }
    tc_many = false;
}

/* Rows with outliers: few of the columns of weights and more than there are slots, rows of a part of a block, gathered ones,
 * a factor. */
static void t_cuda_split(void) {
    static const int     ns[] = {256, 352, 1024}, nts[] = {1, 3, 8, 9, 30}, nr[] = {19, 33, 16};
    static const int32_t idx[30] = {5, 0, 5, 31, 2, 2, 7, 19, 1, 30, 11, 3, 3, 8, 4, 12, 6, 9, 10, 13, 14, 15, 16};
    uint8_t              split[32];
    tp_case              c;
    tp_new(&c);
    k_init("scalar");
    for (uint32_t type = 0; type < K_TYPE_MAX; type++)
        for (int k = 0; tp_is_packed(type) && k < 3; k++) {
            const int n = ns[k] % k_types[type].block ? 512 : ns[k];
            tc_weights(&c, type, n, nr[k], -1);
            tc_far_acts(&c, n, 32, k == 1 ? 1 : 9, split);
            CHECK(memchr(split, 0, sizeof split) && memchr(split, 1, sizeof split));
            for (int j = (int)type % 2; j < 5; j += 2) {
                c.q.a.idx = j % 3 ? idx : NULL;
                tc_split_case(&c, type, n, nr[k], nts[j], k == 2 ? 0.37f : 0);
            }
        }
    tp_drop(&c);
}

/* More blocks than are searched for far values at a time: their order shows. */
static void t_cuda_split_long(void) {
    enum { N = 256 * (2 * K__CUDA_FAR_BLOCKS + 3) };
    uint8_t split[3];
    tp_case c;
    tp_new(&c);
    k_init("scalar");
    tc_weights(&c, K_Q6_K, N, K_PACK_ROWS, -1);
    tc_far_acts(&c, N, 3, 2, split);
    CHECK(split[1] && split[2]);
    tc_split_case(&c, K_Q6_K, N, K_PACK_ROWS, 3, 0);
    tp_drop(&c);
}

/* A weight that is infinite times a zero would be NaN: only far values meet their columns. */
static void t_cuda_split_zero(void) {
    enum { N = 512 };
    uint8_t split[4];
    int     bad = 0;
    tp_case c;
    tp_new(&c);
    k_init("scalar");
    tc_weights(&c, K_Q8_0, N, K_PACK_ROWS, -1);
    tc_far_acts(&c, N, 4, 3, split);
    for (int r = 0; r < K_PACK_ROWS; r++) ((block_q8_0 *)(void *)(c.q.w + (size_t)r * c.q.row_bytes))[N / 32 - 1].d = 0x7c00;
    tc_pack(&c, K_Q8_0, N, K_PACK_ROWS);
    tc_split_case(&c, K_Q8_0, N, K_PACK_ROWS, 4, 0);
    for (int i = 0; i < 4 * K_PACK_ROWS; i++) bad += !isfinite(c.q.got[i]);
    CHECK(bad == 4 * K_PACK_ROWS);
    tp_drop(&c);
}

/* Rows of floats, some with values that are infinite, NaN or denormal: any length, gathered columns. */
static void t_cuda_floats(void) {
    static const uint32_t types[] = {K_F32, K_F16, K_BF16, K_F16_ROUND};
    static const int      ns[] = {1, 15, 16, 17, 31, 33, 64, 95, 320}, nts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 64};
    static const int32_t  idx[64] = {3, 3, 0, 17, 5, 31, 2, 9, 9, 1, 30, 12, 4, 4, 28, 6, 7, 8};
    enum { MOST = 320, LDX = MOST + 2, ROWS = 18, LDY = 20 };
    uint8_t  *w = mem_new(ROWS * MOST, 4);
    uint16_t *h = mem_new(64 * LDX, 2);
    float    *x = mem_new(64 * LDX, 4), *want = mem_new(64 * LDY, 4), *got = mem_new(64 * LDY, 4);
    for (int i = 0; i < 64 * LDX; i++) x[i] = tq_unit() * tq_unit(), h[i] = k_f32_to_bf16(x[i]);
    for (int i = 0; i < 4 * 9 * 12; i++) {
        const uint32_t type = types[i % 4];
        const int      n = ns[i / 4 % 9], nt = nts[i / 36], nr = 1 + i % ROWS, size = type == K_F32 ? 4 : 2;
        k_cuda_mul     m = {.w = w, .row_bytes = (size_t)(n * size), .y = got, .ldy = LDY, .nr = nr, .n = n,
                            .a = {.x = x, .ldx = LDX, .h = h, .idx = i % 5 ? NULL : idx, .nt = nt}};
        for (int k = 0; k < nr * n; k++) {
            const float    f = i % 7 ? tq_unit() : k__f32_of((uint32_t)tq_rand());
            const uint16_t half = type == K_BF16 ? k_f32_to_bf16(f) : k_f32_to_f16(f);
            memcpy(w + size * k, size == 4 ? (const void *)&f : &half, (size_t)size);
        }
        memset(want, 0xa5, (size_t)nt * LDY * 4);
        k_mul_float_ref(type, w, m.row_bytes, nr, n, &m.a, want, LDY);
        if (tc_launch(type, m))
            CHECKF(tq_same(got, want, nt * LDY), "%s: n %d, rows %d, columns %d differ", k_types[type].name, n, nr, nt);
    }
    void *all[] = {w, h, x, want, got};
    for (int i = 0; i < 5; i++) mem_free(all[i]);
}

/* Q4_K with `nb` blocks to a row, 16 rows and one column, in arrays of their own. */
static void tc_long(tp_case *c, int nb) {
    const int n = 256 * nb;
    tc_weights(c, K_Q4_K, n, K_PACK_ROWS, -1);
    c->q.a = (k_acts){.q = c->q.q, .ldq = (size_t)n, .sum = c->q.sum, .d = c->q.d, .ldd = (size_t)nb, .nt = 1};
    for (int i = 0; i < n; i++) c->q.x[i] = tq_unit() * tq_unit();
    tq_quant(&k_levels[0], c->q.x, n, c->q.q, c->q.sum, c->q.d, NULL);
    k_mul_quant_ref(K_Q4_K, c->q.w, c->q.row_bytes, K_PACK_ROWS, n, &c->q.a, c->q.want, K_PACK_ROWS, NULL);
}

/* More blocks than are parked at a time. Their terms added in rising order are the result, and these data show another order. */
static void t_cuda_order(void) {
    enum { NB = 2 * K_CUDA_PARK + 9 };
    float   up[K_PACK_ROWS] = {0}, down[K_PACK_ROWS] = {0}, term[NB][K_PACK_ROWS];
    int     differ = 0;
    tp_case c;
    tp_new(&c);
    tc_long(&c, NB);
    for (int b = 0; b < NB; b++) {
        const k_acts a = {.q = c.q.q + 256 * b, .sum = c.q.sum + b, .d = c.q.d + b, .nt = 1};
        k_mul_quant_ref(K_Q4_K, c.q.w + b * (int)sizeof(block_q4_K), c.q.row_bytes, K_PACK_ROWS, 256, &a, term[b],
                        K_PACK_ROWS, NULL);
    }
    for (int b = 0; b < NB; b++)
        for (int r = 0; r < K_PACK_ROWS; r++) up[r] += term[b][r], down[r] += term[NB - 1 - b][r];
    tc_mul(&c, K_Q4_K, 256 * NB, K_PACK_ROWS, 1, c.q.got, K_PACK_ROWS);
    EQ_MEM(c.q.got, c.q.want, sizeof up);
    EQ_MEM(c.q.got, up, sizeof up);
    for (int r = 0; r < K_PACK_ROWS; r++) differ += k__bits_of(up[r]) != k__bits_of(down[r]);
    CHECKF(differ > K_PACK_ROWS / 2, "the order shows in %d rows of %d", differ, K_PACK_ROWS);
    tp_drop(&c);
}

/* Counts from the step, factors on the results; more columns than a block has. */
static void t_cuda_step_counts(void) {
    enum { N = 512, NR = 70, NT = 67 };
    tp_case c;
    tp_new(&c);
    for (int many = 0; many < 2; many++) {
        const int32_t nt = NT;
        tc_weights(&c, K_Q5_K, N, NR, -1);
        tq_acts(&c.q, N, false);
        float *y = mem_new(2 * NT * NR, 4), *want = y + NT * NR;
        int32_t idx[NT];
        for (int t = 0; t < NT; t++) idx[t] = 7 * t % 33;
        c.q.a.idx = idx;
        c.q.a.nt = NT;
        k_mul_rows(K_Q5_K, c.q.w, c.q.row_bytes, NR, N, &c.q.a, want, NR, c.q.scratch);
        for (int i = 0; i < NT * NR; i++) want[i] *= 0.37f;
        tc_many = many;
        tc_launch(K_Q5_K, (k_cuda_mul){.w = c.packed, .a = c.q.a, .nt = &nt, .y = y, .ldy = NR, .nr = NR, .n = N,
                                       .scale = 0.37f});
        CHECKF(tq_same(want, y, NT * NR), "%d columns, factor", NT);
        c.q.a.nt = 100;                               /* the grid is larger than what is there */
        y = mem_grow(y, 200 * NR, 4);
        tc_launch(K_Q5_K, (k_cuda_mul){.w = c.packed, .a = c.q.a, .nt = &nt, .y = y, .ldy = NR, .nr = NR, .n = N,
                                       .scale = 0.37f});
        for (int i = NT * NR; i < 100 * NR; i++) CHECK(k__bits_of(y[i]) == 0xa5a5a5a5);
        mem_free(y);
    }
    tc_many = false;
    tp_drop(&c);
}

/* Whether one of twenty runs without barrier number `skip` differs: each has another order of the threads. They are in a process
 * of their own, which may crash. */
static bool tc_seen_apart(int skip, bool (*differs)(const void *), const void *of) {
    int         status = 0;
    const pid_t child = fork();
    if (!child) {
        bool seen = false;
        if (!freopen("/dev/null", "w", stderr)) _exit(0);
        emu.skip_sync = skip;
        for (int i = 0; i < 20 && !seen; i++) seen = differs(of);
        _exit(seen);
    }
    return CHECK(child > 0 && waitpid(child, &status, 0) == child) && status != 0;
}

/* A product whose result is c->q.want. */
typedef struct {
    tp_case *c;
    uint32_t type;
    int      n, nr, nt;
} tc_known;

static bool tc_differs(const void *of) {
    const tc_known *k = of;
    return !tc_mul(k->c, k->type, k->n, k->nr, k->nt, k->c->q.got, k->nr) ||
           memcmp(k->c->q.got, k->c->q.want, (size_t)k->nt * (size_t)k->nr * 4) != 0;
}

/* A kernel without any one of its barriers gives something else in at least one of some orders of the threads. */
static void tc_barriers(tp_case *c, uint32_t type, int n, int nr, int nt, int n_want) {
    const tc_known known = {c, type, n, nr, nt};
    tc_seed = 1;
    CHECK(!tc_differs(&known));
    const int n_sync = emu.fiber[0].n_sync;
    EQ_INT(n_sync, n_want);
    for (int skip = 1; skip <= n_sync; skip++)
        CHECKF(tc_seen_apart(skip, tc_differs, &known), "barrier %d of %d could go", skip, n_sync);
}

static void t_cuda_barriers(void) {
    uint8_t split[TQ_COLS];
    tp_case c;
    tp_new(&c);
    k_init("scalar");
    tq_seed = 0;                                      /* how often slots are filled depends on the rows */
    tc_long(&c, 2 * K_CUDA_PARK + 9);
    tc_barriers(&c, K_Q4_K, 256 * (2 * K_CUDA_PARK + 9), K_PACK_ROWS, 1, 5);     /* two for each K_CUDA_PARK blocks, one the first
                                                                                  * time */
    tc_weights(&c, K_Q4_K, 512, 33, -1);
    tc_far_acts(&c, 512, TQ_COLS, 5, split);
    for (int many = 0; many < 2; many++) {
        const int nt = many ? 17 : 8;
        c.q.a.nt = nt;
        k_mul_rows(K_Q4_K, c.q.w, c.q.row_bytes, 33, 512, &c.q.a, c.q.want, 33, c.q.scratch);
        tc_many = many;
        /* one for the terms, or one for the list and three for two blocks; two to find columns, two whenever slots are filled */
        tc_barriers(&c, K_Q4_K, 512, 33, nt, many ? 10 : 5);
    }
    tc_many = false;
    tp_drop(&c);
}

/* --- the emulator itself --- */

static float tc_out[EMU_THREADS];

/* Thread i reads what thread i + 1 wrote. */
static void tc_neighbours(const void *arg) {
    K_CUDA_SHARED(float, x, EMU_THREADS);
    x[K_CUDA_THREAD] = (float)K_CUDA_THREAD;
    if (*(const bool *)arg) k__cuda_sync();
    tc_out[K_CUDA_THREAD] = x[(K_CUDA_THREAD + 1) % EMU_THREADS];
}

/* A[r][k] = r + 3k, B[k][c] = k - 5c, C = 7 at first: two steps of 16 are one of 32. */
static void tc_multiply(const void *arg) {
    const int g = K_CUDA_THREAD % 32 / 4, t = K_CUDA_THREAD % 4;
    uint32_t  a[4] = {0}, b[2] = {0};
    int       c[4] = {7, 7, 7, 7}, d[4] = {7, 7, 7, 7};
    for (int j = 0; j < 4; j++) {
        for (int i = 0; i < 4; i++) a[i] |= (uint32_t)(uint8_t)(g + i % 2 * 8 + 3 * (4 * t + i / 2 * 16 + j)) << 8 * j;
        for (int i = 0; i < 2; i++) b[i] |= (uint32_t)(uint8_t)(4 * t + i * 16 + j - 5 * g) << 8 * j;
    }
    k__cuda_mma32(c, a[0], a[1], a[2], a[3], b[0], b[1]);
    k__cuda_mma16(d, a[0], a[1], b[0]);
    k__cuda_mma16(d, a[2], a[3], b[1]);
    for (int i = 0; i < 4; i++) {
        int want = 7;
        for (int k = 0; k < 32; k++) want += (g + i / 2 * 8 + 3 * k) * (k - 5 * (2 * t + i % 2));
        *(int *)(uintptr_t)arg += c[i] != want || d[i] != want;
    }
}

/* What a GPU does not define, by number. */
static void tc_wrong(const void *arg) {
    int c[4] = {0};
    switch (*(const int *)arg) {
    case 0: if (K_CUDA_THREAD != 5) k__cuda_sync(); break;
    case 1: if (K_CUDA_THREAD % 32 != 5) k__cuda_mma16(c, 0, 0, 0); break;
    case 2: if (K_CUDA_THREAD % 2) k__cuda_mma16(c, 0, 0, 0); else k__cuda_mma32(c, 0, 0, 0, 0, 0, 0); break;
    case 3: if (K_CUDA_THREAD % 32 == 5) k__cuda_sync(); else k__cuda_mma16(c, 0, 0, 0); break;
    case 4: k__cuda_ld32((const uint8_t *)tc_out + 2); break;
    case 5: k__cuda_ld16((const uint8_t *)tc_out + 1); break;
    case 6: { K_CUDA_SHARED(float, x, EMU_SHARED / 4); K_CUDA_SHARED(float, y, 1); x[0] = y[0] = 0; break; }
    case 7: k__cuda_perm(1, 2, 8); break;
    }
}

static void t_cuda_emulator(void) {
    int  bad = 0, unwritten = 0;
    bool sync = true;
    for (uint64_t seed = 0; seed < 10; seed++) {
        CHECK(!emu_launch(tc_neighbours, &sync, 1, 1, EMU_THREADS, seed));
        for (int i = 0; i < EMU_THREADS; i++) CHECK(tc_out[i] == (float)((i + 1) % EMU_THREADS));
    }
    sync = false;
    CHECK(!emu_launch(tc_neighbours, &sync, 1, 1, EMU_THREADS, 1));
    for (int i = 0; i < EMU_THREADS; i++) unwritten += tc_out[i] != tc_out[i];
    CHECKF(unwritten > 50, "%d threads read uninitialised shared memory", unwritten);
    CHECK(!emu_launch(tc_multiply, &bad, 1, 1, 64, 1));
    EQ_INT(bad, 0);
    for (int i = 0; i < 8; i++) CHECKF(emu_launch(tc_wrong, &i, 2, 1, 64, 1), "wrong %d goes unnoticed", i);
    emu_free();
}

static const t_case t_cuda_cases[] = {
    {"cuda_emulator", "the emulated GPU multiplies as the PTX ISA says, and notices what a GPU leaves undefined",
     t_cuda_emulator},
    {"cuda_kernels", "every quantised type has a kernel, every kernel a type", t_cuda_kernels},
    {"cuda_products", "products on a GPU have the bits of the scalar level: every type, 1 to 64 columns", t_cuda_products},
    {"cuda_extremes", "the same for the largest codes, and for scales that are infinite, NaN and subnormal", t_cuda_extremes},
    {"cuda_gather", "idx and ldy are respected, nothing is written outside", t_cuda_gather},
    {"cuda_split", "rows with outliers give the bits that the CPU gives: every type, few and many columns", t_cuda_split},
    {"cuda_split_long", "the same for rows of more blocks than are searched at a time", t_cuda_split_long},
    {"cuda_split_zero", "zeros between far values meet no weight", t_cuda_split_zero},
    {"cuda_floats", "products of float matrices have the bits of the scalar level", t_cuda_floats},
    {"cuda_order", "the terms of blocks are added in rising order", t_cuda_order},
    {"cuda_step_counts", "the number of columns comes from the step, a factor goes to the results", t_cuda_step_counts},
    {"cuda_barriers", "none of a kernel's barriers can be left out", t_cuda_barriers},
};
static const t_suite t_cuda_suite = SUITE(t_cuda_cases);
