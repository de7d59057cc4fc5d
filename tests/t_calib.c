/* [calib] and [round]: sums compared with llama.cpp's files and with plain loops, damaged files, and rounding compared with its
 * definition in float64. */
#include "program.h"
#include "check.h"
#include "t_fwd.h"

static const char *tc_gold(const char *name) {
    static char path[4][160];
    static int  turn;
    char       *p = path[turn++ & 3];
    snprintf(p, sizeof path[0], "tests/data/golden/%s", name);
    return p;
}

/* The golden text through a tiny model, in chunks of 32 tokens. */
static bool tc_gather(const char *name, int threads, int batch, calib_imatrix *im) {
    gguf_file  g;
    err_t      e = {0};
    engine_opts   fo = engine_defaults;
    kv_opts    ko = {.type_k = K_F32, .type_v = K_F32, .block = 32};
    tok_ids    ids = {0};
    calib_opts o = {.n_chunks = 12, .output = true, .bos = -1};
    size_t     n;
    char      *text = t_read(tc_gold("imatrix.txt"), &n);
    *im = (calib_imatrix){0};
    fo.n_ctx = 32, fo.n_threads = threads, fo.n_batch = batch;
    if (!CHECK(text) || !CHECKF(gguf_open(&g, t_tiny_path(name), &e), "%s", e.text)) return false;
    tok_vocab *v = tok_load(&g, NULL, &e);
    engine    *en = v ? engine_open(&g, v, &fo, &ko, (engine_plan){.n_need = 32, .n_seqs = 1, .n_out = 1}, 0, &e) : NULL;
    bool       ok = en && tok_encode(v, (bytes){(uint8_t *)text, n}, TOK_BOS, &ids, &e) && calib_gather(en, &ids, 32, &o, "text", im, &e);
    CHECKF(ok, "%s", e.text);
    tok_ids_drop(&ids);
    engine_close(en);
    tok_free(v);
    gguf_close(&g);
    mem_free(text);
    return ok;
}

/* Largest distance of the sums, over the largest sum of their tensor; 1 where the tables differ otherwise. */
static double tc_distance(const calib_imatrix *a, const calib_imatrix *b) {
    double worst = a->n == b->n && a->n ? 0 : 1;
    for (size_t i = 0; worst < 1 && i < a->n; i++) {
        const calib_entry *x = &a->e[i], *y = &b->e[i];
        double             most = 0, far = 0;
        if (strcmp(x->name, y->name) || x->n_in * x->n_mat != y->n_in * y->n_mat) return 1;
        for (uint64_t k = 0; k < x->n_in * x->n_mat; k++) {
            const double u = x->sum2[k] / x->count[k / x->n_in], w = y->sum2[k] / y->count[k / y->n_in];
            most = fmax(most, fabs(w));
            far = fmax(far, fabs(u - w));
        }
        worst = fmax(worst, far / most);
    }
    return worst;
}

static void tc_golden(void) {
    static const struct { const char *model, *file; } rows[] = {
        {"llama.gguf", "imatrix_llama.gguf"}, {"llama.gguf", "imatrix_llama.dat"}, {"llama_moe.gguf", "imatrix_llama_moe.gguf"}};
    for (size_t i = 0; i < 3; i++) {
        calib_imatrix ours, theirs;
        err_t         e = {0};
        if (!tc_gather(rows[i].model, 2, 32, &ours)) continue;
        if (CHECKF(calib_imatrix_read(&theirs, tc_gold(rows[i].file), &e), "%s", e.text)) {
            double far = tc_distance(&ours, &theirs);
            CHECKF(far < 2e-3, "%s: sums differ by %g of the largest", rows[i].file, far);
            EQ_INT(theirs.n_chunk, 12);
            if (strstr(rows[i].file, "gguf")) EQ_INT(ours.e[0].count[0], theirs.e[0].count[0]);
            CHECK(theirs.n_dataset == 1 && !strcmp(theirs.dataset[0].p, "imatrix.txt"));
            calib_imatrix_drop(&theirs);
        }
        calib_imatrix_drop(&ours);
    }
}

static void tc_threads(void) {
    calib_imatrix a, b;
    for (int m = 0; m < 2; m++) {
        const char *name = m ? "qwen2moe.gguf" : "llama.gguf";
        if (!tc_gather(name, 1, 32, &a)) return;
        if (!tc_gather(name, 3, 7, &b)) return;
        CHECKF(tc_distance(&a, &b) == 0, "%s: threads or batches change a sum", name);
        calib_imatrix_drop(&a);
        calib_imatrix_drop(&b);
    }
}

/* A file that is written, read and merged with itself has twice the sums and the same means. */
static void tc_round_trip(void) {
    calib_imatrix a, b;
    err_t         e = {0};
    char          path[] = "/tmp/llmrun-test-XXXXXX";
    int           fd = mkstemp(path);
    if (!CHECK(fd >= 0) || !tc_gather("llama_moe.gguf", 1, 32, &a)) return;
    close(fd);
    CHECKF(calib_imatrix_write(&a, path, NULL, &e), "%s", e.text);
    if (CHECKF(calib_imatrix_read(&b, path, &e), "%s", e.text)) {
        CHECK(tc_distance(&a, &b) < 1e-6);
        CHECK(calib_imatrix_merge(&b, &a, 32, &e) && b.n_dataset == 2 && b.n_chunk == 24);
        CHECK(tc_distance(&a, &b) < 1e-6 && b.e[0].count[0] == 2 * a.e[0].count[0]);
        float *w = calib_weights(&b, bytes_of(b.e[0].name), b.e[0].n_in, b.e[0].n_mat, &e);
        CHECK(w && fabs((double)w[1] - a.e[0].sum2[1] / a.e[0].count[0]) < 1e-5 * (double)w[1]);
        mem_free(w);
        CHECK(!calib_weights(&b, bytes_of("nobody"), 1, 1, &e) && !e.code);
        CHECK(!calib_weights(&b, bytes_of(b.e[0].name), 7, 1, &e) && e.code == EXIT_INPUT);
        calib_imatrix_drop(&b);
    }
    calib_imatrix_drop(&a);
    unlink(path);
}

/* A file cut at every length and with any four bytes damaged is read or refused with an error text. */
static void tc_damage(void) {
    static const char *const names[] = {"imatrix_llama.dat", "imatrix_llama_moe.gguf"};
    for (int f = 0; f < 2; f++) {
        size_t n;
        char  *p = t_read(tc_gold(names[f]), &n);
        int    refused = 0;
        if (!CHECK(p)) continue;
        for (size_t i = 0; i < n; i++) {
            calib_imatrix im;
            err_t         e = {0};
            uint8_t      *cut = mem_new(i, 1);        /* a block of its own: a read past it is seen */
            memcpy(cut, p, i);
            bool ok = calib__imatrix_parse(&im, cut, i, "FILE", &e);
            CHECKF(ok == !e.code && (ok || !strncmp(e.text, "FILE: ", 6)), "%s cut at %zu: %s", names[f], i, e.text);
            if (ok) calib_imatrix_drop(&im);
            refused += !ok;
            mem_free(cut);
        }
        CHECKF(refused > (int)n - 40, "%s: only %d of %zu stumps refused", names[f], refused, n);
        for (size_t i = 0; i + 4 <= n; i += 3) {
            const uint32_t bad[] = {0x7fc00000, 0xffffffff, 0x7fffffff, 0};
            for (int b = 0; b < 4; b++) {
                calib_imatrix im;
                err_t         e = {0};
                char          keep[4];
                memcpy(keep, p + i, 4);
                memcpy(p + i, &bad[b], 4);
                bool ok = calib__imatrix_parse(&im, (uint8_t *)p, n, "FILE", &e);
                CHECK(ok == !e.code);
                for (size_t k = 0; ok && k < im.n; k++)
                    for (uint64_t c = 0; c < im.e[k].n_in * im.e[k].n_mat; c++) CHECK(im.e[k].sum2[c] >= 0 && isfinite(im.e[k].sum2[c]));
                if (ok) calib_imatrix_drop(&im);
                memcpy(p + i, keep, 4);
            }
        }
        mem_free(p);
    }
}

/* --- what it says --- */

/* Half a unit of the last place that the peer prints, which sums in float32. */
static bool tc_says(double ours, double theirs, int places) { return fabs(ours - theirs) <= 0.51 * pow(10, -places) + 1e-5 * fabs(theirs); }

/* A row of the golden tables against the figures of the same tensor or layer. */
static bool tc_stat_row(const char *row, calib_stat *st, size_t n) {
    char   layer[16], kind[64];
    double v[11];
    int    cells = sscanf(row, "%15s %63s %lf %lf %lf %lf %lf %lf %lf %lf %lf %lf %lf", layer, kind, v, v + 1, v + 2, v + 3, v + 4, v + 5,
                          v + 6, v + 7, v + 8, v + 9, v + 10);
    const int number = layer[0] == '-' ? -1 : atoi(layer);
    if (cells != 13 && (cells != 4 || sscanf(row, "%*s %lf %lf %lf", v, v + 1, v + 2) != 3)) return false;
    for (size_t i = 0; i < n; i++) {
        if (st[i].layer != number || (cells == 13 && !bytes_is(st[i].kind, kind))) continue;
        if (cells == 13) {
            const calib_stat *s = &st[i];
            return tc_says(s->sum, v[0], 2) && tc_says(s->least, v[1], 4) && tc_says(s->most, v[2], 4) && tc_says(s->mean, v[3], 2) &&
                   tc_says(s->dev, v[4], 2) && tc_says(100 * s->active, v[5], 2) && (double)s->n == v[6] && tc_says(s->entropy, v[7], 4) &&
                   tc_says(100 * s->even, v[8], 2) && tc_says(100 * s->high, v[9], 2) && tc_says(s->like, v[10], 4);
        }
        calib__layer_mean(&st[i], n - i);
        return tc_says(st[i].sum, v[0], 2) && tc_says(100 * st[i].high, v[1], 4) && tc_says(st[i].like, v[2], 4);
    }
    return false;
}

static void tc_stats(void) {
    char         *text = t_read(tc_gold("imatrix_stats.txt"), NULL), *rows = text, *row, *save = NULL, now[64] = "";
    calib_imatrix im = {0};
    calib_stat   *st = NULL;
    size_t        n = 0, seen = 0;
    if (!CHECK(text)) return;
    while ((row = strtok_r(rows, "\n", &save))) {
        char  file[64];
        err_t e = {0};
        rows = NULL;
        if (!CHECK(sscanf(row, "%63s", file) == 1)) break;
        if (strcmp(file, now)) {                      /* a layer's mean takes the place of its first tensor */
            mem_free(st);
            calib_imatrix_drop(&im);
            memcpy(now, file, sizeof now);
            if (!CHECKF(calib_imatrix_read(&im, tc_gold(file), &e), "%s", e.text)) break;
            st = calib__stats(&im, &n);
            qsort(st, n, sizeof *st, calib__by_layer);
        }
        CHECKF(tc_stat_row(row + strlen(file), st, n), "llama.cpp says: %s", row);
        seen++;
    }
    EQ_INT(seen, 15 + 2 + 16 + 2 + 15 + 2);
    mem_free(st);
    calib_imatrix_drop(&im);
    mem_free(text);
}

/* No data, zeros only, one channel, a layer without the one before, invalid names: statistics without NaN. */
static void tc_stats_odd(void) {
    calib_imatrix im = {0};
    static const struct {
        const char *name;
        uint64_t    n_in, n_mat;
        double      sum2, count;
        int         layer;
    } rows[] = {{"blk.0.a.weight", 4, 1, 0, 3, 0},       {"blk.1.a.weight", 4, 2, 5, 2, 1}, {"blk.12345678.a", 1, 1, 7, 7, 12345678},
                {"blk.123456789.a", 1, 1, 7, 7, -1},     {"blk..weight", 2, 1, FLT_MAX, 1e-40, -1}, {"none", 3, 1, 1, 0, -1},
                {"\"q\",\x1b", 3, 1, 1, 1, -1}};
    size_t n, at = 0;
    str    text = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        calib_entry *en = calib__add(&im, bytes_of(rows[i].name), rows[i].n_in, rows[i].n_mat);
        for (uint64_t k = 0; k < rows[i].n_in * rows[i].n_mat; k++) en->sum2[k] = rows[i].sum2;
        for (uint64_t k = 0; k < rows[i].n_mat; k++) en->count[k] = rows[i].count;
    }
    qsort(im.e, im.n, sizeof *im.e, calib__by_name);
    calib_stat *st = calib__stats(&im, &n);
    EQ_INT(n, im.n - 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; k < n; k++)
            if (!strcmp(st[k].en->name, rows[i].name)) {
                const calib_stat *s = &st[k];
                EQ_INT(s->layer, rows[i].layer);
                CHECKF(isfinite(s->sum + s->least + s->most + s->mean + s->dev + s->active + s->entropy + s->even + s->high + s->like),
                       "%s", s->en->name);
                NEAR(s->dev, 0, 1e-9 * s->mean);
                NEAR(s->even, rows[i].sum2 > 0 && s->n > 1, 1e-9);
                at++;
            }
    EQ_INT(at, n);
    calib_show(&im, CALIB_TEXT, &text);
    CHECK(strstr(text.p, "\"q\",\\x1b ") && !strchr(text.p, 0x1b));
    str_clear(&text);
    calib_show(&im, CALIB_CSV, &text);
    CHECK(strstr(text.p, "\n\"\"\"q\"\",\x1b\",-1,3,"));
    str_clear(&text);
    calib_show(&im, CALIB_JSON, &text);
    CHECK(strstr(text.p, "\"\\\"q\\\",\\u001b\", \"layer\": -1"));
    mem_free(st);
    str_drop(&text);
    calib_imatrix_drop(&im);
}

/* --- rounding --- */

enum { TC_N = 512, TC_OUT = 20, TC_ROWS = 700 };

typedef struct {
    round_job   j;
    dev_product m;
    uint32_t    type;
    uint8_t    *dst;
} tc_rig;

static void tc_stage(void *ctx, int ith) {
    tc_rig *r = ctx;
    dev     dv = {.p = r->j.p, .ith = ith};
    round__moments(&r->j, &dv, &r->m);
    round__prepare(&r->j, &dv);
    round__matrix(&r->j, &dv, &r->m, r->type, r->dst);
}

/* Rounds 20 rows of 512 (or `n`) weights under strongly correlated inputs; errors of the rows, by the job, in err. */
static void tc_round(uint32_t type, int n, int threads, float *w, float *x, uint8_t *dst, double *err, float *h) {
    tc_rig      r = {.type = type, .dst = dst};
    gguf_tensor t = {.name = bytes_of("t"), .data = (uint8_t *)w, .n_bytes = TC_OUT * (uint64_t)n * 4};
    gguf_file   g = {.tensor = &t, .n_tensor = 1};
    uint64_t    zero = 0;
    dev_acts    a = {.x = x, .ldx = (size_t)n};
    dev_mat    mat = {.data = t.data, .type = K_F32, .n_in = n, .n_out = TC_OUT, .n_mat = 1, .row_bytes = (size_t)n * 4};
    const size_t S = (size_t)round__span(n), runs = ((size_t)n + S - 1) / S;
    r.j = (round_job){.g = &g, .by_data = &zero, .o = {.damp = 0.01f}, .bad = UINT64_MAX, .lost = UINT64_MAX, .p = pool_new(threads), .n = n, .span = (int)S};
    r.m = (dev_product){.w = &mat, .n_out = TC_OUT, .a = &a, .n = TC_ROWS};
    r.j.h = mem_aligned(runs * S * S, 4), r.j.v = mem_aligned(runs * S * S, 4), r.j.chol = mem_aligned(S * S, 8);
    r.j.vd = mem_new((size_t)n, 4), r.j.hd = mem_new((size_t)n, 4), r.j.col = mem_new((size_t)n, sizeof *r.j.col);
    r.j.xt = mem_aligned((size_t)n * ROUND_CHUNK, 4), r.j.err = mem_new(2 * TC_OUT, 8);
    r.j.scratch = mem_new((size_t)threads, sizeof *r.j.scratch);
    for (int i = 0; i < threads; i++) round__scratch_new(&r.j.scratch[i], (size_t)n, S, k_row_bytes(type, n));
    pool_run(r.j.p, tc_stage, &r);
    memcpy(err, r.j.err, 2 * TC_OUT * sizeof *err);
    if (h) memcpy(h, r.j.h, S * S * sizeof *h);
    for (int i = 0; i < threads; i++) round__scratch_drop(&r.j.scratch[i]);
    pool_free(r.j.p);
    void *own[] = {r.j.h, r.j.v, r.j.chol, r.j.vd, r.j.hd, r.j.col, r.j.xt, r.j.err, r.j.scratch};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) mem_free(own[i]);
}

/* Inputs with a few common directions, as in a model; independent weights. */
static void tc_draw(float *w, float *x, int n) {
    enum { SHARED = 24 };
    for (int r = 0; r < TC_ROWS; r++)
        for (int i = 0; i < n; i++) {
            double v = 0.3 * (rng_unit(rng_at(1, (uint64_t)r, (uint64_t)i, 0)) - 0.5);
            for (int s = 0; s < SHARED; s++)
                v += (rng_unit(rng_at(2, (uint64_t)r, (uint64_t)s, 0)) - 0.5) * (rng_unit(rng_at(3, (uint64_t)s, (uint64_t)i, 0)) - 0.5);
            x[r * n + i] = (float)(v * (i % 37 == 5 ? 6 : 1));
        }
    for (int i = 0; i < TC_OUT * n; i++)
        w[i] = (float)(0.1 * (rng_unit(rng_at(4, (uint64_t)i, 0, 0)) + rng_unit(rng_at(4, (uint64_t)i, 1, 0)) - 1));
}

static void tc_moments(void) {
    float  *w = mem_new(TC_OUT * TC_N, 4), *x = mem_new(TC_ROWS * TC_N, 4), *h = mem_new(TC_N * TC_N, 4);
    uint8_t dst[TC_OUT * 400];
    double  err[2 * TC_OUT], mean = 0, worst = 0;
    tc_draw(w, x, TC_N);
    tc_round(K_Q4_0, TC_N, 2, w, x, dst, err, h);
    double *want = mem_new(TC_N * TC_N, 8);
    for (int i = 0; i < TC_N; i++)
        for (int k = 0; k < TC_N; k++)
            for (int r = 0; r < TC_ROWS; r++) want[i * TC_N + k] += (double)x[r * TC_N + i] * (double)x[r * TC_N + k] / TC_ROWS;
    for (int i = 0; i < TC_N; i++) mean += want[i * TC_N + i] / TC_N;
    for (int i = 0; i < TC_N; i++) want[i * TC_N + i] += 0.01f * mean;
    for (int i = 0; i < TC_N * TC_N; i++) worst = fmax(worst, fabs((double)h[i] - want[i]) / mean);
    CHECKF(worst < 1e-5, "moments differ by %g of their mean", worst);
    /* what the job says of its rows is e H e of the blocks it made */
    float *back = mem_new(TC_OUT * TC_N, 4);
    k_types[K_Q4_0].dequant(dst, back, TC_OUT * TC_N);
    for (int r = 0; r < TC_OUT; r++) {
        double sum = 0;
        for (int i = 0; i < TC_N; i++)
            for (int k = 0; k < TC_N; k++)
                sum += ((double)w[r * TC_N + i] - (double)back[r * TC_N + i]) * want[i * TC_N + k] * ((double)w[r * TC_N + k] - (double)back[r * TC_N + k]);
        NEAR(err[2 * r + 1], sum, 1e-3 * sum);
    }
    mem_free(w), mem_free(x), mem_free(h), mem_free(want), mem_free(back);
}

/* Every type: no row has a larger error than the plain fit; the sum is much smaller for types with codes. */
static void tc_types(void) {
    float *w = mem_new(TC_OUT * TC_N, 4), *x = mem_new(TC_ROWS * TC_N, 4);
    tc_draw(w, x, TC_N);
    for (uint32_t type = 0; type < K_TYPE_MAX; type++) {
        uint8_t dst[TC_OUT * 600], again[TC_OUT * 600];
        double  err[2 * TC_OUT], other[2 * TC_OUT], before = 0, after = 0;
        if (!k_wants_q8(type) || !k_fitters[type].fit) continue;
        tc_round(type, TC_N, 1, w, x, dst, err, NULL);
        for (int r = 0; r < TC_OUT; r++) {
            CHECKF(err[2 * r + 1] <= err[2 * r], "%s: row %d is worse than plain", k_types[type].name, r);
            before += err[2 * r], after += err[2 * r + 1];
        }
        const double most = k_fitters[type].recode ? 0.7 : 1;    /* a lattice has no codes to move alone */
        CHECKF(after <= most * before, "%s: %.3f of the plain error is left", k_types[type].name, after / before);
        if (type != K_Q4_K && type != K_Q4_0) continue;
        tc_round(type, TC_N, 3, w, x, again, other, NULL);
        EQ_MEM(again, dst, k_row_bytes(type, TC_N) * TC_OUT);
        EQ_MEM(other, err, sizeof err);
    }
    mem_free(w), mem_free(x);
}

/* Rows longer than one H, and rows that fill no super-block. */
static void tc_lengths(void) {
    static const int n[] = {32, 96, 288, 2304};
    for (int i = 0; i < 4; i++) {
        float   *w = mem_new(TC_OUT * (size_t)n[i], 4), *x = mem_new(TC_ROWS * (size_t)n[i], 4);
        uint8_t *dst = mem_new(TC_OUT, k_row_bytes(K_Q4_0, n[i]));
        double   err[2 * TC_OUT];
        tc_draw(w, x, n[i]);
        tc_round(K_Q4_0, n[i], 2, w, x, dst, err, NULL);
        double before = 0, after = 0;
        for (int r = 0; r < TC_OUT; r++) before += err[2 * r], after += err[2 * r + 1];
        CHECKF(after < 0.8 * before, "rows of %d: %.3f of the plain error is left", n[i], after / before);
        mem_free(w), mem_free(x), mem_free(dst);
    }
}

/* A whole model: every matrix of its layers and its output comes back in blocks, the same for any number of threads. */
static void tc_model(void) {
    static const char *const names[] = {"llama_window.gguf", "qwen3moe.gguf", "llama_mha.gguf"};
    for (int i = 0; i < 3; i++) {
        gguf_file g;
        err_t     e = {0};
        tok_ids   ids = {0};
        if (!CHECKF(gguf_open(&g, t_tiny_path(names[i]), &e), "%s", e.text)) continue;
        uint32_t *to = mem_new(g.n_tensor, sizeof *to);
        for (uint64_t k = 0; k < g.n_tensor; k++) to[k] = g.tensor[k].dim[0] % 32 || g.tensor[k].n_dims < 2 ? g.tensor[k].type : K_Q4_0;
        for (int k = 0; k < 200; k++) tok_ids_add(&ids, 3 + k * 7 % 200);
        round_opts o = {.chunk = 32, .n_chunks = -1, .n_threads = 1, .damp = 0.01f, .rope = rope_defaults, .kv = {.type_k = K_F32, .type_v = K_F32, .block = 32}};
        round_job *a = round_run(&g, &ids, 1, to, &o, &e);
        o.n_threads = 3;
        round_job *b = round_run(&g, &ids, 1, to, &o, &e);
        int        made = 0;
        for (uint64_t k = 0; a && b && k < g.n_tensor; k++) {
            const gguf_tensor *t = &g.tensor[k];
            CHECK(!round_bytes(a, k) == !round_bytes(b, k));
            if (!round_bytes(a, k)) continue;
            made++;
            EQ_MEM(round_bytes(a, k), round_bytes(b, k), (size_t)(t->dim[1] * t->dim[2]) * k_row_bytes(K_Q4_0, (int64_t)t->dim[0]));
        }
        CHECKF(a && b, "%s: %s", names[i], e.text);
        if (a && b) CHECKF(a->after < a->before, "%s: %g after %g", names[i], a->after, a->before);
        CHECKF(made > 3, "%s: %d matrices", names[i], made);
        round_free(a);
        round_free(b);
        tok_ids_drop(&ids);
        mem_free(to);
        gguf_close(&g);
    }
}

static const t_case t_calib_cases[] = {
    {"calib_golden", "sums are llama.cpp's, whose files of both forms are read", tc_golden},
    {"calib_threads", "threads and batches do not change a sum", tc_threads},
    {"calib_round_trip", "an importance matrix is written, read, merged and used", tc_round_trip},
    {"calib_damage", "a damaged importance matrix is refused in words", tc_damage},
    {"calib__stats", "figures of an importance matrix are llama.cpp's", tc_stats},
    {"calib_stats_odd", "figures of odd matrices, in every form", tc_stats_odd},
    {"round_moments", "moments and errors against float64", tc_moments},
    {"round_types", "no type's row is left worse than plain, threads change nothing", tc_types},
    {"round_lengths", "rows longer than a run of moments, and short ones", tc_lengths},
    {"round_model", "a whole model, its experts too", tc_model},
};
static const t_suite t_calib_suite = SUITE(t_calib_cases);
