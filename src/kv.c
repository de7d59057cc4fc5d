/* ===== [kv] paged key/value cache =====
 * Keys and values live in blocks of `block` positions. Layers that keep the same positions form a group; a block of a group
 * holds, layer after layer, K then V, each [head][position][bytes of one head]; latent attention (MLA) has K alone, of one head,
 * and V is the beginning of each row; keys of a layer's indexer follow. A group has one rule: its rows see all positions,
 * or a window of them, or it holds recurrent states. To add a rule: kv_rule, kv__seen, kv__cut, kv__blocks_of. Each group has a
 * bound of its own.
 *   A sequence has a table of block numbers for each group. Blocks are taken as positions are reserved, so memory follows the
 * tokens in use, and given back when no later row needs them. Blocks are counted by reference: kv_fork() shares them, and a
 * shared block is copied before it is written to. The bytes of blocks belong to [dev]: the cache deals in numbers, and copies are
 * a list that the next step begins with. Tables of one group, with blocks of 4 positions:
 *
 *     positions                0..3   4..7   8..11
 *     a has 10 positions    a  [ 5 ]  [ 2 ]  [ 7 ]          references  5: 1   2: 1   7: 1
 *
 *     b = kv_fork(a)        a  [ 5 ]  [ 2 ]  [ 7 ]          references  5: 2   2: 2   7: 2
 *                           b    |      |      |
 *
 *     kv_reserve(b, 11)     a  [ 5 ]  [ 2 ]  [ 7 ]          references  5: 2   2: 2   7: 1   9: 1
 *                           b    |      |    [ 9 ]          due: block 7 is copied to 9, to which b writes position 10
 *
 *   The blocks of recurrent states are slots: one has the states of all recurrent layers (dev_state). A running sequence has one,
 * and no table. A step reads it and writes it in place, or, where the slot is shared, another one. A snapshot is a slot that is
 * at the border of a block and is never written again. The sequence asks for it (kv_snapshot), and a later one goes on from it.
 *   After kv_share() sequences with the same beginning share its blocks: the prefix tree. A node stands for the tokens of one
 * full block after those of its parent, and names the block of each group that holds them, or -1 where that block is gone; of
 * states, the snapshot after them. Tokens are compared one by one; the hash only finds candidates. The tree holds one reference
 * to each of its blocks. A block that no sequence holds is idle: it stays for later sequences until its group has no free block,
 * and the one idle longest goes first. Texts of 8 tokens, blocks of 4, a group of each rule, its window 4 positions:
 *
 *     node 0, the root        group  all  window  state
 *       |
 *     node 1: tokens 0..3           [ 5 ]  [ -1 ]  [ -1 ]     no later row sees this window; no snapshot was asked for
 *       |-- node 2: tokens 4..7     [ 2 ]  [  3 ]  [  1 ]     a text that begins so goes on with 5 and 2, with 3, and with slot 1
 *       `-- node 3: 4..7, others    [ 8 ]  [  6 ]  [ -1 ]     after these a model with states lacks its state
 *
 *   Sequences with adapters lie below a node of their own, whose tokens are the mark of the adapters: they share with each other
 * and with no other.
 *   K and V of quantised types are stored after a Hadamard transform (k_hadamard). Attention then transforms Q and its output.
 * Public: kv_state_bytes, kv_slot_bytes, kv_new, kv_free, kv_most; kv_share, kv_parts, kv_next, kv_node_tokens, kv_fetcher,
 * kv_is_mark, kv_add_stored; kv_flush, kv_held, kv_seq_of, kv_seq_new, kv_seq_free, kv_fork, kv_reserve, kv_require, kv_full,
 * kv_truncate;
 * kv_has_states, kv_is_weak, kv_advance, kv_spoil, kv_hold, kv_pretend, kv_last_mark, kv_next_mark, kv_snapshot;
 * kv_match_prefix, kv_publish, kv_commit, kv_add_demand, kv_add_fork, kv_meets; kv_seq_blocks, kv_table, kv_place, kv_prefault,
 * kv_bytes_peak, kv_bytes_most.
 * Opens: kv_cache.adapters, kv_cache.index, kv_cache.pool, kv_cache.raw, kv_cache.layer, kv_cache.state, kv_cache.states,
 *   kv_cache.max_blocks, kv_cache.n_group, kv_cache.group, kv_cache.opts, kv_cache.tree, kv_copy, kv_group.mem, kv_load,
 *   kv_node.parent, kv_node.used, kv_opts, kv_part, kv_seq.adapters, kv_seq.first, kv_seq.n, kv_seq.source. */

typedef struct {
    uint32_t type_k;                                  /* type of keys */
    uint32_t type_v;                                  /* type of values */
    int      block;                                   /* positions per block */
    int      max_blocks;                              /* most blocks of each group of keys and values, 0: as the context asks */
    uint64_t mem_bytes;                               /* bound of those groups together, in bytes */
    uint64_t state_bytes;                             /* bound of states and snapshots; 0: as kv__bound_states() chooses */
    const char *cache;                                /* file that keeps blocks between runs, NULL: none */
    uint64_t cache_bytes;                             /* most bytes of blocks in it */
    bool     cache_ro;                                /* the file is only read */
    bool     cache_all;                               /* blocks of answers are kept too */
} kv_opts;

static const kv_opts kv_defaults = {.type_k = K_BF16, .type_v = K_BF16, .block = LLMRUN_STRESS ? 2 : 32, .cache_bytes = 1 << 30};

/* What a cache is to hold. */
typedef struct {
    int64_t tokens;                                   /* positions of all sequences together */
    int     seqs;                                     /* sequences that run at once; 0: unknown */
    int     rows;                                     /* most rows that a step adds to one of them; 0: unknown */
    const dev_gpus *gpus;                             /* keep what their layers store; NULL: none */
    int     slots;                                    /* most recurrent states that their memory holds; 0: no bound */
} kv_load;

typedef enum { KV_ALL, KV_WINDOW, KV_STATE } kv_rule; /* what a row of the group needs: everything, a window, one state */

typedef struct {
    uint32_t refs;                                    /* sequences that hold it, and one for the tree */
    int32_t  node;                                    /* of the tree, -1: none */
    int32_t  older;                                   /* idle: the one that is evicted before it, -1: none */
    int32_t  newer;                                   /* idle: the one after it, -1: none */
    bool     fresh;                                   /* published, and to be filled by the coming step */
    bool     weak;                                    /* a snapshot that is evicted before all others, until a sequence uses it */
} kv_block;

typedef struct {
    kv_rule    rule;                                  /* what its rows see */
    int        window;                                /* positions that a row sees, with KV_WINDOW */
    bool       chunked;                               /* those of its chunk of so many alone */
    dev_blocks mem;                                   /* the bytes of the blocks */
    size_t     end[1 + DEV_GPUS];                     /* byte of a block where the layers of the host end, of each GPU; 0: none */
    kv_block  *block;                                 /* [blocks mapped] */
    int32_t   *spare;                                 /* [blocks mapped] free block numbers, a stack of n_spare */
    int32_t    oldest;                                /* the idle block that is evicted first, -1: none */
    int32_t    newest;                                /* the one that is evicted last, -1: none */
    bool       starved;                               /* the system has no memory for more blocks */
    int        n_spare;                               /* blocks that nobody holds */
    int        n_used;                                /* held by sequences or the tree, idle ones among them */
    int        n_idle;                                /* held by the tree alone */
    int        n_peak;                                /* the largest n_used */
} kv_group;

typedef struct {
    int     group;                                    /* whose blocks they are */
    int32_t from;                                     /* the block that is copied */
    int32_t to;                                       /* the block that becomes the copy */
} kv_copy;

/* Numbers of other nodes; -1: none. */
typedef struct {
    int32_t parent;                                   /* of the block before; of the root -1 */
    int32_t child;                                    /* the first of its children */
    int32_t left;                                     /* the sibling before it */
    int32_t right;                                    /* the sibling after it */
    int32_t chain;                                    /* the next one of the same slot; of an unused node, the next unused */
    bool    used;                                     /* by a sequence of this run */
    int     pins;                                     /* sequences whose last known block this is */
} kv_node;

typedef struct {                                      /* what a node has in one group */
    int32_t block;                                    /* -1: none */
    int32_t stored;                                   /* its number in the prompt cache on disk, -1: not there */
} kv_part;

typedef struct {
    kv_node *node;                                    /* [cap]; 0 is the root, which has no tokens */
    int32_t *token;                                   /* [cap][block] */
    kv_part *part;                                    /* [cap][n_group] */
    int32_t *slot;                                    /* [n_slot] a power of two: first of a chain */
    struct { int group; int32_t block; } *fresh;      /* [n_fresh] blocks that the coming step fills */
    int      cap;                                     /* nodes that there is memory for */
    int      n_slot;                                  /* entries of slot */
    int      n_fresh;                                 /* entries of fresh */
    int32_t  unused;                                  /* the first of the unused nodes, -1: none */
    uint64_t seed;                                    /* of the hash */
    bool   (*fetch)(void *ctx, int group, int32_t stored, int32_t block);  /* see kv_fetcher() */
    void    *fetch_ctx;                               /* its first argument */
} kv_tree;

typedef struct {
    kv_opts   opts;                                   /* as the run asks for */
    dev_kv   *layer;                                  /* [n_layer] where its keys and values lie; group -1: it has none */
    dev_kv   *index;                                  /* [n_layer] where keys of its indexer lie: a head, without values */
    dev_kv   *raw;                                    /* [n_layer][2] what keys of groups of positions, and those of the indexer,
                                                       * are made of: values, and gates in place of V, in f32 */
    dev_kv   *pool;                                   /* [n_layer][2] those keys, one for each group: ops__pooled_at() */
    dev_state *state;                                 /* [n_layer] of recurrent layers */
    dev_state *conv;                                  /* [n_layer][ARCH_CONVS] of convolutions apart from them */
    int       n_layer;                                /* layers of the model, draft heads among them */
    kv_group *group;                                  /* [n_group] */
    int       n_group;                                /* groups of layers */
    int       states;                                 /* the group of recurrent states, -1: none */
    kv_load   load;                                   /* what the bounds are made for */
    int       max_blocks;                             /* of the groups that keep all positions */
    int       lacking;                                /* group without a block for the last reservation that failed */
    kv_copy  *copy;                                   /* [n_copy] due in this order, before any block is written to */
    int       n_copy;                                 /* copies that are due */
    int      *gap;                                    /* [n_group] scratch of kv__match */
    int64_t  *cost;                                   /* [n_group] scratch of kv_add_demand */
    int32_t  *mark;                                   /* [block] scratch of kv__root */
    kv_tree  *tree;                                   /* NULL: sequences share by kv_fork() alone */
    const dev_adapters *adapters;                     /* of a sequence that names none; NULL: none */
} kv_cache;

typedef struct kv_seq {
    kv_cache *kv;                                     /* whose blocks it holds */
    const dev_adapters *adapters;                     /* that change its keys and values; NULL: none */
    int       n;                                      /* positions reserved: 0 <= p < n may be read and written */
    int       source;                                 /* of them, those of the text that an encoder reads; 0: there is none */
    int32_t **table;                                  /* [n_group][n_blocks] block numbers, -1: given back */
    int      *n_blocks;                               /* [n_group] */
    int      *first;                                  /* [n_group] first entry that is not given back */
    int       n_known;                                /* blocks that the tree has nodes for, from the first on */
    int32_t   tip;                                    /* the node of the last of them; the root without one */
    int       keep;                                   /* blocks of positions from here on leave the tree with the sequence */
    int32_t   state;                                  /* slot that the next step reads, -1: zeros */
    int32_t   own;                                    /* slot that the next step writes, -1: not taken yet */
    int       state_at;                               /* position of `state`; INT_MAX: a step that failed has spoilt it */
    int       filled;                                 /* positions that it has taken in or has in its log */
    int       hold;                                   /* it stays at this position as long as its log can; INT_MAX: nowhere */
    int32_t   snap;                                   /* slot of the snapshot that the coming step fills, -1: none */
    int       snap_at;                                /* position of that snapshot */
    int       rolled;                                 /* position of the last snapshot that the next may replace, 0: none */
} kv_seq;

/* A quantised block has one scale. Trained models have channels far above the others, which would leave next to nothing of
 * them. */
static int kv__hadamard(uint32_t type, int hd) { return k_types[type].block > 1 ? k_hadamard_size(hd) : 1; }

/* The longest transform of values: with runs of 256, a whole head of Gemma 3, caches of q4_0 lose a third more. */
enum { KV_HADAMARD_V = 64 };

static size_t kv__aligned(size_t n) { return (n + 63) & ~(size_t)63; }

/* The group for a rule; a new one for a rule that no layer had yet. */
static int kv__group_of(kv_cache *kv, kv_rule rule, int window, bool chunked) {
    int i = 0;
    for (; i < kv->n_group; i++) {
        const kv_group *gr = &kv->group[i];
        if (gr->rule == rule && gr->window == window && gr->chunked == chunked) break;
    }
    if (i == kv->n_group)
        kv->group[kv->n_group++] = (kv_group){.rule = rule, .window = window, .chunked = chunked, .oldest = -1, .newest = -1};
    return i;
}

/* Places the state of a recurrent layer after the *at bytes of a slot that other layers have. */
static dev_state kv__place_state(const arch_rec *r, size_t *at) {
    dev_state l = {.taps = r->taps, .width = r->width, .log = DEV_LOG, .n_k = r->n_k, .n_v = r->n_v, .d_k = r->d_k, .d_v = r->d_v,
                   .ring_at = *at};
    for (int i = 0; i < 2; i++) l.n_gate[i] = r->n_gate[i];
    l.gate_at = l.ring_at + kv__aligned(sizeof(float) * (size_t)(r->taps - 1 + DEV_LOG) * (size_t)r->width);
    l.sum_at = l.gate_at + kv__aligned(sizeof(float) * DEV_LOG * ((size_t)r->n_gate[0] + (size_t)r->n_gate[1]));
    *at = l.sum_at + kv__aligned(sizeof(float) * (size_t)r->n_v * (size_t)r->d_k * (size_t)r->d_v);
    return l;
}

/* Bytes of the state of a layer for one sequence; 0: it has none. */
static size_t kv_state_bytes(const arch_layer_hp *lh) {
    size_t n = 0;
    if (lh->rec.width) kv__place_state(&lh->rec, &n);
    for (int i = 0; i < ARCH_CONVS; i++)
        if (lh->conv[i].width) kv__place_state(&lh->conv[i], &n);
    return n;
}

/* The same of all layers of a model. */
static size_t kv_slot_bytes(const arch_hparams *hp) {
    size_t n = 0;
    for (int il = 0; il < hp->n_layer; il++) n += kv_state_bytes(&hp->layer[il]);
    return n;
}

/* Places a layer in the blocks of its group, after the layers placed before. on_gpu: the GPU that runs it, -1: the host. */
static dev_kv kv__layer(kv_cache *kv, const arch_layer_hp *lh, int on_gpu) {
    const kv_opts *o = &kv->opts;
    const int      window = lh->view != VIEW_ALL ? lh->window : 0;    /* a text that sees both ways is one step: all is needed */
    const int      i = kv__group_of(kv, window ? KV_WINDOW : KV_ALL, window, lh->view == VIEW_CHUNK);
    size_t        *at = &kv->group[i].mem.block_bytes;
    dev_kv         l = {.mem = &kv->group[i].mem, .group = i, .block = o->block, .k_at = *at, .v_at = *at};
    l.n_head = lh->n_head_kv;
    l.shared = lh->rank > 0;
    l.type_k = o->type_k;
    l.type_v = l.shared ? o->type_k : o->type_v;
    l.hd_k = lh->hd_k;
    l.hd_v = lh->hd_v;
    l.hadamard_k = kv__hadamard(l.type_k, !l.shared ? l.hd_k : l.hd_k > l.hd_v ? l.hd_k - l.hd_v : 1);
    l.hadamard_v = kv__hadamard(l.type_v, l.hd_v);
    if (!l.shared && l.hadamard_v > KV_HADAMARD_V) l.hadamard_v = KV_HADAMARD_V;
    l.k_stride = k_kv_bytes(l.type_k, l.hd_k);
    l.v_stride = l.shared ? l.k_stride : k_kv_bytes(l.type_v, l.hd_v);
    *at += kv__aligned((size_t)l.n_head * (size_t)l.block * l.k_stride);
    if (!l.shared) l.v_at = *at, *at += kv__aligned((size_t)l.n_head * (size_t)l.block * l.v_stride);
    kv->group[i].end[1 + on_gpu] = *at;
    return l;
}

/* Places the keys of a layer's indexer after its keys and values. */
static dev_kv kv__index(kv_cache *kv, const dev_kv *of, int hd, int on_gpu) {
    size_t *at = &kv->group[of->group].mem.block_bytes;
    dev_kv  l = {.mem = of->mem, .group = of->group, .block = of->block, .k_at = *at, .v_at = *at, .n_head = 1, .shared = true,
                 .type_k = of->type_k, .type_v = of->type_k, .hd_k = hd, .hadamard_v = 1};
    l.hadamard_k = kv__hadamard(l.type_k, hd);
    l.k_stride = l.v_stride = k_kv_bytes(l.type_k, hd);
    *at += kv__aligned((size_t)l.block * l.k_stride);
    kv->group[of->group].end[1 + on_gpu] = *at;
    return l;
}

/* Places keys of groups of `of->ratio` positions, hd values each (which are values too where `whole`), and what they are made of.
 * Of a group, a block has what ends in it. */
static void kv__pool(kv_cache *kv, const arch_layer_hp *of, int hd, bool whole, int on_gpu, dev_kv *raw, dev_kv *to) {
    const int block = kv->opts.block, wide = hd * (of->pool_span / of->ratio), all = kv__group_of(kv, KV_ALL, 0, false),
              few = kv__group_of(kv, KV_WINDOW, of->pool_span, false);
    size_t   *at = &kv->group[all].mem.block_bytes;
    *to = (dev_kv){.mem = &kv->group[all].mem, .group = all, .block = block, .k_at = *at, .v_at = *at, .n_head = 1,
                   .shared = true, .type_k = kv->opts.type_k, .type_v = kv->opts.type_k, .hd_k = hd, .hd_v = whole ? hd : 0};
    to->hadamard_k = whole ? 1 : kv__hadamard(to->type_k, hd);
    to->hadamard_v = whole ? kv__hadamard(to->type_k, hd) : 1;
    to->k_stride = to->v_stride = k_kv_bytes(to->type_k, hd);
    *at += kv__aligned((size_t)((block - 1) / of->ratio + 1) * to->k_stride);
    kv->group[all].end[1 + on_gpu] = *at;
    at = &kv->group[few].mem.block_bytes;
    *raw = (dev_kv){.mem = &kv->group[few].mem, .group = few, .block = block, .k_at = *at, .n_head = 1, .type_k = K_F32,
                    .type_v = K_F32, .hd_k = wide, .hd_v = wide, .hadamard_k = 1, .hadamard_v = 1};
    raw->k_stride = raw->v_stride = k_kv_bytes(K_F32, wide);
    raw->v_at = *at += kv__aligned((size_t)block * raw->k_stride);
    *at += kv__aligned((size_t)block * raw->v_stride);
    kv->group[few].end[1 + on_gpu] = *at;
}

/* Places the states of layer il, if it has any, after those of the layers before it. */
static void kv__layer_states(kv_cache *kv, const arch_layer_hp *lh, int il, int on_gpu) {
    if (!kv_state_bytes(lh)) return;
    kv_group *gr = &kv->group[kv->states = kv__group_of(kv, KV_STATE, 0, false)];
    for (int i = -1; i < ARCH_CONVS; i++) {
        const arch_rec *r = i < 0 ? &lh->rec : &lh->conv[i];
        dev_state      *to = i < 0 ? &kv->state[il] : &kv->conv[il * ARCH_CONVS + i];
        if (!r->width) continue;
        *to = kv__place_state(r, &gr->mem.block_bytes);
        to->mem = &gr->mem;
        to->group = kv->states;
    }
    gr->end[1 + on_gpu] = gr->mem.block_bytes;
}

/* Frees the cache, whose sequences are freed before; NULL is fine. */
static void kv_free(kv_cache *kv) {
    if (!kv) return;
    for (int i = 0; i < kv->n_group; i++) {
        dev_blocks_free(&kv->group[i].mem);
        mem_free_all(kv->group[i].block, kv->group[i].spare);
    }
    if (kv->tree) mem_free_all(kv->tree->node, kv->tree->token, kv->tree->part, kv->tree->slot, kv->tree->fresh);
    mem_free_all(kv->tree, kv->gap, kv->cost, kv->mark, kv->copy, kv->group, kv->layer, kv->index, kv->raw, kv->pool, kv->state,
                 kv->conv, kv);
}

/* Most blocks that a sequence holds of a group with a window: what its first row sees, the rows of a step, and a copy. */
static int64_t kv__window_blocks(const kv_cache *kv, const kv_group *gr) {
    return ((int64_t)gr->window + kv->load.rows) / kv->opts.block + 3;
}

/* Blocks of group i where groups that keep all positions have n. The sequences that run need at most kv__window_blocks() each of
 * a group with a window. It gets twice that, so that prefixes of waiting sequences stay cached; and all memory that is left, once
 * the others have `most`. */
static int64_t kv__blocks_of(const kv_cache *kv, int i, int64_t n, int64_t most) {
    const kv_group *gr = &kv->group[i];
    const int64_t   each = kv__window_blocks(kv, gr) * kv->load.seqs;
    bool            alone = true;
    for (int k = 0; k < kv->n_group; k++) alone = alone && kv->group[k].rule != KV_ALL;
    if (gr->rule == KV_STATE) return 0;
    if (gr->rule == KV_WINDOW) return min_i64(n, alone || n > most || !each ? most + each : 2 * each);
    return min_i64(n, most);
}

/* Bytes of all blocks that the bound allows. */
static uint64_t kv_bytes_most(const kv_cache *kv) {
    uint64_t n = 0;
    for (int i = 0; i < kv->n_group; i++) n += (uint64_t)kv->group[i].mem.max_blocks * kv->group[i].mem.block_bytes;
    return n;
}

/* The same with the blocks that kv__blocks_of() gives. */
static uint64_t kv__bytes_of(const kv_cache *kv, int64_t n, int64_t most) {
    uint64_t sum = 0;
    for (int i = 0; i < kv->n_group; i++) sum += (uint64_t)kv__blocks_of(kv, i, n, most) * kv->group[i].mem.block_bytes;
    return sum;
}

/* Decides how many blocks each group of keys and values may have. False: not even one. */
static bool kv__bound_blocks(kv_cache *kv, err_t *e) {
    const kv_opts *o = &kv->opts;
    const int64_t  most = (kv->load.tokens - 1) / o->block + 1;
    int64_t        n = 1, end = most;
    for (int i = 0; i < kv->n_group; i++)
        if (kv->group[i].rule == KV_WINDOW) end = max_i64(end, most + kv__window_blocks(kv, &kv->group[i]) * kv->load.seqs);
    end = min_i64(end, o->max_blocks ? o->max_blocks : INT32_MAX);
    if (o->mem_bytes && kv__bytes_of(kv, 1, most) > o->mem_bytes)
        return err_set(e, EXIT_RESOURCE, "a KV cache of %llu bytes, expected at least one block of %llu (--kv-mem)",
                       (unsigned long long)o->mem_bytes, (unsigned long long)kv__bytes_of(kv, 1, most));
    if (!o->mem_bytes) n = end;
    while (n < end) {                                 /* the largest n that fits */
        const int64_t half = n + (end - n + 1) / 2;
        if (kv__bytes_of(kv, half, most) <= o->mem_bytes) n = half;
        else end = half - 1;
    }
    for (int i = 0; i < kv->n_group; i++) {
        dev_blocks *mem = &kv->group[i].mem;
        *mem = dev_blocks_new(mem->block_bytes, (int)kv__blocks_of(kv, i, n, most));
        if (kv->load.gpus && kv->group[i].rule != KV_STATE) dev_blocks_split(mem, kv->load.gpus, kv->group[i].end);
    }
    kv->max_blocks = (int)min_i64(n, most);
    return true;
}

/* Decides how many slots there are: what the options say, else one for each sequence and, for snapshots, a quarter of what
 * keys and values may take, but two at least; no more than GPUs hold. False: not even one. */
static bool kv__bound_states(kv_cache *kv, err_t *e) {
    const kv_opts *o = &kv->opts;
    uint64_t       kept = o->mem_bytes;
    if (kv->states < 0) return true;
    dev_blocks *mem = &kv->group[kv->states].mem;
    if (!kept) kept = kv_bytes_most(kv);
    const uint64_t own = (uint64_t)kv->load.seqs + max_u64(kept / 4 / mem->block_bytes, 2);
    uint64_t       n = o->state_bytes ? o->state_bytes / mem->block_bytes : own;
    if (kv->load.slots) n = min_u64(n, (uint64_t)kv->load.slots);
    if (n < 1)
        return err_set(e, EXIT_RESOURCE, "%llu bytes for recurrent states, expected at least one of %zu bytes (--state-mem)",
                       (unsigned long long)o->state_bytes, mem->block_bytes);
    *mem = dev_blocks_new(mem->block_bytes, (int)min_u64(n, INT32_MAX));
    if (kv->load.gpus) dev_blocks_split(mem, kv->load.gpus, kv->group[kv->states].end);
    return true;
}

/* An empty cache for a model of these sizes. NULL: the bounds hold not even one block of each group; e is set. */
static kv_cache *kv_new(const arch_hparams *hp, const kv_opts *o, kv_load load, err_t *e) {
    kv_cache *kv = mem_new(1, sizeof *kv);
    *kv = (kv_cache){.opts = *o, .load = load, .states = -1, .n_layer = arch_layers(hp)};
    kv->layer = mem_new((size_t)kv->n_layer, sizeof *kv->layer);
    kv->index = mem_new((size_t)kv->n_layer, sizeof *kv->index);
    kv->raw = mem_new((size_t)kv->n_layer * 2, sizeof *kv->raw);
    kv->pool = mem_new((size_t)kv->n_layer * 2, sizeof *kv->pool);
    kv->state = mem_new((size_t)kv->n_layer, sizeof *kv->state);
    kv->conv = mem_new((size_t)kv->n_layer * ARCH_CONVS, sizeof *kv->conv);
    kv->group = mem_new(3 * (size_t)kv->n_layer + 1, sizeof *kv->group);
    for (int il = 0; il < kv->n_layer; il++) {
        const arch_layer_hp *lh = &hp->layer[il];
        const int            on_gpu = dev_gpus_of(load.gpus, il);
        kv->layer[il].group = -1;
        if (lh->kv_back || lh->kv_over) kv->layer[il] = kv->layer[il - max_int(lh->kv_back, 1)];
        else if (lh->n_head_kv) kv->layer[il] = kv__layer(kv, lh, on_gpu);
        if (lh->pool_span) kv__pool(kv, lh, lh->hd_k, true, on_gpu, &kv->raw[2 * il], &kv->pool[2 * il]);
        if (lh->pool_span && lh->indexed)
            kv__pool(kv, lh, hp->hd_index, false, on_gpu, &kv->raw[2 * il + 1], &kv->pool[2 * il + 1]);
        if (lh->indexed && !lh->pool_span) kv->index[il] = kv__index(kv, &kv->layer[il], hp->hd_index, on_gpu);
        kv__layer_states(kv, lh, il, on_gpu);
    }
    kv->gap = mem_new((size_t)kv->n_group, sizeof *kv->gap);
    kv->cost = mem_new((size_t)kv->n_group, sizeof *kv->cost);
    kv->mark = mem_new((size_t)kv->opts.block, sizeof *kv->mark);
    if (kv__bound_blocks(kv, e) && kv__bound_states(kv, e)) return kv;
    kv_free(kv);
    return NULL;
}

/* Blocks that are mapped from here on: keys and values of a head lie on the memory node of the threads that [ops] deals its
 * attention to. Layers that GPUs run and recurrent states are left out. */
static void kv_place(kv_cache *kv, const pool *p) {
    for (int k = 0; k < pool_nodes(p) && pool_nodes(p) > 1; k++) {       /* node by node: see dev__touch() */
        const pool_node *o = pool_node_of(p, k);
        for (int il = 0; il < kv->n_layer; il++) {
            const dev_kv *l = &kv->layer[il];
            if (l->group < 0) continue;
            const size_t from = (size_t)(l->n_head * o->from / p->n), end = (size_t)(l->n_head * (o->from + o->n) / p->n),
                         k_head = (size_t)l->block * l->k_stride, v_head = (size_t)l->block * l->v_stride;
            dev_blocks  *mem = &kv->group[l->group].mem;
            dev_blocks_place(mem, (dev_spot){l->k_at + from * k_head, (end - from) * k_head, o->memory});
            if (!l->shared) dev_blocks_place(mem, (dev_spot){l->v_at + from * v_head, (end - from) * v_head, o->memory});
        }
    }
}

/* First block that a sequence of n positions has to hold for its rows from n - 1 on. A state stands for all positions before
 * it. */
static int kv__seen(const kv_cache *kv, int i, int n) {
    const kv_group *gr = &kv->group[i];
    switch (gr->rule) {
    case KV_WINDOW:
        if (gr->chunked) return n ? (n - 1) / gr->window * gr->window / kv->opts.block : 0;
        return n > gr->window ? (n - gr->window) / kv->opts.block : 0;
    case KV_STATE: return n ? (n - 1) / kv->opts.block : 0;
    default: return 0;
    }
}

/* Positions that one sequence alone may reach under the bound, and, in *rows, how many it may add at once: where a group gives
 * blocks back, those that it still needs count against the step. */
static int kv_most(const kv_cache *kv, int *rows) {
    int64_t n = INT32_MAX, step = INT32_MAX;
    for (int i = 0; i < kv->n_group; i++) {
        const kv_group *gr = &kv->group[i];
        const int64_t   all = (int64_t)gr->mem.max_blocks * kv->opts.block, room = all - kv->opts.block - gr->window;
        if (gr->rule == KV_STATE) continue;
        if (gr->rule == KV_WINDOW && room > 0) step = min_i64(room, step);
        else n = min_i64(all, n);
    }
    *rows = (int)step;
    return (int)n;
}

/* --- the prefix tree --- */

/* The slot of the child of `parent` with these tokens. */
static int32_t *kv__slot(const kv_cache *kv, int32_t parent, const int32_t *ids) {
    const kv_tree *t = kv->tree;
    const bytes    b = {(const uint8_t *)ids, (size_t)kv->opts.block * sizeof *ids};
    return &t->slot[bytes_hash(t->seed ^ (uint64_t)parent, b) & (uint64_t)(t->n_slot - 1)];
}

/* The tokens of node i, [block]; the root has none. */
static int32_t *kv_node_tokens(const kv_cache *kv, int32_t i) { return kv->tree->token + (size_t)i * (size_t)kv->opts.block; }

/* What node i has in each group, [n_group]. */
static kv_part *kv_parts(const kv_cache *kv, int32_t i) { return kv->tree->part + (size_t)i * (size_t)kv->n_group; }

/* The child of `parent` with these tokens; -1: there is none. */
static int32_t kv__find(const kv_cache *kv, int32_t parent, const int32_t *ids) {
    const size_t n = (size_t)kv->opts.block * sizeof *ids;
    for (int32_t i = *kv__slot(kv, parent, ids); i >= 0; i = kv->tree->node[i].chain)
        if (kv->tree->node[i].parent == parent && memcmp(kv_node_tokens(kv, i), ids, n) == 0) return i;
    return -1;
}

/* Makes sure that there is an unused node. */
static void kv__tree_room(kv_cache *kv) {
    kv_tree  *t = kv->tree;
    const int cap = t->cap ? 2 * t->cap : 256;
    if (t->unused >= 0) return;
    t->node = mem_grow(t->node, (size_t)cap, sizeof *t->node);
    t->token = mem_grow(t->token, (size_t)cap * (size_t)kv->opts.block, sizeof *t->token);
    t->part = mem_grow(t->part, (size_t)cap * (size_t)kv->n_group, sizeof *t->part);
    t->slot = mem_grow(t->slot, t->n_slot = (size_t)cap, sizeof *t->slot);
    for (int i = cap - 1; i >= t->cap; i--) {
        t->node[i].chain = t->unused;
        t->unused = i;
    }
    for (int i = 0; i < t->n_slot; i++) t->slot[i] = -1;
    for (int i = 1; i < t->cap; i++) {                /* all of them are in use */
        int32_t *slot = kv__slot(kv, t->node[i].parent, kv_node_tokens(kv, i));
        t->node[i].chain = *slot;
        *slot = i;
    }
    t->cap = cap;
}

static int32_t kv__node_new(kv_cache *kv, int32_t parent, const int32_t *ids) {
    kv_tree *t = kv->tree;
    kv__tree_room(kv);
    const int32_t i = t->unused, sibling = t->node[parent].child;
    t->unused = t->node[i].chain;
    memcpy(kv_node_tokens(kv, i), ids, (size_t)kv->opts.block * sizeof *ids);
    for (int g = 0; g < kv->n_group; g++) kv_parts(kv, i)[g] = (kv_part){-1, -1};
    int32_t *slot = kv__slot(kv, parent, ids);
    t->node[i] = (kv_node){.parent = parent, .child = -1, .left = -1, .right = sibling, .chain = *slot};
    if (sibling >= 0) t->node[sibling].left = i;
    t->node[parent].child = *slot = i;
    return i;
}

static bool kv__has(const kv_part *p) { return p->block >= 0 || p->stored >= 0; }

/* Whether the blocks of the node are filled. */
static bool kv__ready(const kv_cache *kv, int32_t i) {
    bool yes = true;
    for (int g = 0; yes && g < kv->n_group; g++) {
        const int32_t b = kv_parts(kv, i)[g].block;
        yes = b < 0 || !kv->group[g].block[b].fresh;
    }
    return yes;
}

/* Whether the node serves somebody: it has a block, or other nodes or sequences depend on it. */
static bool kv__needed(const kv_cache *kv, int32_t i) {
    bool yes = kv->tree->node[i].child >= 0 || kv->tree->node[i].pins;
    for (int g = 0; !yes && g < kv->n_group; g++) yes = kv__has(&kv_parts(kv, i)[g]);
    return yes;
}

/* Removes the node where nobody needs it, and then its parents. */
static void kv__prune(kv_cache *kv, int32_t i) {
    kv_tree *t = kv->tree;
    while (i > 0 && !kv__needed(kv, i)) {
        const kv_node n = t->node[i];
        int32_t      *at = kv__slot(kv, n.parent, kv_node_tokens(kv, i));
        while (*at != i) at = &t->node[*at].chain;
        *at = n.chain;
        if (n.left >= 0) t->node[n.left].right = n.right;
        else t->node[n.parent].child = n.right;
        if (n.right >= 0) t->node[n.right].left = n.left;
        t->node[i].chain = t->unused;
        t->unused = i;
        i = n.parent;
    }
}

/* The block joins the idle ones as the newest; a weak one as the oldest, so that it is evicted first. */
static void kv__idle(kv_group *gr, int32_t b) {
    kv_block *k = &gr->block[b];
    k->older = k->weak ? -1 : gr->newest;
    k->newer = k->weak ? gr->oldest : -1;
    if (k->older >= 0) gr->block[k->older].newer = b;
    else gr->oldest = b;
    if (k->newer >= 0) gr->block[k->newer].older = b;
    else gr->newest = b;
    gr->n_idle++;
}

/* The block leaves the idle ones. */
static void kv__busy(kv_group *gr, int32_t b) {
    const kv_block k = gr->block[b];
    if (k.older >= 0) gr->block[k.older].newer = k.newer;
    else gr->oldest = k.newer;
    if (k.newer >= 0) gr->block[k.newer].older = k.older;
    else gr->newest = k.older;
    gr->n_idle--;
}

/* The tree drops its reference to block b of group i. */
static void kv__forget(kv_cache *kv, int i, int32_t b) {
    kv_block     *k = &kv->group[i].block[b];
    const int32_t node = k->node;
    kv_parts(kv, node)[i].block = -1;
    k->node = -1;
    k->refs--;
    kv__prune(kv, node);
}

/* Turns sharing by content on, in a cache that is empty yet. */
static void kv_share(kv_cache *kv) {
    ASSERT(!kv->tree);
    kv->tree = mem_new(1, sizeof *kv->tree);
    kv->tree->unused = -1;
    kv->tree->seed = rng_mix(rng_fresh());
    kv__tree_room(kv);
    kv->tree->unused = kv->tree->node[0].chain;
    kv->tree->node[0] = (kv_node){.parent = -1, .child = -1, .left = -1, .right = -1, .chain = -1};
}

/* The node after another in a walk through the tree, parents first; 0 begins and ends it. */
static int32_t kv_next(const kv_tree *t, int32_t i) {
    if (t->node[i].child >= 0) return t->node[i].child;
    while (i > 0 && t->node[i].right < 0) i = t->node[i].parent;
    return i > 0 ? t->node[i].right : 0;
}

/* Sets the function that reads a stored block into a block of the cache. It returns false where the stored one is damaged. */
static void kv_fetcher(kv_cache *kv, bool (*fetch)(void *ctx, int group, int32_t stored, int32_t block), void *ctx) {
    kv->tree->fetch = fetch;
    kv->tree->fetch_ctx = ctx;
}

/* Whether the tokens of a block are a part of the mark of adapters. */
static bool kv_is_mark(const kv_cache *kv, const int32_t *ids) {
    bool yes = true;
    for (int i = 0; yes && i < kv->opts.block; i++) yes = ids[i] < 0;
    return yes;
}

/* Adds a node for a block that is stored on disk, stored [n_group]: its number there in each group, -1: not there. Returns
 * the node. */
static int32_t kv_add_stored(kv_cache *kv, int32_t parent, const int32_t *ids, const int32_t *stored) {
    int32_t i = kv__find(kv, parent, ids);
    if (i < 0) i = kv__node_new(kv, parent, ids);
    for (int g = 0; g < kv->n_group; g++)
        if (stored[g] >= 0) kv_parts(kv, i)[g].stored = stored[g];
    return i;
}

/* --- blocks --- */

/* Notes a copy that is due. */
static void kv__copy(kv_cache *kv, int i, int32_t from, int32_t to) {
    kv->copy = mem_reserve(kv->copy, (uint64_t)kv->n_copy, UINT64_MAX, sizeof *kv->copy);
    kv->copy[kv->n_copy++] = (kv_copy){i, from, to};
}

/* Does the copies that are due. A step begins with it, and so does everything else that reads or writes blocks. */
static void kv_flush(kv_cache *kv) {
    for (int i = 0; i < kv->n_copy; i++) dev_blocks_copy(&kv->group[kv->copy[i].group].mem, kv->copy[i].from, kv->copy[i].to);
    kv->n_copy = 0;
}

/* Maps more blocks; false where the bound or the system's memory is reached. */
static bool kv__more(kv_group *gr) {
    const int32_t first = dev_blocks_mapped(&gr->mem);
    if (!dev_blocks_more(&gr->mem)) {
        gr->starved = gr->starved || first < gr->mem.max_blocks;
        gr->mem.max_blocks = first;                   /* no sequence may wait for blocks beyond these */
        return false;
    }
    const int32_t end = dev_blocks_mapped(&gr->mem);
    gr->block = mem_grow(gr->block, (size_t)end, sizeof *gr->block);
    gr->spare = mem_grow(gr->spare, (size_t)end, sizeof *gr->spare);
    for (int32_t b = end - 1; b >= first; b--) {
        gr->block[b] = (kv_block){.node = -1, .older = -1, .newer = -1};
        gr->spare[gr->n_spare++] = b;
    }
    return true;
}

/* A block of group i with one reference: a spare one, or else the one idle longest. -1: sequences hold every block. */
static int32_t kv__take(kv_cache *kv, int i) {
    kv_group *gr = &kv->group[i];
    int32_t   b;
    if (gr->n_spare || kv__more(gr)) {
        b = gr->spare[--gr->n_spare];
        gr->n_used++;
    } else if ((b = gr->oldest) >= 0) {
        kv__busy(gr, b);
        kv__forget(kv, i, b);
    } else return -1;
    gr->block[b].refs = 1;
    gr->block[b].weak = false;
    gr->n_peak = max_int(gr->n_peak, gr->n_used);
    return b;
}

/* Drops one reference to block b of group i, -1: none. A block that only the tree holds then is idle, or with !stay forgotten. */
static void kv__release(kv_cache *kv, int i, int32_t b, bool stay) {
    kv_group *gr = &kv->group[i];
    if (b < 0) return;
    kv_block *k = &gr->block[b];
    k->refs--;
    if (k->node >= 0 && k->refs == 1) {
        ASSERT(!k->fresh);
        if (stay) kv__idle(gr, b);
        else kv__forget(kv, i, b);
    }
    if (k->refs) return;
    gr->spare[gr->n_spare++] = b;
    gr->n_used--;
}

/* Blocks that group i can still give: spare, idle, or not yet mapped. */
static int64_t kv__room(const kv_cache *kv, int i) {
    const kv_group *gr = &kv->group[i];
    return (int64_t)gr->mem.max_blocks - gr->n_used + gr->n_idle;
}

/* Blocks of keys and values that sequences hold; *peak: the most that were ever in use, idle ones among them. Both of the
 * group with the most. */
static int kv_held(const kv_cache *kv, int *peak) {
    int held = *peak = 0;
    for (int i = 0; i < kv->n_group; i++) {
        const kv_group *gr = &kv->group[i];
        if (gr->rule == KV_STATE) continue;
        *peak = max_int(*peak, gr->n_peak);
        held = max_int(held, gr->n_used - gr->n_idle);
    }
    return held;
}

enum { KV_MARK_BITS = 31, KV_MARKS = 2 };             /* a mark of adapters is so many tokens, all of them negative */

/* Token k of the mark of adapters. */
static int32_t kv__mark_token(uint64_t mark, int k) {
    return k < KV_MARKS ? ~(int32_t)(mark >> (k * KV_MARK_BITS) & ((UINT64_C(1) << KV_MARK_BITS) - 1)) : -1;
}

/* The node below which all sequences with these adapters lie, since their keys and values are others than those of equal tokens
 * without them: it stands for the mark of the adapters, as if that were text. -1: there is none, unless it is to be made. */
static int32_t kv__root(kv_cache *kv, const dev_adapters *a, bool make) {
    const int block = kv->opts.block;
    int32_t   node = 0;
    for (int k = 0; a && a->n && node >= 0 && k < KV_MARKS; k += block) {
        for (int i = 0; i < block; i++) kv->mark[i] = kv__mark_token(a->mark, k + i);
        const int32_t next = kv__find(kv, node, kv->mark);
        node = next >= 0 || !make ? next : kv__node_new(kv, node, kv->mark);
    }
    return node;
}

/* An empty sequence with these adapters, without blocks; to be freed by kv_seq_free(). */
static kv_seq *kv_seq_of(kv_cache *kv, const dev_adapters *a) {
    kv_seq *s = mem_new(1, sizeof *s);
    if (a && !a->n) a = NULL;
    *s = (kv_seq){.kv = kv, .adapters = a, .keep = INT_MAX, .hold = INT_MAX, .state = -1, .own = -1, .snap = -1};
    if (kv->tree) kv->tree->node[s->tip = kv__root(kv, a, true)].pins++;
    s->table = mem_new((size_t)kv->n_group, sizeof *s->table);
    s->n_blocks = mem_new((size_t)kv->n_group, sizeof *s->n_blocks);
    s->first = mem_new((size_t)kv->n_group, sizeof *s->first);
    return s;
}

/* The same with the adapters of the cache. */
static kv_seq *kv_seq_new(kv_cache *kv) { return kv_seq_of(kv, kv->adapters); }

/* Appends a block number to the table of group i. */
static void kv__append(kv_seq *s, int i, int32_t b) {
    s->table[i] = mem_reserve(s->table[i], (uint64_t)s->n_blocks[i], UINT64_MAX, sizeof **s->table);
    s->table[i][s->n_blocks[i]++] = b;
}

/* The sequence gives back its blocks of group i before `past`. */
static void kv__leave(kv_seq *s, int i, int past) {
    for (; s->first[i] < past; s->first[i]++) {
        const bool stay = (int64_t)(s->first[i] + 1) * s->kv->opts.block <= s->keep;
        kv__release(s->kv, i, s->table[i][s->first[i]], stay);
        s->table[i][s->first[i]] = -1;
    }
}

/* Node i becomes that of the sequence's last known block. */
static void kv__tip(kv_seq *s, int32_t i) {
    const int32_t old = s->tip;
    s->kv->tree->node[i].pins++;
    s->kv->tree->node[old].pins--;
    s->tip = i;
    kv__prune(s->kv, old);
}

/* Makes sure that node n has a block of group i; one that is read from disk is idle at first. False: there is none, or no
 * free block for it, or it is damaged on disk and forgotten. */
static bool kv__fetch(kv_cache *kv, int i, int32_t n) {
    kv_group     *gr = &kv->group[i];
    kv_part      *p = &kv_parts(kv, n)[i];
    if (p->block >= 0) return true;
    const int32_t b = p->stored < 0 ? -1 : kv__take(kv, i);
    if (b < 0) return false;
    kv_flush(kv);
    if (!kv->tree->fetch(kv->tree->fetch_ctx, i, p->stored, b)) {
        p->stored = -1;
        kv__release(kv, i, b, false);
        kv__prune(kv, n);
        return false;
    }
    p->block = b;
    gr->block[b].node = n;
    kv__idle(gr, b);
    return true;
}

/* --- recurrent states --- */

/* Whether a layer of the model is recurrent. */
static bool kv_has_states(const kv_cache *kv) { return kv->states >= 0; }

/* Whether block b of group i is a snapshot that is evicted first: no sequence has used it, and it was not made to last. */
static bool kv_is_weak(const kv_cache *kv, int i, int32_t b) { return kv->group[i].block[b].weak; }

/* The sequence drops its state. */
static void kv__state_drop(kv_seq *s) {
    ASSERT(s->snap < 0);
    if (s->own != s->state) kv__release(s->kv, s->kv->states, s->own, false);
    kv__release(s->kv, s->kv->states, s->state, true);
    s->state = s->own = -1;
    s->state_at = s->filled = 0;
}

/* The sequence goes on from the snapshot of a node that ends at position `at`. False: there is none, or it cannot be read. */
static bool kv__state_adopt(kv_seq *s, int32_t node, int at) {
    kv_cache     *kv = s->kv;
    kv_group     *gr = &kv->group[kv->states];
    const int32_t had = kv_parts(kv, node)[kv->states].block;
    if ((had >= 0 && gr->block[had].fresh) || !kv__fetch(kv, kv->states, node)) return false;
    const int32_t b = kv_parts(kv, node)[kv->states].block;
    if (gr->block[b].refs++ == 1) kv__busy(gr, b);
    gr->block[b].weak = false;
    kv__state_drop(s);
    s->state = b;
    s->state_at = s->filled = at;
    kv->tree->node[node].used = true;
    return true;
}

/* Brings the state back to at most n positions: within the log, else to a snapshot on the sequence's path. Returns how many. */
static int kv__state_rewind(kv_seq *s, int n) {
    const int block = s->kv->opts.block;
    int       at = s->n_known * block;
    if (n >= s->state_at) {
        s->filled = min_int(s->filled, n);
        return n;
    }
    for (int32_t i = s->tip; at > 0; at -= block, i = s->kv->tree->node[i].parent)
        if (at <= n && kv__state_adopt(s, i, at)) return at;
    kv__state_drop(s);
    return 0;
}

/* The coming steps write to a slot that belongs to the sequence alone. */
static bool kv__state_own(kv_seq *s) {
    kv_cache *kv = s->kv;
    if (s->own >= 0) return true;
    if (s->state >= 0 && kv->group[kv->states].block[s->state].refs == 1) {
        s->own = s->state;
        return true;
    }
    s->own = kv__take(kv, kv->states);
    if (s->own >= 0) return true;
    const kv_block *k = s->state < 0 ? NULL : &kv->group[kv->states].block[s->state];
    if (!k || k->refs != 2 || k->node < 0) return false;
    kv__forget(kv, kv->states, s->state);             /* the snapshot that it goes on from becomes its own */
    s->own = s->state;
    return true;
}

/* Undoes kv__state_own(). */
static void kv__state_disown(kv_seq *s) {
    if (s->own != s->state) kv__release(s->kv, s->kv->states, s->own, false);
    s->own = -1;
}

/* A second sequence gets the state of the first: the same slot, or a copy where the coming step changes that one in place.
 * False: there is none for it. */
static bool kv__state_fork(kv_seq *s, const kv_seq *from) {
    kv_cache *kv = s->kv;
    s->state_at = from->state_at;
    s->filled = from->filled;
    if (from->state < 0) return true;
    if (from->own != from->state) {
        kv->group[kv->states].block[s->state = from->state].refs++;
        return true;
    }
    if ((s->state = kv__take(kv, kv->states)) < 0) return false;
    kv__copy(kv, kv->states, from->state, s->state);
    return true;
}

/* The step that is about to run has rows for positions [p, end) of the sequence. Returns what it does with the state. */
static k_turn kv_advance(kv_seq *s, int p, int end) {
    kv_cache *kv = s->kv;
    if (!kv_has_states(kv)) return (k_turn){.in = -1, .out = -1, .snap = -1};
    if (s->own < 0) s->own = s->state;
    ASSERT(p >= s->state_at && p <= s->filled && end > p && s->own >= 0);
    const int     least = max_int(end - DEV_LOG, s->state_at), to = max_int(least, min_int(s->hold, p));
    const k_turn t = {.in = s->state, .out = s->own, .at = s->state_at, .to = to, .snap = s->snap, .snap_at = s->snap_at};
    if (s->own != s->state) kv__release(kv, kv->states, s->state, true);
    ASSERT(kv->group[kv->states].block[s->own].refs == 1);
    s->state = s->own;
    s->own = s->snap = -1;
    s->state_at = to;
    s->filled = end;
    return t;
}

/* The step has failed: what it wrote of the sequence's state is of no use. */
static void kv_spoil(kv_seq *s) {
    if (kv_has_states(s->kv)) s->state_at = INT_MAX;
}

/* As long as the log can, steps leave the state where it may go back to n positions. */
static void kv_hold(kv_seq *s, int n) { s->hold = n; }

/* The sequence counts as one whose state has taken in n positions, whatever it holds: for benchmarks, whose times depend on
 * no value. */
static void kv_pretend(kv_seq *s, int n) {
    if ((s->state < 0 && s->own < 0) || (n >= s->state_at && n <= s->filled)) return;
    if (s->state < 0) s->state = s->own;
    s->state_at = s->filled = n;
}

enum { KV_STATE_EVERY = LLMRUN_STRESS ? 2 : 512 };    /* positions between two snapshots of a text */

static int kv__every(const kv_cache *kv) {
    const int block = kv->opts.block;
    return KV_STATE_EVERY < block ? block : KV_STATE_EVERY / block * block;
}

/* The last border where a text of n tokens can be gone on from: its last token is never taken from the tree. */
static int kv_last_mark(const kv_cache *kv, int n) { return (n - 1) - (n - 1) % kv->opts.block; }

/* The next position after `at` where a text of n tokens should have a snapshot: every so many, and the last. INT_MAX: none. */
static int kv_next_mark(const kv_cache *kv, int at, int n) {
    const int     every = kv__every(kv), last = kv_last_mark(kv, n);
    const int64_t next = ((int64_t)at / every + 1) * every;
    if (!kv_has_states(kv) || !kv->tree || at >= last) return INT_MAX;
    return next < last ? (int)next : last;
}

/* --- cutting --- */

/* The most positions up to n that the sequence can be cut to. A window must still hold what the row at position n sees. */
static int kv__cut(kv_seq *s, int n) {
    if (n >= s->n) return n;
    if (kv_has_states(s->kv)) n = kv__state_rewind(s, n);
    for (int i = 0; n && i < s->kv->n_group; i++)
        if (s->kv->group[i].rule == KV_WINDOW && s->first[i] > kv__seen(s->kv, i, n + 1)) n = 0;
    if (!n && kv_has_states(s->kv)) kv__state_drop(s);
    return n;
}

/* The tree drops the snapshot of a node if no sequence holds it. */
static void kv__state_forget(kv_cache *kv, int32_t node) {
    kv_group     *gr = &kv->group[kv->states];
    const int32_t b = kv_parts(kv, node)[kv->states].block;
    if (b < 0 || gr->block[b].refs != 1) return;
    kv__busy(gr, b);
    gr->block[b].refs++;
    kv__forget(kv, kv->states, b);
    kv__release(kv, kv->states, b, false);
}

/* Keeps positions 0 <= p < n and returns n. Returns fewer, and keeps only those, where what the row at position n needs is
 * gone: the last snapshot with recurrent states, else 0. */
static int kv_truncate(kv_seq *s, int n) {
    n = kv__cut(s, n);
    const int block = s->kv->opts.block, keep = n ? (n - 1) / block + 1 : 0;
    for (int i = 0; i < s->kv->n_group; i++) {
        for (; s->n_blocks[i] > keep; s->n_blocks[i]--) {
            const bool stay = (int64_t)s->n_blocks[i] * block <= s->keep;
            kv__release(s->kv, i, s->table[i][s->n_blocks[i] - 1], stay);
        }
        if (s->first[i] > s->n_blocks[i]) s->first[i] = s->n_blocks[i];
    }
    if (n < s->n) s->n = n;
    if (n < s->rolled) s->rolled = 0;
    for (; s->n_known > n / block; s->n_known--) {
        const int32_t parent = s->kv->tree->node[s->tip].parent;
        if (kv_has_states(s->kv) && (int64_t)s->n_known * block > s->keep) kv__state_forget(s->kv, s->tip);
        kv__tip(s, parent);
    }
    return n;
}

/* Gives its blocks back; those that the prefix tree has stay for later sequences. */
static void kv_seq_free(kv_seq *s) {
    if (!s) return;
    kv_truncate(s, 0);
    if (kv_has_states(s->kv)) kv__state_drop(s);
    if (s->kv->tree) s->kv->tree->node[s->tip].pins--, kv__prune(s->kv, s->tip);
    for (int i = 0; i < s->kv->n_group; i++) mem_free(s->table[i]);
    mem_free_all(s->table, s->n_blocks, s->first, s);
}

/* A second sequence with the same positions, or with none where no slot is left for its state; both may go on apart. */
static kv_seq *kv_fork(const kv_seq *from) {
    kv_seq *s = kv_seq_of(from->kv, from->adapters);
    s->n = from->n;
    s->keep = from->keep;
    s->source = from->source;
    if (from->kv->tree) kv__tip(s, from->tip);
    s->n_known = from->n_known;
    for (int i = 0; i < s->kv->n_group; i++) {
        s->n_blocks[i] = from->n_blocks[i];
        s->first[i] = from->first[i];
        if (!s->n_blocks[i]) continue;
        s->table[i] = mem_grow(NULL, mem_reserved((size_t)s->n_blocks[i]), sizeof **s->table);
        memcpy(s->table[i], from->table[i], (size_t)from->n_blocks[i] * sizeof **s->table);
        for (int b = s->first[i]; b < s->n_blocks[i]; b++)
            if (s->table[i][b] >= 0) s->kv->group[i].block[s->table[i][b]].refs++;
    }
    if (kv_has_states(s->kv) && !kv__state_fork(s, from)) kv_truncate(s, 0);
    return s;
}

/* Positions from s->n on are about to be written, so the block of group i that s->n falls into must belong to the sequence
 * alone. Where no block is free for a copy, the tree gives its reference up. */
static bool kv__own_last(kv_seq *s, int i) {
    const int at = s->n / s->kv->opts.block;
    if (s->n % s->kv->opts.block == 0 || at >= s->n_blocks[i]) return true;
    const int32_t   old = s->table[i][at];
    const kv_block *k = &s->kv->group[i].block[old];
    if (k->refs == 1) return true;
    const int32_t own = kv__take(s->kv, i);
    k = &s->kv->group[i].block[old];                  /* taking may have moved it */
    if (own < 0 && k->refs == 2 && k->node >= 0 && !k->fresh) {
        kv__forget(s->kv, i, old);
        return true;
    }
    if (own < 0) return false;
    kv__copy(s->kv, i, old, own);
    kv__release(s->kv, i, old, true);
    s->table[i][at] = own;
    return true;
}

/* Blocks of group i for positions below n; gives back those that rows from s->n - 1 on do not need. Of states, the slot that
 * steps write to. */
static bool kv__grow(kv_seq *s, int i, int n) {
    const int block = s->kv->opts.block;
    if (s->kv->group[i].rule == KV_STATE) return kv__state_own(s);
    if (!kv__own_last(s, i)) return false;
    kv__leave(s, i, kv__seen(s->kv, i, s->n));
    for (const int need = (n - 1) / block + 1; s->n_blocks[i] < need;) {
        const int32_t b = kv__take(s->kv, i);
        if (b < 0) return false;
        kv__append(s, i, b);
    }
    return true;
}

/* Reserves positions below n. False where the blocks do not suffice: the sequence is as it was, and the caller frees or truncates
 * another one. */
static bool kv_reserve(kv_seq *s, int n) {
    const bool owned = s->own >= 0;
    bool       ok = true;
    if (n <= s->n) return true;
    for (int i = 0; ok && i < s->kv->n_group; i++)
        if (!(ok = kv__grow(s, i, n))) s->kv->lacking = i;
    if (ok) s->n = n;
    else {
        kv_truncate(s, s->n);
        if (!owned && s->own >= 0) kv__state_disown(s);
    }
    return ok;
}

/* Sets the error of a cache that is too small for n tokens; false. */
static bool kv_full(const kv_cache *kv, int n, err_t *e) {
    if (kv->group[kv->lacking].rule == KV_STATE)
        return err_set(e, EXIT_RESOURCE, "no memory for the recurrent state of one more sequence, %zu bytes (--state-mem)",
                       kv->group[kv->lacking].mem.block_bytes);
    if (kv->group[kv->lacking].starved) return err_set(e, EXIT_RESOURCE, "out of memory: the KV cache of %d tokens", n);
    return err_set(e, EXIT_RESOURCE, "the KV cache has no room for %d tokens (--kv-mem, --kv-blocks)", n);
}

/* kv_reserve where nothing can be freed: false with the error in e. */
static bool kv_require(kv_seq *s, int n, err_t *e) { return kv_reserve(s, n) || kv_full(s->kv, n, e); }

/* --- blocks shared by their content --- */

/* Appends the first n positions of a node's block to the sequence. end: positions of the sequence after the whole match; only
 * groups whose rows still see the block then take it. False: one cannot be had, and nothing is taken. */
static bool kv__attach(kv_seq *s, int32_t node, int n, int end) {
    kv_cache *kv = s->kv;
    const int at = s->n / kv->opts.block;
    for (int i = 0; i < kv->n_group; i++)
        if (at >= kv__seen(kv, i, end) && !kv__fetch(kv, i, node)) return false;
    for (int i = 0; i < kv->n_group; i++) {
        const int32_t b = at < kv__seen(kv, i, end) ? -1 : kv_parts(kv, node)[i].block;
        if (kv->group[i].rule == KV_STATE) {
            if (b >= 0) kv__state_adopt(s, node, end);
            continue;
        }
        kv__append(s, i, b);
        if (b < 0) kv__leave(s, i, s->n_blocks[i]);
        else if (kv->group[i].block[b].refs++ == 1) kv__busy(&kv->group[i], b);
        kv->tree->node[node].used |= b >= 0;
    }
    s->n += n;
    return true;
}

/* The child of the tip whose tokens begin with the most of ids[0, n), and in *same how many; -1: none begins with one of
 * them, or a part of a block is of no use. */
static int32_t kv__nearest(const kv_seq *s, const int32_t *ids, int n, int *same) {
    const kv_cache *kv = s->kv;
    const kv_tree  *t = kv->tree;
    int32_t         best = -1;
    *same = 0;
    if (kv_has_states(kv)) return -1;
    n = min_int(n, kv->opts.block);
    for (int32_t i = t->node[s->tip].child; i >= 0; i = t->node[i].right) {
        const int32_t *mine = kv_node_tokens(kv, i);
        bool           whole = kv__ready(kv, i);
        int            k = 0;
        for (int g = 0; whole && g < kv->n_group; g++) whole = kv__has(&kv_parts(kv, i)[g]);
        while (whole && k < n && mine[k] == ids[k]) k++;
        if (k > *same) *same = k, best = i;
    }
    return best;
}

/* How many blocks of ids[0, n) a sequence can have from the tree, of which the first `from` lead to node `tip`. *wait: the
 * next one is being computed by another sequence. */
static int kv__match(const kv_cache *kv, int32_t tip, int from, const int32_t *ids, int n, bool *wait) {
    const int block = kv->opts.block;
    int       walked = from, last = from;             /* blocks that have nodes; blocks that can be taken over */
    *wait = false;
    for (int g = 0; g < kv->n_group; g++) kv->gap[g] = -1;
    for (int32_t i; (walked + 1) * block <= n && (i = kv__find(kv, tip, ids + walked * block)) >= 0; tip = i) {
        if (!kv__ready(kv, i)) {
            *wait = last == walked;
            break;
        }
        bool all = true;
        for (int g = 0; g < kv->n_group; g++) {
            if (!kv__has(&kv_parts(kv, i)[g])) kv->gap[g] = walked;
            all = all && kv->gap[g] < kv__seen(kv, g, (walked + 1) * block);
        }
        walked++;
        if (all) last = walked;
    }
    return last;
}

/* Blocks of group g that the tree would have to make busy or to read for the first `last` blocks of ids, after node i. */
static int kv__cost(const kv_cache *kv, int32_t i, int g, const int32_t *ids, int last) {
    const int block = kv->opts.block, seen = kv__seen(kv, g, last * block);
    int       cost = 0;
    for (int at = 0; at < last; at++) {
        i = kv__find(kv, i, ids + at * block);
        const int32_t b = kv_parts(kv, i)[g].block;
        cost += at >= seen && (b < 0 || kv->group[g].block[b].refs == 1);
    }
    return cost;
}

/* How many blocks a new sequence with these adapters could have from the tree for ids[0, n); changes nothing. cost [n_group]: by
 * how many kv__room() would fall. */
static int kv__count_prefix(kv_cache *kv, const dev_adapters *a, const int32_t *ids, int n, int64_t *cost) {
    bool          wait;
    const int32_t root = kv->tree ? kv__root(kv, a, false) : -1;
    const int     last = root >= 0 ? kv__match(kv, root, 0, ids, n, &wait) : 0;
    for (int g = 0; g < kv->n_group; g++) cost[g] = last ? kv__cost(kv, root, g, ids, last) : 0;
    return last;
}

/* Adds to need [n_group] the numbers of blocks that a sequence lacks to read its n tokens and to go on; s NULL: a new one with
 * these adapters, for what the tree has too. */
static void kv_add_demand(kv_cache *kv, const kv_seq *s, const dev_adapters *a, const int32_t *ids, int n, int64_t *need) {
    const int all = (n + kv->opts.block) / kv->opts.block + 1;
    int64_t  *cost = kv->cost;
    const int known = s ? 0 : kv__count_prefix(kv, a, ids, n - 1, cost);
    for (int i = 0; i < kv->n_group; i++) {
        const kv_group *gr = &kv->group[i];
        if (!s) need[i] += cost[i];
        if (gr->rule == KV_STATE) {
            need[i] += !s || (s->own < 0 && (s->state < 0 || gr->block[s->state].refs > 1));
            continue;
        }
        const int     has = s ? s->n_blocks[i] : known, gone = s ? s->first[i] : kv__seen(kv, i, known * kv->opts.block);
        const int64_t left = max_int(all - has, 0), free = max_i64(kv__window_blocks(kv, gr) - (has - gone), 0);
        need[i] += 1 + (gr->rule == KV_WINDOW && kv->load.rows ? min_i64(free, left) : left);
    }
}

/* The same of a sequence that another one will be forked into. */
static void kv_add_fork(const kv_cache *kv, int64_t *need) {
    for (int i = 0; i < kv->n_group; i++) need[i] += kv->group[i].rule == KV_STATE ? 1 : 3;
}

/* Whether every group can give so many blocks. */
static bool kv_meets(const kv_cache *kv, const int64_t *need) {
    bool yes = true;
    for (int i = 0; yes && i < kv->n_group; i++) yes = kv__room(kv, i) >= need[i];
    return yes;
}

/* After fewer blocks than kv__match() counted. Groups that see all positions go on from there; a window or a state would lack
 * what it needs, so the sequence goes back to its first `from` blocks. Returns the positions held then. */
static int kv__match_ended(kv_seq *s, int from) {
    bool all = true;
    for (int i = 0; i < s->kv->n_group; i++) all = all && s->kv->group[i].rule == KV_ALL;
    return all ? s->n : kv_truncate(s, from * s->kv->opts.block);
}

/* Gives the sequence what the tree has of ids[0, n) after its own positions: whole blocks, then a part of one, which is
 * copied before it is written to. Returns the positions held then; *wait: another sequence is computing the next block. */
static int kv_match_prefix(kv_seq *s, const int32_t *ids, int n, bool *wait) {
    const int block = s->kv->opts.block, from = s->n_known;
    *wait = false;
    if (!s->kv->tree || s->n != from * block) return s->n;
    const int last = kv__match(s->kv, s->tip, from, ids, n, wait);
    for (int at = from; at < last; at++) {
        const int32_t i = kv__find(s->kv, s->tip, ids + at * block);
        if (i < 0 || !kv__attach(s, i, block, last * block)) {
            *wait = false;
            return kv__match_ended(s, from);
        }
        kv__tip(s, i);
        s->n_known = at + 1;
    }
    if (*wait || n <= s->n) return s->n;
    int           same;
    const int32_t i = kv__nearest(s, ids + s->n, n - s->n, &same);
    if (i >= 0) kv__attach(s, i, same, s->n + same);
    return s->n;
}

/* Block b of group i, which the coming step fills, is the one of node n. */
static void kv__publish_block(kv_cache *kv, int i, int32_t b, int32_t n) {
    kv_tree *t = kv->tree;
    t->fresh = mem_reserve(t->fresh, (uint64_t)t->n_fresh, UINT64_MAX, sizeof *t->fresh);
    t->fresh[t->n_fresh].group = i;
    t->fresh[t->n_fresh++].block = b;
    kv_parts(kv, n)[i].block = b;
    kv->group[i].block[b].node = n;
    kv->group[i].block[b].refs++;
    kv->group[i].block[b].fresh = true;
}

/* Publishes the full blocks of ids[0, s->n) that the coming step completes. Until kv_commit() other sequences wait for them. */
static void kv_publish(kv_seq *s, const int32_t *ids) {
    kv_cache *kv = s->kv;
    const int block = kv->opts.block;
    for (; kv->tree && (s->n_known + 1) * block <= s->n; s->n_known++) {
        const int32_t *own = ids + s->n_known * block;
        int32_t        n = kv__find(kv, s->tip, own);
        if (n < 0) n = kv__node_new(kv, s->tip, own);
        kv->tree->node[n].used = true;
        for (int i = 0; i < kv->n_group; i++) {
            const int32_t b = kv->group[i].rule == KV_STATE ? -1 : s->table[i][s->n_known];
            if (b >= 0 && kv_parts(kv, n)[i].block < 0 && kv->group[i].block[b].node < 0) kv__publish_block(kv, i, b, n);
        }
        kv__tip(s, n);
    }
}

/* A slot for a snapshot; -1: none. A weak snapshot evicts only weak ones. */
static int32_t kv__take_snapshot(kv_cache *kv, bool weak) {
    const kv_group *gr = &kv->group[kv->states];
    const bool      free = gr->n_spare || dev_blocks_mapped(&gr->mem) < gr->mem.max_blocks;
    return free || !weak || (gr->oldest >= 0 && gr->block[gr->oldest].weak) ? kv__take(kv, kv->states) : -1;
}

/* The node of the sequence's path that ends at position `at`, a border that has been published. */
static int32_t kv__node_at(const kv_seq *s, int at) {
    int32_t i = s->tip;
    for (int k = s->n_known; k > at / s->kv->opts.block; k--) i = s->kv->tree->node[i].parent;
    return i;
}

/* How long a snapshot stays. */
typedef enum {
    KV_KEPT,                                          /* until it is the one that is idle longest */
    KV_WEAK,                                          /* until any slot is needed */
    KV_ROLLING                                        /* the same, but at most until the next rolling one of the sequence */
} kv_staying;

/* The coming step, whose positions are reserved and published, makes a snapshot of the sequence at the border `at`, unless
 * there is one. At most one for each step; to be called after all reservations for it. False: none is made. */
static bool kv_snapshot(kv_seq *s, int at, kv_staying staying) {
    kv_cache *kv = s->kv;
    const int block = kv->opts.block;
    if (!kv_has_states(kv) || !kv->tree || at % block || s->snap >= 0) return false;
    if (at <= s->state_at || at / block > s->n_known) return false;
    const int32_t node = kv__node_at(s, at);
    if (kv__has(&kv_parts(kv, node)[kv->states])) return false;
    if (staying == KV_ROLLING && s->rolled && s->rolled < at && s->rolled % kv__every(kv)) {
        const int32_t past = kv__node_at(s, s->rolled), b = kv_parts(kv, past)[kv->states].block;
        if (b >= 0 && kv->group[kv->states].block[b].weak) kv__state_forget(kv, past);
    }
    const int32_t b = kv__take_snapshot(kv, staying != KV_KEPT);
    if (b < 0) return false;
    kv__publish_block(kv, kv->states, b, node);
    kv->group[kv->states].block[b].weak = staying != KV_KEPT;
    kv->tree->node[node].used = true;
    s->rolled = staying == KV_ROLLING ? at : 0;
    s->snap = b;
    s->snap_at = at;
    return true;
}

/* Ends a step: published blocks are filled, or with !done forgotten. A snapshot belongs to the tree alone from then on. */
static void kv_commit(kv_cache *kv, bool done) {
    for (kv_tree *t = kv->tree; t && t->n_fresh;) {
        t->n_fresh--;
        const int     i = t->fresh[t->n_fresh].group;
        const int32_t b = t->fresh[t->n_fresh].block;
        kv->group[i].block[b].fresh = false;
        if (!done) kv__forget(kv, i, b);
        if (kv->group[i].rule == KV_STATE) kv__release(kv, i, b, true);
    }
}

/* Most blocks in any table of the sequence. */
static int kv_seq_blocks(const kv_seq *s) {
    int n = 0;
    for (int i = 0; i < s->kv->n_group; i++) n = max_int(n, s->n_blocks[i]);
    return n;
}

/* The block numbers of one group in the order of positions, -1: given back. Returns how many. */
static int kv_table(const kv_seq *s, int group, const int32_t **table) {
    *table = s->table[group];
    return s->n_blocks[group];
}

/* Fills the blocks that hold only positions from `from` on with zeros, so that a step which stores there meets no page fault. */
static void kv_prefault(kv_seq *s, int from) {
    const int block = s->kv->opts.block;
    kv_flush(s->kv);
    for (int i = 0; i < s->kv->n_group; i++)
        for (int b = (from + block - 1) / block; b < s->n_blocks[i]; b++)
            if (s->table[i][b] >= 0) dev_blocks_clear(&s->kv->group[i].mem, s->table[i][b]);
    if (s->own != s->state) dev_blocks_clear(&s->kv->group[s->kv->states].mem, s->own);
}

/* Bytes of blocks at the peak. */
static uint64_t kv_bytes_peak(const kv_cache *kv) {
    uint64_t n = 0;
    for (int i = 0; i < kv->n_group; i++) n += (uint64_t)kv->group[i].n_peak * kv->group[i].mem.block_bytes;
    return n;
}
