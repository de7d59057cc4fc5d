/* ===== [samp] logits to token =====
 * Chooses the next token of one sequence. A sampler holds the options, the chain of samplers built from them, the
 * recent tokens for the penalties, and scratch memory for one pick. The chain, its order and its defaults are those of
 * llama.cpp (src/llama-sampler.cpp, common/sampling.cpp): logit bias, then the samplers by name, then a draw.
 *
 * Invariants:
 * - Candidates stay in the order of their ids, so that of two equal logits the smaller id comes first. A sampler finds
 *   a threshold and removes what is below it. "Descending" means by falling logit, then by rising id: a total order.
 * - After samp__scan() no candidate is NaN (it becomes -inf) or +inf (those candidates share the whole probability, all
 *   others become -inf).
 * - The weight of a candidate, e^(logit - max), is rounded to a multiple of 2^-34. A sum of up to 2^19 of them is then
 *   exact in double in any order, so buckets, blocks and a full sort find the same crossing to the bit. It costs a
 *   probability at most 2^-35 of the best one.
 * - All random numbers are rng_at(seed, seq, pos, draw): draw 0 is the token, draw 1 + i belongs to sampler i of the
 *   chain. The draw is the inverse of the cumulative distribution in descending order.
 * - samp_pick and samp__probs do not change the history, samp_accept adds to it; none of them allocates.
 *
 * To add a sampler:
 * - Its parameters, each as the comment above samp_params says, with defaults that switch it off.
 * - Two functions in "the samplers": one that is true where the options switch it off, and one that changes the
 *   candidates of s. That one calls samp__scan() before it reads s->max or s->best, removes candidates by samp__keep(),
 *   and clears s->scanned where it changes s->l.
 * - A row of samp_table, with a letter of its own.
 * - Its name in samp_defaults.samplers, where it belongs in the order: outside of the chain its parameters do nothing.
 * - tests/t_samp.c: a plain version of it that t_samp__ref_run() calls, its letter in T_SAMP_ORDER, random values in
 *   t_samp__random_opts(), its defaults and its name in the tables of names and defaults; with a key of a request's body
 *   a row of the keys in tests/t_req.c.
 * Public: samp_defaults, samp_params, samp_describe, samp_check, samp_takes_best, samp_bytes, samp_new, samp_clone,
 * samp_free, samp_accept, samp_pick, samp_chance, samp_copy, samp_breakers_text, samp_breakers_seal, samp_breakers_drop.
 * Opens: samp_bias, samp_cand, samp_opts, samp_param, samp_words. */

/* --- DRY sequence breakers: token sequences that no repetition may cross --- */

enum { SAMP_BREAKER_CHARS = 40, SAMP_BREAKER_TAIL = 20 };   /* longer ones are cut, as in llama.cpp */

typedef struct {
    int32_t head;                                     /* first token */
    int32_t n_tail;                                   /* tokens that must follow it */
    size_t  tail;                                     /* where these are in samp_breakers.token */
} samp_breaker;

/* Filled by samp_breakers_text() for each text, then sealed. */
typedef struct {
    samp_breaker *at;                                 /* [n] by ascending head once sealed */
    size_t        n;
    int32_t      *token;                              /* [n_token] tails of all */
    size_t        n_token, cap_token;
    bool          sealed;
} samp_breakers;

/* What the vocabulary must offer to find the tokens of a breaker text. */
typedef struct {
    int32_t n_vocab;
    void   *ctx;
    bytes (*text)(void *ctx, int32_t id);             /* bytes of one token, control tokens spelled out */
    /* Tokens of a text, no start token, no control tokens; returns their number, writes at most cap. */
    int32_t (*encode)(void *ctx, bytes text, int32_t *out, int32_t cap);
} samp_words;

/* Frees all entries; the set is empty and can be filled again. */
static void samp_breakers_drop(samp_breakers *b) {
    mem_free_all(b->at, b->token);
    *b = (samp_breakers){0};
}

static void samp__breakers_put(samp_breakers *b, int32_t head, const int32_t *tail, int32_t n_tail) {
    while (b->cap_token - b->n_token < (size_t)n_tail)
        b->token = mem_grow(b->token, b->cap_token = b->cap_token ? 2 * b->cap_token : 64, sizeof *b->token);
    if (n_tail) memcpy(b->token + b->n_token, tail, (size_t)n_tail * sizeof *tail);
    MEM_PUSH(b->at, b->n, (samp_breaker){.head = head, .n_tail = n_tail, .tail = b->n_token});
    b->n_token += (size_t)n_tail;
    b->sealed = false;
}

/* Whether an entry from `first` on has this head and this tail. */
static bool samp__breakers_has(const samp_breakers *b, size_t first, int32_t head, const int32_t *tail, int32_t n_tail) {
    for (size_t i = first; i < b->n; i++)
        if (b->at[i].head == head && b->at[i].n_tail == n_tail &&
            (!n_tail || !memcmp(b->token + b->at[i].tail, tail, (size_t)n_tail * sizeof *tail))) return true;
    return false;
}

/* Adds every token that contains `text` (no tail), and every token that ends with the beginning of `text`, whose tail is the
 * rest of `text` (the rule of koboldcpp, pull 982). */
static void samp_breakers_text(samp_breakers *b, bytes text, const samp_words *w) {
    text.n = min_size(text.n, SAMP_BREAKER_CHARS);
    if (!text.n) return;
    for (int32_t id = 0; id < w->n_vocab; id++) {
        bytes  word = w->text(w->ctx, id);
        size_t first = b->n;
        if (word.n >= text.n && memmem(word.p, word.n, text.p, text.n)) {
            samp__breakers_put(b, id, NULL, 0);
            continue;
        }
        for (size_t at = 0; at < word.n; at++) {
            size_t  n = word.n - at;
            int32_t tail[SAMP_BREAKER_TAIL];
            if (n >= text.n || memcmp(word.p + at, text.p, n) != 0) continue;
            int32_t n_tail = w->encode(w->ctx, (bytes){text.p + n, text.n - n}, tail, SAMP_BREAKER_TAIL);
            n_tail = min_int(n_tail, SAMP_BREAKER_TAIL);
            if (!samp__breakers_has(b, first, id, tail, n_tail)) samp__breakers_put(b, id, tail, n_tail);
        }
    }
}

static int samp__breaker_order(const void *a, const void *b) {
    int32_t x = ((const samp_breaker *)a)->head, y = ((const samp_breaker *)b)->head;
    return (x > y) - (x < y);
}

/* Call it after the last text, before the first lookup. Any number of samplers can use one set. */
static void samp_breakers_seal(samp_breakers *b) {
    if (b->n) qsort(b->at, b->n, sizeof *b->at, samp__breaker_order);
    b->sealed = true;
}

/* The first entry whose head is not below `head`. */
static size_t samp__breakers_find(const samp_breakers *b, int32_t head) {
    return b->n ? mem_u32_find(&b->at->head, b->n, sizeof *b->at, (uint32_t)head) : 0;
}

/* --- options --- */

typedef struct {
    int32_t id;
    float   bias;                                     /* added to the logit; -INFINITY forbids, INFINITY forces */
} samp_bias;

typedef struct {
    const char *samplers;                             /* names in order, separated by ';'; "" is none, NULL the default */
    const char *sampling_seq;                         /* the same as letters of samp_table; NULL: samplers count */
    float temp;                                       /* divides the logits; <= 0 is greedy */
    float dynatemp_range;                             /* temp - range .. temp + range, by the entropy; 0 is off */
    float dynatemp_exp;                               /* exponent of the entropy */
    int   top_k;                                      /* candidates kept; <= 0 is off */
    float top_p;                                      /* probability of all that are kept; 1 is off */
    float min_p;                                      /* least probability, as a share of the best one's; 0 is off */
    float typical_p;                                  /* probability of all that are kept; 1 is off */
    float top_nsigma;                                 /* standard deviations below the best logit; <= 0 is off */
    float xtc_probability;                            /* of being applied at all; 0 is off */
    float xtc_threshold;                              /* least probability of a top choice; above 0.5 is off */
    int   repeat_last_n;                              /* recent tokens for the penalties; 0 is off, -1 the context */
    float repeat_penalty;                             /* divides logits; 1 is off */
    float frequency_penalty;                          /* subtracted from a logit for each occurrence; 0 is off */
    float presence_penalty;                           /* subtracted once; 0 is off */
    float dry_multiplier;                             /* penalty: multiplier * base^(length - allowed); 0 is off */
    float dry_base;                                   /* below 1 is off */
    int   dry_allowed_length;                         /* tokens */
    int   dry_penalty_last_n;                         /* recent tokens; 0 is off, -1 the context */
    const samp_breakers *dry_breakers;                /* sealed, outlives the sampler; NULL is none */
    int   mirostat;                                   /* 1 or 2: replaces the chain except temp; 0 is off */
    float mirostat_ent;                               /* tau: target surprise, in bits */
    float mirostat_lr;                                /* eta: learning rate */
    int   n_ctx;                                      /* tokens of the context: what -1 means, a bound of last_n; 0: unknown */
    const samp_bias *bias;                            /* [n_bias] copied; those of one token add up */
    int   n_bias;
} samp_opts;

static const samp_opts samp_defaults = {
    .samplers = "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature",
    .temp = 0.8f, .dynatemp_range = 0, .dynatemp_exp = 1,
    .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .typical_p = 1, .top_nsigma = 0,
    .xtc_probability = 0, .xtc_threshold = 0.1f,
    .repeat_last_n = 64, .repeat_penalty = 1, .frequency_penalty = 0, .presence_penalty = 0,
    .dry_multiplier = 0, .dry_base = 1.75f, .dry_allowed_length = 2, .dry_penalty_last_n = 64,
    .mirostat = 0, .mirostat_ent = 5, .mirostat_lr = 0.1f,
};

/* Parameters that are one number. Options (--temp), keys of a request's body and keys of a model file have the bounds of these
 * rows. To add one: 1 its field and default above; 2 a row here; 3 a row of cli_opts that names the field. */
typedef struct {
    const char *name;                                 /* in errors */
    const char *json;                                 /* key of a request's body, NULL: none */
    const char *gguf;                                 /* key of a model file, NULL: none */
    size_t      at;                                   /* offset in samp_opts */
    bool        whole;                                /* int, else float */
    double      lo, hi;                               /* bounds, both allowed */
    const char *help;                                 /* of the option */
} samp_param;

#define SAMP_F(f) offsetof(samp_opts, f), false
#define SAMP_I(f) offsetof(samp_opts, f), true
#define SAMP_GGUF "general.sampling."
static const samp_param samp_params[] = {
    /* name                json                  gguf                         at, whole                     lo    hi    help */
    {"temp",               "temperature",        SAMP_GGUF "temp",            SAMP_F(temp),                 -1e6, 1e6,
     "temperature; 0 or less always takes the most probable token (greedy)"},
    {"dynatemp_range",     NULL,                 NULL,                        SAMP_F(dynatemp_range),       -100, 100,
     "dynamic temperature: between temp - X and temp + X, by the entropy; 0 is off"},
    {"dynatemp_exp",       NULL,                 NULL,                        SAMP_F(dynatemp_exp),         0,    100,
     "exponent of the dynamic temperature"},
    {"top_k",              "top_k",              SAMP_GGUF "top_k",           SAMP_I(top_k),                -1,   INT32_MAX,
     "keep the N most probable tokens; 0 or less is off"},
    {"top_p",              "top_p",              SAMP_GGUF "top_p",           SAMP_F(top_p),                -1e6, 1e6,
     "keep the most probable tokens whose probabilities add up to X; 1 is off"},
    {"min_p",              "min_p",              SAMP_GGUF "min_p",           SAMP_F(min_p),                -1e6, 1e6,
     "keep tokens with at least X times the probability of the most probable one; 0 is off"},
    {"typical_p",          NULL,                 NULL,                        SAMP_F(typical_p),            -1e6, 1e6,
     "locally typical sampling; 1 is off"},
    {"top_nsigma",         NULL,                 NULL,                        SAMP_F(top_nsigma),           -1,   1000,
     "keep logits within X standard deviations of the highest; 0 or less is off"},
    {"xtc_probability",    NULL,                 SAMP_GGUF "xtc_probability", SAMP_F(xtc_probability),      -1e6, 1e6,
     "probability of removing the top choices (XTC); 0 is off"},
    {"xtc_threshold",      NULL,                 SAMP_GGUF "xtc_threshold",   SAMP_F(xtc_threshold),        -1e6, 1e6,
     "a token is a top choice of XTC from this probability on; above 0.5 is off"},
    {"repeat_last_n",      NULL,                 SAMP_GGUF "penalty_last_n",  SAMP_I(repeat_last_n),        -1,   INT32_MAX,
     "number of recent tokens for the penalties; 0 is off, -1 is the whole context"},
    {"repeat_penalty",     "repetition_penalty", SAMP_GGUF "penalty_repeat",  SAMP_F(repeat_penalty),       1e-3, 1000,
     "divide the logits of recent tokens by X; 1 is off"},
    {"frequency_penalty",  "frequency_penalty",  NULL,                        SAMP_F(frequency_penalty),    -100, 100,
     "subtract X for each time that a token is among the recent ones"},
    {"presence_penalty",   "presence_penalty",   NULL,                        SAMP_F(presence_penalty),     -100, 100,
     "subtract X from the logits of recent tokens"},
    {"dry_multiplier",     NULL,                 NULL,                        SAMP_F(dry_multiplier),       0,    1000,
     "strength of the penalty on repeated sequences (DRY); 0 is off"},
    {"dry_base",           NULL,                 NULL,                        SAMP_F(dry_base),             0,    1000,
     "base of the DRY penalty, which grows with the length of the repetition; below 1 is off"},
    {"dry_allowed_length", NULL,                 NULL,                        SAMP_I(dry_allowed_length),   0,    INT32_MAX,
     "repetitions of up to N tokens have no DRY penalty"},
    {"dry_penalty_last_n", NULL,                 NULL,                        SAMP_I(dry_penalty_last_n),   -1,   INT32_MAX,
     "number of recent tokens in which DRY looks for repetitions; 0 is off, -1 is the whole context"},
    {"mirostat",           NULL,                 SAMP_GGUF "mirostat",        SAMP_I(mirostat),             0,    2,
     "Mirostat version 1 or 2 in place of the sampler chain; 0 is off"},
    {"mirostat_ent",       NULL,                 SAMP_GGUF "mirostat_tau",    SAMP_F(mirostat_ent),         0,    100,
     "target entropy of Mirostat"},
    {"mirostat_lr",        NULL,                 SAMP_GGUF "mirostat_eta",    SAMP_F(mirostat_lr),          0,    100,
     "learning rate of Mirostat"},
};
enum { SAMP_PARAMS = sizeof samp_params / sizeof *samp_params };
#undef SAMP_F
#undef SAMP_I
#undef SAMP_GGUF

/* --- the sampler --- */

enum {
    SAMP_CHAIN_MAX = 32,                              /* samplers in a chain, repetitions included */
    SAMP_BLOCK = 64,                                  /* candidates per block: each block knows its best logit */
    SAMP_BUCKETS = 1024,                              /* the last one takes everything further below */
    SAMP_FEW = 512,                                   /* so many candidates or fewer need no buckets */
    SAMP_MIRO_TOP = 100,                              /* candidates from which Mirostat 1 estimates its exponent */
};
#define SAMP_REACH 25.0f                              /* e^-25 < 2^-35: weights this far below the best are 0 */

typedef struct {                                      /* a candidate */
    int32_t id;
    float   logit;                                    /* after the chain */
    float   p;                                        /* probability among the candidates that are left */
} samp_cand;

typedef struct samp {
    samp_opts  o;
    samp_bias *bias;                                  /* [o.n_bias] */
    int32_t    n_vocab;
    uint64_t   seed;
    uint64_t   seq;                                   /* number of the sequence among those with this seed */
    uint8_t    chain[SAMP_CHAIN_MAX];                 /* rows of samp_table that are on */
    int        n_chain;
    bool       greedy;                                /* the best candidate of the chain is picked, without a draw */
    int32_t    few;                                   /* SAMP_FEW; tests set it to reach both ways */

    /* state: what samp_accept changes and samp_copy copies */
    int32_t   *past;                                  /* ring of the last n_past tokens */
    int32_t    n_past;
    uint64_t   n_seen;                                /* tokens accepted since the beginning */
    float      mu;                                    /* Mirostat: allowed surprise, in bits */
    float      surprise;                              /* of the token last picked, in bits */
    int32_t    picked;                                /* that token; -1 once it is accepted */
    int32_t    at;                                    /* which candidate it was */

    /* candidates of the current pick */
    float     *l;                                     /* [n] logits: the caller's, or list_l */
    int32_t   *id;                                    /* [n] ascending; NULL: candidate i is token i */
    int32_t    n;
    float      max;                                   /* best logit; it and `best` hold while `scanned` is set */
    bool       scanned;
    uint64_t   pos;

    /* scratch; pages that are never written take no memory */
    float     *list_l;                                /* [n_vocab] */
    int32_t   *list_id;                               /* [n_vocab] */
    float     *score;                                 /* [n_vocab] typical: minus the distance from the entropy */
    float     *best;                                  /* [blocks of n_vocab] */
    uint64_t  *key;                                   /* [n_vocab] see samp__key */
    samp_cand *out;                                   /* [n_vocab] */
    double    *mass;                                  /* [2][SAMP_BUCKETS] */
    int32_t   *tally;                                 /* [n_vocab] all 0 between uses */
    int32_t   *recent;                                /* [n_past] last tokens, the latest first */
    int32_t   *z;                                     /* [n_past] */
} samp;

/* --- arithmetic --- */

/* yes or no, chosen by bits: compilers do not vectorise a choice of floats. */
static inline float samp__choose(bool holds, float yes, float no) {
    union { float f; int32_t i; } y = {yes}, n = {no};
    int32_t mask = -(int32_t)holds;
    y.i = (y.i & mask) | (n.i & ~mask);
    return y.f;
}

/* e^x for x <= 0, a multiple of 2^-34; NaN gives 0. Only plain float operations, so that compilers vectorise the loops
 * and every machine computes the same bits. Degree 6, minimax on |r| <= ln2/2, relative error 2e-9 before rounding. */
static inline float samp__weight(float x) {
    union { float f; int32_t i; } u = {x};
    x = samp__choose((u.i & INT32_MAX) <= 0x41f00000, x, -30.0f);   /* bits of 30 */
    float n = (x * 1.442695f + 12582912.0f) - 12582912.0f;          /* nearest integer to x / ln2 */
    float r = (x - n * 0x1.62ep-1f) - n * 3.1946183e-05f;           /* ln2 in two pieces, the first exact times n */
    float p = 0x1.12682ep-7f + r * 0x1.6ae68ep-10f;
    p = 0x1.555826p-5f + r * p;
    p = 0x1.555418p-3f + r * p;
    p = 0x1.fffffcp-2f + r * p;
    u.f = 1.0f + r * (1.0f + r * p);
    u.i += (int32_t)n * (1 << 23);
    float coarse = (u.f + 0x1p-11f) - 0x1p-11f;                     /* between 2^-11 and 2^-10 floats are 2^-34 apart */
    return samp__choose(u.i < 0x3a000000, coarse, u.f);             /* bits of 2^-11 */
}

/* Buckets of distance below the best: 64 for each octave from 2^-8 to 2^8, fine enough for flat and for peaked distributions.
 * Monotone, because the bits of positive floats are ordered like the floats. */
static inline int32_t samp__bucket(float v, float v_max) {
    union { float f; int32_t i; } d = {(v_max - v) + 0x1p-8f};
    int32_t k = (d.i - 0x3b800000) >> 17;                           /* bits of 2^-8 */
    return k < SAMP_BUCKETS - 1 ? k : SAMP_BUCKETS - 1;
}

/* Floats as integers in the same order (no NaN), and back. */
static inline int32_t samp__rank(float v) {
    union { float f; int32_t i; } u = {v};
    return u.i ^ ((u.i >> 31) & INT32_MAX);
}
static inline float samp__unrank(int32_t r) {
    union { int32_t i; float f; } u = {r ^ ((r >> 31) & INT32_MAX)};
    return u.f;
}

/* Ascending keys are descending values, ties by index. -0 counts as 0. */
static inline uint64_t samp__key(float v, int32_t i) {
    return (uint64_t)((uint32_t)samp__rank(v + 0.0f) ^ 0x7fffffffu) << 32 | (uint32_t)i;
}
static inline float   samp__key_value(uint64_t key) { return samp__unrank((int32_t)((uint32_t)(key >> 32) ^ 0x7fffffffu)); }
static inline int32_t samp__key_index(uint64_t key) { return (int32_t)(uint32_t)key; }

/* Hoare's partition around a pseudo-random key, so that no pattern in the data makes it slow. On return a[lo..*j] <=
 * a[*i..hi]. */
static void samp__partition(uint64_t *a, int32_t lo, int32_t hi, int32_t *pi, int32_t *pj) {
    uint64_t pivot = a[lo + (int32_t)(rng_at((uint64_t)lo, (uint64_t)hi, 0, 0) % (uint64_t)(hi - lo + 1))];
    int32_t  i = lo, j = hi;
    while (i <= j) {
        while (a[i] < pivot) i++;
        while (a[j] > pivot) j--;
        if (i > j) break;
        uint64_t t = a[i];
        a[i++] = a[j];
        a[j--] = t;
    }
    *pi = i;
    *pj = j;
}

static void samp__sort_range(uint64_t *a, int32_t lo, int32_t hi) {
    while (hi - lo > 24) {
        int32_t i, j;
        samp__partition(a, lo, hi, &i, &j);
        if (j - lo < hi - i) {                        /* the smaller side first, so that the stack stays logarithmic */
            samp__sort_range(a, lo, j);
            lo = i;
        } else {
            samp__sort_range(a, i, hi);
            hi = j;
        }
    }
    for (int32_t i = lo + 1; i <= hi; i++) {
        uint64_t x = a[i];
        int32_t  j = i;
        for (; j > lo && a[j - 1] > x; j--) a[j] = a[j - 1];
        a[j] = x;
    }
}

static void samp__sort(uint64_t *a, int32_t n) {
    int32_t i = 1;
    while (i < n && a[i - 1] < a[i]) i++;
    if (i < n) samp__sort_range(a, 0, n - 1);
}

/* Moves the k smallest to the front; a[k - 1] is the k-th. 1 <= k <= n. */
static void samp__select(uint64_t *a, int32_t n, int32_t k) {
    for (int32_t lo = 0, hi = n - 1; lo < hi;) {
        int32_t i, j;
        samp__partition(a, lo, hi, &i, &j);
        if (k - 1 <= j) hi = j;
        else if (k - 1 >= i) lo = i;
        else return;
    }
}

/* --- scanning all candidates --- */

static int32_t samp__id(const samp *s, int32_t i) { return s->id ? s->id[i] : i; }
static int32_t samp__blocks(const samp *s) { return (s->n + SAMP_BLOCK - 1) / SAMP_BLOCK; }
static int32_t samp__block_end(const samp *s, int32_t b) { return min_int(s->n, (b + 1) * SAMP_BLOCK); }

/* Best of n values; *odd: one of them is a NaN, and the result has no meaning. */
static float samp__highest(const float *v, int32_t n, bool *odd) {
    int32_t best = INT32_MIN, nan = 0;
    for (int32_t i = 0; i < n; i++) {
        union { float f; int32_t i; } u = {v[i]};
        int32_t r = samp__rank(v[i]);
        nan |= (u.i & INT32_MAX) > 0x7f800000;        /* bits of infinity */
        best = max_int(r, best);
    }
    *odd = nan;
    return samp__unrank(best);
}

/* Best of one block, in which each NaN becomes -inf. */
static float samp__block_best(float *l, int32_t n) {
    bool  odd;
    float best = n == SAMP_BLOCK ? samp__highest(l, SAMP_BLOCK, &odd) : samp__highest(l, n, &odd);
    if (!odd) return best;
    for (int32_t i = 0; i < n; i++)
        if (isnan(l[i])) l[i] = -INFINITY;
    return samp__highest(l, n, &odd);
}

static void samp__scan_blocks(samp *s) {
    s->max = -INFINITY;
    for (int32_t b = 0; b < samp__blocks(s); b++) {
        s->best[b] = samp__block_best(s->l + b * SAMP_BLOCK, samp__block_end(s, b) - b * SAMP_BLOCK);
        if (s->best[b] > s->max) s->max = s->best[b];
    }
}

/* The best logit, of all and of each block. */
static void samp__scan(samp *s) {
    if (s->scanned) return;
    samp__scan_blocks(s);
    if (s->max == INFINITY) {                         /* these share the whole probability */
        for (int32_t i = 0; i < s->n; i++) s->l[i] = s->l[i] == INFINITY ? 0 : -INFINITY;
        samp__scan_blocks(s);
    }
    s->scanned = true;
}

/* Index of the best candidate, the first of several. */
static int32_t samp__best(samp *s) {
    samp__scan(s);
    int32_t b = 0;
    while (s->best[b] != s->max) b++;
    int32_t i = b * SAMP_BLOCK;
    while (s->l[i] != s->max) i++;
    return i;
}

/* Weights of block b, the rest of w being 0. False: all of them are 0. */
static bool samp__weigh(const samp *s, int32_t b, float w[SAMP_BLOCK]) {
    int32_t      n = samp__block_end(s, b) - b * SAMP_BLOCK;
    const float *l = s->l + b * SAMP_BLOCK;
    float        max = s->max;
    if (!(s->best[b] - max > -SAMP_REACH)) return false;
    if (n == SAMP_BLOCK) {
        for (int32_t i = 0; i < SAMP_BLOCK; i++) w[i] = samp__weight(l[i] - max);
    } else {
        for (int32_t i = 0; i < n; i++) w[i] = samp__weight(l[i] - max);
        for (int32_t i = n; i < SAMP_BLOCK; i++) w[i] = 0;
    }
    return true;
}

/* Sum of all weights. */
static double samp__total(samp *s) {
    double sum[8] = {0};
    float  w[SAMP_BLOCK];
    samp__scan(s);
    for (int32_t b = 0; b < samp__blocks(s); b++) {
        if (!samp__weigh(s, b, w)) continue;
        for (int32_t i = 0; i < SAMP_BLOCK; i += 8)
            for (int j = 0; j < 8; j++) sum[j] += (double)w[i + j];
    }
    for (int j = 1; j < 8; j++) sum[0] += sum[j];
    return sum[0];
}

/* Entropy in nats, and the sum of all weights. */
static double samp__entropy(samp *s, double *total) {
    double z = samp__total(s), sum = 0;
    float  w[SAMP_BLOCK];
    for (int32_t b = 0; b < samp__blocks(s); b++) {
        if (!samp__weigh(s, b, w)) continue;
        for (int32_t i = b * SAMP_BLOCK, j = 0; i < samp__block_end(s, b); i++, j++)
            if (w[j] > 0) sum += (double)w[j] * (double)(s->max - s->l[i]);
    }
    *total = z;
    return log(z) + sum / z;
}

/* --- removing candidates --- */

/* Appends the candidates from..to whose v[i] ranks at `least` or above to the n in the lists; returns the new n. It compares
 * ranks because floats just above zero do not exist where denormals are flushed. Each candidate is written, and overwritten
 * by the next unless it counts: there is no branch to mispredict. */
static int32_t samp__keep_range(samp *s, const float *v, int32_t least, int32_t from, int32_t to, int32_t n) {
    const float   *l = s->l;
    const int32_t *id = s->id;
    float         *to_l = s->list_l;
    int32_t       *to_id = s->list_id;
    bool           skip = v == l && s->scanned;
    for (int32_t i = from, end; i < to; i = end) {
        end = min_int((i / SAMP_BLOCK + 1) * SAMP_BLOCK, to);
        if (skip && samp__rank(s->best[i / SAMP_BLOCK] + 0.0f) < least) continue;
        for (int32_t j = i; j < end; j++) {
            int32_t in = samp__rank(v[j] + 0.0f) >= least;
            to_id[n] = id ? id[j] : j;
            to_l[n] = l[j];
            n += in;
        }
    }
    return n;
}

/* Keeps the candidates whose value v[i] is above `least`, or equals it with i <= last. v is s->l or has the
 * same indexes. Entries are read before they are overwritten, so s->l may be list_l. */
static void samp__keep(samp *s, const float *v, float least, int32_t last) {
    int32_t rank = samp__rank(least + 0.0f), n = samp__keep_range(s, v, rank, 0, last + 1, 0);
    s->n = samp__keep_range(s, v, rank + 1, last + 1, s->n, n);
    s->l = s->list_l;
    s->id = s->list_id;
    s->scanned = false;
}

static void samp__keep_best(samp *s) {
    int32_t i = samp__best(s);
    samp__keep(s, s->l, s->max, i);
}

/* Writes the keys of the k best candidates (of all, when there are fewer) to s->key, the worst of them last, the others in no
 * order; returns their number. The best of the k-th best block is a lower bound of the k-th best candidate, so that blocks
 * below it are skipped. */
static int32_t samp__top(samp *s, int32_t k) {
    int32_t n_blocks = samp__blocks(s), n = 0;
    float   least = -INFINITY;
    samp__scan(s);
    k = min_int(k, s->n);
    if (k <= n_blocks) {
        for (int32_t b = 0; b < n_blocks; b++) s->key[b] = samp__key(s->best[b], b);
        samp__select(s->key, n_blocks, k);
        least = samp__key_value(s->key[k - 1]);
    }
    for (int32_t b = 0; b < n_blocks; b++) {
        if (s->best[b] < least) continue;
        for (int32_t i = b * SAMP_BLOCK; i < samp__block_end(s, b); i++) {
            s->key[n] = samp__key(s->l[i], i);
            n += s->l[i] >= least;
        }
    }
    samp__select(s->key, n, k);
    return k;
}

/* Buckets of block b of v, the rest of k being 0. */
static void samp__block_buckets(const samp *s, const float *v, float v_max, int32_t b, int32_t k[SAMP_BLOCK]) {
    int32_t n = samp__block_end(s, b) - b * SAMP_BLOCK;
    v += b * SAMP_BLOCK;
    if (n == SAMP_BLOCK) {
        for (int32_t i = 0; i < SAMP_BLOCK; i++) k[i] = samp__bucket(v[i], v_max);
    } else {
        for (int32_t i = 0; i < n; i++) k[i] = samp__bucket(v[i], v_max);
        for (int32_t i = n; i < SAMP_BLOCK; i++) k[i] = 0;
    }
}

/* Mass per bucket of v into s->mass; returns the sum. Two tables, because neighbours often fall into the same bucket. */
static double samp__fill_buckets(samp *s, const float *v, float v_max) {
    double *even = s->mass, *odd = s->mass + SAMP_BUCKETS, z = 0;
    float   w[SAMP_BLOCK];
    int32_t k[SAMP_BLOCK];
    memset(s->mass, 0, 2 * SAMP_BUCKETS * sizeof *s->mass);
    for (int32_t b = 0; b < samp__blocks(s); b++) {
        if (!samp__weigh(s, b, w)) continue;
        samp__block_buckets(s, v, v_max, b, k);
        for (int32_t i = 0; i < SAMP_BLOCK; i += 2) {
            even[k[i]] += (double)w[i];
            odd[k[i + 1]] += (double)w[i + 1];
        }
    }
    for (int32_t i = 0; i < SAMP_BUCKETS; i++) z += even[i] += odd[i];
    return z;
}

/* Keys by v of the candidates in one bucket, blocks without weight left out; returns their number. */
static int32_t samp__bucket_keys(samp *s, const float *v, float v_max, int32_t bucket) {
    int32_t k[SAMP_BLOCK], n = 0;
    for (int32_t b = 0; b < samp__blocks(s); b++) {
        if (!(s->best[b] - s->max > -SAMP_REACH)) continue;
        if (v == s->l && samp__bucket(s->best[b], v_max) > bucket) continue;
        samp__block_buckets(s, v, v_max, b, k);
        int32_t any = 0, first = b * SAMP_BLOCK, end = samp__block_end(s, b) - first;
        for (int32_t i = 0; i < SAMP_BLOCK; i++) any |= k[i] == bucket;
        for (int32_t i = 0; any && i < end; i++)
            if (k[i] == bucket) s->key[n++] = samp__key(v[first + i], first + i);
    }
    return n;
}

/* Whether a running mass has reached its target: top-p stops at equality, the others must exceed it. */
static bool samp__reached(double mass, double target, bool past) { return past ? mass > target : mass >= target; }

/* The key among n at which `mass`, plus the weights of the keys in ascending order, reaches the target: a quickselect that
 * compares masses. The sums are exact, so their order does not change the result. */
static uint64_t samp__cross_keys(samp *s, int32_t n, double mass, double target, bool past) {
    uint64_t *a = s->key;
    int32_t   lo = 0, hi = n - 1;
    while (lo < hi) {
        int32_t i, j;
        double  below = mass;
        samp__partition(a, lo, hi, &i, &j);
        for (int32_t k = lo; k <= j; k++) below += (double)samp__weight(s->l[samp__key_index(a[k])] - s->max);
        if (j >= lo && samp__reached(below, target, past)) {
            hi = j;
            continue;
        }
        mass = below;
        lo = j + 1;                                   /* a key may lie between the halves */
        if (i - 1 == lo) {
            mass += (double)samp__weight(s->l[samp__key_index(a[lo])] - s->max);
            if (samp__reached(mass, target, past)) return a[lo];
            lo = i;
        }
    }
    return a[lo < n ? lo : n - 1];
}

/* The candidate at which the mass of candidates by descending v reaches `part` of all; returns its index. v is s->l or
 * s->score; part <= 1 - 2^-53, so that the target is below the whole mass even after rounding. Few candidates are sorted,
 * many go through buckets; both give the same one. */
static int32_t samp__cross(samp *s, const float *v, double part, bool past) {
    bool few = s->n <= s->few, odd;
    samp__scan(s);
    float v_max = v == s->l ? s->max : samp__highest(v, s->n, &odd);
    double mass = 0, z = few ? samp__total(s) : samp__fill_buckets(s, v, v_max), target = part * z;
    int32_t n = 0;
    if (few) {
        for (; n < s->n; n++) s->key[n] = samp__key(v[n], n);
    } else {
        int32_t k = 0;
        while (k < SAMP_BUCKETS - 1 && (s->mass[k] == 0 || !samp__reached(mass + s->mass[k], target, past)))
            mass += s->mass[k++];
        n = samp__bucket_keys(s, v, v_max, k);
    }
    return samp__key_index(samp__cross_keys(s, n, mass, target, past));
}

/* --- history --- */

static int32_t samp__window(const samp_opts *o, int last_n) {
    return o->n_ctx > 0 && (last_n < 0 || last_n > o->n_ctx) ? o->n_ctx : last_n;
}

/* Writes the last tokens, at most `most`, the latest first, to s->recent. */
static int32_t samp__recent(samp *s, int32_t most) {
    int32_t n = (int32_t)min_u64(s->n_seen, (uint64_t)most);
    for (int32_t i = 0, at = n ? (int32_t)((s->n_seen - 1) % (uint64_t)s->n_past) : 0; i < n; i++) {
        s->recent[i] = s->past[at];
        at = at ? at - 1 : s->n_past - 1;
    }
    return n;
}

/* Index of a token among the candidates, -1 when it is not one. */
static int32_t samp__find(const samp *s, int32_t id) {
    if (!s->id) return id;
    int32_t lo = 0, hi = s->n;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (s->id[mid] < id) lo = mid + 1;
        else hi = mid;
    }
    return lo < s->n && s->id[lo] == id ? lo : -1;
}

/* --- the samplers --- */

static bool samp__penalties_off(const samp_opts *o) {
    return o->repeat_last_n == 0 || (o->repeat_penalty == 1 && o->frequency_penalty == 0 && o->presence_penalty == 0);
}

/* A negative logit is multiplied where a positive one is divided: either way the token becomes less likely. */
static void samp__penalties(samp *s, int draw) {
    (void)draw;
    int32_t n = samp__recent(s, samp__window(&s->o, s->o.repeat_last_n));
    for (int32_t i = 0; i < n; i++) s->tally[s->recent[i]]++;
    for (int32_t i = 0; i < n; i++) {
        int32_t id = s->recent[i], count = s->tally[id], at = samp__find(s, id);
        s->tally[id] = 0;
        if (!count || at < 0) continue;
        float l = s->l[at];
        l = l <= 0 ? l * s->o.repeat_penalty : l / s->o.repeat_penalty;
        s->l[at] = l - ((float)count * s->o.frequency_penalty + s->o.presence_penalty);
    }
    s->scanned = false;
}

static bool samp__dry_off(const samp_opts *o) {
    return o->dry_multiplier == 0 || o->dry_base < 1 || o->dry_penalty_last_n == 0;
}

/* Length of the longest breaker sequence that starts i tokens before the end of the history, 0 when none does. */
static int32_t samp__breaker_at(const samp *s, int32_t i) {
    const samp_breakers *b = s->o.dry_breakers;
    int32_t longest = 0;
    for (size_t k = samp__breakers_find(b, s->recent[i]); k < b->n && b->at[k].head == s->recent[i]; k++) {
        int32_t n = 0;
        if (b->at[k].n_tail > i) continue;
        while (n < b->at[k].n_tail && b->token[b->at[k].tail + (size_t)n] == s->recent[i - 1 - n]) n++;
        if (n == b->at[k].n_tail && n + 1 > longest) longest = n + 1;
    }
    return longest;
}

/* How far back a repetition may reach: up to the last breaker. */
static int32_t samp__dry_limit(const samp *s, int32_t n) {
    if (!s->o.dry_breakers) return n;
    for (int32_t i = 0; i < n; i++) {
        int32_t length = samp__breaker_at(s, i);
        if (length) return i + 1 - length;
    }
    return n;
}

/* z[k]: length of the longest common suffix of the history and of the history without its last k tokens. Gusfield's Z
 * algorithm, linear. */
static void samp__dry_repeats(const int32_t *h, int32_t n, int32_t *z) {
    for (int32_t k = 1, from = 0, end = 0; k < n; k++) {      /* h[from .. end) is a known copy of h[0 .. end - from) */
        int32_t len = k < end ? min_int(z[k - from], end - k) : 0;
        while (k + len < n && h[len] == h[k + len]) len++;
        z[k] = len;
        if (k + len > end) {
            from = k;
            end = k + len;
        }
    }
}

static bool samp__is_breaker(const samp *s, int32_t id) {     /* a breaker of this one token */
    const samp_breakers *b = s->o.dry_breakers;
    if (!b) return false;
    for (size_t k = samp__breakers_find(b, id); k < b->n && b->at[k].head == id; k++)
        if (!b->at[k].n_tail) return true;
    return false;
}

#define SAMP_DRY_MOST 1e30                            /* largest penalty: a token becomes unlikely, never impossible */

/* DRY (p-e-w): the logit of a token that would lengthen a repetition falls by multiplier * base^(length - allowed). */
static void samp__dry(samp *s, int draw) {
    (void)draw;
    const samp_opts *o = &s->o;
    int32_t n = samp__recent(s, samp__window(o, o->dry_penalty_last_n));
    if (n <= o->dry_allowed_length) return;
    int32_t limit = samp__dry_limit(s, n);
    if (limit < o->dry_allowed_length) return;
    samp__dry_repeats(s->recent, n, s->z);
    for (int32_t k = 1; k < n; k++) {                 /* the token that follows an earlier copy of the last tokens */
        int32_t len = min_int(s->z[k], limit), *most = &s->tally[s->recent[k - 1]];
        if (len >= o->dry_allowed_length && len + 1 > *most) *most = len + 1;
    }
    int32_t most = o->dry_base > 1.000001f ? (int32_t)(88.7228391f / logf(o->dry_base)) : 0;   /* base^most is finite */
    for (int32_t k = 1; k < n; k++) {
        int32_t id = s->recent[k - 1], len = s->tally[id] - 1, at = samp__find(s, id);
        s->tally[id] = 0;
        if (len < 0 || at < 0 || samp__is_breaker(s, id)) continue;
        int32_t over = len - o->dry_allowed_length;
        if (most > 0) over = min_int(over, most);
        s->l[at] -= (float)fmin((double)o->dry_multiplier * pow((double)o->dry_base, (double)over), SAMP_DRY_MOST);
    }
    s->scanned = false;
}

static bool samp__nsigma_off(const samp_opts *o) { return o->top_nsigma <= 0; }

/* Standard deviation of the logits that are not -inf, by sums of their distances from the best one. */
static double samp__sigma(const samp *s) {
    double  sum[4] = {0}, square[4] = {0};
    float   d[SAMP_BLOCK];
    int32_t n = 0;
    for (int32_t b = 0; b < samp__blocks(s); b++) {
        const float *l = s->l + b * SAMP_BLOCK;
        int32_t      end = samp__block_end(s, b) - b * SAMP_BLOCK;
        for (int32_t i = 0; i < SAMP_BLOCK; i++) {
            bool in = i < end && l[i] != -INFINITY;
            d[i] = in ? l[i] - s->max : 0;
            n += in;
        }
        for (int32_t i = 0; i < SAMP_BLOCK; i += 4)
            for (int j = 0; j < 4; j++) {
                sum[j] += (double)d[i + j];
                square[j] += (double)d[i + j] * (double)d[i + j];
            }
    }
    double mean = ((sum[0] + sum[1]) + (sum[2] + sum[3])) / n;
    double var = ((square[0] + square[1]) + (square[2] + square[3])) / n - mean * mean;
    return var > 0 ? sqrt(var) : 0;
}

/* Candidates more than n standard deviations below the best get probability 0 and stay candidates, as in llama.cpp. */
static void samp__nsigma(samp *s, int draw) {
    (void)draw;
    samp__scan(s);
    if (s->n <= 1) return;
    float least = (float)((double)s->max - (double)s->o.top_nsigma * samp__sigma(s));
    for (int32_t i = 0; i < s->n; i++) s->l[i] = samp__choose(s->l[i] < least, -INFINITY, s->l[i]);
    s->scanned = false;
}

static bool samp__top_k_off(const samp_opts *o) { return o->top_k <= 0; }

static void samp__keep_top(samp *s, int32_t k) {
    if (k >= s->n) return;
    samp__top(s, k);
    uint64_t worst = s->key[k - 1];
    samp__keep(s, s->l, samp__key_value(worst), samp__key_index(worst));
}

static void samp__top_k(samp *s, int draw) {
    (void)draw;
    samp__keep_top(s, s->o.top_k);
}

static bool samp__typical_off(const samp_opts *o) { return o->typical_p >= 1; }

/* Locally typical (Meister et al. 2022): by ascending distance of the surprise from the entropy. */
static void samp__typical(samp *s, int draw) {
    (void)draw;
    double z, h = samp__entropy(s, &z);
    float  shift = (float)(log(z) - h);
    for (int32_t i = 0; i < s->n; i++) s->score[i] = -fabsf((s->max - s->l[i]) + shift);
    int32_t at = samp__cross(s, s->score, (double)s->o.typical_p, true);
    samp__keep(s, s->score, s->score[at], at);
}

static bool samp__top_p_off(const samp_opts *o) { return o->top_p >= 1; }

static void samp__top_p(samp *s, int draw) {
    (void)draw;
    int32_t at = samp__cross(s, s->l, (double)s->o.top_p, false);
    samp__keep(s, s->l, s->l[at], at);
}

static bool samp__min_p_off(const samp_opts *o) { return o->min_p <= 0; }

static void samp__min_p(samp *s, int draw) {
    (void)draw;
    samp__scan(s);
    float least = s->max + (float)log((double)s->o.min_p);
    if (least > s->max) samp__keep_best(s);
    else samp__keep(s, s->l, least, s->n - 1);
}

static bool samp__xtc_off(const samp_opts *o) { return o->xtc_probability <= 0 || o->xtc_threshold > 0.5f; }

/* XTC (p-e-w): with a given probability, removes all candidates above the threshold except the least likely of them. */
static void samp__xtc(samp *s, int draw) {
    if (s->n < 2 || rng_unit(rng_at(s->seed, s->seq, s->pos, (uint64_t)draw)) > (double)s->o.xtc_probability) return;
    double   least = (double)s->o.xtc_threshold * samp__total(s);
    uint64_t last = 0;                                /* key of the least likely one above the threshold */
    int32_t  above = 0, n = 0;
    for (int32_t i = 0; i < s->n; i++) {
        if (s->l[i] == -INFINITY || (double)samp__weight(s->l[i] - s->max) < least) continue;
        uint64_t key = samp__key(s->l[i], i);
        if (key > last) last = key;
        above++;
    }
    if (above < 2) return;
    for (int32_t i = 0; i < s->n; i++) {
        bool in = samp__key(s->l[i], i) >= last;
        s->list_id[n] = samp__id(s, i);
        s->list_l[n] = s->l[i];
        n += in;
    }
    s->l = s->list_l;
    s->id = s->list_id;
    s->n = n;
    s->scanned = false;
}

static bool samp__temp_off(const samp_opts *o) { return o->temp == 1 && o->dynatemp_range <= 0; }
static bool samp__temp_greedy(const samp_opts *o) { return o->temp <= 0 && o->dynatemp_range <= 0; }

/* Dynamic temperature (kalomaze): it grows with the entropy, taken as a share of the largest possible entropy. */
static float samp__dynatemp(samp *s) {
    const samp_opts *o = &s->o;
    double z, h = samp__entropy(s, &z), share = h > 0 ? h / log((double)s->n) : 0;
    double lo = (double)o->temp - (double)o->dynatemp_range, hi = (double)o->temp + (double)o->dynatemp_range;
    if (lo < 0) lo = 0;
    return (float)(lo + (hi - lo) * pow(share, (double)o->dynatemp_exp));
}

static void samp__temperature(samp *s, int draw) {
    (void)draw;
    float t = s->o.temp;
    samp__scan(s);
    if (s->o.dynatemp_range > 0) {
        if (s->n < 2) return;
        t = samp__dynatemp(s);
    }
    if (!(t > 0) || !isfinite(s->max / t)) {          /* too small a temperature for a float is greedy too */
        samp__keep_best(s);
        return;
    }
    for (int32_t i = 0; i < s->n; i++) s->l[i] /= t;
    s->scanned = false;
}

typedef struct {
    const char *name;                                 /* also recognised without '_' and with '-' in its place */
    const char *more;                                 /* other names, separated by spaces */
    char        letter;
    bool        keeps_best;                           /* never removes the best candidate: does nothing before a greedy pick */
    bool (*off)(const samp_opts *);                   /* with these options it does nothing */
    void (*apply)(samp *, int draw);                  /* draw: number of its random number in rng_at() */
} samp_kind;

static const samp_kind samp_table[] = {
    /* name         more               letter keeps_best off            apply */
    {"penalties",   "",                'e', false, samp__penalties_off, samp__penalties},
    {"dry",         "",                'd', false, samp__dry_off,       samp__dry},
    {"top_n_sigma", "",                's', true,  samp__nsigma_off,    samp__nsigma},
    {"top_k",       "",                'k', true,  samp__top_k_off,     samp__top_k},
    {"typ_p",       "typ typical typicalp", 'y', false, samp__typical_off, samp__typical},
    {"top_p",       "nucleus",         'p', true,  samp__top_p_off,     samp__top_p},
    {"min_p",       "",                'm', true,  samp__min_p_off,     samp__min_p},
    {"xtc",         "",                'x', false, samp__xtc_off,       samp__xtc},
    {"temperature", "temp",            't', false, samp__temp_off,      samp__temperature},
};
enum { SAMP_N_KINDS = sizeof samp_table / sizeof *samp_table };

/* --- the chain --- */

/* Whether the word of n bytes is `name`, which ends at a NUL or a space. Case, '_' and '-' are ignored. */
static bool samp__spells(const char *word, size_t n, const char *name) {
    size_t i = 0;
    for (; *name && *name != ' '; name++) {
        if (*name == '_') continue;
        while (i < n && (word[i] == '_' || word[i] == '-')) i++;
        if (i >= n || tolower((unsigned char)word[i++]) != *name) return false;
    }
    return i == n;
}

static int samp__kind_by_name(const char *word, size_t n) {
    for (int k = 0; k < SAMP_N_KINDS; k++) {
        if (samp__spells(word, n, samp_table[k].name)) return k;
        for (const char *p = samp_table[k].more; *p; p += strcspn(p, " "), p += *p == ' ')
            if (samp__spells(word, n, p)) return k;
    }
    return -1;
}

static int samp__kind_by_letter(char c) {
    for (int k = 0; k < SAMP_N_KINDS; k++)
        if (samp_table[k].letter == c) return k;
    return -1;
}

static bool samp__link(uint8_t *chain, int *n, int kind, const char *word, size_t len, err_t *e) {
    char letters[SAMP_N_KINDS + 1] = {0};
    for (int k = 0; k < SAMP_N_KINDS; k++) letters[k] = samp_table[k].letter;
    if (kind < 0)
        return err_set(e, EXIT_INPUT, "unknown sampler '%.*s', expected some of %s (letters %s)", (int)min_size(len, 64), word,
                       samp_defaults.samplers, letters);
    if (*n == SAMP_CHAIN_MAX) return err_set(e, EXIT_INPUT, "a chain of more than %d samplers", SAMP_CHAIN_MAX);
    chain[(*n)++] = (uint8_t)kind;
    return true;
}

/* Rows of samp_table in the order of the options, also those that are off. */
static bool samp__chain(const samp_opts *o, uint8_t chain[SAMP_CHAIN_MAX], int *n, err_t *e) {
    *n = 0;
    if (o->sampling_seq) {
        for (const char *p = o->sampling_seq; *p; p++)
            if (!samp__link(chain, n, samp__kind_by_letter(*p), p, 1, e)) return false;
        return true;
    }
    for (const char *p = o->samplers ? o->samplers : samp_defaults.samplers; *p; p += *p == ';') {
        size_t len = strcspn(p, ";");
        if (!samp__link(chain, n, samp__kind_by_name(p, len), p, len, e)) return false;
        p += len;
    }
    return true;
}

/* Removes samplers that do nothing. A greedy temperature ends the chain; before it, samplers that keep the best do nothing. */
static void samp__prune(samp *s, const uint8_t *chain, int n) {
    for (int i = 0; i < n && !s->greedy; i++) {
        if (samp_table[chain[i]].off(&s->o)) continue;
        s->greedy = samp_table[chain[i]].apply == samp__temperature && samp__temp_greedy(&s->o);
        if (!s->greedy) s->chain[s->n_chain++] = chain[i];
    }
    while (s->greedy && s->n_chain && samp_table[s->chain[s->n_chain - 1]].keeps_best) s->n_chain--;
}

/* The chain as text. */
static void samp_describe(const samp *s, str *out) {
    if (s->o.mirostat && !s->greedy) str_fmt(out, "mirostat %d", s->o.mirostat);
    for (int i = 0; i < s->n_chain && !s->o.mirostat; i++) str_fmt(out, "%s%s", i ? ", " : "", samp_table[s->chain[i]].name);
    str_fmt(out, "%s%s", out->n ? ", then " : "", s->greedy ? "the likeliest token" : "a random draw");
}

/* Names the first option that is out of its range. */
static bool samp_check(const samp_opts *o, int32_t n_vocab, err_t *e) {
    uint8_t chain[SAMP_CHAIN_MAX];
    int     n;
    for (int i = 0; i < SAMP_PARAMS; i++) {
        const samp_param *r = &samp_params[i];
        const void       *at = (const char *)o + r->at;
        double            x = r->whole ? (double)*(const int *)at : (double)*(const float *)at;
        if (!(x >= (double)(float)r->lo && x <= (double)(float)r->hi))
            return err_set(e, EXIT_INPUT, "%s: %g is out of range, expected %.10g to %.10g", r->name, x, r->lo, r->hi);
    }
    if (o->n_ctx <= 0 && (o->repeat_last_n < 0 || o->dry_penalty_last_n < 0))
        return err_set(e, EXIT_INPUT, "%s: -1 is the context, whose length is not known here",
                       o->repeat_last_n < 0 ? "repeat_last_n" : "dry_penalty_last_n");
    for (int i = 0; i < o->n_bias; i++) {
        if (o->bias[i].id < 0 || o->bias[i].id >= n_vocab)
            return err_set(e, EXIT_INPUT, "logit_bias: token %d is out of range, expected 0 to %d", o->bias[i].id,
                           n_vocab - 1);
        if (isnan(o->bias[i].bias))
            return err_set(e, EXIT_INPUT, "logit_bias: nan for token %d, expected a number", o->bias[i].id);
    }
    return samp__chain(o, chain, &n, e);
}

/* Frees it and its copies of the biases; the sealed breakers stay. NULL is allowed. */
static void samp_free(samp *s) {
    if (!s) return;
    mem_free_all(s->bias, s->past, s->list_l, s->list_id, s->score, s->best);
    mem_free_all(s->key, s->out, s->mass, s->tally, s->recent, s->z, s);
}

static void samp__take_scratch(samp *s) {
    size_t n = (size_t)s->n_vocab, n_past = (size_t)s->n_past;
    s->list_l = mem_aligned(n, sizeof *s->list_l);
    s->list_id = mem_aligned(n, sizeof *s->list_id);
    s->score = mem_aligned(n, sizeof *s->score);
    s->best = mem_aligned(n / SAMP_BLOCK + 1, sizeof *s->best);
    s->key = mem_aligned(n, sizeof *s->key);
    s->out = mem_aligned(n, sizeof *s->out);
    s->mass = mem_aligned(2 * SAMP_BUCKETS, sizeof *s->mass);
    s->tally = mem_new(n, sizeof *s->tally);
    s->recent = mem_aligned(n_past, sizeof *s->recent);
    s->z = mem_aligned(n_past, sizeof *s->z);
}

/* Bytes of a sampler with a history of n_past tokens. */
static size_t samp_bytes(int32_t n_vocab, int32_t n_past) {
    const samp  *s = NULL;
    const size_t token = sizeof *s->list_l + sizeof *s->list_id + sizeof *s->score + sizeof *s->key + sizeof *s->out +
                         sizeof *s->tally;
    const size_t past = sizeof *s->past + sizeof *s->recent + sizeof *s->z;
    const size_t blocks = (size_t)n_vocab / SAMP_BLOCK + 1;
    return sizeof *s + (size_t)n_vocab * token + blocks * sizeof *s->best + 2 * SAMP_BUCKETS * sizeof *s->mass +
           (size_t)n_past * past;
}

/* Whether every pick is the token of the largest logit, the first of several. */
static bool samp_takes_best(const samp *s) { return s->greedy && !s->n_chain && !s->o.n_bias; }

/* Allocates all memory that picks need. seq: number of the sequence among those with this seed. NULL, and e set: an
 * option is bad. */
static samp *samp_new(const samp_opts *o, int32_t n_vocab, uint64_t seed, uint64_t seq, err_t *e) {
    uint8_t chain[SAMP_CHAIN_MAX];
    int     n_chain;
    ASSERT(n_vocab > 0 && (!o->dry_breakers || o->dry_breakers->sealed));
    if (!samp_check(o, n_vocab, e) || !samp__chain(o, chain, &n_chain, e)) return NULL;
    samp *s = mem_new(1, sizeof *s);
    *s = (samp){.o = *o, .n_vocab = n_vocab, .seed = seed, .seq = seq, .few = SAMP_FEW,
                .mu = 2 * o->mirostat_ent, .picked = -1};
    if (o->n_bias > 0) {
        s->bias = mem_new((size_t)o->n_bias, sizeof *s->bias);
        memcpy(s->bias, o->bias, (size_t)o->n_bias * sizeof *s->bias);
    }
    if (o->mirostat) {
        s->o.dynatemp_range = 0;
        chain[0] = (uint8_t)samp__kind_by_letter('t');
        n_chain = 1;
    }
    samp__prune(s, chain, n_chain);
    int32_t repeat = samp__penalties_off(o) ? 0 : samp__window(o, o->repeat_last_n);
    int32_t dry = samp__dry_off(o) ? 0 : samp__window(o, o->dry_penalty_last_n);
    s->n_past = max_int(repeat, dry);
    s->past = mem_new((size_t)s->n_past, sizeof *s->past);
    samp__take_scratch(s);
    return s;
}

/* A sampler with the options, seed and sequence number of another one; samp_copy copies the history. */
static samp *samp_clone(const samp *from) {
    err_t     none = {0};
    samp_opts o = from->o;
    o.bias = from->bias;
    samp *s = samp_new(&o, from->n_vocab, from->seed, from->seq, &none);
    ASSERT(s && s->n_past == from->n_past);
    return s;
}

/* Adds a token to the history: a token of the prompt, or the one picked. */
static void samp_accept(samp *s, int32_t token, bool prompt) {
    ASSERT(token >= 0 && token < s->n_vocab);
    if (s->n_past) s->past[s->n_seen % (uint64_t)s->n_past] = token;
    s->n_seen++;
    if (s->o.mirostat && !prompt && token == s->picked) s->mu -= s->o.mirostat_lr * (s->surprise - s->o.mirostat_ent);
    s->picked = -1;
}

/* Copies the state of src to dst, a sampler with the same options and vocabulary. */
static void samp_copy(samp *dst, const samp *src) {
    ASSERT(dst->n_vocab == src->n_vocab && dst->n_past == src->n_past);
    memcpy(dst->past, src->past, (size_t)src->n_past * sizeof *src->past);
    dst->n_seen = src->n_seen;
    dst->mu = src->mu;
    dst->surprise = src->surprise;
    dst->picked = src->picked;
}

/* --- picking --- */

/* Mirostat 1 (Basu et al. 2020): a top-k that has the allowed surprise, by a Zipf exponent estimated from the best candidates. */
static void samp__mirostat_1(samp *s) {
    int32_t n = samp__top(s, SAMP_MIRO_TOP);
    double  tb = 0, tt = 0;
    samp__sort(s->key, n);
    for (int32_t i = 0; i + 1 < n; i++) {
        double t = log((double)(i + 2) / (double)(i + 1));
        double b = (double)samp__key_value(s->key[i]) - (double)samp__key_value(s->key[i + 1]);
        if (!isfinite(b)) break;
        tb += t * b;
        tt += t * t;
    }
    if (tt <= 0) return;
    double exponent = tb / tt, eps = exponent - 1;
    double k = pow(eps * exp2((double)s->mu) / (1 - pow((double)s->n_vocab, -eps)), 1 / exponent);
    samp__keep_top(s, k >= (double)s->n ? s->n : k >= 1 ? (int32_t)k : 1);
}

/* Mirostat 2: candidates with more surprise than mu are dropped. */
static void samp__mirostat_2(samp *s) {
    double z = samp__total(s);
    float  least = (float)((double)s->max + log(z) - (double)s->mu * 0.69314718055994531);
    if (!(least <= s->max)) samp__keep_best(s);
    else samp__keep(s, s->l, least, s->n - 1);
}

/* Applies bias and chain to the logits. Leaves s->n candidates, scanned; none when no token is possible. */
static void samp__run(samp *s, float *logits, uint64_t pos) {
    s->l = logits;
    s->id = NULL;
    s->n = s->n_vocab;
    s->scanned = false;
    s->pos = pos;
    for (int i = 0; i < s->o.n_bias; i++) logits[s->bias[i].id] += s->bias[i].bias;
    samp__scan(s);
    for (int i = 0; i < s->n_chain && s->max > -INFINITY; i++) {
        samp_table[s->chain[i]].apply(s, 1 + i);
        samp__scan(s);
    }
    if (s->max > -INFINITY && s->o.mirostat == 1 && !s->greedy) samp__mirostat_1(s);
    if (s->max > -INFINITY && s->o.mirostat == 2 && !s->greedy) samp__mirostat_2(s);
    samp__scan(s);
    if (!(s->max > -INFINITY)) s->n = 0;
}

/* The token for position pos; logits [n_vocab] are changed. -1: no token is possible (every logit is -inf or NaN). */
static int32_t samp_pick(samp *s, float *logits, uint64_t pos) {
    samp__run(s, logits, pos);
    s->picked = -1;
    if (!s->n) return -1;
    int32_t at = s->at = s->greedy ? samp__best(s) : samp__cross(s, s->l, rng_unit(rng_at(s->seed, s->seq, pos, 0)), true);
    if (s->o.mirostat)
        s->surprise = s->greedy ? 0 : (float)-log2((double)samp__weight(s->l[at] - s->max) / samp__total(s));
    return s->picked = samp__id(s, at);
}

/* Probability of the token just picked among the candidates that the chain left. Call it while the logits are unchanged. */
static float samp_chance(samp *s) { return (float)((double)samp__weight(s->l[s->at] - s->max) / samp__total(s)); }

/* The distribution that samp_pick draws from at pos, in the order in which it draws: descending. Returns how many
 * candidates there are (0: no token is possible); *out is valid until the next call. Changes logits. */
__attribute__((unused)) static int32_t samp__probs(samp *s, float *logits, uint64_t pos, const samp_cand **out) {
    samp__run(s, logits, pos);
    *out = s->out;
    if (!s->n) return 0;
    if (s->greedy) samp__keep_best(s);
    double z = samp__total(s);
    for (int32_t i = 0; i < s->n; i++) s->key[i] = samp__key(s->l[i], i);
    samp__sort(s->key, s->n);
    for (int32_t i = 0; i < s->n; i++) {
        int32_t at = samp__key_index(s->key[i]);
        s->out[i] = (samp_cand){samp__id(s, at), s->l[at], (float)((double)samp__weight(s->l[at] - s->max) / z)};
    }
    return s->n;
}
