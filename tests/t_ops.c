/* t_ops.c - [ops]: every kind of operation at every CPU level, packed and not, and on an emulated GPU (fake_cuda.c) gives the
 * bytes of the plain reference (plain.h). Shapes come from the rows of ops_kinds: how wide inputs and outputs are, whether an
 * output is read, how long a vector is. A kind without an example here fails, and so does a row with a column that is not filled.
 * To add a kind: examples of it in top_examples. */
#include "program.h"
#include "check.h"
#include "driver.h"
#include "plain.h"

enum { TOP_ROWS = 40, TOP_TOKENS = 64, TOP_WIDE = 1024, TOP_VEC = 1 << 16, TOP_PAGE = 4, TOP_THREADS = 2, TOP_PRODUCTS = 4,
      TOP_EXPERTS = 8, TOP_USED = 3 };

static float    top_vec[TOP_VEC];                       /* gains, biases, filters, gates: [-1, 1] */
static double   top_freq[TOP_WIDE];
static uint64_t top_turn;
static float    top_unit(void) { return (float)(rng_unit(rng_mix(++top_turn)) * 2 - 1); }

/* One run of the operations of an example. */
typedef struct top_rig {
    const struct top_example *of;
    dev_gpus  *on;                                    /* NULL: the CPU runs them */
    pool      *p;
    dev_op     op;                                    /* of the example, with its shape */
    dev_blocks mem;                                   /* of the cache, or slots of states */
    dev_kv     kv;
    dev_state  st;
    dev_mat    mat[TOP_PRODUCTS];
    dev_batch  b;
    int32_t    token[TOP_ROWS], pos[TOP_ROWS], seq[TOP_ROWS], table[TOP_ROWS * 16];
    k_turn     turn[TOP_ROWS];
    uint8_t    want[TOP_ROWS];
    size_t     table_at[TOP_ROWS + 1];
    dev_plan   plan;
    dev_run    run;
    dev_buf    in[3], out[2];
    int        first;                                 /* what is compared: buffers first..end of the plan */
    int        n_blocks;
    const dev_adapters *const *adapters;              /* [n_seq] NULL: none */
    const dev_low *low_of;                            /* [products, 3] */
} top_rig;

/* One operation with its parameters. What is given as an input or a vector shows that there is one: in[i] 1, vec top_vec. */
typedef struct top_example {
    const char *name;
    dev_op      op;
    void      (*fit)(top_rig *r);                      /* the rest, once n and n_head are known; NULL: nothing */
    void      (*build)(top_rig *r);                    /* writes the operations; NULL: the one */
    unsigned    ints;                                 /* mask of inputs that are numbers below TOP_EXPERTS, each once in a row */
    bool        host;                                 /* a GPU has kernels for the kind, but not for this */
} top_example;

/* --- what examples need --- */

static void top_fit_embed(top_rig *r) {
    r->mat[0] = (dev_mat){.data = (const uint8_t *)top_vec, .type = K_F32, .n_in = r->op.n, .n_out = TOP_TOKENS, .n_mat = 1,
                          .row_bytes = (size_t)r->op.n * sizeof(float)};
    r->op.embed.mat = &r->mat[0];
}
static void top_fit_before(top_rig *r) {
    static const float *first[TOP_ROWS];
    static dev_before   before = {.first = first};
    for (int i = 0; i < r->b.n_seq; i++) first[i] = i % 2 ? top_vec + 11 * i : NULL;
    before.rows = r->of->op.in[0] ? NULL : top_vec + 7;
    before.ld = (size_t)r->op.n + 1;
    r->op.before = &before;
}
static void top_fit_freq(top_rig *r) { r->op.angles.freq = top_freq; }
static void top_fit_bias(top_rig *r) { r->op.norm.bias = top_vec + 77; }
static void top_fit_pick(top_rig *r) { r->op.pick.stride = r->op.n + 3; }
static void top_fit_step(top_rig *r) { r->op.pick.stride = r->op.n + 3, r->op.pick.step = r->op.n + 5; }
static void top_fit_rope(top_rig *r) { r->op.rope.n_rot = r->op.n > 64 ? r->op.n - 32 : r->op.n; }
static void top_fit_behind(top_rig *r) { r->op.rope.n_rot = r->op.n - r->op.rope.skip; }
static void top_fit_streams(top_rig *r) { r->op.active = r->op.n_head - 1; }
static void top_fit_one(top_rig *r) { r->op.n = 1; }
static void top_fit_route(top_rig *r) { r->op.experts.n = 5 + r->op.n % 60; }
static void top_fit_groups(top_rig *r) { r->op.experts.n = (5 + r->op.n % 60) / 4 * 4 + 4, r->op.experts.groups = 4; }
static void top_fit_listed(top_rig *r) {
    static int32_t list[TOP_TOKENS * TOP_USED];
    for (int i = 0; i < TOP_TOKENS * TOP_USED; i++) list[i] = (i / TOP_USED + 2 * (i % TOP_USED)) % 5;
    top_fit_route(r);
    r->op.experts.listed = list;
}
static void top_fit_used(top_rig *r) { r->op.n = TOP_USED; }
static void top_fit_slots(top_rig *r) { r->op.experts.n = TOP_EXPERTS; }

/* Blocks for the sequences of the batch, in any order; pages of what has been are filled, like a cache that the CPU has
 * written. */
static void top_fit_cache(top_rig *r) {
    const bool hadamard = r->op.n % 64 == 0;
    const int  hd = r->op.n, pages = (20 + TOP_ROWS) / TOP_PAGE;
    r->kv = (dev_kv){.mem = &r->mem, .block = TOP_PAGE, .n_head = 2, .type_k = r->op.n % 3 ? K_Q8_0 : K_F16,
                     .type_v = r->op.n % 3 ? K_Q4_0 : K_BF16, .hd_k = hd,
                     .hd_v = hd, .hadamard_k = hadamard ? k_hadamard_size(hd) : 1,
                     .hadamard_v = hadamard ? k_hadamard_size(hd) : 1};
    r->kv.k_stride = k_kv_bytes(r->kv.type_k, hd);
    r->kv.v_stride = k_kv_bytes(r->kv.type_v, hd);
    r->kv.v_at = (r->kv.k_stride * TOP_PAGE * 2 + 15) & ~(size_t)15;
    r->n_blocks = pages * r->b.n_seq;
    r->mem = dev_blocks_new((r->kv.v_at + r->kv.v_stride * TOP_PAGE * 2 + 63) & ~(size_t)63, r->n_blocks);
    for (int i = 0; i <= r->b.n_seq; i++) r->table_at[i] = (size_t)(pages * i);
    for (int i = 0; i < r->n_blocks; i++) r->table[i] = r->n_blocks - 1 - i;
    r->op.n_head = 4;
    r->op.cache.kv = &r->kv;
    r->op.cache.hd_k = hd, r->op.cache.group = 2, r->op.cache.most = 64;
    r->op.scale = 0.1f;
}
/* Latent attention: one head, whose keys hold the values. */
static void top_fit_latent(top_rig *r) {
    top_fit_cache(r);
    dev_kv *kv = &r->kv;
    kv->n_head = kv->shared = 1, kv->hd_k += 16, kv->type_v = kv->type_k, kv->v_at = 0;
    kv->hadamard_v = r->op.n % 64 == 0 ? k_hadamard_size(kv->hd_v) : 1, kv->hadamard_k = r->op.n % 64 == 0 ? 16 : 1;
    kv->k_stride = kv->v_stride = k_kv_bytes(kv->type_k, kv->hd_k);
    r->mem = dev_blocks_new((kv->k_stride * TOP_PAGE + 63) & ~(size_t)63, r->n_blocks);
    r->op.cache.hd_k = kv->hd_k, r->op.cache.group = 4;
}
static void top_fit_latent_heads(top_rig *r) {
    top_fit_latent(r);
    r->op.n = r->kv.hd_k;
}
/* The rows are whole texts. */
static void top_fit_texts(top_rig *r) {
    top_fit_cache(r);
    for (int i = 0; i < r->b.n; i++) r->pos[i] = i % 3;
}
static void top_fit_heads(top_rig *r) {
    top_fit_cache(r);
    r->op.hadamard.kv = &r->kv;
    r->op.hadamard.values = r->b.n % 2;
}

/* Attention to a window and to groups of TOP_PAGE positions. A block has keys of its positions, the key of the group that ends in
 * it, that of the indexer, and what these are made of. */
enum { TOP_POOLS = 2 };
static dev_kv top_raw[TOP_POOLS], top_pool[TOP_POOLS];
static void top_fit_pooled(top_rig *r) {
    top_fit_cache(r);
    dev_kv   *kv = &r->kv;
    const int hd = kv->hd_k, wide = 2 * hd;
    kv->shared = true, kv->type_v = kv->type_k, kv->hadamard_v = kv->hadamard_k, kv->hadamard_k = 1;
    kv->v_at = 0, kv->v_stride = kv->k_stride;
    size_t end = (kv->k_stride * TOP_PAGE * 2 + 63) & ~(size_t)63;   /* top_fill() fills two heads: the second has the groups */
    for (int i = 0; i < TOP_POOLS; i++) {
        top_pool[i] = *kv;
        top_pool[i].n_head = 1, top_pool[i].k_at = top_pool[i].v_at = (size_t)(TOP_PAGE + i) * kv->k_stride;
        top_raw[i] = (dev_kv){.mem = &r->mem, .block = TOP_PAGE, .n_head = 1, .type_k = K_F32, .type_v = K_F32, .hd_k = wide,
                              .hd_v = wide, .hadamard_k = 1, .hadamard_v = 1, .k_at = end};
        top_raw[i].k_stride = top_raw[i].v_stride = k_kv_bytes(K_F32, wide);
        top_raw[i].v_at = end + top_raw[i].k_stride * TOP_PAGE;
        end = (top_raw[i].v_at + top_raw[i].v_stride * TOP_PAGE + 63) & ~(size_t)63;
    }
    top_pool[1].hd_v = 0, top_pool[1].hadamard_k = kv->hadamard_v, top_pool[1].hadamard_v = 1;
    r->mem = dev_blocks_new(end, r->n_blocks);
    r->op.cache.hd_k = hd, r->op.cache.group = 4;
}

/* Slots of a recurrent layer: two of each sequence, and one for its snapshot. Every third sequence has not begun. */
static void top_slots(top_rig *r) {
    dev_state *st = &r->st;
    st->gate_at = (size_t)((st->taps - 1 + DEV_LOG) * st->width) * sizeof(float);
    st->sum_at = st->gate_at + (size_t)(DEV_LOG * (st->n_gate[0] + st->n_gate[1])) * sizeof(float);
    r->n_blocks = 3 * r->b.n_seq;
    r->mem = dev_blocks_new((st->sum_at + (size_t)(st->n_v * st->d_k * st->d_v) * sizeof(float) + 63) & ~(size_t)63, r->n_blocks);
    r->op.state.st = st;
    r->op.state.d_k = st->d_k, r->op.state.n_vec = st->width * st->taps, r->op.state.decay = top_vec + 300,
    r->op.state.step = top_vec + 400;
    if (r->of->op.state.silu) r->op.state.bias = top_vec + 200;
    for (int i = 0, row = 0; i < r->b.n_seq; i++) {
        const int p = i % 3 ? r->pos[row] : 0, back = i % 3 ? 2 : 0;
        for (int k = p; row < r->b.n && r->seq[row] == i; row++) r->pos[row] = k++;
        r->turn[i] = (k_turn){i % 3 ? 3 * i : -1, 3 * i + i % 2, p - back, p, i % 4 ? 3 * i + 2 : -1, r->pos[row - 1] + 1};
    }
}

/* The state of a gated delta rule, or of a convolution alone. */
static void top_fit_state(top_rig *r) {
    const bool delta = r->op.n_head > 0 && r->of->op.in[1];
    dev_state *st = &r->st;
    *st = (dev_state){.mem = &r->mem, .taps = 4, .log = DEV_LOG, .width = r->op.n};
    if (delta) st->n_k = 1, st->n_v = r->op.n_head = 2, st->d_k = 16, st->d_v = r->op.n, st->width = 2 * 16 + 2 * r->op.n;
    st->n_gate[0] = st->n_gate[1] = st->n_v;
    top_slots(r);
}

/* The same of a rule of its own: heads of 16 values where those of keys and values are the same. */
static void top_fit_rule(top_rig *r) {
    const dev_rule rule = r->of->op.state.rule;
    const bool     wkv = rule == RULE_WKV7 || rule == RULE_WKV6 || rule == RULE_GLA, kda = rule == RULE_KDA;
    dev_state     *st = &r->st;
    if (wkv) r->op.n = 16;
    *st = (dev_state){.mem = &r->mem, .taps = kda ? 4 : 1, .log = DEV_LOG, .n_k = kda || rule == RULE_WKV7 ? 2 : 1, .n_v = 2,
                      .d_k = rule == RULE_SSD && r->b.n > 4 ? 140 : 16, .d_v = r->op.n};
    r->op.n_head = st->n_v;
    st->width = wkv ? 2 * (st->n_v + st->n_k) * 16 + (rule == RULE_WKV7 ? 32 : 0) : 2 * st->n_k * st->d_k + st->n_v * st->d_v;
    st->n_gate[0] = wkv ? 0 : kda ? 2 * st->d_k : rule == RULE_SCAN ? 2 * st->d_v : 2;
    st->n_gate[1] = kda ? 2 : 0;
    r->op.state.skip = top_vec + 500, r->op.state.rate = top_vec + 600, r->op.state.share = top_vec + 700;
    r->op.state.key[0] = top_vec + 800, r->op.state.key[1] = top_vec + 900;
    top_slots(r);
}

/* A table for n-grams of up to three tokens, of two heads each; slots keep tokens. */
static void top_fit_grams(top_rig *r) {
    static dev_grams grams;
    grams = (dev_grams){.n = 3, .each = 2, .stop = 7, .factor = {3, 1001, 70001}, .first = {0, 11, 24, 41},
                        .rows = {11, 13, 17, 19}};
    r->st = (dev_state){.mem = &r->mem, .taps = 3, .log = DEV_LOG, .width = 1};
    top_fit_embed(r);
    top_slots(r);
    r->op.state.grams = &grams, r->op.state.table = &r->mat[0];
    r->op.n_head = 4;
}

/* --- writing the operations --- */

static dev_buf top_buf(top_rig *r, const char *name, int each, int width) {
    const dev_buf b = dev_plan_buf(&r->plan, name, false);
    dev_buffer   *to = &r->plan.buf[b];
    to->width = width, to->each = each, to->most = to->held = DEV_ALL;
    return b;
}

/* One operation, over buffers as its row says. */
static void top_build_one(top_rig *r) {
    dev_op op = r->op;
    op.row = &ops_kinds[op.kind];
    for (int i = 0; i < 3; i++)
        if (op.in[i]) r->in[i] = op.in[i] = top_buf(r, "in", 1, op.row->reads(&op, i) + 3);
    r->first = r->plan.n_buf;
    for (int i = 0; i < 2 && op.row->width(&op); i++)
        if (!i || r->of->op.out[i]) r->out[i] = op.out[i] = top_buf(r, "out", 1, op.row->width(&op));
    dev_plan_op(&r->plan, op);
    if (op.row->place == DEV_FORMS)
        r->plan.op[r->plan.n_op - 1].forms = r->plan.buf[op.out[0]].forms = 1u << K_ACT_BF16 | 1u << K_ACT_I8;
}

/* A stack of n_mat matrices, packed for the CPU where the type can be. */
static void top_matrix(top_rig *r, int i, uint32_t type, int n_in, int n_out, int n_mat) {
    const size_t row = k_row_bytes(type, n_in), all = row * (size_t)n_out, packed = k_pack_bytes(type, n_out, n_in);
    uint8_t     *data = mem_aligned(all * (size_t)n_mat, 1);
    float       *x = mem_new((size_t)n_in, sizeof *x);
    dev_mat     *w = &r->mat[i];
    for (int k = 0; k < n_out * n_mat; k++) {
        for (int j = 0; j < n_in; j++) x[j] = top_vec[(k * 131 + j + i * 17) % TOP_VEC];
        if (type == K_F32) memcpy(data + (size_t)k * row, x, row);
        else k_fitters[type].fit(x, NULL, data + (size_t)k * row, n_in);
    }
    *w = (dev_mat){.data = data, .type = type, .n_in = n_in, .n_out = n_out, .n_mat = n_mat, .row_bytes = row,
                   .mat_bytes = all, .packed_bytes = packed};
    if (packed) w->packed = mem_aligned(packed * (size_t)n_mat, 1);
    for (int k = 0; packed && k < n_mat; k++)
        k_pack_rows(type, data + (size_t)k * all, row, n_out, n_in, w->packed + (size_t)k * packed);
    mem_free(x);
}

static void top_form(top_rig *r, dev_buf b, int n, int each) {
    dev_plan_op(&r->plan, (dev_op){.kind = OPS_FORM, .rows = DEV_ALL, .out = {b}, .n = n, .each = each});
}

/* Products of matrices of several types, of all rows or of those that ask for something. */
static void top_build_matmul(top_rig *r) {
    static const uint32_t types[TOP_PRODUCTS] = {K_F32, K_BF16, K_Q8_0, K_Q4_K};
    const int n = 256 * (1 + r->op.n % 2);
    r->in[0] = top_buf(r, "in", 1, n);
    r->first = r->plan.n_buf;
    top_form(r, r->in[0], n, 0);
    dev_plan_op(&r->plan, (dev_op){.kind = OPS_MATMUL, .rows = r->op.rows});
    for (int i = 0; i < TOP_PRODUCTS; i++) {
        top_matrix(r, i, types[i], n, 24 + 16 * i, 1);
        if (r->low_of && i + 1 < TOP_PRODUCTS) r->mat[i].low = r->low_of + 3 * i, r->mat[i].n_low = 3;
        r->out[i % 2] = dev_plan_buf(&r->plan, "out", false);
        dev_plan_product(&r->plan, &r->mat[i], r->op.rows, r->in[0], r->out[i % 2]);
    }
}

/* The same with adapters: of the first matrix of f32 and f16 and of a rank that is no multiple of a task's, of another one of one
 * row, of a third none. Sequences have one, two or none of them. */
static void top_build_low(top_rig *r) {
    enum { N = 3 };
    static dev_low       low[TOP_PRODUCTS][N];
    static uint8_t       f16[1 << 16];
    static dev_adapters *of[TOP_ROWS];
    static const int     rank[TOP_PRODUCTS][N] = {{12, 3, 0}, {0, 0, 1}, {8, 40, 0}, {0, 0, 0}};
    for (int i = 0; i < (int)sizeof f16 / 2; i++) {
        const uint16_t h = k_f32_to_f16(top_vec[i]);
        memcpy(f16 + 2 * i, &h, 2);
    }
    r->plan.low_kind = OPS_LOW;
    for (int i = 0; i < r->b.n_seq; i++) {
        const int n = i % 4, first = i % 3 ? 1 : 0;
        mem_free(of[i]);
        of[i] = mem_new(1, sizeof **of + 2 * sizeof *of[i]->use);
        of[i]->n = min_int(n, 2);
        for (int k = 0; k < of[i]->n; k++) of[i]->use[k] = (dev_use){first + k, 0.5f + (float)i};
    }
    r->adapters = (const dev_adapters *const *)of;
    r->low_of = low[0];
    for (int i = 0; i < TOP_PRODUCTS; i++)
        for (int k = 0; k < N; k++) {
            const bool half = (i + k) % 2;
            low[i][k] = (dev_low){.rank = rank[i][k], .scale = 0.25f, .type_a = half ? K_F16 : K_F32, .type_b = half ? K_F32 : K_F16,
                                  .a = half ? f16 + 2 * i : (const uint8_t *)(top_vec + 9 * i),
                                  .b = half ? (const uint8_t *)(top_vec + 5 * k) : f16 + 4 * k};
        }
    top_build_matmul(r);
}

/* Products of a matrix for each head, of values that lie apart in a row. */
static void top_build_heads(top_rig *r) {
    static const uint32_t types[3] = {K_Q8_0, K_F32, K_BF16};
    const int     heads = 3, n = 96, out = 40, stride = n + 7;
    const dev_buf x = r->in[0] = top_buf(r, "in", 1, heads * stride);
    r->first = r->plan.n_buf;
    const dev_buf head = dev_plan_buf(&r->plan, "head", false);
    r->out[0] = dev_plan_buf(&r->plan, "out", false);
    dev_plan_op(&r->plan, (dev_op){.kind = OPS_DEAL, .rows = r->op.rows, .in = {x}, .out = {head}, .n = n, .each = heads,
                                   .pick = {.stride = stride, .at = 5}});
    dev_plan_op(&r->plan, (dev_op){.kind = OPS_FORM, .rows = r->op.rows, .out = {head}, .n = n, .each = heads});
    dev_plan_op(&r->plan, (dev_op){.kind = OPS_MATMUL, .rows = r->op.rows});
    top_matrix(r, 0, types[r->op.n / 32 % 3], n, out, heads);
    dev_plan_heads(&r->plan, &r->mat[0], r->op.rows, head, r->out[0], out + 3);
}

/* A layer of experts, from their choice on: its operations are compared together. */
static void top_build_experts(top_rig *r) {
    const int     n = 256, ff = 64, K = TOP_USED, E = TOP_EXPERTS;
    const dev_buf pick = r->in[0] = top_buf(r, "pick", 1, K), weight = r->in[1] = top_buf(r, "weight", 1, K),
                  x = r->in[2] = top_buf(r, "x", 1, n);
    r->first = r->plan.n_buf;
    const dev_buf row = dev_plan_buf(&r->plan, "row", true), of = dev_plan_buf(&r->plan, "of", false),
                  up = dev_plan_buf(&r->plan, "up", false),
                  moe = dev_plan_buf(&r->plan, "moe", false), y = dev_plan_buf(&r->plan, "y", false);
    const dev_op  base = {.rows = DEV_ALL, .experts = {.n = E, .used = K, .wide = 1}};
    dev_op        op = base;
    top_matrix(r, 0, K_Q8_0, n, ff, E);
    top_matrix(r, 1, K_F32, ff, 32, E);
    top_form(r, x, n, 0);
    op.kind = OPS_GROUP, op.in[0] = pick, op.out[0] = row, op.out[1] = of;
    dev_plan_op(&r->plan, op);
    for (int i = 0; i < 2; i++) {
        dev_plan_op(&r->plan,
                    (dev_op){.kind = OPS_MATMUL, .rows = DEV_ALL, .each = K,
                             .products = {.n_expert = E, .used = K, .at = i * E}});
        dev_plan_product(&r->plan, &r->mat[i], DEV_ALL, i ? up : x, i ? moe : up);
        dev_plan_op(&r->plan,
                    (dev_op){.kind = OPS_BIAS, .rows = DEV_ALL, .out = {i ? moe : up}, .vec = top_vec, .n = i ? 32 : ff,
                             .each = K, .experts = {.n = E}});
        if (i) continue;
        dev_plan_op(&r->plan, (dev_op){.kind = OPS_WEIGH, .rows = DEV_ALL, .in = {weight, of, row}, .out = {up}, .n = ff, .each = K,
                                       .experts = {.n = E, .used = K}});
        top_form(r, up, ff, K);
    }
    op = base, op.kind = OPS_MIX, op.in[0] = moe, op.in[1] = weight, op.in[2] = of, op.out[0] = y, op.vec = top_vec + 5,
    op.n = 32;
    dev_plan_op(&r->plan, op);
    r->out[0] = y;
}

/* An indexer and the attention to what it chooses: single positions by heads with weights, or blocks of each K/V head. */
static void top_build_chosen(top_rig *r) {
    const bool    by_head = r->of->op.cache.by_head, bare = by_head || r->of->op.cache.ends;
    const int     hd = r->op.n, heads = by_head ? 2 : 9;
    const dev_buf ask = r->in[0] = top_buf(r, "ask", 1, heads * hd), weight = r->in[1] = top_buf(r, "weight", 1, heads),
                  q = r->in[2] = top_buf(r, "q", 1, 4 * hd);
    r->first = r->plan.n_buf;
    const dev_buf chosen = dev_plan_buf(&r->plan, "chosen", false), y = r->out[0] = dev_plan_buf(&r->plan, "y", false);
    dev_op        op = r->op;
    if (!by_head) op.rows = DEV_ALL;                  /* all rows choose, some read it */
    op.kind = OPS_CHOOSE, op.n_head = heads, op.in[0] = ask, op.in[1] = bare ? 0 : weight, op.out[0] = chosen;
    dev_plan_op(&r->plan, op);
    op = r->op;
    op.kind = OPS_ATTEND_CHOSEN, op.in[0] = q, op.in[1] = chosen, op.out[0] = y;
    dev_plan_op(&r->plan, op);
}

/* Keys of groups, some of these for the rows, attention; of an example that makes keys, keys alone. */
static void top_build_pooled(top_rig *r) {
    const int     hd = r->op.n, size = r->of->op.cache.pool;
    const dev_buf ask = r->in[0] = top_buf(r, "ask", 1, 9 * hd), weight = r->in[1] = top_buf(r, "weight", 1, 9),
                  q = r->in[2] = top_buf(r, "q", 1, 4 * hd);
    r->first = r->plan.n_buf;
    const dev_buf chosen = dev_plan_buf(&r->plan, "chosen", false), y = r->out[0] = dev_plan_buf(&r->plan, "y", false);
    dev_op        op = r->op;
    for (int i = 0; size && i < TOP_POOLS; i++)
        dev_plan_op(&r->plan, (dev_op){.kind = OPS_POOL, .rows = DEV_ALL, .n = hd, .vec = top_vec, .scale = 1e-6f,
                                       .pool = {.raw = &top_raw[i], .to = &top_pool[i], .place = top_vec + 50, .size = size,
                                                .span = 2 * size, .freq = top_freq, .n_rot = hd / 2, .mscale = 1.1f}});
    if (op.kind == OPS_POOL) return;
    op.rows = DEV_ALL, op.kind = OPS_CHOOSE, op.n_head = 9, op.in[0] = ask, op.in[1] = weight, op.out[0] = chosen;
    op.cache.kv = &top_pool[1];
    if (op.cache.top) dev_plan_op(&r->plan, op);
    op = r->op;
    op.kind = OPS_ATTEND_POOLED, op.in[0] = q, op.in[1] = op.cache.top ? chosen : 0, op.out[0] = y;
    if (size) op.cache.pooled = &top_pool[0];
    dev_plan_op(&r->plan, op);
}

#define TOP_ONE    .in = {1}
#define TOP_TWO    .in = {1, 1}
#define TOP_THREE  .in = {1, 1, 1}
static const top_example top_examples[] = {
    {.name = "embed",           .op = {.kind = OPS_EMBED}, .fit = top_fit_embed},
    {.name = "embed, position", .op = {.kind = OPS_EMBED, TOP_ONE, .scale = 3, .embed = {.by_pos = true}}, .fit = top_fit_embed},
    {.name = "before",          .op = {.kind = OPS_BEFORE, TOP_ONE}, .fit = top_fit_before},
    {.name = "before, others'", .op = {.kind = OPS_BEFORE}, .fit = top_fit_before},
    {.name = "token",           .op = {.kind = OPS_TOKEN}, .fit = top_fit_one},
    {.name = "angles",          .op = {.kind = OPS_ANGLES, .scale = 1.1f, .angles = {.at = 2}}, .fit = top_fit_freq},
    {.name = "norm",            .op = {.kind = OPS_NORM, TOP_ONE, .vec = top_vec, .scale = 1e-6f, .norm = {.kind = K_NORM_RMS}}},
    {.name = "norm, layer",
     .op = {.kind = OPS_NORM, TOP_ONE, .vec = top_vec, .scale = 1e-5f, .norm = {.kind = K_NORM_LAYER}}, .fit = top_fit_bias},
    {.name = "norm, length",    .op = {.kind = OPS_NORM, TOP_ONE, .scale = 1e-6f, .norm = {.kind = K_NORM_L2}}},
    {.name = "bias",            .op = {.kind = OPS_BIAS, .vec = top_vec}},
    {.name = "add",             .op = {.kind = OPS_ADD, TOP_TWO}},
    {.name = "add, scaled",     .op = {.kind = OPS_ADD, TOP_TWO, .scale = 0.3f}},
    {.name = "scale",           .op = {.kind = OPS_SCALE, .scale = 1.3f}},
    {.name = "scale, vec",      .op = {.kind = OPS_SCALE, .vec = top_vec}},
    {.name = "cap",             .op = {.kind = OPS_CAP, .scale = 1.5f}},
    {.name = "clamp",           .op = {.kind = OPS_CLAMP, .scale = 0.5f}},
    {.name = "clamp, above",    .op = {.kind = OPS_CLAMP, .scale = 0.5f, .above = true}, .host = true},
    {.name = "temper",          .op = {.kind = OPS_TEMPER, .scale = 0.2f, .temper = {3, 1}}, .fit = top_fit_one},
    {.name = "pick",            .op = {.kind = OPS_PICK, TOP_ONE, .pick = {.at = 1, .to = 2}}, .fit = top_fit_pick},
    {.name = "pick, apart",     .op = {.kind = OPS_PICK, TOP_ONE, .pick = {.at = 1, .to = 2}}, .fit = top_fit_step},
    {.name = "deal",            .op = {.kind = OPS_DEAL, TOP_ONE, .each = 3, .pick = {.at = 1}}, .fit = top_fit_pick},
    {.name = "rope, behind",    .op = {.kind = OPS_ROPE, TOP_ONE, .rope = {.at = 3, .skip = 16}}, .fit = top_fit_behind},
    {.name = "rope",            .op = {.kind = OPS_ROPE, TOP_ONE, .rope = {.at = 3}}, .fit = top_fit_rope},
    {.name = "rope, halves",    .op = {.kind = OPS_ROPE, TOP_ONE, .rope = {.form = K_ROPE_HALVES}}, .fit = top_fit_rope},
    {.name = "hadamard",        .op = {.kind = OPS_HADAMARD}, .fit = top_fit_heads},
    {.name = "store",           .op = {.kind = OPS_STORE, TOP_TWO}, .fit = top_fit_cache},
    {.name = "attend",          .op = {.kind = OPS_ATTEND, TOP_ONE}, .fit = top_fit_cache},
    {.name = "attend, shaped",
     .op = {.kind = OPS_ATTEND, TOP_ONE, .cache = {.window = 5, .cap = 2, .sinks = top_vec, .slope = top_vec + 9}},
     .fit = top_fit_cache},
    {.name = "attend, chunks",
     .op = {.kind = OPS_ATTEND, TOP_ONE, .cache = {.window = 7, .view = VIEW_CHUNK, .sinks = top_vec}}, .fit = top_fit_cache},
    {.name = "attend, biases",  .op = {.kind = OPS_ATTEND, TOP_ONE, .cache = {.bias = top_vec, .reach = 2}}, .fit = top_fit_cache,
     .host = true},
    {.name = "attend, all",     .op = {.kind = OPS_ATTEND, TOP_ONE, .cache = {.view = VIEW_ALL}}, .fit = top_fit_texts},
    {.name = "hadamard, latent", .op = {.kind = OPS_HADAMARD}, .fit = top_fit_latent_heads},
    {.name = "store, latent",   .op = {.kind = OPS_STORE, TOP_ONE}, .fit = top_fit_latent},
    {.name = "attend, latent",  .op = {.kind = OPS_ATTEND, TOP_ONE}, .fit = top_fit_latent},
    {.name = "choose",          .op = {.kind = OPS_CHOOSE, .cache = {.top = 5, .unit = 1}}, .fit = top_fit_cache,
     .build = top_build_chosen},
    {.name = "choose, all of most", .op = {.kind = OPS_CHOOSE, .cache = {.top = 21, .unit = 1}}, .fit = top_fit_cache,
     .build = top_build_chosen},
    {.name = "attend, chosen",
     .op = {.kind = OPS_ATTEND_CHOSEN, .cache = {.top = 3, .unit = 4, .local = 1, .by_head = true}}, .fit = top_fit_cache,
     .build = top_build_chosen},
    {.name = "choose, means",   .op = {.kind = OPS_CHOOSE, .cache = {.top = 4, .unit = 3, .ends = true}}, .fit = top_fit_cache,
     .build = top_build_chosen},
    {.name = "pool",            .op = {.kind = OPS_POOL, .cache = {.pool = TOP_PAGE}}, .fit = top_fit_pooled,
     .build = top_build_pooled},
    {.name = "attend, pooled",
     .op = {.kind = OPS_ATTEND_POOLED, .cache = {.top = 3, .unit = 1, .pool = TOP_PAGE, .window = 6, .sinks = top_vec}},
     .fit = top_fit_pooled, .build = top_build_pooled},
    {.name = "attend, all groups",
     .op = {.kind = OPS_ATTEND_POOLED, .cache = {.unit = 1, .pool = TOP_PAGE, .window = 3}}, .fit = top_fit_pooled,
     .build = top_build_pooled},
    {.name = "attend, no groups", .op = {.kind = OPS_ATTEND_POOLED, .cache = {.unit = 1, .window = 5, .sinks = top_vec}},
     .fit = top_fit_pooled, .build = top_build_pooled},
    {.name = "form",            .op = {.kind = OPS_FORM}},
    {.name = "matmul",          .op = {.kind = OPS_MATMUL}, .build = top_build_matmul},
    {.name = "low",             .op = {.kind = OPS_LOW}, .build = top_build_low, .host = true},
    {.name = "matmul, heads",   .op = {.kind = OPS_MATMUL}, .build = top_build_heads},
    {.name = "watch",           .op = {.kind = OPS_WATCH}},
    {.name = "activate",        .op = {.kind = OPS_ACTIVATE, TOP_ONE, .act = ACT_SILU}},
    {.name = "activate, gelu",  .op = {.kind = OPS_ACTIVATE, .act = ACT_GELU}},
    {.name = "activate, soft",  .op = {.kind = OPS_ACTIVATE, TOP_ONE, .act = ACT_SOFTPLUS}},
    {.name = "activate, exp",   .op = {.kind = OPS_ACTIVATE, .act = ACT_EXP}},
    {.name = "activate, clip",  .op = {.kind = OPS_ACTIVATE, TOP_ONE, .act = ACT_SWIGLU_CLIP}},
    {.name = "route",           .op = {.kind = OPS_ROUTE, TOP_ONE, .out = {1, 1}, .vec = top_vec, .scale = 2,
                                       .experts = {.used = TOP_USED, .norm = true}}, .fit = top_fit_route},
    {.name = "route, sigmoid",
     .op = {.kind = OPS_ROUTE, TOP_ONE, .out = {1, 1}, .scale = 1, .experts = {.used = TOP_USED, .router = ROUTE_SIGMOID}},
     .fit = top_fit_route},
    {.name = "route, groups",
     .op = {.kind = OPS_ROUTE, TOP_ONE, .out = {1, 1}, .vec = top_vec, .scale = 2,
            .experts = {.used = TOP_USED, .norm = true, .router = ROUTE_SIGMOID, .groups_used = 2}},
     .fit = top_fit_groups},
    {.name = "route, best of a group",
     .op = {.kind = OPS_ROUTE, TOP_ONE, .out = {1, 1}, .scale = 1, .experts = {.used = TOP_USED, .groups_used = 3, .alone = true}},
     .fit = top_fit_groups},
    {.name = "route, root of softplus",
     .op = {.kind = OPS_ROUTE, TOP_ONE, .out = {1, 1}, .vec = top_vec, .scale = 1.5f,
            .experts = {.used = TOP_USED, .norm = true, .router = ROUTE_ROOT_SOFTPLUS}}, .fit = top_fit_route, .host = true},
    {.name = "route, by token", .op = {.kind = OPS_ROUTE, TOP_ONE, .out = {1, 1}, .scale = 1,
                                       .experts = {.used = TOP_USED, .norm = true, .router = ROUTE_ROOT_SOFTPLUS}},
     .fit = top_fit_listed, .host = true},
    {.name = "group",           .op = {.kind = OPS_GROUP, TOP_ONE, .out = {1, 1}, .experts = {.used = TOP_USED}},
     .fit = top_fit_slots, .build = top_build_experts, .ints = 1},
    {.name = "mix",             .op = {.kind = OPS_MIX}, .build = top_build_experts, .ints = 1},
    {.name = "weigh",           .op = {.kind = OPS_WEIGH}, .build = top_build_experts, .ints = 1},
    {.name = "gate",            .op = {.kind = OPS_GATE, TOP_ONE, .vec = top_vec}},
    {.name = "add scaled",      .op = {.kind = OPS_ADD_SCALED, TOP_TWO}},
    {.name = "route, two",
     .op = {.kind = OPS_ROUTE, TOP_ONE, .out = {1, 1}, .scale = 1, .experts = {.used = 2, .router = ROUTE_MIXER}},
     .fit = top_fit_route},
    {.name = "family",          .op = {.kind = OPS_FAMILY, TOP_ONE, .share = 3}, .fit = top_fit_used, .ints = 1},
    {.name = "xielu",           .op = {.kind = OPS_XIELU, .xielu = {0.8f, 0.7f, 0.5f, -1e-6f}}},
    {.name = "scale by",        .op = {.kind = OPS_SCALE_BY, TOP_ONE}},
    {.name = "scale by, heads", .op = {.kind = OPS_SCALE_BY, TOP_ONE}, .fit = top_fit_heads},
    {.name = "scale by, vec",   .op = {.kind = OPS_SCALE_BY, .vec = top_vec}},
    {.name = "mul",             .op = {.kind = OPS_MUL, TOP_TWO, .mul = {.a = 2, .b = 1, .to = 3}}},
    {.name = "conv",            .op = {.kind = OPS_CONV, TOP_ONE, .vec = top_vec, .state = {.at = 1}}, .fit = top_fit_state},
    {.name = "conv, shaped",    .op = {.kind = OPS_CONV, TOP_ONE, .vec = top_vec, .state = {.silu = true}}, .fit = top_fit_state},
    {.name = "mamba-2",         .op = {.kind = OPS_DELTA, TOP_TWO, .state = {.rule = RULE_SSD, .grouped = true}}, .fit = top_fit_rule},
    {.name = "mamba",           .op = {.kind = OPS_DELTA, TOP_TWO, .state = {.rule = RULE_SCAN, .grouped = true}}, .fit = top_fit_rule},
    {.name = "kimi delta attention",
     .op = {.kind = OPS_DELTA, TOP_THREE, .vec = top_vec, .scale = 1e-6f, .state = {.rule = RULE_KDA, .grouped = true}},
     .fit = top_fit_rule},
    {.name = "rwkv-7",
     .op = {.kind = OPS_DELTA, TOP_ONE, .out = {1, 1}, .scale = 1e-12f, .state = {.rule = RULE_WKV7, .grouped = true}},
     .fit = top_fit_rule},
    {.name = "rwkv-6",          .op = {.kind = OPS_DELTA, TOP_ONE, .state = {.rule = RULE_WKV6, .grouped = true}}, .fit = top_fit_rule},
    {.name = "gated linear attention",
     .op = {.kind = OPS_DELTA, TOP_ONE, .state = {.rule = RULE_GLA, .grouped = true}}, .fit = top_fit_rule},
    {.name = "keep, gates",     .op = {.kind = OPS_KEEP, TOP_THREE, .state = {.rule = RULE_KDA}}, .fit = top_fit_rule},
    {.name = "delta",           .op = {.kind = OPS_DELTA, TOP_THREE, .vec = top_vec, .scale = 1e-6f}, .fit = top_fit_state},
    {.name = "shift",           .op = {.kind = OPS_SHIFT, TOP_ONE}, .fit = top_fit_state},
    {.name = "grams",           .op = {.kind = OPS_GRAMS, TOP_ONE}, .fit = top_fit_grams},
    {.name = "lerp",            .op = {.kind = OPS_LERP, TOP_TWO, .vec = top_vec}},
    {.name = "lerp, by rows",   .op = {.kind = OPS_LERP, TOP_THREE}},
    {.name = "add heads",       .op = {.kind = OPS_ADD_HEADS, TOP_TWO}},
    {.name = "delta, grouped",
     .op = {.kind = OPS_DELTA, TOP_THREE, .vec = top_vec, .scale = 1e-6f, .state = {.grouped = true}}, .fit = top_fit_state},
    {.name = "keep",            .op = {.kind = OPS_KEEP, TOP_THREE}, .fit = top_fit_state},
    {.name = "sparse",          .op = {.kind = OPS_SPARSE, .scale = 0.7f}},
    {.name = "blend",           .op = {.kind = OPS_BLEND, TOP_TWO}},
    {.name = "correct",         .op = {.kind = OPS_CORRECT, TOP_THREE}, .fit = top_fit_streams},
    {.name = "raise",           .op = {.kind = OPS_RAISE, TOP_ONE}},
#ifdef OPS_NEGATE_IS_THERE                            /* tests/invented.rows: a kind is a row, and its function */
    {.name = "negate",          .op = {.kind = OPS_NEGATE, .scale = -1}},
#endif
    {.name = "mean",            .op = {.kind = OPS_MEAN, TOP_ONE}},
    {.name = "inject",          .op = {.kind = OPS_INJECT, TOP_THREE, .scale = 0.3f}},
    {.name = "recall",          .op = {.kind = OPS_RECALL, TOP_THREE, .scale = 1e-6f}},
    {.name = "hyper",           .op = {.kind = OPS_HYPER, TOP_ONE, .vec = top_vec, .scale = 1e-3f, .hyper = {top_vec + 9, 3}}},
    {.name = "hyper, output",   .op = {.kind = OPS_HYPER, TOP_ONE, .vec = top_vec, .scale = 1e-3f, .hyper = {top_vec + 9, 0}}},
    {.name = "collapse",        .op = {.kind = OPS_COLLAPSE, TOP_TWO}},
    {.name = "expand",          .op = {.kind = OPS_EXPAND, TOP_THREE}},
    {.name = "level",           .op = {.kind = OPS_LEVEL, TOP_TWO, .to = 4}},
};
enum { TOP_EXAMPLES = sizeof top_examples / sizeof *top_examples };

/* --- a run --- */

/* Rows of sequences of three; every third asks for something. */
static void top_batch(top_rig *r, int n) {
    dev_batch *b = &r->b;
    *b = (dev_batch){.n = n, .n_seq = (n + 2) / 3, .n_group = 1, .token = r->token, .pos = r->pos, .seq = r->seq,
                     .want = r->want, .table = r->table,
                     .table_at = r->table_at, .turn = r->turn};
    for (int i = 0; i < n; i++) {
        r->token[i] = i * 7 % TOP_TOKENS, r->seq[i] = i / 3, r->pos[i] = 3 + i / 3 % 5 * 4 + i % 3;
        b->n_out += r->want[i] = i % 3 == 1 || i == n - 1;
    }
}

/* Every buffer and block has its values, the same in every run; what is only written has bytes `dirt` in place of them. */
static void top_fill(top_rig *r, int dirt) {
    top_turn = 1;
    for (int b = 1; b < r->plan.n_buf; b++) {
        const dev_acts *a = &r->plan.buf[b].a;
        const bool      written = b >= r->first && r->plan.op[r->plan.n_op - 1].row->place == DEV_WRITES;
        for (int row = 0; a->x && row < a->rows; row++)
            for (size_t i = 0; i < a->ldx; i++) a->x[(size_t)row * a->ldx + i] = top_unit() * (i % 97 == 5 && row % 2 ? 40 : 1);
        if (written && a->x) memset(a->x, dirt, (size_t)a->rows * a->ldx * sizeof *a->x);
        if (a->h) memset(a->h, dirt, (size_t)a->rows * a->ldx * sizeof *a->h);
        if (a->q)
            memset(a->q, dirt, 2 * (size_t)a->rows * a->ldq),
            memset(a->d, dirt, 2 * (size_t)a->rows * (a->ldq / 256) * sizeof *a->d);
        if (a->q) memset(a->sum, dirt, 2 * (size_t)a->rows * (a->ldq / 256) * sizeof *a->sum);
    }
    for (int i = 0; i < 3; i++) {
        const dev_acts *a = &r->plan.buf[r->in[i]].a;
        for (int row = 0; r->of->ints & 1u << i && row < a->rows; row++)
            for (int k = 0; k < TOP_USED; k++) dev_ints(a->x + (size_t)row * a->ldx)[k] = (row * row + k * 3) % TOP_EXPERTS;
    }
    float *block = r->n_blocks ? mem_new(r->mem.block_bytes, 1) : NULL;
    for (int k = 0; k < r->n_blocks; k++) {
        for (size_t i = 0; i < r->mem.block_bytes / sizeof *block; i++) block[i] = top_unit();
        for (int at = 0; r->kv.mem && at < TOP_PAGE * r->kv.n_head; at++) {
            k_kv_store(r->kv.type_k, top_vec + k * 31 + at * 7, (uint8_t *)block + (size_t)at * r->kv.k_stride, r->kv.hd_k);
            if (!r->kv.shared) k_kv_store(r->kv.type_v, top_vec + k * 13 + at * 5,
                       (uint8_t *)block + r->kv.v_at + (size_t)at * r->kv.v_stride, r->kv.hd_v);
        }
        dev_blocks_write(&r->mem, k, (const uint8_t *)block);
    }
    mem_free(block);
}

static void top_open(top_rig *r, const top_example *e, int n, int n_head, int rows, dev_row_set set, dev_gpus *on) {
    memset(r, 0, sizeof *r);
    r->of = e, r->on = on, r->p = pool_new(TOP_THREADS), r->op = e->op;
    r->op.rows = set, r->op.n = n, r->op.n_head = n_head;
    top_batch(r, rows);
    if (e->fit) e->fit(r);
    if (r->n_blocks && on) dev_blocks_split(&r->mem, on, (const size_t[]){0, r->mem.block_bytes});
    while (r->n_blocks && dev_blocks_mapped(&r->mem) < r->n_blocks && CHECK(dev_blocks_more(&r->mem))) {}
    dev_plan_begin(&r->plan, ops_kinds);
    r->plan.on = on;
    (e->build ? e->build : top_build_one)(r);
    r->plan.result = r->out[0];
    dev_plan_fill(&r->plan, TOP_THREADS, rows, rows, false);
    dev_gpu_fill(&r->plan);
    r->run = (dev_run){.p = r->p, .plan = &r->plan, .batch = &r->b, .adapters = r->adapters};
}

static void top_close(top_rig *r) {
    for (int i = 0; i < TOP_PRODUCTS && r->of->build; i++) {
        dev_mat_drop(&r->mat[i]);
        mem_free(r->mat[i].packed);
        mem_free((void *)(uintptr_t)r->mat[i].data);
    }
    dev_gpu_free(&r->plan);
    dev_plan_free(&r->plan);
    dev_run_free(&r->run);
    if (r->n_blocks) dev_blocks_free(&r->mem);
    pool_free(r->p);
}

static void top_plain(void *ctx, int ith) {
    top_rig *r = ctx;
    dev     dv = {.p = r->p, .ith = ith, .scratch = r->plan.thread[ith].scratch, .run = &r->run};
    for (int i = 0; !ith && i < r->plan.n_op; i++) plain_run(&dv, &r->plan.op[i]);
}

static void top_take(str *to, const dev_gpus *on, const void *from, size_t n) {
    char *at = mem_new(n + 1, 1);
    if (on) gpu_down(on->g[0], at, from, n);
    else memcpy(at, from, n);
    str_add(to, at, n);
    mem_free(at);
}

/* What the outputs hold, wherever that is, and all blocks. */
static str top_result(const top_rig *r) {
    str got = {0};
    for (int b = r->first; b < r->plan.n_buf; b++) {
        const dev_acts *a = r->on ? &r->plan.share[0].a[b] : &r->plan.buf[b].a;
        const size_t    width = (size_t)r->plan.buf[b].width, rows = (size_t)a->rows, sums = rows * (a->ldq / 256);
        for (size_t row = 0; a->x && row < rows; row++) top_take(&got, r->on, a->x + row * a->ldx, width * sizeof *a->x);
        for (size_t row = 0; a->h && row < rows; row++) top_take(&got, r->on, a->h + row * a->ldx, width * sizeof *a->h);
        if (!a->q) continue;
        top_take(&got, r->on, a->q, 2 * rows * a->ldq);
        top_take(&got, r->on, a->sum, sums * sizeof *a->sum);
        top_take(&got, r->on, a->d, 2 * sums * sizeof *a->d);
        top_take(&got, r->on, a->split, rows);
    }
    uint8_t *block = r->n_blocks ? mem_new(r->mem.block_bytes, 1) : NULL;
    for (int k = 0; k < r->n_blocks; k++) {
        dev_blocks_read(&r->mem, k, block);
        str_add(&got, (char *)block, r->mem.block_bytes);
    }
    mem_free(block);
    return got;
}

/* The result of one way: by the plain reference, or by a step. */
static str top_run(top_rig *r, int dirt, bool plain) {
    top_fill(r, dirt);
    dev__prepare(&r->run);
    if (plain) pool_run(r->p, top_plain, r);
    else CHECK(dev_step(&r->run)), dev_gpu_step(&r->run);
    return top_result(r);
}

/* An example in one shape: the reference twice, from memory that holds other bytes, tells what is written; all ways must give
 * that. */
static void top_compare(const top_example *e, int n, int n_head, int rows, dev_row_set set, dev_gpus *on) {
    const char  *levels[16];
    bool         can[16];
    const int    n_levels = k_levels_list(levels, can);
    static top_rig r;
    k_init("scalar");
    top_open(&r, e, n, n_head, rows, set, NULL);
    str    want = top_run(&r, 0x11, true), other = top_run(&r, 0xee, true);
    size_t written = 0;
    for (size_t i = 0; i < want.n; i++) written += want.p[i] == other.p[i];
    CHECKF(written || !want.n,
           "%s: nothing of its output is written, or it reads what its output held and the row says it does not", e->name);
    for (int way = 0; way <= n_levels; way++) {
        const bool gpu_way = way == n_levels;
        const dev_kind *kind = &ops_kinds[e->op.kind];
        const bool      on_gpu = on && !e->host && kind->gpu != &ops_host && (!kind->gpu_can || kind->gpu_can(&e->op));
        if (gpu_way ? !on_gpu : !can[way] || !k_init(levels[way])) continue;
        if (gpu_way) k_init("scalar"), top_close(&r), top_open(&r, e, n, n_head, rows, set, on);
        str    got = top_run(&r, 0x11, false);
        size_t at = 0;
        while (at < want.n && at < got.n && (got.p[at] == want.p[at] || want.p[at] != other.p[at])) at++;
        CHECKF(got.n == want.n && at == want.n, "%s, %s, n %d x %d, %d rows%s: byte %zu of %zu is another", e->name,
               gpu_way ? "GPU" : levels[way], n, n_head, rows,
               set == DEV_OUT ? ", some" : "", at, want.n);
        mem_free(got.p);
    }
    k_init("auto");
    CHECKF(!e->host || !dev_gpu__can(&r.plan.op[r.plan.n_op - 1]), "%s: a GPU would run it", e->name);
    top_close(&r);
    mem_free(want.p), mem_free(other.p);
}

/* Whether every column of a kind's row is filled, but for those that may be empty. */
static bool top_columns(const dev_kind *k) {
    return CHECKF(k->name && k->place != DEV_UNSAID && k->width && k->reads && k->vec && k->cost && k->all && k->gpu,
                  "the row of %s lacks a column",
                  k->name ? k->name : "a kind without a name") &&
           CHECKF(k->all != dev_rows || k->run, "%s: no function for a task", k->name) &&
           CHECKF(k->all != dev_rows || k->tasks || k->gpu == &ops_rows || k->gpu == &ops_host,
                  "%s shares phases with other operations on rows, whose launch would serve it on a GPU", k->name);
}

static void t_ops_kinds(void) {
    static const int shapes[][3] = {{32, 1, 1}, {64, 3, 9}, {96, 2, 4}, {288, 1, 33}};
    dev_gpus on = {.n = 1};
    err_t    e = {0};
    bool     seen[OPS_N] = {false};
    top_turn = 99;
    for (int i = 0; i < TOP_VEC; i++) top_vec[i] = top_unit();
    for (int i = 0; i < TOP_WIDE; i++) top_freq[i] = pow(10000, -i / 64.0);
    if (driver_find("268435456")) on.g[0] = gpu_open(0, &e);
    CHECKF(!e.code, "%s", e.text);
    bool filled = true;
    for (int k = 0; k < OPS_N; k++) filled = top_columns(&ops_kinds[k]) && filled;
    for (int i = 0; filled && i < TOP_EXAMPLES; i++) {
        const bool all = top_examples[i].op.kind == OPS_STORE || top_examples[i].op.kind == OPS_KEEP
                         || top_examples[i].op.kind == OPS_BEFORE
                         || top_examples[i].op.kind == OPS_GROUP;
        seen[top_examples[i].op.kind] = true;
        for (int s = 0; s < 4; s++)
            top_compare(&top_examples[i], shapes[s][0], shapes[s][1], shapes[s][2], s % 2 && !all ? DEV_OUT : DEV_ALL,
                       on.g[0] ? &on : NULL);
    }
    for (int k = 0; k < OPS_N; k++) CHECKF(seen[k] || !filled, "no example of %s", ops_kinds[k].name);
    gpu_close(on.g[0]);
    if (!on.g[0]) t_skipped = "no build/test/fake/libcuda.so.1: not on a GPU";
}

/* The best of n scores by looking for the largest `top` times: of equal ones the first, what is no number last. */
static void top_best(const float *score, int n, int top, bool *is) {
    memset(is, 0, (size_t)n * sizeof *is);
    for (int k = 0; k < top; k++) {
        int best = -1;
        for (int i = 0; i < n; i++) {
            const bool more = best < 0 || score[i] > score[best] || (!(score[best] == score[best]) && score[i] == score[i]);
            if (!is[i] && more) best = i;
        }
        is[best] = true;
    }
}

static void t_ops_best(void) {
    enum { MOST = 300 };
    static const float values[] = {0, -0.0f, 1, -1, 1e30f, -1e30f, INFINITY, -INFINITY, NAN, 0x1p-149f, -0x1p-149f};
    static float    score[MOST];
    static uint64_t rank[2 * MOST];
    static bool     is[MOST];
    top_turn = 5;
    for (int round = 0; round < 600; round++) {
        const int n = 2 + round % (MOST - 2), top = 1 + (int)(rng_mix(++top_turn) % (uint64_t)(n - 1));
        ops_best  b = {.rank = rank};
        for (int i = 0; i < n; i++) {
            const uint64_t draw = rng_mix(++top_turn);
            score[i] = round % 3 == 0 ? top_unit() : round % 3 == 1 ? values[draw % 11] : (float)(draw % 4) - 1;
            ops__add_best(&b, top, ops__rank(score[i], i));
        }
        ops__cut_best(&b, top);
        top_best(score, n, top, is);
        bool same = b.n == top;
        for (int i = 0, k = 0; same && i < n; i++)
            if (is[i]) same = (int)(UINT32_MAX - (uint32_t)rank[k++]) == i;
        CHECKF(same, "the best %d of %d scores, round %d", top, n, round);
    }
}

static const t_case t_ops_cases[] = {
    {"ops kinds",
     "every kind gives the bytes of the plain reference at every level and on an emulated GPU, and fills every column of its row",
     t_ops_kinds},
    {"ops best", "the best scores are those that a search for each of them finds, of equal ones the earlier, in rising order",
     t_ops_best},
};
static const t_suite t_ops_suite = SUITE(t_ops_cases);
