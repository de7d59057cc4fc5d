/* ===== [dev_gpu] the part of a plan that GPUs run =====
 * The last operations of a list, one GPU after the other, each of them a run of layers (dev_gpus). They become launches, once:
 * how is said by the row of the operation's kind (dev_gpu_way), which [ops] fills. Weights are copied as the first plan needs
 * them. What changes from step to step goes up in one piece before the launches of a GPU: the batch, and the rows that operations
 * before them have written and these read. What a later GPU reads comes down after them; after the last one's, what the step is
 * for.
 *
 *     host           | GPU 0                           | GPU 1                               |
 *     phases on CPUs | rows up | launches | rows down  | rows up | launches | result or ids  |
 *
 * The bytes of `sent`:  k_cuda_step | rows that ask [max_out] | rows of buffers [rows, up_width] | arrays of the batch
 * Public: dev_gpu_fill, dev_gpu_free, dev_gpu_needs_of, dev_gpu_step, dev_gpu_fetch; for the rows of operations: dev_gpu_new,
 * dev_gpu_copy, dev_gpu_rows, dev_gpu_kv, dev_gpu_state, dev_gpu_sent, dev_gpu_mat, dev_gpu_mat_bytes.
 * Opens: dev_gpu_bounds, dev_gpu_launch, dev_gpu_needs, dev_gpu_room, dev_gpu_share, dev_gpu_way. */

enum {
    DEV_GPU_UP = 8,                                   /* most buffers that go up; that come down */
    DEV_GPU_PARTS = 32 << 20,                         /* bytes of partial results of attention; or one row's, which may be more */
    DEV_GPU_PIECE = 16 << 20,                         /* bytes of weights that go up at once */
    DEV_GPU_SPACE = 1 << 30,                          /* most bytes of a step that go up, and of partial results */
    DEV_GPU_ROWS = 7,                                 /* steps whose launches are recorded have less than 1 << 7 rows, */
    DEV_GPU_SEGMENTS = 12,                            /* and less than 1 << 12 segments */
};

/* Rows of each set, segments of attention and sequences for which a step is launched: what it has, or more. */
typedef struct {
    int n[DEV_ROW_SETS];                              /* rows */
    int segments;                                     /* of K_SEGMENT positions, of the longest sequence */
    int n_seq;
} dev_gpu_bounds;

/* What launches need beside buffers: each raises it to what it needs. */
typedef struct {
    size_t parts;                                     /* floats of partial results of attention */
    size_t slots;                                     /* of experts */
    size_t tiles[2];                                  /* numbers of a list of tiles with few columns, with many */
} dev_gpu_room;

/* One launch, or two. Which kernels there are depends on the kind; -1: none. */
typedef struct {
    const dev_op      *op;                            /* [n] */
    int                n;                             /* operations */
    const dev_product *product;                       /* NULL: rows, attention, a delta rule or the sort of slots */
    int                kernel;                        /* -1 where attention takes `many` for any number of rows */
    int                many;                          /* of products with many columns, of attention with many rows */
    int                merge;                         /* of attention */
    union {
        k_cuda_mul         mul;
        k_cuda_rows_args   rows;
        k_cuda_attend_args attend;
        k_cuda_sort_args   sort;
        k_cuda_delta_args  delta;
    };
} dev_gpu_launch;

/* A buffer that goes up or comes down. */
typedef struct {
    dev_buf     buf;
    int         at;                                   /* up: where its values begin in rows of up_width values */
    dev_row_set rows;                                 /* down: which ones */
} dev_gpu_carry;

/* The operations of one GPU, with their launches and memory. */
typedef struct dev_gpu_share {
    gpu            *g;
    const dev_gpus *on;                               /* it and the others */
    int             op;                               /* the first of its operations */
    int             op_end;                           /* the one after the last */
    int             phase;                            /* the first of its phases */
    int             phase_end;                        /* the one after the last */
    dev_gpu_launch *launch;                           /* [n_launch] */
    int             n_launch;
    dev_acts       *a;                                /* [n_buf of the plan] memory of the buffers there; no x: none */
    dev_gpu_carry   up[DEV_GPU_UP];                   /* [n_up] buffers that go up */
    int             n_up;
    int             up_width;                         /* values of all of them for one row */
    bool            states;                           /* its operations read what the batch says of recurrent states */
    dev_gpu_carry   down[DEV_GPU_UP];                 /* [n_down] buffers that come down */
    int             n_down;
    gpu_span        sent;                             /* what goes up */
    size_t          rows_at;                          /* bytes, where the rows of buffers begin there */
    uint8_t        *stage;                            /* [stage_bytes] where the host writes that down */
    size_t          stage_bytes;
    gpu_span        parts;                            /* partial results of attention, of at least one row */
    int32_t        *slot_row;                         /* while launches are written: of each slot of the experts at hand */
    int32_t        *expert;                           /* of the layer at hand: of each slot */
    int32_t        *tiles[2];                         /* of the layer at hand: of products with few columns, with many */
    int32_t        *id;                               /* [max_out] DEV_ID of each row, on the last GPU */
    int             best;                             /* the kernel that finds them */
    int             graph[DEV_GPU_ROWS][DEV_GPU_ROWS + 1][DEV_GPU_SEGMENTS];   /* of steps by size: 0 or 1 came, 2 + recorded */
    void          **own;                              /* [n_own] memory on the GPU */
    int             n_own;
} dev_gpu_share;

/* How operations become launches. */
typedef struct dev_gpu_way {
    void (*room)(const dev_plan *p, const dev_op *op, const dev_gpu_bounds *z, dev_gpu_room *to);   /* NULL: buffers alone */
    void (*add)(dev_gpu_share *sh, const dev_op *op, int n);   /* the launches of a phase, by dev_gpu_new(); NULL: none */
    void (*launch)(dev_gpu_share *sh, dev_gpu_launch *l, const dev_gpu_bounds *z);
} dev_gpu_way;

/* Memory on the GPU for n elements; the run ends where there is none. */
static void *dev_gpu__take(dev_gpu_share *sh, size_t n, size_t each) {
    const size_t n_bytes = mem_size(n, each);
    void        *p = gpu_new(sh->g, n_bytes ? n_bytes : 1);
    if (!p) die(EXIT_RESOURCE, "the GPU has no %zu bytes for a step", n_bytes);
    sh->own = mem_reserve(sh->own, (uint64_t)sh->n_own, UINT64_MAX, sizeof *sh->own);
    return sh->own[sh->n_own++] = p;
}

/* A copy on the GPU; NULL of NULL. */
static void *dev_gpu_copy(dev_gpu_share *sh, const void *from, size_t n, size_t each) {
    if (!from) return NULL;
    void *p = dev_gpu__take(sh, n, each);
    gpu_up(sh->g, p, from, n * each);
    gpu_wait(sh->g);
    return p;
}

/* The step, in the device's memory. */
static const k_cuda_step *dev_gpu_sent(const dev_gpu_share *sh) { return (const k_cuda_step *)(const void *)sh->sent.base; }

/* A launch more, of n operations by a kernel; NULL: it has none so far. Valid until the next one. */
static dev_gpu_launch *dev_gpu_new(dev_gpu_share *sh, const dev_op *op, int n, const char *kernel) {
    sh->launch = mem_reserve(sh->launch, (uint64_t)sh->n_launch, UINT64_MAX, sizeof *sh->launch);
    dev_gpu_launch *l = &sh->launch[sh->n_launch++];
    *l = (dev_gpu_launch){.op = op, .n = n, .kernel = kernel ? gpu_kernel(sh->g, kernel) : -1, .many = -1, .merge = -1};
    return l;
}

/* Which of the buffers that go up b is; -1: none. */
static int dev_gpu__up(const dev_gpu_share *sh, dev_buf b) {
    int i = sh->n_up - 1;
    while (i >= 0 && sh->up[i].buf != b) i--;
    return i;
}

/* A buffer comes down. */
static void dev_gpu__downs(dev_gpu_share *sh, dev_buf b, dev_row_set rows) {
    int i = 0;
    while (i < sh->n_down && sh->down[i].buf != b) i++;
    if (i < sh->n_down) return;
    ASSERT(sh->n_down < DEV_GPU_UP);
    sh->down[sh->n_down++] = (dev_gpu_carry){.buf = b, .rows = rows};
}

/* A buffer is read: unless this GPU wrote it, it goes up, and before that comes down from the GPU that wrote it. */
static void dev_gpu__reads(const dev_plan *p, dev_gpu_share *sh, dev_gpu_share **wrote, dev_buf b) {
    if (!b || wrote[b] == sh || dev_gpu__up(sh, b) >= 0) return;
    ASSERT(sh->n_up < DEV_GPU_UP && p->buf[b].each == 1 && p->buf[b].most == DEV_ALL);
    if (wrote[b]) dev_gpu__downs(wrote[b], b, DEV_ALL);
    sh->up[sh->n_up++] = (dev_gpu_carry){.buf = b, .at = sh->up_width};
    sh->up_width += (int)dev_stride(p->buf[b].width, 16, sizeof(float));
}

/* Which buffers go up, and which of them come down from GPUs before it. wrote: [n_buf] the GPU that wrote each last, NULL: the
 * host. */
static void dev_gpu__ups(const dev_plan *p, dev_gpu_share *sh, dev_gpu_share **wrote) {
    for (int i = sh->op; i < sh->op_end; i++) {
        const dev_op *op = &p->op[i];
        for (int k = 0; k < 3; k++) dev_gpu__reads(p, sh, wrote, op->in[k]);
        for (int k = 0; k < 2; k++)
            if (op->row->place != DEV_WRITES) dev_gpu__reads(p, sh, wrote, op->out[k]);
        for (int k = 0; k < op->n_product; k++) dev_gpu__reads(p, sh, wrote, op->product[k].in);
        for (int k = 0; k < 2; k++) wrote[op->out[k]] = sh;
        for (int k = 0; k < op->n_product; k++) wrote[op->product[k].out] = sh;
    }
}

/* Memory of a buffer. One that goes up has its rows where they arrive. */
static void dev_gpu__buf(const dev_plan *p, dev_gpu_share *sh, dev_buf b) {
    const dev_acts *host = &p->buf[b].a;
    dev_acts       *a = &sh->a[b];
    const size_t    rows = (size_t)host->rows;
    if (!p->buf[b].width) return;
    *a = (dev_acts){.rows = host->rows, .ldx = host->ldx, .ldq = host->ldq};
    const int up = dev_gpu__up(sh, b);
    if (up >= 0) {
        a->x = (float *)(void *)(sh->sent.base + sh->rows_at) + sh->up[up].at;
        a->ldx = (size_t)sh->up_width;
    }
    if (!a->x) a->x = dev_gpu__take(sh, rows * a->ldx, sizeof *a->x);
    if (host->h) a->h = dev_gpu__take(sh, rows * a->ldx, sizeof *a->h);
    if (!host->q) return;
    a->q = dev_gpu__take(sh, 2 * rows * a->ldq, sizeof *a->q);
    a->sum = dev_gpu__take(sh, 2 * rows * (a->ldq / 256), sizeof *a->sum);
    a->d = dev_gpu__take(sh, 2 * rows * (a->ldq / 256), sizeof *a->d);
    a->split = dev_gpu__take(sh, rows, sizeof *a->split);
}

/* Rows of a buffer there. */
static k_cuda_buf dev_gpu_rows(const dev_gpu_share *sh, dev_buf b) { return (k_cuda_buf){sh->a[b].x, sh->a[b].ldx}; }

/* Where the cache keeps keys and values of a layer there. */
static k_kv_place dev_gpu_kv(const dev_gpu_share *sh, const dev_kv *kv) {
    const dev_tail *t = dev_tail_at(kv->mem, kv->k_at);
    k_kv_place      there = *kv;
    ASSERT(t->g == sh->g && kv->v_at < t->at + t->bytes);
    there.mem = NULL;
    there.base = t->all.base;
    there.block_bytes = t->bytes;
    there.k_at = kv->k_at - t->at;
    there.v_at = kv->v_at - t->at;
    return there;
}

/* Where the cache keeps the states of a layer there; what the batch says of states goes up, too. */
static k_state_place dev_gpu_state(dev_gpu_share *sh, const dev_state *st) {
    const dev_tail *t = dev_tail_at(st->mem, st->ring_at);
    k_state_place   there = *st;
    ASSERT(t->g == sh->g && st->sum_at <= t->at + t->bytes);
    sh->states = true;
    there.mem = NULL;
    there.base = t->all.base;
    there.slot_bytes = t->bytes;
    there.ring_at = st->ring_at - t->at;
    there.gate_at = st->gate_at - t->at;
    there.sum_at = st->sum_at - t->at;
    return there;
}

/* --- weights --- */

/* Bytes of a matrix, of each in a stack, on a GPU. */
static size_t dev_gpu_mat_bytes(const dev_mat *w) {
    return k_wants_q8(w->type) ? k_pack_bytes(w->type, w->n_out, w->n_in) : (size_t)w->n_out * w->row_bytes;
}

/* Puts the i-th matrix of a stack on the GPU: `step` rows of the file at a time go to `raw` through `stage`, and are packed
 * there; floats go where they belong. */
static void dev_gpu__rows_up(gpu *g, const dev_mat *w, int i, int step, uint8_t *stage, uint8_t *raw) {
    k_cuda_pack_args a = {.src = raw, .row_bytes = w->row_bytes, .n = w->n_in,
                          .dst = w->on_gpu + (size_t)i * dev_gpu_mat_bytes(w)};
    const char      *pack = k_wants_q8(w->type) ? k_cuda_pack_of(w->type, &a) : NULL;
    for (int r = 0; r < w->n_out; r += step) {
        a.nr = min_int(w->n_out - r, step);
        const size_t n_bytes = (size_t)a.nr * w->row_bytes;
        memcpy(stage, w->data + (size_t)i * w->mat_bytes + (size_t)r * w->row_bytes, n_bytes);
        gpu_up(g, pack ? raw : a.dst, stage, n_bytes);
        if (pack) gpu_launch(g, gpu_kernel(g, pack), (a.nr + 15) / 16, (a.n + 1023) / 1024, &a, sizeof a);
        gpu_wait(g);
        a.dst += pack ? k_pack_bytes(w->type, a.nr, w->n_in) : n_bytes;
    }
}

/* Puts a matrix into the memory of the GPU; the run ends where there is not so much. */
static void dev_gpu_mat(gpu *g, dev_mat *w) {
    const size_t strip = 16 * w->row_bytes, strips = DEV_GPU_PIECE / strip, all = ((size_t)w->n_out + 15) / 16;
    const int    step = 16 * (int)max_size(min_size(strips, all), 1);
    const size_t piece = (size_t)step / 16 * strip;
    uint8_t     *stage = gpu_pinned(g, piece), *raw = gpu_new(g, piece);
    w->on_gpu = gpu_new(g, dev_gpu_mat_bytes(w) * (size_t)w->n_mat);
    w->gpu = g;
    if (!stage || !raw || !w->on_gpu)
        die(EXIT_RESOURCE, "the GPU has no %zu bytes for weights", dev_gpu_mat_bytes(w) * (size_t)w->n_mat);
    for (int i = 0; i < w->n_mat; i++) dev_gpu__rows_up(g, w, i, step, stage, raw);
    gpu_unpin(g, stage);
    gpu_free(g, raw);
}

/* --- the memory of the operations --- */

/* Floats of the partial results of operations [first, end) for all rows of a step, or of DEV_GPU_PARTS bytes of them, at least of
 * one row; slots and tiles of their experts. z NULL: of any step. */
static dev_gpu_room dev_gpu__room_of(const dev_plan *p, int first, int end, const dev_gpu_bounds *z) {
    dev_gpu_room to = {0};
    for (int i = first; i < end; i++)
        if (p->op[i].row->gpu->room) p->op[i].row->gpu->room(p, &p->op[i], z, &to);
    return to;
}

/* At least so many bytes of a span have memory; the run ends where there is not so much. */
static void dev_gpu__grow(dev_gpu_share *sh, gpu_span *s, size_t n_bytes) {
    if (n_bytes > s->bytes || !gpu_span_grow(sh->g, s, n_bytes))
        die(EXIT_RESOURCE, "the GPU has no %zu bytes for a step", n_bytes);
}

/* At least so many bytes of a step can go up. */
static void dev_gpu__stage(dev_gpu_share *sh, size_t n_bytes) {
    if (n_bytes <= sh->stage_bytes) return;
    gpu_unpin(sh->g, sh->stage);
    sh->stage_bytes = 2 * n_bytes;
    sh->stage = gpu_pinned(sh->g, sh->stage_bytes);
    if (!sh->stage) die(EXIT_RESOURCE, "there are no %zu bytes for a step on the GPU", sh->stage_bytes);
    dev_gpu__grow(sh, &sh->sent, sh->stage_bytes);
}

/* Gives back what dev_gpu_fill() has taken, all but the matrices. */
static void dev_gpu_free(dev_plan *p) {
    for (int k = 0; k < p->n_share; k++) {
        dev_gpu_share *sh = &p->share[k];
        for (int i = 0; i < sh->n_own; i++) gpu_free(sh->g, sh->own[i]);
        gpu_span_free(sh->g, &sh->sent);
        gpu_span_free(sh->g, &sh->parts);
        gpu_unpin(sh->g, sh->stage);
        mem_free_all(sh->own, sh->launch, sh->a);
    }
    mem_free(p->share);
    p->share = NULL;
    p->n_share = 0;
}

/* Which operations and phases each GPU runs. */
static void dev_gpu__runs(dev_plan *p) {
    p->n_share = p->on->n;
    p->share = mem_new((size_t)p->n_share, sizeof *p->share);
    for (int i = p->gpu_phase; i < p->n_phase; i++) {
        dev_gpu_share *sh = &p->share[dev_plan_gpu(p, p->phase[i].first)];
        if (!sh->op_end) sh->op = p->phase[i].first, sh->phase = i;
        sh->op_end = p->phase[i].first + p->phase[i].n;
        sh->phase_end = i + 1;
    }
}

/* Memory and launches of the operations of one GPU. */
static void dev_gpu__fill_one(const dev_plan *p, dev_gpu_share *sh) {
    const dev_gpu_room room = dev_gpu__room_of(p, sh->op, sh->op_end, NULL);
    gpu_span_new(sh->g, &sh->sent, DEV_GPU_SPACE);
    dev_gpu__stage(sh, sh->rows_at + (size_t)p->max_rows * ((size_t)sh->up_width + 8) * sizeof(float));
    for (int b = 1; b < p->n_buf; b++) dev_gpu__buf(p, sh, b);
    gpu_span_new(sh->g, &sh->parts, DEV_GPU_SPACE);
    dev_gpu__grow(sh, &sh->parts, room.parts * sizeof(float));
    if (room.slots) {
        sh->expert = dev_gpu__take(sh, room.slots, sizeof *sh->expert);
        for (int k = 0; k < 2; k++) sh->tiles[k] = dev_gpu__take(sh, room.tiles[k], sizeof *sh->tiles[k]);
    }
    for (const dev_phase *ph = p->phase + sh->phase; ph < p->phase + sh->phase_end; ph++)
        p->op[ph->first].row->gpu->add(sh, &p->op[ph->first], ph->n);
}

/* Memory and launches of all GPUs of a plan, after dev_plan_fill(): nothing where it has none or is counted. */
static void dev_gpu_fill(dev_plan *p) {
    if (p->counting || p->gpu_op == p->n_op) return;
    dev_gpu_share **wrote = mem_new((size_t)p->n_buf, sizeof *wrote);
    dev_gpu__runs(p);
    for (int i = 0; i < p->n_share; i++) {
        dev_gpu_share *sh = &p->share[i];
        sh->g = p->on->g[i];
        sh->on = p->on;
        sh->a = mem_new((size_t)p->n_buf, sizeof *sh->a);
        sh->rows_at = (sizeof(k_cuda_step) + (size_t)p->max_out * sizeof(int32_t) + 63) & ~(size_t)63;
        dev_gpu__ups(p, sh, wrote);
        dev_gpu__fill_one(p, sh);
    }
    dev_gpu_share *last = &p->share[p->n_share - 1];  /* what a step is for comes down from it, whole or as numbers */
    if (p->result) dev_gpu__downs(last, p->result, DEV_OUT);
    for (int i = 0; i < 2; i++)
        if (p->kept[i]) dev_gpu__downs(last, p->kept[i], p->kept_rows);
    last->id = dev_gpu__take(last, (size_t)p->max_out, sizeof *last->id);
    last->best = gpu_kernel(last->g, "k_cuda_best");
    mem_free(wrote);
}

/* --- what GPUs would take --- */

/* Beside keys and values and states. */
typedef struct {
    int         first;                                /* there are kernels for all operations from this layer on */
    const char *lacks;                                /* the operation before them that has none; NULL: all have */
    uint64_t    each;                                 /* bytes on each GPU, whatever it runs: buffers */
    uint64_t   *layer;                                /* [layers] bytes of weights; the last one's with what follows it */
} dev_gpu_needs;

/* Whether there are kernels for an operation. */
static bool dev_gpu__can(const dev_op *op) { return op->row->gpu->add && (!op->row->gpu_can || op->row->gpu_can(op)); }

/* Bytes of the weights of one operation; matrices that the one before it has, too, are counted there. */
static uint64_t dev_gpu__weights(const dev_plan *p, const dev_op *op) {
    uint64_t n = op->vec ? op->row->vec(op) * sizeof(float) : 0;
    for (int k = 0; k < op->n_product; k++) {
        const dev_product *m = &op->product[k];
        if (m == p->product || m[-1].w != m->w) n += (uint64_t)dev_gpu_mat_bytes(m->w) * (uint64_t)m->w->n_mat;
    }
    return n;
}

/* GPU memory that the weights of a complete plan need. to->layer: [n_layer], zeros, of the caller; bytes are added to it. */
static void dev_gpu_needs_of(const dev_plan *p, dev_gpu_needs *to) {
    int i = p->n_op;
    for (; i > 0 && p->op[i - 1].layer >= 0 && dev_gpu__can(&p->op[i - 1]); i--)
        to->layer[p->op[i - 1].layer] += dev_gpu__weights(p, &p->op[i - 1]);
    to->first = i ? p->op[i - 1].layer + 1 : 0;
    to->lacks = to->first ? p->op[i - 1].row->name : NULL;
    to->each = p->n_bytes + dev_gpu__room_of(p, i, p->n_op, NULL).parts * sizeof(float);
}

/* --- a step --- */

/* Appends n values of 4 bytes to what goes up, and returns where they will be; NULL of NULL. */
static int32_t *dev_gpu__send(dev_gpu_share *sh, size_t *at, const int32_t *from, size_t n) {
    const size_t was = *at;
    if (!from) return NULL;
    if (n) memcpy(sh->stage + was, from, n * sizeof *from);
    *at = was + (n * sizeof *from + 7) / 8 * 8;
    return (int32_t *)(void *)(sh->sent.base + was);
}

/* For each row of the batch the position after the last row of its sequence. */
static void dev_gpu__ends(const dev_batch *b, int32_t *end) {
    for (int r = b->n - 1; r >= 0; r--) end[r] = r + 1 < b->n && b->seq[r + 1] == b->seq[r] ? end[r + 1] : b->pos[r] + 1;
}

/* The rows of buffers are written down. */
static void dev_gpu__stage_rows(const dev_plan *p, dev_gpu_share *sh, size_t n) {
    for (int i = 0; i < sh->n_up; i++) {
        const dev_buffer *buf = &p->buf[sh->up[i].buf];
        float            *to = (float *)(void *)(sh->stage + sh->rows_at) + sh->up[i].at;
        for (size_t r = 0; r < n; r++)
            memcpy(to + r * (size_t)sh->up_width, buf->a.x + r * buf->a.ldx, (size_t)buf->width * sizeof(float));
    }
}

/* The arrays of the batch are written down, from *at on; of `to` they are those on the GPU. */
static void dev_gpu__stage_batch(const dev_run *run, dev_gpu_share *sh, size_t *at, dev_batch *to) {
    const dev_batch *b = run->batch;
    const size_t     n = (size_t)b->n, n_seq = (size_t)b->n_seq, n_tables = n_seq * (size_t)b->n_group;
    *to = (dev_batch){.n = b->n, .n_out = b->n_out, .n_seq = b->n_seq, .n_group = b->n_group};
    to->table_at = (size_t *)(void *)(sh->sent.base + *at);
    if (n_tables) memcpy(sh->stage + *at, b->table_at, n_tables * sizeof *b->table_at);
    *at += n_tables * sizeof *b->table_at;
    to->pos = dev_gpu__send(sh, at, b->pos, n);
    to->seq = dev_gpu__send(sh, at, b->seq, n);
    to->table = dev_gpu__send(sh, at, b->table, b->table_at[n_tables]);
    if (sh->states)
        to->turn = (k_turn *)(void *)dev_gpu__send(sh, at, (const int32_t *)b->turn, n_seq * sizeof *b->turn / sizeof(int32_t));
}

/* The batch and the rows of buffers go up. */
static void dev_gpu__upload(const dev_run *run, dev_gpu_share *sh) {
    const dev_plan     *p = run->plan;
    const dev_batch    *b = run->batch;
    const dev_row_list *out = &p->rows[DEV_OUT];
    const size_t        n = (size_t)b->n, n_tables = (size_t)b->n_seq * (size_t)b->n_group;
    const size_t        n_ints = 4 * n + b->table_at[n_tables] + (size_t)b->n_seq + 2;
    size_t              at = sh->rows_at + n * (size_t)sh->up_width * sizeof(float);
    k_cuda_step         step = {.n = {p->rows[DEV_ALL].n, out->n}};
    dev_gpu__stage(sh, at + n_ints * sizeof(int32_t) + n_tables * sizeof *b->table_at + (size_t)b->n_seq * sizeof *b->turn + 64);
    dev_gpu__stage_rows(p, sh, n);
    dev_gpu__stage_batch(run, sh, &at, &step.b);
    step.row[DEV_ALL] = dev_gpu__send(sh, &at, p->rows[DEV_ALL].row, n);
    step.row[DEV_OUT] = (const int32_t *)(const void *)(sh->sent.base + sizeof step);
    memcpy(sh->stage + sizeof step, out->row, (size_t)out->n * sizeof(int32_t));
    if (sh->states) step.seq_at = dev_gpu__send(sh, &at, p->seq_at, (size_t)b->n_seq + 1);
    dev_gpu__ends(b, (int32_t *)(void *)(sh->stage + at));
    step.end = (const int32_t *)(const void *)(sh->sent.base + at);
    memcpy(sh->stage, &step, sizeof step);
    gpu_up(sh->g, sh->sent.base, sh->stage, at + n * sizeof(int32_t));
}

/* What a step has. */
static dev_gpu_bounds dev_gpu__bounds(const dev_run *run) {
    const dev_batch *b = run->batch;
    dev_gpu_bounds   z = {{run->plan->rows[DEV_ALL].n, run->plan->rows[DEV_OUT].n}, 1, b->n_seq};
    for (int r = 0; r < b->n; r++) z.segments = max_int(z.segments, b->pos[r] / K_SEGMENT + 1);
    return z;
}

/* The exponent of the power of two that n is rounded up to; 0 of 0 and of 1. */
static int dev_gpu__log2_up(int n) {
    int i = 0;
    while (1 << i < n) i++;
    return i;
}

/* Partial results of one row have space, also where its positions are more than the model was trained with. */
static void dev_gpu__space(const dev_plan *p, dev_gpu_share *sh, const dev_gpu_bounds *z) {
    dev_gpu__grow(sh, &sh->parts, dev_gpu__room_of(p, sh->op, sh->op_end, z).parts * sizeof(float));
}

static void dev_gpu__launch_all(dev_gpu_share *sh, const dev_gpu_bounds *z) {
    for (dev_gpu_launch *l = sh->launch; l < sh->launch + sh->n_launch; l++) l->op->row->gpu->launch(sh, l, z);
}

/* Runs all launches. Those of a step with few rows are recorded when one of its size comes again: sizes are powers of two. */
static void dev_gpu__run(const dev_plan *p, dev_gpu_share *sh, dev_gpu_bounds z) {
    const int log[] = {dev_gpu__log2_up(z.n[DEV_ALL]), dev_gpu__log2_up(z.n[DEV_OUT]), dev_gpu__log2_up(z.segments)};
    dev_gpu__space(p, sh, &z);
    const bool few = log[0] < DEV_GPU_ROWS && log[2] < DEV_GPU_SEGMENTS;
    int       *graph = few ? &sh->graph[log[0]][z.n[DEV_OUT] ? 1 + log[1] : 0][log[2]] : NULL;
    if (!few || *graph == 0) {
        if (few) *graph = 1;
        dev_gpu__launch_all(sh, &z);
        return;
    }
    if (*graph == 1) {
        z = (dev_gpu_bounds){{1 << log[0], z.n[DEV_OUT] ? 1 << log[1] : 0}, 1 << log[2], 1 << log[0]};
        dev_gpu__space(p, sh, &z);
        gpu_record(sh->g);
        dev_gpu__launch_all(sh, &z);
        *graph = 2 + gpu_recorded(sh->g);
    }
    gpu_replay(sh->g, *graph - 2);
}

/* The numbers of the largest logits come down in place of these, to where the rows that ask went up from. */
static const int32_t *dev_gpu__ids(const dev_plan *p, dev_gpu_share *sh) {
    const int              n = p->rows[DEV_OUT].n;
    int32_t               *to = (int32_t *)(void *)(sh->stage + sizeof(k_cuda_step));
    const k_cuda_best_args a = {.step = dev_gpu_sent(sh), .set = DEV_OUT, .n = p->buf[p->result].width,
                                .x = dev_gpu_rows(sh, p->result), .out = sh->id};
    gpu_launch(sh->g, sh->best, n, 1, &a, sizeof a);
    gpu_down(sh->g, to, sh->id, (size_t)n * sizeof *to);
    return to;
}

/* The rows of a buffer that were written. */
static void dev_gpu__buf_down(const dev_plan *p, dev_gpu_share *sh, dev_buf b, dev_row_set rows) {
    const dev_acts *to = &p->buf[b].a;
    gpu_down(sh->g, to->x, sh->a[b].x, (size_t)p->rows[rows].n * to->ldx * sizeof(float));
}

/* What comes down, when all is done; ids: numbers in place of the result. Buffers whose rows lie among all that went up come in
 * one piece with these, by way of the stage. Returns the numbers, NULL: there are none. */
static const int32_t *dev_gpu__download(const dev_plan *p, dev_gpu_share *sh, bool ids) {
    const int32_t *got = NULL;
    const size_t   width = (size_t)sh->up_width;
    float         *rows = (float *)(void *)(sh->stage + sh->rows_at);
    size_t         n_mixed = 0;
    for (int i = 0; i < sh->n_down; i++) {
        const dev_gpu_carry *c = &sh->down[i];
        if (ids && c->buf == p->result) got = dev_gpu__ids(p, sh);
        else if (dev_gpu__up(sh, c->buf) < 0) dev_gpu__buf_down(p, sh, c->buf, c->rows);
        else n_mixed = max_size(n_mixed, (size_t)p->rows[c->rows].n);
    }
    gpu_down(sh->g, rows, sh->sent.base + sh->rows_at, n_mixed * width * sizeof(float));
    gpu_wait(sh->g);
    for (int i = 0; i < sh->n_down; i++) {
        const dev_buffer *to = &p->buf[sh->down[i].buf];
        const int         up = dev_gpu__up(sh, sh->down[i].buf), n = up < 0 ? 0 : p->rows[sh->down[i].rows].n;
        for (size_t r = 0; r < (size_t)n; r++)
            memcpy(to->a.x + r * to->a.ldx, rows + sh->up[up].at + r * width, (size_t)to->width * sizeof(float));
    }
    return got;
}

/* Whether numbers are all that the batch asks for. */
static bool dev_gpu__ids_alone(const dev_batch *b) {
    int r = 0;
    while (r < b->n && !(b->want[r] & ~DEV_ID)) r++;
    return b->n_out && r == b->n;
}

/* The operations of the GPUs, after dev_step() has run those of the host. */
static void dev_gpu_step(dev_run *run) {
    const double t0 = run->times ? clock_now() : 0;
    const bool   ids = run->plan->n_share && dev_gpu__ids_alone(run->batch);
    for (int k = 0; k < run->plan->n_share; k++) {
        dev_gpu_share *sh = &run->plan->share[k];
        dev_gpu__upload(run, sh);
        dev_gpu__run(run->plan, sh, dev_gpu__bounds(run));
        run->ids = dev_gpu__download(run->plan, sh, ids);
    }
    if (run->times && run->plan->n_share) run->times->gpu += clock_now() - t0;
}

/* The logits of a step that gave numbers in their place come after all. */
static void dev_gpu_fetch(dev_run *run) {
    dev_gpu_share *sh = &run->plan->share[run->plan->n_share - 1];
    ASSERT(run->ids);
    dev_gpu__buf_down(run->plan, sh, run->plan->result, DEV_OUT);
    gpu_wait(sh->g);
    run->ids = NULL;
}
