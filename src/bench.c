/* ===== [bench] benchmark =====
 * Measures fwd_step() on random tokens: no text, no sampling. A test is P prompt tokens and then N generated ones, for S
 * sequences at once, each after D tokens of context; its memory is touched before the clock starts. Before and after each
 * repetition the same threads read memory (the sweep) and multiply in registers: the machine's bandwidth and arithmetic rate at
 * that time. The shares in a row are the bytes and products that a step needs at least, counted from the shapes, divided by these
 * rates. The sweep reads its own memory, in the largest pages that the kernel gives, and not the model's mapping: it measures the
 * machine's limit whatever the file is, also beside a small model, and loads no weights into the caches. The peak does not count
 * it. A test with guesses decodes one sequence by rounds as [spec] does: steps of the draft, if there is one, then one step of
 * the model over a row and its guesses. The number of guesses is given, and pseudo-random numbers decide which are accepted.
 * Compared with the same decode without guesses it shows the acceptance rate from which speculation pays off. Of several adapters
 * the sequences have one each in turn, where tests have several of both; else all. Of a test without guesses each step with
 * adapters has the same step without them beside it: speedup is the ratio; with guesses it is theirs. Columns, keys and tests are
 * those of llama-bench, with the same meaning; further ones follow them. A picture (--plot) shows the rates of all rows, prefill
 * above decode.
 * Public: bench_opts, bench_list, bench_defaults, bench_form, bench_any, bench_guesses, bench_run.
 * Opens: bench_opts. */

enum {
    BENCH_LIST = 64,      /* values of one option */
    BENCH_MOST = 1 << 24, /* tokens of one part of a test */
    BENCH_SEQS = 512,     /* sequences of a test */
    BENCH_REPS = 1000,
    BENCH_SWEEP = 256 << 20, /* bytes of one sweep */
    BENCH_SWEEPS = 4,        /* most sweeps before the same memory is read again */
    BENCH_CHUNK = 2 << 20,   /* bytes of one task of a sweep */
    BENCH_BURST = 1 << 21,   /* products between two readings of the clock */
    BENCH_SEED = 1,
    BENCH_GUESS_SEED = 5978, /* a seed whose first 64 numbers are typical already */
    BENCH_PLAIN = 16,        /* steps without guesses before each repetition with them */
    BENCH_LAG = 2,           /* rows of a draft's first step after a round whose guesses were all accepted */
};
#define BENCH_PROBE_S 2e-3                            /* seconds of each kind of products */
#define BENCH_BUSY    0.05                            /* share of the CPUs that other processes may take without a warning */

typedef struct {
    int n, v[BENCH_LIST];
} bench_list;

typedef struct {
    bench_list prompt;                                /* tokens of a prefill test */
    bench_list gen;                                   /* tokens of a decode test */
    bench_list pair;                                  /* tokens: prompt, gen, prompt, gen, ... */
    bench_list depth;                                 /* tokens in the cache before a test */
    bench_list seqs;                                  /* sequences side by side */
    bench_list batch;                                 /* tokens between logits */
    bench_list ubatch;                                /* tokens of a step */
    bench_list threads;                               /* 0: all CPUs */
    bench_list type_k, type_v;                        /* k_types ids */
    bench_list level;                                 /* index in k_levels_list; -1: the best */
    bench_list repack;                                /* index in bench_repacks */
    bench_list guess;                                 /* guesses of a step, 0: none */
    bench_list chance;                                /* acceptance rate of a guess, per cent */
    bench_list adapters;                              /* one value: how many the run has */
    const char *draft;                                /* model file; NULL: guesses cost nothing */
    int        draft_vocab;                           /* tokens that the draft may guess; 0: all */
    bool       head;                                  /* the model's draft head guesses; NULL draft */
    int        reps;
    bool       no_warmup;
} bench_opts;

#define BENCH_ONE(x) {1, {x}}
static const bench_opts bench_defaults = {
    .prompt = BENCH_ONE(512), .gen = BENCH_ONE(128), .depth = BENCH_ONE(0), .seqs = BENCH_ONE(1),
    .batch = BENCH_ONE(2048), .ubatch = BENCH_ONE(512), .threads = BENCH_ONE(0),
    .type_k = BENCH_ONE(K_BF16), .type_v = BENCH_ONE(K_BF16), .level = BENCH_ONE(-1), .repack = BENCH_ONE(0),
    .guess = BENCH_ONE(0), .chance = BENCH_ONE(80), .adapters = BENCH_ONE(0), .reps = 5,
};

static const char *const bench_repacks[] = {"auto", "on", "off"};    /* the values of --repack, in its order */

typedef enum { BENCH_MD, BENCH_CSV, BENCH_JSON, BENCH_JSONL } bench_form;

typedef struct {
    int n_prompt;                                     /* tokens that are read */
    int n_gen;                                        /* tokens that are decoded after them */
    int n_depth;                                      /* tokens in the cache before */
    int n_seq;                                        /* sequences side by side */
    int n_guess, chance;                              /* as in bench_opts; only with one sequence and no prompt */
} bench_test;

typedef struct {
    int      level, repack, batch, ubatch, threads;
    uint32_t type_k, type_v;
} bench_setup;

typedef struct {                                      /* per second, all threads together */
    double read, mul[K_ACTS];                         /* bytes; products of each form */
} bench_rate;

typedef struct {
    double     all, first;                            /* seconds; seconds until the logits after the prompt */
    bench_rate rate;                                  /* of the machine, before and after */
    double     plain;                                 /* seconds of the same steps without guesses or adapters; 0: not measured */
} bench_sample;

typedef struct {                                      /* what a repetition needs at least */
    dev_cost cost;                                    /* of all its steps */
    double   steps;                                   /* steps of the model that gave tokens */
} bench_work;

/* One line of the table. Integers are int64_t and numbers double, as bench_fields reads them. */
typedef struct {
    const char *commit, *cpu_info, *model_file, *model_type, *type_k, *type_v, *level, *repack, *test_time, *draft_file;
    int64_t     model_bytes, model_weights, n_batch, n_ubatch, n_threads, n_gpu_layers, n_prompt, n_gen, n_depth, n_seq, n_guess;
    int64_t     avg_ns, sd_ns, peak_bytes;
    double      avg_ts, sd_ts;                        /* tokens per second */
    double      ttft_ms, read_gbs, sweep_gbs, read_share, peak_share, others;
    double      gops[K_ACTS], gops_peak[K_ACTS];
    double      chance, per_step, speedup;            /* 0 .. 1; tokens of a step; rate over that without them, or NAN */
    const double *ns, *ts;                            /* [n] for each repetition */
    int           n;
} bench_row;

/* --- figures --- */

static double bench__mean(const double *x, int n) {
    double s = 0;
    for (int i = 0; i < n; i++) s += x[i];
    return n ? s / n : 0;
}

/* Standard deviation of a sample (n - 1); 0 for one value. */
static double bench__deviation(const double *x, int n) {
    double m = bench__mean(x, n), s = 0;
    for (int i = 0; i < n; i++) s += (x[i] - m) * (x[i] - m);
    return n > 1 ? sqrt(s / (n - 1)) : 0;
}

static int64_t bench__tokens(const bench_test *t) { return (int64_t)(t->n_prompt + t->n_gen) * t->n_seq; }

/* Computes the figures of n repetitions. ns, ts: [n], filled here and referenced by the row. */
static void bench__figures(bench_row *r, const bench_test *t, const bench_work *w, const bench_sample *s, int n, double *ns,
                           double *ts) {
    bench_rate rate = {0};
    double     first = 0, read = 0, share = 0, peak = 0, per_s = 0, gain = 0;
    for (int i = 0; i < n; i++) {
        const bench_rate *m = &s[i].rate;
        ns[i] = s[i].all * 1e9;
        ts[i] = (double)bench__tokens(t) / s[i].all;
        first += s[i].first / n;
        gain += s[i].plain / s[i].all / n;
        per_s += 1 / s[i].all / n;
        read += w->cost.bytes / s[i].all / n;
        share += w->cost.bytes / s[i].all / m->read / n;
        rate.read += m->read / n;
        for (int k = 0; k < K_ACTS; k++) {
            peak += w->cost.mul[k] / m->mul[k] / s[i].all / n;
            rate.mul[k] += m->mul[k] / n;
        }
    }
    r->n = n;
    r->ns = ns;
    r->ts = ts;
    r->avg_ns = (int64_t)bench__mean(ns, n);
    r->sd_ns = (int64_t)bench__deviation(ns, n);
    r->avg_ts = bench__mean(ts, n);
    r->sd_ts = bench__deviation(ts, n);
    r->ttft_ms = first * 1e3;
    r->read_gbs = read * 1e-9;
    r->sweep_gbs = rate.read * 1e-9;
    r->read_share = share;
    for (int k = 0; k < K_ACTS; k++) {                /* a product is two operations: multiply, add */
        r->gops[k] = 2 * w->cost.mul[k] * per_s * 1e-9;
        r->gops_peak[k] = 2 * rate.mul[k] * 1e-9;
    }
    r->peak_share = peak;
    r->per_step = w->steps > 0 ? t->n_gen / w->steps : 0;
    r->speedup = gain > 0 ? gain : t->n_gen && !t->n_prompt ? 1 : NAN;
}

/* pp512, tg128, pp512+tg128, tg128 x8 @ d4096, tg128 k4 a80 */
static void bench__label(const bench_test *t, str *s) {
    if (t->n_prompt) str_fmt(s, "pp%d", t->n_prompt);
    if (t->n_gen) str_fmt(s, "%stg%d", t->n_prompt ? "+" : "", t->n_gen);
    if (t->n_seq > 1) str_fmt(s, " x%d", t->n_seq);
    if (t->n_guess) str_fmt(s, " k%d a%d", t->n_guess, t->chance);
    if (t->n_depth) str_fmt(s, " @ d%d", t->n_depth);
}

/* --- the forms of a row --- */

typedef enum {
    BENCH_STR, BENCH_INT, BENCH_REAL,                 /* a field of bench_row */
    BENCH_TEXT, BENCH_RAW, BENCH_NO,                  /* constant: a text, a number, false */
} bench_kind;

#define BENCH_AT(f) offsetof(bench_row, f), NULL
/* Up to stddev_ts as in llama-bench. A setting that llmrun does not have gets llama-bench's default, so that tools match the rows
 * of both programs. */
static const struct {
    const char *key;
    bench_kind  kind;
    size_t      at;
    const char *fixed;
} bench_fields[] = {
    {"build_commit",   BENCH_STR,  BENCH_AT(commit)},       {"build_number",   BENCH_RAW,  0, "0"},
    {"cpu_info",       BENCH_STR,  BENCH_AT(cpu_info)},      {"gpu_info",       BENCH_TEXT, 0, ""},
    {"backends",       BENCH_TEXT, 0, "CPU"},                {"model_filename", BENCH_STR,  BENCH_AT(model_file)},
    {"model_type",     BENCH_STR,  BENCH_AT(model_type)},    {"model_size",     BENCH_INT,  BENCH_AT(model_bytes)},
    {"model_n_params", BENCH_INT,  BENCH_AT(model_weights)}, {"n_batch",        BENCH_INT,  BENCH_AT(n_batch)},
    {"n_ubatch",       BENCH_INT,  BENCH_AT(n_ubatch)},      {"n_threads",      BENCH_INT,  BENCH_AT(n_threads)},
    {"cpu_mask",       BENCH_TEXT, 0, "0x0"},                {"cpu_strict",     BENCH_NO,   0, NULL},
    {"poll",           BENCH_RAW,  0, "50"},                 {"type_k",         BENCH_STR,  BENCH_AT(type_k)},
    {"type_v",         BENCH_STR,  BENCH_AT(type_v)},        {"n_gpu_layers",   BENCH_INT,  BENCH_AT(n_gpu_layers)},
    {"n_cpu_moe",      BENCH_RAW,  0, "0"},                  {"split_mode",     BENCH_TEXT, 0, "layer"},
    {"main_gpu",       BENCH_RAW,  0, "0"},                  {"no_kv_offload",  BENCH_NO,   0, NULL},
    {"flash_attn",     BENCH_RAW,  0, "-1"},                 {"devices",        BENCH_TEXT, 0, "auto"},
    {"tensor_split",   BENCH_TEXT, 0, "0.00"},               {"tensor_buft_overrides", BENCH_TEXT, 0, "none"},
    {"load_mode",      BENCH_TEXT, 0, "mmap"},               {"embeddings",     BENCH_NO,   0, NULL},
    {"no_op_offload",  BENCH_RAW,  0, "0"},                  {"no_host",        BENCH_NO,   0, NULL},
    {"fit_target",     BENCH_RAW,  0, "0"},                  {"fit_min_ctx",    BENCH_RAW,  0, "0"},
    {"n_prompt",       BENCH_INT,  BENCH_AT(n_prompt)},      {"n_gen",          BENCH_INT,  BENCH_AT(n_gen)},
    {"n_depth",        BENCH_INT,  BENCH_AT(n_depth)},       {"test_time",      BENCH_STR,  BENCH_AT(test_time)},
    {"avg_ns",         BENCH_INT,  BENCH_AT(avg_ns)},        {"stddev_ns",      BENCH_INT,  BENCH_AT(sd_ns)},
    {"avg_ts",         BENCH_REAL, BENCH_AT(avg_ts)},        {"stddev_ts",      BENCH_REAL, BENCH_AT(sd_ts)},
    /* further fields of llmrun */
    {"cpu_level",      BENCH_STR,  BENCH_AT(level)},         {"n_parallel",     BENCH_INT,  BENCH_AT(n_seq)},
    {"ttft_ms",        BENCH_REAL, BENCH_AT(ttft_ms)},       {"read_gbs",       BENCH_REAL, BENCH_AT(read_gbs)},
    {"sweep_gbs",      BENCH_REAL, BENCH_AT(sweep_gbs)},     {"read_share",     BENCH_REAL, BENCH_AT(read_share)},
    {"int8_gops",      BENCH_REAL, BENCH_AT(gops[K_ACT_I8])},   {"int8_peak_gops", BENCH_REAL, BENCH_AT(gops_peak[K_ACT_I8])},
    {"float_gops",     BENCH_REAL, BENCH_AT(gops[K_ACT_F32])},  {"float_peak_gops", BENCH_REAL, BENCH_AT(gops_peak[K_ACT_F32])},
    {"bf16_gops",      BENCH_REAL, BENCH_AT(gops[K_ACT_BF16])}, {"bf16_peak_gops", BENCH_REAL, BENCH_AT(gops_peak[K_ACT_BF16])},
    {"peak_share",     BENCH_REAL, BENCH_AT(peak_share)},    {"peak_rss",       BENCH_INT,  BENCH_AT(peak_bytes)},
    {"others_share",   BENCH_REAL, BENCH_AT(others)},        {"repack",         BENCH_STR,  BENCH_AT(repack)},
    {"n_draft",        BENCH_INT,  BENCH_AT(n_guess)},       {"acceptance",     BENCH_REAL, BENCH_AT(chance)},
    {"draft_model",    BENCH_STR,  BENCH_AT(draft_file)},    {"tokens_per_step", BENCH_REAL, BENCH_AT(per_step)},
    {"speedup",        BENCH_REAL, BENCH_AT(speedup)},
};
enum { N_BENCH_FIELDS = sizeof bench_fields / sizeof *bench_fields };

/* Appends field i without quotes; nothing for NAN. */
static void bench__value(const bench_row *r, int i, str *s) {
    const void *at = (const char *)r + bench_fields[i].at;
    switch (bench_fields[i].kind) {
    case BENCH_STR: str_put(s, *(const char *const *)at); break;
    case BENCH_INT: str_fmt(s, "%lld", (long long)*(const int64_t *)at); break;
    case BENCH_REAL:
        if (isfinite(*(const double *)at)) str_fmt(s, "%f", *(const double *)at);
        break;
    case BENCH_TEXT:
    case BENCH_RAW: str_put(s, bench_fields[i].fixed); break;
    case BENCH_NO: str_put(s, "0"); break;
    }
}

static void bench__csv_head(str *s) {
    for (int i = 0; i < N_BENCH_FIELDS; i++) str_fmt(s, "%s%s", i ? "," : "", bench_fields[i].key);
    str_put(s, "\n");
}

/* Every value in quotes, a quote doubled (RFC 4180). */
static void bench__csv_row(const bench_row *r, str *s) {
    for (int i = 0; i < N_BENCH_FIELDS; i++) {
        str v = {0};
        str_put(&v, "");
        bench__value(r, i, &v);
        str_put(s, i ? "," : "");
        str_csv_quoted(s, str_bytes(&v));
        str_drop(&v);
    }
    str_put(s, "\n");
}

static void bench__json_value(const bench_row *r, int i, jw *w) {
    const char *key = bench_fields[i].key;
    str         v = {0};
    str_put(&v, "");
    bench__value(r, i, &v);
    if (bench_fields[i].kind == BENCH_STR || bench_fields[i].kind == BENCH_TEXT) jw_text(w, key, str_bytes(&v));
    else if (bench_fields[i].kind == BENCH_NO) jw_bool(w, key, false);
    else jw_fmt(w, key, "%s", v.n ? v.p : "null");
    str_drop(&v);
}

/* between: separator of two keys. */
static void bench__json_row(const bench_row *r, const char *between, str *s) {
    jw w = jw_loose(s);
    w.comma = between;
    for (int i = 0; i < N_BENCH_FIELDS; i++) bench__json_value(r, i, &w);
    jw_open(&w, "samples_ns", '[');
    for (int i = 0; i < r->n; i++) str_fmt(s, "%s%.0f", i ? ", " : " ", r->ns[i]);
    str_put(s, " ");
    jw_close(&w, ']');
    jw_open(&w, "samples_ts", '[');
    for (int i = 0; i < r->n; i++) str_fmt(s, "%s%g", i ? ", " : " ", r->ts[i]);
    str_put(s, " ");
    jw_close(&w, ']');
}

/* --- the Markdown table --- */

typedef enum {
    COL_MODEL, COL_SIZE, COL_PARAMS, COL_BACKEND, COL_THREADS, COL_BATCH, COL_UBATCH, COL_TYPE_K, COL_TYPE_V,
    COL_LEVEL, COL_REPACK, COL_TEST, COL_TS, COL_SPEEDUP, COL_PER_STEP, COL_TTFT, COL_READ, COL_SWEEP, COL_OF_SWEEP,
    COL_GOPS, COL_OF_PEAK, COL_PEAK, N_BENCH_COLS
} bench_col;

#define BENCH_IF(f) offsetof(bench_opts, f)
#define BENCH_EVER  SIZE_MAX
static const struct {
    const char *title;
    int         width;                                /* least width; negative: aligned left */
    size_t      when;                                 /* shown where this list of bench_opts is not the default */
} bench_cols[N_BENCH_COLS] = {
    [COL_MODEL] = {"model", -30, BENCH_EVER},           [COL_SIZE] = {"size", 10, BENCH_EVER},
    [COL_PARAMS] = {"params", 10, BENCH_EVER},          [COL_BACKEND] = {"backend", -10, BENCH_EVER},
    [COL_THREADS] = {"threads", 7, BENCH_EVER},         [COL_BATCH] = {"n_batch", 7, BENCH_IF(batch)},
    [COL_UBATCH] = {"n_ubatch", 8, BENCH_IF(ubatch)},   [COL_TYPE_K] = {"type_k", 6, BENCH_IF(type_k)},
    [COL_TYPE_V] = {"type_v", 6, BENCH_IF(type_v)},     [COL_LEVEL] = {"cpu", 6, BENCH_IF(level)},
    [COL_REPACK] = {"repack", 6, BENCH_IF(repack)},
    [COL_TEST] = {"test", 20, BENCH_EVER},              [COL_TS] = {"t/s", 20, BENCH_EVER},
    [COL_SPEEDUP] = {"speedup", 7, BENCH_IF(guess)},    [COL_PER_STEP] = {"tok/step", 8, BENCH_IF(guess)},
    [COL_TTFT] = {"ttft ms", 9, BENCH_EVER},            [COL_READ] = {"read GB/s", 9, BENCH_EVER},
    [COL_SWEEP] = {"sweep GB/s", 10, BENCH_EVER},       [COL_OF_SWEEP] = {"of sweep", 8, BENCH_EVER},
    [COL_GOPS] = {"Gop/s", 8, BENCH_EVER},              [COL_OF_PEAK] = {"of peak", 7, BENCH_EVER},
    [COL_PEAK] = {"peak MiB", 8, BENCH_EVER},
};

static bool bench__shown(const bench_opts *o, int col) {
    if (bench_cols[col].when == BENCH_EVER || (col == COL_SPEEDUP && o->adapters.v[0])) return true;
    const bench_list *a = (const bench_list *)(const void *)((const char *)o + bench_cols[col].when);
    const bench_list *b = (const bench_list *)(const void *)((const char *)&bench_defaults + bench_cols[col].when);
    return a->n != b->n || memcmp(a->v, b->v, (size_t)a->n * sizeof *a->v) != 0;
}

/* 0.62 GiB or 3.36 MiB; 1.10 B or 5.51 M */
static void bench__bytes(double n, str *s) {
    if (n >= 0x1p30) str_fmt(s, "%.2f GiB", n / 0x1p30);
    else str_fmt(s, "%.2f MiB", n / 0x1p20);
}
static void bench__count(double n, str *s) {
    if (n >= 1e9) str_fmt(s, "%.2f B", n / 1e9);
    else str_fmt(s, "%.2f M", n / 1e6);
}

/* The test of a row. */
static bench_test bench__test_of(const bench_row *r) {
    return (bench_test){.n_prompt = (int)r->n_prompt, .n_gen = (int)r->n_gen, .n_depth = (int)r->n_depth,
                        .n_seq = (int)r->n_seq, .n_guess = (int)r->n_guess, .chance = (int)lround(100 * r->chance)};
}

static void bench__cell(const bench_row *r, int col, str *s) {
    const bench_test t = bench__test_of(r);
    switch ((bench_col)col) {
    case COL_MODEL: str_put(s, r->model_type); break;
    case COL_SIZE: bench__bytes((double)r->model_bytes, s); break;
    case COL_PARAMS: bench__count((double)r->model_weights, s); break;
    case COL_BACKEND: str_put(s, "CPU"); break;
    case COL_THREADS: str_fmt(s, "%lld", (long long)r->n_threads); break;
    case COL_BATCH: str_fmt(s, "%lld", (long long)r->n_batch); break;
    case COL_UBATCH: str_fmt(s, "%lld", (long long)r->n_ubatch); break;
    case COL_TYPE_K: str_put(s, r->type_k); break;
    case COL_TYPE_V: str_put(s, r->type_v); break;
    case COL_LEVEL: str_put(s, r->level); break;
    case COL_REPACK: str_put(s, r->repack); break;
    case COL_TEST: bench__label(&t, s); break;
    case COL_TS: str_fmt(s, "%.2f \xc2\xb1 %.2f", r->avg_ts, r->sd_ts); break;
    case COL_SPEEDUP:
        if (isfinite(r->speedup)) str_fmt(s, "%.2f", r->speedup);
        break;
    case COL_PER_STEP:
        if (r->per_step > 0) str_fmt(s, "%.2f", r->per_step);
        break;
    case COL_TTFT: str_fmt(s, r->ttft_ms < 10 ? "%.3f" : "%.1f", r->ttft_ms); break;
    case COL_READ: str_fmt(s, "%.2f", r->read_gbs); break;
    case COL_SWEEP: str_fmt(s, "%.2f", r->sweep_gbs); break;
    case COL_OF_SWEEP: str_fmt(s, "%.1f %%", 100 * r->read_share); break;
    case COL_GOPS: str_fmt(s, "%.1f", r->gops[K_ACT_I8] + r->gops[K_ACT_BF16] + r->gops[K_ACT_F32]); break;
    case COL_OF_PEAK: str_fmt(s, "%.1f %%", 100 * r->peak_share); break;
    case COL_PEAK: str_fmt(s, "%.1f", (double)r->peak_bytes / 0x1p20); break;
    case N_BENCH_COLS: break;
    }
}

/* Appends | text |, with bars and backslashes of the text escaped. The width is in columns, not bytes. */
static void bench__md_cell(const char *text, int width, str *s) {
    str esc = {0};
    int used = 0;
    str_put(&esc, "");
    for (const char *p = text; *p; p++) {
        if (*p == '|' || *p == '\\') str_put(&esc, "\\"), used++;
        str_add(&esc, p, 1);
        used += ((uint8_t)*p & 0xc0) != 0x80;
    }
    int pad = abs(width) - used;
    str_fmt(s, "| %*s%s%*s ", width > 0 && pad > 0 ? pad : 0, "", esc.p, width < 0 && pad > 0 ? pad : 0, "");
    str_drop(&esc);
}

static void bench__md_head(const bench_opts *o, str *s) {
    for (int i = 0; i < N_BENCH_COLS; i++)
        if (bench__shown(o, i)) bench__md_cell(bench_cols[i].title, bench_cols[i].width, s);
    str_put(s, "|\n");
    for (int i = 0; i < N_BENCH_COLS; i++) {
        if (!bench__shown(o, i)) continue;
        str_put(s, "| ");
        for (int k = 1; k < abs(bench_cols[i].width); k++) str_put(s, "-");
        str_put(s, bench_cols[i].width < 0 ? "- " : ": ");
    }
    str_put(s, "|\n");
}

static void bench__md_row(const bench_opts *o, const bench_row *r, str *s) {
    for (int i = 0; i < N_BENCH_COLS; i++) {
        str cell = {0};
        if (!bench__shown(o, i)) continue;
        str_put(&cell, "");
        bench__cell(r, i, &cell);
        bench__md_cell(cell.p, bench_cols[i].width, s);
        str_drop(&cell);
    }
    str_put(s, "|\n");
}

/* Appends row number n with what precedes it in this form; r NULL: the end of the output. */
static void bench__put(bench_form form, const bench_opts *o, const char *version, const bench_row *r, int n, str *s) {
    switch (form) {
    case BENCH_MD:
        if (n == 0) bench__md_head(o, s);
        if (r) bench__md_row(o, r, s);
        else str_fmt(s, "\nbuild: llmrun %s\n", version);
        break;
    case BENCH_CSV:
        if (n == 0) bench__csv_head(s);
        if (r) bench__csv_row(r, s);
        break;
    case BENCH_JSON:
        str_put(s, n == 0 ? "[\n" : r ? ",\n" : "\n");
        if (r) {
            str_put(s, "  {\n    ");
            bench__json_row(r, ",\n    ", s);
            str_put(s, "\n  }");
        } else {
            str_put(s, "]\n");
        }
        break;
    case BENCH_JSONL:
        if (!r) break;
        str_put(s, "{");
        bench__json_row(r, ", ", s);
        str_put(s, "}\n");
        break;
    }
}

/* --- the machine: probe, CPUs, memory --- */

typedef struct {
    _Alignas(64) uint8_t x[K_PROBE_BYTES];            /* for products */
    pool       *p;
    uint8_t    *mem;                                  /* of the sweep: several parts, read in turn */
    size_t      bytes, at;                            /* of all parts; where the next sweep begins */
    bench_rate *of;                                   /* [threads] rates of products */
    double      t0, t1;                               /* of the sweep */
    _Atomic uint64_t sum;                             /* of all results, so that no read is optimised away */
} bench_machine;

static bool bench__machine_open(bench_machine *m, err_t *e) {
    const long   l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
    const size_t cache = l3 > 0 ? (size_t)l3 : 0;
    const size_t have = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    const size_t most = have / 8 < (size_t)BENCH_SWEEPS * BENCH_SWEEP ? have / 8 : (size_t)BENCH_SWEEPS * BENCH_SWEEP;
    m->bytes = BENCH_SWEEP;                           /* enough parts that none stays in the last cache */
    while (m->bytes < 2 * cache && m->bytes + BENCH_SWEEP <= most) m->bytes += BENCH_SWEEP;
    m->mem = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m->mem == MAP_FAILED) {
        m->mem = NULL;
        return err_set(e, EXIT_RESOURCE, "no memory for a sweep of %zu bytes: %s", m->bytes, strerror(errno));
    }
    madvise(m->mem, m->bytes, MADV_HUGEPAGE);
    for (size_t i = 0; i < m->bytes; i += 4096) m->mem[i] = 1;    /* real pages, not the shared page of zeros */
    for (size_t i = 0; i < sizeof m->x / sizeof(float); i++) {
        const float v = 1.0f / (float)(i + 3);        /* ordinary values as floats, any values as integers */
        memcpy(m->x + i * sizeof v, &v, sizeof v);
    }
    return true;
}

static void bench__machine_close(bench_machine *m) {
    if (m->mem) munmap(m->mem, m->bytes);
    mem_free(m->of);
    m->mem = NULL;
    m->of = NULL;
}

static void bench__use_pool(bench_machine *m, pool *p) {
    m->p = p;
    m->of = mem_grow(m->of, (size_t)p->n, sizeof *m->of);
}

/* One sweep. Chunks are shared as the tasks of a step are, so a delayed thread does not hold up the others. */
static void bench__read_all(void *ctx, int ith) {
    bench_machine *m = ctx;
    const int      n = BENCH_SWEEP / BENCH_CHUNK;
    uint64_t       sum = 0;
    pool_barrier(m->p);
    if (ith == 0) m->t0 = clock_now();
    for (int i; (i = pool_next(m->p)) < n;)
        sum += k_probe_get()->read(m->mem + m->at + (size_t)i * BENCH_CHUNK, BENCH_CHUNK);
    pool_barrier(m->p);
    if (ith == 0) m->t1 = clock_now();
    atomic_fetch_add(&m->sum, sum);
}

static void bench__multiply_all(void *ctx, int ith) {
    bench_machine *m = ctx;
    const k_probe *k = k_probe_get();
    uint64_t       sum = 0;
    pool_barrier(m->p);
    for (int what = 0; what < K_ACTS; what++) {
        const int    n = BENCH_BURST / k->round[what];
        const double t0 = clock_now();
        double       t = 0, done = 0;
        while (t < BENCH_PROBE_S) {
            sum += k->mul[what](m->x, n);
            done += (double)n * k->round[what];
            t = clock_now() - t0;
        }
        m->of[ith].mul[what] = done / t;
    }
    atomic_fetch_add(&m->sum, sum);
}

static bench_rate bench__probe(bench_machine *m) {
    pool_run(m->p, bench__read_all, m);
    bench_rate r = {BENCH_SWEEP / (m->t1 - m->t0), {0}};
    m->at = (m->at + BENCH_SWEEP) % m->bytes;
    pool_run(m->p, bench__multiply_all, m);
    for (int i = 0; i < m->p->n; i++)
        for (int k = 0; k < K_ACTS; k++) r.mul[k] += m->of[i].mul[k];
    return r;
}

/* The processor's name; "": unknown. */
static void bench__cpu_name(char *out, size_t n) {
    char  line[512];
    FILE *f = fopen("/proc/cpuinfo", "re");
    *out = 0;
    while (f && !*out && fgets(line, sizeof line, f)) {
        char *v = strchr(line, ':');
        if (!v || strncmp(line, "model name", 10) != 0) continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(out, n, "%s", v + 1 + strspn(v + 1, " "));
    }
    if (f) fclose(f);
}

/* Seconds of CPU: used by all processes or the machine's host; used by this process; available. */
typedef struct {
    double busy, own, all;
} bench_cpu;

static bench_cpu bench__cpu_time(void) {
    unsigned long long v[8] = {0};                    /* user nice system idle iowait irq softirq steal */
    bench_cpu          c = {0};
    struct rusage      ru;
    const double       hz = (double)sysconf(_SC_CLK_TCK);
    FILE              *f = fopen("/proc/stat", "re");
    if (f && fscanf(f, "cpu") == 0)
        for (int i = 0; i < 8 && fscanf(f, "%llu", &v[i]) == 1; i++) {
            c.all += (double)v[i] / hz;
            if (i != 3 && i != 4) c.busy += (double)v[i] / hz;
        }
    if (f) fclose(f);
    getrusage(RUSAGE_SELF, &ru);
    c.own = (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) + (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) * 1e-6;
    return c;
}

/* Share of all CPUs that other processes used between a and b; NAN: the interval is too short for the system's clock. */
static double bench__others(bench_cpu a, bench_cpu b) {
    const double all = b.all - a.all, other = (b.busy - a.busy) - (b.own - a.own);
    return all < 0.4 ? NAN : other < 0 ? 0 : other / all;
}

/* Resets the peak of memory, where the kernel allows it. */
static void bench__peak_reset(void) {
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (write(fd, "5", 1) < 0) log_info("the peak of memory is that of the whole run");
    close(fd);
}

static int64_t bench__peak_bytes(const bench_machine *m) {
    struct rusage ru;
    getrusage(RUSAGE_SELF, &ru);
    int64_t n = (int64_t)ru.ru_maxrss * 1024 - (int64_t)m->bytes;
    return max_i64(n, 0);
}

/* --- the picture of a run --- */

/* What a picture shows of a row. */
typedef struct {
    bench_test t;
    double     ts, sd;                                /* tokens per second */
    char      *with;                                  /* settings that distinguish its row: ", 2 threads"; owned */
} bench_point;

enum { BENCH_PREFILL, BENCH_DECODE };                 /* panels: tests with a prompt, tests without */

static int bench__panel(const bench_test *t) { return t->n_prompt ? BENCH_PREFILL : BENCH_DECODE; }

/* Whether the tests of a panel differ in depth, in sequences. */
static void bench__varies(const bench_point *p, int n, int panel, bool *depth, bool *seqs) {
    const bench_test *first = NULL;
    *depth = *seqs = false;
    for (int i = 0; i < n; i++) {
        if (bench__panel(&p[i].t) != panel) continue;
        if (!first) first = &p[i].t;
        *depth |= p[i].t.n_depth != first->n_depth;
        *seqs |= p[i].t.n_seq != first->n_seq;
    }
}

/* Fills a panel: lines over depth if it varies, else over sequences if they vary, else bars. */
static void bench__fill_panel(const bench_point *p, int n, int panel, plot_panel *a) {
    bool depth, seqs;
    bench__varies(p, n, panel, &depth, &seqs);
    a->title = panel == BENCH_PREFILL ? "Prefill, tokens/s"
               : seqs ? "Decode, tokens/s of all sequences together" : "Decode, tokens/s";
    a->x_name = depth ? "tokens in the cache before the test" : seqs ? "sequences side by side" : NULL;
    a->x_log = !depth && seqs;
    for (int i = 0; i < n; i++) {
        bench_test t = p[i].t;
        str        name = {0};
        if (bench__panel(&t) != panel) continue;
        if (depth) t.n_depth = 0;
        else if (seqs) t.n_seq = 1;
        bench__label(&t, &name);
        str_put(&name, p[i].with);
        plot_add(a, name.p, depth ? p[i].t.n_depth : p[i].t.n_seq, p[i].ts, p[i].sd);
        str_drop(&name);
    }
}

/* Draws n rows, the last of which is `r`. Names hold the settings that differ between rows. */
static void bench__picture(const bench_opts *o, const bench_point *p, int n, const bench_row *r, int n_models, str *s) {
    plot g = {.title = "llmrun --bench: tokens per second"};
    str  below = {0}, caption = {0};
    bench__fill_panel(p, n, BENCH_PREFILL, &g.panel[0]);
    bench__fill_panel(p, n, BENCH_DECODE, &g.panel[1]);
    str_fmt(&below, "%s, %s", n_models > 1 ? "several models" : r->model_type, r->cpu_info);
    str_fmt(&caption, "llmrun, commit %s, ", r->commit);
    if (o->level.n == 1) str_fmt(&caption, "%s kernels, ", r->level);
    if (o->threads.n == 1) str_fmt(&caption, "%lld thread%s, ", (long long)r->n_threads, r->n_threads == 1 ? "" : "s");
    str_fmt(&caption, "%s, mean of %d", r->test_time, r->n);
    g.below = below.p;
    g.caption = caption.p;
    plot_svg(&g, s);
    plot_drop(&g);
    str_drop_all(&below, &caption);
}

/* Appends what distinguishes a row from others of its test: settings with several values, and the file if there are several. */
static void bench__put_settings(const bench_opts *o, const bench_row *r, int n_models, str *s) {
    str_put(s, "");
    if (n_models > 1) str_fmt(s, ", %s", str_base_name(r->model_file));
    if (o->threads.n > 1) str_fmt(s, ", %lld thread%s", (long long)r->n_threads, r->n_threads == 1 ? "" : "s");
    if (o->level.n > 1) str_fmt(s, ", %s", r->level);
    if (o->repack.n > 1) str_fmt(s, ", repack %s", r->repack);
    if (o->type_k.n > 1) str_fmt(s, ", K %s", r->type_k);
    if (o->type_v.n > 1) str_fmt(s, ", V %s", r->type_v);
    if (o->batch.n > 1) str_fmt(s, ", b %lld", (long long)r->n_batch);
    if (o->ubatch.n > 1) str_fmt(s, ", ub %lld", (long long)r->n_ubatch);
}

/* --- a model under test --- */

typedef struct {
    const bench_opts *o;
    const engine_opts   *fo;
    const kv_opts    *ko;
    const char       *version, *commit;
    char              cpu[128], type[120], time[32];
    bench_form        form;
    out_t            *out;
    int               n_put;                          /* rows written */
    bench_point      *point;                          /* [n_points] for the picture */
    int               n_points, n_models;
    bench_row         last;                           /* the last row */
    bench_machine     machine;
    gguf_file         g;
    uint64_t          bytes, weights;                 /* of the model's tensors */
    bench_setup       set;
    engine           *eng;
    int               step;                           /* most rows of a prefill step */
    kv_seq          **seq;                            /* [n_seq] */
    dev_adapters    **use;                            /* [n_seq] their adapters */
    int              *valid;                          /* [n_seq] positions that are filled */
    int               n_seq;
    gguf_file         draft_g;                        /* open if o->draft is given */
    bool              beside;                         /* draft_g is a draft head of the model */
    engine           *draft;                          /* NULL: guesses cost nothing */
    kv_seq           *draft_seq;
    int               draft_valid;
    bench_sample     *sample;                         /* [reps] */
    double           *ns, *ts;                        /* [reps] */
    dev_times         times, draft_times;
    double            pick_s;                         /* seconds of picking one token */
} bench_job;

static int64_t bench__length(const bench_test *t) { return (int64_t)t->n_depth + t->n_prompt + t->n_gen; }

/* Guesses of the round after the first `there` tokens: a step gives one token more than accepted guesses. */
static int bench__n_guesses(const bench_test *t, int there) {
    const int room = t->n_gen - there - 1;
    return room < 0 ? 0 : room < t->n_guess ? room : t->n_guess;
}

/* Test number *i among those that decode n tokens of one sequence with guesses. False: there are fewer, and *i is lowered by
 * their number. */
static bool bench__guess_test(const bench_opts *o, int n, int depth, int *i, bench_test *t) {
    for (int k = 0; n && k < o->guess.n; k++)
        for (int a = 0; o->guess.v[k] && a < o->chance.n; a++)
            if ((*i)-- == 0) {
                *t = (bench_test){.n_gen = n, .n_depth = depth, .n_seq = 1, .n_guess = o->guess.v[k], .chance = o->chance.v[a]};
                return true;
            }
    return false;
}

/* Test number i of a depth: prompts, then generation, then both, the last two for every number of sequences; after a generation
 * the same with guesses. Empty tests are skipped. False: past the last. */
static bool bench__test_at(const bench_opts *o, int depth, int i, bench_test *t) {
    for (int k = 0; k < o->prompt.n; k++)
        if (o->prompt.v[k] && i-- == 0)
            return *t = (bench_test){.n_prompt = o->prompt.v[k], .n_depth = depth, .n_seq = 1}, true;
    for (int k = 0; k < o->gen.n + o->pair.n / 2; k++) {
        const int *p = k < o->gen.n ? NULL : o->pair.v + 2 * (k - o->gen.n), n = p ? p[1] : o->gen.v[k];
        for (int s = 0; s < o->seqs.n; s++)
            if ((n || (p && p[0])) && i-- == 0) {
                *t = (bench_test){.n_prompt = p ? p[0] : 0, .n_gen = n, .n_depth = depth, .n_seq = o->seqs.v[s]};
                return true;
            }
        if (!p && bench__guess_test(o, n, depth, &i, t)) return true;
    }
    return false;
}

/* Whether there is any test. */
static bool bench_any(const bench_opts *o) {
    bench_test t;
    return bench__test_at(o, 0, 0, &t);
}

/* Whether there is a test with guesses. */
static bool bench_guesses(const bench_opts *o) {
    bench_test t;
    bool       any = false;
    for (int i = 0; !any && bench__test_at(o, 0, i, &t); i++) any = t.n_guess > 0;
    return any;
}

typedef struct {                                      /* over all tests */
    int     len, n_seq;                               /* most positions of a sequence; most sequences */
    int     rows;                                     /* most rows of a decode step */
    int64_t all;                                      /* positions of all sequences at their longest */
} bench_extent;

static bench_extent bench__extent(const bench_opts *o) {
    bench_extent x = {1, 1, 1, 0};
    int64_t      of[BENCH_SEQS] = {0};
    bench_test   t;
    for (int d = 0; d < o->depth.n; d++)
        for (int i = 0; bench__test_at(o, o->depth.v[d], i, &t); i++) {
            const int rows = t.n_guess ? 1 + bench__n_guesses(&t, 0) : t.n_seq;
            if (rows > x.rows) x.rows = rows;
            for (int s = 0; s < t.n_seq; s++) {
                if (bench__length(&t) > of[s]) of[s] = bench__length(&t);
                if (of[s] > x.len) x.len = (int)of[s];
                if (s + 1 > x.n_seq) x.n_seq = s + 1;
            }
        }
    for (int s = 0; s < x.n_seq; s++) x.all += of[s];
    return x;
}

/* The token of sequence s at a position: arbitrary but always the same. */
static int32_t bench__token(const engine *eng, int s, int pos) {
    return (int32_t)(rng_at(BENCH_SEED, (uint64_t)s, (uint64_t)pos, 0) % (uint64_t)eng->m.hp.n_vocab);
}

/* Adds the row of sequence s, which is seq, at a position. */
static void bench__row(engine *eng, kv_seq *seq, int s, int pos, bool logits) {
    const dev_batch *b = &eng->f->batch;
    if (!b->n || b->pos[b->n - 1] != pos - 1) kv_pretend(seq, pos);   /* some tests leave positions out */
    fwd_add(eng->f, seq, bench__token(eng, s, pos), pos, logits ? FWD_LOGITS : 0);
}

/* Number of prompt steps of a repetition. */
static int64_t bench__prompt_steps(const bench_job *j, const bench_test *t) {
    return ((int64_t)t->n_prompt * t->n_seq + j->step - 1) / j->step;
}

/* Fills the batch of step number `step` of a repetition. Returns its rows; 0: past the last. A prompt asks for the logits of its
 * last token and of every n_batch-th. */
static int bench__rows(const bench_job *j, const bench_test *t, int64_t step) {
    const int64_t all = (int64_t)t->n_prompt * t->n_seq, n_pre = bench__prompt_steps(j, t);
    int           n = 0;
    fwd_begin(j->eng->f);
    for (int64_t at = step * j->step; step < n_pre && at < all && n < j->step; at++, n++) {
        const int  i = (int)(at % t->n_prompt);
        const bool ask = i + 1 == t->n_prompt || (i + 1) % j->set.batch == 0;
        const int  s = (int)(at / t->n_prompt);
        bench__row(j->eng, j->seq[s], s, t->n_depth + i, ask);
    }
    if (step < n_pre) return n;
    for (; step - n_pre < t->n_gen && n < t->n_seq; n++)
        bench__row(j->eng, j->seq[n], n, t->n_depth + t->n_prompt + (int)(step - n_pre), true);
    return n;
}

/* --- rounds of guesses --- */

/* The state of a repetition with guesses. Tokens are counted from the test's first one. */
typedef struct {
    fwd    *f;                                        /* of the next step: the model's, the draft's, the draft head's */
    int     guesses, made;                            /* of this round; made by the draft so far */
    int     there, read;                              /* accepted tokens; tokens that the draft has read */
    int64_t steps;                                    /* of the model */
} bench_round;

static bench_round bench__first_round(const bench_test *t) { return (bench_round){.guesses = bench__n_guesses(t, 0)}; }

/* Whether the guess at a place is accepted: independent of the number of guesses; accepted at a higher rate wherever at a lower
 * one. */
static bool bench__accepted(const bench_test *t, int place) {
    return rng_unit(rng_at(BENCH_GUESS_SEED, 0, (uint64_t)place, 0)) * 100 < t->chance;
}

/* Fills the batch of the next step, of g->f: the draft reads new tokens and makes one guess, the draft head makes one, or the
 * model runs the next row and those of the guesses. Returns its rows; 0: past the last. */
static int bench__round_rows(const bench_job *j, const bench_test *t, bench_round *g) {
    const bool head = j->eng->n_head && g->made < g->guesses, drafts = j->draft && g->made < g->guesses;
    const int  from = drafts ? g->read : g->there, to = g->there + (drafts ? g->made : g->guesses);
    const int  k = j->eng->n_head > 1 ? g->made : 0;  /* which of several heads: one has a row for each guess so far, too */
    g->f = head ? j->eng->head[k] : drafts ? j->draft->f : j->eng->f;
    if (g->there >= t->n_gen) return 0;
    fwd_begin(g->f);
    if (head) {
        const int pos = t->n_depth + g->there + g->made;
        for (int p = pos - k; p <= pos; p++)          /* an assistant has the position of the last key */
            fwd_add(g->f, j->seq[0], bench__token(j->eng, 0, p), j->eng->m.assist ? max_int(t->n_depth + g->there - 1, 0) : p,
                    p == pos ? FWD_LOGITS : 0);
        return k + 1;
    }
    for (int p = from; p <= to; p++)
        bench__row(drafts ? j->draft : j->eng, drafts ? j->draft_seq : j->seq[0], 0, t->n_depth + p, !drafts || p == to);
    return to + 1 - from;
}

/* Advances after a step. After one of the model the accepted guesses stay. */
static void bench__round_advance(const bench_job *j, const bench_test *t, bench_round *g) {
    if (g->f != j->eng->f) {
        g->read = g->there + ++g->made;
        return;
    }
    int right = 0;
    while (right < g->guesses && bench__accepted(t, g->there + 1 + right)) right++;
    g->there += 1 + right;
    if (g->read > g->there) g->read = g->there;
    g->guesses = bench__n_guesses(t, g->there);
    g->made = 0;
    g->steps++;
}

/* --- bytes and products of a step --- */

static bench_work bench__work_rounds(const bench_job *j, const bench_test *t) {
    bench_work  w = {0};
    bench_round g = bench__first_round(t);
    for (; bench__round_rows(j, t, &g) > 0; bench__round_advance(j, t, &g)) fwd_cost(g.f, &w.cost);
    w.steps = (double)g.steps;
    return w;
}

static bench_work bench__work(const bench_job *j, const bench_test *t) {
    bench_work w = {.steps = t->n_gen};
    if (t->n_guess) return bench__work_rounds(j, t);
    for (int64_t i = 0; bench__rows(j, t, i) > 0; i++) fwd_cost(j->eng->f, &w.cost);
    return w;
}

/* --- a test --- */

static void bench__progress(const bench_test *t, int i, int n) {
    str s = {0};
    if (!progress_due()) return;
    bench__label(t, &s);
    progress_show("%s: repetition %d of %d", s.p, i, n);
    str_drop(&s);
}

/* Cuts a sequence to n positions. A recurrent state that cannot go back stays as it is. */
static int bench__cut(kv_seq *seq, int n) {
    kv_pretend(seq, n);
    return kv_truncate(seq, n);
}

/* Fills positions [*valid, depth) of seq, number s, untimed, and reserves and touches the blocks for the test. */
static bool bench__fill(engine *eng, kv_seq *seq, int s, int *valid, const bench_test *t, engine_meter *meter, err_t *e) {
    const int len = (int)bench__length(t), keep = *valid < t->n_depth ? *valid : t->n_depth;
    int32_t  *ids = mem_new((size_t)t->n_depth, sizeof *ids);
    for (int i = 0; i < t->n_depth; i++) ids[i] = bench__token(eng, s, i);
    *valid = bench__cut(seq, min_int(keep, seq->n));
    const bool ok = engine_read(eng, seq, ids, *valid, t->n_depth, (engine_reader){.meter = meter}, e);
    mem_free(ids);
    if (!ok || !kv_require(seq, len, e)) return false;
    *valid = t->n_depth;
    kv_prefault(seq, t->n_depth);
    return true;
}

/* The same for every sequence of the test. */
static bool bench__fill_all(bench_job *j, const bench_test *t, err_t *e) {
    str          label = {0};
    engine_meter meter;
    bool         ok = true;
    bench__label(t, &label);
    meter_start(&meter, j->eng, label.p, (int64_t)t->n_seq * t->n_depth, 0);
    for (int s = 0; ok && s < t->n_seq; s++) ok = bench__fill(j->eng, j->seq[s], s, &j->valid[s], t, &meter, e);
    meter_stop(&meter);
    str_drop(&label);
    return ok;
}

/* Brings all sequences to the test's depth. With guesses they take blocks round by round, as a real run does. */
static bool bench__prepare(bench_job *j, const bench_test *t, err_t *e) {
    if (!bench__fill_all(j, t, e)) return false;
    if (!t->n_guess) return true;
    bench__cut(j->seq[0], t->n_depth);
    if (!j->draft) return true;
    if (!bench__fill(j->draft, j->draft_seq, 0, &j->draft_valid, t, NULL, e)) return false;
    bench__cut(j->draft_seq, t->n_depth);
    return true;
}

/* Reserves blocks for the next step; for the draft those of its whole round, since a windowed sequence could not be cut back
 * otherwise. */
static bool bench__round_reserve(const bench_job *j, const bench_test *t, const bench_round *g, err_t *e) {
    const int to = t->n_depth + g->there + g->guesses;
    return j->draft && g->f == j->draft->f ? kv_require(j->draft_seq, to, e) : kv_require(j->seq[0], to + 1, e);
}

static void bench__round_cut(const bench_job *j, const bench_test *t, const bench_round *g) {
    bench__cut(j->seq[0], t->n_depth + g->there);
    if (j->draft) bench__cut(j->draft_seq, t->n_depth + g->read);
}

/* Runs one round and checks it. */
static bool bench__warm_round(bench_job *j, const bench_test *t, err_t *e) {
    bench_round g = bench__first_round(t);
    while (!g.steps) {
        float    *logits;
        const int n = bench__round_rows(j, t, &g);
        if (!bench__round_reserve(j, t, &g, e)) return false;
        if (fwd_gives(g.f) == FWD_GUESS ? !fwd_step(g.f)
                                : !engine_step(g.f == j->eng->f ? j->eng : j->draft, g.f->batch.pos[n - 1], &logits, e))
            return false;
        bench__round_advance(j, t, &g);
    }
    bench__round_cut(j, t, &g);
    return true;
}

/* Runs one step of each kind and checks it: reads the weights, touches the scratch, and refuses NAN. */
static bool bench__warm_up(bench_job *j, const bench_test *t, err_t *e) {
    const int64_t n_pre = bench__prompt_steps(j, t), at[] = {0, n_pre - 1, n_pre};
    float        *logits;
    if (t->n_guess) return bench__warm_round(j, t, e);
    for (int i = 0; i < 3; i++) {
        const int n = at[i] < 0 || (i && at[i] == at[i - 1]) ? 0 : bench__rows(j, t, at[i]);
        if (n && !engine_step(j->eng, j->eng->f->batch.pos[n - 1], &logits, e)) return false;
    }
    return true;
}

/* Time of the decode without guesses, from a few of its steps, spread over it. Measured right before the repetition, since the
 * speed of a machine changes within minutes. */
static bool bench__plain(bench_job *j, const bench_test *t, bench_sample *s, err_t *e) {
    const bench_test without = {.n_gen = t->n_gen, .n_depth = t->n_depth, .n_seq = 1};
    const int        n = min_int(t->n_gen, BENCH_PLAIN);
    if (!kv_require(j->seq[0], (int)bench__length(t), e)) return false;
    const double t0 = clock_now();
    for (int i = 0; i < n; i++) {
        bench__rows(j, &without, (int64_t)(2 * i + 1) * t->n_gen / (2 * n));
        if (!fwd_step(j->eng->f)) return false;
    }
    s->plain = (clock_now() - t0) * t->n_gen / n;
    bench__cut(j->seq[0], t->n_depth);
    return true;
}

/* One repetition with guesses. False: e is set, or an interrupt. */
static bool bench__rounds(bench_job *j, const bench_test *t, bench_sample *s, err_t *e) {
    bench_round  g = bench__first_round(t);
    const double t0 = clock_now();
    while (bench__round_rows(j, t, &g) > 0) {
        if (!bench__round_reserve(j, t, &g, e) || !fwd_step(g.f)) return false;
        bench__round_advance(j, t, &g);
        if (g.f != j->eng->f) continue;
        bench__round_cut(j, t, &g);
        if (g.steps == 1) s->first = clock_now() - t0;
    }
    s->all = clock_now() - t0;
    return engine_alive(j->eng, e) && (!j->draft || engine_alive(j->draft, e));
}

/* Runs step i and adds its seconds; bare: without adapters, and the times of stages leave it out. False: an interrupt. */
static bool bench__step(bench_job *j, const bench_test *t, int64_t i, bool bare, double *seconds) {
    dev_times *const times = j->eng->f->run.times;
    for (int s = 0; bare && s < t->n_seq; s++) j->seq[s]->adapters = NULL;
    if (bare) j->eng->f->run.times = NULL;
    const double t0 = clock_now();
    const bool   ok = bench__rows(j, t, i) == 0 || fwd_step(j->eng->f);
    *seconds += clock_now() - t0;
    for (int s = 0; bare && s < t->n_seq; s++) j->seq[s]->adapters = j->use[s];
    j->eng->f->run.times = times;
    return ok;
}

/* One repetition. Beside each step with adapters the same without them is run, in turn before it and after it. False: e is set,
 * or an interrupt. */
static bool bench__once(bench_job *j, const bench_test *t, bench_sample *s, err_t *e) {
    if (t->n_guess) return bench__rounds(j, t, s, e);
    const int64_t n_pre = bench__prompt_steps(j, t), first = n_pre ? n_pre - 1 : 0, n = n_pre + t->n_gen;
    const bool    low = j->eng->adapters != NULL;
    s->all = s->plain = 0;
    for (int64_t i = 0; i < n; i++) {
        if (low && i % 2 && !bench__step(j, t, i, true, &s->plain)) return false;
        if (!bench__step(j, t, i, false, &s->all)) return false;
        if (i == first) s->first = s->all;
        if (low && i % 2 == 0 && !bench__step(j, t, i, true, &s->plain)) return false;
    }
    return engine_alive(j->eng, e);
}

static bench_rate bench__between(bench_rate a, bench_rate b) {
    a.read = (a.read + b.read) / 2;
    for (int k = 0; k < K_ACTS; k++) a.mul[k] = (a.mul[k] + b.mul[k]) / 2;
    return a;
}

/* Turns the times of stages on or off. */
static void bench__time_stages(bench_job *j, bool on) {
    j->eng->f->run.times = on ? &j->times : NULL;
    if (j->draft) j->draft->f->run.times = on ? &j->draft_times : NULL;
    for (int k = 0; k < j->eng->n_head; k++) j->eng->head[k]->run.times = on ? &j->draft_times : NULL;
}

/* Runs all repetitions and probes the machine between them: a sample gets the mean of before and after. */
static bool bench__repeat(bench_job *j, const bench_test *t, err_t *e) {
    bench_rate before = bench__probe(&j->machine);
    j->times = j->draft_times = (dev_times){0};
    bool ok = true;
    for (int r = 0; ok && r < j->o->reps; r++) {
        bench_sample *s = &j->sample[r];
        if (t->n_guess && !(bench__prepare(j, t, e) && bench__plain(j, t, s, e))) return false;
        bench__progress(t, r + 1, j->o->reps);
        bench__time_stages(j, g_log_level >= LOG_VERBOSE);
        ok = bench__once(j, t, s, e);
        bench__time_stages(j, false);
        if (!ok) break;
        bench_rate after = bench__probe(&j->machine);
        s->rate = bench__between(before, after);
        before = after;
    }
    return ok && !g_interrupt;
}

static bool bench__write(bench_job *j, const bench_row *r) {
    str s = {0};
    str_put(&s, "");
    bench__put(j->form, j->o, j->version, r, j->n_put, &s);
    j->n_put += r != NULL;
    bool ok = out_put(j->out, s.p, s.n) && out_flush(j->out);
    str_drop(&s);
    return ok;
}

/* Stores a row for the picture. */
static void bench__add_point(bench_job *j, const bench_row *r) {
    str with = {0};
    bench__put_settings(j->o, r, j->n_models, &with);
    j->point = mem_grow(j->point, (size_t)j->n_points + 1, sizeof *j->point);
    j->point[j->n_points++] = (bench_point){bench__test_of(r), r->avg_ts, r->sd_ts, with.p};
    j->last = *r;
}

/* Draws the stored rows, fewer than all after an interrupt, and frees them. */
static bool bench__draw(bench_job *j, out_t *svg, err_t *e) {
    str  s = {0};
    bool ok = true;
    if (svg && j->n_points) {
        bench__picture(j->o, j->point, j->n_points, &j->last, j->n_models, &s);
        ok = out_begin(svg, e) && out_put(svg, s.p, s.n);
    }
    for (int i = 0; i < j->n_points; i++) mem_free(j->point[i].with);
    mem_free(j->point);
    str_drop(&s);
    return ok;
}

/* Prints the time of a test's steps by stage to stderr. */
static void bench__print_times(const bench_test *t, const char *whose, const dev_times *f) {
    double all = 0, wait = 0;
    str    s = {0};
    if (!f->steps) return;
    for (int i = 0; i < FWD_PARTS; i++) all += f->all[i], wait += f->wait[i];
    all += f->gpu;
    str_put(&s, "llmrun: ");
    bench__label(t, &s);
    str_fmt(&s, ": %lld steps%s\n  %-12s %9s %7s %9s\n", f->steps, whose, "stage", "ms/step", "share", "waiting");
    for (int i = 0; i <= FWD_PARTS + 1; i++) {
        const bool   sum = i == FWD_PARTS + 1, on_gpu = i == FWD_PARTS;
        const double a = sum ? all : on_gpu ? f->gpu : f->all[i], b = sum ? wait : on_gpu ? 0 : f->wait[i];
        if (a == 0) continue;
        str_fmt(&s, "  %-12s %9.3f %6.1f%% %8.1f%%\n", sum ? "all" : on_gpu ? "gpu" : fwd_part_names[i],
                a * 1e3 / (double)f->steps, 100 * a / all, 100 * b / all);
    }
    log_text(str_bytes(&s));
    str_drop(&s);
}

/* The same for the model and the draft, and the time of picking a token, which a test leaves out. */
static void bench__print_stages(const bench_job *j, const bench_test *t) {
    if (g_log_level < LOG_VERBOSE || !j->times.steps) return;
    bench__print_times(t, "", &j->times);
    fprintf(stderr, "  %-12s %9.3f  for each token, not part of the step\n", "sampling", j->pick_s * 1e3);
    bench__print_times(t, " of the draft", &j->draft_times);
}

/* What was read from disk during a test. */
static void bench__print_read(const bench_job *j, const bench_test *t, double mib) {
    const int runs = j->o->reps * (j->eng->adapters && !t->n_guess ? 2 : 1);   /* with adapters and without */
    str       s = {0};
    if (g_log_level < LOG_NORMAL) return;
    str_put(&s, "llmrun: ");
    bench__label(t, &s);
    str_fmt(&s, ": %.1f MiB read from disk, %.1f in each of %d runs\n", mib, mib / runs, runs);
    log_text(str_bytes(&s));
    str_drop(&s);
}

/* Measures the seconds that the default sampler takes for the logits of the last step. */
static bool bench__pick(bench_job *j, err_t *e) {
    samp *sm = samp_new(&samp_defaults, j->eng->m.hp.n_vocab, BENCH_SEED, 0, e);
    if (!sm) return false;
    const double t0 = clock_now();
    samp_pick(sm, j->eng->f->logits, 0);
    j->pick_s = clock_now() - t0;
    samp_free(sm);
    return true;
}

static void bench__now(char *out, size_t n) {
    const time_t now = time(NULL);
    struct tm    tm;
    if (!gmtime_r(&now, &tm) || !strftime(out, n, "%Y-%m-%dT%H:%M:%SZ", &tm)) *out = 0;
}

/* What guesses: a file, the draft head, or nothing that takes time. */
static const char *bench__drafts(const bench_job *j) {
    if (j->draft || j->beside) return j->draft_g.path;
    return j->eng->n_head ? "draft head" : "";
}

static bench_row bench__result(bench_job *j, const bench_test *t, double others) {
    const bench_work w = bench__work(j, t);
    bench_row        r = {
               .commit = j->commit, .cpu_info = j->cpu, .model_file = j->g.path, .model_type = j->type,
               .level = k_level_name(), .repack = bench_repacks[j->set.repack], .test_time = j->time, .others = others,
               .type_k = k_types[j->set.type_k].name, .type_v = k_types[j->set.type_v].name,
               .model_bytes = (int64_t)j->bytes, .model_weights = (int64_t)j->weights,
               .n_batch = j->set.batch, .n_ubatch = j->set.ubatch, .n_threads = j->eng->p->n,
               .n_gpu_layers = engine_gpu_layers(j->eng),
               .n_prompt = t->n_prompt, .n_gen = t->n_gen, .n_depth = t->n_depth, .n_seq = t->n_seq,
               .n_guess = t->n_guess, .chance = t->chance / 100.0, .draft_file = t->n_guess ? bench__drafts(j) : "",
               .peak_bytes = bench__peak_bytes(&j->machine)};
    bench__figures(&r, t, &w, j->sample, j->o->reps, j->ns, j->ts);
    return r;
}

static bool bench__test(bench_job *j, const bench_test *t, err_t *e) {
    if (!bench__prepare(j, t, e)) return false;
    if (!j->o->no_warmup && !bench__warm_up(j, t, e)) return false;
    bench__now(j->time, sizeof j->time);
    const bench_cpu a = bench__cpu_time();
    const uint64_t  read = host_read_bytes();
    const bool      ok = bench__repeat(j, t, e);
    const double    mib = (double)(host_read_bytes() - read) / 0x1p20;
    const double    others = bench__others(a, bench__cpu_time());
    progress_clear();
    if (!ok) return false;
    for (int s = 0; s < t->n_seq; s++) j->valid[s] = (int)bench__length(t);
    const bench_row row = bench__result(j, t, others);
    if (mib >= 1) bench__print_read(j, t, mib);
    if (others > BENCH_BUSY) log_warn("other processes took %.0f %% of the CPUs during the test", 100 * others);
    if (g_log_level >= LOG_VERBOSE && !bench__pick(j, e)) return false;
    bench__print_stages(j, t);
    bench__add_point(j, &row);
    return bench__write(j, &row);
}

/* --- setups, models --- */

/* Bytes of a position in the cache, with the widest types of the run. */
static double bench__position(const bench_job *j, const arch_hparams *hp) {
    double each = 0;
    for (int k = 0; k < j->o->type_k.n; k++)
        for (int v = 0; v < j->o->type_v.n; v++)
            each = fmax(each, (double)model_kv_bytes(hp, (uint32_t)j->o->type_k.v[k], (uint32_t)j->o->type_v.v[v]));
    return each;
}

/* Whether the machine's memory can hold the sequences of all tests, and those of the draft (NULL: none); checked before any is
 * taken. On failure e is set. */
static bool bench__fits_memory(const bench_job *j, const arch_hparams *hp, const arch_hparams *draft, const bench_extent *x,
                               err_t *e) {
    const double have = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    const double beside = draft ? (double)x->len * bench__position(j, draft) + (double)kv_slot_bytes(draft) : 0;
    const double states = (double)x->n_seq * (double)kv_slot_bytes(hp);
    const double need = beside + states + (double)x->all * bench__position(j, hp) + (double)x->rows * hp->n_vocab * sizeof(float);
    if (need <= have) return true;
    return err_set(e, EXIT_RESOURCE, "%s: %d sequences of up to %d tokens take %.0f MiB, this machine has %.0f",
                   j->g.path, x->n_seq, x->len, need / 0x1p20, have / 0x1p20);
}

/* Opens the draft model as [spec] does, with a cache of the same types. On failure e is set. */
static bool bench__open_draft(bench_job *j, const engine_opts *fo, const kv_opts *ko, err_t *e) {
    engine_opts fd = *fo;
    kv_opts  kd = *ko;
    fd.n_batch = j->step;
    fd.rope = engine_defaults.rope;
    fd.lora.n = 0;                                    /* adapters are the model's */
    kd.mem_bytes = 0;
    kd.max_blocks = 0;
    const engine_plan plan = {.n_ctx = j->eng->n_ctx, .n_seqs = 1, .n_out = 1, .share = true, .pack = ENGINE_PACK_NOW,
                              .host = j->eng, .n_rows = max_int(fd.n_batch, BENCH_LAG)};
    if (!(j->draft = engine_open(&j->draft_g, NULL, &fd, &kd, plan, clock_now(), e))) return false;
    if (j->draft->n_batch < BENCH_LAG && j->draft->n_batch < j->draft->n_ctx)
        return err_set(e, EXIT_RESOURCE, "%s: not enough memory for steps of %d tokens", j->draft_g.path, BENCH_LAG);
    if (j->o->draft_vocab) fwd_trim(j->draft->f, j->o->draft_vocab);
    j->draft_seq = kv_seq_new(j->draft->kv);
    j->draft_valid = 0;
    return true;
}

/* The adapters of sequence s: of one sequence all, of several those that come in turn, so that as many as there are get one each.
 * NULL: there are none. */
static dev_adapters *bench__adapters(const bench_job *j, int s) {
    const lora *l = j->eng->adapters;
    if (!l) return NULL;
    const int     k = min_int(l->n, j->n_seq);
    float        *scale = mem_new((size_t)l->n, sizeof *scale);
    for (int i = s % k; i < l->n; i += k) scale[i] = l->of[i].scale;
    dev_adapters *use = lora_use(l, scale);
    mem_free(scale);
    return use;
}

static bool bench__open(bench_job *j, const bench_extent *x, err_t *e) {
    engine_opts fo = *j->fo;
    kv_opts  ko = *j->ko;
    j->step = min_int(j->set.batch, j->set.ubatch);
    fo.n_batch = max_int(j->step, x->rows);
    fo.n_threads = j->set.threads;
    fo.repack = bench_repacks[j->set.repack];
    ko.type_k = j->set.type_k;
    ko.type_v = j->set.type_v;
    bench__peak_reset();
    const engine_plan plan = {.n_ctx = x->len, .n_seqs = x->n_seq, .n_out = max_int(2 * x->n_seq + 2, x->rows),
                              .head = j->o->head || j->beside, .head_file = j->beside ? &j->draft_g : NULL,
                              .pack = ENGINE_PACK_NOW};
    if (!(j->eng = engine_open(&j->g, NULL, &fo, &ko, plan, clock_now(), e))) return false;
    if (plan.head && !j->eng->n_head)
        return err_set(e, EXIT_RESOURCE, "%s: %s: the GPU has no kernel for the draft head, expected --gpu-layers 0",
                       j->g.path, j->beside ? "--model-draft" : "--head");
    if (j->eng->n_ctx < x->len || j->eng->n_batch < x->rows)
        return err_set(e, EXIT_RESOURCE, "%s: the KV cache cannot hold %d sequences of %d tokens (--kv-mem, --kv-blocks)",
                       j->g.path, x->n_seq, x->len);
    if (j->eng->n_batch < j->step && j->eng->n_batch < x->len)
        log_warn("steps of %d tokens: larger ones need too much memory", j->eng->n_batch);
    if (j->eng->n_batch < j->step) j->step = j->eng->n_batch;
    bench__use_pool(&j->machine, j->eng->p);
    j->n_seq = x->n_seq;
    j->seq = mem_new((size_t)j->n_seq, sizeof *j->seq);
    j->use = mem_new((size_t)j->n_seq, sizeof *j->use);
    j->valid = mem_new((size_t)j->n_seq, sizeof *j->valid);
    for (int s = 0; s < j->n_seq; s++) j->seq[s] = kv_seq_of(j->eng->kv, j->use[s] = bench__adapters(j, s));
    for (int k = 0; k < j->eng->n_head && j->o->draft_vocab; k++) fwd_trim(j->eng->head[k], j->o->draft_vocab);
    return !j->o->draft || j->beside || bench__open_draft(j, &fo, &ko, e);
}

static void bench__close(bench_job *j) {
    kv_seq_free(j->draft_seq);
    engine_close(j->draft);
    j->draft_seq = NULL;
    j->draft = NULL;
    for (int s = 0; s < j->n_seq; s++) kv_seq_free(j->seq[s]);
    for (int s = 0; s < j->n_seq; s++) mem_free(j->use[s]);
    mem_free_all(j->seq, j->use, j->valid);
    engine_close(j->eng);
    j->seq = NULL;
    j->use = NULL;
    j->valid = NULL;
    j->eng = NULL;
    j->n_seq = 0;
}

/* One setup: every test at every depth. */
static bool bench__setup(bench_job *j, err_t *e) {
    const char        *names[16];
    const bench_extent most = bench__extent(j->o);
    bench_test         t;
    k_levels_list(names, NULL);
    k_init(j->set.level < 0 ? "auto" : names[j->set.level]);
    bool ok = bench__open(j, &most, e);
    for (int d = 0; ok && d < j->o->depth.n; d++)
        for (int i = 0; ok && bench__test_at(j->o, j->o->depth.v[d], i, &t); i++) ok = bench__test(j, &t, e);
    bench__close(j);
    return ok;
}

/* llama 1.1B Q4_K_M, 2 adapters */
static void bench__describe(bench_job *j, const arch_hparams *hp) {
    str type = {0};
    j->bytes = j->weights = 0;
    for (uint64_t i = 0; i < j->g.n_tensor; i++) {
        const gguf_tensor *t = &j->g.tensor[i];
        j->bytes += t->n_bytes;
        j->weights += t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
    }
    quant_type_of(&j->g, &type);
    const double n = (double)j->weights;
    const int    n_low = j->fo->lora.n;
    if (n_low) str_fmt(&type, ", %d adapter%s", n_low, n_low == 1 ? "" : "s");
    snprintf(j->type, sizeof j->type, n >= 1e9 ? "%s %.1fB %s" : "%s %.1fM %s", hp->desc->name, n >= 1e9 ? n / 1e9 : n / 1e6,
             type.p);
    str_drop(&type);
}

/* Runs every setup of the model in j->g: all combinations of the lists; the first list changes slowest. */
static bool bench__setups(bench_job *j, err_t *e) {
    const bench_opts *o = j->o;
    const bench_list *dial[] = {&o->level, &o->repack, &o->batch, &o->ubatch, &o->type_k, &o->type_v, &o->threads};
    enum { DIALS = sizeof dial / sizeof *dial };
    int     at[DIALS] = {0}, k = 0;
    while (k >= 0) {
        int v[DIALS];
        for (int i = 0; i < DIALS; i++) v[i] = dial[i]->v[at[i]];
        j->set = (bench_setup){.level = v[0], .repack = v[1], .batch = v[2], .ubatch = v[3],
                               .type_k = (uint32_t)v[4], .type_v = (uint32_t)v[5], .threads = v[6]};
        if (!bench__setup(j, e)) return false;
        for (k = DIALS - 1; k >= 0 && ++at[k] == dial[k]->n; k--) at[k] = 0;
    }
    return true;
}

/* Whether the draft, if there is one, has a vocabulary of the model's size, and memory holds both. On failure e is set. */
static bool bench__fits(const bench_job *j, const arch_hparams *hp, const bench_extent *x, err_t *e) {
    model d = {0};
    if (!j->o->draft || j->beside) return bench__fits_memory(j, hp, NULL, x, e);
    bool ok = model_open(&d, &j->draft_g, &engine_defaults.rope, e) && model_writes(&d, e);
    if (ok && abs(d.hp.n_vocab - hp->n_vocab) > SPEC_PAD)
        ok = err_set(e, EXIT_INPUT, "%s: not the vocabulary of %s: it has %d tokens, expected about %d", j->draft_g.path,
                     j->g.path, d.hp.n_vocab, hp->n_vocab);
    ok = ok && bench__fits_memory(j, hp, &d.hp, x, e);
    model_close(&d);
    return ok;
}

/* Opens a file and binds its model. run: measures it; else only checks that it can be measured. On failure e is set. */
static bool bench__model(bench_job *j, const char *path, bool run, err_t *e) {
    const bench_extent x = bench__extent(j->o);
    const int          len = x.len;
    model              m = {0};
    if (!import_open(&j->g, path, 0, e)) return false;
    bool      ok = model_open(&m, &j->g, &j->fo->rope, e) && (!j->beside || model_add_head(&m, &j->draft_g, e)) &&
                   model_writes(&m, e) && bench__fits(j, &m.hp, &x, e);
    if (ok && j->o->head && !m.hp.n_nextn)
        ok = err_set(e, EXIT_INPUT, "%s: --head: the file has no draft head (nextn), expected one", path);
    const int bound = j->fo->n_ctx < 0 ? INT_MAX : j->fo->n_ctx > 0 || !ok ? j->fo->n_ctx : m.hp.n_ctx_train;
    if (ok && len > bound)
        ok = err_set(e, EXIT_INPUT, "%s: a test takes %d tokens, the context holds %d (-c)", path, len, bound);
    if (ok && !run && len > m.hp.n_ctx_train)
        log_warn("%s: a test takes %d tokens; the model was trained with %d", path, len, m.hp.n_ctx_train);
    if (ok && run) {
        bench__describe(j, &m.hp);
        ok = bench__setups(j, e);
    }
    model_close(&m);
    gguf_close(&j->g);
    return ok;
}

static bool bench__levels(const bench_opts *o, err_t *e) {
    const char *names[16];
    bool        can[16];
    k_levels_list(names, can);
    for (int i = 0; i < o->level.n; i++)
        if (o->level.v[i] >= 0 && !can[o->level.v[i]])
            return err_set(e, EXIT_INPUT, "--cpu: %s does not run on this machine (--list cpu)", names[o->level.v[i]]);
    return true;
}

/* Measures every model and writes a row after each test; an interrupt ends the table. All files are checked before the first is
 * measured. svg: the picture of all rows, written at the end, or NULL. On failure e is set. */
static bool bench_run(const bench_opts *o, const char *const *models, int n_models, const engine_opts *fo, const kv_opts *ko,
                      bench_form form, const char *version, const char *commit, out_t *out, out_t *svg, err_t *e) {
    bench_job *j = mem_aligned(1, sizeof *j);
    *j = (bench_job){
        .o = o, .fo = fo, .ko = ko, .version = version, .commit = commit, .form = form, .out = out, .n_models = n_models};
    bench__cpu_name(j->cpu, sizeof j->cpu);
    bool ok = bench__levels(o, e) && (!o->draft || import_open(&j->draft_g, o->draft, 0, e));
    j->beside = ok && o->draft && arch_is_head(&j->draft_g);
    for (int i = 0; ok && i < n_models; i++) ok = bench__model(j, models[i], false, e);
    ok = ok && bench__machine_open(&j->machine, e) && out_begin(out, e);
    const bool begun = ok;
    j->sample = mem_new((size_t)o->reps, sizeof *j->sample);
    j->ns = mem_new((size_t)o->reps, sizeof *j->ns);
    j->ts = mem_new((size_t)o->reps, sizeof *j->ts);
    for (int i = 0; ok && i < n_models; i++) ok = bench__model(j, models[i], true, e);
    progress_clear();
    if (begun && (j->n_put || !e->code)) bench__write(j, NULL);   /* no table after an error before the first row */
    if (!bench__draw(j, svg, e)) ok = false;
    bench__machine_close(&j->machine);
    if (j->draft_g.path) gguf_close(&j->draft_g);
    mem_free_all(j->sample, j->ns, j->ts, j);
    return ok;
}
