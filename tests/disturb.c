/* A library for LD_PRELOAD: calls of a program for memory and for files come by here, are counted, fail or are written down.
 *   DISTURB_COUNT=FILE           FILE gets the number of calls of each kind when the program ends
 *   DISTURB_FAIL=KIND:K          the K-th call of a kind fails, KIND:K+: this one and all later ones
 *   DISTURB_SAY=FILE             FILE gets the name of the first call that fails
 *   DISTURB_UNDER=FOLDER         the next two are about the files in FOLDER
 *   DISTURB_RECORD=FILE          FILE gets what happens to them, in order; tests/power.py reads it
 *   DISTURB_SPACE=N              the disk is full when N bytes are written to them
 *   DISTURB_STOP=1               SIGTERM arrives when a file has just been created
 * Kinds, and how their calls fail:
 *   memory   allocations, anonymous mappings, threads: ENOMEM, EAGAIN
 *   file     calls that open, read, write, ask, rename, lock, map or close: ENOSPC, EMFILE, EIO, ENOMEM, by what the call does
 *   signal   reads, writes, waits, locks, flushes: EINTR
 *   part     reads and writes of more than a byte: they do the half, or one byte
 *   page     mappings of files: the call succeeds, and no page can be read (SIGBUS), as where the disk fails
 * Standard error is left alone: a test reads there what the program says. What the C library calls inside itself does not come by
 * here, so streams have their functions: fwrite, fflush, fclose. What is opened here is opened before main(), since a program may
 * give up its right to open files. */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MEMORY, FILES, SIGNAL, PART, PAGE, KINDS };
static const char *const kinds[KINDS] = {"memory", "file", "signal", "part", "page"};

static struct {
    bool        on;                                   /* calls before main() are not counted */
    int         kind;                                 /* that fails, KINDS: none */
    long        at;                                   /* which of its calls, from 1 */
    bool        later;                                /* and all after it */
    bool        stop;                                 /* a signal for each file that is created */
    atomic_long n[KINDS];
    int         count;                                /* the file for the numbers, -1: none */
    int         say;                                  /* the file for the name of a call, -1: none */
    int         none;                                 /* an empty file */
    int         log;                                  /* the record, -1: none */
    atomic_long space;                                /* bytes that may still be written there */
    char        under[PATH_MAX];                      /* with a slash behind it */
    bool        open[1024];                           /* descriptors of files there */
} d = {.kind = KINDS, .count = -1, .say = -1, .log = -1, .space = LONG_MAX};

/* Counts a call. Whether it is to fail. */
static bool counts(int kind, const char *call) {
    if (!d.on) return false;
    const long n = atomic_fetch_add(&d.n[kind], 1) + 1;
    const bool now = kind == d.kind && (n == d.at || (d.later && n > d.at));
    if (now && n == d.at && d.say >= 0 && syscall(SYS_write, d.say, call, strlen(call)) < 0) abort();
    return now;
}

static bool refuses(int kind, int why, const char *call) {
    if (!counts(kind, call)) return false;
    errno = why;
    return true;
}
#define hit(kind) counts(kind, __func__)
#define fails(kind, why) refuses(kind, why, __func__)
/* Both, for calls that a signal may interrupt. */
#define fails_or_interrupts(why) (fails(FILES, why) || fails(SIGNAL, EINTR))

#define REAL(type, name, ...) ({ static type (*real_)(__VA_ARGS__); if (!real_) real_ = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name); real_; })

/* --- the record: a line for each call, what is written follows it --- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((format(printf, 1, 2))) static void note(const char *fmt, ...) {
    char    line[2 * PATH_MAX + 100];
    va_list ap;
    if (d.log < 0) return;
    va_start(ap, fmt);
    const int n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (syscall(SYS_write, d.log, line, (size_t)n) != n) abort();
}

static bool kept(int fd) { return d.under[0] && fd >= 0 && fd < 1024 && d.open[fd]; }

/* The path of an open file; whether it is in the folder. */
static bool path_of(int fd, char path[PATH_MAX]) {
    char own[64];
    snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
    const long n = syscall(SYS_readlinkat, AT_FDCWD, own, path, PATH_MAX - 2);
    path[n > 0 ? n : 0] = 0;
    return strncmp(path, d.under, strlen(d.under)) == 0 || (n > 0 && (size_t)n + 1 == strlen(d.under) && !strncmp(path, d.under, (size_t)n));
}

/* The path with the folder's links resolved and the last name as it is. */
static void path_in(const char *path, char out[PATH_MAX]) {
    char        folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
    if (!realpath(folder, out)) out[0] = 0;
    strncat(out, "/", PATH_MAX - strlen(out) - 1);
    strncat(out, slash ? slash + 1 : path, PATH_MAX - strlen(out) - 1);
}

static void note_open(int fd, bool was, int flags) {
    char path[PATH_MAX];
    if (fd < 0 || fd >= 1024) return;
    d.open[fd] = path_of(fd, path);
    if (d.open[fd]) note("open %d %d %d %s\n", fd, !was, (flags & O_TRUNC) != 0, path);
}

/* Where the next write of n bytes goes, written down with the bytes. */
static void note_write(int fd, off_t at, const void *p, ssize_t n) {
    if (n <= 0 || d.log < 0) return;
    note("write %d %lld %zd\n", fd, (long long)at, n);
    if (syscall(SYS_write, d.log, p, (size_t)n) != n) abort();
}

/* --- memory --- */

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t each);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

void *malloc(size_t n) { return fails(MEMORY, ENOMEM) ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t each) { return fails(MEMORY, ENOMEM) ? NULL : __libc_calloc(n, each); }
void *realloc(void *p, size_t n) { return fails(MEMORY, ENOMEM) ? NULL : __libc_realloc(p, n); }
void *aligned_alloc(size_t align, size_t n) { return fails(MEMORY, ENOMEM) ? NULL : __libc_memalign(align, n); }

int posix_memalign(void **p, size_t align, size_t n) {
    if (hit(MEMORY) || !(*p = __libc_memalign(align, n))) return ENOMEM;
    return 0;
}

int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg) {
    if (hit(MEMORY)) return EAGAIN;
    return REAL(int, pthread_create, pthread_t *, const pthread_attr_t *, void *(*)(void *), void *)(t, a, run, arg);
}

void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t from) {
    if (fails(flags & MAP_ANONYMOUS ? MEMORY : FILES, ENOMEM)) return MAP_FAILED;
    if (!(flags & MAP_ANONYMOUS) && hit(PAGE)) fd = d.none, from = 0;
    return (void *)syscall(SYS_mmap, at, n, prot, flags, fd, from);
}

/* --- names --- */

static int open_file(const char *path, int flags, mode_t mode) {
    if (fails(FILES, EMFILE)) return -1;
    if (!d.under[0]) return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    pthread_mutex_lock(&lock);
    const bool was = syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
    const int  fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode), why = errno;
    note_open(fd, was, flags);
    pthread_mutex_unlock(&lock);
    errno = why;
    return fd;
}

int open(const char *path, int flags, ...) {
    va_list ap;
    va_start(ap, flags);
    const mode_t mode = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    const int fd = open_file(path, flags, mode), why = errno;
    if (d.stop && fd >= 0 && flags & O_EXCL) kill(getpid(), SIGTERM);
    errno = why;
    return fd;
}
int __open_2(const char *path, int flags);
int __open_2(const char *path, int flags) { return open_file(path, flags, 0); }

int rename(const char *from, const char *to) {
    char a[PATH_MAX], b[PATH_MAX];
    if (fails(FILES, ENOSPC)) return -1;
    pthread_mutex_lock(&lock);
    const int rc = (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
    if (rc == 0 && d.log >= 0) path_in(from, a), path_in(to, b), note("rename %s\t%s\n", a, b);
    pthread_mutex_unlock(&lock);
    return rc;
}

int unlink(const char *path) {
    char a[PATH_MAX];
    if (fails(FILES, EIO)) return -1;
    pthread_mutex_lock(&lock);
    const int rc = (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0), why = errno;
    if (rc == 0 && d.log >= 0) path_in(path, a), note("unlink %s\n", a);
    pthread_mutex_unlock(&lock);
    errno = why;
    return rc;
}

int stat(const char *path, struct stat *st) {
    return fails(FILES, EIO) ? -1 : (int)syscall(SYS_newfstatat, AT_FDCWD, path, st, 0);
}
int lstat(const char *path, struct stat *st) {
    return fails(FILES, EIO) ? -1 : (int)syscall(SYS_newfstatat, AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}
int access(const char *path, int how) { return fails(FILES, EIO) ? -1 : (int)syscall(SYS_faccessat, AT_FDCWD, path, how); }
char *realpath(const char *path, char *out) {
    return !out && fails(FILES, EIO) ? NULL : REAL(char *, realpath, const char *, char *)(path, out);
}
DIR *opendir(const char *path) { return fails(FILES, EMFILE) ? NULL : REAL(DIR *, opendir, const char *)(path); }

/* --- open files --- */

int fstat(int fd, struct stat *st) { return fails(FILES, EIO) ? -1 : (int)syscall(SYS_fstat, fd, st); }
off_t lseek(int fd, off_t at, int from) { return fails(FILES, EIO) ? -1 : (off_t)syscall(SYS_lseek, fd, at, from); }
int fchmod(int fd, mode_t mode) { return fails(FILES, EIO) ? -1 : (int)syscall(SYS_fchmod, fd, mode); }
int fchown(int fd, uid_t u, gid_t g) { return fails(FILES, EIO) ? -1 : (int)syscall(SYS_fchown, fd, u, g); }
int flock(int fd, int how) { return fails_or_interrupts(ENOLCK) ? -1 : (int)syscall(SYS_flock, fd, how); }
int poll(struct pollfd *p, nfds_t n, int ms) { return fails_or_interrupts(ENOMEM) ? -1 : REAL(int, poll, struct pollfd *, nfds_t, int)(p, n, ms); }
int ppoll(struct pollfd *p, nfds_t n, const struct timespec *t, const sigset_t *s) {
    return fails_or_interrupts(ENOMEM) ? -1 : REAL(int, ppoll, struct pollfd *, nfds_t, const struct timespec *, const sigset_t *)(p, n, t, s);
}
int madvise(void *p, size_t n, int how) { return fails(FILES, ENOMEM) ? -1 : (int)syscall(SYS_madvise, p, n, how); }
int mprotect(void *p, size_t n, int prot) { return fails(MEMORY, ENOMEM) ? -1 : (int)syscall(SYS_mprotect, p, n, prot); }

ssize_t getrandom(void *p, size_t n, unsigned how) {
    return fails_or_interrupts(EIO) ? -1 : (ssize_t)syscall(SYS_getrandom, p, n, how);
}

int fcntl(int fd, int what, ...) {
    va_list ap;
    va_start(ap, what);
    const long arg = va_arg(ap, long);
    va_end(ap);
    if (fails(FILES, EMFILE)) return -1;
    const int rc = (int)syscall(SYS_fcntl, fd, what, arg);
    if (rc >= 0 && rc < 1024 && (what == F_DUPFD || what == F_DUPFD_CLOEXEC) && kept(fd)) {
        d.open[rc] = true;
        note("dup %d %d\n", fd, rc);
    }
    return rc;
}

int close(int fd) {
    if (kept(fd)) note("close %d\n", fd), d.open[fd] = false;
    const int rc = (int)syscall(SYS_close, fd);
    return fails_or_interrupts(EIO) ? -1 : rc;        /* Linux closes it all the same */
}

int fsync(int fd) {
    if (fails_or_interrupts(EIO)) return -1;
    if (kept(fd)) note("fsync %d\n", fd);
    return 0;                                         /* nobody turns this machine off: a test need not wait */
}

int ftruncate(int fd, off_t n) {
    if (fails_or_interrupts(EIO)) return -1;
    pthread_mutex_lock(&lock);
    const int rc = (int)syscall(SYS_ftruncate, fd, n);
    if (rc == 0 && kept(fd)) note("cut %d %lld\n", fd, (long long)n);
    pthread_mutex_unlock(&lock);
    return rc;
}

/* How much of n bytes is read or written. */
static size_t some(size_t n) { return n > 1 && hit(PART) ? (n > 1000 ? n / 2 : 1) : n; }

ssize_t read(int fd, void *p, size_t n) {
    return fails_or_interrupts(EIO) ? -1 : (ssize_t)syscall(SYS_read, fd, p, some(n));
}
ssize_t pread(int fd, void *p, size_t n, off_t at) {
    return fails_or_interrupts(EIO) ? -1 : (ssize_t)syscall(SYS_pread64, fd, p, some(n), at);
}
ssize_t __pread_chk(int fd, void *p, size_t n, off_t at, size_t most);
ssize_t __pread_chk(int fd, void *p, size_t n, off_t at, size_t most) { return n > most ? (abort(), -1) : pread(fd, p, n, at); }
ssize_t __read_chk(int fd, void *p, size_t n, size_t most);
ssize_t __read_chk(int fd, void *p, size_t n, size_t most) { return n > most ? (abort(), -1) : read(fd, p, n); }

/* Writes at `at`, -1: where the file stands. */
static ssize_t put(int fd, const void *p, size_t n, off_t at) {
    struct stat st;
    if (fd != STDERR_FILENO && fails_or_interrupts(ENOSPC)) return -1;
    if (fd != STDERR_FILENO) n = some(n);
    if (!kept(fd)) return at < 0 ? (ssize_t)syscall(SYS_write, fd, p, n) : (ssize_t)syscall(SYS_pwrite64, fd, p, n, at);
    const long left = atomic_load(&d.space);
    if (!left && n) return errno = ENOSPC, -1;
    if (n > (size_t)left) n = (size_t)left;
    atomic_fetch_sub(&d.space, (long)n);
    pthread_mutex_lock(&lock);
    const bool    end = syscall(SYS_fcntl, fd, F_GETFL, 0L) & O_APPEND && syscall(SYS_fstat, fd, &st) == 0;
    const off_t   from = at >= 0 ? at : end ? st.st_size : (off_t)syscall(SYS_lseek, fd, 0L, SEEK_CUR);
    const ssize_t rc = at < 0 ? (ssize_t)syscall(SYS_write, fd, p, n) : (ssize_t)syscall(SYS_pwrite64, fd, p, n, at);
    note_write(fd, from, p, rc);
    pthread_mutex_unlock(&lock);
    return rc;
}

ssize_t write(int fd, const void *p, size_t n) { return put(fd, p, n, -1); }
ssize_t pwrite(int fd, const void *p, size_t n, off_t at) { return put(fd, p, n, at); }

/* --- streams --- */

FILE *fopen(const char *path, const char *how) {
    return fails(FILES, EMFILE) ? NULL : REAL(FILE *, fopen, const char *, const char *)(path, how);
}
FILE *fdopen(int fd, const char *how) {
    return fails(FILES, ENOMEM) ? NULL : REAL(FILE *, fdopen, int, const char *)(fd, how);
}
char *fgets(char *p, int n, FILE *f) { return fails(FILES, EIO) ? NULL : REAL(char *, fgets, char *, int, FILE *)(p, n, f); }

/* What goes to a recorded file goes there at once. */
size_t fwrite(const void *p, size_t each, size_t n, FILE *f) {
    size_t done = 0;
    if (f == stderr) return REAL(size_t, fwrite, const void *, size_t, size_t, FILE *)(p, each, n, f);
    if (fails(FILES, ENOSPC)) return 0;
    if (!kept(fileno(f))) return REAL(size_t, fwrite, const void *, size_t, size_t, FILE *)(p, each, n, f);
    for (ssize_t got = 1; done < each * n && got > 0; done += got > 0 ? (size_t)got : 0)
        got = put(fileno(f), (const char *)p + done, each * n - done, -1);
    return each ? done / each : 0;
}

int fflush(FILE *f) {
    if (f != stderr && fails(FILES, ENOSPC)) return EOF;
    return REAL(int, fflush, FILE *)(f);
}

int fclose(FILE *f) {
    const int fd = fileno(f);
    if (kept(fd)) note("close %d\n", fd), d.open[fd] = false;
    const int rc = REAL(int, fclose, FILE *)(f);
    return fails(FILES, ENOSPC) ? EOF : rc;
}

/* --- begin and end --- */

/* A descriptor far from those of the program; it is none of its business how many there are. -1: no name. */
static int far(int fd) {
    const int to = fd < 0 ? -1 : (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 500L);
    if (fd >= 0) syscall(SYS_close, fd);
    return to;
}

static int far_file(const char *path) {
    return path ? far((int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) : -1;
}

__attribute__((constructor)) static void begin(void) {
    const char *fail = getenv("DISTURB_FAIL"), *log = getenv("DISTURB_RECORD"), *under = getenv("DISTURB_UNDER");
    const char *colon = fail ? strchr(fail, ':') : NULL;
    for (int i = 0; colon && i < KINDS; i++)
        if (strlen(kinds[i]) == (size_t)(colon - fail) && !strncmp(fail, kinds[i], (size_t)(colon - fail))) d.kind = i;
    d.stop = getenv("DISTURB_STOP") != NULL;
    if (colon) d.at = strtol(colon + 1, NULL, 10), d.later = strchr(colon, '+') != NULL;
    d.count = far_file(getenv("DISTURB_COUNT"));
    d.say = far_file(getenv("DISTURB_SAY"));
    d.none = far((int)syscall(SYS_memfd_create, "none", 0u));
    if (getenv("DISTURB_SPACE")) d.space = strtol(getenv("DISTURB_SPACE"), NULL, 10);
    if (under && realpath(under, d.under)) strncat(d.under, "/", sizeof d.under - strlen(d.under) - 1);
    if (d.under[0]) d.log = far_file(log);
    d.on = true;
}

__attribute__((destructor)) static void end(void) {
    d.on = false;
    for (int i = 0; d.count >= 0 && i < KINDS; i++) dprintf(d.count, "%s %ld\n", kinds[i], atomic_load(&d.n[i]));
}
