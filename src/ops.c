/* ===== [ops] the operations of a step =====
 * The table ops_kinds has a row for each kind of operation (dev_kind): what it reads and writes, what it costs, what the CPU does
 * for one task, how it becomes launches on a GPU. [dev] and [dev_gpu] run lists of them and know none by its name; [fwd] writes
 * the lists. Every result is the same to the last bit for any number of threads, level of the CPU, batch around a row, and on a
 * GPU, but for what is said at ops_exact().
 * Public: ops_blas_open, ops_exact; the table ops_kinds and its numbers OPS_NAME. */

/* cblas_sgemm of OpenBLAS, NULL unless ops_blas_open() found it. It sums in an order of its own that depends on the
 * batch, so it runs only where it is asked for. */
typedef void      ops_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                            const float *b, int ldb, float beta, float *c, int ldc);
static ops_sgemm *g_sgemm;

enum {
    OPS_PARTS_SEGMENTS = 512,                         /* most segments of a row that are tasks of their own */
    OPS_ATTEND_ROWS = 256,                            /* most rows of a task of attention with many query heads for a K/V head */
    OPS_BLAS_ROWS = 8,                                /* fewer activation rows are our own kernels' */
    OPS_SOON = 65536,                                 /* bytes of weights that are fetched while a thread waits */
    OPS_CUTS = 8,                                     /* most parts into which the activation rows of a product are cut */
    OPS_CUT_ROWS = 64,                                /* least rows of such a part */
    OPS_STRIP = 32,                                   /* least rows of a task: a strip of packed weights */
    OPS_STRIP_MOST = 128,                             /* those that a task has where there are enough */
    OPS_TURNS = 4,                                    /* least tasks of products for each thread, if strips are as many */
    OPS_OPEN_ROWS = 8,                                /* rows that take as long as opening a strip of packed weights */
    OPS_TILE = 32,                                    /* positions that k_attn_products() takes at once */
    OPS_ATTEND_TURNS = 4,                             /* tasks of attention for each thread, of runs of many rows */
};

/* Looks for OpenBLAS on this machine; one thread of it per thread of ours, and none of its own. */
static bool ops_blas_open(err_t *e) {
#if LLMRUN_BLAS
    static const char *const names[] = {"libopenblas.so.0", "libopenblas.so"};
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    for (int i = 0; i < 2 && !g_sgemm; i++) {
        void *lib = sandbox_library(names[i]);
        if (lib) *(void **)&g_sgemm = dlsym(lib, "cblas_sgemm");
    }
    return g_sgemm || err_set(e, EXIT_INPUT, "--blas: no libopenblas.so.0 on this machine (Debian: libopenblas0)");
#else
    return err_set(e, EXIT_INPUT, "--blas: this binary was built with BLAS=0");
#endif
}

/* Whether results are exact: a row depends on its own past alone, whatever rows are beside it in a step, and equals the scalar
 * reference to the last bit. OpenBLAS gives that up. Then no guesses are made (spec_rows), since a row of a guess would change
 * the text; keys and values on disk are kept apart from exact ones (engine_open), and so are the results of a batch, whose
 * settings name --blas. Sequences of one run still share blocks: a text that may depend on its company may as well. Tensor cores
 * of GPUs (dev_gpus.tensor) give up the reference alone: rows do not depend on their company, so guesses are made; keys and
 * values on disk are kept apart (dev_gpus_order). */
static bool ops_exact(void) { return g_sgemm == NULL; }

/* --- products --- */

static void ops__watch(dev *dv, const dev_product *list, int n) {
    dev_wait(dv);
    if (dv->tap) dv->tap->fn(dv->tap->ctx, dv, list, n);
}

/* Rows per task: as many as the kernels like, or `most`, but enough tasks that a slow thread is not waited for. */
static int ops__task_rows(const dev *dv, const dev_product *m, int most) {
    int step = min_int(k_rows_step(m->w->type, m->n), most), rows = m->n_out * max_int(m->heads, 1) / (8 * dv->p->n);
    rows -= rows % step;
    return rows < step ? step : rows > 512 && 512 % step == 0 ? 512 : rows;
}

/* The first row of a product that memory node k has; k may be the number of nodes. */
static int ops__part_row(const dev *dv, const dev_product *m, int k) {
    const dev_parts *parts = m->w->parts;
    return min_int(parts ? parts->from[min_int(k, parts->n)] : dev_part_row(dv->p, m->w->n_out, min_int(k, pool_nodes(dv->p))),
                   m->n_out);
}

/* Where the weights of row r lie. */
static const uint8_t *ops__at(const dev_product *m, int r) {
    const dev_mat   *w = m->w;
    const dev_parts *parts = w->parts;
    int              k = 0;
    if (!w->packed) return w->data + (size_t)m->stack * w->mat_bytes + (size_t)r * w->row_bytes;
    if (!parts) return w->packed + (size_t)m->stack * w->packed_bytes + k_pack_at(w->type, r, w->n_in);
    while (r >= parts->from[k + 1]) k++;
    return parts->at[k] + (size_t)m->stack * parts->bytes[k] + k_pack_at(w->type, r - parts->from[k], w->n_in);
}

/* --- what adapters add to products: y += scale B (A x). OPS_LOW, in the stage of the products after it, computes A x of all
 * rows that have an adapter: its tasks come first. A task of the products adds its rows of B once all of these are done, which
 * they are after the first products: so adapters need no barrier. An entry is a row with one adapter; rows of one adapter are
 * together. Where rows are slots of experts, each slot is taken alone --- */

enum {
    OPS_LOW_RANKS = 8,                                /* rows of A of a task */
    OPS_LOW_ROWS = 32,                                /* entries of a task, slots of experts */
    OPS_LOW_SOON = 32,                                /* adapters whose B is prefetched */
    OPS_LINE = 64,                                    /* bytes of a cache line */
};

/* The adapters of the row of a slot. */
static const dev_adapters *ops__slot_adapters(const dev *dv, dev_row_set rows, int slot) {
    const dev_plan *p = dv->run->plan;
    return dev_adapters_of(dv->run, p->rows[rows].row[p->grouped[0].idx[slot]]);
}

/* Where A x of a slot is, for one adapter. */
static float *ops__slot_low(const dev *dv, const dev_product *m, int slot, int adapter) {
    return m->low_x + ((size_t)slot * (size_t)dv->run->plan->n_low + (size_t)adapter) * (size_t)m->low_rank;
}

/* Rows [r, r + nr) of what adapters add to the product of an expert, for its slots [from, end). */
static void ops__add_low_slots(const dev *dv, const dev_product *m, int r, int nr, int from, int end) {
    for (int t = from; t < end; t++) {
        const dev_adapters *a = ops__slot_adapters(dv, (dev_row_set)m->rows, m->first + t);
        for (int i = 0; a && i < a->n; i++) {
            const dev_low *low = &m->w->low[a->use[i].adapter];
            if (low->rank)
                k_add_low(low->type_b, low->b + (size_t)m->stack * low->bytes_b, low->rank,
                          ops__slot_low(dv, m, m->first + t, a->use[i].adapter), r, nr, m->y + (size_t)t * m->ldy + r);
        }
    }
}

/* The same of a product of all rows, for rows [from, end). */
static void ops__add_low(const dev *dv, const dev_product *m, int r, int nr, int from, int end) {
    const dev_low_rows *l = &dv->run->plan->low[m->rows];
    for (int i = 0; i < l->n_used; i++) {
        const dev_low *low = &m->w->low[l->used[i]];
        for (int e = l->at[l->used[i]]; low->rank && e < l->at[l->used[i] + 1]; e++) {
            if (l->row[e] < from || l->row[e] >= end) continue;
            k_add_low(low->type_b, low->b, low->rank, m->low_x + (size_t)e * (size_t)m->low_rank, r, nr,
                      m->y + (size_t)l->row[e] * m->ldy + r);
        }
    }
}

/* Rows [r, r + nr) of B, of the first adapters, which the product prefetches. */
static k_soon ops__low_soon(const dev *dv, const dev_product *m, int r, int nr, k_run run[OPS_LOW_SOON]) {
    const dev_low_rows *l = &dv->run->plan->low[m->rows];
    k_soon              soon = {.run = run};
    for (int i = 0; i < l->n_used && soon.n < OPS_LOW_SOON; i++) {
        const dev_low *low = &m->w->low[l->used[i]];
        const size_t   tile = (size_t)low->rank * k_row_bytes(low->type_b, K_LOW_TILE);
        if (!low->rank) continue;
        run[soon.n] = (k_run){low->b + (size_t)(r / K_LOW_TILE) * tile, (int)((size_t)nr * tile / (K_LOW_TILE * OPS_LINE)) + 1};
        soon.lines += run[soon.n++].lines;
    }
    return soon;
}

/* Tasks of one adapter and one product, for n entries. */
static int ops__low_parts(const dev_low *low, int n) {
    return (low->rank + OPS_LOW_RANKS - 1) / OPS_LOW_RANKS * ((n + OPS_LOW_ROWS - 1) / OPS_LOW_ROWS);
}

/* Tasks of one product. */
static int ops__low_tasks_of(const dev_run *run, const dev_product *m) {
    const dev_low_rows *l = &run->plan->low[m->rows];
    int                 n = 0;
    for (int i = 0; i < l->n_used; i++) n += ops__low_parts(&m->w->low[l->used[i]], l->at[l->used[i] + 1] - l->at[l->used[i]]);
    return n;
}

/* Slots of the experts at hand. */
static int ops__slots(const dev_plan *p, const dev_op *products) { return p->expert_at[products->products.n_expert]; }

/* Tasks of product i of the operation after this one. */
static int ops__low_tasks_at(const dev_run *run, const dev_op *op, int i) {
    const dev_product *m = &op[1].product[i];
    if (!m->w->low) return 0;
    if (m->slots) return (ops__slots(run->plan, &op[1]) + OPS_LOW_ROWS - 1) / OPS_LOW_ROWS;
    return ops__low_tasks_of(run, m);
}

/* Tasks of all of them; 0: no row has an adapter. */
static int ops__low_tasks(const dev_run *run, const dev_op *op) {
    int n = 0;
    for (int i = 0; run->plan->low[op->rows].n_used && i < op[1].n_product; i++) n += ops__low_tasks_at(run, op, i);
    return n;
}

/* Rows [k, k + nk) of A times nt rows of the input, then the scales; x of the first goes to y. */
static void ops__low_mul(const dev *dv, const dev_product *m, const dev_low *low, int k, const int32_t *idx, const float *scale,
                         int nt, float *y) {
    const size_t row = k_row_bytes(low->type_a, m->w->n_in);
    const int    nk = min_int(low->rank - k, OPS_LOW_RANKS);
    const k_acts a = {.x = m->a->x, .ldx = m->a->ldx, .idx = idx, .nt = nt};
    k_mul_rows(low->type_a, low->a + (size_t)m->stack * low->bytes_a + (size_t)k * row, row, nk, m->w->n_in, &a, y + k,
               (size_t)m->low_rank, dv->scratch);
    for (int t = 0; t < nt; t++) k_scale(y + (size_t)t * (size_t)m->low_rank + k, scale[t] * low->scale, nk);
}

/* A task of the entries of a product: some rows of A of one adapter, times some of its entries. */
typedef struct {
    const dev_low *low;
    int            rank;                              /* first row of A */
    int            first, n;                          /* entries */
} ops_low_task;

static ops_low_task ops__low_find(const dev_run *run, const dev_product *m, int task) {
    const dev_low_rows *l = &run->plan->low[m->rows];
    for (int i = 0;; i++) {
        const dev_low *low = &m->w->low[l->used[i]];
        const int      first = l->at[l->used[i]], n = l->at[l->used[i] + 1] - first, parts = ops__low_parts(low, n);
        const int      ranks = (low->rank + OPS_LOW_RANKS - 1) / OPS_LOW_RANKS, e = ranks ? task / ranks * OPS_LOW_ROWS : 0;
        if (task < parts)
            return (ops_low_task){low, task % ranks * OPS_LOW_RANKS, first + e, min_int(n - e, OPS_LOW_ROWS)};
        task -= parts;
    }
}

/* Task `task` of the entries of a product. */
static void ops__low_entries(const dev *dv, const dev_product *m, int task) {
    const dev_low_rows *l = &dv->run->plan->low[m->rows];
    const ops_low_task  t = ops__low_find(dv->run, m, task);
    ops__low_mul(dv, m, t.low, t.rank, (m->gather ? l->of : l->row) + t.first, l->scale + t.first, t.n,
                 m->low_x + (size_t)t.first * (size_t)m->low_rank);
}

/* A x of one slot: of the row that has chosen the expert, or of what the slot has. */
static void ops__low_slot(const dev *dv, const dev_product *m, int slot) {
    const dev_adapters *a = ops__slot_adapters(dv, (dev_row_set)m->rows, slot);
    const int32_t       at = m->idx ? m->idx[slot] : slot;
    for (int i = 0; a && i < a->n; i++) {
        const dev_low *low = &m->w->low[a->use[i].adapter];
        for (int k = 0; k < low->rank; k += OPS_LOW_RANKS)
            ops__low_mul(dv, m, low, k, &at, &a->use[i].scale, 1, ops__slot_low(dv, m, slot, a->use[i].adapter));
    }
}

/* Task `task` of the slots of product i of an operation. */
static void ops__low_chunk(const dev *dv, const dev_op *of, int i, int task) {
    const dev_plan *p = dv->run->plan;
    const int       end = min_int((task + 1) * OPS_LOW_ROWS, ops__slots(p, of));
    for (int slot = task * OPS_LOW_ROWS, e = 0; slot < end; slot++) {
        while (p->expert_at[e + 1] <= slot) e++;
        ops__low_slot(dv, &p->grouped[of->products.at + e * of->n_product + i], slot);
    }
}

/* A x of every row with an adapter, for each of the products that follow. */
static void ops__low(const dev *dv, const dev_op *op, int task) {
    int i = 0;
    for (int n; task >= (n = ops__low_tasks_at(dv->run, op, i)); task -= n) i++;
    if (op[1].product[i].slots) ops__low_chunk(dv, &op[1], i, task);
    else ops__low_entries(dv, &op[1].product[i], task);
}

/* OPS_LOW of a stage. */
typedef struct {
    const dev_op *op;
    int           n;                                  /* tasks; 0: no row has an adapter */
} ops_low_stage;

static void ops__low_task(const dev *dv, const ops_low_stage *low, int task) {
    ops__low(dv, low->op, task);
    pool_done(dv->p);
}

/* Within a task: returns when all tasks of it are done. */
static void ops__low_finish(const dev *dv, const ops_low_stage *low) {
    if (pool_are_done(dv->p, low->n)) return;
    for (int task; (task = pool_next_within(dv->p)) < low->n;) ops__low_task(dv, low, task);
    pool_until(dv->p, low->n);
}

/* Rows [r, r + nr) of one product, for its activation rows [t, t + n). */
static void ops__mul(const dev *dv, const dev_product *m, const ops_low_stage *low, int r, int nr, int t, int n) {
    const dev_mat *w = m->w;
    const uint8_t  *data = ops__at(m, r);
    k_acts          a = dev_acts_at(m->a, m->idx, m->first + t, n);
    float          *y = m->y + (size_t)t * m->ldy + r;
    k_run           run[OPS_LOW_SOON];
    k_soon          soon;
    if (w->low && low->n && !m->slots) soon = ops__low_soon(dv, m, r, nr, run), a.soon = &soon;
    if (w->packed) k_mul_packed(w->type, data, nr, w->n_in, &a, y, m->ldy, dv->scratch);
    else if (g_sgemm && w->type == K_F32 && m->n >= OPS_BLAS_ROWS && !m->idx)
        g_sgemm(101, 111, 112, n, nr, w->n_in, 1.0f, a.x, (int)a.ldx, (const float *)(const void *)data, w->n_in, 0.0f, y,
                (int)m->ldy);
    else
        k_mul_rows(w->type, data, w->row_bytes, nr, w->n_in, &a, y, m->ldy, dv->scratch);
    for (int i = 0; w->scale && i < n; i++) k_scale(y + (size_t)i * m->ldy, w->scale[m->stack], nr);
    if (!w->low || !low->n) return;
    ops__low_finish(dv, low);
    (m->slots ? ops__add_low_slots : ops__add_low)(dv, m, r, nr, t, t + n);
}

/* A list of products as tasks: those of node 0, product by product, then those of node 1, and so on. A task is some rows of a
 * product, for one of `cuts` parts of its activation rows. */
typedef struct {
    const dev_product *list;
    int                n_list;
    int                nodes;                         /* the most that a product lies on */
    int                most;                          /* rows of a task, where a part of a product has as many */
    int                cuts;
    int                n;                             /* tasks */
    int                at[HOST_NODES + 1];            /* [nodes + 1] the first task of each node */
} ops_pile;

/* Strips of rows of a product on one node. */
static int ops__strips(const dev *dv, const dev_product *m, int k, int most) {
    if (m->n <= 0) return 0;
    const int step = ops__task_rows(dv, m, most), rows = ops__part_row(dv, m, k + 1) - ops__part_row(dv, m, k);
    return (rows + step - 1) / step;
}

/* Into how many parts the activation rows are cut where strips of weights are few for the threads: the number that ends first.
 * Each task also opens its strip of weights, which takes as long as OPS_OPEN_ROWS rows. A cut that gains less than a twentieth
 * loses it again in the cache. */
static int ops__cuts(const dev *dv, int strips, int rows) {
    int  cuts = 1;
    long best = LONG_MAX;
    for (int c = 1; c <= OPS_CUTS && rows / c >= OPS_CUT_ROWS; c *= 2) {
        const long turns = ((long)strips * c + dv->p->n - 1) / dv->p->n, ends = turns * (rows / c + OPS_OPEN_ROWS);
        if (best == LONG_MAX || 20 * ends < 19 * best) best = ends, cuts = c;
    }
    return g_sgemm ? 1 : cuts;
}

/* Counts strips. */
static void ops__count(const dev *dv, ops_pile *g) {
    g->n = 0;
    for (int k = 0; k < g->nodes; k++) {
        for (int i = 0; i < g->n_list; i++) g->n += ops__strips(dv, &g->list[i], k, g->most);
        g->at[k + 1] = g->n;
    }
}

/* Tasks have fewer rows than the kernels like where there would not be OPS_TURNS of them for each thread. */
static ops_pile ops__pile(const dev *dv, const dev_product *list, int n_list) {
    ops_pile g = {.list = list, .n_list = n_list, .nodes = pool_nodes(dv->p), .most = OPS_STRIP_MOST};
    int      rows = INT_MAX;
    for (int i = 0; i < n_list; i++) {
        if (list[i].w->parts) g.nodes = max_int(g.nodes, list[i].w->parts->n);
        if (list[i].n > 0) rows = min_int(rows, list[i].n);
    }
    if (rows == INT_MAX) rows = 0;                    /* no product has rows */
    const int cuts = max_int(1, min_int(OPS_CUTS, rows / OPS_CUT_ROWS));
    ops__count(dv, &g);
    while (g.most > OPS_STRIP && g.n * cuts < OPS_TURNS * dv->p->n) g.most /= 2, ops__count(dv, &g);
    g.cuts = ops__cuts(dv, g.n, rows);
    for (int k = 1; k <= g.nodes; k++) g.at[k] *= g.cuts;
    g.n *= g.cuts;
    return g;
}

/* Where each node begins, for [pool]; NULL: the team has other nodes than the weights, or one. */
static const int *ops__pile_at(const dev *dv, const ops_pile *g) {
    return g->nodes > 1 && g->nodes == pool_nodes(dv->p) ? g->at : NULL;
}

/* A place in the pile: `base` tasks are before product i on node k. */
typedef struct { int k, i, base; } ops_place;

/* Moves *to to the product that a task is of, and returns the task's number in there. */
static int ops__find(const dev *dv, const ops_pile *g, ops_place *to, int task) {
    if (task < to->base) *to = (ops_place){0};        /* one of another thread's */
    for (int n; task >= to->base + (n = g->cuts * ops__strips(dv, &g->list[to->i], to->k, g->most));) {
        to->base += n;
        if (++to->i == g->n_list) to->i = 0, to->k++;
    }
    return task - to->base;
}

/* What a thread knows of a pile while it works on it. */
typedef struct {
    ops_pile   g;
    ops_place *to;
    ops_low_stage low;
} ops_work;

/* The rows [*r, *r + *nr) and activation rows [*t, *t + *n) of a task. */
static const dev_product *ops__task(const dev *dv, const ops_work *k, int task, int *r, int *nr, int *t, int *n) {
    task = ops__find(dv, &k->g, k->to, task);
    const dev_product *m = &k->g.list[k->to->i];
    const int          step = ops__task_rows(dv, m, k->g.most), cut = task % k->g.cuts, end = ops__part_row(dv, m, k->to->k + 1);
    *r = ops__part_row(dv, m, k->to->k) + task / k->g.cuts * step;
    *nr = min_int(end - *r, step);
    *t = (int)((int64_t)m->n * cut / k->g.cuts);
    *n = (int)((int64_t)m->n * (cut + 1) / k->g.cuts) - *t;
    return m;
}

static void ops__mul_task(const dev *dv, const void *work, int task) {
    int                r, nr, t, n;
    const dev_product *m = ops__task(dv, work, task, &r, &nr, &t, &n);
    ops__mul(dv, m, &((const ops_work *)work)->low, r, nr, t, n);
}

/* All products of the list, as one pile of tasks. low: OPS_LOW before them, or NULL. */
static void ops__matmul(dev *dv, const dev_product *list, int n_list, const dev_op *low) {
    ops__watch(dv, list, n_list);
    dev_begin(dv);
    if (!pool_works()) return;
    ops_place      to = {0};
    const ops_work k = {ops__pile(dv, list, n_list), &to, {low, low ? ops__low_tasks(dv->run, low) : 0}};
    for (int task; k.low.n && (task = pool_next(dv->p)) < k.low.n;) ops__low_task(dv, &k.low, task);
    dev_deal(dv, (dev_stage){k.g.n, ops__pile_at(dv, &k.g), true, ops__mul_task, &k});
}

/* The products of an operation: of experts, those that OPS_GROUP has listed. */
static const dev_product *ops__list(const dev_plan *p, const dev_op *op, int *n) {
    *n = op->n_product * max_int(op->products.n_expert, 1);
    return op->products.n_expert ? p->grouped + op->products.at : op->product;
}

/* The operation is the next whose products are computed: while this thread waits, it fetches the first weights of its share. */
static void ops__soon(const dev *dv, const dev_op *op) {
    int                n_list;
    const dev_product *list = ops__list(dv->run->plan, op, &n_list);
    if (!pool_works()) return;
    ops_place      to = {0};
    const ops_work k = {ops__pile(dv, list, n_list), &to, {0}};
    const int      task = pool_first(dv->p, k.g.n, ops__pile_at(dv, &k.g), dv->ith);
    int            r, nr, t, n;
    if (task >= k.g.n) return;
    const dev_product *m = ops__task(dv, &k, task, &r, &nr, &t, &n);
    pool_prefetch(ops__at(m, r), OPS_SOON);
}

/* The same of A, before the products. False: the thread has no task of it, most likely. */
static bool ops__soon_low(const dev *dv, const dev_op *op) {
    const dev_run *run = dv->run;
    if (!pool_works() || op[1].products.n_expert) return false;
    int task = dv->ith, i = 0;
    if (task >= ops__low_tasks(run, op)) return false;
    for (int some; task >= (some = ops__low_tasks_at(run, op, i)); task -= some) i++;
    const dev_product *m = &op[1].product[i];
    const ops_low_task at = ops__low_find(run, m, task);
    const size_t       row = k_row_bytes(at.low->type_a, m->w->n_in);
    pool_prefetch(at.low->a + (size_t)at.rank * row, row * (size_t)min_int(OPS_LOW_RANKS, at.low->rank - at.rank));
    return true;
}

/* A phase of it: the one after it does its tasks. */
static void ops__low_all(dev *dv, const dev_phase *ph) { (void)dv, (void)ph; }

/* OPS_LOW before an operation of products; NULL: there is none, or no row of the batch has an adapter. */
static const dev_op *ops__low_before(const dev_plan *p, const dev_op *op) {
    const bool any = p->n_low && op > p->op && op[-1].kind == p->low_kind && p->low[op[-1].rows].n_used;
    return any ? op - 1 : NULL;
}

/* A phase of products. Weights of those that come next are fetched while the thread waits. */
static void ops__products(dev *dv, const dev_phase *ph) {
    const dev_plan    *p = dv->run->plan;
    int                n;
    const dev_product *list = ops__list(p, &p->op[ph->first], &n);
    ops__matmul(dv, list, n, ops__low_before(p, &p->op[ph->first]));
    if (ph->soon < 0) return;
    const dev_op *soon = &p->op[ph->soon], *low = ops__low_before(p, soon);
    if (!low || !ops__soon_low(dv, low)) ops__soon(dv, soon);
}

/* A phase of products that are shown and not computed. */
static void ops__watched(dev *dv, const dev_phase *ph) {
    const dev_op *op = &dv->run->plan->op[ph->first];
    ops__watch(dv, op->product, op->n_product);
}

/* --- rows of buffers --- */

static float *ops__row(const dev *dv, dev_buf b, int r) {
    const dev_acts *a = &dv->run->plan->buf[b].a;
    return a->x + (size_t)r * a->ldx;
}

/* The number in the batch of the operation's row r. */
static int ops__which(const dev *dv, const dev_op *op, int r) { return dv->run->plan->rows[op->rows].row[r]; }

/* The operation's row r of input i, of output i. */
static float *ops__in(const dev *dv, const dev_op *op, int i, int r) {
    return ops__row(dv, op->in[i], op->gathers & 1u << i ? dv->run->plan->rows[DEV_OUT].row[r] : r);
}
static float   *ops__out(const dev *dv, const dev_op *op, int i, int r) { return ops__row(dv, op->out[i], r); }

/* --- what each kind does for row r, on the CPU --- */

/* What adapters add to the embedding of row r of the batch: A has a row for each token. */
static void ops__embed_low(const dev *dv, const dev_mat *w, int r, float *x) {
    const dev_adapters *a = dev_adapters_of(dv->run, r);
    float              *u = dv->scratch;
    for (int i = 0; a && i < a->n; i++) {
        const dev_low *low = &w->low[a->use[i].adapter];
        if (!low->rank) continue;
        const size_t row = (size_t)dv->run->batch->token[r] * k_row_bytes(low->type_a, low->rank);
        k_types[low->type_a].dequant(low->a + row, u, low->rank);
        k_scale(u, a->use[i].scale * low->scale, low->rank);
        k_add_low(low->type_b, low->b, low->rank, u, 0, w->n_in, x);
    }
}

/* out = the matrix's row for the row's token or position, times scale, plus in[0] if there is one. */
static void ops__embed(const dev *dv, const dev_op *op, int r) {
    const dev_mat *w = op->embed.mat;
    const int32_t *at = op->embed.by_pos ? dv->run->batch->pos : dv->run->batch->token;
    float         *x = ops__out(dv, op, 0, r);
    k_types[w->type].dequant(w->data + (size_t)at[ops__which(dv, op, r)] * w->row_bytes, x, w->n_in);
    if (w->scale) k_scale(x, w->scale[0], w->n_in);
    if (w->low) ops__embed_low(dv, w, ops__which(dv, op, r), x);
    if (op->scale != 0) k_scale(x, op->scale, w->n_in);
    if (op->in[0]) k_add(x, x, ops__in(dv, op, 0, r), w->n_in);
}

/* out = cos and sin of n angles of the row's position, times scale. */
static void ops__angles(const dev *dv, const dev_op *op, int r) {
    float *cs = ops__out(dv, op, 0, r) + op->angles.at;
    for (int i = 0; i < op->n; i++) {
        const double angle = (dv->run->batch->pos[ops__which(dv, op, r)] + op->angles.ahead) * op->angles.freq[i];
        cs[2 * i] = (float)cos(angle) * op->scale;
        cs[2 * i + 1] = (float)sin(op->angles.back ? -angle : angle) * op->scale;
    }
}

/* out = the norm of in, times vec, plus the bias; for each head. */
static void ops__norm(const dev *dv, const dev_op *op, int r) {
    const float *x = ops__in(dv, op, 0, r);
    float       *y = ops__out(dv, op, 0, r);
    for (int h = 0; h == 0 || h < op->n_head; h++, x += op->n, y += op->n)
        switch (op->norm.kind) {
        case K_NORM_RMS: k_rms_norm(x, op->vec, op->scale, op->n, y); break;
        case K_NORM_LAYER: k_layer_norm(x, op->vec, op->norm.bias, op->scale, op->n, y); break;
        case K_NORM_L2:
            if (y != x) memcpy(y, x, (size_t)op->n * sizeof *y);
            k_l2_norm(y, op->scale, op->n);
            break;
        }
}

/* The expert of a slot: the last one whose slots begin at it or before. */
static int ops__expert_at(const dev_plan *p, int n_expert, int slot) {
    int lo = 0, hi = n_expert;
    while (hi - lo > 1) {
        const int mid = (lo + hi) / 2;
        if (p->expert_at[mid] <= slot) lo = mid;
        else hi = mid;
    }
    return lo;
}

/* out += vec; where rows are slots of experts, the part of vec that belongs to the slot's expert. */
static void ops__bias(const dev *dv, const dev_op *op, int r) {
    const int e = op->experts.n ? ops__expert_at(dv->run->plan, op->experts.n, r) : 0;
    float    *y = ops__out(dv, op, 0, r);
    k_add(y, y, op->vec + (size_t)e * (size_t)op->n, op->n);
}

/* out = in[0] + scale * in[1]. */
static void ops__add(const dev *dv, const dev_op *op, int r) {
    const float *a = ops__in(dv, op, 0, r), *b = ops__in(dv, op, 1, r);
    float       *y = ops__out(dv, op, 0, r);
    if (op->scale == 0) {
        k_add(y, a, b, op->n);
        return;
    }
    if (y != a) memcpy(y, a, (size_t)op->n * sizeof *y);
    k_axpy(y, b, op->scale, op->n);
}

/* out *= vec, or scale where there is none. */
static void ops__scale(const dev *dv, const dev_op *op, int r) {
    float *y = ops__out(dv, op, 0, r);
    if (op->vec) k_mul(y, y, op->vec, op->n);
    else k_scale(y, op->scale, op->n);
}

/* out = scale * tanh(out / scale). */
static void ops__cap(const dev *dv, const dev_op *op, int r) { k_cap(ops__out(dv, op, 0, r), op->scale, op->n); }

/* out is cut to [-scale, scale], or to values up to scale. */
static void ops__clamp(const dev *dv, const dev_op *op, int r) {
    k_clamp(ops__out(dv, op, 0, r), op->scale, op->above, op->n);
}

/* out = 1 + scale * log(1 + whole lengths before the row's position), one value. */
static void ops__temper(const dev *dv, const dev_op *op, int r) {
    const double at = dv->run->batch->pos[ops__which(dv, op, r)] + op->temper.ahead;
    const double turns = floor(at / (double)op->temper.length);
    *ops__out(dv, op, 0, r) = (float)(1 + (double)op->scale * log1p(turns));
}

/* out *= in, one value of each head; without an input those of vec. */
static void ops__scale_by(const dev *dv, const dev_op *op, int r) {
    const float *by = op->in[0] ? ops__in(dv, op, 0, r) : op->vec;
    float       *y = ops__out(dv, op, 0, r);
    for (int h = 0; h == 0 || h < op->n_head; h++) k_scale(y + (size_t)h * (size_t)op->n, by[h], op->n);
}

/* out = xIELU(out). */
static void ops__xielu(const dev *dv, const dev_op *op, int r) { k_xielu(ops__out(dv, op, 0, r), &op->xielu, op->n); }

/* out, a slot of an expert, *= the weight of that expert for the slot's row. in[0]: weights of rows, in[1]: their slots, in[2]:
 * rows of slots. */
static void ops__weigh(const dev *dv, const dev_op *op, int r) {
    const int      row = dev_ints(ops__row(dv, op->in[2], 0))[r];
    const int32_t *slot = dev_ints(ops__row(dv, op->in[1], row));
    int            i = 0;
    while (i + 1 < op->experts.used && slot[i] != r) i++;
    k_scale(ops__out(dv, op, 0, r), ops__row(dv, op->in[0], row)[i], op->n);
}

/* Values between two heads in what OPS_PICK writes. */
static int ops__pick_step(const dev_op *op) { return op->pick.step ? op->pick.step : op->n; }

/* out = of each head of in[0], n values from `at` on; they lie `step` values apart from `to` on. */
static void ops__pick(const dev *dv, const dev_op *op, int r) {
    const float *x = ops__in(dv, op, 0, r) + op->pick.at;
    float       *y = ops__out(dv, op, 0, r) + op->pick.to;
    for (int h = 0; h < op->n_head; h++)
        memcpy(y + (size_t)h * (size_t)ops__pick_step(op), x + (size_t)h * (size_t)op->pick.stride, (size_t)op->n * sizeof *y);
}

/* out: rows of the first head, then of the next one, up to `each`: of a row of in[0], n values from `at` on, each head's `stride`
 * after those of the one before. */
static void ops__deal(const dev *dv, const dev_op *op, int r) {
    const int n = dv->run->plan->rows[op->rows].n, head = r / n;
    memcpy(ops__out(dv, op, 0, r), ops__in(dv, op, 0, r % n) + op->pick.at + (size_t)head * (size_t)op->pick.stride,
           (size_t)op->n * sizeof(float));
}

/* out = row r - 1 of in[0] or of op->before, or for the first row of a sequence what lies before it, zeros without that; or for
 * each row what lies before it. The input is of an earlier phase: the row before belongs to another task. */
static void ops__before(const dev *dv, const dev_op *op, int r) {
    const dev_batch *b = dv->run->batch;
    const int        row = ops__which(dv, op, r);
    const bool       first = !row || b->seq[row] != b->seq[row - 1];
    const dev_before *of = op->before;
    const float     *x = of->by_row ? of->first[row] : first ? of->first[b->seq[row]]
                         : of->rows ? of->rows + (size_t)(row - 1) * of->ld : ops__row(dv, op->in[0], row - 1);
    float           *y = ops__out(dv, op, 0, r);
    if (x) memcpy(y, x, (size_t)op->n * sizeof *y);
    else memset(y, 0, (size_t)op->n * sizeof *y);
}

/* out = the row's token and 1, as a number: 0 is none. */
static void ops__token(const dev *dv, const dev_op *op, int r) {
    *ops__out(dv, op, 0, r) = (float)(dv->run->batch->token[ops__which(dv, op, r)] + 1);
}

/* --- of models with several streams (AltUp: Baykal et al. 2023, with the sparse gates of Gemma 3n). A row has n_head streams of
 * n values --- */

/* Mean and standard deviation of n values. */
static void ops__spread(const float *x, int n, double *mean, double *deviation) {
    double sum[8] = {0}, sq[8] = {0};
    for (int i = 0; i < n; i++) sum[i % 8] += (double)x[i];
    *mean = (((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]))) / n;
    for (int i = 0; i < n; i++) sq[i % 8] += ((double)x[i] - *mean) * ((double)x[i] - *mean);
    *deviation = sqrt((((sq[0] + sq[1]) + (sq[2] + sq[3])) + ((sq[4] + sq[5]) + (sq[6] + sq[7]))) / n);
}

/* out = what out has above its mean and `scale` standard deviations; 0 below. */
static void ops__sparse(const dev *dv, const dev_op *op, int r) {
    float *y = ops__out(dv, op, 0, r);
    double mean, deviation;
    ops__spread(y, op->n, &mean, &deviation);
    const float least = (float)(mean + (double)op->scale * deviation);
    for (int i = 0; i < op->n; i++) y[i] = y[i] > least ? y[i] - least : 0;
}

/* out: each stream of in[0] plus a sum of all, by the coefficients [n_head][n_head] in[1]. */
static void ops__blend(const dev *dv, const dev_op *op, int r) {
    const float *x = ops__in(dv, op, 0, r), *c = ops__in(dv, op, 1, r);
    float       *y = ops__out(dv, op, 0, r);
    memcpy(y, x, (size_t)op->n * (size_t)op->n_head * sizeof *y);
    for (int i = 0; i < op->n_head; i++)
        for (int k = 0; k < op->n_head; k++) k_axpy(y + i * op->n, x + k * op->n, c[i * op->n_head + k], op->n);
}

/* out: each stream of in[0] plus (1 + its coefficient of in[2]) times what in[1] has more than the active one. */
static void ops__correct(const dev *dv, const dev_op *op, int r) {
    const int    a = op->active * op->n;
    const float *x = ops__in(dv, op, 0, r), *c = ops__in(dv, op, 2, r);
    float       *y = ops__out(dv, op, 0, r), *more = y + a;
    memcpy(more, ops__in(dv, op, 1, r), (size_t)op->n * sizeof *more);
    k_axpy(more, x + a, -1, op->n);
    for (int i = 0; i < op->n_head; i++) {
        if (i * op->n == a) continue;
        memcpy(y + i * op->n, x + i * op->n, (size_t)op->n * sizeof *y);
        k_axpy(y + i * op->n, more, c[i] + 1, op->n);
    }
    k_scale(more, c[op->active] + 1, op->n);
    k_add(more, more, x + a, op->n);
}

/* out: every stream but the first grows by in[0]. */
static void ops__raise(const dev *dv, const dev_op *op, int r) {
    float *y = ops__out(dv, op, 0, r);
    for (int i = 1; i < op->n_head; i++) k_add(y + i * op->n, y + i * op->n, ops__in(dv, op, 0, r), op->n);
}

/* out = in[0], scaled to the root mean square of in[1]; the mean square of in[0] counts as 1e-5 at least. */
static void ops__level(const dev *dv, const dev_op *op, int r) {
    const float *x = ops__in(dv, op, 0, r), *like = ops__in(dv, op, 1, r);
    float       *y = ops__out(dv, op, 0, r) + op->to;
    const float  now = k_dot(x, x, op->n) / (float)op->n, want = k_dot(like, like, op->n) / (float)op->n;
    if (y != x) memcpy(y, x, (size_t)op->n * sizeof *y);
    k_scale(y, sqrtf(want) / sqrtf(now > 1e-5f ? now : 1e-5f), op->n);
}

/* --- streams with hyper-connections (Zhu et al. 2024), which blocks read as a mean and write to with a weight of each --- */

/* out = the mean of the streams of in[0]. */
static void ops__mean(const dev *dv, const dev_op *op, int r) {
    const float *x = ops__in(dv, op, 0, r);
    float       *y = ops__out(dv, op, 0, r);
    memcpy(y, x, (size_t)op->n * sizeof *y);
    for (int i = 1; i < op->n_head; i++) k_add(y, y, x + i * op->n, op->n);
    k_scale(y, 1.0f / (float)op->n_head, op->n);
}

/* out: each stream of in[0] plus in[1] times twice the sigmoid of its value in[2], of which `scale` is a factor. */
static void ops__inject(const dev *dv, const dev_op *op, int r) {
    const float *x = ops__in(dv, op, 0, r), *c = ops__in(dv, op, 2, r);
    float       *y = ops__out(dv, op, 0, r);
    memcpy(y, x, (size_t)op->n * (size_t)op->n_head * sizeof *y);
    for (int i = 0; i < op->n_head; i++) k_axpy(y + i * op->n, ops__in(dv, op, 1, r), 2 * k_sigmoid(c[i] * op->scale), op->n);
}

/* out: for each stream, in[2] times the sigmoid of g: s is the product of its parts of in[0] and in[1] divided by the root of n,
 * and g the root of |s|, or of `scale` if that is more, with the sign of s. */
static void ops__recall(const dev *dv, const dev_op *op, int r) {
    const float *key = ops__in(dv, op, 0, r), *query = ops__in(dv, op, 1, r);
    float       *y = ops__out(dv, op, 0, r);
    for (int i = 0; i < op->n_head; i++, y += op->n) {
        const float s = k_dot(key + i * op->n, query + i * op->n, op->n) / sqrtf((float)op->n),
                    root = sqrtf(fabsf(s) > op->scale ? fabsf(s) : op->scale);
        memcpy(y, ops__in(dv, op, 2, r), (size_t)op->n * sizeof *y);
        k_scale(y, k_sigmoid(s > 0 ? root : s < 0 ? -root : s), op->n);
    }
}

/* out: the heads rotated by the angles in[0]. */
static void ops__rope(const dev *dv, const dev_op *op, int r) {
    k_rope(ops__out(dv, op, 0, r) + op->rope.skip, op->n_head, op->n, op->rope.n_rot, op->rope.form,
           ops__in(dv, op, 0, r) + op->rope.at);
}

/* Stores K [n_head, hd_k] and V [n_head, hd_v] (NULL: it is a part of K) of one position, in the block that `table` names. */
static void ops__kv_store(const dev_kv *l, const int32_t *table, int pos, const float *k, const float *v) {
    const size_t block = (size_t)l->block, at = (size_t)pos % block;
    uint8_t     *p = dev_block(l->mem, table[(size_t)pos / block]);
    for (size_t h = 0; h < (size_t)l->n_head; h++) {
        k_kv_store(l->type_k, k + h * (size_t)l->hd_k, p + l->k_at + (h * block + at) * l->k_stride, l->hd_k);
        if (v) k_kv_store(l->type_v, v + h * (size_t)l->hd_v, p + l->v_at + (h * block + at) * l->v_stride, l->hd_v);
    }
}

/* Fills k and v [n] with the first byte of `head` in each of the table's first n blocks; NULL where the table has -1. */
static void ops__kv_views(const dev_kv *l, const int32_t *table, int n, int head, const uint8_t **k, const uint8_t **v) {
    const size_t at = (size_t)head * (size_t)l->block;
    for (int i = 0; i < n; i++) {
        const uint8_t *p = table[i] < 0 ? NULL : dev_block(l->mem, table[i]);
        k[i] = p ? p + l->k_at + at * l->k_stride : NULL;
        v[i] = p ? p + l->v_at + at * l->v_stride : NULL;
    }
}

/* The transform of n heads of keys or queries, as the cache has its keys. */
static void ops__turn(const dev_kv *kv, float *k, int n) {
    for (int h = 0; kv->shared && h < n; h++, k += kv->hd_k) {
        k_hadamard(k, kv->hd_v, kv->hadamard_v);
        k_hadamard(k + kv->hd_v, kv->hd_k - kv->hd_v, kv->hadamard_k);
    }
    if (!kv->shared) k_hadamard(k, n * kv->hd_k, kv->hadamard_k);
}

/* Keys in[0] and values in[1] go into the cache; where values are a part of keys, keys alone. */
static void ops__store(const dev *dv, const dev_op *op, int r) {
    const dev_batch *b = dv->run->batch;
    const dev_kv    *kv = op->cache.kv;
    float           *k = ops__in(dv, op, 0, r), *v = kv->shared ? NULL : ops__in(dv, op, 1, r);
    int              n;
    ops__turn(kv, k, kv->n_head);
    if (v) k_hadamard(v, kv->n_head * kv->hd_v, kv->hadamard_v);
    ops__kv_store(kv, dev_table(b, kv->group, r, &n), b->pos[r], k, v);
}

/* The size of the transform of the cache's keys or values. */
static int ops__hadamard_size(const dev_op *op) {
    return op->hadamard.values ? op->hadamard.kv->hadamard_v : op->hadamard.kv->hadamard_k;
}

/* out: the transform of the cache's keys or values, which is its own inverse. */
static void ops__hadamard(const dev *dv, const dev_op *op, int r) {
    float *x = ops__out(dv, op, 0, r);
    if (op->hadamard.values) k_hadamard(x, op->n_head * op->n, ops__hadamard_size(op));
    else ops__turn(op->hadamard.kv, x, op->n_head);
}

/* Most rows of a task: all query heads of a K/V head for DEV_ATTN_ROWS positions, or fewer heads, so that what a tile of the
 * cache needs of them stays close to the core. */
static int ops__attend_most(const dev_op *op) {
    return max_int(DEV_ATTN_ROWS, min_int(DEV_ATTN_ROWS * op->cache.group, OPS_ATTEND_ROWS));
}

/* The number after n, a divisor of `all`, that divides it. */
static int ops__next_divisor(int all, int n) {
    while (all % ++n) {}
    return n;
}

/* Into how many tasks the query heads of a K/V head are dealt: as few as hold ops__attend_most() rows, or more where there are
 * fewer tasks than threads; where runs are long, fewer than OPS_ATTEND_TURNS for each, since late runs take longer than
 * early ones. n_seg: segments that the runs see, or the runs. */
static int ops__attend_deal(const dev_run *run, const dev_op *op, int n_seg) {
    const dev_row_list *on = &run->plan->rows[op->rows];
    const int           all = op->cache.group, most = ops__attend_most(op);
    int                 rows = 1, n = 1;
    for (int i = 0; i < on->n_run; i++) rows = max_int(rows, on->run[i + 1] - on->run[i]);
    const int want = rows < DEV_ATTN_ROWS / 2 ? run->p->n : OPS_ATTEND_TURNS * run->p->n;
    while (n < all && (rows * (all / n) > most || n_seg * op->cache.kv->n_head * n < want)) n = ops__next_divisor(all, n);
    return n;
}

static int ops__attend_tasks(const dev_run *run, const dev_op *op) {
    const int n_run = run->plan->rows[op->rows].n_run;
    return n_run * op->cache.kv->n_head * ops__attend_deal(run, op, n_run);
}

/* A number for each of g query heads from `head` on, as an array for the rows of a task; NULL: there are none. `at`: where the
 * array begins. */
static const float *ops__by_head(const dev *dv, const float *of, int head, int g, int n_rows, int at) {
    float *to = dv->run->plan->thread[dv->ith].sinks + at;
    for (int i = 0; of && i < n_rows; i++) to[i] = of[head + i % g];
    return of ? to : NULL;
}

/* Rows of a batch up to the last one of row r's sequence. */
static int ops__rows_to(const dev_batch *b, int r) {
    int low = r + 1, high = b->n;                     /* numbers of sequences rise */
    while (low < high) {
        const int mid = low + (high - low) / 2;
        if (b->seq[mid] == b->seq[r]) low = mid + 1;
        else high = mid;
    }
    return low;
}

/* The positions that row r of the batch sees: from *begin on, before *end. */
static void ops__sees(const dev_batch *b, const dev_op *op, int r, int64_t *begin, int64_t *end) {
    const int64_t pos = b->pos[r], window = op->cache.window, half = window / 2;
    if (op->cache.view >= VIEW_SOURCE) {
        const int64_t source = b->source[b->seq[r]];
        *begin = op->cache.view == VIEW_SOURCE ? 0 : source;
        *end = op->cache.view == VIEW_SOURCE ? source : pos + 1;
        return;
    }
    if (op->cache.view != VIEW_ALL) {
        *end = pos + 1;
        *begin = window && *end > window ? *end - window : 0;
        if (op->cache.view == VIEW_CHUNK) *begin = pos / window * window;
        return;
    }
    *end = b->pos[ops__rows_to(b, r) - 1] + 1;
    if (window && pos + half < *end) *end = pos + half + 1;
    *begin = window && pos > half ? pos - half : 0;
}

/* The biases of a query head; NULL: there are none. */
static const float *ops__distances(const dev_op *op, int head) {
    return op->cache.bias ? op->cache.bias + (size_t)head * (size_t)(2 * op->cache.reach + 1) : NULL;
}

/* The query rows of run `i` for part `part` of the query heads, where those of a K/V head are `deal` parts. */
static k_attn_args ops__attend_rows(const dev *dv, const dev_op *op, int i, int part, int deal) {
    const dev_run      *run = dv->run;
    const dev_kv       *kv = op->cache.kv;
    const dev_row_list *on = &run->plan->rows[op->rows];
    const int           g = op->cache.group / deal, head = part * g;
    k_attn_row         *rows = run->plan->thread[dv->ith].rows;
    int                 n = 0;
    for (int s = on->run[i]; s < on->run[i + 1]; s++) {
        float  *q = ops__in(dv, op, 0, s) + head * kv->hd_k, *o = ops__out(dv, op, 0, s) + head * kv->hd_v;
        int64_t begin, end;
        ops__sees(run->batch, op, on->row[s], &begin, &end);
        for (int h = 0; h < g; h++)
            rows[n++] = (k_attn_row){.q = q + h * kv->hd_k, .o = o + h * kv->hd_v, .begin = begin, .end = end,
                                     .at = run->batch->pos[on->row[s]], .bias = ops__distances(op, head + h)};
    }
    return (k_attn_args){.n_rows = n, .rows = rows, .hd_k = kv->hd_k, .hd_v = kv->hd_v, .scale = op->scale,
                         .softcap = op->cache.cap, .reach = op->cache.bias ? op->cache.reach : 0,
                         .sinks = ops__by_head(dv, op->cache.sinks, head, g, n, 0),
                         .slopes = ops__by_head(dv, op->cache.slope, head, g, n, run->plan->attn_most),
                         .type_k = kv->type_k, .type_v = kv->type_v};
}

/* The same with the blocks of keys and values. */
static k_attn_args ops__attend_args(const dev *dv, const dev_op *op, int i, int part, int deal) {
    const dev_run      *run = dv->run;
    const dev_kv       *kv = op->cache.kv;
    const dev_row_list *on = &run->plan->rows[op->rows];
    const uint8_t     **kb = run->views[dv->ith], **vb = kb + run->n_views;
    k_attn_args         a = ops__attend_rows(dv, op, i, part, deal);
    int                 n_blocks;
    const int32_t      *table = dev_table(run->batch, kv->group, on->row[on->run[i]], &n_blocks);
    ops__kv_views(kv, table, n_blocks, part / deal, kb, vb);
    a.k_blocks = kb, a.v_blocks = vb, a.block = kv->block, a.k_stride = kv->k_stride, a.v_stride = kv->v_stride;
    return a;
}

/* out = attention of the queries in[0] over the cache. A task is a run of rows of one sequence and a K/V head, or a part of its
 * query heads. Tasks of a head come one after the other, so that a memory node has those of its heads, and its last run first,
 * since it sees the most. */
static void ops__attend(const dev *dv, const dev_op *op, int task) {
    const dev_run    *run = dv->run;
    const int         n_run = run->plan->rows[op->rows].n_run, deal = ops__attend_deal(run, op, n_run);
    const k_attn_args a = ops__attend_args(dv, op, n_run - 1 - task % n_run, task / n_run, deal);
    k_attn(&a, dv->scratch);
}

/* --- attention whose tasks are segments, where runs and K/V heads are too few for the threads: with the same bits --- */

/* The segments that a run of rows sees. */
typedef struct {
    int     deal;                                     /* parts of the query heads of a K/V head */
    int64_t first;                                    /* number of a segment */
    int     n;                                        /* segments */
    size_t  size;                                     /* floats of a segment's partial result for one part */
    size_t  at;                                       /* floats, where those of the run begin */
} ops_segments;

/* Of the run after the one that *to describes; of run 0 where to->size is 0. */
static void ops__next_segments(const dev_run *run, const dev_op *op, int i, ops_segments *to) {
    const dev_row_list *on = &run->plan->rows[op->rows];
    int64_t begin, end, none;
    ops__sees(run->batch, op, on->row[on->run[i]], &begin, &none);
    ops__sees(run->batch, op, on->row[on->run[i + 1] - 1], &none, &end);
    to->at += (size_t)to->n * (size_t)(op->cache.kv->n_head * to->deal) * to->size;
    to->first = begin / K_SEGMENT;
    to->n = (int)((end - 1) / K_SEGMENT + 1 - to->first);
    to->size = k_attn_part((on->run[i + 1] - on->run[i]) * (op->cache.group / to->deal), op->cache.kv->hd_v);
}

/* Whether segments are tasks, and of how many parts; *tasks: how many. Not where runs and K/V heads are enough, since less than a
 * tenth of the threads' time would be lost, or where the partial results have no space. */
static bool ops__apart(const dev_run *run, const dev_op *op, int *deal, int *tasks) {
    const int    n_run = run->plan->rows[op->rows].n_run, heads = op->cache.kv->n_head,
                 n = n_run * heads * ops__attend_deal(run, op, run->p->n), turns = (n + run->p->n - 1) / run->p->n;
    ops_segments seg = {.deal = 1};
    int          most = 0, all = 0;
    if (!run->plan->parts || 10 * n > 9 * turns * run->p->n) return false;
    for (int i = 0; i < n_run; i++) {
        ops__next_segments(run, op, i, &seg);
        most = max_int(most, seg.n);
        all += seg.n;
    }
    seg = (ops_segments){.deal = *deal = ops__attend_deal(run, op, all)};
    for (int i = 0; i < n_run; i++) ops__next_segments(run, op, i, &seg);
    *tasks = all * heads * *deal;
    return most > 1 && seg.at + (size_t)seg.n * (size_t)(heads * *deal) * seg.size <= run->plan->n_parts;
}

/* A stage of attention in segments, or of the merges after it. */
typedef struct {
    const dev_op *op;
    int           deal;                               /* parts of the query heads of a K/V head */
    int           all;                                /* segments of all runs, for one part */
} ops_attend_stage;

/* Finds the run of a segment, where those of all runs lie one after the other; *segment is then counted in the run. */
static int ops__find_run(const dev_run *run, const dev_op *op, int *segment, ops_segments *seg) {
    for (int i = 0;; i++) {
        ops__next_segments(run, op, i, seg);
        if (*segment < seg->n) return i;
        *segment -= seg->n;
    }
}

/* A task is a segment of a run for one part; tasks of a part come one after the other. */
static void ops__attend_segment(const dev *dv, const void *stage, int task) {
    const ops_attend_stage *st = stage;
    ops_segments      seg = {.deal = st->deal};
    const int         part = task / st->all;
    int               segment = task % st->all;
    const int         i = ops__find_run(dv->run, st->op, &segment, &seg);
    const k_attn_args a = ops__attend_args(dv, st->op, i, part, st->deal);
    float            *to = dv->run->plan->parts + seg.at + ((size_t)part * (size_t)seg.n + (size_t)segment) * seg.size;
    k_attn_segment(&a, seg.first + segment, to, dv->scratch);
}

/* A task is a run for one part. */
static void ops__attend_merge(const dev *dv, const void *stage, int task) {
    const ops_attend_stage *st = stage;
    ops_segments      seg = {.deal = st->deal};
    const int         n_run = dv->run->plan->rows[st->op->rows].n_run, i = task % n_run, part = task / n_run;
    for (int k = 0; k <= i; k++) ops__next_segments(dv->run, st->op, k, &seg);
    const k_attn_args a = ops__attend_rows(dv, st->op, i, part, st->deal);
    const float      *parts = dv->run->plan->parts + seg.at + (size_t)part * (size_t)seg.n * seg.size;
    for (int r = 0; r < a.n_rows; r++) k_attn_merge(&a, r, parts, seg.n);
}

/* A phase of attention: where its tasks would be too few, all segments and then the merges. */
static void ops__attend_all(dev *dv, const dev_phase *ph) {
    ops_attend_stage st = {.op = &dv->run->plan->op[ph->first], .deal = 1};
    int              n = 0;
    if (!ops__apart(dv->run, st.op, &st.deal, &n)) {
        dev_rows(dv, ph);
        return;
    }
    const int parts = st.op->cache.kv->n_head * st.deal;
    st.all = n / parts;
    dev_begin(dv);
    dev_deal(dv, (dev_stage){.n = n, .fn = ops__attend_segment, .ctx = &st});
    dev_begin(dv);
    dev_deal(dv, (dev_stage){.n = dv->run->plan->rows[st.op->rows].n_run * parts, .fn = ops__attend_merge, .ctx = &st});
}

/* --- attention to chosen positions: an indexer scores all of them and takes the best (DeepSeek Sparse Attention, DeepSeek-AI
 * 2025; MiniMax Sparse Attention). It chooses blocks of `unit` positions, 1 or more. Which ones depends on the row and on what
 * its sequence has stored alone: of equal scores the earlier one is better --- */

/* The last of what row r of the batch sees and may choose: positions, or groups of them that are complete (-1: none is). */
static int ops__last(const dev_batch *b, const dev_op *op, int r) {
    return op->cache.pool ? (b->pos[r] + 1) / op->cache.pool - 1 : b->pos[r];
}

/* Blocks that row r of the batch sees a part of, its own among them; where op->cache.ends, whole ones and what follows them. */
static int ops__units(const dev_batch *b, const dev_op *op, int r) {
    return (ops__last(b, op, r) + op->cache.ends + op->cache.unit) / op->cache.unit;
}

/* The key of group i of `size` positions: it lies in the block of its last position. */
static uint8_t *ops__pooled_at(const dev_kv *kv, const int32_t *table, int size, int i) {
    const int block = (int)(((int64_t)(i + 1) * size - 1) / kv->block), first = (int)((int64_t)block * kv->block / size);
    return dev_block(kv->mem, table[block]) + kv->k_at + (size_t)(i - first) * kv->k_stride;
}

/* Whether it sees some of them alone. */
static bool ops__is_choosy(const dev_batch *b, const dev_op *op, int r) { return ops__units(b, op, r) > op->cache.top; }

/* Lists of a row. */
static int ops__lists(const dev_op *op, int n_kv) { return op->cache.by_head ? n_kv : 1; }

/* The best blocks of a row so far, in rising order. */
typedef struct {
    uint64_t *rank;                                   /* [2 * top] */
    int       n;
    uint64_t  least;                                  /* those below it are not among the best */
} ops_best;

/* Of two blocks the one with the larger score, or of equal ones the earlier, has the larger rank. One whose score is not a number
 * comes last. */
static uint64_t ops__rank(float score, int block) {
    uint32_t bits;
    score += 0.0f;                                    /* there is one zero */
    memcpy(&bits, &score, sizeof bits);
    bits = bits >> 31 ? ~bits : bits | UINT32_C(1) << 31;
    return (uint64_t)(score == score ? bits : 0) << 32 | (UINT32_MAX - (uint32_t)block);
}

enum { OPS_DIGIT = 8 };                               /* bits of a rank that are looked at together */

/* The k-th largest of n different ranks, or a number below it and above the next one: digit by digit, so that no order of them
 * takes longer than another. */
static uint64_t ops__kth(const uint64_t *rank, int n, int k) {
    uint64_t least = 0, known = 0;
    for (int shift = 64 - OPS_DIGIT; shift >= 0; shift -= OPS_DIGIT) {
        int count[1 << OPS_DIGIT] = {0}, digit = (1 << OPS_DIGIT) - 1;
        for (int i = 0; i < n; i++) count[rank[i] >> shift & ((1 << OPS_DIGIT) - 1)] += (rank[i] & known) == least;
        while (count[digit] < k) k -= count[digit--];
        least |= (uint64_t)digit << shift;
        known |= (uint64_t)((1 << OPS_DIGIT) - 1) << shift;
        if (count[digit] == k) break;
    }
    return least;
}

/* All but the best `top` are dropped. */
static void ops__cut_best(ops_best *b, int top) {
    int n = 0;
    if (b->n <= top) return;
    b->least = ops__kth(b->rank, b->n, top);
    for (int i = 0; i < b->n; i++)
        if (b->rank[i] >= b->least) b->rank[n++] = b->rank[i];
    b->n = n;
}

static void ops__add_best(ops_best *b, int top, uint64_t rank) {
    if (rank < b->least) return;
    if (b->n == 2 * top) ops__cut_best(b, top);
    if (rank >= b->least) b->rank[b->n++] = rank;
}

/* What a task of the indexer has of a thread's scratch. */
typedef struct {
    float    *s;                                      /* [heads][OPS_TILE] products, then in the first rows scores of each list */
    float    *most;                                   /* [lists] of the block at hand */
    ops_best *best;                                   /* [lists] */
    void     *attn;                                   /* of k_attn_ask() */
} ops_index;

static size_t ops__index_heads(const dev_op *op) { return ((size_t)op->n_head + 7) & ~(size_t)7; }

static size_t ops__index_scratch(const dev_op *op) {
    const size_t lists = (size_t)ops__lists(op, op->n_head);
    return 64 + ops__index_heads(op) * OPS_TILE * sizeof(float) + lists * (sizeof(ops_best) + sizeof(float) + 8) +
           lists * 2 * (size_t)op->cache.top * sizeof(uint64_t) + k_attn_scratch(op->n_head, op->n, 0);
}

static ops_index ops__index_carve(const dev_op *op, void *scratch) {
    const size_t lists = (size_t)ops__lists(op, op->n_head), top = (size_t)op->cache.top;
    uint8_t     *p = (uint8_t *)(((uintptr_t)scratch + 63) & ~(uintptr_t)63);
    ops_index    x = {.s = (float *)(void *)p};
    p += ops__index_heads(op) * OPS_TILE * sizeof *x.s;
    x.best = (ops_best *)(void *)p;
    p += lists * sizeof *x.best;
    for (size_t i = 0; i < lists; i++) x.best[i] = (ops_best){.rank = (uint64_t *)(void *)p + i * 2 * top};
    p += lists * 2 * top * sizeof(uint64_t);
    x.most = (float *)(void *)p;
    x.attn = p + lists * sizeof *x.most;
    return x;
}

/* The first row of s becomes the sum of all heads: products that are not negative, times the weight of the head; NULL: 1. */
static void ops__index_sum(float *s, const float *weight, int n_head) {
    float sum[OPS_TILE] = {0};
    for (int h = 0; h < n_head; h++) {
        const float by = weight ? weight[h] : 1;
        for (int i = 0; i < OPS_TILE; i++) sum[i] += by * (s[h * OPS_TILE + i] > 0 ? s[h * OPS_TILE + i] : 0);
    }
    memcpy(s, sum, sizeof sum);
}

/* The rank of a block that is among the best whatever its score. */
static uint64_t ops__first_rank(uint64_t rank) { return rank | (uint64_t)UINT32_MAX << 32; }

/* n scores, from position `base` on, of a row at position `pos`: a block has that of its last position. What follows the last
 * whole one, perhaps nothing, is taken as one more block. */
static void ops__index_ends(const dev_op *op, ops_best *best, const float *s, int base, int n, int pos) {
    const int unit = op->cache.unit, top = op->cache.top;
    for (int i = (unit - 1 - base % unit) % unit; i < n; i += unit) ops__add_best(best, top, ops__rank(s[i], (base + i) / unit));
    if (base + n == pos + 1) ops__add_best(best, top, ops__first_rank(ops__rank(0, (pos + 1) / unit)));
}

/* n scores of a list, from position `base` on, of a row at position `pos`. A block has the largest score of its positions. */
static void ops__index_take(const dev_op *op, ops_best *best, float *most, const float *s, int base, int n, int pos) {
    const int unit = op->cache.unit, last = pos / unit;
    for (int i = 0; i < n; i++) {
        const int at = base + i, block = at / unit;
        if (at % unit == 0 || s[i] > *most) *most = s[i];
        if (at % unit != unit - 1 && at != pos) continue;
        const uint64_t rank = ops__rank(*most, block);
        ops__add_best(best, op->cache.top, block > last - op->cache.local ? ops__first_rank(rank) : rank);
    }
}

/* The best blocks of row r of those in positions [from, end), from a multiple of `unit` and of OPS_TILE on. */
static ops_index ops__index_scan(const dev *dv, const dev_op *op, int r, int from, int end) {
    const dev_run  *run = dv->run;
    const dev_kv   *kv = op->cache.kv;
    const int       row = run->plan->rows[op->rows].row[r], pos = ops__last(run->batch, op, row), size = op->cache.pool;
    const uint8_t **views = run->views[dv->ith];
    k_attn_row     *rows = run->plan->thread[dv->ith].rows;
    const ops_index x = ops__index_carve(op, dv->scratch);
    int             n_blocks;
    const int32_t  *table = dev_table(run->batch, kv->group, row, &n_blocks);
    if (!size) ops__kv_views(kv, table, n_blocks, 0, views, views + run->n_views);
    for (int i = from; i < end && size; i++) views[i] = ops__pooled_at(kv, table, size, i);
    for (int h = 0; h < op->n_head; h++) rows[h] = (k_attn_row){.q = ops__in(dv, op, 0, r) + h * op->n, .end = end};
    const k_attn_args a = {.n_rows = op->n_head, .rows = rows, .hd_k = op->n, .type_k = kv->type_k, .type_v = kv->type_k,
                           .k_blocks = views, .v_blocks = views, .block = size ? 1 : kv->block,
                           .k_stride = kv->k_stride, .v_stride = kv->k_stride};
    k_attn_ask(&a, x.attn);
    for (int base = from; base < end; base += OPS_TILE) {
        k_attn_products(&a, base, x.s, x.attn);
        const int n = min_int(end - base, OPS_TILE);
        if (!op->cache.by_head) ops__index_sum(x.s, op->cache.ends ? NULL : ops__in(dv, op, 1, r), op->n_head);
        if (op->cache.ends) ops__index_ends(op, x.best, x.s, base, n, pos);
        for (int i = 0; i < ops__lists(op, op->n_head) && !op->cache.ends; i++)
            ops__index_take(op, &x.best[i], &x.most[i], x.s + i * OPS_TILE, base, n, pos);
    }
    for (int i = 0; i < ops__lists(op, op->n_head); i++) ops__cut_best(&x.best[i], op->cache.top);
    return x;
}

/* The numbers of the best blocks go to row r of the output. */
static void ops__index_give(const dev *dv, const dev_op *op, int r, const ops_index *x) {
    int32_t *to = dev_ints(ops__out(dv, op, 0, r));
    for (int i = 0; i < ops__lists(op, op->n_head); i++)
        for (int k = 0; k < op->cache.top; k++) *to++ = (int32_t)(UINT32_MAX - (uint32_t)x->best[i].rank[k]);
}

/* out: of a row that sees more than `top` blocks, the numbers of those that it attends to, in rising order; for each list. in[0]:
 * queries of the indexer, n_head of n values. in[1]: the weights of its heads; 0: each head has a list of its own, or
 * all weigh the same. */
static void ops__choose(const dev *dv, const dev_op *op, int r) {
    const int row = dv->run->plan->rows[op->rows].row[r];
    if (!ops__is_choosy(dv->run->batch, op, row)) return;
    const ops_index x = ops__index_scan(dv, op, r, 0, ops__last(dv->run->batch, op, row) + 1);
    ops__index_give(dv, op, r, &x);
}

/* A task is a row: it reads what others have stored. */
static int ops__choose_tasks(const dev_run *run, const dev_op *op) { return run->plan->rows[op->rows].n; }

/* --- the same where rows are too few for the threads: the positions of each are cut into spans, each with its best blocks, and
 * the best of these are those of the row. What a span leaves of a list begins with how many there are --- */

typedef struct {
    const dev_op *op;
    int           spans;                              /* of a row */
    size_t        each;                               /* numbers of a list of a span */
} ops_choose_stage;

static uint64_t *ops__span_at(const dev *dv, const ops_choose_stage *st, int task, int list) {
    const size_t lists = (size_t)ops__lists(st->op, st->op->n_head);
    return (uint64_t *)(void *)dv->run->plan->parts + ((size_t)task * lists + (size_t)list) * st->each;
}

/* Where span i of a row begins. */
static int ops__span_from(const ops_choose_stage *st, int pos, int i) {
    const int unit = st->op->cache.unit, step = unit % OPS_TILE ? unit * OPS_TILE : unit, n = pos / step + 1;
    return (int)((int64_t)n * i / st->spans) * step;
}

static void ops__choose_span(const dev *dv, const void *stage, int task) {
    const ops_choose_stage *st = stage;
    const int r = task / st->spans, i = task % st->spans, row = dv->run->plan->rows[st->op->rows].row[r],
              pos = ops__last(dv->run->batch, st->op, row);
    if (!ops__is_choosy(dv->run->batch, st->op, row)) return;
    const ops_index x = ops__index_scan(dv, st->op, r, ops__span_from(st, pos, i),
                                        min_int(ops__span_from(st, pos, i + 1), pos + 1));
    for (int k = 0; k < ops__lists(st->op, st->op->n_head); k++) {
        uint64_t *to = ops__span_at(dv, st, task, k);
        *to = (uint64_t)x.best[k].n;
        memcpy(to + 1, x.best[k].rank, (size_t)x.best[k].n * sizeof *to);
    }
}

static void ops__choose_merge(const dev *dv, const void *stage, int r) {
    const ops_choose_stage *st = stage;
    const dev_op           *op = st->op;
    if (!ops__is_choosy(dv->run->batch, op, dv->run->plan->rows[op->rows].row[r])) return;
    const ops_index x = ops__index_carve(op, dv->scratch);
    for (int k = 0; k < ops__lists(op, op->n_head); k++) {
        for (int i = 0; i < st->spans; i++) {
            const uint64_t *of = ops__span_at(dv, st, r * st->spans + i, k);
            for (uint64_t n = 1; n <= of[0]; n++) ops__add_best(&x.best[k], op->cache.top, of[n]);
        }
        ops__cut_best(&x.best[k], op->cache.top);
    }
    ops__index_give(dv, op, r, &x);
}

/* A phase of an indexer. */
static void ops__choose_all(dev *dv, const dev_phase *ph) {
    const dev_op    *op = &dv->run->plan->op[ph->first];
    const int        n = dv->run->plan->rows[op->rows].n;
    ops_choose_stage st = {.op = op, .spans = dv->p->n / n, .each = (size_t)op->cache.top + 1};
    bool             any = false;
    for (int r = 0; r < n; r++) any = any || ops__is_choosy(dv->run->batch, op, dv->run->plan->rows[op->rows].row[r]);
    if (!any || st.spans < 2) {
        dev_rows(dv, ph);
        return;
    }
    dev_begin(dv);
    dev_deal(dv, (dev_stage){.n = n * st.spans, .fn = ops__choose_span, .ctx = &st});
    dev_begin(dv);
    dev_deal(dv, (dev_stage){.n = n, .fn = ops__choose_merge, .ctx = &st});
}

/* --- attention to them --- */

/* Whether all rows of a run see everything before them: they are the rows of one task. */
static bool ops__is_plain_run(const dev_run *run, const dev_op *op, int i) {
    const dev_row_list *on = &run->plan->rows[op->rows];
    return !ops__is_choosy(run->batch, op, on->row[on->run[i + 1] - 1]);
}

/* Runs that see everything before them, and rows of the other runs. */
typedef struct { int runs, rows; } ops_chosen_count;

static ops_chosen_count ops__chosen_of(const dev_run *run, const dev_op *op) {
    const dev_row_list *on = &run->plan->rows[op->rows];
    ops_chosen_count    n = {0};
    for (int i = 0; i < on->n_run; i++)
        if (ops__is_plain_run(run, op, i)) n.runs++;
        else n.rows += on->run[i + 1] - on->run[i];
    return n;
}

/* The run, or the row, that is number k among these. */
static int ops__chosen_find(const dev_run *run, const dev_op *op, bool plain, int k) {
    const dev_row_list *on = &run->plan->rows[op->rows];
    for (int i = 0;; i++) {
        const int n = plain ? 1 : on->run[i + 1] - on->run[i];
        if (ops__is_plain_run(run, op, i) != plain) continue;
        if (k < n) return plain ? i : on->run[i] + k;
        k -= n;
    }
}

/* Into how many tasks the query heads of a K/V head are dealt for n rows alone. */
static int ops__chosen_deal(const dev_run *run, const dev_op *op, int n_rows) {
    const int heads = op->n_head / op->cache.group, all = op->cache.group;
    int       n = 1;
    while (n < all && (all / n > OPS_ATTEND_ROWS || n_rows * heads * n < run->p->n)) n = ops__next_divisor(all, n);
    return n;
}

static int ops__chosen_tasks(const dev_run *run, const dev_op *op) {
    const ops_chosen_count n = ops__chosen_of(run, op);
    const int              heads = op->n_head / op->cache.group;
    return heads * (n.rows * ops__chosen_deal(run, op, n.rows) + n.runs * ops__attend_deal(run, op, n.runs));
}

/* Fills k and v with where `head` has keys and values of the positions of a list, up to the row's own. Returns how many. */
static int ops__chosen_views(const dev_op *op, const int32_t *table, const int32_t *list, int pos, int head, const uint8_t **k,
                             const uint8_t **v) {
    const dev_kv *l = op->cache.kv;
    int           n = 0;
    for (int i = 0; i < op->cache.top; i++) {
        const int from = list[i] * op->cache.unit, end = min_int(from + op->cache.unit, pos + 1);
        for (int p = from; p < end; p++, n++) {
            const uint8_t *block = dev_block(l->mem, table[p / l->block]);
            const size_t   at = (size_t)head * (size_t)l->block + (size_t)(p % l->block);
            k[n] = block + l->k_at + at * l->k_stride;
            v[n] = block + l->v_at + at * l->v_stride;
        }
    }
    return n;
}

/* Attention of row r of the set, which chooses or not, by part `part` of the query heads. */
static void ops__attend_row(const dev *dv, const dev_op *op, int r, int part, int deal) {
    const dev_run   *run = dv->run;
    const dev_kv    *kv = op->cache.kv;
    const int        g = op->cache.group / deal, head = part / deal, row = run->plan->rows[op->rows].row[r],
                     pos = run->batch->pos[row];
    const bool       choosy = ops__is_choosy(run->batch, op, row);
    const uint8_t  **kb = run->views[dv->ith], **vb = kb + run->n_views;
    k_attn_row      *rows = run->plan->thread[dv->ith].rows;
    int              n = pos + 1, n_blocks;
    const int32_t   *table = dev_table(run->batch, kv->group, row, &n_blocks), *list = dev_ints(ops__in(dv, op, 1, r));
    if (choosy) n = ops__chosen_views(op, table, list + (op->cache.by_head ? head * op->cache.top : 0), pos, head, kb, vb);
    else ops__kv_views(kv, table, n_blocks, head, kb, vb);
    for (int i = 0, h = part * g; i < g; i++, h++)
        rows[i] = (k_attn_row){.q = ops__in(dv, op, 0, r) + h * kv->hd_k, .o = ops__out(dv, op, 0, r) + h * kv->hd_v, .end = n};
    const k_attn_args a = {.n_rows = g, .rows = rows, .hd_k = kv->hd_k, .hd_v = kv->hd_v, .scale = op->scale,
                           .softcap = op->cache.cap, .type_k = kv->type_k, .type_v = kv->type_v, .k_blocks = kb, .v_blocks = vb,
                           .block = choosy ? 1 : kv->block, .k_stride = kv->k_stride, .v_stride = kv->v_stride};
    k_attn(&a, dv->scratch);
}

/* out = attention of the queries in[0] over the cache, to the blocks that in[1] lists where there are more than `top`. Chosen
 * positions are taken as if they lay one after the other, so that up to `top` blocks the bits are those of OPS_ATTEND. A task is
 * a row and a K/V head, or a part of its query heads; or as in OPS_ATTEND a run that does not choose. */
static void ops__attend_chosen(const dev *dv, const dev_op *op, int task) {
    const ops_chosen_count n = ops__chosen_of(dv->run, op);
    const int              heads = op->n_head / op->cache.group, deal = ops__chosen_deal(dv->run, op, n.rows);
    if (task < n.rows * heads * deal) {
        ops__attend_row(dv, op, ops__chosen_find(dv->run, op, false, task % n.rows), task / n.rows, deal);
        return;
    }
    task -= n.rows * heads * deal;
    const int         wide = ops__attend_deal(dv->run, op, n.runs);
    const k_attn_args a = ops__attend_args(dv, op, ops__chosen_find(dv->run, op, true, task % n.runs), task / n.runs, wide);
    k_attn(&a, dv->scratch);
}

/* --- attention to groups of positions (DeepSeek-AI 2026, compressed attention): beside a window, a row sees one key for each
 * group of positions that is complete. What keys are made of is kept for each position, so that they do not depend on where a
 * step ends --- */

/* The key of the group that ends with the row's position, if one does: each value is the mean of `span` positions, weighted by a
 * softmax of their gates, then the norm with gain vec, then RoPE. Where a key is made of two groups, the earlier one has values
 * and gates of its own, the first n. A task is a row: it reads what others have stored. */
static void ops__pool(const dev *dv, const dev_op *op, int r) {
    const dev_batch *b = dv->run->batch;
    const int        row = dv->run->plan->rows[op->rows].row[r], pos = b->pos[row], n = op->n, size = op->pool.size,
                     span = op->pool.span, wide = n * ((span + size - 1) / size), rot = op->pool.n_rot;
    const dev_kv    *raw = op->pool.raw, *to = op->pool.to;
    float           *most = dv->scratch, *sum = most + n, *x = sum + n, *e = x + n, *cs = e + n;
    int              n_blocks;
    if ((pos + 1) % size) return;
    const int32_t   *table = dev_table(b, raw->group, row, &n_blocks);
    for (int i = 0; i < n; i++) most[i] = -INFINITY, sum[i] = x[i] = 0;
    for (int turn = 0; turn < 2; turn++)
        for (int p = max_int(pos + 1 - span, 0); p <= pos; p++) {
            const int      at = p > pos - size ? wide - n : 0;
            const uint8_t *block = dev_block(raw->mem, table[p / raw->block]);
            const size_t   in = (size_t)(p % raw->block);
            const float   *kv = (const float *)(const void *)(block + raw->k_at + in * raw->k_stride) + at;
            const float   *gate = (const float *)(const void *)(block + raw->v_at + in * raw->v_stride) + at;
            k_add(e, gate, op->pool.place + (size_t)(p % size) * (size_t)wide + at, n);
            if (!turn) {
                for (int i = 0; i < n; i++) most[i] = e[i] > most[i] ? e[i] : most[i];
                continue;
            }
            k_axpy(e, most, -1, n);
            k_activate(K_EXP, e, NULL, n);
            k_add(sum, sum, e, n);
            k_mul(e, e, kv, n);
            k_add(x, x, e, n);
        }
    for (int i = 0; i < n; i++) x[i] /= sum[i];
    k_rms_norm(x, op->vec, op->scale, n, x);
    for (int i = 0; i < rot / 2; i++) {
        const double angle = (pos + 1 - size) * op->pool.freq[i];
        cs[2 * i] = (float)cos(angle) * op->pool.mscale;
        cs[2 * i + 1] = (float)sin(angle) * op->pool.mscale;
    }
    k_rope(x + n - rot, 1, n, rot, K_ROPE_PAIRS, cs);
    ops__turn(to, x, 1);
    k_kv_store(to->type_k, x, ops__pooled_at(to, dev_table(b, to->group, row, &n_blocks), size, (pos + 1) / size - 1), n);
}

static int ops__attend_pooled_tasks(const dev_run *run, const dev_op *op) {
    const int n = run->plan->rows[op->rows].n;
    return n * ops__chosen_deal(run, op, n);
}

/* out = attention of the queries in[0] to the row's window and to keys of groups: all that are complete, or those that in[1]
 * lists where there are more than `top`; top 0: all. Keys are values. A task is a row, or a part of its heads. */
static void ops__attend_pooled(const dev *dv, const dev_op *op, int task) {
    const dev_run   *run = dv->run;
    const dev_kv    *kv = op->cache.kv, *of = op->cache.pooled;
    const int        n_rows = run->plan->rows[op->rows].n, r = task % n_rows, deal = ops__chosen_deal(run, op, n_rows),
                     g = op->n_head / deal, head = task / n_rows * g, row = run->plan->rows[op->rows].row[r],
                     pos = run->batch->pos[row], size = op->cache.pool;
    const bool       choosy = op->cache.top && ops__is_choosy(run->batch, op, row);
    const int        groups = !size ? 0 : choosy ? op->cache.top : ops__last(run->batch, op, row) + 1;
    const uint8_t  **kb = run->views[dv->ith];
    k_attn_row      *rows = run->plan->thread[dv->ith].rows;
    int              n = 0, n_blocks;
    const int32_t   *table = dev_table(run->batch, kv->group, row, &n_blocks);
    for (int p = max_int(pos + 1 - op->cache.window, 0); p <= pos; p++)
        kb[n++] = dev_block(kv->mem, table[p / kv->block]) + kv->k_at + (size_t)(p % kv->block) * kv->k_stride;
    if (groups) table = dev_table(run->batch, of->group, row, &n_blocks);
    for (int i = 0; i < groups; i++)
        kb[n++] = ops__pooled_at(of, table, size, choosy ? dev_ints(ops__in(dv, op, 1, r))[i] : i);
    for (int i = 0; i < g; i++)
        rows[i] = (k_attn_row){.q = ops__in(dv, op, 0, r) + (head + i) * kv->hd_k,
                               .o = ops__out(dv, op, 0, r) + (head + i) * kv->hd_v, .end = n};
    const k_attn_args a = {.n_rows = g, .rows = rows, .hd_k = kv->hd_k, .hd_v = kv->hd_v, .scale = op->scale,
                           .sinks = ops__by_head(dv, op->cache.sinks, head, g, g, 0), .type_k = kv->type_k, .type_v = kv->type_k,
                           .k_blocks = kb, .v_blocks = kb, .block = 1, .k_stride = kv->k_stride, .v_stride = kv->k_stride};
    k_attn(&a, dv->scratch);
}

/* --- hyper-connections (Xie et al. 2026): a row has n_head streams of n values, which each block reads as one and writes as
 * all --- */

/* out: n_head coefficients for what a block reads; of a block, n_head for what it gives, and the matrix of n_head rows that mixes
 * the streams, whose rows and columns sum to 1 after `turns` normalisations. in[0]: what they are made of, vec is added. */
static void ops__hyper(const dev *dv, const dev_op *op, int r) {
    const int    A = op->n_head, turns = op->hyper.turns;
    const float *x = ops__in(dv, op, 0, r), *base = op->vec, *scale = op->hyper.scale, eps = op->scale;
    float       *y = ops__out(dv, op, 0, r), *mix = y + 2 * A;
    for (int i = 0; i < A; i++) y[i] = k_sigmoid(x[i] * scale[0] + base[i]) + eps;
    if (!turns) return;
    for (int i = A; i < 2 * A; i++) y[i] = 2 * k_sigmoid(x[i] * scale[1] + base[i]);
    for (int i = 0; i < A * A; i++) mix[i] = x[2 * A + i] * scale[2] + base[2 * A + i];
    for (int i = 0; i < A; i++) k_softmax(mix + i * A, A);
    for (int i = 0; i < A * A; i++) mix[i] += eps;
    for (int turn = 0; turn < 2 * turns - 1; turn++) {
        const int along = turn % 2 ? 1 : A, across = turn % 2 ? A : 1;   /* columns come first */
        for (int i = 0; i < A; i++) {
            float sum = eps;
            for (int k = 0; k < A; k++) sum += mix[i * across + k * along];
            for (int k = 0; k < A; k++) mix[i * across + k * along] /= sum;
        }
    }
}

/* out = the sum of the streams in[0] by the first coefficients of in[1]. */
static void ops__collapse(const dev *dv, const dev_op *op, int r) {
    const float *x = ops__in(dv, op, 0, r), *c = ops__in(dv, op, 1, r);
    float       *y = ops__out(dv, op, 0, r);
    memset(y, 0, (size_t)op->n * sizeof *y);
    for (int i = 0; i < op->n_head; i++) k_axpy(y, x + i * op->n, c[i], op->n);
}

/* out: each stream is in[0] times its coefficient of in[2], and the streams in[1] by its column of the matrix there. */
static void ops__expand(const dev *dv, const dev_op *op, int r) {
    const int    A = op->n_head;
    const float *of = ops__in(dv, op, 0, r), *x = ops__in(dv, op, 1, r), *c = ops__in(dv, op, 2, r), *mix = c + 2 * A;
    float       *y = ops__out(dv, op, 0, r);
    memset(y, 0, (size_t)op->n * (size_t)A * sizeof *y);
    for (int i = 0; i < A; i++, y += op->n) {
        k_axpy(y, of, c[A + i], op->n);
        for (int k = 0; k < A; k++) k_axpy(y, x + k * op->n, mix[k * A + i], op->n);
    }
}

/* out = in[0] + (in[1] - in[0]) times vec, or in[2] where there is none. */
static void ops__lerp(const dev *dv, const dev_op *op, int r) {
    const float *x = ops__in(dv, op, 0, r), *to = ops__in(dv, op, 1, r), *by = op->vec ? op->vec : ops__in(dv, op, 2, r);
    float       *y = ops__out(dv, op, 0, r);
    for (int i = 0; i < op->n; i++) y[i] = fmaf(to[i] - x[i], by[i], x[i]);
}

/* out: each head grows by in[0] times its number in in[1]. */
static void ops__add_heads(const dev *dv, const dev_op *op, int r) {
    const float *x = ops__in(dv, op, 0, r), *by = ops__in(dv, op, 1, r);
    float       *y = ops__out(dv, op, 0, r);
    for (int h = 0; h < op->n_head; h++) k_axpy(y + h * op->n, x + h * op->n, by[h], op->n);
}

/* --- recurrent layers: each position changes a state, which a slot of the cache keeps for the sequence --- */

/* The way of one sequence through a step, in one layer: positions [at, p) are in the log of its slot, [p, end) are rows of the
 * batch. */
typedef struct {
    const dev_state *st;
    int      first;                                   /* row of position p */
    int      at;                                      /* position at which the slot is that is read */
    int      p;                                       /* the first position that is a row */
    int      end;                                     /* the position after the last row */
    int      to;                                      /* position at which the slot will be that is written */
    int      snap_at;                                 /* the same of the snapshot; -1: none is made */
    uint8_t *in;                                      /* the slot that is read; NULL: zeros */
    uint8_t *out;                                     /* the slot that is written */
    uint8_t *snap;                                    /* the snapshot; NULL: none is made */
} ops_walk;

static ops_walk ops__walk_of(const dev *dv, const dev_op *op, int seq) {
    const dev_batch *b = dv->run->batch;
    const dev_state *st = op->state.st;
    const int       *at = &dv->run->plan->seq_at[seq];
    const k_turn     t = b->turn[seq];
    return (ops_walk){.st = st, .first = at[0], .at = t.at, .p = b->pos[at[0]], .end = b->pos[at[1] - 1] + 1, .to = t.to,
                      .snap_at = t.snap < 0 ? -1 : t.snap_at,
                      .in = t.in < 0 ? NULL : dev_block(st->mem, t.in), .out = dev_block(st->mem, t.out),
                      .snap = t.snap < 0 ? NULL : dev_block(st->mem, t.snap)};
}

static float *ops__floats(uint8_t *p) { return (float *)(void *)p; }

/* Where a slot keeps the inputs of position t; its gates; the sums of a head. */
static float *ops__ring(const dev_state *st, uint8_t *slot, int t) {
    return ops__floats(slot + st->ring_at) + (size_t)(t % (st->taps - 1 + st->log)) * (size_t)st->width;
}
static float *ops__log(const dev_state *st, uint8_t *slot, int t) {
    return ops__floats(slot + st->gate_at) + (size_t)(t % st->log) * ((size_t)st->n_gate[0] + (size_t)st->n_gate[1]);
}
static float *ops__sums(const dev_state *st, uint8_t *slot, int head) {
    return ops__floats(slot + st->sum_at) + (size_t)head * (size_t)st->d_k * (size_t)st->d_v;
}

/* The inputs of position t; NULL: zeros. */
static const float *ops__raw(const dev *dv, const dev_op *op, const ops_walk *w, int t) {
    if (t >= w->p) return ops__row(dv, op->in[0], w->first + t - w->p) + op->state.at;
    return t < 0 || !w->in ? NULL : ops__ring(w->st, w->in, t);
}

enum { OPS_DELTA_ROWS = 32 };                         /* positions whose vectors are computed together */

/* y = the convolution of n channels from `ch` on, for `rows` positions from t on, ld values apart. */
static void ops__convolve(const dev *dv, const dev_op *op, const ops_walk *w, int t, int rows, int ch, int n, bool silu,
                          float *y, size_t ld) {
    const float *x[OPS_DELTA_ROWS + DEV_TAPS];
    const int    taps = w->st->taps;
    for (int i = 0; i < rows + taps - 1; i++) {
        const float *raw = ops__raw(dv, op, w, t - taps + 1 + i);
        x[i] = raw ? raw + ch : NULL;
    }
    k_conv(x, op->vec + (size_t)ch * (size_t)taps, op->state.bias ? op->state.bias + ch : NULL, taps, n, rows, silu, y, ld);
}

enum { OPS_CONV_CHANNELS = 256 };                     /* channels of a task */
_Static_assert((int)OPS_DELTA_ROWS >= (int)DEV_ATTN_ROWS, "a run of rows is convolved together");

static int ops__conv_strips(const dev_op *op) { return (op->n + OPS_CONV_CHANNELS - 1) / OPS_CONV_CHANNELS; }

/* Each run of rows of one sequence, and of them some channels. */
static int ops__conv_tasks(const dev_run *run, const dev_op *op) {
    return run->plan->rows[op->rows].n_run * ops__conv_strips(op);
}

/* out = the convolution, with the weights vec and state.bias, of the inputs in[0] of the row and of the positions before it; its
 * SiLU where state.silu. */
static void ops__conv(const dev *dv, const dev_op *op, int task) {
    const dev_batch    *b = dv->run->batch;
    const dev_row_list *on = &dv->run->plan->rows[op->rows];
    const int           strips = ops__conv_strips(op), run = task / strips, ch = task % strips * OPS_CONV_CHANNELS;
    const ops_walk      w = ops__walk_of(dv, op, b->seq[on->row[on->run[run]]]);
    for (int r = on->run[run], n; r < on->run[run + 1]; r += n) {
        for (n = 1; r + n < on->run[run + 1] && on->row[r + n] == on->row[r] + n;) n++;
        ops__convolve(dv, op, &w, b->pos[on->row[r]], n, ch, min_int(op->n - ch, OPS_CONV_CHANNELS), op->state.silu,
                      ops__out(dv, op, 0, r) + ch, dv->run->plan->buf[op->out[0]].a.ldx);
    }
}

static int ops__row_tasks(const dev_run *run, const dev_op *op) { return run->plan->rows[op->rows].n; }

/* out = the inputs in[0] of the position before the row's, zeros before a text. */
static void ops__shift(const dev *dv, const dev_op *op, int r) {
    const dev_batch *b = dv->run->batch;
    const int        row = ops__which(dv, op, r);
    const ops_walk   w = ops__walk_of(dv, op, b->seq[row]);
    const float     *x = ops__raw(dv, op, &w, b->pos[row] - 1);
    float           *y = ops__out(dv, op, 0, r);
    if (x) memcpy(y, x, (size_t)op->n * sizeof *y);
    else memset(y, 0, (size_t)op->n * sizeof *y);
}

/* out: for each head of op->state.grams the n values of the row that it finds for the position's n-gram. in[0]: tokens, which
 * slots keep. A stop ends what later tokens see, but not what it sees itself. */
static void ops__grams(const dev *dv, const dev_op *op, int r) {
    const dev_batch *b = dv->run->batch;
    const dev_grams *g = op->state.grams;
    const dev_mat   *w = op->state.table;
    const int        row = ops__which(dv, op, r);
    const ops_walk   walk = ops__walk_of(dv, op, b->seq[row]);
    uint64_t         hash = 0;
    bool             over = false;
    float           *y = ops__out(dv, op, 0, r);
    for (int i = 0; i < g->n; i++) {
        const float   *x = over ? NULL : ops__raw(dv, op, &walk, b->pos[row] - i);
        const uint64_t token = x && *x >= 1 ? (uint64_t)*x - 1 : (uint64_t)g->stop;
        over = i > 0 && token == (uint64_t)g->stop;
        hash ^= token * g->factor[i];
        for (int h = (i - 1) * g->each; i > 0 && h < i * g->each; h++, y += op->n) {
            k_types[w->type].dequant(w->data + (size_t)(g->first[h] + hash % g->rows[h]) * w->row_bytes, y, op->n);
            if (w->scale) k_scale(y, w->scale[0], op->n);
        }
    }
}

/* A task of OPS_DELTA: columns [col, col + cols) of one value head of one sequence. Its vectors have a row for each position. */
typedef struct {
    ops_walk w;
    int      head;                                    /* of values */
    int      key;                                     /* head of keys */
    int      col;                                     /* the first of its columns */
    int      cols;                                    /* columns */
    float   *q;                                       /* [OPS_DELTA_ROWS][d_k] */
    float   *k;                                       /* [OPS_DELTA_ROWS][d_k] */
    float   *v;                                       /* [OPS_DELTA_ROWS][d_v] */
    float   *decay;                                   /* [OPS_DELTA_ROWS] */
    float   *beta;                                    /* [OPS_DELTA_ROWS] */
    float   *own;                                     /* [d_k * d_v] sums after w.to, which no slot keeps */
    /* of rules other than RULE_DELTA */
    float   *p;                                       /* [OPS_DELTA_ROWS][d_k] correction keys */
    float   *r;                                       /* [OPS_DELTA_ROWS][d_k] second keys */
    float   *fall;                                    /* [OPS_DELTA_ROWS][d_k] decays */
    float   *dt;                                      /* [OPS_DELTA_ROWS][d_v] steps */
    float   *kq;                                      /* [OPS_DELTA_ROWS] */
    float   *rq;                                      /* [OPS_DELTA_ROWS] */
} ops_delta_task;

static size_t ops__delta_scratch(dev_rule rule, int d_k, int d_v) {
    const size_t more = rule == RULE_DELTA ? 0 : 3 * (size_t)d_k + (size_t)d_v + 2;
    return mem_size(OPS_DELTA_ROWS * (2 * (size_t)d_k + (size_t)d_v + 2 + more) + (size_t)d_k * (size_t)d_v, sizeof(float));
}

/* Tasks for each head: one, or as many of its strips of columns as make an even share for every thread. */
static int ops__delta_shares(const dev_run *run, const dev_op *op) {
    const int strips = (op->n + K_DELTA_COLS - 1) / K_DELTA_COLS, heads = run->batch->n_seq * op->n_head;
    int       shares = 1;
    while (shares < strips && 10 * heads * shares <= 9 * ((heads * shares + run->p->n - 1) / run->p->n) * run->p->n) shares *= 2;
    return min_int(shares, strips);
}

static int ops__delta_tasks(const dev_run *run, const dev_op *op) {
    return run->batch->n_seq * op->n_head * ops__delta_shares(run, op);
}

static ops_delta_task ops__delta_task_of(const dev *dv, const dev_op *op, int task) {
    const dev_state *st = op->state.st;
    const int        shares = ops__delta_shares(dv->run, op), strips = (op->n + K_DELTA_COLS - 1) / K_DELTA_COLS,
                     share = task % shares;
    ops_delta_task   d = {.w = ops__walk_of(dv, op, task / shares / st->n_v), .head = task / shares % st->n_v};
    const int        end = strips * (share + 1) / shares * K_DELTA_COLS;
    d.key = op->state.grouped ? d.head / (st->n_v / st->n_k) : d.head % st->n_k;
    d.col = strips * share / shares * K_DELTA_COLS;
    d.cols = min_int(end, st->d_v) - d.col;
    d.q = dv->scratch;
    d.k = d.q + OPS_DELTA_ROWS * st->d_k;
    d.v = d.k + OPS_DELTA_ROWS * st->d_k;
    d.decay = d.v + OPS_DELTA_ROWS * st->d_v;
    d.beta = d.decay + OPS_DELTA_ROWS;
    d.own = d.beta + OPS_DELTA_ROWS;
    d.p = d.own + (size_t)st->d_k * (size_t)st->d_v;
    d.r = d.p + OPS_DELTA_ROWS * st->d_k;
    d.fall = d.r + OPS_DELTA_ROWS * st->d_k;
    d.dt = d.fall + OPS_DELTA_ROWS * st->d_k;
    d.kq = d.dt + OPS_DELTA_ROWS * st->d_v;
    d.rq = d.kq + OPS_DELTA_ROWS;
    return d;
}

/* The gates alpha, i = 0, or beta, i = 1, of the value heads at position t. */
static const float *ops__gates(const dev *dv, const dev_op *op, const ops_walk *w, int i, int t) {
    if (t >= w->p) return ops__row(dv, op->in[1 + i], w->first + t - w->p);
    return ops__log(w->st, w->in, t) + i * w->st->n_gate[0];
}

/* y = the gates i, as above, of the task's head at n positions from t on, each plus `more`. */
static void ops__head_gates(const dev *dv, const dev_op *op, const ops_delta_task *d, int i, int t, int n, float more, float *y) {
    for (int j = 0; j < n; j++) y[j] = ops__gates(dv, op, &d->w, i, t + j)[d->head] + more;
}

/* x = exp(rate * softplus(x)), n decays. */
static void ops__decays(float *x, float rate, int n) {
    k_activate(K_SOFTPLUS, x, NULL, n);
    k_scale(x, rate, n);
    k_activate(K_EXP, x, NULL, n);
}

/* What RULE_KDA makes of the key, and of the query q, NULL: there is none, of position t, number i of the vectors. */
static void ops__kda_vectors(const dev *dv, const dev_op *op, const ops_delta_task *d, int t, int i, const float *q) {
    const int    n = d->w.st->d_k, off = d->head * n;
    const size_t at = (size_t)i * (size_t)n;
    const float *k = d->k + at;
    float       *fall = d->fall + at;
    k_add(fall, ops__gates(dv, op, &d->w, 0, t) + off, op->state.step + off, n);
    ops__decays(fall, op->state.decay[d->head], n);
    k_mul(d->p + at, k, fall, n);
    d->kq[i] = q ? k_dot(k, q, n) : 0;
    d->rq[i] = 0;
    if (q) k_mul(d->q + at, q, fall, n);
}

/* Queries, keys, values and gates of n positions from t on. Positions of the log have no queries. */
static void ops__delta_vectors(const dev *dv, const dev_op *op, const ops_delta_task *d, int t, int n) {
    const dev_state *st = d->w.st;
    const int        ask = max_int(d->w.p - t, 0);
    const size_t     ld = (size_t)st->d_k, d_v = (size_t)st->d_v;
    if (ask < n) ops__convolve(dv, op, &d->w, t + ask, n - ask, d->key * st->d_k, st->d_k, true, d->q + (size_t)ask * ld, ld);
    ops__convolve(dv, op, &d->w, t, n, (st->n_k + d->key) * st->d_k, st->d_k, true, d->k, ld);
    ops__convolve(dv, op, &d->w, t, n, 2 * st->n_k * st->d_k + d->head * st->d_v + d->col, d->cols, true, d->v + d->col, d_v);
    ops__head_gates(dv, op, d, 1, t, n, 0, d->beta);
    k_activate(K_SIGMOID, d->beta, NULL, n);
    if (op->state.rule == RULE_DELTA) {
        ops__head_gates(dv, op, d, 0, t, n, op->state.step[d->head], d->decay);
        ops__decays(d->decay, op->state.decay[d->head], n);
    }
    for (int i = 0; i < n; i++) {
        float *q = i < ask ? NULL : d->q + (size_t)i * ld;
        k_l2_norm(d->k + (size_t)i * ld, op->scale, st->d_k);
        if (q) {
            k_l2_norm(q, op->scale, st->d_k);
            k_scale(q, 1.0f / sqrtf((float)st->d_k), st->d_k);
        }
        if (op->state.rule == RULE_KDA) ops__kda_vectors(dv, op, d, t + i, i, q);
    }
}

/* Mamba-2 (Dao and Gu 2024): the gate is the step of a head. */
static void ops__ssd_gates(const dev *dv, const dev_op *op, const ops_delta_task *d, int t, int n) {
    ops__head_gates(dv, op, d, 0, t, n, op->state.step[d->head], d->beta);
    k_activate(K_SOFTPLUS, d->beta, NULL, n);
    for (int i = 0; i < n; i++) d->decay[i] = op->state.decay[d->head] * d->beta[i];
    k_activate(K_EXP, d->decay, NULL, n);
}

/* A row has values, keys, queries. */
static void ops__ssd_vectors(const dev_op *op, const ops_delta_task *d, const float *row, int i, bool out) {
    const dev_state *st = d->w.st;
    const size_t     d_k = (size_t)st->d_k, d_v = (size_t)st->d_v, at = (size_t)i * d_k, n_k = (size_t)st->n_k;
    const float     *x = row + (size_t)d->head * d_v, *k = row + (size_t)st->n_v * d_v + (size_t)d->key * d_k, *q = k + n_k * d_k;
    memcpy(d->v + (size_t)i * d_v, x, d_v * sizeof *x);
    memcpy(d->k + at, k, d_k * sizeof *k);
    for (size_t j = 0; j < d_k; j++) d->fall[at + j] = d->decay[i];
    d->kq[i] = out ? k_dot(k, q, st->d_k) : 0;
    d->rq[i] = op->state.skip[d->head];
    if (out) k_mul(d->q + at, d->fall + at, q, st->d_k);
}

/* Mamba (Gu and Dao 2023): the same with a step for each channel, `gate`. */
static void ops__scan_vectors(const dev_op *op, const ops_delta_task *d, const float *row, const float *gate, int i) {
    const dev_state *st = d->w.st;
    const size_t     d_k = (size_t)st->d_k, d_v = (size_t)st->d_v, first = (size_t)d->head * d_v, from = first + (size_t)d->col;
    const float     *k = row + (size_t)st->n_v * d_v;
    float           *dt = d->dt + (size_t)i * d_v + d->col;
    memcpy(d->v + (size_t)i * d_v, row + first, d_v * sizeof *row);
    memcpy(d->k + (size_t)i * d_k, k, d_k * sizeof *k);
    memcpy(d->q + (size_t)i * d_k, k + d_k, d_k * sizeof *k);
    k_add(dt, gate + from, op->state.step + from, d->cols);
    k_activate(K_SOFTPLUS, dt, NULL, d->cols);
}

/* RWKV-7 (Peng et al. 2025): a row has queries, decays, keys, values, rates, each of all heads. */
static void ops__wkv7_vectors(const dev *dv, const dev_op *op, const ops_delta_task *d, const float *row, int t, int i) {
    const dev_state *st = d->w.st;
    const int        n = st->d_k, off = d->head * n, all = st->n_v * n;
    const size_t     at = (size_t)i * (size_t)n;
    const float     *r = row + off, *k = r + 2 * all, *v = r + 3 * all;
    float           *q = d->q + at, *fix = d->p + at, *b = d->k + at, *key = d->r + at, *fall = d->fall + at;
    memcpy(d->v + at, v, (size_t)n * sizeof *v);
    k_add(fall, r + all, op->state.step + off, n);
    k_activate(K_SIGMOID, fall, NULL, n);
    k_scale(fall, -0.606531f, n);
    k_activate(K_EXP, fall, NULL, n);
    k_add(b, r + 4 * all, op->state.rate + off, n);
    k_activate(K_SIGMOID, b, NULL, n);
    k_mul(fix, k, op->state.key[0] + off, n);
    k_l2_norm(fix, op->scale, n);
    for (int j = 0; j < n; j++) key[j] = k[j] * fmaf(b[j] - 1, op->state.key[1][off + j], 1);
    k_mul(b, b, fix, n);
    d->beta[i] = 1;
    d->kq[i] = d->rq[i] = 0;
    if (t < d->w.p) return;
    if (!d->col) {
        k_mul(q, r, op->state.share + off, n);
        ops__row(dv, op->out[1], d->w.first + t - d->w.p)[d->head] = k_dot(q, key, n);
    }
    d->kq[i] = k_dot(r, b, n);
    d->rq[i] = k_dot(r, key, n);
    k_mul(q, r, fall, n);
}

/* RWKV-6 (Peng et al. 2024) and the gated linear attention of its kin: a row has queries, decays, keys, values, the last two of
 * key heads. */
static void ops__wkv6_vectors(const dev_op *op, const ops_delta_task *d, const float *row, int i, bool out) {
    const dev_state *st = d->w.st;
    const int        n = st->d_k, off = d->head * n, all = st->n_v * n, key = d->key * n;
    const size_t     at = (size_t)i * (size_t)n;
    const bool       gla = op->state.rule == RULE_GLA;
    const float     *r = row + off, *v = row + 2 * all + st->n_k * n + key;
    float           *q = d->q + at, *k = d->k + at, *fall = d->fall + at;
    memcpy(d->v + at, v, (size_t)n * sizeof *v);
    memcpy(k, row + 2 * all + key, (size_t)n * sizeof *k);
    k_add(fall, r + all, op->state.step + off, n);
    k_activate(K_EXP, fall, NULL, n);
    k_scale(fall, -1, n);
    k_activate(K_EXP, fall, NULL, n);
    for (int j = 0; gla && j < n; j++) k[j] *= 1 - fall[j];
    d->beta[i] = 1;
    d->kq[i] = d->rq[i] = 0;
    if (!out) return;
    if (gla) {
        memcpy(q, r, (size_t)n * sizeof *q);
        k_scale(q, 1 / sqrtf((float)n), n);
        d->kq[i] = k_dot(q, k, n);
        k_mul(q, q, fall, n);
    } else {
        k_mul(q, k, op->state.skip + off, n);
        d->kq[i] = k_dot(q, r, n);
        memcpy(q, r, (size_t)n * sizeof *q);
    }
}

/* Vectors and numbers of n positions from t on for rules other than RULE_DELTA and RULE_KDA. Those of the log have no queries. */
static void ops__rule_vectors(const dev *dv, const dev_op *op, const ops_delta_task *d, int t, int n) {
    if (op->state.rule == RULE_SSD) ops__ssd_gates(dv, op, d, t, n);
    for (int i = 0; i < n; i++) {
        const float *row = ops__raw(dv, op, &d->w, t + i);
        switch (op->state.rule) {
        case RULE_SSD: ops__ssd_vectors(op, d, row, i, t + i >= d->w.p); break;
        case RULE_SCAN: ops__scan_vectors(op, d, row, ops__gates(dv, op, &d->w, 0, t + i), i); break;
        case RULE_WKV7: ops__wkv7_vectors(dv, op, d, row, t + i, i); break;
        case RULE_GLA: case RULE_WKV6: ops__wkv6_vectors(op, d, row, i, t + i >= d->w.p); break;
        case RULE_DELTA: case RULE_KDA: break;
        }
    }
}

/* The next position after t, at most `most`, where the sums go elsewhere: they have all that the slot keeps, or all of the
 * snapshot. */
static int ops__delta_until(const ops_walk *w, int t, int most) {
    const int at[] = {w->to, w->snap_at};
    for (int i = 0; i < 2; i++)
        if (at[i] > t && at[i] < most) most = at[i];
    return most;
}

/* Some positions that columns of a head go through. */
typedef struct {
    float *s;                                         /* their sums */
    int    c, cols;                                   /* the first column; columns */
    size_t at;                                        /* number of the first position among the vectors */
    int    n;                                         /* positions */
    int    fold;                                      /* of these, those of the log */
    bool   peek;                                      /* the sums do not take in the last one */
    float *out;                                       /* of the first one that is a row */
    size_t ld_out;                                    /* values between two rows */
} ops_pass;

static void ops__pass_delta(const ops_delta_task *d, const ops_pass *p, size_t d_k, size_t d_v) {
    k_delta(&(k_delta_args){.s = p->s, .q = d->q + p->at * d_k, .k = d->k + p->at * d_k, .v = d->v + p->at * d_v + p->c,
                            .decay = d->decay + p->at, .beta = d->beta + p->at, .o = p->out,
                            .ld_s = (size_t)p->cols, .ld_qk = d_k, .ld_v = d_v, .ld_gate = 1, .ld_o = p->ld_out,
                            .d_k = (int)d_k, .n = p->cols, .n_pos = p->n, .fold = p->fold, .peek = p->peek});
}

static void ops__pass_scan(const dev_op *op, const ops_delta_task *d, const ops_pass *p, size_t d_k, size_t d_v) {
    const size_t ch = (size_t)d->head * d_v + (size_t)p->c;
    k_scan(&(k_scan_args){.s = p->s, .a = op->state.decay + ch * d_k, .q = d->q + p->at * d_k, .k = d->k + p->at * d_k,
                          .v = d->v + p->at * d_v + p->c, .dt = d->dt + p->at * d_v + p->c, .skip = op->state.skip + ch,
                          .o = p->out, .ld = d_k, .ld_v = d_v, .ld_o = p->ld_out, .d_k = (int)d_k, .n = p->cols, .n_pos = p->n,
                          .fold = p->fold, .peek = p->peek});
}

static void ops__pass_outer(const dev_op *op, const ops_delta_task *d, const ops_pass *p, size_t d_k, size_t d_v) {
    const bool second = op->state.rule == RULE_WKV7, fix = second || op->state.rule == RULE_KDA;
    k_outer(&(k_outer_args){.s = p->s, .q = d->q + p->at * d_k, .p = fix ? d->p + p->at * d_k : NULL, .k = d->k + p->at * d_k,
                            .w = d->fall + p->at * d_k, .r = second ? d->r + p->at * d_k : NULL, .v = d->v + p->at * d_v + p->c,
                            .beta = d->beta + p->at, .kq = d->kq + p->at, .rq = d->rq + p->at, .o = p->out,
                            .ld_s = (size_t)p->cols, .ld = d_k, .ld_v = d_v, .ld_o = p->ld_out, .d_k = (int)d_k, .n = p->cols,
                            .n_pos = p->n, .fold = p->fold, .peek = p->peek});
}

/* The sums s of columns [c, c + cols) go through positions [t, next), the first of which is number i of the vectors; peek: but
 * for the last. */
static void ops__delta_pass(const dev *dv, const dev_op *op, const ops_delta_task *d, float *s, int c, int cols, int t,
                            int next, int i, bool peek) {
    const ops_walk *w = &d->w;
    const dev_acts *o = &dv->run->plan->buf[op->out[0]].a;
    const size_t    d_k = (size_t)w->st->d_k, d_v = (size_t)w->st->d_v;
    const int       fold = t >= w->p ? 0 : next < w->p ? next - t : w->p - t, row = w->first + t + fold - w->p;
    const ops_pass  p = {.s = s, .c = c, .cols = cols, .at = (size_t)i, .n = next - t, .fold = fold, .peek = peek,
                         .ld_out = o->ldx,
                         .out = fold == next - t ? NULL : o->x + (size_t)row * o->ldx + d->head * (int)d_v + c};
    if (op->state.rule == RULE_DELTA) ops__pass_delta(d, &p, d_k, d_v);
    else (op->state.rule == RULE_SCAN ? ops__pass_scan : ops__pass_outer)(op, d, &p, d_k, d_v);
}

/* One strip of columns, from c on, goes through n positions from t on, the first of which is number 0 of the vectors. A last
 * position after what the slot keeps is read in the same pass; more of them change a copy. */
static void ops__delta_strip(const dev *dv, const dev_op *op, const ops_delta_task *d, int c, int t, int n) {
    const ops_walk  *w = &d->w;
    const dev_state *st = w->st;
    const int        cols = min_int(d->col + d->cols - c, K_DELTA_COLS), zero = t;
    const size_t     at = (size_t)c * (size_t)st->d_k, n_bytes = (size_t)cols * (size_t)st->d_k * sizeof(float);
    const bool       one = w->to == w->end - 1 && w->snap_at != w->end;
    float           *out = ops__sums(st, w->out, d->head) + at, *own = d->own + at;
    if (t == w->at && !w->in) memset(out, 0, n_bytes);
    else if (t == w->at && w->in != w->out) memcpy(out, ops__sums(st, w->in, d->head) + at, n_bytes);
    for (int next, end = t + n; t < end; t = next) {
        next = ops__delta_until(w, t, end);
        if (one && next == w->to && next < end && next != w->snap_at) next++;
        if (t == w->to && !one) memcpy(own, out, n_bytes);
        float *s = t < w->to || one ? out : own;
        ops__delta_pass(dv, op, d, s, c, cols, t, next, t - zero, next == w->end && w->snap_at != w->end);
        if (next == w->snap_at) memcpy(ops__sums(st, w->snap, d->head) + at, s, n_bytes);
    }
}

/* out = what state.rule reads from the sums of each head. RULE_DELTA, the gated delta rule (Yang et al. 2024): for the inputs
 * in[0] of queries, keys and values, convolved with the weights vec, and the gates in[1] and in[2]. RULE_KDA (Kimi Team 2025) has
 * the same inputs. Others read in[0] as it is. */
static void ops__delta(const dev *dv, const dev_op *op, int task) {
    const ops_delta_task d = ops__delta_task_of(dv, op, task);
    for (int t = d.w.at, n; t < d.w.end; t += n) {
        n = min_int(d.w.end - t, OPS_DELTA_ROWS);
        (op->state.rule == RULE_DELTA || op->state.rule == RULE_KDA ? ops__delta_vectors : ops__rule_vectors)(dv, op, &d, t, n);
        for (int c = d.col; c < d.col + d.cols; c += K_DELTA_COLS) ops__delta_strip(dv, op, &d, c, t, n);
    }
}

/* The inputs of positions [from, end) go into a slot. */
static void ops__keep_inputs(const dev *dv, const dev_op *op, const ops_walk *w, uint8_t *slot, int from, int end) {
    for (int t = max_int(from, 0); t < end; t++) {
        const float *raw = ops__raw(dv, op, w, t);
        float       *to = ops__ring(w->st, slot, t);
        if (raw != to) memcpy(to, raw, (size_t)w->st->width * sizeof *to);
    }
}

/* The first row of each sequence: inputs in[0] and gates in[1], in[2] that later steps need go into its slot, and into the
 * snapshot. */
static void ops__keep(const dev *dv, const dev_op *op, int r) {
    const int        seq = dv->run->batch->seq[r];
    const ops_walk   w = ops__walk_of(dv, op, seq);
    const dev_state *st = w.st;
    if (r != w.first) return;
    /* before the slot changes, which may be read */
    if (w.snap) ops__keep_inputs(dv, op, &w, w.snap, w.snap_at - (st->taps - 1), w.snap_at);
    ops__keep_inputs(dv, op, &w, w.out, w.to - (st->taps - 1), w.end);
    for (int t = w.to; t < w.end; t++)
        for (int i = 0; i < 2; i++) {
            const float *from = st->n_gate[i] ? ops__gates(dv, op, &w, i, t) : NULL;
            float       *to = ops__log(st, w.out, t) + i * st->n_gate[0];
            if (from && from != to) memcpy(to, from, (size_t)st->n_gate[i] * sizeof *to);
        }
}

/* out = in[0] * in[1]. */
static void ops__mul_rows(const dev *dv, const dev_op *op, int r) {
    k_mul(ops__out(dv, op, 0, r) + op->mul.to, ops__in(dv, op, 0, r) + op->mul.a, ops__in(dv, op, 1, r) + op->mul.b, op->n);
}

/* The wanted forms of row r of activations, n values. */
static void ops__form(const dev_acts *a, int r, int n, unsigned wanted) {
    const float *x = a->x + (size_t)r * a->ldx;
    const size_t at = (size_t)r * (a->ldq / 256);
    if (wanted & 1u << K_ACT_BF16) k_kv_store(K_BF16, x, a->h + (size_t)r * a->ldx, n);
    if (wanted & 1u << K_ACT_I8)
        a->split[r] = k_quant_act(x, n, wanted & K_FORM_FINE, a->q + (size_t)r * a->ldq, a->sum + at, a->d + at, a->ldq, a->rows);
}

/* The forms of out that products read. */
static void ops__form_row(const dev *dv, const dev_op *op, int r) {
    ops__form(&dv->run->plan->buf[op->out[0]].a, r, op->n, op->forms);
}

/* out = act(out) * in, or act(out) without in. */
static void ops__activate(const dev *dv, const dev_op *op, int r) {
    const float *by = op->in[0] ? ops__in(dv, op, 0, r) : NULL;
    float       *x = ops__out(dv, op, 0, r);
    if (op->act == ACT_SWIGLU_CLIP) k_swiglu_clip(x, by, 7.0f, 1.702f, op->n);
    else k_activate((k_act_fn)op->act, x, by, op->n);
}

/* The first of the largest scores; `bias`, if any, is added to each for the comparison alone. */
static int ops__best(const float *p, const float *bias, int n) {
    int best = 0;
    if (!bias) k_max(p, n, &best);
    for (int i = 1; bias && i < n; i++)
        if (p[i] + bias[i] > p[best] + bias[best]) best = i;
    return best;
}

/* The score of a group of n experts: that of the best, or the sum of the two best, with the bias. */
static float ops__group_score(const dev_op *op, const float *p, const float *bias, int n) {
    float best = -INFINITY, next = -INFINITY;
    for (int i = 0; i < n; i++) {
        const float s = p[i] + (bias ? bias[i] : 0);
        if (s > best) next = best, best = s;
        else if (s > next) next = s;
    }
    return n == 1 || op->experts.alone ? best : best + next;
}

/* Takes the experts of all but the best groups out of the choice, by p; among equal groups the lowest number stays. */
static void ops__leave_groups(const dev_op *op, float *p) {
    const int n = op->experts.groups, each = op->experts.n / n;
    float     score[DEV_EXPERTS];
    for (int g = 0; g < n; g++) score[g] = ops__group_score(op, p + g * each, op->vec ? op->vec + g * each : NULL, each);
    for (int g = 0; g < n; g++) {
        int before = 0;
        for (int k = 0; k < n; k++) before += score[k] > score[g] || (k < g && score[k] == score[g]);
        for (int i = 0; i < each && before >= op->experts.groups_used; i++) p[g * each + i] = -INFINITY;
    }
}

/* Two experts, chosen one after the other. The weight of each is its softmax among those that were left and whose logit is less
 * than 2 K_ROUTE_JITTER of its size below. */
static void ops__route_two(const float *p, int E, int32_t *pick, float *w) {
    for (int i = 0; i < 2; i++) {
        int best = -1;
        for (int k = 0; k < E; k++)
            if ((!i || k != pick[0]) && (best < 0 || p[k] > p[best])) best = k;
        const float top = p[best];
        float       sum = 0;
        for (int k = 0; k < E; k++) {
            const float size = fabsf(p[k]) > top ? fabsf(p[k]) : top;
            if ((!i || k != pick[0]) && !((top - p[k]) / size > 2 * K_ROUTE_JITTER)) sum += k_expf(p[k] - top);
        }
        pick[i] = best;
        w[i] = 1 / sum;
    }
}

/* out[0] = the experts with the largest scores, from the logits in[0], the lowest number first among equals; out[1] = their
 * weights. vec is added to the scores for the choice alone. */
static void ops__route(const dev *dv, const dev_op *op, int r) {
    const int K = op->experts.used, E = op->experts.n;
    float    *p = ops__in(dv, op, 0, r), *w = ops__out(dv, op, 1, r), sum = 0;
    int32_t  *pick = dev_ints(ops__out(dv, op, 0, r));
    if (op->experts.router == ROUTE_MIXER) {
        ops__route_two(p, E, pick, w);
        k_scale(w, op->scale, K);
        return;
    }
    const int32_t *listed = op->experts.listed;
    if (op->experts.router == ROUTE_SOFTMAX) k_softmax(p, E);
    else k_activate(op->experts.router == ROUTE_SIGMOID ? K_SIGMOID : K_SOFTPLUS, p, NULL, E);
    for (int i = 0; i < E && op->experts.router == ROUTE_ROOT_SOFTPLUS; i++) p[i] = sqrtf(p[i]);
    if (listed) listed += (size_t)dv->run->batch->token[ops__which(dv, op, r)] * (size_t)K;
    if (op->experts.groups > 1) ops__leave_groups(op, p);
    for (int i = 0; i < K; i++) {
        const int best = listed ? listed[i] : ops__best(p, op->vec, E);
        pick[i] = best;
        w[i] = p[best];
        if (!listed) p[best] = -INFINITY;
        sum += w[i];
    }
    for (int i = 0; i < K; i++) w[i] = w[i] / (op->experts.norm && sum > 0 ? sum : 1.0f) * op->scale;
}

/* out = the group of each expert of in[0]. */
static void ops__family(const dev *dv, const dev_op *op, int r) {
    const int32_t *pick = dev_ints(ops__in(dv, op, 0, r));
    int32_t       *of = dev_ints(ops__out(dv, op, 0, r));
    for (int i = 0; i < op->n; i++) of[i] = pick[i] / op->share;
}

static int ops__one_task(const dev_run *run, const dev_op *op) { return run->plan->rows[op->rows].n > 0; }

/* Counting sort of the chosen experts in[0]: out[0] = the row of each slot, where slots of one expert are side by side; out[1] =
 * the slots of a row. */
static void ops__sort_slots(const dev *dv, const dev_op *op) {
    const int E = op->experts.n, K = op->experts.used, n = dv->run->plan->rows[op->rows].n;
    int      *from = dv->run->plan->expert_at, *slot_row = dev_ints(ops__out(dv, op, 0, 0));
    memset(from, 0, ((size_t)E + 1) * sizeof *from);
    for (int r = 0; r < n; r++)
        for (int i = 0; i < K; i++) from[dev_ints(ops__in(dv, op, 0, r))[i] + 1]++;
    for (int e = 0; e < E; e++) from[e + 1] += from[e];
    for (int r = 0; r < n; r++)
        for (int i = 0; i < K; i++) {
            const int slot = from[dev_ints(ops__in(dv, op, 0, r))[i]]++;
            slot_row[slot] = r;
            dev_ints(ops__out(dv, op, 1, r))[i] = slot;
        }
    for (int e = E; e > 0; e--) from[e] = from[e - 1];   /* back to the first slot of each expert */
    from[0] = 0;
}

/* The experts that rows have chosen are read from the file, as many as memory may hold beside each other, before their products
 * ask for them page by page. */
static void ops__read_ahead(const dev_product *m, int n) {
    size_t read = 0;
    for (int i = 0; i < n; i++) {
        const dev_mat *w = m[i].w;
        if (!m[i].n || !w->ahead || w->packed || w->on_gpu || (read += w->row_bytes * (size_t)w->n_out) > w->ahead) continue;
        dev_mat_read_ahead(w, m[i].stack);
    }
}

/* The products of all experts, each with the rows that have chosen it. */
static void ops__group(const dev *dv, const dev_op *op, int only) {
    const dev_plan    *plan = dv->run->plan;
    const int          E = op->experts.n, W = op->experts.wide;
    (void)only;
    ops__sort_slots(dv, op);
    for (int i = 0; i < (W + 1) * E; i++) {
        const int k = i < W * E ? i % W : W, e = k < W ? i / W : i - W * E, first = plan->expert_at[e];
        dev_product *m = &plan->grouped[i];
        *m = op->product[k];
        m->stack = e;
        m->first = first;
        m->n = plan->expert_at[e + 1] - first;
        m->idx = k < W ? dev_ints(ops__out(dv, op, 0, 0)) : NULL;
        m->y += (size_t)first * m->ldy;
    }
    ops__read_ahead(plan->grouped, (W + 1) * E);
}

/* out = the sum of the row's experts in[0], at the slots in[2], by weights in[1]; each with its bias, a row of vec, if there are
 * any. Without in[1] all weights are 1. Its order is that of the ranks, whatever other rows there are. */
static void ops__mix(const dev *dv, const dev_op *op, int r) {
    const int32_t *slot = dev_ints(ops__in(dv, op, 2, r));
    const float   *w = op->in[1] ? ops__in(dv, op, 1, r) : NULL;
    float         *y = ops__out(dv, op, 0, r);
    memset(y, 0, (size_t)op->n * sizeof *y);
    for (int i = 0; i < op->experts.used; i++) {
        const float by = w ? w[i] : 1;
        k_axpy(y, ops__row(dv, op->in[0], slot[i]), by, op->n);
        if (op->vec)
            k_axpy(y, op->vec + (size_t)ops__expert_at(dv->run->plan, op->experts.n, slot[i]) * (size_t)op->n, by, op->n);
    }
}

/* out = sigmoid(in . vec), one value. */
static void ops__gate(const dev *dv, const dev_op *op, int r) {
    *ops__out(dv, op, 0, r) = k_sigmoid(k_dot(ops__in(dv, op, 0, r), op->vec, op->n));
}

/* out += in[0] * in[1], of which the second is one value. */
static void ops__add_scaled(const dev *dv, const dev_op *op, int r) {
    k_axpy(ops__out(dv, op, 0, r), ops__in(dv, op, 0, r), *ops__in(dv, op, 1, r), op->n);
}

/* --- what the rows say of their operations: widths, needs --- */

static int ops__heads(const dev_op *op) { return max_int(op->n_head, 1); }
static int ops__all_heads(const dev_op *op) { return op->n * ops__heads(op); }

/* Coefficients of hyper-connections. */
static int ops__hyper_width(const dev_op *op) { return op->hyper.turns ? (2 + op->n_head) * op->n_head : op->n_head; }

static size_t ops__vec_each(const dev_op *op) { return (size_t)op->n * (size_t)max_int(op->experts.n, 1); }

/* Values of a row of the keys or values; a list that is only measured has no cache. */
static int ops__kv_width(const dev_kv *kv, bool values) {
    return !kv || (values && kv->shared) ? 0 : kv->n_head * (values ? kv->hd_v : kv->hd_k);
}

/* The same of the inputs of a convolution, up to their end. */
static int ops__state_end(const dev_op *op) { return op->state.st ? op->state.at + op->state.st->width : 0; }

/* The same of the gates in[1 + i] of a state. */
static int ops__n_gates(const dev_op *op, int i) { return op->state.st ? op->state.st->n_gate[i] : 0; }

/* Space for one row's partial results, too, where the K/V heads do not make an even share for every thread. */
static void ops__attend_needs(const dev_op *op, dev_needs *to) {
    const int heads = op->n_head / op->cache.group, rows = ops__attend_most(op);
    const int n = min_int(op->cache.most / K_SEGMENT + 2, OPS_PARTS_SEGMENTS);   /* with one more: a window begins anywhere */
    to->scratch = max_size(to->scratch, k_attn_scratch(rows, op->cache.hd_k, op->n));
    to->attn_rows = max_int(to->attn_rows, rows);
    if (heads % to->threads) to->parts = max_size(to->parts, (size_t)op->n_head * k_attn_part(1, op->n) * (size_t)n);
}

/* Pointers to keys of groups, as many as end in a block of the cache. */
static void ops__pooled_views(const dev_op *op, const dev_kv *kv, dev_needs *to) {
    if (op->cache.pool && kv) to->more_views = max_int(to->more_views, (kv->block - 1) / op->cache.pool + 1);
}

/* Space for what a row chooses. */
static void ops__choose_needs(const dev_op *op, dev_needs *to) {
    const size_t lists = (size_t)ops__lists(op, op->n_head), each = 2 * ((size_t)op->cache.top + 1);
    to->scratch = max_size(to->scratch, ops__index_scratch(op));
    to->attn_rows = max_int(to->attn_rows, op->n_head);
    ops__pooled_views(op, op->cache.kv, to);
    if (to->threads > 1) to->parts = max_size(to->parts, (size_t)to->threads * lists * each);
}

static void ops__chosen_needs(const dev_op *op, dev_needs *to) {
    const int rows = ops__attend_most(op);
    to->scratch = max_size(to->scratch, k_attn_scratch(rows, op->cache.hd_k, op->n));
    to->attn_rows = max_int(to->attn_rows, rows);
    to->views = max_int(to->views, op->cache.top * op->cache.unit);
}

static void ops__attend_pooled_needs(const dev_op *op, dev_needs *to) {
    const int rows = ops__attend_most(op);
    to->scratch = max_size(to->scratch, k_attn_scratch(rows, op->cache.hd_k, op->n));
    to->attn_rows = max_int(to->attn_rows, rows);
    to->views = max_int(to->views, op->cache.window);
    ops__pooled_views(op, op->cache.pooled, to);
}

static void ops__pool_needs(const dev_op *op, dev_needs *to) {
    to->scratch = max_size(to->scratch, (4 * (size_t)op->n + (size_t)op->pool.n_rot) * sizeof(float));
}

static void ops__delta_needs(const dev_op *op, dev_needs *to) {
    to->scratch = max_size(to->scratch, ops__delta_scratch(op->state.rule, op->state.d_k, op->n));
}

/* A x of an embedding. */
static void ops__embed_needs(const dev_op *op, dev_needs *to) {
    for (int i = 0; op->embed.mat->low && i < op->embed.mat->n_low; i++)
        to->scratch = max_size(to->scratch, (size_t)op->embed.mat->low[i].rank * sizeof(float));
}

static void ops__low_needs(const dev_op *op, dev_needs *to) {
    const size_t entries = (size_t)op->low.n_adapter * (size_t)max_int(op->each, 1);
    to->low = max_size(to->low, mem_size((size_t)op->low.n * (size_t)op->low.rank, entries));
}

static void ops__group_needs(const dev_op *op, dev_needs *to) {
    to->experts = max_int(to->experts, op->experts.n);
}

/* --- what an operation costs --- */

/* Too little to count. */
static void ops__no_cost(const dev_op *op, const dev_batch *b, dev_cost *c) {
    (void)op, (void)b, (void)c;
}

static void ops__embed_cost(const dev_op *op, const dev_batch *b, dev_cost *c) {
    c->bytes += (double)dev_n_rows(b, op->rows) * (double)op->embed.mat->row_bytes;
}

/* Each matrix is read once; of the experts, as many as so many random rows choose. */
static void ops__grams_cost(const dev_op *op, const dev_batch *b, dev_cost *c) {
    c->bytes += (double)b->n * op->n_head * (double)op->state.table->row_bytes;
}

static void ops__matmul_cost(const dev_op *op, const dev_batch *b, dev_cost *c) {
    const double E = op->products.n_expert, K = op->products.used;
    for (int i = 0; i < op->n_product; i++) {
        const dev_product *m = &op->product[i];
        const dev_mat     *w = m->w;
        const double       rows = dev_n_rows(b, m->rows), each = E ? K : 1;
        const double       read = E ? E * (1 - pow(1 - fmin(1, K / E), rows)) : 1;
        if (rows <= 0) continue;
        c->bytes += read * (w->packed ? (double)w->packed_bytes * m->n_out / w->n_out : (double)w->row_bytes * m->n_out);
        c->mul[k_act_of(w->type)] += each * rows * w->n_in * m->n_out;
    }
}

/* As if every row had the same adapter, of the largest rank. */
static void ops__low_cost(const dev_op *op, const dev_batch *b, dev_cost *c) {
    for (int i = 0; i < op[1].n_product; i++) {
        const dev_mat *w = op[1].product[i].w;
        const double   rows = dev_n_rows(b, (dev_row_set)op[1].product[i].rows), n = (double)op->low.rank * (w->n_in + w->n_out);
        int            k = 0;                         /* the first adapter that changes the matrix */
        while (w->low && k < w->n_low && !w->low[k].rank) k++;
        if (!w->low || k == w->n_low || rows <= 0) continue;
        c->bytes += n * (double)k_row_bytes(w->low[k].type_b, 1);
        c->mul[K_ACT_F32] += rows * n;
    }
}

/* Rows of one sequence read the positions that they see together once: windows of neighbours overlap but for one position. */
static void ops__attend_cost(const dev_op *op, const dev_batch *b, dev_cost *c) {
    const dev_kv *kv = op->cache.kv;
    double        past = 0, kept = 0;
    for (int i = 0, run = 0; i < b->n; i++) {
        int64_t begin, end;
        ops__sees(b, op, i, &begin, &end);
        const double all = b->pos[i] + 1, seen = (double)(end - begin);
        const int takes = op->rows == DEV_ALL || b->want[i];
        past += takes * seen;
        run += takes;
        if (i + 1 < b->n && b->seq[i + 1] == b->seq[i]) continue;
        kept += !run ? 0 : seen + run - 1 < all ? seen + run - 1 : all;
        run = 0;
    }
    c->mul[k_kv_act(kv->type_k, kv->type_v)] += past * op->n_head * kv->hd_k;
    c->mul[k_kv_act(kv->type_v, kv->type_k)] += past * op->n_head * kv->hd_v;
    c->bytes += kept * kv->n_head * (double)(kv->k_stride + (kv->shared ? 0 : kv->v_stride));
}

/* Rows of one sequence read the keys of the indexer once, up to the last row that chooses. */
static void ops__choose_cost(const dev_op *op, const dev_batch *b, dev_cost *c) {
    const dev_kv *kv = op->cache.kv;
    int           seen = 0;                           /* positions, of the sequence */
    for (int i = 0; i < b->n; i++) {
        const bool last = i + 1 == b->n || b->seq[i + 1] != b->seq[i];
        if (ops__is_choosy(b, op, i) && (op->rows == DEV_ALL || b->want[i])) {
            seen = ops__last(b, op, i) + 1;
            c->mul[k_kv_act(kv->type_k, K_F16)] += (double)seen * op->n_head * op->n;
        }
        if (!last) continue;
        c->bytes += (double)seen * (double)kv->k_stride;
        seen = 0;
    }
}

/* Every row reads positions of its own. */
static void ops__chosen_cost(const dev_op *op, const dev_batch *b, dev_cost *c) {
    const dev_kv *kv = op->cache.kv;
    double        seen = 0;
    for (int i = 0; i < b->n; i++)
        if (op->rows == DEV_ALL || b->want[i]) seen += min_int(b->pos[i] + 1, op->cache.top * op->cache.unit);
    c->mul[k_kv_act(kv->type_k, kv->type_v)] += seen * op->n_head * kv->hd_k;
    c->mul[k_kv_act(kv->type_v, kv->type_k)] += seen * op->n_head * kv->hd_v;
    c->bytes += seen * kv->n_head * (double)(kv->k_stride + (kv->shared ? 0 : kv->v_stride));
}

/* Every row reads its window and the keys of groups. */
static void ops__attend_pooled_cost(const dev_op *op, const dev_batch *b, dev_cost *c) {
    const dev_kv *kv = op->cache.kv;
    double        seen = 0;
    for (int i = 0; i < b->n; i++) {
        if (op->rows != DEV_ALL && !b->want[i]) continue;
        seen += min_int(b->pos[i] + 1, op->cache.window);
        if (op->cache.pool) seen += ops__is_choosy(b, op, i) ? op->cache.top : ops__last(b, op, i) + 1;
    }
    c->mul[k_kv_act(kv->type_k, kv->type_k)] += 2 * seen * op->n_head * kv->hd_k;
    c->bytes += seen * (double)kv->k_stride;
}

/* The sums of each sequence are read and written. */
static void ops__delta_cost(const dev_op *op, const dev_batch *b, dev_cost *c) {
    const double each = (double)op->n_head * op->state.d_k * op->n;
    c->bytes += 2 * b->n_seq * each * (double)sizeof(float);
    c->mul[K_ACT_F32] += 3 * b->n * each;
}

/* --- on a GPU: operations on rows. A phase of them is a launch, which goes through its operations row by row --- */

static void ops__norm_args(dev_gpu_share *sh, const dev_op *op, k_row_op *to) {
    (void)sh;
    to->u.norm = op->norm.kind;
    to->bias = op->norm.bias;
}

/* Queries of latent attention have the transform of values in front, that of keys behind. */
static void ops__hadamard_args(dev_gpu_share *sh, const dev_op *op, k_row_op *to) {
    const dev_kv *kv = op->hadamard.kv;
    const bool    parts = kv->shared && !op->hadamard.values;
    (void)sh;
    to->u.hadamard.size = parts ? kv->hadamard_v : ops__hadamard_size(op);
    to->u.hadamard.tail = parts ? kv->hadamard_k : 0;
    to->u.hadamard.at = parts ? kv->hd_v : 0;
}

static void ops__store_args(dev_gpu_share *sh, const dev_op *op, k_row_op *to) { to->u.kv = dev_gpu_kv(sh, op->cache.kv); }

static void ops__state_args(dev_gpu_share *sh, const dev_op *op, k_row_op *to) {
    to->u.state.at = dev_gpu_state(sh, op->state.st);
    to->in[0].x += op->state.at;
}

static void ops__conv_args(dev_gpu_share *sh, const dev_op *op, k_row_op *to) {
    ops__state_args(sh, op, to);
    to->u.state.silu = op->state.silu;
    to->bias = op->state.bias;
}

static void ops__slots_args(dev_gpu_share *sh, const dev_op *op, k_row_op *to) {
    to->u.experts.of = op->experts.n ? sh->expert : NULL;
    to->u.experts.used = op->experts.used;
}

_Static_assert((int)ROUTE_SIGMOID == K_ROUTE_SIGMOID && (int)ROUTE_MIXER == K_ROUTE_TWO, "the kernels know the same routers");
static void ops__route_args(dev_gpu_share *sh, const dev_op *op, k_row_op *to) {
    to->n = op->experts.n;
    to->u.route.weight = dev_gpu_rows(sh, op->out[1]);
    to->u.route.used = op->experts.used;
    to->u.route.norm = op->experts.norm;
    to->u.route.router = (k_router)op->experts.router;
    to->u.route.groups = op->experts.groups;
    to->u.route.groups_used = op->experts.groups_used;
    to->u.route.alone = op->experts.alone;
}

static void ops__form_args(dev_gpu_share *sh, const dev_op *op, k_row_op *to) {
    to->u.form.a = dev_acts_at(&sh->a[op->out[0]], NULL, 0, 0);
    to->u.form.forms = op->forms;
}

/* The operation as the kernel takes it, but for vectors, which are the host's. */
static k_row_op ops__gpu_op(dev_gpu_share *sh, const dev_op *op) {
    k_row_op to = {.kind = op->row->gpu_row, .set = (int)op->rows, .each = op->each, .beside = op->beside, .gathers = op->gathers,
                   .n = op->n, .n_head = op->n_head, .scale = op->scale, .out = dev_gpu_rows(sh, op->out[0]), .vec = op->vec};
    for (int k = 0; k < 3; k++) to.in[k] = dev_gpu_rows(sh, op->in[k]);
    memcpy(&to.u, (const uint8_t *)op + op->row->told_at, op->row->told_bytes);
    if (op->row->gpu_args) op->row->gpu_args(sh, op, &to);
    return to;
}

/* A launch of n operations. */
static void ops__rows_add_some(dev_gpu_share *sh, const dev_op *op, int n) {
    k_row_op       *ops = mem_new((size_t)n, sizeof *ops);
    dev_gpu_launch *l = dev_gpu_new(sh, op, n, "k_cuda_rows");
    for (int i = 0; i < n; i++) {
        ops[i] = ops__gpu_op(sh, &op[i]);
        ops[i].vec = dev_gpu_copy(sh, op[i].vec, op[i].row->vec(&op[i]), sizeof *op->vec);
        ops[i].bias = dev_gpu_copy(sh, ops[i].bias, (size_t)op[i].n, sizeof *ops[i].bias);
    }
    ops[0].beside = false;
    l->rows.op = dev_gpu_copy(sh, ops, (size_t)n, sizeof *ops);
    l->rows.n = n;
    l->rows.step = dev_gpu_sent(sh);
    mem_free(ops);
}

static void ops__rows_add(dev_gpu_share *sh, const dev_op *op, int n) {
    for (int i = 0; i < n; i += K_CUDA_ROW_OPS) ops__rows_add_some(sh, op + i, min_int(n - i, K_CUDA_ROW_OPS));
}

static void ops__rows_launch(dev_gpu_share *sh, dev_gpu_launch *l, const dev_gpu_bounds *z) {
    int n = 0;
    for (const dev_op *op = l->op; op < l->op + l->n; op++)
        if (op == l->op || op->beside) n += z->n[op->rows] * max_int(op->each, 1);
    if (n) gpu_launch(sh->g, l->kernel, n, 1, &l->rows, sizeof l->rows);
}

static const dev_gpu_way ops_rows = {.add = ops__rows_add, .launch = ops__rows_launch};

/* --- on a GPU: products. Each is a launch, of all experts too --- */

/* Columns from which a product takes the kernel for many; rows of a sequence from which attention does. */
enum { OPS_MANY = 17 };

/* The kernel for few or for many columns, -1: none, and what it reads of the type. */
static int ops__kernel(const dev_gpu_share *sh, uint32_t type, bool many, k_cuda_mul *m) {
    const char *name = sh->on->tensor ? k_cuda_tensor_of(type, many) : NULL;
    if (!name) name = k_cuda_mul_of(type, many, m);
    return name ? gpu_kernel(sh->g, name) : -1;
}

static void ops__product_args(dev_gpu_share *sh, dev_gpu_launch *l, const dev_op *op, const dev_product *m) {
    const dev_mat     *w = m->w;
    const k_cuda_step *step = dev_gpu_sent(sh);
    if (!w->on_gpu) dev_gpu_mat(sh->g, (dev_mat *)w);
    ASSERT(w->gpu == sh->g);
    l->product = m;
    l->mul = (k_cuda_mul){.w = w->on_gpu + (size_t)m->stack * dev_gpu_mat_bytes(w), .row_bytes = w->row_bytes,
                          .a = dev_acts_at(&sh->a[m->in], NULL, 0, 0), .nt = &step->n[m->rows], .y = sh->a[m->out].x,
                          .ldy = sh->a[m->out].ldx, .nr = m->n_out, .n = w->n_in, .scale = w->scale ? w->scale[m->stack] : 0,
                          .heads = m->heads, .step = m->heads > 1 ? m[1].to : 0};
    if (m->gather) l->mul.a.idx = (const int32_t *)(const void *)(step + 1);
    l->many = ops__kernel(sh, w->type, true, &l->mul);
    l->kernel = ops__kernel(sh, w->type, false, &l->mul);
    if (!op->products.n_expert && !m->heads) return;
    if (op->products.n_expert && !op->products.at) l->mul.a.idx = sh->slot_row;   /* rows that have chosen an expert, not slots */
    l->mul.mat_bytes = dev_gpu_mat_bytes(w);
    l->mul.scales = dev_gpu_copy(sh, w->scale, (size_t)w->n_mat, sizeof *w->scale);
}

static void ops__products_add(dev_gpu_share *sh, const dev_op *op, int n) {
    for (const dev_product *m = op->product; m < op->product + op->n_product; m++)
        if (!m->heads || !m->stack) ops__product_args(sh, dev_gpu_new(sh, op, n, NULL), op, m);   /* all heads together */
}

/* Of experts as many columns as there are slots: many, where the experts have so many on average. */
static void ops__products_launch(dev_gpu_share *sh, dev_gpu_launch *l, const dev_gpu_bounds *z) {
    const int  E = l->op->products.n_expert, n = z->n[l->product->rows] * (E ? l->op->products.used : 1);
    const bool many = l->many >= 0 && n >= OPS_MANY * max_int(E, 1);
    const int  rows = many ? K_CUDA_MANY_ROWS : 16, cols = many ? K_CUDA_MANY_COLS : K_CUDA_COLS;
    if (!n) return;
    if (E) l->mul.tiles = sh->tiles[many];
    gpu_launch(sh->g, many ? l->many : l->kernel, (l->mul.nr + rows - 1) / rows,
               E ? k_cuda_tiles(n, E, cols) : (n + cols - 1) / cols * max_int(l->mul.heads, 1), &l->mul, sizeof l->mul);
}

static bool ops__products_can(const dev_op *op) {
    k_cuda_mul m;
    for (int i = 0; i < op->n_product; i++) {
        const dev_mat *w = op->product[i].w;
        if (w->low || !k_cuda_mul_of(w->type, false, &m)) return false;
        if (k_wants_q8(w->type) && !k_pack_bytes(w->type, w->n_out, w->n_in)) return false;
    }
    return true;
}

static const dev_gpu_way ops_products = {.add = ops__products_add, .launch = ops__products_launch};

/* --- on a GPU: the sort of the slots of experts --- */

static void ops__sort_room(const dev_plan *p, const dev_op *op, const dev_gpu_bounds *z, dev_gpu_room *to) {
    static const int cols[2] = {K_CUDA_COLS, K_CUDA_MANY_COLS};
    const int        slots = p->max_rows * op->experts.used;
    (void)z;
    to->slots = max_size(to->slots, (size_t)slots);
    for (int k = 0; k < 2; k++)
        to->tiles[k] = max_size(to->tiles[k], 1 + 3 * (size_t)k_cuda_tiles(slots, op->experts.n, cols[k]));
}

/* Its outputs become the slots at hand. */
static k_cuda_sort_args ops__sort_args(dev_gpu_share *sh, const dev_op *op) {
    sh->slot_row = dev_ints(sh->a[op->out[0]].x);
    return (k_cuda_sort_args){.step = dev_gpu_sent(sh), .set = (int)op->rows, .n_expert = op->experts.n, .used = op->experts.used,
                              .pick = dev_gpu_rows(sh, op->in[0]), .slot_of = dev_gpu_rows(sh, op->out[1]), .row = sh->slot_row,
                              .expert = sh->expert, .tiles = {sh->tiles[0], sh->tiles[1]}};
}

static void ops__sort_add(dev_gpu_share *sh, const dev_op *op, int n) {
    dev_gpu_new(sh, op, n, "k_cuda_sort")->sort = ops__sort_args(sh, op);
}

static void ops__sort_launch(dev_gpu_share *sh, dev_gpu_launch *l, const dev_gpu_bounds *z) {
    (void)z;
    gpu_launch(sh->g, l->kernel, 1, 1, &l->sort, sizeof l->sort);
}

static bool ops__sort_can(const dev_op *op) { return op->experts.n <= K_CUDA_EXPERTS; }

static const dev_gpu_way ops_sort = {.room = ops__sort_room, .add = ops__sort_add, .launch = ops__sort_launch};

/* --- on a GPU: attention, as launches of segments and of their merge --- */

/* Floats of one row's partial results in n segments. */
static size_t ops__part(const dev_op *op, size_t n) {
    return n * (size_t)(op->n_head / op->cache.group) * k_attn_part(op->cache.group, op->n);
}

/* Segments that a row sees at most. */
static int ops__segments_seen(const dev_op *op, const dev_gpu_bounds *z) {
    const int window = op->cache.window / K_SEGMENT + 2;
    return op->cache.window ? min_int(window, z->segments) : z->segments;
}

/* Those of all rows of a step, or as many as there is space for, at least one. */
static void ops__attend_room(const dev_plan *p, const dev_op *op, const dev_gpu_bounds *z, dev_gpu_room *to) {
    const size_t row = ops__part(op, (size_t)(z ? ops__segments_seen(op, z) : op->cache.most / K_SEGMENT + 2));
    const size_t some = z ? 0 : min_size(row * (size_t)p->max_rows, DEV_GPU_PARTS / sizeof(float));
    to->parts = max_size(to->parts, max_size(row, some));
}

/* Vectors are the host's. */
static k_cuda_attend_args ops__attention_args(dev_gpu_share *sh, const dev_op *op) {
    return (k_cuda_attend_args){.step = dev_gpu_sent(sh), .set = (int)op->rows, .gathers = op->gathers & 1,
                                .q = dev_gpu_rows(sh, op->in[0]), .o = dev_gpu_rows(sh, op->out[0]),
                                .kv = dev_gpu_kv(sh, op->cache.kv), .group = op->cache.group, .window = op->cache.window,
                                .all = op->cache.view == VIEW_ALL, .chunks = op->cache.view == VIEW_CHUNK,
                                .scale = op->scale, .cap = op->cache.cap,
                                .sinks = op->cache.sinks, .slopes = op->cache.slope, .parts = (float *)(void *)sh->parts.base};
}

static void ops__attend_add(dev_gpu_share *sh, const dev_op *op, int n) {
    const uint32_t  k = op->cache.kv->type_k, v = op->cache.kv->type_v;
    const char     *tensor = sh->on->tensor ? k_cuda_attend_tensor_of(k, v) : NULL;
    const char     *many = tensor ? tensor : k_cuda_attend_of(k, v, true);
    dev_gpu_launch *l = dev_gpu_new(sh, op, n, tensor ? NULL : k_cuda_attend_of(k, v, false));
    l->attend = ops__attention_args(sh, op);
    l->attend.sinks = dev_gpu_copy(sh, op->cache.sinks, (size_t)op->n_head, sizeof *op->cache.sinks);
    l->attend.slopes = dev_gpu_copy(sh, op->cache.slope, (size_t)op->n_head, sizeof *op->cache.slope);
    l->many = many ? gpu_kernel(sh->g, many) : -1;
    l->merge = gpu_kernel(sh->g, "k_cuda_attend_merge");
}

/* Attention of as many rows at once as there is space for partial results. */
static void ops__attend_launch(dev_gpu_share *sh, dev_gpu_launch *l, const dev_gpu_bounds *z) {
    const dev_op *op = l->op;
    const int     n = z->n[op->rows], heads = op->cache.kv->n_head, rows = k_cuda_attend_rows(op->cache.group);
    const size_t  fit = sh->parts.used / sizeof(float) / ops__part(op, (size_t)ops__segments_seen(op, z));
    const bool    few = l->many < 0 || (l->kernel >= 0 && n < OPS_MANY * z->n_seq);
    const int     deal = k_cuda_attend_deal(op->cache.group, !few);
    k_cuda_attend_args *a = &l->attend;
    a->n_seg = ops__segments_seen(op, z);
    for (a->first = 0; a->first < n; a->first += a->n_rows) {
        a->n_rows = (size_t)(n - a->first) < fit ? n - a->first : (int)fit;
        if (few) gpu_launch(sh->g, l->kernel, a->n_rows * heads * deal, a->n_seg, a, sizeof *a);
        else gpu_launch(sh->g, l->many, (a->n_rows + rows - 1) / rows * heads * deal, a->n_seg + 1, a, sizeof *a);
        gpu_launch(sh->g, l->merge, a->n_rows * heads, k_cuda_attend_deal(op->cache.group, false), a, sizeof *a);
    }
}

static bool ops__attend_can(const dev_op *op) {
    if (op->cache.bias || op->cache.view >= VIEW_SOURCE || op->cache.hd_k > K_CUDA_HEAD_K || op->n > K_CUDA_HEAD_V) return false;
    return !op->cache.kv || k_cuda_attend_of(op->cache.kv->type_k, op->cache.kv->type_v, false);
}

static const dev_gpu_way ops_attention = {.room = ops__attend_room, .add = ops__attend_add, .launch = ops__attend_launch};

/* --- on a GPU: states of recurrent layers --- */

_Static_assert((int)RULE_SSD == K_STATE_SSD && (int)RULE_SCAN == K_STATE_SCAN && (int)RULE_WKV7 == K_STATE_WKV7 &&
               (int)RULE_WKV6 == K_STATE_WKV6 && (int)RULE_GLA == K_STATE_GLA && (int)RULE_KDA == K_STATE_KDA,
               "the kernels know the same rules");

/* Vectors are the host's. */
static k_cuda_delta_args ops__delta_args(dev_gpu_share *sh, const dev_op *op) {
    k_cuda_delta_args a = {.step = dev_gpu_sent(sh), .st = dev_gpu_state(sh, op->state.st), .out = dev_gpu_rows(sh, op->out[0]),
                           .share = dev_gpu_rows(sh, op->out[1]), .taps = op->vec, .decay = op->state.decay,
                           .gate = op->state.step, .skip = op->state.skip, .rate = op->state.rate,
                           .key = {op->state.key[0], op->state.key[1]}, .shares = op->state.share, .rule = (int)op->state.rule,
                           .grouped = op->state.grouped, .eps = op->scale};
    for (int i = 0; i < 3; i++) a.in[i] = dev_gpu_rows(sh, op->in[i]);
    return a;
}

/* The kernel for a rule; NULL: keys are too long. */
static const char *ops__delta_kernel(dev_rule rule, int d_k) {
    if (rule == RULE_DELTA) return d_k <= K_CUDA_DELTA_KEYS ? "k_cuda_delta" : NULL;
    if (rule == RULE_SCAN) return d_k <= K_CUDA_SCAN_KEYS ? "k_cuda_scan" : NULL;
    return d_k <= K_CUDA_DELTA_KEYS ? "k_cuda_outer" : d_k <= K_CUDA_WIDE_KEYS ? "k_cuda_outer_wide" : NULL;
}

static void ops__delta_add(dev_gpu_share *sh, const dev_op *op, int n) {
    const dev_rule  rule = op->state.rule;
    const size_t    heads = (size_t)op->n_head, channels = heads * (size_t)op->n, keys = heads * (size_t)op->state.d_k;
    const bool      each = rule == RULE_SCAN, head = rule == RULE_SSD || rule == RULE_DELTA;
    dev_gpu_launch *l = dev_gpu_new(sh, op, n, ops__delta_kernel(rule, op->state.d_k));
    l->delta = ops__delta_args(sh, op);
    const struct { const float **to; size_t n; } vectors[] = {
        {&l->delta.taps, op->row->vec(op)}, {&l->delta.decay, each ? channels * (size_t)op->state.d_k : heads},
        {&l->delta.gate, each ? channels : head ? heads : keys}, {&l->delta.skip, each ? channels : head ? heads : keys},
        {&l->delta.rate, keys}, {&l->delta.key[0], keys}, {&l->delta.key[1], keys}, {&l->delta.shares, keys}};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        *vectors[i].to = dev_gpu_copy(sh, *vectors[i].to, vectors[i].n, sizeof **vectors[i].to);
}

/* Each sequence's value heads, in runs of columns. */
static void ops__delta_launch(dev_gpu_share *sh, dev_gpu_launch *l, const dev_gpu_bounds *z) {
    const int cols = l->op->state.rule == RULE_SCAN ? K_CUDA_SCAN_COLS : K_CUDA_DELTA_COLS, runs = (l->op->n + cols - 1) / cols;
    gpu_launch(sh->g, l->kernel, z->n_seq * l->op->n_head, runs, &l->delta, sizeof l->delta);
}

static bool ops__delta_can(const dev_op *op) { return ops__delta_kernel(op->state.rule, op->state.d_k) != NULL; }

static const dev_gpu_way ops_delta = {.add = ops__delta_add, .launch = ops__delta_launch};

/* --- the kinds --- */

static const dev_gpu_way ops_host = {.add = NULL};    /* no launches */

/* On the CPU: a task is a row; tasks are counted by a function of their own; all threads do something together. */
#define OPS_ROW(fn)          .run = fn, .all = dev_rows
#define OPS_TASKS(fn, count) .run = fn, .tasks = count, .all = dev_rows
#define OPS_ALL(fn)          .all = fn
/* On a GPU: an operation on rows; the member of dev_op that its kernel is told; no kernel. */
#define OPS_GPU(kind)        .gpu = &ops_rows, .gpu_row = kind
#define OPS_TOLD(name)       .told_at = offsetof(dev_op, name), .told_bytes = sizeof(((dev_op *)0)->name)
#define OPS_HOST             .gpu = &ops_host

/* Keys that RoPE also sorts into pairs are the host's: rows of Q and K of a model for GPUs are sorted in memory. */
static bool ops__rope_can(const dev_op *op) { return op->rope.form != K_ROPE_TO_PAIRS; }
static bool ops__clamp_can(const dev_op *op) { return !op->above; }
static bool ops__route_can(const dev_op *op) { return op->experts.router != ROUTE_ROOT_SOFTPLUS && !op->experts.listed; }

/* To add an operation:
 *     1. what it is told beside inputs, outputs, n, n_head, vec and scale: a member of the union in dev_op of [dev]
 *     2. its function for a row on the CPU: ops__NAME, with a comment that says what it reads and writes
 *     3. a row below, from which the compiler makes the number OPS_NAME; [fwd] writes operations of that kind into its lists
 *     4. with OPS_HOST its layer and those before it stay on the CPU. To run on a GPU: a k_row_kind in [api] of the kernels, its
 *        case in k__cuda_row_op or k__cuda_row_map of [cuda_rows], and OPS_TOLD for a member of the union that k_row_op has too,
 *        or else ops__NAME_args; what is not done row by row is a dev_gpu_way of its own (head of [cuda])
 *     5. an example of it in tests/t_ops.c, which finds a kind without one and runs it in every way; of a k_row_kind a row in
 *        tr_kinds of tests/t_cuda_rows.c, which no test misses. The reference of t_ops.c calls the same function for a row: that
 *        it computes what it should, logits of a model show. Then `build/test/kernel_tests ops cuda_rows` */

/* X(kind, name, what becomes of its outputs, values written to a row of them, values read of a row of in[0], in[1],
 *   in[2], values of vec, cost, on the CPU, on a GPU). The numbers of values are expressions of the operation op. */
#define OPS_KINDS(X) \
    X(EMBED, "embed", DEV_WRITES, ops__all_heads(op), op->n, 0, 0, 0,                                                           \
      ops__embed_cost, OPS_ROW(ops__embed), .needs = ops__embed_needs, OPS_HOST)                                                \
    X(BEFORE, "before", DEV_WRITES, op->n, op->n, 0, 0, 0,                                                                      \
      ops__no_cost, OPS_ROW(ops__before), OPS_HOST)                                                                             \
    X(TOKEN, "token", DEV_WRITES, 1, 0, 0, 0, 0,                                                                                \
      ops__no_cost, OPS_ROW(ops__token), OPS_HOST)                                                                              \
    X(ANGLES, "angles", DEV_WRITES, op->angles.at + 2 * op->n, 0, 0, 0, 0,                                                      \
      ops__no_cost, OPS_ROW(ops__angles), OPS_HOST)                                                                             \
    X(NORM, "norm", DEV_WRITES, ops__all_heads(op), ops__all_heads(op), 0, 0, op->n,                                            \
      ops__no_cost, OPS_ROW(ops__norm), OPS_GPU(K_ROW_NORM), .gpu_args = ops__norm_args)                                        \
    X(BIAS, "bias", DEV_CHANGES, ops__all_heads(op), 0, 0, 0, ops__vec_each(op),                                                \
      ops__no_cost, OPS_ROW(ops__bias), OPS_GPU(K_ROW_BIAS), .gpu_args = ops__slots_args)                                       \
    X(ADD, "add", DEV_WRITES, ops__all_heads(op), op->n, op->n, 0, 0,                                                           \
      ops__no_cost, OPS_ROW(ops__add), OPS_GPU(K_ROW_ADD))                                                                      \
    X(SCALE, "scale", DEV_CHANGES, ops__all_heads(op), 0, 0, 0, op->n,                                                          \
      ops__no_cost, OPS_ROW(ops__scale), OPS_GPU(K_ROW_SCALE))                                                                  \
    X(CAP, "cap", DEV_CHANGES, ops__all_heads(op), 0, 0, 0, 0,                                                                  \
      ops__no_cost, OPS_ROW(ops__cap), OPS_GPU(K_ROW_CAP))                                                                      \
    X(CLAMP, "clamp", DEV_CHANGES, ops__all_heads(op), 0, 0, 0, 0,                                                              \
      ops__no_cost, OPS_ROW(ops__clamp), OPS_GPU(K_ROW_CLAMP), .gpu_can = ops__clamp_can)                                       \
    X(TEMPER, "temper", DEV_WRITES, ops__all_heads(op), 0, 0, 0, 0,                                                             \
      ops__no_cost, OPS_ROW(ops__temper), OPS_HOST)                                                                             \
    X(PICK, "pick", DEV_WRITES, op->pick.to + (op->n_head - 1) * ops__pick_step(op) + op->n,                                    \
      op->pick.at + (op->n_head - 1) * op->pick.stride + op->n, 0, 0, 0,                                                        \
      ops__no_cost, OPS_ROW(ops__pick), OPS_GPU(K_ROW_PICK), OPS_TOLD(pick))                                                    \
    X(DEAL, "deal", DEV_WRITES, op->n, op->pick.at + (op->each - 1) * op->pick.stride + op->n, 0, 0, 0,                         \
      ops__no_cost, OPS_ROW(ops__deal), OPS_GPU(K_ROW_DEAL), OPS_TOLD(pick))                                                    \
    X(ROPE, "rope", DEV_CHANGES, ops__all_heads(op), op->rope.at + op->rope.n_rot, 0, 0, 0,                                     \
      ops__no_cost, OPS_ROW(ops__rope), OPS_GPU(K_ROW_ROPE), OPS_TOLD(rope), .gpu_can = ops__rope_can)                          \
    X(HADAMARD, "hadamard", DEV_CHANGES, ops__all_heads(op), 0, 0, 0, 0,                                                        \
      ops__no_cost, OPS_ROW(ops__hadamard), OPS_GPU(K_ROW_HADAMARD), .gpu_args = ops__hadamard_args)                            \
    X(STORE, "store", DEV_WRITES, 0, ops__kv_width(op->cache.kv, false), ops__kv_width(op->cache.kv, true), 0, 0,               \
      ops__no_cost, OPS_ROW(ops__store), OPS_GPU(K_ROW_STORE), .gpu_args = ops__store_args)                                     \
    X(ATTEND, "attend", DEV_WRITES, ops__all_heads(op), op->n_head * op->cache.hd_k, 0, 0, 0,                                   \
      ops__attend_cost, .run = ops__attend, .tasks = ops__attend_tasks, .all = ops__attend_all, .needs = ops__attend_needs,     \
      .gpu = &ops_attention, .gpu_can = ops__attend_can)                                                                        \
    X(CHOOSE, "choose", DEV_WRITES, ops__lists(op, op->n_head) * op->cache.top, op->n_head * op->n,                             \
      op->cache.by_head || op->cache.ends ? 0 : op->n_head, 0, 0,                                                               \
      ops__choose_cost, .run = ops__choose, .tasks = ops__choose_tasks, .all = ops__choose_all,                                 \
      .needs = ops__choose_needs, OPS_HOST)                                                                                     \
    X(ATTEND_CHOSEN, "attend, chosen", DEV_WRITES, ops__all_heads(op), op->n_head * op->cache.hd_k,                             \
      ops__lists(op, op->n_head / op->cache.group) * op->cache.top, 0, 0,                                                       \
      ops__chosen_cost, OPS_TASKS(ops__attend_chosen, ops__chosen_tasks), .needs = ops__chosen_needs, OPS_HOST)                 \
    X(POOL, "pool", DEV_WRITES, 0, 0, 0, 0, op->n,                                                                              \
      ops__no_cost, OPS_TASKS(ops__pool, ops__choose_tasks), .needs = ops__pool_needs, OPS_HOST)                                \
    X(ATTEND_POOLED, "attend, pooled", DEV_WRITES, ops__all_heads(op), op->n_head * op->cache.hd_k, op->cache.top, 0, 0,        \
      ops__attend_pooled_cost, OPS_TASKS(ops__attend_pooled, ops__attend_pooled_tasks), .needs = ops__attend_pooled_needs,      \
      OPS_HOST)                                                                                                                 \
    X(HYPER, "hyper", DEV_WRITES, ops__hyper_width(op), ops__hyper_width(op), 0, 0, ops__hyper_width(op),                       \
      ops__no_cost, OPS_ROW(ops__hyper), OPS_HOST)                                                                              \
    X(COLLAPSE, "collapse", DEV_WRITES, op->n, op->n * op->n_head, op->n_head, 0, 0,                                            \
      ops__no_cost, OPS_ROW(ops__collapse), OPS_HOST)                                                                           \
    X(EXPAND, "expand", DEV_WRITES, ops__all_heads(op), op->n, op->n * op->n_head, (2 + op->n_head) * op->n_head, 0,            \
      ops__no_cost, OPS_ROW(ops__expand), OPS_HOST)                                                                             \
    X(FORM, "form", DEV_FORMS, ops__all_heads(op), 0, 0, 0, 0,                                                                  \
      ops__no_cost, OPS_ROW(ops__form_row), OPS_GPU(K_ROW_FORM), .gpu_args = ops__form_args)                                    \
    X(MATMUL, "matmul", DEV_WRITES, 0, 0, 0, 0, 0,                                                                              \
      ops__matmul_cost, OPS_ALL(ops__products), .gpu = &ops_products, .gpu_can = ops__products_can)                             \
    X(LOW, "low", DEV_WRITES, 0, 0, 0, 0, 0,                                                                                    \
      ops__low_cost, .run = ops__low, .tasks = ops__low_tasks, .all = ops__low_all, .needs = ops__low_needs, OPS_HOST)          \
    X(WATCH, "watch", DEV_WRITES, 0, 0, 0, 0, 0,                                                                                \
      ops__no_cost, OPS_ALL(ops__watched), OPS_HOST)                                                                            \
    X(ACTIVATE, "activate", DEV_CHANGES, ops__all_heads(op), op->n, 0, 0, 0,                                                    \
      ops__no_cost, OPS_ROW(ops__activate), OPS_GPU(K_ROW_ACTIVATE), OPS_TOLD(act))                                             \
    X(ROUTE, "route", DEV_WRITES, op->experts.used, op->experts.n, 0, 0, op->experts.n,                                         \
      ops__no_cost, OPS_ROW(ops__route), OPS_GPU(K_ROW_ROUTE), .gpu_args = ops__route_args, .gpu_can = ops__route_can)          \
    X(FAMILY, "family", DEV_WRITES, op->n, op->n, 0, 0, 0,                                                                      \
      ops__no_cost, OPS_ROW(ops__family), OPS_GPU(K_ROW_FAMILY), OPS_TOLD(share))                                               \
    X(GROUP, "group", DEV_WRITES, op->experts.used, op->experts.used, 0, 0, 0,                                                  \
      ops__no_cost, OPS_TASKS(ops__group, ops__one_task), .needs = ops__group_needs, .gpu = &ops_sort, .gpu_can = ops__sort_can) \
    X(MIX, "mix", DEV_WRITES, ops__all_heads(op), op->n, op->experts.used, op->experts.used, ops__vec_each(op),                 \
      ops__no_cost, OPS_ROW(ops__mix), OPS_GPU(K_ROW_MIX), .gpu_args = ops__slots_args)                                         \
    X(GATE, "gate", DEV_WRITES, 1, op->n, 0, 0, op->n,                                                                          \
      ops__no_cost, OPS_ROW(ops__gate), OPS_GPU(K_ROW_GATE))                                                                    \
    X(ADD_SCALED, "add scaled", DEV_CHANGES, ops__all_heads(op), op->n, 1, 0, 0,                                                \
      ops__no_cost, OPS_ROW(ops__add_scaled), OPS_GPU(K_ROW_ADD_SCALED))                                                        \
    X(XIELU, "xielu", DEV_CHANGES, ops__all_heads(op), 0, 0, 0, 0,                                                              \
      ops__no_cost, OPS_ROW(ops__xielu), OPS_GPU(K_ROW_XIELU), OPS_TOLD(xielu))                                                 \
    X(SCALE_BY, "scale by", DEV_CHANGES, ops__all_heads(op), op->in[0] ? ops__heads(op) : 0, 0, 0, ops__heads(op),            \
      ops__no_cost, OPS_ROW(ops__scale_by), OPS_GPU(K_ROW_SCALE_BY))                                                            \
    X(WEIGH, "weigh", DEV_CHANGES, ops__all_heads(op), op->experts.used, op->experts.used, op->experts.used, 0,                 \
      ops__no_cost, OPS_ROW(ops__weigh), OPS_GPU(K_ROW_WEIGH), .gpu_args = ops__slots_args)                                     \
    X(MUL, "mul", DEV_WRITES, op->mul.to + op->n, op->mul.a + op->n, op->mul.b + op->n, 0, 0,                                   \
      ops__no_cost, OPS_ROW(ops__mul_rows), OPS_GPU(K_ROW_MUL), OPS_TOLD(mul))                                                  \
    X(CONV, "conv", DEV_WRITES, ops__all_heads(op), ops__state_end(op), ops__n_gates(op, 0), ops__n_gates(op, 1),               \
      op->state.n_vec, ops__no_cost, OPS_TASKS(ops__conv, ops__conv_tasks), OPS_GPU(K_ROW_CONV),                                \
      .gpu_args = ops__conv_args)                                                                                               \
    X(DELTA, "delta", DEV_WRITES, ops__all_heads(op), ops__state_end(op), ops__n_gates(op, 0), ops__n_gates(op, 1),             \
      op->state.n_vec,                                                                                                          \
      ops__delta_cost, OPS_TASKS(ops__delta, ops__delta_tasks), .needs = ops__delta_needs, .gpu = &ops_delta,                   \
      .gpu_can = ops__delta_can)                                                                                                \
    X(SHIFT, "shift", DEV_WRITES, op->n, ops__state_end(op), 0, 0, 0,                                                           \
      ops__no_cost, OPS_TASKS(ops__shift, ops__row_tasks), OPS_GPU(K_ROW_SHIFT), .gpu_args = ops__state_args)                   \
    X(GRAMS, "grams", DEV_WRITES, ops__all_heads(op), ops__state_end(op), 0, 0, 0,                                              \
      ops__grams_cost, OPS_TASKS(ops__grams, ops__row_tasks), OPS_HOST)                                                         \
    X(LERP, "lerp", DEV_WRITES, op->n, op->n, op->n, op->vec ? 0 : op->n, op->n,                                                \
      ops__no_cost, OPS_ROW(ops__lerp), OPS_GPU(K_ROW_LERP))                                                                    \
    X(ADD_HEADS, "add heads", DEV_CHANGES, ops__all_heads(op), ops__all_heads(op), op->n_head, 0, 0,                            \
      ops__no_cost, OPS_ROW(ops__add_heads), OPS_GPU(K_ROW_ADD_HEADS))                                                          \
    X(KEEP, "keep", DEV_WRITES, 0, ops__state_end(op), ops__n_gates(op, 0), ops__n_gates(op, 1), 0,                             \
      ops__no_cost, OPS_ROW(ops__keep), OPS_GPU(K_ROW_KEEP), .gpu_args = ops__state_args)                                       \
    X(SPARSE, "sparse", DEV_CHANGES, ops__all_heads(op), 0, 0, 0, 0,                                                            \
      ops__no_cost, OPS_ROW(ops__sparse), OPS_GPU(K_ROW_SPARSE))                                                                \
    X(BLEND, "blend", DEV_WRITES, ops__all_heads(op), op->n * op->n_head, op->n_head * op->n_head, 0, 0,                        \
      ops__no_cost, OPS_ROW(ops__blend), OPS_GPU(K_ROW_BLEND))                                                                  \
    X(CORRECT, "correct", DEV_WRITES, ops__all_heads(op), op->n * op->n_head, op->n, op->n_head, 0,                             \
      ops__no_cost, OPS_ROW(ops__correct), OPS_GPU(K_ROW_CORRECT), OPS_TOLD(active) )                                           \
    X(RAISE, "raise", DEV_CHANGES, ops__all_heads(op), op->n, 0, 0, 0,                                                          \
      ops__no_cost, OPS_ROW(ops__raise), OPS_GPU(K_ROW_RAISE))                                                                  \
    X(MEAN, "mean", DEV_WRITES, op->n, op->n * op->n_head, 0, 0, 0,                                                             \
      ops__no_cost, OPS_ROW(ops__mean), OPS_HOST)                                                                               \
    X(INJECT, "inject", DEV_WRITES, ops__all_heads(op), op->n * op->n_head, op->n, op->n_head, 0,                               \
      ops__no_cost, OPS_ROW(ops__inject), OPS_HOST)                                                                             \
    X(RECALL, "recall", DEV_WRITES, ops__all_heads(op), op->n * op->n_head, op->n * op->n_head, op->n, 0,                       \
      ops__no_cost, OPS_ROW(ops__recall), OPS_HOST)                                                                             \
    X(LEVEL, "level", DEV_WRITES, op->to + op->n, op->n, op->n, 0, 0,                                                     \
      ops__no_cost, OPS_ROW(ops__level), OPS_GPU(K_ROW_LEVEL), OPS_TOLD(to))

#define OPS__NUMBER(kind, ...) OPS_##kind,
#define OPS__NUMBERS_OF(kind, name_, place_, width_, in0_, in1_, in2_, vec_, ...)                                              \
    static int    ops__width_##kind(const dev_op *op) { return (void)op, width_; }                                             \
    static int    ops__reads_##kind(const dev_op *op, int i) { return (void)op, i == 0 ? in0_ : i == 1 ? in1_ : in2_; }        \
    static size_t ops__vec_##kind(const dev_op *op) { return (void)op, (size_t)vec_; }
#define OPS__ROW(kind, name_, place_, width_, in0_, in1_, in2_, vec_, cost_, ...)                                              \
    [OPS_##kind] = {.name = name_, .place = place_, .width = ops__width_##kind, .reads = ops__reads_##kind,                    \
                    .vec = ops__vec_##kind, .cost = cost_, __VA_ARGS__},

enum { OPS_KINDS(OPS__NUMBER) OPS_N };                /* dev_op.kind */
OPS_KINDS(OPS__NUMBERS_OF)
static const dev_kind ops_kinds[OPS_N] = {OPS_KINDS(OPS__ROW)};
