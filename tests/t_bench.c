/* [bench]: figures and output formats compared with golden files, rows of every step with the rules, bytes and products of a step with the
 * model's tensors, and a complete run on a tiny model. Times are not tested. */
#include "program.h"
#include "check.h"

typedef struct {
    bench_test   t;
    bench_work   w;
    double       others;
    int          n;
    bench_sample s[3];
} t_bench_case;

/* The same figures as in tests/gen/golden_bench.py. */
static const t_bench_case t_bench_golden[] = {
    {{512, 0, 0, 1, 0, 0}, {{2.5e9, {2e9, 3e9, 5e11}}, 0}, NAN, 3,
     {{2.0, 2.0, {2e10, {1e11, 2e11, 4e11}}, 0},
      {2.5, 2.5, {2.5e10, {1e11, 2e11, 4e11}}, 0},
      {1.6, 1.6, {3e10, {1.25e11, 2.5e11, 5e11}}, 0}}},
    {{32, 128, 4096, 8, 0, 0}, {{6.4e10, {3e10, 0, 1e11}}, 128}, 0.125, 1, {{4.0, 0.25, {2e10, {1e11, 1e11, 4e11}}, 0}}},
    {{0, 128, 100, 1, 4, 85}, {{2.4e10, {1e9, 8e9, 5e10}}, 40}, 0.5, 2,
     {{1.25, 0.05, {2e10, {1e11, 2e11, 4e11}}, 2}, {1.0, 0.04, {2.5e10, {1e11, 2.5e11, 4e11}}, 1.8}}},
};
enum { T_BENCH_GOLDEN = sizeof t_bench_golden / sizeof *t_bench_golden };

static bench_row t_bench__row(const t_bench_case *c, double *ns, double *ts) {
    bench_row r = {.commit = "0.0.1", .cpu_info = "A \"fast\" CPU\\", .model_file = "dir/a \"b\", c\n.gguf",
                   .model_type = "llama 1.1B a|b \xc3\xa9", .type_k = "q8_0", .type_v = "f16", .level = "avx2", .repack = "on",
                   .test_time = "2026-08-01T12:00:00Z", .model_bytes = 667814528, .model_weights = 1100048384, .n_batch = 2048, .n_ubatch = 512, .n_gpu_layers = -1,
                   .n_threads = 2, .n_prompt = c->t.n_prompt, .n_gen = c->t.n_gen, .n_depth = c->t.n_depth, .n_seq = c->t.n_seq,
                   .n_guess = c->t.n_guess, .chance = c->t.chance / 100.0, .draft_file = c->t.n_guess ? "a \"draft\".gguf" : "",
                   .peak_bytes = 715653120, .others = c->others};
    bench__figures(&r, &c->t, &c->w, c->s, c->n, ns, ts);
    return r;
}

static void t_bench_forms(void) {
    static const struct { bench_form form; const char *file; } forms[] = {
        {BENCH_MD, "md"}, {BENCH_CSV, "csv"}, {BENCH_JSON, "json"}, {BENCH_JSONL, "jsonl"}};
    bench_opts o = bench_defaults;
    o.type_k = (bench_list){1, {K_Q8_0}};             /* not the default: the table shows it */
    o.guess = (bench_list){2, {0, 4}};
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        str  s = {0};
        char path[64];
        for (int i = 0; i <= T_BENCH_GOLDEN; i++) {
            double    ns[3], ts[3];
            bench_row r = t_bench__row(&t_bench_golden[i < T_BENCH_GOLDEN ? i : 0], ns, ts);
            bench__put(forms[f].form, &o, "0.0.1", i < T_BENCH_GOLDEN ? &r : NULL, i, &s);
        }
        snprintf(path, sizeof path, "tests/data/golden/bench.%s", forms[f].file);
        char *want = t_read(path, NULL);
        if (CHECKF(want != NULL, "%s cannot be read", path) && strcmp(s.p, want) != 0) {
            size_t at = 0, line = 0;
            while (s.p[at] && s.p[at] == want[at]) at++;
            for (line = at; line && want[line - 1] != '\n';) line--;
            CHECKF(false, "%s, byte %zu: got \"%.60s\", want \"%.60s\"", path, at, s.p + line, want + line);
        }
        mem_free(want);
        str_drop(&s);
    }
}

/* Lines over depth if it varies, else over sequences, else bars. Names hold the other settings that vary. */
static void t_bench_picture(void) {
    static const struct { bench_test t[4]; const char *x_name, *first; double x[4]; } cases[] = {
        {{{0, 64, 0, 1, 0, 0}, {0, 32, 0, 1, 0, 0}, {0, 32, 0, 1, 4, 80}, {0, 16, 0, 1, 0, 0}}, NULL, "tg64, 2 threads", {1, 1, 1, 1}},
        {{{0, 64, 0, 1, 0, 0}, {0, 64, 0, 2, 0, 0}, {0, 64, 0, 4, 0, 0}, {0, 64, 0, 8, 0, 0}}, "sequences side by side", "tg64, 2 threads", {1, 2, 4, 8}},
        {{{0, 64, 0, 1, 0, 0}, {0, 64, 0, 2, 0, 0}, {0, 64, 99, 1, 0, 0}, {0, 64, 99, 2, 0, 0}}, "tokens in the cache before the test", "tg64, 2 threads", {0, 0, 99, 99}},
    };
    bench_opts o = bench_defaults;
    bench_row  r = {.model_file = "a/b.gguf", .n_threads = 2};
    str        with = {0};
    o.threads.n = 2;
    bench__put_settings(&o, &r, 1, &with);
    EQ_STR(with.p, ", 2 threads");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bench_point p[4];
        plot        g = {0};
        for (int k = 0; k < 4; k++) p[k] = (bench_point){cases[i].t[k], k, 0, with.p};
        bench__fill_panel(p, 4, BENCH_PREFILL, &g.panel[0]);
        bench__fill_panel(p, 4, BENCH_DECODE, &g.panel[1]);
        EQ_INT(g.panel[0].n, 0);
        EQ_INT(g.panel[1].n, 4);
        EQ_STR(g.panel[1].x_name ? g.panel[1].x_name : "", cases[i].x_name ? cases[i].x_name : "");
        EQ_STR(g.panel[1].p[0].name, cases[i].first);
        for (int k = 0; k < 4; k++) CHECK(g.panel[1].p[k].x == cases[i].x[k] && g.panel[1].p[k].y == k);
        plot_drop(&g);
    }
    str_drop(&with);
}

/* A run that ends before its first row still writes a valid file. */
static void t_bench_empty(void) {
    static const struct { bench_form form; const char *want; } cases[] = {{BENCH_JSON, "[\n]\n"}, {BENCH_JSONL, ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        str s = {0};
        str_put(&s, "");
        bench__put(cases[i].form, &bench_defaults, "1", NULL, 0, &s);
        if (cases[i].form == BENCH_JSON) CHECK(strstr(s.p, "[") && strstr(s.p, "]"));
        else EQ_STR(s.p, cases[i].want);
        str_drop(&s);
    }
}

static void t_bench_statistics(void) {
    static const struct { double x[4]; int n; double mean, sd; } cases[] = {
        {{0}, 0, 0, 0}, {{5}, 1, 5, 0}, {{1, 3}, 2, 2, 1.4142135623730951}, {{2, 4, 4, 6}, 4, 4, 1.632993161855452}, {{7, 7, 7, 7}, 4, 7, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        NEAR(bench__mean(cases[i].x, cases[i].n), cases[i].mean, 1e-15);
        NEAR(bench__deviation(cases[i].x, cases[i].n), cases[i].sd, 1e-15);
    }
}

static void t_bench_labels(void) {
    static const struct { bench_test t; const char *want; } cases[] = {
        {{512, 0, 0, 1, 0, 0}, "pp512"}, {{0, 128, 0, 1, 0, 0}, "tg128"}, {{512, 128, 0, 1, 0, 0}, "pp512+tg128"}, {{512, 0, 4096, 1, 0, 0}, "pp512 @ d4096"},
        {{0, 128, 0, 8, 0, 0}, "tg128 x8"}, {{1, 2, 3, 4, 0, 0}, "pp1+tg2 x4 @ d3"},
        {{0, 128, 0, 1, 4, 80}, "tg128 k4 a80"}, {{0, 128, 4096, 1, 16, 0}, "tg128 k16 a0 @ d4096"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        str s = {0};
        bench__label(&cases[i].t, &s);
        EQ_STR(s.p, cases[i].want);
        str_drop(&s);
    }
}

static void t_bench_tests(void) {
    const bench_opts o = {.prompt = {3, {512, 0, 16}}, .gen = {2, {128, 0}}, .pair = {4, {8, 4, 2, 0}}, .seqs = {2, {1, 4}}, .depth = {2, {0, 100}}};
    static const bench_test want[] = {
        {512, 0, 7, 1, 0, 0}, {16, 0, 7, 1, 0, 0}, {0, 128, 7, 1, 0, 0}, {0, 128, 7, 4, 0, 0},
        {8, 4, 7, 1, 0, 0},   {8, 4, 7, 4, 0, 0},  {2, 0, 7, 1, 0, 0},   {2, 0, 7, 4, 0, 0},
    };
    bench_test t;
    int        n = 0;
    for (; bench__test_at(&o, 7, n, &t); n++)
        if (n < (int)(sizeof want / sizeof *want)) EQ_MEM(&t, &want[n], sizeof t);
    EQ_INT(n, sizeof want / sizeof *want);
    const bench_extent x = bench__extent(&o);
    EQ_INT(x.len, 612);
    EQ_INT(x.n_seq, 4);
    EQ_INT(x.all, 612 + 3 * 228);                     /* three sequences go no further than the decode at depth 100 */
    EQ_INT(x.rows, 4);
    const bench_opts none = {.prompt = {1, {0}}, .gen = {1, {0}}, .seqs = {1, {1}}, .depth = {1, {0}}};
    CHECK(!bench_any(&none) && bench_any(&o) && bench_any(&bench_defaults));
}

/* Tests with guesses follow the decode that they are compared with, for one sequence only. */
static void t_bench_tests_guessing(void) {
    const bench_opts o = {.prompt = {1, {9}}, .gen = {3, {128, 0, 6}}, .pair = {2, {8, 4}}, .seqs = {1, {3}}, .depth = {1, {5}},
                          .guess = {3, {0, 2, 64}}, .chance = {2, {0, 100}}};
    static const bench_test want[] = {
        {9, 0, 5, 1, 0, 0},     {0, 128, 5, 3, 0, 0}, {0, 128, 5, 1, 2, 0},  {0, 128, 5, 1, 2, 100},
        {0, 128, 5, 1, 64, 0},  {0, 128, 5, 1, 64, 100}, {0, 6, 5, 3, 0, 0}, {0, 6, 5, 1, 2, 0},
        {0, 6, 5, 1, 2, 100},   {0, 6, 5, 1, 64, 0},  {0, 6, 5, 1, 64, 100}, {8, 4, 5, 3, 0, 0},
    };
    bench_test t;
    int        n = 0;
    for (; bench__test_at(&o, 5, n, &t); n++)
        if (n < (int)(sizeof want / sizeof *want)) EQ_MEM(&t, &want[n], sizeof t);
    EQ_INT(n, sizeof want / sizeof *want);
    const bench_extent x = bench__extent(&o);
    EQ_INT(x.rows, 65);
    EQ_INT(x.n_seq, 3);
    CHECK(bench_guesses(&o) && !bench_guesses(&bench_defaults));
    bench_opts other = o;
    other.gen = (bench_list){2, {6, 3}};              /* no step has rows behind the test's end */
    EQ_INT(bench__extent(&other).rows, 6);
    other.gen = (bench_list){1, {0}};
    CHECK(!bench_guesses(&other));
    other = o;
    other.guess = (bench_list){2, {0, 0}};
    CHECK(!bench_guesses(&other));
}

/* A job over a tiny model, as bench__open makes it. */
static bool t_bench__open(bench_job *j, const char *name, const bench_opts *o, bench_setup set) {
    err_t e = {0};
    char  path[128];
    snprintf(path, sizeof path, "tests/data/tiny/%s.gguf", name);
    *j = (bench_job){.o = o, .fo = &engine_defaults, .ko = &kv_defaults, .set = set};
    if (!CHECKF(gguf_open(&j->g, path, &e), "%s", e.text)) return false;
    if (o->draft && !CHECKF(gguf_open(&j->draft_g, o->draft, &e), "%s", e.text)) return false;
    const bench_extent x = bench__extent(o);
    return CHECKF(bench__open(j, &x, &e), "%s", e.text);
}

static void t_bench__close(bench_job *j) {
    mem_free(j->machine.of);
    bench__close(j);
    gguf_close(&j->g);
    if (j->draft_g.path) gguf_close(&j->draft_g);
}

/* Every position of every sequence is computed once, in order; logits are asked for where llama-bench asks. */
static void t_bench_rows(void) {
    static const struct { bench_test t; int batch, ubatch, steps, asks; } cases[] = {
        {{9, 0, 0, 1, 0, 0}, 2048, 512, 1, 1},  {{9, 0, 5, 1, 0, 0}, 2048, 4, 3, 1}, {{9, 0, 0, 1, 0, 0}, 4, 512, 3, 3}, {{9, 0, 0, 1, 0, 0}, 8, 4, 3, 2},
        {{0, 3, 2, 1, 0, 0}, 2048, 512, 3, 3},  {{0, 3, 0, 4, 0, 0}, 2048, 2, 3, 12}, {{5, 2, 1, 3, 0, 0}, 2048, 4, 6, 9}, {{1, 1, 0, 4, 0, 0}, 1, 1, 5, 8},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const bench_test *t = &cases[c].t;
        bench_opts        o = bench_defaults;
        bench_job         j;
        int               next[4], steps = 0, asks = 0, n;
        o.prompt = (bench_list){1, {0}};
        o.gen = (bench_list){0};
        o.pair = (bench_list){2, {t->n_prompt, t->n_gen}};
        o.depth = (bench_list){1, {t->n_depth}};
        o.seqs = (bench_list){1, {t->n_seq}};
        if (!t_bench__open(&j, "llama", &o, (bench_setup){-1, 0, cases[c].batch, cases[c].ubatch, 1, K_F16, K_F16})) return;
        for (int s = 0; s < t->n_seq; s++) next[s] = t->n_depth;
        for (; (n = bench__rows(&j, t, steps)) > 0; steps++) {
            const dev_batch *b = &j.eng->f->batch;
            int with = 0;
            for (int i = 0; i < n; i++) {
                int s = 0;
                while (s < t->n_seq && j.eng->f->from[b->seq[i]] != j.seq[s]) s++;
                if (!CHECK(s < t->n_seq)) return;
                EQ_INT(b->pos[i], next[s]++);
                CHECK(b->token[i] >= 0 && b->token[i] < j.eng->m.hp.n_vocab);
                with += b->want[i] == DEV_LOGITS;
            }
            EQ_INT(n, b->n);
            EQ_INT(with, b->n_out);
            CHECK(n <= j.eng->n_batch && with <= j.eng->max_out);
            asks += with;
        }
        for (int s = 0; s < t->n_seq; s++) EQ_INT(next[s], bench__length(t));
        EQ_INT(steps, cases[c].steps);
        EQ_INT(asks, cases[c].asks);
        t_bench__close(&j);
    }
}

/* Bytes and products of one token, compared with the directory of tensors: every matrix once, of a stack only the used experts. */
static void t_bench_work(void) {
    static const char *const names[] = {"llama", "llama_mha", "qwen3_q8_0", "llama_q4_k_m", "llama_moe", "qwen2moe", "llama_moe_q4_0", "qwen2_bf16"};
    bench_opts               o = bench_defaults;
    const bench_test         t = {0, 1, 6, 1, 0, 0};
    o.prompt = (bench_list){1, {0}};
    o.gen = (bench_list){1, {1}};
    o.depth = (bench_list){1, {6}};
    for (size_t i = 0; i < 2 * sizeof names / sizeof *names; i++) {
        const char *name = names[i / 2];
        bench_job   j;
        double      need = 0, want[K_ACTS] = {0};
        if (!t_bench__open(&j, name, &o, (bench_setup){-1, i % 2 ? 1 : 2, 2048, 512, 1, K_F16, K_Q8_0})) return;
        const arch_hparams *hp = &j.eng->m.hp;
        const bool          tied = !gguf_tensor_find(&j.g, "output.weight");
        for (uint64_t k = 0; k < j.g.n_tensor; k++) {
            const gguf_tensor *m = &j.g.tensor[k];
            const bool         embd = bytes_is(m->name, "token_embd.weight");
            const double       part = m->dim[2] > 1 ? (double)hp->layer[0].n_expert_used / hp->layer[0].n_expert : 1;
            if (m->n_dims < 2) continue;
            if (embd) need += (double)m->n_bytes / (double)m->dim[1];
            if (embd && !tied) continue;
            const size_t packed = i % 2 ? k_pack_bytes(m->type, (int)m->dim[1], (int)m->dim[0]) : 0;
            need += part * (packed ? (double)packed * (double)m->dim[2] : (double)m->n_bytes);
            want[k_act_of(m->type)] += part * (double)(m->dim[0] * m->dim[1] * m->dim[2]);
        }
        for (int il = 0; il < hp->n_layer; il++) {
            need += 7.0 * hp->layer[il].n_head_kv * (double)(k_kv_bytes(K_F16, hp->layer[il].hd_k) + k_kv_bytes(K_Q8_0, hp->layer[il].hd_v));
            want[K_ACT_F32] += 7.0 * hp->layer[il].n_head * hp->layer[il].hd_k;                            /* a cache of f16 */
            want[K_ACT_BF16] += 7.0 * hp->layer[il].n_head * hp->layer[il].hd_v;                           /* of q8_0 */
        }
        const bench_work w = bench__work(&j, &t);
        CHECKF(fabs(w.cost.bytes - need) < 0.5, "%s: %.1f bytes, want %.1f", name, w.cost.bytes, need);
        for (int k = 0; k < K_ACTS; k++)
            CHECKF(fabs(w.cost.mul[k] - want[k]) < 0.5, "%s: %.1f products of kind %d, want %.1f", name, w.cost.mul[k], k, want[k]);
        t_bench__close(&j);
    }
}

/* Prompts: only rows with logits go through the whole last layer, a window bounds the context, rows of a sequence read it once. */
static void t_bench_work_prompt(void) {
    bench_opts       o = bench_defaults;
    const bench_test t = {48, 0, 0, 1, 0, 0};
    bench_job        j;
    enum { R = 16 };                                  /* rows of a step: three, the last row of the last one asks */
    o.prompt = (bench_list){1, {48}};
    o.gen = (bench_list){1, {0}};
    if (!t_bench__open(&j, "llama_window", &o, (bench_setup){-1, 0, 2048, R, 1, K_F16, K_F16})) return;
    const model        *m = &j.eng->m;
    const arch_hparams *hp = &m->hp;
    const double        kv = 2 * (double)k_kv_bytes(K_F16, hp->layer[0].hd_k);
    const int           window = hp->layer[0].window;
    double              need = 0, real = 0;
    for (int step = 0; step < 3; step++)
        for (int il = 0; il < hp->n_layer; il++) {
            const model_tensors *l = &m->layer[il];
            const dev_mat   *some[] = {&l->mat[W_Q], &l->mat[W_O], &l->mat[W_GATE], &l->mat[W_UP], &l->mat[W_DOWN]}, *all[] = {&l->mat[W_K], &l->mat[W_V]};
            const bool        end = il == hp->n_layer - 1;
            const int         rows = !end ? R : step == 2;
            for (int i = 0; i < 5; i++) {
                need += rows ? (double)some[i]->mat_bytes : 0;
                real += (double)rows * some[i]->n_in * some[i]->n_out;
            }
            for (int i = 0; i < 2; i++) need += (double)all[i]->mat_bytes, real += (double)R * all[i]->n_in * all[i]->n_out;
            double past = 0;
            for (int r = end ? R - 1 : 0; rows && r < R; r++) past += fmin(R * step + r + 1, window);
            real += past * hp->layer[il].n_head * (hp->layer[il].hd_k + hp->layer[il].hd_v);
            const double seen = fmin(R * step + R, window + (end ? 0 : R - 1));
            need += rows ? seen * hp->layer[il].n_head_kv * kv : 0;
        }
    need += (double)m->glob.mat[W_OUTPUT].row_bytes * hp->n_vocab + 48 * (double)m->glob.mat[W_TOK_EMBD].row_bytes;
    real += (double)hp->n_embd * hp->n_vocab;
    CHECK(window > 0 && window + R - 1 < 48);  /* the last step leaves something behind */
    const bench_work w = bench__work(&j, &t);
    NEAR(w.cost.mul[K_ACT_F32], real, 0.5);
    NEAR(w.cost.bytes, need, 0.5);
    EQ_INT((long long)w.cost.mul[K_ACT_I8], 0);
    t_bench__close(&j);
}

/* Rising and falling depths, with a window too: freed positions are computed again, and no row reads a missing block. */
static void t_bench_depths(void) {
    static const char *const names[] = {"llama", "llama_window"};
    static const bench_test  tests[] = {{8, 2, 0, 1, 0, 0}, {4, 2, 40, 3, 0, 0}, {0, 3, 10, 2, 0, 0}, {6, 0, 60, 1, 0, 0}, {2, 2, 0, 3, 0, 0}};
    bench_opts               o = bench_defaults;
    o.prompt = (bench_list){0};
    o.gen = (bench_list){0};
    o.pair = (bench_list){2, {8, 3}};
    o.depth = (bench_list){1, {60}};
    o.seqs = (bench_list){1, {3}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bench_job j;
        err_t     e = {0};
        if (!t_bench__open(&j, names[i], &o, (bench_setup){-1, 0, 2048, 7, 2, K_F16, K_F16})) return;
        for (size_t k = 0; k < sizeof tests / sizeof *tests; k++) {
            const bench_test *t = &tests[k];
            bench_sample      s = {0};
            CHECKF(bench__prepare(&j, t, &e), "%s", e.text);
            for (int q = 0; q < t->n_seq; q++) EQ_INT(j.seq[q]->n, bench__length(t));
            CHECKF(bench__warm_up(&j, t, &e) && bench__once(&j, t, &s, &e), "%s, test %zu: %s", names[i], k, e.text);
            CHECK(s.all > 0 && s.first > 0 && s.first <= s.all);
            for (int q = 0; q < t->n_seq; q++) j.valid[q] = (int)bench__length(t);
        }
        t_bench__close(&j);
    }
}

/* Options for tests of n tokens with up to 64 guesses after up to 60 tokens of context, with a draft or NULL. */
static bench_opts t_bench__guessing(const char *draft, int n) {
    bench_opts o = bench_defaults;
    o.prompt = (bench_list){1, {0}};
    o.gen = (bench_list){1, {n}};
    o.depth = (bench_list){2, {0, 60}};
    o.guess = (bench_list){1, {64}};
    o.draft = draft;
    o.draft_vocab = 100;
    return o;
}

/* Rounds with a draft head: a step of one row for each guess, at the position of the token that it reads, then one of the model. */
static void t_bench_head(void) {
    static const struct { int n, k, chance, steps, rows, guesses; } cases[] = {
        {1, 4, 80, 1, 1, 0}, {12, 1, 0, 12, 23, 11}, {12, 4, 80, 3, 12, 9}, {64, 4, 80, 19, 90, 71}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const bench_test t = {0, cases[c].n, 7, 1, cases[c].k, cases[c].chance};
        bench_opts       o = t_bench__guessing(NULL, t.n_gen);
        bench_job        j;
        err_t            e = {0};
        int              rows = 0, guesses = 0;
        o.head = true;
        if (!t_bench__open(&j, "qwen35_near", &o, (bench_setup){-1, 0, 2048, 4, 1, K_F16, K_F16})) return;
        if (!CHECK(j.eng->head)) return;
        EQ_INT(j.eng->head[0]->n_vocab, 100);
        bench_sample s = {0};
        CHECKF(bench__prepare(&j, &t, &e) && bench__warm_up(&j, &t, &e) && bench__rounds(&j, &t, &s, &e), "%s", e.text);
        bench_round g = bench__first_round(&t);
        for (int n; (n = bench__round_rows(&j, &t, &g)) > 0; bench__round_advance(&j, &t, &g)) {
            const bool own = g.f == j.eng->f;
            EQ_INT(g.f->batch.pos[n - 1], 7 + g.there + (own ? g.guesses : g.made));
            CHECK(own || n == 1);
            rows += own ? n : 0;
            guesses += !own;
        }
        EQ_INT(g.steps, cases[c].steps);
        EQ_INT(rows, cases[c].rows);
        EQ_INT(guesses, cases[c].guesses);
        t_bench__close(&j);
    }
}

/* Compares rounds with a second implementation on the same random numbers: steps and rows of both models. Every row's context was computed
 * by the same model and not cut off since, and the model computes every accepted position once. */
static void t_bench_rounds(void) {
    static const struct { int n, k, chance, steps, rows, drafts, read; } cases[] = {
        {1, 4, 80, 1, 1, 0, 0},       {2, 4, 100, 1, 2, 1, 1},     {12, 1, 0, 12, 23, 11, 11},   {12, 1, 100, 6, 12, 6, 11},
        {12, 4, 0, 12, 50, 38, 38},   {12, 4, 50, 6, 26, 20, 20},  {12, 4, 80, 3, 12, 9, 11},    {12, 4, 100, 3, 12, 9, 11},
        {12, 64, 100, 1, 12, 11, 11}, {24, 3, 50, 14, 52, 38, 39}, {24, 8, 80, 6, 46, 40, 41},   {64, 4, 80, 19, 90, 71, 81},
        {128, 16, 90, 15, 247, 232, 234},
    };
    static const char throws[] = "THHTHTTHHHTTHTTTHTTHTHTT";   /* places 1, 2, ...: H where an even chance is right */
    const bench_test  even = {0, 1, 0, 1, 1, 50};
    for (int i = 0; throws[i]; i++) EQ_INT(bench__accepted(&even, 1 + i), throws[i] == 'H');
    for (size_t c = 0; c < 2 * sizeof cases / sizeof *cases; c++) {
        const bool       drafted = c % 2;
        const bench_test t = {0, cases[c / 2].n, 7, 1, cases[c / 2].k, cases[c / 2].chance};
        const bench_opts o = t_bench__guessing(drafted ? "tests/data/tiny/qwen3.gguf" : NULL, t.n_gen);
        bench_job        j;
        if (!t_bench__open(&j, "llama", &o, (bench_setup){-1, 0, 2048, 4, 1, K_F16, K_F16})) return;
        if (drafted) EQ_INT(j.draft->f->n_vocab, 100);
        bench_round g = bench__first_round(&t);
        int         rows = 0, drafts = 0, read = 0, have[2] = {7, 7};
        for (int n; (n = bench__round_rows(&j, &t, &g)) > 0; bench__round_advance(&j, &t, &g)) {
            const bool       own = g.f == j.eng->f;
            const engine    *eng = own ? j.eng : j.draft;
            const int        before = g.there;
            const dev_batch *b = &g.f->batch;
            CHECK(n <= eng->n_batch && (own ? n <= j.eng->max_out : n <= BENCH_LAG));
            CHECK(b->pos[0] <= have[own]);
            EQ_INT(b->pos[n - 1], 7 + before + (own ? g.guesses : g.made));
            for (int i = 0; i < n; i++) {
                EQ_INT(b->pos[i], b->pos[0] + i);
                CHECK(g.f->from[b->seq[i]] == (own ? j.seq[0] : j.draft_seq) && b->token[i] >= 0 && b->token[i] < eng->m.hp.n_vocab);
                CHECK((b->want[i] == DEV_LOGITS) == (own || i == n - 1) && b->pos[i] < bench__length(&t));
            }
            if (own) EQ_INT(b->pos[0], have[true]);
            have[own] = b->pos[n - 1] + 1;
            if (own) {                                /* what a round throws away is cut off both */
                bench_round next = g;
                bench__round_advance(&j, &t, &next);
                have[true] = 7 + next.there;
                if (have[false] > have[true]) have[false] = have[true];
                EQ_INT(next.read, drafted ? have[false] - 7 : 0);
            }
            *(own ? &rows : &read) += n;
            drafts += !own;
        }
        EQ_INT(g.there, t.n_gen);
        EQ_INT(g.steps, cases[c / 2].steps);
        EQ_INT(rows, cases[c / 2].rows);
        EQ_INT(drafts, drafted ? cases[c / 2].drafts : 0);
        EQ_INT(read, drafted ? cases[c / 2].read : 0);
        t_bench__close(&j);
    }
}

/* Expected number of steps for n tokens if each guess is accepted with probability p; `left` tokens remain. */
static double t_bench__mean_steps(int n, int k, double p) {
    double steps[513] = {0};
    for (int left = 1; left <= n; left++) {
        const int g = k < left - 1 ? k : left - 1;
        steps[left] = 1;
        for (int r = 0; r <= g; r++) steps[left] += pow(p, r) * (r < g ? 1 - p : 1) * steps[left - 1 - r];
    }
    return steps[n];
}

/* The pseudo-random numbers behave like chance, for few tokens too: a row shows the expected figure. */
static void t_bench_coins(void) {
    static const int lengths[] = {64, 96, 128, 256, 512}, guesses[] = {1, 2, 4, 8, 16};
    engine           any = {0};
    const bench_job  alone = {.eng = &any};
    for (int l = 0; l < 5; l++)
        for (int k = 0; k < 5; k++)
            for (int chance = 0; chance <= 100; chance += 10) {
                const bench_test t = {0, lengths[l], 0, 1, guesses[k], chance};
                bench_round      g = bench__first_round(&t);
                for (g.f = any.f; g.there < t.n_gen;) bench__round_advance(&alone, &t, &g);
                const double want = t_bench__mean_steps(t.n_gen, t.n_guess, chance / 100.0), most = chance % 100 ? 0.12 : 1e-9;
                CHECKF(fabs((double)g.steps / want - 1) <= most, "%d tokens, %d guesses at %d %%: %lld steps, expected about %.1f", t.n_gen,
                       t.n_guess, chance, (long long)g.steps, want);
            }
}

/* Bytes of a test with guesses, compared with the directories of both models: all matrices once a step, an embedding for each row, and
 * keys and values of the context once a step. */
static void t_bench_work_guessing(void) {
    static const char *const names[] = {"tests/data/tiny/llama.gguf", "tests/data/tiny/llama_q4_k_m.gguf"};
    bench_opts               o = t_bench__guessing(names[1], 24);
    const bench_test         t = {0, 24, 7, 1, 3, 50};   /* 14 steps of 52 rows, 38 of the draft of 39: as in t_bench_rounds */
    const double             steps[] = {14, 38}, rows[] = {52, 39};
    bench_job                j;
    double                   need = 0;
    if (!t_bench__open(&j, "llama", &o, (bench_setup){-1, 2, 2048, 512, 1, K_F16, K_Q8_0})) return;
    for (int who = 0; who < 2; who++) {
        const gguf_file    *f = who ? &j.draft_g : &j.g;
        const arch_hparams *hp = who ? &j.draft->m.hp : &j.eng->m.hp;
        const bool          tied = !gguf_tensor_find(f, "output.weight");
        double              past = 0;
        for (uint64_t k = 0; k < f->n_tensor; k++) {
            const gguf_tensor *m = &f->tensor[k];
            const bool         embd = bytes_is(m->name, "token_embd.weight");
            if (m->n_dims < 2) continue;
            if (embd) need += rows[who] * (double)m->n_bytes / (double)m->dim[1];
            const bool head = bytes_is(m->name, tied ? "token_embd.weight" : "output.weight");
            const fwd *f2 = (who ? j.draft : j.eng)->f;   /* a draft reads the rows of its own vocabulary */
            if (!embd || tied) need += steps[who] * (double)m->n_bytes * (head ? (double)f2->n_vocab / (double)m->dim[1] : 1);
        }
        bench_round g = bench__first_round(&t);
        for (int n; (n = bench__round_rows(&j, &t, &g)) > 0; bench__round_advance(&j, &t, &g))
            if ((g.f == j.draft->f) == who) past += g.f->batch.pos[n - 1] + 1;
        for (int il = 0; il < hp->n_layer; il++)
            need += past * hp->layer[il].n_head_kv * (double)(k_kv_bytes(K_F16, hp->layer[il].hd_k) + k_kv_bytes(K_Q8_0, hp->layer[il].hd_v));
    }
    const bench_work w = bench__work(&j, &t);
    CHECKF(fabs(w.cost.bytes - need) < 0.5, "%.1f bytes, want %.1f", w.cost.bytes, need);
    EQ_INT((long long)w.steps, 14);
    CHECK(w.cost.mul[K_ACT_I8] > 0 && w.cost.mul[K_ACT_F32] > 0);
    const double       have = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    const double       most = fmin(0.95 * have / bench__position(&j, &j.eng->m.hp), INT_MAX);
    const bench_extent x = {(int)most, 1, 1, (int64_t)most};
    err_t              e = {0};
    CHECK(bench__fits_memory(&j, &j.eng->m.hp, NULL, &x, &e));
    CHECK(most >= INT_MAX || (!bench__fits_memory(&j, &j.eng->m.hp, &j.draft->m.hp, &x, &e) && e.code == EXIT_RESOURCE));
    t_bench__close(&j);
}

/* Whether the draft's last logits in a test are those of a text read row by row up to there. */
static bool t_bench__draft_agrees(bench_job *j, const bench_test *t) {
    const size_t V = (size_t)j->draft->f->n_vocab;
    float       *last = mem_new(V, sizeof *last);
    bench_round  g = bench__first_round(t);
    int          pos = -1;
    memcpy(last, j->draft->f->logits, V * sizeof *last);
    for (int n; (n = bench__round_rows(j, t, &g)) > 0; bench__round_advance(j, t, &g))
        if (g.f == j->draft->f) pos = g.f->batch.pos[n - 1];
    j->draft_valid = kv_truncate(j->draft_seq, 0);
    for (int p = 0; p <= pos; p++) {
        fwd_begin(j->draft->f);
        bench__row(j->draft, j->draft_seq, 0, p, true);
        if (!CHECK(kv_reserve(j->draft_seq, p + 1) && fwd_step(j->draft->f))) break;
    }
    const bool same = pos < 0 ? t->n_gen == 1 : memcmp(last, j->draft->f->logits, V * sizeof *last) == 0;
    mem_free(last);
    return same;
}

/* A repetition with guesses ends with the logits of one without, with a window too: every row had the right context after each cut.
 * The same for the draft. */
static void t_bench_guessing(void) {
    static const char *const names[] = {"llama", "llama_window", "qwen2moe"};
    static const char *const drafts[] = {NULL, "tests/data/tiny/llama.gguf", "tests/data/tiny/llama_window.gguf"};
    static const bench_test  tests[] = {{0, 40, 60, 1, 3, 50}, {0, 40, 0, 1, 16, 80}, {0, 40, 60, 1, 64, 100}, {0, 40, 10, 1, 7, 0}, {0, 1, 5, 1, 4, 80}};
    for (size_t i = 0; i < 9; i++) {
        const bench_opts o = t_bench__guessing(drafts[i / 3], 40);
        bench_job        j;
        err_t            e = {0};
        if (!t_bench__open(&j, names[i % 3], &o, (bench_setup){-1, 0, 2048, 7, 2, K_F16, K_F16})) return;
        const size_t V = (size_t)j.eng->m.hp.n_vocab;
        float       *plain = mem_new(V, sizeof *plain);
        for (size_t k = 0; k < sizeof tests / sizeof *tests; k++) {
            const bench_test *t = &tests[k], without = {0, t->n_gen, t->n_depth, 1, 0, 0};
            bench_sample      s = {0};
            CHECKF(bench__prepare(&j, &without, &e) && bench__once(&j, &without, &s, &e), "%s", e.text);
            memcpy(plain, j.eng->f->logits, V * sizeof *plain);
            CHECKF(bench__prepare(&j, t, &e) && bench__warm_up(&j, t, &e), "%s", e.text);
            for (int rep = 0; rep < 2; rep++) {
                s = (bench_sample){0};
                if (!CHECKF(bench__prepare(&j, t, &e) && bench__plain(&j, t, &s, &e), "%s", e.text)) break;
                EQ_INT(j.seq[0]->n, t->n_depth);
                CHECK(s.plain > 0);
                if (j.draft) EQ_INT(j.draft_seq->n, t->n_depth);
                memset(j.eng->f->logits, 0, V * sizeof *plain);
                if (!CHECKF(bench__once(&j, t, &s, &e), "%s", e.text)) break;
                CHECK(s.all > 0 && s.first > 0 && s.first <= s.all);
                EQ_INT(j.seq[0]->n, bench__length(t));
                const float *last = j.eng->f->logits + (size_t)(j.eng->f->batch.n_out - 1) * V;
                CHECKF(memcmp(last, plain, V * sizeof *plain) == 0, "%s, draft %s, test %zu, repetition %d: other logits", names[i % 3],
                       drafts[i / 3] ? drafts[i / 3] : "none", k, rep);
            }
            if (j.draft) CHECKF(t_bench__draft_agrees(&j, t), "%s, draft %s, test %zu: other logits of the draft", names[i % 3], drafts[i / 3], k);
        }
        mem_free(plain);
        t_bench__close(&j);
    }
}

/* Times of the stages add up to the whole, and measuring them changes no logit. */
static void t_bench_stages(void) {
    bench_opts       o = bench_defaults;
    const bench_test t = {16, 4, 0, 2, 0, 0};
    bench_job        j;
    bench_sample     s;
    err_t            e = {0};
    o.pair = (bench_list){2, {16, 4}};
    o.prompt = o.gen = (bench_list){0};
    o.seqs = (bench_list){1, {2}};
    for (int moe = 0; moe < 2; moe++) {
        if (!t_bench__open(&j, moe ? "qwen2moe" : "llama", &o, (bench_setup){-1, 0, 2048, 512, 2, K_F16, K_F16})) return;
        const size_t n = (size_t)j.eng->m.hp.n_vocab * 2;
        float       *plain = mem_new(n, sizeof *plain);
        CHECK(bench__prepare(&j, &t, &e));
        CHECK(bench__once(&j, &t, &s, &e));
        memcpy(plain, j.eng->f->logits, n * sizeof *plain);
        j.eng->f->run.times = &j.times;
        CHECK(bench__once(&j, &t, &s, &e));
        EQ_MEM(j.eng->f->logits, plain, n * sizeof *plain);
        double all = 0;
        for (int i = 0; i < FWD_PARTS; i++) {
            all += j.times.all[i];
            CHECKF((j.times.all[i] > 0) == (i != FWD_STATE) && j.times.wait[i] >= 0 && j.times.wait[i] <= j.times.all[i], "stage %s: %g s, %g of it waiting", fwd_part_names[i],
                   j.times.all[i], j.times.wait[i]);
        }
        CHECKF(all <= s.all && j.times.steps == 5, "%g s in stages of %g, %lld steps", all, s.all, j.times.steps);
        mem_free(plain);
        t_bench__close(&j);
    }
}

/* With adapters each step is measured without them, too: the times of stages do not count it, and later steps have the adapters. */
static void t_bench_adapters(void) {
    const char *const file[] = {"tests/data/lora/llama_all.gguf"};
    const float       scale[] = {0.5f};
    engine_opts       fo = engine_defaults;
    bench_opts        o = bench_defaults;
    const bench_test  t = {16, 4, 0, 2, 0, 0};
    bench_sample      s;
    err_t             e = {0};
    o.pair = (bench_list){2, {16, 4}};
    o.prompt = o.gen = (bench_list){0};
    o.seqs = (bench_list){1, {2}};
    fo.lora = (lora_opts){.file = file, .scale = scale, .n = 1};
    bench_job          j = {.o = &o, .fo = &fo, .ko = &kv_defaults, .set = {-1, 0, 2048, 512, 2, K_F16, K_F16}};
    const bench_extent x = bench__extent(&o);
    if (CHECKF(gguf_open(&j.g, "tests/data/tiny/llama.gguf", &e) && bench__open(&j, &x, &e), "%s", e.text)) {
        CHECK(bench__prepare(&j, &t, &e));
        j.eng->f->run.times = &j.times;
        CHECK(bench__once(&j, &t, &s, &e));
        CHECKF(j.times.steps == 5, "%lld steps", j.times.steps);
        CHECK(j.eng->f->run.times == &j.times);
        CHECK(s.plain > 0 && s.all > 0);
        for (int i = 0; i < 2; i++) CHECK(j.use[i] && j.use[i]->n == 1 && j.seq[i]->adapters == j.use[i]);
    }
    t_bench__close(&j);
}

/* Runs bench_run. Returns its output, which the caller frees; *ok is its result. */
static char *t_bench__run(const bench_opts *o, const char *path, const kv_opts *ko, int n_ctx, bool *ok, err_t *e) {
    engine_opts fo = engine_defaults;
    char    *text = NULL;
    size_t   n = 0;
    out_t    out = {open_memstream(&text, &n), "memory", 0, false};
    fo.n_ctx = n_ctx;
    *e = (err_t){0};
    *ok = bench_run(o, (const char *const[]){path}, 1, &fo, ko, BENCH_CSV, "1", "abc", &out, NULL, e);
    err_t none = {0};
    out_end(&out, &none);
    return text;
}

static void t_bench_run(void) {
    bench_opts o = bench_defaults;
    kv_opts    small = kv_defaults;
    bool       ok;
    err_t      e;
    o.prompt = (bench_list){1, {8}};
    o.gen = (bench_list){1, {4}};
    o.threads = (bench_list){2, {1, 2}};
    o.reps = 1;
    char *text = t_bench__run(&o, "tests/data/tiny/llama.gguf", &kv_defaults, -1, &ok, &e);
    CHECKF(ok, "%s", e.text);
    int lines = 0;
    for (char *p = text; (p = strchr(p, '\n')); p++) lines++;
    EQ_INT(lines, 1 + 4);
    free(text);
    text = t_bench__run(&o, "tests/data/tiny/llama.gguf", &kv_defaults, 7, &ok, &e);
    CHECKF(!ok && e.code == EXIT_INPUT && strstr(e.text, "a test takes 8 tokens, the context holds 7"), "%s", e.text);
    EQ_STR(text, "");
    free(text);
    small.max_blocks = 1;
    o.pair = (bench_list){2, {40, 4}};
    text = t_bench__run(&o, "tests/data/tiny/llama.gguf", &small, -1, &ok, &e);
    CHECKF(!ok && e.code == EXIT_RESOURCE && strstr(e.text, "cannot hold"), "%s", e.text);
    free(text);
    o.depth = (bench_list){1, {BENCH_MOST}};
    o.seqs = (bench_list){1, {BENCH_SEQS}};
    text = t_bench__run(&o, "tests/data/tiny/llama.gguf", &kv_defaults, -1, &ok, &e);
    CHECKF(!ok && e.code == EXIT_RESOURCE && strstr(e.text, "this machine has"), "%s", e.text);
    free(text);
    o = t_bench__guessing("models/pip-draft-q8_0.gguf", 4);
    text = t_bench__run(&o, "tests/data/tiny/llama.gguf", &kv_defaults, -1, &ok, &e);
    CHECKF(!ok && e.code == EXIT_INPUT && strstr(e.text, "pip-draft-q8_0.gguf: not the vocabulary of tests/data/tiny/llama.gguf"), "%s", e.text);
    EQ_STR(text, "");
    free(text);
    g_interrupt = SIGINT;
    o = bench_defaults;
    text = t_bench__run(&o, "tests/data/tiny/llama.gguf", &kv_defaults, -1, &ok, &e);
    g_interrupt = 0;
    CHECKF(!ok && !e.code, "%s", e.text);
    CHECK(text && strncmp(text, "build_commit,", 13) == 0);    /* a table without rows */
    free(text);
}

/* The loops that measure the machine's limits do all their work, at every level. */
static void t_bench_probes(void) {
    const char    *names[16];
    bool           can[16];
    uint64_t      *words = mem_aligned(1 << 16, 1);
    for (int i = 0; i < (1 << 16) / 8; i++) words[i] = rng_at(3, (uint64_t)i, 0, 0) >> 32;
    for (int l = 0, n = k_levels_list(names, can); l < n; l++) {
        if (!can[l]) continue;
        k_init(names[l]);
        const k_probe *k = k_probe_get();
        uint64_t       base = k->read(words, 1 << 16);
        for (int i = 0; i < (1 << 16) / 8; i += 61) { /* any word that is read changes what comes back */
            words[i] ^= 1;
            CHECKF(k->read(words, 1 << 16) != base, "%s: word %d is not read", names[l], i);
            words[i] ^= 1;
        }
        for (int kind = 0; kind < K_ACTS; kind++) CHECK(k->mul[kind] && k->round[kind] > 0);
    }
    mem_free(words);
}

static const t_case t_bench_cases[] = {
    {"bench_forms", "Markdown, CSV, JSON and JSONL of made-up samples are those that another program makes", t_bench_forms},
    {"bench_empty", "a run without rows is still whole", t_bench_empty},
    {"bench__picture", "a picture has lines where depth or sequences vary, else bars", t_bench_picture},
    {"bench_statistics", "mean and deviation", t_bench_statistics},
    {"bench_labels", "tests are called as llama-bench calls them", t_bench_labels},
    {"bench_tests", "lists become tests in order, and how much they need is known before", t_bench_tests},
    {"bench_tests_guessing", "tests with guesses stand behind those without, with one sequence and rows that a step has room for", t_bench_tests_guessing},
    {"bench draft head", "rounds with a draft head: a step for each guess, which the model checks", t_bench_head},
    {"bench_rounds", "rounds of guesses run the rows they should, of both models, and keep what the coins say", t_bench_rounds},
    {"bench_coins", "few throws of the coins are already like chance", t_bench_coins},
    {"bench_work_guessing", "bytes of a test with guesses are those of the tensors in both files, once a step", t_bench_work_guessing},
    {"bench_guessing", "a decode with guesses ends with the logits of one without, behind a window too", t_bench_guessing},
    {"bench_rows", "every position is computed once, in order, and logits are asked for where they should be", t_bench_rows},
    {"bench_work", "bytes and products of a token are those of the tensors in the file", t_bench_work},
    {"bench_work_prompt", "those of a prompt too, behind a window and with few logits", t_bench_work_prompt},
    {"bench_depths", "depths may come in any order, behind a window too", t_bench_depths},
    {"bench_stages", "time by stage adds up, and counting it changes nothing", t_bench_stages},
    {"bench_adapters", "steps without adapters are in no time of a stage, and steps after them have adapters", t_bench_adapters},
    {"bench_run", "a run writes a row for each test of each setup, keeps to its bounds and ends at an interrupt", t_bench_run},
    {"bench_probes", "the loops that show what the machine gives do their work", t_bench_probes},
};
static const t_suite t_bench_suite = SUITE(t_bench_cases);
