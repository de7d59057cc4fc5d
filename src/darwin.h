/* darwin.h - what macOS has under another name than Linux, or not at all; in place of Linux's headers. Calls that it lacks fail
 * with ENOSYS, as on an old kernel, which their callers expect. Memory is not placed on nodes and threads are not bound: the
 * machines have one node, and the system does not let a thread choose its CPU. */
#include <sys/sysctl.h>

/* --- calls of the system --- */

static inline long darwin_lacks(long what, ...) {
    (void)what;
    errno = ENOSYS;
    return -1;
}
#define syscall(...) darwin_lacks(__VA_ARGS__)
#define prctl(...)   (int)darwin_lacks(__VA_ARGS__)

enum { SYS_mbind, SYS_get_mempolicy, SYS_set_mempolicy };
enum { PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG };
enum { MPOL_DEFAULT, MPOL_PREFERRED, MPOL_INTERLEAVE };

/* As libc++ waits; no header declares it. */
int __ulock_wait(uint32_t operation, void *at, uint64_t value, uint32_t microseconds);
int __ulock_wake(uint32_t operation, void *at, uint64_t value);

enum { DARWIN_COMPARE_AND_WAIT = 1, DARWIN_WAKE_ALL = 0x100 };

#define getrandom(to, n, flags) (getentropy(to, n) ? -1 : (ssize_t)(n))
#define secure_getenv(name)     (issetugid() ? NULL : getenv(name))

#define MADV_HUGEPAGE   MADV_NORMAL
#define MADV_NOHUGEPAGE MADV_NORMAL
#define RUSAGE_THREAD   (-2)                          /* getrusage() fails with it: macOS does not count context switches by thread */
#define st_mtim         st_mtimespec
#define O_PATH          O_RDONLY
#define EBADFD          EBADF

/* --- CPUs and memory nodes --- */

enum { DARWIN_CPUS = 1024 };

typedef struct { uint64_t word[DARWIN_CPUS / 64]; } darwin_cpus;

#define cpu_set_t        darwin_cpus
#define CPU_SETSIZE      DARWIN_CPUS
#define CPU_ZERO(s)      memset(s, 0, sizeof *(s))
#define CPU_SET(i, s)    ((s)->word[(i) / 64] |= 1ull << (i) % 64)
#define CPU_ISSET(i, s)  ((s)->word[(i) / 64] >> (i) % 64 & 1)

static inline int darwin_count(const darwin_cpus *s) {
    int n = 0;
    for (int i = 0; i < DARWIN_CPUS / 64; i++) n += __builtin_popcountll(s->word[i]);
    return n;
}
static inline void darwin_both(darwin_cpus *to, const darwin_cpus *a, const darwin_cpus *b) {
    for (int i = 0; i < DARWIN_CPUS / 64; i++) to->word[i] = a->word[i] & b->word[i];
}
#define CPU_COUNT(s)     darwin_count(s)
#define CPU_AND(to, a, b) darwin_both(to, a, b)
#define sched_getaffinity(...) (int)darwin_lacks(__VA_ARGS__)
#define sched_setaffinity(...) (int)darwin_lacks(__VA_ARGS__)

/* --- descriptors --- */

static inline int darwin_close_on_exec(int fd, int flags) {
    if (fd < 0) return fd;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (flags & O_NONBLOCK) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return fd;
}

#define SOCK_CLOEXEC  O_CLOEXEC
#define SOCK_NONBLOCK O_NONBLOCK

#define accept4(fd, to, n, flags)  darwin_close_on_exec(accept(fd, to, n), flags)
#define socket(family, type, rest) darwin_close_on_exec(socket(family, (type) & ~(O_CLOEXEC | O_NONBLOCK), rest), type)

/* Datagrams in place of sequenced packets, which Darwin does not have: they keep the ends of messages, too. */
static inline int darwin_pair(int fd[2]) {
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, fd)) return -1;
    darwin_close_on_exec(fd[0], 0), darwin_close_on_exec(fd[1], 0);
    return 0;
}
#define socketpair(family, type, rest, fd) darwin_pair(fd)

static inline int darwin_pipe(int fd[2]) {
    if (pipe(fd)) return -1;
    darwin_close_on_exec(fd[0], 0), darwin_close_on_exec(fd[1], 0);
    return 0;
}
#define pipe2(fd, flags) darwin_pipe(fd)

/* The system decides itself when it begins to write. */
#define sync_file_range(fd, at, n, how) ((void)(fd), (void)(at), (void)(n))

/* What an eventfd is used for, that a write by one thread wakes the poll() of another, a pipe with one end does as well. It may
 * be readable more often than it has news. */
static inline int darwin_event(void) {
    char folder[] = "/tmp/llmrun-XXXXXX", path[sizeof folder + 2];
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/p", folder);
    const int fd = mkfifo(path, 0600) ? -1 : open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    unlink(path);
    rmdir(folder);
    return fd;
}
#define eventfd(value, flags) darwin_event()

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0                                /* SIGPIPE is ignored ([act]) */
#endif
#define POLLRDHUP        0                            /* a client that sends no more is seen once it is gone (POLLHUP) */
#define TCP_KEEPIDLE     TCP_KEEPALIVE
#define TCP_USER_TIMEOUT TCP_RXT_CONNDROPTIME

/* TCP_RXT_CONNDROPTIME is in seconds, TCP_USER_TIMEOUT in milliseconds. */
static inline int darwin_setsockopt(int fd, int level, int what, const void *value, socklen_t n) {
    const bool dead = level == IPPROTO_TCP && what == TCP_RXT_CONNDROPTIME;
    const int  seconds = dead ? (*(const int *)value + 999) / 1000 : 0;
    return setsockopt(fd, level, what, dead ? &seconds : value, n);
}
#define setsockopt(fd, level, what, value, n) darwin_setsockopt(fd, level, what, value, n)

/* One descriptor, as pselect() has it: with other signals blocked while it waits. */
static inline int darwin_poll_one(struct pollfd *p, const struct timespec *limit, const sigset_t *blocked) {
    fd_set    in;
    const int fd = p->fd;
    if (fd >= FD_SETSIZE) return poll(p, 1, limit ? (int)(limit->tv_sec * 1000 + limit->tv_nsec / 1000000) : -1);
    FD_ZERO(&in);
    FD_SET(fd, &in);
    const int got = pselect(fd + 1, &in, NULL, NULL, limit, blocked);
    p->revents = got > 0 ? POLLIN : 0;
    return got;
}
#define ppoll(p, n, limit, blocked) darwin_poll_one(p, limit, blocked)

/* --- the C library --- */

static inline void *darwin_last(const void *p, int c, size_t n) {
    const uint8_t *b = p;
    while (n && b[n - 1] != (uint8_t)c) n--;
    return n ? (void *)(uintptr_t)(b + n - 1) : NULL;
}
#define memrchr(p, c, n) darwin_last(p, c, n)

static inline char *darwin_find(const char *s, int c) {
    while (*s && *s != (char)c) s++;
    return (char *)(uintptr_t)s;
}
#define strchrnul(s, c) darwin_find(s, c)

typedef struct {
    int (*order)(const void *, const void *, void *);
    void *ctx;
} darwin_sort;

static inline int darwin_order(void *ctx, const void *a, const void *b) {
    const darwin_sort *s = ctx;
    return s->order(a, b, s->ctx);
}

/* The comparison has its context first here. */
static inline void darwin_qsort(void *p, size_t n, size_t size, int (*order)(const void *, const void *, void *), void *ctx) {
    qsort_r(p, n, size, &(darwin_sort){order, ctx}, darwin_order);
}
#define qsort_r(p, n, size, order, ctx) darwin_qsort(p, n, size, order, ctx)
