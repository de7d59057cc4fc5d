/* Fuzzes prompt caches: the bytes are the file, with correct hashes so that more of it is read. A block is used only if its
 * hash is right, and the file that is written next is valid. */
#include "program.h"

enum { FZ_STORE_VOCAB = 50, FZ_BLOCK = 2, FZ_BLOCKS = 12, FZ_SLOTS = 5, FZ_DEEP = 200, FZ_BYTES = 128 };

/* One layer with one head of 8 floats, blocks of 128 bytes; with states another one, whose slots have as many. */
static kv_cache *fz_cache(bool states) {
    static arch_layer_hp layer[2] = {{.n_head = 1, .n_head_kv = 1, .hd_k = 8, .hd_v = 8}, {.rec = {.taps = 2, .width = 1}}};
    arch_hparams         hp = {.n_layer = states ? 2 : 1, .layer = layer};
    const kv_opts        o = {.type_k = K_F32, .type_v = K_F32, .block = FZ_BLOCK, .max_blocks = FZ_BLOCKS, .state_bytes = FZ_SLOTS * FZ_BYTES};
    err_t                e = {0};
    kv_cache            *kv = kv_new(&hp, &o, (kv_load){.tokens = 1 << 20}, &e);
    ASSERT(kv);
    kv_share(kv);
    kv->tree->seed = 1;
    return kv;
}

/* Corrects the hashes of most blocks of group g. rows: of the directory; p: the file's bytes. */
static void fz_group_hashes(store *s, uint8_t *p, const gguf_tensor *rows, int g) {
    char               name[16];
    const gguf_tensor *data = gguf_tensor_find(&s->g, store__name(g, name));
    if (!data || data->type != K_I8 || data->dim[0] != store__each(s, g)) return;
    for (uint64_t i = 0; i < rows->n_bytes / 4 / store__row(s); i++) {
        int32_t *row = (int32_t *)(void *)(p + (rows->data - s->g.part[0].p)) + i * store__row(s);
        row += store__at(g);
        if (i % 5 == 4 || row[STORE_DATA] < 0 || (uint64_t)row[STORE_DATA] >= data->n_bytes / data->dim[0]) continue;
        const uint64_t h = bytes_hash(0, (bytes){data->data + (size_t)row[STORE_DATA] * data->dim[0], (size_t)data->dim[0]});
        memcpy(row + STORE_SUM, &h, sizeof h);
    }
}

/* Corrects the hashes of most blocks and of the directory, if there are any. p: the file's bytes, which may be changed. */
static void fz_store_hashes(store *s, uint8_t *p) {
    const gguf_tensor *rows = gguf_tensor_find(&s->g, "blocks");
    bytes              sum;
    err_t              none = {0};
    char               text[17];
    if (!rows || rows->type != K_I32 || rows->dim[0] != store__row(s)) return;
    for (int g = 0; g < s->kv->n_group; g++) fz_group_hashes(s, p, rows, g);
    if (gguf_get_str(&s->g, "prompt_cache.sum", &sum, &none) != 1 || sum.n != 16) return;
    snprintf(text, sizeof text, "%016llx", (unsigned long long)bytes_hash(0, (bytes){rows->data, (size_t)rows->n_bytes}));
    memcpy(p + (sum.p - s->g.part[0].p), text, 16);
}

/* A block of the cache that a file gave holds what the file says, unless it is computed: zeros. */
static void fz_block(const store *s, int g, int32_t at, int32_t stored) {
    static const uint8_t none[FZ_BYTES];
    uint8_t              held[FZ_BYTES];
    const bytes          block = {held, store__each(s, g)};
    ASSERT(block.n == sizeof held);
    dev_blocks_read(&s->kv->group[g].mem, at, held);
    if (stored < 0 || memcmp(held, none, sizeof held) == 0) return;
    ASSERT(bytes_hash(0, block) == store__sum(store__part(s, stored, g)));
}

/* The sequence reads positions [from, n), and makes a snapshot where its first block ends. */
static void fz_store_read(store *s, kv_seq *q, const int32_t *ids, int from, int n, bool done) {
    kv_cache *kv = s->kv;
    kv_publish(q, ids);
    kv_snapshot(q, from - from % FZ_BLOCK + FZ_BLOCK, n % 3 ? KV_KEPT : KV_WEAK);
    kv_prefault(q, from);
    for (int b = from / FZ_BLOCK; b * FZ_BLOCK < n; b++) dev_blocks_clear(&kv->group[0].mem, q->table[0][b]);
    if (kv_has_states(kv)) {
        const k_turn turn = kv_advance(q, from, n);
        dev_blocks_clear(&kv->group[kv->states].mem, turn.out);
        if (turn.snap >= 0) dev_blocks_clear(&kv->group[kv->states].mem, turn.snap);
    }
    if (!done) kv_spoil(q);
    kv_commit(kv, done);
}

/* A prompt that begins with all tokens up to row i and continues with others. Computed blocks are zeros. */
static void fz_prompt(store *s, int64_t i) {
    int32_t   ids[FZ_DEEP * FZ_BLOCK];
    int       depth = 0, n;
    bool      wait;
    kv_cache *kv = s->kv;
    for (int32_t k = s->node[i]; k > 0; k = kv->tree->node[k].parent, depth++)
        if (kv_is_mark(kv, kv_node_tokens(kv, k))) return;     /* no prompt has a mark of adapters among its tokens */
    if (depth >= FZ_DEEP) return;
    n = depth * FZ_BLOCK;
    for (int32_t k = s->node[i]; k > 0; k = kv->tree->node[k].parent)
        memcpy(ids + --depth * FZ_BLOCK, kv_node_tokens(kv, k), FZ_BLOCK * sizeof *ids);
    ids[n] = ids[n + 1] = (int32_t)(i % FZ_STORE_VOCAB);
    kv_seq   *q = kv_seq_new(kv);
    const int got = kv_match_prefix(q, ids, n + 1, &wait);
    ASSERT(got >= 0 && got <= n + 1 && got == q->n && !wait);
    for (int b = 0; b < q->n_known; b++) {
        const int32_t at = q->table[0][b];
        fz_block(s, 0, at, kv_parts(kv, kv->group[0].block[at].node)[0].stored);
    }
    if (q->state >= 0) fz_block(s, kv->states, q->state, kv_parts(kv, q->tip)[kv->states].stored);
    if (kv_reserve(q, n + 2)) fz_store_read(s, q, ids, got, n + 2, i % 7 != 6);
    kv_seq_free(q);
}

/* The file that is written under a bound of this many blocks. */
static void fz_plan(store *s, uint64_t most) {
    const kv_tree *t = s->kv->tree;
    size_t         n = 0;
    for (int32_t i = kv_next(t, 0); i > 0; i = kv_next(t, i)) n++;
    store__plan p = store__plan_new(s, n, most * FZ_BYTES);
    store_data  data[2] = {{NULL, p.n_data[0]}};
    uint64_t    all = (uint64_t)p.n_data[0];
    store       next = *s;
    if (s->kv->n_group > 1) data[1] = (store_data){NULL, p.n_data[1]}, all += (uint64_t)p.n_data[1];
    next.row = p.rows;
    next.n = p.n;
    next.data = data;
    ASSERT((size_t)p.n <= n && all <= most && store__rows_good(&next, FZ_STORE_VOCAB));
    store__plan_drop(&p);
}

/* The file's own layout is the one expected: the files kept here stay good when the layout gets another name. */
static void fz_layout(store *s) {
    bytes layout;
    err_t none = {0};
    if (gguf_get_str(&s->g, "prompt_cache.layout", &layout, &none) != 1) return;
    str_drop(&s->layout);
    str_add(&s->layout, layout.p, layout.n);
}

static void fz_store(const uint8_t *data, size_t n, bool states) {
    err_t     e = {0};
    uint8_t  *own = mem_aligned(n + 1, 1);
    kv_cache *kv = fz_cache(states);
    store    *s = store__new(kv, "FILE", 1234, "plain");
    g_log_level = LOG_QUIET;
    s->foreign = true;
    memcpy(own, data, n);
    if ((s->open = gguf_parse(&s->g, own, n, "FILE", &e))) {
        fz_store_hashes(s, own);
        fz_layout(s);
        if (gguf_own_is_kind(&s->g, store_arch, store_what, &e) && store__bind(s, FZ_STORE_VOCAB, &e)) {
            store__learn(s);
            for (int64_t i = 0; i < s->n && i < 64; i++) fz_prompt(s, (i * 7) % s->n);
            for (uint64_t most = 0; most <= 1 << 20; most = 5 * most + 1) fz_plan(s, most);
        }
    }
    ASSERT(s->node || e.code);
    store_close(s);
    kv_free(kv);
    mem_free(own);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    fz_store(data, n, false);
    fz_store(data, n, true);
    return 0;
}
