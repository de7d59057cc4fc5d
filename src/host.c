/* ===== [host] limits of this machine =====
 * What this process may use of the machine: CPUs and memory, as the kernel, the affinity mask and the cgroups (versions 1 and
 * 2) limit them. A limit of a cgroup holds for every cgroup below it, so all directories up to the root are read.
 * A file that is missing or unreadable sets no limit. Values are read anew by every call.
 * Public: host_cpus, host_memory, host_cpu_wait, host_read_bytes. */

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

/* Bytes that this process may still take: the least of what the machine, its cgroups and its own limit leave. UINT64_MAX:
 * unknown. An estimate: other processes take memory too. */
static uint64_t host_memory(void) {
    const uint64_t free_kib = host__number("/proc/meminfo", "MemAvailable");
    uint64_t       most = free_kib ? free_kib * 1024 : UINT64_MAX;
    struct rlimit  own;
    long long      pages[2];
    host__cgroups("memory", host__memory_left, &most);
    if (getrlimit(RLIMIT_AS, &own) || own.rlim_cur == RLIM_INFINITY) return most;
    if (host__read_pair("/proc/self/statm", pages) < 1) return most;
    const uint64_t held = (uint64_t)pages[0] * (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t left = own.rlim_cur > held ? own.rlim_cur - held : 0;
    return left < most ? left : most;
}
