/* ===== [gpu] NVIDIA GPUs through the driver =====
 * The driver's library is opened when a run asks for a GPU; nothing of it is linked, and its calls are declared here. The kernels
 * are ggml_kernels.h's, compiled by nvcc and embedded (gpu_image); a program without them refuses every device.
 * Work is done in the order in which it is asked for (one stream): gpu_up, gpu_down, gpu_copy, gpu_zero and gpu_launch return
 * before it is done, gpu_wait waits for all of it. Between gpu_record and gpu_recorded they are recorded and not done.
 * Invariants: gpu_open and gpu_list return what is wrong; later the error of a call ends the run with exit 3 and one line. Any
 * thread may use a gpu, one at a time.
 * Public: gpu_count, gpu_list, gpu_open, gpu_close, gpu_about, gpu_memory, gpu_new, gpu_free, gpu_pinned, gpu_unpin, gpu_up,
 * gpu_down, gpu_copy, gpu_zero, gpu_span_new, gpu_span_grow, gpu_span_free, gpu_kernel, gpu_launch, gpu_wait, gpu_record,
 * gpu_recorded, gpu_replay.
 * Opens: gpu_info, gpu_span. */

/* The kernels as nvcc's -fatbin writes them, in an object of their own (Makefile); NULL: built without. */
extern const uint8_t gpu_image[] __attribute__((weak));

/* Handles of the driver are pointers, results are 0 or an error's number. */
#define GPU_CALLS(X)                                                                                                    \
    X(cuGetErrorString,                "cuGetErrorString",            (int, const char **))                             \
    X(cuInit,                          "cuInit",                      (unsigned))                                       \
    X(cuDriverGetVersion,              "cuDriverGetVersion",          (int *))                                          \
    X(cuDeviceGetCount,                "cuDeviceGetCount",            (int *))                                          \
    X(cuDeviceGet,                     "cuDeviceGet",                 (int *, int))                                     \
    X(cuDeviceGetName,                 "cuDeviceGetName",             (char *, int, int))                               \
    X(cuDeviceGetAttribute,            "cuDeviceGetAttribute",        (int *, int, int))                                \
    X(cuDeviceTotalMem,                "cuDeviceTotalMem_v2",         (size_t *, int))                                  \
    X(cuDevicePrimaryCtxRetain,        "cuDevicePrimaryCtxRetain",    (void **, int))                                   \
    X(cuDevicePrimaryCtxRelease,       "cuDevicePrimaryCtxRelease_v2", (int))                                           \
    X(cuCtxSetCurrent,                 "cuCtxSetCurrent",             (void *))                                         \
    X(cuModuleLoadData,                "cuModuleLoadData",            (void **, const void *))                          \
    X(cuModuleUnload,                  "cuModuleUnload",              (void *))                                         \
    X(cuModuleGetFunction,             "cuModuleGetFunction",         (void **, void *, const char *))                  \
    X(cuMemGetInfo,                    "cuMemGetInfo_v2",             (size_t *, size_t *))                             \
    X(cuMemAlloc,                      "cuMemAlloc_v2",               (uintptr_t *, size_t))                            \
    X(cuMemFree,                       "cuMemFree_v2",                (uintptr_t))                                      \
    X(cuMemHostAlloc,                  "cuMemHostAlloc",              (void **, size_t, unsigned))                      \
    X(cuMemFreeHost,                   "cuMemFreeHost",               (void *))                                         \
    X(cuMemcpyHtoDAsync,               "cuMemcpyHtoDAsync_v2",        (uintptr_t, const void *, size_t, void *))        \
    X(cuMemcpyDtoHAsync,               "cuMemcpyDtoHAsync_v2",        (void *, uintptr_t, size_t, void *))              \
    X(cuMemcpyDtoDAsync,               "cuMemcpyDtoDAsync_v2",        (uintptr_t, uintptr_t, size_t, void *))           \
    X(cuMemsetD8Async,                 "cuMemsetD8Async",             (uintptr_t, unsigned char, size_t, void *))       \
    X(cuMemGetAllocationGranularity,   "cuMemGetAllocationGranularity", (size_t *, const gpu_place *, int))             \
    X(cuMemAddressReserve,             "cuMemAddressReserve",         (uintptr_t *, size_t, size_t, uintptr_t, uint64_t)) \
    X(cuMemAddressFree,                "cuMemAddressFree",            (uintptr_t, size_t))                              \
    X(cuMemCreate,                     "cuMemCreate",                 (uint64_t *, size_t, const gpu_place *, uint64_t)) \
    X(cuMemRelease,                    "cuMemRelease",                (uint64_t))                                       \
    X(cuMemMap,                        "cuMemMap",                    (uintptr_t, size_t, size_t, uint64_t, uint64_t))  \
    X(cuMemUnmap,                      "cuMemUnmap",                  (uintptr_t, size_t))                              \
    X(cuMemSetAccess,                  "cuMemSetAccess",              (uintptr_t, size_t, const gpu_access *, size_t))  \
    X(cuLaunchKernel,                  "cuLaunchKernel",                                                                \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))         \
    X(cuStreamCreate,                  "cuStreamCreate",              (void **, unsigned))                              \
    X(cuStreamDestroy,                 "cuStreamDestroy_v2",          (void *))                                         \
    X(cuStreamSynchronize,             "cuStreamSynchronize",         (void *))                                         \
    X(cuStreamBeginCapture,            "cuStreamBeginCapture_v2",     (void *, int))                                    \
    X(cuStreamEndCapture,              "cuStreamEndCapture",          (void *, void **))                                \
    X(cuGraphInstantiate,              "cuGraphInstantiateWithFlags", (void **, void *, uint64_t))                      \
    X(cuGraphDestroy,                  "cuGraphDestroy",              (void *))                                         \
    X(cuGraphLaunch,                   "cuGraphLaunch",               (void *, void *))                                 \
    X(cuGraphExecDestroy,              "cuGraphExecDestroy",          (void *))

/* CUmemAllocationProp. */
typedef struct {
    int     type;
    int     handles;
    int     where;
    int     device;
    void   *none;
    uint8_t flags[8];
} gpu_place;

/* CUmemAccessDesc. */
typedef struct {
    int where;
    int device;
    int flags;
} gpu_access;

/* Numbers of the driver's. */
enum {
    GPU_OUT_OF_MEMORY = 2, GPU_STUB = 34, GPU_NO_DEVICE = 100,
    GPU_MAJOR = 75, GPU_MINOR = 76,                   /* attributes: compute capability */
    GPU_PINNED = 1, GPU_ON_DEVICE = 1, GPU_READ_WRITE = 3,
    GPU_NON_BLOCKING = 1,                             /* a stream apart from the default one */
    GPU_THIS_THREAD = 1,                              /* what other threads do is not recorded */
    GPU_LEAST_DRIVER = 11040,                         /* CUDA 11.4: the first with all calls */
    GPU_LEAST_MAJOR = 8,                              /* compute capability */
};

#define GPU_POINTER(call, symbol, args) int (*call) args;
#define GPU_SYMBOL(call, symbol, args)  {symbol, offsetof(gpu_driver, call)},
typedef struct { GPU_CALLS(GPU_POINTER) } gpu_driver;
static const struct {
    const char *symbol;
    size_t      at;
} gpu__symbols[] = {GPU_CALLS(GPU_SYMBOL)};
static gpu_driver gpu__cu;

typedef struct {
    int      number;                                  /* the driver's */
    int      major;                                   /* compute capability major.minor */
    int      minor;
    char     name[128];
    size_t   total;                                   /* bytes of memory */
    size_t   free;                                    /* of these, bytes that are free; filled by gpu_list() */
} gpu_info;

/* Addresses of device memory, of which the first `used` bytes have memory, in pieces that came one by one. */
typedef struct {
    uint8_t  *base;
    size_t    bytes;                                  /* of the addresses */
    size_t    used;                                   /* of them, bytes with memory */
    uint32_t *piece;                                  /* [n_piece] units of each */
    int       n_piece;
} gpu_span;

typedef struct gpu {
    gpu_info   about;
    int        device;                                /* the driver's handle */
    int        id;                                    /* of all gpus that this process opened */
    void      *context;                               /* the driver's handles */
    void      *module;
    void      *stream;
    size_t     unit;                                  /* bytes that memory is mapped in */
    void     **kernel;                                /* [n_kernel] the driver's handles */
    const char **kernel_name;                         /* [n_kernel] */
    int        n_kernel;
    void     **graph;                                 /* [n_graph] */
    int        n_graph;
    int        n_span;                                /* that have not been freed */
} gpu;

static int               gpu__ids;
static _Thread_local int gpu__current;                /* id of the gpu whose context is this thread's; 0: none */

static const char *gpu__words(int error) {
    const char *words = NULL;
    gpu__cu.cuGetErrorString(error, &words);
    return words ? words : "unknown error";
}

static void gpu__check(int error, const char *call) {
    if (error) die(EXIT_RESOURCE, "%s: error %d, %s", call, error, gpu__words(error));
}

/* A call of the driver whose error ends the run. */
#define GPU_DO(call, ...) gpu__check(gpu__cu.call(__VA_ARGS__), #call)
/* A call whose error is returned in e: false. */
#define GPU_TRY(e, call, ...) gpu__tried(gpu__cu.call(__VA_ARGS__), #call, e)

static bool gpu__tried(int error, const char *call, err_t *e) {
    if (error == GPU_STUB)
        return err_set(e, EXIT_RESOURCE, "libcuda.so.1 here is the stub library of the CUDA toolkit, not a driver");
    if (error == GPU_NO_DEVICE) return err_set(e, EXIT_RESOURCE, "there is no NVIDIA GPU");
    return !error || err_set(e, EXIT_RESOURCE, "%s: error %d, %s", call, error, gpu__words(error));
}

/* A call for memory: false where there is not so much. */
#define GPU_HAS(call, ...) gpu__has(gpu__cu.call(__VA_ARGS__), #call)

static bool gpu__has(int error, const char *call) {
    gpu__check(error == GPU_OUT_OF_MEMORY ? 0 : error, call);
    return !error;
}

/* Makes g's context this thread's. */
static void gpu__enter(const gpu *g) {
    if (gpu__current == g->id) return;
    GPU_DO(cuCtxSetCurrent, g->context);
    gpu__current = g->id;
}

/* A call in g's context whose error ends the run. */
#define GPU_IN(g, call, ...) (gpu__enter(g), GPU_DO(call, __VA_ARGS__))

/* The driver's library. It is opened where a driver is: its control device, or its module before a first program has made that,
 * or the device of WSL or of a Jetson. LLMRUN_LIBCUDA, an absolute path, names another one, which stands in for it in tests. */
static void *gpu__library(err_t *e) {
    static const char *const places[] = {"/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg", "/dev/nvhost-ctrl-gpu"};
    const char *own = secure_getenv("LLMRUN_LIBCUDA"), *why;
    bool        there = own && *own == '/';
    if (!LLMRUN_CUDA) return err_set(e, EXIT_RESOURCE, "there is no NVIDIA driver (CUDA=0)"), NULL;
    if (own && !there) return err_set(e, EXIT_INPUT, "LLMRUN_LIBCUDA: found %.100s, expected an absolute path", own), NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) there = there || access(places[i], F_OK) == 0;
    if (!there) return err_set(e, EXIT_RESOURCE, "there is no NVIDIA driver (no %s)", places[0]), NULL;
    void *lib = sandbox_library(own ? own : "libcuda.so.1");
    if (!lib) err_set(e, EXIT_RESOURCE, "there is no NVIDIA driver (%s)", (why = dlerror()) ? why : "libcuda.so.1");
    return lib;
}

/* Finds every call. */
static bool gpu__open_driver(err_t *e) {
    void *lib = gpu__library(e);
    for (size_t i = 0; lib && i < sizeof gpu__symbols / sizeof *gpu__symbols; i++) {
        void *f = dlsym(lib, gpu__symbols[i].symbol);
        if (!f) return err_set(e, EXIT_RESOURCE, "the NVIDIA driver is too old: it has no %s", gpu__symbols[i].symbol);
        memcpy((char *)&gpu__cu + gpu__symbols[i].at, &f, sizeof f);
    }
    return lib;
}

/* The same, the driver ready for use, and how many devices it has. */
static bool gpu__start(int *n, err_t *e) {
    int version = 0;
    if (!LLMRUN_CUDA || !gpu_image) return err_set(e, EXIT_RESOURCE, "this program was built without CUDA kernels");
    if (!gpu__open_driver(e) || !GPU_TRY(e, cuDriverGetVersion, &version)) return false;
    if (version < GPU_LEAST_DRIVER)
        return err_set(e, EXIT_RESOURCE, "the NVIDIA driver is too old: it has CUDA %d.%d, at least %d.%d is needed",
                       version / 1000, version % 1000 / 10, GPU_LEAST_DRIVER / 1000, GPU_LEAST_DRIVER % 1000 / 10);
    if (!GPU_TRY(e, cuInit, 0) || !GPU_TRY(e, cuDeviceGetCount, n)) return false;
    return *n > 0 || err_set(e, EXIT_RESOURCE, "there is no NVIDIA GPU");
}

/* Starts the driver at the first call and not again; later calls return what the first one did. */
static bool gpu__begin(int *n, err_t *e) {
    static bool  begun;
    static err_t why;
    static int   devices;
    if (!begun) gpu__start(&devices, &why);
    begun = true;
    *n = devices;
    if (why.code) *e = e->code ? *e : why;
    return !why.code;
}

/* How many devices there are; -1: e says why none can be used. The first call starts the driver. */
static int gpu_count(err_t *e) {
    int n = 0;
    return gpu__begin(&n, e) ? n : -1;
}

/* What the driver says of device `number`, all but its free memory. */
static bool gpu__describe(int number, int *device, gpu_info *to, err_t *e) {
    *to = (gpu_info){.number = number};
    return GPU_TRY(e, cuDeviceGet, device, number) && GPU_TRY(e, cuDeviceGetName, to->name, sizeof to->name - 1, *device)
           && GPU_TRY(e, cuDeviceGetAttribute, &to->major, GPU_MAJOR, *device)
           && GPU_TRY(e, cuDeviceGetAttribute, &to->minor, GPU_MINOR, *device)
           && GPU_TRY(e, cuDeviceTotalMem, &to->total, *device);
}

/* Describes up to `most` devices. How many there are; -1: e says why none can be used. */
static int gpu_list(gpu_info *to, int most, err_t *e) {
    const int n = gpu_count(e);
    for (int i = 0; i < n && i < most; i++) {
        void  *context = NULL;
        int    device = 0;
        size_t total = 0;
        if (!gpu__describe(i, &device, &to[i], e) || !GPU_TRY(e, cuDevicePrimaryCtxRetain, &context, device)) return -1;
        gpu__current = 0;
        const bool known = GPU_TRY(e, cuCtxSetCurrent, context) && GPU_TRY(e, cuMemGetInfo, &to[i].free, &total);
        if (!GPU_TRY(e, cuDevicePrimaryCtxRelease, device) || !known) return -1;
    }
    return n;
}

/* --- a device --- */

static gpu_place gpu__place(const gpu *g) { return (gpu_place){.type = GPU_PINNED, .where = GPU_ON_DEVICE, .device = g->device}; }

/* Everything of a new gpu whose context is there. */
static bool gpu__set_up(gpu *g, err_t *e) {
    const gpu_place place = gpu__place(g);
    g->id = ++gpu__ids;
    gpu__current = 0;
    if (!GPU_TRY(e, cuCtxSetCurrent, g->context)) return false;
    gpu__current = g->id;
    return GPU_TRY(e, cuMemGetAllocationGranularity, &g->unit, &place, 0)
           && GPU_TRY(e, cuStreamCreate, &g->stream, GPU_NON_BLOCKING) && GPU_TRY(e, cuModuleLoadData, &g->module, gpu_image);
}

/* Ends what gpu__set_up began. */
static void gpu_close(gpu *g) {
    if (!g) return;
    gpu__enter(g);
    for (int i = 0; i < g->n_graph; i++) GPU_DO(cuGraphExecDestroy, g->graph[i]);
    if (g->module) GPU_DO(cuModuleUnload, g->module);
    if (g->stream) GPU_DO(cuStreamDestroy, g->stream);
    ASSERT(!g->n_span);
    GPU_DO(cuDevicePrimaryCtxRelease, g->device);
    gpu__current = 0;
    mem_free_all(g->kernel, g->kernel_name, g->graph, g);
}

/* Opens device `number`. NULL: e says in one line why it cannot be used. */
static gpu *gpu_open(int number, err_t *e) {
    int n = 0;
    gpu g = {0};
    if (!gpu__begin(&n, e)) return NULL;
    if (number >= n) err_set(e, EXIT_RESOURCE, "there is no GPU %d: the last of %d is number %d", number, n, n - 1);
    if (number >= n || !gpu__describe(number, &g.device, &g.about, e)) return NULL;
    if (g.about.major < GPU_LEAST_MAJOR)
        err_set(e, EXIT_RESOURCE, "GPU %d (%s) has compute capability %d.%d, at least %d.0 is needed", number,
                g.about.name, g.about.major, g.about.minor, GPU_LEAST_MAJOR);
    if (e->code || !GPU_TRY(e, cuDevicePrimaryCtxRetain, &g.context, g.device)) return NULL;
    gpu *own = mem_new(1, sizeof *own);
    *own = g;
    if (gpu__set_up(own, e)) return own;
    gpu_close(own);
    return NULL;
}

/* What the driver says of it; `free` is not filled. */
static const gpu_info *gpu_about(const gpu *g) { return &g->about; }

/* Bytes that are free now. */
static uint64_t gpu_memory(const gpu *g) {
    size_t free_bytes = 0, total = 0;
    GPU_IN(g, cuMemGetInfo, &free_bytes, &total);
    return free_bytes;
}

/* Waits until everything is done. */
static void gpu_wait(gpu *g) {
    GPU_IN(g, cuStreamSynchronize, g->stream);
}

/* --- memory --- */

/* Sets n bytes to 0. */
static void gpu_zero(gpu *g, void *to, size_t n) {
    if (n) GPU_IN(g, cuMemsetD8Async, (uintptr_t)to, 0, n, g->stream);
}

/* Device memory, zeroed, aligned to 256; NULL: there is not so much. */
static void *gpu_new(gpu *g, size_t n) {
    uintptr_t at = 0;
    gpu__enter(g);
    if (!GPU_HAS(cuMemAlloc, &at, n ? n : 1)) return NULL;
    gpu_zero(g, (void *)at, n);
    return (void *)at;
}

/* Waits for what uses it. p may be NULL. */
static void gpu_free(gpu *g, void *p) {
    if (p) GPU_IN(g, cuMemFree, (uintptr_t)p);
}

/* Memory of the host that the device copies from and to at its full rate, zeroed; NULL: there is not so much. */
static void *gpu_pinned(gpu *g, size_t n) {
    void *p = NULL;
    gpu__enter(g);
    if (!GPU_HAS(cuMemHostAlloc, &p, n ? n : 1, 0)) return NULL;
    return memset(p, 0, n);
}

/* After the copies that use it. p may be NULL. */
static void gpu_unpin(gpu *g, void *p) {
    if (p) GPU_IN(g, cuMemFreeHost, p);
}

/* Copies between host and device: pinned memory must stay as it is until gpu_wait, other memory is copied before they return. */
static void gpu_up(gpu *g, void *to, const void *from, size_t n) {
    if (n) GPU_IN(g, cuMemcpyHtoDAsync, (uintptr_t)to, from, n, g->stream);
}

/* The same from the device to the host. */
static void gpu_down(gpu *g, void *to, const void *from, size_t n) {
    if (n) GPU_IN(g, cuMemcpyDtoHAsync, to, (uintptr_t)from, n, g->stream);
}

/* From device memory to device memory that does not overlap. */
static void gpu_copy(gpu *g, void *to, const void *from, size_t n) {
    if (n) GPU_IN(g, cuMemcpyDtoDAsync, (uintptr_t)to, (uintptr_t)from, n, g->stream);
}

/* --- addresses now, memory later --- */

/* Addresses for up to n bytes of device memory, none of which is there yet. */
static void gpu_span_new(gpu *g, gpu_span *s, size_t n) {
    const size_t units = n / g->unit + 1;
    uintptr_t    at = 0;
    GPU_IN(g, cuMemAddressReserve, &at, units * g->unit, 0, 0, 0);
    *s = (gpu_span){.base = (uint8_t *)at, .bytes = units * g->unit, .piece = mem_new(units, sizeof *s->piece)};
    g->n_span++;
}

/* Makes at least the first n bytes usable; new ones are zeroed, others stay as they are. False: there is not so much memory, and
 * nothing has changed. */
static bool gpu_span_grow(gpu *g, gpu_span *s, size_t n) {
    const size_t     want = (n + g->unit - 1) / g->unit * g->unit, more = want > s->used ? want - s->used : 0;
    const gpu_place  place = gpu__place(g);
    const gpu_access access = {GPU_ON_DEVICE, g->device, GPU_READ_WRITE};
    const uintptr_t  at = (uintptr_t)s->base + s->used;
    uint64_t         memory = 0;
    ASSERT(want <= s->bytes);
    if (!more) return true;
    gpu__enter(g);
    if (!GPU_HAS(cuMemCreate, &memory, more, &place, 0)) return false;
    GPU_DO(cuMemMap, at, more, 0, memory, 0);
    GPU_DO(cuMemRelease, memory);                     /* it stays while it is mapped */
    GPU_DO(cuMemSetAccess, at, more, &access, 1);
    s->piece[s->n_piece++] = (uint32_t)(more / g->unit);
    s->used = want;
    gpu_zero(g, (void *)at, more);
    return true;
}

/* Gives memory and addresses back, when all work is done. A span that is all zero has none. */
static void gpu_span_free(gpu *g, gpu_span *s) {
    uintptr_t at = (uintptr_t)s->base;
    if (!s->base) return;
    gpu_wait(g);
    for (int i = 0; i < s->n_piece; at += s->piece[i++] * g->unit) GPU_DO(cuMemUnmap, at, s->piece[i] * g->unit);
    GPU_DO(cuMemAddressFree, (uintptr_t)s->base, s->bytes);
    mem_free(s->piece);
    g->n_span--;
    *s = (gpu_span){0};
}

/* --- kernels --- */

/* The number of a kernel, for gpu_launch; its name must stay. */
static int gpu_kernel(gpu *g, const char *name) {
    void *f = NULL;
    for (int i = 0; i < g->n_kernel; i++)
        if (!strcmp(g->kernel_name[i], name)) return i;
    gpu__enter(g);
    const int error = gpu__cu.cuModuleGetFunction(&f, g->module, name);
    if (error) die(EXIT_RESOURCE, "the kernel %s: error %d, %s", name, error, gpu__words(error));
    const int i = g->n_kernel++;
    g->kernel = mem_grow(g->kernel, (size_t)g->n_kernel, sizeof *g->kernel);
    g->kernel_name = mem_grow(g->kernel_name, (size_t)g->n_kernel, sizeof *g->kernel_name);
    g->kernel[i] = f;
    g->kernel_name[i] = name;
    return i;
}

/* x times y blocks of K_CUDA_THREADS threads; the kernel's argument is the struct of `size` bytes at arg. */
static void gpu_launch(gpu *g, int kernel, int x, int y, const void *arg, size_t size) {
    enum { END, BUFFER, BUFFER_SIZE };
    union { const void *in; void *out; } a = {.in = arg};
    void *extra[] = {(void *)BUFFER, a.out, (void *)BUFFER_SIZE, &size, (void *)END};
    ASSERT(kernel >= 0 && kernel < g->n_kernel && x > 0 && y > 0);
    GPU_IN(g, cuLaunchKernel, g->kernel[kernel], (unsigned)x, (unsigned)y, 1, K_CUDA_THREADS, 1, 1, 0, g->stream, NULL, extra);
}

/* What follows up to gpu_recorded is recorded: launches, copies with pinned memory, gpu_zero. */
static void gpu_record(gpu *g) {
    GPU_IN(g, cuStreamBeginCapture, g->stream, GPU_THIS_THREAD);
}

/* The number of what was recorded, for gpu_replay. */
static int gpu_recorded(gpu *g) {
    void *graph = NULL, *ready = NULL;
    GPU_IN(g, cuStreamEndCapture, g->stream, &graph);
    GPU_DO(cuGraphInstantiate, &ready, graph, 0);
    GPU_DO(cuGraphDestroy, graph);
    g->graph = mem_grow(g->graph, (size_t)g->n_graph + 1, sizeof *g->graph);
    g->graph[g->n_graph] = ready;
    return g->n_graph++;
}

/* Does what was recorded, with what then stands in pinned memory. */
static void gpu_replay(gpu *g, int graph) {
    ASSERT(graph >= 0 && graph < g->n_graph);
    GPU_IN(g, cuGraphLaunch, g->graph[graph], g->stream);
}
