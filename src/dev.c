/* ===== [dev] the device: memory, batches, plans and the threads that run them =====
 * A step is a list of operations over buffers (dev_plan), written once for a model and run for every batch, which is plain
 * numbers (dev_batch). The list names operations, weights and buffers. What an operation does is a row of a table (dev_kind),
 * which [ops] fills; nothing here knows one of them. The memory of the cache is here too: above, its blocks are numbers.
 *
 *     a plan    operations   embed   norm   form | matmul  | rope   store | attend      | form  | matmul  | ...
 *               phases       --------- 0 ------- | -- 1 -- | ----- 2 ---- | ---- 3 ---- | - 4 - | -- 5 -- |   a barrier at each |
 *               a task       a row of the batch  | rows of | a row, of    | rows of a   | a row | rows of |
 *                                                | weights | one of two   | sequence, a |       | weights |
 *                                                |         | chains       | K/V head    |       |         |
 *               buffers      "x" [B, D]   "xn" [B, D]   "q" [B, H*HD] ...   as wide as what is written to them; a row set,
 *                                                                           DEV_ALL or DEV_OUT, says which rows one holds
 *
 *     a step    dev_batch    row    0   1   2 | 3 | 4   5    rows of one sequence side by side, in rising position
 *                            seq    0   0   0 | 1 | 2   2    each with its block numbers of every group of the cache
 *                            want   -   -   L | L | -   L    L: logits; these rows are the set DEV_OUT
 *               CPU          every thread of the pool goes through the phases, up to gpu_phase
 *               GPUs         the phases from there on, as launches ([dev_gpu])
 *
 * On the CPU operations that work on the rows of a batch one by one form chains without a barrier; products and attention are
 * phases of their own. A phase begins when all threads are done with the one before, and deals its tasks through the pool; one of
 * a single task is done inside the barrier. How tasks fall never changes a result: each output is summed by one thread in one
 * order. GPUs may run the last operations of the list, each of them a run of layers (dev_gpus), and the last one what follows
 * these. Their results have the same bits, unless dev_gpus.tensor gives that up. Weights, buffers, keys and values and recurrent
 * states of a layer lie in the memory of its GPU.
 * Public: dev_begin, dev_wait, dev_deal, dev_rows; dev_part_row; dev_acts_at, dev_input, dev_ints, dev_mat_drop,
 * dev_mat_read_ahead; dev_gpus_count, dev_gpus_new, dev_gpus_add, dev_gpus_only, dev_gpus_drop, dev_gpus_close,
 * dev_gpus_memory, dev_gpus_about, dev_gpus_of, dev_gpus_order; dev_blocks_new, dev_blocks_split, dev_blocks_place,
 * dev_blocks_mapped, dev_blocks_more, dev_blocks_free, dev_blocks_read, dev_blocks_write, dev_blocks_copy, dev_blocks_clear,
 * dev_block, dev_tail_at; dev_table, dev_n_rows;
 * dev_plan_begin, dev_plan_buf, dev_plan_op, dev_plan_product, dev_plan_rows, dev_plan_heads, dev_plan_fill, dev_plan_free,
 * dev_plan_cost, dev_plan_gpu, dev_stride; dev_adapters_of, dev_step, dev_run_free.
 * Opens: dev, dev_acts, dev_adapters, dev_before, dev_blocks, dev_buffer, dev_cost, dev_gpus, dev_kind, dev_low, dev_low_rows,
 * dev_mat, dev_needs, dev_op, dev_parts, dev_phase, dev_plan, dev_product, dev_row_list, dev_run, dev_spot, dev_stages,
 * dev_tail, dev_tap, dev_thread, dev_times, dev_use. */

enum { DEV_PARTS = 9 };                               /* parts of a step whose times are counted apart */

/* Seconds, summed over steps. */
typedef struct {
    double all[DEV_PARTS];                            /* of a part */
    double wait[DEV_PARTS];                           /* of that, waiting for the other threads */
    double gpu;                                       /* of the operations of GPUs, and of what goes up and comes down */
    double at;                                        /* until when all is counted */
    _Atomic double single;                            /* what a task inside a barrier took */
    long long steps;
} dev_times;

/* One thread in a step. */
typedef struct {
    pool  *p;
    int    ith;
    void  *scratch;                                   /* this thread's, big enough for every operation */
    const struct dev_tap *tap;                        /* is called with the products, NULL: no tap */
    dev_times *times;                                 /* NULL: nothing is counted */
    int    part;                                      /* what the operations to come are counted as */
    int    open;                                      /* 1 + the part of the operation that others may be at; 0: none */
    const struct dev_run   *run;                      /* the list it goes through, NULL: none */
    const struct dev_phase *phase;                    /* where it is */
    const struct dev_stages *stages;                  /* sees stages in place of the threads; NULL: none */
    _Atomic bool *stop;                               /* set by an interrupt, NULL: an interrupt changes nothing */
} dev;

/* What one thread does inside a barrier. */
typedef struct {
    const dev *dv;
    void (*fn)(void *ctx);                            /* NULL: nothing */
    void *ctx;
} dev_inside;

static void dev__inside(void *ctx) {
    const dev_inside *one = ctx;
    dev_times        *t = one->dv->times;
    const double      t0 = t && one->fn ? clock_now() : 0;
    if (one->dv->stop && g_interrupt) atomic_store_explicit(one->dv->stop, true, memory_order_relaxed);
    if (!one->fn) return;
    one->fn(one->ctx);
    if (t) t->single = clock_now() - t0;
}

/* Tasks [0, n) of a stage, as they are dealt. */
typedef struct {
    int        n;
    const int *at;                                    /* [nodes + 1] the first of each memory node; NULL: any node takes any */
    bool       seats;                                 /* each thread begins with a range of its own (pool_take) */
    void     (*fn)(const dev *dv, const void *ctx, int task);
    const void *ctx;
} dev_stage;

/* Who sees the stages of a step in place of the threads: tests, which count what many threads would do. `close`: a barrier,
 * inside which one thread does something, or nothing. */
typedef struct dev_stages {
    void (*deal)(void *ctx, const dev *dv, const dev_stage *st);
    void (*close)(void *ctx, const dev *dv, bool task);
    void  *ctx;
} dev_stages;

/* Waits for the operation before; fn, if any, is then called by the last thread to arrive. The leading thread counts time. */
static void dev__close(dev *dv, void (*fn)(void *ctx), void *ctx) {
    dev_times   *t = dv->ith ? NULL : dv->times;
    const int    was = dv->open - 1;
    const double t0 = t ? clock_now() : 0;
    if (was < 0) return;
    dv->open = 0;
    if (dv->stages) {
        dv->stages->close(dv->stages->ctx, dv, fn != NULL);
        return;
    }
    if (t) t->single = 0;
    pool_barrier_then(dv->p, dev__inside, &(dev_inside){dv, fn, ctx});
    if (!t) return;
    const double now = clock_now(), single = t->single;
    t->all[dv->part] += single;
    t->all[was] += now - t->at - single;
    t->wait[was] += now - t0 - single;
    t->at = now;
}

/* Waits for the operation before. After the last one, which the job's end waits for too: it is counted. */
static void dev_wait(dev *dv) { dev__close(dv, NULL, NULL); }

/* Before the tasks of an operation. */
static void dev_begin(dev *dv) {
    dev__close(dv, NULL, NULL);
    dv->open = dv->part + 1;
}

/* Every thread calls it after dev_begin(): does the tasks of a stage that it gets. */
static void dev_deal(dev *dv, dev_stage st) {
    if (dv->stages) {
        dv->stages->deal(dv->stages->ctx, dv, &st);
        return;
    }
    for (int task; (task = (st.seats ? pool_take : pool_deal)(dv->p, st.n, st.at)) != POOL_NONE;) st.fn(dv, st.ctx, task);
}

/* A packed matrix whose rows lie on several memory nodes: rows [from[k], from[k + 1]) on the node whose threads multiply them. */
typedef struct dev_parts {
    int      n;                                       /* nodes */
    int      from[HOST_NODES + 1];                    /* [n + 1] rows */
    uint8_t *at[HOST_NODES];                          /* [n] the rows of the first matrix of a stack */
    size_t   bytes[HOST_NODES];                       /* [n] of one matrix there */
} dev_parts;

enum { DEV_PART_ROWS = 64 };                          /* rows of a node begin at multiples of it: tiles of all types do */

/* The first of the rows of an n-row matrix that belong to node k; k may be the number of nodes. */
static int dev_part_row(const pool *p, int n, int k) {
    if (k == pool_nodes(p)) return n;
    return (int)((int64_t)n * pool_node_of(p, k)->from / p->n) / DEV_PART_ROWS * DEV_PART_ROWS;
}

/* What an adapter adds to the product of a matrix: y += scale B (A x) (LoRA: Hu et al. 2021); of a stack, one for each matrix. */
typedef struct {
    int            rank;                              /* 0: the adapter leaves the matrix as it is */
    float          scale;                             /* alpha / rank, say */
    uint32_t       type_a, type_b;                    /* f32 or f16 */
    const uint8_t *a;                                 /* [n_mat, rank, n_in]; of embeddings [tokens, rank] */
    const uint8_t *b;                                 /* [n_mat] tiles as k_add_low() takes them, bytes_b apart */
    size_t         bytes_a, bytes_b;                  /* of one matrix of the stack */
} dev_low;

/* An adapter of a sequence. */
typedef struct {
    int   adapter;                                    /* its number */
    float scale;                                      /* a factor on what it adds, not 0 */
} dev_use;

/* The adapters of a sequence, in rising order of their numbers; NULL in its place: none. */
typedef struct {
    uint64_t mark;                                    /* hash of their contents and scales */
    int      n;
    dev_use  use[];                                   /* [n] */
} dev_adapters;

/* One matrix, or a stack of them (experts). Rows lie row_bytes apart, matrices mat_bytes. */
typedef struct {
    const uint8_t *data;                              /* view into the mapping; NULL: the model has none */
    uint32_t type;
    int      n_in;                                    /* values of a row */
    int      n_out;                                   /* rows */
    int      n_mat;                                   /* matrices in the stack */
    size_t   row_bytes, mat_bytes;
    const float *scale;                               /* [n_mat] factor on each matrix's product, or NULL */
    uint8_t *packed;                                  /* the rows in the packed layout, in the model's `packs`; NULL: none */
    size_t   packed_bytes;                            /* of one matrix of them, on all nodes */
    const dev_parts *parts;                           /* where they lie on several nodes; NULL: all from `packed` on */
    uint8_t *on_gpu;                                  /* the rows on a GPU, packed but for floats; NULL: not there */
    gpu     *gpu;                                     /* that GPU */
    size_t   ahead;                                   /* experts: bytes of a layer to read from the file before their products; 0:
                                                       * none, since all weights fit in memory */
    const dev_low *low;                               /* [n_low] what each adapter adds; NULL: none does */
    int      n_low;                                   /* adapters of the run */
} dev_mat;

/* Asks the kernel to read a matrix of a stack from its file, and does not wait for it. A call reads no more than the device takes
 * at once, whatever it is asked for. */
static void dev_mat_read_ahead(const dev_mat *w, int stack) {
    enum { PIECE = 128 << 10, PAGE = 64 << 10 };      /* of the largest pages that a kernel has */
    const uintptr_t at = (uintptr_t)(w->data + (size_t)stack * w->mat_bytes), to = at + w->row_bytes * (size_t)w->n_out;
    for (uintptr_t from = at & ~(uintptr_t)(PAGE - 1); from < to; from += PIECE)
        madvise((void *)from, min_size(to - from, PIECE), MADV_WILLNEED);
}

/* A matrix leaves the memory of its GPU. */
static void dev_mat_drop(dev_mat *w) {
    if (w->on_gpu) gpu_free(w->gpu, w->on_gpu);
    w->on_gpu = NULL;
}

/* Activations of one batch: float rows and the forms of them that products read. The quantised rows from `rows` on are for the
 * outliers of rows that have them, and the third part of q is for lists of these (see [far] of the kernels). */
typedef struct {
    float   *x;                                       /* [rows, ldx] */
    uint16_t *h;                                      /* [rows, ldx] rounded to bf16 */
    int8_t  *q;                                       /* [3 * rows, ldq] */
    k_sums  *sum;                                     /* [2 * rows, ldq / 256] */
    float   *d;                                       /* [2 * rows, ldq / 256] */
    uint8_t *split;                                   /* [rows] whether it has outliers */
    int      rows;
    size_t   ldx;                                     /* values between two rows */
    size_t   ldq;                                     /* a multiple of 256 */
} dev_acts;

/* n rows as the kernels take them: rows idx[first], idx[first + 1], ... or, idx NULL, `first` and those after it. */
static k_acts dev_acts_at(const dev_acts *a, const int32_t *idx, int first, int n) {
    const size_t at = idx ? 0 : (size_t)first;
    return (k_acts){.x = a->x + at * a->ldx,
                    .ldx = a->ldx,
                    .h = a->h ? a->h + at * a->ldx : NULL,
                    .q = a->q ? a->q + at * a->ldq : NULL,
                    .ldq = a->ldq,
                    .sum = a->sum ? a->sum + at * (a->ldq / 256) : NULL,
                    .d = a->d ? a->d + at * (a->ldq / 256) : NULL,
                    .ldd = a->ldq / 256,
                    .split = a->split ? a->split + at : NULL,
                    .rest = a->rows,
                    .idx = idx ? idx + first : NULL,
                    .nt = n};
}

/* One product of a list: y[t, :] = w . a[idx ? idx[first + t] : first + t, :] for t < n. */
typedef struct {
    const dev_mat *w;
    int             n_out;                            /* rows of it that are multiplied: all of them, or the first */
    int             stack;                            /* which matrix of a stack */
    const dev_acts *a;
    const int32_t  *idx;                              /* [first + n] rows of a; NULL: they lie side by side */
    int             first;                            /* row of them */
    int             n;                                /* rows */
    float          *y;                                /* [n, ldy] */
    size_t          ldy;
    int             heads;                            /* one of so many, each of a head's rows (dev_plan_heads); 0: it is not */
    int             to;                               /* where its values begin in a row of the buffer */
    int             low;                              /* number among the products of its operation to which adapters add */
    float          *low_x;                            /* [entries or slots and adapters, low_rank] A x of what they add */
    int             low_rank;                         /* values between two of them */
    bool            slots;                            /* of an expert: its rows are slots */
    int             rows;                             /* of a plan: the set of rows, */
    int             in, out;                          /* and the buffers; */
    bool            gather;                           /* `in` holds all rows, the product takes those that ask for something */
} dev_product;

/* The input values of row t of a product. */
static const float *dev_input(const dev_product *m, int t) {
    return m->a->x + (size_t)(m->idx ? m->idx[m->first + t] : m->first + t) * m->a->ldx;
}

/* Who sees every list of products, with the float rows they take, before one of them is computed. All threads make the
 * call; it deals its work as a stage does and ends with a barrier. */
typedef struct dev_tap {
    void (*fn)(void *ctx, dev *dv, const dev_product *list, int n);
    void  *ctx;
} dev_tap;

/* --- GPUs --- */

enum { DEV_GPUS = 8 };                                /* most of a run */

/* GPUs in the order of their layers: number i runs those from from[i] on, up to those of the next one; the last one what follows
 * them, too. */
typedef struct dev_gpus {
    gpu *g[DEV_GPUS];                                 /* [n] */
    int  from[DEV_GPUS];                              /* [n] layers */
    int  n;
    bool tensor;                                      /* float matrices and attention take tensor cores, in their own order */
} dev_gpus;

/* How many there are on this machine; -1: e says why none can be used. */
static int dev_gpus_count(err_t *e) { return gpu_count(e); }

/* An empty list of GPUs; dev_gpus_close() frees it. */
static dev_gpus *dev_gpus_new(void) { return mem_new(1, sizeof(dev_gpus)); }

/* Adds a GPU. False: it cannot be used, e says why. */
static bool dev_gpus_add(dev_gpus *on, int number, err_t *e) {
    ASSERT(on->n < DEV_GPUS);
    gpu *g = gpu_open(number, e);
    if (g) on->g[on->n++] = g;
    return g != NULL;
}

/* Number i leaves. */
static void dev_gpus_drop(dev_gpus *on, int i) {
    gpu_close(on->g[i]);
    on->n--;
    for (; i < on->n; i++) on->g[i] = on->g[i + 1], on->from[i] = on->from[i + 1];
}

/* All but number i leave. */
static void dev_gpus_only(dev_gpus *on, int i) {
    while (on->n > i + 1) dev_gpus_drop(on, i + 1);
    while (on->n > 1) dev_gpus_drop(on, 0);
}

/* After the plans, blocks and matrices that use them are gone. */
static void dev_gpus_close(dev_gpus *on) {
    while (on && on->n) dev_gpus_drop(on, on->n - 1);
    mem_free(on);
}

/* Bytes of the memory of number i that are free. */
static uint64_t dev_gpus_memory(const dev_gpus *on, int i) { return gpu_memory(on->g[i]); }
/* Its number and its name in the driver. */
static const gpu_info *dev_gpus_about(const dev_gpus *on, int i) { return gpu_about(on->g[i]); }

/* What bits of keys and values depend on, beside the model: nothing, or which layers tensor cores of which kind compute. */
static void dev_gpus_order(const dev_gpus *on, str *to) {
    for (int i = 0; on && on->tensor && i < on->n; i++) {
        const gpu_info *g = gpu_about(on->g[i]);
        str_fmt(to, " tensor %d:%d.%d", on->from[i], g->major, g->minor);
    }
}

/* Which one runs a layer; -1: the host. */
static int dev_gpus_of(const dev_gpus *on, int layer) {
    int i = on ? on->n - 1 : -1;
    while (i >= 0 && layer < on->from[i]) i--;
    return i;
}

/* --- memory of the cache: blocks of one size, known by their numbers alone to the sections that use them --- */

enum { DEV_SLAB_BYTES = 4 << 20 };

/* The part of each block that lies on a GPU. */
typedef struct {
    gpu     *g;
    size_t   at;                                      /* bytes from the block's start */
    size_t   bytes;                                   /* of a block */
    gpu_span all;                                     /* of all blocks, one after the other */
} dev_tail;

/* Bytes of a block that one memory node has. */
typedef struct dev_spot {
    size_t at;                                        /* bytes from the block's start */
    size_t bytes;
    int    memory;                                    /* the kernel's number of the node */
} dev_spot;

/* The first bytes of a block lie in the host's memory; the rest, that of layers which GPUs run, in theirs, in the same order. */
typedef struct k_blocks {
    size_t    block_bytes;                            /* of a block */
    size_t    host_bytes;                             /* of it, those of the host */
    int       max_blocks;                             /* the bound */
    int       slab_blocks;                            /* blocks of a slab */
    uint8_t **slab;                                   /* [n_slab] mapped on demand, so that memory follows the blocks in use */
    int       n_slab;
    struct dev_spot *spot;                            /* [n_spot] where bytes of a block have their memory */
    int       n_spot;                                 /* 0: where the kernel puts it */
    dev_tail  tail[DEV_GPUS];                         /* [n_tail] */
    int       n_tail;                                 /* 0: all of it is the host's */
} dev_blocks;

/* No block is mapped yet. */
static dev_blocks dev_blocks_new(size_t block_bytes, int max_blocks) {
    const int slab = block_bytes < DEV_SLAB_BYTES ? (int)(DEV_SLAB_BYTES / block_bytes) : 1;
    return (dev_blocks){.block_bytes = block_bytes, .host_bytes = block_bytes, .max_blocks = max_blocks, .slab_blocks = slab};
}

/* Blocks without memory so far keep their bytes up to end[0] on the host, those up to end[1 + i] on GPU i. */
static void dev_blocks_split(dev_blocks *m, const dev_gpus *on, const size_t *end) {
    m->host_bytes = end[0];
    for (int i = 0; i < on->n; i++) {
        const size_t at = m->n_tail ? m->tail[m->n_tail - 1].at + m->tail[m->n_tail - 1].bytes : m->host_bytes;
        if (end[1 + i] <= at) continue;
        dev_tail *t = &m->tail[m->n_tail++];
        *t = (dev_tail){.g = on->g[i], .at = at, .bytes = end[1 + i] - at};
        gpu_span_new(t->g, &t->all, mem_size((size_t)m->max_blocks, t->bytes));
    }
}

/* Blocks of slab s: the last one may be short. */
static int dev__slab_blocks(const dev_blocks *m, int s) {
    return min_int(m->max_blocks - s * m->slab_blocks, m->slab_blocks);
}

/* Blocks that are mapped: their numbers are below it. */
static int dev_blocks_mapped(const dev_blocks *m) { return min_int(m->n_slab * m->slab_blocks, m->max_blocks); }

/* These bytes of blocks, in memory that is mapped from here on, lie on that memory node, page by page. */
static void dev_blocks_place(dev_blocks *m, dev_spot spot) {
    if (spot.at < m->host_bytes && spot.bytes) MEM_PUSH(m->spot, m->n_spot, spot);
}

/* Gives the pages of a new slab their memory, with a system call for each run of spots of one node. */
static void dev__touch(const dev_blocks *m, uint8_t *slab, int n) {
    host_memory_of was;
    host_choose(&was);
    for (int i = 0; i < m->n_spot; i++) {
        const dev_spot *s = &m->spot[i];
        const size_t    left = m->host_bytes - s->at;
        if (!i || s->memory != s[-1].memory) host_prefer(s->memory);
        for (int b = 0; b < n; b++) host_touch(slab + (size_t)b * m->host_bytes + s->at, s->bytes < left ? s->bytes : left);
    }
    host_restore(&was);
}

/* Maps another slab of zeros. False: the bound or the system's memory is reached. */
static bool dev_blocks_more(dev_blocks *m) {
    const int more = dev__slab_blocks(m, m->n_slab);
    void     *p = NULL;
    if (more <= 0) return false;
    for (int i = 0; i < m->n_tail; i++)
        if (!gpu_span_grow(m->tail[i].g, &m->tail[i].all, (size_t)(m->n_slab * m->slab_blocks + more) * m->tail[i].bytes))
            return false;
    if (m->host_bytes)
        p = mmap(NULL, (size_t)more * m->host_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return false;
    /* Heads of several nodes would share a large page. */
    if (m->n_spot) madvise(p, (size_t)more * m->host_bytes, MADV_NOHUGEPAGE);
    if (m->n_spot) dev__touch(m, p, more);
    m->slab = mem_grow(m->slab, (size_t)m->n_slab + 1, sizeof *m->slab);
    m->slab[m->n_slab++] = p;
    return true;
}

/* Gives all memory back. */
static void dev_blocks_free(dev_blocks *m) {
    for (int s = 0; m->host_bytes && s < m->n_slab; s++) munmap(m->slab[s], (size_t)dev__slab_blocks(m, s) * m->host_bytes);
    mem_free_all(m->slab, m->spot);
    for (int i = 0; i < m->n_tail; i++) gpu_span_free(m->tail[i].g, &m->tail[i].all);
}

/* The host's part of a block; NULL: it has none. */
static uint8_t *dev_block(const dev_blocks *m, int32_t b) {
    return m->host_bytes ? m->slab[b / m->slab_blocks] + (size_t)(b % m->slab_blocks) * m->host_bytes : NULL;
}

/* The part of a block that lies on a GPU. */
static uint8_t *dev__gpu_block(const dev_tail *t, int32_t b) { return t->all.base + (size_t)b * t->bytes; }

/* The part of a block that has byte `at`. */
static const dev_tail *dev_tail_at(const dev_blocks *m, size_t at) {
    const dev_tail *t = m->tail;
    while (t < m->tail + m->n_tail && at >= t->at + t->bytes) t++;
    ASSERT(t < m->tail + m->n_tail && at >= t->at);
    return t;
}

/* Waits for copies of blocks. */
static void dev__gpu_wait(const dev_blocks *m) {
    for (int i = 0; i < m->n_tail; i++) gpu_wait(m->tail[i].g);
}

/* Copies a whole block to the caller's memory. */
static void dev_blocks_read(const dev_blocks *m, int32_t b, uint8_t *to) {
    if (m->host_bytes) memcpy(to, dev_block(m, b), m->host_bytes);
    for (const dev_tail *t = m->tail; t < m->tail + m->n_tail; t++)
        gpu_down(t->g, to + t->at, dev__gpu_block(t, b), t->bytes);
    dev__gpu_wait(m);
}

/* Fills a whole block from the caller's memory. */
static void dev_blocks_write(const dev_blocks *m, int32_t b, const uint8_t *from) {
    if (m->host_bytes) memcpy(dev_block(m, b), from, m->host_bytes);
    for (const dev_tail *t = m->tail; t < m->tail + m->n_tail; t++)
        gpu_up(t->g, dev__gpu_block(t, b), from + t->at, t->bytes);
    dev__gpu_wait(m);
}

/* Copies one block to another; a step that follows sees it. */
static void dev_blocks_copy(const dev_blocks *m, int32_t from, int32_t to) {
    if (m->host_bytes) memcpy(dev_block(m, to), dev_block(m, from), m->host_bytes);
    for (const dev_tail *t = m->tail; t < m->tail + m->n_tail; t++)
        gpu_copy(t->g, dev__gpu_block(t, to), dev__gpu_block(t, from), t->bytes);
}

/* Fills a block with zeros. A step that writes to it later meets no page fault. */
static void dev_blocks_clear(const dev_blocks *m, int32_t b) {
    if (m->host_bytes) memset(dev_block(m, b), 0, m->host_bytes);
    for (const dev_tail *t = m->tail; t < m->tail + m->n_tail; t++)
        gpu_zero(t->g, dev__gpu_block(t, b), t->bytes);
}

typedef k_kv_place    dev_kv;                         /* of one layer; mem: its dev_blocks */
typedef k_state_place dev_state;                      /* of one recurrent layer; mem: its dev_blocks */

enum { DEV_LOG = 16 };                                /* last rows of a step that a recurrent state can take back */

/* --- a batch: the rows of one step --- */

/* What a row asks for, as a mask. */
enum {
    DEV_LOGITS = 1,
    DEV_HIDDEN = 2,                                   /* the normed stream after the last layer */
    DEV_ID = 4,                                       /* the number of the first of the largest logits; or logits come */
};

typedef k_batch dev_batch;

/* All rows of a batch; those that ask for something. */
typedef enum { DEV_ALL, DEV_OUT, DEV_ROW_SETS } dev_row_set;

/* One set of rows, by number, and where each run of rows of one sequence begins among them: an attention task's rows. */
typedef struct {
    int32_t *row;                                     /* [n] */
    int      n;
    int     *run;                                     /* [n_run + 1] */
    int      n_run;
} dev_row_list;

enum { DEV_ATTN_ROWS = 32 };                          /* positions of one attention task */

static void dev__list_rows(const dev_batch *b, dev_row_set set, dev_row_list *to) {
    to->n = to->n_run = 0;
    for (int r = 0; r < b->n; r++) {
        if (set == DEV_OUT && !b->want[r]) continue;
        if (to->n == 0 || b->seq[to->row[to->n - 1]] != b->seq[r] || to->n - to->run[to->n_run - 1] >= DEV_ATTN_ROWS)
            to->run[to->n_run++] = to->n;
        to->row[to->n++] = r;
    }
    to->run[to->n_run] = to->n;
}

/* The block numbers of row r's sequence in one group of the cache. */
static const int32_t *dev_table(const dev_batch *b, int group, int r, int *n) {
    const size_t *at = &b->table_at[b->seq[r] * b->n_group + group];
    *n = (int)(at[1] - at[0]);
    return b->table + at[0];
}

/* --- plans: operations and the buffers that they work on. [ops] says how an operation is added --- */

typedef int dev_buf;                                  /* number of a buffer in its plan; 0: none */

typedef struct {
    const char *name;
    bool        dense;                                /* rows lie side by side, without padding */
    int         width;                                /* values of a row, 4 bytes each */
    int         each;                                 /* rows for each row of the set */
    dev_row_set most;                                 /* the set that bounds its rows */
    dev_row_set held;                                 /* the one it holds at this place of the list */
    unsigned    forms;                                /* that products read: a mask of 1 << K_ACT_ */
    int         former;                               /* the last operation that makes them */
    dev_acts    a;                                    /* its memory */
} dev_buffer;

/* Activations: those of k_activate, and one that has no function of its own there. ACT_GELU: by tanh. */
typedef enum {
    ACT_SILU = K_SILU,
    ACT_GELU = K_GELU,
    ACT_GELU_ERF = K_GELU_ERF,
    ACT_SIGMOID = K_SIGMOID,
    ACT_RELU = K_RELU,
    ACT_RELU2 = K_RELU2,
    ACT_EXP = K_EXP,
    ACT_SOFTPLUS = K_SOFTPLUS,
    ACT_SWIGLU_CLIP = K_ROW_CLIP
} dev_act;

/* How a state goes from position to position: the gated delta rule; scalar decays and no correction (Mamba-2); a decay for each
 * channel and value (Mamba); the delta rule with a decay for each channel (KDA); decays for each channel without a correction
 * (gated linear attention), with a bonus for the position itself (RWKV-6); with a correction key apart from the key (RWKV-7). */
typedef enum { RULE_DELTA, RULE_SSD, RULE_SCAN, RULE_KDA, RULE_GLA, RULE_WKV6, RULE_WKV7 } dev_rule;

/* The score of an expert from its logit. ROUTE_MIXER: of two experts, each of its own choice (SparseMixer: Liu et al. 2024). */
typedef enum { ROUTE_SOFTMAX, ROUTE_SIGMOID, ROUTE_MIXER, ROUTE_ROOT_SOFTPLUS } dev_router;
/* Positions that a row sees: up to its own; all of the step; up to its own in its chunk, where a text is cut into chunks as long
 * as the window; those of the text that an encoder reads; those after it up to its own. */
typedef enum { VIEW_PAST, VIEW_ALL, VIEW_CHUNK, VIEW_SOURCE, VIEW_ANSWER } dev_view;
enum { DEV_TAPS = K_CONV_TAPS };                      /* most taps of a convolution */
enum { DEV_STREAMS = 16 };                            /* most streams of a row */
enum { DEV_EXPERTS = 1024 };                          /* most experts of a layer */
enum { DEV_GRAM = 8, DEV_GRAM_HEADS = 64 };           /* most tokens of an n-gram; most rows that a position looks up */

/* A table with rows for n-grams: the last 2 to n tokens of a text, a token and those before it. Each of `each` heads of a length
 * has a range of rows, and finds one by a hash of the tokens. */
typedef struct {
    int      n;                                       /* tokens of the longest; 0: there is no table */
    int      each;                                    /* heads of each length */
    int      stop;                                    /* the token that stands for those before a text, and before itself */
    uint64_t factor[DEV_GRAM];                        /* [n] of a token so many positions back: products are joined by XOR */
    uint64_t first[DEV_GRAM_HEADS];                   /* [(n - 1) * each] first row of a head */
    uint64_t rows[DEV_GRAM_HEADS];                    /* [(n - 1) * each] its rows */
} dev_grams;

/* Rows that lie before others, as OPS_BEFORE takes them. */
typedef struct dev_before {
    const float *const *first;                        /* [sequences of the batch] what lies before the first row, NULL: zeros */
    bool         by_row;                              /* first has what lies before each row */
    const float *rows;                                /* [rows of the batch, ld]; NULL: the operation's input holds them */
    size_t       ld;                                  /* values between two of them */
} dev_before;

/* One operation of a step, for every row of a set. What each kind reads and writes is at its function in [ops]. */
typedef struct {
    int         kind;                                 /* its row in the plan's table */
    const struct dev_kind *row;                       /* that row; dev_plan_op() sets it */
    int         layer;                                /* of the model; -1: before all layers */
    int         part;                                 /* what its time is counted as */
    dev_row_set rows;
    int         each;                                 /* tasks for each row; 0: one */
    bool        beside;                               /* needs nothing that the operations before it in the same phase write */
    dev_buf     in[3];
    dev_buf     out[2];
    unsigned    gathers;                              /* mask of those inputs that hold all rows where the operation takes some */
    const dev_product *product;                       /* [n_product] those that are its own; dev_plan_fill() sets it */
    int         n_product;
    int         n;                                    /* values of a vector */
    int         n_head;                               /* vectors of a row; 0: one */
    const float *vec;                                 /* [row->vec] gain, bias, filters; NULL: none */
    float       scale;                                /* epsilon of a norm, else a factor; 0 in OPS_EMBED and OPS_ADD: 1 */
    union {
        struct {
            const dev_mat *mat;                       /* [vocabulary or positions, n] */
            bool           by_pos;                    /* its rows stand for positions, not tokens */
        } embed;
        struct {
            k_norm_kind  kind;
            const float *bias;                        /* [n], NULL: none */
        } norm;
        struct {
            float length;                             /* positions after which the temperature rises */
            int   ahead;                              /* so many positions before the end of each length */
        } temper;
        int   to;                                     /* OPS_LEVEL: where its output begins */
        int   share;                                  /* OPS_FAMILY: experts of a group */
        const struct dev_before *before;              /* OPS_BEFORE */
        int   active;                                 /* OPS_CORRECT: the stream that blocks read */
        bool  above;                                  /* OPS_CLAMP: values below -scale stay */
        struct {
            const float *scale;                       /* [3] of the three kinds of coefficients; the first alone without turns */
            int          turns;                       /* normalisations of the matrix; 0: there is none */
        } hyper;
        struct {
            const dev_kv *raw;                        /* what keys are made of; NULL: the list is only measured */
            const dev_kv *to;                         /* the keys */
            const float  *place;                      /* [size][n * span / size] added to the gates of the positions of a group */
            int           size;                       /* positions of a group */
            int           span;                       /* positions that its key is made of, to the end of the group */
            const double *freq;                       /* [n_rot / 2] radians per position */
            int           n_rot;                      /* last values, which RoPE turns as at its first position */
            float         mscale;                     /* of cos and sin */
        } pool;
        k_row_pick pick;
        k_row_rope rope;
        k_row_mul  mul;
        k_row_xielu xielu;
        dev_act    act;                               /* OPS_ACTIVATE */
        struct {
            const double *freq;                       /* [n] radians per position */
            int           at;                         /* where they begin in a row */
            int           ahead;                      /* positions that are added to the row's */
            bool          back;                       /* they turn back what those of the same position have turned */
        } angles;
        struct {
            const dev_kv *kv;                         /* of the layer; NULL: the list is only measured */
            bool          values;                     /* as the cache has its values, else its keys */
        } hadamard;
        struct {
            const dev_kv *kv;                         /* of the layer; NULL: the list is only measured */
            int      window;                          /* positions that a row sees at most; 0: all */
            int      hd_k;                            /* values of a query */
            int      group;                           /* query heads of a K/V head */
            int      most;                            /* most positions that a row sees */
            dev_view view;
            float    cap;                             /* scores become cap * tanh(score / cap); 0: they stay */
            const float *sinks;                       /* [n_head] one more score, without a value; NULL: none */
            const float *slope;                       /* [n_head] score lost per position (ALiBi); NULL: none */
            const float *bias;                        /* [n_head][2 * reach + 1] biases of distances; NULL: none */
            int          reach;                       /* distances with a bias of their own, on each side */
            int      top;                             /* OPS_CHOOSE, OPS_ATTEND_CHOSEN: blocks of positions that a row sees */
            int      unit;                            /* positions of such a block */
            int      local;                           /* OPS_CHOOSE: the last blocks, which are always among them */
            bool     by_head;                         /* each K/V head has blocks of its own */
            bool     ends;                            /* a block has the score of its last position, and all heads weigh the same;
                                                       * the positions after the last whole block count as one of `top` */
            int      pool;                            /* rows see a key for each group of so many positions; 0: there are none */
            const dev_kv *pooled;                     /* OPS_ATTEND_POOLED: those keys, beside the positions of the window */
        } cache;
        struct {
            const dev_state *st;                      /* of the layer; NULL: the list is only measured */
            int          at;                          /* where the inputs begin in a row */
            int          d_k;                         /* values of a key */
            int          n_vec;                       /* values of vec */
            bool         grouped;                     /* neighbouring value heads share a key head */
            bool         silu;                        /* OPS_CONV: of what it gives */
            dev_rule     rule;                        /* OPS_DELTA */
            const float *decay;                       /* gates: factors, of each head, channel or value as the rule has them */
            const float *step;                        /* gates: what is added to the first ones */
            const float *bias;                        /* OPS_CONV: of each channel, NULL: none */
            const float *skip;                        /* share of the value itself; RULE_WKV6: bonus of each channel */
            const float *rate;                        /* RULE_WKV7: added to the rates of the correction, of each channel */
            const float *key[2];                      /* RULE_WKV7: gains of correction keys; what of a key depends on the rate */
            const float *share;                       /* RULE_WKV7: gains of query times key, out[1] of each head */
            const dev_grams *grams;                   /* OPS_GRAMS */
            const dev_mat   *table;                   /* OPS_GRAMS: [rows of all heads, n] */
        } state;
        struct {
            int        n;                             /* experts of the layer */
            int        used;                          /* for a row */
            bool       norm;                          /* weights sum to 1 */
            dev_router router;
            int        groups;                        /* that lie side by side, up to DEV_EXPERTS; 0, 1: all are one */
            int        groups_used;                   /* of these, groups that a row chooses from */
            bool       alone;                         /* a group has the score of its best expert, not that of the two best */
            const int32_t *listed;                    /* [vocabulary, used] experts of a token; NULL: those of the best scores */
            int        wide;                          /* OPS_GROUP: products that read the rows, 2 with a gate */
        } experts;
        struct {
            int n;                                    /* products of the next operation to which adapters add something */
            int rank;                                 /* the largest of their ranks */
            int n_adapter;                            /* adapters of the run */
        } low;
        struct {
            int n_expert;                             /* products are those of so many experts; 0: one each */
            int used;                                 /* of them, for a row */
            int at;                                   /* where they begin in `grouped` */
        } products;
        unsigned forms;                               /* OPS_FORM: a mask of 1 << K_ACT_ */
    };
} dev_op;

/* Operations between two barriers. Tasks are rows: each goes through the operations of its chain, one after the other. */
typedef struct dev_phase {
    int first;                                        /* operation */
    int n;                                            /* operations */
    int soon;                                         /* the operation whose weights are fetched ahead; -1: none */
} dev_phase;

/* Rows of a set with an adapter, those of one adapter after those of another. */
typedef struct {
    int      n_used;                                  /* adapters that a row has */
    int     *used;                                    /* [n_used] their numbers, rising */
    int     *at;                                      /* [adapters + 1] first entry of each adapter */
    int     *row;                                     /* [entries] its number in the set */
    int32_t *of;                                      /* [entries] its number in the batch */
    float   *scale;                                   /* [entries] of the adapter for its sequence */
} dev_low_rows;

/* What a thread has for itself. */
typedef struct {
    void       *scratch;                              /* for kernels */
    k_attn_row *rows;                                 /* [attn_most] of attention */
    float      *sinks;                                /* [2 * attn_most] sinks of those rows, and slopes after them */
} dev_thread;

/* A list of operations with its buffers, written once and run for every batch. */
typedef struct {
    const struct dev_kind *kinds;                     /* [every kind] */
    dev_op      *op;                                  /* [n_op] */
    int          n_op;
    dev_phase   *phase;                               /* [n_phase] */
    int          n_phase;
    dev_product *product;                             /* [n_product] */
    int          n_product;
    dev_buffer  *buf;                                 /* [n_buf] */
    int          n_buf;
    dev_product *grouped;                             /* [3 * most experts] of a layer: gate and up in turn, then down */
    int         *expert_at;                           /* [most experts + 1] first slot of each expert */
    dev_row_list rows[DEV_ROW_SETS];                  /* of the batch at hand */
    int          low_kind;                            /* operation before products to which adapters add something */
    int          n_low;                               /* adapters of the run; 0: none changes a matrix of the plan */
    dev_low_rows low[DEV_ROW_SETS];                   /* of the batch at hand */
    float       *low_x;                               /* [products, entries, rank] A x of the products of an operation */
    int         *seq_at;                              /* [max_rows + 1] of the batch at hand: first row of each sequence */
    dev_thread  *thread;                              /* [threads] */
    int          attn_most;                           /* rows of a task at most */
    float       *parts;                               /* [n_parts] of attention and indexers; NULL: their tasks are not split */
    size_t       n_parts;                             /* floats */
    int          n_views;                             /* of keys, or of values, of attention; or as tables have */
    int          n_more;                              /* beside them, for each block of the longest table */
    int          max_rows;                            /* of a step */
    int          max_out;                             /* of these, those that ask for something */
    size_t       n_bytes;                             /* of all that dev_plan_fill() allocates, and of the list */
    bool         counting;                            /* bytes are counted, nothing is allocated */
    void       **own;                                 /* [n_own] that memory */
    int          n_own;
    const dev_gpus *on;                               /* run their layers; NULL: the host runs all */
    dev_buf      result;                              /* what steps are for; 0: for what they store */
    dev_buf      kept[2];                             /* they are read after a step, too; 0: none */
    dev_row_set  kept_rows;                           /* these rows of them */
    int          gpu_op;                              /* first operation of the GPUs; n_op: none */
    int          gpu_phase;                           /* first phase of the GPUs; n_phase: none */
    struct dev_gpu_share *share;                      /* [n_share] launches and memory of each GPU */
    int          n_share;
} dev_plan;

/* What runs a plan. */
typedef struct dev_run {
    pool            *p;
    dev_plan        *plan;
    const dev_batch *batch;
    const dev_adapters *const *adapters;              /* [n_seq of the batch] of each sequence, NULL: none has any */
    const dev_tap   *tap;                             /* is called with the products, NULL: no tap */
    dev_times       *times;                           /* where time is counted, NULL: nowhere */
    void (*on_layer)(void *ctx, int il);              /* called by thread 0 as it enters a layer; NULL: not called */
    void            *on_layer_ctx;
    const uint8_t ***views;                           /* [threads][2 * n_views] blocks of one sequence, for attention */
    int              n_views;
    const dev_stages *stages;                         /* that of its threads; NULL: none */
    const int32_t   *ids;                             /* [n_out] DEV_ID of each row, -1: a logit is not finite; NULL: logits */
    _Atomic bool     stop;                            /* an interrupt came */
} dev_run;

/* --- kinds of operations: a table of these rows says all about them --- */

typedef struct {
    double bytes;                                     /* that are read: weights, keys and values */
    double mul[K_ACTS];                               /* multiplications, by the form of the activations */
} dev_cost;

/* What operations need beside their buffers: each raises it to what it needs. */
typedef struct {
    int    threads;                                   /* of the run */
    size_t scratch;                                   /* bytes, of a thread */
    int    attn_rows;                                 /* of a task of attention */
    size_t parts;                                     /* floats of partial results of attention, of indexers */
    int    views;                                     /* positions of attention that takes them one by one */
    int    more_views;                                /* beside them, for each block of a table */
    int    experts;                                   /* of a layer */
    size_t low;                                       /* floats of adapters, for each row of a step */
} dev_needs;

/* What becomes of the buffers that an operation has as outputs. */
typedef enum {
    DEV_UNSAID,
    DEV_WRITES,                                       /* whatever was there is overwritten */
    DEV_CHANGES,                                      /* what was there is read: in place, or only some values are written */
    DEV_FORMS,                                        /* it gets the forms that products read; left out where none reads them */
} dev_place;

typedef struct dev_kind {
    const char *name;
    dev_place   place;
    int       (*width)(const dev_op *op);             /* values that it writes to a row of its outputs; 0: it has none */
    int       (*reads)(const dev_op *op, int i);      /* values that it reads of a row of input i; 0: no such input */
    size_t    (*vec)(const dev_op *op);               /* values of op->vec, where that is there */
    void      (*cost)(const dev_op *op, const dev_batch *b, dev_cost *c);   /* adds what it costs */
    void      (*needs)(const dev_op *op, dev_needs *to);   /* NULL: buffers alone */
    /* on the CPU */
    int       (*tasks)(const dev_run *run, const dev_op *op);    /* NULL: a task is a row, which needs nothing of other rows */
    void      (*run)(const dev *dv, const dev_op *op, int task); /* one task; NULL: `all` does everything */
    void      (*all)(dev *dv, const dev_phase *ph);   /* a phase that it begins, of every thread; dev_rows deals tasks */
    /* on a GPU, [dev_gpu] */
    const struct dev_gpu_way *gpu;                    /* how it becomes launches */
    k_row_kind  gpu_row;                              /* of an operation on rows: its kind there */
    size_t      told_at;                              /* where in dev_op what becomes k_row_op.u lies */
    size_t      told_bytes;                           /* bytes of it; 0: none */
    void      (*gpu_args)(struct dev_gpu_share *sh, const dev_op *op, k_row_op *to);  /* what more it is told; NULL: nothing */
    bool      (*gpu_can)(const dev_op *op);           /* whether it is within the kernel's limits; NULL: it has none */
} dev_kind;

/* A row of numbers: they have the size of floats. */
static int32_t *dev_ints(float *row) { return (int32_t *)(void *)row; }

/* Rows of a set in a batch that has not been prepared. */
static int dev_n_rows(const dev_batch *b, dev_row_set set) { return set == DEV_ALL ? b->n : b->n_out; }

/* What the list takes for a batch. */
static void dev_plan_cost(const dev_plan *p, const dev_batch *b, dev_cost *c) {
    for (int i = 0; i < p->n_op; i++) p->op[i].row->cost(&p->op[i], b, c);
}

/* --- writing a list --- */

/* An empty list, whose operations are of these kinds. */
static void dev_plan_begin(dev_plan *p, const dev_kind *kinds) {
    *p = (dev_plan){.kinds = kinds, .n_buf = 1};
    p->buf = mem_reserve(NULL, 0, UINT64_MAX, sizeof *p->buf);
    p->buf[0] = (dev_buffer){.name = "none"};
}

/* A buffer that is as wide as what is written to it. */
static dev_buf dev_plan_buf(dev_plan *p, const char *name, bool dense) {
    return MEM_PUSH(p->buf, p->n_buf, (dev_buffer){.name = name, .dense = dense, .each = 1, .most = DEV_OUT});
}

static void dev__writes(dev_plan *p, dev_buf b, dev_row_set rows, int each, int width) {
    dev_buffer *to = &p->buf[b];
    if (!b) return;
    to->width = max_int(to->width, width);
    to->each = max_int(to->each, each);
    if (rows == DEV_ALL) to->most = DEV_ALL;
    to->held = rows;
}

/* Whether an operation on these rows finds them among all rows of the buffer. */
static bool dev__gathers(const dev_plan *p, dev_buf b, dev_row_set rows) {
    ASSERT(!b || rows == DEV_OUT || p->buf[b].held == DEV_ALL);
    return b && rows != p->buf[b].held;
}

/* One more operation. */
static void dev_plan_op(dev_plan *p, dev_op op) {
    p->op = mem_reserve(p->op, (uint64_t)p->n_op, UINT64_MAX, sizeof *p->op);
    op.row = &p->kinds[op.kind];
    for (int i = 0; i < 3; i++) {
        ASSERT(!op.in[i] || p->buf[op.in[i]].width >= op.row->reads(&op, i));
        op.gathers |= (unsigned)dev__gathers(p, op.in[i], op.rows) << i;
    }
    for (int i = 0; i < 2; i++) dev__writes(p, op.out[i], op.rows, op.each, op.row->width(&op));
    if (op.row->place == DEV_FORMS) p->buf[op.out[0]].former = p->n_op;
    p->op[p->n_op++] = op;
}

/* The form that a matrix wants, as a bit; 0: the model has none. */
static unsigned dev__wants(const dev_mat *w) { return w->data ? k_forms_of(w->type) : 0; }

/* The rank of the largest update of a matrix. */
static int dev__low_rank(const dev_mat *w) {
    int rank = 0;
    for (int i = 0; i < w->n_low; i++) rank = max_int(rank, w->low[i].rank);
    return rank;
}

/* The last operation gets a product to which adapters add something: the operation before it, which is made where there is none
 * yet, computes A x. Returns the number of the product among those. */
static int dev__plan_low(dev_plan *p, const dev_mat *w) {
    dev_op op = p->op[p->n_op - 1];
    if (p->n_op < 2 || p->op[p->n_op - 2].kind != p->low_kind) {
        p->op = mem_reserve(p->op, (uint64_t)p->n_op, UINT64_MAX, sizeof *p->op);
        p->op[p->n_op - 1] = (dev_op){.kind = p->low_kind, .row = &p->kinds[p->low_kind], .layer = op.layer, .part = op.part,
                                      .rows = op.rows, .each = op.each};
        p->op[p->n_op++] = op;
    }
    dev_op *before = &p->op[p->n_op - 2];
    before->low.rank = max_int(before->low.rank, dev__low_rank(w));
    before->low.n_adapter = p->n_low = w->n_low;
    return before->low.n++;
}

/* One more product of the last operation: out = the first n_out rows of w . in. The operation that makes forms of `in` makes what
 * w wants. */
static void dev_plan_rows(dev_plan *p, const dev_mat *w, int n_out, dev_row_set rows, dev_buf in, dev_buf out) {
    const int low = w->low ? dev__plan_low(p, w) : 0;
    dev_op   *op = &p->op[p->n_op - 1];
    p->product = mem_reserve(p->product, (uint64_t)p->n_product, UINT64_MAX, sizeof *p->product);
    p->product[p->n_product++] = (dev_product){.w = w, .n_out = n_out, .rows = rows, .in = in, .out = out, .low = low,
                                               .gather = dev__gathers(p, in, rows)};
    p->buf[in].forms |= dev__wants(w);
    p->op[p->buf[in].former].forms |= dev__wants(w);
    dev__writes(p, out, rows, op->each, n_out);
    op->n_product++;
}

/* The same with all rows of w. */
static void dev_plan_product(dev_plan *p, const dev_mat *w, dev_row_set rows, dev_buf in, dev_buf out) {
    dev_plan_rows(p, w, w->n_out, rows, in, out);
}

/* A product for each matrix of a stack, one for each head. `in` has the rows of one head after those of the other, as OPS_DEAL
 * writes them; what a head gives lies `stride` values after what the one before gives. */
static void dev_plan_heads(dev_plan *p, const dev_mat *w, dev_row_set rows, dev_buf in, dev_buf out, int stride) {
    for (int h = 0; h < w->n_mat; h++) {
        dev_plan_product(p, w, rows, in, out);
        dev_product *m = &p->product[p->n_product - 1];
        ASSERT(!m->gather && !w->low);
        m->stack = h;
        m->heads = w->n_mat;
        m->to = h * stride;
    }
    dev__writes(p, out, rows, p->op[p->n_op - 1].each, (w->n_mat - 1) * stride + w->n_out);
}

/* Whether the operation needs no barrier before it: the same rows go on, or others that it does not depend on. */
static bool dev__joins(const dev_op *before, const dev_op *op) {
    const bool by_row = before->row->run && op->row->run && !before->row->tasks && !op->row->tasks;
    return by_row && (op->beside || (op->rows == before->rows && op->each == before->each));
}

/* Whether op i writes a buffer in which an operation of the phase finds its rows among all: they may be those of another task. */
static bool dev__overwrites(const dev_plan *p, const dev_phase *ph, int i) {
    const dev_buf *out = p->op[i].out;
    for (int k = ph->first; k < i; k++)
        for (int j = 0; j < 3; j++)
            if (p->op[k].gathers & 1u << j && (p->op[k].in[j] == out[0] || p->op[k].in[j] == out[1])) return true;
    return false;
}

/* The products whose weights are fetched while threads wait after op i; -1: they are not known yet, or there are none. */
static int dev__soon_after(const dev_plan *p, int i) {
    int k = i + 1;
    while (k < p->n_op && !p->op[k].n_product) k++;
    return k >= p->gpu_op || (p->op[k].products.n_expert && !p->op[i].products.n_expert) ? -1 : k;
}

/* Which GPU runs operation i; -1: the host. */
static int dev_plan_gpu(const dev_plan *p, int i) { return dev_gpus_of(p->on, p->op[i].layer); }

/* Whether operation i goes on in the phase of the one before it. */
static bool dev__goes_on(const dev_plan *p, int i) {
    return i && dev_plan_gpu(p, i) == dev_plan_gpu(p, i - 1) && dev__joins(&p->op[i - 1], &p->op[i]) &&
           !dev__overwrites(p, &p->phase[p->n_phase - 1], i);
}

/* The list is complete: operations that make unread forms are left out, the others are grouped into phases. */
static void dev__phases(dev_plan *p) {
    int n = 0;
    for (int i = 0; i < p->n_op; i++)
        if (p->op[i].row->place != DEV_FORMS || p->op[i].forms) p->op[n++] = p->op[i];
    p->n_op = n;
    while (p->gpu_op < n && dev_plan_gpu(p, p->gpu_op) < 0) p->gpu_op++;
    p->gpu_phase = p->gpu_op;
    for (int i = 0; i < n; i++) {
        if (i == p->gpu_op) p->gpu_phase = p->n_phase;
        if (dev__goes_on(p, i)) {
            p->phase[p->n_phase - 1].n++;
            continue;
        }
        MEM_PUSH(p->phase, p->n_phase, (dev_phase){i, 1, p->op[i].n_product ? dev__soon_after(p, i) : -1});
    }
}

/* --- the memory of a plan --- */

/* n elements, aligned or zeroed; NULL where they are only counted. */
static void *dev__take(dev_plan *p, size_t n, size_t each, bool zeros) {
    p->n_bytes += mem_size(n, each);
    if (p->counting) return NULL;
    p->own = mem_reserve(p->own, (uint64_t)p->n_own, UINT64_MAX, sizeof *p->own);
    return p->own[p->n_own++] = zeros ? mem_new(n, each) : mem_aligned(n, each);
}

/* Values between two rows of n: a multiple of `unit`, and no multiple of 1 KB, or the rows of a tile would share few sets of a
 * cache. */
static size_t dev_stride(int n, size_t unit, size_t size) {
    const size_t ld = ((size_t)n + unit - 1) / unit * unit;
    return ld * size % 1024 ? ld : ld + unit;
}

static void dev__fill_buf(dev_plan *p, dev_buffer *b) {
    const size_t rows = (size_t)(b->most == DEV_ALL ? p->max_rows : p->max_out) * (size_t)b->each;
    dev_acts    *a = &b->a;
    if (!b->width) return;
    *a = (dev_acts){.rows = (int)rows, .ldx = b->dense ? (size_t)b->width : dev_stride(b->width, 16, sizeof *a->x),
                    .ldq = dev_stride(b->width, 256, sizeof *a->q)};
    a->x = dev__take(p, rows * a->ldx, sizeof *a->x, false);
    if (b->forms & 1u << K_ACT_BF16) a->h = dev__take(p, rows * a->ldx, sizeof *a->h, false);
    if (!(b->forms & 1u << K_ACT_I8)) return;
    a->q = dev__take(p, 3 * rows * a->ldq, sizeof *a->q, false);
    a->sum = dev__take(p, 2 * rows * (a->ldq / 256), sizeof *a->sum, false);
    a->d = dev__take(p, 2 * rows * (a->ldq / 256), sizeof *a->d, false);
    a->split = dev__take(p, rows, sizeof *a->split, true);
}

/* What the operations need beside buffers. */
static void dev__fill_needs(dev_plan *p, int n_threads) {
    dev_needs needs = {.threads = n_threads, .attn_rows = 1};
    for (int i = 0; i < p->n_product; i++) needs.scratch = max_size(needs.scratch, k_scratch_bytes(p->product[i].w->n_in));
    for (int i = 0; i < p->n_op; i++)
        if (p->op[i].row->needs) p->op[i].row->needs(&p->op[i], &needs);
    p->attn_most = needs.attn_rows;
    p->n_views = needs.views;
    p->n_more = needs.more_views;
    p->thread = dev__take(p, (size_t)n_threads, sizeof *p->thread, true);
    for (int i = 0; i < n_threads; i++) {
        const dev_thread own = {dev__take(p, needs.scratch, 1, false),
                                dev__take(p, (size_t)p->attn_most, sizeof *own.rows, true),
                                dev__take(p, 2 * (size_t)p->attn_most, sizeof *own.sinks, true)};
        if (!p->counting) p->thread[i] = own;
    }
    if (needs.low) p->low_x = dev__take(p, mem_size(needs.low, (size_t)p->max_rows), sizeof *p->low_x, false);
    p->n_parts = needs.parts;
    if (p->n_parts) p->parts = dev__take(p, p->n_parts, sizeof *p->parts, false);
    if (!needs.experts) return;
    p->grouped = dev__take(p, 3 * (size_t)needs.experts, sizeof *p->grouped, true);
    p->expert_at = dev__take(p, (size_t)needs.experts + 1, sizeof *p->expert_at, true);
}

/* Space for the rows of each set with an adapter. */
static void dev__fill_low(dev_plan *p) {
    const size_t most = mem_size((size_t)p->max_rows, (size_t)p->n_low);
    for (int i = 0; p->n_low && i < DEV_ROW_SETS; i++) {
        dev_low_rows *l = &p->low[i];
        l->used = dev__take(p, (size_t)p->n_low, sizeof *l->used, true);
        l->at = dev__take(p, (size_t)p->n_low + 1, sizeof *l->at, true);
        l->row = dev__take(p, most, sizeof *l->row, true);
        l->of = dev__take(p, most, sizeof *l->of, true);
        l->scale = dev__take(p, most, sizeof *l->scale, true);
    }
}

/* Where A x of a product of the operation goes. */
static void dev__place_low(const dev_plan *p, const dev_op *op, dev_product *m) {
    const size_t entries = (size_t)p->max_rows * (size_t)p->n_low * (size_t)max_int(op->each, 1);
    m->slots = op->products.n_expert > 0;
    if (!m->w->low || p->counting) return;
    m->low_rank = op[-1].low.rank;
    m->low_x = p->low_x + (size_t)m->low * entries * (size_t)m->low_rank;
}

/* Ends the list and allocates what it needs for steps of up to max_rows rows, max_out of which ask for something; counting: no
 * memory but n_bytes, which tells how much it would be. What GPUs need, dev_gpu_fill() adds. */
static void dev_plan_fill(dev_plan *p, int n_threads, int max_rows, int max_out, bool counting) {
    p->max_rows = max_rows;
    p->max_out = max_out;
    p->counting = counting;
    p->n_bytes = mem_reserved((size_t)p->n_op) * sizeof *p->op + mem_reserved((size_t)p->n_product) * sizeof *p->product +
                 mem_reserved((size_t)p->n_buf) * sizeof *p->buf;
    dev__phases(p);
    p->n_bytes += mem_reserved((size_t)p->n_phase) * sizeof *p->phase;
    for (int i = 0; i < DEV_ROW_SETS; i++) {
        p->rows[i].row = dev__take(p, (size_t)max_rows, sizeof *p->rows[i].row, true);
        p->rows[i].run = dev__take(p, (size_t)max_rows + 1, sizeof *p->rows[i].run, true);
    }
    p->seq_at = dev__take(p, (size_t)max_rows + 1, sizeof *p->seq_at, true);
    for (int i = 1; i < p->n_buf; i++) dev__fill_buf(p, &p->buf[i]);
    dev__fill_low(p);
    dev__fill_needs(p, n_threads);
    for (int i = 0, n = 0; p->product && i < p->n_op; n += p->op[i++].n_product) {
        p->op[i].product = p->product + n;
        for (int k = n; k < n + p->op[i].n_product; k++) dev__place_low(p, &p->op[i], &p->product[k]);
    }
    for (int i = 0; i < p->n_product; i++) {
        dev_product *m = &p->product[i];
        m->a = &p->buf[m->in].a;
        float *const to = p->buf[m->out].a.x;           /* NULL: of a list that OPS_GROUP fills */
        m->y = p->counting || !to ? NULL : to + m->to;
        m->ldy = p->buf[m->out].a.ldx;
        m->idx = m->gather ? p->rows[DEV_OUT].row : NULL;
    }
}

/* Frees the buffers and lists of a plan; what GPUs have of it was freed by dev_gpu_free() before. */
static void dev_plan_free(dev_plan *p) {
    for (int i = 0; i < p->n_own; i++) mem_free(p->own[i]);
    mem_free_all(p->own, p->op, p->phase, p->product, p->buf);
    *p = (dev_plan){0};
}

/* --- running a list --- */

static int dev__count(const dev_run *run, const dev_op *op) {
    return op->row->tasks ? op->row->tasks(run, op) : run->plan->rows[op->rows].n * max_int(op->each, 1);
}

/* Tasks of a phase, those of its chains one after the other. */
static int dev__phase_tasks(const dev_run *run, const dev_phase *ph) {
    const dev_op *op = &run->plan->op[ph->first];
    int           n = dev__count(run, op);
    for (int i = 1; i < ph->n; i++) n += op[i].beside ? dev__count(run, &op[i]) : 0;
    return n;
}

/* Task number `task`: finds its chain and goes through the operations of that. */
static void dev__task(const dev *dv, const dev_phase *ph, int task) {
    const dev_op *op = &dv->run->plan->op[ph->first], *end = op + ph->n;
    for (int n; task >= (n = dev__count(dv->run, op)); task -= n)
        do op++;
        while (!op->beside);
    do {
        op->row->run(dv, op, task);
        op++;
    } while (op < end && !op->beside);
}

static void dev__only_task(void *ctx) { dev__task(ctx, ((const dev *)ctx)->phase, 0); }

static void dev__row_task(const dev *dv, const void *phase, int task) { dev__task(dv, phase, task); }

/* Deals the tasks of a phase. The only task of one is done inside the barrier that it would wait at. */
static void dev_rows(dev *dv, const dev_phase *ph) {
    const int n = dev__phase_tasks(dv->run, ph);
    dv->phase = ph;
    if (n == 1 && dv->open) {
        dev__close(dv, dev__only_task, dv);
        return;
    }
    dev_begin(dv);
    dev_deal(dv, (dev_stage){.n = n, .fn = dev__row_task, .ctx = ph});
}

/* Every thread goes through the list. Which phases there are is fixed for the step but for `stop`, which changes inside a
 * barrier: a thread that comes late passes the same ones. */
static void dev__main(void *ctx, int ith) {
    dev_run        *run = ctx;
    const dev_plan *p = run->plan;
    const int       n = min_int(p->n_phase, p->gpu_phase);
    dev dv = {.p = run->p, .ith = ith, .scratch = p->thread[ith].scratch, .tap = run->tap, .times = run->times, .run = run,
              .stop = &run->stop, .stages = run->stages};
    for (int i = 0, il = -1; i < n && !atomic_load_explicit(&run->stop, memory_order_relaxed); i++) {
        const dev_op *op = &p->op[p->phase[i].first];
        if (!p->rows[op->rows].n) continue;
        if (ith == 0 && run->on_layer && op->layer > il) run->on_layer(run->on_layer_ctx, il = op->layer);
        dv.part = op->part;
        op->row->all(&dv, &p->phase[i]);
    }
    dev_wait(&dv);
}

/* Memory for pointers to the blocks of the longest table, or to the positions that attention reads one by one. */
static void dev__room(dev_run *run) {
    const dev_batch *b = run->batch;
    int              n = 0;
    for (int i = 0; i < b->n_seq * b->n_group; i++) n = max_int(n, (int)(b->table_at[i + 1] - b->table_at[i]));
    n = max_int(n, run->plan->n_views + n * run->plan->n_more);
    if (n <= run->n_views) return;
    run->n_views = n < 64 ? 64 : 2 * n;
    if (!run->views) run->views = mem_new((size_t)run->p->n, sizeof *run->views);
    for (int i = 0; i < run->p->n; i++) run->views[i] = mem_grow(run->views[i], 2 * (size_t)run->n_views, sizeof **run->views);
}

/* The adapters of row r of the batch; NULL: it has none. */
static const dev_adapters *dev_adapters_of(const dev_run *run, int r) {
    return run->adapters ? run->adapters[run->batch->seq[r]] : NULL;
}

/* The rows of a set by their adapters: those of one adapter in the order of the set. */
static void dev__list_low(const dev_run *run, dev_row_set set) {
    dev_plan           *p = run->plan;
    const dev_row_list *on = &p->rows[set];
    dev_low_rows       *l = &p->low[set];
    int                *at = l->at + 1;                   /* [adapter] where its next entry goes */
    memset(l->at, 0, ((size_t)p->n_low + 1) * sizeof *l->at);
    for (int t = 0; t < on->n; t++) {
        const dev_adapters *a = dev_adapters_of(run, on->row[t]);
        for (int i = 0; a && i < a->n; i++)
            if (a->use[i].adapter + 1 < p->n_low) at[a->use[i].adapter + 1]++;
    }
    for (int i = 1; i < p->n_low; i++) at[i] += at[i - 1];
    for (int t = 0; t < on->n; t++) {
        const dev_adapters *a = dev_adapters_of(run, on->row[t]);
        for (int i = 0; a && i < a->n; i++) {
            const int e = at[a->use[i].adapter]++;
            l->row[e] = t, l->of[e] = on->row[t], l->scale[e] = a->use[i].scale;
        }
    }
    l->n_used = 0;
    for (int i = 0; i < p->n_low; i++)
        if (l->at[i + 1] > l->at[i]) l->used[l->n_used++] = i;
}

/* What depends on the batch alone: the rows of each set and product, room for its tables. */
static void dev__prepare(dev_run *run) {
    dev_plan        *p = run->plan;
    const dev_batch *b = run->batch;
    ASSERT(b->n > 0 && b->n <= p->max_rows && b->n_out <= p->max_out);
    const int was[DEV_ROW_SETS] = {p->rows[DEV_ALL].n, p->rows[DEV_OUT].n};
    for (int i = 0; i < DEV_ROW_SETS; i++) dev__list_rows(b, (dev_row_set)i, &p->rows[i]);
    for (int i = 0; p->n_low && i < DEV_ROW_SETS; i++) dev__list_low(run, (dev_row_set)i);
    for (int r = 0; r < b->n; r++)
        if (!r || b->seq[r] != b->seq[r - 1]) p->seq_at[b->seq[r]] = r;
    p->seq_at[b->n_seq] = b->n;
    const bool same = was[DEV_ALL] == p->rows[DEV_ALL].n && was[DEV_OUT] == p->rows[DEV_OUT].n;   /* as decode steps mostly are */
    for (int i = 0; !same && i < p->n_product; i++) {
        dev_product *m = &p->product[i];
        m->n = p->rows[m->rows].n;
        if (m->heads) m->first = m->stack * m->n;
    }
    dev__room(run);
    run->ids = NULL;
    run->stop = false;
}

/* Runs the host's operations of the list for the batch; dev_gpu_step() runs those of GPUs. False: an interrupt ended it early. */
static bool dev_step(dev_run *run) {
    dev__prepare(run);
    if (run->times) run->times->at = clock_now(), run->times->steps++;
    mem_freeze("a step");
    (run->tap ? pool_run : pool_run_loose)(run->p, dev__main, run);
    mem_thaw();
    return !run->stop;
}

/* What a run has allocated for its steps. */
static void dev_run_free(dev_run *run) {
    for (int i = 0; run->views && i < run->p->n; i++) mem_free(run->views[i]);
    mem_free(run->views);
}