/* Many threads and memory nodes, on any machine: nodes of fake system folders, tasks as nodes get them, placement page by page,
 * texts on made-up nodes, and what 2 to 128 threads would wait for in a step.
 *   The last is a simulation. It goes through the plan of a model with the sizes of a real one, whose weights are a hole in a file,
 * deals every stage by the functions of [pool] to virtual threads, the one whose clock is behind first, and counts what a task
 * costs instead of running it. Costs are a table of numbers (tcs_cost): no clock, no processor. T_CORES=1 prints idle shares of all
 * shapes, numbers of threads and kinds of steps; bench/NOTES.md holds them against real runs. */
#include "program.h"
#include "check.h"
#include "t_base.h"
#include "t_host.h"
#include "t_fwd.h"

/* --- nodes, as the kernel's files tell of them --- */

typedef struct {
    const char *what, *text;                          /* text: LLMRUN_TOPOLOGY */
    int         may;                                  /* CPUs [0, may) are in the affinity mask */
    t_host_file files[9];
    const char *want;                                 /* memory:CPUs of each node; NULL: an error */
    const char *error;                                /* a part of it */
} tcs_tree;

#define TCS_NODE "sys/devices/system/node/"
static const tcs_tree tcs_trees[] = {
    {"two nodes", NULL, 64, {{TCS_NODE "online", "0-1\n"}, {TCS_NODE "has_memory", "0-1\n"}, {TCS_NODE "node0/cpulist", "0-3,8\n"},
                             {TCS_NODE "node1/cpulist", "4-7\n"}}, "0:5 1:4", NULL},
    {"numbers with a gap", NULL, 64, {{TCS_NODE "online", "0,8\n"}, {TCS_NODE "node0/cpulist", "0-1\n"},
                                      {TCS_NODE "node8/cpulist", "2-3\n"}}, "0:2 8:2", NULL},
    {"a node without memory", NULL, 64, {{TCS_NODE "online", "0-1\n"}, {TCS_NODE "has_memory", "1\n"},
                                         {TCS_NODE "node0/cpulist", "0-1\n"}, {TCS_NODE "node1/cpulist", "2-3\n"}}, "-1:2 1:2", NULL},
    {"a node without CPUs", NULL, 64, {{TCS_NODE "online", "0-1\n"}, {TCS_NODE "node0/cpulist", "0-1\n"},
                                       {TCS_NODE "node1/cpulist", "\n"}}, "0:2", NULL},
    {"memory that a cpuset forbids", NULL, 64, {{TCS_NODE "online", "0-1\n"}, {TCS_NODE "has_memory", "0-1\n"},
                                                {TCS_NODE "node0/cpulist", "0\n"}, {TCS_NODE "node1/cpulist", "1\n"},
                                                {"proc/self/status", "Name:\tx\nMems_allowed_list:\t0\n"}}, "0:1 -1:1", NULL},
    {"CPUs that are off-line", NULL, 64, {{TCS_NODE "online", "0-1\n"}, {"sys/devices/system/cpu/online", "0,2-3\n"},
                                          {TCS_NODE "node0/cpulist", "0-1\n"}, {TCS_NODE "node1/cpulist", "2-3\n"}}, "0:1 1:2", NULL},
    {"a node whose CPUs are all off-line", NULL, 64, {{TCS_NODE "online", "0-1\n"}, {"sys/devices/system/cpu/online", "2-3\n"},
                                                      {TCS_NODE "node0/cpulist", "0-1\n"}, {TCS_NODE "node1/cpulist", "2-3\n"}}, "1:2", NULL},
    {"an affinity mask", NULL, 3, {{TCS_NODE "online", "0-1\n"}, {TCS_NODE "node0/cpulist", "0-1\n"},
                                   {TCS_NODE "node1/cpulist", "2-3\n"}}, "0:2 1:1", NULL},
    {"CPUs beyond the mask's size", NULL, 64, {{TCS_NODE "online", "0\n"}, {TCS_NODE "node0/cpulist", "0-1,5000\n"}}, "0:2", NULL},
    {"made up", "3x4", 64, {{TCS_NODE "has_memory", "0\n"}}, "0:4 0:4 0:4", NULL},
    {"made up, memory of two nodes in turn", "3x1", 64, {{TCS_NODE "has_memory", "0,5\n"}}, "0:1 5:1 0:1", NULL},
    {"made up, no files", "2x8", 64, {{0}}, "0:8 0:8", NULL},
    {"no files", NULL, 64, {{0}}, NULL, "node/online cannot be read"},
    {"a list that is none", NULL, 64, {{TCS_NODE "online", "0-x\n"}}, NULL, "expected numbers such as 0-3,8"},
    {"an empty file", NULL, 64, {{TCS_NODE "online", ""}}, NULL, "expected numbers"},
    {"a range that falls", NULL, 64, {{TCS_NODE "online", "3-1\n"}}, NULL, "expected numbers"},
    {"a node without a list", NULL, 64, {{TCS_NODE "online", "0-1\n"}, {TCS_NODE "node0/cpulist", "0\n"}}, NULL, "node1/cpulist cannot"},
    {"a node's list that is none", NULL, 64, {{TCS_NODE "online", "0\n"}, {TCS_NODE "node0/cpulist", "0-99999999999999999999z\n"}},
     NULL, "node0/cpulist: expected"},
    {"no CPU is left", NULL, 1, {{TCS_NODE "online", "0\n"}, {TCS_NODE "node0/cpulist", "7\n"}}, NULL, "no node has a CPU"},
    {"made up of nothing", "0x8", 64, {{0}}, NULL, "'0x8', expected nodes and CPUs"},
    {"made up of words", "two", 64, {{0}}, NULL, "'two'"},
    {"made up, more after it", "2x8x", 64, {{0}}, NULL, "'2x8x'"},
    {"made up, too many", "33x1", 64, {{0}}, NULL, "'33x1'"},
    {"made up, too many CPUs", "32x1000", 64, {{0}}, NULL, "'32x1000'"},
};

static void tcs_topology(void) {
    for (size_t i = 0; i < sizeof tcs_trees / sizeof *tcs_trees; i++) {
        const tcs_tree *t = &tcs_trees[i];
        char           root[] = "/tmp/llmrun_nodes_XXXXXX", said[256] = "";
        cpu_set_t      may;
        host_nodes     on;
        err_t          e = {0};
        if (!CHECK(mkdtemp(root) != NULL)) return;
        t_host_write_tree(root, t->files);
        CPU_ZERO(&may);
        for (int c = 0; c < t->may; c++) CPU_SET(c, &may);
        const bool ok = host__nodes_find(root, t->text, &may, &on, &e);
        for (int k = 0, n = 0; ok && k < on.n; k++)
            n += snprintf(said + n, sizeof said - (size_t)n, "%s%d:%d", k ? " " : "", on.node[k].memory, on.node[k].n_cpus);
        if (t->want) CHECKF(ok && strcmp(said, t->want) == 0, "%s: '%s', want '%s' (%s)", t->what, said, t->want, e.text);
        else CHECKF(!ok && strstr(e.text, t->error) && !host__nodes_find(root, t->text, &may, &on, NULL), "%s: '%s' '%s'", t->what, said, e.text);
        char command[128];
        snprintf(command, sizeof command, "rm -r %s", root);
        CHECK(system(command) == 0);
    }
}

/* --- virtual teams --- */

/* A team without threads: `nodes` as LLMRUN_TOPOLOGY has them, "": memory is not placed. */
static pool *tcs_team(int n, const char *nodes) {
    host_nodes on;
    cpu_set_t  may;
    memset(&may, 0xff, sizeof may);
    if (*nodes && !CHECK(host__nodes_find("", nodes, &may, &on, NULL))) return NULL;
    pool *p = pool__lay_out(n, *nodes ? &on : NULL);
    p->places = p->n_node > 1;
    for (int i = 0; i < n; i++) p->seat[i].here = true;
    return p;
}

static void tcs_team_free(pool *p) {
    mem_free_all(p->thread, p->seat, p->group);
    mem_free(p);
}

/* Seats lie in groups of at most POOL_GROUP, groups on one node each, nodes in proportion to their CPUs. */
static void tcs_groups(void) {
    static const struct { int n; const char *nodes, *want; } rows[] = {
        {1, "", "1"}, {2, "", "2"}, {8, "", "8"}, {9, "", "4 5"}, {64, "", "8 8 8 8 8 8 8 8"}, {20, "", "6 7 7"}, {16, "2x8", "8|8"},
        {16, "4x4", "4|4|4|4"}, {2, "2x8", "1|1"}, {3, "2x8", "1|2"}, {3, "4x4", "1|1|1"}, {1, "4x4", "1"}, {40, "2x8", "6 7 7|6 7 7"}, {17, "1x8", "5 6 6"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pool *p = tcs_team(rows[i].n, rows[i].nodes);
        str   is = {0};
        int   seen = 0;
        for (int k = 0; k < p->n_group; k++) {
            const pool_group *g = &p->group[k];
            str_fmt(&is, "%s%d", !k ? "" : g->node == p->group[k - 1].node ? " " : "|", g->n);
            EQ_INT(g->from, seen);
            for (int j = 0; j < g->n; j++) CHECK(p->seat[seen + j].group == g);
            seen += g->n;
        }
        EQ_INT(seen, rows[i].n);
        EQ_STR(is.p, rows[i].want);
        str_drop(&is);
        tcs_team_free(p);
    }
}

/* Deals n tasks to virtual threads in a mixed order; `node`: which took each. */
static void tcs_deal(pool *p, int n, const int *at, int how, uint32_t stage, uint8_t *node) {
    int   left = p->n, got = 0;
    bool *done = mem_new((size_t)p->n, sizeof *done);
    memset(node, 0xff, (size_t)n);
    for (uint32_t x = 1; left;) {
        const int i = (int)((x = x * 1664525 + 1013904223) >> 8) % p->n;
        if (done[i]) continue;
        t_seat = &p->seat[i];
        t_seat->stage = stage;
        const int task = how == 0 ? pool_take(p, n, at) : how == 1 ? pool_deal(p, n, at) : pool_own(n, at);
        if (task == POOL_NONE) {
            done[i] = true;
            left--;
            continue;
        }
        if (!CHECK(task >= 0 && task < n && node[task] == 0xff)) break;
        node[task] = (uint8_t)t_seat->group->node;
        got++;
    }
    t_seat = NULL;
    EQ_INT(got, n);
    mem_free(done);
}

/* Every task is taken once, whatever the way, the nodes and the threads; pool_own: by the node that it is meant for. */
static void tcs_dealing(void) {
    static const char *const nodes[] = {"", "2x8", "4x4", "3x5"};
    static const int         threads[] = {2, 3, 8, 16, 64, 128}, tasks[] = {0, 1, 7, 64, 1000};
    uint8_t                  node[1000];
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 6; b++) {
            pool    *p = tcs_team(threads[b], nodes[a]);
            uint32_t stage = 0;
            for (int c = 0; c < 5; c++) {
                int at[HOST_NODES + 1] = {0};
                for (int k = 1; k <= p->n_node; k++) at[k] = k == p->n_node ? tasks[c] : tasks[c] * k * k / p->n_node / p->n_node;
                for (int how = 0; how < 3; how++) {
                    const int *const to = p->n_node > 1 && (how == 2 || c % 2) ? at : NULL;
                    tcs_deal(p, tasks[c], to, how, stage++, node);
                    for (int i = 0, k = 0; how == 2 && to && i < tasks[c]; i++) {
                        while (i >= at[k + 1]) k++;
                        EQ_INT(node[i], k);
                    }
                }
            }
            tcs_team_free(p);
        }
}

/* A team of which only some threads could be started is whole: its groups and nodes hold them all, and its tasks are dealt. */
static void tcs_cut(void) {
    static const char *const nodes[] = {"", "2x8", "3x5"};
    uint8_t                  node[100];
    for (int a = 0; a < 3; a++)
        for (int n = 1; n <= 20; n++) {
            pool *p = tcs_team(20, nodes[a]);
            int   in_groups = 0, in_nodes = 0;
            pool__cut(p, n);
            EQ_INT(p->n, n);
            for (int k = 0; k < p->n_group; k++) {
                EQ_INT(p->group[k].from, in_groups);
                CHECK(p->group[k].n > 0 && p->group[k].node < p->n_node);
                in_groups += p->group[k].n;
            }
            for (int k = 0; k < p->n_node; k++) EQ_INT(p->node[k].from, in_nodes), in_nodes += p->node[k].n;
            EQ_INT(in_groups, n);
            EQ_INT(in_nodes, n);
            for (int how = 0; how < 2; how++) tcs_deal(p, 100, NULL, how, (uint32_t)how, node);
            tcs_team_free(p);
        }
}

/* A thread takes tasks of its own range, then of its group, of its node, and of other nodes last. */
static void tcs_order(void) {
    pool *p = tcs_team(40, "2x8");                     /* groups 6 7 7 | 6 7 7, two tasks for each thread */
    int   took[80];
    t_seat = &p->seat[8];                             /* of the second group */
    for (int i = 0; i < 80; i++) took[i] = pool_take(p, 80, NULL);
    EQ_INT(took[0], 16);
    EQ_INT(took[1], 17);
    for (int i = 0; i < 80; i++) {
        const int lo = i < 14 ? 12 : i < 40 ? 0 : 40, hi = i < 14 ? 26 : i < 40 ? 40 : 80;
        CHECKF(took[i] >= lo && took[i] < hi, "task %d comes as number %d", took[i], i);
    }
    EQ_INT(pool_take(p, 80, NULL), POOL_NONE);
    t_seat = NULL;
    tcs_team_free(p);
}

/* --- real teams on made-up nodes --- */

/* Sets the nodes of teams to come; NULL: none. */
static void tcs_nodes(const char *nodes) {
    if (nodes) setenv("LLMRUN_TOPOLOGY", nodes, 1);
    else unsetenv("LLMRUN_TOPOLOGY");
    pool_numa(nodes ? HOST_NUMA_DISTRIBUTE : HOST_NUMA_AUTO);
}

static const t_how tcs_how = {.level = "auto", .kv_type = K_BF16, .block = 32, .threads = 1, .packed = false};

/* The same logits, whatever the threads and nodes, packed and not, in steps of several rows. */
static void tcs_bits(void) {
    static const struct { const char *nodes; int threads; } rows[] = {{"2x8", 5}, {"4x4", 16}, {"2x1", 2}, {"3x2", 20}};
    static const char *const models[] = {"models/pip-q4_k_m.gguf", "tests/data/tiny/qwen3moe_q8_0.gguf"};
    int32_t                  ids[24];
    alarm(300);
    for (int i = 0; i < 24; i++) ids[i] = 5 + i * 7 % 90;
    for (int m = 0; m < 2; m++) {
        t_rig  r;
        float *want = NULL;
        for (int i = -1; i < 4; i++)
            for (int packed = 0; packed < 2; packed++) {
                t_how how = tcs_how;
                how.threads = i < 0 ? 1 : rows[i].threads;
                how.packed = packed;
                tcs_nodes(i < 0 ? NULL : rows[i].nodes);
                if (!t_rig_open(&r, models[m], &how)) return;
                if (i >= 0) EQ_INT(pool_nodes(r.p), rows[i].nodes[0] - '0');
                kv_place(r.kv, r.p);
                float *got = t_rig_logits(&r, ids, 24, 16);
                if (!want) want = got;
                else EQ_MEM(got, want, 24 * (size_t)r.m.hp.n_vocab * sizeof *got);
                if (got != want) mem_free(got);
                t_rig_close(&r);
            }
        mem_free(want);
    }
    tcs_nodes(NULL);
    alarm(0);
}

/* The node of a page; negative: it has no memory, or the kernel does not tell. */
static int tcs_where(void *page) {
    int is = -1;
    return syscall(SYS_move_pages, 0, 1ul, &page, NULL, &is, 0) ? -1 : is;
}

/* Pages of [p, p + n) that have memory and lie on another node than `memory`; counts those on it in *right. */
static int tcs_astray(uint8_t *p, size_t n, int memory, int *right) {
    int astray = 0;
    for (uint8_t *at = (uint8_t *)(((uintptr_t)p + 4095) & ~(uintptr_t)4095); at < p + n; at += 4096) {
        const int is = tcs_where(at);
        if (is < 0) continue;
        *right += is == memory;
        astray += is != memory;
    }
    return astray;
}

/* What is placed on a node follows each other, so that memory of a slab takes a system call for each node, not for each layer. */
static void tcs_runs(kv_cache *kv, pool *p) {
    for (int k = 0; k < p->n_node; k++) p->node[k].memory = k;
    for (int g = 0; g < kv->n_group; g++) kv->group[g].mem.n_spot = 0;
    kv_place(kv, p);
    for (int g = 0; g < kv->n_group; g++) {
        const dev_blocks *m = &kv->group[g].mem;
        int               runs = 0;
        for (int i = 0; i < m->n_spot; i++) runs += !i || m->spot[i].memory != m->spot[i - 1].memory;
        CHECK(m->n_spot > 2 * p->n_node);
        EQ_INT(runs, p->n_node);
    }
}

/* Packed rows lie on the node of the threads that multiply them, and keys and values of a head on that of its attention. */
static void tcs_placement(void) {
    int  right = 0, n_rows = 0;
    char here = 1;
    if (tcs_where((void *)((uintptr_t)&here & ~(uintptr_t)4095)) < 0) SKIP("this kernel does not tell where pages are");
    t_how how = tcs_how;
    t_rig r;
    how.threads = 4;
    how.packed = true;
    tcs_nodes("2x2");
    if (!t_rig_open(&r, "models/pip-q4_k_m.gguf", &how)) return;
    EQ_INT(r.m.n_packs, 2);
    int at = 0;
    for (const dev_mat *w; (w = model__mat(&r.m, &at));) {
        if (!w->parts) continue;
        EQ_INT(w->parts->n, 2);
        EQ_INT(w->parts->from[2], w->n_out);
        n_rows += w->parts->from[1];
        for (int k = 0; k < 2; k++) {
            EQ_INT(w->parts->from[k], dev_part_row(r.p, w->n_out, k));
            EQ_INT(tcs_astray(w->parts->at[k], w->parts->bytes[k] * (size_t)w->n_mat, pool_node_of(r.p, k)->memory, &right), 0);
        }
    }
    CHECKF(right > 100 && n_rows > 0, "%d pages, %d rows on the first node", right, n_rows);
    kv_place(r.kv, r.p);
    kv_seq *seq = kv_seq_new(r.kv);
    right = 0;
    CHECK(kv_reserve(seq, 32));
    for (int g = 0; g < r.kv->n_group; g++) {
        const dev_blocks *m = &r.kv->group[g].mem;
        CHECK(m->n_spot > 0);
        for (int i = 0; i < m->n_spot; i++)
            EQ_INT(tcs_astray(dev_block(m, seq->table[g][0]) + m->spot[i].at, m->spot[i].bytes, m->spot[i].memory, &right), 0);
    }
    CHECKF(right > 0, "%d pages of the cache", right);
    kv_seq_free(seq);
    tcs_runs(r.kv, r.p);
    t_rig_close(&r);
    tcs_nodes(NULL);
}

/* --- what many threads would wait for: the simulation --- */

/* Nanoseconds. Those of memory and arithmetic are of a server core of 2023 whose memory gives 400 GB/s to all cores; of the others,
 * what a line costs that moves between cores. */
typedef struct {
    double byte_one, byte_all;                        /* of a byte of memory: read by one core; by all of them together */
    double mac;                                       /* of a product of quantised weights, many columns */
    double mac_attend;                                /* of one of attention */
    double open;                                      /* of opening a weight for many columns */
    double value;                                     /* of a value that an operation on rows reads or writes */
    double op;                                        /* of beginning an operation or a task */
    double line;                                      /* of a line that another core has written */
} tcs_cost;

static const tcs_cost tcs_server = {.byte_one = 1 / 17.0, .byte_all = 1 / 400.0, .mac = 1 / 160.0, .mac_attend = 1 / 60.0,
                                  .open = 0.035, .value = 0.1, .op = 50, .line = 70};

typedef struct {
    const char *name, *arch;
    int         layers, wide, heads, kv_heads, head, ff, vocab, experts, used, expert_ff;    /* expert_ff: width of an expert */
} tcs_shape;

static const tcs_shape tcs_shapes[] = {
    {"1B", "llama", 22, 2048, 32, 4, 64, 5632, 32000, 0, 0, 0},
    {"8B", "llama", 32, 4096, 32, 8, 128, 14336, 128256, 0, 0, 0},
    {"A3B", "qwen3moe", 48, 2048, 32, 4, 128, 6144, 151936, 128, 8, 768},
};

/* A kind of step: rows of each of n sequences, after so many others. */
typedef struct {
    const char *name;
    int         seqs, rows, depth;
} tcs_step;

static const tcs_step tcs_steps[] = {
    {"decode", 1, 1, 128}, {"prefill 512", 1, 512, 0}, {"8 sequences", 8, 1, 128}, {"32 sequences", 32, 1, 128}, {"depth 8,000", 1, 1, 8000},
};

static void tcs_tensor(gguf_writer *w, int il, const char *name, uint32_t type, int64_t n_in, int64_t n_out, int64_t n_mat) {
    char           full[80];
    const uint64_t dim[3] = {(uint64_t)n_in, (uint64_t)n_out, (uint64_t)n_mat};
    if (il < 0) snprintf(full, sizeof full, "%s", name);
    else snprintf(full, sizeof full, "blk.%d.%s", il, name);
    gguf_write_tensor(w, bytes_of(full), type, n_mat ? 3 : n_out ? 2 : 1, dim);
}

static void tcs_key(gguf_writer *w, const tcs_shape *s, const char *key, int v) {
    char name[80];
    snprintf(name, sizeof name, "%s.%s", s->arch, key);
    gguf_write_u32(w, name, (uint32_t)v);
}

/* A model file of that shape, whose weights are a hole. Types are those of Q4_K_M. */
static void tcs_write(const tcs_shape *s, const char *path) {
    gguf_writer w = {.align = 32, .name = str_dup(path), .fd = -1};
    str         head = {0};
    const bool  moe = s->experts > 0;
    bytes      *tokens = mem_new((size_t)s->vocab, sizeof *tokens);
    char        eps[80];
    gguf_write_str(&w, "general.architecture", bytes_of(s->arch));
    tcs_key(&w, s, "context_length", 16384), tcs_key(&w, s, "embedding_length", s->wide), tcs_key(&w, s, "block_count", s->layers);
    tcs_key(&w, s, "feed_forward_length", s->ff), tcs_key(&w, s, "attention.head_count", s->heads);
    tcs_key(&w, s, "attention.head_count_kv", s->kv_heads), tcs_key(&w, s, "attention.key_length", s->head);
    tcs_key(&w, s, "attention.value_length", s->head);
    if (moe) tcs_key(&w, s, "expert_count", s->experts), tcs_key(&w, s, "expert_used_count", s->used), tcs_key(&w, s, "expert_feed_forward_length", s->expert_ff);
    snprintf(eps, sizeof eps, "%s.attention.layer_norm_rms_epsilon", s->arch);
    gguf_write_f32(&w, eps, 1e-5f);
    gguf_write_strs(&w, "tokenizer.ggml.tokens", tokens, (uint64_t)s->vocab);
    tcs_tensor(&w, -1, "token_embd.weight", K_Q4_K, s->wide, s->vocab, 0);
    tcs_tensor(&w, -1, "output_norm.weight", K_F32, s->wide, 0, 0);
    tcs_tensor(&w, -1, "output.weight", K_Q6_K, s->wide, s->vocab, 0);
    for (int il = 0; il < s->layers; il++) {
        const uint32_t more = il % 2 ? K_Q6_K : K_Q4_K;
        tcs_tensor(&w, il, "attn_norm.weight", K_F32, s->wide, 0, 0), tcs_tensor(&w, il, "ffn_norm.weight", K_F32, s->wide, 0, 0);
        tcs_tensor(&w, il, "attn_q.weight", K_Q4_K, s->wide, s->heads * s->head, 0), tcs_tensor(&w, il, "attn_k.weight", K_Q4_K, s->wide, s->kv_heads * s->head, 0);
        tcs_tensor(&w, il, "attn_v.weight", more, s->wide, s->kv_heads * s->head, 0), tcs_tensor(&w, il, "attn_output.weight", K_Q4_K, s->heads * s->head, s->wide, 0);
        if (moe) {
            tcs_tensor(&w, il, "attn_q_norm.weight", K_F32, s->head, 0, 0), tcs_tensor(&w, il, "attn_k_norm.weight", K_F32, s->head, 0, 0);
            tcs_tensor(&w, il, "ffn_gate_inp.weight", K_F32, s->wide, s->experts, 0);
            tcs_tensor(&w, il, "ffn_gate_exps.weight", K_Q4_K, s->wide, s->expert_ff, s->experts), tcs_tensor(&w, il, "ffn_up_exps.weight", K_Q4_K, s->wide, s->expert_ff, s->experts);
            tcs_tensor(&w, il, "ffn_down_exps.weight", more, s->expert_ff, s->wide, s->experts);
        } else {
            tcs_tensor(&w, il, "ffn_gate.weight", K_Q4_K, s->wide, s->ff, 0), tcs_tensor(&w, il, "ffn_up.weight", K_Q4_K, s->wide, s->ff, 0);
            tcs_tensor(&w, il, "ffn_down.weight", more, s->ff, s->wide, 0);
        }
    }
    gguf_write_head(&w, &head);
    const uint64_t data = (head.n + 31) & ~(uint64_t)31;
    FILE          *f = fopen(path, "w");
    CHECK(f && fwrite(head.p, 1, head.n, f) == head.n && !fflush(f) && !ftruncate(fileno(f), (off_t)(data + w.next)));
    if (f) fclose(f);
    mem_free_all(w.name, w.size);
    str_drop_all(&w.kv, &w.dir, &head);
    mem_free(tokens);
}

typedef struct {
    const tcs_cost *c;
    pool    *p;
    double  *clock;                                   /* [threads] */
    bool    *done;                                    /* [threads] at the barrier */
    double   now, busy;                               /* of the step */
    uint32_t stage;
} tcs_sim;

static double tcs_byte(const tcs_sim *s) { return fmax(s->c->byte_one, s->c->byte_all * s->p->n); }

/* Some rows of a product for some columns. */
static double tcs_product(const tcs_sim *s, const dev_product *m, double nr, double n) {
    const double weights = nr * m->w->n_in, read = nr * (double)m->w->row_bytes * tcs_byte(s);
    return fmax(read, weights * n * s->c->mac) + (n > 8 ? weights * s->c->open : 0) + s->c->op;
}

/* A task of attention: query rows that see some positions of a head. */
static double tcs_attend(const tcs_sim *s, const k_attn_args *a, int64_t from, int64_t end) {
    double rows = 0, most = 0;
    for (int r = 0; r < a->n_rows; r++) {
        const double seen = fmax(0, (double)(min_i64(end, a->rows[r].end) - max_i64(from, a->rows[r].begin)));
        rows += seen;
        most = fmax(most, seen);
    }
    const double position = (double)(k_kv_bytes(a->type_k, a->hd_k) + k_kv_bytes(a->type_v, a->hd_v));
    return fmax(rows * (a->hd_k + a->hd_v) * s->c->mac_attend, most * position * tcs_byte(s)) + s->c->op;
}

/* The operations that a task of rows goes through: as dev__task() finds them. */
static double tcs_rows(const tcs_sim *s, const dev *dv, const dev_phase *ph, int task) {
    const dev_op *op = &dv->run->plan->op[ph->first], *end = op + ph->n;
    double        ns = 0;
    for (int n; task >= (n = dev__count(dv->run, op)); task -= n)
        do op++;
        while (!op->beside);
    do {
        double values = op->row->width(op);
        for (int i = 0; i < 3; i++) values += op->in[i] ? op->row->reads(op, i) : 0;
        if (op->kind == OPS_STORE) values *= 2;
        if (op->kind == OPS_GROUP) values = 2.0 * dv->run->plan->rows[op->rows].n * op->experts.used + 3 * op->experts.n;
        ns += values * s->c->value + s->c->op;
        op++;
    } while (op < end && !op->beside);
    return ns;
}

static double tcs_task(const tcs_sim *s, const dev *dv, const dev_stage *st, int task) {
    if (st->fn == ops__mul_task) {
        int                r, nr, t, n;
        const dev_product *m = ops__task(dv, st->ctx, task, &r, &nr, &t, &n);
        return tcs_product(s, m, nr, n);
    }
    const dev_op *op = &dv->run->plan->op[dv->phase ? dv->phase->first : 0];
    if (st->fn == ops__attend_segment) {
        const ops_attend_stage *of = st->ctx;
        ops_segments      seg = {.deal = of->deal};
        int               k = task % of->all;
        const int         i = ops__find_run(dv->run, of->op, &k, &seg);
        const k_attn_args a = ops__attend_rows(dv, of->op, i, task / of->all, of->deal);
        return tcs_attend(s, &a, (seg.first + k) * K_SEGMENT, (seg.first + k + 1) * K_SEGMENT);
    }
    if (st->fn == ops__attend_merge) return 4 * s->c->op;
    if (op->kind == OPS_ATTEND) {
        const int         n_run = dv->run->plan->rows[op->rows].n_run, deal = ops__attend_deal(dv->run, op, n_run);
        const k_attn_args a = ops__attend_rows(dv, op, n_run - 1 - task % n_run, task / n_run, deal);
        return tcs_attend(s, &a, 0, INT64_MAX);
    }
    return tcs_rows(s, dv, dv->phase, task);
}

/* Experts of each row as a router might choose them, and what OPS_GROUP makes of them. */
static void tcs_group(const dev *dv, const dev_op *op) {
    for (int r = 0; r < dv->run->plan->rows[op->rows].n; r++) {
        const uint32_t x = (uint32_t)(r * 40503 + op->layer * 9973) * 2654435761u;
        for (int i = 0; i < op->experts.used; i++)
            dev_ints(ops__in(dv, op, 0, r))[i] = (int32_t)((x >> 8) + (uint32_t)i * (x >> 20 | 1)) % op->experts.n;
    }
    ops__group(dv, op, 0);
}

static void tcs_stage(void *ctx, const dev *dv, const dev_stage *st) {
    tcs_sim *s = ctx;
    double  last = s->now;
    int     left = s->p->n;
    const int lines = s->p->n_group + s->p->group[0].n;
    for (int i = 0; i < s->p->n; i++) s->clock[i] = s->now, s->done[i] = false;
    if (st->n == 1 && dv->phase && dv->run->plan->op[dv->phase->first].kind == OPS_GROUP && st->fn == dev__row_task)
        tcs_group(dv, &dv->run->plan->op[dv->phase->first]);
    while (left) {
        int first = -1;
        for (int i = 0; i < s->p->n; i++)
            if (!s->done[i] && (first < 0 || s->clock[i] < s->clock[first])) first = i;
        t_seat = &s->p->seat[first];
        t_seat->stage = s->stage;
        const int task = (st->seats ? pool_take : pool_deal)(s->p, st->n, st->at);
        t_seat = &s->p->seat[0];
        if (task == POOL_NONE) {
            s->done[first] = true;
            left--;
            last = fmax(last, s->clock[first] + lines * s->c->line / 2);
            continue;
        }
        const double ns = tcs_task(s, dv, st, task);
        s->clock[first] += ns;
        s->busy += ns;
    }
    s->now = last;
}

/* A barrier: lines of the last group, of the team, and back. */
static void tcs_close(void *ctx, const dev *dv, bool task) {
    tcs_sim *s = ctx;
    if (s->p->n > 1) s->now += s->c->line * (s->p->group[0].n + (s->p->n_group > 1 ? 2 * s->p->n_group : 0) + 1);
    s->stage++;
    for (int i = 0; i < s->p->n; i++) s->p->seat[i].stage = s->stage;
    if (!task) return;
    const dev_op *op = &dv->run->plan->op[dv->phase->first];
    if (op->kind == OPS_GROUP) tcs_group(dv, op);
    const dev_stage st = {.n = 1, .fn = dev__row_task, .ctx = dv->phase};
    const double    ns = tcs_task(s, dv, &st, 0);
    s->now += ns;
    s->busy += ns;
}

/* Milliseconds of a step, and its idle share. Layers that are not simulated are as the others are. */
static double tcs_run(const tcs_shape *shape, const char *path, const tcs_step *step, int threads, const char *nodes, const tcs_cost *c, double *ms) {
    gguf_file g;
    model     m;
    err_t     e = {0};
    double    idle = -1;
    if (!CHECKF(gguf_open(&g, path, &e), "%s", e.text)) return 1;
    if (!CHECKF(model_open(&m, &g, &rope_defaults, &e), "%s", e.text)) return 1;
    const int      n = step->seqs * step->rows, n_out = step->rows > 1 ? 1 : step->seqs;
    const kv_opts  ko = {.type_k = K_BF16, .type_v = K_BF16, .block = 32};
    kv_cache      *kv = kv_new(&m.hp, &ko, (kv_load){.tokens = (int64_t)step->seqs * (step->depth + step->rows + 32)}, &e);
    pool          *p = tcs_team(threads, nodes);
    fwd           *f = fwd_new(&m, kv, p, n, n_out, FWD_LOGITS);
    kv_seq       **seq = mem_new((size_t)step->seqs, sizeof *seq);
    tcs_sim         s = {.c = c, .p = p, .clock = mem_new((size_t)threads, sizeof *s.clock), .done = mem_new((size_t)threads, sizeof *s.done)};
    const dev_stages see = {tcs_stage, tcs_close, &s};
    fwd_begin(f);
    for (int q = 0; q < step->seqs; q++) {
        seq[q] = kv_seq_new(kv);
        CHECK(kv_reserve(seq[q], step->depth + step->rows));
        for (int i = 0; i < step->rows; i++) fwd_add(f, seq[q], 1, step->depth + i, step->rows == 1 || i + 1 == step->rows ? FWD_LOGITS : 0);
    }
    f->run.stages = &see;
    t_seat = &p->seat[0];
    fwd__write_tables(f);
    dev__prepare(&f->run);
    dev__main(&f->run, 0);
    t_seat = NULL;
    (void)shape;
    idle = 1 - s.busy / (s.now * threads);
    *ms = s.now / 1e6;
    for (int q = 0; q < step->seqs; q++) kv_seq_free(seq[q]);
    mem_free_all(seq, s.clock, s.done);
    fwd_free(f);
    kv_free(kv);
    tcs_team_free(p);
    model_close(&m);
    gguf_close(&g);
    return idle;
}

/* Bounds of the 8B shape on 64 threads, for 32 sequences and behind 8,000 tokens as for decoding; with T_CORES=1 the whole table. */
static void tcs_idle(void) {
    static const struct { int step; double most; } bounds[] = {{0, 0.15}, {1, 0.10}, {3, 0.15}, {4, 0.15}};
    const char *all = getenv("T_CORES");
    char        path[] = "/tmp/llmrun_shape_XXXXXX";
    const int   fd = mkstemp(path);
    if (!CHECK(fd >= 0)) return;
    close(fd);
    k_init(all ? "auto" : "scalar");
    for (size_t i = 0; i < sizeof tcs_shapes / sizeof *tcs_shapes; i++) {
        const tcs_shape *shape = &tcs_shapes[i];
        double          ms;
        if (!all && strcmp(shape->name, "8B") != 0) continue;
        tcs_write(shape, path);
        for (int k = 0; !all && k < (int)(sizeof bounds / sizeof *bounds); k++) {
            const double idle = tcs_run(shape, path, &tcs_steps[bounds[k].step], 64, "", &tcs_server, &ms);
            CHECKF(idle >= 0 && idle <= bounds[k].most, "%s, 64 threads, %s: %.1f %% idle", shape->name, tcs_steps[bounds[k].step].name, 100 * idle);
        }
        for (int k = 0; all && k < (int)(sizeof tcs_steps / sizeof *tcs_steps); k++) {
            fprintf(stderr, "| %s | %s |", shape->name, tcs_steps[k].name);
            for (int t = 0; t < 4; t++) {
                const double idle = tcs_run(shape, path, &tcs_steps[k], (int[]){2, 16, 64, 128}[t], t > 1 ? "2x64" : "", &tcs_server, &ms);
                fprintf(stderr, " %.1f (%.2f ms) |", 100 * idle, ms);
            }
            fputc('\n', stderr);
        }
    }
    unlink(path);
    k_init("auto");
}

static const t_case t_cores_cases[] = {
    {"cores topology", "memory nodes, their CPUs and memory, by files of the kernel that are whole, odd or broken", tcs_topology},
    {"cores groups", "threads of a team lie in groups, and groups on nodes in proportion to CPUs", tcs_groups},
    {"cores dealing", "every task is dealt once, to any number of threads and nodes; tasks of a node's own to that node", tcs_dealing},
    {"cores cut", "a team of which fewer threads could be started has groups, nodes and tasks for these alone", tcs_cut},
    {"cores order", "a thread without tasks takes those of its group, its node, other nodes, in this order", tcs_order},
    {"cores bits", "logits are the same on 2 x 8, 4 x 4 and uneven nodes, with more threads than CPUs, packed and not", tcs_bits},
    {"cores placement", "packed rows and heads of the cache lie on the node whose threads read them, page by page", tcs_placement},
    {"cores idle", "64 threads idle for at most 15 % of decoding and 10 % of prefill with an 8B model, in counted costs", tcs_idle},
};
static const t_suite t_cores_suite = SUITE(t_cores_cases);
