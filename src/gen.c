/* ===== [gen] a request and its answer =====
 * What is asked of a model and what comes of it, as plain values: a prompt, when the answer ends, how its tokens
 * are picked, what is wanted beside the text. [sched] answers requests; [req] makes them from JSON and writes
 * answers as JSON; [text] streams one answer. Also what every answer needs: whether a prompt fits, which tokens
 * are never picked, where a stop string begins, how probable a token is.
 *
 * To add a reason why an answer ends: its value in gen_finish, its row in gen_finish_names, the place in [sched]
 * that finds it.
 * To add what a request may ask for: its field in gen_opts or gen_request, a row in cli_opts, a row in req_keys,
 * its use in [sched].
 * Public: gen_opts, gen_think, gen_defaults, gen_request, gen_ask, gen_finish, gen_finish_names, gen_token,
 * gen_answer, gen_answer_drop, gen_visible_tokens, gen_answer_logprob, gen_stop_at, gen_may_stop, gen_ends, gen_may_end,
 * gen_loop,
 * gen_loop_stop, gen_loop_add, gen_thought, gen_thought_end, gen_thought_new, gen_thought_add, gen_thought_forces,
 * gen_banned, gen_fits, gen_logprob, gen_exp_sum.
 * Opens: gen_opts, gen_think, gen_request, gen_token, gen_answer. */

enum {
    GEN_MARK = 64,                                    /* bytes of a mark at most */
    GEN_PERIOD = 64,                                  /* tokens in the longest passage that repeats in a loop */
    GEN_LOOP_STOP = 512,                              /* tokens of a loop that end an answer without a bound */
};

/* A bound of the thinking in an answer: tokens between two marks, which are found in the text. After the last of
 * them the tokens of `close` are the next ones of the answer, whatever the logits say. */
typedef struct {
    int64_t        most;                              /* tokens, where `close` is there */
    bool           inside;                            /* the prompt ends inside the thinking */
    bool           anywhere;                          /* thinking may begin anywhere in the answer, else only where it begins */
    bytes          open;                              /* the mark before it, at most GEN_MARK bytes */
    bytes          end;                               /* the mark after it, as long */
    const tok_ids *close;                             /* NULL: no bound */
} gen_think;

typedef struct {                                      /* when an answer ends */
    int64_t      n_predict;                           /* tokens at most; -1: until an end token or a full context */
    int          loop_stop;                           /* it ends where so many tokens are a loop, see gen_loop; 0: never;
                                                       * -1: GEN_LOOP_STOP where n_predict is -1, else never */
    int          n_least;                             /* until so many tokens no end token is picked, no stop text counts */
    bool         ignore_eos;                          /* end tokens are never picked, but for stop_ids */
    bool         context_shift;                       /* a full context drops its older tokens, and the answer goes on */
    bool         special_out;                         /* control tokens are part of the text */
    int64_t      n_keep;                              /* first tokens that a context shift keeps; -1: the prompt */
    const bytes *stop;                                /* [n_stop] the answer ends before the first of these texts */
    int          n_stop;
    int          n_late;                              /* the first n_late of them are not looked for in thinking */
    const tok_ids *ends;                              /* more end tokens; NULL: none */
    const tok_ids *stop_ids;                          /* the same of the caller; NULL: none */
    const tok_ids *shown;                             /* control tokens that are part of the text; NULL: none */
    gen_think    think;
} gen_opts;

static const gen_opts gen_defaults = {.n_predict = -1, .loop_stop = -1};

/* What it points to stays the caller's, until all its answers have been taken or the schedule is freed. */
typedef struct {
    const tok_ids *prompt;
    gen_opts       gen;
    samp_opts      samp;
    constrain     *constrain;                         /* what an answer may be; NULL: anything */
    bool           embeds;                            /* the answer is the text's vector, */
    embed_opts     embed;                             /* made like this */
    const dev_adapters *adapters;                     /* NULL: those of the run */
    uint64_t       seed;
    int            index;                             /* number of the first completion of these, for its owner */
    int            n;                                 /* completions; each draws with seed + its number */
    int            share;                             /* completions of the line that share its budget for constraints */
    bool           logprobs;                          /* wanted of every token of the answer, */
    int            top;                               /* and of so many of the likeliest in its place */
    int            keep;                              /* positions that later requests may share after the last completion */
    void          *owner;                             /* the caller's; its answers have it too */
} gen_request;

/* One completion of a prompt. */
static gen_request gen_ask(const tok_ids *prompt, const gen_opts *o, const samp_opts *so, uint64_t seed) {
    return (gen_request){.prompt = prompt, .gen = *o, .samp = *so, .seed = seed, .n = 1, .share = 1, .keep = INT_MAX};
}

typedef enum {
    GEN_RUNNING,                                      /* it has not ended */
    GEN_END_TOKEN,                                    /* it is complete: the model ended it */
    GEN_STOP_TEXT,                                    /* a stop string did */
    GEN_CLOSED,                                       /* its constraint is met and lets nothing follow */
    GEN_LENGTH,                                       /* it is as long as n_predict allows */
    GEN_CONTEXT,                                      /* it is as long as the context allows */
    GEN_LOOPED,                                       /* it repeats itself, as gen_opts.loop_stop says */
    GEN_EMBEDDED,                                     /* it is a vector */
    GEN_CANCELLED,                                    /* it is not complete: the caller ended it */
    GEN_FAILED,                                       /* an error did */
    GEN_FINISHES
} gen_finish;

/* As the field's servers call them; NULL where there is no complete answer. */
static const char *const gen_finish_names[GEN_FINISHES] = {
    [GEN_END_TOKEN] = "stop", [GEN_STOP_TEXT] = "stop", [GEN_CLOSED] = "stop", [GEN_LENGTH] = "length",
    [GEN_CONTEXT] = "length", [GEN_LOOPED] = "length",
};

typedef struct {                                      /* one token of an answer */
    int32_t id;
    float   lp;                                       /* its log-probability, where asked for */
    size_t  end;                                      /* bytes of the text with this token */
} gen_token;

typedef struct {
    void       *owner;                                /* as in the request */
    int         index;                                /* number of this completion */
    gen_finish  finish;                               /* why it has ended */
    int32_t     end_token;                            /* of GEN_END_TOKEN; it is not among the tokens */
    int         stop;                                 /* of GEN_STOP_TEXT: which text of gen_opts.stop ended it */
    int         period;                               /* of GEN_LOOPED: tokens of the passage that repeats */
    err_t       err;                                  /* of GEN_FAILED */
    bool        unfinished;                           /* it has ended before its constraint was met */
    str         text;                                 /* any bytes; once ended, up to the stop string */
    gen_token  *tok;                                  /* [n_tok] its tokens */
    int         n_tok;                                /* tokens so far */
    int         top;                                  /* alternatives of each, as the request has it */
    int32_t    *top_id;                               /* [n_tok, top] the likeliest first; -1: the vocabulary has fewer */
    float      *top_lp;                               /* [n_tok, top] their log-probabilities */
    int         n_prompt;                             /* tokens of the prompt */
    int         n_read;                               /* of these, read so far */
    int         n_cached;                             /* of those, found in the cache and not computed */
    float      *vec;                                  /* [n_vec, width] of GEN_EMBEDDED; several where each token has one */
    int         n_vec;                                /* vectors */
    int         width;                                /* values of each */
    double      t_start;                              /* clock_now() when reading began; 0: not yet */
    double      t_first;                              /* at the first token; 0: not yet */
    double      t_last;                               /* at the last token; 0: not yet */
} gen_answer;

/* Frees what an answer owns; it is then an empty one. */
static void gen_answer_drop(gen_answer *a) {
    str_drop(&a->text);
    void *own[] = {a->tok, a->top_id, a->top_lp, a->vec};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) mem_free(own[i]);
    *a = (gen_answer){0};
}

/* Tokens whose text a stop string has not cut off. */
static int gen_visible_tokens(const gen_answer *a) {
    int n = a->n_tok;
    if (a->finish != GEN_END_TOKEN && a->finish != GEN_STOP_TEXT) return n;
    while (n > 1 && a->tok[n - 2].end >= a->text.n) n--;
    return n;
}

/* Log-probability of the visible tokens, where it was asked for. */
static double gen_answer_logprob(const gen_answer *a) {
    double sum = 0;
    for (int i = 0; i < gen_visible_tokens(a); i++) sum += (double)a->tok[i].lp;
    return sum;
}

/* Where the first of n stop strings begins in the text from byte `from` on, or the text's length. */
static size_t gen_stop_at(const str *text, size_t from, const bytes *stop, int n) {
    size_t first = text->n;
    for (int i = 0; i < n; i++) {
        const char *p = stop[i].n && first > from ? memmem(text->p + from, text->n - from, stop[i].p, stop[i].n) : NULL;
        if (p) first = min_size(first, (size_t)(p - text->p));
    }
    return first;
}

/* Bytes of the longest end of the text, from byte `from` on, that begins some of n stop strings and is not all of it. */
static size_t gen_may_stop(const str *text, size_t from, const bytes *stop, int n) {
    size_t most = 0;
    for (int i = 0; i < n; i++) {
        size_t k = min_size(stop[i].n ? stop[i].n - 1 : 0, text->n - from);
        while (k > most && memcmp(text->p + text->n - k, stop[i].p, k) != 0) k--;
        most = max_size(most, k);
    }
    return most;
}

/* Where the text goes on behind an end mark of thinking that its bytes from `had` on complete, and behind white space. */
static size_t gen_thought_end(const gen_think *o, const str *text, size_t had) {
    size_t at = had;
    for (size_t i = had + 1 > o->end.n ? had + 1 - o->end.n : 0; o->end.n && i + o->end.n <= text->n; i++)
        if (memcmp(text->p + i, o->end.p, o->end.n) == 0) at = i + o->end.n;
    while (at < text->n && isspace((uint8_t)text->p[at])) at++;
    return at;
}

/* Whether the token ends an answer. */
static bool gen_ends(const gen_opts *o, const tok_vocab *v, int32_t id) {
    return tok_is_eog(v, id) || tok_ids_has(o->ends, id) || tok_ids_has(o->stop_ids, id);
}

/* Whether a token that ends answers may be the next one of an answer of n tokens. */
static bool gen_may_end(const gen_opts *o, int n, int32_t id) {
    return n >= o->n_least && (!o->ignore_eos || tok_ids_has(o->stop_ids, id));
}

/* Whether an answer repeats itself. For each period p from 1 to GEN_PERIOD it counts how many of the last tokens are each the
 * same as the one p tokens before; N tokens are a loop where one of the counts has reached N. It depends on the tokens of the
 * answer alone. Zeros are the beginning of an answer. */
typedef struct {
    int32_t last[2 * GEN_PERIOD];                     /* a ring, written twice, so that it is contiguous from any place on */
    int32_t run[GEN_PERIOD];                          /* [p - 1] tokens so far */
    int     at;                                       /* place of the newest token; older ones follow it */
    int     n;                                        /* tokens in the ring */
} gen_loop;

/* Tokens of a loop that end an answer; 0: none do. */
static int gen_loop_stop(const gen_opts *o) {
    return o->loop_stop >= 0 ? o->loop_stop : o->n_predict < 0 ? GEN_LOOP_STOP : 0;
}

/* The answer has one more token. Returns the shortest period of a loop that ends it, 0: none does. Allocates nothing. */
static int gen_loop_add(gen_loop *l, const gen_opts *o, int32_t id) {
    const int      most = gen_loop_stop(o);
    const int32_t *before = l->last + l->at;
    int            period = 0;
    if (!most) return 0;
    for (int p = l->n; p-- > 0;) {
        l->run[p] = before[p] == id ? l->run[p] + 1 : 0;
        if (l->run[p] >= most) period = p + 1;
    }
    l->at = (l->at + GEN_PERIOD - 1) % GEN_PERIOD;
    l->last[l->at] = l->last[l->at + GEN_PERIOD] = id;
    l->n = min_int(l->n + 1, GEN_PERIOD);
    return period;
}

/* How far the thinking of an answer has come. It depends on the tokens of the answer alone. */
typedef struct {
    bool    inside;
    int64_t n;                                        /* tokens of thinking */
    size_t  n_closed;                                 /* forced tokens that have been added */
    size_t  ink;                                      /* bytes of the answer that are no white space */
    size_t  n_tail;                                   /* bytes in tail */
    uint8_t tail[GEN_MARK];                           /* the last bytes of the answer */
} gen_thought;

/* Where the thinking of an answer begins. */
static gen_thought gen_thought_new(const gen_think *o) { return (gen_thought){.inside = o->inside}; }

/* The token that has to come next; -1: any. */
static int32_t gen_thought_forces(const gen_thought *t, const gen_think *o) {
    const bool spent = o->close && t->inside && t->n >= o->most;
    return spent && t->n_closed < o->close->n ? o->close->id[t->n_closed] : -1;
}

static size_t gen__ink(bytes b) {
    size_t n = 0;
    for (size_t i = 0; i < b.n; i++) n += !isspace(b.p[i]);
    return n;
}

/* The answer has one more byte. Returns whether a mark ends there. */
static bool gen__thought_byte(gen_thought *t, const gen_think *o, uint8_t c) {
    const bytes mark = t->inside ? o->end : o->open;
    if (t->n_tail == sizeof t->tail) memmove(t->tail, t->tail + 1, --t->n_tail);
    t->tail[t->n_tail++] = c;
    t->ink += !isspace(c);
    if (!mark.n || !bytes_ends((bytes){t->tail, t->n_tail}, mark)) return false;
    return t->inside || o->anywhere || t->ink == gen__ink(mark);
}

/* The answer has one more token. Allocates nothing. */
static void gen_thought_add(gen_thought *t, const gen_think *o, const tok_vocab *v, int32_t id) {
    const bool  was = t->inside, forced = gen_thought_forces(t, o) >= 0;
    const bytes text = tok_is_control(v, id) ? tok_text(v, id) : tok_piece(v, id);
    if (!o->end.n) return;
    for (size_t i = 0; i < text.n; i++)
        if (gen__thought_byte(t, o, text.p[i]) && !forced) t->inside = !t->inside;
    if (forced && ++t->n_closed == o->close->n) t->inside = false, t->n_closed = 0;
    t->n += was && t->inside;
}

/* Ids that are never picked: those the file suppresses and, with ends (--ignore-eos), those that end a text. */
static bool gen_banned(const engine *eng, bool ends, tok_ids *out, err_t *e) {
    const gguf_kv *kv = NULL;
    int            got = gguf_get_arr(eng->g, "tokenizer.ggml.suppress_tokens", &kv, e);
    for (uint64_t i = 0; got == 1 && i < kv->count; i++) {
        uint64_t id;
        if (!gguf_arr_u64(kv, i, &id) || id >= (uint64_t)eng->m.hp.n_vocab)
            return gguf_bad(eng->g, kv->part, kv->at, e,
                            "tokenizer.ggml.suppress_tokens: value %llu is out of range, expected a token id",
                            (unsigned long long)i);
        tok_ids_add(out, (int32_t)id);
    }
    for (int32_t id = 0; ends && id < eng->m.hp.n_vocab; id++)
        if (tok_is_eog(eng->v, id)) tok_ids_add(out, id);
    return got >= 0;
}

/* Whether the prompt is one and fits the context, asked before an answer is begun. */
static bool gen_fits(const engine *eng, const tok_ids *prompt, err_t *e) {
    if (prompt->n == 0)
        return err_set(e, EXIT_INPUT, "the prompt is empty and no start token is added, expected a text");
    if (prompt->n > (size_t)eng->n_ctx && !eng->m.hp.causal)
        return err_set(e, EXIT_INPUT, "the text has %zu tokens, the encoder's context holds %d", prompt->n, eng->n_ctx);
    return prompt->n <= (size_t)eng->n_ctx ||
           err_set(e, EXIT_INPUT, "the prompt has %zu tokens, the context holds %d (-c, --kv-mem and --kv-blocks bound it)",
                   prompt->n, eng->n_ctx);
}

/* The sum of e^(x - *top) in double, *top being the largest x: the logarithm of the sum of all e^x is *top +
 * log(sum). */
static double gen_exp_sum(const float *x, int n, double *top) {
    double sum = 0;
    *top = (double)k_max(x, n, NULL);
    for (int i = 0; i < n; i++) sum += exp((double)x[i] - *top);
    return sum;
}

/* The log-probability of a token: log(softmax(logits)[id]) over n logits, in double. */
static double gen_logprob(const float *logits, int n, int32_t id) {
    double       top;
    const double sum = gen_exp_sum(logits, n, &top);
    return (double)logits[id] - top - log(sum);
}
