/* ===== [sandbox] what the process gives up before it reads bytes from outside =====
 * Model files, templates, grammars and batch lines come from strangers. Before the first of them is parsed the process takes
 * from itself, for good and for every thread to come, what the run does not need: Landlock leaves it the files and folders that
 * were named with sandbox_read() and sandbox_write(), a seccomp filter leaves it the system calls of a program that computes, and
 * no program it could start would gain privileges (PR_SET_NO_NEW_PRIVS). An error in a parser then reaches no other file, no
 * other process and no network.
 *   In order: sandbox_begin; sandbox_read, sandbox_write; sandbox_enter. What an action needs (sandbox_need) lifts a part of it.
 * Invariants: what this kernel lacks is left out without a word, and a failure to install is a note; names are looked up
 * when they are allowed, and a file that is replaced later is another one: what is read again after a rename lies in a folder of
 * sandbox_write(). Shared libraries are opened through sandbox_library(), before sandbox_enter() or with SANDBOX_FILES.
 * Public: sandbox_begin, sandbox_read, sandbox_write, sandbox_remove, sandbox_read_all, sandbox_keep_all, sandbox_enter,
 * sandbox_holds, sandbox_library.
 * Opens: sandbox. */

/* What an action may do beside computing and the files that were named. */
typedef enum {
    SANDBOX_FILES = 1,                                /* open any file: names come later, as in a conversation */
    SANDBOX_DEVICES = 2,                              /* use a GPU, whose driver reads any file and talks to its own services */
    SANDBOX_EXEC = 4,                                 /* start programs */
    SANDBOX_NETWORK = 8,                              /* open sockets */
    SANDBOX_ALL = 16,                                 /* everything: there is no sandbox */
    SANDBOX_SERVE = 32,                               /* accept connections of a socket that listens, and send to them */
    SANDBOX_SOCKETS = SANDBOX_NETWORK | SANDBOX_DEVICES,
    SANDBOX_TALKS = SANDBOX_SOCKETS | SANDBOX_SERVE,
} sandbox_need;

enum { SANDBOX_KEPT = 64 };                           /* most descriptors that stay open */

typedef struct {
    unsigned needs;                                   /* bits of sandbox_need */
    int      ruleset;                                 /* of Landlock, -1: none */
    int      abi;                                     /* version of Landlock, 0: this kernel has none */
    int      why;                                     /* errno where a rule could not be made, else 0 */
    uint64_t files;                                   /* rights on files that Landlock takes unless a rule gives them */
    int      kept[SANDBOX_KEPT], n_kept;              /* descriptors of what is allowed */
} sandbox;

static const char *sandbox__text = "off";

/* What holds, in a few words, such as "landlock 4, seccomp". */
static const char *sandbox_holds(void) { return sandbox__text; }

/* --- Landlock: numbers and structs of linux/landlock.h, which older systems lack or have without the later rights --- */

enum { SANDBOX_CREATE_RULESET = 444, SANDBOX_ADD_RULE = 445, SANDBOX_RESTRICT_SELF = 446 };   /* the same on every processor */
enum { SANDBOX_ASK_VERSION = 1, SANDBOX_BENEATH = 1 };

enum {
    SANDBOX_EXECUTE = 1 << 0, SANDBOX_WRITE_FILE = 1 << 1, SANDBOX_READ_FILE = 1 << 2, SANDBOX_READ_DIR = 1 << 3,
    SANDBOX_REMOVE_DIR = 1 << 4, SANDBOX_REMOVE_FILE = 1 << 5, SANDBOX_MAKE_CHAR = 1 << 6, SANDBOX_MAKE_DIR = 1 << 7,
    SANDBOX_MAKE_REG = 1 << 8, SANDBOX_MAKE_SOCK = 1 << 9, SANDBOX_MAKE_FIFO = 1 << 10, SANDBOX_MAKE_BLOCK = 1 << 11,
    SANDBOX_MAKE_SYM = 1 << 12, SANDBOX_REFER = 1 << 13,
    SANDBOX_TRUNCATE = 1 << 14, SANDBOX_IOCTL = 1 << 15,
    SANDBOX_OF_FILE = SANDBOX_EXECUTE | SANDBOX_WRITE_FILE | SANDBOX_READ_FILE | SANDBOX_TRUNCATE | SANDBOX_IOCTL,
    SANDBOX_LOOK = SANDBOX_READ_FILE | SANDBOX_READ_DIR,
    SANDBOX_USE = SANDBOX_READ_FILE | SANDBOX_WRITE_FILE | SANDBOX_TRUNCATE | SANDBOX_IOCTL,
    SANDBOX_KEEP = SANDBOX_LOOK | SANDBOX_USE | SANDBOX_REMOVE_FILE | SANDBOX_MAKE_REG,
    /* What stays taken with SANDBOX_FILES: starting programs; making devices, sockets and pipes. */
    SANDBOX_NEVER = SANDBOX_EXECUTE | SANDBOX_MAKE_CHAR | SANDBOX_MAKE_SOCK | SANDBOX_MAKE_FIFO | SANDBOX_MAKE_BLOCK,
};

/* What each version of Landlock can take: so many rights on files, rights on ports, and scopes (signals and abstract sockets to
 * other processes). They are the lowest bits; a version adds bits above those of the one before. */
static const struct {
    uint8_t files, net, scopes;
} sandbox__abis[] = {{0, 0, 0}, {13, 0, 0}, {14, 0, 0}, {15, 0, 0}, {15, 2, 0}, {16, 2, 0}, {16, 2, 2}};

enum { SANDBOX_ABIS = sizeof sandbox__abis / sizeof *sandbox__abis };

typedef struct {
    uint64_t files, net, scopes;
} sandbox__attr;

typedef struct {
    uint64_t rights;
    int32_t  fd;
} __attribute__((packed)) sandbox__rule;

static uint64_t sandbox__first(int n) { return ((uint64_t)1 << n) - 1; }

/* Ends the list; no Landlock without one. */
static void sandbox__give_up(sandbox *s) {
    if (s->ruleset >= 0) close(s->ruleset);
    s->ruleset = -1;
}

/* Keeps the descriptor open where there are enough of them: some file systems, such as /proc and 9p, forget a name that is not in
 * use and make it anew as another file, on which there is no rule. */
static void sandbox__keep(sandbox *s, int fd) {
    enum { SPARE = 16 };
    const long most = sysconf(_SC_OPEN_MAX);
    if (s->n_kept < SANDBOX_KEPT && (most < 0 || fd + SPARE < most)) s->kept[s->n_kept++] = fd;
    else close(fd);
}

/* Gives rights on the file, or on the folder and all below it. A name that leads nowhere needs none: opening it fails as it does
 * without Landlock. */
static void sandbox__allow(sandbox *s, const char *path, uint64_t rights) {
    struct stat st;
    if (s->ruleset < 0 || !(rights & s->files)) return;
    const int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ELOOP || errno == ENAMETOOLONG)) return;
    if (fd >= 0 && fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode)) rights &= SANDBOX_OF_FILE;
    const sandbox__rule r = {.rights = rights & s->files, .fd = fd};
    /* EBADFD: a pipe or the like, named through /dev/fd, to which Landlock does not apply. */
    const bool none = !r.rights || fd < 0;
    const bool given = none || syscall(SANDBOX_ADD_RULE, s->ruleset, SANDBOX_BENEATH, &r, 0) == 0 || errno == EBADFD;
    if (!given || fd < 0) s->why = errno, sandbox__give_up(s);     /* better no Landlock than a run that lacks a file */
    if (fd >= 0) sandbox__keep(s, fd);
}

/* What [host], [bench], the C library and the standard streams read of the system. */
static const struct {
    const char *path;
    int         rights;
} sandbox__system[] = {
    {"/proc/self", SANDBOX_LOOK},             {"/proc/meminfo", SANDBOX_READ_FILE},
    {"/proc/cpuinfo", SANDBOX_READ_FILE},     {"/proc/stat", SANDBOX_READ_FILE},
    {"/proc/self/clear_refs", SANDBOX_WRITE_FILE},
    {"/sys/fs/cgroup", SANDBOX_LOOK},         {"/sys/devices/system", SANDBOX_LOOK},
    {"/sys/kernel/mm/transparent_hugepage", SANDBOX_LOOK},
    {"/dev/null", SANDBOX_USE},               {"/dev/urandom", SANDBOX_READ_FILE},
    {"/etc/localtime", SANDBOX_READ_FILE},    {"/usr/share/zoneinfo", SANDBOX_LOOK},
};

/* Begins the list of what stays allowed, with what the system's rules give. needs: bits of sandbox_need. */
static void sandbox_begin(sandbox *s, unsigned needs) {
    *s = (sandbox){.needs = needs, .ruleset = -1};
    tzset();                                          /* the zone of local times may lie in any file that TZ names */
    if (needs & SANDBOX_ALL || !LLMRUN_SANDBOX) return;
    const long abi = syscall(SANDBOX_CREATE_RULESET, NULL, (size_t)0, SANDBOX_ASK_VERSION);
    if (abi < 1) return;
    const int     known = min_int((int)abi, SANDBOX_ABIS - 1);
    sandbox__attr a = {.files = sandbox__first(sandbox__abis[known].files), .net = sandbox__first(sandbox__abis[known].net),
                       .scopes = sandbox__first(sandbox__abis[known].scopes)};
    if (needs & SANDBOX_FILES) a.files &= SANDBOX_NEVER;
    if (needs & SANDBOX_EXEC) a.files &= ~(uint64_t)SANDBOX_EXECUTE, a.scopes = 0;
    if (needs & SANDBOX_NETWORK) a.net = 0;
    if (needs & (SANDBOX_NETWORK | SANDBOX_DEVICES)) a.scopes = 0;
    const size_t n = a.scopes ? sizeof a : a.net ? offsetof(sandbox__attr, scopes) : offsetof(sandbox__attr, net);
    s->abi = (int)abi;
    s->files = a.files;
    s->ruleset = (int)syscall(SANDBOX_CREATE_RULESET, &a, n, 0);
    if (s->ruleset >= 0) fcntl(s->ruleset, F_SETFD, FD_CLOEXEC);
    for (size_t i = 0; i < sizeof sandbox__system / sizeof *sandbox__system; i++)      /* first, so that all of them are kept */
        sandbox__allow(s, sandbox__system[i].path, (uint64_t)sandbox__system[i].rights);
}

/* The file may be read; of a folder its names, so that what opens it finds out what it is. */
static void sandbox_read(sandbox *s, const char *path) {
    struct stat st;
    const bool  folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    sandbox__allow(s, path, folder ? SANDBOX_READ_DIR : SANDBOX_READ_FILE | SANDBOX_IOCTL);
}

/* The file, or the folder with all in it, may be read. */
static void sandbox_read_all(sandbox *s, const char *path) { sandbox__allow(s, path, SANDBOX_LOOK | SANDBOX_IOCTL); }

/* In the folder and below it files, folders and links can be read, written, created and removed, and moved from one folder to
 * another, which the first version of Landlock always refuses. */
static void sandbox_keep_all(sandbox *s, const char *path) {
    sandbox__allow(s, path, SANDBOX_KEEP | SANDBOX_MAKE_DIR | SANDBOX_MAKE_SYM | SANDBOX_REFER);
}

static void sandbox__allow_in_folder(sandbox *s, const char *path, uint64_t rights) {
    char *folder = str_dup(path), *slash = strrchr(folder, '/');
    if (slash) slash[1] = 0;
    sandbox__allow(s, slash ? folder : ".", rights);
    mem_free(folder);
}

/* The folder that holds the file. */
static void sandbox__allow_folder(sandbox *s, const char *path) { sandbox__allow_in_folder(s, path, SANDBOX_KEEP); }

/* The file may be removed, as every other one of its folder and below it. */
static void sandbox_remove(sandbox *s, const char *path) { sandbox__allow_in_folder(s, path, SANDBOX_REMOVE_FILE); }

/* The folder of a file that does not exist yet; where its name is a link, also the folders to which the link leads. */
static void sandbox__allow_new(sandbox *s, const char *path) {
    enum { LINKS = 40 };                              /* as many as the kernel follows */
    char    to[4096];
    str     at = {0};
    ssize_t n = 0;
    str_put(&at, path);
    for (int i = 0; i <= LINKS && n >= 0 && n < (ssize_t)sizeof to; i++) {
        sandbox__allow_folder(s, at.p);
        n = readlink(at.p, to, sizeof to);
        if (n > 0) at.n = to[0] == '/' ? 0 : (size_t)(str_base_name(at.p) - at.p), str_add(&at, to, (size_t)n);
    }
    str_drop(&at);
}

/* The file, which may not exist yet, can be written, read and replaced by a new one, which is written beside it under another
 * name. Landlock has no rule for that but one on the folder: files in it and below it can be read, written, created and removed.
 * Of a device or a pipe there is a rule on that alone, and a folder stands for itself. */
static void sandbox_write(sandbox *s, const char *path) {
    struct stat st;
    const bool  found = stat(path, &st) == 0;
    char       *real = found ? realpath(path, NULL) : NULL;
    if (found && !real && errno == ENOMEM) die(EXIT_RESOURCE, "out of memory: the path of %s", path);
    if (found && S_ISDIR(st.st_mode)) sandbox__allow(s, path, SANDBOX_KEEP);
    else if (found) {
        sandbox__allow(s, path, SANDBOX_USE);
        if (S_ISREG(st.st_mode) && real) sandbox__allow_folder(s, real);     /* none has it: removed, open as /dev/stdout */
    } else sandbox__allow_new(s, path);
    mem_free(real);
}

/* The driver of a GPU reads its settings and libraries anywhere; it writes to its devices, to the pipes of MPS and to the cache
 * of its compiler. */
static void sandbox__allow_devices(sandbox *s) {
    static const char *const patterns[] = {"/dev/nvidia*", "/dev/dxg", "/dev/nvhost*", "/dev/nvmap", "/tmp/nvidia-mps"};
    const char *home = getenv("HOME"), *cache = getenv("CUDA_CACHE_PATH"), *mps = getenv("CUDA_MPS_PIPE_DIRECTORY");
    str         own = {0};
    sandbox__allow(s, "/", SANDBOX_LOOK);
    for (size_t k = 0; k < sizeof patterns / sizeof *patterns; k++) {
        glob_t found = {0};
        glob(patterns[k], 0, NULL, &found);
        for (size_t i = 0; i < found.gl_pathc; i++) sandbox__allow(s, found.gl_pathv[i], SANDBOX_LOOK | SANDBOX_USE);
        globfree(&found);
    }
    if (mps) sandbox__allow(s, mps, SANDBOX_LOOK | SANDBOX_USE);
    sandbox__allow(s, "/dev/shm", SANDBOX_KEEP);
    if (cache && *cache) str_put(&own, cache);
    else if (home && *home) str_fmt(&own, "%s/.nv", home);
    if (own.n) mkdir(own.p, 0700), sandbox__allow(s, own.p, SANDBOX_KEEP | SANDBOX_MAKE_DIR | SANDBOX_REMOVE_DIR);
    str_drop(&own);
}

/* True: Landlock holds. */
static bool sandbox__landlock(sandbox *s) {
    if (s->needs & SANDBOX_DEVICES) sandbox__allow_devices(s);
    if (s->ruleset >= 0 && syscall(SANDBOX_RESTRICT_SELF, s->ruleset, 0) == 0) return true;
    while (s->n_kept) close(s->kept[--s->n_kept]);
    return false;
}

/* --- seccomp --- */

#ifndef __APPLE__
/* Which calls the filter refuses. A list of what is allowed would have to know every call that a C library, a BLAS or a GPU's
 * driver makes on any version of either processor, and a run would break where it does not; files are Landlock's matter. So it
 * is a list of what is refused, and calls newer than the list are answered as by an older kernel, which C libraries expect.
 *   NO (EPERM): what a library may try, and does without. DIE (SIGSYS ends the process): what no run asks for, only an
 * attacker's code does; a run that ends is better than one that goes on in its hands. A GPU's driver is never ended. */
typedef enum { SANDBOX_NO, SANDBOX_DIE } sandbox__answer;

typedef struct {
    int             nr;
    sandbox__answer answer;
    unsigned        lifted;                           /* needs of which each allows the call */
} sandbox__call;

/* Numbers from 424 on are the same on every processor; headers of older systems do not know the later ones. */
enum {
    SANDBOX_PIDFD_SEND_SIGNAL = 424, SANDBOX_IO_URING_SETUP, SANDBOX_IO_URING_ENTER, SANDBOX_IO_URING_REGISTER,
    SANDBOX_OPEN_TREE, SANDBOX_MOVE_MOUNT, SANDBOX_FSOPEN, SANDBOX_FSCONFIG, SANDBOX_FSMOUNT, SANDBOX_FSPICK,
    SANDBOX_CLONE3 = 435, SANDBOX_PIDFD_GETFD = 438, SANDBOX_PROCESS_MADVISE = 440, SANDBOX_MOUNT_SETATTR = 442,
    SANDBOX_QUOTACTL_FD = 443, SANDBOX_PROCESS_MRELEASE = 448, SANDBOX_FCHMODAT2 = 452,
    SANDBOX_LAST = 462,                               /* mseal, Linux 6.10 */
};

static const sandbox__call sandbox__calls[] = {
    /* programs */
    {SYS_execve, SANDBOX_NO, SANDBOX_EXEC}, {SYS_execveat, SANDBOX_NO, SANDBOX_EXEC},
    /* the network, and other processes by sockets */
    {SYS_socketpair, SANDBOX_NO, SANDBOX_SOCKETS}, {SYS_bind, SANDBOX_NO, SANDBOX_SOCKETS},
    {SYS_connect, SANDBOX_NO, SANDBOX_SOCKETS}, {SYS_listen, SANDBOX_NO, SANDBOX_SOCKETS},
    {SYS_accept, SANDBOX_NO, SANDBOX_SOCKETS}, {SYS_accept4, SANDBOX_NO, SANDBOX_TALKS},
    {SYS_sendto, SANDBOX_NO, SANDBOX_TALKS}, {SYS_sendmsg, SANDBOX_NO, SANDBOX_SOCKETS},
    {SYS_sendmmsg, SANDBOX_NO, SANDBOX_SOCKETS},
    /* other processes */
    {SYS_ptrace, SANDBOX_DIE, 0}, {SYS_process_vm_readv, SANDBOX_DIE, 0}, {SYS_process_vm_writev, SANDBOX_DIE, 0},
    {SYS_kcmp, SANDBOX_NO, 0}, {SANDBOX_PIDFD_GETFD, SANDBOX_DIE, 0}, {SANDBOX_PROCESS_MADVISE, SANDBOX_NO, 0},
    {SANDBOX_PROCESS_MRELEASE, SANDBOX_NO, 0}, {SANDBOX_PIDFD_SEND_SIGNAL, SANDBOX_NO, SANDBOX_EXEC},
    {SYS_rt_sigqueueinfo, SANDBOX_NO, SANDBOX_EXEC}, {SYS_rt_tgsigqueueinfo, SANDBOX_NO, SANDBOX_EXEC},
    {SYS_shmget, SANDBOX_NO, SANDBOX_DEVICES}, {SYS_shmat, SANDBOX_NO, SANDBOX_DEVICES}, {SYS_msgget, SANDBOX_NO, 0},
    {SYS_semget, SANDBOX_NO, 0}, {SYS_mq_open, SANDBOX_NO, 0},
    /* parts of the kernel in which many errors were found */
    {SYS_bpf, SANDBOX_DIE, 0}, {SYS_perf_event_open, SANDBOX_NO, 0}, {SYS_userfaultfd, SANDBOX_DIE, 0},
    {SANDBOX_IO_URING_SETUP, SANDBOX_DIE, 0}, {SANDBOX_IO_URING_ENTER, SANDBOX_DIE, 0},
    {SANDBOX_IO_URING_REGISTER, SANDBOX_DIE, 0}, {SYS_keyctl, SANDBOX_DIE, 0}, {SYS_add_key, SANDBOX_DIE, 0},
    {SYS_request_key, SANDBOX_DIE, 0}, {SYS_fanotify_init, SANDBOX_DIE, 0},
    /* the system: mounts, namespaces, modules, clocks */
    {SYS_mount, SANDBOX_DIE, 0}, {SYS_umount2, SANDBOX_DIE, 0}, {SYS_pivot_root, SANDBOX_DIE, 0}, {SYS_chroot, SANDBOX_DIE, 0},
    {SANDBOX_OPEN_TREE, SANDBOX_DIE, 0}, {SANDBOX_MOVE_MOUNT, SANDBOX_DIE, 0}, {SANDBOX_FSOPEN, SANDBOX_DIE, 0},
    {SANDBOX_FSCONFIG, SANDBOX_DIE, 0}, {SANDBOX_FSMOUNT, SANDBOX_DIE, 0}, {SANDBOX_FSPICK, SANDBOX_DIE, 0},
    {SANDBOX_MOUNT_SETATTR, SANDBOX_DIE, 0}, {SYS_unshare, SANDBOX_DIE, 0}, {SYS_setns, SANDBOX_DIE, 0},
    {SYS_open_by_handle_at, SANDBOX_DIE, 0}, {SYS_init_module, SANDBOX_DIE, 0}, {SYS_finit_module, SANDBOX_DIE, 0},
    {SYS_delete_module, SANDBOX_DIE, 0}, {SYS_kexec_load, SANDBOX_DIE, 0}, {SYS_kexec_file_load, SANDBOX_DIE, 0},
    {SYS_reboot, SANDBOX_DIE, 0}, {SYS_swapon, SANDBOX_DIE, 0}, {SYS_swapoff, SANDBOX_DIE, 0}, {SYS_acct, SANDBOX_DIE, 0},
    {SYS_quotactl, SANDBOX_DIE, 0}, {SANDBOX_QUOTACTL_FD, SANDBOX_DIE, 0}, {SYS_settimeofday, SANDBOX_DIE, 0},
    {SYS_clock_settime, SANDBOX_DIE, 0}, {SYS_sethostname, SANDBOX_DIE, 0}, {SYS_setdomainname, SANDBOX_DIE, 0},
    {SYS_adjtimex, SANDBOX_NO, 0}, {SYS_clock_adjtime, SANDBOX_NO, 0}, {SYS_syslog, SANDBOX_NO, 0},
    {SYS_vhangup, SANDBOX_NO, 0},
    {SYS_setuid, SANDBOX_NO, 0}, {SYS_setgid, SANDBOX_NO, 0}, {SYS_setreuid, SANDBOX_NO, 0}, {SYS_setregid, SANDBOX_NO, 0},
    {SYS_setresuid, SANDBOX_NO, 0}, {SYS_setresgid, SANDBOX_NO, 0}, {SYS_setgroups, SANDBOX_NO, 0},
    {SYS_capset, SANDBOX_NO, 0},
    /* files by name that Landlock does not guard: mode, owner, times, attributes; TRUNCATE only since its version 3 */
    {SYS_truncate, SANDBOX_NO, 0}, {SYS_fchmodat, SANDBOX_NO, 0}, {SANDBOX_FCHMODAT2, SANDBOX_NO, 0},
    {SYS_fchownat, SANDBOX_NO, 0}, {SYS_utimensat, SANDBOX_NO, 0}, {SYS_mknodat, SANDBOX_NO, 0},
    {SYS_setxattr, SANDBOX_NO, 0}, {SYS_lsetxattr, SANDBOX_NO, 0},
    {SYS_removexattr, SANDBOX_NO, 0}, {SYS_lremovexattr, SANDBOX_NO, 0},
};

/* Calls that x86-64 alone has, by their numbers there. */
static const sandbox__call sandbox__x86_calls[] = {
    {57 /* fork */, SANDBOX_NO, SANDBOX_EXEC}, {58 /* vfork */, SANDBOX_NO, SANDBOX_EXEC}, {90 /* chmod */, SANDBOX_NO, 0},
    {92 /* chown */, SANDBOX_NO, 0}, {94 /* lchown */, SANDBOX_NO, 0}, {132 /* utime */, SANDBOX_NO, 0},
    {133 /* mknod */, SANDBOX_NO, 0}, {154 /* modify_ldt */, SANDBOX_DIE, 0}, {172 /* iopl */, SANDBOX_DIE, 0},
    {173 /* ioperm */, SANDBOX_DIE, 0}, {235 /* utimes */, SANDBOX_NO, 0}, {261 /* futimesat */, SANDBOX_NO, 0},
};

enum {
    SANDBOX_ROWS = sizeof sandbox__calls / sizeof *sandbox__calls,
    SANDBOX_X86_ROWS = sizeof sandbox__x86_calls / sizeof *sandbox__x86_calls,
    SANDBOX_CODE = 2 * (SANDBOX_ROWS + SANDBOX_X86_ROWS) + 64,
    SANDBOX_X32 = 0x40000000,                         /* bit of the calls of the x32 ABI, which the filter would not know */
    SANDBOX_NAMESPACES =
        CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET,
};

typedef struct {
    struct sock_filter code[SANDBOX_CODE];
    size_t             n;
} sandbox__filter;

static void sandbox__add(sandbox__filter *f, uint16_t op, uint32_t k, int yes, int no) {
    ASSERT(f->n < SANDBOX_CODE);
    f->code[f->n++] = (struct sock_filter)BPF_JUMP(op, k, (uint8_t)yes, (uint8_t)no);
}

static void sandbox__load(sandbox__filter *f, size_t at) { sandbox__add(f, BPF_LD | BPF_W | BPF_ABS, (uint32_t)at, 0, 0); }

/* The low half of an argument: all of it for a number of 32 bits, and the machine is little-endian. */
static void sandbox__load_arg(sandbox__filter *f, int i) {
    sandbox__load(f, offsetof(struct seccomp_data, args) + 8 * (size_t)i);
}

/* The next instruction runs only when, or unless, the value that was loaded compares so with k. */
static void sandbox__when(sandbox__filter *f, uint16_t test, uint32_t k) { sandbox__add(f, BPF_JMP | test | BPF_K, k, 0, 1); }
static void sandbox__unless(sandbox__filter *f, uint16_t test, uint32_t k) { sandbox__add(f, BPF_JMP | test | BPF_K, k, 1, 0); }
static void sandbox__return(sandbox__filter *f, uint32_t what) { sandbox__add(f, BPF_RET | BPF_K, what, 0, 0); }

static const uint32_t sandbox__no = SECCOMP_RET_ERRNO | EPERM, sandbox__die = SECCOMP_RET_KILL_PROCESS,
                      sandbox__unknown = SECCOMP_RET_ERRNO | ENOSYS, sandbox__yes = SECCOMP_RET_ALLOW;

static void sandbox__add_calls(sandbox__filter *f, const sandbox__call *c, int n, unsigned needs) {
    for (int i = 0; i < n; i++) {
        if (c[i].lifted & needs) continue;
        sandbox__when(f, BPF_JEQ, (uint32_t)c[i].nr);
        sandbox__return(f, c[i].answer == SANDBOX_DIE && !(needs & SANDBOX_DEVICES) ? sandbox__die : sandbox__no);
    }
}

/* Begins a part that looks at the arguments of call nr; sandbox__close() ends it, and every way through it returns. */
static size_t sandbox__open(sandbox__filter *f, int nr) {
    sandbox__add(f, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)nr, 0, 0);
    return f->n - 1;
}

static void sandbox__close(sandbox__filter *f, size_t at, uint32_t otherwise) {
    sandbox__return(f, otherwise);
    f->code[at].jf = (uint8_t)(f->n - 1 - at);
}

/* Calls of which the arguments decide. */
static void sandbox__add_cases(sandbox__filter *f, unsigned needs) {
    static const int signals[] = {SYS_kill, SYS_tgkill};
    size_t           at;
    /* New threads, and processes where programs may be started; never with namespaces of their own. */
    at = sandbox__open(f, SYS_clone);
    sandbox__load_arg(f, 0);
    sandbox__when(f, BPF_JSET, SANDBOX_NAMESPACES);
    sandbox__return(f, sandbox__no);
    sandbox__when(f, BPF_JSET, CLONE_THREAD);
    sandbox__return(f, sandbox__yes);
    sandbox__close(f, at, needs & SANDBOX_EXEC ? sandbox__yes : sandbox__no);
    /* Signals to this process alone. */
    for (int i = 0; i < 2 && !(needs & SANDBOX_EXEC); i++) {
        at = sandbox__open(f, signals[i]);
        sandbox__load_arg(f, 0);
        sandbox__when(f, BPF_JEQ, (uint32_t)getpid());
        sandbox__return(f, sandbox__yes);
        sandbox__close(f, at, sandbox__no);
    }
    /* Keys that a terminal gives to the shell once this program has ended. */
    at = sandbox__open(f, SYS_ioctl);
    sandbox__load_arg(f, 1);
    sandbox__when(f, BPF_JEQ, TIOCSTI);
    sandbox__return(f, sandbox__no);
    sandbox__when(f, BPF_JEQ, TIOCLINUX);
    sandbox__return(f, sandbox__no);
    sandbox__close(f, at, sandbox__yes);
    if (needs & SANDBOX_NETWORK) return;
    /* A GPU's driver talks to its services on this machine. */
    at = sandbox__open(f, SYS_socket);
    if (needs & SANDBOX_DEVICES) {
        sandbox__load_arg(f, 0);
        sandbox__when(f, BPF_JEQ, AF_UNIX);
        sandbox__return(f, sandbox__yes);
    }
    sandbox__close(f, at, sandbox__no);
}

/* The number by which the kernel names the calls of this program's processor; 0: the tables above do not know it. */
static uint32_t sandbox__arch(void) {
    static const uint32_t of[] = {[K_OTHER_MACHINE] = 0, [K_X86_64] = AUDIT_ARCH_X86_64, [K_AARCH64] = AUDIT_ARCH_AARCH64};
    return sizeof(void *) == 8 ? of[K_MACHINE] : 0;
}

static void sandbox__make_filter(sandbox__filter *f, unsigned needs) {
    static const int often[] = {SYS_futex, SYS_read, SYS_write, SYS_fstat, SYS_getrusage, SYS_madvise, SYS_munmap};
    const bool       x86 = K_MACHINE == K_X86_64;
    sandbox__load(f, offsetof(struct seccomp_data, arch));
    sandbox__unless(f, BPF_JEQ, sandbox__arch());     /* calls of 32-bit programs have other numbers */
    sandbox__return(f, sandbox__die);
    sandbox__load(f, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < sizeof often / sizeof *often; i++) {
        sandbox__when(f, BPF_JEQ, (uint32_t)often[i]);
        sandbox__return(f, sandbox__yes);
    }
    if (x86) {
        sandbox__when(f, BPF_JGE, SANDBOX_X32);
        sandbox__return(f, sandbox__die);
    }
    sandbox__when(f, BPF_JGT, SANDBOX_LAST);
    sandbox__return(f, sandbox__unknown);
    sandbox__when(f, BPF_JEQ, SANDBOX_CLONE3);        /* its flags lie in memory, where no filter looks: clone() is used then */
    sandbox__return(f, sandbox__unknown);
    sandbox__add_calls(f, sandbox__calls, SANDBOX_ROWS, needs);
    if (x86) sandbox__add_calls(f, sandbox__x86_calls, SANDBOX_X86_ROWS, needs);
    sandbox__add_cases(f, needs);
    sandbox__return(f, sandbox__yes);
}

/* True: the filter holds, for every thread. Without SPEC_ALLOW older kernels switch off speculative stores in a filtered process,
 * which costs speed and guards nothing here. */
static bool sandbox__seccomp(unsigned needs) {
    sandbox__filter f = {.n = 0};
    if (!sandbox__arch()) return false;
    sandbox__make_filter(&f, needs);
    const struct sock_fprog p = {.len = (unsigned short)f.n, .filter = f.code};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_SPEC_ALLOW, &p) == 0 ||
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &p) == 0;
}
#else
static bool sandbox__seccomp(unsigned needs) { return (void)needs, false; }
#endif

/* Gives up all that was not allowed, as far as this kernel can. sandbox_holds() says what holds from now on. */
static void sandbox_enter(sandbox *s) {
    if (!LLMRUN_SANDBOX || s->needs & SANDBOX_ALL) {
        sandbox__text = LLMRUN_SANDBOX ? "off (--no-sandbox)" : "left out (SANDBOX=0)";
        return;
    }
    static char both[64];
    const char *but = s->needs & SANDBOX_FILES ? " (any file can be opened)"
                      : s->needs & SANDBOX_DEVICES ? " (any file can be read)" : "";
    const bool  able = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
    const bool  landlock = able && sandbox__landlock(s);
    if (s->abi && !landlock) log_warn("Landlock is not used: %s", strerror(s->why ? s->why : errno));
    const bool seccomp = able && sandbox__seccomp(s->needs);
    sandbox__give_up(s);
    if (landlock) snprintf(both, sizeof both, "landlock %d%s%s", s->abi, but, seccomp ? ", seccomp" : "");
    sandbox__text = landlock ? both : seccomp ? "seccomp" : "none: this kernel has neither Landlock nor seccomp filters";
}

/* --- shared libraries --- */

/* Whether LD_LIBRARY_PATH has an empty or relative folder, as LD_LIBRARY_PATH=:/opt/lib has. */
static bool sandbox__looks_here(void) {
    const char *path = getenv("LD_LIBRARY_PATH");
    for (const char *at = path && *path ? path : NULL; at; at = (at = strpbrk(at, ":;")) ? at + 1 : NULL)
        if (*at != '/') return true;
    return false;
}

/* Opens a shared library by its soname, as dlopen() finds it, or by an absolute path. A relative folder in LD_LIBRARY_PATH is
 * looked up from / and not from the current folder, which may be a stranger's. Not beside threads that open files. NULL: see
 * dlerror(). */
static void *sandbox_library(const char *name) {
    ASSERT(name[0] == '/' || !strchr(name, '/'));
    const int  here = sandbox__looks_here() ? open(".", O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    const bool away = here >= 0 && chdir("/") == 0;
    void      *lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (away && fchdir(here)) die(EXIT_RESOURCE, "the current folder cannot be entered again: %s", strerror(errno));
    if (here >= 0) close(here);
    return lib;
}
