/* [store]: a text is the same with a prompt cache on disk and without, whatever the file holds and whichever run writes it. */
#include "program.h"
#include "check.h"
#include "t_gen.h"
#include "t_gguf.h"
#include "t_kv.h"

typedef struct {
    const char *model;
    kv_opts     ko;
    engine_opts    fo;
} t_store_how;

enum { T_STORE_ANSWER = 20 };

static char t_store_file[64];

/* A path for this test, without a file. */
static const char *t_store_path(const char *name) {
    snprintf(t_store_file, sizeof t_store_file, "build/t_store.%d.%s", (int)getpid(), name);
    unlink(t_store_file);
    return t_store_file;
}

static t_store_how t_store_usual(const char *path, const char *file) {
    t_store_how h = {path, kv_defaults, engine_defaults};
    h.ko.cache = file;
    h.fo.n_threads = 1;
    return h;
}

/* n tokens that begin the same for the same seed. */
static tok_ids t_store_ids(uint64_t seed, size_t n) {
    tok_ids ids = {0};
    for (size_t i = 0; i < n; i++) tok_ids_add(&ids, (int32_t)(5 + rng_at(21, seed, i, 0) % 100));
    return ids;
}

/* Number of the prompt's tokens that an engine takes from the file. */
static int t_store_kept(const engine *eng, const tok_ids *ids) {
    bool    wait;
    kv_seq *s = kv_seq_new(eng->kv);
    const int kept = kv_match_prefix(s, ids->id, (int)ids->n - 1, &wait);
    kv_seq_free(s);
    return kept;
}

/* A complete run: the answer as token ids, and the number of the prompt's tokens that the file held. */
static char *t_store_run(const t_store_how *h, const tok_ids *ids, int *kept) {
    t_run     r;
    err_t     e = {0};
    int       code;
    gen_opts  o = gen_defaults;
    samp_opts so = t_greedy();
    o.n_predict = T_STORE_ANSWER;
    o.ignore_eos = true;
    if (!t_run_open(&r, h->model, &h->fo, &h->ko, (int64_t)ids->n + o.n_predict, false)) exit(1);
    r.text.ids = true;
    *kept = h->ko.cache ? t_store_kept(r.eng, ids) : 0;
    char *text = t_run_ids(&r, ids, &o, &so, 1, &code);
    EQ_INT(code, 0);
    CHECKF(engine_save(r.eng, &h->ko, &e), "%s", e.text);
    t_run_close(&r);
    return text;
}

/* The same as without a file; returns the tokens that it knew. */
static int t_store_same(const t_store_how *h, const tok_ids *ids) {
    t_store_how plain = *h;
    int         kept, none;
    plain.ko.cache = NULL;
    char *want = t_store_run(&plain, ids, &none), *got = t_store_run(h, ids, &kept);
    EQ_STR(got, want);
    free(want);
    free(got);
    return kept;
}

static int t_store_block(const t_store_how *h) { return t_stress() ? 2 : h->ko.block; }

/* What a run over n tokens leaves of a prompt for its next run. */
static int t_store_left(const t_store_how *h, int n) {
    const int block = t_store_block(h), full = (n + T_STORE_ANSWER - 1) / block * block;
    return full < n - 1 ? full : n - 1;
}

static void t_store_again(void) {
    static const struct { const char *model; uint32_t type; } cases[] = {
        {"tests/data/tiny/llama.gguf", K_F16}, {"tests/data/tiny/llama_window.gguf", K_F16},
        {"tests/data/tiny/qwen3.gguf", K_Q8_0},
        {"tests/data/tiny/qwen3.gguf", K_Q4_0},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        t_store_how h = t_store_usual(cases[c].model, t_store_path("again"));
        h.ko.type_k = h.ko.type_v = cases[c].type;
        for (int n = 1; n <= 140; n = n < 30 ? n + 12 : n + 27) {
            tok_ids ids = t_store_ids((uint64_t)n, (size_t)n), longer = t_store_ids((uint64_t)n, (size_t)n + 40);
            EQ_INT(t_store_same(&h, &ids), 0);
            EQ_INT(t_store_same(&h, &ids), t_store_left(&h, n));
            const int full = (n + T_STORE_ANSWER - 1) / t_store_block(&h) * t_store_block(&h);
            EQ_INT(t_store_same(&h, &longer), full < n ? full : n);   /* the answer is another text than what follows there */
            EQ_INT(t_store_same(&h, &ids), n - 1);
            tok_ids_drop(&ids);
            tok_ids_drop(&longer);
        }
        unlink(h.ko.cache);
    }
}

/* The byte `after` bytes after the first `what` in a file changes. */
static void t_store_patch(const char *path, const char *what, size_t after, uint8_t flip) {
    size_t n;
    char  *all = t_read(path, &n), *at = memmem(all, n, what, strlen(what));
    FILE  *f = fopen(path, "r+b");
    if (CHECK(at && f)) {
        fseek(f, (long)(at - all) + (long)(strlen(what) + after), SEEK_SET);
        fputc((uint8_t)at[strlen(what) + after] ^ flip, f);
        fclose(f);
    }
    mem_free(all);
}

static void t_store_put(const char *path, const char *p, size_t n) {
    FILE *f = fopen(path, "wb");
    if (CHECK(f != NULL)) CHECK(fwrite(p, 1, n, f) == n && fclose(f) == 0);
}

static void t_store_byte(const char *path, size_t at, char c) {
    FILE *f = fopen(path, "r+b");
    CHECK(f && fseek(f, (long)at, SEEK_SET) == 0 && fputc(c, f) != EOF && fclose(f) == 0);
}

/* A model that differs from the first one in one byte of a weight. */
static const char *t_store_sibling(void) {
    static char path[64];
    size_t      n;
    char       *all = t_read("tests/data/tiny/llama.gguf", &n);
    snprintf(path, sizeof path, "build/t_store.%d.sibling", (int)getpid());
    if (CHECK(all && n > 64)) all[n - 64] ^= 1;
    t_store_put(path, all, n);
    mem_free(all);
    return path;
}

/* The file of another model, layout or version is not used, and is replaced. */
static void t_store_other(void) {
    tok_ids ids = t_store_ids(1, 100);
    for (int c = 0; c < 9; c++) {
        const t_store_how own = t_store_usual("tests/data/tiny/llama.gguf", t_store_path("other"));
        t_store_how       h = own;
        if (c == 0) h.model = "tests/data/tiny/llama_window.gguf";
        if (c == 1) h.ko.type_k = K_Q8_0;
        if (c == 2) h.ko.type_v = K_F32;
        if (c == 3 && !t_stress()) h.ko.block = 16;
        if (c == 4) h.fo.rope.base = 12345;
        if (c == 5) h.fo.rope.scaling = "linear", h.fo.rope.factor = 2;
        if (c == 6) h.fo.rope.scaling = "yarn", h.fo.rope.factor = 2, h.fo.rope.yarn_ext = 0.5f;
        if (c == 8) h.model = t_store_sibling();
        EQ_INT(t_store_same(&h, &ids), 0);
        EQ_INT(t_store_same(&h, &ids), t_store_left(&h, 100));
        if (c == 7) t_store_patch(own.ko.cache, "prompt_cache.version", 4, 3);
        CHECKF(t_store_same(&own, &ids) == (c == 3 && t_stress() ? 99 : 0), "case %d is used", c);
        EQ_INT(t_store_same(&own, &ids), t_store_left(&own, 100));
        unlink(own.ko.cache);
        if (c == 8) unlink(h.model);
    }
    tok_ids_drop(&ids);
}

/* Sums in another order, as OpenBLAS has them: from the last input to the first. */
static void t_store_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                          const float *b, int ldb,
                          float beta, float *c, int ldc) {
    (void)order, (void)trans_a, (void)trans_b, (void)alpha, (void)beta;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int x = k - 1; x >= 0; x--)
                sum += a[(size_t)i * (size_t)lda + (size_t)x] * b[(size_t)j * (size_t)ldb + (size_t)x];
            c[(size_t)i * (size_t)ldc + (size_t)j] = sum;
        }
}

/* Where results are not exact no guesses are made, and keys and values on disk are not those of exact runs, nor the other way
 * round. */
static void t_store_exact(void) {
    tok_ids           ids = t_store_ids(8, 100);
    const t_store_how h = t_store_usual("tests/data/tiny/llama.gguf", t_store_path("exact"));
    const spec_opts   lookup = spec_defaults, draft = {.draft = "any", .most = 4}, none = {.most = 4};
    int               kept;
    CHECK(ops_exact());
    CHECK(spec_rows(&lookup, 1) == lookup.most && spec_rows(&draft, 1) == 4 && spec_rows(&none, 1) == 0);
    free(t_store_run(&h, &ids, &kept));
    EQ_INT(kept, 0);
    g_sgemm = t_store_sgemm;
    CHECK(!ops_exact());
    CHECK(spec_rows(&lookup, 1) == 0 && spec_rows(&lookup, 8) == 0 && spec_rows(&draft, 1) == 0);
    free(t_store_run(&h, &ids, &kept));
    EQ_INT(kept, 0);
    free(t_store_run(&h, &ids, &kept));
    EQ_INT(kept, t_store_left(&h, 100));
    g_sgemm = NULL;
    free(t_store_run(&h, &ids, &kept));
    EQ_INT(kept, 0);
    unlink(h.ko.cache);
    tok_ids_drop(&ids);
}

/* A file that is no prompt cache is left unchanged. */
static void t_store_foreign(void) {
    tok_ids     ids = t_store_ids(2, 70);
    t_store_how h = t_store_usual("tests/data/tiny/llama.gguf", t_store_path("foreign"));
    char       *was[5], *now;
    size_t      n[5] = {0}, n_now;
    t_store_same(&h, &ids);
    was[0] = t_read(h.ko.cache, &n[0]);
    n[0] -= 1;                                        /* cut short */
    was[1] = t_read("tests/data/tiny/qwen3.gguf", &n[1]);
    was[2] = t_read("tests/t_store.c", &n[2]);
    was[3] = t_read(h.ko.cache, &n[3]);
    was[4] = t_read("tests/data/tiny/llama.gguf", &n[4]);
    if (CHECK(was[3] && n[3] > 100)) was[3][8] ^= 1;  /* another number of tensors */
    for (int i = 0; i < 5; i++) {
        t_store_put(h.ko.cache, was[i], n[i]);
        EQ_INT(t_store_same(&h, &ids), 0);
        now = t_read(h.ko.cache, &n_now);
        if (EQ_INT(n_now, n[i])) EQ_MEM(now, was[i], n[i]);
        mem_free(now);
        mem_free(was[i]);
    }
    unlink(h.ko.cache);
    CHECK(mkdir(h.ko.cache, 0777) == 0);
    EQ_INT(t_store_same(&h, &ids), 0);
    CHECK(rmdir(h.ko.cache) == 0 && mkfifo(h.ko.cache, 0666) == 0);
    EQ_INT(t_store_same(&h, &ids), 0);
    struct stat st;
    CHECK(stat(h.ko.cache, &st) == 0 && S_ISFIFO(st.st_mode));
    unlink(h.ko.cache);
    t_store_put(h.ko.cache, "", 0);                   /* an empty one is as good as none */
    EQ_INT(t_store_same(&h, &ids), 0);
    EQ_INT(t_store_same(&h, &ids), t_store_left(&h, 70));
    unlink(h.ko.cache);
    tok_ids_drop(&ids);
}

/* A file that appears during the run is left unchanged too. */
static void t_store_supplanted(void) {
    t_run             r;
    err_t             e = {0};
    tok_ids           ids = t_store_ids(3, 70);
    const t_store_how h = t_store_usual("tests/data/tiny/llama.gguf", t_store_path("late"));
    gen_opts          o = gen_defaults;
    samp_opts         so = t_greedy();
    int               code;
    o.n_predict = 3;
    if (!t_run_open(&r, h.model, &h.fo, &h.ko, 80, false)) return;
    free(t_run_ids(&r, &ids, &o, &so, 1, &code));
    t_store_put(h.ko.cache, "an answer", 9);
    CHECK(engine_save(r.eng, &h.ko, &e) && !e.code);
    t_run_close(&r);
    char *now = t_read(h.ko.cache, NULL);
    EQ_STR(now, "an answer");
    mem_free(now);
    unlink(h.ko.cache);
    tok_ids_drop(&ids);
}

/* A read-only cache is used and never written. */
static void t_store_ro(void) {
    tok_ids     ids = t_store_ids(4, 70), more = t_store_ids(4, 120);
    t_store_how h = t_store_usual("tests/data/tiny/llama.gguf", t_store_path("ro"));
    size_t      n, n_now;
    t_store_same(&h, &ids);
    char *was = t_read(h.ko.cache, &n);
    h.ko.cache_ro = true;
    EQ_INT(t_store_same(&h, &more), t_stress() ? 70 : 64);
    char *now = t_read(h.ko.cache, &n_now);
    if (EQ_INT(n_now, n)) EQ_MEM(now, was, n);
    mem_free(was);
    mem_free(now);
    unlink(h.ko.cache);
    tok_ids_drop(&ids);
    tok_ids_drop(&more);
}

/* The bound: the most recently used prompts stay; of one that does not fit completely, its beginning. */
static void t_store_bound(void) {
    t_store_how h = t_store_usual("tests/data/tiny/llama.gguf", t_store_path("bound"));
    const int   block = t_store_block(&h), each = (128 + T_STORE_ANSWER - 1) / block;   /* blocks that a run leaves */
    tok_ids     a = t_store_ids(11, 128), b = t_store_ids(12, 128), c = t_store_ids(13, 128), d = t_store_ids(14, 128);
    t_run       r;
    struct stat st;
    if (!t_run_open(&r, h.model, &h.fo, &h.ko, 200, false)) return;
    const size_t size = r.eng->kv->group[0].mem.block_bytes;
    t_run_close(&r);
    h.ko.cache_bytes = (uint64_t)(2 * each + 1) * size + 5;
    EQ_INT(t_store_same(&h, &a) + t_store_same(&h, &b) + t_store_same(&h, &c), 0);
    const bool there = stat(h.ko.cache, &st) == 0;
    CHECK(there && (uint64_t)st.st_size > h.ko.cache_bytes - 5 && (uint64_t)st.st_size < h.ko.cache_bytes + 40000);
    t_store_how look = h;
    look.ko.cache_ro = true;
    EQ_INT(t_store_same(&look, &c), 127);
    EQ_INT(t_store_same(&look, &b), 127);
    EQ_INT(t_store_same(&look, &a), block);
    tok_ids b_more = t_store_ids(12, 128 + (size_t)block + T_STORE_ANSWER);
    EQ_INT(t_store_same(&h, &b_more), 128);           /* it is used again, and has something new */
    t_store_same(&h, &d);
    EQ_INT(t_store_same(&look, &d), 127);
    CHECKF(t_store_same(&look, &b) > t_store_same(&look, &c), "what was used before the last is not kept");
    h.ko.cache_bytes = (uint64_t)(each - 2) * size;  /* not even one run: its beginning */
    tok_ids e = t_store_ids(15, 128);
    t_store_same(&h, &e);
    const int begun = (each - 2) * block < 127 ? (each - 2) * block : 127;
    EQ_INT(t_store_same(&look, &e), begun);
    h.ko.cache_bytes = 10;
    t_store_same(&h, &a);
    CHECKF(t_store_same(&look, &e) == begun, "a bound that holds no block has made the file worse");
    unlink(h.ko.cache);
    tok_ids *all[] = {&a, &b, &c, &d, &e, &b_more};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) tok_ids_drop(all[i]);
}

/* --- the file itself, over a cache of a few bytes --- */

enum { T_STORE_N = 21 };

typedef struct {
    t_kv_rig rig;
    store   *st;
    int32_t  ids[T_STORE_N];
    uint64_t of[T_STORE_N];
} t_store_rig;

static t_store_rig t_store_rig_shape(arch_hparams hp, const char *path, uint64_t seed) {
    t_store_rig r = {.rig = t_kv_open_shape(hp, 2, 30, 1 << 20)};
    for (int p = 0; p < T_STORE_N; p++) {
        r.ids[p] = (int32_t)(p < 8 ? (uint64_t)p : rng_at(9, seed, (uint64_t)p, 0) % 50);
        r.of[p] = rng_mix((p ? r.of[p - 1] : 1) + (uint64_t)r.ids[p]);
    }
    kv_share(r.rig.kv);
    r.st = store_open(r.rig.kv, path, 1234, "plain", 50);
    return r;
}

static t_store_rig t_store_rig_open(const char *path, int window, uint64_t seed) {
    return t_store_rig_shape(t_kv_shape(1, 1, 8, window), path, seed);
}

static void t_store_rig_close(t_store_rig *r) {
    store_close(r->st);
    kv_free(r->rig.kv);
    arch_drop(&r->rig.hp);
}

/* Takes over what is known of the first n, looks whether it is right, and computes the rest. Returns what was known. */
static int t_store_rig_read(t_store_rig *r, int n) {
    bool    wait;
    kv_seq *s = kv_seq_new(r->rig.kv);
    const int got = kv_match_prefix(s, r->ids, n - 1, &wait);
    t_kv_verify(s, r->of, got);
    for (int from = got, to; from < n; from = to) {   /* with states in steps of a block, and a snapshot at each border */
        to = kv_has_states(r->rig.kv) && from + 2 < n ? from + 2 : n;
        if (!CHECK(kv_reserve(s, to))) break;
        kv_publish(s, r->ids);
        kv_snapshot(s, to - to % 2, KV_KEPT);
        t_kv_step(s, r->of, from, to);
        kv_commit(r->rig.kv, true);
        t_kv_verify(s, r->of, from);
    }
    kv_seq_free(s);
    return got;
}

/* Every prompt that the cache knows of, by the tokens it names: what is taken over holds the values of those. */
static void t_store_rig_all(t_store_rig *r) {
    enum { PROMPTS = 40, DEEP = 40 };
    static int32_t ids[PROMPTS][2 * DEEP];
    kv_cache      *kv = r->rig.kv;
    int            len[PROMPTS], n = 0;
    bool           wait;
    for (int32_t i = kv_next(kv->tree, 0); i > 0 && n < PROMPTS; i = kv_next(kv->tree, i), n++) {
        int32_t path[DEEP];
        int     depth = 0;
        for (int32_t k = i; k > 0 && depth < DEEP; k = kv->tree->node[k].parent) path[depth++] = k;
        for (len[n] = 0; depth--; len[n] += 2) memcpy(ids[n] + len[n], kv_node_tokens(kv, path[depth]), 2 * sizeof **ids);
    }
    for (int k = 0; k < n; k++) {
        uint64_t of[2 * DEEP];
        for (int p = 0; p < len[k]; p++) of[p] = rng_mix((p ? of[p - 1] : 1) + (uint64_t)ids[k][p]);
        kv_seq *s = kv_seq_new(kv);
        kv_match_prefix(s, ids[k], len[k], &wait);
        t_kv_verify(s, of, s->n);
        kv_seq_free(s);
    }
}

/* A run over the first n tokens, whose cache is then saved. Returns how many of them the file had. */
static int t_store_saved(t_store_rig r, int n, uint64_t most) {
    err_t     e = {0};
    const int got = t_store_rig_read(&r, n);
    CHECKF(store_save(r.st, most, &e), "%s", e.text);
    t_store_rig_close(&r);
    return got;
}

static int t_store_once(const char *path, int window, uint64_t seed, int n, uint64_t most) {
    return t_store_saved(t_store_rig_open(path, window, seed), n, most);
}

/* Every byte of a file is turned into others: no value of it is ever taken for another. */
static void t_store_flip(void) {
    const char *path = t_store_path("flip");
    size_t      n, n_now;
    EQ_INT(t_store_once(path, 0, 1, T_STORE_N, 1 << 20), 0);
    EQ_INT(t_store_once(path, 0, 2, T_STORE_N, 1 << 20), 8);
    EQ_INT(t_store_once(path, 0, 1, T_STORE_N, 1 << 20), 20);
    char *was = t_read(path, &n);
    int   fewer = 0;
    for (size_t i = 0; was && i < n; i++)
        for (int k = 0; k < 3; k++) {
            static const char flips[] = {1, (char)0x80, (char)0xff};
            was[i] ^= flips[k];
            t_store_byte(path, i, was[i]);
            t_store_rig r = t_store_rig_open(path, 0, 1);
            const int   got = t_store_rig_read(&r, T_STORE_N);
            fewer += got < 20;
            t_store_rig_all(&r);
            if (k == 0 && i % 16 == 0) {
                err_t e = {0};
                CHECKF(store_save(r.st, 1 << 20, &e), "%s", e.text);
                t_store_rig_close(&r);
                char *now = t_read(path, &n_now);
                const bool left = n_now == n && memcmp(now, was, n) == 0;
                CHECKF(left || t_store_once(path, 0, 1, T_STORE_N, 1 << 20) == 20, "byte %zu: neither left nor made anew", i);
                mem_free(now);
                t_store_put(path, was, n);
            } else t_store_rig_close(&r);
            was[i] ^= flips[k];
            t_store_byte(path, i, was[i]);
        }
    CHECKF(fewer > 1500, "%d of %zu flips are seen", fewer, 3 * n);
    for (size_t len = n; was && len-- > 0;) {
        CHECK(truncate(path, (off_t)len) == 0);
        t_store_rig r = t_store_rig_open(path, 0, 1);
        EQ_INT(t_store_rig_read(&r, T_STORE_N), 0);
        CHECKF(r.st->foreign == (len > 0), "%zu of %zu bytes", len, n);
        t_store_rig_close(&r);
    }
    mem_free(was);
    unlink(path);
}

/* A file that is overwritten in place during the run: its blocks are not used, its directory stays what was checked, and what is
 * written at the end can be read or is ignored. */
static void t_store_overwritten(void) {
    for (int mix = -1; mix < T_KV_MIXES; mix++) {
        const char *path = t_store_path("overwritten");
        for (int run = 0; run < 4; run++) {
            t_store_rig r = mix < 0 ? t_store_rig_open(path, 0, 1) : t_store_rig_shape(t_kv_mix(mix), path, 1);
            err_t       e = {0};
            if (run == 1) tg_overwrite(&r.st->g, gguf_tensor_find(&r.st->g, "blocks")->at);
            if (run == 3) tg_overwrite(&r.st->g, 0);
            const int got = t_store_rig_read(&r, T_STORE_N);
            if (run < 3) EQ_INT(got, run == 1 || !r.st->open ? 0 : 20);   /* else what is in the copied pages */
            t_store_rig_all(&r);
            CHECKF(store_save(r.st, 1 << 20, &e), "%s", e.text);
            t_store_rig_close(&r);
        }
        unlink(path);
    }
}

/* The same from prompt to text, at some of the bytes. */
static void t_store_damaged(void) {
    tok_ids     ids = t_store_ids(6, 75);
    t_store_how h = t_store_usual("tests/data/tiny/llama.gguf", t_store_path("damaged"));
    size_t      n;
    int         none, kept;
    t_store_same(&h, &ids);
    char *was = t_read(h.ko.cache, &n), *want = t_store_run(&h, &ids, &none);
    h.ko.cache_ro = true;
    for (size_t i = 0; was && i < n; i += i < 600 ? 31 : n / 40) {
        t_store_byte(h.ko.cache, i, (char)~was[i]);
        char *got = t_store_run(&h, &ids, &kept);
        CHECKF(strcmp(got, want) == 0, "byte %zu of %zu gives another text", i, n);
        free(got);
        t_store_byte(h.ko.cache, i, was[i]);
    }
    free(want);
    mem_free(was);
    unlink(h.ko.cache);
    tok_ids_drop(&ids);
}

/* Behind a window what is not looked at ages; the rest hangs on nodes without blocks. */
static void t_store_window(void) {
    const char *path = t_store_path("window");
    EQ_INT(t_store_once(path, 4, 1, 18, 1 << 20), 0);
    for (int i = 0; i < 3; i++) {                     /* each adds a block, and lets the first ones age */
        EQ_INT(t_store_once(path, 4, 1, 18 + i, 1 << 20), i ? 18 : 17);
        EQ_INT(t_store_once(path, 4, (uint64_t)(5 + i), T_STORE_N, 1 << 20), 8);
    }
    t_store_rig r = t_store_rig_open(path, 4, 1);
    const size_t size = r.rig.kv->group[0].mem.block_bytes;
    t_store_rig_close(&r);
    t_store_once(path, 4, 1, T_STORE_N, 8 * size);
    t_store_once(path, 4, 99, T_STORE_N, 8 * size);  /* 8 shared positions, of which a window of 4 is looked at */
    r = t_store_rig_open(path, 4, 99);
    int hollow = 0;
    for (int64_t i = 0; i < r.st->n; i++) hollow += store__part(r.st, (int32_t)i, 0)[STORE_DATA] < 0;
    CHECKF(hollow > 0, "no node without a block among %lld", (long long)r.st->n);
    EQ_INT(gguf_tensor_find(&r.st->g, "data")->dim[1], 8);
    EQ_INT(t_store_rig_read(&r, T_STORE_N), 20);      /* all of it, though the first blocks are gone */
    EQ_INT(t_store_rig_read(&r, 3), 0);               /* a short one needs those */
    t_store_rig_close(&r);
    unlink(path);
}

/* The same with a model of several groups. */
static int t_store_groups_once(const char *path, int mix, uint64_t seed, int n, uint64_t most) {
    return t_store_saved(t_store_rig_shape(t_kv_mix(mix), path, seed), n, most);
}

/* Several groups, states among them: what is read is right whatever the bound left out and whatever bytes were turned. */
static void t_store_groups(void) {
    for (int mix = 0; mix < T_KV_MIXES; mix++) {
        const char *path = t_store_path("groups");
        size_t      n;
        EQ_INT(t_store_groups_once(path, mix, 1, T_STORE_N, 1 << 20), 0);
        EQ_INT(t_store_groups_once(path, mix, 1, T_STORE_N, 1 << 20), 20);
        EQ_INT(t_store_groups_once(path, mix, 2, T_STORE_N, 1 << 20), 8);
        EQ_INT(t_store_groups_once(path, (mix + 1) % T_KV_MIXES, 1, T_STORE_N, 0), 0);   /* another layout is not used */
        EQ_INT(t_store_groups_once(path, mix, 2, T_STORE_N, 1 << 20), 20);
        char *was = t_read(path, &n);
        for (size_t i = 0; was && i < n; i += 41) {
            t_store_byte(path, i, (char)~was[i]);
            t_store_rig r = t_store_rig_shape(t_kv_mix(mix), path, 1);
            t_store_rig_read(&r, T_STORE_N);
            t_store_rig_all(&r);
            t_store_rig_close(&r);
            t_store_byte(path, i, was[i]);
        }
        mem_free(was);
        for (uint64_t most = 0; most < 24000; most += 1900) {
            unlink(path);
            t_store_groups_once(path, mix, 3, T_STORE_N, 1 << 20);
            t_store_groups_once(path, mix, 4, T_STORE_N, most);
            const int got = t_store_groups_once(path, mix, 4, T_STORE_N, most);
            CHECKF(got <= 20 && (most < 20000 || got == 20), "mix %d: %d tokens of a file of %llu bytes", mix, got,
                   (unsigned long long)most);
        }
        unlink(path);
    }
}

/* Rows that no run writes. */
static void t_store_rows(void) {
    const char *path = t_store_path("rows");
    t_store_once(path, 0, 1, T_STORE_N, 1 << 20);
    t_store_rig r = t_store_rig_open(path, 0, 1);
    const size_t each = store__row(r.st);
    int32_t     *rows = r.st->row;
    CHECK(store__rows_good(r.st, 50));
    enum { T_STORE_DATA = STORE_HEAD + STORE_DATA, T_STORE_IDS = STORE_HEAD + STORE_PART };
    static const struct { int at; int32_t v; } bad[] = {
        {STORE_PARENT, -2}, {STORE_PARENT, 1}, {STORE_PARENT, INT32_MAX}, {STORE_AGE, -1}, {T_STORE_DATA, -2}, {T_STORE_DATA, 10},
        {T_STORE_DATA, INT32_MAX}, {T_STORE_IDS, -1}, {T_STORE_IDS + 1, 50}, {T_STORE_IDS + 1, INT32_MIN},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const int32_t was = rows[each + (size_t)bad[i].at];
        rows[each + (size_t)bad[i].at] = bad[i].v;
        CHECKF(!store__rows_good(r.st, 50), "case %zu is taken", i);
        rows[each + (size_t)bad[i].at] = was;
    }
    CHECK(!store__rows_good(r.st, 7));
    gguf_tensor *t[2] = {&r.st->g.tensor[0], &r.st->g.tensor[1]};
    CHECK(bytes_is(t[0]->name, "blocks") && bytes_is(t[1]->name, "data"));
    for (int i = 0; i < 8; i++) {                     /* and tensors of other shapes */
        const gguf_tensor was = *t[i / 4];
        err_t             e = {0};
        if (i % 4 == 0) t[i / 4]->dim[0]--;
        if (i % 4 == 1) t[i / 4]->dim[1] = (uint64_t)INT32_MAX + 1;
        if (i % 4 == 2) t[i / 4]->type = i < 4 ? K_I8 : K_I32;
        if (i % 4 == 3) t[i / 4]->n_dims = 3;
        CHECKF(!store__bind(r.st, 50, &e) && strstr(e.text, "other shapes"), "case %d: \"%s\"", i, e.text);
        *t[i / 4] = was;
        e = (err_t){0};
        CHECKF(store__bind(r.st, 50, &e), "%s", e.text);
    }
    t_store_rig_close(&r);
    unlink(path);
}

/* Processes that write one file at the same time leave a complete file and no temporary one. */
static void t_store_two(void) {
    const char *path = t_store_path("two");
    pid_t       child[3];
    for (int c = 0; c < 3; c++) {
        child[c] = fork();
        if (child[c]) continue;
        t_failed = 0;
        for (int i = 0; i < 30; i++) t_store_once(path, 0, (uint64_t)(c * 100 + i), T_STORE_N, 4096);
        _exit(t_failed ? 1 : 0);
    }
    for (int c = 0; c < 3; c++) {
        int status = -1;
        CHECK(child[c] > 0 && waitpid(child[c], &status, 0) == child[c]);
        EQ_INT(status, 0);
    }
    CHECK(t_store_once(path, 0, 777, T_STORE_N, 4096) == 8);
    unlink(path);
}

/* --- with batches --- */

/* The answer of a batch of one. */
static char *t_store_batch(const t_store_how *h, const tok_ids *ids, int *cached) {
    gguf_file  g;
    err_t      e = {0};
    engine_opts   fo = h->fo;
    kv_opts    ko = h->ko;
    sched_opts four = {.n_seqs = 4};
    samp_opts  so = t_greedy();
    str        text = {0};
    fo.n_ctx = 256;
    if (t_stress()) ko.block = 2;
    if (!CHECKF(gguf_open(&g, h->model, &e), "%s", e.text)) exit(1);
    tok_vocab *v = tok_load(&g, NULL, &e);
    engine    *eng = engine_open(&g, v, &fo, &ko, sched_plan(&fo, 4, 0, NULL), clock_now(), &e);
    sched     *sc = eng ? sched_new(eng, NULL, &four, &e) : NULL;
    if (!CHECKF(sc != NULL, "%s", e.text)) exit(1);
    const gen_opts    o = {.n_predict = T_STORE_ANSWER, .ignore_eos = true};
    const gen_request r = gen_ask(ids, &o, &so, 1);
    gen_answer        a;
    CHECKF(sched_add(sc, &r, &e) != NULL, "%s", e.text);
    while (!sched_idle(sc) && CHECKF(sched_step(sc, -1, &e), "%s", e.text)) {}
    CHECK(sched_take(sc, &a) && a.finish == GEN_LENGTH);
    for (int i = 0; i < a.n_tok; i++) str_fmt(&text, i ? " %d" : "%d", a.tok[i].id);
    str_put(&text, "\n");
    *cached = a.n_cached;
    gen_answer_drop(&a);
    sched_free(sc);
    CHECKF(engine_save(eng, &ko, &e), "%s", e.text);
    engine_close(eng);
    tok_free(v);
    gguf_close(&g);
    return text.p;
}

static void t_store_shared(void) {
    static const char *const models[] = {"tests/data/tiny/llama.gguf", "tests/data/tiny/llama_window.gguf"};
    for (int m = 0; m < 2; m++) {
        const t_store_how h = t_store_usual(models[m], t_store_path("shared"));
        tok_ids           one = t_store_ids(31, 110), two = t_store_ids(32, 110);
        int               none;
        for (int turn = 0; turn < 2; turn++) {        /* each finds what the other has left */
            int   kept, cached;
            char *a = t_store_run(&h, turn ? &two : &one, &kept), *b = t_store_batch(&h, turn ? &two : &one, &cached);
            EQ_STR(b, a);
            EQ_INT(cached, 109);
            EQ_INT(kept, turn ? 109 : 0);
            mem_free(b);
            if (!turn) b = t_store_batch(&h, &two, &none), mem_free(b);
            free(a);
        }
        EQ_INT(t_store_same(&h, &one), 109);
        EQ_INT(t_store_same(&h, &two), 109);
        tok_ids_drop(&one);
        tok_ids_drop(&two);
        unlink(h.ko.cache);
    }
}

static const t_case t_store_cases[] = {
    {"store again", "a second run reads the last token alone and says the same", t_store_again},
    {"store other", "what another model, layout or version left is not used", t_store_other},
    {"store exact", "with sums that are not exact there are no guesses, and no blocks of exact runs", t_store_exact},
    {"store foreign", "a file that is no prompt cache is left as it is", t_store_foreign},
    {"store supplanted", "a file that came to stand there meanwhile stays too", t_store_supplanted},
    {"store ro", "a file that is only read stays as it is", t_store_ro},
    {"store bound", "what was used last fits into the bound", t_store_bound},
    {"store flip", "any byte turned, any length: no wrong value, no end of the run", t_store_flip},
    {"store overwritten", "a file that is overwritten while it is used: no wrong value, no end of the run", t_store_overwritten},
    {"store damaged", "a damaged file gives no other text", t_store_damaged},
    {"store window", "blocks after nodes that have none", t_store_window},
    {"store groups", "caches of several groups and of states: the same values, or none", t_store_groups},
    {"store rows", "rows that nobody writes are refused", t_store_rows},
    {"store two", "processes that write one file at once", t_store_two},
    {"store shared", "one-shot runs and batches share a file", t_store_shared},
};
static const t_suite t_store_suite = SUITE(t_store_cases);
