/* [spec]: the sources of guesses, their estimated gain, their number, and the stored texts of finished requests. t_sched.c tests that they
 * change no text. */
#include "program.h"
#include "check.h"
#include "t_gain.h"
#include "t_gguf.h"
#include "t_kv.h"
#include "t_store.h"
#include "t_tok.h"

enum { T_SPEC_VOCAB = 300, T_SPEC_A = 100, T_SPEC_END = 2 };   /* tokens: letters from there on; that which ends a text */

/* A guesser over an engine without a model. */
typedef struct {
    engine  eng;
    spec   *sp;
    tt_open words;
} t_spec_rig;

static spec_opts t_spec_opts(int most, int least) {
    spec_opts o = spec_defaults;
    o.most = most;
    o.least = least;
    return o;
}

static t_spec_rig *t_spec_open(const spec_opts *o, int n_seqs) {
    t_spec_rig *r = mem_new(1, sizeof *r);
    err_t       e = {0};
    CHECK(tt_open_tiny(&r->words, &tm_tinies[0], NULL));
    r->eng.v = r->words.v;
    r->eng.m.hp.n_vocab = T_SPEC_VOCAB;
    r->eng.n_batch = r->eng.max_out = 300;
    r->sp = spec_open(&r->eng, o, NULL, NULL, NULL, n_seqs, &e);
    CHECKF(r->sp != NULL, "%s", e.text);
    return r;
}

static void t_spec_close(t_spec_rig *r) {
    spec_close(r->sp);
    tt_close(&r->words);
    mem_free(r);
}

/* --- lookup --- */

/* Letters, a dot for the end; a bar before each finished text. */
static spec_text t_spec_letters(const char *s) {
    spec_text t = {0};
    for (; *s; s++) spec__text_add(&t, *s == '|' ? -1 : *s == '.' ? T_SPEC_END : T_SPEC_A + *s - 'a');
    return t;
}

/* The same, place by place: of the SPEC_WALK last places in the same slot the longest, of these the last. */
static int t_spec_match(const spec_text *text, const spec_text *in, int *length) {
    spec_text end = *text;
    int       best = -1, seen = 0;
    *length = 0;
    if (text->n < SPEC_GRAM || in->n < SPEC_GRAM) return -1;
    end.slot = in->slot;
    end.cap = in->cap;
    const int32_t *slot = spec__slot(&end, text->n - 1);
    for (int at = in->n - 1; at >= SPEC_GRAM - 1; at--) {
        int same = 0;
        if (spec__slot(in, at) != slot || seen++ >= SPEC_WALK || (in == text && at == text->n - 1)) continue;
        for (; same < SPEC_LONG && at - same >= 0 && text->n - 1 - same >= 0; same++)
            if (in->id[at - same] != text->id[text->n - 1 - same] || in->id[at - same] < 0) break;
        if (same >= SPEC_GRAM && same > *length) *length = same, best = at;
    }
    return best;
}

static int t_spec_found(const spec_text *text, const spec_text *in, int *length) {
    spec_place       place[SPEC_WALK];
    const int        n = spec__places(text, in, place);
    const spec_place best = n ? spec__longest(place, n) : (spec_place){NULL, -1, 0};
    *length = best.same;
    return best.at;
}

static void t_spec_match_words(void) {
    static const struct { const char *text, *in; int at, length; } rows[] = {   /* in NULL: the text itself */
        {"", NULL, -1, 0}, {"a", NULL, -1, 0}, {"ab", NULL, -1, 0}, {"aa", NULL, -1, 0}, {"aaa", NULL, 1, 2},
        {"aaaa", NULL, 2, 3}, {"abxab", NULL, 1, 2}, {"abxb", NULL, -1, 0}, {"xabyabzab", NULL, 5, 2},
        {"xabyabzxab", NULL, 2, 3}, {"yabxabyab", NULL, 2, 3}, {"abcabcab", NULL, 4, 5}, {"ab", "", -1, 0},
        {"ab", "|", -1, 0}, {"ab", "|ab", 2, 2}, {"", "|ab", -1, 0}, {"b", "|ab", -1, 0}, {"xab", "|ab|ab", 5, 2},
        {"xab", "|xab|ab", 3, 3}, {"ab", "a|b", -1, 0}, {"cab", "c|ab", 3, 2}, {"abab", "|abab|ab", 4, 4},
        {"ab", "|cab|ab|b", 6, 2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        spec_text t = t_spec_letters(rows[i].text), in = t_spec_letters(rows[i].in ? rows[i].in : "");
        int       length, at = t_spec_found(&t, rows[i].in ? &in : &t, &length);
        CHECKF(at == rows[i].at && length == rows[i].length, "\"%s\" in \"%s\": at %d, %d long, want %d, %d", rows[i].text,
               rows[i].in ? rows[i].in : "itself", at, length, rows[i].at, rows[i].length);
        spec__text_drop(&t);
        spec__text_drop(&in);
    }
    spec_text t = {0};
    int       length;
    for (int i = 0; i < 3 * SPEC_LONG; i++) spec__text_add(&t, i % (SPEC_LONG + SPEC_LONG / 2));
    EQ_INT(t_spec_found(&t, &t, &length), SPEC_LONG + SPEC_LONG / 2 - 1);
    EQ_INT(length, SPEC_LONG);                        /* longer ones are as good */
    spec__text_drop(&t);
}

/* Random texts of few symbols, and of so many that grams share a slot, at every length. */
static void t_spec_match_random(void) {
    static const int symbols[] = {1, 2, 3, 4, 7, 40, 1000};
    int              found = 0, missed = 0, shared = 0, bars = 0;
    for (int round = 0; round < 1400; round++) {
        spec_text t = {0}, in = {0};
        const int n_sym = symbols[round % 7], n = 2 + round * 37 % (round % 10 ? 90 : 600);
        for (int i = 0; i < n; i++) {
            const uint64_t r = rng_at(61, (uint64_t)round, (uint64_t)i, 0), s = rng_at(62, (uint64_t)round, (uint64_t)i, 0);
            const bool     bar = s % 23 == 0, same = i && s % 3;
            spec__text_add(&t, (int32_t)(r % (uint64_t)n_sym));
            spec__text_add(&in, bar ? -1 : same ? t.id[(s >> 8) % (uint64_t)i] : (int32_t)((s >> 8) % (uint64_t)n_sym));
            bars += bar;
            for (int own = 0; own < 2 && (i < 50 || i % 16 == 0 || i == n - 1); own++) {
                int       length, want_length;
                const int want = t_spec_match(&t, own ? &t : &in, &want_length), at = t_spec_found(&t, own ? &t : &in, &length);
                if (!CHECKF(at == want && length == want_length,
                            "round %d, %d tokens, own %d: at %d, %d long, want %d, %d", round,
                            i + 1, own, at, length, want, want_length))
                    goto out;
                found += at >= 0;
                missed += at < 0;
            }
        }
        for (int a = 1; a < n; a++) {                 /* neighbours in a chain that are other grams */
            const int b = t.prev[a];
            shared += b >= 1 && (t.id[a] != t.id[b] || t.id[a - 1] != t.id[b - 1]);
        }
    out:
        spec__text_drop(&t);
        spec__text_drop(&in);
    }
    CHECKF(found > 10000 && missed > 10000 && shared > 1000 && bars > 1000,
           "%d found, %d not, %d of shared slots, %d bars", found,
           missed, shared, bars);
}

static void t_spec_look(void) {
    static const struct { const char *text, *past; int most; const char *want, *kinds; } rows[] = {
        {"abcabcab", "", 12, "cabcabcabcab", "333334444444"}, {"abcabcab", "", 1, "c", "3"}, {"abcabcab", "", 0, "", ""},
        {"abcabcab", "", -5, "", ""}, {"aaa", "", 6, "aaaaaa", "223333"}, {"abxab", "", 6, "xabxab", "223333"},
        {"abxyzab", "", 3, "xyz", "223"}, {"abc", "", 8, "", ""}, {"a", "|ab", 8, "", ""}, {"ab", "|abcd", 8, "cd", "22"},
        {"ab", "|abcd|efgh", 8, "cd", "22"}, {"ab", "|abcd|efgh", 1, "c", "2"}, {"ab", "|xab|efgh", 8, "", ""},
        {"ab", "|abcd.ef", 8, "cd", "22"}, {"ab", "|ab.ef", 8, "", ""}, {"abc.ab", "", 8, "c", "2"},   /* an end is no guess */
        {"xabyxab", "|abzz", 3, "yxa", "133"},        /* its own is the longer one */
        {"abyxab", "|xabzz", 3, "zz", "13"},          /* the finished text's is */
        {"xabyxab", "|xabzz", 3, "yxa", "133"},       /* equal: its own */
        {"cdab", "|abef|abgh", 4, "gh", "12"},        /* the last of equals */
        {"abcabdab", "", 4, "dabd", "1233"},          /* after another way was taken before */
        {"abcabcxab", "", 3, "cxa", "513"},           /* where both ways begin alike */
        {"abcabcabdab", "", 2, "da", "02"},           /* the way of the fewest */
        {"ab", "|abcdefghijkl|abcdefghijkl", 10, "cdefghijkl", "5566666677"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const spec_opts o = t_spec_opts(SPEC_MOST, 0);
        t_spec_rig     *r = t_spec_open(&o, 1);
        spec_text       text = t_spec_letters(rows[i].text);
        tok_ids         ids = {text.id, (size_t)text.n, (size_t)text.cap};
        spec_seq       *q = spec_seq_new(r->sp, &ids, NULL, NULL, NULL);
        char            got[SPEC_MOST + 1] = "";
        double          p = 1;
        r->sp->past = t_spec_letters(rows[i].past);
        spec__read(r->sp, q);
        spec__lookup(r->sp, q, rows[i].most);
        for (int k = 0; k < q->n; k++) {
            got[k] = (char)('a' + q->id[k] - T_SPEC_A);
            EQ_INT(q->kind[k], rows[i].kinds[k] - '0');
            p *= spec__chance(r->sp, q, SPEC_LOOKUP, q->kind[k]);
            NEAR(q->p[k], p, 1e-12);
        }
        EQ_INT(q->from, SPEC_LOOKUP);
        CHECKF(strcmp(got, rows[i].want) == 0, "\"%s\", past \"%s\", at most %d: \"%s\", want \"%s\"", rows[i].text, rows[i].past,
               rows[i].most, got, rows[i].want);
        spec_seq_free(q);
        spec__text_drop(&text);
        t_spec_close(r);
    }
}

/* Token k of text number i. */
static int32_t t_spec_token(int i, int k) { return (int32_t)(rng_at(71, (uint64_t)i, (uint64_t)k, 0) % 5000); }

static tok_ids t_spec_text_ids(int i, int n) {
    tok_ids ids = {0};
    for (int k = 0; k < n; k++) tok_ids_add(&ids, t_spec_token(i, k));
    return ids;
}

/* What of a finished text is kept. */
static void t_spec_finished(void) {
    static const struct { int n, n_prompt, kept; bool lookup; } rows[] = {
        {0, 0, 0, true}, {1, 0, 0, true}, {2, 0, 2, true}, {30, 0, 30, true}, {30, 8, 30, true}, {30, 9, 29, true},
        {30, 20, 18, true}, {30, 30, 8, true}, {9, 9, 8, true}, {1, 1, 0, true}, {SPEC_PAST / 4, 0, SPEC_PAST / 4, true},
        {SPEC_PAST / 4 + 1, 0, 0, true}, {SPEC_PAST / 4 + 100, 108, SPEC_PAST / 4, true}, {30, 20, 0, false},
    };
    spec_finished(NULL, NULL, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        spec    sp = {.o = {.lookup = rows[i].lookup}};
        tok_ids ids = t_spec_text_ids(1, rows[i].n);
        spec_finished(&sp, &ids, rows[i].n_prompt);
        if (EQ_INT(sp.past.n, rows[i].kept ? 1 + rows[i].kept : 0) && rows[i].kept) {
            EQ_INT(sp.past.id[0], -1);
            EQ_MEM(sp.past.id + 1, ids.id + rows[i].n - rows[i].kept, (size_t)rows[i].kept * sizeof *ids.id);
        }
        spec__text_drop(&sp.past);
        tok_ids_drop(&ids);
    }
}

static void t_spec_room(void) {
    static const struct { int had, more, left; } rows[] = {
        {0, 5, 0}, {SPEC_PAST - 5, 5, SPEC_PAST - 5}, {SPEC_PAST - 5, 6, SPEC_PAST / 2 - 2}, {SPEC_PAST, 1, SPEC_PAST / 2},
        {SPEC_PAST, SPEC_PAST / 2, SPEC_PAST / 2}, {SPEC_PAST, SPEC_PAST / 2 + 7, SPEC_PAST / 2 - 7}, {SPEC_PAST, SPEC_PAST, 0},
    };
    spec_text t = {0};
    for (int i = 0; i < SPEC_PAST; i++) spec__text_add(&t, t_spec_token(0, i));
    int32_t *all = mem_new(SPEC_PAST, sizeof *all);
    memcpy(all, t.id, SPEC_PAST * sizeof *all);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        memcpy(t.id, all, SPEC_PAST * sizeof *all);
        t.n = rows[i].had;
        spec__past_trim(&t, rows[i].more);
        if (EQ_INT(t.n, rows[i].left)) EQ_MEM(t.id, all + rows[i].had - t.n, (size_t)t.n * sizeof *all);
    }
    mem_free(all);
    spec__text_drop(&t);
}

/* Texts of three times the capacity: at least the newest half stays, and is found. */
static void t_spec_past(void) {
    enum { LENGTH = 3000, TEXTS = 3 * SPEC_PAST / LENGTH };
    spec sp = {.o = {.lookup = true}};
    int  known = 0, length;
    for (int i = 0; i < TEXTS; i++) {
        tok_ids ids = t_spec_text_ids(i, LENGTH);
        spec_finished(&sp, &ids, 5);
        tok_ids_drop(&ids);
        if (!CHECK(sp.past.n <= SPEC_PAST)) break;
    }
    CHECK(sp.past.n >= SPEC_PAST / 2 - LENGTH);
    for (int i = 0; i < TEXTS; i++) {
        tok_ids   ids = t_spec_text_ids(i, 20);
        spec_text t = {0};
        for (int k = 0; k < 20; k++) spec__text_add(&t, ids.id[k]);
        const int at = t_spec_found(&t, &sp.past, &length);
        known += length == 20;
        CHECKF(length == 20 || i < TEXTS - (SPEC_PAST / 2 / LENGTH - 1), "text %d of %d is gone: %d long", i, TEXTS, length);
        if (length == 20) EQ_INT(sp.past.id[at + 1], t_spec_token(i, 20));
        EQ_INT(at, t_spec_match(&t, &sp.past, &length));
        spec__text_drop(&t);
        tok_ids_drop(&ids);
        i += i < TEXTS - 40 ? 10 : 0;                 /* the reference is slow */
    }
    CHECKF(known > 30, "%d are known", known);
    spec__text_drop(&sp.past);
}

/* --- how many --- */

typedef struct {
    spec     *sp;
    spec_seq *q[4];
    int       n, rows, had[4], due;                   /* due: guesses that are taken in any case */
    double    best;
} t_spec_pick;

static double t_spec_rate(const t_spec_pick *c, const int *k) {
    const spec_cost *cost = &c->sp->costs.target;
    double           sum = c->n;
    int              m = 0;
    for (int i = 0; i < c->n; i++)
        for (int j = 0; j < k[i]; j++, m++) sum += c->q[i]->p[j];
    return sum / (spec_cost_at(cost, c->n) + spec_cost_at(cost, c->rows + m) - spec_cost_at(cost, c->rows));
}

/* Every way to take some from each, first ones first. */
static void t_spec_every(t_spec_pick *c, int *k, int i, int m) {
    if (i == c->n) {
        int due = 0;
        for (int j = 0; j < c->n; j++) due += k[j] < c->sp->o.least ? k[j] : c->sp->o.least;
        const double rate = due == c->due ? t_spec_rate(c, k) : 0;
        if (rate > c->best) c->best = rate;
        return;
    }
    for (k[i] = 0; k[i] <= c->had[i] && m + k[i] <= c->sp->n_rows; k[i]++) t_spec_every(c, k, i + 1, m + k[i]);
}

static void t_spec_choose(void) {
    int some = 0, none = 0, full = 0, forced = 0;
    for (int round = 0; round < 3000; round++) {
        uint64_t         draw = 0;
#define T_DRAW() rng_unit(rng_at(81, (uint64_t)round, draw++, 0))
        const int        n = 1 + round % 4;
        const spec_opts  o = t_spec_opts(5, round % 3 ? 0 : (int)(4 * T_DRAW()));
        t_spec_rig      *r = t_spec_open(&o, n);
        t_spec_pick      c = {.sp = r->sp, .n = n, .rows = n + (round % 5 ? 0 : (int)(9 * T_DRAW()))};
        const double     each = pow(10, -2.5 + 3 * T_DRAW());
        int              k[4], got[4], sum = 0, due = 0;
        bool             low = false;
        r->sp->n_rows = round % 6 ? 32 : (int)(12 * T_DRAW());
        mem_free(r->sp->order);
        r->sp->order = mem_new((size_t)r->sp->n_rows, sizeof *r->sp->order);
        t_gain_costs(&r->sp->costs.target, 1, 0);
        for (int i = 2; i <= SPEC_COST; i++)
            t_gain_know(&r->sp->costs.target, i, r->sp->costs.target.s[i - 1] + each * (0.1 + 2 * T_DRAW()), 100);
        for (int i = 0; i < n; i++) {
            double p = 1;
            c.q[i] = spec_seq_new(r->sp, NULL, NULL, NULL, NULL);
            c.q[i]->n = c.had[i] = (int)(6 * T_DRAW());
            for (int j = 0; j < c.q[i]->n; j++) c.q[i]->p[j] = p *= T_DRAW() < 0.2 ? 1 : 0.3 + 0.7 * T_DRAW();
            due += c.had[i] < o.least ? c.had[i] : o.least;
        }
        c.due = due < r->sp->n_rows ? due : r->sp->n_rows;
        t_spec_every(&c, k, 0, 0);
        spec__choose(r->sp, c.q, n, c.rows);
        for (int i = 0; i < n; i++) {
            got[i] = c.q[i]->n;
            sum += got[i];
            low = low || (got[i] < o.least && got[i] < c.had[i]);
            CHECKF(got[i] >= 0 && got[i] <= c.had[i], "round %d: %d of %d guesses", round, got[i], c.had[i]);
        }
        CHECKF(sum <= r->sp->n_rows, "round %d: %d guesses for %d rows", round, sum, r->sp->n_rows);
        CHECKF(!low || sum == r->sp->n_rows, "round %d: fewer than --draft-min with rows left", round);
        NEAR(t_spec_rate(&c, got), c.best, 1e-9 * c.best);
        some += sum > 0 && sum < c.had[0] + c.had[1] + c.had[2] + c.had[3];
        none += !sum && c.had[0];
        full += sum == r->sp->n_rows;
        forced += due > 0;
        for (int i = 0; i < n; i++) spec_seq_free(c.q[i]);
        t_spec_close(r);
#undef T_DRAW
    }
    CHECKF(some > 200 && none > 200 && full > 100 && forced > 200, "%d of some, %d of none, %d of all rows, %d forced",
           some, none,
           full, forced);
}

/* --- chances --- */

static void t_spec_chance(void) {
    for (spec_source from = 0; from < SPEC_SOURCES; from++)
        for (int kind = 0; kind < SPEC_KINDS; kind++) {
            spec      sp = {.n_rows = 0};
            spec_seq  a = {.n = 0}, b = {.n = 0};
            const double hope = (double)spec_hopes[from][kind], mean = (double)spec_hope[from];
            NEAR(spec__chance(&sp, &a, from, kind), hope, 1e-12);
            NEAR(spec__mean(&sp, &a, from), mean, 1e-12);
            NEAR(spec__yield(&sp, &a, from), SPEC_YIELD, 1e-12);
            double was = hope;
            for (int i = 0; i < 40; i++) {            /* off after misses: in this text sooner than in others */
                spec__learn(&a.rate[from][kind], &sp.rate[from][kind], false);
                const double now = spec__chance(&sp, &a, from, kind);
                CHECKF(now > 0 && now < was, "%s %d: %g after %d misses, %g before", spec_names[from], kind, now, i + 1, was);
                CHECK(now < spec__chance(&sp, &b, from, kind) && spec__chance(&sp, &b, from, kind) < hope);
                was = now;
            }
            CHECKF(was < 0.05 * hope + 1e-3, "%s %d: %g after 40 misses", spec_names[from], kind, was);
            spec_seq  faded = a;
            spec      kept = sp;
            for (int i = 0; i < 8000; i++) {          /* on again when that is long ago */
                spec__fade(&faded.rate[from][kind], 1, 0.98f);
                spec__fade(&kept.rate[from][kind], 1, 0.999f);
                CHECK(spec__chance(&kept, &faded, from, kind) >= was - 1e-12);
                was = spec__chance(&kept, &faded, from, kind);
            }
            CHECKF(was > 0.95 * hope && was <= hope, "%s %d: %g, at first %g", spec_names[from], kind, was, hope);
            for (int i = 0; i < 200; i++) spec__learn(&a.rate[from][kind], &sp.rate[from][kind], true);
            was = spec__chance(&sp, &a, from, kind);
            CHECKF(was > 0.97 && was < 1, "%s %d: %g after 200 hits", spec_names[from], kind, was);
            for (int i = 0; i < 2000; i++) spec__learn(&a.rate[from][kind], &sp.rate[from][kind], i % 10 < 7);
            NEAR(spec__chance(&sp, &a, from, kind), 0.7, 0.2);
        }
    static const struct { float sure; int kind; } drafts[] = {{0, 0}, {.1f, 0}, {.11f, 1}, {.6f, 4}, {.95f, 6}, {.96f, 7},
                                                              {1, 7}};
    for (size_t i = 0; i < sizeof drafts / sizeof *drafts; i++) EQ_INT(spec__kind(drafts[i].sure), drafts[i].kind);
    static const struct { int length, same, all, kind; } matches[] = {
        {2, 1, 3, 0}, {200, 1, 3, 0}, {2, 1, 2, 1}, {200, 31, 32, 1}, {2, 1, 1, 2}, {3, 1, 1, 2}, {4, 1, 1, 3}, {9, 1, 1, 3},
        {10, 1, 1, 4}, {200, 1, 1, 4}, {3, 2, 2, 5}, {4, 3, 3, 6}, {9, 32, 32, 6}, {10, 2, 2, 7}, {200, 64, 64, 7},
    };
    for (size_t i = 0; i < sizeof matches / sizeof *matches; i++)
        EQ_INT(spec__kind_of_match(matches[i].length, matches[i].same, matches[i].all), matches[i].kind);
}

/* A step of a text that repeats itself: how many guesses are taken, and what came of the first `right` of them. */
static int t_spec_step(t_spec_rig *r, spec_seq *q, int right) {
    q->room = 100;
    spec_propose(r->sp, &q, 1, 0);
    const int n = q->n;
    for (int k = 0; k <= SPEC_COST; k++) r->sp->costs.target.at[k] = r->sp->costs.target.now;   /* nothing grows old */
    spec_cost__fit(&r->sp->costs.target);
    if (n) spec_record(r->sp, q, right < n ? right : n, right < n ? right + 1 : n, (int)q->ids->n);
    return n;
}

/* The whole of it: nothing before a step is known, as many as pay, none when they are wrong, and again later. */
static void t_spec_propose(void) {
    const spec_opts o = t_spec_opts(6, 0), forced = t_spec_opts(6, 4), off = {.most = 6};
    t_spec_rig     *r = t_spec_open(&o, 1), *f = t_spec_open(&forced, 1), *none = t_spec_open(&off, 1);
    spec_text       text = t_spec_letters("abcabcabcabcabcabcab");
    tok_ids         ids = {text.id, (size_t)text.n, (size_t)text.cap};
    spec_seq       *q = spec_seq_new(r->sp, &ids, NULL, NULL, NULL), *qf = spec_seq_new(f->sp, &ids, NULL, NULL, NULL);
    spec_seq       *qn = spec_seq_new(none->sp, &ids, NULL, NULL, NULL);
    EQ_INT(t_spec_step(r, q, 0), 0);                  /* what a step costs is not known */
    t_gain_costs(&r->sp->costs.target, 0.010, 0.010);         /* a row is worth a step: guesses never pay */
    EQ_INT(t_spec_step(r, q, 0), 0);
    t_gain_costs(&r->sp->costs.target, 0.010, 0.0005);
    EQ_INT(t_spec_step(r, q, 6), 6);
    q->room = 2;
    spec_propose(r->sp, &q, 1, 0);
    EQ_INT(q->n, 2);
    q->room = 0;
    spec_propose(r->sp, &q, 1, 0);
    EQ_INT(q->n, 0);
    q->room = -3;
    spec_propose(r->sp, &q, 1, 0);
    EQ_INT(q->n, 0);
    t_gain_costs(&r->sp->costs.target, 0.010, 0.004);         /* dear rows: it is for the likeliest alone */
    int steps = 0;
    while (t_spec_step(r, q, 0) && steps < 1000) steps++;
    CHECKF(steps > 0 && steps < 100, "guesses that are all wrong end after %d steps", steps);
    for (steps = 0; !t_spec_step(r, q, 0) && steps < 100000;) steps++;
    CHECKF(steps > 3 && steps < 10000, "and begin again %d steps later", steps);
    for (int k = 0; k < 200 * SPEC_KINDS; k++)        /* also when they have been wrong in many texts */
        spec__learn(&q->rate[SPEC_LOOKUP][k % SPEC_KINDS], &r->sp->rate[SPEC_LOOKUP][k % SPEC_KINDS], false);
    for (steps = 0; !t_spec_step(r, q, 0) && steps < 100000;) steps++;
    CHECKF(steps > 100 && steps < 20000, "and begin again %d steps later", steps);
    t_gain_costs(&f->sp->costs.target, 0.010, 0.010);
    EQ_INT(t_spec_step(f, qf, 0), 4);                 /* whatever measurement says */
    t_gain_costs(&none->sp->costs.target, 0.010, 0);
    EQ_INT(t_spec_step(none, qn, 0), 0);
    EQ_INT(qn->text.n, 0);                            /* nothing is noted */
    spec_propose(r->sp, NULL, 0, 5);
    spec_seq_free(q);
    spec_seq_free(qf);
    spec_seq_free(qn);
    t_spec_close(r);
    t_spec_close(f);
    t_spec_close(none);
    spec__text_drop(&text);
}

static void t_spec_verdict(void) {
    static const struct { spec_source from; int n, right, judged, done, had_done, left_done; } rows[] = {
        {SPEC_LOOKUP, 4, 4, 4, 10, 0, 0}, {SPEC_LOOKUP, 4, 0, 1, 10, 0, 0}, {SPEC_LOOKUP, 3, 2, 3, 10, 0, 0},
        {SPEC_DRAFT, 5, 3, 4, 20, 24, 23}, {SPEC_DRAFT, 2, 2, 2, 20, 21, 21}, {SPEC_DRAFT, 1, 0, 1, 20, 20, 20},
        {SPEC_DRAFT, SPEC_MOST, SPEC_MOST, SPEC_MOST, 9, 72, 72}, {SPEC_DRAFT, SPEC_MOST, 0, 1, 9, 72, 9},
    };
    spec      sp = {.n_rows = 0};
    long long guessed[SPEC_SOURCES] = {0}, hit[SPEC_SOURCES] = {0};
    long long tried_at[SPEC_SOURCES][SPEC_MOST] = {{0}}, hit_at[SPEC_SOURCES][SPEC_MOST] = {{0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        spec_seq q = {.from = rows[i].from, .n = rows[i].n, .done = rows[i].had_done};
        for (int k = 0; k < q.n; k++) q.kind[k] = (uint8_t)(k % SPEC_KINDS);
        spec_record(&sp, &q, rows[i].right, rows[i].judged, rows[i].done);
        EQ_INT(q.done, rows[i].left_done);
        guessed[q.from] += q.n;
        hit[q.from] += rows[i].right;
        float tried = 0, hits = 0;
        for (int k = 0; k < rows[i].judged; k++) tried_at[q.from][k]++, hit_at[q.from][k] += k < rows[i].right;
        for (int k = 0; k < rows[i].judged; k++) tried = tried * 0.9f + 1, hits = hits * 0.9f + (k < rows[i].right);
        NEAR((double)q.mean[q.from].tried, (double)tried, 1e-4);
        NEAR((double)q.mean[q.from].hit, (double)hits, 1e-4);
        NEAR((double)q.mean[!q.from].tried, 0, 0);
        for (int k = 0; k < SPEC_KINDS; k++)
            CHECK((q.rate[q.from][k].tried > 0) == (k < rows[i].judged) && q.rate[!q.from][k].tried <= 0);
    }
    EQ_INT(sp.gain.step.turns[SPEC_LOOKUP], 3);              /* of one step: sequences, and tokens that these got */
    EQ_INT(sp.gain.step.won[SPEC_LOOKUP], 3 + 6);
    EQ_INT(sp.gain.step.turns[SPEC_DRAFT], 5);
    EQ_INT(sp.gain.step.won[SPEC_DRAFT], 5 + 5 + SPEC_MOST);
    for (spec_source from = 0; from < SPEC_SOURCES; from++) {
        EQ_INT(spec_guessed(&sp, from), guessed[from]);
        EQ_INT(spec_accepted(&sp, from), hit[from]);
        EQ_MEM(sp.gain.depth_tried[from], tried_at[from], sizeof tried_at[from]);
        EQ_MEM(sp.gain.depth_right[from], hit_at[from], sizeof hit_at[from]);
    }
    EQ_INT(sp.gain.chosen[4], 2);
    EQ_INT(sp.gain.chosen[SPEC_MOST], 2);
    EQ_INT(spec_guessed(NULL, SPEC_DRAFT) + spec_accepted(NULL, SPEC_LOOKUP), 0);
}

/* A context that drops some of its tokens: the draft reads again from there, and lookups still find the dropped ones. */
static void t_spec_cut(void) {
    static const struct { int n, done, keep, drop, left; } rows[] = {
        {40, 0, 0, 20, 0}, {40, 39, 4, 18, 4}, {40, 30, 1, 20, 1}, {40, 3, 8, 10, 3}, {40, 8, 8, 10, 8}, {5, 4, 1, 2, 1},
    };
    spec_shift(NULL, NULL, 1, 2);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const spec_opts o = t_spec_opts(8, 0);
        t_spec_rig     *r = t_spec_open(&o, 1);
        t_kv_rig        kv = t_kv_open(1, 1, 0, 4, 0, 64);
        tok_ids         ids = t_spec_text_ids(1, rows[i].n), all = t_spec_text_ids(1, rows[i].n);
        spec_seq       *q = spec_seq_new(r->sp, &ids, NULL, NULL, NULL);
        for (int k = 0; k < rows[i].n; k++) ids.id[k] = all.id[k] %= T_SPEC_VOCAB;
        const int n = rows[i].n, keep = rows[i].keep, drop = rows[i].drop;
        q->kv = kv_seq_new(kv.kv);
        CHECK(kv_reserve(q->kv, rows[i].done));
        q->done = rows[i].done;
        spec_shift(r->sp, q, keep, drop);
        memmove(ids.id + keep, ids.id + keep + drop, (size_t)(n - keep - drop) * sizeof *ids.id);
        ids.n -= (size_t)drop;
        EQ_INT(q->done, rows[i].left);
        EQ_INT(q->kv->n, rows[i].left);
        EQ_INT(q->n_seen, (int)ids.n);
        tok_ids_add(&ids, 7);                         /* what comes next joins what was there before */
        spec__read(r->sp, q);
        if (EQ_INT(q->text.n, n + 1)) EQ_MEM(q->text.id, all.id, (size_t)n * sizeof *all.id);
        EQ_INT(q->text.id[n], 7);
        spec_draft_reset(q);
        EQ_INT(q->done, 0);
        CHECK(!q->kv);
        spec_draft_reset(NULL);
        spec_seq_free(q);
        spec_seq_free(NULL);
        t_kv_close(&kv);
        tok_ids_drop(&ids);
        tok_ids_drop(&all);
        t_spec_close(r);
    }
}

/* --- rows, time, report --- */

static void t_spec_rows(void) {
    static const struct { bool draft, lookup; int most, n_seqs, rows, n_batch, max_out, given; } rows[] = {
        {false, false, 16, 1, 0, 99, 99, 0}, {false, true, 16, 1, 16, 99, 99, 16},
        {false, true, 16, 4, SPEC_ROWS, 99, 99, SPEC_ROWS},
        {false, true, 64, 4, 64, 99, 99, 64}, {false, true, 64, 4, 64, 60, 99, 56}, {false, true, 64, 4, 64, 99, 40, 36},
        {false, true, 64, 4, 64, 4, 4, 0}, {false, true, 64, 4, 64, 3, 3, 0}, {true, false, 5, 1, 5, 99, 99, 5},
        {true, false, 5, 2, SPEC_ROWS, 99, 99, SPEC_ROWS},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        spec_opts o = {.draft = rows[i].draft ? "FILE" : NULL, .lookup = rows[i].lookup, .most = rows[i].most, .least = 70};
        engine    eng = {.n_batch = rows[i].n_batch, .max_out = rows[i].max_out};
        err_t     e = {0};
        EQ_INT(spec_rows(&o, rows[i].n_seqs), rows[i].rows);
        if (rows[i].draft) continue;
        spec *sp = spec_open(&eng, &o, NULL, NULL, NULL, rows[i].n_seqs, &e);
        EQ_INT(sp->n_rows, rows[i].given);
        EQ_INT(sp->o.least, rows[i].most);            /* least is never above most */
        spec_close(sp);
    }
    spec_opts o = {.draft = "build/no such file", .most = 4};
    engine    eng = {.n_batch = 9, .max_out = 9};
    err_t     e = {0};
    CHECK(!spec_open(&eng, &o, NULL, &engine_defaults, &kv_defaults, 1, &e));
    CHECKF(e.code == EXIT_INPUT && strstr(e.text, "no such file"), "%s", e.text);
    spec_close(NULL);
}

/* A decode of one sequence timed by made-up seconds, which are `scale` times those of the machine: every so many steps one with
 * `rows` - 1 guesses, all of them right; every so many steps, 0: never, one that is disturbed. Returns how much faster it was. */
typedef struct {
    int    steps, every, rows, disturbed;
    double scale;
} t_spec_made_up;

static double t_spec_decode(spec *sp, const t_spec_made_up *m, spec_source from) {
    double plain = 0, real = 0;
    spec_time(sp, 1, 1, 1, 9);                        /* the first step does not count */
    for (int i = 0; i < m->steps; i++) {
        const int    n = i % m->every ? 1 : m->rows;
        const double seconds = m->scale * t_gain_machine(n);
        memset(sp->gain.step.turns, 0, sizeof sp->gain.step.turns);
        memset(sp->gain.step.won, 0, sizeof sp->gain.step.won);
        sp->gain.step.looking = 1e-5;
        if (n > 1) {
            spec_seq q = {.from = from, .n = n - 1};
            spec_record(sp, &q, n - 1, n - 1, 0);
        }
        spec_time(sp, 1, n, n, sp->gain.step.looking + (m->disturbed ? t_gain_disturbed(7, i, m->disturbed, seconds) : seconds));
        real += seconds + sp->gain.step.looking;
        plain += n * m->scale * t_gain_machine(1);
    }
    return plain / real;
}

/* What is reported of made-up steps: what the run was worth, to the per cent, or nothing. */
static void t_spec_speedup(void) {
    static const char shared[] = "the CPUs were shared", few[] = "too few steps without drafts were timed", brief[] = "";
    static const struct { t_spec_made_up m; double waited; const char *why; } rows[] = {
        {{1000, 3, 4, 0, 1}, 0, NULL}, {{1000, 2, 17, 0, 1}, 0, NULL}, {{1000, 30, 2, 0, 1}, 0, NULL},
        {{1000, 3, 4, 0, 1}, 0.9 * SPEC_WAITED, NULL}, {{1000, 3, 4, 0, 1}, 1.1 * SPEC_WAITED, shared},
        {{SPEC_TURNS, 3, 4, 0, 1}, 0, NULL}, {{SPEC_TURNS - 1, 3, 4, 0, 1}, 0, brief},
        {{1000, 3, 4, 0, 0.06}, 0, NULL}, {{1000, 3, 4, 0, 0.03}, 0, brief},   /* 0.72 and 0.36 seconds */
        {{1000, 3, 4, 100, 1}, 0, NULL}, {{4000, 3, 4, 50, 0.1}, 0, NULL}, {{4000, 3, 4, 3, 0.1}, 0, shared},
        {{1000, 1, 4, 0, 1}, 0, few},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (spec_source from = 0; from < SPEC_SOURCES; from++) {
            spec        *sp = mem_new(1, sizeof *sp);
            const char  *why;
            const double want = t_spec_decode(sp, &rows[i].m, from);
            const double got = spec_gain__over_plain(&sp->gain, &sp->costs, rows[i].waited, &why);
            if (rows[i].why)
                CHECKF(isnan(got) && strcmp(why ? why : brief, rows[i].why) == 0, "row %zu: %.3f, %s", i, got, why ? why : brief);
            else CHECKF(!why && fabs(got / want - 1) < 0.01, "row %zu: %.4f, want %.4f (%s)", i, got, want, why ? why : brief);
            mem_free(sp);
        }
}

/* For all times, the speed-up of speculation is at most the tokens of a step. */
static void t_spec_cap(void) {
    spec       *sp = mem_new(1, sizeof *sp);
    const char *why;
    for (int i = 0; i <= 1000; i++) {
        spec_seq q = {.from = SPEC_LOOKUP, .n = 3};
        memset(sp->gain.step.turns, 0, sizeof sp->gain.step.turns);
        memset(sp->gain.step.won, 0, sizeof sp->gain.step.won);
        if (i % 2) spec_record(sp, &q, 3, 3, 0);
        spec_time(sp, 1, i % 2 ? 4 : 1, i % 2 ? 4 : 1, i % 2 ? 0.011 : 0.012);
    }
    NEAR(spec_gain__over_plain(&sp->gain, &sp->costs, 0, &why), 2.5, 1e-9);
    NEAR(spec_gain__of_source(&sp->gain, &sp->costs, SPEC_LOOKUP), 4, 1e-9);
    CHECK(isnan(spec_gain__of_source(&sp->gain, &sp->costs, SPEC_DRAFT)));
    mem_free(sp);
}

static void t_spec_report(void) {
    static const t_spec_made_up steady = {1000, 4, 5, 0, 1}, brief = {40, 4, 5, 0, 1}, alone = {1000, 1, 5, 0, 1};
    static const struct { const t_spec_made_up *m; const char *want; } rows[] = {
        {&steady, "llmrun: speculation 1.83x plain decoding: 2000 tokens in 1000 steps, 2.00 a step\n"
                  "llmrun: draft       1000 guessed, 1000 accepted (100.0 %), by depth 100 100 100 100 %; "
                  "1.500 s of drafting; 3.67x where it guessed\n"
                  "llmrun: lookup      8 guessed, 2 accepted (25.0 %), by depth 25 0 %\n"},
        {&brief,  "llmrun: speculation 80 tokens in 40 steps, 2.00 a step\n"
                  "llmrun: draft       40 guessed, 40 accepted (100.0 %), by depth 100 100 100 100 %; 1.500 s of drafting\n"
                  "llmrun: lookup      8 guessed, 2 accepted (25.0 %), by depth 25 0 %\n"},
        {&alone,  "llmrun: speculation 5000 tokens in 1000 steps, 5.00 a step; speed-up not measurable: "
                  "too few steps without drafts were timed\n"
                  "llmrun: draft       4000 guessed, 4000 accepted (100.0 %), by depth 100 100 100 100 %; 1.500 s of drafting\n"
                  "llmrun: lookup      8 guessed, 2 accepted (25.0 %), by depth 25 0 %\n"},
    };
    str s = {0};
    spec_report(NULL, &s);
    NEAR(spec_speedup(NULL), 1, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        spec *sp = mem_new(1, sizeof *sp);
        spec_report(sp, &s);
        NEAR(spec_speedup(sp), 1, 0);                 /* nothing was guessed */
        EQ_INT(s.n, 0);
        t_spec_decode(sp, rows[i].m, SPEC_DRAFT);
        sp->gain.draft_s[SPEC_DRAFT] = 1.5;
        sp->gain.guessed[SPEC_LOOKUP] = 8, sp->gain.right[SPEC_LOOKUP] = 2;
        sp->gain.depth_tried[SPEC_LOOKUP][0] = 4, sp->gain.depth_right[SPEC_LOOKUP][0] = 1;
        sp->gain.depth_tried[SPEC_LOOKUP][1] = 1;
        spec_report(sp, &s);
        EQ_STR(s.p, rows[i].want);
        CHECK(isnan(spec_speedup(sp)) == (i > 0));
        s.n = 0;
        mem_free(sp);
    }
    str_drop(&s);
}

/* Seconds that pass between steps count for both, and are kept when costs are forgotten. */
static void t_spec_aside(void) {
    static const t_spec_made_up m = {1000, 4, 5, 0, 1};
    spec        *sp = mem_new(1, sizeof *sp);
    const char  *why;
    double       plain, real;
    t_spec_decode(sp, &m, SPEC_DRAFT);
    plain = spec_gain__plain_s(&sp->gain, &sp->costs), real = spec_gain__real_s(&sp->gain, &sp->costs);
    NEAR(plain, 2000 * t_gain_machine(1), 1e-3);
    NEAR(real, 750 * t_gain_machine(1) + 250 * t_gain_machine(5) + 1000 * 1e-5, 1e-3);
    spec_cost_add(&sp->costs.of[SPEC_HEAD], 1, 0.25);
    sp->head_steps = SPEC_FIRST;
    spec_overhead(sp, 3, false);
    CHECK(spec_cost_at(&sp->costs.of[SPEC_HEAD], 1) > 0);
    NEAR(spec_gain__plain_s(&sp->gain, &sp->costs), plain + 3, 1e-9);
    NEAR(spec_gain__real_s(&sp->gain, &sp->costs), real + 3, 1e-9);
    spec_overhead(sp, 2, true);
    NEAR(spec_gain__plain_s(&sp->gain, &sp->costs), plain + 5, 1e-9);
    NEAR(spec_gain__real_s(&sp->gain, &sp->costs), real + 5, 1e-9);
    NEAR(spec_cost_at(&sp->costs.target, 5), 0, 0);             /* times of before say nothing */
    NEAR(spec_cost_at(&sp->costs.of[SPEC_HEAD], 1), 0, 0);      /* the head's neither: it counts as free until it has new ones */
    EQ_INT(sp->head_steps, 1);
    spec_gain_begin(&sp->gain);
    spec_gain_prepare(&sp->gain, 0.5);                          /* by the draft, then by the head */
    spec_gain_prepare(&sp->gain, 0.25);
    NEAR(sp->gain.step.drafting_usual, 0.75, 0);
    sp->gain.real_s -= 0.75;
    spec_gain_begin(&sp->gain);
    CHECK(isnan(spec_gain__over_plain(&sp->gain, &sp->costs, 0, &why)) && why);
    t_spec_decode(sp, &(t_spec_made_up){1000, 4, 5, 0, 0.5}, SPEC_DRAFT);
    NEAR(spec_gain__over_plain(&sp->gain, &sp->costs, 0, &why), 1.5 * plain / 1.5 / real, 0.7);
    NEAR(spec_gain__plain_s(&sp->gain, &sp->costs), 1.5 * plain + 5, 0.01 + 9 * 0.5);
    mem_free(sp);
}

/* Draft steps and the search for guesses are part of what a run took, and only of that. */
static void t_spec_draft_time(void) {
    spec       *sp = mem_new(1, sizeof *sp);
    const char *why;
    for (int i = 0; i <= 400; i++) {
        sp->gain.step.drafting = 0;
        sp->gain.step.drafting_usual = i % 2 ? 2 * 0.002 : 0;
        if (i % 2) spec_gain_drafted(&sp->gain, SPEC_DRAFT, 2 * 0.002);
        sp->gain.step.looking = sp->gain.step.drafting + 0.001;
        for (int k = 0; i % 2 && k < 2; k++)
            spec_cost_add(&sp->costs.of[SPEC_DRAFT], 1, 0.002), spec_gain__tally(sp->gain.rounds[SPEC_DRAFT], 1, 1);
        spec_time(sp, 1, i % 2 ? 3 : 1, i % 2 ? 3 : 1, sp->gain.step.looking + (i % 2 ? 0.012 : 0.010));
    }
    NEAR(spec_gain__plain_s(&sp->gain, &sp->costs), 800 * 0.010, 1e-4);
    NEAR(spec_gain__real_s(&sp->gain, &sp->costs), 200 * (0.010 + 0.012) + 400 * (0.001 + 0.002), 1e-4);
    NEAR(sp->gain.draft_s[SPEC_DRAFT], 400 * 0.002, 1e-9);
    NEAR(sp->gain.usual_s, sp->gain.wall_s, 0.01);
    NEAR(spec_gain__over_plain(&sp->gain, &sp->costs, 0, &why), 8 / 5.6, 1e-3);
    mem_free(sp);
}

/* --- the file of finished texts --- */

static char t_spec_file[64];

static const char *t_spec_path(const char *name) {
    snprintf(t_spec_file, sizeof t_spec_file, "build/t_spec.%d.%s", (int)getpid(), name);
    unlink(t_spec_file);
    return t_spec_file;
}

static t_spec_rig *t_spec_cache(const char *path) {
    spec_opts o = spec_defaults;
    o.cache = path;
    return t_spec_open(&o, 1);
}

/* Ends a run that has finished text number i, of n tokens; i < 0: none. */
static void t_spec_end(t_spec_rig *r, int i, int n) {
    err_t e = {0};
    if (i >= 0) {
        tok_ids ids = t_spec_text_ids(i, n);
        for (int k = 0; k < n; k++) ids.id[k] %= T_SPEC_VOCAB;
        spec_finished(r->sp, &ids, 0);
        tok_ids_drop(&ids);
    }
    CHECKF(spec_save(r->sp, &e) && !e.code, "%s", e.text);
    t_spec_close(r);
}

/* How many tokens the file has for the next run; they are those of texts 0, 1, ... of n tokens each. */
static int t_spec_has(const char *path, int n) {
    t_spec_rig *r = t_spec_cache(path);
    const int   got = r->sp->past.n;
    for (int i = 0; i < got; i++) {
        const int32_t want = i % (n + 1) ? t_spec_token(i / (n + 1), i % (n + 1) - 1) % T_SPEC_VOCAB : -1;
        if (!EQ_INT(r->sp->past.id[i], want)) break;
    }
    t_spec_close(r);
    return got;
}

static void t_spec_round(void) {
    const char *path = t_spec_path("round");
    struct stat was, now;
    err_t       e = {0};
    CHECK(spec_save(NULL, &e));
    t_spec_end(t_spec_cache(path), -1, 0);
    CHECK(stat(path, &now) != 0);                     /* nothing to say, no file */
    EQ_INT(t_spec_has(path, 40), 0);
    for (int run = 0; run < 4; run++) {
        t_spec_end(t_spec_cache(path), run, 40);
        EQ_INT(t_spec_has(path, 40), (run + 1) * 41);
    }
    CHECK(stat(path, &was) == 0);
    t_spec_end(t_spec_cache(path), -1, 0);            /* nothing new: not written */
    CHECK(stat(path, &now) == 0 && now.st_ino == was.st_ino && now.st_mtim.tv_nsec == was.st_mtim.tv_nsec);
    t_spec_rig *r = t_spec_cache(path);               /* what is there is found */
    spec_text   t = {0};
    int         length;
    for (int k = 10; k < 30; k++) spec__text_add(&t, t_spec_token(2, k) % T_SPEC_VOCAB);
    EQ_INT(t_spec_found(&t, &r->sp->past, &length), 2 * 41 + 1 + 29);
    EQ_INT(length, 20);
    spec__text_drop(&t);
    t_spec_close(r);
    unlink(path);
}

/* A file as large as one may be, of which the older half has gone meanwhile: what is new is kept, whatever the count. */
static void t_spec_full(void) {
    const char *path = t_spec_path("full");
    t_spec_rig *r = t_spec_cache(path);
    err_t       e = {0};
    while (r->sp->past.n < SPEC_PAST) spec__text_add(&r->sp->past, r->sp->past.n % T_SPEC_VOCAB);
    r->sp->unsaved = true;
    t_spec_end(r, -1, 0);
    r = t_spec_cache(path);
    EQ_INT(r->sp->past.n, SPEC_PAST);
    spec_finished(r->sp, &(tok_ids){(int32_t[]){3, 5, 7}, 3, 3}, 0);
    while (r->sp->past.n < SPEC_PAST) spec__text_add(&r->sp->past, 9);
    CHECK(spec_save(r->sp, &e));
    t_spec_close(r);
    r = t_spec_cache(path);
    EQ_INT(r->sp->past.n, SPEC_PAST);
    EQ_INT(r->sp->past.id[SPEC_PAST - 1], 9);
    t_spec_close(r);
    unlink(path);
}

/* Either the tokens that were saved, or none. */
static void t_spec_flip(void) {
    const char *path = t_spec_path("flip");
    size_t      n, n_now;
    int         seen = 0, kept = 0;
    t_spec_end(t_spec_cache(path), 0, 40);
    char *was = t_read(path, &n);
    for (size_t i = 0; was && i < n; i++)
        for (int k = 0; k < 3; k++) {
            static const char flips[] = {1, (char)0x80, (char)0xff};
            t_store_byte(path, i, (char)(was[i] ^ flips[k]));
            const int got = t_spec_has(path, 40);
            CHECKF(got == 0 || got == 41, "byte %zu of %zu: %d tokens", i, n, got);
            seen += got == 0;
            kept += got == 41;
            if (k == 0 && i % 7 == 0) {               /* and a run with news leaves it, or makes a good one */
                t_spec_rig *r = t_spec_cache(path);
                const bool  foreign = r->sp->foreign;
                t_spec_end(r, got ? 1 : 0, 40);
                char *now = t_read(path, &n_now);
                const bool  left = n_now == n && now[i] == (char)(was[i] ^ flips[k]);
                if (foreign) CHECKF(left, "byte %zu: a foreign file was written", i);
                else EQ_INT(t_spec_has(path, 40), got + 41);
                mem_free(now);
                t_store_put(path, was, n);
            } else t_store_byte(path, i, was[i]);
        }
    CHECKF(seen > 800 && kept > 100, "of %zu bytes: %d seen, %d not", n, seen, kept);
    for (size_t len = n; was && len-- > 0;) {
        CHECK(truncate(path, (off_t)len) == 0);
        t_spec_rig *r = t_spec_cache(path);
        const bool whole = r->sp->past.n == 41;       /* nothing but zeros after the tokens is lost */
        CHECKF(whole || !r->sp->past.n, "%zu of %zu bytes: %d tokens", len, n, r->sp->past.n);
        CHECKF(r->sp->foreign == (!whole && len > 0) && (!whole || len > n - 64), "%zu of %zu bytes", len, n);
        t_spec_close(r);
    }
    t_spec_end(t_spec_cache(path), 0, 40);            /* an empty one is as good as none */
    EQ_INT(t_spec_has(path, 40), 41);
    mem_free(was);
    unlink(path);
}

/* A file that is no lookup cache is left unchanged, also if it appears during the run. */
static void t_spec_foreign(void) {
    static const char *const others[] = {"tests/data/tiny/llama.gguf", "tests/t_store.c", "tests/corpus/store/two"};
    const char              *path = t_spec_path("foreign");
    struct stat              st;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        for (int late = 0; late < 2; late++) {
            size_t      n, n_now;
            char       *was = t_read(others[i], &n);
            t_spec_rig *r = late ? t_spec_cache(path) : NULL;
            if (!CHECK(was != NULL)) return;
            t_store_put(path, was, n);
            if (!late) r = t_spec_cache(path);
            EQ_INT(r->sp->past.n, 0);
            t_spec_end(r, 0, 40);
            char *now = t_read(path, &n_now);
            if (EQ_INT(n_now, n)) EQ_MEM(now, was, n);
            mem_free(was);
            mem_free(now);
            unlink(path);
        }
    CHECK(mkdir(path, 0777) == 0);
    t_spec_end(t_spec_cache(path), 0, 40);
    CHECK(rmdir(path) == 0 && mkfifo(path, 0666) == 0);
    t_spec_end(t_spec_cache(path), 0, 40);
    CHECK(stat(path, &st) == 0 && S_ISFIFO(st.st_mode));
    unlink(path);
    t_spec_rig *r = t_spec_cache(path);               /* another run's that came meanwhile is a lookup cache as well */
    t_spec_end(t_spec_cache(path), 0, 40);
    t_spec_end(r, 0, 40);
    EQ_INT(t_spec_has(path, 40), 41);
    unlink(path);
    r = t_spec_cache("build/no such folder/cache");
    spec_finished(r->sp, &(tok_ids){(int32_t[]){3, 5, 7}, 3, 3}, 0);
    err_t e = {0};
    CHECKF(!spec_save(r->sp, &e) && e.code, "saved into a folder that is not there");
    t_spec_close(r);
}

/* Of another vocabulary, of another version, and with tokens that no run of ours writes. */
static void t_spec_other(void) {
    const char *path = t_spec_path("other");
    t_spec_end(t_spec_cache(path), 0, 40);
    t_spec_rig *r = t_spec_cache(path);
    EQ_INT(r->sp->past.n, 41);
    t_spec_close(r);
    r = mem_new(1, sizeof *r);
    err_t     e = {0};
    spec_opts o = spec_defaults;
    o.cache = path;
    CHECK(tt_open_tiny(&r->words, &tm_tinies[2], NULL));   /* the same file beside another vocabulary */
    r->eng = (engine){.v = r->words.v, .n_batch = 50, .max_out = 50};
    r->eng.m.hp.n_vocab = T_SPEC_VOCAB;
    r->sp = spec_open(&r->eng, &o, NULL, NULL, NULL, 1, &e);
    EQ_INT(r->sp->past.n, 0);
    CHECK(!r->sp->foreign);
    t_spec_end(r, 0, 40);
    EQ_INT(t_spec_has(path, 40), 0);                  /* now it is theirs */
    t_spec_end(t_spec_cache(path), 0, 40);
    EQ_INT(t_spec_has(path, 40), 41);
    t_store_patch(path, "lookup_cache.version", 4, 3);
    EQ_INT(t_spec_has(path, 40), 0);
    t_spec_end(t_spec_cache(path), 0, 40);
    EQ_INT(t_spec_has(path, 40), 41);
    static const int32_t bad[] = {-2, INT32_MIN, T_SPEC_VOCAB, INT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        unlink(path);
        r = t_spec_cache(path);
        spec_finished(r->sp, &(tok_ids){(int32_t[]){3, 5, bad[i], 7}, 4, 4}, 0);
        t_spec_end(r, -1, 0);
        EQ_INT(t_spec_has(path, 40), 0);
    }
    r = t_spec_cache(NULL);
    CHECK(spec_save(r->sp, &e) && !r->sp->foreign);
    t_spec_close(r);
    unlink(path);
}

/* A file that changes while it is read: no token outside the vocabulary comes in, whenever it changes. */
static void t_spec_changing(void) {
    const char *path = t_spec_path("changing");
    gguf_file   g;
    err_t       e = {0};
    t_spec_end(t_spec_cache(path), 0, 40);
    t_spec_rig *r = t_spec_cache(path);
    if (!CHECKF(gguf_open(&g, path, &e), "%s", e.text)) return;
    gguf_tensor   *t = (gguf_tensor *)(uintptr_t)gguf_tensor_find(&g, "tokens");
    const uint8_t *whole = t->data;
    for (int when = 1; when < TG_TRAP_WHEN; when++) {
        spec__text_drop(&r->sp->past);
        r->sp->past = (spec_text){0};
        t->data = tg_trap_new(whole, t->n_bytes, 80, when, NULL);
        const bool ok = spec__cache_tokens(r->sp, &g, &e);
        tg_trap_end();
        EQ_INT(r->sp->past.n, ok ? 41 : 0);
        for (int i = 0; i < r->sp->past.n; i++) {
            const int32_t id = r->sp->past.id[i];
            if (!CHECKF(id >= -1 && id < T_SPEC_VOCAB, "read %d: token %d", when, id)) break;
        }
    }
    t->data = whole;
    gguf_close(&g);
    t_spec_close(r);
    unlink(path);
}

/* --- vocabularies --- */

/* n tokens; the one at `at` is another word. */
static bool t_spec_words(tt_open *o, int n, int at) {
    str   tokens = {0}, types = {0}, scores = {0};
    err_t e = {0};
    for (int i = 0; i < n; i++) {
        str_fmt(&tokens, i ? "\t%s%d" : "%s%d", i == at ? "x" : "w", i);
        str_put(&types, i ? "\t1" : "1");
        str_put(&scores, i ? "\t0" : "0");
    }
    const tm_kv rows[] = {
        {"tokenizer.ggml.model", 'S', "llama"}, {TM_TOKENS, 'A', tokens.p}, {TM_TYPES, 'I', types.p},
        {TM_SCORES, 'F', scores.p}, {0}};
    const bool  ok = tt_open_mem(o, tm_build(rows, NULL), NULL, &e);
    str_drop(&tokens);
    str_drop(&types);
    str_drop(&scores);
    return CHECKF(ok, "%s", e.text);
}

static void t_spec_same_words(void) {
    static const struct { int n, n_draft, at; const char *says; } rows[] = {
        {200, 200, -1, NULL}, {200, 200 + SPEC_PAD, -1, NULL}, {200, 200 - SPEC_PAD, -1, NULL}, {200, 150, 170, NULL},
        {200, 250, 230, NULL},
        {200, 201 + SPEC_PAD, -1, "FILE: not the target's vocabulary: it has 329 tokens, the target 200"},
        {200, 199 - SPEC_PAD, -1, "FILE: not the target's vocabulary: it has 71 tokens, the target 200"},
        {200, 200, 0, "FILE: not the target's vocabulary: token 0 is 'x0', the target's is 'w0'"},
        {200, 200, 199, "FILE: not the target's vocabulary: token 199 is 'x199', the target's is 'w199'"},
        {200, 500, 7, "FILE: not the target's vocabulary: token 7 is 'x7', the target's is 'w7'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tt_open a, b;
        err_t   e = {0};
        if (!t_spec_words(&a, rows[i].n, -1) || !t_spec_words(&b, rows[i].n_draft, rows[i].at)) return;
        EQ_INT(spec__same_vocab(a.v, b.v, "FILE", &e), !rows[i].says);
        EQ_STR(e.text, rows[i].says ? rows[i].says : "");
        EQ_INT(e.code, rows[i].says ? EXIT_INPUT : 0);
        tt_close(&a);
        tt_close(&b);
    }
}

static const t_case t_spec_cases[] = {
    {"spec match words", "where the end of a text stood before, by hand", t_spec_match_words},
    {"spec match random", "the same as place by place, in thousands of texts", t_spec_match_random},
    {"spec look", "what followed there, round and round, up to an end", t_spec_look},
    {"spec finished", "what is kept of a finished text", t_spec_finished},
    {"spec room", "the older half makes room", t_spec_room},
    {"spec past", "finished texts are bounded, and the newest are found", t_spec_past},
    {"spec choose", "the guesses taken are those of the highest rate", t_spec_choose},
    {"spec chance", "guesses that were wrong are thought less of, for a while", t_spec_chance},
    {"spec propose", "none unknown, as many as pay, none when wrong, and again later", t_spec_propose},
    {"spec verdict", "what was guessed and what was right, by depth", t_spec_verdict},
    {"spec cut", "a context that moves on", t_spec_cut},
    {"spec rows", "rows for guesses within those that a step has", t_spec_rows},
    {"spec speedup", "the speed-up reported is the true one, or there is none", t_spec_speedup},
    {"spec cap", "never more than the tokens of a step", t_spec_cap},
    {"spec aside", "seconds between steps count for both", t_spec_aside},
    {"spec draft time", "drafting and looking count as time that guesses took", t_spec_draft_time},
    {"spec report", "lines for people", t_spec_report},
    {"spec round", "finished texts come back from their file", t_spec_round},
    {"spec full", "a full file takes what is new", t_spec_full},
    {"spec flip", "any byte turned, any length: the saved tokens or none", t_spec_flip},
    {"spec changing", "a file that changes while it is read: no impossible token", t_spec_changing},
    {"spec foreign", "a file that is no lookup cache is left as it is", t_spec_foreign},
    {"spec other", "of another vocabulary or version, with impossible tokens", t_spec_other},
    {"spec same words", "two vocabularies, token by token", t_spec_same_words},
};
static const t_suite t_spec_suite = SUITE(t_spec_cases);
