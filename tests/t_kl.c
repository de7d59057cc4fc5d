/* What quantised arithmetic costs: each architecture with random weights in the types of a Q8_0 and of a Q4_K_M file, against the
 * same weights in float32, so that only products of 8-bit activations are measured. Models are those of tests/data with layers as
 * wide as the blocks of these types are long. T_KL=1 shows the figure of each on stderr.
 *   Random models enlarge an error more than trained ones, so these are kept calm: attention scores have a deviation of 0.6, a
 * layer adds less to the stream than it begins with, and what delta nets read is no smaller than the epsilon of their norm. Without
 * that a float64 reading whose activations are rounded to 8 bits (tests/tiny_check.py --act8) was as far from the exact one as the
 * program in each of the five models that were compared: llama, granite, qwen35, qwen3next, eurobert. */
#include "program.h"
#include "check.h"
#include "t_fwd.h"
#include <glob.h>

enum { TKL_WIDTH = 256, TKL_ROWS = 24, TKL_SOURCE = 12, TKL_POOL = 512, TKL_POOLS = 256, TKL_LAYERS = 12 };
#define TKL_MOST  1e-3                                 /* mean KL divergence, of logits with a deviation of 1 */
#define TKL_CALM  0.5                                  /* factor on queries, on keys and on what a layer adds */
#define TKL_EPS   1e-2f                                /* epsilon of norms in models with delta nets */
#define TKL_EMBD  1.0                                  /* deviation of embeddings */
#define TKL_CAP   30                                   /* of logits, where they have one */

/* --- random rows in a type: made once, and taken by every matrix --- */

typedef struct {
    uint32_t type;
    int      n, level;                                /* values of a row; their deviation is 2^(level / 2) */
    uint8_t *rows;                                    /* [TKL_POOL] */
} tkl_pool;

static tkl_pool  tkl_pools[TKL_POOLS];
static int      tkl_n_pools;
static uint32_t tkl_seed;

/* A number of a normal distribution, nearly. */
static float tkl_normal(void) {
    float sum = 0;
    for (int i = 0; i < 6; i++) sum += (float)((tkl_seed = tkl_seed * 1664525 + 1013904223) >> 8) / (float)(1 << 24) - 0.5f;
    return sum * 1.41421356f;
}

/* Rows of n values of a deviation, in a type. */
static const uint8_t *tkl_rows(uint32_t type, int n, double deviation) {
    const int level = (int)lround(2 * log2(deviation > 1e-6 ? deviation : 1e-6));
    for (int i = 0; i < tkl_n_pools; i++)
        if (tkl_pools[i].type == type && tkl_pools[i].n == n && tkl_pools[i].level == level) return tkl_pools[i].rows;
    const size_t row = k_row_bytes(type, n);
    float       *x = mem_new(2 * (size_t)n, sizeof *x);
    tkl_pool     *p = &tkl_pools[tkl_n_pools++];
    if (!CHECK(tkl_n_pools <= TKL_POOLS)) exit(1);
    *p = (tkl_pool){.type = type, .n = n, .level = level, .rows = mem_aligned(row * TKL_POOL, 1)};
    tkl_seed = ((type * 131 + (uint32_t)n) * 131 + (uint32_t)(level + 64)) * 40503u;    /* whatever other models are made */
    for (size_t r = 0; r < TKL_POOL; r++) {
        for (int i = 0; i < n; i++) x[i] = tkl_normal() * (float)exp2(level / 2.0);
        if (type == K_F32) memcpy(p->rows + r * row, x, row);
        else if (k_types[type].quant) k_types[type].quant(x, p->rows + r * row, n);
        else quant__fit(type, x, NULL, x + n, p->rows + r * row, (uint64_t)n);
    }
    mem_free(x);
    return p->rows;
}

/* --- a wide model --- */

typedef struct {
    str        file;                                  /* bytes of the narrow one, with other numbers in its keys */
    gguf_file  g;
    gguf_tensor *was;                                 /* [n_tensor] the narrow ones */
    uint8_t  **data;                                  /* [n_tensor] of the wide ones */
    double    *gain;                                  /* [n_tensor] of a matrix: deviation times root of its row; 0: a vector */
    double    *factor;                                /* [n_tensor] on its values */
    model      m;
} tkl_model;

/* A key with numbers: those above 0 become v. */
static void tkl_set(gguf_file *g, const char *arch, const char *name, uint32_t v) {
    char key[160];
    snprintf(key, sizeof key, "%s.%s", arch, name);
    const gguf_kv *kv = gguf_find(g, key);
    if (!kv || (kv->elem != GGUF_U32 && kv->elem != GGUF_I32)) return;
    for (uint64_t i = 0; i < kv->count; i++) {
        uint32_t was;
        memcpy(&was, kv->data + 4 * i, sizeof was);
        if (was) memcpy((uint8_t *)(uintptr_t)kv->data + 4 * i, &v, sizeof v);
    }
}

static void tkl_set_float(gguf_file *g, const char *arch, const char *name, float v) {
    char key[160];
    snprintf(key, sizeof key, "%s.%s", arch, name);
    const gguf_kv *kv = gguf_find(g, key);
    if (kv && kv->type == GGUF_F32) memcpy((uint8_t *)(uintptr_t)kv->data, &v, sizeof v);
}

static uint32_t tkl_get(const gguf_file *g, const char *arch, const char *name) {
    char     key[160];
    uint64_t v = 0;
    snprintf(key, sizeof key, "%s.%s", arch, name);
    return gguf_get_u64(g, key, 0, UINT32_MAX, &v, &(err_t){0}) == 1 ? (uint32_t)v : 0;
}

/* Wide layers. All experts are used, and indexers choose all positions: which of two is chosen near a tie says nothing of
 * arithmetic. how 0: heads are as wide as they can be; 1: as they are; 2: only the stream is wide; 3: all is as it is. */
static void tkl_widen(gguf_file *g, const char *arch, int how) {
    const uint32_t heads = tkl_get(g, arch, "attention.head_count"), kv = tkl_get(g, arch, "attention.head_count_kv");
    if (how < 3) tkl_set(g, arch, "embedding_length", TKL_WIDTH);
    if (how < 3 && heads && TKL_WIDTH % heads) {
        tkl_set(g, arch, "attention.head_count", 4);
        tkl_set(g, arch, "attention.head_count_kv", kv == heads ? 4 : 1);
    }
    for (int i = 0; i < 2 && how < 1; i++)
        tkl_set(g, arch, i ? "attention.value_length" : "attention.key_length",
               TKL_WIDTH / (heads && TKL_WIDTH % heads == 0 ? heads : 4));
    if (how < 2) tkl_set(g, arch, "feed_forward_length", TKL_WIDTH);
    if (how < 2) tkl_set(g, arch, "expert_feed_forward_length", TKL_WIDTH);
    if (tkl_get(g, arch, "ssm.time_step_rank")) tkl_set_float(g, arch, "attention.layer_norm_rms_epsilon", TKL_EPS);
    tkl_set_float(g, arch, "final_logit_softcapping", TKL_CAP);
    const uint32_t experts = tkl_get(g, arch, "expert_count"), groups = tkl_get(g, arch, "expert_group_count");
    if (experts) tkl_set(g, arch, "expert_used_count", experts);
    if (groups) tkl_set(g, arch, "expert_group_used_count", groups);
    if (tkl_get(g, arch, "attention.indexer.top_k")) tkl_set(g, arch, "attention.indexer.top_k", TKL_ROWS);
}

static double tkl_deviation(const gguf_tensor *t) {
    const uint64_t n = t->dim[0], rows = min_u64(t->dim[1] * t->dim[2], 64);
    float         *x = mem_new(n, sizeof *x);
    double         sum = 0;
    for (uint64_t r = 0; r < rows; r++) {
        gguf_floats(t, r, 0, x, n);
        for (uint64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    }
    mem_free(x);
    return sqrt(sum / (double)(n * rows));
}

/* A tensor, whose name may lack ".weight". */
static const gguf_tensor *tkl_find(const gguf_file *g, const char *name) {
    const gguf_tensor *found = gguf_tensor_find(g, name);
    return found ? found : model__unsuffixed(g, name);
}

/* The shape of a tensor becomes that of its slot. */
static void tkl_shape(tkl_model *t, const arch_hparams *was, const arch_hparams *hp, arch_slot_id id, int il) {
    char             name[80];
    const arch_slot *s = arch_slot_of(hp, id, il);
    if (!s) return;
    snprintf(name, sizeof name, s->name, arch_number(hp, il));
    const gguf_tensor *found = tkl_find(&t->g, name);
    const size_t       i = found ? (size_t)(found - t->g.tensor) : 0;
    gguf_tensor       *x = &t->g.tensor[i];
    const gguf_tensor *narrow = &t->was[i];
    if (!found || t->gain[i] >= 0 || (s->flags & S_FIT && narrow->dim[1] != (uint64_t)arch_dim(was, s->out, il))) return;
    if (s->in != D_FILE) x->dim[0] = (uint64_t)arch_dim(hp, s->in, il);
    if (s->out != D_FILE && s->out != D_VOCAB && !(s->flags & S_LONG)) x->dim[1] = (uint64_t)arch_dim(hp, s->out, il);
    x->dim[2] = (uint64_t)arch_dim(hp, s->stack, il);
    if (s->flags & S_FLAT) x->dim[1] *= x->dim[2], x->dim[2] = 1;
    x->dim[3] = 1;                                    /* rows of time_mix_lerp_fused stood there */
    x->n_dims = 3;
    t->gain[i] = s->flags & S_VEC ? 0 : tkl_deviation(narrow) * sqrt((double)narrow->dim[0]);
    if (id == W_TOK_EMBD) t->gain[i] = TKL_EMBD / (hp->embd_scale != 0 ? (double)hp->embd_scale : 1) * sqrt((double)x->dim[0]);
}

/* half: what the names of the layer's tensors begin with, in a model that has an encoder and a decoder. */
static const char *tkl_half = "";

static void tkl_times(tkl_model *t, const char *name, int il, double by) {
    char full[80];
    snprintf(full, sizeof full, "%sblk.%d.%s.weight", tkl_half, il, name);
    const gguf_tensor *found = tkl_find(&t->g, full);
    if (found) t->factor[found - t->g.tensor] *= by;
}

/* Attention scores of layer il get a deviation that does not depend on the size of heads, also where a key or the architecture
 * says their scale. */
static void tkl_calm(tkl_model *t, const arch_layer_hp *was, const arch_layer_hp *l, int il) {
    char full[80];
    snprintf(full, sizeof full, "blk.%d.attn_q_norm.weight", il);
    const bool   normed = gguf_tensor_find(&t->g, full) != NULL;
    const double wide = (double)l->attn_scale * sqrt(l->hd_k) / ((double)was->attn_scale * sqrt(was->hd_k));
    tkl_times(t, normed ? "attn_q_norm" : "attn_q", il, TKL_CALM / wide);
    tkl_times(t, normed ? "attn_k_norm" : "attn_k", il, TKL_CALM);
    if (!normed && l->mixer == MIX_ATTN) tkl_times(t, "attn_qkv", il, TKL_CALM / sqrt(wide));
    static const char *const read[] = {"ssm_b_norm", "ssm_c_norm", "ssm_dt", "time_mix_key", "time_mix_receptance", "time_mix_w2",
                                       "time_mix_decay_w2", "channel_mix_key"};
    for (size_t i = 0; i < sizeof read / sizeof *read; i++) tkl_times(t, read[i], il, TKL_CALM);
    snprintf(full, sizeof full, "blk.%d.ssm_b_norm.weight", il);
    if (!tkl_find(&t->g, full)) tkl_times(t, "ssm_x", il, TKL_CALM);
    tkl_times(t, "cross_attn_q", il, TKL_CALM / wide);
    tkl_times(t, "cross_attn_k", il, TKL_CALM);
    static const char *const last[] = {"attn_o", "cross_attn_o", "attn_output", "ssm_out", "time_mix_output", "channel_mix_value", "ffn_down",
                                       "ffn_down_exps", "ffn_down_shexp", "post_attention_norm", "post_ffw_norm", "post_norm"};
    for (size_t i = 0; i < sizeof last / sizeof *last; i++) tkl_times(t, last[i], il, TKL_CALM);
}

/* The values of tensor i in type `to`; of a vector, and of a list of numbers, those of the narrow one, again and again. */
static void tkl_fill(tkl_model *t, uint64_t i, uint32_t to) {
    gguf_tensor       *x = &t->g.tensor[i];
    const gguf_tensor *narrow = &t->was[i];
    const uint64_t    *dim = narrow->dim, had = dim[0] * dim[1] * dim[2] * dim[3];
    const bool         list = narrow->type == K_I32, mat = t->gain[i] > 0 && !list;
    const uint64_t     n = x->dim[0], rows = x->dim[1] * x->dim[2];
    if (t->gain[i] < 0) return;
    x->type = list ? K_I32 : mat ? to : K_F32;
    const size_t   row = k_row_bytes(x->type, (int64_t)n);
    const uint8_t *from = mat ? tkl_rows(x->type, (int)n, t->gain[i] * t->factor[i] / sqrt((double)n))
                                   : narrow->data;
    t->data[i] = mem_aligned(rows * row, 1);
    for (uint64_t r = 0; r < rows && mat; r++) memcpy(t->data[i] + r * row, from + (r + 101 * i) % TKL_POOL * row, row);
    for (uint64_t k = 0; k < rows * n && !mat; k++) memcpy(t->data[i] + 4 * k, from + 4 * (k % had), 4);
    if (!mat && !list && t->factor[i] != 1) k_scale((float *)(void *)t->data[i], (float)t->factor[i], (int)(rows * n));
    x->data = t->data[i];
    x->n_bytes = rows * row;
}

static void tkl_close(tkl_model *t) {
    model_close(&t->m);
    for (uint64_t i = 0; t->data && i < t->g.n_tensor; i++) mem_free(t->data[i]);
    mem_free_all(t->data, t->gain, t->factor, t->was);
    gguf_close(&t->g);
    str_drop(&t->file);
}

/* The types that a file of this mixture has. */
static bool tkl_types(tkl_model *t, const char *mixture, uint32_t *to, err_t *e) {
    const quant_opts o = {.dry_run = true};
    quant__plan      p = {0};
    const bool       ok = quant__plan_make(&p, &t->g, mixture, &o, e);
    for (uint64_t i = 0; ok && i < t->g.n_tensor; i++) to[i] = p.step[i].to;
    quant__plan_drop(&p);
    return ok;
}

/* The wide model of a file in the types of a mixture. */
static bool tkl_make(tkl_model *t, const char *path, const char *mixture, int how, err_t *e) {
    arch_hparams was = {0}, hp = {0};
    size_t       n;
    char        *p = t_read(path, &n);
    *t = (tkl_model){0};
    if (!p) return err_set(e, EXIT_INPUT, "%s cannot be read", path);
    str_add(&t->file, p, n);
    mem_free(p);
    if (!gguf_parse(&t->g, (uint8_t *)t->file.p, n, path, e)) return false;
    bool ok = arch_load(&was, &t->g, e);
    if (ok) tkl_widen(&t->g, was.desc->name, how);
    ok = ok && arch_load(&hp, &t->g, e);
    const uint64_t n_tensor = t->g.n_tensor;
    uint32_t      *to = mem_new(n_tensor, sizeof *to);
    t->was = memcpy(mem_new(n_tensor, sizeof *t->was), t->g.tensor, n_tensor * sizeof *t->was);
    t->data = mem_new(n_tensor, sizeof *t->data);
    t->gain = mem_new(n_tensor, sizeof *t->gain);
    t->factor = mem_new(n_tensor, sizeof *t->factor);
    for (uint64_t i = 0; i < n_tensor; i++) t->gain[i] = -1, t->factor[i] = 1;
    for (int il = -1; ok && il < arch_own_layers(&hp); il++)
        for (int id = 0; id < ARCH_SLOTS; id++) tkl_shape(t, &was, &hp, (arch_slot_id)id, il);
    for (int il = 0; ok && il < arch_own_layers(&hp); il++) {
        tkl_half = !hp.n_bucket ? "" : hp.n_enc && il >= hp.n_enc ? "dec." : "enc.";
        tkl_calm(t, &was.layer[il], &hp.layer[il], arch_number(&hp, il));
    }
    ok = ok && tkl_types(t, mixture, to, e);
    for (uint64_t i = 0; ok && i < n_tensor; i++) tkl_fill(t, i, to[i]);
    mem_free(to);
    arch_drop(&was);
    arch_drop(&hp);
    return ok && model_open(&t->m, &t->g, &rope_defaults, e);
}

/* --- runs --- */

/* Results of the first TKL_ROWS positions at a CPU level: logits, or hidden values of an encoder; of an answer to TKL_SOURCE
 * tokens where the model has an encoder and a decoder. */
static float *tkl_run(model *m, const char *level) {
    err_t   e = {0};
    kv_opts o = {.type_k = K_F32, .type_v = K_F32, .block = 32};
    const bool causal = m->hp.causal;
    const int  V = causal ? m->hp.n_vocab : m->hp.n_embd;
    k_init(level);
    kv_cache *kv = kv_new(&m->hp, &o, (kv_load){.tokens = 64}, &e);
    if (!CHECKF(kv != NULL, "%s", e.text)) return NULL;
    pool   *p = pool_new(1);
    fwd    *f = fwd_new(m, kv, p, TKL_ROWS, TKL_ROWS, causal ? FWD_LOGITS : FWD_HIDDEN);
    kv_seq *seq = kv_seq_new(kv);
    float  *all = mem_new(TKL_ROWS * (size_t)V, sizeof *all);
    fwd_begin(f);
    seq->source = m->hp.n_enc ? TKL_SOURCE : 0;
    for (int i = 0; i < TKL_ROWS + seq->source; i++)
        fwd_add(f, seq, (17 + 53 * i) % m->hp.n_vocab, i, causal ? FWD_LOGITS : FWD_HIDDEN);
    if (CHECK(kv_reserve(seq, TKL_ROWS + seq->source) && fwd_step(f)))
        for (int i = 0; i < TKL_ROWS; i++)
            memcpy(all + i * V, causal ? f->logits + i * V : fwd_hidden(f, i), (size_t)V * sizeof *all);
    kv_seq_free(seq);
    fwd_free(f);
    kv_free(kv);
    pool_free(p);
    return all;
}

/* The matrix in float32, in memory that the caller frees. */
static float *tkl_dequantise(dev_mat *w) {
    if (!w->data || w->type == K_F32) return NULL;
    const size_t n = (size_t)w->n_in, rows = (size_t)w->n_out;
    float       *x = mem_new(n * rows * (size_t)w->n_mat, sizeof *x);
    for (size_t k = 0; k < (size_t)w->n_mat; k++)
        for (size_t r = 0; r < rows; r++)
            k_types[w->type].dequant(w->data + k * w->mat_bytes + r * w->row_bytes, x + (k * rows + r) * n, w->n_in);
    w->data = (const uint8_t *)x;
    w->type = K_F32;
    w->row_bytes = n * sizeof *x;
    w->mat_bytes = rows * w->row_bytes;
    return x;
}

/* The results of the same weights in float32. */
static float *tkl_run_float(model *m) {
    const int n = arch_own_layers(&m->hp);
    float   **own = mem_new(((size_t)n + 1) * ARCH_SLOTS, sizeof *own);
    for (int il = -1; il < n; il++)
        for (int id = 0; id < ARCH_SLOTS; id++)
            own[(il + 1) * ARCH_SLOTS + id] = tkl_dequantise(&(il < 0 ? &m->glob : &m->layer[il])->mat[id]);
    float *want = tkl_run(m, "auto");
    for (int i = 0; i < (n + 1) * ARCH_SLOTS; i++) mem_free(own[i]);
    mem_free(own);
    return want;
}

/* Mean KL divergence of n rows of V values, divided by the deviation of those of `want`. */
static double tkl_divergence(const float *want, const float *got, int n, int V) {
    double sum = 0, sq = 0, kl = 0;
    for (int i = 0; i < n * V; i++) sum += (double)want[i], sq += (double)want[i] * (double)want[i];
    const double mean = sum / (n * V), d = sqrt(sq / (n * V) - mean * mean);
    for (int r = 0; r < n; r++) {
        const float *a = want + r * V, *b = got + r * V;
        double       za = 0, zb = 0;
        for (int i = 0; i < V; i++) za += exp(((double)a[i] - mean) / d), zb += exp(((double)b[i] - mean) / d);
        for (int i = 0; i < V; i++)
            kl += exp(((double)a[i] - mean) / d) / za * (((double)a[i] - (double)b[i]) / d - log(za) + log(zb));
    }
    return kl / n;
}

/* --- all architectures --- */

static const char *const tkl_mixtures[] = {"Q8_0", "Q4_K_M"};

/* One model in one mixture. */
static void tkl_measure(tkl_model *t, const char *name, const char *mixture) {
    static const char *const levels[] = {"avx2", "avx_vnni", "avx512", "avx512_bf16", "avx512_amx", "neon", "i8mm"};
    const int    V = t->m.hp.causal ? t->m.hp.n_vocab : t->m.hp.n_embd;
    float       *got = tkl_run(&t->m, "scalar");
    for (size_t i = 0; got && i < sizeof levels / sizeof *levels; i++) {
        float *other = k_init(levels[i]) ? tkl_run(&t->m, levels[i]) : NULL;
        const bool same = !other || !memcmp(got, other, TKL_ROWS * (size_t)V * sizeof *got);
        CHECKF(same, "%s, %s: %s gives other bits", name, mixture, levels[i]);
        mem_free(other);
    }
    float *want = tkl_run_float(&t->m);
    if (got && want) {
        const double kl = tkl_divergence(want, got, TKL_ROWS, V);
        CHECKF(kl <= TKL_MOST, "%s, %s: a KL divergence of %.2g, at most %.0e", name, mixture, kl, TKL_MOST);
        if (getenv("T_KL")) fprintf(stderr, "%-28s %-7s %.1e\n", name, mixture, kl);
    }
    mem_free_all(got, want);
}

/* The first file of a row of the table of architectures. Routers that take two experts by a threshold (SparseMixer) are left out:
 * an expert that comes or goes near it says nothing of arithmetic, and all experts cannot be taken. mamba is left out: a layer
 * adds the product of four things that it makes of its input, and nothing stands between such layers, so the figure is anything
 * from 4e-4 to 8e-3 as the random numbers fall. Jamba has the same layers with attention and feed-forwards between them. */
static void tkl_file(const char *path, bool *met) {
    arch_hparams hp = {0};
    gguf_file    g;
    err_t        e = {0};
    const char  *name = strrchr(path, '/') + 1;
    if (!CHECKF(gguf_open(&g, path, &e), "%s", e.text)) return;
    const bool is = arch_load(&hp, &g, &e);
    const long row = is ? hp.desc - arch_table : 0;
    const bool out = is && (hp.desc->quirks & Q_MIXER || !strcmp(hp.desc->name, "mamba"));
    const bool go = is && !met[row] && hp.n_layer <= TKL_LAYERS && !out;
    if (out) met[row] = true;
    arch_drop(&hp);
    gguf_close(&g);
    if (!go) return;
    met[row] = true;
    for (int i = 0; i < 2; i++) {
        tkl_model t;
        bool     ok = false;
        for (int how = 0; how < 4 && !ok; how++) {
            e = (err_t){0};
            if (!(ok = tkl_make(&t, path, tkl_mixtures[i], how, &e))) tkl_close(&t);
        }
        if (!CHECKF(ok, "%s: %s", name, e.text)) continue;
        tkl_measure(&t, name, tkl_mixtures[i]);
        tkl_close(&t);
    }
}

static void t_kl_all(void) {
    static bool met[ARCH_COUNT];
    glob_t      found = {0};
    if (!CHECK(!glob("tests/data/tiny/*.gguf", 0, NULL, &found))) return;
    if (!CHECK(!glob("tests/data/encoders/*.gguf", GLOB_APPEND, NULL, &found))) return;
    if (!CHECK(!glob("tests/data/pairs/*.gguf", GLOB_APPEND, NULL, &found))) return;
    if (!CHECK(!glob("tests/data/diffuse/*.gguf", GLOB_APPEND, NULL, &found))) return;
    for (size_t i = 0; i < found.gl_pathc; i++) tkl_file(found.gl_pathv[i], met);
    globfree(&found);
    for (int i = 0; i < tkl_n_pools; i++) mem_free(tkl_pools[i].rows);
    for (int i = 0; i < ARCH_COUNT; i++) {
        bool any = false;
        for (int k = 0; k < ARCH_COUNT; k++) any |= met[k] && !strcmp(arch_table[k].name, arch_table[i].name);
        const bool alone = !(arch_table[i].traits & A_ASSIST) && strncmp(arch_table[i].name, "invented", 8) != 0;
        CHECKF(any || !alone, "no model of %s was measured", arch_table[i].name);
    }
}

static const t_case t_kl_cases[] = {
    {"kl", "8-bit activations cost a KL divergence of 1e-3 at most; each level gives the same bits", t_kl_all},
};
static const t_suite t_kl_suite = SUITE(t_kl_cases);
