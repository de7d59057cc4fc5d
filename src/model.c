/* ===== [model] a model's weights in the mapping =====
 * Finds the tensors of arch_slots in the file and checks their shapes and types. A file is refused if a tensor is missing, and
 * if it has one that the step would not use, because its text would be wrong. Weights are views into the mapped file;
 * model_pack() copies quantised matrices into memory of the model, in the packed layout.
 * Public: model_open, model_add_head, model_lent, model_use_head, model_say_own_keys, model_close, model_check, model_writes,
 * model_whole, model_diffuses, model_holds; model_layer_of, model_targets;
 * model_sizes, model_as_bf16, model_has_bf16, model_read_ahead, model_pack, model_release; model_kv_bytes, model_kv_bytes_of.
 * Opens: model, model_bytes, model_room, model_rope, model_target, model_tensors, rope_opts. */

/* One table of RoPE frequencies. */
typedef struct {
    double *freq;                                     /* [n_rot/2] radians per position */
    float   mscale;                                   /* factor on cos and sin (YaRN) */
    int     at;                                       /* where its part of a row of cos and sin begins */
} model_rope;

/* Tensors by slot; no data, NULL: the model has none. */
typedef struct {
    dev_mat      mat[ARCH_SLOTS];                     /* matrices */
    const float *vec[ARCH_SLOTS];                     /* vectors, among them gains and biases */
    const int32_t *listed;                            /* [vocabulary, used] experts of each token; NULL: a router chooses */
} model_tensors;

enum { MODEL_REACH = 128 };                           /* distances from there on have the same bias (T5) */

/* Memory for packed weights. */
typedef struct {
    uint8_t *p;                                       /* [bytes] */
    size_t   bytes;
    size_t   used;
} model_room;

typedef struct model {
    const gguf_file *g;                               /* the file, which outlives the model */
    const gguf_file *head_g;                          /* that of its draft head, where it is another one; else NULL */
    struct model *assist;                             /* a draft head of another architecture (A_ASSIST); NULL: none */
    arch_hparams hp;                                  /* its sizes */
    model_tensors glob;                               /* tensors of the model, not of a layer */
    model_tensors *layer;                             /* [arch_own_layers] */
    model_rope   rope[ARCH_ROPES];                    /* [hp.n_rope] */
    int          n_rot;                               /* of all tables: values in a row of cos and sin */
    const char  *rope_set;                            /* the set of LongRoPE in use, "long" or "short"; "": there is one set */
    float       *slope;                               /* [n_layer, n_slope] what a score loses per position (ALiBi), or NULL */
    int          n_slope;                             /* heads of the layer with the most */
    const float *means;                               /* [hp.hd_index][hp.index_block] taps of means of keys, or NULL */
    float      **distance;                            /* [n_layer][n_head][2 * MODEL_REACH + 1] biases of scores, by how far a key
                                                       * lies behind the query; NULL: there are none */
    int          pack_at;                             /* the next matrix of model_pack() */
    model_room   packs[HOST_NODES];                   /* [n_packs] room for all packed matrices, on each memory node; the system
                                                       * gives memory as it is written */
    int          n_packs;
    size_t       packs_used;                          /* bytes of matrices that are packed */
    uint8_t    **made;                                /* [n_made] matrices that were not in the file as the step reads them */
    int          n_made;
    bool         lacks;                               /* model_open() failed at a tensor that is missing or of another type */
    dev_gpus    *gpus;                                /* the GPUs that run the last layers; NULL: none */
} model;

/* Options that replace parameters of the file; 0: as in the file. */
typedef struct {
    float        base;                                /* arch_rope_hp.base */
    float        factor;                              /* arch_rope_hp.factor */
    const char  *scaling;                             /* none, linear, yarn; NULL: as in the file */
    int          orig_ctx;                            /* arch_rope_hp.n_ctx_orig */
    float        yarn_ext;                            /* arch_rope_hp.yarn_ext; negative: as in the file, like the next three */
    float        yarn_attn;                           /* arch_rope_hp.yarn_attn */
    float        yarn_fast;                           /* arch_rope_hp.yarn_fast */
    float        yarn_slow;                           /* arch_rope_hp.yarn_slow */
    int          n_ctx;                               /* context of the run, for the set of LongRoPE; 0: that of the training */
} rope_opts;

static const rope_opts rope_defaults = {.yarn_ext = -1, .yarn_attn = -1, .yarn_fast = -1, .yarn_slow = -1};

/* Matrices of the model, not of a layer, that rows are multiplied with: the output is last. */
static const arch_slot_id model_products[] = {W_BY_STREAM, W_STREAM_IN, W_STREAM_OUT, W_HC_OUT_DOWN, W_HC_OUT_UP,
                                             W_ASSIST_OUT, W_HYPER_HEAD, W_OUTPUT};
enum { MODEL_PRODUCTS = sizeof model_products / sizeof *model_products };

/* Whether rows are not multiplied with a matrix of a layer: it holds embeddings or biases. */
static bool model__idle(arch_slot_id id) { return id == W_NEXTN_EMBD || id == W_DISTANCE; }

/* The matrix at *at or the next one, NULL after the last; *at then follows it. Embeddings are not among them. */
static dev_mat *model__mat(const model *m, int *at) {
    const int layers = arch_own_layers(&m->hp) * ARCH_SLOTS;
    while (*at < layers + MODEL_PRODUCTS) {
        const int            i = (*at)++;
        const model_tensors *of = i < layers ? &m->layer[i / ARCH_SLOTS] : &m->glob;
        const dev_mat       *w = &of->mat[i < layers ? i % ARCH_SLOTS : (int)model_products[i - layers]];
        if (w->data && !model__idle((arch_slot_id)(w - of->mat))) return (dev_mat *)w;
    }
    return NULL;
}

/* Frees what model_open() made, also where that failed. */
static void model_close(model *m) {
    int at = 0;
    if (m->assist) model_close(m->assist);
    mem_free(m->assist);
    for (dev_mat *w; m->gpus && (w = model__mat(m, &at));) dev_mat_drop(w);
    for (int k = 0; k < m->n_packs; k++) mem_pages_free(m->packs[k].p, m->packs[k].bytes);
    for (int i = 0; i < m->n_made; i++) mem_free(m->made[i]);
    mem_free_all(m->made, m->layer);
    mem_free(m->slope);
    for (int il = 0; m->distance && il < m->hp.n_layer; il++) mem_free(m->distance[il]);
    mem_free(m->distance);
    for (int i = 0; i < ARCH_ROPES; i++) mem_free(m->rope[i].freq);
    arch_drop(&m->hp);
    *m = (model){0};
}

static bool model__shape(const gguf_file *g, const gguf_tensor *t, const uint64_t want[3], bool at_least_rows, err_t *e) {
    const bool rows_last = t->n_dims == 4 && t->dim[1] == 1 && t->dim[2] == 1;      /* D x 1 x 1 x rows: time_mix_lerp_fused */
    const bool flat = t->dim[1] == 1 && want[2] == 1;                               /* D x 1 x rows: filters of Kimi Linear */
    const uint64_t is[3] = {t->dim[0], rows_last ? t->dim[3] : flat ? t->dim[2] : t->dim[1], flat ? 1 : t->dim[2]};
    bool ok = t->n_dims <= 3 || rows_last || t->dim[3] == 1;
    for (int i = 0; i < 3; i++) ok = ok && (is[i] == want[i] || (i == 1 && at_least_rows && is[i] > want[i]));
    if (ok) return true;
    return gguf_bad(g, t->part, t->at, e, "tensor %.*s is %llu x %llu x %llu, expected %llu x %llu x %llu", GGUF_SHOW(t->name),
                    GGUF_U(t->dim[0]), GGUF_U(t->dim[1]), GGUF_U(t->dim[2]), GGUF_U(want[0]), GGUF_U(want[1]), GGUF_U(want[2]));
}

/* The values of a tensor of f32; NULL: it has another type, e is set. */
static const float *model__floats(const gguf_file *g, const gguf_tensor *t, err_t *e) {
    if (t->type == K_F32) return (const float *)(const void *)t->data;
    gguf_bad(g, t->part, t->at, e, "tensor %.*s has type %s, expected f32", GGUF_SHOW(t->name), k_types[t->type].name);
    return NULL;
}

/* A factor of one matrix for each of several. */
static const float *model__same_scale(model *m, float scale, int n) {
    float *to = mem_new((size_t)n, sizeof *to);
    for (int i = 0; i < n; i++) to[i] = scale;
    MEM_PUSH(m->made, m->n_made, (uint8_t *)to);
    return to;
}

/* NAME.scale beside NAME.weight holds a factor for each matrix (NVFP4 has them). NAME.input_scale is for activations of four
 * bits and has no use here. */
static bool model__bind_scale(const model *m, const char *weight, dev_mat *mat, bool *used, err_t *e) {
    char name[96];
    int  stem = (int)(strrchr(weight, '.') - weight);
    snprintf(name, sizeof name, "%.*s.input_scale", stem, weight);
    const gguf_tensor *t = gguf_tensor_find(m->g, name);
    if (t) used[t - m->g->tensor] = true;
    snprintf(name, sizeof name, "%.*s.scale", stem, weight);
    t = gguf_tensor_find(m->g, name);
    if (!t) return true;
    used[t - m->g->tensor] = true;
    if (mat->scale)
        return gguf_bad(m->g, t->part, t->at, e, "tensor %s beside %s of type i2_s, expected one scale", name, weight);
    return model__shape(m->g, t, (uint64_t[]){(uint64_t)mat->n_mat, 1, 1}, false, e) && (mat->scale = model__floats(m->g, t, e));
}

/* Whether layer il reads keys and values of another one, or what that one chooses, so that this tensor, if it has it, has no
 * use. */
static bool model__unread(const model *m, const arch_slot *s, int il) {
    if (s->flags & S_CHOICE && !m->hp.layer[il].indexed) return true;
    return (s->flags & S_OWN) && il >= 0 && m->hp.layer[il].kv_back;
}

/* A vector whose name lacks ".weight": llama.cpp's converter writes some so (ffn_norm of Falcon-H1, norms of PLaMo 2). */
static const gguf_tensor *model__unsuffixed(const gguf_file *g, const char *name) {
    static const char tail[] = ".weight";
    char              stem[96];
    const int         n = (int)strlen(name) - (int)(sizeof tail - 1);
    if (n <= 0 || strcmp(name + n, tail) != 0) return NULL;
    snprintf(stem, sizeof stem, "%.*s", n, name);
    return gguf_tensor_find(g, stem);
}

enum { MODEL_NAME = 80 };                             /* bytes of a tensor's name with its NUL */

/* The name of a slot's tensor in layer il. */
static void model__name(const model *m, const arch_slot *s, int il, char name[MODEL_NAME]) {
    snprintf(name, MODEL_NAME, s->name, arch_number(&m->hp, il));
}

/* The floats that a tensor of a type of weights stands for. */
static const float *model__opened(model *m, const gguf_tensor *t) {
    if (t->type == K_F32) return (const float *)(const void *)t->data;
    const uint64_t rows = t->dim[1] * t->dim[2] * t->dim[3];
    float         *to = mem_new(mem_size((size_t)rows, (size_t)t->dim[0]), sizeof *to);
    for (uint64_t r = 0; r < rows; r++)
        k_types[t->type].dequant(t->data + r * k_row_bytes(t->type, (int64_t)t->dim[0]), to + r * t->dim[0], (int64_t)t->dim[0]);
    MEM_PUSH(m->made, m->n_made, (uint8_t *)to);
    return to;
}

/* The experts of each token in layer il, which must be experts of the layer. */
static bool model__listed(model *m, const gguf_tensor *t, int il, err_t *e) {
    const arch_layer_hp *l = &m->hp.layer[il];
    const size_t         n = (size_t)l->n_expert_used * (size_t)m->hp.n_vocab;
    const int32_t       *list = (const int32_t *)(const void *)t->data;
    if (t->type != K_I32)
        return gguf_bad(m->g, t->part, t->at, e, "tensor %.*s has type %s, expected i32", GGUF_SHOW(t->name),
                        k_types[t->type].name);
    for (size_t i = 0; i < n; i++)
        if (list[i] < 0 || list[i] >= l->n_expert)
            return gguf_bad(m->g, t->part, t->at, e, "tensor %.*s has expert %d for token %zu, expected 0 to %d",
                            GGUF_SHOW(t->name), list[i], i / (size_t)l->n_expert_used, l->n_expert - 1);
    m->layer[il].listed = list;
    return true;
}

/* Finds the tensor of a slot in layer il (-1: of the model). */
static bool model__bind(model *m, arch_slot_id id, int il, bool *used, err_t *e) {
    const gguf_file *g = m->g;
    const arch_slot *s = arch_slot_of(&m->hp, id, il);
    model_tensors   *to = il < 0 ? &m->glob : &m->layer[il];
    char             name[MODEL_NAME];
    if (!s) return true;
    model__name(m, s, il, name);
    const gguf_tensor *t = gguf_tensor_find(g, name);
    if (!t && s->flags & S_VEC) t = model__unsuffixed(g, name);
    if (t && model__unread(m, s, il)) {
        used[t - g->tensor] = true;
        return true;
    }
    if (!t && (s->flags & S_OPT || model__unread(m, s, il))) return true;
    m->lacks = !t;
    if (!t) return err_set(e, EXIT_INPUT, "%s: tensor %s is missing", g->path, name);
    uint64_t want[3] = {(uint64_t)arch_dim(&m->hp, s->in, il), (uint64_t)arch_dim(&m->hp, s->out, il),
                        (uint64_t)arch_dim(&m->hp, s->stack, il)};
    if (s->in == D_FILE && t->dim[0] <= ARCH_MAX_WIDTH) want[0] = t->dim[0];
    if (s->out == D_FILE && t->dim[1] <= ARCH_MAX_WIDTH) want[1] = t->dim[1];
    if (s->flags & S_FIT && t->dim[1] != want[1]) return true;
    if (s->flags & S_FLAT) want[1] *= want[2], want[2] = 1;
    used[t - g->tensor] = true;
    if (!model__shape(g, t, want, s->out == D_VOCAB || s->flags & S_LONG, e)) return false;
    if (s->flags & S_NUMBERS) return model__listed(m, t, il, e);
    const bool any = (s->flags & S_ANY_VEC) == S_ANY_VEC && k_type_weight(t->type);
    m->lacks = s->flags & S_VEC ? t->type != K_F32 && !any : !k_type_weight(t->type);
    if (any) return (to->vec[id] = model__opened(m, t)) != NULL;
    if (s->flags & S_VEC) return (to->vec[id] = model__floats(g, t, e)) != NULL;
    if (!k_type_weight(t->type))
        return gguf_bad(g, t->part, t->at, e, "tensor %s has type %s, expected a type of weights", name, k_types[t->type].name);
    size_t row = k_row_bytes(t->type, (int64_t)want[0]);
    if (s->flags & S_FLAT) want[2] = (uint64_t)arch_dim(&m->hp, s->stack, il), want[1] /= want[2];
    to->mat[id] = (dev_mat){.data = t->data, .type = t->type, .n_in = (int)want[0], .n_out = (int)want[1], .n_mat = (int)want[2],
                            .row_bytes = row, .mat_bytes = row * (size_t)want[1]};
    if (t->type == K_I2_S) to->mat[id].scale = model__same_scale(m, gguf_scale(t), (int)want[2]);
    return id == W_ROUTER && arch_slot_of(&m->hp, W_ROUTER_NORM, il) ? true : model__bind_scale(m, name, &to->mat[id], used, e);
}

/* Tensors that a file may have as one, their rows one after the other. */
typedef struct {
    arch_slot_id whole;                               /* the joined tensor */
    arch_slot_id bias;                                /* its bias; 0: there is none */
    uint64_t     traits;                              /* only architectures with one of these; 0: all */
    bool         whole_only;                          /* layers without a slot for the whole have nothing of it */
    int          n;                                   /* parts */
    struct { arch_slot_id mat, bias; arch_size rows; } part[3];        /* [n] in the order of their rows */
} model_join;

static const model_join model_joins[] = {
    /* whole         bias   traits      alone  parts: matrix, bias, rows */
    {W_QKV,          B_QKV, 0,          false, 3, {{W_Q, B_Q, D_Q_PROJ}, {W_K, B_K, D_K}, {W_V, B_V, D_V}}},
    {W_GATE_UP,      0,     A_UP_FIRST, false, 2, {{W_UP, 0, D_FF}, {W_GATE, 0, D_FF}}},
    {W_GATE_UP,      0,     0,          false, 2, {{W_GATE, 0, D_FF}, {W_UP, 0, D_FF}}},
    {W_GATE_UP_EXPS, 0,     0,          false, 2, {{W_GATE_EXPS, 0, D_FF_EXP}, {W_UP_EXPS, 0, D_FF_EXP}}},
    {W_MAMBA_IN,     0,     0,          true, 2, {{W_REC_IN, 0, D_CONV}, {W_REC_Z, 0, D_REC_V}}},
    {W_SSM_IN,       0,     0,          true, 3, {{W_REC_Z, 0, D_REC_V}, {W_REC_IN, 0, D_CONV}, {W_REC_ALPHA, 0, D_REC_HEADS}}},
};

/* The error for two tensors of layer il of which a file has one. */
static bool model__both(const model *m, arch_slot_id a, arch_slot_id b, int il, err_t *e) {
    char names[2][MODEL_NAME];
    model__name(m, arch_slot_of(&m->hp, a, il), il, names[0]);
    model__name(m, arch_slot_of(&m->hp, b, il), il, names[1]);
    return err_set(e, EXIT_INPUT, "%s: tensors %s and %s both, expected one", m->g->path, names[0], names[1]);
}

/* Whether values may be keys before their norm, so that a layer needs no attn_v: heads of both have the same size. */
static bool model__v_is_k(const model *m, int il) {
    const arch_layer_hp *l = &m->hp.layer[il];
    return (m->hp.desc->traits & A_VALUE_NORM) && l->hd_k == l->hd_v;
}

/* Part k of a joined tensor, if the file has one, becomes a view of its rows from `at` on. The part must then be there. */
static bool model__part(model *m, model_tensors *l, const model_join *j, int k, int64_t at, int il, err_t *e) {
    const arch_slot_id id = j->part[k].mat, bias = j->part[k].bias;
    const arch_slot   *s = arch_slot_of(&m->hp, id, il);
    dev_mat           *mat = &l->mat[id];
    char               name[MODEL_NAME];
    if (l->mat[j->whole].data) {
        if (mat->data) return model__both(m, j->whole, id, il, e);
        *mat = l->mat[j->whole];
        mat->data += (size_t)at * mat->row_bytes;
        mat->n_out = (int)arch_dim(&m->hp, j->part[k].rows, il);
    }
    if (l->vec[j->bias]) {
        if (l->vec[bias]) return model__both(m, j->bias, bias, il, e);
        l->vec[bias] = l->vec[j->bias] + at;
    }
    if (mat->data || !s || model__unread(m, s, il) || (id == W_V && model__v_is_k(m, il))) return true;
    model__name(m, s, il, name);
    m->lacks = true;
    return err_set(e, EXIT_INPUT, "%s: tensor %s is missing", m->g->path, name);
}

/* A tensor that holds the rows of several becomes views of it; without one, all of them must be in the file. */
static bool model__split(model *m, model_tensors *l, int il, err_t *e) {
    for (size_t i = 0; i < sizeof model_joins / sizeof *model_joins; i++) {
        const model_join *j = &model_joins[i];
        int64_t           at = 0;
        if (j->traits && !(j->traits & m->hp.desc->traits)) continue;
        if (j->whole_only && !arch_slot_of(&m->hp, j->whole, il)) continue;
        for (int k = 0; k < j->n; at += arch_dim(&m->hp, j->part[k++].rows, il))
            if (!model__part(m, l, j, k, at, il, e)) return false;
        l->mat[j->whole] = (dev_mat){0};
    }
    return true;
}

/* --- latent attention: the matrix of keys and values of all heads (attn_kv_b), as older files have it --- */

/* The type of a turned matrix. */
static uint32_t model__float_of(uint32_t type) { return type == K_F32 || type == K_F16 ? type : K_BF16; }

/* The part of keys of each head, the first n of its `per` rows [rank], becomes [rank][n]: a copy, in the type of the file if that
 * is one of floats, else in bf16, since blocks of a row cannot be turned. */
static dev_mat model__turned(model *m, const dev_mat *of, int heads, int per, int n) {
    const uint32_t type = model__float_of(of->type);
    const size_t   row = k_row_bytes(type, n), each = row * (size_t)of->n_in;
    const int      rank = of->n_in;
    float         *x = mem_new(mem_size((size_t)n, (size_t)rank), sizeof *x), *y = mem_new((size_t)n, sizeof *y);
    uint8_t       *to = mem_aligned(mem_size((size_t)heads, each), 1);
    for (int h = 0; h < heads; h++) {
        const uint8_t *from = of->data + (size_t)h * (size_t)per * of->row_bytes;
        for (int i = 0; i < n; i++)
            k_types[of->type].dequant(from + (size_t)i * of->row_bytes, x + (size_t)i * (size_t)rank, rank);
        for (int d = 0; d < rank; d++) {
            for (int i = 0; i < n; i++) y[i] = x[(size_t)i * (size_t)rank + (size_t)d];
            k_types[type].quant(y, to + (size_t)h * each + (size_t)d * row, n);
        }
    }
    mem_free_all(x, y);
    MEM_PUSH(m->made, m->n_made, to);
    return (dev_mat){.data = to, .type = type, .n_in = n, .n_out = rank, .n_mat = heads, .row_bytes = row, .mat_bytes = each,
                     .scale = of->scale ? model__same_scale(m, *of->scale, heads) : NULL};
}

/* Keys' and values' matrices of each head, which a file has as two stacks, or as one matrix. */
static bool model__split_latent(model *m, model_tensors *l, int il, err_t *e) {
    const arch_layer_hp *lh = &m->hp.layer[il];
    dev_mat *whole = &l->mat[W_KV_B], *k = &l->mat[W_K_B], *v = &l->mat[W_V_B];
    const int            n = lh->hd_q - lh->n_rot, per = n + lh->hd_o;
    if (lh->mixer != MIX_LATENT) return true;
    if (whole->data && (k->data || v->data)) return model__both(m, W_KV_B, k->data ? W_K_B : W_V_B, il, e);
    m->lacks = !whole->data && !(k->data && v->data);
    if (m->lacks)
        return err_set(e, EXIT_INPUT, "%s: tensor blk.%d.attn_%s.weight is missing", m->g->path, il, k->data ? "v_b" : "k_b");
    if (!whole->data) return true;
    *k = model__turned(m, whole, lh->n_head, per, n);
    *v = *whole;
    v->data += (size_t)n * whole->row_bytes;
    v->n_out = lh->hd_o;
    v->n_mat = lh->n_head;
    v->mat_bytes = (size_t)per * whole->row_bytes;
    if (whole->scale) v->scale = model__same_scale(m, *whole->scale, lh->n_head);
    *whole = (dev_mat){0};
    return true;
}

/* The filters of queries, keys and values, which a file has apart, become one: a copy. Returns true. */
static bool model__join_taps(model *m, model_tensors *l, int il) {
    const arch_rec *r = &m->hp.layer[il].rec;
    const size_t    n = (size_t)r->n_v * (size_t)r->d_v * (size_t)r->taps;
    if (m->hp.layer[il].mixer != MIX_KDA) return true;
    float *all = mem_new(mem_size(3, n), sizeof *all);
    for (int i = 0; i < 3; i++) memcpy(all + (size_t)i * n, l->vec[W_TAPS_Q + i], n * sizeof *all);
    MEM_PUSH(m->made, m->n_made, (uint8_t *)all);
    l->vec[W_REC_TAPS] = all;
    return true;
}

/* The filters of what n-grams add, whose taps lie apart, become filters with zeros between them: a copy. Returns true. */
static bool model__spread_taps(model *m, model_tensors *l) {
    dev_mat  *w = &l->mat[W_GRAM_TAPS];
    const int apart = m->hp.grams.n, taps = (w->n_in - 1) * apart + 1;
    if (!w->data) return true;
    float *all = mem_new(mem_size((size_t)w->n_out, (size_t)taps), sizeof *all), tap[ARCH_MAX_TAPS];
    for (int i = 0; i < w->n_out; i++) {
        k_types[w->type].dequant(w->data + (size_t)i * w->row_bytes, tap, w->n_in);
        for (int k = 0; k < w->n_in; k++)
            all[(size_t)i * (size_t)taps + (size_t)(k * apart)] = tap[k] * (w->scale ? *w->scale : 1);
    }
    MEM_PUSH(m->made, m->n_made, (uint8_t *)all);
    l->vec[W_GRAM_TAPS] = all;
    *w = (dev_mat){0};
    return true;
}

/* Where an indexer chooses blocks by the means of their keys: a filter whose taps are all the same. */
static void model__means(model *m) {
    const size_t n = (size_t)m->hp.hd_index * (size_t)m->hp.index_block;
    if (!(m->hp.desc->quirks & Q_MEANS) || !m->hp.n_top) return;
    float *all = mem_new(n, sizeof *all);
    for (size_t i = 0; i < n; i++) all[i] = 1.0f / (float)m->hp.index_block;
    MEM_PUSH(m->made, m->n_made, (uint8_t *)all);
    m->means = all;
}

/* The number of the layer in the name of a tensor; -1: there is none. */
static int model_layer_of(const gguf_tensor *t) {
    static const char head[] = "blk.";
    size_t i = sizeof head - 1;
    int    il = 0;
    if (t->name.n <= i || memcmp(t->name.p, head, i) != 0 || !isdigit(t->name.p[i])) return -1;
    for (; i < t->name.n && isdigit(t->name.p[i]) && il < ARCH_MAX_LAYERS; i++) il = 10 * il + (t->name.p[i] - '0');
    return i < t->name.n && t->name.p[i] == '.' ? il : -1;
}

/* A tensor that the step does not need: frequencies, which older converters wrote, more tensors of layers that predict further
 * tokens, and types that are not weights. */
static bool model__ignored(const model *m, const gguf_tensor *t) {
    static const char tail[] = ".attn_rot_embd", masks[] = "masked_embd_";     /* of an assistant: which tokens it may guess */
    static const char far[] = ".cross_attn_rel_b.weight";                      /* a text and its answer have no distance */
    const int         ahead = model_layer_of(t) - m->hp.n_layer;
    if (ahead >= 0 && ahead < m->hp.n_ahead) return true;
    if (m->hp.desc->traits & A_ASSIST && bytes_begins(t->name, bytes_of(masks))) return true;
    if (m->hp.n_enc && memmem(t->name.p, t->name.n, far, sizeof far - 1)) return true;
    return k_types[t->type].kind == K_KIND_DATA || memmem(t->name.p, t->name.n, tail, sizeof tail - 1) != NULL;
}

/* Which of n values is not what it should be: a number, not positive where `decay`; -1: none. */
static int model__wrong(const float *v, int64_t n, bool decay) {
    for (int64_t i = 0; v && i < n; i++)
        if (!(fabsf(v[i]) <= FLT_MAX) || (decay && v[i] > 0)) return (int)i;
    return -1;
}

/* Checks what is known of a recurrent layer once its tensors are: decays that keep a state finite. */
static bool model__check_rates(const model *m, int il, err_t *e) {
    static const struct { arch_slot_id id; bool decay; const char *name, *want; } rates[] = {
        {W_REC_DECAY, true, "ssm_a", "0 or a negative number"}, {B_REC_STEP, false, "ssm_dt.bias", "a number"},
        {W_SKIP, false, "ssm_d", "a number"}};
    const model_tensors *l = &m->layer[il];
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        const arch_slot *s = arch_slot_of(&m->hp, rates[i].id, il);
        const int        at = s ? model__wrong(l->vec[s->id], arch_dim(&m->hp, s->in, il) * arch_dim(&m->hp, s->out, il),
                                               rates[i].decay) : -1;
        if (at >= 0)
            return err_set(e, EXIT_INPUT, "%s: blk.%d.%s: value %d is %g, expected %s", m->g->path, il, rates[i].name, at,
                           (double)l->vec[s->id][at], rates[i].want);
    }
    return true;
}

/* The projections of a gated delta net: one, or two. */
static bool model__check_delta(const model *m, int il, err_t *e) {
    const model_tensors *l = &m->layer[il];
    if (m->hp.layer[il].mixer != MIX_DELTA) return true;
    const bool all = l->mat[W_REC_ALL].data, in = l->mat[W_REC_IN].data, z = l->mat[W_REC_Z].data;
    if (all && (in || z)) return model__both(m, W_REC_ALL, in ? W_REC_IN : W_REC_Z, il, e);
    return all || (in && z) ||
           err_set(e, EXIT_INPUT, "%s: tensor blk.%d.attn_%s.weight is missing", m->g->path, il, in ? "gate" : "qkv");
}

/* Experts of another width have the matrices that go there and back. */
static bool model__check_experts(const model *m, int il, err_t *e) {
    const model_tensors *l = &m->layer[il];
    const bool           want = m->hp.n_embd_exp && m->hp.layer[il].ffn == FFN_EXPERTS;
    const arch_slot_id   ids[2] = {W_EXPS_IN, W_EXPS_OUT};
    for (int i = 0; i < 2; i++)
        if (want && !l->mat[ids[i]].data)
            return err_set(e, EXIT_INPUT, "%s: tensor blk.%d.ffn_latent_%s.weight is missing", m->g->path, il,
                           i ? "up" : "down");
    return true;
}

static bool model__check_laurel(const model *m, int il, err_t *e) {
    const int in = m->layer[il].mat[W_LAUREL_IN].n_out, out = m->layer[il].mat[W_LAUREL_OUT].n_in;
    return in == out ||
           err_set(e, EXIT_INPUT, "%s: blk.%d.laurel_l has %d rows, laurel_r has rows of %d values, expected as many",
                   m->g->path, il, in, out);
}

/* The gate of attention has a row for each value or for each head. */
static bool model__check_gate(const model *m, int il, err_t *e) {
    const dev_mat *mat = m->layer[il].mat;
    return !(m->hp.desc->quirks & Q_SOFT_GATE) || mat[W_OUT_GATE].data || mat[W_HEAD_GATE].data ||
           err_set(e, EXIT_INPUT, "%s: tensor blk.%d.attn_gate.weight is missing, or has not %d or %d rows", m->g->path, il,
                   (int)arch_dim(&m->hp, D_HEAD, il), (int)arch_dim(&m->hp, D_O, il));
}

/* The tensors of layer il, -1: of the model. */
static bool model__bind_layer(model *m, int il, bool *used, err_t *e) {
    m->lacks = false;
    for (int id = 0; id < ARCH_SLOTS; id++)
        if (!model__bind(m, (arch_slot_id)id, il, used, e)) return false;
    return il < 0 || (model__split(m, &m->layer[il], il, e) && model__split_latent(m, &m->layer[il], il, e) &&
                      model__check_delta(m, il, e) && model__check_rates(m, il, e) && model__check_experts(m, il, e) &&
                      model__check_laurel(m, il, e) && model__check_gate(m, il, e) && model__join_taps(m, &m->layer[il], il) &&
                      model__spread_taps(m, &m->layer[il]));
}

/* A model is whole without a draft head that lacks a tensor, which a line on stderr says. */
static bool model__leave_head(model *m, int il, err_t *e) {
    if (!m->lacks || il < m->hp.n_layer) return false;
    log_warn("%s: the model runs without that draft head", e->text);
    m->hp.n_nextn = il - m->hp.n_layer;
    *e = (err_t){0};
    return true;
}

static bool model__bind_all(model *m, err_t *e) {
    const gguf_file *g = m->g;
    bool            *used = mem_new(g->n_tensor, sizeof *used);
    bool             ok = true;
    for (int il = -1; ok && il < arch_own_layers(&m->hp); il++)
        ok = model__bind_layer(m, il, used, e) || model__leave_head(m, il, e);
    for (uint64_t i = 0; ok && i < g->n_tensor; i++)
        if (!used[i] && !model__ignored(m, &g->tensor[i]))
            ok = gguf_bad(g, g->tensor[i].part, g->tensor[i].at, e, "tensor %.*s is not part of a %s model",
                          GGUF_SHOW(g->tensor[i].name), m->hp.desc->name);
    mem_free(used);
    dev_mat   *embd = &m->glob.mat[W_TOK_EMBD], *output = &m->glob.mat[W_OUTPUT];
    const bool tied = !output->data && (m->hp.causal || arch_diffuses(&m->hp));
    if (ok && tied) *output = *embd;
    if (!embd->data) *embd = *output;
    return ok && (embd->data || err_set(e, EXIT_INPUT, "%s: tensor token_embd.weight is missing", g->path));
}

/* --- RoPE frequencies --- */

/* The dimension whose wavelength fits `turns` times into the trained context (Peng et al. 2023, YaRN, eq. 17). */
static double model__yarn_dim(const arch_rope_hp *ro, double turns) {
    return ro->n_rot * log(ro->n_ctx_orig / (turns * 2 * M_PI)) / (2 * log((double)ro->base));
}

#define MODEL_STILL 1e30f                             /* a divisor from which on a pair does not rotate */

/* Radians per position of each pair. Factors of the file (Llama 3; NULL: none) divide the frequencies. Linear scaling divides
 * all by one factor. YaRN keeps the fast pairs, divides the slow ones, blends between them, and multiplies cos and sin by
 * mscale. */
static void model__rope_table(model_rope *to, const arch_rope_hp *ro, const float *factors) {
    double lo = 0, hi = 0;
    bool   yarn = ro->scaling == SCALE_YARN && ro->factor != 1.0f;
    to->freq = mem_new((size_t)ro->n_rot / 2, sizeof *to->freq);
    to->mscale = ro->yarn_attn;
    if (yarn) {
        lo = model__yarn_dim(ro, ro->yarn_fast), hi = model__yarn_dim(ro, ro->yarn_slow);
        if (!ro->yarn_smooth) lo = floor(lo), hi = ceil(hi);
        lo = fmax(0, lo), hi = fmin(ro->n_rot - 1, hi);
        if (ro->yarn_ext != 0 && !ro->yarn_scores) to->mscale *= 1.0f + 0.1f * logf(ro->factor);
        if (ro->yarn_ext != 0 && !ro->yarn_scores && ro->factor > 1) to->mscale /= 1.0f + 0.1f * ro->yarn_log * logf(ro->factor);
    }
    for (int i = 0; i < ro->n_rot / 2; i++) {
        double f = pow((double)ro->base, -2.0 * i / ro->n_rot);
        if (factors) f = factors[i] >= MODEL_STILL ? 0 : f / (double)factors[i];
        double slow = f / ro->factor;
        double mix = yarn ? ro->yarn_ext * (1 - fmin(1, fmax(0, (i - lo) / fmax(0.001, hi - lo)))) : 0;
        to->freq[i] = slow * (1 - mix) + f * mix;
    }
}

/* The factor of YaRN that belongs to scores (DeepSeek-AI 2024): (1 + m ln s)^2, where s stretches the context. */
static void model__scale_scores(const arch_hparams *hp, arch_layer_hp *l) {
    const arch_rope_hp *ro = &hp->rope[l->rope];
    const float         f = 1.0f + ro->yarn_log * logf(ro->factor);
    if (ro->yarn_scores && ro->scaling == SCALE_YARN && ro->factor > 1) l->attn_scale *= f * f;
}

/* Divisors of the frequencies of all tables but local ones; NULL: none. LongRoPE has two sets (Ding et al. 2024): the long
 * one is for contexts larger than the one before its extension, so that the text depends on the context of the run. */
static const float *model__factors(const model *m, int n_ctx) {
    const float *const *vec = m->glob.vec;
    const int           orig = m->hp.rope[0].n_ctx_orig;
    if (!vec[W_ROPE_LONG]) return vec[W_ROPE_FREQS];
    return vec[(n_ctx ? n_ctx : m->hp.n_ctx_train) > orig ? W_ROPE_LONG : W_ROPE_SHORT];
}

static void model__rope(model *m, int n_ctx) {
    const float *factors = model__factors(m, n_ctx), *long_set = m->glob.vec[W_ROPE_LONG];
    m->rope_set = !long_set ? "" : factors == long_set ? "long" : "short";
    m->n_rot = 0;
    for (int i = 0; i < m->hp.n_rope; m->n_rot += m->hp.rope[i++].n_rot) {
        m->rope[i].at = m->n_rot;
        model__rope_table(&m->rope[i], &m->hp.rope[i], m->hp.rope[i].local ? NULL : factors);
    }
}

/* Tables of RoPE that factors of the file are for. */
static int model__scaled_tables(const model *m) {
    int n = 0;
    for (int i = 0; i < m->hp.n_rope; i++) n += !m->hp.rope[i].local;
    return n;
}

/* Whether the tensor holds factors of frequencies that can be used. */
static bool model__check_factors(const model *m, arch_slot_id id, err_t *e) {
    const float *f = m->glob.vec[id];
    const char  *name = arch_slot_of(&m->hp, id, -1)->name;
    const int    tables = model__scaled_tables(m);
    if (tables > 1) return err_set(e, EXIT_INPUT, "%s: %s with %d tables of RoPE, expected one", m->g->path, name, tables);
    for (int i = 0; i < arch_dim(&m->hp, D_ROT, -1); i++)
        if (!(f[i] >= 1e-6f && (f[i] <= 1e6f || (f[i] >= MODEL_STILL && isfinite(f[i])))))
            return err_set(e, EXIT_INPUT, "%s: %s: value %d is %g, expected a positive factor", m->g->path, name, i,
                           (double)f[i]);
    return true;
}

static bool model__check_freqs(const model *m, err_t *e) {
    static const arch_slot_id ids[] = {W_ROPE_FREQS, W_ROPE_LONG, W_ROPE_SHORT};
    const float *const       *vec = m->glob.vec;
    if (!vec[W_ROPE_LONG] != !vec[W_ROPE_SHORT] || (vec[W_ROPE_LONG] && vec[W_ROPE_FREQS]))
        return err_set(e, EXIT_INPUT,
                       "%s: expected both of rope_factors_long and rope_factors_short, or rope_freqs, or none of them",
                       m->g->path);
    for (int i = 0; i < 3; i++)
        if (vec[ids[i]] && !model__check_factors(m, ids[i], e)) return false;
    return true;
}

/* `scaling`: the one that o names, or negative. */
static void model__override_table(arch_rope_hp *ro, const rope_opts *o, int scaling) {
    if (o->base > 0) ro->base = o->base;
    if (scaling >= 0) ro->scaling = (arch_scaling)scaling;
    if (o->factor > 0) ro->factor = o->factor;
    if (ro->scaling == SCALE_NONE || ro->scaling == SCALE_LONG) ro->factor = 1;
    if (o->orig_ctx > 0) ro->n_ctx_orig = o->orig_ctx;
    if (o->yarn_ext >= 0) ro->yarn_ext = o->yarn_ext;
    if (o->yarn_attn >= 0) ro->yarn_attn = o->yarn_attn;
    if (o->yarn_fast >= 0) ro->yarn_fast = o->yarn_fast;
    if (o->yarn_slow >= 0) ro->yarn_slow = o->yarn_slow;
}

static bool model__override_rope(arch_hparams *hp, const rope_opts *o, err_t *e) {
    const int scaling = o->scaling ? arch_scaling_of(bytes_of(o->scaling)) : -1;
    if (o->scaling && scaling < 0) return err_set(e, EXIT_INPUT, "--rope-scaling %s: expected none, linear or yarn", o->scaling);
    for (int i = 0; i < hp->n_rope; i++)
        if (!hp->rope[i].local) model__override_table(&hp->rope[i], o, scaling);
    for (int il = 0; il < arch_layers(hp); il++) model__scale_scores(hp, &hp->layer[il]);
    return true;
}

/* Slopes of ALiBi for n heads: 2^(-b i / m) for the largest power of two m up to n, then every second one of those for 2 m
 * (Press et al. 2022, where b is 8). */
static void model__slopes_of(int n, double b, float *to) {
    int m = 1;
    while (2 * m <= n) m *= 2;
    for (int h = 0; h < n; h++) to[h] = (float)exp2(h < m ? -b * (h + 1) / m : -b / 2 * (2 * (h - m) + 1) / m);
}

static void model__slopes(model *m) {
    if (m->hp.alibi == 0) return;
    for (int il = 0; il < m->hp.n_layer; il++) m->n_slope = max_int(m->n_slope, m->hp.layer[il].n_head);
    m->slope = mem_new(mem_size((size_t)m->hp.n_layer, (size_t)m->n_slope), sizeof *m->slope);
    for (int il = 0; il < m->hp.n_layer; il++)
        model__slopes_of(m->hp.layer[il].n_head, (double)m->hp.alibi, m->slope + (size_t)il * (size_t)m->n_slope);
}

/* The bucket of a distance, of n: half of them have one distance each, the others ranges that grow up to MODEL_REACH (Raffel et
 * al. 2020). Where positions see both ways, keys behind and before a query have half of all each. */
static int model__bucket(int far, int n, bool both) {
    const int half = both ? n / 2 : n, exact = half / 2, from = both && far > 0 ? half : 0, d = both || far < 0 ? abs(far) : 0;
    if (d < exact) return from + d;
    const double at = log((double)d / exact) / log((double)MODEL_REACH / exact) * (half - exact);
    return from + min_int(exact + (int)floor(at + 1e-6), half - 1);
}

/* Biases of layer il, from its own tensor or that of the first layer of its kind. */
static bool model__distances_of(model *m, int il, err_t *e) {
    const int       first = il >= m->hp.n_enc ? m->hp.n_enc : 0, heads = m->hp.layer[il].n_head, wide = 2 * MODEL_REACH + 1;
    const dev_mat  *own = &m->layer[il].mat[W_DISTANCE], *w = own->data ? own : &m->layer[first].mat[W_DISTANCE];
    const dev_view  view = m->hp.layer[il].view;
    char            name[MODEL_NAME];
    if (!w->data) {
        model__name(m, arch_slot_of(&m->hp, W_DISTANCE, first), first, name);
        return err_set(e, EXIT_INPUT, "%s: tensor %s is missing", m->g->path, name);
    }
    float *row = mem_new((size_t)heads, sizeof *row), *to = mem_new(mem_size((size_t)heads, (size_t)wide), sizeof *to);
    bool   finite = true;
    m->distance[il] = to;
    for (int i = 0; i < wide; i++) {
        const int bucket = model__bucket(i - MODEL_REACH, m->hp.n_bucket, view == VIEW_ALL || view == VIEW_SOURCE);
        k_types[w->type].dequant(w->data + (size_t)bucket * w->row_bytes, row, heads);
        for (int h = 0; h < heads; h++) {
            to[h * wide + i] = row[h] * (w->scale ? w->scale[0] : 1);
            finite = finite && isfinite(to[h * wide + i]);
        }
    }
    mem_free(row);
    model__name(m, arch_slot_of(&m->hp, W_DISTANCE, il), il, name);
    return finite || err_set(e, EXIT_INPUT, "%s: %s holds a NaN or an infinity, expected numbers", m->g->path, name);
}

static bool model__distances(model *m, err_t *e) {
    bool ok = true;
    if (!m->hp.n_bucket) return true;
    m->distance = mem_new((size_t)m->hp.n_layer, sizeof *m->distance);
    for (int il = 0; ok && il < m->hp.n_layer; il++) ok = model__distances_of(m, il, e);
    return ok;
}

/* A file may hold a draft head alone, with the sizes of the model that it belongs to. */
static bool model__has_trunk(const gguf_file *g, err_t *e) {
    return !arch_is_head(g) ||
           err_set(e, EXIT_INPUT,
                   "%s: holds a draft head (nextn) without the model: it goes with -md to that model, expected a whole model",
                   g->path);
}

/* Rows of the table of n-grams are read here and there: the kernel reads none ahead. */
static void model__scatter(const model *m) {
    const dev_mat *w = &m->glob.mat[W_GRAMS];
    if (w->data) gguf_scatter(m->g, w->data, w->row_bytes * (size_t)w->n_out);
}

/* model_open() for a model, or for a draft head of another architecture, which lies beside a model. */
static bool model__load(model *m, const gguf_file *g, const rope_opts *o, bool beside, err_t *e) {
    *m = (model){.g = g};
    if (!arch_load(&m->hp, g, e) || !model__override_rope(&m->hp, o, e)) return false;
    m->layer = mem_new((size_t)arch_own_layers(&m->hp), sizeof *m->layer);
    if (!beside && !model__has_trunk(g, e)) return false;
    if (!model__bind_all(m, e) || !model__check_freqs(m, e)) return false;
    model__rope(m, o->n_ctx);
    model__slopes(m);
    model__means(m);
    model__scatter(m);
    return model__distances(m, e);
}

/* Reads and checks everything. The model holds views into g, which must outlive it. On failure e is set. The caller calls
 * model_close() in both cases. */
static bool model_open(model *m, const gguf_file *g, const rope_opts *o, err_t *e) {
    return model__load(m, g, o, false, e);
}

/* Whether h, with the draft head of another file, has the sizes of m. */
static bool model__head_fits(const model *m, const model *h, err_t *e) {
    const arch_hparams *a = &m->hp, *b = &h->hp;
    if (!b->n_nextn) return err_set(e, EXIT_INPUT, "%s: holds no draft head (nextn), expected one", h->g->path);
    if (a->n_nextn)
        return err_set(e, EXIT_INPUT, "%s: holds a draft head, and %s has one of its own, expected one of them", h->g->path,
                       m->g->path);
    if (a->desc == b->desc && a->halves != b->halves && a->desc->rope == ROPE_PAIRS)
        return err_set(e, EXIT_INPUT, "%s: a draft head with rows of Q and K in another order than %s (rope.halves)", h->g->path,
                       m->g->path);
    if (a->desc == b->desc && a->n_layer == b->n_layer && a->n_embd == b->n_embd && a->n_vocab == b->n_vocab) return true;
    return err_set(e, EXIT_INPUT,
                   "%s: the draft head of a %s of %d layers, %d wide, with %d tokens, expected that of a %s of %d, %d, %d",
                   h->g->path, b->desc->name, b->n_layer, b->n_embd, b->n_vocab, a->desc->name, a->n_layer, a->n_embd,
                   a->n_vocab);
}

/* The table of RoPE of m that layer il of h needs, a draft head; -1: m has none like it. */
static int model__head_rope(const model *m, const model *h, int il) {
    const arch_rope_hp *want = &h->hp.rope[h->hp.layer[il].rope];
    int                 t = m->hp.n_rope - 1;
    while (t >= 0 && (m->hp.rope[t].n_rot != want->n_rot || m->hp.rope[t].local != want->local)) t--;
    return t;
}

/* The tensors of layer il of h, a draft head beside m. */
static bool model__bind_head(const model *m, model *h, int il, err_t *e) {
    bool *used = mem_new(h->g->n_tensor, sizeof *used);
    bool  ok = true;
    for (int id = 0; ok && id < ARCH_SLOTS; id++) ok = model__bind(h, (arch_slot_id)id, il, used, e);
    ok = ok && model__split(h, &h->layer[il], il, e) && model__split_latent(h, &h->layer[il], il, e);
    mem_free(used);
    if (!ok) return false;
    const int rope = model__head_rope(m, h, il);
    h->hp.layer[il].rope = max_int(rope, 0);
    if (rope >= 0) model__scale_scores(&m->hp, &h->hp.layer[il]);
    return rope >= 0 ||
           err_set(e, EXIT_INPUT, "%s: a draft head with another RoPE than that of %s", h->g->path, m->g->path);
}

/* The layer of m whose keys and values an assistant reads: of the last layer with a window, or of the last without one. -1: m has
 * no such layer. */
static int model__lender(const model *m, bool window) {
    int il = m->hp.n_layer - 1;
    while (il >= 0 && (m->hp.layer[il].mixer != MIX_ATTN || (m->hp.layer[il].window > 0) != window)) il--;
    return il < 0 ? -1 : il - m->hp.layer[il].kv_back;
}

/* The first and the last layer of m whose keys and values its assistant reads. */
static void model_lent(const model *m, int *first, int *last) {
    const arch_hparams *a = &m->assist->hp;
    *first = *last = a->layer[0].kv_at;
    for (int il = 1; il < a->n_layer; il++) {
        *first = min_int(*first, a->layer[il].kv_at);
        *last = max_int(*last, a->layer[il].kv_at);
    }
}

/* Layer il of the assistant a finds the keys and values of m that it reads: of the positions before its own, which are one fewer
 * where it has a window. */
static bool model__lend(const model *m, model *a, int il, err_t *e) {
    arch_layer_hp       *l = &a->hp.layer[il];
    const int            at = model__lender(m, l->window > 0);
    const arch_layer_hp *of = at < 0 ? NULL : &m->hp.layer[at];
    if (!of)
        return err_set(e, EXIT_INPUT, "%s: layer %d of the draft head has %s window, and no layer of %s has %s", a->g->path, il,
                       l->window ? "a" : "no", m->g->path, l->window ? "one" : "none");
    if (of->hd_k != l->hd_k || of->hd_v != l->hd_v || l->n_head % of->n_head_kv || of->window != l->window || l->window == 1)
        return err_set(e, EXIT_INPUT,
                       "%s: layer %d of the draft head has %d heads of %d values and a window of %d, layer %d of %s, whose keys "
                       "it reads, %d of %d and %d, expected heads and a window that fit",
                       a->g->path, il, l->n_head, l->hd_k, l->window, at, m->g->path, of->n_head_kv, of->hd_k, of->window);
    l->kv_at = at;
    l->n_head_kv = of->n_head_kv;
    l->window -= l->window > 0;
    return true;
}

/* The draft head of another architecture in file g becomes that of m. */
static bool model__add_assistant(model *m, const gguf_file *g, err_t *e) {
    model *a = mem_new(1, sizeof *a);
    bool   ok = model__load(a, g, &rope_defaults, true, e);
    if (ok && m->hp.n_nextn)
        ok = err_set(e, EXIT_INPUT, "%s: holds a draft head, and %s has one of its own, expected one of them", g->path,
                     m->g->path);
    if (ok && (a->hp.n_state != m->hp.n_embd || a->hp.n_vocab != m->hp.n_vocab))
        ok = err_set(e, EXIT_INPUT, "%s: the draft head of a model %d wide with %d tokens, expected that of one of %d, %d",
                     g->path, a->hp.n_state, a->hp.n_vocab, m->hp.n_embd, m->hp.n_vocab);
    for (int il = 0; ok && il < a->hp.n_layer; il++) ok = model__lend(m, a, il, e);
    if (ok) {
        a->hp.final_cap = 0;
        m->assist = a;
        m->head_g = g;
        return true;
    }
    model_close(a);
    mem_free(a);
    return false;
}

/* The draft heads of file g, which holds these alone and outlives m, become the model's. m is as it was where that fails and e is
 * set. */
static bool model_add_head(model *m, const gguf_file *g, err_t *e) {
    if (arch_assists(g)) return model__add_assistant(m, g, e);
    model     h = {.g = g};
    bool      ok = arch_load(&h.hp, g, e) && model__head_fits(m, &h, e);
    const int from = m->hp.n_layer;
    if (ok) h.layer = mem_new((size_t)arch_layers(&h.hp), sizeof *h.layer);
    for (int il = from; ok && il < arch_layers(&h.hp); il++) ok = model__bind_head(m, &h, il, e);
    if (ok) {
        m->hp.n_nextn = h.hp.n_nextn;
        m->hp.layer = mem_grow(m->hp.layer, (size_t)arch_layers(&m->hp), sizeof *m->hp.layer);
        m->layer = mem_grow(m->layer, (size_t)arch_layers(&m->hp), sizeof *m->layer);
        for (int il = from; il < arch_layers(&m->hp); il++) {
            m->hp.layer[il] = h.hp.layer[il];
            m->layer[il] = h.layer[il];
        }
        m->head_g = g;
    }
    for (int i = 0; i < h.n_made; i++) {
        if (ok) MEM_PUSH(m->made, m->n_made, h.made[i]);
        else mem_free(h.made[i]);
    }
    mem_free_all(h.layer, h.made);
    arch_drop(&h.hp);
    return ok;
}

/* Whether the model's draft heads are used; after model_open() all are there. Of several the first is run alone, since a head
 * that reads its own output guesses further tokens, unless each further guess has one of its own. */
static void model_use_head(model *m, bool use) {
    const bool chain = m->hp.desc->traits & A_CHAIN;
    m->hp.n_nextn = !use ? 0 : chain ? m->hp.n_nextn : min_int(m->hp.n_nextn, 1);
    if (use || !m->assist) return;
    model_close(m->assist);
    mem_free(m->assist);
    m->assist = NULL;
}

/* A line on stderr for each key of the file that changes the text and that llama.cpp does not read for the architecture. */
static void model_say_own_keys(const model *m) {
    const char *arch = m->hp.desc->name;
    for (size_t i = 0; i < ARCH_PEERS; i++)
        if (m->hp.own_keys >> i & 1)
            log_warn("%s: %s.%s counts here; llama.cpp does not read it for %s", m->g->path, arch, arch_peers[i].key, arch);
}

/* Whether it writes answers by diffusion. */
static bool model_diffuses(const model *m) { return arch_diffuses(&m->hp); }

/* Whether the model can continue a text. On failure e is set. */
static bool model_writes(const model *m, err_t *e) {
    return m->hp.causal || model_diffuses(m) ||
           err_set(e, EXIT_INPUT, "%s: a %s model makes vectors of texts and continues none, expected --embed", m->g->path,
                   m->hp.desc->name);
}

/* Whether a text is computed in one step. */
static bool model_whole(const model *m) { return arch_whole(&m->hp); }

/* Whether the model has so many positions; learned ones are bounded. On failure e is set. */
static bool model_holds(const model *m, int n_ctx, err_t *e) {
    return !m->glob.mat[W_POS_EMBD].data || n_ctx <= m->hp.n_ctx_train ||
           err_set(e, EXIT_INPUT, "%s: a context of %d tokens, expected at most %d: so many positions are learned (-c N)",
                   m->g->path, n_ctx, m->hp.n_ctx_train);
}

/* --- what an adapter may change --- */

enum { MODEL_TARGETS = 3 };                           /* most matrices that a tensor of a file holds */

/* A matrix that the step multiplies with, or looks embeddings up in. */
typedef struct {
    dev_mat     *mat;
    arch_slot_id id;
    int64_t      row;                                 /* its first row in the tensor */
} model_target;

/* Whether an adapter may change a matrix of the slot: the step multiplies rows with it, one matrix or one for each expert. */
static bool model__takes_low(arch_slot_id id, const dev_mat *w) {
    static const arch_slot_id never[] = {W_POS_EMBD, W_BY_TOKEN, W_GRAMS, W_CLS, W_CLS_OUT, W_NEXTN_EMBD, W_K_B, W_V_B,
                                         W_DISTANCE};
    static const arch_slot_id stacks[] = {W_GATE_EXPS, W_UP_EXPS, W_DOWN_EXPS, W_GATE_ADJ, W_UP_ADJ, W_DOWN_ADJ};
    bool ok = w->n_mat == 1;
    for (size_t i = 0; i < sizeof stacks / sizeof *stacks; i++) ok = ok || id == stacks[i];
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) ok = ok && id != never[i];
    return ok && !model__idle(id);
}

/* The matrices of the model whose rows are those of tensor t of its file; n: how many rows they have together. Returns how many
 * matrices, -1: it has one that no adapter may change. */
static int model_targets(const model *m, const gguf_tensor *t, model_target to[MODEL_TARGETS], int64_t *n) {
    const bool           enc = bytes_begins(t->name, bytes_of("enc.")), dec = bytes_begins(t->name, bytes_of("dec."));
    gguf_tensor          bare = *t;
    if (enc || dec) bare.name = bytes_slice(t->name, 4, t->name.n);
    const int            number = model_layer_of(&bare), il = number >= 0 && dec ? number + m->hp.n_enc : number;
    const model_tensors *of = il < 0 ? &m->glob : il < min_int(arch_own_layers(&m->hp), m->hp.n_layer) ? &m->layer[il] : NULL;
    int                  count = 0;
    *n = 0;
    for (int id = 0; of && id < ARCH_SLOTS; id++) {
        const dev_mat *w = &of->mat[id];
        if (!w->data || w->data < t->data || w->data >= t->data + t->n_bytes) continue;
        if (id == W_OUTPUT && w->data == of->mat[W_TOK_EMBD].data) continue;
        if (count == MODEL_TARGETS || !model__takes_low((arch_slot_id)id, w)) return -1;
        to[count++] = (model_target){(dev_mat *)w, (arch_slot_id)id, (int64_t)((size_t)(w->data - t->data) / w->row_bytes)};
        *n += w->n_out;
    }
    return count;
}

/* --- packed weights --- */

typedef struct {
    pool          *p;                                 /* the threads that pack */
    const dev_mat *w;                                 /* the matrix that they pack */
    dev_parts      to;                                /* where */
    int            n;                                 /* tasks */
    int            at[HOST_NODES + 1];                /* [nodes + 1] the first task of each node */
} model__packing;

enum { MODEL_PACK_ROWS = 64 };                        /* rows of one task */

/* Tasks for the part of one matrix that node k has. */
static int model__pack_tasks(const model__packing *k, int node) {
    return (k->to.from[node + 1] - k->to.from[node] + MODEL_PACK_ROWS - 1) / MODEL_PACK_ROWS;
}

/* A task: so many rows of one matrix of the stack, which belong to a node. */
static void model__pack_one(const model__packing *k, int task) {
    const dev_mat *w = k->w;
    int            node = 0;
    while (task >= k->at[node + 1]) node++;
    const int    per = model__pack_tasks(k, node), i = task - k->at[node], r = k->to.from[node] + i % per * MODEL_PACK_ROWS;
    const size_t mat = (size_t)(i / per);
    k_pack_rows(w->type, w->data + mat * w->mat_bytes + (size_t)r * w->row_bytes, w->row_bytes,
                min_int(k->to.from[node + 1] - r, MODEL_PACK_ROWS), w->n_in,
                k->to.at[node] + mat * k->to.bytes[node] + k_pack_at(w->type, r - k->to.from[node], w->n_in));
}

/* Each node's threads pack the rows that they will multiply: their memory is that of the node also where the kernel does not
 * place it. */
static void model__pack_some(void *ctx, int ith) {
    const model__packing *k = ctx;
    const bool            own = pool_nodes(k->p) > 1;
    (void)ith;
    for (int i; (i = own ? pool_own(k->n, k->at) : pool_deal(k->p, k->n, NULL)) != POOL_NONE;) model__pack_one(k, i);
}

/* Rows of a matrix by node, and bytes that they take there. */
static dev_parts model__parts(const dev_mat *w, const pool *p) {
    dev_parts to = {.n = pool_nodes(p)};
    for (int k = 0; k <= to.n; k++) to.from[k] = dev_part_row(p, w->n_out, k);
    for (int k = 0; k < to.n; k++) {
        const int rows = to.from[k + 1] - to.from[k];
        to.bytes[k] = rows ? k_pack_bytes(w->type, rows, w->n_in) : 0;
    }
    return to;
}

/* Bytes of a matrix, or of a stack, in the file. */
static uint64_t model__file_bytes(const dev_mat *w) { return (uint64_t)w->row_bytes * (uint64_t)w->n_out * (uint64_t)w->n_mat; }

/* Bytes of matrices. */
typedef struct {
    uint64_t file;                                    /* as they are in the file */
    uint64_t slow;                                    /* of those with types that are slow unless packed; here and below without
                                                       * experts that are read ahead */
    uint64_t floats;                                  /* of those that are floats */
    uint64_t packed;                                  /* what packing all of them takes */
    uint64_t given;                                   /* of the file, what packing no longer needs */
} model_bytes;

/* Bytes of the matrices that the host multiplies with. */
static model_bytes model_sizes(const model *m) {
    int         at = 0;
    model_bytes b = {0};
    for (const dev_mat *w; (w = model__mat(m, &at));) {
        const uint64_t file = model__file_bytes(w);
        if (w->on_gpu) continue;
        b.file += file;
        if (w->ahead) continue;
        b.slow += k_slow_unpacked(w->type) ? file : 0;
        b.floats += k_wants_q8(w->type) ? 0 : file;
        const uint64_t packed = (uint64_t)k_pack_bytes(w->type, w->n_out, w->n_in) * (uint64_t)w->n_mat;
        b.packed += packed;
        b.given += packed && w->data != m->glob.mat[W_TOK_EMBD].data ? file : 0;
    }
    return b;
}

/* Matrices of f16 are rounded to bf16 as they are read, and multiply as fast as in a file of bf16. */
static void model_as_bf16(model *m) {
    int      at = 0;
    dev_mat *embd = &m->glob.mat[W_TOK_EMBD];
    if (embd->type == K_F16) embd->type = K_F16_ROUND;
    for (dev_mat *w; (w = model__mat(m, &at));)
        if (w->type == K_F16) w->type = K_F16_ROUND;
}

/* Whether a matrix takes activations rounded to bf16. The values in a prompt cache then depend on that rounding. */
static bool model_has_bf16(const model *m) {
    int at = 0;
    for (const dev_mat *w; (w = model__mat(m, &at));)
        if (k_act_of(w->type) == K_ACT_BF16) return true;
    return false;
}

/* The experts are larger than memory: they stay in the file, unpacked, and those that rows have chosen are read before their
 * products, up to `most` bytes of a layer at a time. False: the model has no experts. */
static bool model_read_ahead(model *m, size_t most) {
    static const arch_slot_id experts[] = {W_GATE_EXPS, W_UP_EXPS, W_DOWN_EXPS};
    bool any = false;
    for (int il = 0; il < arch_own_layers(&m->hp); il++)
        for (size_t i = 0; i < sizeof experts / sizeof *experts; i++) {
            dev_mat *w = &m->layer[il].mat[experts[i]];
            if (w->data) w->ahead = most, any = true;
        }
    return any;
}

/* n bytes of weights, of the model's file or of its draft head's, are not read again soon. */
static void model__drop_pages(const model *m, const uint8_t *p, size_t n) {
    gguf_drop_pages(m->g, p, n);
    if (m->head_g) gguf_drop_pages(m->head_g, p, n);
}

/* Reserves address space on each memory node for all matrices that can be packed. */
static void model__room(model *m, const pool *p) {
    int at = 0;
    m->n_packs = pool_nodes(p);
    for (const dev_mat *w; (w = model__mat(m, &at));) {
        if (w->on_gpu || w->ahead || !k_pack_bytes(w->type, w->n_out, w->n_in)) continue;
        const dev_parts to = model__parts(w, p);
        for (int k = 0; k < to.n; k++) m->packs[k].bytes += to.bytes[k] * (size_t)w->n_mat;
    }
    for (int k = 0; k < m->n_packs; k++) {
        model_room *r = &m->packs[k];
        if (r->bytes) r->p = mem_pages(r->bytes);
        if (m->n_packs > 1) host_place(r->p, r->bytes, pool_node_of(p, k)->memory);
    }
}

/* Assigns to the matrix its bytes in the memory of each node. */
static void model__take_room(model *m, dev_mat *w, model__packing *k) {
    w->packed_bytes = 0;
    for (int i = 0; i < k->to.n; i++) {
        model_room *r = &m->packs[i];
        k->to.at[i] = r->p + r->used;
        r->used += k->to.bytes[i] * (size_t)w->n_mat;
        w->packed_bytes += k->to.bytes[i];
        k->n = k->at[i + 1] = k->n + model__pack_tasks(k, i) * w->n_mat;
    }
    w->packed = k->to.at[0];
    m->packs_used += w->packed_bytes * (size_t)w->n_mat;
    if (k->to.n == 1) return;
    dev_parts *parts = mem_new(1, sizeof *parts);
    *parts = k->to;
    w->parts = parts;
    MEM_PUSH(m->made, m->n_made, (uint8_t *)parts);
}

/* Packs the next matrices, `most` bytes of the file or a little more, if their types have a packed layout. The threads that
 * will read a matrix pack it. Its pages of the file are released, unless embeddings are read from them. Results are the same
 * to the bit before, during and after packing. True: more is left. An interrupt ends it between two matrices. */
static bool model_pack(model *m, pool *p, size_t most) {
    if (!m->n_packs) model__room(m, p);
    for (size_t done = 0; done < most && !g_interrupt;) {
        dev_mat *w = model__mat(m, &m->pack_at);
        if (!w) return false;
        if (w->on_gpu || w->ahead || !k_pack_bytes(w->type, w->n_out, w->n_in)) continue;
        model__packing k = {.p = p, .w = w, .to = model__parts(w, p)};
        model__take_room(m, w, &k);
        pool_run(p, model__pack_some, &k);
        for (int i = 0; i < w->n_mat && w->data != m->glob.mat[W_TOK_EMBD].data; i++)
            model__drop_pages(m, w->data + (size_t)i * w->mat_bytes, w->row_bytes * (size_t)w->n_out);
        done += model__file_bytes(w);
    }
    return m->pack_at < arch_own_layers(&m->hp) * ARCH_SLOTS + MODEL_PRODUCTS;
}

/* Pages of the file whose weights lie on a GPU are released. */
static void model_release(const model *m) {
    int at = 0;
    for (const dev_mat *w; m->gpus && (w = model__mat(m, &at));)
        if (w->on_gpu && w->data != m->glob.mat[W_TOK_EMBD].data) model__drop_pages(m, w->data, w->row_bytes * (size_t)w->n_out);
}

/* Whether a run would accept the file. On failure e is set. */
static bool model_check(const gguf_file *g, err_t *e) {
    model m;
    bool  ok = model_open(&m, g, &rope_defaults, e);
    if (ok) model_say_own_keys(&m);
    model_close(&m);
    return ok;
}

/* Bytes of the keys and values that a layer keeps of one position, and of the key of its indexer. */
static uint64_t model__position_bytes(const arch_hparams *hp, int il, uint32_t type_k, uint32_t type_v) {
    const arch_layer_hp *l = &hp->layer[il];
    if (l->kv_back || l->kv_over) return 0;
    return (uint64_t)l->n_head_kv * (k_kv_bytes(type_k, l->hd_k) + (l->rank ? 0 : k_kv_bytes(type_v, l->hd_v))) +
           (l->indexed && !l->pool_span ? k_kv_bytes(type_k, hp->hd_index) : 0);
}

/* Bytes of a position for keys of groups and those of the indexer: of the keys, which stay, and of what the last of them are made
 * of (made). */
static uint64_t model__pooled_bytes(const arch_hparams *hp, int il, uint32_t type_k, bool made) {
    const arch_layer_hp *l = &hp->layer[il];
    uint64_t             n = 0;
    for (int i = 0; l->pool_span && i < 1 + l->indexed; i++) {
        const int hd = i ? hp->hd_index : l->hd_k;
        n += made ? 2 * (uint64_t)(l->pool_span / l->ratio) * k_kv_bytes(K_F32, hd)
                  : (k_kv_bytes(type_k, hd) - 1) / (uint64_t)l->ratio + 1;
    }
    return n;
}

/* Bytes of one token in the KV cache, in all layers. */
static uint64_t model_kv_bytes(const arch_hparams *hp, uint32_t type_k, uint32_t type_v) {
    uint64_t n = 0;
    for (int il = 0; il < arch_layers(hp); il++)
        n += model__position_bytes(hp, il, type_k, type_v) + model__pooled_bytes(hp, il, type_k, false) +
             model__pooled_bytes(hp, il, type_k, true);
    return n;
}

/* Bytes of keys and values of layer il for one sequence of n_ctx positions, where a step has n_rows rows. */
static uint64_t model_kv_bytes_of(const model *m, int il, uint32_t type_k, uint32_t type_v, int64_t n_ctx, int n_rows) {
    const arch_layer_hp *l = &m->hp.layer[il];
    const int64_t        seen = l->window ? min_i64(l->window + n_rows, n_ctx) : n_ctx;
    return (uint64_t)seen * model__position_bytes(&m->hp, il, type_k, type_v) +
           (uint64_t)n_ctx * model__pooled_bytes(&m->hp, il, type_k, false) +
           (uint64_t)min_i64(l->pool_span + n_rows, n_ctx) * model__pooled_bytes(&m->hp, il, type_k, true);
}
