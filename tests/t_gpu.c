/* [gpu] through the driver that fake_cuda.c plays: it ends the process at any wrong use. What a failing call gives: cuda.py. */
#include "program.h"
#include "check.h"
#include "driver.h"

/* A device; NULL: the test is skipped or has failed. */
static gpu *tgpu_open(void) {
    err_t e = {0};
    if (!driver_find("16777216")) t_skipped = "no build/test/fake/libcuda.so.1";
    gpu *g = t_skipped ? NULL : gpu_open(0, &e);
    CHECKF(g || t_skipped, "%s", e.text);
    return g;
}

static void t_gpu_about(void) {
    gpu *g = tgpu_open();
    if (!g) return;
    EQ_STR(gpu_about(g)->name, "Fake GPU 0");
    EQ_INT(gpu_about(g)->total, 16 << 20);
    const uint64_t before = gpu_memory(g);
    void *const    p = gpu_new(g, 1 << 20);
    EQ_INT(before - gpu_memory(g), 1 << 20);
    CHECK(!gpu_new(g, 16 << 20));
    gpu_free(g, p);
    gpu_free(g, NULL);
    EQ_INT(gpu_memory(g), before);
    gpu_close(g);
    gpu_close(NULL);
}

/* Copies come one after the other, nothing is there before gpu_wait, new memory is zero. */
static void t_gpu_copies(void) {
    enum { N = 1000 };
    gpu *g = tgpu_open();
    if (!g) return;
    uint8_t *const a = gpu_new(g, N), *const b = gpu_new(g, N), *const up = gpu_pinned(g, N), *const down = gpu_pinned(g, N);
    uint8_t        own[N], want[N] = {0};
    for (int i = 0; i < N; i++) EQ_INT(up[i] + down[i], 0), own[i] = (uint8_t)(i * 7), up[i] = (uint8_t)(i * 5);
    gpu_down(g, down, a, N);
    gpu_wait(g);
    EQ_MEM(down, want, N);
    gpu_up(g, a, own, N);
    memcpy(want, own, N);
    memset(own, 1, N);                                /* it was copied before gpu_up returned */
    gpu_copy(g, b + 1, a, N - 1);
    gpu_up(g, a, up, N);
    gpu_zero(g, b + 10, 5);
    gpu_down(g, down, b, N);
    EQ_INT(down[1] + down[2], 0);
    gpu_wait(g);
    memmove(want + 1, want, N - 1), want[0] = 0, memset(want + 10, 0, 5);
    EQ_MEM(down, want, N);
    gpu_down(g, own, a, N);                           /* to other memory: at once */
    EQ_MEM(own, up, N);
    gpu_up(g, a, own, 0), gpu_down(g, own, a, 0), gpu_copy(g, a, b, 0), gpu_zero(g, a, 0);
    gpu_free(g, a), gpu_free(g, b), gpu_unpin(g, up), gpu_unpin(g, down), gpu_unpin(g, NULL);
    gpu_close(g);
}

/* A span grows without moving, new memory is zero, and too much leaves it as it is. */
static void t_gpu_spans(void) {
    enum { N = 100000 };
    gpu *g = tgpu_open();
    if (!g) return;
    uint8_t *const own = mem_new(3, N), *const want = mem_new(3, N);
    const uint64_t before = gpu_memory(g);
    gpu_span       s, none = {0};
    gpu_span_new(g, &s, (size_t)1 << 30);
    EQ_INT(gpu_memory(g), before);
    uint8_t *const base = s.base;
    for (int i = 1; i <= 3; i++) {
        CHECK(gpu_span_grow(g, &s, (size_t)i * N));
        CHECK(s.base == base && s.used >= (size_t)i * N && before - gpu_memory(g) == s.used);
        gpu_down(g, own, base + (i - 1) * N, N);
        EQ_MEM(own, want, N);
        memset(own, i, N);
        gpu_up(g, base + (i - 1) * N, own, N);
    }
    const size_t had = s.used;
    CHECK(gpu_span_grow(g, &s, N) && s.used == had);
    CHECK(!gpu_span_grow(g, &s, 64 << 20) && s.used == had);
    for (int i = 0; i < 3; i++) memset(want + i * N, i + 1, N);
    gpu_down(g, own, base, 3 * N);
    EQ_MEM(own, want, 3 * N);
    gpu_span_free(g, &s), gpu_span_free(g, &s), gpu_span_free(g, &none);
    EQ_INT(gpu_memory(g), before);
    gpu_close(g);
    mem_free(own), mem_free(want);
}

/* y = w x of one row of floats, on the device. */
static k_cuda_mul tgpu_product(gpu *g, void *w, void *x, void *y) {
    k_cuda_mul m = {.w = w, .row_bytes = 4 * sizeof(float), .a = {.x = x, .ldx = 4, .nt = 1}, .y = y, .ldy = 1, .nr = 1, .n = 4};
    const int k = gpu_kernel(g, "k_cuda_mul_f32");
    EQ_INT(gpu_kernel(g, "k_cuda_mul_q8_0"), k + 1);
    EQ_INT(gpu_kernel(g, "k_cuda_mul_f32"), k);
    return m;
}

/* What was recorded is done as often as it is replayed, with what then stands in pinned memory. */
static void t_gpu_replay(void) {
    gpu *g = tgpu_open();
    if (!g) return;
    float *const host = gpu_pinned(g, 9 * sizeof *host), *const far = gpu_new(g, 9 * sizeof *host);
    k_cuda_mul   m = tgpu_product(g, far, far + 4, far + 8);
    gpu_record(g);
    gpu_up(g, far, host, 8 * sizeof *host);
    gpu_launch(g, gpu_kernel(g, "k_cuda_mul_f32"), 1, 1, &m, sizeof m);
    gpu_down(g, host + 8, far + 8, sizeof *host);
    const int graph = gpu_recorded(g);
    memset(&m, 0, sizeof m);                          /* arguments were copied */
    gpu_wait(g);
    CHECK(host[8] == 0);
    for (int i = 1; i <= 3; i++) {
        for (int k = 0; k < 4; k++) host[k] = (float)(i + k), host[4 + k] = (float)(1 << k);
        gpu_replay(g, graph);
        gpu_wait(g);
        CHECKF(host[8] == (float)(15 * i + 34), "replay %d gives %g", i, (double)host[8]);
    }
    gpu_unpin(g, host), gpu_free(g, far);
    gpu_close(g);
}

static void *tgpu_thread(void *arg) {
    gpu *const g = arg;
    void *const p = gpu_new(g, 100);                  /* a thread without a context is refused */
    gpu_wait(g);
    gpu_free(g, p);
    return NULL;
}

/* Other threads use it, and devices are opened and closed in turn. */
static void t_gpu_threads(void) {
    setenv("FAKE_CUDA_DEVICES", "1", 1);
    for (int i = 0; i < 3; i++) {
        gpu *g = tgpu_open(), *again = g ? tgpu_open() : NULL;
        if (!g || !again) return;
        pthread_t t;
        for (int k = 0; k < 2; k++) {
            CHECK(!pthread_create(&t, NULL, tgpu_thread, k ? g : again));
            pthread_join(t, NULL);
        }
        gpu_close(again);
        gpu_free(g, gpu_new(g, 1));
        gpu_close(g);
    }
}

static const t_case t_gpu_cases[] = {
    {"gpu about", "a device tells its name and its memory, and gives no more than it has", t_gpu_about},
    {"gpu copies", "copies are done in their order when somebody waits", t_gpu_copies},
    {"gpu spans", "memory after reserved addresses grows in place and begins with zeros", t_gpu_spans},
    {"gpu replay", "a recorded list of work is done with the memory of the time of its replay", t_gpu_replay},
    {"gpu threads", "any thread may use a device", t_gpu_threads},
};
static const t_suite t_gpu_suite = SUITE(t_gpu_cases);
