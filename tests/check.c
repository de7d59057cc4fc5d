/* The functions of check.h. */
#include "program.h"
#include "check.h"

int         t_failed;
const char *t_skipped;

bool t__report(bool ok, const char *file, int line, const char *fmt, ...) {
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

bool t__eq_int(long long a, long long b, const char *what, const char *file, int line) {
    return t__report(a == b, file, line, "%s: got %lld, want %lld", what, a, b);
}

bool t__eq_str(const char *a, const char *b, const char *what, const char *file, int line) {
    return t__report(strcmp(a, b) == 0, file, line, "%s: got \"%.200s\", want \"%.200s\"", what, a, b);
}

bool t__near(double a, double b, double tol, const char *what, const char *file, int line) {
    return t__report(fabs(a - b) <= tol, file, line, "%s: got %.9g, want %.9g within %.3g", what, a, b, tol);
}

bool t__eq_mem(const void *a, const void *b, size_t n, const char *what, const char *file, int line) {
    const uint8_t *x = a, *y = b;
    for (size_t i = 0; i < n; i++)
        if (x[i] != y[i]) return t__report(false, file, line, "%s: byte %zu of %zu differs: %02x, want %02x", what, i, n, x[i], y[i]);
    return true;
}

double t_cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

const char *t_shared(const char *name) {
    static char path[4][1024];
    static int  turn;
    char       *p = path[turn++ & 3];
    const char *root = getenv("SHARED");
    snprintf(p, sizeof path[0], "%s/%s", root ? root : "../shared", name);
    return access(p, R_OK) == 0 ? p : NULL;
}

char *t_read(const char *path, size_t *n) {
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

bool t_stress(void) { return getenv("LLMRUN_STRESS") != NULL; }

bool t_all(void) { return getenv("LLMRUN_ALL") != NULL; }

/* --- these calls of the program come by here --- */

static str  calls;
static bool calls_kept;

int fchmod(int fd, mode_t mode) {
    struct stat st;
    if (calls_kept && fstat(fd, &st) == 0) str_fmt(&calls, "%o>%o%s ", st.st_mode & 0777, mode, st.st_size ? "+" : "");
    return (int)syscall(SYS_fchmod, fd, mode);
}

int fsync(int fd) {
    struct stat st;
    if (calls_kept && fstat(fd, &st) == 0) str_put(&calls, S_ISDIR(st.st_mode) ? "folder " : "file ");
    return (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to) {
    if (calls_kept) str_put(&calls, "name ");
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

void t_calls(void) {
    calls_kept = true;
    str_clear(&calls);
    str_add(&calls, "", 0);
}

bool t__called(const char *want, const char *file, int line) {
    calls_kept = false;
    return t__eq_str(calls.p, want, "calls", file, line);
}
