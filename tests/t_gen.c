/* A request from its prompt to its text: the published story, stop rules, a full context, memory. */
#include "program.h"
#include "check.h"

typedef struct {
    gguf_file  g;
    tok_vocab *v;
    engine    *eng;
    text_opts  text;                                  /* how answers are written */
} t_run;

static bool t_run_open(t_run *r, const char *path, const engine_opts *fo, const kv_opts *ko, int64_t n_need, bool all) {
    err_t    e = {0};
    engine_opts fo_stress = *fo;
    kv_opts  ko_stress = *ko;
    memset(r, 0, sizeof *r);
    if (t_stress()) {
        fo_stress.n_batch = 1;
        ko_stress.block = 2;
        fo = &fo_stress;
        ko = &ko_stress;
    }
    if (!CHECKF(gguf_open(&r->g, path, &e), "%s", e.text)) return false;
    r->v = tok_load(&r->g, NULL, &e);
    if (!CHECKF(r->v != NULL, "%s", e.text)) return false;
    r->eng = engine_open(&r->g, r->v, fo, ko, all ? score_plan(fo, n_need) : text_plan(fo, n_need, 0), clock_now(), &e);
    return CHECKF(r->eng != NULL, "%s", e.text);
}

static void t_run_close(t_run *r) {
    engine_close(r->eng);
    tok_free(r->v);
    gguf_close(&r->g);
}

/* What text_run() writes for these ids; the caller frees. */
static char *t_run_ids(t_run *r, const tok_ids *ids, const gen_opts *o, const samp_opts *so, uint64_t seed, int *code) {
    err_t  e = {0}, cut = {0};
    char  *text = NULL;
    size_t n = 0;
    out_t  out = {open_memstream(&text, &n), "memory", 0, false};
    CHECKF(gen_fits(r->eng, ids, &e), "%s", e.text);
    const gen_request ask = gen_ask(ids, o, so, seed);
    text_run(r->eng, NULL, &ask, &r->text, &out, &cut, &e);
    CHECK(out_end(&out, &e));
    *code = e.code;
    return text;
}

/* The model's answer to `prompt`; the caller frees. */
static char *t_run_text(t_run *r, const char *prompt, const gen_opts *o, const samp_opts *so, uint64_t seed, int *code) {
    err_t   e = {0};
    tok_ids ids = {0};
    CHECKF(tok_encode(r->v, bytes_of(prompt), TOK_SPECIAL | (tok_add_bos(r->v) ? TOK_BOS : 0), &ids, &e), "%s", e.text);
    char *text = t_run_ids(r, &ids, o, so, seed, code);
    tok_ids_drop(&ids);
    return text;
}

static samp_opts t_greedy(void) {
    samp_opts so = samp_defaults;
    so.temp = 0;
    return so;
}

/* A float model with a long context: the shared one, or the one in this repository. */
static const char *t_gen_model(void) {
    const char *stories = t_shared("data/stories260K.gguf");
    return stories ? stories : "models/pip-f16.gguf";
}

static void t_gen_story(void) {
    const char *model_path = t_shared("data/stories260K.gguf");
    size_t      n_want;
    char       *want = t_read(t_shared("data/stories260K.greedy.txt"), &n_want);
    const char *names[8];
    bool        can[8];
    if (!model_path || !want) SKIP("the shared data is not there");
    int n_levels = k_levels_list(names, can);
    for (int l = 0; l < n_levels; l++)
        for (int threads = 1; can[l] && threads <= 2; threads++) {
            t_run     r;
            engine_opts  fo = engine_defaults;
            gen_opts  o = gen_defaults;
            samp_opts so = t_greedy();
            int       code;
            k_init(names[l]);
            fo.n_threads = threads;
            o.n_predict = 200;
            if (!t_run_open(&r, model_path, &fo, &kv_defaults, 201, false)) return;
            char *got = t_run_text(&r, "", &o, &so, 1, &code);
            EQ_INT(code, 0);
            if (EQ_INT(strlen(got), n_want)) EQ_MEM(got, want, n_want);
            free(got);
            t_run_close(&r);
        }
    mem_free(want);
}

/* The first 200 greedy tokens of a model as text, NULL when it does not run. */
static char *t_greedy_text(const char *model_path) {
    t_run     r;
    int       code;
    gen_opts  o = gen_defaults;
    samp_opts so = t_greedy();
    o.n_predict = 200;
    if (!t_run_open(&r, model_path, &engine_defaults, &kv_defaults, 201, false)) return NULL;
    char *text = t_run_text(&r, "", &o, &so, 1, &code);
    t_run_close(&r);
    return text;
}

/* Text up to each stop string, whatever the borders of tokens. */
static void t_gen_stop(void) {
    const char *model_path = t_gen_model();
    char       *all = t_greedy_text(model_path);
    if (!all) return;
    for (size_t at = 5; at < 200; at += 13)
        for (size_t len = 1; len <= 11; len += 5) {
            t_run       r;
            char        stop[16];
            int         code;
            gen_opts    o = gen_defaults;
            samp_opts   so = t_greedy();
            snprintf(stop, sizeof stop, "%.*s", (int)len, all + at);
            o.n_predict = 200;
            const bytes stops[] = {bytes_of("never said"), bytes_of(stop)};
            o.stop = stops;
            o.n_stop = 2;
            if (!t_run_open(&r, model_path, &engine_defaults, &kv_defaults, 201, false)) return;
            char *got = t_run_text(&r, "", &o, &so, 1, &code);
            size_t want = (size_t)(strstr(all, stop) - all);
            if (EQ_INT(strlen(got), want)) EQ_MEM(got, all, want);
            r.text.ids = true;                        /* the ids end where the text does */
            char *ids = t_run_text(&r, "", &o, &so, 1, &code);
            str   text = {0};
            for (char *p = ids, *end; strtol(p, &end, 10), end != p; p = end) {
                bytes piece = tok_piece(r.v, (int32_t)strtol(p, NULL, 10));
                str_add(&text, piece.p, piece.n);
            }
            const size_t blank = text.n && text.p[0] == ' ' && all[0] != ' ';   /* SentencePiece: a text begins without it */
            CHECKF(text.n - blank <= want && (!text.n || memcmp(text.p + blank, all, text.n - blank) == 0),
                   "ids of \"%.40s\" for stop \"%s\"", text.p, stop);
            CHECKF(want - (text.n - blank) < 12, "ids end %zu bytes early for stop \"%s\"", want - (text.n - blank), stop);
            str_drop(&text);
            free(ids);
            free(got);
            t_run_close(&r);
        }
    free(all);
}

/* Sampled text depends on the seed and on nothing else. */
static void t_gen_seed(void) {
    const char *model_path = t_gen_model();
    char *first[2] = {0};
    for (int run = 0; run < 8; run++) {
        t_run    r;
        int      code;
        engine_opts fo = engine_defaults;
        kv_opts  ko = kv_defaults;
        gen_opts o = gen_defaults;
        fo.n_threads = 1 + run % 2;
        fo.n_batch = run % 3 ? 3 : 512;
        fo.n_ctx = run < 4 ? -1 : 512;
        ko.block = run < 6 ? 32 : 1;
        o.n_predict = 60;
        if (!t_run_open(&r, model_path, &fo, &ko, 100, false)) return;
        char *got = t_run_text(&r, "Once upon a time, there was a dog", &o, &samp_defaults, 42 + (uint64_t)(run & 1), &code);
        if (!first[run & 1]) {
            first[run & 1] = got;
        } else {
            EQ_STR(got, first[run & 1]);
            free(got);
        }
        t_run_close(&r);
    }
    CHECK(strcmp(first[0], first[1]) != 0);
    free(first[0]);
    free(first[1]);
}

/* A full context ends the text, or drops the oldest tokens and continues like a new run over the kept ones. */
static void t_gen_full(void) {
    const char *model_path = t_gen_model();
    t_run     r;
    int       code;
    engine_opts  fo = engine_defaults;
    gen_opts  o = gen_defaults;
    samp_opts so = t_greedy();
    fo.n_ctx = 40;
    o.n_predict = 120;
    o.ignore_eos = true;
    if (!t_run_open(&r, model_path, &fo, &kv_defaults, 40, false)) return;
    r.text.ids = true;
    char *got = t_run_text(&r, "", &o, &so, 1, &code);
    int   n = 0;
    for (char *p = got; *p; p++) n += *p == ' ' || *p == '\n';
    EQ_INT(n, 40);                                    /* 39 fill the context behind the start token, one more is known */
    free(got);
    o.context_shift = true;
    got = t_run_text(&r, "", &o, &so, 1, &code);
    EQ_INT(code, 0);
    int32_t ids[121], k = 0;
    for (char *p = got, *end; k < 121 && (ids[k] = (int32_t)strtol(p, &end, 10), end != p); p = end) k++;
    if (EQ_INT(k, 120)) {                             /* the first shift: 41 tokens, the first kept, 20 dropped */
        tok_ids prompt = {0};
        tok_ids_add(&prompt, tok_bos(r.v));
        for (int i = 20; i < 40; i++) tok_ids_add(&prompt, ids[i]);
        o.n_predict = 15;
        char *text = t_run_ids(&r, &prompt, &o, &so, 1, &code);
        int   i = 40;
        for (char *p = text, *end; strtol(p, &end, 10), end != p; p = end, i++) EQ_INT(strtol(p, NULL, 10), ids[i]);
        EQ_INT(i, 55);                                /* all 15 were there */
        free(text);
        tok_ids_drop(&prompt);
    }
    free(got);
    t_run_close(&r);
}

/* Scores are the logarithms of the softmax of the logits, and neither depends on the chunk. */
static void t_score_chunks(void) {
    const char *model_path = t_gen_model();
    char  *first = NULL, *first_logits = NULL;
    size_t n_first = 0;
    for (int chunk = 1; chunk <= 512; chunk = chunk * 7 + (chunk > 1) * 100) {
        t_run    r;
        tok_ids  ids = {0};
        err_t    e = {0};
        engine_opts fo = engine_defaults;
        char    *score = NULL, *logits = NULL;
        size_t   n = 0, nl = 0;
        fo.n_batch = chunk;
        if (!t_run_open(&r, model_path, &fo, &kv_defaults, 100, true)) return;
        CHECK(tok_encode(r.v, bytes_of("One day, Tom and Lily went to the park. They saw a big dog."), TOK_BOS, &ids, &e));
        out_t out = {open_memstream(&score, &n), "memory", 0, false},
                    out2 = {open_memstream(&logits, &nl), "memory", 0, false};
        CHECK(score_text(r.eng, &ids, &out, &e) && out_end(&out, &e));
        CHECK(score_logits(r.eng, &ids, &out2, &e) && out_end(&out2, &e));
        const size_t V = (size_t)tok_count(r.v);
        EQ_INT(nl, ids.n * V * sizeof(float));
        int   index, id, lines = 0;
        float lp;
        for (char *p = score; sscanf(p, "%d %d %f", &index, &id, &lp) == 3; p = strchr(p, '\n') + 1, lines++) {
            EQ_INT(index, lines + 1);
            EQ_INT(id, ids.id[lines + 1]);
            NEAR((double)lp, gen_logprob((float *)(void *)logits + (size_t)lines * V, (int)V, id), 1e-6);
        }
        EQ_INT(lines, (long long)ids.n - 1);
        if (!first) {
            first = score, first_logits = logits, n_first = nl;
        } else {
            EQ_STR(score, first);
            if (EQ_INT(nl, n_first)) EQ_MEM(logits, first_logits, nl);
            free(score);
            free(logits);
        }
        tok_ids_drop(&ids);
        t_run_close(&r);
    }
    free(first);
    free(first_logits);
}

/* The shortest period p of at most GEN_PERIOD for which each of the last `most` of n tokens is the one p tokens before; 0: none. */
static int t_gen__period(const int32_t *id, int n, int most) {
    for (int p = 1; p <= GEN_PERIOD; p++) {
        int same = 0;
        while (same < most && n - same - p > 0 && id[n - 1 - same] == id[n - 1 - same - p]) same++;
        if (same == most) return p;
    }
    return 0;
}

/* Random texts, which fall into loops of many lengths, and leave them. */
static void t_gen_loop(void) {
    enum { N = 3000 };
    uint64_t drawn = 0;
    int32_t  id[N];
    for (int round = 0; round < 40; round++) {
        gen_opts  o = gen_defaults;
        gen_loop  l = {0};
        const int most = 1 + (int)(rng_at(5, 0, 0, drawn++) % 200), letters = 1 + round % 3;
        int       period = 1, left = 0, seen = 0;
        o.loop_stop = most;
        for (int i = 0; i < N; i++, left--) {
            if (left <= 0) period = (int)(rng_at(5, 0, 0, drawn++) % 80), left = (int)(rng_at(5, 0, 0, drawn++) % 400);
            id[i] = period && i >= period ? id[i - period] : (int32_t)(rng_at(5, 0, 0, drawn++) % (uint64_t)letters);
            const int got = gen_loop_add(&l, &o, id[i]);
            if (!EQ_INT(got, t_gen__period(id, i + 1, most))) return;
            seen += got > 0;
        }
        CHECKF(seen > 0 || most > 150, "round %d: no loop of %d tokens", round, most);
    }
}

static void t_gen_loop_stop(void) {
    static const struct { int loop_stop; int64_t n_predict; int want; } cases[] = {
        {-1, -1, GEN_LOOP_STOP}, {-1, 0, 0}, {-1, 100, 0}, {0, -1, 0}, {0, 5, 0}, {7, -1, 7}, {7, 100, 7}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const gen_opts o = {.n_predict = cases[i].n_predict, .loop_stop = cases[i].loop_stop};
        EQ_INT(gen_loop_stop(&o), cases[i].want);
    }
}

static const t_case t_gen_cases[] = {
    {"gen story", "200 greedy tokens of stories260K, byte for byte, at every level, 1 and 2 threads", t_gen_story},
    {"gen stop", "stop strings cut the text where they begin", t_gen_stop},
    {"gen seed", "a seed gives one text: threads, chunks, blocks and context size do not matter", t_gen_seed},
    {"gen full", "a full context stops, or shifts like a fresh run", t_gen_full},
    {"gen loop", "a loop is found at the token that completes it, with its shortest period, as a plain search finds it", t_gen_loop},
    {"gen loop stop", "a loop ends answers without a bound, and those for which it is asked", t_gen_loop_stop},
    {"score chunks", "scores and logits agree with each other at every chunk", t_score_chunks},
};
static const t_suite t_gen_suite = SUITE(t_gen_cases);
