/* Mixtures of experts on a GPU, run by emu_cuda.h: routing, the sort of slots and its tiles, biases, mixing and products have the
 * bits of [dev] at the scalar level. The best of a row is that of k_max. */
#include "program.h"
#include "check.h"
#include "t_cuda.h"
#include "t_cuda_rows.h"
#include "t_pack.h"
#include "t_quant.h"

static void te_sort(const void *a) { k_cuda_sort(*(const k_cuda_sort_args *)a); }
static void te_best(const void *a) { k_cuda_best(*(const k_cuda_best_args *)a); }

/* The buffers of a layer with experts, by number in their plan. */
typedef struct {
    dev_buf score, pick, weight, row, of, ff, up, y;
} te_bufs;

/* --- routing --- */

/* What a router has to choose from. */
typedef struct {
    int        n, used;
    dev_router router;
    bool       norm, bias;
} te_router;

static const te_router te_routers[] = {
    {8, 2, ROUTE_SOFTMAX, true, false},   {60, 4, ROUTE_SOFTMAX, false, false}, {128, 8, ROUTE_SOFTMAX, true, false},
    {32, 4, ROUTE_SOFTMAX, false, true},
    {256, 8, ROUTE_SIGMOID, true, true},  {16, 1, ROUTE_SIGMOID, false, false}, {257, 6, ROUTE_SIGMOID, true, false},
    {1, 1, ROUTE_SOFTMAX, true, false},
    {512, 10, ROUTE_SOFTMAX, true, true}, {33, 33, ROUTE_SIGMOID, true, true},  {64, 64, ROUTE_SOFTMAX, false, false},
};
enum { TE_ROUTERS = sizeof te_routers / sizeof *te_routers };

static void te_route(tr_case *c, const te_router *of, te_bufs *b) {
    b->score = tr_buf(c, DEV_ALL, 1, of->n), b->pick = tr_buf(c, DEV_ALL, 1, of->used),
    b->weight = tr_buf(c, DEV_ALL, 1, of->used);
    tr_op(c, (dev_op){.kind = OPS_ROUTE, .in = {b->score}, .out = {b->pick, b->weight},
                      .vec = of->bias ? c->vec[0] : NULL, .scale = 2.5f,
                      .experts = {.n = of->n, .used = of->used, .norm = of->norm, .router = of->router}});
}

/* mode 0: any logits; 1: many are equal; 2: some are infinite or NaN, and all of a row. */
static void te_logits(tr_case *c, dev_buf b, int mode) {
    dev_acts *a = &c->p.buf[b].a, *g = &c->got[b];
    if (mode == 2) tr_odd(c, b);
    for (int r = 0; r < a->rows; r++)
        for (size_t i = 0; i < a->ldx; i++) {
            float *x = &a->x[(size_t)r * a->ldx + i];
            if (mode == 1) *x = roundf(*x);
            if (mode == 2 && r == 2) *x = NAN;
            if (mode == 2 && (r == 3 || (r == 4 && i == 0))) *x = r == 3 ? -INFINITY : NAN;
            g->x[(size_t)r * a->ldx + i] = *x;
        }
}

static void t_cuda_experts_route(void) {
    static const int rows[] = {1, 2, 9, 33};
    static tr_case   c;
    te_bufs          b;
    for (int i = 0; i < TE_ROUTERS * 3; i++) {
        tr_new(&c, i % 3 == 2 ? 9 : rows[i % 4]);
        te_route(&c, &te_routers[i / 3], &b);
        for (int k = 0; i % 2 && k < TR_MOST; k++) c.vec[0][k] = roundf(c.vec[0][k]);
        tr_ready(&c);
        te_logits(&c, b.score, i % 3);
        tr_both(&c, "route");
        tr_drop(&c);
    }
    emu_free();
}

/* --- the sort --- */

/* Whether the tiles are those of the experts' slots, in order. */
static bool te_tiles(const int32_t *tiles, const int *from, int n_expert, int cols, int most) {
    int n = 0;
    for (int e = 0; e < n_expert; e++)
        for (int at = from[e]; at < from[e + 1]; at += cols, n++) {
            const int32_t *t = tiles + 1 + 3 * n, want = from[e + 1] - at < cols ? from[e + 1] - at : cols;
            if (t[0] != e || t[1] != at || t[2] != want) return false;
        }
    return tiles[0] == n && n <= most;
}

/* The sort on both: slots, their rows and experts, tiles. */
static void te_both_sort(tr_case *c, const dev_op *op) {
    const int E = op->experts.n, K = op->experts.used, n = c->b.n * K;
    c->share.expert = mem_new((size_t)n, sizeof *c->share.expert);
    for (int i = 0; i < 2; i++) {
        const int cols = i ? K_CUDA_MANY_COLS : K_CUDA_COLS;
        c->share.tiles[i] = mem_new(1 + 3 * (size_t)k_cuda_tiles(n, E, cols), sizeof(int32_t));
    }
    const k_cuda_sort_args a = ops__sort_args(&c->share, op);
    ops__sort_slots(&c->dv, op);
    const char *fault = emu_launch(te_sort, &a, 1, 1, K_CUDA_THREADS, tc_seed++);
    CHECKF(!fault, "sort, %d of %d, rows %d: %s", K, E, c->b.n, fault);
    CHECKF(tr_same(c), "sort, %d of %d, rows %d: other slots", K, E, c->b.n);
    for (int i = 0; i < n; i++) CHECK(c->share.expert[i] == ops__expert_at(&c->p, E, i));
    for (int i = 0; i < 2; i++) {
        const int cols = i ? K_CUDA_MANY_COLS : K_CUDA_COLS;
        CHECKF(te_tiles(a.tiles[i], c->p.expert_at, E, cols, k_cuda_tiles(n, E, cols)), "tiles of %d, %d of %d, rows %d",
               cols, K, E, c->b.n);
    }
}

enum { TE_MOST = 96 };                                /* values of a slot */
static float te_bias[2][K_CUDA_EXPERTS * TE_MOST];    /* of each expert */

/* A layer with experts but for its products: `skew`, most rows choose the same experts. */
static void te_layer(tr_case *c, const te_router *of, int rows, int n, bool skew) {
    const int K = of->used;
    te_bufs   b;
    for (int i = 0; i < 2 * of->n * n; i++) te_bias[i % 2][i / 2] = tq_unit();
    tr_new(c, rows);
    te_route(c, of, &b);
    b.row = tr_buf(c, DEV_ALL, 1, K), b.of = tr_buf(c, DEV_ALL, 1, K), b.y = tr_buf(c, DEV_ALL, 1, n);
    b.ff = tr_buf(c, DEV_ALL, K, n), b.up = tr_buf(c, DEV_ALL, K, n);
    c->p.buf[b.row].dense = true;
    c->p.product = mem_reserve(NULL, 0, UINT64_MAX, sizeof *c->p.product);
    tr_op(c, (dev_op){.kind = OPS_GROUP, .in = {b.pick}, .out = {b.row, b.of}, .experts = {.n = of->n, .used = K}});
    tr_op(c, (dev_op){.kind = OPS_BIAS, .out = {b.ff}, .vec = te_bias[0], .n = n, .each = K, .experts = {.n = of->n}});
    tr_op(c, (dev_op){.kind = OPS_BIAS, .out = {b.up}, .vec = te_bias[1], .n = n, .each = K, .experts = {.n = of->n}});
    tr_op(c, (dev_op){.kind = OPS_WEIGH, .in = {b.weight, b.of, b.row}, .out = {b.up}, .n = n, .each = K,
                      .experts = {.n = of->n, .used = K}});
    tr_op(c, (dev_op){.kind = OPS_ACTIVATE, .in = {b.up}, .out = {b.ff}, .n = n, .each = K, .act = ACT_SWIGLU_CLIP});
    tr_form(c, (dev_op){.out = {b.ff}, .n = n, .each = K}, 1u << K_ACT_I8);
    tr_op(c, (dev_op){.kind = OPS_MIX, .in = {b.ff, rows % 3 ? b.weight : 0, b.of}, .out = {b.y}, .vec = rows % 2 ? te_bias[0] : NULL,
                      .n = n, .experts = {.n = of->n, .used = K}});
    tr_ready(c);
    for (int r = 0; skew && r < rows; r++)
        for (int e = 0; e < K && r % 9; e++)
            c->p.buf[b.score].a.x[(size_t)r * c->got[b.score].ldx + (size_t)e] = c->got[b.score].x[(size_t)r
                    * c->got[b.score].ldx + (size_t)e] = 50;
    k_init("scalar");
    for (int i = 0; i < c->p.n_phase; i++)
        if (c->p.op[c->p.phase[i].first].kind == OPS_GROUP) te_both_sort(c, &c->p.op[c->p.phase[i].first]);
        else tr_both_phase(c, &c->p.phase[i], "experts");
    CHECKF(tr_same(c), "experts, %d of %d, rows %d differ from the scalar level", K, of->n, rows);
    tr_drop(c);
}

static void t_cuda_experts_layer(void) {
    static const int rows[] = {1, 2, 9, 33};
    static tr_case   c;
    for (int i = 0; i < TE_ROUTERS; i++)
        for (int k = i % 2; k < 4; k += 2) {
            const te_router *of = &te_routers[i];
            te_layer(&c, of, of->used * rows[k] > 400 ? 9 : rows[k], of->n > 60 ? 32 : TE_MOST, k > 1);
        }
    emu_free();
}

/* More slots than there are threads; tiles of many columns that are full. */
static void t_cuda_experts_many(void) {
    static tr_case c;
    te_layer(&c, &te_routers[2], 130, 32, false);
    te_layer(&c, &te_routers[1], TR_ROWS, 32, true);
    te_layer(&c, &te_routers[0], TR_ROWS - 1, 32, true);
    te_layer(&c, &(te_router){1024, 5, ROUTE_SOFTMAX, true, false}, 7, 32, false);
    emu_free();
}

/* --- products --- */

enum { TE_EXPERTS = 6, TE_SLOTS = 65 };

/* Slots of a product: their rows, sorted by expert; where each expert's begin. */
typedef struct {
    int     from[TE_EXPERTS + 1], n;
    int32_t row[TE_SLOTS], tiles[2][1 + 3 * TE_SLOTS];
} te_slots;

/* n slots of rows below n / used; `one`: of the expert 1 alone. The last expert has none. */
static void te_choose(te_slots *s, int n, int used, bool one) {
    s->n = 0;
    for (int e = 0; e < TE_EXPERTS; e++) {
        s->from[e] = s->n;
        for (int i = 0; i < n; i++)
            if ((one ? 1 : (i * 7 + i / 3) % (TE_EXPERTS - 1)) == e) s->row[s->n++] = i / used;
    }
    s->from[TE_EXPERTS] = s->n;
    for (int k = 0; k < 2; k++) {
        int32_t *to = s->tiles[k] + 1;
        for (int e = 0; e < TE_EXPERTS; e++)
            for (int at = s->from[e], cols = k ? K_CUDA_MANY_COLS : K_CUDA_COLS; at < s->from[e + 1]; at += cols, to += 3)
                to[0] = e, to[1] = at, to[2] = s->from[e + 1] - at < cols ? s->from[e + 1] - at : cols;
        s->tiles[k][0] = (int32_t)((to - s->tiles[k]) / 3);
    }
}

/* The products of all slots on the CPU, expert by expert; `own`: a slot is a row of the activations. */
static void te_want(tp_case *c, uint32_t type, int n, int nr, const te_slots *s, bool own, const float *scales) {
    int32_t idx[TE_SLOTS];
    k_acts  a = c->q.a;
    for (int i = 0; i < s->n; i++) idx[i] = own ? i : s->row[i];
    for (int e = 0; e < TE_EXPERTS; e++) {
        float *y = c->q.want + s->from[e] * nr;
        a.idx = idx + s->from[e], a.nt = s->from[e + 1] - s->from[e];
        if (a.nt)
            k_mul_rows(type, c->q.w + (size_t)(e * nr) * c->q.row_bytes, c->q.row_bytes, nr, n, &a, y, (size_t)nr, c->q.scratch);
        if (scales) k_scale(y, scales[e], nr * a.nt);
    }
}

static void te_product(tp_case *c, uint32_t type, int n, int nr, const te_slots *s, bool own, const float *scales) {
    const bool packs = k_wants_q8(type);
    k_cuda_mul m = {.w = packs ? c->packed : c->q.w, .row_bytes = c->q.row_bytes, .a = c->q.a, .y = c->q.got,
                    .ldy = (size_t)nr, .nr = nr, .n = n,
                    .scale = 77, .scales = scales, .mat_bytes = packs ? k_pack_bytes(type, nr, n) : (size_t)nr * c->q.row_bytes};
    te_want(c, type, n, nr, s, own, scales);
    m.a.idx = own ? NULL : s->row;
    for (int many = 0; many < 1 + packs; many++) {
        const int i = tc_find(type, many, &m), rows = many ? K_CUDA_MANY_ROWS : K_PACK_ROWS,
                  cols = many ? K_CUDA_MANY_COLS : K_CUDA_COLS;
        m.tiles = s->tiles[many];
        memset(m.y, 0xa5, (size_t)(s->n * nr) * 4);
        const char *fault = emu_launch(tc_kernels[i].run, &m, (nr + rows - 1) / rows,
                                       k_cuda_tiles(s->n, TE_EXPERTS, cols), K_CUDA_THREADS, tc_seed++);
        CHECKF(!fault, "%s: %s", tc_kernels[i].name, fault);
        CHECKF(tq_same(c->q.want, c->q.got, s->n * nr), "%s: n %d, rows %d, slots %d differ", tc_kernels[i].name, n, nr, s->n);
    }
}

/* The matrices of all experts, packed one by one. */
static void te_weights(tp_case *c, uint32_t type, int n, int nr) {
    const size_t each = k_wants_q8(type) ? k_pack_bytes(type, nr, n) : 0;
    tq_weights(&c->q, type, n, nr * TE_EXPERTS, -1);
    tp_scratch(c, n);
    mem_free(c->mem);
    c->packed = c->mem = each ? mem_aligned(each * TE_EXPERTS, 1) : NULL;
    for (int e = 0; each && e < TE_EXPERTS; e++)
        k_pack_rows(type, c->q.w + (size_t)(e * nr) * c->q.row_bytes, c->q.row_bytes, nr, n, c->packed + (size_t)e * each);
    if (each) tc_far(type, c->packed, each * TE_EXPERTS);
}

/* Every type; rows of a part of a strip; few slots, full tiles, all slots with one expert; rows with outliers; factors. */
static void t_cuda_experts_products(void) {
    static const float scales[TE_EXPERTS] = {0.5f, 1.7f, -3, 1, 0.25f, 9};
    static const int   ns[] = {256, 320, 128, 512}, nr[] = {16, 5, 33}, slots[] = {1, 8, 20, TE_SLOTS};
    uint8_t            split[TQ_COLS];
    te_slots           s;
    tp_case            c;
    tp_new(&c);
    k_init("scalar");
    c.q.q = mem_grow(c.q.q, 3 * TQ_COLS * TQ_N, 1);
    c.q.sum = mem_grow(c.q.sum, 2 * TQ_COLS * TQ_N / 256, sizeof(k_sums));
    c.q.d = mem_grow(c.q.d, 2 * TQ_COLS * TQ_N / 256, 4);
    for (uint32_t type = 0; type < K_TYPE_MAX; type++)
        for (int i = 0; k_type_weight(type) && i < 4; i++) {
            const int n = ns[(i + (int)type) % 4] % k_types[type].block ? 256 : ns[(i + (int)type) % 4],
                      rows = nr[(i + (int)type) % 3];
            te_weights(&c, type, n, rows);
            if (i % 2) tq_peaked_acts(&c.q, n, split);
            else tq_acts(&c.q, n, false);
            uint16_t *h = mem_new((size_t)(TQ_COLS * n), sizeof *h);
            k_kv_store(K_BF16, c.q.x, h, TQ_COLS * n);
            c.q.a.x = c.q.x, c.q.a.ldx = (size_t)n, c.q.a.h = h;
            te_choose(&s, type % 3 ? slots[i] % 40 : slots[i], 1 + i, i == 3 && type % 2);
            te_product(&c, type, n, rows, &s, i % 3 == 2, i % 2 ? scales : NULL);
            mem_free(h);
        }
    tp_drop(&c);
    emu_free();
}

/* --- the best of a row --- */

static void t_cuda_experts_best(void) {
    static const int ns[] = {1, 31, 33, 256, 1000, 5000};
    static tr_case   c;
    int32_t          out[33];
    for (int i = 0; i < 6 * 3; i++) {
        tr_new(&c, i % 2 ? 9 : 33);
        const dev_buf b = tr_buf(&c, DEV_ALL, 1, ns[i / 3]);
        tr_ready(&c);
        te_logits(&c, b, i % 3);
        const k_cuda_best_args a = {.step = &c.step, .n = ns[i / 3], .x = tr_at(&c, b), .out = out};
        memset(out, 0xa5, sizeof out);
        const char *fault = emu_launch(te_best, &a, c.b.n + 2, 1, K_CUDA_THREADS, tc_seed++);
        CHECKF(!fault, "best of %d: %s", a.n, fault);
        for (int r = 0, want; r < c.b.n; r++) {
            const float *x = c.p.buf[b].a.x + (size_t)r * a.x.ld;
            k_max_ref(x, a.n, &want);
            for (int k = 0; k < a.n; k++)
                if (!isfinite(x[k])) want = -1;
            CHECKF(out[r] == want, "best of %d: %d, want %d", a.n, out[r], want);
        }
        for (int r = c.b.n; r < 33; r++) EQ_INT(out[r], (int32_t)0xa5a5a5a5);
        tr_drop(&c);
    }
    emu_free();
}

/* --- barriers --- */

/* What a kernel writes for one and the same case: slots of experts, or the best of a row. */
static void te_run(bool sort, int32_t *to, size_t n) {
    enum { ROWS = 130, K = 8, E = 128, V = 5000 };
    static tr_case c;
    te_bufs        b;
    tq_seed = 99;
    tr_new(&c, sort ? ROWS : 1);
    te_route(&c, &te_routers[2], &b);
    b.of = tr_buf(&c, DEV_ALL, 1, K), b.y = tr_buf(&c, DEV_ALL, 1, V);
    tr_ready(&c);
    for (int i = 0; i < ROWS * K && sort; i++)
        ((int32_t *)(void *)c.got[b.pick].x)[(size_t)(i / K) * c.got[b.pick].ldx + (size_t)(i % K)] = (i * 37 + i / K) % E;
    if (!sort) c.got[b.y].x[V - 1] = 1000;            /* a warp finds it that is not the first */
    memset(to, 0, n * sizeof *to);
    const k_cuda_sort_args s = {.step = &c.step, .n_expert = E, .used = K, .pick = tr_at(&c, b.pick),
                                .slot_of = tr_at(&c, b.of), .row = to + 2000, .expert = to + 1,
                                .tiles = {to + 4000, NULL}};
    const k_cuda_best_args a = {.step = &c.step, .n = V, .x = tr_at(&c, b.y), .out = to + 1};
    to[0] = emu_launch(sort ? te_sort : te_best, sort ? (const void *)&s : (const void *)&a, 1, 1, K_CUDA_THREADS,
                       tc_seed++) != NULL;
    tr_drop(&c);
}

typedef struct { bool sort; const int32_t *want; int32_t *got; size_t n; } te_kernel;
static bool te_differs(const void *of) {
    const te_kernel *k = of;
    te_run(k->sort, k->got, k->n);
    return memcmp(k->want, k->got, k->n * sizeof *k->got) != 0;
}

static void t_cuda_experts_barriers(void) {
    static int32_t want[8000], got[8000];
    for (int sort = 0; sort < 2; sort++) {
        te_run(sort, want, 8000);
        const int n = emu.fiber[0].n_sync;
        EQ_INT(n, sort ? 4 : 1);
        const te_kernel k = {sort, want, got, 8000};
        CHECK(!tc_seen_apart(0, te_differs, &k));
        for (int skip = 1; skip <= n; skip++)
            CHECKF(tc_seen_apart(skip, te_differs, &k), "%s: barrier %d of %d could go", sort ? "sort" : "best", skip, n);
    }
    emu_free();
}

static const t_case t_cuda_experts_cases[] = {
    {"cuda_experts_route", "the chosen experts and their weights are those of the CPU, also among equals and NaN",
     t_cuda_experts_route},
    {"cuda_experts_layer", "slots, tiles, biases and mixed results of a layer are those of the CPU", t_cuda_experts_layer},
    {"cuda_experts_many", "the same for more slots than a thread block has threads", t_cuda_experts_many},
    {"cuda_experts_products", "products of experts have the bits of the scalar level: every type, few columns and many",
     t_cuda_experts_products},
    {"cuda_experts_best", "the best of a row is that of k_max, -1 where a value is not finite", t_cuda_experts_best},
    {"cuda_experts_barriers", "none of the barriers of the sort and of the best can be left out", t_cuda_experts_barriers},
};
static const t_suite t_cuda_experts_suite = SUITE(t_cuda_experts_cases);
