/* ===== [gain] costs of steps, and what guesses gain =====
 * The figures of speculative decoding, for which [spec] makes the guesses.
 *   Costs decide: seconds of a step of n rows. A cost is a low quantile of the last times, so that steps in which a thread lost
 * its CPU do not count, and it fades, so that what did not pay is tried again.
 *   Counts report: tokens, steps and guesses. No decision depends on them. The speed-up over plain decoding is made of costs and
 * of the number of steps.
 * Public: spec_cost_near, spec_cost_at, spec_cost_add, spec_gain_open, spec_gain_begin, spec_gain_prepare, spec_gain_round,
 * spec_gain_drafted, spec_gain_none, spec_gain_record,
 * spec_gain_time, spec_gain_between, spec_gain_forget, spec_gain_speedup, spec_gain_report.
 * Opens: spec_costs, spec_gain.step, spec_gain.guessed, spec_gain.right, spec_gain_step.looking, spec_gain_step.drafting. */

enum {
    SPEC_MOST = 64,                                   /* guesses for a sequence in one step */
    SPEC_COST = 64,                                   /* rows up to which each size of step is timed by itself */
    SPEC_AGE = 16,                                    /* steps for which a time is trusted; twice as many for each further time */
    SPEC_KEEP = 16,                                   /* times kept for each number of rows */
    SPEC_MANY = 8,                                    /* times after which a change shows that the machine is faster or slower */
    SPEC_SURE = 3,                                    /* times from which a cost may be reported */
    SPEC_TURNS = 100,                                 /* steps of sequences from which a speed-up is reported */
};
#define SPEC_HOPE   0.03                              /* cost of a further row, until measured, as a share of a step of one row */
#define SPEC_LEAST_S 0.5                              /* seconds of decoding from which a speed-up is reported */
#define SPEC_WAITED 0.05                              /* share of the time waiting for a CPU from which CPUs count as shared */
#define SPEC_SPIKES 0.25                              /* share of the time beyond what steps usually take, for the same */

typedef enum { SPEC_LOOKUP, SPEC_DRAFT, SPEC_HEAD, SPEC_FORCED, SPEC_SOURCES } spec_source;

static const char *const spec_names[SPEC_SOURCES] = {"lookup", "draft", "head", "forced"};

/* --- what a step costs --- */

typedef struct {                                      /* the last times of one kind, a ring buffer */
    float v[SPEC_KEEP];                               /* seconds */
    int   n;                                          /* times added so far */
} spec_times;

typedef struct {                                      /* seconds of steps of n rows */
    spec_times took[SPEC_COST + 1];
    double     s[SPEC_COST + 1];                      /* their low quantile; 0: never timed */
    double     anchor[SPEC_COST + 1];                 /* s when the level was last set */
    double     at_level[SPEC_COST + 1];               /* the level when it was last timed */
    long long  at[SPEC_COST + 1];                     /* when that was, in steps */
    long long  now;                                   /* steps timed so far */
    double     level;                                 /* how slow the machine is, by its first steps */
    double     cost[SPEC_COST + 1];                   /* the curve for decisions: measured costs at this level, interpolated */
} spec_cost;

typedef struct {
    spec_cost target;                                 /* steps of the model */
    spec_cost of[SPEC_SOURCES];                       /* steps of the draft, and of the draft head, if there is one */
} spec_costs;

static void spec_cost__take(spec_times *t, double v) { t->v[t->n++ % SPEC_KEEP] = (float)v; }

/* The low quantile: at most one time in ten is below it. A thread that loses its CPU for a while only makes steps longer, so that
 * low times are those of undisturbed steps. */
static double spec_cost__low(const spec_times *t) {
    float     low[SPEC_KEEP] = {0};
    const int n = min_int(t->n, SPEC_KEEP);
    for (int i = 0, at; i < n; i++) {
        for (at = i; at > 0 && low[at - 1] > t->v[i]; at--) low[at] = low[at - 1];
        low[at] = t->v[i];
    }
    return n ? (double)low[(n - 1) / 10] : 0;
}

/* Whether the time of a step of n rows is recent enough: the more often it was taken, the longer it counts. */
static bool spec_cost__known(const spec_cost *c, int n) {
    const int times = min_int(c->took[n].n, 5);
    return times && c->now - c->at[n] <= SPEC_AGE << times;
}

/* Whether the time of a step of about n rows is known and recent enough to decide by. */
static bool spec_cost_near(const spec_cost *c, int n) {
    bool yes = false;
    for (int k = n - n / 4; k <= n + n / 4 && k <= SPEC_COST; k++) yes = yes || spec_cost__known(c, k);
    return yes;
}

/* Measured seconds of a step of n rows, at the current level; 0: never timed. */
static double spec_cost__measured(const spec_cost *c, int n) { return c->took[n].n ? c->s[n] * c->level / c->at_level[n] : 0; }

/* The curve of costs through the measured ones; it never falls with the number of rows. */
static void spec_cost__fit(spec_cost *c) {
    int    a = 0;                                     /* the last size with a measured cost, and that cost */
    double was = 0;
    for (int n = 1; n <= SPEC_COST; n++) {
        c->cost[n] = was * (1 + SPEC_HOPE * (n - a));
        if (!spec_cost__known(c, n)) continue;
        const double is = c->cost[n] = spec_cost__measured(c, n);
        for (int k = a + 1; k < n; k++) c->cost[k] = a ? was + (is - was) * (k - a) / (n - a) : is / (1 + SPEC_HOPE * (n - k));
        a = n;
        was = is;
    }
    for (int n = SPEC_COST; n > 1; n--)
        if (c->cost[n] < c->cost[n - 1]) c->cost[n - 1] = c->cost[n];
}

/* Seconds of a step of n rows, by the curve; 0: nothing is known. */
static double spec_cost_at(const spec_cost *c, int n) {
    const int beyond = max_int(n - SPEC_COST, 0);
    return n < 1 ? 0 : c->cost[n - beyond] * (1 + SPEC_HOPE * beyond);
}

/* Scales the times of n rows to the current level. */
static void spec_cost__align(spec_cost *c, int n) {
    const double by = c->at_level[n] > 0 ? c->level / c->at_level[n] : 1;
    c->at_level[n] = c->level;
    if (fabs(by - 1) < 1e-9) return;
    for (int i = 0; i < SPEC_KEEP; i++) c->took[n].v[i] *= (float)by;
    c->s[n] *= by;
    c->anchor[n] *= by;
}

static bool spec_cost__differs(double is, double was) { return is < 0.75 * was || is > 1.33 * was; }

/* Adds the time of a step of n rows. Where one size has become much slower or faster, the level changes, and so all costs. */
static void spec_cost_add(spec_cost *c, int n, double seconds) {
    c->now++;
    if (n < 1 || n > SPEC_COST) return;
    if (c->level <= 0) c->level = 1;
    spec_times *t = &c->took[n];
    spec_cost__align(c, n);
    if (!spec_cost__known(c, n) && spec_cost__differs(seconds, c->s[n])) t->n = 0;   /* too old to be believed */
    spec_cost__take(t, seconds);
    c->s[n] = spec_cost__low(t);
    c->at[n] = c->now;
    if (t->n <= SPEC_MANY) c->anchor[n] = c->s[n];
    else if (spec_cost__differs(c->s[n], c->anchor[n])) {
        c->level *= c->s[n] / c->anchor[n];
        c->at_level[n] = c->level;
        c->anchor[n] = c->s[n];
    }
    spec_cost__fit(c);
}

/* Seconds of a number of steps of each size: by measured costs, else by the curve. */
static double spec_cost__sum(const spec_cost *c, const double *steps) {
    double sum = 0;
    for (int n = 1; n <= SPEC_COST; n++)
        if (steps[n] > 0) sum += steps[n] * (c->took[n].n ? spec_cost__measured(c, n) : spec_cost_at(c, n));
    return sum;
}

/* --- counts --- */

typedef struct {                                      /* number of steps of each size */
    double real[SPEC_COST + 1];                       /* as they ran */
    double plain[SPEC_COST + 1];                      /* without guesses, for the same tokens */
} spec_tally;

typedef struct {                                      /* of the coming step alone */
    double looking;                                   /* seconds of the search for guesses before it */
    double drafting;                                  /* seconds of the draft and the head among these, by the clock */
    double drafting_usual;                            /* the same by their costs */
    int    turns[SPEC_SOURCES];                       /* sequences with guesses of each source */
    int    won[SPEC_SOURCES];                         /* tokens that these sequences got */
} spec_gain_step;

typedef struct {
    bool           drafts;                            /* there is a draft model */
    double         opened;                            /* clock_now() of the beginning */
    double         waited;                            /* seconds that threads had waited for a CPU by then */
    spec_gain_step step;
    long long      tokens;                            /* decoded in timed steps */
    long long      turns;                             /* steps of sequences that it took */
    long long      guessed[SPEC_SOURCES];             /* guesses that had a row */
    long long      right[SPEC_SOURCES];               /* those that were accepted */
    long long      depth_tried[SPEC_SOURCES][SPEC_MOST];   /* guesses number i of a sequence's step that were judged */
    long long      depth_right[SPEC_SOURCES][SPEC_MOST];   /* those that were accepted */
    long long      chosen[SPEC_MOST + 1];             /* how often so many were taken for a sequence */
    double         wall_s;                            /* seconds of all timed steps by the clock */
    double         usual_s;                           /* the same by their costs */
    double         draft_s[SPEC_SOURCES];             /* seconds of drafting by the clock */

    /* since costs were last forgotten */
    spec_tally     all;                               /* all steps */
    spec_tally     of[SPEC_SOURCES];                  /* those with guesses of each source */
    double         rounds[SPEC_SOURCES][SPEC_COST + 1];   /* steps of the draft and of the head, by their rows */
    double         n_looks;                           /* steps before which guesses were searched */
    spec_times     look;                              /* seconds of that without drafting */

    /* beside the tallies: seconds of before, and those that guesses do not change */
    double         plain_s;                           /* without guesses */
    double         real_s;                            /* with guesses */
} spec_gain;

static void spec_gain__tally(double *steps, int n, double by) { steps[min_int(n, SPEC_COST)] += by; }

/* The run begins; drafts: there is a draft model. */
static void spec_gain_open(spec_gain *g, bool drafts) {
    g->drafts = drafts;
    g->opened = clock_now();
    g->waited = host_cpu_wait();
}

/* Guesses for the next step are about to be searched. */
static void spec_gain_begin(spec_gain *g) { g->step = (spec_gain_step){0}; }

/* Seconds in which the draft read texts before its first guess: about 0, except for a prompt. */
static void spec_gain_prepare(spec_gain *g, double seconds) {
    g->step.drafting_usual += seconds;
    g->real_s += seconds;
}

/* The draft or the head has made a step of n rows. */
static void spec_gain_round(spec_gain *g, const spec_costs *c, spec_source from, int n) {
    spec_gain__tally(g->rounds[from], n, 1);
    g->step.drafting_usual += spec_cost_at(&c->of[from], n);
}

/* It has made its guesses of this step, in so many seconds. */
static void spec_gain_drafted(spec_gain *g, spec_source from, double seconds) {
    g->step.drafting += seconds;
    g->draft_s[from] += seconds;
}

/* A sequence has no guess in this step. */
static void spec_gain_none(spec_gain *g) { g->chosen[0]++; }

/* A sequence had n guesses: the sampler picked from `judged` rows of them, and `right` were what it picked. */
static void spec_gain_record(spec_gain *g, spec_source from, int n, int right, int judged) {
    for (int i = 0; i < judged; i++) {
        g->depth_tried[from][i]++;
        g->depth_right[from][i] += i < right;
    }
    g->guessed[from] += n;
    g->right[from] += right;
    g->step.turns[from]++;
    g->step.won[from] += right + 1;
    g->chosen[n]++;
}

/* A step of `rows` rows, whose time the costs have by now, gave n sequences `tokens` tokens in `seconds`, search and
 * sampling included. */
static void spec_gain_time(spec_gain *g, const spec_costs *c, int n, int rows, int tokens, double seconds) {
    spec_cost__take(&g->look, g->step.looking - g->step.drafting);
    g->n_looks++;
    spec_gain__tally(g->all.real, rows, 1);
    spec_gain__tally(g->all.plain, n, (double)tokens / n);
    for (int from = 0; from < SPEC_SOURCES; from++) {
        spec_gain__tally(g->of[from].real, rows, (double)g->step.turns[from] / n);
        spec_gain__tally(g->of[from].plain, n, (double)g->step.won[from] / n);
    }
    g->wall_s += seconds;
    g->usual_s += spec_cost_at(&c->target, rows) + g->step.drafting_usual + spec_cost__low(&g->look);
    g->tokens += tokens;
    g->turns += n;
}

/* Seconds of all decoding by its costs, with guesses. */
static double spec_gain__real_s(const spec_gain *g, const spec_costs *c) {
    double drafts = 0;
    for (int from = 0; from < SPEC_SOURCES; from++) drafts += spec_cost__sum(&c->of[from], g->rounds[from]);
    return g->real_s + spec_cost__sum(&c->target, g->all.real) + drafts + g->n_looks * spec_cost__low(&g->look);
}

/* The same without guesses. */
static double spec_gain__plain_s(const spec_gain *g, const spec_costs *c) {
    return g->plain_s + spec_cost__sum(&c->target, g->all.plain);
}

/* Seconds between two steps that guesses do not change. */
static void spec_gain_between(spec_gain *g, double seconds) {
    g->plain_s += seconds;
    g->real_s += seconds;
}

/* Steps cost something else from now on: what was tallied so far becomes seconds, and costs of the target and of
 * its head are measured again. */
static void spec_gain_forget(spec_gain *g, spec_costs *c) {
    g->real_s = spec_gain__real_s(g, c);
    g->plain_s = spec_gain__plain_s(g, c);
    g->n_looks = 0;
    c->target = c->of[SPEC_HEAD] = (spec_cost){0};
    g->all = (spec_tally){0};
    memset(g->of, 0, sizeof g->of);
    memset(g->rounds, 0, sizeof g->rounds);
}

/* --- report --- */

/* Guesses of all sources that had a row. */
static long long spec_gain__all(const spec_gain *g) {
    long long n = 0;
    for (int from = 0; from < SPEC_SOURCES; from++) n += g->guessed[from];
    return n;
}

/* Share of the time since the run began in which threads waited for a CPU. */
static double spec_gain__waited(const spec_gain *g) {
    return g->opened > 0 ? (host_cpu_wait() - g->waited) / (clock_now() - g->opened) : 0;
}

/* Whether steps without guesses were timed often enough, at the sizes that count or at sizes on both sides of them. */
static bool spec_gain__sure(const spec_gain *g, const spec_costs *c) {
    const spec_times *took = c->target.took;
    double            all = 0, sure = 0;
    for (int n = 1; n <= SPEC_COST; n++) {
        int a = n, b = n;
        while (a > 0 && took[a].n < SPEC_SURE) a--;
        while (b <= SPEC_COST && took[b].n < SPEC_SURE) b++;
        all += g->all.plain[n];
        if (a && b <= SPEC_COST && n < SPEC_COST) sure += g->all.plain[n];
    }
    return all > 0 && sure >= 0.9 * all;
}

/* Speed-up over plain decoding, where threads waited for a CPU for a share `waited` of the time. NAN: not known; *why is the
 * reason, NULL where the run was too short. */
static double spec_gain__over_plain(const spec_gain *g, const spec_costs *c, double waited, const char **why) {
    *why = NULL;
    if (g->wall_s < SPEC_LEAST_S || g->turns < SPEC_TURNS) return NAN;
    *why = "the CPUs were shared";
    if (waited > SPEC_WAITED || g->wall_s > (1 + SPEC_SPIKES) * g->usual_s) return NAN;
    *why = "too few steps without drafts were timed";
    if (!spec_gain__sure(g, c)) return NAN;
    *why = NULL;
    return fmin(spec_gain__plain_s(g, c) / spec_gain__real_s(g, c), (double)g->tokens / (double)g->turns);
}

/* The same for the steps in which one source guessed; at most its tokens per step. */
static double spec_gain__of_source(const spec_gain *g, const spec_costs *c, spec_source from) {
    const spec_tally *t = &g->of[from];
    const double      drafts = spec_cost__sum(&c->of[from], g->rounds[from]);
    const double      with = spec_cost__sum(&c->target, t->real) + drafts, without = spec_cost__sum(&c->target, t->plain);
    double            steps = 0, plain = 0;
    for (int n = 1; n <= SPEC_COST; n++) {
        steps += t->real[n];
        plain += t->plain[n];
    }
    return steps > 0 ? fmin(without / with, plain / steps) : NAN;
}

/* Speed-up of the whole run over plain decoding: 1 where nothing was guessed, NAN: not known. */
static double spec_gain_speedup(const spec_gain *g, const spec_costs *c) {
    const char *why;
    return spec_gain__all(g) ? spec_gain__over_plain(g, c, spec_gain__waited(g), &why) : 1;
}

/* The line of one source. own: its speed-up, NAN: not known. */
static void spec_gain__put_source(const spec_gain *g, spec_source from, double own, str *s) {
    const long long guessed = g->guessed[from], right = g->right[from];
    str_fmt(s, "llmrun: %-11s %lld guessed, %lld accepted (%.1f %%), by depth", spec_names[from], guessed, right,
            100.0 * (double)right / (double)guessed);
    for (int i = 0; i < SPEC_MOST && g->depth_tried[from][i]; i++)
        str_fmt(s, " %.0f", 100.0 * (double)g->depth_right[from][i] / (double)g->depth_tried[from][i]);
    str_put(s, " %");
    if (from == SPEC_DRAFT || from == SPEC_HEAD) str_fmt(s, "; %.3f s of drafting", g->draft_s[from]);
    if (!isnan(own)) str_fmt(s, "; %.2fx where it guessed", own);
    str_put(s, "\n");
}

/* Under -v: how many guesses were taken, and the costs by which that was decided. */
static void spec_gain__put_costs(const spec_gain *g, const spec_costs *c, str *s) {
    str_put(s, "llmrun: guesses     taken:");
    for (int i = 0; i <= SPEC_MOST; i++)
        if (g->chosen[i]) str_fmt(s, " %d in %lld,", i, g->chosen[i]);
    s->n -= s->n && s->p[s->n - 1] == ',';
    str_put(s, " steps\nllmrun: ms by rows ");
    for (int i = 1, any = 0; i <= SPEC_COST; i++)
        if (c->target.took[i].n) str_fmt(s, "%s%d: %.2f", any++ ? ", " : "", i, spec_cost__measured(&c->target, i) * 1e3);
    if (g->drafts) str_fmt(s, "; of the draft 1: %.2f", spec_cost_at(&c->of[SPEC_DRAFT], 1) * 1e3);
    if (c->of[SPEC_HEAD].now) str_fmt(s, "; of the head 1: %.2f", spec_cost_at(&c->of[SPEC_HEAD], 1) * 1e3);
    str_fmt(s, "; %.1f %% of the time waiting for a CPU; steps %.2f times as long as their costs\n", 100 * spec_gain__waited(g),
            g->wall_s / fmax(g->usual_s, 1e-9));
}

/* Lines for stderr about the sources that guessed; none where nothing was guessed. */
static void spec_gain_report(const spec_gain *g, const spec_costs *c, str *s) {
    const char *why;
    if (!spec_gain__all(g) || !g->turns) return;
    const double speedup = spec_gain__over_plain(g, c, spec_gain__waited(g), &why);
    str_put(s, "llmrun: speculation ");
    if (!isnan(speedup)) str_fmt(s, "%.2fx plain decoding: ", speedup);
    str_fmt(s, "%lld tokens in %lld steps, %.2f a step", g->tokens, g->turns, (double)g->tokens / (double)g->turns);
    if (why) str_fmt(s, "; speed-up not measurable: %s", why);
    str_put(s, "\n");
    for (int i = SPEC_SOURCES - 1; i >= 0; i--) {
        const spec_source from = (spec_source)i;
        if (g->guessed[from]) spec_gain__put_source(g, from, isnan(speedup) ? NAN : spec_gain__of_source(g, c, from), s);
    }
    if (g_log_level >= LOG_VERBOSE) spec_gain__put_costs(g, c, s);
}
