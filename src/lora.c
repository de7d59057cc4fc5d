/* ===== [lora] adapters: low-rank updates of a model's matrices =====
 * An adapter (LoRA: Hu et al. 2021) changes products: y = W x + s (alpha / rank) B (A x). The weights of the model stay as they
 * are, in the mapping and packed; a step computes what adapters add beside its products (OPS_LOW), for each sequence with the
 * adapters that it uses. A file is GGUF as llama.cpp writes it (general.type adapter, adapter.type lora), with NAME.lora_a
 * [rank, in] and NAME.lora_b [out, rank] for a tensor NAME of the model; for token_embd.weight A is [tokens, rank]. Experts have
 * one of both each.
 *   The adapter's numbers are copied, in f16 (lora__form), for merging in f32 where f16 rounds; B in tiles (k_add_low). The
 * file is closed again. It is refused where it belongs to another model, has a tensor that the step would not use, or a number
 * that is none.
 *   The sequences of a run use all adapters, with the scales that the options give, unless they say otherwise (lora_use).
 * Public: lora_is_adapter, lora_describe, lora_split, lora_open, lora_close, lora_find, lora_use, lora_bytes; lora_can_merge,
 * lora_changes, lora_add.
 * Opens: lora, lora_adapter, lora_merge, lora_opts. */

/* Adapters of a run. */
typedef struct {
    const char *const *file;                          /* [n] */
    const float       *scale;                         /* [n] */
    int                n;
    bool               idle;                          /* no sequence uses them but one that says so */
    bool               merge;                         /* their numbers are to be exact, for lora_add() */
} lora_opts;

enum { LORA_MOST = 256, LORA_RANK_MOST = 8192 };      /* adapters of a run; the largest rank */
#define LORA_SCALE_MOST 1e6f                          /* magnitude of alpha, and of the scale of an adapter */

typedef struct {
    char    *name;                                    /* of the file without .gguf, or of the folder */
    const char *path;
    float    scale;                                   /* of a sequence that says nothing */
    float    named;                                   /* that the options give */
    float    alpha;                                   /* 0: the scale alone counts */
    int      n_mat;                                   /* tensors of the model that it changes */
    int      rank;                                    /* the largest */
    uint64_t hash;                                    /* of all that it adds, and how it is kept */
} lora_adapter;

/* Memory in large pages. */
typedef struct {
    uint8_t *p;
    size_t   bytes, used;
} lora_slab;

typedef struct lora {
    lora_adapter *of;                                 /* [n] */
    int           n;
    bool          merge;                              /* lora_opts.merge */
    dev_low     **low;                                /* [n_low] those of each matrix, [n] each */
    int           n_low;
    lora_slab    *slab;                               /* [n_slab] of their numbers */
    int           n_slab;
    uint64_t      n_bytes;                            /* of these numbers */
    dev_adapters *all;                                /* what a sequence uses that says nothing */
} lora;

/* --- options --- */

static char *lora__text(bytes b) {
    char *to = mem_new(b.n + 1, 1);
    if (b.n) memcpy(to, b.p, b.n);
    return to;
}

/* The file and the scale of FILE=SCALE, or as llama.cpp has it FILE:SCALE; of the name of a file, and without a scale, it is 1.
 * The caller frees *path. False: e is set. */
static bool lora_split(const char *spec, char **path, float *scale, err_t *e) {
    const char *eq = strrchr(spec, '='), *colon = strrchr(spec, ':'), *at = eq > colon ? eq : colon;
    struct stat st;
    size_t      n = strlen(spec);
    char       *end;
    *scale = 1;
    if (at && stat(spec, &st) != 0) {
        const double x = strtod(at + 1, &end);
        if ((end == at + 1 || *end) && at == eq)
            return err_set(e, EXIT_INPUT, "--lora %s: the scale is \"%s\", expected a number", spec, at + 1);
        if (end != at + 1 && !*end) {
            if (!(fabs(x) <= (double)LORA_SCALE_MOST))
                return err_set(e, EXIT_INPUT, "--lora %s: the scale is %g, expected -1e6 to 1e6", spec, x);
            *scale = (float)x, n = (size_t)(at - spec);
        }
    }
    if (!n) return err_set(e, EXIT_INPUT, "--lora %s: found no name of a file, expected FILE or FILE=SCALE", spec);
    *path = lora__text((bytes){(const uint8_t *)spec, n});
    return true;
}

/* The name by which requests know it: that of the file without .gguf, or of the folder. */
static char *lora__name(const char *path) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    size_t from = n;
    while (from && path[from - 1] != '/') from--;
    const bytes whole = {(const uint8_t *)path + from, n - from}, tail = bytes_of(".gguf");
    return lora__text(bytes_ends(whole, tail) && whole.n > tail.n ? bytes_slice(whole, 0, whole.n - tail.n) : whole);
}

/* --- reading a file --- */

typedef struct {
    lora            *l;
    lora_adapter    *a;
    int              number;                          /* of the adapter */
    const gguf_file *g;                               /* its file */
    model           *m;
    err_t           *e;
} lora_job;

/* An error at a tensor of the adapter; false. */
__attribute__((format(printf, 3, 4)))
static bool lora__bad(const lora_job *j, const gguf_tensor *t, const char *fmt, ...) {
    char    what[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return gguf_bad(j->g, t->part, t->at, j->e, "tensor %.*s %s", GGUF_SHOW(t->name), what);
}

/* Whether the keys are those of an adapter for this model. */
static bool lora__check_keys(lora_job *j) {
    const gguf_file *g = j->g;
    bytes            type = {0}, kind = {0}, arch = {0}, own = {0};
    if (gguf_get_str(g, "general.type", &type, j->e) < 0 || gguf_get_str(g, "adapter.type", &kind, j->e) < 0) return false;
    if (gguf_get_str(g, "general.architecture", &arch, j->e) < 0) return false;
    if (gguf_get_str(j->m->g, "general.architecture", &own, j->e) < 0) return false;
    if (!bytes_is(type, "adapter"))
        return err_set(j->e, EXIT_INPUT, "%s: general.type is \"%.*s\", expected an adapter", g->path, GGUF_SHOW(type));
    if (!bytes_is(kind, "lora"))
        return err_set(j->e, EXIT_INPUT, "%s: adapter.type is \"%.*s\", expected lora", g->path, GGUF_SHOW(kind));
    if (gguf_find(g, "adapter.alora.invocation_tokens"))
        return err_set(j->e, EXIT_INPUT, "%s: an activated LoRA (adapter.alora.invocation_tokens), expected one for all tokens",
                       g->path);
    if (!bytes_eq(arch, own))
        return err_set(j->e, EXIT_INPUT, "%s: an adapter for architecture \"%.*s\", expected \"%.*s\", that of %s", g->path,
                       GGUF_SHOW(arch), GGUF_SHOW(own), j->m->g->path);
    return gguf_get_f32(g, "adapter.lora.alpha", -LORA_SCALE_MOST, LORA_SCALE_MOST, &j->a->alpha, j->e) >= 0;
}

/* Memory of the adapters, zeros. A step reads all of it, as it reads the weights: in large pages for the same reason. */
static uint8_t *lora__take(lora *l, size_t n) {
    enum { SLAB = 16 << 20, LINE = 64 };
    lora_slab *last = l->n_slab ? &l->slab[l->n_slab - 1] : NULL;
    if (!last || last->bytes - last->used < n) {
        const size_t size = max_size(n, SLAB);
        MEM_PUSH(l->slab, l->n_slab, (lora_slab){mem_pages(size), size, 0});
        last = &l->slab[l->n_slab - 1];
    }
    uint8_t *p = last->p + last->used;
    last->used = min_size(last->bytes, (last->used + n + LINE - 1) / LINE * LINE);
    l->n_bytes += n;
    return p;
}

/* Whether all of n values for a tensor of the model are numbers. */
static bool lora__are_numbers(const lora_job *j, const char *name, const float *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(x[i]) <= FLT_MAX))
            return err_set(j->e, EXIT_INPUT, "%s: value %zu of a matrix for %s is %g, expected a number", j->a->path, i, name,
                           (double)x[i]);
    return true;
}

/* The numbers of a tensor as floats [rows, cols] in memory of the caller; NULL: one of them is none, e is set. */
static float *lora__floats(const lora_job *j, const gguf_tensor *t) {
    const int64_t cols = (int64_t)t->dim[0], rows = (int64_t)(t->dim[1] * t->dim[2]);
    float        *x = mem_new(mem_size((size_t)rows, (size_t)cols), sizeof *x);
    for (int64_t r = 0; r < rows; r++) {
        float *row = x + r * cols;
        gguf_floats(t, (uint64_t)r, 0, row, (uint64_t)cols);
        for (int64_t i = 0; i < cols; i++) {
            if (fabsf(row[i]) <= FLT_MAX) continue;
            lora__bad(j, t, "has %g in row %lld, column %lld, expected a number", (double)row[i], (long long)r,
                      (long long)i);
            mem_free(x);
            return NULL;
        }
    }
    return x;
}

/* How numbers are kept. */
typedef struct {
    uint32_t type;                                    /* f32 or f16 */
    int      up;                                      /* they are multiplied by this power of two */
} lora_form;

/* That of n numbers: f16, times a power of two that brings the largest near the end of its range. Where the largest is 2^-26 or
 * more, all down to 2^-28 of it keep 11 bits, and files in bf16 are kept exactly but for numbers below 2^-31 of it. Files in f16
 * are kept exactly. Merging takes f32 where f16 rounds. */
static lora_form lora__form(const float *x, size_t n, bool merge) {
    enum { MOST = 40 };                               /* so that the scales of both matrices stay normal numbers */
    lora_form f = {K_F16, 0};
    float     most = 0;
    bool      exact = true;
    for (size_t i = 0; i < n; i++) {
        most = fmaxf(most, fabsf(x[i]));
        exact = exact && k_f16_to_f32(k_f32_to_f16(x[i])) == x[i];
    }
    if ((merge && !exact) || most >= 0x1p54f) return (lora_form){K_F32, 0};
    if (!merge && most > 0) f.up = max_int(-MOST, min_int(MOST, 14 - ilogbf(most)));
    if (f.up < 0 && exact) f.up = 0;
    return f;
}

static void lora__put(lora_form f, const float *x, uint8_t *to, size_t n) {
    if (f.type == K_F32) memcpy(to, x, n * sizeof *x);
    else
        for (size_t i = 0; i < n; i++) {
            const uint16_t h = k_f32_to_f16(ldexpf(x[i], f.up));
            memcpy(to + 2 * i, &h, sizeof h);
        }
}

/* Where row r of a matrix is in the file, whose heads are pairs, where the step reads them as halves (ARCH.rope.halves). */
static int64_t lora__pair_row(const model *m, const model_target *to, int il, int64_t r) {
    const arch_layer_hp *l = &m->hp.layer[max_int(il, 0)];
    const int64_t        hd = l->hd_k, in = r % hd, half = hd / 2;
    const bool           heads = to->id == W_Q || to->id == W_K;
    if (!m->hp.halves || m->hp.desc->rope != ROPE_PAIRS || !heads) return r;
    return r - in + (in < half ? 2 * in : 2 * (in - half) + 1);
}

/* B [mats, rows, rank], of which the matrix has n_out rows from to->row on, in tiles. */
static void lora__tiles(const lora_job *j, const model_target *to, int il, const float *b, int64_t rows, lora_form f,
                        dev_low *low) {
    const size_t size = low->type_b == K_F32 ? 4 : 2, rank = (size_t)low->rank;
    const size_t n_out = (size_t)(to->id == W_TOK_EMBD ? to->mat->n_in : to->mat->n_out);   /* of embeddings: values of one */
    const size_t tiles = (n_out + K_LOW_TILE - 1) / K_LOW_TILE;
    low->bytes_b = tiles * rank * K_LOW_TILE * size;
    uint8_t *out = lora__take(j->l, mem_size(low->bytes_b, (size_t)to->mat->n_mat));
    low->b = out;
    for (size_t e = 0; e < (size_t)to->mat->n_mat; e++, out += low->bytes_b)
        for (size_t r = 0; r < n_out; r++) {
            const size_t from = e * (size_t)rows + (size_t)(to->row + lora__pair_row(j->m, to, il, (int64_t)r));
            for (size_t k = 0; k < rank; k++)
                lora__put(f, b + from * rank + k,
                          out + ((r / K_LOW_TILE * rank + k) * K_LOW_TILE + r % K_LOW_TILE) * size, 1);
        }
}

/* The updates of a matrix by all adapters, of which those read so far are there. */
static dev_low *lora__of(lora *l, dev_mat *w) {
    if (w->low) return (dev_low *)w->low;
    dev_low *low = mem_new((size_t)l->n, sizeof *low);
    MEM_PUSH(l->low, l->n_low, low);
    w->low = low;
    w->n_low = l->n;
    return low;
}

static uint64_t lora__hash_floats(uint64_t h, const float *x, size_t n) {
    return bytes_hash(h, (bytes){(const uint8_t *)x, mem_size(n, sizeof *x)});
}

/* What an adapter adds to a tensor of the model. */
typedef struct {
    const char *name;                                 /* of that tensor */
    uint64_t    n_mat, rank, in, out;                 /* sizes of A and B; of embeddings `in` is their number */
    const float *a;                                   /* [n_mat, rank, in], of embeddings [tokens, rank] */
    const float *b;                                   /* [n_mat, out, rank] */
    float       scale;                                /* a factor on B (A x) */
} lora_pair;

/* Puts A and B where the step finds them. */
static void lora__bind(lora_job *j, const lora_pair *p, const model_target *to, int n_to, int il) {
    const size_t    n_a = (size_t)(p->n_mat * p->rank * p->in), n_b = (size_t)(p->n_mat * p->rank * p->out);
    const lora_form fa = lora__form(p->a, n_a, j->l->merge), fb = lora__form(p->b, n_b, j->l->merge);
    const int32_t   kept[] = {(int32_t)fa.type, fa.up, (int32_t)fb.type, fb.up};
    const size_t    all_a = n_a * (fa.type == K_F32 ? 4 : 2);
    uint8_t        *own_a = lora__take(j->l, all_a);
    lora__put(fa, p->a, own_a, n_a);
    for (int i = 0; i < n_to; i++) {
        dev_low *low = &lora__of(j->l, to[i].mat)[j->number];
        *low = (dev_low){.rank = (int)p->rank, .scale = ldexpf(p->scale, -fa.up - fb.up), .type_a = fa.type, .type_b = fb.type,
                         .a = own_a, .bytes_a = all_a / (size_t)p->n_mat};
        lora__tiles(j, &to[i], il, p->b, (int64_t)p->out, fb, low);
    }
    j->a->n_mat++;
    j->a->rank = max_int(j->a->rank, (int)p->rank);
    j->a->hash = bytes_hash(j->a->hash, bytes_of(p->name));
    j->a->hash = bytes_hash(j->a->hash, (bytes){(const uint8_t *)&p->scale, sizeof p->scale});
    j->a->hash = bytes_hash(j->a->hash, (bytes){(const uint8_t *)kept, sizeof kept});
    j->a->hash = lora__hash_floats(lora__hash_floats(j->a->hash, p->a, n_a), p->b, n_b);
}

/* The tensor of the model that p changes; output.weight may be token_embd.weight. NULL: e is set. */
static const gguf_tensor *lora__base(const lora_job *j, const lora_pair *p, model_target *to, int *n_to) {
    int64_t            rows = 0;
    dev_mat           *output = &j->m->glob.mat[W_OUTPUT];
    const gguf_tensor *base = gguf_tensor_find(j->m->g, p->name);
    if (!base && !strcmp(p->name, "output.weight") && output->data) {
        to[0] = (model_target){output, W_OUTPUT, 0};
        *n_to = 1;
        if ((base = gguf_tensor_find(j->m->g, "token_embd.weight"))) return base;
    }
    if (!base) {
        err_set(j->e, EXIT_INPUT, "%s: changes %s, which %s has not: an adapter of another model?", j->a->path, p->name,
                j->m->g->path);
        return NULL;
    }
    *n_to = model_targets(j->m, base, to, &rows);
    if (*n_to > 0 && (rows == (int64_t)base->dim[1] || *n_to == 1)) return base;
    err_set(j->e, EXIT_INPUT, "%s: changes %s, which no adapter can: the step does not multiply with it as it is", j->a->path,
            p->name);
    return NULL;
}

/* Adds what the adapter has for one tensor of the model, if it fits. */
static bool lora__take_pair(lora_job *j, const lora_pair *p) {
    model_target       to[MODEL_TARGETS];
    int                n_to = 0;
    const gguf_tensor *base = lora__base(j, p, to, &n_to);
    if (!base) return false;
    const bool     embeds = to[0].id == W_TOK_EMBD;
    const uint64_t in = base->dim[embeds], out = base->dim[!embeds], mats = base->dim[2];
    if (p->in != in || p->out != out || p->n_mat != mats)
        return err_set(j->e, EXIT_INPUT, "%s: changes %s of %llu x %llu x %llu, which is %llu x %llu x %llu in %s: an adapter of "
                       "another model?", j->a->path, p->name, GGUF_U(p->in), GGUF_U(p->out), GGUF_U(p->n_mat), GGUF_U(in),
                       GGUF_U(out), GGUF_U(mats), j->m->g->path);
    if (p->rank < 1 || p->rank > LORA_RANK_MOST)
        return err_set(j->e, EXIT_INPUT, "%s: changes %s with rank %llu, expected 1 to %d", j->a->path, p->name, GGUF_U(p->rank),
                       LORA_RANK_MOST);
    lora__bind(j, p, to, n_to, model_layer_of(base));
    return true;
}

/* --- GGUF files --- */

/* Both tensors of a pair, A of embeddings with a row for each token. */
static bool lora__pair(lora_job *j, const gguf_tensor *ta, const gguf_tensor *tb, const char *name) {
    const bool embeds = !strcmp(name, "token_embd.weight");
    lora_pair  p = {.name = name, .n_mat = ta->dim[2], .rank = ta->dim[!embeds], .in = ta->dim[embeds], .out = tb->dim[1],
                    .scale = j->a->alpha != 0 ? j->a->alpha / (float)ta->dim[!embeds] : 1};
    if (tb->dim[0] != p.rank || tb->dim[2] != p.n_mat || ta->dim[3] != 1 || tb->dim[3] != 1)
        return lora__bad(j, tb, "is %llu x %llu x %llu, expected %llu x %llu x %llu", GGUF_U(tb->dim[0]), GGUF_U(tb->dim[1]),
                         GGUF_U(tb->dim[2]), GGUF_U(p.rank), GGUF_U(p.out), GGUF_U(p.n_mat));
    float *a = lora__floats(j, ta), *b = a ? lora__floats(j, tb) : NULL;
    p.a = a, p.b = b;
    const bool ok = b && lora__take_pair(j, &p);
    mem_free_all(a, b);
    return ok;
}

static bool lora__tensors(lora_job *j) {
    static const char end_a[] = ".lora_a", end_b[] = ".lora_b";
    const size_t      tail = sizeof end_a - 1;
    for (uint64_t i = 0; i < j->g->n_tensor; i++) {
        const gguf_tensor *t = &j->g->tensor[i];
        const bool         is_a = bytes_ends(t->name, bytes_of(end_a)), is_b = bytes_ends(t->name, bytes_of(end_b));
        const size_t       stem = t->name.n - tail;
        char               other[GGUF_NAME_MAX + 1];
        if (!is_a && !is_b) return lora__bad(j, t, "is neither NAME.lora_a nor NAME.lora_b");
        if (!k_type_weight(t->type)) return lora__bad(j, t, "has type %s, expected a type of weights", k_types[t->type].name);
        snprintf(other, sizeof other, "%.*s%s", (int)stem, (const char *)t->name.p, is_a ? end_b : end_a);
        const gguf_tensor *pair = gguf_tensor_find(j->g, other);
        if (!pair) return lora__bad(j, t, "has no %s beside it", other);
        other[stem] = 0;
        if (is_a && !lora__pair(j, t, pair, other)) return false;
    }
    return j->a->n_mat || err_set(j->e, EXIT_INPUT, "%s: holds no matrix, expected NAME.lora_a and NAME.lora_b", j->g->path);
}

/* What is in a file that is open, as llama.cpp's converter writes it. */
static bool lora__read_gguf(lora_job *j, const gguf_file *g) {
    j->g = g;
    return lora__check_keys(j) && lora__tensors(j);
}

static bool lora__read_file(lora_job *j) {
    gguf_file g;
    if (!gguf_open(&g, j->a->path, j->e)) return false;
    const bool ok = lora__read_gguf(j, &g) && gguf_alive(&g, j->e);
    gguf_close(&g);
    return ok;
}

/* A folder of PEFT. */
static bool lora__read_folder(lora_job *j) {
    const arch_hparams *hp = &j->m->hp;
    int                 at = 0;                       /* the first layer with attention */
    while (at + 1 < hp->n_layer && !hp->layer[at].n_head_kv) at++;
    import_base         of = {.arch = hp->desc->name, .n_layer = hp->n_layer, .n_head = hp->layer[at].n_head,
                              .n_kv = hp->layer[at].n_head_kv, .head_dim = hp->layer[at].hd_k};
    import_adapter      from;
    for (int il = 0; il < hp->n_layer; il++) of.n_expert = max_int(of.n_expert, hp->layer[il].n_expert);
    bool ok = import_adapter_open(&from, j->a->path, &of, j->e);
    for (size_t i = 0; ok && i < from.n; i++) {
        const import_low *low = &from.low[i];
        const size_t      n_a = (size_t)(low->n_mat * low->rank * low->in), n_b = (size_t)(low->n_mat * low->rank * low->out);
        ok = lora__are_numbers(j, low->name, low->a, n_a) && lora__are_numbers(j, low->name, low->b, n_b) &&
             lora__take_pair(j, &(lora_pair){low->name, low->n_mat, low->rank, low->in, low->out, low->a, low->b, low->scale});
    }
    import_adapter_drop(&from);
    return ok;
}

/* Reads adapter `number`. */
static bool lora__read(lora *l, int number, model *m, err_t *e) {
    lora_job   j = {.l = l, .a = &l->of[number], .number = number, .m = m, .e = e};
    const bool folder = import_is_folder(j.a->path);
    if (!(folder ? lora__read_folder : lora__read_file)(&j)) return false;
    log_info("adapter     %s: rank %d, scale %g, %d matrices%s", j.a->path, j.a->rank, (double)j.a->scale, j.a->n_mat,
             folder ? ", a folder of PEFT" : "");
    return true;
}

/* --- public --- */

/* Whether a file holds an adapter in place of a model. */
static bool lora_is_adapter(const gguf_file *g) {
    bytes type = {0};
    return gguf_get_str(g, "general.type", &type, &(err_t){0}) == 1 && bytes_is(type, "adapter");
}

/* What an adapter is, for people: appends "LoRA of rank 8, alpha 16, for 112 matrices". */
static void lora_describe(const gguf_file *g, str *out) {
    bytes    kind = {0};
    float    alpha = 0;
    uint64_t rank = 0;
    int      n = 0;
    for (uint64_t i = 0; i < g->n_tensor; i++) {
        if (!bytes_ends(g->tensor[i].name, bytes_of(".lora_b"))) continue;
        rank = max_u64(rank, g->tensor[i].dim[0]);
        n++;
    }
    gguf_get_str(g, "adapter.type", &kind, &(err_t){0});
    gguf_get_f32(g, "adapter.lora.alpha", -FLT_MAX, FLT_MAX, &alpha, &(err_t){0});
    if (!bytes_is(kind, "lora")) str_put(out, "no LoRA");
    else str_fmt(out, "LoRA of rank %llu, alpha %g, for %d matrices", GGUF_U(rank), (double)alpha, n);
}

/* The adapters of a sequence with these scales [n], 0: not used. The caller frees it. */
static dev_adapters *lora_use(const lora *l, const float *scale) {
    dev_adapters *a = mem_new(1, sizeof *a + (size_t)l->n * sizeof *a->use);
    for (int i = 0; i < l->n; i++) {
        if (scale[i] == 0) continue;
        a->use[a->n++] = (dev_use){i, scale[i]};
        a->mark = bytes_hash(a->mark ^ l->of[i].hash, (bytes){(const uint8_t *)&scale[i], sizeof scale[i]});
    }
    return a;
}

/* Frees the adapters, after the steps that use them; NULL is fine. */
static void lora_close(lora *l) {
    if (!l) return;
    for (int i = 0; i < l->n; i++) mem_free(l->of[i].name);
    for (int i = 0; i < l->n_low; i++) mem_free(l->low[i]);
    for (int i = 0; i < l->n_slab; i++) mem_pages_free(l->slab[i].p, l->slab[i].bytes);
    mem_free_all(l->of, l->low, l->slab, l->all, l);
}

/* The number of the adapter of this name; -1: there is none. */
static int lora_find(const lora *l, bytes name) {
    int i = l->n - 1;
    while (i >= 0 && !bytes_is(name, l->of[i].name)) i--;
    return i;
}

/* Bytes of their numbers. */
static uint64_t lora_bytes(const lora *l) { return l ? l->n_bytes : 0; }

/* Names must be unique, since requests use them. */
static bool lora__unique(const lora *l, err_t *e) {
    for (int i = 0; i < l->n; i++)
        if (lora_find(l, bytes_of(l->of[i].name)) != i)
            return err_set(e, EXIT_INPUT, "--lora: two adapters are named %s, expected names that differ", l->of[i].name);
    return true;
}

static bool lora__open_all(lora *l, const lora_opts *o, model *m, err_t *e) {
    float scale[LORA_MOST];
    for (int i = 0; i < l->n; i++) {
        l->of[i] = (lora_adapter){.path = o->file[i], .name = lora__name(o->file[i]), .named = o->scale[i]};
        scale[i] = l->of[i].scale = o->idle ? 0 : o->scale[i];
    }
    if (!lora__unique(l, e)) return false;
    for (int i = 0; i < l->n; i++)
        if (!lora__read(l, i, m, e)) return false;
    l->all = lora_use(l, scale);
    return true;
}

/* Reads the adapters of the options and makes them part of m, before lists of operations are written for it; m is closed before
 * lora_close(). NULL: there are none, or e is set. */
static lora *lora_open(const lora_opts *o, model *m, err_t *e) {
    if (!o->n) return NULL;
    if (o->n > LORA_MOST) return err_set(e, EXIT_INPUT, "--lora: %d adapters, expected at most %d", o->n, LORA_MOST), NULL;
    lora *l = mem_new(1, sizeof *l);
    l->n = o->n;
    l->merge = o->merge;
    l->of = mem_new((size_t)l->n, sizeof *l->of);
    if (lora__open_all(l, o, m, e)) return l;
    lora_close(l);
    return NULL;
}

/* --- merged weights: W + s (alpha / rank) B A --- */

/* Adapters and the model that they are of. */
typedef struct {
    const lora  *l;
    const model *m;
} lora_merge;

/* Whether merged weights give the same as adapters beside them: not where one matrix is embeddings and output, of which one
 * changes. */
static bool lora_can_merge(const lora *l, const model *m, err_t *e) {
    const dev_mat *embd = &m->glob.mat[W_TOK_EMBD], *output = &m->glob.mat[W_OUTPUT];
    return embd->data != output->data || (!embd->low && !output->low) ||
           err_set(e, EXIT_INPUT, "%s: embeddings and output are one matrix, of which %s changes one use: it cannot be merged",
                   m->g->path, l->n == 1 ? l->of[0].path : "an adapter");
}

/* Whether an adapter changes the tensor of the model's file. ctx: a lora_merge. */
static bool lora_changes(const void *ctx, const gguf_tensor *t) {
    const lora_merge *j = ctx;
    model_target      to[MODEL_TARGETS];
    int64_t           rows;
    const int         n = model_targets(j->m, t, to, &rows);
    bool              yes = false;
    for (int i = 0; i < n; i++)
        for (int k = 0; to[i].mat->low && k < j->l->all->n; k++) yes |= to[i].mat->low[j->l->all->use[k].adapter].rank > 0;
    return yes;
}

/* Value `row`, k of B, which lies in tiles. */
static float lora__b(const dev_low *low, const uint8_t *b, size_t row, int k) {
    const size_t at = (row / K_LOW_TILE * (size_t)low->rank + (size_t)k) * K_LOW_TILE + row % K_LOW_TILE;
    float        x;
    k_types[low->type_b].dequant(b + at * k_row_bytes(low->type_b, 1), &x, 1);
    return x;
}

/* x [n] += what one adapter adds to columns from `col` on of a row of matrix e; of embeddings, of a token. */
static void lora__add_row(const dev_low *low, const model_target *to, float scale, size_t e, size_t row, uint64_t col, int n,
                          float *x, float *tmp) {
    const size_t   each = k_row_bytes(low->type_a, 1);
    const uint8_t *a = low->a + e * low->bytes_a, *b = low->b + e * low->bytes_b;
    if (to->id == W_TOK_EMBD) {
        k_types[low->type_a].dequant(a + row * (size_t)low->rank * each, tmp, low->rank);
        k_scale(tmp, scale, low->rank);
        k_add_low(low->type_b, b, low->rank, tmp, (int)col, n, x);
        return;
    }
    for (int k = 0; k < low->rank; k++) {
        k_types[low->type_a].dequant(a + ((size_t)k * (size_t)to->mat->n_in + col) * each, tmp, n);
        k_axpy(x, tmp, scale * lora__b(low, b, row, k), n);
    }
}

/* Adds what the adapters of the run add to columns [col, col + n) of a row of the tensor. ctx: a lora_merge. */
static void lora_add(const void *ctx, const gguf_tensor *t, uint64_t row, uint64_t col, int n, float *x, float *tmp) {
    const lora_merge *j = ctx;
    const size_t      e = (size_t)(row / t->dim[1]), r = (size_t)(row % t->dim[1]);
    model_target      to[MODEL_TARGETS];
    int64_t           rows;
    const int         n_to = model_targets(j->m, t, to, &rows);
    for (int i = 0; i < n_to; i++) {
        if (r < (size_t)to[i].row || r >= (size_t)to[i].row + (size_t)to[i].mat->n_out) continue;
        for (int k = 0; to[i].mat->low && k < j->l->all->n; k++) {
            const dev_use use = j->l->all->use[k];
            const dev_low *low = &to[i].mat->low[use.adapter];
            const float    own = to[i].mat->scale && t->type != K_I2_S ? to[i].mat->scale[e] : 1;   /* of W x alone */
            if (low->rank) lora__add_row(low, &to[i], use.scale * low->scale / own, e, r - (size_t)to[i].row, col, n, x, tmp);
        }
    }
}
