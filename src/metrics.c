/* ===== [metrics] figures of a server, as Prometheus reads them =====
 * Numbers and times that any thread changes and any thread reads, and their text. To add a figure: a member of metrics, and its
 * row of metrics_rows, which the help lists, too.
 * Public: metrics_outcome, metrics_times, metrics, metrics_time, metrics_list, metrics_put.
 * Opens: metrics. */

enum { METRICS_BUCKETS = 24 };                        /* of times: powers of two from a millisecond on */

typedef enum { METRICS_OK, METRICS_REFUSED, METRICS_FAILED, METRICS_LEFT, METRICS_LATE, METRICS_OUTCOMES } metrics_outcome;

static const char *const metrics__outcomes[METRICS_OUTCOMES] = {"ok", "refused", "failed", "left", "timeout"};

typedef struct {
    _Atomic uint64_t n[METRICS_BUCKETS + 1];          /* up to 2^i milliseconds, and above */
    _Atomic uint64_t us;                              /* the sum, in microseconds */
} metrics_times;

typedef struct {
    _Atomic uint64_t outcomes[METRICS_OUTCOMES];      /* requests that have ended */
    metrics_times    first, between, whole;
    _Atomic uint64_t running, waiting, paused, blocks, blocks_most, read, cached, written, steps, guessed, accepted, preempted;
    _Atomic uint64_t rate;                            /* tokens written in the last second, or the mean of longer ones */
} metrics;

/* One more time. */
static void metrics_time(metrics_times *h, double seconds) {
    int i = 0;
    while (i < METRICS_BUCKETS && seconds > ldexp(1e-3, i)) i++;
    atomic_fetch_add_explicit(&h->n[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&h->us, (uint64_t)(seconds * 1e6), memory_order_relaxed);
}

typedef enum {
    METRICS_GAUGE,                                    /* a number that rises and falls */
    METRICS_COUNTER,                                  /* one that rises */
    METRICS_TIMES,                                    /* seconds, in buckets */
    METRICS_HIT_RATE, METRICS_REQUESTS,               /* made of others: a gauge; a counter with a label */
} metrics_kind;

typedef struct {
    const char  *name;                                /* without llmrun_ before it */
    metrics_kind kind;
    size_t       at;                                  /* offset in metrics: an _Atomic uint64_t, or a metrics_times */
    const char  *help;
} metrics_row;

#define METRICS_AT(f) offsetof(metrics, f)
static const metrics_row metrics_rows[] = {
    {"requests_running", METRICS_GAUGE, METRICS_AT(running), "completions that are made now, of requests and lines of batches"},
    {"requests_waiting", METRICS_GAUGE, METRICS_AT(waiting), "completions that wait for their turn"},
    {"requests_paused", METRICS_GAUGE, METRICS_AT(paused), "streams that wait for their readers"},
    {"requests_total", METRICS_REQUESTS, METRICS_AT(outcomes),
     "requests that have ended, by outcome: ok, refused, failed, left, timeout"},
    {"prompt_tokens_total", METRICS_COUNTER, METRICS_AT(read), "tokens of prompts that were computed"},
    {"prompt_tokens_cached_total", METRICS_COUNTER, METRICS_AT(cached), "tokens of prompts that were found in the cache"},
    {"generated_tokens_total", METRICS_COUNTER, METRICS_AT(written), "tokens of answers"},
    {"generated_tokens_per_second", METRICS_GAUGE, METRICS_AT(rate), "tokens of answers in the last second"},
    {"time_to_first_token_seconds", METRICS_TIMES, METRICS_AT(first), "from a request to the first token of its answer"},
    {"time_between_tokens_seconds", METRICS_TIMES, METRICS_AT(between), "between two tokens of an answer"},
    {"request_seconds", METRICS_TIMES, METRICS_AT(whole), "from a request to the end of its answer"},
    {"steps_total", METRICS_COUNTER, METRICS_AT(steps), "steps of the model"},
    {"preemptions_total", METRICS_COUNTER, METRICS_AT(preempted), "sequences that had to give up their blocks"},
    {"kv_blocks_used", METRICS_GAUGE, METRICS_AT(blocks), "blocks of keys and values that sequences hold"},
    {"kv_blocks", METRICS_GAUGE, METRICS_AT(blocks_most), "blocks that there may be"},
    {"kv_hit_rate", METRICS_HIT_RATE, 0, "share of the tokens of prompts that was found in the cache"},
    {"draft_tokens_total", METRICS_COUNTER, METRICS_AT(guessed), "tokens that were guessed"},
    {"draft_tokens_accepted_total", METRICS_COUNTER, METRICS_AT(accepted), "guesses that were right"},
};
#undef METRICS_AT
enum { METRICS_ROWS = sizeof metrics_rows / sizeof *metrics_rows };

static const char *metrics__type(metrics_kind k) {
    return k == METRICS_TIMES ? "histogram" : k == METRICS_COUNTER || k == METRICS_REQUESTS ? "counter" : "gauge";
}

/* Rows for the help: the name of a figure, its type and what it is. */
static void metrics_list(void (*put)(void *ctx, const char *name, const char *what), void *ctx) {
    for (int i = 0; i < METRICS_ROWS; i++) {
        const metrics_row *f = &metrics_rows[i];
        char               name[64], what[160];
        snprintf(name, sizeof name, "llmrun_%s", f->name);
        snprintf(what, sizeof what, "%s; %s", f->help, metrics__type(f->kind));
        put(ctx, name, what);
    }
}

static void metrics__put_times(const char *name, const metrics_times *h, str *out) {
    uint64_t sum = 0;
    for (int i = 0; i <= METRICS_BUCKETS; i++) {
        sum += atomic_load(&h->n[i]);
        str_fmt(out, "llmrun_%s_bucket{le=\"", name);
        if (i < METRICS_BUCKETS) str_fmt(out, "%g", ldexp(1e-3, i));
        else str_put(out, "+Inf");
        str_fmt(out, "\"} %llu\n", (unsigned long long)sum);
    }
    str_fmt(out, "llmrun_%s_sum %.6f\n", name, (double)atomic_load(&h->us) * 1e-6);
    str_fmt(out, "llmrun_%s_count %llu\n", name, (unsigned long long)sum);
}

static void metrics__put_one(const metrics *m, const metrics_row *f, str *out) {
    const void  *at = (const char *)m + f->at;
    const double cached = (double)atomic_load(&m->cached), read = (double)atomic_load(&m->read);
    str_fmt(out, "# HELP llmrun_%s %s\n# TYPE llmrun_%s %s\n", f->name, f->help, f->name, metrics__type(f->kind));
    if (f->kind == METRICS_TIMES) metrics__put_times(f->name, at, out);
    else if (f->kind == METRICS_HIT_RATE) str_fmt(out, "llmrun_%s %.6f\n", f->name, cached > 0 ? cached / (cached + read) : 0);
    else if (f->kind == METRICS_REQUESTS)
        for (int i = 0; i < METRICS_OUTCOMES; i++)
            str_fmt(out, "llmrun_%s{outcome=\"%s\"} %llu\n", f->name, metrics__outcomes[i],
                    (unsigned long long)atomic_load(&m->outcomes[i]));
    else str_fmt(out, "llmrun_%s %llu\n", f->name, (unsigned long long)atomic_load((const _Atomic uint64_t *)at));
}

/* Appends all of them. */
static void metrics_put(const metrics *m, str *out) {
    for (int i = 0; i < METRICS_ROWS; i++) metrics__put_one(m, &metrics_rows[i], out);
}
