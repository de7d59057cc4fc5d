/* fake_cuda.c - an NVIDIA driver for tests: a libcuda.so.1 whose launches run the kernels of ggml_kernels.h by emu_cuda.h, on the
 * CPU.
 *     LLMRUN_LIBCUDA=$PWD/build/test/fake/libcuda.so.1 build/test/fake/llmrun -m tests/data/tiny/llama.gguf -p Hello -n 4 -ngl all
 * The program is linked with the image that this driver takes (tests/fake_image.s) in place of nvcc's.
 * Copies and launches are queued; a call that waits for the stream runs the queue, so a result that is read too early is still
 * the old one. A guard page follows each allocation, and no address is used for two allocations. Wrong use ends the process with
 * exit 99 and a line that begins with fake_cuda:. So does memory that was not freed when the program ends with exit code 0, 1 or
 * 2.
 *
 *     FAKE_CUDA_DEVICES=1         devices
 *     FAKE_CUDA_CC=90             compute capability, times 10
 *     FAKE_CUDA_DRIVER=13000      version of the driver
 *     FAKE_CUDA_MEMORY=1073741824 bytes of memory of each device
 *     FAKE_CUDA_FAIL=N[:ERROR]    call N (1: the first) fails, by default with error 719
 *     FAKE_CUDA_COUNT=FILE        the number of calls and that of bytes that came down are written to FILE at the end
 *     FAKE_CUDA_SEED=1            order of the threads of a block
 *     FAKE_CUDA_APART=0           1: the device's memory can be touched while work is done and at no other time (slow)
 *
 * To add a kernel: its name and the struct that it takes, in FAKE_KERNELS. All other places: the head of [cuda]. */
#define _GNU_SOURCE
#include "emu_cuda.h"
#include <errno.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
/* Denormals are zero on the device, whatever the calling thread does. */
static unsigned fake__flush(void) {
    const unsigned was = _mm_getcsr();
    _mm_setcsr(was | 0x8040);
    return was;
}
static void fake__flush_end(unsigned was) { _mm_setcsr(was); }
#else
static unsigned fake__flush(void) { return 0; }
static void fake__flush_end(unsigned was) { (void)was; }
#endif
#undef __x86_64__                                     /* the kernels of the CPU are not needed: the header compiles in seconds */
#include "../ggml_kernels.h"

/* --- kernels --- */

#define FAKE_KERNELS(X)                          \
    X(k_cuda_rows, k_cuda_rows_args)             \
    X(k_cuda_sort, k_cuda_sort_args)             \
    X(k_cuda_best, k_cuda_best_args)             \
    X(k_cuda_delta, k_cuda_delta_args)           \
    X(k_cuda_outer, k_cuda_delta_args)           \
    X(k_cuda_outer_wide, k_cuda_delta_args)      \
    X(k_cuda_scan, k_cuda_delta_args)            \
    X(k_cuda_attend, k_cuda_attend_args)         \
    X(k_cuda_attend_codes, k_cuda_attend_args)   \
    X(k_cuda_attend_codes_many, k_cuda_attend_args) \
    X(k_cuda_attend_many, k_cuda_attend_args)    \
    X(k_cuda_attend_tensor, k_cuda_attend_args)  \
    X(k_cuda_attend_merge, k_cuda_attend_args)   \
    X(k_cuda_pack, k_cuda_pack_args)

#define FAKE_RUN(name, type) static void run_##name(const void *a) { name(*(const type *)a); }
#define FAKE_ROW(name, type) {#name, run_##name, sizeof(type)},
#define FAKE_MULS(X, name)   X(k_cuda_mul_##name, k_cuda_mul) X(k_cuda_many_##name, k_cuda_mul)
#define FAKE_FLOATS(X, name) \
    X(k_cuda_mul_##name, k_cuda_mul) X(k_cuda_tensor_##name, k_cuda_mul) X(k_cuda_tensor_many_##name, k_cuda_mul)
#define FAKE_RUN_MUL(name, bits, segs, head, table) FAKE_MULS(FAKE_RUN, name)
#define FAKE_ROW_MUL(name, bits, segs, head, table) FAKE_MULS(FAKE_ROW, name)
#define FAKE_RUN_FLOAT(name, type) FAKE_FLOATS(FAKE_RUN, name)
#define FAKE_ROW_FLOAT(name, type) FAKE_FLOATS(FAKE_ROW, name)
K_CUDA_MULS(FAKE_RUN_MUL)
K_CUDA_FLOATS(FAKE_RUN_FLOAT)
FAKE_KERNELS(FAKE_RUN)

typedef struct {
    const char *name;
    void      (*run)(const void *);
    size_t      size;                                 /* of its argument */
} fake_kernel;
static const fake_kernel kernels[] = {K_CUDA_MULS(FAKE_ROW_MUL) K_CUDA_FLOATS(FAKE_ROW_FLOAT) FAKE_KERNELS(FAKE_ROW)};

/* --- state --- */

enum { OK = 0, BAD_VALUE = 1, NO_MEMORY = 2, NOT_READY = 3, STUB = 34, NO_DEVICE = 100, BAD_DEVICE = 101, BAD_IMAGE = 200,
      NO_CONTEXT = 201, NOT_FOUND = 500,
       FAILED = 719, RECORDING = 900 };
enum { PAGE = 4096, UNIT = 1 << 16, MOST = 1 << 14, MOST_DEVICES = 8, FILLED = 1 << 18 };
#define ADDRESSES ((size_t)1 << 40)

typedef enum { NONE, MEMORY, RESERVED, MAPPED, PINNED } fake_kind;

typedef struct {
    fake_kind kind;
    int       of;                                     /* the device; MAPPED: the number in physical[] */
    bool      usable;                                 /* MAPPED: cuMemSetAccess was called */
    uint8_t  *p, *lo;                                 /* its first byte; its first page */
    size_t    n, pages;                               /* bytes; bytes of its pages */
} fake_range;

typedef struct { size_t n; int device; bool released, mapped; } fake_physical;

typedef enum { UP, DOWN, COPY, SET, LAUNCH } fake_what;

typedef struct {
    fake_what      what;
    uint8_t       *to;
    const uint8_t *from;
    uint8_t       *own;                               /* a copy of what the host gave */
    size_t         n;
    int            value;
    const fake_kernel *kernel;
    int            x, y;
} fake_op;

typedef struct { fake_op *op; int n, room; } fake_ops;   /* [n] operations, in memory for `room` of them */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static fake_range      range[MOST];
static fake_physical   physical[MOST];
static int             n_range, n_physical, n_calls, n_alive, n_context[MOST_DEVICES], fail_at, fail_with = FAILED;
static size_t          used[MOST_DEVICES], memory = (size_t)1 << 30, taken, n_down;
static uint8_t        *addresses;
static uint64_t        seed = 1;
static int             n_devices = 1, capability = 90, driver = 13000;
static bool            ready, initialised, running, apart;
static FILE           *count_file;
static const char     *at_work = "nothing";
static fake_ops        queue, *recorded;              /* what waits; what is recorded, NULL: nothing is */
static _Thread_local int current = -1;                /* the device of this thread's context */

__attribute__((format(printf, 1, 2), noreturn)) static void fault(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fputs("fake_cuda: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputs("\n", stderr);
    va_end(ap);
    _exit(99);
}

static void on_fault(int sig, siginfo_t *info, void *context) {
    char      text[256];
    uint8_t  *at = info->si_addr;
    const int n = snprintf(text, sizeof text, "fake_cuda: %s reads or writes at %p, %s\n", running ? at_work : "the host",
                           (void *)at,
                           at >= addresses && at < addresses + ADDRESSES ? "which is the device's"
                               : "outside of the device's memory");
    (void)sig, (void)context;
    if (write(STDERR_FILENO, text, (size_t)n) < 0) {}
    _exit(99);
}

static long long number(const char *name, long long usual) {
    const char *s = getenv(name);
    return s && *s ? atoll(s) : usual;
}

/* At exit: writes the number of calls; queued operations and memory that was not freed are faults, unless the run failed. */
static void at_end(int status, void *arg) {
    int left = 0;
    (void)arg;
    if (count_file) fprintf(count_file, "%d %zu\n", n_calls, n_down), fclose(count_file);
    if (status > 2) return;
    for (int i = 0; i < n_range; i++) left += range[i].kind != NONE;
    for (int i = 0; i < n_physical; i++) left += !physical[i].released;
    for (int i = 0; i < MOST_DEVICES; i++) left += n_context[i];
    if (queue.n) fault("%d operations are still queued at the end", queue.n);
    if (left + n_alive) fault("left at the end: %d pieces of memory and contexts, %d modules, streams and graphs", left, n_alive);
}

static void begin(void) {
    struct sigaction act = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    const char      *fail = getenv("FAKE_CUDA_FAIL");
    ready = true;
    emu.tries = 1;                                    /* any order is as good here */
    n_devices = (int)number("FAKE_CUDA_DEVICES", n_devices);
    capability = (int)number("FAKE_CUDA_CC", capability);
    driver = (int)number("FAKE_CUDA_DRIVER", driver);
    memory = (size_t)number("FAKE_CUDA_MEMORY", (long long)memory);
    seed = (uint64_t)number("FAKE_CUDA_SEED", 1);
    apart = number("FAKE_CUDA_APART", 0);
    if (getenv("FAKE_CUDA_COUNT")) count_file = fopen(getenv("FAKE_CUDA_COUNT"), "w");
    if (fail) fail_at = atoi(fail);
    if (fail && strchr(fail, ':')) fail_with = atoi(strchr(fail, ':') + 1);
    addresses = mmap(NULL, ADDRESSES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (addresses == MAP_FAILED) fault("no addresses");
    sigaction(SIGSEGV, &act, NULL);
    on_exit(at_end, NULL);
}

/* Every call begins here: an error that it shall return. `level`: 1 after cuInit alone, 2 with a context, 3 not while something
 * is recorded. */
static int enter(int level) {
    if (!ready) begin();
    if (++n_calls == fail_at) return fail_with;
    if (level >= 1 && !initialised) fault("call %d comes before cuInit", n_calls);
    if (level >= 2 && current < 0) return NO_CONTEXT;
    return level >= 3 && recorded ? RECORDING : OK;
}

#define ENTER(level)                                                          \
    pthread_mutex_lock(&lock);                                                \
    const int refused = enter(level);                                         \
    if (refused) return leave(refused)

static int leave(int result) {
    pthread_mutex_unlock(&lock);
    return result;
}

/* --- memory --- */

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

static bool is_device(fake_kind k) { return k == MEMORY || k == MAPPED; }

static fake_range *new_slot(fake_range r) {
    int i = 0;
    while (i < n_range && range[i].kind != NONE) i++;
    if (i == MOST) fault("more than %d pieces of memory", MOST);
    if (i == n_range) n_range++;
    range[i] = r;
    return &range[i];
}

/* Addresses for n bytes, which end at the end of a page; a guard page follows. */
static fake_range *new_range(fake_kind kind, size_t n, size_t align) {
    const size_t pages = round_up(n, PAGE), all = round_up(pages + PAGE, align);
    if (taken + all + align > ADDRESSES) return NULL;
    uint8_t *const lo = addresses + round_up(taken, align);
    taken = round_up(taken, align) + all;
    return new_slot((fake_range){.kind = kind, .of = current, .p = lo + (pages - round_up(n, 256)), .lo = lo, .n = n,
                                 .pages = pages});
}

/* The range of one of these kinds that holds n bytes at p, NULL: none. */
static fake_range *find(const void *p, size_t n, unsigned kinds) {
    const uint8_t *q = p;
    for (int i = 0; i < n_range; i++)
        if (1u << range[i].kind & kinds && q >= range[i].p && q <= range[i].p + range[i].n
            && n <= (size_t)(range[i].p + range[i].n - q))
            return &range[i];
    return NULL;
}

static void must_be_device(const void *p, size_t n, const char *what) {
    if (find(p, n, 1u << MEMORY)) return;
    for (const uint8_t *q = p, *end = q + n; q < end;) {     /* pieces that lie side by side are one */
        const fake_range *r = find(q, 1, 1u << MAPPED);
        if (!r || !r->usable) fault("%s: %zu bytes at %p are not memory of the device", what, n, p);
        q = r->p + r->n;
    }
}

static void allow(const fake_range *r, bool open) { mprotect(r->lo, r->pages, open ? PROT_READ | PROT_WRITE : PROT_NONE); }

/* Lets the device's memory be touched, or not. */
static void open_memory(bool open) {
    for (int i = 0; apart && i < n_range; i++)
        if (is_device(range[i].kind)) allow(&range[i], open);
    running = open;
}

/* New memory holds NaN, of a large piece the first pages and the last one: what is after an odd length is looked at when it is
 * freed. */
static void fill(fake_range *r) {
    allow(r, true);
    memset(r->lo, 0xff, r->pages < FILLED ? r->pages : FILLED);
    memset(r->lo + r->pages - PAGE, 0xff, PAGE);
    allow(r, !apart);
}

static void check_rest(const fake_range *r) {
    allow(r, true);
    for (const uint8_t *q = r->lo; q < r->lo + r->pages; q++) {
        if (q == r->p) q += r->n;
        if (q < r->lo + r->pages && *q != 0xff) fault("%zu bytes at %p: written outside", r->n, (void *)r->p);
    }
}

static void end_range(fake_range *r) {
    if (is_device(r->kind)) {
        check_rest(r);
        madvise(r->lo, r->pages, MADV_DONTNEED);
        allow(r, false);
    }
    r->kind = NONE;
}

/* --- work --- */

static void add(fake_ops *to, fake_op op) {
    if (to->n == to->room) {
        to->room = 2 * to->room + 16;
        to->op = realloc(to->op, (size_t)to->room * sizeof op);
    }
    to->op[to->n++] = op;
}

static uint8_t *copy_of(const void *p, size_t n) { return memcpy(malloc(n ? n : 1), p, n); }

static void drop(fake_ops *o) {
    for (int i = 0; i < o->n; i++) free(o->op[i].own);
    free(o->op);
    *o = (fake_ops){0};
}

/* An argument's words that look like addresses are the device's, and alive. Programs and their memory lie above 0x55 << 40; two
 * numbers of 32 bits are hardly such a word. There is no padding (api.h). */
static void check_argument(const fake_op *op) {
    unsigned char there;
    for (size_t i = 0; i + 8 <= op->kernel->size; i += 8) {
        uintptr_t v;
        memcpy(&v, op->own + i, sizeof v);
        void *const p = (void *)v;
        if ((uint8_t *)p >= addresses && (uint8_t *)p < addresses + ADDRESSES) {
            if (!find(p, 0, 1u << MEMORY | 1u << MAPPED | 1u << RESERVED))
                fault("%s: the word at byte %zu points to freed memory of the device", op->kernel->name, i);
        } else if (v >> 40 >= 0x55 && v >> 48 == 0 && !mincore((void *)(v / PAGE * PAGE), 1, &there)) {
            fault("%s: the word at byte %zu points to memory of the host", op->kernel->name, i);
        }
    }
}

static void launch(const fake_op *op) {
    const unsigned was = fake__flush();
    check_argument(op);
    const char *wrong = emu_launch(op->kernel->run, op->own, op->x, op->y, K_CUDA_THREADS, seed++);
    fake__flush_end(was);
    if (wrong) fault("%s: %s", op->kernel->name, wrong);
}

/* Pages that were never written stay so: zeros are quick. */
static void set(uint8_t *to, int value, size_t n) {
    uint8_t *const lo = (uint8_t *)round_up((uintptr_t)to, PAGE), *const hi = to + n - (uintptr_t)(to + n) % PAGE;
    if (value || n < FILLED || madvise(lo, (size_t)(hi - lo), MADV_DONTNEED)) {
        memset(to, value, n);
        return;
    }
    memset(to, 0, (size_t)(lo - to));
    memset(hi, 0, (size_t)(to + n - hi));
}

static void do_op(const fake_op *op) {
    at_work = op->what == LAUNCH ? op->kernel->name : "a copy";
    if (op->what != LAUNCH && op->what != DOWN) must_be_device(op->to, op->n, at_work);
    if (op->what == COPY || op->what == DOWN) must_be_device(op->from, op->n, at_work);
    if (op->what == DOWN && !find(op->to, op->n, 1u << PINNED)) fault("a copy to memory of the host that is not pinned any more");
    if (op->what == UP && !op->own && !find(op->from, op->n, 1u << PINNED))
        fault("a copy from memory of the host that is not pinned any more");
    if (op->what == LAUNCH) launch(op);
    else if (op->what == SET) set(op->to, op->value, op->n);
    else memcpy(op->to, op->own ? op->own : op->from, op->n);
}

/* Does all that waits. */
static void work(void) {
    if (!queue.n) return;
    open_memory(true);
    for (int i = 0; i < queue.n; i++) do_op(&queue.op[i]);
    open_memory(false);
    drop(&queue);
}

static int ask(fake_op op) {
    add(recorded ? recorded : &queue, op);
    return OK;
}

/* --- the driver's calls: devices --- */

#define CALL __attribute__((visibility("default"))) int
CALL cuGetErrorString(int error, const char **to);
CALL cuInit(unsigned flags);
CALL cuDriverGetVersion(int *to);
CALL cuDeviceGetCount(int *to);
CALL cuDeviceGet(int *to, int i);
CALL cuDeviceGetName(char *to, int n, int device);
CALL cuDeviceGetAttribute(int *to, int what, int device);
CALL cuDeviceTotalMem_v2(size_t *to, int device);
CALL cuDevicePrimaryCtxRetain(void **to, int device);
CALL cuDevicePrimaryCtxRelease_v2(int device);
CALL cuCtxSetCurrent(void *context);
CALL cuModuleLoadData(void **to, const void *image);
CALL cuModuleUnload(void *module);
CALL cuModuleGetFunction(void **to, void *module, const char *name);
CALL cuMemGetInfo_v2(size_t *free_bytes, size_t *total);
CALL cuMemAlloc_v2(uintptr_t *to, size_t n);
CALL cuMemFree_v2(uintptr_t at);
CALL cuMemHostAlloc(void **to, size_t n, unsigned flags);
CALL cuMemFreeHost(void *p);
CALL cuMemcpyHtoDAsync_v2(uintptr_t to, const void *from, size_t n, void *stream);
CALL cuMemcpyDtoHAsync_v2(void *to, uintptr_t from, size_t n, void *stream);
CALL cuMemcpyDtoDAsync_v2(uintptr_t to, uintptr_t from, size_t n, void *stream);
CALL cuMemsetD8Async(uintptr_t to, unsigned char value, size_t n, void *stream);
CALL cuMemGetAllocationGranularity(size_t *to, const void *place, int which);
CALL cuMemAddressReserve(uintptr_t *to, size_t n, size_t align, uintptr_t at, uint64_t flags);
CALL cuMemAddressFree(uintptr_t at, size_t n);
CALL cuMemCreate(uint64_t *to, size_t n, const void *place, uint64_t flags);
CALL cuMemRelease(uint64_t handle);
CALL cuMemMap(uintptr_t at, size_t n, size_t from, uint64_t handle, uint64_t flags);
CALL cuMemUnmap(uintptr_t at, size_t n);
CALL cuMemSetAccess(uintptr_t at, size_t n, const int *access, size_t count);
CALL cuLaunchKernel(void *f, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz, unsigned shared,
                    void *stream, void **args, void **extra);
CALL cuStreamCreate(void **to, unsigned flags);
CALL cuStreamDestroy_v2(void *stream);
CALL cuStreamSynchronize(void *stream);
CALL cuStreamBeginCapture_v2(void *stream, int mode);
CALL cuStreamEndCapture(void *stream, void **graph);
CALL cuGraphInstantiateWithFlags(void **to, void *graph, uint64_t flags);
CALL cuGraphDestroy(void *graph);
CALL cuGraphLaunch(void *graph, void *stream);
CALL cuGraphExecDestroy(void *graph);

CALL cuGetErrorString(int error, const char **to) {
    static const struct { int error; const char *words; } all[] = {
        {BAD_VALUE, "invalid argument"}, {NO_MEMORY, "out of memory"}, {STUB, "CUDA driver is a stub library"},
        {NO_DEVICE, "no CUDA-capable device is detected"},
        {BAD_DEVICE, "invalid device ordinal"}, {BAD_IMAGE, "device kernel image is invalid"},
        {NO_CONTEXT, "invalid device context"},
        {NOT_FOUND, "named symbol not found"}, {FAILED, "unspecified launch failure"},
        {RECORDING, "operation not permitted when stream is capturing"}};
    *to = NULL;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].error == error) *to = all[i].words;
    return *to ? OK : BAD_VALUE;
}

CALL cuInit(unsigned flags) {
    ENTER(0);
    initialised = n_devices > 0 && !flags;
    return leave(initialised ? OK : NO_DEVICE);
}

CALL cuDriverGetVersion(int *to) {
    ENTER(0);
    *to = driver;
    return leave(OK);
}

CALL cuDeviceGetCount(int *to) {
    ENTER(1);
    *to = n_devices;
    return leave(OK);
}

CALL cuDeviceGet(int *to, int i) {
    ENTER(1);
    *to = i;
    return leave(i >= 0 && i < n_devices ? OK : BAD_DEVICE);
}

CALL cuDeviceGetName(char *to, int n, int device) {
    ENTER(1);
    snprintf(to, (size_t)n, "Fake GPU %d", device);
    return leave(OK);
}

CALL cuDeviceGetAttribute(int *to, int what, int device) {
    ENTER(1);
    (void)device;
    *to = what == 75 ? capability / 10 : capability % 10;
    return leave(what == 75 || what == 76 ? OK : BAD_VALUE);
}

CALL cuDeviceTotalMem_v2(size_t *to, int device) {
    ENTER(1);
    (void)device;
    *to = memory;
    return leave(OK);
}

CALL cuDevicePrimaryCtxRetain(void **to, int device) {
    ENTER(1);
    n_context[device]++;
    *to = &n_context[device];
    return leave(OK);
}

CALL cuDevicePrimaryCtxRelease_v2(int device) {
    ENTER(1);
    if (!n_context[device]--) fault("a context is released more often than it was retained");
    current = -1;
    return leave(OK);
}

CALL cuCtxSetCurrent(void *context) {
    ENTER(1);
    current = context ? (int)((int *)context - n_context) : -1;
    return leave(OK);
}

CALL cuModuleLoadData(void **to, const void *image) {
    ENTER(3);
    if (memcmp(image, "fake kernels", 12)) return leave(BAD_IMAGE);
    *to = &n_alive;
    n_alive++;
    return leave(OK);
}

CALL cuModuleUnload(void *module) {
    ENTER(2);
    if (module != &n_alive || n_alive-- < 1) fault("a module is unloaded that is not there");
    return leave(OK);
}

CALL cuModuleGetFunction(void **to, void *module, const char *name) {
    union { const fake_kernel *in; void *out; } f = {NULL};
    ENTER(2);
    for (size_t i = 0; module == &n_alive && i < sizeof kernels / sizeof *kernels; i++)
        if (!strcmp(kernels[i].name, name)) f.in = &kernels[i];
    *to = f.out;
    return leave(f.in ? OK : NOT_FOUND);
}

/* --- memory --- */

CALL cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    ENTER(2);
    *free_bytes = memory - used[current];
    *total = memory;
    return leave(OK);
}

CALL cuMemAlloc_v2(uintptr_t *to, size_t n) {
    ENTER(3);
    const size_t size = round_up(n, 256);
    if (!n) return leave(BAD_VALUE);
    fake_range *r = size <= memory - used[current] ? new_range(MEMORY, n, PAGE) : NULL;
    if (!r) return leave(NO_MEMORY);
    used[current] += size;
    fill(r);
    *to = (uintptr_t)r->p;
    return leave(OK);
}

CALL cuMemFree_v2(uintptr_t at) {
    ENTER(3);
    fake_range *r = find((void *)at, 1, 1u << MEMORY);
    if (!r || (uintptr_t)r->p != at) fault("memory of the device is freed that is not there");
    work();
    used[r->of] -= round_up(r->n, 256);
    end_range(r);
    return leave(OK);
}

CALL cuMemHostAlloc(void **to, size_t n, unsigned flags) {
    ENTER(3);
    if (!n || flags) return leave(BAD_VALUE);
    *to = malloc(n);
    memset(*to, 0xff, n);
    new_slot((fake_range){.kind = PINNED, .p = *to, .n = n});
    return leave(OK);
}

CALL cuMemFreeHost(void *p) {
    ENTER(3);
    fake_range *r = find(p, 1, 1u << PINNED);
    if (!r || r->p != p) fault("pinned memory is freed that is not there");
    end_range(r);
    free(p);
    return leave(OK);
}

CALL cuMemcpyHtoDAsync_v2(uintptr_t to, const void *from, size_t n, void *stream) {
    ENTER(2);
    const bool pinned = find(from, n, 1u << PINNED);
    must_be_device((void *)to, n, "cuMemcpyHtoDAsync");
    if ((const uint8_t *)from >= addresses && (const uint8_t *)from < addresses + ADDRESSES)
        fault("cuMemcpyHtoDAsync from memory of the device");
    if (recorded && !pinned) fault("a copy is recorded from memory that is not pinned");
    (void)stream;
    return leave(ask((fake_op){.what = UP, .to = (uint8_t *)to, .from = from, .own = pinned ? NULL : copy_of(from, n), .n = n}));
}

CALL cuMemcpyDtoHAsync_v2(void *to, uintptr_t from, size_t n, void *stream) {
    ENTER(2);
    must_be_device((void *)from, n, "cuMemcpyDtoHAsync");
    n_down += n;
    if ((uint8_t *)to >= addresses && (uint8_t *)to < addresses + ADDRESSES) fault("cuMemcpyDtoHAsync to memory of the device");
    (void)stream;
    if (find(to, n, 1u << PINNED)) return leave(ask((fake_op){.what = DOWN, .to = to, .from = (const uint8_t *)from, .n = n}));
    if (recorded) fault("a copy is recorded to memory that is not pinned");
    work();
    open_memory(true);
    memcpy(to, (const void *)from, n);
    open_memory(false);
    return leave(OK);
}

CALL cuMemcpyDtoDAsync_v2(uintptr_t to, uintptr_t from, size_t n, void *stream) {
    ENTER(2);
    must_be_device((void *)to, n, "cuMemcpyDtoDAsync");
    must_be_device((void *)from, n, "cuMemcpyDtoDAsync");
    if (to < from + n && from < to + n) fault("cuMemcpyDtoDAsync between places that overlap");
    (void)stream;
    return leave(ask((fake_op){.what = COPY, .to = (uint8_t *)to, .from = (const uint8_t *)from, .n = n}));
}

CALL cuMemsetD8Async(uintptr_t to, unsigned char value, size_t n, void *stream) {
    ENTER(2);
    must_be_device((void *)to, n, "cuMemsetD8Async");
    (void)stream;
    return leave(ask((fake_op){.what = SET, .to = (uint8_t *)to, .n = n, .value = value}));
}

/* --- addresses and memory apart --- */

CALL cuMemGetAllocationGranularity(size_t *to, const void *place, int which) {
    ENTER(1);
    (void)place, (void)which;
    *to = UNIT;
    return leave(OK);
}

CALL cuMemAddressReserve(uintptr_t *to, size_t n, size_t align, uintptr_t at, uint64_t flags) {
    ENTER(2);
    if (!n || n % UNIT || align || at || flags) return leave(BAD_VALUE);
    fake_range *r = new_range(RESERVED, n, UNIT);
    if (!r) return leave(NO_MEMORY);
    *to = (uintptr_t)r->p;
    return leave(OK);
}

CALL cuMemAddressFree(uintptr_t at, size_t n) {
    ENTER(2);
    fake_range *r = find((void *)at, n, 1u << RESERVED);
    if (!r || (uintptr_t)r->p != at || r->n != n) fault("addresses are freed that were not reserved so");
    for (int i = 0; i < n_range; i++)
        if (range[i].kind == MAPPED && range[i].p >= r->p && range[i].p < r->p + r->n)
            fault("addresses are freed that still have memory");
    end_range(r);
    return leave(OK);
}

CALL cuMemCreate(uint64_t *to, size_t n, const void *place, uint64_t flags) {
    static const int want[3] = {1, 0, 1};             /* pinned, no handle of the system, on a device */
    ENTER(3);
    if (!n || n % UNIT || flags || n_physical == MOST || memcmp(place, want, sizeof want) || ((const int *)place)[3] != current)
        return leave(BAD_VALUE);
    if (n > memory - used[current]) return leave(NO_MEMORY);
    used[current] += n;
    physical[n_physical++] = (fake_physical){.n = n, .device = current};
    *to = (uint64_t)n_physical;
    return leave(OK);
}

static void end_physical(fake_physical *m) {
    if (m->released && !m->mapped) used[m->device] -= m->n;
}

CALL cuMemRelease(uint64_t handle) {
    ENTER(2);
    if (handle - 1 >= (uint64_t)n_physical || physical[handle - 1].released) fault("memory is released that is not there");
    physical[handle - 1].released = true;
    end_physical(&physical[handle - 1]);
    return leave(OK);
}

CALL cuMemMap(uintptr_t at, size_t n, size_t from, uint64_t handle, uint64_t flags) {
    ENTER(3);
    const fake_range *all = find((void *)at, n, 1u << RESERVED);
    if (!all || (at - (uintptr_t)all->p) % UNIT) fault("memory is mapped where no addresses were reserved");
    for (int i = 0; i < n_range; i++)
        if (range[i].kind == MAPPED && (uintptr_t)range[i].p < at + n && (uintptr_t)range[i].p + range[i].n > at)
            fault("memory is mapped twice");
    if (handle - 1 >= (uint64_t)n_physical || physical[handle - 1].n != n || physical[handle - 1].mapped || from || flags)
        return leave(BAD_VALUE);
    physical[handle - 1].mapped = true;
    fill(new_slot((fake_range){.kind = MAPPED, .of = (int)handle - 1, .p = (uint8_t *)at, .lo = (uint8_t *)at, .n = n,
                               .pages = n}));
    return leave(OK);
}

CALL cuMemUnmap(uintptr_t at, size_t n) {
    ENTER(3);
    fake_range *r = find((void *)at, n, 1u << MAPPED);
    if (!r || (uintptr_t)r->p != at || r->n != n) fault("memory is unmapped that was not mapped so");
    if (queue.n) fault("memory is unmapped while work waits");
    physical[r->of].mapped = false;
    end_physical(&physical[r->of]);
    end_range(r);
    return leave(OK);
}

CALL cuMemSetAccess(uintptr_t at, size_t n, const int *access, size_t count) {
    ENTER(2);
    fake_range *r = find((void *)at, n, 1u << MAPPED);
    if (!r || access[0] != 1 || access[1] != current || access[2] != 3 || count != 1) return leave(BAD_VALUE);
    r->usable = true;
    return leave(OK);
}

/* --- work --- */

CALL cuLaunchKernel(void *f, unsigned x, unsigned y, unsigned z, unsigned tx, unsigned ty, unsigned tz, unsigned shared,
                    void *stream, void **args, void **extra) {
    const fake_kernel *k = f;
    size_t             size = 0;
    const void        *arg = NULL;
    ENTER(2);
    if (!x || !y || z != 1 || x > INT_MAX || y > 65535 || tx != K_CUDA_THREADS || ty != 1 || tz != 1 || shared || args || !stream)
        return leave(BAD_VALUE);
    for (; extra[0]; extra += 2) {
        if (extra[0] == (void *)1) arg = extra[1];
        if (extra[0] == (void *)2) size = *(const size_t *)extra[1];
    }
    if (size != k->size) fault("%s takes %zu bytes, not %zu", k->name, k->size, size);
    return leave(ask((fake_op){.what = LAUNCH, .own = copy_of(arg, size), .kernel = k, .x = (int)x, .y = (int)y}));
}

CALL cuStreamCreate(void **to, unsigned flags) {
    ENTER(3);
    (void)flags;
    *to = &queue;
    n_alive++;
    return leave(OK);
}

CALL cuStreamDestroy_v2(void *stream) {
    ENTER(2);
    if (stream != &queue) fault("a stream is destroyed that is not there");
    work();
    n_alive--;
    return leave(OK);
}

CALL cuStreamSynchronize(void *stream) {
    ENTER(3);
    (void)stream;
    work();
    return leave(OK);
}

CALL cuStreamBeginCapture_v2(void *stream, int mode) {
    ENTER(3);
    (void)stream, (void)mode;
    recorded = calloc(1, sizeof *recorded);
    n_alive++;
    return leave(OK);
}

CALL cuStreamEndCapture(void *stream, void **graph) {
    ENTER(2);
    (void)stream;
    if (!recorded) return leave(BAD_VALUE);
    *graph = recorded;
    recorded = NULL;
    return leave(OK);
}

static void add_all(fake_ops *to, const fake_ops *from) {
    for (int i = 0; i < from->n; i++) {
        fake_op op = from->op[i];
        if (op.own) op.own = copy_of(op.own, op.kernel->size);
        add(to, op);
    }
}

CALL cuGraphInstantiateWithFlags(void **to, void *graph, uint64_t flags) {
    ENTER(2);
    (void)flags;
    *to = calloc(1, sizeof(fake_ops));
    add_all(*to, graph);
    n_alive++;
    return leave(OK);
}

CALL cuGraphLaunch(void *graph, void *stream) {
    ENTER(2);
    (void)stream;
    add_all(recorded ? recorded : &queue, graph);
    return leave(OK);
}

static int end_graph(void *graph) {
    drop(graph);
    free(graph);
    n_alive--;
    return leave(OK);
}

CALL cuGraphDestroy(void *graph) {
    ENTER(2);
    return end_graph(graph);
}

CALL cuGraphExecDestroy(void *graph) {
    ENTER(2);
    return end_graph(graph);
}
