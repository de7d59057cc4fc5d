/* ===== [sched] continuous batching =====
 * Answers requests, many at once: every step takes one row of each sequence that is being continued and fills up with
 * rows of prompts that are being read, oldest first. A sequence leaves when its answer ends, and the next one takes its
 * place. Prompts are read in chunks, so that a step takes at most SCHED_STEP_S while other sequences wait for their next
 * token.
 *   Blocks that the cache holds are reused; a sequence waits for blocks that another one is computing. It is admitted
 * when the cache has room for its prompt. When blocks run out the youngest is preempted, and read again when its turn
 * comes. Neither changes a text: a row's result depends on its own past alone, and a draw on its seed and place alone.
 *
 * States of a sequence:
 *
 *               admitted                rows in this step             answer ends
 *   WAITING <--------------> READY <-----------------------> STEPPING -----------> ENDED
 *               preempted                  next step             |                   ^
 *                                                  answer ends,  |                   | last answer of
 *                                                  static batch  v                   | the batch ends
 *                            OVER <-------------------> OVER_STEPPING ---------------+
 *
 * READY to OVER_STEPPING are in flight. WAITING also leads to ENDED where the run is cancelled, READY where it is or
 * where the cache cannot hold the sequence even alone, OVER where it is or where its batch ends.
 *
 * Invariants:
 * - sched.run is in the order in which its sequences were added; preempted ones come back before new ones.
 * - A sequence that holds blocks and cannot go on gives way to older ones, never the other way: the oldest always makes progress.
 * - An error of one sequence ends that sequence (gen_answer.err); only an error of all of them ends the run.
 * - The schedule owns its sequences; a caller has a request, a view of its answer, and in the end the answer itself.
 * - A sequence that is held keeps its place and its blocks until another one needs them, and gets no more tokens.
 *   Texts to embed may be among requests for answers where the engine gives logits: a row whose hidden values are wanted then
 * computes logits, too.
 * Public: sched_plan, sched_new, sched_free, sched_add, sched_has_room, sched_idle, sched_step, sched_each_new, sched_take,
 * sched_cancel, sched_cancel_of, sched_pause, hist_add, hist_at.
 * Opens: sched.eng, sched.n_run, sched.n_waiting, sched.st, sched.guesser, sched_opts, sched_stats, hist. */

/* --- a histogram of seconds --- */

/* Buckets to a factor of two: a percentile, the middle of its bucket, is right within 1.1 %. */
enum { HIST_FINE = 32, HIST_N = 45 * HIST_FINE };     /* from a microsecond up to a year */

typedef struct {
    uint64_t n[HIST_N];                               /* values in each bucket */
    uint64_t all;                                     /* values in all buckets */
} hist;

/* One more time. */
static void hist_add(hist *h, double s) {
    int i = s > 1e-6 ? (int)(log2(s * 1e6) * HIST_FINE) : 0;
    h->n[min_int(i, HIST_N - 1)]++;
    h->all++;
}

/* The smallest value that is not below the share p of them; 0 of none. */
static double hist_at(const hist *h, double p) {
    uint64_t seen = 0;
    int      i = 0;
    if (!h->all) return 0;
    while (i < HIST_N - 1 && (double)(seen += h->n[i]) < p * (double)h->all) i++;
    return exp2((i + 0.5) / HIST_FINE) * 1e-6;
}

/* --- sequences --- */

typedef struct {
    int  n_seqs;                                      /* sequences in flight */
    bool fixed;                                       /* static batches, for comparison: all rows run to the last answer's end */
    bool stress;                                      /* the youngest is preempted before every step */
    bool live;                                        /* requests come while others run: no one waits long */
} sched_opts;

enum {
    SCHED_ROWS_LEAST = 32,                            /* rows of a step that reads prompts, however slow */
    SCHED_LIVE_ROWS = 256,                            /* of prompts in a live run's step, beside up to SCHED_LIVE_FEW answers; */
    SCHED_LIVE_FEW = 8,                               /* the more answers wait for it, the fewer, */
    SCHED_LIVE_LEAST = 64,                            /* and as many at least */
};
#define SCHED_STEP_S 0.25                             /* seconds that a step may take while sequences wait for their next token */

/* The engine for requests that come and go, n_seqs of them at once, with n_guess rows of guesses. Each may reach the
 * context, all together the cache. beside: what others of this run need of memory, NULL: nothing. */
static engine_plan sched_plan(const engine_opts *fo, int n_seqs, int n_guess, const engine_needs *beside) {
    return (engine_plan){.n_seqs = n_seqs, .n_rows = fo->n_batch + n_seqs + n_guess, .n_out = n_seqs + n_guess, .share = true,
                         .pairs = true,
                         .pack = ENGINE_PACK_LATER, .beside = beside};
}

enum {                                                /* why no token is picked */
    SCHED_NO_TOKEN = -1,                              /* all are forbidden */
    SCHED_NO_LOGITS = -2,                             /* logits are not finite */
    SCHED_NO_MASK = -3,                               /* a limit of the constraint was reached */
    SCHED_NO_ANSWER = -4,                             /* the constraint lets nothing come at all */
};

typedef enum {                                        /* see the picture at the head of the section */
    SCHED_WAITING,                                    /* in the list of those that are not in flight: new, or preempted */
    SCHED_READY,                                       /* in flight, without rows in this step */
    SCHED_STEPPING,                                   /* in flight, with rows in this step */
    SCHED_OVER,                                       /* in flight, its answer has ended, without rows in this step */
    SCHED_OVER_STEPPING,                              /* the same, and its row goes on with the others' */
    SCHED_ENDED,                                      /* its answer waits to be taken */
    SCHED_STATES
} sched_state;

static const uint8_t sched__next[SCHED_STATES] = {    /* states that may follow, as bits */
    [SCHED_WAITING] = 1 << SCHED_READY | 1 << SCHED_ENDED,
    [SCHED_READY] = 1 << SCHED_STEPPING | 1 << SCHED_WAITING | 1 << SCHED_ENDED,
    [SCHED_STEPPING] = 1 << SCHED_READY | 1 << SCHED_OVER_STEPPING | 1 << SCHED_ENDED,
    [SCHED_OVER] = 1 << SCHED_OVER_STEPPING | 1 << SCHED_ENDED,
    [SCHED_OVER_STEPPING] = 1 << SCHED_OVER | 1 << SCHED_ENDED,
};

typedef struct {                                      /* what the sampler made of one row's logits */
    int32_t id;                                       /* a token, or a SCHED_NO_... */
    float   lp;                                       /* its log-probability, where asked for */
    bool    closed;                                   /* nothing may follow */
    bool    thinks;                                   /* it is inside thinking */
} sched_pick;

typedef struct sched_seq {                            /* one completion of a request */
    sched_state  state;
    gen_request  r;
    gen_answer   a;                                   /* so far */
    uint64_t     request;                             /* number of the request: its completions share the prompt's blocks */
    tok_ids      ids;                                 /* prompt, answer after it; what a context shift dropped is not there */
    int          n_prompt;                            /* of ids */
    diffuse     *masks;                               /* the answer where it is decoded by diffusion; else NULL */
    int          picked;                              /* masks before this one have a pick for the next turn */
    int          source;                              /* of ids, the text that an encoder reads; 0: there is none */
    int          shift;                               /* tokens that a context shift keeps; -1: a full context ends the answer */
    samp        *sm;                                  /* NULL: it has never been in flight, or needs none */
    constrain_seq *held;                              /* where the answer is in its constraint; NULL: it has none */
    tok_stream   stream;
    gen_thought  thought;
    gen_loop     loop;
    size_t       thoughts;                            /* bytes of the text up to the end of its thinking */
    bool         thinks;                              /* it ends inside thinking, or in the white space behind it */
    tok_ids      ends;                                /* where the caller has end tokens: all that are not the vocabulary's */
    size_t       unstopped;                           /* bytes of the text in which no stop text counts */
    float       *raw;                                 /* [V] logits before the sampler, where log-probabilities are asked for */
    embed       *text;                                /* NULL: a vector is not what is asked for */
    int          cap;                                 /* tokens that the arrays of the answer have space for */
    struct sched_seq *next;                           /* in its list: waiting, or ended */
    bool         held_back;                           /* sched_pause() has asked that it gets no more tokens */

    kv_seq      *kv;                                  /* NULL: it holds no blocks */
    int          done;                                /* positions whose keys and values are in the cache */
    spec_seq    *guess;                               /* NULL: none are made */

    /* of this step */
    int          at;                                  /* its first row among those that asked for something */
    int          n_rows;                              /* how many of them a text has */
    bool         tried;                               /* it has been asked whether it can read */
    int          row;                                 /* its first row in the step */
    int          from;                                /* position of that row */
    int          n_guess;
    int          snap_at;                             /* where a snapshot of recurrent states is made, 0: nowhere */
    kv_staying   staying;                             /* and for how long */
    int          n_pick;
    sched_pick   pick[SPEC_MOST + 1];                 /* [n_pick] after its last token, after each right guess */
} sched_seq;

static void sched__become(sched_seq *q, sched_state to) {
    ASSERT(sched__next[q->state] >> to & 1);
    q->state = to;
}

/* Whether it has rows in this step. */
static bool sched__steps(const sched_seq *q) { return q->state == SCHED_STEPPING || q->state == SCHED_OVER_STEPPING; }

/* Whether it is in flight although its answer has ended: in a static batch. */
static bool sched__is_over(const sched_seq *q) { return q->state == SCHED_OVER || q->state == SCHED_OVER_STEPPING; }

/* It gets rows in this step. */
static void sched__enter_step(sched_seq *q) { sched__become(q, sched__is_over(q) ? SCHED_OVER_STEPPING : SCHED_STEPPING); }

/* The next step begins. */
static void sched__leave_step(sched_seq *q) {
    if (sched__steps(q)) sched__become(q, sched__is_over(q) ? SCHED_OVER : SCHED_READY);
    q->n_guess = q->snap_at = 0;
    q->tried = false;
}

/* Whether it is held back where its next token would come. */
static bool sched__rests(const sched_seq *q) {
    return q->held_back && q->kv && (q->masks || (q->a.n_tok && q->done == (int)q->ids.n - 1));
}

/* Frees what a sequence needs to go on; its answer stays. */
static void sched__seq_stop(sched_seq *q) {
    kv_seq_free(q->kv);
    spec_seq_free(q->guess);
    samp_free(q->sm);
    constrain_seq_free(q->held);
    tok_ids_drop(&q->ids);
    tok_ids_drop(&q->ends);
    mem_free(q->raw);
    diffuse_free(q->masks);
    embed_free(q->text);
}

static void sched__list_free(sched_seq *q) {
    for (sched_seq *next; q; q = next) {
        next = q->next;
        sched__seq_stop(q);
        gen_answer_drop(&q->a);
        mem_free(q);
    }
}

/* --- the schedule --- */

typedef struct {
    long long steps;
    long long prefill;                                /* rows of prompts */
    long long decode;                                 /* rows of answers, without guesses */
    long long cached;                                 /* tokens of prompts that the cache had */
    long long preempted;                              /* how often a sequence was preempted */
    long long ended;                                  /* sequences */
    long long written;                                /* tokens of answers */
    double    busy_s;                                 /* seconds in steps */
    double    slots;                                  /* positions of held blocks, summed over steps */
    double    waste;                                  /* those without a token */
    hist      ttft;                                   /* seconds to the first token, of each answer */
    hist      tpot;                                   /* mean seconds of each further token, of each answer */
    hist      itl;                                    /* seconds between two tokens */
    hist      e2e;                                    /* seconds of each answer */
} sched_stats;

typedef struct {
    engine      *eng;
    spec        *guesser;                             /* NULL: no guesses are made */
    spec_seq   **asks;                                /* [n_seqs] sequences that decode in this step */
    sched_opts   o;
    sched_seq  **run;                                 /* [n_run] in flight, oldest first */
    int          n_run;
    sched_seq  **out;                                 /* [n_out] those whose logits the step gives */
    int          n_out;
    bool         filling;                             /* fixed: waiting sequences may still join */
    bool         masks_reported;                      /* sched__report_masks() has written its line */
    sched_seq   *first, *last;                        /* waiting, in order */
    sched_seq   *ended, *ended_last;                  /* their answers have not been taken */
    int          n_waiting;
    uint64_t     n_requests;                          /* added so far */
    int64_t     *lack;                                /* [n_group of the cache] blocks that sequences in flight lack */
    float       *logits;                              /* [rows that asked for them, V] of the step */
    const int32_t *ids;                               /* tokens to pick, in place of logits; NULL: there are logits */
    tok_ids      never;                               /* ids never picked */
    tok_ids      endless;                             /* the same with those that end a text */
    double       row_s;                               /* seconds for each row of a step, lately; 0: not known */
    sched_stats  st;
} sched;

static void sched__append(sched_seq **first, sched_seq **last, sched_seq *q) {
    q->next = NULL;
    if (*last) (*last)->next = q;
    else *first = q;
    *last = q;
}

static sched_seq *sched__pop(sched_seq **first, sched_seq **last) {
    sched_seq *q = *first;
    if (q && !(*first = q->next)) *last = NULL;
    return q;
}

/* Moves an answer that has ended to *a, which its caller drops. False: there is none. */
static bool sched_take(sched *sc, gen_answer *a) {
    sched_seq *q = sched__pop(&sc->ended, &sc->ended_last);
    if (!q) return false;
    *a = q->a;
    mem_free(q);
    return true;
}

/* Frees it with all its sequences; engine and guesser stay. NULL is allowed. */
static void sched_free(sched *sc) {
    if (!sc) return;
    for (int i = 0; i < sc->n_run; i++) {
        sc->run[i]->next = NULL;
        sched__list_free(sc->run[i]);
    }
    sched__list_free(sc->first);
    for (gen_answer a; sched_take(sc, &a);) gen_answer_drop(&a);
    tok_ids_drop(&sc->never);
    tok_ids_drop(&sc->endless);
    mem_free_all(sc->run, sc->out, sc->asks, sc->lack, sc);
}

/* The engine is one for as many sequences; guesser: for the same number of them, NULL: no guesses. NULL: why not is in e. */
static sched *sched_new(engine *eng, spec *guesser, const sched_opts *o, err_t *e) {
    sched *sc = mem_new(1, sizeof *sc);
    sc->eng = eng;
    sc->guesser = o->fixed || model_diffuses(&eng->m) ? NULL : guesser;
    sc->o = *o;
    sc->o.n_seqs = min_int(sc->o.n_seqs, eng->max_out);
    sc->run = mem_new((size_t)sc->o.n_seqs, sizeof *sc->run);
    sc->out = mem_new((size_t)sc->o.n_seqs, sizeof *sc->out);
    sc->asks = mem_new((size_t)sc->o.n_seqs, sizeof *sc->asks);
    sc->lack = mem_new((size_t)eng->kv->n_group, sizeof *sc->lack);
    if (gen_banned(eng, false, &sc->never, e) && gen_banned(eng, true, &sc->endless, e)) return sc;
    sched_free(sc);
    return NULL;
}

/* Whether a model that reads texts as a whole can answer the request. */
static bool sched__answers_whole(const sched *sc, const gen_request *r, err_t *e) {
    const char *arch = sc->eng->m.hp.desc->name, *what = NULL;
    if (r->gen.context_shift)
        return err_set(e, EXIT_INPUT, "--context-shift: a %s model reads its text as a whole, expected no shift", arch);
    if (sc->eng->m.hp.n_enc && sc->eng->m.hp.start < 0 && tok_bos(sc->eng->v) < 0)
        return err_set(e, EXIT_INPUT, "%s: no %s.decoder_start_token_id and no BOS token, expected one of them", sc->eng->g->path,
                       arch);
    if (!model_diffuses(&sc->eng->m)) return true;
    if (tok_mask(sc->eng->v) < 0)
        return err_set(e, EXIT_INPUT, "%s: no tokenizer.ggml.mask_token_id, which a %s model needs", sc->eng->g->path, arch);
    if (r->prompt->n >= (size_t)sc->eng->n_ctx)
        return err_set(e, EXIT_INPUT, "the prompt has %zu tokens and leaves no room for an answer in a context of %d (-c)",
                       r->prompt->n, sc->eng->n_ctx);
    if (r->gen.diffuse.block && r->gen.diffuse.eps > 0)
        return err_set(e, EXIT_INPUT, "--diffusion-block-length and --diffusion-eps both, expected one of them");
    if (r->constrain) what = "a constraint: its tokens come in any order";
    else if (r->logprobs) what = "log-probabilities: its tokens come in any order";
    return !what || err_set(e, EXIT_INPUT, "a %s model decodes by diffusion, which has no use for %s", arch, what);
}

/* Whether a model that reads texts as a whole can make the vectors of the request while it answers others. */
static bool sched__embeds_whole(const sched *sc, const gen_request *r, err_t *e) {
    const char *arch = sc->eng->m.hp.desc->name;
    if (fwd_gives(sc->eng->f) == FWD_HIDDEN) return true;
    if (sc->eng->m.hp.n_enc)
        return err_set(e, EXIT_INPUT, "a %s model that answers texts makes no vectors, expected a t5encoder model", arch);
    return r->prompt->n <= (size_t)sc->eng->max_out ||
           err_set(e, EXIT_INPUT, "a text of %zu tokens, expected at most %d: a %s model reads it in one step (-b)", r->prompt->n,
                   sc->eng->max_out, arch);
}

/* Every completion of the request waits for its turn. Returns the first one's answer, which grows with the steps and
 * stays until it is taken; the request's prompt has to live as long. NULL: what is asked for is not possible, and e
 * says why. */
static const gen_answer *sched_add(sched *sc, const gen_request *r, err_t *e) {
    sched_seq *first = NULL;
    ASSERT(r->n > 0 && (r->logprobs || !r->top));
    if (!gen_fits(sc->eng, r->prompt, e) || !samp_check(&r->samp, sc->eng->m.hp.n_vocab, e)) return NULL;
    if (sc->eng->whole && !(r->embeds ? sched__embeds_whole : sched__answers_whole)(sc, r, e)) return NULL;
    sc->n_requests++;
    if (r->embeds) fwd_keep_hidden(sc->eng->f);
    for (int i = 0; i < r->n; i++) {
        sched_seq *q = mem_new(1, sizeof *q);
        q->r = *r;
        q->r.index = r->index + i;
        q->r.keep = i + 1 < r->n ? INT_MAX : r->keep;
        q->request = sc->n_requests;
        q->a = (gen_answer){.owner = r->owner, .index = q->r.index, .end_token = -1, .top = r->top,
                            .n_prompt = (int)r->prompt->n};
        str_put(&q->a.text, "");
        sc->n_waiting++;
        sched__append(&sc->first, &sc->last, q);
        if (!first) first = q;
    }
    return &first->a;
}

/* Whether one more request would soon find a place. */
static bool sched_has_room(const sched *sc) { return sc->n_run + sc->n_waiting <= sc->o.n_seqs; }

/* Whether nothing is left to do. */
static bool sched_idle(const sched *sc) { return !sc->n_run && !sc->first; }

/* Before a text comes in whose vector is wanted. */
static void sched__start_text(sched *sc, sched_seq *q) {
    for (size_t i = 0; i < q->r.prompt->n; i++) tok_ids_add(&q->ids, q->r.prompt->id[i]);
    q->n_prompt = (int)q->ids.n;
    q->shift = -1;
    if (sc->eng->m.hp.n_enc) q->source = q->n_prompt;
    q->text = embed_new(&sc->eng->m, &q->r.embed, q->n_prompt);
}

/* The stream of the answer's text, at its beginning. */
static tok_stream sched__stream(const sched *sc, const sched_seq *q) {
    const tok_ids *prompt = q->r.prompt;
    tok_stream     s;
    tok_stream_init(&s, sc->eng->v, sc->eng->m.hp.n_enc || (prompt->n == 1 && prompt->id[0] == tok_bos(sc->eng->v)));
    s.special = q->r.gen.special_out;
    s.shown = q->r.gen.shown;
    return s;
}

/* An encoder's text ends with the end token, where the vocabulary says so; a token that no text has begins the answer to it. */
static void sched__answer_begins(const sched *sc, sched_seq *q) {
    const tok_vocab *v = sc->eng->v;
    const int32_t    start = sc->eng->m.hp.start;
    if (tok_add_eos(v) && q->ids.id[q->ids.n - 1] != tok_eos(v)) tok_ids_add(&q->ids, tok_eos(v));
    q->source = (int)q->ids.n;
    tok_ids_add(&q->ids, start < 0 ? tok_bos(v) : start);
}

/* Writes a line, once in a run, where a step has fewer logits than an answer, or a block of it, has masks. */
static void sched__report_masks(sched *sc, const diffuse *d) {
    const int n = d->o.block ? min_int(d->o.block, d->n) : d->n;
    if (sc->masks_reported || n <= sc->eng->max_out) return;
    sc->masks_reported = true;
    log_info("%s of %d masks, logits for %d in a step: %s %d reserves them all", d->o.block ? "a block" : "an answer", n,
             sc->eng->max_out, d->o.block ? "--diffusion-block-length" : "-n", n);
}

/* The answer as masks. */
static void sched__mask(sched *sc, sched_seq *q) {
    const gen_opts *o = &q->r.gen;
    const int64_t   most = o->n_predict < 0 ? DIFFUSE_LENGTH : max_i64(o->n_predict, 1), room = sc->eng->n_ctx - q->n_prompt;
    q->masks = diffuse_new(&o->diffuse, (int)min_i64(most, room), tok_mask(sc->eng->v), sc->eng->m.hp.shifts,
                           q->r.seed + (uint64_t)q->r.index);
    sched__report_masks(sc, q->masks);
    q->cap = q->masks->n + 1;
    q->a.tok = mem_new((size_t)q->cap, sizeof *q->a.tok);
    q->raw = mem_aligned((size_t)sc->eng->m.hp.n_vocab, sizeof *q->raw);
}

/* Before a sequence comes in for the first time: its tokens, and a sampler that has seen the prompt. */
static void sched__start(sched *sc, sched_seq *q) {
    const tok_ids *prompt = q->r.prompt;
    const gen_opts *o = &q->r.gen;
    const int      n = (int)prompt->n, keep = o->n_keep < 0 || o->n_keep > n ? n : (int)o->n_keep;
    const bool     begins = prompt->id[0] == tok_bos(sc->eng->v);
    err_t          none = {0};
    q->sm = samp_new(&q->r.samp, sc->eng->m.hp.n_vocab, q->r.seed + (uint64_t)q->r.index, 0, &none);
    ASSERT(q->sm);
    for (int i = 0; i < n; i++) {
        tok_ids_add(&q->ids, prompt->id[i]);
        if (!sc->eng->m.hp.n_enc) samp_accept(q->sm, prompt->id[i], true);
    }
    if (sc->eng->m.hp.n_enc) sched__answer_begins(sc, q);
    q->n_prompt = (int)q->ids.n;
    if (model_diffuses(&sc->eng->m)) sched__mask(sc, q);
    q->shift = !o->context_shift ? -1 : keep == 0 && begins ? 1 : keep;   /* a text without its start token is another text */
    q->stream = sched__stream(sc, q);
    for (size_t i = 0; o->stop_ids && o->ends && i < o->ends->n; i++) tok_ids_add(&q->ends, o->ends->id[i]);
    for (size_t i = 0; o->stop_ids && i < o->stop_ids->n; i++) tok_ids_add(&q->ends, o->stop_ids->id[i]);
    if (q->r.constrain)
        q->held = constrain_seq_new(q->r.constrain, q->stream.strip, o->stop_ids ? &q->ends : o->ends, q->r.share);
    q->thought = gen_thought_new(&o->think);
    q->thinks = o->think.inside;
    if (q->r.logprobs) q->raw = mem_aligned((size_t)sc->eng->m.hp.n_vocab, sizeof *q->raw);
    if (sc->guesser) q->guess = spec_seq_new(sc->guesser, &q->ids, q->sm, o->ignore_eos ? &sc->endless : &sc->never, q->held);
}

static void sched__leave(sched *sc, int i) {
    memmove(sc->run + i, sc->run + i + 1, (size_t)(--sc->n_run - i) * sizeof *sc->run);
}

/* The answer is complete, cancelled or failed: the sequence's place and blocks are free, its figures are counted. */
static void sched__end(sched *sc, sched_seq *q) {
    const gen_answer *a = &q->a;
    int               i = 0;
    while (sc->run[i] != q) i++;
    sched__leave(sc, i);
    if (gen_finish_names[a->finish]) spec_finished(sc->guesser, &q->ids, q->n_prompt);
    sched__seq_stop(q);
    sched__become(q, SCHED_ENDED);
    sc->st.ended++;
    if (a->t_last > 0) hist_add(&sc->st.e2e, a->t_last - a->t_start);
    if (a->n_tok > 1) hist_add(&sc->st.tpot, (a->t_last - a->t_first) / (a->n_tok - 1));
    sched__append(&sc->ended, &sc->ended_last, q);
}

/* The same, where the cache has no room for it even alone. */
static void sched__end_full(sched *sc, sched_seq *q) {
    kv_full(sc->eng->kv, (int)q->ids.n, &q->a.err);
    q->a.finish = GEN_FAILED;
    sched__end(sc, q);
}

/* Takes a sequence out of those that wait. */
static void sched__take_waiting(sched *sc, sched_seq *q) {
    sched_seq *before = NULL;
    for (sched_seq *at = sc->first; at != q; at = at->next) before = at;
    if (before) before->next = q->next;
    else sc->first = q->next;
    if (sc->last == q) sc->last = before;
    sc->n_waiting--;
}

/* Ends an answer as it is; it keeps the text that it has. */
static void sched__cancel_one(sched *sc, sched_seq *q) {
    if (!q->a.finish) {
        if (q->sm) tok_stream_flush(&q->stream, &q->a.text);
        q->a.finish = GEN_CANCELLED;
    }
    if (q->state != SCHED_WAITING) {
        sched__end(sc, q);
        return;
    }
    sched__take_waiting(sc, q);
    sched__seq_stop(q);
    sched__become(q, SCHED_ENDED);
    sched__append(&sc->ended, &sc->ended_last, q);
}

/* Ends every answer that is not complete, as it is. Between two steps, as the next three. */
static void sched_cancel(sched *sc) {
    while (sc->first) sched__cancel_one(sc, sc->first);
    while (sc->n_run) sched__cancel_one(sc, sc->run[0]);
}

/* The same for the requests of this owner alone. */
static void sched_cancel_of(sched *sc, const void *owner) {
    for (sched_seq *q = sc->first, *next; q; q = next) {
        next = q->next;
        if (q->r.owner == owner) sched__cancel_one(sc, q);
    }
    for (int i = sc->n_run - 1; i >= 0; i--)
        if (sc->run[i]->r.owner == owner) sched__cancel_one(sc, sc->run[i]);
}

/* While hold is set, completion `index` of the owner's requests gets no more tokens, but for those of the step in which it reads
 * its prompt. */
static void sched_pause(sched *sc, const void *owner, int index, bool hold) {
    for (sched_seq *q = sc->first; q; q = q->next)
        if (q->r.owner == owner && q->r.index == index) q->held_back = hold;
    for (int i = 0; i < sc->n_run; i++)
        if (sc->run[i]->r.owner == owner && sc->run[i]->r.index == index) sc->run[i]->held_back = hold;
}

/* Frees its blocks. Sequences with the same prefix find them in the cache until they are reused. */
static void sched__yield(sched *sc, sched_seq *q) {
    q->n_guess = 0;
    if (!q->kv) return;
    q->kv->keep = INT_MAX;
    kv_seq_free(q->kv);
    q->kv = NULL;
    q->done = 0;
    spec_draft_reset(q->guess);
    if (q->text) embed_restart(q->text);
    if (q->a.n_tok) return;
    sc->st.cached -= q->a.n_cached;
    q->a.n_cached = q->a.n_read = 0;
}

/* Frees the blocks of a sequence, which then waits before all others; in a static batch one that has ended keeps its
 * place, without a row. */
static void sched__preempt(sched *sc, int i) {
    sched_seq *q = sc->run[i];
    sched__yield(sc, q);
    if (sched__is_over(q)) return;
    sched__leave(sc, i);
    sched__become(q, SCHED_WAITING);
    q->tried = false;
    sc->st.preempted++;
    q->next = sc->first;
    sc->first = q;
    if (!sc->last) sc->last = q;
    sc->n_waiting++;
}

/* How little it costs to preempt it. */
static int sched__spare(const sched_seq *q) { return sched__is_over(q) ? 2 : sched__rests(q); }

/* The next to be preempted: the youngest that holds blocks and has no rows in this step, ended ones first, then those that are
 * held back; -1: there is none. */
static int sched__youngest(const sched *sc) {
    int best = -1;
    for (int i = 0; i < sc->n_run; i++) {
        const sched_seq *q = sc->run[i];
        if (q->kv && !sched__steps(q) && (best < 0 || sched__spare(q) >= sched__spare(sc->run[best]))) best = i;
    }
    return best;
}

/* Reserves positions below `to`, for which younger sequences are preempted. False: it was itself the youngest and has
 * been preempted, or there is no other. */
static bool sched__reserve(sched *sc, sched_seq *q, int to) {
    while (!kv_reserve(q->kv, to)) {
        const int i = sched__youngest(sc);
        if (sc->run[i] == q && sc->n_run == 1) return false;
        const bool own = sc->run[i] == q;
        sched__preempt(sc, i);
        if (own) return false;
    }
    return true;
}

/* Rows of the next step so far. */
static int sched__n_rows(const sched *sc) { return fwd_rows(sc->eng->f); }

/* Whether q uses the prefix tree, for what it computes and for what others have computed: not where all of its own rows
 * are needed, nor where those of a text depend on all of it. */
static bool sched__shares(const sched_seq *q) { return !q->source && !q->masks && (!q->r.embeds || !q->text || !q->text->whole); }

/* Adds rows of a text for positions [from, q->kv->n), which are reserved. */
static void sched__text_rows(sched *sc, sched_seq *q, int from) {
    fwd *f = sc->eng->f;
    sched__enter_step(q);
    q->at = f->batch.n_out;
    q->row = f->batch.n;
    q->from = from;
    for (int i = from; i < q->kv->n; i++) fwd_add(f, q->kv, q->ids.id[i], i, embed_wants(q->text, i) ? fwd_gives(f) : 0);
    q->n_rows = f->batch.n_out - q->at;
    if (sched__shares(q)) kv_publish(q->kv, q->ids.id);
    const bool last = q->kv->n == q->n_prompt;        /* with --pooling cls no row of the last chunk is needed */
    if (q->n_rows || last) sc->out[sc->n_out++] = q;
}

/* What a row asks for from which q's next token is picked. */
static unsigned sched__wants(const sched_seq *q) {
    return q->held || q->r.logprobs || !samp_takes_best(q->sm) ? FWD_LOGITS : FWD_ID;
}

/* Adds a row for each of the positions [from, q->kv->n), which are reserved. If they include the last token, rows for
 * the draft tokens follow, as long as the cache has room for them. */
static void sched__rows(sched *sc, sched_seq *q, int from) {
    fwd      *f = sc->eng->f;
    const int n = (int)q->ids.n;
    sched__enter_step(q);
    q->at = f->batch.n_out;
    q->row = f->batch.n;
    q->from = from;
    for (int i = from; i < q->kv->n; i++) fwd_add(f, q->kv, q->ids.id[i], i, i == n - 1 ? sched__wants(q) : 0);
    if (q->guess && !q->source) fwd_before(f, spec_before(q->guess, from));
    if (sched__shares(q)) kv_publish(q->kv, q->ids.id);
    if (q->kv->n < n) return;
    if (q->n_guess && !kv_reserve(q->kv, n + q->n_guess)) q->n_guess = 0;
    for (int i = 0; i < q->n_guess; i++) fwd_add(f, q->kv, q->guess->id[i], n + i, sched__wants(q));
    sc->out[sc->n_out++] = q;
}

/* The adapters of a request: its own or those of the run. */
static const dev_adapters *sched__adapters(const sched *sc, const sched_seq *q) {
    return q->r.adapters ? q->r.adapters : sc->eng->kv->adapters;
}

/* What they add: 0 is nothing. */
static uint64_t sched__added(const sched *sc, const sched_seq *q) {
    const dev_adapters *a = sched__adapters(sc, q);
    return a && a->n ? a->mark : 0;
}

/* The first completion of q's request, which reads the prompt for the others; NULL: it has left, has given up its
 * blocks, or one of the two has dropped a part of the prompt. */
static const sched_seq *sched__reader(const sched *sc, const sched_seq *q) {
    const sched_seq *first = NULL;
    for (int i = 0; i < sc->n_run && !first; i++)
        if (sc->run[i]->request == q->request) first = sc->run[i];
    if (!first || q->masks || first->r.index >= q->r.index || (sched__is_over(first) && !first->kv)) return NULL;
    return first->n_prompt >= first->a.n_prompt && q->n_prompt >= q->a.n_prompt ? first : NULL;
}

/* The last border that both texts have after the tokens with which they begin alike. */
static int sched__border(const sched *sc, const sched_seq *a, const sched_seq *b) {
    const tok_ids *x = a->sm ? &a->ids : a->r.prompt, *y = b->sm ? &b->ids : b->r.prompt;
    const size_t   n = sched__added(sc, a) == sched__added(sc, b) ? min_size(x->n, y->n) : 0;
    size_t         same = 0;
    while (same + 1 < n && x->id[same] == y->id[same]) same++;
    return (int)same - (int)same % sc->eng->kv->opts.block;
}

/* With recurrent states: whether an older sequence, which has read at least as much, reads what both begin with. It
 * makes a snapshot where they part. */
static bool sched__awaits(const sched *sc, const sched_seq *q) {
    bool yes = false;
    if (!kv_has_states(sc->eng->kv)) return false;
    for (int i = 0; !yes && i < sc->n_run && sc->run[i] != q; i++) {
        const sched_seq *r = sc->run[i];
        yes = r->kv && !sched__is_over(r) && r->done >= q->done && r->done < sched__border(sc, q, r);
    }
    return yes;
}

/* The next position after `at` where the text of q parts from one that has still to be read; INT_MAX: there is none. */
static int sched__parting(const sched *sc, const sched_seq *q, int at) {
    int least = INT_MAX;
    for (int i = 0; i < sc->n_run; i++) {
        const int border = sc->run[i] == q || sc->run[i]->done > at ? 0 : sched__border(sc, q, sc->run[i]);
        if (border > at) least = min_int(least, border);
    }
    for (const sched_seq *o = sc->first; o; o = o->next) {
        const int border = sched__border(sc, q, o);
        if (border > at) least = min_int(least, border);
    }
    return least;
}

/* Where q should have its next snapshot after `at`; INT_MAX: nowhere. *staying: how long. */
static int sched__mark(const sched *sc, const sched_seq *q, int at, kv_staying *staying) {
    const kv_cache *kv = sc->eng->kv;
    const int       next = kv_next_mark(kv, at, (int)q->ids.n), part = next == INT_MAX ? next : sched__parting(sc, q, at);
    const int       first = min_int(part, next);
    *staying = first == part || (first == kv_last_mark(kv, (int)q->ids.n) && first < q->n_prompt) ? KV_KEPT : KV_WEAK;
    return first;
}

/* Ends a chunk of a prompt so that it makes at most one snapshot. */
static int sched__cut(const sched *sc, sched_seq *q, int from, int to) {
    kv_staying none;
    if (!sched__shares(q)) return to;
    const int mark = sched__mark(sc, q, from, &q->staying);
    if (mark > to) return to;
    q->snap_at = mark;
    return mark < to && sched__mark(sc, q, mark, &none) <= to ? mark : to;
}

/* The snapshots of the step, once all its rows have their places. */
static void sched__snapshots(sched *sc) {
    for (int i = 0; i < sc->n_run; i++) {
        const sched_seq *q = sc->run[i];
        if (sched__steps(q) && q->snap_at) kv_snapshot(q->kv, q->snap_at, q->staying);
    }
}

/* Takes what the cache already has of the sequence: the blocks of the completion that has read the same prompt, or
 * those of equal tokens. False: it has to wait for a sequence that computes what it needs. */
static bool sched__begin(sched *sc, sched_seq *q) {
    bool wait = false;
    if (!q->kv) {
        const sched_seq *reader = sched__reader(sc, q);
        if (reader && reader->done < q->n_prompt) return false;
        q->kv = reader ? kv_fork(reader->kv) : kv_seq_of(sc->eng->kv, sched__adapters(sc, q));
        if (reader) kv_truncate(q->kv, q->n_prompt - 1);
        q->kv->keep = q->r.keep;
        q->kv->source = q->source;
    }
    if (!sched__shares(q) && !q->source) return true;
    const int got = (q->source ? q->kv->n : kv_match_prefix(q->kv, q->ids.id, (int)q->ids.n - 1, &wait)) - q->done;
    q->done += got;
    const int own = min_int(got, q->a.n_prompt - 1 - q->a.n_cached);      /* without what the answer of a pair begins with */
    if (!q->a.n_tok) q->a.n_cached += own, sc->st.cached += own;
    return !wait && !sched__awaits(sc, q);
}

/* Whether one row continues the sequence. */
static bool sched__decodes(const sched *sc, const sched_seq *q) {
    const int n = (int)q->ids.n;
    return q->kv && !q->masks && q->done == n - 1 && q->a.n_tok && n <= sc->eng->n_ctx && !q->held_back;
}

/* Whether a full context drops tokens and the answer goes on: there are some besides those that are kept and the last one. */
static bool sched__can_shift(const sched *sc, const sched_seq *q) { return q->shift >= 0 && q->shift < sc->eng->n_ctx - 1; }

/* Tokens that the answer may still have; -1: any number. */
static int64_t sched__left(const sched *sc, const sched_seq *q) {
    const int64_t most = q->r.gen.n_predict, room = sc->eng->n_ctx + INT64_C(1) - (int64_t)q->ids.n;
    if (sched__can_shift(sc, q)) return most < 0 ? -1 : most - q->a.n_tok;
    return most < 0 ? room : min_i64(most - q->a.n_tok, room);
}

/* Guesses for the sequences that decode, as many as their answers and the context have room for. */
static void sched__guess(sched *sc) {
    int n = 0, others = 0;
    for (int i = 0; i < sc->n_run; i++) {
        sched_seq *q = sc->run[i];
        if (!sched__decodes(sc, q)) {
            others += sched__rests(q) ? 0 : (int)q->ids.n - q->done;
            continue;
        }
        const int64_t most = q->r.gen.n_predict, room = sc->eng->n_ctx - (int64_t)q->ids.n;
        q->guess->room = (int)min_i64(most < 0 ? INT_MAX : most - q->a.n_tok - 1, room);
        q->guess->place = (uint64_t)q->a.n_tok;
        q->guess->left = sched__left(sc, q);
        q->guess->own = q->kv;
        sc->asks[n++] = q->guess;
    }
    spec_propose(sc->guesser, sc->asks, n, min_int(others, sc->eng->chunk));
    for (int i = 0; i < sc->n_run; i++)
        if (sched__decodes(sc, sc->run[i])) sc->run[i]->n_guess = sc->run[i]->guess->n;
}

/* Adds one row of every sequence that is being continued, and its guesses. */
static void sched__decode(sched *sc) {
    if (sc->guesser) sched__guess(sc);
    for (int i = 0; i < sc->n_run; i++) {
        sched_seq *q = sc->run[i];
        const int  n = (int)q->ids.n;
        if (!sched__decodes(sc, q)) continue;
        q->snap_at = n - n % sc->eng->kv->opts.block;
        q->staying = KV_ROLLING;
        if (sched__reserve(sc, q, n)) sched__rows(sc, q, n - 1);
        else if (q->kv) sched__end_full(sc, q);
        if (i < sc->n_run && sc->run[i] != q) i--;
    }
}

/* Rows that a step may have: fewer where sequences wait for their next token. */
static int sched__budget(const sched *sc) {
    const int had = sched__n_rows(sc);
    int       most = had + min_int(sc->eng->chunk, sc->eng->n_batch - had);
    if (had && sc->o.live)
        most = min_int(most, had + max_int(SCHED_LIVE_ROWS * SCHED_LIVE_FEW / max_int(had, SCHED_LIVE_FEW), SCHED_LIVE_LEAST));
    if (!had || sc->row_s <= 0) return most;
    const double n = SCHED_STEP_S / sc->row_s;
    return n >= most ? most : min_int(max_int((int)n, had + SCHED_ROWS_LEAST), most);
}

/* Where the rows of a text that start at `from` end so that each sequence that has still to get rows in this step may have one
 * with logits. */
static int sched__text_end(const sched *sc, const sched_seq *q, int from, int to) {
    int left = sc->eng->max_out - sc->eng->f->batch.n_out, at = from;
    if (fwd_gives(sc->eng->f) == FWD_HIDDEN) return to;
    for (int i = 0; i < sc->n_run; i++) left -= sc->run[i] != q && sc->run[i]->state == SCHED_READY;
    while (at < to && (!embed_wants(q->text, at) || left-- > 0)) at++;
    return at < to && sc->eng->whole ? from : at;     /* a whole text in this step or in a later one */
}

/* Where rows from `from` on end that must be in one step; 0: none must. A text that a decoder answers does not wait until no
 * sequence is continued: the step has space for it. */
static int sched__whole(const sched *sc, const sched_seq *q, int from) {
    if (q->source) return from < q->source ? q->source : 0;
    return sc->eng->m.hp.causal ? 0 : (int)q->ids.n;
}

/* The first mask from `from` on that needs a pick; the length of the answer: there is none. */
static int sched__next_mask(const sched_seq *q, int from) {
    while (from < q->masks->n && !diffuse_wants(q->masks, from)) from++;
    return from;
}

/* Adds the prompt and the answer with its masks, if the step has space for all of it and for some logits. Later steps give the
 * logits that this one has no space for. */
static void sched__see_all(sched *sc, sched_seq *q) {
    fwd       *f = sc->eng->f;
    const int  n = q->n_prompt + q->masks->n, shift = sc->eng->m.hp.shifts, left = sc->eng->max_out - f->batch.n_out;
    int        asks = 0, to = q->picked;              /* masks before `to` have a pick afterwards */
    while (asks < left && (to = sched__next_mask(q, to)) < q->masks->n) asks++, to++;
    if (sched__n_rows(sc) + n > sc->eng->n_batch || left <= 0 || !kv_reserve(q->kv, n)) return;
    sched__enter_step(q);
    q->at = f->batch.n_out;
    q->n_rows = asks;
    q->row = f->batch.n;
    q->from = 0;
    for (int i = 0; i < n; i++) {
        const int  at = i + shift - q->n_prompt;      /* of the answer: the token that logits of this row are for */
        const bool asked = at >= q->picked && at < to && diffuse_wants(q->masks, at);
        fwd_add(f, q->kv, i < q->n_prompt ? q->ids.id[i] : q->masks->token[i - q->n_prompt], i, asked ? FWD_LOGITS : 0);
    }
    sc->out[sc->n_out++] = q;
}

/* Adds as much of the prompt as the step has rows left for, cut at the end of a block, so that others can share it. */
static void sched__read(sched *sc, sched_seq *q, int budget) {
    const int block = sc->eng->kv->opts.block, n = (int)q->ids.n, from = q->done, had = sched__n_rows(sc);
    const int whole = sched__whole(sc, q, from), room = q->source ? sc->eng->n_batch : 0;
    int       to = min_int(from + budget - had, n);
    if (to < whole) to = !had || had + whole - from <= room ? whole : from;   /* in this step alone, or in a later one */
    if (q->text) to = sched__text_end(sc, q, from, to);
    if (to < n && to - to % block > max_int(from, whole)) to -= to % block;
    to = sched__cut(sc, q, from, to);
    if (to > from && kv_reserve(q->kv, to)) (q->text ? sched__text_rows : sched__rows)(sc, q, from);
}

/* Adds the blocks that a sequence still lacks. */
static void sched__add_lack(const sched *sc, const sched_seq *q) {
    if (sched__is_over(q) && !q->kv) return;
    if (!q->kv && sched__reader(sc, q)) kv_add_fork(sc->eng->kv, sc->lack);
    else kv_add_demand(sc->eng->kv, q->kv, sched__adapters(sc, q), q->ids.id, (int)q->ids.n, sc->lack);
}

/* The first that waits and is not held back; NULL: there is none. */
static sched_seq *sched__first(const sched *sc) {
    sched_seq *q = sc->first;
    while (q && q->held_back) q = q->next;
    return q;
}

/* Makes place for a sequence that waits where all places are taken, one of them by a sequence that is held back. */
static void sched__make_place(sched *sc) {
    const int i = sc->n_run == sc->o.n_seqs && sched__first(sc) ? sched__youngest(sc) : -1;
    if (i >= 0 && sched__rests(sc->run[i])) sched__preempt(sc, i);
}

/* Admits waiting sequences, as long as there are places, rows that they could fill (in a live run also without these), and blocks
 * for their prompts beside those that sequences in flight lack. */
static void sched__admit(sched *sc, int budget) {
    int ahead = 0;
    sched__make_place(sc);
    memset(sc->lack, 0, (size_t)sc->eng->kv->n_group * sizeof *sc->lack);
    for (int i = 0; i < sc->n_run; i++) {
        if (!sched__steps(sc->run[i])) ahead += (int)sc->run[i]->ids.n - sc->run[i]->done;
        sched__add_lack(sc, sc->run[i]);
    }
    if (!sc->n_run) sc->filling = true;
    for (sched_seq *q; (q = sched__first(sc)) && sc->n_run < sc->o.n_seqs && (sc->filling || !sc->o.fixed);) {
        if (!sc->o.live && ahead >= budget - sched__n_rows(sc)) break;
        if (!q->ids.n) (q->r.embeds ? sched__start_text : sched__start)(sc, q);
        sched__add_lack(sc, q);
        if (sc->n_run && !kv_meets(sc->eng->kv, sc->lack)) {
            const int i = sched__youngest(sc);
            if (i < 0 || !sched__rests(sc->run[i])) break;
            sched__preempt(sc, i);                    /* what is held back gives its blocks */
            sched__admit(sc, budget);
            return;
        }
        sched__begin(sc, q);
        sched__take_waiting(sc, q);
        sched__become(q, SCHED_READY);
        sc->run[sc->n_run++] = q;
        if (q->a.t_start <= 0) q->a.t_start = clock_now();
        ahead += (int)q->ids.n - q->done;
    }
    sc->filling = sc->filling && sc->n_run < sc->o.n_seqs && sc->first;
}

/* A static batch ends with its last answer; the sequences that wait are the next one. */
static void sched__dismiss(sched *sc) {
    bool all = sc->o.fixed;
    for (int i = 0; i < sc->n_run; i++) all = all && sched__is_over(sc->run[i]);
    while (all && sc->n_run) sched__end(sc, sc->run[0]);
}

/* The first whose answer has not ended; there is one. */
static sched_seq *sched__oldest(const sched *sc) {
    int i = 0;
    while (sched__is_over(sc->run[i])) i++;
    return sc->run[i];
}

/* Whether it may read in this step: it was not asked before. */
static bool sched__may_read(const sched_seq *q) { return q->state == SCHED_READY && !q->tried && !sched__rests(q); }

static void sched__try_read(sched *sc, sched_seq *q, int budget) {
    q->tried = true;
    if (!sched__begin(sc, q)) return;
    if (q->masks) sched__see_all(sc, q);
    else sched__read(sc, q, budget);
}

/* The one that has the least to read, but for q; NULL: there is none. */
static sched_seq *sched__shortest(const sched *sc, const sched_seq *but) {
    sched_seq *best = NULL;
    for (int i = 0; i < sc->n_run; i++) {
        sched_seq *q = sc->run[i];
        if (q != but && sched__may_read(q) && (!best || (int)q->ids.n - q->done < (int)best->ids.n - best->done)) best = q;
    }
    return best;
}

/* Prompts are read, the oldest first. In a live run it has half of the rows, and short prompts have the others: they do not wait
 * until a long one is read. */
static void sched__read_some(sched *sc, int budget) {
    sched_seq *oldest = NULL;
    for (int i = 0; i < sc->n_run && sched__n_rows(sc) < budget && !oldest; i++) {
        if (!sched__may_read(sc->run[i])) continue;
        if (sc->o.live) oldest = sc->run[i];
        else sched__try_read(sc, sc->run[i], budget);
    }
    if (!oldest) return;
    const int left = budget - sched__n_rows(sc);
    const int own = min_int((int)oldest->ids.n - oldest->done, sc->eng->whole ? left : (left + 1) / 2);
    for (sched_seq *q; sched__n_rows(sc) < budget - own && (q = sched__shortest(sc, oldest));)
        sched__try_read(sc, q, budget - own);
    sched__try_read(sc, oldest, budget);
    for (sched_seq *q; sched__n_rows(sc) < budget && (q = sched__shortest(sc, NULL));) sched__try_read(sc, q, budget);
}

/* Whether all sequences in flight are held back. */
static bool sched__all_rest(const sched *sc) {
    bool all = true;
    for (int i = 0; i < sc->n_run; i++) all = all && sched__rests(sc->run[i]);
    return all;
}

/* Fills the batch of the next step. Returns its rows; 0: nothing is left to do but what is held back. */
static int sched__fill_batch(sched *sc) {
    while (!g_interrupt) {
        sched__dismiss(sc);
        fwd_begin(sc->eng->f);
        sc->n_out = 0;
        for (int i = 0; i < sc->n_run; i++) sched__leave_step(sc->run[i]);
        sched__decode(sc);
        const int budget = sched__budget(sc);
        sched__admit(sc, budget);
        sched__read_some(sc, budget);
        if (sched__n_rows(sc) || !sc->n_run || (sched__all_rest(sc) && !sched__first(sc))) return sched__n_rows(sc);
        const int i = sched__youngest(sc);
        sched_seq *q = sched__oldest(sc);
        if (i >= 0 && (sc->run[i] != q || sched__rests(q))) sched__preempt(sc, i);
        else sched__end_full(sc, q);                  /* alone in the cache, and still too long */
    }
    return 0;
}

/* --- tokens --- */

/* Log-probabilities by the model, before the sampler, at token i_gen of the answer: stores those of the likeliest
 * tokens, returns that of the picked one. */
static float sched__score(sched_seq *q, int n_vocab, int32_t picked, int i_gen) {
    const double norm = (double)q->raw[picked] - gen_logprob(q->raw, n_vocab, picked);
    int32_t     *id = q->a.top_id + (size_t)i_gen * (size_t)q->r.top;
    float       *lp = q->a.top_lp + (size_t)i_gen * (size_t)q->r.top;
    int          n = 0;
    for (int32_t i = 0; q->r.top && i < n_vocab; i++) {
        int at = min_int(n, q->r.top);
        while (at > 0 && lp[at - 1] < q->raw[i]) at--;
        if (at == q->r.top) continue;
        if (n < q->r.top) n++;
        memmove(id + at + 1, id + at, (size_t)(n - 1 - at) * sizeof *id);
        memmove(lp + at + 1, lp + at, (size_t)(n - 1 - at) * sizeof *lp);
        id[at] = i;
        lp[at] = q->raw[i];
    }
    for (int i = 0; i < q->r.top; i++) {
        if (i >= n) id[i] = -1;
        else lp[i] = (float)((double)lp[i] - norm);
    }
    return (float)((double)q->raw[picked] - norm);
}

/* Whether q may not pick a token as number `place` of its answer. */
static bool sched__bans(const sched *sc, const sched_seq *q, int32_t id, int place) {
    if (tok_ids_has(&sc->never, id)) return true;
    return gen_ends(&q->r.gen, sc->eng->v, id) && !gen_may_end(&q->r.gen, place, id);
}

/* The sampler's pick among the tokens that the constraint allows, or a SCHED_NO_... */
static int32_t sched__draw(const sched *sc, sched_seq *q, float *logits, int place) {
    const gen_opts *o = &q->r.gen;
    const tok_ids  *ends[] = {&sc->endless, o->ends, o->stop_ids};
    const int64_t   left = sched__left(sc, q), later = left < 0 ? left : left - q->n_pick;
    if (q->held && !sched__is_over(q) && !constrain_mask(q->held, logits, sc->eng->m.hp.n_vocab, later)) return SCHED_NO_MASK;
    for (int i = 0; i < 3; i++)
        for (size_t k = 0; ends[i] && k < ends[i]->n; k++)
            if (sched__bans(sc, q, ends[i]->id[k], place)) logits[ends[i]->id[k]] = -INFINITY;
    return samp_pick(q->sm, logits, (uint64_t)place);
}

/* Logits of one of the rows that asked for something. */
static float *sched__logits(const sched *sc, int row) { return sc->logits + (size_t)row * (size_t)sc->eng->m.hp.n_vocab; }

/* The constraint takes in a token that was picked. False: a limit was reached. */
static bool sched__hold(const sched *sc, sched_seq *q, int32_t id) {
    q->pick[q->n_pick].closed = false;
    if (!q->held || sched__is_over(q) || gen_ends(&q->r.gen, sc->eng->v, id)) return true;
    const bool ok = constrain_accept(q->held, id);
    q->pick[q->n_pick].closed = ok && constrain_closed(q->held);
    return ok;
}

/* The next token after one row of the step, or a SCHED_NO_... */
static int32_t sched__pick_row(const sched *sc, sched_seq *q, int row) {
    const int n_vocab = sc->eng->m.hp.n_vocab, i = q->a.n_tok + q->n_pick;
    if (!i && q->held && !sched__is_over(q) && constrain_closed(q->held)) return SCHED_NO_ANSWER;
    if (!sc->ids && !engine_finite(sched__logits(sc, row), (size_t)n_vocab)) return SCHED_NO_LOGITS;
    if (q->r.logprobs) memcpy(q->raw, sched__logits(sc, row), (size_t)n_vocab * sizeof *q->raw);
    const int32_t forced = gen_thought_forces(&q->thought, &q->r.gen.think);
    const int32_t id = forced >= 0 ? forced : sc->ids ? sc->ids[row] : sched__draw(sc, q, sched__logits(sc, row), i);
    if (id < 0) return id;
    if (!sched__hold(sc, q, id)) return SCHED_NO_MASK;
    samp_accept(q->sm, id, false);
    gen_thought_add(&q->thought, &q->r.gen.think, sc->eng->v, id);
    q->pick[q->n_pick].thinks = q->thought.inside;
    q->pick[q->n_pick].lp = q->r.logprobs && !sched__is_over(q) ? sched__score(q, n_vocab, id, i) : 0;
    return id;
}

/* Whether pick number k was the guess after that row, so that the next row is the right one to pick from. */
static bool sched__goes_on(const sched *sc, const sched_seq *q, int k) {
    const sched_pick *p = &q->pick[k];
    return k < q->n_guess && p->id == q->guess->id[k] && !p->closed && !gen_ends(&q->r.gen, sc->eng->v, p->id);
}

/* A token for each mask that asked for one; or why there is none. */
static int32_t sched__pick_masks(const sched *sc, sched_seq *q) {
    const tok_ids *ends[] = {&sc->never, &sc->endless, q->r.gen.ends, q->r.gen.stop_ids};
    const int      n_vocab = sc->eng->m.hp.n_vocab;
    for (int row = q->at; row < q->at + q->n_rows; row++) {
        const int i = sched__next_mask(q, q->picked);
        float    *logits = sched__logits(sc, row);
        if (!engine_finite(logits, (size_t)n_vocab)) return SCHED_NO_LOGITS;
        logits[tok_mask(sc->eng->v)] = -INFINITY;
        memcpy(q->raw, logits, (size_t)n_vocab * sizeof *q->raw);
        for (int k = 0; k < 4; k++)
            for (size_t j = 0; ends[k] && j < ends[k]->n; j++)
                if (sched__bans(sc, q, ends[k]->id[j], i)) logits[ends[k]->id[j]] = -INFINITY;
        const int32_t id = samp_pick(q->sm, logits, diffuse_place(q->masks, i));
        if (id < 0) return SCHED_NO_TOKEN;
        diffuse_take(q->masks, i, id, q->raw, n_vocab);
        q->picked = i + 1;
    }
    return 0;
}

/* Runs on every thread: picks the next tokens of some sequences, row after row as long as the guess was right. Which
 * thread does it changes nothing. */
static void sched__pick(void *ctx, int ith) {
    sched *sc = ctx;
    (void)ith;
    for (int i; (i = pool_deal(sc->eng->p, sc->n_out, NULL)) != POOL_NONE;) {
        sched_seq *q = sc->out[i];
        if (q->r.embeds) continue;
        q->n_pick = 0;
        if (q->masks) {
            q->pick[0].id = sched__pick_masks(sc, q);
            continue;
        }
        do q->pick[q->n_pick].id = sched__pick_row(sc, q, q->at + q->n_pick);
        while (sched__goes_on(sc, q, q->n_pick++));
    }
}

/* The tokens to pick, where the step gave them in place of logits and each of them may be picked. Else logits are there
 * now, and it returns NULL. */
static const int32_t *sched__ids(const sched *sc) {
    const int32_t *ids = fwd_ids(sc->eng->f);
    for (int i = 0; ids && i < sc->n_out; i++) {
        const sched_seq *q = sc->out[i];
        for (int k = 0; k <= q->n_guess; k++) {
            if (ids[q->at + k] >= 0 && !sched__bans(sc, q, ids[q->at + k], q->a.n_tok + k)) continue;
            fwd_fetch(sc->eng->f);
            return NULL;
        }
    }
    return ids;
}

/* Space for the tokens that this step may add. */
static void sched__room(sched_seq *q) {
    if (q->a.n_tok + q->n_guess < q->cap) return;
    q->cap = 2 * q->cap + SPEC_MOST;
    q->a.tok = mem_grow(q->a.tok, (size_t)q->cap, sizeof *q->a.tok);
    if (!q->r.logprobs) return;
    q->a.top_id = mem_grow(q->a.top_id, (size_t)q->cap * (size_t)q->r.top, sizeof *q->a.top_id);
    q->a.top_lp = mem_grow(q->a.top_lp, (size_t)q->cap * (size_t)q->r.top, sizeof *q->a.top_lp);
}

/* Bytes at the end of the text that may begin a stop string. */
static size_t sched__tail(const sched_seq *q) {
    size_t most = 1;
    for (int i = 0; i < q->r.gen.n_stop; i++) most = max_size(most, q->r.gen.stop[i].n);
    return most - 1;
}

/* Context shift: drops the older half of the tokens after the kept ones. The rest is read again at its new positions,
 * so that the answer goes on as in a fresh run over the remaining tokens. */
static void sched__shift(sched *sc, sched_seq *q) {
    const int n = (int)q->ids.n, keep = q->shift, drop = (n - keep + 1) / 2;
    log_info("context full at %d tokens: %d dropped after the first %d", n - 1, drop, keep);
    spec_shift(sc->guesser, q->guess, keep, drop);
    memmove(q->ids.id + keep, q->ids.id + keep + drop, (size_t)(n - keep - drop) * sizeof *q->ids.id);
    q->ids.n -= (size_t)drop;
    q->n_prompt = min_int(q->n_prompt, keep);
    q->done = kv_truncate(q->kv, keep);
}

/* Whether the text of the answer, which a stop string has cut, is what its constraint asks for. */
static bool sched__is_whole(const sched *sc, const sched_seq *q) {
    const gen_answer *a = &q->a;
    constrain_seq    *s = constrain_seq_new(q->r.constrain, sched__stream(sc, q).strip, q->r.gen.ends, 1);
    size_t            at = 0;
    for (int i = 0; i < a->n_tok && a->tok[i].end <= a->text.n; at = a->tok[i++].end) constrain_accept(s, a->tok[i].id);
    constrain_feed(s, (bytes){(const uint8_t *)a->text.p + at, a->text.n - at});
    const bool whole = constrain_complete(s);
    constrain_seq_free(s);
    return whole;
}

/* Where the first stop string begins in the text, whose last token begins at byte `had`; the text's length: there is none.
 * Those of the caller are not looked for in thinking, nor in the white space after it. */
static size_t sched__stop_at(sched_seq *q, size_t had, bool thinks) {
    const gen_opts *o = &q->r.gen;
    const str      *text = &q->a.text;
    const size_t    tail = sched__tail(q), from = max_size(q->unstopped, had > tail ? had - tail : 0);
    const int       n = o->n_stop - o->n_late;
    const size_t    own = n ? gen_stop_at(text, from, o->stop + o->n_late, n) : text->n;
    if (thinks) q->thoughts = text->n;
    else if (q->thinks) q->thoughts = gen_thought_end(&o->think, text, had);
    q->thinks = thinks || (q->thinks && q->thoughts == text->n);
    return q->thinks ? own : min_size(own, gen_stop_at(text, max_size(from, q->thoughts), o->stop, o->n_late));
}

/* Which stop text is at byte `at` of the text; the longest where several are. */
static int sched__stop_text(const gen_opts *o, bytes text, size_t at) {
    int which = 0;
    for (int i = 0, n = -1; i < o->n_stop; i++)
        if ((int)o->stop[i].n > n && bytes_begins(bytes_slice(text, at, text.n), o->stop[i])) which = i, n = (int)o->stop[i].n;
    return which;
}

/* A picked token joins the text. Returns why the answer ends with it, or GEN_RUNNING. */
static gen_finish sched__join(sched *sc, sched_seq *q, const sched_pick *p) {
    const int32_t id = p->id;
    const bool    closed = p->closed;
    gen_answer   *a = &q->a;
    const size_t  had = a->text.n;
    if (gen_ends(&q->r.gen, sc->eng->v, id) && gen_may_end(&q->r.gen, a->n_tok, id)) {
        tok_stream_flush(&q->stream, &a->text);
        a->end_token = id;
        return GEN_END_TOKEN;
    }
    tok_ids_add(&q->ids, id);
    tok_stream_push(&q->stream, id, &a->text);
    a->tok[a->n_tok++] = (gen_token){id, p->lp, a->text.n + (size_t)q->stream.n_held + q->stream.f4};
    sc->st.written++;
    if (a->n_tok <= q->r.gen.n_least) q->unstopped = a->text.n;
    const size_t stop = sched__stop_at(q, had, p->thinks);
    if (stop < a->text.n) {
        a->stop = sched__stop_text(&q->r.gen, str_bytes(&a->text), stop);
        a->text.n = stop;
        a->text.p[stop] = 0;
        a->unfinished = q->held && !sched__is_whole(sc, q);
        return GEN_STOP_TEXT;
    }
    const bool length = a->n_tok == q->r.gen.n_predict, full = (int)q->ids.n > sc->eng->n_ctx;
    a->period = gen_loop_add(&q->loop, &q->r.gen, id);
    if (!closed && !length && !a->period && (!full || sched__can_shift(sc, q))) return GEN_RUNNING;
    tok_stream_flush(&q->stream, &a->text);
    a->unfinished = q->held && !constrain_complete(q->held);
    return closed ? GEN_CLOSED : length ? GEN_LENGTH : a->period ? GEN_LOOPED : GEN_CONTEXT;
}

/* Seconds until the first token, and between tokens. */
static void sched__record_latency(sched *sc, gen_answer *a, double now) {
    if (a->n_tok == 1) a->t_first = now, hist_add(&sc->st.ttft, now - a->t_start);
    else hist_add(&sc->st.itl, now - a->t_last);
    a->t_last = now;
}

/* No token could be picked: id is the reason. */
static void sched__fail(sched *sc, sched_seq *q, int32_t id) {
    const size_t last = q->ids.n - 1;
    err_t       *e = &q->a.err;
    tok_stream_flush(&q->stream, &q->a.text);
    if (id == SCHED_NO_ANSWER || (id == SCHED_NO_TOKEN && q->held && constrain_complete(q->held))) {
        q->a.finish = GEN_CLOSED;                     /* the answer is whole, and nothing may follow */
        return;
    }
    q->a.finish = GEN_FAILED;
    if (id == SCHED_NO_TOKEN)
        err_set(e, EXIT_INPUT, "no token is possible after token %zu: %s", last,
                q->held ? "logit biases and the vocabulary leave none of those that the constraint allows"
                        : "the logit biases forbid all of them");
    else if (id == SCHED_NO_MASK)
        err_set(e, EXIT_RESOURCE, "the constraint takes too many steps or too much memory after token %zu of the text", last);
    else
        err_set(e, EXIT_INPUT,
                "%s: the logits after token %zu hold a NaN or an infinity: damaged weights, or a model out of range",
                sc->eng->g->path, last);
}

/* The draft head will read what the step has computed of the last position that is kept. n: tokens before the step. Where the
 * step keeps no states of rows that ask for nothing, those of its own last tokens and guesses are there. */
static void sched__keep_hidden(sched *sc, sched_seq *q, int n) {
    const bool by_row = sc->eng->m.hp.n_nextn > 0;
    const int  i = by_row ? q->done - 1 - q->from : q->done - n;
    if (!sc->eng->n_head || !q->guess || i < 0) return;
    spec_hidden(sc->guesser, q->guess, fwd_state(sc->eng->f, (by_row ? q->row : q->at) + i), q->done - 1);
}

/* All that was picked for q joins its text, up to where it ends. */
static void sched__join_all(sched *sc, sched_seq *q, double now) {
    const int had = q->a.n_tok, n = (int)q->ids.n;
    int       right = 0;
    if (!q->r.gen.n_predict) q->a.finish = GEN_LENGTH;
    for (int k = 0; k < q->n_pick && !q->a.finish; k++) {
        const int32_t id = q->pick[k].id;
        if (id >= 0) q->a.finish = sched__join(sc, q, &q->pick[k]);
        else sched__fail(sc, q, id);
        right += k < q->n_guess && id == q->guess->id[k];
        if (q->a.n_tok > had + k) sched__record_latency(sc, &q->a, now);
    }
    if (q->n_guess) spec_record(sc->guesser, q->guess, right, min_int(q->n_pick, q->n_guess), n);
    q->done = kv_truncate(q->kv, min_int(n + right, (int)q->ids.n));
    sched__keep_hidden(sc, q, n);
    if (q->a.finish != GEN_FAILED && sched__shares(q)) {              /* blocks of right guesses are for other sequences, too */
        kv_publish(q->kv, q->ids.id);
        kv_commit(sc->eng->kv, true);
    }
    if (!q->a.finish && (int)q->ids.n > sc->eng->n_ctx) sched__shift(sc, q);
}

/* Some masks become tokens; those that are final join the text. */
static void sched__unmask(sched *sc, sched_seq *q, double now) {
    if (q->pick[0].id < 0) {
        sched__fail(sc, q, q->pick[0].id);
        return;
    }
    if (sched__next_mask(q, q->picked) < q->masks->n) return;
    q->picked = 0;
    diffuse_turn(q->masks);
    if (!q->r.gen.n_predict) q->a.finish = GEN_LENGTH;
    for (int had = q->a.n_tok; !q->a.finish && had < diffuse_done(q->masks); had++) {
        q->a.finish = sched__join(sc, q, &(sched_pick){.id = q->masks->token[had]});
        if (q->a.n_tok > had) sched__record_latency(sc, &q->a, now);
    }
    if (q->a.finish || q->a.n_tok < q->masks->n) return;
    tok_stream_flush(&q->stream, &q->a.text);
    q->a.finish = GEN_LENGTH;
}

static void sched__tokens(sched *sc) {
    const double now = clock_now();
    for (int i = 0; i < sc->n_out; i++) {
        sched_seq *q = sc->out[i];
        if (q->r.embeds) continue;
        if (sched__is_over(q)) {
            tok_ids_add(&q->ids, q->pick[0].id < 0 ? q->ids.id[0] : q->pick[0].id);   /* no part of its answer */
            continue;
        }
        if (q->masks) sched__unmask(sc, q, now);
        else sched__join_all(sc, q, now);
        if (!q->a.finish) continue;
        if (sc->o.fixed && !q->masks) sched__become(q, SCHED_OVER_STEPPING);
        else sched__end(sc, q);
    }
}

/* Whether an interrupt has ended the work of a constraint: what this step has picked is dropped. */
static bool sched__is_broken(const sched *sc) {
    for (int i = 0; i < sc->n_out && g_interrupt; i++)
        for (int k = 0; k < sc->out[i]->n_pick; k++)
            if (sc->out[i]->pick[k].id == SCHED_NO_MASK) return true;
    return false;
}

/* Picks and adds every token that the step has logits for, or the token itself. */
static void sched__sample(sched *sc) {
    sc->ids = sched__ids(sc);
    for (int i = 0; i < sc->n_out; i++)
        if (!sc->out[i]->r.embeds && !sc->out[i]->masks) sched__room(sc->out[i]);
    mem_freeze("sampling");
    pool_run(sc->eng->p, sched__pick, sc);
    mem_thaw();
    if (!sched__is_broken(sc)) sched__tokens(sc);
}

/* --- vectors --- */

/* The rows of a text that this step has computed join its vector. */
static void sched__embed_rows(const sched *sc, sched_seq *q) {
    const fwd   *f = sc->eng->f;
    const size_t D = (size_t)sc->eng->m.hp.n_embd;
    const bool   by_row = sc->eng->m.hp.n_nextn > 0;  /* hidden values of all rows of the step */
    bool         finite = true;
    for (int i = q->from, k = 0; finite && k < q->n_rows; i++) {
        if (!embed_wants(q->text, i)) continue;
        const float *h = fwd_hidden(f, by_row ? q->row + i - q->from : q->at + k);
        finite = engine_finite(h, D);
        embed_add(q->text, h);
        k++;
    }
    if (finite && q->done < q->n_prompt) return;
    if (finite) {
        q->a.vec = embed_end(q->text, &q->a.n_vec, &q->a.width);
        finite = engine_finite(q->a.vec, (size_t)q->a.n_vec * (size_t)q->a.width);   /* weights after pooling may be damaged */
    }
    q->a.finish = finite ? GEN_EMBEDDED : GEN_FAILED;
}

/* Runs on every thread, each text on one of them. */
static void sched__embed_some(void *ctx, int ith) {
    const sched *sc = ctx;
    (void)ith;
    for (int i; (i = pool_deal(sc->eng->p, sc->n_out, NULL)) != POOL_NONE;)
        if (sc->out[i]->r.embeds) sched__embed_rows(sc, sc->out[i]);
}

static void sched__embed(sched *sc) {
    const double now = clock_now();
    mem_freeze("pooling");
    pool_run(sc->eng->p, sched__embed_some, sc);
    mem_thaw();
    for (int i = 0; i < sc->n_out; i++) {
        sched_seq *q = sc->out[i];
        if (!q->r.embeds || !q->a.finish) continue;
        if (q->a.finish == GEN_FAILED)
            err_set(&q->a.err, EXIT_INPUT, "%s: the vectors of the text hold a NaN or an infinity: damaged weights, or a model "
                    "out of range", sc->eng->g->path);
        q->a.t_last = now;
        sched__end(sc, q);
    }
}

/* --- the step --- */

static void sched__count(sched *sc, double seconds) {
    sched_stats *st = &sc->st;
    const int    block = sc->eng->kv->opts.block;
    int          peak, decode = 0, guesses = 0;
    double       held = (double)kv_held(sc->eng->kv, &peak) * block, tails = 0;
    for (int i = 0; i < sc->n_run; i++) {
        const sched_seq *q = sc->run[i];
        decode += q->state == SCHED_STEPPING && q->a.n_tok;
        guesses += q->n_guess;
        if (q->kv) tails += (double)kv_seq_blocks(q->kv) * block - q->kv->n;
    }
    st->steps++;
    st->decode += decode;
    st->prefill += sched__n_rows(sc) - decode - guesses;
    st->busy_s += seconds;
    st->slots += held;
    st->waste += tails;
    if (sched__n_rows(sc) >= SCHED_ROWS_LEAST) {
        const double row = seconds / sched__n_rows(sc);
        sc->row_s = sc->row_s > 0 ? 0.8 * sc->row_s + 0.2 * row : row;
    }
}

/* For tests: the youngest of several gives up its blocks. */
static void sched__stress(sched *sc) {
    for (int i = 0; i < sc->n_run; i++) sched__leave_step(sc->run[i]);
    const int i = sched__youngest(sc);
    if (i > 0) sched__preempt(sc, i);
}

/* Computes the rows of the step. False: an interrupt, or an error in e. */
static bool sched__compute(sched *sc, err_t *e) {
    sched__snapshots(sc);
    const double t0 = clock_now();
    sc->logits = sc->eng->f->logits;
    const bool ok = fwd_step(sc->eng->f) && engine_alive(sc->eng, e);
    kv_commit(sc->eng->kv, ok);
    if (!ok) return false;
    sched__count(sc, clock_now() - t0);
    for (int i = 0; i < sc->n_run; i++) {
        sched_seq *q = sc->run[i];
        if (!sched__steps(q)) continue;
        q->done = q->kv->n - q->n_guess;
        sched__keep_hidden(sc, q, (int)q->ids.n);
        if (!q->a.n_tok) q->a.n_read = min_int(q->done, q->a.n_prompt);
        if (q->masks) q->done = 0;                    /* the next step computes all of it again */
    }
    return true;
}

/* Packs some more weights after a step that gave n tokens; n_ahead: tokens of the whole run. */
static void sched__pack(sched *sc, int64_t n_ahead, int64_t n) {
    const double begun = clock_now();
    const bool   packed = engine_pack(sc->eng, n_ahead, sc->st.written, n);
    if (sc->guesser) spec_overhead(sc->guesser, clock_now() - begun, packed);
}

/* One step. n_ahead: tokens of the whole run, as engine_pack() takes them. False: nothing is left to do, or all that is left is
 * held back; an interrupt; or an error in e. */
static bool sched_step(sched *sc, int64_t n_ahead, err_t *e) {
    const long long decode = sc->st.decode, prefill = sc->st.prefill, written = sc->st.written;
    if (sc->o.stress) sched__stress(sc);
    const double begun = clock_now();
    if (!sched__fill_batch(sc) || !sched__compute(sc, e)) return false;
    int n_texts = 0;
    for (int i = 0; i < sc->n_out; i++) n_texts += sc->out[i]->r.embeds;
    if (n_texts < sc->n_out) sched__sample(sc);
    if (n_texts) sched__embed(sc);
    const long long n_seqs = sc->st.decode - decode, n_tok = sc->st.written - written;
    if (sc->guesser && sc->st.prefill == prefill)
        spec_time(sc->guesser, (int)n_seqs, sched__n_rows(sc), (int)n_tok, clock_now() - begun);
    sched__dismiss(sc);
    sched__pack(sc, n_ahead, n_tok);
    return true;
}

/* After a step: gives each answer that it has changed, those that it has ended among them, before they are taken. */
static void sched_each_new(const sched *sc, void (*put)(void *ctx, const gen_answer *a), void *ctx) {
    for (int i = 0; i < sc->n_out; i++) put(ctx, &sc->out[i]->a);
}
