/* [pool]: every task runs once, no thread passes a barrier early, also with sleeping threads and more threads than CPUs. */
#include "program.h"
#include "check.h"
#include "t_base.h"
#include "t_host.h"

enum { T_POOL_TASKS = 96, T_POOL_LIMIT = 200 };       /* seconds after which a hang ends the whole run, sanitizers included */

/* --- tasks and barriers --- */

/* Number of stages: barriers are cheap while every thread has a CPU, expensive beyond. */
static int t_pool_stages(int n_threads) { return n_threads <= sysconf(_SC_NPROCESSORS_ONLN) ? 2000 : 120; }

typedef struct {
    pool *p;
    int   n_stage;
    int   hits[T_POOL_TASKS];                         /* plain: a task belongs to one thread, a barrier hands it on */
    int   seats[64];
    int   wrong;
} t_pool_count;

/* Tasks of a stage: from none to more than there are threads. */
static int t_pool_tasks(int stage) { return (stage * 7 + 3) % T_POOL_TASKS; }

/* A task of a stage, dealt in each of three ways in turn. */
static int t_pool_task(pool *p, int stage, int n) {
    return stage % 3 == 0 ? pool_next(p) : (stage % 3 == 1 ? pool_take : pool_deal)(p, n, NULL);
}

static void t_pool_count_job(void *ctx, int ith) {
    t_pool_count *c = ctx;
    c->seats[ith]++;
    for (int s = 0; s < c->n_stage; s++) {
        const int n = t_pool_tasks(s);
        for (int i; (i = t_pool_task(c->p, s, n)) < n;) c->hits[i]++;
        pool_barrier(c->p);
        if (ith == s % c->p->n) {                     /* one thread looks at what all of them did */
            for (int i = 0; i < T_POOL_TASKS; i++) c->wrong += c->hits[i] != (i < n), c->hits[i] = 0;
        }
        pool_barrier(c->p);
    }
}

static void t_pool_once(void) {
    alarm(T_POOL_LIMIT);
    for (int n = 1; n <= 13; n += n < 9 ? 1 : 4) {
        t_pool_count *c = mem_new(1, sizeof *c);
        c->p = pool_new(n);
        EQ_INT(c->p->n, n);
        c->n_stage = t_pool_stages(n);
        for (int run = 0; run < 3; run++) {
            pool_run(c->p, t_pool_count_job, c);
            EQ_INT(c->wrong, 0);
        }
        for (int i = 0; i < 64; i++) EQ_INT(c->seats[i], i < n ? 3 : 0);
        pool_free(c->p);
        mem_free(c);
    }
    pool_free(NULL);
    alarm(0);
}

/* Each value of a stage is computed from three of the stage before, by any thread: a read too late or too early changes the
 * result. */
typedef struct {
    pool       *p;
    int         n_stage;
    bool        shy;                                  /* threads leave the team before every task */
    _Atomic int gone;                                 /* how often one was not there for a task */
    int         stage;                                /* as the single tasks count them */
    uint32_t    v[2][T_POOL_TASKS];
} t_pool_wave;

static uint32_t t_pool_mix(const uint32_t *v, int i) {
    return (v[i] * 2654435761u ^ v[(i + 1) % T_POOL_TASKS]) + 31 * v[(i + T_POOL_TASKS - 1) % T_POOL_TASKS];
}

/* The single task at the end of each stage: too early, and a task overwrites its result; too late, and the next stage misses
 * it. */
static void t_pool_wave_single(void *ctx) {
    t_pool_wave *w = ctx;
    w->v[(w->stage + 1) & 1][w->stage % T_POOL_TASKS] += 7;
    w->stage++;
}

static void t_pool_wave_job(void *ctx, int ith) {
    t_pool_wave *w = ctx;
    if (w->shy && ith % 3 != 2) t_seat->crowded = INT_MAX;
    for (int s = 0; s < w->n_stage; s++) {
        for (int i; (i = t_pool_task(w->p, s, T_POOL_TASKS)) < T_POOL_TASKS;)
            w->v[(s + 1) & 1][i] = t_pool_mix(w->v[s & 1], i);
        w->gone += !t_seat->here;
        if (s % 3 == 2) pool_prefetch((const uint8_t *)w->v, sizeof w->v);
        pool_barrier_then(w->p, t_pool_wave_single, w);
    }
}

/* Runs `n_stage` stages (an even number) with n threads; `out` gets the last values. Returns how often a thread has left the
 * team. */
static int t_pool_wave_end(int n, int n_stage, bool shy, uint32_t out[T_POOL_TASKS]) {
    t_pool_wave *w = mem_new(1, sizeof *w);
    w->n_stage = n_stage;
    w->shy = shy;
    for (int i = 0; i < T_POOL_TASKS; i++) w->v[0][i] = (uint32_t)i;
    if (n) {
        w->p = pool_new(n);
        (shy ? pool_run_loose : pool_run)(w->p, t_pool_wave_job, w);
        pool_free(w->p);
    } else {
        for (int s = 0; s < n_stage; s++) {
            for (int i = 0; i < T_POOL_TASKS; i++) w->v[(s + 1) & 1][i] = t_pool_mix(w->v[s & 1], i);
            t_pool_wave_single(w);
        }
    }
    memcpy(out, w->v[0], sizeof w->v[0]);
    const int gone = w->gone;
    mem_free(w);
    return gone;
}

static void t_pool_order(void) {
    alarm(T_POOL_LIMIT);
    uint32_t want[T_POOL_TASKS], got[T_POOL_TASKS];
    for (int n = 1; n <= 13; n += n < 9 ? 1 : 4) {
        t_pool_wave_end(0, 2 * t_pool_stages(n), false, want);
        EQ_INT(t_pool_wave_end(n, 2 * t_pool_stages(n), false, got), 0);
        EQ_MEM(got, want, sizeof want);
    }
    alarm(0);
}

/* on: a thread whose CPU counts as shared leaves before every task. off: the normal times. */
static void t_pool_restless(bool on) {
    static double slice, gap;
    if (on) slice = pool_slice, gap = pool_gap;
    pool_slice = on ? 0 : slice;
    pool_gap = on ? 1e9 : gap;
}

/* Threads leave before a task, stay away and catch up: every task still runs once and in its stage. */
static void t_pool_leaving(void) {
    alarm(T_POOL_LIMIT);
    uint32_t want[T_POOL_TASKS], got[T_POOL_TASKS];
    int      gone = 0;
    t_pool_restless(true);
    for (int round = 0; round < 6; round++) {
        for (int n = 1; n <= 13; n += n < 9 ? 1 : 4) {
            t_pool_wave_end(0, 2 * t_pool_stages(n), false, want);
            gone += t_pool_wave_end(n, 2 * t_pool_stages(n), true, got);
            EQ_MEM(got, want, sizeof want);
        }
    }
    CHECK(gone > 100);
    t_pool_restless(false);
    alarm(0);
}

/* --- several groups, on nodes that are made up: few threads are enough, since no group spans two nodes --- */

/* Nodes and threads of teams. */
static const struct { const char *nodes; int threads; } t_pool_teams[] = {{"2x1", 2}, {"3x1", 3}, {"2x2", 4}, {"4x1", 4}, {"2x2", 3}};

enum { T_POOL_TEAMS = sizeof t_pool_teams / sizeof *t_pool_teams };

/* Makes up the nodes of teams to come; NULL: none. */
static void t_pool_nodes(const char *nodes) {
    if (nodes) setenv("LLMRUN_TOPOLOGY", nodes, 1);
    else unsetenv("LLMRUN_TOPOLOGY");
}

/* Every task once and in its stage, for members and for threads that leave and catch up. */
static void t_pool_groups(void) {
    uint32_t want[T_POOL_TASKS], got[T_POOL_TASKS];
    int      gone = 0;
    alarm(T_POOL_LIMIT);
    for (int i = 0; i < T_POOL_TEAMS; i++) {
        const int     n = t_pool_teams[i].threads, stages = n < 3 ? t_pool_stages(n) : 60;
        t_pool_count *c = mem_new(1, sizeof *c);
        t_pool_nodes(t_pool_teams[i].nodes);
        c->p = pool_new(n);
        CHECK(c->p->n_group > 1);
        EQ_INT(c->p->n_node, t_pool_teams[i].nodes[0] - '0');
        c->n_stage = stages;
        pool_run(c->p, t_pool_count_job, c);
        EQ_INT(c->wrong, 0);
        pool_free(c->p);
        mem_free(c);
        t_pool_wave_end(0, 2 * stages, false, want);
        EQ_INT(t_pool_wave_end(n, 2 * stages, false, got), 0);
        EQ_MEM(got, want, sizeof want);
        t_pool_restless(true);
        gone += t_pool_wave_end(n, 2 * stages, true, got);
        t_pool_restless(false);
        EQ_MEM(got, want, sizeof want);
    }
    t_pool_nodes(NULL);
    (void)gone;                                       /* groups of one thread never let it go */
    alarm(0);
}

/* All tasks are meant for one node, whose threads keep their first one until all others are done: the others do them. */
typedef struct {
    pool *p;
    int   n;                                          /* tasks */
    int   node;                                       /* for which they are meant */
    bool  deal;                                       /* by pool_deal() */
    _Atomic int done;
    int   by[T_POOL_TASKS];                           /* node that did each */
} t_pool_steal;

static void t_pool_steal_job(void *ctx, int ith) {
    t_pool_steal *c = ctx;
    int           at[5] = {0};
    const int     node = c->p->seat[ith].group->node, held = c->p->node[c->node].n;
    for (int k = 1; k <= c->p->n_node; k++) at[k] = k > c->node ? c->n : 0;
    for (int i; (i = (c->deal ? pool_deal : pool_take)(c->p, c->n, at)) < c->n;) {
        c->by[i] = node;
        while (node == c->node && atomic_load(&c->done) < c->n - held) sched_yield();
        atomic_fetch_add(&c->done, 1);
        if (node != c->node) sched_yield();           /* lets those threads take their first one */
    }
    pool_barrier(c->p);
}

static void t_pool_stealing(void) {
    alarm(T_POOL_LIMIT);
    for (int i = 0; i < T_POOL_TEAMS; i++) {
        t_pool_nodes(t_pool_teams[i].nodes);
        pool *p = pool_new(t_pool_teams[i].threads);
        for (int k = 0; k < 2 * p->n_node; k++) {
            t_pool_steal *c = mem_new(1, sizeof *c);
            int           own = 0;
            c->p = p;
            c->n = 40;
            c->node = k / 2;
            c->deal = k % 2;
            pool_run(p, t_pool_steal_job, c);
            EQ_INT(c->done, c->n);
            for (int t = 0; t < c->n; t++) own += c->by[t] == c->node;
            CHECKF(own <= p->node[c->node].n, "%d tasks of 40 by the %d threads that wait", own, p->node[c->node].n);
            mem_free(c);
        }
        pool_free(p);
    }
    t_pool_nodes(NULL);
    alarm(0);
}

/* Tasks of a stage that need all of those of pool_next() before them. */
typedef struct {
    pool       *p;
    int         n_stage, before[T_POOL_TASKS];        /* the stage in which each was done last, from 1 */
    _Atomic int wrong, did;
} t_pool_chain;

static void t_pool_chain_job(void *ctx, int ith) {
    t_pool_chain *c = ctx;
    if (ith % 3 != 2) t_seat->crowded = INT_MAX;
    for (int s = 1; s <= c->n_stage; s++) {
        const int n = s % 5;
        for (int i; n && (i = pool_next(c->p)) < n;) c->before[i] = s, pool_done(c->p);
        for (int i; (i = (s % 2 ? pool_take : pool_deal)(c->p, T_POOL_TASKS, NULL)) != POOL_NONE;) {
            for (int k; !pool_are_done(c->p, n) && (k = pool_next_within(c->p)) < n;) c->before[k] = s, pool_done(c->p);
            pool_until(c->p, n);
            for (int k = 0; k < n; k++) c->wrong += c->before[k] != s;
            c->did++;
        }
        pool_barrier(c->p);
    }
}

static void t_pool_chained(void) {
    alarm(T_POOL_LIMIT);
    t_pool_restless(true);
    for (int n = 1; n <= 13; n += n < 9 ? 1 : 4) {
        t_pool_chain *c = mem_new(1, sizeof *c);
        c->n_stage = t_pool_stages(n);
        c->p = pool_new(n);
        pool_run_loose(c->p, t_pool_chain_job, c);
        pool_free(c->p);
        EQ_INT(c->wrong, 0);
        EQ_INT(c->did, T_POOL_TASKS * c->n_stage);
        mem_free(c);
    }
    t_pool_restless(false);
    alarm(0);
}

/* --- crowded CPUs --- */

typedef struct { int cpus, first; } t_pool_place;     /* how many CPUs a thread may run on, and the first of them */

static t_pool_place t_pool_where(void) {
    cpu_set_t    set;
    t_pool_place at = {0, 0};
    if (!EQ_INT(sched_getaffinity(0, sizeof set, &set), 0)) return at;
    at.cpus = CPU_COUNT(&set);
    while (!CPU_ISSET(at.first, &set)) at.first++;
    return at;
}

static void t_pool_place_job(void *ctx, int ith) { ((t_pool_place *)ctx)[ith] = t_pool_where(); }

/* In a loose job a thread whose CPU counts as shared is bound to one of its own, if there are enough, until the job ends. */
static void t_pool_settled(void) {
    alarm(T_POOL_LIMIT);
    const t_pool_place home = t_pool_where();
    for (int n = home.cpus > 1 ? home.cpus - 1 : 1; n <= home.cpus + 1; n++) {
        t_pool_place *in = mem_new((size_t)n, sizeof *in), *after = mem_new((size_t)n, sizeof *after);
        pool         *p = pool_new(n);
        const bool    own = n == home.cpus;
        for (int i = 0; i < n; i++) p->seat[i].crowded = POOL_CROWDED + 2;
        pool_run_loose(p, t_pool_place_job, in);
        pool_run(p, t_pool_place_job, after);
        for (int i = 0; i < n; i++) {
            EQ_INT(in[i].cpus, own ? 1 : home.cpus);
            for (int j = 0; own && j < i; j++) CHECK(in[i].first != in[j].first);
            EQ_INT(after[i].cpus, home.cpus);
        }
        pool_free(p);
        mem_free(in), mem_free(after);
    }
    alarm(0);
}

/* --- lives --- */

static int t_pool_alive(void) {                       /* threads of this process, counted by the kernel */
    long long n = -1;
    char     *s = t_read("/proc/self/status", NULL), *at = s ? strstr(s, "\nThreads:") : NULL;
    if (at) n = strtoll(at + 9, NULL, 10);
    mem_free(s);
    return (int)n;
}

static void t_pool_mark_job(void *ctx, int ith) { ((int *)ctx)[ith]++; }

static void t_pool_lives(void) {
    alarm(T_POOL_LIMIT);
    const int before = t_pool_alive();
    for (int life = 0; life < 400; life++) {
        const int n = 1 + life % 8, runs = life / 8 % 4;   /* some are freed before they ran */
        int       seats[8] = {0};
        pool     *p = pool_new(n);
        for (int r = 0; r < runs; r++) pool_run(p, t_pool_mark_job, seats);
        for (int i = 0; i < 8; i++) EQ_INT(seats[i], i < n ? runs : 0);
        pool_free(p);
    }
    int left = t_pool_alive();
    for (int i = 0; i < 10000 && left != before; i++) {  /* a joined thread may linger in /proc */
        usleep(1000);
        left = t_pool_alive();
    }
    EQ_INT(left, before);

    pool *p = pool_new(3);                            /* many short jobs in one life, each with another context */
    int   seats[500][3] = {{0}};
    for (int r = 0; r < 500; r++) pool_run(p, t_pool_mark_job, seats[r]);
    for (int r = 0; r < 500; r++)
        for (int i = 0; i < 3; i++) EQ_INT(seats[r][i], 1);
    pool_free(p);
    alarm(0);
}

/* --- sleep --- */

typedef struct {
    pool *p;
    int   late;                                       /* which thread lets the others wait */
    int   seen;                                       /* how many it saw asleep */
    int   after;                                      /* threads past the barrier */
} t_pool_nap;

static int t_pool_sleeping(pool *p) {
    int n = 0;
    for (int i = 0; i < p->n_group; i++) n += atomic_load(&p->group[i].asleep);
    return n;
}

/* Waits until the others sleep, ten seconds at most. Returns the number of sleeping threads. */
static int t_pool_asleep(pool *p) {
    for (double t0 = clock_now(); t_pool_sleeping(p) < p->n - 1 && clock_now() - t0 < 10;) usleep(50);
    return t_pool_sleeping(p);
}

static void t_pool_nap_job(void *ctx, int ith) {
    t_pool_nap *z = ctx;
    if (ith == z->late) z->seen = t_pool_asleep(z->p);
    pool_barrier(z->p);
    __atomic_add_fetch(&z->after, 1, __ATOMIC_RELAXED);
    pool_barrier(z->p);
}

static void t_pool_sleep(void) {
    alarm(T_POOL_LIMIT);
    for (int n = 2; n <= 8; n += 3)
        for (int round = 0; round < 4 * n; round++) {
            t_pool_nap z = {.p = pool_new(n), .late = round % n};
            if (round & 1) EQ_INT(t_pool_asleep(z.p), n - 1);   /* asleep before the first job, too */
            pool_run(z.p, t_pool_nap_job, &z);
            EQ_INT(z.seen, n - 1);
            EQ_INT(z.after, n);
            EQ_INT(t_pool_asleep(z.p), n - 1);        /* and between jobs: an idle team costs nothing */
            z.after = 0;
            pool_run(z.p, t_pool_nap_job, &z);
            EQ_INT(z.after, n);
            pool_free(z.p);
        }
    alarm(0);
}

/* --- more threads than CPUs --- */

/* Runs the stages with `n` threads on one CPU; exits with 0 if the result is right. SIGALRM ends it if it hangs. */
static void t_pool_crowd(int n) {
    uint32_t want[T_POOL_TASKS], got[T_POOL_TASKS];
    alarm(60);
    if (!t_host_pin(1)) _exit(77);
    t_pool_wave_end(0, 300, false, want);
    t_pool_wave_end(n, 300, false, got);
    _exit(memcmp(want, got, sizeof want) != 0);
}

static void t_pool_two_crowds(int n) {                /* and two of them at once, on the same CPU */
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) t_pool_crowd(n);
    char said[256];
    int  mine = t_base_child(t_pool_crowd, n, said, sizeof said), status = 0;
    waitpid(pid, &status, 0);
    _exit(mine ? mine : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static void t_pool_oversubscribed(void) {
    char said[1024];
    for (int n = 1; n <= 16; n *= 2) {
        const int rc = t_base_child(t_pool_crowd, n, said, sizeof said);
        if (rc == 77) SKIP("this process may not choose its CPU");
        CHECKF(rc == 0, "%d threads on one CPU: %d %s", n, rc, said);
    }
    const int rc = t_base_child(t_pool_two_crowds, 4, said, sizeof said);
    CHECKF(rc == 0, "twice four threads on one CPU: %d %s", rc, said);
}

/* --- OMP_NUM_THREADS --- */

static void t_pool_thread_count(void) {
    static const struct { const char *text; int want; } rows[] = {
        {"1", 1}, {"8", 8}, {" 8 ", 8}, {"\t2", 2}, {"4,2,1", 4}, {"4 , 2", 4}, {"007", 7}, {"1024", 1024}, {"1,1024", 1},
        {"", 0}, {" ", 0}, {"0", 0}, {"-1", 0}, {"+1", 0}, {"x", 0}, {"4x", 0}, {"4 2", 0}, {"4,", 0}, {",4", 0}, {"4,,2", 0}, {"4,0", 0},
        {"4,-2", 0}, {"1025", 0}, {"4294967297", 0}, {"99999999999999999999999999", 0}, {"1,99999999999999999999", 0}, {"0x4", 0}, {"4.0", 0},
        {"1e2", 0}, {"\xff\xff", 0}, {"4\n", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int got = pool__thread_count(rows[i].text);
        CHECKF(got == rows[i].want, "'%s': %d threads, want %d", rows[i].text, got, rows[i].want);
    }
}

/* Number of threads by OMP_NUM_THREADS, invalid in every second case: then as many as CPUs, with one warning. */
static void t_pool_asked(int i) {
    static const char *const text[] = {"3,2", "zero", "1", "-4"};
    static const int         want[] = {3, 0, 1, 0};
    g_log_level = LOG_NORMAL;
    setenv("OMP_NUM_THREADS", text[i], 1);
    for (int twice = 0; twice < 2; twice++)
        if (pool_default_threads() != (want[i] ? want[i] : host_cpus())) _exit(1);
    _exit(0);
}

static void t_pool_environment(void) {
    char said[512];
    for (int i = 0; i < 4; i++) {
        const int   rc = t_base_child(t_pool_asked, i, said, sizeof said);
        const char *line = strstr(said, "is ignored: expected");
        CHECKF(rc == 0 && !line == (i % 2 == 0) && !(line && strstr(line + 1, "is ignored")), "case %d: exit %d, '%s'", i, rc, said);
    }
}

static const t_case t_pool_cases[] = {
    {"pool once", "every task of every stage runs once, with 1 to 8 threads, by pool_next and by pool_take", t_pool_once},
    {"pool order", "a stage sees all writes of the stage before and of the single task after it", t_pool_order},
    {"pool leaving", "threads that leave the team before tasks and catch up", t_pool_leaving},
    {"pool groups", "the same with several groups and nodes, of one thread and of more", t_pool_groups},
    {"pool stealing", "tasks of a node whose threads are busy are done by the threads of others", t_pool_stealing},
    {"pool chained", "tasks that wait for others of their stage, while threads leave the team", t_pool_chained},
    {"pool settled", "beside other processes each thread stays on a CPU of its own, during the job", t_pool_settled},
    {"pool lives", "teams start, work and end hundreds of times and leave no thread", t_pool_lives},
    {"pool sleep", "a thread that waits long sleeps and is woken, whichever thread is late", t_pool_sleep},
    {"pool oversubscribed", "more threads than CPUs end in bounded time, with two teams at once too", t_pool_oversubscribed},
    {"pool thread count", "OMP_NUM_THREADS: a number or a list of them, and nothing else", t_pool_thread_count},
    {"pool environment", "OMP_NUM_THREADS is the default; an invalid value is ignored with one line", t_pool_environment},
};
static const t_suite t_pool_suite = SUITE(t_pool_cases);
