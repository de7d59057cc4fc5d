/* ===== [pool] worker threads =====
 * One team of threads for the life of a run; the caller is thread 0. pool_run() lets every thread execute one function, a job.
 * Inside a job pool_barrier() separates stages. The threads share the tasks of a stage by pool_next(), a counter that each
 * barrier resets, or by pool_take(): each thread takes the tasks of its own range first and then helps the others. Work that is
 * too small to share is done by one thread at a barrier (pool_barrier_then). A waiting thread spins for some tens of microseconds
 * and prefetches what it reads next (pool_prefetch), then sleeps in the kernel, so that two runs on the same cores do not slow
 * each other down. The number of threads never changes a result.
 *   Where another process uses the same CPU, the kernel suspends a thread for milliseconds, and all others wait for its task. A
 * loose job (pool_run_loose) avoids this: between two tasks a thread on a shared CPU leaves the team and yields, and the other
 * threads do its tasks. When it runs again it skips the stages that are finished. Requirements for a loose job: all work is done
 * as tasks; no task depends on the number of the thread; every thread meets the same barriers; a barrier is called only when no
 * task is left. While a CPU is shared, each thread is bound to a CPU of its own if the process has exactly as many CPUs as
 * threads: else the kernel might put two threads on one CPU. OMP_NUM_THREADS, read as OpenMP reads it, sets the number of
 * threads.
 * Public: pool_default_threads, pool_new, pool_free, pool_run, pool_run_loose, pool_barrier, pool_barrier_then,
 * pool_works, pool_next, pool_share, pool_take, pool_prefetch. */

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

/* A thread of the team. */
typedef struct {
    _Alignas(64) pool *p;                             /* its team */
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

struct pool {
    _Alignas(64) _Atomic uint32_t epoch;              /* number of the job that workers run */
    _Alignas(64) _Atomic uint32_t turn;               /* incremented after each stage: waiting threads watch it */
    _Alignas(64) _Atomic uint64_t team;               /* stage << 32 | members at the barrier << 16 | members */
    _Alignas(64) _Atomic int next;                    /* next task of the current stage */
    _Alignas(64) _Atomic int asleep;                  /* threads inside futex */
    _Alignas(64) _Atomic uint32_t n_done;             /* workers that have finished the job */
    int        n;                                     /* threads, the caller included */
    pthread_t *thread;
    pool_seat *seat;
    bool       quit, loose;
    void (*fn)(void *ctx, int ith);
    void *ctx;
};

static _Thread_local pool_seat *t_seat;               /* this thread's seat in the job that it runs */

enum {
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

/* Returns once *word is no longer `old`. */
static void pool__wait(pool *p, _Atomic uint32_t *word, uint32_t old) {
    for (int i = 0; i < POOL_SPIN; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) != old) return;
        if (t_seat) pool__prefetch_lines(t_seat);
        k_pause();
    }
    atomic_fetch_add(&p->asleep, 1);
    while (atomic_load(word) == old) syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
    atomic_fetch_sub(&p->asleep, 1);
}

static void pool__advance(pool *p, _Atomic uint32_t *word) {
    atomic_fetch_add(word, 1);
    if (atomic_load(&p->asleep)) syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Returns once the team has finished this stage. `turn` is older than `team` while the thread that closed the stage is preempted
 * between the two writes. */
static void pool__wait_stage(pool *p, uint32_t stage) {
    for (;;) {
        const uint32_t turn = atomic_load(&p->turn);
        if (pool__stage(atomic_load(&p->team)) != stage) return;
        pool__wait(p, &p->turn, turn);
    }
}

/* Begins the next stage. All members are at the barrier, so no other thread changes `team` or `next`. */
static void pool__close(pool *p, uint64_t team, void (*fn)(void *ctx), void *ctx) {
    if (fn) fn(ctx);
    atomic_store(&p->next, 0);
    atomic_store(&p->team, (uint64_t)(pool__stage(team) + 1) << 32 | (team & 0xffff));
    pool__advance(p, &p->turn);
}

/* Joins the team again if it is in this thread's stage and not about to end it. */
static bool pool__join(pool_seat *s) {
    uint64_t team = atomic_load(&s->p->team);
    while (pool__stage(team) == s->stage && !pool__all_there(team))
        if (atomic_compare_exchange_weak(&s->p->team, &team, team + 1)) return s->here = true;
    return false;
}

/* Leaves the team between two tasks, unless all others wait at the barrier or no other member is left. */
static void pool__leave(pool_seat *s) {
    uint64_t team = atomic_load(&s->p->team);
    do
        if (pool__all_there(team + (1 << 16))) return;
    while (!atomic_compare_exchange_weak(&s->p->team, &team, team - 1));
    s->here = false;
}

/* Waits until every member has called it; then one thread calls fn, if there is one. What the threads wrote before is visible to
 * fn, and what they and fn wrote is visible to all threads after it. */
static void pool_barrier_then(pool *p, void (*fn)(void *ctx), void *ctx) {
    pool_seat *s = t_seat;
    const uint32_t stage = s->stage++;
    if (!s->here) {                                   /* no member: it had no task of this stage */
        pool__wait_stage(p, stage);
        return;
    }
    const uint64_t team = atomic_fetch_add(&p->team, 1 << 16) + (1 << 16);
    if (pool__all_there(team)) pool__close(p, team, fn, ctx);
    else pool__wait_stage(p, stage);
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

/* The first of thread ith's range among n tasks. */
static int pool_share(const pool *p, int n, int ith) { return (int)((int64_t)n * ith / p->n); }

/* One of the n tasks of this stage; POOL_NONE: none is left. A thread takes the tasks of its own range in order, so that it reads
 * memory in sequence, then what is left of the other ranges. A stage uses either pool_take or pool_next. */
static int pool_take(pool *p, int n) {
    pool_seat *s = t_seat;
    if (!pool_works()) return POOL_NONE;
    const uint64_t none = (uint64_t)(s->stage + 1) << 32;
    for (int i = 0; i < p->n; i++) {
        const int      of = (s->ith + i) % p->n, from = pool_share(p, n, of);
        const uint64_t end = none + (uint64_t)(pool_share(p, n, of + 1) - from);
        uint64_t       v = atomic_load(&p->seat[of].taken), have;
        do have = max_u64(v, none);                   /* a count of an earlier stage is zero here */
        while (have < end && !atomic_compare_exchange_weak(&p->seat[of].taken, &v, have + 1));
        if (have < end) return from + (int)(have - none);
    }
    return POOL_NONE;
}

/* This thread reads the n bytes at p soon: it prefetches them while it waits. */
static void pool_prefetch(const uint8_t *p, size_t n) {
    t_seat->soon = p;
    t_seat->soon_end = p + (n + 63) / 64 * 64;
}

/* Binds the thread to a CPU of its own if the process has exactly as many CPUs as threads. `before` gets its affinity mask. */
static bool pool__bind_own(const pool_seat *s, cpu_set_t *before) {
    cpu_set_t own;
    CPU_ZERO(&own);
    if (sched_getaffinity(0, sizeof *before, before) || CPU_COUNT(before) != s->p->n) return false;
    for (int cpu = 0, i = 0; cpu < CPU_SETSIZE; cpu++)
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
        struct rusage use;
        getrusage(RUSAGE_THREAD, &use);
        s->crowded = s->crowded > POOL_CROWDED || use.ru_nivcsw == s->preempted ? s->crowded - (s->crowded > 0) : POOL_CROWDED;
        s->preempted = use.ru_nivcsw;
    }
    cpu_set_t  before;
    const bool bound = p->loose && s->crowded && pool__bind_own(s, &before);
    p->fn(p->ctx, s->ith);
    if (bound) sched_setaffinity(0, sizeof before, &before);
    t_seat = outer;
}

static void *pool__worker(void *arg) {
    pool_seat *s = arg;
    pool      *p = s->p;
    k_thread_start();
    for (uint32_t epoch = 0;; epoch++) {
        pool__wait(p, &p->epoch, epoch);
        if (p->quit) return NULL;
        pool__job(s);
        pool__advance(p, &p->n_done);
    }
}

static void pool__start(pool *p, void (*fn)(void *ctx, int ith), void *ctx, bool loose) {
    p->fn = fn;
    p->ctx = ctx;
    p->loose = loose;
    atomic_store(&p->next, 0);
    atomic_store(&p->turn, 0);
    atomic_store(&p->n_done, 0);
    atomic_store(&p->team, (uint64_t)p->n);
    for (int i = 0; i < p->n; i++) atomic_store(&p->seat[i].taken, 0);
    pool__advance(p, &p->epoch);
    pool__job(&p->seat[0]);
    for (uint32_t n; (n = atomic_load(&p->n_done)) + 1 < (uint32_t)p->n;) pool__wait(p, &p->n_done, n);
}

/* Runs fn on every thread, ith = 0 for the caller, and returns when all have returned. Not to be called inside a job. */
static void pool_run(pool *p, void (*fn)(void *ctx, int ith), void *ctx) { pool__start(p, fn, ctx, false); }

/* The same of a loose job: see the banner. */
static void pool_run_loose(pool *p, void (*fn)(void *ctx, int ith), void *ctx) { pool__start(p, fn, ctx, true); }

/* Starts a team of n threads; fewer, with a warning, where the system allows no more. Signals go to the calling thread. */
static pool *pool_new(int n) {
    pool *p = mem_aligned(1, sizeof *p);
    memset(p, 0, sizeof *p);
    n = min_int(n, POOL_MOST);
    p->thread = mem_new((size_t)n, sizeof *p->thread);
    p->seat = mem_aligned((size_t)n, sizeof *p->seat);
    for (int i = 0; i < n; i++) p->seat[i] = (pool_seat){.p = p, .ith = i};
    p->n = 1;
    k_thread_start();
    sigset_t all, old;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);                          /* a fault is handled where it happens */
    sigdelset(&all, SIGSEGV);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (p->n < n) {
        int rc = pthread_create(&p->thread[p->n], NULL, pool__worker, &p->seat[p->n]);
        if (rc) {
            log_warn("%d thread%s instead of %d: %s", p->n, p->n > 1 ? "s" : "", n, strerror(rc));
            break;
        }
        p->n++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return p;
}

/* Ends the threads; NULL is fine. */
static void pool_free(pool *p) {
    if (!p) return;
    p->quit = true;
    pool__advance(p, &p->epoch);
    for (int i = 1; i < p->n; i++) pthread_join(p->thread[i], NULL);
    mem_free(p->thread);
    mem_free(p->seat);
    mem_free(p);
}
