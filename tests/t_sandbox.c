/* What a process cannot do once it is in the sandbox. Each test goes in within a child of its own; what a kernel without Landlock or
 * seccomp cannot hold is skipped. */
#include "program.h"
#include "check.h"
#include <netinet/in.h>

typedef struct {
    char folder[64], in[96], out[96], other[96], kept[80];   /* a folder with files: in, other; and kept/ with a file */
} t_sandbox_place;

static void t_sandbox_put(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    if (CHECKF(f != NULL, "%s", path)) fputs(text, f), fclose(f);
}

static void t_sandbox_make(t_sandbox_place *p) {
    const char *tmp = getenv("TMPDIR");
    snprintf(p->folder, sizeof p->folder, "%.40s/llmrun-box-XXXXXX", tmp && *tmp && strlen(tmp) < 40 ? tmp : "/tmp");
    CHECK(mkdtemp(p->folder) != NULL);
    snprintf(p->in, sizeof p->in, "%s/in", p->folder);
    snprintf(p->other, sizeof p->other, "%s/other", p->folder);
    snprintf(p->kept, sizeof p->kept, "%s/kept", p->folder);
    snprintf(p->out, sizeof p->out, "%s/kept/out", p->folder);
    t_sandbox_put(p->in, "in");
    t_sandbox_put(p->other, "other");
    CHECK(mkdir(p->kept, 0700) == 0);
}

static void t_sandbox_remove(const t_sandbox_place *p) {
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", p->folder);
    CHECK(system(command) == 0);
}

/* What a child says that does fn(arg) in a sandbox with these needs, where p->in may be read and p->out written: its wait status. */
static int t_sandbox_child(unsigned needs, const t_sandbox_place *p, int (*fn)(const t_sandbox_place *, long arg), long arg) {
    int         status = 0;
    const pid_t child = fork();
    if (child == 0) {
        sandbox s;
        sandbox_begin(&s, needs);
        if (p) sandbox_read(&s, p->in), sandbox_write(&s, p->out);
        sandbox_enter(&s);
        _exit(fn(p, arg));
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

/* Whether this kernel has seccomp filters (0) or Landlock (1), and the build uses them. */
static bool t_sandbox_has(int which) {
    const uint32_t allow = SECCOMP_RET_ALLOW;
    return LLMRUN_SANDBOX && (which ? syscall(SANDBOX_CREATE_RULESET, NULL, (size_t)0, SANDBOX_ASK_VERSION) > 0
                                    : sandbox__arch() && syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &allow) == 0);
}

/* Runs a check in a child: a line of it that does not hold is its exit code. */
#define HOLDS(c) do { if (!(c)) return __LINE__ % 250 + 1; } while (0)
#define T_INSIDE(needs, place, fn, arg) do { \
    const int status_ = t_sandbox_child(needs, place, fn, arg); \
    CHECKF(WIFEXITED(status_) && !WEXITSTATUS(status_), "%s: line %d (mod 250), signal %d", #fn, WEXITSTATUS(status_) - 1, \
           WIFSIGNALED(status_) ? WTERMSIG(status_) : 0); } while (0)

static bool t_sandbox_denied(int result) { return result < 0 && errno == EACCES; }

/* --- files --- */

static int t_sandbox_reads(const t_sandbox_place *p, long arg) {
    char  path[160];
    int   fd = open(p->in, O_RDONLY);
    (void)arg;
    HOLDS(fd >= 0 && read(fd, path, 2) == 2 && memcmp(path, "in", 2) == 0);
    HOLDS(t_sandbox_denied(open(p->in, O_WRONLY)) && t_sandbox_denied(open(p->in, O_RDWR)));
    HOLDS(t_sandbox_denied(open(p->other, O_RDONLY)) && t_sandbox_denied(open("/etc/passwd", O_RDONLY)));
    HOLDS(t_sandbox_denied(open(p->folder, O_RDONLY | O_DIRECTORY)) && t_sandbox_denied(open("/", O_RDONLY | O_DIRECTORY)));
    snprintf(path, sizeof path, "%s/none", p->folder);
    HOLDS(open(path, O_RDONLY) < 0 && errno == ENOENT);   /* the message of a missing file is as ever */
    HOLDS(access(p->other, F_OK) == 0);
    return 0;
}

static int t_sandbox_writes(const t_sandbox_place *p, long arg) {
    char path[160];
    (void)arg;
    int  fd = open(p->out, O_RDWR | O_CREAT | O_EXCL, 0600);
    HOLDS(fd >= 0 && write(fd, "text", 4) == 4 && ftruncate(fd, 2) == 0 && close(fd) == 0);
    snprintf(path, sizeof path, "%s.new", p->out);
    HOLDS((fd = open(path, O_WRONLY | O_CREAT, 0600)) >= 0 && out_replace(fd, path, p->out));
    HOLDS((fd = open(p->kept, O_RDONLY | O_DIRECTORY)) >= 0 && fsync(fd) == 0);    /* a rename reaches the disk */
    HOLDS((fd = open(p->out, O_RDONLY)) >= 0);        /* read again under its name */
    HOLDS(unlink(p->out) == 0);
    HOLDS(t_sandbox_denied(open(p->other, O_WRONLY)) && t_sandbox_denied(unlink(p->other)));
    snprintf(path, sizeof path, "%s/new", p->folder);
    HOLDS(t_sandbox_denied(open(path, O_WRONLY | O_CREAT, 0600)) && t_sandbox_denied(mkdir(path, 0700)));
    HOLDS(t_sandbox_denied(rename(p->other, path)) && t_sandbox_denied(symlink("x", path)));
    HOLDS(link(p->other, path) < 0 && rename(p->other, p->out) < 0 && link(p->other, p->out) < 0);
    HOLDS(t_sandbox_denied(mkdir(p->out, 0700)) && t_sandbox_denied(symlink("/etc/passwd", p->out)));
    return 0;
}

/* The system's own files that a run reads. */
static int t_sandbox_system(const t_sandbox_place *p, long arg) {
    (void)p, (void)arg;
    HOLDS(strstr(sandbox_holds(), "landlock ") != NULL);
    HOLDS(host_cpus() > 0 && host_memory() > 0);
    host_memory_of was;                               /* calls about memory nodes are made: the kernel, not the filter, answers */
    host_choose(&was);
    void *page = mem_pages(1);
    if (was.mode >= 0) HOLDS(host_place(page, 4096, 0));
    host_restore(&was);
    mem_pages_free(page, 1);
    HOLDS(open("/proc/self/task", O_RDONLY | O_DIRECTORY) >= 0 && open("/proc/meminfo", O_RDONLY) >= 0);
    HOLDS(open("/dev/null", O_RDWR) >= 0);
    HOLDS(t_sandbox_denied(open("/proc/self/mem", O_RDWR)));
    HOLDS(open("/proc/1/environ", O_RDONLY) < 0);
    return 0;
}

static void t_sandbox_files(void) {
    t_sandbox_place p;
    if (!t_sandbox_has(1)) SKIP("no Landlock here");
    t_sandbox_make(&p);
    T_INSIDE(0, &p, t_sandbox_reads, 0);
    T_INSIDE(SANDBOX_NETWORK | SANDBOX_EXEC, &p, t_sandbox_reads, 0);
    T_INSIDE(0, &p, t_sandbox_writes, 0);
    T_INSIDE(0, &p, t_sandbox_system, 0);
    t_sandbox_remove(&p);
}

/* A link is followed: to what is read, and to where a file is written. */
static int t_sandbox_follows(const t_sandbox_place *p, long arg) {
    char path[160];
    (void)arg;
    HOLDS(open(p->in, O_RDONLY) >= 0 && open(p->other, O_RDONLY) >= 0);
    snprintf(path, sizeof path, "%s/kept/out.new", p->folder);
    HOLDS(open(path, O_WRONLY | O_CREAT, 0600) >= 0);
    return 0;
}

/* A link to a file that does not exist yet, by another link. */
static int t_sandbox_makes(const t_sandbox_place *p, long arg) {
    (void)arg;
    HOLDS(out_open(p->out) >= 0);
    return 0;
}

static int t_sandbox_fills(const t_sandbox_place *p, long arg) {
    char path[160];
    (void)arg;
    snprintf(path, sizeof path, "%s/new", p->kept);
    HOLDS(open(path, O_WRONLY | O_CREAT, 0600) >= 0 && unlink(path) == 0);
    snprintf(path, sizeof path, "%s/new", p->folder);
    HOLDS(t_sandbox_denied(open(path, O_WRONLY | O_CREAT, 0600)) && t_sandbox_denied(open(p->other, O_RDONLY)));
    return 0;
}

static void t_sandbox_links(void) {
    t_sandbox_place p, q;
    char            far[80], more[96];
    if (!t_sandbox_has(1)) SKIP("no Landlock here");
    t_sandbox_make(&p);
    q = p;
    snprintf(more, sizeof more, "%s/kept/more", p.folder);
    t_sandbox_put(p.out, "");
    snprintf(q.in, sizeof q.in, "%s/in.link", p.folder);
    CHECK(symlink("other", q.in) == 0);
    snprintf(q.out, sizeof q.out, "%s/out.link", p.folder);
    CHECK(symlink("kept/out", q.out) == 0);
    T_INSIDE(0, &q, t_sandbox_follows, 0);
    CHECK(unlink(q.out) == 0 && unlink(p.out) == 0 && symlink("kept/more", q.out) == 0);      /* to what is to be made */
    snprintf(far, sizeof far, "%s/far", p.folder);
    CHECK(mkdir(far, 0700) == 0 && symlink("../far/out", more) == 0);
    T_INSIDE(0, &q, t_sandbox_makes, 0);
    t_sandbox_remove(&p);
}

/* A folder is meant where its name has a slash at the end too, and not the one that it is in. */
static void t_sandbox_folders(void) {
    t_sandbox_place p;
    if (!t_sandbox_has(1)) SKIP("no Landlock here");
    t_sandbox_make(&p);
    for (int slash = 0; slash < 2; slash++) {
        snprintf(p.out, sizeof p.out, "%s/kept%s", p.folder, slash ? "/" : "");
        T_INSIDE(0, &p, t_sandbox_fills, 0);
    }
    t_sandbox_remove(&p);
}

/* A file that has no name any more is written alone. */
static int t_sandbox_unnamed(const t_sandbox_place *p, long arg) {
    (void)arg;
    HOLDS(open(p->out, O_WRONLY | O_TRUNC) >= 0 && t_sandbox_denied(open(p->other, O_WRONLY)));
    return 0;
}

static void t_sandbox_removed(void) {
    t_sandbox_place p;
    if (!t_sandbox_has(1)) SKIP("no Landlock here");
    t_sandbox_make(&p);
    const int fd = open(p.out, O_WRONLY | O_CREAT, 0600);
    CHECK(fd >= 0 && unlink(p.out) == 0);
    snprintf(p.out, sizeof p.out, "/proc/self/fd/%d", fd);
    if (access(p.out, F_OK) == 0) T_INSIDE(0, &p, t_sandbox_unnamed, 0);
    close(fd);
    t_sandbox_remove(&p);
}

/* SANDBOX_FILES: names that come later. */
static int t_sandbox_any(const t_sandbox_place *p, long arg) {
    int fd = open(p->other, O_RDWR | O_CREAT, 0600);
    (void)arg;
    HOLDS(fd >= 0 && write(fd, "x", 1) == 1 && open("/etc/passwd", O_RDONLY) >= 0);
    HOLDS(t_sandbox_denied(mkfifo(p->out, 0600)) || errno == EPERM);
    HOLDS(execl("/bin/true", "true", (char *)NULL) < 0 && (errno == EPERM || errno == EACCES));
    return 0;
}

/* --- system calls --- */

static long t_sandbox_call(long nr) { return syscall(nr, 0, 0, 0, 0, 0, 0); }

static int t_sandbox_refused(const t_sandbox_place *p, long nr) {
    (void)p;
    HOLDS(t_sandbox_call(nr) == -1 && errno == EPERM);
    return 0;
}

/* Each row of the tables is refused as it says; where a need lifts it, another answer comes than the filter's. */
static void t_sandbox_rows(const sandbox__call *c, int n) {
    for (int i = 0; i < n; i++) {
        const int s = t_sandbox_child(0, NULL, t_sandbox_refused, c[i].nr);
        const bool killed = WIFSIGNALED(s) && WTERMSIG(s) == SIGSYS, refused = WIFEXITED(s) && WEXITSTATUS(s) == 0;
        CHECKF(c[i].answer == SANDBOX_DIE ? killed : refused, "call %d: status %x", c[i].nr, (unsigned)s);
    }
}

static int t_sandbox_open_calls(const t_sandbox_place *p, long arg) {
    pthread_t thread;
    (void)p, (void)arg;
    HOLDS(strstr(sandbox_holds(), "seccomp") != NULL);
    HOLDS(fork() < 0 && errno == EPERM && vfork() < 0 && errno == EPERM);
    HOLDS(execl("/bin/true", "true", (char *)NULL) < 0 && errno == EPERM && system("true") != 0);
    for (int domain = 0; domain < 48; domain++) HOLDS(socket(domain, SOCK_STREAM, 0) < 0 && errno == EPERM);
    HOLDS(kill(getppid(), 0) < 0 && errno == EPERM && kill(-1, 0) < 0 && errno == EPERM && kill(getpid(), 0) == 0);
    HOLDS(ioctl(0, TIOCSTI, "x") < 0 && errno == EPERM && ioctl(0, TIOCLINUX, "x") < 0 && errno == EPERM);
    HOLDS(ioctl(0, TIOCSTI | 1L << 40, "x") < 0 && errno == EPERM);     /* the kernel reads 32 bits of it */
    HOLDS(syscall(SANDBOX_LAST + 1) < 0 && errno == ENOSYS && syscall(4000) < 0 && errno == ENOSYS);
    HOLDS(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) < 0 && errno == EPERM);
    HOLDS(syscall(SANDBOX_CLONE3, 0, 0) < 0 && errno == ENOSYS);
    HOLDS(pthread_create(&thread, NULL, (void *(*)(void *))(void *)clock_now, NULL) == 0 && pthread_join(thread, NULL) == 0);
    signal(SIGUSR1, SIG_IGN);
    HOLDS(raise(SIGUSR1) == 0);
    HOLDS(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    return 0;
}

static void t_sandbox_calls(void) {
    if (!t_sandbox_has(0)) SKIP("no seccomp filters here");
    t_sandbox_rows(sandbox__calls, SANDBOX_ROWS);
    if (K_MACHINE == K_X86_64) t_sandbox_rows(sandbox__x86_calls, SANDBOX_X86_ROWS);
    T_INSIDE(0, NULL, t_sandbox_open_calls, 0);
}

#if defined(__x86_64__)
static int t_sandbox_x32(const t_sandbox_place *p, long nr) { (void)p; syscall(SANDBOX_X32 | nr); return 0; }

static int t_sandbox_i386(const t_sandbox_place *p, long nr) {
    (void)p;
    __asm__ volatile("int $0x80" : "+a"(nr) : "b"(0), "c"(0), "d"(0) : "memory");
    return 0;
}
#endif

/* Calls of other ABIs, which number them otherwise. */
static void t_sandbox_abis(void) {
#if defined(__x86_64__)
    int (*const way[])(const t_sandbox_place *, long) = {t_sandbox_x32, t_sandbox_i386};
    if (!t_sandbox_has(0)) SKIP("no seccomp filters here");
    for (int i = 0; i < 2; i++) {
        const int s = t_sandbox_child(0, NULL, way[i], 20);
        CHECKF(WIFSIGNALED(s) && (WTERMSIG(s) == SIGSYS || (i == 1 && WTERMSIG(s) == SIGSEGV)), "way %d: status %x", i, (unsigned)s);
    }
#else
    SKIP("this processor has one ABI");
#endif
}

/* --- needs --- */

static int t_sandbox_starts(const t_sandbox_place *p, long arg) {
    (void)p, (void)arg;
    HOLDS(system("exit 7") == 7 << 8);
    HOLDS(socket(AF_INET, SOCK_STREAM, 0) < 0 && errno == EPERM);
    HOLDS(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) < 0 && errno == EPERM);
    return 0;
}

static int t_sandbox_talks(const t_sandbox_place *p, long arg) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t          n = sizeof to;
    const int          s = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0);
    (void)p, (void)arg;
    HOLDS(s >= 0 && bind(s, (void *)&to, n) == 0 && listen(s, 1) == 0 && getsockname(s, (void *)&to, &n) == 0);
    HOLDS(connect(c, (void *)&to, n) == 0 && accept(s, NULL, NULL) >= 0);
    HOLDS(fork() < 0 && errno == EPERM);
    return 0;
}

/* SANDBOX_SERVE with a socket that listens, and a connection that waits there. */
static int t_sandbox_serves(const t_sandbox_place *p, long listener) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int          fd = accept4((int)listener, NULL, NULL, SOCK_CLOEXEC);
    (void)p;
    HOLDS(fd >= 0 && send(fd, "x", 1, MSG_NOSIGNAL) == 1);
    HOLDS(socket(AF_INET, SOCK_STREAM, 0) < 0 && errno == EPERM && socket(AF_UNIX, SOCK_STREAM, 0) < 0 && errno == EPERM);
    HOLDS(connect(fd, (void *)&to, sizeof to) < 0 && errno == EPERM && bind(fd, (void *)&to, sizeof to) < 0 && errno == EPERM);
    HOLDS(listen((int)listener, 1) < 0 && errno == EPERM && fork() < 0 && errno == EPERM);
    return 0;
}

static int t_sandbox_drives(const t_sandbox_place *p, long arg) {
    (void)arg;
    HOLDS(socket(AF_UNIX, SOCK_STREAM, 0) >= 0 && socket(AF_INET, SOCK_STREAM, 0) < 0 && errno == EPERM);
    HOLDS(open(p->other, O_RDONLY) >= 0);             /* Landlock or not, a driver reads */
    HOLDS(open(p->other, O_WRONLY) < 0 || !strstr(sandbox_holds(), "landlock"));
    HOLDS(execl("/bin/true", "true", (char *)NULL) < 0);
    HOLDS(t_sandbox_call(SYS_keyctl) < 0 && errno == EPERM);     /* what ends another run */
    return 0;
}

static int t_sandbox_free(const t_sandbox_place *p, long arg) {
    (void)arg;
    HOLDS(strcmp(sandbox_holds(), "off (--no-sandbox)") == 0);
    HOLDS(open(p->other, O_RDWR) >= 0 && system("exit 7") == 7 << 8 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0);
    return 0;
}

static void t_sandbox_needs(void) {
    t_sandbox_place    p;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t          n = sizeof at;
    const int          s = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0);
    if (!t_sandbox_has(0)) SKIP("no seccomp filters here");
    t_sandbox_make(&p);
    T_INSIDE(SANDBOX_FILES, &p, t_sandbox_any, 0);
    T_INSIDE(SANDBOX_EXEC | SANDBOX_FILES, &p, t_sandbox_starts, 0);
    T_INSIDE(SANDBOX_NETWORK, &p, t_sandbox_talks, 0);
    T_INSIDE(SANDBOX_DEVICES, &p, t_sandbox_drives, 0);
    if (bind(s, (void *)&at, n) == 0 && listen(s, 1) == 0 && getsockname(s, (void *)&at, &n) == 0 &&
        connect(c, (void *)&at, n) == 0)              /* else there are no sockets here */
        T_INSIDE(SANDBOX_SERVE, &p, t_sandbox_serves, s);
    close(s), close(c);
    T_INSIDE(SANDBOX_ALL, &p, t_sandbox_free, 0);
    t_sandbox_remove(&p);
}

/* --- the process that runs editors for a conversation --- */

/* What it answers to a path, once it has run `true` or has not. */
static int t_sandbox_asks(int fd, const char *path) {
    uint8_t done = 9;
    return write(fd, path, strlen(path)) == (ssize_t)strlen(path) && read(fd, &done, 1) == 1 ? done : -1;
}

static void t_sandbox_editor(void) {
    int         pair[2], status = 0;
    char        path[256];
    t_sandbox_place p;
    t_sandbox_make(&p);
    if (!CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0)) return;
    const pid_t child = fork();
    if (child == 0) {
        close(pair[0]);
        setenv("TMPDIR", p.folder, 1), setenv("VISUAL", "test -f", 1);
        talk__serve_editor(pair[1]);
    }
    close(pair[1]);
    snprintf(path, sizeof path, "%s/llmrun-abc.txt", p.folder);
    EQ_INT(t_sandbox_asks(pair[0], path), 0);         /* the editor fails */
    t_sandbox_put(path, "text");
    EQ_INT(t_sandbox_asks(pair[0], path), 1);
    EQ_INT(t_sandbox_asks(pair[0], p.in), 0);         /* other files, though they are there */
    EQ_INT(t_sandbox_asks(pair[0], "/etc/passwd"), 0);
    snprintf(path, sizeof path, "%s/llmrun-", p.folder);
    CHECK(mkdir(path, 0700) == 0);
    snprintf(path, sizeof path, "%s/llmrun-/../in", p.folder);
    EQ_INT(t_sandbox_asks(pair[0], path), 0);
    close(pair[0]);                                   /* it ends with the program */
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    t_sandbox_remove(&p);
}

/* --- shared libraries --- */

static int t_sandbox_looks(const t_sandbox_place *p, long arg) {
    static const char *const relative[] = {":", "x", ":/lib", "/lib:", "/lib::/usr/lib", "/lib:lib", "/lib;."};
    static const char *const absolute[] = {"", "/lib", "/lib:/usr/lib"};
    (void)p, (void)arg;
    for (size_t i = 0; i < sizeof relative / sizeof *relative; i++)
        HOLDS(!setenv("LD_LIBRARY_PATH", relative[i], 1) && sandbox__looks_here());
    for (size_t i = 0; i < sizeof absolute / sizeof *absolute; i++)
        HOLDS(!setenv("LD_LIBRARY_PATH", absolute[i], 1) && !sandbox__looks_here());
    HOLDS(!unsetenv("LD_LIBRARY_PATH") && !sandbox__looks_here());
    return 0;
}

static void t_sandbox_libraries(void) {
    T_INSIDE(SANDBOX_ALL, NULL, t_sandbox_looks, 0);
}

/* What a download can do: all in the folder of the cache, reading elsewhere as far as it was allowed, sockets. moves: files can
 * go from one folder to another. */
static int t_sandbox_downloads(const t_sandbox_place *p, long moves) {
    char path[160], link[160];
    int  fd;
    snprintf(path, sizeof path, "%s/a", p->kept);
    HOLDS(mkdir(path, 0700) == 0);
    snprintf(path, sizeof path, "%s/a/new", p->kept);
    snprintf(link, sizeof link, "%s/a/link", p->kept);
    HOLDS((fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600)) >= 0 && write(fd, "text", 4) == 4 && ftruncate(fd, 2) == 0);
    HOLDS(flock(fd, LOCK_EX | LOCK_NB) == 0 && symlink("new", link) == 0 && rename(path, link) == 0);
    snprintf(path, sizeof path, "%s/moved", p->kept);
    HOLDS(rename(link, path) == 0 || !moves);
    HOLDS(unlink(moves ? path : link) == 0);
    HOLDS(open(p->in, O_RDONLY) >= 0 && t_sandbox_denied(open(p->in, O_WRONLY)) && t_sandbox_denied(open(p->other, O_RDONLY)));
    snprintf(path, sizeof path, "%s/new", p->folder);
    HOLDS(t_sandbox_denied(mkdir(path, 0700)) && t_sandbox_denied(symlink("x", path)) && t_sandbox_denied(unlink(p->other)));
    HOLDS(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) >= 0);
    execl("/bin/true", "true", (char *)NULL);
    return 0;
}

static void t_sandbox_trees(void) {
    t_sandbox_place p;
    int             status = 0;
    if (!t_sandbox_has(1)) SKIP("no Landlock here");
    t_sandbox_make(&p);
    const pid_t child = fork();
    if (child == 0) {
        sandbox s;
        sandbox_begin(&s, SANDBOX_NETWORK);
        sandbox_read_all(&s, p.in);
        sandbox_keep_all(&s, p.kept);
        sandbox_enter(&s);
        _exit(t_sandbox_downloads(&p, s.abi != 1));
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECKF(WIFEXITED(status) && !WEXITSTATUS(status), "line %d (mod 250)", WEXITSTATUS(status) - 1);
    t_sandbox_remove(&p);
}

/* --- the table of files --- */

/* Every option whose value is called FILE or BASE has a row in act_files, without which its file could not be opened. */
static void t_sandbox_options(void) {
    for (int i = 0; i < N_CLI_OPTS; i++) {
        const cli_opt *o = &cli_opts[i];
        bool           has = o->kind == OPT_ACT && o->hi == 1;       /* files of --batch and --merge: its rows are of those fields */
        if (!o->arg || (strcmp(o->arg, "FILE") != 0 && strcmp(o->arg, "BASE") != 0)) continue;
        for (int k = 0; k < ACT_FILES; k++) {
            const uint32_t on = o->kind == OPT_ACT ? 1u << (int)o->lo : o->serves, row = act_files[k].read | act_files[k].written;
            has = has || (act_files[k].at == o->at && (on & row) == on && act_files[k].list == (o->kind == OPT_LIST));
        }
        CHECKF(has, "%s has no row in act_files", o->names);
    }
    for (int k = 0; k < ACT_FILES; k++) CHECK(!act_files[k].read == !act_files[k].what);
}

static const t_case t_sandbox_cases[] = {
    {"sandbox files", "what was named can be read, folders of results written, and nothing else", t_sandbox_files},
    {"sandbox links", "a named link stands for what it leads to", t_sandbox_links},
    {"sandbox folders", "a folder that is written stands for itself, with a slash at its end too", t_sandbox_folders},
    {"sandbox trees", "a download writes in its folder alone, with folders and links", t_sandbox_trees},
    {"sandbox removed", "a file without a name, named through /proc/self/fd, is written", t_sandbox_removed},
    {"sandbox calls", "each call of the tables is refused as they say, threads and signals to itself are not", t_sandbox_calls},
    {"sandbox abis", "calls by the numbers of another ABI end the process", t_sandbox_abis},
    {"sandbox needs", "what an action needs is lifted, and that alone", t_sandbox_needs},
    {"sandbox editor", "the process that runs editors runs them on its own files alone", t_sandbox_editor},
    {"sandbox options", "every option that names a file says so to the sandbox", t_sandbox_options},
    {"sandbox libraries", "an empty or relative folder in LD_LIBRARY_PATH is noticed", t_sandbox_libraries},
};
static const t_suite t_sandbox_suite = SUITE(t_sandbox_cases);
