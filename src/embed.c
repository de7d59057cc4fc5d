/* ===== [embed] vectors of texts =====
 * The rows of a text after the last norm become one vector: pooled, cut to the wanted length, normalised. Rows
 * come in rising position, as many at a time as a step has; sums are in double precision and in this order, so
 * that a vector has the same bits however its text was read.
 * Public: embed_opts, embed_defaults, embed_each, embed_pooling_of, embed_width, embed_check, embed_limit, embed_cut, embed_new,
 * embed_free, embed_wants, embed_restart, embed_add, embed_end, embed_put_text, embed_put_object,
 * embed_put_npy.
 * Opens: embed, embed_opts. */

typedef struct {
    int pooling;                                      /* arch_pooling; -1: the file's */
    int norm;                                         /* -1: none; 0: the largest magnitude becomes 32760; P: the P-norm is 1 */
    const char *prefix;                               /* before each text; NULL: nothing */
    bool truncate;                                    /* texts are cut to so many tokens as the model takes, */
    int  limit;                                       /* which embed_limit() finds; 0: they are not */
} embed_opts;

/* Whether each token of a text has a vector. */
static bool embed_each(const embed_opts *o) { return o->pooling == POOLING_NONE; }

static const embed_opts embed_defaults = {.pooling = -1, .norm = 2};

/* The pooling with this name; -1: none has it. */
static int embed_pooling_of(const char *name) {
    static const char *const names[POOLINGS] = {"none", "mean", "cls", "last", "rank"};
    int i = POOLINGS - 1;
    while (i >= 0 && strcmp(name, names[i]) != 0) i--;
    return i;
}

/* Tokens of a text that is cut: what the context holds, or fewer where the file has a key ARCH.max_seq_length, which is the limit
 * that sentence-transformers cuts texts to. 0: e is set. */
static int embed_limit(const model *m, int n_ctx, err_t *e) {
    str      key = {0};
    uint64_t most = (uint64_t)n_ctx;
    str_fmt(&key, "%s.max_seq_length", m->hp.desc->name);
    const int got = gguf_get_u64(m->g, key.p, 1, UINT32_MAX, &most, e);
    str_drop(&key);
    return got < 0 ? 0 : (int)min_u64(most, (uint64_t)n_ctx);
}

/* Cuts the tokens of a text to o->limit. ends: the last one ends the text, and stays the last one. True: some were cut. */
static bool embed_cut(const embed_opts *o, tok_ids *ids, bool ends) {
    const size_t most = (size_t)o->limit;
    if (!most || ids->n <= most) return false;
    if (ends) ids->id[most - 1] = ids->id[ids->n - 1];
    ids->n = most;
    return true;
}

/* A text that is being read. */
typedef struct {
    embed_opts o;
    const model *m;
    int     rows;                                     /* o.pooling; of POOLING_RANK, what is before its classifier */
    int     n_tokens;                                 /* tokens of the text */
    int     n_embd;                                   /* values of a row */
    bool    whole;                                    /* rows before the last one are needed: none may come from a cache */
    int     n;                                        /* rows so far */
    double *sum;                                      /* [D] of POOLING_MEAN, else NULL */
    float  *v;                                        /* [rows, D] of POOLING_NONE all, else one */
    float  *temp;                                     /* [3, embed__widest()] for matrices after pooling; NULL: there are none */
} embed;

/* Values of a vector. */
static int embed_width(const model *m, const embed_opts *o) { return o->pooling == POOLING_RANK ? m->hp.n_class : m->hp.n_embd; }

/* The most values that anything after pooling has. */
static size_t embed__widest(const model *m) {
    const int n[] = {m->hp.n_embd, m->hp.n_pooled, m->hp.n_class};
    int       most = 0;
    for (int i = 0; i < 3; i++) most = max_int(most, n[i]);
    return (size_t)most;
}

/* Of which rows a vector is made. A classifier with a norm is that of ModernBERT, after the mean; others are
 * after the first row or, where only the last one has seen all of the text, that. */
static int embed__rows(const model *m, const embed_opts *o) {
    if (o->pooling != POOLING_RANK) return o->pooling;
    return m->glob.vec[W_CLS_NORM] ? POOLING_MEAN : m->hp.causal ? POOLING_LAST : POOLING_CLS;
}

/* Whether the model has what is asked for. */
static bool embed_check(const model *m, const embed_opts *o, err_t *e) {
    return o->pooling != POOLING_RANK || m->glob.mat[W_CLS_OUT].data ||
           err_set(e, EXIT_INPUT, "--pooling rank: the model has no classifier (cls.output.weight), expected a reranker");
}

/* Begins a text of n_tokens; embed_check() holds for o. To be freed by embed_free(). */
static embed *embed_new(const model *m, const embed_opts *o, int n_tokens) {
    embed       *x = mem_new(1, sizeof *x);
    const size_t n = (size_t)m->hp.n_embd;
    *x = (embed){.o = *o, .m = m, .rows = embed__rows(m, o), .n_tokens = n_tokens, .n_embd = m->hp.n_embd,
                 .whole = model_whole(m) || embed__rows(m, o) != POOLING_LAST};
    if (m->glob.mat[W_DENSE_2].data || o->pooling == POOLING_RANK)
        x->temp = mem_new(mem_size(3, embed__widest(m)), sizeof *x->temp);
    if (x->rows == POOLING_MEAN) x->sum = mem_new(n, sizeof *x->sum);
    x->v = mem_new(embed_each(o) ? mem_size((size_t)n_tokens, n) : embed__widest(m), sizeof *x->v);
    return x;
}

/* Frees a text and the vectors that embed_end() has not moved; NULL is none. */
static void embed_free(embed *x) {
    if (!x) return;
    mem_free(x->sum);
    mem_free(x->v);
    mem_free(x->temp);
    mem_free(x);
}

/* Whether the row at a position is needed. */
static bool embed_wants(const embed *x, int pos) {
    if (x->rows == POOLING_CLS) return pos == 0;
    return x->rows != POOLING_LAST || pos == x->n_tokens - 1;
}

/* The text is read again from its beginning. */
static void embed_restart(embed *x) {
    x->n = 0;
    if (x->sum) memset(x->sum, 0, (size_t)x->n_embd * sizeof *x->sum);
}

/* The next row that is needed, [D]. Allocates nothing. */
static void embed_add(embed *x, const float *row) {
    const size_t n = (size_t)x->n_embd;
    if (x->rows == POOLING_MEAN)
        for (size_t i = 0; i < n; i++) x->sum[i] += (double)row[i];
    else memcpy(x->v + (embed_each(&x->o) ? (size_t)x->n * n : 0), row, n * sizeof *row);
    x->n++;
}

/* y = w x, with the bias if there is one. Few rows of a text need it, so each weight is read as a float, and sums
 * are double. row: space for n_in values. */
static void embed__times(const dev_mat *w, const float *bias, const float *x, float *row, float *y) {
    for (int r = 0; r < w->n_out; r++) {
        double sum = bias ? (double)bias[r] : 0;
        k_types[w->type].dequant(w->data + (size_t)r * w->row_bytes, row, w->n_in);
        if (w->scale) k_scale(row, w->scale[0], w->n_in);
        for (int i = 0; i < w->n_in; i++) sum += (double)row[i] * (double)x[i];
        y[r] = (float)sum;
    }
}

/* The scores of a classifier: a matrix with tanh, or with GELU and a norm, where there is one; then the matrix to
 * the classes. Those of a decoder are probabilities. */
static void embed__classify(const embed *x, float *v) {
    const model   *m = x->m;
    const dev_mat *w = m->glob.mat;
    const size_t   n = embed__widest(m);
    float         *y = x->temp, *row = y + n, *in = row + n;
    const float *const *vec = m->glob.vec;
    memcpy(in, v, (size_t)x->n_embd * sizeof *in);
    if (w[W_CLS].data) {
        embed__times(&w[W_CLS], vec[B_CLS], v, row, in);
        if (vec[W_CLS_NORM]) {
            k_activate(K_GELU_ERF, in, NULL, x->n_embd);
            k_layer_norm(in, vec[W_CLS_NORM], NULL, m->hp.eps, x->n_embd, in);
        } else
            for (int i = 0; i < x->n_embd; i++) in[i] = tanhf(in[i]);
    }
    embed__times(&w[W_CLS_OUT], vec[B_CLS_OUT], in, row, y);
    if (m->hp.causal) k_softmax(y, m->hp.n_class);
    memcpy(v, y, (size_t)m->hp.n_class * sizeof *v);
}

/* What a model has after pooling: a classifier, or two matrices. */
static void embed__after_pooling(const embed *x, float *v) {
    const size_t n = embed__widest(x->m);
    if (x->o.pooling == POOLING_RANK) embed__classify(x, v);
    else if (x->temp && !embed_each(&x->o)) {
        embed__times(&x->m->glob.mat[W_DENSE_2], NULL, v, x->temp, x->temp + n);
        embed__times(&x->m->glob.mat[W_DENSE_3], NULL, x->temp + n, x->temp, v);
    }
}

/* The sum of |v|^p, p-th root; values are scaled by the largest magnitude, so that no power overflows. */
static double embed__norm(const float *v, int n, double most, int p) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += p == 2 ? (double)v[i] / most * ((double)v[i] / most) : pow(fabs((double)v[i]) / most, p);
    return most * (p == 2 ? sqrt(sum) : pow(sum, 1.0 / p));
}

/* A vector of zeros stays as it is. */
static void embed__normalize(float *v, int n, int norm) {
    double most = 0;
    for (int i = 0; i < n; i++) most = fmax(most, fabs((double)v[i]));
    if (norm < 0 || most <= 0) return;
    const double by = norm ? embed__norm(v, n, most, norm) : most / 32760;
    for (int i = 0; i < n; i++) v[i] = (float)((double)v[i] / by);
}

/* All rows have been added: moves the vectors [*n, *width] to the caller. */
static float *embed_end(embed *x, int *n, int *width) {
    float       *v = x->v;
    const size_t D = (size_t)x->n_embd;
    *n = embed_each(&x->o) ? x->n : 1;
    *width = embed_width(x->m, &x->o);
    for (size_t i = 0; x->sum && i < D; i++) v[i] = (float)(x->sum[i] / x->n);
    embed__after_pooling(x, v);
    for (int r = 0; r < *n; r++) {
        float *to = v + (size_t)r * (size_t)*width;
        memmove(to, v + (size_t)r * D, (size_t)*width * sizeof *v);
        if (x->o.pooling != POOLING_RANK) embed__normalize(to, *width, x->o.norm);
    }
    x->v = NULL;
    return v;
}

/* Numbers on a line for each vector. */
static void embed_put_text(const float *v, int n, int width, str *out) {
    for (size_t i = 0; i < (size_t)n * (size_t)width; i++)
        str_fmt(out, "%.9g%s", (double)v[i], (i + 1) % (size_t)width ? " " : "\n");
}

/* {"object":"embedding","index":I,"embedding":...}: a list of numbers, or of such lists where there are several
 * vectors, or base64 of the little-endian float32 of all. */
static void embed_put_object(const float *v, int n, int width, bool several, bool base64, int index, jw *w) {
    jw_open(w, NULL, '{');
    jw_str(w, "object", "embedding");
    jw_fmt(w, "index", "%d", index);
    if (base64) jw_base64(w, "embedding", (bytes){(const uint8_t *)v, (size_t)n * (size_t)width * sizeof *v});
    else if (several) jw_open(w, "embedding", '[');
    for (int r = 0; r < n && !base64; r++) {
        jw_open(w, several ? NULL : "embedding", '[');
        for (int i = 0; i < width; i++) jw_fmt(w, NULL, "%.9g", (double)v[(size_t)r * (size_t)width + (size_t)i]);
        jw_close(w, ']');
    }
    if (several && !base64) jw_close(w, ']');
    jw_close(w, '}');
}

/* Appends the 128 bytes before the floats of NumPy's file (.npy, version 1.0) with so many rows. */
static void embed_put_npy(long long n, int width, str *out) {
    enum { HEAD = 128 };
    const size_t begin = out->n;
    str_add(out, "\x93NUMPY\x01\x00\x76\x00", 10);   /* 118 bytes follow */
    str_fmt(out, "{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %d), }", n, width);
    while (out->n < begin + HEAD - 1) str_put(out, " ");
    str_put(out, "\n");
}
