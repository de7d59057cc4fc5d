/* The team of [pool] as an OpenMP team, an experiment of tests/bench/omp.py: a parallel region a job, OpenMP's barriers between its stages.
 * OMP_STATIC: task i is thread i mod n's, and a run of tasks belongs to one thread; else threads take tasks from one counter, as
 * schedule(dynamic, 1) does. It stands in llmrun.c in place of the team and offers the same functions. */
#include <omp.h>

typedef struct { int from, n, memory; } pool_node;

typedef struct pool {
    int n;                                            /* threads, the caller included */
    struct {
        _Alignas(64) _Atomic int next, arrived;       /* tasks that were taken; threads at the barrier */
    } stage[3];                                       /* of this stage, the one before, the one after */
} pool;

static _Thread_local struct {
    int ith, stage, next;                             /* next: static shares */
} t_seat;

enum { POOL_NONE = INT_MAX, POOL_MOST = 0xffff };

static void pool_barrier_then(pool *p, void (*fn)(void *ctx), void *ctx) {
    const int now = t_seat.stage % 3, before = (now + 2) % 3;
    if (atomic_fetch_add(&p->stage[now].arrived, 1) + 1 == p->n) {
        if (fn) fn(ctx);
        atomic_store(&p->stage[before].next, 0);      /* nobody is there any more, and nobody is two stages ahead */
        atomic_store(&p->stage[before].arrived, 0);
    }
    t_seat.stage++;
    t_seat.next = t_seat.ith;
#pragma omp barrier
}
static void pool_barrier(pool *p) { pool_barrier_then(p, NULL, NULL); }

static bool pool_works(void) { return true; }
static int  pool_share(const pool *p, int n, int ith) { return (int)((int64_t)n * ith / p->n); }
static int  pool_first(const pool *p, int n, const int *at, int ith) { return (void)at, pool_share(p, n, ith); }
static void pool_prefetch(const uint8_t *p, size_t n) { (void)p, (void)n; }

#ifdef OMP_STATIC
static int pool_next(pool *p) {
    const int i = t_seat.next;
    t_seat.next += p->n;
    return i;
}
static int pool_take(pool *p, int n, const int *at) {
    (void)at;
    const int from = pool_share(p, n, t_seat.ith), i = from + (t_seat.next - t_seat.ith);
    t_seat.next++;
    return i < pool_share(p, n, t_seat.ith + 1) ? i : POOL_NONE;
}
static int pool_deal(pool *p, int n, const int *at) {
    (void)at;
    const int i = pool_next(p);
    return i < n ? i : POOL_NONE;
}
#else
static int pool_next(pool *p) { return atomic_fetch_add_explicit(&p->stage[t_seat.stage % 3].next, 1, memory_order_relaxed); }
static int pool_take(pool *p, int n, const int *at) {
    (void)at;
    const int i = pool_next(p);
    return i < n ? i : POOL_NONE;
}
static int pool_deal(pool *p, int n, const int *at) { return pool_take(p, n, at); }
#endif

static void pool_run(pool *p, void (*fn)(void *ctx, int ith), void *ctx) {
    memset(p->stage, 0, sizeof p->stage);
#pragma omp parallel num_threads(p->n)
    {
        t_seat.ith = t_seat.next = omp_get_thread_num();
        t_seat.stage = 0;
        fn(ctx, t_seat.ith);
    }
}
static void pool_run_loose(pool *p, void (*fn)(void *ctx, int ith), void *ctx) { pool_run(p, fn, ctx); }

static void pool__begin(void *ctx, int ith) {
    (void)ctx, (void)ith;
    k_thread_start();
}

static pool *pool_new(int n) {
    pool *p = mem_aligned(1, sizeof *p);
    p->n = n;
    omp_set_dynamic(0);
    pool_run(p, pool__begin, NULL);
    return p;
}
static void pool_free(pool *p) { mem_free(p); }

/* One node: memory is not placed. */
static void pool_numa(host_numa how) { (void)how; }
static int  pool_nodes(const pool *p) { return (void)p, 1; }
static int  pool_own(int n, const int *at) { return (void)n, (void)at, POOL_NONE; }
static const pool_node *pool_node_of(const pool *p, int k) {
    static const pool_node none = {.memory = -1};
    return (void)p, (void)k, &none;
}
static void pool_says(const pool *p, str *to) { (void)p, (void)to; }
