/* Kernel rates, as CSV on stdout:
 *     build/bench/bench [-t THREADS] [-r ROUNDS] [TYPE ...]
 * decode: rows that stream from memory times 1, 2, 4, 8 columns; `share` is of the read bandwidth swept in the same round.
 * prefill: 2048 x 2048 weights that stay in cache times 32 and 512 columns; `share` is of the fastest prefill row.
 * Every figure is the median of the rounds. Timings decide nothing. */
#include "../../llmrun.c"

enum { BENCH_BYTES = 192 << 20, BENCH_K = 2048, BENCH_ROWS = 2048, BENCH_COLS = 512, BENCH_ROUNDS = 64 };

typedef struct {
    pool     *p;
    uint8_t  *w;                                      /* BENCH_BYTES of random blocks */
    dev_acts  a;                                      /* [BENCH_COLS, BENCH_K] */
    float    *y;
    void    **scratch;
    uint32_t  type;
    int       n_rows, n_cols;
    uint64_t  sum;
} bench;

static void bench__product(void *ctx, int ith) {
    bench      *b = ctx;
    dev         dv = {.p = b->p, .ith = ith, .scratch = b->scratch[ith]};
    size_t      row = k_row_bytes(b->type, BENCH_K);
    dev_mat    w = {.data = b->w, .type = b->type, .n_in = BENCH_K, .n_out = b->n_rows, .row_bytes = row};
    dev_product m = {.w = &w, .n_out = b->n_rows, .a = &b->a, .n = b->n_cols, .y = b->y, .ldy = (size_t)b->n_rows};
    ops__matmul(&dv, &m, 1, NULL);
}

static void bench__sweep(void *ctx, int ith) {
    bench          *b = ctx;
    const size_t    n = BENCH_BYTES / (size_t)b->p->n / 64 * 8;
    const uint64_t *q = (const uint64_t *)(const void *)b->w + (size_t)ith * n;
    uint64_t        s[8] = {0};
    for (size_t i = 0; i + 8 <= n; i += 8)
        for (int j = 0; j < 8; j++) s[j] += q[i + (size_t)j];
    __atomic_fetch_add(&b->sum, s[0] ^ s[1] ^ s[2] ^ s[3] ^ s[4] ^ s[5] ^ s[6] ^ s[7], __ATOMIC_RELAXED);
    pool_barrier(b->p);
}

static double bench__time(bench *b, void (*fn)(void *, int)) {
    double t0 = clock_now();
    pool_run(b->p, fn, b);
    return clock_now() - t0;
}

static int bench__cmp(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double bench__median(double *v, int n) {
    qsort(v, (size_t)n, sizeof *v, bench__cmp);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static void bench__decode(bench *b, const char *level, int rounds) {
    for (b->n_cols = 1; b->n_cols <= 8; b->n_cols *= 2) {
        double t[BENCH_ROUNDS], share[BENCH_ROUNDS];
        b->n_rows = (int)(BENCH_BYTES / k_row_bytes(b->type, BENCH_K));
        double gb = (double)b->n_rows * (double)k_row_bytes(b->type, BENCH_K) * 1e-9;
        for (int r = 0; r < rounds; r++) {
            double sweep = bench__time(b, bench__sweep);
            t[r] = bench__time(b, bench__product);
            sweep = (sweep + bench__time(b, bench__sweep)) / 2;
            share[r] = gb / t[r] / (BENCH_BYTES * 1e-9 / sweep);
        }
        double s = bench__median(t, rounds);
        printf("%s,%d,%s,decode,%d,%.2f,%.2f,%.3f\n", level, b->p->n, k_types[b->type].name, b->n_cols, gb / s,
               (double)b->n_rows * BENCH_K * b->n_cols * 1e-9 / s, bench__median(share, rounds));
        fflush(stdout);
    }
}

static void bench__prefill(bench *b, const char *level, int rounds) {
    for (b->n_cols = 32; b->n_cols <= BENCH_COLS; b->n_cols *= 16) {
        double t[BENCH_ROUNDS];
        b->n_rows = BENCH_ROWS;
        for (int r = -1; r < rounds; r++) t[r < 0 ? 0 : r] = bench__time(b, bench__product);
        double s = bench__median(t, rounds);
        printf("%s,%d,%s,prefill,%d,%.2f,%.2f,\n", level, b->p->n, k_types[b->type].name, b->n_cols,
               (double)b->n_rows * (double)k_row_bytes(b->type, BENCH_K) * 1e-9 / s, (double)b->n_rows * BENCH_K * b->n_cols * 1e-9 / s);
        fflush(stdout);
    }
}

static bool bench__wanted(const char *name, char **argv, int argc, int from) {
    for (int i = from; i < argc; i++)
        if (strcasecmp(argv[i], name) == 0) return true;
    return from >= argc;
}

int main(int argc, char **argv) {
    int n_threads = pool_default_threads(), rounds = 5, from = 1;
    for (; from + 1 < argc && argv[from][0] == '-'; from += 2)
        *(argv[from][1] == 't' ? &n_threads : &rounds) = atoi(argv[from + 1]);
    if (n_threads < 1 || rounds < 1 || rounds > BENCH_ROUNDS) die(EXIT_INPUT, "bench: -t from 1, -r from 1 to %d", BENCH_ROUNDS);
    k_init("auto");
    bench b = {.p = pool_new(n_threads), .a = {.ldx = BENCH_K, .ldq = BENCH_K, .rows = BENCH_COLS}};
    b.w = mem_aligned(BENCH_BYTES, 1);
    b.y = mem_aligned(BENCH_BYTES / 16, sizeof *b.y);
    b.a.x = mem_aligned(BENCH_COLS * BENCH_K, sizeof *b.a.x);
    b.a.h = mem_aligned(BENCH_COLS * BENCH_K, sizeof *b.a.h);
    b.a.q = mem_aligned(2 * BENCH_COLS * BENCH_K, 1);
    b.a.sum = mem_aligned(2 * BENCH_COLS * BENCH_K / 16, sizeof *b.a.sum);
    b.a.d = mem_aligned(2 * BENCH_COLS * BENCH_K / 256, sizeof *b.a.d);
    b.a.split = mem_new(BENCH_COLS, sizeof *b.a.split);
    b.scratch = mem_new((size_t)b.p->n, sizeof *b.scratch);
    for (int i = 0; i < b.p->n; i++) b.scratch[i] = mem_aligned(k_scratch_bytes(BENCH_K), 1);
    memset(b.y, 0, (size_t)BENCH_BYTES / 16 * sizeof *b.y);
    for (size_t i = 0; i < BENCH_BYTES / 8; i++) ((uint64_t *)(void *)b.w)[i] = rng_at(1, i, 0, 0) & 0xbfffbfffbfffbfffu;  /* no f16 infinities */
    for (size_t i = 0; i < (size_t)BENCH_COLS * BENCH_K; i++) b.a.x[i] = (float)rng_unit(rng_at(2, i, 0, 0)) - 0.5f;
    for (int r = 0; r < BENCH_COLS; r++) ops__form(&b.a, r, BENCH_K, 1u << K_ACT_I8 | 1u << K_ACT_BF16);

    const char *names[8];
    bool        can[8];
    int         n_levels = k_levels_list(names, can);
    printf("level,threads,type,what,columns,GB/s,GMAC/s,share of bandwidth\n");
    for (int l = 1; l < n_levels; l++)
        for (b.type = 0; can[l] && b.type < K_TYPE_MAX; b.type++) {
            if (!k_type_weight(b.type) || !bench__wanted(k_types[b.type].name, argv, argc, from)) continue;
            k_init(names[l]);
            bench__decode(&b, names[l], rounds);
            bench__prefill(&b, names[l], rounds);
        }
    return 0;
}
