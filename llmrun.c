/* llmrun.c - run GGUF language models on the CPU, from one C file and one header.
 *     make && ./llmrun -m tests/data/tiny/llama.gguf -p "Hello" -n 32
 *
 * ROOMS, from the cellar up. A room uses only the rooms after its arrow. In round brackets: other prefixes it owns.
 *   [k]        formats and arithmetic: ggml_kernels.h, which has never heard of models
 *   [base]     (die log err mem bytes str out clock rng utf8 progress)  exit codes, log, memory, bytes, output, progress
 *   [pool]     worker threads, barriers, CPUs and memory we may use     <- k base
 *   [gguf]     the model file: bounds-checked view, typed lookups       <- k base
 *   [tok]      vocabularies: text to token ids and back, to the byte    <- base gguf
 *   [arch]     architectures and their tensors as data                  <- k base gguf
 *   [model]    a model bound to its mapping, every shape checked        <- k base pool gguf arch
 *   [kv]       paged key/value cache                                    <- k base arch
 *   [store]    blocks of prompts in a file, between runs                <- k base gguf kv
 *   [dev]      the device that runs a step: kernels over the pool       <- k base pool arch
 *   [fwd]      one step over a batch of rows                            <- k base pool arch model kv dev
 *   [samp]     logits to token                                          <- base
 *   [gen]      (engine) a model opened for running; scores              <- k base pool gguf tok model kv store dev fwd samp
 *   [lines]    (results) long files in, results that are never lost     <- base
 *   [req]      one line of a batch file, and its answer as one          <- base tok samp
 *   [spec]     guesses at the tokens to come, and what they are worth   <- k base pool gguf tok model kv fwd samp gen
 *   [sched]    (hist) many requests through one model                   <- base pool tok kv fwd samp gen req spec
 *   [text]     one request, its text as it is made                      <- k base gguf tok kv samp gen sched spec
 *   [batch]    a file of requests, one a line                           <- base tok kv samp gen lines req sched spec
 *   [calib]    what a text shows of a model's inputs                    <- k base pool gguf tok kv dev fwd gen
 *   [round]    weights rounded by what they do to a text               <- k base pool gguf tok model kv dev fwd
 *   [eval]     what a model is worth on a text: perplexity, divergence  <- k base pool gguf tok kv fwd gen
 *   [quant]    one model file into another, weights in other types      <- k base pool gguf
 *   [inspect]  what is in a model file                                  <- k base gguf tok arch model
 *   [plot]     rates as a picture (SVG)                                 <- base
 *   [bench]    how fast a model runs here          <- k base pool gguf arch model kv dev fwd samp gen spec quant plot
 *   [cli]      (main) option table, config, actions, main               <- all
 *
 * SHAPES  B rows in the batch, T positions, D model width, H heads, G kv heads, HD head width, F ffn width, V vocabulary,
 *         E experts, K experts used per row. Written [B, D]; the last one is contiguous. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <glob.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <linux/futex.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <jansson.h>

/* ===== [k] formats and arithmetic =====
 * A header of its own with sections of its own; it stands below everything, knows libc only and owns the names that
 * begin with k_ and K_. Nothing here names a machine: which kernels run is k_init's business.
 * Door: k_init, k_types, k_mul_rows, k_attn and the other k_ functions without a double underscore. */
#include "ggml_kernels.h"

/* ===== [base] exit codes, log, memory, bytes, clock, rng =====
 * The ground floor: how the program ends, speaks, allocates and measures time. Owns the few globals.
 * Invariants: every product of sizes is checked in 64 bits; out of memory ends the run with exit 3 and
 * one line; after mem_freeze() any allocation is a bug and dies naming the phase.
 * Door: die, log_*, err_*, mem_*, str_*, bytes_*, clock_*, rng_*, progress_*. */

enum { EXIT_DONE = 0, EXIT_NO = 1, EXIT_INPUT = 2, EXIT_RESOURCE = 3, EXIT_INT = 130, EXIT_TERM = 143 };
enum { LOG_QUIET = 0, LOG_NORMAL = 1, LOG_VERBOSE = 2 };

static int                   g_log_level = LOG_NORMAL;
static volatile sig_atomic_t g_interrupt;             /* the signal that asked us to stop, 0 when none did */
static const char           *g_frozen;                /* the phase in which nothing may allocate */

/* Bytes on their way to a terminal, made harmless in place: control characters (C0, DEL, and C1 as UTF-8 spells them)
 * become question marks, so that whatever a name holds, a message is one line and gives no orders. Safe in a handler. */
static void log_tame(char *p, size_t n) {
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)p[i];
        bool          c1 = i > 0 && (unsigned char)p[i - 1] == 0xc2 && c >= 0x80 && c <= 0x9f;
        if (c < 0x20 || c == 0x7f || c1) p[i] = '?';
    }
}

/* The progress line that stands on the terminal (see progress_show). */
static struct {
    volatile sig_atomic_t shown;
    double                last;                       /* clock_now() of the last drawing */
} base__progress;

/* Removes it; whoever writes to the terminal does so first. Safe in a handler. */
static void progress_clear(void) {
    static const char erase[] = "\r\033[K";
    if (!base__progress.shown) return;
    base__progress.shown = 0;
    if (write(STDERR_FILENO, erase, sizeof erase - 1) < 0) {}
}

/* The same before fd is written to, if it is a terminal too. */
static void progress_yield(int fd) {
    if (base__progress.shown && isatty(fd)) progress_clear();
}

static void log__line(const char *fmt, va_list ap) {
    char line[2048];
    int  n = vsnprintf(line, sizeof line, fmt, ap);
    if (n < 0) return;
    if ((size_t)n >= sizeof line) n = (int)sizeof line - 1;
    log_tame(line, (size_t)n);
    progress_clear();
    fprintf(stderr, "llmrun: %s\n", line);
}

__attribute__((format(printf, 2, 3), noreturn)) static void die(int code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    log__line(fmt, ap);
    va_end(ap);
    exit(code);
}

__attribute__((format(printf, 1, 2))) static void log_warn(const char *fmt, ...) {
    if (g_log_level < LOG_NORMAL) return;
    va_list ap;
    va_start(ap, fmt);
    log__line(fmt, ap);
    va_end(ap);
}

/* What ends a run with a non-zero code; said even under -q. */
__attribute__((format(printf, 1, 2))) static void log_error(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    log__line(fmt, ap);
    va_end(ap);
}

/* Detail for -v. */
__attribute__((format(printf, 1, 2))) static void log_info(const char *fmt, ...) {
    if (g_log_level < LOG_VERBOSE) return;
    va_list ap;
    va_start(ap, fmt);
    log__line(fmt, ap);
    va_end(ap);
}

/* On in every build: a failed ASSERT is a bug of ours, never a property of the input. */
#define ASSERT(c) ((c) ? (void)0 : base__assert(#c, __FILE__, __LINE__))
__attribute__((noreturn)) static void base__assert(const char *what, const char *file, int line) {
    progress_clear();
    fprintf(stderr, "llmrun: bug: %s:%d: %s does not hold\n", file, line, what);
    abort();
}

/* An error on its way to whoever decides what to do with it. The first one set wins. */
typedef struct {
    int  code;                                        /* 0: no error; else the exit code it deserves */
    char text[600];
} err_t;

__attribute__((format(printf, 3, 4))) static bool err_set(err_t *e, int code, const char *fmt, ...) {
    if (e->code) return false;
    e->code = code;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    return false;                                     /* so that a parser can `return err_set(...)` */
}

/* The exit code for a failed call on a file: 3 where the system had run out of something, else 2. */
static int err_code_of(int no) {
    static const int resource[] = {ENOMEM, EMFILE, ENFILE, ENOSPC, EDQUOT, EFBIG, EIO, EAGAIN};
    for (size_t i = 0; i < sizeof resource / sizeof *resource; i++)
        if (no == resource[i]) return EXIT_RESOURCE;
    return EXIT_INPUT;
}

/* --- memory --- */

static void mem_freeze(const char *phase) { g_frozen = phase; }
static void mem_thaw(void) { g_frozen = NULL; }

static size_t mem_size(size_t n, size_t each) {
    size_t bytes;
    if (g_frozen) die(EXIT_RESOURCE, "bug: allocation while frozen for %s", g_frozen);
    if (__builtin_mul_overflow(n, each, &bytes)) die(EXIT_RESOURCE, "out of memory: %zu x %zu bytes", n, each);
    return bytes ? bytes : 1;
}

/* n zeroed elements of `each` bytes; never NULL. */
static void *mem_new(size_t n, size_t each) {
    size_t bytes = mem_size(n, each);
    void  *p = calloc(1, bytes);
    if (!p) die(EXIT_RESOURCE, "out of memory: %zu bytes", bytes);
    return p;
}

/* The same, moved: the new part is not zeroed. */
static void *mem_grow(void *old, size_t n, size_t each) {
    size_t bytes = mem_size(n, each);
    void  *p = realloc(old, bytes);
    if (!p) die(EXIT_RESOURCE, "out of memory: %zu bytes", bytes);
    return p;
}

/* 64-byte aligned, not zeroed: what the kernels read and write. */
static void *mem_aligned(size_t n, size_t each) {
    size_t bytes = mem_size(n, each);
    if (bytes > SIZE_MAX - 127) die(EXIT_RESOURCE, "out of memory: %zu bytes", bytes);
    void *p = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    if (!p) die(EXIT_RESOURCE, "out of memory: %zu bytes", bytes);
    return p;
}

static void mem_free(void *p) { free(p); }

/* Zeros, in large pages where the kernel gives them, so the first byte stands on the border of one; memory is taken as it is
 * first written. */
enum { MEM_LARGE = 2 << 20 };

static size_t mem__large(size_t bytes) { return (bytes + MEM_LARGE - 1) & ~(size_t)(MEM_LARGE - 1); }

static void *mem_pages(size_t bytes) {
    const size_t whole = bytes < SIZE_MAX / 2 ? mem__large(bytes) : SIZE_MAX / 2;
    uint8_t     *all = mmap(NULL, whole + MEM_LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) die(EXIT_RESOURCE, "out of memory: %zu bytes", bytes);
    const size_t before = mem__large((uintptr_t)all) - (uintptr_t)all;
    if (before) munmap(all, before);
    if (before < MEM_LARGE) munmap(all + before + whole, MEM_LARGE - before);
    madvise(all + before, whole, MADV_HUGEPAGE);
    return all + before;
}

static void mem_pages_free(void *p, size_t bytes) {
    if (p) munmap(p, mem__large(bytes));
}

/* --- bytes: a view, never owned --- */

typedef struct {
    const uint8_t *p;
    size_t         n;
} bytes;

static bytes bytes_of(const char *s) { return (bytes){(const uint8_t *)s, strlen(s)}; }
static bool  bytes_eq(bytes a, bytes b) { return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0); }
static bool  bytes_is(bytes a, const char *s) { return bytes_eq(a, bytes_of(s)); }

/* Edits (insert, delete, replace, swap neighbours) that turn a into b, for names of up to 63 bytes; 64 beyond. */
static int bytes_distance(bytes a, bytes b) {
    uint8_t row[3][65];
    if (a.n > 63 || b.n > 63) return 64;
    uint8_t *before = row[0], *prev = row[1], *cur = row[2];
    for (size_t j = 0; j <= b.n; j++) prev[j] = (uint8_t)j;
    for (size_t i = 1; i <= a.n; i++) {
        cur[0] = (uint8_t)i;
        for (size_t j = 1; j <= b.n; j++) {
            int best = prev[j - 1] + (a.p[i - 1] != b.p[j - 1]);
            if (prev[j] + 1 < best) best = prev[j] + 1;
            if (cur[j - 1] + 1 < best) best = cur[j - 1] + 1;
            if (i > 1 && j > 1 && a.p[i - 1] == b.p[j - 2] && a.p[i - 2] == b.p[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            cur[j] = (uint8_t)best;
        }
        uint8_t *t = before;
        before = prev, prev = cur, cur = t;
    }
    return prev[b.n];
}

/* How far off a name may be and still be meant: a third of its letters, at most three. */
static int bytes_slack(bytes name) { return name.n < 4 ? 0 : name.n < 8 ? 1 + (name.n > 5) : 3; }

/* The JSON value at the beginning of b, cut off from it: a string with its quotes, a list or an object to its last bracket,
 * else all up to the next comma, colon or bracket. Empty: there is none. What stands inside is not checked. */
static bytes bytes_cut_json(bytes *b) {
    size_t n = 0, deep = 0;
    bool   in_string = false;
    for (; n < b->n; n++) {
        const uint8_t c = b->p[n];
        if (in_string && c == '\\') n++;
        else if (c == '"') in_string = !in_string;
        else if (in_string) continue;
        else if (c == '[' || c == '{') deep++;
        else if (!deep && memchr(",:]}", c, 4)) break;
        else if (c == ']' || c == '}') deep--;
        if (!deep && !in_string && memchr("\"]}", c, 3)) {
            n++;
            break;
        }
    }
    if (n > b->n) n = b->n;
    const bytes value = {b->p, n};
    *b = (bytes){b->p + n, b->n - n};
    return value;
}

/* What a file that begins so is, NULL where no magic is known. No text begins like any of them. */
static const char *bytes_kind(bytes b) {
    static const struct {
        const char *magic;
        size_t      n;
        const char *kind;
    } kinds[] = {
        {"GGUF\1\0\0", 8, "a GGUF file"},
        {"GGUF\2\0\0", 8, "a GGUF file"},
        {"GGUF\3\0\0", 8, "a GGUF file"},
        {"\x1f\x8b", 2, "a gzip file"},
        {"PK\3\4", 4, "a zip file (or a PyTorch one, which is zip)"},
        {"\x28\xb5\x2f\xfd", 4, "a zstd file"},
        {"\xfd" "7zXZ", 5, "an xz file"},
        {"BZh91AY&SY", 10, "a bzip2 file"},
        {"7z\xbc\xaf", 4, "a 7z file"},
        {"\x93NUMPY", 6, "a NumPy file"},
        {"\x7f" "ELF", 4, "a program"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (b.n >= kinds[i].n && memcmp(b.p, kinds[i].magic, kinds[i].n) == 0) return kinds[i].kind;
    return NULL;
}

/* --- str: a growable byte string, always followed by a NUL that n does not count --- */

typedef struct {
    char  *p;
    size_t n, cap;
} str;

static void str_room(str *s, size_t more) {
    if (s->cap - s->n > more) return;
    size_t want = s->n + more + 1;
    if (want < s->n) die(EXIT_RESOURCE, "out of memory: a text of %zu bytes", s->n);
    size_t cap = s->cap ? s->cap : 64;
    while (cap < want) cap = cap > SIZE_MAX / 2 ? want : cap * 2;
    s->p = mem_grow(s->p, cap, 1);
    s->cap = cap;
}

static void str_add(str *s, const void *p, size_t n) {
    str_room(s, n);
    if (n) memcpy(s->p + s->n, p, n);
    s->n += n;
    s->p[s->n] = 0;
}

static void  str_put(str *s, const char *text) { str_add(s, text, strlen(text)); }
static void  str_clear(str *s) { s->n = 0; if (s->p) s->p[0] = 0; }
static void  str_drop(str *s) { mem_free(s->p); *s = (str){0}; }
static bytes str_bytes(const str *s) { return (bytes){(const uint8_t *)s->p, s->n}; }

__attribute__((format(printf, 2, 3), nonnull(2))) static void str_fmt(str *s, const char *fmt, ...) {
    va_list ap, ap2;
    va_start(ap, fmt);
    va_copy(ap2, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n > 0) {
        str_room(s, (size_t)n);
        vsnprintf(s->p + s->n, (size_t)n + 1, fmt, ap2);
        s->n += (size_t)n;
    }
    va_end(ap2);
}

/* --- out: where an answer goes. The first failed write is remembered; a reader who left early had enough. --- */

typedef struct {
    FILE       *f;
    const char *name;                                 /* in errors: a path, or stdout */
    int         why;                                  /* errno of the first failed write, 0: none failed */
} out_t;

static bool out_put(out_t *o, const void *p, size_t n) {
    progress_yield(fileno(o->f));
    errno = 0;
    if (!o->why && n && fwrite(p, 1, n, o->f) != n) o->why = errno ? errno : EIO;
    return !o->why;
}

static bool out_flush(out_t *o) {
    errno = 0;
    if (!o->why && fflush(o->f) != 0) o->why = errno ? errno : EIO;
    return !o->why;
}

/* Files that this run has made and not begun to write, "" where there is none: an answer and what stands beside it. */
enum { OUT_MADE = 2 };
static char out__made[OUT_MADE][PATH_MAX];

/* Removes them: a run that fails early leaves no empty file behind. Async-signal-safe. */
static void out_sweep(void) {
    for (int i = 0; i < OUT_MADE; i++) {
        if (out__made[i][0]) unlink(out__made[i]);
        out__made[i][0] = 0;
    }
}

static void out__note_made(const char *path) {
    for (int i = 0; i < OUT_MADE && strlen(path) < PATH_MAX; i++) {
        if (out__made[i][0]) continue;
        strcpy(out__made[i], path);
        return;
    }
}

/* Opens a file to be written, -1 and errno where that fails. Its old bytes stay until out_begin(). */
static int out_open(const char *path) {
    static bool sweeps;
    int         fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    const bool  made = fd >= 0;
    if (fd < 0 && errno == EEXIST) fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (!sweeps) sweeps = atexit(out_sweep) == 0;
    if (made) out__note_made(path);
    return fd;
}

/* Empties a file that is about to be written: nothing is lost before the answer begins. */
static bool out_begin(out_t *o, err_t *e) {
    struct stat st;
    for (int i = 0; i < OUT_MADE; i++)
        if (strcmp(o->name, out__made[i]) == 0) out__made[i][0] = 0; /* from now on it stays */
    if (o->f == stdout || fstat(fileno(o->f), &st) != 0 || !S_ISREG(st.st_mode) || ftruncate(fileno(o->f), 0) == 0) return true;
    return err_set(e, err_code_of(errno), "%s: cannot write: %s", o->name, strerror(errno));
}

/* False, with words in e, unless every byte was written or the reader has gone. */
static bool out_end(out_t *o, err_t *e) {
    out_flush(o);
    out_sweep();
    errno = 0;
    if (fclose(o->f) != 0 && !o->why) o->why = errno ? errno : EIO;
    return !o->why || o->why == EPIPE || err_set(e, EXIT_RESOURCE, "%s: cannot write: %s", o->name, strerror(o->why));
}

/* --- clock: seconds since some start, monotonic --- */

static double clock_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- rng: a value is a pure function of (seed, sequence, position, draw), so a text does not depend on
 * what ran beside it. splitmix64's finaliser (Steele, Lea, Flood 2014) over a mixed key. --- */

static uint64_t rng_mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint64_t rng_at(uint64_t seed, uint64_t seq, uint64_t pos, uint64_t draw) {
    return rng_mix(rng_mix(rng_mix(rng_mix(seed) ^ seq) ^ pos) ^ draw);
}

/* [0, 1) with 53 bits. */
static double rng_unit(uint64_t bits) { return (double)(bits >> 11) * 0x1p-53; }

/* A seed nobody can guess, for runs that did not name one; 32 bits, so that it is easily typed again. */
static uint64_t rng_fresh(void) {
    uint32_t s;
    if (getrandom(&s, sizeof s, 0) != (ssize_t)sizeof s) s = (uint32_t)rng_mix((uint64_t)time(NULL) ^ (uint64_t)getpid());
    return s;
}

/* A hash of bytes, keyed: with a seed that nobody knows, nobody can choose many that fall into one slot. */
static uint64_t bytes_hash(uint64_t seed, bytes b) {
    uint64_t h = rng_mix(seed ^ b.n), word;
    size_t   i = 0;
    for (; i + 8 <= b.n; i += 8) {
        memcpy(&word, b.p + i, 8);
        h = rng_mix(h ^ word);
    }
    word = 0;
    if (i < b.n) memcpy(&word, b.p + i, b.n - i);
    return rng_mix(h ^ word);
}

/* --- utf8 --- */

/* Length in bytes of the well-formed character at p (n bytes left), 0 when there is none (RFC 3629). */
static int utf8_len(const uint8_t *p, size_t n) {
    if (!n) return 0;
    uint8_t c = p[0];
    if (c < 0x80) return 1;
    int len = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    if (c < 0xc2 || c > 0xf4 || (size_t)len > n) return 0;
    for (int i = 1; i < len; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if ((c == 0xe0 && p[1] < 0xa0) || (c == 0xed && p[1] > 0x9f) || (c == 0xf0 && p[1] < 0x90) || (c == 0xf4 && p[1] > 0x8f))
        return 0;
    return len;
}

/* True when the n bytes at p could be the beginning of a well-formed character that has not ended yet. */
static bool utf8_open(const uint8_t *p, size_t n) {
    static const uint8_t fill[3] = {0xa0, 0x80, 0x80}, alt[3] = {0x80, 0x80, 0x80}, low[3] = {0x90, 0x80, 0x80};
    uint8_t              b[7];
    if (!n || n > 3 || utf8_len(p, n)) return false;
    const uint8_t *tail[3] = {fill, alt, low};
    for (int t = 0; t < 3; t++) {
        memcpy(b, p, n);
        memcpy(b + n, tail[t], 3);
        int len = utf8_len(b, n + 3);
        if (len > (int)n) return true;
    }
    return false;
}

/* --- progress: one line on a terminal, drawn again in place, cut to the window's width. Nothing where standard error is no
 * terminal, and nothing under -q. --- */

#define PROGRESS_PAUSE_S 0.1                          /* between two drawings */

static bool progress_on(void) { return g_log_level >= LOG_NORMAL && isatty(STDERR_FILENO); }

/* Whether it is time to draw. */
static bool progress_due(void) {
    return progress_on() && (!base__progress.shown || clock_now() - base__progress.last >= PROGRESS_PAUSE_S);
}

static int progress__columns(void) {
    struct winsize w;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col ? w.ws_col : 80;
}

/* Bytes of the text that fit so many columns. A character beyond ASCII may take two. */
static size_t progress__fit(const char *text, int columns) {
    const size_t n = strlen(text);
    size_t       i = 0;
    while (i < n) {
        const int len = utf8_len((const uint8_t *)text + i, n - i);
        if ((columns -= len > 1 ? 2 : 1) < 0) break;
        i += len ? (size_t)len : 1;
    }
    return i;
}

/* Draws the line where it is time to. The last column stays free: a terminal would begin the next line. Allocates nothing. */
__attribute__((format(printf, 1, 2))) static void progress_show(const char *fmt, ...) {
    char    text[512], line[sizeof text + 8];
    va_list ap;
    if (!progress_due()) return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    log_tame(text, strlen(text));
    const int n = snprintf(line, sizeof line, "\r%.*s\033[K", (int)progress__fit(text, progress__columns() - 1), text);
    base__progress.shown = 1;
    base__progress.last = clock_now();
    if (write(STDERR_FILENO, line, (size_t)n) < 0) {}
}

typedef struct {
    char p[32];
} progress_time;

/* ", 1:02:03 left" or ", 2:03 left", by how much was done since; "" until a second has passed. */
static progress_time progress_left(double since, double done, double all) {
    progress_time t = {""};
    const double  gone = clock_now() - since, left = done > 0 ? gone / done * (all - done) : 1e9;
    if (gone < 1 || left > 1e6) return t;
    const int s = (int)left;
    if (s >= 3600) snprintf(t.p, sizeof t.p, ", %d:%02d:%02d left", s / 3600, s / 60 % 60, s % 60);
    else snprintf(t.p, sizeof t.p, ", %d:%02d left", s / 60, s % 60);
    return t;
}

/* --- JSON --- */

/* Bytes at p, at least one, that one U+FFFD stands for where no well-formed character begins: the longest beginning of
 * one that does not go on (Unicode's maximal subpart, as Python's errors="replace" counts). */
static size_t utf8_bad(const uint8_t *p, size_t n) {
    size_t len = n < 3 ? n : 3;
    while (len > 1 && !utf8_open(p, len)) len--;
    return len;
}

static bool utf8_whole(bytes b) {
    for (size_t i = 0, len; i < b.n; i += len)
        if (!(len = (size_t)utf8_len(b.p + i, b.n - i))) return false;
    return true;
}

/* The same text as valid UTF-8: U+FFFD stands for what is not. */
static void str_utf8(str *s, bytes b) {
    for (size_t i = 0, len; i < b.n; i += len) {
        len = (size_t)utf8_len(b.p + i, b.n - i);
        if (len) str_add(s, b.p + i, len);
        else str_put(s, "\xef\xbf\xbd"), len = utf8_bad(b.p + i, b.n - i);
    }
}

/* A JSON string literal, quotes included, always valid UTF-8. */
static void str_json(str *s, bytes b) {
    str_put(s, "\"");
    for (size_t i = 0, len; i < b.n; i += len) {
        const uint8_t c = b.p[i];
        len = (size_t)utf8_len(b.p + i, b.n - i);
        if (c == '"' || c == '\\') str_fmt(s, "\\%c", c);
        else if (c == '\n') str_put(s, "\\n");
        else if (c == '\t') str_put(s, "\\t");
        else if (c == '\r') str_put(s, "\\r");
        else if (c < 0x20 || c == 0x7f) str_fmt(s, "\\u%04x", c);
        else if (len) str_add(s, b.p + i, len);
        else str_put(s, "\xef\xbf\xbd"), len = utf8_bad(b.p + i, b.n - i);
    }
    str_put(s, "\"");
}

/* Base64 with padding (RFC 4648), without quotes. */
static void str_base64(str *s, bytes b) {
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < b.n; i += 3) {
        const size_t   n = b.n - i < 3 ? b.n - i : 3;
        const uint32_t v = (uint32_t)b.p[i] << 16 | (n > 1 ? (uint32_t)b.p[i + 1] << 8 : 0) | (n > 2 ? b.p[i + 2] : 0);
        char           four[4] = {digit[v >> 18], digit[v >> 12 & 63], '=', '='};
        if (n > 1) four[2] = digit[v >> 6 & 63];
        if (n > 2) four[3] = digit[v & 63];
        str_add(s, four, 4);
    }
}

/* `"text":"..."`, and where the bytes are not UTF-8 the exact ones behind it: `,"bytes":"BASE64"`. */
static void str_json_text(str *s, bytes b) {
    str_put(s, "\"text\":");
    str_json(s, b);
    if (utf8_whole(b)) return;
    str_put(s, ",\"bytes\":\"");
    str_base64(s, b);
    str_put(s, "\"");
}

/* ===== [pool] worker threads =====
 * One team of threads for the life of a run. pool_run() lets every thread (the caller is thread 0) execute one
 * function; inside it, stages are separated by pool_barrier() and share work through pool_next(), a counter that
 * each barrier sets back to zero, or pool_take(), where each thread has a run of tasks of its own and helps the others after.
 * What is too little to share is done by the last one at a barrier, before it opens (pool_barrier_then). Waiting spins for some
 * tens of microseconds, in which it fetches what the thread will read next (pool_soon), then sleeps in the kernel, so that
 * two runs on the same cores do not starve each other. The number of threads never changes a result.
 *   A thread whose CPU another process wants too is sent away for milliseconds every few milliseconds, and all others wait for the
 * task in its hands. In a loose job (pool_run_loose) it goes by itself, between two tasks: it leaves the team, yields, and when it
 * is back goes through the stages without work until it has caught up with the others. Such a job does all its work as tasks,
 * nothing by the thread's number, passes the same stages whatever the tasks do, and nobody passes a barrier before the stage had no
 * more tasks for him: what one who leaves has not taken, those who stay do. Meanwhile it stays on a CPU of its own, where there is one
 * for each thread: the kernel is as content with the team on one CPU and the other process on the next.
 * Door: pool_default_threads, pool_waited, pool_new, pool_free, pool_run, pool_run_loose, pool_barrier, pool_barrier_then, pool_works, pool_next,
 * pool_share, pool_take, pool_soon. */

typedef struct pool pool;

/* A thread of the team. */
typedef struct {
    _Alignas(64) pool *p;
    int      ith;
    uint32_t stage;                                   /* barriers of this job that it has passed */
    bool     here;                                    /* a member of the team: barriers wait for it */
    int      crowded;                                 /* jobs to come in which it takes its CPU for shared */
    long     sent_away;                               /* how often it had to wait for a CPU, by force or by giving way */
    double   since, last;                             /* when it got the CPU, as far as it knows; its last task */
    double   task;                                    /* seconds from its last task but one to the last, in one stage */
    uint32_t last_stage;
    const uint8_t *soon, *soon_end;                   /* what it reads next, not asked for yet */
    _Alignas(64) _Atomic uint64_t taken;              /* stage + 1 << 32 | tasks of its own run taken in that stage */
} pool_seat;

struct pool {
    _Alignas(64) _Atomic uint32_t epoch;              /* number of the job that workers run */
    _Alignas(64) _Atomic uint32_t turn;               /* changes after the stage has: what those who wait look at */
    _Alignas(64) _Atomic uint64_t team;               /* stage << 32 | members at the barrier << 16 | members */
    _Alignas(64) _Atomic int next;                    /* next task of the current stage */
    _Alignas(64) _Atomic int asleep;                  /* threads inside futex */
    _Alignas(64) _Atomic uint32_t home;               /* workers that are done with the job */
    int        n;                                     /* threads, the caller included */
    pthread_t *thread;
    pool_seat *seat;
    bool       quit, loose;
    void (*fn)(void *ctx, int ith);
    void *ctx;
};

static _Thread_local pool_seat *t_seat;               /* of this thread, in the job that it runs */

enum {
    POOL_SPIN = 2000,                                 /* pauses before sleeping: about 50 microseconds */
    POOL_NONE = INT_MAX,                              /* no task: this thread is behind the others */
    POOL_CROWDED = 16,                                /* jobs for which a CPU that was taken once is taken for shared */
    POOL_MOST = 0xffff,                               /* threads that `team` can count */
};

static double pool_slice = 1.0e-3, pool_gap = 0.7e-3; /* seconds on a shared CPU; between tasks, beyond two of them, when sent away */

static uint32_t pool__stage(uint64_t team) { return (uint32_t)(team >> 32); }
static bool     pool__all_there(uint64_t team) { return (team >> 16 & 0xffff) == (team & 0xffff); }

/* Asks for a line of what the thread reads next, and moves on. */
static void pool__fetch(pool_seat *s) {
    if (s->soon == s->soon_end) return;
    __builtin_prefetch(s->soon, 0, 2);
    s->soon += 64;
}

/* Returns once *word is no longer `old`. */
static void pool__wait(pool *p, _Atomic uint32_t *word, uint32_t old) {
    for (int i = 0; i < POOL_SPIN; i++) {
        if (atomic_load_explicit(word, memory_order_acquire) != old) return;
        if (t_seat) pool__fetch(t_seat);
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

/* Returns once the team is past this stage. `turn` may lag behind `team`, where the thread that closed the stage before was sent
 * away between the two. */
static void pool__wait_stage(pool *p, uint32_t stage) {
    for (;;) {
        const uint32_t turn = atomic_load(&p->turn);
        if (pool__stage(atomic_load(&p->team)) != stage) return;
        pool__wait(p, &p->turn, turn);
    }
}

/* All members are at the barrier, so that nobody else changes `team` or `next`: on to the next stage. */
static void pool__close(pool *p, uint64_t team, void (*fn)(void *ctx), void *ctx) {
    if (fn) fn(ctx);
    atomic_store(&p->next, 0);
    atomic_store(&p->team, (uint64_t)(pool__stage(team) + 1) << 32 | (team & 0xffff));
    pool__advance(p, &p->turn);
}

/* Back into the team, if that is in this thread's stage and not about to end it. */
static bool pool__join(pool_seat *s) {
    uint64_t team = atomic_load(&s->p->team);
    while (pool__stage(team) == s->stage && !pool__all_there(team))
        if (atomic_compare_exchange_weak(&s->p->team, &team, team + 1)) return s->here = true;
    return false;
}

/* Out of it between two tasks, unless all others wait for this one, or nobody else is left. */
static void pool__leave(pool_seat *s) {
    uint64_t team = atomic_load(&s->p->team);
    do
        if (pool__all_there(team + (1 << 16))) return;
    while (!atomic_compare_exchange_weak(&s->p->team, &team, team - 1));
    s->here = false;
}

/* Every thread of the running job calls it; what any wrote before is visible to fn, which one of them runs, and what any or fn
 * wrote is visible to all after. */
static void pool_barrier_then(pool *p, void (*fn)(void *ctx), void *ctx) {
    pool_seat *s = t_seat;
    const uint32_t stage = s->stage++;
    if (!s->here) {                                   /* it found no task: they all are done, or about to be */
        pool__wait_stage(p, stage);
        return;
    }
    const uint64_t team = atomic_fetch_add(&p->team, 1 << 16) + (1 << 16);
    if (pool__all_there(team)) pool__close(p, team, fn, ctx);
    else pool__wait_stage(p, stage);
}
static void pool_barrier(pool *p) { pool_barrier_then(p, NULL, NULL); }

/* Leaves a CPU that another process wants before it is taken, and comes back. */
static void pool__give_way(pool_seat *s) {
    const double now = clock_now(), passed = now - s->last;
    if (passed > pool_gap + 2 * s->task) s->since = now;            /* it was taken, or had nothing to do */
    else if (s->stage == s->last_stage) s->task = passed;
    s->last = now;
    s->last_stage = s->stage;
    if (now - s->since < pool_slice) return;
    pool__leave(s);
    if (!s->here) sched_yield();
    s->since = s->last = clock_now();
}

/* Whether this thread works in this stage; one that does not may be stages behind, and what the others write is not to be read. */
static bool pool_works(void) {
    pool_seat *s = t_seat;
    if (s->crowded && s->here && s->p->loose) pool__give_way(s);
    return s->here || pool__join(s);
}

/* The next task number of this stage; the caller stops when it is past its last task. */
static int pool_next(pool *p) {
    return pool_works() ? atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed) : POOL_NONE;
}

/* Where the run of tasks of thread ith begins, among n. */
static int pool_share(const pool *p, int n, int ith) { return (int)((int64_t)n * ith / p->n); }

/* One of the n tasks of this stage, POOL_NONE when none is left: those of the thread's own run in their order, so that what it
 * reads lies in one piece, then those that are left of the others'. A stage has either these or pool_next's. */
static int pool_take(pool *p, int n) {
    pool_seat *s = t_seat;
    if (!pool_works()) return POOL_NONE;
    const uint64_t none = (uint64_t)(s->stage + 1) << 32;
    for (int i = 0; i < p->n; i++) {
        const int      of = (s->ith + i) % p->n, from = pool_share(p, n, of);
        const uint64_t end = none + (uint64_t)(pool_share(p, n, of + 1) - from);
        uint64_t       v = atomic_load(&p->seat[of].taken), have;
        do have = v < none ? none : v;                /* what was taken in a stage before does not count */
        while (have < end && !atomic_compare_exchange_weak(&p->seat[of].taken, &v, have + 1));
        if (have < end) return from + (int)(have - none);
    }
    return POOL_NONE;
}

/* This thread reads the n bytes at p before long. */
static void pool_soon(const uint8_t *p, size_t n) {
    t_seat->soon = p;
    t_seat->soon_end = p + (n + 63) / 64 * 64;
}

/* Onto a CPU of its own, if there is one for each thread and no other; where it might run before is kept. */
static bool pool__settle(const pool_seat *s, cpu_set_t *before) {
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
        s->crowded = s->crowded > POOL_CROWDED || use.ru_nivcsw == s->sent_away ? s->crowded - (s->crowded > 0) : POOL_CROWDED;
        s->sent_away = use.ru_nivcsw;
    }
    cpu_set_t  before;
    const bool settled = p->loose && s->crowded && pool__settle(s, &before);
    p->fn(p->ctx, s->ith);
    if (settled) sched_setaffinity(0, sizeof before, &before);
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
        pool__advance(p, &p->home);
    }
}

static void pool__start(pool *p, void (*fn)(void *ctx, int ith), void *ctx, bool loose) {
    p->fn = fn;
    p->ctx = ctx;
    p->loose = loose;
    atomic_store(&p->next, 0);
    atomic_store(&p->turn, 0);
    atomic_store(&p->home, 0);
    atomic_store(&p->team, (uint64_t)p->n);
    for (int i = 0; i < p->n; i++) atomic_store(&p->seat[i].taken, 0);
    pool__advance(p, &p->epoch);
    pool__job(&p->seat[0]);
    for (uint32_t n; (n = atomic_load(&p->home)) + 1 < (uint32_t)p->n;) pool__wait(p, &p->home, n);
}

static void pool_run(pool *p, void (*fn)(void *ctx, int ith), void *ctx) { pool__start(p, fn, ctx, false); }
static void pool_run_loose(pool *p, void (*fn)(void *ctx, int ith), void *ctx) { pool__start(p, fn, ctx, true); }

/* n threads, or fewer (said in words) where the system gives no more. Signals stay with the calling thread. */
static pool *pool_new(int n) {
    pool *p = mem_aligned(1, sizeof *p);
    memset(p, 0, sizeof *p);
    n = n < POOL_MOST ? n : POOL_MOST;
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

static void pool_free(pool *p) {
    if (!p) return;
    p->quit = true;
    pool__advance(p, &p->epoch);
    for (int i = 1; i < p->n; i++) pthread_join(p->thread[i], NULL);
    mem_free(p->thread);
    mem_free(p->seat);
    mem_free(p);
}

/* --- what this process may really use: CPUs and memory --- */

/* Two numbers, or one, from a small file; "max" reads as -1. Returns how many were read. */
static int pool__read_pair(const char *path, long long v[2]) {
    char buf[128], *at = buf;
    int  fd = open(path, O_RDONLY | O_CLOEXEC), n = 0;
    if (fd < 0) return 0;
    ssize_t got = read(fd, buf, sizeof buf - 1);
    close(fd);
    if (got <= 0) return 0;
    buf[got] = 0;
    for (; n < 2; n++) {
        char *end;
        while (*at == ' ') at++;
        if (strncmp(at, "max", 3) == 0) {
            v[n] = -1;
            at += 3;
            continue;
        }
        v[n] = strtoll(at, &end, 10);
        if (end == at) break;
        at = end;
    }
    return n;
}

/* Looks at one cgroup directory, of version 2 or 1. */
typedef void pool__look(void *ctx, const char *dir, bool v2);

/* Every directory from `dir` under `root` up to the root itself: a limit holds for all that lies below it. */
static void pool__climb(const char *root, const char *dir, bool v2, pool__look *look, void *ctx) {
    char at[4096];
    snprintf(at, sizeof at, "%s", dir);
    for (;;) {
        char path[8300];
        snprintf(path, sizeof path, "%s%s", root, at);
        look(ctx, path, v2);
        char *slash = strrchr(at, '/');
        if (!slash) return;
        *slash = 0;                                   /* up one level; the root itself is the empty path */
    }
}

/* The directories of this process: those of version 2, and those of version 1 that hold the controller named. */
static void pool__cgroups(const char *controller, pool__look *look, void *ctx) {
    char  line[4096], root[256];
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && fgets(line, sizeof line, f)) {        /* "0::/path" is version 2, "4:cpu,cpuacct:/path" version 1 */
        line[strcspn(line, "\n")] = 0;
        char *ctl = strchr(line, ':'), *dir = ctl ? strchr(ctl + 1, ':') : NULL;
        if (!dir) continue;
        *dir++ = 0;
        ctl++;
        if (!*ctl) pool__climb("/sys/fs/cgroup", dir, true, look, ctx);
        for (char *save, *c = strtok_r(ctl, ",", &save); c; c = strtok_r(NULL, ",", &save)) {
            if (strcmp(c, controller) != 0) continue;
            snprintf(root, sizeof root, "/sys/fs/cgroup/%s", controller);
            pool__climb(root, dir, false, look, ctx);
            if (strcmp(c, "cpu") == 0) pool__climb("/sys/fs/cgroup/cpu,cpuacct", dir, false, look, ctx);
        }
    }
    if (f) fclose(f);
}

/* Cuts *ctx, an int, to the directory's quota in whole CPUs, at least 1. Version 2 keeps quota and period in
 * cpu.max, version 1 in two files. */
static void pool__cpu_quota(void *ctx, const char *dir, bool v2) {
    char      path[8400];
    int      *most = ctx;
    long long v[2] = {-1, 0}, w[2];
    bool      have;
    snprintf(path, sizeof path, "%s/%s", dir, v2 ? "cpu.max" : "cpu.cfs_quota_us");
    have = pool__read_pair(path, v) == (v2 ? 2 : 1);
    if (have && !v2) {
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", dir);
        have = pool__read_pair(path, w) == 1;
        v[1] = have ? w[0] : 0;
    }
    if (have && v[0] > 0 && v[1] > 0 && v[0] / v[1] < *most) *most = v[0] / v[1] < 1 ? 1 : (int)(v[0] / v[1]);
}

/* CPUs in the affinity mask, cut to the cgroup's quota rounded down (a thread beyond the quota costs more than it
 * brings: every barrier then waits for one that is throttled). */
static int pool_default_threads(void) {
    cpu_set_t set;
    int       n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (n < 1) n = 1;
    pool__cgroups("cpu", pool__cpu_quota, &n);
    return n;
}

/* Seconds that the threads of this process have waited for a CPU so far; 0 where the kernel does not count them. */
static double pool_waited(void) {
    double         sum = 0;
    DIR           *d = opendir("/proc/self/task");
    struct dirent *one;
    while (d && (one = readdir(d))) {
        char      path[sizeof "/proc/self/task//schedstat" + sizeof one->d_name];
        long long ns[2];                              /* on a CPU, waiting for one */
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", one->d_name);
        if (one->d_name[0] != '.' && pool__read_pair(path, ns) == 2) sum += (double)ns[1] * 1e-9;
    }
    if (d) closedir(d);
    return sum;
}

/* The number behind a word at the beginning of a line; 0 where no line has it. */
static uint64_t pool__number(const char *path, const char *word) {
    char               line[256];
    unsigned long long v = 0;
    const size_t       n = strlen(word);
    FILE              *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, word, n) == 0 && sscanf(line + n, "%*[: ]%llu", &v) == 1) break;
    if (f) fclose(f);
    return v;
}

/* Cuts *ctx, a uint64_t, to the bytes that the directory's limit leaves. Pages of files are taken from whoever
 * has them. */
static void pool__memory_left(void *ctx, const char *dir, bool v2) {
    char      path[8400];
    uint64_t *most = ctx;
    long long limit[2], used[2];
    snprintf(path, sizeof path, "%s/%s", dir, v2 ? "memory.max" : "memory.limit_in_bytes");
    if (pool__read_pair(path, limit) < 1 || limit[0] < 0) return;
    snprintf(path, sizeof path, "%s/%s", dir, v2 ? "memory.current" : "memory.usage_in_bytes");
    if (pool__read_pair(path, used) < 1 || used[0] < 0) return;
    snprintf(path, sizeof path, "%s/memory.stat", dir);
    const uint64_t files = pool__number(path, v2 ? "active_file" : "total_active_file") +
                           pool__number(path, v2 ? "inactive_file" : "total_inactive_file");
    const uint64_t held = (uint64_t)used[0] > files ? (uint64_t)used[0] - files : 0;
    const uint64_t left = (uint64_t)limit[0] > held ? (uint64_t)limit[0] - held : 0;
    if (left < *most) *most = left;
}

/* Bytes that this process may still fill: what the machine has, its cgroups allow and its own limit leaves.
 * UINT64_MAX: nobody says. An estimate: others take memory too. */
static uint64_t pool_memory(void) {
    const uint64_t free_kib = pool__number("/proc/meminfo", "MemAvailable");
    uint64_t       most = free_kib ? free_kib * 1024 : UINT64_MAX;
    struct rlimit  own;
    long long      pages[2];
    pool__cgroups("memory", pool__memory_left, &most);
    if (getrlimit(RLIMIT_AS, &own) || own.rlim_cur == RLIM_INFINITY) return most;
    if (pool__read_pair("/proc/self/statm", pages) < 1) return most;
    const uint64_t held = (uint64_t)pages[0] * (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t left = own.rlim_cur > held ? own.rlim_cur - held : 0;
    return left < most ? left : most;
}

/* ===== [gguf] the model file =====
 * A bounds-checked, read-only view of a GGUF file: versions 1 to 3, little-endian, alone or split into parts.
 * Owns the mappings, the metadata table, the tensor directory and their hash indices. Trusts no byte: lengths
 * and counts are held against what remains of the file before anything is allocated or read, sums and products
 * are checked in 64 bits, and what is wrong comes back as one line with the byte it was found at.
 * Invariants after a good open: keys and tensor names are unique, not empty, UTF-8 without NUL; every string of
 * an array lies inside the file; every tensor has 1 to 4 dimensions of at least 1, a type that k_type_ok accepts,
 * rows of whole blocks, and aligned data inside its file, in the order of the directory and without overlap.
 * Views (bytes, data) point into the mapping and live until gguf_close.
 * Format: docs/gguf.md of the ggml repository. Version 1 has 32-bit counts, lengths and dimensions. The C writer
 * of versions 1 and 2 counted a final NUL into every string for a while (llama.cpp issue 2836); the Python one
 * never did. A file of theirs is known by its first key.
 * Door: gguf_open, gguf_parse, gguf_close, gguf_alive, gguf_find, gguf_tensor_find, gguf_get_*, gguf_arr_u64,
 * gguf_strs_*, gguf_bad, gguf_type_name; gguf_write_* to make a file; gguf_vacant, gguf_is_kind, gguf_may_replace for those of our own. */

enum { GGUF_U8, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL, GGUF_STR, GGUF_ARR,
      GGUF_U64, GGUF_I64, GGUF_F64 };
enum {
    GGUF_KEY_MAX   = 65535,          /* bytes, the format's bound                                         */
    GGUF_NAME_MAX  = 63,             /* bytes of a tensor name, as ggml has it (the format says 64)       */
    GGUF_COUNT_MAX = 1 << 22,        /* keys or tensors: thousands of times more than any model has       */
    GGUF_ARR_MAX   = 1 << 30,        /* elements of an array                                              */
    GGUF_ALIGN_MAX = 1 << 20,        /* bytes                                                             */
    GGUF_PARTS_MAX = 512,            /* parts of a split file: each costs a file descriptor               */
    GGUF_MAPS_MAX  = 2 * GGUF_PARTS_MAX
};

typedef struct {
    bytes          key;
    uint32_t       type, elem;       /* elem: of an array its elements' type, else type                   */
    uint64_t       count;            /* elements of an array, bytes of a string, else 1                   */
    const uint8_t *data;             /* the payload: first element, first byte of a string, the number    */
    uint64_t       n_bytes, at;      /* at: file offset of the value                                      */
    int            part;
} gguf_kv;

typedef struct {
    bytes          name;
    uint32_t       type, n_dims;
    uint64_t       dim[4];           /* dim[0] is the row; 1 beyond n_dims                                */
    const uint8_t *data;
    uint64_t       n_bytes, at;      /* at: file offset of the data                                       */
    int            part;
} gguf_tensor;

typedef struct {                     /* one file on disk, or one in memory (fd -1)                        */
    char          *path;
    const uint8_t *p;
    size_t         n;
    int            fd, map;          /* map: its place in gguf__maps, -1 none                             */
} gguf_part;

typedef struct {                     /* open addressing; slots hold an entry's number + 1, 0 is empty     */
    const uint8_t *base;             /* entries, each beginning with its name as `bytes`                  */
    size_t         stride;
    uint32_t      *slot;
    uint64_t       mask, seed;
} gguf_index;

typedef struct {
    const char  *path;               /* of the first part                                                 */
    uint32_t     version;
    bool         nul;                /* strings carry a final NUL                                         */
    uint64_t     n_kv, n_tensor, align;
    gguf_kv     *kv;
    gguf_tensor *tensor;
    uint64_t     n_bytes;            /* of all parts                                                      */
    int          n_parts;
    gguf_part   *part;
    gguf_index   keys, names;
} gguf_file;

static const struct {
    const char *name;
    uint8_t     bytes;               /* 0: not of one size                                                */
} gguf__types[] = {
    [GGUF_U8]  = {"u8", 1},  [GGUF_U16] = {"u16", 2}, [GGUF_U32] = {"u32", 4}, [GGUF_U64]  = {"u64", 8},
    [GGUF_I8]  = {"i8", 1},  [GGUF_I16] = {"i16", 2}, [GGUF_I32] = {"i32", 4}, [GGUF_I64]  = {"i64", 8},
    [GGUF_F32] = {"f32", 4}, [GGUF_F64] = {"f64", 8}, [GGUF_STR] = {"string", 0},
    [GGUF_ARR] = {"array", 0}, [GGUF_BOOL] = {"bool", 1},
};

static const char *gguf_type_name(uint32_t type) { return type <= GGUF_F64 ? gguf__types[type].name : "unknown"; }

/* --- errors --- */

enum { GGUF_SHOWN = 80 };                             /* a key or a name in an error is cut to this */
#define GGUF_SHOW(b) (int)((b).n < GGUF_SHOWN ? (b).n : GGUF_SHOWN), (const char *)(b).p

#define GGUF_NOWHERE UINT64_MAX                       /* an error without a byte offset */

/* `PATH: what (at byte N)`. Of a long path the end is kept, it tells the file. */
static bool gguf__say(err_t *e, int code, const char *path, uint64_t at, const char *fmt, va_list ap) {
    char   what[360], where[40] = "";
    size_t n = strlen(path), cut = n > 180 ? n - 177 : 0;
    while (cut && cut < n && ((uint8_t)path[cut] & 0xc0) == 0x80) cut++;
    vsnprintf(what, sizeof what, fmt, ap);
    if (at != GGUF_NOWHERE) snprintf(where, sizeof where, " (at byte %llu)", (unsigned long long)at);
    return err_set(e, code, "%s%s: %s%s", cut ? "..." : "", path + cut, what, where);
}

__attribute__((format(printf, 4, 5)))
static bool gguf__refuse(err_t *e, int code, const char *path, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    gguf__say(e, code, path, GGUF_NOWHERE, fmt, ap);
    va_end(ap);
    return false;
}

/* For every room that finds fault with what a file holds: names the part and the place. Always false. */
__attribute__((format(printf, 5, 6)))
static bool gguf_bad(const gguf_file *g, int part, uint64_t at, err_t *e, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    gguf__say(e, EXIT_INPUT, g->part[part].path, at, fmt, ap);
    va_end(ap);
    return false;
}

/* --- index: names to entries in O(1), with a hash keyed afresh for each file --- */

/* The slot that holds the name, or the empty one where it would go. */
static uint64_t gguf__slot(const gguf_index *ix, bytes name) {
    uint64_t at = bytes_hash(ix->seed, name) & ix->mask;
    for (; ix->slot[at]; at = (at + 1) & ix->mask)
        if (bytes_eq(*(const bytes *)(const void *)(ix->base + (ix->slot[at] - 1) * ix->stride), name)) break;
    return at;
}

static const void *gguf__look(const gguf_index *ix, bytes name) {
    uint32_t found = ix->slot ? ix->slot[gguf__slot(ix, name)] : 0;
    return found ? ix->base + (found - 1) * ix->stride : NULL;
}

/* The first entry whose name an earlier one has, NULL when all differ. */
static const void *gguf__index(gguf_index *ix, const void *base, size_t stride, uint64_t n) {
    uint64_t size = 8;
    while (size < 2 * n) size *= 2;
    *ix = (gguf_index){base, stride, mem_new(size, sizeof *ix->slot), size - 1, rng_fresh()};
    for (uint64_t i = 0; i < n; i++) {
        const uint8_t *entry = ix->base + i * stride;
        uint64_t       at = gguf__slot(ix, *(const bytes *)(const void *)entry);
        if (ix->slot[at]) return entry;
        ix->slot[at] = (uint32_t)i + 1;
    }
    return NULL;
}

/* --- strings of an array: a walk that never leaves the file --- */

typedef struct {
    const uint8_t *p, *end;
    uint64_t       left;             /* strings not yet seen                                              */
    bool           v1, nul;
} gguf_strs;

/* False at the end, and when the next string does not fit (left stays above 0, p at the culprit). */
static bool gguf_strs_next(gguf_strs *it, bytes *out) {
    uint64_t head = it->v1 ? 4 : 8, have = (uint64_t)(it->end - it->p), n = 0;
    if (!it->left || have < head) return false;
    memcpy(&n, it->p, it->v1 ? 4 : 8);                /* little-endian, as this machine is */
    if (n > have - head) return false;
    *out = (bytes){it->p + head, (size_t)n};
    it->p += head + n;
    it->left--;
    if (it->nul && out->n && !out->p[out->n - 1]) out->n--;
    return true;
}

/* --- cursor: after the first failure (e->code) every read yields 0 --- */

typedef struct {
    const uint8_t *p;
    uint64_t       n, at;
    bool           v1, nul;
    const char    *path;
    err_t         *e;
} gguf_cur;

__attribute__((format(printf, 3, 4))) static bool gguf__fail(gguf_cur *c, uint64_t at, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    gguf__say(c->e, EXIT_INPUT, c->path, at, fmt, ap);
    va_end(ap);
    return false;
}

#define GGUF_U(x) ((unsigned long long)(x))

static bool gguf__need(gguf_cur *c, uint64_t n, const char *what) {
    if (c->e->code) return false;
    uint64_t left = c->n - c->at;
    if (n <= left) return true;
    return gguf__fail(c, c->at, "%llu bytes are left of the file, expected %llu of %s", GGUF_U(left), GGUF_U(n), what);
}

static const uint8_t *gguf__take(gguf_cur *c, uint64_t n, const char *what) {
    if (!gguf__need(c, n, what)) return NULL;
    c->at += n;
    return c->p + (c->at - n);
}

static uint32_t gguf__u32(gguf_cur *c, const char *what) {
    uint32_t       v = 0;
    const uint8_t *p = gguf__take(c, sizeof v, what);
    if (p) memcpy(&v, p, sizeof v);
    return v;
}

static uint64_t gguf__u64(gguf_cur *c, const char *what) {
    uint64_t       v = 0;
    const uint8_t *p = gguf__take(c, sizeof v, what);
    if (p) memcpy(&v, p, sizeof v);
    return v;
}

/* A count, length or dimension. */
static uint64_t gguf__count(gguf_cur *c, const char *what) {
    return c->v1 ? gguf__u32(c, what) : gguf__u64(c, what);
}

static bytes gguf__string(gguf_cur *c, const char *what) {
    uint64_t       n = gguf__count(c, what);
    const uint8_t *p = gguf__take(c, n, what);
    if (!p) return (bytes){(const uint8_t *)"", 0};
    if (c->nul && n && !p[n - 1]) n--;
    return (bytes){p, (size_t)n};
}

/* A key or a tensor name. */
static bytes gguf__name(gguf_cur *c, const char *what, uint64_t max) {
    uint64_t where = c->at;
    bytes    b = gguf__string(c, what);
    if (c->e->code) return b;
    if (!b.n || b.n > max) gguf__fail(c, where, "%s of %zu bytes, expected 1 to %llu", what, b.n, GGUF_U(max));
    for (size_t i = 0; i < b.n && !c->e->code;) {
        int len = utf8_len(b.p + i, b.n - i);
        if (!len || !b.p[i])
            gguf__fail(c, GGUF_U(b.p + i - c->p), "byte 0x%02x in %s, expected UTF-8 without NUL", b.p[i], what);
        i += (size_t)len;
    }
    return b;
}

/* --- metadata --- */

static void gguf__bools(gguf_cur *c, const gguf_kv *kv) {
    for (uint64_t i = 0; i < kv->n_bytes; i++)
        if (kv->data[i] > 1) {
            gguf__fail(c, GGUF_U(kv->data + i - c->p), "key %.*s holds bool %u, expected 0 or 1",
                       GGUF_SHOW(kv->key), kv->data[i]);
            return;
        }
}

static void gguf__str_array(gguf_cur *c, gguf_kv *kv) {
    gguf_strs it = {c->p + c->at, c->p + c->n, kv->count, c->v1, c->nul};
    bytes     s;
    if (!gguf__need(c, kv->count * (c->v1 ? 4 : 8), "an array of strings")) return;
    while (gguf_strs_next(&it, &s)) {}
    if (it.left)
        gguf__fail(c, GGUF_U(it.p - c->p),
                   "string %llu of %llu of key %.*s is longer than the file, expected it inside",
                   GGUF_U(kv->count - it.left), GGUF_U(kv->count), GGUF_SHOW(kv->key));
    kv->n_bytes = (uint64_t)(it.p - kv->data);
    c->at += kv->n_bytes;
}

static void gguf__array(gguf_cur *c, gguf_kv *kv) {
    uint64_t where = c->at;
    kv->elem = gguf__u32(c, "an element type");
    kv->count = gguf__count(c, "an array length");
    if (c->e->code) return;
    if (kv->elem == GGUF_ARR) {
        gguf__fail(c, where, "key %.*s is an array of arrays, expected an array of numbers, bools or strings",
                   GGUF_SHOW(kv->key));
    } else if (kv->elem > GGUF_F64) {
        gguf__fail(c, where, "key %.*s has element type %u, expected 0 to 12", GGUF_SHOW(kv->key), kv->elem);
    } else if (kv->count > GGUF_ARR_MAX) {
        gguf__fail(c, where + 4, "key %.*s has %llu elements, expected at most %u", GGUF_SHOW(kv->key),
                   GGUF_U(kv->count), GGUF_ARR_MAX);
    }
    kv->data = c->p + c->at;
    if (c->e->code) return;
    if (kv->elem == GGUF_STR) {
        gguf__str_array(c, kv);
    } else {
        kv->n_bytes = kv->count * gguf__types[kv->elem].bytes;
        gguf__take(c, kv->n_bytes, "an array");
    }
}

static void gguf__value(gguf_cur *c, gguf_kv *kv) {
    uint64_t where = c->at;
    kv->type = kv->elem = gguf__u32(c, "a value type");
    kv->at = c->at;
    kv->count = 1;
    if (kv->type > GGUF_F64) {
        gguf__fail(c, where, "key %.*s has value type %u, expected 0 to 12", GGUF_SHOW(kv->key), kv->type);
    } else if (kv->type == GGUF_ARR) {
        gguf__array(c, kv);
    } else if (kv->type == GGUF_STR) {
        bytes s = gguf__string(c, "a string");
        kv->data = s.p;
        kv->count = kv->n_bytes = s.n;
    } else {
        kv->n_bytes = gguf__types[kv->type].bytes;
        kv->data = gguf__take(c, kv->n_bytes, "a value");
    }
    if (!c->e->code && kv->elem == GGUF_BOOL) gguf__bools(c, kv);
}

/* Room for entry i of n: grows with the entries that are really there, not with the count that is claimed. */
static void *gguf__room(void *p, uint64_t i, uint64_t n, size_t each) {
    if (i >= 64 ? (i & (i - 1)) != 0 : i != 0) return p;
    uint64_t cap = i ? 2 * i : 64;
    return mem_grow(p, cap < n ? cap : n, each);
}

/* Whether the strings of this file carry a final NUL: the next one, its first key, tells. */
static bool gguf__nul_ended(gguf_cur c) {
    err_t none = {0};
    c.e = &none;
    bytes first = gguf__string(&c, "a key");
    return first.n && !first.p[first.n - 1];
}

static void gguf__kvs(gguf_cur *c, gguf_file *g, uint64_t n) {
    g->nul = c->nul = n && g->version < 3 && gguf__nul_ended(*c);
    for (uint64_t i = 0; i < n && !c->e->code; i++) {
        g->kv = gguf__room(g->kv, i, n, sizeof *g->kv);
        gguf_kv *kv = &g->kv[i];
        *kv = (gguf_kv){.key = gguf__name(c, "a key", GGUF_KEY_MAX)};
        gguf__value(c, kv);
        g->n_kv = i + 1;
    }
    if (c->e->code) return;
    const gguf_kv *twin = gguf__index(&g->keys, g->kv, sizeof *g->kv, g->n_kv);
    if (twin)
        gguf__fail(c, GGUF_U(twin->key.p - c->p), "key %.*s comes twice, expected once", GGUF_SHOW(twin->key));
}

/* --- lookups --- */

static const gguf_kv *gguf_find(const gguf_file *g, const char *key) {
    return gguf__look(&g->keys, bytes_of(key));
}

static const gguf_tensor *gguf_tensor_find(const gguf_file *g, const char *name) {
    return gguf__look(&g->names, bytes_of(name));
}

typedef struct {
    uint64_t mag;
    bool     neg;
} gguf__int;

/* An integer of any type; a bool too, as 0 or 1, where `bools` says so. */
static bool gguf__int_at(uint32_t type, const uint8_t *p, bool bools, gguf__int *out) {
    int64_t  s = 0;
    uint64_t u = 0;
    switch (type) {
    case GGUF_BOOL: if (!bools) return false; u = *p; break;
    case GGUF_U8:   u = *p; break;
    case GGUF_I8:   s = (int8_t)*p; break;
    case GGUF_U16:  memcpy(&u, p, 2); break;
    case GGUF_I16:  { int16_t v; memcpy(&v, p, 2); s = v; break; }
    case GGUF_U32:  memcpy(&u, p, 4); break;
    case GGUF_I32:  { int32_t v; memcpy(&v, p, 4); s = v; break; }
    case GGUF_U64:  memcpy(&u, p, 8); break;
    case GGUF_I64:  memcpy(&s, p, 8); break;
    default:        return false;
    }
    *out = (gguf__int){s < 0 ? -(uint64_t)s : u + (uint64_t)s, s < 0};
    return true;
}

/* F32 or F64; a double is rounded to the nearest float. */
static bool gguf__float_at(uint32_t type, const uint8_t *p, float *out) {
    double d;
    if (type == GGUF_F32) memcpy(out, p, 4);
    else if (type == GGUF_F64) memcpy(&d, p, 8), *out = (float)d;
    else return false;
    return true;
}

static int gguf__wrong(const gguf_file *g, const gguf_kv *kv, const char *want, err_t *e) {
    const char *of = kv->type == GGUF_ARR ? " of " : "", *elem = kv->type == GGUF_ARR ? gguf_type_name(kv->elem) : "";
    gguf_bad(g, kv->part, kv->at, e, "%.*s is of type %s%s%s, expected %s", GGUF_SHOW(kv->key),
             gguf_type_name(kv->type), of, elem, want);
    return -1;
}

static int gguf_get_u64(const gguf_file *g, const char *key, uint64_t lo, uint64_t hi, uint64_t *out, err_t *e) {
    const gguf_kv *kv = gguf_find(g, key);
    gguf__int      v;
    if (!kv) return 0;
    if (!gguf__int_at(kv->type, kv->data, false, &v)) return gguf__wrong(g, kv, "an integer", e);
    if (v.neg || v.mag < lo || v.mag > hi) {
        gguf_bad(g, kv->part, kv->at, e, "%s is %s%llu, expected %llu to %llu", key, v.neg ? "-" : "",
                 GGUF_U(v.mag), GGUF_U(lo), GGUF_U(hi));
        return -1;
    }
    *out = v.mag;
    return 1;
}

/* Any number, whole or not, as the nearest double. */
static int gguf_get_number(const gguf_file *g, const char *key, double lo, double hi, double *out, err_t *e) {
    const gguf_kv *kv = gguf_find(g, key);
    gguf__int      v;
    float          f;
    if (!kv) return 0;
    if (gguf__int_at(kv->type, kv->data, false, &v)) *out = v.neg ? -(double)v.mag : (double)v.mag;
    else if (gguf__float_at(kv->type, kv->data, &f)) *out = (double)f;
    else return gguf__wrong(g, kv, "a number", e);
    if (*out >= lo && *out <= hi) return 1;
    gguf_bad(g, kv->part, kv->at, e, "%s is %.9g, expected %.9g to %.9g", key, *out, lo, hi);
    return -1;
}

static int gguf_get_f32(const gguf_file *g, const char *key, float lo, float hi, float *out, err_t *e) {
    const gguf_kv *kv = gguf_find(g, key);
    float          v;
    if (!kv) return 0;
    if (!gguf__float_at(kv->type, kv->data, &v)) return gguf__wrong(g, kv, "f32", e);
    if (!(v >= lo && v <= hi)) {
        gguf_bad(g, kv->part, kv->at, e, "%s is %.9g, expected %.9g to %.9g", key, (double)v, (double)lo, (double)hi);
        return -1;
    }
    *out = v;
    return 1;
}

static int gguf_get_bool(const gguf_file *g, const char *key, bool *out, err_t *e) {
    const gguf_kv *kv = gguf_find(g, key);
    if (!kv) return 0;
    if (kv->type != GGUF_BOOL) return gguf__wrong(g, kv, "bool", e);
    *out = kv->data[0] != 0;
    return 1;
}

static int gguf_get_str(const gguf_file *g, const char *key, bytes *out, err_t *e) {
    const gguf_kv *kv = gguf_find(g, key);
    if (!kv) return 0;
    if (kv->type != GGUF_STR) return gguf__wrong(g, kv, "a string", e);
    *out = (bytes){kv->data, (size_t)kv->count};
    return 1;
}

static int gguf_get_arr(const gguf_file *g, const char *key, const gguf_kv **out, err_t *e) {
    const gguf_kv *kv = gguf_find(g, key);
    if (!kv) return 0;
    if (kv->type != GGUF_ARR) return gguf__wrong(g, kv, "an array", e);
    *out = kv;
    return 1;
}

/* Element i of an array of integers or bools; false when it is no such array, has no such element, or that is
 * negative. */
static bool gguf_arr_u64(const gguf_kv *kv, uint64_t i, uint64_t *out) {
    gguf__int v;
    if (kv->type != GGUF_ARR || i >= kv->count) return false;
    if (!gguf__int_at(kv->elem, kv->data + i * gguf__types[kv->elem].bytes, true, &v) || v.neg) return false;
    *out = v.mag;
    return true;
}

/* The strings of an array of strings; none when it is something else. */
static gguf_strs gguf_strs_of(const gguf_file *g, const gguf_kv *kv) {
    bool strs = kv->type == GGUF_ARR && kv->elem == GGUF_STR;
    return (gguf_strs){kv->data, kv->data + (strs ? kv->n_bytes : 0), strs ? kv->count : 0, g->version == 1,
                       g->nul};
}

/* --- tensor directory --- */

/* A type that cannot be read, by the names that programs have given its number. */
static bool gguf__type_refused(gguf_cur *c, uint64_t at, const gguf_tensor *t) {
    const char *gone = t->type < K_TYPE_MAX ? k_types[t->type].name : NULL, *foreign = k_type_foreign(t->type);
    return gguf__fail(c, at, "tensor %.*s has type %u (%s%s%s), expected one that is defined and not removed",
                      GGUF_SHOW(t->name), t->type, gone ? gone : "", gone && foreign ? " or " : "",
                      foreign ? foreign : gone ? "" : "unknown");
}

/* Weights and bytes of a tensor whose dimensions and type are known; false when they do not fit. */
static bool gguf__size(gguf_cur *c, uint64_t where, gguf_tensor *t) {
    const k_type *k = &k_types[t->type];
    uint64_t      n = t->dim[0];
    if (n % k->block)
        return gguf__fail(c, where, "tensor %.*s has rows of %llu, expected a multiple of %u for type %s",
                          GGUF_SHOW(t->name), GGUF_U(n), k->block, k->name);
    bool wraps = false;
    for (int i = 1; i < 4; i++) wraps |= __builtin_mul_overflow(n, t->dim[i], &n);
    wraps |= n > INT64_MAX || __builtin_mul_overflow(n / k->block, (uint64_t)k->bytes, &t->n_bytes);
    wraps |= t->n_bytes > INT64_MAX;
    if (wraps)
        return gguf__fail(c, where, "tensor %.*s is %llu x %llu x %llu x %llu, expected a size below 2^63",
                          GGUF_SHOW(t->name), GGUF_U(t->dim[0]), GGUF_U(t->dim[1]), GGUF_U(t->dim[2]), GGUF_U(t->dim[3]));
    return true;
}

static void gguf__dims(gguf_cur *c, gguf_tensor *t) {
    uint64_t where = c->at;
    t->n_dims = gguf__u32(c, "a number of dimensions");
    if (!c->e->code && (t->n_dims < 1 || t->n_dims > 4))
        gguf__fail(c, where, "tensor %.*s has %u dimensions, expected 1 to 4", GGUF_SHOW(t->name), t->n_dims);
    for (uint32_t i = 0; i < 4; i++) t->dim[i] = 1;
    for (uint32_t i = 0; i < t->n_dims && !c->e->code; i++) {
        where = c->at;
        t->dim[i] = gguf__count(c, "a dimension");
        if (!c->e->code && (t->dim[i] < 1 || t->dim[i] > INT64_MAX))
            gguf__fail(c, where, "tensor %.*s has dimension %llu, expected 1 to 2^63 - 1", GGUF_SHOW(t->name),
                       GGUF_U(t->dim[i]));
    }
}

/* One entry; at holds the offset into the tensor data until gguf__place makes it one into the file. */
static void gguf__tensor(gguf_cur *c, gguf_tensor *t) {
    *t = (gguf_tensor){.name = gguf__name(c, "a tensor name", GGUF_NAME_MAX)};
    uint64_t where = c->at;
    if (!c->e->code) gguf__dims(c, t);
    uint64_t type_at = c->at;
    t->type = gguf__u32(c, "a tensor type");
    if (c->e->code) return;
    if (!k_type_ok(t->type)) gguf__type_refused(c, type_at, t);
    t->at = gguf__u64(c, "a tensor offset");
    if (!c->e->code) gguf__size(c, where, t);
}

/* The end of the last tensor's data, which begin at `start`; UINT64_MAX where no file could be so long. */
static uint64_t gguf__data_end(const gguf_file *g, uint64_t start) {
    uint64_t last = 0, end;
    for (uint64_t i = 0; i < g->n_tensor; i++) {
        const gguf_tensor *t = &g->tensor[i];
        if (__builtin_add_overflow(start, t->at, &end) || __builtin_add_overflow(end, t->n_bytes, &end) || end > INT64_MAX) return UINT64_MAX;
        last = end > last ? end : last;
    }
    return last;
}

/* Data begins at the next multiple of the alignment; tensors follow each other in the order of the directory. */
static void gguf__place(gguf_cur *c, gguf_file *g) {
    uint64_t start = (c->at + g->align - 1) & ~(g->align - 1), free_at = 0;
    uint64_t need = gguf__data_end(g, start);
    if (need > c->n && need < UINT64_MAX)
        gguf__fail(c, c->n, "the file ends at %llu bytes, its tensors need %llu, expected a whole file", GGUF_U(c->n), GGUF_U(need));
    for (uint64_t i = 0; i < g->n_tensor && !c->e->code; i++) {
        gguf_tensor *t = &g->tensor[i];
        uint64_t     where = GGUF_U(t->name.p - c->p), room = c->n - start, off = t->at;
        if (off % g->align)
            gguf__fail(c, where, "tensor %.*s has offset %llu, expected a multiple of %llu", GGUF_SHOW(t->name),
                       GGUF_U(off), GGUF_U(g->align));
        else if (off > room || t->n_bytes > room - off)
            gguf__fail(c, where,
                       "tensor %.*s has %llu bytes at offset %llu, expected them within %llu bytes of tensor data",
                       GGUF_SHOW(t->name), GGUF_U(t->n_bytes), GGUF_U(off), GGUF_U(room));
        else if (off < free_at)
            gguf__fail(c, where,
                       "tensor %.*s has offset %llu, expected at least %llu, the end of the tensor before it",
                       GGUF_SHOW(t->name), GGUF_U(off), GGUF_U(free_at));
        if (c->e->code) return;
        free_at = off + t->n_bytes;
        t->at = start + off;
        t->data = c->p + t->at;
    }
}

static void gguf__tensors(gguf_cur *c, gguf_file *g, uint64_t n) {
    for (uint64_t i = 0; i < n && !c->e->code; i++) {
        g->tensor = gguf__room(g->tensor, i, n, sizeof *g->tensor);
        gguf__tensor(c, &g->tensor[i]);
        g->n_tensor = i + 1;
    }
    if (!c->e->code) gguf__place(c, g);
}

/* --- one file --- */

/* A file that is known by its beginning to be something else, NULL: it is not. */
static const char *gguf__known(bytes b) {
    static const struct { const char *begins, *kind; } texts[] = {
        {"version https://git-lfs", "a Git LFS pointer, which stands for a file that was not fetched"},
        {"<!DOCTYPE", "an HTML page"}, {"<!doctype", "an HTML page"}, {"<html", "an HTML page"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (b.n >= strlen(texts[i].begins) && memcmp(b.p, texts[i].begins, strlen(texts[i].begins)) == 0) return texts[i].kind;
    return bytes_kind(b);
}

/* What begins like another format gets its name. */
static const char *gguf__other(const uint8_t *p) {
    static const struct { const char *magic, *name; } others[] = {
        {"FUGG", "GGUF with its bytes swapped"}, {"tjgg", "ggjt, older than GGUF"},
        {"fmgg", "ggmf, older than GGUF"},       {"lmgg", "ggml, older than GGUF"},
        {"algg", "a ggla adapter"},              {"\0\0\0\0", "zeros"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!memcmp(p, others[i].magic, 4)) return others[i].name;
    return "not a GGUF file";
}

static void gguf__version(gguf_cur *c, gguf_file *g) {
    const bytes    all = {c->p, (size_t)c->n};
    const char    *kind = gguf__known(all);
    const uint8_t *magic = gguf__take(c, 4, "the magic GGUF");
    const bool     other = magic && memcmp(magic, "GGUF", 4);
    if (other && kind) gguf__fail(c, 0, "is %s, expected a GGUF file", kind);
    else if (other)
        gguf__fail(c, 0, "begins with %02x %02x %02x %02x (%s), expected the magic GGUF", magic[0], magic[1],
                   magic[2], magic[3], gguf__other(magic));
    g->version = gguf__u32(c, "the version");
    if (c->e->code || (g->version >= 1 && g->version <= 3)) return;
    if (__builtin_bswap32(g->version) <= 3 && g->version)
        gguf__fail(c, 4, "is big-endian (version 0x%08x), expected little-endian", g->version);
    else
        gguf__fail(c, 4, "version %u, expected 1, 2 or 3", g->version);
}

/* A number of entries of at least `each` bytes. */
static uint64_t gguf__entries(gguf_cur *c, const char *what, uint64_t each) {
    uint64_t where = c->at, n = gguf__count(c, what);
    if (c->e->code) return 0;
    uint64_t fit = (c->n - c->at) / each, max = fit < GGUF_COUNT_MAX ? fit : GGUF_COUNT_MAX;
    if (n > max)
        gguf__fail(c, where, "%s is %llu, expected at most %llu in what is left of the file", what, GGUF_U(n), GGUF_U(max));
    return n;
}

static void gguf__alignment(gguf_cur *c, gguf_file *g) {
    const gguf_kv *kv = gguf_find(g, "general.alignment");
    uint32_t       v = 32;
    if (kv && kv->type != GGUF_U32) {
        gguf__wrong(g, kv, "u32", c->e);
        return;
    }
    if (kv) memcpy(&v, kv->data, 4);
    if (v < 8 || v > GGUF_ALIGN_MAX || (v & (v - 1)))
        gguf__fail(c, kv->at, "general.alignment is %u, expected a power of two from 8 to %u", v, GGUF_ALIGN_MAX);
    g->align = v;
}

/* Everything but the index of tensor names. g->part[0] is set. */
static bool gguf__read(gguf_file *g, err_t *e) {
    const gguf_part *part = &g->part[0];
    gguf_cur         c = {part->p, part->n, 0, false, false, part->path, e};
    gguf__version(&c, g);
    c.v1 = g->version == 1;
    uint64_t n_tensor = gguf__entries(&c, "the number of tensors", c.v1 ? 25 : 33);
    uint64_t n_kv = gguf__entries(&c, "the number of keys", c.v1 ? 10 : 14);
    if (!e->code) gguf__kvs(&c, g, n_kv);
    if (!e->code) gguf__alignment(&c, g);
    if (!e->code) gguf__tensors(&c, g, n_tensor);
    return !e->code;
}

static bool gguf__name_index(gguf_file *g, err_t *e) {
    const gguf_tensor *twin = gguf__index(&g->names, g->tensor, sizeof *g->tensor, g->n_tensor);
    if (!twin) return true;
    uint64_t at = (uint64_t)(twin->name.p - g->part[twin->part].p);
    return gguf_bad(g, twin->part, at, e, "tensor %.*s comes twice, expected once", GGUF_SHOW(twin->name));
}

/* --- mappings, and what happens when one loses its file --- */

static struct {
    _Atomic uintptr_t from;                           /* 0: free */
    size_t            n;
    const char       *path;
} gguf__maps[GGUF_MAPS_MAX];

/* The file that is being written and has not its name yet, "" when there is none: for signal handlers and exit(). */
static char gguf__unfinished[PATH_MAX];

/* Removes it. Async-signal-safe. */
static void gguf_write_sweep(void) {
    if (gguf__unfinished[0]) unlink(gguf__unfinished);
}

/* A page of a mapping is gone: the file shrank, or the disk failed. Only async-signal-safe calls. */
static void gguf__sigbus(int sig, siginfo_t *info, void *context) {
    static atomic_flag told = ATOMIC_FLAG_INIT;
    (void)context;
    uintptr_t at = (uintptr_t)info->si_addr;
    for (int i = 0; i < GGUF_MAPS_MAX; i++) {
        uintptr_t from = atomic_load(&gguf__maps[i].from);
        if (!from || at < from || at - from >= gguf__maps[i].n) continue;
        while (atomic_flag_test_and_set(&told)) pause();   /* threads fault together, one of them speaks */
        static const char head[] = "llmrun: ";
        static const char tail[] = ": shrank or became unreadable while it was mapped, expected it to stay as it was\n";
        char              line[4096 + sizeof head + sizeof tail];
        size_t            n = 0;
        for (const char *p = head; *p; p++) line[n++] = *p;
        for (const char *p = gguf__maps[i].path; *p && n < 4096; p++) line[n++] = *p;
        log_tame(line, n);
        for (const char *p = tail; *p; p++) line[n++] = *p;
        progress_clear();
        if (write(STDERR_FILENO, line, n) < 0) {}
        gguf_write_sweep();
        _exit(EXIT_RESOURCE);
    }
    signal(sig, SIG_DFL);                             /* not ours: whatever the system does with it */
    raise(sig);
}

static int gguf__map_note(const uint8_t *p, size_t n, const char *path) {
    static bool installed;
    if (!installed) {
        struct sigaction act = {.sa_sigaction = gguf__sigbus, .sa_flags = SA_SIGINFO};
        sigemptyset(&act.sa_mask);
        installed = sigaction(SIGBUS, &act, NULL) == 0;
    }
    for (int i = 0; i < GGUF_MAPS_MAX; i++) {
        if (atomic_load(&gguf__maps[i].from)) continue;
        gguf__maps[i].n = n;
        gguf__maps[i].path = path;
        atomic_store(&gguf__maps[i].from, (uintptr_t)p);
        return i;
    }
    return -1;
}

static char *gguf__dup(const char *s) {
    size_t n = strlen(s) + 1;
    return memcpy(mem_new(n, 1), s, n);
}

static const char *gguf__kind(mode_t mode) {
    if (S_ISDIR(mode)) return "a directory";
    if (S_ISFIFO(mode)) return "a pipe";
    if (S_ISSOCK(mode)) return "a socket";
    return S_ISCHR(mode) || S_ISBLK(mode) ? "a device" : "not a file";
}

static bool gguf__failed(const char *path, const char *call, err_t *e) {
    int no = errno;
    return gguf__refuse(e, err_code_of(no), path, "cannot %s: %s, expected a readable GGUF file", call, strerror(no));
}

/* Opens without waiting: a pipe nobody writes to must not hang us. */
static bool gguf__map(gguf_part *part, err_t *e) {
    struct stat st;
    part->fd = open(part->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (part->fd < 0) return gguf__failed(part->path, "open", e);
    if (fstat(part->fd, &st)) return gguf__failed(part->path, "stat", e);
    if (!S_ISREG(st.st_mode))
        return gguf__refuse(e, EXIT_INPUT, part->path, "is %s, expected a GGUF file", gguf__kind(st.st_mode));
    if (st.st_size == 0) return gguf__refuse(e, EXIT_INPUT, part->path, "is empty, expected a GGUF file");
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, part->fd, 0);
    if (p == MAP_FAILED) return gguf__failed(part->path, "map", e);
    part->p = p;
    part->n = (size_t)st.st_size;
    madvise(p, part->n, MADV_WILLNEED);
    part->map = gguf__map_note(part->p, part->n, part->path);
    if (part->map < 0)
        return gguf__refuse(e, EXIT_RESOURCE, part->path, "is one file too many, expected at most %d mapped at once",
                            GGUF_MAPS_MAX);
    return true;
}

static void gguf__unmap(gguf_part *part) {
    if (part->map >= 0) atomic_store(&gguf__maps[part->map].from, (uintptr_t)0);
    if (part->fd >= 0) {
        if (part->p) munmap((void *)(uintptr_t)part->p, part->n);
        close(part->fd);
    }
    mem_free(part->path);
}

/* --- files --- */

enum { GGUF_SAMPLE = 4096 };                          /* bytes of a tensor's beginning, middle and end */

/* A number that tells this model from others: of all metadata, of the directory, and of samples of every tensor. Files with the same
 * weights under other names have the same. */
static uint64_t gguf_fingerprint(const gguf_file *g) {
    uint64_t h = rng_mix(g->n_tensor);
    for (uint64_t i = 0; i < g->n_kv; i++) {
        const gguf_kv *kv = &g->kv[i];
        if (kv->key.n > 6 && memcmp(kv->key.p, "split.", 6) == 0) continue;
        h = bytes_hash(bytes_hash(h, kv->key), (bytes){kv->data, (size_t)kv->n_bytes});
    }
    for (uint64_t i = 0; i < g->n_tensor; i++) {
        const gguf_tensor *t = &g->tensor[i];
        const size_t       n = (size_t)t->n_bytes, some = n < GGUF_SAMPLE ? n : GGUF_SAMPLE;
        h = rng_mix(bytes_hash(h, t->name) ^ t->type);
        h = bytes_hash(h, (bytes){(const uint8_t *)t->dim, sizeof t->dim});
        for (int k = 0; k < 3; k++) h = bytes_hash(h, (bytes){t->data + (n - some) / 2 * (size_t)k, some});
    }
    return h;
}

static void gguf_close(gguf_file *g) {
    for (int i = 0; i < g->n_parts; i++) gguf__unmap(&g->part[i]);
    mem_free(g->part);
    mem_free(g->kv);
    mem_free(g->tensor);
    mem_free(g->keys.slot);
    mem_free(g->names.slot);
    *g = (gguf_file){0};
}

static void gguf__begin(gguf_file *g, const char *path) {
    *g = (gguf_file){.part = mem_new(1, sizeof *g->part), .n_parts = 1};
    g->part[0] = (gguf_part){.path = gguf__dup(path), .fd = -1, .map = -1};
    g->path = g->part[0].path;
}

static bool gguf__load(gguf_file *g, const char *path, err_t *e) {
    gguf__begin(g, path);
    if (!gguf__map(&g->part[0], e)) return false;
    g->n_bytes = g->part[0].n;
    return gguf__read(g, e);
}

/* --- split files: NAME-00001-of-0000N.gguf and its brothers. The first part has the metadata, the others only
 * the split keys; each has its own tensors (tools/gguf-split of llama.cpp). --- */

typedef struct {
    uint64_t no, count, tensors;     /* no: from 0; tensors: of all parts, UINT64_MAX not said            */
} gguf_split;

static bool gguf__split_keys(const gguf_file *g, gguf_split *s, err_t *e) {
    const uint64_t most = (uint64_t)GGUF_COUNT_MAX * GGUF_PARTS_MAX;
    *s = (gguf_split){0, 1, UINT64_MAX};
    return gguf_get_u64(g, "split.count", 1, GGUF_PARTS_MAX, &s->count, e) >= 0
        && gguf_get_u64(g, "split.no", 0, s->count - 1, &s->no, e) >= 0
        && gguf_get_u64(g, "split.tensors.count", 0, most, &s->tensors, e) >= 0;
}

/* The path of part `no` (from 0), given the path of part `of` of the same model; false when that is not named so. */
static bool gguf__part_path(const char *path, uint64_t of, uint64_t no, uint64_t count, str *out) {
    char   tail[2][48];
    size_t n = strlen(path);
    for (int i = 0; i < 2; i++)
        snprintf(tail[i], sizeof tail[i], "-%05llu-of-%05llu.gguf", GGUF_U((i ? no : of) + 1), GGUF_U(count));
    size_t cut = strlen(tail[0]);
    if (n <= cut || strcmp(path + n - cut, tail[0])) return false;
    str_clear(out);
    str_add(out, path, n - cut);
    str_put(out, tail[1]);
    return true;
}

static bool gguf__first_wanted(const gguf_file *g, const gguf_split *s, err_t *e) {
    str first = {0};
    if (!gguf__part_path(g->path, s->no, 0, s->count, &first)) str_put(&first, "the first one");
    gguf__refuse(e, EXIT_INPUT, g->path, "is part %llu of %llu, expected %.180s", GGUF_U(s->no + 1),
                 GGUF_U(s->count), first.p);
    str_drop(&first);
    return false;
}

/* Moves a part's file and tensors to g; its metadata has served. */
static void gguf__join(gguf_file *g, gguf_file *one) {
    g->part = mem_grow(g->part, (size_t)g->n_parts + 1, sizeof *g->part);
    g->part[g->n_parts] = one->part[0];
    one->n_parts = 0;
    g->tensor = mem_grow(g->tensor, g->n_tensor + one->n_tensor, sizeof *g->tensor);
    for (uint64_t i = 0; i < one->n_tensor; i++) {
        one->tensor[i].part = g->n_parts;
        g->tensor[g->n_tensor + i] = one->tensor[i];
    }
    g->n_tensor += one->n_tensor;
    g->n_bytes += one->n_bytes;
    g->n_parts++;
}

static bool gguf__part_fits(const gguf_file *one, const gguf_split *want, uint64_t no, err_t *e) {
    gguf_split s;
    if (!gguf__split_keys(one, &s, e)) return false;
    if (s.count != want->count || s.no != no)
        return gguf__refuse(e, EXIT_INPUT, one->path, "says it is part %llu of %llu, expected part %llu of %llu",
                            GGUF_U(s.no + 1), GGUF_U(s.count), GGUF_U(no + 1), GGUF_U(want->count));
    if (s.tensors != want->tensors)
        return gguf__refuse(e, EXIT_INPUT, one->path,
                            "says there are %llu tensors in all, expected %llu as in the first part",
                            GGUF_U(s.tensors), GGUF_U(want->tensors));
    return true;
}

static bool gguf__other_parts(gguf_file *g, const gguf_split *s, err_t *e) {
    str path = {0};
    for (uint64_t no = 1; no < s->count && !e->code; no++) {
        gguf_file one = {0};
        if (!gguf__part_path(g->path, 0, no, s->count, &path))
            gguf__refuse(e, EXIT_INPUT, g->path,
                         "is the first of %llu parts, expected a name that ends in -00001-of-%05llu.gguf",
                         GGUF_U(s->count), GGUF_U(s->count));
        else if (gguf__load(&one, path.p, e) && gguf__part_fits(&one, s, no, e))
            gguf__join(g, &one);
        gguf_close(&one);
    }
    str_drop(&path);
    return !e->code;
}

/* After the first part: the others, when there are any, and what can only be said of all of them. */
static bool gguf__whole(gguf_file *g, bool on_disk, err_t *e) {
    gguf_split s;
    if (!gguf__split_keys(g, &s, e)) return false;
    if (s.no) return gguf__first_wanted(g, &s, e);
    if (s.count > 1 && !on_disk)
        return gguf__refuse(e, EXIT_INPUT, g->path, "is the first of %llu parts, expected all of them", GGUF_U(s.count));
    if (!gguf__other_parts(g, &s, e) || !gguf__name_index(g, e)) return false;
    if (s.tensors != UINT64_MAX && s.tensors != g->n_tensor)
        return gguf__refuse(e, EXIT_INPUT, g->path,
                            "%llu tensors in %d parts, expected %llu as split.tensors.count says",
                            GGUF_U(g->n_tensor), g->n_parts, GGUF_U(s.tensors));
    return true;
}

/* Maps and checks a model file and, when it is the first of several, its other parts. On failure nothing stays
 * open. */
static bool gguf_open(gguf_file *g, const char *path, err_t *e) {
    if (gguf__load(g, path, e) && gguf__whole(g, true, e)) return true;
    gguf_close(g);
    return false;
}

/* The same over n bytes in memory, which must outlive g: the door of tests and fuzzers. `label` stands for the
 * path in errors. */
__attribute__((unused)) static bool gguf_parse(gguf_file *g, const uint8_t *p, size_t n, const char *label, err_t *e) {
    gguf__begin(g, label);
    g->part[0].p = p;
    g->part[0].n = g->n_bytes = n;
    if (gguf__read(g, e) && gguf__whole(g, false, e)) return true;
    gguf_close(g);
    return false;
}

/* False when a mapped file has shrunk or can no longer be asked about. One fstat a part: once per step is cheap. */
static bool gguf_alive(const gguf_file *g) {
    struct stat st;
    for (int i = 0; i < g->n_parts; i++) {
        const gguf_part *p = &g->part[i];
        if (p->fd >= 0 && (fstat(p->fd, &st) || (uint64_t)st.st_size < p->n)) return false;
    }
    return true;
}

/* n bytes of the mapping have served: the kernel may have their pages back. They read the same if somebody comes again. */
static void gguf_forget(const gguf_file *g, const uint8_t *p, size_t n) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)p;
    const uintptr_t from = (at + page - 1) & ~(page - 1), to = (at + n) & ~(page - 1);
    for (int i = 0; from < to && i < g->n_parts; i++) {
        const gguf_part *part = &g->part[i];
        if (part->fd >= 0 && p >= part->p && p < part->p + part->n) madvise((void *)from, to - from, MADV_DONTNEED);
    }
}

/* --- writing ---
 * A file of version 3. It grows under a name of its own beside the one asked for and takes that name when it is whole and
 * on disk: whoever looks finds the old file or the new one, and a run that ends early leaves neither half nor rest.
 * In order: gguf_write_start; keys and tensors, in the order they shall have; the bytes of the tensors, one after another,
 * in pieces of any size; gguf_write_finish. gguf_write_drop ends it at any time and may follow either. One at a time. */

typedef struct {
    char     *path, *tmp;            /* the name it gets, and has until then                              */
    int       fd;
    uint64_t  align, n_kv, n_tensor;
    str       kv, dir;               /* metadata and tensor directory as the file will have them          */
    uint64_t *size, next;            /* bytes of each tensor; offset of the next one behind the header    */
    uint64_t  now, left;             /* the tensor whose bytes are awaited, and how many of them          */
    uint64_t  n_bytes;               /* written so far                                                    */
    bool      begun;                 /* the header is written: no more keys, no more tensors              */
    bool      tight;                 /* to be set before the first bytes: no zeros fill up the end        */
} gguf_writer;

static void gguf_write_drop(gguf_writer *w) {
    if (w->fd >= 0) close(w->fd);
    if (w->tmp) gguf_write_sweep();
    gguf__unfinished[0] = 0;
    mem_free(w->path);
    mem_free(w->tmp);
    mem_free(w->size);
    str_drop(&w->kv);
    str_drop(&w->dir);
    *w = (gguf_writer){.fd = -1};
}

/* A failed call on the file that is being written: nothing but a resource can be short once it is open. */
static bool gguf__unwritten(const gguf_writer *w, err_t *e) {
    return gguf__refuse(e, EXIT_RESOURCE, w->path, "cannot write: %s", strerror(errno));
}

/* Whether the name may be given away: nothing has it, or a file that is no part of `in`. */
static bool gguf__replaceable(const char *path, const gguf_file *in, err_t *e) {
    struct stat to, part;
    if (!*path) return err_set(e, EXIT_INPUT, "no name, expected a file to write");
    if (stat(path, &to)) {
        if (errno != ENOENT) return gguf__refuse(e, err_code_of(errno), path, "%s", strerror(errno));
        return lstat(path, &to) || gguf__refuse(e, EXIT_INPUT, path, "is a link to nothing, expected a file to write");
    }
    if (!S_ISREG(to.st_mode))
        return gguf__refuse(e, EXIT_INPUT, path, "is %s, expected a file to write", gguf__kind(to.st_mode));
    for (int i = 0; in && i < in->n_parts; i++)
        if (in->part[i].fd >= 0 && fstat(in->part[i].fd, &part) == 0 && part.st_dev == to.st_dev && part.st_ino == to.st_ino)
            return gguf__refuse(e, EXIT_INPUT, path, "is the model itself, expected another file to write");
    return true;
}

/* Removes what a writer left that was killed: a file of ours, begun as a GGUF file, that nobody holds. A writer
 * holds its file from its first byte to the end, also in another container, where it may have our number. */
static bool gguf__clear(const char *tmp) {
    struct stat st;
    char        head[4];
    int         fd = open(tmp, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) return false;
    bool left = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_nlink == 1 &&
                pread(fd, head, sizeof head, 0) == sizeof head && memcmp(head, "GGUF", sizeof head) == 0 &&
                flock(fd, LOCK_EX | LOCK_NB) == 0;
    left = left && unlink(tmp) == 0;
    close(fd);
    return left;
}

/* A new file under a name nobody has: w->path, this process, and a number where that is taken. -1: errno says
 * why. */
static int gguf__create(gguf_writer *w, size_t room) {
    enum { NAMES = 100 };
    int fd = -1;
    for (int i = 0; fd < 0 && i < NAMES; i++) {
        snprintf(w->tmp, room, i ? "%s.tmp.%ld.%d" : "%s.tmp.%ld", w->path, (long)getpid(), i);
        fd = open(w->tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST) break;
        if (fd < 0 && gguf__clear(w->tmp)) i--;       /* it was taken, and is free now */
    }
    if (fd >= 0) flock(fd, LOCK_EX | LOCK_NB);        /* where files have no locks, nothing is cleared either */
    return fd;
}

/* in: the file that is being read meanwhile, or NULL. A link is followed, so that it stays one. */
static bool gguf_write_start(gguf_writer *w, const char *path, uint64_t align, const gguf_file *in, err_t *e) {
    static bool sweeps;
    *w = (gguf_writer){.fd = -1, .align = align};
    ASSERT(!gguf__unfinished[0] && align && !(align & (align - 1)));
    if (!gguf__replaceable(path, in, e)) return false;
    char *real = realpath(path, NULL);
    w->path = real ? real : gguf__dup(path);
    size_t n = strlen(w->path) + 48;
    w->tmp = mem_new(n, 1);
    if (n > sizeof gguf__unfinished) errno = ENAMETOOLONG;
    else w->fd = gguf__create(w, n);
    if (w->fd < 0) {
        gguf__refuse(e, err_code_of(errno), *w->tmp ? w->tmp : path, "cannot create: %s", strerror(errno));
        gguf_write_drop(w);
        return false;
    }
    if (!sweeps) sweeps = atexit(gguf_write_sweep) == 0;
    memcpy(gguf__unfinished + 1, w->tmp + 1, strlen(w->tmp));
    atomic_signal_fence(memory_order_seq_cst);        /* a handler finds no name or the whole of it */
    gguf__unfinished[0] = w->tmp[0];
    return true;
}

/* Whether gguf_write_start() would go well now: to be asked before a long run whose result it is to hold. */
static bool gguf_write_could(const char *path, const gguf_file *in, err_t *e) {
    gguf_writer w;
    bool        ok = gguf_write_start(&w, path, 32, in, e);
    if (ok) gguf_write_drop(&w);
    return ok;
}

/* --- files of our own, which hold something between runs: each names its kind as its architecture --- */

/* Nothing stands there, or an empty file does. */
static bool gguf_vacant(const char *path) {
    struct stat st;
    return stat(path, &st) ? errno == ENOENT : S_ISREG(st.st_mode) && !st.st_size;
}

/* Whether the file is of this kind; what: in words. */
static bool gguf_is_kind(const gguf_file *g, const char *kind, const char *what, err_t *e) {
    bytes arch = {0};
    return (gguf_get_str(g, "general.architecture", &arch, e) == 1 && bytes_is(arch, kind)) ||
           err_set(e, EXIT_INPUT, "%s: is no %s", g->path, what);
}

/* Whether a file of this kind may be written there: nothing else is ever replaced. */
static bool gguf_may_replace(const char *path, const char *kind, const char *what) {
    gguf_file g;
    err_t     why = {0};
    bool      may = gguf_vacant(path);
    if (!may && gguf_open(&g, path, &why)) {
        may = gguf_is_kind(&g, kind, what, &why);
        gguf_close(&g);
    }
    if (!may) log_warn("%s; it is left as it is", why.text);
    return may;
}

static void gguf__add_u32(str *s, uint32_t v) { str_add(s, &v, sizeof v); }
static void gguf__add_u64(str *s, uint64_t v) { str_add(s, &v, sizeof v); }

static void gguf__add_string(str *s, bytes b) {
    gguf__add_u64(s, b.n);
    str_add(s, b.p, b.n);
}

static void gguf__add_key(gguf_writer *w, bytes key, uint32_t type) {
    ASSERT(!w->begun && key.n);
    gguf__add_string(&w->kv, key);
    gguf__add_u32(&w->kv, type);
    w->n_kv++;
}

static void gguf_write_u32(gguf_writer *w, const char *key, uint32_t v) {
    gguf__add_key(w, bytes_of(key), GGUF_U32);
    gguf__add_u32(&w->kv, v);
}

static void gguf_write_str(gguf_writer *w, const char *key, bytes v) {
    gguf__add_key(w, bytes_of(key), GGUF_STR);
    gguf__add_string(&w->kv, v);
}

__attribute__((unused)) static void gguf_write_f32(gguf_writer *w, const char *key, float v) {
    gguf__add_key(w, bytes_of(key), GGUF_F32);
    str_add(&w->kv, &v, sizeof v);
}

__attribute__((unused)) static void gguf_write_strs(gguf_writer *w, const char *key, const bytes *v, uint64_t n) {
    gguf__add_key(w, bytes_of(key), GGUF_ARR);
    gguf__add_u32(&w->kv, GGUF_STR);
    gguf__add_u64(&w->kv, n);
    for (uint64_t i = 0; i < n; i++) gguf__add_string(&w->kv, v[i]);
}

/* A pair of another file, every bit of its value as it was. */
static void gguf_write_kv(gguf_writer *w, const gguf_file *g, const gguf_kv *kv) {
    gguf__add_key(w, kv->key, kv->type);
    if (kv->type == GGUF_STR) gguf__add_u64(&w->kv, kv->count);
    if (kv->type == GGUF_ARR) {
        gguf__add_u32(&w->kv, kv->elem);
        gguf__add_u64(&w->kv, kv->count);
    }
    if (kv->type == GGUF_ARR && kv->elem == GGUF_STR) {  /* lengths of version 1 are narrower */
        gguf_strs it = gguf_strs_of(g, kv);
        for (bytes s; gguf_strs_next(&it, &s);) gguf__add_string(&w->kv, s);
    } else {
        str_add(&w->kv, kv->data, kv->n_bytes);
    }
}

/* A tensor of rows of whole blocks; returns its bytes. */
static uint64_t gguf_write_tensor(gguf_writer *w, bytes name, uint32_t type, uint32_t n_dims, const uint64_t *dim) {
    ASSERT(!w->begun && k_type_ok(type) && dim[0] % k_types[type].block == 0);
    uint64_t n_bytes = dim[0] / k_types[type].block * k_types[type].bytes, next;
    gguf__add_string(&w->dir, name);
    gguf__add_u32(&w->dir, n_dims);
    for (uint32_t i = 0; i < n_dims; i++) {
        gguf__add_u64(&w->dir, dim[i]);
        if (i && __builtin_mul_overflow(n_bytes, dim[i], &n_bytes)) n_bytes = UINT64_MAX;
    }
    gguf__add_u32(&w->dir, type);
    gguf__add_u64(&w->dir, w->next);
    if (__builtin_add_overflow(w->next, n_bytes, &next) || next > INT64_MAX)
        die(EXIT_RESOURCE, "%s: tensor %.*s would make it larger than 2^63 bytes", w->path, GGUF_SHOW(name));
    w->next = (next + w->align - 1) & ~(w->align - 1);
    w->size = gguf__room(w->size, w->n_tensor, UINT64_MAX, sizeof *w->size);
    w->size[w->n_tensor++] = n_bytes;
    return n_bytes;
}

static bool gguf__put(gguf_writer *w, const void *p, size_t n, err_t *e) {
    for (size_t done = 0; done < n;) {
        size_t  some = n - done < (size_t)1 << 30 ? n - done : (size_t)1 << 30;
        ssize_t got = write(w->fd, (const uint8_t *)p + done, some);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return gguf__unwritten(w, e);
        done += (size_t)got;
    }
    w->n_bytes += n;
    return true;
}

/* Zeros up to the alignment, of the file and of the data alike: the header ends on it. */
static bool gguf__pad(gguf_writer *w, err_t *e) {
    static const uint8_t zero[4096];
    uint64_t             n = -w->n_bytes & (w->align - 1);
    for (uint64_t some; n; n -= some) {
        some = n < sizeof zero ? n : sizeof zero;
        if (!gguf__put(w, zero, (size_t)some, e)) return false;
    }
    return true;
}

static bool gguf__head(gguf_writer *w, err_t *e) {
    str s = {0};
    str_put(&s, "GGUF");
    gguf__add_u32(&s, 3);
    gguf__add_u64(&s, w->n_tensor);
    gguf__add_u64(&s, w->n_kv);
    bool ok = gguf__put(w, s.p, s.n, e) && gguf__put(w, w->kv.p, w->kv.n, e) && gguf__put(w, w->dir.p, w->dir.n, e)
           && ((w->tight && !w->n_tensor) || gguf__pad(w, e));
    str_drop(&s);
    w->begun = true;
    w->left = w->n_tensor ? w->size[0] : 0;
    return ok;
}

/* The next n bytes of the tensors. */
static bool gguf_write_data(gguf_writer *w, const void *p, size_t n, err_t *e) {
    if (!w->begun && !gguf__head(w, e)) return false;
    for (const uint8_t *at = p; n;) {
        ASSERT(w->now < w->n_tensor);
        size_t some = n < w->left ? n : (size_t)w->left;
        if (!gguf__put(w, at, some, e)) return false;
        at += some;
        n -= some;
        w->left -= some;
        if (w->left) continue;
        bool last = ++w->now == w->n_tensor;
        if (!(last && w->tight) && !gguf__pad(w, e)) return false;
        w->left = last ? 0 : w->size[w->now];
    }
    return true;
}

/* All bytes are there: to the disk with them, and the file gets its name. On failure it is gone. */
static bool gguf_write_finish(gguf_writer *w, err_t *e) {
    bool ok = w->begun || gguf__head(w, e);
    ASSERT(!ok || w->now == w->n_tensor);
    if (ok && fsync(w->fd)) ok = gguf__unwritten(w, e);
    if (close(w->fd) && ok) ok = gguf__unwritten(w, e);
    w->fd = -1;
    if (ok && rename(w->tmp, w->path)) ok = gguf__unwritten(w, e);
    if (ok) gguf__unfinished[0] = 0;
    gguf_write_drop(w);
    return ok;
}

/* ===== [tok] vocabularies: text to tokens and back =====
 * Owns the tokenizers `llama` (sentencepiece: merge the neighbours with the best score), `gpt2` (BPE over bytes
 * written as characters) and `gemma4` (BPE over characters with byte tokens), and the table of pre-tokenizers.
 * Invariants: every index taken from the file is checked here, once; a vocabulary does not change after
 * tok_load() and may be shared by threads; texts of tokens are views into the mapping.
 *   Text is bytes. What is not UTF-8 is never refused: each bad byte is a word of its own. tok_decode() gives back
 * exactly the bytes tok_encode() was given, so no space is "cleaned", and two things differ from the field:
 *   - U+2581 in a text is three byte tokens, because the character token means a space (llama, gemma4);
 *   - a byte that a gpt2 vocabulary has no token for is written F4 90+k, k its place among such bytes, and a
 *     stray F4 is F4 BF. No UTF-8 holds these pairs, so no other text changes. (starcoder lacks F5 to FF.)
 * Control tokens come from text only under TOK_SPECIAL; a merge never makes one.
 *   Time is n log n in the length of a word and linear in that of a text.
 * Door: tok_load, tok_free, tok_encode, tok_decode, tok_stream_*, tok_piece, tok_text and the questions below. */

enum {
    TOK_COUNT_MAX = 1 << 22,         /* tokens: sixteen times the largest vocabulary known                */
    TOK_MERGE_MAX = 1 << 23,
    TOK_TEXT_MAX  = 4096,            /* bytes of one token as spelled in the file; 1,024 is the longest known */
    TOK_INPUT_MAX = 1 << 30,         /* bytes of a text                                                   */
    TOK_STEPS_MAX = 7                /* patterns of a pre-tokenizer                                       */
};

/* --- pre-tokenizers: how a text is cut into words before any merge. Patterns are those of the models' own
 * tokenizer.json, applied one after the other, each to the pieces that the one before has left; matches and the
 * text between them become pieces. Before PCRE2 sees them, tok__expand() spells out \s, \S and \p{Han}, whose
 * meaning there is not that of the tokenizers library. Where one is rewritten, it is for time: the word it matches
 * is the same.
 *   To add one: a row, or a name to the row that has its patterns. --- */

enum { PRE_BOS = 1, PRE_WHOLE = 2 /* a word that is a token needs no merges */, PRE_RAW = 4 /* see tok__raw */ };

#define PRE_THIRDS "\3"              /* leads a pattern: cut its matches in threes from their right ends */
#define PRE_ABBR   "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define PRE_SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define PRE_GPT2   "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"
#define PRE_LLAMA3 PRE_ABBR "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" PRE_SPACES
#define PRE_QWEN2  PRE_ABBR "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" PRE_SPACES
#define PRE_CASED(tail) /* words in which case changes once, upper to lower */ \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" tail "|" \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" tail "|"
#define PRE_GPT4O  PRE_CASED(PRE_ABBR "?") "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" PRE_SPACES
#define PRE_CJK    "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{30ff}]+"
#define PRE_DEEP3  /* ASCII punctuation glues to the Latin letters after it */ \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" \
    " ?[\\p{P}\\p{S}]+[\\r\\n]*|" PRE_SPACES
#define PRE_SCRIPT "[\\x{800}-\\x{9fa5}\\x{ac00}-\\x{d7ff}]+"
#define PRE_BLOOM  " ?[^(\\s|.,!?…。，、।۔،)]+"
#define PRE_CASES  /* the letters that come in two cases, as deepseek-llm lists them */ \
    "A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}\\x{1c4}-\\x{293}" \
    "\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}\\x{386}\\x{388}-\\x{38a}" \
    "\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}\\x{48a}-\\x{52f}\\x{531}-\\x{556}" \
    "\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}" \
    "\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}" \
    "\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}\\x{1f59}\\x{1f5b}\\x{1f5d}" \
    "\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}\\x{1fc2}-\\x{1fc4}" \
    "\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}\\x{1ff2}-\\x{1ff4}" \
    "\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}\\x{2119}-\\x{211d}\\x{2124}" \
    "\\x{2126}\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}\\x{213c}-\\x{213f}" \
    "\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}\\x{2c7e}-\\x{2ce4}" \
    "\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}\\x{a722}-\\x{a76f}" \
    "\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}\\x{fb13}-\\x{fb17}" \
    "\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}\\x{104b0}-\\x{104d3}" \
    "\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}\\x{118a0}-\\x{118df}" \
    "\\x{1e900}-\\x{1e943}"
#define PRE_ASIAN  /* scripts without spaces, as afmoe lists them */ \
    "[\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{f900}-\\x{faff}\\x{3040}-\\x{30ff}\\x{ff65}-\\x{ff9f}" \
    "\\x{2f00}-\\x{2fdf}\\x{e40}-\\x{e7f}\\x{e80}-\\x{eff}\\x{1780}-\\x{17ff}\\x{1000}-\\x{109f}" \
    "\\x{aa60}-\\x{aa7f}\\x{a9e0}-\\x{a9ff}\\x{ac00}-\\x{d7af}\\x{1100}-\\x{11ff}]+"
/* The classes of PRE_CASED without Han: PCRE2 cannot subtract, so they are what is left when the others go. */
#define PRE_UPPER  "[^\\p{Ll}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}\\p{Han}]"
#define PRE_LOWER  "[^\\p{Lu}\\p{Lt}\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}\\p{Han}]"

typedef struct {
    const char *names;               /* tokenizer.ggml.pre, separated by spaces */
    unsigned    flags;
    const char *step[TOK_STEPS_MAX];
} tok_pre;

static const tok_pre tok_pres[] = {
    {"default", 0, {"[\\p{P}$+<=>^~|]+", PRE_GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {"gpt-2 phi-2 gigachat a.x-4.0 mellum exaone4 olmo mpt jais trillion granite-docling modern-bert roberta-bpe "
     "jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code",
     0,
     {PRE_GPT2}},
    {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano", PRE_BOS | PRE_WHOLE, {PRE_LLAMA3}},
    {"glm4 chatglm-bpe dbrx smaug-bpe", 0, {PRE_LLAMA3}},
    {"qwen2 deepseek-r1-qwen megrez hunyuan kormo f2llmv2 stablelm2 solar-open grok-2", 0, {PRE_QWEN2}},
    {"qwen35", 0, {PRE_ABBR "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" PRE_SPACES}},
    {"gpt-4o llama4 minimax-m2 kanana2 talkie", 0, {PRE_GPT4O}},
    {"tekken", PRE_BOS | PRE_WHOLE, {PRE_CASED("") "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" PRE_SPACES}},
    {"kimi-k2",
     0,
     {"[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?" PRE_UPPER "*" PRE_LOWER "+" PRE_ABBR "?|[^\\r\\n\\p{L}\\p{N}]?" PRE_UPPER "+" PRE_LOWER
      "*" PRE_ABBR "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" PRE_SPACES}},
    {"deepseek-v3 hunyuan-dense joyai-llm", 0, {"\\p{N}{1,3}", PRE_CJK, PRE_DEEP3}},
    /* \s+$ begins where no space stands before: a long run that ends elsewhere is tried once, not once per space */
    {"deepseek-llm",
     0,
     {"[\r\n]", "\\s?[" PRE_CASES "]+", "\\s?[!-/:-~！-／：-～‘-‟\\x{3000}-。]+", "(?<!\\s)\\s+$", PRE_SCRIPT, "\\p{N}+"}},
    {"deepseek-coder", 0, {"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", PRE_SCRIPT, "\\p{N}"}},
    {"falcon", 0, {"[\\p{P}$+<=>^~|`]+", PRE_GPT2, "[0-9][0-9][0-9]"}},
    {"starcoder refact command-r smollm codeshell exaone minerva-7b mellum2", 0, {"\\p{N}", PRE_GPT2}},
    {"superbpe", 0, {"\\p{N}+", PRE_THIRDS "\\d+"}},
    {"seed-coder", 0, {PRE_ABBR "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" PRE_SPACES}},
    {"minicpm5",
     PRE_WHOLE,
     {"\\p{N}{1,3}", PRE_ABBR "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}+| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" PRE_SPACES}},
    {"bailingmoe bailingmoe2 llada-moe",
     0,
     {"'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|"
      "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {"exaone-moe",
     0,
     {PRE_ABBR "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}(?:[\\p{L}\\p{M}]++| (?=\\p{L}))*+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|"
               "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"}},
    {"laguna", 0, {"[^\\n]+|[\\n]+", PRE_QWEN2}},
    {"afmoe", 0, {"\\p{N}+", PRE_THIRDS "\\p{N}+", PRE_ASIAN, PRE_DEEP3}},
    {"tiny_aya cohere2moe", 0, {"(?<!\\d)\\d++(?![\\p{L}\\p{M}\\p{N}\\p{Pc}])", PRE_THIRDS "\\A\\d++\\z", PRE_GPT4O}},
    {"jais-2",
     0,
     {PRE_ABBR "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s{512}(?!\\S)|"
               "\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|"
               "\\s{1,2}(?!\\S)|\\s{1}"}},
    {"youtu",
     PRE_WHOLE,
     {"[\\x{ac00}-\\x{d7a3}\\x{3131}-\\x{318e}]+|[！…“”‘’—：；，\\x{3001}-\\x{303f}\\x{fe30}-\\x{fe4f}]+|"
      "[\\x{3105}-\\x{312f}]+|" PRE_CJK,
      PRE_CASED(PRE_ABBR "?") "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" PRE_SPACES}},
    {"bloom gpt3-finnish poro-chat", 0, {PRE_BLOOM}},
    {"viking", 0, {PRE_BLOOM, "\\p{N}"}},
    {"gemma4", PRE_BOS | PRE_RAW, {NULL}},
    {"sarvam-moe", PRE_RAW, {NULL}},
};

static bool tok__pre_has(const tok_pre *pre, bytes name) {
    for (const char *s = pre->names; *s;) {
        size_t n = strcspn(s, " ");
        if (name.n && bytes_eq((bytes){(const uint8_t *)s, n}, name)) return true;
        s += n + strspn(s + n, " ");
    }
    return false;
}

static const tok_pre *tok__pre_find(bytes name) {
    for (size_t i = 0; i < sizeof tok_pres / sizeof *tok_pres; i++)
        if (tok__pre_has(&tok_pres[i], name)) return &tok_pres[i];
    return NULL;
}

/* One line for each set of patterns, the names that share it side by side. */
static void tok_list_pre(str *out) {
    for (size_t i = 0; i < sizeof tok_pres / sizeof *tok_pres; i++) str_fmt(out, "%s\n", tok_pres[i].names);
}

/* White_Space of Unicode: \s of PCRE2 counts U+180E too. Script=Han: \p{Han} of PCRE2 10.40 and later goes by
 * script extensions, and so takes CJK punctuation as well. */
#define PRE_WHITE "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define PRE_HAN   "\\x{2e80}-\\x{2e99}\\x{2e9b}-\\x{2ef3}\\x{2f00}-\\x{2fd5}\\x{3005}\\x{3007}\\x{3021}-\\x{3029}" \
                  "\\x{3038}-\\x{303b}\\x{3400}-\\x{4dbf}\\x{4e00}-\\x{9fff}\\x{f900}-\\x{fa6d}\\x{fa70}-\\x{fad9}" \
                  "\\x{16fe2}\\x{16fe3}\\x{16ff0}\\x{16ff1}\\x{20000}-\\x{2a6df}\\x{2a700}-\\x{2b739}" \
                  "\\x{2b740}-\\x{2b81d}\\x{2b820}-\\x{2cea1}\\x{2ceb0}-\\x{2ebe0}\\x{2f800}-\\x{2fa1d}" \
                  "\\x{30000}-\\x{3134a}\\x{31350}-\\x{323af}"

static void tok__expand(const char *p, str *out) {
    static const struct { const char *from, *in, *out; } words[] = {
        {"\\s", PRE_WHITE, "[" PRE_WHITE "]"},
        {"\\S", NULL, "[^" PRE_WHITE "]"},
        {"\\p{Han}", PRE_HAN, "[" PRE_HAN "]"},
    };
    bool in = false;                                  /* inside a class */
    while (*p) {
        size_t w = 0, n = 0;
        while (w < 3 && strncmp(p, words[w].from, n = strlen(words[w].from))) w++;
        if (w < 3) str_put(out, in ? words[w].in : words[w].out);
        else {
            n = *p == '\\' ? 2 : 1;
            if (*p == '[') in = true;
            if (*p == ']') in = false;
            str_add(out, p, n);
        }
        p += n;
    }
}

/* --- the vocabulary --- */

/* token_type of the file */
enum { TOK_UNDEFINED, TOK_NORMAL, TOK_UNKNOWN, TOK_CONTROL, TOK_USER, TOK_UNUSED, TOK_BYTE, TOK_TYPES };
#define TOK_EOG 0x80                 /* beside the type: ends a generation */

typedef struct {
    uint64_t head;                   /* the first 8 bytes of the text: of most tokens all, so no look elsewhere */
    uint32_t n;                      /* its bytes        */
    int32_t  id1;                    /* id + 1, 0: empty */
} tok__slot;

typedef struct {
    int32_t  left, right, id1;       /* left and right give id1 - 1; id1 0: empty */
    uint32_t rank;
} tok__merge;

typedef struct {
    bytes   text;
    int32_t id;
} tok__mark;

typedef struct tok_vocab {
    const gguf_file *g;
    const char      *model;
    char             pre_name[32];
    const tok_pre   *pre;            /* NULL: no pre-tokenizer (llama)                                    */
    bool             raw;            /* tokens are spelled in UTF-8 with U+2581 for a space, bytes as <0xHH>; else
                                      * a character stands for a byte (gpt2)                              */
    bool             apart;          /* raw: no token reaches over the beginning of a run of spaces       */
    bool             space_prefix, add_bos, add_eos, whole;
    int32_t          n, bos, eos, eot, eom, unk;
    bytes           *text;           /* [n]                                                               */
    uint8_t         *type;           /* [n]                                                               */
    const uint8_t   *score;          /* [n] f32, unaligned; NULL: all equal                               */
    uint32_t        *piece_at;       /* [n + 1] into piece: the bytes a token stands for                  */
    uint8_t         *piece;
    size_t           text_max, text_bytes;                                    /* of the longest text, of all  */
    uint64_t         seed[2], mask, merge_mask;
    tok__slot       *slot;           /* text to id                                                        */
    tok__merge      *merge;          /* pair to rank and result                                           */
    int32_t          byte_id[256];   /* -1: no token                                                      */
    uint8_t          lost[256];      /* of a byte without a token: 90+k. See the banner                   */
    uint8_t          found[48];      /* the way back: k to the byte                                       */
    bool             escape;
    tok__mark       *mark;           /* user, control and unknown tokens by text, for the partition       */
    uint32_t         n_marks, mark_at[257];
    pcre2_code      *code[TOK_STEPS_MAX];
    pcre2_match_context *limits;
} tok_vocab;

static int tok__type(const tok_vocab *v, int32_t id) { return v->type[id] & 0x7f; }

/* A token that merges may make: all but control, unknown and byte tokens. */
static bool tok__plain(const tok_vocab *v, int32_t id) {
    int t = tok__type(v, id);
    return t == TOK_NORMAL || t == TOK_USER || t == TOK_UNUSED || t == TOK_UNDEFINED;
}

static uint64_t tok__load8(const uint8_t *p) {
    uint64_t x;
    memcpy(&x, p, 8);
    return x;
}

/* The first 8 bytes as a number; fewer than 8 without a loop, by loads that overlap. */
static uint64_t tok__head(const uint8_t *p, size_t n) {
    uint32_t a, b;
    if (n >= 8) return tok__load8(p);
    if (n >= 4) {
        memcpy(&a, p, 4);
        memcpy(&b, p + n - 4, 4);
        return a | (uint64_t)b << 8 * (n - 4);
    }
    return n ? p[0] | (uint64_t)p[n / 2] << 8 * (n / 2) | (uint64_t)p[n - 1] << 8 * (n - 1) : 0;
}

static uint64_t tok__mix(uint64_t a, uint64_t b) {
    unsigned __int128 m = (unsigned __int128)a * b;
    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

/* Folded multiplication of 8 bytes a turn, keyed afresh for each run: nobody can choose tokens that collide. */
static uint64_t tok__hash(const tok_vocab *v, uint64_t head, const uint8_t *p, size_t n) {
    uint64_t h = tok__mix(head ^ v->seed[0], v->seed[1] ^ n);
    for (size_t i = 8; i < n; i += 8)
        h = tok__mix(tok__load8(p + (i + 8 <= n ? i : n - 8)) ^ v->seed[0], v->seed[1] ^ h);
    return h;
}

/* The slot of a text, or the empty one where it would go. */
static tok__slot *tok__seek(const tok_vocab *v, bytes b) {
    uint64_t head = tok__head(b.p, b.n), at = tok__hash(v, head, b.p, b.n) & v->mask;
    for (; v->slot[at].id1; at = (at + 1) & v->mask) {
        const tok__slot *s = &v->slot[at];
        if (s->head != head || s->n != b.n) continue;
        if (b.n <= 8 || !memcmp(v->text[s->id1 - 1].p + 8, b.p + 8, b.n - 8)) break;
    }
    return &v->slot[at];
}

static int32_t tok__find(const tok_vocab *v, bytes b) {
    return b.n && b.n <= v->text_max ? tok__seek(v, b)->id1 - 1 : -1;
}

static uint64_t tok__merge_home(const tok_vocab *v, int32_t left, int32_t right) {
    return tok__mix(((uint64_t)(uint32_t)left << 32 | (uint32_t)right) ^ v->seed[0], v->seed[1]) & v->merge_mask;
}

/* The slot of a pair, or the empty one where it would go. */
static tok__merge *tok__merge_seek(const tok_vocab *v, int32_t left, int32_t right) {
    uint64_t at = tok__merge_home(v, left, right);
    for (; v->merge[at].id1; at = (at + 1) & v->merge_mask)
        if (v->merge[at].left == left && v->merge[at].right == right) break;
    return &v->merge[at];
}

static int32_t tok_count(const tok_vocab *v) { return v->n; }
static int32_t tok_bos(const tok_vocab *v) { return v->bos; }
static int32_t tok_eos(const tok_vocab *v) { return v->eos; }
static bool    tok_add_bos(const tok_vocab *v) { return v->add_bos; }
static bool    tok_add_eos(const tok_vocab *v) { return v->add_eos; }
static bool    tok_is_eog(const tok_vocab *v, int32_t id) { return id >= 0 && id < v->n && (v->type[id] & TOK_EOG); }
static const char *tok_model_name(const tok_vocab *v) { return v->model; }
static const char *tok_pre_name(const tok_vocab *v) { return v->pre_name; }

/* Tokens that stand for no text: control and unknown. */
static bool tok_is_control(const tok_vocab *v, int32_t id) {
    return id >= 0 && id < v->n && (tok__type(v, id) == TOK_CONTROL || tok__type(v, id) == TOK_UNKNOWN);
}

/* As the file spells it. */
static bytes tok_text(const tok_vocab *v, int32_t id) { return id >= 0 && id < v->n ? v->text[id] : (bytes){0}; }

/* The bytes it stands for; of a control token none. */
static bytes tok_piece(const tok_vocab *v, int32_t id) {
    if (id < 0 || id >= v->n) return (bytes){0};
    return (bytes){v->piece + v->piece_at[id], v->piece_at[id + 1] - v->piece_at[id]};
}

/* `"id":5,"text":"..."`, with "bytes" where the text is not UTF-8 and "control" where it stands for no bytes of a text. */
static void tok_json(const tok_vocab *v, int32_t id, str *s) {
    const bool control = tok_is_control(v, id);
    str_fmt(s, "\"id\":%d,", id);
    str_json_text(s, control ? tok_text(v, id) : tok_piece(v, id));
    if (control) str_put(s, ",\"control\":true");
}

/* --- the characters that stand for bytes (gpt2): a printable byte is the character of that number, the others
 * are U+0100 and on, in their order --- */

static bool tok__visible(int b) { return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae; }

static uint16_t tok__alpha(uint8_t b) {
    if (tok__visible(b)) return b;
    return (uint16_t)(0x100 + (b <= 0x20 ? b : b <= 0xa0 ? b - 0x7f + 0x21 : 0x43));
}

/* The byte that a character stands for, -1 none. */
static int tok__omega(uint32_t c) {
    if (c < 0x100) return tok__visible((int)c) ? (int)c : -1;
    if (c > 0x143) return -1;
    return (int)(c <= 0x120 ? c - 0x100 : c <= 0x142 ? c - 0x121 + 0x7f : 0xad);
}

static size_t tok__spell(uint8_t b, uint8_t *out) {
    uint16_t c = tok__alpha(b);
    if (c < 0x80) return out[0] = (uint8_t)c, 1;
    out[0] = (uint8_t)(0xc0 | c >> 6);
    out[1] = (uint8_t)(0x80 | (c & 0x3f));
    return 2;
}

/* --- load: tokens --- */

/* Where p lies in the file; NULL: where the value begins. */
static uint64_t tok__at(const tok_vocab *v, const gguf_kv *kv, const uint8_t *p) {
    return p ? (uint64_t)(p - v->g->part[kv->part].p) : kv->at;
}

/* Returns false, with the file, the fault and its place in e. */
#define TOK_BAD(kv, p, ...) gguf_bad(v->g, (kv)->part, tok__at(v, kv, p), e, __VA_ARGS__)
#define TOK_NO(...)         err_set(e, EXIT_INPUT, __VA_ARGS__)

static const gguf_kv *tok__array(const gguf_file *g, const char *key, uint32_t elem, uint32_t other, err_t *e) {
    const gguf_kv *kv = gguf_find(g, key);
    if (kv && (kv->type != GGUF_ARR || (kv->elem != elem && kv->elem != other))) {
        gguf_bad(g, kv->part, kv->at, e, "%s is of type %s of %s, expected array of %s", key, gguf_type_name(kv->type),
                 gguf_type_name(kv->elem), gguf_type_name(elem));
        return NULL;
    }
    return kv;
}

/* UTF-8 without NUL. Eight plain bytes at a time: the second term has a high bit where a byte is zero. */
static bool tok__good_text(bytes b) {
    size_t i = 0;
    while (i < b.n) {
        uint64_t w = i + 8 <= b.n ? tok__load8(b.p + i) : ~0ull;
        int      len = 8;
        if ((w | ((w - 0x0101010101010101u) & ~w)) & 0x8080808080808080u) {
            len = utf8_len(b.p + i, b.n - i);
            if (!len || !b.p[i]) return false;
        }
        i += (size_t)len;
    }
    return true;
}

static bool tok__add_text(tok_vocab *v, const gguf_kv *kv, int32_t id, bytes t, err_t *e) {
    const char *what = !t.n ? "is empty" : t.n > TOK_TEXT_MAX ? "is too long"
                     : !tok__good_text(t) ? "is not UTF-8 without NUL" : NULL;
    if (what) return TOK_BAD(kv, t.p, "token %d of %zu bytes %s, expected 1 to %d bytes of text",
                              id, t.n, what, TOK_TEXT_MAX);
    tok__slot *s = tok__seek(v, t);
    if (s->id1) return TOK_BAD(kv, t.p, "token %d is spelled as token %d is: \"%.*s\", expected all to differ", id,
                               s->id1 - 1, GGUF_SHOW(t));
    *s = (tok__slot){tok__head(t.p, t.n), (uint32_t)t.n, id + 1};
    v->text[id] = t;
    v->text_bytes += t.n;
    if (v->text_bytes > UINT32_MAX)
        return TOK_BAD(kv, NULL, "the tokens are more than %u bytes, expected less", UINT32_MAX);
    if (t.n > v->text_max) v->text_max = t.n;
    return true;
}

static bool tok__load_texts(tok_vocab *v, err_t *e) {
    const char    *key = "tokenizer.ggml.tokens";
    const gguf_kv *kv = tok__array(v->g, key, GGUF_STR, GGUF_STR, e);
    if (!kv) return TOK_NO("%s: no %s, expected a vocabulary", v->g->path, key);
    if (kv->count < 1 || kv->count > TOK_COUNT_MAX)
        return TOK_BAD(kv, NULL, "%s has %llu entries, expected 1 to %d", key, (unsigned long long)kv->count,
                       TOK_COUNT_MAX);
    uint64_t size = 8;
    while (size < 2 * kv->count) size *= 2;
    v->n = (int32_t)kv->count;
    v->mask = size - 1;
    v->slot = mem_new(size, sizeof *v->slot);
    v->text = mem_new(kv->count, sizeof *v->text);
    v->type = mem_new(kv->count, 1);
    gguf_strs it = gguf_strs_of(v->g, kv);
    bytes     t;
    for (int32_t id = 0; id < v->n; id++)
        if (!gguf_strs_next(&it, &t))
            return TOK_BAD(kv, it.p, "%s ends after %d tokens, expected %d", key, id, v->n);
        else if (!tok__add_text(v, kv, id, t, e)) return false;
    return true;
}

static bool tok__same_count(const tok_vocab *v, const gguf_kv *kv, err_t *e) {
    if (kv->count == (uint64_t)v->n) return true;
    return TOK_BAD(kv, NULL, "%.*s has %llu entries, expected %d as there are tokens", GGUF_SHOW(kv->key),
                    (unsigned long long)kv->count, v->n);
}

static bool tok__load_scores(tok_vocab *v, err_t *e) {
    const gguf_kv *kv = tok__array(v->g, "tokenizer.ggml.scores", GGUF_F32, GGUF_F32, e);
    if (!kv) return !e->code;
    if (!tok__same_count(v, kv, e)) return false;
    for (int32_t i = 0; i < v->n; i++) {
        float f;
        memcpy(&f, kv->data + 4 * (size_t)i, 4);
        if (f != f)
            return TOK_BAD(kv, kv->data + 4 * (size_t)i, "the score of token %d is NaN, expected a number", i);
    }
    v->score = kv->data;
    return true;
}

/* The byte that "<0xHH>" names, -1 when the text is something else. */
static int tok__byte_of(bytes t) {
    if (t.n != 6 || memcmp(t.p, "<0x", 3) || t.p[5] != '>' || !isxdigit(t.p[3]) || !isxdigit(t.p[4])) return -1;
    return (int)strtol((const char[]){(char)t.p[3], (char)t.p[4], 0}, NULL, 16);
}

static const bytes tok__blank = {(const uint8_t *)"\xe2\x96\x81", 3};     /* U+2581, a space in disguise */

static bool tok__is_blank(const uint8_t *p) { return p[0] == 0xe2 && p[1] == 0x96 && p[2] == 0x81; }

static bool tok__has_blank(bytes t) { return memmem(t.p, t.n, tok__blank.p, 3) != NULL; }

static bool tok__load_types(tok_vocab *v, err_t *e) {
    const gguf_kv *kv = tok__array(v->g, "tokenizer.ggml.token_type", GGUF_I32, GGUF_U32, e);
    if (e->code || (kv && !tok__same_count(v, kv, e))) return false;
    for (int32_t i = 0; i < v->n; i++) {
        uint32_t t = TOK_NORMAL;
        if (kv) memcpy(&t, kv->data + 4 * (size_t)i, 4);
        if (t >= TOK_TYPES)
            return TOK_BAD(kv, kv->data + 4 * (size_t)i, "the type of token %d is %u, expected 0 to %d", i, t, TOK_TYPES - 1);
        bool hex = tok__byte_of(v->text[i]) >= 0;
        if (t == TOK_BYTE && !hex)
            return TOK_BAD(kv, v->text[i].p, "byte token %d is spelled \"%.*s\", expected <0x00> to <0xFF>", i,
                           GGUF_SHOW(v->text[i]));
        if (v->raw && t == TOK_NORMAL && hex) t = TOK_BYTE;
        if (v->raw && t == TOK_USER && tok__has_blank(v->text[i])) t = TOK_NORMAL;  /* merges reach it, its text does not */
        v->type[i] = (uint8_t)t;
    }
    return true;
}

/* --- load: the tokens that end a generation. Files seldom tell them all, so the field goes by their texts. --- */

static const char *const tok__turn_ends[] = {  /* the first that exists ends a turn, unless eot_token_id tells */
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<EOT>",
    "_<EOT>", "[EOT]", "<｜end▁of▁sentence｜>", "<end_of_utterance>", NULL};
static const char *const tok__ends[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
    "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
    "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>", "<｜end▁of▁sentence｜>",
    "[e~[", NULL};
static const char *const tok__fim_pads[] = {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]", NULL};
static const char *const tok__fim_reps[] = {
    "<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>", NULL};
static const char *const tok__fim_seps[] = {"<|file_sep|>", NULL};
static const char *const tok__fim_rest[] = {  /* the holes of an infill: control, whatever their type says */
    "<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>",
    "<|prefix|>", "<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>",
    "<|code_suffix|>", "<|suffix|>", "<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>",
    "<MID>", "▁<MID>", "<|code_middle|>", "<|middle|>", NULL};

/* Found by its name, a token is a control token, whatever its type says. */
static int32_t tok__named(tok_vocab *v, const char *name, uint8_t mark) {
    int32_t id = tok__find(v, bytes_of(name));
    if (id >= 0) v->type[id] = (uint8_t)(TOK_CONTROL | (v->type[id] & TOK_EOG) | mark);
    return id;
}

static int32_t tok__first(tok_vocab *v, const char *const *names, uint8_t mark) {
    int32_t id = -1;
    while (id < 0 && *names) id = tok__named(v, *names++, mark);
    return id;
}

static bool tok__has(const tok_vocab *v, const char *name) { return tok__find(v, bytes_of(name)) >= 0; }

static void tok__undo_end(tok_vocab *v, const char *name, int type) {
    int32_t id = tok__find(v, bytes_of(name));
    if (id >= 0) v->type[id] = (uint8_t)type;
}

static void tok__mark_end(tok_vocab *v, int32_t id) {
    if (id >= 0) v->type[id] |= TOK_EOG;
}

static void tok__load_ends(tok_vocab *v, int32_t fim_pad, int32_t fim_rep, int32_t fim_sep) {
    if (v->eot < 0) v->eot = tok__first(v, tok__turn_ends, 0);
    if (v->eom < 0) v->eom = tok__named(v, "<|eom_id|>", 0);
    if (fim_pad < 0) fim_pad = tok__first(v, tok__fim_pads, 0);
    if (fim_rep < 0) fim_rep = tok__first(v, tok__fim_reps, 0);
    if (fim_sep < 0) fim_sep = tok__first(v, tok__fim_seps, 0);
    for (const char *const *s = tok__fim_rest; *s; s++) tok__named(v, *s, 0);
    for (const char *const *s = tok__ends; *s; s++) tok__named(v, *s, TOK_EOG);
    const int32_t ends[] = {v->eos, v->eot, v->eom, fim_pad, fim_rep, fim_sep};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) tok__mark_end(v, ends[i]);
    /* gpt-oss and solar-open close a part of the answer with <|end|>; gemma4 uses </s> as text */
    bool calls = tok__has(v, "<|call|>") || tok__has(v, "<|calls|>");
    if (calls && (tok__has(v, "<|return|>") || tok__has(v, "<|flush|>"))) tok__undo_end(v, "<|end|>", TOK_CONTROL);
    if (tok__has(v, "<|tool_response>")) tok__undo_end(v, "</s>", TOK_NORMAL);
}

static bool tok__special(const tok_vocab *v, const char *name, int32_t *id, err_t *e) {
    char     key[80];
    uint64_t got;
    snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", name);
    int rc = gguf_get_u64(v->g, key, 0, (uint64_t)v->n - 1, &got, e);
    if (rc > 0) *id = (int32_t)got;
    else if (*id >= v->n) *id = -1;                   /* a default that this vocabulary has not */
    return rc >= 0;
}

static bool tok__load_specials(tok_vocab *v, err_t *e) {
    int32_t fim_pad = -1, fim_rep = -1, fim_sep = -1, none = -1;   /* none: checked like the others, but not used */
    bool    sp = !v->pre;
    v->bos = sp ? 1 : -1, v->eos = sp ? 2 : -1, v->unk = sp ? 0 : -1, v->eot = v->eom = -1;
    const struct { const char *name; int32_t *id; } ids[] = {
        {"bos", &v->bos}, {"eos", &v->eos}, {"eot", &v->eot}, {"eom", &v->eom}, {"unknown", &v->unk},
        {"fim_pad", &fim_pad}, {"fim_rep", &fim_rep}, {"fim_sep", &fim_sep}, {"padding", &none}, {"seperator", &none},
        {"cls", &none}, {"mask", &none}, {"fim_pre", &none}, {"fim_suf", &none}, {"fim_mid", &none}, {"prefix", &none},
        {"suffix", &none}, {"middle", &none}};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (!tok__special(v, ids[i].name, ids[i].id, e)) return false;
    v->add_bos = sp || (v->pre->flags & PRE_BOS);
    v->space_prefix = sp;
    v->whole = !sp && (v->pre->flags & PRE_WHOLE);
    const struct { const char *key; bool *flag; } flags[] = {
        {"tokenizer.ggml.add_bos_token", &v->add_bos}, {"tokenizer.ggml.add_eos_token", &v->add_eos},
        {"tokenizer.ggml.add_space_prefix", &v->space_prefix}, {"tokenizer.ggml.ignore_merges", &v->whole}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (gguf_get_bool(v->g, flags[i].key, flags[i].flag, e) < 0) return false;
    if (v->raw && v->pre && (v->pre->flags & PRE_BOS)) v->add_bos = true;      /* gemma4 files say false and mean true */
    v->add_bos = v->add_bos && v->bos >= 0;
    v->add_eos = v->add_eos && v->eos >= 0;
    tok__load_ends(v, fim_pad, fim_rep, fim_sep);
    return true;
}

/* --- load: pieces and bytes --- */

/* A run of characters, each the name of a byte; what is no such name stands for itself. */
static size_t tok__unspell(bytes t, uint8_t *out) {
    size_t n = 0;
    for (size_t i = 0; i < t.n;) {
        uint8_t  c = t.p[i];
        uint32_t cp = c >= 0xc2 && c <= 0xc5 ? (uint32_t)(c & 0x1f) << 6 | (t.p[i + 1] & 0x3f) : UINT32_MAX;
        int      b = tok__omega(cp);
        if (b >= 0) out[n++] = (uint8_t)b, i += 2;
        else out[n++] = c, i++;
    }
    return n;
}

static size_t tok__unblank(bytes t, uint8_t *out) {
    size_t n = 0;
    for (size_t i = 0; i < t.n;) {
        bool blank = t.n - i >= 3 && tok__is_blank(t.p + i);
        out[n++] = blank ? ' ' : t.p[i];
        i += blank ? 3 : 1;
    }
    return n;
}

static size_t tok__make_piece(const tok_vocab *v, int32_t id, uint8_t *out) {
    bytes t = v->text[id];
    switch (tok__type(v, id)) {
    case TOK_CONTROL: case TOK_UNKNOWN: return 0;
    case TOK_USER: return memcpy(out, t.p, t.n), t.n;
    case TOK_BYTE: return out[0] = (uint8_t)tok__byte_of(t), 1;
    default: return v->raw ? tok__unblank(t, out) : tok__unspell(t, out);
    }
}

static void tok__load_pieces(tok_vocab *v) {
    v->piece = mem_grow(NULL, v->text_bytes, 1);           /* a piece is no longer than its text */
    v->piece_at = mem_new((size_t)v->n + 1, sizeof *v->piece_at);
    size_t n = 0;
    for (int32_t i = 0; i < v->n; i++) {
        n += tok__make_piece(v, i, v->piece + n);
        v->piece_at[i + 1] = (uint32_t)n;
    }
}

/* The token of each byte: the one that stands for just that byte. */
static void tok__load_bytes(tok_vocab *v) {
    int lost = 0;
    for (int b = 0; b < 256; b++) {
        uint8_t t[8];
        char    hex[8];
        snprintf(hex, sizeof hex, "<0x%02X>", (unsigned)b);
        size_t  n = v->raw ? 0 : tok__spell((uint8_t)b, t);
        int32_t id = v->raw ? tok__find(v, bytes_of(hex)) : tok__find(v, (bytes){t, n});
        if (v->raw && id < 0) id = tok__find(v, (bytes){(const uint8_t[]){(uint8_t)b}, 1});
        bytes piece = tok_piece(v, id);
        v->byte_id[b] = piece.n == 1 && piece.p[0] == b ? id : -1;
        if (v->byte_id[b] >= 0) continue;
        if (lost < 0x2f) v->found[lost] = (uint8_t)b, v->lost[b] = (uint8_t)(0x90 + lost);
        lost++;
    }
    v->found[0x2f] = 0xf4, v->lost[0xf4] = 0xbf;
    v->escape = !v->raw && lost && lost < 0x2f && v->byte_id[0xf4] >= 0;
    for (int b = 0x90; b <= 0xbf; b++) v->escape = v->escape && v->byte_id[b] >= 0;
}

/* True when every token that holds spaces begins with them: then a run of spaces always begins a word. */
static bool tok__is_apart(const tok_vocab *v) {
    for (int32_t id = 0; id < v->n; id++) {
        bytes t = v->text[id];
        if (!tok__plain(v, id)) continue;
        for (size_t i = 1; i + 3 <= t.n; i++)
            if (tok__is_blank(t.p + i) && (i < 3 || !tok__is_blank(t.p + i - 3))) return false;
    }
    return true;
}

/* --- load: merges --- */

/* The result's id. Files list merges mostly in the order of their results: first try the last one and its follower. */
static int32_t tok__joined(const tok_vocab *v, bytes left, bytes right, int32_t last) {
    uint8_t both[2 * TOK_TEXT_MAX];
    for (int32_t id = last; id <= last + 1 && id < v->n; id++) {
        bytes t = v->text[id];
        if (t.n != left.n + right.n || memcmp(t.p, left.p, left.n)) continue;
        if (!memcmp(t.p + left.n, right.p, right.n)) return id;
    }
    memcpy(both, left.p, left.n);
    memcpy(both + left.n, right.p, right.n);
    return tok__find(v, (bytes){both, left.n + right.n});
}

/* Fills m; its id1 stays 0 when no text can use the merge. */
static bool tok__read_merge(const tok_vocab *v, const gguf_kv *kv, bytes t, int32_t last, tok__merge *m, err_t *e) {
    const uint8_t *space = t.n > 2 ? memchr(t.p + 1, ' ', t.n - 2) : NULL;
    if (!space)
        return TOK_BAD(kv, t.p, "merge %u is \"%.*s\", expected two texts with a space between",
                                m->rank, GGUF_SHOW(t));
    bytes   left = {t.p, (size_t)(space - t.p)}, right = {space + 1, t.n - left.n - 1};
    int32_t l = tok__find(v, left), r = tok__find(v, right);
    int32_t id = l >= 0 && r >= 0 ? tok__joined(v, left, right, last) : -1;
    if (id < 0 && !v->raw)
        return TOK_BAD(kv, t.p, "merge %u is \"%.*s\", expected its parts and their sum to be tokens", m->rank,
                       GGUF_SHOW(t));
    if (id < 0 || !tok__plain(v, l) || !tok__plain(v, r) || !tok__plain(v, id)) return true;
    bool user = tok__type(v, l) == TOK_USER || tok__type(v, r) == TOK_USER || tok__type(v, id) == TOK_USER;
    if (user && tok_piece(v, l).n + tok_piece(v, r).n != tok_piece(v, id).n) return true;      /* would not read back */
    m->left = l, m->right = r, m->id1 = id + 1;
    return true;
}

/* The first of equal pairs counts. */
static void tok__add_merge(tok_vocab *v, const tok__merge *m) {
    tok__merge *slot = m->id1 ? tok__merge_seek(v, m->left, m->right) : NULL;
    if (slot && !slot->id1) *slot = *m;
}

static bool tok__load_merges(tok_vocab *v, err_t *e) {
    const char    *key = "tokenizer.ggml.merges";
    const gguf_kv *kv = tok__array(v->g, key, GGUF_STR, GGUF_STR, e);
    if (!kv) return TOK_NO("%s: no %s, expected them with tokenizer.ggml.model %s", v->g->path, key, v->model);
    if (kv->count > TOK_MERGE_MAX)
        return TOK_BAD(kv, NULL, "%s has %llu entries, expected at most %d", key, (unsigned long long)kv->count,
                       TOK_MERGE_MAX);
    uint64_t size = 8;
    while (size < kv->count + kv->count / 2) size *= 2;
    v->merge_mask = size - 1;
    v->merge = mem_new(size, sizeof *v->merge);
    gguf_strs  it = gguf_strs_of(v->g, kv);
    bytes      t;
    tok__merge wait[16] = {0};                        /* the table outgrows the caches: slots are fetched ahead of use */
    uint32_t   n = (uint32_t)kv->count;
    int32_t    last = 0;
    for (uint32_t i = 0; i < n + 16; i++) {
        tok__merge *m = &wait[i % 16];
        tok__add_merge(v, m);
        *m = (tok__merge){.rank = i};
        if (i >= n) continue;
        if (!gguf_strs_next(&it, &t)) return TOK_BAD(kv, it.p, "%s ends after %u merges", key, i);
        if (!tok__read_merge(v, kv, t, last, m, e)) return false;
        if (m->id1) last = m->id1 - 1, __builtin_prefetch(&v->merge[tok__merge_home(v, m->left, m->right)], 1);
    }
    return true;
}

/* --- load: what stands in a text as it is, and patterns --- */

static int tok__by_text(const void *a, const void *b) {
    bytes x = ((const tok__mark *)a)->text, y = ((const tok__mark *)b)->text;
    int   c = memcmp(x.p, y.p, x.n < y.n ? x.n : y.n);
    return c ? c : (x.n > y.n) - (x.n < y.n);
}

static void tok__load_marks(tok_vocab *v) {
    for (int pass = 0; pass < 2; pass++) {            /* count, then fill */
        if (pass) v->mark = mem_new(v->n_marks, sizeof *v->mark);
        v->n_marks = 0;
        for (int32_t id = 0; id < v->n; id++) {
            if (!tok_is_control(v, id) && tok__type(v, id) != TOK_USER) continue;
            if (pass) v->mark[v->n_marks] = (tok__mark){v->text[id], id};
            v->n_marks++;
        }
    }
    qsort(v->mark, v->n_marks, sizeof *v->mark, tok__by_text);
    for (uint32_t i = 0; i < v->n_marks; i++) v->mark_at[v->mark[i].text.p[0] + 1] = i + 1;
    for (int c = 0; c < 256; c++)
        if (v->mark_at[c + 1] < v->mark_at[c]) v->mark_at[c + 1] = v->mark_at[c];
}

static pcre2_code *tok__compile(const char *pattern) {
    str        s = {0};
    int        rc;
    PCRE2_SIZE at;
    tok__expand(pattern + (*pattern == *PRE_THIRDS), &s);
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)s.p, s.n, PCRE2_UTF | PCRE2_UCP, &rc, &at, NULL);
    if (!code && rc == PCRE2_ERROR_HEAP_FAILED) die(EXIT_RESOURCE, "out of memory: a pattern of %zu bytes", s.n);
    ASSERT(code);                                     /* the patterns are ours */
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);      /* without it PCRE2 interprets, only slower */
    str_drop(&s);
    return code;
}

static void tok__load_patterns(tok_vocab *v) {
    for (int i = 0; v->pre && i < TOK_STEPS_MAX && v->pre->step[i]; i++) v->code[i] = tok__compile(v->pre->step[i]);
    v->limits = pcre2_match_context_create(NULL);
    if (!v->limits) die(EXIT_RESOURCE, "out of memory: a match context");
    pcre2_set_match_limit(v->limits, UINT32_MAX);     /* our patterns go back at most once over a run, however long */
}

static bool tok__load_model(tok_vocab *v, const char *pre, err_t *e) {
    static const char *const models[] = {"llama", "gpt2", "gemma4"};
    bytes model = {0}, name = {0};
    int   rc = gguf_get_str(v->g, "tokenizer.ggml.model", &model, e);
    if (rc < 0) return false;
    if (!rc) return TOK_NO("%s: no tokenizer.ggml.model, expected llama, gpt2 or gemma4", v->g->path);
    for (int i = 0; i < 3; i++)
        if (bytes_is(model, models[i])) v->model = models[i];
    const gguf_kv *kv = gguf_find(v->g, "tokenizer.ggml.model");
    if (!v->model)
        return TOK_BAD(kv, NULL, "tokenizer.ggml.model is \"%.*s\", expected llama, gpt2 or gemma4", GGUF_SHOW(model));
    v->raw = v->model != models[1];
    if (v->model == models[0])
        return !pre || TOK_NO("--pre %.80s: a llama vocabulary has no pre-tokenizer, expected a gpt2 one", pre);
    kv = gguf_find(v->g, "tokenizer.ggml.pre");
    if (gguf_get_str(v->g, "tokenizer.ggml.pre", &name, e) < 0) return false;
    if (pre) name = bytes_of(pre);
    else if (v->model == models[2]) name = bytes_of("gemma4");
    else if (!kv) {
        name = bytes_of("default");
        log_warn("%s: no tokenizer.ggml.pre, taking default; --pre NAME sets another", v->g->path);
    }
    v->pre = tok__pre_find(name);
    if (!v->pre && pre)
        return TOK_NO("--pre %.80s: unknown, expected a name of --list pre, such as llama-bpe or qwen2", pre);
    if (!v->pre)
        return TOK_BAD(kv, NULL, "tokenizer.ggml.pre is \"%.*s\", expected a name of --list pre; --pre NAME sets one",
                       GGUF_SHOW(name));
    v->raw = v->pre->flags & PRE_RAW;
    memcpy(v->pre_name, name.p, name.n);              /* a name of the table is shorter than this */
    return true;
}

static void tok_free(tok_vocab *v) {
    if (!v) return;
    for (int i = 0; i < TOK_STEPS_MAX; i++) pcre2_code_free(v->code[i]);
    pcre2_match_context_free(v->limits);
    mem_free(v->text);
    mem_free(v->type);
    mem_free(v->piece);
    mem_free(v->piece_at);
    mem_free(v->slot);
    mem_free(v->merge);
    mem_free(v->mark);
    mem_free(v);
}

/* pre: the name of a pre-tokenizer in place of the file's, or NULL. The file must outlive the vocabulary. */
static tok_vocab *tok_load(const gguf_file *g, const char *pre, err_t *e) {
    tok_vocab *v = mem_new(1, sizeof *v);
    uint64_t   seed = rng_fresh();
    v->g = g;
    v->seed[0] = rng_mix(seed), v->seed[1] = rng_mix(seed + 1) | 1;
    if (!tok__load_model(v, pre, e) || !tok__load_texts(v, e)) goto fail;
    if (!tok__load_types(v, e) || !tok__load_specials(v, e)) goto fail;
    tok__load_pieces(v);
    tok__load_bytes(v);
    tok__load_marks(v);
    if (!v->pre ? !tok__load_scores(v, e) : !tok__load_merges(v, e)) goto fail;
    v->apart = v->raw && tok__is_apart(v);
    tok__load_patterns(v);
    return v;
fail:
    tok_free(v);
    return NULL;
}

/* --- tokens out --- */

typedef struct {
    int32_t *id;
    size_t   n, cap;
} tok_ids;

static void tok_ids_add(tok_ids *t, int32_t id) {
    if (t->n == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 64;
        t->id = mem_grow(t->id, t->cap, sizeof *t->id);
    }
    t->id[t->n++] = id;
}

static void tok_ids_drop(tok_ids *t) {
    mem_free(t->id);
    *t = (tok_ids){0};
}

/* How many chunks of `size` tokens are taken from a text of n: all (ask -1), or at most `ask`. Each begins `step`
 * tokens after the one before; where they overlap, a token has to follow the last. 0, with words in e, where none
 * is left. */
static int tok_chunks(size_t n, int size, int step, int ask, err_t *e) {
    const int64_t room = (int64_t)n - size, over = step < size;
    const int64_t all = room < over ? 0 : over ? (room + step - 1) / step : (int64_t)n / size;
    if (!all)
        err_set(e, EXIT_INPUT, "the text has %zu tokens, expected at least the %d of one chunk (-c N)", n, size);
    else if (!ask) err_set(e, EXIT_INPUT, "--chunks: 0 leaves nothing to read, expected at least 1");
    return ask >= 0 && ask < all ? ask : all > INT_MAX ? INT_MAX : (int)all;
}

/* --- encode: merging the symbols of one word. All that differs between the models is what two neighbours give and
 * how soon: tok__pair(). The heap holds (priority, place), least first, so equal priorities go from left to right.
 * An entry whose symbol has since changed finds another priority there and is dropped. --- */

#define TOK_NEVER UINT32_MAX

typedef struct {
    uint32_t at, n;                  /* bytes of text in the run's buffer (raw); n 0: merged away */
    int32_t  id, prev, next;         /* id -1: no token; next -1: the last                        */
    uint32_t prio;                   /* of merging with next, TOK_NEVER: they do not              */
    int32_t  made;                   /* what the two give                                         */
} tok__sym;

typedef struct {
    const tok_vocab  *v;
    tok_ids          *out;
    err_t            *e;
    tok__sym         *sym;
    uint64_t         *heap;
    uint32_t         *cut[2];        /* ends of pieces, before and after a step */
    str               buf;           /* raw: the text with its spaces in disguise; else a word spelled out */
    size_t            n_sym, sym_cap, n_heap, heap_cap, n_cut[2], cut_cap[2];
    pcre2_match_data *match;
} tok__run;

static void tok__push(tok__run *r, uint32_t prio, uint32_t place) {
    if (r->n_heap == r->heap_cap) {
        r->heap_cap = r->heap_cap ? 2 * r->heap_cap : 256;
        r->heap = mem_grow(r->heap, r->heap_cap, sizeof *r->heap);
    }
    uint64_t key = (uint64_t)prio << 32 | place;
    size_t   i = r->n_heap++;
    for (; i && r->heap[(i - 1) / 2] > key; i = (i - 1) / 2) r->heap[i] = r->heap[(i - 1) / 2];
    r->heap[i] = key;
}

/* The hole sinks to a leaf and the last entry climbs from there: it came from a leaf and rarely climbs far. */
static uint64_t tok__pop(tok__run *r) {
    uint64_t *h = r->heap, top = h[0], last = h[--r->n_heap];
    size_t    i = 0, n = r->n_heap;
    for (size_t c; (c = 2 * i + 2) < n; i = c) {
        c -= h[c - 1] < h[c];
        h[i] = h[c];
    }
    if (2 * i + 1 < n) h[i] = h[2 * i + 1], i = 2 * i + 1;
    for (; i && h[(i - 1) / 2] > last; i = (i - 1) / 2) h[i] = h[(i - 1) / 2];
    h[i] = last;
    return top;
}

/* Higher scores first: the bits of a float, ordered as the numbers are, upside down. */
static uint32_t tok__score_prio(const tok_vocab *v, int32_t id) {
    float    f = 0;
    uint32_t u;
    if (v->score) memcpy(&f, v->score + 4 * (size_t)id, 4);
    f += 0.0f;                                        /* -0 is 0 */
    memcpy(&u, &f, 4);
    return u >> 31 ? u : ~(u | 0x80000000u);
}

static void tok__pair(tok__run *r, int32_t i) {
    const tok_vocab *v = r->v;
    tok__sym        *s = &r->sym[i], *t = s->next >= 0 ? &r->sym[s->next] : NULL;
    s->prio = TOK_NEVER;
    if (!t) return;
    if (!v->pre) {
        int32_t id = tok__find(v, (bytes){(const uint8_t *)r->buf.p + s->at, s->n + t->n});
        if (id >= 0 && tok__plain(v, id)) s->prio = tok__score_prio(v, id), s->made = id;
    } else if (s->id >= 0 && t->id >= 0) {
        const tok__merge *m = tok__merge_seek(v, s->id, t->id);
        if (m->id1) s->prio = m->rank, s->made = m->id1 - 1;
    }
    if (s->prio != TOK_NEVER) tok__push(r, s->prio, (uint32_t)i);
}

static void tok__merge_all(tok__run *r) {
    for (size_t i = 0; i + 1 < r->n_sym; i++) tok__pair(r, (int32_t)i);
    while (r->n_heap) {
        uint64_t  key = tok__pop(r);
        int32_t   i = (int32_t)(uint32_t)key;
        tok__sym *s = &r->sym[i];
        if (s->prio != (uint32_t)(key >> 32)) continue;
        tok__sym *t = &r->sym[s->next];
        s->n += t->n;
        s->id = s->made;
        s->next = t->next;
        t->prio = TOK_NEVER;
        if (s->next >= 0) r->sym[s->next].prev = i;
        if (s->prev >= 0) tok__pair(r, s->prev);
        tok__pair(r, i);
    }
}

static bool tok__put_byte(tok__run *r, uint8_t b, bool stray) {
    const tok_vocab *v = r->v;
    bool             escape = v->escape && (v->byte_id[b] < 0 || (stray && b == 0xf4));
    if (escape) tok_ids_add(r->out, v->byte_id[0xf4]), b = v->lost[b];
    if (v->byte_id[b] >= 0) tok_ids_add(r->out, v->byte_id[b]);
    else if (v->unk >= 0) tok_ids_add(r->out, v->unk);
    else return err_set(r->e, EXIT_INPUT, "%s: no token for byte 0x%02x and no unknown token, expected one of them",
                        v->g->path, b);
    return true;
}

/* A symbol that became no token: its bytes. Without byte tokens (raw) the whole of it is unknown. */
static bool tok__put_loose(tok__run *r, const tok__sym *s) {
    const tok_vocab *v = r->v;
    const uint8_t   *p = (const uint8_t *)r->buf.p + s->at;
    bool             blank = s->n == 3 && tok__is_blank(p), lacks = false;
    if (blank) return tok__put_byte(r, ' ', false);
    for (uint32_t i = 0; i < s->n; i++) lacks = lacks || v->byte_id[p[i]] < 0;
    for (uint32_t i = 0; i < (lacks ? 1 : s->n); i++)
        if (lacks && v->unk >= 0) tok_ids_add(r->out, v->unk);
        else if (!tok__put_byte(r, p[i], false)) return false;
    return true;
}

static void tok__add_sym(tok__run *r, uint32_t at, uint32_t n, int32_t id) {
    if (r->n_sym == r->sym_cap) {
        r->sym_cap = r->sym_cap ? 2 * r->sym_cap : 64;
        r->sym = mem_grow(r->sym, r->sym_cap, sizeof *r->sym);
    }
    int32_t i = (int32_t)r->n_sym++;
    r->sym[i] = (tok__sym){at, n, id, i - 1, -1, TOK_NEVER, -1};
    if (i) r->sym[i - 1].next = i;
}

/* --- encode: words of UTF-8 tokens (llama, gemma4) --- */

static bool tok__raw_word(tok__run *r) {
    tok__merge_all(r);
    bool ok = true;
    for (int32_t i = r->n_sym ? 0 : -1; i >= 0 && ok; i = r->sym[i].next)
        if (r->sym[i].id >= 0) tok_ids_add(r->out, r->sym[i].id);
        else ok = tok__put_loose(r, &r->sym[i]);
    r->n_sym = 0;
    str_clear(&r->buf);
    return ok;
}

/* gemma4: a run of newlines that is a token is taken whole, its merges are not in the file. */
static bool tok__newlines(tok__run *r) {
    int32_t id = tok__find(r->v, str_bytes(&r->buf));
    if (!r->buf.n || r->buf.p[0] != '\n' || id < 0 || !tok__plain(r->v, id)) return tok__raw_word(r);
    tok_ids_add(r->out, id);
    r->n_sym = 0;
    str_clear(&r->buf);
    return true;
}

static void tok__raw_sym(tok__run *r, const uint8_t *p, size_t n) {
    int32_t id = tok__find(r->v, (bytes){p, n});
    tok__add_sym(r, (uint32_t)r->buf.n, (uint32_t)n, id >= 0 && tok__plain(r->v, id) ? id : -1);
    str_add(&r->buf, p, n);
}

/* One character, or one byte that belongs to none. U+2581 goes as its bytes, for no token begins with part of it. */
static size_t tok__raw_char(tok__run *r, bytes t, size_t i) {
    size_t len = (size_t)utf8_len(t.p + i, t.n - i);
    if (len == 3 && tok__is_blank(t.p + i)) {
        for (size_t k = 0; k < 3; k++) tok__raw_sym(r, t.p + i + k, 1);
    } else if (t.p[i] == ' ') tok__raw_sym(r, tok__blank.p, 3);
    else tok__raw_sym(r, t.p + i, len = len ? len : 1);
    return len ? len : 1;
}

static bool tok__raw_text(tok__run *r, bytes t, bool prefix) {
    const tok_vocab *v = r->v;
    bool             lines = v->pre, ok = true;       /* lines: newlines and the rest do not mix (gemma4) */
    if (prefix && v->space_prefix) tok__raw_sym(r, tok__blank.p, 3);
    for (size_t i = 0; i < t.n && ok;) {
        uint8_t before = i ? t.p[i - 1] : prefix && v->space_prefix ? ' ' : 0;
        bool    word = v->apart && t.p[i] == ' ' && before != ' ';
        word = word || (lines && i && (t.p[i] == '\n') != (before == '\n'));
        if (word) ok = lines ? tok__newlines(r) : tok__raw_word(r);
        i += tok__raw_char(r, t, i);
    }
    return ok && (lines ? tok__newlines(r) : tok__raw_word(r));
}

/* --- encode: words of bytes (gpt2) --- */

static void tok__cut(tok__run *r, int side, size_t at) {
    if (r->n_cut[side] && r->cut[side][r->n_cut[side] - 1] == at) return;
    if (r->n_cut[side] == r->cut_cap[side]) {
        r->cut_cap[side] = r->cut_cap[side] ? 2 * r->cut_cap[side] : 256;
        r->cut[side] = mem_grow(r->cut[side], r->cut_cap[side], sizeof *r->cut[side]);
    }
    r->cut[side][r->n_cut[side]++] = (uint32_t)at;
}

/* Ends of the digits' groups of three, counted from the right. Digits may be of any script and length. */
static void tok__thirds(tok__run *r, const uint8_t *p, size_t from, size_t to) {
    size_t digits = 0;
    for (size_t i = from; i < to; i++) digits += (p[i] & 0xc0) != 0x80;
    for (size_t i = from; i < to; i++)
        if ((p[i] & 0xc0) != 0x80 && digits-- % 3 == 0 && i) tok__cut(r, 1, i);
}

static int tok__match(tok__run *r, pcre2_code *code, const uint8_t *p, size_t n, size_t at) {
    int rc = pcre2_match(code, p, n, at, PCRE2_NO_UTF_CHECK, r->match, r->v->limits);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)             /* the interpreter keeps its stack on the heap */
        rc = pcre2_match(code, p, n, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, r->match, r->v->limits);
    if (rc >= 0 || rc == PCRE2_ERROR_NOMATCH) return rc;
    char why[120] = "";
    pcre2_get_error_message(rc, (PCRE2_UCHAR *)why, sizeof why);
    err_set(r->e, EXIT_RESOURCE, "cannot split a text of %zu bytes into words: %s", n, why);
    return rc;
}

/* One pattern over one piece: the ends of what it matches and of what lies between. Looking around stops at the
 * piece's ends. */
static bool tok__split(tok__run *r, int step, const uint8_t *text, size_t from, size_t to) {
    bool   thirds = r->v->pre->step[step][0] == *PRE_THIRDS;
    size_t at = 0, n = to - from;
    while (at < n) {
        int rc = tok__match(r, r->v->code[step], text + from, n, at);
        if (rc == PCRE2_ERROR_NOMATCH) break;
        if (rc < 0) return false;
        const PCRE2_SIZE *m = pcre2_get_ovector_pointer(r->match);
        if (m[1] <= m[0]) break;                      /* no pattern of ours matches nothing */
        if (thirds) tok__thirds(r, text, from + m[0], from + m[1]);
        else {
            if (m[0] > at) tok__cut(r, 1, from + m[0]);
            tok__cut(r, 1, from + m[1]);
        }
        at = m[1];
    }
    tok__cut(r, 1, to);
    return true;
}

/* A word that is a token as a whole (ignore_merges), -1 when it is none. */
static int32_t tok__whole_word(tok__run *r, bytes w) {
    uint8_t two[2];
    if (w.n > r->v->text_max) return -1;
    str_clear(&r->buf);
    for (size_t i = 0; i < w.n; i++) str_add(&r->buf, two, tok__spell(w.p[i], two));
    int32_t id = tok__find(r->v, str_bytes(&r->buf));
    return id >= 0 && tok__plain(r->v, id) && bytes_eq(tok_piece(r->v, id), w) ? id : -1;
}

static bool tok__byte_word(tok__run *r, bytes w) {
    int32_t id = r->v->whole && w.n > 1 ? tok__whole_word(r, w) : -1;
    if (id >= 0) return tok_ids_add(r->out, id), true;
    for (size_t i = 0; i < w.n; i++) tok__add_sym(r, (uint32_t)i, 1, r->v->byte_id[w.p[i]]);
    tok__merge_all(r);
    bool ok = true;
    for (int32_t i = 0; i >= 0 && ok; i = r->sym[i].next)
        if (r->sym[i].id >= 0) tok_ids_add(r->out, r->sym[i].id);
        else ok = tok__put_byte(r, w.p[i], false);
    r->n_sym = 0;
    return ok;
}

/* Well-formed text: cut by each pattern in turn, then merge each word. */
static bool tok__byte_text(tok__run *r, bytes t) {
    r->n_cut[0] = 0;
    tok__cut(r, 0, t.n);
    for (int step = 0; step < TOK_STEPS_MAX && r->v->code[step]; step++) {
        uint32_t from = 0;
        r->n_cut[1] = 0;
        for (size_t i = 0; i < r->n_cut[0]; from = r->cut[0][i++])
            if (!tok__split(r, step, t.p, from, r->cut[0][i])) return false;
        uint32_t *was = r->cut[0];
        size_t    cap = r->cut_cap[0];
        r->cut[0] = r->cut[1], r->cut_cap[0] = r->cut_cap[1], r->n_cut[0] = r->n_cut[1];
        r->cut[1] = was, r->cut_cap[1] = cap;
    }
    uint32_t from = 0;
    for (size_t i = 0; i < r->n_cut[0]; from = r->cut[0][i++])
        if (!tok__byte_word(r, (bytes){t.p + from, r->cut[0][i] - from})) return false;
    return true;
}

static bool tok__bytes(tok__run *r, bytes t) {
    size_t from = 0, i = 0;
    while (i < t.n) {
        int len = utf8_len(t.p + i, t.n - i);
        if (len) {
            i += (size_t)len;
            continue;
        }
        if (i > from && !tok__byte_text(r, (bytes){t.p + from, i - from})) return false;
        if (!tok__put_byte(r, t.p[i], true)) return false;
        from = ++i;
    }
    return i == from || tok__byte_text(r, (bytes){t.p + from, i - from});
}

/* --- encode: the partition. User tokens stand in any text, control tokens under TOK_SPECIAL; from left to right,
 * the longest at a place wins (as in the tokenizers library). Spaces beside a token are never stripped. --- */

enum { TOK_SPECIAL = 1, TOK_BOS = 2, TOK_EOS = 4 };   /* parse control tokens; add the start token; the end token */

/* The first mark in [lo, hi) whose byte `depth` is at least c; all share their first bytes. */
static uint32_t tok__bound(const tok_vocab *v, uint32_t lo, uint32_t hi, size_t depth, int c) {
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        bytes    t = v->mark[mid].text;
        if ((t.n > depth ? t.p[depth] : -1) < c) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

static int32_t tok__mark_here(const tok_vocab *v, bytes t, unsigned flags) {
    uint32_t lo = v->mark_at[t.p[0]], hi = v->mark_at[t.p[0] + 1];
    int32_t  best = -1;
    for (size_t depth = 1; lo < hi; depth++) {
        const tok__mark *m = &v->mark[lo];            /* the shortest comes first */
        if (m->text.n == depth && ((flags & TOK_SPECIAL) || tok__type(v, m->id) == TOK_USER)) best = m->id;
        if (depth == t.n) break;
        lo = tok__bound(v, lo, hi, depth, t.p[depth]);
        hi = tok__bound(v, lo, hi, depth, t.p[depth] + 1);
    }
    return best;
}

static bool tok__parts(tok__run *r, bytes t, unsigned flags) {
    const tok_vocab *v = r->v;
    bool             prefix = true;                   /* at the start and after each mark */
    size_t           from = 0, i = 0;
    for (;;) {
        int32_t id = i < t.n ? tok__mark_here(v, (bytes){t.p + i, t.n - i}, flags) : -1;
        if (i < t.n && id < 0) {
            i++;
            continue;
        }
        bytes text = {t.p + from, i - from};
        if (text.n && !(v->raw ? tok__raw_text(r, text, prefix) : tok__bytes(r, text))) return false;
        if (id < 0) return true;
        tok_ids_add(r->out, id);
        from = i += v->text[id].n;
        prefix = true;
    }
}

static bool tok__frame(const tok_vocab *v, int32_t id, const char *what, tok_ids *out, err_t *e) {
    if (id < 0) return TOK_NO("%s: the vocabulary has no %s token, expected one to add", v->g->path, what);
    tok_ids_add(out, id);
    return true;
}

/* Appends the tokens of a text; on an error `out` is as before. flags: TOK_SPECIAL | TOK_BOS | TOK_EOS. */
static bool tok_encode(const tok_vocab *v, bytes text, unsigned flags, tok_ids *out, err_t *e) {
    tok__run r = {.v = v, .out = out, .e = e};
    size_t   before = out->n;
    if (text.n > TOK_INPUT_MAX) return TOK_NO("a text of %zu bytes, expected at most %d", text.n, TOK_INPUT_MAX);
    r.match = pcre2_match_data_create(1, NULL);
    if (!r.match) die(EXIT_RESOURCE, "out of memory: match data");
    bool ok = (!(flags & TOK_BOS) || tok__frame(v, v->bos, "start", out, e)) && tok__parts(&r, text, flags)
           && (!(flags & TOK_EOS) || tok__frame(v, v->eos, "end", out, e));
    if (!ok) out->n = before;
    pcre2_match_data_free(r.match);
    mem_free(r.sym);
    mem_free(r.heap);
    mem_free(r.cut[0]);
    mem_free(r.cut[1]);
    str_drop(&r.buf);
    return ok;
}

/* --- decode: whole characters leave, the beginning of one waits; bytes that make no character pass as they are --- */

typedef struct {
    const tok_vocab *v;
    bool             special;        /* control tokens are spelled out                                    */
    bool             strip;          /* the next text begins with a space that tok_encode() added         */
    bool             f4;             /* an F4 waits: the next byte tells whether it is one half of a pair */
    uint8_t          held[8];        /* the beginning of a character, before the F4                       */
    int              n_held;
} tok_stream;

/* first: what comes is the beginning of a text, not the continuation of one. */
static void tok_stream_init(tok_stream *s, const tok_vocab *v, bool first) {
    *s = (tok_stream){.v = v, .strip = first && v->space_prefix};
}

/* F4 and one of 90 to BF are a byte without a token: see the banner. Returns how many bytes are left of n. */
static size_t tok__unescape(tok_stream *s, uint8_t *p, size_t n) {
    const tok_vocab *v = s->v;
    size_t           to = 0;
    s->f4 = n && p[n - 1] == 0xf4;
    n -= s->f4;
    for (size_t i = 0; i < n; i++) {
        bool    pair = p[i] == 0xf4 && i + 1 < n && p[i + 1] >= 0x90 && p[i + 1] <= 0xbf;
        uint8_t b = v->found[pair ? p[i + 1] - 0x90 : 0];
        pair = pair && v->lost[b] == p[i + 1];
        p[to++] = pair ? b : p[i];
        i += pair;
    }
    return to;
}

static void tok__stream_bytes(tok_stream *s, bytes b, str *out) {
    size_t from = out->n;
    if (!b.n) return;
    str_add(out, s->held, (size_t)s->n_held);
    size_t fresh = out->n;
    if (s->f4) str_add(out, "\xf4", 1);
    str_add(out, b.p, b.n);
    if (s->v->escape) out->n = fresh + tok__unescape(s, (uint8_t *)out->p + fresh, out->n - fresh);
    size_t   n = out->n - from, open = n < 3 ? n : 3;
    uint8_t *end = (uint8_t *)out->p + out->n;
    while (open && !utf8_open(end - open, open)) open--;
    memcpy(s->held, end - open, open);
    s->n_held = (int)open;
    out->n -= open;
    out->p[out->n] = 0;
}

static void tok_stream_push(tok_stream *s, int32_t id, str *out) {
    bytes b = tok_piece(s->v, id);
    if (tok_is_control(s->v, id) || (id >= 0 && id < s->v->n && tok__type(s->v, id) == TOK_USER)) {
        if (s->special || b.n) tok__stream_bytes(s, tok_text(s->v, id), out);
        s->strip = s->v->space_prefix;
        return;
    }
    if (s->strip && b.n && b.p[0] == ' ') b.p++, b.n--;
    if (tok_piece(s->v, id).n) s->strip = false;
    tok__stream_bytes(s, b, out);
}

/* The end: what waited goes out as bytes. */
static void tok_stream_flush(tok_stream *s, str *out) {
    str_add(out, s->held, (size_t)s->n_held);
    if (s->f4) str_add(out, "\xf4", 1);
    s->n_held = s->f4 = 0;
}

/* The text of n tokens, from its beginning: the inverse of tok_encode(). */
static void tok_decode(const tok_vocab *v, const int32_t *id, size_t n, bool special, str *out) {
    tok_stream s;
    tok_stream_init(&s, v, true);
    s.special = special;
    for (size_t i = 0; i < n; i++) tok_stream_push(&s, id[i], out);
    tok_stream_flush(&s, out);
}

/* ===== [arch] architectures as data =====
 * What a model of each architecture is made of: a row of arch_table says which choices its step makes, the slot
 * tables say which tensors it has and their shapes, arch_load() reads and range-checks the hyper-parameters. The
 * forward pass reads traits and numbers and never asks for a model by name.
 * To add an architecture: a row in arch_table; rows in arch_slots for tensors nobody had; a trait for a new choice.
 * Door: arch_load, arch_drop, arch_list, arch_dim, arch_table, arch_slots. */

typedef enum { ROPE_PAIRS, ROPE_HALVES } arch_rope;   /* which two values of a head turn together */

enum {
    A_QK_NORM = 1,                                    /* RMS norm of each query and key head, before RoPE */
    A_MOE = 2,                                        /* experts are required */
    A_TOPK_NORM = 4,                                  /* weights of the chosen experts are scaled to sum to 1 */
    A_SHARED_EXPERT = 8,                              /* one expert runs for every token, behind a sigmoid gate */
    A_DENSE = 16,                                     /* experts do not occur */
};

typedef struct {
    const char *name, *families;
    arch_rope   rope;
    unsigned    traits;
} arch_desc;

static const arch_desc arch_table[] = {
    /* general.architecture  known as                                              rope          traits */
    {"llama",    "Llama 1-3, Mistral, Mixtral, TinyLlama, SmolLM and their kin", ROPE_PAIRS,  A_TOPK_NORM},
    {"qwen2",    "Qwen 1.5 and 2.x, distilled R1",                                 ROPE_HALVES, A_DENSE},
    {"qwen2moe", "Qwen 1.5 MoE, Qwen 2 57B-A14B",                                  ROPE_HALVES, A_MOE | A_SHARED_EXPERT},
    {"qwen3",    "Qwen 3",                                                         ROPE_HALVES, A_DENSE | A_QK_NORM},
    {"qwen3moe", "Qwen 3 30B-A3B, 235B-A22B, Coder",                               ROPE_HALVES, A_MOE | A_QK_NORM | A_TOPK_NORM},
};
enum { ARCH_COUNT = sizeof arch_table / sizeof arch_table[0] };

static void arch_list(str *out) {
    for (int i = 0; i < ARCH_COUNT; i++) str_fmt(out, "%-10s %s\n", arch_table[i].name, arch_table[i].families);
}

typedef enum { SCALE_NONE, SCALE_LINEAR, SCALE_YARN } arch_scaling;

typedef struct {
    int n_head, n_head_kv, n_ff;
} arch_layer_hp;

typedef struct arch_hparams {
    const arch_desc *desc;
    int    n_vocab, n_embd, n_layer, n_ctx_train;
    int    hd_k, hd_v, n_rot;                         /* widths of a head; values of it that turn */
    int    window;                                    /* sliding window in positions, 0: all */
    int    n_expert, n_expert_used, n_ff_exp, n_ff_shexp;
    bool   topk_norm;
    float  expert_scale;                              /* factor on the experts' weights, 1 usually */
    float  eps, attn_scale;
    float  rope_base, rope_factor;                    /* factor >= 1 stretches the context */
    arch_scaling scaling;
    int    n_ctx_orig;                                /* context before stretching */
    float  yarn_attn, yarn_ext, yarn_fast, yarn_slow;
    arch_layer_hp *layer;                             /* [n_layer] */
} arch_hparams;

enum {
    ARCH_MAX_LAYERS = 512,
    ARCH_MAX_HEADS = 4096,
    ARCH_MAX_WIDTH = 1 << 20,
    ARCH_MAX_CTX = 1 << 28,
    ARCH_MAX_EXPERTS = 1024,
    ARCH_MAX_VOCAB = 1 << 24
};

static void arch_drop(arch_hparams *hp) {
    mem_free(hp->layer);
    *hp = (arch_hparams){0};
}

/* Key "ARCH.name", an integer in [lo, hi]; `*out` keeps its default where the key is absent. */
static int arch__int(const arch_hparams *hp, const gguf_file *g, const char *name, int lo, int hi, int *out, err_t *e) {
    char     key[160];
    uint64_t v;
    snprintf(key, sizeof key, "%s.%s", hp->desc->name, name);
    int got = gguf_get_u64(g, key, (uint64_t)lo, (uint64_t)hi, &v, e);
    if (got == 1) *out = (int)v;
    return got;
}

static int arch__flt(const arch_hparams *hp, const gguf_file *g, const char *name, float lo, float hi, float *out, err_t *e) {
    char key[160];
    snprintf(key, sizeof key, "%s.%s", hp->desc->name, name);
    return gguf_get_f32(g, key, lo, hi, out, e);
}

/* Finds fault with the key ARCH.name, or with `name` itself where it begins with "general.". Always false. */
__attribute__((format(printf, 5, 6)))
static bool arch__bad(const arch_hparams *hp, const gguf_file *g, const char *name, err_t *e, const char *fmt, ...) {
    char    key[160], text[400];
    va_list ap;
    snprintf(key, sizeof key, strncmp(name, "general.", 8) == 0 ? "%.0s%s" : "%s.%s", hp->desc ? hp->desc->name : "", name);
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const gguf_kv *kv = gguf_find(g, key);
    if (kv) return gguf_bad(g, kv->part, kv->at, e, "%s: %s", key, text);
    return err_set(e, EXIT_INPUT, "%s: %s: %s", g->path, key, text);
}

static bool arch__need(int got, const arch_hparams *hp, const gguf_file *g, const char *name, err_t *e) {
    if (got == 0) err_set(e, EXIT_INPUT, "%s: key %s.%s is missing", g->path, hp->desc->name, name);
    return got == 1;
}

/* A number for every layer, or an array with one for each. `at` is the field inside arch_layer_hp. */
static bool arch__per_layer(arch_hparams *hp, const gguf_file *g, const char *name, int lo, int hi, size_t at, bool need,
                            err_t *e) {
    char           key[160];
    const gguf_kv *kv;
    int            v = 0;
    snprintf(key, sizeof key, "%s.%s", hp->desc->name, name);
    kv = gguf_find(g, key);
    if (!kv && !need) return true;
    if (!kv || kv->type != GGUF_ARR) {
        int got = arch__int(hp, g, name, lo, hi, &v, e);
        if (!arch__need(got, hp, g, name, e)) return false;
        for (int i = 0; i < hp->n_layer; i++) *(int *)((char *)&hp->layer[i] + at) = v;
        return true;
    }
    if (kv->count != (uint64_t)hp->n_layer)
        return arch__bad(hp, g, name, e, "%llu values, expected one for each of %d layers", (unsigned long long)kv->count,
                         hp->n_layer);
    for (int i = 0; i < hp->n_layer; i++) {
        uint64_t u;
        if (!gguf_arr_u64(kv, (uint64_t)i, &u) || u < (uint64_t)lo || u > (uint64_t)hi)
            return arch__bad(hp, g, name, e, "value %d is out of range, expected an integer from %d to %d", i, lo, hi);
        *(int *)((char *)&hp->layer[i] + at) = (int)u;
    }
    return true;
}

static bool arch__find(arch_hparams *hp, const gguf_file *g, err_t *e) {
    bytes name = {0};
    int   got = gguf_get_str(g, "general.architecture", &name, e);
    if (got < 0) return false;
    if (got == 0) return err_set(e, EXIT_INPUT, "%s: key general.architecture is missing", g->path);
    for (int i = 0; i < ARCH_COUNT; i++)
        if (bytes_is(name, arch_table[i].name)) hp->desc = &arch_table[i];
    if (hp->desc) return true;
    str known = {0};
    for (int i = 0; i < ARCH_COUNT; i++) str_fmt(&known, "%s%s", i ? ", " : "", arch_table[i].name);
    arch__bad(hp, g, "general.architecture", e, "architecture \"%.*s\"%s, expected one of: %s", (int)(name.n > 60 ? 60 : name.n),
              (const char *)name.p, name.n > 60 ? "..." : "", known.p);
    str_drop(&known);
    return false;
}

static bool arch__rope(arch_hparams *hp, const gguf_file *g, err_t *e) {
    char  key[160];
    bytes kind = {0};
    float f = 0;
    hp->n_rot = hp->hd_k;
    if (arch__int(hp, g, "rope.dimension_count", 2, hp->hd_k, &hp->n_rot, e) < 0) return false;
    if (hp->n_rot % 2) return arch__bad(hp, g, "rope.dimension_count", e, "%d is odd, expected an even number", hp->n_rot);
    if (arch__flt(hp, g, "rope.freq_base", 1.0f, 1e12f, &hp->rope_base, e) < 0) return false;
    /* the older files say rope.scale_linear, and a factor without a type means linear */
    int got = arch__flt(hp, g, "rope.scaling.factor", 1e-3f, 1e6f, &f, e);
    if (got == 0) got = arch__flt(hp, g, "rope.scale_linear", 1e-3f, 1e6f, &f, e);
    if (got < 0) return false;
    hp->rope_factor = got == 1 ? f : 1.0f;
    hp->scaling = SCALE_LINEAR;
    snprintf(key, sizeof key, "%s.rope.scaling.type", hp->desc->name);
    got = gguf_get_str(g, key, &kind, e);
    if (got < 0) return false;
    if (got == 1) {
        if (bytes_is(kind, "none")) hp->scaling = SCALE_NONE;
        else if (bytes_is(kind, "linear")) hp->scaling = SCALE_LINEAR;
        else if (bytes_is(kind, "yarn")) hp->scaling = SCALE_YARN;
        else
            return arch__bad(hp, g, "rope.scaling.type", e, "\"%.*s\", expected none, linear or yarn",
                             (int)(kind.n > 40 ? 40 : kind.n), (const char *)kind.p);
    }
    if (hp->scaling == SCALE_NONE) hp->rope_factor = 1.0f;
    hp->n_ctx_orig = hp->n_ctx_train;
    return arch__int(hp, g, "rope.scaling.original_context_length", 1, ARCH_MAX_CTX, &hp->n_ctx_orig, e) >= 0 &&
           arch__flt(hp, g, "rope.scaling.attn_factor", 1e-3f, 1e3f, &hp->yarn_attn, e) >= 0 &&
           arch__flt(hp, g, "rope.scaling.yarn_ext_factor", 0.0f, 1e3f, &hp->yarn_ext, e) >= 0 &&
           arch__flt(hp, g, "rope.scaling.yarn_attn_factor", 1e-3f, 1e3f, &hp->yarn_attn, e) >= 0 &&
           arch__flt(hp, g, "rope.scaling.yarn_beta_fast", 1e-3f, 1e6f, &hp->yarn_fast, e) >= 0 &&
           arch__flt(hp, g, "rope.scaling.yarn_beta_slow", 1e-3f, 1e6f, &hp->yarn_slow, e) >= 0;
}

static bool arch__experts(arch_hparams *hp, const gguf_file *g, err_t *e) {
    const unsigned t = hp->desc->traits;
    char           key[160];
    if (arch__int(hp, g, "expert_count", 0, ARCH_MAX_EXPERTS, &hp->n_expert, e) < 0) return false;
    if ((t & A_MOE) && !hp->n_expert) return arch__bad(hp, g, "expert_count", e, "no experts, expected some");
    if ((t & A_DENSE) && hp->n_expert) return arch__bad(hp, g, "expert_count", e, "%d, expected no experts", hp->n_expert);
    int got = arch__int(hp, g, "expert_used_count", hp->n_expert > 0, hp->n_expert, &hp->n_expert_used, e);
    if (got < 0 || !hp->n_expert) return got >= 0;
    if (!arch__need(got, hp, g, "expert_used_count", e)) return false;
    hp->n_ff_exp = (t & A_MOE) ? hp->layer[0].n_ff / hp->n_expert_used : hp->layer[0].n_ff;
    hp->n_ff_shexp = (t & A_SHARED_EXPERT) ? hp->layer[0].n_ff : 0;
    if (arch__int(hp, g, "expert_feed_forward_length", 1, ARCH_MAX_WIDTH, &hp->n_ff_exp, e) < 0) return false;
    if ((t & A_SHARED_EXPERT) && arch__int(hp, g, "expert_shared_feed_forward_length", 1, ARCH_MAX_WIDTH, &hp->n_ff_shexp, e) < 0)
        return false;
    if (!arch__need(hp->n_ff_exp > 0, hp, g, "expert_feed_forward_length", e)) return false;
    hp->topk_norm = (t & A_TOPK_NORM) != 0;
    snprintf(key, sizeof key, "%s.expert_weights_norm", hp->desc->name);
    if (gguf_get_bool(g, key, &hp->topk_norm, e) < 0) return false;
    hp->expert_scale = 1.0f;
    if (arch__flt(hp, g, "expert_weights_scale", 0.0f, 1e6f, &hp->expert_scale, e) < 0) return false;
    if (hp->expert_scale == 0) hp->expert_scale = 1.0f;
    return true;
}

static bool arch__heads(arch_hparams *hp, const gguf_file *g, err_t *e) {
    if (!arch__per_layer(hp, g, "attention.head_count", 1, ARCH_MAX_HEADS, offsetof(arch_layer_hp, n_head), true, e))
        return false;
    for (int i = 0; i < hp->n_layer; i++) hp->layer[i].n_head_kv = hp->layer[i].n_head;
    if (!arch__per_layer(hp, g, "attention.head_count_kv", 1, ARCH_MAX_HEADS, offsetof(arch_layer_hp, n_head_kv), false, e))
        return false;
    for (int i = 0; i < hp->n_layer; i++)
        if (hp->layer[i].n_head % hp->layer[i].n_head_kv)
            return arch__bad(hp, g, "attention.head_count", e, "%d query heads in layer %d, expected a multiple of %d key heads",
                             hp->layer[i].n_head, i, hp->layer[i].n_head_kv);
    int got = arch__int(hp, g, "attention.key_length", 2, 1024, &hp->hd_k, e);
    if (got < 0) return false;
    if (got == 0) {
        if (hp->n_embd % hp->layer[0].n_head)
            return arch__bad(hp, g, "embedding_length", e, "an embedding length of %d, expected a multiple of %d heads",
                             hp->n_embd, hp->layer[0].n_head);
        hp->hd_k = hp->n_embd / hp->layer[0].n_head;
    }
    if (hp->hd_k < 2 || hp->hd_k > 1024 || hp->hd_k % 2)
        return arch__bad(hp, g, "attention.key_length", e, "heads of %d values, expected an even number up to 1024", hp->hd_k);
    hp->hd_v = hp->hd_k;
    if (arch__int(hp, g, "attention.value_length", 1, 1024, &hp->hd_v, e) < 0) return false;
    hp->attn_scale = 1.0f / sqrtf((float)hp->hd_k);
    return arch__flt(hp, g, "attention.scale", 1e-6f, 1e3f, &hp->attn_scale, e) >= 0;
}

/* Keys that would change the text and that these steps do not know: only a value that means "no change" may stand there. */
static bool arch__foreign(const arch_hparams *hp, const gguf_file *g, err_t *e) {
    static const struct {
        const char *name;
        float       neutral, also;
    } keys[] = {
        {"attn_logit_softcapping", 0, 0},      {"final_logit_softcapping", 0, 0}, {"attention.clamp_kqv", 0, 0},
        {"attention.max_alibi_bias", 0, 0},    {"logit_scale", 0, 1},             {"embedding_scale", 0, 1},
        {"residual_scale", 0, 1},              {"attention.causal", 1, 1},        {"use_parallel_residual", 0, 0},
        {"expert_gating_func", 0, 1},          {"expert_group_count", 0, 1},      {"leading_dense_block_count", 0, 0},
        {"interleave_moe_layer_step", 0, 1},   {"attention.sliding_window_pattern", 1, 1},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char   key[160];
        double x = (double)keys[i].neutral;
        bool   b = false;
        snprintf(key, sizeof key, "%s.%s", hp->desc->name, keys[i].name);
        const gguf_kv *kv = gguf_find(g, key);
        if (!kv) continue;
        int got = kv->type == GGUF_ARR    ? 1
                  : kv->type == GGUF_BOOL ? gguf_get_bool(g, key, &b, e)
                                          : gguf_get_number(g, key, -DBL_MAX, DBL_MAX, &x, e);
        if (got < 0) return false;
        if (kv->type == GGUF_BOOL) x = b;
        if (kv->type == GGUF_ARR) x = (double)NAN;
        if (x != (double)keys[i].neutral && x != (double)keys[i].also)
            return arch__bad(hp, g, keys[i].name, e, "a step that llmrun does not know, expected %g or no such key",
                             (double)keys[i].also);
    }
    return true;
}

/* Reads every hyper-parameter the step needs. On false, `e` says which one is missing or wrong. */
static bool arch_load(arch_hparams *hp, const gguf_file *g, err_t *e) {
    const gguf_kv *tokens = NULL;
    *hp = (arch_hparams){.rope_base = 10000.0f, .yarn_attn = 1, .yarn_ext = 1, .yarn_fast = 32, .yarn_slow = 1};
    if (!arch__find(hp, g, e)) return false;
    if (!arch__need(arch__int(hp, g, "block_count", 1, ARCH_MAX_LAYERS, &hp->n_layer, e), hp, g, "block_count", e)) return false;
    if (!arch__need(arch__int(hp, g, "context_length", 1, ARCH_MAX_CTX, &hp->n_ctx_train, e), hp, g, "context_length", e))
        return false;
    if (!arch__need(arch__int(hp, g, "embedding_length", 1, ARCH_MAX_WIDTH, &hp->n_embd, e), hp, g, "embedding_length", e))
        return false;
    hp->layer = mem_new((size_t)hp->n_layer, sizeof *hp->layer);
    int got = gguf_get_arr(g, "tokenizer.ggml.tokens", &tokens, e);
    if (got < 0) return false;
    if (got == 1) {
        if (tokens->count < 1 || tokens->count > ARCH_MAX_VOCAB)
            return gguf_bad(g, tokens->part, tokens->at, e, "a vocabulary of %llu tokens", (unsigned long long)tokens->count);
        hp->n_vocab = (int)tokens->count;
    } else if (!arch__need(arch__int(hp, g, "vocab_size", 1, ARCH_MAX_VOCAB, &hp->n_vocab, e), hp, g, "vocab_size", e)) {
        return false;
    }
    if (!arch__per_layer(hp, g, "feed_forward_length", 1, ARCH_MAX_WIDTH, offsetof(arch_layer_hp, n_ff),
                         !(hp->desc->traits & A_MOE), e))
        return false;
    if (!arch__need(arch__flt(hp, g, "attention.layer_norm_rms_epsilon", 1e-20f, 1.0f, &hp->eps, e), hp, g,
                    "attention.layer_norm_rms_epsilon", e))
        return false;
    if (arch__int(hp, g, "attention.sliding_window", 1, ARCH_MAX_CTX, &hp->window, e) < 0) return false;
    return arch__foreign(hp, g, e) && arch__heads(hp, g, e) && arch__rope(hp, g, e) && arch__experts(hp, g, e);
}

/* --- tensors --- */

/* A size that a tensor's shape is written in; arch_dim() gives its value for a layer. */
typedef enum { D_1, D_EMBD, D_VOCAB, D_Q, D_K, D_V, D_QKV, D_O, D_HEAD_K, D_FF, D_FF_EXP, D_FF_SHEXP, D_EXPERT, D_ROT } arch_size;

static int64_t arch_dim(const arch_hparams *hp, arch_size d, int il) {
    const arch_layer_hp *l = &hp->layer[il < 0 ? 0 : il];
    switch (d) {
    case D_1: return 1;
    case D_EMBD: return hp->n_embd;
    case D_VOCAB: return hp->n_vocab;
    case D_Q: return (int64_t)l->n_head * hp->hd_k;
    case D_K: return (int64_t)l->n_head_kv * hp->hd_k;
    case D_V: return (int64_t)l->n_head_kv * hp->hd_v;
    case D_QKV: return (int64_t)(l->n_head + l->n_head_kv) * hp->hd_k + (int64_t)l->n_head_kv * hp->hd_v;
    case D_O: return (int64_t)l->n_head * hp->hd_v;
    case D_HEAD_K: return hp->hd_k;
    case D_FF: return l->n_ff;
    case D_FF_EXP: return hp->n_ff_exp;
    case D_FF_SHEXP: return hp->n_ff_shexp;
    case D_EXPERT: return hp->n_expert;
    case D_ROT: return hp->n_rot / 2;
    }
    return 0;
}

/* One matrix, or a stack of them (experts). Rows lie row_bytes apart, matrices mat_bytes. */
typedef struct {
    const uint8_t *data;                              /* view into the mapping; NULL: the model has none */
    uint32_t type;
    int      n_in, n_out;
    size_t   row_bytes, mat_bytes;
    const float *scale;                               /* factor on each matrix's product, or NULL */
    uint8_t *packed;                                  /* the rows in the other layout, in the model's `packs`; NULL: there are none */
    size_t   packed_bytes;                            /* of one matrix of them */
} arch_mat;

typedef struct {
    const float *attn_norm, *q_norm, *k_norm, *ffn_norm;          /* [D], [HD], [HD], [D] */
    const float *bq, *bk, *bv, *bqkv, *bo, *b_gate, *b_up, *b_down; /* biases, NULL where there are none */
    arch_mat     wq, wk, wv, wqkv, wo;                             /* wqkv: the three above as one tensor */
    arch_mat     gate, up, down;                                   /* dense feed-forward */
    arch_mat     router, gate_exps, up_exps, down_exps;            /* experts */
    arch_mat     gate_shexp, up_shexp, down_shexp;                 /* shared expert */
    const float *shexp_gate;                                       /* [D] */
} arch_layer;

typedef struct {
    arch_mat     tok_embd, output;
    const float *output_norm, *rope_freqs;                         /* [D], [n_rot/2] or NULL */
} arch_globals;

enum {                                                /* when a slot applies */
    S_OPT = 1,                                        /* may be absent */
    S_DENSE = 2, S_EXPERTS = 4, S_SHARED = 8,         /* only in layers of that kind */
    S_QK_NORM = 16,
    S_VEC = 32,                                       /* float vector, not a matrix */
};

typedef struct {
    size_t      at;                                   /* offset of the field */
    const char *name;                                 /* in the file; %d is the layer */
    arch_size   out, in, stack;                       /* rows, values in a row, matrices */
    unsigned    flags;
} arch_slot;

#define IN_LAYER(f) offsetof(arch_layer, f)
#define IN_GLOBAL(f) offsetof(arch_globals, f)

static const arch_slot arch_global_slots[] = {
    /* where it lands          name in the file      rows     row     stack  */
    {IN_GLOBAL(tok_embd),    "token_embd.weight",  D_VOCAB, D_EMBD, D_1, 0},
    {IN_GLOBAL(output_norm), "output_norm.weight", D_1,     D_EMBD, D_1, S_VEC},
    {IN_GLOBAL(output),      "output.weight",      D_VOCAB, D_EMBD, D_1, S_OPT},
    {IN_GLOBAL(rope_freqs),  "rope_freqs.weight",  D_1,     D_ROT,  D_1, S_VEC | S_OPT},
};

static const arch_slot arch_layer_slots[] = {
    /* where it lands         name in the file                  rows        row         stack     */
    {IN_LAYER(attn_norm),   "blk.%d.attn_norm.weight",          D_1,        D_EMBD,     D_1,      S_VEC},
    {IN_LAYER(wqkv),        "blk.%d.attn_qkv.weight",           D_QKV,      D_EMBD,     D_1,      S_OPT},
    {IN_LAYER(bqkv),        "blk.%d.attn_qkv.bias",             D_1,        D_QKV,      D_1,      S_VEC | S_OPT},
    {IN_LAYER(wq),          "blk.%d.attn_q.weight",             D_Q,        D_EMBD,     D_1,      S_OPT},
    {IN_LAYER(wk),          "blk.%d.attn_k.weight",             D_K,        D_EMBD,     D_1,      S_OPT},
    {IN_LAYER(wv),          "blk.%d.attn_v.weight",             D_V,        D_EMBD,     D_1,      S_OPT},
    {IN_LAYER(bq),          "blk.%d.attn_q.bias",               D_1,        D_Q,        D_1,      S_VEC | S_OPT},
    {IN_LAYER(bk),          "blk.%d.attn_k.bias",               D_1,        D_K,        D_1,      S_VEC | S_OPT},
    {IN_LAYER(bv),          "blk.%d.attn_v.bias",               D_1,        D_V,        D_1,      S_VEC | S_OPT},
    {IN_LAYER(q_norm),      "blk.%d.attn_q_norm.weight",        D_1,        D_HEAD_K,   D_1,      S_VEC | S_QK_NORM},
    {IN_LAYER(k_norm),      "blk.%d.attn_k_norm.weight",        D_1,        D_HEAD_K,   D_1,      S_VEC | S_QK_NORM},
    {IN_LAYER(wo),          "blk.%d.attn_output.weight",        D_EMBD,     D_O,        D_1,      0},
    {IN_LAYER(bo),          "blk.%d.attn_output.bias",          D_1,        D_EMBD,     D_1,      S_VEC | S_OPT},
    {IN_LAYER(ffn_norm),    "blk.%d.ffn_norm.weight",           D_1,        D_EMBD,     D_1,      S_VEC},
    {IN_LAYER(gate),        "blk.%d.ffn_gate.weight",           D_FF,       D_EMBD,     D_1,      S_DENSE},
    {IN_LAYER(up),          "blk.%d.ffn_up.weight",             D_FF,       D_EMBD,     D_1,      S_DENSE},
    {IN_LAYER(down),        "blk.%d.ffn_down.weight",           D_EMBD,     D_FF,       D_1,      S_DENSE},
    {IN_LAYER(b_gate),      "blk.%d.ffn_gate.bias",             D_1,        D_FF,       D_1,      S_VEC | S_DENSE | S_OPT},
    {IN_LAYER(b_up),        "blk.%d.ffn_up.bias",               D_1,        D_FF,       D_1,      S_VEC | S_DENSE | S_OPT},
    {IN_LAYER(b_down),      "blk.%d.ffn_down.bias",             D_1,        D_EMBD,     D_1,      S_VEC | S_DENSE | S_OPT},
    {IN_LAYER(router),      "blk.%d.ffn_gate_inp.weight",       D_EXPERT,   D_EMBD,     D_1,      S_EXPERTS},
    {IN_LAYER(gate_exps),   "blk.%d.ffn_gate_exps.weight",      D_FF_EXP,   D_EMBD,     D_EXPERT, S_EXPERTS},
    {IN_LAYER(up_exps),     "blk.%d.ffn_up_exps.weight",        D_FF_EXP,   D_EMBD,     D_EXPERT, S_EXPERTS},
    {IN_LAYER(down_exps),   "blk.%d.ffn_down_exps.weight",      D_EMBD,     D_FF_EXP,   D_EXPERT, S_EXPERTS},
    {IN_LAYER(shexp_gate),  "blk.%d.ffn_gate_inp_shexp.weight", D_1,        D_EMBD,     D_1,      S_VEC | S_SHARED},
    {IN_LAYER(gate_shexp),  "blk.%d.ffn_gate_shexp.weight",     D_FF_SHEXP, D_EMBD,     D_1,      S_SHARED},
    {IN_LAYER(up_shexp),    "blk.%d.ffn_up_shexp.weight",       D_FF_SHEXP, D_EMBD,     D_1,      S_SHARED},
    {IN_LAYER(down_shexp),  "blk.%d.ffn_down_shexp.weight",     D_EMBD,     D_FF_SHEXP, D_1,      S_SHARED},
};
enum {
    ARCH_GLOBAL_SLOTS = sizeof arch_global_slots / sizeof arch_global_slots[0],
    ARCH_LAYER_SLOTS = sizeof arch_layer_slots / sizeof arch_layer_slots[0],
};

/* Whether a model with these hyper-parameters can have the slot's tensor. */
static bool arch_slot_applies(const arch_hparams *hp, const arch_slot *s) {
    if ((s->flags & S_DENSE) && hp->n_expert) return false;
    if ((s->flags & S_EXPERTS) && !hp->n_expert) return false;
    if ((s->flags & S_SHARED) && !(hp->desc->traits & A_SHARED_EXPERT)) return false;
    if ((s->flags & S_QK_NORM) && !(hp->desc->traits & A_QK_NORM)) return false;
    return true;
}

/* ===== [model] a model bound to its mapping =====
 * Finds every tensor the slot tables name, checks its shape and type, and refuses a file that lacks one or holds one
 * that the step would not use (a weight left out in silence is a wrong text). Weights stay where they are: the model
 * is views into the mapping plus a table of RoPE frequencies; once packed, its quantised matrices are memory of its own.
 * Door: model_open, model_as_bf16, model_has_bf16, model_pack, model_weigh, model_close, model_check, model_kv_bytes. */

typedef struct {
    const gguf_file *g;
    arch_hparams hp;
    arch_globals glob;
    arch_layer  *layer;                               /* [n_layer] */
    double      *rope_freq;                           /* [n_rot/2] radians per position */
    float        rope_mscale;                         /* factor on cos and sin (YaRN) */
    int          n_in_max;                            /* longest row of a matrix */
    int          pack_il, pack_slot;                  /* how far model_pack() came */
    uint8_t     *packs;                               /* addresses for all that it makes; memory comes as it is written */
    size_t       packs_bytes, packs_used;
} model;

/* Overrides from the command line; 0 keeps what the file says. */
typedef struct {
    float        base, factor;
    const char  *scaling;                             /* none, linear, yarn */
    int          orig_ctx;
    float        yarn_ext, yarn_attn, yarn_fast, yarn_slow;  /* negative: as the file says */
} rope_opts;

static const rope_opts rope_defaults = {.yarn_ext = -1, .yarn_attn = -1, .yarn_fast = -1, .yarn_slow = -1};

/* The matrices that a step multiplies by, one after the other; NULL after the last. */
static arch_mat *model__mat(const model *m, int *il, int *slot, int *stack) {
    for (; *il < m->hp.n_layer; ++*il, *slot = 0)
        for (; *slot < ARCH_LAYER_SLOTS; ++*slot) {
            const arch_slot *s = &arch_layer_slots[*slot];
            arch_mat        *w = (arch_mat *)((char *)&m->layer[*il] + s->at);
            if ((s->flags & S_VEC) || !arch_slot_applies(&m->hp, s) || w == &m->layer[*il].wqkv || !w->data) continue;
            *stack = (int)arch_dim(&m->hp, s->stack, *il);
            ++*slot;
            return w;
        }
    *stack = 1;
    return (*il)++ == m->hp.n_layer ? (arch_mat *)&m->glob.output : NULL;
}

static void model_close(model *m) {
    mem_pages_free(m->packs, m->packs_bytes);
    mem_free(m->layer);
    mem_free(m->rope_freq);
    arch_drop(&m->hp);
    *m = (model){0};
}

static bool model__shape(const gguf_file *g, const gguf_tensor *t, const uint64_t want[3], bool at_least_rows, err_t *e) {
    bool ok = t->n_dims <= 3 || t->dim[3] == 1;
    for (int i = 0; i < 3; i++) ok = ok && (t->dim[i] == want[i] || (i == 1 && at_least_rows && t->dim[i] > want[i]));
    if (ok) return true;
    return gguf_bad(g, t->part, t->at, e, "tensor %.*s is %llu x %llu x %llu, expected %llu x %llu x %llu", (int)t->name.n,
                    (const char *)t->name.p, (unsigned long long)t->dim[0], (unsigned long long)t->dim[1],
                    (unsigned long long)t->dim[2], (unsigned long long)want[0], (unsigned long long)want[1],
                    (unsigned long long)want[2]);
}

/* NAME.scale beside NAME.weight: a factor on the product, one per matrix (NVFP4 files have them). NAME.input_scale is for
 * those who quantise activations to four bits. */
static bool model__bind_scale(const model *m, const char *weight, arch_mat *mat, int stack, bool *used, err_t *e) {
    char name[96];
    int  stem = (int)(strrchr(weight, '.') - weight);
    snprintf(name, sizeof name, "%.*s.input_scale", stem, weight);
    const gguf_tensor *t = gguf_tensor_find(m->g, name);
    if (t) used[t - m->g->tensor] = true;
    snprintf(name, sizeof name, "%.*s.scale", stem, weight);
    t = gguf_tensor_find(m->g, name);
    if (!t) return true;
    used[t - m->g->tensor] = true;
    if (!model__shape(m->g, t, (uint64_t[]){(uint64_t)stack, 1, 1}, false, e)) return false;
    if (t->type != K_F32)
        return gguf_bad(m->g, t->part, t->at, e, "tensor %s has type %s, expected f32", name, k_types[t->type].name);
    mat->scale = (const float *)(const void *)t->data;
    return true;
}

/* Binds one slot of layer il (-1: a tensor of the whole model) into the struct at `base`. */
static bool model__bind(model *m, const arch_slot *s, int il, void *base, bool *used, err_t *e) {
    const gguf_file *g = m->g;
    char             name[80];
    if (!arch_slot_applies(&m->hp, s)) return true;
    snprintf(name, sizeof name, s->name, il);
    const gguf_tensor *t = gguf_tensor_find(g, name);
    if (!t) return (s->flags & S_OPT) ? true : err_set(e, EXIT_INPUT, "%s: tensor %s is missing", g->path, name);
    used[t - g->tensor] = true;
    uint64_t want[3] = {(uint64_t)arch_dim(&m->hp, s->in, il), (uint64_t)arch_dim(&m->hp, s->out, il),
                        (uint64_t)arch_dim(&m->hp, s->stack, il)};
    if (!model__shape(g, t, want, s->out == D_VOCAB, e)) return false;
    if (s->flags & S_VEC) {
        if (t->type != K_F32)
            return gguf_bad(g, t->part, t->at, e, "tensor %s has type %s, expected f32", name, k_types[t->type].name);
        *(const float **)((char *)base + s->at) = (const float *)(const void *)t->data;
        return true;
    }
    if (!k_type_weight(t->type))
        return gguf_bad(g, t->part, t->at, e, "tensor %s has type %s, expected a type of weights", name, k_types[t->type].name);
    size_t row = k_row_bytes(t->type, (int64_t)want[0]);
    arch_mat *mat = (arch_mat *)((char *)base + s->at);
    *mat = (arch_mat){t->data, t->type, (int)want[0], (int)want[1], row, row * (size_t)want[1], NULL, NULL, 0};
    return model__bind_scale(m, name, mat, (int)want[2], used, e);
}

/* One tensor that holds the rows of Q, K and V becomes three views; otherwise all three must be there. */
static bool model__split_qkv(model *m, arch_layer *l, int il, err_t *e) {
    const arch_hparams *hp = &m->hp;
    const int64_t rows[3] = {arch_dim(hp, D_Q, il), arch_dim(hp, D_K, il), arch_dim(hp, D_V, il)};
    arch_mat     *mats[3] = {&l->wq, &l->wk, &l->wv};
    const float **bias[3] = {&l->bq, &l->bk, &l->bv};
    int64_t       at = 0;
    for (int i = 0; i < 3; i++) {
        if (l->wqkv.data) {
            if (mats[i]->data)
                return err_set(e, EXIT_INPUT, "%s: layer %d has attn_qkv and attn_%c both, expected one", m->g->path, il,
                               "qkv"[i]);
            *mats[i] = l->wqkv;
            mats[i]->data += (size_t)at * l->wqkv.row_bytes;
            mats[i]->n_out = (int)rows[i];
        }
        if (l->bqkv && *bias[i])
            return err_set(e, EXIT_INPUT, "%s: layer %d has attn_qkv.bias and attn_%c.bias both, expected one", m->g->path, il,
                           "qkv"[i]);
        if (l->bqkv) *bias[i] = l->bqkv + at;
        at += rows[i];
        if (!mats[i]->data)
            return err_set(e, EXIT_INPUT, "%s: tensor blk.%d.attn_%c.weight is missing", m->g->path, il, "qkv"[i]);
    }
    return true;
}

/* Tensors that no step reads: what older converters wrote and a step derives by itself, and data that are no weights. */
static bool model__aside(const gguf_tensor *t) {
    static const char tail[] = ".attn_rot_embd";
    return k_types[t->type].kind == K_KIND_DATA || memmem(t->name.p, t->name.n, tail, sizeof tail - 1) != NULL;
}

static bool model__bind_all(model *m, err_t *e) {
    const gguf_file *g = m->g;
    bool            *used = mem_new(g->n_tensor, sizeof *used);
    bool             ok = true;
    for (int i = 0; ok && i < ARCH_GLOBAL_SLOTS; i++) ok = model__bind(m, &arch_global_slots[i], -1, &m->glob, used, e);
    for (int il = 0; ok && il < m->hp.n_layer; il++) {
        for (int i = 0; ok && i < ARCH_LAYER_SLOTS; i++) ok = model__bind(m, &arch_layer_slots[i], il, &m->layer[il], used, e);
        ok = ok && model__split_qkv(m, &m->layer[il], il, e);
    }
    for (uint64_t i = 0; ok && i < g->n_tensor; i++)
        if (!used[i] && !model__aside(&g->tensor[i]))
            ok = gguf_bad(g, g->tensor[i].part, g->tensor[i].at, e, "tensor %.*s is not part of a %s model",
                          (int)g->tensor[i].name.n, (const char *)g->tensor[i].name.p, m->hp.desc->name);
    mem_free(used);
    if (ok && !m->glob.output.data) m->glob.output = m->glob.tok_embd;       /* tied embeddings */
    return ok;
}

static void model__longest(model *m) {
    m->n_in_max = m->hp.n_embd;
    for (int il = 0; il < m->hp.n_layer; il++)
        for (int i = 0; i < ARCH_LAYER_SLOTS; i++) {
            const arch_slot *s = &arch_layer_slots[i];
            int64_t          in = arch_dim(&m->hp, s->in, il);
            if (arch_slot_applies(&m->hp, s) && !(s->flags & S_VEC) && in > m->n_in_max) m->n_in_max = (int)in;
        }
}

/* --- RoPE frequencies --- */

/* The dimension whose wavelength fits `turns` times into the original context (Peng et al. 2023, YaRN, eq. 17). */
static double model__yarn_dim(const arch_hparams *hp, double turns) {
    return hp->n_rot * log(hp->n_ctx_orig / (turns * 2 * M_PI)) / (2 * log((double)hp->rope_base));
}

/* Radians per position of each pair. Llama 3's factors divide; linear scaling divides all; YaRN blends from unscaled
 * (fast pairs) to scaled (slow pairs) and raises the attention's temperature by the factor on cos and sin. */
static void model__rope(model *m) {
    const arch_hparams *hp = &m->hp;
    double lo = 0, hi = 0;
    bool   yarn = hp->scaling == SCALE_YARN && hp->rope_factor != 1.0f;
    m->rope_freq = mem_new((size_t)hp->n_rot / 2, sizeof *m->rope_freq);
    m->rope_mscale = hp->yarn_attn;
    if (yarn) {
        lo = fmax(0, floor(model__yarn_dim(hp, hp->yarn_fast)));
        hi = fmin(hp->n_rot - 1, ceil(model__yarn_dim(hp, hp->yarn_slow)));
        if (hp->yarn_ext != 0) m->rope_mscale *= 1.0f + 0.1f * logf(hp->rope_factor);
    }
    for (int i = 0; i < hp->n_rot / 2; i++) {
        double f = pow((double)hp->rope_base, -2.0 * i / hp->n_rot);
        if (m->glob.rope_freqs) f /= (double)m->glob.rope_freqs[i];
        double slow = f / hp->rope_factor;
        double mix = yarn ? hp->yarn_ext * (1 - fmin(1, fmax(0, (i - lo) / fmax(0.001, hi - lo)))) : 0;
        m->rope_freq[i] = slow * (1 - mix) + f * mix;
    }
}

static bool model__check_freqs(const model *m, err_t *e) {
    const float *f = m->glob.rope_freqs;
    for (int i = 0; f && i < m->hp.n_rot / 2; i++)
        if (!(f[i] >= 1e-6f && f[i] <= 1e6f))
            return err_set(e, EXIT_INPUT, "%s: rope_freqs.weight: value %d is %g, expected a positive factor", m->g->path, i,
                           (double)f[i]);
    return true;
}

static bool model__override_rope(arch_hparams *hp, const rope_opts *o, err_t *e) {
    if (o->base > 0) hp->rope_base = o->base;
    if (o->scaling) {
        if (strcmp(o->scaling, "none") == 0) hp->scaling = SCALE_NONE;
        else if (strcmp(o->scaling, "linear") == 0) hp->scaling = SCALE_LINEAR;
        else if (strcmp(o->scaling, "yarn") == 0) hp->scaling = SCALE_YARN;
        else return err_set(e, EXIT_INPUT, "--rope-scaling %s: expected none, linear or yarn", o->scaling);
    }
    if (o->factor > 0) hp->rope_factor = o->factor;
    if (hp->scaling == SCALE_NONE) hp->rope_factor = 1;
    if (o->orig_ctx > 0) hp->n_ctx_orig = o->orig_ctx;
    if (o->yarn_ext >= 0) hp->yarn_ext = o->yarn_ext;
    if (o->yarn_attn >= 0) hp->yarn_attn = o->yarn_attn;
    if (o->yarn_fast >= 0) hp->yarn_fast = o->yarn_fast;
    if (o->yarn_slow >= 0) hp->yarn_slow = o->yarn_slow;
    return true;
}

/* Reads, checks and binds; `m` holds views into `g`, which must outlive it. After false, model_close() is still due. */
static bool model_open(model *m, const gguf_file *g, const rope_opts *o, err_t *e) {
    *m = (model){.g = g};
    if (!arch_load(&m->hp, g, e) || !model__override_rope(&m->hp, o, e)) return false;
    m->layer = mem_new((size_t)m->hp.n_layer, sizeof *m->layer);
    if (!model__bind_all(m, e) || !model__check_freqs(m, e)) return false;
    model__longest(m);
    model__rope(m);
    return true;
}

/* --- the other layout --- */

typedef struct {
    pool     *p;
    arch_mat *w;
    int       stack;
} model__packing;

enum { MODEL_PACK_ROWS = 64 };                        /* rows of one task */

static void model__pack_some(void *ctx, int ith) {
    const model__packing *k = ctx;
    const arch_mat       *w = k->w;
    const int             per = (w->n_out + MODEL_PACK_ROWS - 1) / MODEL_PACK_ROWS;
    (void)ith;
    for (int i; (i = pool_next(k->p)) < per * k->stack;) {
        const int    r = i % per * MODEL_PACK_ROWS, nr = w->n_out - r < MODEL_PACK_ROWS ? w->n_out - r : MODEL_PACK_ROWS;
        const size_t mat = (size_t)(i / per);
        k_pack_rows(w->type, w->data + mat * w->mat_bytes + (size_t)r * w->row_bytes, w->row_bytes, nr, w->n_in,
                    w->packed + mat * w->packed_bytes + k_pack_at(w->type, r, w->n_in));
    }
}

/* Bytes of the matrices in the file's layout, of those among them that are slow there, and what packing all of them takes; of the
 * file, what packing gives back. */
typedef struct {
    uint64_t file, slow, packed, given;
} model_bytes;

static model_bytes model_weigh(const model *m) {
    int         il = 0, slot = 0, stack;
    model_bytes b = {0};
    for (const arch_mat *w; (w = model__mat(m, &il, &slot, &stack));) {
        const uint64_t file = (uint64_t)w->mat_bytes * (uint64_t)stack;
        b.file += file;
        b.slow += k_slow_unpacked(w->type) ? file : 0;
        const uint64_t packed = (uint64_t)k_pack_bytes(w->type, w->n_out, w->n_in) * (uint64_t)stack;
        b.packed += packed;
        b.given += packed && w->data != m->glob.tok_embd.data ? file : 0;
    }
    return b;
}

/* From here on the matrices of f16 are what they would be in a file of bf16, and multiply as fast. */
static void model_as_bf16(model *m) {
    int       il = 0, slot = 0, stack;
    arch_mat *embd = (arch_mat *)&m->glob.tok_embd;
    if (embd->type == K_F16) embd->type = K_F16_ROUND;
    for (arch_mat *w; (w = model__mat(m, &il, &slot, &stack));)
        if (w->type == K_F16) w->type = K_F16_ROUND;
}

/* Whether a matrix takes activations rounded to bf16: what is kept of a model then depends on it. */
static bool model_has_bf16(const model *m) {
    int il = 0, slot = 0, stack;
    for (const arch_mat *w; (w = model__mat(m, &il, &slot, &stack));)
        if (k_act_of(w->type) == K_ACT_BF16) return true;
    return false;
}

/* Matrices of quantised rows that have the other layout go into it, the next ones until `most` bytes of the file's are done, each by the
 * threads that will read it, and their pages of the file are given back. Results are the same to the bit, however far it went.
 * True: there is more to do. An interrupt ends it between two matrices. */
static bool model_pack(model *m, pool *p, size_t most) {
    model__packing k = {.p = p};
    if (!m->packs && (m->packs_bytes = (size_t)model_weigh(m).packed)) m->packs = mem_pages(m->packs_bytes);
    for (size_t done = 0; done < most && !g_interrupt;) {
        if (!(k.w = model__mat(m, &m->pack_il, &m->pack_slot, &k.stack))) return false;
        const size_t each = k_pack_bytes(k.w->type, k.w->n_out, k.w->n_in), file = k.w->mat_bytes * (size_t)k.stack;
        if (!each) continue;
        k.w->packed_bytes = each;
        k.w->packed = m->packs + m->packs_used;
        m->packs_used += each * (size_t)k.stack;
        pool_run(p, model__pack_some, &k);
        if (k.w->data != m->glob.tok_embd.data) gguf_forget(m->g, k.w->data, file);
        done += file;
    }
    return m->pack_il <= m->hp.n_layer;
}

/* Everything model_open() checks, for --inspect. */
static bool model_check(const gguf_file *g, err_t *e) {
    model m;
    bool  ok = model_open(&m, g, &rope_defaults, e);
    model_close(&m);
    return ok;
}

/* Bytes that one token takes in the KV cache, all layers, for these types. */
static uint64_t model_kv_bytes(const arch_hparams *hp, uint32_t type_k, uint32_t type_v) {
    uint64_t n = 0;
    for (int il = 0; il < hp->n_layer; il++)
        n += (uint64_t)hp->layer[il].n_head_kv * (k_kv_bytes(type_k, hp->hd_k) + k_kv_bytes(type_v, hp->hd_v));
    return n;
}

/* ===== [kv] paged key/value cache =====
 * Keys and values live in blocks of `block` positions; a sequence is a table of block numbers. A block belongs to a
 * group of layers that keep the same positions: layers with the same window. It holds, layer after layer, K then V,
 * each [head][position][bytes of one head]. Blocks are taken as positions are reserved and come from slabs mapped on
 * demand, so memory follows the tokens in use. Blocks are counted by reference: kv_fork() shares them, and a shared
 * block is copied before it is written to. A group with a window gives back the blocks that have left it.
 *   After kv_share() full blocks are known by what they hold: nodes of a tree, each the tokens of one block behind those of
 * its parent, compared one by one; a hash only finds them. The tree holds a reference of its own; a block that nobody else
 * holds is idle, stays for whoever begins with the same tokens, and is taken again, the one idle longest first, where no
 * free one is left. A node whose block is gone stays while something hangs on it.
 *   K and V of quantised types are stored spread (k_spread): whoever writes spreads them, whoever reads spreads Q and the output.
 *   Layers of another geometry (latent K/V, K/V shared between layers) are another group with its own block size; a
 * recurrent layer keeps a state per sequence, and its snapshots hang on block numbers as K and V do.
 * Door: kv_new, kv_most, kv_free, kv_seq_new, kv_seq_free, kv_fork, kv_reserve, kv_require, kv_full, kv_truncate, kv_seq_blocks,
 * kv_blocks, kv_store_at, kv_touch, kv_bytes_peak; kv_share, kv_match, kv_adopt, kv_claim, kv_settle, kv_room, kv_held;
 * kv_know, kv_fetcher, kv_next, kv_node_tokens, kv_bytes. */

typedef struct {
    uint32_t type_k, type_v;
    int      block;                                   /* positions per block */
    int      max_blocks;                              /* most blocks, 0: no bound but the context */
    uint64_t mem_bytes;                               /* the same in bytes */
    const char *cache;                                /* file that keeps blocks between runs, NULL: none */
    uint64_t cache_bytes;                             /* of its blocks at most */
    bool     cache_ro, cache_all;                     /* it is only read; what answers hold is kept in any case */
} kv_opts;

/* LLMRUN_STRESS: 1 where rare events shall be frequent (make stress), else 0. */
static const kv_opts kv_defaults = {K_BF16, K_BF16, LLMRUN_STRESS ? 2 : 32, 0, 0, NULL, 1 << 30, false, false};

typedef struct {                                      /* where a layer's K and V lie inside a block of its group */
    int    group, n_head;
    size_t k_at, v_at;                                /* bytes from the block's start */
    size_t k_stride, v_stride;                        /* bytes of one position of one head */
} kv_layer;

typedef struct {
    int      window;                                  /* 0: every position is kept */
    size_t   block_bytes;
    uint8_t **slab;                                   /* [n_slab], each of slab_blocks blocks */
    int      n_slab, slab_blocks, max_blocks;
    uint32_t *refs;                                   /* [n_slab * slab_blocks] */
    int32_t  *spare;                                  /* [n_slab * slab_blocks] free block numbers, a stack */
    int32_t  *node;                                   /* [n_slab * slab_blocks] of the tree, -1: none */
    int      n_spare, n_used, n_peak;
} kv_group;

/* A block's tokens behind those of its parent. Numbers of other nodes; -1: none. */
typedef struct {
    int32_t parent, child, left, right;               /* child: the first; left, right: its siblings */
    int32_t chain;                                    /* the next one of the same slot; of an unused node, the next unused */
    int32_t older, newer;                             /* among the idle */
    int32_t block;                                    /* -1: it has been taken away */
    int32_t stored;                                   /* where its keys and values are kept besides, -1: nowhere */
    bool    used;                                     /* in this run */
    int     pins;                                     /* sequences whose last known block this is */
    bool    ready;                                    /* the step that fills it has run */
} kv_node;

typedef struct {
    kv_node *node;                                    /* [cap]; 0 is the root, which has no tokens */
    int32_t *token;                                   /* [cap][block] */
    int32_t *slot;                                    /* [n_slot] a power of two: first of a chain */
    int32_t *fresh;                                   /* [n_fresh] nodes that are not ready */
    int      cap, n_slot, n_fresh, fresh_cap;
    int32_t  unused, oldest, newest;
    int      n_idle;
    uint64_t seed;
    bool   (*fetch)(void *ctx, int32_t stored, uint8_t *block);   /* brings what is kept elsewhere; false: it cannot be had */
    void    *fetch_ctx;
} kv_tree;

typedef struct {
    kv_opts   opts;
    kv_layer *layer;                                  /* [n_layer] */
    int       n_layer, hd_k, hd_v;
    int       spread_k, spread_v;                     /* runs of k_spread that K and V lie in, 1: as they are */
    kv_group *group;
    int       n_group;
    kv_tree  *tree;                                   /* NULL: nothing is shared by content */
} kv_cache;

typedef struct kv_seq {
    kv_cache *kv;
    int       n;                                      /* positions reserved: 0 <= p < n may be read and written */
    int32_t **table;                                  /* [n_group][cap] block numbers, -1: given back */
    int      *n_blocks, *cap, *first;                 /* [n_group] entries in use; room for; first one not given back */
    int       n_known;                                /* blocks that the tree knows, from the first on */
    int32_t   tip;                                    /* the node of the last of them, the root's without one */
    int       keep;                                   /* once the sequence is gone, positions below may stay for others */
} kv_seq;

enum { KV_SLAB_BYTES = 4 << 20 };

/* Blocks in slab number s: the last one may be short. */
static int kv__slab_blocks(const kv_group *gr, int s) {
    int left = gr->max_blocks - s * gr->slab_blocks;
    return left < gr->slab_blocks ? left : gr->slab_blocks;
}

static uint8_t *kv__block(const kv_group *gr, int32_t b) {
    return gr->slab[b / gr->slab_blocks] + (size_t)(b % gr->slab_blocks) * gr->block_bytes;
}

/* A quantised block has one scale: a channel far above the others, as trained models have, would leave next to nothing of them. */
static int kv__spread(uint32_t type, int hd) { return k_types[type].block > 1 ? k_spread_size(hd) : 1; }

/* max_tokens: positions that all sequences together may hold at once. NULL: the bound holds not even one block. */
static kv_cache *kv_new(const arch_hparams *hp, const kv_opts *o, int64_t max_tokens, err_t *e) {
    kv_cache *kv = mem_new(1, sizeof *kv);
    kv->opts = *o;
    kv->n_layer = hp->n_layer;
    kv->hd_k = hp->hd_k;
    kv->hd_v = hp->hd_v;
    kv->spread_k = kv__spread(o->type_k, hp->hd_k);
    kv->spread_v = kv__spread(o->type_v, hp->hd_v);
    kv->layer = mem_new((size_t)hp->n_layer, sizeof *kv->layer);
    kv->n_group = 1;                                  /* every layer of these architectures has the same window */
    kv->group = mem_new((size_t)kv->n_group, sizeof *kv->group);
    kv_group *gr = &kv->group[0];
    gr->window = hp->window;
    for (int il = 0; il < hp->n_layer; il++) {
        kv_layer *l = &kv->layer[il];
        l->n_head = hp->layer[il].n_head_kv;
        l->k_stride = k_kv_bytes(o->type_k, hp->hd_k);
        l->v_stride = k_kv_bytes(o->type_v, hp->hd_v);
        l->k_at = gr->block_bytes;
        l->v_at = l->k_at + (((size_t)l->n_head * (size_t)o->block * l->k_stride + 63) & ~(size_t)63);
        gr->block_bytes = l->v_at + (((size_t)l->n_head * (size_t)o->block * l->v_stride + 63) & ~(size_t)63);
    }
    int64_t most = (max_tokens - 1) / o->block + 1;
    if (o->max_blocks && most > o->max_blocks) most = o->max_blocks;
    if (o->mem_bytes && (uint64_t)most > o->mem_bytes / gr->block_bytes) most = (int64_t)(o->mem_bytes / gr->block_bytes);
    if (most < 1) {
        err_set(e, EXIT_RESOURCE, "a KV cache of %llu bytes, expected at least one block of %zu",
                (unsigned long long)o->mem_bytes, gr->block_bytes);
        mem_free(kv->group);
        mem_free(kv->layer);
        mem_free(kv);
        return NULL;
    }
    gr->max_blocks = most > INT32_MAX ? INT32_MAX : (int)most;
    gr->slab_blocks = gr->block_bytes < KV_SLAB_BYTES ? (int)(KV_SLAB_BYTES / gr->block_bytes) : 1;
    return kv;
}

/* Positions that one sequence alone may reach under the bound, and, in *rows, how many it may add at once: behind a window
 * the blocks of the window itself stay taken. */
static int kv_most(const kv_cache *kv, int *rows) {
    int64_t n = INT32_MAX, step = INT32_MAX;
    for (int i = 0; i < kv->n_group; i++) {
        const kv_group *gr = &kv->group[i];
        int64_t         all = (int64_t)gr->max_blocks * kv->opts.block, room = all - gr->window - kv->opts.block;
        if (gr->window && room > 0) step = room < step ? room : step;
        else n = all < n ? all : n;
    }
    *rows = (int)step;
    return (int)n;
}

static void kv_free(kv_cache *kv) {
    if (!kv) return;
    for (int i = 0; i < kv->n_group; i++) {
        kv_group *gr = &kv->group[i];
        for (int s = 0; s < gr->n_slab; s++) munmap(gr->slab[s], (size_t)kv__slab_blocks(gr, s) * gr->block_bytes);
        mem_free(gr->slab);
        mem_free(gr->refs);
        mem_free(gr->spare);
        mem_free(gr->node);
    }
    if (kv->tree) {
        void *own[] = {kv->tree->node, kv->tree->token, kv->tree->slot, kv->tree->fresh, kv->tree};
        for (size_t i = 0; i < sizeof own / sizeof *own; i++) mem_free(own[i]);
    }
    mem_free(kv->group);
    mem_free(kv->layer);
    mem_free(kv);
}

/* --- the tree of known blocks --- */

/* The slot of the node behind `parent` with these tokens. */
static int32_t *kv__slot(const kv_cache *kv, int32_t parent, const int32_t *ids) {
    const kv_tree *t = kv->tree;
    const bytes    b = {(const uint8_t *)ids, (size_t)kv->opts.block * sizeof *ids};
    return &t->slot[bytes_hash(t->seed ^ (uint64_t)parent, b) & (uint64_t)(t->n_slot - 1)];
}

static int32_t *kv__tokens(const kv_cache *kv, int32_t i) { return kv->tree->token + (size_t)i * (size_t)kv->opts.block; }

/* -1: there is none. */
static int32_t kv__find(const kv_cache *kv, int32_t parent, const int32_t *ids) {
    const size_t n = (size_t)kv->opts.block * sizeof *ids;
    for (int32_t i = *kv__slot(kv, parent, ids); i >= 0; i = kv->tree->node[i].chain)
        if (kv->tree->node[i].parent == parent && memcmp(kv__tokens(kv, i), ids, n) == 0) return i;
    return -1;
}

static void kv__tree_room(kv_cache *kv) {
    kv_tree  *t = kv->tree;
    const int cap = t->cap ? 2 * t->cap : 256;
    if (t->unused >= 0) return;
    t->node = mem_grow(t->node, (size_t)cap, sizeof *t->node);
    t->token = mem_grow(t->token, (size_t)cap * (size_t)kv->opts.block, sizeof *t->token);
    t->slot = mem_grow(t->slot, t->n_slot = (size_t)cap, sizeof *t->slot);
    for (int i = cap - 1; i >= t->cap; i--) {
        t->node[i].chain = t->unused;
        t->unused = i;
    }
    for (int i = 0; i < t->n_slot; i++) t->slot[i] = -1;
    for (int i = 1; i < t->cap; i++) {                /* all of them are in use */
        int32_t *slot = kv__slot(kv, t->node[i].parent, kv__tokens(kv, i));
        t->node[i].chain = *slot;
        *slot = i;
    }
    t->cap = cap;
}

static int32_t kv__node_new(kv_cache *kv, int32_t parent, const int32_t *ids) {
    kv_tree *t = kv->tree;
    kv__tree_room(kv);
    const int32_t i = t->unused, sibling = t->node[parent].child;
    t->unused = t->node[i].chain;
    memcpy(kv__tokens(kv, i), ids, (size_t)kv->opts.block * sizeof *ids);
    int32_t *slot = kv__slot(kv, parent, ids);
    t->node[i] = (kv_node){.parent = parent, .child = -1, .left = -1, .right = sibling, .chain = *slot,
                           .older = -1, .newer = -1, .block = -1, .stored = -1, .ready = true};
    if (sibling >= 0) t->node[sibling].left = i;
    t->node[parent].child = *slot = i;
    return i;
}

/* Forgets the node, and then its parents, while nothing is left of them. */
static void kv__prune(kv_cache *kv, int32_t i) {
    kv_tree *t = kv->tree;
    while (i > 0 && t->node[i].block < 0 && t->node[i].stored < 0 && t->node[i].child < 0 && !t->node[i].pins) {
        const kv_node n = t->node[i];
        int32_t      *at = kv__slot(kv, n.parent, kv__tokens(kv, i));
        while (*at != i) at = &t->node[*at].chain;
        *at = n.chain;
        if (n.left >= 0) t->node[n.left].right = n.right;
        else t->node[n.parent].child = n.right;
        if (n.right >= 0) t->node[n.right].left = n.left;
        t->node[i].chain = t->unused;
        t->unused = i;
        i = n.parent;
    }
}

static void kv__idle(kv_tree *t, int32_t i) {
    t->node[i].older = t->newest;
    t->node[i].newer = -1;
    if (t->newest >= 0) t->node[t->newest].newer = i;
    else t->oldest = i;
    t->newest = i;
    t->n_idle++;
}

static void kv__busy(kv_tree *t, int32_t i) {
    const kv_node n = t->node[i];
    if (n.older >= 0) t->node[n.older].newer = n.newer;
    else t->oldest = n.newer;
    if (n.newer >= 0) t->node[n.newer].older = n.older;
    else t->newest = n.older;
    t->n_idle--;
}

/* The tree lets go of the node's block: returns its number. */
static int32_t kv__forget(kv_cache *kv, int32_t i) {
    const int32_t b = kv->tree->node[i].block;
    kv->tree->node[i].block = -1;
    kv->group[0].node[b] = -1;
    kv__prune(kv, i);
    return b;
}

/* Blocks are known by their tokens from now on. */
static void kv_share(kv_cache *kv) {
    ASSERT(kv->n_group == 1 && !kv->group[0].n_slab);
    kv->tree = mem_new(1, sizeof *kv->tree);
    kv->tree->unused = kv->tree->oldest = kv->tree->newest = -1;
    kv->tree->seed = rng_mix(rng_fresh());
    kv__tree_room(kv);
    kv->tree->unused = kv->tree->node[0].chain;
    kv->tree->node[0] = (kv_node){.parent = -1, .child = -1, .left = -1, .right = -1, .chain = -1, .block = -1, .stored = -1, .ready = true};
}

/* The node behind another in a walk through the tree, parents first; 0 begins and ends it. */
static int32_t kv_next(const kv_tree *t, int32_t i) {
    if (t->node[i].child >= 0) return t->node[i].child;
    while (i > 0 && t->node[i].right < 0) i = t->node[i].parent;
    return i > 0 ? t->node[i].right : 0;
}

static const int32_t *kv_node_tokens(const kv_cache *kv, int32_t i) { return kv__tokens(kv, i); }
static const uint8_t *kv_bytes(const kv_cache *kv, int32_t b) { return kv__block(&kv->group[0], b); }

/* Who brings blocks that are kept elsewhere. */
static void kv_fetcher(kv_cache *kv, bool (*fetch)(void *ctx, int32_t stored, uint8_t *block), void *ctx) {
    kv->tree->fetch = fetch;
    kv->tree->fetch_ctx = ctx;
}

/* A block that is kept elsewhere (stored -1: gone, but others hang on it) behind node `parent`. Returns its node. */
static int32_t kv_know(kv_cache *kv, int32_t parent, const int32_t *ids, int32_t stored) {
    int32_t i = kv__find(kv, parent, ids);
    if (i < 0) i = kv__node_new(kv, parent, ids);
    kv->tree->node[i].stored = stored;
    return i;
}

/* --- blocks --- */

/* Another slab of spare blocks; false when the bound or the system's memory is reached. */
static bool kv__more(kv_group *gr) {
    int more = kv__slab_blocks(gr, gr->n_slab);
    if (more <= 0) return false;
    void *p = mmap(NULL, (size_t)more * gr->block_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return false;
    int32_t first = gr->n_slab * gr->slab_blocks;
    size_t  n = (size_t)(first + more);
    gr->slab = mem_grow(gr->slab, (size_t)gr->n_slab + 1, sizeof *gr->slab);
    gr->refs = mem_grow(gr->refs, n, sizeof *gr->refs);
    gr->spare = mem_grow(gr->spare, n, sizeof *gr->spare);
    gr->node = mem_grow(gr->node, n, sizeof *gr->node);
    memset(gr->refs + first, 0, (size_t)more * sizeof *gr->refs);
    gr->slab[gr->n_slab++] = p;
    for (int i = more - 1; i >= 0; i--) {
        gr->node[first + i] = -1;
        gr->spare[gr->n_spare++] = first + i;
    }
    return true;
}

/* A block with one reference: a spare one, or the one idle longest. -1: every block is held. */
static int32_t kv__take(kv_cache *kv, kv_group *gr) {
    int32_t b;
    if (gr->n_spare || kv__more(gr)) {
        b = gr->spare[--gr->n_spare];
        gr->n_used++;
    } else if (kv->tree && kv->tree->oldest >= 0) {
        const int32_t i = kv->tree->oldest;
        kv__busy(kv->tree, i);
        b = kv__forget(kv, i);
    } else return -1;
    gr->refs[b] = 1;
    if (gr->n_used > gr->n_peak) gr->n_peak = gr->n_used;
    return b;
}

/* One reference less. stay: a block that only the tree holds then is idle; else it is forgotten. */
static void kv__release(kv_cache *kv, kv_group *gr, int32_t b, bool stay) {
    if (b < 0) return;
    const int32_t i = gr->node[b];
    gr->refs[b]--;
    if (i >= 0 && gr->refs[b] == 1) {
        ASSERT(kv->tree->node[i].ready);
        if (stay) kv__idle(kv->tree, i);
        else kv__forget(kv, i), gr->refs[b] = 0;
    }
    if (gr->refs[b]) return;
    gr->spare[gr->n_spare++] = b;
    gr->n_used--;
}

/* Blocks that can still be had: spare, idle, or not yet mapped. */
static int64_t kv_room(const kv_cache *kv) {
    int64_t n = INT64_MAX;
    for (int i = 0; i < kv->n_group; i++) {
        const kv_group *gr = &kv->group[i];
        const int64_t   left = (int64_t)gr->max_blocks - gr->n_used + (kv->tree ? kv->tree->n_idle : 0);
        n = left < n ? left : n;
    }
    return n;
}

/* Blocks that sequences hold; peak: the most that were ever taken, idle ones among them. */
static int kv_held(const kv_cache *kv, int *peak) {
    *peak = kv->group[0].n_peak;
    return kv->group[0].n_used - (kv->tree ? kv->tree->n_idle : 0);
}

static kv_seq *kv_seq_new(kv_cache *kv) {
    kv_seq *s = mem_new(1, sizeof *s);
    s->kv = kv;
    s->keep = INT_MAX;
    if (kv->tree) kv->tree->node[0].pins++;
    s->table = mem_new((size_t)kv->n_group, sizeof *s->table);
    s->n_blocks = mem_new((size_t)kv->n_group, sizeof *s->n_blocks);
    s->first = mem_new((size_t)kv->n_group, sizeof *s->first);
    s->cap = mem_new((size_t)kv->n_group, sizeof *s->cap);
    return s;
}

/* Room for one more block in the table of group i. */
static void kv__table_room(kv_seq *s, int i) {
    if (s->n_blocks[i] < s->cap[i]) return;
    s->cap[i] = s->cap[i] ? 2 * s->cap[i] : 16;
    s->table[i] = mem_grow(s->table[i], (size_t)s->cap[i], sizeof **s->table);
}

/* The node of the sequence's last known block is another. */
static void kv__tip(kv_seq *s, int32_t i) {
    const int32_t old = s->tip;
    s->kv->tree->node[i].pins++;
    s->kv->tree->node[old].pins--;
    s->tip = i;
    kv__prune(s->kv, old);
}

/* Keeps positions 0 <= p < n and returns n; or 0, keeping nothing, when a window has already given back what the row at
 * position n would look at. */
static int kv_truncate(kv_seq *s, int n) {
    for (int i = 0; i < s->kv->n_group; i++) {
        const int window = s->kv->group[i].window;
        if (n < s->n && n && (int64_t)s->first[i] * s->kv->opts.block > (n >= window ? n + 1 - window : 0)) n = 0;
    }
    for (int i = 0; i < s->kv->n_group; i++) {
        int keep = n ? (n - 1) / s->kv->opts.block + 1 : 0;
        for (; s->n_blocks[i] > keep; s->n_blocks[i]--) {
            const bool stay = (int64_t)s->n_blocks[i] * s->kv->opts.block <= s->keep;
            kv__release(s->kv, &s->kv->group[i], s->table[i][s->n_blocks[i] - 1], stay);
        }
        if (s->first[i] > s->n_blocks[i]) s->first[i] = s->n_blocks[i];
    }
    if (n < s->n) s->n = n;
    for (; s->n_known > n / s->kv->opts.block; s->n_known--) kv__tip(s, s->kv->tree->node[s->tip].parent);
    return n;
}

static void kv_seq_free(kv_seq *s) {
    if (!s) return;
    kv_truncate(s, 0);
    if (s->kv->tree) s->kv->tree->node[s->tip].pins--;
    for (int i = 0; i < s->kv->n_group; i++) mem_free(s->table[i]);
    mem_free(s->table);
    mem_free(s->n_blocks);
    mem_free(s->cap);
    mem_free(s->first);
    mem_free(s);
}

/* A second sequence with the same past; both may grow apart. */
static kv_seq *kv_fork(const kv_seq *from) {
    kv_seq *s = kv_seq_new(from->kv);
    s->n = from->n;
    s->keep = from->keep;
    if (from->kv->tree) kv__tip(s, from->tip);
    s->n_known = from->n_known;
    for (int i = 0; i < s->kv->n_group; i++) {
        s->n_blocks[i] = s->cap[i] = from->n_blocks[i];
        s->first[i] = from->first[i];
        if (!s->cap[i]) continue;
        s->table[i] = mem_grow(NULL, (size_t)s->cap[i], sizeof **s->table);
        memcpy(s->table[i], from->table[i], (size_t)from->n_blocks[i] * sizeof **s->table);
        for (int b = s->first[i]; b < s->n_blocks[i]; b++)
            if (s->table[i][b] >= 0) s->kv->group[i].refs[s->table[i][b]]++;
    }
    return s;
}

/* Positions from s->n on are about to be written: the block that s->n falls into must be ours alone. Where there is none to copy
 * it to, the tree lets go of it. */
static bool kv__own_last(kv_seq *s, int i) {
    kv_group *gr = &s->kv->group[i];
    int       at = s->n / s->kv->opts.block;
    if (s->n % s->kv->opts.block == 0 || at >= s->n_blocks[i]) return true;
    int32_t old = s->table[i][at];
    ASSERT(old >= 0);
    if (gr->refs[old] == 1) return true;
    int32_t own = kv__take(s->kv, gr);
    if (own < 0 && gr->refs[old] == 2 && gr->node[old] >= 0 && s->kv->tree->node[gr->node[old]].ready) {
        kv__forget(s->kv, gr->node[old]);
        gr->refs[old] = 1;
        return true;
    }
    if (own < 0) return false;
    memcpy(kv__block(gr, own), kv__block(gr, old), gr->block_bytes);
    kv__release(s->kv, gr, old, true);
    s->table[i][at] = own;
    return true;
}

/* The sequence gives back its blocks of group i before `past`. */
static void kv__leave(kv_seq *s, int i, int past) {
    for (; s->first[i] < past; s->first[i]++) {
        const bool stay = (int64_t)(s->first[i] + 1) * s->kv->opts.block <= s->keep;
        kv__release(s->kv, &s->kv->group[i], s->table[i][s->first[i]], stay);
        s->table[i][s->first[i]] = -1;
    }
}

/* Blocks of one group for positions below n; gives back what the window of the rows from s->n on has left. */
static bool kv__grow(kv_seq *s, int i, int n) {
    const int block = s->kv->opts.block;
    kv_group *gr = &s->kv->group[i];
    if (!kv__own_last(s, i)) return false;
    if (gr->window) kv__leave(s, i, (s->n - gr->window) / block);
    for (int need = (n - 1) / block + 1; s->n_blocks[i] < need; s->n_blocks[i]++) {
        int32_t b = kv__take(s->kv, gr);
        if (b < 0) return false;
        kv__table_room(s, i);
        s->table[i][s->n_blocks[i]] = b;
    }
    return true;
}

/* Makes room for positions below n. False when the pool is exhausted: the sequence is as it was, and the caller frees or
 * truncates something. */
static bool kv_reserve(kv_seq *s, int n) {
    bool ok = true;
    if (n <= s->n) return true;
    for (int i = 0; ok && i < s->kv->n_group; i++) ok = kv__grow(s, i, n);
    if (ok) s->n = n;
    else kv_truncate(s, s->n);
    return ok;
}

/* The words where it is too small for n tokens at once; false. */
static bool kv_full(int n, err_t *e) {
    return err_set(e, EXIT_RESOURCE, "the KV cache has no room for %d tokens (--kv-mem, --kv-blocks)", n);
}

/* kv_reserve where nothing can be freed: false with the error in e. */
static bool kv_require(kv_seq *s, int n, err_t *e) { return kv_reserve(s, n) || kv_full(n, e); }

/* --- blocks shared by what they hold --- */

/* Whether the node has a block, or what is kept elsewhere has been brought into one, idle as yet. What cannot be had is forgotten. */
static bool kv__fetch(kv_cache *kv, int32_t i) {
    kv_tree  *t = kv->tree;
    kv_group *gr = &kv->group[0];
    if (t->node[i].block >= 0) return true;
    const int32_t b = t->node[i].stored < 0 ? -1 : kv__take(kv, gr);
    if (b < 0) return false;
    if (!t->fetch(t->fetch_ctx, t->node[i].stored, kv__block(gr, b))) {
        t->node[i].stored = -1;
        kv__release(kv, gr, b, false);
        kv__prune(kv, i);
        return false;
    }
    t->node[i].block = b;
    gr->node[b] = i;
    kv__idle(t, i);
    return true;
}

/* The next block of the sequence is the node's, of which `n` positions serve; i -1: none, it is behind every window. */
static bool kv__attach(kv_seq *s, int32_t i, int n) {
    kv_tree *t = s->kv->tree;
    if (i >= 0 && !kv__fetch(s->kv, i)) return false;
    const int32_t b = i < 0 ? -1 : t->node[i].block;
    kv__table_room(s, 0);
    s->table[0][s->n_blocks[0]++] = b;
    s->n += n;
    if (b < 0) {
        kv__leave(s, 0, s->n_blocks[0]);
        return true;
    }
    t->node[i].used = true;
    if (s->kv->group[0].refs[b]++ == 1) kv__busy(t, i);
    return true;
}

/* First block that the row at position n looks at. */
static int kv__seen(const kv_cache *kv, int n) {
    const int window = kv->group[0].window;
    return window && n > window ? (n - window) / kv->opts.block : 0;
}

/* The child of the tip whose tokens begin with the most of ids[0, n); -1: none begins with one of them. */
static int32_t kv__nearest(const kv_seq *s, const int32_t *ids, int n, int *same) {
    const kv_tree *t = s->kv->tree;
    int32_t        best = -1;
    *same = 0;
    if (n > s->kv->opts.block) n = s->kv->opts.block;
    for (int32_t i = t->node[s->tip].child; i >= 0; i = t->node[i].right) {
        const int32_t *mine = kv__tokens(s->kv, i);
        int            k = 0;
        if ((t->node[i].block < 0 && t->node[i].stored < 0) || !t->node[i].ready) continue;
        while (k < n && mine[k] == ids[k]) k++;
        if (k > *same) *same = k, best = i;
    }
    return best;
}

/* How many blocks of ids[0, n) can be taken over, of which the first `from` lead to node `tip`; *wait: the one behind them is being
 * computed. */
static int kv__match(const kv_cache *kv, int32_t tip, int from, const int32_t *ids, int n, bool *wait) {
    const int block = kv->opts.block;
    int       walked = from, last = from, gap = -1;   /* known blocks; of those, what can be taken over; the last one that has gone */
    *wait = false;
    for (int32_t i; (walked + 1) * block <= n && (i = kv__find(kv, tip, ids + walked * block)) >= 0; tip = i) {
        const kv_node *nd = &kv->tree->node[i];
        if (!nd->ready) {
            *wait = last == walked;
            break;
        }
        if (nd->block < 0 && nd->stored < 0) gap = walked;
        if (gap < kv__seen(kv, ++walked * block)) last = walked;
    }
    return last;
}

/* How many blocks a new sequence could take over for ids[0, n), and changes nothing. *cost: by how many kv_room() would fall. */
static int kv_match(const kv_cache *kv, const int32_t *ids, int n, int *cost) {
    bool      wait;
    const int block = kv->opts.block, last = kv->tree ? kv__match(kv, 0, 0, ids, n, &wait) : 0;
    int32_t   i = 0;
    *cost = 0;
    for (int at = 0; at < last; at++) {
        i = kv__find(kv, i, ids + at * block);
        const int32_t b = kv->tree->node[i].block;
        *cost += at >= kv__seen(kv, last * block) && (b < 0 || kv->group[0].refs[b] == 1);
    }
    return last;
}

/* Takes over what the tree knows of ids[0, n) behind what the sequence holds, whole blocks and then a part of one, which is copied
 * when it is written to. Returns the positions held then; *wait: the next block is being computed by somebody else. */
static int kv_adopt(kv_seq *s, const int32_t *ids, int n, bool *wait) {
    const int block = s->kv->opts.block, from = s->n_known;
    *wait = false;
    if (!s->kv->tree || s->n != from * block) return s->n;
    const int last = kv__match(s->kv, s->tip, from, ids, n, wait);
    for (int at = from; at < last; at++) {
        const int32_t i = kv__find(s->kv, s->tip, ids + at * block);
        if (i < 0 || !kv__attach(s, at < kv__seen(s->kv, last * block) ? -1 : i, block)) {
            *wait = false;                            /* fewer are to be had than were seen */
            return s->kv->group[0].window ? kv_truncate(s, from * block) : s->n;
        }
        kv__tip(s, i);
        s->n_known = at + 1;
    }
    if (*wait || n <= s->n) return s->n;
    int           same;
    const int32_t i = kv__nearest(s, ids + s->n, n - s->n, &same);
    if (i >= 0) kv__attach(s, i, same);
    return s->n;
}

/* The full blocks of ids[0, s->n) that the coming step completes: others wait for them. */
static void kv_claim(kv_seq *s, const int32_t *ids) {
    kv_tree  *t = s->kv->tree;
    const int block = s->kv->opts.block;
    for (; t && (s->n_known + 1) * block <= s->n; s->n_known++) {
        const int32_t *own = ids + s->n_known * block, b = s->table[0][s->n_known];
        int32_t        i = kv__find(s->kv, s->tip, own);
        if (i < 0) i = kv__node_new(s->kv, s->tip, own);
        t->node[i].used = true;
        if (t->node[i].block < 0 && b >= 0 && s->kv->group[0].node[b] < 0) {
            t->node[i].block = b;
            t->node[i].ready = false;
            s->kv->group[0].node[b] = i;
            s->kv->group[0].refs[b]++;
            if (t->n_fresh == t->fresh_cap) t->fresh = mem_grow(t->fresh, (size_t)(t->fresh_cap = 2 * t->fresh_cap + 64), sizeof *t->fresh);
            t->fresh[t->n_fresh++] = i;
        }
        kv__tip(s, i);
    }
}

/* After the step: what it was to fill is there, or (!done) is not and never was. */
static void kv_settle(kv_cache *kv, bool done) {
    for (kv_tree *t = kv->tree; t && t->n_fresh;) {
        const int32_t i = t->fresh[--t->n_fresh];
        t->node[i].ready = true;
        if (!done) kv->group[0].refs[kv__forget(kv, i)]--;
    }
}

/* Most blocks in any table of the sequence. */
static int kv_seq_blocks(const kv_seq *s) {
    int n = 0;
    for (int i = 0; i < s->kv->n_group; i++) n = s->n_blocks[i] > n ? s->n_blocks[i] : n;
    return n;
}

/* Fills k and v, [kv_seq_blocks()], with the first byte of `head` of layer `il` in each block; NULL: given back. */
static int kv_blocks(const kv_seq *s, int il, int head, const uint8_t **k, const uint8_t **v) {
    const kv_layer *l = &s->kv->layer[il];
    const kv_group *gr = &s->kv->group[l->group];
    const size_t    block = (size_t)s->kv->opts.block;
    for (int i = 0; i < s->n_blocks[l->group]; i++) {
        int32_t        b = s->table[l->group][i];
        const uint8_t *p = b < 0 ? NULL : kv__block(gr, b);
        k[i] = p ? p + l->k_at + (size_t)head * block * l->k_stride : NULL;
        v[i] = p ? p + l->v_at + (size_t)head * block * l->v_stride : NULL;
    }
    return s->n_blocks[l->group];
}

/* Stores K [n_head, hd_k] and V [n_head, hd_v] of one position of layer il. */
static void kv_store_at(const kv_seq *s, int il, int pos, const float *k, const float *v) {
    const kv_cache *kv = s->kv;
    const kv_layer *l = &kv->layer[il];
    const size_t    block = (size_t)kv->opts.block, at = (size_t)pos % block;
    uint8_t        *p = kv__block(&kv->group[l->group], s->table[l->group][(size_t)pos / block]);
    for (size_t h = 0; h < (size_t)l->n_head; h++) {
        k_kv_store(kv->opts.type_k, k + h * (size_t)kv->hd_k, p + l->k_at + (h * block + at) * l->k_stride, kv->hd_k);
        k_kv_store(kv->opts.type_v, v + h * (size_t)kv->hd_v, p + l->v_at + (h * block + at) * l->v_stride, kv->hd_v);
    }
}

/* Writes to every page of the blocks that hold positions from `from` on alone: what they held is lost, and a step that
 * stores there meets no page fault. */
static void kv_touch(kv_seq *s, int from) {
    const int block = s->kv->opts.block;
    for (int i = 0; i < s->kv->n_group; i++)
        for (int b = (from + block - 1) / block; b < s->n_blocks[i]; b++)
            if (s->table[i][b] >= 0) memset(kv__block(&s->kv->group[i], s->table[i][b]), 0, s->kv->group[i].block_bytes);
}

/* Bytes of blocks at the peak. */
static uint64_t kv_bytes_peak(const kv_cache *kv) {
    uint64_t n = 0;
    for (int i = 0; i < kv->n_group; i++) n += (uint64_t)kv->group[i].n_peak * kv->group[i].block_bytes;
    return n;
}

/* ===== [store] blocks of prompts in a file =====
 * What --prompt-cache keeps between runs: nodes of the cache's tree with their blocks, in a GGUF file of our own that is read
 * as any stranger's. Tensor `blocks` has a row for each node, parents first: the row of its parent, how many runs ago it was
 * last used, the row of its keys and values in tensor `data`, their hash, and its tokens.
 *   A file of another model, of another layout of blocks or of another version, and one whose directory does not have its
 * hash, is ignored with a word, and so is a block without its own. A file that is no prompt cache is never replaced. A block
 * is read when a prompt begins with it. Of two runs that write at once the last one's file stays, whole.
 * Door: store_open, store_close, store_save. */

enum { STORE_VERSION = 1, STORE_PARENT = 0, STORE_AGE, STORE_DATA, STORE_SUM, STORE_HEAD = 5, STORE_AGE_MAX = 1000 };

static const char store_arch[] = "prompt_cache", store_what[] = "prompt cache";

typedef struct store {
    kv_cache      *kv;
    const char    *path;
    char           mark[17];                          /* the model's fingerprint */
    str            layout;
    gguf_file      g;
    bool           open, strange;                     /* the file holds something we can use; it is no prompt cache and stays as it is */
    const int32_t *row;                               /* [n, STORE_HEAD + block] */
    int64_t        n;
    int32_t       *node;                              /* [n] of the tree */
    const uint8_t *data;                              /* [n_data, block bytes] */
} store;

static size_t store__row(const store *s) { return STORE_HEAD + (size_t)s->kv->opts.block; }

static uint64_t store__sum(const int32_t *row) { return (uint64_t)(uint32_t)row[STORE_SUM] | (uint64_t)(uint32_t)row[STORE_SUM + 1] << 32; }

/* The keys and values of row i, when they are what was written. */
static bool store__fetch(void *ctx, int32_t i, uint8_t *block) {
    const store   *s = ctx;
    const int32_t *row = s->row + (size_t)i * store__row(s);
    const size_t   n = s->kv->group[0].block_bytes;
    memcpy(block, s->data + (size_t)row[STORE_DATA] * n, n);
    if (bytes_hash(0, (bytes){block, n}) == store__sum(row)) return true;
    log_warn("%s: a block is damaged and not used", s->path);
    return false;
}

static bool store__word(const store *s, const char *key, const char *want, err_t *e) {
    bytes got = {0};
    if (gguf_get_str(&s->g, key, &got, e) == 1 && bytes_is(got, want)) return true;
    return err_set(e, EXIT_INPUT, "%s: %s differs", s->path, key);
}

/* Whether every row can be used as it stands. */
static bool store__rows_good(const store *s, int64_t n_data, int32_t n_vocab) {
    for (int64_t i = 0; i < s->n; i++) {
        const int32_t *row = s->row + (size_t)i * store__row(s);
        if (row[STORE_PARENT] < -1 || row[STORE_PARENT] >= i || row[STORE_AGE] < 0 || row[STORE_DATA] < -1 || row[STORE_DATA] >= n_data)
            return false;
        for (int k = 0; k < s->kv->opts.block; k++)
            if (row[STORE_HEAD + k] < 0 || row[STORE_HEAD + k] >= n_vocab) return false;
    }
    return true;
}

/* The file's tensors, when they are what this cache can take over. */
static bool store__bind(store *s, int32_t n_vocab, err_t *e) {
    const gguf_tensor *rows = gguf_tensor_find(&s->g, "blocks"), *data = gguf_tensor_find(&s->g, "data");
    char               sum[17];
    uint64_t           version = 0;
    if (gguf_get_u64(&s->g, "prompt_cache.version", 0, UINT32_MAX, &version, e) != 1 || version != STORE_VERSION)
        return err_set(e, EXIT_INPUT, "%s: no prompt cache of version %d", s->path, STORE_VERSION);
    if (!store__word(s, "prompt_cache.model", s->mark, e) || !store__word(s, "prompt_cache.layout", s->layout.p, e)) return false;
    if (!rows || !data || rows->type != K_I32 || data->type != K_I8 || rows->n_dims != 2 || data->n_dims != 2 ||
        rows->dim[0] != store__row(s) || data->dim[0] != s->kv->group[0].block_bytes || rows->dim[1] > INT32_MAX || data->dim[1] > INT32_MAX)
        return err_set(e, EXIT_INPUT, "%s: its tensors have other shapes", s->path);
    snprintf(sum, sizeof sum, "%016llx", (unsigned long long)bytes_hash(0, (bytes){rows->data, (size_t)rows->n_bytes}));
    if (!store__word(s, "prompt_cache.sum", sum, e)) return false;
    s->row = (const int32_t *)(const void *)rows->data;
    s->data = data->data;
    s->n = (int64_t)rows->dim[1];
    return store__rows_good(s, (int64_t)data->dim[1], n_vocab) || err_set(e, EXIT_INPUT, "%s: its directory is damaged", s->path);
}

/* What a block's bytes depend on beside the model and its tokens; "pairs" is the order in which attention sums. */
static void store__layout(store *s, const char *rope) {
    const kv_cache *kv = s->kv;
    str_fmt(&s->layout, "%s %s %d %zu pairs spread %d %d %s", k_types[kv->opts.type_k].name, k_types[kv->opts.type_v].name, kv->opts.block,
            kv->group[0].block_bytes, kv->spread_k, kv->spread_v, rope);
}

/* The cache knows the rows that store__bind() has found good. */
static void store__learn(store *s) {
    s->node = mem_new((size_t)s->n, sizeof *s->node);
    kv_fetcher(s->kv, store__fetch, s);
    for (int64_t i = 0; i < s->n; i++) {
        const int32_t *row = s->row + (size_t)i * store__row(s);
        s->node[i] = kv_know(s->kv, row[STORE_PARENT] < 0 ? 0 : s->node[row[STORE_PARENT]], row + STORE_HEAD,
                             row[STORE_DATA] < 0 ? -1 : (int32_t)i);
    }
}

/* Makes the cache, which shares blocks, know what the file at `path` holds. fingerprint: of the model; rope: what else decides about keys. */
static store *store_open(kv_cache *kv, const char *path, uint64_t fingerprint, const char *rope, int32_t n_vocab) {
    store *s = mem_new(1, sizeof *s);
    err_t  why = {0};
    s->kv = kv;
    s->path = path;
    snprintf(s->mark, sizeof s->mark, "%016llx", (unsigned long long)fingerprint);
    store__layout(s, rope);
    if (gguf_vacant(path)) return s;
    const bool open = gguf_open(&s->g, path, &why);
    s->strange = !open || !gguf_is_kind(&s->g, store_arch, store_what, &why);
    if (s->strange || !store__bind(s, n_vocab, &why)) {
        log_warn("%s; it is not used%s", why.text, s->strange ? ", and left as it is" : " and made anew");
        gguf_close(&s->g);
        return s;
    }
    s->open = true;
    store__learn(s);
    return s;
}

static void store_close(store *s) {
    if (!s) return;
    if (s->open) gguf_close(&s->g);
    mem_free(s->node);
    str_drop(&s->layout);
    mem_free(s);
}

/* --- writing --- */

typedef struct {
    store   *s;
    int32_t *at;                                      /* [n_tree] row of each node that has one */
    int32_t *order;                                   /* [n] nodes, parents first */
    int32_t *rows;                                    /* [n, STORE_HEAD + block] */
    int32_t  n, n_data;
    int32_t  oldest;                                  /* age up to which all blocks are kept */
    uint64_t more;                                    /* blocks that are kept of the next age */
} store__plan;

static int32_t store__age(const store *s, const kv_node *nd) {
    if (nd->used || nd->stored < 0) return 0;
    const int32_t age = s->row[(size_t)nd->stored * store__row(s) + STORE_AGE];
    return age < STORE_AGE_MAX ? age + 1 : STORE_AGE_MAX;
}

/* Bytes of the block of a node, from memory or from the old file; NULL: it has none. */
static const uint8_t *store__bytes(const store *s, const kv_node *nd) {
    if (nd->block >= 0) return kv_bytes(s->kv, nd->block);
    return nd->stored < 0 ? NULL : s->data + (size_t)s->row[(size_t)nd->stored * store__row(s) + STORE_DATA] * s->kv->group[0].block_bytes;
}

/* Which ages fit into so many bytes. */
static void store__bound(store__plan *p, uint64_t most) {
    const kv_tree *t = p->s->kv->tree;
    uint64_t      *n = mem_new(STORE_AGE_MAX + 1, sizeof *n);
    for (int32_t i = kv_next(t, 0); i > 0; i = kv_next(t, i))
        if (store__bytes(p->s, &t->node[i])) n[store__age(p->s, &t->node[i])]++;
    p->more = most / p->s->kv->group[0].block_bytes;
    for (p->oldest = -1; p->oldest < STORE_AGE_MAX && n[p->oldest + 1] <= p->more; p->oldest++) p->more -= n[p->oldest + 1];
    mem_free(n);
}

/* Whether the block of a node is kept; asked once of each, parents first. */
static bool store__stays(store__plan *p, const kv_node *nd) {
    const int32_t age = store__bytes(p->s, nd) ? store__age(p->s, nd) : INT32_MAX;
    if (age <= p->oldest) return true;
    if (age > p->oldest + 1 || !p->more) return false;
    p->more--;
    return true;
}

static uint64_t store__sum_of(const store *s, const kv_node *nd) {
    if (nd->block < 0) return store__sum(s->row + (size_t)nd->stored * store__row(s));
    return bytes_hash(0, (bytes){kv_bytes(s->kv, nd->block), s->kv->group[0].block_bytes});
}

/* The next row is node i's. */
static void store__add(store__plan *p, int32_t i, bool data) {
    const store   *s = p->s;
    const kv_node *nd = &s->kv->tree->node[i];
    const uint64_t sum = data ? store__sum_of(s, nd) : 0;
    int32_t       *row = p->rows + (size_t)p->n * store__row(s);
    row[STORE_PARENT] = nd->parent > 0 ? p->at[nd->parent] : -1;
    row[STORE_AGE] = store__age(s, nd);
    row[STORE_DATA] = data ? p->n_data++ : -1;
    row[STORE_SUM] = (int32_t)(uint32_t)sum;
    row[STORE_SUM + 1] = (int32_t)(uint32_t)(sum >> 32);
    memcpy(row + STORE_HEAD, kv_node_tokens(s->kv, i), (size_t)s->kv->opts.block * sizeof *row);
    p->order[p->n] = i;
    p->at[i] = p->n++;
}

/* Rows for the nodes whose blocks are kept, and for those that lead to one. */
static void store__choose(store__plan *p) {
    const kv_tree *t = p->s->kv->tree;
    bool          *stays = mem_new((size_t)t->cap, sizeof *stays), *leads = mem_new((size_t)t->cap, sizeof *leads);
    for (int32_t i = kv_next(t, 0); i > 0; i = kv_next(t, i)) {
        stays[i] = store__stays(p, &t->node[i]);
        for (int32_t k = i; stays[i] && k > 0 && !leads[k]; k = t->node[k].parent) leads[k] = true;
    }
    for (int32_t i = kv_next(t, 0); i > 0; i = kv_next(t, i))
        if (leads[i]) store__add(p, i, stays[i]);
    mem_free(stays);
    mem_free(leads);
}

static bool store__write(store__plan *p, err_t *e) {
    store         *s = p->s;
    gguf_writer    w;
    const size_t   each = s->kv->group[0].block_bytes;
    const uint64_t rows[2] = {store__row(s), (uint64_t)p->n}, data[2] = {each, (uint64_t)p->n_data};
    const bytes    all = {(const uint8_t *)p->rows, (size_t)p->n * store__row(s) * sizeof *p->rows};
    char           sum[17];
    if (!gguf_write_start(&w, s->path, 64, NULL, e)) return false;
    snprintf(sum, sizeof sum, "%016llx", (unsigned long long)bytes_hash(0, all));
    gguf_write_str(&w, "general.architecture", bytes_of(store_arch));
    gguf_write_u32(&w, "general.alignment", 64);
    gguf_write_u32(&w, "prompt_cache.version", STORE_VERSION);
    gguf_write_str(&w, "prompt_cache.model", bytes_of(s->mark));
    gguf_write_str(&w, "prompt_cache.layout", str_bytes(&s->layout));
    gguf_write_str(&w, "prompt_cache.sum", bytes_of(sum));
    gguf_write_tensor(&w, bytes_of("blocks"), K_I32, 2, rows);
    gguf_write_tensor(&w, bytes_of("data"), K_I8, 2, data);
    bool ok = gguf_write_data(&w, all.p, all.n, e);
    for (int32_t i = 0; ok && i < p->n; i++) {
        const bool has = p->rows[(size_t)i * store__row(s) + STORE_DATA] >= 0;
        ok = !has || gguf_write_data(&w, store__bytes(s, &s->kv->tree->node[p->order[i]]), each, e);
    }
    if (ok) return gguf_write_finish(&w, e);
    gguf_write_drop(&w);
    return false;
}

/* Writes what the cache knows by now, the blocks used last where `most` bytes do not hold all. Nothing is written when nothing is new. */
static bool store_save(store *s, uint64_t most, err_t *e) {
    const kv_tree *t = s->kv->tree;
    bool           news = false;
    int32_t        n = 0;
    for (int32_t i = kv_next(t, 0); i > 0; i = kv_next(t, i), n++) news = news || (t->node[i].block >= 0 && t->node[i].stored < 0);
    if (!news || s->strange || !gguf_may_replace(s->path, store_arch, store_what)) return true;
    store__plan p = {.s = s};
    p.at = mem_new((size_t)t->cap, sizeof *p.at);
    p.order = mem_new((size_t)n, sizeof *p.order);
    p.rows = mem_new((size_t)n * store__row(s), sizeof *p.rows);
    store__bound(&p, most);
    store__choose(&p);
    const bool ok = !p.n_data || store__write(&p, e);
    mem_free(p.at);
    mem_free(p.order);
    mem_free(p.rows);
    return ok;
}

/* ===== [dev] the device that runs a step =====
 * The one seam between the step and what executes it. On the CPU every thread of the pool calls each operation with
 * the same arguments. An operation first waits until all threads are done with the one before, then deals its tasks through the pool,
 * so the step reads like straight code; one that has a single task for whoever comes last to that barrier costs no barrier
 * of its own. How the tasks fall never changes a result: each output is summed by one thread in one order.
 * Door: dev_blas_open, dev_blas_on, dev_begin, dev_end, dev_rows, dev_wants, dev_form, dev_watch, dev_matmul, dev_soon and the types they take. */

enum { DEV_STAGES = 8 };                              /* kinds of operations that are told apart where time is counted */

typedef struct {                                      /* seconds, summed over steps */
    double all[DEV_STAGES], wait[DEV_STAGES];         /* of a stage; of that, waiting for the other threads */
    double at;                                        /* until when all is counted */
    _Atomic double single;                            /* what a single task took, whoever did it */
    long long steps;
} dev_times;

typedef struct {
    pool  *p;
    int    ith;                                       /* this thread */
    void  *scratch;                                   /* this thread's, big enough for every operation */
    const struct dev_tap *tap;                        /* who watches the products, NULL: nobody */
    dev_times *times;                                 /* NULL: nobody counts */
    int    stage;                                     /* what the operations to come are counted as */
    int    open;                                      /* 1 + the stage of the operation that others may be at; 0: none */
} dev;

/* One task for one thread. */
typedef struct {
    void (*fn)(void *ctx, int r);
    void *ctx;
    dev_times *times;
} dev_single;

static void dev__single(void *ctx) {
    const dev_single *one = ctx;
    const double      t0 = one->times ? clock_now() : 0;
    one->fn(one->ctx, 0);
    if (one->times) one->times->single = clock_now() - t0;
}

/* Waits for the operation before; `one`, if any, is then done by whoever was last. The leading thread counts. */
static void dev__close(dev *dv, dev_single *one) {
    dev_times   *t = dv->ith ? NULL : dv->times;
    const int    was = dv->open - 1;
    const double t0 = t ? clock_now() : 0;
    if (was < 0) return;
    dv->open = 0;
    if (t) t->single = 0;
    pool_barrier_then(dv->p, one ? dev__single : NULL, one);
    if (!t) return;
    const double now = clock_now(), single = t->single;
    t->all[dv->stage] += single;
    t->all[was] += now - t->at - single;
    t->wait[was] += now - t0 - single;
    t->at = now;
}

/* After the last operation, which job's end waits for too: it is counted. */
static void dev_end(dev *dv) { dev__close(dv, NULL); }

/* Before the tasks of an operation. */
static void dev_begin(dev *dv) {
    dev__close(dv, NULL);
    dv->open = dv->stage + 1;
}

/* cblas_sgemm of OpenBLAS, NULL unless dev_blas_open() found it. It sums in an order of its own that depends on the
 * batch, so it runs only where it is asked for. */
typedef void      dev_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                            const float *b, int ldb, float beta, float *c, int ldc);
static dev_sgemm *g_sgemm;

enum {
    DEV_BLAS_ROWS = 8,                                /* fewer activation rows are our own kernels' */
    DEV_SOON = 32768,                                 /* bytes of weights that are fetched while a thread waits */
};

/* Looks for OpenBLAS on this machine; one thread of it per thread of ours, and none of its own. */
static bool dev_blas_open(err_t *e) {
#if LLMRUN_BLAS
    static const char *const names[] = {"libopenblas.so.0", "libopenblas.so"};
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    for (int i = 0; i < 2 && !g_sgemm; i++) {
        void *lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (lib) *(void **)&g_sgemm = dlsym(lib, "cblas_sgemm");
    }
    return g_sgemm || err_set(e, EXIT_INPUT, "--blas: no libopenblas.so.0 on this machine (Debian: libopenblas0)");
#else
    return err_set(e, EXIT_INPUT, "--blas: this binary was built with BLAS=0");
#endif
}

static bool dev_blas_on(void) { return g_sgemm != NULL; }

/* Activations of one batch: float rows and the forms of them that dev_form() fills where a matrix wants one. The second
 * half of the quantised rows is for what rows with outliers lose. */
typedef struct {
    float   *x;                                       /* [rows, ldx] */
    uint16_t *h;                                      /* [rows, ldx] rounded to bf16 */
    int8_t  *q;                                       /* [2 * rows, ldq] */
    k_sums  *sum;                                     /* [2 * rows, ldq / 256] */
    float   *d;                                       /* [2 * rows, ldq / 256] */
    uint8_t *split;                                   /* [rows] whether the second half has a part of this one */
    int      rows;
    size_t   ldx, ldq;                                /* ldq is a multiple of 256 */
} dev_acts;

static k_acts dev__view(const dev_acts *a, const int32_t *idx, int first, int n) {
    const size_t at = idx ? 0 : (size_t)first;
    return (k_acts){.x = a->x + at * a->ldx,
                    .ldx = a->ldx,
                    .h = a->h + at * a->ldx,
                    .q = a->q + at * a->ldq,
                    .ldq = a->ldq,
                    .sum = a->sum + at * (a->ldq / 256),
                    .d = a->d + at * (a->ldq / 256),
                    .ldd = a->ldq / 256,
                    .split = a->split + at,
                    .rest = a->rows,
                    .idx = idx ? idx + first : NULL,
                    .nt = n};
}

/* The form that a matrix wants, as a bit; 0: the model has none. */
static unsigned dev_wants(const arch_mat *w) { return w->data ? 1u << k_act_of(w->type) : 0; }

/* The wanted forms of row r, n values. */
static void dev_form(const dev_acts *a, int r, int n, unsigned wanted) {
    const float *x = a->x + (size_t)r * a->ldx;
    if (wanted & 1u << K_ACT_BF16) k_kv_store(K_BF16, x, a->h + (size_t)r * a->ldx, n);
    if (wanted & 1u << K_ACT_I8)
        a->split[r] = k_quant_act(x, n, a->q + (size_t)r * a->ldq, a->sum + (size_t)r * (a->ldq / 256),
                                  a->d + (size_t)r * (a->ldq / 256), a->ldq, a->rows);
}

/* fn(ctx, r) for each of n rows. */
static void dev_rows(dev *dv, int n, void (*fn)(void *ctx, int r), void *ctx) {
    if (n == 1 && dv->open) {
        dev__close(dv, &(dev_single){fn, ctx, dv->times});
        return;
    }
    dev_begin(dv);
    for (int r; (r = pool_next(dv->p)) < n;) fn(ctx, r);
}

/* One product of a list: y[t, :] = w . a[idx ? idx[first + t] : first + t, :] for t < n. */
typedef struct {
    const arch_mat *w;
    int             stack;                            /* which matrix of a stack */
    const dev_acts *a;
    const int32_t  *idx;
    int             first, n;
    float          *y;
    size_t          ldy;
} dev_product;

/* Who sees every list of products, with the float rows they take, before one of them is computed. All threads make the
 * call; it deals its work as a stage does and ends with a barrier. */
typedef struct dev_tap {
    void (*fn)(void *ctx, dev *dv, const dev_product *list, int n);
    void  *ctx;
} dev_tap;

static void dev_watch(dev *dv, const dev_product *list, int n) {
    dev__close(dv, NULL);
    if (dv->tap) dv->tap->fn(dv->tap->ctx, dv, list, n);
}

/* Rows per task: as many as the kernels like, but enough tasks that a slow thread is not waited for. */
static int dev__task_rows(const dev *dv, const dev_product *m) {
    int step = k_rows_step(m->w->type, m->n), rows = m->w->n_out / (8 * dv->p->n);
    rows -= rows % step;
    return rows < step ? step : rows > 512 && 512 % step == 0 ? 512 : rows;
}

/* Where the weights of row r lie. */
static const uint8_t *dev__at(const dev_product *m, int r) {
    const arch_mat *w = m->w;
    return w->packed ? w->packed + (size_t)m->stack * w->packed_bytes + k_pack_at(w->type, r, w->n_in)
                     : w->data + (size_t)m->stack * w->mat_bytes + (size_t)r * w->row_bytes;
}

/* Rows [r, r + nr) of one product. */
static void dev__mul(const dev *dv, const dev_product *m, int r, int nr) {
    const arch_mat *w = m->w;
    const uint8_t  *data = dev__at(m, r);
    const k_acts    a = dev__view(m->a, m->idx, m->first, m->n);
    if (w->packed) k_mul_packed(w->type, data, nr, w->n_in, &a, m->y + r, m->ldy, dv->scratch);
    else if (g_sgemm && w->type == K_F32 && m->n >= DEV_BLAS_ROWS && !m->idx)
        g_sgemm(101, 111, 112, m->n, nr, w->n_in, 1.0f, a.x, (int)a.ldx, (const float *)(const void *)data, w->n_in, 0.0f,
                m->y + r, (int)m->ldy);
    else
        k_mul_rows(w->type, data, w->row_bytes, nr, w->n_in, &a, m->y + r, m->ldy, dv->scratch);
    for (int t = 0; w->scale && t < m->n; t++) k_scale(m->y + (size_t)t * m->ldy + r, w->scale[m->stack], nr);
}

static int dev__tasks(const dev *dv, const dev_product *m) {
    if (m->n <= 0) return 0;
    const int step = dev__task_rows(dv, m);
    return (m->w->n_out + step - 1) / step;
}

/* Tasks of a list, which are numbered product by product. */
static int dev__all_tasks(const dev *dv, const dev_product *list, int n_list) {
    int n = 0;
    for (int i = 0; i < n_list; i++) n += dev__tasks(dv, &list[i]);
    return n;
}

/* The product that a task is of; *task becomes its number in there. Products are looked for from *i on, where *base tasks are
 * before it. */
static const dev_product *dev__find(const dev *dv, const dev_product *list, int *i, int *base, int *task) {
    if (*task < *base) *i = *base = 0;                /* one of another thread's */
    for (int n; *task >= *base + (n = dev__tasks(dv, &list[*i])); ++*i) *base += n;
    *task -= *base;
    return &list[*i];
}

/* All products of the list, as one pile of tasks. */
static void dev_matmul(dev *dv, const dev_product *list, int n_list) {
    dev_watch(dv, list, n_list);
    dev_begin(dv);
    if (!pool_works()) return;
    const int n = dev__all_tasks(dv, list, n_list);
    for (int task, i = 0, base = 0; (task = pool_take(dv->p, n)) != POOL_NONE;) {
        const dev_product *m = dev__find(dv, list, &i, &base, &task);
        const int          step = dev__task_rows(dv, m), r = task * step;
        dev__mul(dv, m, r, m->w->n_out - r < step ? m->w->n_out - r : step);
    }
}

/* The list is the next that will be multiplied: while this thread waits, it fetches the first weights of its share. */
static void dev_soon(const dev *dv, const dev_product *list, int n_list) {
    if (!pool_works()) return;
    const int n = dev__all_tasks(dv, list, n_list);
    int       task = pool_share(dv->p, n, dv->ith), i = 0, base = 0;
    if (task >= n) return;
    const dev_product *m = dev__find(dv, list, &i, &base, &task);
    pool_soon(dev__at(m, task * dev__task_rows(dv, m)), DEV_SOON);
}

/* ===== [fwd] one step over a batch of (sequence, position, token) rows =====
 * The only forward pass: prefill chunks, decode, batches and verification are different lists of rows. Rows of one
 * sequence stand together in rising position. Each row's result depends on its own past alone, to the last bit.
 *   In the last layer only rows that ask for logits go on past K and V. A watched step (tap) takes every row through every
 * layer, shows its watcher the last product too and leaves that one uncomputed: it has no logits.
 *   Where a step's time goes is counted, stage by stage, when f->times says where to; by the leading thread alone.
 * Door: fwd_bytes, fwd_row_bytes, fwd_new, fwd_free, fwd_trim, fwd_step, fwd_stage_names. */

typedef enum { FWD_EMBED, FWD_NORM, FWD_QKV, FWD_CACHE, FWD_ATTN, FWD_WO, FWD_FFN, FWD_HEAD, FWD_STAGES } fwd_stage;

_Static_assert((int)FWD_STAGES <= DEV_STAGES, "times have room for every stage");
static const char *const fwd_stage_names[FWD_STAGES] = {
    [FWD_EMBED] = "embed", [FWD_NORM] = "norm",      [FWD_QKV] = "qkv", [FWD_CACHE] = "rope, cache",
    [FWD_ATTN] = "attention", [FWD_WO] = "wo", [FWD_FFN] = "ffn", [FWD_HEAD] = "head",
};

typedef struct {
    int32_t token;
    int     pos;
    kv_seq *seq;                                      /* positions <= pos are reserved */
    bool    logits;                                   /* this row asks for logits */
} fwd_row;

/* Rows of a step, by number, and where each run of rows of one sequence starts among them: an attention task's rows. */
typedef struct {
    int      n, n_run;
    int32_t *row;                                     /* [B] */
    int     *run;                                     /* [B+1] */
} fwd_rows;

/* One step's rows and scratch. All of it is allocated once. */
typedef struct {
    const model *m;
    pool        *p;
    kv_cache    *kv;
    const dev_tap *tap;                               /* who watches, NULL: nobody */
    void (*on_layer)(void *ctx, int il, int n_layer); /* called by thread 0 as it enters a layer; NULL: not called */
    void *on_layer_ctx;
    dev_times   *times;                               /* where time is counted, NULL: nowhere */
    int          max_rows, max_out;
    int          n_vocab;                             /* V, or fewer: logits of the first tokens alone */
    void       **scratch;                             /* [threads] for kernels */
    const uint8_t ***blocks;                          /* [threads][2 * n_blocks] block views for attention */
    int          n_blocks;
    k_attn_row **attn_rows;                           /* [threads][FWD_ATTN_ROWS * most heads per group] */

    const fwd_row *row;                               /* [B] the rows of this step */
    int            n_rows;
    fwd_rows       every, asking;                     /* all of them; those that ask for logits */

    float    *x, *xs;                                 /* [B, D] residual stream; that of the selected rows */
    float    *cs;                                     /* [B, n_rot] cos, sin of each pair */
    dev_acts  xn;                                     /* [B, D] normed input of a matrix */
    float    *q, *k, *v;                              /* [B, H*HD], [B, G*HD], [B, G*HD] */
    dev_acts  att;                                    /* [B, H*HD] attention output */
    float    *y;                                      /* [B, D] what a block adds to the stream */
    dev_acts  ff;                                     /* [B * experts used, F] activated feed-forward */
    float    *up;                                     /* the same shape */

    float    *score;                                  /* [B, E] router logits, then weights */
    int32_t  *slot_row, *slot_of;                     /* [B*K] slots sorted by expert: their row; slot of (row, rank) */
    int32_t  *pick;                                   /* [B, K] chosen experts by falling weight */
    float    *weight;                                 /* [B, K] */
    float    *moe;                                    /* [B*K, D] */
    float    *shexp;                                  /* [B] gate of the shared expert */
    int      *expert_at;                              /* [E+1] first slot of each expert */
    dev_product *products;                            /* [3E] */

    float    *logits;                                 /* [n_out, V] of the last step */
    size_t    bytes;                                  /* of all that was taken for it */
    bool      counting;                               /* bytes are counted, nothing is taken */
    _Atomic bool stop;                                /* an interrupt came between two layers */
} fwd;

/* Where a thread is in a step: its layer, and the rows that go past K and V there. */
typedef struct {
    fwd              *f;
    int               il;
    const arch_layer *l;
    const fwd_rows   *on;
} fwd_at;

enum { FWD_ATTN_ROWS = 32 };                          /* positions of one attention task */

/* Values between two rows of n: a multiple of `unit`, and no multiple of 1 KB, or the rows of a tile would share few sets of a cache. */
static size_t fwd__stride(int n, size_t unit, size_t size) {
    const size_t ld = ((size_t)n + unit - 1) / unit * unit;
    return ld * size % 1024 ? ld : ld + unit;
}

/* n elements of the step's scratch, aligned; NULL where it only counts. */
static void *fwd__take(fwd *f, size_t n, size_t each) {
    f->bytes += mem_size(n, each);
    return f->counting ? NULL : mem_aligned(n, each);
}

/* The same, zeroed. */
static void *fwd__zeros(fwd *f, size_t n, size_t each) {
    f->bytes += mem_size(n, each);
    return f->counting ? NULL : mem_new(n, each);
}

static dev_acts fwd__acts(fwd *f, size_t rows, int n) {
    dev_acts a = {.ldx = fwd__stride(n, 16, sizeof *a.x), .ldq = fwd__stride(n, 256, sizeof *a.q), .rows = (int)rows};
    a.x = fwd__take(f, rows * a.ldx, sizeof *a.x);
    a.h = fwd__take(f, rows * a.ldx, sizeof *a.h);
    a.q = fwd__take(f, 2 * rows * a.ldq, sizeof *a.q);
    a.sum = fwd__take(f, 2 * rows * (a.ldq / 256), sizeof *a.sum);
    a.d = fwd__take(f, 2 * rows * (a.ldq / 256), sizeof *a.d);
    a.split = fwd__zeros(f, rows, sizeof *a.split);
    return a;
}

static void fwd__acts_drop(dev_acts *a) {
    mem_free(a->x);
    mem_free(a->h);
    mem_free(a->q);
    mem_free(a->sum);
    mem_free(a->d);
    mem_free(a->split);
}

static int fwd__max_layer(const arch_hparams *hp, arch_size d) {
    int64_t n = 0;
    for (int il = 0; il < hp->n_layer; il++)
        if (arch_dim(hp, d, il) > n) n = arch_dim(hp, d, il);
    return (int)n;
}

static void fwd__new_experts(fwd *f, size_t B) {
    const arch_hparams *hp = &f->m->hp;
    const size_t        K = (size_t)hp->n_expert_used, E = (size_t)hp->n_expert;
    f->score = fwd__take(f, B * E, sizeof *f->score);
    f->slot_row = fwd__zeros(f, B * K, sizeof *f->slot_row);
    f->slot_of = fwd__zeros(f, B * K, sizeof *f->slot_of);
    f->pick = fwd__zeros(f, B * K, sizeof *f->pick);
    f->weight = fwd__zeros(f, B * K, sizeof *f->weight);
    f->moe = fwd__take(f, B * K * (size_t)hp->n_embd, sizeof *f->moe);
    f->shexp = fwd__zeros(f, B, sizeof *f->shexp);
    f->expert_at = fwd__zeros(f, E + 1, sizeof *f->expert_at);
    f->products = fwd__zeros(f, 3 * E, sizeof *f->products);
}

static void fwd__new_rows(fwd *f, fwd_rows *to, size_t n) {
    to->row = fwd__zeros(f, n, sizeof *to->row);
    to->run = fwd__zeros(f, n + 1, sizeof *to->run);
}

/* What each thread has for itself. */
static void fwd__new_threads(fwd *f, int n_threads) {
    const arch_hparams *hp = &f->m->hp;
    int                 group = 1;
    for (int il = 0; il < hp->n_layer; il++) {
        int g = hp->layer[il].n_head / hp->layer[il].n_head_kv;
        if (g > group) group = g;
    }
    const size_t need = k_scratch_bytes(f->m->n_in_max), attn = k_attn_scratch(FWD_ATTN_ROWS * group, hp->hd_k, hp->hd_v);
    f->scratch = fwd__zeros(f, (size_t)n_threads, sizeof *f->scratch);
    f->blocks = fwd__zeros(f, (size_t)n_threads, sizeof *f->blocks);
    f->attn_rows = fwd__zeros(f, (size_t)n_threads, sizeof *f->attn_rows);
    for (int i = 0; i < n_threads; i++) {
        void       *scratch = fwd__take(f, need > attn ? need : attn, 1);
        k_attn_row *rows = fwd__zeros(f, (size_t)FWD_ATTN_ROWS * (size_t)group, sizeof *rows);
        if (f->counting) continue;
        f->scratch[i] = scratch;
        f->attn_rows[i] = rows;
    }
}

/* All buffers of a step, taken or counted. */
static void fwd__fill(fwd *f, int n_threads) {
    const arch_hparams *hp = &f->m->hp;
    const size_t        B = (size_t)f->max_rows, D = (size_t)hp->n_embd, slots = B * (hp->n_expert ? (size_t)hp->n_expert_used : 1);
    int                 F = hp->n_expert ? hp->n_ff_exp : fwd__max_layer(hp, D_FF);
    if (hp->n_ff_shexp > F) F = hp->n_ff_shexp;
    fwd__new_threads(f, n_threads);
    fwd__new_rows(f, &f->every, B);
    fwd__new_rows(f, &f->asking, B);
    f->x = fwd__take(f, B * D, sizeof *f->x);
    f->xs = fwd__take(f, B * D, sizeof *f->xs);
    f->y = fwd__take(f, B * D, sizeof *f->y);
    f->cs = fwd__take(f, B * (size_t)hp->n_rot, sizeof *f->cs);
    f->xn = fwd__acts(f, B, hp->n_embd);
    f->q = fwd__take(f, B * (size_t)fwd__max_layer(hp, D_Q), sizeof *f->q);
    f->k = fwd__take(f, B * (size_t)fwd__max_layer(hp, D_K), sizeof *f->k);
    f->v = fwd__take(f, B * (size_t)fwd__max_layer(hp, D_V), sizeof *f->v);
    f->att = fwd__acts(f, B, fwd__max_layer(hp, D_O));
    f->ff = fwd__acts(f, slots, F);
    f->up = fwd__take(f, slots * f->ff.ldx, sizeof *f->up);
    if (hp->n_expert) fwd__new_experts(f, B);
    f->logits = fwd__take(f, (size_t)f->max_out * (size_t)hp->n_vocab, sizeof *f->logits);
}

/* Bytes that fwd_new() takes, of which the logits are max_out x V floats. */
static size_t fwd_bytes(const model *m, int n_threads, int max_rows, int max_out) {
    fwd f = {.m = m, .max_rows = max_rows, .max_out = max_out, .counting = true};
    fwd__fill(&f, n_threads);
    return f.bytes;
}

/* Bytes of scratch for each row of a step. */
static size_t fwd_row_bytes(const model *m) { return fwd_bytes(m, 1, 2, 1) - fwd_bytes(m, 1, 1, 1); }

/* max_rows: most rows of a step; max_out: most of them that ask for logits. */
static fwd *fwd_new(const model *m, kv_cache *kv, pool *p, int max_rows, int max_out) {
    fwd *f = mem_new(1, sizeof *f);
    f->m = m;
    f->p = p;
    f->kv = kv;
    f->max_rows = max_rows;
    f->max_out = max_out;
    f->n_vocab = m->hp.n_vocab;
    fwd__fill(f, p->n);
    return f;
}

static void fwd_free(fwd *f) {
    if (!f) return;
    for (int i = 0; i < f->p->n; i++) {
        mem_free(f->scratch[i]);
        mem_free(f->blocks[i]);
        mem_free(f->attn_rows[i]);
    }
    fwd__acts_drop(&f->xn);
    fwd__acts_drop(&f->att);
    fwd__acts_drop(&f->ff);
    void *own[] = {f->scratch, f->blocks, f->attn_rows, f->every.row, f->every.run, f->asking.row, f->asking.run, f->x, f->xs, f->y,
                   f->cs,      f->q,      f->k,         f->v,     f->up,        f->score,    f->slot_row, f->slot_of,
                   f->pick,    f->weight, f->moe,       f->shexp, f->expert_at, f->products, f->logits};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) mem_free(own[i]);
    mem_free(f);
}

/* --- row tasks: each thread takes a row --- */

static void fwd__norm_rows(fwd *f, const float *x, const float *w, int r, unsigned wanted) {
    const int n = f->m->hp.n_embd;
    k_rms_norm(x + (size_t)r * (size_t)n, w, f->m->hp.eps, n, f->xn.x + (size_t)r * f->xn.ldx);
    dev_form(&f->xn, r, n, wanted);
}

/* Row r is ready for layer l. */
static void fwd__attn_norm(fwd *f, const arch_layer *l, int r) {
    if (r == 0 && g_interrupt) atomic_store_explicit(&f->stop, true, memory_order_relaxed);
    fwd__norm_rows(f, f->x, l->attn_norm, r, dev_wants(&l->wq) | dev_wants(&l->wk) | dev_wants(&l->wv));
}

/* The embedding of the row's token, and the angles of its position. */
static void fwd__embed(void *ctx, int r) {
    const fwd_at       *at = ctx;
    fwd                *f = at->f;
    const arch_hparams *hp = &f->m->hp;
    const arch_mat     *w = &f->m->glob.tok_embd;
    float              *cs = f->cs + (size_t)r * (size_t)hp->n_rot;
    float *x = f->x + (size_t)r * (size_t)hp->n_embd;
    k_types[w->type].dequant(w->data + (size_t)f->row[r].token * w->row_bytes, x, hp->n_embd);
    if (w->scale) k_scale(x, w->scale[0], hp->n_embd);
    for (int i = 0; i < hp->n_rot / 2; i++) {
        double angle = f->row[r].pos * f->m->rope_freq[i];
        cs[2 * i] = (float)cos(angle) * f->m->rope_mscale;
        cs[2 * i + 1] = (float)sin(angle) * f->m->rope_mscale;
    }
    fwd__attn_norm(f, at->l, r);
}

static void fwd__bias(float *y, const float *b, int64_t n) {
    if (b) k_add(y, y, b, (int)n);
}

static void fwd__head_norm(float *x, const float *w, int n_head, int hd, float eps) {
    for (int h = 0; w && h < n_head; h++) k_rms_norm(x + (size_t)h * (size_t)hd, w, eps, hd, x + (size_t)h * (size_t)hd);
}

/* Bias, head norm and RoPE of K, bias of V, both spread as the cache wants them and stored. */
static void fwd__store_kv(const fwd_at *at, int r) {
    fwd                *f = at->f;
    const arch_hparams *hp = &f->m->hp;
    const int64_t       nk = arch_dim(hp, D_K, at->il), nv = arch_dim(hp, D_V, at->il);
    const int           heads = hp->layer[at->il].n_head_kv;
    float              *k = f->k + (size_t)(r * nk), *v = f->v + (size_t)(r * nv);
    fwd__bias(k, at->l->bk, nk);
    fwd__bias(v, at->l->bv, nv);
    fwd__head_norm(k, at->l->k_norm, heads, hp->hd_k, hp->eps);
    k_rope(k, heads, hp->hd_k, hp->n_rot, hp->desc->rope == ROPE_HALVES, f->cs + (size_t)r * (size_t)hp->n_rot);
    k_spread(k, (int)nk, f->kv->spread_k);
    k_spread(v, (int)nv, f->kv->spread_v);
    kv_store_at(f->row[r].seq, at->il, f->row[r].pos, k, v);
}

/* The same for Q of a selected row. */
static void fwd__turn_q(const fwd_at *at, int s) {
    fwd                *f = at->f;
    const arch_hparams *hp = &f->m->hp;
    const int64_t       nq = arch_dim(hp, D_Q, at->il);
    const int           heads = hp->layer[at->il].n_head;
    float              *q = f->q + (size_t)(s * nq);
    fwd__bias(q, at->l->bq, nq);
    fwd__head_norm(q, at->l->q_norm, heads, hp->hd_k, hp->eps);
    k_rope(q, heads, hp->hd_k, hp->n_rot, hp->desc->rope == ROPE_HALVES, f->cs + (size_t)at->on->row[s] * (size_t)hp->n_rot);
}

/* Rows below n_rows store K and V; those from n_rows on turn Q. */
static void fwd__turn(void *ctx, int i) {
    const fwd_at       *at = ctx;
    fwd                *f = at->f;
    if (i < f->n_rows) fwd__store_kv(at, i);
    else fwd__turn_q(at, i - f->n_rows);
}

static void fwd__att_quant(void *ctx, int s) {
    const fwd_at       *at = ctx;
    fwd                *f = at->f;
    dev_form(&f->att, s, (int)arch_dim(&f->m->hp, D_O, at->il), dev_wants(&at->l->wo));
}

/* Attention's output joins the stream; the norm before the feed-forward. */
static void fwd__ffn_norm(void *ctx, int s) {
    const fwd_at       *at = ctx;
    fwd                *f = at->f;
    const size_t D = (size_t)f->m->hp.n_embd;
    float       *y = f->y + (size_t)s * D;
    fwd__bias(y, at->l->bo, (int64_t)D);
    k_add(f->xs + (size_t)s * D, f->x + (size_t)at->on->row[s] * D, y, (int)D);
    const arch_mat *in[] = {&at->l->gate, &at->l->up, &at->l->router, &at->l->gate_exps, &at->l->up_exps, &at->l->gate_shexp,
                            &at->l->up_shexp};
    unsigned        wanted = 0;
    for (size_t i = 0; i < sizeof in / sizeof *in; i++) wanted |= dev_wants(in[i]);
    fwd__norm_rows(f, f->xs, at->l->ffn_norm, s, wanted);
}

/* gate = silu(gate) * up, ready for `down`. */
static void fwd__activate(fwd *f, int s, int n, const arch_mat *down) {
    float *gate = f->ff.x + (size_t)s * f->ff.ldx;
    k_swiglu(gate, f->up + (size_t)s * f->ff.ldx, n);
    dev_form(&f->ff, s, n, dev_wants(down));
}

static void fwd__act_dense(void *ctx, int s) {
    const fwd_at       *at = ctx;
    fwd                *f = at->f;
    const int  n = (int)arch_dim(&f->m->hp, D_FF, at->il);
    fwd__bias(f->ff.x + (size_t)s * f->ff.ldx, at->l->b_gate, n);
    fwd__bias(f->up + (size_t)s * f->ff.ldx, at->l->b_up, n);
    fwd__activate(f, s, n, &at->l->down);
}

static void fwd__act_exps(void *ctx, int s) {
    const fwd_at *at = ctx;
    fwd__activate(at->f, s, at->f->m->hp.n_ff_exp, &at->l->down_exps);
}

static void fwd__act_shexp(void *ctx, int s) {
    const fwd_at *at = ctx;
    fwd__activate(at->f, s, at->f->m->hp.n_ff_shexp, &at->l->down_shexp);
}

/* The feed-forward's output joins the stream; the norm of what comes next. */
static void fwd__add_ffn(void *ctx, int s) {
    const fwd_at       *at = ctx;
    fwd                *f = at->f;
    const size_t D = (size_t)f->m->hp.n_embd;
    const bool   last = at->il == f->m->hp.n_layer - 1;    /* below it every row is here */
    float       *y = f->y + (size_t)s * D, *xs = f->xs + (size_t)s * D;
    fwd__bias(y, at->l->b_down, (int64_t)D);
    k_add(last ? xs : f->x + (size_t)s * D, xs, y, (int)D);
    if (last) {
        fwd__norm_rows(f, f->xs, f->m->glob.output_norm, s, dev_wants(&f->m->glob.output));
    } else {
        fwd__attn_norm(f, at->l + 1, s);
    }
}

/* --- attention --- */

/* Tasks: (run of up to FWD_ATTN_ROWS selected rows of one sequence, K/V head). Q meets K as the cache holds it; what comes of
 * spread V is spread, and spreading undoes that. */
static void fwd__attend(fwd_at *at, dev *dv) {
    fwd                 *f = at->f;
    const arch_hparams  *hp = &f->m->hp;
    const arch_layer_hp *lh = &hp->layer[at->il];
    const kv_layer      *kl = &f->kv->layer[at->il];
    const int            g = lh->n_head / lh->n_head_kv;
    const size_t         nq = (size_t)arch_dim(hp, D_Q, at->il);
    dev_begin(dv);
    for (int task; (task = pool_next(dv->p)) < at->on->n_run * lh->n_head_kv;) {
        const int first = at->on->run[task / lh->n_head_kv], end = at->on->run[task / lh->n_head_kv + 1], head = task % lh->n_head_kv;
        const kv_seq  *seq = f->row[at->on->row[first]].seq;
        const uint8_t **kb = f->blocks[dv->ith], **vb = kb + f->n_blocks;
        k_attn_row    *rows = f->attn_rows[dv->ith];
        int            n = 0;
        for (int s = first; s < end; s++) {
            const int64_t past = f->row[at->on->row[s]].pos + 1;
            float        *q = f->q + (size_t)s * nq + (size_t)(head * g * hp->hd_k);
            float        *o = f->att.x + (size_t)s * f->att.ldx + (size_t)(head * g * hp->hd_v);
            k_spread(q, g * hp->hd_k, f->kv->spread_k);
            for (int h = 0; h < g; h++)
                rows[n++] = (k_attn_row){.q = q + (size_t)(h * hp->hd_k), .o = o + (size_t)(h * hp->hd_v),
                                         .begin = hp->window && past > hp->window ? past - hp->window : 0, .end = past};
        }
        kv_blocks(seq, at->il, head, kb, vb);
        k_attn_args a = {.n_rows = n, .rows = rows, .hd_k = hp->hd_k, .hd_v = hp->hd_v, .scale = hp->attn_scale,
                         .type_k = f->kv->opts.type_k, .type_v = f->kv->opts.type_v, .k_blocks = kb, .v_blocks = vb,
                         .block = f->kv->opts.block, .k_stride = kl->k_stride, .v_stride = kl->v_stride};
        k_attn(&a, dv->scratch);
        for (int i = 0; i < n; i += g) k_spread(rows[i].o, g * hp->hd_v, f->kv->spread_v);
    }
}

/* --- experts --- */

/* Softmax over the router's logits, the K largest (lowest number first among equals), their weights. */
static void fwd__route(void *ctx, int s) {
    const fwd_at       *at = ctx;
    fwd                *f = at->f;
    const arch_hparams *hp = &f->m->hp;
    const int           E = hp->n_expert, K = hp->n_expert_used;
    float              *p = f->score + (size_t)s * (size_t)E, *w = f->weight + (size_t)s * (size_t)K, sum = 0;
    k_softmax(p, E);
    for (int i = 0; i < K; i++) {
        int best = 0;
        k_max(p, E, &best);
        f->pick[s * K + i] = best;
        w[i] = p[best];
        p[best] = -INFINITY;
        sum += w[i];
    }
    for (int i = 0; i < K; i++) w[i] = w[i] / (hp->topk_norm && sum > 0 ? sum : 1.0f) * hp->expert_scale;
    if (at->l->shexp_gate) {
        float z = k_dot(f->xn.x + (size_t)s * f->xn.ldx, at->l->shexp_gate, hp->n_embd);
        f->shexp[s] = k_sigmoid(z);
    }
}

/* Counting sort of n (row, rank) pairs by expert. */
static void fwd__sort_slots(fwd *f, int n) {
    const int E = f->m->hp.n_expert, K = f->m->hp.n_expert_used;
    int      *from = f->expert_at;
    memset(from, 0, ((size_t)E + 1) * sizeof *from);
    for (int i = 0; i < n; i++) from[f->pick[i] + 1]++;
    for (int e = 0; e < E; e++) from[e + 1] += from[e];
    for (int i = 0; i < n; i++) {
        int slot = from[f->pick[i]]++;
        f->slot_row[slot] = i / K;
        f->slot_of[i] = slot;
    }
    for (int e = E; e > 0; e--) from[e] = from[e - 1];   /* back to the first slot of each expert */
    from[0] = 0;
}

/* The products of all experts: gates and ups in turn, then downs. */
static void fwd__plan_experts(void *ctx, int only) {
    const fwd_at     *at = ctx;
    fwd              *f = at->f;
    const arch_layer *l = at->l;
    const int         E = f->m->hp.n_expert;
    const size_t      D = (size_t)f->m->hp.n_embd;
    (void)only;
    fwd__sort_slots(f, at->on->n * f->m->hp.n_expert_used);
    for (int e = 0; e < E; e++) {
        const int a = f->expert_at[e], n = f->expert_at[e + 1] - a;
        float    *gate = f->ff.x + (size_t)a * f->ff.ldx, *up = f->up + (size_t)a * f->ff.ldx;
        f->products[2 * e] = (dev_product){&l->gate_exps, e, &f->xn, f->slot_row, a, n, gate, f->ff.ldx};
        f->products[2 * e + 1] = (dev_product){&l->up_exps, e, &f->xn, f->slot_row, a, n, up, f->ff.ldx};
        f->products[2 * E + e] = (dev_product){&l->down_exps, e, &f->ff, NULL, a, n, f->moe + (size_t)a * D, D};
    }
}

/* Weighted sum by rank, so that a row's sum has one order whatever stands beside it. */
static void fwd__mix(void *ctx, int s) {
    const fwd_at       *at = ctx;
    fwd                *f = at->f;
    const arch_hparams *hp = &f->m->hp;
    const int           K = hp->n_expert_used, D = hp->n_embd;
    float              *y = f->y + (size_t)s * (size_t)D;
    memset(y, 0, (size_t)D * sizeof *y);
    for (int i = 0; i < K; i++) k_axpy(y, f->moe + (size_t)f->slot_of[s * K + i] * (size_t)D, f->weight[s * K + i], D);
}

static void fwd__mix_shexp(void *ctx, int s) {
    const fwd_at       *at = ctx;
    fwd                *f = at->f;
    const int D = f->m->hp.n_embd;
    k_axpy(f->y + (size_t)s * (size_t)D, f->moe + (size_t)s * (size_t)D, f->shexp[s], D);
}

static void fwd__experts(fwd_at *at, dev *dv) {
    fwd                *f = at->f;
    const arch_hparams *hp = &f->m->hp;
    const arch_layer   *l = at->l;
    const size_t        D = (size_t)hp->n_embd;
    const int           E = hp->n_expert, n = at->on->n;
    dev_rows(dv, n, fwd__route, at);
    dev_rows(dv, 1, fwd__plan_experts, at);
    dev_matmul(dv, f->products, 2 * E);
    dev_soon(dv, f->products + 2 * E, E);
    dev_rows(dv, n * hp->n_expert_used, fwd__act_exps, at);
    dev_matmul(dv, f->products + 2 * E, E);
    dev_rows(dv, n, fwd__mix, at);
    if (!l->gate_shexp.data) return;
    const dev_product shexp[] = {{&l->gate_shexp, 0, &f->xn, NULL, 0, n, f->ff.x, f->ff.ldx},
                                 {&l->up_shexp, 0, &f->xn, NULL, 0, n, f->up, f->ff.ldx},
                                 {&l->down_shexp, 0, &f->ff, NULL, 0, n, f->moe, D}};
    dev_matmul(dv, shexp, 2);
    dev_rows(dv, n, fwd__act_shexp, at);
    dev_matmul(dv, shexp + 2, 1);
    dev_rows(dv, n, fwd__mix_shexp, at);
}

/* The feed-forward's first products; a layer with experts begins with the router. Returns how many. */
static int fwd__gate_up(const fwd_at *at, dev_product to[2]) {
    fwd              *f = at->f;
    const arch_layer *l = at->l;
    const int         n = at->on->n;
    if (f->m->hp.n_expert) {
        to[0] = (dev_product){&l->router, 0, &f->xn, NULL, 0, n, f->score, (size_t)f->m->hp.n_expert};
        return 1;
    }
    to[0] = (dev_product){&l->gate, 0, &f->xn, NULL, 0, n, f->ff.x, f->ff.ldx};
    to[1] = (dev_product){&l->up, 0, &f->xn, NULL, 0, n, f->up, f->ff.ldx};
    return 2;
}

static void fwd__dense(fwd_at *at, dev *dv) {
    fwd              *f = at->f;
    const dev_product down = {&at->l->down, 0, &f->ff, NULL, 0, at->on->n, f->y, (size_t)f->m->hp.n_embd};
    dev_soon(dv, &down, 1);
    dev_rows(dv, at->on->n, fwd__act_dense, at);
    dev_matmul(dv, &down, 1);
}

/* --- the step --- */

/* Sorts out the rows of a step: runs of one sequence are cut into attention tasks. */
static void fwd__sort_rows(const fwd *f, fwd_rows *to, bool all) {
    to->n = to->n_run = 0;
    for (int r = 0; r < f->n_rows; r++) {
        if (!all && !f->row[r].logits) continue;
        if (to->n == 0 || f->row[to->row[to->n - 1]].seq != f->row[r].seq || to->n - to->run[to->n_run - 1] >= FWD_ATTN_ROWS)
            to->run[to->n_run++] = to->n;
        to->row[to->n++] = r;
    }
    to->run[to->n_run] = to->n;
}

static void fwd__enter(fwd_at *at, int il) {
    fwd *f = at->f;
    at->il = il;
    at->l = &f->m->layer[il];
    at->on = il == f->m->hp.n_layer - 1 && !f->tap ? &f->asking : &f->every;
}

/* The layer's first products. */
static void fwd__qkv(const fwd_at *at, dev_product to[3]) {
    fwd                *f = at->f;
    const arch_hparams *hp = &f->m->hp;
    const arch_layer   *l = at->l;
    to[0] = (dev_product){&l->wq, 0, &f->xn, at->on->row, 0, at->on->n, f->q, (size_t)arch_dim(hp, D_Q, at->il)};
    to[1] = (dev_product){&l->wk, 0, &f->xn, NULL, 0, f->n_rows, f->k, (size_t)arch_dim(hp, D_K, at->il)};
    to[2] = (dev_product){&l->wv, 0, &f->xn, NULL, 0, f->n_rows, f->v, (size_t)arch_dim(hp, D_V, at->il)};
}

/* The vocabulary head; rows past the vocabulary are padding. */
static dev_product fwd__head(const fwd_at *at, arch_mat *head) {
    fwd *f = at->f;
    *head = f->m->glob.output;
    head->n_out = f->n_vocab;
    return (dev_product){head, 0, &f->xn, NULL, 0, at->on->n, f->logits, (size_t)f->n_vocab};
}

static void fwd__soon_next(const fwd_at *at, const dev *dv) {
    fwd_at      next = *at;
    dev_product list[3];
    arch_mat    head;
    if (at->il == at->f->m->hp.n_layer - 1) {
        list[0] = fwd__head(at, &head);
        dev_soon(dv, list, 1);
    } else {
        fwd__enter(&next, at->il + 1);
        fwd__qkv(&next, list);
        dev_soon(dv, list, 3);
    }
}

/* One layer, from rows that are ready for it to rows that are ready for what comes next. False: the step ends here. */
static bool fwd__layer(fwd_at *at, dev *dv) {
    fwd      *f = at->f;
    const int n = at->on->n;
    dev_product qkv[3], wo = {&at->l->wo, 0, &f->att, NULL, 0, n, f->y, (size_t)f->m->hp.n_embd}, first[2];
    const int   n_first = fwd__gate_up(at, first);
    fwd__qkv(at, qkv);
    dv->stage = FWD_QKV;
    dev_matmul(dv, qkv, 3);
    if (atomic_load_explicit(&f->stop, memory_order_relaxed)) return false;
    dev_soon(dv, &wo, 1);
    dv->stage = FWD_CACHE;
    dev_rows(dv, f->n_rows + n, fwd__turn, at);
    if (!n) return false;                             /* nobody asks for more: K and V were all there was to do */
    dv->stage = FWD_ATTN;
    fwd__attend(at, dv);
    dev_rows(dv, n, fwd__att_quant, at);
    dv->stage = FWD_WO;
    dev_matmul(dv, &wo, 1);
    dev_soon(dv, first, n_first);
    dv->stage = FWD_NORM;
    dev_rows(dv, n, fwd__ffn_norm, at);
    dv->stage = FWD_FFN;
    dev_matmul(dv, first, n_first);
    if (f->m->hp.n_expert) fwd__experts(at, dv);
    else fwd__dense(at, dv);
    fwd__soon_next(at, dv);
    dv->stage = FWD_NORM;
    dev_rows(dv, n, fwd__add_ffn, at);
    return true;
}

/* Every thread runs it. Which way it goes is told by what stands fixed for the step, and by `stop`, which changes between two
 * barriers: a thread that came late goes through the same stages. */
static void fwd__run(void *ctx, int ith) {
    fwd     *f = ctx;
    fwd_at   at = {.f = f};
    dev      dv = {.p = f->p, .ith = ith, .scratch = f->scratch[ith], .tap = f->tap, .times = f->times, .stage = FWD_EMBED};
    arch_mat head;
    bool     on = true;
    fwd__enter(&at, 0);
    dev_rows(&dv, f->n_rows, fwd__embed, &at);
    for (int il = 0; on && il < f->m->hp.n_layer; il++) {
        fwd__enter(&at, il);
        if (ith == 0 && f->on_layer) f->on_layer(f->on_layer_ctx, il, f->m->hp.n_layer);
        on = fwd__layer(&at, &dv);
    }
    const dev_product last = fwd__head(&at, &head);
    dv.stage = FWD_HEAD;
    if (on && f->tap) dev_watch(&dv, &last, 1);
    else if (on) dev_matmul(&dv, &last, 1);
    dev_end(&dv);
}

/* Room for the block views of sequences of up to n blocks. */
static void fwd__views(fwd *f, int n) {
    if (n <= f->n_blocks) return;
    f->n_blocks = n < 64 ? 64 : 2 * n;
    for (int i = 0; i < f->p->n; i++) f->blocks[i] = mem_grow(f->blocks[i], 2 * (size_t)f->n_blocks, sizeof **f->blocks);
}

/* From now on only the first n tokens have logits. */
static void fwd_trim(fwd *f, int n) {
    if (n < f->n_vocab) f->n_vocab = n;
}

/* Runs the rows. Returns logits [rows that asked, f->n_vocab] in row order, valid until the next step; NULL when an interrupt came. Tokens
 * are below the vocabulary's size, positions reserved; at most max_rows rows, at most max_out that ask. */
static float *fwd_step(fwd *f, const fwd_row *row, int n) {
    ASSERT(n > 0 && n <= f->max_rows);
    f->row = row;
    f->n_rows = n;
    for (int i = 0; i < n; i++) {
        ASSERT(row[i].token >= 0 && row[i].token < f->m->hp.n_vocab && row[i].pos < row[i].seq->n);
        if (i == 0 || row[i].seq != row[i - 1].seq) fwd__views(f, kv_seq_blocks(row[i].seq));
    }
    fwd__sort_rows(f, &f->every, true);
    fwd__sort_rows(f, &f->asking, false);
    ASSERT(f->asking.n <= f->max_out);
    f->stop = false;
    if (f->times) f->times->at = clock_now(), f->times->steps++;
    mem_freeze("a step");
    (f->tap ? pool_run : pool_run_loose)(f->p, fwd__run, f);
    mem_thaw();
    return f->stop ? NULL : f->logits;
}

/* ===== [samp] logits to token =====
 * Owns what one sequence needs to choose its next token: the options, the chain built from them, the recent tokens
 * that the penalties look at, and scratch for one pick. The chain, its order and its defaults are llama.cpp's
 * (src/llama-sampler.cpp, common/sampling.cpp): logit bias, then the samplers by name, then a draw.
 *
 * Invariants:
 * - Candidates stay in the order of their ids, so of two equal logits the smaller id always comes first; a sampler
 *   finds a threshold and compacts. "Descending" below means by logit, then by ascending id: a total order.
 * - Candidates hold no NaN (it becomes -inf) and no +inf (where there is one, those share everything and the rest
 *   is -inf) once samp__scan() has looked at them.
 * - The weight of a candidate, e^(logit - max), is rounded to a multiple of 2^-34. A sum of up to 2^19 of them is
 *   then exact in double in any order, so buckets, blocks and a full sort find the same crossing to the bit.
 *   It costs a probability at most 2^-35 of the best one.
 * - Randomness is rng_at(seed, seq, pos, draw) alone: draw 0 is the token, draw 1 + i belongs to sampler i of the
 *   chain. The draw is the inverse of the cumulative distribution in descending order.
 * - samp_pick and samp_probs leave the history alone, samp_accept advances it; none of them allocates.
 *
 * To add a sampler: options and their row in samp_ranges, an apply and an off function, a row in samp_table.
 * Door: samp_defaults, samp_check, samp_bytes, samp_new, samp_twin, samp_free, samp_accept, samp_pick, samp_chance, samp_probs, samp_copy, samp_breakers_*
 * (text for each text, then seal, then drop). */

/* --- DRY sequence breakers: token sequences that no repetition may cross --- */

enum { SAMP_BREAKER_CHARS = 40, SAMP_BREAKER_TAIL = 20 };   /* longer ones are cut, as in the field */

typedef struct {
    int32_t head;                                     /* first token */
    int32_t n_tail;
    size_t  tail;                                     /* the tokens that must follow it: index into `token` */
} samp_breaker;

typedef struct {
    samp_breaker *at;                                 /* by ascending head once sealed */
    int32_t      *token;
    size_t        n, cap, n_token, cap_token;
    bool          sealed;
} samp_breakers;

/* What the vocabulary must offer to find the tokens of a breaker text. */
typedef struct {
    int32_t n_vocab;
    void   *ctx;
    bytes (*text)(void *ctx, int32_t id);             /* bytes of one token, control tokens spelled out */
    /* Tokens of a text, no start token, no control tokens; returns their number, writes at most cap. */
    int32_t (*encode)(void *ctx, bytes text, int32_t *out, int32_t cap);
} samp_words;

static void samp_breakers_drop(samp_breakers *b) {
    mem_free(b->at);
    mem_free(b->token);
    *b = (samp_breakers){0};
}

static void samp_breakers_put(samp_breakers *b, int32_t head, const int32_t *tail, int32_t n_tail) {
    if (b->n == b->cap) b->at = mem_grow(b->at, b->cap = b->cap ? 2 * b->cap : 64, sizeof *b->at);
    while (b->cap_token - b->n_token < (size_t)n_tail)
        b->token = mem_grow(b->token, b->cap_token = b->cap_token ? 2 * b->cap_token : 64, sizeof *b->token);
    if (n_tail) memcpy(b->token + b->n_token, tail, (size_t)n_tail * sizeof *tail);
    b->at[b->n++] = (samp_breaker){.head = head, .n_tail = n_tail, .tail = b->n_token};
    b->n_token += (size_t)n_tail;
    b->sealed = false;
}

/* The entries from `first` on with this head and this tail: is there one? */
static bool samp__breakers_has(const samp_breakers *b, size_t first, int32_t head, const int32_t *tail, int32_t n_tail) {
    for (size_t i = first; i < b->n; i++)
        if (b->at[i].head == head && b->at[i].n_tail == n_tail &&
            (!n_tail || !memcmp(b->token + b->at[i].tail, tail, (size_t)n_tail * sizeof *tail))) return true;
    return false;
}

/* Every token in which a beginning of `text` starts: as a whole (no tail), or at its end, the rest of `text` being
 * the tail (pi6am's rule, koboldcpp pull 982). */
static void samp_breakers_text(samp_breakers *b, bytes text, const samp_words *w) {
    if (text.n > SAMP_BREAKER_CHARS) text.n = SAMP_BREAKER_CHARS;
    if (!text.n) return;
    for (int32_t id = 0; id < w->n_vocab; id++) {
        bytes  word = w->text(w->ctx, id);
        size_t first = b->n;
        if (word.n >= text.n && memmem(word.p, word.n, text.p, text.n)) {
            samp_breakers_put(b, id, NULL, 0);
            continue;
        }
        for (size_t at = 0; at < word.n; at++) {
            size_t  n = word.n - at;
            int32_t tail[SAMP_BREAKER_TAIL];
            if (n >= text.n || memcmp(word.p + at, text.p, n) != 0) continue;
            int32_t n_tail = w->encode(w->ctx, (bytes){text.p + n, text.n - n}, tail, SAMP_BREAKER_TAIL);
            if (n_tail > SAMP_BREAKER_TAIL) n_tail = SAMP_BREAKER_TAIL;
            if (!samp__breakers_has(b, first, id, tail, n_tail)) samp_breakers_put(b, id, tail, n_tail);
        }
    }
}

static int samp__breaker_order(const void *a, const void *b) {
    int32_t x = ((const samp_breaker *)a)->head, y = ((const samp_breaker *)b)->head;
    return (x > y) - (x < y);
}

/* After the last text: ready to be looked up. One set may serve any number of samplers. */
static void samp_breakers_seal(samp_breakers *b) {
    if (b->n) qsort(b->at, b->n, sizeof *b->at, samp__breaker_order);
    b->sealed = true;
}

/* The first entry whose head is not below `head`. */
static size_t samp__breakers_find(const samp_breakers *b, int32_t head) {
    size_t lo = 0, hi = b->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (b->at[mid].head < head) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

/* --- options --- */

typedef struct {
    int32_t id;
    float   bias;                                     /* added to the logit; -INFINITY forbids, INFINITY forces */
} samp_bias;

typedef struct {
    const char *samplers;                             /* names in order, separated by ';'; "" is none, NULL the default */
    const char *sampling_seq;                         /* the same as letters (edskypmxt); wins over samplers when given */
    float temp;                                       /* divides the logits; <= 0 is greedy */
    float dynatemp_range, dynatemp_exp;               /* temp - range .. temp + range by entropy^exp; range 0 is off */
    int   top_k;                                      /* candidates kept; <= 0 is off */
    float top_p, min_p, typical_p;                    /* probabilities; off at 1, 0, 1 */
    float top_nsigma;                                 /* standard deviations below the best logit; <= 0 is off */
    float xtc_probability, xtc_threshold;             /* off at 0, above 0.5 */
    int   repeat_last_n;                              /* tokens that the penalties look back; 0 is off, -1 the context */
    float repeat_penalty, frequency_penalty, presence_penalty;   /* off at 1, 0, 0 */
    float dry_multiplier, dry_base;                   /* penalty = multiplier * base^(length - allowed); off at 0, below 1 */
    int   dry_allowed_length, dry_penalty_last_n;     /* tokens; last_n 0 is off, -1 the context */
    const samp_breakers *dry_breakers;                /* sealed, outlives the sampler; NULL is none */
    int   mirostat;                                   /* 1 or 2: in place of the chain, of which only temp stays; 0 is off */
    float mirostat_ent, mirostat_lr;                  /* tau: target surprise in bits; eta: learning rate */
    int   n_ctx;                                      /* tokens of the context: what -1 is, and a bound of last_n; 0 unknown */
    const samp_bias *bias;                            /* n_bias of them, copied; those of one token add up */
    int   n_bias;
} samp_opts;

static const samp_opts samp_defaults = {
    .samplers = "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature",
    .temp = 0.8f, .dynatemp_range = 0, .dynatemp_exp = 1,
    .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .typical_p = 1, .top_nsigma = 0,
    .xtc_probability = 0, .xtc_threshold = 0.1f,
    .repeat_last_n = 64, .repeat_penalty = 1, .frequency_penalty = 0, .presence_penalty = 0,
    .dry_multiplier = 0, .dry_base = 1.75f, .dry_allowed_length = 2, .dry_penalty_last_n = 64,
    .mirostat = 0, .mirostat_ent = 5, .mirostat_lr = 0.1f,
};

typedef struct {
    const char *name;
    size_t      at;
    bool        whole;                                /* int, else float */
    double      lo, hi;
} samp_range;

#define SAMP_F(f) offsetof(samp_opts, f), false
#define SAMP_I(f) offsetof(samp_opts, f), true
static const samp_range samp_ranges[] = {
    {"temp",               SAMP_F(temp),               -1e6,  1e6},
    {"dynatemp_range",     SAMP_F(dynatemp_range),     -100,   100},
    {"dynatemp_exp",       SAMP_F(dynatemp_exp),       0,      100},
    {"top_k",              SAMP_I(top_k),              -1,     INT32_MAX},
    {"top_p",              SAMP_F(top_p),              -1e6,  1e6},
    {"min_p",              SAMP_F(min_p),              -1e6,  1e6},
    {"typical_p",          SAMP_F(typical_p),          -1e6,  1e6},
    {"top_nsigma",         SAMP_F(top_nsigma),         -1,     1000},
    {"xtc_probability",    SAMP_F(xtc_probability),    -1e6,  1e6},
    {"xtc_threshold",      SAMP_F(xtc_threshold),      -1e6,  1e6},
    {"repeat_last_n",      SAMP_I(repeat_last_n),      -1,     INT32_MAX},
    {"repeat_penalty",     SAMP_F(repeat_penalty),     1e-3,   1000},
    {"frequency_penalty",  SAMP_F(frequency_penalty),  -100,   100},
    {"presence_penalty",   SAMP_F(presence_penalty),   -100,   100},
    {"dry_multiplier",     SAMP_F(dry_multiplier),     0,      1000},
    {"dry_base",           SAMP_F(dry_base),           0,      1000},
    {"dry_allowed_length", SAMP_I(dry_allowed_length), 0,      INT32_MAX},
    {"dry_penalty_last_n", SAMP_I(dry_penalty_last_n), -1,     INT32_MAX},
    {"mirostat",           SAMP_I(mirostat),           0,      2},
    {"mirostat_ent",       SAMP_F(mirostat_ent),       0,      100},
    {"mirostat_lr",        SAMP_F(mirostat_lr),        0,      100},
};
#undef SAMP_F
#undef SAMP_I

/* --- the sampler --- */

enum {
    SAMP_CHAIN_MAX = 32,                              /* samplers in a chain, repetitions included */
    SAMP_BLOCK = 64,                                  /* candidates per block: each block knows its best logit */
    SAMP_BUCKETS = 1024,                              /* the last one takes whatever is too far below */
    SAMP_FEW = 512,                                   /* up to so many candidates need no buckets */
    SAMP_MIRO_TOP = 100,                              /* Mirostat 1 estimates its exponent from so many */
};
#define SAMP_REACH 25.0f                              /* e^-25 < 2^-35: weights this far below the best are 0 */

typedef struct {
    int32_t id;
    float   logit, p;
} samp_cand;

typedef struct samp {
    samp_opts  o;
    samp_bias *bias;
    int32_t    n_vocab;
    uint64_t   seed, seq;
    uint8_t    chain[SAMP_CHAIN_MAX];                 /* rows of samp_table that are on */
    int        n_chain;
    bool       greedy;                                /* after the chain only the best counts */
    int32_t    few;                                   /* SAMP_FEW; tests force either way */

    /* state: what samp_accept changes and samp_copy copies */
    int32_t   *past;                                  /* ring of the last n_past tokens */
    int32_t    n_past;
    uint64_t   n_seen;                                /* tokens accepted since the beginning */
    float      mu;                                    /* Mirostat: allowed surprise, in bits */
    float      surprise;                              /* of the token last picked, in bits */
    int32_t    picked;                                /* that token; -1 once it is accepted */
    int32_t    at;                                    /* which candidate it was */

    /* candidates of the pick at hand */
    float     *l;                                     /* [n] logits: the caller's, or list_l */
    int32_t   *id;                                    /* [n] ascending; NULL: candidate i is token i */
    int32_t    n;
    float      max;                                   /* best logit; it and `best` are true while scanned */
    bool       scanned;
    uint64_t   pos;

    /* scratch, untouched pages of which cost nothing */
    float     *list_l;                                /* [n_vocab] */
    int32_t   *list_id;                               /* [n_vocab] */
    float     *score;                                 /* [n_vocab] typical: how near to the entropy, negated */
    float     *best;                                  /* [blocks of n_vocab] */
    uint64_t  *key;                                   /* [n_vocab] see samp__key */
    samp_cand *out;                                   /* [n_vocab] */
    double    *mass;                                  /* [2][SAMP_BUCKETS] */
    int32_t   *tally;                                 /* [n_vocab] all 0 between uses */
    int32_t   *recent;                                /* [n_past] last tokens, the latest first */
    int32_t   *z;                                     /* [n_past] */
} samp;

/* --- arithmetic --- */

/* yes where it holds, else no: a choice on bits, because compilers do not make vectors of a float one. */
static inline float samp__choose(bool holds, float yes, float no) {
    union { float f; int32_t i; } y = {yes}, n = {no};
    int32_t mask = -(int32_t)holds;
    y.i = (y.i & mask) | (n.i & ~mask);
    return y.f;
}

/* e^x for x <= 0, a multiple of 2^-34; NaN gives 0. Plain float operations only, so that loops become vectors
 * and every machine computes the same bits. Degree 6, minimax on |r| <= ln2/2, relative error 2e-9 before rounding. */
static inline float samp__weight(float x) {
    union { float f; int32_t i; } u = {x};
    x = samp__choose((u.i & INT32_MAX) <= 0x41f00000, x, -30.0f);   /* bits of 30 */
    float n = (x * 1.442695f + 12582912.0f) - 12582912.0f;          /* nearest integer to x / ln2 */
    float r = (x - n * 0x1.62ep-1f) - n * 3.1946183e-05f;           /* ln2 in two pieces, the first exact times n */
    float p = 0x1.12682ep-7f + r * 0x1.6ae68ep-10f;
    p = 0x1.555826p-5f + r * p;
    p = 0x1.555418p-3f + r * p;
    p = 0x1.fffffcp-2f + r * p;
    u.f = 1.0f + r * (1.0f + r * p);
    u.i += (int32_t)n * (1 << 23);
    float coarse = (u.f + 0x1p-11f) - 0x1p-11f;                     /* between 2^-11 and 2^-10 floats are 2^-34 apart */
    return samp__choose(u.i < 0x3a000000, coarse, u.f);             /* bits of 2^-11 */
}

/* Buckets of distance below the best: 64 to an octave from 2^-8 to 2^8, so that a flat distribution is told apart as
 * well as a peaked one. Monotone: the bits of positive floats are in order. */
static inline int32_t samp__bucket(float v, float v_max) {
    union { float f; int32_t i; } d = {(v_max - v) + 0x1p-8f};
    int32_t k = (d.i - 0x3b800000) >> 17;                           /* bits of 2^-8 */
    return k < SAMP_BUCKETS - 1 ? k : SAMP_BUCKETS - 1;
}

/* Floats as integers in the same order (no NaN), and back. */
static inline int32_t samp__rank(float v) {
    union { float f; int32_t i; } u = {v};
    return u.i ^ ((u.i >> 31) & INT32_MAX);
}
static inline float samp__unrank(int32_t r) {
    union { int32_t i; float f; } u = {r ^ ((r >> 31) & INT32_MAX)};
    return u.f;
}

/* Ascending keys are descending values, ties by index. -0 counts as 0. */
static inline uint64_t samp__key(float v, int32_t i) {
    return (uint64_t)((uint32_t)samp__rank(v + 0.0f) ^ 0x7fffffffu) << 32 | (uint32_t)i;
}
static inline float   samp__key_value(uint64_t key) { return samp__unrank((int32_t)((uint32_t)(key >> 32) ^ 0x7fffffffu)); }
static inline int32_t samp__key_index(uint64_t key) { return (int32_t)(uint32_t)key; }

/* Hoare's partition around a key that no pattern in the data can foresee. On return a[lo..*j] <= a[*i..hi]. */
static void samp__partition(uint64_t *a, int32_t lo, int32_t hi, int32_t *pi, int32_t *pj) {
    uint64_t pivot = a[lo + (int32_t)(rng_at((uint64_t)lo, (uint64_t)hi, 0, 0) % (uint64_t)(hi - lo + 1))];
    int32_t  i = lo, j = hi;
    while (i <= j) {
        while (a[i] < pivot) i++;
        while (a[j] > pivot) j--;
        if (i > j) break;
        uint64_t t = a[i];
        a[i++] = a[j];
        a[j--] = t;
    }
    *pi = i;
    *pj = j;
}

static void samp__sort_range(uint64_t *a, int32_t lo, int32_t hi) {
    while (hi - lo > 24) {
        int32_t i, j;
        samp__partition(a, lo, hi, &i, &j);
        if (j - lo < hi - i) {                        /* the smaller side first: the stack stays logarithmic */
            samp__sort_range(a, lo, j);
            lo = i;
        } else {
            samp__sort_range(a, i, hi);
            hi = j;
        }
    }
    for (int32_t i = lo + 1; i <= hi; i++) {
        uint64_t x = a[i];
        int32_t  j = i;
        for (; j > lo && a[j - 1] > x; j--) a[j] = a[j - 1];
        a[j] = x;
    }
}

static void samp__sort(uint64_t *a, int32_t n) {
    int32_t i = 1;
    while (i < n && a[i - 1] < a[i]) i++;
    if (i < n) samp__sort_range(a, 0, n - 1);
}

/* Moves the k smallest to the front; a[k - 1] is the k-th. 1 <= k <= n. */
static void samp__select(uint64_t *a, int32_t n, int32_t k) {
    for (int32_t lo = 0, hi = n - 1; lo < hi;) {
        int32_t i, j;
        samp__partition(a, lo, hi, &i, &j);
        if (k - 1 <= j) hi = j;
        else if (k - 1 >= i) lo = i;
        else return;
    }
}

/* --- one look at all candidates --- */

static int32_t samp__id(const samp *s, int32_t i) { return s->id ? s->id[i] : i; }
static int32_t samp__blocks(const samp *s) { return (s->n + SAMP_BLOCK - 1) / SAMP_BLOCK; }
static int32_t samp__block_end(const samp *s, int32_t b) {
    return s->n - b * SAMP_BLOCK < SAMP_BLOCK ? s->n : (b + 1) * SAMP_BLOCK;
}

/* Best of n values; *odd tells whether one was a NaN (then the best means nothing). */
static float samp__highest(const float *v, int32_t n, bool *odd) {
    int32_t best = INT32_MIN, nan = 0;
    for (int32_t i = 0; i < n; i++) {
        union { float f; int32_t i; } u = {v[i]};
        int32_t r = samp__rank(v[i]);
        nan |= (u.i & INT32_MAX) > 0x7f800000;        /* bits of infinity */
        best = r > best ? r : best;
    }
    *odd = nan;
    return samp__unrank(best);
}

/* Best of one block; a NaN becomes -inf on the way. */
static float samp__block_best(float *l, int32_t n) {
    bool  odd;
    float best = n == SAMP_BLOCK ? samp__highest(l, SAMP_BLOCK, &odd) : samp__highest(l, n, &odd);
    if (!odd) return best;
    for (int32_t i = 0; i < n; i++)
        if (isnan(l[i])) l[i] = -INFINITY;
    return samp__highest(l, n, &odd);
}

static void samp__scan_blocks(samp *s) {
    s->max = -INFINITY;
    for (int32_t b = 0; b < samp__blocks(s); b++) {
        s->best[b] = samp__block_best(s->l + b * SAMP_BLOCK, samp__block_end(s, b) - b * SAMP_BLOCK);
        if (s->best[b] > s->max) s->max = s->best[b];
    }
}

/* The best logit, of all and of each block. */
static void samp__scan(samp *s) {
    if (s->scanned) return;
    samp__scan_blocks(s);
    if (s->max == INFINITY) {                         /* certain ones: they share everything */
        for (int32_t i = 0; i < s->n; i++) s->l[i] = s->l[i] == INFINITY ? 0 : -INFINITY;
        samp__scan_blocks(s);
    }
    s->scanned = true;
}

/* Index of the best candidate, the first of several. */
static int32_t samp__best(samp *s) {
    samp__scan(s);
    int32_t b = 0;
    while (s->best[b] != s->max) b++;
    int32_t i = b * SAMP_BLOCK;
    while (s->l[i] != s->max) i++;
    return i;
}

/* Weights of block b, the rest of w being 0. False: all of them are 0. */
static bool samp__weigh(const samp *s, int32_t b, float w[SAMP_BLOCK]) {
    int32_t      n = samp__block_end(s, b) - b * SAMP_BLOCK;
    const float *l = s->l + b * SAMP_BLOCK;
    float        max = s->max;
    if (!(s->best[b] - max > -SAMP_REACH)) return false;
    if (n == SAMP_BLOCK) {
        for (int32_t i = 0; i < SAMP_BLOCK; i++) w[i] = samp__weight(l[i] - max);
    } else {
        for (int32_t i = 0; i < n; i++) w[i] = samp__weight(l[i] - max);
        for (int32_t i = n; i < SAMP_BLOCK; i++) w[i] = 0;
    }
    return true;
}

/* Sum of all weights. */
static double samp__total(samp *s) {
    double sum[8] = {0};
    float  w[SAMP_BLOCK];
    samp__scan(s);
    for (int32_t b = 0; b < samp__blocks(s); b++) {
        if (!samp__weigh(s, b, w)) continue;
        for (int32_t i = 0; i < SAMP_BLOCK; i += 8)
            for (int j = 0; j < 8; j++) sum[j] += (double)w[i + j];
    }
    for (int j = 1; j < 8; j++) sum[0] += sum[j];
    return sum[0];
}

/* Entropy in nats, and the sum of all weights. */
static double samp__entropy(samp *s, double *total) {
    double z = samp__total(s), sum = 0;
    float  w[SAMP_BLOCK];
    for (int32_t b = 0; b < samp__blocks(s); b++) {
        if (!samp__weigh(s, b, w)) continue;
        for (int32_t i = b * SAMP_BLOCK, j = 0; i < samp__block_end(s, b); i++, j++)
            if (w[j] > 0) sum += (double)w[j] * (double)(s->max - s->l[i]);
    }
    *total = z;
    return log(z) + sum / z;
}

/* --- narrowing --- */

/* Copies the candidates from..to whose v[i] ranks at `least` or above into the lists, after the n that are there; returns
 * the new n. Ranks, because "just above zero" is no float where denormals are flushed. Every one is written and the
 * next overwrites it unless it counts: no branch to mispredict. */
static int32_t samp__keep_range(samp *s, const float *v, int32_t least, int32_t from, int32_t to, int32_t n) {
    const float   *l = s->l;
    const int32_t *id = s->id;
    float         *to_l = s->list_l;
    int32_t       *to_id = s->list_id;
    bool           skip = v == l && s->scanned;
    for (int32_t i = from, end; i < to; i = end) {
        end = (i / SAMP_BLOCK + 1) * SAMP_BLOCK;
        if (end > to) end = to;
        if (skip && samp__rank(s->best[i / SAMP_BLOCK] + 0.0f) < least) continue;
        for (int32_t j = i; j < end; j++) {
            int32_t in = samp__rank(v[j] + 0.0f) >= least;
            to_id[n] = id ? id[j] : j;
            to_l[n] = l[j];
            n += in;
        }
    }
    return n;
}

/* Keeps the candidates whose value v[i] is above `least`, or equals it with i <= last. v is s->l or index-aligned to
 * it. Nothing is written before it has been read, so s->l may be list_l. */
static void samp__keep(samp *s, const float *v, float least, int32_t last) {
    int32_t rank = samp__rank(least + 0.0f), n = samp__keep_range(s, v, rank, 0, last + 1, 0);
    s->n = samp__keep_range(s, v, rank + 1, last + 1, s->n, n);
    s->l = s->list_l;
    s->id = s->list_id;
    s->scanned = false;
}

static void samp__keep_best(samp *s) {
    int32_t i = samp__best(s);
    samp__keep(s, s->l, s->max, i);
}

/* Keys of the k best candidates (or of all, when fewer) into s->key, in no order but that the worst of them comes
 * last; returns their number. The k-th best block is a lower bound of the k-th best candidate, so that only
 * blocks above it are looked into. */
static int32_t samp__top(samp *s, int32_t k) {
    int32_t n_blocks = samp__blocks(s), n = 0;
    float   least = -INFINITY;
    samp__scan(s);
    if (k > s->n) k = s->n;
    if (k <= n_blocks) {
        for (int32_t b = 0; b < n_blocks; b++) s->key[b] = samp__key(s->best[b], b);
        samp__select(s->key, n_blocks, k);
        least = samp__key_value(s->key[k - 1]);
    }
    for (int32_t b = 0; b < n_blocks; b++) {
        if (s->best[b] < least) continue;
        for (int32_t i = b * SAMP_BLOCK; i < samp__block_end(s, b); i++) {
            s->key[n] = samp__key(s->l[i], i);
            n += s->l[i] >= least;
        }
    }
    samp__select(s->key, n, k);
    return k;
}

/* Buckets of block b of v, the rest of k being 0. */
static void samp__block_buckets(const samp *s, const float *v, float v_max, int32_t b, int32_t k[SAMP_BLOCK]) {
    int32_t n = samp__block_end(s, b) - b * SAMP_BLOCK;
    v += b * SAMP_BLOCK;
    if (n == SAMP_BLOCK) {
        for (int32_t i = 0; i < SAMP_BLOCK; i++) k[i] = samp__bucket(v[i], v_max);
    } else {
        for (int32_t i = 0; i < n; i++) k[i] = samp__bucket(v[i], v_max);
        for (int32_t i = n; i < SAMP_BLOCK; i++) k[i] = 0;
    }
}

/* Mass per bucket of v into s->mass; returns the sum. Two tables, because neighbours often meet in one bucket. */
static double samp__fill_buckets(samp *s, const float *v, float v_max) {
    double *even = s->mass, *odd = s->mass + SAMP_BUCKETS, z = 0;
    float   w[SAMP_BLOCK];
    int32_t k[SAMP_BLOCK];
    memset(s->mass, 0, 2 * SAMP_BUCKETS * sizeof *s->mass);
    for (int32_t b = 0; b < samp__blocks(s); b++) {
        if (!samp__weigh(s, b, w)) continue;
        samp__block_buckets(s, v, v_max, b, k);
        for (int32_t i = 0; i < SAMP_BLOCK; i += 2) {
            even[k[i]] += (double)w[i];
            odd[k[i + 1]] += (double)w[i + 1];
        }
    }
    for (int32_t i = 0; i < SAMP_BUCKETS; i++) z += even[i] += odd[i];
    return z;
}

/* Keys by v of the candidates in one bucket, blocks without weight left out; returns their number. */
static int32_t samp__bucket_keys(samp *s, const float *v, float v_max, int32_t bucket) {
    int32_t k[SAMP_BLOCK], n = 0;
    for (int32_t b = 0; b < samp__blocks(s); b++) {
        if (!(s->best[b] - s->max > -SAMP_REACH)) continue;
        if (v == s->l && samp__bucket(s->best[b], v_max) > bucket) continue;
        samp__block_buckets(s, v, v_max, b, k);
        int32_t any = 0, first = b * SAMP_BLOCK, end = samp__block_end(s, b) - first;
        for (int32_t i = 0; i < SAMP_BLOCK; i++) any |= k[i] == bucket;
        for (int32_t i = 0; any && i < end; i++)
            if (k[i] == bucket) s->key[n++] = samp__key(v[first + i], first + i);
    }
    return n;
}

/* Whether a running mass has reached its target: top-p includes the one that lands on it, the others go past it. */
static bool samp__reached(double mass, double target, bool past) { return past ? mass > target : mass >= target; }

/* The key among n at which `mass`, growing by their weights in ascending order, reaches the target: a quickselect that
 * compares masses. The sums are exact, so the order in which it makes them does not show. */
static uint64_t samp__cross_keys(samp *s, int32_t n, double mass, double target, bool past) {
    uint64_t *a = s->key;
    int32_t   lo = 0, hi = n - 1;
    while (lo < hi) {
        int32_t i, j;
        double  below = mass;
        samp__partition(a, lo, hi, &i, &j);
        for (int32_t k = lo; k <= j; k++) below += (double)samp__weight(s->l[samp__key_index(a[k])] - s->max);
        if (j >= lo && samp__reached(below, target, past)) {
            hi = j;
            continue;
        }
        mass = below;
        lo = j + 1;                                   /* one key may stand between the halves */
        if (i - 1 == lo) {
            mass += (double)samp__weight(s->l[samp__key_index(a[lo])] - s->max);
            if (samp__reached(mass, target, past)) return a[lo];
            lo = i;
        }
    }
    return a[lo < n ? lo : n - 1];
}

/* Walks down the candidates by descending v until their mass reaches `part` of all; returns the index of the
 * candidate that does it. v is s->l or s->score; part <= 1 - 2^-53, so that the target is below the whole even after
 * rounding. Among few directly, among many through buckets: the same one. */
static int32_t samp__cross(samp *s, const float *v, double part, bool past) {
    bool few = s->n <= s->few, odd;
    samp__scan(s);
    float v_max = v == s->l ? s->max : samp__highest(v, s->n, &odd);
    double mass = 0, z = few ? samp__total(s) : samp__fill_buckets(s, v, v_max), target = part * z;
    int32_t n = 0;
    if (few) {
        for (; n < s->n; n++) s->key[n] = samp__key(v[n], n);
    } else {
        int32_t k = 0;
        while (k < SAMP_BUCKETS - 1 && (s->mass[k] == 0 || !samp__reached(mass + s->mass[k], target, past)))
            mass += s->mass[k++];
        n = samp__bucket_keys(s, v, v_max, k);
    }
    return samp__key_index(samp__cross_keys(s, n, mass, target, past));
}

/* --- history --- */

static int32_t samp__window(const samp_opts *o, int last_n) {
    return o->n_ctx > 0 && (last_n < 0 || last_n > o->n_ctx) ? o->n_ctx : last_n;
}

/* The last tokens, the latest first, at most `most` of them, into s->recent. */
static int32_t samp__recent(samp *s, int32_t most) {
    int32_t n = s->n_seen < (uint64_t)most ? (int32_t)s->n_seen : most;
    for (int32_t i = 0, at = n ? (int32_t)((s->n_seen - 1) % (uint64_t)s->n_past) : 0; i < n; i++) {
        s->recent[i] = s->past[at];
        at = at ? at - 1 : s->n_past - 1;
    }
    return n;
}

/* Index of a token among the candidates, -1 when it is not one. */
static int32_t samp__find(const samp *s, int32_t id) {
    if (!s->id) return id;
    int32_t lo = 0, hi = s->n;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (s->id[mid] < id) lo = mid + 1;
        else hi = mid;
    }
    return lo < s->n && s->id[lo] == id ? lo : -1;
}

/* --- the samplers --- */

static bool samp__penalties_off(const samp_opts *o) {
    return o->repeat_last_n == 0 || (o->repeat_penalty == 1 && o->frequency_penalty == 0 && o->presence_penalty == 0);
}

/* A negative logit is multiplied where a positive one is divided: either way the token becomes less likely. */
static void samp__penalties(samp *s, int draw) {
    (void)draw;
    int32_t n = samp__recent(s, samp__window(&s->o, s->o.repeat_last_n));
    for (int32_t i = 0; i < n; i++) s->tally[s->recent[i]]++;
    for (int32_t i = 0; i < n; i++) {
        int32_t id = s->recent[i], count = s->tally[id], at = samp__find(s, id);
        s->tally[id] = 0;
        if (!count || at < 0) continue;
        float l = s->l[at];
        l = l <= 0 ? l * s->o.repeat_penalty : l / s->o.repeat_penalty;
        s->l[at] = l - ((float)count * s->o.frequency_penalty + s->o.presence_penalty);
    }
    s->scanned = false;
}

static bool samp__dry_off(const samp_opts *o) {
    return o->dry_multiplier == 0 || o->dry_base < 1 || o->dry_penalty_last_n == 0;
}

/* Length of the longest breaker sequence that starts i tokens before the end of the history, 0 when none does. */
static int32_t samp__breaker_at(const samp *s, int32_t i) {
    const samp_breakers *b = s->o.dry_breakers;
    int32_t longest = 0;
    for (size_t k = samp__breakers_find(b, s->recent[i]); k < b->n && b->at[k].head == s->recent[i]; k++) {
        int32_t n = 0;
        if (b->at[k].n_tail > i) continue;
        while (n < b->at[k].n_tail && b->token[b->at[k].tail + (size_t)n] == s->recent[i - 1 - n]) n++;
        if (n == b->at[k].n_tail && n + 1 > longest) longest = n + 1;
    }
    return longest;
}

/* How far back a repetition may reach: up to the last breaker. */
static int32_t samp__dry_limit(const samp *s, int32_t n) {
    if (!s->o.dry_breakers) return n;
    for (int32_t i = 0; i < n; i++) {
        int32_t length = samp__breaker_at(s, i);
        if (length) return i + 1 - length;
    }
    return n;
}

/* z[k]: how many tokens before the one k back equal those before the end. Gusfield's Z algorithm, linear. */
static void samp__dry_repeats(const int32_t *h, int32_t n, int32_t *z) {
    for (int32_t k = 1, from = 0, end = 0; k < n; k++) {      /* h[from .. end) is a known copy of h[0 .. end - from) */
        int32_t len = k < end ? (z[k - from] < end - k ? z[k - from] : end - k) : 0;
        while (k + len < n && h[len] == h[k + len]) len++;
        z[k] = len;
        if (k + len > end) {
            from = k;
            end = k + len;
        }
    }
}

static bool samp__is_breaker(const samp *s, int32_t id) {     /* by itself */
    const samp_breakers *b = s->o.dry_breakers;
    if (!b) return false;
    for (size_t k = samp__breakers_find(b, id); k < b->n && b->at[k].head == id; k++)
        if (!b->at[k].n_tail) return true;
    return false;
}

/* DRY (p-e-w): a token that would lengthen a repetition pays multiplier * base^(length - allowed). */
static void samp__dry(samp *s, int draw) {
    (void)draw;
    const samp_opts *o = &s->o;
    int32_t n = samp__recent(s, samp__window(o, o->dry_penalty_last_n));
    if (n <= o->dry_allowed_length) return;
    int32_t limit = samp__dry_limit(s, n);
    if (limit < o->dry_allowed_length) return;
    samp__dry_repeats(s->recent, n, s->z);
    for (int32_t k = 1; k < n; k++) {                 /* the token after a repetition of what ends the history */
        int32_t len = s->z[k] < limit ? s->z[k] : limit, *most = &s->tally[s->recent[k - 1]];
        if (len >= o->dry_allowed_length && len + 1 > *most) *most = len + 1;
    }
    int32_t most = o->dry_base > 1.000001f ? (int32_t)(88.7228391f / logf(o->dry_base)) : 0;   /* base^most is finite */
    for (int32_t k = 1; k < n; k++) {
        int32_t id = s->recent[k - 1], len = s->tally[id] - 1, at = samp__find(s, id);
        s->tally[id] = 0;
        if (len < 0 || at < 0 || samp__is_breaker(s, id)) continue;
        int32_t over = len - o->dry_allowed_length;
        if (most > 0 && over > most) over = most;
        s->l[at] -= (float)((double)o->dry_multiplier * pow((double)o->dry_base, (double)over));
    }
    s->scanned = false;
}

static bool samp__nsigma_off(const samp_opts *o) { return o->top_nsigma <= 0; }

/* Standard deviation of the possible logits, through sums about the best one. */
static double samp__sigma(const samp *s) {
    double  sum[4] = {0}, square[4] = {0};
    float   d[SAMP_BLOCK];
    int32_t n = 0;
    for (int32_t b = 0; b < samp__blocks(s); b++) {
        const float *l = s->l + b * SAMP_BLOCK;
        int32_t      end = samp__block_end(s, b) - b * SAMP_BLOCK;
        for (int32_t i = 0; i < SAMP_BLOCK; i++) {
            bool in = i < end && l[i] != -INFINITY;
            d[i] = in ? l[i] - s->max : 0;
            n += in;
        }
        for (int32_t i = 0; i < SAMP_BLOCK; i += 4)
            for (int j = 0; j < 4; j++) {
                sum[j] += (double)d[i + j];
                square[j] += (double)d[i + j] * (double)d[i + j];
            }
    }
    double mean = ((sum[0] + sum[1]) + (sum[2] + sum[3])) / n;
    double var = ((square[0] + square[1]) + (square[2] + square[3])) / n - mean * mean;
    return var > 0 ? sqrt(var) : 0;
}

/* Those more than n standard deviations below the best get no probability; they stay candidates, as in the field. */
static void samp__nsigma(samp *s, int draw) {
    (void)draw;
    samp__scan(s);
    if (s->n <= 1) return;
    float least = (float)((double)s->max - (double)s->o.top_nsigma * samp__sigma(s));
    for (int32_t i = 0; i < s->n; i++) s->l[i] = samp__choose(s->l[i] < least, -INFINITY, s->l[i]);
    s->scanned = false;
}

static bool samp__top_k_off(const samp_opts *o) { return o->top_k <= 0; }

static void samp__keep_top(samp *s, int32_t k) {
    if (k >= s->n) return;
    samp__top(s, k);
    uint64_t worst = s->key[k - 1];
    samp__keep(s, s->l, samp__key_value(worst), samp__key_index(worst));
}

static void samp__top_k(samp *s, int draw) {
    (void)draw;
    samp__keep_top(s, s->o.top_k);
}

static bool samp__typical_off(const samp_opts *o) { return o->typical_p >= 1; }

/* Locally typical (Meister et al. 2022): by ascending distance of the surprise from the entropy. */
static void samp__typical(samp *s, int draw) {
    (void)draw;
    double z, h = samp__entropy(s, &z);
    float  shift = (float)(log(z) - h);
    for (int32_t i = 0; i < s->n; i++) s->score[i] = -fabsf((s->max - s->l[i]) + shift);
    int32_t at = samp__cross(s, s->score, (double)s->o.typical_p, true);
    samp__keep(s, s->score, s->score[at], at);
}

static bool samp__top_p_off(const samp_opts *o) { return o->top_p >= 1; }

static void samp__top_p(samp *s, int draw) {
    (void)draw;
    int32_t at = samp__cross(s, s->l, (double)s->o.top_p, false);
    samp__keep(s, s->l, s->l[at], at);
}

static bool samp__min_p_off(const samp_opts *o) { return o->min_p <= 0; }

static void samp__min_p(samp *s, int draw) {
    (void)draw;
    samp__scan(s);
    float least = s->max + (float)log((double)s->o.min_p);
    if (least > s->max) samp__keep_best(s);
    else samp__keep(s, s->l, least, s->n - 1);
}

static bool samp__xtc_off(const samp_opts *o) { return o->xtc_probability <= 0 || o->xtc_threshold > 0.5f; }

/* XTC (p-e-w): now and then all choices above the threshold but the least likely of them are taken away. */
static void samp__xtc(samp *s, int draw) {
    if (s->n < 2 || rng_unit(rng_at(s->seed, s->seq, s->pos, (uint64_t)draw)) > (double)s->o.xtc_probability) return;
    double   least = (double)s->o.xtc_threshold * samp__total(s);
    uint64_t last = 0;                                /* key of the least likely one above the threshold */
    int32_t  above = 0, n = 0;
    for (int32_t i = 0; i < s->n; i++) {
        if ((double)samp__weight(s->l[i] - s->max) < least) continue;
        uint64_t key = samp__key(s->l[i], i);
        if (key > last) last = key;
        above++;
    }
    if (above < 2) return;
    for (int32_t i = 0; i < s->n; i++) {
        bool in = samp__key(s->l[i], i) >= last;
        s->list_id[n] = samp__id(s, i);
        s->list_l[n] = s->l[i];
        n += in;
    }
    s->l = s->list_l;
    s->id = s->list_id;
    s->n = n;
    s->scanned = false;
}

static bool samp__temp_off(const samp_opts *o) { return o->temp == 1 && o->dynatemp_range <= 0; }
static bool samp__temp_greedy(const samp_opts *o) { return o->temp <= 0 && o->dynatemp_range <= 0; }

/* Temperature by how flat the distribution is (kalomaze): the entropy's share of the largest possible one. */
static float samp__dynatemp(samp *s) {
    const samp_opts *o = &s->o;
    double z, h = samp__entropy(s, &z), share = h > 0 ? h / log((double)s->n) : 0;
    double lo = (double)o->temp - (double)o->dynatemp_range, hi = (double)o->temp + (double)o->dynatemp_range;
    if (lo < 0) lo = 0;
    return (float)(lo + (hi - lo) * pow(share, (double)o->dynatemp_exp));
}

static void samp__temperature(samp *s, int draw) {
    (void)draw;
    float t = s->o.temp;
    samp__scan(s);
    if (s->o.dynatemp_range > 0) {
        if (s->n < 2) return;
        t = samp__dynatemp(s);
    }
    if (!(t > 0) || !isfinite(s->max / t)) {          /* too cold for a float is greedy too */
        samp__keep_best(s);
        return;
    }
    for (int32_t i = 0; i < s->n; i++) s->l[i] /= t;
    s->scanned = false;
}

typedef struct {
    const char *name;                                 /* also without '_', and with '-' for it */
    const char *more;                                 /* other names, separated by spaces */
    char        letter;
    bool        keeps_best;                           /* never drops the best candidate: before a greedy end it does nothing */
    bool (*off)(const samp_opts *);                   /* with these options it does nothing */
    void (*apply)(samp *, int draw);
} samp_kind;

static const samp_kind samp_table[] = {
    {"penalties",   "",                'e', false, samp__penalties_off, samp__penalties},
    {"dry",         "",                'd', false, samp__dry_off,       samp__dry},
    {"top_n_sigma", "",                's', true,  samp__nsigma_off,    samp__nsigma},
    {"top_k",       "",                'k', true,  samp__top_k_off,     samp__top_k},
    {"typ_p",       "typ typical typicalp", 'y', false, samp__typical_off, samp__typical},
    {"top_p",       "nucleus",         'p', true,  samp__top_p_off,     samp__top_p},
    {"min_p",       "",                'm', true,  samp__min_p_off,     samp__min_p},
    {"xtc",         "",                'x', false, samp__xtc_off,       samp__xtc},
    {"temperature", "temp",            't', false, samp__temp_off,      samp__temperature},
};
enum { SAMP_N_KINDS = sizeof samp_table / sizeof *samp_table };

/* --- the chain --- */

/* Does the word of n bytes spell `name` (which ends at NUL or a space)? Case, '_' and '-' do not count. */
static bool samp__spells(const char *word, size_t n, const char *name) {
    size_t i = 0;
    for (; *name && *name != ' '; name++) {
        if (*name == '_') continue;
        while (i < n && (word[i] == '_' || word[i] == '-')) i++;
        if (i >= n || tolower((unsigned char)word[i++]) != *name) return false;
    }
    return i == n;
}

static int samp__kind_by_name(const char *word, size_t n) {
    for (int k = 0; k < SAMP_N_KINDS; k++) {
        if (samp__spells(word, n, samp_table[k].name)) return k;
        for (const char *p = samp_table[k].more; *p; p += strcspn(p, " "), p += *p == ' ')
            if (samp__spells(word, n, p)) return k;
    }
    return -1;
}

static int samp__kind_by_letter(char c) {
    for (int k = 0; k < SAMP_N_KINDS; k++)
        if (samp_table[k].letter == c) return k;
    return -1;
}

static bool samp__link(uint8_t *chain, int *n, int kind, const char *word, size_t len, err_t *e) {
    if (kind < 0)
        return err_set(e, EXIT_INPUT, "unknown sampler '%.*s', expected some of %s (letters edskypmxt)",
                       len < 64 ? (int)len : 64, word, samp_defaults.samplers);
    if (*n == SAMP_CHAIN_MAX) return err_set(e, EXIT_INPUT, "a chain of more than %d samplers", SAMP_CHAIN_MAX);
    chain[(*n)++] = (uint8_t)kind;
    return true;
}

/* Rows of samp_table in the order asked for, off or not. */
static bool samp__chain(const samp_opts *o, uint8_t chain[SAMP_CHAIN_MAX], int *n, err_t *e) {
    *n = 0;
    if (o->sampling_seq) {
        for (const char *p = o->sampling_seq; *p; p++)
            if (!samp__link(chain, n, samp__kind_by_letter(*p), p, 1, e)) return false;
        return true;
    }
    for (const char *p = o->samplers ? o->samplers : samp_defaults.samplers; *p; p += *p == ';') {
        size_t len = strcspn(p, ";");
        if (!samp__link(chain, n, samp__kind_by_name(p, len), p, len, e)) return false;
        p += len;
    }
    return true;
}

/* Drops what does nothing. A greedy temperature ends the chain, and before it whatever cannot drop the best. */
static void samp__prune(samp *s, const uint8_t *chain, int n) {
    for (int i = 0; i < n && !s->greedy; i++) {
        if (samp_table[chain[i]].off(&s->o)) continue;
        s->greedy = samp_table[chain[i]].apply == samp__temperature && samp__temp_greedy(&s->o);
        if (!s->greedy) s->chain[s->n_chain++] = chain[i];
    }
    while (s->greedy && s->n_chain && samp_table[s->chain[s->n_chain - 1]].keeps_best) s->n_chain--;
}

/* The chain in words. */
static void samp_describe(const samp *s, str *out) {
    if (s->o.mirostat && !s->greedy) str_fmt(out, "mirostat %d", s->o.mirostat);
    for (int i = 0; i < s->n_chain && !s->o.mirostat; i++) str_fmt(out, "%s%s", i ? ", " : "", samp_table[s->chain[i]].name);
    str_fmt(out, "%s%s", out->n ? ", then " : "", s->greedy ? "the likeliest token" : "a random draw");
}

/* Names the first option that is out of its range. */
static bool samp_check(const samp_opts *o, int32_t n_vocab, err_t *e) {
    uint8_t chain[SAMP_CHAIN_MAX];
    int     n;
    for (size_t i = 0; i < sizeof samp_ranges / sizeof *samp_ranges; i++) {
        const samp_range *r = &samp_ranges[i];
        const void       *at = (const char *)o + r->at;
        double            x = r->whole ? (double)*(const int *)at : (double)*(const float *)at;
        if (!(x >= (double)(float)r->lo && x <= (double)(float)r->hi))
            return err_set(e, EXIT_INPUT, "%s: %g is out of range, expected %.10g to %.10g", r->name, x, r->lo, r->hi);
    }
    if (o->n_ctx <= 0 && (o->repeat_last_n < 0 || o->dry_penalty_last_n < 0))
        return err_set(e, EXIT_INPUT, "%s: -1 stands for the context, whose length is not known here",
                       o->repeat_last_n < 0 ? "repeat_last_n" : "dry_penalty_last_n");
    for (int i = 0; i < o->n_bias; i++) {
        if (o->bias[i].id < 0 || o->bias[i].id >= n_vocab)
            return err_set(e, EXIT_INPUT, "logit_bias: token %d is out of range, expected 0 to %d", o->bias[i].id,
                           n_vocab - 1);
        if (isnan(o->bias[i].bias))
            return err_set(e, EXIT_INPUT, "logit_bias: nan for token %d, expected a number", o->bias[i].id);
    }
    return samp__chain(o, chain, &n, e);
}

static void samp_free(samp *s) {
    if (!s) return;
    void *own[] = {s->bias, s->past, s->list_l, s->list_id, s->score,  s->best,
                   s->key,  s->out,  s->mass,   s->tally,   s->recent, s->z};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) mem_free(own[i]);
    mem_free(s);
}

static void samp__take_scratch(samp *s) {
    size_t n = (size_t)s->n_vocab, n_past = (size_t)s->n_past;
    s->list_l = mem_aligned(n, sizeof *s->list_l);
    s->list_id = mem_aligned(n, sizeof *s->list_id);
    s->score = mem_aligned(n, sizeof *s->score);
    s->best = mem_aligned(n / SAMP_BLOCK + 1, sizeof *s->best);
    s->key = mem_aligned(n, sizeof *s->key);
    s->out = mem_aligned(n, sizeof *s->out);
    s->mass = mem_aligned(2 * SAMP_BUCKETS, sizeof *s->mass);
    s->tally = mem_new(n, sizeof *s->tally);
    s->recent = mem_aligned(n_past, sizeof *s->recent);
    s->z = mem_aligned(n_past, sizeof *s->z);
}

/* Bytes of a sampler that looks back n_past tokens. */
static size_t samp_bytes(int32_t n_vocab, int32_t n_past) {
    const samp  *s = NULL;
    const size_t each = sizeof *s->list_l + sizeof *s->list_id + sizeof *s->score + sizeof *s->key + sizeof *s->out + sizeof *s->tally;
    const size_t past = sizeof *s->past + sizeof *s->recent + sizeof *s->z;
    return sizeof *s + (size_t)n_vocab * each + ((size_t)n_vocab / SAMP_BLOCK + 1) * sizeof *s->best + 2 * SAMP_BUCKETS * sizeof *s->mass +
           (size_t)n_past * past;
}

/* All memory is taken here. seq numbers the sequence among those of one seed. NULL with e set when an option is bad. */
static samp *samp_new(const samp_opts *o, int32_t n_vocab, uint64_t seed, uint64_t seq, err_t *e) {
    uint8_t chain[SAMP_CHAIN_MAX];
    int     n_chain;
    ASSERT(n_vocab > 0 && (!o->dry_breakers || o->dry_breakers->sealed));
    if (!samp_check(o, n_vocab, e) || !samp__chain(o, chain, &n_chain, e)) return NULL;
    samp *s = mem_new(1, sizeof *s);
    *s = (samp){.o = *o, .n_vocab = n_vocab, .seed = seed, .seq = seq, .few = SAMP_FEW,
                .mu = 2 * o->mirostat_ent, .picked = -1};
    if (o->n_bias > 0) {
        s->bias = mem_new((size_t)o->n_bias, sizeof *s->bias);
        memcpy(s->bias, o->bias, (size_t)o->n_bias * sizeof *s->bias);
    }
    if (o->mirostat) {
        s->o.dynatemp_range = 0;
        chain[0] = (uint8_t)samp__kind_by_letter('t');
        n_chain = 1;
    }
    samp__prune(s, chain, n_chain);
    int32_t repeat = samp__penalties_off(o) ? 0 : samp__window(o, o->repeat_last_n);
    int32_t dry = samp__dry_off(o) ? 0 : samp__window(o, o->dry_penalty_last_n);
    s->n_past = repeat > dry ? repeat : dry;
    s->past = mem_new((size_t)s->n_past, sizeof *s->past);
    samp__take_scratch(s);
    return s;
}

/* A sampler with the options of another one and its randomness; the history is samp_copy's. */
static samp *samp_twin(const samp *from) {
    err_t     none = {0};
    samp_opts o = from->o;
    o.bias = from->bias;
    samp *s = samp_new(&o, from->n_vocab, from->seed, from->seq, &none);
    ASSERT(s && s->n_past == from->n_past);
    return s;
}

/* A token has become part of the text: one of the prompt, or the one picked. */
static void samp_accept(samp *s, int32_t token, bool prompt) {
    ASSERT(token >= 0 && token < s->n_vocab);
    if (s->n_past) s->past[s->n_seen % (uint64_t)s->n_past] = token;
    s->n_seen++;
    if (s->o.mirostat && !prompt && token == s->picked) s->mu -= s->o.mirostat_lr * (s->surprise - s->o.mirostat_ent);
    s->picked = -1;
}

/* dst takes the state of src, a sampler with the same options and vocabulary. */
static void samp_copy(samp *dst, const samp *src) {
    ASSERT(dst->n_vocab == src->n_vocab && dst->n_past == src->n_past);
    memcpy(dst->past, src->past, (size_t)src->n_past * sizeof *src->past);
    dst->n_seen = src->n_seen;
    dst->mu = src->mu;
    dst->surprise = src->surprise;
    dst->picked = src->picked;
}

/* --- picking --- */

/* Mirostat 1 (Basu et al. 2020): a Zipf exponent from the best candidates tells which top-k has the allowed surprise. */
static void samp__mirostat_1(samp *s) {
    int32_t n = samp__top(s, SAMP_MIRO_TOP);
    double  tb = 0, tt = 0;
    samp__sort(s->key, n);
    for (int32_t i = 0; i + 1 < n; i++) {
        double t = log((double)(i + 2) / (double)(i + 1));
        double b = (double)samp__key_value(s->key[i]) - (double)samp__key_value(s->key[i + 1]);
        if (!isfinite(b)) break;
        tb += t * b;
        tt += t * t;
    }
    if (tt <= 0) return;
    double exponent = tb / tt, eps = exponent - 1;
    double k = pow(eps * exp2((double)s->mu) / (1 - pow((double)s->n_vocab, -eps)), 1 / exponent);
    samp__keep_top(s, k >= (double)s->n ? s->n : k >= 1 ? (int32_t)k : 1);
}

/* Mirostat 2: candidates with more surprise than mu are dropped. */
static void samp__mirostat_2(samp *s) {
    double z = samp__total(s);
    float  least = (float)((double)s->max + log(z) - (double)s->mu * 0.69314718055994531);
    if (!(least <= s->max)) samp__keep_best(s);
    else samp__keep(s, s->l, least, s->n - 1);
}

/* What is left of the logits after bias and chain: s->n candidates, scanned; none when no token is possible. */
static void samp__run(samp *s, float *logits, uint64_t pos) {
    s->l = logits;
    s->id = NULL;
    s->n = s->n_vocab;
    s->scanned = false;
    s->pos = pos;
    for (int i = 0; i < s->o.n_bias; i++) logits[s->bias[i].id] += s->bias[i].bias;
    samp__scan(s);
    for (int i = 0; i < s->n_chain && s->max > -INFINITY; i++) {
        samp_table[s->chain[i]].apply(s, 1 + i);
        samp__scan(s);
    }
    if (s->max > -INFINITY && s->o.mirostat == 1 && !s->greedy) samp__mirostat_1(s);
    if (s->max > -INFINITY && s->o.mirostat == 2 && !s->greedy) samp__mirostat_2(s);
    samp__scan(s);
    if (!(s->max > -INFINITY)) s->n = 0;
}

/* The token for position pos; logits [n_vocab] are changed. -1: no token is possible (every logit is -inf or NaN). */
static int32_t samp_pick(samp *s, float *logits, uint64_t pos) {
    samp__run(s, logits, pos);
    s->picked = -1;
    if (!s->n) return -1;
    int32_t at = s->at = s->greedy ? samp__best(s) : samp__cross(s, s->l, rng_unit(rng_at(s->seed, s->seq, pos, 0)), true);
    if (s->o.mirostat)
        s->surprise = s->greedy ? 0 : (float)-log2((double)samp__weight(s->l[at] - s->max) / samp__total(s));
    return s->picked = samp__id(s, at);
}

/* The share of the token just picked among those that the chain left; its logits are still there. */
static float samp_chance(samp *s) { return (float)((double)samp__weight(s->l[s->at] - s->max) / samp__total(s)); }

/* The distribution that samp_pick draws from at pos, in the order in which it draws: descending. Returns how many
 * candidates there are (0: no token is possible); *out is good until the next call. logits are changed. */
__attribute__((unused)) static int32_t samp_probs(samp *s, float *logits, uint64_t pos, const samp_cand **out) {
    samp__run(s, logits, pos);
    *out = s->out;
    if (!s->n) return 0;
    if (s->greedy) samp__keep_best(s);
    double z = samp__total(s);
    for (int32_t i = 0; i < s->n; i++) s->key[i] = samp__key(s->l[i], i);
    samp__sort(s->key, s->n);
    for (int32_t i = 0; i < s->n; i++) {
        int32_t at = samp__key_index(s->key[i]);
        s->out[i] = (samp_cand){samp__id(s, at), s->l[at], (float)((double)samp__weight(s->l[at] - s->max) / z)};
    }
    return s->n;
}

/* ===== [gen] a model opened for running =====
 * A model with its threads, its cache and its step, opened for one request or for many; what every way to run it asks: whether a
 * prompt fits, which tokens are never picked, where a text stops, what a prompt's own tokens are worth. What goes wrong comes back
 * in err_t; an interrupt ends a run early and is not an error here.
 * Door: engine_open, engine_open_many, engine_open_seqs, engine_open_batch, engine_open_beside, engine_close, engine_save, engine_pack, engine_say_layout, engine_need, engine_need_weights, engine_need_steps,
 * gen_meter_start, gen_meter_step, gen_meter_stop, gen_step_rows, gen_whole, gen_finite, gen_banned, gen_stop_at, gen_fits, gen_score,
 * gen_score_json, gen_logits, gen_logprob. */

typedef struct {
    int       n_ctx;                                  /* positions; 0: as the model says, -1: what the request needs */
    int       n_batch;                                /* rows of one prefill step */
    int       n_threads;                              /* 0: what the process may use */
    const char *repack;                               /* auto, on, off */
    bool      as_bf16;                                /* f16 matrices multiply as bf16 */
    rope_opts rope;
} fwd_opts;

static const fwd_opts fwd_defaults = {-1, LLMRUN_STRESS ? 1 : 512, 0, "auto", false, {.yarn_ext = -1, .yarn_attn = -1, .yarn_fast = -1, .yarn_slow = -1}};

typedef struct {
    int64_t      n_predict;                           /* -1: until an end token or a full context */
    bool         ignore_eos, context_shift, ids, special_out;
    int64_t      n_keep; /* tokens that a context shift keeps, -1: the prompt; a start token always */
    const char **stop;
    int          n_stop;
    const char  *json;                                /* the model's name in an answer that is a JSON object, NULL: it is text */
} gen_opts;

static const gen_opts gen_defaults = {.n_predict = -1};

typedef struct engine {
    const gguf_file *g;
    const tok_vocab *v;
    model     m;
    pool     *p;
    kv_cache *kv;
    store    *kept;                                   /* blocks that a file keeps, NULL: none does */
    fwd      *f;
    fwd_row  *row;                                    /* [n_batch] */
    int       n_ctx, n_batch, max_out;                /* positions of a sequence; rows of a step; rows with logits */
    int       chunk;                                  /* rows of prompts in a step */
    bool      may_pack;                               /* between two tokens; until all is packed */
    bool      guest;                                  /* its threads are another's */
    int       pack_worth;                             /* tokens ahead that repay it; 0: not asked yet */
    size_t    pack_bytes;                             /* of weights each time */
    double    t_start, t_open;                        /* when the program started; seconds until the model was open */
} engine;

static void engine_close(engine *eng) {
    if (!eng) return;
    fwd_free(eng->f);
    store_close(eng->kept);
    kv_free(eng->kv);
    if (!eng->guest) pool_free(eng->p);
    model_close(&eng->m);
    mem_free(eng->row);
    mem_free(eng);
}

enum {
    GEN_SCRATCH = 256 << 20,                          /* bytes of a step's scratch */
    GEN_PACK_WORTH = 160,                             /* tokens of an answer from which packing the weights repays itself */
    GEN_PACK_STEPS = 16,                              /* tokens over which it is spread */
    GEN_SLOW_WORTH = 4,                               /* the same where many weights are slow in the file's layout */
    GEN_SLOW_STEPS = 2,
    GEN_SLOW_SHARE = 4,                               /* many: one in so many */
    GEN_PACK_PIECE = 16 << 20,                        /* bytes of weights packed between two drawings of the progress line */
    GEN_SHARED = 4 << 20,                             /* bytes of weights from which a draft's step is worth more than one thread */
    GEN_LOGIT_ROWS = 64,                              /* rows of a step that all ask for logits */
    GEN_LOGIT_BYTES = 64 << 20,                       /* bytes of logits, where many sequences share a step */
};

/* The context: what is asked for, else what the request needs (n_need, -1: no limit) up to the model's own. */
static void engine__context(engine *eng, const fwd_opts *fo, int64_t n_need) {
    const int train = eng->m.hp.n_ctx_train;
    eng->n_ctx = fo->n_ctx > 0 ? fo->n_ctx : fo->n_ctx < 0 && n_need >= 0 && n_need < train ? (int)n_need : train;
    if (eng->n_ctx < 1) eng->n_ctx = 1;
    if (eng->n_ctx > train) log_warn("a context of %d tokens; the model was trained with %d", eng->n_ctx, train);
}

/* The cache knows what a file keeps. */
static void engine__keep(engine *eng, const fwd_opts *fo, const kv_opts *ko) {
    const rope_opts *r = &fo->rope;
    char             rope[256];
    snprintf(rope, sizeof rope, "rope %s %.9g %.9g %d %.9g %.9g %.9g %.9g%s%s", r->scaling ? r->scaling : "-", (double)r->factor, (double)r->base,
             r->orig_ctx, (double)r->yarn_ext, (double)r->yarn_attn, (double)r->yarn_fast, (double)r->yarn_slow,
             dev_blas_on() ? " blas" : "", model_has_bf16(&eng->m) ? " bf16" : "");
    kv_share(eng->kv);
    eng->kept = store_open(eng->kv, ko->cache, gguf_fingerprint(eng->g), rope, eng->m.hp.n_vocab);
}

/* The file keeps what has become known by now. */
static bool engine_save(engine *eng, const kv_opts *ko, err_t *e) {
    return !eng->kept || ko->cache_ro || store_save(eng->kept, ko->cache_bytes, e);
}

/* All matrices into their other layout. */
static void engine__pack_all(engine *eng) {
    for (bool more = true; more && !g_interrupt; more = model_pack(&eng->m, eng->p, GEN_PACK_PIECE))
        progress_show("packing the weights: %.0f %%", 100.0 * (double)eng->m.packs_used / (double)(eng->m.packs_bytes + 1));
    progress_clear();
}

/* Detail for -v. */
static void engine__say(const engine *eng) {
    const kv_opts *o = &eng->kv->opts;
    log_info("model       %s: %s, %d layers, a context of %d tokens (trained with %d)", eng->g->path, eng->m.hp.desc->name, eng->m.hp.n_layer,
             eng->n_ctx, eng->m.hp.n_ctx_train);
    log_info("cache       keys %s, values %s, blocks of %d tokens", k_types[o->type_k].name, k_types[o->type_v].name, o->block);
    log_info("threads     %d, %s kernels, up to %d rows in a step", eng->p->n, k_level_name(), eng->n_batch);
}

/* Where the weights lie, for -v. */
static void engine_say_layout(const engine *eng, str *s) {
    const double mib = (double)eng->m.packs_used / 1048576;
    if (eng->m.packs_used) str_fmt(s, "llmrun: layout      %.1f MiB of weights packed, the others as in the file\n", mib);
    else str_put(s, "llmrun: layout      all weights as in the file\n");
}

/* The steps' rows are cut to what scratch may take. */
static void engine__cut_rows(engine *eng) {
    while (eng->n_batch > 1 && (size_t)eng->n_batch > GEN_SCRATCH / fwd_row_bytes(&eng->m)) eng->n_batch /= 2;
}

/* A cache for n_seq sequences, whose bound may cut the context; a step of n_batch rows, cut to what cache and scratch can take,
 * of which max_out ask for logits. */
static bool engine__fill(engine *eng, const fwd_opts *fo, const kv_opts *ko, int n_seq, int max_out, err_t *e) {
    const int64_t each = ((int64_t)eng->n_ctx + ko->block - 1) / ko->block * ko->block;
    int           rows;
    if (!(eng->kv = kv_new(&eng->m.hp, ko, n_seq * each, e))) return false;
    if (ko->cache) engine__keep(eng, fo, ko);
    int most = kv_most(eng->kv, &rows);
    if (most < eng->n_ctx) {
        log_info("the cache is bounded to %d tokens, the context with it", most);
        eng->n_ctx = most;
    }
    if (eng->n_batch > rows) eng->n_batch = rows;
    if (n_seq == 1 && eng->n_batch > eng->n_ctx) eng->n_batch = eng->n_ctx;
    engine__cut_rows(eng);
    eng->max_out = max_out < eng->n_batch ? max_out : eng->n_batch;
    if (!eng->guest) eng->p = pool_new(fo->n_threads > 0 ? fo->n_threads : pool_default_threads());
    if (strcmp(fo->repack, "on") == 0) engine__pack_all(eng);
    eng->f = fwd_new(&eng->m, eng->kv, eng->p, eng->n_batch, eng->max_out);
    eng->row = mem_new((size_t)eng->n_batch, sizeof *eng->row);
    eng->t_open = clock_now() - eng->t_start;
    engine__say(eng);
    return true;
}

/* --repack auto, and not at the scalar level, which gains nothing by it. */
static bool engine__may_pack(const fwd_opts *fo) {
    return strcmp(fo->repack, "auto") == 0 && strcmp(k_level_name(), "scalar") != 0;
}

/* When packing repays itself and how much is packed between two tokens: nothing where memory is short, since the file's pages can be
 * read again and packed ones can not. */
static void engine__plan_pack(engine *eng) {
    const model_bytes b = model_weigh(&eng->m);
    const bool        slow = b.slow > b.file / GEN_SLOW_SHARE;
    eng->pack_worth = slow ? GEN_SLOW_WORTH : GEN_PACK_WORTH;
    eng->pack_bytes = b.packed < pool_memory() / 4 * 3 ? (size_t)b.file / (slow ? GEN_SLOW_STEPS : GEN_PACK_STEPS) + 1 : 0;
}

/* All of it at once, for one that will run for long. */
static void engine__pack_now(engine *eng, const fwd_opts *fo) {
    engine__plan_pack(eng);
    if (engine__may_pack(fo) && eng->pack_bytes) engine__pack_all(eng);
}

/* After a step that gave `fresh` tokens some more matrices go into their other layout, if the n tokens of the whole run repay it; where
 * nobody said how many they are (-1), once as many have passed as would have repaid half of it. True: those were the last ones of
 * those that can be packed; false where there are none. */
static bool engine_pack(engine *eng, int64_t n, int64_t passed, int64_t fresh) {
    if (!eng->may_pack) return false;
    if (!eng->pack_worth) engine__plan_pack(eng);
    if (n < 0 ? passed < eng->pack_worth / 2 : n < eng->pack_worth) return false;
    const size_t most = fresh > GEN_PACK_STEPS ? SIZE_MAX : fresh > 1 ? eng->pack_bytes * (size_t)fresh : eng->pack_bytes;
    eng->may_pack = eng->pack_bytes && model_pack(&eng->m, eng->p, most);
    return !eng->may_pack && eng->m.packs_used;
}

static engine *engine__new(const gguf_file *g, const tok_vocab *v, const fwd_opts *fo, double t_start, err_t *e) {
    engine *eng = mem_new(1, sizeof *eng);
    eng->g = g;
    eng->v = v;
    eng->t_start = t_start;
    if (!model_open(&eng->m, g, &fo->rope, e)) {
        engine_close(eng);
        return NULL;
    }
    if (fo->as_bf16) model_as_bf16(&eng->m);
    return eng;
}

/* n_need: positions the request takes at most, -1: no limit. all_logits: every prompt row asks for logits, else n_guess rows of a
 * step may beside the last one. The context is cut to what the cache may hold, the step to what scratch may take. */
static engine *engine_open(const gguf_file *g, const tok_vocab *v, const fwd_opts *fo, const kv_opts *ko, int64_t n_need,
                           bool all_logits, int n_guess, double t_start, err_t *e) {
    engine *eng = engine__new(g, v, fo, t_start, e);
    if (!eng) return NULL;
    engine__context(eng, fo, n_need);
    eng->n_batch = all_logits && fo->n_batch > GEN_LOGIT_ROWS ? GEN_LOGIT_ROWS : fo->n_batch > n_guess ? fo->n_batch : n_guess + 1;
    if (n_need >= 0 && n_need < eng->n_batch) eng->n_batch = n_need > 0 ? (int)n_need : 1;
    if (engine__fill(eng, fo, ko, 1, all_logits ? eng->n_batch : 1 + n_guess, e)) {
        eng->chunk = fo->n_batch < eng->n_batch ? fo->n_batch : eng->n_batch;
        eng->may_pack = engine__may_pack(fo);
        return eng;
    }
    engine_close(eng);
    return NULL;
}

/* For many sequences of up to n_ctx positions, whose rows, n_rows in all, fill the steps one after the other. */
static engine *engine_open_many(const gguf_file *g, const tok_vocab *v, const fwd_opts *fo, const kv_opts *ko, int64_t n_rows,
                                double t_start, err_t *e) {
    engine *eng = engine__new(g, v, fo, t_start, e);
    if (!eng) return NULL;
    engine__context(eng, fo, -1);
    eng->n_batch = n_rows < fo->n_batch ? (int)n_rows : fo->n_batch;
    const size_t out = GEN_LOGIT_BYTES / sizeof(float) / (size_t)eng->m.hp.n_vocab;
    if (engine__fill(eng, fo, ko, eng->n_batch / eng->n_ctx + 2, out > 1 ? (int)out : 1, e)) return eng;
    engine_close(eng);
    return NULL;
}

/* For n_seq sequences of fo->n_ctx positions, which may all be reserved at once; n_out rows of a step may ask for logits. Behind a
 * window there is room for more, or the cache would bound the rows of a step. */
static engine *engine_open_seqs(const gguf_file *g, const fwd_opts *fo, const kv_opts *ko, int n_seq, int n_out, err_t *e) {
    engine *eng = engine__new(g, NULL, fo, clock_now(), e);
    if (!eng) return NULL;
    eng->n_ctx = fo->n_ctx + (eng->m.hp.window ? eng->m.hp.window + fo->n_batch + 2 * ko->block : 0);
    eng->n_batch = fo->n_batch;
    if (engine__fill(eng, fo, ko, n_seq, n_out, e)) {
        engine__pack_now(eng, fo);
        return eng;
    }
    engine_close(eng);
    return NULL;
}

/* --- what a run needs of memory, so that the cache gets the rest --- */

enum {
    ENGINE_NEEDS = 12,
    ENGINE_SPARE = 256 << 20,                         /* bytes that a cache without a bound leaves to others, where there is much memory */
    ENGINE_SHARE = 8,                                 /* else one in so many; and the cache has as much, however little is left */
};

/* What takes memory beside the cache, a row for each. */
typedef struct {
    struct {
        const char *what;
        uint64_t    bytes;
    }        row[ENGINE_NEEDS];
    int      n;
    uint64_t token_bytes;                             /* beside each token of the cache */
} engine_needs;

static void engine_need(engine_needs *t, const char *what, uint64_t n_bytes) {
    ASSERT(t->n < ENGINE_NEEDS);
    t->row[t->n].what = what;
    t->row[t->n++].bytes = n_bytes;
}

static uint64_t engine__need_all(const engine_needs *t) {
    uint64_t sum = 0;
    for (int i = 0; i < t->n; i++) sum += t->row[i].bytes;
    return sum;
}

/* Whether the weights may be packed in this run. */
static bool engine__packs(const model *m, const fwd_opts *fo) {
    return strcmp(fo->repack, "on") == 0 || (engine__may_pack(fo) && model_weigh(m).packed < pool_memory() / 4 * 3);
}

/* What a model keeps in memory: pages of its file that are read again and again, copies of weights or what they are made of. */
static void engine_need_weights(engine_needs *t, const model *m, const fwd_opts *fo, const char *kept, const char *packed) {
    const model_bytes b = model_weigh(m);
    const bool        packs = engine__packs(m, fo);
    engine_need(t, kept, m->g->n_bytes - (packs ? b.given : 0));
    engine_need(t, packed, !packs ? 0 : b.packed > b.given ? b.packed : b.given);
}

/* What its steps take, and one sampler with a row of logits for each of n_seqs sequences. */
static void engine_need_steps(engine_needs *t, const model *m, int n_threads, int n_rows, int n_out, int n_seqs, const char *const what[3]) {
    const uint64_t logit = sizeof(float) * (uint64_t)m->hp.n_vocab, logits = logit * (uint64_t)n_out;
    engine_need(t, what[0], fwd_bytes(m, n_threads, n_rows, n_out) - logits);
    engine_need(t, what[1], logits);
    engine_need(t, what[2], (samp_bytes(m->hp.n_vocab, samp_defaults.repeat_last_n) + logit) * (uint64_t)n_seqs);
}

/* Bytes for the keys and values of a cache that nobody bounded, `token` bytes for each token, where `all` bytes of memory are left; 0: no
 * bound. */
static uint64_t engine__cache_bytes(const engine_needs *t, uint64_t all, uint64_t token) {
    if (all == UINT64_MAX) return 0;
    const uint64_t spare = all / ENGINE_SHARE < ENGINE_SPARE ? all / ENGINE_SHARE : ENGINE_SPARE, taken = engine__need_all(t) + spare;
    const uint64_t left = all > taken ? all - taken : 0, cache = left / (token + t->token_bytes) * token;
    return cache > all / ENGINE_SHARE ? cache : all / ENGINE_SHARE;
}

/* The table of a run's memory, for -v. */
static void engine__say_needs(const engine *eng, const engine_needs *t, uint64_t all) {
    const kv_group *gr = &eng->kv->group[0];
    str             s = {0};
    if (g_log_level < LOG_VERBOSE) return;
    str_put(&s, "llmrun: memory      ");
    if (all == UINT64_MAX) str_put(&s, "no limit known");
    else str_fmt(&s, "%.1f MiB left", (double)all / 1048576);
    for (int i = 0; i < t->n; i++)
        if (t->row[i].bytes) str_fmt(&s, ", %s %.1f", t->row[i].what, (double)t->row[i].bytes / 1048576);
    str_fmt(&s, ", cache up to %.1f\n", (double)gr->block_bytes * gr->max_blocks / 1048576);
    fputs(s.p, stderr);
    str_drop(&s);
}

/* All that an engine for n_seqs sequences needs beside its cache; `beside`: what others need, NULL: nobody is there. */
static engine_needs engine__batch_needs(engine *eng, const fwd_opts *fo, int n_seqs, int n_out, const engine_needs *beside) {
    static const char *const steps[] = {"steps", "logits", "samplers"};
    engine_needs             t = {0};
    engine_need_weights(&t, &eng->m, fo, "weights in the file", "packed weights");
    engine_need_steps(&t, &eng->m, fo->n_threads > 0 ? fo->n_threads : pool_default_threads(), eng->n_batch, n_out < eng->n_batch ? n_out : eng->n_batch,
                      n_seqs, steps);
    for (int i = 0; beside && i < beside->n; i++) engine_need(&t, beside->row[i].what, beside->row[i].bytes);
    t.token_bytes = beside ? beside->token_bytes : 0;
    return t;
}

/* For requests that come and go, n_seqs of them at once, with n_guess rows of guesses, blocks shared by what they hold. Each may reach
 * the context, but all of them only as far as the cache's memory goes. beside: what others of this run need, NULL: there are none. */
static engine *engine_open_batch(const gguf_file *g, const tok_vocab *v, const fwd_opts *fo, const kv_opts *ko, int n_seqs, int n_guess,
                                 const engine_needs *beside, double t_start, err_t *e) {
    engine *eng = engine__new(g, v, fo, t_start, e);
    kv_opts own = *ko;
    if (!eng) return NULL;
    engine__context(eng, fo, -1);
    eng->n_batch = fo->n_batch + n_seqs + n_guess;
    engine__cut_rows(eng);
    const engine_needs needs = engine__batch_needs(eng, fo, n_seqs, n_seqs + n_guess, beside);
    const uint64_t     all = pool_memory();
    if (!own.mem_bytes) own.mem_bytes = engine__cache_bytes(&needs, all, model_kv_bytes(&eng->m.hp, ko->type_k, ko->type_v));
    if (LLMRUN_STRESS && !own.max_blocks) own.max_blocks = eng->n_ctx / own.block + 4;
    if (engine__fill(eng, fo, &own, n_seqs, n_seqs + n_guess, e)) {
        engine__say_needs(eng, &needs, all);
        if (!eng->kept) kv_share(eng->kv);
        eng->chunk = eng->n_batch > eng->max_out ? eng->n_batch - eng->max_out : 1;
        eng->may_pack = engine__may_pack(fo);
        return eng;
    }
    engine_close(eng);
    return NULL;
}

/* A second model beside another one, for as long contexts, whatever it was trained with; steps of at least n_least rows. It runs on the
 * other's threads, or, where waiting for each other would take longer than the work, on one. */
static engine *engine_open_beside(const gguf_file *g, const tok_vocab *v, const fwd_opts *fo, const kv_opts *ko, const engine *host,
                                  int n_seqs, int n_least, err_t *e) {
    engine *eng = engine__new(g, v, fo, clock_now(), e);
    if (!eng) return NULL;
    fwd_opts own = *fo;
    own.n_threads = 1;
    eng->guest = model_weigh(&eng->m).file >= GEN_SHARED;
    eng->p = eng->guest ? host->p : NULL;
    eng->n_ctx = host->n_ctx;
    eng->n_batch = fo->n_batch > n_least ? fo->n_batch : n_least;
    if (engine__fill(eng, &own, ko, n_seqs, n_seqs, e)) {
        kv_share(eng->kv);
        engine__pack_now(eng, &own);
        return eng;
    }
    engine_close(eng);
    return NULL;
}

/* --- progress of steps, layer by layer: a step of many rows may take minutes --- */

#define GEN_QUIET_S 1.0                               /* seconds before the first line of work that is likely short */

typedef struct {
    fwd        *f;                                    /* NULL: stopped */
    const char *what;                                 /* "reading the text" */
    char        more[64];                             /* what stands between the count and the time left */
    int64_t     done, step, all;                      /* tokens before this step, of this step, of all steps */
    double      since, from;                          /* clock_now() of the beginning; no line before `from` */
} gen_meter;

static void gen__meter_show(void *ctx, int il, int n_layer) {
    const gen_meter *m = ctx;
    if (clock_now() < m->from || !progress_due()) return;
    const double done = (double)m->done + (double)m->step * il / n_layer;
    progress_show("%s: %.0f of %lld tokens%s%s", m->what, floor(done), (long long)m->all, m->more,
                  progress_left(m->since, done, (double)m->all).p);
}

/* From now on steps show how far they are. `after`: seconds without a line. */
static void gen_meter_start(gen_meter *m, engine *eng, const char *what, int64_t all, double after) {
    const double now = clock_now();
    *m = (gen_meter){.f = eng->f, .what = what, .all = all, .since = now, .from = now + after};
    eng->f->on_layer = gen__meter_show;
    eng->f->on_layer_ctx = m;
}

/* The next step has n tokens. */
static void gen_meter_step(gen_meter *m, int64_t n) {
    m->done += m->step;
    m->step = n;
}

static void gen_meter_stop(gen_meter *m) {
    if (!m->f) return;
    m->f->on_layer = NULL;
    m->f = NULL;
    progress_clear();
}

/* A file cut short under the mapping reads as zeros up to the end of its last page: after every step we look. */
static bool gen_whole(const engine *eng, err_t *e) {
    return gguf_alive(eng->g) ||
           err_set(e, EXIT_RESOURCE, "%s: the file became shorter while the model was running", eng->g->path);
}

/* True when every one of n floats is finite. */
static bool gen_finite(const float *x, size_t n) {
    uint32_t bad = 0, u;
    for (size_t i = 0; i < n; i++) {
        memcpy(&u, x + i, sizeof u);
        bad |= (uint32_t)((u & 0x7f800000u) == 0x7f800000u);
    }
    return !bad;
}

/* Runs eng->row[0, n), n_out of which ask for logits. False: an error in e, which calls the last token number `last`, or an
 * interrupt. */
static bool gen_step_rows(engine *eng, int n, int n_out, long long last, float **logits, err_t *e) {
    *logits = fwd_step(eng->f, eng->row, n);
    if (!*logits || !gen_whole(eng, e)) return false;
    return gen_finite(*logits, (size_t)eng->f->n_vocab * (size_t)n_out) ||
           err_set(e, EXIT_INPUT,
                   "%s: the logits after token %lld hold a NaN or an infinity: damaged weights, or a model out of range",
                   eng->g->path, last);
}

/* Runs ids[from, to), each of which asks for logits, as one step behind what the sequence holds. False: an error in e, or an interrupt. */
static bool gen__step(engine *eng, kv_seq *seq, const int32_t *ids, int from, int to, float **logits, err_t *e) {
    if (!kv_require(seq, to, e)) return false;
    for (int i = from; i < to; i++) eng->row[i - from] = (fwd_row){ids[i], i, seq, true};
    return gen_step_rows(eng, to - from, to - from, to - 1, logits, e);
}

/* --- what a text is --- */

/* Where the first of n stop strings begins in the text from byte `from` on, or the text's length. */
static size_t gen_stop_at(const str *text, size_t from, const bytes *stop, int n) {
    size_t first = text->n;
    for (int i = 0; i < n; i++) {
        const char *p = stop[i].n && first > from ? memmem(text->p + from, text->n - from, stop[i].p, stop[i].n) : NULL;
        if (p && (size_t)(p - text->p) < first) first = (size_t)(p - text->p);
    }
    return first;
}

/* Ids that are never picked: those the file suppresses and, for --ignore-eos, those that end a text. */
static bool gen_banned(const engine *eng, bool ends, tok_ids *out, err_t *e) {
    const gguf_kv *kv = NULL;
    int            got = gguf_get_arr(eng->g, "tokenizer.ggml.suppress_tokens", &kv, e);
    for (uint64_t i = 0; got == 1 && i < kv->count; i++) {
        uint64_t id;
        if (!gguf_arr_u64(kv, i, &id) || id >= (uint64_t)eng->m.hp.n_vocab)
            return gguf_bad(eng->g, kv->part, kv->at, e,
                            "tokenizer.ggml.suppress_tokens: value %llu is out of range, expected a token id",
                            (unsigned long long)i);
        tok_ids_add(out, (int32_t)id);
    }
    for (int32_t id = 0; ends && id < eng->m.hp.n_vocab; id++)
        if (tok_is_eog(eng->v, id)) tok_ids_add(out, id);
    return got >= 0;
}

/* Whether the prompt is one and fits the context, asked before an answer is begun. */
static bool gen_fits(const engine *eng, const tok_ids *prompt, err_t *e) {
    if (prompt->n == 0) return err_set(e, EXIT_INPUT, "the prompt is empty and this model has no start token, expected a prompt");
    return prompt->n <= (size_t)eng->n_ctx ||
           err_set(e, EXIT_INPUT, "the prompt has %zu tokens, the context holds %d (-c N)", prompt->n, eng->n_ctx);
}

/* --- every position's logits --- */

/* log(softmax(logits)[id]), summed in double. */
static double gen_logprob(const float *logits, int n, int32_t id) {
    double sum = 0;
    float  top = k_max(logits, n, NULL);
    for (int i = 0; i < n; i++) sum += exp((double)logits[i] - (double)top);
    return (double)logits[id] - (double)top - log(sum);
}

typedef void gen_put(void *ctx, const engine *eng, const tok_ids *ids, size_t i, const float *logits, out_t *out);

static void gen__put_logits(void *ctx, const engine *eng, const tok_ids *ids, size_t i, const float *logits, out_t *out) {
    (void)ctx, (void)ids, (void)i;
    out_put(out, logits, (size_t)eng->m.hp.n_vocab * sizeof *logits);
}

static void gen__put_score(void *ctx, const engine *eng, const tok_ids *ids, size_t i, const float *logits, out_t *out) {
    char line[64];
    (void)ctx;
    if (i + 1 >= ids->n) return;
    int n = snprintf(line, sizeof line, "%zu %d %.9g\n", i + 1, ids->id[i + 1],
                     gen_logprob(logits, eng->m.hp.n_vocab, ids->id[i + 1]));
    out_put(out, line, (size_t)n);
}

/* put() with the logits after each token of the prompt, which gen_fits(). False: an error in e, an interrupt, or nobody to write to. */
static bool gen__each(engine *eng, const tok_ids *ids, gen_put *put, void *ctx, out_t *out, err_t *e) {
    kv_seq   *seq = kv_seq_new(eng->kv);
    bool      ok = true;
    gen_meter meter;
    gen_meter_start(&meter, eng, "running the prompt", (int64_t)ids->n, 0);
    if (isatty(fileno(out->f))) gen_meter_stop(&meter);   /* the lines themselves show how far it is */
    for (int at = 0, n = (int)ids->n, to; ok && at < n; at = to) {
        float *logits = NULL;
        to = n - at > eng->n_batch ? at + eng->n_batch : n;
        gen_meter_step(&meter, to - at);
        ok = gen__step(eng, seq, ids->id, at, to, &logits, e);
        for (int i = at; ok && i < to; i++) put(ctx, eng, ids, (size_t)i, logits + (size_t)(i - at) * (size_t)eng->m.hp.n_vocab, out);
        ok = ok && !out->why;
    }
    gen_meter_stop(&meter);
    kv_seq_free(seq);
    return ok;
}

/* `index id logprob` for each token that has one before it; the start token, where there is one, has index 0. */
static bool gen_score(engine *eng, const tok_ids *ids, out_t *out, err_t *e) {
    return gen__each(eng, ids, gen__put_score, NULL, out, e);
}

/* {"index":I,"id":ID,"text":"...","logprob":L}: null where no token stands before it. */
static void gen__json_token(const engine *eng, size_t i, int32_t id, double logprob, out_t *out) {
    str s = {0};
    str_fmt(&s, "%s\n{\"index\":%zu,", i ? "," : "", i);
    tok_json(eng->v, id, &s);
    if (isnan(logprob)) str_put(&s, ",\"logprob\":null}");
    else str_fmt(&s, ",\"logprob\":%.9g}", logprob);
    out_put(out, s.p, s.n);
    str_drop(&s);
}

static void gen__put_score_json(void *ctx, const engine *eng, const tok_ids *ids, size_t i, const float *logits, out_t *out) {
    double *total = ctx;
    if (i + 1 >= ids->n) return;
    const double logprob = gen_logprob(logits, eng->m.hp.n_vocab, ids->id[i + 1]);
    *total += logprob;
    gen__json_token(eng, i + 1, ids->id[i + 1], logprob, out);
}

/* The same as one JSON object: the tokens with their texts, how many there are, the sum of the log-probabilities; that is null, and the
 * list short, where an error or an interrupt came in between. */
static bool gen_score_json(engine *eng, const tok_ids *ids, const char *name, out_t *out, err_t *e) {
    double total = 0;
    str    s = {0};
    str_put(&s, "{\"model\":");
    str_json(&s, bytes_of(name));
    str_put(&s, ",\"tokens\":[");
    out_put(out, s.p, s.n);
    gen__json_token(eng, 0, ids->id[0], NAN, out);
    const bool ok = gen__each(eng, ids, gen__put_score_json, &total, out, e);
    str_clear(&s);
    str_fmt(&s, ok ? "],\n\"count\":%zu,\"total\":%.9g}\n" : "],\n\"count\":%zu,\"total\":null}\n", ids->n, total);
    out_put(out, s.p, s.n);
    str_drop(&s);
    return ok;
}

/* Raw little-endian f32, [n][V]. */
static bool gen_logits(engine *eng, const tok_ids *ids, out_t *out, err_t *e) {
    return gen__each(eng, ids, gen__put_logits, NULL, out, e);
}

/* ===== [lines] long files in, results that are never lost =====
 * Both ends of a batch: a reader of lines that keeps one of them in memory, and a file of results, one record a
 * line, that no end of a run damages. A record is
 *     {"id":"batch_req_LINE_HASH","custom_id":...,"line":LINE,"file":...,"response":...,"error":...}
 * without blanks, LINE its line in the input (1 is the first) and HASH 16 hex digits, bytes_hash(0, that line), so that
 * its beginning says what it answers; file only where the input is several files. An answer carries the run's
 * system_fingerprint behind its model. Beside a file of results lies its header, the same name with .llmrun behind it: the
 * settings of the run, one name=value a line, there before the first record.
 *   A record answers the line whose bytes have its hash: wherever that line stands now where it has a custom_id, else at its
 * number. When the input is known to its end, records that answer no line of it are moved to FILE.stale, and those whose
 * line has another number get that number.
 *   Invariants: memory is bounded by the longest line allowed, by some 100 bytes for each record of a file that is
 * resumed and by LINES_IDS custom_ids; a file of results has one writer, who holds its lock; all of it but the
 * last line is whole records, and what a killed run left of a last one is cut off by the next; a file is replaced whole,
 * after what it loses is on the disk.
 *   A shard is a part of a file's lines: those whose prompts begin alike stay together, LINES_GROUP at most.
 * Door: lines_open, lines_next, lines_close, lines_shard_*; results_open, results_setting, results_seed, results_fingerprint,
 * results_file, results_new_id, results_forget_ids, results_has, results_settle, results_put, results_sort, results_close,
 * results_merge. */

enum {
    LINES_CHUNK = 1 << 18,                            /* bytes of one read */
    LINES_KEEP = 1 << 20,                             /* bytes of buffer that a long line may leave behind */
    LINES_PAUSE = 100,                                /* milliseconds between two looks at g_interrupt */
    LINES_PATIENCE = 10,                              /* pauses until it is said that the stream is waited for */
    LINES_ENDLESS = 64,                               /* a stream's line so many bounds long has no end */
    LINES_IDS = 4 << 20,                              /* custom_ids among which a second one is found */
    LINES_RECORD = 1 << 30,                           /* bytes of a record */
    LINES_HEADER = 1 << 20,                           /* bytes of a header */
    LINES_ALIKE = 256,                                /* bytes of a prompt that decide about its group */
    LINES_GROUP = 64,                                 /* lines of a group */
    LINES_GROUPS = 1 << 20,                           /* groups open at a time */
    LINES_SHARDS = 1 << 20
};

/* --- the reader --- */

typedef enum {
    LINES_LINE,
    LINES_END,
    LINES_LATER,                                      /* nothing to read yet, or a signal asks us to stop */
    LINES_LONG,                                       /* a line over the bound has been passed over */
    LINES_FAILED
} lines_got;

typedef struct {
    const char *name;                                 /* in errors: a path, or standard input */
    int         fd;
    bool        lent;                                 /* fd is somebody else's to close */
    bool        stream;                               /* no regular file: may pause, may have no end */
    int         pauses;                               /* in which nothing came */
    uint64_t    size;                                 /* bytes of a regular file, else 0 */
    uint64_t    most;                                 /* bytes of a line */
    uint8_t    *buf;                                  /* [cap]; [from, to) is read and not given yet */
    size_t      cap, from, to;
    size_t      seen;                                 /* bytes at `from` among which there is no newline */
    uint64_t    passed;                               /* bytes of the line at `from` that were let go */
    uint64_t    next;                                 /* offset of that line in the file */
    bool        begun, ended;                         /* any byte order mark is behind us; the last byte is */
    uint64_t    no, at, n_bytes;                      /* the last line: number, offset, bytes without ending */
    bool        whole;                                /* it had an ending */
} lines_in;

static void lines_close(lines_in *in) {
    if (!in) return;
    if (!in->lent) close(in->fd);
    mem_free(in->buf);
    mem_free(in);
}

static lines_in *lines__on(int fd, bool lent, const char *name, uint64_t most, err_t *e) {
    lines_in   *in = mem_new(1, sizeof *in);
    struct stat st;
    *in = (lines_in){.name = name, .fd = fd, .lent = lent, .stream = true};
    in->most = most < SIZE_MAX / 4 ? most : SIZE_MAX / 4;
    if (fstat(fd, &st)) err_set(e, err_code_of(errno), "%s: %s", name, strerror(errno));
    else if (S_ISDIR(st.st_mode))
        err_set(e, EXIT_INPUT, "%s: is a directory, expected a file of lines", name);
    else if (isatty(fd)) err_set(e, EXIT_INPUT, "%s: is a terminal, expected a file or a pipe", name);
    else if (S_ISREG(st.st_mode)) in->stream = false, in->size = (uint64_t)st.st_size;
    if (!e->code) return in;
    lines_close(in);
    return NULL;
}

/* path "-": standard input. most: bytes of the longest line that is given. A pipe with a name is waited for
 * by lines_next(), not here. */
static lines_in *lines_open(const char *path, uint64_t most, err_t *e) {
    if (strcmp(path, "-") == 0) return lines__on(STDIN_FILENO, true, "standard input", most, e);
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0) return lines__on(fd, false, path, most, e);
    err_set(e, err_code_of(errno), "%s: %s", path, strerror(errno));
    return NULL;
}

/* Whether a read would not wait. Looks away from the stream now and then: a signal may come just before
 * poll(). */
static bool lines__ready(lines_in *in, bool wait) {
    struct pollfd p = {.fd = in->fd, .events = POLLIN};
    do {
        if (g_interrupt) return false;
        int n = in->stream ? poll(&p, 1, wait ? LINES_PAUSE : 0) : 1;
        if (n > 0 || (n < 0 && errno != EINTR)) return true;   /* what is wrong, the read will tell */
        if (wait && n == 0 && ++in->pauses == LINES_PATIENCE) log_warn("waiting for %s", in->name);
    } while (wait);
    return false;
}

/* Room for one read; a buffer that a long line has left is given back. */
static void lines__room(lines_in *in) {
    size_t n = in->to - in->from;
    if (in->from && n) memmove(in->buf, in->buf + in->from, n);
    in->from = 0;
    in->to = n;
    size_t cap = in->cap > LINES_KEEP && n <= LINES_CHUNK ? LINES_KEEP : in->cap;
    if (cap - n < LINES_CHUNK) {
        size_t most = (size_t)in->most + 2 * (size_t)LINES_CHUNK;
        cap = cap * 2 < most ? cap * 2 : most;
        if (cap < n + LINES_CHUNK) cap = n + LINES_CHUNK;
    }
    if (cap == in->cap) return;
    in->buf = mem_grow(in->buf, cap, 1);
    in->cap = cap;
}

/* One read. LINES_LINE: there are more bytes now, or `ended` is set. */
static lines_got lines__fill(lines_in *in, bool wait, err_t *e) {
    for (;;) {
        if (!lines__ready(in, wait)) return LINES_LATER;
        lines__room(in);
        ssize_t got = read(in->fd, in->buf + in->to, LINES_CHUNK);
        if (got >= 0) {
            in->to += (size_t)got;
            in->ended = got == 0;
            return LINES_LINE;
        }
        if (errno == EINTR) continue;
        if (errno == EAGAIN && wait) continue;
        if (errno == EAGAIN) return LINES_LATER;
        err_set(e, err_code_of(errno), "%s: cannot read at byte %llu: %s", in->name,
                (unsigned long long)(in->next + in->passed + (in->to - in->from)), strerror(errno));
        return LINES_FAILED;
    }
}

/* A byte order mark at the very beginning is no part of the first line. False: too few bytes to tell. */
static bool lines__begin(lines_in *in) {
    static const uint8_t mark[3] = {0xef, 0xbb, 0xbf};
    if (in->begun) return true;
    size_t n = in->to - in->from < sizeof mark ? in->to - in->from : sizeof mark;
    bool   like = n == 0 || memcmp(in->buf + in->from, mark, n) == 0;
    if (like && n < sizeof mark && !in->ended) return false;
    if (like && n == sizeof mark) in->from += n, in->next += n;
    return in->begun = true;
}

/* The n bytes at `from` end a line. */
static lines_got lines__give(lines_in *in, size_t n, bool newline, bytes *line, uint64_t *no) {
    const uint8_t *p = in->buf + in->from;
    in->at = in->next;
    in->next += in->passed + n + newline;
    in->from += n + newline;
    in->seen = 0;
    in->whole = newline;
    if (newline && n && p[n - 1] == '\r') n--;
    in->n_bytes = in->passed + n;
    in->passed = 0;
    *no = ++in->no;
    if (in->n_bytes > in->most) return LINES_LONG;
    *line = (bytes){p, n};
    return LINES_LINE;
}

/* Lets go what is too long already, but for its last byte, which may belong to the ending. */
static bool lines__pass(lines_in *in, err_t *e) {
    size_t n = in->to - in->from;
    if (n > in->most + 1 || (in->passed && n > 1)) {
        in->passed += n - 1;
        in->from = in->to - 1;
    }
    in->seen = in->to - in->from;
    if (!in->stream || in->passed / LINES_ENDLESS <= in->most + LINES_CHUNK) return true;
    return err_set(e, EXIT_INPUT, "%s: line %llu has %llu bytes and no end in sight, expected at most %llu",
                   in->name, (unsigned long long)in->no + 1, (unsigned long long)in->passed,
                   (unsigned long long)in->most);
}

/* The next line, without its ending (LF or CR LF), and its number, 1 for the first. It lies in the reader's
 * buffer until the next call. A line over the bound is empty here; in->n_bytes says how long it was. wait: a
 * pipe is waited for. */
static lines_got lines_next(lines_in *in, bool wait, bytes *line, uint64_t *no, err_t *e) {
    *line = (bytes){0};
    for (;;) {
        if (lines__begin(in)) {
            size_t n = in->to - in->from;
            if (n > in->seen) {
                const uint8_t *at = in->buf + in->from, *end = memchr(at + in->seen, '\n', n - in->seen);
                if (end) return lines__give(in, (size_t)(end - at), true, line, no);
            }
            if (in->ended && !n) return LINES_END;
            if (in->ended) return lines__give(in, n, false, line, no);
            if (!lines__pass(in, e)) return LINES_FAILED;
        }
        lines_got got = lines__fill(in, wait, e);
        if (got != LINES_LINE) return got;
    }
}

/* --- a table of hashes: 16 bytes an entry, open addressing --- */

typedef struct {
    uint64_t a, b;                                    /* a 0: free */
} lines__entry;

typedef struct {
    lines__entry *at;                                 /* [cap], a power of two */
    size_t        cap, n;
    uint64_t      key;                                /* nobody knows it, so nobody can fill one corner */
    uint64_t      mask;                               /* bits of b that are hash; the others are a value */
} lines__table;

/* Bits that nobody can guess. */
static uint64_t lines__secret(void) { return rng_mix(rng_fresh() << 32 ^ rng_fresh()); }

static void lines__table_init(lines__table *t, uint64_t mask) {
    *t = (lines__table){mem_new(1024, sizeof *t->at), 1024, 0, lines__secret(), mask};
}

/* The entry of this hash, or the free one that it would get. a is not 0. */
static lines__entry *lines__find(const lines__table *t, uint64_t a, uint64_t b) {
    size_t i = rng_mix(a ^ t->key) & (t->cap - 1);
    while (t->at[i].a && (t->at[i].a != a || ((t->at[i].b ^ b) & t->mask))) i = (i + 1) & (t->cap - 1);
    return &t->at[i];
}

/* The same, and it is there afterwards. Entries move. */
static lines__entry *lines__enter(lines__table *t, uint64_t a, uint64_t b) {
    if (t->n >= t->cap / 4 * 3) {
        lines__table old = *t;
        t->cap *= 2;
        t->at = mem_new(t->cap, sizeof *t->at);
        for (size_t i = 0; i < old.cap; i++)
            if (old.at[i].a) *lines__find(t, old.at[i].a, old.at[i].b) = old.at[i];
        mem_free(old.at);
    }
    lines__entry *en = lines__find(t, a, b);
    if (!en->a) *en = (lines__entry){a, b & t->mask}, t->n++;
    return en;
}

/* --- shards --- */

typedef struct {
    uint32_t     i, n;                                /* ours is i of n, 1 the first */
    uint64_t     n_group;
    lines__table open;                                /* beginning of a prompt: group << 8 | lines in it */
} lines_shard;

static bool lines__count(const char **s, uint32_t *out) {
    uint64_t    v = 0;
    const char *p = *s;
    for (; *p >= '0' && *p <= '9' && v <= LINES_SHARDS; p++) v = v * 10 + (uint64_t)(*p - '0');
    bool ok = p > *s && v >= 1 && v <= LINES_SHARDS;
    *s = p;
    *out = (uint32_t)v;
    return ok;
}

/* "2/8": the second of eight. */
static bool lines_shard_parse(const char *text, lines_shard *s, err_t *e) {
    const char *p = text;
    *s = (lines_shard){0};
    if (!lines__count(&p, &s->i) || *p++ != '/' || !lines__count(&p, &s->n) || *p || s->i > s->n)
        return err_set(e, EXIT_INPUT, "--shard: expected I/N, part I of N (1/8 to 8/8), found '%.100s'",
                       text);
    lines__table_init(&s->open, 0);
    return true;
}

static void lines_shard_drop(lines_shard *s) {
    mem_free(s->open.at);
    *s = (lines_shard){0};
}

/* Whether the next line of the file, whose prompt begins so, is ours: asked for every line once, in order.
 * Groups are numbered as they begin and dealt out in turn. Where very many are open all are closed, which
 * every shard does at the same line. */
static bool lines_shard_is_mine(lines_shard *s, bytes prompt) {
    if (prompt.n > LINES_ALIKE) prompt.n = LINES_ALIKE;
    if (s->open.n >= LINES_GROUPS) {
        memset(s->open.at, 0, s->open.cap * sizeof *s->open.at);
        s->open.n = 0;
    }
    lines__entry *en = lines__enter(&s->open, bytes_hash(0, prompt) | 1, 0);
    if ((en->b & 0xff) % LINES_GROUP == 0) en->b = s->n_group++ << 8;
    en->b++;
    return (en->b >> 8) % s->n == s->i - 1;
}

/* --- the beginning of a record --- */

typedef struct {
    uint64_t line, hash;
    uint64_t file;                                    /* results_file() of the name of its input, 0: none is named */
    bool     has_id, failed, twice;                   /* failed: an error; twice: that its custom_id came before */
    bytes    name;                                    /* of its input, a JSON string in the record; none */
    bytes    place;                                   /* in the record: its line, as far as it is named behind custom_id */
    bytes    fingerprint;                             /* in the record; none in an error and in records of older versions */
    bytes    rest;                                    /* in the record: all behind those; begins with the answer or the error */
} results__head;

static const char results__twice[] = "duplicate_custom_id";

static bool results__word(bytes *b, const char *word) {
    size_t n = strlen(word);
    if (b->n < n || memcmp(b->p, word, n) != 0) return false;
    b->p += n;
    b->n -= n;
    return true;
}

/* A line number, as it is printed. */
static bool results__line(bytes *b, uint64_t *out) {
    size_t   i = 0;
    uint64_t v = 0;
    for (; i < b->n && b->p[i] >= '0' && b->p[i] <= '9'; i++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(b->p[i] - '0'), &v))
            return false;
    if (!i || b->p[0] == '0') return false;
    *b = (bytes){b->p + i, b->n - i};
    *out = v;
    return true;
}

/* n hex digits; upper: capitals too. */
static bool results__hex(bytes *b, int n, bool upper, uint64_t *out) {
    uint64_t v = 0;
    if (b->n < (size_t)n) return false;
    for (int i = 0; i < n; i++) {
        uint8_t c = b->p[i];
        if (c >= '0' && c <= '9') c = (uint8_t)(c - '0');
        else if (c >= 'a' && c <= 'f') c = (uint8_t)(c - 'a' + 10);
        else if (upper && c >= 'A' && c <= 'F') c = (uint8_t)(c - 'A' + 10);
        else return false;
        v = v << 4 | c;
    }
    *b = (bytes){b->p + n, b->n - (size_t)n};
    *out = v;
    return true;
}

static void results__put_char(str *s, uint32_t c) {
    char b[4] = {(char)c};
    int  n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = n - 1; n > 1 && i > 0; i--, c >>= 6) b[i] = (char)(0x80 | (c & 0x3f));
    if (n > 1) b[0] = (char)(c | (0xf00u >> n & 0xff));
    str_add(s, b, (size_t)n);
}

/* What follows \u, a second half included where the first one asks for it. */
static bool results__unicode(bytes *b, str *s) {
    uint64_t c, low;
    if (!results__hex(b, 4, true, &c) || (c >= 0xdc00 && c <= 0xdfff)) return false;
    if (c >= 0xd800 && c <= 0xdbff) {
        if (!results__word(b, "\\u") || !results__hex(b, 4, true, &low) || low < 0xdc00 || low > 0xdfff)
            return false;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    results__put_char(s, (uint32_t)c);
    return true;
}

/* A JSON string with both its quotes, as the bytes it stands for: those beyond ASCII pass as they are. */
static bool results__string(bytes *b, str *s) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (!results__word(b, "\"")) return false;
    for (;;) {
        size_t n = 0;
        while (n < b->n && b->p[n] >= 0x20 && b->p[n] != '"' && b->p[n] != '\\') n++;
        str_add(s, b->p, n);
        *b = (bytes){b->p + n, b->n - n};
        if (results__word(b, "\"")) return true;
        if (!results__word(b, "\\") || !b->n) return false;
        const char *name = memchr(names, *b->p, sizeof names - 1);
        const bool  code = *b->p == 'u';
        if (!name && !code) return false;
        *b = (bytes){b->p + 1, b->n - 1};
        if (name) str_add(s, &values[name - names], 1);
        else if (!results__unicode(b, s)) return false;
    }
}

/* The key of an input's name; never 0. */
static uint64_t results_file(const char *name) {
    const uint64_t key = name ? bytes_hash(0, bytes_of(name)) : 0;
    return name && !key ? 1 : key;
}

/* ,"line":N and ,"file":NAME, where they are there. */
static bool results__place_of(bytes *b, results__head *h, str *name) {
    uint64_t line;
    h->place = (bytes){b->p, 0};
    if (results__word(b, ",\"line\":") && (!results__line(b, &line) || line != h->line)) return false;
    h->place.n = (size_t)(b->p - h->place.p);
    if (!results__word(b, ",\"file\":")) return true;
    h->name = (bytes){b->p, 0};
    str_clear(name);
    if (!results__string(b, name)) return false;
    h->name.n = (size_t)(b->p - h->name.p);
    h->file = results_file(name->n ? name->p : "");
    return true;
}

/* The fingerprint of an answer, whose keys have one order; b is what stands behind "response": and moves to "choices". */
static bytes results__fingerprint_of(bytes *b) {
    static const char *const keys[] = {"{\"status_code\":", ",\"request_id\":", ",\"body\":{\"id\":", ",\"object\":", ",\"created\":", ",\"model\":"};
    bytes at = *b, value;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!results__word(&at, keys[i]) || !bytes_cut_json(&at).n) return (bytes){0};
    if (!results__word(&at, ",\"system_fingerprint\":")) value = (bytes){0};
    else value = bytes_cut_json(&at);
    if (results__word(&at, ",")) *b = at;
    return value.n > 2 && value.p[0] == '"' ? (bytes){value.p + 1, value.n - 2} : (bytes){0};
}

/* A record without its newline. False: it is none of ours. id is its custom_id, where it has one. */
static bool results__read(bytes b, results__head *h, str *id) {
    str name = {0};
    *h = (results__head){0};
    str_clear(id);
    if (!b.n || b.p[b.n - 1] != '}') return false;
    if (!results__word(&b, "{\"id\":\"batch_req_") || !results__line(&b, &h->line) ||
        !results__word(&b, "_") || !results__hex(&b, 16, false, &h->hash) ||
        !results__word(&b, "\",\"custom_id\":"))
        return false;
    h->has_id = !results__word(&b, "null");
    if (h->has_id && !results__string(&b, id)) return false;
    const bool placed = results__place_of(&b, h, &name);
    str_drop(&name);
    if (!placed || !results__word(&b, ",\"response\":")) return false;
    h->failed = results__word(&b, "null,");
    h->rest = b;
    h->twice = h->failed && results__word(&b, "\"error\":{\"code\":\"") && results__word(&b, results__twice) &&
               results__word(&b, "\"");
    if (!h->failed) h->fingerprint = results__fingerprint_of(&h->rest);
    return true;
}

/* The last line of a file of results is none. */
static bool results__foreign(const lines_in *in, err_t *e) {
    return err_set(e, EXIT_INPUT, "%s: byte %llu: line %llu is no record, expected results of llmrun", in->name,
                   (unsigned long long)in->at, (unsigned long long)in->no);
}

/* --- the header --- */

static const char results__first[] = "llmrun results 1\n";

/* The next line of a text whose lines all have their ends. */
static bool results__each(bytes *text, bytes *line) {
    const uint8_t *end = text->n ? memchr(text->p, '\n', text->n) : NULL;
    if (!end) return false;
    *line = (bytes){text->p, (size_t)(end - text->p)};
    *text = (bytes){end + 1, text->n - line->n - 1};
    return true;
}

/* Whether a line is a setting of this name. */
static bool results__named(bytes line, bytes name, bytes *value) {
    if (line.n <= name.n || line.p[name.n] != '=' || memcmp(line.p, name.p, name.n) != 0) return false;
    *value = (bytes){line.p + name.n + 1, line.n - name.n - 1};
    return true;
}

static bytes results__name(bytes line) {
    const uint8_t *eq = line.n ? memchr(line.p, '=', line.n) : NULL;
    return (bytes){line.p, eq ? (size_t)(eq - line.p) : line.n};
}

static bool results__find(bytes settings, bytes name, bytes *value) {
    for (bytes line; results__each(&settings, &line);)
        if (results__named(line, name, value)) return true;
    return false;
}

/* A header's bytes: its first line, then settings, each with a name. */
static bool results__header_read(bytes text, const char *name, bytes *settings, err_t *e) {
    bytes b = text;
    if (!results__word(&b, results__first))
        return err_set(e, EXIT_INPUT, "%s: byte 0: found no header of results, expected '%.*s'", name,
                       (int)sizeof results__first - 2, results__first);
    *settings = b;
    for (bytes line; b.n;) {
        size_t at = text.n - b.n;
        if (!results__each(&b, &line))
            return err_set(e, EXIT_INPUT, "%s: byte %zu: found half a line, expected its end", name, at);
        if (!results__name(line).n || results__name(line).n == line.n)
            return err_set(e, EXIT_INPUT, "%s: byte %zu: found no setting, expected name=value", name, at);
    }
    return true;
}

static int results__shown(bytes b) { return b.n < 100 ? (int)b.n : 100; }

static bool results__unlike(const char *file, bytes name, const bytes *was, const bytes *now, err_t *e) {
    static const bytes none = {(const uint8_t *)"nothing", 7};
    const bytes        w = was ? *was : none, n = now ? *now : none;
    return err_set(e, EXIT_INPUT, "%s: was made with %.*s %.*s, this run has %.*s, expected the same settings",
                   file, results__shown(name), (const char *)name.p, results__shown(w), (const char *)w.p,
                   results__shown(n), (const char *)n.p);
}

/* Whether two runs had the same settings; the first that differs is told. */
static bool results__same(const char *file, bytes was, bytes now, err_t *e) {
    bytes b = now, line, value;
    while (results__each(&b, &line)) {
        bytes name = results__name(line), mine = {0};
        results__named(line, name, &mine);
        bool has = results__find(was, name, &value);
        if (!has || !bytes_eq(value, mine)) return results__unlike(file, name, has ? &value : NULL, &mine, e);
    }
    for (b = was; results__each(&b, &line);) {
        bytes name = results__name(line), theirs = {0};
        results__named(line, name, &theirs);
        if (!results__find(now, name, &value)) return results__unlike(file, name, &theirs, NULL, e);
    }
    return true;
}

/* The header's name: beside the file itself, whatever links lead to it. */
static void results__header_name(const char *path, str *out) {
    char *real = realpath(path, NULL);
    str_put(out, real ? real : path);
    str_put(out, ".llmrun");
    mem_free(real);
}

/* The settings of a header, within its text; no text when there is none. */
static bool results__header_load(const char *name, str *text, bytes *settings, err_t *e) {
    int fd = open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    str_add(text, "", 0);
    *settings = (bytes){0};
    if (fd < 0 && errno == ENOENT) return true;
    if (fd < 0) return err_set(e, err_code_of(errno), "%s: %s", name, strerror(errno));
    for (ssize_t got = 1; got && !e->code;) {
        str_room(text, 4096);
        got = read(fd, text->p + text->n, 4096);
        if (got < 0 && errno == EINTR) got = 1;
        else if (got < 0) err_set(e, err_code_of(errno), "%s: cannot read: %s", name, strerror(errno));
        else text->n += (size_t)got;
        if (text->n > LINES_HEADER)
            err_set(e, EXIT_INPUT, "%s: more than %d bytes, expected a header of results", name,
                    LINES_HEADER);
    }
    close(fd);
    return !e->code && results__header_read(str_bytes(text), name, settings, e);
}

static bool results__write(int fd, const void *p, size_t n, size_t *done) {
    for (*done = 0; *done < n;) {
        ssize_t got = write(fd, (const uint8_t *)p + *done, n - *done);
        if (got > 0) *done += (size_t)got;
        else if (got < 0 && errno == EAGAIN)
            poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, LINES_PAUSE);
        else if (got == 0 || errno != EINTR) return false;
    }
    return true;
}

/* Under a name of its own until it is on the disk. Whoever writes holds the lock of the results, so that what
 * lies under that name is left by a run that has ended. */
static bool results__header_save(const char *name, bytes settings, err_t *e) {
    str    tmp = {0}, text = {0};
    size_t done;
    ASSERT(!settings.n || settings.p[settings.n - 1] == '\n');
    str_fmt(&tmp, "%s.tmp", name);
    str_put(&text, results__first);
    str_add(&text, settings.p, settings.n);
    unlink(tmp.p);
    int  fd = open(tmp.p, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    bool ok = fd >= 0 && results__write(fd, text.p, text.n, &done) && fsync(fd) == 0;
    int  why = errno;
    if (fd >= 0 && close(fd) && ok) ok = false, why = errno;
    if (ok && rename(tmp.p, name)) ok = false, why = errno;
    if (!ok && fd >= 0) unlink(tmp.p);
    if (!ok) err_set(e, err_code_of(why), "%s: cannot write: %s", name, strerror(why));
    str_drop(&tmp);
    str_drop(&text);
    return ok;
}

/* What the settings of a run are in one word: llmrun-MODEL-OTHERS-SEED. It does not depend on the shard, whose answers are
 * those of the whole file. */
static void results_fingerprint(bytes settings, str *out) {
    bytes    line, weights = {0}, seed = {0}, v;
    uint64_t h = 0;
    for (bytes b = settings; results__each(&b, &line);)
        if (results__named(line, bytes_of("model"), &v)) weights = v;
        else if (results__named(line, bytes_of("seed"), &v)) seed = v;
        else if (!results__named(line, bytes_of("shard"), &v)) h = bytes_hash(h, line);
    str_fmt(out, "llmrun-%.*s-%08x-", (int)weights.n, weights.n ? (const char *)weights.p : "", (unsigned)(h ^ h >> 32));
    for (size_t i = 0; i < seed.n; i++)
        if (seed.p[i] != ' ') str_add(out, &seed.p[i], 1);
}

/* --- the results of a run --- */

typedef struct {                                      /* a record of a file that is resumed */
    uint64_t line, hash, file;                        /* what it answers */
    uint64_t at, n;                                   /* offset; bytes without the newline */
    uint64_t now;                                     /* the line of the input that it answers, 0: none yet */
    uint32_t next;                                    /* behind it among those with its key, from 1 */
    bool     by_id, fits, failed, bad_utf8;           /* its line may move; made with this run's settings; as they say */
} results__old;

typedef struct {
    const char   *name;                               /* in errors: a path, or stdout */
    int           fd;
    bool          file;                               /* a regular file that we opened and locked */
    int           why;                                /* errno of a failed write; EPIPE: the reader has gone */
    uint64_t      n_old, n_new;                       /* records that a resumed file held; those put since */
    uint64_t      n_old_failed;                       /* of those that it held: with an error */
    uint64_t      n_stale;                            /* that were moved out of it */
    str           fingerprint;                        /* of this run */
    bool          strict;                             /* no header: every answer has to carry that fingerprint */
    uint64_t      key[2];
    results__old *old;                                /* [n_old] in the order of the file */
    size_t        old_cap;
    uint64_t      old_end;                            /* where they end */
    lines__table  by_key;                             /* key of a record: its place in old, from 1 */
    lines__table  ids;                                /* custom_ids of the input */
    uint64_t      n_ids;
    bool          warned;
} results;

static void results__free(results *r) {
    if (r->fd != STDOUT_FILENO && r->fd >= 0) close(r->fd);
    mem_free(r->ids.at);
    mem_free(r->by_key.at);
    mem_free(r->old);
    str_drop(&r->fingerprint);
    mem_free(r);
}

static uint64_t results__key(const results *r, uint64_t file, uint64_t line, uint64_t hash, bool by_id) {
    const uint64_t what[3] = {file, hash, by_id ? 0 : line};
    const uint64_t k = bytes_hash(r->key[0], (bytes){(const uint8_t *)what, sizeof what});
    return k ? k : 1;
}

/* Whether a line is answered by the file that is resumed, and from now on that record is taken. by_id: the line has a custom_id
 * that no line before it has. */
static bool results_has(results *r, uint64_t file, uint64_t line, uint64_t hash, bool by_id) {
    lines__entry *en = r->n_old ? lines__find(&r->by_key, results__key(r, file, line, hash, by_id), 0) : NULL;
    results__old *o = en && en->a && en->b ? &r->old[en->b - 1] : NULL;
    if (!o || o->hash != hash || o->file != file || o->by_id != by_id || (!by_id && o->line != line)) return false;
    en->b = o->next;
    o->now = line;
    return true;
}

/* Whether the file's lines have not had this custom_id yet; from now on they have. Beyond LINES_IDS nobody knows, and it
 * is new. */
static bool results_new_id(results *r, uint64_t file, bytes id) {
    const uint64_t h = bytes_hash(r->key[0] ^ file, id), a = h ? h : 1, b = bytes_hash(r->key[1] ^ file, id);
    if (lines__find(&r->ids, a, b)->a) return false;
    if (r->n_ids == LINES_IDS) {
        if (!r->warned)
            log_warn("more than %d custom_ids; those after it are not looked for among them", LINES_IDS);
        r->warned = true;
        return true;
    }
    lines__enter(&r->ids, a, b);
    r->n_ids++;
    return true;
}

/* The input is read again from its beginning. */
static void results_forget_ids(results *r) {
    mem_free(r->ids.at);
    lines__table_init(&r->ids, ~(uint64_t)0);
    r->n_ids = 0;
}

/* The table of the records, all of them free to be taken. The first of a key stands before the others. */
static void results__index(results *r) {
    mem_free(r->by_key.at);
    lines__table_init(&r->by_key, 0);
    r->n_old_failed = 0;
    for (size_t i = r->n_old; i-- > 0;) {
        results__old *o = &r->old[i];
        o->now = 0;
        r->n_old_failed += o->failed;
        if (!o->fits) continue;
        lines__entry *en = lines__enter(&r->by_key, results__key(r, o->file, o->line, o->hash, o->by_id), 0);
        o->next = (uint32_t)en->b;
        en->b = i + 1;
    }
}

/* A record is remembered. Without a header its fingerprint has to say that the settings were the same. */
static bool results__note(results *r, const lines_in *in, bytes record, str *id, err_t *e) {
    results__head h;
    if (!results__read(record, &h, id) || r->n_old == UINT32_MAX - 1) return results__foreign(in, e);
    const bool fits = h.failed || bytes_eq(h.fingerprint, str_bytes(&r->fingerprint)) || (!h.fingerprint.n && !r->strict);
    if (r->strict && !fits) {
        const bytes has = h.fingerprint.n ? h.fingerprint : bytes_of("none");
        return err_set(e, EXIT_INPUT, "%s.llmrun: not found, and line %llu of the results has another system_fingerprint than this run: %.*s, expected %s",
                       r->name, (unsigned long long)in->no, results__shown(has), (const char *)has.p, r->fingerprint.p);
    }
    if (r->n_old == r->old_cap) r->old = mem_grow(r->old, r->old_cap = 2 * r->old_cap + 64, sizeof *r->old);
    r->old[r->n_old++] = (results__old){.line = h.line, .hash = h.hash, .file = h.file, .at = in->at, .n = record.n,
                                        .by_id = h.has_id && !h.twice, .fits = fits, .failed = h.failed, .bad_utf8 = !utf8_whole(record)};
    return true;
}

/* Cuts the file to n bytes: what lies behind them is no whole record. */
static bool results__cut(const results *r, uint64_t n, uint64_t torn, err_t *e) {
    while (ftruncate(r->fd, (off_t)n))
        if (errno != EINTR)
            return err_set(e, err_code_of(errno), "%s: cannot cut off a torn last line: %s", r->name,
                           strerror(errno));
    log_warn("%s: %llu bytes of a torn last line are cut off", r->name, (unsigned long long)torn);
    return true;
}

/* Remembers what the file answers. False without words: a signal asks us to stop. */
static bool results__resume(results *r, err_t *e) {
    lines_in *in = lseek(r->fd, 0, SEEK_SET) == 0 ? lines__on(r->fd, true, r->name, LINES_RECORD, e) : NULL;
    str       id = {0};
    bytes     line;
    uint64_t  no;
    lines_got got;
    if (!in) return err_set(e, err_code_of(errno), "%s: cannot read: %s", r->name, strerror(errno));
    while ((got = lines_next(in, true, &line, &no, e)) == LINES_LINE && in->whole)
        if (!results__note(r, in, line, &id, e)) break;
    if (got == LINES_LINE && !in->whole) results__cut(r, in->at, in->next - in->at, e);
    else if (got == LINES_LONG) results__foreign(in, e);
    r->old_end = in->whole ? in->next : in->at;
    results__index(r);
    lines_close(in);
    str_drop(&id);
    return got != LINES_LATER && !e->code;
}

/* One run writes a file. A lock ends with its holder, however that ends. */
static bool results__lock(const results *r, err_t *e) {
    while (flock(r->fd, LOCK_EX | LOCK_NB)) {
        if (errno == EINTR) continue;
        if (errno == EWOULDBLOCK)
            return err_set(e, EXIT_INPUT, "%s: another run is writing it, expected a file of our own",
                           r->name);
        log_warn("%s: cannot be locked (%s); no other run may write it", r->name, strerror(errno));
        return true;
    }
    return true;
}

/* The header is compared before the file is touched, and written before the first record. */
static bool results__prepare(results *r, uint64_t size, bool resume, bytes settings, err_t *e) {
    str   name = {0}, text = {0};
    bytes was;
    bool  ok;
    results__header_name(r->name, &name);
    if (!size) ok = results__header_save(name.p, settings, e);
    else if (!resume)
        ok = err_set(e, EXIT_INPUT, "%s: holds %llu bytes, expected a new file (--resume goes on with this one)",
                     r->name, (unsigned long long)size);
    else {
        ok = results__header_load(name.p, &text, &was, e);
        r->strict = !text.n;
        ok = ok && (r->strict || results__same(r->name, was, settings, e)) && results__resume(r, e) &&
             (!r->strict || results__header_save(name.p, settings, e));
    }
    str_drop(&name);
    str_drop(&text);
    return ok;
}

static bool results__open(results *r, const char *path, bool resume, bytes settings, err_t *e) {
    struct stat st;
    r->name = path;
    r->file = stat(path, &st) != 0 || S_ISREG(st.st_mode);
    if (!r->file && resume)
        return err_set(e, EXIT_INPUT, "%s: is no regular file, expected one to --resume", path);
    r->fd = open(path, (r->file ? O_RDWR | O_CREAT | O_APPEND : O_WRONLY) | O_NOCTTY | O_CLOEXEC, 0666);
    if (r->fd < 0) return err_set(e, err_code_of(errno), "%s: %s", path, strerror(errno));
    if (!r->file) return true;
    if (!results__lock(r, e)) return false;
    struct stat now;
    if (fstat(r->fd, &st)) return err_set(e, err_code_of(errno), "%s: %s", path, strerror(errno));
    if (stat(path, &now) || now.st_ino != st.st_ino || now.st_dev != st.st_dev)
        return err_set(e, EXIT_INPUT, "%s: another run has replaced it just now, expected a file of our own", path);
    return results__prepare(r, (uint64_t)st.st_size, resume, settings, e);
}

/* path NULL or "-": stdout, which has neither header nor lock. settings: one name=value a line, no newline in
 * a value. NULL without words: a signal asks us to stop. */
static results *results_open(const char *path, bool resume, bytes settings, err_t *e) {
    results *r = mem_new(1, sizeof *r);
    bool     out = !path || strcmp(path, "-") == 0;
    *r = (results){.name = "stdout", .fd = STDOUT_FILENO, .key = {lines__secret(), lines__secret()}};
    lines__table_init(&r->ids, ~(uint64_t)0);
    results_fingerprint(settings, &r->fingerprint);
    if (out ? !resume || err_set(e, EXIT_INPUT, "--resume: results go to stdout, expected -o FILE")
            : results__open(r, path, resume, settings, e)) return r;
    results__free(r);
    return NULL;
}

/* A setting that the header beside `path` holds. False: it holds none, or, with words, it cannot be read. */
static bool results_setting(const char *path, const char *name, str *value, err_t *e) {
    str   file = {0}, text = {0};
    bytes settings, v;
    results__header_name(path, &file);
    bool found = results__header_load(file.p, &text, &settings, e) && text.n &&
                 results__find(settings, bytes_of(name), &v);
    str_clear(value);
    if (found) str_add(value, v.p, v.n);
    str_drop(&file);
    str_drop(&text);
    return found;
}

/* The seed of the first answer of a file, as its fingerprint names it. False: there is none. */
static bool results_seed(const char *path, str *value) {
    err_t     e = {0};
    lines_in *in = lines_open(path, LINES_RECORD, &e);
    str       id = {0};
    bytes     line;
    uint64_t  no;
    str_clear(value);
    while (in && !in->stream && !value->n && lines_next(in, true, &line, &no, &e) == LINES_LINE) {
        results__head h;
        if (!results__read(line, &h, &id)) break;
        size_t n = h.fingerprint.n;
        while (n && h.fingerprint.p[n - 1] != '-') n--;
        if (n) str_add(value, h.fingerprint.p + n, h.fingerprint.n - n);
    }
    lines_close(in);
    str_drop(&id);
    return value->n > 0;
}

/* Takes back the `done` bytes of a record whose rest could not be written, where they are the file's last. */
static void results__take_back(const results *r, size_t done) {
    struct stat st;
    off_t       end = lseek(r->fd, 0, SEEK_CUR);
    if (!done || end < (off_t)done || fstat(r->fd, &st) || !S_ISREG(st.st_mode) || st.st_size != end) return;
    if (ftruncate(r->fd, end - (off_t)done) == 0) lseek(r->fd, end - (off_t)done, SEEK_SET);
}

/* One record with its newline, whole. False: words in e, or none when the reader has gone, as it did with the
 * last one. */
static bool results_put(results *r, bytes record, err_t *e) {
    size_t done;
    ASSERT(record.n && record.p[record.n - 1] == '\n');
    if (r->why) return false;
    progress_yield(r->fd);
    if (results__write(r->fd, record.p, record.n, &done)) {
        r->n_new++;
        return true;
    }
    r->why = errno ? errno : EIO;
    results__take_back(r, done);
    if (r->why == EPIPE) return false;
    return err_set(e, EXIT_RESOURCE, "%s: cannot write: %s; %llu results are whole%s", r->name,
                   strerror(r->why), (unsigned long long)(r->n_old + r->n_new),
                   r->file ? ", --resume goes on from there" : "");
}

/* False: some of what was put did not reach the disk. */
static bool results_close(results *r, err_t *e) {
    if (!r) return true;
    bool ok = !r->file || r->why || fsync(r->fd) == 0 || errno == EINVAL || errno == ENOSYS ||
              err_set(e, EXIT_RESOURCE, "%s: cannot write: %s", r->name, strerror(errno));
    results__free(r);
    return ok;
}

/* --- several files of results as one --- */

typedef struct {
    uint64_t line, hash, at;                          /* at: offset in its file */
    uint64_t input;                                   /* results_file() of its input's name; once all are known, the rank of that */
    uint32_t n, file;                                 /* bytes without the newline */
    bool     failed;
} results__place;

typedef struct {
    uint64_t key;
    str      name;
} results__input;

typedef struct {
    const char *const *path;
    int               *fd;                            /* [files] */
    results__place    *place;                         /* [n] */
    size_t             n, cap;
    results__input    *input;                         /* [n_inputs] names of inputs, in the order of their records */
    size_t             n_inputs;
    lines__table       seen;                          /* of those: key to place, from 1 */
    str                one, two;                      /* records */
    uint64_t           n_repaired;
} results__pile;

static int results__by_line(const void *pa, const void *pb) {
    const results__place *a = pa, *b = pb;
    if (a->input != b->input) return a->input < b->input ? -1 : 1;
    if (a->line != b->line) return a->line < b->line ? -1 : 1;
    if (a->file != b->file) return a->file < b->file ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

static int results__by_name(const void *pa, const void *pb) {
    const results__input *a = pa, *b = pb;
    return strcmp(a->name.p, b->name.p);
}

/* The inputs in the order of `names`, or of the bytes of their own; records get the rank of theirs. */
static void results__rank(results__pile *p, const char *const *names, int n_names) {
    lines__table rank;
    lines__table_init(&rank, 0);
    if (p->n_inputs) qsort(p->input, p->n_inputs, sizeof *p->input, results__by_name);
    for (int i = 0; i < n_names; i++) lines__enter(&rank, results_file(names[i]), 0)->b = (uint64_t)i + 1;
    for (size_t i = 0; i < p->n_inputs; i++) {
        lines__entry *en = lines__enter(&rank, p->input[i].key, 0);
        if (!en->b) en->b = (uint64_t)n_names + i + 1;
    }
    for (size_t i = 0; i < p->n; i++)
        if (p->place[i].input) p->place[i].input = lines__find(&rank, p->place[i].input, 0)->b;
    mem_free(rank.at);
}

static void results__note_input(results__pile *p, const results__head *h) {
    lines__entry *en = h->file ? lines__enter(&p->seen, h->file, 0) : NULL;
    bytes         literal = h->name;
    if (!en || en->b) return;
    p->input = mem_grow(p->input, p->n_inputs + 1, sizeof *p->input);
    results__input *in = &p->input[p->n_inputs++];
    *in = (results__input){.key = h->file};
    results__string(&literal, &in->name);
    str_add(&in->name, "", 0);
    en->b = p->n_inputs;
}

static bool results__gather(results__pile *p, uint32_t file, str *id, err_t *e) {
    lines_in     *in = lines_open(p->path[file], LINES_RECORD, e);
    results__head h;
    bytes         line;
    uint64_t      no;
    lines_got     got;
    if (!in) return false;
    if (in->stream || in->lent)
        err_set(e, EXIT_INPUT, "%s: is no regular file, expected one with results", in->name);
    else p->fd[file] = in->fd, in->lent = true;
    while (!e->code && (got = lines_next(in, true, &line, &no, e)) != LINES_END && got != LINES_FAILED &&
           got != LINES_LATER) {
        if (got == LINES_LINE && !in->whole) log_warn("%s: its last line is torn and left out", in->name);
        else if (got == LINES_LONG || !results__read(line, &h, id)) results__foreign(in, e);
        else {
            if (p->n == p->cap)
                p->place = mem_grow(p->place, p->cap = p->cap ? p->cap * 2 : 1024, sizeof *p->place);
            p->place[p->n++] = (results__place){h.line, h.hash, in->at, h.file, (uint32_t)line.n, file, h.failed};
            results__note_input(p, &h);
        }
    }
    lines_close(in);
    return !e->code && !g_interrupt;
}

/* A record that was there a moment ago. */
static bool results__fetch(int fd, const char *name, uint64_t at, size_t n, str *to, err_t *e) {
    str_clear(to);
    str_room(to, n);
    while (to->n < n) {
        ssize_t got = pread(fd, to->p + to->n, n - to->n, (off_t)(at + to->n));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return err_set(e, err_code_of(errno), "%s: cannot read: %s", name, strerror(errno));
        if (got == 0)
            return err_set(e, EXIT_RESOURCE, "%s: shrank while it was read, expected it to stay as it was", name);
        to->n += (size_t)got;
    }
    return true;
}

static bool results__load(const results__pile *p, const results__place *w, str *to, err_t *e) {
    return results__fetch(p->fd[w->file], p->path[w->file], w->at, w->n, to, e);
}

/* A record as valid UTF-8, which those of older versions need not be. True: it had to be changed. */
static bool results__repair(str *record) {
    str good = {0};
    if (utf8_whole(str_bytes(record))) return false;
    str_utf8(&good, str_bytes(record));
    str_drop(record);
    *record = good;
    return true;
}

/* What a record answers: the choices of an answer; an error is an error. */
static bytes results__choices(const str *record, str *id) {
    results__head h;
    if (!results__read(str_bytes(record), &h, id) || h.failed || !results__word(&h.rest, "\"choices\":")) return (bytes){0};
    return bytes_cut_json(&h.rest);
}

/* Two records of one line have to answer the same request in the same way. An answer counts more than an error. */
static bool results__agree(results__pile *p, results__place *first, const results__place *w, str *id, err_t *e) {
    const char *why = NULL;
    if (first->hash != w->hash) why = "answer different texts";
    else if (first->failed || w->failed) {
        if (first->failed && !w->failed) *first = *w;
    } else {
        if (!results__load(p, first, &p->one, e) || !results__load(p, w, &p->two, e)) return false;
        results__repair(&p->one);                     /* a copy may have been repaired before */
        results__repair(&p->two);
        if (!bytes_eq(results__choices(&p->one, id), results__choices(&p->two, id))) why = "have different answers";
    }
    if (!why) return true;
    return err_set(e, EXIT_INPUT, "%s: byte %llu and %s: byte %llu: two records of line %llu %s (batch_req_%llu_%016llx, batch_req_%llu_%016llx), expected one",
                   p->path[first->file], (unsigned long long)first->at, p->path[w->file], (unsigned long long)w->at, (unsigned long long)w->line, why,
                   (unsigned long long)first->line, (unsigned long long)first->hash, (unsigned long long)w->line, (unsigned long long)w->hash);
}

/* Sorts the records and leaves one for each line. */
static bool results__sort(results__pile *p, const char *const *names, int n_names, str *id, err_t *e) {
    size_t n = 0;
    results__rank(p, names, n_names);
    if (p->n) qsort(p->place, p->n, sizeof *p->place, results__by_line);
    for (size_t i = 0; i < p->n; i++) {
        if (g_interrupt) return false;
        results__place *last = n ? &p->place[n - 1] : NULL, *w = &p->place[i];
        if (!last || last->line != w->line || last->input != w->input) p->place[n++] = *w;
        else if (!results__agree(p, last, w, id, e)) return false;
    }
    p->n = n;
    return true;
}

static bool results__put_all(results__pile *p, out_t *out, err_t *e) {
    for (size_t i = 0; i < p->n; i++) {
        if (g_interrupt || !results__load(p, &p->place[i], &p->one, e)) return false;
        p->n_repaired += results__repair(&p->one);
        if (!out_put(out, p->one.p, p->one.n) || !out_put(out, "\n", 1)) return false;
    }
    return true;
}

/* What the lines of each input lack. */
static void results__missing(const results__pile *p) {
    uint64_t missing = 0, last = 0;
    for (size_t i = 0; i < p->n; i++) {
        const results__place *w = &p->place[i];
        if (i && w->input != w[-1].input) last = 0;
        missing += w->line - last - 1;
        last = w->line;
    }
    if (missing && p->n_inputs < 2)
        log_warn("%llu of the lines 1 to %llu have no result (empty lines have none)", (unsigned long long)missing, (unsigned long long)last);
    else if (missing)
        log_warn("%llu lines of %zu files have no result (empty lines have none)", (unsigned long long)missing, p->n_inputs);
    if (p->n_repaired)
        log_warn("%llu records held bytes that are not UTF-8; U+FFFD stands there now", (unsigned long long)p->n_repaired);
}

static void results__pile_init(results__pile *p, const char *const *path, int n) {
    *p = (results__pile){.path = path, .fd = mem_new((size_t)n, sizeof *p->fd)};
    lines__table_init(&p->seen, 0);
    for (int i = 0; i < n; i++) p->fd[i] = -1;
}

static void results__pile_drop(results__pile *p, int n) {
    for (int i = 0; i < n; i++)
        if (p->fd[i] >= 0) close(p->fd[i]);
    for (size_t i = 0; i < p->n_inputs; i++) str_drop(&p->input[i].name);
    mem_free(p->fd);
    mem_free(p->place);
    mem_free(p->input);
    mem_free(p->seen.at);
    str_drop(&p->one);
    str_drop(&p->two);
}

/* The records of n files in the order of their inputs' names and of their lines, one for each line. Two that do not agree are
 * refused before anything is written. False without words: out has no reader any more, or a signal asks us to stop. */
static bool results_merge(const char *const *path, int n, out_t *out, err_t *e) {
    results__pile p;
    struct rlimit most;
    str           id = {0};
    bool          ok = true;
    if (getrlimit(RLIMIT_NOFILE, &most) == 0 && most.rlim_cur < most.rlim_max) {
        most.rlim_cur = most.rlim_max;                /* a file for each machine is open at once */
        setrlimit(RLIMIT_NOFILE, &most);
    }
    results__pile_init(&p, path, n);
    for (int i = 0; ok && i < n; i++) ok = results__gather(&p, (uint32_t)i, &id, e);
    ok = ok && results__sort(&p, NULL, 0, &id, e) && out_begin(out, e) && results__put_all(&p, out, e);
    if (ok) results__missing(&p);
    results__pile_drop(&p, n);
    str_drop(&id);
    return ok;
}

/* --- a file of results, replaced whole --- */

typedef struct {
    str   path, tmp;                                  /* of the file itself, whatever links lead to it */
    int   fd;
    out_t out;
} results__new;

/* The new file is locked before it has the name of the old one, so that no other run comes between. */
static bool results__new_begin(const results *r, results__new *w, err_t *e) {
    struct stat st;
    char       *real = realpath(r->name, NULL);
    *w = (results__new){.fd = -1};
    str_put(&w->path, real ? real : r->name);
    str_fmt(&w->tmp, "%s.llmrun.new", w->path.p);
    mem_free(real);
    unlink(w->tmp.p);
    w->fd = open(w->tmp.p, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, 0666);
    const int copy = w->fd >= 0 ? fcntl(w->fd, F_DUPFD_CLOEXEC, 3) : -1;
    FILE     *f = copy >= 0 ? fdopen(copy, "ab") : NULL;
    w->out = (out_t){f, w->tmp.p, 0};
    if (f && fstat(r->fd, &st) == 0 && fchmod(w->fd, st.st_mode & 07777) == 0) return flock(w->fd, LOCK_EX | LOCK_NB), true;
    return err_set(e, err_code_of(errno), "%s: cannot write: %s", w->tmp.p, strerror(errno));
}

static bool results__sync_folder(const str *path) {
    char *folder = mem_grow(NULL, path->n + 2, 1), *slash;
    memcpy(folder, path->p, path->n + 1);
    slash = strrchr(folder, '/');
    if (!slash) memcpy(folder, ".", 2);
    else slash[1] = 0;
    const int  fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool ok = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0) close(fd);
    mem_free(folder);
    return ok;
}

/* ok: the new file takes the old one's place and its writer. Else it is removed, and the old one is as it was. */
static bool results__new_end(results *r, results__new *w, bool ok, err_t *e) {
    const bool flushed = !w->out.f || out_end(&w->out, e);
    ok = ok && flushed;
    if (ok && (fsync(w->fd) || rename(w->tmp.p, w->path.p)))
        ok = err_set(e, err_code_of(errno), "%s: cannot write: %s", w->tmp.p, strerror(errno));
    if (ok) {
        results__sync_folder(&w->path);
        close(r->fd);
        r->fd = w->fd;
    } else if (w->fd >= 0) {
        close(w->fd);
        unlink(w->tmp.p);
    }
    str_drop(&w->path);
    str_drop(&w->tmp);
    return ok;
}

/* Bytes of a file up to its last newline: what a run left behind it that was killed is no whole line. */
static off_t results__whole_lines(int fd) {
    char  buf[4096];
    off_t end = lseek(fd, 0, SEEK_END);
    while (end > 0) {
        const off_t   from = end > (off_t)sizeof buf ? end - (off_t)sizeof buf : 0;
        const ssize_t got = pread(fd, buf, (size_t)(end - from), from);
        if (got <= 0) return 0;
        for (ssize_t i = got; i > 0; i--)
            if (buf[i - 1] == '\n') return from + i;
        end = from;
    }
    return 0;
}

/* Adds records to the file `to`, FILE.stale, on the disk before FILE loses them. One that fails adds nothing; one that is
 * killed has them added twice. */
static bool results__stale(const results *r, const char *to, str *record, err_t *e) {
    const int   fd = open(to, O_RDWR | O_CREAT | O_NOCTTY | O_CLOEXEC, 0666);
    const off_t end = fd >= 0 ? results__whole_lines(fd) : 0;
    size_t      done;
    bool        ok = fd >= 0 && ftruncate(fd, end) == 0 && lseek(fd, end, SEEK_SET) == end;
    for (size_t i = 0; ok && i < r->n_old; i++) {
        const results__old *o = &r->old[i];
        if (o->now && !o->bad_utf8) continue;
        if (!results__fetch(r->fd, r->name, o->at, o->n, record, e)) break;
        str_put(record, "\n");
        ok = results__write(fd, record->p, record->n, &done);
    }
    ok = ok && !e->code && fsync(fd) == 0;
    const int why = errno;
    if (!ok && fd >= 0 && ftruncate(fd, end)) log_warn("%s: ends in records that stand in %s too", to, r->name);
    if (fd >= 0) close(fd);
    return ok || err_set(e, err_code_of(why), "%s: cannot write: %s", to, strerror(why));
}

/* A record whose line has another number now. */
static void results__renumber(str *record, uint64_t line, str *id) {
    str           s = {0};
    results__head h;
    const uint8_t *p = (const uint8_t *)record->p, *end = p + record->n;
    if (!results__read(str_bytes(record), &h, id)) return;
    const uint8_t *behind = memchr(p + sizeof "{\"id\":\"batch_req_" - 1, '_', record->n - (sizeof "{\"id\":\"batch_req_" - 1));
    str_fmt(&s, "{\"id\":\"batch_req_%llu", (unsigned long long)line);
    str_add(&s, behind, (size_t)(h.place.p - behind));
    if (h.place.n) str_fmt(&s, ",\"line\":%llu", (unsigned long long)line);
    str_add(&s, h.place.p + h.place.n, (size_t)(end - h.place.p) - h.place.n);
    str_drop(record);
    *record = s;
}

/* What was put since, as it is. */
static bool results__copy_rest(const results *r, out_t *out, str *buf, err_t *e) {
    struct stat st;
    if (fstat(r->fd, &st)) return err_set(e, err_code_of(errno), "%s: %s", r->name, strerror(errno));
    for (uint64_t at = r->old_end; at < (uint64_t)st.st_size; at += buf->n) {
        const uint64_t left = (uint64_t)st.st_size - at;
        if (!results__fetch(r->fd, r->name, at, left < LINES_CHUNK ? (size_t)left : LINES_CHUNK, buf, e) || !out_put(out, buf->p, buf->n)) return false;
    }
    return true;
}

/* Records whose bytes leave the file. */
static uint64_t results__n_aside(const results *r) {
    uint64_t n = 0;
    for (size_t i = 0; i < r->n_old; i++) n += !r->old[i].now || r->old[i].bad_utf8;
    return n;
}

/* The file with the records that answer a line, each with that line's number. */
static bool results__rewrite(results *r, err_t *e) {
    results__new w;
    str          record = {0}, id = {0}, stale = {0};
    bool         ok = results__new_begin(r, &w, e);
    str_fmt(&stale, "%s.stale", w.path.p);
    ok = ok && (!results__n_aside(r) || results__stale(r, stale.p, &record, e));
    for (size_t i = 0; ok && i < r->n_old; i++) {
        const results__old *o = &r->old[i];
        if (!o->now) continue;
        ok = results__fetch(r->fd, r->name, o->at, o->n, &record, e);
        if (ok && o->now != o->line) results__renumber(&record, o->now, &id);
        results__repair(&record);
        if (ok) str_put(&record, "\n");
        ok = ok && out_put(&w.out, record.p, record.n);
    }
    ok = ok && results__copy_rest(r, &w.out, &record, e);
    ok = results__new_end(r, &w, ok, e);
    str_drop(&record);
    str_drop(&stale);
    str_drop(&id);
    return ok;
}

/* The records that are left, as if the file had been opened now. What was put since stands behind them. */
static void results__forget_stale(results *r) {
    size_t n = 0;
    for (size_t i = 0; i < r->n_old; i++)
        if (r->old[i].now) {
            r->old[n] = r->old[i];
            r->old[n].line = r->old[n].now;
            r->old[n++].bad_utf8 = false;
        }
    r->n_old = n;
    results__index(r);
}

/* The input has been asked for to its last line: records that answer none of them leave the file, those whose line has moved
 * get its number. */
static bool results_settle(results *r, err_t *e) {
    uint64_t stale = 0, moved = 0, bad = 0;
    for (size_t i = 0; i < r->n_old; i++) {
        const results__old *o = &r->old[i];
        stale += !o->now;
        moved += o->now && o->now != o->line;
        bad += o->now && o->bad_utf8;
    }
    if ((stale || moved || bad) && !results__rewrite(r, e)) return false;
    if (stale)
        log_warn("%s: %llu of %llu records answer no line of the input as it is now; moved to %s.stale", r->name, (unsigned long long)stale,
                 (unsigned long long)r->n_old, r->name);
    if (bad)
        log_warn("%s: %llu records held bytes that are not UTF-8; U+FFFD stands there now, the old records stand in %s.stale", r->name,
                 (unsigned long long)bad, r->name);
    r->n_stale += stale;
    results__forget_stale(r);
    return true;
}

/* Puts the file into the order of its inputs and their lines. */
static bool results_sort(results *r, const char *const *names, int n_names, err_t *e) {
    results__pile p;
    results__new  w;
    str           id = {0};
    results__pile_init(&p, &r->name, 1);
    bool ok = results__gather(&p, 0, &id, e) && results__sort(&p, names, n_names, &id, e);
    if (ok) {
        ok = results__new_begin(r, &w, e) && results__put_all(&p, &w.out, e);
        ok = results__new_end(r, &w, ok, e);
    }
    results__pile_drop(&p, 1);
    str_drop(&id);
    return ok;
}

/* ===== [req] one line of a batch file =====
 * Bytes to a request, an answer to bytes. A line is OpenAI's Batch envelope, the bare body of one, or, in a file of plain
 * text, the prompt itself; what comes out is one record of one line, its keys always in the same order and without
 * blanks. jansson parses and lives here only; records are written by hand.
 *
 * Invariants:
 * - Text is bytes. JSON is made of characters and jansson refuses all else, so a line that is not UTF-8 is veiled before
 *   it is parsed: see req__veil. A record is valid UTF-8: U+FFFD stands for bytes that are not, and the exact bytes stand
 *   beside them, as base64 for a text and as numbers for a token.
 * - A key that would change the answer is honoured or an error that names it; null is a key that was not given. What a
 *   body says stands in place of what the command said, a logit_bias as a whole.
 * - A line that fails is told by req_read in words and by req.fault in one: the run goes on. Out of memory ends it.
 *
 * To add a body key: its field, a reader of its kind where there is none, a row in req_keys.
 * Door: req_read, req_read_id, req_drop, req_print, req_print_error, req_json_version. */

enum {
    REQ_DEEP = 64,                                    /* lists and objects inside each other */
    REQ_PARTS = 1 << 16,                              /* lists and objects of a line; each costs some 250 bytes */
    REQ_VALUES = 1 << 22,                             /* its values; each costs some 40 bytes */
    REQ_N = 128, REQ_STOPS = 16, REQ_TOP = 20,        /* completions of a prompt, stop strings, alternatives at most */
    REQ_CHOICES = 2048,                               /* completions of all prompts of a line */
};

/* What is wrong with a line, as the error of a record names it. */
static const char req_bad_json[] = "invalid_json_line";
static const char req_invalid[] = "invalid_request", req_unsupported[] = "unsupported";

/* A prompt: text, or token ids in place of it. */
typedef struct {
    bytes   text;
    tok_ids ids;                                      /* where n > 0: each below n_vocab */
} req_prompt;

typedef struct {
    bytes       custom_id;                            /* owned, as all that follows */
    bool        has_id;
    bool        chat;                                 /* answers in the chat shape */
    req_prompt *prompt;                               /* [n_prompt] at least one */
    int         n_prompt;
    int         each, n;                              /* completions of each prompt, 1 .. REQ_N; of all, in the order of the prompts */
    int64_t     max_tokens;                           /* -1: not said */
    samp_opts   samp;                                 /* the base, changed by the body */
    samp_bias  *bias;                                 /* what samp.bias points to where the body has its own */
    uint64_t    seed;                                 /* where has_seed: the body's 64 bits, a negative one as its complement */
    bool        has_seed;
    bool        has_ignore_eos, ignore_eos;           /* said by the body, and what */
    bytes      *stop;                                 /* [n_stop] none empty; NULL: not said */
    int         n_stop;
    bool        logprobs;                             /* asked for */
    int         top;                                  /* alternatives told of each token, 0 .. REQ_TOP */
    int         priority;                             /* lower runs earlier; 0 where not said */
    const char *fault;                                /* one of the three above; NULL: none */
} req;

typedef struct {
    int32_t id;
    float   lp;                                       /* log-probability; what is not finite is told as -9999 */
    size_t  end;                                      /* bytes of text once this token is out */
} req_token;

typedef struct {
    bytes          text;                              /* any bytes */
    const char    *finish;                            /* "stop", "length" */
    const req_token *tok;                             /* [n_tok], where log-probabilities are asked for */
    int            n_tok;
    const int32_t *top_id;                            /* [n_tok, top] the likeliest first; -1: fewer than that */
    const float   *top_lp;                            /* [n_tok, top] */
    int            n_generated;                       /* what usage counts */
} req_answer;

typedef struct {
    uint64_t    line;                                 /* in the input file, from 1 */
    const char *file;                                 /* that file, where there are several; else NULL */
    const char *fingerprint;                          /* of model and settings; results_fingerprint() */
    uint64_t    hash;                                 /* of the line's bytes: bytes_hash(0, line without its ending) */
    const char *model_name;
    int64_t     created;                              /* seconds since 1970 */
    int         n_prompt, n_cached;                   /* tokens; those of them that were not computed for this line */
} req_origin;

static const char *req_json_version(void) { return jansson_version_str(); }

static void req_drop(req *q) {
    mem_free((void *)(uintptr_t)q->custom_id.p);
    for (int i = 0; i < q->n_prompt; i++) {
        mem_free((void *)(uintptr_t)q->prompt[i].text.p);
        tok_ids_drop(&q->prompt[i].ids);
    }
    mem_free(q->prompt);
    for (int i = 0; i < q->n_stop; i++) mem_free((void *)(uintptr_t)q->stop[i].p);
    mem_free(q->stop);
    mem_free(q->bias);
    *q = (req){0};
}

/* --- the veil: any bytes as characters, and back --- */

/* The byte b, 0x80 or more, as the character U+10FF00 + b. */
static void req__veil_byte(str *out, uint8_t b) {
    const uint8_t c[4] = {0xf4, 0x8f, 0xbc | b >> 6, 0x80 | (b & 0x3f)};
    str_add(out, c, sizeof c);
}

/* One of those 128 characters, U+10FF80 to U+10FFFF. */
static bool req__is_veil(const uint8_t *p, size_t n) {
    return n >= 4 && p[0] == 0xf4 && p[1] == 0x8f && (p[2] == 0xbe || p[2] == 0xbf) && (p[3] & 0xc0) == 0x80;
}

/* The same character as JSON escapes it, \udbff\udf80 to \udbff\udfff in either case: its last byte in UTF-8 and the one
 * before it; 0: it is not one. Behind another backslash the rest is half a pair, and the line no JSON either way. */
static unsigned req__veil_escape(const uint8_t *p, size_t n) {
    char text[13] = "";
    if (n < 12) return 0;
    for (int i = 0; i < 12; i++) text[i] = (char)(p[i] >= 'A' && p[i] <= 'Z' ? p[i] + 32 : p[i]);
    if (p[1] != 'u' || p[7] != 'u' || strncmp(text, "\\udbff\\udf", 10) != 0) return 0;
    if (strspn(text + 10, "0123456789abcdef") != 2) return 0;
    unsigned low = (unsigned)strtoul(text + 10, NULL, 16);
    return low < 0x80 ? 0 : (0xbcu | low >> 6) << 8 | 0x80u | (low & 0x3f);
}

/* Every byte that belongs to no well-formed character becomes a character of its own at the very end of Unicode, where
 * nobody is at home; should somebody be, each byte of theirs is veiled too, so that nothing is ever mistaken. */
static void req__veil(bytes in, str *out) {
    for (size_t i = 0, len; i < in.n; i += len) {
        const uint8_t *p = in.p + i;
        const unsigned escape = *p == '\\' ? req__veil_escape(p, in.n - i) : 0;
        const uint8_t  spelled[4] = {0xf4, 0x8f, (uint8_t)(escape >> 8), (uint8_t)escape};
        len = (size_t)utf8_len(p, in.n - i);
        const bool     veil = !len || escape || req__is_veil(p, in.n - i);
        const uint8_t *from = escape ? spelled : p;
        for (size_t k = 0; veil && k < (!len ? 1 : 4); k++) req__veil_byte(out, from[k]);
        if (!len) len = 1;
        if (escape) len = 12;
        if (!veil) str_add(out, p, len);
    }
}

static void req__unveil(bytes in, str *out) {
    for (size_t i = 0; i < in.n;) {
        const uint8_t *p = in.p + i;
        const bool     veil = req__is_veil(p, in.n - i);
        const uint8_t  b = veil ? (uint8_t)(p[2] << 6 | (p[3] & 0x3f)) : *p;
        str_add(out, &b, 1);
        i += veil ? 4 : 1;
    }
}

/* --- reading --- */

typedef struct {                                      /* one line on its way in */
    req     *q;
    bool     veiled, messages;                        /* not UTF-8; messages seen */
    int32_t  n_vocab;
    int      top;                                     /* top_logprobs; -1: not said */
    err_t   *e;
} req_in;

enum { REQ_COMPLETION = 1, REQ_CHAT = 2, REQ_ANY = 3 };

typedef struct req_key {
    const char *name;
    unsigned    where;                                /* the shapes it belongs to */
    bool      (*take)(req_in *r, const struct req_key *k, const json_t *v);
    size_t      at;                                   /* in req, where one int or float is all it changes */
    double      lo, hi;                               /* of a number */
} req_key;

static void *req__alloc(size_t n) { return mem_grow(NULL, n, 1); }

/* Bytes of the line's own, as they stood in it. */
static bytes req__own(const req_in *r, bytes b) {
    str s = {0};
    str_room(&s, b.n);
    s.p[0] = 0;
    if (r->veiled) req__unveil(b, &s);
    else str_add(&s, b.p, b.n);
    return str_bytes(&s);
}

/* A string as jansson has it, veiled perhaps; none for what is not a string. */
static bytes req__view(const json_t *v) { return (bytes){(const uint8_t *)json_string_value(v), json_string_length(v)}; }

static bool req__is(const json_t *v, const char *text) { return json_is_string(v) && bytes_is(req__view(v), text); }

/* As much of a string as a message has room for. */
typedef struct {
    char text[128];
} req_shown;

static req_shown req__show(const req_in *r, bytes of) {
    req_shown s;
    bytes     b = req__own(r, (bytes){of.p, of.n < 400 ? of.n : 400});
    for (size_t i = 0; i < b.n; i++)
        if (!b.p[i]) ((uint8_t *)(uintptr_t)b.p)[i] = '?';
    snprintf(s.text, sizeof s.text, "%.100s%s", (const char *)b.p, b.n > 100 ? "..." : "");
    mem_free((void *)(uintptr_t)b.p);
    return s;
}

static const char *req__kind(const json_t *v) {
    static const char *const kinds[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list", [JSON_STRING] = "a string", [JSON_INTEGER] = "a number",
        [JSON_REAL] = "a number", [JSON_TRUE] = "true", [JSON_FALSE] = "false", [JSON_NULL] = "null"};
    return v ? kinds[json_typeof(v)] : "nothing";
}

/* What is wrong with the key `name`. */
__attribute__((format(printf, 3, 4))) static bool req__bad(const req_in *r, const char *name, const char *fmt, ...) {
    char    why[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return err_set(r->e, EXIT_INPUT, "%s: %s", name, why);
}

static bool req__not(const req_in *r, const char *name, const json_t *v, const char *expected) {
    return req__bad(r, name, "found %s, expected %s", req__kind(v), expected);
}

static bool req__number(const req_in *r, const req_key *k, const json_t *v, double *x) {
    *x = json_number_value(v);                        /* 0 of what is none */
    if (!json_is_number(v)) return req__not(r, k->name, v, "a number");
    if (*x >= k->lo && *x <= k->hi) return true;
    return req__bad(r, k->name, "%.10g is out of range, expected %.10g to %.10g", *x, k->lo, k->hi);
}

/* 3.0 is a whole number to JSON, which has one kind of them only. */
static bool req__whole(const req_in *r, const req_key *k, const json_t *v, int64_t *n) {
    double x;
    *n = 0;
    if (!req__number(r, k, v, &x)) return false;
    if (json_is_integer(v)) return *n = json_integer_value(v), true;
    if (x != floor(x)) return req__bad(r, k->name, "found %.10g, expected a whole number", x);
    if (x == 0x1p63) return req__bad(r, k->name, "found %.10g, expected a whole number below 2^63", x);
    return *n = (int64_t)x, true;
}

static bool req__take_int(req_in *r, const req_key *k, const json_t *v) {
    int64_t n;
    return req__whole(r, k, v, &n) && (*(int *)((char *)r->q + k->at) = (int)n, true);
}

static bool req__take_float(req_in *r, const req_key *k, const json_t *v) {
    double x;
    return req__number(r, k, v, &x) && (*(float *)((char *)r->q + k->at) = (float)x, true);
}

/* Both names of one thing may stand in a body if they agree. */
static bool req__take_max(req_in *r, const req_key *k, const json_t *v) {
    int64_t n, *max = &r->q->max_tokens;
    if (!req__whole(r, k, v, &n)) return false;
    if (*max >= 0 && *max != n)
        return req__bad(r, k->name, "%lld beside another limit of %lld, expected one", (long long)n, (long long)*max);
    return *max = n, true;
}

static bool req__take_seed(req_in *r, const req_key *k, const json_t *v) {
    int64_t n;
    if (!req__whole(r, k, v, &n)) return false;
    r->q->seed = (uint64_t)n;
    return r->q->has_seed = true;
}

static bool req__take_ignore_eos(req_in *r, const req_key *k, const json_t *v) {
    if (!json_is_boolean(v)) return req__not(r, k->name, v, "true or false");
    r->q->ignore_eos = json_is_true(v);
    return r->q->has_ignore_eos = true;
}

static bool req__add_stop(req_in *r, const req_key *k, const json_t *v) {
    if (!json_is_string(v)) return req__not(r, k->name, v, "a string or a list of strings");
    if (!json_string_length(v)) return req__bad(r, k->name, "an empty string, expected text");
    r->q->stop[r->q->n_stop++] = req__own(r, req__view(v));
    return true;
}

static bool req__take_stop(req_in *r, const req_key *k, const json_t *v) {
    const size_t n = json_is_array(v) ? json_array_size(v) : 1;
    if (n > REQ_STOPS) return req__bad(r, k->name, "%zu strings, expected at most %d", n, REQ_STOPS);
    r->q->stop = mem_new(n, sizeof *r->q->stop);
    if (!json_is_array(v)) return req__add_stop(r, k, v);
    for (size_t i = 0; i < n; i++)
        if (!req__add_stop(r, k, json_array_get(v, i))) return false;
    return true;
}

/* A completion says how many alternatives it wants, 0 for the tokens alone; a chat says whether, and top_logprobs says
 * how many. */
static bool req__take_logprobs(req_in *r, const req_key *k, const json_t *v) {
    req *q = r->q;
    if (!q->chat) return req__take_int(r, k, v) && (q->logprobs = true);
    if (!json_is_boolean(v)) return req__not(r, k->name, v, "true or false");
    q->logprobs = json_is_true(v);
    return true;
}

static bool req__take_top(req_in *r, const req_key *k, const json_t *v) {
    int64_t n;
    return req__whole(r, k, v, &n) && (r->top = (int)n, true);
}

/* The decimal digits of a token id without leading zeros, so that no two keys are one token. */
static bool req__token_key(const char *text, int32_t n_vocab, int32_t *id) {
    size_t n = strspn(text, "0123456789");
    if (!n || n > 10 || text[n] || (text[0] == '0' && n > 1)) return false;
    long long x = strtoll(text, NULL, 10);
    *id = (int32_t)x;
    return x < n_vocab;
}

/* A bias is added to the logit as it is: OpenAI's -100 and 100 are not another word for never and always, though they act
 * like it on the logits of real models. */
static bool req__take_bias(req_in *r, const req_key *k, const json_t *v) {
    req *q = r->q;
    if (!json_is_object(v)) return req__not(r, k->name, v, "an object of token ids and biases");
    json_t *o = (json_t *)(uintptr_t)v;               /* jansson's walk changes nothing, though its types say so */
    q->bias = mem_new(json_object_size(v), sizeof *q->bias);
    q->samp.bias = q->bias;
    q->samp.n_bias = 0;
    for (void *at = json_object_iter(o); at; at = json_object_iter_next(o, at)) {
        const char *name = json_object_iter_key(at);
        samp_bias  *b = &q->bias[q->samp.n_bias++];
        double      x;
        if (!req__token_key(name, r->n_vocab, &b->id))
            return req__bad(r, k->name, "found '%s', expected token ids from 0 to %d", req__show(r, bytes_of(name)).text,
                            r->n_vocab - 1);
        if (!req__number(r, k, json_object_iter_value(at), &x)) return false;
        b->bias = (float)x;
    }
    return true;
}

static bool req__take_ids(const req_in *r, const req_key *k, const json_t *list, tok_ids *out) {
    const req_key id_key = {.name = k->name, .lo = 0, .hi = r->n_vocab - 1};
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        int64_t       id;
        if (!json_is_number(v)) return req__not(r, k->name, v, "token ids alone in this list");
        if (!req__whole(r, &id_key, v, &id)) return false;
        tok_ids_add(out, (int32_t)id);
    }
    return true;
}

/* Text or token ids. */
static bool req__one_prompt(req_in *r, const req_key *k, const json_t *v) {
    req_prompt *p = &r->q->prompt[r->q->n_prompt++];
    if (json_is_array(v) && !json_array_size(v)) return req__bad(r, k->name, "an empty list, expected text or token ids");
    if (json_is_array(v)) return req__take_ids(r, k, v, &p->ids);
    if (!json_is_string(v)) return req__not(r, k->name, v, "text or a list of token ids");
    p->text = req__own(r, req__view(v));
    return true;
}

/* One of them, or a list of such, each of which has choices of its own. */
static bool req__take_prompt(req_in *r, const req_key *k, const json_t *v) {
    const bool   many = json_is_array(v) && json_array_size(v) && !json_is_number(json_array_get(v, 0));
    const size_t n = many ? json_array_size(v) : 1;
    bool         ok = true;
    if (n > REQ_CHOICES) return req__bad(r, k->name, "a list of %zu prompts, expected at most %d", n, REQ_CHOICES);
    r->q->prompt = mem_new(n, sizeof *r->q->prompt);
    for (size_t i = 0; ok && i < n; i++) ok = req__one_prompt(r, k, many ? json_array_get(v, i) : v);
    return ok;
}

static bool req__message(const req_in *r, const req_key *k, const json_t *m) {
    const json_t *role = json_object_get(m, "role"), *content = json_object_get(m, "content");
    if (!json_is_object(m)) return req__not(r, k->name, m, "objects with role and content in this list");
    if (!json_is_string(role)) return req__not(r, "messages: role", role, "a string");
    return !content || json_is_string(content) || json_is_null(content) || json_is_array(content) ||
           req__not(r, "messages: content", content, "a string");
}

static bool req__take_messages(req_in *r, const req_key *k, const json_t *v) {
    if (!json_is_array(v) || !json_array_size(v)) return req__not(r, k->name, v, "a list of at least one message");
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!req__message(r, k, json_array_get(v, i))) return false;
    return r->messages = true;
}

static bool req__take_format(req_in *r, const req_key *k, const json_t *v) {
    const json_t *type = json_object_get(v, "type");
    if (!json_is_object(v) || !json_is_string(type)) return req__not(r, k->name, v, "an object with a type");
    if (req__is(type, "text")) return true;
    r->q->fault = req_unsupported;
    return req__bad(r, k->name, "type '%s' is not supported yet, expected text", req__show(r, req__view(type)).text);
}

static bool req__take_object(req_in *r, const req_key *k, const json_t *v) {
    return json_is_object(v) || req__not(r, k->name, v, "an object");
}

/* stream and echo. */
static bool req__take_false(req_in *r, const req_key *k, const json_t *v) {
    if (json_is_false(v)) return true;
    if (!json_is_true(v)) return req__not(r, k->name, v, "true or false");
    r->q->fault = req_unsupported;
    return req__bad(r, k->name, "true, expected false: the answer to a line is one record of new text");
}

/* A number that changes nothing within its bounds. */
static bool req__take_bounded(req_in *r, const req_key *k, const json_t *v) {
    int64_t n;
    return req__whole(r, k, v, &n);
}

/* An empty list changes nothing. */
static bool req__take_tools(req_in *r, const req_key *k, const json_t *v) {
    if (!json_is_array(v)) return req__not(r, k->name, v, "a list of tools");
    if (!json_array_size(v)) return true;
    r->q->fault = req_unsupported;
    return req__bad(r, k->name, "not supported yet, expected none");
}

/* Without tools, "none" and "auto" change nothing. */
static bool req__take_choice(req_in *r, const req_key *k, const json_t *v) {
    if (req__is(v, "none") || req__is(v, "auto")) return true;
    if (!json_is_string(v) && !json_is_object(v)) return req__not(r, k->name, v, "none, auto, required or an object");
    r->q->fault = req_unsupported;
    return req__bad(r, k->name, "tools are not supported yet, expected none");
}

static bool req__take_later(req_in *r, const req_key *k, const json_t *v) {
    (void)v;
    r->q->fault = req_unsupported;
    return req__bad(r, k->name, "not supported yet");
}

static bool req__take_nothing(req_in *r, const req_key *k, const json_t *v) {
    (void)r, (void)k, (void)v;
    return true;
}

#define REQ_AT(f) offsetof(req, f)
static const req_key req_keys[] = {
    /* name                  shapes          reader                where                           lowest     highest */
    {"prompt",                REQ_COMPLETION, req__take_prompt,     0,                              0,         0},
    {"messages",              REQ_CHAT,       req__take_messages,   0,                              0,         0},
    {"max_tokens",            REQ_ANY,        req__take_max,        0,                              0,         0x1p63},
    {"max_completion_tokens", REQ_ANY,        req__take_max,        0,                              0,         0x1p63},
    {"temperature",           REQ_ANY,        req__take_float,      REQ_AT(samp.temp),              0,         1e6},
    {"top_p",                 REQ_ANY,        req__take_float,      REQ_AT(samp.top_p),             0,         1},
    {"top_k",                 REQ_ANY,        req__take_int,        REQ_AT(samp.top_k),             -1,        INT32_MAX},
    {"min_p",                 REQ_ANY,        req__take_float,      REQ_AT(samp.min_p),             0,         1},
    {"seed",                  REQ_ANY,        req__take_seed,       0,                              -0x1p63,   0x1p63},
    {"stop",                  REQ_ANY,        req__take_stop,       0,                              0,         0},
    {"n",                     REQ_ANY,        req__take_int,        REQ_AT(each),                   1,         REQ_N},
    {"logprobs",              REQ_ANY,        req__take_logprobs,   REQ_AT(top),                    0,         REQ_TOP},
    {"top_logprobs",          REQ_CHAT,       req__take_top,        0,                              0,         REQ_TOP},
    {"presence_penalty",      REQ_ANY,        req__take_float,      REQ_AT(samp.presence_penalty),  -100,      100},
    {"frequency_penalty",     REQ_ANY,        req__take_float,      REQ_AT(samp.frequency_penalty), -100,      100},
    {"repetition_penalty",    REQ_ANY,        req__take_float,      REQ_AT(samp.repeat_penalty),    1e-3,      1000},
    {"logit_bias",            REQ_ANY,        req__take_bias,       0,                              -1e30,     1e30},
    {"ignore_eos",            REQ_ANY,        req__take_ignore_eos, 0,                              0,         0},
    {"priority",              REQ_ANY,        req__take_int,        REQ_AT(priority),               INT32_MIN, INT32_MAX},
    {"response_format",       REQ_ANY,        req__take_format,     0,                              0,         0},
    {"grammar",               REQ_ANY,        req__take_later,      0,                              0,         0},
    {"regex",                 REQ_ANY,        req__take_later,      0,                              0,         0},
    {"tools",                 REQ_ANY,        req__take_tools,      0,                              0,         0},
    {"tool_choice",           REQ_ANY,        req__take_choice,     0,                              0,         0},
    {"chat_template_kwargs",  REQ_CHAT,       req__take_object,     0,                              0,         0},
    {"model",                 REQ_ANY,        req__take_nothing,    0,                              0,         0},
    {"user",                  REQ_ANY,        req__take_nothing,    0,                              0,         0},
    {"metadata",              REQ_ANY,        req__take_nothing,    0,                              0,         0},
    {"store",                 REQ_ANY,        req__take_nothing,    0,                              0,         0},
    {"service_tier",          REQ_ANY,        req__take_nothing,    0,                              0,         0},
    {"stream",                REQ_ANY,        req__take_false,      0,                              0,         0},
    {"echo",                  REQ_ANY,        req__take_false,      0,                              0,         0},
    {"best_of",               REQ_ANY,        req__take_bounded,    0,                              1,         1},
};
#undef REQ_AT

static const char req_url[] = "/v1/completions", req_chat_url[] = "/v1/chat/completions";

static bool req__key(req_in *r, const char *name, const json_t *v) {
    const req_key *k = req_keys, *end = req_keys + sizeof req_keys / sizeof *req_keys;
    if (json_is_null(v)) return true;
    while (k < end && strcmp(k->name, name) != 0) k++;
    if (k == end)
        return err_set(r->e, EXIT_INPUT, "unknown key '%s' in the body", req__show(r, bytes_of(name)).text);
    if (!(k->where & (r->q->chat ? REQ_CHAT : REQ_COMPLETION)))
        return req__bad(r, name, "belongs to %s, found in a body for %s", r->q->chat ? req_url : req_chat_url,
                        r->q->chat ? req_chat_url : req_url);
    return k->take(r, k, v);
}

/* What keys mean together, once all are read. */
static bool req__whole_body(req_in *r) {
    req *q = r->q;
    if (r->top >= 0) q->top = r->top;
    if (r->top > 0 && !q->logprobs) return req__bad(r, "top_logprobs", "alone, expected \"logprobs\":true beside it");
    if (q->chat && !r->messages) return err_set(r->e, EXIT_INPUT, "the body has no messages");
    if (!q->chat && !q->n_prompt) return err_set(r->e, EXIT_INPUT, "the body has no prompt");
    if (!q->chat && q->each * q->n_prompt > REQ_CHOICES)
        return req__bad(r, "n", "%d of each of %d prompts, expected at most %d in all", q->each, q->n_prompt, REQ_CHOICES);
    if (q->n_prompt) q->n = q->each * q->n_prompt;
    if (!q->chat) return true;
    q->fault = req_unsupported;
    return req__bad(r, "messages", "chat templates do not run yet, expected a prompt");
}

/* bare: the body is the whole line, and custom_id may stand in it. */
static bool req__body(req_in *r, json_t *body, bool bare) {
    for (void *at = json_object_iter(body); at; at = json_object_iter_next(body, at)) {
        const char *name = json_object_iter_key(at);
        if (bare && strcmp(name, "custom_id") == 0) continue;
        if (!req__key(r, name, json_object_iter_value(at))) return false;
    }
    return req__whole_body(r);
}

static bool req__custom_id(req_in *r, const json_t *v) {
    if (!v || json_is_null(v)) return true;
    if (!json_is_string(v)) return req__not(r, "custom_id", v, "a string");
    r->q->custom_id = req__own(r, req__view(v));
    return r->q->has_id = true;
}

/* The value of an envelope's key, which has to be one of two strings; returns which, or -1. */
static int req__choice(const req_in *r, const json_t *v, const char *name, const char *a, const char *b) {
    if (req__is(v, a)) return 0;
    if (b && req__is(v, b)) return 1;
    const char *or = b ? " or " : "", *other = b ? b : "";
    if (json_is_string(v)) req__bad(r, name, "found '%s', expected %s%s%s", req__show(r, req__view(v)).text, a, or, other);
    else req__bad(r, name, "found %s, expected %s%s%s", req__kind(v), a, or, other);
    return -1;
}

static bool req__envelope(req_in *r, json_t *line) {
    static const char *const names[] = {"custom_id", "method", "url", "body"};
    json_t                  *body = json_object_get(line, "body");
    for (void *at = json_object_iter(line); at; at = json_object_iter_next(line, at)) {
        const char *name = json_object_iter_key(at);
        size_t      i = 0;
        while (i < 4 && strcmp(names[i], name) != 0) i++;
        if (i == 4)
            return err_set(r->e, EXIT_INPUT, "unknown key '%s' beside custom_id, method, url and body",
                           req__show(r, bytes_of(name)).text);
    }
    if (req__choice(r, json_object_get(line, "method"), "method", "POST", NULL) < 0) return false;
    const int shape = req__choice(r, json_object_get(line, "url"), "url", req_url, req_chat_url);
    if (shape < 0) return false;
    r->q->chat = shape == 1;
    return json_is_object(body) ? req__body(r, body, false) : req__not(r, "body", body, "an object");
}

static bool req__object(req_in *r, json_t *line) {
    static const char *const marks[] = {"method", "url", "body"};
    if (!json_is_object(line)) return req__not(r, "the line", line, "an object");
    if (!req__custom_id(r, json_object_get(line, "custom_id"))) return false;
    for (size_t i = 0; i < 3; i++)
        if (json_object_get(line, marks[i])) return req__envelope(r, line);
    const json_t *messages = json_object_get(line, "messages");
    r->q->chat = messages && !json_is_null(messages);
    return req__body(r, line, true);
}

/* Bounds what a parser that recurses and allocates can be made to do: looked at before it runs. What stands in strings
 * does not count; where strings end is plain up to the first fault, and there the parser stops. */
static bool req__bounded(bytes line, err_t *e) {
    size_t parts = 0, values = 0, deep = 0;
    bool   in_string = false;
    for (size_t i = 0; i < line.n; i++) {
        const uint8_t c = line.p[i];
        if (in_string && c == '\\') i++;
        else if (c == '"') in_string = !in_string;
        else if (in_string) continue;
        else if (c == ',') values++;
        else if (c == '[' || c == '{') parts++, deep++;
        else if ((c == ']' || c == '}') && deep) deep--;
        if (deep > REQ_DEEP)
            return err_set(e, EXIT_INPUT, "byte %zu: lists and objects more than %d deep", i, REQ_DEEP);
        if (parts > REQ_PARTS) return err_set(e, EXIT_INPUT, "byte %zu: more than %d lists and objects", i, REQ_PARTS);
        if (values > REQ_VALUES) return err_set(e, EXIT_INPUT, "byte %zu: more than %d values", i, REQ_VALUES);
    }
    return true;
}

/* What jansson found, its place counted in the line's own bytes. A number beyond its types is JSON all the same. */
static bool req__bad_json(const req_in *r, bytes parsed, const json_error_t *why) {
    size_t at = why->position > 0 && (size_t)why->position <= parsed.n ? (size_t)why->position : 0;
    bytes  before = req__own(r, (bytes){parsed.p, at});
    if (json_error_code(why) == json_error_numeric_overflow) {
        r->q->fault = req_invalid;
        err_set(r->e, EXIT_INPUT, "the number before byte %zu is beyond 64 bits, expected one that fits", before.n);
    } else err_set(r->e, EXIT_INPUT, "bad JSON before byte %zu: %s", before.n, req__show(r, bytes_of(why->text)).text);
    mem_free((void *)(uintptr_t)before.p);
    return false;
}

/* --- the custom_id of a line that the parser refuses --- */

static void req__skip_blanks(bytes *b) {
    while (b->n && memchr(" \t\r\n", b->p[0], 4)) b->p++, b->n--;
}

static bool req__skip(bytes *b, char c) {
    req__skip_blanks(b);
    if (!b->n || b->p[0] != c) return false;
    *b = (bytes){b->p + 1, b->n - 1};
    return true;
}

/* Whether this string, with its quotes, is the key custom_id. */
static bool req__is_id_key(bytes key) {
    static const char plain[] = "\"custom_id\"";
    if (bytes_is(key, plain)) return true;
    if (!key.n || !memchr(key.p, '\\', key.n) || key.n > 6 * sizeof plain) return false;
    json_t    *v = json_loadb((const char *)key.p, key.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    const bool is = req__is(v, "custom_id");
    json_decref(v);
    return is;
}

/* Looks for custom_id among the keys of the object that the line is, as far as it has the shape of one. Of several the last
 * one counts, as in other readers of JSON. */
static void req__find_id(req_in *r, bytes line) {
    bytes value = {0};
    bool  more = req__skip(&line, '{');
    while (more) {
        req__skip_blanks(&line);
        const bytes key = bytes_cut_json(&line);
        if (!req__skip(&line, ':')) break;
        req__skip_blanks(&line);
        const bytes v = bytes_cut_json(&line);
        if (v.n && req__is_id_key(key)) value = v;
        more = req__skip(&line, ',');
    }
    json_t *v = value.n ? json_loadb((const char *)value.p, value.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
    if (json_is_string(v)) req__custom_id(r, v);
    json_decref(v);
}

/* The custom_id that req_read() would find in a line of JSON, without reading the rest. q is dropped by the caller. */
static void req_read_id(req *q, bytes line) {
    err_t  e = {0};
    str    veiled = {0};
    req_in r = {.q = q, .e = &e, .veiled = !utf8_whole(line)};
    *q = (req){0};
    if (r.veiled) req__veil(line, &veiled);
    json_set_alloc_funcs(req__alloc, mem_free);
    req__find_id(&r, r.veiled ? str_bytes(&veiled) : line);
    str_drop(&veiled);
}

static bool req__json(req_in *r, bytes line) {
    str          veiled = {0};
    json_error_t why;
    r->q->fault = req_bad_json;
    r->veiled = !utf8_whole(line);
    if (r->veiled) req__veil(line, &veiled);
    const bytes text = r->veiled ? str_bytes(&veiled) : line;
    const bool  bounded = req__bounded(line, r->e);
    json_set_alloc_funcs(req__alloc, mem_free);       /* jansson forgets to look at some of its own */
    json_t *root = bounded ? json_loadb((const char *)text.p, text.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why) : NULL;
    if (root) r->q->fault = req_invalid;
    else req__find_id(r, text);
    const bool ok = root ? req__object(r, root) : bounded && req__bad_json(r, text, &why);
    json_decref(root);
    str_drop(&veiled);
    return ok;
}

/* A line without its ending: JSON, or (json false) the prompt itself. base: what the command says of sampling, copied
 * with its pointers. *q need not hold anything before, holds custom_id wherever one could be read, and is dropped by the
 * caller in either case. False: e says why. */
static bool req_read(req *q, bytes line, bool json, const samp_opts *base, int32_t n_vocab, err_t *e) {
    req_in r = {.q = q, .n_vocab = n_vocab, .top = -1, .e = e};
    *q = (req){.each = 1, .n = 1, .max_tokens = -1, .samp = *base};
    if (!json) {
        q->prompt = mem_new(1, sizeof *q->prompt);
        q->prompt[q->n_prompt++].text = req__own(&r, line);
        return true;
    }
    if (!req__json(&r, line)) return false;
    q->fault = NULL;
    return true;
}

/* --- writing --- */

static void req__print_id(const req_origin *o, bytes custom_id, bool has_id, str *out) {
    const unsigned long long line = o->line, hash = o->hash;
    str_fmt(out, "{\"id\":\"batch_req_%llu_%016llx\",\"custom_id\":", line, hash);
    if (has_id) str_json(out, custom_id);
    else str_put(out, "null");
    str_fmt(out, ",\"line\":%llu", line);
    if (!o->file) return;
    str_put(out, ",\"file\":");
    str_json(out, bytes_of(o->file));
}

/* JSON has no infinities; -9999 is how the field's servers say next to impossible. */
static void req__print_lp(str *out, float lp) { str_fmt(out, "%.9g", isfinite(lp) ? (double)lp : -9999.0); }

/* Control tokens are spelled as the vocabulary spells them. */
static bytes req__spell(const tok_vocab *v, int32_t id) {
    return tok_is_control(v, id) ? tok_text(v, id) : tok_piece(v, id);
}

/* The alternatives of one token as an object of texts, the chosen one last where it is not among them. Keys are unique: of
 * tokens with one spelling the likeliest stands there. */
static void req__print_tops(const req_answer *a, int i, int top, const tok_vocab *v, str *out) {
    const int32_t *id = a->top_id + (size_t)i * (size_t)top;
    size_t         begin[REQ_TOP + 1];                /* of the keys, in out */
    int            n = 0;
    str_put(out, "{");
    for (int k = 0; k <= top; k++) {
        const int32_t one = k < top ? id[k] : a->tok[i].id;
        const size_t  before = out->n;
        if (one < 0) continue;
        if (n) str_put(out, ",");
        begin[n] = out->n;
        str_json(out, req__spell(v, one));
        const size_t len = out->n - begin[n];
        bool         twice = false;
        for (int j = 0; j < n && !twice; j++)
            twice = memcmp(out->p + begin[j], out->p + begin[n], len) == 0;
        if (twice) {
            out->n = before;
            continue;
        }
        n++;
        str_put(out, ":");
        req__print_lp(out, k < top ? a->top_lp[(size_t)i * (size_t)top + (size_t)k] : a->tok[i].lp);
    }
    str_put(out, "}");
}

static void req__print_bytes(bytes b, str *out) {
    str_put(out, "[");
    for (size_t i = 0; i < b.n; i++) str_fmt(out, "%s%d", i ? "," : "", b.p[i]);
    str_put(out, "]");
}

/* The legacy form. text_offset counts bytes of this answer's text, from 0; a token that a stop string cut off begins at
 * the end of it. */
static void req__print_legacy(const req *q, const req_answer *a, const tok_vocab *v, str *out) {
    str_put(out, "{\"tokens\":[");
    for (int i = 0; i < a->n_tok; i++) {
        if (i) str_put(out, ",");
        str_json(out, req__spell(v, a->tok[i].id));
    }
    str_put(out, "],\"token_logprobs\":[");
    for (int i = 0; i < a->n_tok; i++) {
        if (i) str_put(out, ",");
        req__print_lp(out, a->tok[i].lp);
    }
    str_put(out, "],\"top_logprobs\":");
    for (int i = 0; q->top && i < a->n_tok; i++) {
        str_put(out, i ? "," : "[");
        req__print_tops(a, i, q->top, v, out);
    }
    str_put(out, !q->top ? "null" : a->n_tok ? "]" : "[]");
    str_put(out, ",\"text_offset\":[");
    for (int i = 0; i < a->n_tok; i++) {
        const size_t at = i ? a->tok[i - 1].end : 0;
        str_fmt(out, "%s%zu", i ? "," : "", at < a->text.n ? at : a->text.n);
    }
    str_put(out, "],\"bytes\":[");
    for (int i = 0; i < a->n_tok; i++) {
        if (i) str_put(out, ",");
        req__print_bytes(req__spell(v, a->tok[i].id), out);
    }
    str_put(out, "]}");
}

/* {"token","logprob","bytes" without the last brace */
static void req__print_token(int32_t id, float lp, const tok_vocab *v, str *out) {
    const bytes b = req__spell(v, id);
    str_put(out, "{\"token\":");
    str_json(out, b);
    str_put(out, ",\"logprob\":");
    req__print_lp(out, lp);
    str_put(out, ",\"bytes\":");
    req__print_bytes(b, out);
}

static void req__print_content(const req *q, const req_answer *a, const tok_vocab *v, str *out) {
    str_put(out, "{\"content\":[");
    for (int i = 0; i < a->n_tok; i++) {
        if (i) str_put(out, ",");
        req__print_token(a->tok[i].id, a->tok[i].lp, v, out);
        str_put(out, ",\"top_logprobs\":[");
        for (int k = 0; k < q->top; k++) {
            const size_t at = (size_t)i * (size_t)q->top + (size_t)k;
            if (a->top_id[at] < 0) break;
            if (k) str_put(out, ",");
            req__print_token(a->top_id[at], a->top_lp[at], v, out);
            str_put(out, "}");
        }
        str_put(out, "]}");
    }
    str_put(out, "]}");
}

static void req__print_choice(const req *q, const req_answer *a, int index, const tok_vocab *v, str *out) {
    str_fmt(out, "{\"index\":%d,%s", index, q->chat ? "\"message\":{\"role\":\"assistant\",\"content\":" : "\"text\":");
    str_json(out, a->text);
    if (q->chat) str_put(out, "}");
    if (!utf8_whole(a->text)) {
        str_put(out, ",\"bytes\":\"");
        str_base64(out, a->text);
        str_put(out, "\"");
    }
    str_put(out, ",\"logprobs\":");
    if (!q->logprobs) str_put(out, "null");
    else if (q->chat) req__print_content(q, a, v, out);
    else req__print_legacy(q, a, v, out);
    str_fmt(out, ",\"finish_reason\":\"%s\"}", a->finish);
}

/* The whole record of a line, newline and all: a is [q->n], one answer a choice. */
static void req_print(const req *q, const req_answer *a, const req_origin *o, const tok_vocab *v, str *out) {
    const unsigned long long line = o->line;
    long long                made = 0;
    req__print_id(o, q->custom_id, q->has_id, out);
    str_fmt(out, ",\"response\":{\"status_code\":200,\"request_id\":\"req_%llu\",\"body\":{", line);
    if (q->chat) str_fmt(out, "\"id\":\"chatcmpl-%llu\",\"object\":\"chat.completion\"", line);
    else str_fmt(out, "\"id\":\"cmpl-%llu\",\"object\":\"text_completion\"", line);
    str_fmt(out, ",\"created\":%lld,\"model\":", (long long)o->created);
    str_json(out, bytes_of(o->model_name));
    str_put(out, ",\"system_fingerprint\":");
    str_json(out, bytes_of(o->fingerprint));
    str_put(out, ",\"choices\":[");
    for (int i = 0; i < q->n; i++) {
        if (i) str_put(out, ",");
        req__print_choice(q, &a[i], i, v, out);
        made += a[i].n_generated;
    }
    str_fmt(out, "],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%lld", o->n_prompt, made);
    str_fmt(out, ",\"total_tokens\":%lld", made + o->n_prompt);
    str_fmt(out, ",\"prompt_tokens_details\":{\"cached_tokens\":%d}}}},\"error\":null}\n", o->n_cached);
}

/* The record of a line that failed. */
static void req_print_error(bytes custom_id, bool has_id, const req_origin *o, const char *code, const char *message,
                            str *out) {
    req__print_id(o, custom_id, has_id, out);
    str_put(out, ",\"response\":null,\"error\":{\"code\":");
    str_json(out, bytes_of(code));
    str_put(out, ",\"message\":");
    str_json(out, bytes_of(message));
    str_put(out, "}}\n");
}

/* ===== [spec] guesses at the tokens to come =====
 * Speculation: what may come next is guessed, and the step that computes the next token computes the rows of the guesses behind it
 * as well. The sampler goes through their logits as long as it picks what was guessed; the rest is cut off the cache. A row depends
 * on its own past alone and a draw on its seed and place alone, so the text is the one it would have been: that is why guesses are
 * not accepted by min(1, p/q), which keeps the distribution but not the text.
 *   Guesses come from the text itself (lookup: what followed where its end stood before, in it or in a finished text) or from a
 * small model with the same vocabulary (draft), which draws with the target's own random numbers.
 *   How many are worth a row is a matter of measurement: seconds of a step of n rows, the chance of a guess by its source and by how
 * sure the source is, for each sequence and for all. Guesses are taken, the likeliest of all sequences first, up to where
 * tokens per second are expected to be highest; both estimates fade, so that what did not pay is tried again.
 * Door: spec_defaults, spec_rows, spec_needs, spec_open, spec_close, spec_seq_new, spec_seq_free, spec_rest, spec_cut, spec_propose, spec_verdict,
 * spec_time, spec_aside, spec_finished, spec_save, spec_guessed, spec_accepted, spec_speedup, spec_report. */

enum {
    SPEC_MOST = 64,                                   /* guesses for a sequence in one step */
    SPEC_ROWS = 32,                                   /* for all sequences, unless one may have more */
    SPEC_COST = 64,                                   /* steps of up to so many rows are timed each for itself */
    SPEC_GRAM = 2,                                    /* tokens that a match has at least */
    SPEC_LONG = 64,                                   /* and at most: longer ones are as good */
    SPEC_WALK = 32,                                   /* places that are looked at, in a text and in finished ones */
    SPEC_PAST = 1 << 20,                              /* tokens of finished texts */
    SPEC_LEAD = 8,                                    /* tokens of the prompt that stand before them */
    SPEC_KINDS = 8,                                   /* degrees of sureness */
    SPEC_LAG = 8,                                     /* tokens that a draft reads together with its first guess */
    SPEC_AGE = 16,                                    /* steps for which a time is believed, twice as many each time it was taken */
    SPEC_KEEP = 16,                                   /* times kept for each number of rows */
    SPEC_MANY = 8,                                    /* times that show whether the machine has become faster or slower */
    SPEC_SURE = 3,                                    /* times from which a cost is sure enough to be reported */
    SPEC_TURNS = 100,                                 /* steps from which a speed-up is reported */
    SPEC_PAD = 128,                                   /* tokens that one of two equal vocabularies may have more, for padding */
    SPEC_VERSION = 1,
};
#define SPEC_HOPE   0.03                              /* what a row more costs, by one row's step, until it is known */
#define SPEC_WEIGHT 4.0                               /* trials that what is known beforehand counts for */
#define SPEC_LEAST_S 0.5                              /* seconds of decoding from which a speed-up is reported */
#define SPEC_WAITED 0.05                              /* share of the time waiting for a CPU from which CPUs count as shared */
#define SPEC_SPIKES 0.25                              /* share of the time beyond what steps usually take, the same */

typedef enum { SPEC_LOOKUP, SPEC_DRAFT, SPEC_SOURCES } spec_source;

static const char *const spec_names[SPEC_SOURCES] = {"lookup", "draft"};

typedef struct {
    const char *draft;                                /* model file, NULL: none */
    int         most, least;                          /* guesses of a sequence in a step; least: whatever measurement says */
    float       p_min;                                /* a less probable guess ends a draft */
    int         n_vocab;                              /* the draft guesses among so many first tokens, 0: among all */
    bool        lookup;
    const char *cache;                                /* file that keeps finished texts between runs, NULL: none */
} spec_opts;

static const spec_opts spec_defaults = {.most = 16, .lookup = true};

typedef struct {                                      /* the last times of one kind, in a ring */
    float v[SPEC_KEEP];
    int   n;                                          /* all that were added */
} spec_times;

typedef struct {                                      /* seconds of steps of n rows */
    spec_times took[SPEC_COST + 1];
    double     s[SPEC_COST + 1];                      /* their low quantile; 0: never taken */
    double     anchor[SPEC_COST + 1];                 /* s when the machine was last as slow as it is */
    double     at_level[SPEC_COST + 1];               /* how slow the machine was when it was last taken */
    long long  at[SPEC_COST + 1], now;                /* when that was, in steps */
    double     level;                                 /* how slow the machine is, 1 at first */
    double     cost[SPEC_COST + 1];                   /* what decisions take: what is known, at this level, and what lies between and beyond */
} spec_cost;

typedef struct {                                      /* steps by their rows */
    double real[SPEC_COST + 1];                       /* that were taken */
    double plain[SPEC_COST + 1];                      /* that would have given the same tokens without guesses */
} spec_tally;

typedef struct {
    float hit, tried;
} spec_rate;

typedef struct {                                      /* tokens, found by the last SPEC_GRAM of them */
    int32_t *id, *prev, *slot;                        /* [cap]; place of the same gram before, -1: none; first place of a chain */
    int      n, cap;
} spec_text;

typedef struct spec_seq {
    /* the owner's word before every step */
    const tok_ids *ids, *banned;                      /* prompt and answer; never picked */
    const samp    *sm;
    int            room;                              /* guesses that the text has room for */
    uint64_t       place;                             /* of the next token, as the sampler counts */
    /* the answer */
    int            n;
    spec_source    from;
    int32_t        id[SPEC_MOST];
    uint8_t        kind[SPEC_MOST];
    double         p[SPEC_MOST];                      /* chance that this one and all before it are right */

    spec_text      text;
    int            n_seen;                            /* of ids */
    spec_rate      rate[SPEC_SOURCES][SPEC_KINDS], mean[SPEC_SOURCES];
    kv_seq        *kv;                                /* of the draft, NULL: it knows nothing of the text */
    int            done;                              /* positions that it has read */
    samp          *twin;                              /* draws for the draft */
    float          sure;                              /* of its last guess */
    bool           foreign;                           /* the text has a token that the draft does not */
} spec_seq;

typedef struct spec {
    spec_opts        o;
    const engine    *eng;
    engine          *draft;                           /* NULL: none */
    gguf_file        g;
    tok_vocab       *v;
    int              n_rows;                          /* guesses in a step */
    spec_cost        cost, draft_cost;
    spec_rate        rate[SPEC_SOURCES][SPEC_KINDS], mean[SPEC_SOURCES];
    spec_text        past;                            /* finished texts, -1 before each */
    bool             news;                            /* past holds what the file does not */
    uint64_t         mark;                            /* of the vocabulary */
    bool             strange;                         /* the file is no lookup cache, and stays as it is */
    spec_seq       **live;                            /* [n_seqs] those that the draft works for */
    int             *taken;                           /* [n_seqs] guesses that a plan takes */
    int             *order;                           /* [n_rows] whose they are, in the plan's order */
    float           *logits;                          /* of the draft's step */
    float           *wide;                            /* [n_seqs, V] where its vocabulary is the shorter one */
    int              n_live;
    spec_tally       all, of[SPEC_SOURCES];           /* since costs were last forgotten: all steps; what each source guessed */
    double           draft_rounds[SPEC_COST + 1];     /* steps of the draft, by their rows */
    double           n_looks;                         /* steps before which guesses were looked for */
    spec_times       look;                            /* seconds of that, drafts not counted */
    double           plain_s, real_s;                 /* beside the tallies: seconds of before, and those that guesses do not change */
    double           wall_s, usual_s, draft_s;        /* all timed steps by the clock; by their costs; drafting by the clock */
    double           opened, waited;                  /* when; seconds that threads had waited for a CPU by then */
    int              turns_of[SPEC_SOURCES], won[SPEC_SOURCES];   /* in this step: sequences with guesses, tokens that these gave */
    long long        tokens, turns;                   /* decoded; steps of sequences that it took */
    long long        guessed[SPEC_SOURCES], hit[SPEC_SOURCES];
    long long        depth_tried[SPEC_SOURCES][SPEC_MOST], depth_hit[SPEC_SOURCES][SPEC_MOST];
    long long        chosen[SPEC_MOST + 1];           /* how often so many were taken for a sequence */
    double           looking, drafting, drafting_usual;   /* seconds before the coming step: all; of the draft, by the clock and by its costs */
    bool             warm;                            /* a step has been timed */
} spec;

/* --- what a step costs --- */

static void spec__times_add(spec_times *t, double v) { t->v[t->n++ % SPEC_KEEP] = (float)v; }

/* The low quantile: at most one time in ten is below it. A thread that loses its CPU for a while only makes steps longer, so that low
 * times are those of undisturbed steps. */
static double spec__times_low(const spec_times *t) {
    float     low[SPEC_KEEP];
    const int n = t->n < SPEC_KEEP ? t->n : SPEC_KEEP;
    for (int i = 0, at; i < n; i++) {
        for (at = i; at > 0 && low[at - 1] > t->v[i]; at--) low[at] = low[at - 1];
        low[at] = t->v[i];
    }
    return n ? (double)low[(n - 1) / 10] : 0;
}

/* A time is believed for as long as it has been confirmed, within bounds. */
static bool spec__known(const spec_cost *c, int n) {
    const int times = c->took[n].n < 5 ? c->took[n].n : 5;
    return times && c->now - c->at[n] <= SPEC_AGE << times;
}

/* Whether the time of a step of about n rows is. */
static bool spec__near(const spec_cost *c, int n) {
    bool yes = false;
    for (int k = n - n / 4; k <= n + n / 4 && k <= SPEC_COST; k++) yes = yes || spec__known(c, k);
    return yes;
}

/* Seconds of a step of n rows as far as they were taken, on the machine as it is now. */
static double spec__taken(const spec_cost *c, int n) { return c->took[n].n ? c->s[n] * c->level / c->at_level[n] : 0; }

/* The curve of costs through what is known; a step of fewer rows never costs more than one of more. */
static void spec__draw(spec_cost *c) {
    int    a = 0;                                     /* the last size that is known, and its cost */
    double was = 0;
    for (int n = 1; n <= SPEC_COST; n++) {
        c->cost[n] = was * (1 + SPEC_HOPE * (n - a));
        if (!spec__known(c, n)) continue;
        const double is = c->cost[n] = spec__taken(c, n);
        for (int k = a + 1; k < n; k++) c->cost[k] = a ? was + (is - was) * (k - a) / (n - a) : is / (1 + SPEC_HOPE * (n - k));
        a = n;
        was = is;
    }
    for (int n = SPEC_COST; n > 1; n--)
        if (c->cost[n] < c->cost[n - 1]) c->cost[n - 1] = c->cost[n];
}

/* Seconds of a step of n rows; 0: nothing is known. */
static double spec__cost(const spec_cost *c, int n) {
    const int beyond = n > SPEC_COST ? n - SPEC_COST : 0;
    return n < 1 ? 0 : c->cost[n - beyond] * (1 + SPEC_HOPE * beyond);
}

/* Times of n rows, brought to the level of today. */
static void spec__align(spec_cost *c, int n) {
    const double by = c->at_level[n] > 0 ? c->level / c->at_level[n] : 1;
    c->at_level[n] = c->level;
    if (fabs(by - 1) < 1e-9) return;
    for (int i = 0; i < SPEC_KEEP; i++) c->took[n].v[i] *= (float)by;
    c->s[n] *= by;
    c->anchor[n] *= by;
}

static bool spec__differs(double is, double was) { return is < 0.75 * was || is > 1.33 * was; }

/* A step of n rows took so long. Where one size has become much slower or faster, so have the others. */
static void spec__took(spec_cost *c, int n, double seconds) {
    c->now++;
    if (n < 1 || n > SPEC_COST) return;
    if (c->level <= 0) c->level = 1;
    spec_times *t = &c->took[n];
    spec__align(c, n);
    if (!spec__known(c, n) && spec__differs(seconds, c->s[n])) t->n = 0;   /* too old to be believed */
    spec__times_add(t, seconds);
    c->s[n] = spec__times_low(t);
    c->at[n] = c->now;
    if (t->n <= SPEC_MANY) c->anchor[n] = c->s[n];
    else if (spec__differs(c->s[n], c->anchor[n])) {
        c->level *= c->s[n] / c->anchor[n];
        c->at_level[n] = c->level;
        c->anchor[n] = c->s[n];
    }
    spec__draw(c);
}

static void spec__tally(double *steps, int n, double by) { steps[n < SPEC_COST ? n : SPEC_COST] += by; }

/* Seconds of steps by what they cost as far as that was taken, else by what decisions take. */
static double spec__seconds(const spec_cost *c, const double *steps) {
    double sum = 0;
    for (int n = 1; n <= SPEC_COST; n++)
        if (steps[n] > 0) sum += steps[n] * (c->took[n].n ? spec__taken(c, n) : spec__cost(c, n));
    return sum;
}

/* --- chances --- */

/* What the degrees of sureness are worth until that is known: of a match, where few and where most places agree, for one place three
 * lengths, for several that agree three; of a draft, by its probability. */
static const float spec_hopes[SPEC_SOURCES][SPEC_KINDS] = {{.3f, .5f, .35f, .6f, .8f, .55f, .8f, .93f},
                                                           {.05f, .15f, .27f, .42f, .6f, .77f, .9f, .97f}};
static const float spec_hope[SPEC_SOURCES] = {.6f, .7f};

/* Of a draft's guess, by its probability. */
static int spec__kind(float sure) {
    static const float upper[SPEC_KINDS - 1] = {.1f, .2f, .35f, .5f, .7f, .85f, .95f};
    int                k = 0;
    while (k < SPEC_KINDS - 1 && sure > upper[k]) k++;
    return k;
}

/* Of a guess that `same` of `all` places of the text agree on, where the longest match has `length` tokens. */
static int spec__kind_of_match(int length, int same, int all) {
    if (same < all) return 2 * same >= all;
    return (all > 1 ? 5 : 2) + (length > 3) + (length > 9);
}

static double spec__rate(const spec_rate *own, const spec_rate *all, double hope) {
    const double known = (all->hit + SPEC_WEIGHT * hope) / (all->tried + SPEC_WEIGHT);
    return (own->hit + SPEC_WEIGHT * known) / (own->tried + SPEC_WEIGHT);
}

static double spec__chance(const spec *sp, const spec_seq *q, spec_source from, int kind) {
    return spec__rate(&q->rate[from][kind], &sp->rate[from][kind], (double)spec_hopes[from][kind]);
}

static double spec__mean(const spec *sp, const spec_seq *q, spec_source from) {
    return spec__rate(&q->mean[from], &sp->mean[from], (double)spec_hope[from]);
}

/* hit: 0, 1, or the chance of a guess that nobody looked at. */
static void spec__learn(spec_rate *own, spec_rate *all, float hit) {
    *own = (spec_rate){own->hit * 0.9f + hit, own->tried * 0.9f + 1};
    *all = (spec_rate){all->hit * 0.98f + hit, all->tried * 0.98f + 1};
}

/* What has been learned counts less as time goes by. */
static void spec__fade(spec_rate *r, int n, float keep) {
    for (int i = 0; i < n; i++) r[i] = (spec_rate){r[i].hit * keep, r[i].tried * keep};
}

/* --- lookup --- */

static int32_t *spec__slot(const spec_text *t, int at) {
    uint64_t h = 0;
    for (int i = 0; i < SPEC_GRAM; i++) h = rng_mix(h ^ (uint32_t)t->id[at - i]);
    return &t->slot[h & (uint64_t)(t->cap - 1)];
}

static void spec__link(spec_text *t, int at) {
    if (at < SPEC_GRAM - 1) return;
    int32_t *slot = spec__slot(t, at);
    t->prev[at] = *slot;
    *slot = at;
}

static void spec__relink(spec_text *t) {
    for (int i = 0; i < t->cap; i++) t->slot[i] = -1;
    for (int i = 0; i < t->n; i++) spec__link(t, i);
}

static void spec__text_add(spec_text *t, int32_t id) {
    if (t->n == t->cap) {
        const size_t cap = t->cap ? 2 * (size_t)t->cap : 256;
        t->id = mem_grow(t->id, cap, sizeof *t->id);
        t->prev = mem_grow(t->prev, cap, sizeof *t->prev);
        t->slot = mem_grow(t->slot, cap, sizeof *t->slot);
        t->cap = (int)cap;
        spec__relink(t);
    }
    t->id[t->n] = id;
    spec__link(t, t->n++);
}

static void spec__text_drop(spec_text *t) {
    mem_free(t->id);
    mem_free(t->prev);
    mem_free(t->slot);
    *t = (spec_text){0};
}

typedef struct {                                      /* where the end of a text stands: its last token, tokens that are the same */
    const spec_text *in;
    int              at, same;
} spec_place;

/* Places in `in` where ends of `text` stand, the last ones first; how many. */
static int spec__places(const spec_text *text, const spec_text *in, spec_place place[SPEC_WALK]) {
    const int n = text->n;
    int       found = 0, walk = SPEC_WALK;
    uint64_t  h = 0;
    if (n < SPEC_GRAM || in->n < SPEC_GRAM) return 0;
    for (int i = 1; i <= SPEC_GRAM; i++) h = rng_mix(h ^ (uint32_t)text->id[n - i]);
    for (int at = in->slot[h & (uint64_t)(in->cap - 1)]; at >= 0 && walk > 0; at = in->prev[at], walk--) {
        int same = 0;
        if (in == text && at == n - 1) continue;
        while (same < SPEC_LONG && same <= at && same < n && in->id[at - same] == text->id[n - 1 - same]) same++;
        if (same >= SPEC_GRAM) place[found++] = (spec_place){in, at, same};
    }
    return found;
}

/* Of n of them, at least one, the first that is longest. */
static spec_place spec__longest(const spec_place *place, int n) {
    spec_place best = place[0];
    for (int i = 1; i < n; i++)
        if (place[i].same > best.same) best = place[i];
    return best;
}

/* Token k of what followed there, -1: none; the text itself has come to its end there and goes round. */
static int32_t spec__after(const spec_seq *q, const spec_place *there, int k) {
    const int next = there->at + 1 + k;
    return next < there->in->n ? there->in->id[next] : there->in == &q->text ? q->id[next - there->in->n] : -1;
}

/* What followed where the longest end stood, the last time. Other places are asked where a good part of it stood as well: where they
 * do not agree the text has taken several ways. */
static void spec__look(spec *sp, spec_seq *q, int most) {
    spec_place place[2 * SPEC_WALK];
    int        n = spec__places(&q->text, &q->text, place), all = 0;
    n += spec__places(&q->text, &sp->past, place + n);
    q->from = SPEC_LOOKUP;
    if (!n) return;
    const spec_place best = spec__longest(place, n);
    for (int i = 0; i < n; i++)
        if (2 * place[i].same >= best.same) place[all++] = place[i];
    for (double p = 1; q->n < most; q->n++) {
        const int32_t id = spec__after(q, &best, q->n);
        int           same = 0;
        if (id < 0 || tok_is_eog(sp->eng->v, id)) break;   /* behind an end there is nothing to guess */
        for (int i = 0; i < all; i++)
            if (spec__after(q, &place[i], q->n) == id) place[same++] = place[i];
        q->id[q->n] = id;
        q->kind[q->n] = (uint8_t)spec__kind_of_match(best.same + q->n, same, all);
        q->p[q->n] = p *= spec__chance(sp, q, SPEC_LOOKUP, q->kind[q->n]);
        all = same;
    }
}

/* The tokens that have come since, and their end of text. */
static void spec__read(spec *sp, spec_seq *q) {
    for (; q->n_seen < (int)q->ids->n; q->n_seen++) {
        const int32_t id = q->ids->id[q->n_seen];
        if (sp->o.lookup) spec__text_add(&q->text, id);
        q->foreign = q->foreign || (sp->draft && id >= sp->draft->m.hp.n_vocab);
    }
}

/* --- draft --- */

/* The draft forgets the text; its blocks stay for those who begin alike. */
static void spec_rest(spec_seq *q) {
    if (!q) return;
    kv_seq_free(q->kv);
    q->kv = NULL;
    q->done = 0;
}

/* The owner is about to drop `drop` of its tokens behind the first `keep`. What they say stays known. */
static void spec_cut(spec *sp, spec_seq *q, int keep, int drop) {
    if (!q) return;
    spec__read(sp, q);
    q->n_seen -= drop;
    if (q->kv && q->done > keep) q->done = kv_truncate(q->kv, keep);
}

/* Whether the draft has read the text but for its last few tokens. What it has no room for it forgets. */
static bool spec__follow(spec *sp, spec_seq *q) {
    engine   *d = sp->draft;
    const int n = (int)q->ids->n;
    bool      wait;
    if (q->foreign) return false;
    if (!q->kv) q->kv = kv_seq_new(d->kv);
    if (q->done > n - 1) q->done = n - 1;
    if (q->kv->n > q->done) q->done = kv_truncate(q->kv, q->done);
    q->done = kv_adopt(q->kv, q->ids->id, n - 1, &wait);
    while (n - q->done > SPEC_LAG) {
        const int to = n - 1 - q->done < d->n_batch ? n - 1 : q->done + d->n_batch;
        int       rows = 0;
        if (!kv_reserve(q->kv, to)) break;
        for (int p = q->done; p < to; p++) d->row[rows++] = (fwd_row){q->ids->id[p], p, q->kv, false};
        kv_claim(q->kv, q->ids->id);
        const bool ok = fwd_step(d->f, d->row, rows) != NULL;
        kv_settle(d->kv, ok);
        if (!ok) break;
        q->done = to;
    }
    if (n - q->done > SPEC_LAG) spec_rest(q);
    return q->kv != NULL;
}

/* Every thread: the next guess of some sequences. */
static void spec__pick(void *ctx, int ith) {
    spec     *sp = ctx;
    const int own = sp->draft->f->n_vocab, all = sp->eng->m.hp.n_vocab;
    (void)ith;
    for (int i; (i = pool_next(sp->draft->p)) < sp->n_live;) {
        spec_seq *q = sp->live[i];
        float    *logits = sp->logits + (size_t)i * (size_t)own;
        q->id[q->n] = -1;
        if (!gen_finite(logits, (size_t)own)) continue;
        if (sp->wide) {
            float *wide = sp->wide + (size_t)i * (size_t)all;
            memcpy(wide, logits, (size_t)own * sizeof *wide);
            for (int k = own; k < all; k++) wide[k] = -INFINITY;
            logits = wide;
        }
        for (size_t k = 0; k < q->banned->n; k++) logits[q->banned->id[k]] = -INFINITY;
        if (q->n) samp_accept(q->twin, q->id[q->n - 1], false);
        else samp_copy(q->twin, q->sm);
        q->id[q->n] = samp_pick(q->twin, logits, q->place + (uint64_t)q->n);
        q->sure = q->id[q->n] < 0 ? 0 : samp_chance(q->twin);
    }
}

/* Rows of the draft's next step, one with logits for each sequence that has room; those without leave. */
static int spec__draft_rows(spec *sp) {
    engine *d = sp->draft;
    int     rows = 0, n = 0;
    for (int i = 0; i < sp->n_live; i++) {
        spec_seq *q = sp->live[i];
        const int ids = (int)q->ids->n, to = ids + q->n;
        if (!kv_reserve(q->kv, to)) continue;
        for (int p = q->done; p < to; p++)
            d->row[rows++] = (fwd_row){p < ids ? q->ids->id[p] : q->id[p - ids], p, q->kv, p == to - 1};
        if (!q->n) kv_claim(q->kv, q->ids->id);
        q->done = to;
        sp->live[n++] = q;
    }
    sp->n_live = n;
    return rows;
}

/* Whether one more guess of q is likely to repay its row and its share of a step of the draft; rate: tokens per second that time is worth. */
static bool spec__goes_on(const spec *sp, const spec_seq *q, int rows, double rate) {
    const double p = (q->n ? q->p[q->n - 1] : 1) * spec__mean(sp, q, SPEC_DRAFT);
    const double row = spec__cost(&sp->cost, rows + 1) - spec__cost(&sp->cost, rows);
    const double each = spec__cost(&sp->draft_cost, sp->n_live) / sp->n_live;
    const int    most = q->room < sp->o.most ? q->room : sp->o.most;
    return q->n < most && (q->n < sp->o.least || p > rate * (row + each));
}

/* The guess that was picked joins the others. False: it is none. */
static bool spec__drafted(spec *sp, spec_seq *q) {
    const int32_t id = q->id[q->n];
    const bool    sure = q->sure >= sp->o.p_min || q->n < sp->o.least;
    if (id < 0 || tok_is_eog(sp->eng->v, id) || !sure) return false;
    q->kind[q->n] = (uint8_t)spec__kind(q->sure);
    q->p[q->n] = (q->n ? q->p[q->n - 1] : 1) * spec__chance(sp, q, SPEC_DRAFT, q->kind[q->n]);
    q->n++;
    return true;
}

/* Guesses of the draft for sp->live, round after round, as long as they are likely to pay beside `rows` rows. */
static void spec__draft(spec *sp, int rows, double rate) {
    const double t0 = clock_now();
    int          n = 0;
    for (int i = 0; i < sp->n_live; i++) {
        sp->live[i]->from = SPEC_DRAFT;
        sp->live[i]->n = 0;
        if (spec__follow(sp, sp->live[i])) sp->live[n++] = sp->live[i];
    }
    sp->drafting_usual = clock_now() - t0;            /* mostly nothing, but for a prompt */
    sp->real_s += sp->drafting_usual;
    for (sp->n_live = n; sp->n_live; sp->n_live = n) {
        const double begun = clock_now();
        const int    step = spec__draft_rows(sp), had = sp->n_live;
        sp->logits = step ? fwd_step(sp->draft->f, sp->draft->row, step) : NULL;
        kv_settle(sp->draft->kv, sp->logits != NULL);
        if (!sp->logits) {
            for (int i = 0; i < sp->n_live; i++) spec_rest(sp->live[i]);
            break;
        }
        pool_run(sp->draft->p, spec__pick, sp);
        spec__took(&sp->draft_cost, step, clock_now() - begun);
        spec__tally(sp->draft_rounds, step, 1);
        sp->drafting_usual += spec__cost(&sp->draft_cost, step);
        n = 0;
        for (int i = 0; i < had; i++) {
            spec_seq *q = sp->live[i];
            const bool one = spec__drafted(sp, q);
            rows += one;
            if (one && spec__goes_on(sp, q, rows, rate)) sp->live[n++] = q;
        }
    }
    sp->drafting = clock_now() - t0;
}

/* --- how many --- */

/* Tokens per second that q can expect of its first guesses, the best number of them, and of as many as it likes of the draft's. */
static double spec__best(const spec *sp, const spec_seq *q, int rows, double share, bool draft) {
    const double base = spec__cost(&sp->cost, rows), mean = spec__mean(sp, q, SPEC_DRAFT);
    const double each = draft ? spec__cost(&sp->draft_cost, 1) : 0;
    const int    most = q->room < sp->o.most ? q->room : sp->o.most;
    double       best = 1 / share, sum = 1, p = 1;
    for (int k = 0; k < (draft ? most : q->n); k++) {
        sum += draft ? p *= mean : q->p[k];
        const double rate = sum / (share + spec__cost(&sp->cost, rows + k + 1) - base + each * (k + 1));
        if (rate > best) best = rate;
    }
    return best;
}

/* Of all guesses the likeliest, as many as give the most tokens per second beside n sequences' own rows; `rows` of all kinds. */
static void spec__choose(spec *sp, spec_seq **q, int n, int rows) {
    const double base = spec__cost(&sp->cost, rows), plain = spec__cost(&sp->cost, n);
    double       sum = n, best = n / plain;
    int          m = 0, keep = 0;
    memset(sp->taken, 0, (size_t)n * sizeof *sp->taken);
    for (; m < sp->n_rows; m++) {
        int who = -1;
        for (int i = 0; i < n; i++) {
            if (sp->taken[i] == q[i]->n) continue;
            const bool due = sp->taken[i] < sp->o.least, held = who >= 0 && sp->taken[who] < sp->o.least;
            if (who < 0 || due > held || (due == held && q[i]->p[sp->taken[i]] > q[who]->p[sp->taken[who]])) who = i;
        }
        if (who < 0) break;
        const bool due = sp->taken[who] < sp->o.least;
        sum += q[who]->p[sp->taken[who]++];
        sp->order[m] = who;
        const double rate = sum / (plain + spec__cost(&sp->cost, rows + m + 1) - base);
        if (due || rate > best) best = rate, keep = m + 1;
    }
    memset(sp->taken, 0, (size_t)n * sizeof *sp->taken);
    for (int i = 0; i < keep; i++) sp->taken[sp->order[i]]++;
    for (int i = 0; i < n; i++) {
        spec_seq *one = q[i];
        const int took = sp->taken[i];
        if (one->from == SPEC_DRAFT && took < one->n)   /* a guess that is not worth its row tells what drafting is worth */
            spec__learn(&one->mean[SPEC_DRAFT], &sp->mean[SPEC_DRAFT], (float)(one->p[took] / (took ? one->p[took - 1] : 1)));
        one->n = took;
        sp->chosen[took] += !took;                    /* those with guesses are counted when they are judged */
    }
}

/* Where guesses may come from, for each of n sequences in a step of `rows` rows. */
static void spec__find(spec *sp, spec_seq **q, int n, int rows) {
    const double plain = spec__cost(&sp->cost, n), share = plain / n;
    sp->n_live = 0;
    for (int i = 0; i < n; i++) {
        const int most = q[i]->room < sp->o.most ? q[i]->room : sp->o.most;
        if (sp->o.lookup) spec__look(sp, q[i], most);
        if (!sp->draft || most < 1) continue;
        const double own = q[i]->n ? spec__best(sp, q[i], rows, share, false) : 1 / share;
        if (spec__best(sp, q[i], rows, share, true) > own || (sp->o.least && !q[i]->n)) sp->live[sp->n_live++] = q[i];
    }
    if (sp->n_live) spec__draft(sp, rows, n / plain);
}

/* Guesses for each of n sequences that decode in the coming step, which has `others` rows beside. */
static void spec_propose(spec *sp, spec_seq **q, int n, int others) {
    const double t0 = clock_now();
    sp->drafting = sp->drafting_usual = 0;
    memset(sp->turns_of, 0, sizeof sp->turns_of);
    memset(sp->won, 0, sizeof sp->won);
    spec__fade(&sp->rate[0][0], SPEC_SOURCES * SPEC_KINDS, 0.999f);
    spec__fade(sp->mean, SPEC_SOURCES, 0.999f);
    for (int i = 0; i < n; i++) {
        q[i]->n = 0;
        spec__read(sp, q[i]);
        spec__fade(&q[i]->rate[0][0], SPEC_SOURCES * SPEC_KINDS, 0.98f);
        spec__fade(q[i]->mean, SPEC_SOURCES, 0.98f);
    }
    if (n && (sp->o.least ? spec__cost(&sp->cost, n) > 0 : spec__near(&sp->cost, n))) {   /* else a step without guesses, to compare with */
        spec__find(sp, q, n, n + others);
        spec__choose(sp, q, n, n + others);
    }
    sp->looking = clock_now() - t0;
}

/* The first `right` guesses of q were what the sampler picked; `judged` of them were looked at. The first `done` tokens are as they were
 * when they were guessed. */
static void spec_verdict(spec *sp, spec_seq *q, int right, int judged, int done) {
    for (int i = 0; i < judged; i++) {
        spec__learn(&q->rate[q->from][q->kind[i]], &sp->rate[q->from][q->kind[i]], i < right);
        spec__learn(&q->mean[q->from], &sp->mean[q->from], i < right);
        sp->depth_tried[q->from][i]++;
        sp->depth_hit[q->from][i] += i < right;
    }
    sp->guessed[q->from] += q->n;
    sp->hit[q->from] += right;
    sp->turns_of[q->from]++;
    sp->won[q->from] += right + 1;
    sp->chosen[q->n]++;
    if (q->done > done + right) q->done = done + right;
}

/* A step of `rows` rows, none of them a prompt's, gave n sequences so many tokens, in so many seconds with all that belongs to it. The
 * first one is slow, since it touches memory that the others find touched. */
static void spec_time(spec *sp, int n, int rows, int tokens, double seconds) {
    if (!sp->warm) {
        sp->warm = true;
        return;
    }
    spec__took(&sp->cost, rows, seconds - sp->looking);
    spec__times_add(&sp->look, sp->looking - sp->drafting);
    sp->n_looks++;
    spec__tally(sp->all.real, rows, 1);
    spec__tally(sp->all.plain, n, (double)tokens / n);
    for (int from = 0; from < SPEC_SOURCES; from++) {
        spec__tally(sp->of[from].real, rows, (double)sp->turns_of[from] / n);
        spec__tally(sp->of[from].plain, n, (double)sp->won[from] / n);
    }
    sp->wall_s += seconds;
    sp->usual_s += spec__cost(&sp->cost, rows) + sp->drafting_usual + spec__times_low(&sp->look);
    sp->draft_s += sp->drafting;
    sp->tokens += tokens;
    sp->turns += n;
}

/* Seconds of all that was decoded, by its costs. */
static double spec__real_s(const spec *sp) {
    return sp->real_s + spec__seconds(&sp->cost, sp->all.real) + spec__seconds(&sp->draft_cost, sp->draft_rounds) +
           sp->n_looks * spec__times_low(&sp->look);
}

/* The same without guesses. */
static double spec__plain_s(const spec *sp) { return sp->plain_s + spec__seconds(&sp->cost, sp->all.plain); }

/* Seconds between two steps that would have passed without guesses too. anew: steps take another time from now on. */
static void spec_aside(spec *sp, double seconds, bool anew) {
    sp->plain_s += seconds;
    sp->real_s += seconds;
    if (!anew) return;
    sp->real_s = spec__real_s(sp);
    sp->plain_s = spec__plain_s(sp);
    sp->n_looks = 0;
    sp->cost = (spec_cost){0};
    sp->all = sp->of[SPEC_LOOKUP] = sp->of[SPEC_DRAFT] = (spec_tally){0};
    memset(sp->draft_rounds, 0, sizeof sp->draft_rounds);
}

/* --- finished texts --- */

/* Room for n tokens more; the older half makes it. */
static void spec__past_room(spec_text *t, int n) {
    if (t->n + n <= SPEC_PAST) return;
    int from = t->n / 2 > t->n + n - SPEC_PAST ? t->n / 2 : t->n + n - SPEC_PAST;
    if (from > t->n) from = t->n;
    memmove(t->id, t->id + from, (size_t)(t->n - from) * sizeof *t->id);
    t->n -= from;
    spec__relink(t);
}

/* The text is over, n_prompt of its tokens are the prompt: others may go the same way. */
static void spec_finished(spec *sp, const tok_ids *ids, int n_prompt) {
    if (!sp || !sp->o.lookup) return;
    const int n = (int)ids->n, from = n_prompt > SPEC_LEAD ? n_prompt - SPEC_LEAD : 0;
    if (n - from < SPEC_GRAM || n - from > SPEC_PAST / 4) return;
    spec__past_room(&sp->past, n - from + 1);
    spec__text_add(&sp->past, -1);
    for (int i = from; i < n; i++) spec__text_add(&sp->past, ids->id[i]);
    sp->news = true;
}

static const char spec_arch[] = "lookup_cache", spec_what[] = "lookup cache";

static uint64_t spec__mark(const tok_vocab *v) {
    uint64_t h = 0;
    for (int32_t id = 0; id < tok_count(v); id++) h = bytes_hash(h, tok_text(v, id));
    return h;
}

static void spec__sum(const int32_t *id, uint64_t n, char out[17]) {
    snprintf(out, 17, "%016llx", (unsigned long long)bytes_hash(0, (bytes){(const uint8_t *)id, (size_t)n * sizeof *id}));
}

/* The tokens in an open file, when they are of this vocabulary and as they were written. */
static bool spec__cache_tokens(spec *sp, const gguf_file *g, err_t *e) {
    const gguf_tensor *t = gguf_tensor_find(g, "tokens");
    bytes              vocab = {0}, sum = {0};
    uint64_t           version = 0;
    char               want[17];
    if (gguf_get_u64(g, "lookup_cache.version", 0, UINT32_MAX, &version, e) != 1 || version != SPEC_VERSION)
        return err_set(e, EXIT_INPUT, "%s: no lookup cache of version %d", g->path, SPEC_VERSION);
    snprintf(want, sizeof want, "%016llx", (unsigned long long)sp->mark);
    if (gguf_get_str(g, "lookup_cache.vocabulary", &vocab, e) != 1 || !bytes_is(vocab, want))
        return err_set(e, EXIT_INPUT, "%s: of another vocabulary", g->path);
    if (!t || t->type != K_I32 || t->n_dims != 1 || t->dim[0] > SPEC_PAST) return err_set(e, EXIT_INPUT, "%s: its tensor has another shape", g->path);
    const int32_t *id = (const int32_t *)(const void *)t->data;
    spec__sum(id, t->dim[0], want);
    if (gguf_get_str(g, "lookup_cache.sum", &sum, e) != 1 || !bytes_is(sum, want)) return err_set(e, EXIT_INPUT, "%s: is damaged", g->path);
    for (uint64_t i = 0; i < t->dim[0]; i++)
        if (id[i] < -1 || id[i] >= sp->eng->m.hp.n_vocab) return err_set(e, EXIT_INPUT, "%s: is damaged", g->path);
    for (uint64_t i = 0; i < t->dim[0]; i++) spec__text_add(&sp->past, id[i]);
    return true;
}

/* Finished texts of earlier runs. What cannot be used is told and not used. */
static void spec__cache_open(spec *sp) {
    gguf_file g;
    err_t     why = {0};
    if (!sp->o.cache) return;
    sp->mark = spec__mark(sp->eng->v);
    if (gguf_vacant(sp->o.cache)) return;
    const bool open = gguf_open(&g, sp->o.cache, &why);
    sp->strange = !open || !gguf_is_kind(&g, spec_arch, spec_what, &why);
    const bool ok = !sp->strange && spec__cache_tokens(sp, &g, &why);
    if (open) gguf_close(&g);
    if (!ok) log_warn("%s; it is not used%s", why.text, sp->strange ? ", and left as it is" : " and made anew");
}

/* Keeps the finished texts, when there are new ones. */
static bool spec_save(spec *sp, err_t *e) {
    gguf_writer    w;
    char           word[17];
    const uint64_t n = sp ? (uint64_t)sp->past.n : 0;
    if (!sp || !sp->o.cache || sp->strange || !sp->news || !gguf_may_replace(sp->o.cache, spec_arch, spec_what)) return true;
    if (!gguf_write_start(&w, sp->o.cache, 64, NULL, e)) return false;
    snprintf(word, sizeof word, "%016llx", (unsigned long long)sp->mark);
    gguf_write_str(&w, "general.architecture", bytes_of(spec_arch));
    gguf_write_u32(&w, "general.alignment", 64);
    gguf_write_u32(&w, "lookup_cache.version", SPEC_VERSION);
    gguf_write_str(&w, "lookup_cache.vocabulary", bytes_of(word));
    spec__sum(sp->past.id, n, word);
    gguf_write_str(&w, "lookup_cache.sum", bytes_of(word));
    gguf_write_tensor(&w, bytes_of("tokens"), K_I32, 1, &n);
    if (gguf_write_data(&w, sp->past.id, (size_t)n * sizeof *sp->past.id, e)) return gguf_write_finish(&w, e);
    gguf_write_drop(&w);
    return false;
}

/* --- opening --- */

/* Guesses that a step may hold beside the rows of n_seqs sequences; 0: none are made. */
static int spec_rows(const spec_opts *o, int n_seqs) {
    if (!o->draft && !o->lookup) return 0;
    return n_seqs > 1 && o->most < SPEC_ROWS ? SPEC_ROWS : o->most;
}

/* What guesses for n_seqs sequences need of memory: tables of what was said, and the draft with its cache. False: words in e. */
static bool spec_needs(const spec_opts *o, const fwd_opts *fo, const kv_opts *ko, int n_seqs, engine_needs *t, err_t *e) {
    static const char *const steps[] = {"draft's steps", "draft's logits", "draft's samplers"};
    const uint64_t           entry = 3 * sizeof(int32_t);      /* of a spec_text */
    gguf_file                g;
    model                    m;
    if (!spec_rows(o, n_seqs)) return true;
    engine_need(t, "lookup tables", entry * SPEC_PAST);
    t->token_bytes += 2 * entry;                      /* they grow by doubling */
    if (!o->draft) return true;
    if (!gguf_open(&g, o->draft, e)) return false;
    const bool ok = model_open(&m, &g, &fwd_defaults.rope, e);
    if (ok) {
        const int rows = fo->n_batch > SPEC_LAG * n_seqs ? fo->n_batch : SPEC_LAG * n_seqs;
        engine_need_weights(t, &m, fo, "draft in the file", "draft's packed weights");
        engine_need_steps(t, &m, fo->n_threads > 0 ? fo->n_threads : pool_default_threads(), rows, n_seqs, 2 * n_seqs, steps);
        t->token_bytes += model_kv_bytes(&m.hp, ko->type_k, ko->type_v);
    }
    model_close(&m);
    gguf_close(&g);
    return ok;
}

/* Whether both vocabularies are the same, token by token; one may have some more at its end, for padding. */
static bool spec__same_words(const tok_vocab *a, const tok_vocab *b, const char *path, err_t *e) {
    const int32_t na = tok_count(a), nb = tok_count(b), n = na < nb ? na : nb;
    for (int32_t id = 0; id < n; id++) {
        const bytes x = tok_text(a, id), y = tok_text(b, id);
        if (!bytes_eq(x, y))
            return err_set(e, EXIT_INPUT, "%s: not the target's vocabulary: token %d is '%.*s', the target's is '%.*s'", path, id,
                           y.n < 100 ? (int)y.n : 100, y.p, x.n < 100 ? (int)x.n : 100, x.p);
    }
    return abs(na - nb) <= SPEC_PAD ||
           err_set(e, EXIT_INPUT, "%s: not the target's vocabulary: it has %d tokens, the target %d", path, nb, na);
}

/* The draft model on the target's threads, with a cache for as many tokens. */
static bool spec__draft_open(spec *sp, const char *pre, const fwd_opts *fo, const kv_opts *ko, int n_seqs, err_t *e) {
    const int own = sp->eng->m.hp.n_vocab;
    fwd_opts  fd = *fo;
    kv_opts   kd = *ko;
    if (!gguf_open(&sp->g, sp->o.draft, e)) return false;
    if (!(sp->v = tok_load(&sp->g, pre, e)) || !spec__same_words(sp->eng->v, sp->v, sp->o.draft, e)) return false;
    fd.rope = fwd_defaults.rope;
    kd.block = sp->eng->kv->opts.block;
    kd.cache = NULL;
    kd.mem_bytes = 0;
    kd.max_blocks = sp->eng->kv->group[0].max_blocks;
    if (!(sp->draft = engine_open_beside(&sp->g, sp->v, &fd, &kd, sp->eng, n_seqs, SPEC_LAG * n_seqs, e))) return false;
    if (sp->o.n_vocab) fwd_trim(sp->draft->f, sp->o.n_vocab);
    if (sp->draft->f->n_vocab < own) sp->wide = mem_aligned((size_t)n_seqs * (size_t)own, sizeof *sp->wide);
    return true;
}

static void spec_close(spec *sp) {
    if (!sp) return;
    engine_close(sp->draft);
    tok_free(sp->v);
    if (sp->g.path) gguf_close(&sp->g);
    spec__text_drop(&sp->past);
    void *own[] = {sp->live, sp->taken, sp->order, sp->wide, sp};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) mem_free(own[i]);
}

/* For an engine whose steps have room for spec_rows() beside n_seqs sequences. NULL: words in e. */
static spec *spec_open(const engine *eng, const spec_opts *o, const char *pre, const fwd_opts *fo, const kv_opts *ko, int n_seqs, err_t *e) {
    const int room = (eng->max_out < eng->n_batch ? eng->max_out : eng->n_batch) - n_seqs, want = spec_rows(o, n_seqs);
    spec     *sp = mem_new(1, sizeof *sp);
    sp->o = *o;
    sp->eng = eng;
    sp->opened = clock_now();
    sp->waited = pool_waited();
    sp->n_rows = want < room ? want : room > 0 ? room : 0;
    if (sp->o.least > sp->o.most) sp->o.least = sp->o.most;
    sp->live = mem_new((size_t)n_seqs, sizeof *sp->live);
    sp->taken = mem_new((size_t)n_seqs, sizeof *sp->taken);
    sp->order = mem_new((size_t)sp->n_rows, sizeof *sp->order);
    if (!o->draft || spec__draft_open(sp, pre, fo, ko, n_seqs, e)) {
        spec__cache_open(sp);
        return sp;
    }
    spec_close(sp);
    return NULL;
}

/* For a text whose tokens and sampler are the owner's. */
static spec_seq *spec_seq_new(const spec *sp, const tok_ids *ids, const samp *sm, const tok_ids *banned) {
    spec_seq *q = mem_new(1, sizeof *q);
    q->ids = ids;
    q->sm = sm;
    q->banned = banned;
    if (sp->draft) q->twin = samp_twin(sm);
    return q;
}

static void spec_seq_free(spec_seq *q) {
    if (!q) return;
    spec_rest(q);
    spec__text_drop(&q->text);
    samp_free(q->twin);
    mem_free(q);
}

/* --- what came of it --- */

static long long spec_guessed(const spec *sp, spec_source from) { return sp ? sp->guessed[from] : 0; }
static long long spec_accepted(const spec *sp, spec_source from) { return sp ? sp->hit[from] : 0; }

/* Share of the time since sp was opened in which threads waited for a CPU. */
static double spec__waited(const spec *sp) {
    return sp->opened > 0 ? (pool_waited() - sp->waited) / (clock_now() - sp->opened) : 0;
}

/* Whether steps without guesses were taken often enough, at the sizes that most tokens are counted by or on both sides of them. */
static bool spec__sure(const spec *sp) {
    const spec_times *took = sp->cost.took;
    double            all = 0, sure = 0;
    for (int n = 1; n <= SPEC_COST; n++) {
        int a = n, b = n;
        while (a > 0 && took[a].n < SPEC_SURE) a--;
        while (b <= SPEC_COST && took[b].n < SPEC_SURE) b++;
        all += sp->all.plain[n];
        if (a && b <= SPEC_COST && n < SPEC_COST) sure += sp->all.plain[n];
    }
    return all > 0 && sure >= 0.9 * all;
}

/* How many times faster than plain decoding it was, where threads waited for a CPU for that share of the time. NAN: not known, for a
 * reason that *why tells; NULL: it was too short. */
static double spec__speedup(const spec *sp, double waited, const char **why) {
    *why = NULL;
    if (sp->wall_s < SPEC_LEAST_S || sp->turns < SPEC_TURNS) return NAN;
    *why = "the CPUs were shared";
    if (waited > SPEC_WAITED || sp->wall_s > (1 + SPEC_SPIKES) * sp->usual_s) return NAN;
    *why = "hardly a step was without guesses";
    if (!spec__sure(sp)) return NAN;
    *why = NULL;
    return fmin(spec__plain_s(sp) / spec__real_s(sp), (double)sp->tokens / (double)sp->turns);
}

/* The same of the steps in which one source guessed; never more than its tokens a step. */
static double spec__speedup_of(const spec *sp, spec_source from) {
    const spec_tally *t = &sp->of[from];
    const double      drafts = from == SPEC_DRAFT ? spec__seconds(&sp->draft_cost, sp->draft_rounds) : 0;
    double            steps = 0, plain = 0;
    for (int n = 1; n <= SPEC_COST; n++) steps += t->real[n], plain += t->plain[n];
    return steps > 0 ? fmin(spec__seconds(&sp->cost, t->plain) / (spec__seconds(&sp->cost, t->real) + drafts), plain / steps) : NAN;
}

/* 1 where nothing was guessed, NAN: not known. */
static double spec_speedup(const spec *sp) {
    const char *why;
    return sp && sp->guessed[SPEC_LOOKUP] + sp->guessed[SPEC_DRAFT] ? spec__speedup(sp, spec__waited(sp), &why) : 1;
}

/* Lines for people, about the sources that guessed. */
static void spec_report(const spec *sp, str *s) {
    const long long all = sp ? sp->guessed[SPEC_LOOKUP] + sp->guessed[SPEC_DRAFT] : 0;
    const char     *why;
    if (!all || !sp->turns) return;
    const double speedup = spec__speedup(sp, spec__waited(sp), &why);
    str_put(s, "llmrun: speculation ");
    if (!isnan(speedup)) str_fmt(s, "%.2fx plain decoding: ", speedup);
    str_fmt(s, "%lld tokens in %lld steps, %.2f a step", sp->tokens, sp->turns, (double)sp->tokens / (double)sp->turns);
    if (why) str_fmt(s, "; speed-up not measurable: %s", why);
    str_put(s, "\n");
    for (int from = SPEC_SOURCES - 1; from >= 0; from--) {
        if (!sp->guessed[from]) continue;
        str_fmt(s, "llmrun: %-11s %lld guessed, %lld accepted (%.1f %%), by depth", spec_names[from], sp->guessed[from], sp->hit[from],
                100.0 * (double)sp->hit[from] / (double)sp->guessed[from]);
        for (int i = 0; i < SPEC_MOST && sp->depth_tried[from][i]; i++)
            str_fmt(s, " %.0f", 100.0 * (double)sp->depth_hit[from][i] / (double)sp->depth_tried[from][i]);
        str_put(s, " %");
        if (from == SPEC_DRAFT) str_fmt(s, "; %.3f s of drafting", sp->draft_s);
        const double own = isnan(speedup) ? NAN : spec__speedup_of(sp, (spec_source)from);
        if (!isnan(own)) str_fmt(s, "; %.2fx where it guessed", own);
        str_put(s, "\n");
    }
    if (g_log_level < LOG_VERBOSE) return;
    str_put(s, "llmrun: guesses     taken:");
    for (int i = 0; i <= SPEC_MOST; i++)
        if (sp->chosen[i]) str_fmt(s, " %d in %lld,", i, sp->chosen[i]);
    str_put(s, " steps; ms for rows:");
    for (int i = 1; i <= SPEC_COST; i++)
        if (sp->cost.took[i].n) str_fmt(s, " %d %.2f,", i, spec__taken(&sp->cost, i) * 1e3);
    if (sp->draft) str_fmt(s, " of the draft: 1 %.2f", spec__cost(&sp->draft_cost, 1) * 1e3);
    str_put(s, "\n");
}

/* ===== [sched] many requests through one model =====
 * Continuous batching: every step takes one row of each sequence that is being continued and fills up with rows of prompts
 * that are being read, oldest first; a sequence leaves when it ends and the next one takes its place. Prompts are read in
 * chunks, so that nobody who is being continued waits longer than SCHED_STEP_S for a step.
 *   Blocks that the cache knows are adopted, those that another sequence is computing are waited for. A sequence comes in
 * when the cache has room for its prompt; when blocks run out the youngest makes room, and is read again when its turn
 * comes. Neither changes a text: a row's result depends on its own past alone, and a draw on its seed and place alone.
 *
 * Invariants:
 * - sched.run is in the order in which its sequences were added; those that made room come back before any newcomer.
 * - Whoever holds blocks and cannot go on gives way to older ones, never the other way: the oldest always gets on.
 * - What goes wrong with one sequence ends that one, in words (sched_seq.err); only what hits all of them ends the run.
 * Door: sched_new, sched_free, sched_seq_new, sched_seq_free, sched_add, sched_hungry, sched_step, sched_ended, hist_*. */

/* --- a histogram of seconds: 32 buckets to a factor of two, so that a percentile is told within 2.2 % --- */

enum { HIST_FINE = 32, HIST_N = 45 * HIST_FINE };     /* from a microsecond up to a year */

typedef struct {
    uint64_t n[HIST_N], all;
} hist;

static void hist_add(hist *h, double s) {
    int i = s > 1e-6 ? (int)(log2(s * 1e6) * HIST_FINE) : 0;
    h->n[i < HIST_N ? i : HIST_N - 1]++;
    h->all++;
}

/* The smallest value that is not below the share p of them; 0 of none. */
static double hist_at(const hist *h, double p) {
    uint64_t seen = 0;
    int      i = 0;
    if (!h->all) return 0;
    while (i < HIST_N - 1 && (double)(seen += h->n[i]) < p * (double)h->all) i++;
    return exp2((i + 0.5) / HIST_FINE) * 1e-6;
}

/* --- a sequence --- */

typedef struct {
    int  n_seqs;                                      /* sequences in flight */
    bool fixed;                                       /* static batches, for comparison: their rows run until the last one has ended */
    bool stress;                                      /* the youngest makes room before every step */
} sched_opts;

enum {
    SCHED_ROWS_LEAST = 32,                            /* rows of a step that reads prompts, however slow */
};
#define SCHED_STEP_S 0.25                             /* how long a step may take while somebody waits for his next token */

typedef struct sched_seq {
    tok_ids      ids;                                 /* prompt, answer behind it */
    int          n_prompt;
    int64_t      n_most;                              /* tokens of the answer, -1: until it ends */
    int          shift;                               /* tokens that stay when the context is full, and it goes on; -1: it ends */
    samp        *sm;
    const bytes *stop;                                /* [n_stop] the owner's */
    int          n_stop;
    bool         ignore_eos, scored;                  /* scored: log-probabilities are asked for */
    int          top;                                 /* alternatives of each, 0 .. REQ_TOP */
    int          keep;                                /* positions that others may ask for when it has ended */
    struct sched_seq *twin;                           /* one with the same prompt, added before and not yet freed; NULL: none */
    void        *owner;

    str          text;                                /* the answer; once it has ended, up to the stop string */
    req_token   *tok;                                 /* [n_gen] */
    int32_t     *top_id;                              /* [n_gen, top] where scored */
    float       *top_lp;
    const char  *finish;                              /* NULL: on its way */
    int32_t      end;                                 /* the end token that ended it, -1: none did */
    err_t        err;                                 /* what ended it in place of an answer */
    int          n_gen, n_cached;
    double       t_in, t_first, t_last;               /* when its turn came, its first and its last token */

    kv_seq      *kv;                                  /* NULL: nothing of it is in the cache */
    int          done;                                /* positions whose keys and values are there */
    bool         queued;                              /* it has rows in this step */
    bool         over;                                /* fixed: it has ended, and its row goes on with the others' */
    tok_stream   stream;
    float       *raw;                                 /* [V] logits before the sampler, where scored */
    spec_seq    *guess;                               /* NULL: none are made */
    int          n_guess;                             /* in this step */
    int          at, n_pick;                          /* its first row of logits; what the sampler made of them: */
    struct {
        int32_t  id;                                  /* -1: no token is possible, -2: the logits are none */
        float    lp;
    }            pick[SPEC_MOST + 1];
    int          cap;
    struct sched_seq *next;
} sched_seq;

static void sched_seq_free(sched_seq *q) {
    if (!q) return;
    kv_seq_free(q->kv);
    spec_seq_free(q->guess);
    samp_free(q->sm);
    tok_ids_drop(&q->ids);
    str_drop(&q->text);
    void *own[] = {q->tok, q->top_id, q->top_lp, q->raw, q};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) mem_free(own[i]);
}

/* A sequence behind this prompt; it takes the sampler over, who has not seen the prompt. */
static sched_seq *sched_seq_new(const engine *eng, const tok_ids *prompt, samp *sm, bool scored, int top) {
    sched_seq *q = mem_new(1, sizeof *q);
    q->sm = sm;
    q->n_most = -1;
    q->end = -1;
    q->shift = -1;
    q->keep = INT_MAX;
    q->scored = scored;
    q->top = top;
    q->n_prompt = (int)prompt->n;
    for (size_t i = 0; i < prompt->n; i++) {
        tok_ids_add(&q->ids, prompt->id[i]);
        samp_accept(sm, prompt->id[i], true);
    }
    tok_stream_init(&q->stream, eng->v, prompt->n == 1 && prompt->id[0] == tok_bos(eng->v));
    str_add(&q->text, "", 0);
    if (scored) q->raw = mem_aligned((size_t)eng->m.hp.n_vocab, sizeof *q->raw);
    return q;
}

/* --- the schedule --- */

typedef struct {
    long long steps, prefill, decode, cached, preempted, ended;   /* steps; rows of each kind; prompt tokens adopted; sequences */
    long long written;                                /* tokens of answers */
    double    busy_s;                                 /* in steps */
    double    slots, waste;                           /* summed over steps: positions of held blocks; those without a token */
    hist      ttft, tpot, itl, e2e;
} sched_stats;

typedef struct {
    engine      *eng;
    spec        *guesser;                             /* NULL: no guesses are made */
    spec_seq   **asks;                                /* [n_seqs] who decodes in this step */
    sched_opts   o;
    sched_seq  **run;                                 /* [n_run] in flight, by age */
    sched_seq  **out;                                 /* [n_out] whose logits the step gives */
    int          n_run, n_out, n_rows, n_logits;
    bool         filling;                             /* fixed: newcomers may still join */
    sched_seq   *first, *last;                        /* waiting, in order */
    sched_seq   *ended, *ended_last;
    int          n_waiting;
    float       *logits;
    tok_ids      never, endless;                      /* ids never picked; the same with those that end a text */
    double       row_s;                               /* seconds for each row of a step, lately; 0: not known */
    sched_stats  st;
} sched;

/* The sequences are their owners'. */
static void sched_free(sched *sc) {
    if (!sc) return;
    tok_ids_drop(&sc->never);
    tok_ids_drop(&sc->endless);
    mem_free(sc->run);
    mem_free(sc->out);
    mem_free(sc->asks);
    mem_free(sc);
}

/* The engine is one for as many sequences; guesser: for the same number of them, NULL: no guesses. */
static sched *sched_new(engine *eng, spec *guesser, const sched_opts *o, err_t *e) {
    sched *sc = mem_new(1, sizeof *sc);
    sc->eng = eng;
    sc->guesser = o->fixed ? NULL : guesser;
    sc->o = *o;
    if (sc->o.n_seqs > eng->max_out) sc->o.n_seqs = eng->max_out;
    sc->run = mem_new((size_t)sc->o.n_seqs, sizeof *sc->run);
    sc->out = mem_new((size_t)sc->o.n_seqs, sizeof *sc->out);
    sc->asks = mem_new((size_t)sc->o.n_seqs, sizeof *sc->asks);
    if (gen_banned(eng, false, &sc->never, e) && gen_banned(eng, true, &sc->endless, e)) return sc;
    sched_free(sc);
    return NULL;
}

static void sched__append(sched_seq **first, sched_seq **last, sched_seq *q) {
    q->next = NULL;
    if (*last) (*last)->next = q;
    else *first = q;
    *last = q;
}

/* The sequence waits for its turn; it must stay until sched_ended() tells of it, or the schedule is gone. */
static void sched_add(sched *sc, sched_seq *q) {
    if (sc->guesser && !q->guess) q->guess = spec_seq_new(sc->guesser, &q->ids, q->sm, q->ignore_eos ? &sc->endless : &sc->never);
    sc->n_waiting++;
    sched__append(&sc->first, &sc->last, q);
}

/* Whether one more could be taken soon. */
static bool sched_hungry(const sched *sc) { return sc->n_run + sc->n_waiting <= sc->o.n_seqs; }

/* A sequence that has ended; NULL: there is none. */
static sched_seq *sched_ended(sched *sc) {
    sched_seq *q = sc->ended;
    if (q && !(sc->ended = q->next)) sc->ended_last = NULL;
    return q;
}

static void sched__leave(sched *sc, int i) {
    memmove(sc->run + i, sc->run + i + 1, (size_t)(--sc->n_run - i) * sizeof *sc->run);
}

/* The text is over: its place and its blocks are free, its figures are counted. */
static void sched__end(sched *sc, sched_seq *q) {
    int i = 0;
    while (sc->run[i] != q) i++;
    sched__leave(sc, i);
    kv_seq_free(q->kv);
    q->kv = NULL;
    spec_rest(q->guess);
    if (q->finish) spec_finished(sc->guesser, &q->ids, q->n_prompt);
    sc->st.ended++;
    if (q->n_gen) hist_add(&sc->st.e2e, q->t_last - q->t_in);
    if (q->n_gen > 1) hist_add(&sc->st.tpot, (q->t_last - q->t_first) / (q->n_gen - 1));
    sched__append(&sc->ended, &sc->ended_last, q);
}

/* Its blocks are free for others; until they are taken they stay known. */
static void sched__yield(sched *sc, sched_seq *q) {
    q->n_guess = 0;
    if (!q->kv) return;
    q->kv->keep = INT_MAX;
    kv_seq_free(q->kv);
    q->kv = NULL;
    q->done = 0;
    spec_rest(q->guess);
    if (q->n_gen) return;
    sc->st.cached -= q->n_cached;
    q->n_cached = 0;
}

/* Gives its blocks up and waits before all others; in a static batch one that has ended keeps its place, without a row. */
static void sched__preempt(sched *sc, int i) {
    sched_seq *q = sc->run[i];
    sched__yield(sc, q);
    if (q->over) return;
    sched__leave(sc, i);
    sc->st.preempted++;
    q->next = sc->first;
    sc->first = q;
    if (!sc->last) sc->last = q;
    sc->n_waiting++;
}

/* Who makes room: the youngest that holds blocks and has no rows in this step, before all others one that has ended; -1: nobody. */
static int sched__youngest(const sched *sc) {
    int best = -1;
    for (int i = 0; i < sc->n_run; i++) {
        const sched_seq *q = sc->run[i];
        if (q->kv && !q->queued && (best < 0 || q->over >= sc->run[best]->over)) best = i;
    }
    return best;
}

/* Room for positions below `to`, which younger sequences make. False: it was itself the youngest and has made room for others, or
 * there is nobody else. */
static bool sched__reserve(sched *sc, sched_seq *q, int to) {
    while (!kv_reserve(q->kv, to)) {
        const int i = sched__youngest(sc);
        if (sc->run[i] == q && sc->n_run == 1) return false;
        const bool own = sc->run[i] == q;
        sched__preempt(sc, i);
        if (own) return false;
    }
    return true;
}

/* Rows for positions [from, q->kv->n), which are reserved, and behind the last token for its guesses if there is room. */
static void sched__rows(sched *sc, sched_seq *q, int from) {
    const int n = (int)q->ids.n;
    q->queued = true;
    q->at = sc->n_logits;
    for (int i = from; i < q->kv->n; i++) sc->eng->row[sc->n_rows++] = (fwd_row){q->ids.id[i], i, q->kv, i == n - 1};
    kv_claim(q->kv, q->ids.id);
    if (q->kv->n < n) return;
    if (q->n_guess && !kv_reserve(q->kv, n + q->n_guess)) q->n_guess = 0;
    for (int i = 0; i < q->n_guess; i++) sc->eng->row[sc->n_rows++] = (fwd_row){q->guess->id[i], n + i, q->kv, true};
    sc->n_logits += 1 + q->n_guess;
    sc->out[sc->n_out++] = q;
}

/* Whether the twin has read the prompt or is going to: one that has ended and given up its blocks is not. */
static bool sched__twin_reads(const sched *sc, const sched_seq *q) {
    bool yes = false;
    for (int i = 0; q->twin && i < sc->n_run; i++) yes = yes || sc->run[i] == q->twin;
    return yes && !(q->twin->over && !q->twin->kv);
}

/* What the sequence may begin with: the blocks of a twin who has read the same prompt, or what the cache knows. False: it has to
 * wait for somebody who is computing what it needs. */
static bool sched__begin(sched *sc, sched_seq *q) {
    bool wait = false;
    if (!q->kv) {
        const bool twin = sched__twin_reads(sc, q);
        if (twin && q->twin->done < q->n_prompt) return false;
        q->kv = twin ? kv_fork(q->twin->kv) : kv_seq_new(sc->eng->kv);
        if (twin) kv_truncate(q->kv, q->n_prompt - 1);
        q->kv->keep = q->keep;
    }
    const int got = kv_adopt(q->kv, q->ids.id, (int)q->ids.n - 1, &wait) - q->done;
    q->done += got;
    if (!q->n_gen) q->n_cached += got, sc->st.cached += got;
    return !wait;
}

/* Whether one row continues the sequence. */
static bool sched__decodes(const sched *sc, const sched_seq *q) {
    const int n = (int)q->ids.n;
    return q->kv && q->done == n - 1 && q->n_gen && n <= sc->eng->n_ctx;
}

/* Guesses for those who decode, as many as their texts have room for. */
static void sched__guess(sched *sc) {
    int n = 0, others = 0;
    for (int i = 0; i < sc->n_run; i++) {
        sched_seq *q = sc->run[i];
        if (!sched__decodes(sc, q)) {
            others += (int)q->ids.n - q->done;
            continue;
        }
        const int64_t left = q->n_most < 0 ? INT_MAX : q->n_most - q->n_gen - 1, room = sc->eng->n_ctx - (int64_t)q->ids.n;
        q->guess->room = (int)(left < room ? left : room);
        q->guess->place = (uint64_t)q->n_gen;
        sc->asks[n++] = q->guess;
    }
    spec_propose(sc->guesser, sc->asks, n, others < sc->eng->chunk ? others : sc->eng->chunk);
    for (int i = 0; i < sc->n_run; i++)
        if (sched__decodes(sc, sc->run[i])) sc->run[i]->n_guess = sc->run[i]->guess->n;
}

/* One row of every sequence that is being continued, and its guesses. */
static void sched__decode(sched *sc) {
    if (sc->guesser) sched__guess(sc);
    for (int i = 0; i < sc->n_run; i++) {
        sched_seq *q = sc->run[i];
        const int  n = (int)q->ids.n;
        if (!sched__decodes(sc, q)) continue;
        if (sched__reserve(sc, q, n)) sched__rows(sc, q, n - 1);
        else if (q->kv) {
            kv_full(n, &q->err);
            sched__end(sc, q);
        }
        if (i < sc->n_run && sc->run[i] != q) i--;
    }
}

/* Rows that a step may have: fewer where somebody waits for his next token. */
static int sched__budget(const sched *sc) {
    const int room = sc->eng->n_batch - sc->n_rows, most = sc->n_rows + (sc->eng->chunk < room ? sc->eng->chunk : room);
    if (!sc->n_rows || sc->row_s <= 0) return most;
    const double n = SCHED_STEP_S / sc->row_s;
    const int    least = sc->n_rows + SCHED_ROWS_LEAST;
    return n >= most ? most : n > least ? (int)n : least < most ? least : most;
}

/* As much of the prompt as the step has rows left for; cut at a block's end, where others can go on from. */
static void sched__read(sched *sc, sched_seq *q, int budget) {
    const int block = sc->eng->kv->opts.block, n = (int)q->ids.n, from = q->done;
    int       to = n - from > budget - sc->n_rows ? from + budget - sc->n_rows : n;
    if (to < n && to - to % block > from) to -= to % block;
    if (to > from && kv_reserve(q->kv, to)) sched__rows(sc, q, from);
}

/* Blocks that a sequence in flight, or the next one to be, still lacks for what it has and for one token more. */
static int sched__lacks(const sched *sc, const sched_seq *q) {
    const int block = sc->eng->kv->opts.block, all = ((int)q->ids.n + block) / block + 1;
    int       cost = 0;
    if (q->over && !q->kv) return 0;
    if (!q->kv && sched__twin_reads(sc, q)) return 2;
    const int has = q->kv ? kv_seq_blocks(q->kv) : kv_match(sc->eng->kv, q->ids.id, (int)q->ids.n - 1, &cost);
    return (all > has ? all - has : 0) + cost;
}

/* Newcomers, as long as there are places, rows that they could fill, and room for their prompts beside what those in flight lack. */
static void sched__admit(sched *sc, int budget) {
    int ahead = 0, lack = sc->n_run;
    for (int i = 0; i < sc->n_run; i++) {
        if (!sc->run[i]->queued) ahead += (int)sc->run[i]->ids.n - sc->run[i]->done;
        lack += sched__lacks(sc, sc->run[i]);
    }
    if (!sc->n_run) sc->filling = true;
    while (sc->first && sc->n_run < sc->o.n_seqs && ahead < budget - sc->n_rows && (sc->filling || !sc->o.fixed)) {
        sched_seq *q = sc->first;
        lack += sched__lacks(sc, q) + 1;
        if (sc->n_run && kv_room(sc->eng->kv) < lack) break;
        sched__begin(sc, q);
        if (!(sc->first = q->next)) sc->last = NULL;
        sc->n_waiting--;
        sc->run[sc->n_run++] = q;
        if (q->t_in <= 0) q->t_in = clock_now();
        ahead += (int)q->ids.n - q->done;
    }
    sc->filling = sc->filling && sc->n_run < sc->o.n_seqs && sc->first;
}

/* A static batch is over when its last text is; those that wait are the next one. */
static void sched__dismiss(sched *sc) {
    bool all = sc->o.fixed;
    for (int i = 0; i < sc->n_run; i++) all = all && sc->run[i]->over;
    while (all && sc->n_run) sched__end(sc, sc->run[0]);
}

/* The first of those whose texts have not ended; there is one. */
static sched_seq *sched__oldest(const sched *sc) {
    int i = 0;
    while (sc->run[i]->over) i++;
    return sc->run[i];
}

/* The rows of the next step. */
static int sched__plan(sched *sc) {
    for (;;) {
        sched__dismiss(sc);
        sc->n_rows = sc->n_out = sc->n_logits = 0;
        for (int i = 0; i < sc->n_run; i++) sc->run[i]->queued = false, sc->run[i]->n_guess = 0;
        sched__decode(sc);
        const int budget = sched__budget(sc);
        sched__admit(sc, budget);
        for (int i = 0; i < sc->n_run && sc->n_rows < budget; i++)
            if (!sc->run[i]->queued && !sc->run[i]->over && sched__begin(sc, sc->run[i])) sched__read(sc, sc->run[i], budget);
        if (sc->n_rows || !sc->n_run) return sc->n_rows;
        const int i = sched__youngest(sc);
        sched_seq *q = sched__oldest(sc);
        if (i >= 0 && sc->run[i] != q) sched__preempt(sc, i);
        else {                                        /* it has all the room, and still does not fit */
            kv_full((int)q->ids.n, &q->err);
            sched__end(sc, q);
        }
    }
}

/* --- tokens --- */

/* Log-probabilities of the model itself, whatever the sampler makes of them, at place i of the answer: of the likeliest, and, returned,
 * of the picked token. */
static float sched__score(sched_seq *q, int n_vocab, int32_t picked, int i_gen) {
    const double norm = (double)q->raw[picked] - gen_logprob(q->raw, n_vocab, picked);
    int32_t     *id = q->top_id + (size_t)i_gen * (size_t)q->top;
    float       *lp = q->top_lp + (size_t)i_gen * (size_t)q->top;
    int          n = 0;
    for (int32_t i = 0; q->top && i < n_vocab; i++) {
        int at = n < q->top ? n : q->top;
        while (at > 0 && lp[at - 1] < q->raw[i]) at--;
        if (at == q->top) continue;
        if (n < q->top) n++;
        memmove(id + at + 1, id + at, (size_t)(n - 1 - at) * sizeof *id);
        memmove(lp + at + 1, lp + at, (size_t)(n - 1 - at) * sizeof *lp);
        id[at] = i;
        lp[at] = q->raw[i];
    }
    for (int i = 0; i < q->top; i++) {
        if (i >= n) id[i] = -1;
        else lp[i] = (float)((double)lp[i] - norm);
    }
    return (float)((double)q->raw[picked] - norm);
}

/* What the sampler takes from one row of logits, -1 or -2 as pick.id says. */
static int32_t sched__pick_row(const sched *sc, sched_seq *q, float *logits) {
    const int n_vocab = sc->eng->m.hp.n_vocab, i = q->n_gen + q->n_pick;
    if (!gen_finite(logits, (size_t)n_vocab)) return -2;
    if (q->scored) memcpy(q->raw, logits, (size_t)n_vocab * sizeof *logits);
    const tok_ids *banned = q->ignore_eos ? &sc->endless : &sc->never;
    for (size_t k = 0; k < banned->n; k++) logits[banned->id[k]] = -INFINITY;
    const int32_t id = samp_pick(q->sm, logits, (uint64_t)i);
    if (id < 0) return -1;
    samp_accept(q->sm, id, false);
    q->pick[q->n_pick].lp = q->scored && !q->over ? sched__score(q, n_vocab, id, i) : 0;
    return id;
}

/* Every thread: picks the next tokens of some sequences, row after row as long as the guess was right. Which thread does it changes
 * nothing. */
static void sched__pick(void *ctx, int ith) {
    sched *sc = ctx;
    (void)ith;
    for (int i; (i = pool_next(sc->eng->p)) < sc->n_out;) {
        sched_seq *q = sc->out[i];
        float     *logits = sc->logits + (size_t)q->at * (size_t)sc->eng->m.hp.n_vocab;
        int32_t    id;
        q->n_pick = 0;
        do {
            id = q->pick[q->n_pick].id = sched__pick_row(sc, q, logits);
            logits += sc->eng->m.hp.n_vocab;
        } while (q->n_pick++ < q->n_guess && id == q->guess->id[q->n_pick - 1] && !tok_is_eog(sc->eng->v, id));
    }
}

/* Room for what is known of the tokens that may come. */
static void sched__room(sched_seq *q) {
    if (q->n_gen + q->n_guess < q->cap) return;
    q->cap = 2 * q->cap + SPEC_MOST;
    q->tok = mem_grow(q->tok, (size_t)q->cap, sizeof *q->tok);
    if (!q->scored) return;
    q->top_id = mem_grow(q->top_id, (size_t)q->cap * (size_t)q->top, sizeof *q->top_id);
    q->top_lp = mem_grow(q->top_lp, (size_t)q->cap * (size_t)q->top, sizeof *q->top_lp);
}

/* Bytes that a stop string may still grow out of. */
static size_t sched__tail(const sched_seq *q) {
    size_t most = 1;
    for (int i = 0; i < q->n_stop; i++) most = q->stop[i].n > most ? q->stop[i].n : most;
    return most - 1;
}

/* A full context drops the older half of what stands behind the kept tokens and reads the rest again at its new place, so that what
 * follows is what a fresh run over the remaining tokens gives. */
static void sched__shift(sched *sc, sched_seq *q) {
    const int n = (int)q->ids.n, keep = q->shift, drop = (n - keep + 1) / 2;
    log_info("context full at %d tokens: %d dropped behind the first %d", n - 1, drop, keep);
    spec_cut(sc->guesser, q->guess, keep, drop);
    memmove(q->ids.id + keep, q->ids.id + keep + drop, (size_t)(n - keep - drop) * sizeof *q->ids.id);
    q->ids.n -= (size_t)drop;
    if (q->n_prompt > keep) q->n_prompt = keep;
    q->done = kv_truncate(q->kv, keep);
}

/* A picked token joins the text. Returns why the text ends with it, NULL: it goes on. */
static const char *sched__join(sched *sc, sched_seq *q, int32_t id, float lp) {
    const size_t had = q->text.n, tail = sched__tail(q);
    if (!q->ignore_eos && tok_is_eog(sc->eng->v, id)) {
        tok_stream_flush(&q->stream, &q->text);
        q->end = id;
        return "stop";
    }
    tok_ids_add(&q->ids, id);
    tok_stream_push(&q->stream, id, &q->text);
    q->tok[q->n_gen++] = (req_token){id, lp, q->text.n + (size_t)q->stream.n_held + q->stream.f4};
    sc->st.written++;
    const size_t stop = gen_stop_at(&q->text, had > tail ? had - tail : 0, q->stop, q->n_stop);
    if (stop < q->text.n) {
        q->text.n = stop;
        q->text.p[stop] = 0;
        return "stop";
    }
    if (q->n_gen != q->n_most && ((int)q->ids.n <= sc->eng->n_ctx || (q->shift >= 0 && q->shift < (int)q->ids.n - 2))) return NULL;
    tok_stream_flush(&q->stream, &q->text);
    return "length";
}

static void sched__told(sched *sc, sched_seq *q, double now) {
    if (q->n_gen == 1) q->t_first = now, hist_add(&sc->st.ttft, now - q->t_in);
    else hist_add(&sc->st.itl, now - q->t_last);
    q->t_last = now;
}

/* All that was picked for q joins its text, up to where it ends. */
static void sched__join_all(sched *sc, sched_seq *q, double now) {
    const int had = q->n_gen, n = (int)q->ids.n;
    int       right = 0;
    if (!q->n_most) q->finish = "length";
    for (int k = 0; k < q->n_pick && !q->finish && !q->err.code; k++) {
        const int32_t id = q->pick[k].id;
        if (id >= 0) q->finish = sched__join(sc, q, id, q->pick[k].lp);
        else if (id == -1)
            err_set(&q->err, EXIT_INPUT, "no token is possible after token %zu: the logit biases forbid all of them", q->ids.n - 1);
        else
            err_set(&q->err, EXIT_INPUT,
                    "%s: the logits after token %zu hold a NaN or an infinity: damaged weights, or a model out of range",
                    sc->eng->g->path, q->ids.n - 1);
        right += k < q->n_guess && id == q->guess->id[k];
        if (q->n_gen > had + k) sched__told(sc, q, now);
    }
    if (q->n_guess) spec_verdict(sc->guesser, q->guess, right, q->n_pick < q->n_guess ? q->n_pick : q->n_guess, n);
    q->over = q->finish || q->err.code;
    if (q->over) return;
    q->done = kv_truncate(q->kv, n + right);
    if ((int)q->ids.n > sc->eng->n_ctx) sched__shift(sc, q);
}

static void sched__tokens(sched *sc) {
    const double now = clock_now();
    for (int i = 0; i < sc->n_out; i++) {
        sched_seq *q = sc->out[i];
        if (q->over) tok_ids_add(&q->ids, q->pick[0].id < 0 ? q->ids.id[0] : q->pick[0].id);   /* what it says now is nobody's */
        else sched__join_all(sc, q, now);
        if (q->over && !sc->o.fixed) sched__end(sc, q);
    }
}

/* Every token that the step has logits for. */
static void sched__sample(sched *sc) {
    for (int i = 0; i < sc->n_out; i++) sched__room(sc->out[i]);
    mem_freeze("sampling");
    pool_run(sc->eng->p, sched__pick, sc);
    mem_thaw();
    sched__tokens(sc);
}

/* --- the step --- */

static void sched__count(sched *sc, double seconds) {
    sched_stats *st = &sc->st;
    const int    block = sc->eng->kv->opts.block;
    int          peak, decode = 0, guesses = 0;
    double       held = (double)kv_held(sc->eng->kv, &peak) * block, tails = 0;
    for (int i = 0; i < sc->n_run; i++) {
        const sched_seq *q = sc->run[i];
        decode += q->queued && q->n_gen && !q->over;
        guesses += q->n_guess;
        if (q->kv) tails += (double)kv_seq_blocks(q->kv) * block - q->kv->n;
    }
    st->steps++;
    st->decode += decode;
    st->prefill += sc->n_rows - decode - guesses;
    st->busy_s += seconds;
    st->slots += held;
    st->waste += tails;
    if (sc->n_rows >= SCHED_ROWS_LEAST) {
        const double row = seconds / sc->n_rows;
        sc->row_s = sc->row_s > 0 ? 0.8 * sc->row_s + 0.2 * row : row;
    }
}

/* One step. False: nobody is there, or (e->code) something ended the run, or an interrupt did. */
static bool sched_step(sched *sc, int64_t n_ahead, err_t *e) {
    if (sc->o.stress) {
        for (int i = 0; i < sc->n_run; i++) sc->run[i]->queued = false;
        const int i = sched__youngest(sc);
        if (i > 0) sched__preempt(sc, i);
    }
    const double begun = clock_now();
    if (!sched__plan(sc)) return false;
    const double t0 = clock_now();
    sc->logits = fwd_step(sc->eng->f, sc->eng->row, sc->n_rows);
    if (!sc->logits || !gen_whole(sc->eng, e)) {
        kv_settle(sc->eng->kv, false);
        return false;
    }
    const long long decode = sc->st.decode, prefill = sc->st.prefill, written = sc->st.written;
    kv_settle(sc->eng->kv, true);
    sched__count(sc, clock_now() - t0);
    for (int i = 0; i < sc->n_run; i++)
        if (sc->run[i]->queued) sc->run[i]->done = sc->run[i]->kv->n - sc->run[i]->n_guess;
    if (sc->n_out) sched__sample(sc);
    if (sc->guesser && sc->st.prefill == prefill)
        spec_time(sc->guesser, (int)(sc->st.decode - decode), sc->n_rows, (int)(sc->st.written - written), clock_now() - begun);
    sched__dismiss(sc);
    const double packs = clock_now();
    const bool packed = engine_pack(sc->eng, n_ahead, sc->st.written, sc->st.written - written);
    if (sc->guesser) spec_aside(sc->guesser, clock_now() - packs, packed);
    return true;
}

/* ===== [text] one request, its text as it is made =====
 * A schedule of one, told as it goes: what is certain of the text leaves at once.
 * Door: text_run. */

enum { TEXT_LONG = 100 };                             /* tokens from which a prompt is worth a progress line */

/* Text on its way out. The end of it that may yet become a stop string is held back, and so are the tokens of that end. */
typedef struct {
    out_t          *out;
    const gen_opts *o;
    sched_seq      *q;
    size_t          told;                             /* bytes that have left */
    int             n_told;                           /* --ids: tokens */
    bool            any;                              /* something has been written */
    char            last;
} text_sink;

static bool text__write(text_sink *s, const void *p, size_t n) {
    if (!n) return true;
    s->any = true;
    s->last = ((const char *)p)[n - 1];
    return out_put(s->out, p, n) && out_flush(s->out);
}

/* Longest end of what has not left that begins some stop string. */
static size_t text__may_stop(const text_sink *s) {
    const str *t = &s->q->text;
    size_t     most = 0;
    for (int i = 0; i < s->q->n_stop; i++) {
        const bytes stop = s->q->stop[i];
        size_t      n = stop.n ? stop.n - 1 : 0;
        if (n > t->n - s->told) n = t->n - s->told;
        for (; n > most; n--)
            if (memcmp(t->p + t->n - n, stop.p, n) == 0) most = n;
    }
    return most;
}

/* The tokens whose text ends within the first `go` bytes, as numbers. */
static bool text__tell_ids(text_sink *s, size_t go) {
    bool ok = true;
    for (; ok && s->n_told < s->q->n_gen && s->q->tok[s->n_told].end <= go; s->n_told++) {
        char num[16];
        int  len = snprintf(num, sizeof num, s->any ? " %d" : "%d", s->q->tok[s->n_told].id);
        ok = text__write(s, num, (size_t)len);
    }
    return ok;
}

/* What is certain by now leaves, as text or as the tokens that made it. False: nobody can be written to. */
static bool text__tell(text_sink *s) {
    const str   *t = &s->q->text;
    const size_t go = s->q->finish ? t->n : t->n - text__may_stop(s), from = s->told;
    s->told = go > from ? go : from;
    if (s->o->json) return !s->out->why;              /* it comes whole, in the end */
    return s->o->ids ? text__tell_ids(s, go) : go <= from || text__write(s, t->p + from, go - from);
}

/* What is still held, and the end of the line. */
static void text__finish(text_sink *s) {
    if (!s->q->finish) tok_stream_flush(&s->q->stream, &s->q->text);
    s->q->finish = s->q->finish ? s->q->finish : "";
    text__tell(s);
    if (s->o->json) return;
    if (s->o->ids || (isatty(fileno(s->out->f)) && s->any && s->last != '\n')) text__write(s, "\n", 1);
}

/* Counts the prompt's tokens until all are read. */
static void text__progress(const engine *eng, gen_meter *m, const sched_seq *q) {
    const int all = q->n_prompt - q->n_cached, left = q->n_prompt - q->done;
    if (left <= 0 || q->n_gen || q->finish || q->err.code) {
        gen_meter_stop(m);
        return;
    }
    m->all = all;
    m->done = all - left;
    m->step = left < eng->chunk ? left : eng->chunk;
}

typedef struct {                                      /* what the summary tells */
    int    n_prompt;                                  /* tokens of the prompt that were read */
    double prompt_s, first_s, gen_s;                  /* prefill; program start to first token; the others after it */
} text_stats;

/* Why the text ended. */
static void text__why(const sched_seq *q, const tok_vocab *v, str *s) {
    if (q->end >= 0) {
        str_fmt(s, "end token %d ", q->end);
        str_json(s, tok_text(v, q->end));
    } else if (!*q->finish) str_put(s, g_interrupt ? "interrupted" : "nobody reads it any more");
    else if (q->finish[0] == 's') str_put(s, "a stop text");
    else if (q->n_gen == q->n_most) str_fmt(s, "%d tokens, as many as -n allows", q->n_gen);
    else str_put(s, "the context is full");
}

/* An answer of no bytes is said to be one, or a person would look for it. */
static void text__say_empty(const engine *eng, const sched_seq *q) {
    err_t none = {0};
    bytes chat;
    str   why = {0};
    if (q->text.n || !q->n_most || !*q->finish) return;
    text__why(q, eng->v, &why);
    log_warn("the answer is empty: %s came first%s", why.p,
             gguf_get_str(eng->g, "tokenizer.chat_template", &chat, &none) == 1
                 ? "; the model has a chat template, and the prompt was raw, without it" : "");
    str_drop(&why);
}

/* "llmrun: NAME  N tokens in S s (R tokens/s)"; without a time where nothing was timed. */
static void text__tokens(str *s, const char *name, int n, int timed, double seconds) {
    str_fmt(s, "llmrun: %-11s %d token%s", name, n, n == 1 ? "" : "s");
    if (timed > 0 && seconds > 0) str_fmt(s, " in %.3f s (%.2f tokens/s)", seconds, timed / seconds);
    str_put(s, "\n");
}

static void text__summary(const engine *eng, const spec *guesser, const sched_seq *q, const text_stats *st, uint64_t seed) {
    struct rusage ru;
    str           s = {0};
    if (g_log_level < LOG_NORMAL) return;
    getrusage(RUSAGE_SELF, &ru);
    str_fmt(&s, "llmrun: load        %.3f s, %s kernels, %d thread%s\n", eng->t_open, k_level_name(), eng->p->n,
            eng->p->n > 1 ? "s" : "");
    if (st->n_prompt) text__tokens(&s, "prompt", st->n_prompt, st->n_prompt, st->prompt_s);
    if (q->n_cached) str_fmt(&s, "llmrun: prompt      %d tokens before them came from %s\n", q->n_cached, eng->kv->opts.cache);
    if (q->n_gen) str_fmt(&s, "llmrun: first token after %.3f s\n", st->first_s);
    text__tokens(&s, "generated", q->n_gen, q->n_gen - 1, st->gen_s);
    spec_report(guesser, &s);
    str_fmt(&s, "llmrun: memory      %.1f MiB of KV cache, %.1f MiB at the peak, the mapped model among it\n",
            (double)kv_bytes_peak(eng->kv) / 1048576, (double)ru.ru_maxrss / 1024);
    if (g_log_level >= LOG_VERBOSE) {
        engine_say_layout(eng, &s);
        str_put(&s, "llmrun: ended by    ");
        text__why(q, eng->v, &s);
        str_put(&s, "\n");
    }
    str_fmt(&s, "llmrun: seed        %llu\n", (unsigned long long)seed);
    fputs(s.p, stderr);
    str_drop(&s);
}

/* ,"NAME_s":S,"NAME_tokens_per_s":R for n tokens, null where nothing was timed. */
static void text__json_rate(str *s, const char *name, int n, double seconds) {
    if (n > 0 && seconds > 0) str_fmt(s, ",\"%s_s\":%.6g,\"%s_tokens_per_s\":%.6g", name, seconds, name, n / seconds);
    else str_fmt(s, ",\"%s_s\":null,\"%s_tokens_per_s\":null", name, name);
}

/* The answer as one JSON object on a line. */
static void text__json(const engine *eng, const text_sink *sink, const text_stats *st, uint64_t seed) {
    const sched_seq *q = sink->q;
    str              s = {0};
    str_put(&s, "{\"model\":");
    str_json(&s, bytes_of(sink->o->json));
    str_put(&s, ",");
    str_json_text(&s, str_bytes(&q->text));
    str_put(&s, ",\"finish_reason\":");
    if (*q->finish) str_json(&s, bytes_of(q->finish));
    else str_put(&s, "null");
    str_put(&s, ",\"tokens\":[");
    for (int i = 0; i < q->n_gen && q->tok[i].end <= q->text.n; i++) str_fmt(&s, i ? ",%d" : "%d", q->tok[i].id);
    str_fmt(&s, "],\"prompt_tokens\":%d,\"cached_tokens\":%d,\"completion_tokens\":%d,\"seed\":%llu,\"times\":{\"load_s\":%.6g", q->n_prompt,
            q->n_cached, q->n_gen, (unsigned long long)seed, eng->t_open);
    if (q->n_gen) str_fmt(&s, ",\"first_token_s\":%.6g", st->first_s);
    else str_put(&s, ",\"first_token_s\":null");
    text__json_rate(&s, "prompt", st->n_prompt, st->prompt_s);
    text__json_rate(&s, "generation", q->n_gen - 1, st->gen_s);
    str_put(&s, "}}\n");
    out_put(sink->out, s.p, s.n);
    str_drop(&s);
}

/* Steps until the text ends, nobody listens, or an interrupt comes. */
static void text__loop(sched *sc, text_sink *s, text_stats *st, err_t *e) {
    const sched_seq *q = s->q;
    const size_t     n_prompt = q->ids.n;
    const double     t0 = clock_now();
    double           t_first = 0;
    gen_meter        meter;
    gen_meter_start(&meter, sc->eng, "reading the prompt", (int64_t)n_prompt, n_prompt < TEXT_LONG ? GEN_QUIET_S : 0);
    text__progress(sc->eng, &meter, q);
    while (!g_interrupt && !q->finish && !q->err.code && sched_step(sc, q->n_gen ? s->o->n_predict : 0, e)) {
        text__progress(sc->eng, &meter, q);
        if (!t_first && (q->n_gen || q->finish)) t_first = clock_now(), st->prompt_s = t_first - t0;
        if (!text__tell(s)) break;
    }
    gen_meter_stop(&meter);
    const double now = clock_now();
    st->n_prompt = (q->n_gen || q->finish ? (int)n_prompt : q->done) - q->n_cached;
    if (!t_first) st->prompt_s = now - t0;
    if (q->n_gen) st->first_s = t_first - sc->eng->t_start, st->gen_s = now - t_first;
}

static void text__say_chain(const samp *sm) {
    str s = {0};
    samp_describe(sm, &s);
    log_info("sampling    %s", s.p);
    str_drop(&s);
}

/* Begins out and streams the continuation of `prompt`, which gen_fits(), to it; guesser: NULL, or one for a single sequence. False: what went wrong is
 * in e. */
static bool text_run(engine *eng, spec *guesser, const tok_ids *prompt, const gen_opts *o, const samp_opts *so, uint64_t seed, out_t *out,
                     err_t *e) {
    const sched_opts alone = {1, false, false};
    const int        n = (int)prompt->n, keep = o->n_keep < 0 || o->n_keep > n ? n : (int)o->n_keep;
    const bool       begins = prompt->id[0] == tok_bos(eng->v);
    sched           *sc = sched_new(eng, guesser, &alone, e);
    samp            *sm = sc ? samp_new(so, eng->m.hp.n_vocab, seed, 0, e) : NULL;
    text_sink        s = {.out = out, .o = o};
    text_stats       st = {0};
    if (!sm || !out_begin(out, e)) {
        samp_free(sm);
        sched_free(sc);
        return false;
    }
    bytes *stop = mem_new((size_t)o->n_stop, sizeof *stop);
    for (int i = 0; i < o->n_stop; i++) stop[i] = bytes_of(o->stop[i]);
    sched_seq *q = s.q = sched_seq_new(eng, prompt, sm, false, 0);
    q->n_most = o->n_predict < 0 ? -1 : o->n_predict;
    q->ignore_eos = o->ignore_eos;
    q->stop = stop;
    q->n_stop = o->n_stop;
    q->stream.special = o->special_out;
    if (o->context_shift) q->shift = keep == 0 && begins ? 1 : keep;   /* a text without its start token is another text */
    sched_add(sc, q);
    text__say_chain(sm);
    text__loop(sc, &s, &st, e);
    if (!e->code) *e = q->err;
    if (q->finish && q->finish[0] == 'l' && q->n_gen != q->n_most)
        log_warn("the context is full at %zu tokens (-c, --kv-mem and --kv-blocks bound it%s)", q->ids.n - 1,
                 o->context_shift ? "" : "; --context-shift goes on without the oldest");
    text__finish(&s);
    if (!e->code && o->json) text__json(eng, &s, &st, seed);
    if (!e->code && !out->why) text__say_empty(eng, q);
    if (!e->code && !out->why) text__summary(eng, guesser, q, &st, seed);
    sched_seq_free(q);
    sched_free(sc);
    mem_free(stop);
    return !e->code;
}

/* ===== [batch] a file of requests, one a line =====
 * Reads lines ahead, plans them, feeds the schedule, writes each answer as it ends. What is read ahead is bounded by lines
 * and by tokens, whatever the file's length; of a file that fits it is the whole file.
 *   The plan: requests whose prompts begin alike run one after the other, in the order of a walk through the tree of their
 * tokens, so that every shared beginning is read once and its blocks are kept only while somebody ahead needs them. Groups
 * keep the order of the file, and a lower priority number comes first.
 *   A bad line is one record with an error. A line is answered once: whole, or not at all.
 * Door: batch_defaults, batch_run. */

typedef struct {
    const char *order;                                /* plan, input */
    int         n_parallel;                           /* sequences in flight */
    bool        fixed;                                /* static batches, for comparison */
    bool        ordered;                              /* results in the order of the input */
    int         window;                               /* lines read ahead */
    uint64_t    line_bytes;                           /* longest line */
    float       cost;                                 /* of an hour, 0: not told */
    const char *shard;                                /* I/N, NULL: all of the file */
} batch_opts;

static const batch_opts batch_defaults = {.order = "plan", .n_parallel = 32, .window = 1024, .line_bytes = 16 << 20};

enum {
    BATCH_TOKENS = 16 << 20,                          /* tokens of prompts read ahead */
};
#define BATCH_SHOW_S 0.25                             /* between two looks at the progress on a terminal */
#define BATCH_TELL_S 10.0                             /* and elsewhere */

/* What a run takes from the command. */
typedef struct {
    const char *const *path;                          /* [n_paths] "-": standard input */
    int              n_paths;
    const char      *model_name;
    const gen_opts  *gen;
    const samp_opts *samp;
    uint64_t         seed;
    bool             own_seeds;                       /* a line without a seed has one of its own */
    bool             special, bos;                    /* control tokens in prompts; a start token whatever the file says */
    bool             json;                            /* the summary's form */
} batch_job;

typedef struct {                                      /* the files of a run, one after the other */
    const char *const *path;                          /* [n] */
    int                n, i;                          /* path[i] is being read */
    uint64_t           line_bytes;
    lines_in          *in;                            /* NULL: the next file has not been opened */
    bool               known, json;                   /* the first line of this file has been seen; its lines are JSON */
    uint64_t           size, done;                    /* bytes of all, 0 where one is no regular file; of those behind us */
} batch_input;

typedef struct batch_line {
    req         q;
    uint64_t    no, hash;                             /* its line, from 1; of that line's bytes */
    int         file;
    uint64_t    turn, first;                          /* its line among those of all files, from 1; the earliest of its group */
    tok_ids    *ids;                                  /* [q.n_prompt] the tokens of its prompts; the first one has its place in the plan */
    size_t      n_ids;                                /* of all of them */
    int         place, keep;                          /* in the walk; positions that the ones behind it share */
    int         n_added, n_ended;
    sched_seq **seq;                                  /* [n_added] */
    struct batch_line *next;                          /* of those begun */
} batch_line;

typedef struct {
    engine          *eng;
    const batch_opts *o;
    const batch_job *job;
    batch_input      in;
    results         *out;
    sched           *sc;
    lines_shard      shard;
    bytes           *stop;                            /* [gen->n_stop] of lines that say nothing */
    batch_line     **line;                            /* [first, n) read and not yet begun */
    size_t           first, n, cap;
    size_t           tokens;                          /* of their prompts */
    batch_line      *open;                            /* some of its completions wait to be added */
    batch_line      *begun;                           /* in the schedule */
    bool             over, settled;                   /* the last file has ended; the results hold answers to its lines alone */
    str              rec;
    str             *held;                            /* [window] finished records that wait for an earlier line's; NULL: none wait */
    bool            *ready;                           /* [window] the line has ended; its record may be empty */
    uint64_t         written;                         /* lines whose records are out, where they wait for each other */
    long long        n_read, n_ok, n_bad, n_before, n_other;   /* lines read; answered, errors, answered before, other shards' */
    long long        n_prompt, n_gen, n_wanted;       /* tokens; the most that the lines read so far may take */
    double           t0, t_told;
    long long        told_prefill, told_written;
} batch_work;

static void batch__line_free(batch_line *l) {
    for (int i = 0; i < l->n_added; i++) sched_seq_free(l->seq[i]);
    mem_free(l->seq);
    for (int i = 0; l->ids && i < l->q.n_prompt; i++) tok_ids_drop(&l->ids[i]);
    mem_free(l->ids);
    req_drop(&l->q);
    mem_free(l);
}

/* --- lines in --- */

static bool batch__is_file(const char *path) {
    struct stat st;
    return strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Every file that can be opened twice is opened once now, so that a missing one is seen before the first line is answered. */
static bool batch__input_init(batch_input *in, const batch_job *job, uint64_t line_bytes, err_t *e) {
    bool sized = true;
    *in = (batch_input){.path = job->path, .n = job->n_paths, .line_bytes = line_bytes};
    for (int i = 0; i < in->n; i++) {
        struct stat st;
        if (strcmp(in->path[i], "-") != 0 && stat(in->path[i], &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) sized = false;
        else if (strcmp(in->path[i], "-") == 0) sized = false;
        else {
            lines_in *one = lines_open(in->path[i], line_bytes, e);
            if (!one) return false;
            in->size += one->size;
            lines_close(one);
        }
    }
    if (!sized) in->size = 0;
    return true;
}

/* A line that opens a JSON array of objects, or of anything on the lines behind it. A prompt may begin with a bracket. */
static bool batch__opens_array(bytes line, size_t i) {
    if (line.p[i] != '[') return false;
    for (i++; i < line.n && isspace(line.p[i]);) i++;
    return i == line.n || line.p[i] == '{';
}

/* The first line that is not blank says what a file is; false: none with lines of requests. */
static bool batch__kind(batch_input *in, bytes line, uint64_t no, err_t *e) {
    const char *kind = no == 1 ? bytes_kind(line) : NULL;
    size_t      i = 0;
    while (i < line.n && isspace(line.p[i])) i++;
    in->json = line.p[i] == '{';
    in->known = true;
    if (kind) return err_set(e, EXIT_INPUT, "%s: is %s, expected a text file with a request on each line", in->in->name, kind);
    return !batch__opens_array(line, i) ||
           err_set(e, EXIT_INPUT, "%s: is a JSON array, expected JSON Lines: each object on a line of its own (jq -c '.[]' makes them)",
                   in->in->name);
}

static bool batch__blank(bytes line) {
    for (size_t i = 0; i < line.n; i++)
        if (!strchr(" \t\r\v\f", line.p[i]) || !line.p[i]) return false;
    return true;
}

/* The next line that is not blank, of whichever file. */
static lines_got batch__next(batch_input *in, bool wait, bytes *line, uint64_t *no, err_t *e) {
    for (; in->i < in->n; in->i++) {
        lines_got got = LINES_LINE;
        if (!in->in && !(in->in = lines_open(in->path[in->i], in->line_bytes, e))) return LINES_FAILED;
        while (got == LINES_LINE) {
            got = lines_next(in->in, wait, line, no, e);
            if (got == LINES_LINE && batch__blank(*line)) continue;
            if (got == LINES_LINE && !in->known && !batch__kind(in, *line, *no, e)) return LINES_FAILED;
            if (got != LINES_END) return got;
        }
        in->done += in->in->size;
        lines_close(in->in);
        in->in = NULL;
        in->known = false;
    }
    return LINES_END;
}

/* What tells the lines of one file from those of another; 0 where there is one file. */
static uint64_t batch__file_key(const batch_input *in, int file) { return in->n > 1 ? results_file(in->path[file]) : 0; }

static req_origin batch__origin(const batch_work *b, const batch_line *l) {
    return (req_origin){.line = l->no, .hash = l->hash, .file = b->in.n > 1 ? b->in.path[l->file] : NULL, .model_name = b->job->model_name,
                        .fingerprint = b->out->fingerprint.p, .created = (int64_t)time(NULL)};
}

/* Records go out as far as no earlier line is missing; all: in spite of that. */
static bool batch__release(batch_work *b, bool all, err_t *e) {
    const uint64_t window = (uint64_t)b->o->window, read = (uint64_t)b->n_read;
    bool           ok = true;
    for (; ok && b->written < read && (all || b->ready[b->written % window]); b->written++) {
        str *held = &b->held[b->written % window];
        if (held->n) ok = results_put(b->out, str_bytes(held), e);
        str_drop(held);
        b->ready[b->written % window] = false;
    }
    return ok;
}

/* A line has ended; its record, if there is one, is in b->rec. */
static bool batch__put(batch_work *b, uint64_t turn, err_t *e) {
    if (b->held) {
        const size_t at = (size_t)((turn - 1) % (uint64_t)b->o->window);
        b->held[at] = b->rec;
        b->ready[at] = true;
        b->rec = (str){0};
        return batch__release(b, false, e);
    }
    const bool ok = !b->rec.n || results_put(b->out, str_bytes(&b->rec), e);
    str_clear(&b->rec);
    return ok;
}

/* Whether another line may be read: those that have not been written yet have a place each. */
static bool batch__has_place(const batch_work *b) {
    if (b->held && (uint64_t)b->n_read - b->written >= (uint64_t)b->o->window) return false;
    return b->n - b->first < (size_t)b->o->window && b->tokens < BATCH_TOKENS;
}

static bool batch__fail(batch_work *b, const batch_line *l, const char *code, const char *why, err_t *e) {
    const req_origin o = batch__origin(b, l);
    b->n_bad++;
    req_print_error(l->q.custom_id, l->q.has_id, &o, code, why, &b->rec);
    return batch__put(b, l->turn, e);
}

/* A prompt's tokens, as the command has them for -p. */
static bool batch__encode(const batch_work *b, req_prompt *p, tok_ids *ids, err_t *e) {
    const tok_vocab *v = b->eng->v;
    const bool       begin = tok_bos(v) >= 0 && (tok_add_bos(v) || !p->text.n);
    if (!p->ids.n)
        return tok_encode(v, p->text, (b->job->special ? TOK_SPECIAL : 0) | (begin || b->job->bos ? TOK_BOS : 0), ids, e);
    *ids = p->ids;
    p->ids = (tok_ids){0};
    return true;
}

/* The same of prompt number i of a line; NULL, or what batch__refuse() returns. */
static const char *batch__refuse_prompt(const batch_work *b, batch_line *l, int i, err_t *why) {
    err_t       one = {0};
    const bool  known = batch__encode(b, &l->q.prompt[i], &l->ids[i], &one), fits = known && gen_fits(b->eng, &l->ids[i], &one);
    const char *what = known && l->ids[i].n ? "context_length_exceeded" : req_invalid;
    l->n_ids += l->ids[i].n;
    if (fits) return NULL;
    if (l->q.n_prompt == 1) *why = one;
    else err_set(why, one.code, "prompt %d of %d: %.500s", i + 1, l->q.n_prompt, one.text);
    return what;
}

/* Why a request that was read cannot run, as the error of a record names it, with words in why; NULL: it can. */
static const char *batch__refuse(const batch_work *b, batch_line *l, err_t *why) {
    l->ids = mem_new((size_t)l->q.n_prompt, sizeof *l->ids);
    for (int i = 0; i < l->q.n_prompt; i++) {
        const char *what = batch__refuse_prompt(b, l, i, why);
        if (what) return what;
    }
    return samp_check(&l->q.samp, b->eng->m.hp.n_vocab, why) ? NULL : req_invalid;
}

static void batch__wait(batch_work *b, batch_line *l) {
    const int64_t most = l->q.max_tokens >= 0 ? l->q.max_tokens : b->job->gen->n_predict;
    l->keep = INT_MAX;
    b->n_wanted += (most >= 0 && most < b->eng->n_ctx ? most : b->eng->n_ctx) * l->q.n + (long long)l->n_ids;
    b->n_prompt += (long long)l->n_ids * l->q.each;
    b->tokens += l->n_ids;
    if (b->n == b->cap) b->line = mem_grow(b->line, b->cap = 2 * b->cap + 64, sizeof *b->line);
    b->line[b->n++] = l;
}

/* What decides about a line's shard: its first prompt, or all of it where it has none. */
static bytes batch__shard_key(const req *q, bytes line, bool bad) {
    if (bad) return line;
    const tok_ids *ids = &q->prompt[0].ids;
    return ids->n ? (bytes){(const uint8_t *)ids->id, ids->n * sizeof *ids->id} : q->prompt[0].text;
}

/* Whether a line is answered by the results that are resumed. */
static bool batch__has(batch_work *b, const batch_line *l, bool twice) {
    return results_has(b->out, batch__file_key(&b->in, l->file), l->no, l->hash, l->q.has_id && !twice);
}

/* A line becomes one that waits, or a record that says why not. False: nothing more can be written. */
static bool batch__take(batch_work *b, bytes line, uint64_t no, err_t *e) {
    batch_line *l = mem_new(1, sizeof *l);
    const char *code = NULL;
    err_t       why = {0};
    bool        ok = true;
    *l = (batch_line){.no = no, .file = b->in.i, .turn = (uint64_t)b->n_read, .hash = bytes_hash(0, line)};
    if (!req_read(&l->q, line, b->in.json, b->job->samp, b->eng->m.hp.n_vocab, &why)) code = l->q.fault ? l->q.fault : req_invalid;
    const bool twice = l->q.has_id && !results_new_id(b->out, batch__file_key(&b->in, l->file), l->q.custom_id);
    if (twice) code = "duplicate_custom_id", why.code = 0, err_set(&why, EXIT_INPUT, "an earlier line has the same custom_id");
    const bool mine = !b->o->shard || lines_shard_is_mine(&b->shard, batch__shard_key(&l->q, line, code != NULL));
    const bool before = batch__has(b, l, twice);
    b->n_other += !mine;
    b->n_before += mine && before;
    if (mine && !before) {
        if (!code) code = batch__refuse(b, l, &why);
        if (!code) return batch__wait(b, l), true;
        ok = batch__fail(b, l, code, why.text, e);
    } else ok = batch__put(b, l->turn, e);
    batch__line_free(l);
    return ok;
}

/* The same of a line that is too long to be read. */
static bool batch__take_long(batch_work *b, uint64_t no, err_t *e) {
    const batch_line l = {.no = no, .file = b->in.i, .turn = (uint64_t)b->n_read};
    const bytes      key = {(const uint8_t *)&no, sizeof no};
    const bool       mine = !b->o->shard || lines_shard_is_mine(&b->shard, key), before = batch__has(b, &l, false);
    char             why[128];
    snprintf(why, sizeof why, "a line of more than %llu bytes (--batch-line)", (unsigned long long)b->o->line_bytes);
    b->n_other += !mine;
    b->n_before += mine && before;
    return mine && !before ? batch__fail(b, &l, "line_too_long", why, e) : batch__put(b, l.turn, e);
}

/* Reads ahead until the window is full. wait: there is nothing else to do. False: an error in e, or nobody to write to. */
static bool batch__refill(batch_work *b, bool wait, err_t *e) {
    const size_t had = b->n;
    while (!b->over && !g_interrupt && batch__has_place(b)) {
        bytes           line;
        uint64_t        no;
        const lines_got got = batch__next(&b->in, wait && b->n == had, &line, &no, e);
        if (got == LINES_FAILED) return false;
        if (got == LINES_LATER) break;
        if (got == LINES_END) {
            b->over = true;
            break;
        }
        b->n_read++;
        if (got == LINES_LONG ? !batch__take_long(b, no, e) : !batch__take(b, line, no, e)) return false;
    }
    return true;
}

/* --- the results that a run goes on with --- */

/* A line is asked for as batch__take() does it, without reading more of it than its custom_id. */
static void batch__claim(batch_work *b, const batch_input *in, bytes line, uint64_t no, bool too_long) {
    const uint64_t file = batch__file_key(in, in->i);
    req            q = {0};
    if (in->json && !too_long) req_read_id(&q, line);
    const bool first = q.has_id && results_new_id(b->out, file, q.custom_id);
    results_has(b->out, file, no, too_long ? 0 : bytes_hash(0, line), first);
    req_drop(&q);
}

/* Files that can be read twice are read to their ends before the first line is answered: what answers none of their lines is
 * moved aside now, with a word. Else that is done behind the last line. */
static bool batch__settle(batch_work *b, err_t *e) {
    batch_input again = b->in;
    bytes       line;
    uint64_t    no;
    lines_got   got;
    if (!b->out->n_old) return true;
    for (int i = 0; i < again.n; i++)
        if (!batch__is_file(again.path[i])) return true;
    while ((got = batch__next(&again, true, &line, &no, e)) == LINES_LINE || got == LINES_LONG) {
        if (g_interrupt) break;
        batch__claim(b, &again, line, no, got == LINES_LONG);
    }
    lines_close(again.in);
    results_forget_ids(b->out);
    b->settled = got == LINES_END && results_settle(b->out, e);
    return b->settled;
}

/* --- the plan --- */

static int batch__alike(const tok_ids *x, const tok_ids *y) {
    size_t n = 0;
    while (n < x->n && n < y->n && x->id[n] == y->id[n]) n++;
    return (int)n;
}

static int batch__by_tokens(const void *pa, const void *pb) {
    const batch_line *x = *(batch_line *const *)pa, *y = *(batch_line *const *)pb;
    const tok_ids    *xi = &x->ids[0], *yi = &y->ids[0];
    const size_t      n = (size_t)batch__alike(xi, yi);
    if (x->q.priority != y->q.priority) return x->q.priority < y->q.priority ? -1 : 1;
    if (n < xi->n && n < yi->n) return xi->id[n] < yi->id[n] ? -1 : 1;
    if (xi->n != yi->n) return xi->n < yi->n ? -1 : 1;
    return x->turn < y->turn ? -1 : x->turn > y->turn;
}

static int batch__by_turn(const void *pa, const void *pb) {
    const batch_line *x = *(batch_line *const *)pa, *y = *(batch_line *const *)pb;
    if (x->q.priority != y->q.priority) return x->q.priority < y->q.priority ? -1 : 1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x->place - y->place;
}

/* Orders what waits. Prompts that share a block make a group. */
static void batch__plan(batch_work *b) {
    const size_t n = b->n - b->first;
    const int    block = b->eng->kv->opts.block;
    batch_line **l = b->line;
    if (n) memmove(l, l + b->first, n * sizeof *l);
    b->first = 0;
    b->n = n;
    if (!n || strcmp(b->o->order, "plan") != 0) return;
    const bool all = b->eng->kept != NULL;            /* a file keeps the prompts for the next run */
    qsort(l, n, sizeof *l, batch__by_tokens);
    for (size_t i = 0, end; i < n; i = end) {
        uint64_t first = l[i]->turn;
        l[i]->keep = all ? INT_MAX : 0;
        for (end = i + 1; end < n && l[end]->q.priority == l[i]->q.priority; end++) {
            const int same = batch__alike(&l[end - 1]->ids[0], &l[end]->ids[0]);
            if (same < block) break;
            const int keep = (same + block - 1) / block * block;
            if (keep > l[end - 1]->keep) l[end - 1]->keep = keep;
            l[end]->keep = all ? INT_MAX : b->over ? 0 : keep;        /* others may follow that have not been read yet */
            if (l[end]->turn < first) first = l[end]->turn;
        }
        for (size_t k = i; k < end; k++) l[k]->first = first, l[k]->place = (int)k;
    }
    qsort(l, n, sizeof *l, batch__by_turn);
}

/* --- answers out --- */

/* Of a line's first completion. */
static uint64_t batch__seed(const batch_work *b, const batch_line *l) {
    if (l->q.has_seed) return l->q.seed;
    return b->job->own_seeds ? rng_mix(b->job->seed ^ l->no ^ batch__file_key(&b->in, l->file)) : b->job->seed;
}

/* The next completion of a line; the first one of each prompt reads it for the others. */
static bool batch__add(batch_work *b, batch_line *l, err_t *e) {
    const int       i = l->n_added, nth = i % l->q.each;
    const gen_opts *g = b->job->gen;
    samp_opts       so = l->q.samp;
    const uint64_t  seed = batch__seed(b, l);
    if (!l->seq) {
        l->seq = mem_new((size_t)l->q.n, sizeof *l->seq);
        l->next = b->begun;
        b->begun = l;
    }
    samp *sm = samp_new(&so, b->eng->m.hp.n_vocab, seed + (uint64_t)i, 0, e);
    if (!sm) return false;
    sched_seq *s = l->seq[i] = sched_seq_new(b->eng, &l->ids[i / l->q.each], sm, l->q.logprobs, l->q.top);
    s->n_most = l->q.max_tokens >= 0 ? l->q.max_tokens : g->n_predict;
    s->ignore_eos = l->q.has_ignore_eos ? l->q.ignore_eos : g->ignore_eos;
    s->stop = l->q.stop ? l->q.stop : b->stop;
    s->n_stop = l->q.stop ? l->q.n_stop : g->n_stop;
    s->stream.special = g->special_out;
    s->keep = nth + 1 < l->q.each || l->q.n_prompt > 1 ? INT_MAX : l->keep;
    s->twin = nth ? l->seq[i - nth] : NULL;
    s->owner = l;
    l->n_added++;
    sched_add(b->sc, s);
    return true;
}

/* Tokens whose text a stop string has not cut off. */
static int batch__told(const sched_seq *s) {
    int n = s->n_gen;
    while (n > 1 && s->tok[n - 2].end >= s->text.n && s->finish[0] == 's') n--;
    return n;
}

/* All completions of a line have ended. */
static bool batch__answer(batch_work *b, batch_line *l, err_t *e) {
    req_answer *a = mem_new((size_t)l->q.n, sizeof *a);
    req_origin  o = batch__origin(b, l);
    const err_t *why = NULL;
    o.n_prompt = (int)l->n_ids;
    for (int i = 0; i < l->q.n; i++) {
        const sched_seq *s = l->seq ? l->seq[i] : NULL;
        a[i] = (req_answer){.text = {(const uint8_t *)"", 0}, .finish = "length"};
        if (!s) continue;
        if (s->err.code && !why) why = &s->err;
        if (s->err.code) continue;
        if (i % l->q.each == 0) o.n_cached += s->n_cached;
        a[i] = (req_answer){.text = str_bytes(&s->text), .finish = s->finish, .tok = s->tok, .top_id = s->top_id, .top_lp = s->top_lp,
                            .n_tok = s->scored ? batch__told(s) : 0, .n_generated = s->n_gen};
        b->n_gen += s->n_gen;
    }
    bool ok;
    if (why) ok = batch__fail(b, l, why->code == EXIT_RESOURCE ? "out_of_room" : req_invalid, why->text, e);
    else {
        b->n_ok++;
        req_print(&l->q, a, &o, b->eng->v, &b->rec);
        ok = batch__put(b, l->turn, e);
    }
    mem_free(a);
    for (batch_line **at = &b->begun; *at; at = &(*at)->next)
        if (*at == l) {
            *at = l->next;
            break;
        }
    batch__line_free(l);
    return ok;
}

/* Lines go to the schedule as long as it takes them. */
static bool batch__feed(batch_work *b, err_t *e) {
    while (sched_hungry(b->sc)) {
        if (!b->open) {
            if (b->first == b->n) return true;
            b->open = b->line[b->first++];
            b->tokens -= b->open->n_ids;
        }
        batch_line *l = b->open;
        const bool  none = (l->q.max_tokens >= 0 ? l->q.max_tokens : b->job->gen->n_predict) == 0;
        if (none || l->n_added == l->q.n) b->open = NULL;
        if (none ? !batch__answer(b, l, e) : l->n_added < l->q.n && !batch__add(b, l, e)) return false;
    }
    return true;
}

static bool batch__collect(batch_work *b, err_t *e) {
    for (sched_seq *s; (s = sched_ended(b->sc));) {
        batch_line *l = s->owner;
        if (++l->n_ended < l->q.n) continue;
        if (b->open == l) b->open = NULL;
        if (!batch__answer(b, l, e)) return false;
    }
    return true;
}

/* --- what a person sees --- */

/* Seconds until the end, by the lines done so far; -1: nobody can say. */
static double batch__left(const batch_work *b, double now) {
    const double done = (double)(b->n_ok + b->n_bad), had = (double)(b->n_before + b->n_other);
    double       all = (double)b->n_read - had;
    const uint64_t at = b->in.done + (b->in.in ? b->in.in->at : 0);
    if (!b->over && (!b->in.size || !at)) return -1;
    if (!b->over) all *= (double)b->in.size / (double)at;
    return done > 0 ? (now - b->t0) * (all - done) / done : -1;
}

static void batch__progress(batch_work *b) {
    const double       now = clock_now(), gone = now - b->t_told;
    const bool         tty = progress_on();
    const sched_stats *st = &b->sc->st;
    if (g_log_level < LOG_NORMAL || gone < (tty ? BATCH_SHOW_S : BATCH_TELL_S)) return;
    const double left = batch__left(b, now), seen = (double)(st->prefill + st->cached);
    const size_t waiting = b->n - b->first + (size_t)b->sc->n_waiting;
    char eta[32] = "";
    if (left >= 0) snprintf(eta, sizeof eta, " | %.0f:%02d left", floor(left / 60), (int)fmod(left, 60));
    char line[256];
    snprintf(line, sizeof line, "%lld done, %d running, %zu waiting%s | %.0f tokens/s read, %.0f written | %.0f %% shared%s",
             b->n_ok + b->n_bad, b->sc->n_run, waiting, b->over ? "" : "+", (double)(st->prefill - b->told_prefill) / gone,
             (double)(st->written - b->told_written) / gone, seen > 0 ? 100 * (double)st->cached / seen : 0.0, eta);
    if (tty) progress_show("%s", line);
    else log_warn("%s", line);
    b->t_told = now;
    b->told_prefill = st->prefill;
    b->told_written = st->written;
}

typedef struct {                                      /* one figure of the summary */
    const char *name;
    double      v;
} batch_figure;

/* Seconds at three percentiles, as text or as JSON. */
static void batch__percentiles(str *s, bool json, const char *name, const char *words, const hist *h) {
    const double p50 = hist_at(h, 0.5), p95 = hist_at(h, 0.95), p99 = hist_at(h, 0.99);
    if (!h->all) {                                    /* nothing was timed */
        if (json) str_fmt(s, ", \"%s_s\": {\"p50\": null, \"p95\": null, \"p99\": null}", name);
        return;
    }
    if (json) str_fmt(s, ", \"%s_s\": {\"p50\": %.6g, \"p95\": %.6g, \"p99\": %.6g}", name, p50, p95, p99);
    else str_fmt(s, "llmrun: %-11s %.3f s, %.3f, %.3f (p50, p95, p99)\n", words, p50, p95, p99);
}

static void batch__summary(const batch_work *b) {
    const sched_stats *st = &b->sc->st;
    const spec        *sp = b->sc->guesser;
    const kv_cache    *kv = b->eng->kv;
    const double       all = clock_now() - b->t0, waste = st->slots > 0 ? st->waste / st->slots : 0;
    const long long    tokens = b->n_prompt + b->n_gen;
    const double       million = tokens ? (double)b->o->cost * all / 3600 * 1e6 / (double)tokens : 0;
    const bool         json = b->job->json;
    const batch_figure figures[] = {
        {"requests", (double)(b->n_ok + b->n_bad)}, {"answered", (double)b->n_ok}, {"errors", (double)b->n_bad},
        {"answered_before", (double)b->n_before}, {"other_shards", (double)b->n_other}, {"seconds", all},
        {"prompt_tokens", (double)b->n_prompt}, {"shared_tokens", (double)st->cached}, {"computed_prompt_tokens", (double)st->prefill},
        {"completion_tokens", (double)b->n_gen}, {"requests_per_s", (double)(b->n_ok + b->n_bad) / all},
        {"prompt_tokens_per_s", (double)b->n_prompt / all}, {"completion_tokens_per_s", (double)b->n_gen / all},
        {"steps", (double)st->steps}, {"steps_s", st->busy_s}, {"kv_blocks_peak", (double)kv->group[0].n_peak},
        {"kv_block_tokens", (double)kv->opts.block}, {"kv_bytes_peak", (double)kv_bytes_peak(kv)}, {"kv_unused", waste},
        {"preemptions", (double)st->preempted}, {"seed", (double)b->job->seed}, {"decode_steps", (double)st->decode},
        {"draft_guessed", (double)spec_guessed(sp, SPEC_DRAFT)}, {"draft_accepted", (double)spec_accepted(sp, SPEC_DRAFT)},
        {"lookup_guessed", (double)spec_guessed(sp, SPEC_LOOKUP)}, {"lookup_accepted", (double)spec_accepted(sp, SPEC_LOOKUP)},
        {"speculation_speedup", spec_speedup(sp)},
    };
    str s = {0};
    if (json) {
        for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
            if (isnan(figures[i].v)) str_fmt(&s, ", \"%s\": null", figures[i].name);
            else str_fmt(&s, "%s\"%s\": %.12g", i ? ", " : "{", figures[i].name, figures[i].v);
        if (million > 0) str_fmt(&s, ", \"cost_per_million_tokens\": %.6g", million);
    } else {
        str_fmt(&s, "llmrun: requests    %lld in %.2f s (%.2f/s): %lld answered, %lld error%s", b->n_ok + b->n_bad, all,
                (double)(b->n_ok + b->n_bad) / all, b->n_ok, b->n_bad, b->n_bad == 1 ? "" : "s");
        if (b->n_before) str_fmt(&s, ", %lld answered before", b->n_before);
        if (b->n_other) str_fmt(&s, ", %lld left to other shards", b->n_other);
        str_fmt(&s, "\nllmrun: prompts     %lld tokens (%.1f tokens/s), %lld of them shared and not computed again\n", b->n_prompt,
                (double)b->n_prompt / all, st->cached);
        str_fmt(&s, "llmrun: generated   %lld tokens (%.1f tokens/s) in %lld steps\n", b->n_gen, (double)b->n_gen / all, st->steps);
        spec_report(sp, &s);
    }
    batch__percentiles(&s, json, "ttft", "first token", &st->ttft);
    batch__percentiles(&s, json, "tpot", "per token", &st->tpot);
    batch__percentiles(&s, json, "itl", "next token", &st->itl);
    batch__percentiles(&s, json, "e2e", "request", &st->e2e);
    if (json) str_put(&s, "}\n");
    else {
        str_fmt(&s, "llmrun: cache       %d blocks of %d tokens at the peak (%.1f MiB), %.1f %% of it unused, %lld preemption%s\n",
                kv->group[0].n_peak, kv->opts.block, (double)kv_bytes_peak(kv) / 1048576, 100 * waste, st->preempted,
                st->preempted == 1 ? "" : "s");
        if (million > 0) str_fmt(&s, "llmrun: cost        %.4g for a million tokens read or written\n", million);
        str_fmt(&s, "llmrun: seed        %llu\n", (unsigned long long)b->job->seed);
    }
    if (g_log_level >= LOG_NORMAL) fputs(s.p, stderr);
    str_drop(&s);
}

/* --- the run --- */

static void batch__loop(batch_work *b, err_t *e) {
    while (!g_interrupt) {
        const bool idle = !b->sc->n_run && !b->sc->first && !b->open && b->first == b->n;
        const bool low = b->n - b->first <= (size_t)b->o->window / 2;
        if (idle && b->over) return;
        if (!b->over && low) {
            const size_t had = b->n - b->first;
            if (!batch__refill(b, idle, e)) return;
            if (b->n - b->first > had || b->over) batch__plan(b);
        }
        if (!batch__feed(b, e) || (!sched_step(b->sc, b->n_wanted, e) && e->code) || !batch__collect(b, e)) return;
        batch__progress(b);
    }
}

/* What is left to do with the results. A run that was interrupted puts out what has ended. */
static void batch__end(batch_work *b, err_t *e) {
    if (b->held) batch__release(b, true, e);
    if (!b->over || e->code || g_interrupt || b->out->why) return;
    if (!b->settled && !results_settle(b->out, e)) return;
    if (b->o->ordered && b->out->file) results_sort(b->out, b->in.path, b->in.n, e);
}

/* Answers the lines of the files of job in `out`; guesser: NULL, or one for as many sequences. Returns the number of records with an error, -1
 * with words in e, or without: nobody to write to, or an interrupt. */
static long long batch_run(engine *eng, spec *guesser, results *out, const batch_opts *o, const batch_job *job, err_t *e) {
    batch_work b = {.eng = eng, .o = o, .job = job, .out = out, .t0 = clock_now()};
    const int  half = eng->n_batch > 1 ? eng->n_batch / 2 : 1, n_seqs = o->n_parallel < half ? o->n_parallel : half;
    const sched_opts so = {n_seqs, o->fixed, LLMRUN_STRESS};
    b.t_told = b.t0;
    if ((o->shard && !lines_shard_parse(o->shard, &b.shard, e)) || !batch__input_init(&b.in, job, o->line_bytes, e) ||
        !(b.sc = sched_new(eng, guesser, &so, e))) goto done;
    b.stop = mem_new((size_t)job->gen->n_stop, sizeof *b.stop);
    for (int i = 0; i < job->gen->n_stop; i++) b.stop[i] = bytes_of(job->gen->stop[i]);
    if (o->ordered && !out->file) {
        b.held = mem_new((size_t)o->window, sizeof *b.held);
        b.ready = mem_new((size_t)o->window, sizeof *b.ready);
    }
    if (batch__settle(&b, e)) batch__loop(&b, e);
    batch__end(&b, e);
    progress_clear();
    if (!out->why) batch__summary(&b);
    if (g_interrupt && out->file)
        log_warn("%s: %lld lines are answered; --resume goes on with the others", out->name, b.n_before + b.n_ok + b.n_bad);
done:
    if (b.open && !b.open->seq) batch__line_free(b.open);
    for (batch_line *l = b.begun, *next; l; l = next) {
        next = l->next;
        batch__line_free(l);
    }
    for (size_t i = b.first; i < b.n; i++) batch__line_free(b.line[i]);
    sched_free(b.sc);
    lines_close(b.in.in);
    lines_shard_drop(&b.shard);
    for (int i = 0; b.held && i < o->window; i++) str_drop(&b.held[i]);
    mem_free(b.held);
    mem_free(b.ready);
    mem_free(b.line);
    mem_free(b.stop);
    str_drop(&b.rec);
    return e->code || g_interrupt || out->why ? -1 : b.n_bad;
}

/* ===== [calib] what a text shows of a model's inputs =====
 * Runs a text through a model in chunks and watches what each weight matrix is multiplied with. The importance matrix: the
 * sum of squares of every input channel, for each expert of a stack, and how many rows were summed. It is written and read
 * in llama.cpp's GGUF form; its older form (.dat) is read too. What a file of either form holds is checked wholly: counts
 * and sums are finite and not negative, sizes fit the file. What it says of each tensor can be shown.
 * Invariants: a channel is summed by one thread in row order, so the bits do not depend on the threads; entries stand in
 * order of their names, each once.
 * Door: calib_opts, calib_gather, calib_imatrix_*, calib_weights, calib_show. */

typedef struct {
    int  n_chunks;                                    /* chunks of the text to take, -1: all */
    bool output;                                      /* watch the output matrix too */
} calib_opts;

static const calib_opts calib_defaults = {.n_chunks = -1};

enum {
    CALIB_CHUNK = 512,                                /* tokens, unless asked otherwise */
    CALIB_CHANNELS = 256,                             /* input channels of one task */
};

typedef struct {
    char           name[GGUF_NAME_MAX + 1];
    uint64_t       n_in, n_mat;                       /* channels; experts, 1 for a plain matrix */
    double        *sum2;                              /* [n_mat, n_in] sum of squares, or a mean where count is 1 */
    double        *count;                             /* [n_mat] rows summed; 0: no data */
    const uint8_t *data;                              /* the watched tensor, NULL in what was read */
} calib_entry;

typedef struct {
    calib_entry *e;                                   /* [n] by name */
    size_t       n, cap;
    str         *dataset;                             /* [n_dataset] files whose text was summed */
    size_t       n_dataset;
    uint32_t     n_chunk, chunk;                      /* chunks summed; tokens in one, 0: not said */
} calib_imatrix;

static void calib_imatrix_drop(calib_imatrix *im) {
    for (size_t i = 0; i < im->n; i++) {
        mem_free(im->e[i].sum2);
        mem_free(im->e[i].count);
    }
    for (size_t i = 0; i < im->n_dataset; i++) str_drop(&im->dataset[i]);
    mem_free(im->e);
    mem_free(im->dataset);
    *im = (calib_imatrix){0};
}

/* A new entry at the end; sizes were checked by the caller. */
static calib_entry *calib__add(calib_imatrix *im, bytes name, uint64_t n_in, uint64_t n_mat) {
    if (im->n == im->cap) im->e = mem_grow(im->e, im->cap = 2 * im->cap + 64, sizeof *im->e);
    calib_entry *en = &im->e[im->n++];
    *en = (calib_entry){.n_in = n_in, .n_mat = n_mat};
    memcpy(en->name, name.p, name.n);
    en->sum2 = mem_new(n_in * n_mat, sizeof *en->sum2);
    en->count = mem_new(n_mat, sizeof *en->count);
    return en;
}

static void calib__add_dataset(calib_imatrix *im, bytes name) {
    im->dataset = mem_grow(im->dataset, im->n_dataset + 1, sizeof *im->dataset);
    im->dataset[im->n_dataset] = (str){0};
    str_add(&im->dataset[im->n_dataset++], name.p, name.n);
}

static int calib__by_name(const void *a, const void *b) {
    return strcmp(((const calib_entry *)a)->name, ((const calib_entry *)b)->name);
}

static int calib__by_data(const void *a, const void *b) {
    const uint8_t *x = ((const calib_entry *)a)->data, *y = ((const calib_entry *)b)->data;
    return (x > y) - (x < y);
}

static const calib_entry *calib_imatrix_find(const calib_imatrix *im, bytes name) {
    calib_entry key = {.n_in = 0};
    if (!im->n || name.n > GGUF_NAME_MAX) return NULL;
    memcpy(key.name, name.p, name.n);
    return bsearch(&key, im->e, im->n, sizeof key, calib__by_name);
}

/* --- gathering --- */

static calib_entry *calib__watched(calib_imatrix *im, const uint8_t *data) {
    const calib_entry key = {.data = data};
    return im->n ? bsearch(&key, im->e, im->n, sizeof key, calib__by_data) : NULL;
}

/* Adds the rows of one product to channels [c0, c0 + n). */
static void calib__sum(calib_entry *en, const dev_product *m, size_t c0, size_t n) {
    double *restrict sum = en->sum2 + (size_t)m->stack * en->n_in + c0;
    for (int t = 0; t < m->n; t++) {
        const size_t r = (size_t)(m->idx ? m->idx[m->first + t] : m->first + t);
        const float *restrict x = m->a->x + r * m->a->ldx + c0;
        for (size_t i = 0; i < n; i++) sum[i] += (double)x[i] * (double)x[i];
    }
    if (c0 == 0) en->count[m->stack] += m->n;
}

/* The watcher of an importance matrix; every thread runs it. A product whose matrix begins inside a tensor shares its input
 * with the one at its beginning. */
static void calib__watch(void *ctx, dev *dv, const dev_product *list, int n) {
    int task = pool_next(dv->p), base = 0;
    for (int i = 0; i < n; i++) {
        calib_entry *en = list[i].n > 0 ? calib__watched(ctx, list[i].w->data) : NULL;
        if (!en) continue;
        const int n_task = (int)((en->n_in + CALIB_CHANNELS - 1) / CALIB_CHANNELS);
        for (; task < base + n_task; task = pool_next(dv->p)) {
            const size_t c0 = (size_t)(task - base) * CALIB_CHANNELS;
            calib__sum(en, &list[i], c0, en->n_in - c0 < CALIB_CHANNELS ? en->n_in - c0 : CALIB_CHANNELS);
        }
        base += n_task;
    }
    pool_barrier(dv->p);
}

/* One entry for each matrix of the layers, and for the output where asked; a model without an output matrix of its own
 * multiplies with its embeddings, which are looked up and not watched. */
static void calib__entries(calib_imatrix *im, const gguf_file *g, bool output) {
    static const char blk[] = "blk.";
    for (uint64_t i = 0; i < g->n_tensor; i++) {
        const gguf_tensor *t = &g->tensor[i];
        bool layer = t->name.n > 4 && memcmp(t->name.p, blk, 4) == 0;
        if (t->n_dims < 2 || !k_type_weight(t->type) || !(layer || (output && bytes_is(t->name, "output.weight")))) continue;
        calib__add(im, t->name, t->dim[0], t->dim[2])->data = t->data;
    }
    if (im->n) qsort(im->e, im->n, sizeof *im->e, calib__by_data);
}

/* Entries that saw no row go; the others in order of their names. */
static void calib__settle(calib_imatrix *im) {
    size_t n = 0;
    for (size_t i = 0; i < im->n; i++) {
        calib_entry *en = &im->e[i];
        double       rows = 0;
        for (uint64_t k = 0; k < en->n_mat; k++) rows += en->count[k];
        en->data = NULL;
        if (rows > 0) {
            im->e[n++] = *en;
            continue;
        }
        mem_free(en->sum2);
        mem_free(en->count);
    }
    im->n = n;
    if (n) qsort(im->e, n, sizeof *im->e, calib__by_name);
}

static bool calib__finite(const calib_imatrix *im, const char *path, err_t *e) {
    for (size_t i = 0; i < im->n; i++)
        for (uint64_t k = 0; k < im->e[i].n_in * im->e[i].n_mat; k++)
            if (!isfinite((float)im->e[i].sum2[k]))
                return err_set(e, EXIT_INPUT,
                               "%s: the inputs of %s hold a NaN or an infinity at channel %llu: damaged weights, or a model out "
                               "of range", path, im->e[i].name, (unsigned long long)(k % im->e[i].n_in));
    return true;
}

/* One chunk of n tokens as a sequence of its own. With a start token (bos >= 0) that stands in place of the chunk's first
 * token, as llama.cpp has it. False: an error in e, or an interrupt. */
static bool calib__chunk(engine *eng, const int32_t *ids, int n, int32_t bos, gen_meter *meter, err_t *e) {
    kv_seq *seq = kv_seq_new(eng->kv);
    bool    ok = true;
    for (int at = 0, to; ok && at < n; at = to) {
        to = n - at > eng->n_batch ? at + eng->n_batch : n;
        ok = kv_require(seq, to, e);
        gen_meter_step(meter, to - at);
        for (int i = at; i < to; i++) eng->row[i - at] = (fwd_row){i == 0 && bos >= 0 ? bos : ids[i], i, seq, false};
        ok = ok && fwd_step(eng->f, eng->row, to - at) != NULL;
        ok = ok && (gguf_alive(eng->g) ||
                    err_set(e, EXIT_RESOURCE, "%s: the file became shorter while the model was running", eng->g->path));
    }
    kv_seq_free(seq);
    return ok;
}

/* Sums over the chunks of a text. `text` is the name that the file tells. False: an error in e, or an interrupt. */
static bool calib_gather(engine *eng, const tok_ids *ids, int chunk, const calib_opts *o, const char *text, calib_imatrix *im,
                         err_t *e) {
    const int     n = tok_chunks(ids->n, chunk, chunk, o->n_chunks, e);
    const dev_tap tap = {calib__watch, im};
    gen_meter     meter;
    const int32_t bos = tok_add_bos(eng->v) ? tok_bos(eng->v) : -1;
    bool          ok = !e->code;
    if (ok && chunk > eng->n_ctx)
        ok = err_set(e, EXIT_INPUT, "chunks of %d tokens, the cache holds %d (-c N, --kv-mem)", chunk, eng->n_ctx);
    calib__entries(im, eng->g, o->output);
    eng->f->tap = &tap;
    gen_meter_start(&meter, eng, "reading the text", (int64_t)n * chunk, 0);
    for (int i = 0; ok && i < n; i++) ok = calib__chunk(eng, ids->id + (size_t)i * (size_t)chunk, chunk, bos, &meter, e);
    gen_meter_stop(&meter);
    eng->f->tap = NULL;
    calib__settle(im);
    calib__add_dataset(im, bytes_of(text));
    im->chunk = (uint32_t)chunk;
    im->n_chunk = (uint32_t)n;
    return ok && calib__finite(im, eng->g->path, e);
}

/* --- reading --- */

/* What a file may hold as a sum or a count: anything else would poison every weight it touches. */
static bool calib__numbers(const float *p, uint64_t n, double *out, uint64_t *bad) {
    for (uint64_t i = 0; i < n; i++) {
        float x;
        memcpy(&x, (const uint8_t *)p + 4 * i, 4);
        if (!(x >= 0 && x <= FLT_MAX)) {
            *bad = i;
            return false;
        }
        out[i] = (double)x;
    }
    return true;
}

/* Name of a tensor without its ending; n 0 where it ends otherwise. */
static bytes calib__stem(bytes name, const char *ending) {
    const size_t n = strlen(ending);
    bool         is = name.n > n && memcmp(name.p + name.n - n, ending, n) == 0;
    return (bytes){name.p, is ? name.n - n : 0};
}

/* NAME.in_sum2 [n_in, n_mat] and NAME.counts [1, n_mat]. */
static bool calib__pair(calib_imatrix *im, const gguf_file *g, const gguf_tensor *sum, bytes stem, err_t *e) {
    char     name[GGUF_NAME_MAX + 16];
    uint64_t bad = 0;
    snprintf(name, sizeof name, "%.*s.counts", (int)stem.n, (const char *)stem.p);
    const gguf_tensor *count = gguf_tensor_find(g, name);
    if (!count) return gguf_bad(g, sum->part, sum->at, e, "tensor %.*s stands alone, expected %s beside it", GGUF_SHOW(sum->name), name);
    const gguf_tensor *both[2] = {sum, count};
    for (int i = 0; i < 2; i++)
        if (both[i]->type != K_F32)
            return gguf_bad(g, both[i]->part, both[i]->at, e, "tensor %.*s has type %s, expected f32", GGUF_SHOW(both[i]->name),
                            k_types[both[i]->type].name);
    const uint64_t n = sum->n_bytes / 4, n_mat = count->n_bytes / 4;
    if (n % n_mat)
        return gguf_bad(g, count->part, count->at, e, "tensor %s has %llu values beside %llu sums, expected as many sums for each", name,
                        GGUF_U(n_mat), GGUF_U(n));
    calib_entry *en = calib__add(im, stem, n / n_mat, n_mat);
    if (!calib__numbers((const float *)(const void *)sum->data, en->n_in * en->n_mat, en->sum2, &bad))
        return gguf_bad(g, sum->part, sum->at + 4 * bad, e, "tensor %.*s holds a value that is negative or not finite, expected sums "
                        "of squares", GGUF_SHOW(sum->name));
    if (!calib__numbers((const float *)(const void *)count->data, en->n_mat, en->count, &bad))
        return gguf_bad(g, count->part, count->at + 4 * bad, e, "tensor %s holds a value that is negative or not finite, expected "
                        "counts", name);
    return true;
}

static bool calib__read_gguf(calib_imatrix *im, const gguf_file *g, err_t *e) {
    const gguf_kv *kv = NULL;
    bytes          s, stem;
    uint64_t       v;
    int            got = gguf_get_str(g, "general.type", &s, e);
    if (got < 0) return false;
    if (got == 1 && !bytes_is(s, "imatrix"))
        return gguf_bad(g, 0, gguf_find(g, "general.type")->at, e, "general.type is \"%.*s\", expected imatrix", GGUF_SHOW(s));
    if (gguf_get_arr(g, "imatrix.datasets", &kv, e) < 0) return false;
    gguf_strs it = kv ? gguf_strs_of(g, kv) : (gguf_strs){0};
    while (gguf_strs_next(&it, &s)) calib__add_dataset(im, s);
    if ((got = gguf_get_u64(g, "imatrix.chunk_count", 0, UINT32_MAX, &v, e)) < 0) return false;
    if (got) im->n_chunk = (uint32_t)v;
    if ((got = gguf_get_u64(g, "imatrix.chunk_size", 0, UINT32_MAX, &v, e)) < 0) return false;
    if (got) im->chunk = (uint32_t)v;
    for (uint64_t i = 0; i < g->n_tensor; i++) {
        const gguf_tensor *t = &g->tensor[i];
        if ((stem = calib__stem(t->name, ".in_sum2")).n) {
            if (!calib__pair(im, g, t, stem, e)) return false;
        } else if (!calib__stem(t->name, ".counts").n) {
            return gguf_bad(g, t->part, t->at, e, "tensor %.*s ends neither in .in_sum2 nor in .counts, expected an importance matrix",
                            GGUF_SHOW(t->name));
        }
    }
    if (!im->n) return err_set(e, EXIT_INPUT, "%s: holds no sums, expected an importance matrix", g->path);
    qsort(im->e, im->n, sizeof *im->e, calib__by_name);
    return true;
}

/* The older form: a count of entries; for each the length of its name, the name, how many chunks were summed, how many
 * values follow, the values (mean times chunks, f32); then the chunks of all and the text's name, which may be missing.
 * Integers are of 32 bits, little-endian. */
typedef struct {
    const uint8_t *p;
    size_t         n, at;
    const char    *path;
    err_t         *e;
} calib__cur;

static bool calib__need(calib__cur *c, size_t n, const char *what) {
    if (c->e->code) return false;
    return n <= c->n - c->at || err_set(c->e, EXIT_INPUT, "%s: %zu bytes are left, expected %zu of %s (at byte %zu)", c->path,
                                        c->n - c->at, n, what, c->at);
}

/* An integer from lo to hi; 0 after a failure. */
static int32_t calib__i32(calib__cur *c, int32_t lo, int32_t hi, const char *what) {
    int32_t v = 0;
    if (!calib__need(c, sizeof v, what)) return 0;
    memcpy(&v, c->p + c->at, sizeof v);
    c->at += sizeof v;
    if (v >= lo && v <= hi) return v;
    err_set(c->e, EXIT_INPUT, "%s: %s is %d, expected %d to %d (at byte %zu)", c->path, what, v, lo, hi, c->at - sizeof v);
    return 0;
}

static void calib__dat_entry(calib__cur *c, calib_imatrix *im) {
    const size_t  name_at = c->at + 4;
    const int32_t len = calib__i32(c, 1, GGUF_NAME_MAX, "the length of a name");
    if (!calib__need(c, (size_t)len, "a name")) return;
    const bytes name = {c->p + c->at, (size_t)len};
    c->at += (size_t)len;
    for (size_t i = 0; i < name.n; i++)
        if (name.p[i] < 0x20 || name.p[i] >= 0x7f) {
            err_set(c->e, EXIT_INPUT, "%s: byte 0x%02x in a name, expected a tensor's (at byte %zu)", c->path, name.p[i], name_at + i);
            return;
        }
    const int32_t calls = calib__i32(c, 0, INT32_MAX, "the number of chunks"), n = calib__i32(c, 1, INT32_MAX, "the number of values");
    if (!calib__need(c, (size_t)n * 4, "values")) return;
    calib_entry *en = calib__add(im, name, (uint64_t)n, 1);
    uint64_t     bad = 0;
    if (!calib__numbers((const float *)(const void *)(c->p + c->at), (uint64_t)n, en->sum2, &bad))
        err_set(c->e, EXIT_INPUT, "%s: %s holds a value that is negative or not finite, expected sums of squares (at byte %zu)", c->path,
                en->name, c->at + 4 * (size_t)bad);
    en->count[0] = calls ? calls : 1;
    c->at += (size_t)n * 4;
}

static bool calib__read_dat(calib_imatrix *im, const uint8_t *p, size_t n, const char *path, err_t *e) {
    calib__cur    c = {p, n, 0, path, e};
    const int32_t most = n / 17 < INT32_MAX ? (int32_t)(n / 17) : INT32_MAX;   /* an entry takes 17 bytes at least */
    const int32_t entries = calib__i32(&c, 1, most, "the number of entries");
    for (int32_t i = 0; i < entries && !e->code; i++) calib__dat_entry(&c, im);
    if (e->code) return false;
    qsort(im->e, im->n, sizeof *im->e, calib__by_name);
    for (size_t i = 1; i < im->n; i++)
        if (strcmp(im->e[i - 1].name, im->e[i].name) == 0)
            return err_set(e, EXIT_INPUT, "%s: %s comes twice, expected once", path, im->e[i].name);
    if (c.at == n) return true;
    im->n_chunk = (uint32_t)calib__i32(&c, 0, INT32_MAX, "the number of chunks");
    if (e->code || c.at == n) return !e->code;
    const int32_t len = calib__i32(&c, 0, 65536, "the length of the text's name");
    if (!calib__need(&c, (size_t)len, "the text's name")) return false;
    if (len) calib__add_dataset(im, (bytes){p + c.at, (size_t)len});
    return true;
}

/* Either form, from n bytes that were read before. On false nothing is kept. */
static bool calib_imatrix_parse(calib_imatrix *im, const uint8_t *p, size_t n, const char *path, err_t *e) {
    gguf_file g = {0};
    bool      ok;
    *im = (calib_imatrix){0};
    if (n >= 4 && memcmp(p, "GGUF", 4) == 0) ok = gguf_parse(&g, p, n, path, e) && calib__read_gguf(im, &g, e);
    else ok = calib__read_dat(im, p, n, path, e);
    gguf_close(&g);
    if (!ok) calib_imatrix_drop(im);
    return ok;
}

static bool calib__slurp(const char *path, str *out, err_t *e) {
    struct stat st;
    int         fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t     got = 1;
    if (fd < 0 || fstat(fd, &st)) err_set(e, err_code_of(errno), "%s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode)) err_set(e, EXIT_INPUT, "%s: is not a file, expected an importance matrix", path);
    while (!e->code && got) {
        str_room(out, 1 << 20);
        got = read(fd, out->p + out->n, out->cap - out->n - 1);
        if (got < 0 && errno != EINTR) err_set(e, err_code_of(errno), "%s: %s", path, strerror(errno));
        if (got > 0) out->n += (size_t)got;
    }
    if (fd >= 0) close(fd);
    return !e->code;
}

static bool calib_imatrix_read(calib_imatrix *im, const char *path, err_t *e) {
    str  s = {0};
    bool ok = calib__slurp(path, &s, e) && calib_imatrix_parse(im, (const uint8_t *)s.p, s.n, path, e);
    str_drop(&s);
    return ok;
}

/* --- using --- */

/* Mean square of each input channel for a tensor of rows of n_in and n_mat matrices: [n_mat, n_in], owned by the caller. A
 * matrix that saw no row weighs all channels alike. NULL: nothing is known of this tensor, or e says what does not fit. */
static float *calib_weights(const calib_imatrix *im, bytes name, uint64_t n_in, uint64_t n_mat, err_t *e) {
    const calib_entry *en = calib_imatrix_find(im, name);
    if (!en) return NULL;
    if (en->n_in * en->n_mat != n_in * n_mat || (en->n_mat != n_mat && en->n_mat != 1)) {   /* the older form counts all as one */
        err_set(e, EXIT_INPUT, "the importance matrix has %llu x %llu values for %s, expected %llu x %llu", GGUF_U(en->n_in),
                GGUF_U(en->n_mat), en->name, GGUF_U(n_in), GGUF_U(n_mat));
        return NULL;
    }
    float *w = mem_new(n_in * n_mat, sizeof *w);
    for (uint64_t i = 0; i < n_in * n_mat; i++) {
        const double rows = en->count[i / en->n_in];
        w[i] = rows > 0 ? (float)fmin(en->sum2[i] / rows, 1e30) : 1.0f;   /* finite whatever the file says */
    }
    return w;
}

/* Adds what `from` knows. A mean of the older form counts as `chunk` rows a chunk. */
static bool calib_imatrix_merge(calib_imatrix *im, const calib_imatrix *from, uint32_t chunk, err_t *e) {
    const double each = from->chunk ? 1 : (double)chunk;
    const size_t had = im->n;
    for (size_t i = 0; i < from->n; i++) {
        const calib_entry  *a = &from->e[i];
        const bytes         name = bytes_of(a->name);
        const calib_imatrix old = {.e = im->e, .n = had};
        calib_entry        *b = (calib_entry *)(uintptr_t)calib_imatrix_find(&old, name);
        if (!b) b = calib__add(im, name, a->n_in, a->n_mat);
        if (b->n_in * b->n_mat != a->n_in * a->n_mat || (b->n_mat != a->n_mat && a->n_mat != 1))
            return err_set(e, EXIT_INPUT, "%s: %llu x %llu sums, expected %llu x %llu as in the others", a->name, GGUF_U(a->n_in),
                           GGUF_U(a->n_mat), GGUF_U(b->n_in), GGUF_U(b->n_mat));
        for (uint64_t k = 0; k < a->n_in * a->n_mat; k++) b->sum2[k] += a->sum2[k] * each;
        for (uint64_t k = 0; k < b->n_mat; k++) b->count[k] += a->count[a->n_mat == 1 ? 0 : k] * each;
    }
    if (im->n > had) qsort(im->e, im->n, sizeof *im->e, calib__by_name);
    for (size_t i = 0; i < from->n_dataset; i++) calib__add_dataset(im, str_bytes(&from->dataset[i]));
    im->n_chunk += from->n_chunk;
    return true;
}

/* --- showing --- */

typedef enum { CALIB_TEXT, CALIB_CSV, CALIB_JSON } calib_form;

/* What an entry says of its channels, by their mean squares over the rows. */
typedef struct {
    const calib_entry *en;
    bytes              kind;                          /* the tensor without its layer and ".weight": attn_q */
    int                layer;                         /* -1: of no layer */
    uint64_t           n;                             /* channels that have data */
    double             sum, least, most, mean, dev;
    double             active;                        /* share of channels above CALIB_ACTIVE */
    double             entropy, even;                 /* bits; over that of equal channels */
    double             high;                          /* share of channels more than dev above the mean */
    double             like;                          /* cosine to the same tensor one layer before, 0 without one */
} calib_stat;

static const double CALIB_ACTIVE = 1e-5;

/* Layer of "blk.N.REST", and REST; -1, and the whole name, for any other. */
static int calib__layer(const char *name, const char **rest) {
    int layer = 0, at = 4;
    *rest = name;
    if (strncmp(name, "blk.", 4) != 0) return -1;
    while (at < 12 && name[at] >= '0' && name[at] <= '9') layer = 10 * layer + (name[at++] - '0');
    if (at == 4 || name[at] != '.') return -1;
    *rest = name + at + 1;
    return layer;
}

/* Mean squares of the channels that have data: [*n], owned by the caller. */
static double *calib__means(const calib_entry *en, uint64_t *n) {
    double *v = mem_new(en->n_in * en->n_mat, sizeof *v);
    *n = 0;
    for (uint64_t i = 0; i < en->n_in * en->n_mat; i++)
        if (en->count[i / en->n_in] > 0) v[(*n)++] = en->sum2[i] / en->count[i / en->n_in];
    return v;
}

static void calib__measure(calib_stat *st) {
    double      *v = calib__means(st->en, &st->n), squares = 0;
    const double n = st->n ? (double)st->n : 1;
    st->least = st->n ? v[0] : 0;
    for (uint64_t i = 0; i < st->n; i++) {
        st->sum += v[i];
        st->least = fmin(st->least, v[i]);
        st->most = fmax(st->most, v[i]);
        st->active += (v[i] > CALIB_ACTIVE) / n;
    }
    st->mean = st->sum / n;
    for (uint64_t i = 0; i < st->n; i++) {
        const double share = v[i] > 0 ? v[i] / st->sum : 0;
        squares += (v[i] - st->mean) * (v[i] - st->mean);
        if (share > 0) st->entropy -= share * log2(share);
    }
    st->dev = sqrt(squares / n);
    for (uint64_t i = 0; i < st->n; i++) st->high += (v[i] - st->mean > st->dev) / n;
    st->even = st->n > 1 ? st->entropy / log2(n) : 0;
    mem_free(v);
}

/* Cosine of the sums; 0 where one of them is nothing but zeros. */
static double calib__cosine(const calib_entry *a, const calib_entry *b) {
    double ab = 0, aa = 0, bb = 0;
    for (uint64_t i = 0; i < a->n_in * a->n_mat; i++) {
        ab += a->sum2[i] * b->sum2[i];
        aa += a->sum2[i] * a->sum2[i];
        bb += b->sum2[i] * b->sum2[i];
    }
    return aa > 0 && bb > 0 ? ab / (sqrt(aa) * sqrt(bb)) : 0;
}

/* One for each entry that has data: [*n], owned by the caller. */
static calib_stat *calib_stats(const calib_imatrix *im, size_t *n) {
    calib_stat *all = mem_new(im->n, sizeof *all);
    *n = 0;
    for (size_t i = 0; i < im->n; i++) {
        calib_stat         st = {.en = &im->e[i]};
        const calib_entry *before = NULL;
        const char        *rest;
        char               name[GGUF_NAME_MAX + 32];
        bytes              stem;
        st.layer = calib__layer(st.en->name, &rest);
        st.kind = (stem = calib__stem(bytes_of(rest), ".weight")).n ? stem : bytes_of(rest);
        calib__measure(&st);
        if (!st.n) continue;
        snprintf(name, sizeof name, "blk.%d.%s", st.layer - 1, rest);
        if (st.layer > 0) before = calib_imatrix_find(im, bytes_of(name));
        if (before && before->n_in * before->n_mat == st.en->n_in * st.en->n_mat)
            st.like = calib__cosine(st.en, before);
        all[(*n)++] = st;
    }
    return all;
}

/* Tensors of one kind together, the largest sums first. */
static int calib__by_kind(const void *a, const void *b) {
    const calib_stat *x = a, *y = b;
    const size_t      n = x->kind.n < y->kind.n ? x->kind.n : y->kind.n;
    const int         order = memcmp(x->kind.p, y->kind.p, n);
    if (order || x->kind.n != y->kind.n) return order ? order : x->kind.n < y->kind.n ? -1 : 1;
    if (x->sum != y->sum) return x->sum > y->sum ? -1 : 1;
    return strcmp(x->en->name, y->en->name);
}

static int calib__by_layer(const void *a, const void *b) {
    const calib_stat *x = a, *y = b;
    return x->layer != y->layer ? (x->layer > y->layer) - (x->layer < y->layer) : calib__by_kind(a, b);
}

/* The first of a run of one layer, sorted so, becomes the mean of the run, each tensor weighed by its channels.
 * Returns how many there are in the run. */
static size_t calib__layer_mean(calib_stat *st, size_t n) {
    calib_stat mean = {.en = st->en, .layer = st->layer};
    size_t     i = 0;
    for (; i < n && st[i].layer == mean.layer; i++) {
        const double w = (double)st[i].n;
        mean.n += st[i].n;
        mean.sum += w * st[i].sum;
        mean.high += w * st[i].high;
        mean.like += w * st[i].like;
    }
    mean.sum /= (double)mean.n;
    mean.high /= (double)mean.n;
    mean.like /= (double)mean.n;
    *st = mean;
    return i;
}

/* A field of CSV, quoted where it has to be. */
static void calib__csv(str *out, const char *text) {
    if (!text[strcspn(text, ",\"\r\n")]) {
        str_put(out, text);
        return;
    }
    str_put(out, "\"");
    for (; *text; text++) str_add(out, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    str_put(out, "\"");
}

static void calib__say_text(const calib_imatrix *im, const calib_stat *st, size_t n, str *out) {
    int wide = 6;
    for (size_t i = 0; i < n; i++)
        if ((int)st[i].kind.n > wide) wide = (int)st[i].kind.n;
    str_fmt(out, "%zu tensors, %u chunks", n, im->n_chunk);
    if (im->chunk) str_fmt(out, " of %u tokens", im->chunk);
    str_put(out, "; mean squares of the channels:\n\n");
    str_fmt(out, "layer  %-*s %12s %12s %12s %12s %12s %8s %9s %8s %8s %8s %7s\n", wide, "tensor", "sum", "least",
            "most", "mean", "deviation", "active", "channels", "entropy", "of even", "high", "cosine");
    for (size_t i = 0; i < n; i++, st++) {
        if (st->layer >= 0) str_fmt(out, "%5d  ", st->layer);
        else str_put(out, "    -  ");
        const size_t at = out->n;
        str_fmt(out, "%-*.*s", wide, (int)st->kind.n, (const char *)st->kind.p);
        log_tame(out->p + at, out->n - at);
        str_fmt(out, " %12.2f %12.4f %12.4f %12.4f %12.4f", st->sum, st->least, st->most, st->mean, st->dev);
        str_fmt(out, " %7.2f%% %9llu %8.4f %7.2f%% %7.2f%% %7.4f\n", 100 * st->active, GGUF_U(st->n), st->entropy,
                100 * st->even, 100 * st->high, st->like);
    }
}

static void calib__say_csv(const calib_stat *st, size_t n, str *out) {
    str_put(out, "name,layer,sum,least,most,mean,deviation,active,channels,entropy,even,high,cosine\n");
    for (size_t i = 0; i < n; i++, st++) {
        calib__csv(out, st->en->name);
        str_fmt(out, ",%d,%.9g,%.9g,%.9g,%.9g,%.9g", st->layer, st->sum, st->least, st->most, st->mean, st->dev);
        str_fmt(out, ",%.9g,%llu,%.9g,%.9g,%.9g,%.9g\n", st->active, GGUF_U(st->n), st->entropy, st->even, st->high,
                st->like);
    }
}

static void calib__say_json(const calib_imatrix *im, const calib_stat *st, size_t n, str *out) {
    str_put(out, "{\"datasets\": [");
    for (size_t i = 0; i < im->n_dataset; i++) {
        if (i) str_put(out, ", ");
        str_json(out, str_bytes(&im->dataset[i]));
    }
    str_fmt(out, "], \"chunks\": %u, \"chunk_size\": %u, \"tensors\": [", im->n_chunk, im->chunk);
    for (size_t i = 0; i < n; i++, st++) {
        str_put(out, i ? ",\n{\"name\": " : "\n{\"name\": ");
        str_json(out, bytes_of(st->en->name));
        str_fmt(out, ", \"layer\": %d, \"sum\": %.9g, \"least\": %.9g, \"most\": %.9g", st->layer, st->sum, st->least,
                st->most);
        str_fmt(out, ", \"mean\": %.9g, \"deviation\": %.9g, \"active\": %.9g, \"channels\": %llu", st->mean, st->dev,
                st->active, GGUF_U(st->n));
        str_fmt(out, ", \"entropy\": %.9g, \"even\": %.9g, \"high\": %.9g, \"cosine\": %.9g}", st->entropy, st->even,
                st->high, st->like);
    }
    str_put(out, "],\n");
}

/* A line for each layer; st is sorted by them. */
static void calib__say_layers(calib_stat *st, size_t n, calib_form form, str *out) {
    str_put(out, form == CALIB_JSON ? "\"layers\": ["
                                    : "\nlayer          sum     high  cosine   (means of its tensors, weighed by "
                                      "channels)\n");
    bool first = true;
    for (size_t i = 0; i < n; first = false) {
        calib_stat *l = &st[i];
        i += calib__layer_mean(l, n - i);
        if (form == CALIB_JSON)
            str_fmt(out, "%s\n{\"layer\": %d, \"sum\": %.9g, \"high\": %.9g, \"cosine\": %.9g}", first ? "" : ",",
                    l->layer, l->sum, l->high, l->like);
        else str_fmt(out, "%5d %12.2f %7.2f%% %7.4f\n", l->layer, l->sum, 100 * l->high, l->like);
    }
    if (form == CALIB_JSON) str_put(out, "]}\n");
}

/* Figures of every tensor, and of every layer (CSV, which is one table, leaves those out). */
static void calib_show(const calib_imatrix *im, calib_form form, str *out) {
    size_t      n, outside = 0;
    calib_stat *st = calib_stats(im, &n);
    if (n) qsort(st, n, sizeof *st, calib__by_kind);
    if (form == CALIB_CSV) calib__say_csv(st, n, out);
    else if (form == CALIB_JSON) calib__say_json(im, st, n, out);
    else calib__say_text(im, st, n, out);
    if (n) qsort(st, n, sizeof *st, calib__by_layer);    /* those of no layer come first */
    while (outside < n && st[outside].layer < 0) outside++;
    if (form != CALIB_CSV) calib__say_layers(st + outside, n - outside, form, out);
    mem_free(st);
}

/* --- writing --- */

static bool calib__put(gguf_writer *w, const double *x, uint64_t n, err_t *e) {
    float buf[1024];
    for (uint64_t at = 0, some; at < n; at += some) {
        some = n - at < 1024 ? n - at : 1024;
        for (uint64_t i = 0; i < some; i++) buf[i] = (float)fmin(x[at + i], FLT_MAX);   /* of many files it may be more */
        if (!gguf_write_data(w, buf, some * sizeof *buf, e)) return false;
    }
    return true;
}

/* In the GGUF form. `in` is the model, which is not to be overwritten. */
static bool calib_imatrix_write(const calib_imatrix *im, const char *path, const gguf_file *in, err_t *e) {
    gguf_writer w;
    char        name[2][GGUF_NAME_MAX + 16];
    bytes      *sets = mem_new(im->n_dataset, sizeof *sets);
    bool        ok = gguf_write_start(&w, path, 32, in, e);
    for (size_t i = 0; i < im->n_dataset; i++) sets[i] = str_bytes(&im->dataset[i]);
    if (ok) {
        gguf_write_str(&w, "general.type", bytes_of("imatrix"));
        gguf_write_strs(&w, "imatrix.datasets", sets, im->n_dataset);
        gguf_write_u32(&w, "imatrix.chunk_count", im->n_chunk);
        gguf_write_u32(&w, "imatrix.chunk_size", im->chunk);
    }
    for (size_t i = 0; ok && i < im->n; i++) {
        const calib_entry *en = &im->e[i];
        snprintf(name[0], sizeof name[0], "%s.in_sum2", en->name);
        snprintf(name[1], sizeof name[1], "%s.counts", en->name);
        ok = strlen(name[0]) <= GGUF_NAME_MAX ||
             err_set(e, EXIT_INPUT, "%s: the name is too long for an importance matrix, expected at most %d bytes", en->name,
                     GGUF_NAME_MAX - 8);
        if (!ok) break;
        const uint32_t n_dims = en->n_mat > 1 ? 2 : 1;
        gguf_write_tensor(&w, bytes_of(name[0]), K_F32, n_dims, (uint64_t[]){en->n_in, en->n_mat});
        gguf_write_tensor(&w, bytes_of(name[1]), K_F32, n_dims, (uint64_t[]){1, en->n_mat});
    }
    for (size_t i = 0; ok && i < im->n; i++)
        ok = calib__put(&w, im->e[i].sum2, im->e[i].n_in * im->e[i].n_mat, e) && calib__put(&w, im->e[i].count, im->e[i].n_mat, e);
    ok = ok && gguf_write_finish(&w, e);
    if (!ok) gguf_write_drop(&w);
    mem_free(sets);
    return ok;
}

/* ===== [round] weights rounded by what they do to a text =====
 * A calibrated rounding. All rows of a text go through the model as one step; before a product is computed, its matrix is
 * rounded with every row of its input in sight. What is made small is the error of the product over the text: e H e for each
 * row of weights, e its error, H the second moments of the input channels (Frantar et al. 2023, GPTQ; Chee et al. 2023, QuIP).
 *   feedback   columns are rounded one after another, heavy ones first, and each is moved by what the errors before it ask:
 *              H = V V', V upper triangular, makes e H e a sum of squares in which column k stands with those before it
 *   descent    codes are changed one at a time while that lowers e H e; scales are solved for anew between two sweeps
 * The step itself goes on with the model's own weights: inputs that come out of rounded layers were tried, and did not bring
 * the rounded model nearer; nor did factors on channels that the norm or matrix before takes back (AWQ; tests/bench/NOTES.md).
 * The result is ordinary blocks. No row is left with more error than the plain fit has that is
 * weighed by H's diagonal.
 * H is kept for runs of up to ROUND_SPAN channels: longer rows have several. Neither threads nor levels change a bit. Memory
 * holds the step, which ROUND_MEMORY bounds where nobody says, and all blocks that were made: it grows with the model.
 * Door: round_opts, round_run, round_bytes, round_free. */

enum {
    ROUND_SPAN = 2048,                                /* channels of one H */
    ROUND_TILE = 8,                                   /* rows of weights taken at a time: each row of V serves them all */
    ROUND_CHUNK = 512,                                /* input rows summed into H at a time */
    ROUND_PANEL = 64,                                 /* columns of the factor made at a time */
    ROUND_SWEEPS = 8,                                 /* of the descent, at most */
    ROUND_MEMORY = 4,                                 /* GiB of scratch for a step, unless its chunks are named */
    ROUND_SPARE = 64                                  /* MiB left to whoever rounds up: slabs of the cache, slices of the writer */
};

typedef struct {
    int       chunk, n_chunks;                        /* tokens in a chunk; chunks at most, -1: all */
    int       n_threads;                              /* 0: what the process may use */
    float     damp;                                   /* added to H's diagonal, as a part of its mean */
    rope_opts rope;
    kv_opts   kv;
} round_opts;

/* What a thread rounds a tile with; n is the longest row, T a tile. */
typedef struct {
    float   *w, *t, *e, *g;                           /* [T, n] weights; what is to be rounded; errors; H e */
    float   *step, *base;                             /* [n] weight = step * code + base */
    int8_t  *q;                                       /* [n] */
    int16_t *sc, *mn;                                 /* [n/16] unpacked scales and minima */
    float   *d, *dm, *fs, *fm;                        /* [n/256 + 1], [n/16] */
    uint8_t *made, *best;                             /* [T, row] blocks */
    float   *diag, *x;                                /* [256] importance and weights of a unit */
    double  *gram, *rhs;                              /* [P, P], [P] of the scales of a row */
    float    most;                                    /* the largest weight of the type in hand */
    float   *dir, *hdir;                              /* [P, n] what each scale moves; H times one of them */
} round__bench;

typedef struct {
    const gguf_file *g;
    round_opts       o;
    model            m;
    pool            *p;
    kv_cache        *kv;
    fwd             *f;
    const uint32_t  *to;                              /* [n_tensor] the type each tensor is to have */
    uint8_t        **blocks;                          /* [n_tensor] its bytes, NULL where it is not rounded here */
    uint64_t        *rows;                            /* [n_tensor] how many of its rows are there */
    uint64_t        *by_data;                         /* [n_tensor] tensors in order of their data */
    double           before, after;                   /* errors of all matrices: plain, made */
    _Atomic uint64_t bad;                             /* first tensor with a weight beyond its new type, UINT64_MAX: none */
    uint64_t         lost;                            /* first tensor with an input that is not finite, UINT64_MAX: none */
    int              span, n;                         /* of the input in hand: channels of one H; all channels */
    float           *h, *v;                           /* [n / span][span, span] moments; V with columns over their diagonals */
    float           *vd, *hd;                         /* [n] squared diagonal of V in its order; diagonal of H */
    int             *col;                             /* [n] channel at each place of the order */
    double          *chol;                            /* [span, span] the factor on its way */
    float           *xt;                              /* [n, ROUND_CHUNK] input rows, turned */
    round__bench    *bench;                           /* [threads] */
    double          *err;                             /* [rows, 2] of the matrix in hand: plain, made */
    double           t0, worked, work;                /* when it began; weights of the matrices done, of all */
} round_job;

/* --- moments --- */

/* Channels of one H for rows of n: all where they are few enough, else runs of whole super-blocks of about equal length. */
static int round__span(int n) {
    if (n <= ROUND_SPAN) return n;
    const int runs = (n + ROUND_SPAN - 1) / ROUND_SPAN;
    return ((n + runs - 1) / runs + 255) / 256 * 256;
}

static int round__row_of(const dev_product *m, int t) { return m->idx ? m->idx[m->first + t] : m->first + t; }

/* Input rows [t0, t0 + nt) as columns; zeros up to ROUND_CHUNK. */
static void round__turn(round_job *j, dev *dv, const dev_product *m, int t0, int nt) {
    enum { CH = 64 };
    for (int c0; (c0 = pool_next(dv->p) * CH) < j->n;) {
        const int c1 = c0 + CH < j->n ? c0 + CH : j->n;
        for (int t = 0; t < nt; t++) {
            const float *x = m->a->x + (size_t)round__row_of(m, t0 + t) * m->a->ldx;
            for (int c = c0; c < c1; c++) j->xt[(size_t)c * ROUND_CHUNK + (size_t)t] = x[c];
        }
        for (int c = c0; c < c1 && nt < ROUND_CHUNK; c++)
            memset(j->xt + (size_t)c * ROUND_CHUNK + nt, 0, (size_t)(ROUND_CHUNK - nt) * sizeof *j->xt);
    }
    pool_barrier(dv->p);
}

/* Adds the products of the turned rows to the lower triangles. y of a task: [channels up to the panel's end, PANEL]. */
static void round__add_moments(round_job *j, dev *dv) {
    enum { PANEL = 32 };
    float     *y = j->bench[dv->ith].hdir;
    const int  panels = (j->span + PANEL - 1) / PANEL, runs = (j->n + j->span - 1) / j->span;
    for (int task; (task = pool_next(dv->p)) < runs * panels;) {
        const int at = task / panels * j->span, len = j->n - at < j->span ? j->n - at : j->span;
        const int r0 = task % panels * PANEL, nr = len - r0 < PANEL ? len - r0 : PANEL;
        if (nr <= 0) continue;
        const float *a = j->xt + (size_t)at * ROUND_CHUNK;
        const k_acts acts = {.x = a, .ldx = ROUND_CHUNK, .nt = r0 + nr};
        k_mul_rows(K_F32, a + (size_t)r0 * ROUND_CHUNK, ROUND_CHUNK * sizeof *a, nr, ROUND_CHUNK, &acts, y, PANEL, NULL);
        float *h = j->h + (size_t)(task / panels) * (size_t)j->span * (size_t)j->span;
        for (int r = 0; r < nr; r++)
            for (int c = 0; c <= r0 + r; c++) h[(size_t)(r0 + r) * (size_t)j->span + (size_t)c] += y[c * PANEL + r];
    }
    pool_barrier(dv->p);
}

/* H of the input of m, whole and damped, a mean over rows. All threads. */
static void round__moments(round_job *j, dev *dv, const dev_product *m) {
    const size_t S = (size_t)j->span, runs = ((size_t)j->n + S - 1) / S;
    for (size_t r; (r = (size_t)pool_next(dv->p)) < runs * S;) memset(j->h + r * S, 0, S * sizeof *j->h);
    pool_barrier(dv->p);
    for (int t = 0; t < m->n; t += ROUND_CHUNK) {
        round__turn(j, dv, m, t, m->n - t < ROUND_CHUNK ? m->n - t : ROUND_CHUNK);
        round__add_moments(j, dv);
    }
    for (int run; (run = pool_next(dv->p)) < (int)runs;) {
        float    *h = j->h + (size_t)run * S * S;
        const int len = j->n - run * j->span < j->span ? j->n - run * j->span : j->span;
        double    mean = 0;
        for (int i = 0; i < len; i++) mean += (double)h[(size_t)i * S + (size_t)i] / len;
        const float each = 1.0f / (float)m->n, more = (float)(mean > 0 ? mean : 1) * j->o.damp;
        for (int i = 0; i < len; i++) {
            h[(size_t)i * S + (size_t)i] += more;
            for (int k = 0; k <= i; k++) h[(size_t)k * S + (size_t)i] = h[(size_t)i * S + (size_t)k] *= each;
            j->hd[run * j->span + i] = h[(size_t)i * S + (size_t)i];
        }
    }
    pool_barrier(dv->p);
}

/* Embeddings that are the output matrix too: an error counts as an input in every channel alike, and about as much in all as
 * it does in the logits. Thread 0. */
static void round__also_input(round_job *j) {
    double mean = 0;
    for (int i = 0; i < j->n; i++) mean += (double)j->hd[i] / j->n;
    for (int i = 0; i < j->n; i++) {
        float *h = j->h + (size_t)(i / j->span) * (size_t)j->span * (size_t)j->span + (size_t)(i % j->span) * (size_t)(j->span + 1);
        j->hd[i] = *h += (float)mean;
    }
}

/* --- the order of columns, and the factor --- */

typedef struct {
    float key;
    int   at;
} round__rank;

static int round__heavier(const void *a, const void *b) {
    const round__rank *x = a, *y = b;
    return x->key != y->key ? (x->key < y->key ? 1 : -1) : x->at - y->at;
}

/* Columns that are fitted together in a run of len: whole blocks of every type whose blocks fill it. */
static int round__unit_of(int len) { return len % 256 ? len & -len : 256; }

/* Super-blocks of a run by falling mass, columns inside by falling strength: a block keeps together, since its scales are
 * fitted when the first of its columns comes. */
static void round__order(round_job *j, int at, int len) {
    const int   unit = round__unit_of(len);
    round__rank big[ROUND_SPAN / 32], small[256];
    for (int b = 0; b < len / unit; b++) {
        big[b] = (round__rank){0, b};
        for (int i = 0; i < unit; i++) big[b].key += j->hd[at + b * unit + i];
    }
    qsort(big, (size_t)(len / unit), sizeof *big, round__heavier);
    for (int b = 0; b < len / unit; b++) {
        for (int i = 0; i < unit; i++) small[i] = (round__rank){j->hd[at + big[b].at * unit + i], big[b].at * unit + i};
        qsort(small, (size_t)unit, sizeof *small, round__heavier);
        for (int i = 0; i < unit; i++) j->col[at + b * unit + i] = at + small[i].at;
    }
}

/* Eight sums side by side: the compilers keep them in vectors and their order is the code's. */
static double round__dot(const double *a, const double *b, int n) {
    double s[8] = {0};
    int    i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++) s[k] += a[i + k] * b[i + k];
    for (; i < n; i++) s[i & 7] += a[i] * b[i];
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

/* The Cholesky factor of one H in reversed order, which is V turned round: a is lower triangular, [len, len], rows S apart.
 * All threads. A pivot that rounding has eaten is replaced by a small one: its column then takes what it gets. */
static void round__factor(dev *dv, double *a, int len, size_t S, double least) {
    for (int j0 = 0; j0 < len; j0 += ROUND_PANEL) {
        const int j1 = j0 + ROUND_PANEL < len ? j0 + ROUND_PANEL : len;
        for (int i; (i = j0 + 16 * pool_next(dv->p)) < len;)
            for (int r = i; r < i + 16 && r < len; r++)
                for (int k = j0; k < j1 && k <= r; k++) a[(size_t)r * S + (size_t)k] -= round__dot(a + (size_t)r * S, a + (size_t)k * S, j0);
        pool_barrier(dv->p);
        for (int k = j0; dv->ith == 0 && k < j1; k++)
            for (int i = j0; i <= k; i++) {
                double x = a[(size_t)k * S + (size_t)i] - round__dot(a + (size_t)k * S + j0, a + (size_t)i * S + j0, i - j0);
                a[(size_t)k * S + (size_t)i] = i < k ? x / a[(size_t)i * S + (size_t)i] : sqrt(x > least ? x : least);
            }
        pool_barrier(dv->p);
        for (int i; (i = j1 + 16 * pool_next(dv->p)) < len;)
            for (int r = i; r < i + 16 && r < len; r++)
                for (int k = j0; k < j1; k++) {
                    double x = a[(size_t)r * S + (size_t)k] - round__dot(a + (size_t)r * S + j0, a + (size_t)k * S + j0, k - j0);
                    a[(size_t)r * S + (size_t)k] = x / a[(size_t)k * S + (size_t)k];
                }
        pool_barrier(dv->p);
    }
}

/* Order and factor of every run of the input in hand. All threads. */
static void round__prepare(round_job *j, dev *dv) {
    const size_t S = (size_t)j->span;
    for (int at = 0; at < j->n; at += j->span) {
        const int    len = j->n - at < j->span ? j->n - at : j->span, last = at + len - 1;
        const float *h = j->h + (size_t)(at / j->span) * S * S;
        float       *v = j->v + (size_t)(at / j->span) * S * S;
        if (dv->ith == 0) round__order(j, at, len);
        pool_barrier(dv->p);
        for (int i; (i = pool_next(dv->p)) < len;)
            for (int k = 0; k <= i; k++)
                j->chol[(size_t)i * S + (size_t)k] = (double)h[(size_t)(j->col[last - i] - at) * S + (size_t)(j->col[last - k] - at)];
        pool_barrier(dv->p);
        round__factor(dv, j->chol, len, S, (double)h[0] * 1e-9 + 1e-300);
        for (int i; (i = pool_next(dv->p)) < len;) {
            const int r = len - 1 - i;                /* row and columns of V from the end of the reversed factor */
            for (int k = i; k < len; k++) {
                const int c = len - 1 - k;
                v[(size_t)i * S + (size_t)k] = (float)(j->chol[(size_t)r * S + (size_t)c] / j->chol[(size_t)c * S + (size_t)c]);
            }
            j->vd[at + i] = (float)(j->chol[(size_t)r * S + (size_t)r] * j->chol[(size_t)r * S + (size_t)r]);
        }
        pool_barrier(dv->p);
    }
}

/* --- one row --- */

/* Codes, steps and bases of n weights from their blocks. */
static void round__open(round__bench *b, uint32_t type, const void *blocks, int n) {
    const k_type *k = &k_types[type];
    k_urow        u = {b->q, b->sc, b->mn, b->d, b->dm, b->fs, b->fm};
    k->unpack(blocks, n, &u);
    for (int i = 0; i < n; i++) {
        const bool whole = k->kind == K_KIND_INT;
        b->step[i] = whole ? b->d[i / 256] * (float)b->sc[i / 16] : b->fs[i / k->group];
        b->base[i] = !k->has_min ? 0 : whole ? -(b->dm[i / 256] * (float)b->mn[i / 16]) : b->fm[i / k->group];
    }
}

/* The code whose weight is nearest to x. */
static int round__code(const k_fitter *k, float step, float base, float x) {
    const float at = (x - base) / step;
    if (!(fabsf(step) > 0)) return k->lo;
    if (!k->levels) return at <= (float)k->lo ? k->lo : at >= (float)k->hi ? k->hi : (int)lrintf(at);
    const int8_t *l = k->levels;
    while (*l < k->hi && fabsf((float)l[1] - at) < fabsf((float)l[0] - at)) l++;
    return *l;
}

/* e H e of each of nr rows; g becomes H e. */
static void round__measure(const round_job *j, const round__bench *b, int nr, double *err) {
    const size_t n = (size_t)j->n, S = (size_t)j->span;
    for (int at = 0; at < j->n; at += j->span) {
        const int    len = j->n - at < j->span ? j->n - at : j->span;
        const k_acts a = {.x = b->e + at, .ldx = n, .nt = nr};
        k_mul_rows(K_F32, j->h + (size_t)(at / j->span) * S * S, S * sizeof *j->h, len, len, &a, b->g + at, n, NULL);
    }
    for (int r = 0; r < nr; r++) {
        err[r] = 0;
        for (size_t i = 0; i < n; i++) err[r] += (double)b->e[(size_t)r * n + i] * (double)b->g[(size_t)r * n + i];
    }
}

/* Errors of the rows that `blocks` hold. */
static void round__errors(const round_job *j, round__bench *b, uint32_t type, const uint8_t *blocks, size_t row, int nr) {
    const size_t n = (size_t)j->n;
    for (int r = 0; r < nr; r++) {
        float *e = b->e + (size_t)r * n;
        k_types[type].dequant(blocks + (size_t)r * row, e, j->n);
        for (size_t i = 0; i < n; i++) e[i] = b->w[(size_t)r * n + i] - e[i];
    }
}

/* Rounds the unit at places [k0, k0 + unit) of the order for each row of the tile: its blocks are fitted to what the errors
 * before it ask for, then, where a type has codes of its own, they are chosen one column after another. t is in order. An
 * error costs vd where those behind it make up for it all they can, hd where they do nothing: the fit takes the middle. */
static void round__unit(const round_job *j, round__bench *b, uint32_t type, int at, int len, int k0, int unit, size_t row, int nr) {
    const k_fitter *k = &k_fitters[type];
    const size_t    n = (size_t)j->n, S = (size_t)j->span;
    const float    *v = j->v + (size_t)(at / j->span) * S * S;
    const int      *col = j->col + at + k0;
    int             c0 = col[0];
    for (int i = 1; i < unit; i++) c0 = col[i] < c0 ? col[i] : c0;
    for (int i = 0; i < unit; i++) b->diag[col[i] - c0] = sqrtf(j->hd[col[i]]) * sqrtf(j->vd[at + k0 + i]);
    for (int r = 0; r < nr; r++) {
        float   *t = b->t + (size_t)r * n + at, *w = b->w + (size_t)r * n, *e = b->e + (size_t)r * n;
        uint8_t *blocks = b->made + (size_t)r * row + (size_t)c0 / k_types[type].block * k_types[type].bytes;
        for (int i = 0; i < unit; i++) b->x[col[i] - c0] = t[k0 + i];
        k->fit(b->x, b->diag, blocks, unit);
        round__open(b, type, blocks, unit);
        for (int i = 0; i < unit; i++) {
            const int o = col[i] - c0;
            if (k->recode) b->q[o] = (int8_t)round__code(k, b->step[o], b->base[o], t[k0 + i]);
            e[col[i]] = w[col[i]] - (b->step[o] * (float)b->q[o] + b->base[o]);
            k_axpy(t + k0 + i + 1, v + (size_t)(k0 + i) * S + (size_t)(k0 + i + 1), e[col[i]], len - (k0 + i + 1));
        }
        if (k->recode) k->recode(b->q, blocks, unit);
    }
}

/* Feedback over the rows of a tile, into b->made. */
static void round__feedback(const round_job *j, round__bench *b, uint32_t type, size_t row, int nr) {
    const size_t n = (size_t)j->n;
    for (size_t r = 0; r < (size_t)nr; r++)
        for (size_t i = 0; i < n; i++) b->t[r * n + i] = b->w[r * n + (size_t)j->col[i]];
    for (int at = 0; at < j->n; at += j->span) {
        const int len = j->n - at < j->span ? j->n - at : j->span, unit = round__unit_of(len);
        for (int k0 = 0; k0 < len; k0 += unit) round__unit(j, b, type, at, len, k0, unit, row, nr);
    }
}

/* Changes codes of row r one at a time while that lowers e H e. b->e and b->g belong to its blocks, and do so afterwards. */
static void round__descend(const round_job *j, round__bench *b, uint32_t type, uint8_t *blocks, int r) {
    const k_fitter *k = &k_fitters[type];
    const size_t    n = (size_t)j->n, S = (size_t)j->span;
    float          *e = b->e + (size_t)r * n, *g = b->g + (size_t)r * n;
    int             changed = 1;
    round__open(b, type, blocks, j->n);
    for (int sweep = 0; sweep < ROUND_SWEEPS && changed; sweep++) {
        changed = 0;
        for (int i = 0; i < j->n; i++) {
            const int    at = i / j->span * j->span, len = j->n - at < j->span ? j->n - at : j->span;
            const float *h = j->h + (size_t)(at / j->span) * S * S + (size_t)(i - at) * S;
            const float  now = b->step[i] * (float)b->q[i] + b->base[i];
            const int    code = round__code(k, b->step[i], b->base[i], now + g[i] / h[i - at]);
            const float  move = b->step[i] * (float)(code - b->q[i]);
            if (code == b->q[i] || !(move * (move * h[i - at] - 2 * g[i]) < 0)) continue;
            b->q[i] = (int8_t)code;
            e[i] -= move;
            k_axpy(g + at, h, -move, len);
            changed++;
        }
    }
    k->recode(b->q, blocks, j->n);
}

/* --- scales --- */

/* Where a block keeps its f16 scale and minimum, -1: none. minus: the minimum is taken off. */
static const struct {
    int16_t scale, min;
    bool    known;
} round__scales[K_TYPE_MAX] = {
    [K_Q4_0] = {offsetof(block_q4_0, d), -1, true},
    [K_Q4_1] = {offsetof(block_q4_1, d), offsetof(block_q4_1, m), true},
    [K_Q5_0] = {offsetof(block_q5_0, d), -1, true},
    [K_Q5_1] = {offsetof(block_q5_1, d), offsetof(block_q5_1, m), true},
    [K_Q8_0] = {offsetof(block_q8_0, d), -1, true},
    [K_Q1_0] = {offsetof(block_q1_0, d), -1, true},
    [K_Q2_0] = {offsetof(block_q2_0, d), -1, true},
    [K_IQ4_NL] = {offsetof(block_iq4_nl, d), -1, true},
    [K_Q2_K] = {offsetof(block_q2_K, d), offsetof(block_q2_K, dmin), true},
    [K_Q3_K] = {offsetof(block_q3_K, d), -1, true},
    [K_Q4_K] = {offsetof(block_q4_K, d), offsetof(block_q4_K, dmin), true},
    [K_Q5_K] = {offsetof(block_q5_K, d), offsetof(block_q5_K, dmin), true},
    [K_Q6_K] = {offsetof(block_q6_K, d), -1, true},
    [K_TQ1_0] = {offsetof(block_tq1_0, d), -1, true},
    [K_TQ2_0] = {offsetof(block_tq2_0, d), -1, true},
    [K_IQ2_XXS] = {offsetof(block_iq2_xxs, d), -1, true},
    [K_IQ2_XS] = {offsetof(block_iq2_xs, d), -1, true},
    [K_IQ2_S] = {offsetof(block_iq2_s, d), -1, true},
    [K_IQ3_XXS] = {offsetof(block_iq3_xxs, d), -1, true},
    [K_IQ3_S] = {offsetof(block_iq3_s, d), -1, true},
    [K_IQ1_S] = {offsetof(block_iq1_s, d), -1, true},
    [K_IQ4_XS] = {offsetof(block_iq4_xs, d), -1, true},
};

/* The scales of a row's run of len channels from `at`: scale and minimum of each block in turn. */
static int round__n_scales(uint32_t type, int len) {
    return len / k_types[type].block * (1 + (round__scales[type].min >= 0));
}

static uint8_t *round__scale_at(uint32_t type, uint8_t *blocks, int at, int p) {
    const int per = 1 + (round__scales[type].min >= 0);
    blocks += (size_t)(at / k_types[type].block + p / per) * k_types[type].bytes;
    return blocks + (p % per ? round__scales[type].min : round__scales[type].scale);
}

/* What one unit of scale p adds to the weights of its block: `block` values at dir. */
static void round__direction(const round__bench *b, uint32_t type, int at, int p, float *dir) {
    const k_type *k = &k_types[type];
    const int     per = 1 + (round__scales[type].min >= 0), c0 = at + p / per * k->block;
    for (int i = 0; i < k->block; i++) {
        const bool whole = k->kind == K_KIND_INT;
        if (p % per) dir[i] = whole ? -(float)b->mn[(c0 + i) / 16] : 1.0f;
        else dir[i] = (float)b->q[c0 + i] * (whole ? (float)b->sc[(c0 + i) / 16] : 1.0f);
    }
}

/* x of m x = y for a positive matrix [n, n], in place; a pivot that is nothing leaves its unknown 0. */
static void round__solve(double *m, double *y, int n) {
    for (int i = 0; i < n; i++) {
        for (int k = 0; k <= i; k++) {
            double x = m[i * n + k] - round__dot(m + i * n, m + k * n, k);
            if (k < i) m[i * n + k] = m[k * n + k] > 0 ? x / m[k * n + k] : 0;
            else m[i * n + i] = x > 0 ? sqrt(x) : 0;
        }
        y[i] = m[i * n + i] > 0 ? (y[i] - round__dot(m + i * n, y, i)) / m[i * n + i] : 0;
    }
    for (int i = n - 1; i >= 0; i--) {
        for (int k = i + 1; k < n; k++) y[i] -= m[k * n + i] * y[k];
        y[i] = m[i * n + i] > 0 ? y[i] / m[i * n + i] : 0;
    }
}

/* New f16 scales for row r by least squares under H, the codes as they are. b->g is H e of the blocks. */
static void round__rescale(const round_job *j, round__bench *b, uint32_t type, uint8_t *blocks, int r) {
    const size_t S = (size_t)j->span;
    const int    B = k_types[type].block, per = 1 + (round__scales[type].min >= 0);
    round__open(b, type, blocks, j->n);
    for (int at = 0; at < j->n; at += j->span) {
        const int    len = j->n - at < j->span ? j->n - at : j->span, P = round__n_scales(type, len);
        const float *h = j->h + (size_t)(at / j->span) * S * S, *g = b->g + (size_t)r * (size_t)j->n + at;
        for (int p = 0; p < P; p++) round__direction(b, type, at, p, b->dir + (size_t)p * (size_t)B);
        for (int p = 0; p < P; p++) {
            const float *dp = b->dir + (size_t)p * (size_t)B;
            const k_acts a = {.x = dp, .ldx = (size_t)B, .nt = 1};
            k_mul_rows(K_F32, h + p / per * B, S * sizeof *h, (p / per + 1) * B, B, &a, b->hdir, (size_t)len, NULL);
            for (int s = 0; s <= p; s++) b->gram[p * P + s] = (double)k_dot(b->dir + (size_t)s * (size_t)B, b->hdir + s / per * B, B);
            b->gram[p * P + p] *= 1 + 1e-6;
            b->rhs[p] = (double)k_dot(dp, g + p / per * B, B);
        }
        round__solve(b->gram, b->rhs, P);
        for (int p = 0; p < P; p++) {
            uint16_t d;
            uint8_t *to = round__scale_at(type, blocks, at, p);
            memcpy(&d, to, sizeof d);
            const float x = k_f16_to_f32(d) + (float)b->rhs[p];
            if (!(fabsf(x) <= 65504)) continue;
            d = k_f32_to_f16(x);
            memcpy(to, &d, sizeof d);
        }
    }
}

/* --- a tile of rows --- */

/* Keeps row r of b->made where it is the better one. */
static bool round__keep(round__bench *b, size_t row, int r, double err, double *best) {
    if (!(err < *best)) return false;
    *best = err;
    memcpy(b->best + (size_t)r * row, b->made + (size_t)r * row, row);
    return true;
}

/* Descends and solves for scales in turn, as long as a row gains by it. */
static void round__polish(const round_job *j, round__bench *b, uint32_t type, size_t row, int nr, double *best) {
    enum { TURNS = 4 };
    double err[ROUND_TILE];
    for (int turn = 0; turn < TURNS; turn++) {
        bool better = false;
        if (k_fitters[type].recode) {
            for (int r = 0; r < nr; r++) round__descend(j, b, type, b->made + (size_t)r * row, r);
            round__errors(j, b, type, b->made, row, nr);
            round__measure(j, b, nr, err);
            for (int r = 0; r < nr; r++) better |= round__keep(b, row, r, err[r], &best[r]);
        }
        if (round__scales[type].known) {
            for (int r = 0; r < nr; r++) round__rescale(j, b, type, b->made + (size_t)r * row, r);
            round__errors(j, b, type, b->made, row, nr);
            round__measure(j, b, nr, err);
            for (int r = 0; r < nr; r++) better |= round__keep(b, row, r, err[r], &best[r]);
        }
        if (!better) return;
    }
}

static int round__by_data(const void *a, const void *b, void *ctx) {
    const gguf_tensor *t = ctx;
    const uint8_t     *x = t[*(const uint64_t *)a].data, *y = t[*(const uint64_t *)b].data;
    return (x > y) - (x < y);
}

/* The tensor that holds the byte, UINT64_MAX: none does. */
static uint64_t round__tensor(const round_job *j, const uint8_t *data) {
    uint64_t lo = 0, hi = j->g->n_tensor;
    while (lo < hi) {
        const uint64_t mid = (lo + hi) / 2;
        if (j->g->tensor[j->by_data[mid]].data <= data) lo = mid + 1;
        else hi = mid;
    }
    if (!lo) return UINT64_MAX;
    const gguf_tensor *t = &j->g->tensor[j->by_data[lo - 1]];
    return (uint64_t)(data - t->data) < t->n_bytes ? j->by_data[lo - 1] : UINT64_MAX;
}

static bool round__within(const float *x, size_t n, float most) {
    bool ok = true;
    for (size_t i = 0; i < n; i++) ok &= fabsf(x[i]) <= most;
    return ok;
}

/* Row r of a matrix as floats; one with a weight beyond `most` is noted and counts as zeros. */
static void round__row(round_job *j, const dev_product *m, int r, float most, float *w) {
    const uint8_t *src = m->w->data + (size_t)m->stack * m->w->mat_bytes + (size_t)r * m->w->row_bytes;
    k_types[m->w->type].dequant(src, w, j->n);
    if (round__within(w, (size_t)j->n, most)) return;
    uint64_t first = atomic_load(&j->bad), this = round__tensor(j, m->w->data);
    while (this < first && !atomic_compare_exchange_weak(&j->bad, &first, this)) {}
    memset(w, 0, (size_t)j->n * sizeof *w);
}

/* Rows [r0, r0 + nr) of a matrix to blocks at dst; err: what plain blocks and these leave, for each row. */
static void round__tile(round_job *j, round__bench *b, const dev_product *m, uint32_t type, int r0, int nr, uint8_t *dst) {
    const size_t   n = (size_t)j->n, row = k_row_bytes(type, j->n);
    double         best[ROUND_TILE], err[ROUND_TILE];
    for (int r = 0; r < nr; r++) {
        round__row(j, m, r0 + r, b->most, b->w + (size_t)r * n);
        k_fitters[type].fit(b->w + (size_t)r * n, m->n ? j->hd : NULL, b->best + (size_t)r * row, j->n);
        j->err[2 * (r0 + r)] = j->err[2 * (r0 + r) + 1] = 0;
    }
    if (m->n) {
        round__errors(j, b, type, b->best, row, nr);
        round__measure(j, b, nr, best);
        for (int r = 0; r < nr; r++) j->err[2 * (r0 + r)] = best[r];
        round__feedback(j, b, type, row, nr);
        round__errors(j, b, type, b->made, row, nr);
        round__measure(j, b, nr, err);
        for (int r = 0; r < nr; r++) round__keep(b, row, r, err[r], &best[r]);
        round__polish(j, b, type, row, nr, best);
        for (int r = 0; r < nr; r++) j->err[2 * (r0 + r) + 1] = best[r];
    }
    memcpy(dst, b->best, (size_t)nr * row);
}

/* --- a list of products --- */

/* Where the rounded form of a product's matrix goes, NULL: it is not rounded here, or was already. */
static uint8_t *round__place(const round_job *j, const dev_product *m, uint32_t *type) {
    const uint64_t i = round__tensor(j, m->w->data);
    if (i == UINT64_MAX || !j->blocks[i]) return NULL;
    const gguf_tensor *t = &j->g->tensor[i];
    const size_t       row = k_row_bytes(j->to[i], (int64_t)t->dim[0]), at = (size_t)(m->w->data - t->data) / m->w->row_bytes;
    *type = j->to[i];
    return j->blocks[i] + (at + (size_t)m->stack * (size_t)m->w->n_out) * row;
}

/* Whether two products have the same input. */
static bool round__same_input(const dev_product *a, const dev_product *b) {
    return a->a == b->a && a->idx == b->idx && a->first == b->first && a->n == b->n;
}

/* Adds up what is left of the errors of a matrix, row by row. */
static void round__told(round_job *j, const dev_product *m, uint32_t type) {
    double sum[2] = {0};
    for (int r = 0; r < 2 * m->w->n_out; r++) sum[r % 2] += j->err[r];
    j->before += sum[0];
    j->after += sum[1];
    j->worked += (double)m->w->n_out * m->w->n_in;
    const gguf_tensor *t = &j->g->tensor[round__tensor(j, m->w->data)];
    log_info("%.*s: %s, %.1f %% of the plain error over the text", GGUF_SHOW(t->name), k_types[type].name,
             sum[0] > 0 ? 100 * sum[1] / sum[0] : 100.0);
}

/* How far all matrices are when r rows of m are done. */
static void round__progress(const round_job *j, const dev_product *m, int r) {
    const gguf_tensor *t = &j->g->tensor[round__tensor(j, m->w->data)];
    const double       done = j->worked + (double)r * m->w->n_in;
    if (!progress_due()) return;
    progress_show("calibrating: %.0f %%%s, %.*s", 100 * done / (j->work + 1), progress_left(j->t0, done, j->work).p, GGUF_SHOW(t->name));
}

/* All rows of one matrix. All threads. */
static void round__matrix(round_job *j, dev *dv, const dev_product *m, uint32_t type, uint8_t *dst) {
    const size_t row = k_row_bytes(type, m->w->n_in);
    j->bench[dv->ith].most = k_most(type);
    for (int r; (r = pool_next(dv->p) * ROUND_TILE) < m->w->n_out && !g_interrupt;) {
        if (dv->ith == 0) round__progress(j, m, r);
        round__tile(j, &j->bench[dv->ith], m, type, r, m->w->n_out - r < ROUND_TILE ? m->w->n_out - r : ROUND_TILE, dst + (size_t)r * row);
    }
    pool_barrier(dv->p);
    if (dv->ith == 0) round__told(j, m, type);
    pool_barrier(dv->p);
}

/* Moments, order and factor of the input of m; false where no row came, or not a finite one. All threads. */
static bool round__input(round_job *j, dev *dv, const dev_product *m) {
    pool_barrier(dv->p);
    if (dv->ith == 0) j->n = m->w->n_in, j->span = round__span(j->n), round__progress(j, m, 0);
    pool_barrier(dv->p);
    if (!m->n) return false;
    round__moments(j, dv, m);
    if (!round__within(j->hd, (size_t)j->n, FLT_MAX)) {
        const uint64_t this = round__tensor(j, m->w->data);
        if (dv->ith == 0 && this < j->lost) j->lost = this;
        return false;
    }
    pool_barrier(dv->p);                              /* everyone has looked */
    if (m->w->data == j->m.glob.tok_embd.data && dv->ith == 0) round__also_input(j);
    pool_barrier(dv->p);
    round__prepare(j, dv);
    return true;
}

/* The watcher: rounds the matrices of a list to what their inputs are, input by input. */
static void round__watch(void *ctx, dev *dv, const dev_product *list, int n) {
    round_job *j = ctx;
    uint32_t   type;
    int        leader = -1;                           /* the product whose input was summed last */
    bool       seen = false;
    for (int i = 0; i < n; i++) {
        dev_product m = list[i];
        uint8_t    *dst = round__place(j, &m, &type);
        if (!dst) continue;
        if (leader < 0 || !round__same_input(&m, &list[leader])) seen = round__input(j, dv, &m);
        leader = i;
        if (!seen) m.n = 0;                           /* nothing is known of the input: a plain fit */
        round__matrix(j, dv, &m, type, dst);
        if (dv->ith == 0) j->rows[round__tensor(j, m.w->data)] += (uint64_t)m.w->n_out;
    }
    pool_barrier(dv->p);
}

/* --- the run --- */

/* Whether tensor i is rounded here: a matrix of the step that changes to a type of codes. Embeddings are when they are the
 * output too. */
static bool round__ours(const round_job *j, uint64_t i) {
    const gguf_tensor *t = &j->g->tensor[i];
    const bool         head = t->data == j->m.glob.output.data;
    if (t->type == j->to[i] || !k_wants_q8(j->to[i]) || !k_fitters[j->to[i]].fit || t->n_dims < 2) return false;
    return head ? t->dim[1] == (uint64_t)j->m.hp.n_vocab : t->name.n > 4 && memcmp(t->name.p, "blk.", 4) == 0;
}

static void round__bench_new(round__bench *b, size_t n, size_t span, size_t row) {
    const size_t T = ROUND_TILE, P = 2 * span / 32 + 2;
    float      **of_tile[] = {&b->w, &b->t, &b->e, &b->g}, **of_row[] = {&b->step, &b->base, &b->d, &b->dm, &b->fs, &b->fm};
    for (size_t i = 0; i < 4; i++) *of_tile[i] = mem_aligned(T * n, sizeof(float));
    for (size_t i = 0; i < 6; i++) *of_row[i] = mem_aligned(n + 256, sizeof(float));
    b->q = mem_aligned(n + 256, 1);
    b->sc = mem_new(n / 16 + 16, sizeof *b->sc);
    b->mn = mem_new(n / 16 + 16, sizeof *b->mn);
    b->made = mem_aligned(T * row, 1);
    b->best = mem_aligned(T * row, 1);
    b->diag = mem_aligned(256, sizeof *b->diag);
    b->x = mem_aligned(256, sizeof *b->x);
    b->gram = mem_aligned(P * P, sizeof *b->gram);
    b->rhs = mem_aligned(P, sizeof *b->rhs);
    b->dir = mem_aligned(2 * span + 512, sizeof *b->dir);
    b->hdir = mem_aligned(32 * span, sizeof *b->hdir);
}

static void round__bench_drop(round__bench *b) {
    void *own[] = {b->w, b->t, b->e, b->g, b->step, b->base, b->d, b->dm, b->fs, b->fm, b->q, b->sc, b->mn,
                   b->made, b->best, b->diag, b->x, b->gram, b->rhs, b->dir, b->hdir};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) mem_free(own[i]);
}

/* The widest of all matrices, one side at a time. */
typedef struct {
    size_t   n, span, rows, row;                      /* channels; channels of one H; rows; bytes of a row of blocks */
    uint64_t blocks;                                  /* bytes of all blocks */
} round__extent;

static round__extent round__extent_of(const round_job *j) {
    round__extent x = {32, 32, 1, 1, 0};
    for (uint64_t i = 0; i < j->g->n_tensor; i++) {
        const gguf_tensor *t = &j->g->tensor[i];
        if (!round__ours(j, i)) continue;
        const size_t len = (size_t)t->dim[0], one = k_row_bytes(j->to[i], (int64_t)len), s = (size_t)round__span((int)len);
        x.n = len > x.n ? len : x.n;
        x.span = s > x.span ? s : x.span;
        x.rows = t->dim[1] > x.rows ? (size_t)t->dim[1] : x.rows;
        x.row = one > x.row ? one : x.row;
        x.blocks += (uint64_t)one * t->dim[1] * t->dim[2];
    }
    return x;
}

/* Runs of moments: the widest row need not have the longest span. */
static size_t round__runs(const round__extent *x) { return (x->n + x->span - 1) / x->span + 1; }

/* Bytes of round__room(), but for small change. */
static uint64_t round__room_bytes(const round__extent *x, int threads) {
    const uint64_t n = x->n, square = (uint64_t)x->span * x->span, units = 2 * x->span / 32 + 2;
    const uint64_t bench = 160 * n + 2 * ROUND_TILE * x->row + 8 * units * units + 136 * x->span;
    const uint64_t moments = (8 * round__runs(x) + 8) * square + (4 * ROUND_CHUNK + 16) * n + 16 * x->rows;
    return moments + x->blocks + (uint64_t)threads * bench;
}

/* Room for the widest matrix, and the blocks of all. */
static void round__room(round_job *j) {
    const round__extent x = round__extent_of(j);
    for (uint64_t i = 0; i < j->g->n_tensor; i++) {
        const gguf_tensor *t = &j->g->tensor[i];
        if (!round__ours(j, i)) continue;
        j->blocks[i] = mem_aligned(k_row_bytes(j->to[i], (int64_t)t->dim[0]), (size_t)(t->dim[1] * t->dim[2]));
        j->work += (double)t->dim[0] * (double)(t->dim[1] * t->dim[2]);
    }
    j->h = mem_aligned(round__runs(&x) * x.span * x.span, sizeof *j->h);
    j->v = mem_aligned(round__runs(&x) * x.span * x.span, sizeof *j->v);
    j->chol = mem_aligned(x.span * x.span, sizeof *j->chol);
    j->vd = mem_new(x.n, sizeof *j->vd);
    j->hd = mem_new(x.n, sizeof *j->hd);
    j->col = mem_new(x.n, sizeof *j->col);
    j->xt = mem_aligned(x.n * ROUND_CHUNK, sizeof *j->xt);
    j->err = mem_new(2 * x.rows, sizeof *j->err);
    j->bench = mem_new((size_t)j->p->n, sizeof *j->bench);
    for (int i = 0; i < j->p->n; i++) round__bench_new(&j->bench[i], x.n, x.span, x.row);
}

static void round_free(round_job *j) {
    if (!j) return;
    for (int i = 0; j->bench && i < j->p->n; i++) round__bench_drop(&j->bench[i]);
    for (uint64_t i = 0; i < j->g->n_tensor; i++) mem_free(j->blocks[i]);
    void *own[] = {j->blocks, j->rows, j->by_data, j->h, j->v, j->chol, j->vd, j->hd, j->col, j->xt, j->err, j->bench};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) mem_free(own[i]);
    fwd_free(j->f);
    kv_free(j->kv);
    pool_free(j->p);
    model_close(&j->m);
    mem_free(j);
}

/* Chunks of the text that the step takes, spread over it: as many as were asked for, by itself as ROUND_MEMORY holds.
 * What they need must be free, or a hungry run would be killed by the system hours later; fewer are never taken
 * silently, since the file that is made depends on them. */
static int round__chunks(const round_job *j, size_t n_ids, err_t *e) {
    const int           chunk = j->o.chunk, most = INT_MAX / chunk;
    const uint64_t      kv = model_kv_bytes(&j->m.hp, j->o.kv.type_k, j->o.kv.type_v);
    const uint64_t      each = (fwd_row_bytes(&j->m) + kv + sizeof(fwd_row)) * (uint64_t)chunk;
    const uint64_t      own = ((uint64_t)ROUND_MEMORY << 30) / each, left = pool_memory();
    const round__extent x = round__extent_of(j);
    const uint64_t      fixed = round__room_bytes(&x, j->p->n) + ((uint64_t)ROUND_SPARE << 20);
    int                 n = tok_chunks(n_ids, chunk, chunk, j->o.n_chunks, e);
    if (e->code) return 0;
    n = n < most ? n : most;
    if (j->o.n_chunks < 0 && (uint64_t)n > own) n = own ? (int)own : 1;
    const uint64_t need = fixed + each * (uint64_t)n, fit = left > fixed ? (left - fixed) / each : 0;
    if (need <= left) return n;
    str hint = {0};
    if (fit) str_fmt(&hint, "at most --chunks %llu", GGUF_U(fit));
    else str_put(&hint, "more memory, or shorter ones (-c N)");
    err_set(e, EXIT_RESOURCE, "--calibrate: %d chunks of %d tokens take %.3g GiB, %.3g are free, expected %s", n,
            chunk, (double)need / 0x1p30, (double)left / 0x1p30, hint.p);
    str_drop(&hint);
    return 0;
}

/* The step over all chunks. False: an error in e, or an interrupt. */
static bool round__step(round_job *j, const tok_ids *ids, int32_t bos, int n, err_t *e) {
    const int     chunk = j->o.chunk;
    const size_t  all = ids->n / (size_t)chunk;
    const dev_tap tap = {round__watch, j};
    kv_seq      **seq = mem_new((size_t)n, sizeof *seq);
    fwd_row      *row = mem_new((size_t)n * (size_t)chunk, sizeof *row);
    bool          ok = true;
    for (int c = 0; ok && c < n; c++) {
        const int32_t *from = ids->id + (size_t)c * all / (size_t)n * (size_t)chunk;
        seq[c] = kv_seq_new(j->kv);
        ok = kv_require(seq[c], chunk, e);
        for (int i = 0; i < chunk; i++) row[c * chunk + i] = (fwd_row){i == 0 && bos >= 0 ? bos : from[i], i, seq[c], false};
    }
    j->f->tap = &tap;
    ok = ok && fwd_step(j->f, row, n * chunk) != NULL;
    ok = ok && (gguf_alive(j->g) || err_set(e, EXIT_RESOURCE, "%s: the file became shorter while it was read", j->g->path));
    for (int c = 0; c < n; c++) kv_seq_free(seq[c]);
    mem_free(seq);
    mem_free(row);
    return ok;
}

/* Blocks stay where the step has made all of a tensor; one that it does not read is left to the plain fit. */
static void round__settle(round_job *j) {
    for (uint64_t i = 0; i < j->g->n_tensor; i++) {
        const gguf_tensor *t = &j->g->tensor[i];
        if (j->rows[i] == t->dim[1] * t->dim[2] * t->dim[3]) continue;
        mem_free(j->blocks[i]);
        j->blocks[i] = NULL;
    }
}

/* Weights are blamed before the inputs that they spoil. */
static bool round__sound(const round_job *j, err_t *e) {
    const uint64_t bad = atomic_load(&j->bad), at = bad != UINT64_MAX ? bad : j->lost;
    if (at == UINT64_MAX) return true;
    const gguf_tensor *t = &j->g->tensor[at];
    if (bad != UINT64_MAX)
        return gguf_bad(j->g, t->part, t->at, e, "weights of tensor %.*s are not finite or too large for %s, expected at most %g",
                        GGUF_SHOW(t->name), k_types[j->to[at]].name, (double)k_most(j->to[at]));
    return gguf_bad(j->g, t->part, t->at, e, "over this text the inputs of tensor %.*s hold a NaN or an infinity, expected finite numbers",
                    GGUF_SHOW(t->name));
}

/* Rounds the matrices of g to the types in `to` [n_tensor] by the text `ids`; with a start token (bos >= 0) that stands first
 * in every chunk. NULL: an error in e, or an interrupt. */
static round_job *round_run(const gguf_file *g, const tok_ids *ids, int32_t bos, const uint32_t *to, const round_opts *o, err_t *e) {
    round_job *j = mem_new(1, sizeof *j);
    int        n = 0;
    *j = (round_job){.t0 = clock_now(), .g = g, .o = *o, .to = to, .bad = UINT64_MAX, .lost = UINT64_MAX};
    j->blocks = mem_new(g->n_tensor, sizeof *j->blocks);
    j->rows = mem_new(g->n_tensor, sizeof *j->rows);
    j->by_data = mem_new(g->n_tensor, sizeof *j->by_data);
    for (uint64_t i = 0; i < g->n_tensor; i++) j->by_data[i] = i;
    if (g->n_tensor) qsort_r(j->by_data, g->n_tensor, sizeof *j->by_data, round__by_data, (void *)(uintptr_t)g->tensor);
    j->p = pool_new(o->n_threads > 0 ? o->n_threads : pool_default_threads());
    bool ok = model_open(&j->m, g, &o->rope, e) && (n = round__chunks(j, ids->n, e)) > 0;
    const int64_t blocks = ((int64_t)o->chunk + o->kv.block - 1) / o->kv.block;       /* a sequence takes whole ones */
    ok = ok && (j->kv = kv_new(&j->m.hp, &o->kv, n * blocks * o->kv.block, e)) != NULL;
    if (ok) {
        j->f = fwd_new(&j->m, j->kv, j->p, n * o->chunk, 1);
        round__room(j);
        log_warn("calibrating on %d tokens in %d chunks", n * o->chunk, n);
        ok = round__step(j, ids, bos, n, e) && round__sound(j, e);
        progress_clear();
        round__settle(j);
    }
    if (ok && j->before > 0) log_warn("%.1f %% of the plain error over the text is left, %.1f s", 100 * j->after / j->before, clock_now() - j->t0);
    if (ok) return j;
    round_free(j);
    return NULL;
}

/* The blocks of tensor i, NULL where it was not rounded here. */
static const uint8_t *round_bytes(const round_job *j, uint64_t i) { return j->blocks[i]; }

/* ===== [eval] what a model is worth on a text =====
 * Perplexity, and what quantisation costs: how far a model's distributions are from those another left in a file.
 *   A text is cut into windows of n_ctx tokens. Windows lie end to end, each begins with the start token where the
 * model adds one (it takes the first token's place), and the tokens of the second half are scored, so that each has
 * at least half a window of past. With a stride windows overlap, nothing takes a token's place, and the last
 * `stride` tokens of each are scored. The rows of all windows follow one another and are cut into steps wherever a
 * step is full: what a row gives does not depend on its neighbours, so neither batch size nor threads change a
 * figure.
 *   A base is a GGUF file (general.type "llmrun.logits"): the tokens of the windows as they were run, and for each
 * scored position a record, little-endian: u32 likeliest token; f32 log p of the token that came; f32 log of the
 * mass outside the k likeliest tokens; f32 log p of those k; their ids, u16 or (vocabularies above 65,536) u32,
 * padded to 4 bytes. Where k is the whole vocabulary the log p stand in the order of ids, which are left out. The
 * tail enters a divergence as one outcome, so what k cuts off is the divergence within the tail: the figure is a
 * lower bound, and exact with --kl-top-k 0. f32 values are off by at most 6e-8 of themselves, a floor of about 1e-8
 * under a mean divergence; a model against itself gives 0.
 * Door: eval_opts, eval_plan_text, eval_perplexity, eval_base_open, eval_base_close, eval_plan_base,
 * eval_divergence. */

typedef struct {
    int         n_chunks;                             /* windows at most, -1: all */
    int         stride;                               /* 0: end to end */
    const char *base;                                 /* file that a run leaves its distributions in, NULL: none */
    int         top_k;                                /* tokens of each that it keeps, 0: all */
} eval_opts;

static const eval_opts eval_defaults = {-1, 0, NULL, 256};

enum { EVAL_CTX = 512, EVAL_CTX_MIN = 4 };            /* tokens of a window when nobody says; at least */

typedef struct {                                      /* the windows over a text */
    const int32_t *id;
    int64_t        step;                              /* tokens from one window to the next */
    int            n_ctx, n_chunk;                    /* tokens of a window; windows */
    int            first;                             /* positions first <= p < n_ctx - 1 are scored: each foretells p + 1 */
    int32_t        bos;                               /* what the first token of each window is, -1: what stands there */
} eval_plan;

/* Scored positions of a window. */
static int eval__each(const eval_plan *p) { return p->n_ctx - 1 - p->first; }

static int32_t eval__token(const eval_plan *p, int chunk, int pos) {
    return pos == 0 && p->bos >= 0 ? p->bos : p->id[chunk * p->step + pos];
}

/* Windows of n_ctx tokens over ids. bos: the start token, -1 where the model wants none. */
static bool eval_plan_text(eval_plan *p, const tok_ids *ids, int n_ctx, int32_t bos, const eval_opts *o,
                           err_t *e) {
    *p = (eval_plan){.id = ids->id,
                     .step = o->stride ? o->stride : n_ctx,
                     .n_ctx = n_ctx,
                     .first = o->stride ? n_ctx - 1 - o->stride : n_ctx / 2,
                     .bos = o->stride ? -1 : bos};
    if (n_ctx < EVAL_CTX_MIN)
        return err_set(e, EXIT_INPUT, "windows of %d tokens, expected at least %d (-c N)", n_ctx,
                       EVAL_CTX_MIN);
    if (o->stride >= n_ctx)
        return err_set(e, EXIT_INPUT,
                       "--ppl-stride: %d does not fit a window of %d tokens, expected less (-c N)", o->stride,
                       n_ctx);
    p->n_chunk = tok_chunks(ids->n, n_ctx, (int)p->step, o->n_chunks, e);
    return p->n_chunk > 0;
}

/* --- a record: one distribution, its likeliest tokens and the rest of it --- */

typedef struct {
    int    n_vocab, k, id_bytes;                      /* id_bytes 0: all of the vocabulary, in order */
    size_t bytes;
} eval_form;

enum { EVAL_LOGP = 12, EVAL_VERSION = 1 };            /* where the k values begin in a record */

static eval_form eval__form(int n_vocab, int k) {
    eval_form f = {n_vocab, k < n_vocab ? k : n_vocab, n_vocab > 65536 ? 4 : 2, 0};
    if (f.k == n_vocab) f.id_bytes = 0;
    f.bytes = (EVAL_LOGP + (size_t)f.k * (size_t)(4 + f.id_bytes) + 3) & ~(size_t)3;
    return f;
}

/* A fixed k wins over all values only where it makes a record smaller. */
static eval_form eval__form_for(int n_vocab, int top_k) {
    const eval_form all = eval__form(n_vocab, n_vocab), some = eval__form(n_vocab, top_k);
    return top_k > 0 && some.bytes < all.bytes ? some : all;
}

static int32_t eval__id(const eval_form *f, const uint8_t *rec, int i) {
    const uint8_t *p = rec + EVAL_LOGP + (size_t)f->k * 4 + (size_t)i * (size_t)f->id_bytes;
    uint16_t       u;
    uint32_t       v;
    if (f->id_bytes == 0) return i;
    if (f->id_bytes == 2) return memcpy(&u, p, 2), u;
    memcpy(&v, p, 4);
    return v < INT32_MAX ? (int32_t)v : INT32_MAX;
}

static float eval__f32(const uint8_t *rec, size_t at) {
    float x;
    memcpy(&x, rec + at, sizeof x);
    return x;
}

typedef struct {                                      /* one thread's */
    int32_t *heap;                                    /* [k] */
    uint8_t *mark;                                    /* [V] 1: among the k; zeros between rows */
} eval_scratch;

static double eval__lse(const float *x, int n) {
    const double top = (double)k_max(x, n, NULL);
    double       sum = 0;
    for (int i = 0; i < n; i++) sum += exp((double)x[i] - top);
    return top + log(sum);
}

/* log of the mass of the tokens without a mark, of which there is one at least. */
static float eval__tail(const float *x, int n, const uint8_t *mark, double lse) {
    float  top = -INFINITY;
    double sum = 0;
    for (int i = 0; i < n; i++)
        if (!mark[i] && x[i] > top) top = x[i];
    for (int i = 0; i < n; i++)
        if (!mark[i]) sum += exp((double)x[i] - (double)top);
    const float tail = (float)((double)top - lse + log(sum));
    return tail < 0 ? tail : 0;
}

/* Whether token a comes before b: by falling logit, among equals by number. */
static bool eval__before(const float *x, int32_t a, int32_t b) {
    return x[a] > x[b] || (x[a] == x[b] && a < b);
}

/* Lets heap[i] sink: below every entry stand those that come before it. */
static void eval__sink(const float *x, int32_t *heap, int n, int i) {
    for (int c; (c = 2 * i + 1) < n; i = c) {
        if (c + 1 < n && eval__before(x, heap[c], heap[c + 1])) c++;
        if (!eval__before(x, heap[i], heap[c])) return;
        const int32_t t = heap[i];
        heap[i] = heap[c], heap[c] = t;
    }
}

/* heap[0, k): the k tokens that come before all others, in order. */
static void eval__top(const float *x, int n, int32_t *heap, int k) {
    for (int i = 0; i < k; i++) heap[i] = i;
    for (int i = k / 2; i-- > 0;) eval__sink(x, heap, k, i);
    for (int i = k; i < n; i++)
        if (eval__before(x, i, heap[0])) heap[0] = i, eval__sink(x, heap, k, 0);
    for (int m = k; m-- > 1;) {
        const int32_t last = heap[0];
        heap[0] = heap[m], heap[m] = last;
        eval__sink(x, heap, m, 0);
    }
}

static void eval__pack(const eval_form *f, const float *x, double lse, int32_t next, eval_scratch *s,
                       uint8_t *rec) {
    const float came = (float)((double)x[next] - lse);
    float       tail = -INFINITY;
    int         top = 0;
    k_max(x, f->n_vocab, &top);
    memset(rec, 0, f->bytes);
    if (f->id_bytes) {
        eval__top(x, f->n_vocab, s->heap, f->k);
        for (int i = 0; i < f->k; i++) s->mark[s->heap[i]] = 1;
        tail = eval__tail(x, f->n_vocab, s->mark, lse);
    }
    for (int i = 0; i < f->k; i++) {
        const int32_t  id = f->id_bytes ? s->heap[i] : i;
        const uint16_t narrow = (uint16_t)id;
        const float    logp = (float)((double)x[id] - lse);
        uint8_t       *at = rec + EVAL_LOGP + (size_t)f->k * 4 + (size_t)i * (size_t)f->id_bytes;
        memcpy(rec + EVAL_LOGP + (size_t)i * 4, &logp, 4);
        if (f->id_bytes == 2) memcpy(at, &narrow, 2);
        if (f->id_bytes == 4) memcpy(at, &id, 4);
        if (f->id_bytes) s->mark[id] = 0;
    }
    memcpy(rec, &top, 4);
    memcpy(rec + 4, &came, 4);
    memcpy(rec + 8, &tail, 4);
}

/* What is wrong with a record, NULL: nothing. Afterwards its tokens have marks, up to the fault. */
static const char *eval__check(const eval_form *f, const uint8_t *rec, eval_scratch *s) {
    const float came = eval__f32(rec, 4), tail = eval__f32(rec, 8);
    double      sum = f->id_bytes ? exp((double)tail) : 0;
    uint32_t    top;
    memcpy(&top, rec, 4);
    if (top >= (uint32_t)f->n_vocab) return "a likeliest token outside the vocabulary";
    if (!(came <= 0 && isfinite(came))) return "a log-probability above 0 or without end";
    if (f->id_bytes && !(tail <= 0 && isfinite(tail))) return "a tail of more than all or none";
    for (int i = 0; i < f->k; i++) {
        const float   logp = eval__f32(rec, EVAL_LOGP + (size_t)i * 4);
        const int32_t id = eval__id(f, rec, i);
        if (id >= f->n_vocab) return "a token outside the vocabulary";
        if (s->mark[id]) return "a token twice";
        if (!(logp <= 0 && isfinite(logp))) return "a log-probability above 0 or without end";
        s->mark[id] = 1;
        sum += exp((double)logp);
    }
    return fabs(sum - 1) < 1e-3 ? NULL : "probabilities that do not add up to 1";
}

typedef struct {                                      /* what one row gives */
    double      nll, nll_base;                        /* -log p of the token that came */
    double      kld, dp;                              /* divergence from the base; p of the token that came, less the base's */
    bool        same;                                 /* the likeliest token is the base's */
    const char *wrong;                                /* with the record, NULL: nothing */
} eval_score;

/* A row of logits against a record. Both sides are rounded to f32 in the same way. */
static void eval__compare(const eval_form *f, const float *x, double lse, const uint8_t *rec, eval_scratch *s,
                          eval_score *out) {
    int      top = 0;
    uint32_t top_base;
    out->kld = 0;
    out->wrong = eval__check(f, rec, s);
    for (int i = 0; !out->wrong && i < f->k; i++) {
        const float logp = eval__f32(rec, EVAL_LOGP + (size_t)i * 4);
        const float logq = (float)((double)x[eval__id(f, rec, i)] - lse);
        out->kld += exp((double)logp) * ((double)logp - (double)logq);
    }
    if (!out->wrong && f->id_bytes) {
        const float tail = eval__f32(rec, 8);
        out->kld += exp((double)tail) * ((double)tail - (double)eval__tail(x, f->n_vocab, s->mark, lse));
    }
    memset(s->mark, 0, (size_t)f->n_vocab);
    memcpy(&top_base, rec, 4);
    k_max(x, f->n_vocab, &top);
    out->same = top == (int)top_base;
    out->nll = -(double)(float)-out->nll;
    out->nll_base = -(double)eval__f32(rec, 4);
    out->dp = exp(-out->nll) - exp(-out->nll_base);
}

/* --- a base in a file --- */

typedef struct {
    gguf_file      g;
    eval_form      form;
    int            n_ctx, n_chunk;
    tok_ids        ids;                               /* [n_chunk][n_ctx] */
    const uint8_t *rec;                               /* [n_chunk][n_ctx - 1 - n_ctx / 2][form.bytes] */
    uint64_t       rec_at;                            /* where they begin in the file */
    bytes          name;                              /* of the model that left it */
} eval_base;

static void eval_base_close(eval_base *b) {
    gguf_close(&b->g);
    tok_ids_drop(&b->ids);
}

/* A number that has to be there. */
static bool eval__number(const eval_base *b, const char *key, uint64_t lo, uint64_t hi, int *out, err_t *e) {
    uint64_t  v = 0;
    const int got = gguf_get_u64(&b->g, key, lo, hi, &v, e);
    *out = (int)v;
    return got > 0 ||
           (got == 0 &&
            err_set(e, EXIT_INPUT, "%s: no key %s, expected a file of --kl-divergence-base", b->g.path, key));
}

/* A tensor of that type and row length; its rows in *n_rows. */
static const gguf_tensor *eval__tensor(const eval_base *b, const char *name, uint32_t type, size_t n_row,
                                       uint64_t *n_rows, err_t *e) {
    const gguf_tensor *t = gguf_tensor_find(&b->g, name);
    if (!t)
        err_set(e, EXIT_INPUT, "%s: no tensor %s, expected a file of --kl-divergence-base", b->g.path, name);
    else if (t->type != type || t->dim[0] != n_row || t->n_dims != 2) {
        err_set(e, EXIT_INPUT, "%s: tensor %s has another type or shape, expected rows of %zu %s", b->g.path,
                name, n_row, k_types[type].name);
        t = NULL;
    } else *n_rows = t->dim[1];
    return t;
}

static bool eval__base_tokens(eval_base *b, const gguf_tensor *t, err_t *e) {
    for (uint64_t i = 0; i < t->n_bytes / 4; i++) {
        int32_t id;
        memcpy(&id, t->data + 4 * i, 4);
        if (id < 0 || id >= b->form.n_vocab)
            return err_set(e, EXIT_INPUT, "%s: token %llu is %d, expected 0 to %d", b->g.path,
                           (unsigned long long)i, id, b->form.n_vocab - 1);
        tok_ids_add(&b->ids, id);
    }
    return true;
}

/* All but the records, which are looked at one by one as their turn comes. */
static bool eval__base_read(eval_base *b, err_t *e) {
    uint64_t n_chunk = 0, n_rec = 0;
    int      version, n_vocab, k;
    bytes    type = {0};
    if (gguf_get_str(&b->g, "general.type", &type, e) < 0) return false;
    if (!bytes_is(type, "llmrun.logits"))
        return err_set(e, EXIT_INPUT, "%s: not a file of --kl-divergence-base, expected one", b->g.path);
    if (!eval__number(b, "logits.version", EVAL_VERSION, EVAL_VERSION, &version, e) ||
        !eval__number(b, "logits.vocab_size", 1, INT32_MAX, &n_vocab, e) ||
        !eval__number(b, "logits.top_k", 1, (uint64_t)n_vocab, &k, e) ||
        !eval__number(b, "logits.context_length", EVAL_CTX_MIN, INT32_MAX, &b->n_ctx, e) ||
        gguf_get_str(&b->g, "general.name", &b->name, e) < 0)
        return false;
    b->form = eval__form(n_vocab, k);
    const gguf_tensor *ids = eval__tensor(b, "tokens", K_I32, (size_t)b->n_ctx, &n_chunk, e);
    const gguf_tensor *rec = ids ? eval__tensor(b, "records", K_I8, b->form.bytes, &n_rec, e) : NULL;
    if (!rec) return false;
    const uint64_t each = (uint64_t)(b->n_ctx - 1 - b->n_ctx / 2);
    if (n_chunk > INT32_MAX || n_rec / each != n_chunk || n_rec % each)
        return err_set(e, EXIT_INPUT, "%s: %llu records for %llu windows, expected %llu for each", b->g.path,
                       (unsigned long long)n_rec, (unsigned long long)n_chunk, (unsigned long long)each);
    b->n_chunk = (int)n_chunk;
    b->rec = rec->data;
    b->rec_at = rec->at;
    return eval__base_tokens(b, ids, e);
}

static bool eval_base_open(eval_base *b, const char *path, err_t *e) {
    *b = (eval_base){0};
    if (!gguf_open(&b->g, path, e)) return false;
    if (eval__base_read(b, e)) return true;
    eval_base_close(b);
    return false;
}

/* The windows of a base, as they were run. */
static bool eval_plan_base(eval_plan *p, const eval_base *b, const eval_opts *o, err_t *e) {
    const eval_opts own = {.n_chunks = o->n_chunks};
    return eval_plan_text(p, &b->ids, b->n_ctx, -1, &own, e);
}

/* Header and tokens of a base; records follow. */
static bool eval__base_start(gguf_writer *w, const char *path, const eval_plan *p, const eval_form *f,
                             const gguf_file *from, err_t *e) {
    const uint64_t ids[] = {(uint64_t)p->n_ctx, (uint64_t)p->n_chunk};
    const uint64_t recs[] = {f->bytes, (uint64_t)p->n_chunk * (uint64_t)eval__each(p)};
    bytes          name = {0};
    err_t          none = {0};
    if (!gguf_write_start(w, path, 32, from, e)) return false;
    gguf_get_str(from, "general.name", &name, &none);
    gguf_write_str(w, "general.type", bytes_of("llmrun.logits"));
    gguf_write_str(w, "general.name", name);
    gguf_write_u32(w, "logits.version", EVAL_VERSION);
    gguf_write_u32(w, "logits.vocab_size", (uint32_t)f->n_vocab);
    gguf_write_u32(w, "logits.context_length", (uint32_t)p->n_ctx);
    gguf_write_u32(w, "logits.top_k", (uint32_t)f->k);
    gguf_write_tensor(w, bytes_of("tokens"), K_I32, 2, ids);
    gguf_write_tensor(w, bytes_of("records"), K_I8, 2, recs);
    for (int c = 0; c < p->n_chunk; c++)
        for (int i = 0; i < p->n_ctx; i++) {
            const int32_t id = eval__token(p, c, i);
            if (!gguf_write_data(w, &id, sizeof id, e)) return false;
        }
    return true;
}

/* --- means: Welford's way, which keeps small differences of large numbers --- */

typedef struct {
    int64_t n;
    double  mean, m2;                                 /* m2: sum of squared distances from the mean */
} eval_mean;

static void eval__add(eval_mean *m, double x) {
    const double d = x - m->mean;
    m->mean += d / (double)++m->n;
    m->m2 += d * (x - m->mean);
}

/* The standard error of the mean, 0 where there is too little to say. */
static double eval__error(const eval_mean *m) {
    return m->n > 1 ? sqrt(m->m2 / (double)m->n / (double)(m->n - 1)) : 0;
}

/* --- one run over the windows --- */

typedef struct {
    engine          *eng;
    const eval_plan *plan;
    int32_t         *next;                            /* [max_out] the token that came after each row with logits */
    eval_score      *score;                           /* [max_out] what the threads found */
    const float     *logits;                          /* [n_out, V] of this step */
    int              n_out;
    int64_t          at;                              /* scored positions before this step */
    eval_form        form;                            /* of the records that are written or read */
    eval_scratch    *scratch;                         /* [threads], NULL: no records */
    gguf_writer     *to;                              /* where they go, or NULL */
    uint8_t         *rec;                             /* [max_out][form.bytes] those of this step */
    const eval_base *base;                            /* where they come from, or NULL */
    eval_mean        nll, nll_base, ratio, kld, dp, dp2; /* ratio: nll - nll_base; dp2: dp squared */
    double          *klds, *dps;                      /* [scored], against a base */
    int64_t          n_same;
    double           t0;
    gen_meter        meter;
} eval_run;

/* Each thread takes rows of logits. */
static void eval__rows(void *ctx, int ith) {
    eval_run *r = ctx;
    const int V = r->eng->m.hp.n_vocab;
    for (int i; (i = pool_next(r->eng->p)) < r->n_out;) {
        const float *x = r->logits + (size_t)i * (size_t)V;
        const double lse = eval__lse(x, V);
        r->score[i].nll = lse - (double)x[r->next[i]];
        if (r->to)
            eval__pack(&r->form, x, lse, r->next[i], &r->scratch[ith], r->rec + (size_t)i * r->form.bytes);
        if (r->base)
            eval__compare(&r->form, x, lse, r->base->rec + (size_t)(r->at + i) * r->form.bytes,
                          &r->scratch[ith], &r->score[i]);
    }
}

/* How many rows of a window from `pos` on still fit behind n rows, n_out of them with logits. */
static int eval__fit(const eval_run *r, int pos, int n, int n_out) {
    const eval_plan *p = r->plan;
    const int        room = r->eng->n_batch - n, left = p->n_ctx - 1 - pos;
    const int        quiet =
        p->first > pos ? p->first - pos : 0;          /* of them, those before the first that is scored */
    const int most = room < left ? room : left, loud = r->eng->max_out - n_out;
    return most - quiet > loud ? quiet + loud : most;
}

typedef struct {                                      /* where the rows of the next step begin */
    int      chunk, pos;
    kv_seq  *seq;                                     /* of the window in hand, NULL: not begun */
    kv_seq **done;                                    /* [n_batch + 1] windows that end in this step */
    int      n_done;
} eval_cursor;

/* Fills a step. Returns its rows; 0: the cache has no room for even one window. */
static int eval__gather(eval_run *r, eval_cursor *c) {
    const eval_plan *p = r->plan;
    int              n = 0;
    r->n_out = 0;
    while (c->chunk < p->n_chunk && n < r->eng->n_batch && r->n_out < r->eng->max_out) {
        const int to = c->pos + eval__fit(r, c->pos, n, r->n_out);
        if (!c->seq) c->seq = kv_seq_new(r->eng->kv);
        if (!kv_reserve(c->seq, to)) break;           /* the step before it gives room */
        for (; c->pos < to; c->pos++) {
            const bool ask = c->pos >= p->first;
            r->eng->row[n++] = (fwd_row){eval__token(p, c->chunk, c->pos), c->pos, c->seq, ask};
            if (ask) r->next[r->n_out++] = eval__token(p, c->chunk, c->pos + 1);
        }
        if (c->pos < p->n_ctx - 1) continue;
        c->done[c->n_done++] = c->seq;
        *c = (eval_cursor){c->chunk + 1, 0, NULL, c->done, c->n_done};
    }
    return n;
}

/* An error of a proportion of n, and what the peer calls RMS with its error. */
static double eval__share_error(double p, int64_t n) {
    return n > 1 ? sqrt(p * (1 - p) / (double)(n - 1)) : 0;
}
static double eval__rms(const eval_run *r) { return sqrt(r->dp2.mean); }
static double eval__rms_error(const eval_run *r) {
    return r->dp2.mean > 0 ? 0.5 / eval__rms(r) * eval__error(&r->dp2) : 0;
}

/* Whether the running figures are written: on a terminal a progress line stands in their place, unless -v asks for both. */
static bool eval__tells(void) { return g_log_level >= (progress_on() ? LOG_VERBOSE : LOG_NORMAL); }

/* The running figures after a window, in the form that scripts know. */
static void eval__tell(const eval_run *r) {
    const long long window = (long long)(r->at / eval__each(r->plan));
    const double    ppl = exp(r->nll.mean), same = (double)r->n_same / (double)r->at;
    progress_clear();
    if (!r->base) {
        fprintf(stderr, "[%lld]%.4f,", window, ppl);
        return;
    }
    fprintf(stderr, "%4lld    %9.4f ± %9.4f    %10.5f ± %10.5f", window, ppl, ppl * eval__error(&r->nll),
            r->ratio.mean, eval__error(&r->ratio));
    fprintf(stderr, "    %10.5f ± %10.5f    %6.3f ± %6.3f %%    %6.3f ± %6.3f %%\n", r->kld.mean,
            eval__error(&r->kld), 100 * eval__rms(r), 100 * eval__rms_error(r), 100 * same,
            100 * eval__share_error(same, r->at));
}

static void eval__take_base(eval_run *r, const eval_score *s) {
    eval__add(&r->nll_base, s->nll_base);
    eval__add(&r->ratio, s->nll - s->nll_base);
    eval__add(&r->kld, s->kld);
    eval__add(&r->dp, s->dp);
    eval__add(&r->dp2, s->dp * s->dp);
    r->klds[r->at] = s->kld;
    r->dps[r->at] = s->dp;
    r->n_same += s->same;
}

/* Adds what the threads found, in the order of the text, and tells the running figures after each window. */
static bool eval__take(eval_run *r, err_t *e) {
    const bool tell = eval__tells();
    for (int i = 0; i < r->n_out; i++) {
        const eval_score *s = &r->score[i];
        if (r->base && s->wrong)
            return err_set(e, EXIT_INPUT, "%s: the record at byte %llu holds %s: the file is damaged",
                           r->base->g.path,
                           (unsigned long long)(r->base->rec_at + (uint64_t)r->at * r->form.bytes), s->wrong);
        eval__add(&r->nll, s->nll);
        if (r->base) eval__take_base(r, s);
        if (++r->at % eval__each(r->plan) == 0 && tell) eval__tell(r);
    }
    snprintf(r->meter.more, sizeof r->meter.more, ", perplexity %.4f", exp(r->nll.mean));
    if (tell) fflush(stderr);
    return !r->to || gguf_write_data(r->to, r->rec, (size_t)r->n_out * r->form.bytes, e);
}

/* One step after the other. False: an error in e, or an interrupt. */
static bool eval__steps(eval_run *r, eval_cursor *c, err_t *e) {
    while (c->chunk < r->plan->n_chunk) {
        float    *logits;
        const int n = eval__gather(r, c);
        if (!n)
            return err_set(e, EXIT_RESOURCE,
                           "the KV cache has no room for a window of %d tokens (--kv-mem, --kv-blocks)",
                           r->plan->n_ctx);
        const long long last = c->chunk * r->plan->step + c->pos - 1;
        gen_meter_step(&r->meter, n);
        const bool      ok = gen_step_rows(r->eng, n, r->n_out, last, &logits, e);
        while (c->n_done) kv_seq_free(c->done[--c->n_done]);
        if (!ok) return false;
        if (!r->n_out) continue;
        r->logits = logits;
        pool_run(r->eng->p, eval__rows, r);
        if (r->base && !gguf_alive(&r->base->g))
            return err_set(e, EXIT_RESOURCE, "%s: the file became shorter while it was read",
                           r->base->g.path);
        if (!eval__take(r, e)) return false;
    }
    return true;
}

static void eval__head(const eval_run *r) {
    if (g_log_level < LOG_NORMAL) return;
    fprintf(stderr, "llmrun: %d windows of %d tokens, %d scored in each, up to %d rows a step\n",
            r->plan->n_chunk, r->plan->n_ctx, eval__each(r->plan), r->eng->n_batch);
    if (r->base && eval__tells())
        fprintf(stderr, "chunk             PPL               ln(PPL(Q)/PPL(base))          KL Divergence     "
                        "         Δp RMS            Same top p\n");
}

static void eval__foot(const eval_run *r) {
    const double s = clock_now() - r->t0, n = (double)r->plan->n_chunk * (r->plan->n_ctx - 1);
    if (g_log_level < LOG_NORMAL) return;
    fprintf(stderr, "llmrun: %.0f tokens in %.3f s (%.2f tokens/s), %s kernels, %d thread%s\n", n, s, n / (s + 1e-9),
            k_level_name(), r->eng->p->n, r->eng->p->n > 1 ? "s" : "");
}

/* What records need; form.k of them at a time. */
static void eval__scratch_new(eval_run *r, size_t threads) {
    r->scratch = mem_new(threads, sizeof *r->scratch);
    for (size_t i = 0; i < threads; i++)
        r->scratch[i] =
            (eval_scratch){mem_new((size_t)r->form.k, sizeof(int32_t)), mem_new((size_t)r->form.n_vocab, 1)};
}

static void eval__drop(eval_run *r) {
    for (int i = 0; r->scratch && i < r->eng->p->n; i++) {
        mem_free(r->scratch[i].heap);
        mem_free(r->scratch[i].mark);
    }
    void *own[] = {r->scratch, r->next, r->score, r->rec, r->klds, r->dps};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) mem_free(own[i]);
}

/* Runs the plan; eval__drop() follows. False: an error in e, or an interrupt. */
static bool eval__run(eval_run *r, err_t *e) {
    eval_cursor  c = {.done = mem_new((size_t)r->eng->n_batch + 1, sizeof *c.done)};
    const size_t out = (size_t)r->eng->max_out, all = (size_t)r->plan->n_chunk * (size_t)eval__each(r->plan);
    r->next = mem_new(out, sizeof *r->next);
    r->score = mem_new(out, sizeof *r->score);
    if (r->to || r->base) eval__scratch_new(r, (size_t)r->eng->p->n);
    if (r->to) r->rec = mem_new(out, r->form.bytes);
    if (r->base) r->klds = mem_new(all, sizeof *r->klds), r->dps = mem_new(all, sizeof *r->dps);
    r->t0 = clock_now();
    eval__head(r);
    gen_meter_start(&r->meter, r->eng, "reading the text", (int64_t)r->plan->n_chunk * (r->plan->n_ctx - 1), 0);
    bool ok = eval__steps(r, &c, e);
    gen_meter_stop(&r->meter);
    if (!r->base && r->at >= eval__each(r->plan) && eval__tells()) fprintf(stderr, "\n");   /* behind the figures */
    if (ok) eval__foot(r);
    kv_seq_free(c.seq);
    mem_free(c.done);
    return ok;
}

/* --- perplexity --- */

typedef struct {
    const char *key;
    double      v;
} eval_pair;

static void eval__say_pairs(const eval_pair *p, size_t n, str *s) {
    for (size_t i = 0; i < n; i++)                    /* JSON has no word for a number without end */
        str_fmt(s, isfinite(p[i].v) ? "%s\"%s\": %.9g" : "%s\"%s\": null", i ? ", " : "", p[i].key, p[i].v);
}

static void eval__say_perplexity(const eval_run *r, bool json, str *s) {
    const double    ppl = exp(r->nll.mean), error = eval__error(&r->nll);
    const bool      strided = r->plan->step != r->plan->n_ctx;
    const eval_pair all[] = {
        {"perplexity", ppl},          {"perplexity_error", error * ppl},
        {"nll", r->nll.mean},         {"nll_error", error},
        {"scored", (double)r->nll.n}, {"windows", r->plan->n_chunk},
        {"n_ctx", r->plan->n_ctx},    {"stride", strided ? (double)r->plan->step : 0},
    };
    if (!json) {
        str_fmt(s, "Final estimate: PPL = %.4f +/- %.5f\n", ppl, error * ppl);
        return;
    }
    str_put(s, "{");
    eval__say_pairs(all, sizeof all / sizeof *all, s);
    str_put(s, "}\n");
}

/* Perplexity with its standard error, as a line of text or one JSON object; o->base is left behind. */
static bool eval_perplexity(engine *eng, const eval_plan *plan, const eval_opts *o, bool json, out_t *out,
                            err_t *e) {
    gguf_writer w = {.fd = -1};
    eval_run    r = {.eng = eng, .plan = plan, .to = o->base ? &w : NULL};
    r.form = eval__form_for(eng->m.hp.n_vocab, o->top_k);
    bool ok = (!o->base || eval__base_start(&w, o->base, plan, &r.form, eng->g, e)) && eval__run(&r, e);
    if (o->base && ok) ok = gguf_write_finish(&w, e);
    else if (o->base) gguf_write_drop(&w);
    if (ok) {
        str s = {0};
        eval__say_perplexity(&r, json, &s);
        out_put(out, s.p, s.n);
        str_drop(&s);
    }
    eval__drop(&r);
    return ok;
}

/* --- divergence --- */

static int eval__rising(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Between the two nearest of n rising values, in proportion. */
static double eval__percentile(const double *x, int64_t n, double percent) {
    const double  at = percent / 100 * (double)(n - 1);
    const int64_t i = (int64_t)at, j = i + 1 < n ? i + 1 : i;
    return x[i] + (at - (double)i) * (x[j] - x[i]);
}

typedef struct {
    const char *text, *key;
    double      percent;
} eval_cut;

static const eval_cut eval_cuts[] = {
    {"Maximum", "max", 100}, {"99.9%  ", "p99.9", 99.9}, {"99.0%  ", "p99", 99},    {"95.0%  ", "p95", 95},
    {"90.0%  ", "p90", 90},  {"75.0%  ", "p75", 75},     {"Median ", "median", 50}, {"25.0%  ", "p25", 25},
    {"10.0%  ", "p10", 10},  {" 5.0%  ", "p5", 5},       {" 1.0%  ", "p1", 1},      {" 0.1%  ", "p0.1", 0.1},
    {"Minimum", "min", 0},
};

/* The figures that follow from the sums, named as they are printed. */
typedef struct {
    double ppl, ppl_error, base, base_error, cor, ln, ln_error, ratio, ratio_error;
    double diff, diff_error, same, same_error;
} eval_figures;

static eval_figures eval__figures(const eval_run *r) {
    eval_figures f = {.ppl = exp(r->nll.mean),
                      .base = exp(r->nll_base.mean),
                      .ln = r->ratio.mean,
                      .ln_error = eval__error(&r->ratio)};
    const double a = eval__error(&r->nll), b = eval__error(&r->nll_base);
    const double cov = (a * a + b * b - f.ln_error * f.ln_error) / 2; /* of the two means */
    f.ppl_error = f.ppl * a;
    f.base_error = f.base * b;
    f.cor = a * b > 0 ? cov / (a * b) : 1;
    f.ratio = exp(f.ln);
    f.ratio_error = f.ratio * f.ln_error;
    f.diff = f.ppl - f.base;
    f.diff_error =
        sqrt(fmax(0, f.ppl_error * f.ppl_error + f.base_error * f.base_error - 2 * f.ppl * f.base * cov));
    f.same = (double)r->n_same / (double)r->at;
    f.same_error = eval__share_error(f.same, r->at);
    return f;
}

static void eval__say_text(const eval_run *r, const eval_figures *f, str *s) {
    const size_t n = sizeof eval_cuts / sizeof *eval_cuts;
    str_put(s, "====== Perplexity statistics ======\n");
    str_fmt(s, "Mean PPL(Q)                   : %10.6f ± %10.6f\n", f->ppl, f->ppl_error);
    str_fmt(s, "Mean PPL(base)                : %10.6f ± %10.6f\n", f->base, f->base_error);
    str_fmt(s, "Cor(ln(PPL(Q)), ln(PPL(base))): %6.2f%%\n", 100 * f->cor);
    str_fmt(s, "Mean ln(PPL(Q)/PPL(base))     : %10.6f ± %10.6f\n", f->ln, f->ln_error);
    str_fmt(s, "Mean PPL(Q)/PPL(base)         : %10.6f ± %10.6f\n", f->ratio, f->ratio_error);
    str_fmt(s, "Mean PPL(Q)-PPL(base)         : %10.6f ± %10.6f\n", f->diff, f->diff_error);
    str_put(s, "\n====== KL divergence statistics ======\n");
    str_fmt(s, "Mean    KLD: %10.6f ± %10.6f\n", r->kld.mean, eval__error(&r->kld));
    for (size_t i = 0; i < n; i++)
        if (eval_cuts[i].percent != 75 && eval_cuts[i].percent != 25)
            str_fmt(s, "%s KLD: %10.6f\n", eval_cuts[i].text,
                    eval__percentile(r->klds, r->at, eval_cuts[i].percent));
    str_put(s, "\n====== Token probability statistics ======\n");
    str_fmt(s, "Mean    Δp: %6.3f ± %5.3f %%\n", 100 * r->dp.mean, 100 * eval__error(&r->dp));
    for (size_t i = 0; i < n; i++)
        str_fmt(s, "%s Δp: %6.3f%%\n", eval_cuts[i].text,
                100 * eval__percentile(r->dps, r->at, eval_cuts[i].percent));
    str_fmt(s, "RMS Δp    : %6.3f ± %5.3f %%\n", 100 * eval__rms(r), 100 * eval__rms_error(r));
    str_fmt(s, "Same top p: %6.3f ± %5.3f %%\n", 100 * f->same, 100 * f->same_error);
}

/* A mean with what belongs to it and the percentiles of its n rising values. */
static void eval__say_spread(const char *key, const eval_pair *p, size_t n_p, const double *x, int64_t n,
                             str *s) {
    str_fmt(s, ", \"%s\": {", key);
    eval__say_pairs(p, n_p, s);
    for (size_t i = 0; i < sizeof eval_cuts / sizeof *eval_cuts; i++) {
        const eval_pair cut = {eval_cuts[i].key, eval__percentile(x, n, eval_cuts[i].percent)};
        str_put(s, ", ");
        eval__say_pairs(&cut, 1, s);
    }
    str_put(s, "}");
}

static void eval__say_json(const eval_run *r, const eval_figures *f, str *s) {
    const eval_pair all[] = {
        {"perplexity", f->ppl},
        {"perplexity_error", f->ppl_error},
        {"base_perplexity", f->base},
        {"base_perplexity_error", f->base_error},
        {"correlation", f->cor},
        {"ln_ratio", f->ln},
        {"ln_ratio_error", f->ln_error},
        {"ratio", f->ratio},
        {"ratio_error", f->ratio_error},
        {"difference", f->diff},
        {"difference_error", f->diff_error},
        {"same_top", f->same},
        {"same_top_error", f->same_error},
        {"scored", (double)r->at},
        {"windows", r->plan->n_chunk},
        {"n_ctx", r->plan->n_ctx},
        {"top_k", r->form.k},
    };
    const eval_pair kld[] = {{"mean", r->kld.mean}, {"error", eval__error(&r->kld)}};
    const eval_pair dp[] = {{"mean", r->dp.mean},
                            {"error", eval__error(&r->dp)},
                            {"rms", eval__rms(r)},
                            {"rms_error", eval__rms_error(r)}};
    str_put(s, "{");
    eval__say_pairs(all, sizeof all / sizeof *all, s);
    eval__say_spread("kld", kld, 2, r->klds, r->at, s);
    eval__say_spread("dp", dp, 4, r->dps, r->at, s);
    str_put(s, ", \"base\": ");
    str_json(s, r->base->name);
    str_put(s, "}\n");
}

/* The model against a base, over the windows of eval_plan_base(). */
static bool eval_divergence(engine *eng, const eval_base *b, const eval_plan *plan, bool json, out_t *out,
                            err_t *e) {
    eval_run r = {.eng = eng, .plan = plan, .base = b, .form = b->form};
    bool     ok = b->form.n_vocab == eng->m.hp.n_vocab ||
              err_set(e, EXIT_INPUT, "%s: a vocabulary of %d tokens, expected the model's %d", b->g.path,
                      b->form.n_vocab, eng->m.hp.n_vocab);
    ok = ok && eval__run(&r, e);
    if (ok) {
        const eval_figures f = eval__figures(&r);
        str                s = {0};
        qsort(r.klds, (size_t)r.at, sizeof *r.klds, eval__rising);
        qsort(r.dps, (size_t)r.at, sizeof *r.dps, eval__rising);
        if (json) eval__say_json(&r, &f, &s);
        else eval__say_text(&r, &f, &s);
        out_put(out, s.p, s.n);
        str_drop(&s);
    }
    eval__drop(&r);
    return ok;
}

/* ===== [quant] one model file into another, its weights in other types =====
 * A file type is a base type and a mixture: tensors that matter more, by what they do in the model and by their layer,
 * get more bits than the base, and a few get fewer. Which ones is data: quant_files, quant_kept, quant_roles,
 * quant_rules, quant_fallback. The choices are those of llama.cpp (src/llama-quant.cpp, August 2026), so that a file of
 * some name is what people know by it.
 * Weights pass in pieces of a row, shared out over the pool: memory does not grow with the model unless a guide brings blocks,
 * and neither threads nor pieces change a byte. Metadata and tensors keep their order; a model in parts becomes one file. A weight that is not
 * finite, or too large for the type (k_most), is refused by name. Nothing is left behind unless the whole file is.
 * To add a mixture: a row of quant_files, and rows of quant_rules for the tensors that leave its base.
 * Door: quant_opts, quant_guide, quant_run, quant_list, quant_file_name. */

typedef enum {
    FT_F32, FT_F16, FT_BF16, FT_Q8_0, FT_Q6_K, FT_Q5_K_M, FT_Q5_K_S, FT_Q5_1, FT_Q5_0, FT_Q4_K_M, FT_Q4_K_S, FT_Q4_1,
    FT_Q4_0, FT_IQ4_NL, FT_IQ4_XS, FT_NVFP4, FT_MXFP4, FT_MXFP4_MOE, FT_Q3_K_L, FT_Q3_K_M, FT_Q3_K_S, FT_IQ3_M,
    FT_IQ3_S, FT_IQ3_XS, FT_IQ3_XXS, FT_Q2_K, FT_Q2_K_S, FT_Q2_0, FT_IQ2_M, FT_IQ2_S, FT_IQ2_XS, FT_IQ2_XXS, FT_TQ2_0,
    FT_TQ1_0, FT_IQ1_M, FT_IQ1_S, FT_Q1_0, FT_COPY, N_FT
} quant_ft;

enum {
    QUANT_SAME = 255,                                 /* in place of a type: the one it would have had */
    QUANT_TRIES = 100000,                             /* steps of a pattern on a name: no sane one takes a thousand */
};

static const struct {
    const char *name, *also;                          /* also: a second spelling */
    uint8_t     number, base;                         /* general.file_type; the type of whatever no rule names */
    const char *about;
} quant_files[N_FT] = {
    [FT_F32]       = {"F32",       NULL,   0,  K_F32,     "every matrix in single precision"},
    [FT_F16]       = {"F16",       NULL,   1,  K_F16,     "every matrix in half precision"},
    [FT_BF16]      = {"BF16",      NULL,   32, K_BF16,    "every matrix in bfloat16"},
    [FT_Q8_0]      = {"Q8_0",      NULL,   7,  K_Q8_0,    "all q8_0: hardly to be told from f16"},
    [FT_Q6_K]      = {"Q6_K",      NULL,   18, K_Q6_K,    "all q6_K"},
    [FT_Q5_K_M]    = {"Q5_K_M",    "Q5_K", 17, K_Q5_K,    "q5_K; output and half of attn_v and ffn_down q6_K"},
    [FT_Q5_K_S]    = {"Q5_K_S",    NULL,   16, K_Q5_K,    "q5_K; output q6_K"},
    [FT_Q5_1]      = {"Q5_1",      NULL,   9,  K_Q5_1,    "q5_1; output q6_K"},
    [FT_Q5_0]      = {"Q5_0",      NULL,   8,  K_Q5_0,    "q5_0; output q6_K"},
    [FT_Q4_K_M]    = {"Q4_K_M",    "Q4_K", 15, K_Q4_K,    "q4_K; output and half of attn_v and ffn_down q6_K: the usual choice"},
    [FT_Q4_K_S]    = {"Q4_K_S",    NULL,   14, K_Q4_K,    "q4_K; output q6_K, first attn_v and ffn_down q5_K"},
    [FT_Q4_1]      = {"Q4_1",      NULL,   3,  K_Q4_1,    "q4_1; output q6_K"},
    [FT_Q4_0]      = {"Q4_0",      NULL,   2,  K_Q4_0,    "q4_0; output q6_K"},
    [FT_IQ4_NL]    = {"IQ4_NL",    NULL,   25, K_IQ4_NL,  "iq4_nl, sixteen uneven steps; output q6_K"},
    [FT_IQ4_XS]    = {"IQ4_XS",    NULL,   30, K_IQ4_XS,  "iq4_xs, the same in super-blocks; output q6_K"},
    [FT_NVFP4]     = {"NVFP4",     NULL,   39, K_NVFP4,   "nvfp4; output q6_K"},
    [FT_MXFP4]     = {"MXFP4",     NULL,   38, K_MXFP4,   "mxfp4; embeddings and output q8_0"},
    [FT_MXFP4_MOE] = {"MXFP4_MOE", NULL,   38, K_MXFP4,   "experts mxfp4, everything else q8_0"},
    [FT_Q3_K_L]    = {"Q3_K_L",    NULL,   13, K_Q3_K,    "q3_K; attn_v, attn_output and ffn_down q5_K, output q6_K"},
    [FT_Q3_K_M]    = {"Q3_K_M",    "Q3_K", 12, K_Q3_K,    "q3_K; attn_v, attn_output and ffn_down q4_K, output q6_K"},
    [FT_Q3_K_S]    = {"Q3_K_S",    NULL,   11, K_Q3_K,    "q3_K; output q6_K"},
    [FT_IQ3_M]     = {"IQ3_M",     NULL,   27, K_IQ3_S,   "iq3_s; attn_v, attn_output and first ffn_down q4_K"},
    [FT_IQ3_S]     = {"IQ3_S",     NULL,   26, K_IQ3_S,   "iq3_s; output q6_K"},
    [FT_IQ3_XS]    = {"IQ3_XS",    NULL,   22, K_IQ3_S,   "iq3_s; attn_q, attn_k and middle feed-forward iq3_xxs"},
    [FT_IQ3_XXS]   = {"IQ3_XXS",   NULL,   23, K_IQ3_XXS, "iq3_xxs; attn_q and attn_k iq2_s, attn_output iq3_s"},
    [FT_Q2_K]      = {"Q2_K",      NULL,   10, K_Q2_K,    "q2_K; attn_v, attn_output and ffn_down q3_K, output q6_K"},
    [FT_Q2_K_S]    = {"Q2_K_S",    NULL,   21, K_Q2_K,    "q2_K; first ffn_down q4_K, output q6_K"},
    [FT_Q2_0]      = {"Q2_0",      NULL,   41, K_Q2_0,    "q2_0; embeddings q4_K, output q6_K"},
    [FT_IQ2_M]     = {"IQ2_M",     NULL,   29, K_IQ2_S,   "iq2_s; attn_v, attn_output and embeddings iq3_s, output q5_K"},
    [FT_IQ2_S]     = {"IQ2_S",     NULL,   28, K_IQ2_XS,  "iq2_xs; attn_v, attn_output and embeddings iq3_s, output q5_K"},
    [FT_IQ2_XS]    = {"IQ2_XS",    NULL,   20, K_IQ2_XS,  "iq2_xs; attn_v and embeddings q2_K, output q5_K"},
    [FT_IQ2_XXS]   = {"IQ2_XXS",   NULL,   19, K_IQ2_XXS, "iq2_xxs; attn_v and embeddings q2_K, output q5_K"},
    [FT_TQ2_0]     = {"TQ2_0",     NULL,   37, K_TQ2_0,   "tq2_0, for models trained with three values; embeddings q4_K"},
    [FT_TQ1_0]     = {"TQ1_0",     NULL,   36, K_TQ1_0,   "tq1_0, the same in fewer bytes; embeddings q4_K"},
    [FT_IQ1_M]     = {"IQ1_M",     NULL,   31, K_IQ1_M,   "iq1_m; attn_v and embeddings q2_K, output q5_K"},
    [FT_IQ1_S]     = {"IQ1_S",     NULL,   24, K_IQ1_S,   "iq1_s; attn_v and embeddings q2_K, output q5_K"},
    [FT_Q1_0]      = {"Q1_0",      NULL,   40, K_Q1_0,    "q1_0, for models trained with two values; output q6_K"},
    [FT_COPY]      = {"COPY",      NULL,   0,  QUANT_SAME, "every tensor as it is; parts become one file"},
};

/* --- what stays as it is, and what a tensor does, by its name --- */

/* A matrix is converted when its name ends in "weight" and holds none of these: norms and routers, which are small and
 * decide much, and small matrices of other kinds. "=" in front: the whole name. */
static const char *const quant_kept[] = {
    "_norm.weight", "ffn_gate_inp.weight", "ffn_gate_tid2eid.weight",              /* norms, routers              */
    "altup", "laurel", "per_layer_model_proj",                                      /* Gemma 3n                    */
    "=position_embd.weight", "=token_types.weight", "attn_rel_b.weight",            /* positions of BERT, T5       */
    "ssm_conv1d", "shortconv.conv.weight",                                          /* short convolutions          */
    "indexer.k_proj.weight", "indexer.q_proj.weight",                               /* sparse attention            */
    "time_mix_first.weight", "time_mix_w0.weight", "time_mix_w1.weight", "time_mix_w2.weight", "time_mix_v0.weight",
    "time_mix_v1.weight", "time_mix_v2.weight", "time_mix_a0.weight", "time_mix_a1.weight", "time_mix_a2.weight",
    "time_mix_g1.weight", "time_mix_g2.weight", "time_mix_decay_w1.weight", "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight",                                                   /* RWKV                        */
    ".position_embd", "sam.pos_embd", "sam.neck.", "sam.net_", ".rel_pos", ".patch_embd", ".patch_merger",
    "a.rvq.codebook", "mm.a.code_embd",                                             /* images and sound            */
};

enum {
    R_OUT = 1, R_EMBD = 2, R_Q = 4, R_K = 8, R_V = 16, R_O = 32, R_UP = 64, R_GATE = 128, R_DOWN = 256, R_OTHER = 512,
    R_ANY = 1023
};

/* First match wins. The fused and the low-rank ones count as attn_v: what that needs, they need. */
static const struct {
    const char *part;                                 /* of the name; "=" in front: the whole of it */
    uint16_t    role;
} quant_roles[] = {
    {"=output.weight", R_OUT},     {"=token_embd.weight", R_EMBD}, {"=per_layer_token_embd.weight", R_EMBD},
    {"attn_qkv.weight", R_V},      {"attn_kv_b.weight", R_V},      {"attn_v.weight", R_V},
    {"attn_k.weight", R_K},        {"attn_q.weight", R_Q},         {"attn_output.weight", R_O},
    {"ffn_up", R_UP},              {"ffn_gate", R_GATE},           {"ffn_down", R_DOWN},
};

/* --- who gets what --- */

enum {                                                /* all that a row names must hold */
    W_GQA4 = 1,                                       /* four query heads or more share a key head */
    W_WIDE = 2,                                       /* that, or four experts or more */
    W_EXP8 = 4,                                       /* eight experts, as Mixtral has */
    W_8TH = 8, W_16TH = 16,                           /* among the first eighth or sixteenth of the layers */
    W_MORE = 32,                                      /* first or last eighth, and every third layer between */
    W_MIDDLE = 64,                                    /* neither the first nor the last eighth */
    W_TWO = 128, W_FOUR = 256,                        /* among the first 2 or 4 of its role */
    W_GUIDED = 512, W_BLIND = 1024,                   /* with, without an importance matrix */
    W_FALCON = 2048, W_OTHERS = 4096,                 /* Falcon, every other architecture */
    W_EXPERTS = 8192,                                 /* a stack of matrices */
    W_UNEVEN = 16384,                                 /* its rows are not whole blocks of the base type */
};

#define FT(x) (1ull << FT_##x)
#define FT_ANY    (~0ull)
#define FT_LOW_S  (FT(IQ2_S) | FT(IQ2_M))
#define FT_LOW_X  (FT(IQ2_XXS) | FT(IQ2_XS) | FT(IQ1_S) | FT(IQ1_M))
#define FT_LOW    (FT_LOW_S | FT_LOW_X)
#define FT_LIFT_O (FT(Q2_K) | FT(IQ3_XS) | FT(IQ3_XXS) | FT(Q3_K_S) | FT(Q3_K_M) | FT(IQ4_NL) | FT(Q4_K_S) | FT(Q4_K_M) | \
                   FT(IQ3_S) | FT(IQ3_M) | FT(IQ4_XS))

static const struct {
    uint64_t file;
    uint16_t role, when;
    uint8_t  type;
} quant_rules[] = {
    /* file types                          tensors        when                 type */
    /* the output matrix, or the embeddings where they serve as one */
    {FT(MXFP4) | FT(MXFP4_MOE),            R_OUT,         0,                   K_Q8_0},
    {FT_ANY,                               R_OUT,         W_FALCON,            K_Q8_0},
    {FT_ANY,                               R_OUT,         W_UNEVEN,            K_Q8_0},
    {FT_LOW | FT(IQ3_XXS),                 R_OUT,         0,                   K_Q5_K},
    {FT(Q8_0),                             R_OUT,         0,                   K_Q8_0},
    {FT_ANY,                               R_OUT,         0,                   K_Q6_K},
    {FT(MXFP4_MOE),                        R_ANY,         W_EXPERTS,           K_MXFP4},
    {FT(MXFP4_MOE),                        R_ANY,         0,                   K_Q8_0},
    /* embeddings beside an output matrix */
    {FT_LOW_X,                             R_EMBD,        0,                   K_Q2_K},
    {FT_LOW_S | FT(IQ3_XXS),               R_EMBD,        0,                   K_IQ3_S},
    {FT(TQ1_0) | FT(TQ2_0) | FT(Q2_0),     R_EMBD,        0,                   K_Q4_K},
    {FT(MXFP4),                            R_EMBD,        0,                   K_Q8_0},
    /* below three bits a weight */
    {FT_LOW,                               R_V,           W_WIDE,              K_Q4_K},
    {FT_LOW_S,                             R_V,           0,                   K_IQ3_S},
    {FT_LOW_X,                             R_V,           0,                   K_Q2_K},
    {FT_LOW,                               R_K,           W_EXP8,              K_Q4_K},
    {FT_LOW_S,                             R_DOWN,        W_8TH,               K_IQ3_S},
    {FT_LOW_X,                             R_DOWN,        W_8TH,               K_Q2_K},
    {FT_LOW,                               R_O,           W_EXP8,              K_Q5_K},
    {FT(IQ1_S) | FT(IQ1_M),                R_O,           0,                   K_IQ2_XXS},
    {FT_LOW_S,                             R_O,           0,                   K_IQ3_S},
    {FT_LOW,                               R_ANY,         0,                   QUANT_SAME},
    /* values, small and most sensitive */
    {FT_ANY,                               R_V,           W_EXP8,              K_Q8_0},
    {FT(Q2_K) | FT(Q2_K_S) | FT(IQ3_XXS) | FT(IQ3_XS) | FT(IQ3_S), R_V, W_GQA4, K_Q4_K},
    {FT(Q2_K),                             R_V,           0,                   K_Q3_K},
    {FT(IQ3_XXS),                          R_V,           W_BLIND,             K_IQ3_S},
    {FT(Q3_K_M),                           R_V,           W_TWO,               K_Q5_K},
    {FT(Q3_K_M) | FT(IQ3_M),               R_V,           0,                   K_Q4_K},
    {FT(Q3_K_L),                           R_V,           0,                   K_Q5_K},
    {FT(IQ4_NL) | FT(IQ4_XS),              R_V,           W_GQA4,              K_Q5_K},
    {FT(Q4_K_M) | FT(Q5_K_M),              R_V,           W_MORE,              K_Q6_K},
    {FT(Q4_K_S),                           R_V,           W_FOUR,              K_Q5_K},
    /* keys, queries */
    {FT_ANY,                               R_K,           W_EXP8,              K_Q8_0},
    {FT(IQ3_XS),                           R_K | R_Q,     0,                   K_IQ3_XXS},
    {FT(IQ3_XXS),                          R_K | R_Q,     0,                   K_IQ2_S},
    /* ffn_down, which sees the widest range of inputs */
    {FT(Q2_K),                             R_DOWN,        0,                   K_Q3_K},
    {FT(Q2_K_S),                           R_DOWN,        W_8TH,               K_Q4_K},
    {FT(IQ3_XXS),                          R_DOWN,        W_BLIND | W_8TH,     K_Q4_K},
    {FT(IQ3_XXS),                          R_DOWN,        W_BLIND,             K_Q3_K},
    {FT(Q3_K_M),                           R_DOWN,        W_16TH,              K_Q5_K},
    {FT(Q3_K_M),                           R_DOWN,        W_OTHERS,            K_Q4_K},
    {FT(Q3_K_M),                           R_DOWN,        W_MORE,              K_Q4_K},
    {FT(IQ3_M),                            R_DOWN,        W_8TH,               K_Q4_K},
    {FT(IQ3_M),                            R_DOWN,        W_EXP8 | W_MORE,     K_Q4_K},
    {FT(Q3_K_L),                           R_DOWN,        W_FALCON,            K_Q4_K},
    {FT(Q3_K_L),                           R_DOWN,        0,                   K_Q5_K},
    {FT(Q4_K_M),                           R_DOWN,        W_FALCON | W_16TH,   K_Q6_K},
    {FT(Q4_K_M),                           R_DOWN,        W_FALCON | W_MORE,   K_Q5_K},
    {FT(Q4_K_M),                           R_DOWN,        W_OTHERS | W_MORE,   K_Q6_K},
    {FT(IQ4_NL) | FT(IQ4_XS),              R_DOWN,        W_BLIND | W_8TH,     K_Q5_K},
    {FT(Q5_K_M),                           R_DOWN,        W_MORE,              K_Q6_K},
    {FT(Q4_K_S),                           R_DOWN,        W_OTHERS | W_8TH,    K_Q5_K},
    {FT(Q4_0),                             R_DOWN,        W_GUIDED | W_8TH,    K_Q4_1},
    {FT(Q5_0),                             R_DOWN,        W_GUIDED | W_8TH,    K_Q5_1},
    /* attn_output */
    {FT(Q3_K_L),                           R_O,           W_FALCON,            K_Q4_K},
    {FT_ANY,                               R_O,           W_FALCON,            QUANT_SAME},
    {FT_LIFT_O,                            R_O,           W_EXP8,              K_Q5_K},
    {FT_ANY,                               R_O,           W_EXP8,              QUANT_SAME},
    {FT(Q2_K),                             R_O,           0,                   K_Q3_K},
    {FT(IQ3_XXS),                          R_O,           0,                   K_IQ3_S},
    {FT(Q3_K_M) | FT(IQ3_M),               R_O,           0,                   K_Q4_K},
    {FT(Q3_K_L),                           R_O,           0,                   K_Q5_K},
    {FT(IQ3_XS),                           R_GATE | R_UP, W_MIDDLE,            K_IQ3_XXS},
};

/* Types of larger blocks, and what takes their place where a row does not fill them. What is not here becomes f16. */
static const uint8_t quant_fallback[K_TYPE_MAX] = {
    [K_Q2_K] = K_Q4_0, [K_Q3_K] = K_Q4_0, [K_Q4_K] = K_Q5_0, [K_Q5_K] = K_Q5_1, [K_Q6_K] = K_Q8_0,
    [K_TQ1_0] = K_Q4_0, [K_TQ2_0] = K_Q4_0, [K_Q2_0] = K_Q4_0, [K_Q1_0] = K_Q4_0, [K_NVFP4] = K_Q4_0,
    [K_IQ1_S] = K_IQ4_NL, [K_IQ1_M] = K_IQ4_NL, [K_IQ2_XXS] = K_IQ4_NL, [K_IQ2_XS] = K_IQ4_NL, [K_IQ2_S] = K_IQ4_NL,
    [K_IQ3_XXS] = K_IQ4_NL, [K_IQ3_S] = K_IQ4_NL, [K_IQ4_XS] = K_IQ4_NL,
};

/* Models of 70 billion weights whose values are few beside their queries: those get five bits at least. */
static const struct {
    const char *arch;
    int         layers;
    bool        grouped;                              /* only when key heads are shared */
} quant_70b[] = {{"llama", 80, true}, {"qwen2", 80, false}, {"deci", 80, false}, {"olmo", 80, false}, {"jais2", 68, false}};

/* --- options --- */

/* What is known of a matrix beyond its weights. */
typedef struct {
    void *ctx;
    /* Importance of each input channel, [dim[0]], of matrix `matrix` of the tensor (an expert; 0 where there is one);
     * NULL: not known. */
    const float *(*weights)(void *ctx, const gguf_tensor *t, uint64_t matrix);
    /* Called once when the type `to` of each tensor is known, before a byte is written; may be NULL. False ends the run. */
    bool (*prepare)(void *ctx, const uint32_t *to, err_t *e);
    /* Tensor i in its new type, ready; NULL: made here from its weights. May be NULL. */
    const uint8_t *(*bytes)(void *ctx, uint64_t i);
} quant_guide;

typedef struct {
    const char  *output_type, *embd_type;             /* names, NULL: by the rules */
    const char **tensor_type;                         /* PATTERN=TYPE, the first that matches */
    int          n_tensor_type, n_threads;            /* 0 threads: what the process may use */
    bool         requantize, pure, leave_output, dry_run;
    const quant_guide *guide;                         /* NULL: every channel counts alike */
    struct {                                          /* told in the file, when `file` is set */
        const char *file;
        bytes       dataset;
        uint32_t    entries, chunks;
    } imatrix;
} quant_opts;

typedef struct {
    pcre2_code *code;
    uint32_t    type;
} quant__pattern;

/* One tensor's way. */
typedef struct {
    const gguf_tensor *t;
    uint32_t           to;
    uint16_t           role;
    bool               fell;                          /* rows do not fill the type it should have had */
    uint64_t           n_bytes;
} quant__step;

typedef struct {
    const gguf_file  *g;
    const quant_opts *o;
    quant_ft          ft;
    int               output_type, embd_type;         /* -1: by the rules */
    quant__pattern   *pattern;
    int               n_pattern;
    pcre2_match_data *match;
    pcre2_match_context *limits;
    quant__step      *step;                           /* [n_tensor], in the order of the file */
    bool              falcon, big, tied;
    int               gqa, n_expert, n_layer, n_v;    /* n_v: tensors that count as attn_v */
    int               i_v, i_down, i_gate, i_up;      /* how many were met */
    uint64_t          from_bytes, to_bytes, weights;
    int               n_fell, n_blind;                /* n_blind: want an importance matrix and have none */
} quant__plan;

/* --- names --- */

/* The row of quant_files, -1 when there is none of that name in either case. */
static int quant__find(const char *name) {
    for (int i = 0; i < N_FT; i++)
        if (!strcasecmp(quant_files[i].name, name) || (quant_files[i].also && !strcasecmp(quant_files[i].also, name))) return i;
    return -1;
}

/* Whether blocks of this type can be made. */
static bool quant__can(uint32_t type) { return k_type_weight(type) && (k_fitters[type].fit || k_types[type].quant); }

/* What files of this general.file_type are called, NULL: nobody knows. */
static const char *quant_file_name(uint64_t number) {
    for (int i = 0; i < FT_COPY; i++)
        if (quant_files[i].number == number) return quant_files[i].name;
    return NULL;
}

static void quant_list(str *out) {
    for (int i = 0; i < N_FT; i++) {
        uint8_t     base = quant_files[i].base;
        const char *also = quant_files[i].also;
        char        bits[16] = "-";
        if (base != QUANT_SAME) snprintf(bits, sizeof bits, "%.4g", 8.0 * k_types[base].bytes / k_types[base].block);
        str_fmt(out, "%-10s %7s  %s%s%s%s\n", quant_files[i].name, bits, quant_files[i].about, also ? " (also " : "",
                also ? also : "", also ? ")" : "");
    }
}

static bool quant__type(const char *option, const char *name, int *out, err_t *e) {
    *out = name ? k_type_by_name(name) : -1;
    if (!name || (*out >= 0 && k_type_weight((uint32_t)*out))) return true;
    return err_set(e, EXIT_INPUT, "%s: unknown type '%.60s', expected one for weights (--list types)", option, name);
}

static bool quant__has(bytes name, const char *part) {
    size_t n = strlen(part);
    if (*part == '=') return bytes_is(name, part + 1);
    return name.n >= n && memmem(name.p, name.n, part, n);
}

static uint16_t quant__role(bytes name) {
    for (size_t i = 0; i < sizeof quant_roles / sizeof *quant_roles; i++)
        if (quant__has(name, quant_roles[i].part)) return quant_roles[i].role;
    return R_OTHER;
}

/* The N of blk.N.; -1 when the name does not begin so. */
static int quant__layer(bytes name) {
    int n = 0;
    if (name.n < 5 || memcmp(name.p, "blk.", 4) || !isdigit(name.p[4])) return -1;
    for (size_t i = 4; i < name.n && isdigit(name.p[i]) && n < 100000000; i++) n = n * 10 + (name.p[i] - '0');
    return n;
}

static bool quant__matrix(const gguf_tensor *t) { return t->dim[1] > 1 || t->dim[2] > 1 || t->dim[3] > 1; }

/* Whether the tensor may change its type at all. */
static bool quant__allowed(const quant__plan *p, const gguf_tensor *t) {
    if (!quant__matrix(t) || !k_type_weight(t->type)) return false;
    if (t->name.n < 6 || memcmp(t->name.p + t->name.n - 6, "weight", 6)) return false;
    if (p->o->leave_output && bytes_is(t->name, "output.weight")) return false;
    for (size_t i = 0; i < sizeof quant_kept / sizeof *quant_kept; i++)
        if (quant__has(t->name, quant_kept[i])) return false;
    return true;
}

/* --- patterns --- */

static void quant__patterns_drop(quant__plan *p) {
    for (int i = 0; i < p->n_pattern; i++) pcre2_code_free(p->pattern[i].code);
    pcre2_match_data_free(p->match);
    pcre2_match_context_free(p->limits);
    mem_free(p->pattern);
}

/* PATTERN=TYPE; the type follows the last '='. */
static bool quant__pattern_read(quant__plan *p, const char *text, err_t *e) {
    const char *eq = strrchr(text, '=');
    int         type, rc;
    PCRE2_SIZE  at;
    if (!eq || eq == text) return err_set(e, EXIT_INPUT, "--tensor-type: expected PATTERN=TYPE, found '%.100s'", text);
    if (!quant__type("--tensor-type", eq + 1, &type, e)) return false;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)text, (size_t)(eq - text), PCRE2_CASELESS, &rc, &at, NULL);
    if (!code) {
        char why[128] = "";
        pcre2_get_error_message(rc, (PCRE2_UCHAR *)why, sizeof why);
        return err_set(e, EXIT_INPUT, "--tensor-type: %s at byte %zu of '%.100s'", why, (size_t)at, text);
    }
    p->pattern[p->n_pattern++] = (quant__pattern){code, (uint32_t)type};
    return true;
}

static bool quant__patterns(quant__plan *p, err_t *e) {
    if (!p->o->n_tensor_type) return true;
    p->pattern = mem_new((size_t)p->o->n_tensor_type, sizeof *p->pattern);
    p->match = pcre2_match_data_create(1, NULL);
    p->limits = pcre2_match_context_create(NULL);
    if (!p->match || !p->limits) die(EXIT_RESOURCE, "out of memory for regular expressions");
    pcre2_set_match_limit(p->limits, QUANT_TRIES);
    for (int i = 0; i < p->o->n_tensor_type; i++)
        if (!quant__pattern_read(p, p->o->tensor_type[i], e)) return false;
    return true;
}

/* The type that a person asked for, -1 when no pattern is found in the name. */
static int quant__asked(const quant__plan *p, bytes name, err_t *e) {
    int found = -1;
    for (int i = 0; i < p->n_pattern && found < 0 && !e->code; i++) {
        int rc = pcre2_match(p->pattern[i].code, name.p, name.n, 0, 0, p->match, p->limits);
        if (rc >= 0) found = (int)p->pattern[i].type;
        else if (rc != PCRE2_ERROR_NOMATCH)
            err_set(e, EXIT_INPUT, "--tensor-type %.100s: too much to try on %.*s", p->o->tensor_type[i], GGUF_SHOW(name));
    }
    return found;
}

/* --- the choice --- */

/* A number of the architecture, the first of an array where it differs by layer. */
static int quant__number(const gguf_file *g, bytes arch, const char *what, int absent) {
    char     key[160];
    uint64_t v = 0;
    err_t    none = {0};
    snprintf(key, sizeof key, "%.*s.%s", (int)(arch.n < 64 ? arch.n : 64), (const char *)arch.p, what);
    const gguf_kv *kv = gguf_find(g, key);
    if (!kv) return absent;
    if (kv->type == GGUF_ARR) return gguf_arr_u64(kv, 0, &v) && v <= INT32_MAX ? (int)v : absent;
    return gguf_get_u64(g, key, 0, INT32_MAX, &v, &none) == 1 ? (int)v : absent;
}

static void quant__facts(quant__plan *p) {
    const gguf_file *g = p->g;
    bytes            arch = bytes_of("");
    err_t            none = {0};
    gguf_get_str(g, "general.architecture", &arch, &none);
    int head = quant__number(g, arch, "attention.head_count", 0), kv = quant__number(g, arch, "attention.head_count_kv", head);
    p->gqa = kv > 0 ? head / kv : 0;
    p->n_expert = quant__number(g, arch, "expert_count", 0);
    p->n_layer = quant__number(g, arch, "block_count", 0);
    p->falcon = bytes_is(arch, "falcon");
    p->tied = !gguf_tensor_find(g, "output.weight");
    for (size_t i = 0; i < sizeof quant_70b / sizeof *quant_70b; i++)
        if (bytes_is(arch, quant_70b[i].arch) && p->n_layer == quant_70b[i].layers && (!quant_70b[i].grouped || head != kv))
            p->big = true;
    for (uint64_t i = 0; i < g->n_tensor; i++) p->n_v += quant__role(g->tensor[i].name) == R_V;
}

/* Where layer i of n stands. */
static unsigned quant__place(int i, int n) {
    unsigned w = 0;
    int      eighth = n / 8, last = (int)(7ll * n / 8);
    if (i < eighth) w |= W_8TH;
    if (i < n / 16) w |= W_16TH;
    if (i < eighth || i >= last || (i - eighth) % 3 == 2) w |= W_MORE;
    if (i >= eighth && i < last) w |= W_MIDDLE;
    if (i < 2) w |= W_TWO;
    if (i < 4) w |= W_FOUR;
    return w;
}

/* All that holds of a tensor. Layers are counted by the tensors of a role as they come; where there are experts, who may
 * come in any order and number, by name. Below three bits they are counted all the same. */
static unsigned quant__when(quant__plan *p, const quant__step *s, uint16_t role) {
    const bool      low = FT_LOW >> p->ft & 1;
    const uint8_t   base = quant_files[p->ft].base;
    int            *count = role == R_V ? &p->i_v : role == R_DOWN ? &p->i_down : role == R_GATE ? &p->i_gate : &p->i_up;
    const bool      placed = role & (R_V | R_DOWN | R_GATE | R_UP);
    int             i = placed ? (*count)++ : 0, layer = quant__layer(s->t->name);
    if (role != R_V && p->n_expert > 1 && !low && layer >= 0) i = layer;
    unsigned w = placed ? quant__place(i, role == R_V ? p->n_v : p->n_layer) : 0;
    if (p->gqa >= 4) w |= W_GQA4;
    if (p->gqa >= 4 || p->n_expert >= 4) w |= W_WIDE;
    if (p->n_expert == 8) w |= W_EXP8;
    if (s->t->dim[2] > 1) w |= W_EXPERTS;
    if (s->t->dim[0] % k_types[base].block) w |= W_UNEVEN;
    return w | (p->o->guide ? W_GUIDED : W_BLIND) | (p->falcon ? W_FALCON : W_OTHERS);
}

static uint32_t quant__by_rule(quant__plan *p, const quant__step *s) {
    const uint32_t base = quant_files[p->ft].base;
    const uint16_t role = p->tied && s->role == R_EMBD ? R_OUT : s->role;
    if (role == R_OUT && p->output_type >= 0) return (uint32_t)p->output_type;
    unsigned when = quant__when(p, s, role);
    uint32_t type = base;
    for (size_t i = 0; i < sizeof quant_rules / sizeof *quant_rules; i++) {
        if (!(quant_rules[i].file >> p->ft & 1) || !(quant_rules[i].role & role)) continue;
        if ((quant_rules[i].when & when) != quant_rules[i].when) continue;
        if (quant_rules[i].type != QUANT_SAME) type = quant_rules[i].type;
        break;
    }
    bool lift = p->big && role == R_V && !(FT_LOW >> p->ft & 1) && (type == K_Q3_K || type == K_Q4_K);
    return lift ? K_Q5_K : type;
}

/* The type for rows of this length. */
static uint32_t quant__fitting(quant__step *s, uint32_t type) {
    uint64_t n = s->t->dim[0];
    if (n % k_types[type].block == 0) return type;
    s->fell = true;
    uint32_t next = quant_fallback[type];
    return next && n % k_types[next].block == 0 ? next : K_F16;
}

static bool quant__choose(quant__plan *p, quant__step *s, err_t *e) {
    const uint8_t base = quant_files[p->ft].base;
    s->to = s->t->type;
    if (!quant__allowed(p, s->t)) return true;
    int asked = s->role == R_EMBD ? p->embd_type : s->role == R_OUT ? p->output_type : -1;
    if (asked < 0) asked = quant__asked(p, s->t->name, e);
    bool mix = !p->o->pure && base != QUANT_SAME && k_types[base].kind != K_KIND_FLOAT;
    if (asked >= 0) s->to = (uint32_t)asked;
    else if (mix) s->to = quant__by_rule(p, s);
    else if (base != QUANT_SAME) s->to = base;
    if (s->to != s->t->type) s->to = quant__fitting(s, s->to);
    return !e->code;
}

/* Whether the type is known to need an importance matrix here. */
static bool quant__wants_guide(const quant__plan *p, const quant__step *s) {
    if (s->role & (R_OUT | R_EMBD)) return false;
    switch (s->to) {
    case K_IQ1_S: case K_IQ1_M: case K_IQ2_XXS: case K_IQ2_XS: case K_IQ2_S: case K_IQ3_XXS: return true;
    case K_Q2_K: return p->ft == FT_Q2_K_S;
    default: return false;
    }
}

/* By layer, then by name: the order in which layers are counted. */
static int quant__order(const void *a, const void *b) {
    bytes  x = (*(quant__step *const *)a)->t->name, y = (*(quant__step *const *)b)->t->name;
    int    i = quant__layer(x), j = quant__layer(y), c = memcmp(x.p, y.p, x.n < y.n ? x.n : y.n);
    return i != j ? (i < j ? -1 : 1) : c ? c : (x.n > y.n) - (x.n < y.n);
}

/* What a step needs to be possible. */
static bool quant__possible(const quant__plan *p, const quant__step *s, err_t *e) {
    const gguf_tensor *t = s->t;
    const k_type      *from = &k_types[t->type], *to = &k_types[s->to];
    if (from->kind != K_KIND_FLOAT && !p->o->requantize)
        return gguf_bad(p->g, t->part, t->at, e, "tensor %.*s is %s already, expected a float type "
                        "(--allow-requantize converts it to %s all the same)", GGUF_SHOW(t->name), from->name, to->name);
    if (quant__can(s->to)) return true;
    return gguf_bad(p->g, t->part, t->at, e, "tensor %.*s would become %s, which cannot be written", GGUF_SHOW(t->name),
                    to->name);
}

static bool quant__steps(quant__plan *p, err_t *e) {
    const uint64_t n = p->g->n_tensor;
    quant__step  **order = mem_new(n, sizeof *order);
    p->step = mem_new(n, sizeof *p->step);
    for (uint64_t i = 0; i < n; i++) {
        p->step[i] = (quant__step){.t = &p->g->tensor[i], .role = quant__role(p->g->tensor[i].name)};
        order[i] = &p->step[i];
    }
    qsort(order, n, sizeof *order, quant__order);
    bool ok = true;
    for (uint64_t i = 0; ok && i < n; i++) ok = quant__choose(p, order[i], e);
    mem_free(order);
    for (uint64_t i = 0; ok && i < n; i++) {
        quant__step       *s = &p->step[i];
        const gguf_tensor *t = s->t;
        uint64_t           rows = t->dim[1] * t->dim[2] * t->dim[3];
        s->n_bytes = rows * k_row_bytes(s->to, (int64_t)t->dim[0]);
        p->weights += rows * t->dim[0];
        p->from_bytes += t->n_bytes;
        p->to_bytes += s->n_bytes;
        p->n_fell += s->fell;
        p->n_blind += s->to != t->type && !p->o->guide && quant__wants_guide(p, s);
        if (s->to != t->type && !p->o->dry_run) ok = quant__possible(p, s, e);
    }
    return ok;
}

static void quant__plan_drop(quant__plan *p) {
    quant__patterns_drop(p);
    mem_free(p->step);
}

static bool quant__plan_make(quant__plan *p, const gguf_file *g, const char *type, const quant_opts *o, err_t *e) {
    *p = (quant__plan){.g = g, .o = o};
    int ft = quant__find(type);
    if (ft < 0) return err_set(e, EXIT_INPUT, "--quantize: unknown type '%.60s' (--list quants)", type);
    p->ft = (quant_ft)ft;
    if (!quant__type("--output-tensor-type", o->output_type, &p->output_type, e) ||
        !quant__type("--token-embedding-type", o->embd_type, &p->embd_type, e) || !quant__patterns(p, e))
        return false;
    quant__facts(p);
    return quant__steps(p, e);
}

/* --- the weights --- */

enum {
    QUANT_PIECE = 16384,                              /* weights at a time: whole blocks of every type */
    QUANT_SLICE = 1 << 22                             /* weights between two writes */
};

/* One tensor on its way: pieces [begin, end) of it are being made. Piece j is part j % per_row of row j / per_row. */
typedef struct {
    const quant__plan *p;
    const quant__step *s;
    pool              *pool;
    float            **buf;                           /* [threads][2 * QUANT_PIECE]: weights, importances */
    uint8_t           *out;                           /* bytes of the slice */
    uint64_t           per_row, begin, end, task;     /* task: pieces that a thread takes at a time */
    float              most;                          /* the largest magnitude that the type holds */
    _Atomic uint64_t   bad;                           /* the first piece with a weight beyond, UINT64_MAX: none */
} quant__job;

static uint64_t quant__offset(const quant__job *j, uint32_t type, uint64_t piece) {
    uint64_t row = piece / j->per_row, col = piece % j->per_row * QUANT_PIECE;
    return row * k_row_bytes(type, (int64_t)j->s->t->dim[0]) + col / k_types[type].block * k_types[type].bytes;
}

/* Where the first weight is that is not within `most`, n when there is none. */
static uint64_t quant__beyond(const float *x, uint64_t n, float most) {
    int bad = 0;
    for (uint64_t i = 0; i < n; i++) bad |= !(fabsf(x[i]) <= most);
    if (!bad) return n;
    uint64_t i = 0;
    while (fabsf(x[i]) <= most) i++;
    return i;
}

static uint64_t quant__piece_weights(const quant__job *j, uint64_t piece) {
    uint64_t left = j->s->t->dim[0] - piece % j->per_row * QUANT_PIECE;
    return left < QUANT_PIECE ? left : QUANT_PIECE;
}

/* Below four bits a weight's own size adds to its importance: what is large carries more of the output than the mean square
 * of its channel tells, and the divergence of whole models falls by a tenth (tests/bench/NOTES.md). From four bits up it does not. */
static const float *quant__emphasis(uint32_t type, const float *x, const float *w, float *out, uint64_t n) {
    if (k_types[type].bytes * 8 >= k_types[type].block * 4) return w;
    for (uint64_t from = 0; from < n; from += K_SUPER) {
        const uint64_t to = n - from < K_SUPER ? n : from + K_SUPER;
        double         square = 0;
        for (uint64_t i = from; i < to; i++) square += (double)x[i] * x[i];
        const double mean = square / (double)(to - from);
        for (uint64_t i = from; i < to; i++) {
            const double v = sqrt(mean + (double)x[i] * x[i]) * (w ? w[i] : 1);
            out[i] = v < FLT_MAX ? (float)v : FLT_MAX;
        }
    }
    return out;
}

/* n weights, whole blocks, of importance w (NULL: all alike); room: [n], scratch. */
static void quant__fit(uint32_t type, const float *x, const float *w, float *room, void *dst, uint64_t n) {
    if (k_fitters[type].fit) k_fitters[type].fit(x, quant__emphasis(type, x, w, room, n), dst, (int64_t)n);
    else k_types[type].quant(x, dst, (int64_t)n);
}

static void quant__piece(quant__job *j, uint64_t piece, float *x) {
    const gguf_tensor *t = j->s->t;
    const quant_guide *guide = j->p->o->guide;
    uint64_t           n = quant__piece_weights(j, piece), row = piece / j->per_row;
    k_types[t->type].dequant(t->data + quant__offset(j, t->type, piece), x, (int64_t)n);
    if (quant__beyond(x, n, j->most) < n) {
        uint64_t first = atomic_load(&j->bad);
        while (piece < first && !atomic_compare_exchange_weak(&j->bad, &first, piece)) {}
        return;
    }
    const float *w = guide ? guide->weights(guide->ctx, t, row / t->dim[1]) : NULL;
    if (w) w += piece % j->per_row * QUANT_PIECE;
    uint8_t *dst = j->out + quant__offset(j, j->s->to, piece) - quant__offset(j, j->s->to, j->begin);
    quant__fit(j->s->to, x, w, x + QUANT_PIECE, dst, n);
}

static void quant__work(void *ctx, int ith) {
    quant__job *j = ctx;
    for (;;) {
        uint64_t from = j->begin + (uint64_t)pool_next(j->pool) * j->task;
        if (from >= j->end || g_interrupt) return;
        for (uint64_t i = from; i < from + j->task && i < j->end; i++) quant__piece(j, i, j->buf[ith]);
    }
}

static bool quant__refuse(const quant__job *j, uint64_t piece, err_t *e) {
    const gguf_tensor *t = j->s->t;
    float             *x = j->buf[0];
    uint64_t           n = quant__piece_weights(j, piece), at = quant__offset(j, t->type, piece);
    k_types[t->type].dequant(t->data + at, x, (int64_t)n);
    double bad = (double)x[quant__beyond(x, n, j->most)];
    return gguf_bad(j->p->g, t->part, t->at + at, e, "tensor %.*s holds %g in row %llu, expected weights of at most %g",
                    GGUF_SHOW(t->name), bad, GGUF_U(piece / j->per_row), (double)j->most);
}

/* Part of a tensor has served. */
static void quant__forget(const quant__plan *p, const gguf_tensor *t, uint64_t from, uint64_t to) {
    gguf_forget(p->g, t->data + from, to - from);
}

/* After each slice: goes on, or false, with words in e where it was not an interrupt. */
static bool quant__whole(const quant__plan *p, err_t *e) {
    if (g_interrupt) return false;
    return gguf_alive(p->g) || err_set(e, EXIT_RESOURCE, "%s: the file became shorter while it was read", p->g->path);
}

static bool quant__convert(quant__job *j, gguf_writer *w, err_t *e) {
    const gguf_tensor *t = j->s->t;
    uint64_t           n = t->dim[0] < QUANT_PIECE ? t->dim[0] : QUANT_PIECE, slice = QUANT_SLICE / n;
    j->per_row = (t->dim[0] + QUANT_PIECE - 1) / QUANT_PIECE;
    j->task = n < QUANT_PIECE ? QUANT_PIECE / n : 1;
    j->most = k_most(j->s->to);
    atomic_store(&j->bad, UINT64_MAX);
    const uint64_t all = t->dim[1] * t->dim[2] * t->dim[3] * j->per_row;
    for (j->begin = 0; j->begin < all; j->begin = j->end) {
        j->end = all - j->begin < slice ? all : j->begin + slice;
        pool_run(j->pool, quant__work, j);
        if (!quant__whole(j->p, e)) return false;
        uint64_t bad = atomic_load(&j->bad);
        if (bad != UINT64_MAX) return quant__refuse(j, bad, e);
        uint64_t from = quant__offset(j, j->s->to, j->begin), to = quant__offset(j, j->s->to, j->end);
        if (!gguf_write_data(w, j->out, (size_t)(to - from), e)) return false;
        quant__forget(j->p, t, quant__offset(j, t->type, j->begin), quant__offset(j, t->type, j->end));
    }
    return true;
}

/* Bytes that the guide has for tensor i, NULL: it has none. */
static const uint8_t *quant__ready(const quant__plan *p, uint64_t i) {
    const quant_guide *guide = p->o->guide;
    return guide && guide->bytes ? guide->bytes(guide->ctx, i) : NULL;
}

static bool quant__prepare(const quant__plan *p, err_t *e) {
    const quant_guide *guide = p->o->guide;
    if (!guide || !guide->prepare) return true;
    uint32_t *to = mem_new(p->g->n_tensor, sizeof *to);
    for (uint64_t i = 0; i < p->g->n_tensor; i++) to[i] = p->step[i].to;
    bool ok = guide->prepare(guide->ctx, to, e);
    mem_free(to);
    return ok;
}

static bool quant__carry(const quant__plan *p, const gguf_tensor *t, gguf_writer *w, err_t *e) {
    enum { STEP = 16 << 20 };
    for (uint64_t at = 0, some; at < t->n_bytes; at += some) {
        some = t->n_bytes - at < STEP ? t->n_bytes - at : STEP;
        if (!gguf_write_data(w, t->data + at, (size_t)some, e) || !quant__whole(p, e)) return false;
        quant__forget(p, t, at, at + some);
    }
    return true;
}

static void quant__progress(const quant__plan *p, double since, uint64_t done, const quant__step *s) {
    const double all = (double)p->from_bytes + 1;
    if (!progress_due()) return;
    progress_show("quantising: %.0f %%%s, %.*s -> %s", 100 * (double)done / all, progress_left(since, (double)done, all).p,
                  (int)s->t->name.n, (const char *)s->t->name.p, k_types[s->to].name);
}

static bool quant__data(const quant__plan *p, gguf_writer *w, err_t *e) {
    pool      *team = pool_new(p->o->n_threads > 0 ? p->o->n_threads : pool_default_threads());
    quant__job job = {.p = p, .pool = team, .out = mem_aligned(QUANT_SLICE, sizeof(float))};
    const double t0 = clock_now();
    job.buf = mem_new((size_t)team->n, sizeof *job.buf);
    for (int i = 0; i < team->n; i++) job.buf[i] = mem_aligned(2 * QUANT_PIECE, sizeof **job.buf);
    uint64_t done = 0;
    bool     ok = true;
    for (uint64_t i = 0; ok && i < p->g->n_tensor; i++) {
        job.s = &p->step[i];
        quant__progress(p, t0, done, job.s);
        log_info("%.*s: %s -> %s", GGUF_SHOW(job.s->t->name), k_types[job.s->t->type].name, k_types[job.s->to].name);
        const uint8_t *ready = quant__ready(p, i);
        if (ready) ok = gguf_write_data(w, ready, (size_t)job.s->n_bytes, e) && quant__whole(p, e);
        else ok = job.s->to == job.s->t->type ? quant__carry(p, job.s->t, w, e) : quant__convert(&job, w, e);
        done += job.s->t->n_bytes;
    }
    progress_clear();
    for (int i = 0; i < team->n; i++) mem_free(job.buf[i]);
    mem_free(job.buf);
    mem_free(job.out);
    pool_free(team);
    return ok;
}

/* --- the file --- */

static const char quant__file_type[] = "general.file_type", quant__version[] = "general.quantization_version";

/* Whether a pair of the source is left out or told anew. */
static bool quant__renewed(const quant__plan *p, bytes key) {
    if (p->g->n_parts > 1 && key.n > 6 && !memcmp(key.p, "split.", 6)) return true;
    return p->o->imatrix.file && key.n > 17 && !memcmp(key.p, "quantize.imatrix.", 17);
}

static void quant__metadata(const quant__plan *p, gguf_writer *w) {
    const gguf_file *g = p->g;
    const bool       named = p->ft != FT_COPY;
    for (uint64_t i = 0; i < g->n_kv; i++) {
        const gguf_kv *kv = &g->kv[i];
        if (named && bytes_is(kv->key, quant__file_type)) gguf_write_u32(w, quant__file_type, quant_files[p->ft].number);
        else if (named && bytes_is(kv->key, quant__version)) gguf_write_u32(w, quant__version, 2);
        else if (!quant__renewed(p, kv->key)) gguf_write_kv(w, g, kv);
    }
    if (named && !gguf_find(g, quant__version)) gguf_write_u32(w, quant__version, 2);
    if (named && !gguf_find(g, quant__file_type)) gguf_write_u32(w, quant__file_type, quant_files[p->ft].number);
    if (!p->o->imatrix.file) return;
    gguf_write_str(w, "quantize.imatrix.file", bytes_of(p->o->imatrix.file));
    if (p->o->imatrix.dataset.n) gguf_write_str(w, "quantize.imatrix.dataset", p->o->imatrix.dataset);
    gguf_write_u32(w, "quantize.imatrix.entries_count", p->o->imatrix.entries);
    if (p->o->imatrix.chunks) gguf_write_u32(w, "quantize.imatrix.chunks_count", p->o->imatrix.chunks);
}

static bool quant__write(const quant__plan *p, const char *path, err_t *e) {
    gguf_writer w;
    if (!gguf_write_start(&w, path, p->g->align, p->g, e)) return false;
    w.tight = p->g->part[p->g->n_parts - 1].n % p->g->align != 0;      /* some programs fill up the end, some do not */
    bool ok = quant__prepare(p, e);                   /* may take hours: a name that cannot be written is told before */
    quant__metadata(p, &w);
    for (uint64_t i = 0; i < p->g->n_tensor; i++) {
        const gguf_tensor *t = p->step[i].t;
        gguf_write_tensor(&w, t->name, p->step[i].to, t->n_dims, t->dim);
    }
    ok = ok && quant__data(p, &w, e);
    if (ok) return gguf_write_finish(&w, e);
    gguf_write_drop(&w);
    return false;
}

/* --- what is said --- */

static double quant__mib(uint64_t n) { return (double)n / (1 << 20); }
static double quant__bpw(const quant__plan *p, uint64_t n) { return 8.0 * (double)n / (double)(p->weights + !p->weights); }

static void quant__totals(const quant__plan *p, str *s) {
    str_fmt(s, "%.2f MiB (%.2f bits a weight) -> %.2f MiB (%.2f)", quant__mib(p->from_bytes), quant__bpw(p, p->from_bytes),
            quant__mib(p->to_bytes), quant__bpw(p, p->to_bytes));
}

/* The plan as a table. Names are made harmless: they come from the file. */
static void quant__table(const quant__plan *p, out_t *out) {
    str    s = {0};
    size_t wide = 4;
    for (uint64_t i = 0; i < p->g->n_tensor; i++) wide = p->step[i].t->name.n > wide ? p->step[i].t->name.n : wide;
    str_fmt(&s, "%-*s  %-22s %-8s %-8s %10s %10s\n", (int)wide, "name", "shape", "from", "to", "MiB", "MiB");
    for (uint64_t i = 0; i < p->g->n_tensor; i++) {
        const quant__step *q = &p->step[i];
        char               name[GGUF_NAME_MAX + 1], shape[96] = "";
        snprintf(name, sizeof name, "%.*s", (int)q->t->name.n, (const char *)q->t->name.p);
        log_tame(name, strlen(name));
        for (uint32_t d = 0, n = 0; d < q->t->n_dims; d++)
            n += (uint32_t)snprintf(shape + n, sizeof shape - n, "%s%llu", d ? " x " : "", GGUF_U(q->t->dim[d]));
        str_fmt(&s, "%-*s  %-22s %-8s %-8s %10.2f %10.2f%s\n", (int)wide, name, shape, k_types[q->t->type].name,
                k_types[q->to].name, quant__mib(q->t->n_bytes), quant__mib(q->n_bytes), q->fell ? "  fallback" : "");
        out_put(out, s.p, s.n);
        str_clear(&s);
    }
    str_fmt(&s, "%llu tensors, %llu weights: ", GGUF_U(p->g->n_tensor), GGUF_U(p->weights));
    quant__totals(p, &s);
    str_put(&s, "\n");
    out_put(out, s.p, s.n);
    str_drop(&s);
}

static void quant__warn(const quant__plan *p) {
    const char *name = quant_files[p->ft].name;
    if (p->n_fell)
        log_warn("%s: %d of %llu tensors have rows that do not fill the blocks of their type and get another one", name,
                 p->n_fell, GGUF_U(p->g->n_tensor));
    if (p->n_blind)
        log_warn("%s: %d tensors get a type that loses much without an importance matrix (--imatrix)", name, p->n_blind);
}

/* Writes g as a file of the type named to `path`, or, o->dry_run, what would become of each tensor to `out`. False with
 * code 0 in e: interrupted, nothing is left. */
static bool quant_run(const gguf_file *g, const char *type, const char *path, const quant_opts *o, out_t *out, err_t *e) {
    quant__plan p;
    double      t0 = clock_now();
    bool        ok = quant__plan_make(&p, g, type, o, e);
    if (ok) quant__warn(&p);
    if (ok && o->dry_run) quant__table(&p, out);
    else if (ok) ok = quant__write(&p, path, e);
    if (ok && !o->dry_run) {
        str s = {0};
        quant__totals(&p, &s);
        log_warn("%s: %s in %.1f s", path, s.p, clock_now() - t0);
        str_drop(&s);
    }
    quant__plan_drop(&p);
    return ok;
}

/* ===== [inspect] what is in a model file =====
 * Checks a file as a run would (container, vocabulary, architecture, the shape of every tensor) and prints it: for
 * people in aligned columns, for programs as one JSON object. Nothing is computed.
 * Strings of the file come from strangers: what could steer a terminal is printed as \xNN.
 * JSON keys: file, version, parts, bytes, alignment, architecture, name, parameters, hyperparameters (keys as in the
 * metadata, without the architecture's name), vocabulary {model, pre, tokens, bos, eos, add_bos, add_eos} or null,
 * types [{type, tensors, weights, bytes}], memory {mapping, kv_per_1000_tokens_f16 or null}, metadata [{key, type,
 * value}, arrays also with of and count, value holding their first INSPECT_JSON elements, and cut, true, where there are more],
 * metadata_by_key {key: value, of a cut array {of, count, first}}, tensors [{name, type,
 * shape, bytes, offset, part}], runs, vocabulary_only, problem (text or null). Keys are only ever added.
 * Door: inspect_print. */

enum { INSPECT_ARRAY = 6, INSPECT_JSON = 16, INSPECT_TEXT = 72 };   /* elements shown of an array; bytes of a string */

typedef struct {
    const gguf_file *g;
    tok_vocab       *vocab;                           /* NULL when the file holds none that works */
    arch_hparams     hp;
    bool             hp_ok, vocab_only;
    bytes            arch;                            /* general.architecture, "" when it is not there */
    err_t            problem;                         /* why the file cannot run, code 0: it can */
} inspect_file;

/* --- values --- */

/* The fewest digits that read back as the same float. */
static void inspect__float(str *s, double x, bool single, bool json) {
    char buf[40];
    if (json && !isfinite(x)) {
        str_put(s, "null");
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(buf, sizeof buf, "%.*g", digits, x);
        if (single ? strtof(buf, NULL) == (float)x : strtod(buf, NULL) == x) break;
    }
    str_put(s, buf);
}

/* One number or bool of the file. */
static void inspect__number(str *s, uint32_t type, const uint8_t *p, bool json) {
    union {
        uint8_t  u8;
        int8_t   i8;
        uint16_t u16;
        int16_t  i16;
        uint32_t u32;
        int32_t  i32;
        float    f32;
        uint64_t u64;
        int64_t  i64;
        double   f64;
    } v;
    static const uint8_t size[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    memcpy(&v, p, size[type]);
    switch (type) {
    case GGUF_U8: str_fmt(s, "%u", v.u8); break;
    case GGUF_I8: str_fmt(s, "%d", v.i8); break;
    case GGUF_U16: str_fmt(s, "%u", v.u16); break;
    case GGUF_I16: str_fmt(s, "%d", v.i16); break;
    case GGUF_U32: str_fmt(s, "%u", v.u32); break;
    case GGUF_I32: str_fmt(s, "%d", v.i32); break;
    case GGUF_U64: str_fmt(s, "%llu", GGUF_U(v.u64)); break;
    case GGUF_I64: str_fmt(s, "%lld", (long long)v.i64); break;
    case GGUF_BOOL: str_put(s, v.u8 ? "true" : "false"); break;
    case GGUF_F32: inspect__float(s, (double)v.f32, true, json); break;
    case GGUF_F64: inspect__float(s, v.f64, false, json); break;
    default: break;
    }
}

/* At most `max` bytes for a terminal: controls (C1 too) and what is not UTF-8 as \n and \xNN, all else as it is. False: there are more. */
static bool inspect__plain(str *s, bytes b, size_t max) {
    size_t i = 0;
    while (i < b.n && i < max) {
        int  len = utf8_len(b.p + i, b.n - i);
        bool plain = len && b.p[i] >= 0x20 && b.p[i] != 0x7f && !(b.p[i] == 0xc2 && b.p[i + 1] < 0xa0);
        if (plain) str_add(s, b.p + i, (size_t)len);
        else if (b.p[i] == '\n') str_put(s, "\\n");
        else
            for (int k = 0; k < (len ? len : 1); k++) str_fmt(s, "\\x%02x", b.p[i + (size_t)k]);
        i += len ? (size_t)len : 1;
    }
    return i >= b.n;
}

static void inspect__text(str *s, bytes b, size_t max) {
    if (!inspect__plain(s, b, max)) str_put(s, "...");
}

static void inspect__string(str *s, bytes b, bool json) {
    if (json) {
        str_json(s, b);
        return;
    }
    str_put(s, "\"");
    const bool whole = inspect__plain(s, b, INSPECT_TEXT);
    str_put(s, "\"");
    if (!whole) str_fmt(s, "... (%zu bytes)", b.n);
}

/* The first elements of an array, separated by commas. */
static void inspect__elements(str *s, const gguf_file *g, const gguf_kv *kv, uint64_t max, bool json) {
    gguf_strs it = gguf_strs_of(g, kv);
    uint64_t  n = kv->count < max ? kv->count : max;
    for (uint64_t i = 0; i < n; i++) {
        bytes one;
        if (i) str_put(s, ", ");
        if (kv->elem != GGUF_STR) inspect__number(s, kv->elem, kv->data + i * (kv->n_bytes / kv->count), json);
        else if (gguf_strs_next(&it, &one)) inspect__string(s, one, json);
    }
}

static void inspect__value(str *s, const gguf_file *g, const gguf_kv *kv, bool json) {
    if (kv->type == GGUF_STR) inspect__string(s, (bytes){kv->data, (size_t)kv->count}, json);
    else if (kv->type != GGUF_ARR) inspect__number(s, kv->type, kv->data, json);
    else {
        str_put(s, "[");
        inspect__elements(s, g, kv, json ? INSPECT_JSON : INSPECT_ARRAY, json);
        if (!json && kv->count > INSPECT_ARRAY) str_fmt(s, ", ... %llu more", GGUF_U(kv->count - INSPECT_ARRAY));
        str_put(s, "]");
    }
}

/* 1.25 MiB */
static void inspect__size(str *s, double n) {
    static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    int u = 0;
    while (n >= 1024 && u < 6) n /= 1024, u++;
    str_fmt(s, u && n < 100 ? "%.2f %s" : "%.0f %s", n, unit[u]);
}

/* 1.10 G */
static void inspect__count(str *s, uint64_t n) {
    static const char unit[] = " kMGTPE";
    double x = (double)n;
    int    u = 0;
    while (x >= 1000 && u < 6) x /= 1000, u++;
    if (u) str_fmt(s, "%.*f %c", x < 10 ? 2 : x < 100 ? 1 : 0, x, unit[u]);
    else str_fmt(s, "%llu", GGUF_U(n));
}

static uint64_t inspect__weights(const gguf_tensor *t) { return t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3]; }

static void inspect__flush(str *s, out_t *out) {
    out_put(out, s->p, s->n);
    str_clear(s);
}

/* --- checks --- */

/* Everything a run would refuse, in the order a run would meet it. A vocabulary alone is a whole file of its kind. */
static void inspect__check(inspect_file *f, const char *pre) {
    err_t tok = {0}, arch = {0}, none = {0};
    if (gguf_get_str(f->g, "general.architecture", &f->arch, &none) != 1) f->arch = bytes_of("");
    f->vocab = tok_load(f->g, pre, &tok);
    f->hp_ok = arch_load(&f->hp, f->g, &arch);
    f->vocab_only = !f->g->n_tensor && f->vocab;
    if (f->vocab_only) return;
    if (!f->hp_ok) f->problem = arch;
    else if (model_check(f->g, &f->problem) && !f->vocab) f->problem = tok;
}

/* --- what is told of the architecture: keys behind its name, shown where they are --- */

static const struct {
    const char *key, *label;
} inspect_hparams[] = {
    {"context_length", "context"},
    {"block_count", "layers"},
    {"embedding_length", "width"},
    {"feed_forward_length", "feed-forward"},
    {"attention.head_count", "heads"},
    {"attention.head_count_kv", "key/value heads"},
    {"attention.key_length", "key length"},
    {"attention.value_length", "value length"},
    {"attention.sliding_window", "window"},
    {"attention.layer_norm_rms_epsilon", "norm epsilon"},
    {"expert_count", "experts"},
    {"expert_used_count", "experts in use"},
    {"expert_feed_forward_length", "expert width"},
    {"expert_shared_feed_forward_length", "shared expert"},
    {"rope.dimension_count", "rope dimensions"},
    {"rope.freq_base", "rope base"},
    {"rope.scaling.type", "rope scaling"},
    {"rope.scaling.factor", "rope factor"},
    {"rope.scale_linear", "rope factor"},
    {"rope.scaling.original_context_length", "trained context"},
};
enum { N_INSPECT_HPARAMS = sizeof inspect_hparams / sizeof *inspect_hparams };

static const gguf_kv *inspect__hparam(const inspect_file *f, int i) {
    char key[160];
    if (!f->arch.n || f->arch.n > 60) return NULL;
    snprintf(key, sizeof key, "%.*s.%s", (int)f->arch.n, (const char *)f->arch.p, inspect_hparams[i].key);
    return gguf_find(f->g, key);
}

typedef struct {
    uint64_t tensors, weights, bytes;
} inspect_sum;

/* Per type, and over all. sum: [K_TYPE_MAX] */
static inspect_sum inspect__types(const gguf_file *g, inspect_sum *sum) {
    inspect_sum all = {0};
    for (uint64_t i = 0; i < g->n_tensor; i++) {
        const gguf_tensor *t = &g->tensor[i];
        inspect_sum       *to[2] = {&sum[t->type], &all};
        for (int k = 0; k < 2; k++) {
            to[k]->tensors++;
            to[k]->weights += inspect__weights(t);
            to[k]->bytes += t->n_bytes;
        }
    }
    return all;
}

/* Bytes of K and V for 1000 tokens at f16; 0 when the architecture is not known. */
static uint64_t inspect__kv_bytes(const inspect_file *f) { return f->hp_ok ? 1000 * model_kv_bytes(&f->hp, K_F16, K_F16) : 0; }

/* --- for people --- */

static void inspect__row(str *s, const char *label) { str_fmt(s, "%-16s ", label); }

static void inspect__print_vocab(str *s, const inspect_file *f) {
    const tok_vocab *v = f->vocab;
    if (!v) return;
    inspect__row(s, "vocabulary");
    str_fmt(s, "%d tokens, model %s", tok_count(v), tok_model_name(v));
    if (tok_pre_name(v) && *tok_pre_name(v)) str_fmt(s, ", pre-tokenizer %s", tok_pre_name(v));
    str_put(s, "\n");
    const struct { const char *name; int32_t id; } special[] = {{"start token", tok_bos(v)}, {"end token", tok_eos(v)}};
    for (int i = 0; i < 2; i++) {
        if (special[i].id < 0) continue;
        inspect__row(s, special[i].name);
        str_fmt(s, "%d ", special[i].id);
        inspect__string(s, tok_text(v, special[i].id), false);
        str_fmt(s, "%s\n", (i ? tok_add_eos(v) : tok_add_bos(v)) ? ", added to a prompt" : "");
    }
}

static void inspect__print_types(str *s, const inspect_sum *sum, const inspect_sum *all) {
    for (int i = 0; i < K_TYPE_MAX; i++) {
        if (!sum[i].tensors) continue;
        inspect__row(s, "type");
        str_fmt(s, "%-8s %5llu tensors  ", k_types[i].name, GGUF_U(sum[i].tensors));
        size_t at = s->n;
        inspect__count(s, sum[i].weights);
        str_fmt(s, " weights%*s", (int)(18 - (s->n - at + 8)), "");
        at = s->n;
        inspect__size(s, (double)sum[i].bytes);
        str_fmt(s, "%*s %5.1f %%\n", (int)(12 - (s->n - at)), "", 100.0 * (double)sum[i].bytes / (double)all->bytes);
    }
}

static void inspect__print_head(str *s, const inspect_file *f) {
    const gguf_file *g = f->g;
    inspect_sum      sum[K_TYPE_MAX] = {{0}}, all = inspect__types(g, sum);
    const gguf_kv   *name = gguf_find(g, "general.name");
    inspect__row(s, "file");
    inspect__text(s, bytes_of(g->path), 400);
    str_fmt(s, "\n%-16s GGUF version %u, ", "format", g->version);
    inspect__size(s, (double)g->n_bytes);
    if (g->n_parts > 1) str_fmt(s, " in %d parts", g->n_parts);
    str_fmt(s, "\n%-16s ", "architecture");
    inspect__text(s, f->arch.n ? f->arch : bytes_of("(not named)"), INSPECT_TEXT);
    str_put(s, "\n");
    if (name && name->type == GGUF_STR) {
        inspect__row(s, "name");
        inspect__text(s, (bytes){name->data, (size_t)name->count}, INSPECT_TEXT);
        str_put(s, "\n");
    }
    inspect__row(s, "parameters");
    inspect__count(s, all.weights);
    str_fmt(s, " (%llu)\n", GGUF_U(all.weights));
    inspect__print_types(s, sum, &all);
    for (int i = 0; i < N_INSPECT_HPARAMS; i++) {
        const gguf_kv *kv = inspect__hparam(f, i);
        if (!kv) continue;
        inspect__row(s, inspect_hparams[i].label);
        inspect__value(s, g, kv, false);
        str_put(s, "\n");
    }
    if (f->hp_ok) str_fmt(s, "%-16s key %d, value %d\n", "head size", f->hp.hd_k, f->hp.hd_v);
    inspect__print_vocab(s, f);
    str_fmt(s, "%-16s mapping ", "memory");
    inspect__size(s, (double)g->n_bytes);
    if (f->hp_ok) {
        str_put(s, "; KV cache ");
        inspect__size(s, (double)inspect__kv_bytes(f));
        str_put(s, " per 1000 tokens at f16");
    }
    str_put(s, "\n");
}

static void inspect__print_metadata(str *s, const gguf_file *g, out_t *out) {
    str_fmt(s, "\nmetadata: %llu keys\n", GGUF_U(g->n_kv));
    for (uint64_t i = 0; i < g->n_kv; i++) {
        const gguf_kv *kv = &g->kv[i];
        char           type[48];
        if (kv->type == GGUF_ARR) snprintf(type, sizeof type, "%s x %llu", gguf_type_name(kv->elem), GGUF_U(kv->count));
        else snprintf(type, sizeof type, "%s", gguf_type_name(kv->type));
        size_t at = s->n;
        str_put(s, "  ");
        inspect__text(s, kv->key, 80);
        str_fmt(s, "%*s  %-16s ", (int)(s->n - at < 44 ? 44 - (s->n - at) : 0), "", type);
        inspect__value(s, g, kv, false);
        str_put(s, "\n");
        inspect__flush(s, out);
    }
}

static void inspect__shape(str *s, const gguf_tensor *t, const char *between) {
    for (uint32_t d = 0; d < t->n_dims; d++) str_fmt(s, "%s%llu", d ? between : "", GGUF_U(t->dim[d]));
}

static void inspect__print_tensors(str *s, const gguf_file *g, out_t *out) {
    size_t wide = 4;
    for (uint64_t i = 0; i < g->n_tensor; i++)
        if (g->tensor[i].name.n > wide) wide = g->tensor[i].name.n;
    str_fmt(s, "\ntensors: %llu\n", GGUF_U(g->n_tensor));
    if (g->n_tensor)
        str_fmt(s, "  %-*s  %-8s %-22s %14s %14s%s\n", (int)wide, "name", "type", "shape", "bytes", "offset",
                g->n_parts > 1 ? "  part" : "");
    for (uint64_t i = 0; i < g->n_tensor; i++) {
        const gguf_tensor *t = &g->tensor[i];
        size_t             at = s->n;
        str_put(s, "  ");
        inspect__text(s, t->name, 80);
        str_fmt(s, "%*s  %-8s ", (int)(s->n - at < wide + 2 ? wide + 2 - (s->n - at) : 0), "", k_types[t->type].name);
        at = s->n;
        inspect__shape(s, t, " x ");
        str_fmt(s, "%*s %14llu %14llu", (int)(s->n - at < 22 ? 22 - (s->n - at) : 0), "", GGUF_U(t->n_bytes), GGUF_U(t->at));
        if (g->n_parts > 1) str_fmt(s, "  %4d", t->part + 1);
        str_put(s, "\n");
        inspect__flush(s, out);
    }
}

static void inspect__print_text(const inspect_file *f, out_t *out) {
    str s = {0};
    inspect__print_head(&s, f);
    inspect__print_metadata(&s, f->g, out);
    inspect__print_tensors(&s, f->g, out);
    if (f->vocab_only) str_put(&s, "\nverdict: a vocabulary alone: it tokenises, there is nothing to run\n");
    else if (!f->problem.code) str_put(&s, "\nverdict: every check passed, this model runs\n");
    else {
        str_put(&s, "\nverdict: does not run: ");
        inspect__text(&s, bytes_of(f->problem.text), sizeof f->problem.text);
        str_put(&s, "\n");
    }
    inspect__flush(&s, out);
    str_drop(&s);
}

/* --- for programs --- */

static void inspect__json_vocab(str *s, const inspect_file *f) {
    const tok_vocab *v = f->vocab;
    str_put(s, "\"vocabulary\":");
    if (!v) {
        str_put(s, "null,\n");
        return;
    }
    str_put(s, "{\"model\":");
    str_json(s, bytes_of(tok_model_name(v)));
    str_put(s, ",\"pre\":");
    str_json(s, bytes_of(tok_pre_name(v) ? tok_pre_name(v) : ""));
    str_fmt(s, ",\"tokens\":%d,\"bos\":%d,\"eos\":%d,\"add_bos\":%s,\"add_eos\":%s},\n", tok_count(v), tok_bos(v), tok_eos(v),
            tok_add_bos(v) ? "true" : "false", tok_add_eos(v) ? "true" : "false");
}

static void inspect__json_head(str *s, const inspect_file *f) {
    const gguf_file *g = f->g;
    inspect_sum      sum[K_TYPE_MAX] = {{0}}, all = inspect__types(g, sum);
    const gguf_kv   *name = gguf_find(g, "general.name");
    const char      *comma = "";
    str_put(s, "{\"file\":");
    str_json(s, bytes_of(g->path));
    str_fmt(s, ",\"version\":%u,\"parts\":%d,\"bytes\":%llu,\"alignment\":%llu,\n\"architecture\":", g->version,
            g->n_parts, GGUF_U(g->n_bytes), GGUF_U(g->align));
    str_json(s, f->arch);
    str_put(s, ",\"name\":");
    if (name && name->type == GGUF_STR) inspect__value(s, g, name, true);
    else str_put(s, "null");
    str_fmt(s, ",\"parameters\":%llu,\n\"hyperparameters\":{", GGUF_U(all.weights));
    for (int i = 0; i < N_INSPECT_HPARAMS; i++) {
        const gguf_kv *kv = inspect__hparam(f, i);
        if (!kv) continue;
        str_fmt(s, "%s\"%s\":", comma, inspect_hparams[i].key);
        inspect__value(s, g, kv, true);
        comma = ",";
    }
    str_put(s, "},\n");
    inspect__json_vocab(s, f);
    str_put(s, "\"types\":[");
    comma = "";
    for (int i = 0; i < K_TYPE_MAX; i++) {
        if (!sum[i].tensors) continue;
        str_fmt(s, "%s{\"type\":\"%s\",\"tensors\":%llu,\"weights\":%llu,\"bytes\":%llu}", comma, k_types[i].name,
                GGUF_U(sum[i].tensors), GGUF_U(sum[i].weights), GGUF_U(sum[i].bytes));
        comma = ",";
    }
    str_fmt(s, "],\n\"memory\":{\"mapping\":%llu,\"kv_per_1000_tokens_f16\":", GGUF_U(g->n_bytes));
    if (f->hp_ok) str_fmt(s, "%llu},\n", GGUF_U(inspect__kv_bytes(f)));
    else str_put(s, "null},\n");
}

/* Whether JSON shows the first elements of an array alone. */
static bool inspect__cut(const gguf_kv *kv) { return kv->type == GGUF_ARR && kv->count > INSPECT_JSON; }

static void inspect__json_metadata(str *s, const gguf_file *g, out_t *out) {
    str_put(s, "\"metadata\":[");
    for (uint64_t i = 0; i < g->n_kv; i++) {
        const gguf_kv *kv = &g->kv[i];
        str_put(s, i ? ",\n{\"key\":" : "\n{\"key\":");
        str_json(s, kv->key);
        str_fmt(s, ",\"type\":\"%s\"", gguf_type_name(kv->type));
        if (kv->type == GGUF_ARR) str_fmt(s, ",\"of\":\"%s\",\"count\":%llu", gguf_type_name(kv->elem), GGUF_U(kv->count));
        if (inspect__cut(kv)) str_put(s, ",\"cut\":true");
        str_put(s, ",\"value\":");
        inspect__value(s, g, kv, true);
        str_put(s, "}");
        inspect__flush(s, out);
    }
    str_put(s, "],\n");
}

/* The same by key. An array that is cut is an object, so that nobody takes it for the whole one. */
static void inspect__json_by_key(str *s, const gguf_file *g, out_t *out) {
    str_put(s, "\"metadata_by_key\":{");
    for (uint64_t i = 0; i < g->n_kv; i++) {
        const gguf_kv *kv = &g->kv[i];
        str_put(s, i ? ",\n" : "\n");
        str_json(s, kv->key);
        str_put(s, ":");
        if (inspect__cut(kv)) str_fmt(s, "{\"of\":\"%s\",\"count\":%llu,\"first\":", gguf_type_name(kv->elem), GGUF_U(kv->count));
        inspect__value(s, g, kv, true);
        if (inspect__cut(kv)) str_put(s, "}");
        inspect__flush(s, out);
    }
    str_put(s, "},\n");
}

static void inspect__json_tensors(str *s, const gguf_file *g, out_t *out) {
    str_put(s, "\"tensors\":[");
    for (uint64_t i = 0; i < g->n_tensor; i++) {
        const gguf_tensor *t = &g->tensor[i];
        str_put(s, i ? ",\n{\"name\":" : "\n{\"name\":");
        str_json(s, t->name);
        str_fmt(s, ",\"type\":\"%s\",\"shape\":[", k_types[t->type].name);
        inspect__shape(s, t, ",");
        str_fmt(s, "],\"bytes\":%llu,\"offset\":%llu,\"part\":%d}", GGUF_U(t->n_bytes), GGUF_U(t->at), t->part);
        inspect__flush(s, out);
    }
    str_put(s, "],\n");
}

static void inspect__print_json(const inspect_file *f, out_t *out) {
    str s = {0};
    inspect__json_head(&s, f);
    inspect__json_metadata(&s, f->g, out);
    inspect__json_by_key(&s, f->g, out);
    inspect__json_tensors(&s, f->g, out);
    str_fmt(&s, "\"runs\":%s,\"vocabulary_only\":%s,\"problem\":", !f->vocab_only && !f->problem.code ? "true" : "false",
            f->vocab_only ? "true" : "false");
    if (f->problem.code) str_json(&s, bytes_of(f->problem.text));
    else str_put(&s, "null");
    str_put(&s, "}\n");
    inspect__flush(&s, out);
    str_drop(&s);
}

/* Checks and prints the whole file. False, with the reason in e, when it could not run; what was found is printed
 * all the same. */
static bool inspect_print(const gguf_file *g, const char *pre, bool json, out_t *out, err_t *e) {
    inspect_file f = {.g = g};
    inspect__check(&f, pre);
    if (json) inspect__print_json(&f, out);
    else inspect__print_text(&f, out);
    *e = f.problem;
    tok_free(f.vocab);
    arch_drop(&f.hp);
    return !e->code;
}

/* ===== [plot] rates as a picture (SVG) =====
 * Panels one below the other, each with bars (a row for each value) or with lines over a number (context depth, sequences). The
 * picture stands on a white card of its own, is as wide as a README shows pictures, and is well-formed XML whatever the names hold.
 * Door: plot_add, plot_svg, plot_drop. */

enum {
    PLOT_WIDTH = 840,
    PLOT_EDGE = 24,                                   /* pixels from the card's border */
    PLOT_PANELS = 2,
    PLOT_ROW = 26, PLOT_BAR = 16,                     /* of a bar: with its gap, alone */
    PLOT_LINES = 240,                                 /* height of a panel of lines, at least */
    PLOT_GAP = 18,                                    /* between two names */
    PLOT_NAME = 44,                                   /* most characters of a name */
    PLOT_TICKS = 5,
};
#define PLOT_INK  "#1c2128"
#define PLOT_SOFT "#57606a"
#define PLOT_GRID "#e1e4e8"

static const char *const plot_colors[] = {"#0969c8", "#e08600", "#2f9e6e", "#8250df", "#cf3a5b", "#0f7f8c"};
enum { PLOT_COLORS = sizeof plot_colors / sizeof *plot_colors };

typedef struct {
    char  *name;                                      /* of the bar or the line; ours to free */
    int    line;                                      /* points of one name are one line; the first name is line 0 */
    double x, y, spread;                              /* y with its standard deviation, 0: unknown */
} plot_point;

typedef struct {
    const char *title, *x_name;                       /* x_name NULL: bars */
    bool        x_log;                                /* x doubles from one mark to the next */
    plot_point *p;
    int         n, n_lines;
} plot_panel;

typedef struct {
    const char *title, *below, *caption;
    plot_panel  panel[PLOT_PANELS];                   /* those without points are left out */
} plot;

static void plot_add(plot_panel *a, const char *name, double x, double y, double spread) {
    const size_t n = strlen(name) + 1;
    int          line = a->n_lines;
    for (int i = 0; i < a->n && line == a->n_lines; i++)
        if (strcmp(a->p[i].name, name) == 0) line = a->p[i].line;
    a->p = mem_grow(a->p, (size_t)a->n + 1, sizeof *a->p);
    a->p[a->n] = (plot_point){mem_new(n, 1), line, x, y, spread};
    memcpy(a->p[a->n++].name, name, n);
    a->n_lines += line == a->n_lines;
}

static void plot_drop(plot *g) {
    for (int k = 0; k < PLOT_PANELS; k++) {
        for (int i = 0; i < g->panel[k].n; i++) mem_free(g->panel[k].p[i].name);
        mem_free(g->panel[k].p);
        g->panel[k] = (plot_panel){0};
    }
}

/* --- elements --- */

/* At most `most` characters of a text as XML holds it: markup escaped, control characters as ?, bytes that are no text as U+FFFD. */
static void plot__escape(str *s, const char *text, int most) {
    const bytes b = bytes_of(text);
    for (size_t i = 0, len; i < b.n; i += len) {
        const uint8_t c = b.p[i];
        len = (size_t)utf8_len(b.p + i, b.n - i);
        if (most-- == 0) {
            str_put(s, "\xe2\x80\xa6");
            return;
        }
        if (!len) str_put(s, "\xef\xbf\xbd"), len = utf8_bad(b.p + i, b.n - i);
        else if (c == '&' || c == '<' || c == '>' || c == '"' || c == '\'') str_fmt(s, "&#%d;", c);
        else if (c < 0x20 || c == 0x7f) str_put(s, "?");
        else if (len == 3 && c == 0xef && b.p[i + 1] == 0xbf && b.p[i + 2] >= 0xbe) str_put(s, "\xef\xbf\xbd"); /* U+FFFE, U+FFFF */
        else str_add(s, b.p + i, len);
    }
}

/* Pixels that a text takes, rather too many: the fonts differ from reader to reader. */
static double plot__width(const char *text, double size) {
    int n = 0;
    for (const char *p = text; *p && n <= PLOT_NAME; p++) n += ((uint8_t)*p & 0xc0) != 0x80;
    return 0.64 * size * n;
}

typedef struct {
    double      size;
    const char *anchor, *color;                       /* start, middle or end */
    bool        bold;
} plot_style;

static const plot_style plot_head = {18, "start", PLOT_INK, true}, plot_plain = {13, "start", PLOT_INK, false},
                        plot_soft = {12.5, "start", PLOT_SOFT, false}, plot_name = {13, "start", PLOT_INK, true},
                        plot_left = {13, "end", PLOT_INK, false}, plot_tick = {12.5, "middle", PLOT_SOFT, false},
                        plot_side = {12.5, "end", PLOT_SOFT, false};

static void plot__text(str *s, double x, double y, const plot_style *t, const char *text, int most) {
    str_fmt(s, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%g\" text-anchor=\"%s\" fill=\"%s\"%s>", x, y, t->size, t->anchor, t->color,
            t->bold ? " font-weight=\"bold\"" : "");
    plot__escape(s, text, most);
    str_put(s, "</text>\n");
}

static void plot__line(str *s, double x1, double y1, double x2, double y2, const char *color, double width) {
    str_fmt(s, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"%g\"/>\n", x1, y1, x2, y2, color, width);
}

/* --- scales --- */

/* A step of 1, 2 or 5 times a power of ten, of which at most PLOT_TICKS make `most`. */
static double plot__step(double most) {
    static const double of[] = {1, 2, 5, 10};
    const double        raw = most > 0 && isfinite(most) ? most / PLOT_TICKS : 1;
    const double        power = pow(10, floor(log10(raw)));
    int                 i = 0;
    while (i < 3 && of[i] * power < raw * 0.999) i++;
    return of[i] * power;
}

/* The highest mark of an axis from 0 that holds every y of a panel. */
static double plot__top(const plot_panel *a) {
    double most = 0;
    for (int i = 0; i < a->n; i++) most = fmax(most, a->p[i].y + a->p[i].spread);
    const double step = plot__step(most);
    return step * fmax(1, ceil(most / step - 1e-9));
}

/* --- bars --- */

static double plot__names(const plot_panel *a) {
    double widest = 0;
    for (int i = 0; i < a->n; i++) widest = fmax(widest, plot__width(a->p[i].name, plot_left.size));
    return widest;
}

static int plot__bars_height(const plot_panel *a) { return a->n * PLOT_ROW + 34; }

/* 325.67, 4.10, 1234: as many digits as a rate is worth. */
static void plot__number(str *s, double v) { str_fmt(s, v < 100 ? "%.2f" : v < 1000 ? "%.1f" : "%.0f", v); }

static void plot__bar(str *s, const plot_point *p, const char *color, double left, double scale, double y) {
    const double end = left + p->y * scale, side = p->spread * scale, middle = y + PLOT_BAR / 2.0;
    str          value = {0};
    plot__number(&value, p->y);
    if (p->spread > 0) str_put(&value, " \xc2\xb1 "), plot__number(&value, p->spread);
    plot__text(s, left - 8, middle + 4.5, &plot_left, p->name, PLOT_NAME);
    str_fmt(s, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"1\" fill=\"%s\"/>\n", left, y, end - left, PLOT_BAR, color);
    if (side > 0) plot__line(s, fmax(left, end - side), middle, end + side, middle, PLOT_INK, 1.2);
    plot__text(s, end + side + 7, middle + 4.5, &plot_plain, value.p, PLOT_NAME);
    str_drop(&value);
}

static void plot__bars(str *s, const plot_panel *a, const char *color, double y) {
    const double left = PLOT_EDGE + 8 + plot__names(a), right = PLOT_WIDTH - 136, most = plot__top(a), step = plot__step(most);
    const double scale = (right - left) / most, bottom = y + a->n * PLOT_ROW + 2;
    for (int i = 0; i * step <= most * 1.001; i++) {
        char word[32];
        snprintf(word, sizeof word, "%g", i * step);
        plot__line(s, left + i * step * scale, y - 4, left + i * step * scale, bottom, i ? PLOT_GRID : "#8c959f", 1);
        plot__text(s, left + i * step * scale, bottom + 17, &plot_tick, word, PLOT_NAME);
    }
    for (int i = 0; i < a->n; i++) plot__bar(s, &a->p[i], color, left, scale, y + i * PLOT_ROW + 3);
}

/* --- lines --- */

static double plot__field(const plot_panel *a) {
    const int names = a->n_lines * PLOT_GAP;
    return names > PLOT_LINES ? names : PLOT_LINES;
}

static int plot__lines_height(const plot_panel *a) { return (int)plot__field(a) + 62; }

typedef struct {
    double left, right, top, bottom, x_least, x_most, y_most;
    bool   x_log;
} plot_frame;

static double plot__x(const plot_frame *f, double x) {
    const double all = f->x_log ? log(f->x_most / f->x_least) : f->x_most - f->x_least;
    const double at = f->x_log ? log(x / f->x_least) : x - f->x_least;
    return f->left + (all > 0 ? at / all : 0.5) * (f->right - f->left);
}

static double plot__y(const plot_frame *f, double y) { return f->bottom - y / f->y_most * (f->bottom - f->top); }

static plot_frame plot__frame(const plot_panel *a, double y) {
    plot_frame f = {PLOT_EDGE + 44, PLOT_WIDTH - PLOT_EDGE - 16 - plot__names(a), y, y + plot__field(a), INFINITY, 0, plot__top(a), a->x_log};
    for (int i = 0; i < a->n; i++) f.x_least = fmin(f.x_least, a->p[i].x), f.x_most = fmax(f.x_most, a->p[i].x);
    return f;
}

/* Marks where points are, as far as their words have room. */
static void plot__x_marks(str *s, const plot_panel *a, const plot_frame *f) {
    double last = -INFINITY;
    plot__line(s, f->left, f->bottom, f->right, f->bottom, "#8c959f", 1);
    for (double x = f->x_least;;) {
        char   word[32];
        double next = INFINITY, at = plot__x(f, x);
        snprintf(word, sizeof word, "%g", x);
        if (at - last >= plot__width(word, plot_tick.size) + 10) {
            plot__line(s, at, f->bottom, at, f->bottom + 5, "#8c959f", 1);
            plot__text(s, at, f->bottom + 19, &plot_tick, word, PLOT_NAME);
            last = at;
        }
        for (int i = 0; i < a->n; i++) next = a->p[i].x > x ? fmin(next, a->p[i].x) : next;
        if (next == INFINITY) break;
        x = next;
    }
    plot__text(s, (f->left + f->right) / 2, f->bottom + 39, &plot_tick, a->x_name, PLOT_WIDTH);
}

static void plot__y_marks(str *s, const plot_frame *f) {
    const double step = plot__step(f->y_most);
    for (int i = 0; i * step <= f->y_most * 1.001; i++) {
        char word[32];
        snprintf(word, sizeof word, "%g", i * step);
        plot__line(s, f->left, plot__y(f, i * step), f->right, plot__y(f, i * step), PLOT_GRID, 1);
        plot__text(s, f->left - 8, plot__y(f, i * step) + 4.5, &plot_side, word, PLOT_NAME);
    }
}

/* One line through its points, in the order in which they came, a dot on each. */
static void plot__curve(str *s, const plot_panel *a, const plot_frame *f, int line) {
    const char *color = plot_colors[line % PLOT_COLORS];
    str_put(s, "<polyline points=\"");
    for (int i = 0; i < a->n; i++)
        if (a->p[i].line == line) str_fmt(s, "%.1f,%.1f ", plot__x(f, a->p[i].x), plot__y(f, a->p[i].y));
    str_fmt(s, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"2.4\"%s/>\n", color, line >= PLOT_COLORS ? " stroke-dasharray=\"6 4\"" : "");
    for (int i = 0; i < a->n; i++) {
        if (a->p[i].line != line) continue;
        str_fmt(s, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\" stroke=\"#ffffff\" stroke-width=\"1.2\"><title>", plot__x(f, a->p[i].x),
                plot__y(f, a->p[i].y), color);
        plot__escape(s, a->p[i].name, PLOT_NAME);
        str_fmt(s, ", %g: %.2f</title></circle>\n", a->p[i].x, a->p[i].y);
    }
}

/* The last point of a line: where its name stands. */
static const plot_point *plot__end(const plot_panel *a, int line) {
    const plot_point *last = NULL;
    for (int i = 0; i < a->n; i++)
        if (a->p[i].line == line && (!last || a->p[i].x >= last->x)) last = &a->p[i];
    return last;
}

/* How many lines end above line `line`; of those that end at one height the first is the highest. */
static int plot__rank(const plot_panel *a, int line) {
    const double y = plot__end(a, line)->y;
    int          above = 0;
    for (int k = 0; k < a->n_lines; k++) {
        const double other = plot__end(a, k)->y;
        above += other > y || (other == y && k < line);
    }
    return above;
}

/* Names behind the lines' ends, from the highest down, none nearer to the next than PLOT_GAP. */
static void plot__line_names(str *s, const plot_panel *a, const plot_frame *f) {
    int   *line = mem_new((size_t)a->n_lines, sizeof *line);
    double y = f->top - PLOT_GAP;
    for (int k = 0; k < a->n_lines; k++) line[plot__rank(a, k)] = k;
    for (int rank = 0; rank < a->n_lines; rank++) {
        const plot_point *p = plot__end(a, line[rank]);
        const plot_style  name = {13, "start", plot_colors[line[rank] % PLOT_COLORS], true};
        y = fmax(y + PLOT_GAP, fmin(plot__y(f, p->y), f->bottom - (a->n_lines - 1 - rank) * PLOT_GAP));
        plot__text(s, f->right + 10, y + 4.5, &name, p->name, PLOT_NAME);
    }
    mem_free(line);
}

static void plot__lines(str *s, const plot_panel *a, double y) {
    const plot_frame f = plot__frame(a, y);
    plot__y_marks(s, &f);
    plot__x_marks(s, a, &f);
    for (int line = 0; line < a->n_lines; line++) plot__curve(s, a, &f, line);
    plot__line_names(s, a, &f);
}

/* --- the whole --- */

static void plot_svg(const plot *g, str *s) {
    int height = 76 + 38;
    for (int k = 0; k < PLOT_PANELS; k++)
        if (g->panel[k].n) height += 38 + (g->panel[k].x_name ? plot__lines_height : plot__bars_height)(&g->panel[k]);
    str_fmt(s, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
               "font-family=\"Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif\" role=\"img\">\n<title>",
            PLOT_WIDTH, height, PLOT_WIDTH, height);
    plot__escape(s, g->title, PLOT_WIDTH);
    str_fmt(s, "</title>\n<rect x=\"0.5\" y=\"0.5\" width=\"%d\" height=\"%d\" rx=\"8\" fill=\"#ffffff\" stroke=\"#d0d7de\"/>\n", PLOT_WIDTH - 1, height - 1);
    plot__text(s, PLOT_EDGE, 34, &plot_head, g->title, 2 * PLOT_NAME);
    plot__text(s, PLOT_EDGE, 56, &plot_soft, g->below, 3 * PLOT_NAME);
    double y = 76;
    for (int k = 0; k < PLOT_PANELS; k++) {
        const plot_panel *a = &g->panel[k];
        if (!a->n) continue;
        plot__text(s, PLOT_EDGE, y + 18, &plot_name, a->title, 2 * PLOT_NAME);
        if (a->x_name) plot__lines(s, a, y + 38);
        else plot__bars(s, a, plot_colors[0], y + 32);
        y += 38 + (a->x_name ? plot__lines_height : plot__bars_height)(a);
    }
    plot__text(s, PLOT_EDGE, height - 16, &plot_soft, g->caption, 3 * PLOT_NAME);
    str_put(s, "</svg>\n");
}

/* ===== [bench] how fast a model runs here =====
 * Times random tokens through fwd_step() alone: no text, no sampling. A test is P tokens of a prompt and then N generated ones,
 * for S sequences side by side, behind D tokens that are there already; its memory is touched before its time runs. Before
 * and after each repetition the same threads sweep memory and multiply in registers, so that every figure stands beside what
 * the machine gave in that very second: shares are what a step cannot do without, counted from the shapes, over that.
 *   The sweep reads memory of its own in the largest pages the kernel gives, not the model's mapping: so it is the machine's
 * limit whatever the file is, small models have one too, and no weights are left in the caches by it. It is taken off the peak.
 *   A test with guesses is a decode of one sequence as [spec] does it, round after round: steps of the draft, if there is one, then one
 * of the model over a row and its guesses; but how many guesses there are is given, and throws of a coin tell which are right. Beside
 * the same decode without guesses it shows from what chance on they pay.
 *   Columns, keys and tests are those of llama-bench, with its meanings; ours stand behind them.
 *   A picture (--plot) shows the rates of all rows, prefill above decode.
 * Door: bench_opts, bench_list, bench_defaults, bench_form, bench_any, bench_guesses, bench_run. */

enum {
    BENCH_LIST = 64,                                  /* values of one option */
    BENCH_MOST = 1 << 24,                             /* tokens of one part of a test */
    BENCH_SEQS = 512,                                 /* sequences side by side */
    BENCH_REPS = 1000,
    BENCH_SWEEP = 256 << 20,                          /* bytes of a sweep */
    BENCH_SWEEPS = 4,                                 /* most sweeps until the same memory is read again */
    BENCH_CHUNK = 2 << 20,                            /* bytes that one thread sweeps in a row */
    BENCH_BURST = 1 << 21,                            /* products between two looks at the clock */
    BENCH_SEED = 1,
    BENCH_COINS = 5978,                               /* a seed of which 64 throws are already much like many */
    BENCH_PLAIN = 16,                                 /* steps without guesses before each repetition with them */
    BENCH_LAG = 2,                                    /* rows of a draft's first step, behind guesses that were all right */
};
#define BENCH_PROBE_S 2e-3                            /* seconds of each kind of products */
#define BENCH_BUSY    0.05                            /* share of the CPUs that others may take unremarked */

typedef struct {
    int n, v[BENCH_LIST];
} bench_list;

typedef struct {
    bench_list prompt, gen, pair, depth, seqs;        /* tokens; pair: prompt, gen, prompt, gen, ...; sequences */
    bench_list batch, ubatch, threads;                /* tokens between logits, tokens of a step; 0: all that may be used */
    bench_list type_k, type_v;                        /* k_types ids */
    bench_list level;                                 /* of k_levels_list, -1: the best */
    bench_list repack;                                /* of bench_repacks */
    bench_list guess, chance;                         /* most guesses of a step, 0: none; that one is right, per cent */
    const char *draft;                                /* model file, NULL: guesses are free */
    int        draft_vocab;                           /* tokens that it guesses among, 0: all */
    int        reps;
    bool       no_warmup;
} bench_opts;

#define BENCH_ONE(x) {1, {x}}
static const bench_opts bench_defaults = {
    .prompt = BENCH_ONE(512), .gen = BENCH_ONE(128), .depth = BENCH_ONE(0), .seqs = BENCH_ONE(1),
    .batch = BENCH_ONE(2048), .ubatch = BENCH_ONE(512), .threads = BENCH_ONE(0),
    .type_k = BENCH_ONE(K_BF16), .type_v = BENCH_ONE(K_BF16), .level = BENCH_ONE(-1), .repack = BENCH_ONE(0),
    .guess = BENCH_ONE(0), .chance = BENCH_ONE(80), .reps = 5,
};

static const char *const bench_repacks[] = {"auto", "on", "off"};    /* in the order of --repack's words */

typedef enum { BENCH_MD, BENCH_CSV, BENCH_JSON, BENCH_JSONL } bench_form;

typedef struct {
    int n_prompt, n_gen, n_depth, n_seq;
    int n_guess, chance;                              /* as in bench_opts; only with one sequence and no prompt */
} bench_test;

typedef struct {
    int      level, repack, batch, ubatch, threads;
    uint32_t type_k, type_v;
} bench_setup;

typedef struct {                                      /* a second, all threads together */
    double read, mul[K_ACTS];                         /* bytes; products of each form */
} bench_rate;

typedef struct {
    double     all, first;                            /* seconds; until the logits of the first token to come */
    bench_rate rate;                                  /* of the machine, around it */
    double     plain;                                 /* seconds that it would take without guesses, 0: it has none */
} bench_sample;

typedef struct {                                      /* what a repetition cannot do without */
    double bytes, mul[K_ACTS];                        /* each weight once a step, K and V of a sequence once; products */
    double steps;                                     /* of the model, that made tokens */
} bench_work;

/* One line of the table. Integers are int64_t and numbers double, as bench_fields reads them. */
typedef struct {
    const char *version, *cpu_info, *model_file, *model_type, *type_k, *type_v, *level, *repack, *test_time, *draft_file;
    int64_t     model_bytes, model_weights, n_batch, n_ubatch, n_threads, n_prompt, n_gen, n_depth, n_seq, n_guess;
    int64_t     avg_ns, sd_ns, peak_bytes;
    double      avg_ts, sd_ts;                        /* tokens per second */
    double      ttft_ms, read_gbs, sweep_gbs, read_share, peak_share, others;
    double      gops[K_ACTS], gops_peak[K_ACTS];
    double      chance, per_step, speedup;            /* 0 .. 1; tokens of a sequence; over the same without guesses, NAN: not asked */
    const double *ns, *ts;                            /* [n] of each repetition */
    int           n;
} bench_row;

/* --- figures --- */

static double bench__mean(const double *x, int n) {
    double s = 0;
    for (int i = 0; i < n; i++) s += x[i];
    return n ? s / n : 0;
}

/* Of a sample: over n - 1; 0 for one value. */
static double bench__deviation(const double *x, int n) {
    double m = bench__mean(x, n), s = 0;
    for (int i = 0; i < n; i++) s += (x[i] - m) * (x[i] - m);
    return n > 1 ? sqrt(s / (n - 1)) : 0;
}

static int64_t bench__tokens(const bench_test *t) { return (int64_t)(t->n_prompt + t->n_gen) * t->n_seq; }

/* The figures of n repetitions; ns and ts are room for n values each, which the row keeps. */
static void bench__figures(bench_row *r, const bench_test *t, const bench_work *w, const bench_sample *s, int n, double *ns,
                           double *ts) {
    bench_rate rate = {0};
    double     first = 0, read = 0, share = 0, peak = 0, per_s = 0, gain = 0;
    for (int i = 0; i < n; i++) {
        const bench_rate *m = &s[i].rate;
        ns[i] = s[i].all * 1e9;
        ts[i] = (double)bench__tokens(t) / s[i].all;
        first += s[i].first / n;
        gain += s[i].plain / s[i].all / n;
        per_s += 1 / s[i].all / n;
        read += w->bytes / s[i].all / n;
        share += w->bytes / s[i].all / m->read / n;
        rate.read += m->read / n;
        for (int k = 0; k < K_ACTS; k++) {
            peak += w->mul[k] / m->mul[k] / s[i].all / n;
            rate.mul[k] += m->mul[k] / n;
        }
    }
    r->n = n;
    r->ns = ns;
    r->ts = ts;
    r->avg_ns = (int64_t)bench__mean(ns, n);
    r->sd_ns = (int64_t)bench__deviation(ns, n);
    r->avg_ts = bench__mean(ts, n);
    r->sd_ts = bench__deviation(ts, n);
    r->ttft_ms = first * 1e3;
    r->read_gbs = read * 1e-9;
    r->sweep_gbs = rate.read * 1e-9;
    r->read_share = share;
    for (int k = 0; k < K_ACTS; k++) {                /* a product is two operations: multiply, add */
        r->gops[k] = 2 * w->mul[k] * per_s * 1e-9;
        r->gops_peak[k] = 2 * rate.mul[k] * 1e-9;
    }
    r->peak_share = peak;
    r->per_step = w->steps > 0 ? t->n_gen / w->steps : 0;
    r->speedup = t->n_guess ? gain : t->n_gen && !t->n_prompt ? 1 : NAN;
}

/* pp512, tg128, pp512+tg128, tg128 x8 @ d4096, tg128 k4 a80 */
static void bench__label(const bench_test *t, str *s) {
    if (t->n_prompt) str_fmt(s, "pp%d", t->n_prompt);
    if (t->n_gen) str_fmt(s, "%stg%d", t->n_prompt ? "+" : "", t->n_gen);
    if (t->n_seq > 1) str_fmt(s, " x%d", t->n_seq);
    if (t->n_guess) str_fmt(s, " k%d a%d", t->n_guess, t->chance);
    if (t->n_depth) str_fmt(s, " @ d%d", t->n_depth);
}

/* --- the forms of a row --- */

typedef enum {
    BENCH_STR, BENCH_INT, BENCH_REAL,                 /* a field of bench_row */
    BENCH_TEXT, BENCH_RAW, BENCH_NO,                  /* always the same: a text, a number, false */
} bench_kind;

#define BENCH_AT(f) offsetof(bench_row, f), NULL
/* Up to stddev_ts as llama-bench has them; a choice that llmrun does not have stands there as it stands in a run of llama-bench
 * that does not make it, so that tools find the rows of both alike. */
static const struct {
    const char *key;
    bench_kind  kind;
    size_t      at;
    const char *fixed;
} bench_fields[] = {
    {"build_commit",   BENCH_STR,  BENCH_AT(version)},       {"build_number",   BENCH_RAW,  0, "0"},
    {"cpu_info",       BENCH_STR,  BENCH_AT(cpu_info)},      {"gpu_info",       BENCH_TEXT, 0, ""},
    {"backends",       BENCH_TEXT, 0, "CPU"},                {"model_filename", BENCH_STR,  BENCH_AT(model_file)},
    {"model_type",     BENCH_STR,  BENCH_AT(model_type)},    {"model_size",     BENCH_INT,  BENCH_AT(model_bytes)},
    {"model_n_params", BENCH_INT,  BENCH_AT(model_weights)}, {"n_batch",        BENCH_INT,  BENCH_AT(n_batch)},
    {"n_ubatch",       BENCH_INT,  BENCH_AT(n_ubatch)},      {"n_threads",      BENCH_INT,  BENCH_AT(n_threads)},
    {"cpu_mask",       BENCH_TEXT, 0, "0x0"},                {"cpu_strict",     BENCH_NO,   0, NULL},
    {"poll",           BENCH_RAW,  0, "50"},                 {"type_k",         BENCH_STR,  BENCH_AT(type_k)},
    {"type_v",         BENCH_STR,  BENCH_AT(type_v)},        {"n_gpu_layers",   BENCH_RAW,  0, "-1"},
    {"n_cpu_moe",      BENCH_RAW,  0, "0"},                  {"split_mode",     BENCH_TEXT, 0, "layer"},
    {"main_gpu",       BENCH_RAW,  0, "0"},                  {"no_kv_offload",  BENCH_NO,   0, NULL},
    {"flash_attn",     BENCH_RAW,  0, "-1"},                 {"devices",        BENCH_TEXT, 0, "auto"},
    {"tensor_split",   BENCH_TEXT, 0, "0.00"},               {"tensor_buft_overrides", BENCH_TEXT, 0, "none"},
    {"load_mode",      BENCH_TEXT, 0, "mmap"},               {"embeddings",     BENCH_NO,   0, NULL},
    {"no_op_offload",  BENCH_RAW,  0, "0"},                  {"no_host",        BENCH_NO,   0, NULL},
    {"fit_target",     BENCH_RAW,  0, "0"},                  {"fit_min_ctx",    BENCH_RAW,  0, "0"},
    {"n_prompt",       BENCH_INT,  BENCH_AT(n_prompt)},      {"n_gen",          BENCH_INT,  BENCH_AT(n_gen)},
    {"n_depth",        BENCH_INT,  BENCH_AT(n_depth)},       {"test_time",      BENCH_STR,  BENCH_AT(test_time)},
    {"avg_ns",         BENCH_INT,  BENCH_AT(avg_ns)},        {"stddev_ns",      BENCH_INT,  BENCH_AT(sd_ns)},
    {"avg_ts",         BENCH_REAL, BENCH_AT(avg_ts)},        {"stddev_ts",      BENCH_REAL, BENCH_AT(sd_ts)},
    /* ours */
    {"cpu_level",      BENCH_STR,  BENCH_AT(level)},         {"n_parallel",     BENCH_INT,  BENCH_AT(n_seq)},
    {"ttft_ms",        BENCH_REAL, BENCH_AT(ttft_ms)},       {"read_gbs",       BENCH_REAL, BENCH_AT(read_gbs)},
    {"sweep_gbs",      BENCH_REAL, BENCH_AT(sweep_gbs)},     {"read_share",     BENCH_REAL, BENCH_AT(read_share)},
    {"int8_gops",      BENCH_REAL, BENCH_AT(gops[K_ACT_I8])},   {"int8_peak_gops", BENCH_REAL, BENCH_AT(gops_peak[K_ACT_I8])},
    {"float_gops",     BENCH_REAL, BENCH_AT(gops[K_ACT_F32])},  {"float_peak_gops", BENCH_REAL, BENCH_AT(gops_peak[K_ACT_F32])},
    {"bf16_gops",      BENCH_REAL, BENCH_AT(gops[K_ACT_BF16])}, {"bf16_peak_gops", BENCH_REAL, BENCH_AT(gops_peak[K_ACT_BF16])},
    {"peak_share",     BENCH_REAL, BENCH_AT(peak_share)},    {"peak_rss",       BENCH_INT,  BENCH_AT(peak_bytes)},
    {"others_share",   BENCH_REAL, BENCH_AT(others)},        {"repack",         BENCH_STR,  BENCH_AT(repack)},
    {"n_draft",        BENCH_INT,  BENCH_AT(n_guess)},       {"acceptance",     BENCH_REAL, BENCH_AT(chance)},
    {"draft_model",    BENCH_STR,  BENCH_AT(draft_file)},    {"tokens_per_step", BENCH_REAL, BENCH_AT(per_step)},
    {"speedup",        BENCH_REAL, BENCH_AT(speedup)},
};
enum { N_BENCH_FIELDS = sizeof bench_fields / sizeof *bench_fields };

/* Field i without quotes; what is not a number is nothing. */
static void bench__value(const bench_row *r, int i, str *s) {
    const void *at = (const char *)r + bench_fields[i].at;
    switch (bench_fields[i].kind) {
    case BENCH_STR: str_put(s, *(const char *const *)at); break;
    case BENCH_INT: str_fmt(s, "%lld", (long long)*(const int64_t *)at); break;
    case BENCH_REAL:
        if (isfinite(*(const double *)at)) str_fmt(s, "%f", *(const double *)at);
        break;
    case BENCH_TEXT:
    case BENCH_RAW: str_put(s, bench_fields[i].fixed); break;
    case BENCH_NO: str_put(s, "0"); break;
    }
}

static void bench__csv_head(str *s) {
    for (int i = 0; i < N_BENCH_FIELDS; i++) str_fmt(s, "%s%s", i ? "," : "", bench_fields[i].key);
    str_put(s, "\n");
}

/* Every value in quotes, a quote doubled (RFC 4180). */
static void bench__csv_row(const bench_row *r, str *s) {
    for (int i = 0; i < N_BENCH_FIELDS; i++) {
        str v = {0};
        str_put(&v, "");
        bench__value(r, i, &v);
        str_put(s, i ? ",\"" : "\"");
        for (const char *p = v.p; *p; p++) str_add(s, *p == '"' ? "\"\"" : p, *p == '"' ? 2 : 1);
        str_put(s, "\"");
        str_drop(&v);
    }
    str_put(s, "\n");
}

static void bench__json_value(const bench_row *r, int i, str *s) {
    str v = {0};
    str_put(&v, "");
    bench__value(r, i, &v);
    if (bench_fields[i].kind == BENCH_STR || bench_fields[i].kind == BENCH_TEXT) str_json(s, str_bytes(&v));
    else if (bench_fields[i].kind == BENCH_NO) str_put(s, "false");
    else str_put(s, v.n ? v.p : "null");
    str_drop(&v);
}

/* between: what stands between two keys. */
static void bench__json_row(const bench_row *r, const char *between, str *s) {
    for (int i = 0; i < N_BENCH_FIELDS; i++) {
        str_fmt(s, "\"%s\": ", bench_fields[i].key);
        bench__json_value(r, i, s);
        str_put(s, between);
    }
    str_put(s, "\"samples_ns\": [");
    for (int i = 0; i < r->n; i++) str_fmt(s, "%s%.0f", i ? ", " : " ", r->ns[i]);
    str_fmt(s, " ]%s\"samples_ts\": [", between);
    for (int i = 0; i < r->n; i++) str_fmt(s, "%s%g", i ? ", " : " ", r->ts[i]);
    str_put(s, " ]");
}

/* --- the table for people --- */

typedef enum {
    COL_MODEL, COL_SIZE, COL_PARAMS, COL_BACKEND, COL_THREADS, COL_BATCH, COL_UBATCH, COL_TYPE_K, COL_TYPE_V, COL_LEVEL, COL_REPACK,
    COL_TEST,     COL_TS, COL_SPEEDUP, COL_PER_STEP, COL_TTFT, COL_READ, COL_SWEEP, COL_OF_SWEEP, COL_GOPS, COL_OF_PEAK, COL_PEAK,
    N_BENCH_COLS
} bench_col;

#define BENCH_IF(f) offsetof(bench_opts, f)
#define BENCH_EVER  SIZE_MAX
static const struct {
    const char *title;
    int         width;                                /* at least; negative: flush left */
    size_t      when;                                 /* shown when this list of bench_opts is not the default */
} bench_cols[N_BENCH_COLS] = {
    [COL_MODEL] = {"model", -30, BENCH_EVER},           [COL_SIZE] = {"size", 10, BENCH_EVER},
    [COL_PARAMS] = {"params", 10, BENCH_EVER},          [COL_BACKEND] = {"backend", -10, BENCH_EVER},
    [COL_THREADS] = {"threads", 7, BENCH_EVER},         [COL_BATCH] = {"n_batch", 7, BENCH_IF(batch)},
    [COL_UBATCH] = {"n_ubatch", 8, BENCH_IF(ubatch)},   [COL_TYPE_K] = {"type_k", 6, BENCH_IF(type_k)},
    [COL_TYPE_V] = {"type_v", 6, BENCH_IF(type_v)},     [COL_LEVEL] = {"cpu", 6, BENCH_IF(level)},
    [COL_REPACK] = {"repack", 6, BENCH_IF(repack)},
    [COL_TEST] = {"test", 20, BENCH_EVER},              [COL_TS] = {"t/s", 20, BENCH_EVER},
    [COL_SPEEDUP] = {"speedup", 7, BENCH_IF(guess)},    [COL_PER_STEP] = {"tok/step", 8, BENCH_IF(guess)},
    [COL_TTFT] = {"ttft ms", 9, BENCH_EVER},            [COL_READ] = {"read GB/s", 9, BENCH_EVER},
    [COL_SWEEP] = {"sweep GB/s", 10, BENCH_EVER},       [COL_OF_SWEEP] = {"of sweep", 8, BENCH_EVER},
    [COL_GOPS] = {"Gop/s", 8, BENCH_EVER},              [COL_OF_PEAK] = {"of peak", 7, BENCH_EVER},
    [COL_PEAK] = {"peak MiB", 8, BENCH_EVER},
};

static bool bench__shown(const bench_opts *o, int col) {
    if (bench_cols[col].when == BENCH_EVER) return true;
    const bench_list *a = (const bench_list *)(const void *)((const char *)o + bench_cols[col].when);
    const bench_list *b = (const bench_list *)(const void *)((const char *)&bench_defaults + bench_cols[col].when);
    return a->n != b->n || memcmp(a->v, b->v, (size_t)a->n * sizeof *a->v) != 0;
}

/* 0.62 GiB or 3.36 MiB; 1.10 B or 5.51 M */
static void bench__bytes(double n, str *s) {
    if (n >= 0x1p30) str_fmt(s, "%.2f GiB", n / 0x1p30);
    else str_fmt(s, "%.2f MiB", n / 0x1p20);
}
static void bench__count(double n, str *s) {
    if (n >= 1e9) str_fmt(s, "%.2f B", n / 1e9);
    else str_fmt(s, "%.2f M", n / 1e6);
}

/* The test that a row tells of. */
static bench_test bench__of_row(const bench_row *r) {
    return (bench_test){(int)r->n_prompt, (int)r->n_gen, (int)r->n_depth, (int)r->n_seq, (int)r->n_guess, (int)lround(100 * r->chance)};
}

static void bench__cell(const bench_row *r, int col, str *s) {
    const bench_test t = bench__of_row(r);
    switch ((bench_col)col) {
    case COL_MODEL: str_put(s, r->model_type); break;
    case COL_SIZE: bench__bytes((double)r->model_bytes, s); break;
    case COL_PARAMS: bench__count((double)r->model_weights, s); break;
    case COL_BACKEND: str_put(s, "CPU"); break;
    case COL_THREADS: str_fmt(s, "%lld", (long long)r->n_threads); break;
    case COL_BATCH: str_fmt(s, "%lld", (long long)r->n_batch); break;
    case COL_UBATCH: str_fmt(s, "%lld", (long long)r->n_ubatch); break;
    case COL_TYPE_K: str_put(s, r->type_k); break;
    case COL_TYPE_V: str_put(s, r->type_v); break;
    case COL_LEVEL: str_put(s, r->level); break;
    case COL_REPACK: str_put(s, r->repack); break;
    case COL_TEST: bench__label(&t, s); break;
    case COL_TS: str_fmt(s, "%.2f \xc2\xb1 %.2f", r->avg_ts, r->sd_ts); break;
    case COL_SPEEDUP:
        if (isfinite(r->speedup)) str_fmt(s, "%.2f", r->speedup);
        break;
    case COL_PER_STEP:
        if (r->per_step > 0) str_fmt(s, "%.2f", r->per_step);
        break;
    case COL_TTFT: str_fmt(s, r->ttft_ms < 10 ? "%.3f" : "%.1f", r->ttft_ms); break;
    case COL_READ: str_fmt(s, "%.2f", r->read_gbs); break;
    case COL_SWEEP: str_fmt(s, "%.2f", r->sweep_gbs); break;
    case COL_OF_SWEEP: str_fmt(s, "%.1f %%", 100 * r->read_share); break;
    case COL_GOPS: str_fmt(s, "%.1f", r->gops[K_ACT_I8] + r->gops[K_ACT_BF16] + r->gops[K_ACT_F32]); break;
    case COL_OF_PEAK: str_fmt(s, "%.1f %%", 100 * r->peak_share); break;
    case COL_PEAK: str_fmt(s, "%.1f", (double)r->peak_bytes / 0x1p20); break;
    case N_BENCH_COLS: break;
    }
}

/* | text | with bars and backslashes of the text escaped, so that a row keeps its cells; columns, not bytes, are counted. */
static void bench__md_cell(const char *text, int width, str *s) {
    str esc = {0};
    int used = 0;
    str_put(&esc, "");
    for (const char *p = text; *p; p++) {
        if (*p == '|' || *p == '\\') str_put(&esc, "\\"), used++;
        str_add(&esc, p, 1);
        used += ((uint8_t)*p & 0xc0) != 0x80;
    }
    int pad = abs(width) - used;
    str_fmt(s, "| %*s%s%*s ", width > 0 && pad > 0 ? pad : 0, "", esc.p, width < 0 && pad > 0 ? pad : 0, "");
    str_drop(&esc);
}

static void bench__md_head(const bench_opts *o, str *s) {
    for (int i = 0; i < N_BENCH_COLS; i++)
        if (bench__shown(o, i)) bench__md_cell(bench_cols[i].title, bench_cols[i].width, s);
    str_put(s, "|\n");
    for (int i = 0; i < N_BENCH_COLS; i++) {
        if (!bench__shown(o, i)) continue;
        str_put(s, "| ");
        for (int k = 1; k < abs(bench_cols[i].width); k++) str_put(s, "-");
        str_put(s, bench_cols[i].width < 0 ? "- " : ": ");
    }
    str_put(s, "|\n");
}

static void bench__md_row(const bench_opts *o, const bench_row *r, str *s) {
    for (int i = 0; i < N_BENCH_COLS; i++) {
        str cell = {0};
        if (!bench__shown(o, i)) continue;
        str_put(&cell, "");
        bench__cell(r, i, &cell);
        bench__md_cell(cell.p, bench_cols[i].width, s);
        str_drop(&cell);
    }
    str_put(s, "|\n");
}

/* What stands before row number n, the row itself (NULL: the end), and what stands after the last. */
static void bench_put(bench_form form, const bench_opts *o, const char *version, const bench_row *r, int n, str *s) {
    switch (form) {
    case BENCH_MD:
        if (n == 0) bench__md_head(o, s);
        if (r) bench__md_row(o, r, s);
        else str_fmt(s, "\nbuild: llmrun %s\n", version);
        break;
    case BENCH_CSV:
        if (n == 0) bench__csv_head(s);
        if (r) bench__csv_row(r, s);
        break;
    case BENCH_JSON:
        str_put(s, n == 0 ? "[\n" : r ? ",\n" : "\n");
        if (r) {
            str_put(s, "  {\n    ");
            bench__json_row(r, ",\n    ", s);
            str_put(s, "\n  }");
        } else {
            str_put(s, "]\n");
        }
        break;
    case BENCH_JSONL:
        if (!r) break;
        str_put(s, "{");
        bench__json_row(r, ", ", s);
        str_put(s, "}\n");
        break;
    }
}

/* --- the machine: what it gives, what it has --- */

typedef struct {
    _Alignas(64) uint8_t x[K_PROBE_BYTES];            /* for products */
    pool       *p;
    uint8_t    *mem;                                  /* for sweeps: several parts, one a sweep, turn about */
    size_t      bytes, at;                            /* of all parts; where the next sweep begins */
    bench_rate *of;                                   /* [threads] products alone */
    double      t0, t1;                               /* of the sweep */
    _Atomic uint64_t sum;                             /* of all that was read and multiplied */
} bench_machine;

static bool bench__machine_open(bench_machine *m, err_t *e) {
    const long   l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
    const size_t cache = l3 > 0 ? (size_t)l3 : 0;
    const size_t have = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    const size_t most = have / 8 < (size_t)BENCH_SWEEPS * BENCH_SWEEP ? have / 8 : (size_t)BENCH_SWEEPS * BENCH_SWEEP;
    m->bytes = BENCH_SWEEP;                           /* as many as make the last cache forget one until its turn comes */
    while (m->bytes < 2 * cache && m->bytes + BENCH_SWEEP <= most) m->bytes += BENCH_SWEEP;
    m->mem = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m->mem == MAP_FAILED) {
        m->mem = NULL;
        return err_set(e, EXIT_RESOURCE, "no memory for a sweep of %zu bytes: %s", m->bytes, strerror(errno));
    }
    madvise(m->mem, m->bytes, MADV_HUGEPAGE);
    for (size_t i = 0; i < m->bytes; i += 4096) m->mem[i] = 1;    /* pages of its own, not the one page of zeros */
    for (size_t i = 0; i < sizeof m->x / sizeof(float); i++) {
        const float v = 1.0f / (float)(i + 3);        /* as floats, ordinary ones; as integers, anything */
        memcpy(m->x + i * sizeof v, &v, sizeof v);
    }
    return true;
}

static void bench__machine_close(bench_machine *m) {
    if (m->mem) munmap(m->mem, m->bytes);
    mem_free(m->of);
    m->mem = NULL;
    m->of = NULL;
}

static void bench__use_pool(bench_machine *m, pool *p) {
    m->p = p;
    m->of = mem_grow(m->of, (size_t)p->n, sizeof *m->of);
}

/* Chunks are dealt as the tasks of a step are: a thread that is held up is not waited for. */
static void bench__read_all(void *ctx, int ith) {
    bench_machine *m = ctx;
    const int      n = BENCH_SWEEP / BENCH_CHUNK;
    uint64_t       sum = 0;
    pool_barrier(m->p);
    if (ith == 0) m->t0 = clock_now();
    for (int i; (i = pool_next(m->p)) < n;)
        sum += k_probe_get()->read(m->mem + m->at + (size_t)i * BENCH_CHUNK, BENCH_CHUNK);
    pool_barrier(m->p);
    if (ith == 0) m->t1 = clock_now();
    atomic_fetch_add(&m->sum, sum);
}

static void bench__multiply_all(void *ctx, int ith) {
    bench_machine *m = ctx;
    const k_probe *k = k_probe_get();
    uint64_t       sum = 0;
    pool_barrier(m->p);
    for (int what = 0; what < K_ACTS; what++) {
        const int    n = BENCH_BURST / k->round[what];
        const double t0 = clock_now();
        double       t = 0, done = 0;
        while (t < BENCH_PROBE_S) {
            sum += k->mul[what](m->x, n);
            done += (double)n * k->round[what];
            t = clock_now() - t0;
        }
        m->of[ith].mul[what] = done / t;
    }
    atomic_fetch_add(&m->sum, sum);
}

static bench_rate bench__probe(bench_machine *m) {
    pool_run(m->p, bench__read_all, m);
    bench_rate r = {BENCH_SWEEP / (m->t1 - m->t0), {0}};
    m->at = (m->at + BENCH_SWEEP) % m->bytes;
    pool_run(m->p, bench__multiply_all, m);
    for (int i = 0; i < m->p->n; i++)
        for (int k = 0; k < K_ACTS; k++) r.mul[k] += m->of[i].mul[k];
    return r;
}

/* The processor's name, "" where the system does not tell. */
static void bench__cpu_name(char *out, size_t n) {
    char  line[512];
    FILE *f = fopen("/proc/cpuinfo", "re");
    *out = 0;
    while (f && !*out && fgets(line, sizeof line, f)) {
        char *v = strchr(line, ':');
        if (!v || strncmp(line, "model name", 10) != 0) continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(out, n, "%s", v + 1 + strspn(v + 1, " "));
    }
    if (f) fclose(f);
}

/* Seconds of CPU: taken by anybody, or by the machine's host; taken by us; there were. */
typedef struct {
    double busy, own, all;
} bench_cpu;

static bench_cpu bench__cpu_time(void) {
    unsigned long long v[8] = {0};                    /* user nice system idle iowait irq softirq steal */
    bench_cpu          c = {0};
    struct rusage      ru;
    const double       hz = (double)sysconf(_SC_CLK_TCK);
    FILE              *f = fopen("/proc/stat", "re");
    if (f && fscanf(f, "cpu") == 0)
        for (int i = 0; i < 8 && fscanf(f, "%llu", &v[i]) == 1; i++) {
            c.all += (double)v[i] / hz;
            if (i != 3 && i != 4) c.busy += (double)v[i] / hz;
        }
    if (f) fclose(f);
    getrusage(RUSAGE_SELF, &ru);
    c.own = (double)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) + (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) * 1e-6;
    return c;
}

/* Share of all CPUs that went elsewhere between a and b; NAN where the clock of the system is too coarse to tell. */
static double bench__others(bench_cpu a, bench_cpu b) {
    const double all = b.all - a.all, other = (b.busy - a.busy) - (b.own - a.own);
    return all < 0.4 ? NAN : other < 0 ? 0 : other / all;
}

/* From here on the peak is counted anew, where the kernel lets us. */
static void bench__peak_reset(void) {
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (write(fd, "5", 1) < 0) log_info("the peak of memory is that of the whole run");
    close(fd);
}

static int64_t bench__peak_bytes(const bench_machine *m) {
    struct rusage ru;
    getrusage(RUSAGE_SELF, &ru);
    int64_t n = (int64_t)ru.ru_maxrss * 1024 - (int64_t)m->bytes;
    return n > 0 ? n : 0;
}

/* --- the picture of a run --- */

/* What a picture shows of a row. */
typedef struct {
    bench_test t;
    double     ts, sd;                                /* tokens per second */
    char      *with;                                  /* what else tells its row from others: ", 2 threads"; ours to free */
} bench_point;

enum { BENCH_PREFILL, BENCH_DECODE };                 /* panels: tests with a prompt, tests without */

static int bench__panel(const bench_test *t) { return t->n_prompt ? BENCH_PREFILL : BENCH_DECODE; }

/* Whether the tests of a panel differ in depth, in sequences. */
static void bench__varies(const bench_point *p, int n, int panel, bool *depth, bool *seqs) {
    const bench_test *first = NULL;
    *depth = *seqs = false;
    for (int i = 0; i < n; i++) {
        if (bench__panel(&p[i].t) != panel) continue;
        if (!first) first = &p[i].t;
        *depth |= p[i].t.n_depth != first->n_depth;
        *seqs |= p[i].t.n_seq != first->n_seq;
    }
}

/* Lines over what varies, depth before sequences; bars where neither does. */
static void bench__fill_panel(const bench_point *p, int n, int panel, plot_panel *a) {
    bool depth, seqs;
    bench__varies(p, n, panel, &depth, &seqs);
    a->title = panel == BENCH_PREFILL ? "Prefill, tokens/s" : seqs ? "Decode, tokens/s of all sequences together" : "Decode, tokens/s";
    a->x_name = depth ? "tokens in the cache before the test" : seqs ? "sequences side by side" : NULL;
    a->x_log = !depth && seqs;
    for (int i = 0; i < n; i++) {
        bench_test t = p[i].t;
        str        name = {0};
        if (bench__panel(&t) != panel) continue;
        if (depth) t.n_depth = 0;
        else if (seqs) t.n_seq = 1;
        bench__label(&t, &name);
        str_put(&name, p[i].with);
        plot_add(a, name.p, depth ? p[i].t.n_depth : p[i].t.n_seq, p[i].ts, p[i].sd);
        str_drop(&name);
    }
}

/* The picture of n rows, the last of which is `r`; what differs from row to row stands in their names. */
static void bench_picture(const bench_opts *o, const bench_point *p, int n, const bench_row *r, int n_models, str *s) {
    plot g = {.title = "llmrun --bench: tokens per second"};
    str  below = {0}, caption = {0};
    bench__fill_panel(p, n, BENCH_PREFILL, &g.panel[0]);
    bench__fill_panel(p, n, BENCH_DECODE, &g.panel[1]);
    str_fmt(&below, "%s, %s", n_models > 1 ? "several models" : r->model_type, r->cpu_info);
    str_fmt(&caption, "llmrun %s, ", r->version);
    if (o->level.n == 1) str_fmt(&caption, "%s kernels, ", r->level);
    if (o->threads.n == 1) str_fmt(&caption, "%lld thread%s, ", (long long)r->n_threads, r->n_threads == 1 ? "" : "s");
    str_fmt(&caption, "%s, mean of %d", r->test_time, r->n);
    g.below = below.p;
    g.caption = caption.p;
    plot_svg(&g, s);
    plot_drop(&g);
    str_drop(&below);
    str_drop(&caption);
}

/* What tells a row from others of its test: every list of settings that has several values, and the file where there are several. */
static void bench__with(const bench_opts *o, const bench_row *r, int n_models, str *s) {
    const char *slash = strrchr(r->model_file, '/');
    str_put(s, "");
    if (n_models > 1) str_fmt(s, ", %s", slash ? slash + 1 : r->model_file);
    if (o->threads.n > 1) str_fmt(s, ", %lld thread%s", (long long)r->n_threads, r->n_threads == 1 ? "" : "s");
    if (o->level.n > 1) str_fmt(s, ", %s", r->level);
    if (o->repack.n > 1) str_fmt(s, ", repack %s", r->repack);
    if (o->type_k.n > 1) str_fmt(s, ", K %s", r->type_k);
    if (o->type_v.n > 1) str_fmt(s, ", V %s", r->type_v);
    if (o->batch.n > 1) str_fmt(s, ", b %lld", (long long)r->n_batch);
    if (o->ubatch.n > 1) str_fmt(s, ", ub %lld", (long long)r->n_ubatch);
}

/* --- a model under test --- */

typedef struct {
    const bench_opts *o;
    const fwd_opts   *fo;
    const kv_opts    *ko;
    const char       *version;
    char              cpu[128], type[120], time[32];
    bench_form        form;
    out_t            *out;
    int               n_put;                          /* rows written */
    bench_point      *point;                          /* [n_points] what the picture shows of them */
    int               n_points, n_models;
    bench_row         last;                           /* the last of them */
    bench_machine     machine;
    gguf_file         g;
    uint64_t          bytes, weights;                 /* of the model's tensors */
    bench_setup       set;
    engine           *eng;
    int               step;                           /* most rows of a prefill step */
    kv_seq          **seq;                            /* [n_seq] */
    int              *valid;                          /* [n_seq] positions that hold something */
    int               n_seq;
    gguf_file         draft_g;                        /* open where o->draft is given */
    engine           *draft;                          /* NULL: guesses are free */
    kv_seq           *draft_seq;
    int               draft_valid;
    bench_sample     *sample;                         /* [reps] */
    double           *ns, *ts;                        /* [reps] */
    dev_times         times, draft_times;
    double            pick_s;                         /* seconds of picking one token */
} bench_job;

static int64_t bench__length(const bench_test *t) { return (int64_t)t->n_depth + t->n_prompt + t->n_gen; }

/* Guesses of the round behind the first `there` tokens: the step makes one token more than are right. */
static int bench__room(const bench_test *t, int there) {
    const int room = t->n_gen - there - 1;
    return room < 0 ? 0 : room < t->n_guess ? room : t->n_guess;
}

/* Number *i of the tests that decode n tokens with guesses, one sequence; what is passed by is taken off *i. */
static bool bench__guess_test(const bench_opts *o, int n, int depth, int *i, bench_test *t) {
    for (int k = 0; n && k < o->guess.n; k++)
        for (int a = 0; o->guess.v[k] && a < o->chance.n; a++)
            if ((*i)-- == 0) return *t = (bench_test){0, n, depth, 1, o->guess.v[k], o->chance.v[a]}, true;
    return false;
}

/* Test number i of a depth: prompts, then generation, then both, each of the last two for every number of sequences; behind a
 * generation the same with guesses. False past the last. What asks for nothing is left out. */
static bool bench__test_at(const bench_opts *o, int depth, int i, bench_test *t) {
    for (int k = 0; k < o->prompt.n; k++)
        if (o->prompt.v[k] && i-- == 0) return *t = (bench_test){o->prompt.v[k], 0, depth, 1, 0, 0}, true;
    for (int k = 0; k < o->gen.n + o->pair.n / 2; k++) {
        const int *p = k < o->gen.n ? NULL : o->pair.v + 2 * (k - o->gen.n), n = p ? p[1] : o->gen.v[k];
        for (int s = 0; s < o->seqs.n; s++)
            if ((n || (p && p[0])) && i-- == 0) return *t = (bench_test){p ? p[0] : 0, n, depth, o->seqs.v[s], 0, 0}, true;
        if (!p && bench__guess_test(o, n, depth, &i, t)) return true;
    }
    return false;
}

/* Whether there is a test at all. */
static bool bench_any(const bench_opts *o) {
    bench_test t;
    return bench__test_at(o, 0, 0, &t);
}

/* Whether there is one with guesses. */
static bool bench_guesses(const bench_opts *o) {
    bench_test t;
    bool       any = false;
    for (int i = 0; !any && bench__test_at(o, 0, i, &t); i++) any = t.n_guess > 0;
    return any;
}

typedef struct {                                      /* over all tests */
    int     len, n_seq;                               /* most positions of a sequence; most sequences */
    int     rows;                                     /* most rows of a step that makes tokens */
    int64_t all;                                      /* positions of all sequences together, each at its longest */
} bench_extent;

static bench_extent bench__extent(const bench_opts *o) {
    bench_extent x = {1, 1, 1, 0};
    int64_t      of[BENCH_SEQS] = {0};
    bench_test   t;
    for (int d = 0; d < o->depth.n; d++)
        for (int i = 0; bench__test_at(o, o->depth.v[d], i, &t); i++) {
            const int rows = t.n_guess ? 1 + bench__room(&t, 0) : t.n_seq;
            if (rows > x.rows) x.rows = rows;
            for (int s = 0; s < t.n_seq; s++) {
                if (bench__length(&t) > of[s]) of[s] = bench__length(&t);
                if (of[s] > x.len) x.len = (int)of[s];
                if (s + 1 > x.n_seq) x.n_seq = s + 1;
            }
        }
    for (int s = 0; s < x.n_seq; s++) x.all += of[s];
    return x;
}

/* The row of sequence s, which is seq, at a position; its token is anything, and always the same. */
static fwd_row bench__row(const engine *eng, kv_seq *seq, int s, int pos, bool logits) {
    const uint64_t bits = rng_at(BENCH_SEED, (uint64_t)s, (uint64_t)pos, 0);
    return (fwd_row){(int32_t)(bits % (uint64_t)eng->m.hp.n_vocab), pos, seq, logits};
}

/* Steps of a repetition's prompts. */
static int64_t bench__prompt_steps(const bench_job *j, const bench_test *t) {
    return ((int64_t)t->n_prompt * t->n_seq + j->step - 1) / j->step;
}

/* Rows of step number `step` of a repetition into eng->row; 0 past the last. *asks: how many want logits. A prompt asks for its
 * last token, and for the last of every n_batch. */
static int bench__rows(const bench_job *j, const bench_test *t, int64_t step, int *asks) {
    const int64_t all = (int64_t)t->n_prompt * t->n_seq, n_pre = bench__prompt_steps(j, t);
    fwd_row      *row = j->eng->row;
    int           n = 0;
    *asks = 0;
    for (int64_t at = step * j->step; step < n_pre && at < all && n < j->step; at++, n++) {
        const int  i = (int)(at % t->n_prompt);
        const bool ask = i + 1 == t->n_prompt || (i + 1) % j->set.batch == 0;
        const int  s = (int)(at / t->n_prompt);
        row[n] = bench__row(j->eng, j->seq[s], s, t->n_depth + i, ask);
        *asks += ask;
    }
    if (step < n_pre) return n;
    for (; step - n_pre < t->n_gen && n < t->n_seq; n++)
        row[n] = bench__row(j->eng, j->seq[n], n, t->n_depth + t->n_prompt + (int)(step - n_pre), true);
    return *asks = n;
}

/* --- rounds of guesses --- */

/* How far a repetition with guesses is. Tokens are counted from the test's first one. */
typedef struct {
    engine *eng;                                      /* whose step it is */
    int     guesses, made;                            /* of this round; by the draft so far */
    int     there, read;                              /* rows that stay; that the draft has read */
    int64_t steps;                                    /* of the model */
} bench_round;

static bench_round bench__begin(const bench_test *t) { return (bench_round){.guesses = bench__room(t, 0)}; }

/* The coin of a place: the same however many guesses are made, and heads for a higher chance wherever it is for a lower one. */
static bool bench__right(const bench_test *t, int place) {
    return rng_unit(rng_at(BENCH_COINS, 0, (uint64_t)place, 0)) * 100 < t->chance;
}

/* Rows of the next step into g->eng->row: the draft reads what it has not read and guesses one token more, or the model runs the row
 * behind what is there and those of the guesses. 0 past the last. */
static int bench__round_rows(const bench_job *j, const bench_test *t, bench_round *g) {
    const bool drafts = j->draft && g->made < g->guesses;
    const int  from = drafts ? g->read : g->there, to = g->there + (drafts ? g->made : g->guesses);
    kv_seq    *seq = drafts ? j->draft_seq : j->seq[0];
    int        n = 0;
    g->eng = drafts ? j->draft : j->eng;
    if (g->there >= t->n_gen) return 0;
    for (int p = from; p <= to; p++) g->eng->row[n++] = bench__row(g->eng, seq, 0, t->n_depth + p, !drafts || p == to);
    return n;
}

/* The step has run. Behind one of the model: what of the guesses was right stays. */
static void bench__round_on(const bench_job *j, const bench_test *t, bench_round *g) {
    if (g->eng == j->draft) {
        g->read = g->there + ++g->made;
        return;
    }
    int right = 0;
    while (right < g->guesses && bench__right(t, g->there + 1 + right)) right++;
    g->there += 1 + right;
    if (g->read > g->there) g->read = g->there;
    g->guesses = bench__room(t, g->there);
    g->made = 0;
    g->steps++;
}

/* --- what a step takes --- */

/* A matrix times `rows` rows in all; `mats` matrices of a stack are read for them. */
static void bench__add_mat(bench_work *w, const arch_mat *m, double rows, double mats) {
    const double size = (double)m->n_in * m->n_out;
    if (!m->data || rows <= 0) return;
    w->bytes += mats * (m->packed ? (double)m->packed_bytes : (double)m->row_bytes * m->n_out);
    w->mul[k_act_of(m->type)] += rows * size;
}

static void bench__add_experts(bench_work *w, const arch_hparams *hp, const arch_layer *l, double rows) {
    const double E = hp->n_expert, K = hp->n_expert_used;
    const double met = E * (1 - pow(1 - K / E, rows));    /* experts that so many random rows come by */
    const arch_mat *exps[] = {&l->gate_exps, &l->up_exps, &l->down_exps};
    const arch_mat *own[] = {&l->router, &l->gate_shexp, &l->up_shexp, &l->down_shexp};
    for (int i = 0; i < 3; i++) bench__add_mat(w, exps[i], rows * K, met);
    for (int i = 0; i < 4; i++) bench__add_mat(w, own[i], rows, 1);
}

/* Of the rows of a step, all [0] and those that ask for logits [1], which alone go through the whole last layer. */
typedef struct {
    double rows[2], past[2], kept[2];                 /* rows; positions they see; positions of K and V that are read */
} bench_span;

static bench_span bench__span(const fwd_row *row, int n, int window) {
    bench_span b = {{0}, {0}, {0}};
    int        run[2] = {0};                          /* rows of this sequence so far */
    for (int i = 0; i < n; i++) {
        const int all = row[i].pos + 1, seen = window && all > window ? window : all;
        for (int k = 0; k < 1 + row[i].logits; k++) {
            b.rows[k]++;
            b.past[k] += seen;
            run[k]++;
        }
        if (i + 1 < n && row[i + 1].seq == row[i].seq) continue;
        for (int k = 0; k < 2; k++) {                 /* windows of neighbours overlap but for one position */
            const int reach = seen + run[k] - 1 < all ? seen + run[k] - 1 : all;
            b.kept[k] += run[k] ? reach : 0;
            run[k] = 0;
        }
    }
    return b;
}

static void bench__add_layer(bench_work *w, const engine *eng, int il, const bench_span *b) {
    const arch_hparams  *hp = &eng->m.hp;
    const arch_layer    *l = &eng->m.layer[il];
    const arch_layer_hp *lh = &hp->layer[il];
    const int            k = il == hp->n_layer - 1;
    const arch_mat      *some[] = {&l->wq, &l->wo, &l->gate, &l->up, &l->down}, *all[] = {&l->wk, &l->wv};
    const size_t         kv = k_kv_bytes(eng->kv->opts.type_k, hp->hd_k) + k_kv_bytes(eng->kv->opts.type_v, hp->hd_v);
    for (int i = 0; i < 5; i++) bench__add_mat(w, some[i], b->rows[k], 1);
    for (int i = 0; i < 2; i++) bench__add_mat(w, all[i], b->rows[0], 1);
    if (hp->n_expert && b->rows[k] > 0) bench__add_experts(w, hp, l, b->rows[k]);
    w->mul[k_kv_act(eng->kv->opts.type_k)] += b->past[k] * lh->n_head * hp->hd_k;
    w->mul[k_kv_act(eng->kv->opts.type_v)] += b->past[k] * lh->n_head * hp->hd_v;
    w->bytes += b->kept[k] * lh->n_head_kv * (double)kv;
}

/* What the first n rows of eng->row take. */
static void bench__add_step(bench_work *w, const engine *eng, int n) {
    const model     *m = &eng->m;
    const bench_span b = bench__span(eng->row, n, m->hp.window);
    arch_mat         head = m->glob.output;
    for (int il = 0; il < m->hp.n_layer; il++) bench__add_layer(w, eng, il, &b);
    head.n_out = m->hp.n_vocab;
    bench__add_mat(w, &head, b.rows[1], 1);
    w->bytes += (double)n * (double)m->glob.tok_embd.row_bytes;
}

static bench_work bench__work_rounds(const bench_job *j, const bench_test *t) {
    bench_work  w = {0};
    bench_round g = bench__begin(t);
    for (int n; (n = bench__round_rows(j, t, &g)) > 0; bench__round_on(j, t, &g)) bench__add_step(&w, g.eng, n);
    w.steps = (double)g.steps;
    return w;
}

static bench_work bench__work(const bench_job *j, const bench_test *t) {
    bench_work w = {.steps = t->n_gen};
    int        asks;
    if (t->n_guess) return bench__work_rounds(j, t);
    for (int64_t i = 0;; i++) {
        const int n = bench__rows(j, t, i, &asks);
        if (!n) return w;
        bench__add_step(&w, j->eng, n);
    }
}

/* --- a test --- */

static void bench__progress(const bench_test *t, const char *what, int i, int n) {
    str s = {0};
    if (!progress_due()) return;
    bench__label(t, &s);
    progress_show("%s: %s %d of %d", s.p, what, i, n);
    str_drop(&s);
}

/* Tokens [*valid, depth) of seq, which is number s, untimed, and room for the test behind them, touched. */
static bool bench__fill(const bench_job *j, engine *eng, kv_seq *seq, int s, int *valid, const bench_test *t, err_t *e) {
    float    *logits;
    const int len = (int)bench__length(t), keep = *valid < t->n_depth ? *valid : t->n_depth;
    const int step = eng->n_batch < j->step ? eng->n_batch : j->step;
    *valid = kv_truncate(seq, keep < seq->n ? keep : seq->n);
    for (int from, n; (from = *valid) < t->n_depth; *valid += n) {
        n = t->n_depth - from < step ? t->n_depth - from : step;
        bench__progress(t, "token", s * t->n_depth + from, t->n_seq * t->n_depth);
        if (!kv_require(seq, from + n, e)) return false;
        for (int i = 0; i < n; i++) eng->row[i] = bench__row(eng, seq, s, from + i, false);
        if (!gen_step_rows(eng, n, 0, from + n - 1, &logits, e)) return false;
    }
    if (!kv_require(seq, len, e)) return false;
    kv_touch(seq, t->n_depth);
    return true;
}

/* All sequences stand at the test's depth. With guesses they take their blocks round by round, as text does. */
static bool bench__prepare(bench_job *j, const bench_test *t, err_t *e) {
    for (int s = 0; s < t->n_seq; s++)
        if (!bench__fill(j, j->eng, j->seq[s], s, &j->valid[s], t, e)) return false;
    if (!t->n_guess) return true;
    kv_truncate(j->seq[0], t->n_depth);
    if (!j->draft) return true;
    if (!bench__fill(j, j->draft, j->draft_seq, 0, &j->draft_valid, t, e)) return false;
    kv_truncate(j->draft_seq, t->n_depth);
    return true;
}

/* Room for the step that comes, the draft's for all of its round: behind a window it could not be cut back otherwise. */
static bool bench__round_room(const bench_job *j, const bench_test *t, const bench_round *g, err_t *e) {
    const int to = t->n_depth + g->there + g->guesses;
    return g->eng == j->draft ? kv_require(j->draft_seq, to, e) : kv_require(j->seq[0], to + 1, e);
}

static void bench__round_cut(const bench_job *j, const bench_test *t, const bench_round *g) {
    kv_truncate(j->seq[0], t->n_depth + g->there);
    if (j->draft) kv_truncate(j->draft_seq, t->n_depth + g->read);
}

/* One round, checked. */
static bool bench__warm_round(bench_job *j, const bench_test *t, err_t *e) {
    bench_round g = bench__begin(t);
    while (!g.steps) {
        float    *logits;
        const int n = bench__round_rows(j, t, &g), asks = g.eng == j->draft ? 1 : n;
        if (!bench__round_room(j, t, &g, e) || !gen_step_rows(g.eng, n, asks, g.eng->row[n - 1].pos, &logits, e)) return false;
        bench__round_on(j, t, &g);
    }
    bench__round_cut(j, t, &g);
    return true;
}

/* One step of either kind, checked: weights are read, scratch is touched, and what is not a number is told. */
static bool bench__warm_up(bench_job *j, const bench_test *t, err_t *e) {
    const int64_t n_pre = bench__prompt_steps(j, t), at[] = {0, n_pre - 1, n_pre};
    float        *logits;
    if (t->n_guess) return bench__warm_round(j, t, e);
    for (int i = 0; i < 3; i++) {
        int       asks;
        const int n = at[i] < 0 || (i && at[i] == at[i - 1]) ? 0 : bench__rows(j, t, at[i], &asks);
        if (n && !gen_step_rows(j->eng, n, asks, j->eng->row[n - 1].pos, &logits, e)) return false;
    }
    return true;
}

/* What the decode would take without guesses, from a few of its steps, spread over it: just now, since how fast the machine is changes
 * from one minute to the next. */
static bool bench__plain(bench_job *j, const bench_test *t, bench_sample *s, err_t *e) {
    const bench_test without = {0, t->n_gen, t->n_depth, 1, 0, 0};
    const int        n = t->n_gen < BENCH_PLAIN ? t->n_gen : BENCH_PLAIN;
    if (!kv_require(j->seq[0], (int)bench__length(t), e)) return false;
    const double t0 = clock_now();
    for (int i = 0; i < n; i++) {
        int       asks;
        const int rows = bench__rows(j, &without, (int64_t)(2 * i + 1) * t->n_gen / (2 * n), &asks);
        if (!fwd_step(j->eng->f, j->eng->row, rows)) return false;
    }
    s->plain = (clock_now() - t0) * t->n_gen / n;
    kv_truncate(j->seq[0], t->n_depth);
    return true;
}

/* One repetition with guesses. False: an interrupt, or an error in e. */
static bool bench__rounds(bench_job *j, const bench_test *t, bench_sample *s, err_t *e) {
    bench_round  g = bench__begin(t);
    const double t0 = clock_now();
    for (int n; (n = bench__round_rows(j, t, &g)) > 0;) {
        if (!bench__round_room(j, t, &g, e) || !fwd_step(g.eng->f, g.eng->row, n)) return false;
        bench__round_on(j, t, &g);
        if (g.eng == j->draft) continue;
        bench__round_cut(j, t, &g);
        if (g.steps == 1) s->first = clock_now() - t0;
    }
    s->all = clock_now() - t0;
    return gen_whole(j->eng, e) && (!j->draft || gen_whole(j->draft, e));
}

/* One repetition. False: an interrupt, or an error in e. */
static bool bench__once(bench_job *j, const bench_test *t, bench_sample *s, err_t *e) {
    if (t->n_guess) return bench__rounds(j, t, s, e);
    const int64_t n_pre = bench__prompt_steps(j, t), first = n_pre ? n_pre - 1 : 0;
    const double  t0 = clock_now();
    float        *logits = NULL;
    int           asks, n;
    for (int64_t i = 0; (n = bench__rows(j, t, i, &asks)) > 0; i++) {
        if (!(logits = fwd_step(j->eng->f, j->eng->row, n))) return false;
        if (i == first) s->first = clock_now() - t0;
    }
    s->all = clock_now() - t0;
    return gen_whole(j->eng, e);
}

static bench_rate bench__between(bench_rate a, bench_rate b) {
    a.read = (a.read + b.read) / 2;
    for (int k = 0; k < K_ACTS; k++) a.mul[k] = (a.mul[k] + b.mul[k]) / 2;
    return a;
}

/* Whether the steps' time is counted by stage. */
static void bench__time_stages(bench_job *j, bool on) {
    j->eng->f->times = on ? &j->times : NULL;
    if (j->draft) j->draft->f->times = on ? &j->draft_times : NULL;
}

/* All repetitions, the machine probed between them: a sample has the mean of before and after. */
static bool bench__repeat(bench_job *j, const bench_test *t, err_t *e) {
    bench_rate before = bench__probe(&j->machine);
    j->times = j->draft_times = (dev_times){0};
    bool ok = true;
    for (int r = 0; ok && r < j->o->reps; r++) {
        bench_sample *s = &j->sample[r];
        if (t->n_guess && !(bench__prepare(j, t, e) && bench__plain(j, t, s, e))) return false;
        bench__progress(t, "repetition", r + 1, j->o->reps);
        bench__time_stages(j, g_log_level >= LOG_VERBOSE);
        ok = bench__once(j, t, s, e);
        bench__time_stages(j, false);
        if (!ok) break;
        bench_rate after = bench__probe(&j->machine);
        s->rate = bench__between(before, after);
        before = after;
    }
    return ok && !g_interrupt;
}

static bool bench__write(bench_job *j, const bench_row *r) {
    str s = {0};
    str_put(&s, "");
    bench_put(j->form, j->o, j->version, r, j->n_put, &s);
    j->n_put += r != NULL;
    bool ok = out_put(j->out, s.p, s.n) && out_flush(j->out);
    str_drop(&s);
    return ok;
}

/* Keeps what a picture shows of a row. */
static void bench__keep(bench_job *j, const bench_row *r) {
    str with = {0};
    bench__with(j->o, r, j->n_models, &with);
    j->point = mem_grow(j->point, (size_t)j->n_points + 1, sizeof *j->point);
    j->point[j->n_points++] = (bench_point){bench__of_row(r), r->avg_ts, r->sd_ts, with.p};
    j->last = *r;
}

/* Draws what was kept, which may be less than all where a run was stopped, and lets it go. */
static bool bench__draw(bench_job *j, out_t *svg, err_t *e) {
    str  s = {0};
    bool ok = true;
    if (svg && j->n_points) {
        bench_picture(j->o, j->point, j->n_points, &j->last, j->n_models, &s);
        ok = out_begin(svg, e) && out_put(svg, s.p, s.n);
    }
    for (int i = 0; i < j->n_points; i++) mem_free(j->point[i].with);
    mem_free(j->point);
    str_drop(&s);
    return ok;
}

/* Where the time of the steps of a test went, on stderr. */
static void bench__say_times(const bench_test *t, const char *whose, const dev_times *f) {
    double all = 0, wait = 0;
    str    s = {0};
    if (!f->steps) return;
    for (int i = 0; i < FWD_STAGES; i++) all += f->all[i], wait += f->wait[i];
    bench__label(t, &s);
    fprintf(stderr, "llmrun: %s: %lld steps%s\n  %-12s %9s %7s %9s\n", s.p, f->steps, whose, "stage", "ms/step", "share", "waiting");
    for (int i = 0; i <= FWD_STAGES; i++) {
        const bool   sum = i == FWD_STAGES;
        const double a = sum ? all : f->all[i], b = sum ? wait : f->wait[i];
        fprintf(stderr, "  %-12s %9.3f %6.1f%% %8.1f%%\n", sum ? "all" : fwd_stage_names[i], a * 1e3 / (double)f->steps,
                100 * a / all, 100 * b / all);
    }
    str_drop(&s);
}

/* That of the model's, and of the draft's. Picking a token, which a test leaves out, stands behind. */
static void bench__say_stages(const bench_job *j, const bench_test *t) {
    if (g_log_level < LOG_VERBOSE || !j->times.steps) return;
    bench__say_times(t, "", &j->times);
    fprintf(stderr, "  %-12s %9.3f  for each token, not part of the step\n", "sampling", j->pick_s * 1e3);
    bench__say_times(t, " of the draft", &j->draft_times);
}

/* Seconds that the default chain takes to pick from the logits of the last step. */
static bool bench__pick(bench_job *j, err_t *e) {
    samp *sm = samp_new(&samp_defaults, j->eng->m.hp.n_vocab, BENCH_SEED, 0, e);
    if (!sm) return false;
    const double t0 = clock_now();
    samp_pick(sm, j->eng->f->logits, 0);
    j->pick_s = clock_now() - t0;
    samp_free(sm);
    return true;
}

static void bench__now(char *out, size_t n) {
    const time_t now = time(NULL);
    struct tm    tm;
    if (!gmtime_r(&now, &tm) || !strftime(out, n, "%Y-%m-%dT%H:%M:%SZ", &tm)) *out = 0;
}

static bench_row bench__result(bench_job *j, const bench_test *t, double others) {
    const bench_work w = bench__work(j, t);
    bench_row        r = {
               .version = j->version, .cpu_info = j->cpu, .model_file = j->g.path, .model_type = j->type,
               .level = k_level_name(), .repack = bench_repacks[j->set.repack], .test_time = j->time, .others = others,
               .type_k = k_types[j->set.type_k].name, .type_v = k_types[j->set.type_v].name,
               .model_bytes = (int64_t)j->bytes, .model_weights = (int64_t)j->weights,
               .n_batch = j->set.batch, .n_ubatch = j->set.ubatch, .n_threads = j->eng->p->n,
               .n_prompt = t->n_prompt, .n_gen = t->n_gen, .n_depth = t->n_depth, .n_seq = t->n_seq,
               .n_guess = t->n_guess, .chance = t->chance / 100.0, .draft_file = t->n_guess && j->draft ? j->draft_g.path : "",
               .peak_bytes = bench__peak_bytes(&j->machine)};
    bench__figures(&r, t, &w, j->sample, j->o->reps, j->ns, j->ts);
    return r;
}

static bool bench__test(bench_job *j, const bench_test *t, err_t *e) {
    if (!bench__prepare(j, t, e)) return false;
    if (!j->o->no_warmup && !bench__warm_up(j, t, e)) return false;
    bench__now(j->time, sizeof j->time);
    const bench_cpu a = bench__cpu_time();
    const bool      ok = bench__repeat(j, t, e);
    const double    others = bench__others(a, bench__cpu_time());
    progress_clear();
    if (!ok) return false;
    for (int s = 0; s < t->n_seq; s++) j->valid[s] = (int)bench__length(t);
    const bench_row row = bench__result(j, t, others);
    if (others > BENCH_BUSY) log_warn("others took %.0f %% of the CPUs meanwhile", 100 * others);
    if (g_log_level >= LOG_VERBOSE && !bench__pick(j, e)) return false;
    bench__say_stages(j, t);
    bench__keep(j, &row);
    return bench__write(j, &row);
}

/* --- setups, models --- */

/* Bytes of a position, the widest types. */
static double bench__position(const bench_job *j, const arch_hparams *hp) {
    double each = 0;
    for (int k = 0; k < j->o->type_k.n; k++)
        for (int v = 0; v < j->o->type_v.n; v++)
            each = fmax(each, (double)model_kv_bytes(hp, (uint32_t)j->o->type_k.v[k], (uint32_t)j->o->type_v.v[v]));
    return each;
}

/* Whether the machine could ever hold the sequences of all tests, and the draft's (draft: NULL, there is none), asked before memory is
 * taken that is not there. */
static bool bench__holds(const bench_job *j, const arch_hparams *hp, const arch_hparams *draft, const bench_extent *x, err_t *e) {
    const double have = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    const double beside = draft ? (double)x->len * bench__position(j, draft) : 0;
    const double need = beside + (double)x->all * bench__position(j, hp) + (double)x->rows * hp->n_vocab * sizeof(float);
    if (need <= have) return true;
    return err_set(e, EXIT_RESOURCE, "%s: %d sequences of up to %d tokens take %.0f MiB, this machine has %.0f",
                   j->g.path, x->n_seq, x->len, need / 0x1p20, have / 0x1p20);
}

/* The draft model beside the model, as [spec] has it, with a cache of the same types, whose bound is not its own. */
static bool bench__open_draft(bench_job *j, const fwd_opts *fo, const kv_opts *ko, err_t *e) {
    fwd_opts fd = *fo;
    kv_opts  kd = *ko;
    fd.n_batch = j->step;
    fd.rope = fwd_defaults.rope;
    kd.mem_bytes = 0;
    kd.max_blocks = 0;
    if (!(j->draft = engine_open_beside(&j->draft_g, NULL, &fd, &kd, j->eng, 1, BENCH_LAG, e))) return false;
    if (j->draft->n_batch < BENCH_LAG && j->draft->n_batch < j->draft->n_ctx)
        return err_set(e, EXIT_RESOURCE, "%s: no room for steps of %d tokens", j->draft_g.path, BENCH_LAG);
    if (j->o->draft_vocab) fwd_trim(j->draft->f, j->o->draft_vocab);
    j->draft_seq = kv_seq_new(j->draft->kv);
    j->draft_valid = 0;
    return true;
}

static bool bench__open(bench_job *j, const bench_extent *x, err_t *e) {
    fwd_opts fo = *j->fo;
    kv_opts  ko = *j->ko;
    j->step = j->set.batch < j->set.ubatch ? j->set.batch : j->set.ubatch;
    fo.n_ctx = x->len;
    fo.n_batch = j->step > x->rows ? j->step : x->rows;
    fo.n_threads = j->set.threads;
    fo.repack = bench_repacks[j->set.repack];
    ko.type_k = j->set.type_k;
    ko.type_v = j->set.type_v;
    bench__peak_reset();
    const int asks = 2 * x->n_seq + 2 > x->rows ? 2 * x->n_seq + 2 : x->rows;
    if (!(j->eng = engine_open_seqs(&j->g, &fo, &ko, x->n_seq, asks, e))) return false;
    if (j->eng->n_ctx < x->len || j->eng->n_batch < x->rows)
        return err_set(e, EXIT_RESOURCE, "%s: no room for %d sequences of %d tokens (--kv-mem, --kv-blocks)",
                       j->g.path, x->n_seq, x->len);
    if (j->eng->n_batch < j->step && j->eng->n_batch < x->len)
        log_warn("steps of %d tokens: more take too much memory", j->eng->n_batch);
    if (j->eng->n_batch < j->step) j->step = j->eng->n_batch;
    bench__use_pool(&j->machine, j->eng->p);
    j->n_seq = x->n_seq;
    j->seq = mem_new((size_t)j->n_seq, sizeof *j->seq);
    j->valid = mem_new((size_t)j->n_seq, sizeof *j->valid);
    for (int s = 0; s < j->n_seq; s++) j->seq[s] = kv_seq_new(j->eng->kv);
    return !j->o->draft || bench__open_draft(j, &fo, &ko, e);
}

static void bench__close(bench_job *j) {
    kv_seq_free(j->draft_seq);
    engine_close(j->draft);
    j->draft_seq = NULL;
    j->draft = NULL;
    for (int s = 0; s < j->n_seq; s++) kv_seq_free(j->seq[s]);
    mem_free(j->seq);
    mem_free(j->valid);
    engine_close(j->eng);
    j->seq = NULL;
    j->valid = NULL;
    j->eng = NULL;
    j->n_seq = 0;
}

/* One setup: every test at every depth. */
static bool bench__setup(bench_job *j, err_t *e) {
    const char        *names[16];
    const bench_extent most = bench__extent(j->o);
    bench_test         t;
    k_levels_list(names, NULL);
    k_init(j->set.level < 0 ? "auto" : names[j->set.level]);
    bool ok = bench__open(j, &most, e);
    for (int d = 0; ok && d < j->o->depth.n; d++)
        for (int i = 0; ok && bench__test_at(j->o, j->o->depth.v[d], i, &t); i++) ok = bench__test(j, &t, e);
    bench__close(j);
    return ok;
}

/* llama 1.1B Q4_K_M */
static void bench__describe(bench_job *j, const arch_hparams *hp) {
    uint64_t    number = 0, of[K_TYPE_MAX] = {0};
    uint32_t    most = 0;
    err_t       none = {0};
    const char *name = NULL;
    j->bytes = j->weights = 0;
    for (uint64_t i = 0; i < j->g.n_tensor; i++) {
        const gguf_tensor *t = &j->g.tensor[i];
        j->bytes += t->n_bytes;
        j->weights += t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
        of[t->type] += t->n_bytes;
    }
    for (uint32_t i = 0; i < K_TYPE_MAX; i++)
        if (of[i] > of[most]) most = i;
    if (gguf_get_u64(&j->g, "general.file_type", 0, UINT32_MAX, &number, &none) == 1) name = quant_file_name(number);
    const double n = (double)j->weights;
    snprintf(j->type, sizeof j->type, n >= 1e9 ? "%s %.1fB %s%s" : "%s %.1fM %s%s", hp->desc->name,
             n >= 1e9 ? n / 1e9 : n / 1e6, name ? "" : "mostly ", name ? name : k_types[most].name);
}

/* Every setup of the model in j->g: the lists in all their combinations, the first named the slowest to turn. */
static bool bench__setups(bench_job *j, err_t *e) {
    const bench_opts *o = j->o;
    const bench_list *dial[] = {&o->level, &o->repack, &o->batch, &o->ubatch, &o->type_k, &o->type_v, &o->threads};
    enum { DIALS = sizeof dial / sizeof *dial };
    int     at[DIALS] = {0}, k = 0;
    while (k >= 0) {
        int v[DIALS];
        for (int i = 0; i < DIALS; i++) v[i] = dial[i]->v[at[i]];
        j->set = (bench_setup){v[0], v[1], v[2], v[3], v[6], (uint32_t)v[4], (uint32_t)v[5]};
        if (!bench__setup(j, e)) return false;
        for (k = DIALS - 1; k >= 0 && ++at[k] == dial[k]->n; k--) at[k] = 0;
    }
    return true;
}

/* Whether the draft, where there is one, could guess for the model, as far as a vocabulary's size tells, and memory holds both. */
static bool bench__fits(const bench_job *j, const arch_hparams *hp, const bench_extent *x, err_t *e) {
    model d = {0};
    if (!j->o->draft) return bench__holds(j, hp, NULL, x, e);
    bool ok = model_open(&d, &j->draft_g, &fwd_defaults.rope, e);
    if (ok && abs(d.hp.n_vocab - hp->n_vocab) > SPEC_PAD)
        ok = err_set(e, EXIT_INPUT, "%s: not the vocabulary of %s: it has %d tokens, expected about %d", j->draft_g.path, j->g.path,
                     d.hp.n_vocab, hp->n_vocab);
    ok = ok && bench__holds(j, hp, &d.hp, x, e);
    model_close(&d);
    return ok;
}

/* Opens a file and binds its model; `run`: measures it, else only asks whether everything could be. */
static bool bench__model(bench_job *j, const char *path, bool run, err_t *e) {
    const bench_extent x = bench__extent(j->o);
    const int          len = x.len;
    model              m = {0};
    if (!gguf_open(&j->g, path, e)) return false;
    bool      ok = model_open(&m, &j->g, &j->fo->rope, e) && bench__fits(j, &m.hp, &x, e);
    const int bound = j->fo->n_ctx < 0 ? INT_MAX : j->fo->n_ctx > 0 || !ok ? j->fo->n_ctx : m.hp.n_ctx_train;
    if (ok && len > bound)
        ok = err_set(e, EXIT_INPUT, "%s: a test takes %d tokens, the context holds %d (-c)", path, len, bound);
    if (ok && !run && len > m.hp.n_ctx_train)
        log_warn("%s: a test takes %d tokens; the model was trained with %d", path, len, m.hp.n_ctx_train);
    if (ok && run) {
        bench__describe(j, &m.hp);
        ok = bench__setups(j, e);
    }
    model_close(&m);
    gguf_close(&j->g);
    return ok;
}

static bool bench__levels(const bench_opts *o, err_t *e) {
    const char *names[16];
    bool        can[16];
    k_levels_list(names, can);
    for (int i = 0; i < o->level.n; i++)
        if (o->level.v[i] >= 0 && !can[o->level.v[i]])
            return err_set(e, EXIT_INPUT, "--cpu: %s does not run on this machine (--list cpu)", names[o->level.v[i]]);
    return true;
}

/* Measures every model and writes a row as each test ends; an interrupt ends the table. All files are looked at before the
 * first is run. The picture of all rows goes to `svg` at the end (NULL: nowhere). */
static bool bench_run(const bench_opts *o, const char *const *models, int n_models, const fwd_opts *fo, const kv_opts *ko,
                      bench_form form, const char *version, out_t *out, out_t *svg, err_t *e) {
    bench_job *j = mem_aligned(1, sizeof *j);
    *j = (bench_job){.o = o, .fo = fo, .ko = ko, .version = version, .form = form, .out = out, .n_models = n_models};
    bench__cpu_name(j->cpu, sizeof j->cpu);
    bool ok = bench__levels(o, e) && (!o->draft || gguf_open(&j->draft_g, o->draft, e));
    for (int i = 0; ok && i < n_models; i++) ok = bench__model(j, models[i], false, e);
    ok = ok && bench__machine_open(&j->machine, e) && out_begin(out, e);
    const bool begun = ok;
    j->sample = mem_new((size_t)o->reps, sizeof *j->sample);
    j->ns = mem_new((size_t)o->reps, sizeof *j->ns);
    j->ts = mem_new((size_t)o->reps, sizeof *j->ts);
    for (int i = 0; ok && i < n_models; i++) ok = bench__model(j, models[i], true, e);
    progress_clear();
    if (begun && (j->n_put || !e->code)) bench__write(j, NULL);   /* an error before the first row has no table */
    if (!bench__draw(j, svg, e)) ok = false;
    bench__machine_close(&j->machine);
    if (j->draft_g.path) gguf_close(&j->draft_g);
    mem_free(j->sample);
    mem_free(j->ns);
    mem_free(j->ts);
    mem_free(j);
    return ok;
}

/* ===== [cli] option table, config, actions, main =====
 * What a person types becomes a config, and the config becomes one action. Only this room knows the whole config;
 * each room below sees its own options, by value. Parsing, range checks, --help, the README's table (--help
 * --format md) all read cli_opts; defaults are read from cli_defaults(), so help cannot lie.
 * Invariants: the parser never exits (errors come back in err_t, so a fuzzer survives); the prompt is exact bytes;
 * stdout carries the answer and nothing else, and whatever was written is flushed and checked before exit 0.
 * To add a flag: 1 field and default in the room that uses it; 2 a row here. A good default is better.
 * Door: main. */

static const char cli_version[] = "0.1.0";

enum {
    CLI_PROMPT_MAX = 1 << 30,
    CLI_BATCH_BLOCK = LLMRUN_STRESS ? 2 : 8,          /* tokens: half of a sequence's last block lies empty, and a batch has many */
    CLI_OPTS_MAX = 160
}; /* bytes of prompt taken from -p, -f and stdin together; rows of the table */

typedef enum {
    ACT_GENERATE,
    ACT_TOKENIZE,
    ACT_DETOKENIZE,
    ACT_SCORE,
    ACT_LOGITS,
    ACT_PERPLEXITY,
    ACT_IMATRIX,
    ACT_DIVERGENCE,
    ACT_INSPECT,
    ACT_DUMP,
    ACT_QUANTIZE,
    ACT_BATCH,
    ACT_BENCH,
    ACT_STATISTICS,
    ACT_MERGE,
    ACT_LIST,
    ACT_VERSION,
    ACT_USAGE,
    ACT_HELP,
    N_ACTS
} cli_act;

/* Sets of actions, for the column of the option table that says which actions an option has an effect on. */
#define ON(action) (1u << ACT_##action)
enum {
    ON_BATCH = ON(BATCH),
    ON_BENCH = ON(BENCH),
    ON_QUANTIZE = ON(QUANTIZE),
    ON_EVAL = ON(PERPLEXITY) | ON(DIVERGENCE),
    ON_ANSWER = ON(GENERATE) | ON_BATCH,              /* tokens are sampled */
    ON_TEXT = ON(GENERATE) | ON(TOKENIZE) | ON(DETOKENIZE) | ON(SCORE) | ON(LOGITS) | ON(PERPLEXITY) | ON(IMATRIX),  /* a prompt is read */
    ON_STEPS = ON_ANSWER | ON_EVAL | ON_BENCH | ON(SCORE) | ON(LOGITS) | ON(IMATRIX),                                /* the model runs */
    ON_ALL = (1u << N_ACTS) - 1
};

typedef struct {
    const char **v;
    int          n, n_own;                            /* the first n_own texts are ours to free */
} cli_list;

typedef struct {
    const char *model, *prompt, *file;                /* prompt "" is a prompt, NULL is none */
    int         action;                               /* cli_act */
    const char *what;                                 /* what the action acts on: a tensor, a file, a list */
    const char *output, *format, *cpu, *pre;          /* format, pre: NULL unless asked for */
    const char *plot;                                 /* file of --bench's picture, NULL: none */
    bool        json, bos, escape, blas, no_stdin;
    int         special;                              /* -1: as the action does by itself; 0, 1: asked for */
    int         log_level;
    int64_t     seed;                                 /* -1: draw one */
    const char *imatrix, *calibrate;                  /* an importance matrix; a text to round by */
    cli_list    stop, bias, breakers, tensor_types;
    samp_bias  *biases;                               /* bias, read */
    float       rope_freq_scale;                      /* 1 / fwd.rope.factor, 0: not given */
    kv_opts     kv;
    fwd_opts    fwd;
    gen_opts    gen;
    calib_opts  calib;
    cli_list    in_files;                             /* importance matrices to add to the one gathered */
    cli_list    inputs;                               /* files of lines, or of results */
    samp_opts   samp;
    spec_opts   spec;
    eval_opts   eval;
    int         chunks;                               /* of eval and calib */
    quant_opts  quant;
    batch_opts  batch;
    bool        resume;
    cli_list    models;                               /* of --bench, in place of model */
    bench_opts  bench;
    const char *given[CLI_OPTS_MAX];                  /* by row of cli_opts: the argument that named it, NULL: none did */
    cli_list    idle;                                 /* options of llama.cpp that change nothing here, as given */
} config;

static config cli_defaults(void) {
    return (config){.cpu = "auto", .special = -1, .log_level = LOG_NORMAL, .seed = -1,
                    .kv = kv_defaults, .fwd = fwd_defaults, .gen = gen_defaults, .calib = calib_defaults, .samp = samp_defaults, .spec = spec_defaults,
                    .eval = eval_defaults, .chunks = -1, .batch = batch_defaults, .bench = bench_defaults};
}

/* --- the table --- */

typedef enum {
    OPT_ON, OPT_OFF,                                  /* bool; no value */
    OPT_SET,                                          /* int becomes lo; no value */
    OPT_INT, OPT_I64, OPT_FLT,               /* lo <= value <= hi */
    OPT_SIZE,                                         /* uint64_t bytes, suffix K M G T (1024) */
    OPT_STR,
    OPT_WORD,                                         /* one of the words of the argument column */
    OPT_TYPE,                                         /* the same, kept as a k_types id */
    OPT_NUMS,                                         /* bench_list of such numbers: 1,2,8 a-b a-b+step a-b*factor */
    OPT_PAIR,                                         /* two numbers, at the end of a bench_list */
    OPT_TYPES,                                        /* bench_list of k_types ids, words with commas between */
    OPT_LEVELS,                                       /* bench_list of kernel levels, the same; auto is -1 */
    OPT_WORDS,                                        /* bench_list of places in the argument column, the same */
    OPT_LIST,                                         /* cli_list, grows with each use */
    OPT_ACT,                                          /* action lo; its value, if the argument column has one, is `what` */
} cli_kind;

typedef enum {
    GROUP_ACT, GROUP_PROMPT, GROUP_RUN, GROUP_SAMPLE, GROUP_SPEC, GROUP_CACHE, GROUP_ROPE, GROUP_EVAL, GROUP_QUANT, GROUP_BATCH, GROUP_BENCH, GROUP_OUT, N_GROUPS
} cli_group;

static const char *const cli_groups[N_GROUPS] = {
    [GROUP_ACT] = "Actions (at most one; without any, generate)",
    [GROUP_PROMPT] = "Model and prompt",
    [GROUP_RUN] = "Running",
    [GROUP_SAMPLE] = "Sampling",
    [GROUP_SPEC] = "Speculation: the same text, sooner",
    [GROUP_CACHE] = "KV cache and context",
    [GROUP_ROPE] = "Position encoding, when the model file is not to be believed",
    [GROUP_EVAL] = "Evaluation and importance matrices",
    [GROUP_QUANT] = "Quantising (with --quantize)",
    [GROUP_BATCH] = "Batch files (with --batch)",
    [GROUP_BENCH] = "Measuring (with --bench, where these names mean what stands here)",
    [GROUP_OUT] = "Output",
};

typedef struct {
    const char *names;                                /* every spelling, space between; errors use the one typed */
    const char *arg;                                  /* what help calls the value, NULL for none; bars: the words allowed */
    cli_kind    kind;
    size_t      at;                                   /* offset in config */
    double      lo, hi;
    cli_group   group;
    uint32_t    serves;                               /* actions it has an effect on, as ON(...) bits */
    const char *env;                                  /* environment variable read first, or NULL */
    const char *help;
} cli_opt;

#define AT(field) offsetof(config, field)
#define CLI_BIG   2147483647.0

#define CLI_CACHE_TYPES "f32|f16|bf16|q8_0|q4_0"
#define CLI_LEVELS      "auto|scalar|avx2|avx_vnni|avx512|avx512_bf16"
#define CLI_REPACKS     "auto|on|off"

static const cli_opt cli_opts[] = {
    /* names                            argument      kind      where                lo  hi       group, serves, environment, help */
    {"--tokenize",                      NULL,         OPT_ACT,  AT(what), ACT_TOKENIZE, 0,        GROUP_ACT, ON_ALL, NULL,
     "the prompt as token ids, on one line; needs a vocabulary only"},
    {"--detokenize",                    NULL,         OPT_ACT,  AT(what), ACT_DETOKENIZE, 0,      GROUP_ACT, ON_ALL, NULL,
     "token ids, from -p, -f or stdin, as exact bytes"},
    {"--score",                         NULL,         OPT_ACT,  AT(what), ACT_SCORE, 0,           GROUP_ACT, ON_ALL, NULL,
     "log-probability of each token of the prompt, a line each: index id logprob"},
    {"--logits",                        "FILE",       OPT_ACT,  AT(what), ACT_LOGITS, 0,          GROUP_ACT, ON_ALL, NULL,
     "run the prompt and write the logits of every position to FILE (- is stdout): float32, little-endian, [tokens][vocabulary]"},
    {"--perplexity",                    NULL,         OPT_ACT,  AT(what), ACT_PERPLEXITY, 0,      GROUP_ACT, ON_ALL, NULL,
     "perplexity of the text with its standard error, over windows of -c tokens (512), the second half of each scored"},
    {"--kl-divergence",                 "BASE",       OPT_ACT,  AT(what), ACT_DIVERGENCE, 0,      GROUP_ACT, ON_ALL, NULL,
     "how far the model's distributions are from those in BASE, which --kl-divergence-base wrote, on the text it was written from"},
    {"--imatrix-out",                   "FILE",       OPT_ACT,  AT(what), ACT_IMATRIX, 0,         GROUP_ACT, ON_ALL, NULL,
     "run the text of -f in chunks of -c tokens (512 by itself) and write its importance matrix to FILE, as GGUF"},
    {"--show-statistics",               NULL,         OPT_ACT,  AT(what), ACT_STATISTICS, 0,      GROUP_ACT, ON_ALL, NULL,
     "what the importance matrix of --in-file says of each tensor's inputs; needs no model"},
    {"--merge",                         "FILE",       OPT_ACT,  AT(what), ACT_MERGE, 0,           GROUP_ACT, ON_ALL, NULL,
     "the batch results of FILE and of all files after it, each line's first, in the order of the input; needs no model"},
    {"--inspect",                       NULL,         OPT_ACT,  AT(what), ACT_INSPECT, 0,         GROUP_ACT, ON_ALL, NULL,
     "check the model file wholly and print what is in it; runs nothing"},
    {"--dump-tensor",                   "NAME",       OPT_ACT,  AT(what), ACT_DUMP, 0,            GROUP_ACT, ON_ALL, NULL,
     "one tensor, dequantised, as float32, little-endian, in file order"},
    {"--quantize",                      "TYPE",       OPT_ACT,  AT(what), ACT_QUANTIZE, 0,        GROUP_ACT, ON_ALL, NULL,
     "write the model to -o with its weights in another type or mixture (--list quants); COPY leaves them as they are"},
    {"--batch",                         "FILE",       OPT_ACT,  AT(what), ACT_BATCH, 0,           GROUP_ACT, ON_ALL, NULL,
     "answer every line of FILE (- is standard input) and of all files after it, patterns such as '*.jsonl' too: OpenAI batch lines, bare "
     "bodies or plain prompts; results to -o or stdout as they come"},
    {"--bench",                         NULL,         OPT_ACT,  AT(what), ACT_BENCH, 0,           GROUP_ACT, ON_ALL, NULL,
     "measure prefill and decode as llama-bench does, beside what the machine gives in the same second; -v: where the time goes"},
    {"--list",                          "types|archs|cpu|pre|quants|options", OPT_ACT, AT(what), ACT_LIST, 0, GROUP_ACT, ON_ALL, NULL,
     "what this program can do: tensor types, architectures, kernel levels, pre-tokenizers, what --quantize makes, options"},
    {"--version",                       NULL,         OPT_ACT,  AT(what), ACT_VERSION, 0,         GROUP_ACT, ON_ALL, NULL,
     "version, compiler, kernel level, libraries"},
    {"-h --usage",                      "[TOPIC]",    OPT_ACT,  AT(what), ACT_USAGE, 0,           GROUP_ACT, ON_ALL, NULL,
     "the most used options on one screen, or the options of TOPIC"},
    {"--help",                          "[TOPIC]",    OPT_ACT,  AT(what), ACT_HELP, 0,            GROUP_ACT, ON_ALL, NULL,
     "all options, or those of TOPIC"},

    {"-m --model",                      "FILE",       OPT_STR,  AT(model),           0,  0,       GROUP_PROMPT, ON_ALL, "LLMRUN_MODEL",
     "model file, GGUF; of a split model the first part"},
    {"-p --prompt",                     "TEXT",       OPT_STR,  AT(prompt),          0,  0,       GROUP_PROMPT, ON_TEXT, NULL,
     "prompt; standard input, when it is not a terminal and not empty, is appended after a newline (--no-stdin: it is not)"},
    {"-f --file",                       "FILE",       OPT_STR,  AT(file),            0,  0,       GROUP_PROMPT, ON_TEXT, NULL,
     "prompt from FILE, byte for byte (- is standard input, which is also read when neither -p nor -f is given)"},
    {"--no-stdin",                      NULL,         OPT_ON,   AT(no_stdin),        0,  0,       GROUP_PROMPT, ON_TEXT | ON_BATCH, NULL,
     "do not read standard input: in a shell's `while read` loop it holds the lines of the loop"},
    {"-e --escape",                     NULL,         OPT_ON,   AT(escape),          0,  0,       GROUP_PROMPT, ON_TEXT | ON_BATCH, NULL,
     "read \\n \\t \\r \\\\ \\' \\\" \\xHH in -p, --stop and --dry-sequence-breaker; without it a text is exact bytes"},
    {"--no-escape",                     NULL,         OPT_OFF,  AT(escape),          0,  0,       GROUP_PROMPT, ON_TEXT | ON_BATCH, NULL,
     "the opposite, and what happens by itself"},
    {"--bos",                           NULL,         OPT_ON,   AT(bos),             0,  0,       GROUP_PROMPT, (ON_TEXT & ~ON(DETOKENIZE)) | ON_BATCH, NULL,
     "begin with the start token whatever the file says (--tokenize adds none by itself)"},
    {"-sp --special",                   NULL,         OPT_SET,  AT(special),         1,  1,       GROUP_PROMPT, ON_TEXT | ON_BATCH | ON_QUANTIZE, NULL,
     "control tokens: parse them in --tokenize, spell them out in --detokenize and in the answer"},
    {"--no-special",                    NULL,         OPT_SET,  AT(special),         0,  0,       GROUP_PROMPT, ON_TEXT | ON_BATCH | ON_QUANTIZE, NULL,
     "do not parse control tokens in the prompt (a run does by itself)"},
    {"--pre",                           "NAME",       OPT_STR,  AT(pre),             0,  0,       GROUP_PROMPT, ON_TEXT | ON_BATCH | ON_QUANTIZE | ON(INSPECT), NULL,
     "pre-tokenizer to use in place of the file's (--list pre)"},

    {"-n --predict --n-predict",        "N",          OPT_I64,  AT(gen.n_predict),  -2,  CLI_BIG, GROUP_RUN, ON_ANSWER, NULL,
     "tokens to generate; -1 until the end token or until the context is full"},
    {"-t --threads",                    "N",          OPT_INT,  AT(fwd.n_threads),   0,  1024,    GROUP_RUN, ON_ALL, NULL,
     "threads; 0 is the CPUs that this process may really use (affinity and cgroup quota)"},
    {"-b --batch-size -ub --ubatch-size", "N",        OPT_INT,  AT(fwd.n_batch),     1,  65536,   GROUP_RUN, ON_STEPS, NULL,
     "tokens of a prompt computed at a time"},
    {"--chunks",                        "N",          OPT_INT,  AT(chunks),         -1,  CLI_BIG, GROUP_EVAL, ON_EVAL | ON(IMATRIX) | ON_QUANTIZE, NULL,
     "windows that --perplexity and --kl-divergence run, chunks of text that --imatrix-out and --calibrate use; -1 is all"},
    {"--ppl-stride",                    "N",          OPT_INT,  AT(eval.stride),     0,  CLI_BIG, GROUP_EVAL, ON(PERPLEXITY), NULL,
     "--perplexity over windows that begin N tokens apart, the last N tokens of each scored; 0 is end to end"},
    {"--kl-divergence-base --save-all-logits", "FILE", OPT_STR, AT(eval.base),      0,  0,       GROUP_EVAL, ON(PERPLEXITY), NULL,
     "with --perplexity: write the tokens and the log-probabilities of every scored position to FILE, for --kl-divergence"},
    {"--kl-top-k",                      "N",          OPT_INT,  AT(eval.top_k),      0,  CLI_BIG, GROUP_EVAL, ON(PERPLEXITY), NULL,
     "likeliest tokens that it keeps of each, beside the mass of the others; 0 is all"},
    {"--repack",                        CLI_REPACKS,  OPT_WORD, AT(fwd.repack),     0,  0,       GROUP_RUN, ON_STEPS, NULL,
     "quantised weights side by side in memory of the program's own, for batches; auto: when the work ahead repays it"},
    {"--cpu",                           CLI_LEVELS,   OPT_WORD, AT(cpu),             0,  0,       GROUP_RUN, ON_ALL, NULL,
     "kernel level; every level computes the same bits"},
    {"--f16-as-bf16",                   NULL,         OPT_ON,   AT(fwd.as_bf16),     0,  0,       GROUP_RUN, ON_STEPS, NULL,
     "round f16 weights to bf16 as they are read: prompts run up to twice as fast where the processor multiplies bf16"},
    {"--blas",                          NULL,         OPT_ON,   AT(blas),            0,  0,       GROUP_RUN, ON_STEPS, NULL,
     "multiply float weights with long prompts through OpenBLAS: the last bits then depend on the batch"},
    {"-r --reverse-prompt --stop",      "TEXT",       OPT_LIST, AT(stop),            0,  0,       GROUP_RUN, ON_ANSWER, NULL,
     "end when the answer holds TEXT, which is not printed; may be given several times"},
    {"--ignore-eos",                    NULL,         OPT_ON,   AT(gen.ignore_eos),  0,  0,       GROUP_RUN, ON_ANSWER, NULL,
     "never pick an end token"},

    {"--process-output",                NULL,         OPT_ON,   AT(calib.output),    0,  0,       GROUP_EVAL, ON(IMATRIX), NULL,
     "--imatrix-out: the output matrix too"},
    {"--in-file",                       "FILE",       OPT_LIST, AT(in_files),        0,  0,       GROUP_EVAL, ON(IMATRIX) | ON(STATISTICS), NULL,
     "--imatrix-out: add the importance matrix FILE; may be given several times, and without a text; --show-statistics: of FILE"},

    {"-s --seed",                       "N",          OPT_I64,  AT(seed),           -1,  0x1p63,  GROUP_SAMPLE, ON_ANSWER, NULL,
     "equal seeds give equal text; -1 draws one and prints it on stderr"},
    {"--samplers",                      "LIST",       OPT_STR,  AT(samp.samplers),   0,  0,       GROUP_SAMPLE, ON_ANSWER, NULL,
     "the chain, in order, names separated by semicolons"},
    {"--sampling-seq --sampler-seq",    "LETTERS",    OPT_STR,  AT(samp.sampling_seq), 0, 0,      GROUP_SAMPLE, ON_ANSWER, NULL,
     "the same as letters, as in edskypmxt"},
    {"--temp --temperature",            "X",          OPT_FLT,  AT(samp.temp),       -1e6, 1e6,   GROUP_SAMPLE, ON_ANSWER, NULL,
     "temperature; 0 or less is greedy"},
    {"--top-k",                         "N",          OPT_INT,  AT(samp.top_k),      -1, CLI_BIG, GROUP_SAMPLE, ON_ANSWER, NULL,
     "keep the N likeliest tokens; 0 or less is off"},
    {"--top-p",                         "X",          OPT_FLT,  AT(samp.top_p),      -1e6, 1e6,      GROUP_SAMPLE, ON_ANSWER, NULL,
     "keep the likeliest tokens that add up to X; 1 is off"},
    {"--min-p",                         "X",          OPT_FLT,  AT(samp.min_p),      -1e6, 1e6,      GROUP_SAMPLE, ON_ANSWER, NULL,
     "keep tokens at least X times as likely as the likeliest; 0 is off"},
    {"--typical --typical-p",           "X",          OPT_FLT,  AT(samp.typical_p),  -1e6, 1e6,      GROUP_SAMPLE, ON_ANSWER, NULL,
     "locally typical sampling; 1 is off"},
    {"--top-nsigma --top-n-sigma",      "X",          OPT_FLT,  AT(samp.top_nsigma), -1, 100,     GROUP_SAMPLE, ON_ANSWER, NULL,
     "keep logits within X standard deviations of the highest; 0 or less is off"},
    {"--xtc-probability",               "X",          OPT_FLT,  AT(samp.xtc_probability), -1e6, 1e6,  GROUP_SAMPLE, ON_ANSWER, NULL,
     "chance of excluding the top choices; 0 is off"},
    {"--xtc-threshold",                 "X",          OPT_FLT,  AT(samp.xtc_threshold), -1e6, 1e6,    GROUP_SAMPLE, ON_ANSWER, NULL,
     "probability from which a token counts as a top choice; above 0.5 is off"},
    {"--dynatemp-range",                "X",          OPT_FLT,  AT(samp.dynatemp_range), 0, 100,  GROUP_SAMPLE, ON_ANSWER, NULL,
     "temperature moves within temp - X .. temp + X by entropy; 0 is off"},
    {"--dynatemp-exp",                  "X",          OPT_FLT,  AT(samp.dynatemp_exp), 0, 100,    GROUP_SAMPLE, ON_ANSWER, NULL,
     "exponent of that"},
    {"--repeat-penalty",                "X",          OPT_FLT,  AT(samp.repeat_penalty), 1e-3, 1000, GROUP_SAMPLE, ON_ANSWER, NULL,
     "divide the logits of tokens seen lately; 1 is off"},
    {"--repeat-last-n",                 "N",          OPT_INT,  AT(samp.repeat_last_n), -1, CLI_BIG, GROUP_SAMPLE, ON_ANSWER, NULL,
     "how many tokens are lately; 0 is off, -1 is the context"},
    {"--presence-penalty",              "X",          OPT_FLT,  AT(samp.presence_penalty), -100, 100, GROUP_SAMPLE, ON_ANSWER, NULL,
     "subtract X from logits of tokens seen lately"},
    {"--frequency-penalty",             "X",          OPT_FLT,  AT(samp.frequency_penalty), -100, 100, GROUP_SAMPLE, ON_ANSWER, NULL,
     "subtract X for each time a token was seen lately"},
    {"--dry-multiplier",                "X",          OPT_FLT,  AT(samp.dry_multiplier), 0, 100,  GROUP_SAMPLE, ON_ANSWER, NULL,
     "strength of the penalty on repeated sequences (DRY); 0 is off"},
    {"--dry-base",                      "X",          OPT_FLT,  AT(samp.dry_base),   0,  1000,    GROUP_SAMPLE, ON_ANSWER, NULL,
     "growth of it with the length of the repetition; below 1 is off"},
    {"--dry-allowed-length",            "N",          OPT_INT,  AT(samp.dry_allowed_length), 0, 65536, GROUP_SAMPLE, ON_ANSWER, NULL,
     "repetitions up to N tokens are free"},
    {"--dry-penalty-last-n",            "N",          OPT_INT,  AT(samp.dry_penalty_last_n), -1, CLI_BIG, GROUP_SAMPLE, ON_ANSWER, NULL,
     "how far back repetitions are looked for; 0 is off, -1 is the context"},
    {"--dry-sequence-breaker",          "TEXT",       OPT_LIST, AT(breakers),        0,  0,       GROUP_SAMPLE, ON_ANSWER, NULL,
     "no repetition crosses TEXT; given once it replaces newline, colon, quote and star, `none` leaves none"},
    {"--mirostat",                      "N",          OPT_INT,  AT(samp.mirostat),   0,  2,       GROUP_SAMPLE, ON_ANSWER, NULL,
     "Mirostat 1 or 2 in place of the chain; 0 is off"},
    {"--mirostat-lr",                   "X",          OPT_FLT,  AT(samp.mirostat_lr), 0, 100,     GROUP_SAMPLE, ON_ANSWER, NULL,
     "its learning rate"},
    {"--mirostat-ent",                  "X",          OPT_FLT,  AT(samp.mirostat_ent), 0, 100,    GROUP_SAMPLE, ON_ANSWER, NULL,
     "its target entropy"},
    {"-l --logit-bias",                 "ID+X|ID-X",  OPT_LIST, AT(bias),            0,  0,       GROUP_SAMPLE, ON_ANSWER, NULL,
     "add X to the logit of token ID, as in 15043+1 or 15043-inf; may be given several times"},

    {"-md --model-draft --spec-draft-model", "FILE",  OPT_STR,  AT(spec.draft),      0,  0,       GROUP_SPEC, ON_ANSWER, NULL,
     "a small model with the same vocabulary guesses the next tokens, and one step of the model checks them all; used where it pays"},
    {"--draft-max --draft --draft-n --spec-draft-n-max", "N", OPT_INT, AT(spec.most), 1, SPEC_MOST, GROUP_SPEC, ON_ANSWER, NULL,
     "most guesses for a text in one step; how many are made is measured"},
    {"--draft-min --draft-n-min --spec-draft-n-min", "N", OPT_INT, AT(spec.least),   0,  SPEC_MOST, GROUP_SPEC, ON_ANSWER, NULL,
     "guesses that are made in any case, whether they pay or not"},
    {"--draft-p-min --spec-draft-p-min", "P",         OPT_FLT,  AT(spec.p_min),      0,  1,       GROUP_SPEC, ON_ANSWER, NULL,
     "a guess of the draft that is less probable ends its guessing"},
    {"--draft-vocab",                   "N",          OPT_INT,  AT(spec.n_vocab),    0,  CLI_BIG, GROUP_SPEC, ON_ANSWER, NULL,
     "the draft guesses among the first N tokens alone, in most vocabularies the commonest ones, which spares it most of its output matrix; 0 is all"},
    {"--lookup",                        NULL,         OPT_ON,   AT(spec.lookup),     0,  0,       GROUP_SPEC, ON_ANSWER, NULL,
     "guess what followed when the last words stood in the text before, in a batch also in answers that are done; it happens by itself"},
    {"--no-lookup",                     NULL,         OPT_OFF,  AT(spec.lookup),     0,  0,       GROUP_SPEC, ON_ANSWER, NULL,
     "no such guesses"},
    {"--lookup-cache --lookup-cache-dynamic -lcd", "FILE", OPT_STR, AT(spec.cache),  0,  0,       GROUP_SPEC, ON_ANSWER, NULL,
     "keep what was answered in FILE, which is made when it is not there, and guess from it in later runs"},

    {"-c --ctx-size",                   "N",          OPT_INT,  AT(fwd.n_ctx),      -1,  CLI_BIG, GROUP_CACHE, (ON_STEPS & ~ON(DIVERGENCE)) | ON_QUANTIZE, NULL,
     "context, in tokens; 0 is the model's own, -1 what the request needs, up to the model's own"},
    {"-ctk --cache-type-k",             CLI_CACHE_TYPES, OPT_TYPE, AT(kv.type_k), 0, 0,         GROUP_CACHE, ON_STEPS | ON_QUANTIZE, NULL,
     "type of the cached keys; f32 with --score, --logits, --perplexity, --kl-divergence and --imatrix-out"},
    {"-ctv --cache-type-v",             CLI_CACHE_TYPES, OPT_TYPE, AT(kv.type_v), 0, 0,         GROUP_CACHE, ON_STEPS | ON_QUANTIZE, NULL,
     "type of the cached values; f32 with --score, --logits, --perplexity, --kl-divergence and --imatrix-out"},
    {"--kv-block-size",                 "N",          OPT_INT,  AT(kv.block),        1,  65536,   GROUP_CACHE, ON_STEPS | ON_QUANTIZE, NULL,
     "tokens in a block of the cache; 8 with --batch where no --prompt-cache is shared with other runs"},
    {"--kv-blocks",                     "N",          OPT_INT,  AT(kv.max_blocks),   0,  CLI_BIG, GROUP_CACHE, ON_STEPS | ON_QUANTIZE, NULL,
     "most blocks in the cache; 0 is no bound but the context"},
    {"--kv-mem",                        "SIZE",       OPT_SIZE, AT(kv.mem_bytes),    0,  0x1p50,  GROUP_CACHE, ON_STEPS | ON_QUANTIZE, NULL,
     "the same as memory, with suffix K, M, G"},
    {"--prompt-cache",                  "FILE",       OPT_STR,  AT(kv.cache),        0,  0,       GROUP_CACHE, ON_ANSWER, NULL,
     "keep what was computed of prompts in FILE, which is made when it is not there, and take over from it whatever a prompt begins with"},
    {"--prompt-cache-ro",               NULL,         OPT_ON,   AT(kv.cache_ro),     0,  0,       GROUP_CACHE, ON_ANSWER, NULL,
     "take over only; FILE stays as it is"},
    {"--prompt-cache-all",              NULL,         OPT_ON,   AT(kv.cache_all),    0,  0,       GROUP_CACHE, ON_ANSWER, NULL,
     "what happens in any case: answers are kept too"},
    {"--prompt-cache-size",             "SIZE",       OPT_SIZE, AT(kv.cache_bytes),  0,  0x1p50,  GROUP_CACHE, ON_ANSWER, NULL,
     "most that FILE holds; what was used last stays"},
    {"--context-shift",                 NULL,         OPT_ON,   AT(gen.context_shift), 0, 0,      GROUP_CACHE, ON(GENERATE), NULL,
     "when the context is full, forget the older half and go on"},
    {"--no-context-shift",              NULL,         OPT_OFF,  AT(gen.context_shift), 0, 0,      GROUP_CACHE, ON(GENERATE), NULL,
     "when the context is full, end"},
    {"--keep",                          "N",          OPT_I64,  AT(gen.n_keep),     -1,  CLI_BIG, GROUP_CACHE, ON(GENERATE), NULL,
     "tokens of the prompt that a shift never forgets; -1 is all"},

    {"--rope-scaling",                  "none|linear|yarn", OPT_WORD, AT(fwd.rope.scaling), 0, 0,     GROUP_ROPE, ON_STEPS | ON_QUANTIZE, NULL,
     "how positions beyond the trained context are scaled"},
    {"--rope-scale",                    "X",          OPT_FLT,  AT(fwd.rope.factor),  0,  1e6,     GROUP_ROPE, ON_STEPS | ON_QUANTIZE, NULL,
     "factor by which the context is stretched; 0 as the model says"},
    {"--rope-freq-base",                "X",          OPT_FLT,  AT(fwd.rope.base),   0,  1e12,    GROUP_ROPE, ON_STEPS | ON_QUANTIZE, NULL,
     "base of the frequencies; 0 as the model says"},
    {"--rope-freq-scale",               "X",          OPT_FLT,  AT(rope_freq_scale), 0,  1e6,      GROUP_ROPE, ON_STEPS | ON_QUANTIZE, NULL,
     "1 / --rope-scale"},
    {"--yarn-orig-ctx",                 "N",          OPT_INT,  AT(fwd.rope.orig_ctx), 0, CLI_BIG, GROUP_ROPE, ON_STEPS | ON_QUANTIZE, NULL,
     "context the model was trained on; 0 as the model says"},
    {"--yarn-ext-factor",               "X",          OPT_FLT,  AT(fwd.rope.yarn_ext), -1, 100, GROUP_ROPE, ON_STEPS | ON_QUANTIZE, NULL,
     "mix of extrapolation; -1 as the scaling says"},
    {"--yarn-attn-factor",              "X",          OPT_FLT,  AT(fwd.rope.yarn_attn), -1, 100, GROUP_ROPE, ON_STEPS | ON_QUANTIZE, NULL,
     "scale of attention; -1 as the model says"},
    {"--yarn-beta-fast",                "X",          OPT_FLT,  AT(fwd.rope.yarn_fast), -1, 1e6,  GROUP_ROPE, ON_STEPS | ON_QUANTIZE, NULL,
     "rotations above which a pair is not scaled; -1 as the model says"},
    {"--yarn-beta-slow",                "X",          OPT_FLT,  AT(fwd.rope.yarn_slow), -1, 1e6,  GROUP_ROPE, ON_STEPS | ON_QUANTIZE, NULL,
     "rotations below which a pair is wholly scaled; -1 as the model says"},

    {"--calibrate",                     "FILE",       OPT_STR,  AT(calibrate),       0,  0,       GROUP_QUANT, ON_QUANTIZE, NULL,
     "run the text of FILE and round by what each weight does to it, column after column; takes long, and memory: as many chunks are "
     "taken as 4 GiB hold, unless --chunks says"},
    {"--imatrix",                       "FILE",       OPT_STR,  AT(imatrix),         0,  0,       GROUP_QUANT, ON_QUANTIZE, NULL,
     "importance matrix: which input channels matter, as measured on text"},
    {"--tensor-type",                   "PATTERN=TYPE", OPT_LIST, AT(tensor_types),  0,  0,       GROUP_QUANT, ON_QUANTIZE, NULL,
     "TYPE for tensors in whose name the regular expression is found, the first that is; may be given several times"},
    {"--output-tensor-type",            "TYPE",       OPT_STR,  AT(quant.output_type), 0, 0,      GROUP_QUANT, ON_QUANTIZE, NULL,
     "type of the output matrix"},
    {"--token-embedding-type",          "TYPE",       OPT_STR,  AT(quant.embd_type), 0,  0,       GROUP_QUANT, ON_QUANTIZE, NULL,
     "type of the token embeddings"},
    {"--leave-output-tensor",           NULL,         OPT_ON,   AT(quant.leave_output), 0, 0,     GROUP_QUANT, ON_QUANTIZE, NULL,
     "keep the output matrix as it is"},
    {"--pure",                          NULL,         OPT_ON,   AT(quant.pure),      0,  0,       GROUP_QUANT, ON_QUANTIZE, NULL,
     "no mixture: every matrix gets the base type"},
    {"--allow-requantize",              NULL,         OPT_ON,   AT(quant.requantize), 0, 0,       GROUP_QUANT, ON_QUANTIZE, NULL,
     "convert quantised weights too; they lose twice"},
    {"--dry-run",                       NULL,         OPT_ON,   AT(quant.dry_run),   0,  0,       GROUP_QUANT, ON_QUANTIZE, NULL,
     "print what would become of each tensor, and the sizes; write nothing"},

    {"-np --parallel",                  "N",          OPT_INT,  AT(batch.n_parallel), 1, 1024,    GROUP_BATCH, ON_BATCH, NULL,
     "most sequences in flight; fewer run where the cache has no room"},
    {"--resume",                        NULL,         OPT_ON,   AT(resume),          0,  0,       GROUP_BATCH, ON_BATCH, NULL,
     "go on with the results in -o FILE: what it answers is not asked again; records that answer no line of the input move to FILE.stale"},
    {"--batch-order",                   "plan|input", OPT_WORD, AT(batch.order),     0,  0,       GROUP_BATCH, ON_BATCH, NULL,
     "plan: prompts that begin alike run one after the other, so that each shared beginning is read once; input: as they stand in the file"},
    {"--ordered",                       NULL,         OPT_ON,   AT(batch.ordered),   0,  0,       GROUP_BATCH, ON_BATCH, NULL,
     "results in the order of the input: a file of -o is put into order when its last line is answered, a stream holds back up to "
     "--batch-window of them"},
    {"--batch-window",                  "N",          OPT_INT,  AT(batch.window),    1, 1 << 20,  GROUP_BATCH, ON_BATCH, NULL,
     "lines read ahead, which is how far a plan sees"},
    {"--batch-line",                    "SIZE",       OPT_SIZE, AT(batch.line_bytes), 1, 0x1p32,  GROUP_BATCH, ON_BATCH, NULL,
     "longest line that is read; a longer one is answered with an error"},
    {"--batch-static",                  NULL,         OPT_ON,   AT(batch.fixed),     0,  0,       GROUP_BATCH, ON_BATCH, NULL,
     "static batches, to see what continuous ones are worth: as many requests as fit are taken, and their rows run until the last one ends"},
    {"--shard",                         "I/N",        OPT_STR,  AT(batch.shard),     0,  0,       GROUP_BATCH, ON_BATCH, NULL,
     "the I-th of N parts of the file, prompts that begin alike in one part; --merge puts the results of all parts together"},
    {"--cost-per-hour",                 "X",          OPT_FLT,  AT(batch.cost),      0,  1e9,     GROUP_BATCH, ON_BATCH, NULL,
     "what an hour of this machine costs: the summary tells what a million tokens did"},

    {"-m --model",                      "FILE",       OPT_LIST, AT(models),          0,  0,       GROUP_BENCH, ON_BENCH, NULL,
     "model file; may be given several times"},
    {"-p --n-prompt",                   "N,N",        OPT_NUMS, AT(bench.prompt),    0, BENCH_MOST, GROUP_BENCH, ON_BENCH, NULL,
     "prefill tests of N tokens, 0 is none; as every list: values with commas, ranges 1-8, 1-8+2, 1-8*2, or the option several times"},
    {"-n --n-gen",                      "N,N",        OPT_NUMS, AT(bench.gen),       0, BENCH_MOST, GROUP_BENCH, ON_BENCH, NULL,
     "decode tests of N tokens, 0 is none"},
    {"-pg --n-prompt-gen",              "P,N",        OPT_PAIR, AT(bench.pair),      0, BENCH_MOST, GROUP_BENCH, ON_BENCH, NULL,
     "tests of P tokens of prefill and then N of decode"},
    {"-d --n-depth",                    "N,N",        OPT_NUMS, AT(bench.depth),     0, BENCH_MOST, GROUP_BENCH, ON_BENCH, NULL,
     "tokens that the cache holds before a test"},
    {"-npl --n-parallel",               "N,N",        OPT_NUMS, AT(bench.seqs),      1, BENCH_SEQS, GROUP_BENCH, ON_BENCH, NULL,
     "sequences that decode side by side; tests with guesses have one"},
    {"-md --model-draft --spec-draft-model", "FILE",  OPT_STR,  AT(bench.draft),     0,  0,       GROUP_BENCH, ON_BENCH, NULL,
     "draft model of the tests with guesses, whose steps count; without one guesses cost nothing but their rows, as those of --lookup"},
    {"--draft-vocab",                   "N",          OPT_INT,  AT(bench.draft_vocab), 0, CLI_BIG, GROUP_BENCH, ON_BENCH, NULL,
     "tokens that the draft guesses among; 0 is all"},
    {"--draft-max --draft --draft-n --spec-draft-n-max", "N,N", OPT_NUMS, AT(bench.guess), 0, SPEC_MOST, GROUP_BENCH, ON_BENCH, NULL,
     "beside each decode test the same with up to N guesses a step, 0 is none: where speculation breaks even"},
    {"--acceptance",                    "X,X",        OPT_NUMS, AT(bench.chance),    0,  100,     GROUP_BENCH, ON_BENCH, NULL,
     "chances, per cent, that such a guess is right if those before it are"},
    {"-b --batch-size --n-batch",       "N,N",        OPT_NUMS, AT(bench.batch),     1,  65536,   GROUP_BENCH, ON_BENCH, NULL,
     "tokens of a prompt until one asks for logits"},
    {"-ub --ubatch-size --n-ubatch",    "N,N",        OPT_NUMS, AT(bench.ubatch),    1,  65536,   GROUP_BENCH, ON_BENCH, NULL,
     "tokens computed at a time"},
    {"-t --threads",                    "N,N",        OPT_NUMS, AT(bench.threads),   0,  1024,    GROUP_BENCH, ON_BENCH, NULL,
     "threads; 0 is the CPUs that this process may really use"},
    {"-ctk --cache-type-k",             CLI_CACHE_TYPES, OPT_TYPES, AT(bench.type_k), 0, 0,       GROUP_BENCH, ON_BENCH, NULL,
     "types of the cached keys"},
    {"-ctv --cache-type-v",             CLI_CACHE_TYPES, OPT_TYPES, AT(bench.type_v), 0, 0,       GROUP_BENCH, ON_BENCH, NULL,
     "types of the cached values"},
    {"--cpu",                           CLI_LEVELS,   OPT_LEVELS, AT(bench.level),   0,  0,       GROUP_BENCH, ON_BENCH, NULL,
     "kernel levels"},
    {"--repack",                        CLI_REPACKS,  OPT_WORDS, AT(bench.repack),   0,  0,       GROUP_BENCH, ON_BENCH, NULL,
     "layouts of quantised matrices"},
    {"-r --repetitions",                "N",          OPT_INT,  AT(bench.reps),      1, BENCH_REPS, GROUP_BENCH, ON_BENCH, NULL,
     "how often each test is timed"},
    {"--no-warmup",                     NULL,         OPT_ON,   AT(bench.no_warmup), 0,  0,       GROUP_BENCH, ON_BENCH, NULL,
     "do not run a step of each test before its time"},
    {"--plot",                          "FILE",       OPT_STR,  AT(plot),            0,  0,       GROUP_BENCH, ON_BENCH, NULL,
     "draw the rates of all tests to FILE, as SVG: bars, or lines where depth or sequences vary"},

    {"-o --output",                     "FILE",       OPT_STR,  AT(output),          0,  0,       GROUP_OUT, ON_ALL & ~(ON(LOGITS) | ON(IMATRIX)), NULL,
     "write the answer to FILE in place of stdout; with --quantize, the model; with --bench, md, csv, json and jsonl name a form"},
    {"--ids",                           NULL,         OPT_ON,   AT(gen.ids),         0,  0,       GROUP_OUT, ON(GENERATE), NULL,
     "print token ids, on one line, in place of text"},
    {"--format",                        "text|json|jsonl|csv|md", OPT_WORD, AT(format), 0, 0,     GROUP_OUT, ON_ALL, NULL,
     "form of the answer where several exist: json with generation, --score, --tokenize, --inspect, --perplexity, --kl-divergence and "
     "--show-statistics, csv with the last, md with --help and --list, all with --bench; json with --batch: of the summary"},
    {"--json",                          NULL,         OPT_ON,   AT(json),            0,  0,       GROUP_OUT, ON_ALL, NULL,
     "--format json"},
    {"-q --quiet",                      NULL,         OPT_SET,  AT(log_level),       LOG_QUIET, 0, GROUP_OUT, ON_ALL, NULL,
     "nothing on stderr but errors"},
    {"-v --verbose",                    NULL,         OPT_SET,  AT(log_level),       LOG_VERBOSE, 0, GROUP_OUT, ON_ALL, NULL,
     "more on stderr"},
};
enum { N_CLI_OPTS = sizeof cli_opts / sizeof *cli_opts };
_Static_assert((int)N_CLI_OPTS <= (int)CLI_OPTS_MAX, "config.given has a place for every row");

/* Options of llama.cpp's programs that are not ours. Idle ones would change nothing here and are taken with one line on
 * stderr, so that scripts run; the others are refused as what they are. A name that is also in cli_opts means that one
 * where it has an effect. */
typedef enum { CLI_IDLE, CLI_MISSING } cli_fate;

typedef struct {
    const char *names, *arg;                          /* as in cli_opt; in square brackets: the value may be absent */
    cli_fate    fate;
    const char *instead;                              /* for a missing one: what does the same here, or NULL */
} cli_foreign;

#define CLI_SWITCH "[on|off|auto|0|1|true|false|enabled|disabled]"

static const cli_foreign cli_foreigners[] = {
    {"-fa --flash-attn",                               CLI_SWITCH, CLI_IDLE, NULL},
    {"-mmp --mmap --no-mmap",                          "[0|1]",    CLI_IDLE, NULL},
    {"--mlock -dio --direct-io -ndio --no-direct-io",  "[0|1]",    CLI_IDLE, NULL},
    {"-lm --load-mode",                                "MODE",     CLI_IDLE, NULL},
    {"--numa",                                         "TYPE",     CLI_IDLE, NULL},
    {"-tb --threads-batch -td --threads-draft --spec-draft-threads -tbd --threads-batch-draft --spec-draft-threads-batch", "N", CLI_IDLE, NULL},
    {"-C --cpu-mask -Cb --cpu-mask-batch -Cd --cpu-mask-draft --spec-draft-cpu-mask -Cbd --cpu-mask-batch-draft --spec-draft-cpu-mask-batch", "MASK", CLI_IDLE, NULL},
    {"-Cr --cpu-range -Crb --cpu-range-batch -Crd --cpu-range-draft --spec-draft-cpu-range -Crbd --cpu-range-batch-draft "
     "--spec-draft-cpu-range-batch",                   "RANGE",    CLI_IDLE, NULL},
    {"--cpu-strict --cpu-strict-batch --cpu-strict-draft --spec-draft-cpu-strict --cpu-strict-batch-draft --spec-draft-cpu-strict-batch", "N", CLI_IDLE, NULL},
    {"--prio --prio-batch --prio-draft --spec-draft-prio --prio-batch-draft --spec-draft-prio-batch", "N", CLI_IDLE, NULL},
    {"--poll --poll-batch --poll-draft --spec-draft-poll --poll-batch-draft --spec-draft-poll-batch", "N", CLI_IDLE, NULL},
    {"--delay",                                        "N",        CLI_IDLE, NULL},
    {"-ngl --gpu-layers --n-gpu-layers -ngld --gpu-layers-draft --n-gpu-layers-draft --spec-draft-ngl", "N", CLI_IDLE, NULL},
    {"-sm --split-mode",                               "MODE",     CLI_IDLE, NULL},
    {"-ts --tensor-split",                             "LIST",     CLI_IDLE, NULL},
    {"-mg --main-gpu",                                 "N",        CLI_IDLE, NULL},
    {"-fit --fit --fitp --fit-print",                  CLI_SWITCH, CLI_IDLE, NULL},
    {"-fitt --fit-target",                             "LIST",     CLI_IDLE, NULL},
    {"-fitc --fit-ctx",                                "N",        CLI_IDLE, NULL},
    {"-ot --override-tensor -otd --override-tensor-draft --spec-draft-override-tensor", "LIST", CLI_IDLE, NULL},
    {"-cmoe --cpu-moe -cmoed --cpu-moe-draft --spec-draft-cpu-moe", NULL, CLI_IDLE, NULL},
    {"-ncmoe --n-cpu-moe -ncmoed --n-cpu-moe-draft --spec-draft-ncmoe --spec-draft-n-cpu-moe", "N", CLI_IDLE, NULL},
    {"-kvo --kv-offload -nkvo --no-kv-offload",        "[0|1]",    CLI_IDLE, NULL},
    {"--op-offload -nopo --no-op-offload --no-host --mmproj-offload --no-mmproj-offload", "[0|1]", CLI_IDLE, NULL},
    {"-nr --no-repack -bs --backend-sampling --spec-draft-backend-sampling --no-spec-draft-backend-sampling", NULL, CLI_IDLE, NULL},
    {"-kvu --kv-unified -no-kvu --no-kv-unified -cb --cont-batching -nocb --no-cont-batching --swa-full", NULL, CLI_IDLE, NULL},
    {"-ctxcp --ctx-checkpoints --swa-checkpoints -cms --checkpoint-min-step -cram --cache-ram", "N", CLI_IDLE, NULL},
    {"-dt --defrag-thold",                             "X",        CLI_IDLE, NULL},
    {"--warmup --no-warmup --perf --no-perf --show-timings --no-show-timings --check-tensors", NULL, CLI_IDLE, NULL},
    {"-no-cnv --no-conversation -st --single-turn --jinja --no-jinja --simple-io --no-display-prompt --offline", NULL, CLI_IDLE, NULL},
    {"-co --color --log-colors",                       CLI_SWITCH, CLI_IDLE, NULL},
    {"--log-disable --log-prefix --no-log-prefix --log-timestamps --no-log-timestamps --verbose-prompt --progress", NULL, CLI_IDLE, NULL},
    {"--log-file",                                     "FILE",     CLI_IDLE, NULL},
    {"-lv --verbosity --log-verbosity",                "N",        CLI_IDLE, NULL},
    {"-ptc --print-token-count",                       "N",        CLI_IDLE, NULL},
    {"-ofreq --output-frequency --save-frequency",     "N",        CLI_IDLE, NULL},
    {"--ppl --no-bos --no-parse-special --keep-split", NULL,       CLI_IDLE, NULL},

    {"-cnv --conversation -i --interactive -if --interactive-first -mli --multiline-input", NULL, CLI_MISSING, NULL},
    {"-sys --system-prompt -sysf --system-prompt-file --in-prefix --in-suffix --chat-template --chat-template-file "
     "--chat-template-kwargs --reasoning-format --reasoning-budget -rea --reasoning", "TEXT", CLI_MISSING, NULL},
    {"--in-prefix-bos --spm-infill --prefill-assistant --no-prefill-assistant", NULL, CLI_MISSING, NULL},
    {"--grammar --grammar-file -j --json-schema -jf --json-schema-file", "TEXT", CLI_MISSING, NULL},
    {"--lora --lora-scaled --control-vector --control-vector-scaled", "FILE", CLI_MISSING, NULL},
    {"--control-vector-layer-range",                   "N N",      CLI_MISSING, NULL},
    {"-mm --mmproj -mmu --mmproj-url --image --audio --video", "FILE", CLI_MISSING, NULL},
    {"-hf -hfr --hf-repo -hff --hf-file -hft --hf-token -mu --model-url -dr --docker-repo -hfd -hfrd --hf-repo-draft --spec-draft-hf", "NAME",
     CLI_MISSING, "-m FILE takes a file that is here"},
    {"--rpc -rpc -dev --device -devd --device-draft --spec-draft-device", "LIST", CLI_MISSING, NULL},
    {"--list-devices -cl --cache-list --completion-bash", NULL,    CLI_MISSING, NULL},
    {"--override-kv",                                  "KEY=TYPE:VALUE", CLI_MISSING, NULL},
    {"--attention --pooling --embd-normalize --embd-output-format --embd-separator --cls-separator", "NAME", CLI_MISSING, NULL},
    {"--embedding --embeddings --rerank --reranking",  NULL,       CLI_MISSING, NULL},
    {"-embd",                                          "[0|1]",    CLI_MISSING, NULL},
    {"-gan --grp-attn-n -gaw --grp-attn-w --adaptive-target --adaptive-decay", "N", CLI_MISSING, NULL},
    {"-lcs --lookup-cache-static",                     "FILE",     CLI_MISSING, "--lookup-cache FILE"},
    {"-ctkd --cache-type-k-draft --spec-draft-type-k -ctvd --cache-type-v-draft --spec-draft-type-v", "TYPE", CLI_MISSING, NULL},
    {"--spec-type --draft-p-split --spec-draft-p-split", "X",      CLI_MISSING, NULL},
    {"-bf --binary-file",                              "FILE",     CLI_MISSING, "-f FILE takes any bytes"},
    {"--stdin",                                        NULL,       CLI_MISSING, "standard input is read where -p and -f are absent"},
    {"--show-count",                                   NULL,       CLI_MISSING, NULL},
    {"--parse-special",                                NULL,       CLI_MISSING, "--special"},
    {"--chunk --from-chunk --ppl-output-type",         "N",        CLI_MISSING, NULL},
    {"--no-ppl --hellaswag --winogrande --multiple-choice --save-logits --check", NULL, CLI_MISSING, NULL},
    {"--hellaswag-tasks --winogrande-tasks --multiple-choice-tasks", "N", CLI_MISSING, NULL},
    {"--output-format",                                "FORM",     CLI_MISSING, "--format"},
    {"-oe --output-err",                               "FORM",     CLI_MISSING, NULL},
    {"-ns --sequences",                                "N",        CLI_MISSING, "--batch FILE answers many prompts"},
    {"-npp -ntg",                                      "LIST",     CLI_MISSING, "--bench has -p, -n and -npl"},
    {"--include-weights --exclude-weights --prune-layers --tensor-type-file", "TEXT", CLI_MISSING, NULL},
    {"--host --port --path --api-key --api-key-file --ssl-key-file --ssl-cert-file -to --timeout --threads-http --slot-save-path -a --alias",
     "TEXT", CLI_MISSING, "there is no server"},
    {"--cache-prompt --no-cache-prompt --metrics --props --slots --no-slots --ui --no-ui --webui --no-webui", NULL, CLI_MISSING,
     "there is no server"},
};
enum { N_CLI_FOREIGN = sizeof cli_foreigners / sizeof *cli_foreigners };

/* The next word of a list separated by `sep`; false at the end. */
static bool cli__word(const char **list, char sep, bytes *out) {
    if (!*list || !**list) return false;
    const char *end = strchr(*list, sep);
    size_t      n = end ? (size_t)(end - *list) : strlen(*list);
    *out = (bytes){(const uint8_t *)*list, n};
    *list += n + (end != NULL);
    return true;
}

/* The row of a spelling. Several may have it: with --bench its group comes first, else last. */
static const cli_opt *cli__find(bool bench, bytes name) {
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < N_CLI_OPTS; i++) {
            const char *names = cli_opts[i].names;
            if ((cli_opts[i].group == GROUP_BENCH) != (bench == (pass == 0))) continue;
            for (bytes w; cli__word(&names, ' ', &w);)
                if (bytes_eq(w, name)) return &cli_opts[i];
        }
    return NULL;
}

/* The row of an option of llama.cpp, NULL when it is none. */
static const cli_foreign *cli__foreign(bytes name) {
    for (int i = 0; i < N_CLI_FOREIGN; i++) {
        const char *names = cli_foreigners[i].names;
        for (bytes w; cli__word(&names, ' ', &w);)
            if (bytes_eq(w, name)) return &cli_foreigners[i];
    }
    return NULL;
}

static bool cli__serves(const cli_opt *o, int action) { return o->serves >> action & 1; }

/* Whether `name` can be given beside this action and then means this row. */
static bool cli__usable(const cli_opt *o, bytes name, int action) {
    if (cli__find(action == ACT_BENCH, name) != o) return false;
    return o->kind == OPT_ACT ? action == ACT_GENERATE || (int)o->lo == action || (int)o->lo >= ACT_USAGE : cli__serves(o, action);
}

/* The spelling that was likely meant, or one that `name` begins, among those that can be given beside the action; n 0
 * when there is none. */
static bytes cli__near(bytes name, int action) {
    bytes best = {0}, begun = {0};
    int   least = bytes_slack(name) + 1;
    for (int i = 0; i < N_CLI_OPTS; i++) {
        const char *names = cli_opts[i].names;
        for (bytes w; cli__word(&names, ' ', &w);) {
            if (!cli__usable(&cli_opts[i], w, action)) continue;
            int d = bytes_distance(name, w);
            if (d < least) least = d, best = w;
            if (!begun.n && name.n > 4 && w.n > name.n && memcmp(w.p, name.p, name.n) == 0) begun = w;
        }
    }
    return best.n && (least < 2 || !begun.n) ? best : begun;
}

/* --- values --- */

/* Decimal digits with an optional sign, and nothing else. */
static bool cli__i64(const char *s, int64_t *out) {
    bool    neg = *s == '-';
    int64_t v = 0;
    if (*s == '-' || *s == '+') s++;
    if (!*s) return false;
    for (; *s; s++)
        if (*s < '0' || *s > '9' || __builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, *s - '0', &v)) return false;
    if (!neg && v == INT64_MIN) return false;         /* gathered below zero, where there is one more number */
    *out = neg ? v : -v;
    return true;
}

/* 1, -1.5, .5, 2e-3: no hexadecimal, no nan, no blanks. strtod reads a point whatever the environment says,
 * because nothing here calls setlocale. */
static bool cli__f64(const char *s, double *out) {
    const char *p = s;
    if (*p == '-' || *p == '+') p++;
    size_t whole = strspn(p, "0123456789"), part = 0;
    p += whole;
    if (*p == '.') part = strspn(p + 1, "0123456789"), p += 1 + part;
    if (whole + part == 0) return false;
    if (*p == 'e' || *p == 'E') {
        p += 1 + (p[1] == '-' || p[1] == '+');
        size_t digits = strspn(p, "0123456789");
        if (!digits) return false;
        p += digits;
    }
    if (*p) return false;
    *out = strtod(s, NULL);
    return isfinite(*out);
}

/* 512, 64K, 1.5G, 2GiB: units of 1024. */
static bool cli__size(const char *s, double *out) {
    char   num[64];
    size_t n = strspn(s, "0123456789.");
    if (!n || n >= sizeof num) return false;
    memcpy(num, s, n);
    num[n] = 0;
    if (!cli__f64(num, out)) return false;
    s += n;
    static const char units[] = "KMGT";
    const char       *u = *s ? strchr(units, toupper((unsigned char)*s)) : NULL;
    if (u) *out = ldexp(*out, 10 * (int)(u - units + 1)), s++;
    return !*s || strcmp(s, "B") == 0 || (u && strcmp(s, "iB") == 0);
}

/* The bound as a person writes it: whole numbers without an exponent. */
static void cli__number(double x, char *buf, size_t n) {
    if (x >= 0x1p63) snprintf(buf, n, "%lld", LLONG_MAX);
    else if (x == floor(x)) snprintf(buf, n, "%.0f", x);
    else snprintf(buf, n, "%g", x);
}

static bool cli__range(const cli_opt *o, const char *name, const char *val, double x, err_t *e) {
    char lo[32], hi[32];
    if (x >= o->lo && x <= o->hi) return true;
    cli__number(o->lo, lo, sizeof lo);
    cli__number(o->hi, hi, sizeof hi);
    return err_set(e, EXIT_INPUT, "%s: %.100s is out of range, expected %s to %s", name, val, lo, hi);
}

static bool cli__int(const cli_opt *o, const char *name, const char *val, int64_t *out, err_t *e) {
    if (!cli__i64(val, out)) {
        double x;                                     /* a whole number too long for 64 bits is out of range, not malformed */
        if (val[strspn(val, "+-0123456789")] == 0 && cli__f64(val, &x) && fabs(x) >= 0x1p62)
            return cli__range(o, name, val, x < 0 ? -INFINITY : INFINITY, e);
        return err_set(e, EXIT_INPUT, "%s: expected a whole number, found '%.100s'", name, val);
    }
    return cli__range(o, name, val, (double)*out, e);
}

static bool cli__choose(const cli_opt *o, const char *name, const char *val, err_t *e) {
    const char *words = o->arg;
    for (bytes w; cli__word(&words, '|', &w);)
        if (bytes_is(w, val)) return true;
    str all = {0};
    words = o->arg;
    for (bytes w; cli__word(&words, '|', &w);) {
        if (all.n) str_put(&all, *words ? ", " : " or ");
        str_add(&all, w.p, w.n);
    }
    err_set(e, EXIT_INPUT, "%s: expected %s, found '%.100s'", name, all.p, val);
    str_drop(&all);
    return false;
}

static bool cli__add(bench_list *l, const char *name, int64_t v, err_t *e) {
    if (l->n == BENCH_LIST) return err_set(e, EXIT_INPUT, "%s: more than %d values", name, BENCH_LIST);
    l->v[l->n++] = (int)v;
    return true;
}

/* One value of a list, or a range: 4, 1-4, 1-9+2, 1-64*2. */
static bool cli__span(const cli_opt *o, const char *name, const char *val, bench_list *l, err_t *e) {
    char    first[64], last[64];
    size_t  n = strspn(val, "0123456789"), m = val[n] == '-' ? strspn(val + n + 1, "0123456789") : 0;
    int64_t a, b, by = 1;
    if (!n || !m || n >= sizeof first || m >= sizeof last) return cli__int(o, name, val, &a, e) && cli__add(l, name, a, e);
    const char *rest = val + n + 1 + m;
    snprintf(first, sizeof first, "%.*s", (int)n, val);
    snprintf(last, sizeof last, "%.*s", (int)m, val + n + 1);
    if (!cli__int(o, name, first, &a, e) || !cli__int(o, name, last, &b, e)) return false;
    const bool times = *rest == '*';
    if (*rest && ((!times && *rest != '+') || !cli__i64(rest + 1, &by) || by < 1 + times || by > INT32_MAX || (times && a < 1)))
        return err_set(e, EXIT_INPUT, "%s: expected a range such as 1-8, 1-8+2 or 1-8*2, found '%.100s'", name, val);
    if (a > b) return err_set(e, EXIT_INPUT, "%s: %.100s is a range of nothing", name, val);
    for (; a <= b; a = times ? a * by : a + by)
        if (!cli__add(l, name, a, e)) return false;
    return true;
}

static bool cli__level(const char *word, int *out) {
    const char *names[16];
    int         n = k_levels_list(names, NULL);
    *out = -1;
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], word) == 0) *out = i;
    return *out >= 0 || strcmp(word, "auto") == 0;
}

/* Which of the words between bars it is. */
static int cli__place(const char *words, const char *word) {
    int n = 0;
    for (bytes w; cli__word(&words, '|', &w) && !bytes_is(w, word);) n++;
    return n;
}

/* A word of the argument column, as what its kind keeps. */
static bool cli__word_value(const cli_opt *o, const char *name, const char *word, bench_list *l, err_t *e) {
    int v = 0;
    if (!cli__choose(o, name, word, e)) return false;
    if (o->kind == OPT_TYPES) v = k_type_by_name(word);
    else if (o->kind == OPT_WORDS) v = cli__place(o->arg, word);
    else if (!cli__level(word, &v)) return err_set(e, EXIT_INPUT, "%s: %s is not part of this build (--list cpu)", name, word);
    return cli__add(l, name, v, e);
}

/* Values with commas between. */
static bool cli__values(const cli_opt *o, const char *name, const char *val, bench_list *l, err_t *e) {
    const int had = l->n;
    for (const char *p = val;; p++) {
        char   one[128];
        size_t n = strcspn(p, ",");
        snprintf(one, sizeof one, "%.*s", n < sizeof one ? (int)n : (int)sizeof one - 1, p);
        const bool words = o->kind == OPT_TYPES || o->kind == OPT_LEVELS || o->kind == OPT_WORDS;
        if (!(words ? cli__word_value(o, name, one, l, e) : cli__span(o, name, one, l, e))) return false;
        p += n;
        if (!*p) break;
    }
    if (o->kind != OPT_PAIR || l->n == had + 2) return true;
    return err_set(e, EXIT_INPUT, "%s: expected two numbers such as 512,128, found '%.100s'", name, val);
}

static void cli__push(cli_list *l, const char *text) {
    l->v = mem_grow(l->v, (size_t)l->n + 1, sizeof *l->v);
    l->v[l->n++] = text;
}

static const cli_opt *cli__action_opt(int action) {
    for (int i = 0; i < N_CLI_OPTS; i++)
        if (cli_opts[i].kind == OPT_ACT && (int)cli_opts[i].lo == action) return &cli_opts[i];
    return NULL;
}

/* The first spelling that begins with two dashes. */
static bytes cli__long_name(const cli_opt *o) {
    const char *names = o->names;
    bytes       w = {0};
    while (cli__word(&names, ' ', &w) && w.n > 1 && w.p[1] != '-') {}
    return w;
}

static bool cli__set_action(config *c, const cli_opt *o, const char *val, err_t *e) {
    int action = (int)o->lo;
    if (c->action >= ACT_USAGE) return true;          /* help is given whatever else is asked for */
    if (c->action != ACT_GENERATE && c->action != action && action < ACT_USAGE) {
        bytes a = cli__long_name(cli__action_opt(c->action)), b = cli__long_name(o);
        return err_set(e, EXIT_INPUT, "%.*s and %.*s are two actions, expected one", (int)a.n, a.p, (int)b.n, b.p);
    }
    c->action = action;
    c->what = val;
    if (action == ACT_MERGE || action == ACT_BATCH) cli__push(&c->inputs, val);
    return true;
}

/* One option with its value (NULL where the table has no argument) into the config. */
static bool cli__set(config *c, const cli_opt *o, const char *name, const char *val, err_t *e) {
    void   *field = (char *)c + o->at;
    int64_t i = 0;
    double  x = 0;
    switch (o->kind) {
    case OPT_ON: *(bool *)field = true; return true;
    case OPT_OFF: *(bool *)field = false; return true;
    case OPT_SET: *(int *)field = (int)o->lo; return true;
    case OPT_INT:
        if (!cli__int(o, name, val, &i, e)) return false;
        *(int *)field = (int)i;
        return true;
    case OPT_I64:
        if (!cli__int(o, name, val, &i, e)) return false;
        *(int64_t *)field = i;
        return true;
    case OPT_FLT:
        if (!cli__f64(val, &x)) return err_set(e, EXIT_INPUT, "%s: expected a number, found '%.100s'", name, val);
        if (!cli__range(o, name, val, x, e)) return false;
        *(float *)field = (float)x;
        return true;
    case OPT_SIZE:
        if (!cli__size(val, &x)) return err_set(e, EXIT_INPUT, "%s: expected a size such as 512M, found '%.100s'", name, val);
        if (!cli__range(o, name, val, x, e)) return false;
        *(uint64_t *)field = (uint64_t)x;
        return true;
    case OPT_STR: *(const char **)field = val; return true;
    case OPT_LIST: cli__push(field, val); return true;
    case OPT_WORD:
        if (!cli__choose(o, name, val, e)) return false;
        *(const char **)field = val;
        return true;
    case OPT_TYPE:
        if (!cli__choose(o, name, val, e)) return false;
        *(uint32_t *)field = (uint32_t)k_type_by_name(val);
        return true;
    case OPT_NUMS:
    case OPT_PAIR:
    case OPT_TYPES:
    case OPT_LEVELS:
    case OPT_WORDS:
        if (!c->given[o - cli_opts]) ((bench_list *)field)->n = 0;    /* the first use puts the default aside */
        return cli__values(o, name, val, field, e);
    case OPT_ACT:
        if (val && strchr(o->arg, '|') && !cli__choose(o, name, val, e)) return false;
        return cli__set_action(c, o, val, e);
    }
    return false;
}

/* --- parsing --- */

/* What the environment says, before the command line has its say. */
static bool cli_environment(config *c, err_t *e) {
    for (int i = 0; i < N_CLI_OPTS; i++) {
        const char *val = cli_opts[i].env ? getenv(cli_opts[i].env) : NULL;
        if (val && *val && !cli__set(c, &cli_opts[i], cli_opts[i].env, val, e)) return false;
    }
    return true;
}

static bool cli__unknown(bytes name, int action, err_t *e) {
    bytes near = cli__near(name, action);
    int   n = name.n < 100 ? (int)name.n : 100;
    if (near.n)
        return err_set(e, EXIT_INPUT, "unknown option %.*s (did you mean %.*s?)", n, name.p, (int)near.n, near.p);
    return err_set(e, EXIT_INPUT, "unknown option %.*s (--help lists them)", n, name.p);
}

/* The command line that is being read. */
typedef struct {
    int          n, at;                               /* arg[at]: the next argument */
    char *const *arg;
    int          action;                              /* the one that the whole line asks for */
} cli_line;

/* The name of an option as it is typed: what stands before '='. */
static bytes cli__typed(const char *arg) { return (bytes){(const uint8_t *)arg, strcspn(arg, "=")}; }

/* Whether `next` is the value of an option that can do without one: what stands in brackets in its row names its words, or
 * else it is any text that is no option. */
static bool cli__optional(const char *brackets, const char *next) {
    const char *words = brackets + 1;
    if (!strchr(words, '|')) return next[0] != '-';
    for (bytes w; cli__word(&words, '|', &w);) {
        if (w.p[w.n - 1] == ']') w.n--;
        if (bytes_is(w, next)) return true;
    }
    return false;
}

/* How many arguments after arg[at - 1] are its values; kind_of: the argument column of its row. */
static int cli__n_values(const cli_line *l, const char *kind_of) {
    if (!kind_of || strchr(l->arg[l->at - 1], '=')) return 0;
    if (*kind_of == '[') return l->at < l->n && cli__optional(kind_of, l->arg[l->at]);
    return strchr(kind_of, ' ') ? 2 : 1;
}

/* The action that the line asks for. Values are not looked at; what is no option is passed over. */
static int cli__action_ahead(int n, char *const *arg) {
    for (cli_line l = {.n = n, .arg = arg}; l.at < n;) {
        const char *a = arg[l.at++];
        if (a[0] != '-' || !a[1]) continue;
        if (strcmp(a, "--") == 0) break;
        const cli_opt     *o = cli__find(true, cli__typed(a));
        const cli_foreign *f = o ? NULL : cli__foreign(cli__typed(a));
        if (o && o->kind == OPT_ACT) return (int)o->lo;
        l.at += cli__n_values(&l, o ? o->arg : f ? f->arg : NULL);
    }
    return ACT_GENERATE;
}

/* Whether `rest`, which follows a short option in the same argument, is a value of it. A text may be anything, unless the
 * whole argument is like a long option that lacks a dash. */
static bool cli__may_follow(const cli_opt *o, int action, const char *whole, const char *rest) {
    const bytes near = cli__near(bytes_of(whole), action);
    const bool  sign = *rest == '-' || *rest == '+';
    const char *words = o->arg;
    switch (o->kind) {
    case OPT_INT: case OPT_I64: case OPT_FLT: case OPT_SIZE: case OPT_NUMS: case OPT_PAIR:
        return isdigit((unsigned char)rest[sign]) || rest[sign] == '.';
    case OPT_WORD: case OPT_TYPE:
        for (bytes w; cli__word(&words, '|', &w);)
            if (bytes_is(w, rest)) return true;
        return false;
    case OPT_STR: case OPT_LIST: return near.n < 3 || near.p[1] != '-' || near.p[2] != whole[1];
    default: return false;
    }
}

/* -n5: the row of a short option whose value is attached, which begins at *val; NULL when it is none. The longest name counts. */
static const cli_opt *cli__attached(const cli_line *l, const char *arg, bytes *name, const char **val) {
    for (size_t n = strlen(arg) - 1; arg[1] != '-' && n >= 2; n--) {
        const cli_opt *o = cli__find(l->action == ACT_BENCH, (bytes){(const uint8_t *)arg, n});
        if (!o || !o->arg || !cli__may_follow(o, l->action, arg, arg + n)) continue;
        *name = (bytes){(const uint8_t *)arg, n};
        *val = arg + n;
        return o;
    }
    return NULL;
}

/* An option of llama.cpp: kept for one line on stderr where it changes nothing, refused where it would. */
static bool cli__take_foreign(config *c, cli_line *l, const cli_foreign *f, err_t *e) {
    const char *arg = l->arg[l->at - 1];
    const bytes name = cli__typed(arg);
    const int   values = cli__n_values(l, f->arg);
    if (f->fate != CLI_IDLE)
        return err_set(e, EXIT_INPUT, "%.*s is an option of llama.cpp that llmrun does not have%s%s%s", (int)name.n, arg,
                       f->instead ? " (" : "", f->instead ? f->instead : "", f->instead ? ")" : "");
    if (!f->arg && arg[name.n]) return err_set(e, EXIT_INPUT, "%.*s takes no value, found '%.100s'", (int)name.n, arg, arg + name.n + 1);
    if (l->at + values > l->n) return err_set(e, EXIT_INPUT, "%s: expected %s after it, found nothing", arg, f->arg);
    l->at += values;
    cli__push(&c->idle, arg);
    return true;
}

/* An option of our own, its value attached (val) or in the next argument. */
static bool cli__take(config *c, cli_line *l, const cli_opt *o, bytes name, const char *val, err_t *e) {
    char as_typed[64];
    snprintf(as_typed, sizeof as_typed, "%.*s", (int)name.n, (const char *)name.p);
    if (!o->arg && val) return err_set(e, EXIT_INPUT, "%s takes no value, found '%.100s'", as_typed, val);
    const char *arg = l->arg[l->at - 1];
    if (!val && cli__n_values(l, o->arg)) {
        if (l->at == l->n) return err_set(e, EXIT_INPUT, "%s: expected %s after it, found nothing", as_typed, o->arg);
        val = l->arg[l->at++];
    }
    if (!cli__set(c, o, as_typed, val, e)) return false;
    c->given[o - cli_opts] = arg;
    return true;
}

/* The argument before arg[at], which begins with a dash. A name of our own that has no effect on the action may be one of
 * llama.cpp's that has none anywhere. */
static bool cli__option(config *c, cli_line *l, err_t *e) {
    const char        *arg = l->arg[l->at - 1], *eq = strchr(arg, '='), *val = eq ? eq + 1 : NULL;
    bytes              name = cli__typed(arg);
    const cli_opt     *o = cli__find(l->action == ACT_BENCH, name);
    const cli_foreign *f = o && cli__serves(o, l->action) ? NULL : cli__foreign(name);
    if (f) return cli__take_foreign(c, l, f, e);
    if (!o) o = cli__attached(l, arg, &name, &val);
    return o ? cli__take(c, l, o, name, val, e) : cli__unknown(name, l->action, e);
}

/* An argument that is no option: another file of an action that takes several. */
static bool cli__operand(config *c, const char *arg, err_t *e) {
    if (c->action == ACT_MERGE || c->action == ACT_BATCH) {
        cli__push(&c->inputs, arg);
        return true;
    }
    return err_set(e, EXIT_INPUT, "unexpected argument '%.100s', expected an option (a prompt goes after -p)", arg);
}

/* arg[0 .. n): the command line without the program's name. Texts are kept by reference. Behind -- nothing is an option. */
static bool cli_parse(config *c, int n, char *const *arg, err_t *e) {
    cli_line l = {.n = n, .arg = arg, .action = cli__action_ahead(n, arg)};
    bool     options = true;
    while (l.at < n) {
        const char *a = arg[l.at++];
        if (options && strcmp(a, "--") == 0) options = false;
        else if (!(options && a[0] == '-' && a[1] ? cli__option(c, &l, e) : cli__operand(c, a, e))) return false;
    }
    return true;
}

static bytes cli__act_name(int action) {
    return action == ACT_GENERATE ? bytes_of("generation") : cli__long_name(cli__action_opt(action));
}

/* "generation, --score and --batch" */
static void cli__act_names(uint32_t set, str *out) {
    for (int i = 0; i < N_ACTS; i++) {
        if (!(set >> i & 1)) continue;
        const bytes name = cli__act_name(i);
        set &= ~(1u << i);
        str_add(out, name.p, name.n);
        str_put(out, !set ? "" : set & (set - 1) ? ", " : " and ");
    }
}

/* The one rule for options that have no effect on the action: they are refused. */
static bool cli__effective(const config *c, err_t *e) {
    enum { FEW = 4 };
    for (int i = 0; i < N_CLI_OPTS; i++) {
        const cli_opt *o = &cli_opts[i];
        if (!c->given[i] || cli__serves(o, c->action) || c->action >= ACT_USAGE) continue;
        const bytes name = cli__typed(c->given[i]), act = cli__act_name(c->action);
        str         only = {0};
        str_put(&only, "");
        if (__builtin_popcount(o->serves) <= FEW) {
            str_put(&only, ", only on ");
            cli__act_names(o->serves, &only);
        }
        err_set(e, EXIT_INPUT, "%.*s has no effect on %.*s%s", (int)name.n, name.p, (int)act.n, act.p, only.p);
        str_drop(&only);
        return false;
    }
    return true;
}

/* The forms that --format knows and the actions that have them. */
static const struct {
    const char *name;
    uint32_t    serves;
} cli_forms[] = {
    {"text",  ON_ALL},
    {"json",  ON(GENERATE) | ON(SCORE) | ON(TOKENIZE) | ON(INSPECT) | ON_EVAL | ON(STATISTICS) | ON_BATCH | ON_BENCH},
    {"jsonl", ON_BENCH},
    {"csv",   ON(STATISTICS) | ON_BENCH},
    {"md",    ON(LIST) | ON(USAGE) | ON(HELP) | ON_BENCH},
};

static bool cli__has_format(int action, const char *format) {
    for (size_t i = 0; i < sizeof cli_forms / sizeof *cli_forms; i++)
        if (strcmp(cli_forms[i].name, format) == 0) return cli_forms[i].serves >> action & 1;
    return false;
}

/* Actions whose figures a rounded cache would blur. */
static bool cli__exact(int action) {
    return action >= ACT_SCORE && action <= ACT_DIVERGENCE;
}

static bool cli__needs_model(int action) { return action < ACT_STATISTICS; }
static bool cli__needs_prompt(int action) { return action <= ACT_IMATRIX; }

/* The byte that a backslash and c stand for, -1 when they stand for nothing. */
static int cli__escaped(char c) {
    switch (c) {
    case 'n': return '\n';
    case 't': return '\t';
    case 'r': return '\r';
    case '\\': case '\'': case '"': return c;
    default: return -1;
    }
}

static int cli__hex(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* \n \t \r \\ \' \" \xHH; any other backslash stays as it is. */
static void cli__unescape(const char *s, str *out) {
    while (*s) {
        int byte = *s == '\\' ? cli__escaped(s[1]) : -1, used = 2;
        if (byte < 0 && s[0] == '\\' && s[1] == 'x' && cli__hex(s[2]) >= 0 && cli__hex(s[3]) >= 0)
            byte = cli__hex(s[2]) << 4 | cli__hex(s[3]), used = 4;
        if (byte < 0) byte = (uint8_t)*s, used = 1;
        char c = (char)byte;
        str_add(out, &c, 1);
        s += used;
    }
}

/* Reads the escapes in every text of a list. A NUL cannot be part of one. */
static bool cli__unescape_list(cli_list *l, const char *name, err_t *e) {
    for (; l->n_own < l->n; l->n_own++) {
        str s = {0};
        str_put(&s, "");
        cli__unescape(l->v[l->n_own], &s);
        l->v[l->n_own] = s.p;
        if (strlen(s.p) < s.n) {
            l->n_own++;
            return err_set(e, EXIT_INPUT, "%s: \\x00 cannot be part of it", name);
        }
    }
    return true;
}

static void cli__list_drop(cli_list *l) {
    for (int i = 0; i < l->n_own; i++) mem_free((void *)(uintptr_t)l->v[i]);
    mem_free(l->v);
    *l = (cli_list){0};
}

/* "15043+1.5", "15043-inf" */
static bool cli__bias(const char *s, samp_bias *out, err_t *e) {
    size_t  n = strspn(s, "0123456789");
    char    num[16];
    int64_t id = 0;
    double  x = 0;
    if (n && n < sizeof num) {
        memcpy(num, s, n);
        num[n] = 0;
        bool inf = strcmp(s + n, "-inf") == 0 || strcmp(s + n, "+inf") == 0;
        if (cli__i64(num, &id) && id <= INT32_MAX && (s[n] == '+' || s[n] == '-') && (inf || cli__f64(s + n, &x))) {
            *out = (samp_bias){(int32_t)id, inf ? (s[n] == '-' ? -INFINITY : INFINITY) : (float)x};
            return true;
        }
    }
    return err_set(e, EXIT_INPUT, "--logit-bias: expected a token id and a signed number such as 15043+1, found '%.100s'", s);
}

static bool cli__biases(config *c, err_t *e) {
    c->biases = mem_new((size_t)c->bias.n, sizeof *c->biases);
    for (int i = 0; i < c->bias.n; i++)
        if (!cli__bias(c->bias.v[i], &c->biases[i], e)) return false;
    c->samp.bias = c->biases;
    c->samp.n_bias = c->bias.n;
    return true;
}

static bool cli__finish_eval(const config *c, err_t *e) {
    if (c->eval.base && c->eval.stride) return err_set(e, EXIT_INPUT, "--kl-divergence-base: windows lie end to end, expected no --ppl-stride");
    return true;
}

static bool cli__given(const config *c, const char *name) { return c->given[cli__find(false, bytes_of(name)) - cli_opts] != NULL; }

/* -o FORM is --format FORM, as in llama-bench; -o FILE.FORM has that form. */
static void cli__bench_output(config *c) {
    static const char *const forms[] = {"md", "csv", "json", "jsonl"};
    if (!c->output || c->format) return;
    const char *dot = strrchr(c->output, '.');
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const bool whole = strcmp(c->output, forms[i]) == 0;
        if (!whole && (c->json || !dot || strcmp(dot + 1, forms[i]) != 0)) continue;
        c->format = forms[i];
        if (whole) c->output = NULL;
        return;
    }
}

static bool cli__finish_bench(config *c, err_t *e) {
    if (c->action != ACT_BENCH) return true;
    cli__bench_output(c);
    if (c->models.n) c->model = c->models.v[0];
    for (int i = 1; i < c->models.n; i++)
        if (!*c->models.v[i]) c->model = "";
    if (!bench_any(&c->bench)) return err_set(e, EXIT_INPUT, "--bench: nothing to measure, expected -p, -n or -pg with tokens");
    const char *asks = c->bench.draft ? "--model-draft" : cli__given(c, "--acceptance") ? "--acceptance" : NULL;
    for (int i = 0; i < c->bench.guess.n; i++)
        if (c->bench.guess.v[i]) asks = "--draft-max";
    return !asks || bench_guesses(&c->bench) ||
           err_set(e, EXIT_INPUT, "%s: no test has guesses, expected --draft-max and -n with numbers above 0", asks);
}

/* Texts that name standard input, and those that no answer can hold. */
static bool cli__finish_texts(const config *c, err_t *e) {
    if (c->no_stdin && c->file && strcmp(c->file, "-") == 0) return err_set(e, EXIT_INPUT, "--no-stdin and --file - disagree");
    for (int i = 0; c->no_stdin && c->action == ACT_BATCH && i < c->inputs.n; i++)
        if (strcmp(c->inputs.v[i], "-") == 0) return err_set(e, EXIT_INPUT, "--no-stdin and --batch - disagree");
    for (int i = 0; i < c->stop.n; i++)
        if (!*c->stop.v[i]) return err_set(e, EXIT_INPUT, "--stop: found an empty text, expected at least one byte");
    return true;
}

/* OpenBLAS sums in an order that depends on the rows of a step, so guessed tokens would change the text. */
static bool cli__finish_blas(config *c, err_t *e) {
    if (!c->blas) return true;
    const char *guesses = c->spec.draft ? "--model-draft" : cli__given(c, "--lookup") && c->spec.lookup ? "--lookup" : NULL;
    c->spec.lookup = false;
    return !guesses || err_set(e, EXIT_INPUT, "--blas: found %s beside it, whose guesses would change the text, expected one of them", guesses);
}

/* What several options together mean, and what they must not. After it c is ready to run. */
static bool cli_finish(config *c, err_t *e) {
    if (!cli__effective(c, e)) return false;
    if (c->prompt && c->file) return err_set(e, EXIT_INPUT, "--prompt and --file both give a prompt, expected one");
    if (!cli__finish_bench(c, e)) return false;
    if (c->json && c->format && strcmp(c->format, "json") != 0)
        return err_set(e, EXIT_INPUT, "--json and --format %s disagree", c->format);
    if (c->json) c->format = "json";
    if (!c->format) c->format = "text";
    const bytes act = cli__act_name(c->action);
    if (!cli__has_format(c->action, c->format))
        return err_set(e, EXIT_INPUT, "--format: %.*s has no form %s", (int)act.n, act.p, c->format);
    if (c->action == ACT_BATCH && !c->kv.cache && !cli__given(c, "--kv-block-size")) c->kv.block = CLI_BATCH_BLOCK;
    if (!cli__finish_blas(c, e)) return false;
    if (c->spec.least > c->spec.most)
        return err_set(e, EXIT_INPUT, "--draft-min: %d is more than --draft-max %d", c->spec.least, c->spec.most);
    if (c->spec.cache && c->kv.cache && strcmp(c->spec.cache, c->kv.cache) == 0)
        return err_set(e, EXIT_INPUT, "%s: is the prompt cache itself, expected another file for --lookup-cache", c->spec.cache);
    if (cli__needs_model(c->action) && (!c->model || !*c->model))
        return err_set(e, EXIT_INPUT,
                       "no model given, expected -m FILE or LLMRUN_MODEL in the environment (--help lists all options)");
    if (c->action == ACT_QUANTIZE && !c->quant.dry_run && (!c->output || !*c->output || strcmp(c->output, "-") == 0))
        return err_set(e, EXIT_INPUT, "--quantize: no file to write, expected -o FILE");
    if (c->action == ACT_STATISTICS && c->in_files.n != 1)
        return err_set(e, EXIT_INPUT, "--show-statistics: found %d importance matrices, expected one (--in-file FILE)",
                       c->in_files.n);
    if (c->rope_freq_scale > 0) {
        if (c->rope_freq_scale < 1e-6f) return err_set(e, EXIT_INPUT, "--rope-freq-scale: expected 0 or a number from 1e-6 up");
        if (c->fwd.rope.factor > 0)
            return err_set(e, EXIT_INPUT, "--rope-scale and --rope-freq-scale both give a scale, expected one");
        c->fwd.rope.factor = 1 / c->rope_freq_scale;
    }
    c->eval.n_chunks = c->calib.n_chunks = c->chunks;
    if (!cli__finish_eval(c, e) || !cli__finish_texts(c, e)) return false;
    if (c->gen.n_predict < 0) c->gen.n_predict = -1;
    if (c->escape &&
        !(cli__unescape_list(&c->stop, "--stop", e) && cli__unescape_list(&c->breakers, "--dry-sequence-breaker", e)))
        return false;
    if (!cli__biases(c, e)) return false;
    samp_opts so = c->samp;
    so.n_ctx = 1;                                     /* not known yet; the sampler looks again when it is */
    if (!samp_check(&so, INT32_MAX, e)) return false;
    c->gen.stop = c->stop.v;
    c->gen.n_stop = c->stop.n;
    c->gen.special_out = c->special == 1;
    return true;
}

static void cli_drop(config *c) {
    cli__list_drop(&c->stop);
    cli__list_drop(&c->bias);
    cli__list_drop(&c->breakers);
    cli__list_drop(&c->in_files);
    cli__list_drop(&c->inputs);
    cli__list_drop(&c->tensor_types);
    cli__list_drop(&c->models);
    cli__list_drop(&c->idle);
    mem_free(c->biases);
}

/* --- help --- */

/* The values of a list as they are typed. */
static void cli__spell_list(const cli_opt *o, const bench_list *l, str *out) {
    const char *names[16];
    k_levels_list(names, NULL);
    for (int i = 0; i < l->n; i++) {
        if (i) str_put(out, ",");
        if (o->kind == OPT_TYPES) str_put(out, k_types[l->v[i]].name);
        else if (o->kind == OPT_LEVELS) str_put(out, l->v[i] < 0 ? "auto" : names[l->v[i]]);
        else if (o->kind == OPT_WORDS) str_put(out, bench_repacks[l->v[i]]);
        else str_fmt(out, "%d", l->v[i]);
    }
}

/* The value an option has; "" where there is nothing to say. */
static void cli__value(const cli_opt *o, const config *c, str *out) {
    const void *field = (const char *)c + o->at;
    char        num[32] = "";
    const char *text = num;
    switch (o->kind) {
    case OPT_INT: snprintf(num, sizeof num, "%d", *(const int *)field); break;
    case OPT_I64: snprintf(num, sizeof num, "%lld", (long long)*(const int64_t *)field); break;
    case OPT_FLT:
        snprintf(num, sizeof num, "%g", (double)*(const float *)field);
        if (strtof(num, NULL) != *(const float *)field) snprintf(num, sizeof num, "%.9g", (double)*(const float *)field);
        break;
    case OPT_SIZE: snprintf(num, sizeof num, "%llu", (unsigned long long)*(const uint64_t *)field); break;
    case OPT_STR:
    case OPT_WORD: text = *(const char *const *)field ? *(const char *const *)field : ""; break;
    case OPT_TYPE: text = k_types[*(const uint32_t *)field].name; break;
    case OPT_NUMS:
    case OPT_PAIR:
    case OPT_TYPES:
    case OPT_LEVELS:
    case OPT_WORDS: cli__spell_list(o, field, out); break;
    default: break;
    }
    str_put(out, text);
}

/* The same when nobody gives it. */
static void cli__default(const cli_opt *o, str *out) {
    const config c = cli_defaults();
    cli__value(o, &c, out);
}

/* "-c, --ctx-size N" */
static void cli__spell(const cli_opt *o, const char *between, str *out) {
    const char *names = o->names;
    size_t      start = out->n;
    for (bytes w; cli__word(&names, ' ', &w);) {
        if (out->n > start) str_put(out, between);
        str_add(out, w.p, w.n);
    }
}

enum { CLI_INDENT = 34, CLI_WIDTH = 110 };            /* columns of --help */

/* Words of `text` from column CLI_INDENT on, broken before CLI_WIDTH. */
static void cli__wrap(str *out, const char *text) {
    int col = CLI_INDENT;
    for (bytes w; cli__word(&text, ' ', &w);) {
        if (col > CLI_INDENT && col + 1 + (int)w.n > CLI_WIDTH) {
            str_fmt(out, "\n%*s", CLI_INDENT, "");
            col = CLI_INDENT;
        } else if (col > CLI_INDENT) {
            str_put(out, " ");
            col++;
        }
        str_add(out, w.p, w.n);
        col += (int)w.n;
    }
    str_put(out, "\n");
}

static void cli__help_row(const cli_opt *o, str *out) {
    str    help = {0}, def = {0};
    size_t start = out->n;
    str_put(out, "  ");
    cli__spell(o, ", ", out);
    if (o->arg) str_fmt(out, " %s", o->arg);
    size_t used = out->n - start;
    if (used > CLI_INDENT - 2) str_fmt(out, "\n%*s", CLI_INDENT, "");
    else str_fmt(out, "%*s", (int)(CLI_INDENT - used), "");
    cli__default(o, &def);
    str_put(&help, o->help);
    if (def.n) str_fmt(&help, " [%s]", def.p);
    if (o->env) str_fmt(&help, " (environment: %s)", o->env);
    cli__wrap(out, help.p);
    str_drop(&help);
    str_drop(&def);
}

static void cli_help(str *out) {
    str_put(out, "llmrun runs language models from GGUF files.\n\n"
                 "    llmrun -m MODEL -p TEXT          continue TEXT\n"
                 "    llmrun -m MODEL < FILE           continue what FILE holds\n"
                 "    git diff | llmrun -m MODEL -p \"Explain this diff:\"\n\n"
                 "--option VALUE and --option=VALUE are the same; defaults are in [brackets].\n");
    for (int group = 0; group < N_GROUPS; group++) {
        str_fmt(out, "\n%s:\n", cli_groups[group]);
        for (int i = 0; i < N_CLI_OPTS; i++)
            if ((int)cli_opts[i].group == group) cli__help_row(&cli_opts[i], out);
    }
    str_put(out,
            "\nExit codes: 0 done; 2 bad input or usage; 3 out of memory or disk, or the model file changed; 130, 143 ended\n"
            "by SIGINT, SIGTERM. The answer goes to stdout, everything else to stderr.\n");
}

/* A cell of a Markdown table. */
static void cli__cell(str *out, const char *text) {
    for (; *text; text++) {
        if (*text == '|' || *text == '\\' || *text == '<') str_put(out, "\\");
        str_add(out, text, 1);
    }
}

/* The same table for the README. */
static void cli_help_md(str *out) {
    for (int group = 0; group < N_GROUPS; group++) {
        str_fmt(out, "%s**%s**\n\n| option | default | meaning |\n|---|---|---|\n", group ? "\n" : "", cli_groups[group]);
        for (int i = 0; i < N_CLI_OPTS; i++) {
            const cli_opt *o = &cli_opts[i];
            if ((int)o->group != group) continue;
            str def = {0};
            str_put(out, "| `");
            cli__spell(o, "`, `", out);
            str_put(out, "`");
            if (o->arg) str_put(out, " "), cli__cell(out, o->arg);
            cli__default(o, &def);
            str_put(out, " | ");
            cli__cell(out, def.n ? def.p : "");
            str_put(out, " | ");
            cli__cell(out, o->help);
            if (o->env) str_fmt(out, "; environment: `%s`", o->env);
            str_put(out, " |\n");
            str_drop(&def);
        }
    }
}

/* --- lists --- */

static void cli__list_types(str *out, bool md) {
    static const char *const use[] = {
        [K_KIND_FLOAT] = "weights", [K_KIND_INT] = "weights", [K_KIND_SCALE] = "weights", [K_KIND_DATA] = "data"};
    str_put(out,
            md ? "| id | type | weights per block | bytes per block | bits per weight | may be |\n|---|---|---|---|---|---|\n"
               : "  id  type      block  bytes  bits per weight  may be\n");
    for (uint32_t i = 0; i < K_TYPE_MAX; i++) {
        const k_type *t = &k_types[i];
        if (!k_type_ok(i)) continue;
        str_fmt(out, md ? "| %u | %s | %u | %u | %.4g | %s |\n" : "%4u  %-8s %6u %6u %16.4g  %s\n", i, t->name, t->block,
                t->bytes, 8.0 * t->bytes / t->block, use[t->kind]);
    }
}

static void cli__list_cpu(str *out) {
    const char *name[16];
    bool        can[16];
    int         n = k_levels_list(name, can);
    for (int i = 0; i < n; i++)
        str_fmt(out, "%-8s %s%s\n", name[i], can[i] ? "runs here" : "not on this machine",
                strcmp(name[i], k_level_name()) == 0 ? ", chosen" : "");
}

/* Every spelling once, those of an option on one line. */
static void cli__list_options(str *out) {
    for (int i = 0; i < N_CLI_OPTS; i++) {
        const char  *names = cli_opts[i].names;
        const size_t start = out->n;
        for (bytes w; cli__word(&names, ' ', &w);) {
            if (cli__find(false, w) != &cli_opts[i]) continue;   /* told where it means something without --bench */
            if (out->n > start) str_put(out, " ");
            str_add(out, w.p, w.n);
        }
        if (out->n > start) str_put(out, "\n");
    }
}

static void cli__list(const config *c, str *out) {
    bool md = strcmp(c->format, "md") == 0;
    if (strcmp(c->what, "types") == 0) cli__list_types(out, md);
    else if (strcmp(c->what, "quants") == 0) quant_list(out);
    else if (strcmp(c->what, "archs") == 0) arch_list(out);
    else if (strcmp(c->what, "cpu") == 0) cli__list_cpu(out);
    else if (strcmp(c->what, "pre") == 0) tok_list_pre(out);
    else if (md) cli_help_md(out);
    else cli__list_options(out);
}

static void cli__version(str *out) {
    char pcre[64] = "?";
    pcre2_config(PCRE2_CONFIG_VERSION, pcre);
    err_t none = {0};
    str_fmt(out, "llmrun %s\n", cli_version);
    str_fmt(out, "compiler  %s%s\n", strstr(__VERSION__, "lang") ? "" : "gcc ", __VERSION__);
    str_fmt(out, "kernels   %s\nPCRE2     %s\njansson   %s\n", k_level_name(), pcre, req_json_version());
    str_fmt(out, "OpenBLAS  %s\n",
            dev_blas_open(&none) ? "found, runs with --blas"
            : LLMRUN_BLAS        ? "not found"
                                 : "left out (BLAS=0)");
}

/* --- prompt --- */

static const char cli_stdin[] = "standard input";

/* Says so when nothing has come for a second. True: it was said. */
static bool cli__say_waiting(int fd, bool appends) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (poll(&p, 1, 1000) != 0) return false;
    log_warn("waiting for the end of standard input%s", appends ? ", which is appended to the prompt (--no-stdin leaves it alone)" : "");
    return true;
}

/* Appends all of fd. A descriptor that is not open holds nothing. */
static bool cli__read_all(int fd, const char *name, str *out, err_t *e) {
    struct stat st;
    const bool  appends = out->n > 0;
    bool        patient = name != cli_stdin, huge = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > CLI_PROMPT_MAX;
    for (;;) {
        if (huge || out->n > CLI_PROMPT_MAX)
            return err_set(e, EXIT_INPUT, "%s: more than %d bytes, expected a prompt", name, CLI_PROMPT_MAX);
        str_room(out, 65536);
        size_t  room = out->cap - out->n - 1;
        if (!patient) patient = cli__say_waiting(fd, appends);
        ssize_t got = read(fd, out->p + out->n, room);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EBADF) got = 0;
        if (got < 0) return err_set(e, err_code_of(errno), "%s: %s", name, strerror(errno));
        out->n += (size_t)got;
        out->p[out->n] = 0;
        if (got == 0) return true;
    }
}

static bool cli__read_file(const char *path, str *out, err_t *e) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return err_set(e, err_code_of(errno), "%s: %s", path, strerror(errno));
    bool ok = cli__read_all(fd, path, out, e);
    close(fd);
    return ok;
}

/* A backslash and an n in a text are likely meant as a newline. */
static void cli__note_escapes(const config *c) {
    const char *where = c->prompt && strstr(c->prompt, "\\n") ? "--prompt" : NULL;
    for (int i = 0; i < c->stop.n; i++)
        if (!where && strstr(c->stop.v[i], "\\n")) where = "--stop";
    for (int i = 0; i < c->breakers.n; i++)
        if (!where && strstr(c->breakers.v[i], "\\n")) where = "--dry-sequence-breaker";
    if (where && !c->escape && !cli__given(c, "--no-escape"))
        log_warn("%s: \\n stays a backslash and an n (-e reads it as a newline, --no-escape removes this note)", where);
}

/* Whether a prompt can be had without asking a terminal. */
static bool cli__prompt_exists(const config *c, int in, err_t *e) {
    bool open_in = fcntl(in, F_GETFL) != -1 && (fcntl(in, F_GETFL) & O_ACCMODE) != O_WRONLY;
    if (c->file && strcmp(c->file, "-") == 0 && isatty(in))
        return err_set(e, EXIT_INPUT, "--file -: standard input is a terminal, expected a file or a pipe");
    if (c->prompt || c->file || (open_in && !isatty(in) && !c->no_stdin)) return true;
    if (c->no_stdin) return err_set(e, EXIT_INPUT, "no prompt given, expected -p TEXT or -f FILE (--no-stdin leaves standard input alone)");
    return err_set(e, EXIT_INPUT, "no prompt given, expected -p TEXT, -f FILE or text on standard input");
}

/* Standard input behind a prompt, on a new line, where there is any. */
static bool cli__append_stdin(int in, str *out, err_t *e) {
    const size_t own = out->n;
    str_put(out, "\n");
    if (!cli__read_all(in, cli_stdin, out, e)) return false;
    const size_t more = out->n - own - 1;
    if (more) log_warn("%zu byte%s of standard input appended to the prompt", more, more == 1 ? "" : "s");
    else out->p[out->n = own] = 0;
    return true;
}

/* The prompt, byte for byte: -f FILE; or standard input; or -p TEXT, after which standard input, where it is not a
 * terminal and not empty, follows on a new line (`alone` and --no-stdin: it does not). */
static bool cli_prompt(const config *c, int in, bool alone, str *out, err_t *e) {
    bool in_reads = !isatty(in);
    str_add(out, "", 0);
    if (c->file && strcmp(c->file, "-") != 0) return cli__read_file(c->file, out, e);
    if (!c->prompt) return in_reads ? cli__read_all(in, cli_stdin, out, e) : true;
    if (c->escape) cli__unescape(c->prompt, out);
    else str_put(out, c->prompt);
    return alone || c->no_stdin || !in_reads || cli__append_stdin(in, out, e);
}

/* --- streams and signals --- */

static volatile sig_atomic_t cli__graceful;           /* a run is under way that watches g_interrupt */
static char                  cli__lost[1024];         /* the line that says what an interrupt leaves unwritten, "" where there is none */

/* The first signal asks a run to stop at the next token; the second, or one that nobody watches for, ends at once. */
static void cli__on_signal(int sig) {
    if (g_interrupt || !cli__graceful) {
        progress_clear();
        gguf_write_sweep();
        out_sweep();
        if (cli__lost[0] && write(STDERR_FILENO, cli__lost, strlen(cli__lost)) < 0) {}
        _exit(128 + sig);
    }
    g_interrupt = sig;
}

/* What an interrupt leaves without its result, until cli__kept() says that the result is there. */
static void cli__may_lose(const config *c) {
    const char *file = c->action == ACT_IMATRIX || c->action == ACT_LOGITS ? c->what : c->action == ACT_PERPLEXITY && c->eval.base ? c->eval.base : c->output;
    const bool  partly = c->action == ACT_SCORE || c->action == ACT_LOGITS;
    const bool  figures = c->action == ACT_PERPLEXITY || c->action == ACT_DIVERGENCE;
    if (g_log_level < LOG_NORMAL || !(partly || figures || c->action == ACT_QUANTIZE || c->action == ACT_IMATRIX) || c->quant.dry_run) return;
    if (file && strcmp(file, "-") != 0)
        snprintf(cli__lost, sizeof cli__lost - 1, "llmrun: interrupted: %.900s is %s", file, partly ? "not complete" : "not written");
    else snprintf(cli__lost, sizeof cli__lost - 1, "llmrun: interrupted: the output is %s", partly ? "not complete" : "not written");
    log_tame(cli__lost, strlen(cli__lost));
    strcat(cli__lost, "\n");
}

static void cli__kept(void) { cli__lost[0] = 0; }

/* Interrupted calls go on by themselves: a write of the answer is not torn in half. */
static void cli__signals(void) {
    struct sigaction stop = {.sa_handler = cli__on_signal, .sa_flags = SA_RESTART}, ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGPIPE, &ignore, NULL);                /* a closed pipe is a failed write, and quiet */
    sigaction(SIGXFSZ, &ignore, NULL);                /* a file too long for its limit is a failed write */
}

/* Descriptors 0 to 2 that the parent closed are taken, each open the wrong way round, so that no model file lands
 * there and every read or write of them fails. Standard error goes nowhere. */
static void cli__streams(void) {
    static const int way[] = {O_WRONLY, O_RDONLY, O_WRONLY};
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) == -1 && errno == EBADF && open("/dev/null", way[fd]) != fd) _exit(EXIT_RESOURCE);
}

static bool cli__same_file(int fd, const char *path) {
    struct stat a, b;
    return fstat(fd, &a) == 0 && S_ISREG(a.st_mode) && stat(path, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Opens the stream for the answer: stdout, or the file named, which must be none of those that are read. Its old bytes stay
 * until out_begin(). */
static bool cli__output(out_t *out, const char *path, const config *c, const gguf_file *g, err_t *e) {
    *out = (out_t){stdout, "stdout", 0};
    if (!path || strcmp(path, "-") == 0) return true;
    int fd = out_open(path);
    if (fd < 0) return err_set(e, err_code_of(errno), "%s: %s", path, strerror(errno));
    for (int i = 0; g && i < g->n_parts; i++)
        if (cli__same_file(fd, g->part[i].path))
            err_set(e, EXIT_INPUT, "%s: is the model itself, expected another file to write", path);
    if (c->file && strcmp(c->file, "-") != 0 && cli__same_file(fd, c->file))
        err_set(e, EXIT_INPUT, "%s: is the prompt itself, expected another file to write", path);
    if (c->kv.cache && cli__same_file(fd, c->kv.cache))
        err_set(e, EXIT_INPUT, "%s: is the prompt cache itself, expected another file to write", path);
    if (c->spec.cache && cli__same_file(fd, c->spec.cache))
        err_set(e, EXIT_INPUT, "%s: is the lookup cache itself, expected another file to write", path);
    *out = (out_t){e->code ? NULL : fdopen(fd, "wb"), path, 0};
    if (out->f) return true;
    close(fd);
    return err_set(e, EXIT_RESOURCE, "%s: %s", path, strerror(errno));
}

/* Raw floats would garble a terminal. */
static bool cli__fit_for_floats(const config *c, const out_t *out, err_t *e) {
    const bool logits = c->action == ACT_LOGITS;
    if (!(logits || c->action == ACT_DUMP) || !isatty(fileno(out->f))) return true;
    return err_set(e, EXIT_INPUT, "%s: raw floats are not written to a terminal, expected a file (%s) or a redirection (> FILE)",
                   logits ? "--logits" : "--dump-tensor", logits ? "--logits FILE" : "-o FILE");
}

/* --- actions on a model --- */

typedef struct {
    const config *c;
    gguf_file    *g;
    tok_vocab    *vocab;
    tok_ids       ids;                                /* the prompt */
    out_t         out;
    double        t_start;                            /* clock_now() when the program began */
} cli_run;

/* The name of a path's last part. */
static const char *cli__base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool cli__json(const config *c) { return strcmp(c->format, "json") == 0; }

/* A text that grows leaves in pieces. */
static void cli__flush(cli_run *r, str *s, size_t most) {
    if (s->n <= most) return;
    out_put(&r->out, s->p, s->n);
    str_clear(s);
}

static bool cli__tokenize_json(cli_run *r, err_t *e) {
    str s = {0};
    if (!out_begin(&r->out, e)) return false;
    str_fmt(&s, "{\"count\":%zu,\"ids\":[", r->ids.n);
    for (size_t i = 0; i < r->ids.n; i++) {
        str_fmt(&s, i ? ",%d" : "%d", r->ids.id[i]);
        cli__flush(r, &s, 65536);
    }
    str_put(&s, "],\"pieces\":[");
    for (size_t i = 0; i < r->ids.n; i++) {
        str_put(&s, i ? ",\n{" : "\n{");
        tok_json(r->vocab, r->ids.id[i], &s);
        str_put(&s, "}");
        cli__flush(r, &s, 65536);
    }
    str_put(&s, "]}\n");
    cli__flush(r, &s, 0);
    str_drop(&s);
    return true;
}

static bool cli__tokenize(cli_run *r, err_t *e) {
    str s = {0};
    if (cli__json(r->c)) return cli__tokenize_json(r, e);
    if (!out_begin(&r->out, e)) return false;
    for (size_t i = 0; i < r->ids.n; i++) {
        str_fmt(&s, i ? " %d" : "%d", r->ids.id[i]);
        cli__flush(r, &s, 65536);
    }
    str_put(&s, "\n");
    cli__flush(r, &s, 0);
    str_drop(&s);
    return true;
}

/* Ids of the vocabulary, separated by blanks or commas. */
static bool cli__read_ids(bytes text, int32_t n_vocab, tok_ids *out, err_t *e) {
    for (size_t i = 0; i < text.n;) {
        size_t  from = i;
        int64_t id = 0;
        if (isspace(text.p[i]) || text.p[i] == ',') {
            i++;
            continue;
        }
        for (; i < text.n && text.p[i] >= '0' && text.p[i] <= '9'; i++)
            if (id < INT32_MAX) id = id * 10 + (text.p[i] - '0');
        bool whole = i > from && (i == text.n || isspace(text.p[i]) || text.p[i] == ',');
        int  shown = (int)(text.n - from < 20 ? text.n - from : 20);
        if (!whole)
            return err_set(e, EXIT_INPUT, "--detokenize: expected a token id at byte %zu, found '%.*s'", from, shown,
                           (const char *)text.p + from);
        if (id >= n_vocab)
            return err_set(e, EXIT_INPUT, "--detokenize: id %.*s at byte %zu is out of range, expected 0 to %d",
                           (int)(i - from < 20 ? i - from : 20), (const char *)text.p + from, from, n_vocab - 1);
        tok_ids_add(out, (int32_t)id);
    }
    return true;
}

static bool cli__detokenize(cli_run *r, const str *text, err_t *e) {
    str s = {0};
    if (!cli__read_ids(str_bytes(text), tok_count(r->vocab), &r->ids, e)) return false;
    if (!out_begin(&r->out, e)) return false;
    tok_decode(r->vocab, r->ids.id, r->ids.n, r->c->special == 1, &s);
    out_put(&r->out, s.p, s.n);
    str_drop(&s);
    return true;
}

/* The tensor's name that is nearest to `name`. Directories of strangers may be long: the first ones are enough. */
static bytes cli__near_tensor(const gguf_file *g, bytes name) {
    bytes best = {0};
    int   least = bytes_slack(name) + 1;
    for (uint64_t i = 0; i < g->n_tensor && i < 10000; i++) {
        int d = bytes_distance(name, g->tensor[i].name);
        if (d < least) least = d, best = g->tensor[i].name;
    }
    return best;
}

/* All of a tensor as little-endian float32, some thousand weights at a time: whole blocks of any type. */
static bool cli__dump_tensor(const gguf_file *g, const char *name, out_t *out, err_t *e) {
    enum { STEP = 16384 };
    const gguf_tensor *t = gguf_tensor_find(g, name);
    if (!t) {
        bytes near = cli__near_tensor(g, bytes_of(name));
        if (near.n)
            return err_set(e, EXIT_INPUT, "%s: no tensor %.100s (did you mean %.*s?)", g->path, name, (int)near.n, near.p);
        return err_set(e, EXIT_INPUT, "%s: no tensor %.100s, expected one that --inspect shows", g->path, name);
    }
    const k_type *k = &k_types[t->type];
    uint64_t      n = t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
    if (!out_begin(out, e)) return false;
    float        *buf = mem_aligned(STEP, sizeof *buf);
    for (uint64_t at = 0; at < n && !out->why; at += STEP) {
        uint64_t some = n - at < STEP ? n - at : STEP;
        k->dequant(t->data + at / k->block * k->bytes, buf, (int64_t)some);
        out_put(out, buf, (size_t)some * sizeof *buf);
    }
    mem_free(buf);
    return true;
}

/* Tokens that the request may put into the context: the prompt and what -n asks for; -1: no limit. */
static int64_t cli__need(const config *c, size_t n_prompt) {
    if (c->action != ACT_GENERATE) return (int64_t)n_prompt;
    return c->gen.n_predict < 0 ? -1 : (int64_t)n_prompt + c->gen.n_predict;
}

/* A token's bytes, and a text's tokens, for whoever looks for DRY's breakers. */
static bytes cli__word_text(void *ctx, int32_t id) {
    const tok_vocab *v = ctx;
    return tok_is_control(v, id) ? tok_text(v, id) : tok_piece(v, id);
}

static int32_t cli__word_encode(void *ctx, bytes text, int32_t *out, int32_t cap) {
    tok_ids ids = {0};
    err_t   none = {0};
    int32_t n = tok_encode(ctx, text, 0, &ids, &none) ? (int32_t)ids.n : 0;
    if (n) memcpy(out, ids.id, (size_t)(n < cap ? n : cap) * sizeof *out);
    tok_ids_drop(&ids);
    return n;
}

static void cli__breakers(const config *c, tok_vocab *v, samp_breakers *out) {
    static const char *const usual[] = {"\n", ":", "\"", "*"};
    const samp_words         words = {tok_count(v), v, cli__word_text, cli__word_encode};
    const char *const       *text = c->breakers.n ? (const char *const *)c->breakers.v : usual;
    int                      n = c->breakers.n ? c->breakers.n : (int)(sizeof usual / sizeof *usual);
    for (int i = 0; i < n; i++)
        if (strcmp(text[i], "none") != 0) samp_breakers_text(out, bytes_of(text[i]), &words);
    samp_breakers_seal(out);
}

/* The sampler's options, and DRY's breakers where it is on, which the caller drops. */
static samp_opts cli__samp(const config *c, tok_vocab *v, int n_ctx, samp_breakers *breakers) {
    samp_opts so = c->samp;
    so.n_ctx = n_ctx;
    if (so.dry_multiplier <= 0) return so;
    cli__breakers(c, v, breakers);
    so.dry_breakers = breakers;
    return so;
}

/* Who guesses for n_seqs sequences of the engine; NULL: nobody, or (e->code) not as asked. */
static spec *cli__guesser(const config *c, const engine *en, int n_seqs, err_t *e) {
    return spec_rows(&c->spec, n_seqs) ? spec_open(en, &c->spec, c->pre, &c->fwd, &c->kv, n_seqs, e) : NULL;
}

static bool cli__generate(cli_run *r, engine *en, err_t *e) {
    const config *c = r->c;
    samp_breakers   breakers = {0};
    const samp_opts so = cli__samp(c, r->vocab, en->n_ctx, &breakers);
    const uint64_t  seed = c->seed < 0 ? rng_fresh() : (uint64_t)c->seed;
    spec           *guesser = cli__guesser(c, en, 1, e);
    gen_opts        go = c->gen;
    if (cli__json(c)) go.json = cli__base_name(r->g->path);
    bool ok = !e->code && text_run(en, guesser, &r->ids, &go, &so, seed, &r->out, e) && spec_save(guesser, e);
    spec_close(guesser);
    samp_breakers_drop(&breakers);
    return ok;
}

/* Every way to run the model. The output is begun when nothing stands in the way of an answer. */
static bool cli__with_engine(cli_run *r, err_t *e) {
    const config *c = r->c;
    bool          all = c->action != ACT_GENERATE;    /* every row of the prompt asks for logits */
    engine       *en = engine_open(r->g, r->vocab, &c->fwd, &c->kv, cli__need(c, r->ids.n), all, all ? 0 : spec_rows(&c->spec, 1), r->t_start, e);
    if (!en) return false;
    cli__graceful = 1;
    bool ok = gen_fits(en, &r->ids, e) && (c->action == ACT_GENERATE || out_begin(&r->out, e));
    if (ok && c->action == ACT_SCORE)
        ok = cli__json(c) ? gen_score_json(en, &r->ids, cli__base_name(r->g->path), &r->out, e) : gen_score(en, &r->ids, &r->out, e);
    else if (ok && c->action == ACT_LOGITS) ok = gen_logits(en, &r->ids, &r->out, e);
    else if (ok) ok = cli__generate(r, en, e) && engine_save(en, &c->kv, e);
    engine_close(en);
    return ok;
}

/* Whether a file that is about to be written is another than `from` (NULL: none), which is read and called `what`. */
static bool cli__apart(const char *path, const char *from, const char *what, err_t *e) {
    int  fd = from && strcmp(from, "-") != 0 ? open(from, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
    bool same = fd >= 0 && cli__same_file(fd, path);
    if (fd >= 0) close(fd);
    return !same || err_set(e, EXIT_INPUT, "%s: is the %s itself, expected another file to write", path, what);
}

/* Whether a file may be made beside the answer: one with a name, and neither the prompt nor the answer. */
static bool cli__spares(const cli_run *r, const char *path, err_t *e) {
    if (strcmp(path, "-") == 0) return err_set(e, EXIT_INPUT, "-: is no name, expected a file to write");
    if (!cli__apart(path, r->c->file, "prompt", e)) return false;
    return !cli__same_file(fileno(r->out.f), path) ||
           err_set(e, EXIT_INPUT, "%s: is the output itself, expected another file to write", path);
}

/* The text in windows; a context of 512 where nobody asks for another. */
static bool cli__perplexity(cli_run *r, err_t *e) {
    const config *c = r->c;
    const bool    json = cli__json(c);
    fwd_opts      fo = c->fwd;
    eval_plan     plan;
    if (c->eval.base && !cli__spares(r, c->eval.base, e)) return false;
    if (fo.n_ctx < 0) fo.n_ctx = EVAL_CTX;
    engine *en = engine_open_many(r->g, r->vocab, &fo, &c->kv, (int64_t)r->ids.n, r->t_start, e);
    if (!en) return false;
    cli__graceful = 1;
    const int32_t bos = c->bos || tok_add_bos(r->vocab) ? tok_bos(r->vocab) : -1;
    bool ok = eval_plan_text(&plan, &r->ids, fo.n_ctx ? fo.n_ctx : en->m.hp.n_ctx_train, bos, &c->eval, e) && out_begin(&r->out, e) &&
              eval_perplexity(en, &plan, &c->eval, json, &r->out, e);
    engine_close(en);
    return ok;
}

/* Neither text nor vocabulary is needed: the base holds the tokens. */
static bool cli__divergence(cli_run *r, err_t *e) {
    const config *c = r->c;
    fwd_opts      fo = c->fwd;
    eval_base     b;
    eval_plan     plan;
    if (c->output && !cli__apart(c->output, c->what, "base", e)) return false;
    if (!eval_base_open(&b, c->what, e)) return false;
    fo.n_ctx = b.n_ctx;
    engine *en = NULL;
    bool    ok = eval_plan_base(&plan, &b, &c->eval, e) &&
              (en = engine_open_many(r->g, NULL, &fo, &c->kv, (int64_t)b.ids.n, r->t_start, e)) != NULL;
    cli__graceful = 1;
    ok = ok && out_begin(&r->out, e) && eval_divergence(en, &b, &plan, cli__json(c), &r->out, e);
    engine_close(en);
    eval_base_close(&b);
    return ok;
}

/* The importance matrix of the text and of the files named beside it. Nothing is written after an interrupt. */
static bool cli__imatrix(cli_run *r, err_t *e) {
    const config *c = r->c;
    const int     chunk = c->fwd.n_ctx > 0 ? c->fwd.n_ctx : CALIB_CHUNK;
    const int     n = c->in_files.n;
    calib_imatrix im = {0}, *more = mem_new((size_t)n, sizeof *more);
    bool          ok = cli__spares(r, c->what, e) && gguf_write_could(c->what, r->g, e);
    for (int i = 0; ok && i < n; i++) ok = calib_imatrix_read(&more[i], c->in_files.v[i], e);
    if (ok && (r->ids.n || !n)) {
        fwd_opts fo = c->fwd;
        fo.n_ctx = chunk;
        engine *en = engine_open(r->g, r->vocab, &fo, &c->kv, chunk, false, 0, r->t_start, e);
        cli__graceful = 1;
        ok = en && calib_gather(en, &r->ids, chunk, &c->calib, c->file ? c->file : "", &im, e);
        engine_close(en);
    }
    for (int i = 0; i < n; i++) {
        ok = ok && calib_imatrix_merge(&im, &more[i], (uint32_t)chunk, e);
        calib_imatrix_drop(&more[i]);
    }
    mem_free(more);
    im.chunk = (uint32_t)chunk;
    ok = ok && calib_imatrix_write(&im, c->what, r->g, e);
    if (ok && g_log_level >= LOG_NORMAL)
        fprintf(stderr, "llmrun: %s: %zu tensors, %u chunks of %d tokens, %.1f s\n", c->what, im.n, im.n_chunk, chunk,
                clock_now() - r->t_start);
    calib_imatrix_drop(&im);
    return ok;
}

static bool cli__encode(cli_run *r, const str *text, err_t *e) {
    const config *c = r->c;
    unsigned      flags = c->bos ? TOK_BOS : 0;
    if (c->action == ACT_IMATRIX) flags |= (c->special == 1 ? TOK_SPECIAL : 0) | (text->n && tok_add_bos(r->vocab) ? TOK_BOS : 0);
    else if (c->action == ACT_TOKENIZE) flags |= c->special == 1 ? TOK_SPECIAL : 0;
    else {
        bool begin = tok_bos(r->vocab) >= 0 && (tok_add_bos(r->vocab) || !text->n); /* an empty prompt is the start token alone */
        flags |= (c->special != 0 ? TOK_SPECIAL : 0) | (begin ? TOK_BOS : 0);
    }
    return tok_encode(r->vocab, str_bytes(text), flags, &r->ids, e);
}

/* Actions that read the vocabulary and a prompt. */
static bool cli__on_prompt(cli_run *r, err_t *e) {
    const int act = r->c->action;
    str       text = {0};
    r->vocab = tok_load(r->g, r->c->pre, e);
    bool ok = r->vocab && cli_prompt(r->c, 0, act == ACT_DETOKENIZE, &text, e) &&
              (act == ACT_DETOKENIZE ? cli__detokenize(r, &text, e) : cli__encode(r, &text, e));
    str_drop(&text);
    if (ok && act == ACT_TOKENIZE) ok = cli__tokenize(r, e);
    else if (ok && act == ACT_PERPLEXITY) ok = cli__perplexity(r, e);
    else if (ok && act == ACT_IMATRIX) ok = cli__imatrix(r, e);
    else if (ok && act != ACT_DETOKENIZE) ok = cli__with_engine(r, e);
    tok_ids_drop(&r->ids);
    tok_free(r->vocab);
    return ok;
}

/* What --quantize knows beyond the weights: an importance matrix, a text to round by. */
typedef struct {
    const config    *c;
    const gguf_file *g;
    calib_imatrix    im;
    float          **w;                               /* [n_tensor] importance of each channel, NULL: not known */
    tok_ids          ids;                             /* the text */
    int32_t          bos;
    round_job       *rounded;
} cli_guide;

static const float *cli__weights(void *ctx, const gguf_tensor *t, uint64_t matrix) {
    const cli_guide *k = ctx;
    const float     *w = k->w ? k->w[t - k->g->tensor] : NULL;
    return w ? w + matrix * t->dim[0] : NULL;
}

static bool cli__guide_imatrix(cli_guide *k, err_t *e) {
    if (!calib_imatrix_read(&k->im, k->c->imatrix, e)) return false;
    size_t known = 0;
    k->w = mem_new(k->g->n_tensor, sizeof *k->w);
    for (uint64_t i = 0; i < k->g->n_tensor && !e->code; i++) {
        const gguf_tensor *t = &k->g->tensor[i];
        k->w[i] = calib_weights(&k->im, t->name, t->dim[0], t->dim[2] * t->dim[3], e);
        known += k->w[i] != NULL;
    }
    if (!e->code && !known) log_warn("%s: knows no tensor of this model", k->c->imatrix);
    return !e->code;
}

static bool cli__guide_text(cli_guide *k, err_t *e) {
    const config *c = k->c;
    str           text = {0};
    tok_vocab    *v = tok_load(k->g, c->pre, e);
    const bool    add = v && tok_add_bos(v);
    bool          ok = v && cli__read_file(c->calibrate, &text, e) &&
              tok_encode(v, str_bytes(&text), (c->special == 1 ? TOK_SPECIAL : 0) | (add ? TOK_BOS : 0), &k->ids, e);
    k->bos = add ? tok_bos(v) : -1;
    tok_free(v);
    str_drop(&text);
    return ok;
}

static bool cli__guide_prepare(void *ctx, const uint32_t *to, err_t *e) {
    cli_guide       *k = ctx;
    const config    *c = k->c;
    const round_opts o = {c->fwd.n_ctx > 0 ? c->fwd.n_ctx : CALIB_CHUNK, c->calib.n_chunks, c->fwd.n_threads, 0.01f, c->fwd.rope, c->kv};
    if (c->calibrate) k->rounded = round_run(k->g, &k->ids, k->bos, to, &o, e);
    return !c->calibrate || k->rounded;
}

static const uint8_t *cli__guide_bytes(void *ctx, uint64_t i) {
    const cli_guide *k = ctx;
    return k->rounded ? round_bytes(k->rounded, i) : NULL;
}

static bool cli__quantize(const config *c, const gguf_file *g, err_t *e) {
    cli_guide         know = {.c = c, .g = g};
    const quant_guide guide = {&know, cli__weights, cli__guide_prepare, cli__guide_bytes};
    quant_opts        o = c->quant;
    out_t             out;
    o.tensor_type = c->tensor_types.v;
    o.n_tensor_type = c->tensor_types.n;
    o.n_threads = c->fwd.n_threads;
    if (c->imatrix || c->calibrate) o.guide = &guide;
    bool ok = c->quant.dry_run || (cli__apart(c->output, c->imatrix, "importance matrix", e) &&
                                   cli__apart(c->output, c->calibrate, "text", e));
    ok = ok && (!c->imatrix || cli__guide_imatrix(&know, e)) && (!c->calibrate || cli__guide_text(&know, e)) &&
         cli__output(&out, NULL, c, g, e);
    if (ok) {
        if (c->imatrix) o.imatrix.file = c->imatrix, o.imatrix.entries = (uint32_t)know.im.n, o.imatrix.chunks = know.im.n_chunk;
        if (know.im.n_dataset) o.imatrix.dataset = str_bytes(&know.im.dataset[0]);
        cli__graceful = 1;
        ok = quant_run(g, c->what, c->output, &o, &out, e);
        ok = out_end(&out, e) && ok;
    }
    for (uint64_t i = 0; know.w && i < g->n_tensor; i++) mem_free(know.w[i]);
    mem_free(know.w);
    round_free(know.rounded);
    tok_ids_drop(&know.ids);
    calib_imatrix_drop(&know.im);
    return ok;
}

/* What a model's file recommends for sampling, where the command line is silent. */
static bool cli__from_model(config *c, const gguf_file *g, err_t *e) {
    static const struct {
        const char *key, *option;
        size_t      at;
    } keys[] = {
        {"general.sampling.temp",            "--temp",            AT(samp.temp)},
        {"general.sampling.top_k",           "--top-k",           AT(samp.top_k)},
        {"general.sampling.top_p",           "--top-p",           AT(samp.top_p)},
        {"general.sampling.min_p",           "--min-p",           AT(samp.min_p)},
        {"general.sampling.xtc_probability", "--xtc-probability", AT(samp.xtc_probability)},
        {"general.sampling.xtc_threshold",   "--xtc-threshold",   AT(samp.xtc_threshold)},
        {"general.sampling.penalty_last_n",  "--repeat-last-n",   AT(samp.repeat_last_n)},
        {"general.sampling.penalty_repeat",  "--repeat-penalty",  AT(samp.repeat_penalty)},
        {"general.sampling.mirostat",        "--mirostat",        AT(samp.mirostat)},
        {"general.sampling.mirostat_tau",    "--mirostat-ent",    AT(samp.mirostat_ent)},
        {"general.sampling.mirostat_eta",    "--mirostat-lr",     AT(samp.mirostat_lr)},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const cli_opt *o = cli__find(false, bytes_of(keys[i].option));
        void          *to = (char *)c + keys[i].at;
        double         x = 0;
        if (cli__given(c, keys[i].option)) continue;
        int got = gguf_get_number(g, keys[i].key, o->lo, o->hi, &x, e);
        if (got < 0) return false;
        if (got && o->kind == OPT_INT) *(int *)to = (int)x;
        else if (got) *(float *)to = (float)x;
        if (got) log_info("%s: %s sets %s", g->path, keys[i].key, keys[i].option);
    }
    return true;
}

/* What decides about the answers of a batch, a line for each: results that were made otherwise do not go into one file. */
static void cli__settings(const config *c, const gguf_file *g, const char *seed, int n_ctx, str *out) {
    static const char *const more[] = {"-n", "-ctk", "-ctv", "--pre", "--stop", "--ignore-eos", "--special", "--bos", "--blas", "--shard"};
    str_fmt(out, "model=%016llx\nseed=%s\ncontext=%d\n", (unsigned long long)gguf_fingerprint(g), seed, n_ctx);
    for (int i = 0; i < N_CLI_OPTS; i++) {
        const cli_opt *o = &cli_opts[i];
        bool           want = o->group == GROUP_ROPE || (o->group == GROUP_SAMPLE && o != cli__find(false, bytes_of("--seed")));
        for (size_t k = 0; k < sizeof more / sizeof *more; k++) want = want || o == cli__find(false, bytes_of(more[k]));
        if (!want) continue;
        const bytes name = cli__long_name(o);
        const void *field = (const char *)c + o->at;
        str         v = {0};
        str_add(&v, "", 0);
        if (o->kind == OPT_LIST) {
            const cli_list *l = field;
            for (int k = 0; k < l->n; k++) str_json(&v, bytes_of(l->v[k]));
        } else if (o->kind == OPT_ON) str_put(&v, *(const bool *)field ? "on" : "off");
        else if (o->kind == OPT_SET) str_fmt(&v, "%d", *(const int *)field);
        else if (o->kind == OPT_STR) str_json(&v, bytes_of(*(const char *const *)field ? *(const char *const *)field : ""));
        else cli__value(o, c, &v);
        str_fmt(out, "%.*s=%s\n", (int)name.n - 2, name.p + 2, v.p);
        str_drop(&v);
    }
}

/* The seed of a batch: the one given, or the one that the results to go on with were begun with, or a fresh one. *drawn: nobody
 * gave it. */
static bool cli__batch_seed(const config *c, uint64_t *seed, bool *drawn, str *told, err_t *e) {
    static const char mark[] = "drawn ";
    *drawn = c->seed < 0;
    *seed = *drawn ? rng_fresh() : (uint64_t)c->seed;
    if (*drawn && c->resume && c->output && (results_setting(c->output, "seed", told, e) || (!e->code && results_seed(c->output, told))) &&
        strncmp(told->p, mark, sizeof mark - 2) == 0)  /* a fingerprint has no blanks */
        *seed = strtoull(told->p + sizeof mark - 2, NULL, 10);
    str_clear(told);
    str_fmt(told, "%s%llu", *drawn ? mark : "", (unsigned long long)*seed);
    return !e->code;
}

static char *cli__copy(const char *text) { return memcpy(mem_new(strlen(text) + 1, 1), text, strlen(text) + 1); }

static int cli__by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* The files whose names match, in their order; texts of the list are its own. */
static bool cli__match_files(const char *pattern, cli_list *files, err_t *e) {
    glob_t    found = {0};
    const int got = glob(pattern, 0, NULL, &found);
    for (size_t i = 0; !got && i < found.gl_pathc; i++) cli__push(files, cli__copy(found.gl_pathv[i]));
    globfree(&found);
    if (got == GLOB_NOMATCH) return err_set(e, EXIT_INPUT, "%s: no file has a name like this", pattern);
    return !got || err_set(e, EXIT_RESOURCE, "%s: its files cannot be listed", pattern);
}

/* Files of lines: a name that is no file's may be a pattern. */
static bool cli__batch_files(const config *c, cli_list *files, err_t *e) {
    for (int i = 0; !e->code && i < c->inputs.n; i++) {
        const char *name = c->inputs.v[i];
        if (!strpbrk(name, "*?[") || access(name, F_OK) == 0) cli__push(files, cli__copy(name));
        else cli__match_files(name, files, e);
    }
    for (int i = 0; !e->code && c->output && i < files->n; i++) cli__apart(c->output, files->v[i], "batch file", e);
    if (e->code) return false;
    const char **sorted = mem_new((size_t)files->n, sizeof *sorted);
    memcpy(sorted, files->v, (size_t)files->n * sizeof *sorted);
    qsort(sorted, (size_t)files->n, sizeof *sorted, cli__by_text);
    for (int i = 1; i < files->n; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0) err_set(e, EXIT_INPUT, "%s: given twice to --batch, expected each file once", sorted[i]);
    mem_free(sorted);
    return !e->code;
}

static bool cli__batch(config *c, gguf_file *g, double t_start, err_t *e) {
    batch_job     job = {.model_name = cli__base_name(g->path), .gen = &c->gen, .special = c->special != 0, .bos = c->bos,
                         .json = cli__json(c)};
    samp_breakers breakers = {0};
    str           seed = {0}, settings = {0};
    cli_list      files = {0};
    const int     n_seqs = c->batch.n_parallel;
    engine       *en = NULL;
    engine_needs  beside = {0};
    spec         *guesser = NULL;
    results      *out = NULL;
    long long     bad = -1;
    tok_vocab    *v = tok_load(g, c->pre, e);
    bool ok = v && cli__batch_files(c, &files, e) &&
              (!c->output || (cli__apart(c->output, c->kv.cache, "prompt cache", e) && cli__apart(c->output, c->spec.cache, "lookup cache", e))) &&
              cli__batch_seed(c, &job.seed, &job.own_seeds, &seed, e);
    ok = ok && spec_needs(&c->spec, &c->fwd, &c->kv, n_seqs, &beside, e) &&
         (en = engine_open_batch(g, v, &c->fwd, &c->kv, n_seqs, spec_rows(&c->spec, n_seqs), &beside, t_start, e)) &&
         ((guesser = cli__guesser(c, en, n_seqs, e)) || !e->code);
    if (ok) {                                         /* a context that free memory happens to bound is no setting */
        const bool bound = c->kv.max_blocks || c->kv.mem_bytes;
        cli__settings(c, g, seed.p, bound ? en->n_ctx : c->fwd.n_ctx > 0 ? c->fwd.n_ctx : en->m.hp.n_ctx_train, &settings);
    }
    cli__graceful = 1;
    if (ok && (out = results_open(c->output, c->resume, str_bytes(&settings), e))) {
        const samp_opts so = cli__samp(c, v, en->n_ctx, &breakers);
        job.samp = &so;
        job.path = files.v;
        job.n_paths = files.n;
        bad = batch_run(en, guesser, out, &c->batch, &job, e);
        if (bad >= 0) bad += (long long)out->n_old_failed;
        results_close(out, e);
        engine_save(en, &c->kv, e);
        spec_save(guesser, e);
    }
    if (bad > 0)
        err_set(e, EXIT_NO, "%s%s: %lld line%s answered with an error", c->inputs.v[0], job.n_paths > 1 ? " and others" : "", bad, bad == 1 ? " is" : "s are");
    for (int i = 0; i < files.n; i++) mem_free((void *)(uintptr_t)files.v[i]);
    cli__list_drop(&files);
    samp_breakers_drop(&breakers);
    spec_close(guesser);
    engine_close(en);
    tok_free(v);
    str_drop(&seed);
    str_drop(&settings);
    return !e->code;
}

static bool cli__on_model(const config *c, double t_start, err_t *e) {
    gguf_file g;
    if (cli__needs_prompt(c->action) && !cli__prompt_exists(c, 0, e)) return false;
    if (!gguf_open(&g, c->model, e)) return false;
    if ((c->kv.cache && !c->kv.cache_ro && !gguf_write_could(c->kv.cache, &g, e)) ||
        (c->spec.cache && !gguf_write_could(c->spec.cache, &g, e))) {
        gguf_close(&g);
        return false;
    }
    cli__may_lose(c);
    cli__note_escapes(c);
    if (c->action == ACT_QUANTIZE) {
        bool ok = cli__quantize(c, &g, e);
        if (ok) cli__kept();
        gguf_close(&g);
        return ok;
    }
    config  own = *c;
    if (c->action == ACT_BATCH) {
        bool ok = cli__from_model(&own, &g, e) && cli__batch(&own, &g, t_start, e);
        gguf_close(&g);
        return ok;
    }
    bool    exact = cli__exact(c->action);
    if (exact && !cli__given(c, "-ctk")) own.kv.type_k = K_F32;
    if (exact && !cli__given(c, "-ctv")) own.kv.type_v = K_F32;
    cli_run r = {.c = &own, .g = &g, .t_start = t_start};
    bool    ok = (c->action != ACT_GENERATE || cli__from_model(&own, &g, e)) &&
              cli__output(&r.out, c->action == ACT_LOGITS ? c->what : c->output, c, &g, e);
    if (ok) {
        if (!cli__fit_for_floats(c, &r.out, e)) ok = false;
        else if (c->action == ACT_INSPECT)
            ok = out_begin(&r.out, e) && inspect_print(&g, c->pre, cli__json(c), &r.out, e);
        else if (c->action == ACT_DIVERGENCE) ok = cli__divergence(&r, e);
        else if (c->action == ACT_DUMP) ok = cli__dump_tensor(&g, c->what, &r.out, e);
        else ok = cli__on_prompt(&r, e);
        ok = out_end(&r.out, e) && ok;
        if (ok) cli__kept();
    }
    gguf_close(&g);
    return ok;
}

static bool cli__on_matrix(const config *c, err_t *e) {
    const char      *file = c->in_files.v[0];
    const bool       json = cli__json(c), csv = strcmp(c->format, "csv") == 0;
    calib_imatrix    im = {0};
    str              text = {0};
    out_t            out;
    bool ok = (!c->output || cli__apart(c->output, file, "importance matrix", e)) && calib_imatrix_read(&im, file, e);
    if (ok) {
        calib_show(&im, json ? CALIB_JSON : csv ? CALIB_CSV : CALIB_TEXT, &text);
        ok = cli__output(&out, c->output, c, NULL, e) && out_begin(&out, e);
    }
    if (ok) {
        out_put(&out, text.p, text.n);
        ok = out_end(&out, e);
    }
    str_drop(&text);
    calib_imatrix_drop(&im);
    return ok;
}

static bool cli__merge(const config *c, err_t *e) {
    out_t out;
    for (int i = 0; c->output && i < c->inputs.n; i++)
        if (!cli__apart(c->output, c->inputs.v[i], "input", e)) return false;
    if (!cli__output(&out, c->output, c, NULL, e)) return false;
    bool ok = results_merge(c->inputs.v, c->inputs.n, &out, e);
    return out_end(&out, e) && ok;
}

/* Whether a file that --bench writes (NULL: none) is none of the models. */
static bool cli__bench_apart(const config *c, const char *path, const char *const *models, int n, err_t *e) {
    for (int i = 0; path && i < n; i++)
        if (!cli__apart(path, models[i], "model", e)) return false;
    return !path || !c->bench.draft || cli__apart(path, c->bench.draft, "model", e);
}

/* Opens the file of the picture, which must not be the table's. */
static bool cli__plot(out_t *svg, const out_t *out, const config *c, err_t *e) {
    if (strcmp(c->plot, "-") == 0) return err_set(e, EXIT_INPUT, "--plot -: is no name, expected a file to write");
    if (out->f != stdout && cli__same_file(fileno(out->f), c->plot))
        return err_set(e, EXIT_INPUT, "%s: is the output itself, expected another file to write", c->plot);
    return cli__output(svg, c->plot, c, NULL, e);
}

static bool cli__bench(const config *c, err_t *e) {
    const char *const *models = c->models.n ? c->models.v : &c->model;
    const int          n = c->models.n ? c->models.n : 1;
    const char        *f = c->format;
    const bench_form   form = strcmp(f, "csv") == 0    ? BENCH_CSV
                              : strcmp(f, "json") == 0 ? BENCH_JSON
                                                       : strcmp(f, "jsonl") == 0 ? BENCH_JSONL : BENCH_MD;
    out_t              out, svg;
    if (!cli__bench_apart(c, c->output, models, n, e) || !cli__bench_apart(c, c->plot, models, n, e)) return false;
    if (!cli__output(&out, c->output, c, NULL, e)) return false;
    if (c->plot && !cli__plot(&svg, &out, c, e)) return out_end(&out, e) && false;
    cli__graceful = 1;
    bool ok = bench_run(&c->bench, models, n, &c->fwd, &c->kv, form, cli_version, &out, c->plot ? &svg : NULL, e);
    if (c->plot && !out_end(&svg, e)) ok = false;
    return out_end(&out, e) && ok;
}

static bool cli__on_nothing(const config *c, err_t *e) {
    str   text = {0};
    out_t out;
    if (c->action == ACT_LIST) cli__list(c, &text);
    else if (c->action == ACT_VERSION) cli__version(&text);
    else if (strcmp(c->format, "md") == 0) cli_help_md(&text);
    else cli_help(&text);
    bool ok = cli__output(&out, c->output, c, NULL, e) && out_begin(&out, e);
    if (ok) {
        out_put(&out, text.p, text.n);
        ok = out_end(&out, e);
    }
    str_drop(&text);
    return ok;
}

/* What is worth a line on stderr before anything runs. */
static void cli__remarks(const config *c) {
    const int cpus = pool_default_threads();
    int       threads = c->action == ACT_BENCH ? 0 : c->fwd.n_threads;
    str       idle = {0};
    for (int i = 0; i < c->idle.n; i++) {
        str_put(&idle, i == 0 ? "" : i + 1 < c->idle.n ? ", " : " and ");
        str_put(&idle, c->idle.v[i]);
    }
    if (idle.n) log_warn("%s change%s nothing here (taken because llama.cpp has %s)", idle.p, c->idle.n == 1 ? "s" : "", c->idle.n == 1 ? "it" : "them");
    for (int i = 0; c->action == ACT_BENCH && i < c->bench.threads.n; i++)
        if (c->bench.threads.v[i] > threads) threads = c->bench.threads.v[i];
    if (threads > cpus) log_warn("--threads: %d threads share %d CPU%s and run slower than %d would", threads, cpus, cpus == 1 ? "" : "s", cpus);
    str_drop(&idle);
}

static int cli_main(int argc, char **argv) {
    config c = cli_defaults();
    err_t  e = {0};
    double t_start = clock_now();
    cli__streams();
    cli__signals();
    bool ok = cli_environment(&c, &e) && cli_parse(&c, argc > 0 ? argc - 1 : 0, argv + 1, &e) && cli_finish(&c, &e);
    if (ok) {
        g_log_level = c.log_level;
        cli__remarks(&c);
        if (!k_init(c.cpu)) err_set(&e, EXIT_INPUT, "--cpu: %s does not run on this machine (--list cpu)", c.cpu);
        else if (c.blas && !dev_blas_open(&e)) ok = false;
        else if (c.action == ACT_BENCH) cli__bench(&c, &e);
        else if (cli__needs_model(c.action)) cli__on_model(&c, t_start, &e);
        else if (c.action == ACT_STATISTICS) cli__on_matrix(&c, &e);
        else if (c.action == ACT_MERGE) cli__merge(&c, &e);
        else cli__on_nothing(&c, &e);
    }
    cli_drop(&c);
    if (e.code) log_error("%s", e.text);
    else if (g_interrupt && cli__lost[0]) fputs(cli__lost, stderr);
    return g_interrupt ? 128 + g_interrupt : e.code;
}

#ifndef LLMRUN_NO_MAIN
int main(int argc, char **argv) { return cli_main(argc, argv); }
#endif
