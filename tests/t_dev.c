/* t_dev.c - [dev]: every operation of every tiny model against the plain reference, lists without hidden dependencies, batches
 * from a file. */
#include "program.h"
#include "check.h"
#include "plain.h"
#include "t_fwd.h"

enum { TD_ROWS = 10 };                                /* of the batch that is compared */

/* The memory of one buffer, put aside. */
typedef struct {
    uint8_t *p[6];
    size_t   n[6];
} td_copy;

static td_copy td_pieces(const dev_plan *p, dev_buf b) {
    const dev_acts *a = &p->buf[b].a;
    const size_t    rows = (size_t)a->rows, n[6] = {rows * a->ldx * sizeof *a->x, rows * a->ldx * sizeof *a->h, 3 * rows * a->ldq,
                                                    2 * rows * (a->ldq / 256) * sizeof *a->sum,
                                                    2 * rows * (a->ldq / 256) * sizeof *a->d, rows};
    void *const     at[6] = {a->x, a->h, a->q, a->sum, a->d, a->split};
    td_copy         c;
    for (int i = 0; i < 6; i++) c.p[i] = at[i], c.n[i] = at[i] ? n[i] : 0;
    return c;
}

/* All buffers of a plan, copied out or in. */
static td_copy *td_save(const dev_plan *p) {
    td_copy *all = mem_new((size_t)p->n_buf, sizeof *all);
    for (int b = 1; b < p->n_buf; b++) {
        all[b] = td_pieces(p, b);
        for (int i = 0; i < 6; i++) {
            uint8_t *to = mem_new(all[b].n[i] + 1, 1);
            if (all[b].n[i]) memcpy(to, all[b].p[i], all[b].n[i]);
            all[b].p[i] = to;
        }
    }
    return all;
}

static void td_restore(const dev_plan *p, const td_copy *all) {
    for (int b = 1; b < p->n_buf; b++) {
        const td_copy to = td_pieces(p, b);
        for (int i = 0; i < 6; i++)
            if (to.n[i]) memcpy(to.p[i], all[b].p[i], to.n[i]);
    }
}

/* The first buffer whose bytes differ, 0: all are the same. */
static dev_buf td_differs(const dev_plan *p, const td_copy *all) {
    for (int b = 1; b < p->n_buf; b++) {
        const td_copy now = td_pieces(p, b);
        for (int i = 0; i < 6; i++)
            if (now.n[i] && memcmp(now.p[i], all[b].p[i], now.n[i])) return b;
    }
    return 0;
}

static void td_drop(const dev_plan *p, td_copy *all) {
    for (int b = 1; b < p->n_buf; b++)
        for (int i = 0; i < 6; i++) mem_free(all[b].p[i]);
    mem_free(all);
}

/* One operation by the CPU's functions as a step has it, on this thread. */
static void td_run(dev *dv, const dev_op *op) {
    int n;
    if (op->row->run) {
        n = dev__count(dv->run, op);
        for (int i = 0; i < n; i++) op->row->run(dv, op, i);
        return;
    }
    const dev_product *list = ops__list(dv->run->plan, op, &n);
    ops__matmul(dv, list, n, NULL);
    dev_wait(dv);
}

typedef struct {
    t_rig      *r;
    const char *name, *level;
    bool        packed;
    int         bad;
} td_job;

/* Bytes of every block of the cache. */
static uint64_t td_cache(const kv_cache *kv) {
    uint64_t sum = 0;
    for (int g = 0; g < kv->n_group; g++) {
        const dev_blocks *mem = &kv->group[g].mem;
        uint8_t          *one = mem_new(mem->block_bytes, 1);
        for (int b = 0; b < dev_blocks_mapped(mem) && b < 64; b++) {
            dev_blocks_read(mem, b, one);
            sum = bytes_hash(sum, (bytes){one, mem->block_bytes});
        }
        mem_free(one);
    }
    return sum;
}

/* The slots of recurrent states, which an operation may read and change: NULL where the model has none. */
static uint8_t *td_slots_save(const kv_cache *kv) {
    for (int g = 0; g < kv->n_group; g++) {
        const dev_blocks *mem = &kv->group[g].mem;
        if (kv->group[g].rule != KV_STATE) continue;
        uint8_t *all = mem_new((size_t)dev_blocks_mapped(mem) + 1, mem->block_bytes);
        for (int b = 0; b < dev_blocks_mapped(mem); b++) dev_blocks_read(mem, b, all + (size_t)b * mem->block_bytes);
        return all;
    }
    return NULL;
}

static void td_slots_restore(const kv_cache *kv, const uint8_t *all) {
    for (int g = 0; all && g < kv->n_group; g++)
        for (int b = 0; kv->group[g].rule == KV_STATE && b < dev_blocks_mapped(&kv->group[g].mem); b++)
            dev_blocks_write(&kv->group[g].mem, b, all + (size_t)b * kv->group[g].mem.block_bytes);
}

/* Whether the operation writes to the cache. */
static bool td_stores(int k) { return k == OPS_STORE || k == OPS_DELTA || k == OPS_KEEP; }

/* The whole list, each operation twice from the same state. */
static void td_compare(void *ctx, int ith) {
    td_job  *j = ctx;
    dev_run *run = &j->r->f->run;
    dev      dv = {.p = run->p, .ith = ith, .scratch = run->plan->thread[ith].scratch, .run = run};
    for (int i = 0; i < run->plan->n_op; i++) {
        const dev_op *op = &run->plan->op[i];
        if (!run->plan->rows[op->rows].n) continue;
        td_copy *before = td_save(run->plan);
        uint8_t *slots = td_stores(op->kind) ? td_slots_save(j->r->kv) : NULL;
        k_init(j->level);
        td_run(&dv, op);
        const uint64_t cache = td_stores(op->kind) ? td_cache(j->r->kv) : 0;
        td_copy       *after = td_save(run->plan);
        td_restore(run->plan, before);
        td_slots_restore(j->r->kv, slots);
        mem_free(slots);
        k_init("scalar");
        plain_run(&dv, op);
        const dev_buf b = td_differs(run->plan, after);
        CHECKF(!b, "%s, %s%s: operation %d, %s of layer %d: other bytes in %s", j->name, j->level,
               j->packed ? ", packed" : "", i, op->row->name,
               op->layer, run->plan->buf[b].name);
        CHECKF(!cache || cache == td_cache(j->r->kv), "%s, %s: operation %d of layer %d stores other bytes", j->name,
               j->level, i, op->layer);
        j->bad += b != 0;
        td_drop(run->plan, before);
        td_drop(run->plan, after);
    }
    k_init(j->level);
}

/* A batch of two whole texts. */
static bool td_texts(t_rig *r, const int32_t *ids, int n, kv_seq *s[2]) {
    const int many[] = {TD_ROWS - 3, 3};
    fwd_begin(r->f);
    for (int k = 0; k < 2; k++) {
        if (!CHECK(n >= many[0] && kv_reserve(s[k], many[k]))) return false;
        for (int i = 0; i < many[k]; i++) fwd_add(r->f, s[k], ids[i], i, i % 3 != 1 ? FWD_HIDDEN : 0);
    }
    return true;
}

/* A batch of two sequences, the second after a past; every third row and the last ones ask for logits. */
static bool td_batch(t_rig *r, const int32_t *ids, int n, kv_seq *s[2]) {
    const int a = n < TD_ROWS - 1 ? n : TD_ROWS - 1, past = n < 6 ? n - 1 : 5;
    fwd_begin(r->f);
    for (int i = 0; i < past; i++) fwd_add(r->f, s[1], ids[i], i, 0);
    if (!CHECK(kv_reserve(s[0], a) && kv_reserve(s[1], past) && fwd_step(r->f))) return false;
    fwd_begin(r->f);
    for (int i = 0; i < a; i++) fwd_add(r->f, s[0], ids[n - 1 - i], i, i % 3 == 1 || i == a - 1 ? FWD_LOGITS : 0);
    fwd_add(r->f, s[1], ids[past], past, FWD_LOGITS);
    return CHECK(kv_reserve(s[1], past + 1));
}

/* fn on a model, opened as `how` says and with a batch: of two sequences, the second after a past; in an encoder of two texts,
 * each whole. */
static void td_model(const t_tiny *t, const char *ids_path, const t_how *how,
                     void (*fn)(t_rig *r, const t_tiny *t, const t_how *how)) {
    t_rig r;
    int   n;
    if (!t_rig_open(&r, t_tiny_path(t->file), how)) return;
    const bool encoder = !r.m.hp.causal;
    fwd_free(r.f);
    r.f = fwd_new(&r.m, r.kv, r.p, TD_ROWS, TD_ROWS, encoder ? FWD_HIDDEN : FWD_LOGITS);
    int32_t *ids = t_read_ids(ids_path, &n);
    kv_seq  *s[2] = {kv_seq_new(r.kv), kv_seq_new(r.kv)};
    if (encoder ? td_texts(&r, ids, n, s) : td_batch(&r, ids, n, s)) fn(&r, t, how);
    kv_seq_free(s[0]);
    kv_seq_free(s[1]);
    mem_free(ids);
    t_rig_close(&r);
}

/* fn on one tiny decoder in `every`, from number `from` on. */
static void td_each_model(const t_how *how, int every, int from, void (*fn)(t_rig *r, const t_tiny *t, const t_how *how)) {
    FILE  *f = fopen(t_tiny_path("manifest.txt"), "r");
    t_tiny t;
    for (int m = from; CHECK(f != NULL) && t_tiny_next(f, &t); m++)
        if (m % every == 0) td_model(&t, t_tiny_path(t.ids), how, fn);
    if (f) fclose(f);
}

/* The same of the encoders, which lie in one folder. */
static void td_each_encoder(const t_how *how, int every, int from, void (*fn)(t_rig *r, const t_tiny *t, const t_how *how)) {
    glob_t found;
    if (!CHECK(!glob("tests/data/encoders/*.gguf", 0, NULL, &found))) return;
    CHECK(found.gl_pathc >= 10);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        t_tiny t = {0};
        char   ids[96];
        const char *name = strrchr(found.gl_pathv[i], '/') + 1;
        snprintf(t.name, sizeof t.name, "%.*s", (int)strcspn(name, "."), name);
        snprintf(t.file, sizeof t.file, "../encoders/%.40s", name);
        snprintf(ids, sizeof ids, "tests/data/encoders/%s.cases", t.name);
        if ((i + (size_t)from) % (size_t)every == 0) td_model(&t, ids, how, fn);
    }
    globfree(&found);
}

/* Prepares the batch for a step, as fwd_step() does. */
static void td_ready(t_rig *r) {
    fwd__write_tables(r->f);
    fwd__write_states(r->f);
    kv_flush(r->kv);
}

static void td_reference(t_rig *r, const t_tiny *t, const t_how *how) {
    td_job j = {.r = r, .name = t->name, .level = how->level, .packed = how->packed};
    td_ready(r);
    dev__prepare(&r->f->run);
    pool_run(r->p, td_compare, &j);
}

/* Every level, packed and not. */
static void t_dev_reference(void) {
    static const char *const levels[] = {"scalar", "avx2", "avx_vnni", "avx512", "avx512_bf16", "avx512_amx", "neon", "i8mm"};
    static const uint32_t    types[] = {K_F32, K_F16, K_Q8_0, K_BF16, K_Q4_0};
    for (int i = 0; i < 2 * 8; i++) {
        const t_how how = {levels[i / 2], 1, 512, 16, types[i % 5], i % 2};
        if (!k_init(how.level)) continue;
        td_each_model(&how, t_all() ? 1 : 2, i / 2, td_reference);       /* each way for half of the models */
        td_each_encoder(&how, t_all() ? 1 : 2, i / 2, td_reference);
    }
}

/* Whether the second operation touches a buffer that the first writes, or writes one that the first reads. */
static bool td_conflict(const dev_op *a, const dev_op *b) {
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 3; k++) {
            if (a->out[i] && (a->out[i] == b->in[k] || (k < 2 && a->out[i] == b->out[k]))) return true;
            if (b->out[i] && b->out[i] == a->in[k]) return true;
        }
    return false;
}

/* Whether the first operation picks its rows out of all rows of a buffer that the second writes. */
static bool td_picks(const dev_op *a, const dev_op *b) {
    for (int k = 0; k < 3; k++)
        if (a->gathers & 1u << k && (a->in[k] == b->out[0] || a->in[k] == b->out[1])) return true;
    return false;
}

/* Chains of one phase run side by side: no operation of one touches what one of another writes. What an operation picks out of
 * all rows of a buffer is no operation's of the same phase to write: those rows may belong to another task. */
static void td_independent(t_rig *r, const t_tiny *t, const t_how *how) {
    const dev_plan *p = &r->f->plan;
    (void)how;
    for (int i = 0; i < p->n_phase; i++) {
        const dev_op *op = &p->op[p->phase[i].first];
        for (int b = 1, chain = 0; b < p->phase[i].n; b++) {
            if (op[b].beside) chain = b;
            for (int a = 0; a < b; a++) {
                CHECKF(a >= chain || !td_conflict(&op[a], &op[b]), "%s, phase %d: %s and %s are not independent", t->name,
                       i, op[a].row->name,
                       op[b].row->name);
                CHECKF(!td_picks(&op[a], &op[b]) && !td_picks(&op[b], &op[a]),
                       "%s, phase %d: one of %s and %s picks rows that the other writes", t->name, i,
                       op[a].row->name, op[b].row->name);
            }
        }
    }
}

static void t_dev_independent(void) {
    td_each_model(&t_plain, 1, 0, td_independent);
    td_each_encoder(&t_plain, 1, 0, td_independent);
}

/* The list with the tasks of each phase in reverse. */
static void td_backwards(void *ctx, int ith) {
    dev_run        *run = ctx;
    const dev_plan *p = run->plan;
    dev dv = {.p = run->p, .ith = ith, .scratch = p->thread[ith].scratch, .run = run};
    for (int i = 0; i < p->n_phase; i++) {
        const dev_phase *ph = &p->phase[i];
        if (!p->rows[p->op[ph->first].rows].n) continue;
        if (!p->op[ph->first].row->run) {
            p->op[ph->first].row->all(&dv, ph);
            continue;
        }
        dev_begin(&dv);
        for (int task = dev__phase_tasks(run, ph) - 1; task >= 0; task--) dev__task(&dv, ph, task);
    }
    dev_wait(&dv);
}

/* What row k of those that asked has: its logits, or of an encoder its hidden values. */
static float *td_result(const t_rig *r, int k) {
    const dev_acts *a = &r->f->plan.buf[r->f->hidden].a;
    return r->m.hp.causal ? r->f->logits + (size_t)k * (size_t)r->m.hp.n_vocab : a->x + (size_t)k * a->ldx;
}

/* Either order gives the same bytes. */
static void td_reversed(t_rig *r, const t_tiny *t, const t_how *how) {
    const int    n_out = r->f->batch.n_out;
    const size_t n = (size_t)(r->m.hp.causal ? r->m.hp.n_vocab : r->m.hp.n_embd);
    float       *want = mem_new((size_t)n_out * n, sizeof *want);
    (void)how;
    td_ready(r);
    uint8_t *slots = td_slots_save(r->kv);            /* which the step may change in place */
    CHECK(dev_step(&r->f->run));
    for (int k = 0; k < n_out; k++) {
        memcpy(want + (size_t)k * n, td_result(r, k), n * sizeof *want);
        memset(td_result(r, k), 0, n * sizeof *want);
    }
    td_slots_restore(r->kv, slots);
    pool_run(r->p, td_backwards, &r->f->run);
    for (int k = 0; k < n_out; k++)
        CHECKF(memcmp(want + (size_t)k * n, td_result(r, k), n * sizeof *want) == 0,
               "%s: tasks in another order give other bytes", t->name);
    mem_free(want);
    mem_free(slots);
}

static void t_dev_order(void) {
    td_each_model(&t_plain, 1, 0, td_reversed);
    td_each_encoder(&t_plain, 1, 0, td_reversed);
}

/* A batch written to a file and read again gives the same logits: nothing of a step stands outside it but weights and blocks. */
static void td_played(t_rig *r, const t_tiny *t, const t_how *how) {
    dev_batch   *b = &r->f->batch;
    const size_t n = (size_t)b->n, V = (size_t)t->n_vocab;
    (void)how;
    td_ready(r);
    uint8_t     *slots = td_slots_save(r->kv);        /* which the step may change in place */
    if (!CHECK(dev_step(&r->f->run))) return;
    float       *want = mem_new(V * (size_t)b->n_out, sizeof *want);
    const size_t tables = (size_t)b->n_seq * (size_t)b->n_group + 1,
                 sizes[] = {n * 4, n * 4, n * 4, n, tables * sizeof *b->table_at, b->table_at[tables - 1] * 4,
                            (size_t)b->n_seq * sizeof *b->turn};
    void *const  parts[] = {b->token, b->pos, b->seq, b->want, b->table_at, b->table, b->turn};
    enum { PARTS = sizeof parts / sizeof *parts };
    FILE        *f = tmpfile();
    memcpy(want, r->f->logits, V * (size_t)b->n_out * sizeof *want);
    bool ok = CHECK(f != NULL);
    for (int i = 0; ok && i < PARTS; i++) ok = !sizes[i] || fwrite(parts[i], 1, sizes[i], f) == sizes[i];
    for (int i = 0; ok && i < PARTS; i++) if (sizes[i]) memset(parts[i], 0x55, sizes[i]);
    memset(r->f->logits, 0, V * (size_t)b->n_out * sizeof *want);
    td_slots_restore(r->kv, slots);
    if (ok) rewind(f);
    for (int i = 0; ok && i < PARTS; i++) ok = !sizes[i] || fread(parts[i], 1, sizes[i], f) == sizes[i];
    CHECKF(ok && dev_step(&r->f->run) && memcmp(want, r->f->logits, V * (size_t)b->n_out * sizeof *want) == 0,
           "%s: a recorded batch gives other logits", t->name);
    if (f) fclose(f);
    mem_free(want);
    mem_free(slots);
}

static void t_dev_played(void) { td_each_model(&t_plain, 1, 0, td_played); }

static const t_case t_dev_cases[] = {
    {"dev reference", "every operation of every tiny model gives the reference device's bytes, at every level, packed and not",
     t_dev_reference},
    {"dev independent", "operations of one phase that run side by side depend on nothing of each other", t_dev_independent},
    {"dev order", "tasks in reverse order give the same bytes", t_dev_order},
    {"dev recorded batch", "a batch from a file gives the same logits", t_dev_played},
};
static const t_suite t_dev_suite = SUITE(t_dev_cases);
