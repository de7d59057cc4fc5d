/* k_cuda_rows of [cuda], run by emu_cuda.h: lists of operations as [dev] writes them change the same bytes in a copy of its
 * buffers. */
#include "program.h"
#include "check.h"
#include "t_cuda.h"
#include "t_quant.h"

enum { TR_ROWS = 300, TR_BUFS = 12, TR_PAGE = 4, TR_MOST = 9024 };   /* most rows of a batch; buffers of a plan; positions of a
                                                       * block; values of a vector */

/* A list with its buffers, and the copies that the GPU works on. */
typedef struct {
    dev_plan    p;
    dev_run     run;
    dev         dv;
    dev_batch   b;
    dev_kv      kv;
    dev_blocks  blocks;
    dev_acts    got[TR_BUFS];                         /* of each buffer of the plan */
    uint8_t    *cache, *cache_got;
    size_t      cache_bytes;
    int32_t     pos[TR_ROWS], seq[TR_ROWS], table[TR_ROWS * 2 * 8];
    uint8_t     want[TR_ROWS];
    size_t      table_at[TR_ROWS * 2 + 1];
    k_cuda_step step;
    k_row_op    op[K_CUDA_ROW_OPS];
    dev_gpu_share share;                              /* what the program's functions know of the copies */
    float       vec[3][TR_MOST];                        /* gains, biases */
} tr_case;

/* n rows of sequences of three; every third asks for something. Blocks of the second group of the cache lie in any order. */
static void tr_new(tr_case *c, int n) {
    memset(c, 0, sizeof *c);
    dev_plan_begin(&c->p, ops_kinds);
    c->b = (dev_batch){.n = n, .n_seq = (n + 2) / 3, .n_group = 2, .pos = c->pos, .seq = c->seq, .want = c->want,
                       .table = c->table, .table_at = c->table_at};
    for (int i = 0; i < n; i++) c->seq[i] = i / 3, c->pos[i] = 2 + i / 3 % 5 * 4 + i % 3, c->want[i] = i % 3 == 1 || i == n - 1;
    for (int i = 0; i <= 2 * c->b.n_seq; i++) c->table_at[i] = (size_t)(8 * i);
    for (int i = 0; i < 16 * c->b.n_seq; i++) c->table[i] = (i * 7 + 3) % (16 * c->b.n_seq);
    for (int i = 0; i < 3 * TR_MOST; i++) c->vec[i / TR_MOST][i % TR_MOST] = tq_unit() * 2;
    for (int i = 0; i < n; i++) c->b.n_out += c->want[i];
}

/* A buffer with rows of `width` values for `each` tasks of each row of the set. */
static dev_buf tr_buf(tr_case *c, dev_row_set set, int each, int width) {
    const dev_buf b = dev_plan_buf(&c->p, "test", false);
    dev_buffer   *to = &c->p.buf[b];
    to->width = width, to->each = each, to->most = to->held = set;
    return b;
}

static void tr_op(tr_case *c, dev_op op) { dev_plan_op(&c->p, op); }

/* Buffer b gets the wanted forms. */
static void tr_form(tr_case *c, dev_op op, unsigned forms) {
    c->p.buf[op.out[0]].forms |= forms;
    op.kind = OPS_FORM;
    op.forms = forms;
    tr_op(c, op);
}

static void *tr_copy(const void *from, size_t n, size_t each) {
    return from ? memcpy(mem_aligned(n, each), from, n * each) : NULL;
}

/* Some rows have outliers, some are 0. */
static void tr_fill(dev_acts *a) {
    for (int r = 0; r < a->rows; r++)
        for (size_t i = 0; i < a->ldx; i++) {
            const float v = tq_unit() * tq_unit() * 3;
            a->x[(size_t)r * a->ldx + i] = r % 7 == 5 ? 0 : r % 4 == 3 && tq_rand() % 200 == 0 ? v * 1000 : v;
        }
}

/* Memory for the list, and copies. */
static void tr_ready(tr_case *c) {
    dev_plan_fill(&c->p, 1, c->b.n, c->b.n, false);
    for (int i = 0; i < DEV_ROW_SETS; i++) dev__list_rows(&c->b, (dev_row_set)i, &c->p.rows[i]);
    for (int i = 1; i < c->p.n_buf; i++) {
        dev_acts    *a = &c->p.buf[i].a;
        const size_t rows = (size_t)a->rows, sums = 2 * rows * (a->ldq / 256);
        tr_fill(a);
        if (a->h) memset(a->h, 0x5a, rows * a->ldx * 2);
        if (a->q)
            memset(a->q, 0x5a, 2 * rows * a->ldq), memset(a->sum, 0x5a, sums * sizeof *a->sum), memset(a->d, 0x5a, sums * 4);
        c->got[i] = *a;
        c->got[i].x = tr_copy(a->x, rows * a->ldx, 4);
        c->got[i].h = tr_copy(a->h, rows * a->ldx, 2);
        c->got[i].q = tr_copy(a->q, 2 * rows * a->ldq, 1);
        c->got[i].sum = tr_copy(a->sum, sums, sizeof *a->sum);
        c->got[i].d = tr_copy(a->d, sums, 4);
        c->got[i].split = tr_copy(a->split, rows, 1);
    }
    c->run = (dev_run){.plan = &c->p, .batch = &c->b};
    c->dv = (dev){.run = &c->run};
    c->step = (k_cuda_step){.b = c->b, .n = {c->p.rows[0].n, c->p.rows[1].n}, .row = {c->p.rows[0].row, c->p.rows[1].row}};
    c->share.a = c->got;
    c->share.sent.base = (uint8_t *)&c->step;
}

static void tr_drop(tr_case *c) {
    for (int i = 1; i < c->p.n_buf; i++) {
        void *all[] = {c->got[i].x, c->got[i].h, c->got[i].q, c->got[i].sum, c->got[i].d, c->got[i].split};
        for (int k = 0; k < 6; k++) mem_free(all[k]);
    }
    void *more[] = {c->share.expert, c->share.tiles[0], c->share.tiles[1]};
    for (int k = 0; k < 3; k++) mem_free(more[k]);
    mem_free(c->cache);
    mem_free(c->cache_got);
    dev_plan_free(&c->p);
}

/* A layer with `heads` K/V heads in the second group of the cache; another layer stands before it in each block. */
static void tr_cache(tr_case *c, uint32_t type_k, uint32_t type_v, int heads, int hd_k, int hd_v, bool hadamard) {
    const size_t bk = k_kv_bytes(type_k, hd_k), bv = k_kv_bytes(type_v, hd_v), n = (size_t)(TR_PAGE * heads),
                 block = (n * (bk + bv) + 64 + 15) / 16 * 16;
    c->cache_bytes = 16 * (size_t)c->b.n_seq * block;
    c->cache = mem_aligned(c->cache_bytes, 1);
    memset(c->cache, 0x5a, c->cache_bytes);
    c->cache_got = tr_copy(c->cache, c->cache_bytes, 1);
    c->blocks = dev_blocks_new(block, 16 * c->b.n_seq);
    c->blocks.slab_blocks = c->blocks.max_blocks;
    c->blocks.slab = &c->cache;
    c->blocks.tail[0] = (dev_tail){.bytes = block, .all = {.base = c->cache_got}};
    c->blocks.n_tail = 1;
    c->kv = (dev_kv){.mem = &c->blocks, .group = 1, .block = TR_PAGE, .n_head = heads, .type_k = type_k, .type_v = type_v,
                     .hd_k = hd_k, .hd_v = hd_v,
                     .hadamard_k = hadamard ? k_hadamard_size(hd_k) : 1,
                     .hadamard_v = hadamard ? k_hadamard_size(hd_v) : 1, .k_at = 32,
                     .v_at = 32 + n * bk, .k_stride = bk, .v_stride = bv};
}

static k_cuda_buf tr_at(const tr_case *c, dev_buf b) { return (k_cuda_buf){c->got[b].x, c->got[b].ldx}; }

static void tr_run(const void *a) { k_cuda_rows(*(const k_cuda_rows_args *)a); }

/* The phase on the emulated GPU, with blocks to spare. */
static const char *tr_launch(tr_case *c, const dev_phase *ph, int spare) {
    const k_cuda_rows_args a = {.step = &c->step, .op = c->op, .n = ph->n};
    ASSERT(ph->n <= K_CUDA_ROW_OPS);
    for (int i = 0; i < ph->n; i++) c->op[i] = ops__gpu_op(&c->share, &c->p.op[ph->first + i]);
    c->op[0].beside = false;
    int rows = 0;                                     /* on the CPU tasks may be others */
    for (const dev_op *op = &c->p.op[ph->first]; op < &c->p.op[ph->first + ph->n]; op++)
        if (op == &c->p.op[ph->first] || op->beside) rows += c->p.rows[op->rows].n * max_int(op->each, 1);
    return emu_launch(tr_run, &a, rows + spare, 1, K_CUDA_THREADS, tc_seed++);
}

/* Whether everything that the list writes is the same. */
static bool tr_same(const tr_case *c) {
    bool same = !c->cache || !memcmp(c->cache, c->cache_got, c->cache_bytes);
    for (int i = 1; i < c->p.n_buf; i++) {
        const dev_acts *a = &c->p.buf[i].a, *g = &c->got[i];
        const size_t    rows = (size_t)a->rows, sums = 2 * rows * (a->ldq / 256);
        same = same && tq_same(a->x, g->x, (int)(rows * a->ldx));
        same = same && (!a->h || !memcmp(a->h, g->h, rows * a->ldx * 2));
        same = same && (!a->q || (!memcmp(a->q, g->q, 2 * rows * a->ldq) && !memcmp(a->sum, g->sum, sums / 2 * sizeof *a->sum)));
        same = same && (!a->d || (tq_same(a->d, g->d, (int)sums) && !memcmp(a->split, g->split, rows)));
    }
    return same;
}

static void tr_both_phase(tr_case *c, const dev_phase *ph, const char *name) {
    const int n = dev__phase_tasks(&c->run, ph);
    for (int t = 0; t < n; t++) dev__task(&c->dv, ph, t);
    const char *fault = tr_launch(c, ph, 3);
    CHECKF(!fault, "%s, n %d x %d, rows %d: %s", name, c->p.op[0].n, c->p.op[0].n_head, c->b.n, fault);
}

/* The list on both, after tr_ready(). */
static void tr_both(tr_case *c, const char *name) {
    k_init("scalar");
    for (int i = 0; i < c->p.n_phase; i++) tr_both_phase(c, &c->p.phase[i], name);
    CHECKF(tr_same(c), "%s: n %d x %d, rows %d differ from the scalar level", name, c->p.op[0].n, c->p.op[0].n_head, c->b.n);
}

/* --- every kind --- */

/* One operation: `n` values, in `heads` vectors where it has them. Buffers of inputs and output are as wide as any kind needs. */
typedef struct {
    const char *name;
    dev_op      op;
    int         inputs;
    bool        place, heads, gain, bias;             /* works in place; has vectors; with gains; with biases */
} tr_kind;

static const tr_kind tr_kinds[] = {
    {"rms norm",        {.kind = OPS_NORM, .norm = {.kind = K_NORM_RMS}, .scale = 1e-6f}, 1, false, false, true, false},
    {"rms norm, bare",  {.kind = OPS_NORM, .norm = {.kind = K_NORM_RMS}, .scale = 1e-5f}, 1, true, true, false, false},
    {"rms norm, heads", {.kind = OPS_NORM, .norm = {.kind = K_NORM_RMS}, .scale = 1e-6f}, 1, true, true, true, false},
    {"layer norm",      {.kind = OPS_NORM, .norm = {.kind = K_NORM_LAYER}, .scale = 1e-5f}, 1, false, true, true, true},
    {"layer norm, bare",{.kind = OPS_NORM, .norm = {.kind = K_NORM_LAYER}, .scale = 1e-5f}, 1, false, false, false, false},
    {"layer norm, w",   {.kind = OPS_NORM, .norm = {.kind = K_NORM_LAYER}, .scale = 1e-5f}, 1, true, false, true, false},
    {"layer norm, b",   {.kind = OPS_NORM, .norm = {.kind = K_NORM_LAYER}, .scale = 1e-5f}, 1, true, false, false, true},
    {"l2 norm",         {.kind = OPS_NORM, .norm = {.kind = K_NORM_L2}, .scale = 1e-6f}, 1, false, true, true, false},
    {"bias",            {.kind = OPS_BIAS}, 0, false, false, true, false},
    {"add",             {.kind = OPS_ADD}, 2, false, false, false, false},
    {"add in place",    {.kind = OPS_ADD}, 2, true, false, false, false},
    {"add, scaled",     {.kind = OPS_ADD, .scale = 0.22f}, 2, true, false, false, false},
    {"scale",           {.kind = OPS_SCALE, .scale = 1.3f}, 0, false, false, false, false},
    {"scale, vec",      {.kind = OPS_SCALE}, 0, false, false, true, false},
    {"cap",             {.kind = OPS_CAP, .scale = 1.5f}, 0, false, false, false, false},
    {"clamp",           {.kind = OPS_CLAMP, .scale = 0.5f}, 0, false, false, false, false},
    {"pick",            {.kind = OPS_PICK, .pick = {.at = 3, .to = 5}}, 1, false, true, false, false},
    {"rope",            {.kind = OPS_ROPE, .rope = {.at = 2}}, 1, false, true, false, false},
    {"rope, halves",    {.kind = OPS_ROPE, .rope = {.at = 1, .form = K_ROPE_HALVES}}, 1, false, true, false, false},
    {"silu",            {.kind = OPS_ACTIVATE, .act = ACT_SILU}, 1, false, false, false, false},
    {"silu alone",      {.kind = OPS_ACTIVATE, .act = ACT_SILU}, 0, false, false, false, false},
    {"gelu",            {.kind = OPS_ACTIVATE, .act = ACT_GELU}, 1, false, false, false, false},
    {"gelu erf",        {.kind = OPS_ACTIVATE, .act = ACT_GELU_ERF}, 1, false, false, false, false},
    {"sigmoid",         {.kind = OPS_ACTIVATE, .act = ACT_SIGMOID}, 1, false, false, false, false},
    {"relu",            {.kind = OPS_ACTIVATE, .act = ACT_RELU}, 0, false, false, false, false},
    {"relu2",           {.kind = OPS_ACTIVATE, .act = ACT_RELU2}, 0, false, false, false, false},
    {"exp",             {.kind = OPS_ACTIVATE, .act = ACT_EXP}, 0, false, false, false, false},
    {"softplus",        {.kind = OPS_ACTIVATE, .act = ACT_SOFTPLUS}, 1, false, false, false, false},
    {"swiglu, clipped", {.kind = OPS_ACTIVATE, .act = ACT_SWIGLU_CLIP}, 1, false, false, false, false},
    {"gate",            {.kind = OPS_GATE}, 1, false, false, true, false},
    {"add scaled",      {.kind = OPS_ADD_SCALED}, 2, false, false, false, false},
    {"scale by",        {.kind = OPS_SCALE_BY}, 1, false, false, false, false},
    {"scale by, heads", {.kind = OPS_SCALE_BY}, 1, false, true, false, false},
    {"scale by, vec",   {.kind = OPS_SCALE_BY}, 0, false, true, true, false},
    {"mul",             {.kind = OPS_MUL, .mul = {.a = 2, .b = 7, .to = 1}}, 2, false, false, false, false},
    {"sparse",          {.kind = OPS_SPARSE, .scale = 0.7f}, 0, false, false, false, false},
    {"blend",           {.kind = OPS_BLEND}, 2, false, true, false, false},
    {"correct",         {.kind = OPS_CORRECT}, 3, false, true, false, false},
    {"raise",           {.kind = OPS_RAISE}, 1, false, true, false, false},
    {"level",           {.kind = OPS_LEVEL, .to = 6}, 2, false, false, false, false},
    {"xielu",           {.kind = OPS_XIELU, .xielu = {0.8f, 0.7f, 0.5f, -1e-6f}}, 0, false, false, false, false},
    {"lerp",            {.kind = OPS_LERP}, 2, false, false, true, false},
    {"lerp, by rows",   {.kind = OPS_LERP}, 3, true, false, false, false},
    {"add heads",       {.kind = OPS_ADD_HEADS}, 2, false, true, false, false},
};
enum { TR_KINDS = sizeof tr_kinds / sizeof *tr_kinds };

/* `set`: of rows; the inputs hold all rows. */
static void tr_kind_op(tr_case *c, const tr_kind *k, int n, int heads, dev_row_set set) {
    const int width = n * heads + 2 * heads + 16;
    dev_op    op = k->op;
    op.rows = set;
    op.n = n;
    op.n_head = k->heads ? heads : 0;
    op.vec = k->gain ? c->vec[0] : NULL;
    for (int i = 0; i < k->inputs; i++) op.in[i] = tr_buf(c, DEV_ALL, 1, width);
    op.out[0] = k->place && set == DEV_ALL ? op.in[0] : tr_buf(c, set, 1, width);
    if (op.kind == OPS_NORM) op.norm.bias = k->bias ? c->vec[1] : NULL;
    if (op.kind == OPS_PICK) op.pick.stride = n + 2;
    if (op.kind == OPS_ROPE) op.rope.n_rot = heads % 2 ? n / 2 * 2 : n / 4 * 2;
    if (op.kind == OPS_CORRECT) op.active = heads - 1;
    tr_op(c, op);
    tr_ready(c);
}

static void tr_each_kind(const tr_kind *k, int n, int heads, int rows, dev_row_set set) {
    static tr_case c;
    tr_new(&c, rows);
    tr_kind_op(&c, k, n, heads, set);
    tr_both(&c, k->name);
    tr_drop(&c);
}

/* Coefficients of several streams are n_head^2 values of a row: vectors are not shorter than that. */
static void t_cuda_rows_kinds(void) {
    static const int ns[] = {1, 15, 16, 17, 31, 33, 95, 256, 300, 1000, 2049, 5000}, rows[] = {2, 1, 9, 33},
    heads[] = {1, 3, 4, 17};
    for (int k = 0; k < TR_KINDS; k++) {
        for (int i = 0; i < 12; i++) {
            const int n = ns[i], h = n > 1000 ? 2 : n < 17 ? 1 : heads[(i + k) % 4];
            tr_each_kind(&tr_kinds[k], n, tr_kinds[k].heads ? h : 1, rows[(i + k) % (n < 1000 ? 4 : 2)], DEV_ALL);
        }
        tr_each_kind(&tr_kinds[k], TR_MOST, 1, 1, DEV_ALL);   /* more values than are fetched at a time */
    }
    emu_free();
}

/* Rows that ask for something find theirs among all. */
static void t_cuda_rows_gather(void) {
    for (int k = 0; k < TR_KINDS; k++)
        for (int i = 0; i < 2; i++) tr_each_kind(&tr_kinds[k], 160, tr_kinds[k].heads ? 4 : 1, i ? 33 : 9, DEV_OUT);
    emu_free();
}

/* Values that are infinite, NaN, large and tiny, and zeros of both signs. */
static void tr_odd(tr_case *c, dev_buf b) {
    static const float odd[] = {INFINITY, -INFINITY, NAN, 3e38f, -3e38f, 1e30f, 1e-30f, -0.0f, 0.0f, 88.5f, -88.5f,
                                200.0f, 7.0f, -7.0f, 127.5f, 1e-38f};
    dev_acts *a = &c->p.buf[b].a, *g = &c->got[b];
    for (int r = 0; r < a->rows; r++)
        for (size_t i = tq_rand() % 64; r && i < a->ldx; i += 1 + tq_rand() % (r % 3 ? 512 : 64))
            a->x[(size_t)r * a->ldx + i] = g->x[(size_t)r * a->ldx + i] = odd[tq_rand() % (r % 2 ? 16 : 7) + (r % 2 ? 0 : 9)];
}

static void t_cuda_rows_odd(void) {
    static tr_case c;
    for (int k = 0; k < TR_KINDS; k++) {
        /* which NaN is which does not show */
        if (tr_kinds[k].op.kind == OPS_BLEND || tr_kinds[k].op.kind == OPS_CORRECT) continue;
        tr_new(&c, 9);
        tr_kind_op(&c, &tr_kinds[k], 700, 1, DEV_ALL);
        for (int i = 1; i < c.p.n_buf; i++) tr_odd(&c, i);
        tr_both(&c, tr_kinds[k].name);
        tr_drop(&c);
    }
    emu_free();
}

/* --- forms --- */

/* Rows with outliers and rows without, both forms and each alone. Blocks shorter than 256; rows of more blocks than there are
 * warps. */
static void t_cuda_rows_forms(void) {
    static const int      ns[] = {32, 64, 96, 224, 256, 288, 1024, 2080, 5024};
    static const unsigned forms[] = {1u << K_ACT_I8, 1u << K_ACT_BF16 | 1u << K_ACT_I8, 1u << K_ACT_BF16,
                                     1u << K_ACT_I8 | K_FORM_FINE};
    static tr_case        c;
    int                   split = 0, whole = 0;
    for (int i = 0; i < 9 * 4; i++) {
        tr_new(&c, i % 3 ? 9 : 33);
        const dev_buf b = tr_buf(&c, DEV_ALL, 1, ns[i % 9]);
        tr_form(&c, (dev_op){.out = {b}, .n = ns[i % 9]}, forms[i / 9]);
        tr_ready(&c);
        if (i % 2) tr_odd(&c, b);
        tr_both(&c, "form");
        for (int r = 0; c.p.buf[b].a.split && r < c.b.n; r++) *(c.p.buf[b].a.split[r] ? &split : &whole) += 1;
        tr_drop(&c);
    }
    CHECKF(split > 20 && whole > 20, "%d rows with outliers, %d without", split, whole);
    emu_free();
}

/* Any n, as weights of bf16 have it. */
static void t_cuda_rows_bf16(void) {
    static const int ns[] = {1, 17, 255, 257, 1000};
    static tr_case   c;
    for (int i = 0; i < 5; i++) {
        tr_new(&c, 9);
        const dev_buf b = tr_buf(&c, DEV_ALL, 1, ns[i]);
        tr_form(&c, (dev_op){.out = {b}, .n = ns[i]}, 1u << K_ACT_BF16);
        tr_ready(&c);
        tr_odd(&c, b);
        tr_both(&c, "bf16");
        tr_drop(&c);
    }
    emu_free();
}

/* --- the cache --- */

static const uint32_t tr_types[] = {K_F32, K_F16, K_BF16, K_Q8_0, K_Q4_0};

static void tr_store(int type_k, int type_v, int heads, int hd_k, int hd_v, bool hadamard, int rows) {
    static tr_case c;
    tr_new(&c, rows);
    tr_cache(&c, tr_types[type_k], tr_types[type_v], heads, hd_k, hd_v, hadamard);
    const dev_buf k = tr_buf(&c, DEV_ALL, 1, heads * hd_k), v = tr_buf(&c, DEV_ALL, 1, heads * hd_v);
    tr_op(&c, (dev_op){.kind = OPS_STORE, .in = {k, v}, .n = hd_k, .n_head = heads, .cache = {.kv = &c.kv}});
    tr_ready(&c);
    if (rows == 9 && type_k == type_v) tr_odd(&c, k);
    /* equal magnitudes */
    for (size_t i = 0; rows == 3 && i < 3 * c.got[k].ldx; i++) c.got[k].x[i] = c.p.buf[k].a.x[i] = roundf(c.got[k].x[i]);
    tr_both(&c, "store");
    tr_drop(&c);
}

/* Every type of keys beside every type of values; heads that do not fill their last block. Keys are odd values too where none of
 * them is the same as another after a transform. */
static void t_cuda_rows_store(void) {
    static const int hd[] = {64, 80, 128, 96, 256, 8, 16, 112};
    for (int i = 0; i < 25; i++) {
        tr_store(i / 5, i % 5, 1 + i % 4, hd[i % 8], hd[i * 3 % 8], false, i % 2 ? 9 : 3);
        tr_store(i / 5, i % 5, 1 + i * 7 % 17, hd[i * 5 % 8], hd[i % 8], true, i % 2 ? 10 : 33);
    }
    emu_free();
}

/* Transforms of all sizes: of queries as the cache has its keys, of results as it has its values. */
static void t_cuda_rows_hadamard(void) {
    static tr_case c;
    for (int size = 1; size <= 256; size *= 2)
        for (int i = 0; i < 4; i++) {
            const int n = size * (1 + i % 3), heads = 1 + 3 * i;
            tr_new(&c, i % 2 ? 9 : 2);
            tr_cache(&c, K_F32, K_F32, heads, n, n, true);
            c.kv.hadamard_k = i % 2 ? size : 1, c.kv.hadamard_v = i % 2 ? 1 : size;
            tr_op(&c, (dev_op){.kind = OPS_HADAMARD, .out = {tr_buf(&c, DEV_ALL, 1, n * heads)}, .n = n, .n_head = heads,
                               .hadamard = {.kv = &c.kv, .values = i % 2 == 0}});
            tr_ready(&c);
            tr_both(&c, "hadamard");
            tr_drop(&c);
        }
    emu_free();
}

/* --- chains --- */

enum { TR_D = 320, TR_HD = 64, TR_HEADS = 3 };

/* What stands between the products of a layer: the residual stream and its norm; queries, keys and values to the cache, in chains
 * of their own; the gate. The second list is for rows that ask for something. */
static void tr_layer(tr_case *c, uint32_t type, bool hadamard, dev_row_set set) {
    enum { D = TR_D, HD = TR_HD, H = TR_HEADS };
    const unsigned both = 1u << K_ACT_I8 | 1u << K_ACT_BF16;
    const dev_buf  x = tr_buf(c, DEV_ALL, 1, D), o = tr_buf(c, DEV_ALL, 1, D), h = tr_buf(c, DEV_ALL, 1, D),
                   q = tr_buf(c, set, 1, 2 * H * HD);
    const dev_buf  k = tr_buf(c, DEV_ALL, 1, H * HD), v = tr_buf(c, DEV_ALL, 1, H * HD), cs = tr_buf(c, DEV_ALL, 1, HD),
                   gate = tr_buf(c, DEV_ALL, 1, 2 * D);
    const dev_op   norm = {.kind = OPS_NORM, .vec = c->vec[0], .scale = 1e-6f},
                   rope = {.kind = OPS_ROPE, .in = {cs}, .n = HD, .rope = {.n_rot = HD, .form = K_ROPE_HALVES}};
    dev_op         op;
    tr_cache(c, type, type, H, HD, HD, hadamard);
    tr_op(c, (dev_op){.kind = OPS_ADD, .in = {x, o}, .out = {x}, .n = D});
    op = norm, op.in[0] = x, op.out[0] = h, op.n = D, tr_op(c, op);
    tr_form(c, (dev_op){.out = {h}, .n = D}, both);
    tr_op(c, (dev_op){.kind = OPS_BIAS, .rows = set, .out = {q}, .n = 2 * H * HD, .vec = c->vec[1]});
    op = norm, op.rows = set, op.in[0] = op.out[0] = q, op.n = HD, op.n_head = 2 * H, tr_op(c, op);
    op = rope, op.rows = set, op.out[0] = q, op.n_head = 2 * H, tr_op(c, op);
    tr_op(c, (dev_op){.kind = OPS_HADAMARD, .rows = set, .out = {q}, .n = HD, .n_head = 2 * H, .hadamard = {.kv = &c->kv}});
    tr_op(c, (dev_op){.kind = OPS_BIAS, .beside = true, .out = {k}, .n = H * HD, .vec = c->vec[2]});
    op = norm, op.in[0] = op.out[0] = k, op.n = HD, op.n_head = H, tr_op(c, op);
    op = rope, op.out[0] = k, op.n_head = H, tr_op(c, op);
    tr_op(c, (dev_op){.kind = OPS_BIAS, .out = {v}, .n = H * HD, .vec = c->vec[1]});
    tr_op(c, (dev_op){.kind = OPS_STORE, .in = {k, v}, .n = HD, .n_head = H, .cache = {.kv = &c->kv}});
    tr_op(c, (dev_op){.kind = OPS_ACTIVATE, .beside = true, .in = {o}, .out = {gate}, .n = D, .act = ACT_SILU});
    tr_form(c, (dev_op){.out = {gate}, .n = D}, both);
}

static void t_cuda_rows_chains(void) {
    static const int rows[] = {1, 2, 9, 33};
    static tr_case   c;
    for (int i = 0; i < 20; i++) {
        tr_new(&c, rows[i % 4]);
        tr_layer(&c, tr_types[i % 5], i % 3, i < 10 ? DEV_ALL : DEV_OUT);
        tr_ready(&c);
        EQ_INT(c.p.n_phase, i < 10 ? 1 : 2);          /* queries of other rows than the residual stream's: a phase of their own */
        tr_both(&c, "chains of a layer");
        tr_drop(&c);
    }
    emu_free();
}

/* Chains with one, two and three tasks for each row, side by side: as experts have them. */
static void t_cuda_rows_each(void) {
    static const int rows[] = {1, 2, 9, 33};
    static tr_case   c;
    for (int i = 0; i < 8; i++) {
        tr_new(&c, rows[i % 4]);
        for (int k = 0; k < 5; k++) {
            const int         each = k % 3 ? k % 3 + 1 : 0, n = 64 + 32 * k;
            const dev_row_set set = k % 2 ? DEV_OUT : DEV_ALL;
            const dev_buf     a = tr_buf(&c, set, each ? each : 1, n), b = tr_buf(&c, set, each ? each : 1, n);
            tr_op(&c, (dev_op){.kind = OPS_BIAS, .rows = set, .each = each, .beside = k > 0, .out = {a}, .n = n,
                               .vec = c.vec[k % 3]});
            tr_op(&c, (dev_op){.kind = OPS_ACTIVATE, .rows = set, .each = each, .in = {b}, .out = {a}, .n = n,
                               .act = ACT_SWIGLU_CLIP});
            tr_form(&c, (dev_op){.rows = set, .each = each, .out = {a}, .n = n}, 1u << K_ACT_I8);
        }
        tr_ready(&c);
        EQ_INT(c.p.n_phase, 1);
        tr_both(&c, "chains of experts");
        tr_drop(&c);
    }
    emu_free();
}

/* --- barriers --- */

/* Lists for one row in which a thread reads what another has written before, at every barrier: sums of more values than are
 * fetched at a time, moves to other places, a form without outliers, since memory begins as if there were some; keys that are
 * normed, rotated, transformed and stored. */
static void tr_tight(tr_case *c, int list) {
    enum { D = TR_MOST, N = D - 32, HD = 64, H = 4 };
    const dev_buf x = tr_buf(c, DEV_ALL, 1, D), y = tr_buf(c, DEV_ALL, 1, D), g = tr_buf(c, DEV_ALL, 1, 1),
                  like = tr_buf(c, DEV_ALL, 1, D);
    const dev_buf k = tr_buf(c, DEV_ALL, 1, H * HD), v = tr_buf(c, DEV_ALL, 1, H * HD), cs = tr_buf(c, DEV_ALL, 1, HD);
    const dev_op  back = {.kind = OPS_PICK, .in = {x}, .out = {y}, .n = N, .n_head = 1, .pick = {.at = 3, .to = 5}},
                  forth = {.kind = OPS_PICK, .in = {y}, .out = {x}, .n = N, .n_head = 1, .pick = {.at = 7, .to = 2}};
    tr_cache(c, K_Q8_0, K_Q4_0, H, HD, HD, true);
    for (int i = 0; i < TR_MOST; i++) c->vec[2][i] *= 0.01f;          /* a gate of many values that is neither 0 nor 1 */
    if (list == 0) {
        tr_op(c, (dev_op){.kind = OPS_NORM, .norm = {.kind = K_NORM_LAYER}, .in = {x}, .out = {y}, .n = D,
                          .vec = c->vec[0], .scale = 1e-6f});
        tr_op(c, forth);
        tr_op(c, (dev_op){.kind = OPS_GATE, .in = {x}, .out = {g}, .n = D, .vec = c->vec[2]});
        tr_op(c, (dev_op){.kind = OPS_ADD_SCALED, .in = {y, g}, .out = {x}, .n = D});
        tr_op(c, back);
        tr_op(c, (dev_op){.kind = OPS_LEVEL, .in = {y, like}, .out = {y}, .n = D});
        tr_op(c, forth);
        tr_op(c, (dev_op){.kind = OPS_SPARSE, .out = {x}, .n = D, .scale = -0.5f});
        tr_form(c, (dev_op){.out = {x}, .n = D}, 1u << K_ACT_I8);
    } else {
        tr_op(c, (dev_op){.kind = OPS_NORM, .in = {k}, .out = {k}, .n = HD, .n_head = H, .vec = c->vec[0], .scale = 1e-6f});
        tr_op(c, (dev_op){.kind = OPS_ROPE, .in = {cs}, .out = {k}, .n = HD, .n_head = H, .rope = {.n_rot = HD, .form = K_ROPE_HALVES}});
        tr_op(c, (dev_op){.kind = OPS_STORE, .in = {k, v}, .n = HD, .n_head = H, .cache = {.kv = &c->kv}});
    }
    tr_ready(c);
}

/* Whether the row's result differs without a barrier. */
static bool tr_differs(const void *list) {
    static tr_case c;
    bool           seen = false;
    tq_seed = 77;
    tr_new(&c, 1);
    tr_tight(&c, *(const int *)list);
    for (int k = 0; k < c.p.n_phase; k++) dev__task(&c.dv, &c.p.phase[k], 0);
    for (int k = 0; k < c.p.n_phase; k++) seen = tr_launch(&c, &c.p.phase[k], 0) != NULL || seen;
    seen = seen || !tr_same(&c);
    tr_drop(&c);
    return seen;
}

/* The same without barrier number `skip`, in one of several orders of the threads. */
static bool tr_seen(int list, int skip) {
    bool seen = false;
    emu.skip_sync = skip;
    for (int i = 0; i < 20 && !seen; i++) seen = tr_differs(&list);
    emu.skip_sync = 0;
    return seen;
}

static void t_cuda_rows_barriers(void) {
    k_init("scalar");
    tc_seed = 1;
    for (int list = 0; list < 2; list++) {
        CHECK(!tr_seen(list, 0));
        const int n = emu.fiber[0].n_sync;
        CHECK(n > 3 && !tr_seen(list, n + 1));
        CHECK(tc_seen_apart(1, tr_differs, &list)); /* may crash: threads read no operation */
        for (int skip = 2; skip <= n; skip++) CHECKF(tr_seen(list, skip), "list %d: barrier %d of %d could go", list, skip, n);
    }
    emu_free();
}

static const t_case t_cuda_rows_cases[] = {
    {"cuda_rows_kinds", "every operation on rows has the bits of the scalar level, for any length", t_cuda_rows_kinds},
    {"cuda_rows_gather", "rows that ask for something find theirs among all", t_cuda_rows_gather},
    {"cuda_rows_odd", "the same bits for values that are infinite, NaN, large and tiny", t_cuda_rows_odd},
    {"cuda_rows_forms", "activations are quantised as on the CPU, with outliers and without", t_cuda_rows_forms},
    {"cuda_rows_bf16", "activations are rounded to bf16 as on the CPU, for any length", t_cuda_rows_bf16},
    {"cuda_rows_store", "keys and values of every type lie in the cache as the CPU stores them", t_cuda_rows_store},
    {"cuda_rows_hadamard", "Hadamard transforms of every size have the bits of the scalar level", t_cuda_rows_hadamard},
    {"cuda_rows_chains", "the operations between the products of a layer, in one launch for each phase", t_cuda_rows_chains},
    {"cuda_rows_each", "tasks are numbered chain after chain, several for each row", t_cuda_rows_each},
    {"cuda_rows_barriers", "none of the kernel's barriers can be left out", t_cuda_rows_barriers},
};
static const t_suite t_cuda_rows_suite = SUITE(t_cuda_rows_cases);
