/* ===== [calib] importance matrix =====
 * Runs a text through a model in chunks and observes the inputs of each weight matrix. The importance matrix (imatrix) holds for
 * each input channel of each matrix, and of each expert in a stack, the sum of squares and the number of rows summed. It is
 * written and read in llama.cpp's GGUF form; the older form (.dat) is read too. Files of both forms are checked completely:
 * counts and sums are finite and not negative, sizes fit the file. calib_show() prints statistics of its tensors.
 * Invariants: a channel is summed by one thread in row order, so the bits do not depend on the number of threads; entries are
 * sorted by name and unique.
 * Public: calib_opts, calib_gather, calib_imatrix_drop, calib_imatrix_read, calib_imatrix_merge, calib_imatrix_write,
 * calib_weights, calib_show.
 * Opens: calib_imatrix, calib_opts. */

typedef struct {
    int  n_chunks;                                    /* chunks of the text to read; -1: all */
    bool output;                                      /* observe the output matrix too */
    int  bos;                                         /* whether chunks begin with the start token, as for tok_start() */
} calib_opts;

static const calib_opts calib_defaults = {.n_chunks = -1, .bos = -1};

enum {
    CALIB_CHUNK = 512,                                /* tokens of a chunk by default */
    CALIB_CHANNELS = 256,                             /* input channels of one task */
};

/* Bytes of a file: nearly three times what 384 experts in each of 60 layers need. */
static const size_t CALIB_FILE_MAX = (size_t)4 << 30;

typedef struct {
    char           name[GGUF_NAME_MAX + 1];
    uint64_t       n_in, n_mat;                       /* channels; experts, 1 for a plain matrix */
    double        *sum2;                              /* [n_mat, n_in] sum of squares, or a mean where count is 1 */
    double        *count;                             /* [n_mat] rows summed; 0: no data */
    const uint8_t *data;                              /* the observed tensor; NULL in a file that was read */
} calib_entry;

typedef struct {
    calib_entry *e;                                   /* [n] by name */
    size_t       n, cap;
    str         *dataset;                             /* [n_dataset] files whose text was summed */
    size_t       n_dataset;
    uint32_t     n_chunk, chunk;                      /* chunks summed; tokens in one, 0: unknown */
} calib_imatrix;

/* Frees the entries. */
static void calib_imatrix_drop(calib_imatrix *im) {
    for (size_t i = 0; i < im->n; i++) {
        mem_free_all(im->e[i].sum2, im->e[i].count);
    }
    for (size_t i = 0; i < im->n_dataset; i++) str_drop(&im->dataset[i]);
    mem_free_all(im->e, im->dataset);
    *im = (calib_imatrix){0};
}

/* Appends an entry; the caller has checked the sizes. */
static calib_entry *calib__add(calib_imatrix *im, bytes name, uint64_t n_in, uint64_t n_mat) {
    if (im->n == im->cap) im->e = mem_grow(im->e, im->cap = 2 * im->cap + 64, sizeof *im->e);
    calib_entry *en = &im->e[im->n++];
    *en = (calib_entry){.n_in = n_in, .n_mat = n_mat};
    memcpy(en->name, name.p, name.n);
    en->sum2 = mem_new(n_in * n_mat, sizeof *en->sum2);
    en->count = mem_new(n_mat, sizeof *en->count);
    return en;
}

static void calib__add_dataset(calib_imatrix *im, bytes name) {
    im->dataset = mem_grow(im->dataset, im->n_dataset + 1, sizeof *im->dataset);
    im->dataset[im->n_dataset] = (str){0};
    str_add(&im->dataset[im->n_dataset++], name.p, name.n);
}

static int calib__by_name(const void *a, const void *b) {
    return strcmp(((const calib_entry *)a)->name, ((const calib_entry *)b)->name);
}

static int calib__by_data(const void *a, const void *b) {
    const uint8_t *x = ((const calib_entry *)a)->data, *y = ((const calib_entry *)b)->data;
    return (x > y) - (x < y);
}

static const calib_entry *calib__imatrix_find(const calib_imatrix *im, bytes name) {
    calib_entry key = {.n_in = 0};
    if (!im->n || name.n > GGUF_NAME_MAX) return NULL;
    memcpy(key.name, name.p, name.n);
    return bsearch(&key, im->e, im->n, sizeof key, calib__by_name);
}

/* --- gathering --- */

static calib_entry *calib__entry_of(calib_imatrix *im, const uint8_t *data) {
    const calib_entry key = {.data = data};
    return im->n ? bsearch(&key, im->e, im->n, sizeof key, calib__by_data) : NULL;
}

/* Adds the rows of one product to channels [c0, c0 + n). */
static void calib__sum(calib_entry *en, const dev_product *m, size_t c0, size_t n) {
    double *restrict sum = en->sum2 + (size_t)m->stack * en->n_in + c0;
    for (int t = 0; t < m->n; t++) {
        const float *restrict x = dev_input(m, t) + c0;
        for (size_t i = 0; i < n; i++) sum[i] += (double)x[i] * (double)x[i];
    }
    if (c0 == 0) en->count[m->stack] += m->n;
}

/* The tap that sums inputs; every thread runs it. A product whose matrix begins inside a tensor has the same input as the one at
 * the tensor's beginning, and is skipped. */
static void calib__tap(void *ctx, dev *dv, const dev_product *list, int n) {
    int task = pool_next(dv->p), base = 0;
    for (int i = 0; i < n; i++) {
        calib_entry *en = list[i].n > 0 ? calib__entry_of(ctx, list[i].w->data) : NULL;
        if (!en) continue;
        const int n_task = (int)((en->n_in + CALIB_CHANNELS - 1) / CALIB_CHANNELS);
        for (; task < base + n_task; task = pool_next(dv->p)) {
            const size_t c0 = (size_t)(task - base) * CALIB_CHANNELS;
            calib__sum(en, &list[i], c0, en->n_in - c0 < CALIB_CHANNELS ? en->n_in - c0 : CALIB_CHANNELS);
        }
        base += n_task;
    }
    pool_barrier(dv->p);
}

/* Adds an entry for each matrix of the layers, and for the output matrix on request. Embeddings are looked up and have no entry,
 * even where they are the output matrix too. */
static void calib__entries(calib_imatrix *im, const gguf_file *g, bool output) {
    static const char blk[] = "blk.";
    for (uint64_t i = 0; i < g->n_tensor; i++) {
        const gguf_tensor *t = &g->tensor[i];
        bool layer = t->name.n > 4 && memcmp(t->name.p, blk, 4) == 0;
        if (t->n_dims < 2 || !k_type_weight(t->type) || !(layer || (output && bytes_is(t->name, "output.weight")))) continue;
        calib__add(im, t->name, t->dim[0], t->dim[2])->data = t->data;
    }
    if (im->n) qsort(im->e, im->n, sizeof *im->e, calib__by_data);
}

/* Removes entries without rows and sorts the others by name. */
static void calib__finish(calib_imatrix *im) {
    size_t n = 0;
    for (size_t i = 0; i < im->n; i++) {
        calib_entry *en = &im->e[i];
        double       rows = 0;
        for (uint64_t k = 0; k < en->n_mat; k++) rows += en->count[k];
        en->data = NULL;
        if (rows > 0) {
            im->e[n++] = *en;
            continue;
        }
        mem_free_all(en->sum2, en->count);
    }
    im->n = n;
    if (n) qsort(im->e, n, sizeof *im->e, calib__by_name);
}

static bool calib__finite(const calib_imatrix *im, const char *path, err_t *e) {
    for (size_t i = 0; i < im->n; i++)
        for (uint64_t k = 0; k < im->e[i].n_in * im->e[i].n_mat; k++)
            if (!isfinite((float)im->e[i].sum2[k]))
                return err_set(e, EXIT_INPUT,
                               "%s: the inputs of %s hold a NaN or an infinity at channel %llu: damaged weights, or a model out "
                               "of range", path, im->e[i].name, (unsigned long long)(k % im->e[i].n_in));
    return true;
}

/* Reads one chunk of n tokens as a sequence. A start token (bos >= 0) replaces its first token, as in llama.cpp. False: e is set,
 * or an interrupt. */
static bool calib__chunk(engine *eng, const int32_t *ids, int n, int32_t bos, engine_meter *meter, err_t *e) {
    kv_seq  *seq = kv_seq_new(eng->kv);
    int32_t *own = mem_new((size_t)n, sizeof *own);
    memcpy(own, ids, (size_t)n * sizeof *own);
    if (bos >= 0) own[0] = bos;
    const bool ok = engine_read(eng, seq, own, 0, n, (engine_reader){.meter = meter}, e);
    mem_free(own);
    kv_seq_free(seq);
    return ok;
}

/* Sums over the chunks of a text. `text` is the data set's name in the file. False: e is set, or an interrupt. */
static bool calib_gather(engine *eng, const tok_ids *ids, int chunk, const calib_opts *o, const char *text, calib_imatrix *im,
                         err_t *e) {
    const int     n = tok_chunks(ids->n, chunk, chunk, o->n_chunks, e);
    const dev_tap tap = {calib__tap, im};
    engine_meter  meter;
    const int32_t bos = tok_start(eng->v, o->bos);
    bool          ok = !e->code;
    if (ok && chunk > eng->n_ctx)
        ok = err_set(e, EXIT_INPUT, "chunks of %d tokens, the cache holds %d (-c N, --kv-mem)", chunk, eng->n_ctx);
    calib__entries(im, eng->g, o->output);
    fwd_watch(eng->f, &tap);
    meter_start(&meter, eng, "reading the text", (int64_t)n * chunk, 0);
    for (int i = 0; ok && i < n; i++) ok = calib__chunk(eng, ids->id + (size_t)i * (size_t)chunk, chunk, bos, &meter, e);
    meter_stop(&meter);
    fwd_watch(eng->f, NULL);
    calib__finish(im);
    calib__add_dataset(im, bytes_of(text));
    im->chunk = (uint32_t)chunk;
    im->n_chunk = (uint32_t)n;
    return ok && calib__finite(im, eng->g->path, e);
}

/* --- reading --- */

/* Reads n sums or counts. False: *bad is the first one that is negative or not finite. */
static bool calib__numbers(const float *p, uint64_t n, double *out, uint64_t *bad) {
    for (uint64_t i = 0; i < n; i++) {
        float x;
        memcpy(&x, (const uint8_t *)p + 4 * i, 4);
        if (!(x >= 0 && x <= FLT_MAX)) {
            *bad = i;
            return false;
        }
        out[i] = (double)x;
    }
    return true;
}

/* The name of a tensor without this ending; empty: it has another. */
static bytes calib__stem(bytes name, const char *ending) {
    const size_t n = strlen(ending);
    bool         is = name.n > n && memcmp(name.p + name.n - n, ending, n) == 0;
    return (bytes){name.p, is ? name.n - n : 0};
}

/* Reads NAME.in_sum2 [n_in, n_mat] and NAME.counts [1, n_mat]. */
static bool calib__pair(calib_imatrix *im, const gguf_file *g, const gguf_tensor *sum, bytes stem, err_t *e) {
    char     name[GGUF_NAME_MAX + 16];
    uint64_t bad = 0;
    snprintf(name, sizeof name, "%.*s.counts", (int)stem.n, (const char *)stem.p);
    const gguf_tensor *count = gguf_tensor_find(g, name);
    if (!count)
        return gguf_bad(g, sum->part, sum->at, e, "found tensor %.*s without %s, expected both", GGUF_SHOW(sum->name), name);
    const gguf_tensor *both[2] = {sum, count};
    for (int i = 0; i < 2; i++)
        if (both[i]->type != K_F32)
            return gguf_bad(g, both[i]->part, both[i]->at, e, "tensor %.*s has type %s, expected f32", GGUF_SHOW(both[i]->name),
                            k_types[both[i]->type].name);
    const uint64_t n = sum->n_bytes / 4, n_mat = count->n_bytes / 4;
    if (n % n_mat)
        return gguf_bad(g, count->part, count->at, e,
                        "tensor %s has %llu values beside %llu sums, expected as many sums for each", name, GGUF_U(n_mat),
                        GGUF_U(n));
    calib_entry *en = calib__add(im, stem, n / n_mat, n_mat);
    if (!calib__numbers((const float *)(const void *)sum->data, en->n_in * en->n_mat, en->sum2, &bad))
        return gguf_bad(g, sum->part, sum->at + 4 * bad, e,
                        "tensor %.*s holds a value that is negative or not finite, expected sums of squares",
                        GGUF_SHOW(sum->name));
    if (!calib__numbers((const float *)(const void *)count->data, en->n_mat, en->count, &bad))
        return gguf_bad(g, count->part, count->at + 4 * bad, e,
                        "tensor %s holds a value that is negative or not finite, expected counts",
                        name);
    return true;
}

static bool calib__read_gguf(calib_imatrix *im, const gguf_file *g, err_t *e) {
    const gguf_kv *kv = NULL;
    bytes          s, stem;
    uint64_t       v;
    int            got = gguf_get_str(g, "general.type", &s, e);
    if (got < 0) return false;
    if (got == 1 && !bytes_is(s, "imatrix"))
        return gguf_bad(g, 0, gguf_find(g, "general.type")->at, e, "general.type is \"%.*s\", expected imatrix", GGUF_SHOW(s));
    if (gguf_get_arr(g, "imatrix.datasets", &kv, e) < 0) return false;
    gguf_strs it = kv ? gguf_strs_of(g, kv) : (gguf_strs){0};
    while (gguf_strs_next(&it, &s)) calib__add_dataset(im, s);
    if ((got = gguf_get_u64(g, "imatrix.chunk_count", 0, UINT32_MAX, &v, e)) < 0) return false;
    if (got) im->n_chunk = (uint32_t)v;
    if ((got = gguf_get_u64(g, "imatrix.chunk_size", 0, UINT32_MAX, &v, e)) < 0) return false;
    if (got) im->chunk = (uint32_t)v;
    for (uint64_t i = 0; i < g->n_tensor; i++) {
        const gguf_tensor *t = &g->tensor[i];
        if ((stem = calib__stem(t->name, ".in_sum2")).n) {
            if (!calib__pair(im, g, t, stem, e)) return false;
        } else if (!calib__stem(t->name, ".counts").n) {
            return gguf_bad(g, t->part, t->at, e,
                            "tensor %.*s ends neither in .in_sum2 nor in .counts, expected an importance matrix",
                            GGUF_SHOW(t->name));
        }
    }
    if (!im->n) return err_set(e, EXIT_INPUT, "%s: holds no sums, expected an importance matrix", g->path);
    qsort(im->e, im->n, sizeof *im->e, calib__by_name);
    return true;
}

/* The older form: number of entries; for each the length of its name, the name, number of chunks, number of values, the values
 * (mean times chunks, f32); then, in newer files, the number of all chunks and the text's name. Integers have 32 bits,
 * little-endian. */
typedef struct {
    const uint8_t *p;
    size_t         n, at;
    const char    *path;
    err_t         *e;
} calib__cur;

static bool calib__need(calib__cur *c, size_t n, const char *what) {
    if (c->e->code) return false;
    return n <= c->n - c->at || err_set(c->e, EXIT_INPUT, "%s: %zu bytes are left, expected %zu of %s (at byte %zu)", c->path,
                                        c->n - c->at, n, what, c->at);
}

/* Reads an integer from lo to hi; 0 after a failure. */
static int32_t calib__i32(calib__cur *c, int32_t lo, int32_t hi, const char *what) {
    int32_t v = 0;
    if (!calib__need(c, sizeof v, what)) return 0;
    memcpy(&v, c->p + c->at, sizeof v);
    c->at += sizeof v;
    if (v >= lo && v <= hi) return v;
    err_set(c->e, EXIT_INPUT, "%s: %s is %d, expected %d to %d (at byte %zu)", c->path, what, v, lo, hi, c->at - sizeof v);
    return 0;
}

static void calib__dat_entry(calib__cur *c, calib_imatrix *im) {
    const size_t  name_at = c->at + 4;
    const int32_t len = calib__i32(c, 1, GGUF_NAME_MAX, "the length of a name");
    if (!calib__need(c, (size_t)len, "a name")) return;
    const bytes name = {c->p + c->at, (size_t)len};
    c->at += (size_t)len;
    for (size_t i = 0; i < name.n; i++)
        if (name.p[i] < 0x20 || name.p[i] >= 0x7f) {
            err_set(c->e, EXIT_INPUT, "%s: byte 0x%02x in a name, expected a tensor's (at byte %zu)", c->path, name.p[i],
                    name_at + i);
            return;
        }
    const int32_t calls = calib__i32(c, 0, INT32_MAX, "the number of chunks"),
                  n = calib__i32(c, 1, INT32_MAX, "the number of values");
    if (!calib__need(c, (size_t)n * 4, "values")) return;
    calib_entry *en = calib__add(im, name, (uint64_t)n, 1);
    uint64_t     bad = 0;
    if (!calib__numbers((const float *)(const void *)(c->p + c->at), (uint64_t)n, en->sum2, &bad))
        err_set(c->e, EXIT_INPUT, "%s: %s holds a value that is negative or not finite, expected sums of squares (at byte %zu)",
                c->path, en->name, c->at + 4 * (size_t)bad);
    en->count[0] = calls ? calls : 1;
    c->at += (size_t)n * 4;
}

static bool calib__read_dat(calib_imatrix *im, const uint8_t *p, size_t n, const char *path, err_t *e) {
    calib__cur    c = {.p = p, .n = n, .path = path, .e = e};
    const int32_t most = n / 17 < INT32_MAX ? (int32_t)(n / 17) : INT32_MAX;   /* an entry has at least 17 bytes */
    const int32_t entries = calib__i32(&c, 1, most, "the number of entries");
    for (int32_t i = 0; i < entries && !e->code; i++) calib__dat_entry(&c, im);
    if (e->code) return false;
    qsort(im->e, im->n, sizeof *im->e, calib__by_name);
    for (size_t i = 1; i < im->n; i++)
        if (strcmp(im->e[i - 1].name, im->e[i].name) == 0)
            return err_set(e, EXIT_INPUT, "%s: %s comes twice, expected once", path, im->e[i].name);
    if (c.at == n) return true;
    im->n_chunk = (uint32_t)calib__i32(&c, 0, INT32_MAX, "the number of chunks");
    if (e->code || c.at == n) return !e->code;
    const int32_t len = calib__i32(&c, 0, 65536, "the length of the text's name");
    if (!calib__need(&c, (size_t)len, "the text's name")) return false;
    if (len) calib__add_dataset(im, (bytes){p + c.at, (size_t)len});
    return true;
}

/* Reads either form from n bytes. On failure e is set and im is empty. */
static bool calib__imatrix_parse(calib_imatrix *im, const uint8_t *p, size_t n, const char *path, err_t *e) {
    gguf_file g = {0};
    bool      ok;
    *im = (calib_imatrix){0};
    if (n >= 4 && memcmp(p, "GGUF", 4) == 0) ok = gguf_parse(&g, p, n, path, e) && calib__read_gguf(im, &g, e);
    else ok = calib__read_dat(im, p, n, path, e);
    gguf_close(&g);
    if (!ok) calib_imatrix_drop(im);
    return ok;
}

static bool calib__slurp(const char *path, str *out, err_t *e) {
    struct stat st;
    const int   fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st)) err_set(e, err_code_of(errno), "%s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode)) err_set(e, EXIT_INPUT, "%s: is not a file, expected an importance matrix", path);
    else str_read_all(out, fd, path, CALIB_FILE_MAX, "an importance matrix", e);
    if (fd >= 0) close(fd);
    return !e->code;
}

/* Reads a file of either form. False: e names the file and what is wrong with it. */
static bool calib_imatrix_read(calib_imatrix *im, const char *path, err_t *e) {
    str  s = {0};
    bool ok = calib__slurp(path, &s, e) && calib__imatrix_parse(im, (const uint8_t *)s.p, s.n, path, e);
    str_drop(&s);
    return ok;
}

/* --- using --- */

/* Mean square of each input channel of a tensor of n_mat matrices: [n_mat, n_in], owned by the caller. For a matrix without rows
 * all are 1. NULL: the importance matrix has no entry for the tensor, or the sizes differ and e is set. */
static float *calib_weights(const calib_imatrix *im, bytes name, uint64_t n_in, uint64_t n_mat, err_t *e) {
    const calib_entry *en = calib__imatrix_find(im, name);
    if (!en) return NULL;
    if (en->n_in * en->n_mat != n_in * n_mat ||
        (en->n_mat != n_mat && en->n_mat != 1)) { /* the older form has one count for a stack */
        err_set(e, EXIT_INPUT, "the importance matrix has %llu x %llu values for %s, expected %llu x %llu", GGUF_U(en->n_in),
                GGUF_U(en->n_mat), en->name, GGUF_U(n_in), GGUF_U(n_mat));
        return NULL;
    }
    float *w = mem_new(n_in * n_mat, sizeof *w);
    for (uint64_t i = 0; i < n_in * n_mat; i++) {
        const double rows = en->count[i / en->n_in];
        w[i] = rows > 0 ? (float)fmin(en->sum2[i] / rows, 1e30) : 1.0f;   /* finite, whatever the file holds */
    }
    return w;
}

/* One count for all matrices of a stack, as the older form has it, becomes one for each where a has these. */
static void calib__widen(calib_entry *b, const calib_entry *a) {
    if (b->n_mat != 1 || a->n_mat == 1 || b->n_in != a->n_in * a->n_mat) return;
    double *count = mem_new((size_t)a->n_mat, sizeof *count);
    for (uint64_t k = 0; k < a->n_mat; k++) count[k] = b->count[0];
    mem_free(b->count);
    b->count = count;
    b->n_in = a->n_in, b->n_mat = a->n_mat;
}

/* Adds the sums of `from`. A chunk of the older form counts as `chunk` rows. On failure e is set. */
static bool calib_imatrix_merge(calib_imatrix *im, const calib_imatrix *from, uint32_t chunk, err_t *e) {
    const double each = from->chunk ? 1 : (double)chunk;
    const size_t had = im->n;
    for (size_t i = 0; i < from->n; i++) {
        const calib_entry  *a = &from->e[i];
        const bytes         name = bytes_of(a->name);
        const calib_imatrix old = {.e = im->e, .n = had};
        calib_entry        *b = (calib_entry *)(uintptr_t)calib__imatrix_find(&old, name);
        if (!b) b = calib__add(im, name, a->n_in, a->n_mat);
        calib__widen(b, a);
        if (b->n_in * b->n_mat != a->n_in * a->n_mat || (b->n_mat != a->n_mat && a->n_mat != 1))
            return err_set(e, EXIT_INPUT, "%s: %llu x %llu sums, expected %llu x %llu as in the others", a->name, GGUF_U(a->n_in),
                           GGUF_U(a->n_mat), GGUF_U(b->n_in), GGUF_U(b->n_mat));
        for (uint64_t k = 0; k < a->n_in * a->n_mat; k++) b->sum2[k] += a->sum2[k] * each;
        for (uint64_t k = 0; k < b->n_mat; k++) b->count[k] += a->count[a->n_mat == 1 ? 0 : k] * each;
    }
    if (im->n > had) qsort(im->e, im->n, sizeof *im->e, calib__by_name);
    for (size_t i = 0; i < from->n_dataset; i++) calib__add_dataset(im, str_bytes(&from->dataset[i]));
    im->n_chunk += from->n_chunk;
    return true;
}

/* --- showing --- */

typedef enum { CALIB_TEXT, CALIB_CSV, CALIB_JSON } calib_form;

/* Statistics of an entry's channels, from their mean squares over the rows. */
typedef struct {
    const calib_entry *en;
    bytes              kind;                          /* the tensor without its layer and ".weight": attn_q */
    int                layer;                         /* -1: none */
    uint64_t           n;                             /* channels that have data */
    double             sum, least, most, mean, dev;
    double             active;                        /* share of channels above CALIB_ACTIVE */
    double             entropy, even;                 /* bits; divided by that of equal channels */
    double             high;                          /* share of channels more than dev above the mean */
    double             like;                          /* cosine to the same tensor of the layer before; 0: none */
} calib_stat;

static const double CALIB_ACTIVE = 1e-5;

/* The layer of "blk.N.REST", and REST; for another name -1 and the name. */
static int calib__layer(const char *name, const char **rest) {
    int layer = 0, at = 4;
    *rest = name;
    if (strncmp(name, "blk.", 4) != 0) return -1;
    while (at < 12 && name[at] >= '0' && name[at] <= '9') layer = 10 * layer + (name[at++] - '0');
    if (at == 4 || name[at] != '.') return -1;
    *rest = name + at + 1;
    return layer;
}

/* Mean squares of the channels that have data: [*n], owned by the caller. */
static double *calib__means(const calib_entry *en, uint64_t *n) {
    double *v = mem_new(en->n_in * en->n_mat, sizeof *v);
    *n = 0;
    for (uint64_t i = 0; i < en->n_in * en->n_mat; i++)
        if (en->count[i / en->n_in] > 0) v[(*n)++] = en->sum2[i] / en->count[i / en->n_in];
    return v;
}

static void calib__compute(calib_stat *st) {
    double      *v = calib__means(st->en, &st->n), squares = 0;
    const double n = st->n ? (double)st->n : 1;
    st->least = st->n ? v[0] : 0;
    for (uint64_t i = 0; i < st->n; i++) {
        st->sum += v[i];
        st->least = fmin(st->least, v[i]);
        st->most = fmax(st->most, v[i]);
        st->active += (v[i] > CALIB_ACTIVE) / n;
    }
    st->mean = st->sum / n;
    for (uint64_t i = 0; i < st->n; i++) {
        const double share = v[i] > 0 ? v[i] / st->sum : 0;
        squares += (v[i] - st->mean) * (v[i] - st->mean);
        if (share > 0) st->entropy -= share * log2(share);
    }
    st->dev = sqrt(squares / n);
    for (uint64_t i = 0; i < st->n; i++) st->high += (v[i] - st->mean > st->dev) / n;
    st->even = st->n > 1 ? st->entropy / log2(n) : 0;
    mem_free(v);
}

/* Cosine of the sums; 0 where all sums of one are zero. */
static double calib__cosine(const calib_entry *a, const calib_entry *b) {
    double ab = 0, aa = 0, bb = 0;
    for (uint64_t i = 0; i < a->n_in * a->n_mat; i++) {
        ab += a->sum2[i] * b->sum2[i];
        aa += a->sum2[i] * a->sum2[i];
        bb += b->sum2[i] * b->sum2[i];
    }
    return aa > 0 && bb > 0 ? ab / (sqrt(aa) * sqrt(bb)) : 0;
}

/* Statistics of each entry with data: [*n], owned by the caller. */
static calib_stat *calib__stats(const calib_imatrix *im, size_t *n) {
    calib_stat *all = mem_new(im->n, sizeof *all);
    *n = 0;
    for (size_t i = 0; i < im->n; i++) {
        calib_stat         st = {.en = &im->e[i]};
        const calib_entry *before = NULL;
        const char        *rest;
        char               name[GGUF_NAME_MAX + 32];
        bytes              stem;
        st.layer = calib__layer(st.en->name, &rest);
        st.kind = (stem = calib__stem(bytes_of(rest), ".weight")).n ? stem : bytes_of(rest);
        calib__compute(&st);
        if (!st.n) continue;
        snprintf(name, sizeof name, "blk.%d.%s", st.layer - 1, rest);
        if (st.layer > 0) before = calib__imatrix_find(im, bytes_of(name));
        if (before && before->n_in * before->n_mat == st.en->n_in * st.en->n_mat) st.like = calib__cosine(st.en, before);
        all[(*n)++] = st;
    }
    return all;
}

/* By kind of tensor, the largest sums first. */
static int calib__by_kind(const void *a, const void *b) {
    const calib_stat *x = a, *y = b;
    const size_t      n = min_size(x->kind.n, y->kind.n);
    const int         order = memcmp(x->kind.p, y->kind.p, n);
    if (order || x->kind.n != y->kind.n) return order ? order : x->kind.n < y->kind.n ? -1 : 1;
    if (x->sum != y->sum) return x->sum > y->sum ? -1 : 1;
    return strcmp(x->en->name, y->en->name);
}

static int calib__by_layer(const void *a, const void *b) {
    const calib_stat *x = a, *y = b;
    return x->layer != y->layer ? (x->layer > y->layer) - (x->layer < y->layer) : calib__by_kind(a, b);
}

/* st is sorted by layers: replaces the first of a layer by the layer's mean, where each tensor is weighted by its channels.
 * Returns the number of tensors in the layer. */
static size_t calib__layer_mean(calib_stat *st, size_t n) {
    calib_stat mean = {.en = st->en, .layer = st->layer};
    size_t     i = 0;
    for (; i < n && st[i].layer == mean.layer; i++) {
        const double w = (double)st[i].n;
        mean.n += st[i].n;
        mean.sum += w * st[i].sum;
        mean.high += w * st[i].high;
        mean.like += w * st[i].like;
    }
    mean.sum /= (double)mean.n;
    mean.high /= (double)mean.n;
    mean.like /= (double)mean.n;
    *st = mean;
    return i;
}

static void calib__show_text(const calib_imatrix *im, const calib_stat *st, size_t n, str *out) {
    int wide = 6;
    str kind = {0};
    for (size_t i = 0; i < n; i++)
        if ((int)st[i].kind.n > wide) wide = (int)st[i].kind.n;
    str_fmt(out, "%zu tensors, %u chunks", n, im->n_chunk);
    if (im->chunk) str_fmt(out, " of %u tokens", im->chunk);
    str_put(out, "; mean squares of the channels:\n\n");
    str_fmt(out, "layer  %-*s %12s %12s %12s %12s %12s %8s %9s %8s %8s %8s %7s\n", wide, "tensor", "sum", "least",
            "most", "mean", "deviation", "active", "channels", "entropy", "of even", "high", "cosine");
    for (size_t i = 0; i < n; i++, st++) {
        if (st->layer >= 0) str_fmt(out, "%5d  ", st->layer);
        else str_put(out, "    -  ");
        str_clear(&kind);
        str_visible_line(&kind, st->kind);
        str_fmt(out, "%-*s", wide, kind.p);
        str_fmt(out, " %12.2f %12.4f %12.4f %12.4f %12.4f", st->sum, st->least, st->most, st->mean, st->dev);
        str_fmt(out, " %7.2f%% %9llu %8.4f %7.2f%% %7.2f%% %7.4f\n", 100 * st->active, GGUF_U(st->n), st->entropy,
                100 * st->even, 100 * st->high, st->like);
    }
    str_drop(&kind);
}

static void calib__show_csv(const calib_stat *st, size_t n, str *out) {
    str_put(out, "name,layer,sum,least,most,mean,deviation,active,channels,entropy,even,high,cosine\n");
    for (size_t i = 0; i < n; i++, st++) {
        str_csv(out, bytes_of(st->en->name));
        str_fmt(out, ",%d,%.9g,%.9g,%.9g,%.9g,%.9g", st->layer, st->sum, st->least, st->most, st->mean, st->dev);
        str_fmt(out, ",%.9g,%llu,%.9g,%.9g,%.9g,%.9g\n", st->active, GGUF_U(st->n), st->entropy, st->even, st->high,
                st->like);
    }
}

static void calib__show_json(const calib_imatrix *im, const calib_stat *st, size_t n, jw *w) {
    jw_open(w, NULL, '{');
    jw_open(w, "datasets", '[');
    for (size_t i = 0; i < im->n_dataset; i++) jw_text(w, NULL, str_bytes(&im->dataset[i]));
    jw_close(w, ']');
    jw_fmt(w, "chunks", "%u", im->n_chunk);
    jw_fmt(w, "chunk_size", "%u", im->chunk);
    jw_open(w, "tensors", '[');
    for (size_t i = 0; i < n; i++, st++) {
        jw_open(jw_line(w), NULL, '{');
        jw_str(w, "name", st->en->name);
        jw_fmt(w, "layer", "%d", st->layer);
        jw_fmt(w, "sum", "%.9g", st->sum);
        jw_fmt(w, "least", "%.9g", st->least);
        jw_fmt(w, "most", "%.9g", st->most);
        jw_fmt(w, "mean", "%.9g", st->mean);
        jw_fmt(w, "deviation", "%.9g", st->dev);
        jw_fmt(w, "active", "%.9g", st->active);
        jw_fmt(w, "channels", "%llu", GGUF_U(st->n));
        jw_fmt(w, "entropy", "%.9g", st->entropy);
        jw_fmt(w, "even", "%.9g", st->even);
        jw_fmt(w, "high", "%.9g", st->high);
        jw_fmt(w, "cosine", "%.9g", st->like);
        jw_close(w, '}');
    }
    jw_close(w, ']');
}

/* Adds a line for each layer; st is sorted by layers. */
static void calib__show_layers(calib_stat *st, size_t n, calib_form form, jw *w) {
    if (form == CALIB_JSON) jw_open(jw_line(w), "layers", '[');
    else str_put(w->to, "\nlayer          sum     high  cosine   (means of its tensors, weighed by channels)\n");
    for (size_t i = 0; i < n;) {
        calib_stat *l = &st[i];
        i += calib__layer_mean(l, n - i);
        if (form == CALIB_JSON) {
            jw_open(jw_line(w), NULL, '{');
            jw_fmt(w, "layer", "%d", l->layer);
            jw_fmt(w, "sum", "%.9g", l->sum);
            jw_fmt(w, "high", "%.9g", l->high);
            jw_fmt(w, "cosine", "%.9g", l->like);
            jw_close(w, '}');
        } else str_fmt(w->to, "%5d %12.2f %7.2f%% %7.4f\n", l->layer, l->sum, 100 * l->high, l->like);
    }
    if (form == CALIB_JSON) str_put(w->to, "]}\n");
}

/* Appends the statistics of every tensor and every layer; CSV has the tensors only, since it is one table. */
static void calib_show(const calib_imatrix *im, calib_form form, str *out) {
    size_t      n, outside = 0;
    calib_stat *st = calib__stats(im, &n);
    jw          w = jw_loose(out);
    if (n) qsort(st, n, sizeof *st, calib__by_kind);
    if (form == CALIB_CSV) calib__show_csv(st, n, out);
    else if (form == CALIB_JSON) calib__show_json(im, st, n, &w);
    else calib__show_text(im, st, n, out);
    if (n) qsort(st, n, sizeof *st, calib__by_layer);    /* tensors outside the layers come first */
    while (outside < n && st[outside].layer < 0) outside++;
    if (form != CALIB_CSV) calib__show_layers(st + outside, n - outside, form, &w);
    mem_free(st);
}

/* --- writing --- */

static bool calib__put(gguf_writer *w, const double *x, uint64_t n, err_t *e) {
    float buf[1024];
    for (uint64_t at = 0, some; at < n; at += some) {
        some = n - at < 1024 ? n - at : 1024;
        for (uint64_t i = 0; i < some; i++) buf[i] = (float)fmin(x[at + i], FLT_MAX);   /* sums of many files may be larger */
        if (!gguf_write_data(w, buf, some * sizeof *buf, e)) return false;
    }
    return true;
}

/* Writes the GGUF form. `in` is the model, which is never overwritten. On failure e is set. */
static bool calib_imatrix_write(const calib_imatrix *im, const char *path, const gguf_file *in, err_t *e) {
    gguf_writer w;
    char        name[2][GGUF_NAME_MAX + 16];
    bytes      *sets = mem_new(im->n_dataset, sizeof *sets);
    bool        ok = gguf_write_start(&w, path, 32, in, e);
    for (size_t i = 0; i < im->n_dataset; i++) sets[i] = str_bytes(&im->dataset[i]);
    if (ok) {
        gguf_write_str(&w, "general.type", bytes_of("imatrix"));
        gguf_write_strs(&w, "imatrix.datasets", sets, im->n_dataset);
        gguf_write_u32(&w, "imatrix.chunk_count", im->n_chunk);
        gguf_write_u32(&w, "imatrix.chunk_size", im->chunk);
    }
    for (size_t i = 0; ok && i < im->n; i++) {
        const calib_entry *en = &im->e[i];
        snprintf(name[0], sizeof name[0], "%s.in_sum2", en->name);
        snprintf(name[1], sizeof name[1], "%s.counts", en->name);
        ok = strlen(name[0]) <= GGUF_NAME_MAX ||
             err_set(e, EXIT_INPUT, "%s: the name is too long for an importance matrix, expected at most %d bytes", en->name,
                     GGUF_NAME_MAX - 8);
        if (!ok) break;
        const uint32_t n_dims = en->n_mat > 1 ? 2 : 1;
        gguf_write_tensor(&w, bytes_of(name[0]), K_F32, n_dims, (uint64_t[]){en->n_in, en->n_mat});
        gguf_write_tensor(&w, bytes_of(name[1]), K_F32, n_dims, (uint64_t[]){1, en->n_mat});
    }
    for (size_t i = 0; ok && i < im->n; i++)
        ok =
            calib__put(&w, im->e[i].sum2, im->e[i].n_in * im->e[i].n_mat, e) && calib__put(&w, im->e[i].count, im->e[i].n_mat, e);
    ok = ok && gguf_write_finish(&w, e);
    if (!ok) gguf_write_drop(&w);
    mem_free(sets);
    return ok;
}
