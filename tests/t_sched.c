/* Many requests through one model: each one's text and log-probabilities are those it has alone, whatever stands beside it. */

enum { T_SCHED_N = 26, T_SCHED_ANSWER = 23 };

typedef struct {
    tok_ids   prompt;
    samp_opts so;
    uint64_t  seed;
    int       n_most, top, same_prompt;                      /* same_prompt: number of the one with the same prompt, -1: none */
    bool      scored, ignore_eos;
    bytes     stop;
} t_sched_line;

typedef struct {
    str       text;
    req_token tok[T_SCHED_ANSWER];
    float     top_lp[T_SCHED_ANSWER * 3];
    int32_t   top_id[T_SCHED_ANSWER * 3];
    int       n_gen, n_cached;
    char      finish[8];
} t_sched_answer;

/* Prompts that share beginnings of many lengths: each takes a part of an earlier one and goes on by itself. */
static void t_sched_lines(t_sched_line *l, int n_vocab, int32_t bos) {
    static const bytes stop = {(const uint8_t *)"e", 1};
    for (int i = 0; i < T_SCHED_N; i++) {
        const uint64_t r = rng_at(99, 0, (uint64_t)i, 0);
        l[i] = (t_sched_line){.so = samp_defaults, .seed = r, .n_most = 1 + (int)(r % T_SCHED_ANSWER), .same_prompt = -1};
        const t_sched_line *from = i ? &l[(r >> 8) % (uint64_t)i] : NULL;
        const size_t        same = from && i % 4 ? from->prompt.n - (r >> 16) % from->prompt.n : 0;
        const size_t        more = i % 7 == 3 ? 0 : 1 + (r >> 24) % 40;
        if (i % 3 == 0) l[i].so.temp = 0;
        if (i % 5 == 1) l[i].so.repeat_penalty = 1.3f;
        l[i].scored = i % 2;
        l[i].top = i % 2 ? i % 4 : 0;
        l[i].ignore_eos = i % 3 != 2;
        if (i % 6 == 4) l[i].stop = stop;
        for (size_t k = 0; k < same; k++) tok_ids_add(&l[i].prompt, from->prompt.id[k]);
        if (!l[i].prompt.n && bos >= 0) tok_ids_add(&l[i].prompt, bos);
        for (size_t k = 0; k < more || !l[i].prompt.n; k++)
            tok_ids_add(&l[i].prompt, (int32_t)(rng_at(7, r, k, 0) % (uint64_t)n_vocab));
        if (i % 7 == 3) {                             /* the same prompt as the one before: a second completion of it */
            tok_ids_drop(&l[i].prompt);
            l[i].prompt = (tok_ids){0};
            for (size_t k = 0; k < l[i - 1].prompt.n; k++) tok_ids_add(&l[i].prompt, l[i - 1].prompt.id[k]);
            l[i].same_prompt = i - 1;
        }
    }
}

typedef struct {
    int         n_seqs, chunk, block, blocks, threads;
    bool        fixed, stress;
    const char *cpu;
    uint32_t    type_k, type_v;
    int         first, last;                          /* lines that are run */
    int         guess;                                /* guesses of each in every step, of the text's own past */
    const char *draft;                                /* or of this model */
} t_sched_how;

static bool t_sched_run(const char *path, const t_sched_line *l, const t_sched_how *h, t_sched_answer *a, sched_stats *st) {
    err_t      e = {0};
    gguf_file  g;
    engine_opts   fo = engine_defaults;
    kv_opts    ko = kv_defaults;
    sched_opts o = {h->n_seqs, h->fixed, h->stress};
    spec_opts  so = {.draft = h->draft, .lookup = h->guess && !h->draft, .most = h->guess, .least = h->guess};
    spec      *guesser = NULL;
    sched_seq *q[T_SCHED_N] = {0};
    int        ended = 0;
    memset(a + h->first, 0, (size_t)(h->last - h->first + 1) * sizeof *a);
    k_init(h->cpu ? h->cpu : "auto");
    fo.n_batch = h->chunk;
    fo.n_threads = h->threads;
    fo.n_ctx = 256;
    ko.block = h->block;
    ko.max_blocks = h->blocks;
    if (h->type_k) ko.type_k = h->type_k, ko.type_v = h->type_v;
    if (!CHECKF(gguf_open(&g, path, &e), "%s", e.text)) return false;
    tok_vocab *v = tok_load(&g, NULL, &e);
    engine    *eng = v ? engine_open(&g, v, &fo, &ko, sched_plan(&fo, h->n_seqs, spec_rows(&so, h->n_seqs), NULL), clock_now(), &e) : NULL;
    if (eng && h->guess) guesser = spec_open(eng, &so, NULL, &fo, &ko, h->n_seqs, &e);
    sched     *sc = eng && !e.code ? sched_new(eng, guesser, &o, &e) : NULL;
    int        next = h->first;
    while (sc && ended <= h->last - h->first) {
        for (; next <= h->last && sched_hungry(sc); next++) {
            const t_sched_line *x = &l[next];
            samp *sm = samp_new(&x->so, eng->m.hp.n_vocab, x->seed, 0, &e);
            if (!CHECKF(sm != NULL, "%s", e.text)) return false;
            q[next] = sched_seq_new(eng, &x->prompt, sm, x->scored, x->top);
            q[next]->n_most = x->n_most;
            q[next]->ignore_eos = x->ignore_eos;
            q[next]->stop = &x->stop;
            q[next]->n_stop = x->stop.n > 0;
            q[next]->same_prompt = x->same_prompt >= h->first ? q[x->same_prompt] : NULL;
            q[next]->owner = &a[next];
            sched_add(sc, q[next]);
        }
        if (!CHECKF(sched_step(sc, -1, &e), "%s after %d of %d", e.text, ended, h->last - h->first + 1)) break;
        for (sched_seq *s; (s = sched_ended(sc));) {
            t_sched_answer *to = s->owner;
            ended++;
            CHECKF(!s->err.code, "%s", s->err.text);
            *to = (t_sched_answer){.text = s->text, .n_gen = s->n_gen, .n_cached = s->n_cached};
            snprintf(to->finish, sizeof to->finish, "%s", s->finish ? s->finish : "none");
            if (s->scored) memcpy(to->tok, s->tok, (size_t)s->n_gen * sizeof *s->tok);
            if (s->top) memcpy(to->top_id, s->top_id, (size_t)(s->n_gen * s->top) * sizeof *s->top_id);
            if (s->top) memcpy(to->top_lp, s->top_lp, (size_t)(s->n_gen * s->top) * sizeof *s->top_lp);
            s->text = (str){0};
            CHECKF(s->n_cached < s->n_prompt, "%d of %d prompt tokens adopted", s->n_cached, s->n_prompt);
        }
    }
    if (sc) {
        int peak;
        *st = sc->st;
        EQ_INT(kv_held(eng->kv, &peak), 0);           /* nothing is held by nobody */
        EQ_INT(sc->st.ended, ended);
    }
    if (h->guess && sc && !h->fixed) {
        const spec_source from = h->draft ? SPEC_DRAFT : SPEC_LOOKUP;
        const long long   made = spec_guessed(guesser, from), right = spec_accepted(guesser, from);
        CHECKF(made > (h->draft ? 10 : 0) && right <= made, "%lld guesses, %lld of them right", made, right);
        if (h->draft && strcmp(h->draft, path) == 0) CHECKF(right > made / 2, "its own draft: %lld of %lld guesses right", right, made);
    }
    for (int i = h->first; i <= h->last; i++) sched_seq_free(q[i]);
    sched_free(sc);
    if (guesser && guesser->draft) {
        int peak;
        EQ_INT(kv_held(guesser->draft->kv, &peak), 0);
    }
    spec_close(guesser);
    engine_close(eng);
    tok_free(v);
    gguf_close(&g);
    k_init("auto");
    return CHECKF(sc != NULL, "%s", e.text) && ended > h->last - h->first;
}

static void t_sched_equal(const t_sched_answer *a, const t_sched_answer *b, const t_sched_line *l, int i, const char *how) {
    const size_t tops = (size_t)(l->top * a->n_gen);
    CHECKF(a->n_gen == b->n_gen && strcmp(a->finish, b->finish) == 0 && a->text.n == b->text.n &&
               memcmp(a->text.p, b->text.p, a->text.n) == 0, "line %d, %s: %d tokens, \"%s\", %s; alone %d, \"%s\", %s", i, how,
           a->n_gen, a->text.p, a->finish, b->n_gen, b->text.p, b->finish);
    if (l->scored && a->n_gen == b->n_gen)
        CHECKF(memcmp(a->tok, b->tok, (size_t)a->n_gen * sizeof *a->tok) == 0 &&
                   memcmp(a->top_id, b->top_id, tops * sizeof *a->top_id) == 0 &&
                   memcmp(a->top_lp, b->top_lp, tops * sizeof *a->top_lp) == 0, "line %d, %s: log-probabilities", i, how);
}

static void t_sched_drop(t_sched_answer *a) {
    for (int i = 0; i < T_SCHED_N; i++) str_drop(&a[i].text);
}

static void t_sched_model(const char *path, uint32_t type) {
    static const t_sched_how hows[] = {
        /* seqs chunk block blocks threads fixed  stress ... guesses, draft: the model itself */
        {1, 512, 16, 0, 1, false, false, NULL, 0, 0, 0, 0, 0, NULL},      {2, 64, 32, 0, 2, false, false, NULL, 0, 0, 0, 0, 0, NULL},
        {8, 7, 8, 0, 2, false, false, NULL, 0, 0, 0, 0, 0, NULL},         {32, 512, 16, 0, 2, false, false, NULL, 0, 0, 0, 0, 0, NULL},
        {8, 33, 4, 64, 1, false, false, NULL, 0, 0, 0, 0, 0, NULL},       {32, 512, 1, 270, 2, false, false, NULL, 0, 0, 0, 0, 0, NULL},
        {4, 1, 2, 80, 2, false, true, NULL, 0, 0, 0, 0, 0, NULL},         {32, 5, 2, 110, 1, false, true, NULL, 0, 0, 0, 0, 0, NULL},
        {1, 512, 32, 0, 2, false, false, NULL, 0, 0, 0, 0, 3, NULL}, {32, 64, 8, 0, 2, false, false, NULL, 0, 0, 0, 0, 5, NULL},
        {1, 512, 16, 0, 1, false, false, NULL, 0, 0, 0, 0, 1, ""},   {8, 7, 8, 0, 2, false, false, NULL, 0, 0, 0, 0, 8, ""},
        {32, 512, 4, 0, 2, false, false, NULL, 0, 0, 0, 0, 16, ""},  {32, 5, 2, 110, 1, false, true, NULL, 0, 0, 0, 0, 4, ""},
        {8, 512, 16, 0, 2, true, false, NULL, 0, 0, 0, 0, 0, NULL},       {6, 16, 8, 0, 2, false, false, "scalar", 0, 0, 0, 0, 0, NULL},
    };
    t_sched_line   l[T_SCHED_N];
    t_sched_answer alone[T_SCHED_N], a[T_SCHED_N];
    sched_stats    st;
    gguf_file      g;
    err_t          e = {0};
    if (!CHECKF(gguf_open(&g, path, &e), "%s", e.text)) return;
    tok_vocab *v = tok_load(&g, NULL, &e);
    t_sched_lines(l, tok_count(v), tok_bos(v));
    tok_free(v);
    gguf_close(&g);
    for (int i = 0; i < T_SCHED_N; i++) {
        const t_sched_how h = {1, 512, 32, 0, 1, false, false, NULL, type, type, i, i, 0, NULL};
        if (!t_sched_run(path, l, &h, alone, &st)) return;
        EQ_INT(st.cached, 0);
    }
    for (size_t k = 0; k < sizeof hows / sizeof *hows; k++) {
        t_sched_how h = hows[k];
        char        how[64];
        snprintf(how, sizeof how, "%s %s way %zu", strrchr(path, '/') + 1, k_types[type].name, k);
        if (h.draft) h.draft = path;
        h.type_k = h.type_v = type;
        h.last = T_SCHED_N - 1;
        if (!t_sched_run(path, l, &h, a, &st)) return;
        for (int i = 0; i < T_SCHED_N; i++) t_sched_equal(&a[i], &alone[i], &l[i], i, how);
        if (h.stress && h.n_seqs > 1) CHECKF(st.preempted > 10, "%s: preempted %lld times", how, st.preempted);
        CHECKF(st.cached > 0, "%s: nothing was shared", how);
        t_sched_drop(a);
    }
    t_sched_drop(alone);
    for (int i = 0; i < T_SCHED_N; i++) tok_ids_drop(&l[i].prompt);
}

static void t_sched_invariance(void) {
    static const char *const models[] = {"llama", "llama_window", "qwen3moe_q8_0", "llama_q4_k_m"};
    char                     path[256];
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        snprintf(path, sizeof path, "tests/data/tiny/%s.gguf", models[i]);
        t_sched_model(path, K_F16);
    }
    t_sched_model("tests/data/tiny/qwen3.gguf", K_Q8_0);
    t_sched_model("tests/data/tiny/qwen3.gguf", K_Q4_0);
}

/* One prompt for all: it is read once, and each copy of it costs one row. */
static void t_sched_shares(void) {
    t_sched_line   l[T_SCHED_N];
    t_sched_answer a[T_SCHED_N];
    sched_stats    st;
    memset(l, 0, sizeof l);
    for (int i = 0; i < T_SCHED_N; i++) {
        l[i] = (t_sched_line){.so = samp_defaults, .seed = (uint64_t)i, .n_most = 5, .same_prompt = -1, .ignore_eos = true};
        for (int k = 0; k < 100; k++) tok_ids_add(&l[i].prompt, 5 + k);
        if (i) l[i].same_prompt = 0;
    }
    const t_sched_how h = {T_SCHED_N, 512, 16, 0, 2, false, false, NULL, 0, 0, 0, T_SCHED_N - 1, 0, NULL};
    if (t_sched_run("tests/data/tiny/llama.gguf", l, &h, a, &st)) {
        EQ_INT(a[0].n_cached, 0);
        for (int i = 1; i < T_SCHED_N; i++) EQ_INT(a[i].n_cached, 99);
        EQ_INT(st.prefill, 100 + T_SCHED_N - 1);
    }
    t_sched_drop(a);
    for (int i = 0; i < T_SCHED_N; i++) {             /* sequences with one prompt that are not marked: whole blocks, and the rest of one */
        l[i].same_prompt = -1;
        tok_ids_add(&l[i].prompt, 200 + i);
    }
    if (t_sched_run("tests/data/tiny/llama.gguf", l, &h, a, &st))
        for (int i = 1; i < T_SCHED_N; i++) EQ_INT(a[i].n_cached, 96);
    t_sched_drop(a);
    for (int i = 0; i < T_SCHED_N; i++) tok_ids_drop(&l[i].prompt);
}

/* A sequence that must wait for room leaves the cache alone: neither blocks nor the order in which idle ones are given away change. */
static void t_sched_full(void) {
    const char *path = "tests/data/tiny/llama.gguf";
    err_t       e = {0};
    gguf_file   g;
    engine_opts    fo = engine_defaults;
    kv_opts     ko = kv_defaults;
    sched_opts  o = {4, false, false};
    sched_seq  *q[4];
    ko.block = 4;
    ko.max_blocks = 30;
    if (t_stress()) SKIP("a stress build preempts sequences in every step");
    if (!CHECKF(gguf_open(&g, path, &e), "%s", e.text)) return;
    tok_vocab *v = tok_load(&g, NULL, &e);
    engine    *eng = engine_open(&g, v, &fo, &ko, sched_plan(&fo, 4, 0, NULL), clock_now(), &e);
    sched     *sc = sched_new(eng, NULL, &o, &e);
    const struct {
        int n_prompt, n_most, first;                  /* the prompt is first, first + 1 ... */
    } lines[] = {{20, 1, 5}, {20, 2, 200}, {20, 60, 100}, {80, 5, 5}};   /* two leave idle blocks, one runs, one begins like the first */
    for (int i = 0; i < 4; i++) {
        tok_ids ids = {0};
        for (int k = 0; k < lines[i].n_prompt; k++) tok_ids_add(&ids, lines[i].first + k);
        samp_opts so = t_greedy();
        q[i] = sched_seq_new(eng, &ids, samp_new(&so, eng->m.hp.n_vocab, 1, 0, &e), false, 0);
        q[i]->n_most = lines[i].n_most;
        q[i]->ignore_eos = true;
        tok_ids_drop(&ids);
        if (i < 3) sched_add(sc, q[i]);
    }
    while ((!q[0]->finish || !q[1]->finish) && sched_step(sc, -1, &e)) continue;
    const kv_tree *t = eng->kv->tree;
    const int32_t  oldest = t->oldest, newest = t->newest;
    CHECKF(q[1]->finish && !q[2]->finish && t->n_idle >= 10, "%d blocks idle", t->n_idle);
    sched_add(sc, q[3]);
    int waited = 0;
    for (; !q[3]->kv && sched_step(sc, -1, &e) && !q[2]->finish; waited++)
        CHECKF(t->oldest == oldest && t->newest == newest, "after %d steps: idle from %d to %d, were from %d to %d", waited, t->oldest, t->newest, oldest, newest);
    CHECKF(waited > 20, "it waited %d steps", waited);
    while (!q[3]->finish && sched_step(sc, -1, &e)) continue;
    EQ_INT(q[3]->n_gen, 5);
    EQ_INT(q[3]->n_cached, 20);
    for (int i = 0; i < 4; i++) sched_seq_free(q[i]);
    sched_free(sc);
    engine_close(eng);
    tok_free(v);
    gguf_close(&g);
}

static void t_sched_hist(void) {
    hist h = {{0}, 0};
    CHECK(hist_at(&h, 0.5) == 0);
    for (int i = 1; i <= 1000; i++) hist__add(&h, i * 1e-3);
    for (int p = 1; p < 100; p += 7) CHECKF(fabs(hist_at(&h, p / 100.0) / (p * 1e-2) - 1) < 0.023, "%d %%: %g s", p, hist_at(&h, p / 100.0));
    hist__add(&h, 0);
    hist__add(&h, 1e300);
    EQ_INT(h.all, 1002);
}

static const t_case t_sched_cases[] = {
    {"sched_invariance", "a request's text is the one it has alone", t_sched_invariance},
    {"sched_shares", "one prompt is read once", t_sched_shares},
    {"sched_full", "a sequence that waits for room leaves the cache alone", t_sched_full},
    {"sched_hist", "percentiles", t_sched_hist},
};
