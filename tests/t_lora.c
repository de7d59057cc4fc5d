/* [lora]: adapters beside logits of merged weights that numpy computed in float64 (tests/gen/tiny_lora.py), and beside
 * themselves: the same bits however they are run, and beside sequences with other adapters. */
#include "program.h"
#include "check.h"
#include "t_fwd.h"

enum { TLO_MOST = 4 };                                  /* adapters of a case */

typedef struct {
    char        name[64], model[64], logits[64];
    char        path[TLO_MOST][160];
    const char *file[TLO_MOST];
    float       scale[TLO_MOST];
    lora_opts   o;
} tlo_case;

static const char *tlo_path(const char *name) {
    static char path[160];
    snprintf(path, sizeof path, "tests/data/lora/%s", name);
    return path;
}

/* The next line of data/lora/manifest.txt. */
static bool tlo_next(FILE *f, tlo_case *c) {
    char list[512], *at = list;
    if (fscanf(f, "%63s %63s %511s %63s", c->name, c->model, list, c->logits) != 4) return false;
    c->o = (lora_opts){.file = c->file, .scale = c->scale};
    for (char *one; (one = strsep(&at, ",")); c->o.n++) {
        char *eq = strchr(one, '=');
        *eq = 0;
        snprintf(c->path[c->o.n], sizeof c->path[0], "%s", tlo_path(one));
        c->file[c->o.n] = c->path[c->o.n];
        c->scale[c->o.n] = strtof(eq + 1, NULL);
    }
    return true;
}

/* A model with adapters and all that a step needs. */
typedef struct {
    t_rig rig;
    lora *l;
} tlo_rig;

static bool tlo_open(tlo_rig *r, const char *path, const lora_opts *o, const t_how *how) {
    err_t e = {0};
    memset(r, 0, sizeof *r);
    k_init(how->level);
    if (!CHECKF(gguf_open(&r->rig.g, path, &e), "%s", e.text)) return false;
    if (!CHECKF(model_open(&r->rig.m, &r->rig.g, &rope_defaults, &e), "%s", e.text)) return false;
    r->l = lora_open(o, &r->rig.m, &e);
    if (!CHECKF(r->l != NULL, "%s", e.text)) return false;
    kv_opts ko = {.type_k = how->kv_type, .type_v = how->kv_type, .block = t_stress() ? 2 : how->block};
    r->rig.kv = kv_new(&r->rig.m.hp, &ko, (kv_load){.tokens = 4096}, &e);
    if (!CHECKF(r->rig.kv != NULL, "%s", e.text)) return false;
    r->rig.kv->adapters = r->l->all;
    r->rig.p = pool_new(how->threads);
    if (how->packed) CHECK(!model_pack(&r->rig.m, r->rig.p, SIZE_MAX));
    r->rig.f = fwd_new(&r->rig.m, r->rig.kv, r->rig.p, 128, 128, FWD_LOGITS);
    return true;
}

static void tlo_close(tlo_rig *r) {
    t_rig_close(&r->rig);
    lora_close(r->l);
}

static void tlo_golden(void) {
    FILE    *f = fopen(tlo_path("manifest.txt"), "r");
    tlo_case c;
    int      n_cases = 0;
    if (!CHECK(f != NULL)) return;
    for (; tlo_next(f, &c); n_cases++) {
        t_tiny  t;
        tlo_rig r;
        int     n;
        if (!t_tiny_find(c.model, &t)) continue;
        int32_t *ids = t_read_ids(t_tiny_path(t.ids), &n);
        snprintf(t.logits, sizeof t.logits, "../lora/%.50s", c.logits);
        if (tlo_open(&r, t_tiny_path(t.file), &c.o, &t_plain)) {
            float       *got = t_rig_logits(&r.rig, ids, n, 512);
            const double err = t_tiny_error(&t, got);
            CHECKF(err <= 1e-6, "%s: nmse %.3g, at most 1e-6", c.name, err);
            EQ_INT(t_tiny_wrong_tokens(&t, got), 0);
            mem_free(got);
            tlo_close(&r);
        }
        mem_free(ids);
    }
    fclose(f);
    CHECK(n_cases >= 6);
}

static void tlo_same_bits(void) {
    static const t_how hows[] = {
        {"scalar", 2, 7, 16, K_F32, false}, {"avx2", 1, 512, 32, K_F32, false}, {"avx2", 3, 1, 2, K_F32, true},
        {"avx512", 2, 512, 32, K_F32, false}, {"avx512", 3, 7, 5, K_F32, true}, {"avx512", 1, 33, 32, K_F32, false},
        {"avx512_bf16", 2, 1, 32, K_F32, false}};
    FILE    *f = fopen(tlo_path("manifest.txt"), "r");
    tlo_case c;
    if (!CHECK(f != NULL)) return;
    t_pool_restless(true);
    while (tlo_next(f, &c)) {
        t_tiny  t;
        tlo_rig r;
        int     n;
        if (!t_tiny_find(c.model, &t)) continue;
        int32_t *ids = t_read_ids(t_tiny_path(t.ids), &n);
        if (!tlo_open(&r, t_tiny_path(t.file), &c.o, &t_plain)) continue;
        float       *want = t_rig_logits(&r.rig, ids, n, 512);
        const size_t all = (size_t)n * (size_t)t.n_vocab * sizeof *want;
        tlo_close(&r);
        for (size_t h = 0; h < sizeof hows / sizeof *hows; h++) {
            if (!k_init(hows[h].level) || !tlo_open(&r, t_tiny_path(t.file), &c.o, &hows[h])) continue;
            float *got = t_rig_logits(&r.rig, ids, n, hows[h].chunk);
            CHECKF(memcmp(got, want, all) == 0, "%s: %s, %d threads, chunks of %d%s", c.name, hows[h].level, hows[h].threads,
                   hows[h].chunk, hows[h].packed ? ", packed" : "");
            mem_free(got);
            tlo_close(&r);
        }
        mem_free(want);
        mem_free(ids);
    }
    t_pool_restless(false);
    fclose(f);
    k_init("auto");
}

/* --- rows of different adapters --- */

enum { TLO_SEQS = 8, TLO_LEN = 24 };

static const float tlo_scales[TLO_SEQS][3] = {{1, 0, 0},    {0, 0, 0}, {0, 1, 0},     {1, 1, 0},
                                              {0, 0, 0.5f}, {1, 0, 0}, {-2, 0.25f, 1}, {0, 0, 0}};

/* Logits [TLO_LEN, V] of sequence s, alone: its tokens are ids from s on. */
static float *tlo_alone(tlo_rig *r, const int32_t *ids, int s, const dev_adapters *a) {
    r->rig.kv->adapters = a;
    return t_rig_logits(&r->rig, ids + s, TLO_LEN, 5);
}

/* Steps in which all sequences have rows, `chunk` of each; those that are odd ask for nothing in every second step. */
static void tlo_together(tlo_rig *r, const int32_t *ids, int chunk, dev_adapters *const *a, float *const *want) {
    const size_t V = (size_t)r->rig.m.hp.n_vocab;
    kv_seq      *seq[TLO_SEQS];
    for (int s = 0; s < TLO_SEQS; s++) seq[s] = kv_seq_of(r->rig.kv, a[s]);
    for (int at = 0; at < TLO_LEN; at += chunk) {
        int out = 0;
        fwd_begin(r->rig.f);
        for (int s = 0; s < TLO_SEQS; s++) {
            CHECK(kv_reserve(seq[s], at + chunk));
            for (int i = at; i < at + chunk; i++)
                fwd_add(r->rig.f, seq[s], ids[s + i], i, (s + i) % 3 ? DEV_LOGITS : 0);
        }
        if (!CHECK(fwd_step(r->rig.f))) break;
        for (int s = 0; s < TLO_SEQS; s++)
            for (int i = at; i < at + chunk; i++)
                if ((s + i) % 3)
                    CHECKF(memcmp(r->rig.f->logits + (size_t)out++ * V, want[s] + (size_t)i * V, V * sizeof(float)) == 0,
                           "sequence %d, position %d, chunks of %d", s, i, chunk);
    }
    for (int s = 0; s < TLO_SEQS; s++) kv_seq_free(seq[s]);
}

static void tlo_rows(void) {
    static const struct { const char *model, *file[3]; } cases[] = {
        {"llama", {"llama_all.gguf", "llama_qv.gguf", "llama_wide.gguf"}},
        {"llama_moe", {"moe_experts.gguf", "moe_experts.gguf", "moe_experts.gguf"}},
        {"gemma", {"gemma_embd.gguf", "gemma_embd.gguf", "gemma_embd.gguf"}}};
    static const t_how hows[] = {{"auto", 2, 512, 32, K_F32, false}, {"scalar", 1, 512, 4, K_F32, false}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char          path[3][160];
        const char   *file[3];
        const float   scale[3] = {1, 1, 1};
        tlo_case      c = {.o = {file, scale, 3, false, false}};
        tlo_rig       r;
        t_tiny        t;
        int           n;
        if (!t_tiny_find(cases[k].model, &t)) continue;
        int32_t *ids = t_read_ids(t_tiny_path(t.ids), &n);
        for (int i = 0; i < 3; i++) {                   /* a link for each: names differ */
            snprintf(path[i], sizeof path[i], "build/t_lora.%d.%d.gguf", (int)getpid(), i);
            char from[200];
            snprintf(from, sizeof from, "../%s", tlo_path(cases[k].file[i]));
            unlink(path[i]);
            CHECK(symlink(from, path[i]) == 0);
            file[i] = path[i];
        }
        for (size_t h = 0; h < sizeof hows / sizeof *hows; h++) {
            dev_adapters *a[TLO_SEQS];
            float        *want[TLO_SEQS];
            if (!tlo_open(&r, t_tiny_path(t.file), &c.o, &hows[h])) continue;
            for (int s = 0; s < TLO_SEQS; s++) {
                a[s] = lora_use(r.l, tlo_scales[s]);
                want[s] = tlo_alone(&r, ids, s, a[s]);
            }
            tlo_together(&r, ids, 1, a, want);
            tlo_together(&r, ids, 8, a, want);
            for (int s = 0; s < TLO_SEQS; s++) mem_free_all(a[s], want[s]);
            tlo_close(&r);
        }
        for (int i = 0; i < 3; i++) unlink(path[i]);
        mem_free(ids);
    }
    k_init("auto");
}

/* --- the cache --- */

/* Positions of ids that a new sequence with these adapters finds in the cache. */
static int tlo_finds(tlo_rig *r, const dev_adapters *a, const int32_t *ids, int n) {
    bool      wait;
    int64_t   need[4] = {0};
    kv_seq   *s = kv_seq_of(r->rig.kv, a);
    const int got = kv_match_prefix(s, ids, n, &wait);
    kv_seq_free(s);
    kv_add_demand(r->rig.kv, NULL, a, ids, n + 1, need);
    return got;
}

static void tlo_reads(tlo_rig *r, const dev_adapters *a, const int32_t *ids, int n) {
    kv_seq *s = kv_seq_of(r->rig.kv, a);
    fwd_begin(r->rig.f);
    CHECK(kv_reserve(s, n));
    for (int i = 0; i < n; i++) fwd_add(r->rig.f, s, ids[i], i, 0);
    kv_publish(s, ids);
    CHECK(fwd_step(r->rig.f));
    kv_commit(r->rig.kv, true);
    kv_seq_free(s);
}

static void tlo_prefix(void) {
    static const float scales[][2] = {{1, 1}, {1, 0}, {0, 1}, {0, 0}, {1, 0.5f}, {-1, 0}};
    for (int block = 1; block <= 8; block += block) {
        char         path[2][160];
        const char  *file[2] = {path[0], path[1]};
        const float  scale[2] = {1, 1};
        lora_opts    o = {.file = file, .scale = scale, .n = 2};
        tlo_rig      r;
        const t_how  how = {"auto", 1, 512, block, K_F32, false};
        enum { N = 6 };
        dev_adapters *a[N];
        int32_t       ids[24];
        snprintf(path[0], sizeof path[0], "%s", tlo_path("llama_all.gguf"));
        snprintf(path[1], sizeof path[1], "%s", tlo_path("llama_qv.gguf"));
        if (!tlo_open(&r, t_tiny_path("llama.gguf"), &o, &how)) return;
        kv_share(r.rig.kv);
        for (int i = 0; i < 24; i++) ids[i] = 5 + i;
        for (int i = 0; i < N; i++) a[i] = lora_use(r.l, scales[i]);
        for (int i = 0; i < N; i++) {
            EQ_INT(tlo_finds(&r, a[i], ids, 23), 0);    /* whatever others have read */
            tlo_reads(&r, a[i], ids, 24);
            dev_adapters *same = lora_use(r.l, scales[i]);
            EQ_INT(tlo_finds(&r, same, ids, 23), 23);
            mem_free(same);
        }
        EQ_INT(tlo_finds(&r, NULL, ids, 23), 23);       /* none are no adapters */
        for (int i = 0; i < N; i++) mem_free(a[i]);
        tlo_close(&r);
    }
}

/* --- options, and files that are refused --- */

static void tlo_split(void) {
    static const struct { const char *spec, *path; float scale; } good[] = {
        {"a.gguf", "a.gguf", 1},       {"a.gguf=0.5", "a.gguf", 0.5f}, {"a.gguf:2", "a.gguf", 2}, {"dir/=-1e3", "dir/", -1000},
        {"C:/x.gguf", "C:/x.gguf", 1}, {"a=b.gguf=0", "a=b.gguf", 0},
    };
    static const char *const bad[] = {"a.gguf=", "a.gguf=x", "=1", "a.gguf=nan", "a.gguf=1e7", "a.gguf=inf", ""};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char *path;
        float scale;
        err_t e = {0};
        if (!CHECKF(lora_split(good[i].spec, &path, &scale, &e), "%s", e.text)) continue;
        EQ_STR(path, good[i].path);
        CHECKF(scale == good[i].scale, "%s: %g", good[i].spec, (double)scale);
        mem_free(path);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *path = NULL;
        float scale;
        err_t e = {0};
        CHECKF(!lora_split(bad[i], &path, &scale, &e) && e.code == EXIT_INPUT, "%s is taken", bad[i]);
    }
}

/* --- keys of PEFT: what `re` of Python says of these, as PEFT 0.21 asks it --- */

typedef struct {
    const char *key, *module;
    bool        fits;
} tlo_key;

/* adapter_config.json of this text, for the functions that read it. */
static bool tlo_config(import_peft *p, const char *text, err_t *e) {
    *e = (err_t){0};
    *p = (import_peft){.e = e, .how = {.dir = "DIR", .root = bytes_of(text)}};
    return import__expressions(p);
}

/* A text as JSON has it. */
static const char *tlo_quoted(const char *text) {
    static char s[200];
    size_t      n = 0;
    for (; *text; text++) {
        if (*text == '\\') s[n++] = '\\';
        s[n++] = *text;
    }
    s[n] = 0;
    return s;
}

static void tlo_patterns(void) {
    static const tlo_key keys[] = {
        {"q_proj", "model.layers.0.self_attn.q_proj", true},
        {"q_proj", "model.layers.0.self_attn.xq_proj", false},
        {"layers.1.self_attn.q_proj", "model.layers.1.self_attn.q_proj", true},
        {"layers.1.self_attn.q_proj", "model.layers.11.self_attn.q_proj", false},
        {"q.proj", "model.layers.0.self_attn.q_proj", true},
        {"attn.q_proj", "model.layers.0.self_attn.q_proj", false},
        {"^model.layers.0.mlp.up_proj", "model.layers.0.mlp.up_proj", true},
        {"^layers.0.mlp.up_proj", "model.layers.0.mlp.up_proj", false},
        {"layers\\.(0|2)\\..*_proj", "model.layers.2.mlp.up_proj", true},
        {"layers\\.(0|2)\\..*_proj", "model.layers.1.mlp.up_proj", false},
        {".*\\.(q|v)_proj", "model.layers.0.self_attn.v_proj", true},
        {"(?:q|k)_proj|o_proj", "model.layers.0.self_attn.o_proj", true},
        {"Q_PROJ", "model.layers.0.self_attn.q_proj", false},
        {"(?i:Q_PROJ)", "model.layers.0.self_attn.q_proj", true},
        {"\\w+_proj", "model.layers.0.self_attn.q_proj", true},
        {"layers\\.\\d{2}\\.mlp\\.down_proj", "model.layers.12.mlp.down_proj", true},
        {"layers\\.[0-9]\\.mlp", "model.layers.3.mlp.up_proj", false},
        {"layers\\.\\d{,2}\\.mlp\\.down_proj", "model.layers.12.mlp.down_proj", true},
        {"layers\\.\\d{,2}\\.mlp\\.down_proj", "model.layers.123.mlp.down_proj", false},
        {"layers\\.\\d{,}\\.mlp\\.down_proj", "model.layers.123.mlp.down_proj", true},
        {"x{,1}q_proj", "model.q_proj", true},
        {"x\\{,1}q_proj", "model.q_proj", false},
        {"x\\{,1}q_proj", "model.x{,1}q_proj", true},
        {"x{,y}q_proj", "model.x{,y}q_proj", true},
        {"[]{,2}]q_proj", "model.0q_proj", false},
        {"[]{,2}]q_proj", "model.,q_proj", true},
        {"[^]{,2}]q_proj", "model.0q_proj", true},
        {"^model.layers.1.mlp.up_proj", "model.layers.11.mlp.up_proj", false},
        {"^model.layers-1.mlp.up_proj", "model.layers.1.mlp.up_proj", false},
        {"^", "model.layers.0.mlp", false},
        {"^^model.layers.0.mlp", "model.layers.0.mlp", true},
        {"(q|k)_proj|x(?P<a>y)", "model.layers.0.self_attn.k_proj", true},
        {"", "model.layers.0.mlp", false},
    };
    static const tlo_key targets[] = {
        {".*\\.layers\\.[01]\\..*\\.(q|v)_proj", "model.layers.1.self_attn.v_proj", true},
        {".*\\.layers\\.[01]\\..*\\.(q|v)_proj", "model.layers.2.self_attn.v_proj", false},
        {"q_proj", "model.layers.0.self_attn.q_proj", false},
        {".*q_proj", "model.layers.0.self_attn.q_proj", true},
        {"model|model.layers.0.mlp.up_proj", "model.layers.0.mlp.up_proj", true},
        {"all-linear", "model.layers.0.mlp.up_proj", true},
    };
    import_peft p;
    err_t       e;
    char        text[400];
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        double of[2] = {1, 1};
        snprintf(text, sizeof text, "{\"rank_pattern\":{\"nothing\":2,\"%s\":3,\".*\":4},\"alpha_pattern\":{\"%s\":0.5}}",
                 tlo_quoted(keys[i].key), tlo_quoted(keys[i].key));
        if (CHECKF(tlo_config(&p, text, &e), "%s", e.text)) {
            const bytes module = bytes_of(keys[i].module);
            CHECK(import__number_of(&p, &p.rank, module, &of[0]) && import__number_of(&p, &p.alpha, module, &of[1]));
            CHECKF(of[0] == (keys[i].fits ? 3 : 4) && of[1] == (keys[i].fits ? 0.5 : 1), "%s on %s: %g, %g", keys[i].key,
                   keys[i].module, of[0], of[1]);
        }
        import__expressions_drop(&p);
    }
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        snprintf(text, sizeof text, "{\"target_modules\":\"%s\"}", tlo_quoted(targets[i].key));
        if (CHECKF(tlo_config(&p, text, &e), "%s", e.text))
            CHECKF(import__targets(&p, bytes_of(targets[i].module)) == targets[i].fits, "%s on %s", targets[i].key,
                   targets[i].module);
        import__expressions_drop(&p);
    }
}

/* Expressions that are none, or that take too long. */
static void tlo_bad_patterns(void) {
    static const struct { const char *config, *why; } bad[] = {
        {"{\"rank_pattern\":{\"layers.(0\":3}}", "rank_pattern: missing closing parenthesis at byte 9 of the regular"},
        {"{\"alpha_pattern\":{\"a{2,1}\":3}}", "alpha_pattern: numbers out of order in {} quantifier at byte"},
        {"{\"rank_pattern\":{\"q_proj\":\"x\"}}", "rank_pattern of \"q_proj\" is no number"},
        {"{\"rank_pattern\":{\"[\":true}}", "rank_pattern of \"[\" is no number"},
        {"{\"target_modules\":\"*\"}", "target_modules: quantifier does not follow a repeatable item at byte 0 of the"},
        {"{\"target_modules\":\"\\\\C\"}", "target_modules: using \\C is disabled"},
    };
    import_peft p;
    err_t       e;
    double      x = 0;
    str         text = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const bool ok = tlo_config(&p, bad[i].config, &e);
        CHECKF(!ok && e.code == EXIT_INPUT && strstr(e.text, bad[i].why), "%s: %s", bad[i].config, ok ? "taken" : e.text);
        import__expressions_drop(&p);
    }
    CHECK(tlo_config(&p, "{\"rank_pattern\":{\"(a|aa)+(a|aa)+[bc]\":3}}", &e));
    CHECK(!import__number_of(&p, &p.rank, bytes_of("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), &x));
    CHECKF(strstr(e.text, "rank_pattern: match limit exceeded on the module aaaa"), "%s", e.text);
    import__expressions_drop(&p);
    str_put(&text, "{\"rank_pattern\":{\"");           /* each group takes memory in each step of a match */
    for (int i = 0; i < 4000; i++) str_put(&text, "()");
    str_put(&text, "\":3}}");
    CHECKF(tlo_config(&p, text.p, &e), "%s", e.text);
    CHECK(!import__number_of(&p, &p.rank, bytes_of("model.layers.0.mlp"), &x));
    CHECKF(strstr(e.text, "rank_pattern: heap limit exceeded on the module model."), "%s", e.text);
    import__expressions_drop(&p);
    for (int names = 0; names < 2; names++) {           /* thousands of names are fine, of expressions 100 are */
        str_clear(&text);
        str_put(&text, "{\"rank_pattern\":{");
        for (int i = 0; i < (names ? 3000 : 101); i++) str_fmt(&text, "%s\"^model.layers.%d.q%s\":3", i ? "," : "", i, names ? "" : "+");
        str_put(&text, "}}");
        const bool ok = tlo_config(&p, text.p, &e);
        CHECKF(ok == (names == 1) && (ok || strstr(e.text, "rank_pattern has more than 100 regular expressions")), "%s", e.text);
        import__expressions_drop(&p);
    }
    str_drop(&text);
}

/* --- numbers as they are kept --- */

static void tlo_form(void) {
    static const struct { float x[4]; bool merge; lora_form want; } cases[] = {
        {{1, 0.5f, -0.25f, 0}, false, {K_F16, 14}},     {{1, 0.5f, -0.25f, 0}, true, {K_F16, 0}},
        {{60000, 1, 0, 0}, false, {K_F16, 0}},          {{0x1p-24f, 0, 0, 0}, false, {K_F16, 38}},
        {{0x1.8p20f, 1, 0, 0}, false, {K_F16, -6}},     {{0x1.fffp-3f, 1e-6f, 0, 0}, true, {K_F32, 0}},
        {{0, 0, 0, 0}, false, {K_F16, 0}},              {{0x1p-60f, 0, 0, 0}, false, {K_F16, 40}},
        {{-0x1p53f, 1, 0, 0}, false, {K_F16, -39}},     {{-0x1p54f, 1, 0, 0}, false, {K_F32, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const lora_form f = lora__form(cases[i].x, 4, cases[i].merge);
        CHECKF(f.type == cases[i].want.type && f.up == cases[i].want.up, "case %zu: type %u, 2^%d", i, f.type, f.up);
    }
    /* all of f16, and of bf16 down to 2^-31 of the largest, is kept */
    for (int k = 0; k < 2; k++)
        for (uint32_t h = 0; h < 0x7c00; h++) {
            const uint32_t bits = (0x3f80u - 26 * 0x80 + h % 0xf80) << 16;              /* 2^-26 and up, below 2^5 */
            float    x[2] = {k_f16_to_f32((uint16_t)h), 65504};
            uint8_t  to[2];
            uint16_t got;
            if (k) memcpy(x, &bits, sizeof bits), x[1] = 32;
            const lora_form f = lora__form(x, 2, false);
            lora__put(f, x, to, 1);
            memcpy(&got, to, sizeof got);
            if (ldexpf(k_f16_to_f32(got), -f.up) == x[0]) continue;
            CHECKF(false, "%g is kept as %g", (double)x[0], (double)ldexpf(k_f16_to_f32(got), -f.up));
            return;
        }
}

static const t_case tlo_cases[] = {
    {"lora golden", "logits with adapters are those of weights that numpy merged in float64", tlo_golden},
    {"lora same bits", "the same bits at every level, for every chunk and number of threads, packed or not", tlo_same_bits},
    {"lora rows", "a row has the same bits whatever adapters the others of its step have", tlo_rows},
    {"lora prefix", "sequences share blocks with those of the same adapters and scales alone", tlo_prefix},
    {"lora split", "a file and its scale", tlo_split},
    {"lora patterns", "keys of PEFT match the modules that they match there, the first one counts", tlo_patterns},
    {"lora bad patterns", "keys that are no expressions, or take too long, and what is no number", tlo_bad_patterns},
    {"lora form", "f16 files are kept exactly, bf16 files but for tiny numbers; merging is exact", tlo_form},
};
static const t_suite t_lora_suite = SUITE(tlo_cases);
