/* Many requests through one model: each has the text and log-probabilities of a run alone. */
#include "program.h"
#include "check.h"
#include "t_base.h"
#include "t_gen.h"

enum { T_SCHED_N = 26, T_SCHED_ANSWER = 23 };

typedef struct {
    tok_ids     prompt;
    gen_request r;                                    /* without its prompt */
    bytes       stop;
    int         nth;                                  /* of the completions of one request; 0: the first */
} t_sched_line;

/* A bound of some tokens for thinking that begins in the prompt, or at the first of frequent letters. */
static const tok_ids t_sched_close = {(int32_t[]){9, 10, 11}, 3, 3};

static gen_think t_sched_think(int i) {
    return (gen_think){.most = i % 6, .inside = i % 2, .anywhere = true, .open = bytes_of("o"), .end = bytes_of("e"),
                       .close = &t_sched_close};
}

/* Prompts that share beginnings of many lengths: each takes a part of an earlier one and continues differently. Every
 * seventh line is a second completion of the line before. */
static void t_sched_lines(t_sched_line *l, int n_vocab, int32_t bos) {
    for (int i = 0; i < T_SCHED_N; i++) {
        const uint64_t    r = rng_at(99, 0, (uint64_t)i, 0);
        const gen_opts    o = {.n_predict = i % 3 ? 1 + (int)(r % T_SCHED_ANSWER) : T_SCHED_ANSWER, .ignore_eos = i % 3 != 2};
        const t_sched_line *from = i ? &l[(r >> 8) % (uint64_t)i] : NULL;
        const size_t        same = from && i % 4 ? from->prompt.n - (r >> 16) % from->prompt.n : 0;
        const size_t        more = 1 + (r >> 24) % 40;
        memset(&l[i], 0, sizeof l[i]);
        if (i % 7 == 3) {
            l[i] = l[i - 1];
            l[i].nth++;
            l[i].r.index++;
            l[i].prompt = (tok_ids){0};
            for (size_t k = 0; k < l[i - 1].prompt.n; k++) tok_ids_add(&l[i].prompt, l[i - 1].prompt.id[k]);
            continue;
        }
        l[i].r = gen_ask(NULL, &o, &samp_defaults, r);
        if (i % 3 == 0) l[i].r.samp.temp = 0;
        if (i % 5 == 1) l[i].r.samp.repeat_penalty = 1.3f;
        l[i].r.logprobs = i % 2;
        l[i].r.top = i % 2 ? i % 4 : 0;
        if (i % 6 == 4) l[i].stop = bytes_of("e");
        if (i % 5 >= 3) l[i].r.gen.think = t_sched_think(i);
        for (size_t k = 0; k < same; k++) tok_ids_add(&l[i].prompt, from->prompt.id[k]);
        if (!l[i].prompt.n && bos >= 0) tok_ids_add(&l[i].prompt, bos);
        for (size_t k = 0; k < more || !l[i].prompt.n; k++)
            tok_ids_add(&l[i].prompt, (int32_t)(rng_at(7, r, k, 0) % (uint64_t)n_vocab));
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
    bool        head;                                 /* or of the model's draft head */
} t_sched_how;

/* Adds the request of line i, with the completions that follow it up to line `last`. Returns their number, 0: it
 * was refused. */
static int t_sched_ask(sched *sc, const t_sched_line *l, int i, int last, gen_answer *a) {
    gen_request r = l[i].r;
    err_t       e = {0};
    r.prompt = &l[i].prompt;
    r.owner = a + i - r.index;                        /* its completions are numbered from there */
    if (l[i].stop.n) r.gen.stop = &l[i].stop, r.gen.n_stop = 1;
    while (i + r.n <= last && l[i + r.n].nth) r.n++;
    return CHECKF(sched_add(sc, &r, &e) != NULL, "%s", e.text) ? r.n : 0;
}

static long long t_sched_made, t_sched_right;         /* guesses of all runs */
static bool      t_sched_exact;                       /* keys and values are kept in f32 */
static int       t_sched_masks;                       /* n_masks of the plan */
static bool      t_sched_live;                        /* runs are as a server's: requests are held back now and then */

/* In step n of a run as a server's some lines are held back. */
static void t_sched_hold_some(sched *sc, const t_sched_line *l, int n, int last, gen_answer *a) {
    for (int i = 0; i <= last && t_sched_live; i++)
        sched_pause(sc, a + i - l[i].r.index, l[i].r.index, rng_at(5, (uint64_t)n / 3, (uint64_t)i, 0) % 3 == 0);
}

/* All go on where all were held back. */
static bool t_sched_release(sched *sc, const t_sched_line *l, int last, gen_answer *a) {
    for (int i = 0; i <= last; i++) sched_pause(sc, a + i - l[i].r.index, l[i].r.index, false);
    return t_sched_live;
}

static bool t_sched_run(const char *path, const t_sched_line *l, const t_sched_how *h, gen_answer *a, sched_stats *st) {
    err_t      e = {0};
    gguf_file  g;
    engine_opts   fo = engine_defaults;
    kv_opts    ko = kv_defaults;
    sched_opts o = {.n_seqs = h->n_seqs, .fixed = h->fixed, .stress = h->stress, .live = t_sched_live};
    spec_opts  so = {.draft = h->draft, .lookup = h->guess && !h->draft && !h->head, .head = h->head, .most = h->guess,
                     .least = h->guess};
    spec      *guesser = NULL;
    int        ended = 0, step = 0;
    memset(a + h->first, 0, (size_t)(h->last - h->first + 1) * sizeof *a);
    k_init(h->cpu ? h->cpu : "auto");
    fo.n_batch = h->chunk;
    fo.n_threads = h->threads;
    fo.n_ctx = 256;
    ko.block = h->block;
    ko.max_blocks = h->blocks;
    if (h->type_k) ko.type_k = h->type_k, ko.type_v = h->type_v;
    if (t_sched_exact) ko.type_k = ko.type_v = K_F32;
    if (!CHECKF(gguf_open(&g, path, &e), "%s", e.text)) return false;
    tok_vocab *v = tok_load(&g, NULL, &e);
    engine_plan plan = sched_plan(&fo, h->n_seqs, spec_rows(&so, h->n_seqs), NULL);
    plan.head = h->head;
    plan.n_masks = t_sched_masks;
    engine    *eng = v ? engine_open(&g, v, &fo, &ko, plan, clock_now(), &e) : NULL;
    if (eng && h->guess) guesser = spec_open(eng, &so, NULL, &fo, &ko, h->n_seqs, &e);
    sched     *sc = eng && !e.code ? sched_new(eng, guesser, &o, &e) : NULL;
    int        next = h->first;
    while (sc && ended <= h->last - h->first) {
        for (int n; next <= h->last && sched_has_room(sc); next += n)
            if (!(n = t_sched_ask(sc, l, next, h->last, a))) return false;
        t_sched_hold_some(sc, l, step++, h->last, a);
        if (!CHECKF(sched_step(sc, -1, &e) || (!e.code && t_sched_release(sc, l, h->last, a)), "%s after %d of %d", e.text, ended, h->last - h->first + 1)) break;
        for (gen_answer got; sched_take(sc, &got); ended++) {
            gen_answer *to = (gen_answer *)got.owner + got.index;
            CHECKF(got.finish && gen_finish_names[got.finish] && !got.err.code, "%s", got.err.text);
            CHECKF(!to->finish, "line %d is answered twice", (int)(to - a));
            CHECKF(got.n_cached < got.n_prompt && got.n_read == got.n_prompt,
                   "%d of %d prompt tokens read, %d from the cache", got.n_read, got.n_prompt,
                   got.n_cached);
            CHECK(got.t_start > 0 && (!got.n_tok || (got.t_first >= got.t_start && got.t_last >= got.t_first)));
            *to = got;
        }
    }
    if (sc) {
        int peak;
        *st = sc->st;
        CHECK(sched_idle(sc) && sched_has_room(sc));
        EQ_INT(kv_held(eng->kv, &peak), 0);           /* nothing is held by nobody */
        EQ_INT(sc->st.ended, ended);
    }
    if (h->guess && sc && !h->fixed) {
        const spec_source from = h->draft ? SPEC_DRAFT : h->head ? SPEC_HEAD : SPEC_LOOKUP;
        const long long   made = spec_guessed(guesser, from), right = spec_accepted(guesser, from);
        t_sched_made += made, t_sched_right += right;
        CHECKF(made > (h->draft && !t_sched_live ? 10 : 0) && right <= made, "%lld guesses, %lld of them right", made, right);
        if (h->draft && strcmp(h->draft, path) == 0)
            CHECKF(right > made / 2, "its own draft: %lld of %lld guesses right", right, made);
    }
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

static void t_sched_equal(const gen_answer *a, const gen_answer *b, const t_sched_line *l, int i, const char *how) {
    const size_t tops = (size_t)(l->r.top * a->n_tok);
    CHECKF(a->n_tok == b->n_tok && a->finish == b->finish && a->text.n == b->text.n &&
           memcmp(a->text.p, b->text.p, a->text.n) == 0,
           "line %d, %s: %d tokens, \"%s\", %d; alone %d, \"%s\", %d", i, how, a->n_tok, a->text.p, a->finish, b->n_tok,
           b->text.p, b->finish);
    if (l->r.logprobs && a->n_tok == b->n_tok)
        CHECKF(memcmp(a->tok, b->tok, (size_t)a->n_tok * sizeof *a->tok) == 0 &&
                   (!tops || (memcmp(a->top_id, b->top_id, tops * sizeof *a->top_id) == 0 &&
                              memcmp(a->top_lp, b->top_lp, tops * sizeof *a->top_lp) == 0)),
               "line %d, %s: log-probabilities", i, how);
}

static void t_sched_drop(gen_answer *a) {
    for (int i = 0; i < T_SCHED_N; i++) gen_answer_drop(&a[i]);
}

static void t_sched_model(const char *path, uint32_t type, bool brief) {
    static const t_sched_how hows[] = {
        /* seqs chunk block blocks threads fixed  stress ... guesses, draft: the model itself, its head */
        {1, 512, 16, 0, 1, false, false, NULL, 0, 0, 0, 0, 0, NULL, false},
        {2, 64, 32, 0, 2, false, false, NULL, 0, 0, 0, 0, 0, NULL, false},
        {8, 7, 8, 0, 2, false, false, NULL, 0, 0, 0, 0, 0, NULL, false},
        {32, 512, 16, 0, 2, false, false, NULL, 0, 0, 0, 0, 0, NULL, false},
        {8, 33, 4, 64, 1, false, false, NULL, 0, 0, 0, 0, 0, NULL, false},
        {32, 512, 1, 270, 2, false, false, NULL, 0, 0, 0, 0, 0, NULL, false},
        {4, 1, 2, 80, 2, false, true, NULL, 0, 0, 0, 0, 0, NULL, false},
        {32, 5, 2, 110, 1, false, true, NULL, 0, 0, 0, 0, 0, NULL, false},
        {1, 512, 32, 0, 2, false, false, NULL, 0, 0, 0, 0, 3, NULL, false},
        {32, 64, 8, 0, 2, false, false, NULL, 0, 0, 0, 0, 5, NULL, false},
        {1, 512, 16, 0, 1, false, false, NULL, 0, 0, 0, 0, 1, "", false},
        {8, 7, 8, 0, 2, false, false, NULL, 0, 0, 0, 0, 8, "", false},
        {32, 512, 4, 0, 2, false, false, NULL, 0, 0, 0, 0, 16, "", false},
        {32, 5, 2, 110, 1, false, true, NULL, 0, 0, 0, 0, 4, "", false},
        {8, 512, 16, 0, 2, true, false, NULL, 0, 0, 0, 0, 0, NULL, false},
        {6, 16, 8, 0, 2, false, false, "scalar", 0, 0, 0, 0, 0, NULL, false},
        {1, 512, 16, 0, 1, false, false, NULL, 0, 0, 0, 0, 3, NULL, true},
        {8, 7, 8, 0, 2, false, false, NULL, 0, 0, 0, 0, 8, NULL, true},
        {32, 512, 4, 0, 2, false, false, NULL, 0, 0, 0, 0, 15, NULL, true},
        {32, 5, 2, 110, 1, false, true, NULL, 0, 0, 0, 0, 4, NULL, true},
    };
    /* chunks, few blocks, preemption, lookup, a draft, draft heads */
    enum { T_SCHED_BRIEF = 1 << 2 | 1 << 4 | 1 << 7 | 1 << 9 | 1 << 11 | 1 << 17 | 1 << 19 };
    t_sched_line   l[T_SCHED_N];
    gen_answer     alone[T_SCHED_N], a[T_SCHED_N];
    sched_stats    st;
    gguf_file      g;
    err_t          e = {0};
    if (!CHECKF(gguf_open(&g, path, &e), "%s", e.text)) return;
    tok_vocab *v = tok_load(&g, NULL, &e);
    t_sched_lines(l, tok_count(v), tok_bos(v));
    arch_hparams hp;
    const bool   head = arch_has_head(&g), drafts = arch_load(&hp, &g, &e) && !arch_whole(&hp);
    arch_drop(&hp);
    tok_free(v);
    gguf_close(&g);
    for (int i = 0; i < T_SCHED_N; i++) {
        const t_sched_how h = {1, 512, 32, 0, 1, false, false, NULL, type, type, i, i, 0, NULL, false};
        if (!t_sched_run(path, l, &h, alone, &st)) return;
        EQ_INT(st.cached, 0);
    }
    for (size_t k = 0; k < sizeof hows / sizeof *hows; k++) {
        t_sched_how h = hows[k];
        if ((brief && !(T_SCHED_BRIEF >> k & 1)) || (h.head && !head) || (h.draft && !drafts)) continue;
        char        how[64];
        snprintf(how, sizeof how, "%s %s way %zu", strrchr(path, '/') + 1, k_types[type].name, k);
        if (h.draft) h.draft = path;
        h.type_k = h.type_v = type;
        h.last = T_SCHED_N - 1;
        t_sched_live = k % 2 && !h.fixed;
        const bool ran = t_sched_run(path, l, &h, a, &st);
        t_sched_live = false;
        if (!ran) return;
        for (int i = 0; i < T_SCHED_N; i++) t_sched_equal(&a[i], &alone[i], &l[i], i, how);
        if (h.stress && h.n_seqs > 1) CHECKF(st.preempted > 10, "%s: preempted %lld times", how, st.preempted);
        CHECKF(st.cached > 0 || (!drafts && h.n_seqs == 1), "%s: nothing was shared", how);
        t_sched_drop(a);
    }
    t_sched_drop(alone);
    for (int i = 0; i < T_SCHED_N; i++) tok_ids_drop(&l[i].prompt);
}

/* Models with every kind of layer and cache. A short one goes through the ways that differ most for it. */
static const struct { const char *path; uint32_t type; bool brief; } t_sched_models[] = {
    {"tests/data/tiny/llama.gguf", K_F16, false},
    {"tests/data/tiny/llama_window.gguf", K_F16, false},
    {"tests/data/tiny/qwen3moe_q8_0.gguf", K_F16, false},
    {"tests/data/tiny/llama_q4_k_m.gguf", K_F16, false},
    {"tests/data/tiny/qwen3.gguf", K_Q8_0, false},
    {"tests/data/tiny/qwen3.gguf", K_Q4_0, false},
    {"tests/data/invented/invented.gguf", K_F16, false},   /* three groups of the cache: two windows and all positions */
    {"tests/data/tiny/gemma3.gguf", K_F16, true},                    /* a window in some layers, all positions in others */
    {"tests/data/tiny/gpt-oss.gguf", K_F16, true},                   /* the same with sinks and experts */
    {"tests/data/tiny/qwen35.gguf", K_F16, false},                   /* gated delta nets */
    {"tests/data/tiny/qwen35_near.gguf", K_F16, false},              /* a draft head that is often right */
    {"tests/data/tiny/qwen35moe_mtp.gguf", K_Q8_0, true},            /* one that never is */
    {"tests/data/tiny/qwen3next.gguf", K_F16, true},
    {"tests/data/tiny/lfm2moe.gguf", K_F16, true},                   /* short convolutions */
    {"tests/data/tiny/qwen35.gguf", K_F16, true},                    /* gated delta nets */
    {"tests/data/tiny/lfm2.gguf", K_F16, true},                      /* short convolutions */
    {"tests/data/tiny/qwen4exp.gguf", K_F16, false},                 /* a table of n-grams, and blocks that an indexer chooses */
    {"tests/data/pairs/t5.gguf", K_F16, false},                      /* an encoder and a decoder */
    {"tests/data/pairs/t5_gated.gguf", K_Q8_0, true},
};

static void t_sched_invariance(void) {
    for (size_t i = 0; i < sizeof t_sched_models / sizeof *t_sched_models; i++)
        t_sched_model(t_sched_models[i].path, t_sched_models[i].type, t_sched_models[i].brief);
}

/* The answers that argmax gives, as the float64 reading has them: tests/data/pairs/NAME.greedy. */
static void t_sched_pairs(void) {
    static const char *const names[] = {"t5", "t5_gated", "t5_umt5"};
    for (size_t m = 0; m < 3; m++) {
        t_sched_line l[1] = {{.r = gen_ask(NULL, &(gen_opts){.n_predict = 24}, &samp_defaults, 0)}};
        gen_answer   a[1];
        sched_stats  st;
        size_t       n_bytes;
        char         path[2][80], *ids, *want, *at;
        int          n = 0;
        for (int i = 0; i < 2; i++) snprintf(path[i], sizeof path[i], "tests/data/pairs/%s.%s", names[m], i ? "greedy" : "ids");
        at = ids = (char *)t_read(path[0], &n_bytes);
        want = (char *)t_read(path[1], &n_bytes);
        for (const char *line = strchr(ids, '\n'); at < line;) tok_ids_add(&l->prompt, (int32_t)strtol(at, &at, 10));
        l->r.samp.temp = 0;
        snprintf(path[0], sizeof path[0], "tests/data/pairs/%s.gguf", names[m]);
        const t_sched_how h = {1, 512, 32, 0, 1, false, false, NULL, K_F32, K_F32, 0, 0, 0, NULL, false};
        t_sched_exact = true;
        const bool ran = t_sched_run(path[0], l, &h, a, &st);
        t_sched_exact = false;
        if (ran) {
            for (at = want; n < a->n_tok; n++) EQ_INT(a->tok[n].id, strtol(at, &at, 10));
            const long left = strtol(at, &at, 10);
            CHECKF(n == 24 || (a->finish == GEN_END_TOKEN && left == 2), "%s: %d tokens, then %ld", names[m], n, left);
            EQ_INT(a->n_prompt, (int)l->prompt.n);
        }
        gen_answer_drop(a);
        tok_ids_drop(&l->prompt);
        mem_free_all(ids, want);
    }
}

/* A list of ids with commas, up to a space or the end of a line; where it ends. */
static char *t_sched_ids(char *at, tok_ids *ids) {
    while (*at == ' ') at++;
    do tok_ids_add(ids, (int32_t)strtol(at, &at, 10));
    while (*at++ == ',');
    return at - 1;
}

/* Answers of a model that decodes by diffusion: those of a loop over a float64 reading's logits, one after another, all at once and
 * with preemption, with logits for all masks and for some of them in a step; draws and random orders are the same alone and in company. */
static void t_sched_diffuse_of(const char *name) {
    t_sched_line l[16];
    tok_ids      want[8];
    gen_answer   alone[16], a[16];
    sched_stats  st;
    size_t       n_bytes;
    char         path[80];
    int          n = 0;
    memset(l, 0, sizeof l);
    memset(want, 0, sizeof want);
    snprintf(path, sizeof path, "tests/data/diffuse/%s.answers", name);
    char *text = (char *)t_read(path, &n_bytes);
    for (char *at = text; *at && n < 8; n++, at += *at == '\n') {
        gen_opts o = gen_defaults;
        o.diffuse.steps = (int)strtol(at, &at, 10);
        o.diffuse.block = (int)strtol(at, &at, 10);
        o.diffuse.eps = strtof(at, &at);
        o.diffuse.algorithm = (int)strtol(at, &at, 10);
        o.n_predict = 40;
        l[n].r = gen_ask(NULL, &o, &samp_defaults, 7);
        l[n].r.samp.temp = 0;
        at = t_sched_ids(t_sched_ids(at, &l[n].prompt), &want[n]);
    }
    for (int i = 0; i < n; i++) {                     /* the same prompts with draws */
        l[n + i].r = l[i].r;
        l[n + i].r.samp.temp = 0.9f;
        l[n + i].r.gen.diffuse.algorithm = i % DIFFUSE_ALGORITHMS;
        l[n + i].r.gen.diffuse.alg_temp = i % 2 ? 0.3f : 0;
        l[n + i].r.gen.diffuse.steps = 9;
        for (size_t k = 0; k < l[i].prompt.n; k++) tok_ids_add(&l[n + i].prompt, l[i].prompt.id[k]);
    }
    snprintf(path, sizeof path, "tests/data/diffuse/%s.gguf", name);
    for (int way = 0; way < 4; way++) {
        static const t_sched_how hows[] = {{1, 512, 32, 0, 1, false, false, NULL, K_F32, K_F32, 0, 0, 0, NULL, false},
                                           {8, 512, 8, 0, 2, false, false, NULL, K_F32, K_F32, 0, 0, 0, NULL, false},
                                           {3, 16, 4, 40, 2, false, true, NULL, K_F32, K_F32, 0, 0, 0, NULL, false},
                                           {1, 512, 16, 0, 1, false, false, "scalar", K_F32, K_F32, 0, 0, 0, NULL, false}};
        t_sched_how h = hows[way];
        h.last = 2 * n - 1;
        t_sched_live = way == 1;
        t_sched_masks = (int[]){0, -40, 7, 16}[way];   /* fewer logits in a step than masks that need a pick */
        const bool ran = t_sched_run(path, l, &h, way ? a : alone, &st);
        t_sched_live = false;
        t_sched_masks = 0;
        if (!ran) return;
        if (way == 2) CHECKF(st.preempted > 3, "%s: preempted %lld times", name, st.preempted);
        for (int i = 0; !way && i < n; i++) {
            EQ_INT(alone[i].n_tok, (int)want[i].n);
            for (int k = 0; k < alone[i].n_tok; k++)
                CHECKF(alone[i].tok[k].id == want[i].id[k], "%s, answer %d, token %d: got %d, want %d", name, i, k,
                       alone[i].tok[k].id, want[i].id[k]);
        }
        for (int i = 0; way && i < 2 * n; i++) t_sched_equal(&a[i], &alone[i], &l[i], i, name);
        for (int i = 0; way && i < 2 * n; i++) gen_answer_drop(&a[i]);
    }
    for (int i = 0; i < 2 * n; i++) gen_answer_drop(&alone[i]), tok_ids_drop(&l[i].prompt);
    for (int i = 0; i < n; i++) tok_ids_drop(&want[i]);
    mem_free(text);
}

static void t_sched_diffuse(void) {
    t_sched_exact = true;
    t_sched_diffuse_of("dream");
    t_sched_diffuse_of("llada");
    t_sched_diffuse_of("llada-moe");
    t_sched_exact = false;
}

/* How a prompt is read does not change what a draft head guesses: as many guesses are right. */
static void t_sched_head(void) {
    static const int chunks[] = {512, 64, 7, 1};
    long long        made = 0, right = 0;
    t_sched_line     l[T_SCHED_N];
    gen_answer       a[T_SCHED_N];
    sched_stats      st;
    if (t_stress()) SKIP("a stress build preempts sequences, whose prompts then are read in part");
    t_sched_lines(l, 272, -1);
    for (int k = 0; k < 4; k++) {
        t_sched_made = t_sched_right = 0;
        for (int i = 0; i < T_SCHED_N; i += 3) {
            const t_sched_how h = {1, chunks[k], 16 >> k, 0, 1 + k % 2, false, false, NULL, K_F32, K_F32, i, i, 3, NULL, true};
            if (!t_sched_run("tests/data/tiny/qwen35_near.gguf", l, &h, a, &st)) return;
            gen_answer_drop(&a[i]);
        }
        if (!k) made = t_sched_made, right = t_sched_right;
        EQ_INT(t_sched_made, made);
        EQ_INT(t_sched_right, right);
    }
    CHECKF(right > 40 && right < made, "%lld of %lld guesses right", right, made);
    for (int i = 0; i < T_SCHED_N; i++) tok_ids_drop(&l[i].prompt);
}

/* One prompt for all: it is read once, and each copy of it costs one row. */
static void t_sched_shares(void) {
    t_sched_line   l[T_SCHED_N];
    gen_answer     a[T_SCHED_N];
    sched_stats    st;
    memset(l, 0, sizeof l);
    for (int i = 0; i < T_SCHED_N; i++) {
        l[i] = (t_sched_line){.r = gen_ask(NULL, &(gen_opts){.n_predict = 5, .ignore_eos = true}, &samp_defaults, 0), .nth = i};
        for (int k = 0; k < 100; k++) tok_ids_add(&l[i].prompt, 5 + k);
    }
    const t_sched_how h = {T_SCHED_N, 512, 16, 0, 2, false, false, NULL, 0, 0, 0, T_SCHED_N - 1, 0, NULL, false};
    if (t_sched_run("tests/data/tiny/llama.gguf", l, &h, a, &st)) {
        EQ_INT(a[0].n_cached, 0);
        for (int i = 1; i < T_SCHED_N; i++) EQ_INT(a[i].n_cached, 99);
        EQ_INT(st.prefill, 100 + T_SCHED_N - 1);
    }
    t_sched_drop(a);
    for (int i = 0; i < T_SCHED_N; i++) {             /* requests with the same beginning: whole blocks */
        l[i].nth = 0;
        tok_ids_add(&l[i].prompt, 200 + i);
    }
    if (t_sched_run("tests/data/tiny/llama.gguf", l, &h, a, &st))
        for (int i = 1; i < T_SCHED_N; i++) EQ_INT(a[i].n_cached, 96);
    t_sched_drop(a);
    for (int i = 0; i < T_SCHED_N; i++) tok_ids_drop(&l[i].prompt);
}

/* With recurrent states: prompts of a batch go on from the border before they part, whatever the chunks are, and a
 * prompt that comes again from its last one. */
static void t_sched_parts(void) {
    static const struct { int same, more, cached; } prompts[] = {{60, 20, 0}, {60, 31, 56}, {30, 9, 24}, {60, 31, 88},
                                                                 {5, 40, 0}, {60, 0, 56}};
    enum { N = sizeof prompts / sizeof *prompts };
    if (t_stress()) SKIP("a stress build preempts sequences in every step");
    for (int chunk = 1; chunk <= 512; chunk = chunk == 7 ? 512 : chunk + 6) {
        t_sched_line l[T_SCHED_N];
        gen_answer   a[T_SCHED_N];
        sched_stats  st;
        memset(l, 0, sizeof l);
        memset(a, 0, sizeof a);
        for (int i = 0; i < N; i++) {
            l[i] = (t_sched_line){.r = gen_ask(NULL, &(gen_opts){.n_predict = 5, .ignore_eos = true}, &samp_defaults, 0)};
            for (int k = 0; k < prompts[i].same; k++) tok_ids_add(&l[i].prompt, 5 + k);
            for (int k = 0; k < prompts[i].more; k++) tok_ids_add(&l[i].prompt, 100 + (i == 3 ? 1 : i) * 20 + k);
        }
        const t_sched_how h = {N, chunk, 8, 0, 2, false, false, NULL, 0, 0, 0, N - 1, 0, NULL, false};
        if (t_sched_run("tests/data/tiny/qwen35.gguf", l, &h, a, &st))
            for (int i = 0; i < N; i++)
                CHECKF(a[i].n_cached == prompts[i].cached, "chunks of %d, prompt %d: %d from the cache, expected %d",
                       chunk, i, a[i].n_cached, prompts[i].cached);
        t_sched_drop(a);
        for (int i = 0; i < N; i++) tok_ids_drop(&l[i].prompt);
    }
}

/* A sequence that waits for blocks does not change the cache: neither blocks nor the order in which idle ones are reused. */
static void t_sched_full(void) {
    const char *path = "tests/data/tiny/llama.gguf";
    err_t       e = {0};
    gguf_file   g;
    engine_opts    fo = engine_defaults;
    kv_opts     ko = kv_defaults;
    sched_opts  o = {.n_seqs = 4};
    const gen_answer *q[4];
    tok_ids     ids[4] = {{0}};
    gen_request ask[4];
    ko.block = 4;
    ko.max_blocks = 30;
    if (t_stress()) SKIP("a stress build preempts sequences in every step");
    if (!CHECKF(gguf_open(&g, path, &e), "%s", e.text)) return;
    tok_vocab *v = tok_load(&g, NULL, &e);
    engine    *eng = engine_open(&g, v, &fo, &ko, sched_plan(&fo, 4, 0, NULL), clock_now(), &e);
    sched     *sc = sched_new(eng, NULL, &o, &e);
    const struct {
        int n_prompt, n_most, first;                  /* the prompt is first, first + 1 ... */
    } lines[] = {{20, 1, 5}, {20, 2, 200}, {20, 60, 100}, {80, 5, 5}};   /* two leave idle blocks, one runs, one repeats */
    for (int i = 0; i < 4; i++) {
        const gen_opts  go = {.n_predict = lines[i].n_most, .ignore_eos = true};
        const samp_opts so = t_greedy();
        for (int k = 0; k < lines[i].n_prompt; k++) tok_ids_add(&ids[i], lines[i].first + k);
        ask[i] = gen_ask(&ids[i], &go, &so, 1);
        if (i < 3) q[i] = sched_add(sc, &ask[i], &e);
    }
    while ((!q[0]->finish || !q[1]->finish) && sched_step(sc, -1, &e)) continue;
    const kv_group *t = &eng->kv->group[0];
    const int32_t   oldest = t->oldest, newest = t->newest;
    CHECKF(q[1]->finish && !q[2]->finish && t->n_idle >= 10, "%d blocks idle", t->n_idle);
    q[3] = sched_add(sc, &ask[3], &e);
    int waited = 0;
    for (; !q[3]->t_start && sched_step(sc, -1, &e) && !q[2]->finish; waited++)
        CHECKF(t->oldest == oldest && t->newest == newest, "after %d steps: idle from %d to %d, were from %d to %d",
               waited, t->oldest, t->newest, oldest, newest);
    CHECKF(waited > 20, "it waited %d steps", waited);
    while (!q[3]->finish && sched_step(sc, -1, &e)) continue;
    EQ_INT(q[3]->n_tok, 5);
    EQ_INT(q[3]->n_cached, 20);
    for (int i = 0; i < 4; i++) tok_ids_drop(&ids[i]);
    sched_free(sc);
    engine_close(eng);
    tok_free(v);
    gguf_close(&g);
}

/* A tiny model with a schedule of n sequences, for requests one by one. */
typedef struct {
    gguf_file  g;
    tok_vocab *v;
    engine    *eng;
    sched     *sc;
} t_sched_one;

static bool t_sched_open(t_sched_one *x, int n_ctx, int n_seqs) {
    err_t            e = {0};
    engine_opts      fo = engine_defaults;
    const sched_opts o = {.n_seqs = n_seqs};
    memset(x, 0, sizeof *x);
    fo.n_ctx = n_ctx;
    if (!CHECKF(gguf_open(&x->g, "tests/data/tiny/llama.gguf", &e), "%s", e.text)) return false;
    x->v = tok_load(&x->g, NULL, &e);
    x->eng = engine_open(&x->g, x->v, &fo, &kv_defaults, sched_plan(&fo, n_seqs, 0, NULL), clock_now(), &e);
    x->sc = x->eng ? sched_new(x->eng, NULL, &o, &e) : NULL;
    return CHECKF(x->sc != NULL, "%s", e.text);
}

static void t_sched_shut(t_sched_one *x) {
    sched_free(x->sc);
    engine_close(x->eng);
    tok_free(x->v);
    gguf_close(&x->g);
}

/* The answer to r, which the caller drops. */
static gen_answer t_sched_answer(t_sched_one *x, const gen_request *r) {
    gen_answer a = {0};
    err_t      e = {0};
    CHECKF(sched_add(x->sc, r, &e) != NULL, "%s", e.text);
    while (!sched_idle(x->sc) && sched_step(x->sc, -1, &e)) continue;
    CHECKF(!e.code && sched_take(x->sc, &a), "%s", e.text);
    return a;
}

/* Each reason why an answer ends, with its name for other programs. */
static void t_sched_finishes(void) {
    t_sched_one x;
    tok_ids     ids = {0};
    samp_bias   only = {0, 1e30f};
    samp_opts   so = t_greedy();
    gen_opts    o = {.n_predict = 4, .ignore_eos = true};
    if (!t_sched_open(&x, 64, 2)) return;
    for (int i = 0; i < 30; i++) tok_ids_add(&ids, 5 + i);
    gen_answer a = t_sched_answer(&x, &(gen_request){.prompt = &ids, .gen = o, .samp = so, .n = 1});
    CHECK(a.finish == GEN_LENGTH && a.n_tok == 4 && a.n_prompt == 30 && a.n_read == 30 && a.end_token == -1);
    const bytes stop[] = {bytes_of("\x01 never"), {(const uint8_t *)a.text.p + a.tok[0].end, 1}};
    o.stop = stop, o.n_stop = 2;
    gen_answer b = t_sched_answer(&x, &(gen_request){.prompt = &ids, .gen = o, .samp = so, .n = 1});
    CHECK(b.finish == GEN_STOP_TEXT && b.stop == 1 && b.text.n <= a.tok[0].end && memcmp(a.text.p, b.text.p, b.text.n) == 0);
    gen_answer_drop(&b);
    o.n_stop = 0, o.n_predict = -1;
    b = t_sched_answer(&x, &(gen_request){.prompt = &ids, .gen = o, .samp = so, .n = 1});
    CHECK(b.finish == GEN_CONTEXT && b.n_tok == x.eng->n_ctx + 1 - 30);
    gen_answer_drop(&b);
    while (!tok_is_eog(x.v, only.id)) only.id++;
    so.bias = &only, so.n_bias = 1, o.ignore_eos = false;
    b = t_sched_answer(&x, &(gen_request){.prompt = &ids, .gen = o, .samp = so, .n = 1});
    CHECK(b.finish == GEN_END_TOKEN && b.end_token == only.id && b.n_tok == 0 && b.text.n == 0);
    gen_answer_drop(&b);
    samp_bias *none = mem_new((size_t)tok_count(x.v), sizeof *none);
    for (int i = 0; i < tok_count(x.v); i++) none[i] = (samp_bias){i, -INFINITY};
    so.bias = none, so.n_bias = tok_count(x.v);
    b = t_sched_answer(&x, &(gen_request){.prompt = &ids, .gen = o, .samp = so, .n = 1});
    CHECKF(b.finish == GEN_FAILED && b.err.code == EXIT_INPUT && strstr(b.err.text, "no token is possible after token 29"),
           "%s", b.err.text);
    gen_answer_drop(&b);
    EQ_STR(gen_finish_names[GEN_END_TOKEN], "stop");
    EQ_STR(gen_finish_names[GEN_STOP_TEXT], "stop");
    EQ_STR(gen_finish_names[GEN_LENGTH], "length");
    EQ_STR(gen_finish_names[GEN_CONTEXT], "length");
    CHECK(!gen_finish_names[GEN_RUNNING] && !gen_finish_names[GEN_CANCELLED] && !gen_finish_names[GEN_FAILED]);
    gen_answer_drop(&a);
    mem_free(none);
    tok_ids_drop(&ids);
    t_sched_shut(&x);
}

/* Thinking that has had its tokens is closed by the tokens of `close`; what the model closes earlier is not. */
static void t_sched_thinks(void) {
    t_sched_one x;
    tok_ids     ids = {0};
    gen_opts    o = {.n_predict = 20, .ignore_eos = true};
    const samp_opts so = t_greedy();
    if (!t_sched_open(&x, 64, 2)) return;
    for (int i = 0; i < 30; i++) tok_ids_add(&ids, 5 + i);
    const gen_answer plain = t_sched_answer(&x, &(gen_request){.prompt = &ids, .gen = o, .samp = so, .n = 1});
    for (int most = 0; most < 6; most++) {
        o.think = (gen_think){.most = most, .inside = true, .open = bytes_of("<no>"), .end = bytes_of("</no>"),
                              .close = &t_sched_close};
        gen_answer a = t_sched_answer(&x, &(gen_request){.prompt = &ids, .gen = o, .samp = so, .n = 1});
        EQ_INT(a.n_tok, 20);
        for (int i = 0; i < most; i++) EQ_INT(a.tok[i].id, plain.tok[i].id);
        for (int i = 0; i < 3; i++) EQ_INT(a.tok[most + i].id, t_sched_close.id[i]);
        gen_answer_drop(&a);
    }
    const bytes first = {(const uint8_t *)plain.text.p, plain.tok[0].end};
    o.think = (gen_think){.most = 2, .inside = true, .open = bytes_of("<no>"), .end = first, .close = &t_sched_close};
    for (int open = 0; open < 2; open++) {
        gen_answer a = t_sched_answer(&x, &(gen_request){.prompt = &ids, .gen = o, .samp = so, .n = 1});
        const int  at = open ? 3 : 20;                /* the first token closes it; or opens it, and two more are thinking */
        for (int i = 0; i < at; i++) EQ_INT(a.tok[i].id, plain.tok[i].id);
        for (int i = 0; open && i < 3; i++) EQ_INT(a.tok[at + i].id, t_sched_close.id[i]);
        gen_answer_drop(&a);
        o.think.inside = false, o.think.open = first, o.think.end = bytes_of("</no>");
    }
    gen_answer pd = plain;
    gen_answer_drop(&pd);
    tok_ids_drop(&ids);
    t_sched_shut(&x);
}

/* The end tokens of a request end its answer, are never picked under ignore_eos; its shown control tokens are text. */
static void t_sched_own_ends(void) {
    t_sched_one x;
    tok_ids     ids = {0}, own = {0};
    gen_opts    o = {.n_predict = 12};
    samp_opts   so = t_greedy();
    if (!t_sched_open(&x, 64, 2)) return;
    for (int i = 0; i < 30; i++) tok_ids_add(&ids, 5 + i);
    gen_answer plain = t_sched_answer(&x, &(gen_request){.prompt = &ids, .gen = o, .samp = so, .n = 1});
    if (!CHECK(plain.n_tok > 4)) return;
    tok_ids_add(&own, plain.tok[3].id);
    o.ends = &own;
    gen_answer a = t_sched_answer(&x, &(gen_request){.prompt = &ids, .gen = o, .samp = so, .n = 1});
    CHECKF(a.finish == GEN_END_TOKEN && a.end_token == own.id[0] && a.n_tok <= 3, "ended by %d after %d tokens", a.finish,
           a.n_tok);
    gen_answer_drop(&a);
    o.ignore_eos = true;
    a = t_sched_answer(&x, &(gen_request){.prompt = &ids, .gen = o, .samp = so, .n = 1});
    EQ_INT(a.n_tok, 12);
    for (int i = 0; i < a.n_tok; i++) CHECK(a.tok[i].id != own.id[0]);
    gen_answer_drop(&a);
    samp_bias only = {0, 1e30f};
    while (!tok_is_control(x.v, only.id) || tok_is_eog(x.v, only.id)) only.id++;
    so.bias = &only, so.n_bias = 1;
    own.id[0] = only.id;
    o = (gen_opts){.n_predict = 2, .shown = &own};
    a = t_sched_answer(&x, &(gen_request){.prompt = &ids, .gen = o, .samp = so, .n = 1});
    CHECKF(a.text.n == 2 * tok_text(x.v, only.id).n, "text \"%s\"", a.text.p);
    gen_answer_drop(&a);
    gen_answer_drop(&plain);
    tok_ids_drop(&ids);
    tok_ids_drop(&own);
    t_sched_shut(&x);
}

/* A request that cannot be answered is refused when it is added, and leaves nothing in the schedule. */
static void t_sched_refuses(void) {
    t_sched_one     x;
    tok_ids         none = {0}, many = {0};
    const samp_opts good = t_greedy();
    samp_opts       bad = good;
    err_t           e = {0};
    if (!t_sched_open(&x, 64, 2)) return;
    for (int i = 0; i < 65; i++) tok_ids_add(&many, 5);
    bad.bias = &(samp_bias){-1, 0}, bad.n_bias = 1;
    CHECK(!sched_add(x.sc, &(gen_request){.prompt = &none, .samp = good, .n = 1}, &e) && strstr(e.text, "the prompt is empty"));
    e.code = 0;
    CHECK(!sched_add(x.sc, &(gen_request){.prompt = &many, .samp = good, .n = 1}, &e) &&
          strstr(e.text, "the prompt has 65 tokens"));
    e.code = 0;
    many.n = 3;
    CHECKF(!sched_add(x.sc, &(gen_request){.prompt = &many, .samp = bad, .n = 1}, &e) && strstr(e.text, "logit_bias"),
           "%s", e.text);
    CHECK(sched_idle(x.sc));
    tok_ids_drop(&many);
    t_sched_shut(&x);
}

/* A cancelled answer keeps what it has; those that have not begun are empty; what is never taken is freed with the schedule. */
static void t_sched_cancels(void) {
    t_sched_one       x;
    tok_ids           ids = {0};
    const gen_opts    o = {.n_predict = 50, .ignore_eos = true};
    const samp_opts   so = t_greedy();
    err_t             e = {0};
    gen_answer        a;
    int               peak;
    if (!t_sched_open(&x, 128, 2)) return;
    for (int i = 0; i < 30; i++) tok_ids_add(&ids, 5 + i);
    const gen_request r = {.prompt = &ids, .gen = o, .samp = so, .n = 5};
    const gen_answer *view = sched_add(x.sc, &r, &e);
    CHECK(view && !view->t_start && !sched_has_room(x.sc));
    while (view->n_tok < 7 && CHECKF(sched_step(x.sc, -1, &e), "%s", e.text)) continue;
    sched_cancel(x.sc);
    CHECK(sched_idle(x.sc));
    EQ_INT(kv_held(x.eng->kv, &peak), 0);
    int begun = 0, n = 0;
    for (; sched_take(x.sc, &a); n++) {
        CHECKF(a.finish == GEN_CANCELLED && a.index >= 0 && a.index < 5, "completion %d ended by %d", a.index, a.finish);
        if (a.index == 0) CHECK(a.n_tok == 7 && a.tok[6].end == a.text.n);
        if (a.n_tok) begun++;
        else CHECK(a.text.n == 0 && a.text.p);
        gen_answer_drop(&a);
    }
    EQ_INT(n, 5);
    if (!t_stress()) EQ_INT(begun, 2);
    CHECK(sched_add(x.sc, &r, &e) && sched_step(x.sc, -1, &e));
    tok_ids_drop(&ids);
    t_sched_shut(&x);
}

/* One of two requests leaves: the other one has the text that it has alone. */
static void t_sched_leaves(void) {
    t_sched_one     x;
    tok_ids         ids = {0};
    const samp_opts so = t_greedy();
    err_t           e = {0};
    gen_answer      a;
    int             n = 0;
    if (!t_sched_open(&x, 128, 2)) return;
    for (int i = 0; i < 30; i++) tok_ids_add(&ids, 5 + i);
    gen_request r = {.prompt = &ids, .gen = {.n_predict = 12, .ignore_eos = true}, .samp = so, .n = 1};
    gen_answer  alone = t_sched_answer(&x, &r);
    gen_request leaves = r;
    leaves.owner = &leaves, leaves.n = 3;
    const gen_answer *view = sched_add(x.sc, &leaves, &e);
    r.owner = &r;
    sched_add(x.sc, &r, &e);
    while (view->n_tok < 4 && CHECKF(sched_step(x.sc, -1, &e), "%s", e.text)) continue;
    sched_cancel_of(x.sc, &leaves);
    while (!sched_idle(x.sc) && CHECKF(sched_step(x.sc, -1, &e), "%s", e.text)) continue;
    for (; sched_take(x.sc, &a); n++) {
        CHECKF(a.finish == (a.owner == &r ? GEN_LENGTH : GEN_CANCELLED), "ended by %d", a.finish);
        if (a.owner == &r) EQ_STR(a.text.p, alone.text.p);
        else CHECK(a.n_tok <= 4);
        gen_answer_drop(&a);
    }
    EQ_INT(n, 4);
    gen_answer_drop(&alone);
    tok_ids_drop(&ids);
    t_sched_shut(&x);
}

static void t_sched_note(void *ctx, const gen_answer *a) {
    int *n = ctx;
    n[a->index] = a->n_tok;
}

/* A request that is held back gets no token, makes place for one that waits, and goes on with the text that it has alone. */
static void t_sched_holds(void) {
    t_sched_one     x;
    tok_ids         ids = {0}, other = {0};
    const samp_opts so = t_greedy();
    err_t           e = {0};
    gen_answer      a;
    int             seen[4] = {0}, n = 0;
    if (t_stress()) SKIP("a stress build preempts sequences in every step");
    if (!t_sched_open(&x, 128, 1)) return;
    for (int i = 0; i < 30; i++) tok_ids_add(&ids, 5 + i), tok_ids_add(&other, 50 + i);
    gen_request r = {.prompt = &ids, .gen = {.n_predict = 12, .ignore_eos = true}, .samp = so, .n = 1};
    gen_answer  alone = t_sched_answer(&x, &r);
    r.owner = &r;
    const gen_answer *view = sched_add(x.sc, &r, &e);
    while (view->n_tok < 3 && CHECKF(sched_step(x.sc, -1, &e), "%s", e.text)) sched_each_new(x.sc, t_sched_note, seen);
    EQ_INT(seen[0], 3);
    sched_pause(x.sc, &r, 0, true);
    CHECK(!sched_step(x.sc, -1, &e) && !e.code && !sched_idle(x.sc));
    gen_request second = {.prompt = &other, .gen = {.n_predict = 5, .ignore_eos = true}, .samp = so, .n = 1, .index = 1,
                          .owner = &second};
    const gen_answer *added = sched_add(x.sc, &second, &e);
    while (!added->finish && CHECKF(sched_step(x.sc, -1, &e), "%s", e.text)) continue;
    EQ_INT(view->n_tok, 3);
    EQ_INT(x.sc->st.preempted, 1);
    CHECK(!sched_step(x.sc, -1, &e) && !e.code);
    sched_pause(x.sc, &r, 0, false);
    while (!sched_idle(x.sc) && CHECKF(sched_step(x.sc, -1, &e), "%s", e.text)) continue;
    for (; sched_take(x.sc, &a); n++) {
        if (a.owner == &r) EQ_STR(a.text.p, alone.text.p);
        gen_answer_drop(&a);
    }
    EQ_INT(n, 2);
    gen_answer_drop(&alone);
    tok_ids_drop(&ids);
    tok_ids_drop(&other);
    t_sched_shut(&x);
}

/* A short prompt does not wait until a long one that came before is read, and answers get a token in each step meanwhile. */
static void t_sched_fair(void) {
    t_sched_one     x;
    tok_ids         ids[3] = {{0}};
    const samp_opts so = t_greedy();
    const gen_answer *a[3] = {NULL};
    gen_request     r[3];
    err_t           e = {0};
    if (t_stress()) SKIP("a stress build reads a token in each step");
    if (!t_sched_open(&x, 4096, 4)) return;
    x.sc->o.live = true;
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < (i == 1 ? 3000 : 30); k++) tok_ids_add(&ids[i], 5 + (k * (i + 3)) % 200);
        r[i] = (gen_request){.prompt = &ids[i], .gen = {.n_predict = 200, .ignore_eos = true}, .samp = so, .n = 1};
    }
    a[0] = sched_add(x.sc, &r[0], &e);
    while (a[0]->n_tok < 1 && CHECKF(sched_step(x.sc, -1, &e), "%s", e.text)) continue;
    a[1] = sched_add(x.sc, &r[1], &e);
    CHECK(sched_step(x.sc, -1, &e));
    a[2] = sched_add(x.sc, &r[2], &e);
    const int had = a[0]->n_tok;
    CHECK(sched_step(x.sc, -1, &e));
    CHECKF(a[2]->n_tok == 1 && !a[1]->n_tok, "%d and %d tokens", a[2]->n_tok, a[1]->n_tok);
    for (int i = 0; !a[1]->n_tok && CHECKF(sched_step(x.sc, -1, &e), "%s", e.text); i++) {
        EQ_INT(a[0]->n_tok, had + 2 + i);
        CHECKF(x.eng->f->batch.n <= 2 + SCHED_LIVE_ROWS, "a step of %d rows", x.eng->f->batch.n);
    }
    for (int i = 0; i < 3; i++) tok_ids_drop(&ids[i]);
    t_sched_shut(&x);
}

/* Texts to embed among requests for answers: vectors and texts are those of runs of one kind. pooling: of all texts. */
static void t_sched_mixed_with(int pooling) {
    enum { TEXTS = 5 };
    gguf_file   g;
    err_t       e = {0};
    engine_opts fo = engine_defaults;
    tok_ids     ids[TEXTS] = {{0}};
    float      *vec[TEXTS] = {NULL};
    str         text[TEXTS] = {{0}};
    gen_request r[2][TEXTS];
    fo.n_ctx = 128;
    fo.n_batch = 24;
    if (!CHECKF(gguf_open(&g, "tests/data/tiny/llama.gguf", &e), "%s", e.text)) return;
    tok_vocab *v = tok_load(&g, NULL, &e);
    for (int i = 0; i < TEXTS; i++) {
        for (int k = 0; k < 10 + 13 * i; k++) tok_ids_add(&ids[i], 5 + (k * (i + 1)) % 150);
        r[0][i] = (gen_request){.prompt = &ids[i], .gen = {.n_predict = 20, .ignore_eos = true}, .samp = t_greedy(), .n = 1,
                                .index = i};
        r[1][i] = (gen_request){.prompt = &ids[i], .embeds = true, .embed = {.pooling = pooling, .norm = 2}, .samp = t_greedy(), .n = 1,
                                .index = i};
    }
    for (int way = 0; way < 3; way++) {               /* vectors alone, answers alone, both */
        engine_plan plan = sched_plan(&fo, 3, 0, NULL);
        plan.hidden = way == 0;
        engine *eng = engine_open(&g, v, &fo, &kv_defaults, plan, clock_now(), &e);
        sched  *sc = eng ? sched_new(eng, NULL, &(sched_opts){.n_seqs = 3, .live = way == 2}, &e) : NULL;
        if (!CHECKF(sc != NULL, "%s", e.text)) return;
        for (int i = 0; i < TEXTS; i++)
            for (int k = 1; k >= 0; k--)
                if (way == 2 || way != k) CHECKF(sched_add(sc, &r[k][i], &e) != NULL, "%s", e.text);
        while (!sched_idle(sc) && CHECKF(sched_step(sc, -1, &e), "%s", e.text)) continue;
        for (gen_answer a; sched_take(sc, &a); gen_answer_drop(&a)) {
            if (way == 0) vec[a.index] = a.vec, a.vec = NULL;
            else if (way == 1) str_cat(&text[a.index], str_bytes(&a.text));
            else if (a.finish != GEN_EMBEDDED) EQ_STR(a.text.p, text[a.index].p);
            else
                CHECKF(!memcmp(a.vec, vec[a.index], (size_t)a.n_vec * (size_t)a.width * sizeof *a.vec), "pooling %d, vector %d",
                       pooling, a.index);
        }
        sched_free(sc);
        engine_close(eng);
    }
    for (int i = 0; i < TEXTS; i++) tok_ids_drop(&ids[i]), mem_free(vec[i]), str_drop(&text[i]);
    tok_free(v);
    gguf_close(&g);
}

static void t_sched_mixed(void) {
    static const int poolings[] = {POOLING_LAST, POOLING_MEAN, POOLING_CLS, POOLING_NONE};
    for (int i = 0; i < 4; i++) t_sched_mixed_with(poolings[i]);
}

static void t_sched_change(int pair) {
    sched_seq q = {.state = (sched_state)(pair / SCHED_STATES)};
    sched__become(&q, (sched_state)(pair % SCHED_STATES));
    _exit(0);
}

/* Every pair of states: the second follows the first as the picture says, else the program ends. */
static void t_sched_states(void) {
    static const char *const may[SCHED_STATES] = {    /* columns: waiting, ready, stepping, over, over and stepping, ended */
        [SCHED_WAITING] = ".y...y", [SCHED_READY] = "y.y..y", [SCHED_STEPPING] = ".y..yy",
        [SCHED_OVER] = "....yy", [SCHED_OVER_STEPPING] = "...y.y", [SCHED_ENDED] = "......",
    };
    char said[256];
    for (int i = 0; i < SCHED_STATES * SCHED_STATES; i++) {
        const int  from = i / SCHED_STATES, to = i % SCHED_STATES;
        const bool ok = t_base_child(t_sched_change, i, said, sizeof said) == 0;
        CHECKF(ok == (may[from][to] == 'y') && ok == !strstr(said, "bug"), "from %d to %d: %s", from, to, said);
    }
}

static void t_sched_hist(void) {
    hist h = {{0}, 0};
    CHECK(hist_at(&h, 0.5) == 0);
    for (int i = 1; i <= 1000; i++) hist_add(&h, i * 1e-3);
    for (int p = 1; p < 100; p += 7)
        CHECKF(fabs(hist_at(&h, p / 100.0) / (p * 1e-2) - 1) < 0.023, "%d %%: %g s", p, hist_at(&h, p / 100.0));
    hist_add(&h, 0);
    hist_add(&h, 1e300);
    EQ_INT(h.all, 1002);
}

static const t_case t_sched_cases[] = {
    {"sched draft head", "chunks, blocks and threads do not change what a draft head guesses", t_sched_head},
    {"sched pairs", "argmax answers of an encoder-decoder are those of a float64 reading", t_sched_pairs},
    {"sched diffuse", "answers by diffusion are those of a loop over a float64 reading, also in company", t_sched_diffuse},
    {"sched_states", "a state follows another as the picture says, and in no other way", t_sched_states},
    {"sched_invariance", "a request's text is the one it has alone", t_sched_invariance},
    {"sched_shares", "one prompt is read once", t_sched_shares},
    {"sched_parts", "with recurrent states: a snapshot where prompts part", t_sched_parts},
    {"sched_full", "a sequence that waits for room leaves the cache alone", t_sched_full},
    {"sched_finishes", "why an answer ends, for each reason", t_sched_finishes},
    {"sched_thinks", "thinking is closed when its tokens are spent", t_sched_thinks},
    {"sched_own_ends", "end tokens and shown tokens of a request", t_sched_own_ends},
    {"sched_refuses", "a request that cannot be answered is refused when it is added", t_sched_refuses},
    {"sched_cancels", "a cancelled answer keeps what it has", t_sched_cancels},
    {"sched_leaves", "one request is cancelled, the others go on", t_sched_leaves},
    {"sched_holds", "a request that is held back waits, and others have its place", t_sched_holds},
    {"sched_fair", "a short prompt does not wait for a long one, nor do answers", t_sched_fair},
    {"sched_mixed", "vectors and answers in one run", t_sched_mixed},
    {"sched_hist", "percentiles", t_sched_hist},
};
static const t_suite t_sched_suite = SUITE(t_sched_cases);
