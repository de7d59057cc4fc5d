/* Limits of this machine: CPUs and memory as the affinity mask and the cgroups allow them. */
#include "program.h"
#include "check.h"
#include "t_base.h"

static bool t_host_pin(int n_cpu) {                   /* this process to the first n of the CPUs it has */
    cpu_set_t all, few;
    if (sched_getaffinity(0, sizeof all, &all)) return false;
    CPU_ZERO(&few);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&few) < n_cpu; i++)
        if (CPU_ISSET(i, &all)) CPU_SET(i, &few);
    return CPU_COUNT(&few) == n_cpu && sched_setaffinity(0, sizeof few, &few) == 0;
}

typedef struct {
    const char *path, *text;
} t_host_file;

/* Writes the files of a cgroup tree under root, making their folders; NULL ends the list. */
static void t_host_write_tree(const char *root, const t_host_file *f) {
    for (; f->path; f++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", root, f->path);
        for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); at++) {
            *at = 0;
            mkdir(path, 0700);
            *at = '/';
        }
        FILE *out = fopen(path, "w");
        if (!CHECKF(out != NULL, "cannot write %s", path)) return;
        fputs(f->text, out);
        fclose(out);
    }
}

static void t_host_remove_tree(const char *root, const t_host_file *f) {
    for (; f->path; f++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", root, f->path);
        unlink(path);
    }
    for (int depth = 0; depth < 3; depth++) {         /* the deepest first; a folder that is not there is no matter */
        static const char *const dirs[] = {"a/b/c", "a/b", "a"};
        char                     path[512];
        snprintf(path, sizeof path, "%s/%s", root, dirs[depth]);
        rmdir(path);
    }
}

enum { T_HOST_MOST = 64 };

static const struct {
    const char *what, *dir;
    bool        v2;
    int         want;
    t_host_file files[7];
} t_host_quotas[] = {
    {"nothing there", "/a/b", true, 64, {{0}}},
    {"no limit", "/a", true, 64, {{"a/cpu.max", "max 100000\n"}}},
    {"two CPUs", "/a", true, 2, {{"a/cpu.max", "200000 100000\n"}}},
    {"two and a half", "/a", true, 2, {{"a/cpu.max", "250000 100000\n"}}},
    {"just below three", "/a", true, 2, {{"a/cpu.max", "299999 100000\n"}}},
    {"half a CPU", "/a", true, 1, {{"a/cpu.max", "50000 100000\n"}}},
    {"next to nothing", "/a", true, 1, {{"a/cpu.max", "1 1000000\n"}}},
    {"another period", "/a", true, 4, {{"a/cpu.max", "40000 10000"}}},
    {"above what there is", "/a", true, 64, {{"a/cpu.max", "6500000 100000\n"}}},
    {"as much as there is", "/a", true, 64, {{"a/cpu.max", "6400000 100000\n"}}},
    {"beyond 32 bits", "/a", true, 64, {{"a/cpu.max", "9223372036854775807 1\n"}}},
    {"a period beyond 32 bits", "/a", true, 3, {{"a/cpu.max", "30000000000 10000000000\n"}}},
    {"the leaf is tighter", "/a/b/c", true, 2, {{"a/cpu.max", "400000 100000\n"}, {"a/b/cpu.max", "max 100000\n"},
                                                {"a/b/c/cpu.max", "200000 100000\n"}}},
    {"the middle is tighter", "/a/b/c", true, 3, {{"a/cpu.max", "800000 100000\n"}, {"a/b/cpu.max", "300000 100000\n"},
                                                  {"a/b/c/cpu.max", "900000 100000\n"}}},
    {"the top is tighter", "/a/b/c", true, 1, {{"a/cpu.max", "100000 100000\n"}, {"a/b/cpu.max", "max 100000\n"},
                                               {"a/b/c/cpu.max", "max 100000\n"}}},
    {"only the root, as in a container", "/docker/0123", true, 5, {{"cpu.max", "500000 100000\n"}}},
    {"the root itself", "/", true, 5, {{"cpu.max", "500000 100000\n"}}},
    {"below us is not ours", "/a", true, 64, {{"a/cpu.max", "max 100000\n"}, {"a/b/cpu.max", "100000 100000\n"}}},
    {"a neighbour is not ours", "/a/b", true, 64, {{"a/cpu.max", "max 100000\n"}, {"a/b/c/cpu.max", "100000 100000\n"}}},
    {"not numbers", "/a", true, 64, {{"a/cpu.max", "many\n"}}},
    {"empty", "/a", true, 64, {{"a/cpu.max", ""}}},
    {"no period", "/a", true, 64, {{"a/cpu.max", "200000\n"}}},
    {"period zero", "/a", true, 64, {{"a/cpu.max", "200000 0\n"}}},
    {"negative", "/a", true, 64, {{"a/cpu.max", "-200000 100000\n"}}},
    {"version 1 files are not read as 2", "/a", true, 64, {{"a/cpu.cfs_quota_us", "100000\n"},
                                                           {"a/cpu.cfs_period_us", "100000\n"}}},
    {"v1, no limit", "/a", false, 64, {{"a/cpu.cfs_quota_us", "-1\n"}, {"a/cpu.cfs_period_us", "100000\n"}}},
    {"v1, four CPUs", "/a", false, 4, {{"a/cpu.cfs_quota_us", "400000\n"}, {"a/cpu.cfs_period_us", "100000\n"}}},
    {"v1, one and a half", "/a", false, 1, {{"a/cpu.cfs_quota_us", "150000\n"}, {"a/cpu.cfs_period_us", "100000\n"}}},
    {"v1, a tenth", "/a", false, 1, {{"a/cpu.cfs_quota_us", "10000\n"}, {"a/cpu.cfs_period_us", "100000\n"}}},
    {"v1, no period", "/a", false, 64, {{"a/cpu.cfs_quota_us", "100000\n"}}},
    {"v1, the top is tighter", "/a/b", false, 2, {{"a/cpu.cfs_quota_us", "200000\n"}, {"a/cpu.cfs_period_us", "100000\n"},
                                                  {"a/b/cpu.cfs_quota_us", "-1\n"}, {"a/b/cpu.cfs_period_us", "100000\n"}}},
    {"v1, the leaf is tighter", "/a/b", false, 3, {{"a/cpu.cfs_quota_us", "900000\n"}, {"a/cpu.cfs_period_us", "100000\n"},
                                                   {"a/b/cpu.cfs_quota_us", "150000\n"}, {"a/b/cpu.cfs_period_us", "50000\n"}}},
    {"v1, only the root", "/docker/0123", false, 2, {{"cpu.cfs_quota_us", "200000\n"}, {"cpu.cfs_period_us", "100000\n"}}},
};

static void t_host_quota(void) {
    char root[] = "/tmp/llmrun-quota-XXXXXX";
    if (!mkdtemp(root)) SKIP("no folder for temporary files");
    for (size_t i = 0; i < sizeof t_host_quotas / sizeof *t_host_quotas; i++) {
        const t_host_file *f = t_host_quotas[i].files;
        t_host_write_tree(root, f);
        int got = T_HOST_MOST, one = 1;
        host__visit_up(root, t_host_quotas[i].dir, t_host_quotas[i].v2, host__cpu_quota, &got);
        host__visit_up(root, t_host_quotas[i].dir, t_host_quotas[i].v2, host__cpu_quota, &one);
        CHECKF(got == t_host_quotas[i].want, "%s: %d CPUs, want %d", t_host_quotas[i].what, got, t_host_quotas[i].want);
        EQ_INT(one, 1);                               /* never more than there are */
        t_host_remove_tree(root, f);
    }
    CHECKF(rmdir(root) == 0, "%s is not empty", root);
}

static const struct {
    const char *what, *dir;
    bool        v2;
    uint64_t    want;
    t_host_file files[7];
} t_host_limits[] = {
    {"nothing there", "/a", true, 1 << 30, {{0}}},
    {"no limit", "/a", true, 1 << 30, {{"a/memory.max", "max\n"}, {"a/memory.current", "5\n"}}},
    {"half of it is taken", "/a", true, 5000, {{"a/memory.max", "10000\n"}, {"a/memory.current", "5000\n"}}},
    {"files give way", "/a", true, 7300, {{"a/memory.max", "10000\n"}, {"a/memory.current", "5000\n"},
                                         {"a/memory.stat", "anon 2700\nfile 2300\ninactive_file 2000\nactive_file 300\n"}}},
    {"more files than are counted", "/a", true, 10000, {{"a/memory.max", "10000\n"}, {"a/memory.current", "5\n"},
                                                        {"a/memory.stat", "active_file 300\n"}}},
    {"over the limit", "/a", true, 0, {{"a/memory.max", "10000\n"}, {"a/memory.current", "10001\n"}}},
    {"the top is tighter", "/a/b", true, 10, {{"a/memory.max", "100\n"}, {"a/memory.current", "90\n"},
                                              {"a/b/memory.max", "100\n"}, {"a/b/memory.current", "9\n"}}},
    {"a limit alone says nothing", "/a", true, 1 << 30, {{"a/memory.max", "100\n"}}},
    {"v1", "/a", false, 4096 + 50, {{"a/memory.limit_in_bytes", "8192\n"}, {"a/memory.usage_in_bytes", "4096\n"},
                                    {"a/memory.stat", "inactive_file 7\ntotal_inactive_file 20\ntotal_active_file 30\n"}}},
    {"v1, no limit", "/a", false, 1 << 30, {{"a/memory.limit_in_bytes", "9223372036854771712\n"},
                                            {"a/memory.usage_in_bytes", "4096\n"}}},
};

static void t_host_memory(void) {
    char root[] = "/tmp/llmrun-limit-XXXXXX";
    if (!mkdtemp(root)) SKIP("no folder for temporary files");
    for (size_t i = 0; i < sizeof t_host_limits / sizeof *t_host_limits; i++) {
        uint64_t got = 1 << 30;
        t_host_write_tree(root, t_host_limits[i].files);
        host__visit_up(root, t_host_limits[i].dir, t_host_limits[i].v2, host__memory_left, &got);
        CHECKF(got == t_host_limits[i].want, "%s: %llu bytes, want %llu", t_host_limits[i].what, GGUF_U(got),
               GGUF_U(t_host_limits[i].want));
        t_host_remove_tree(root, t_host_limits[i].files);
    }
    CHECKF(rmdir(root) == 0, "%s is not empty", root);
    CHECK(host_memory() > 1 << 20);
}

static void t_host_cpus_of(int n_cpu) {            /* the answer under an affinity mask of n CPUs */
    if (!t_host_pin(n_cpu)) _exit(77);
    _exit(host_cpus());
}

static void t_host_affinity(void) {
    char      said[256];
    cpu_set_t set;
    const int most = host_cpus(), cpus = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    CHECKF(most >= 1 && most <= cpus, "%d threads on %d CPUs", most, cpus);
    for (int n = 1; n <= cpus && n <= 4; n++) {
        const int got = t_base_child(t_host_cpus_of, n, said, sizeof said);
        if (got == 77) SKIP("this process may not choose its CPUs");
        EQ_INT(got, n < most ? n : most);             /* the mask, unless the quota is tighter */
    }
}

static const t_case t_host_cases[] = {
    {"host quota", "the tightest cgroup limit, rounded down, versions 1 and 2", t_host_quota},
    {"host memory", "the tightest limit of memory; files that are no numbers set none", t_host_memory},
    {"host affinity", "the affinity mask is the most that is used", t_host_affinity},
};
static const t_suite t_host_suite = SUITE(t_host_cases);
