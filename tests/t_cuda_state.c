/* Recurrent layers on a GPU, run by emu_cuda.h: the short convolution, the gated delta rule and what slots keep. Steps as [kv]
 * plans them, one after the other, leave the same bytes in a copy of the slots and give the same results as [dev] at the scalar
 * level. */
#include "program.h"
#include "check.h"
#include "t_cuda.h"
#include "t_cuda_rows.h"
#include "t_quant.h"

enum { TS_SEQS = 5, TS_SLOTS = 3 * TS_SEQS, TS_WIDE = 700, TS_VEC = 1 << 13 };     /* most sequences; slots: two of each, and its
                                                       * snapshot; most channels; values of other vectors */

/* A layer: a convolution alone has no heads. */
typedef struct {
    const char *name;
    int  taps, n_k, n_v, d_k, d_v, width;
    bool grouped;
    dev_rule rule;
} ts_shape;

static const ts_shape ts_shapes[] = {
    {"conv",            3, 0, 0, 0,   0,   320, false, RULE_DELTA},
    {"conv, 4 taps",    4, 0, 0, 0,   0,   37,  false, RULE_DELTA},
    {"conv, 2 taps",    2, 0, 0, 0,   0,   600, false, RULE_DELTA},
    {"delta",           4, 2, 4, 16,  16,  128, false, RULE_DELTA},
    {"delta, grouped",  4, 2, 4, 32,  40,  288, true, RULE_DELTA},
    {"delta, 128",      4, 1, 2, 128, 128, 512, true, RULE_DELTA},
    {"delta, odd",      3, 2, 2, 21,  70,  224, false, RULE_DELTA},
    {"delta, one head", 5, 1, 1, 2,   33,  37,  false, RULE_DELTA},
    {"mamba-2",         1, 2, 4, 24,  40,  256, true,  RULE_SSD},
    {"mamba-2, 256",    1, 1, 1, 256, 70,  582, true,  RULE_SSD},
    {"mamba",           1, 1, 3, 16,  40,  152, true,  RULE_SCAN},
    {"mamba, odd",      1, 1, 1, 37,  33,  107, true,  RULE_SCAN},
    {"kda",             4, 2, 2, 32,  32,  192, true,  RULE_KDA},
    {"kda, 128",        4, 1, 1, 128, 128, 384, true,  RULE_KDA},
    {"rwkv-7",          1, 2, 2, 32,  32,  320, true,  RULE_WKV7},
    {"rwkv-6",          1, 2, 4, 24,  24,  288, true,  RULE_WKV6},
    {"linear",          1, 2, 2, 64,  64,  512, true,  RULE_GLA},
};
enum { TS_SHAPES = sizeof ts_shapes / sizeof *ts_shapes };

/* Where a sequence is: its slot and a free one, where the first stands, positions that have been; the slot of its snapshot. */
typedef struct { int slot, other, snap, at, filled; } ts_seq;

typedef struct {
    tr_case       c;
    const ts_shape *shape;
    dev_state     st;
    dev_blocks    mem;
    pool          p;
    uint8_t      *slots, *got;                        /* the CPU's, the GPU's */
    size_t        bytes;
    ts_seq        seq[TS_SEQS];
    int           n_seq;
    k_turn        turn[TS_SEQS];
    dev_buf       raw, alpha, beta, o;
    float         taps[TS_WIDE * 5], decay[TS_VEC], gate[TS_VEC], more[5][TS_VEC];
} ts_case;

static size_t ts_aligned(size_t n) { return (n + 63) / 64 * 64; }

/* Values of its gates: first ones, second ones. */
static int ts_gate(const ts_shape *s, int i) {
    switch (s->rule) {
    case RULE_SSD: return i ? 0 : s->n_v;
    case RULE_SCAN: return i ? 0 : s->n_v * s->d_v;
    case RULE_KDA: return i ? s->n_v : s->n_v * s->d_k;
    case RULE_GLA: case RULE_WKV6: case RULE_WKV7: return 0;
    case RULE_DELTA: break;
    }
    return s->n_v;
}

/* A layer after another one in each slot, and n sequences that have not begun. */
static void ts_new(ts_case *t, const ts_shape *s, int n_seq) {
    const size_t ring = ts_aligned((size_t)((s->taps - 1 + DEV_LOG) * s->width) * 4),
                 gates = ts_aligned((size_t)(DEV_LOG * (ts_gate(s, 0) + ts_gate(s, 1))) * 4);
    const size_t sums = (size_t)(s->n_v * s->d_k * s->d_v) * 4;
    memset(t, 0, sizeof *t);
    t->shape = s, t->n_seq = n_seq;
    t->p.n = 1;
    t->st = (dev_state){.mem = &t->mem, .taps = s->taps, .width = s->width, .log = DEV_LOG, .n_k = s->n_k, .n_v = s->n_v,
                        .n_gate = {ts_gate(s, 0), ts_gate(s, 1)},
                        .d_k = s->d_k, .d_v = s->d_v,
                        .ring_at = 64, .gate_at = 64 + ring, .sum_at = 64 + ring + gates};
    t->mem = dev_blocks_new(ts_aligned(t->st.sum_at + sums), TS_SLOTS);
    t->mem.slab_blocks = TS_SLOTS;
    t->bytes = TS_SLOTS * t->mem.block_bytes;
    t->slots = mem_aligned(t->bytes, 1);
    t->mem.slab = &t->slots;
    t->mem.tail[0].bytes = t->mem.block_bytes;
    t->mem.n_tail = 1;
    for (size_t i = 0; i < t->bytes / 4; i++) ((float *)(void *)t->slots)[i] = tq_unit();
    t->got = t->mem.tail[0].all.base = tr_copy(t->slots, t->bytes, 1);
    for (int i = 0; i < n_seq; i++) t->seq[i] = (ts_seq){.slot = 3 * i, .other = 3 * i + 1, .snap = 3 * i + 2};
    for (int i = 0; i < s->width * s->taps; i++) t->taps[i] = tq_unit();
    for (int i = 0; i < TS_VEC; i++) t->decay[i] = -fabsf(tq_unit()) - 0.01f, t->gate[i] = tq_unit();
    for (int i = 0; i < 5 * TS_VEC; i++) t->more[i / TS_VEC][i % TS_VEC] = tq_unit();
}

static void ts_drop(ts_case *t) {
    mem_free(t->slots);
    mem_free(t->got);
}

/* What the step does with the state of sequence i, as kv_advance() has it: n rows, some of which may stand in place of the last
 * ones. */
static void ts_turn(ts_case *t, int i, int n, int *pos) {
    ts_seq    *s = &t->seq[i];
    const int  back = s->filled - s->at, p = s->filled - (back ? (int)(tq_rand() % (unsigned)(back + 1)) : 0), end = p + n;
    const int  least = end - DEV_LOG > s->at ? end - DEV_LOG : s->at, most = p > least ? p : least,
               to = least + (int)(tq_rand() % (unsigned)(most - least + 1));
    const bool moves = s->at && tq_rand() % 2, snap = tq_rand() % 2;
    const k_turn now = {s->at || s->filled ? s->slot : -1, moves ? s->other : s->slot, s->at, to, snap ? s->snap : -1,
                        s->at + 1 + (int)(tq_rand() % (unsigned)(end - s->at))};
    t->turn[i] = now;
    if (moves) s->other = s->slot, s->slot = now.out;
    s->at = to, s->filled = end;
    *pos = p;
}

/* The batch of a step: rows[i] of sequence i. */
static void ts_batch(ts_case *t, const int *rows) {
    dev_batch *b = &t->c.b;
    int        n = 0;
    for (int i = 0; i < t->n_seq; i++) n += rows[i];
    tr_new(&t->c, n);
    b->n_seq = t->n_seq, b->n_group = 0;
    for (int i = 0, r = 0, p; i < t->n_seq; i++) {
        ts_turn(t, i, rows[i], &p);
        for (int k = 0; k < rows[i]; k++, r++) t->c.seq[r] = i, t->c.pos[r] = p + k;
    }
    b->turn = t->turn;
}

/* The operations of a layer; in a model's last one, rows that ask for something are convolved alone. */
static void ts_plan(ts_case *t, bool out) {
    const ts_shape *s = t->shape;
    const int       at = s->n_v ? 0 : 5;
    tr_case        *c = &t->c;
    t->raw = tr_buf(c, DEV_ALL, 1, at + s->width);
    t->alpha = tr_buf(c, DEV_ALL, 1, ts_gate(s, 0) + 1), t->beta = tr_buf(c, DEV_ALL, 1, ts_gate(s, 1) + 1);
    const dev_buf share = tr_buf(c, DEV_ALL, 1, s->n_v + 1);
    t->o = tr_buf(c, out ? DEV_OUT : DEV_ALL, 1, s->n_v ? s->n_v * s->d_v : s->width);
    dev_op op = {.kind = s->n_v ? OPS_DELTA : OPS_CONV, .rows = out ? DEV_OUT : DEV_ALL, .in = {t->raw}, .out = {t->o},
                 .n = s->n_v ? s->d_v : s->width,
                 .n_head = s->n_v, .vec = t->taps, .scale = 1e-6f,
                 .state = {.st = &t->st, .at = at, .d_k = s->d_k, .n_vec = s->width * s->taps, .grouped = s->grouped,
                           .rule = s->rule, .decay = t->decay, .step = t->gate, .skip = t->more[0], .rate = t->more[1],
                           .key = {t->more[2], t->more[3]}, .share = t->more[4]}};
    if (s->n_v) op.in[1] = t->alpha, op.in[2] = t->beta;
    if (s->rule == RULE_WKV7) op.out[1] = share;
    tr_op(c, op);
    op.kind = OPS_KEEP, op.rows = DEV_ALL, op.out[0] = op.out[1] = 0;
    tr_op(c, op);
    tr_ready(c);
    c->run.p = c->dv.p = &t->p;
    c->dv.scratch = c->p.thread[0].scratch;
    dev__prepare(&c->run);
    c->step.b = c->b;
    c->step.seq_at = c->p.seq_at;
}

static void ts_delta(const void *a) { k_cuda_delta(*(const k_cuda_delta_args *)a); }
static void ts_outer(const void *a) { k_cuda_outer(*(const k_cuda_delta_args *)a); }
static void ts_outer_wide(const void *a) { k_cuda_outer_wide(*(const k_cuda_delta_args *)a); }
static void ts_scan(const void *a) { k_cuda_scan(*(const k_cuda_delta_args *)a); }

/* The kernel for a layer. */
static void (*ts_kernel(const ts_shape *s))(const void *) {
    static const struct { const char *name; void (*run)(const void *); } all[] = {
        {"k_cuda_delta", ts_delta}, {"k_cuda_outer", ts_outer}, {"k_cuda_outer_wide", ts_outer_wide}, {"k_cuda_scan", ts_scan}};
    int i = 0;
    while (strcmp(all[i].name, ops__delta_kernel(s->rule, s->d_k))) i++;
    return all[i].run;
}

/* The first phase on the emulated GPU, with sequences to spare. */
static const char *ts_first(ts_case *t, int spare) {
    tr_case        *c = &t->c;
    const ts_shape *s = t->shape;
    if (!s->n_v) return tr_launch(c, &c->p.phase[0], 3);
    const k_cuda_delta_args a = ops__delta_args(&c->share, &c->p.op[0]);
    const int cols = s->rule == RULE_SCAN ? K_CUDA_SCAN_COLS : K_CUDA_DELTA_COLS;
    return emu_launch(ts_kernel(s), &a, (t->n_seq + spare) * s->n_v, (s->d_v + cols - 1) / cols, K_CUDA_THREADS, tc_seed++);
}

/* A phase on the CPU. */
static void ts_cpu(ts_case *t, int phase) {
    tr_case  *c = &t->c;
    const int n = dev__phase_tasks(&c->run, &c->p.phase[phase]);
    for (int i = 0; i < n; i++) dev__task(&c->dv, &c->p.phase[phase], i);
}

/* Whether slots and results are the same. */
static bool ts_same(const ts_case *t) { return tr_same(&t->c) && !memcmp(t->slots, t->got, t->bytes); }

/* A step on both. */
static void ts_step(ts_case *t, const int *rows, bool out) {
    k_init("scalar");
    ts_batch(t, rows);
    ts_plan(t, out);
    EQ_INT(t->c.p.n_phase, 2);
    const char *first = ts_first(t, 2);
    ts_cpu(t, 0);
    CHECKF(!first && ts_same(t), "%s: %s", t->shape->name, first ? first : "results or sums differ from the scalar level");
    const char *keep = tr_launch(&t->c, &t->c.p.phase[1], 3);
    ts_cpu(t, 1);
    CHECKF(!keep && ts_same(t), "%s: %s", t->shape->name, keep ? keep : "slots differ from the CPU's");
    dev_run_free(&t->c.run);
    tr_drop(&t->c);
}

/* Steps of one to 64 rows for each sequence, one after the other: rows that are taken back, slots that are left, snapshots. */
static void t_cuda_state_steps(void) {
    static const int each[] = {7, 1, 1, 16, 2, 17, 1, 64, 1, 3};
    static ts_case   t;
    for (int i = 0; i < TS_SHAPES; i++) {
        const bool conv = !ts_shapes[i].n_v;
        const int  n_seq = i % 2 ? 3 : 1, steps = conv || i == 3 ? 24 : 12;
        ts_new(&t, &ts_shapes[i], conv ? TS_SEQS : n_seq);
        for (int k = 0; k < steps; k++) {
            int rows[TS_SEQS];
            for (int q = 0; q < TS_SEQS; q++)
                rows[q] = each[(k + 3 * q) % 10] < 20 || !conv || q == 0 ? each[(k + 3 * q) % 10] : 2;
            ts_step(&t, rows, conv && k % 3 == 2);
        }
        ts_drop(&t);
    }
    emu_free();
}

static void t_cuda_state_keys(void) {
    static const int most[] = {[RULE_DELTA] = K_CUDA_DELTA_KEYS, [RULE_SCAN] = K_CUDA_SCAN_KEYS, [RULE_SSD] = K_CUDA_WIDE_KEYS,
                               [RULE_WKV7] = K_CUDA_WIDE_KEYS};
    for (int rule = 0; rule <= RULE_WKV7; rule++)
        for (int n = most[rule]; n && n < most[rule] + 2; n++)
            EQ_INT(ops__delta_can(&(dev_op){.state = {.d_k = n, .rule = (dev_rule)rule}}), n == most[rule]);
}

/* --- barriers --- */

/* Whether the results of a rule differ without barrier number `skip`, in one of several orders of the threads. */
static bool ts_seen(const ts_shape *shape, int skip) {
    static ts_case t;
    bool           seen = false;
    for (int i = 0; i < 20 && !seen; i++) {
        tq_seed = 5;
        ts_new(&t, shape, 1);
        ts_batch(&t, &(int){20});
        ts_plan(&t, false);
        ts_cpu(&t, 0);
        emu.skip_sync = skip;
        seen = ts_first(&t, 0) != NULL;
        emu.skip_sync = 0;
        seen = seen || !ts_same(&t);
        dev_run_free(&t.c.run);
        tr_drop(&t.c);
        ts_drop(&t);
    }
    return seen;
}

static void t_cuda_state_barriers(void) {
    k_init("scalar");
    /* for the vectors of eight positions, of long keys four, and one between them */
    static const struct { const char *name; int n; } of[] = {
        {"delta, 128", 11}, {"mamba-2", 5}, {"mamba-2, 256", 9}, {"kda, 128", 8}, {"rwkv-7", 5}, {"rwkv-6", 5}, {"linear", 5}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const ts_shape *s = ts_shapes;
        while (strcmp(s->name, of[i].name)) s++;
        CHECK(!ts_seen(s, 0));
        const int n = emu.fiber[0].n_sync;
        EQ_INT(n, of[i].n);
        CHECK(!ts_seen(s, n + 1));
        for (int skip = 1; skip <= n; skip++) CHECKF(ts_seen(s, skip), "%s: barrier %d of %d could go", s->name, skip, n);
    }
    emu_free();
}

static const t_case t_cuda_state_cases[] = {
    {"cuda_state_steps",
     "convolutions, states of every rule and slots of recurrent layers have the bits of the scalar level, step after step",
     t_cuda_state_steps},
    {"cuda_state_keys", "a rule with longer keys than its kernel has registers for stays on the CPU",
     t_cuda_state_keys},
    {"cuda_state_barriers", "none of the barriers of the rules can be left out", t_cuda_state_barriers},
};
static const t_suite t_cuda_state_suite = SUITE(t_cuda_state_cases);
