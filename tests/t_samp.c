/* [samp] compared with a second implementation: every sampler from its definition, in double, with full sorts. */
#include "program.h"
#include "check.h"

/* --- options from words: "top_k=3 temp=2 samplers=top_k;temp", on top of a chain in which everything is off --- */

static samp_opts t_samp__off(void) {
    samp_opts o = samp_defaults;
    o.temp = 1;
    o.top_k = 0;
    o.top_p = 1;
    o.min_p = 0;
    return o;
}

/* Reads options by the table of ranges, so that a missing name fails here. The text must outlive the options. */
static void t_samp__set(samp_opts *o, const char *words) {
    static char text[8][512];
    static int  turn;
    char *p = text[turn++ & 7], *save;
    snprintf(p, sizeof text[0], "%s", words);
    for (char *w = strtok_r(p, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char *eq = strchr(w, '=');
        bool  known = false;
        if (!CHECKF(eq != NULL, "'%s' has no value", w)) return;
        *eq++ = 0;
        if (!strcmp(w, "samplers")) o->samplers = eq, known = true;
        if (!strcmp(w, "seq")) o->sampling_seq = eq, known = true;
        if (!strcmp(w, "n_ctx")) o->n_ctx = atoi(eq), known = true;
        for (int i = 0; i < SAMP_PARAMS; i++) {
            if (strcmp(w, samp_params[i].name)) continue;
            void *at = (char *)o + samp_params[i].at;
            known = true;
            if (samp_params[i].whole) *(int *)at = atoi(eq);
            else *(float *)at = strtof(eq, NULL);
        }
        CHECKF(known, "no option '%s'", w);
    }
}

static samp *t_samp__new(const samp_opts *o, int32_t n_vocab, uint64_t seed) {
    err_t e = {0};
    samp *s = samp_new(o, n_vocab, seed, 0, &e);
    CHECKF(s != NULL, "%s", e.text);
    return s;
}

/* --- the second opinion --- */

typedef struct {
    int32_t id;
    double  l, p, score;
} t_cand;

typedef struct {
    t_cand *c;
    int     n;
    double  edge;                                     /* how near any decision came to going the other way */
} t_ref;

static int t_samp__by_logit(const void *a, const void *b) {
    const t_cand *x = a, *y = b;
    if (x->l != y->l) return x->l < y->l ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}
static int t_samp__by_score(const void *a, const void *b) {
    const t_cand *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

static void t_samp__near(t_ref *r, double a, double b) {
    double d = fabs(a - b);
    if (a != b && d < r->edge) r->edge = d;
}

static void t_samp__softmax(t_ref *r) {
    double z = 0;
    qsort(r->c, (size_t)r->n, sizeof *r->c, t_samp__by_logit);
    for (int i = 0; i < r->n; i++) z += r->c[i].p = exp(r->c[i].l - r->c[0].l);
    for (int i = 0; i < r->n; i++) r->c[i].p /= z;
}

static double t_samp__entropy(const t_ref *r) {
    double h = 0;
    for (int i = 0; i < r->n; i++)
        if (r->c[i].p > 0) h -= r->c[i].p * log(r->c[i].p);
    return h;
}

static void t_samp__ref_penalties(t_ref *r, const samp_opts *o, const int32_t *past, int n_past) {
    for (int i = 0; i < r->n; i++) {
        int count = 0;
        for (int j = n_past > o->repeat_last_n ? n_past - o->repeat_last_n : 0; j < n_past; j++) count += past[j] == r->c[i].id;
        if (!count) continue;
        if (r->c[i].l > 0) r->c[i].l /= (double)o->repeat_penalty;
        else r->c[i].l *= (double)o->repeat_penalty;
        r->c[i].l -= count * (double)o->frequency_penalty + (double)o->presence_penalty;
    }
}

/* By definition: token t is punished for the longest m such that the last m tokens occur earlier, followed by t, both
 * inside the window and with no breaker inside the m tokens. Single-token breakers only. */
static void t_samp__ref_dry(t_ref *r, const samp_opts *o, const int32_t *past, int n_past, const int32_t *breaker,
                            int n_breaker) {
    int from = n_past > o->dry_penalty_last_n ? n_past - o->dry_penalty_last_n : 0, limit = 0;
    if (n_past - from <= o->dry_allowed_length) return;
    for (bool stop = false; limit < n_past - from && !stop;) {
        for (int b = 0; b < n_breaker; b++) stop |= past[n_past - 1 - limit] == breaker[b];
        limit += !stop;
    }
    for (int i = 0; i < r->n; i++) {
        int  longest = -1;
        bool is_breaker = false;
        for (int b = 0; b < n_breaker; b++) is_breaker |= r->c[i].id == breaker[b];
        for (int at = from + 1; at < n_past && !is_breaker; at++) {
            if (past[at] != r->c[i].id) continue;
            int m = 0;
            while (m < limit && at - 1 - m >= from && past[at - 1 - m] == past[n_past - 1 - m]) m++;
            if (m > longest) longest = m;
        }
        if (longest >= o->dry_allowed_length)
            r->c[i].l -= (double)o->dry_multiplier * pow((double)o->dry_base, longest - o->dry_allowed_length);
    }
}

static void t_samp__ref_nsigma(t_ref *r, double n_sigma) {
    double sum = 0, sq = 0, n = 0, max = -INFINITY;
    for (int i = 0; i < r->n; i++)
        if (r->c[i].l > -INFINITY) sum += r->c[i].l, n++, max = fmax(max, r->c[i].l);
    for (int i = 0; i < r->n; i++)
        if (r->c[i].l > -INFINITY) sq += (r->c[i].l - sum / n) * (r->c[i].l - sum / n);
    if (r->n <= 1) return;
    for (int i = 0; i < r->n; i++) {
        if (sq > 0) t_samp__near(r, r->c[i].l, max - n_sigma * sqrt(sq / n));
        if (r->c[i].l < max - n_sigma * sqrt(sq / n)) r->c[i].l = -INFINITY;
    }
}

static void t_samp__ref_top_k(t_ref *r, int k) {
    t_samp__softmax(r);
    if (k >= r->n) return;
    t_samp__near(r, r->c[k - 1].l, r->c[k].l);
    r->n = k;
}

static void t_samp__ref_top_p(t_ref *r, double p) {
    double sum = 0;
    int    i = 0;
    t_samp__softmax(r);
    while (i < r->n) {
        sum += r->c[i++].p;
        t_samp__near(r, sum, p);
        if (sum == p && p > 0) r->edge = 0;
        if (sum >= p) break;
    }
    r->n = i;
}

static void t_samp__ref_min_p(t_ref *r, double p) {
    int i = 1;
    t_samp__softmax(r);
    for (; i < r->n && r->c[i].l >= r->c[0].l + log(p); i++) t_samp__near(r, r->c[i].l, r->c[0].l + log(p));
    if (i < r->n) t_samp__near(r, r->c[i].l, r->c[0].l + log(p));
    r->n = i;
}

static void t_samp__ref_typical(t_ref *r, double p) {
    double sum = 0;
    int    i = 0;
    t_samp__softmax(r);
    double h = t_samp__entropy(r);
    for (int j = 0; j < r->n; j++) r->c[j].score = fabs(-log(r->c[j].p) - h);
    qsort(r->c, (size_t)r->n, sizeof *r->c, t_samp__by_score);
    while (i < r->n) {
        sum += r->c[i++].p;
        if (fabs(sum - p) < r->edge) r->edge = fabs(sum - p);
        if (sum > p) break;
    }
    if (i < r->n && r->c[i].l != r->c[i - 1].l) {
        double d = r->c[i].score - r->c[i - 1].score;
        if (d < r->edge) r->edge = d;
    }
    r->n = i;
}

static void t_samp__ref_xtc(t_ref *r, double threshold, double u, double probability) {
    int above = 0;
    if (r->n < 2 || u > probability) return;
    t_samp__softmax(r);
    for (int i = 0; i < r->n; i++) t_samp__near(r, r->c[i].p, threshold);
    while (above < r->n && r->c[above].p >= threshold) above++;
    if (above < 2) return;
    r->n -= above - 1;
    memmove(r->c, r->c + above - 1, (size_t)r->n * sizeof *r->c);
}

static void t_samp__ref_temp(t_ref *r, const samp_opts *o) {
    double t = (double)o->temp;
    if (o->dynatemp_range > 0 && r->n < 2) return;
    t_samp__softmax(r);
    if (o->dynatemp_range > 0) {
        double lo = fmax(0, (double)o->temp - (double)o->dynatemp_range), hi = (double)o->temp + (double)o->dynatemp_range;
        t = lo + (hi - lo) * pow(t_samp__entropy(r) / log(r->n), (double)o->dynatemp_exp);
    }
    if (t < 1e-4) r->edge = 0;                        /* dividing may overflow a float: greedy in its own way */
    if (t <= 0) {
        r->n = 1;
        return;
    }
    for (int i = 0; i < r->n; i++) r->c[i].l /= t;
}

typedef struct {
    const int32_t *past, *breaker;
    int            n_past, n_breaker;
    uint64_t       seed, pos;
} t_samp_case;

#define T_SAMP_ORDER "edskypmxt"                      /* the default chain, which has every sampler */
enum { T_SAMP_KINDS = sizeof T_SAMP_ORDER - 1 };

/* The chain of letters, applied one after another; r->c holds n_vocab candidates and ends in descending order. */
static void t_samp__ref_run(t_ref *r, const samp_opts *o, const char *letters, const t_samp_case *c, int n_on_before) {
    int draw = n_on_before;                           /* xtc's draw is 1 + its place among the samplers that are on */
    for (; *letters; letters++) {
        int k = samp__kind_by_letter(*letters);
        if (samp_table[k].off(o)) continue;
        draw++;
        switch (*letters) {
        case 'e': t_samp__ref_penalties(r, o, c->past, c->n_past); break;
        case 'd': t_samp__ref_dry(r, o, c->past, c->n_past, c->breaker, c->n_breaker); break;
        case 's': t_samp__ref_nsigma(r, (double)o->top_nsigma); break;
        case 'k': t_samp__ref_top_k(r, o->top_k); break;
        case 'y': t_samp__ref_typical(r, (double)o->typical_p); break;
        case 'p': t_samp__ref_top_p(r, (double)o->top_p); break;
        case 'm': t_samp__ref_min_p(r, (double)o->min_p); break;
        case 'x': {
            const double u = rng_unit(rng_at(c->seed, 0, c->pos, (uint64_t)draw));
            t_samp__ref_xtc(r, (double)o->xtc_threshold, u, (double)o->xtc_probability);
            break;
        }
        case 't': t_samp__ref_temp(r, o); break;
        default: CHECKF(false, "sampler %c has no plain version", *letters);
        }
    }
    t_samp__softmax(r);
}

static t_ref t_samp__ref_new(const float *logits, int n) {
    t_ref r = {mem_new((size_t)n, sizeof(t_cand)), n, 1};
    for (int i = 0; i < n; i++) r.c[i] = (t_cand){.id = i, .l = (double)logits[i]};
    return r;
}

/* The same candidates with the same probabilities. */
static bool t_samp__same(const t_ref *r, const samp_cand *c, int n, double tol, const char *what) {
    bool ok = CHECKF(n == r->n, "%s: %d candidates, want %d", what, n, r->n);
    int32_t top = 0;
    for (int i = 0; i < r->n; i++) top = r->c[i].id > top ? r->c[i].id : top;
    double *want = mem_new((size_t)top + 1, sizeof *want);
    for (int i = 0; i < r->n; i++) want[r->c[i].id] = 1 + r->c[i].p;
    for (int i = 0; ok && i < n; i++) {
        bool in = c[i].id <= top && want[c[i].id] > 0;
        ok = CHECKF(in, "%s: token %d is a candidate", what, c[i].id) &&
             CHECKF(fabs((double)c[i].p - (want[c[i].id] - 1)) <= tol, "%s: token %d has %.7f, want %.7f", what, c[i].id,
                    (double)c[i].p, want[c[i].id] - 1);
    }
    mem_free(want);
    return ok;
}

/* --- the facts of llama.cpp's tests/test-sampling.cpp --- */

/* p and want by token, want renormalised; -1: no candidate any more. past ends at -1. */
static const struct {
    const char *opts;
    float       p[5];
    int32_t     past[8];
    double      want[5];
    int32_t     breaker;                              /* -1: none */
} t_samp_facts[] = {
    {"temp=1", {.1f, .2f, .3f, .4f}, {-1}, {.1, .2, .3, .4}, -1},
    {"temp=0", {.1f, .2f, .3f, .4f}, {-1}, {-1, -1, -1, 1}, -1},
    {"temp=1 dynatemp_range=0", {.1f, .2f, .3f, .4f}, {-1}, {.1, .2, .3, .4}, -1},
    {"temp=0 dynatemp_range=0", {.1f, .2f, .3f, .4f}, {-1}, {-1, -1, -1, 1}, -1},
    {"top_k=1", {.1f, .2f, .3f, .4f}, {-1}, {-1, -1, -1, 1}, -1},
    {"top_k=3", {.1f, .2f, .3f, .4f}, {-1}, {-1, .22222, .33333, .44444}, -1},
    {"top_k=4", {.1f, .2f, .3f, .4f}, {-1}, {.1, .2, .3, .4}, -1},
    {"top_k=0", {.1f, .2f, .3f, .4f}, {-1}, {.1, .2, .3, .4}, -1},
    {"top_p=0", {.1f, .2f, .3f, .4f}, {-1}, {-1, -1, -1, 1}, -1},
    {"top_p=0.7", {.1f, .2f, .3f, .4f}, {-1}, {-1, -1, .428571, .571429}, -1},
    {"top_p=0.8", {.1f, .2f, .3f, .4f}, {-1}, {-1, .22222, .33333, .44444}, -1},
    {"top_p=1", {.1f, .2f, .3f, .4f}, {-1}, {.1, .2, .3, .4}, -1},
    {"min_p=0", {.1f, .2f, .3f, .4f}, {-1}, {.1, .2, .3, .4}, -1},
    {"min_p=0.24", {.1f, .2f, .3f, .4f}, {-1}, {.1, .2, .3, .4}, -1},
    {"min_p=0.26", {.1f, .2f, .3f, .4f}, {-1}, {-1, .2 / .9, .3 / .9, .4 / .9}, -1},
    {"min_p=0.49", {.1f, .2f, .3f, .4f}, {-1}, {-1, .2 / .9, .3 / .9, .4 / .9}, -1},
    {"min_p=0.51", {.1f, .2f, .3f, .4f}, {-1}, {-1, -1, .3 / .7, .4 / .7}, -1},
    {"min_p=0.74", {.1f, .2f, .3f, .4f}, {-1}, {-1, -1, .3 / .7, .4 / .7}, -1},
    {"min_p=0.76", {.1f, .2f, .3f, .4f}, {-1}, {-1, -1, -1, 1}, -1},
    {"min_p=1", {.1f, .2f, .3f, .4f}, {-1}, {-1, -1, -1, 1}, -1},
    {"min_p=1.05", {.1f, .2f, .3f, .4f}, {-1}, {-1, -1, -1, 1}, -1},
    {"xtc_probability=1 xtc_threshold=0.09", {.4f, .3f, .2f, .1f}, {-1}, {-1, -1, -1, 1}, -1},
    {"xtc_probability=1 xtc_threshold=0.19", {.4f, .3f, .2f, .1f}, {-1}, {-1, -1, .2 / .3, .1 / .3}, -1},
    {"xtc_probability=1 xtc_threshold=0.29", {.4f, .3f, .2f, .1f}, {-1}, {-1, .3 / .6, .2 / .6, .1 / .6}, -1},
    {"xtc_probability=1 xtc_threshold=0.39", {.4f, .3f, .2f, .1f}, {-1}, {.4, .3, .2, .1}, -1},
    {"typical_p=0.5", {.97f, .01f, .01f, .01f}, {-1}, {1, -1, -1, -1}, -1},
    {"typical_p=0.5", {.4f, .2f, .2f, .2f}, {-1}, {-1, 1 / 3., 1 / 3., 1 / 3.}, -1},
    {"repeat_penalty=50", {.2f, .2f, .2f, .2f, .2f}, {0, -1}, {0, .25, .25, .25, .25}, -1},
    {"repeat_penalty=50", {.2f, .2f, .2f, .2f, .2f}, {0, 1, 2, -1}, {0, 0, 0, .5, .5}, -1},
    {"repeat_penalty=50", {.2f, .2f, .2f, .2f, .2f}, {0, 1, 2, 0, 0, -1}, {0, 0, 0, .5, .5}, -1},
    {"frequency_penalty=5 presence_penalty=5", {.2f, .2f, .2f, .2f, .2f}, {0, -1},
     {.000011, .249997, .249997, .249997, .249997}, -1},
    {"frequency_penalty=5 presence_penalty=5", {.2f, .2f, .2f, .2f, .2f}, {0, 1, 2, -1},
     {.000023, .000023, .000023, .499966, .499966}, -1},
    {"frequency_penalty=5 presence_penalty=5", {.2f, .2f, .2f, .2f, .2f}, {0, 1, 2, 0, 0, -1},
     {0, .000023, .000023, .499977, .499977}, -1},
    {"dry_multiplier=1 dry_base=1.1 dry_penalty_last_n=4", {.25f, .25f, .25f, .25f}, {0, 1, -1}, {.25, .25, .25, .25}, -1},
    {"dry_multiplier=1 dry_base=1.1 dry_penalty_last_n=5", {.25f, .25f, .25f, .25f}, {0, 1, 2, 0, 1, -1},
     {.296923, .296923, .109232, .296923}, -1},
    {"dry_multiplier=1 dry_base=1.1 dry_penalty_last_n=6", {.2f, .2f, .2f, .2f, .2f}, {0, 1, 3, 4, 0, 1, -1},
     {.2, .2, .2, .2, .2}, 3},
    {"dry_multiplier=2 dry_base=1.1 dry_penalty_last_n=5", {.2f, .2f, .2f, .2f, .2f}, {0, 1, 2, 0, 1, -1},
     {.241818, .241818, .032727, .241818, .241818}, -1},
    {"dry_multiplier=1 dry_base=1.1 dry_allowed_length=4 dry_penalty_last_n=7", {.2f, .2f, .2f, .2f, .2f},
     {0, 1, 2, 3, 4, 0, 1, -1}, {.2, .2, .2, .2, .2}, -1},
    {"top_nsigma=1", {.1f, .2f, .3f, .4f}, {-1}, {0, 0, .428571, .571429}, -1},
    {"top_nsigma=0", {.1f, .2f, .3f, .4f}, {-1}, {.1, .2, .3, .4}, -1},
    {"top_nsigma=3", {.1f, .2f, .3f, .4f}, {-1}, {.1, .2, .3, .4}, -1},
};

static void t_samp_peer_facts(void) {
    for (size_t f = 0; f < sizeof t_samp_facts / sizeof *t_samp_facts; f++) {
        samp_opts     o = t_samp__off();
        samp_breakers b = {0};
        float         l[5];
        int           n = 0, left = 0;
        for (; n < 5 && t_samp_facts[f].p[n] > 0; n++) l[n] = logf(t_samp_facts[f].p[n]);
        t_samp__set(&o, t_samp_facts[f].opts);
        if (t_samp_facts[f].breaker >= 0) samp__breakers_put(&b, t_samp_facts[f].breaker, NULL, 0);
        samp_breakers_seal(&b);
        o.dry_breakers = &b;
        samp *s = t_samp__new(&o, n, 0);
        for (const int32_t *t = t_samp_facts[f].past; *t >= 0; t++) samp_accept(s, *t, true);
        const samp_cand *c;
        int got = samp__probs(s, l, 0, &c);
        for (int i = 0; i < n; i++) left += t_samp_facts[f].want[i] >= 0;
        CHECKF(got == left, "%s (row %zu): %d candidates, want %d", t_samp_facts[f].opts, f, got, left);
        for (int i = 0; i < got; i++)
            CHECKF(fabs((double)c[i].p - t_samp_facts[f].want[c[i].id]) <= 1e-5, "%s (row %zu): token %d has %.7f, want %.7f",
                   t_samp_facts[f].opts, f, c[i].id, (double)c[i].p, t_samp_facts[f].want[c[i].id]);
        samp_free(s);
        samp_breakers_drop(&b);
    }
}

/* Where the mass lands exactly on the target: top-p stops there, typical goes on, as in the field. */
static void t_samp_exact_edges(void) {
    static const struct {
        const char *opts;
        double      share;                            /* of n equal tokens */
        int         more;
    } rows[] = {{"top_p=0.5", .5, 0}, {"top_p=0.25", .25, 0}, {"typical_p=0.5", .5, 1}, {"typical_p=0.25", .25, 1},
                {"min_p=1", 1, 0}, {"top_nsigma=0.1", 1, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int n = 4; n <= 4096; n *= 4) {
            static float l[4096];
            samp_opts    o = t_samp__off();
            const samp_cand *c;
            for (int j = 0; j < n; j++) l[j] = -7.25f;
            t_samp__set(&o, rows[i].opts);
            samp *s = t_samp__new(&o, n, 0);
            int   got = samp__probs(s, l, 0, &c);
            CHECKF(got == (int)(n * rows[i].share) + rows[i].more, "%s of %d: %d candidates", rows[i].opts, n, got);
            for (int j = 0; j < got; j++) EQ_INT(c[j].id, j);
            samp_free(s);
        }
}

/* p(token) is proportional to its id, so that the sizes follow from sums of integers. */
static void t_samp_queues(void) {
    enum { N = 10000 };
    static const struct {
        const char *letters, *opts;
        int         size;                             /* worked out by hand where it is simple, else 0 */
    } runs[] = {
        {"k", "top_k=10000", N}, {"k", "top_k=1", 1}, {"p", "top_p=1", N}, {"p", "top_p=0", 1},
        {"m", "min_p=1", 1}, {"m", "min_p=1e-12", N - 1}, {"k", "top_k=100", 100}, {"p", "top_p=0.0003", 2},
        {"p", "top_p=0.8", 0}, {"m", "min_p=0.99988999", 2}, {"m", "min_p=0.1", 9000},
        {"kp", "top_k=100 top_p=0.8", 80}, {"km", "top_k=100 min_p=0.1", 100}, {"pk", "top_k=100 top_p=0.8", 100},
        {"pm", "top_p=0.8 min_p=0.1", 0}, {"mk", "top_k=100 min_p=0.1", 100}, {"mp", "top_p=0.8 min_p=0.99988999", 2},
        {"mp", "top_p=0.8 min_p=0.1", 0}, {"kpm", "top_k=100 top_p=0.8 min_p=0.1", 80},
        {"kmp", "top_k=100 top_p=0.8 min_p=0.1", 80},
        {"pkm", "top_k=100 top_p=0.8 min_p=0.1", 100}, {"pmk", "top_k=100 top_p=0.8 min_p=0.1", 100},
        {"mkp", "top_k=100 top_p=0.8 min_p=0.1", 80}, {"mpk", "top_k=100 top_p=0.8 min_p=0.1", 100},
    };
    float *l = mem_new(N, sizeof *l), *work = mem_new(N, sizeof *l);
    for (int i = 0; i < N; i++) l[i] = logf((float)i);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        samp_opts o = t_samp__off();
        char      what[160];
        t_samp__set(&o, runs[i].opts);
        o.sampling_seq = runs[i].letters;
        snprintf(what, sizeof what, "%s %s", runs[i].letters, runs[i].opts);
        samp *s = t_samp__new(&o, N, 0);
        t_ref r = t_samp__ref_new(l, N);
        t_samp__ref_run(&r, &o, runs[i].letters, &(t_samp_case){0}, 0);
        memcpy(work, l, N * sizeof *l);
        const samp_cand *c;
        int n = samp__probs(s, work, 0, &c);
        t_samp__same(&r, c, n, 1e-5, what);
        if (runs[i].size) EQ_INT(n, runs[i].size);
        EQ_INT(c[0].id, N - 1);
        EQ_INT(c[n - 1].id, N - n);
        samp_free(s);
        mem_free(r.c);
    }
    mem_free(l);
    mem_free(work);
}

/* --- random logits --- */

static double t_samp__unit(uint64_t *state) { return rng_unit(rng_at(77, 0, 0, (*state)++)); }
static int    t_samp__below(uint64_t *state, int n) { return (int)(t_samp__unit(state) * n); }
static double t_samp__normal(uint64_t *state) {
    double u = t_samp__unit(state), v = t_samp__unit(state);
    return sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v);
}

/* family 0 normal, 1 with many ties, 2 a few peaks above a floor, 3 with -inf, 4 flat, 5 spread over hundreds, 6 all equal */
static void t_samp__logits(float *l, int n, int family, uint64_t *state) {
    double scale = 0.5 + 4 * t_samp__unit(state), base = 10 * t_samp__normal(state);
    for (int i = 0; i < n; i++) {
        double x = t_samp__normal(state) * scale + base;
        if (family == 1) x = floor(x);
        if (family == 2 && t_samp__unit(state) < 0.01) x += 12;
        if (family == 3 && t_samp__unit(state) < 0.3) x = -INFINITY;
        if (family == 4) x = 0.1 * t_samp__unit(state);
        if (family == 5) x *= 60;
        if (family == 6) x = 3;
        l[i] = (float)x;
    }
    if (family == 3) l[t_samp__below(state, n)] = 1;  /* at least one is possible */
}

/* Random values for the samplers in `letters`. */
static void t_samp__random_opts(samp_opts *o, const char *letters, int n, uint64_t *state) {
    double u = t_samp__unit(state);
    for (; *letters; letters++) switch (*letters) {
        case 'e':
            o->repeat_penalty = (float)(0.7 + 1.3 * t_samp__unit(state));
            o->frequency_penalty = (float)(t_samp__unit(state) - 0.3);
            o->presence_penalty = (float)(t_samp__unit(state) - 0.3);
            o->repeat_last_n = 1 + t_samp__below(state, 100);
            break;
        case 'd':
            o->dry_multiplier = (float)t_samp__unit(state) + 0.1f;
            o->dry_base = (float)(1 + t_samp__unit(state));
            o->dry_allowed_length = t_samp__below(state, 4);
            o->dry_penalty_last_n = 1 + t_samp__below(state, 100);
            break;
        case 's': o->top_nsigma = (float)(0.3 + 3 * u); break;
        case 'k': o->top_k = 1 + t_samp__below(state, u < 0.5 ? n : n < 60 ? n : 60); break;
        case 'y': o->typical_p = (float)(0.02 + 0.96 * t_samp__unit(state)); break;
        case 'p': o->top_p = (float)(u < 0.3 ? 0.999 * t_samp__unit(state) : 0.5 + 0.499 * t_samp__unit(state)); break;
        case 'm': o->min_p = (float)pow(10, -4 * t_samp__unit(state)); break;
        case 'x':
            o->xtc_probability = (float)(0.3 + 0.7 * t_samp__unit(state));
            o->xtc_threshold = (float)(0.5 * t_samp__unit(state) * u);
            break;
        case 't':
            o->temp = (float)(0.2 + 2 * t_samp__unit(state));
            o->dynatemp_range = t_samp__unit(state) < 0.4 ? (float)(1.5 * t_samp__unit(state)) : 0;
            o->dynatemp_exp = (float)(0.5 + t_samp__unit(state));
            break;
        }
}

typedef struct {
    samp_opts     o;
    samp_breakers b;
    int32_t       past[200], breaker[3];
    int           n_past, n_breaker, n;
    char          letters[T_SAMP_KINDS + 4];
    float        *l;
    char          what[200];
} t_samp_draw;

static void t_samp__draw_case(t_samp_draw *d, int round, uint64_t *state) {
    static const int   sizes[] = {1, 2, 5, 63, 64, 65, 300, 1000, 4000};
    static const char  all[] = T_SAMP_ORDER;
    int family = round % 7;
    memset(d, 0, sizeof *d);
    d->n = sizes[t_samp__below(state, 9)];
    d->l = mem_new((size_t)d->n, sizeof *d->l);
    t_samp__logits(d->l, d->n, family, state);
    const int some = round % 3 == 0 ? 1 : round % 3 == 1 ? 0 : 2 + t_samp__below(state, 3);
    if (!some) strcpy(d->letters, all);                                       /* all in the default order, or some in any */
    for (int i = 0; i < some; i++) d->letters[i] = all[t_samp__below(state, T_SAMP_KINDS)];
    d->o = t_samp__off();
    t_samp__random_opts(&d->o, d->letters, d->n, state);
    d->o.sampling_seq = d->letters;
    d->n_past = t_samp__below(state, 200);
    int kinds = 2 + t_samp__below(state, d->n < 8 ? d->n : 8);               /* few kinds of token: many repetitions */
    for (int i = 0; i < d->n_past; i++) d->past[i] = t_samp__below(state, kinds < d->n ? kinds : d->n);
    d->n_breaker = t_samp__below(state, 3);
    for (int i = 0; i < d->n_breaker; i++) samp__breakers_put(&d->b, d->breaker[i] = t_samp__below(state, d->n), NULL, 0);
    samp_breakers_seal(&d->b);
    d->o.dry_breakers = &d->b;
    snprintf(d->what, sizeof d->what, "round %d, chain %s, n %d, family %d", round, d->letters, d->n, family);
}

static void t_samp__drop_case(t_samp_draw *d) {
    mem_free(d->l);
    samp_breakers_drop(&d->b);
}

static void t_samp_against_reference(void) {
    uint64_t state = 1;
    int      skipped = 0, rounds = 3000;
    for (int round = 0; round < rounds && t_failed < 5; round++) {
        t_samp_draw d;
        t_samp__draw_case(&d, round, &state);
        t_samp_case c = {d.past, d.breaker, d.n_past, d.n_breaker, (uint64_t)round, 9};
        t_ref       r = t_samp__ref_new(d.l, d.n);
        t_samp__ref_run(&r, &d.o, d.letters, &c, 0);
        samp *s = t_samp__new(&d.o, d.n, (uint64_t)round);
        for (int i = 0; i < d.n_past; i++) samp_accept(s, d.past[i], i & 1);
        const samp_cand *got;
        mem_freeze("a pick");
        int n = samp__probs(s, d.l, 9, &got);
        mem_thaw();
        if (r.edge < 1e-5) skipped++;                 /* float and double may rightly differ there */
        else t_samp__same(&r, got, n, 1e-5, d.what);
        samp_free(s);
        mem_free(r.c);
        t_samp__drop_case(&d);
    }
    CHECKF(skipped < rounds / 4, "%d of %d rounds too near an edge", skipped, rounds);
}

/* Sorting outright, through buckets, or at the usual border between them: the same candidates, the same bits, the same
 * tokens; and the pick is the inverse of the distribution that samp__probs shows. */
static void t_samp_sort_or_buckets(void) {
    uint64_t state = 5000000;
    for (int round = 0; round < 1500 && t_failed < 5; round++) {
        t_samp_draw d;
        t_samp__draw_case(&d, round, &state);
        float  *work = mem_new((size_t)d.n, sizeof *work);
        samp   *s = t_samp__new(&d.o, d.n, 4);
        const samp_cand *c;
        samp_cand *first = mem_new((size_t)d.n, sizeof *first);
        int        n_first = 0;
        int32_t    token[5] = {0};
        for (int i = 0; i < d.n_past; i++) samp_accept(s, d.past[i], true);
        for (int way = 0; way < 3; way++) {
            s->few = way == 0 ? INT32_MAX : way == 1 ? -1 : SAMP_FEW;
            memcpy(work, d.l, (size_t)d.n * sizeof *work);
            mem_freeze("a pick");
            int n = samp__probs(s, work, 3, &c);
            mem_thaw();
            if (!way) memcpy(first, c, (size_t)(n_first = n) * sizeof *c);
            CHECKF(n == n_first, "%s: way %d gives %d candidates, not %d", d.what, way, n, n_first);
            EQ_MEM(c, first, (size_t)n_first * sizeof *c);
            for (int pos = 0; pos < 5; pos++) {
                memcpy(work, d.l, (size_t)d.n * sizeof *work);
                mem_freeze("a pick");
                int32_t got = samp_pick(s, work, (uint64_t)(pos + 3));
                mem_thaw();
                if (!way) token[pos] = got;
                CHECKF(got == token[pos], "%s: way %d picks %d, not %d", d.what, way, got, token[pos]);
            }
        }
        double u = rng_unit(rng_at(4, 0, 3, 0)), sum = 0;
        int    i = 0;
        while (i + 1 < n_first && (sum += (double)first[i].p) <= u) i++;
        bool near_edge = fabs(sum - u) < 1e-5 || fabs(sum - (double)first[i].p - u) < 1e-5;
        CHECKF(near_edge || first[i].id == token[0], "%s: u %.6f picks %d, want %d", d.what, u, token[0], first[i].id);
        samp_free(s);
        mem_free(work);
        mem_free(first);
        t_samp__drop_case(&d);
    }
}

/* --- options --- */

static void t_samp_defaults_are_the_fields(void) {
    static const struct {
        const char *name;
        double      want;
    } rows[] = {                                      /* common_params_sampling of llama.cpp */
        {"temp", .8}, {"dynatemp_range", 0}, {"dynatemp_exp", 1}, {"top_k", 40}, {"top_p", .95}, {"min_p", .05},
        {"typical_p", 1}, {"top_nsigma", 0}, {"xtc_probability", 0}, {"xtc_threshold", .1}, {"repeat_last_n", 64},
        {"repeat_penalty", 1}, {"frequency_penalty", 0}, {"presence_penalty", 0}, {"dry_multiplier", 0}, {"dry_base", 1.75},
        {"dry_allowed_length", 2}, {"dry_penalty_last_n", 64}, {"mirostat", 0}, {"mirostat_ent", 5}, {"mirostat_lr", .1},
    };
    EQ_INT((int)(sizeof rows / sizeof *rows), SAMP_PARAMS);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int j = 0; j < SAMP_PARAMS; j++) {
            const void *at = (const char *)&samp_defaults + samp_params[j].at;
            if (strcmp(rows[i].name, samp_params[j].name)) continue;
            double x = samp_params[j].whole ? (double)*(const int *)at : (double)*(const float *)at;
            CHECKF(fabs(x - rows[i].want) < 1e-6, "%s is %g, want %g", rows[i].name, x, rows[i].want);
        }
    err_t   e = {0};
    uint8_t chain[SAMP_CHAIN_MAX];
    int     n;
    CHECK(samp_check(&samp_defaults, 1, &e));
    CHECK(samp__chain(&samp_defaults, chain, &n, &e));
    EQ_INT(n, SAMP_N_KINDS);
    for (int i = 0; i < n; i++) EQ_INT(samp_table[chain[i]].letter, T_SAMP_ORDER[i]);
    samp *s = t_samp__new(&samp_defaults, 10, 0);     /* what the defaults leave on */
    EQ_INT(s->n_chain, 4);
    for (int i = 0; i < s->n_chain; i++) EQ_INT(samp_table[s->chain[i]].letter, "kpmt"[i]);
    samp_free(s);
}

static void t_samp_chain_strings(void) {
    static const struct {
        const char *names, *letters;                  /* letters NULL: an error */
    } rows[] = {
        {"penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature", T_SAMP_ORDER},
        {"", ""}, {"top_k", "k"}, {"top-k", "k"}, {"topk", "k"}, {"Top_K", "k"}, {"top_k;", "k"},
        {"typ_p", "y"}, {"typ-p", "y"}, {"typp", "y"}, {"typ", "y"}, {"typical", "y"}, {"typical_p", "y"}, {"typical-p", "y"},
        {"top_p", "p"}, {"top-p", "p"}, {"topp", "p"}, {"nucleus", "p"}, {"min_p", "m"}, {"min-p", "m"}, {"minp", "m"},
        {"temp", "t"}, {"temperature", "t"}, {"top_n_sigma", "s"}, {"top-n-sigma", "s"}, {"topnsigma", "s"}, {"top-nsigma", "s"},
        {"xtc", "x"}, {"dry", "d"}, {"penalties", "e"}, {"temperature;top_k;top_k", "tkk"},
        {"top_q", NULL}, {"top", NULL}, {"top_kk", NULL}, {";top_k", NULL}, {"top_k,top_p", NULL}, {"typica", NULL},
        {"infill", NULL}, {" ", NULL},
    };
    uint8_t chain[SAMP_CHAIN_MAX];
    int     n;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        err_t     e = {0};
        samp_opts o = samp_defaults;
        char      got[SAMP_CHAIN_MAX + 1] = {0};
        o.samplers = rows[i].names;
        bool ok = samp__chain(&o, chain, &n, &e);
        CHECKF(ok == (rows[i].letters != NULL), "'%s' is %s", rows[i].names, ok ? "accepted" : e.text);
        if (!ok) EQ_INT(e.code, EXIT_INPUT);
        if (!ok || !rows[i].letters) continue;
        for (int j = 0; j < n; j++) got[j] = samp_table[chain[j]].letter;
        EQ_STR(got, rows[i].letters);
        o.sampling_seq = rows[i].letters;             /* the letters spell the same */
        uint8_t again[SAMP_CHAIN_MAX];
        int     n_again;
        CHECK(samp__chain(&o, again, &n_again, &e));
        EQ_INT(n_again, n);
        EQ_MEM(again, chain, (size_t)n);
    }
    samp_opts o = samp_defaults;
    err_t     e = {0};
    o.sampling_seq = "kz";
    CHECK(!samp_check(&o, 10, &e));
    CHECK(strstr(e.text, "'z'") != NULL);
    o.sampling_seq = "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk";   /* 33 */
    e = (err_t){0};
    CHECK(!samp_check(&o, 10, &e));
}

static void t_samp_ranges_hold(void) {
    for (int i = 0; i < SAMP_PARAMS; i++) {
        const samp_param *r = &samp_params[i];
        double bad[] = {r->lo - 1, r->hi + 1, (double)NAN, (double)INFINITY};
        double good[] = {r->lo, r->hi};
        for (int b = 0; b < 6; b++) {
            samp_opts o = samp_defaults;
            err_t     e = {0};
            double    x = b < 4 ? bad[b] : good[b - 4];
            void     *at = (char *)&o + r->at;
            o.n_ctx = 100;
            if (r->whole && (!isfinite(x) || x > INT32_MAX || x < INT32_MIN)) continue;
            if (r->whole) *(int *)at = (int)x;
            else *(float *)at = (float)x;
            bool ok = samp_check(&o, 10, &e);
            CHECKF(ok == (b >= 4), "%s = %g is %s", r->name, x, ok ? "accepted" : e.text);
            if (!ok) CHECKF(strstr(e.text, r->name) && strstr(e.text, "expected") && e.code == EXIT_INPUT, "%s", e.text);
        }
    }
    static const samp_bias rows[] = {{-1, 0}, {10, 0}, {3, NAN}};
    for (int i = 0; i < 3; i++) {
        samp_opts o = samp_defaults;
        err_t     e = {0};
        o.bias = &rows[i];
        o.n_bias = 1;
        CHECK(samp_new(&o, 10, 0, 0, &e) == NULL);
        CHECK(strstr(e.text, "logit_bias") != NULL);
    }
    samp_opts o = samp_defaults;
    err_t     e = {0};
    o.repeat_last_n = -1;
    CHECK(!samp_check(&o, 10, &e));
    o.n_ctx = 7;
    o.repeat_penalty = 2;
    samp *s = t_samp__new(&o, 10, 0);
    EQ_INT(s->n_past, 7);
    samp_free(s);
}

/* --- corners --- */

/* One pick from n logits with these options. */
static int32_t t_samp__one(const samp_opts *o, const float *l, int n, uint64_t seed) {
    float *work = mem_new((size_t)n, sizeof *work);
    memcpy(work, l, (size_t)n * sizeof *work);
    samp   *s = t_samp__new(o, n, seed);
    int32_t got = samp_pick(s, work, 0);
    samp_free(s);
    mem_free(work);
    return got;
}

static void t_samp_greedy(void) {
    float l[200];
    for (int i = 0; i < 200; i++) l[i] = (float)(i % 7);
    samp_opts o = samp_defaults;
    o.temp = 0;
    EQ_INT(t_samp__one(&o, l, 200, 1), 6);            /* ties: the lowest id */
    l[150] = 9;
    l[199] = 9;
    EQ_INT(t_samp__one(&o, l, 200, 1), 150);
    o.temp = -1;
    EQ_INT(t_samp__one(&o, l, 200, 2), 150);
    samp *s = t_samp__new(&o, 200, 0);                /* nothing is left to do before the end */
    EQ_INT(s->n_chain, 0);
    CHECK(s->greedy);
    samp_free(s);
    o.temp = 1e-40f;                                  /* dividing by it would overflow */
    EQ_INT(t_samp__one(&o, l, 200, 3), 150);

    samp_bias bias[] = {{7, 1}, {7, 2.5f}, {150, -INFINITY}, {199, -4}};      /* bias and penalties come before greedy */
    o = samp_defaults;
    o.temp = 0;
    o.bias = bias;
    o.n_bias = 4;
    EQ_INT(t_samp__one(&o, l, 200, 1), 6);
    bias[1].bias = 20;
    EQ_INT(t_samp__one(&o, l, 200, 1), 7);
    o = samp_defaults;
    o.temp = 0;
    o.presence_penalty = 8;
    s = t_samp__new(&o, 200, 0);
    samp_accept(s, 150, true);
    samp_accept(s, 199, false);
    float work[200];
    memcpy(work, l, sizeof l);
    EQ_INT(samp_pick(s, work, 0), 6);
    samp_free(s);
    o = t_samp__off();                                /* the best has been excluded before temperature takes the best */
    t_samp__set(&o, "temp=0 xtc_probability=1 xtc_threshold=0.1");
    float few[4] = {5, 4.9f, 4.8f, -3};
    EQ_INT(t_samp__one(&o, few, 4, 1), 2);
    o.sampling_seq = "x";                             /* no temperature in the chain: not greedy */
    s = t_samp__new(&o, 4, 1);
    CHECK(!s->greedy);
    samp_free(s);
}

static void t_samp_takes_best(void) {
    static const struct { const char *opts; bool takes; } rows[] = {
        {"temp=0", true}, {"temp=-1", true}, {"temp=0 top_k=5 top_p=0.5 min_p=0.1 top_nsigma=1", true},
        {"temp=0 mirostat=1", true}, {"temp=0 mirostat=2", true},
        {"temp=0 repeat_penalty=1.5 repeat_last_n=0", true}, {"temp=0 presence_penalty=3 samplers=temperature;penalties", true},
        {"temp=0 dry_multiplier=5 samplers=top_k;temperature", true}, {"temp=0.5", false}, {"temp=1e-30", false},
        {"temp=0 dynatemp_range=1", false},
        {"temp=0 repeat_penalty=1.5", false}, {"temp=0 frequency_penalty=1", false}, {"temp=0 presence_penalty=1", false},
        {"temp=0 dry_multiplier=1", false},
        {"temp=0 xtc_probability=1 xtc_threshold=0.1", false}, {"temp=0 typical_p=0.9", false},
        {"temp=0 top_k=1 samplers=top_k", false}, {"temp=0 seq=k", false}};
    enum { N = 150 };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        samp_opts o = samp_defaults;
        samp_bias bias = {3, 1};
        t_samp__set(&o, rows[r].opts);
        samp *s = t_samp__new(&o, N, 1);
        CHECKF(samp_takes_best(s) == rows[r].takes, "%s: %d", rows[r].opts, samp_takes_best(s));
        for (int at = 0; rows[r].takes && at < 40; at++) {
            float l[N];
            int   best = 0;
            for (int i = 0; i < N; i++) {
                l[i] = (float)(rng_at(5, r, (uint64_t)at, (uint64_t)i) % 9) - 4;   /* ties, of zeros of both signs too */
                if (l[i] == 0 && i % 2) l[i] = -0.0f;
                if (at % 3 == 0 && l[i] > 0) l[i] = 0;
                if (l[i] > l[best]) best = i;
            }
            EQ_INT(samp_pick(s, l, (uint64_t)at), best);
            samp_accept(s, best, false);
        }
        samp_free(s);
        o.bias = &bias, o.n_bias = 1;
        s = t_samp__new(&o, N, 1);
        CHECKF(!samp_takes_best(s), "%s and a bias", rows[r].opts);
        samp_free(s);
    }
}

static void t_samp_odd_logits(void) {
    static const char *chains[] = {
        "temp=0.8", "temp=0", "top_k=3 temp=0.8", "top_p=0.9", "min_p=0.1", "typical_p=0.5", "top_nsigma=1",
        "xtc_probability=1 xtc_threshold=0.05",
        "temp=1 dynatemp_range=0.5", "mirostat=1", "mirostat=2", "top_k=40 top_p=0.95 min_p=0.05 temp=0.8 repeat_penalty=1.1",
        "dry_multiplier=1 dry_allowed_length=0",
        "repeat_penalty=0.5 typical_p=0.9 top_nsigma=2 xtc_probability=1 xtc_threshold=0",
    };
    enum { N = 700 };
    static float l[N], work[N];
    for (size_t c = 0; c < sizeof chains / sizeof *chains; c++)
        for (int sort = 0; sort < 2; sort++) {
            samp_opts o = t_samp__off();
            t_samp__set(&o, chains[c]);
            samp *s = t_samp__new(&o, N, c);
            const samp_cand *k;
            s->few = sort ? INT32_MAX : -1;
            for (int i = 0; i < 20; i++) samp_accept(s, 200 + i % 3, true);
            for (int i = 0; i < N; i++) l[i] = NAN;   /* nothing at all */
            memcpy(work, l, sizeof l);
            EQ_INT(samp_pick(s, work, 0), -1);
            memcpy(work, l, sizeof l);
            EQ_INT(samp__probs(s, work, 0, &k), 0);
            for (int i = 0; i < N; i++) l[i] = -INFINITY;
            memcpy(work, l, sizeof l);
            EQ_INT(samp_pick(s, work, 0), -1);
            l[137] = -1e30f;                          /* one possible token, whatever surrounds it */
            for (int i = 0; i < N; i += 3) l[i] = NAN;
            memcpy(work, l, sizeof l);
            EQ_INT(samp_pick(s, work, 0), 137);
            for (int i = 0; i < N; i++) l[i] = (float)(i % 10);
            l[0] = NAN;                               /* a NaN never wins, +inf always does */
            l[333] = INFINITY;
            memcpy(work, l, sizeof l);
            EQ_INT(samp_pick(s, work, 0), 333);
            l[400] = INFINITY;
            for (uint64_t pos = 0; pos < 50; pos++) {
                memcpy(work, l, sizeof l);
                int32_t got = samp_pick(s, work, pos);
                CHECKF(got == 333 || got == 400, "%s picks %d", chains[c], got);
            }
            for (int i = 0; i < N; i++) l[i] = i % 2 ? 3e38f : -3e38f;
            memcpy(work, l, sizeof l);
            int32_t got = samp_pick(s, work, 1);
            CHECKF(got >= 0 && got < N && (got % 2 || l[got] > 0), "%s picks %d of 3e38", chains[c], got);
            samp_free(s);
        }
    samp_opts o = samp_defaults;                      /* infinite bias both ways, and what cancels out */
    samp_bias b[] = {{5, INFINITY}, {6, -INFINITY}, {7, INFINITY}, {7, -INFINITY}};
    for (int i = 0; i < N; i++) l[i] = 0;
    o.bias = b;
    o.n_bias = 4;
    for (uint64_t seed = 0; seed < 20; seed++) EQ_INT(t_samp__one(&o, l, N, seed), 5);
    EQ_INT(t_samp__one(&samp_defaults, l, 1, 0), 0);  /* a vocabulary of one */
}

/* The weight function: accuracy, monotone ends, and sums that are exact in any order. */
static void t_samp_weights(void) {
    double worst = 0;
    EQ_INT(samp__weight(0) == 1.0f, 1);
    EQ_INT(samp__weight(-INFINITY) == 0, 1);
    EQ_INT(samp__weight(NAN) == 0, 1);
    EQ_INT(samp__weight(-SAMP_REACH) == 0, 1);
    for (int i = 0; i < 400000; i++) {
        float  x = -(float)i * 6.25e-5f, w = samp__weight(x);
        double d = fabs((double)w - exp((double)x));
        worst = fmax(worst, d / fmax(exp((double)x), 0x1p-11));
        CHECK((double)w * 0x1p34 == floor((double)w * 0x1p34));
    }
    CHECKF(worst < 1.5e-7, "relative error %.3g", worst);
    CHECKF(worst > 1e-9, "an error of %.3g is too good for a float", worst);
    uint64_t state = 3;
    for (int i = 0; i < 1000; i++) {                  /* keys order as floats do, and keep their value */
        float a = (float)t_samp__normal(&state), b = i % 5 ? (float)t_samp__normal(&state) : a;
        EQ_INT(samp__key(a, 1) < samp__key(b, 2), a >= b);
        CHECK(samp__key_value(samp__key(a, 9)) == a);
    }
    CHECK(samp__key(0.0f, 1) < samp__key(-0.0f, 2));
    CHECK(samp__key(INFINITY, 1) < samp__key(3e38f, 0) && samp__key(-3e38f, 1) < samp__key(-INFINITY, 0));
}

static int t_samp__by_key(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void t_samp_sorting(void) {
    uint64_t state = 8;
    for (int round = 0; round < 300; round++) {
        int       n = 1 + t_samp__below(&state, 900), k = 1 + t_samp__below(&state, n);
        uint64_t *a = mem_new((size_t)n, sizeof *a), *b = mem_new((size_t)n, sizeof *a), *c = mem_new((size_t)n, sizeof *a);
        for (int i = 0; i < n; i++)                   /* random, ascending, descending, organ pipes, few values */
            a[i] = (uint64_t[]){rng_at(1, 2, 3, state + (uint64_t)i), (uint64_t)i, (uint64_t)(n - i),
                                (uint64_t)(i < n / 2 ? i : n - i), (uint64_t)(i % 3)}[round % 5];
        memcpy(b, a, (size_t)n * sizeof *a);
        memcpy(c, a, (size_t)n * sizeof *a);
        qsort(a, (size_t)n, sizeof *a, t_samp__by_key);
        samp__sort(b, n);
        EQ_MEM(b, a, (size_t)n * sizeof *a);
        samp__select(c, n, k);
        EQ_INT(c[k - 1], a[k - 1]);
        samp__sort(c, k);
        EQ_MEM(c, a, (size_t)k * sizeof *a);
        mem_free(a);
        mem_free(b);
        mem_free(c);
    }
}

/* --- DRY breakers of several tokens, and from text --- */

static bytes t_samp__word(void *ctx, int32_t id) { return bytes_of(((const char **)ctx)[id]); }
static int32_t t_samp__spell(void *ctx, bytes text, int32_t *out, int32_t cap) {     /* words of one letter */
    int32_t n = 0;
    for (size_t i = 0; i < text.n && n < cap; i++)
        for (int32_t id = 0; id < 8; id++)
            if (((const char **)ctx)[id][0] == text.p[i] && !((const char **)ctx)[id][1]) out[n++] = id;
    return n;
}

static void t_samp_breakers(void) {
    static const char *words[8] = {"a", "b", "c", "xab", "ab", "bab", "cabc", "q"};
    samp_words    w = {8, words, t_samp__word, t_samp__spell};
    samp_breakers b = {0};
    samp_breakers_text(&b, bytes_of("abc"), &w);
    samp_breakers_text(&b, bytes_of(""), &w);
    samp_breakers_seal(&b);
    /* a | bc, xab | c, ab | c, bab | c, cabc whole; "a" inside "bab" does not reach its end as a beginning of abc */
    static const struct {
        int32_t head, n_tail, tail[2];
    } want[] = {{0, 2, {1, 2}}, {3, 1, {2}}, {4, 1, {2}}, {5, 1, {2}}, {6, 0, {0}}};
    EQ_INT(b.n, 5);
    for (size_t i = 0; i < b.n && i < 5; i++) {
        EQ_INT(b.at[i].head, want[i].head);
        EQ_INT(b.at[i].n_tail, want[i].n_tail);
        EQ_MEM(b.token + b.at[i].tail, want[i].tail, (size_t)want[i].n_tail * sizeof(int32_t));
    }
    static const struct {
        int32_t past[10];                             /* ends at -1 */
        bool    held;                                 /* a breaker keeps the repetition short of the allowed length */
    } rows[] = {
        {{7, 1, 2, 1, 7, 1, 2, -1}, false},           /* q b c b q b c: b would repeat, no breaker */
        {{0, 1, 2, 7, 0, 1, 2, -1}, true},            /* a b c: whole sequences reset the count */
        {{7, 4, 2, 1, 7, 4, 2, -1}, true},            /* ab c */
        {{7, 4, 1, 1, 7, 4, 1, -1}, false},           /* ab b is none */
        {{7, 1, 6, 1, 7, 1, 6, -1}, true},            /* cabc alone */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        samp_opts o = t_samp__off();
        t_samp__set(&o, "dry_multiplier=1 dry_allowed_length=2");
        o.dry_breakers = &b;
        samp *s = t_samp__new(&o, 8, 0);
        for (const int32_t *t = rows[i].past; *t >= 0; t++) samp_accept(s, *t, true);
        float l[8] = {0};
        const samp_cand *c;
        EQ_INT(samp__probs(s, l, 0, &c), 8);
        CHECKF((c[7].p > 0.124f) == rows[i].held, "row %zu: the least likely token has %.4f", i, (double)c[7].p);
        samp_free(s);
    }
    samp_breakers_drop(&b);
}

/* --- draws --- */

/* Upper tail of chi-square with df degrees of freedom: the regularised incomplete gamma function, by its continued
 * fraction or its series (Numerical Recipes 6.2). */
static double t_samp__chi2_p(double x, int df) {
    double a = df / 2.0, y = x / 2, front = exp(a * log(y) - y - lgamma(a));
    if (x <= 0) return 1;
    if (y < a + 1) {
        double term = 1 / a, sum = term;
        for (int i = 1; i < 10000 && term > sum * 1e-15; i++) sum += term *= y / (a + i);
        return 1 - front * sum;
    }
    double b = y + 1 - a, c = 1e300, d = 1 / b, h = d;
    for (int i = 1; i < 10000; i++) {
        double an = -i * (i - a), delta;
        b += 2;
        d = 1 / (an * d + b);
        c = b + an / c;
        h *= delta = d * c;
        if (fabs(delta - 1) < 1e-14) break;
    }
    return front * h;
}

/* p of `draws` picks against the reference's distribution for `expect`; cells below 5 are pooled. */
static double t_samp__chi2(const samp_opts *pick, const samp_opts *expect, const float *l, int n, int draws, uint64_t seed) {
    t_ref r = t_samp__ref_new(l, n);
    t_samp__ref_run(&r, expect, T_SAMP_ORDER, &(t_samp_case){0}, 0);
    int   *seen = mem_new((size_t)n, sizeof *seen);
    float *work = mem_new((size_t)n, sizeof *work);
    samp  *s = t_samp__new(pick, n, seed);
    for (int i = 0; i < draws; i++) {
        memcpy(work, l, (size_t)n * sizeof *l);
        seen[samp_pick(s, work, (uint64_t)i)]++;
    }
    double x = 0, rest = 0;
    int    rest_seen = draws, cells = 0;
    for (int i = 0; i < r.n; i++) {
        double want = r.c[i].p * draws;
        if (want < 5) {
            rest += want;
            continue;
        }
        x += (seen[r.c[i].id] - want) * (seen[r.c[i].id] - want) / want;
        rest_seen -= seen[r.c[i].id];
        cells++;
    }
    if (rest >= 5) x += (rest_seen - rest) * (rest_seen - rest) / rest, cells++;
    else if (rest < 1e-9 && rest_seen) x = INFINITY;  /* a token that cannot be */
    samp_free(s);
    mem_free(seen);
    mem_free(work);
    mem_free(r.c);
    return cells > 1 ? t_samp__chi2_p(x, cells - 1) : 1;
}

static void t_samp_draws_follow(void) {
    NEAR(t_samp__chi2_p(3.841458820694124, 1), 0.05, 1e-9);
    NEAR(t_samp__chi2_p(124.3421134, 100), 0.05, 1e-7);
    NEAR(t_samp__chi2_p(2.0, 4), 0.7357588823428847, 1e-12);
    static const char *rows[] = {"", "temp=0.8 top_k=20", "top_k=40 top_p=0.95 min_p=0.05 temp=0.8", "temp=1.3",
                                 "typical_p=0.7", "top_p=0.9 temp=2"};
    static const int   sizes[] = {30, SAMP_FEW + 90};
    uint64_t state = 42;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int k = 0; k < 2; k++) {
            samp_opts o = t_samp__off();
            float     l[SAMP_FEW + 90];
            t_samp__set(&o, rows[i]);
            for (int j = 0; j < sizes[k]; j++) l[j] = (float)(1.5 * t_samp__normal(&state));
            double p = t_samp__chi2(&o, &o, l, sizes[k], 20000, 1000 + i);
            CHECKF(p >= 1e-4, "'%s', %d tokens: p = %.3g", rows[i], sizes[k], p);
            samp_opts wrong = o;                      /* negative control: a little too hot */
            wrong.temp *= 1.3f;
            p = t_samp__chi2(&wrong, &o, l, sizes[k], 8000, 1000 + i);
            CHECKF(p < 1e-4, "'%s', %d tokens: wrong temperature passes with p = %.3g", rows[i], sizes[k], p);
        }
    samp_opts o = t_samp__off();                      /* xtc acts as often as it is told to */
    float     l[4], p[4] = {.4f, .3f, .2f, .1f};
    int       acted = 0;
    t_samp__set(&o, "xtc_probability=0.3 xtc_threshold=0.25");
    samp *s = t_samp__new(&o, 4, 5);
    for (int i = 0; i < 20000; i++) {
        const samp_cand *c;
        for (int j = 0; j < 4; j++) l[j] = logf(p[j]);
        acted += samp__probs(s, l, (uint64_t)i, &c) == 3;
    }
    NEAR(acted / 20000., 0.3, 4 * sqrt(.3 * .7 / 20000));
    samp_free(s);
}

/* A pick depends on (options, history, seed, sequence, position) alone. */
static void t_samp_keyed_draws(void) {
    enum { N = 500, POS = 400 };
    float    l[N], work[N];
    uint64_t state = 9;
    err_t    e = {0};
    t_samp__logits(l, N, 4, &state);
    samp_opts o = samp_defaults;
    samp *a = samp_new(&o, N, 1, 0, &e), *b = samp_new(&o, N, 1, 0, &e), *other_seed = samp_new(&o, N, 2, 0, &e),
         *other_seq = samp_new(&o, N, 1, 1, &e);
    int   same_seed = 0, same_seq = 0, same_next = 0;
    int32_t first[POS];
    for (int i = 0; i < POS; i++) first[i] = (memcpy(work, l, sizeof l), samp_pick(a, work, (uint64_t)i));
    for (int i = POS - 1; i >= 0; i--) {              /* the other way round, and with other picks between */
        EQ_INT((memcpy(work, l, sizeof l), samp_pick(b, work, (uint64_t)i)), first[i]);
        same_seed += (memcpy(work, l, sizeof l), samp_pick(other_seed, work, (uint64_t)i)) == first[i];
        same_seq += (memcpy(work, l, sizeof l), samp_pick(other_seq, work, (uint64_t)i)) == first[i];
        same_next += i && first[i] == first[i - 1];
    }
    /* 40 tokens, nearly flat: chance agreement 1/40 of 400 is 10, its deviation 3 */
    CHECKF(same_seed < 30 && same_seq < 30 && same_next < 30, "agreement: seed %d, seq %d, next %d", same_seed, same_seq,
           same_next);
    samp_free(a);
    samp_free(b);
    samp_free(other_seed);
    samp_free(other_seq);
}

/* A copy continues like the original, and going back undoes the tokens accepted since. */
static void t_samp_copy_and_rollback(void) {
    enum { N = 60 };
    static const char *rows[] = {"repeat_penalty=1.5 frequency_penalty=0.7 repeat_last_n=9",
                                 "dry_multiplier=2 dry_penalty_last_n=30 dry_allowed_length=1", "mirostat=2 mirostat_ent=2"};
    float    l[N], work[N];
    uint64_t state = 21;
    t_samp__logits(l, N, 4, &state);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        samp_opts o = t_samp__off();
        int32_t   want[200];
        t_samp__set(&o, rows[r]);
        samp *s = t_samp__new(&o, N, 7), *mark = t_samp__new(&o, N, 7);
        for (int i = 0; i < 200; i++)
            samp_accept(s, want[i] = (memcpy(work, l, sizeof l), samp_pick(s, work, (uint64_t)i)), false);
        samp_free(s);
        s = t_samp__new(&o, N, 7);
        for (int i = 0; i < 200; i++) {
            if (i % 5 == 0) {                         /* speculate, then go back */
                samp_copy(mark, s);
                for (int j = 0; j < 12; j++)
                    samp_accept(s, (memcpy(work, l, sizeof l), samp_pick(s, work, (uint64_t)(900 + j))), false);
                samp_copy(s, mark);
            }
            int32_t got = (memcpy(work, l, sizeof l), samp_pick(s, work, (uint64_t)i));
            CHECKF(got == want[i], "%s: position %d has %d, want %d", rows[r], i, got, want[i]);
            memcpy(work, l, sizeof l);
            EQ_INT(samp_pick(s, work, (uint64_t)i), want[i]);    /* picking again changes nothing */
            samp_accept(s, got, false);
        }
        samp_free(s);
        samp_free(mark);
    }
}

/* Logits of place i: those of l, moved along. */
static void t_samp__moved(float *out, const float *l, int n, int i) {
    for (int k = 0; k < n; k++) out[k] = l[(k + 7 * i) % n];
}

/* A clone with a copy of the state picks ahead what its original will pick; what it says of a pick's chance is that of the
 * distribution (greedy: of the same options with temperature 1 at the end). */
static void t_samp_clone(void) {
    enum { N = 60, AHEAD = 5, STEPS = 150 };
    static const struct { const char *opts; bool greedy, bias; } rows[] = {
        {"temp=0.8 top_k=5", false, false}, {"temp=1.3 min_p=0.02 top_p=0.9", false, true}, {"typical_p=0.7", false, true},
        {"repeat_penalty=1.5 frequency_penalty=0.7 repeat_last_n=9 temp=0.9", false, false},
        {"dry_multiplier=2 dry_penalty_last_n=30 dry_allowed_length=1 top_nsigma=2", false, true},
        {"repeat_penalty=1.2 repeat_last_n=-1 n_ctx=64", false, true}, {"xtc_probability=0.5 xtc_threshold=0.05", false, false},
        {"temp=1 dynatemp_range=0.5 dynatemp_exp=1.5", false, true}, {"mirostat=1 mirostat_ent=3", false, false},
        {"mirostat=2 mirostat_ent=2 mirostat_lr=0.4", false, true}, {"temp=0", true, true},
        {"temp=0 top_k=3 top_p=0.5", true, false},
        {"temp=0 repeat_penalty=1.4 presence_penalty=1 repeat_last_n=20", true, true},
    };
    static const samp_bias bias[] = {{3, 1.5f}, {7, -INFINITY}, {11, 0.5f}};
    float                  l[N], work[N];
    uint64_t               state = 22;
    t_samp__logits(l, N, 0, &state);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        samp_bias *own = mem_new(3, sizeof *own);
        samp_opts  o = t_samp__off(), warm;
        int32_t    got[AHEAD], id;
        int        off = 0, changes = 0;
        memcpy(own, bias, sizeof bias);
        t_samp__set(&o, rows[r].opts);
        if (rows[r].bias) o.bias = own, o.n_bias = 3;
        warm = o;
        if (rows[r].greedy) t_samp__set(&warm, "temp=1 top_k=0 top_p=1");
        samp *s = t_samp__new(&o, N, 7), *ref = t_samp__new(&warm, N, 7);
        memset(own, 0xff, 3 * sizeof *own);           /* the options are no longer there when the clone is made */
        mem_free(own);
        for (int i = 0; i < 40; i++) samp_accept(s, i * i % N, true);
        samp *clone = samp_clone(s);
        for (int i = 0; i < STEPS; i++) {
            if (i % AHEAD == 0) samp_copy(clone, s);
            for (int k = 0; i % AHEAD == 0 && k < AHEAD; k++) {
                const samp_cand *c;
                samp_copy(ref, clone);
                t_samp__moved(work, l, N, i + k);
                const int n = samp__probs(ref, work, (uint64_t)(i + k), &c);
                t_samp__moved(work, l, N, i + k);
                got[k] = samp_pick(clone, work, (uint64_t)(i + k));
                const double chance = (double)samp_chance(clone);
                int          at = 0;
                while (at < n && c[at].id != got[k]) at++;
                if (CHECKF(at < n, "%s: %d is no candidate", rows[r].opts, got[k]))
                    CHECKF(fabs(chance - (double)c[at].p) <= 1e-6, "%s: chance %.7f, want %.7f", rows[r].opts, chance,
                           (double)c[at].p);
                samp_accept(clone, got[k], false);
            }
            t_samp__moved(work, l, N, i);
            id = samp_pick(s, work, (uint64_t)i);
            off += id != got[i % AHEAD];
            changes += i % AHEAD && id != got[i % AHEAD - 1];
            samp_accept(s, id, false);
        }
        EQ_INT(off, 0);
        CHECKF(changes > 10, "%s: it picks one and the same", rows[r].opts);
        samp_free(s);
        samp_free(ref);
        samp_free(clone);
    }
}

/* Tokens leave the penalties' window; 1000 tokens compared with a count by hand. */
static void t_samp_window_forgets(void) {
    samp_opts o = t_samp__off();
    t_samp__set(&o, "frequency_penalty=1 repeat_last_n=5 dry_multiplier=0.001 dry_penalty_last_n=17 dry_allowed_length=16");
    samp *s = t_samp__new(&o, 4, 0);
    int   past[1000];
    for (int i = 0; i < 1000; i++) {
        float l[4] = {0};
        const samp_cand *c;
        samp_accept(s, past[i] = (int)(rng_at(3, 0, 0, (uint64_t)i) % 4), i < 500);
        int n = samp__probs(s, l, 0, &c);
        for (int j = 0; j < n; j++) {
            int count = 0;
            for (int k = i; k >= 0 && k > i - 5; k--) count += past[k] == c[j].id;
            NEAR((double)c[j].logit, -count, 0.01);
        }
    }
    samp_free(s);
}

static double t_samp__surprise(const samp_opts *o, const float *l, int n, int steps, double *mu_end) {
    float *work = mem_new((size_t)n, sizeof *work);
    samp  *s = t_samp__new(o, n, 11);
    double sum = 0;
    int    counted = 0;
    for (int i = 0; i < steps; i++) {
        const samp_cand *c;
        memcpy(work, l, (size_t)n * sizeof *l);
        int m = samp__probs(s, work, (uint64_t)i, &c), at = 0;
        float p[4096];
        for (int j = 0; j < m && j < 4096; j++) p[j] = c[j].p;
        memcpy(work, l, (size_t)n * sizeof *l);
        int32_t id = samp_pick(s, work, (uint64_t)i);
        while (at < m && c[at].id != id) at++;
        if (!CHECKF(at < m, "picked %d, not a candidate", id)) break;
        if (i >= steps / 4) sum -= log2((double)p[at]), counted++;
        samp_accept(s, id, false);
    }
    *mu_end = (double)s->mu;
    samp_free(s);
    mem_free(work);
    return sum / counted;
}

static void t_samp_mirostat(void) {
    enum { N = 1500 };
    static float l[N];
    uint64_t     state = 31;
    for (int i = 0; i < N; i++) l[i] = (float)(-1.1 * log(i + 1.0) + 0.2 * t_samp__normal(&state));
    for (int version = 1; version <= 2; version++)
        for (int tau = 2; tau <= 4; tau++) {
            samp_opts o = t_samp__off();
            double    mu;
            o.mirostat = version;
            o.mirostat_ent = (float)tau;
            double got = t_samp__surprise(&o, l, N, 2500, &mu);
            CHECKF(fabs(got - tau) < 0.1, "version %d, tau %d: surprise %.3f, mu %.2f", version, tau, got, mu);
        }
    /* one step of each by hand: 4 tokens, tau 0.5, so mu starts at 1 bit and 2^-1 cuts below p = 0.5 */
    samp_opts o = t_samp__off();
    float     p[4] = {.1f, .2f, .15f, .55f}, work[4];
    const samp_cand *c;
    for (int version = 1; version <= 2; version++) {
        t_samp__set(&o, "mirostat_ent=0.5 mirostat_lr=0.3 top_k=1 temp=1");
        o.mirostat = version;
        samp *s = t_samp__new(&o, 4, 0);
        EQ_INT(s->n_chain, 0);                        /* the chain's top_k is not there */
        for (int i = 0; i < 4; i++) work[i] = logf(p[i]);
        if (version == 2) EQ_INT(samp__probs(s, work, 0, &c), 1);
        for (int i = 0; i < 4; i++) work[i] = logf(p[i]);
        int32_t id = samp_pick(s, work, 0);
        double  mu = (double)s->mu, surprise = (double)s->surprise;
        NEAR(mu, 1, 0);
        samp_accept(s, (id + 1) % 4, false);          /* not what was picked: nothing to learn from */
        NEAR((double)s->mu, mu, 0);
        for (int i = 0; i < 4; i++) work[i] = logf(p[i]);
        EQ_INT(samp_pick(s, work, 0), id);
        samp_accept(s, id, false);
        NEAR((double)s->mu, mu - 0.3 * (surprise - 0.5), 1e-6);
        samp_free(s);
    }
}

/* What each version keeps, from its formula, on a distribution whose exponent is known. */
static void t_samp_mirostat_cut(void) {
    enum { N = 1000 };
    static float l[N];
    for (int i = 0; i < N; i++) l[i] = (float)(-1.3 * log(i + 1.0));          /* Zipf with exponent 1.3 */
    for (int tau = 1; tau <= 5; tau++) {
        samp_opts o = t_samp__off();
        float     work[N];
        const samp_cand *c;
        o.mirostat = 1;
        o.mirostat_ent = (float)tau;
        samp  *s = t_samp__new(&o, N, 0);
        double k = pow(0.3 * pow(2, 2 * tau) / (1 - pow(N, -0.3)), 1 / 1.3);
        memcpy(work, l, sizeof l);
        EQ_INT(samp__probs(s, work, 0, &c), k > N ? N : (int)k);
        samp_free(s);
        o.mirostat = 2;
        s = t_samp__new(&o, N, 0);
        double z = 0;
        int    kept = 0;
        for (int i = 0; i < N; i++) z += exp((double)l[i]);
        for (int i = 0; i < N; i++) kept += -log2(exp((double)l[i]) / z) <= 2 * tau;
        memcpy(work, l, sizeof l);
        EQ_INT(samp__probs(s, work, 0, &c), kept);
        samp_free(s);
    }
}

static const t_case t_samp_cases[] = {
    {"samp peer facts", "llama.cpp's expected probabilities within 1e-5", t_samp_peer_facts},
    {"samp exact edges", "a mass that equals the target, and equal logits", t_samp_exact_edges},
    {"samp queues", "24 chains over 10,000 tokens have the sizes and probabilities that follow from integers", t_samp_queues},
    {"samp reference", "random chains keep what a naive implementation in double keeps", t_samp_against_reference},
    {"samp sort or buckets", "the short cuts are exact: same bits, same tokens as a full sort", t_samp_sort_or_buckets},
    {"samp defaults", "defaults and default order are llama.cpp's", t_samp_defaults_are_the_fields},
    {"samp chain strings", "every spelling of --samplers and the letters", t_samp_chain_strings},
    {"samp ranges", "values out of range are refused by name", t_samp_ranges_hold},
    {"samp greedy", "ties go to the lowest id; bias, penalties and xtc come before", t_samp_greedy},
    {"samp takes best", "which options leave the largest logit as the pick, whatever came before", t_samp_takes_best},
    {"samp odd logits", "NaN never wins, infinities and their absence are handled", t_samp_odd_logits},
    {"samp weights", "e^x is accurate and lands on multiples of 2^-34; keys order as floats", t_samp_weights},
    {"samp sorting", "sort and select agree with qsort", t_samp_sorting},
    {"samp breakers", "DRY breakers of several tokens, and those found in a vocabulary", t_samp_breakers},
    {"samp draws", "chi-square of 20,000 draws, with a control that must fail", t_samp_draws_follow},
    {"samp keyed draws", "equal seeds equal draws, whatever happens between; others independent", t_samp_keyed_draws},
    {"samp copy", "copies continue alike and rollback leaves no trace", t_samp_copy_and_rollback},
    {"samp clone", "a clone picks ahead what its original picks, and knows the chance of it", t_samp_clone},
    {"samp window", "the penalties see the last n tokens and no more", t_samp_window_forgets},
    {"samp mirostat", "surprise converges to tau; mu moves by the rule", t_samp_mirostat},
    {"samp mirostat cut", "what Mirostat keeps follows from its formulas", t_samp_mirostat_cut},
};
static const t_suite t_samp_suite = SUITE(t_samp_cases);
