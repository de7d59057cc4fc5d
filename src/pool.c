/* ===== [pool] worker threads =====
 * One team of threads for the life of a run; the caller is thread 0. pool_run() lets every thread execute one function, a job.
 * Inside a job pool_barrier() separates stages. The threads share the tasks of a stage by pool_deal(), in the order of their
 * numbers, or by pool_take(): each thread takes the tasks of its own range first and then helps the others. Tasks that are
 * large and of unknown number come from one counter, pool_next(). Work that is too small to share is done by one thread at a
 * barrier (pool_barrier_then). A waiting thread spins for some tens of microseconds and prefetches what it reads next
 * (pool_prefetch), then sleeps in the kernel, so that two runs on the same cores do not slow each other down. The number of
 * threads never changes a result.
 *   Many threads: those of a memory node come one after the other and form groups of up to POOL_GROUP. What the threads of a
 * group write (arrivals at a barrier, counters of tasks) lies in lines of that group, and one of them carries it on to the team,
 * so that a line moves between few cores. Tasks go to the nodes by `at`, the first task of each, and a thread without tasks
 * takes those of its group, then of its node, then of other nodes.
 *
 *     node            0                   1
 *     group      0         1         2         3         closes a stage: the last thread of the last group
 *     threads  0 1 2 3   4 5 6 7   8 9 ..              tasks of the node: [at[1], at[2]), of a thread: an equal part of them
 *
 *   Memory nodes (NUMA): with more than one of them each thread may run on the CPUs of its node alone, so that memory that it
 * writes first lies there. pool_numa() chooses; CPUs and nodes are those of host_nodes_find().
 *   Where another process uses the same CPU, the kernel suspends a thread for milliseconds, and all others wait for its task. A
 * loose job (pool_run_loose) avoids this: between two tasks a thread on a shared CPU leaves the team and yields, and the other
 * threads do its tasks. One thread of each group stays, since it carries the group's arrival on. When a thread runs again it
 * skips the stages that are finished. Requirements for a loose job: all work is done as tasks; no task depends on the number of
 * the thread; every thread meets the same barriers; a barrier is called only when no task is left. While a CPU is shared, each
 * thread is bound to a CPU of its own if it may use exactly as many CPUs as there are threads to use them: else the kernel
 * might put two threads on one CPU. OMP_NUM_THREADS, read as OpenMP reads it, sets the number of threads.
 * Public: pool_default_threads, pool_numa, pool_new, pool_free, pool_run, pool_run_loose, pool_barrier, pool_barrier_then,
 * pool_works, pool_next, pool_next_within, pool_done, pool_are_done, pool_until, pool_deal, pool_take, pool_own, pool_first,
 * pool_nodes, pool_node_of, pool_says, pool_prefetch.
 * Opens: pool_node. */

/* --- OMP_NUM_THREADS: OpenMP's variable, read as libgomp reads it. An invalid value is ignored with a warning. --- */

enum { POOL_OMP_MOST = 1024 };                        /* the largest OMP_NUM_THREADS */

/* Reads a decimal number and the blanks around it, and moves *at after them. -1: no number, or one above `most`. */
static int pool__read_number(const char **at, int most) {
    const char *p = *at + strspn(*at, " \t");
    int         v = 0;
    if (!isdigit((unsigned char)*p)) return -1;
    for (; isdigit((unsigned char)*p) && v <= most; p++) v = 10 * v + (*p - '0');
    *at = p + strspn(p, " \t");
    return v <= most ? v : -1;
}

/* Whether the next character is c; then *at moves after it and the blanks around it. */
static bool pool__skip_char(const char **at, char c) {
    const char *p = *at + strspn(*at, " \t");
    if (*p != c) return false;
    *at = p + 1 + strspn(p + 1, " \t");
    return true;
}

/* The first of a list of positive numbers; 0: the text is no such list. */
static int pool__thread_count(const char *text) {
    int first = 0;
    do {
        const int n = pool__read_number(&text, POOL_OMP_MOST);
        if (n < 1) return 0;
        if (!first) first = n;
    } while (pool__skip_char(&text, ','));
    return *text ? 0 : first;
}

/* Number of threads that OMP_NUM_THREADS asks for; 0: none. */
static int pool__asked_threads(void) {
    static bool warned;
    const char *text = getenv("OMP_NUM_THREADS");
    const int   n = text ? pool__thread_count(text) : 0;
    if (text && !n && !warned)
        log_warn("OMP_NUM_THREADS: '%s' is ignored: expected a number from 1 to 1024, or several with commas between", text);
    warned = warned || (text && !n);
    return n;
}

/* OMP_NUM_THREADS, else the number of CPUs. */
static int pool_default_threads(void) {
    const int asked = pool__asked_threads();
    return asked ? asked : host_cpus();
}

/* --- the team --- */

typedef struct pool pool;

/* Threads that share lines. Each line is written by them alone, but for the thread that starts a job or closes a stage. */
typedef struct {
    _Alignas(64) _Atomic uint32_t epoch;              /* number of the job that its workers run */
    _Alignas(64) _Atomic uint32_t turn;               /* incremented after each stage: waiting threads watch it */
    _Alignas(64) _Atomic uint64_t team;               /* stage << 32 | members at the barrier << 16 | members */
    _Alignas(64) _Atomic uint64_t taken;              /* (stage + 1) << 32 | tasks of its range that pool_deal() gave in it */
    _Alignas(64) _Atomic uint32_t dry;                /* stage + 1: no thread of it has a task left by pool_take() */
    _Alignas(64) _Atomic int asleep;                  /* threads inside futex */
    _Alignas(64) _Atomic uint32_t n_done;             /* workers that have finished the job */
    int from;                                         /* its first thread */
    int n;                                            /* threads */
    int node;                                         /* of the team: number in pool.node */
} pool_group;

/* A thread of the team. */
typedef struct {
    _Alignas(64) pool *p;                             /* its team */
    pool_group *group;
    int      ith;                                     /* its number; 0: the caller */
    uint32_t stage;                                   /* barriers of this job that it has passed */
    bool     here;                                    /* a member of the team: barriers wait for it */
    int      crowded;                                 /* coming jobs in which its CPU counts as shared */
    long     preempted;                               /* involuntary context switches before the last job */
    double   since;                                   /* when it got the CPU (an estimate) */
    double   last;                                    /* when it took its last task */
    double   task;                                    /* seconds between its last two tasks of a stage */
    uint32_t last_stage;                              /* stage of its last task */
    const uint8_t *soon;                              /* bytes that it reads next and has not prefetched */
    const uint8_t *soon_end;                          /* where they end */
    _Alignas(64) _Atomic uint64_t taken;              /* (stage + 1) << 32 | tasks taken of its range in that stage */
} pool_seat;

/* Threads on one memory node. */
typedef struct {
    int      from;                                    /* the first of them */
    int      n;                                       /* threads */
    int      memory;                                  /* the kernel's number of the node; -1: memory is not placed there */
    cpu_set_t cpus;                                   /* on which they may run, where the team is bound */
} pool_node;

struct pool {
    _Alignas(64) _Atomic uint32_t arrived;            /* groups whose members are all at the barrier */
    _Alignas(64) _Atomic int next;                    /* next task of the current stage, by pool_next() */
    _Atomic uint32_t done;                            /* of these tasks, those that are done, by pool_done() */
    _Atomic int waits;                                /* threads that sleep until more are */
    _Alignas(64) _Atomic uint32_t n_done;             /* groups whose workers have finished the job */
    _Alignas(64) _Atomic int asleep;                  /* whether the caller sleeps until then */
    int        n;                                     /* threads, the caller included */
    int        n_group;
    int        n_node;                                /* nodes that have threads */
    bool       places;                                /* memory is placed on the nodes of the threads that read it */
    bool       bound;                                 /* threads run on the CPUs of their nodes alone */
    pthread_t *thread;
    pool_seat *seat;                                  /* [n] */
    pool_group *group;                                /* [n_group] */
    pool_node  node[HOST_NODES];                      /* [n_node] */
    cpu_set_t  before;                                /* on which the caller may run outside jobs */
    bool       quit, loose;
    void (*fn)(void *ctx, int ith);
    void *ctx;
};

static _Thread_local pool_seat *t_seat;               /* this thread's seat in the job that it runs */

enum {
    POOL_GROUP = 8,                                   /* most threads of a group */
    POOL_SPIN = 2000,                                 /* pauses before sleeping: about 50 microseconds */
    POOL_LINES = 4,                                   /* lines that are prefetched in each */
    POOL_NONE = INT_MAX,                              /* no task left, or the thread is behind the team */
    POOL_CROWDED = 16,                                /* jobs for which a CPU counts as shared after the thread was preempted */
    POOL_MOST = 0xffff,                               /* threads that `team` can count */
};

static double pool_slice = 1.0e-3;                    /* seconds for which a thread keeps a shared CPU */
static double pool_gap = 0.7e-3;                      /* after a longer pause (beside two tasks) a thread counts as preempted */

static uint32_t pool__stage(uint64_t team) { return (uint32_t)(team >> 32); }
static bool     pool__all_there(uint64_t team) { return (team >> 16 & 0xffff) == (team & 0xffff); }

/* Prefetches some cache lines of what the thread reads next. */
static void pool__prefetch_lines(pool_seat *s) {
    for (int i = 0; i < POOL_LINES && s->soon != s->soon_end; i++, s->soon += 64) __builtin_prefetch(s->soon, 0, 2);
}

/* Sleeps while *word is `old`, or for a shorter time; wakes all that sleep. */
#ifdef __APPLE__
static void pool__sleep(_Atomic uint32_t *word, uint32_t old) { __ulock_wait(DARWIN_COMPARE_AND_WAIT, (void *)word, old, 0); }
static void pool__rouse(_Atomic uint32_t *word) { __ulock_wake(DARWIN_COMPARE_AND_WAIT | DARWIN_WAKE_ALL, (void *)word, 0); }
#else
static void pool__sleep(_Atomic uint32_t *word, uint32_t old) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
}
static void pool__rouse(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0); }
#endif

/* Returns once *word is no longer `old`. *asleep counts those that sleep. */
static void pool__wait(_Atomic uint32_t *word, uint32_t old, _Atomic int *asleep) {
    for (int i = 0; i < POOL_SPIN; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) != old) return;
        if (t_seat) pool__prefetch_lines(t_seat);
        k_pause();
    }
    atomic_fetch_add(asleep, 1);
    while (atomic_load(word) == old) pool__sleep(word, old);
    atomic_fetch_sub(asleep, 1);
}

static void pool__advance(_Atomic uint32_t *word, _Atomic int *asleep) {
    atomic_fetch_add(word, 1);
    if (atomic_load(asleep)) pool__rouse(word);
}

/* Returns once the team has finished this stage. `turn` is older than `team` while the thread that closed the stage is preempted
 * between the two writes. */
static void pool__wait_stage(pool_group *g, uint32_t stage) {
    for (;;) {
        const uint32_t turn = atomic_load(&g->turn);
        if (pool__stage(atomic_load(&g->team)) != stage) return;
        pool__wait(&g->turn, turn, &g->asleep);
    }
}

/* Begins the next stage. All members are at the barrier, so no other thread changes a group, `next` or `done`. What the team
 * shares changes before the first group goes on. */
static void pool__close(pool *p, void (*fn)(void *ctx), void *ctx) {
    if (fn) fn(ctx);
    atomic_store(&p->next, 0);
    atomic_store(&p->done, 0);
    atomic_store(&p->arrived, 0);
    for (pool_group *g = p->group; g < p->group + p->n_group; g++) {
        const uint64_t team = atomic_load(&g->team);
        atomic_store(&g->team, (uint64_t)(pool__stage(team) + 1) << 32 | (team & 0xffff));
        pool__advance(&g->turn, &g->asleep);
    }
}

/* Joins the team again if it is in this thread's stage and the group not about to end it. */
static bool pool__join(pool_seat *s) {
    uint64_t team = atomic_load(&s->group->team);
    while (pool__stage(team) == s->stage && !pool__all_there(team))
        if (atomic_compare_exchange_weak(&s->group->team, &team, team + 1)) return s->here = true;
    return false;
}

/* Leaves the team between two tasks, unless all others of its group wait at the barrier or no other member of it is left. */
static void pool__leave(pool_seat *s) {
    uint64_t team = atomic_load(&s->group->team);
    do
        if (pool__all_there(team + (1 << 16))) return;
    while (!atomic_compare_exchange_weak(&s->group->team, &team, team - 1));
    s->here = false;
}

/* Waits until every member has called it; then one thread calls fn, if there is one. What the threads wrote before is visible to
 * fn, and what they and fn wrote is visible to all threads after it. */
static void pool_barrier_then(pool *p, void (*fn)(void *ctx), void *ctx) {
    pool_seat     *s = t_seat;
    pool_group    *g = s->group;
    const uint32_t stage = s->stage++;
    /* No member: it had no task of this stage. */
    const bool last = s->here && pool__all_there(atomic_fetch_add(&g->team, 1 << 16) + (1 << 16));
    if (last && (p->n_group == 1 || atomic_fetch_add(&p->arrived, 1) + 1 == (uint32_t)p->n_group)) pool__close(p, fn, ctx);
    else pool__wait_stage(g, stage);
}

/* Waits until every member has called it. */
static void pool_barrier(pool *p) { pool_barrier_then(p, NULL, NULL); }

/* Gives up a shared CPU before the kernel suspends the thread. */
static void pool__yield(pool_seat *s) {
    const double now = clock_now(), passed = now - s->last;
    if (passed > pool_gap + 2 * s->task) s->since = now;            /* preempted, or idle */
    else if (s->stage == s->last_stage) s->task = passed;
    s->last = now;
    s->last_stage = s->stage;
    if (now - s->since < pool_slice) return;
    pool__leave(s);
    if (!s->here) sched_yield();
    s->since = s->last = clock_now();
}

/* Whether this thread is a member in this stage. Else it may be stages behind and must not read what the members write. */
static bool pool_works(void) {
    pool_seat *s = t_seat;
    if (s->crowded && s->here && s->p->loose) pool__yield(s);
    return s->here || pool__join(s);
}

/* The next task number of this stage; the caller stops when it is past its last task. */
static int pool_next(pool *p) {
    return pool_works() ? atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed) : POOL_NONE;
}

/* Tasks that others of the same stage depend on come from pool_next() before those: the thread that has done one says so. */
static void pool_done(pool *p) { pool__advance(&p->done, &p->waits); }

/* Whether n of them are done; what they wrote is visible then. */
static bool pool_are_done(pool *p, int n) { return atomic_load_explicit(&p->done, memory_order_acquire) >= (uint32_t)n; }

/* pool_next() for a thread that is within a task, where it may not leave the team. */
static int pool_next_within(pool *p) { return atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed); }

/* Returns once n of them are done. The caller has seen pool_next_within() give n or more, so each is done or in the hands of a
 * member that is in it: none of them waits for a thread that has left the team, or that joined it after its own turn with
 * pool_next(). */
static void pool_until(pool *p, int n) {
    while (!pool_are_done(p, n)) {
        const uint32_t done = atomic_load(&p->done);
        if (done < (uint32_t)n) pool__wait(&p->done, done, &p->waits);
    }
}

/* --- dealing: tasks [0, n), of which those from at[k] on, before at[k + 1], are meant for node k; `at` NULL: equal shares --- */

typedef struct { int from, end; } pool__range;

/* The tasks of threads [i, i + n_threads) of one node. */
static pool__range pool__range_of(const pool *p, int node, int i, int n_threads, int n, const int *at) {
    const pool_node *o = &p->node[node];
    const int64_t    first = at ? at[node] : 0, all = at ? at[node + 1] - at[node] : n, of = at ? o->n : p->n,
                     k = at ? i - o->from : i;
    return (pool__range){(int)(first + all * k / of), (int)(first + all * (k + n_threads) / of)};
}

/* The first task of thread ith's range. */
static int pool_first(const pool *p, int n, const int *at, int ith) {
    return pool__range_of(p, p->seat[ith].group->node, ith, 1, n, at).from;
}

/* The next task of a range, whose counter is *taken; POOL_NONE: none is left. A count of an earlier stage is zero. */
static int pool__count(_Atomic uint64_t *taken, uint32_t stage, pool__range r) {
    const uint64_t none = (uint64_t)(stage + 1) << 32, end = none + (uint64_t)(r.end - r.from);
    uint64_t       v = atomic_load(taken), have;
    do have = max_u64(v, none);
    while (have < end && !atomic_compare_exchange_weak(taken, &v, have + 1));
    return have < end ? r.from + (int)(have - none) : POOL_NONE;
}

/* A task of group g, of the whole group's range. */
static int pool__of_group(pool_seat *s, pool_group *g, int n, const int *at) {
    return pool__count(&g->taken, s->stage, pool__range_of(s->p, g->node, g->from, g->n, n, at));
}

/* A task of group g, of the range of one of its threads: of thread s first, if it is there, and then of those after it. */
static int pool__of_seats(pool_seat *s, pool_group *g, int n, const int *at) {
    const int begin = s->group == g ? s->ith - g->from : s->ith % g->n;
    if (atomic_load_explicit(&g->dry, memory_order_relaxed) == s->stage + 1) return POOL_NONE;
    for (int i = 0; i < g->n; i++) {
        const int ith = g->from + (begin + i) % g->n;
        const int task = pool__count(&s->p->seat[ith].taken, s->stage, pool__range_of(s->p, g->node, ith, 1, n, at));
        if (task != POOL_NONE) return task;
    }
    atomic_store_explicit(&g->dry, s->stage + 1, memory_order_relaxed);
    return POOL_NONE;
}

typedef int pool__of(pool_seat *s, pool_group *g, int n, const int *at);

/* A task of the groups of this thread's node, its own first; away: of those of other nodes. */
static int pool__search(pool_seat *s, bool away, int n, const int *at, pool__of *of) {
    const pool *p = s->p;
    const int   own = (int)(s->group - p->group);
    for (int i = 0; i < p->n_group; i++) {
        pool_group *g = &p->group[(own + i) % p->n_group];
        if ((g->node != s->group->node) != away) continue;
        const int task = of(s, g, n, at);
        if (task != POOL_NONE) return task;
    }
    return POOL_NONE;
}

/* One of the n tasks of this stage; POOL_NONE: none is left. Those of a group come in the order of their numbers. A stage uses
 * one of pool_deal(), pool_take() and pool_own(), with the same n and at in all threads, or pool_next(); or pool_next() for tasks
 * that end with pool_done(), then one of the others for those that wait for them. */
static int pool_deal(pool *p, int n, const int *at) {
    pool_seat *s = t_seat;
    if (!pool_works()) return POOL_NONE;
    const int task = pool__search(s, false, n, at, pool__of_group);
    return task != POOL_NONE || p->n_node == 1 ? task : pool__search(s, true, n, at, pool__of_group);
}

/* The same, but a thread takes the tasks of its own range in order, so that it reads memory in sequence, then what is left of the
 * other ranges. */
static int pool_take(pool *p, int n, const int *at) {
    pool_seat *s = t_seat;
    if (!pool_works()) return POOL_NONE;
    const int task = pool__search(s, false, n, at, pool__of_seats);
    return task != POOL_NONE || p->n_node == 1 ? task : pool__search(s, true, n, at, pool__of_seats);
}

/* The same, of the tasks that are meant for this thread's node alone. Not for a loose job. */
static int pool_own(int n, const int *at) { return pool__search(t_seat, false, n, at, pool__of_seats); }

/* Nodes on which memory is placed, for the threads there to read it; 1: it is not. */
static int pool_nodes(const pool *p) { return p->places ? p->n_node : 1; }

/* Number k of them. */
static const pool_node *pool_node_of(const pool *p, int k) { return &p->node[k]; }

/* This thread reads the n bytes at p soon: it prefetches them while it waits. */
static void pool_prefetch(const uint8_t *p, size_t n) {
    t_seat->soon = p;
    t_seat->soon_end = p + (n + 63) / 64 * 64;
}

/* Binds the thread to a CPU of its own if it may use exactly as many CPUs as there are threads to use them: those of the team, or
 * of its node where the team is bound. `before` gets its affinity mask. */
static bool pool__bind_own(const pool_seat *s, cpu_set_t *before) {
    const pool      *p = s->p;
    const pool_node *o = &p->node[s->group->node];
    const int        from = p->bound ? o->from : 0, n = p->bound ? o->n : p->n;
    cpu_set_t        own;
    CPU_ZERO(&own);
    if (sched_getaffinity(0, sizeof *before, before) || CPU_COUNT(before) != n) return false;
    for (int cpu = 0, i = from; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, before) && i++ == s->ith) CPU_SET(cpu, &own);
    return sched_setaffinity(0, sizeof own, &own) == 0;
}

/* This thread's part of a job. */
static void pool__job(pool_seat *s) {
    pool      *p = s->p;
    pool_seat *outer = t_seat;
    t_seat = s;
    s->stage = 0;
    s->here = true;
    s->soon = s->soon_end = NULL;
    if (p->loose) {
        struct rusage use = {0};                      /* zeros where the system has no such counts */
        getrusage(RUSAGE_THREAD, &use);
        s->crowded = s->crowded > POOL_CROWDED || use.ru_nivcsw == s->preempted ? s->crowded - (s->crowded > 0) : POOL_CROWDED;
        s->preempted = use.ru_nivcsw;
    }
    cpu_set_t  before;
    const bool caller = p->bound && !s->ith;
    if (caller) sched_setaffinity(0, sizeof(cpu_set_t), &p->node[0].cpus);
    const bool bound = p->loose && s->crowded && pool__bind_own(s, &before);
    p->fn(p->ctx, s->ith);
    if (bound && !caller) sched_setaffinity(0, sizeof before, &before);
    if (caller) sched_setaffinity(0, sizeof p->before, &p->before);
    t_seat = outer;
}

static void *pool__worker(void *arg) {
    pool_seat  *s = arg;
    pool       *p = s->p;
    pool_group *g = s->group;
    k_thread_start();
    if (p->bound) sched_setaffinity(0, sizeof(cpu_set_t), &p->node[g->node].cpus);
    if (p->bound && p->places) host_prefer(-1);
    for (uint32_t epoch = 0;; epoch++) {
        pool__wait(&g->epoch, epoch, &g->asleep);
        if (p->quit) return NULL;
        pool__job(s);
        const uint32_t workers = (uint32_t)(g->n - !g->from);
        if (atomic_fetch_add(&g->n_done, 1) + 1 == workers) pool__advance(&p->n_done, &p->asleep);
    }
}

/* The workers of every group begin the next job. */
static void pool__wake(pool *p) {
    for (pool_group *g = p->group; g < p->group + p->n_group; g++) pool__advance(&g->epoch, &g->asleep);
}

/* All counters as they are when a job begins; no worker runs. */
static void pool__reset(pool *p) {
    atomic_store(&p->next, 0);
    atomic_store(&p->done, 0);
    atomic_store(&p->arrived, 0);
    atomic_store(&p->n_done, 0);
    for (pool_group *g = p->group; g < p->group + p->n_group; g++) {
        atomic_store(&g->turn, 0);
        atomic_store(&g->n_done, 0);
        atomic_store(&g->taken, 0);
        atomic_store(&g->dry, 0);
        atomic_store(&g->team, (uint64_t)g->n);
    }
    for (int i = 0; i < p->n; i++) atomic_store(&p->seat[i].taken, 0);
}

static void pool__start(pool *p, void (*fn)(void *ctx, int ith), void *ctx, bool loose) {
    const uint32_t groups = (uint32_t)(p->n_group - (p->group[0].n == 1));       /* those with workers */
    p->fn = fn;
    p->ctx = ctx;
    p->loose = loose;
    pool__reset(p);
    pool__wake(p);
    pool__job(&p->seat[0]);
    for (uint32_t n; (n = atomic_load(&p->n_done)) < groups;) pool__wait(&p->n_done, n, &p->asleep);
}

/* Runs fn on every thread, ith = 0 for the caller, and returns when all have returned. Not to be called inside a job. */
static void pool_run(pool *p, void (*fn)(void *ctx, int ith), void *ctx) { pool__start(p, fn, ctx, false); }

/* The same of a loose job: see the banner. */
static void pool_run_loose(pool *p, void (*fn)(void *ctx, int ith), void *ctx) { pool__start(p, fn, ctx, true); }

/* --- teams and nodes --- */

static host_numa pool__numa = HOST_NUMA_AUTO;

/* How teams to come use memory nodes. Before the first of them, since memory that is interleaved is so for the whole process. */
static void pool_numa(host_numa how) { pool__numa = how; }

/* Shares n threads among nodes in proportion to their CPUs; a node may get none. */
static void pool__spread(pool *p, int n, const host_nodes *on) {
    int cpus = 0, seen = 0, from = 0;
    p->n_node = 0;
    for (int k = 0; k < on->n; k++) cpus += on->node[k].n_cpus;
    for (int k = 0; k < on->n; k++) {
        const int end = (int)((int64_t)n * (seen += on->node[k].n_cpus) / cpus);
        if (end == from) continue;
        p->node[p->n_node++] = (pool_node){.from = from, .n = end - from, .memory = on->node[k].memory, .cpus = on->node[k].cpus};
        from = end;
    }
}

/* Groups of the threads of each node. */
static void pool__group(pool *p) {
    for (int k = 0; k < p->n_node; k++) {
        const pool_node *o = &p->node[k];
        const int        groups = (o->n + POOL_GROUP - 1) / POOL_GROUP;
        for (int i = 0; i < groups; i++) {
            pool_group *g = &p->group[p->n_group++];
            g->from = o->from + o->n * i / groups;
            g->n = o->from + o->n * (i + 1) / groups - g->from;
            g->node = k;
            for (int ith = g->from; ith < g->from + g->n; ith++) p->seat[ith].group = g;
        }
    }
}

/* Only the first n threads could be started. */
static void pool__cut(pool *p, int n) {
    p->n = n;
    while (p->node[p->n_node - 1].from >= n) p->n_node--;
    while (p->group[p->n_group - 1].from >= n) p->n_group--;
    p->node[p->n_node - 1].n = n - p->node[p->n_node - 1].from;
    p->group[p->n_group - 1].n = n - p->group[p->n_group - 1].from;
}

/* A team of n seats on these nodes, NULL: memory is not placed; no thread is started. */
static pool *pool__lay_out(int n, const host_nodes *on) {
    pool *p = mem_aligned(1, sizeof *p);
    memset(p, 0, sizeof *p);
    p->n = n;
    p->n_node = 1;
    p->node[0] = (pool_node){.n = n, .memory = -1};
    if (on && n > 1) pool__spread(p, n, on);
    p->thread = mem_new((size_t)n, sizeof *p->thread);
    p->seat = mem_aligned((size_t)n, sizeof *p->seat);
    p->group = mem_aligned((size_t)n, sizeof *p->group);
    memset(p->group, 0, (size_t)n * sizeof *p->group);
    for (int i = 0; i < n; i++) p->seat[i] = (pool_seat){.p = p, .ith = i};
    pool__group(p);
    pool__reset(p);
    return p;
}

/* Starts a team of n threads; fewer, with a warning, where the system allows no more. Signals go to the calling thread, which
 * runs on the CPUs of the first node during jobs alone, where the team is bound. */
static pool *pool_new(int n) {
    host_nodes on;
    const bool many = pool__numa != HOST_NUMA_OFF && host_nodes_here(&on, NULL) && on.n > 1;
    pool      *p = pool__lay_out(min_int(n, POOL_MOST), many ? &on : NULL);
    int        made = 1;
    n = p->n;
    p->places = p->n_node > 1 && pool__numa != HOST_NUMA_INTERLEAVE;
    p->bound = p->n_node > 1 && !on.made_up && sched_getaffinity(0, sizeof p->before, &p->before) == 0;
    k_thread_start();
    while (made < n) {
        const int rc = host_thread(&p->thread[made], pool__worker, &p->seat[made]);
        if (rc) {
            log_warn("%d thread%s instead of %d: %s", made, made > 1 ? "s" : "", n, strerror(rc));
            break;
        }
        made++;
    }
    if (made < n) pool__cut(p, made);
    return p;
}

/* How the threads are spread, as "8 on node 0, 8 on node 1"; "": memory is not placed. */
static void pool_says(const pool *p, str *to) {
    for (int k = 0; p->n_node > 1 && k < p->n_node; k++) str_fmt(to, "%s%d on node %d", k ? ", " : "", p->node[k].n, k);
}

/* Ends the threads; NULL is fine. */
static void pool_free(pool *p) {
    if (!p) return;
    p->quit = true;
    pool__wake(p);
    for (int i = 1; i < p->n; i++) pthread_join(p->thread[i], NULL);
    mem_free_all(p->thread, p->seat, p->group);
    mem_free(p);
}
