/* File order against packed rows, kernels alone, as CSV on stdout:
 *     build/bench/pack [-t THREADS] [-r ROUNDS] [-l LEVEL] [-m MB] [TYPE ...]
 * Nanoseconds per 256 weights of one row, for all columns: the processor time of the slowest thread, so that other programs
 * on the machine do not count, divided by all weights; medians of the rounds, in which the rivals take turns. `where` is
 * memory (MB of weights in either layout, 320 unless told) or cache (1 MB for all threads, again and again). Rivals: `dot`
 * one row of the file at a time, `panel` the file's rows unpacked into panels, `few` packed rows as they lie, `packed panel`
 * packed rows unpacked into panels, `block` the same, one block of 32 rows for all columns before the next. `sweep` reads the
 * same bytes of the file's rows and does nothing else. Timings decide nothing. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include "../../ggml_kernels.h"

enum { PB_K = 4096, PB_COLS = 64, PB_ROWS = 128, PB_ROUNDS = 64, PB_THREADS = 64, PB_CACHE = 1 << 20 };
enum { PB_SWEEP, PB_DOT, PB_PANEL, PB_FEW, PB_PACKED_PANEL, PB_BLOCK, PB_RIVALS };
static const char *const pb_names[PB_RIVALS] = {"sweep", "dot", "panel", "few", "packed panel", "block"};

typedef struct {
    const k__plan        *plans;
    const k__packed_plan *packs;
    uint8_t       *w, *packed;
    size_t         row_bytes;
    uint32_t       type;
    int            n_rows, n_threads, rival, times;
    k_acts         a;
    float         *y;
} pb;

typedef struct {
    pb       *b;
    int       ith;
    void     *scratch;
    double    seconds;
    uint64_t  sum;
    pthread_t thread;
} pb_worker;

static double pb_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *pb_alloc(size_t bytes) {
    const size_t huge = (size_t)2 << 20;
    bytes = (bytes + 2 * huge - 1) / huge * huge;
    uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) exit(3);
    p = (uint8_t *)(((uintptr_t)p + huge - 1) & ~(uintptr_t)(huge - 1));
    madvise(p, bytes - huge, MADV_HUGEPAGE);
    return p;
}

static uint64_t pb_mix(uint64_t i) {
    i = (i ^ i >> 30) * 0xbf58476d1ce4e5b9u;
    i = (i ^ i >> 27) * 0x94d049bb133111ebu;
    return i ^ i >> 31;
}

/* 128 rows from r, all columns. */
static void pb_task(pb *b, int r, int nr, pb_worker *me) {
    const uint8_t *w = b->w + (size_t)r * b->row_bytes, *packed = b->packed + (r ? k_pack_bytes(b->type, r, PB_K) : 0);
    k__panel      *panel = (k__panel *)(((uintptr_t)me->scratch + 63) & ~(uintptr_t)63);
    k__plan        plan = b->plans[b->type];
    const k__packed_plan *pack = &b->packs[b->type];
    const size_t   strip = k_pack_bytes(b->type, K_PACK_ROWS, PB_K);
    const size_t   ldy = (size_t)b->n_rows;
    uint64_t       s = 0;
    switch (b->rival) {
    case PB_SWEEP:
        for (size_t i = 0; i + 64 <= (size_t)nr * b->row_bytes; i += 64) s ^= *(const uint64_t *)(const void *)(w + i);
        me->sum += s;
        break;
    case PB_DOT: k__mul_dots(&plan, b->type, w, b->row_bytes, nr, PB_K, &b->a, b->y + r, ldy, (float *)panel); break;
    case PB_PANEL:
        for (int i = 0; i < nr; i += K__STRIP) {
            plan.pack(b->type, w + (size_t)i * b->row_bytes, b->row_bytes, K__STRIP, PB_K, panel);
            k__mul_strip(plan.tiles, panel, k__off(b->type) < 0 ? 0 : 1 << k__off(b->type), K__STRIP, PB_K, &b->a, b->y + r + i,
                         ldy, w + (size_t)(i + K__STRIP) * b->row_bytes, i + K__STRIP < nr ? K__STRIP * b->row_bytes : 0);
        }
        break;
    case PB_FEW: k__packed_few(pack, b->type, packed, nr, PB_K, &b->a, b->y + r, ldy, panel, NULL); break;
    case PB_BLOCK: k__packed_blocks(pack, pack->tiles, b->type, packed, nr, PB_K, &b->a, b->y + r, ldy, panel); break;
    default:
        for (int i = 0; i < nr; i += K__STRIP, packed += 2 * strip) {
            k__packed_panels(pack, &k__forms[b->type], packed, strip, K__STRIP, PB_K, panel);
            k__mul_strip(pack->tiles, panel, k__forms[b->type].off, K__STRIP, PB_K, &b->a, b->y + r + i, ldy, packed + 2 * strip,
                         i + K__STRIP < nr ? 2 * strip : 0);
        }
    }
}

static void *pb_work(void *ctx) {
    pb_worker *w = ctx;
    pb        *b = w->b;
    int        tasks = b->n_rows / PB_ROWS, from = tasks * w->ith / b->n_threads, to = tasks * (w->ith + 1) / b->n_threads;
    k_thread_start();
    double t0 = pb_now();
    for (int i = 0; i < b->times; i++)
        for (int t = from; t < to; t++) pb_task(b, t * PB_ROWS, PB_ROWS, w);
    w->seconds = pb_now() - t0;
    return NULL;
}

static double pb_time(pb *b, pb_worker *team) {
    double most = 0;
    for (int i = 1; i < b->n_threads; i++)
        if (pthread_create(&team[i].thread, NULL, pb_work, &team[i])) exit(3);
    pb_work(&team[0]);
    for (int i = 1; i < b->n_threads; i++) pthread_join(team[i].thread, NULL);
    for (int i = 0; i < b->n_threads; i++) most = team[i].seconds > most ? team[i].seconds : most;
    return most * 1e9 / ((double)b->times * b->n_rows * (PB_K / 256));
}

static int pb_cmp(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Panels want four columns a tile, so eight and more; the others have an upper limit. */
static bool pb_applies(const pb *b, int rival) {
    if (rival == PB_PANEL || rival == PB_PACKED_PANEL || rival == PB_BLOCK) return b->a.nt >= K__PANEL_COLS;
    if (rival == PB_FEW) return b->a.nt <= b->packs[b->type].width * K__PASSES;
    return rival != PB_DOT || b->a.nt <= 16;
}

static void pb_type(pb *b, pb_worker *team, const char *level, size_t bytes, bool cache, int rounds) {
    static const int n_cols[] = {1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 24, 32, 48, 64};
    b->row_bytes = k_row_bytes(b->type, PB_K);
    b->n_rows = (int)((cache ? PB_CACHE : bytes) / b->row_bytes / (size_t)(PB_ROWS * b->n_threads)) * PB_ROWS * b->n_threads;
    if (b->n_rows == 0) b->n_rows = PB_ROWS * b->n_threads;
    b->times = cache ? 24 : 1;
    for (size_t c = 0; c < sizeof n_cols / sizeof *n_cols; c++) {
        double t[PB_RIVALS][PB_ROUNDS];
        b->a.nt = n_cols[c];
        for (int r = -1; r < rounds; r++)
            for (b->rival = 0; b->rival < PB_RIVALS; b->rival++) {
                if (!pb_applies(b, b->rival)) continue;
                t[b->rival][r < 0 ? 0 : r] = pb_time(b, team);
            }
        printf("%s,%d,%s,%s,%d", level, b->n_threads, k_types[b->type].name, cache ? "cache" : "memory", n_cols[c]);
        for (int i = 0; i < PB_RIVALS; i++) {
            if (!pb_applies(b, i)) {
                printf(",");
                continue;
            }
            qsort(t[i], (size_t)rounds, sizeof t[i][0], pb_cmp);
            printf(",%.2f", t[i][rounds / 2]);
        }
        printf("\n");
        fflush(stdout);
    }
}

static bool pb_wanted(uint32_t type, char **argv, int argc, int from) {
    if (!k_pack_bytes(type, K_PACK_ROWS, PB_K)) return false;
    for (int i = from; i < argc; i++)
        if (strcasecmp(argv[i], k_types[type].name) == 0) return true;
    return from >= argc;
}

int main(int argc, char **argv) {
    int         rounds = 7, from = 1;
    size_t      mb = 320;
    const char *level = "auto";
    pb          b = {.n_threads = 1};
    for (; from + 1 < argc && argv[from][0] == '-'; from += 2) {
        const char *v = argv[from + 1];
        switch (argv[from][1]) {
        case 't': b.n_threads = atoi(v); break;
        case 'r': rounds = atoi(v); break;
        case 'm': mb = (size_t)atoi(v); break;
        default: level = v;
        }
    }
    if (!k_init(level) || b.n_threads < 1 || b.n_threads > PB_THREADS) return 2;
    if (rounds < 1 || rounds > PB_ROUNDS || mb > 1 << 16) return 2;
    if (!strcmp(k_level_name(), "scalar")) return 2;
    b.plans = strcmp(k_level_name(), "avx2") ? k__plans_512 : k__plans_avx2;
    b.packs = strcmp(k_level_name(), "avx2") ? k__packed_512 : k__packed_avx2;
    pb_worker team[PB_THREADS];
    for (int i = 0; i < b.n_threads; i++) team[i] = (pb_worker){.b = &b, .ith = i, .scratch = pb_alloc(k_scratch_bytes(PB_K))};

    float   *x = pb_alloc(PB_COLS * PB_K * sizeof *x), *d = pb_alloc(PB_COLS * PB_K / 256 * sizeof *d);
    int8_t  *q = pb_alloc(PB_COLS * PB_K);
    k_sums  *sum = pb_alloc(PB_COLS * PB_K / K_SUPER * sizeof *sum);
    for (size_t i = 0; i < (size_t)PB_COLS * PB_K; i++) x[i] = (float)(pb_mix(i) >> 40) * 0x1p-24f - 0.5f;
    for (int t = 0; t < PB_COLS; t++)
        for (int k = t * PB_K; k < (t + 1) * PB_K; k += K_SUPER) g_k_level->quant_act(x + k, K_SUPER, q + k, sum + k / K_SUPER, d + k / K_SUPER);
    b.a = (k_acts){.q = q, .ldq = PB_K, .sum = sum, .d = d, .ldd = PB_K / 256};

    printf("level,threads,type,where,columns");
    for (int i = 0; i < PB_RIVALS; i++) printf(",%s", pb_names[i]);
    printf("\n");
    for (b.type = 0; b.type < K_TYPE_MAX; b.type++) {
        if (!pb_wanted(b.type, argv, argc, from)) continue;
        size_t bytes = mb << 20, rows = bytes / k_row_bytes(b.type, PB_K) + PB_ROWS;
        size_t unit = k_pack_bytes(b.type, PB_ROWS, PB_K);
        b.w = pb_alloc(rows * k_row_bytes(b.type, PB_K));
        b.packed = pb_alloc((rows / PB_ROWS + 1) * unit);
        b.y = pb_alloc(rows * PB_COLS * sizeof *b.y);
        memset(b.y, 0, rows * PB_COLS * sizeof *b.y);
        for (size_t i = 0; i < rows * k_row_bytes(b.type, PB_K) / 8; i++)
            ((uint64_t *)(void *)b.w)[i] = pb_mix(i) & 0xbfffbfffbfffbfffu;      /* no f16 infinities */
        for (size_t r = 0; r + PB_ROWS <= rows; r += PB_ROWS)
            k_pack_rows(b.type, b.w + r * k_row_bytes(b.type, PB_K), k_row_bytes(b.type, PB_K), PB_ROWS, PB_K,
                        b.packed + r / PB_ROWS * unit);
        pb_type(&b, team, k_level_name(), bytes, true, rounds);
        pb_type(&b, team, k_level_name(), bytes, false, rounds);
        munmap(b.w, rows * k_row_bytes(b.type, PB_K));
        munmap(b.packed, (rows / PB_ROWS + 1) * unit);
        munmap(b.y, rows * PB_COLS * sizeof *b.y);
    }
    return 0;
}
