/* Macros for all tests. A failure names the file, the line and both values, and the run continues. */
#include <sys/wait.h>

typedef struct {
    const char *name, *proves;
    void (*fn)(void);
} t_case;

typedef struct {
    const t_case *c;
    size_t        n;
} t_suite;
#define SUITE(cases) {cases, sizeof cases / sizeof cases[0]}

static int         t_failed;                          /* failed checks of the running test */
static const char *t_skipped;                         /* why the running test could not run */

static bool t__report(bool ok, const char *file, int line, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static bool t__report(bool ok, const char *file, int line, const char *fmt, ...) {
    if (ok) return true;
    if (t_failed++ >= 10) return false;               /* ten lines tell the story */
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "    %s:%d: ", file, line);
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\n");
    va_end(ap);
    return false;
}

static bool t__eq_int(long long a, long long b, const char *what, const char *file, int line) {
    return t__report(a == b, file, line, "%s: got %lld, want %lld", what, a, b);
}
static bool t__eq_str(const char *a, const char *b, const char *what, const char *file, int line) {
    return t__report(strcmp(a, b) == 0, file, line, "%s: got \"%.200s\", want \"%.200s\"", what, a, b);
}
static bool t__near(double a, double b, double tol, const char *what, const char *file, int line) {
    return t__report(fabs(a - b) <= tol, file, line, "%s: got %.9g, want %.9g within %.3g", what, a, b, tol);
}
static bool t__eq_mem(const void *a, const void *b, size_t n, const char *what, const char *file, int line) {
    const uint8_t *x = a, *y = b;
    for (size_t i = 0; i < n; i++)
        if (x[i] != y[i]) return t__report(false, file, line, "%s: byte %zu of %zu differs: %02x, want %02x", what, i, n, x[i], y[i]);
    return true;
}

#define CHECK(c)           t__report((c), __FILE__, __LINE__, "%s does not hold", #c)
#define CHECKF(c, ...)     t__report((c), __FILE__, __LINE__, __VA_ARGS__)
#define EQ_INT(a, b)       t__eq_int((long long)(a), (long long)(b), #a, __FILE__, __LINE__)
#define EQ_STR(a, b)       t__eq_str((a), (b), #a, __FILE__, __LINE__)
#define EQ_MEM(a, b, n)    t__eq_mem((a), (b), (n), #a, __FILE__, __LINE__)
#define NEAR(a, b, tol)    t__near((a), (b), (tol), #a, __FILE__, __LINE__)
#define SKIP(why)          do { t_skipped = (why); return; } while (0)

/* Seconds of processor time of this process, for limits on run time: other programs do not add to it. A limit is many times the normal
 * time and finds work that grows faster than its input. */
static double t_cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A path in the shared data (variable SHARED, else ../shared beside the repository); NULL: it does not exist. */
static const char *t_shared(const char *name) {
    static char path[4][1024];
    static int  turn;
    char       *p = path[turn++ & 3];
    const char *root = getenv("SHARED");
    snprintf(p, sizeof path[0], "%s/%s", root ? root : "../shared", name);
    return access(p, R_OK) == 0 ? p : NULL;
}

/* A whole file, NUL-terminated; n may be NULL. NULL when it cannot be read. */
static char *t_read(const char *path, size_t *n) {
    FILE *f = path ? fopen(path, "rb") : NULL;
    if (!f) return NULL;
    str s = {0};
    char buf[65536];
    for (size_t got; (got = fread(buf, 1, sizeof buf, f)) > 0;) str_add(&s, buf, got);
    fclose(f);
    if (!s.p) str_add(&s, "", 0);
    if (n) *n = s.n;
    return s.p;
}

/* make stress: rare events become frequent, and the results stay the same. */
static bool t_stress(void) { return getenv("LLMRUN_STRESS") != NULL; }

/* make test-all: every combination; make test takes some of them for each model. */
static bool t_all(void) { return getenv("LLMRUN_ALL") != NULL; }
