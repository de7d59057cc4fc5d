/* remote.h - a device in another address space: what stands in for [dev] above it in tests/remote.c, a program made of llmrun.c
 * with this file between [model] and [kv]. The calls become messages on a socket; only plain numbers and bytes travel. The
 * program's blocks have no memory, its plan has none but that of its results, logits or hidden rows, and its weights are
 * unreadable from the first plan on. */

typedef enum { REMOTE_PLAN, REMOTE_STEP, REMOTE_MORE, REMOTE_READ, REMOTE_WRITE, REMOTE_COPY, REMOTE_CLEAR, REMOTE_FREE,
              REMOTE_KINDS } remote_kind;

typedef struct {                                      /* every message begins with it */
    int32_t  kind, a, b;                              /* a, b: block numbers; of REMOTE_MORE: most blocks */
    uint64_t id, bytes;                               /* of a plan or of the blocks of one group; bytes of one block */
} remote_msg;

enum { REMOTE_GROUPS = 8 };

typedef struct {                                      /* from what the device makes a plan of its own */
    char      path[4096], level[32], scaling[32];     /* model file, CPU level, of `rope` */
    rope_opts rope;
    bool      as_bf16;
    uint32_t  type_k, type_v;
    int32_t   block, n_threads, max_rows, max_out, n_vocab, n_group;   /* n_vocab 0: the list gives hidden rows */
    uint64_t  group[REMOTE_GROUPS];                   /* ids of the blocks */
} remote_plan;

static int remote_fd = -1;                            /* the socket; -1: this process is the device */

static bool remote_get(int fd, void *to, size_t n) {
    for (uint8_t *p = to; n;) {
        const ssize_t got = read(fd, p, n);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        p += got;
        n -= (size_t)got;
    }
    return true;
}

static bool remote_put(int fd, const void *from, size_t n) {
    for (const uint8_t *p = from; n;) {
        const ssize_t put = write(fd, p, n);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        p += put;
        n -= (size_t)put;
    }
    return true;
}

static void remote_send(const void *from, size_t n) {
    if (!remote_put(remote_fd, from, n)) die(EXIT_RESOURCE, "the device is gone");
}

static void remote_receive(void *to, size_t n) {
    if (!remote_get(remote_fd, to, n)) die(EXIT_RESOURCE, "the device is gone");
}

static void remote_tell(remote_kind kind, const void *id, int32_t a, int32_t b, size_t n_bytes) {
    const remote_msg m = {kind, a, b, (uint64_t)(uintptr_t)id, n_bytes};
    remote_send(&m, sizeof m);
}

/* --- blocks --- */

static bool remote_blocks_more(dev_blocks *m) {
    bool ok;
    remote_tell(REMOTE_MORE, m, m->max_blocks, 0, m->block_bytes);
    remote_receive(&ok, sizeof ok);
    m->n_slab += ok;
    return ok;
}

static void remote_blocks_read(const dev_blocks *m, int32_t b, uint8_t *to) {
    remote_tell(REMOTE_READ, m, b, 0, m->block_bytes);
    remote_receive(to, m->block_bytes);
}

static void remote_blocks_write(const dev_blocks *m, int32_t b, const uint8_t *from) {
    remote_tell(REMOTE_WRITE, m, b, 0, m->block_bytes);
    remote_send(from, m->block_bytes);
}

static void remote_blocks_copy(const dev_blocks *m, int32_t from, int32_t to) {
    remote_tell(REMOTE_COPY, m, from, to, m->block_bytes);
}
static void remote_blocks_clear(const dev_blocks *m, int32_t b) { remote_tell(REMOTE_CLEAR, m, b, 0, m->block_bytes); }

static void remote_blocks_free(dev_blocks *m) {
    if (remote_fd >= 0) remote_tell(REMOTE_FREE, m, 0, 0, m->block_bytes);
    m->n_slab = 0;
}

/* --- models and plans --- */

/* Models that are open, with what they were opened with. The fingerprint, of samples of a file's tensors, is taken before they
 * are hidden: it reads the file and not the device. */
static struct {
    const model *m;
    rope_opts    rope;
    uint64_t     fingerprint;
} remote_models[4];
static int remote_n_models;

static bool remote_model_open(model *m, const gguf_file *g, const rope_opts *o, err_t *e) {
    ASSERT(remote_n_models < 4);
    remote_models[remote_n_models].m = m;
    remote_models[remote_n_models].fingerprint = gguf_fingerprint(g);
    remote_models[remote_n_models++].rope = *o;
    return model_open(m, g, o, e);
}

static uint64_t remote_fingerprint(const gguf_file *g) {
    int i = 0;
    while (i < remote_n_models && remote_models[i].m->g != g) i++;
    ASSERT(i < remote_n_models);
    return remote_models[i].fingerprint;
}

/* Number of the model that a plan is of: its embeddings say it. */
static int remote_model_of(const dev_plan *p) {
    int i = remote_n_models - 1;
    while (i >= 0 && p->op[0].embed.mat != &remote_models[i].m->glob.mat[W_TOK_EMBD]) i--;
    ASSERT(p->op[0].kind == OPS_EMBED && i >= 0);
    return i;
}

/* The pages that hold nothing but tensor data become unreadable. */
static void remote_hide(const gguf_file *g) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < g->n_parts; i++) {
        uintptr_t from = UINTPTR_MAX, end = ((uintptr_t)g->part[i].p + g->part[i].n + page - 1) & -page;
        for (uint64_t k = 0; k < g->n_tensor; k++)
            if (g->tensor[k].part == i && (uintptr_t)g->tensor[k].data < from) from = (uintptr_t)g->tensor[k].data;
        if (from >= end) continue;
        from = (from + page - 1) & -page;
        if (from < end && mprotect((void *)from, end - from, PROT_NONE)) die(EXIT_RESOURCE, "%s: weights stay readable", g->path);
    }
}

static void remote_say_group(remote_plan *to, int group, const dev_blocks *mem) {
    ASSERT(group < REMOTE_GROUPS);
    to->group[group] = (uint64_t)(uintptr_t)mem;
    if (group >= to->n_group) to->n_group = group + 1;
}

/* What the list says about the cache: its formats, and the blocks of each group. */
static void remote_say_cache(const dev_plan *p, remote_plan *to) {
    for (int i = 0; i < p->n_op; i++) {
        if (p->op[i].kind == OPS_KEEP) remote_say_group(to, p->op[i].state.st->group, p->op[i].state.st->mem);
        if (p->op[i].kind == OPS_POOL) remote_say_group(to, p->op[i].pool.to->group, p->op[i].pool.to->mem);
        if (p->op[i].kind != OPS_STORE) continue;
        const dev_kv *kv = p->op[i].cache.kv;
        remote_say_group(to, kv->group, kv->mem);
        if (!kv->hd_v || to->block) continue;         /* the first keys have the types; what keys of groups are made of has its own */
        to->type_k = kv->type_k;
        to->type_v = kv->type_v;
        to->block = kv->block;
    }
}

static void remote_say_model(const model *m, remote_plan *to) {
    int at = 0;
    snprintf(to->path, sizeof to->path, "%s", m->g->path);
    snprintf(to->level, sizeof to->level, "%s", k_level_name());
    if (to->rope.scaling) snprintf(to->scaling, sizeof to->scaling, "%s", to->rope.scaling);
    for (const dev_mat *w; (w = model__mat(m, &at));) to->as_bf16 = to->as_bf16 || w->type == K_F16_ROUND;
}

/* The buffer of the results: logits or, where the list has none, what its last operation makes ready for a head. */
static dev_buffer *remote_results(const dev_plan *p) {
    dev_buffer *logits = &p->buf[p->n_buf - 1];
    return logits->width ? logits : &p->buf[p->op[p->n_op - 1].out[0]];
}

/* The one buffer that has memory, once a plan is filled. */
static dev_buffer *remote_filled(const dev_plan *p) {
    int b = p->n_buf - 1;
    while (b > 0 && !p->buf[b].a.x) b--;
    ASSERT(b > 0);
    return &p->buf[b];
}

/* The program's plan is counted and has no memory but that of its results. */
static void remote_plan_fill(dev_plan *p, int n_threads, int max_rows, int max_out, bool counting) {
    dev_buffer *to = remote_results(p);               /* before the last operation, which makes forms, is left out */
    dev_plan_fill(p, n_threads, max_rows, max_out, counting || remote_fd >= 0);
    if (counting || remote_fd < 0) return;
    const int   i = remote_model_of(p);
    remote_plan plan = {.rope = remote_models[i].rope, .n_threads = n_threads, .max_rows = max_rows, .max_out = max_out,
                        .n_vocab = p->buf[p->n_buf - 1].width};
    const size_t n_bytes = p->n_bytes;
    p->counting = false;
    to->a.x = dev__take(p, (size_t)max_out * to->a.ldx, sizeof *to->a.x, false);
    p->n_bytes = n_bytes;
    remote_say_cache(p, &plan);
    remote_say_model(remote_models[i].m, &plan);
    remote_tell(REMOTE_PLAN, p, 0, 0, 0);
    remote_send(&plan, sizeof plan);
    remote_hide(remote_models[i].m->g);
}

/* --- a step: the batch goes out, logits or hidden rows come back --- */

static bool remote_step(dev_run *run) {
    const dev_batch *b = run->batch;
    const size_t     n = (size_t)b->n, tables = (size_t)b->n_seq * (size_t)b->n_group + 1;
    const int32_t    sizes[4] = {b->n, b->n_out, b->n_seq, b->n_group};
    dev_buffer      *to = remote_filled(run->plan);
    bool             ok;
    if (run->tap) die(EXIT_INPUT, "no taps on this device");
    remote_tell(REMOTE_STEP, run->plan, 0, 0, 0);
    remote_send(sizes, sizeof sizes);
    remote_send(b->token, n * sizeof *b->token);
    remote_send(b->pos, n * sizeof *b->pos);
    remote_send(b->seq, n * sizeof *b->seq);
    remote_send(b->want, n * sizeof *b->want);
    remote_send(b->turn, (size_t)b->n_seq * sizeof *b->turn);
    remote_send(b->table_at, tables * sizeof *b->table_at);
    remote_send(b->table, b->table_at[tables - 1] * sizeof *b->table);
    remote_receive(&ok, sizeof ok);
    for (int i = 0; i < b->n_out; i++) remote_receive(to->a.x + (size_t)i * to->a.ldx, (size_t)to->width * sizeof *to->a.x);
    return ok;
}

#define dev_blocks_more  remote_blocks_more
#define dev_blocks_read  remote_blocks_read
#define dev_blocks_write remote_blocks_write
#define dev_blocks_copy  remote_blocks_copy
#define dev_blocks_clear remote_blocks_clear
#define dev_blocks_free  remote_blocks_free
#define dev_plan_fill    remote_plan_fill
#define dev_step         remote_step
#define model_open       remote_model_open
#define gguf_fingerprint remote_fingerprint
