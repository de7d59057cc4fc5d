/* ===== [host] limits of this machine =====
 * What this process may use of the machine: CPUs and memory, as the kernel, the affinity mask and the cgroups (versions 1 and
 * 2) limit them. A limit of a cgroup holds for every cgroup below it, so all directories up to the root are read.
 * A file that is missing or unreadable sets no limit. Values are read anew by every call.
 *   Memory nodes (NUMA): which CPUs are near to which memory, and on which node memory is placed. The system calls are made
 * directly: libnuma would be one more library to find on each machine, for four calls whose numbers and arguments are part of
 * the kernel's interface. A kernel or a container that refuses them leaves memory where it is: a page then lies on the node of
 * the thread that wrote it first.
 * Public: host_cpus, host_memory, host_cpu_wait, host_read_bytes, host_nodes_here, host_place,
 * host_choose, host_prefer, host_restore, host_touch, host_interleave, host_thread.
 * Opens: host_node, host_nodes. */

/* Reads one or two numbers from a small file; "max" reads as -1. Returns how many. */
static int host__read_pair(const char *path, long long v[2]) {
    char buf[128], *at = buf;
    int  fd = open(path, O_RDONLY | O_CLOEXEC), n = 0;
    if (fd < 0) return 0;
    size_t  has = 0;
    ssize_t got;
    while ((got = read(fd, buf + has, sizeof buf - 1 - has)) > 0 || (got < 0 && errno == EINTR))
        if (got > 0) has += (size_t)got;
    close(fd);
    if (got < 0) return 0;
    buf[has] = 0;
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

/* Reads one cgroup directory, of version 2 or 1. */
typedef void host__visit(void *ctx, const char *dir, bool v2);

/* Visits every directory from `dir` under `root` up to the root. */
static void host__visit_up(const char *root, const char *dir, bool v2, host__visit *visit, void *ctx) {
    char at[4096];
    snprintf(at, sizeof at, "%s", dir);
    for (;;) {
        char path[8300];
        snprintf(path, sizeof path, "%s%s", root, at);
        visit(ctx, path, v2);
        char *slash = strrchr(at, '/');
        if (!slash) return;
        *slash = 0;                                   /* up one level; the root itself is the empty path */
    }
}

/* Visits the cgroup directories of this process: those of version 2, and of version 1 those of this controller. */
static void host__cgroups(const char *controller, host__visit *visit, void *ctx) {
    char  line[4096], root[256];
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && fgets(line, sizeof line, f)) {        /* "0::/path" is version 2, "4:cpu,cpuacct:/path" version 1 */
        line[strcspn(line, "\n")] = 0;
        char *ctl = strchr(line, ':'), *dir = ctl ? strchr(ctl + 1, ':') : NULL;
        if (!dir) continue;
        *dir++ = 0;
        ctl++;
        if (!*ctl) host__visit_up("/sys/fs/cgroup", dir, true, visit, ctx);
        for (char *save, *c = strtok_r(ctl, ",", &save); c; c = strtok_r(NULL, ",", &save)) {
            if (strcmp(c, controller) != 0) continue;
            snprintf(root, sizeof root, "/sys/fs/cgroup/%s", controller);
            host__visit_up(root, dir, false, visit, ctx);
            if (strcmp(c, "cpu") == 0) host__visit_up("/sys/fs/cgroup/cpu,cpuacct", dir, false, visit, ctx);
        }
    }
    if (f) fclose(f);
}

/* Lowers *ctx, an int, to the directory's quota in whole CPUs, at least 1. Version 2 keeps quota and period in cpu.max, version
 * 1 in two files. */
static void host__cpu_quota(void *ctx, const char *dir, bool v2) {
    char      path[8400];
    int      *most = ctx;
    long long v[2] = {-1, 0}, w[2];
    bool      have;
    snprintf(path, sizeof path, "%s/%s", dir, v2 ? "cpu.max" : "cpu.cfs_quota_us");
    have = host__read_pair(path, v) == (v2 ? 2 : 1);
    if (have && !v2) {
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", dir);
        have = host__read_pair(path, w) == 1;
        v[1] = have ? w[0] : 0;
    }
    if (have && v[0] > 0 && v[1] > 0 && v[0] / v[1] < *most) *most = v[0] / v[1] < 1 ? 1 : (int)(v[0] / v[1]);
}

/* Number of CPUs in the affinity mask, at most the cgroup's quota rounded down: with more threads than the quota, every barrier
 * waits for a throttled one. */
static int host_cpus(void) {
    cpu_set_t set;
    int       n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (n < 1) n = 1;
    host__cgroups("cpu", host__cpu_quota, &n);
    return n;
}

/* Seconds that the threads of this process have waited for a CPU, summed; 0 where the kernel does not count them. */
static double host_cpu_wait(void) {
    double         sum = 0;
    DIR           *d = opendir("/proc/self/task");
    struct dirent *one;
    while (d && (one = readdir(d))) {
        char      path[sizeof "/proc/self/task//schedstat" + sizeof one->d_name];
        long long ns[2];                              /* on a CPU, waiting for one */
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", one->d_name);
        if (one->d_name[0] != '.' && host__read_pair(path, ns) == 2) sum += (double)ns[1] * 1e-9;
    }
    if (d) closedir(d);
    return sum;
}

/* The number after a word at the beginning of a line; 0: no line has the word. */
static uint64_t host__number(const char *path, const char *word) {
    char               line[256];
    unsigned long long v = 0;
    const size_t       n = strlen(word);
    FILE              *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, word, n) == 0 && sscanf(line + n, "%*[: ]%llu", &v) == 1) break;
    if (f) fclose(f);
    return v;
}

/* Bytes that the threads of this process have caused to be read from devices; 0 where the kernel does not count them. */
static uint64_t host_read_bytes(void) { return host__number("/proc/self/io", "read_bytes"); }

/* Lowers *ctx, a uint64_t, to the bytes that are free below the directory's limit. Cached pages of files count as free: the
 * kernel drops them on demand. */
static void host__memory_left(void *ctx, const char *dir, bool v2) {
    char      path[8400];
    uint64_t *most = ctx;
    long long limit[2], used[2];
    snprintf(path, sizeof path, "%s/%s", dir, v2 ? "memory.max" : "memory.limit_in_bytes");
    if (host__read_pair(path, limit) < 1 || limit[0] < 0) return;
    snprintf(path, sizeof path, "%s/%s", dir, v2 ? "memory.current" : "memory.usage_in_bytes");
    if (host__read_pair(path, used) < 1 || used[0] < 0) return;
    snprintf(path, sizeof path, "%s/memory.stat", dir);
    const uint64_t files = host__number(path, v2 ? "active_file" : "total_active_file") +
                           host__number(path, v2 ? "inactive_file" : "total_inactive_file");
    const uint64_t held = (uint64_t)used[0] > files ? (uint64_t)used[0] - files : 0;
    const uint64_t left = (uint64_t)limit[0] > held ? (uint64_t)limit[0] - held : 0;
    if (left < *most) *most = left;
}

/* Bytes of memory that are free or can be made free; of macOS, which has no such number, all. 0: unknown. */
static uint64_t host__memory_free(void) {
#ifdef __APPLE__
    uint64_t n = 0;
    size_t   size = sizeof n;
    return sysctlbyname("hw.memsize", &n, &size, NULL, 0) ? 0 : n;
#else
    return 1024 * host__number("/proc/meminfo", "MemAvailable");
#endif
}

/* Bytes that this process may still take: the least of what the machine, its cgroups and its own limit leave. UINT64_MAX:
 * unknown. An estimate: other processes take memory too. */
static uint64_t host_memory(void) {
    const uint64_t all = host__memory_free();
    uint64_t       most = all ? all : UINT64_MAX;
    struct rlimit  own;
    long long      pages[2];
    host__cgroups("memory", host__memory_left, &most);
    if (getrlimit(RLIMIT_AS, &own) || own.rlim_cur == RLIM_INFINITY) return most;
    if (host__read_pair("/proc/self/statm", pages) < 1) return most;
    const uint64_t held = (uint64_t)pages[0] * (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t left = own.rlim_cur > held ? own.rlim_cur - held : 0;
    return left < most ? left : most;
}

/* --- memory nodes --- */

enum {
    HOST_NODES = 32,                                  /* most nodes with CPUs */
    HOST_NODE_NUMBERS = 1024,                         /* numbers of nodes that the kernel may use */
    HOST_PAGE = 4096,                                 /* bytes; larger pages hold several of them */
};

/* What is done about memory nodes: as HOST_NUMA_DISTRIBUTE where there are several; nothing; threads on their nodes and memory
 * over all nodes in turn; threads on their nodes and memory where it is read. */
typedef enum { HOST_NUMA_AUTO, HOST_NUMA_OFF, HOST_NUMA_INTERLEAVE, HOST_NUMA_DISTRIBUTE } host_numa;

typedef struct {
    int       memory;                                 /* the kernel's number; -1: memory of this node cannot be used */
    int       n_cpus;                                 /* CPUs of it that this process may use, at least 1 */
    cpu_set_t cpus;                                   /* their numbers */
} host_node;

typedef struct {
    host_node node[HOST_NODES];                       /* [n] those with CPUs */
    int       n;
    bool      made_up;                                /* by LLMRUN_TOPOLOGY: no thread can be bound to their CPUs */
} host_nodes;

/* False, and e, NULL: none, says why. */
static bool host__no(err_t *e, const char *format, const char *what) {
    char text[4608];
    snprintf(text, sizeof text, format, what);
    return e ? err_set(e, EXIT_INPUT, "%s", text) : false;
}

/* Numbers as the kernel lists them, "0-3,8". False: the text is no such list. Numbers from CPU_SETSIZE on are passed over. */
static bool host__numbers(const char *at, cpu_set_t *to) {
    CPU_ZERO(to);
    while (*at && *at != '\n') {
        char *end;
        if (!isdigit((unsigned char)*at)) return false;
        const unsigned long from = strtoul(at, &end, 10);
        unsigned long       last = from;
        if (*end == '-' && isdigit((unsigned char)end[1])) last = strtoul(end + 1, &end, 10);
        if (last < from || (*end && *end != ',' && *end != '\n')) return false;
        for (unsigned long i = from; i <= last && i < CPU_SETSIZE; i++) CPU_SET(i, to);
        at = end + (*end == ',');
    }
    return true;
}

/* A list in a file below root. False: it cannot be read or is no list; e, NULL: none, says so. */
static bool host__list(const char *root, const char *path, cpu_set_t *to, err_t *e) {
    char  name[4352], line[8192];
    bool  have = false;
    snprintf(name, sizeof name, "%s%s", root, path);
    FILE *f = fopen(name, "re");
    if (!f) return host__no(e, "%s cannot be read", name);
    have = fgets(line, sizeof line, f) && host__numbers(line, to);
    fclose(f);
    return have || host__no(e, "%s: expected numbers such as 0-3,8", name);
}

/* Nodes whose memory this process may use; all, where the kernel says nothing. */
static void host__memory_nodes(const char *root, cpu_set_t *to) {
    static const char word[] = "Mems_allowed_list:";
    char              name[4352], line[8192];
    cpu_set_t         may;
    if (!host__list(root, "/sys/devices/system/node/has_memory", to, NULL)) memset(to, 0xff, sizeof *to);
    snprintf(name, sizeof name, "%s/proc/self/status", root);
    FILE *f = fopen(name, "re");
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, word, sizeof word - 1) != 0) continue;
        const char *list = line + sizeof word - 1;
        if (host__numbers(list + strspn(list, " \t"), &may)) CPU_AND(to, to, &may);
        break;
    }
    if (f) fclose(f);
}

/* Nodes that a text such as 2x8 makes up, two of 8 CPUs. Their memory is that of nodes of this machine, in turn. */
static bool host__made_up(const char *root, const char *text, host_nodes *to, err_t *e) {
    int       n = 0, each = 0, used = 0, at = 0;
    cpu_set_t memory;
    if (sscanf(text, "%dx%d%n", &n, &each, &used) != 2 || text[used] || n < 1 || n > HOST_NODES || each < 1 ||
        (int64_t)n * each > CPU_SETSIZE)
        return host__no(e, "LLMRUN_TOPOLOGY: '%s', expected nodes and CPUs of each, such as 2x8", text);
    host__memory_nodes(root, &memory);
    if (!CPU_COUNT(&memory) || CPU_COUNT(&memory) == CPU_SETSIZE) {
        CPU_ZERO(&memory);
        CPU_SET(0, &memory);
    }
    for (int k = 0; k < n; k++, at++) {
        while (!CPU_ISSET(at % CPU_SETSIZE, &memory)) at++;
        to->node[k] = (host_node){.memory = at % CPU_SETSIZE, .n_cpus = each};
        CPU_ZERO(&to->node[k].cpus);
        for (int i = 0; i < each; i++) CPU_SET(k * each + i, &to->node[k].cpus);
    }
    to->n = n;
    return to->made_up = true;
}

/* Adds node number k with those of its CPUs that are in `may`. A node without any is left out: its memory is far from all
 * threads. */
static bool host__add_node(const char *root, int k, const cpu_set_t *may, bool has_memory, host_nodes *to, err_t *e) {
    char      path[64];
    host_node one = {.memory = has_memory ? k : -1};
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", k);
    if (!host__list(root, path, &one.cpus, e)) return false;
    CPU_AND(&one.cpus, &one.cpus, may);
    one.n_cpus = CPU_COUNT(&one.cpus);
    if (!one.n_cpus) return true;
    if (to->n == HOST_NODES) return host__no(e, "%s: more memory nodes with CPUs than this program knows", path);
    to->node[to->n++] = one;
    return true;
}

/* The memory nodes of a machine whose files are below root, "": this one; with their CPUs that are on-line and in `may`, those
 * that this process may use. text: nodes that are made up in their place, NULL: none. False: there is no telling; e, NULL: none,
 * says why. */
static bool host__nodes_find(const char *root, const char *text, const cpu_set_t *may, host_nodes *to, err_t *e) {
    cpu_set_t nodes, memory, online, cpus = *may;
    *to = (host_nodes){.n = 0};
    if (text && *text) return host__made_up(root, text, to, e);
    if (!host__list(root, "/sys/devices/system/node/online", &nodes, e)) return false;
    if (host__list(root, "/sys/devices/system/cpu/online", &online, NULL)) CPU_AND(&cpus, &cpus, &online);
    host__memory_nodes(root, &memory);
    for (int k = 0; k < HOST_NODE_NUMBERS; k++)
        if (CPU_ISSET(k, &nodes) && !host__add_node(root, k, &cpus, CPU_ISSET(k, &memory), to, e)) return false;
    return to->n > 0 || host__no(e, "%s/sys/devices/system/node: no node has a CPU of this process", root);
}

/* The same of this machine, or as LLMRUN_TOPOLOGY makes it up. */
static bool host_nodes_here(host_nodes *to, err_t *e) {
    cpu_set_t may;
    if (sched_getaffinity(0, sizeof may, &may)) memset(&may, 0xff, sizeof may);
    return host__nodes_find("", getenv("LLMRUN_TOPOLOGY"), &may, to, e);
}

/* A set of nodes as the kernel takes it. */
typedef struct { unsigned long bit[HOST_NODE_NUMBERS / 8 / sizeof(unsigned long)]; } host__mask;

static void host__mask_add(host__mask *m, int node) {
    const int bits = 8 * (int)sizeof *m->bit;
    m->bit[node / bits] |= 1ul << (node % bits);
}

/* Pages of [p, p + n) that have no memory yet get that of a node, as long as it has any. p: the beginning of a page. False: the
 * kernel does not do that. */
static bool host_place(void *p, size_t n, int memory) {
    host__mask m = {{0}};
    if (memory < 0 || !n) return false;
    host__mask_add(&m, memory);
    return syscall(SYS_mbind, p, n, MPOL_PREFERRED, m.bit, (unsigned long)HOST_NODE_NUMBERS, 0u) == 0;
}

/* From which nodes a thread gets memory that it writes first. */
typedef struct {
    int        mode;                                  /* the kernel's; -1: it does not tell */
    host__mask nodes;
} host_memory_of;

/* Notes what this thread has chosen, before host_prefer(). */
static void host_choose(host_memory_of *was) {
    *was = (host_memory_of){.mode = -1};
    if (syscall(SYS_get_mempolicy, &was->mode, was->nodes.bit, (unsigned long)HOST_NODE_NUMBERS, NULL, 0ul)) was->mode = -1;
}

/* Memory that this thread writes first comes from that node, -1: from that of its CPU, as long as it has any. */
static void host_prefer(int memory) {
    host__mask m = {{0}};
    if (memory >= 0) host__mask_add(&m, memory);
    if (memory < 0) syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0ul);
    else syscall(SYS_set_mempolicy, MPOL_PREFERRED, m.bit, (unsigned long)HOST_NODE_NUMBERS);
}

/* As it was at host_choose(). */
static void host_restore(const host_memory_of *was) {
    if (was->mode == MPOL_DEFAULT || was->mode < 0) host_prefer(-1);
    else syscall(SYS_set_mempolicy, was->mode, was->nodes.bit, (unsigned long)HOST_NODE_NUMBERS);
}

/* Makes the system allocate the pages whose first byte is in [p, p + n) and that are not allocated. They still read as zeros. */
static void host_touch(uint8_t *p, size_t n) {
    const uintptr_t begin = ((uintptr_t)p + HOST_PAGE - 1) & ~(uintptr_t)(HOST_PAGE - 1);
    for (volatile uint8_t *at = (uint8_t *)begin; at < p + n; at += HOST_PAGE) *at = 0;
}

/* Memory that this thread, and those that it starts, write first or read from files comes from all nodes in turn. False: the
 * kernel does not do that. */
static bool host_interleave(const host_nodes *on) {
    host__mask m = {{0}};
    for (int k = 0; k < on->n; k++)
        if (on->node[k].memory >= 0) host__mask_add(&m, on->node[k].memory);
    return syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, m.bit, (unsigned long)HOST_NODE_NUMBERS) == 0;
}

/* Starts a thread. Signals go to the others, but for a fault of its own, which is handled where it happens. Returns 0, or the
 * number of an error. */
static int host_thread(pthread_t *to, void *(*fn)(void *arg), void *arg) {
    sigset_t all, old;
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGSEGV);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    const int why = pthread_create(to, NULL, fn, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return why;
}
