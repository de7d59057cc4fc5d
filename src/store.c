/* ===== [store] prompt cache on disk =====
 * What --prompt-cache keeps between runs: nodes of the prefix tree with their blocks, in a GGUF file of our own that is read with
 * the same care as any other. Tensor `blocks` has a row for each node, parents first: the row of its parent, how many runs ago it
 * was last used, for each group of the cache the row of its keys and values in the group's tensor and their hash, and its tokens.
 * The groups' tensors are `data`, `data.1`, `data.2`, ...; a group without rows has none.
 *   A file of another model, layout of blocks or version, and one whose directory does not match its hash, is ignored with a
 * warning; so is a block that does not match its hash. A file that is no prompt cache is never replaced. The directory is a copy:
 * what was checked does not change with the file. A block is read when a prompt begins with it, and its hash is that of the bytes
 * that the cache gets. Where two runs write at once, the file of the one that ends last stays, whole.
 * Public: store_open, store_close, store_save. */

enum {
    STORE_VERSION = 1,
    STORE_AGE_MAX = 1000,
    STORE_ROWS_MAX = 1 << 26                          /* numbers of a directory */
};

/* Numbers of a row: the head, then STORE_PART of them for each group, then the tokens. */
enum { STORE_PARENT, STORE_AGE, STORE_HEAD };
enum { STORE_DATA, STORE_SUM, STORE_PART = 3 };      /* row in the group's tensor, -1: none; hash in two halves */

static const char store_arch[] = "prompt_cache", store_what[] = "prompt cache";

typedef struct {
    const uint8_t *p;                                 /* [n, block bytes] */
    int64_t        n;                                 /* rows of the group's tensor */
} store_data;

typedef struct store {
    kv_cache      *kv;                                /* whose blocks are kept */
    const char    *path;                              /* of the file */
    char           mark[17];                          /* the model's fingerprint */
    str            layout;                            /* what else blocks depend on */
    gguf_file      g;                                 /* the file as it was at the start of the run */
    bool           open;                              /* it is open and usable */
    bool           foreign;                           /* it is no prompt cache and is left as it is */
    int32_t       *row;                               /* [n, store__row()] */
    int64_t        n;                                 /* rows */
    int32_t       *node;                              /* [n] of the tree */
    store_data    *data;                              /* [n_group] */
    uint8_t       *bounce;                            /* one block on its way between file and cache */
} store;

static size_t store__each(const store *s, int g) { return s->kv->group[g].mem.block_bytes; }

/* Where the part of group g begins in a row; g = n_group: where the tokens begin. */
static size_t store__at(int g) { return STORE_HEAD + (size_t)g * STORE_PART; }

static size_t store__row(const store *s) { return store__at(s->kv->n_group) + (size_t)s->kv->opts.block; }

static const int32_t *store__part(const store *s, int32_t i, int g) { return s->row + (size_t)i * store__row(s) + store__at(g); }

static uint64_t store__sum(const int32_t *part) {
    return (uint64_t)(uint32_t)part[STORE_SUM] | (uint64_t)(uint32_t)part[STORE_SUM + 1] << 32;
}

/* Bytes of group g in row i, which has some. */
static const uint8_t *store__stored(const store *s, int32_t i, int g) {
    return s->data[g].p + (size_t)store__part(s, i, g)[STORE_DATA] * store__each(s, g);
}

/* Reads what row i has of group g into a block of the cache. False: it does not match its hash. */
static bool store__fetch(void *ctx, int g, int32_t i, int32_t block) {
    const store *s = ctx;
    const size_t n = store__each(s, g);
    memcpy(s->bounce, store__stored(s, i, g), n);
    if (bytes_hash(0, (bytes){s->bounce, n}) != store__sum(store__part(s, i, g))) {
        log_warn("%s: a block is damaged and not used", s->path);
        return false;
    }
    dev_blocks_write(&s->kv->group[g].mem, block, s->bounce);
    return true;
}

static bool store__word(const store *s, const char *key, const char *want, err_t *e) {
    bytes got = {0};
    if (gguf_get_str(&s->g, key, &got, e) == 1 && bytes_is(got, want)) return true;
    return err_set(e, EXIT_INPUT, "%s: %s differs", s->path, key);
}

/* Whether the tokens of row i are tokens, or a mark of adapters, which has no blocks. */
static bool store__tokens_good(const store *s, int64_t i, int32_t n_vocab) {
    const int32_t *row = s->row + (size_t)i * store__row(s), *ids = row + store__at(s->kv->n_group);
    bool           good = true;
    if (!kv_is_mark(s->kv, ids)) {
        for (int k = 0; good && k < s->kv->opts.block; k++) good = ids[k] >= 0 && ids[k] < n_vocab;
        return good;
    }
    for (int g = 0; good && g < s->kv->n_group; g++) good = row[store__at(g) + STORE_DATA] == -1;
    return good;
}

/* Whether every number of every row is in range. */
static bool store__rows_good(const store *s, int32_t n_vocab) {
    for (int64_t i = 0; i < s->n; i++) {
        const int32_t *row = s->row + (size_t)i * store__row(s);
        if (row[STORE_PARENT] < -1 || row[STORE_PARENT] >= i || row[STORE_AGE] < 0) return false;
        for (int g = 0; g < s->kv->n_group; g++)
            if (row[store__at(g) + STORE_DATA] < -1 || row[store__at(g) + STORE_DATA] >= s->data[g].n) return false;
        if (!store__tokens_good(s, i, n_vocab)) return false;
    }
    return true;
}

/* The name of the tensor with the data of group g. */
static const char *store__name(int g, char name[16]) {
    snprintf(name, 16, g ? "data.%d" : "data", g);
    return name;
}

/* Finds the tensors of data. False: there is none, or one has another shape than the cache's blocks. */
static bool store__bind_data(store *s) {
    bool any = false;
    for (int g = 0; g < s->kv->n_group; g++) {
        char               name[16];
        const gguf_tensor *t = gguf_tensor_find(&s->g, store__name(g, name));
        s->data[g] = (store_data){0};
        if (!t) continue;
        if (t->type != K_I8 || t->n_dims != 2 || t->dim[0] != store__each(s, g) || t->dim[1] > INT32_MAX) return false;
        s->data[g] = (store_data){t->data, (int64_t)t->dim[1]};
        any = true;
    }
    return any;
}

/* The file's tensors, where this cache can use them. */
static bool store__bind(store *s, int32_t n_vocab, err_t *e) {
    const gguf_tensor *rows = gguf_tensor_find(&s->g, "blocks");
    char               sum[17];
    uint64_t           version = 0;
    if (gguf_get_u64(&s->g, "prompt_cache.version", 0, UINT32_MAX, &version, e) != 1 || version != STORE_VERSION)
        return err_set(e, EXIT_INPUT, "%s: no prompt cache of version %d", s->path, STORE_VERSION);
    if (!store__word(s, "prompt_cache.model", s->mark, e) || !store__word(s, "prompt_cache.layout", s->layout.p, e)) return false;
    const bool table = rows && rows->type == K_I32 && rows->n_dims == 2;
    if (!table || rows->dim[0] != store__row(s) || rows->dim[1] > STORE_ROWS_MAX / store__row(s) || !store__bind_data(s))
        return err_set(e, EXIT_INPUT, "%s: its tensors have other shapes", s->path);
    s->n = (int64_t)rows->dim[1];
    s->row = mem_grow(s->row, (size_t)rows->n_bytes, 1);
    memcpy(s->row, rows->data, (size_t)rows->n_bytes);
    snprintf(sum, sizeof sum, "%016llx", (unsigned long long)bytes_hash(0, (bytes){(uint8_t *)s->row, (size_t)rows->n_bytes}));
    if (!store__word(s, "prompt_cache.sum", sum, e)) return false;
    return store__rows_good(s, n_vocab) || err_set(e, EXIT_INPUT, "%s: its directory is damaged", s->path);
}

/* What a block's bytes depend on beside the model and its tokens; "segments" names the summation order of attention. */
static void store__layout(store *s, const char *rope) {
    const kv_cache *kv = s->kv;
    str_fmt(&s->layout, "%s %s %d", k_types[kv->opts.type_k].name, k_types[kv->opts.type_v].name, kv->opts.block);
    for (int g = 0; g < kv->n_group; g++) str_fmt(&s->layout, "%c%zu", g ? '+' : ' ', store__each(s, g));
    int il = 0;
    while (il < kv->n_layer - 1 && kv->layer[il].group < 0) il++;
    const bool integers = k_kv_act(kv->opts.type_k, kv->opts.type_v) == K_ACT_I8,
               fits = kv->opts.type_k == K_Q4_0 || kv->opts.type_v == K_Q4_0;
    str_fmt(&s->layout, " segments%s hadamard %d %d%s %s", integers ? " integers" : "", kv->layer[il].hadamard_k,
            kv->layer[il].hadamard_v, fits ? " fit" : "", rope);
}

/* Adds the rows that store__bind() has checked to the prefix tree. */
static void store__learn(store *s) {
    int32_t *stored = mem_new((size_t)s->kv->n_group, sizeof *stored);
    s->node = mem_new((size_t)s->n, sizeof *s->node);
    kv_fetcher(s->kv, store__fetch, s);
    for (int64_t i = 0; i < s->n; i++) {
        const int32_t *row = s->row + (size_t)i * store__row(s);
        for (int g = 0; g < s->kv->n_group; g++) stored[g] = row[store__at(g) + STORE_DATA] < 0 ? -1 : (int32_t)i;
        const int32_t parent = row[STORE_PARENT] < 0 ? 0 : s->node[row[STORE_PARENT]];
        s->node[i] = kv_add_stored(s->kv, parent, row + store__at(s->kv->n_group), stored);
    }
    mem_free(stored);
}

static store *store__new(kv_cache *kv, const char *path, uint64_t fingerprint, const char *rope) {
    store *s = mem_new(1, sizeof *s);
    size_t most = 0;
    *s = (store){.kv = kv, .path = path};
    snprintf(s->mark, sizeof s->mark, "%016llx", (unsigned long long)fingerprint);
    for (int g = 0; g < kv->n_group; g++) most = max_size(most, store__each(s, g));
    s->bounce = mem_new(1, most);
    s->data = mem_new((size_t)kv->n_group, sizeof *s->data);
    store__layout(s, rope);
    return s;
}

/* Gives a cache that shares blocks what the file at `path` holds. fingerprint: of the model; rope: what else decides about
 * keys. */
static store *store_open(kv_cache *kv, const char *path, uint64_t fingerprint, const char *rope, int32_t n_vocab) {
    store *s = store__new(kv, path, fingerprint, rope);
    err_t  why = {0};
    if (gguf_own_missing(path)) return s;
    const bool open = gguf_open(&s->g, path, &why);
    s->foreign = !open || !gguf_own_is_kind(&s->g, store_arch, store_what, &why);
    if (s->foreign || !store__bind(s, n_vocab, &why)) {
        log_warn("%s; it is ignored and %s", why.text, s->foreign ? "left as it is" : "written anew");
        gguf_close(&s->g);
        return s;
    }
    s->open = true;
    store__learn(s);
    return s;
}

/* Closes the file and frees the rest; NULL is fine. */
static void store_close(store *s) {
    if (!s) return;
    if (s->open) gguf_close(&s->g);
    str_drop(&s->layout);
    mem_free_all(s->row, s->node, s->data, s->bounce, s);
}

/* --- writing --- */

typedef struct {
    store   *s;                                       /* whose file it is */
    int32_t *at;                                      /* [n_tree] row of each node that has one */
    int32_t *order;                                   /* [n] nodes, parents first */
    int32_t *rows;                                    /* [n, store__row()] */
    int32_t *n_data;                                  /* [n_group] rows of data */
    bool    *leads;                                   /* [n_tree] nodes whose blocks a later sequence can use */
    int32_t  n;                                       /* rows */
    int32_t  oldest;                                  /* age up to which all blocks are kept */
    uint64_t more;                                    /* bytes of blocks that are kept of the next age */
} store__plan;

/* Whether the file is to have what node i has of group g. Weak snapshots stay out: a prompt has one at its end. */
static bool store__has(const store *s, int32_t i, int g) {
    const kv_part *p = &kv_parts(s->kv, i)[g];
    return p->stored >= 0 || (p->block >= 0 && !kv_is_weak(s->kv, g, p->block));
}

/* Bytes of the blocks that node i has, in the cache or in the old file. No sequence can use those after the last snapshot of
 * a path. */
static uint64_t store__size(const store__plan *p, int32_t i) {
    const store *s = p->s;
    uint64_t     n = 0;
    for (int g = 0; p->leads[i] && g < s->kv->n_group; g++)
        if (store__has(s, i, g)) n += store__each(s, g);
    return n;
}

/* Notes the nodes that lead to a snapshot; all of them, where the model has no states. */
static void store__note_leads(store__plan *p) {
    const kv_cache *kv = p->s->kv;
    for (int32_t i = kv_next(kv->tree, 0); i > 0; i = kv_next(kv->tree, i)) {
        const bool serves = !kv_has_states(kv) || store__has(p->s, i, kv->states);
        for (int32_t k = i; serves && k > 0 && !p->leads[k]; k = kv->tree->node[k].parent) p->leads[k] = true;
    }
}

/* How many runs ago the blocks of node i were used. */
static int32_t store__age(const store *s, int32_t i) {
    int32_t stored = -1;
    for (int g = 0; g < s->kv->n_group; g++)
        if (kv_parts(s->kv, i)[g].stored >= 0) stored = kv_parts(s->kv, i)[g].stored;
    if (s->kv->tree->node[i].used || stored < 0) return 0;
    const int32_t age = s->row[(size_t)stored * store__row(s) + STORE_AGE];
    return min_int(age, STORE_AGE_MAX - 1) + 1;
}

/* Bytes of a node's block of group g, from the cache or from the old file; valid until the next call. */
static const uint8_t *store__bytes(const store *s, int g, const kv_part *p) {
    if (p->block < 0) return store__stored(s, p->stored, g);
    dev_blocks_read(&s->kv->group[g].mem, p->block, s->bounce);
    return s->bounce;
}

/* Which ages fit into so many bytes. */
static void store__bound(store__plan *p, uint64_t most) {
    const kv_tree *t = p->s->kv->tree;
    uint64_t      *n = mem_new(STORE_AGE_MAX + 1, sizeof *n);
    for (int32_t i = kv_next(t, 0); i > 0; i = kv_next(t, i)) n[store__age(p->s, i)] += store__size(p, i);
    p->more = most;
    for (p->oldest = -1; p->oldest < STORE_AGE_MAX && n[p->oldest + 1] <= p->more; p->oldest++) p->more -= n[p->oldest + 1];
    mem_free(n);
}

/* Whether the blocks of node i are kept; asked once of each, parents first. */
static bool store__stays(store__plan *p, int32_t i) {
    const uint64_t size = store__size(p, i);
    const int32_t  age = size ? store__age(p->s, i) : INT32_MAX;
    if (age <= p->oldest) return true;
    if (age > p->oldest + 1 || p->more < size) return false;
    p->more -= size;
    return true;
}

/* Fills the part of group g in the next row, that of node i. */
static void store__add_part(store__plan *p, int g, int32_t i, bool data) {
    const store   *s = p->s;
    const kv_part *has = &kv_parts(s->kv, i)[g];
    int32_t       *part = p->rows + (size_t)p->n * store__row(s) + store__at(g);
    const bool     here = data && store__has(s, i, g);
    const uint64_t sum = !here ? 0 : has->block < 0 ? store__sum(store__part(s, has->stored, g))
                                                    : bytes_hash(0, (bytes){store__bytes(s, g, has), store__each(s, g)});
    part[STORE_DATA] = here ? p->n_data[g]++ : -1;
    part[STORE_SUM] = (int32_t)(uint32_t)sum;
    part[STORE_SUM + 1] = (int32_t)(uint32_t)(sum >> 32);
}

/* Adds a row for node i, with its blocks where `data` says so. */
static void store__add(store__plan *p, int32_t i, bool data) {
    const store  *s = p->s;
    const int32_t parent = s->kv->tree->node[i].parent;
    int32_t      *row = p->rows + (size_t)p->n * store__row(s);
    row[STORE_PARENT] = parent > 0 ? p->at[parent] : -1;
    row[STORE_AGE] = store__age(s, i);
    for (int g = 0; g < s->kv->n_group; g++) store__add_part(p, g, i, data);
    memcpy(row + store__at(s->kv->n_group), kv_node_tokens(s->kv, i), (size_t)s->kv->opts.block * sizeof *row);
    p->order[p->n] = i;
    p->at[i] = p->n++;
}

/* Rows for the nodes whose blocks are kept, and for those that lead to one. */
static void store__choose(store__plan *p) {
    const kv_tree *t = p->s->kv->tree;
    bool          *stays = mem_new((size_t)t->cap, sizeof *stays), *leads = mem_new((size_t)t->cap, sizeof *leads);
    for (int32_t i = kv_next(t, 0); i > 0; i = kv_next(t, i)) {
        stays[i] = store__stays(p, i);
        for (int32_t k = i; stays[i] && k > 0 && !leads[k]; k = t->node[k].parent) leads[k] = true;
    }
    for (int32_t i = kv_next(t, 0); i > 0; i = kv_next(t, i))
        if (leads[i]) store__add(p, i, stays[i]);
    mem_free_all(stays, leads);
}

/* Metadata and tensor directory of the file. */
static void store__write_head(const store__plan *p, gguf_writer *w, bytes all) {
    const store   *s = p->s;
    const uint64_t rows[2] = {store__row(s), (uint64_t)p->n};
    char           sum[17], name[16];
    snprintf(sum, sizeof sum, "%016llx", (unsigned long long)bytes_hash(0, all));
    gguf_write_str(w, "general.architecture", bytes_of(store_arch));
    gguf_write_u32(w, "general.alignment", 64);
    gguf_write_u32(w, "prompt_cache.version", STORE_VERSION);
    gguf_write_str(w, "prompt_cache.model", bytes_of(s->mark));
    gguf_write_str(w, "prompt_cache.layout", str_bytes(&s->layout));
    gguf_write_str(w, "prompt_cache.sum", bytes_of(sum));
    gguf_write_tensor(w, bytes_of("blocks"), K_I32, 2, rows);
    for (int g = 0; g < s->kv->n_group; g++) {
        const uint64_t dims[2] = {store__each(s, g), (uint64_t)p->n_data[g]};
        if (dims[1]) gguf_write_tensor(w, bytes_of(store__name(g, name)), K_I8, 2, dims);
    }
}

static bool store__write(const store__plan *p, err_t *e) {
    const store *s = p->s;
    gguf_writer  w;
    const bytes  all = {(const uint8_t *)p->rows, (size_t)p->n * store__row(s) * sizeof *p->rows};
    if (!gguf_write_start(&w, s->path, 64, NULL, e)) return false;
    store__write_head(p, &w, all);
    bool ok = gguf_write_data(&w, all.p, all.n, e);
    for (int g = 0; g < s->kv->n_group; g++)
        for (int32_t i = 0; ok && i < p->n; i++) {
            const bool has = p->rows[(size_t)i * store__row(s) + store__at(g) + STORE_DATA] >= 0;
            ok = !has || gguf_write_data(&w, store__bytes(s, g, &kv_parts(s->kv, p->order[i])[g]), store__each(s, g), e);
        }
    if (ok) return gguf_write_finish(&w, e);
    gguf_write_drop(&w);
    return false;
}

/* Chooses rows for n nodes and blocks of at most `most` bytes. */
static store__plan store__plan_new(store *s, size_t n, uint64_t most) {
    store__plan p = {.s = s};
    p.at = mem_new((size_t)s->kv->tree->cap, sizeof *p.at);
    p.order = mem_new(n, sizeof *p.order);
    p.rows = mem_new(n * store__row(s), sizeof *p.rows);
    p.n_data = mem_new((size_t)s->kv->n_group, sizeof *p.n_data);
    p.leads = mem_new((size_t)s->kv->tree->cap, sizeof *p.leads);
    store__note_leads(&p);
    store__bound(&p, most);
    store__choose(&p);
    return p;
}

static void store__plan_drop(store__plan *p) {
    mem_free_all(p->at, p->order, p->rows, p->n_data, p->leads);
}

/* Writes what the cache has, the blocks used last where `most` bytes do not hold all. Nothing is written when nothing
 * is new. */
static bool store_save(store *s, uint64_t most, err_t *e) {
    const kv_tree *t = s->kv->tree;
    bool           news = false;
    size_t         n = 0;
    for (int32_t i = kv_next(t, 0); i > 0; i = kv_next(t, i), n++)
        for (int g = 0; g < s->kv->n_group; g++) news = news || (kv_parts(s->kv, i)[g].stored < 0 && store__has(s, i, g));
    if (!news || s->foreign || !gguf_own_may_replace(s->path, store_arch, store_what)) return true;
    kv_flush(s->kv);
    store__plan p = store__plan_new(s, n, most);
    const bool  ok = !p.n || store__write(&p, e);
    store__plan_drop(&p);
    return ok;
}
