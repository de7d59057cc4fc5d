/* ===== [eval] perplexity and KL divergence =====
 * Perplexity of a model on a text, and the KL divergence of its distributions from those of another model, which that one has
 * written to a file.
 *   A text is cut into windows of n_ctx tokens. Without a stride the windows follow one another; each begins with the start
 * token if the model adds one (it replaces the first token), and the tokens of the second half are scored, so that each has
 * at least half a window of context. With a stride the windows overlap, no token is replaced, and the last `stride` tokens of
 * each are scored. Steps take the rows of all windows one after another, up to a full batch: a row's result does not depend
 * on the other rows, so neither batch size nor threads change a figure.
 *   A base is a GGUF file (general.type "llmrun.logits"): the tokens of the windows, and for each scored position a record,
 * little-endian: u32 most likely token; f32 log p of the token in the text; f32 log of the mass outside the k most likely
 * tokens; f32 log p of those k; their ids, u16 or (vocabularies above 65,536) u32, padded to 4 bytes. Where k is the whole
 * vocabulary the log p are in the order of ids, and the ids are left out. The mass outside the k counts as one outcome of a
 * divergence. The divergence inside it is lost: the figure is a lower bound, and exact with --kl-top-k 0. f32 values have a
 * relative error of up to 6e-8, which limits a mean divergence to about 1e-8; a model against itself gives 0.
 * Public: eval_opts, eval_plan_text, eval_perplexity, eval_base_open, eval_base_close, eval_plan_base, eval_measure,
 * eval_divergence.
 * Opens: eval_opts, eval_result, eval_base, eval_plan. */

typedef struct {
    int         n_chunks;                             /* windows at most; -1: all */
    int         stride;                               /* tokens; 0: no overlap */
    const char *base;                                 /* file for the distributions; NULL: none */
    int         top_k;                                /* tokens of each distribution in it; 0: all */
} eval_opts;

static const eval_opts eval_defaults = {-1, 0, NULL, 256};

enum { EVAL_CTX = 512, EVAL_CTX_MIN = 4 };            /* tokens of a window: default; minimum */

typedef struct {                                      /* the windows over a text */
    const int32_t *id;
    int64_t        step;                              /* tokens from one window to the next */
    int            n_ctx, n_chunk;                    /* tokens of a window; windows */
    int            first;                             /* positions first <= p < n_ctx - 1 are scored: they predict p + 1 */
    int32_t        bos;                               /* replaces the first token of each window; -1: it stays */
} eval_plan;

/* Scored positions of a window. */
static int eval__each(const eval_plan *p) { return p->n_ctx - 1 - p->first; }

static int32_t eval__token(const eval_plan *p, int chunk, int pos) {
    return pos == 0 && p->bos >= 0 ? p->bos : p->id[chunk * p->step + pos];
}

/* Plans windows of n_ctx tokens over ids. bos: the start token; -1: none. On failure e is set. */
static bool eval_plan_text(eval_plan *p, const tok_ids *ids, int n_ctx, int32_t bos, const eval_opts *o, err_t *e) {
    *p = (eval_plan){.id = ids->id, .step = o->stride ? o->stride : n_ctx, .n_ctx = n_ctx,
                     .first = o->stride ? n_ctx - 1 - o->stride : n_ctx / 2,
                     .bos = o->stride ? -1 : bos};
    if (n_ctx < EVAL_CTX_MIN)
        return err_set(e, EXIT_INPUT, "windows of %d tokens, expected at least %d (-c N)", n_ctx, EVAL_CTX_MIN);
    if (o->stride >= n_ctx)
        return err_set(e, EXIT_INPUT, "--ppl-stride: %d does not fit a window of %d tokens, expected less (-c N)",
                       o->stride, n_ctx);
    p->n_chunk = tok_chunks(ids->n, n_ctx, (int)p->step, o->n_chunks, e);
    return p->n_chunk > 0;
}

/* --- a record: the most likely tokens of one distribution, and the mass of the others --- */

typedef struct {
    int    n_vocab, k, id_bytes;                      /* id_bytes 0: all of the vocabulary, in order */
    size_t bytes;
} eval_form;

enum { EVAL_LOGP = 12, EVAL_VERSION = 1, EVAL_TOKENS = 1 << 28 };  /* where the k values begin in a record; tokens of a base */

static eval_form eval__form(int n_vocab, int k) {
    eval_form f = {n_vocab, min_int(k, n_vocab), n_vocab > 65536 ? 4 : 2, 0};
    if (f.k == n_vocab) f.id_bytes = 0;
    f.bytes = (EVAL_LOGP + (size_t)f.k * (size_t)(4 + f.id_bytes) + 3) & ~(size_t)3;
    return f;
}

/* The form with top_k tokens, or with all where that is not larger. */
static eval_form eval__form_for(int n_vocab, int top_k) {
    const eval_form all = eval__form(n_vocab, n_vocab), some = eval__form(n_vocab, top_k);
    return top_k > 0 && some.bytes < all.bytes ? some : all;
}

static int32_t eval__id(const eval_form *f, const uint8_t *rec, int i) {
    const uint8_t *p = rec + EVAL_LOGP + (size_t)f->k * 4 + (size_t)i * (size_t)f->id_bytes;
    uint16_t       u;
    uint32_t       v;
    if (f->id_bytes == 0) return i;
    if (f->id_bytes == 2) return memcpy(&u, p, 2), u;
    memcpy(&v, p, 4);
    return v < INT32_MAX ? (int32_t)v : INT32_MAX;
}

static float eval__f32(const uint8_t *rec, size_t at) {
    float x;
    memcpy(&x, rec + at, sizeof x);
    return x;
}

typedef struct {                                      /* one thread's */
    int32_t *heap;                                    /* [k] */
    uint8_t *mark;                                    /* [V] 1: among the k; zeros between rows */
    uint8_t *rec;                                     /* [form.bytes] a copy: what is checked is what is used */
} eval_scratch;

static double eval__lse(const float *x, int n) {
    double       top;
    const double sum = gen_exp_sum(x, n, &top);
    return top + log(sum);
}

/* log of the mass of the tokens without a mark, of which there is one at least. */
static float eval__tail(const float *x, int n, const uint8_t *mark, double lse) {
    float  top = -INFINITY;
    double sum = 0;
    for (int i = 0; i < n; i++)
        if (!mark[i] && x[i] > top) top = x[i];
    for (int i = 0; i < n; i++)
        if (!mark[i]) sum += exp((double)x[i] - (double)top);
    const float tail = (float)((double)top - lse + log(sum));
    return tail < 0 ? tail : 0;
}

/* Whether token a comes before b: by falling logit, among equals by number. */
static bool eval__before(const float *x, int32_t a, int32_t b) { return x[a] > x[b] || (x[a] == x[b] && a < b); }

/* Moves heap[i] down until the heap is valid: each entry comes after its children in the order. */
static void eval__sink(const float *x, int32_t *heap, int n, int i) {
    for (int c; (c = 2 * i + 1) < n; i = c) {
        if (c + 1 < n && eval__before(x, heap[c], heap[c + 1])) c++;
        if (!eval__before(x, heap[i], heap[c])) return;
        const int32_t t = heap[i];
        heap[i] = heap[c], heap[c] = t;
    }
}

/* heap[0, k) gets the first k tokens of the order, sorted. */
static void eval__top(const float *x, int n, int32_t *heap, int k) {
    for (int i = 0; i < k; i++) heap[i] = i;
    for (int i = k / 2; i-- > 0;) eval__sink(x, heap, k, i);
    for (int i = k; i < n; i++)
        if (eval__before(x, i, heap[0])) heap[0] = i, eval__sink(x, heap, k, 0);
    for (int m = k; m-- > 1;) {
        const int32_t last = heap[0];
        heap[0] = heap[m], heap[m] = last;
        eval__sink(x, heap, m, 0);
    }
}

static void eval__pack(const eval_form *f, const float *x, double lse, int32_t next, eval_scratch *s, uint8_t *rec) {
    const float came = (float)((double)x[next] - lse);
    float       tail = -INFINITY;
    int         top = 0;
    k_max(x, f->n_vocab, &top);
    memset(rec, 0, f->bytes);
    if (f->id_bytes) {
        eval__top(x, f->n_vocab, s->heap, f->k);
        for (int i = 0; i < f->k; i++) s->mark[s->heap[i]] = 1;
        tail = eval__tail(x, f->n_vocab, s->mark, lse);
    }
    for (int i = 0; i < f->k; i++) {
        const int32_t  id = f->id_bytes ? s->heap[i] : i;
        const uint16_t narrow = (uint16_t)id;
        const float    logp = (float)((double)x[id] - lse);
        uint8_t       *at = rec + EVAL_LOGP + (size_t)f->k * 4 + (size_t)i * (size_t)f->id_bytes;
        memcpy(rec + EVAL_LOGP + (size_t)i * 4, &logp, 4);
        if (f->id_bytes == 2) memcpy(at, &narrow, 2);
        if (f->id_bytes == 4) memcpy(at, &id, 4);
        if (f->id_bytes) s->mark[id] = 0;
    }
    memcpy(rec, &top, 4);
    memcpy(rec + 4, &came, 4);
    memcpy(rec + 8, &tail, 4);
}

/* What is wrong with a record; NULL: nothing. Afterwards its tokens are marked, up to the error. */
static const char *eval__check(const eval_form *f, const uint8_t *rec, eval_scratch *s) {
    const float came = eval__f32(rec, 4), tail = eval__f32(rec, 8);
    double      sum = f->id_bytes ? exp((double)tail) : 0;
    uint32_t    top;
    memcpy(&top, rec, 4);
    if (top >= (uint32_t)f->n_vocab) return "a likeliest token outside the vocabulary";
    if (!(came <= 0 && isfinite(came))) return "a log-probability above 0 or without end";
    if (f->id_bytes && !(tail <= 0 && isfinite(tail))) return "a tail of more than all or none";
    for (int i = 0; i < f->k; i++) {
        const float   logp = eval__f32(rec, EVAL_LOGP + (size_t)i * 4);
        const int32_t id = eval__id(f, rec, i);
        if (id >= f->n_vocab) return "a token outside the vocabulary";
        if (s->mark[id]) return "a token twice";
        if (!(logp <= 0 && isfinite(logp))) return "a log-probability above 0 or without end";
        s->mark[id] = 1;
        sum += exp((double)logp);
    }
    return fabs(sum - 1) < 1e-3 ? NULL : "probabilities that do not add up to 1";
}

typedef struct {                                      /* what one row gives */
    double      nll, nll_base;                        /* -log p of the token in the text */
    double      kld, dp;                              /* divergence from the base; p of the token minus the base's p */
    bool        same;                                 /* the most likely token is that of the base */
    const char *wrong;                                /* error in the record; NULL: none */
} eval_score;

/* Compares a row of logits with a record. Both sides are rounded to f32 in the same way. */
static void eval__compare(const eval_form *f, const float *x, double lse, const uint8_t *mapped, eval_scratch *s,
                          eval_score *out) {
    const uint8_t *rec = memcpy(s->rec, mapped, f->bytes);
    int            top = 0;
    uint32_t       top_base;
    out->kld = 0;
    out->wrong = eval__check(f, rec, s);
    for (int i = 0; !out->wrong && i < f->k; i++) {
        const float logp = eval__f32(rec, EVAL_LOGP + (size_t)i * 4);
        const float logq = (float)((double)x[eval__id(f, rec, i)] - lse);
        out->kld += exp((double)logp) * ((double)logp - (double)logq);
    }
    if (!out->wrong && f->id_bytes) {
        const float tail = eval__f32(rec, 8);
        out->kld += exp((double)tail) * ((double)tail - (double)eval__tail(x, f->n_vocab, s->mark, lse));
    }
    memset(s->mark, 0, (size_t)f->n_vocab);
    memcpy(&top_base, rec, 4);
    k_max(x, f->n_vocab, &top);
    out->same = top == (int)top_base;
    out->nll = -(double)(float)-out->nll;
    out->nll_base = -(double)eval__f32(rec, 4);
    out->dp = exp(-out->nll) - exp(-out->nll_base);
}

/* --- a base in a file --- */

typedef struct {
    gguf_file      g;
    eval_form      form;
    int            n_ctx, n_chunk;
    tok_ids        ids;                               /* [n_chunk][n_ctx] */
    const uint8_t *rec;                               /* [n_chunk][n_ctx - 1 - n_ctx / 2][form.bytes] */
    uint64_t       rec_at;                            /* where they begin in the file */
    bytes          name;                              /* of the model that wrote it */
} eval_base;

/* Frees what eval_base_open() read. */
static void eval_base_close(eval_base *b) {
    gguf_close(&b->g);
    tok_ids_drop(&b->ids);
}

/* A required number. On failure e is set. */
static bool eval__number(const eval_base *b, const char *key, uint64_t lo, uint64_t hi, int *out, err_t *e) {
    uint64_t  v = 0;
    const int got = gguf_get_u64(&b->g, key, lo, hi, &v, e);
    *out = (int)v;
    return got > 0 ||
           (got == 0 && err_set(e, EXIT_INPUT, "%s: no key %s, expected a file of --kl-divergence-base", b->g.path, key));
}

/* A required tensor of this type and row length, and its number of rows. On failure NULL, and e is set. */
static const gguf_tensor *eval__tensor(const eval_base *b, const char *name, uint32_t type, size_t n_row,
                                       uint64_t *n_rows, err_t *e) {
    const gguf_tensor *t = gguf_tensor_find(&b->g, name);
    if (!t) err_set(e, EXIT_INPUT, "%s: no tensor %s, expected a file of --kl-divergence-base", b->g.path, name);
    else if (t->type != type || t->dim[0] != n_row || t->n_dims != 2) {
        err_set(e, EXIT_INPUT, "%s: tensor %s has another type or shape, expected rows of %zu %s", b->g.path,
                name, n_row, k_types[type].name);
        t = NULL;
    } else *n_rows = t->dim[1];
    return t;
}

static bool eval__base_tokens(eval_base *b, const gguf_tensor *t, err_t *e) {
    if (t->n_bytes / 4 > EVAL_TOKENS)
        return err_set(e, EXIT_INPUT, "%s: more than %d tokens, expected those of a text", b->g.path, EVAL_TOKENS);
    for (uint64_t i = 0; i < t->n_bytes / 4; i++) {
        int32_t id;
        memcpy(&id, t->data + 4 * i, 4);
        if (id < 0 || id >= b->form.n_vocab)
            return err_set(e, EXIT_INPUT, "%s: token %llu is %d, expected 0 to %d", b->g.path,
                           (unsigned long long)i, id, b->form.n_vocab - 1);
        tok_ids_add(&b->ids, id);
    }
    return true;
}

/* Reads and checks everything except the records, which are checked when they are used. */
static bool eval__base_read(eval_base *b, err_t *e) {
    uint64_t n_chunk = 0, n_rec = 0;
    int      version, n_vocab, k;
    bytes    type = {0};
    if (gguf_get_str(&b->g, "general.type", &type, e) < 0) return false;
    if (!bytes_is(type, "llmrun.logits"))
        return err_set(e, EXIT_INPUT, "%s: not a file of --kl-divergence-base, expected one", b->g.path);
    if (!eval__number(b, "logits.version", EVAL_VERSION, EVAL_VERSION, &version, e) ||
        !eval__number(b, "logits.vocab_size", 1, INT32_MAX, &n_vocab, e) ||
        !eval__number(b, "logits.top_k", 1, (uint64_t)n_vocab, &k, e) ||
        !eval__number(b, "logits.context_length", EVAL_CTX_MIN, INT32_MAX, &b->n_ctx, e) ||
        gguf_get_str(&b->g, "general.name", &b->name, e) < 0)
        return false;
    b->form = eval__form(n_vocab, k);
    const gguf_tensor *ids = eval__tensor(b, "tokens", K_I32, (size_t)b->n_ctx, &n_chunk, e);
    const gguf_tensor *rec = ids ? eval__tensor(b, "records", K_I8, b->form.bytes, &n_rec, e) : NULL;
    if (!rec) return false;
    const uint64_t each = (uint64_t)(b->n_ctx - 1 - b->n_ctx / 2);
    if (n_chunk > INT32_MAX || n_rec / each != n_chunk || n_rec % each)
        return err_set(e, EXIT_INPUT, "%s: %llu records for %llu windows, expected %llu for each", b->g.path,
                       (unsigned long long)n_rec, (unsigned long long)n_chunk, (unsigned long long)each);
    b->n_chunk = (int)n_chunk;
    b->rec = rec->data;
    b->rec_at = rec->at;
    return eval__base_tokens(b, ids, e);
}

/* Opens the base that another run wrote. False: e is set, and eval_base_close() is still to be called. */
static bool eval_base_open(eval_base *b, const char *path, err_t *e) {
    *b = (eval_base){0};
    if (!gguf_open(&b->g, path, e)) return false;
    if (eval__base_read(b, e)) return true;
    eval_base_close(b);
    return false;
}

/* Plans the windows of a base. */
static bool eval_plan_base(eval_plan *p, const eval_base *b, const eval_opts *o, err_t *e) {
    const eval_opts own = {.n_chunks = o->n_chunks};
    return eval_plan_text(p, &b->ids, b->n_ctx, -1, &own, e);
}

/* Begins a base file: writes header and tokens; records follow. */
static bool eval__base_start(gguf_writer *w, const char *path, const eval_plan *p, const eval_form *f,
                             const gguf_file *from, err_t *e) {
    const uint64_t ids[] = {(uint64_t)p->n_ctx, (uint64_t)p->n_chunk};
    const uint64_t recs[] = {f->bytes, (uint64_t)p->n_chunk * (uint64_t)eval__each(p)};
    bytes          name = {0};
    err_t          none = {0};
    if (!gguf_write_start(w, path, 32, from, e)) return false;
    gguf_get_str(from, "general.name", &name, &none);
    gguf_write_str(w, "general.type", bytes_of("llmrun.logits"));
    gguf_write_str(w, "general.name", name);
    gguf_write_u32(w, "logits.version", EVAL_VERSION);
    gguf_write_u32(w, "logits.vocab_size", (uint32_t)f->n_vocab);
    gguf_write_u32(w, "logits.context_length", (uint32_t)p->n_ctx);
    gguf_write_u32(w, "logits.top_k", (uint32_t)f->k);
    gguf_write_tensor(w, bytes_of("tokens"), K_I32, 2, ids);
    gguf_write_tensor(w, bytes_of("records"), K_I8, 2, recs);
    for (int c = 0; c < p->n_chunk; c++)
        for (int i = 0; i < p->n_ctx; i++) {
            const int32_t id = eval__token(p, c, i);
            if (!gguf_write_data(w, &id, sizeof id, e)) return false;
        }
    return true;
}

/* --- means by Welford's algorithm, which is exact for small differences of large numbers --- */

typedef struct {
    int64_t n;
    double  mean, m2;                                 /* m2: sum of squared distances from the mean */
} eval_mean;

static void eval__add(eval_mean *m, double x) {
    const double d = x - m->mean;
    m->mean += d / (double)++m->n;
    m->m2 += d * (x - m->mean);
}

/* The standard error of the mean; 0 for fewer than two values. */
static double eval__error(const eval_mean *m) { return m->n > 1 ? sqrt(m->m2 / (double)m->n / (double)(m->n - 1)) : 0; }

/* --- one run over the windows --- */

typedef struct {
    engine          *eng;
    const eval_plan *plan;
    int32_t         *next;                            /* [max_out] the token after each row with logits */
    eval_score      *score;                           /* [max_out] results of the rows */
    const float     *logits;                          /* [n_out, V] of this step */
    int              n_out;
    int64_t          at;                              /* scored positions before this step */
    eval_form        form;                            /* of the records that are written or read */
    eval_scratch    *scratch;                         /* [threads]; NULL: no records */
    gguf_writer     *to;                              /* the file for them, or NULL */
    uint8_t         *rec;                             /* [max_out][form.bytes] records of this step */
    const eval_base *base;                            /* the base they come from, or NULL */
    eval_mean        nll, nll_base;                   /* negative log-likelihood of a token: here, in the base */
    eval_mean        ratio;                           /* nll - nll_base */
    eval_mean        kld;                             /* KL divergence from the base */
    eval_mean        dp, dp2;                         /* difference of the token's probability, and its square */
    double          *klds, *dps;                      /* [scored] with a base */
    int64_t          n_same;
    double           t0;
    engine_meter     meter;
} eval_run;

/* Each thread takes rows of logits. */
static void eval__rows(void *ctx, int ith) {
    eval_run *r = ctx;
    const int V = r->eng->m.hp.n_vocab;
    for (int i; (i = pool_deal(r->eng->p, r->n_out, NULL)) != POOL_NONE;) {
        const float *x = r->logits + (size_t)i * (size_t)V;
        const double lse = eval__lse(x, V);
        r->score[i].nll = lse - (double)x[r->next[i]];
        if (r->to) eval__pack(&r->form, x, lse, r->next[i], &r->scratch[ith], r->rec + (size_t)i * r->form.bytes);
        if (r->base)
            eval__compare(&r->form, x, lse, r->base->rec + (size_t)(r->at + i) * r->form.bytes,
                          &r->scratch[ith], &r->score[i]);
    }
}

/* Number of rows of a window from `pos` that fit into a step after n rows, n_out of them with logits. */
static int eval__fit(const eval_run *r, int pos, int n, int n_out) {
    const eval_plan *p = r->plan;
    const int        room = r->eng->n_batch - n, left = p->n_ctx - 1 - pos;
    const int        quiet = max_int(p->first - pos, 0);                 /* rows before the first scored one */
    const int most = min_int(room, left), loud = r->eng->max_out - n_out;
    return most - quiet > loud ? quiet + loud : most;
}

typedef struct {                                      /* position of the next step in the windows */
    int      chunk, pos;
    kv_seq  *seq;                                     /* of the current window; NULL: not begun */
    kv_seq **done;                                    /* [n_batch + 1] windows that end in this step */
    int      n_done;
} eval_cursor;

/* Fills a step. Returns its number of rows; 0: the cache cannot hold a single window. */
static int eval__fill_step(eval_run *r, eval_cursor *c) {
    const eval_plan *p = r->plan;
    fwd             *f = r->eng->f;
    r->n_out = 0;
    fwd_begin(f);
    while (c->chunk < p->n_chunk && f->batch.n < r->eng->n_batch && r->n_out < r->eng->max_out) {
        const int to = c->pos + eval__fit(r, c->pos, f->batch.n, r->n_out);
        if (!c->seq) c->seq = kv_seq_new(r->eng->kv);
        if (!kv_reserve(c->seq, to)) break;           /* the step so far will free blocks */
        for (; c->pos < to; c->pos++) {
            const bool ask = c->pos >= p->first;
            fwd_add(f, c->seq, eval__token(p, c->chunk, c->pos), c->pos, ask ? FWD_LOGITS : 0);
            if (ask) r->next[r->n_out++] = eval__token(p, c->chunk, c->pos + 1);
        }
        if (c->pos < p->n_ctx - 1) continue;
        c->done[c->n_done++] = c->seq;
        *c = (eval_cursor){.chunk = c->chunk + 1, .done = c->done, .n_done = c->n_done};
    }
    return f->batch.n;
}

/* The standard error of a proportion of n; the RMS of dp and its error, as llama.cpp defines them. */
static double eval__share_error(double p, int64_t n) { return n > 1 ? sqrt(p * (1 - p) / (double)(n - 1)) : 0; }
static double eval__rms(const eval_run *r) { return sqrt(r->dp2.mean); }
static double eval__rms_error(const eval_run *r) {
    return r->dp2.mean > 0 ? 0.5 / eval__rms(r) * eval__error(&r->dp2) : 0;
}

/* Whether running figures are printed: on a terminal the progress line replaces them, except under -v. */
static bool eval__prints(void) { return g_log_level >= (progress_on() ? LOG_VERBOSE : LOG_NORMAL); }

/* Prints the running figures after a window, in the form that scripts for llama.cpp expect. */
static void eval__print_window(const eval_run *r) {
    const long long window = (long long)(r->at / eval__each(r->plan));
    const double    ppl = exp(r->nll.mean), same = (double)r->n_same / (double)r->at;
    progress_clear();
    if (!r->base) {
        fprintf(stderr, "[%lld]%.4f,", window, ppl);
        return;
    }
    fprintf(stderr, "%4lld    %9.4f ± %9.4f    %10.5f ± %10.5f", window, ppl, ppl * eval__error(&r->nll),
            r->ratio.mean, eval__error(&r->ratio));
    fprintf(stderr, "    %10.5f ± %10.5f    %6.3f ± %6.3f %%    %6.3f ± %6.3f %%\n", r->kld.mean, eval__error(&r->kld),
            100 * eval__rms(r), 100 * eval__rms_error(r), 100 * same, 100 * eval__share_error(same, r->at));
}

static void eval__add_base(eval_run *r, const eval_score *s) {
    eval__add(&r->nll_base, s->nll_base);
    eval__add(&r->ratio, s->nll - s->nll_base);
    eval__add(&r->kld, s->kld);
    eval__add(&r->dp, s->dp);
    eval__add(&r->dp2, s->dp * s->dp);
    r->klds[r->at] = s->kld;
    r->dps[r->at] = s->dp;
    r->n_same += s->same;
}

/* Adds the results of a step in the order of the text, and prints the running figures after each window. On failure e is set. */
static bool eval__add_step(eval_run *r, err_t *e) {
    const bool tell = eval__prints();
    for (int i = 0; i < r->n_out; i++) {
        const eval_score *s = &r->score[i];
        if (r->base && s->wrong)
            return err_set(e, EXIT_INPUT, "%s: the record at byte %llu holds %s: the file is damaged", r->base->g.path,
                           (unsigned long long)(r->base->rec_at + (uint64_t)r->at * r->form.bytes), s->wrong);
        eval__add(&r->nll, s->nll);
        if (r->base) eval__add_base(r, s);
        if (++r->at % eval__each(r->plan) == 0 && tell) eval__print_window(r);
    }
    snprintf(r->meter.more, sizeof r->meter.more, ", perplexity %.4f", exp(r->nll.mean));
    if (tell) fflush(stderr);
    return !r->to || gguf_write_data(r->to, r->rec, (size_t)r->n_out * r->form.bytes, e);
}

/* Runs all steps. False: e is set, or an interrupt. */
static bool eval__steps(eval_run *r, eval_cursor *c, err_t *e) {
    while (c->chunk < r->plan->n_chunk) {
        float    *logits;
        const int n = eval__fill_step(r, c);
        if (!n)
            return err_set(e, EXIT_RESOURCE, "the KV cache cannot hold a window of %d tokens (--kv-mem, --kv-blocks)",
                           r->plan->n_ctx);
        const long long last = c->chunk * r->plan->step + c->pos - 1;
        meter_step(&r->meter, n);
        const bool      ok = engine_step(r->eng, last, &logits, e);
        while (c->n_done) kv_seq_free(c->done[--c->n_done]);
        if (!ok) return false;
        if (!r->n_out) continue;
        r->logits = logits;
        pool_run(r->eng->p, eval__rows, r);
        if (r->base && !gguf_alive(&r->base->g, e)) return false;
        if (!eval__add_step(r, e)) return false;
    }
    return true;
}

static void eval__print_head(const eval_run *r) {
    if (g_log_level < LOG_NORMAL) return;
    fprintf(stderr, "llmrun: %d windows of %d tokens, %d scored in each, up to %d rows a step\n",
            r->plan->n_chunk, r->plan->n_ctx, eval__each(r->plan), r->eng->n_batch);
    if (r->base && eval__prints())
        fprintf(stderr, "chunk             PPL               ln(PPL(Q)/PPL(base))          KL Divergence     "
                        "         Δp RMS            Same top p\n");
}

static void eval__print_rate(const eval_run *r) {
    const double s = clock_now() - r->t0, n = (double)r->plan->n_chunk * (r->plan->n_ctx - 1);
    if (g_log_level < LOG_NORMAL) return;
    fprintf(stderr, "llmrun: %.0f tokens in %.3f s (%.2f tokens/s), %s kernels, %d thread%s\n", n, s, n / (s + 1e-9),
            k_level_name(), r->eng->p->n, r->eng->p->n > 1 ? "s" : "");
}

/* Allocates scratch for records. */
static void eval__scratch_new(eval_run *r, size_t threads) {
    r->scratch = mem_new(threads, sizeof *r->scratch);
    for (size_t i = 0; i < threads; i++)
        r->scratch[i] = (eval_scratch){mem_new((size_t)r->form.k, sizeof(int32_t)), mem_new((size_t)r->form.n_vocab, 1),
                                       mem_new(r->form.bytes, 1)};
}

static void eval__drop(eval_run *r) {
    for (int i = 0; r->scratch && i < r->eng->p->n; i++) {
        mem_free_all(r->scratch[i].heap, r->scratch[i].mark, r->scratch[i].rec);
    }
    mem_free_all(r->scratch, r->next, r->score, r->rec, r->klds, r->dps);
}

/* Runs the plan; eval__drop() must follow. False: e is set, or an interrupt. */
static bool eval__run(eval_run *r, err_t *e) {
    eval_cursor  c = {.done = mem_new((size_t)r->eng->n_batch + 1, sizeof *c.done)};
    const size_t out = (size_t)r->eng->max_out, all = (size_t)r->plan->n_chunk * (size_t)eval__each(r->plan);
    r->next = mem_new(out, sizeof *r->next);
    r->score = mem_new(out, sizeof *r->score);
    if (r->to || r->base) eval__scratch_new(r, (size_t)r->eng->p->n);
    if (r->to) r->rec = mem_new(out, r->form.bytes);
    if (r->base) r->klds = mem_new(all, sizeof *r->klds), r->dps = mem_new(all, sizeof *r->dps);
    r->t0 = clock_now();
    eval__print_head(r);
    meter_start(&r->meter, r->eng, "reading the text", (int64_t)r->plan->n_chunk * (r->plan->n_ctx - 1), 0);
    bool ok = eval__steps(r, &c, e);
    meter_stop(&r->meter);
    if (!r->base && r->at >= eval__each(r->plan) && eval__prints()) fprintf(stderr, "\n");   /* ends the line of figures */
    if (ok) eval__print_rate(r);
    kv_seq_free(c.seq);
    mem_free(c.done);
    return ok;
}

/* --- perplexity --- */

typedef struct {
    const char *key;
    double      v;
} eval_pair;

static void eval__put_pairs(const eval_pair *p, size_t n, jw *w) {
    for (size_t i = 0; i < n; i++) jw_number(w, p[i].key, 9, p[i].v);
}

static void eval__put_perplexity(const eval_run *r, bool json, str *s) {
    const double    ppl = exp(r->nll.mean), error = eval__error(&r->nll);
    const bool      strided = r->plan->step != r->plan->n_ctx;
    const eval_pair all[] = {
        {"perplexity", ppl},          {"perplexity_error", error * ppl},
        {"nll", r->nll.mean},         {"nll_error", error},
        {"scored", (double)r->nll.n}, {"windows", r->plan->n_chunk},
        {"n_ctx", r->plan->n_ctx},    {"stride", strided ? (double)r->plan->step : 0},
    };
    if (!json) {
        str_fmt(s, "Final estimate: PPL = %.4f +/- %.5f\n", ppl, error * ppl);
        return;
    }
    jw w = jw_loose(s);
    jw_open(&w, NULL, '{');
    eval__put_pairs(all, sizeof all / sizeof *all, &w);
    jw_close(&w, '}');
    str_put(s, "\n");
}

/* Prints the perplexity and its standard error, as a line of text or one JSON object (out NULL: nothing). Writes o->base, if
 * there is one. On failure e is set, unless it was an interrupt. */
static bool eval_perplexity(engine *eng, const eval_plan *plan, const eval_opts *o, bool json, out_t *out, err_t *e) {
    gguf_writer w = {.fd = -1};
    eval_run    r = {.eng = eng, .plan = plan, .to = o->base ? &w : NULL};
    r.form = eval__form_for(eng->m.hp.n_vocab, o->top_k);
    bool ok = (!o->base || eval__base_start(&w, o->base, plan, &r.form, eng->g, e)) && eval__run(&r, e);
    if (o->base && ok) ok = gguf_write_finish(&w, e);
    else if (o->base) gguf_write_drop(&w);
    if (ok && out) {
        str s = {0};
        eval__put_perplexity(&r, json, &s);
        out_put(out, s.p, s.n);
        str_drop(&s);
    }
    eval__drop(&r);
    return ok;
}

/* --- divergence --- */

static int eval__ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The percentile of n rising values, interpolated between the two nearest. */
static double eval__percentile(const double *x, int64_t n, double percent) {
    const double  at = percent / 100 * (double)(n - 1);
    const int64_t i = (int64_t)at, j = i + 1 < n ? i + 1 : i;
    return x[i] + (at - (double)i) * (x[j] - x[i]);
}

typedef struct {
    const char *text, *key;
    double      percent;
} eval_cut;

static const eval_cut eval_cuts[] = {
    {"Maximum", "max", 100}, {"99.9%  ", "p99.9", 99.9}, {"99.0%  ", "p99", 99},    {"95.0%  ", "p95", 95},
    {"90.0%  ", "p90", 90},  {"75.0%  ", "p75", 75},     {"Median ", "median", 50}, {"25.0%  ", "p25", 25},
    {"10.0%  ", "p10", 10},  {" 5.0%  ", "p5", 5},       {" 1.0%  ", "p1", 1},      {" 0.1%  ", "p0.1", 0.1},
    {"Minimum", "min", 0},
};

/* Figures from the sums, named as they are printed. */
typedef struct {
    double ppl, ppl_error, base, base_error, cor, ln, ln_error, ratio, ratio_error;
    double diff, diff_error, same, same_error;
} eval_figures;

static eval_figures eval__figures(const eval_run *r) {
    eval_figures f = {.ppl = exp(r->nll.mean), .base = exp(r->nll_base.mean), .ln = r->ratio.mean,
                      .ln_error = eval__error(&r->ratio)};
    const double a = eval__error(&r->nll), b = eval__error(&r->nll_base);
    const double cov = (a * a + b * b - f.ln_error * f.ln_error) / 2; /* of the two means */
    f.ppl_error = f.ppl * a;
    f.base_error = f.base * b;
    f.cor = a * b > 0 ? cov / (a * b) : 1;
    f.ratio = exp(f.ln);
    f.ratio_error = f.ratio * f.ln_error;
    f.diff = f.ppl - f.base;
    f.diff_error = sqrt(fmax(0, f.ppl_error * f.ppl_error + f.base_error * f.base_error - 2 * f.ppl * f.base * cov));
    f.same = (double)r->n_same / (double)r->at;
    f.same_error = eval__share_error(f.same, r->at);
    return f;
}

static void eval__put_text(const eval_run *r, const eval_figures *f, str *s) {
    const size_t n = sizeof eval_cuts / sizeof *eval_cuts;
    str_put(s, "====== Perplexity statistics ======\n");
    str_fmt(s, "Mean PPL(Q)                   : %10.6f ± %10.6f\n", f->ppl, f->ppl_error);
    str_fmt(s, "Mean PPL(base)                : %10.6f ± %10.6f\n", f->base, f->base_error);
    str_fmt(s, "Cor(ln(PPL(Q)), ln(PPL(base))): %6.2f%%\n", 100 * f->cor);
    str_fmt(s, "Mean ln(PPL(Q)/PPL(base))     : %10.6f ± %10.6f\n", f->ln, f->ln_error);
    str_fmt(s, "Mean PPL(Q)/PPL(base)         : %10.6f ± %10.6f\n", f->ratio, f->ratio_error);
    str_fmt(s, "Mean PPL(Q)-PPL(base)         : %10.6f ± %10.6f\n", f->diff, f->diff_error);
    str_put(s, "\n====== KL divergence statistics ======\n");
    str_fmt(s, "Mean    KLD: %10.6f ± %10.6f\n", r->kld.mean, eval__error(&r->kld));
    for (size_t i = 0; i < n; i++)
        if (eval_cuts[i].percent != 75 && eval_cuts[i].percent != 25)
            str_fmt(s, "%s KLD: %10.6f\n", eval_cuts[i].text, eval__percentile(r->klds, r->at, eval_cuts[i].percent));
    str_put(s, "\n====== Token probability statistics ======\n");
    str_fmt(s, "Mean    Δp: %6.3f ± %5.3f %%\n", 100 * r->dp.mean, 100 * eval__error(&r->dp));
    for (size_t i = 0; i < n; i++)
        str_fmt(s, "%s Δp: %6.3f%%\n", eval_cuts[i].text, 100 * eval__percentile(r->dps, r->at, eval_cuts[i].percent));
    str_fmt(s, "RMS Δp    : %6.3f ± %5.3f %%\n", 100 * eval__rms(r), 100 * eval__rms_error(r));
    str_fmt(s, "Same top p: %6.3f ± %5.3f %%\n", 100 * f->same, 100 * f->same_error);
}

/* Appends a mean, its error, and the percentiles of its n rising values. */
static void eval__put_spread(const char *key, const eval_pair *p, size_t n_p, const double *x, int64_t n, jw *w) {
    jw_open(w, key, '{');
    eval__put_pairs(p, n_p, w);
    for (size_t i = 0; i < sizeof eval_cuts / sizeof *eval_cuts; i++)
        jw_number(w, eval_cuts[i].key, 9, eval__percentile(x, n, eval_cuts[i].percent));
    jw_close(w, '}');
}

static void eval__put_json(const eval_run *r, const eval_figures *f, str *s) {
    const eval_pair all[] = {
        {"perplexity", f->ppl},       {"perplexity_error", f->ppl_error},
        {"base_perplexity", f->base}, {"base_perplexity_error", f->base_error},
        {"correlation", f->cor},
        {"ln_ratio", f->ln},          {"ln_ratio_error", f->ln_error},
        {"ratio", f->ratio},          {"ratio_error", f->ratio_error},
        {"difference", f->diff},      {"difference_error", f->diff_error},
        {"same_top", f->same},        {"same_top_error", f->same_error},
        {"scored", (double)r->at},    {"windows", r->plan->n_chunk},
        {"n_ctx", r->plan->n_ctx},    {"top_k", r->form.k},
    };
    const eval_pair kld[] = {{"mean", r->kld.mean}, {"error", eval__error(&r->kld)}};
    const eval_pair dp[] = {{"mean", r->dp.mean}, {"error", eval__error(&r->dp)},
                            {"rms", eval__rms(r)}, {"rms_error", eval__rms_error(r)}};
    jw w = jw_loose(s);
    jw_open(&w, NULL, '{');
    eval__put_pairs(all, sizeof all / sizeof *all, &w);
    eval__put_spread("kld", kld, 2, r->klds, r->at, &w);
    eval__put_spread("dp", dp, 4, r->dps, r->at, &w);
    jw_text(&w, "base", r->base->name);
    jw_close(&w, '}');
    str_put(s, "\n");
}

/* Figures of a model beside a base. */
typedef struct {
    double ppl, ppl_error;                            /* perplexity and its standard error */
    double base, base_error;                          /* those of the base */
    double kld, kld_error, kld_p99;                   /* divergence of a position: mean, its standard error, 99th percentile */
    double same;                                      /* part of the positions with the same most likely token */
} eval_result;

/* Runs the windows of eval_plan_base(). On success the divergences in r are sorted; eval__drop() must follow. */
static bool eval__against(eval_run *r, err_t *e) {
    const int  n_vocab = r->eng->m.hp.n_vocab;
    const bool ok = r->form.n_vocab == n_vocab || err_set(e, EXIT_INPUT, "%s: a vocabulary of %d tokens, expected the model's %d",
                                                          r->base->g.path, r->form.n_vocab, n_vocab);
    if (!ok || !eval__run(r, e)) return false;
    qsort(r->klds, (size_t)r->at, sizeof *r->klds, eval__ascending);
    qsort(r->dps, (size_t)r->at, sizeof *r->dps, eval__ascending);
    return true;
}

/* Compares the model with a base over the windows of eval_plan_base(). False: e is set, or an interrupt. */
static bool eval_measure(engine *eng, const eval_base *b, const eval_plan *plan, eval_result *x, err_t *e) {
    eval_run   r = {.eng = eng, .plan = plan, .base = b, .form = b->form};
    const bool ok = eval__against(&r, e);
    if (ok) {
        const eval_figures f = eval__figures(&r);
        *x = (eval_result){.ppl = f.ppl, .ppl_error = f.ppl_error, .base = f.base, .base_error = f.base_error,
                           .kld = r.kld.mean, .kld_error = eval__error(&r.kld),
                           .kld_p99 = eval__percentile(r.klds, r.at, 99), .same = f.same};
    }
    eval__drop(&r);
    return ok;
}

/* The same, and prints the figures as text or JSON. */
static bool eval_divergence(engine *eng, const eval_base *b, const eval_plan *plan, bool json, out_t *out, err_t *e) {
    eval_run   r = {.eng = eng, .plan = plan, .base = b, .form = b->form};
    const bool ok = eval__against(&r, e);
    if (ok) {
        const eval_figures f = eval__figures(&r);
        str                s = {0};
        if (json) eval__put_json(&r, &f, &s);
        else eval__put_text(&r, &f, &s);
        out_put(out, s.p, s.n);
        str_drop(&s);
    }
    eval__drop(&r);
    return ok;
}
