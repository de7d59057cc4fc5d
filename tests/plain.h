/* plain.h - the plain reference for operations of [ops]: one thread at the scalar level, rows and products from the last to the
 * first, one row of weights at a time from the file's layout, attention one query at a time, which looks for the positions that
 * it sees, experts row by row. */
#ifndef PLAIN_H
#define PLAIN_H

/* All products, row by row of the weights as the file has them. */
static void plain__products(dev *dv, const dev_op *op) {
    int                n;
    const dev_product *list = ops__list(dv->run->plan, op, &n);
    const dev_op *before = ops__low_before(dv->run->plan, op);
    const ops_low_stage low = {before, before ? ops__low_tasks(dv->run, before) : 0};
    for (int i = n - 1; i >= 0; i--) {
        dev_mat     w = *list[i].w;
        dev_product m = list[i];
        w.packed = NULL;
        m.w = &w;
        for (int r = m.n > 0 ? m.n_out - 1 : -1; r >= 0; r--) ops__mul(dv, &m, &low, r, 1, 0, m.n);
    }
}

/* Whether row r of the batch sees position `at` of its sequence: of those before it, or of all rows of the sequence. */
static bool plain__sees(const dev_batch *b, const dev_op *op, int r, int64_t at) {
    const int64_t apart = b->pos[r] - at, window = op->cache.window;
    if (op->cache.view == VIEW_CHUNK) return apart >= 0 && at / window == b->pos[r] / window;
    if (op->cache.view == VIEW_PAST) return apart >= 0 && (!window || apart < window);
    for (int i = 0; i < b->n; i++)
        if (b->seq[i] == b->seq[r] && b->pos[i] == at) return !window || llabs(apart) <= window / 2;
    return false;
}

/* Attention of head h for the operation's row i. */
static void plain__query(dev *dv, const dev_op *op, int i, int h) {
    const dev_run   *run = dv->run;
    const dev_batch *b = run->batch;
    const dev_kv    *kv = op->cache.kv;
    const int        r = run->plan->rows[op->rows].row[i];
    const uint8_t  **kb = run->views[dv->ith], **vb = kb + run->n_views;
    int              n_blocks;
    const int32_t   *table = dev_table(b, kv->group, r, &n_blocks);
    k_attn_row       row = {.q = ops__in(dv, op, 0, i) + h * kv->hd_k, .o = ops__out(dv, op, 0, i) + h * kv->hd_v,
                            .at = b->pos[r],
                            .bias = op->cache.bias ? op->cache.bias + h * (2 * op->cache.reach + 1) : NULL};
    while (!plain__sees(b, op, r, row.begin)) row.begin++;
    for (row.end = row.begin; row.end < n_blocks * kv->block && plain__sees(b, op, r, row.end);) row.end++;
    ops__kv_views(kv, table, n_blocks, h / op->cache.group, kb, vb);
    const k_attn_args a = {.n_rows = 1, .rows = &row, .hd_k = kv->hd_k, .hd_v = kv->hd_v, .scale = op->scale,
                           .softcap = op->cache.cap, .reach = op->cache.bias ? op->cache.reach : 0,
                           .sinks = op->cache.sinks ? op->cache.sinks + h : NULL,
                           .slopes = op->cache.slope ? op->cache.slope + h : NULL,
                           .type_k = kv->type_k, .type_v = kv->type_v, .k_blocks = kb, .v_blocks = vb, .block = kv->block,
                           .k_stride = kv->k_stride, .v_stride = kv->v_stride};
    k_attn(&a, dv->scratch);
}

static void plain__attend(dev *dv, const dev_op *op) {
    for (int i = dv->run->plan->rows[op->rows].n - 1; i >= 0; i--)
        for (int h = op->n_head - 1; h >= 0; h--) plain__query(dv, op, i, h);
}

/* The slots of experts: by expert, then by row. Then the list of their products, as a step has it. */
static void plain__slots(dev *dv, const dev_op *op) {
    const int n = dv->run->plan->rows[op->rows].n;
    int       slot = 0;
    ops__group(dv, op, 0);
    for (int e = 0; e < op->experts.n; e++)
        for (int r = 0; r < n; r++)
            for (int i = 0; i < op->experts.used; i++) {
                if (dev_ints(ops__in(dv, op, 0, r))[i] != e) continue;
                dev_ints(ops__out(dv, op, 1, r))[i] = slot;
                dev_ints(ops__out(dv, op, 0, 0))[slot++] = r;
            }
}

/* One operation. */
static void plain_run(dev *dv, const dev_op *op) {
    if (op->kind == OPS_ATTEND) plain__attend(dv, op);
    else if (op->kind == OPS_GROUP) plain__slots(dv, op);
    else if (op->kind == OPS_MATMUL) plain__products(dv, op);
    else
        for (int i = op->row->run ? dev__count(dv->run, op) - 1 : -1; i >= 0; i--) {
            op->row->run(dv, op, i);
            if (op->kind == OPS_LOW) pool_done(dv->p);
        }
}
#endif
