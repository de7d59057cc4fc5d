/* remote.c - the whole command with its device in another process, for tests/remote.py:
 *     build/test/remote -m tests/data/tiny/llama.gguf -p "Hello" --repack off
 * A fork before anything is opened makes the device's process. The two share a socket and no memory. The device opens the model
 * file itself, writes its own list of operations, maps its own blocks, and runs the batches that it is sent with the CPU's
 * functions of [dev]. LLMRUN_REMOTE=FILE: at the end the device writes how many messages of each kind came. */
#include LLMRUN_SOURCE
#include <sys/socket.h>

#undef dev_blocks_more
#undef dev_blocks_read
#undef dev_blocks_write
#undef dev_blocks_copy
#undef dev_blocks_clear
#undef dev_blocks_free
#undef dev_step
#undef model_open

enum { DEVICE_MOST = 64 };                               /* plans; groups of blocks */

typedef struct {                                      /* the device's side of a plan */
    uint64_t  id;                                     /* 0: none */
    gguf_file g;
    model     m;
    kv_cache *kv;                                     /* its layout alone */
    pool     *p;
    fwd      *f;
} device_plan;

static struct {
    int       fd;
    device_plan  plan[DEVICE_MOST];
    struct { uint64_t id; dev_blocks mem; } blocks[DEVICE_MOST];
    uint8_t  *bounce;                                 /* a block on its way */
    size_t    n_bounce;
    long long count[REMOTE_KINDS];
} device_side;

static void device_get(void *to, size_t n) {
    if (!remote_get(device_side.fd, to, n)) die(EXIT_RESOURCE, "device: a message ends early");
}

/* Fails when the program is gone, whose end the next read then meets. */
static void device_put(const void *from, size_t n) { (void)!remote_put(device_side.fd, from, n); }

/* The plan, or one that is not in use. */
static device_plan *device_plan_of(uint64_t id) {
    int at = 0;
    while (at < DEVICE_MOST && device_side.plan[at].id != id && device_side.plan[at].id) at++;
    ASSERT(at < DEVICE_MOST);
    return &device_side.plan[at];
}

/* Memory of one group of a cache of the program. */
static dev_blocks *device_blocks_of(uint64_t id) {
    int at = -1;
    for (int i = 0; i < DEVICE_MOST; i++)
        if (device_side.blocks[i].id == id || (at < 0 && !device_side.blocks[i].id)) at = i;
    ASSERT(at >= 0);
    device_side.blocks[at].id = id;
    return &device_side.blocks[at].mem;
}

static void device_plan_drop(device_plan *p) {
    if (!p->id) return;
    fwd_free(p->f);
    kv_free(p->kv);
    pool_free(p->p);
    model_close(&p->m);
    gguf_close(&p->g);
    *p = (device_plan){0};
}

static void device_make_plan(uint64_t id) {
    remote_plan     in;
    err_t           e = {0};
    device_plan       *p = device_plan_of(id);
    device_get(&in, sizeof in);
    device_plan_drop(p);
    const kv_opts o = {.type_k = in.type_k, .type_v = in.type_v, .block = max_int(in.block, 1)};   /* 0: there are states alone */
    in.rope.scaling = in.scaling[0] ? in.scaling : NULL;
    p->id = id;
    if (!k_init(in.level) || !gguf_open(&p->g, in.path, &e) || !model_open(&p->m, &p->g, &in.rope, &e))
        die(EXIT_INPUT, "device: %s", e.text);
    if (in.as_bf16) model_as_bf16(&p->m);
    model_use_head(&p->m, false);                     /* what a head reads of a step is no message: remote.py asks for --no-head */
    p->kv = kv_new(&p->m.hp, &o, (kv_load){.tokens = o.block}, &e);
    ASSERT(p->kv && p->kv->n_group == in.n_group);
    for (int il = 0; il < p->kv->n_layer; il++) {
        dev_kv    *l = &p->kv->layer[il];
        dev_state *st = &p->kv->state[il];
        dev_kv    *index = &p->kv->index[il];
        if (l->n_head) l->mem = device_blocks_of(in.group[l->group]);
        if (index->mem) index->mem = device_blocks_of(in.group[index->group]);
        for (int k = 2 * il; k < 2 * il + 2; k++) {
            dev_kv *raw = &p->kv->raw[k], *keys = &p->kv->pool[k];
            if (raw->mem) raw->mem = device_blocks_of(in.group[raw->group]), keys->mem = device_blocks_of(in.group[keys->group]);
        }
        if (st->mem) st->mem = device_blocks_of(in.group[st->group]);
        for (int k = 0; k < ARCH_CONVS; k++) {
            dev_state *conv = &p->kv->conv[il * ARCH_CONVS + k];
            if (conv->mem) conv->mem = device_blocks_of(in.group[conv->group]);
        }
    }
    p->p = pool_new(in.n_threads);
    p->f = fwd_new(&p->m, p->kv, p->p, in.max_rows, in.max_out, in.n_vocab ? FWD_LOGITS : FWD_HIDDEN);
    if (in.n_vocab) fwd_trim(p->f, in.n_vocab);
}

static void device_step(device_plan *p) {
    dev_batch *b = &p->f->batch;
    int32_t    sizes[4];
    device_get(sizes, sizeof sizes);
    b->n = sizes[0], b->n_out = sizes[1], b->n_seq = sizes[2], b->n_group = sizes[3];
    const size_t n = (size_t)b->n, tables = (size_t)b->n_seq * (size_t)b->n_group + 1;
    device_get(b->token, n * sizeof *b->token);
    device_get(b->pos, n * sizeof *b->pos);
    device_get(b->seq, n * sizeof *b->seq);
    device_get(b->want, n * sizeof *b->want);
    device_get(b->turn, (size_t)b->n_seq * sizeof *b->turn);
    b->table_at = mem_grow(b->table_at, tables, sizeof *b->table_at);
    device_get(b->table_at, tables * sizeof *b->table_at);
    b->table = mem_grow(b->table, b->table_at[tables - 1], sizeof *b->table);
    device_get(b->table, b->table_at[tables - 1] * sizeof *b->table);
    const bool ok = dev_step(&p->f->run);
    device_put(&ok, sizeof ok);
    const bool   hidden = p->f->gives == FWD_HIDDEN;
    const size_t width = (size_t)(hidden ? p->f->plan.buf[p->f->hidden].width : p->f->n_vocab);
    for (int i = 0; i < b->n_out; i++)
        device_put(hidden ? fwd_hidden(p->f, i) : p->f->logits + (size_t)i * width, width * sizeof *p->f->logits);
}

static void device_more(dev_blocks *mem, const remote_msg *in) {
    if (!mem->max_blocks) *mem = dev_blocks_new((size_t)in->bytes, in->a);
    const bool ok = dev_blocks_more(mem);
    device_put(&ok, sizeof ok);
}

static void device_free(uint64_t id) {
    for (int i = 0; i < DEVICE_MOST; i++) {
        if (device_side.blocks[i].id != id) continue;
        dev_blocks_free(&device_side.blocks[i].mem);
        device_side.blocks[i].mem = (dev_blocks){0};
        device_side.blocks[i].id = 0;
    }
}

/* Reads or writes a block by way of the socket, or changes blocks in place. */
static void device_block(const dev_blocks *mem, const remote_msg *in) {
    ASSERT(mem->block_bytes == in->bytes);
    if (device_side.n_bounce < in->bytes)
        device_side.bounce = mem_grow(device_side.bounce, device_side.n_bounce = (size_t)in->bytes, 1);
    switch (in->kind) {
    case REMOTE_READ:
        dev_blocks_read(mem, in->a, device_side.bounce);
        device_put(device_side.bounce, (size_t)in->bytes);
        break;
    case REMOTE_WRITE:
        device_get(device_side.bounce, (size_t)in->bytes);
        dev_blocks_write(mem, in->a, device_side.bounce);
        break;
    case REMOTE_COPY: dev_blocks_copy(mem, in->a, in->b); break;
    default: dev_blocks_clear(mem, in->a);
    }
}

static void device_message(const remote_msg *in) {
    device_side.count[in->kind]++;
    switch (in->kind) {
    case REMOTE_PLAN: device_make_plan(in->id); break;
    case REMOTE_STEP: device_step(device_plan_of(in->id)); break;
    case REMOTE_MORE: device_more(device_blocks_of(in->id), in); break;
    case REMOTE_FREE: device_free(in->id); break;
    default: device_block(device_blocks_of(in->id), in);
    }
}

static void device_write_counts(const char *path) {
    static const char *const names[REMOTE_KINDS] = {"plan", "step", "more", "read", "write", "copy", "clear", "free"};
    FILE *f = path ? fopen(path, "w") : NULL;
    if (!f) return;
    for (int i = 0; i < REMOTE_KINDS; i++) fprintf(f, "%s %lld\n", names[i], device_side.count[i]);
    fclose(f);
}

/* The device: runs until the program closes the socket. */
static int device_main(int fd) {
    device_side.fd = fd;
    signal(SIGPIPE, SIG_IGN);
    for (remote_msg in; remote_get(fd, &in, sizeof in);) device_message(&in);
    device_write_counts(getenv("LLMRUN_REMOTE"));
    return 0;
}

int main(int argc, char **argv) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) die(EXIT_RESOURCE, "socketpair: %s", strerror(errno));
    const pid_t device = fork();
    if (device < 0) die(EXIT_RESOURCE, "fork: %s", strerror(errno));
    close(ends[device ? 1 : 0]);
    if (!device) return device_main(ends[1]);
    remote_fd = ends[0];
    return main__run(argc, argv);
}
