/* ===== [score] logits and log-probabilities of a given text =====
 * Reads a prompt in steps whose rows all ask for logits, and writes what each position gives.
 * Public: score_plan, score_text, score_json, score_logits. */

enum { SCORE_ROWS = 64 };                             /* rows of a step, all of which ask for logits */

/* The engine for a text of n tokens. */
static engine_plan score_plan(const engine_opts *fo, int64_t n) {
    return (engine_plan){.n_need = n, .n_seqs = 1, .n_rows = min_int(fo->n_batch, SCORE_ROWS),
                         .n_out = SCORE_ROWS};
}

typedef void score_put(void *ctx, const engine *eng, const tok_ids *ids, size_t i, const float *logits, out_t *out);

static void score__put_logits(void *ctx, const engine *eng, const tok_ids *ids, size_t i, const float *logits, out_t *out) {
    (void)ctx, (void)ids, (void)i;
    out_put(out, logits, (size_t)eng->m.hp.n_vocab * sizeof *logits);
}

static void score__put_line(void *ctx, const engine *eng, const tok_ids *ids, size_t i, const float *logits, out_t *out) {
    char line[64];
    (void)ctx;
    if (i + 1 >= ids->n) return;
    int n = snprintf(line, sizeof line, "%zu %d %.9g\n", i + 1, ids->id[i + 1],
                     gen_logprob(logits, eng->m.hp.n_vocab, ids->id[i + 1]));
    out_put(out, line, (size_t)n);
}

typedef struct {
    const engine  *eng;
    const tok_ids *ids;
    score_put     *put;
    void          *ctx;                               /* its own */
    out_t         *out;
} score_job;

static bool score__chunk(void *ctx, int from, int to, float *logits) {
    const score_job *j = ctx;
    for (int i = from; i < to; i++)
        j->put(j->ctx, j->eng, j->ids, (size_t)i, logits + (size_t)(i - from) * (size_t)j->eng->m.hp.n_vocab, j->out);
    return !j->out->why;
}

/* Calls put() with the logits after each token of the prompt, for which gen_fits() holds. False: an error in e,
 * an interrupt, or the output is closed. */
static bool score__each(engine *eng, const tok_ids *ids, score_put *put, void *ctx, out_t *out, err_t *e) {
    score_job    job = {.eng = eng, .ids = ids, .put = put, .ctx = ctx, .out = out};
    kv_seq      *seq = kv_seq_new(eng->kv);
    engine_meter meter;
    meter_start(&meter, eng, "running the prompt", (int64_t)ids->n, 0);
    if (isatty(fileno(out->f))) meter_stop(&meter);   /* the lines themselves show the progress */
    const bool ok = engine_read(eng, seq, ids->id, 0, (int)ids->n, (engine_reader){&meter, score__chunk, &job}, e);
    meter_stop(&meter);
    kv_seq_free(seq);
    return ok;
}

/* `index id logprob` for each token that has one before it; the start token, where there is one, has index 0. */
static bool score_text(engine *eng, const tok_ids *ids, out_t *out, err_t *e) {
    return score__each(eng, ids, score__put_line, NULL, out, e);
}

/* {"index":I,"id":ID,"text":"...","logprob":L}: null for the first token. */
static void score__json_token(const engine *eng, size_t i, int32_t id, double logprob, out_t *out) {
    str s = {0};
    jw  w = jw_tight(&s);
    w.more = i > 0;
    jw_open(jw_line(&w), NULL, '{');
    jw_fmt(&w, "index", "%zu", i);
    tok_json(eng->v, id, &w);
    jw_number(&w, "logprob", 9, logprob);
    jw_close(&w, '}');
    out_put(out, s.p, s.n);
    str_drop(&s);
}

static void score__put_json(void *ctx, const engine *eng, const tok_ids *ids, size_t i, const float *logits, out_t *out) {
    double *total = ctx;
    if (i + 1 >= ids->n) return;
    const double logprob = gen_logprob(logits, eng->m.hp.n_vocab, ids->id[i + 1]);
    *total += logprob;
    score__json_token(eng, i + 1, ids->id[i + 1], logprob, out);
}

/* The same as one JSON object: the tokens with their texts, how many there are, the sum of the log-probabilities;
 * that is null, and the list short, where an error or an interrupt came in between. */
static bool score_json(engine *eng, const tok_ids *ids, const char *name, out_t *out, err_t *e) {
    double total = 0;
    str    s = {0};
    jw     w = jw_tight(&s);
    jw_open(&w, NULL, '{');
    jw_str(&w, "model", name);
    jw_open(&w, "tokens", '[');
    out_put(out, s.p, s.n);
    score__json_token(eng, 0, ids->id[0], NAN, out);
    const bool ok = score__each(eng, ids, score__put_json, &total, out, e);
    str_clear(&s);
    jw_close(&w, ']');
    jw_fmt(jw_line(&w), "count", "%zu", ids->n);
    jw_number(&w, "total", 9, ok ? total : (double)NAN);
    str_put(&s, "}\n");
    out_put(out, s.p, s.n);
    str_drop(&s);
    return ok;
}

/* Raw little-endian f32, [n][V]. */
static bool score_logits(engine *eng, const tok_ids *ids, out_t *out, err_t *e) {
    return score__each(eng, ids, score__put_logits, NULL, out, e);
}
