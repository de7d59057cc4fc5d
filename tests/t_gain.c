/* [gain]: seconds of steps. What is counted and reported is tested in t_spec.c, with the guesses that it is about. */
#include "program.h"
#include "check.h"

/* Steps of n rows took so long, for `times` times, just now. */
static void t_gain_know(spec_cost *c, int n, double seconds, int times) {
    if (c->level <= 0) c->level = 1;
    c->took[n].n = times;
    for (int i = 0; i < SPEC_KEEP; i++) c->took[n].v[i] = (float)seconds;
    c->s[n] = c->anchor[n] = seconds;
    c->at_level[n] = c->level;
    c->at[n] = c->now;
    spec_cost__fit(c);
}

/* Steps of n rows take first + each * (n - 1) seconds, for good. */
static void t_gain_costs(spec_cost *c, double first, double each) {
    for (int n = 1; n <= SPEC_COST; n++) t_gain_know(c, n, first + each * (n - 1), 100);
}

static void t_gain_low(void) {
    static const struct { int n, low; } rows[] = {{1, 0}, {2, 0}, {10, 0}, {11, 1}, {SPEC_KEEP, 1}, {100, 1}};
    spec_times t = {.n = 0};
    NEAR(spec_cost__low(&t), 0, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (uint64_t round = 0; round < 20; round++) {   /* 1, 2, 3, ... in any order, times before them pushed out */
            const int n = rows[i].n < SPEC_KEEP ? rows[i].n : SPEC_KEEP;
            double    v[SPEC_KEEP];
            for (int k = 0; k < n; k++) v[k] = k + 1;
            for (int k = n - 1; k > 0; k--) {
                const int    j = (int)(rng_at(81, round, (uint64_t)k, 0) % (uint64_t)(k + 1));
                const double was = v[k];
                v[k] = v[j], v[j] = was;
            }
            t = (spec_times){.n = 0};
            for (int k = 0; k < rows[i].n - n; k++) spec_cost__take(&t, 0.001);
            for (int k = 0; k < n; k++) spec_cost__take(&t, v[k]);
            NEAR(spec_cost__low(&t), rows[i].low + 1, 1e-6);
        }
}

static void t_gain_cost(void) {
    static const struct { int n; double want; } rows[] = {
        {1, 10 / 1.03}, {2, 10}, {3, 15}, {4, 20}, {5, 25}, {6, 30}, {7, 30 * 1.03}, {10, 30 * 1.12}, {64, 30 * 2.74},
    };
    spec_cost c = {0};
    for (int n = 0; n <= SPEC_COST + 1; n++) NEAR(spec_cost_at(&c, n), 0, 0);
    t_gain_know(&c, 2, 10, 5);
    t_gain_know(&c, 6, 30, 5);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const double got = spec_cost_at(&c, rows[i].n);
        CHECKF(fabs(got - rows[i].want) < 1e-9, "%d rows: %g, want %g", rows[i].n, got, rows[i].want);
    }
    NEAR(spec_cost_at(&c, SPEC_COST + 10), spec_cost_at(&c, SPEC_COST) * 1.3, 1e-9);
    t_gain_know(&c, 9, 24, 5);                        /* nine rows do the work of six */
    NEAR(spec_cost_at(&c, 6), 24, 1e-9);
    NEAR(spec_cost_at(&c, 7), 24, 1e-9);
    NEAR(spec_cost_at(&c, 2), 10, 1e-9);
    c = (spec_cost){0};
    t_gain_know(&c, SPEC_COST, 50, 1);
    NEAR(spec_cost_at(&c, SPEC_COST), 50, 0);
    NEAR(spec_cost_at(&c, SPEC_COST + 1), 51.5, 1e-9);
    for (int n = 0; n <= 100; n++)                    /* n - n/4 <= 64 <= n + n/4 */
        CHECKF(spec_cost_near(&c, n) == (n >= 52 && n <= 85), "%d rows", n);
}

static void t_gain_took(void) {
    spec_cost c = {0};
    for (int n = -1; n <= SPEC_COST + 2; n += SPEC_COST + 2) spec_cost_add(&c, n == SPEC_COST + 1 ? 0 : n, 5);
    EQ_INT(c.now, 2);
    for (int n = 0; n <= SPEC_COST + 1; n++) NEAR(spec_cost_at(&c, n), 0, 0);
    spec_cost_add(&c, 3, 0.010);                         /* the first time is believed */
    NEAR(spec_cost_at(&c, 3), 0.010, 1e-8);
    EQ_INT(c.at[3], 3);
    for (int i = 0; i < 40; i++) spec_cost_add(&c, 3, i % 2 ? 0.0105 : 0.0095);
    NEAR(spec_cost_at(&c, 3), 0.0095, 1e-8);            /* the lower of two */
}

/* How long a measured time stays valid: longer the more often it was measured, and never for ever. */
static void t_gain_age(void) {
    static const struct { int times; long long age; } rows[] = {
        {1, SPEC_AGE << 1}, {2, SPEC_AGE << 2}, {4, SPEC_AGE << 4}, {5, SPEC_AGE << 5}, {90, SPEC_AGE << 5}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        spec_cost c = {0};
        for (int k = 0; k < rows[i].times; k++) spec_cost_add(&c, 4, 1);
        t_gain_know(&c, 9, 8, 1000);                  /* is known for longer */
        c.now = c.at[4] + rows[i].age;
        CHECKF(spec_cost__known(&c, 4) && spec_cost_near(&c, 4), "taken %d times, %lld steps ago", rows[i].times, rows[i].age);
        c.now++;
        CHECKF(!spec_cost__known(&c, 4) && !spec_cost_near(&c, 4), "taken %d times, %lld steps ago", rows[i].times,
               rows[i].age + 1);
        c.at[9] = c.now;
        spec_cost__fit(&c);
        NEAR(spec_cost_at(&c, 4), 8 / 1.15, 0.01);      /* nothing but the other one is left */
        spec_cost again = c;
        spec_cost_add(&again, 4, 1.1);                   /* much like before: it was right */
        EQ_INT(again.took[4].n, rows[i].times + 1);
        again = c;
        spec_cost_add(&again, 4, 7);                     /* another machine by now */
        EQ_INT(again.took[4].n, 1);
        NEAR(spec_cost_at(&again, 4), 7, 1e-6);
    }
}

/* A made-up machine: seconds of a step of n rows. */
static double t_gain_machine(int n) { return 0.010 + 0.001 * n; }

/* Steps of these sizes in turn on a machine `by` times as slow. */
static void t_gain_run(spec_cost *c, const int *sizes, int n_sizes, int steps, double by) {
    for (int i = 0; i < steps; i++) spec_cost_add(c, sizes[i % n_sizes], by * t_gain_machine(sizes[i % n_sizes]));
}

/* A machine that becomes slower or faster: what is seen at one size is believed of those that are not taken, and all of
 * them are right, neither more nor less, once they are taken again. */
static void t_gain_level(void) {
    static const int    sizes[] = {1, 4, 8, 16};
    static const double by[] = {2, 0.5, 5, 0.1};
    for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
        spec_cost c = {0};
        t_gain_run(&c, sizes, 4, 200, 1);
        for (int k = 0; k < 4; k++) NEAR(spec_cost_at(&c, sizes[k]) / t_gain_machine(sizes[k]), 1, 1e-6);
        const spec_cost before = c;
        t_gain_run(&c, sizes, 1, SPEC_KEEP, by[i]);
        for (int k = 0; k < 4; k++) NEAR(spec_cost_at(&c, sizes[k]) / t_gain_machine(sizes[k]) / by[i], 1, 1e-5);
        c = before;
        for (int round = 0; round < 40; round++) {
            t_gain_run(&c, sizes, 4, 4, by[i]);
            if (round >= SPEC_KEEP)
                for (int k = 0; k < 4; k++) NEAR(spec_cost_at(&c, sizes[k]) / t_gain_machine(sizes[k]) / by[i], 1, 1e-5);
        }
    }
}

/* Attention over a text that grows: costs follow, also those of sizes that are taken once in a while. */
static void t_gain_growth(void) {
    spec_cost c = {0};
    for (int i = 0; i < 20000; i++) {
        const double grown = 1 + i / 4000.0;
        const int    n = i % 40 ? 1 : 8;
        spec_cost_add(&c, n, grown * t_gain_machine(n));
        if (i < 100) continue;
        NEAR(spec_cost_at(&c, 1) / t_gain_machine(1) / grown, 1, 0.05);
        NEAR(spec_cost_at(&c, 8) / t_gain_machine(8) / grown, 1, 0.34);     /* a shift of a third is what moves it */
    }
}

/* A step while another process uses the CPU: one in `of` lasts longer by a time slice or several. */
static double t_gain_disturbed(uint64_t seed, int i, int of, double seconds) {
    const uint64_t r = rng_at(82, seed, (uint64_t)i, 0);
    return seconds * (1 + 0.02 * (double)(r >> 32 & 0xff) / 255) + (r % (uint64_t)of ? 0 : 0.003 * (double)(1 + (r >> 40) % 5));
}

/* Preemption makes single steps ten or a hundred times as long and leaves the costs as they are. */
static void t_gain_spike(void) {
    static const int sizes[] = {1, 1, 1, 4, 1, 8};
    for (uint64_t seed = 0; seed < 30; seed++) {
        spec_cost c = {0};
        for (int i = 0; i < 600; i++) {
            const int n = sizes[i % 6];
            spec_cost_add(&c, n, t_gain_disturbed(seed, i, 3, 0.02 * t_gain_machine(n)));
            if (i < 120) continue;
            for (int k = 3; k < 6; k++) {
                const double is = spec_cost_at(&c, sizes[k]) / (0.02 * t_gain_machine(sizes[k]));
                CHECKF(is > 0.99 && is < 1.03, "%d rows, step %d: %.2f of the true time", sizes[k], i, is);
            }
        }
    }
    static const double off[] = {10, 1000, 0.01};
    for (int k = 0; k < 3; k++) {                     /* one alone among known ones */
        spec_cost c = {0};
        t_gain_run(&c, sizes, 6, 60, 1);
        spec_cost_add(&c, 4, off[k] * t_gain_machine(4));
        for (int i = 3; i < 6; i++) NEAR(spec_cost_at(&c, sizes[i]) / t_gain_machine(sizes[i]), 1, 1e-6);
    }
    spec_cost c = {0};                                /* the first ones: the next that is not disturbed takes their place */
    for (int i = 0; i < 3; i++) spec_cost_add(&c, 8, 0.3);
    spec_cost_add(&c, 8, 0.015);
    NEAR(spec_cost_at(&c, 8), 0.015, 1e-8);
    spec_cost_add(&c, 1, 0.9);                           /* one row costs no more than eight */
    NEAR(spec_cost_at(&c, 1), 0.015, 1e-8);
}

static const t_case t_gain_cases[] = {
    {"gain cost", "seconds of a step: as taken, between two, beyond them", t_gain_cost},
    {"gain low", "the low quantile of the last times, in any order", t_gain_low},
    {"gain took", "the first time is believed, later on the lower ones", t_gain_took},
    {"gain age", "a time is believed for as long as it was confirmed", t_gain_age},
    {"gain level", "a machine that becomes slower or faster is so at all sizes", t_gain_level},
    {"gain growth", "costs follow a text that grows", t_gain_growth},
    {"gain spike", "preemption makes steps longer and leaves costs as they are", t_gain_spike},
};
static const t_suite t_gain_suite = SUITE(t_gain_cases);
