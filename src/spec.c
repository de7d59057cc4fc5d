/* ===== [spec] speculative decoding =====
 * Guesses the next tokens of a sequence, so that one step computes the rows of several tokens. The sampler picks from
 * the logits of one row after the other as long as it picks what was guessed; the rows of wrong guesses are cut off the
 * cache. A row depends on its own past alone and a draw on its seed and place alone, so the text is the same as without
 * guesses. Accepting a guess with probability min(1, p/q) (Leviathan et al. 2023, arXiv 2211.17192) would keep the
 * distribution but not the text. Lookup is prompt lookup decoding (Saxena 2023).
 *   There are four sources. Lookup: what followed where the same tokens stood before, in this text or in a finished
 * one. Draft: a small model with the same vocabulary, which draws with the target's own random numbers. Head: a layer
 * behind the model's last one (NextN, FWD_GUESS), which draws in the same way, reads what the model's last step left, and
 * after its first guess its own output; of several heads each makes the guess of its number. Forced: text that the constraint
 * leaves no choice about, as the tokenizer spells it. No source guesses what the constraint forbids.
 *   How many guesses pay is measured: seconds of a step of n rows ([gain]), and the chance of a guess by its source and
 * degree of certainty, for each sequence and for all. The likeliest guesses of all sequences are taken, as many as give
 * the most tokens per second. Chances fade, so that what did not pay is tried again.
 * Public: spec_defaults, spec_rows, spec_needs, spec_open, spec_close, spec_seq_new, spec_seq_free, spec_draft_reset,
 * spec_shift, spec_hidden, spec_before, spec_propose, spec_record, spec_time, spec_overhead, spec_finished, spec_save,
 * spec_guessed,
 * spec_accepted, spec_speedup, spec_report, spec_report_forced.
 * Opens: spec_opts, spec_seq.place, spec_seq.room, spec_seq.own. */

enum {
    SPEC_ROWS = 32,                                   /* for all sequences, unless one may have more */
    SPEC_GRAM = 2,                                    /* fewest tokens of a match */
    SPEC_BYTES = 256,                                 /* bytes of a forced text at most */
    SPEC_LONG = 64,                                   /* most tokens of a match: longer ones are as good */
    SPEC_WALK = 32,                                   /* places compared, in this text and in finished ones */
    SPEC_PAST = 1 << 20,                              /* tokens of finished texts that are kept */
    SPEC_LEAD = 8,                                    /* last tokens of its prompt kept with each of them */
    SPEC_KINDS = 8,                                   /* degrees of certainty of a guess */
    SPEC_LAG = 8,                                     /* tokens that a draft reads together with its first guess */
    SPEC_FIRST = 4,                                   /* steps of the draft head before its cost counts */
    SPEC_PAD = 128,                                   /* padding tokens that one of two equal vocabularies may have more */
    SPEC_VERSION = 1,
};
#define SPEC_WEIGHT 4.0                               /* trials that an estimate counts for beside measured ones */

typedef struct {
    const char *draft;                                /* model file, NULL: none */
    int         most;                                 /* guesses of a sequence in a step */
    int         least;                                /* the same, at least, even if they do not pay */
    float       p_min;                                /* less probable guesses of the draft or head end its guesses */
    int         n_vocab;                              /* the draft or head computes logits of n_vocab tokens alone, 0: of all */
    bool        lookup;                               /* finished texts and this one are looked through */
    bool        head;                                 /* the model's draft head guesses, where its engine has it */
    const char *cache;                                /* file that keeps finished texts between runs, NULL: none */
} spec_opts;

static const spec_opts spec_defaults = {.most = 16, .lookup = true, .head = true};

typedef struct {                                      /* an estimated chance; older trials count less */
    float hit;                                        /* guesses that were right */
    float tried;                                      /* all of them */
} spec_rate;

typedef struct {                                      /* tokens with an index of every SPEC_GRAM of them, in chains */
    int32_t *id;                                      /* [cap] tokens */
    int32_t *prev;                                    /* [cap] the place before with the same hash, -1: none */
    int32_t *slot;                                    /* [cap] the last place of each chain, by hash */
    int      n;                                       /* tokens */
    int      cap;                                     /* a power of two */
} spec_text;

typedef struct spec_seq {
    /* input: set by the schedule before every step */
    const tok_ids *ids;                               /* prompt and answer */
    const tok_ids *banned;                            /* ids that are never picked */
    const samp    *sm;
    int            room;                              /* guesses that still fit the answer and the context */
    uint64_t       place;                             /* number of the next token, as in samp_pick() */
    int64_t        left;                              /* tokens that the answer may still have, -1: any number */
    const constrain_seq *held;                        /* where the answer is in its constraint; NULL: it has none */
    kv_seq        *own;                               /* its positions in the cache of the model: all but the last token's */

    /* output: the guesses */
    int            n;
    spec_source    from;                              /* of all of them */
    int32_t        id[SPEC_MOST];
    uint8_t        kind[SPEC_MOST];                   /* degree of certainty */
    double         p[SPEC_MOST];                      /* probability that this one and all before it are right */

    constrain_seq *ahead;                             /* where it is after the guesses so far */
    spec_text      text;
    int            n_seen;                            /* tokens of ids in text */
    spec_rate      rate[SPEC_SOURCES][SPEC_KINDS];    /* as those of all sequences, in struct spec */
    spec_rate      mean[SPEC_SOURCES];
    spec_rate      yield[SPEC_SOURCES];
    kv_seq        *kv;                                /* of the draft; NULL: it holds nothing of the text */
    int            done;                              /* positions that the draft has read */
    float         *hidden;                            /* [D] what the draft head reads of position hidden_at; NULL: no head */
    int            hidden_at;                         /* -1: nothing is known */
    float         *ahead_hidden;                      /* [heads, D] what the head's last guess has left, or that of each head */
    spec_source    asks;                              /* which source, draft or head, is about to guess; SPEC_LOOKUP: neither */
    samp          *draft_sampler;                     /* picks the tokens of draft and head */
    float          sure;                              /* probability of their last guess */
    bool           foreign;                           /* the text has a token that the draft's vocabulary lacks */
} spec_seq;

typedef struct spec {
    spec_opts        o;
    const engine    *eng;                             /* of the model that guesses are for */
    engine          *draft;                           /* NULL: none */
    bool             head;                            /* the model's draft head guesses */
    int              head_steps;                      /* steps that it has made */
    int              head_idle;                       /* steps of the model since the last of them */
    gguf_file        g;                               /* the draft's file */
    tok_vocab       *v;                               /* the draft's vocabulary */
    int              n_rows;                          /* most guesses in a step */

    /* estimates, by which guesses are chosen */
    spec_costs       costs;                           /* seconds of steps */
    spec_rate        rate[SPEC_SOURCES][SPEC_KINDS];  /* chance of a guess, by its degree */
    spec_rate        mean[SPEC_SOURCES];              /* chance of any guess of a source that had a row */
    spec_rate        yield[SPEC_SOURCES];             /* chance that draft or head, once asked, makes a guess that gets a row */
    bool             warm;                            /* a step has been timed */

    /* finished texts */
    spec_text        past;                            /* tokens, -1 before each text */
    bool             unsaved;                         /* past has texts that the file has not */
    uint64_t         vocab_hash;                      /* identity of the vocabulary */
    bool             foreign;                         /* the file is no lookup cache and is left as it is */

    /* scratch of a step */
    spec_seq       **live;                            /* [n_live] sequences that draft or head guesses for */
    int              n_live;
    spec_source      from;                            /* which of them does */
    fwd             *f;                               /* its steps */
    pool            *p;                               /* their threads */
    int             *taken;                           /* [n_seqs] guesses taken of each sequence */
    int             *order;                           /* [n_rows] sequence of each guess, the likeliest first */
    float           *logits;                          /* [n_live, V of the draft] of its last step */
    float           *wide;                            /* [n_seqs, V] where its vocabulary is smaller */

    spec_gain        gain;                            /* what guesses gained: counts, no estimates */
} spec;

/* --- chances --- */

/* Estimated chance of a guess by its degree, until it is measured. */
static const float spec_hopes[SPEC_SOURCES][SPEC_KINDS] = {
    {.3f, .5f,                                        /* lookup: few, most of several places agree */
     .35f, .6f, .8f,                                  /* one place: three lengths of the match */
     .55f, .8f, .93f},                                /* all of several places agree: three lengths */
    {.05f, .15f, .27f, .42f, .6f, .77f, .9f, .97f},   /* draft: by its probability, spec__kind() */
    {.05f, .15f, .27f, .42f, .6f, .77f, .9f, .97f},   /* head: the same */
    {.6f,                                             /* forced: the last token, which the model may join with what follows */
     .6f, .8f, .95f, .9f, .9f, .9f, .9f},             /* the only token; the first of several; others */
};
static const float spec_hope[SPEC_SOURCES] = {.6f, .7f, .7f, .8f};
static const double spec_weight[SPEC_SOURCES] = {SPEC_WEIGHT, SPEC_WEIGHT, 1, SPEC_WEIGHT};   /* a bad head is soon left */
#define SPEC_YIELD 0.9                                /* the same of a yield */

/* Degree of a draft's guess, by its probability. */
static int spec__kind(float sure) {
    static const float upper[SPEC_KINDS - 1] = {.1f, .2f, .35f, .5f, .7f, .85f, .95f};
    int                k = 0;
    while (k < SPEC_KINDS - 1 && sure > upper[k]) k++;
    return k;
}

/* Degree of a guess of lookup on which `same` of `all` places agree, where the longest match has `length` tokens. */
static int spec__kind_of_match(int length, int same, int all) {
    if (same < all) return 2 * same >= all;
    return (all > 1 ? 5 : 2) + (length > 3) + (length > 9);
}

/* weight: trials that the hope counts for. */
static double spec__rate(const spec_rate *own, const spec_rate *all, double hope, double weight) {
    const double known = (all->hit + weight * hope) / (all->tried + weight);
    return (own->hit + SPEC_WEIGHT * known) / (own->tried + SPEC_WEIGHT);
}

static double spec__chance(const spec *sp, const spec_seq *q, spec_source from, int kind) {
    return spec__rate(&q->rate[from][kind], &sp->rate[from][kind], (double)spec_hopes[from][kind],
                      SPEC_WEIGHT);
}

static double spec__mean(const spec *sp, const spec_seq *q, spec_source from) {
    return spec__rate(&q->mean[from], &sp->mean[from], (double)spec_hope[from], spec_weight[from]);
}

static double spec__yield(const spec *sp, const spec_seq *q, spec_source from) {
    return spec__rate(&q->yield[from], &sp->yield[from], SPEC_YIELD, SPEC_WEIGHT);
}

/* hit: 1, the guess was right or got a row; else 0. */
static void spec__learn(spec_rate *own, spec_rate *all, float hit) {
    *own = (spec_rate){own->hit * 0.9f + hit, own->tried * 0.9f + 1};
    *all = (spec_rate){all->hit * 0.98f + hit, all->tried * 0.98f + 1};
}

/* Older trials count less with every step. */
static void spec__fade(spec_rate *r, int n, float keep) {
    for (int i = 0; i < n; i++) r[i] = (spec_rate){r[i].hit * keep, r[i].tried * keep};
}

/* --- lookup --- */

static int32_t *spec__slot(const spec_text *t, int at) {
    uint64_t h = 0;
    for (int i = 0; i < SPEC_GRAM; i++) h = rng_mix(h ^ (uint32_t)t->id[at - i]);
    return &t->slot[h & (uint64_t)(t->cap - 1)];
}

static void spec__link(spec_text *t, int at) {
    if (at < SPEC_GRAM - 1) return;
    int32_t *slot = spec__slot(t, at);
    t->prev[at] = *slot;
    *slot = at;
}

static void spec__relink(spec_text *t) {
    for (int i = 0; i < t->cap; i++) t->slot[i] = -1;
    for (int i = 0; i < t->n; i++) spec__link(t, i);
}

static void spec__text_add(spec_text *t, int32_t id) {
    if (t->n == t->cap) {
        const size_t cap = t->cap ? 2 * (size_t)t->cap : 256;
        t->id = mem_grow(t->id, cap, sizeof *t->id);
        t->prev = mem_grow(t->prev, cap, sizeof *t->prev);
        t->slot = mem_grow(t->slot, cap, sizeof *t->slot);
        t->cap = (int)cap;
        spec__relink(t);
    }
    t->id[t->n] = id;
    spec__link(t, t->n++);
}

static void spec__text_drop(spec_text *t) {
    mem_free_all(t->id, t->prev, t->slot);
    *t = (spec_text){0};
}

typedef struct {                                      /* where the end of a text is too */
    const spec_text *in;
    int              at;                              /* its last token */
    int              same;                            /* tokens that are the same */
} spec_place;

/* Places in `in` where the last tokens of `text` are too, the last ones first. Returns how many. */
static int spec__places(const spec_text *text, const spec_text *in, spec_place place[SPEC_WALK]) {
    const int n = text->n;
    int       found = 0, walk = SPEC_WALK;
    uint64_t  h = 0;
    if (n < SPEC_GRAM || in->n < SPEC_GRAM) return 0;
    for (int i = 1; i <= SPEC_GRAM; i++) h = rng_mix(h ^ (uint32_t)text->id[n - i]);
    for (int at = in->slot[h & (uint64_t)(in->cap - 1)]; at >= 0 && walk > 0; at = in->prev[at], walk--) {
        int same = 0;
        if (in == text && at == n - 1) continue;
        while (same < SPEC_LONG && same <= at && same < n && in->id[at - same] == text->id[n - 1 - same]) same++;
        if (same >= SPEC_GRAM) place[found++] = (spec_place){in, at, same};
    }
    return found;
}

/* The first of the longest matches among n > 0. */
static spec_place spec__longest(const spec_place *place, int n) {
    spec_place best = place[0];
    for (int i = 1; i < n; i++)
        if (place[i].same > best.same) best = place[i];
    return best;
}

/* Token k of what followed a place, -1: none. After the end of the text itself its guesses follow. */
static int32_t spec__after(const spec_seq *q, const spec_place *there, int k) {
    const int next = there->at + 1 + k;
    return next < there->in->n ? there->in->id[next] : there->in == &q->text ? q->id[next - there->in->n] : -1;
}

/* --- what a constraint makes of guesses --- */

/* The guesses begin after the answer. */
static void spec__hold(spec_seq *q) {
    q->n = 0;
    if (q->held) constrain_seq_copy(q->ahead, q->held);
}

/* Whether the constraint lets this token come after the guesses so far. */
static bool spec__allows(spec_seq *q, int32_t id) { return !q->held || constrain_guess(q->ahead, id); }

/* The tokens of the text that has to come next. False: there is none. */
static bool spec__forced_tokens(const spec *sp, spec_seq *q, tok_ids *ids) {
    str   text = {0};
    err_t none = {0};
    const bool any = q->held && constrain_forced(q->ahead, SPEC_BYTES, &text) &&
                     tok_encode(sp->eng->v, str_bytes(&text), constrain_strips(q->ahead) ? 0 : TOK_MIDDLE, ids, &none);
    str_drop(&text);
    return any && ids->n;
}

/* Degree of guess i of a forced text of n tokens. */
static int spec__kind_of_forced(size_t i, size_t n) { return n == 1 ? 1 : i + 1 == n ? 0 : i ? 3 : 2; }

/* Sum of the chances of the guesses: tokens to expect of them. */
static double spec__expected(const spec_seq *q) {
    double sum = 0;
    for (int i = 0; i < q->n; i++) sum += q->p[i];
    return sum;
}

/* Guesses what the constraint forces. The tokens after which the model goes on in another way are learned as those of
 * the other sources. */
static void spec__forced(spec *sp, spec_seq *q, int most) {
    tok_ids ids = {0};
    double  p = 1;
    spec__hold(q);
    q->from = SPEC_FORCED;
    if (most > 0 && spec__forced_tokens(sp, q, &ids)) {
        for (size_t i = 0; i < ids.n && q->n < most && spec__allows(q, ids.id[i]); i++, q->n++) {
            q->id[q->n] = ids.id[i];
            q->kind[q->n] = (uint8_t)spec__kind_of_forced(i, ids.n);
            q->p[q->n] = p *= spec__chance(sp, q, SPEC_FORCED, q->kind[q->n]);
        }
    }
    tok_ids_drop(&ids);
}

/* Guesses what followed the last place with the longest match. Other places whose match is at least half as long tell
 * how certain that is: where they disagree, the text went on in several ways. */
static void spec__lookup(spec *sp, spec_seq *q, int most) {
    spec_place place[2 * SPEC_WALK];
    int        n = spec__places(&q->text, &q->text, place), all = 0;
    n += spec__places(&q->text, &sp->past, place + n);
    q->from = SPEC_LOOKUP;
    spec__hold(q);
    if (!n) return;
    const spec_place best = spec__longest(place, n);
    for (int i = 0; i < n; i++)
        if (2 * place[i].same >= best.same) place[all++] = place[i];
    for (double p = 1; q->n < most; q->n++) {
        const int32_t id = spec__after(q, &best, q->n);
        int           same = 0;
        if (id < 0 || tok_is_eog(sp->eng->v, id) || !spec__allows(q, id)) break;   /* after an end there is nothing to guess */
        for (int i = 0; i < all; i++)
            if (spec__after(q, &place[i], q->n) == id) place[same++] = place[i];
        q->id[q->n] = id;
        q->kind[q->n] = (uint8_t)spec__kind_of_match(best.same + q->n, same, all);
        q->p[q->n] = p *= spec__chance(sp, q, SPEC_LOOKUP, q->kind[q->n]);
        all = same;
    }
}

/* Guesses of lookup, or what the constraint forces where that is more. */
static void spec__guess(spec *sp, spec_seq *q, int most) {
    double forced = 0;
    if (q->held) {
        spec__forced(sp, q, most);
        forced = spec__expected(q);
    }
    if (sp->o.lookup) spec__lookup(sp, q, most);
    if (forced > 0 && (!sp->o.lookup || forced > spec__expected(q))) spec__forced(sp, q, most);
}

/* Takes in the tokens of the sequence that are new. */
static void spec__read(spec *sp, spec_seq *q) {
    for (; q->n_seen < (int)q->ids->n; q->n_seen++) {
        const int32_t id = q->ids->id[q->n_seen];
        if (sp->o.lookup) spec__text_add(&q->text, id);
        q->foreign = q->foreign || (sp->draft && id >= sp->draft->m.hp.n_vocab);
    }
}

/* --- draft --- */

/* The draft drops what it holds of the text; its blocks stay in the cache for texts that begin alike. */
static void spec_draft_reset(spec_seq *q) {
    if (!q) return;
    kv_seq_free(q->kv);
    q->kv = NULL;
    q->done = 0;
}

/* A context shift is about to drop `drop` tokens after the first `keep`. Lookup still finds them. */
static void spec_shift(spec *sp, spec_seq *q, int keep, int drop) {
    if (!q) return;
    spec__read(sp, q);
    q->n_seen -= drop;
    q->hidden_at = -1;
    if (q->kv && q->done > keep) q->done = kv_truncate(q->kv, keep);
}

/* The draft reads the text but for its last tokens. False: it cannot, for want of cache or vocabulary. */
static bool spec__draft_read(spec *sp, spec_seq *q) {
    engine   *d = sp->draft;
    const int n = (int)q->ids->n;
    err_t     none = {0};
    bool      wait;
    if (q->foreign) return false;
    if (!q->kv) q->kv = kv_seq_new(d->kv);
    q->done = min_int(q->done, n - 1);
    if (q->kv->n > q->done) q->done = kv_truncate(q->kv, q->done);
    kv_hold(q->kv, n);                                /* guesses are taken back to the end of the text */
    q->done = kv_match_prefix(q->kv, q->ids->id, n - 1, &wait);
    const int lag = min_int(SPEC_LAG, d->n_batch);
    if (n - q->done > lag && !engine_read(d, q->kv, q->ids->id, q->done, n - 1, (engine_reader){0}, &none)) spec_draft_reset(q);
    else if (n - q->done > lag) q->done = n - 1;
    return q->kv != NULL;
}

/* --- draft head --- */

/* The hidden values of position `at`, which the model has just computed. */
static void spec_hidden(const spec *sp, spec_seq *q, const float *h, int at) {
    if (!q->hidden) return;
    memcpy(q->hidden, h, (size_t)sp->eng->m.hp.n_embd * sizeof *h);
    q->hidden_at = at;
}

/* The hidden values of the position before `pos`; NULL: they are not known. */
static const float *spec_before(const spec_seq *q, int pos) { return pos && q->hidden_at == pos - 1 ? q->hidden : NULL; }

/* Most guesses of a sequence that its answer and the options allow. */
static int spec__most(const spec *sp, const spec_seq *q) { return min_int(q->room, sp->o.most); }

/* Most of them by one source: several heads make one guess each. */
static int spec__most_of(const spec *sp, const spec_seq *q, spec_source from) {
    const int most = spec__most(sp, q);
    return from == SPEC_HEAD && sp->eng->n_head > 1 ? min_int(most, sp->eng->n_head) : most;
}

/* Numbers the heads' states: guess i has left the one that the row after it reads. */
static float *spec__left(const spec *sp, const spec_seq *q, int i) {
    return q->ahead_hidden + (sp->eng->n_head > 1 ? (size_t)i * (size_t)sp->eng->m.hp.n_embd : 0);
}

/* Space in the cache for the rows of the head's guesses: an assistant has none. False: there is none. */
static bool spec__head_room(spec *sp, spec_seq *q) {
    if (sp->eng->m.assist) return q->own->n == (int)q->ids->n - 1 && q->own->n > 0;
    return q->own->n == (int)q->ids->n - 1 && kv_reserve(q->own, q->own->n + spec__most_of(sp, q, SPEC_HEAD));
}

/* The sequence has its own tokens alone again: rows of guesses that the model checks are its own. */
static void spec__head_leave(spec_seq *q) {
    const int n = kv_truncate(q->own, (int)q->ids->n - 1);
    ASSERT(n == (int)q->ids->n - 1);
}

/* Rows of the head's next step: the last one of each sequence; for one of several heads those of all guesses so far, whose keys
 * and values it has not kept yet. */
static int spec__head_rows(spec *sp) {
    const bool many = sp->eng->n_head > 1, assists = sp->eng->m.assist != NULL;
    sp->f = sp->eng->head[many && sp->n_live ? sp->live[0]->n : 0];
    fwd_begin(sp->f);
    for (int i = 0; i < sp->n_live; i++) {
        const spec_seq *q = sp->live[i];
        const int       pos = (int)q->ids->n - 1;
        for (int k = many ? 0 : q->n; k <= q->n; k++) {
            fwd_add(sp->f, q->own, k ? q->id[k - 1] : q->ids->id[pos], assists ? pos - 1 : pos + k, k == q->n ? FWD_LOGITS : 0);
            fwd_before(sp->f, k ? spec__left(sp, q, k - 1) : spec_before(q, pos));
        }
    }
    return sp->f->batch.n;
}

/* What the head's step has left is what the next guess reads. */
static void spec__head_keep(spec *sp) {
    for (int i = 0; i < sp->n_live; i++)
        memcpy(spec__left(sp, sp->live[i], sp->live[i]->n), fwd_state(sp->f, i), (size_t)sp->eng->m.hp.n_embd * sizeof(float));
}

/* --- draft and head --- */

/* Seconds of a step of n rows of the draft or of the head. Until the head has made a few steps it counts as free, so that one
 * that was slow, as the first is, decides nothing; and the longer it has made none, the less its cost is trusted. */
static double spec__step_s(const spec *sp, spec_source from, int n) {
    const double s = spec_cost_at(&sp->costs.of[from], n);
    if (from != SPEC_HEAD) return s;
    return sp->head_steps < SPEC_FIRST ? 0 : s * exp(-0.003 * sp->head_idle);
}

/* Runs on every thread: picks the next guess of some sequences. */
static void spec__draft_pick(void *ctx, int ith) {
    spec     *sp = ctx;
    const int own = sp->f->n_vocab, all = sp->eng->m.hp.n_vocab;
    (void)ith;
    for (int i; (i = pool_deal(sp->p, sp->n_live, NULL)) != POOL_NONE;) {
        spec_seq *q = sp->live[i];
        float    *logits = sp->logits + (size_t)i * (size_t)own;
        q->id[q->n] = -1;
        if (!engine_finite(logits, (size_t)own)) continue;
        if (own < all) {
            float *wide = sp->wide + (size_t)i * (size_t)all;
            memcpy(wide, logits, (size_t)own * sizeof *wide);
            for (int k = own; k < all; k++) wide[k] = -INFINITY;
            logits = wide;
        }
        if (q->held && !constrain_mask(q->ahead, logits, max_int(own, all), q->left < 0 ? -1 : q->left - q->n)) continue;
        for (size_t k = 0; k < q->banned->n; k++) logits[q->banned->id[k]] = -INFINITY;
        if (q->n) samp_accept(q->draft_sampler, q->id[q->n - 1], false);
        else samp_copy(q->draft_sampler, q->sm);
        q->id[q->n] = samp_pick(q->draft_sampler, logits, q->place + (uint64_t)q->n);
        q->sure = q->id[q->n] < 0 ? 0 : samp_chance(q->draft_sampler);
    }
}

/* Rows of the draft's next step, one with logits for each sequence. Sequences for which its cache has no room leave sp->live. */
static int spec__draft_rows(spec *sp) {
    fwd *f = sp->f;
    int  n = 0;
    fwd_begin(f);
    for (int i = 0; i < sp->n_live; i++) {
        spec_seq *q = sp->live[i];
        const int ids = (int)q->ids->n, to = ids + q->n;
        if (f->batch.n + to - q->done > sp->draft->n_batch || !kv_reserve(q->kv, to)) continue;
        for (int p = q->done; p < to; p++)
            fwd_add(f, q->kv, p < ids ? q->ids->id[p] : q->id[p - ids], p, p == to - 1 ? FWD_LOGITS : 0);
        if (!q->n) kv_publish(q->kv, q->ids->id);
        q->done = to;
        sp->live[n++] = q;
    }
    sp->n_live = n;
    return f->batch.n;
}

/* Whether one more guess of q is likely to repay its row and its share of a step of what guesses; rate: tokens per second
 * that time is worth. */
static bool spec__draft_pays(const spec *sp, const spec_seq *q, int rows, double rate) {
    const double p = (q->n ? q->p[q->n - 1] : 1) * spec__mean(sp, q, sp->from);
    const double row = spec_cost_at(&sp->costs.target, rows + 1) - spec_cost_at(&sp->costs.target, rows);
    const double each = spec__step_s(sp, sp->from, sp->n_live) / sp->n_live;
    const int    most = spec__most_of(sp, q, sp->from);
    return q->n < most && (q->n < sp->o.least || p > rate * (row + each));
}

/* The token that was picked becomes a guess. False: it does not qualify. */
static bool spec__draft_take(spec *sp, spec_seq *q) {
    const int32_t id = q->id[q->n];
    const bool    sure = q->sure >= sp->o.p_min || q->n < sp->o.least;
    if (id < 0 || tok_is_eog(sp->eng->v, id) || !sure || !spec__allows(q, id)) return false;
    q->kind[q->n] = (uint8_t)spec__kind(q->sure);
    q->p[q->n] = (q->n ? q->p[q->n - 1] : 1) * spec__chance(sp, q, sp->from, q->kind[q->n]);
    q->n++;
    return true;
}

/* One step of the draft or the head: logits for sp->live. False: it has failed, or has no room. */
static bool spec__draft_step(spec *sp) {
    const bool   head = sp->from == SPEC_HEAD;
    const double begun = clock_now();
    const int    step = (head ? spec__head_rows : spec__draft_rows)(sp);
    const bool   ok = step && fwd_step(sp->f);
    if (!head) kv_commit(sp->draft->kv, ok);
    if (!ok) return false;
    if (head) {
        spec__head_keep(sp);
        sp->head_steps += sp->head_steps < SPEC_FIRST;
        sp->head_idle = 0;
    }
    sp->logits = sp->f->logits;
    pool_run(sp->p, spec__draft_pick, sp);
    if (!head || sp->head_steps > 1) spec_cost_add(&sp->costs.of[sp->from], step, clock_now() - begun);
    spec_gain_round(&sp->gain, &sp->costs, sp->from, step);
    return true;
}

/* The sequences that asked for guesses of `from` are sp->live, if it can guess for them. */
static void spec__draft_begin(spec *sp, spec_source from, spec_seq **q, int n) {
    const bool head = from == SPEC_HEAD;
    sp->from = from;
    sp->f = head ? sp->eng->head[0] : sp->draft->f;
    sp->p = head ? sp->eng->p : sp->draft->p;
    sp->n_live = 0;
    for (int i = 0; i < n; i++) {
        if (q[i]->asks != from) continue;
        if (!(head ? spec__head_room : spec__draft_read)(sp, q[i])) {
            q[i]->asks = SPEC_LOOKUP;
            continue;
        }
        q[i]->from = from;
        spec__hold(q[i]);
        sp->live[sp->n_live++] = q[i];
    }
}

/* The guesses are made. After a step that failed the draft drops what it holds of the sequences that are left. */
static void spec__draft_end(const spec *sp, spec_seq **q, int n) {
    for (int i = 0; i < n && sp->from == SPEC_HEAD; i++)
        if (q[i]->asks == SPEC_HEAD) spec__head_leave(q[i]);
    for (int i = 0; i < sp->n_live && sp->from == SPEC_DRAFT; i++) spec_draft_reset(sp->live[i]);
}

/* Guesses of `from`, the draft or the head, for those of n sequences that asked for them, round after round, as long as they
 * are likely to pay beside `rows` rows. */
static void spec__draft(spec *sp, spec_source from, spec_seq **q, int n, int rows, double rate) {
    const double t0 = clock_now();
    spec__draft_begin(sp, from, q, n);
    spec_gain_prepare(&sp->gain, clock_now() - t0);
    while (sp->n_live && spec__draft_step(sp)) {
        const int had = sp->n_live;
        int       left = 0;
        for (int i = 0; i < had; i++) {
            spec_seq  *one = sp->live[i];
            const bool took = spec__draft_take(sp, one);
            rows += took;
            if (took && spec__draft_pays(sp, one, rows, rate)) sp->live[left++] = one;
        }
        sp->n_live = left;
    }
    spec__draft_end(sp, q, n);
    spec_gain_drafted(&sp->gain, from, clock_now() - t0);
}

/* --- how many --- */

/* Tokens per second to expect of q with the best number of guesses: of those that it has, or, from SPEC_DRAFT or SPEC_HEAD,
 * of the guesses of that source, which are not made yet; a first one that is unlikely costs its making and gets no row.
 * share: seconds of its own row. */
static double spec__best(const spec *sp, const spec_seq *q, int rows, double share, spec_source from) {
    const bool   made = from != SPEC_DRAFT && from != SPEC_HEAD;
    const double base = spec_cost_at(&sp->costs.target, rows), mean = made ? 0 : spec__mean(sp, q, from);
    const double each = made ? 0 : spec__step_s(sp, from, 1), taken = made ? 1 : spec__yield(sp, q, from);
    double       best = 1 / share, sum = 1, p = taken;
    for (int k = 0; k < (made ? q->n : spec__most_of(sp, q, from)); k++) {
        sum += made ? q->p[k] : (p *= mean);
        const double more = taken * (spec_cost_at(&sp->costs.target, rows + k + 1) - base);
        const double rate = sum / (share + more + each * (1 + taken * k));
        if (rate > best) best = rate;
    }
    return best;
}

/* Takes the likeliest of all guesses, as many as give the most tokens per second. n sequences decode in a step of
 * `rows` rows without guesses. */
static void spec__choose(spec *sp, spec_seq **q, int n, int rows) {
    const double base = spec_cost_at(&sp->costs.target, rows), plain = spec_cost_at(&sp->costs.target, n);
    double       sum = n, best = n / plain;
    int          m = 0, keep = 0;
    memset(sp->taken, 0, (size_t)n * sizeof *sp->taken);
    for (; m < sp->n_rows; m++) {
        int who = -1;
        for (int i = 0; i < n; i++) {
            if (sp->taken[i] == q[i]->n) continue;
            const bool due = sp->taken[i] < sp->o.least, held = who >= 0 && sp->taken[who] < sp->o.least;
            if (who < 0 || due > held || (due == held && q[i]->p[sp->taken[i]] > q[who]->p[sp->taken[who]])) who = i;
        }
        if (who < 0) break;
        const bool due = sp->taken[who] < sp->o.least;
        sum += q[who]->p[sp->taken[who]++];
        sp->order[m] = who;
        const double rate = sum / (plain + spec_cost_at(&sp->costs.target, rows + m + 1) - base);
        if (due || rate > best) best = rate, keep = m + 1;
    }
    memset(sp->taken, 0, (size_t)n * sizeof *sp->taken);
    for (int i = 0; i < keep; i++) sp->taken[sp->order[i]]++;
    for (int i = 0; i < n; i++) {
        spec_seq *one = q[i];
        const int took = sp->taken[i];
        if (one->asks == SPEC_DRAFT || one->asks == SPEC_HEAD)
            spec__learn(&one->yield[one->asks], &sp->yield[one->asks], took > 0);
        one->n = took;
        if (!took) spec_gain_none(&sp->gain);         /* those with guesses are counted by spec_record() */
    }
}

/* Which of draft and head should guess for q, whose guesses of lookup are there: SPEC_LOOKUP where neither promises more. */
static spec_source spec__asks(const spec *sp, const spec_seq *q, int rows, double share) {
    const bool  there[] = {[SPEC_DRAFT] = sp->draft != NULL, [SPEC_HEAD] = q->hidden != NULL};
    spec_source asks = SPEC_LOOKUP;
    double      best = q->n ? spec__best(sp, q, rows, share, SPEC_LOOKUP) : 1 / share;
    for (spec_source from = SPEC_DRAFT; from <= SPEC_HEAD && spec__most(sp, q) > 0; from++) {
        const double rate = there[from] ? spec__best(sp, q, rows, share, from) : 0;
        if (!there[from] || (rate <= best && !(sp->o.least && !q->n && asks == SPEC_LOOKUP))) continue;
        asks = from;
        best = fmax(rate, best);
    }
    return asks;
}

/* Guesses of lookup for each of n sequences, and of draft or head where more is to be expected of it, in a step of `rows`
 * rows. */
static void spec__search(spec *sp, spec_seq **q, int n, int rows) {
    const double plain = spec_cost_at(&sp->costs.target, n), share = plain / n;
    bool         any[SPEC_SOURCES] = {false};
    for (int i = 0; i < n; i++) {
        spec__guess(sp, q[i], spec__most(sp, q[i]));
        any[q[i]->asks = spec__asks(sp, q[i], rows, share)] = true;
    }
    if (any[SPEC_DRAFT]) spec__draft(sp, SPEC_DRAFT, q, n, rows, n / plain);
    if (any[SPEC_HEAD]) spec__draft(sp, SPEC_HEAD, q, n, rows, n / plain);
}

/* Guesses for each of n sequences that decode in the coming step, which has `others` rows beside. */
static void spec_propose(spec *sp, spec_seq **q, int n, int others) {
    const double t0 = clock_now();
    sp->head_idle += sp->head;
    spec_gain_begin(&sp->gain);
    spec__fade(&sp->rate[0][0], SPEC_SOURCES * SPEC_KINDS, 0.999f);
    spec__fade(sp->mean, SPEC_SOURCES, 0.999f);
    spec__fade(sp->yield, SPEC_SOURCES, 0.999f);
    for (int i = 0; i < n; i++) {
        q[i]->n = 0;
        spec__read(sp, q[i]);
        spec__fade(&q[i]->rate[0][0], SPEC_SOURCES * SPEC_KINDS, 0.98f);
        spec__fade(q[i]->mean, SPEC_SOURCES, 0.98f);
        spec__fade(q[i]->yield, SPEC_SOURCES, 0.98f);
    }
    const bool known = sp->o.least ? spec_cost_at(&sp->costs.target, n) > 0 : spec_cost_near(&sp->costs.target, n);
    if (n > 0 && known) {                             /* else a step without guesses, to measure its cost */
        spec__search(sp, q, n, n + others);
        spec__choose(sp, q, n, n + others);
    }
    sp->gain.step.looking = clock_now() - t0;
}

/* What came of the guesses of q: the sampler picked from `judged` rows of them, and `right` were what it picked.
 * `done`: tokens of the sequence before the step. */
static void spec_record(spec *sp, spec_seq *q, int right, int judged, int done) {
    for (int i = 0; i < judged; i++) {
        spec__learn(&q->rate[q->from][q->kind[i]], &sp->rate[q->from][q->kind[i]], i < right);
        spec__learn(&q->mean[q->from], &sp->mean[q->from], i < right);
    }
    spec_gain_record(&sp->gain, q->from, q->n, right, judged);
    if (q->done > done + right) q->done = done + right;
}

/* Times a step of `rows` rows, none of them of a prompt: it gave n sequences `tokens` tokens in `seconds`, search and
 * sampling included. The first one does not count, since it is the first to touch its memory. */
static void spec_time(spec *sp, int n, int rows, int tokens, double seconds) {
    if (!sp->warm) {
        sp->warm = true;
        return;
    }
    spec_cost_add(&sp->costs.target, rows, seconds - sp->gain.step.looking);
    spec_gain_time(&sp->gain, &sp->costs, n, rows, tokens, seconds);
}

/* Seconds between two steps that guesses do not change. anew: steps cost something else from now on, and are measured again. */
static void spec_overhead(spec *sp, double seconds, bool anew) {
    spec_gain_between(&sp->gain, seconds);
    if (!anew) return;
    spec_gain_forget(&sp->gain, &sp->costs);
    sp->head_steps = min_int(sp->head_steps, 1);
}

/* --- finished texts --- */

/* Makes room for n more tokens: the older half of the texts is dropped. */
static void spec__past_trim(spec_text *t, int n) {
    if (t->n + n <= SPEC_PAST) return;
    const int from = min_int(max_int(t->n / 2, t->n + n - SPEC_PAST), t->n);
    memmove(t->id, t->id + from, (size_t)(t->n - from) * sizeof *t->id);
    t->n -= from;
    spec__relink(t);
}

/* Keeps a finished text, whose first n_prompt tokens are the prompt: others may go on like it. */
static void spec_finished(spec *sp, const tok_ids *ids, int n_prompt) {
    if (!sp || !sp->o.lookup) return;
    const int n = (int)ids->n, from = max_int(n_prompt - SPEC_LEAD, 0);
    if (n - from < SPEC_GRAM || n - from > SPEC_PAST / 4) return;
    spec__past_trim(&sp->past, n - from + 1);
    spec__text_add(&sp->past, -1);
    for (int i = from; i < n; i++) spec__text_add(&sp->past, ids->id[i]);
    sp->unsaved = true;
}

static const char spec_arch[] = "lookup_cache", spec_what[] = "lookup cache";

static uint64_t spec__vocab_hash(const tok_vocab *v) {
    uint64_t h = 0;
    for (int32_t id = 0; id < tok_count(v); id++) h = bytes_hash(h, tok_text(v, id));
    return h;
}

static void spec__sum(const int32_t *id, uint64_t n, char out[17]) {
    snprintf(out, 17, "%016llx", (unsigned long long)bytes_hash(0, (bytes){(const uint8_t *)id, (size_t)n * sizeof *id}));
}

/* Reads the tokens of an open file, if they belong to this vocabulary and are undamaged. */
static bool spec__cache_tokens(spec *sp, const gguf_file *g, err_t *e) {
    const gguf_tensor *t = gguf_tensor_find(g, "tokens");
    bytes              vocab = {0}, sum = {0};
    uint64_t           version = 0;
    char               want[17];
    if (gguf_get_u64(g, "lookup_cache.version", 0, UINT32_MAX, &version, e) != 1 || version != SPEC_VERSION)
        return err_set(e, EXIT_INPUT, "%s: no lookup cache of version %d", g->path, SPEC_VERSION);
    snprintf(want, sizeof want, "%016llx", (unsigned long long)sp->vocab_hash);
    if (gguf_get_str(g, "lookup_cache.vocabulary", &vocab, e) != 1 || !bytes_is(vocab, want))
        return err_set(e, EXIT_INPUT, "%s: of another vocabulary", g->path);
    if (!t || t->type != K_I32 || t->n_dims != 1 || t->dim[0] > SPEC_PAST)
        return err_set(e, EXIT_INPUT, "%s: its tensor has another shape", g->path);
    int32_t *id = mem_new((size_t)t->dim[0], sizeof *id);      /* a copy: what is checked is what is used */
    memcpy(id, t->data, (size_t)t->n_bytes);
    spec__sum(id, t->dim[0], want);
    bool ok = gguf_get_str(g, "lookup_cache.sum", &sum, e) == 1 && bytes_is(sum, want);
    for (uint64_t i = 0; ok && i < t->dim[0]; i++) ok = id[i] >= -1 && id[i] < sp->eng->m.hp.n_vocab;
    for (uint64_t i = 0; ok && i < t->dim[0]; i++) spec__text_add(&sp->past, id[i]);
    mem_free(id);
    return ok || err_set(e, EXIT_INPUT, "%s: is damaged", g->path);
}

/* Reads the finished texts of earlier runs. A file that cannot be used gets a warning. */
static void spec__cache_open(spec *sp) {
    gguf_file g;
    err_t     why = {0};
    if (!sp->o.cache) return;
    sp->vocab_hash = spec__vocab_hash(sp->eng->v);
    if (gguf_own_missing(sp->o.cache)) return;
    const bool open = gguf_open(&g, sp->o.cache, &why);
    sp->foreign = !open || !gguf_own_is_kind(&g, spec_arch, spec_what, &why);
    const bool ok = !sp->foreign && spec__cache_tokens(sp, &g, &why);
    if (open) gguf_close(&g);
    if (!ok) log_warn("%s; it is ignored and %s", why.text, sp->foreign ? "left as it is" : "written anew");
}

/* Writes the finished texts to the file, if there are new ones. */
static bool spec_save(spec *sp, err_t *e) {
    gguf_writer    w;
    char           word[17];
    const uint64_t n = sp ? (uint64_t)sp->past.n : 0;
    if (!sp || !sp->o.cache || sp->foreign || !sp->unsaved) return true;
    if (!gguf_own_may_replace(sp->o.cache, spec_arch, spec_what)) return true;
    if (!gguf_write_start(&w, sp->o.cache, 64, NULL, e)) return false;
    snprintf(word, sizeof word, "%016llx", (unsigned long long)sp->vocab_hash);
    gguf_write_str(&w, "general.architecture", bytes_of(spec_arch));
    gguf_write_u32(&w, "general.alignment", 64);
    gguf_write_u32(&w, "lookup_cache.version", SPEC_VERSION);
    gguf_write_str(&w, "lookup_cache.vocabulary", bytes_of(word));
    spec__sum(sp->past.id, n, word);
    gguf_write_str(&w, "lookup_cache.sum", bytes_of(word));
    gguf_write_tensor(&w, bytes_of("tokens"), K_I32, 1, &n);
    if (gguf_write_data(&w, sp->past.id, (size_t)n * sizeof *sp->past.id, e)) return gguf_write_finish(&w, e);
    gguf_write_drop(&w);
    return false;
}

/* --- opening --- */

/* Guesses that a step may hold beside the rows of n_seqs sequences; 0: none are made. */
static int spec_rows(const spec_opts *o, int n_seqs) {
    if (!ops_exact() || (!o->draft && !o->lookup && !o->head)) return 0;
    return n_seqs > 1 ? max_int(o->most, SPEC_ROWS) : o->most;
}

/* Rows of a step of the draft: all sequences may read their last tokens at once. */
static int spec__draft_batch(const engine_opts *fo, int n_seqs) { return max_int(fo->n_batch, SPEC_LAG * n_seqs); }

/* What guesses for n_seqs sequences need of memory: tables of lookup, and the draft with its cache. On failure e is set. */
static bool spec_needs(const spec_opts *o, const engine_opts *fo, const kv_opts *ko, int n_seqs, engine_needs *t, err_t *e) {
    static const char *const steps[] = {"draft's steps", "draft's logits", "draft's samplers"};
    const uint64_t           entry = 3 * sizeof(int32_t);      /* of a spec_text */
    gguf_file                g;
    model                    m;
    if (!spec_rows(o, n_seqs)) return true;
    engine_need(t, "lookup tables", entry * SPEC_PAST);
    t->token_bytes += 2 * entry;                      /* arrays grow by doubling */
    if (!o->draft) return true;
    if (!import_open(&g, o->draft, 0, e)) return false;
    const bool ok = model_open(&m, &g, &engine_defaults.rope, e) && model_writes(&m, e);
    if (ok) {
        engine_need_weights(t, &m, fo, "draft in the file", "draft's packed weights");
        engine_need_steps(t, &m, engine_threads(fo), spec__draft_batch(fo, n_seqs), n_seqs, 2 * n_seqs, steps);
        t->token_bytes += model_kv_bytes(&m.hp, ko->type_k, ko->type_v);
        engine_need(t, "draft's states", kv_slot_bytes(&m.hp) * ((uint64_t)n_seqs + 2));
    }
    model_close(&m);
    gguf_close(&g);
    return ok;
}

/* Whether both vocabularies are the same, token by token, but for padding at the end. */
static bool spec__same_vocab(const tok_vocab *a, const tok_vocab *b, const char *path, err_t *e) {
    const int32_t na = tok_count(a), nb = tok_count(b);
    for (int32_t id = 0; id < min_int(na, nb); id++) {
        const bytes x = tok_text(a, id), y = tok_text(b, id);
        if (!bytes_eq(x, y))
            return err_set(e, EXIT_INPUT, "%s: not the target's vocabulary: token %d is '%.*s', the target's is '%.*s'", path, id,
                           (int)min_size(y.n, 100), y.p, (int)min_size(x.n, 100), x.p);
    }
    return abs(na - nb) <= SPEC_PAD ||
           err_set(e, EXIT_INPUT, "%s: not the target's vocabulary: it has %d tokens, the target %d", path, nb, na);
}

/* Opens the draft model, with a cache for as many tokens as the target's. */
static bool spec__draft_open(spec *sp, const char *pre, const engine_opts *fo, const kv_opts *ko, int n_seqs, err_t *e) {
    engine_opts fd = *fo;
    kv_opts     kd = *ko;
    fd.lora.n = 0;                                    /* adapters are the model's */
    if (!import_open(&sp->g, sp->o.draft, 0, e)) return false;
    if (!(sp->v = tok_load(&sp->g, pre, e)) || !spec__same_vocab(sp->eng->v, sp->v, sp->o.draft, e)) return false;
    fd.rope = engine_defaults.rope;
    kd.block = sp->eng->kv->opts.block;
    kd.cache = NULL;
    kd.mem_bytes = 0;
    kd.max_blocks = sp->eng->kv->max_blocks;
    const engine_plan plan = {.n_ctx = sp->eng->n_ctx, .n_seqs = n_seqs, .n_rows = spec__draft_batch(&fd, n_seqs),
                              .n_out = n_seqs, .share = true, .pack = ENGINE_PACK_NOW, .host = sp->eng};
    if (!(sp->draft = engine_open(&sp->g, sp->v, &fd, &kd, plan, clock_now(), e))) return false;
    if (sp->o.n_vocab) fwd_trim(sp->draft->f, sp->o.n_vocab);
    return true;
}

/* Frees it and the draft; spec_save() comes before. NULL is allowed. */
static void spec_close(spec *sp) {
    if (!sp) return;
    engine_close(sp->draft);
    tok_free(sp->v);
    if (sp->g.path) gguf_close(&sp->g);
    spec__text_drop(&sp->past);
    mem_free_all(sp->live, sp->taken, sp->order, sp->wide, sp);
}

/* For an engine whose steps have room for spec_rows() beside n_seqs sequences. On failure NULL, and e is set. */
static spec *spec_open(const engine *eng, const spec_opts *o, const char *pre, const engine_opts *fo, const kv_opts *ko,
                       int n_seqs, err_t *e) {
    const int room = min_int(eng->max_out, eng->n_batch) - n_seqs;
    spec     *sp = mem_new(1, sizeof *sp);
    *sp = (spec){.o = *o, .eng = eng, .head = o->head && eng->n_head};
    spec_gain_open(&sp->gain, o->draft != NULL);
    sp->n_rows = min_int(spec_rows(o, n_seqs), max_int(room, 0));
    sp->live = mem_new((size_t)n_seqs, sizeof *sp->live);
    sp->taken = mem_new((size_t)n_seqs, sizeof *sp->taken);
    sp->order = mem_new((size_t)sp->n_rows, sizeof *sp->order);
    if (o->draft && !spec__draft_open(sp, pre, fo, ko, n_seqs, e)) {
        spec_close(sp);
        return NULL;
    }
    for (int k = 0; sp->head && o->n_vocab && k < eng->n_head; k++) fwd_trim(eng->head[k], o->n_vocab);
    const int own = min_int(sp->draft ? sp->draft->f->n_vocab : INT_MAX, sp->head ? eng->head[0]->n_vocab : INT_MAX);
    if (own < eng->m.hp.n_vocab) sp->wide = mem_aligned((size_t)n_seqs * (size_t)eng->m.hp.n_vocab, sizeof *sp->wide);
    const bool states = kv_slot_bytes(&eng->m.hp) || (sp->draft && kv_slot_bytes(&sp->draft->m.hp));
    if (states) sp->o.most = min_int(sp->o.most, DEV_LOG - 1);   /* that many rows of a state can be taken back */
    sp->o.least = min_int(sp->o.least, sp->o.most);
    spec__cache_open(sp);
    return sp;
}

/* For a sequence whose tokens, sampler and place in its constraint stay its owner's. */
static spec_seq *spec_seq_new(const spec *sp, const tok_ids *ids, const samp *sm, const tok_ids *banned,
                              const constrain_seq *held) {
    spec_seq *q = mem_new(1, sizeof *q);
    *q = (spec_seq){.ids = ids, .sm = sm, .banned = banned, .held = held};
    if (held) q->ahead = constrain_seq_like(held);
    if (sp->draft || sp->head) q->draft_sampler = samp_clone(sm);
    q->hidden_at = -1;
    if (!sp->head) return q;
    q->hidden = mem_aligned((size_t)sp->eng->m.hp.n_embd, sizeof *q->hidden);
    q->ahead_hidden = mem_aligned((size_t)sp->eng->n_head * (size_t)sp->eng->m.hp.n_embd, sizeof *q->ahead_hidden);
    return q;
}

/* NULL is allowed. */
static void spec_seq_free(spec_seq *q) {
    if (!q) return;
    spec_draft_reset(q);
    spec__text_drop(&q->text);
    samp_free(q->draft_sampler);
    constrain_seq_free(q->ahead);
    mem_free_all(q->hidden, q->ahead_hidden, q);
}

/* --- report: sp is NULL where no guesses are made --- */

/* Guesses of a source that had a row in a step. */
static long long spec_guessed(const spec *sp, spec_source from) { return sp ? sp->gain.guessed[from] : 0; }

/* Those of them that were right. */
static long long spec_accepted(const spec *sp, spec_source from) { return sp ? sp->gain.right[from] : 0; }

/* Speed-up of the whole run over plain decoding: 1 where nothing was guessed, NAN: not known. */
static double spec_speedup(const spec *sp) { return sp ? spec_gain_speedup(&sp->gain, &sp->costs) : 1; }

/* Lines for stderr about the sources that guessed. */
static void spec_report(const spec *sp, str *s) {
    if (sp) spec_gain_report(&sp->gain, &sp->costs, s);
}

/* A line for stderr under -v: how many of the tokens written were right guesses of what a constraint forces. */
static void spec_report_forced(const spec *sp, long long written, str *s) {
    const long long right = spec_accepted(sp, SPEC_FORCED);
    if (g_log_level < LOG_VERBOSE || !spec_guessed(sp, SPEC_FORCED) || !written) return;
    str_fmt(s, "llmrun: forced      %lld of %lld tokens (%.1f %%)\n", right, written, 100.0 * (double)right / (double)written);
}
