/* ===== [round] calibrated rounding (GPTQ style) =====
 * All rows of a text go through the model as one step; before a product is computed, its matrix is rounded with all rows of its
 * input at hand. The rounding minimises the error of the product over the text: e H e for each row of weights, where e is the
 * error of its weights and H the second moments of the input channels (Frantar et al. 2023, GPTQ; Chee et al. 2023, QuIP).
 *   feedback   rounds the columns one after another, those with large moments first, and moves each by the errors before it:
 *              with H = V V', V upper triangular, e H e is a sum of squares whose term k depends on columns up to k alone
 *   descent    changes codes one at a time while that lowers e H e, and solves for new scales between two sweeps
 * The step continues with the model's own weights. Inputs from rounded layers, and factors on channels that the norm or matrix
 * before divides out (AWQ), were tried and did not lower the divergence (tests/bench/NOTES.md).
 * The result is ordinary blocks. No row has a larger error than the plain fit with weights from H's diagonal.
 * H covers spans of up to ROUND_SPAN channels: longer rows have several. Threads and levels do not change a bit. Memory holds the
 * step, which ROUND_MEMORY bounds by default, and all new blocks: it grows with the model.
 * Public: round_opts, round_run, round_bytes, round_free.
 * Opens: round_opts, round_job. */

enum {
    ROUND_SPAN = 2048, /* channels of one H */
    ROUND_TILE = 8,    /* rows of weights at a time: they share each row of V */
    ROUND_CHUNK = 512, /* input rows summed into H at a time */
    ROUND_PANEL = 64,  /* columns of the factor computed at a time */
    ROUND_SWEEPS = 8,  /* of the descent, at most */
    ROUND_MEMORY = 4,  /* GiB of scratch for a step by default */
    ROUND_SPARE = 64   /* MiB left for sizes that are rounded up: slabs of the cache, slices of the writer */
};

typedef struct {
    int       chunk;                                  /* tokens in a chunk */
    int       n_chunks;                               /* chunks at most, -1: all */
    int       n_threads;                              /* 0: what the process may use */
    float     damp;                                   /* added to H's diagonal, as a fraction of its mean */
    rope_opts rope;
    kv_opts   kv;
} round_opts;

/* Scratch with which a thread rounds a tile. n: the longest row; T: ROUND_TILE. */
typedef struct {
    float   *w;                                       /* [T, n] weights */
    float   *t;                                       /* [T, n] targets to round */
    float   *e;                                       /* [T, n] errors */
    float   *g;                                       /* [T, n] H e */
    float   *step, *base;                             /* [n] weight = step * code + base */
    int8_t  *q;                                       /* [n] */
    int16_t *sc, *mn;                                 /* [n/16] unpacked scales and minima */
    float   *d, *dm;                                  /* [n/256 + 1] scale and minimum of a super-block */
    float   *fs, *fm;                                 /* [n/16] of a group */
    uint8_t *made, *best;                             /* [T, row] blocks */
    float   *diag, *x;                                /* [256] importance and targets of a unit */
    double  *normal, *rhs;                             /* [P, P], [P] of the scales of a row */
    float    most;                                    /* the largest weight of the current type */
    float   *dir, *hdir;                              /* [P, n] change of the weights with each scale; H times one of them */
} round__scratch;

typedef struct {
    const gguf_file *g;
    round_opts       o;
    model            m;
    pool            *p;
    kv_cache        *kv;
    fwd             *f;
    const uint32_t  *to;                              /* [n_tensor] the new type of each tensor */
    uint8_t        **blocks;                          /* [n_tensor] its new bytes; NULL: not rounded here */
    uint64_t        *rows;                            /* [n_tensor] number of its rows that are done */
    uint64_t        *by_data;                         /* [n_tensor] tensors in order of their data */
    double           before, after;                   /* errors of all matrices: plain fit, calibrated */
    _Atomic uint64_t bad;                             /* first tensor with a weight beyond its new type; UINT64_MAX: none */
    uint64_t         lost;                            /* first tensor with an input that is not finite; UINT64_MAX: none */
    int              span, n;                         /* of the current input: channels of one H; all channels */
    float           *h, *v;                           /* [n / span][span, span] moments; V, columns divided by their diagonal */
    float           *vd, *hd;                         /* [n] squared diagonal of V in its order; diagonal of H */
    int             *col;                             /* [n] channel at each position of the order */
    double          *chol;                            /* [span, span] the factor while it is computed */
    float           *xt;                              /* [n, ROUND_CHUNK] input rows, transposed */
    round__scratch  *scratch;                         /* [threads] */
    double          *err;                             /* [rows, 2] errors of the current matrix: plain fit, calibrated */
    double           t0, worked, work;                /* start time; weights done; weights of all matrices */
} round_job;

/* --- moments --- */

/* Channels of one H for rows of n: all if they are few enough, else spans of whole super-blocks of about equal length. */
static int round__span(int n) {
    if (n <= ROUND_SPAN) return n;
    const int runs = (n + ROUND_SPAN - 1) / ROUND_SPAN;
    return ((n + runs - 1) / runs + 255) / 256 * 256;
}

/* Transposes input rows [t0, t0 + nt); zeros up to ROUND_CHUNK. */
static void round__transpose(round_job *j, dev *dv, const dev_product *m, int t0, int nt) {
    enum { CH = 64 };
    for (int c0; (c0 = pool_next(dv->p) * CH) < j->n;) {
        const int c1 = c0 + CH < j->n ? c0 + CH : j->n;
        for (int t = 0; t < nt; t++) {
            const float *x = dev_input(m, t0 + t);
            for (int c = c0; c < c1; c++) j->xt[(size_t)c * ROUND_CHUNK + (size_t)t] = x[c];
        }
        for (int c = c0; c < c1 && nt < ROUND_CHUNK; c++)
            memset(j->xt + (size_t)c * ROUND_CHUNK + nt, 0, (size_t)(ROUND_CHUNK - nt) * sizeof *j->xt);
    }
    pool_barrier(dv->p);
}

/* Adds the products of the transposed rows to the lower triangles. A task computes y: [channels up to the panel's end, PANEL]. */
static void round__add_moments(round_job *j, dev *dv) {
    enum { PANEL = 32 };
    float     *y = j->scratch[dv->ith].hdir;
    const int  panels = (j->span + PANEL - 1) / PANEL, runs = (j->n + j->span - 1) / j->span;
    for (int task; (task = pool_next(dv->p)) < runs * panels;) {
        const int at = task / panels * j->span, len = j->n - at < j->span ? j->n - at : j->span;
        const int r0 = task % panels * PANEL, nr = len - r0 < PANEL ? len - r0 : PANEL;
        if (nr <= 0) continue;
        const float *a = j->xt + (size_t)at * ROUND_CHUNK;
        const k_acts acts = {.x = a, .ldx = ROUND_CHUNK, .nt = r0 + nr};
        k_mul_rows(K_F32, a + (size_t)r0 * ROUND_CHUNK, ROUND_CHUNK * sizeof *a, nr, ROUND_CHUNK, &acts, y, PANEL, NULL);
        float *h = j->h + (size_t)(task / panels) * (size_t)j->span * (size_t)j->span;
        for (int r = 0; r < nr; r++)
            for (int c = 0; c <= r0 + r; c++) h[(size_t)(r0 + r) * (size_t)j->span + (size_t)c] += y[c * PANEL + r];
    }
    pool_barrier(dv->p);
}

/* Computes H of the input of m: a mean over rows, symmetric and damped. All threads. */
static void round__moments(round_job *j, dev *dv, const dev_product *m) {
    const size_t S = (size_t)j->span, runs = ((size_t)j->n + S - 1) / S;
    for (size_t r; (r = (size_t)pool_next(dv->p)) < runs * S;) memset(j->h + r * S, 0, S * sizeof *j->h);
    pool_barrier(dv->p);
    for (int t = 0; t < m->n; t += ROUND_CHUNK) {
        round__transpose(j, dv, m, t, m->n - t < ROUND_CHUNK ? m->n - t : ROUND_CHUNK);
        round__add_moments(j, dv);
    }
    for (int run; (run = pool_next(dv->p)) < (int)runs;) {
        float    *h = j->h + (size_t)run * S * S;
        const int len = j->n - run * j->span < j->span ? j->n - run * j->span : j->span;
        double    mean = 0;
        for (int i = 0; i < len; i++) mean += (double)h[(size_t)i * S + (size_t)i] / len;
        const float each = 1.0f / (float)m->n, more = (float)(mean > 0 ? mean : 1) * j->o.damp;
        for (int i = 0; i < len; i++) {
            h[(size_t)i * S + (size_t)i] += more;
            for (int k = 0; k <= i; k++) h[(size_t)k * S + (size_t)i] = h[(size_t)i * S + (size_t)k] *= each;
            j->hd[run * j->span + i] = h[(size_t)i * S + (size_t)i];
        }
    }
    pool_barrier(dv->p);
}

/* For embeddings that are the output matrix too: an error in a weight changes the inputs of the model as well, in every channel
 * alike, and counts in sum about as much as in the logits. Thread 0. */
static void round__add_input_error(round_job *j) {
    double mean = 0;
    for (int i = 0; i < j->n; i++) mean += (double)j->hd[i] / j->n;
    for (int i = 0; i < j->n; i++) {
        float *h =
            j->h + (size_t)(i / j->span) * (size_t)j->span * (size_t)j->span + (size_t)(i % j->span) * (size_t)(j->span + 1);
        j->hd[i] = *h += (float)mean;
    }
}

/* --- the order of columns, and the factor --- */

typedef struct {
    float key;
    int   at;
} round__rank;

static int round__by_mass(const void *a, const void *b) {
    const round__rank *x = a, *y = b;
    return x->key != y->key ? (x->key < y->key ? 1 : -1) : x->at - y->at;
}

/* Columns that are fitted together in a span of len: whole blocks of every type. */
static int round__unit_of(int len) { return len % 256 ? len & -len : 256; }

/* Orders the columns of a span: super-blocks by falling sum of moments, the columns inside by falling moment. A block stays
 * together, since its scales are fitted before its first column is rounded. */
static void round__order(round_job *j, int at, int len) {
    const int   unit = round__unit_of(len);
    round__rank big[ROUND_SPAN / 32], small[256];
    for (int b = 0; b < len / unit; b++) {
        big[b] = (round__rank){0, b};
        for (int i = 0; i < unit; i++) big[b].key += j->hd[at + b * unit + i];
    }
    qsort(big, (size_t)(len / unit), sizeof *big, round__by_mass);
    for (int b = 0; b < len / unit; b++) {
        for (int i = 0; i < unit; i++) small[i] = (round__rank){j->hd[at + big[b].at * unit + i], big[b].at * unit + i};
        qsort(small, (size_t)unit, sizeof *small, round__by_mass);
        for (int i = 0; i < unit; i++) j->col[at + b * unit + i] = at + small[i].at;
    }
}

/* A dot product in eight partial sums: compilers keep them in vectors, and the summation order is fixed. */
static double round__dot(const double *a, const double *b, int n) {
    double s[8] = {0};
    int    i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++) s[k] += a[i + k] * b[i + k];
    for (; i < n; i++) s[i & 7] += a[i] * b[i];
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

/* The Cholesky factor of one H in reversed order, which is V reversed: a is lower triangular, [len, len], with row stride S. All
 * threads. A pivot that rounding errors have made too small is replaced by `least`. */
static void round__factor(dev *dv, double *a, int len, size_t S, double least) {
    for (int j0 = 0; j0 < len; j0 += ROUND_PANEL) {
        const int j1 = j0 + ROUND_PANEL < len ? j0 + ROUND_PANEL : len;
        for (int i; (i = j0 + 16 * pool_next(dv->p)) < len;)
            for (int r = i; r < i + 16 && r < len; r++)
                for (int k = j0; k < j1 && k <= r; k++)
                    a[(size_t)r * S + (size_t)k] -= round__dot(a + (size_t)r * S, a + (size_t)k * S, j0);
        pool_barrier(dv->p);
        for (int k = j0; dv->ith == 0 && k < j1; k++)
            for (int i = j0; i <= k; i++) {
                double x = a[(size_t)k * S + (size_t)i] - round__dot(a + (size_t)k * S + j0, a + (size_t)i * S + j0, i - j0);
                a[(size_t)k * S + (size_t)i] = i < k ? x / a[(size_t)i * S + (size_t)i] : sqrt(max_f64(x, least));
            }
        pool_barrier(dv->p);
        for (int i; (i = j1 + 16 * pool_next(dv->p)) < len;)
            for (int r = i; r < i + 16 && r < len; r++)
                for (int k = j0; k < j1; k++) {
                    double x = a[(size_t)r * S + (size_t)k] - round__dot(a + (size_t)r * S + j0, a + (size_t)k * S + j0, k - j0);
                    a[(size_t)r * S + (size_t)k] = x / a[(size_t)k * S + (size_t)k];
                }
        pool_barrier(dv->p);
    }
}

/* Computes order and factor of every span of the current input. All threads. */
static void round__prepare(round_job *j, dev *dv) {
    const size_t S = (size_t)j->span;
    for (int at = 0; at < j->n; at += j->span) {
        const int    len = j->n - at < j->span ? j->n - at : j->span, last = at + len - 1;
        const float *h = j->h + (size_t)(at / j->span) * S * S;
        float       *v = j->v + (size_t)(at / j->span) * S * S;
        if (dv->ith == 0) round__order(j, at, len);
        pool_barrier(dv->p);
        for (int i; (i = pool_next(dv->p)) < len;)
            for (int k = 0; k <= i; k++)
                j->chol[(size_t)i * S + (size_t)k] =
                    (double)h[(size_t)(j->col[last - i] - at) * S + (size_t)(j->col[last - k] - at)];
        pool_barrier(dv->p);
        round__factor(dv, j->chol, len, S, (double)h[0] * 1e-9 + 1e-300);
        for (int i; (i = pool_next(dv->p)) < len;) {
            const int r = len - 1 - i;                /* row and columns of V from the end of the reversed factor */
            for (int k = i; k < len; k++) {
                const int c = len - 1 - k;
                v[(size_t)i * S + (size_t)k] = (float)(j->chol[(size_t)r * S + (size_t)c] / j->chol[(size_t)c * S + (size_t)c]);
            }
            j->vd[at + i] = (float)(j->chol[(size_t)r * S + (size_t)r] * j->chol[(size_t)r * S + (size_t)r]);
        }
        pool_barrier(dv->p);
    }
}

/* --- one row --- */

/* Codes, steps and bases of n weights from their blocks. */
static void round__read_blocks(round__scratch *b, uint32_t type, const void *blocks, int n) {
    const k_type *k = &k_types[type];
    k_urow        u = {.q = b->q, .sc = b->sc, .mn = b->mn, .d = b->d, .dm = b->dm, .fs = b->fs, .fm = b->fm};
    k->unpack(blocks, n, &u);
    for (int i = 0; i < n; i++) {
        const bool whole = k->kind == K_KIND_INT;
        b->step[i] = whole ? b->d[i / 256] * (float)b->sc[i / 16] : b->fs[i / k->group];
        b->base[i] = !k->has_min ? 0 : whole ? -(b->dm[i / 256] * (float)b->mn[i / 16]) : b->fm[i / k->group];
    }
}

/* The code whose weight is nearest to x. */
static int round__code(const k_fitter *k, float step, float base, float x) {
    const float at = (x - base) / step;
    if (!(fabsf(step) > 0)) return k->lo;
    if (!k->levels) return at <= (float)k->lo ? k->lo : at >= (float)k->hi ? k->hi : (int)lrintf(at);
    const int8_t *l = k->levels;
    while (*l < k->hi && fabsf((float)l[1] - at) < fabsf((float)l[0] - at)) l++;
    return *l;
}

/* Computes e H e of nr rows; b->g gets H e. */
static void round__measure(const round_job *j, const round__scratch *b, int nr, double *err) {
    const size_t n = (size_t)j->n, S = (size_t)j->span;
    for (int at = 0; at < j->n; at += j->span) {
        const int    len = j->n - at < j->span ? j->n - at : j->span;
        const k_acts a = {.x = b->e + at, .ldx = n, .nt = nr};
        k_mul_rows(K_F32, j->h + (size_t)(at / j->span) * S * S, S * sizeof *j->h, len, len, &a, b->g + at, n, NULL);
    }
    for (int r = 0; r < nr; r++) {
        err[r] = 0;
        for (size_t i = 0; i < n; i++) err[r] += (double)b->e[(size_t)r * n + i] * (double)b->g[(size_t)r * n + i];
    }
}

/* Errors of the rows in `blocks`. */
static void round__errors(const round_job *j, round__scratch *b, uint32_t type, const uint8_t *blocks, size_t row, int nr) {
    const size_t n = (size_t)j->n;
    for (int r = 0; r < nr; r++) {
        float *e = b->e + (size_t)r * n;
        k_types[type].dequant(blocks + (size_t)r * row, e, j->n);
        for (size_t i = 0; i < n; i++) e[i] = b->w[(size_t)r * n + i] - e[i];
    }
}

/* Rounds the unit at positions [k0, k0 + unit) of the order for each row of the tile: fits its blocks to the targets, which
 * include the errors before it, then chooses the codes one column after another, where the type has codes. t is in this order. An
 * error costs vd if later columns compensate as far as possible, hd if they do not: the fit uses the mean of both. */
static void round__unit(const round_job *j, round__scratch *b, uint32_t type, int at, int len, int k0, int unit, size_t row,
                        int nr) {
    const k_fitter *k = &k_fitters[type];
    const size_t    n = (size_t)j->n, S = (size_t)j->span;
    const float    *v = j->v + (size_t)(at / j->span) * S * S;
    const int      *col = j->col + at + k0;
    int             c0 = col[0];
    for (int i = 1; i < unit; i++) c0 = min_int(col[i], c0);
    for (int i = 0; i < unit; i++) b->diag[col[i] - c0] = sqrtf(j->hd[col[i]]) * sqrtf(j->vd[at + k0 + i]);
    for (int r = 0; r < nr; r++) {
        float   *t = b->t + (size_t)r * n + at, *w = b->w + (size_t)r * n, *e = b->e + (size_t)r * n;
        uint8_t *blocks = b->made + (size_t)r * row + (size_t)c0 / k_types[type].block * k_types[type].bytes;
        for (int i = 0; i < unit; i++) b->x[col[i] - c0] = t[k0 + i];
        k->fit(b->x, b->diag, blocks, unit);
        round__read_blocks(b, type, blocks, unit);
        for (int i = 0; i < unit; i++) {
            const int o = col[i] - c0;
            if (k->recode) b->q[o] = (int8_t)round__code(k, b->step[o], b->base[o], t[k0 + i]);
            e[col[i]] = w[col[i]] - (b->step[o] * (float)b->q[o] + b->base[o]);
            k_axpy(t + k0 + i + 1, v + (size_t)(k0 + i) * S + (size_t)(k0 + i + 1), e[col[i]], len - (k0 + i + 1));
        }
        if (k->recode) k->recode(b->q, blocks, unit);
    }
}

/* Runs the feedback over the rows of a tile, into b->made. */
static void round__feedback(const round_job *j, round__scratch *b, uint32_t type, size_t row, int nr) {
    const size_t n = (size_t)j->n;
    for (size_t r = 0; r < (size_t)nr; r++)
        for (size_t i = 0; i < n; i++) b->t[r * n + i] = b->w[r * n + (size_t)j->col[i]];
    for (int at = 0; at < j->n; at += j->span) {
        const int len = j->n - at < j->span ? j->n - at : j->span, unit = round__unit_of(len);
        for (int k0 = 0; k0 < len; k0 += unit) round__unit(j, b, type, at, len, k0, unit, row, nr);
    }
}

/* Changes codes of row r one at a time while that lowers e H e. b->e and b->g match the blocks before and after. */
static void round__descend(const round_job *j, round__scratch *b, uint32_t type, uint8_t *blocks, int r) {
    const k_fitter *k = &k_fitters[type];
    const size_t    n = (size_t)j->n, S = (size_t)j->span;
    float          *e = b->e + (size_t)r * n, *g = b->g + (size_t)r * n;
    int             changed = 1;
    round__read_blocks(b, type, blocks, j->n);
    for (int sweep = 0; sweep < ROUND_SWEEPS && changed; sweep++) {
        changed = 0;
        for (int i = 0; i < j->n; i++) {
            const int    at = i / j->span * j->span, len = j->n - at < j->span ? j->n - at : j->span;
            const float *h = j->h + (size_t)(at / j->span) * S * S + (size_t)(i - at) * S;
            const float  now = b->step[i] * (float)b->q[i] + b->base[i];
            const int    code = round__code(k, b->step[i], b->base[i], now + g[i] / h[i - at]);
            const float  move = b->step[i] * (float)(code - b->q[i]);
            if (code == b->q[i] || !(move * (move * h[i - at] - 2 * g[i]) < 0)) continue;
            b->q[i] = (int8_t)code;
            e[i] -= move;
            k_axpy(g + at, h, -move, len);
            changed++;
        }
    }
    k->recode(b->q, blocks, j->n);
}

/* --- scales --- */

/* Offsets of the f16 scale and minimum in a block; -1: none. minus: the minimum is subtracted. */
static const struct {
    int16_t scale, min;
    bool    known;
} round__scales[K_TYPE_MAX] = {
    [K_Q4_0] = {offsetof(block_q4_0, d), -1, true},
    [K_Q4_1] = {offsetof(block_q4_1, d), offsetof(block_q4_1, m), true},
    [K_Q5_0] = {offsetof(block_q5_0, d), -1, true},
    [K_Q5_1] = {offsetof(block_q5_1, d), offsetof(block_q5_1, m), true},
    [K_Q8_0] = {offsetof(block_q8_0, d), -1, true},
    [K_Q1_0] = {offsetof(block_q1_0, d), -1, true},
    [K_Q2_0] = {offsetof(block_q2_0, d), -1, true},
    [K_IQ4_NL] = {offsetof(block_iq4_nl, d), -1, true},
    [K_Q2_K] = {offsetof(block_q2_K, d), offsetof(block_q2_K, dmin), true},
    [K_Q3_K] = {offsetof(block_q3_K, d), -1, true},
    [K_Q4_K] = {offsetof(block_q4_K, d), offsetof(block_q4_K, dmin), true},
    [K_Q5_K] = {offsetof(block_q5_K, d), offsetof(block_q5_K, dmin), true},
    [K_Q6_K] = {offsetof(block_q6_K, d), -1, true},
    [K_TQ1_0] = {offsetof(block_tq1_0, d), -1, true},
    [K_TQ2_0] = {offsetof(block_tq2_0, d), -1, true},
    [K_IQ2_XXS] = {offsetof(block_iq2_xxs, d), -1, true},
    [K_IQ2_XS] = {offsetof(block_iq2_xs, d), -1, true},
    [K_IQ2_S] = {offsetof(block_iq2_s, d), -1, true},
    [K_IQ3_XXS] = {offsetof(block_iq3_xxs, d), -1, true},
    [K_IQ3_S] = {offsetof(block_iq3_s, d), -1, true},
    [K_IQ1_S] = {offsetof(block_iq1_s, d), -1, true},
    [K_IQ4_XS] = {offsetof(block_iq4_xs, d), -1, true},
};

/* Number of scales and minima in a span of len channels. They are numbered in order: scale and minimum of each block. */
static int round__n_scales(uint32_t type, int len) {
    return len / k_types[type].block * (1 + (round__scales[type].min >= 0));
}

static uint8_t *round__scale_at(uint32_t type, uint8_t *blocks, int at, int p) {
    const int per = 1 + (round__scales[type].min >= 0);
    blocks += (size_t)(at / k_types[type].block + p / per) * k_types[type].bytes;
    return blocks + (p % per ? round__scales[type].min : round__scales[type].scale);
}

/* Change of a block's weights when scale p grows by one: `block` values at dir. */
static void round__direction(const round__scratch *b, uint32_t type, int at, int p, float *dir) {
    const k_type *k = &k_types[type];
    const int     per = 1 + (round__scales[type].min >= 0), c0 = at + p / per * k->block;
    for (int i = 0; i < k->block; i++) {
        const bool whole = k->kind == K_KIND_INT;
        if (p % per) dir[i] = whole ? -(float)b->mn[(c0 + i) / 16] : 1.0f;
        else dir[i] = (float)b->q[c0 + i] * (whole ? (float)b->sc[(c0 + i) / 16] : 1.0f);
    }
}

/* Solves m x = y for a positive definite m [n, n]; y becomes x. An unknown whose pivot vanishes is 0. */
static void round__solve(double *m, double *y, int n) {
    for (int i = 0; i < n; i++) {
        for (int k = 0; k <= i; k++) {
            double x = m[i * n + k] - round__dot(m + i * n, m + k * n, k);
            if (k < i) m[i * n + k] = m[k * n + k] > 0 ? x / m[k * n + k] : 0;
            else m[i * n + i] = x > 0 ? sqrt(x) : 0;
        }
        y[i] = m[i * n + i] > 0 ? (y[i] - round__dot(m + i * n, y, i)) / m[i * n + i] : 0;
    }
    for (int i = n - 1; i >= 0; i--) {
        for (int k = i + 1; k < n; k++) y[i] -= m[k * n + i] * y[k];
        y[i] = m[i * n + i] > 0 ? y[i] / m[i * n + i] : 0;
    }
}

/* Solves for new f16 scales of row r by least squares under H; the codes stay. b->g is H e of the blocks. */
static void round__rescale(const round_job *j, round__scratch *b, uint32_t type, uint8_t *blocks, int r) {
    const size_t S = (size_t)j->span;
    const int    B = k_types[type].block, per = 1 + (round__scales[type].min >= 0);
    round__read_blocks(b, type, blocks, j->n);
    for (int at = 0; at < j->n; at += j->span) {
        const int    len = j->n - at < j->span ? j->n - at : j->span, P = round__n_scales(type, len);
        const float *h = j->h + (size_t)(at / j->span) * S * S, *g = b->g + (size_t)r * (size_t)j->n + at;
        for (int p = 0; p < P; p++) round__direction(b, type, at, p, b->dir + (size_t)p * (size_t)B);
        for (int p = 0; p < P; p++) {
            const float *dp = b->dir + (size_t)p * (size_t)B;
            const k_acts a = {.x = dp, .ldx = (size_t)B, .nt = 1};
            k_mul_rows(K_F32, h + p / per * B, S * sizeof *h, (p / per + 1) * B, B, &a, b->hdir, (size_t)len, NULL);
            for (int s = 0; s <= p; s++)
                b->normal[p * P + s] = (double)k_dot(b->dir + (size_t)s * (size_t)B, b->hdir + s / per * B, B);
            b->normal[p * P + p] *= 1 + 1e-6;
            b->rhs[p] = (double)k_dot(dp, g + p / per * B, B);
        }
        round__solve(b->normal, b->rhs, P);
        for (int p = 0; p < P; p++) {
            uint16_t d;
            uint8_t *to = round__scale_at(type, blocks, at, p);
            memcpy(&d, to, sizeof d);
            const float x = k_f16_to_f32(d) + (float)b->rhs[p];
            if (!(fabsf(x) <= 65504)) continue;
            d = k_f32_to_f16(x);
            memcpy(to, &d, sizeof d);
        }
    }
}

/* --- a tile of rows --- */

/* Keeps row r of b->made if its error is smaller. */
static bool round__keep(round__scratch *b, size_t row, int r, double err, double *best) {
    if (!(err < *best)) return false;
    *best = err;
    memcpy(b->best + (size_t)r * row, b->made + (size_t)r * row, row);
    return true;
}

/* Alternates descent and new scales while a row improves. */
static void round__polish(const round_job *j, round__scratch *b, uint32_t type, size_t row, int nr, double *best) {
    enum { TURNS = 4 };
    double err[ROUND_TILE];
    for (int turn = 0; turn < TURNS; turn++) {
        bool better = false;
        if (k_fitters[type].recode) {
            for (int r = 0; r < nr; r++) round__descend(j, b, type, b->made + (size_t)r * row, r);
            round__errors(j, b, type, b->made, row, nr);
            round__measure(j, b, nr, err);
            for (int r = 0; r < nr; r++) better |= round__keep(b, row, r, err[r], &best[r]);
        }
        if (round__scales[type].known) {
            for (int r = 0; r < nr; r++) round__rescale(j, b, type, b->made + (size_t)r * row, r);
            round__errors(j, b, type, b->made, row, nr);
            round__measure(j, b, nr, err);
            for (int r = 0; r < nr; r++) better |= round__keep(b, row, r, err[r], &best[r]);
        }
        if (!better) return;
    }
}

static int round__by_data(const void *a, const void *b, void *ctx) {
    const gguf_tensor *t = ctx;
    const uint8_t     *x = t[*(const uint64_t *)a].data, *y = t[*(const uint64_t *)b].data;
    return (x > y) - (x < y);
}

/* The tensor whose data hold this byte; UINT64_MAX: none. */
static uint64_t round__tensor(const round_job *j, const uint8_t *data) {
    uint64_t lo = 0, hi = j->g->n_tensor;
    while (lo < hi) {
        const uint64_t mid = (lo + hi) / 2;
        if (j->g->tensor[j->by_data[mid]].data <= data) lo = mid + 1;
        else hi = mid;
    }
    if (!lo) return UINT64_MAX;
    const gguf_tensor *t = &j->g->tensor[j->by_data[lo - 1]];
    return (uint64_t)(data - t->data) < t->n_bytes ? j->by_data[lo - 1] : UINT64_MAX;
}

static bool round__within(const float *x, size_t n, float most) {
    bool ok = true;
    for (size_t i = 0; i < n; i++) ok &= fabsf(x[i]) <= most;
    return ok;
}

/* Row r of a matrix as floats. A row with a weight beyond `most` sets j->bad and becomes zeros. */
static void round__row(round_job *j, const dev_product *m, int r, float most, float *w) {
    const uint8_t *src = m->w->data + (size_t)m->stack * m->w->mat_bytes + (size_t)r * m->w->row_bytes;
    k_types[m->w->type].dequant(src, w, j->n);
    if (m->w->type == K_I2_S) k_scale(w, m->w->scale[0], j->n);     /* it is in the tensor, which is written anew */
    if (round__within(w, (size_t)j->n, most)) return;
    uint64_t first = atomic_load(&j->bad), this = round__tensor(j, m->w->data);
    while (this < first && !atomic_compare_exchange_weak(&j->bad, &first, this)) {}
    memset(w, 0, (size_t)j->n * sizeof *w);
}

/* Rounds rows [r0, r0 + nr) of a matrix to blocks at dst, and sets the errors of each row. */
static void round__tile(round_job *j, round__scratch *b, const dev_product *m, uint32_t type, int r0, int nr, uint8_t *dst) {
    const size_t   n = (size_t)j->n, row = k_row_bytes(type, j->n);
    double         best[ROUND_TILE], err[ROUND_TILE];
    for (int r = 0; r < nr; r++) {
        round__row(j, m, r0 + r, b->most, b->w + (size_t)r * n);
        k_fitters[type].fit(b->w + (size_t)r * n, m->n ? j->hd : NULL, b->best + (size_t)r * row, j->n);
        j->err[2 * (r0 + r)] = j->err[2 * (r0 + r) + 1] = 0;
    }
    if (m->n) {
        round__errors(j, b, type, b->best, row, nr);
        round__measure(j, b, nr, best);
        for (int r = 0; r < nr; r++) j->err[2 * (r0 + r)] = best[r];
        round__feedback(j, b, type, row, nr);
        round__errors(j, b, type, b->made, row, nr);
        round__measure(j, b, nr, err);
        for (int r = 0; r < nr; r++) round__keep(b, row, r, err[r], &best[r]);
        round__polish(j, b, type, row, nr, best);
        for (int r = 0; r < nr; r++) j->err[2 * (r0 + r) + 1] = best[r];
    }
    memcpy(dst, b->best, (size_t)nr * row);
}

/* --- a list of products --- */

/* Where the new blocks of a product's matrix go; NULL: it is not rounded here, or already done. */
static uint8_t *round__place(const round_job *j, const dev_product *m, uint32_t *type) {
    const uint64_t i = round__tensor(j, m->w->data);
    if (i == UINT64_MAX || !j->blocks[i]) return NULL;
    const gguf_tensor *t = &j->g->tensor[i];
    const size_t       row = k_row_bytes(j->to[i], (int64_t)t->dim[0]), at = (size_t)(m->w->data - t->data) / m->w->row_bytes;
    *type = j->to[i];
    return j->blocks[i] + (at + (size_t)m->stack * (size_t)m->w->n_out) * row;
}

/* Whether two products have the same input. */
static bool round__same_input(const dev_product *a, const dev_product *b) {
    return a->a == b->a && a->idx == b->idx && a->first == b->first && a->n == b->n;
}

/* Adds up the errors of a matrix and reports them. */
static void round__report(round_job *j, const dev_product *m, uint32_t type) {
    double sum[2] = {0};
    for (int r = 0; r < 2 * m->w->n_out; r++) sum[r % 2] += j->err[r];
    j->before += sum[0];
    j->after += sum[1];
    j->worked += (double)m->w->n_out * m->w->n_in;
    const gguf_tensor *t = &j->g->tensor[round__tensor(j, m->w->data)];
    log_info("%.*s: %s, %.1f %% of the plain error over the text", GGUF_SHOW(t->name), k_types[type].name,
             sum[0] > 0 ? 100 * sum[1] / sum[0] : 100.0);
}

/* Draws the progress line when r rows of m are done. */
static void round__progress(const round_job *j, const dev_product *m, int r) {
    const gguf_tensor *t = &j->g->tensor[round__tensor(j, m->w->data)];
    const double       done = j->worked + (double)r * m->w->n_in;
    if (!progress_due()) return;
    progress_show("calibrating: %.0f %%%s, %.*s", 100 * done / (j->work + 1), progress_left(j->t0, done, j->work).p,
                  GGUF_SHOW(t->name));
}

/* Rounds all rows of one matrix. All threads. */
static void round__matrix(round_job *j, dev *dv, const dev_product *m, uint32_t type, uint8_t *dst) {
    const size_t row = k_row_bytes(type, m->w->n_in);
    j->scratch[dv->ith].most = k_most(type);
    for (int r; (r = pool_next(dv->p) * ROUND_TILE) < m->w->n_out && !g_interrupt;) {
        if (dv->ith == 0) round__progress(j, m, r);
        round__tile(j, &j->scratch[dv->ith], m, type, r, m->w->n_out - r < ROUND_TILE ? m->w->n_out - r : ROUND_TILE,
                    dst + (size_t)r * row);
    }
    pool_barrier(dv->p);
    if (dv->ith == 0) round__report(j, m, type);
    pool_barrier(dv->p);
}

/* Computes moments, order and factor of the input of m. False: no rows, or values that are not finite. All threads. */
static bool round__input(round_job *j, dev *dv, const dev_product *m) {
    pool_barrier(dv->p);
    if (dv->ith == 0) j->n = m->w->n_in, j->span = round__span(j->n), round__progress(j, m, 0);
    pool_barrier(dv->p);
    if (!m->n) return false;
    round__moments(j, dv, m);
    if (!round__within(j->hd, (size_t)j->n, FLT_MAX)) {
        const uint64_t this = round__tensor(j, m->w->data);
        if (dv->ith == 0 && this < j->lost) j->lost = this;
        return false;
    }
    pool_barrier(dv->p);                              /* every thread has read the values */
    if (m->w->data == j->m.glob.mat[W_TOK_EMBD].data && dv->ith == 0) round__add_input_error(j);
    pool_barrier(dv->p);
    round__prepare(j, dv);
    return true;
}

/* The tap: rounds the matrices of a list of products, input by input. */
static void round__tap(void *ctx, dev *dv, const dev_product *list, int n) {
    round_job *j = ctx;
    uint32_t   type;
    int        leader = -1;                           /* the product whose input H belongs to */
    bool       seen = false;
    for (int i = 0; i < n; i++) {
        dev_product m = list[i];
        uint8_t    *dst = round__place(j, &m, &type);
        if (!dst) continue;
        if (leader < 0 || !round__same_input(&m, &list[leader])) seen = round__input(j, dv, &m);
        leader = i;
        if (!seen) m.n = 0;                           /* no H: a plain fit */
        round__matrix(j, dv, &m, type, dst);
        if (dv->ith == 0) j->rows[round__tensor(j, m.w->data)] += (uint64_t)m.w->n_out;
    }
    pool_barrier(dv->p);
}

/* --- the run --- */

/* Whether tensor i is rounded here: a matrix of the step whose new type has codes; embeddings only where they are the output
 * matrix too. */
static bool round__is_rounded(const round_job *j, uint64_t i) {
    const gguf_tensor *t = &j->g->tensor[i];
    const bool         head = t->data == j->m.glob.mat[W_OUTPUT].data;
    if (t->type == j->to[i] || !k_wants_q8(j->to[i]) || !k_fitters[j->to[i]].fit || t->n_dims < 2) return false;
    return head ? t->dim[1] == (uint64_t)j->m.hp.n_vocab : t->name.n > 4 && memcmp(t->name.p, "blk.", 4) == 0;
}

static void round__scratch_new(round__scratch *b, size_t n, size_t span, size_t row) {
    const size_t T = ROUND_TILE, P = 2 * span / 32 + 2;
    float      **of_tile[] = {&b->w, &b->t, &b->e, &b->g}, **of_row[] = {&b->step, &b->base, &b->d, &b->dm, &b->fs, &b->fm};
    for (size_t i = 0; i < 4; i++) *of_tile[i] = mem_aligned(T * n, sizeof(float));
    for (size_t i = 0; i < 6; i++) *of_row[i] = mem_aligned(n + 256, sizeof(float));
    b->q = mem_aligned(n + 256, 1);
    b->sc = mem_new(n / 16 + 16, sizeof *b->sc);
    b->mn = mem_new(n / 16 + 16, sizeof *b->mn);
    b->made = mem_aligned(T * row, 1);
    b->best = mem_aligned(T * row, 1);
    b->diag = mem_aligned(256, sizeof *b->diag);
    b->x = mem_aligned(256, sizeof *b->x);
    b->normal = mem_aligned(P * P, sizeof *b->normal);
    b->rhs = mem_aligned(P, sizeof *b->rhs);
    b->dir = mem_aligned(2 * span + 512, sizeof *b->dir);
    b->hdir = mem_aligned(32 * span, sizeof *b->hdir);
}

static void round__scratch_drop(round__scratch *b) {
    void *own[] = {b->w, b->t, b->e, b->g, b->step, b->base, b->d, b->dm, b->fs, b->fm, b->q, b->sc, b->mn,
                   b->made, b->best, b->diag, b->x, b->normal, b->rhs, b->dir, b->hdir};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) mem_free(own[i]);
}

/* The maximum of each size over all matrices. */
typedef struct {
    size_t   n;                                       /* channels */
    size_t   span;                                    /* channels of one H */
    size_t   rows;                                    /* of weights */
    size_t   row;                                     /* bytes of a row of blocks */
    uint64_t blocks;                                  /* bytes of all blocks */
} round__extent;

static round__extent round__extent_of(const round_job *j) {
    round__extent x = {.n = 32, .span = 32, .rows = 1, .row = 1};
    for (uint64_t i = 0; i < j->g->n_tensor; i++) {
        const gguf_tensor *t = &j->g->tensor[i];
        if (!round__is_rounded(j, i)) continue;
        const size_t len = (size_t)t->dim[0], one = k_row_bytes(j->to[i], (int64_t)len), s = (size_t)round__span((int)len);
        x.n = max_size(len, x.n);
        x.span = max_size(s, x.span);
        x.rows = max_size((size_t)t->dim[1], x.rows);
        x.row = max_size(one, x.row);
        x.blocks += (uint64_t)one * t->dim[1] * t->dim[2];
    }
    return x;
}

/* Number of spans: the widest row need not have the longest span. */
static size_t round__n_spans(const round__extent *x) { return (x->n + x->span - 1) / x->span + 1; }

/* Bytes that round__alloc() takes, apart from small buffers. */
static uint64_t round__alloc_bytes(const round__extent *x, int threads) {
    const uint64_t n = x->n, square = (uint64_t)x->span * x->span, units = 2 * x->span / 32 + 2;
    const uint64_t bench = 160 * n + 2 * ROUND_TILE * x->row + 8 * units * units + 136 * x->span;
    const uint64_t moments = (8 * round__n_spans(x) + 8) * square + (4 * ROUND_CHUNK + 16) * n + 16 * x->rows;
    return moments + x->blocks + (uint64_t)threads * bench;
}

/* Allocates scratch for the widest matrix, and the blocks of all. */
static void round__alloc(round_job *j) {
    const round__extent x = round__extent_of(j);
    for (uint64_t i = 0; i < j->g->n_tensor; i++) {
        const gguf_tensor *t = &j->g->tensor[i];
        if (!round__is_rounded(j, i)) continue;
        j->blocks[i] = mem_aligned(k_row_bytes(j->to[i], (int64_t)t->dim[0]), (size_t)(t->dim[1] * t->dim[2]));
        j->work += (double)t->dim[0] * (double)(t->dim[1] * t->dim[2]);
    }
    j->h = mem_aligned(round__n_spans(&x) * x.span * x.span, sizeof *j->h);
    j->v = mem_aligned(round__n_spans(&x) * x.span * x.span, sizeof *j->v);
    j->chol = mem_aligned(x.span * x.span, sizeof *j->chol);
    j->vd = mem_new(x.n, sizeof *j->vd);
    j->hd = mem_new(x.n, sizeof *j->hd);
    j->col = mem_new(x.n, sizeof *j->col);
    j->xt = mem_aligned(x.n * ROUND_CHUNK, sizeof *j->xt);
    j->err = mem_new(2 * x.rows, sizeof *j->err);
    j->scratch = mem_new((size_t)j->p->n, sizeof *j->scratch);
    for (int i = 0; i < j->p->n; i++) round__scratch_new(&j->scratch[i], x.n, x.span, x.row);
}

/* Frees what round_run() returned; NULL: nothing. */
static void round_free(round_job *j) {
    if (!j) return;
    for (int i = 0; j->scratch && i < j->p->n; i++) round__scratch_drop(&j->scratch[i]);
    for (uint64_t i = 0; i < j->g->n_tensor; i++) mem_free(j->blocks[i]);
    void *own[] = {j->blocks, j->rows, j->by_data, j->h, j->v, j->chol, j->vd, j->hd, j->col, j->xt, j->err, j->scratch};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) mem_free(own[i]);
    fwd_free(j->f);
    kv_free(j->kv);
    pool_free(j->p);
    model_close(&j->m);
    mem_free(j);
}

/* Number of chunks for the step, spread over the text: as many as asked for, by default as many as ROUND_MEMORY holds. Their
 * memory must be free now, or the system might kill the run hours later. The result depends on the number, so it is never lowered
 * silently. 0: e is set. */
static int round__chunks(const round_job *j, size_t n_ids, err_t *e) {
    const int           chunk = j->o.chunk, most = INT_MAX / chunk;
    const uint64_t      kv = model_kv_bytes(&j->m.hp, j->o.kv.type_k, j->o.kv.type_v);
    const uint64_t      each = (fwd_row_bytes(&j->m) + kv) * (uint64_t)chunk + kv_slot_bytes(&j->m.hp);
    const uint64_t      own = ((uint64_t)ROUND_MEMORY << 30) / each, left = host_memory();
    const round__extent x = round__extent_of(j);
    const uint64_t      fixed = round__alloc_bytes(&x, j->p->n) + ((uint64_t)ROUND_SPARE << 20);
    int                 n = tok_chunks(n_ids, chunk, chunk, j->o.n_chunks, e);
    if (e->code) return 0;
    n = min_int(n, most);
    if (j->o.n_chunks < 0 && (uint64_t)n > own) n = own ? (int)own : 1;
    const uint64_t need = fixed + each * (uint64_t)n, fit = left > fixed ? (left - fixed) / each : 0;
    if (need <= left) return n;
    str hint = {0};
    if (fit) str_fmt(&hint, "at most --chunks %llu", GGUF_U(fit));
    else str_put(&hint, "more memory, or shorter ones (-c N)");
    err_set(e, EXIT_RESOURCE, "--calibrate: %d chunks of %d tokens take %.3g GiB, %.3g are free, expected %s", n,
            chunk, (double)need / 0x1p30, (double)left / 0x1p30, hint.p);
    str_drop(&hint);
    return 0;
}

/* Runs the step over all chunks. False: e is set, or an interrupt. */
static bool round__step(round_job *j, const tok_ids *ids, int32_t bos, int n, err_t *e) {
    const int     chunk = j->o.chunk;
    const size_t  all = ids->n / (size_t)chunk;
    const dev_tap tap = {round__tap, j};
    kv_seq      **seq = mem_new((size_t)n, sizeof *seq);
    bool          ok = true;
    fwd_watch(j->f, &tap);
    fwd_begin(j->f);
    for (int c = 0; ok && c < n; c++) {
        const int32_t *from = ids->id + (size_t)c * all / (size_t)n * (size_t)chunk;
        seq[c] = kv_seq_new(j->kv);
        ok = kv_require(seq[c], chunk, e);
        for (int i = 0; i < chunk; i++) fwd_add(j->f, seq[c], i == 0 && bos >= 0 ? bos : from[i], i, 0);
    }
    ok = ok && fwd_step(j->f);
    ok = ok && gguf_alive(j->g, e);
    for (int c = 0; c < n; c++) kv_seq_free(seq[c]);
    mem_free(seq);
    return ok;
}

/* The text does not go through draft heads: their matrices get the plain fit, which a line on stderr says. */
static void round__leave_heads(round_job *j) {
    int n = 0;
    for (uint64_t i = 0; i < j->g->n_tensor; i++) {
        char      name[32];
        const int il = j->m.hp.n_layer;
        for (int k = 0; k < j->m.hp.n_nextn; k++) {
            const int len = snprintf(name, sizeof name, "blk.%d.", il + k);
            n += round__is_rounded(j, i) && bytes_begins(j->g->tensor[i].name, (bytes){(const uint8_t *)name, (size_t)len});
        }
    }
    if (n)
        log_warn("%d %s of the draft head %s rounded plainly: the text does not go through it", n, n == 1 ? "matrix" : "matrices",
                 n == 1 ? "is" : "are");
    model_use_head(&j->m, false);
}

/* Keeps the blocks of complete tensors; a tensor that the step did not read gets the plain fit. */
static void round__finish(round_job *j) {
    for (uint64_t i = 0; i < j->g->n_tensor; i++) {
        const gguf_tensor *t = &j->g->tensor[i];
        if (j->rows[i] == t->dim[1] * t->dim[2] * t->dim[3]) continue;
        mem_free(j->blocks[i]);
        j->blocks[i] = NULL;
    }
}

/* Checks weights and inputs; weights first, since bad weights make bad inputs. On failure e is set. */
static bool round__check(const round_job *j, err_t *e) {
    const uint64_t bad = atomic_load(&j->bad), at = bad != UINT64_MAX ? bad : j->lost;
    if (at == UINT64_MAX) return true;
    const gguf_tensor *t = &j->g->tensor[at];
    if (bad != UINT64_MAX)
        return gguf_bad(j->g, t->part, t->at, e, "weights of tensor %.*s are not finite or too large for %s, expected at most %g",
                        GGUF_SHOW(t->name), k_types[j->to[at]].name, (double)k_most(j->to[at]));
    return gguf_bad(j->g, t->part, t->at, e,
                    "over this text the inputs of tensor %.*s hold a NaN or an infinity, expected finite numbers",
                    GGUF_SHOW(t->name));
}

/* Rounds the matrices of g to the types in `to` [n_tensor], calibrated on the text `ids`. bos >= 0: the start token of every
 * chunk. NULL: e is set, or an interrupt. */
static round_job *round_run(const gguf_file *g, const tok_ids *ids, int32_t bos, const uint32_t *to, const round_opts *o,
                            err_t *e) {
    round_job *j = mem_new(1, sizeof *j);
    int        n = 0;
    *j = (round_job){.t0 = clock_now(), .g = g, .o = *o, .to = to, .bad = UINT64_MAX, .lost = UINT64_MAX};
    j->blocks = mem_new(g->n_tensor, sizeof *j->blocks);
    j->rows = mem_new(g->n_tensor, sizeof *j->rows);
    j->by_data = mem_new(g->n_tensor, sizeof *j->by_data);
    for (uint64_t i = 0; i < g->n_tensor; i++) j->by_data[i] = i;
    if (g->n_tensor) qsort_r(j->by_data, g->n_tensor, sizeof *j->by_data, round__by_data, (void *)(uintptr_t)g->tensor);
    j->p = pool_new(o->n_threads > 0 ? o->n_threads : pool_default_threads());
    rope_opts rope = o->rope;
    rope.n_ctx = o->chunk;
    bool ok = model_open(&j->m, g, &rope, e) && model_writes(&j->m, e) && model_holds(&j->m, o->chunk, e);
    if (ok) round__leave_heads(j);
    ok = ok && (n = round__chunks(j, ids->n, e)) > 0;
    const int64_t blocks = ((int64_t)o->chunk + o->kv.block - 1) / o->kv.block;       /* a sequence takes whole blocks */
    ok = ok && (j->kv = kv_new(&j->m.hp, &o->kv, (kv_load){.tokens = n * blocks * o->kv.block, .seqs = n, .rows = o->chunk},
                               e)) != NULL;
    if (ok) {
        j->f = fwd_new(&j->m, j->kv, j->p, n * o->chunk, 1, FWD_LOGITS);
        round__alloc(j);
        log_warn("calibrating on %d tokens in %d chunks", n * o->chunk, n);
        ok = round__step(j, ids, bos, n, e) && round__check(j, e);
        progress_clear();
        round__finish(j);
    }
    if (ok && j->before > 0)
        log_warn("%.1f %% of the plain error over the text is left, %.1f s", 100 * j->after / j->before, clock_now() - j->t0);
    if (ok) return j;
    round_free(j);
    return NULL;
}

/* The blocks of tensor i; NULL: it was not rounded here. */
static const uint8_t *round_bytes(const round_job *j, uint64_t i) { return j->blocks[i]; }
