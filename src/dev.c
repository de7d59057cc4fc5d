/* ===== [dev] the device that runs a step =====
 * A step is a list of operations over buffers (dev_plan), written once for a model and run for every batch: plain numbers (dev_batch).
 * The list names operations, weights and buffers. This section decides how and in which memory they are computed. The
 * memory of the cache is here too: above, its blocks are numbers.
 *   On the CPU every thread of the pool goes through the list. Operations that work on the rows of a batch one by one form chains
 * without a barrier; products and attention are phases of their own. A phase begins when all threads are done with the one before, and
 * deals its tasks through the pool; one of a single task is done inside the barrier. How tasks fall never changes a result: each
 * output is summed by one thread in one order.
 *   GPUs may run the last operations of the list, each of them a run of layers (dev_gpus), and the last one what follows these. Their results
 * have the same bits, unless dev_gpus.tensor gives that up. Weights, buffers, keys and values and recurrent states of a layer lie in the memory of
 * its GPU; the names of what belongs to one have `far` in them. What one writes and a later one reads goes through the host's memory.
 * Public: dev_blas_open, dev_exact; dev_gpus_count, dev_gpus_new, dev_gpus_add, dev_gpus_only, dev_gpus_drop, dev_gpus_close, dev_gpus_memory, dev_gpus_name,
 * dev_gpus_number, dev_gpus_of, dev_gpus_order; dev_blocks_new, dev_blocks_split,
 * dev_blocks_mapped, dev_blocks_more, dev_blocks_free, dev_blocks_read, dev_blocks_write, dev_blocks_copy, dev_blocks_clear; dev_batch_states; dev_plan_begin, dev_plan_buf, dev_plan_op, dev_plan_product, dev_plan_rows, dev_plan_fill, dev_plan_free,
 * dev_plan_cost, dev_plan_far_needs; dev_mat_drop; dev_step, dev_fetch, dev_run_free; dev_input.
 * Opens: dev, dev_acts, dev_batch, dev_blocks, dev_cost, dev_far_needs, dev_gpus.from, dev_gpus.n, dev_gpus.tensor, dev_kv, dev_mat, dev_op, dev_plan, dev_product, dev_run, dev_state, dev_tap, dev_times. */

enum { DEV_PARTS = 9 };                               /* parts of a step whose times are counted apart */

typedef struct {                                      /* seconds, summed over steps */
    double all[DEV_PARTS], wait[DEV_PARTS];           /* of a part; of that, waiting for the other threads */
    double far;                                       /* of the operations of GPUs, and of what goes up and comes down */
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
    _Atomic bool *stop;                               /* set by an interrupt, NULL: an interrupt changes nothing */
} dev;

/* What one thread does inside a barrier. */
typedef struct {
    const dev *dv;
    void (*fn)(void *ctx);
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

/* Waits for the operation before; fn, if any, is then called by the last thread to arrive. The leading thread counts. */
static void dev__close(dev *dv, void (*fn)(void *ctx), void *ctx) {
    dev_times   *t = dv->ith ? NULL : dv->times;
    const int    was = dv->open - 1;
    const double t0 = t ? clock_now() : 0;
    if (was < 0) return;
    dv->open = 0;
    if (t) t->single = 0;
    pool_barrier_then(dv->p, dev__inside, &(dev_inside){dv, fn, ctx});
    if (!t) return;
    const double now = clock_now(), single = t->single;
    t->all[dv->part] += single;
    t->all[was] += now - t->at - single;
    t->wait[was] += now - t0 - single;
    t->at = now;
}

/* After the last operation, which job's end waits for too: it is counted. */
static void dev__end(dev *dv) { dev__close(dv, NULL, NULL); }

/* Before the tasks of an operation. */
static void dev__begin(dev *dv) {
    dev__close(dv, NULL, NULL);
    dv->open = dv->part + 1;
}

/* cblas_sgemm of OpenBLAS, NULL unless dev_blas_open() found it. It sums in an order of its own that depends on the
 * batch, so it runs only where it is asked for. */
typedef void      dev_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                            const float *b, int ldb, float beta, float *c, int ldc);
static dev_sgemm *g_sgemm;

enum {
    DEV_BLAS_ROWS = 8,                                /* fewer activation rows are our own kernels' */
    DEV_SOON = 32768,                                 /* bytes of weights that are fetched while a thread waits */
};

/* Looks for OpenBLAS on this machine; one thread of it per thread of ours, and none of its own. */
static bool dev_blas_open(err_t *e) {
#if LLMRUN_BLAS
    static const char *const names[] = {"libopenblas.so.0", "libopenblas.so"};
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    for (int i = 0; i < 2 && !g_sgemm; i++) {
        void *lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (lib) *(void **)&g_sgemm = dlsym(lib, "cblas_sgemm");
    }
    return g_sgemm || err_set(e, EXIT_INPUT, "--blas: no libopenblas.so.0 on this machine (Debian: libopenblas0)");
#else
    return err_set(e, EXIT_INPUT, "--blas: this binary was built with BLAS=0");
#endif
}

/* Whether results are exact: a row depends on its own past alone, whatever rows are beside it in a step, and equals the scalar reference to the
 * last bit. OpenBLAS gives that up. Then no guesses are made (spec_rows), since a row of a guess would change the text; keys and values on
 * disk are kept apart from exact ones (engine_open), and so are the results of a batch, whose settings name --blas. Sequences of one run
 * still share blocks: a text that may depend on its company may as well. Tensor cores of GPUs (dev_gpus.tensor) give up the reference alone: rows
 * do not depend on their company, so guesses are made; keys and values on disk are kept apart (dev_gpus_order). */
static bool dev_exact(void) { return g_sgemm == NULL; }

/* One matrix, or a stack of them (experts). Rows lie row_bytes apart, matrices mat_bytes. */
typedef struct {
    const uint8_t *data;                              /* view into the mapping; NULL: the model has none */
    uint32_t type;
    int      n_in, n_out, n_mat;                      /* n_mat: matrices in the stack */
    size_t   row_bytes, mat_bytes;
    const float *scale;                               /* factor on each matrix's product, or NULL */
    uint8_t *packed;                                  /* the rows in the packed layout, in the model's `packs`; NULL: none */
    size_t   packed_bytes;                            /* of one matrix of them */
    uint8_t *far;                                     /* the rows in the memory of a GPU, packed but for floats; NULL: they are not there */
    gpu     *far_on;                                  /* that GPU */
} dev_mat;

/* Activations of one batch: float rows and the forms of them that dev__form() fills where a matrix wants one. The second
 * half of the quantised rows is for what rows with outliers lose. */
typedef struct {
    float   *x;                                       /* [rows, ldx] */
    uint16_t *h;                                      /* [rows, ldx] rounded to bf16 */
    int8_t  *q;                                       /* [2 * rows, ldq] */
    k_sums  *sum;                                     /* [2 * rows, ldq / 256] */
    float   *d;                                       /* [2 * rows, ldq / 256] */
    uint8_t *split;                                   /* [rows] whether the second half has a part of this one */
    int      rows;
    size_t   ldx, ldq;                                /* ldq is a multiple of 256 */
} dev_acts;

static k_acts dev__view(const dev_acts *a, const int32_t *idx, int first, int n) {
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

/* The form that a matrix wants, as a bit; 0: the model has none. */
static unsigned dev__wants(const dev_mat *w) { return w->data ? 1u << k_act_of(w->type) : 0; }

/* The wanted forms of row r, n values. */
static void dev__form(const dev_acts *a, int r, int n, unsigned wanted) {
    const float *x = a->x + (size_t)r * a->ldx;
    if (wanted & 1u << K_ACT_BF16) k_kv_store(K_BF16, x, a->h + (size_t)r * a->ldx, n);
    if (wanted & 1u << K_ACT_I8)
        a->split[r] = k_quant_act(x, n, a->q + (size_t)r * a->ldq, a->sum + (size_t)r * (a->ldq / 256),
                                  a->d + (size_t)r * (a->ldq / 256), a->ldq, a->rows);
}

/* One product of a list: y[t, :] = w . a[idx ? idx[first + t] : first + t, :] for t < n. */
typedef struct {
    const dev_mat *w;
    int             n_out;                            /* rows of it that are multiplied: all of them, or the first */
    int             stack;                            /* which matrix of a stack */
    const dev_acts *a;
    const int32_t  *idx;
    int             first, n;
    float          *y;
    size_t          ldy;
    int             rows, in, out;                    /* of a plan: the set of rows, the buffers; */
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

static void dev__watch(dev *dv, const dev_product *list, int n) {
    dev__close(dv, NULL, NULL);
    if (dv->tap) dv->tap->fn(dv->tap->ctx, dv, list, n);
}

/* Rows per task: as many as the kernels like, but enough tasks that a slow thread is not waited for. */
static int dev__task_rows(const dev *dv, const dev_product *m) {
    int step = k_rows_step(m->w->type, m->n), rows = m->n_out / (8 * dv->p->n);
    rows -= rows % step;
    return rows < step ? step : rows > 512 && 512 % step == 0 ? 512 : rows;
}

/* Where the weights of row r lie. */
static const uint8_t *dev__at(const dev_product *m, int r) {
    const dev_mat *w = m->w;
    return w->packed ? w->packed + (size_t)m->stack * w->packed_bytes + k_pack_at(w->type, r, w->n_in)
                     : w->data + (size_t)m->stack * w->mat_bytes + (size_t)r * w->row_bytes;
}

/* Rows [r, r + nr) of one product. */
static void dev__mul(const dev *dv, const dev_product *m, int r, int nr) {
    const dev_mat *w = m->w;
    const uint8_t  *data = dev__at(m, r);
    const k_acts    a = dev__view(m->a, m->idx, m->first, m->n);
    if (w->packed) k_mul_packed(w->type, data, nr, w->n_in, &a, m->y + r, m->ldy, dv->scratch);
    else if (g_sgemm && w->type == K_F32 && m->n >= DEV_BLAS_ROWS && !m->idx)
        g_sgemm(101, 111, 112, m->n, nr, w->n_in, 1.0f, a.x, (int)a.ldx, (const float *)(const void *)data, w->n_in, 0.0f,
                m->y + r, (int)m->ldy);
    else
        k_mul_rows(w->type, data, w->row_bytes, nr, w->n_in, &a, m->y + r, m->ldy, dv->scratch);
    for (int t = 0; w->scale && t < m->n; t++) k_scale(m->y + (size_t)t * m->ldy + r, w->scale[m->stack], nr);
}

static int dev__tasks(const dev *dv, const dev_product *m) {
    if (m->n <= 0) return 0;
    const int step = dev__task_rows(dv, m);
    return (m->n_out + step - 1) / step;
}

/* Tasks of a list, which are numbered product by product. */
static int dev__all_tasks(const dev *dv, const dev_product *list, int n_list) {
    int n = 0;
    for (int i = 0; i < n_list; i++) n += dev__tasks(dv, &list[i]);
    return n;
}

/* The product that a task is of; *task becomes its number in there. Products are looked for from *i on, where *base tasks are
 * before it. */
static const dev_product *dev__find(const dev *dv, const dev_product *list, int *i, int *base, int *task) {
    if (*task < *base) *i = *base = 0;                /* one of another thread's */
    for (int n; *task >= *base + (n = dev__tasks(dv, &list[*i])); ++*i) *base += n;
    *task -= *base;
    return &list[*i];
}

/* All products of the list, as one pile of tasks. */
static void dev__matmul(dev *dv, const dev_product *list, int n_list) {
    dev__watch(dv, list, n_list);
    dev__begin(dv);
    if (!pool_works()) return;
    const int n = dev__all_tasks(dv, list, n_list);
    for (int task, i = 0, base = 0; (task = pool_take(dv->p, n)) != POOL_NONE;) {
        const dev_product *m = dev__find(dv, list, &i, &base, &task);
        const int          step = dev__task_rows(dv, m), r = task * step;
        dev__mul(dv, m, r, m->n_out - r < step ? m->n_out - r : step);
    }
}

/* The list is the next that will be multiplied: while this thread waits, it fetches the first weights of its share. */
static void dev__soon(const dev *dv, const dev_product *list, int n_list) {
    if (!pool_works()) return;
    const int n = dev__all_tasks(dv, list, n_list);
    int       task = pool_share(dv->p, n, dv->ith), i = 0, base = 0;
    if (task >= n) return;
    const dev_product *m = dev__find(dv, list, &i, &base, &task);
    pool_prefetch(dev__at(m, task * dev__task_rows(dv, m)), DEV_SOON);
}

/* --- GPUs --- */

enum { DEV_GPUS = 8 };                                /* most of a run */

/* GPUs in the order of their layers: number i runs those from from[i] on, up to those of the next one; the last one what follows them, too. */
typedef struct dev_gpus {
    gpu *g[DEV_GPUS];
    int  from[DEV_GPUS], n;
    bool tensor;                                      /* float matrices and attention take tensor cores, which have an order of their own */
} dev_gpus;

/* How many GPUs there are; -1: e says why none can be used. */
static int dev_gpus_count(err_t *e) { return gpu_count(e); }

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

/* Bytes of the memory of number i that are free; its name; the driver's number. */
static uint64_t    dev_gpus_memory(const dev_gpus *on, int i) { return gpu_memory(on->g[i]); }
static const char *dev_gpus_name(const dev_gpus *on, int i) { return gpu_about(on->g[i])->name; }
static int         dev_gpus_number(const dev_gpus *on, int i) { return gpu_about(on->g[i])->number; }

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

/* --- memory of the cache: blocks of one size, known above by their numbers alone --- */

enum { DEV_SLAB_BYTES = 4 << 20 };

/* The part of each block that lies on a GPU. */
typedef struct {
    gpu     *g;
    size_t   at, bytes;                               /* of a block */
    gpu_span all;                                     /* of all blocks, one after the other */
} dev_tail;

/* The first bytes of a block lie in the host's memory; the rest, that of layers which GPUs run, in theirs, in the same order. */
typedef struct {
    size_t    block_bytes, host_bytes;                /* of a block; of it, those of the host */
    int       max_blocks, slab_blocks;                /* the bound; blocks of a slab */
    int       n_slab, n_tail;                         /* n_tail 0: all of it is the host's */
    uint8_t **slab;                                   /* [n_slab] mapped on demand, so that memory follows the blocks in use */
    dev_tail  tail[DEV_GPUS];                         /* [n_tail] */
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
    const int left = m->max_blocks - s * m->slab_blocks;
    return left < m->slab_blocks ? left : m->slab_blocks;
}

/* Blocks that are mapped: their numbers are below it. */
static int dev_blocks_mapped(const dev_blocks *m) {
    return m->n_slab * m->slab_blocks < m->max_blocks ? m->n_slab * m->slab_blocks : m->max_blocks;
}

/* Maps another slab of zeros. False: the bound or the system's memory is reached. */
static bool dev_blocks_more(dev_blocks *m) {
    const int more = dev__slab_blocks(m, m->n_slab);
    void     *p = NULL;
    if (more <= 0) return false;
    for (int i = 0; i < m->n_tail; i++)
        if (!gpu_span_grow(m->tail[i].g, &m->tail[i].all, (size_t)(m->n_slab * m->slab_blocks + more) * m->tail[i].bytes)) return false;
    if (m->host_bytes) p = mmap(NULL, (size_t)more * m->host_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return false;
    m->slab = mem_grow(m->slab, (size_t)m->n_slab + 1, sizeof *m->slab);
    m->slab[m->n_slab++] = p;
    return true;
}

static void dev_blocks_free(dev_blocks *m) {
    for (int s = 0; m->host_bytes && s < m->n_slab; s++) munmap(m->slab[s], (size_t)dev__slab_blocks(m, s) * m->host_bytes);
    mem_free(m->slab);
    for (int i = 0; i < m->n_tail; i++) gpu_span_free(m->tail[i].g, &m->tail[i].all);
}

/* The host's part of a block; that of a GPU. */
static uint8_t *dev__block(const dev_blocks *m, int32_t b) {
    return m->host_bytes ? m->slab[b / m->slab_blocks] + (size_t)(b % m->slab_blocks) * m->host_bytes : NULL;
}
static uint8_t *dev__far_block(const dev_tail *t, int32_t b) { return t->all.base + (size_t)b * t->bytes; }

/* The part of a block that has byte `at`. */
static const dev_tail *dev__tail_at(const dev_blocks *m, size_t at) {
    const dev_tail *t = m->tail;
    while (t < m->tail + m->n_tail && at >= t->at + t->bytes) t++;
    ASSERT(t < m->tail + m->n_tail && at >= t->at);
    return t;
}

/* Waits for copies of blocks. */
static void dev__far_wait(const dev_blocks *m) {
    for (int i = 0; i < m->n_tail; i++) gpu_wait(m->tail[i].g);
}

static void dev_blocks_read(const dev_blocks *m, int32_t b, uint8_t *to) {
    if (m->host_bytes) memcpy(to, dev__block(m, b), m->host_bytes);
    for (const dev_tail *t = m->tail; t < m->tail + m->n_tail; t++) gpu_down(t->g, to + t->at, dev__far_block(t, b), t->bytes);
    dev__far_wait(m);
}

static void dev_blocks_write(const dev_blocks *m, int32_t b, const uint8_t *from) {
    if (m->host_bytes) memcpy(dev__block(m, b), from, m->host_bytes);
    for (const dev_tail *t = m->tail; t < m->tail + m->n_tail; t++) gpu_up(t->g, dev__far_block(t, b), from + t->at, t->bytes);
    dev__far_wait(m);
}

static void dev_blocks_copy(const dev_blocks *m, int32_t from, int32_t to) {
    if (m->host_bytes) memcpy(dev__block(m, to), dev__block(m, from), m->host_bytes);
    for (const dev_tail *t = m->tail; t < m->tail + m->n_tail; t++) gpu_copy(t->g, dev__far_block(t, to), dev__far_block(t, from), t->bytes);
}

/* Fills a block with zeros. A step that writes to it later meets no page fault. */
static void dev_blocks_clear(const dev_blocks *m, int32_t b) {
    if (m->host_bytes) memset(dev__block(m, b), 0, m->host_bytes);
    for (const dev_tail *t = m->tail; t < m->tail + m->n_tail; t++) gpu_zero(t->g, dev__far_block(t, b), t->bytes);
}

/* Where keys and values of one layer lie in the blocks of its group: K, then V, each [head][position][bytes of one head]. */
typedef struct {
    const dev_blocks *mem;
    int      group;                                   /* whose tables of block numbers name the blocks */
    int      block, n_head;                           /* positions of a block; heads */
    uint32_t type_k, type_v;
    int      hd_k, hd_v;                              /* values of one head */
    int      hadamard_k, hadamard_v;                  /* values of one transform; 1: stored as they are */
    size_t   k_at, v_at;                              /* bytes from the block's start */
    size_t   k_stride, v_stride;                      /* bytes of one position of one head */
} dev_kv;

enum { DEV_LOG = 16 };                                /* last rows of a step that a recurrent state can take back */

/* Where the state of one recurrent layer lies in a slot, a block of the group of states; all of it float32. A slot is at a position s: its
 * sums have taken in the positions before s, and its log holds what the positions from s on are to bring, so that these can be taken back. The
 * inputs of position p lie in row p % (taps - 1 + log) of the ring, which also has the last taps - 1 before s; gates in row p % log. */
typedef struct {
    const dev_blocks *mem;
    int    group;                                     /* of the cache */
    int    taps, width, log;                          /* taps of the convolution; its channels; rows of the log */
    int    n_k, n_v, d_k, d_v;                        /* heads of keys and of values, and their sizes; n_v 0: a convolution alone */
    size_t ring_at, gate_at, sum_at;                  /* bytes: inputs [taps - 1 + log][width]; gates [log][2 * n_v]; sums [n_v][d_k][d_v] */
} dev_state;

/* Stores K [n_head, hd_k] and V [n_head, hd_v] of one position, in the block that `table` names. */
static void dev__kv_store(const dev_kv *l, const int32_t *table, int pos, const float *k, const float *v) {
    const size_t block = (size_t)l->block, at = (size_t)pos % block;
    uint8_t     *p = dev__block(l->mem, table[(size_t)pos / block]);
    for (size_t h = 0; h < (size_t)l->n_head; h++) {
        k_kv_store(l->type_k, k + h * (size_t)l->hd_k, p + l->k_at + (h * block + at) * l->k_stride, l->hd_k);
        k_kv_store(l->type_v, v + h * (size_t)l->hd_v, p + l->v_at + (h * block + at) * l->v_stride, l->hd_v);
    }
}

/* Fills k and v [n] with the first byte of `head` in each of the table's first n blocks; NULL where the table has -1. */
static void dev__kv_views(const dev_kv *l, const int32_t *table, int n, int head, const uint8_t **k, const uint8_t **v) {
    const size_t at = (size_t)head * (size_t)l->block;
    for (int i = 0; i < n; i++) {
        const uint8_t *p = table[i] < 0 ? NULL : dev__block(l->mem, table[i]);
        k[i] = p ? p + l->k_at + at * l->k_stride : NULL;
        v[i] = p ? p + l->v_at + at * l->v_stride : NULL;
    }
}

/* --- a batch: the rows of one step --- */

/* What a row asks for, as a mask: logits; the normed stream after the last layer; the number of the largest logit, the first of several, in whose
 * place logits may come. */
enum { DEV_LOGITS = 1, DEV_HIDDEN = 2, DEV_ID = 4 };

/* Rows of one sequence are together in rising position. Plain numbers: the bytes of a batch are the same in every process. */
typedef struct {
    int      n, n_out, n_seq, n_group;                /* rows; of them, those that ask for something; sequences; groups of the cache */
    int32_t *token, *pos, *seq;                       /* [n] seq: number of the row's sequence in this batch */
    uint8_t *want;                                    /* [n] DEV_LOGITS, DEV_HIDDEN, DEV_ID or 0 */
    int32_t *table;                                   /* block numbers by position, of every sequence and group; -1: given back */
    size_t  *table_at;                                /* [n_seq * n_group + 1] where each sequence's table of each group begins */
    int32_t *state_in, *state_out;                    /* [n_seq] slot that is read, -1: zeros; slot that is written: both may be the same */
    int32_t *state_at, *state_to;                     /* [n_seq] positions at which they are */
    int32_t *snap, *snap_at;                          /* [n_seq] a slot that is to be at another position, -1: none; that position: after state_at
                                                       * and at most the one after the sequence's last row */
} dev_batch;

typedef enum { DEV_ALL, DEV_OUT, DEV_ROW_SETS } dev_row_set;   /* all rows of a batch; those that ask for something */

/* One set of rows, by number, and where each run of rows of one sequence begins among them: an attention task's rows. */
typedef struct {
    int      n, n_run;
    int32_t *row;                                     /* [n] */
    int     *run;                                     /* [n_run + 1] */
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

enum { DEV_STATE_ARRAYS = 6 };

/* The arrays that say what a step does with the states of its sequences. */
static void dev_batch_states(dev_batch *b, int32_t **to[DEV_STATE_ARRAYS]) {
    int32_t **const all[DEV_STATE_ARRAYS] = {&b->state_in, &b->state_out, &b->state_at, &b->state_to, &b->snap, &b->snap_at};
    memcpy(to, all, sizeof all);
}

/* The block numbers of row r's sequence in one group of the cache. */
static const int32_t *dev__table(const dev_batch *b, int group, int r, int *n) {
    const size_t *at = &b->table_at[b->seq[r] * b->n_group + group];
    *n = (int)(at[1] - at[0]);
    return b->table + at[0];
}

/* --- operations and the buffers that they work on ---
 * To add an operation: a dev_kind, its function and its cost, a row in dev_kinds. */

typedef int dev_buf;                                  /* number of a buffer in its plan; 0: none */

typedef struct {
    const char *name;
    bool        dense;                                /* rows lie side by side, without padding */
    int         width, each;                          /* values of a row, 4 bytes each; rows for each row of the set */
    dev_row_set most, held;                           /* the set that bounds its rows; the one it holds at this place of the list */
    unsigned    forms;                                /* that products read: a mask of 1 << K_ACT_ */
    int         former;                               /* the last operation that makes them */
    dev_acts    a;                                    /* its memory */
} dev_buffer;

typedef enum {
    DEV_EMBED, DEV_ANGLES, DEV_NORM, DEV_BIAS, DEV_ADD, DEV_SCALE, DEV_CAP, DEV_TEMPER, DEV_PICK, DEV_ROPE, DEV_HADAMARD, DEV_STORE, DEV_ATTEND,
    DEV_FORM, DEV_MATMUL, DEV_WATCH, DEV_ACTIVATE, DEV_ROUTE, DEV_GROUP, DEV_MIX, DEV_GATE, DEV_ADD_SCALED, DEV_SCALE_BY,
    DEV_MUL, DEV_CONV, DEV_DELTA, DEV_KEEP, DEV_SPARSE, DEV_BLEND, DEV_CORRECT, DEV_RAISE, DEV_LEVEL, DEV_KINDS
} dev_kind;

typedef enum { NORM_RMS, NORM_LAYER, NORM_L2 } dev_norm;          /* x / its root mean square; (x - mean) / its deviation; x / its length */
typedef enum { ACT_SILU, ACT_GELU, ACT_GELU_ERF, ACT_SIGMOID, ACT_RELU, ACT_RELU2, ACT_SWIGLU_CLIP } dev_act;   /* ACT_GELU: by tanh */
typedef enum { ROUTE_SOFTMAX, ROUTE_SIGMOID } dev_router;         /* the score of an expert from its logit */
typedef enum { VIEW_PAST, VIEW_ALL } dev_view;                    /* a row sees positions up to its own; or every row of its sequence in the step */

/* One operation of a step, for every row of a set. What each kind reads and writes is at its function. */
typedef struct {
    dev_kind    kind;
    int         layer, part;                          /* of the model; what its time is counted as */
    dev_row_set rows;
    int         each;                                 /* tasks for each row; 0: one */
    bool        beside;                               /* needs nothing that the operations before it in the same phase write */
    dev_buf     in[3], out[2];
    unsigned    gathers;                              /* mask of those inputs that hold all rows where the operation takes some */
    int         n, n_head;                            /* values of a vector; vectors of a row, 0: one */
    const float *vec;                                 /* [n] gain or bias; NULL: none */
    float       scale;                                /* epsilon of a norm, else a factor; 0 in DEV_EMBED and DEV_ADD: 1 */
    union {
        struct { const dev_mat *mat; bool by_pos; } embed;        /* its rows stand for positions, not tokens */
        struct { dev_norm kind; const float *bias; } norm;        /* bias: [n], NULL: none */
        struct { float length; } temper;              /* positions after which the temperature rises */
        struct { int to; } level;                     /* where its output begins */
        struct { int active; } streams;               /* the stream that blocks read */
        struct { int stride, at, to; } pick;          /* values of a head in in[0]; where the wanted ones begin there; where those of out do */
        dev_act act;                                  /* DEV_ACTIVATE */
        struct { const double *freq; int at; } angles;/* radians per position; where they begin in a row */
        struct { int n_rot, at; bool halves; } rope;  /* values that it rotates; where its angles begin; which two make a pair */
        struct { const dev_kv *kv; bool values; } hadamard;            /* as the cache has its values or its keys */
        struct {
            const dev_kv *kv;                         /* of the layer */
            int      window, hd_k, group, most;       /* values of a query; query heads of a K/V head; most positions that a row sees */
            dev_view view;
            float    cap;                             /* scores become cap * tanh(score / cap); 0: they stay */
            const float *sinks, *slope;               /* [n_head] one more score, without a value; score lost per position (ALiBi); NULL: none */
        } cache;
        struct { int a, b, to; } mul;                 /* where the values begin in a row of each input and of the output */
        struct { const dev_state *st; int at, d_k, n_vec; bool grouped; const float *decay, *step; } state;   /* of the layer; where the inputs begin in
                                                       * a row; values of a key, of vec; neighbouring value heads share a key head; [n_v] gates */
        struct { int n, used; bool norm; dev_router router; int wide, base; } experts; /* how many; used for a row; weights sum to 1; DEV_GROUP: products that
                                                       * read the rows, 2 with a gate; the first of them */
        struct { int first, n, n_expert, used, at; } products;   /* of the plan; of n_expert experts, where they begin in `grouped` */
        unsigned forms;                               /* DEV_FORM */
    };
} dev_op;

/* Operations between two barriers. Tasks are rows: each goes through the operations of its chain, one after the other. */
typedef struct dev_phase {
    int first, n;
    int soon;                                         /* the next products, an operation whose weights are fetched ahead; -1: none */
} dev_phase;

/* A list of operations with its buffers, written once and run for every batch. */
typedef struct {
    dev_op      *op;                                  /* [n_op] */
    dev_phase   *phase;                               /* [n_phase] */
    dev_product *product;                             /* [n_product] */
    dev_product *grouped;                             /* [3 * most experts] those of the layer at hand, by expert: gate and up in turn, then down */
    int         *expert_at;                           /* [most experts + 1] first slot of each expert */
    dev_buffer  *buf;                                 /* [n_buf] */
    int          n_op, n_phase, n_product, n_buf;
    dev_row_list rows[DEV_ROW_SETS];                  /* of the batch at hand */
    int         *seq_at;                              /* [most rows + 1] of the batch at hand: first row of each sequence */
    void       **scratch;                             /* [threads] for kernels */
    k_attn_row **attn_rows;                           /* [threads][DEV_ATTN_ROWS * most query heads of a K/V head] */
    float      **attn_sinks;                          /* [threads][2 * as many] sinks of those rows, and slopes after them */
    int          attn_most;                           /* rows of a task at most */
    float       *parts;                               /* [n_parts] partial results of attention, where segments are tasks; NULL: they never are */
    size_t       n_parts;
    int          max_rows, max_out;
    size_t       n_bytes;                             /* of all that dev_plan_fill() allocates, and of the list */
    bool         counting;                            /* bytes are counted, nothing is allocated */
    void       **own;                                 /* [n_own] that memory */
    int          n_own;
    const dev_gpus *on;                               /* run their layers; NULL: the host runs all */
    dev_buf      result;                              /* what steps are for */
    int          far_op, far_phase;                   /* first operation and phase of the GPUs; after the last: none */
    struct dev_far *far;                              /* [n_far] launches and memory of each GPU */
    int          n_far;
} dev_plan;

/* What runs a plan. */
typedef struct dev_run {
    pool            *p;
    dev_plan        *plan;
    const dev_batch *batch;
    const dev_tap   *tap;                             /* is called with the products, NULL: no tap */
    dev_times       *times;                           /* where time is counted, NULL: nowhere */
    void (*on_layer)(void *ctx, int il);              /* called by thread 0 as it enters a layer; NULL: not called */
    void            *on_layer_ctx;
    const uint8_t ***views;                           /* [threads][2 * n_views] blocks of one sequence, for attention */
    int              n_views;
    const int32_t   *ids;                             /* [n_out] what the last step gave in place of logits: DEV_ID of each row, -1: a logit is not finite */
    _Atomic bool     stop;                            /* an interrupt came */
} dev_run;

static float *dev__row(const dev *dv, dev_buf b, int r) {
    const dev_acts *a = &dv->run->plan->buf[b].a;
    return a->x + (size_t)r * a->ldx;
}

/* The number in the batch of the operation's row r. */
static int dev__which(const dev *dv, const dev_op *op, int r) { return dv->run->plan->rows[op->rows].row[r]; }

/* The operation's row r of input i, of output i. */
static float *dev__in(const dev *dv, const dev_op *op, int i, int r) {
    return dev__row(dv, op->in[i], op->gathers & 1u << i ? dv->run->plan->rows[DEV_OUT].row[r] : r);
}
static float   *dev__out(const dev *dv, const dev_op *op, int i, int r) { return dev__row(dv, op->out[i], r); }
static int32_t *dev__ints(float *row) { return (int32_t *)(void *)row; }

/* --- what each kind does for row r, on the CPU --- */

/* out = the matrix's row for the row's token or position, times scale, plus in[0] if there is one. */
static void dev__embed(const dev *dv, const dev_op *op, int r) {
    const dev_mat *w = op->embed.mat;
    const int32_t *at = op->embed.by_pos ? dv->run->batch->pos : dv->run->batch->token;
    float         *x = dev__out(dv, op, 0, r);
    k_types[w->type].dequant(w->data + (size_t)at[dev__which(dv, op, r)] * w->row_bytes, x, w->n_in);
    if (w->scale) k_scale(x, w->scale[0], w->n_in);
    if (op->scale != 0) k_scale(x, op->scale, w->n_in);
    if (op->in[0]) k_add(x, x, dev__in(dv, op, 0, r), w->n_in);
}

/* out = cos and sin of n angles of the row's position, times scale. */
static void dev__angles(const dev *dv, const dev_op *op, int r) {
    float *cs = dev__out(dv, op, 0, r) + op->angles.at;
    for (int i = 0; i < op->n; i++) {
        const double angle = dv->run->batch->pos[dev__which(dv, op, r)] * op->angles.freq[i];
        cs[2 * i] = (float)cos(angle) * op->scale;
        cs[2 * i + 1] = (float)sin(angle) * op->scale;
    }
}

/* out = the norm of in, times vec, plus the bias; for each head. */
static void dev__norm(const dev *dv, const dev_op *op, int r) {
    const float *x = dev__in(dv, op, 0, r);
    float       *y = dev__out(dv, op, 0, r);
    for (int h = 0; h == 0 || h < op->n_head; h++, x += op->n, y += op->n)
        switch (op->norm.kind) {
        case NORM_RMS: k_rms_norm(x, op->vec, op->scale, op->n, y); break;
        case NORM_LAYER: k_layer_norm(x, op->vec, op->norm.bias, op->scale, op->n, y); break;
        case NORM_L2:
            if (y != x) memcpy(y, x, (size_t)op->n * sizeof *y);
            k_l2_norm(y, op->scale, op->n);
            break;
        }
}

/* The expert of a slot: the last one whose slots begin at it or before. */
static int dev__expert_at(const dev_plan *p, int n_expert, int slot) {
    int lo = 0, hi = n_expert;
    while (hi - lo > 1) {
        const int mid = (lo + hi) / 2;
        if (p->expert_at[mid] <= slot) lo = mid;
        else hi = mid;
    }
    return lo;
}

/* out += vec; where rows are slots of experts, the part of vec that belongs to the slot's expert. */
static void dev__bias(const dev *dv, const dev_op *op, int r) {
    const int e = op->experts.n ? dev__expert_at(dv->run->plan, op->experts.n, r) : 0;
    float    *y = dev__out(dv, op, 0, r);
    k_add(y, y, op->vec + (size_t)e * (size_t)op->n, op->n);
}

/* out = in[0] + scale * in[1]. */
static void dev__add(const dev *dv, const dev_op *op, int r) {
    const float *a = dev__in(dv, op, 0, r), *b = dev__in(dv, op, 1, r);
    float       *y = dev__out(dv, op, 0, r);
    if (op->scale == 0) {
        k_add(y, a, b, op->n);
        return;
    }
    if (y != a) memcpy(y, a, (size_t)op->n * sizeof *y);
    k_axpy(y, b, op->scale, op->n);
}

/* out *= vec, or scale where there is none. */
static void dev__scale(const dev *dv, const dev_op *op, int r) {
    float *y = dev__out(dv, op, 0, r);
    if (op->vec) k_mul(y, y, op->vec, op->n);
    else k_scale(y, op->scale, op->n);
}

/* out = scale * tanh(out / scale). */
static void dev__cap(const dev *dv, const dev_op *op, int r) { k_cap(dev__out(dv, op, 0, r), op->scale, op->n); }

/* out = 1 + scale * log(1 + whole lengths before the row's position), one value. */
static void dev__temper(const dev *dv, const dev_op *op, int r) {
    const double turns = floor(dv->run->batch->pos[dev__which(dv, op, r)] / (double)op->temper.length);
    *dev__out(dv, op, 0, r) = (float)(1 + (double)op->scale * log1p(turns));
}

/* out *= in, one value. */
static void dev__scale_by(const dev *dv, const dev_op *op, int r) { k_scale(dev__out(dv, op, 0, r), *dev__in(dv, op, 0, r), op->n); }

/* out = of each head of in[0], n values from `at` on; they lie side by side from `to` on. */
static void dev__pick(const dev *dv, const dev_op *op, int r) {
    const float *x = dev__in(dv, op, 0, r) + op->pick.at;
    float       *y = dev__out(dv, op, 0, r) + op->pick.to;
    for (int h = 0; h < op->n_head; h++) memcpy(y + (size_t)h * (size_t)op->n, x + (size_t)h * (size_t)op->pick.stride, (size_t)op->n * sizeof *y);
}

/* --- of models with several streams (AltUp: Baykal et al. 2023, with the sparse gates of Gemma 3n). A row has n_head streams of n values --- */

/* Mean and standard deviation of n values. */
static void dev__spread(const float *x, int n, double *mean, double *deviation) {
    double sum[8] = {0}, sq[8] = {0};
    for (int i = 0; i < n; i++) sum[i % 8] += (double)x[i];
    *mean = (((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]))) / n;
    for (int i = 0; i < n; i++) sq[i % 8] += ((double)x[i] - *mean) * ((double)x[i] - *mean);
    *deviation = sqrt((((sq[0] + sq[1]) + (sq[2] + sq[3])) + ((sq[4] + sq[5]) + (sq[6] + sq[7]))) / n);
}

/* out = what out has above its mean and `scale` standard deviations; 0 below. */
static void dev__sparse(const dev *dv, const dev_op *op, int r) {
    float *y = dev__out(dv, op, 0, r);
    double mean, deviation;
    dev__spread(y, op->n, &mean, &deviation);
    const float least = (float)(mean + (double)op->scale * deviation);
    for (int i = 0; i < op->n; i++) y[i] = y[i] > least ? y[i] - least : 0;
}

/* out: each stream of in[0] plus a sum of all, by the coefficients [n_head][n_head] in[1]. */
static void dev__blend(const dev *dv, const dev_op *op, int r) {
    const float *x = dev__in(dv, op, 0, r), *c = dev__in(dv, op, 1, r);
    float       *y = dev__out(dv, op, 0, r);
    memcpy(y, x, (size_t)op->n * (size_t)op->n_head * sizeof *y);
    for (int i = 0; i < op->n_head; i++)
        for (int k = 0; k < op->n_head; k++) k_axpy(y + i * op->n, x + k * op->n, c[i * op->n_head + k], op->n);
}

/* out: each stream of in[0] plus (1 + its coefficient of in[2]) times what in[1] has more than the active one. */
static void dev__correct(const dev *dv, const dev_op *op, int r) {
    const int    a = op->streams.active * op->n;
    const float *x = dev__in(dv, op, 0, r), *c = dev__in(dv, op, 2, r);
    float       *y = dev__out(dv, op, 0, r), *more = y + a;
    memcpy(more, dev__in(dv, op, 1, r), (size_t)op->n * sizeof *more);
    k_axpy(more, x + a, -1, op->n);
    for (int i = 0; i < op->n_head; i++) {
        if (i * op->n == a) continue;
        memcpy(y + i * op->n, x + i * op->n, (size_t)op->n * sizeof *y);
        k_axpy(y + i * op->n, more, c[i] + 1, op->n);
    }
    k_scale(more, c[op->streams.active] + 1, op->n);
    k_add(more, more, x + a, op->n);
}

/* out: every stream but the first grows by in[0]. */
static void dev__raise(const dev *dv, const dev_op *op, int r) {
    float *y = dev__out(dv, op, 0, r);
    for (int i = 1; i < op->n_head; i++) k_add(y + i * op->n, y + i * op->n, dev__in(dv, op, 0, r), op->n);
}

/* out = in[0], scaled to the root mean square of in[1]; the mean square of in[0] counts as 1e-5 at least. */
static void dev__level(const dev *dv, const dev_op *op, int r) {
    const float *x = dev__in(dv, op, 0, r), *like = dev__in(dv, op, 1, r);
    float       *y = dev__out(dv, op, 0, r) + op->level.to;
    const float  now = k_dot(x, x, op->n) / (float)op->n, want = k_dot(like, like, op->n) / (float)op->n;
    if (y != x) memcpy(y, x, (size_t)op->n * sizeof *y);
    k_scale(y, sqrtf(want) / sqrtf(now > 1e-5f ? now : 1e-5f), op->n);
}

/* out: the heads rotated by the angles in[0]. */
static void dev__rope(const dev *dv, const dev_op *op, int r) {
    k_rope(dev__out(dv, op, 0, r), op->n_head, op->n, op->rope.n_rot, op->rope.halves, dev__in(dv, op, 0, r) + op->rope.at);
}

/* Keys in[0] and values in[1] go into the cache. */
static void dev__store(const dev *dv, const dev_op *op, int r) {
    const dev_batch *b = dv->run->batch;
    const dev_kv    *kv = op->cache.kv;
    float           *k = dev__in(dv, op, 0, r), *v = dev__in(dv, op, 1, r);
    int              n;
    k_hadamard(k, kv->n_head * kv->hd_k, kv->hadamard_k);
    k_hadamard(v, kv->n_head * kv->hd_v, kv->hadamard_v);
    dev__kv_store(kv, dev__table(b, kv->group, r, &n), b->pos[r], k, v);
}

/* out: the transform of the cache's keys or values, which is its own inverse. */
static void dev__hadamard(const dev *dv, const dev_op *op, int r) {
    const dev_kv *kv = op->hadamard.kv;
    k_hadamard(dev__out(dv, op, 0, r), op->n_head * op->n, op->hadamard.values ? kv->hadamard_v : kv->hadamard_k);
}

static int dev__attend_tasks(const dev_run *run, const dev_op *op) { return run->plan->rows[op->rows].n_run * op->cache.kv->n_head; }

/* A number for each query head, as an array for the rows of a task; NULL: there are none. `at`: where the array begins. */
static const float *dev__by_head(const dev *dv, const dev_op *op, const float *of, int head, int n_rows, int at) {
    const int g = op->cache.group;
    float    *to = dv->run->plan->attn_sinks[dv->ith] + at;
    for (int i = 0; of && i < n_rows; i++) to[i] = of[head * g + i % g];
    return of ? to : NULL;
}

/* Rows of a batch up to the last one of row r's sequence. */
static int dev__rows_to(const dev_batch *b, int r) {
    int low = r + 1, high = b->n;                     /* numbers of sequences rise */
    while (low < high) {
        const int mid = low + (high - low) / 2;
        if (b->seq[mid] == b->seq[r]) low = mid + 1;
        else high = mid;
    }
    return low;
}

/* The positions that row r of the batch sees: from *begin on, before *end. */
static void dev__sees(const dev_batch *b, const dev_op *op, int r, int64_t *begin, int64_t *end) {
    const int64_t pos = b->pos[r], window = op->cache.window, half = window / 2;
    if (op->cache.view == VIEW_PAST) {
        *end = pos + 1;
        *begin = window && *end > window ? *end - window : 0;
        return;
    }
    *end = b->pos[dev__rows_to(b, r) - 1] + 1;
    if (window && pos + half < *end) *end = pos + half + 1;
    *begin = window && pos > half ? pos - half : 0;
}

/* The query rows of run `i` for K/V head `head`. */
static k_attn_args dev__attend_rows(const dev *dv, const dev_op *op, int i, int head) {
    const dev_run      *run = dv->run;
    const dev_kv       *kv = op->cache.kv;
    const dev_row_list *on = &run->plan->rows[op->rows];
    const int           g = op->cache.group;
    k_attn_row         *rows = run->plan->attn_rows[dv->ith];
    int                 n = 0;
    for (int s = on->run[i]; s < on->run[i + 1]; s++) {
        float  *q = dev__in(dv, op, 0, s) + head * g * kv->hd_k, *o = dev__out(dv, op, 0, s) + head * g * kv->hd_v;
        int64_t begin, end;
        dev__sees(run->batch, op, on->row[s], &begin, &end);
        for (int h = 0; h < g; h++)
            rows[n++] = (k_attn_row){.q = q + h * kv->hd_k, .o = o + h * kv->hd_v, .begin = begin, .end = end, .at = run->batch->pos[on->row[s]]};
    }
    return (k_attn_args){.n_rows = n, .rows = rows, .hd_k = kv->hd_k, .hd_v = kv->hd_v, .scale = op->scale, .softcap = op->cache.cap,
                         .sinks = dev__by_head(dv, op, op->cache.sinks, head, n, 0),
                         .slopes = dev__by_head(dv, op, op->cache.slope, head, n, run->plan->attn_most), .type_k = kv->type_k, .type_v = kv->type_v};
}

/* The same with the blocks of keys and values. */
static k_attn_args dev__attend_args(const dev *dv, const dev_op *op, int i, int head) {
    const dev_run      *run = dv->run;
    const dev_kv       *kv = op->cache.kv;
    const dev_row_list *on = &run->plan->rows[op->rows];
    const uint8_t     **kb = run->views[dv->ith], **vb = kb + run->n_views;
    k_attn_args         a = dev__attend_rows(dv, op, i, head);
    int                 n_blocks;
    const int32_t      *table = dev__table(run->batch, kv->group, on->row[on->run[i]], &n_blocks);
    dev__kv_views(kv, table, n_blocks, head, kb, vb);
    a.k_blocks = kb, a.v_blocks = vb, a.block = kv->block, a.k_stride = kv->k_stride, a.v_stride = kv->v_stride;
    return a;
}

/* out = attention of the queries in[0] over the cache. A task is a run of rows of one sequence and a K/V head. */
static void dev__attend(const dev *dv, const dev_op *op, int task) {
    const k_attn_args a = dev__attend_args(dv, op, task / op->cache.kv->n_head, task % op->cache.kv->n_head);
    k_attn(&a, dv->scratch);
}

/* --- attention whose tasks are segments: where runs and K/V heads are too few for the threads. The results have the same bits --- */

/* The segments that a run of rows sees. */
typedef struct {
    int64_t first;
    int     n;
    size_t  size, at;                                 /* floats of a segment's partial result for one K/V head; where those of the run begin */
} dev_segments;

/* Of the run after the one that *to describes; of run 0 where to->size is 0. */
static void dev__segments(const dev_run *run, const dev_op *op, int i, dev_segments *to) {
    const dev_row_list *on = &run->plan->rows[op->rows];
    int64_t begin, end, none;
    dev__sees(run->batch, op, on->row[on->run[i]], &begin, &none);
    dev__sees(run->batch, op, on->row[on->run[i + 1] - 1], &none, &end);
    to->at += (size_t)to->n * (size_t)op->cache.kv->n_head * to->size;
    to->first = begin / K_SEGMENT;
    to->n = (int)((end - 1) / K_SEGMENT + 1 - to->first);
    to->size = k_attn_part((on->run[i + 1] - on->run[i]) * op->cache.group, op->cache.kv->hd_v);
}

/* Whether segments are tasks: a tenth of the threads' time would be lost otherwise, and the partial results have space. */
static bool dev__apart(const dev_run *run, const dev_op *op) {
    const int    n_run = run->plan->rows[op->rows].n_run, n = n_run * op->cache.kv->n_head, turns = (n + run->p->n - 1) / run->p->n;
    dev_segments seg = {0};
    int          most = 0;
    if (!run->plan->parts || 10 * n > 9 * turns * run->p->n) return false;
    for (int i = 0; i < n_run; i++) {
        dev__segments(run, op, i, &seg);
        most = seg.n > most ? seg.n : most;
    }
    return most > 1 && seg.at + (size_t)seg.n * (size_t)op->cache.kv->n_head * seg.size <= run->plan->n_parts;
}

/* Finds the run of a task, where each run has one for each K/V head or, `each`, for each segment of it; *task is then counted in the run. */
static int dev__find_run(const dev_run *run, const dev_op *op, bool each, int *task, dev_segments *seg) {
    for (int i = 0;; i++) {
        dev__segments(run, op, i, seg);
        const int n = op->cache.kv->n_head * (each ? seg->n : 1);
        if (*task < n) return i;
        *task -= n;
    }
}

static void dev__attend_segment(const dev *dv, const dev_op *op, int task) {
    dev_segments      seg = {0};
    const int         i = dev__find_run(dv->run, op, true, &task, &seg);
    const k_attn_args a = dev__attend_args(dv, op, i, task / seg.n);
    k_attn_segment(&a, seg.first + task % seg.n, dv->run->plan->parts + seg.at + (size_t)task * seg.size, dv->scratch);
}

static void dev__attend_merge(const dev *dv, const dev_op *op, int task) {
    dev_segments      seg = {0};
    const int         i = dev__find_run(dv->run, op, false, &task, &seg);
    const k_attn_args a = dev__attend_rows(dv, op, i, task);
    const float      *parts = dv->run->plan->parts + seg.at + (size_t)(task * seg.n) * seg.size;
    for (int r = 0; r < a.n_rows; r++) k_attn_merge(&a, r, parts, seg.n);
}

/* All segments, then the merges. */
static void dev__attend_apart(dev *dv, const dev_op *op) {
    const dev_run *run = dv->run;
    dev_segments   seg = {0};
    int            n = 0;
    for (int i = 0; i < run->plan->rows[op->rows].n_run; i++) {
        dev__segments(run, op, i, &seg);
        n += seg.n * op->cache.kv->n_head;
    }
    dev__begin(dv);
    for (int task; (task = pool_next(dv->p)) < n;) dev__attend_segment(dv, op, task);
    dev__begin(dv);
    for (int task; (task = pool_next(dv->p)) < dev__attend_tasks(run, op);) dev__attend_merge(dv, op, task);
}

/* --- recurrent layers: each position changes a state, which a slot of the cache keeps for the sequence --- */

enum { DEV_TAPS = K_CONV_TAPS };                      /* most taps of a convolution */
enum { DEV_STREAMS = 16 };                            /* most streams of a row */

/* The way of one sequence through a step, in one layer: positions [at, p) are in the log of its slot, [p, end) are rows of the batch. */
typedef struct {
    const dev_state *st;
    int      first;                                   /* row of position p */
    int      at, p, end;                              /* at: where the slot is that is read */
    int      to;                                      /* where the slot will be that is written */
    int      snap_at;                                 /* the same of the snapshot; -1: none is made */
    uint8_t *in, *out, *snap;                         /* slots; in NULL: zeros */
} dev_walk;

static dev_walk dev__walk(const dev *dv, const dev_op *op, int seq) {
    const dev_batch *b = dv->run->batch;
    const dev_state *st = op->state.st;
    const int       *at = &dv->run->plan->seq_at[seq];
    dev_walk         w = {.st = st, .first = at[0], .at = b->state_at[seq], .p = b->pos[at[0]], .end = b->pos[at[1] - 1] + 1, .to = b->state_to[seq], .snap_at = -1};
    if (b->state_in[seq] >= 0) w.in = dev__block(st->mem, b->state_in[seq]);
    w.out = dev__block(st->mem, b->state_out[seq]);
    if (b->snap[seq] < 0) return w;
    w.snap_at = b->snap_at[seq];
    w.snap = dev__block(st->mem, b->snap[seq]);
    return w;
}

static float *dev__floats(uint8_t *p) { return (float *)(void *)p; }

/* Where a slot keeps the inputs of position t; its gates; the sums of a head. */
static float *dev__ring(const dev_state *st, uint8_t *slot, int t) { return dev__floats(slot + st->ring_at) + (size_t)(t % (st->taps - 1 + st->log)) * (size_t)st->width; }
static float *dev__log(const dev_state *st, uint8_t *slot, int t) { return dev__floats(slot + st->gate_at) + (size_t)(t % st->log) * 2 * (size_t)st->n_v; }
static float *dev__sums(const dev_state *st, uint8_t *slot, int head) { return dev__floats(slot + st->sum_at) + (size_t)head * (size_t)st->d_k * (size_t)st->d_v; }

/* The inputs of position t; NULL: zeros. */
static const float *dev__raw(const dev *dv, const dev_op *op, const dev_walk *w, int t) {
    if (t >= w->p) return dev__row(dv, op->in[0], w->first + t - w->p) + op->state.at;
    return t < 0 || !w->in ? NULL : dev__ring(w->st, w->in, t);
}

enum { DEV_DELTA_ROWS = 32 };                         /* positions whose vectors are computed together */

/* y = the convolution of n channels from `ch` on, for `rows` positions from t on, ld values apart. */
static void dev__convolve(const dev *dv, const dev_op *op, const dev_walk *w, int t, int rows, int ch, int n, bool silu, float *y, size_t ld) {
    const float *x[DEV_DELTA_ROWS + DEV_TAPS];
    const int    taps = w->st->taps;
    for (int i = 0; i < rows + taps - 1; i++) {
        const float *raw = dev__raw(dv, op, w, t - taps + 1 + i);
        x[i] = raw ? raw + ch : NULL;
    }
    k_conv(x, op->vec + (size_t)ch * (size_t)taps, NULL, taps, n, rows, silu, y, ld);
}

static int dev__row_tasks(const dev_run *run, const dev_op *op) { return run->plan->rows[op->rows].n; }

/* out = the convolution, with the weights vec, of the inputs in[0] of the row and of the positions before it. */
static void dev__conv(const dev *dv, const dev_op *op, int r) {
    const dev_batch *b = dv->run->batch;
    const int        row = dv->run->plan->rows[op->rows].row[r];
    const dev_walk   w = dev__walk(dv, op, b->seq[row]);
    dev__convolve(dv, op, &w, b->pos[row], 1, 0, op->n, false, dev__out(dv, op, 0, r), 0);
}

/* A task of DEV_DELTA: columns [col, col + cols) of one value head of one sequence. Its vectors have a row for each position. */
typedef struct {
    dev_walk w;
    int      head, key;                               /* of values, of keys */
    int      col, cols;
    float   *q, *k, *v, *decay, *beta;                /* [DEV_DELTA_ROWS][d_k], [d_k], [d_v], 1, 1 */
    float   *own;                                     /* sums after w.to, which no slot keeps */
} dev_delta_task;

static size_t dev__delta_scratch(int d_k, int d_v) {
    return mem_size(DEV_DELTA_ROWS * (2 * (size_t)d_k + (size_t)d_v + 2) + (size_t)d_k * (size_t)d_v, sizeof(float));
}

/* Tasks for each head: one, or as many of its strips of columns as make an even share for every thread. */
static int dev__delta_shares(const dev_run *run, const dev_op *op) {
    const int strips = (op->n + K_DELTA_COLS - 1) / K_DELTA_COLS, heads = run->batch->n_seq * op->n_head;
    int       shares = 1;
    while (shares < strips && 10 * heads * shares <= 9 * ((heads * shares + run->p->n - 1) / run->p->n) * run->p->n) shares *= 2;
    return shares < strips ? shares : strips;
}

static int dev__delta_tasks(const dev_run *run, const dev_op *op) { return run->batch->n_seq * op->n_head * dev__delta_shares(run, op); }

static dev_delta_task dev__delta_task(const dev *dv, const dev_op *op, int task) {
    const dev_state *st = op->state.st;
    const int        shares = dev__delta_shares(dv->run, op), strips = (op->n + K_DELTA_COLS - 1) / K_DELTA_COLS, share = task % shares;
    dev_delta_task   d = {.w = dev__walk(dv, op, task / shares / st->n_v), .head = task / shares % st->n_v};
    const int        end = strips * (share + 1) / shares * K_DELTA_COLS;
    d.key = op->state.grouped ? d.head / (st->n_v / st->n_k) : d.head % st->n_k;
    d.col = strips * share / shares * K_DELTA_COLS;
    d.cols = (end < st->d_v ? end : st->d_v) - d.col;
    d.q = dv->scratch;
    d.k = d.q + DEV_DELTA_ROWS * st->d_k;
    d.v = d.k + DEV_DELTA_ROWS * st->d_k;
    d.decay = d.v + DEV_DELTA_ROWS * st->d_v;
    d.beta = d.decay + DEV_DELTA_ROWS;
    d.own = d.beta + DEV_DELTA_ROWS;
    return d;
}

/* The gates alpha, i = 0, or beta, i = 1, of the value heads at position t. */
static const float *dev__gates(const dev *dv, const dev_op *op, const dev_walk *w, int i, int t) {
    if (t >= w->p) return dev__row(dv, op->in[1 + i], w->first + t - w->p);
    return dev__log(w->st, w->in, t) + i * w->st->n_v;
}

/* Queries, keys, values and gates of n positions from t on. Positions of the log have no queries. */
static void dev__delta_vectors(const dev *dv, const dev_op *op, const dev_delta_task *d, int t, int n) {
    const dev_state *st = d->w.st;
    const int        ask = t < d->w.p ? d->w.p - t : 0;
    const size_t     ld = (size_t)st->d_k, d_v = (size_t)st->d_v;
    if (ask < n) dev__convolve(dv, op, &d->w, t + ask, n - ask, d->key * st->d_k, st->d_k, true, d->q + (size_t)ask * ld, ld);
    dev__convolve(dv, op, &d->w, t, n, (st->n_k + d->key) * st->d_k, st->d_k, true, d->k, ld);
    dev__convolve(dv, op, &d->w, t, n, 2 * st->n_k * st->d_k + d->head * st->d_v + d->col, d->cols, true, d->v + d->col, d_v);
    for (int i = 0; i < n; i++) {
        d->decay[i] = k_expf(op->state.decay[d->head] * k_softplus(dev__gates(dv, op, &d->w, 0, t + i)[d->head] + op->state.step[d->head]));
        d->beta[i] = k_sigmoid(dev__gates(dv, op, &d->w, 1, t + i)[d->head]);
        k_l2_norm(d->k + (size_t)i * ld, op->scale, st->d_k);
        if (i < ask) continue;
        k_l2_norm(d->q + (size_t)i * ld, op->scale, st->d_k);
        k_scale(d->q + (size_t)i * ld, 1.0f / sqrtf((float)st->d_k), st->d_k);
    }
}

/* The next position after t, at most `most`, where the sums go elsewhere: they have all that the slot keeps, or all of the snapshot. */
static int dev__delta_until(const dev_walk *w, int t, int most) {
    const int at[] = {w->to, w->snap_at};
    for (int i = 0; i < 2; i++)
        if (at[i] > t && at[i] < most) most = at[i];
    return most;
}

/* The sums s of columns [c, c + cols) go through positions [t, next), the first of which is number i of the vectors; peek: but for the last. */
static void dev__delta_pass(const dev *dv, const dev_op *op, const dev_delta_task *d, float *s, int c, int cols, int t, int next, int i, bool peek) {
    const dev_walk *w = &d->w;
    const dev_acts *o = &dv->run->plan->buf[op->out[0]].a;
    const size_t    d_k = (size_t)w->st->d_k, d_v = (size_t)w->st->d_v, at = (size_t)i;
    const int       fold = t >= w->p ? 0 : next < w->p ? next - t : w->p - t, row = w->first + t + fold - w->p;
    k_delta(&(k_delta_args){.s = s, .q = d->q + at * d_k, .k = d->k + at * d_k, .v = d->v + at * d_v + c, .decay = d->decay + at, .beta = d->beta + at,
                            .o = fold == next - t ? NULL : o->x + (size_t)row * o->ldx + d->head * (int)d_v + c, .ld_s = (size_t)cols, .ld_qk = d_k,
                            .ld_v = d_v, .ld_gate = 1, .ld_o = o->ldx, .d_k = (int)d_k, .n = cols, .n_pos = next - t, .fold = fold, .peek = peek});
}

/* One strip of columns, from c on, goes through n positions from t on, the first of which is number 0 of the vectors. A last position after
 * what the slot keeps is read in the same pass; more of them change a copy. */
static void dev__delta_strip(const dev *dv, const dev_op *op, const dev_delta_task *d, int c, int t, int n) {
    const dev_walk  *w = &d->w;
    const dev_state *st = w->st;
    const int        cols = d->col + d->cols - c < K_DELTA_COLS ? d->col + d->cols - c : K_DELTA_COLS, zero = t;
    const size_t     at = (size_t)c * (size_t)st->d_k, n_bytes = (size_t)cols * (size_t)st->d_k * sizeof(float);
    const bool       one = w->to == w->end - 1 && w->snap_at != w->end;
    float           *out = dev__sums(st, w->out, d->head) + at, *own = d->own + at;
    if (t == w->at && !w->in) memset(out, 0, n_bytes);
    else if (t == w->at && w->in != w->out) memcpy(out, dev__sums(st, w->in, d->head) + at, n_bytes);
    for (int next, end = t + n; t < end; t = next) {
        next = dev__delta_until(w, t, end);
        if (one && next == w->to && next < end && next != w->snap_at) next++;
        if (t == w->to && !one) memcpy(own, out, n_bytes);
        float *s = t < w->to || one ? out : own;
        dev__delta_pass(dv, op, d, s, c, cols, t, next, t - zero, next == w->end && w->snap_at != w->end);
        if (next == w->snap_at) memcpy(dev__sums(st, w->snap, d->head) + at, s, n_bytes);
    }
}

/* out = what the gated delta rule (Yang et al. 2024) reads from the sums of each head, for the inputs in[0] of queries, keys and values,
 * convolved with the weights vec, and the gates in[1] and in[2]. */
static void dev__delta(const dev *dv, const dev_op *op, int task) {
    const dev_delta_task d = dev__delta_task(dv, op, task);
    for (int t = d.w.at, n; t < d.w.end; t += n) {
        n = d.w.end - t < DEV_DELTA_ROWS ? d.w.end - t : DEV_DELTA_ROWS;
        dev__delta_vectors(dv, op, &d, t, n);
        for (int c = d.col; c < d.col + d.cols; c += K_DELTA_COLS) dev__delta_strip(dv, op, &d, c, t, n);
    }
}

/* The inputs of positions [from, end) go into a slot. */
static void dev__keep_inputs(const dev *dv, const dev_op *op, const dev_walk *w, uint8_t *slot, int from, int end) {
    for (int t = from < 0 ? 0 : from; t < end; t++) {
        const float *raw = dev__raw(dv, op, w, t);
        float       *to = dev__ring(w->st, slot, t);
        if (raw != to) memcpy(to, raw, (size_t)w->st->width * sizeof *to);
    }
}

/* The first row of each sequence: inputs in[0] and gates in[1], in[2] that later steps need go into its slot, and into the snapshot. */
static void dev__keep(const dev *dv, const dev_op *op, int r) {
    const int        seq = dv->run->batch->seq[r];
    const dev_walk   w = dev__walk(dv, op, seq);
    const dev_state *st = w.st;
    if (r != w.first) return;
    if (w.snap) dev__keep_inputs(dv, op, &w, w.snap, w.snap_at - (st->taps - 1), w.snap_at);   /* before the slot changes, which may be read */
    dev__keep_inputs(dv, op, &w, w.out, w.to - (st->taps - 1), w.end);
    for (int t = w.to; st->n_v && t < w.end; t++)
        for (int i = 0; i < 2; i++) {
            const float *from = dev__gates(dv, op, &w, i, t);
            float       *to = dev__log(st, w.out, t) + i * st->n_v;
            if (from != to) memcpy(to, from, (size_t)st->n_v * sizeof *to);
        }
}

/* out = in[0] * in[1]. */
static void dev__mul_rows(const dev *dv, const dev_op *op, int r) {
    k_mul(dev__out(dv, op, 0, r) + op->mul.to, dev__in(dv, op, 0, r) + op->mul.a, dev__in(dv, op, 1, r) + op->mul.b, op->n);
}

/* The forms of out that products read. */
static void dev__form_row(const dev *dv, const dev_op *op, int r) { dev__form(&dv->run->plan->buf[op->out[0]].a, r, op->n, op->forms); }

static const k_act_fn dev_act_fns[] = {[ACT_SILU] = K_SILU, [ACT_GELU] = K_GELU, [ACT_GELU_ERF] = K_GELU_ERF, [ACT_SIGMOID] = K_SIGMOID, [ACT_RELU] = K_RELU,
                                       [ACT_RELU2] = K_RELU2};

/* out = act(out) * in, or act(out) without in. */
static void dev__activate(const dev *dv, const dev_op *op, int r) {
    const float *by = op->in[0] ? dev__in(dv, op, 0, r) : NULL;
    float       *x = dev__out(dv, op, 0, r);
    if (op->act == ACT_SWIGLU_CLIP) k_swiglu_clip(x, by, 7.0f, 1.702f, op->n);
    else k_activate(dev_act_fns[op->act], x, by, op->n);
}

/* The first of the largest scores; `bias`, if any, is added to each for the comparison alone. */
static int dev__best(const float *p, const float *bias, int n) {
    int best = 0;
    if (!bias) k_max(p, n, &best);
    for (int i = 1; bias && i < n; i++)
        if (p[i] + bias[i] > p[best] + bias[best]) best = i;
    return best;
}

/* out[0] = the experts with the largest scores, from the logits in[0], the lowest number first among equals; out[1] = their weights. vec
 * is added to the scores for the choice alone. */
static void dev__route(const dev *dv, const dev_op *op, int r) {
    const int K = op->experts.used, E = op->experts.n;
    float    *p = dev__in(dv, op, 0, r), *w = dev__out(dv, op, 1, r), sum = 0;
    int32_t  *pick = dev__ints(dev__out(dv, op, 0, r));
    if (op->experts.router == ROUTE_SOFTMAX) k_softmax(p, E);
    else k_activate(K_SIGMOID, p, NULL, E);
    for (int i = 0; i < K; i++) {
        const int best = dev__best(p, op->vec, E);
        pick[i] = best;
        w[i] = p[best];
        p[best] = -INFINITY;
        sum += w[i];
    }
    for (int i = 0; i < K; i++) w[i] = w[i] / (op->experts.norm && sum > 0 ? sum : 1.0f) * op->scale;
}

static int dev__one_task(const dev_run *run, const dev_op *op) { return run->plan->rows[op->rows].n > 0; }

/* Counting sort of the chosen experts in[0]: out[0] = the row of each slot, where slots of one expert are side by side; out[1] = the
 * slots of a row. */
static void dev__sort_slots(const dev *dv, const dev_op *op) {
    const int E = op->experts.n, K = op->experts.used, n = dv->run->plan->rows[op->rows].n;
    int      *from = dv->run->plan->expert_at, *slot_row = dev__ints(dev__out(dv, op, 0, 0));
    memset(from, 0, ((size_t)E + 1) * sizeof *from);
    for (int r = 0; r < n; r++)
        for (int i = 0; i < K; i++) from[dev__ints(dev__in(dv, op, 0, r))[i] + 1]++;
    for (int e = 0; e < E; e++) from[e + 1] += from[e];
    for (int r = 0; r < n; r++)
        for (int i = 0; i < K; i++) {
            const int slot = from[dev__ints(dev__in(dv, op, 0, r))[i]]++;
            slot_row[slot] = r;
            dev__ints(dev__out(dv, op, 1, r))[i] = slot;
        }
    for (int e = E; e > 0; e--) from[e] = from[e - 1];   /* back to the first slot of each expert */
    from[0] = 0;
}

/* The products of all experts, each with the rows that have chosen it. */
static void dev__group(const dev *dv, const dev_op *op, int only) {
    const dev_plan    *plan = dv->run->plan;
    const dev_product *base = plan->product + op->experts.base;
    const int          E = op->experts.n, W = op->experts.wide;
    (void)only;
    dev__sort_slots(dv, op);
    for (int i = 0; i < (W + 1) * E; i++) {
        const int k = i < W * E ? i % W : W, e = k < W ? i / W : i - W * E, first = plan->expert_at[e];
        dev_product *m = &plan->grouped[i];
        *m = base[k];
        m->stack = e;
        m->first = first;
        m->n = plan->expert_at[e + 1] - first;
        m->idx = k < W ? dev__ints(dev__out(dv, op, 0, 0)) : NULL;
        m->y += (size_t)first * m->ldy;
    }
}

/* out = the sum of the row's experts in[0], at the slots in[2], by weights in[1]; each with its bias, a row of vec, if there are any. Its
 * order is that of the ranks, whatever other rows there are. */
static void dev__mix(const dev *dv, const dev_op *op, int r) {
    const int32_t *slot = dev__ints(dev__in(dv, op, 2, r));
    const float   *w = dev__in(dv, op, 1, r);
    float         *y = dev__out(dv, op, 0, r);
    memset(y, 0, (size_t)op->n * sizeof *y);
    for (int i = 0; i < op->experts.used; i++) {
        k_axpy(y, dev__row(dv, op->in[0], slot[i]), w[i], op->n);
        if (op->vec) k_axpy(y, op->vec + (size_t)dev__expert_at(dv->run->plan, op->experts.n, slot[i]) * (size_t)op->n, w[i], op->n);
    }
}

/* out = sigmoid(in . vec), one value. */
static void dev__gate(const dev *dv, const dev_op *op, int r) {
    *dev__out(dv, op, 0, r) = k_sigmoid(k_dot(dev__in(dv, op, 0, r), op->vec, op->n));
}

/* out += in[0] * in[1], of which the second is one value. */
static void dev__add_scaled(const dev *dv, const dev_op *op, int r) {
    k_axpy(dev__out(dv, op, 0, r), dev__in(dv, op, 0, r), *dev__in(dv, op, 1, r), op->n);
}

/* --- what an operation costs --- */

typedef struct {
    double bytes;                                     /* that are read: weights, keys and values */
    double mul[K_ACTS];                               /* multiplications, by the form of the activations */
} dev_cost;

static int dev__n_rows(const dev_batch *b, dev_row_set set) { return set == DEV_ALL ? b->n : b->n_out; }

static void dev__embed_cost(const dev_plan *plan, const dev_op *op, const dev_batch *b, dev_cost *c) {
    (void)plan;
    c->bytes += (double)dev__n_rows(b, op->rows) * (double)op->embed.mat->row_bytes;
}

/* Each matrix is read once; of the experts, as many as so many random rows choose. */
static void dev__matmul_cost(const dev_plan *plan, const dev_op *op, const dev_batch *b, dev_cost *c) {
    const double E = op->products.n_expert, K = op->products.used;
    for (int i = 0; i < op->products.n; i++) {
        const dev_product *m = &plan->product[op->products.first + i];
        const dev_mat     *w = m->w;
        const double       rows = dev__n_rows(b, m->rows), each = E ? K : 1, read = E ? E * (1 - pow(1 - K / E, rows)) : 1;
        if (rows <= 0) continue;
        c->bytes += read * (w->packed ? (double)w->packed_bytes * m->n_out / w->n_out : (double)w->row_bytes * m->n_out);
        c->mul[k_act_of(w->type)] += each * rows * w->n_in * m->n_out;
    }
}

/* Rows of one sequence read the positions that they see together once: windows of neighbours overlap but for one position. */
static void dev__attend_cost(const dev_plan *plan, const dev_op *op, const dev_batch *b, dev_cost *c) {
    const dev_kv *kv = op->cache.kv;
    double        past = 0, kept = 0;
    (void)plan;
    for (int i = 0, run = 0; i < b->n; i++) {
        int64_t begin, end;
        dev__sees(b, op, i, &begin, &end);
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
    c->bytes += kept * kv->n_head * (double)(kv->k_stride + kv->v_stride);
}

/* The sums of each sequence are read and written. */
static void dev__delta_cost(const dev_plan *plan, const dev_op *op, const dev_batch *b, dev_cost *c) {
    const double each = (double)op->n_head * op->state.d_k * op->n;
    (void)plan;
    c->bytes += 2 * b->n_seq * each * (double)sizeof(float);
    c->mul[K_ACT_F32] += 3 * b->n * each;
}

/* --- the kinds --- */

typedef struct {
    const char *name;
    void (*run)(const dev *dv, const dev_op *op, int task);          /* NULL: products */
    int  (*tasks)(const dev_run *run, const dev_op *op);             /* NULL: a task is a row, which needs nothing of other rows */
    void (*cost)(const dev_plan *plan, const dev_op *op, const dev_batch *b, dev_cost *c);   /* NULL: too little to count */
    int  far;                                                        /* on a GPU: 1 + its k_row_kind, or DEV_FAR_; 0: there is no kernel */
} dev_kind_row;

enum { DEV_FAR_ATTEND = 100, DEV_FAR_MATMUL, DEV_FAR_SORT, DEV_FAR_DELTA };

static const dev_kind_row dev_kinds[DEV_KINDS] = {
    [DEV_EMBED]      = {"embed",      dev__embed,      NULL,              dev__embed_cost, 0},
    [DEV_ANGLES]     = {"angles",     dev__angles,     NULL,              NULL, 0},
    [DEV_NORM]       = {"norm",       dev__norm,       NULL,              NULL, 1 + K_ROW_NORM},
    [DEV_BIAS]       = {"bias",       dev__bias,       NULL,              NULL, 1 + K_ROW_BIAS},
    [DEV_ADD]        = {"add",        dev__add,        NULL,              NULL, 1 + K_ROW_ADD},
    [DEV_SCALE]      = {"scale",      dev__scale,      NULL,              NULL, 1 + K_ROW_SCALE},
    [DEV_CAP]        = {"cap",        dev__cap,        NULL,              NULL, 1 + K_ROW_CAP},
    [DEV_TEMPER]     = {"temper",     dev__temper,     NULL,              NULL, 0},
    [DEV_PICK]       = {"pick",       dev__pick,       NULL,              NULL, 1 + K_ROW_PICK},
    [DEV_ROPE]       = {"rope",       dev__rope,       NULL,              NULL, 1 + K_ROW_ROPE},
    [DEV_HADAMARD]   = {"hadamard",   dev__hadamard,   NULL,              NULL, 1 + K_ROW_HADAMARD},
    [DEV_STORE]      = {"store",      dev__store,      NULL,              NULL, 1 + K_ROW_STORE},
    [DEV_ATTEND]     = {"attend",     dev__attend,     dev__attend_tasks, dev__attend_cost, DEV_FAR_ATTEND},
    [DEV_FORM]       = {"form",       dev__form_row,   NULL,              NULL, 1 + K_ROW_FORM},
    [DEV_MATMUL]     = {"matmul",     NULL,            NULL,              dev__matmul_cost, DEV_FAR_MATMUL},
    [DEV_WATCH]      = {"watch",      NULL,            NULL,              NULL, 0},
    [DEV_ACTIVATE]   = {"activate",   dev__activate,   NULL,              NULL, 1 + K_ROW_ACTIVATE},
    [DEV_ROUTE]      = {"route",      dev__route,      NULL,              NULL, 1 + K_ROW_ROUTE},
    [DEV_GROUP]      = {"group",      dev__group,      dev__one_task,     NULL, DEV_FAR_SORT},
    [DEV_MIX]        = {"mix",        dev__mix,        NULL,              NULL, 1 + K_ROW_MIX},
    [DEV_GATE]       = {"gate",       dev__gate,       NULL,              NULL, 1 + K_ROW_GATE},
    [DEV_ADD_SCALED] = {"add scaled", dev__add_scaled, NULL,              NULL, 1 + K_ROW_ADD_SCALED},
    [DEV_SCALE_BY]   = {"scale by",   dev__scale_by,   NULL,              NULL, 1 + K_ROW_SCALE_BY},
    [DEV_MUL]        = {"mul",        dev__mul_rows,   NULL,              NULL, 1 + K_ROW_MUL},
    [DEV_SPARSE]     = {"sparse",     dev__sparse,     NULL,              NULL, 1 + K_ROW_SPARSE},
    [DEV_BLEND]      = {"blend",      dev__blend,      NULL,              NULL, 1 + K_ROW_BLEND},
    [DEV_CORRECT]    = {"correct",    dev__correct,    NULL,              NULL, 1 + K_ROW_CORRECT},
    [DEV_RAISE]      = {"raise",      dev__raise,      NULL,              NULL, 1 + K_ROW_RAISE},
    [DEV_LEVEL]      = {"level",      dev__level,      NULL,              NULL, 1 + K_ROW_LEVEL},
    [DEV_CONV]       = {"conv",       dev__conv,       dev__row_tasks,    NULL, 1 + K_ROW_CONV},
    [DEV_DELTA]      = {"delta",      dev__delta,      dev__delta_tasks,  dev__delta_cost, DEV_FAR_DELTA},
    [DEV_KEEP]       = {"keep",       dev__keep,       NULL,              NULL, 1 + K_ROW_KEEP},
};

/* What the list takes for a batch. */
static void dev_plan_cost(const dev_plan *p, const dev_batch *b, dev_cost *c) {
    for (int i = 0; i < p->n_op; i++)
        if (dev_kinds[p->op[i].kind].cost) dev_kinds[p->op[i].kind].cost(p, &p->op[i], b, c);
}

/* --- writing a list --- */

static void dev_plan_begin(dev_plan *p) {
    *p = (dev_plan){.n_buf = 1};
    p->buf = mem_reserve(NULL, 0, UINT64_MAX, sizeof *p->buf);
    p->buf[0] = (dev_buffer){.name = "none"};
}

/* A buffer that is as wide as what is written to it. */
static dev_buf dev_plan_buf(dev_plan *p, const char *name, bool dense) {
    p->buf = mem_reserve(p->buf, (uint64_t)p->n_buf, UINT64_MAX, sizeof *p->buf);
    p->buf[p->n_buf] = (dev_buffer){.name = name, .dense = dense, .each = 1, .most = DEV_OUT};
    return p->n_buf++;
}

/* Values that an operation writes to a row of its output. */
static int dev__width(const dev_op *op) {
    switch (op->kind) {
    case DEV_ANGLES: return op->angles.at + 2 * op->n;
    case DEV_ROUTE: case DEV_GROUP: return op->experts.used;
    case DEV_GATE: return 1;
    case DEV_PICK: return op->pick.to + op->n * op->n_head;
    case DEV_MUL: return op->mul.to + op->n;
    case DEV_LEVEL: return op->level.to + op->n;
    default: return op->n * (op->n_head ? op->n_head : 1);
    }
}

static void dev__writes(dev_plan *p, dev_buf b, dev_row_set rows, int each, int width) {
    dev_buffer *to = &p->buf[b];
    if (!b) return;
    if (width > to->width) to->width = width;
    if (each > to->each) to->each = each;
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
    for (int i = 0; i < 3; i++) op.gathers |= (unsigned)dev__gathers(p, op.in[i], op.rows) << i;
    for (int i = 0; i < 2; i++) dev__writes(p, op.out[i], op.rows, op.each, dev__width(&op));
    if (op.kind == DEV_FORM) p->buf[op.out[0]].former = p->n_op;
    if (op.kind == DEV_GROUP) op.experts.base = p->n_product;
    if (op.kind == DEV_MATMUL || op.kind == DEV_WATCH) op.products.first = p->n_product;
    p->op[p->n_op++] = op;
}

/* One more product of the last operation: out = the first n_out rows of w . in. The last DEV_FORM of `in` makes what w wants. */
static void dev_plan_rows(dev_plan *p, const dev_mat *w, int n_out, dev_row_set rows, dev_buf in, dev_buf out) {
    dev_op *op = &p->op[p->n_op - 1];
    p->product = mem_reserve(p->product, (uint64_t)p->n_product, UINT64_MAX, sizeof *p->product);
    p->product[p->n_product++] = (dev_product){.w = w, .n_out = n_out, .rows = rows, .in = in, .out = out, .gather = dev__gathers(p, in, rows)};
    p->buf[in].forms |= dev__wants(w);
    p->op[p->buf[in].former].forms |= dev__wants(w);
    dev__writes(p, out, rows, op->each, n_out);
    op->products.n++;
}

static void dev_plan_product(dev_plan *p, const dev_mat *w, dev_row_set rows, dev_buf in, dev_buf out) {
    dev_plan_rows(p, w, w->n_out, rows, in, out);
}

static bool dev__by_row(const dev_op *op) { return dev_kinds[op->kind].run && !dev_kinds[op->kind].tasks; }

/* Whether the operation needs no barrier before it: the same rows go on, or others that it does not depend on. */
static bool dev__joins(const dev_op *before, const dev_op *op) {
    return dev__by_row(before) && dev__by_row(op) && (op->beside || (op->rows == before->rows && op->each == before->each));
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
    while (k < p->n_op && p->op[k].kind != DEV_MATMUL) k++;
    return k >= p->far_op || (p->op[k].products.n_expert && !p->op[i].products.n_expert) ? -1 : k;
}

/* Which GPU runs operation i; -1: the host. */
static int dev__far_of(const dev_plan *p, int i) { return dev_gpus_of(p->on, p->op[i].layer); }

/* The first operation that GPUs run; without one, the number of operations. */
static int dev__far_from(const dev_plan *p) {
    int i = 0;
    while (i < p->n_op && dev__far_of(p, i) < 0) i++;
    return i;
}

/* The list is complete: operations that make unread forms are left out, the others are grouped into phases. */
static void dev__phases(dev_plan *p) {
    int n = 0;
    for (int i = 0; i < p->n_op; i++)
        if (p->op[i].kind != DEV_FORM || p->op[i].forms) p->op[n++] = p->op[i];
    p->n_op = n;
    p->far_op = p->far_phase = dev__far_from(p);
    for (int i = 0; i < n; i++) {
        if (i == p->far_op) p->far_phase = p->n_phase;
        if (i && dev__far_of(p, i) == dev__far_of(p, i - 1) && dev__joins(&p->op[i - 1], &p->op[i]) && !dev__overwrites(p, &p->phase[p->n_phase - 1], i)) {
            p->phase[p->n_phase - 1].n++;
            continue;
        }
        p->phase = mem_reserve(p->phase, (uint64_t)p->n_phase, UINT64_MAX, sizeof *p->phase);
        p->phase[p->n_phase++] = (dev_phase){i, 1, p->op[i].kind == DEV_MATMUL ? dev__soon_after(p, i) : -1};
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

/* Values between two rows of n: a multiple of `unit`, and no multiple of 1 KB, or the rows of a tile would share few sets of a cache. */
static size_t dev__stride(int n, size_t unit, size_t size) {
    const size_t ld = ((size_t)n + unit - 1) / unit * unit;
    return ld * size % 1024 ? ld : ld + unit;
}

static void dev__fill_buf(dev_plan *p, dev_buffer *b) {
    const size_t rows = (size_t)(b->most == DEV_ALL ? p->max_rows : p->max_out) * (size_t)b->each;
    dev_acts    *a = &b->a;
    if (!b->width) return;
    *a = (dev_acts){.rows = (int)rows, .ldx = b->dense ? (size_t)b->width : dev__stride(b->width, 16, sizeof *a->x), .ldq = dev__stride(b->width, 256, sizeof *a->q)};
    a->x = dev__take(p, rows * a->ldx, sizeof *a->x, false);
    if (b->forms & 1u << K_ACT_BF16) a->h = dev__take(p, rows * a->ldx, sizeof *a->h, false);
    if (!(b->forms & 1u << K_ACT_I8)) return;
    a->q = dev__take(p, 2 * rows * a->ldq, sizeof *a->q, false);
    a->sum = dev__take(p, 2 * rows * (a->ldq / 256), sizeof *a->sum, false);
    a->d = dev__take(p, 2 * rows * (a->ldq / 256), sizeof *a->d, false);
    a->split = dev__take(p, rows, sizeof *a->split, true);
}

/* What each thread has for itself. */
static void dev__fill_threads(dev_plan *p, int n_threads) {
    size_t need = 0;
    int    group = 1;
    for (int i = 0; i < p->n_product; i++)
        if (k_scratch_bytes(p->product[i].w->n_in) > need) need = k_scratch_bytes(p->product[i].w->n_in);
    for (int i = 0; i < p->n_op; i++) {
        const dev_op *op = &p->op[i];
        if (op->kind == DEV_DELTA && dev__delta_scratch(op->state.d_k, op->n) > need) need = dev__delta_scratch(op->state.d_k, op->n);
        if (op->kind != DEV_ATTEND) continue;
        const size_t attn = k_attn_scratch(DEV_ATTN_ROWS * op->cache.group, op->cache.hd_k, op->n);
        if (attn > need) need = attn;
        if (op->cache.group > group) group = op->cache.group;
    }
    p->attn_most = DEV_ATTN_ROWS * group;
    p->scratch = dev__take(p, (size_t)n_threads, sizeof *p->scratch, true);
    p->attn_rows = dev__take(p, (size_t)n_threads, sizeof *p->attn_rows, true);
    p->attn_sinks = dev__take(p, (size_t)n_threads, sizeof *p->attn_sinks, true);
    for (int i = 0; i < n_threads; i++) {
        void       *scratch = dev__take(p, need, 1, false);
        k_attn_row *rows = dev__take(p, (size_t)p->attn_most, sizeof *rows, true);
        float      *sinks = dev__take(p, 2 * (size_t)p->attn_most, sizeof *sinks, true);
        if (p->counting) continue;
        p->scratch[i] = scratch;
        p->attn_rows[i] = rows;
        p->attn_sinks[i] = sinks;
    }
}

enum { DEV_PARTS_SEGMENTS = 512 };                    /* most segments of a row that are tasks of their own */

/* Space for one row's partial results of attention, where its K/V heads do not make an even share for every thread. */
static void dev__fill_parts(dev_plan *p, int n_threads) {
    for (int i = 0; i < p->n_op; i++) {
        const dev_op *op = &p->op[i];
        if (op->kind != DEV_ATTEND || op->n_head / op->cache.group % n_threads == 0) continue;
        const int    n = op->cache.most / K_SEGMENT + 2;              /* with one more: a window begins anywhere */
        const size_t each = (size_t)(op->n_head / op->cache.group) * k_attn_part(op->cache.group, op->n);
        const size_t need = each * (size_t)(n < DEV_PARTS_SEGMENTS ? n : DEV_PARTS_SEGMENTS);
        if (need > p->n_parts) p->n_parts = need;
    }
    if (p->n_parts) p->parts = dev__take(p, p->n_parts, sizeof *p->parts, false);
}

static void dev__fill_experts(dev_plan *p) {
    int most = 0;
    for (int i = 0; i < p->n_op; i++)
        if (p->op[i].kind == DEV_GROUP && p->op[i].experts.n > most) most = p->op[i].experts.n;
    if (!most) return;
    p->grouped = dev__take(p, 3 * (size_t)most, sizeof *p->grouped, true);
    p->expert_at = dev__take(p, (size_t)most + 1, sizeof *p->expert_at, true);
}

/* --- operations of a list that GPUs run: its last ones, one GPU after the other ---
 * They become launches, once: a phase of rows is one, which goes through its operations row by row; a product is one, of all experts too, and so
 * is a gated delta rule; attention is two. What changes from step to step goes up in one piece before those of a GPU: the batch, and the rows that
 * operations before them have written and these read. What a later GPU reads comes down after them; after the last one's, what the step is for. */

enum {
    DEV_FAR_MANY = 17,                                /* columns from which a product takes the kernel for many; rows of a sequence from which attention does */
    DEV_FAR_UP = 8,                                   /* most buffers that go up; that come down */
    DEV_FAR_PARTS = 32 << 20,                         /* bytes of partial results of attention, or one row's where these are more */
    DEV_FAR_PIECE = 16 << 20,                         /* bytes of weights that go up at once */
    DEV_FAR_SPACE = 1 << 30,                          /* most bytes of a step that go up, and of partial results */
    DEV_FAR_ROWS = 7, DEV_FAR_SEGMENTS = 12,          /* steps whose launches are recorded have less than 1 << 7 rows, 1 << 12 segments */
};

typedef struct {
    int                first, n;                      /* operations */
    const dev_product *product;                       /* NULL: rows, attention, a delta rule or the sort of slots */
    int                slots, experts;                /* of products of experts: slots of a row; how many. 0: one matrix */
    int                kernel, many, merge;           /* many: of products with many columns, of attention with many rows, -1: none; merge: of attention.
                                                       * kernel is -1 where attention takes `many` for any number of rows */
    union {
        k_cuda_mul         mul;
        k_cuda_rows_args   rows;
        k_cuda_attend_args attend;
        k_cuda_sort_args   sort;
        k_cuda_delta_args  delta;
    };
} dev_launch;

typedef struct dev_far {
    gpu        *g;
    bool        tensor;                               /* dev_gpus.tensor */
    int         op, op_end, phase, phase_end;         /* the first of its operations and phases; the ones after the last */
    dev_launch *launch;                               /* [n_launch] */
    int         n_launch;
    dev_acts   *a;                                    /* [n_buf of the plan] memory of the buffers there; no x: none */
    struct { dev_buf buf; int at; } up[DEV_FAR_UP];   /* buffers that go up, and where their values begin in rows of up_width values */
    int         n_up, up_width;
    bool        states;                               /* its operations read what the batch says of recurrent states */
    struct { dev_buf buf; dev_row_set rows; } down[DEV_FAR_UP];   /* buffers that come down, and for which rows */
    int         n_down;
    gpu_span    sent;                                 /* the k_cuda_step; rows that ask for something; rows of buffers; what else is in the step */
    size_t      rows_at;                              /* bytes, where the rows of buffers begin */
    uint8_t    *stage;                                /* [stage_bytes] where the host writes that down */
    size_t      stage_bytes;
    gpu_span    parts;                                /* partial results of attention, of at least one row */
    int32_t    *expert, *tiles[2];                    /* of the layer at hand: of each slot; of products with few columns, with many */
    int32_t    *id;                                   /* [max_out] DEV_ID of each row, on the last GPU */
    int         best;                                 /* the kernel that finds them */
    int         graph[DEV_FAR_ROWS][DEV_FAR_ROWS + 1][DEV_FAR_SEGMENTS];   /* of steps by size: 1, there was one; 2 + the recorded launches */
    void      **own;                                  /* [n_own] memory on the GPU */
    int         n_own;
} dev_far;

/* Memory on the GPU for n elements; the run ends where there is none. */
static void *dev__far_take(dev_far *f, size_t n, size_t each) {
    const size_t n_bytes = mem_size(n, each);
    void        *p = gpu_new(f->g, n_bytes ? n_bytes : 1);
    if (!p) die(EXIT_RESOURCE, "the GPU has no %zu bytes for a step", n_bytes);
    f->own = mem_reserve(f->own, (uint64_t)f->n_own, UINT64_MAX, sizeof *f->own);
    return f->own[f->n_own++] = p;
}

/* A copy on the GPU; NULL of NULL. */
static void *dev__far_copy(dev_far *f, const void *from, size_t n, size_t each) {
    if (!from) return NULL;
    void *p = dev__far_take(f, n, each);
    gpu_up(f->g, p, from, n * each);
    gpu_wait(f->g);
    return p;
}

/* Whether an operation reads what its output held before. */
static bool dev__changes(const dev_op *op) {
    switch (op->kind) {
    case DEV_BIAS: case DEV_SCALE: case DEV_CAP: case DEV_SCALE_BY: case DEV_ROPE: case DEV_HADAMARD: case DEV_FORM: case DEV_ACTIVATE:
    case DEV_ADD_SCALED: case DEV_RAISE: case DEV_SPARSE: return true;
    default: return false;
    }
}

/* Which of the buffers that go up b is; -1: none. */
static int dev__far_up(const dev_far *f, dev_buf b) {
    int i = f->n_up - 1;
    while (i >= 0 && f->up[i].buf != b) i--;
    return i;
}

/* A buffer comes down from f. */
static void dev__far_downs(dev_far *f, dev_buf b, dev_row_set rows) {
    int i = 0;
    while (i < f->n_down && f->down[i].buf != b) i++;
    if (i < f->n_down) return;
    ASSERT(f->n_down < DEV_FAR_UP);
    f->down[f->n_down].buf = b;
    f->down[f->n_down++].rows = rows;
}

/* A buffer is read: unless f wrote it, it goes up, and before that comes down from the GPU that wrote it. */
static void dev__far_reads(const dev_plan *p, dev_far *f, dev_far **wrote, dev_buf b) {
    if (!b || wrote[b] == f || dev__far_up(f, b) >= 0) return;
    ASSERT(f->n_up < DEV_FAR_UP && p->buf[b].each == 1 && p->buf[b].most == DEV_ALL);
    if (wrote[b]) dev__far_downs(wrote[b], b, DEV_ALL);
    f->up[f->n_up].buf = b;
    f->up[f->n_up++].at = f->up_width;
    f->up_width += (int)dev__stride(p->buf[b].width, 16, sizeof(float));
}

/* Which buffers go up to f, and which of them come down from GPUs before it. wrote: [n_buf] the GPU that wrote each last, NULL: the host. */
static void dev__far_ups(const dev_plan *p, dev_far *f, dev_far **wrote) {
    for (int i = f->op; i < f->op_end; i++) {
        const dev_op *op = &p->op[i];
        f->states = f->states || op->kind == DEV_KEEP;
        for (int k = 0; k < 3; k++) dev__far_reads(p, f, wrote, op->in[k]);
        for (int k = 0; k < 2; k++)
            if (dev__changes(op)) dev__far_reads(p, f, wrote, op->out[k]);
        for (int k = 0; op->kind == DEV_MATMUL && k < op->products.n; k++) dev__far_reads(p, f, wrote, p->product[op->products.first + k].in);
        for (int k = 0; k < 2; k++) wrote[op->out[k]] = f;
        for (int k = 0; op->kind == DEV_MATMUL && k < op->products.n; k++) wrote[p->product[op->products.first + k].out] = f;
    }
}

/* Memory of a buffer. One that goes up has its rows where they arrive. */
static void dev__far_buf(const dev_plan *p, dev_far *f, dev_buf b) {
    const dev_acts *host = &p->buf[b].a;
    dev_acts       *a = &f->a[b];
    const size_t    rows = (size_t)host->rows;
    if (!p->buf[b].width) return;
    *a = (dev_acts){.rows = host->rows, .ldx = host->ldx, .ldq = host->ldq};
    const int up = dev__far_up(f, b);
    if (up >= 0) {
        a->x = (float *)(void *)(f->sent.base + f->rows_at) + f->up[up].at;
        a->ldx = (size_t)f->up_width;
    }
    if (!a->x) a->x = dev__far_take(f, rows * a->ldx, sizeof *a->x);
    if (host->h) a->h = dev__far_take(f, rows * a->ldx, sizeof *a->h);
    if (!host->q) return;
    a->q = dev__far_take(f, 2 * rows * a->ldq, sizeof *a->q);
    a->sum = dev__far_take(f, 2 * rows * (a->ldq / 256), sizeof *a->sum);
    a->d = dev__far_take(f, 2 * rows * (a->ldq / 256), sizeof *a->d);
    a->split = dev__far_take(f, rows, sizeof *a->split);
}

static k_cuda_buf dev__far_rows(const dev_far *f, dev_buf b) { return (k_cuda_buf){f->a[b].x, f->a[b].ldx}; }

static k_cuda_kv dev__far_kv(const dev_far *f, const dev_kv *kv) {
    const dev_tail *t = dev__tail_at(kv->mem, kv->k_at);
    ASSERT(t->g == f->g && kv->v_at < t->at + t->bytes);
    return (k_cuda_kv){.base = t->all.base, .block_bytes = t->bytes, .k_at = kv->k_at - t->at, .v_at = kv->v_at - t->at,
                       .k_stride = kv->k_stride, .v_stride = kv->v_stride, .group = kv->group, .block = kv->block, .n_head = kv->n_head,
                       .hd_k = kv->hd_k, .hd_v = kv->hd_v, .hadamard_k = kv->hadamard_k, .hadamard_v = kv->hadamard_v, .type_k = kv->type_k,
                       .type_v = kv->type_v};
}

static k_cuda_state dev__far_state(const dev_far *f, const dev_state *st) {
    const dev_tail *t = dev__tail_at(st->mem, st->ring_at);
    ASSERT(t->g == f->g && st->sum_at <= t->at + t->bytes);
    return (k_cuda_state){.base = t->all.base, .slot_bytes = t->bytes, .ring_at = st->ring_at - t->at, .gate_at = st->gate_at - t->at,
                          .sum_at = st->sum_at - t->at, .taps = st->taps, .width = st->width, .log = st->log, .n_k = st->n_k, .n_v = st->n_v,
                          .d_k = st->d_k, .d_v = st->d_v};
}

/* What of an operation on rows depends on its kind. */
static void dev__far_kind(dev_far *f, const dev_op *op, k_row_op *to) {
    static const k_norm_kind norms[] = {[NORM_RMS] = K_NORM_RMS, [NORM_LAYER] = K_NORM_LAYER, [NORM_L2] = K_NORM_L2};
    const dev_kv *kv = op->kind == DEV_HADAMARD ? op->hadamard.kv : NULL;
    switch (op->kind) {
    case DEV_NORM:
        to->u.norm = norms[op->norm.kind];
        to->bias = dev__far_copy(f, op->norm.bias, (size_t)op->n, sizeof *to->bias);
        break;
    case DEV_ACTIVATE: to->u.act = op->act == ACT_SWIGLU_CLIP ? K_ROW_CLIP : (int)dev_act_fns[op->act]; break;
    case DEV_HADAMARD: to->u.size = op->hadamard.values ? kv->hadamard_v : kv->hadamard_k; break;
    case DEV_LEVEL: to->u.to = op->level.to; break;
    case DEV_CORRECT: to->u.active = op->streams.active; break;
    case DEV_PICK: to->u.pick.stride = op->pick.stride, to->u.pick.at = op->pick.at, to->u.pick.to = op->pick.to; break;
    case DEV_ROPE: to->u.rope.n_rot = op->rope.n_rot, to->u.rope.at = op->rope.at, to->u.rope.halves = op->rope.halves; break;
    case DEV_MUL: to->u.mul.a = op->mul.a, to->u.mul.b = op->mul.b, to->u.mul.to = op->mul.to; break;
    case DEV_STORE: to->u.kv = dev__far_kv(f, op->cache.kv); break;
    case DEV_CONV: case DEV_KEEP:
        to->u.state = dev__far_state(f, op->state.st);
        to->in[0].x += op->state.at;
        break;
    case DEV_BIAS: case DEV_MIX:
        to->u.experts.of = op->experts.n ? f->expert : NULL;
        to->u.experts.used = op->experts.used;
        break;
    case DEV_ROUTE:
        to->n = op->experts.n;
        to->u.route.used = op->experts.used, to->u.route.norm = op->experts.norm, to->u.route.sigmoid = op->experts.router == ROUTE_SIGMOID;
        to->u.route.weight = dev__far_rows(f, op->out[1]);
        break;
    case DEV_FORM:
        to->u.form.forms = op->forms;
        to->u.form.a = dev__view(&f->a[op->out[0]], NULL, 0, 0);
        break;
    default: break;
    }
}

/* Values of an operation's vector: of each expert, where they differ. */
static size_t dev__far_vec(const dev_op *op) {
    const size_t n = (size_t)op->n;
    if (!op->vec) return 0;
    switch (op->kind) {
    case DEV_ROUTE: return (size_t)op->experts.n;
    case DEV_BIAS: case DEV_MIX: return op->experts.n ? n * (size_t)op->experts.n : n;
    case DEV_CONV: case DEV_DELTA: return (size_t)op->state.n_vec;
    default: return n;
    }
}

/* Operations on rows. */
static void dev__far_ops(const dev_plan *p, dev_far *f, dev_launch *l) {
    k_row_op *ops = mem_new((size_t)l->n, sizeof *ops);
    for (int i = 0; i < l->n; i++) {
        const dev_op *op = &p->op[l->first + i];
        k_row_op     *to = &ops[i];
        *to = (k_row_op){.kind = (k_row_kind)(dev_kinds[op->kind].far - 1), .set = (int)op->rows, .each = op->each, .beside = op->beside && i,
                         .gathers = op->gathers, .n = op->n, .n_head = op->n_head, .scale = op->scale};
        for (int k = 0; k < 3; k++) to->in[k] = dev__far_rows(f, op->in[k]);
        to->out = dev__far_rows(f, op->out[0]);
        to->vec = dev__far_copy(f, op->vec, dev__far_vec(op), sizeof *to->vec);
        dev__far_kind(f, op, to);
    }
    l->kernel = gpu_kernel(f->g, "k_cuda_rows");
    l->rows.op = dev__far_copy(f, ops, (size_t)l->n, sizeof *ops);
    l->rows.n = l->n;
    l->rows.step = (const k_cuda_step *)(const void *)f->sent.base;
    mem_free(ops);
}

/* Bytes of a matrix, of each in a stack, on a GPU. */
static size_t dev__far_size(const dev_mat *w) {
    return k_wants_q8(w->type) ? k_pack_bytes(w->type, w->n_out, w->n_in) : (size_t)w->n_out * w->row_bytes;
}

/* Puts the i-th matrix of a stack on the GPU: `step` rows of the file at a time go to `raw` through `stage`, and are packed there; floats go where
 * they belong. */
static void dev__far_rows_up(gpu *g, const dev_mat *w, int i, int step, uint8_t *stage, uint8_t *raw) {
    k_cuda_pack_args a = {.src = raw, .row_bytes = w->row_bytes, .n = w->n_in, .dst = w->far + (size_t)i * dev__far_size(w)};
    const char      *pack = k_wants_q8(w->type) ? k_cuda_pack_of(w->type, &a) : NULL;
    for (int r = 0; r < w->n_out; r += step) {
        a.nr = w->n_out - r < step ? w->n_out - r : step;
        const size_t n_bytes = (size_t)a.nr * w->row_bytes;
        memcpy(stage, w->data + (size_t)i * w->mat_bytes + (size_t)r * w->row_bytes, n_bytes);
        gpu_up(g, pack ? raw : a.dst, stage, n_bytes);
        if (pack) gpu_launch(g, gpu_kernel(g, pack), (a.nr + 15) / 16, (a.n + 1023) / 1024, &a, sizeof a);
        gpu_wait(g);
        a.dst += pack ? k_pack_bytes(w->type, a.nr, w->n_in) : n_bytes;
    }
}

/* Puts a matrix into the memory of the GPU; the run ends where there is not so much. */
static void dev__far_mat(gpu *g, dev_mat *w) {
    const size_t strip = 16 * w->row_bytes, strips = DEV_FAR_PIECE / strip, all = ((size_t)w->n_out + 15) / 16;
    const int    step = 16 * (int)(strips < 1 ? 1 : strips < all ? strips : all);
    const size_t piece = (size_t)step / 16 * strip;
    uint8_t     *stage = gpu_pinned(g, piece), *raw = gpu_new(g, piece);
    w->far = gpu_new(g, dev__far_size(w) * (size_t)w->n_mat);
    w->far_on = g;
    if (!stage || !raw || !w->far) die(EXIT_RESOURCE, "the GPU has no %zu bytes for weights", dev__far_size(w) * (size_t)w->n_mat);
    for (int i = 0; i < w->n_mat; i++) dev__far_rows_up(g, w, i, step, stage, raw);
    gpu_unpin(g, stage);
    gpu_free(g, raw);
}

/* A matrix leaves the memory of the GPU. */
static void dev_mat_drop(dev_mat *w) {
    if (w->far) gpu_free(w->far_on, w->far);
    w->far = NULL;
}

/* The products of all experts, of the rows that have chosen them or of their slots. */
static void dev__far_experts(dev_far *f, dev_launch *l, const dev_op *op) {
    const dev_op  *group = op;
    const dev_mat *w = l->product->w;
    while (group->kind != DEV_GROUP) group--;
    l->slots = op->products.used, l->experts = op->products.n_expert;
    l->mul.a.idx = op->products.at ? NULL : dev__ints(f->a[group->out[0]].x);
    l->mul.mat_bytes = dev__far_size(w);
    l->mul.scales = dev__far_copy(f, w->scale, (size_t)w->n_mat, sizeof *w->scale);
}

/* The kernel for few or for many columns, -1: none, and what it reads of the type. */
static int dev__far_kernel(const dev_far *f, uint32_t type, bool many, k_cuda_mul *m) {
    const char *name = f->tensor ? k_cuda_tensor_of(type, many) : NULL;
    if (!name) name = k_cuda_mul_of(type, many, m);
    return name ? gpu_kernel(f->g, name) : -1;
}

static void dev__far_product(dev_far *f, dev_launch *l, const dev_op *op, const dev_product *m) {
    const dev_mat     *w = m->w;
    const k_cuda_step *step = (const k_cuda_step *)(const void *)f->sent.base;
    if (!w->far) dev__far_mat(f->g, (dev_mat *)w);
    ASSERT(w->far_on == f->g);
    l->product = m;
    l->mul = (k_cuda_mul){.w = w->far + (size_t)m->stack * dev__far_size(w), .row_bytes = w->row_bytes, .a = dev__view(&f->a[m->in], NULL, 0, 0),
                          .nt = &step->n[m->rows], .y = f->a[m->out].x, .ldy = f->a[m->out].ldx, .nr = m->n_out, .n = w->n_in,
                          .scale = w->scale ? w->scale[m->stack] : 0};
    if (m->gather) l->mul.a.idx = (const int32_t *)(const void *)(step + 1);
    l->many = dev__far_kernel(f, w->type, true, &l->mul);
    l->kernel = dev__far_kernel(f, w->type, false, &l->mul);
    if (op->products.n_expert) dev__far_experts(f, l, op);
}

static void dev__far_sort(dev_far *f, dev_launch *l, const dev_op *op) {
    l->sort = (k_cuda_sort_args){.step = (const k_cuda_step *)(const void *)f->sent.base, .set = (int)op->rows, .n_expert = op->experts.n,
                                 .used = op->experts.used, .pick = dev__far_rows(f, op->in[0]), .slot_of = dev__far_rows(f, op->out[1]),
                                 .row = dev__ints(f->a[op->out[0]].x), .expert = f->expert, .tiles = {f->tiles[0], f->tiles[1]}};
    l->kernel = gpu_kernel(f->g, "k_cuda_sort");
}

/* Space for the slots and tiles of one layer. */
static void dev__far_slots(const dev_plan *p, dev_far *f) {
    size_t most[3] = {0};
    for (int i = f->op; i < f->op_end; i++) {
        const dev_op *op = &p->op[i];
        if (op->kind != DEV_GROUP) continue;
        const int    slots = p->max_rows * op->experts.used;
        const size_t need[3] = {(size_t)slots, 1 + 3 * (size_t)k_cuda_tiles(slots, op->experts.n, K_CUDA_COLS), 1 + 3 * (size_t)k_cuda_tiles(slots, op->experts.n, K_CUDA_MANY_COLS)};
        for (int k = 0; k < 3; k++) most[k] = need[k] > most[k] ? need[k] : most[k];
    }
    if (!most[0]) return;
    f->expert = dev__far_take(f, most[0], sizeof *f->expert);
    for (int k = 0; k < 2; k++) f->tiles[k] = dev__far_take(f, most[1 + k], sizeof *f->tiles[k]);
}

static void dev__far_attend(dev_far *f, dev_launch *l, const dev_op *op) {
    const dev_kv *kv = op->cache.kv;
    l->attend = (k_cuda_attend_args){.step = (const k_cuda_step *)(const void *)f->sent.base, .set = (int)op->rows, .gathers = op->gathers & 1,
                                     .q = dev__far_rows(f, op->in[0]), .o = dev__far_rows(f, op->out[0]), .kv = dev__far_kv(f, kv), .group = op->cache.group,
                                     .window = op->cache.window, .all = op->cache.view == VIEW_ALL, .scale = op->scale, .cap = op->cache.cap,
                                     .sinks = dev__far_copy(f, op->cache.sinks, (size_t)op->n_head, sizeof(float)),
                                     .slopes = dev__far_copy(f, op->cache.slope, (size_t)op->n_head, sizeof(float)),
                                     .parts = (float *)(void *)f->parts.base};
    const char *tensor = f->tensor ? k_cuda_attend_tensor_of(kv->type_k, kv->type_v) : NULL, *many = tensor ? tensor : k_cuda_attend_of(kv->type_k, kv->type_v, true);
    l->many = many ? gpu_kernel(f->g, many) : -1;
    l->kernel = tensor ? -1 : gpu_kernel(f->g, k_cuda_attend_of(kv->type_k, kv->type_v, false));
    l->merge = gpu_kernel(f->g, "k_cuda_attend_merge");
}

static void dev__far_delta(dev_far *f, dev_launch *l, const dev_op *op) {
    const size_t n_v = (size_t)op->n_head;
    l->delta = (k_cuda_delta_args){.step = (const k_cuda_step *)(const void *)f->sent.base, .st = dev__far_state(f, op->state.st),
                                   .out = dev__far_rows(f, op->out[0]), .taps = dev__far_copy(f, op->vec, dev__far_vec(op), sizeof(float)),
                                   .decay = dev__far_copy(f, op->state.decay, n_v, sizeof(float)), .gate = dev__far_copy(f, op->state.step, n_v, sizeof(float)),
                                   .grouped = op->state.grouped, .eps = op->scale};
    for (int i = 0; i < 3; i++) l->delta.in[i] = dev__far_rows(f, op->in[i]);
    l->kernel = gpu_kernel(f->g, "k_cuda_delta");
}

/* Floats of one row's partial results in n segments. */
static size_t dev__far_part(const dev_op *op, size_t n) {
    return n * (size_t)(op->n_head / op->cache.group) * k_attn_part(op->cache.group, op->n);
}

/* Floats of the partial results of operations [first, end) for all rows of a step, or of DEV_FAR_PARTS bytes of them, at least of one row. */
static size_t dev__far_parts(const dev_plan *p, int first, int end) {
    size_t most = 0;
    for (int i = first; i < end; i++) {
        if (p->op[i].kind != DEV_ATTEND) continue;
        const size_t row = dev__far_part(&p->op[i], (size_t)(p->op[i].cache.most / K_SEGMENT + 2)), all = row * (size_t)p->max_rows;
        const size_t some = all < DEV_FAR_PARTS / sizeof(float) ? all : DEV_FAR_PARTS / sizeof(float);
        if (some > most) most = some;
        if (row > most) most = row;
    }
    return most;
}

/* At least so many bytes of a span have memory; the run ends where there is not so much. */
static void dev__far_grow(dev_far *f, gpu_span *s, size_t n_bytes) {
    if (n_bytes > s->bytes || !gpu_span_grow(f->g, s, n_bytes)) die(EXIT_RESOURCE, "the GPU has no %zu bytes for a step", n_bytes);
}

/* At least so many bytes of a step can go up. */
static void dev__far_room(dev_far *f, size_t n_bytes) {
    if (n_bytes <= f->stage_bytes) return;
    gpu_unpin(f->g, f->stage);
    f->stage_bytes = 2 * n_bytes;
    f->stage = gpu_pinned(f->g, f->stage_bytes);
    if (!f->stage) die(EXIT_RESOURCE, "there are no %zu bytes for a step on the GPU", f->stage_bytes);
    dev__far_grow(f, &f->sent, f->stage_bytes);
}

/* The launches of a phase; those of one of rows have K_CUDA_ROW_OPS operations at most. */
static void dev__far_phase(const dev_plan *p, dev_far *f, const dev_phase *ph) {
    const dev_op *op = &p->op[ph->first];
    const int     n = op->kind == DEV_MATMUL ? op->products.n : (ph->n + K_CUDA_ROW_OPS - 1) / K_CUDA_ROW_OPS;
    for (int i = 0; i < n; i++) {
        const int first = op->kind == DEV_MATMUL ? 0 : K_CUDA_ROW_OPS * i, left = ph->n - first;
        f->launch = mem_reserve(f->launch, (uint64_t)f->n_launch, UINT64_MAX, sizeof *f->launch);
        dev_launch *l = &f->launch[f->n_launch++];
        *l = (dev_launch){.first = ph->first + first, .n = left < K_CUDA_ROW_OPS ? left : K_CUDA_ROW_OPS};
        if (op->kind == DEV_MATMUL) dev__far_product(f, l, op, &p->product[op->products.first + i]);
        else if (op->kind == DEV_GROUP) dev__far_sort(f, l, op);
        else if (op->kind == DEV_ATTEND) dev__far_attend(f, l, op);
        else if (op->kind == DEV_DELTA) dev__far_delta(f, l, op);
        else dev__far_ops(p, f, l);
    }
}

static void dev__far_free(dev_plan *p) {
    for (dev_far *f = p->far; f < p->far + p->n_far; f++) {
        for (int i = 0; i < f->n_own; i++) gpu_free(f->g, f->own[i]);
        gpu_span_free(f->g, &f->sent);
        gpu_span_free(f->g, &f->parts);
        gpu_unpin(f->g, f->stage);
        mem_free(f->own);
        mem_free(f->launch);
        mem_free(f->a);
    }
    mem_free(p->far);
    p->far = NULL;
    p->n_far = 0;
}

/* Which operations and phases each GPU runs. */
static void dev__far_runs(dev_plan *p) {
    p->n_far = p->on->n;
    p->far = mem_new((size_t)p->n_far, sizeof *p->far);
    for (int i = p->far_phase; i < p->n_phase; i++) {
        dev_far *f = &p->far[dev__far_of(p, p->phase[i].first)];
        if (!f->op_end) f->op = p->phase[i].first, f->phase = i;
        f->op_end = p->phase[i].first + p->phase[i].n;
        f->phase_end = i + 1;
    }
}

/* Memory and launches of the operations of one GPU. */
static void dev__far_fill_one(const dev_plan *p, dev_far *f) {
    gpu_span_new(f->g, &f->sent, DEV_FAR_SPACE);
    dev__far_room(f, f->rows_at + (size_t)p->max_rows * ((size_t)f->up_width + 8) * sizeof(float));
    for (int b = 1; b < p->n_buf; b++) dev__far_buf(p, f, b);
    gpu_span_new(f->g, &f->parts, DEV_FAR_SPACE);
    dev__far_grow(f, &f->parts, dev__far_parts(p, f->op, f->op_end) * sizeof(float));
    dev__far_slots(p, f);
    for (int i = f->phase; i < f->phase_end; i++) dev__far_phase(p, f, &p->phase[i]);
}

/* What a step is for comes down from the last GPU, whole or as numbers. */
static void dev__far_fill_result(const dev_plan *p, dev_far *f) {
    dev__far_downs(f, p->result, DEV_OUT);
    f->id = dev__far_take(f, (size_t)p->max_out, sizeof *f->id);
    f->best = gpu_kernel(f->g, "k_cuda_best");
}

/* The same of all GPUs. */
static void dev__far_fill(dev_plan *p) {
    if (p->counting || p->far_op == p->n_op) return;
    dev_far **wrote = mem_new((size_t)p->n_buf, sizeof *wrote);
    dev__far_runs(p);
    for (int i = 0; i < p->n_far; i++) {
        dev_far *f = &p->far[i];
        f->g = p->on->g[i];
        f->tensor = p->on->tensor;
        f->a = mem_new((size_t)p->n_buf, sizeof *f->a);
        f->rows_at = (sizeof(k_cuda_step) + (size_t)p->max_out * sizeof(int32_t) + 63) & ~(size_t)63;
        dev__far_ups(p, f, wrote);
        dev__far_fill_one(p, f);
    }
    dev__far_fill_result(p, &p->far[p->n_far - 1]);
    mem_free(wrote);
}

/* Whether there are kernels for an operation. */
static bool dev__far_can(const dev_plan *p, const dev_op *op) {
    k_cuda_mul m;
    if (!dev_kinds[op->kind].far || (op->kind == DEV_GROUP && op->experts.n > K_CUDA_EXPERTS)) return false;
    if (op->kind == DEV_ATTEND && op->cache.kv && !k_cuda_attend_of(op->cache.kv->type_k, op->cache.kv->type_v, false)) return false;
    if (op->kind == DEV_DELTA && op->state.d_k > K_CUDA_DELTA_KEYS) return false;
    for (int i = 0; op->kind == DEV_MATMUL && i < op->products.n; i++) {
        const dev_mat *w = p->product[op->products.first + i].w;
        if (!k_cuda_mul_of(w->type, false, &m)) return false;
        if (k_wants_q8(w->type) && !k_pack_bytes(w->type, w->n_out, w->n_in)) return false;
    }
    return true;
}

/* What GPUs would take for a list, beside keys and values and states. */
typedef struct {
    int         first;                                /* there are kernels for all operations from this layer on */
    const char *lacks;                                /* the operation before them that has none; NULL: all have */
    uint64_t    each;                                 /* bytes on each GPU, whatever it runs: buffers */
    uint64_t   *layer;                                /* [layers] bytes of weights; what follows the last layer counts as part of it */
} dev_far_needs;

/* Bytes of the weights of one operation; matrices that the one before it has, too, are counted there. */
static uint64_t dev__far_weights(const dev_plan *p, const dev_op *op) {
    uint64_t n = dev__far_vec(op) * sizeof(float);
    for (int k = op->products.first; op->kind == DEV_MATMUL && k < op->products.first + op->products.n; k++) {
        const dev_mat *w = p->product[k].w;
        if (!k || p->product[k - 1].w != w) n += (uint64_t)dev__far_size(w) * (uint64_t)w->n_mat;
    }
    return n;
}

/* GPU memory that the weights of a complete plan need. to->layer: [n_layer], zeros, of the caller; bytes are added to it. */
static void dev_plan_far_needs(const dev_plan *p, dev_far_needs *to) {
    int i = p->n_op;
    for (; i > 0 && p->op[i - 1].layer >= 0 && dev__far_can(p, &p->op[i - 1]); i--) to->layer[p->op[i - 1].layer] += dev__far_weights(p, &p->op[i - 1]);
    to->first = i ? p->op[i - 1].layer + 1 : 0;
    to->lacks = to->first ? dev_kinds[p->op[i - 1].kind].name : NULL;
    to->each = p->n_bytes + dev__far_parts(p, i, p->n_op) * sizeof(float);
}

/* Ends the list and allocates what it needs for steps of up to max_rows rows, max_out of which ask for something; counting: no memory
 * but n_bytes, which tells how much it would be. */
static void dev_plan_fill(dev_plan *p, int n_threads, int max_rows, int max_out, bool counting) {
    const int lists[][2] = {{p->n_op, sizeof *p->op}, {p->n_product, sizeof *p->product}, {p->n_buf, sizeof *p->buf}};
    p->max_rows = max_rows;
    p->max_out = max_out;
    p->counting = counting;
    for (int i = 0; i < 3; i++) p->n_bytes += mem_reserved((size_t)lists[i][0]) * (size_t)lists[i][1];
    dev__phases(p);
    p->n_bytes += mem_reserved((size_t)p->n_phase) * sizeof *p->phase;
    for (int i = 0; i < DEV_ROW_SETS; i++) {
        p->rows[i].row = dev__take(p, (size_t)max_rows, sizeof *p->rows[i].row, true);
        p->rows[i].run = dev__take(p, (size_t)max_rows + 1, sizeof *p->rows[i].run, true);
    }
    p->seq_at = dev__take(p, (size_t)max_rows + 1, sizeof *p->seq_at, true);
    for (int i = 1; i < p->n_buf; i++) dev__fill_buf(p, &p->buf[i]);
    dev__fill_threads(p, n_threads);
    dev__fill_parts(p, n_threads);
    dev__fill_experts(p);
    for (int i = 0; i < p->n_product; i++) {
        dev_product *m = &p->product[i];
        m->a = &p->buf[m->in].a;
        m->y = p->buf[m->out].a.x;
        m->ldy = p->buf[m->out].a.ldx;
        m->idx = m->gather ? p->rows[DEV_OUT].row : NULL;
    }
    dev__far_fill(p);
}

static void dev_plan_free(dev_plan *p) {
    dev__far_free(p);
    for (int i = 0; i < p->n_own; i++) mem_free(p->own[i]);
    mem_free(p->own);
    mem_free(p->op);
    mem_free(p->phase);
    mem_free(p->product);
    mem_free(p->buf);
    *p = (dev_plan){0};
}

/* --- running a list --- */

static int dev__count(const dev_run *run, const dev_op *op) {
    const dev_kind_row *kind = &dev_kinds[op->kind];
    return kind->tasks ? kind->tasks(run, op) : run->plan->rows[op->rows].n * (op->each ? op->each : 1);
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
        dev_kinds[op->kind].run(dv, op, task);
        op++;
    } while (op < end && !op->beside);
}

static void dev__only_task(void *ctx) { dev__task(ctx, ((const dev *)ctx)->phase, 0); }

/* A phase of rows. The only task of one is done inside the barrier that it would wait at. */
static void dev__rows(dev *dv, const dev_phase *ph) {
    const int n = dev__phase_tasks(dv->run, ph);
    dv->phase = ph;
    if (n == 1 && dv->open) {
        dev__close(dv, dev__only_task, dv);
        return;
    }
    dev__begin(dv);
    for (int task; (task = pool_next(dv->p)) < n;) dev__task(dv, ph, task);
}

static const dev_product *dev__list(const dev_plan *p, const dev_op *op, int *n) {
    *n = op->products.n * (op->products.n_expert ? op->products.n_expert : 1);
    return op->products.n_expert ? p->grouped + op->products.at : p->product + op->products.first;
}

/* A phase of products. Weights of those that come next are fetched while the thread waits. */
static void dev__products(dev *dv, const dev_phase *ph) {
    const dev_plan    *p = dv->run->plan;
    int                n;
    const dev_product *list = dev__list(p, &p->op[ph->first], &n);
    if (p->op[ph->first].kind == DEV_WATCH) dev__watch(dv, list, n);
    else dev__matmul(dv, list, n);
    if (ph->soon < 0) return;
    list = dev__list(p, &p->op[ph->soon], &n);
    dev__soon(dv, list, n);
}

/* Every thread goes through the list. Which phases there are is fixed for the step but for `stop`, which changes inside a barrier: a
 * thread that comes late passes the same ones. */
static void dev__main(void *ctx, int ith) {
    dev_run        *run = ctx;
    const dev_plan *p = run->plan;
    dev dv = {.p = run->p, .ith = ith, .scratch = p->scratch[ith], .tap = run->tap, .times = run->times, .run = run, .stop = &run->stop};
    for (int i = 0, il = -1; i < p->n_phase && i < p->far_phase && !atomic_load_explicit(&run->stop, memory_order_relaxed); i++) {
        const dev_op *op = &p->op[p->phase[i].first];
        if (!p->rows[op->rows].n) continue;
        if (ith == 0 && run->on_layer && op->layer > il) run->on_layer(run->on_layer_ctx, il = op->layer);
        dv.part = op->part;
        if (op->kind == DEV_ATTEND && dev__apart(run, op)) dev__attend_apart(&dv, op);
        else if (dev_kinds[op->kind].run) dev__rows(&dv, &p->phase[i]);
        else dev__products(&dv, &p->phase[i]);
    }
    dev__end(&dv);
}

/* --- a step on the GPU --- */

/* Appends n values of 4 bytes to what goes up, and returns where they will be. */
static const int32_t *dev__far_send(dev_far *f, size_t *at, const int32_t *from, size_t n) {
    const size_t was = *at;
    if (n) memcpy(f->stage + was, from, n * sizeof *from);
    *at = was + (n * sizeof *from + 7) / 8 * 8;
    return (const int32_t *)(const void *)(f->sent.base + was);
}

/* For each row of the batch the position after the last row of its sequence. */
static void dev__far_ends(const dev_batch *b, int32_t *end) {
    for (int r = b->n - 1; r >= 0; r--) end[r] = r + 1 < b->n && b->seq[r + 1] == b->seq[r] ? end[r + 1] : b->pos[r] + 1;
}

/* What the batch says of recurrent states. */
static void dev__far_states(const dev_run *run, dev_far *f, size_t *at, k_cuda_step *step) {
    dev_batch b = *run->batch;
    int32_t **from[DEV_STATE_ARRAYS];
    _Static_assert((int)DEV_STATE_ARRAYS == (int)K_STATES, "the arrays that say what a step does with states");
    dev_batch_states(&b, from);
    step->n_seq = b.n_seq;
    step->seq_at = dev__far_send(f, at, run->plan->seq_at, (size_t)b.n_seq + 1);
    for (int i = 0; i < K_STATES; i++) step->state[i] = dev__far_send(f, at, *from[i], (size_t)b.n_seq);
}

/* The batch and the rows of buffers go up. */
static void dev__far_upload(const dev_run *run, dev_far *f) {
    const dev_plan  *p = run->plan;
    const dev_batch *b = run->batch;
    const size_t     n = (size_t)b->n, n_tables = (size_t)b->n_seq * (size_t)b->n_group, n_table = b->table_at[n_tables];
    size_t           at = f->rows_at + n * (size_t)f->up_width * sizeof(float);
    k_cuda_step      step = {.n = {p->rows[DEV_ALL].n, p->rows[DEV_OUT].n}, .n_group = b->n_group};
    dev__far_room(f, at + (4 * n + n_table + (1 + K_STATES) * ((size_t)b->n_seq + 2)) * sizeof(int32_t) + n_tables * sizeof(int64_t) + 64);
    for (int i = 0; i < f->n_up; i++) {
        const dev_buffer *buf = &p->buf[f->up[i].buf];
        float            *to = (float *)(void *)(f->stage + f->rows_at) + f->up[i].at;
        for (size_t r = 0; r < n; r++) memcpy(to + r * (size_t)f->up_width, buf->a.x + r * buf->a.ldx, (size_t)buf->width * sizeof(float));
    }
    step.table_at = (const int64_t *)(const void *)(f->sent.base + at);
    for (size_t i = 0; i < n_tables; i++, at += sizeof(int64_t)) memcpy(f->stage + at, &(int64_t){(int64_t)b->table_at[i]}, sizeof(int64_t));
    step.row[0] = dev__far_send(f, &at, p->rows[DEV_ALL].row, n);
    step.row[1] = (const int32_t *)(const void *)(f->sent.base + sizeof step);
    memcpy(f->stage + sizeof step, p->rows[DEV_OUT].row, (size_t)step.n[1] * sizeof(int32_t));
    step.pos = dev__far_send(f, &at, b->pos, n);
    step.seq = dev__far_send(f, &at, b->seq, n);
    step.table = dev__far_send(f, &at, b->table, n_table);
    if (f->states) dev__far_states(run, f, &at, &step);
    dev__far_ends(b, (int32_t *)(void *)(f->stage + at));
    step.end = (const int32_t *)(const void *)(f->sent.base + at);
    memcpy(f->stage, &step, sizeof step);
    gpu_up(f->g, f->sent.base, f->stage, at + n * sizeof(int32_t));
}

/* Rows of each set, segments of attention and sequences for which a step is launched: what it has, or more. */
typedef struct { int n[DEV_ROW_SETS], segments, n_seq; } dev_far_bounds;

static dev_far_bounds dev__far_bounds(const dev_run *run) {
    const dev_batch *b = run->batch;
    dev_far_bounds   z = {{run->plan->rows[DEV_ALL].n, run->plan->rows[DEV_OUT].n}, 1, b->n_seq};
    for (int r = 0; r < b->n; r++) {
        const int n = b->pos[r] / K_SEGMENT + 1;
        if (n > z.segments) z.segments = n;
    }
    return z;
}

/* The exponent of the power of two that n is rounded up to; 0 of 0 and of 1. */
static int dev__log2_up(int n) {
    int i = 0;
    while (1 << i < n) i++;
    return i;
}

/* Segments that a row of an operation sees at most. */
static int dev__far_segments(const dev_op *op, const dev_far_bounds *z) {
    const int window = op->cache.window / K_SEGMENT + 2;
    return op->cache.window && window < z->segments ? window : z->segments;
}

/* Attention of as many rows at once as there is space for partial results. */
static void dev__far_run_attend(dev_far *f, dev_launch *l, const dev_op *op, const dev_far_bounds *z) {
    const int    n = z->n[op->rows];
    const size_t fit = f->parts.used / sizeof(float) / dev__far_part(op, (size_t)dev__far_segments(op, z));
    l->attend.n_seg = dev__far_segments(op, z);
    for (int first = 0; first < n; first += l->attend.n_rows) {
        l->attend.first = first;
        l->attend.n_rows = (size_t)(n - first) < fit ? n - first : (int)fit;
        const int heads = op->cache.kv->n_head, x = l->attend.n_rows * heads, rows = k_cuda_attend_rows(op->cache.group);
        const bool few = l->many < 0 || (l->kernel >= 0 && n < DEV_FAR_MANY * z->n_seq);
        if (few) gpu_launch(f->g, l->kernel, x, l->attend.n_seg, &l->attend, sizeof l->attend);
        else gpu_launch(f->g, l->many, (l->attend.n_rows + rows - 1) / rows * heads, l->attend.n_seg + 1, &l->attend, sizeof l->attend);
        gpu_launch(f->g, l->merge, x, 1, &l->attend, sizeof l->attend);
    }
}

/* Each sequence's value heads, in runs of columns. */
static void dev__far_run_delta(const dev_far *f, const dev_launch *l, const dev_op *op, const dev_far_bounds *z) {
    gpu_launch(f->g, l->kernel, z->n_seq * op->n_head, (op->n + K_CUDA_DELTA_COLS - 1) / K_CUDA_DELTA_COLS, &l->delta, sizeof l->delta);
}

/* Tasks of a launch of rows. */
static int dev__far_tasks(const dev_plan *p, const dev_launch *l, const dev_far_bounds *z) {
    int n = 0;
    for (int i = 0; i < l->n; i++) {
        const dev_op *op = &p->op[l->first + i];
        if (i == 0 || op->beside) n += z->n[op->rows] * (op->each ? op->each : 1);
    }
    return n;
}

/* The products of experts for n slots: many columns, where the experts have so many on average. */
static void dev__far_multiply_experts(const dev_far *f, const dev_launch *l, int n) {
    const bool many = l->many >= 0 && n >= DEV_FAR_MANY * l->experts;
    const int  rows = many ? K_CUDA_MANY_ROWS : 16, tiles = k_cuda_tiles(n, l->experts, many ? K_CUDA_MANY_COLS : K_CUDA_COLS);
    k_cuda_mul m = l->mul;
    m.tiles = f->tiles[many];
    gpu_launch(f->g, many ? l->many : l->kernel, (m.nr + rows - 1) / rows, tiles, &m, sizeof m);
}

static void dev__far_multiply(const dev_far *f, const dev_launch *l, int n) {
    const int nr = l->mul.nr;
    if (l->many < 0 || n < DEV_FAR_MANY) gpu_launch(f->g, l->kernel, (nr + 15) / 16, (n + K_CUDA_COLS - 1) / K_CUDA_COLS, &l->mul, sizeof l->mul);
    else gpu_launch(f->g, l->many, (nr + K_CUDA_MANY_ROWS - 1) / K_CUDA_MANY_ROWS, (n + K_CUDA_MANY_COLS - 1) / K_CUDA_MANY_COLS, &l->mul, sizeof l->mul);
}

static void dev__far_run(const dev_plan *p, dev_far *f, dev_launch *l, const dev_far_bounds *z) {
    const dev_op *op = &p->op[l->first];
    const int     n = l->product ? z->n[l->product->rows] : dev__far_tasks(p, l, z);
    if (l->experts && n) dev__far_multiply_experts(f, l, n * l->slots);
    else if (l->product && n) dev__far_multiply(f, l, n);
    else if (op->kind == DEV_GROUP) gpu_launch(f->g, l->kernel, 1, 1, &l->sort, sizeof l->sort);
    else if (op->kind == DEV_ATTEND) dev__far_run_attend(f, l, op, z);
    else if (op->kind == DEV_DELTA) dev__far_run_delta(f, l, op, z);
    else if (!l->product && n) gpu_launch(f->g, l->kernel, n, 1, &l->rows, sizeof l->rows);
}

/* Partial results of one row have space, also where its positions are more than the model was trained with. */
static void dev__far_space(const dev_plan *p, dev_far *f, const dev_far_bounds *z) {
    for (int i = 0; i < f->n_launch; i++) {
        const dev_op *op = &p->op[f->launch[i].first];
        if (op->kind == DEV_ATTEND) dev__far_grow(f, &f->parts, dev__far_part(op, (size_t)dev__far_segments(op, z)) * sizeof(float));
    }
}

static void dev__far_run_all(const dev_plan *p, dev_far *f, const dev_far_bounds *z) {
    for (int i = 0; i < f->n_launch; i++) dev__far_run(p, f, &f->launch[i], z);
}

/* Runs all launches. Those of a step with few rows are recorded when one of its size comes again: sizes are powers of two. */
static void dev__far_launch(const dev_plan *p, dev_far *f, dev_far_bounds z) {
    const int log[] = {dev__log2_up(z.n[DEV_ALL]), dev__log2_up(z.n[DEV_OUT]), dev__log2_up(z.segments)};
    dev__far_space(p, f, &z);
    if (log[0] >= DEV_FAR_ROWS || log[2] >= DEV_FAR_SEGMENTS) {
        dev__far_run_all(p, f, &z);
        return;
    }
    int *graph = &f->graph[log[0]][z.n[DEV_OUT] ? 1 + log[1] : 0][log[2]];
    if (*graph == 0) {
        *graph = 1;
        dev__far_run_all(p, f, &z);
        return;
    }
    if (*graph == 1) {
        z = (dev_far_bounds){{1 << log[0], z.n[DEV_OUT] ? 1 << log[1] : 0}, 1 << log[2], 1 << log[0]};
        dev__far_space(p, f, &z);
        gpu_record(f->g);
        dev__far_run_all(p, f, &z);
        *graph = 2 + gpu_recorded(f->g);
    }
    gpu_replay(f->g, *graph - 2);
}

/* The numbers of the largest logits come down in place of these, to where the rows that ask went up from. */
static const int32_t *dev__far_ids(const dev_plan *p, dev_far *f) {
    const int              n = p->rows[DEV_OUT].n;
    int32_t               *to = (int32_t *)(void *)(f->stage + sizeof(k_cuda_step));
    const k_cuda_best_args a = {.step = (const k_cuda_step *)(const void *)f->sent.base, .set = DEV_OUT, .n = p->buf[p->result].width,
                                .x = dev__far_rows(f, p->result), .out = f->id};
    gpu_launch(f->g, f->best, n, 1, &a, sizeof a);
    gpu_down(f->g, to, f->id, (size_t)n * sizeof *to);
    return to;
}

/* The rows of a buffer that were written. */
static void dev__far_buf_down(const dev_plan *p, dev_far *f, dev_buf b, dev_row_set rows) {
    const dev_acts *to = &p->buf[b].a;
    gpu_down(f->g, to->x, f->a[b].x, (size_t)p->rows[rows].n * to->ldx * sizeof(float));
}

/* What comes down, when all is done; ids: numbers in place of the result. Buffers whose rows lie among all that went up come in one piece with these,
 * by way of the stage. Returns the numbers, NULL: there are none. */
static const int32_t *dev__far_download(const dev_plan *p, dev_far *f, bool ids) {
    const int32_t *got = NULL;
    const size_t width = (size_t)f->up_width;
    float       *rows = (float *)(void *)(f->stage + f->rows_at);
    size_t       n_mixed = 0;
    for (int i = 0; i < f->n_down; i++) {
        const dev_buf b = f->down[i].buf;
        const size_t  n = (size_t)p->rows[f->down[i].rows].n;
        if (ids && b == p->result) got = dev__far_ids(p, f);
        else if (dev__far_up(f, b) < 0) dev__far_buf_down(p, f, b, f->down[i].rows);
        else if (n > n_mixed) n_mixed = n;
    }
    gpu_down(f->g, rows, f->sent.base + f->rows_at, n_mixed * width * sizeof(float));
    gpu_wait(f->g);
    for (int i = 0; i < f->n_down; i++) {
        const dev_buffer *to = &p->buf[f->down[i].buf];
        const int         up = dev__far_up(f, f->down[i].buf), n = up < 0 ? 0 : p->rows[f->down[i].rows].n;
        for (size_t r = 0; r < (size_t)n; r++) memcpy(to->a.x + r * to->a.ldx, rows + f->up[up].at + r * width, (size_t)to->width * sizeof(float));
    }
    return got;
}

/* Whether numbers are all that the batch asks for. */
static bool dev__ids_alone(const dev_batch *b) {
    int r = 0;
    while (r < b->n && !(b->want[r] & ~DEV_ID)) r++;
    return b->n_out && r == b->n;
}

/* The operations of the GPUs, after those of the host. */
static void dev__far_step(dev_run *run) {
    const double t0 = run->times ? clock_now() : 0;
    const bool   ids = dev__ids_alone(run->batch);
    for (dev_far *f = run->plan->far; f < run->plan->far + run->plan->n_far; f++) {
        dev__far_upload(run, f);
        dev__far_launch(run->plan, f, dev__far_bounds(run));
        run->ids = dev__far_download(run->plan, f, ids);
    }
    if (run->times) run->times->far += clock_now() - t0;
}

/* The logits of a step that gave numbers in their place come after all. */
static void dev_fetch(dev_run *run) {
    dev_far *f = &run->plan->far[run->plan->n_far - 1];
    ASSERT(run->ids);
    dev__far_buf_down(run->plan, f, run->plan->result, DEV_OUT);
    gpu_wait(f->g);
    run->ids = NULL;
}

/* Room for the views of the longest table. */
static void dev__room(dev_run *run) {
    const dev_batch *b = run->batch;
    int              n = 0;
    for (int i = 0; i < b->n_seq * b->n_group; i++)
        if ((int)(b->table_at[i + 1] - b->table_at[i]) > n) n = (int)(b->table_at[i + 1] - b->table_at[i]);
    if (n <= run->n_views) return;
    run->n_views = n < 64 ? 64 : 2 * n;
    if (!run->views) run->views = mem_new((size_t)run->p->n, sizeof *run->views);
    for (int i = 0; i < run->p->n; i++) run->views[i] = mem_grow(run->views[i], 2 * (size_t)run->n_views, sizeof **run->views);
}

/* What depends on the batch alone: the rows of each set and product, room for its tables. */
static void dev__prepare(dev_run *run) {
    dev_plan        *p = run->plan;
    const dev_batch *b = run->batch;
    ASSERT(b->n > 0 && b->n <= p->max_rows && b->n_out <= p->max_out);
    const int was[DEV_ROW_SETS] = {p->rows[DEV_ALL].n, p->rows[DEV_OUT].n};
    for (int i = 0; i < DEV_ROW_SETS; i++) dev__list_rows(b, (dev_row_set)i, &p->rows[i]);
    for (int r = 0; r < b->n; r++)
        if (!r || b->seq[r] != b->seq[r - 1]) p->seq_at[b->seq[r]] = r;
    p->seq_at[b->n_seq] = b->n;
    const bool same = was[DEV_ALL] == p->rows[DEV_ALL].n && was[DEV_OUT] == p->rows[DEV_OUT].n;   /* as decode steps mostly are */
    for (int i = 0; !same && i < p->n_product; i++) p->product[i].n = p->rows[p->product[i].rows].n;
    dev__room(run);
    run->ids = NULL;
    run->stop = false;
}

/* Runs the list for the batch. False: an interrupt ended it early. */
static bool dev_step(dev_run *run) {
    dev__prepare(run);
    if (run->times) run->times->at = clock_now(), run->times->steps++;
    mem_freeze("a step");
    (run->tap ? pool_run : pool_run_loose)(run->p, dev__main, run);
    mem_thaw();
    if (run->plan->n_far && !run->stop) dev__far_step(run);
    return !run->stop;
}

static void dev_run_free(dev_run *run) {
    for (int i = 0; run->views && i < run->p->n; i++) mem_free(run->views[i]);
    mem_free(run->views);
}
