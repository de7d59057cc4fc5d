/* ===== [arch] architectures as data =====
 * What a model of each architecture consists of: a row of arch_table holds the choices that its step makes, arch_keys the
 * hyper-parameters, arch_slots the tensors with their shapes. arch_load() reads and checks the hyper-parameters. Sizes, kinds and
 * windows belong to a layer. The step reads kinds and numbers and never asks for an architecture by name.
 * To add an architecture: 1 a row of arch_table, and a trait for a choice that no other makes; 2 rows of arch_keys and arch_slots for
 * keys and tensors that no other has; 3 for a block that no other has, a kind of mixer or feed-forward, with its row in [fwd]; 4 a tiny
 * model with the logits of a float64 reading, from a script in tests/gen. tests/invented.rows shows two that are rows alone.
 * Public: arch_load, arch_drop, arch_list, arch_dim, arch_scaling_of, arch_slot_of, arch_table.
 * Opens: arch_desc, arch_hparams, arch_layer_hp, arch_rec, arch_rope_hp, arch_slot. */

typedef enum { ROPE_PAIRS, ROPE_HALVES } arch_rope;   /* RoPE rotates values 2i and 2i + 1 of a head, or i and i + n_rot/2 */

enum {
    A_PRE_NORM = 1,                                   /* norms of what attention and feed-forward read from the stream */
    A_POST_NORM = 2,                                  /* norms of what they add to it */
    A_LAYER_NORM = 4,                                 /* norms subtract the mean and may have biases: LayerNorm; else they are RMS norms */
    A_QK_NORM = 8,                                    /* RMS norm of each query and key head, before RoPE */
    A_QK_NORM_WIDE = 16,                              /* the same of all heads together */
    A_LATE_NAME = 32,                                 /* the norm before the feed-forward is named post_attention_norm */
    A_SINKS = 64,                                     /* attention scores of each head have one more, which takes its share of the weight */
    A_LOCAL_ROPE = 128,                               /* layers with a window have a RoPE base of their own and no scaling */
    A_SECTIONS = 256,                                 /* RoPE has sections for time, height and width, which are the same position in a text */
    A_TEMPER = 512,                                   /* queries grow with the position */
    A_LEARNED = 1024,                                 /* learned positions; none has RoPE */
    A_ROOT_EMBD = 2048,                               /* embeddings are multiplied by the square root of their width */
    A_MULTIPLIERS = 4096,                             /* logits are divided by logit_scale */
    A_DENSE = 1 << 13,                                /* no model has experts */
    A_MOE = 1 << 14,                                  /* every model has experts */
    A_TOPK_NORM = 1 << 15,                            /* weights of the chosen experts are scaled to sum to 1 */
    A_SHARED_EXPERT = 1 << 16,                        /* one expert runs for every token, after a sigmoid gate */
    A_SHARED_PLAIN = 1 << 17,                         /* one expert may run for every token, without a gate */
    A_UNGATED = 1 << 18,                              /* the feed-forward is down(act(up)) */
    A_GATE_UP = 1 << 19,                              /* ffn_up holds the rows of the gate and those of up after them */
    A_YARN_SMOOTH = 1 << 20,                          /* the blend of YaRN begins and ends between two pairs, not at whole ones */
    A_DELTA = 1 << 21,                                /* some layers are gated delta nets; attention in the others has a gate */
    A_DELTA_GROUPED = 1 << 22,                        /* value heads that share a key head are neighbours, with joined projections for each key head */
    A_SHORT_CONV = 1 << 23,                           /* layers without K/V heads are short convolutions; the last norm is named token_embd_norm */
    A_CHOICE_BIAS = 1 << 24,                          /* a bias of each expert counts for the choice of experts alone */
    A_ENCODER = 1 << 25,                              /* positions see those after them too; a window lies half on each side */
    A_SUM_NORM = 1 << 26,                             /* norms of the stream after each sum; none at its end */
    A_EMBD_NORM = 1 << 27,                            /* a norm of the embeddings */
    A_ALIBI = 1 << 28,                                /* scores fall with the distance (ALiBi); none has RoPE */
    A_FIRST_BARE = 1 << 29,                           /* the first layer has no norm before attention */
    A_EITHER_UP = 1 << 30,                            /* ffn_up may hold the rows of the gate before its own */
    A_SOME_EXPERTS = 1ll << 31,                       /* some layers have experts: the second of every moe_every_n_layers */
    A_VALUE_NORM = 1ll << 32,                         /* RMS norm of each value head, without a gain; without attn_v, values are keys before their norm */
    A_BY_LAYER = 1ll << 33,                           /* a token has a further embedding for each layer; late layers read earlier keys and values */
    A_BESIDE = 1ll << 34,                             /* experts run beside the dense feed-forward; their router has a norm of its own */
    A_ALTUP = 1ll << 35,                              /* several streams (AltUp), a low-rank layer beside attention (LAuReL), sparse gates */
    A_QK_LAYER_NORM = 1ll << 36,                      /* LayerNorm of all query heads together, and of all key heads */
    A_SUM_TWICE = 1ll << 37,                          /* what attention reads is added to its normed sum once more, and that sum has a norm too */
    A_UP_FIRST = 1ll << 38,                           /* where ffn_up holds the rows of the gate, they follow its own */
};

/* What is not said here is 0: none. */
typedef struct {
    const char *name, *families;                      /* families NULL: they are in an earlier row of this name */
    arch_rope   rope;
    uint64_t    traits;
    const char *tensor;                               /* files of this name that have it are of this row, which follows the row of the others */
    dev_act     act;                                  /* of the feed-forward */
    int         window;                               /* where the file has no window */
    int         window_every;                         /* of so many layers the last sees all positions; 0: a window is every layer's */
    bool        window_first;                         /* the first of them does instead */
    float       cap, final_cap;                       /* of attention scores and of logits, where the file has none */
    int         plain_every;                          /* of so many layers the last has no RoPE */
    float       base_local;                           /* base of RoPE in layers with a window; 0: as in the others */
    int         wide_scale;                           /* in models of so many layers attention scores are as for heads of n_embd / n_head values */
    float       attn_scale;                           /* factor on scores; 0: 1 / sqrt(values of a head) */
} arch_desc;

static const arch_desc arch_table[] = {
    /* general.architecture  known as                                              rope          traits */
    {"llama",    "Llama 1-3, Mistral, Mixtral, TinyLlama, SmolLM and their kin", ROPE_PAIRS,  .traits = A_PRE_NORM | A_TOPK_NORM},
    {"qwen2",    "Qwen 1.5 and 2.x, distilled R1",                                 ROPE_HALVES, .traits = A_PRE_NORM | A_DENSE},
    {"qwen2moe", "Qwen 1.5 MoE, Qwen 2 57B-A14B",                                  ROPE_HALVES, .traits = A_PRE_NORM | A_MOE | A_SHARED_EXPERT},
    {"qwen3",    "Qwen 3",                                                         ROPE_HALVES, .traits = A_PRE_NORM | A_DENSE | A_QK_NORM},
    {"qwen3moe", "Qwen 3 30B-A3B, 235B-A22B, Coder",                               ROPE_HALVES, .traits = A_PRE_NORM | A_MOE | A_QK_NORM | A_TOPK_NORM},
    {"gemma",    "Gemma 1, CodeGemma",                                             ROPE_HALVES, .traits = A_PRE_NORM | A_DENSE | A_ROOT_EMBD, .act = ACT_GELU},
    {"gemma2",   "Gemma 2",                                                        ROPE_HALVES, .traits = A_PRE_NORM | A_POST_NORM | A_DENSE | A_ROOT_EMBD,
     .act = ACT_GELU, .window = 4096, .window_every = 2, .cap = 50, .final_cap = 30, .wide_scale = 46},
    {"gemma3",   "Gemma 3",                                                        ROPE_HALVES, .traits = A_PRE_NORM | A_POST_NORM | A_DENSE | A_QK_NORM | A_ROOT_EMBD | A_LOCAL_ROPE,
     .act = ACT_GELU, .window_every = 6, .base_local = 10000, .wide_scale = 62},
    {"gpt-oss",  "gpt-oss 20B and 120B",                                           ROPE_HALVES, .traits = A_PRE_NORM | A_LATE_NAME | A_MOE | A_TOPK_NORM | A_SINKS | A_YARN_SMOOTH,
     .act = ACT_SWIGLU_CLIP, .window_every = 2},
    {"phi3",     "Phi 3 and 4, mini and medium",                                   ROPE_HALVES, .traits = A_PRE_NORM | A_DENSE | A_GATE_UP},
    {"mistral3", "Ministral 3",                                                    ROPE_PAIRS,  .traits = A_PRE_NORM | A_TOPK_NORM | A_TEMPER},
    {"granite",  "Granite 3",                                                      ROPE_PAIRS,  .traits = A_PRE_NORM | A_DENSE | A_MULTIPLIERS},
    {"granitemoe", "Granite 3 MoE",                                                ROPE_PAIRS,  .traits = A_PRE_NORM | A_TOPK_NORM | A_SHARED_PLAIN | A_MULTIPLIERS},
    {"smollm3",  "SmolLM 3",                                                       ROPE_PAIRS,  .traits = A_PRE_NORM | A_DENSE, .plain_every = 4},
    {"olmo2",    "OLMo 2 and 3",                                                   ROPE_HALVES, .traits = A_POST_NORM | A_DENSE | A_QK_NORM_WIDE | A_LOCAL_ROPE, .window_every = 4},
    {"starcoder2", "StarCoder 2",                                                  ROPE_HALVES, .traits = A_PRE_NORM | A_DENSE | A_LAYER_NORM | A_UNGATED, .act = ACT_GELU},
    {"gpt2",     "GPT-2",                                                          ROPE_HALVES, .traits = A_PRE_NORM | A_DENSE | A_LAYER_NORM | A_UNGATED | A_LEARNED, .act = ACT_GELU},
    {"qwen3vl",  "Qwen 3 VL, its text",                                            ROPE_HALVES, .traits = A_PRE_NORM | A_DENSE | A_QK_NORM | A_SECTIONS},
    {"olmoe",    "OLMoE",                                                          ROPE_HALVES, .traits = A_PRE_NORM | A_QK_NORM_WIDE},
    {"seed_oss", "Seed-OSS",                                                       ROPE_HALVES, .traits = A_PRE_NORM | A_LATE_NAME | A_DENSE},
    {"bert",     "BERT, RoBERTa, XLM-RoBERTa: BGE, E5, GTE, MiniLM",               ROPE_HALVES, .traits = A_ENCODER | A_LAYER_NORM | A_SUM_NORM | A_EMBD_NORM | A_DENSE | A_UNGATED | A_LEARNED,
     .act = ACT_GELU_ERF},
    {"nomic-bert", "Nomic Embed 1",                                                ROPE_HALVES, .traits = A_ENCODER | A_LAYER_NORM | A_SUM_NORM | A_EMBD_NORM | A_DENSE},
    {"nomic-bert-moe", "Nomic Embed 2",                                            ROPE_HALVES, .traits = A_ENCODER | A_LAYER_NORM | A_SUM_NORM | A_EMBD_NORM | A_UNGATED | A_SOME_EXPERTS,
     .act = ACT_GELU_ERF},
    {"jina-bert-v2", "Jina Embeddings 2, also for code",                           ROPE_HALVES, .traits = A_ENCODER | A_LAYER_NORM | A_SUM_NORM | A_EMBD_NORM | A_DENSE | A_EITHER_UP | A_ALIBI,
     .act = ACT_GELU_ERF},
    {"jina-bert-v2", NULL,                                                         ROPE_HALVES, .tensor = "blk.0.attn_norm_2.weight",       /* for code: "qk-post-norm" */
     .traits = A_ENCODER | A_LAYER_NORM | A_SUM_NORM | A_EMBD_NORM | A_DENSE | A_EITHER_UP | A_ALIBI | A_QK_LAYER_NORM | A_SUM_TWICE | A_UP_FIRST, .act = ACT_GELU_ERF},
    {"modern-bert", "ModernBERT: GTE, Granite Embedding R2",                       ROPE_HALVES, .traits = A_ENCODER | A_LAYER_NORM | A_PRE_NORM | A_EMBD_NORM | A_FIRST_BARE | A_DENSE | A_GATE_UP | A_LOCAL_ROPE,
     .act = ACT_GELU_ERF, .window_every = 3, .window_first = true},
    {"gemma-embedding", "EmbeddingGemma",                                          ROPE_HALVES, .traits = A_ENCODER | A_PRE_NORM | A_POST_NORM | A_DENSE | A_QK_NORM | A_ROOT_EMBD | A_LOCAL_ROPE,
     .act = ACT_GELU, .window_every = 6, .base_local = 10000},
    {"qwen3vlmoe", "Qwen 3 VL 30B-A3B and 235B-A22B, their text",                  ROPE_HALVES, .traits = A_PRE_NORM | A_MOE | A_QK_NORM | A_TOPK_NORM | A_SECTIONS},
    {"qwen35",   "Qwen 3.5 and 3.6",                                               ROPE_HALVES, .traits = A_PRE_NORM | A_LATE_NAME | A_DENSE | A_QK_NORM | A_DELTA | A_SECTIONS},
    {"qwen35moe", "Qwen 3.5 and 3.6 with experts: 35B-A3B, 122B-A10B",             ROPE_HALVES,
     .traits = A_PRE_NORM | A_LATE_NAME | A_MOE | A_QK_NORM | A_TOPK_NORM | A_SHARED_EXPERT | A_DELTA | A_SECTIONS},
    {"qwen3next", "Qwen3-Next 80B-A3B, Qwen3-Coder-Next",                          ROPE_HALVES,
     .traits = A_PRE_NORM | A_LATE_NAME | A_MOE | A_QK_NORM | A_TOPK_NORM | A_SHARED_EXPERT | A_DELTA | A_DELTA_GROUPED},
    {"lfm2",     "LFM2 350M to 2.6B",                                              ROPE_HALVES, .traits = A_PRE_NORM | A_DENSE | A_QK_NORM | A_SHORT_CONV},
    {"lfm2moe",  "LFM2 8B-A1B, 24B-A2B",                                           ROPE_HALVES,
     .traits = A_PRE_NORM | A_QK_NORM | A_TOPK_NORM | A_SHORT_CONV | A_CHOICE_BIAS},
    {"gemma4",   "Gemma 4: E2B, E4B, 26B-A4B, 31B",                                ROPE_HALVES,
     .traits = A_PRE_NORM | A_POST_NORM | A_QK_NORM | A_TOPK_NORM | A_ROOT_EMBD | A_LOCAL_ROPE | A_VALUE_NORM | A_BY_LAYER | A_BESIDE, .act = ACT_GELU, .window_every = 6, .attn_scale = 1},
    {"gemma3n",  "Gemma 3n: E2B, E4B",                                             ROPE_HALVES,
     .traits = A_PRE_NORM | A_POST_NORM | A_DENSE | A_QK_NORM | A_ROOT_EMBD | A_LOCAL_ROPE | A_VALUE_NORM | A_BY_LAYER | A_ALTUP, .act = ACT_GELU, .window_every = 5, .final_cap = 30,
     .base_local = 10000, .attn_scale = 1},
};
enum { ARCH_COUNT = sizeof arch_table / sizeof arch_table[0] };

static void arch_list(str *out) {
    for (int i = 0; i < ARCH_COUNT; i++)
        if (arch_table[i].families) str_fmt(out, "%-15s %s\n", arch_table[i].name, arch_table[i].families);
}

typedef enum { SCALE_NONE, SCALE_LINEAR, SCALE_YARN, SCALE_LONG, SCALES } arch_scaling;

/* The scaling with this name; -1: none has it. */
static int arch_scaling_of(bytes name) {
    static const char *const names[SCALES] = {"none", "linear", "yarn", "longrope"};
    int i = SCALES - 1;
    while (i >= 0 && !bytes_is(name, names[i])) i--;
    return i;
}

/* How the rows of a text become its vector, by the number in a file: each row stands alone; their mean; the first one; the last one; the first
 * or last one, after a classifier. */
typedef enum { POOLING_NONE, POOLING_MEAN, POOLING_CLS, POOLING_LAST, POOLING_RANK, POOLINGS } arch_pooling;

typedef enum { MIX_ATTN, MIX_DELTA, MIX_CONV } arch_mixer;        /* how a position reads earlier positions: attention, gated delta net, short convolution */
typedef enum { FFN_NONE, FFN_DENSE, FFN_EXPERTS, FFN_BESIDE } arch_ffn;      /* FFN_BESIDE: a dense one and experts */

/* Sizes of a recurrent mixer. Its convolution runs over `width` channels; n_v 0: there is nothing after it. */
typedef struct { int taps, width, n_k, n_v, d_k, d_v; } arch_rec;   /* taps and channels of the convolution; heads of keys and values, their sizes */

/* One layer. What may differ between layers is here and nowhere else. */
typedef struct {
    arch_mixer mixer;
    arch_ffn   ffn;
    int   n_head, n_head_kv, hd_k, hd_v;              /* heads of queries, of keys and values; values of a head */
    int   n_rot, rope;                                /* RoPE rotates the first n_rot values of a head, 0: none; number of its table */
    int   kv_back;                                    /* it reads the keys and values of the layer so many before it; 0: its own */
    bool  windowed;                                   /* by the pattern of layers */
    dev_view view;                                    /* which side of itself a position sees */
    int   window;                                     /* a position sees so many, itself included, or half of it on each side; 0: all */
    float attn_scale;                                 /* factor on q . k */
    float cap;                                        /* scores become cap * tanh(score / cap), 0: they stay */
    bool  gated;                                      /* the query projection holds a gate after each head */
    bool  recurrent;                                  /* by the pattern of layers: a gated delta net */
    int   n_ff;                                       /* width of the dense feed-forward, 0: none */
    float sparse;                                     /* gates below their mean and so many deviations are cut off; -INFINITY: none is */
    int   n_expert, n_expert_used, n_ff_exp;          /* experts; used for a row; width of each. 0: none */
    int   n_ff_shexp;                                 /* width of the shared expert, 0: none */
    arch_rec rec;                                     /* of a recurrent layer; width 0: it has keys and values */
} arch_layer_hp;

/* Parameters of one table of RoPE frequencies. */
typedef struct {
    int   n_rot;
    bool  local;                                      /* of layers with a window alone: options do not change it */
    float base, factor;                               /* a factor above 1 stretches the context */
    arch_scaling scaling;
    int   n_ctx_orig;                                 /* context that the model was trained with */
    float yarn_attn, yarn_ext, yarn_fast, yarn_slow;
    bool  yarn_smooth;                                /* YaRN blends from and to places between pairs */
    float yarn_log;                                   /* of the factor that YaRN's factor on cos and sin is divided by; 0: none */
} arch_rope_hp;

enum { ARCH_ROPES = 4 };                              /* most tables of one model */

/* What makes the score of an expert, as files number it. Softmax of the chosen is softmax of all with weights that sum to 1. */
typedef enum { GATE_NONE, GATE_SOFTMAX, GATE_SIGMOID, GATE_SOFTMAX_OF_CHOSEN } arch_gate;

typedef struct arch_hparams {
    const arch_desc *desc;
    int    n_vocab, n_embd, n_layer, n_ctx_train;
    int    n_ahead;                                   /* layers of the file after the last one, which predict further tokens: they are not run */
    int    n_dense;                                   /* the first layers, which have no experts */
    bool   topk_norm;                                 /* weights of the chosen experts sum to 1 */
    float  expert_scale;                              /* factor on the weights of the chosen experts */
    arch_gate expert_gate;                            /* what makes the score of an expert */
    int    pooling;                                   /* arch_pooling */
    int    n_class, n_behind;                         /* values of a classifier; width of the matrices after pooling, 0: there are none */
    dev_act act;                                      /* of the feed-forward */
    int    moe_every;                                 /* of so many layers the second has experts; 0: every layer, if there are any */
    bool   causal;                                    /* positions see those before them alone; else a text is computed whole */
    float  eps;                                       /* of norms */
    float  embd_scale, residual_scale, logit_scale;   /* factors on embeddings, on what a block adds, on logits; 0: 1 */
    float  final_cap;                                 /* logits become cap * tanh(logit / cap), 0: they stay */
    float  temper;                                    /* queries grow by temper * log(1 + whole temper_length before them); 0: they do not */
    int    temper_length;
    float  base_local;                                /* base of RoPE in layers with a window */
    int    hd_k_local, hd_v_local, n_rot_local;       /* values of a head in layers with a window, rotated ones; 0: as in the others */
    int    n_shared;                                  /* so many layers at the end read keys and values of earlier ones */
    int    n_embd_layer;                              /* width of the embeddings for each layer, 0: none */
    int    n_stream, active;                          /* streams (AltUp), 0: one; the one that blocks read */
    int    n_rope;
    arch_rope_hp   rope[ARCH_ROPES];                  /* [n_rope] */
    arch_layer_hp *layer;                             /* [n_layer] */
} arch_hparams;

enum {
    ARCH_MAX_LAYERS = 512,
    ARCH_MAX_HEADS = 4096,
    ARCH_MAX_HEAD = 1024,
    ARCH_MAX_WIDTH = 1 << 20,
    ARCH_MAX_CTX = 1 << 28,
    ARCH_MAX_EXPERTS = 1024,
    ARCH_MAX_CLASSES = 512,
    ARCH_MAX_VOCAB = 1 << 24,
    ARCH_MAX_TAPS = DEV_TAPS,
    ARCH_MAX_STREAMS = DEV_STREAMS
};

static void arch_drop(arch_hparams *hp) {
    mem_free(hp->layer);
    *hp = (arch_hparams){0};
}

/* Sets the error of a key, ARCH.name or, if it begins with "general.", name. Returns false. */
__attribute__((format(printf, 5, 6)))
static bool arch__bad(const arch_hparams *hp, const gguf_file *g, const char *name, err_t *e, const char *fmt, ...) {
    char    key[160], text[400];
    va_list ap;
    snprintf(key, sizeof key, strncmp(name, "general.", 8) == 0 ? "%.0s%s" : "%s.%s", hp->desc ? hp->desc->name : "", name);
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const gguf_kv *kv = gguf_find(g, key);
    if (kv) return gguf_bad(g, kv->part, kv->at, e, "%s: %s", key, text);
    return err_set(e, EXIT_INPUT, "%s: %s: %s", g->path, key, text);
}

static bool arch__find(arch_hparams *hp, const gguf_file *g, err_t *e) {
    bytes name = {0};
    int   got = gguf_get_str(g, "general.architecture", &name, e);
    if (got < 0) return false;
    if (got == 0) return err_set(e, EXIT_INPUT, "%s: key general.architecture is missing", g->path);
    for (int i = 0; i < ARCH_COUNT; i++)
        if (bytes_is(name, arch_table[i].name) && (!arch_table[i].tensor || gguf_tensor_find(g, arch_table[i].tensor))) hp->desc = &arch_table[i];
    if (hp->desc) return true;
    return arch__bad(hp, g, "general.architecture", e, "found \"%.*s\"%s, expected an architecture of llmrun --list archs", (int)(name.n > 60 ? 60 : name.n),
                     (const char *)name.p, name.n > 60 ? "..." : "");
}

/* --- hyper-parameters: a row for each key --- */

typedef enum { OF_MODEL, OF_ROPE, OF_LAYER } arch_owner;
typedef enum { H_INT, H_FLT, H_BOOL, H_WORD, H_ACT, H_COUNT, H_PATTERN, H_SECTIONS, H_ONLY } arch_type;

enum {                                                /* flags of a key */
    H_NEED = 1,                                       /* required */
    H_ZERO = 2,                                       /* 0 in an array: the layer has none */
    H_ALSO = 4,                                       /* a second name for the field of an earlier row; it has no default of its own */
    H_EACH = 8,                                       /* always an array */
    H_LEAST = 16,                                     /* -infinity in an array: the layer has none */
    H_FLAT = 32,                                      /* of a pattern: one value is that of every layer, not a period */
};

typedef struct {
    const char *name;                                 /* follows the architecture's name and a dot */
    arch_owner  of;                                   /* struct with the field; OF_LAYER: the file may have an array with a value for each layer */
    size_t      at;                                   /* its offset there */
    arch_type   type;                                 /* H_WORD: name of a scaling; H_ACT: of an activation; H_COUNT: length of a list; H_PATTERN: which layers; H_SECTIONS: of RoPE, no field; H_ONLY: no field, and the value must be lo or hi */
    double      lo, hi;
    double      preset;                               /* if the key is absent */
    double    (*from)(const arch_hparams *hp, const arch_layer_hp *l);   /* computes it from fields of earlier rows; NULL: preset */
    unsigned    flags;
    uint64_t    traits;                               /* only architectures with one of these; 0: all */
} arch_key;

static double arch__n_head(const arch_hparams *hp, const arch_layer_hp *l) { return (void)hp, l->n_head; }
static double arch__hd_k(const arch_hparams *hp, const arch_layer_hp *l) { return hp->n_embd % l->n_head ? 0 : hp->n_embd / l->n_head; }
static double arch__same_hd(const arch_hparams *hp, const arch_layer_hp *l) { return (void)hp, l->hd_k; }
static double arch__n_ctx(const arch_hparams *hp, const arch_layer_hp *l) { return (void)l, hp->n_ctx_train; }
static double arch__n_ff(const arch_hparams *hp, const arch_layer_hp *l) { return (void)hp, l->n_ff; }
static double arch__topk_norm(const arch_hparams *hp, const arch_layer_hp *l) { return (void)l, (hp->desc->traits & A_TOPK_NORM) != 0; }

static double arch__base(const arch_hparams *hp, const arch_layer_hp *l) {
    return (void)l, (double)(hp->desc->base_local != 0 ? hp->desc->base_local : hp->rope[0].base);
}

static double arch__window(const arch_hparams *hp, const arch_layer_hp *l) { return (void)l, hp->desc->window; }
static double arch__cap(const arch_hparams *hp, const arch_layer_hp *l) { return (void)l, (double)hp->desc->cap; }
static double arch__final_cap(const arch_hparams *hp, const arch_layer_hp *l) { return (void)l, (double)hp->desc->final_cap; }

static double arch__causal(const arch_hparams *hp, const arch_layer_hp *l) { return (void)l, !(hp->desc->traits & A_ENCODER); }
static double arch__pooling(const arch_hparams *hp, const arch_layer_hp *l) { return (void)l, hp->causal ? POOLING_LAST : POOLING_MEAN; }
static double arch__act(const arch_hparams *hp, const arch_layer_hp *l) { return (void)l, hp->desc->act; }

static double arch__attn_scale(const arch_hparams *hp, const arch_layer_hp *l) {
    const int hd = hp->desc->wide_scale == hp->n_layer ? hp->n_embd / l->n_head : l->hd_k;
    if (hp->desc->attn_scale != 0) return (double)hp->desc->attn_scale;
    return (double)(1.0f / sqrtf((float)hd));
}

static double arch__embd_scale(const arch_hparams *hp, const arch_layer_hp *l) {
    return (void)l, hp->desc->traits & A_ROOT_EMBD ? (double)sqrtf((float)hp->n_embd) : 0;
}

static double arch__orig_ctx(const arch_hparams *hp, const arch_layer_hp *l) { return (void)l, hp->rope[0].n_ctx_orig; }

/* Whether layer il has the window where the last of every `period` layers, or the first, sees all positions. */
static bool arch__in_pattern(const arch_hparams *hp, int il, int period) {
    if (!period) return true;
    return hp->desc->window_first ? il % period != 0 : il % period != period - 1;
}

static double arch__windowed(const arch_hparams *hp, const arch_layer_hp *l) {
    return arch__in_pattern(hp, (int)(l - hp->layer), hp->desc->window_every);
}

enum { ARCH_DELTA_PERIOD = 4 };                       /* of so many layers the last has attention, where nothing else is said */

static double arch__recurs(const arch_hparams *hp, const arch_layer_hp *l) { return arch__in_pattern(hp, (int)(l - hp->layer), ARCH_DELTA_PERIOD); }

static double arch__n_ff_exp(const arch_hparams *hp, const arch_layer_hp *l) {
    return (hp->desc->traits & A_MOE) && l->n_expert_used ? l->n_ff / l->n_expert_used : l->n_ff;
}

#define IN_MODEL(f) OF_MODEL, offsetof(arch_hparams, f)
#define IN_ROPE(f)  OF_ROPE, offsetof(arch_rope_hp, f)
#define IN_LAYER(f) OF_LAYER, offsetof(arch_layer_hp, f)
#define ONLY(a, b, traits) OF_MODEL, 0, H_ONLY, a, b, 0, NULL, 0, traits

/* To add a hyper-parameter: a row after those that its default needs. Rows of one key are neighbours; the first row whose traits
 * match reads it. A key that changes the text but that no step supports has a row too: a model that uses it is refused. */
static const arch_key arch_keys[] = {
    /* name                                  field                    type    from   to                default       computed          flags            traits */
    {"block_count",                          IN_MODEL(n_layer),       H_INT,  1,     ARCH_MAX_LAYERS,  0,            NULL,             H_NEED,          0},
    {"context_length",                       IN_MODEL(n_ctx_train),   H_INT,  1,     ARCH_MAX_CTX,     0,            NULL,             H_NEED,          0},
    {"embedding_length",                     IN_MODEL(n_embd),        H_INT,  1,     ARCH_MAX_WIDTH,   0,            NULL,             H_NEED,          0},
    {"attention.layer_norm_epsilon",         IN_MODEL(eps),           H_FLT,  1e-20, 1,                0,            NULL,             H_NEED,          A_LAYER_NORM},
    {"attention.layer_norm_rms_epsilon",     IN_MODEL(eps),           H_FLT,  1e-20, 1,                0,            NULL,             H_ALSO,          A_LAYER_NORM},
    {"attention.layer_norm_rms_epsilon",     IN_MODEL(eps),           H_FLT,  1e-20, 1,                0,            NULL,             H_NEED,          0},
    {"attention.head_count",                 IN_LAYER(n_head),        H_INT,  1,     ARCH_MAX_HEADS,   0,            NULL,             H_NEED,          0},
    {"attention.head_count_kv",              IN_LAYER(n_head_kv),     H_INT,  1,     ARCH_MAX_HEADS,   0,            arch__n_head,     H_ZERO,          A_SHORT_CONV},
    {"attention.head_count_kv",              IN_LAYER(n_head_kv),     H_INT,  1,     ARCH_MAX_HEADS,   0,            arch__n_head,     0,               0},
    {"attention.key_length",                 IN_LAYER(hd_k),          H_INT,  2,     ARCH_MAX_HEAD,    0,            arch__hd_k,       0,               0},
    {"attention.value_length",               IN_LAYER(hd_v),          H_INT,  1,     ARCH_MAX_HEAD,    0,            arch__same_hd,    0,               0},
    {"attention.scale",                      IN_LAYER(attn_scale),    H_FLT,  1e-6,  1e3,              0,            arch__attn_scale, 0,               0},
    {"attention.sliding_window",             IN_LAYER(window),        H_INT,  0,     ARCH_MAX_CTX,     0,            arch__window,     0,               0},
    {"attention.sliding_window_pattern",     IN_LAYER(windowed),      H_PATTERN, 0,  ARCH_MAX_LAYERS,  0,            arch__windowed,   0,               0},
    {"attention.key_length_swa",             IN_MODEL(hd_k_local),    H_INT,  2,     ARCH_MAX_HEAD,    0,            NULL,             0,               A_BY_LAYER},
    {"attention.value_length_swa",           IN_MODEL(hd_v_local),    H_INT,  1,     ARCH_MAX_HEAD,    0,            NULL,             0,               A_BY_LAYER},
    {"rope.dimension_count_swa",             IN_MODEL(n_rot_local),   H_INT,  2,     ARCH_MAX_HEAD,    0,            NULL,             0,               A_BY_LAYER},
    {"attention.shared_kv_layers",           IN_MODEL(n_shared),      H_INT,  0,     ARCH_MAX_LAYERS,  0,            NULL,             0,               A_BY_LAYER},
    {"attention.shared_kv_layers",           ONLY(0, 0, 0)},
    {"embedding_length_per_layer_input",     IN_MODEL(n_embd_layer),  H_INT,  0,     ARCH_MAX_WIDTH,   0,            NULL,             0,               A_BY_LAYER},
    {"altup.num_inputs",                     IN_MODEL(n_stream),      H_INT,  2,     ARCH_MAX_STREAMS, 4,            NULL,             0,               A_ALTUP},
    {"altup.active_idx",                     IN_MODEL(active),        H_INT,  0,     ARCH_MAX_STREAMS, 0,            NULL,             0,               A_ALTUP},
    {"activation_sparsity_scale",            IN_LAYER(sparse),        H_FLT, -1e3,   1e3,              -INFINITY,    NULL,             H_EACH | H_LEAST, A_ALTUP},
    {"attn_logit_softcapping",               IN_LAYER(cap),           H_FLT,  0,     1e6,              0,            arch__cap,        0,               0},
    {"final_logit_softcapping",              IN_MODEL(final_cap),     H_FLT,  0,     1e6,              0,            arch__final_cap,  0,               0},
    {"embedding_scale",                      IN_MODEL(embd_scale),    H_FLT,  0,     1e6,              0,            arch__embd_scale, 0,               0},
    {"residual_scale",                       IN_MODEL(residual_scale), H_FLT, 0,     1e6,              0,            NULL,             0,               0},
    {"logit_scale",                          IN_MODEL(logit_scale),   H_FLT,  0,     1e6,              0,            NULL,             0,               0},
    {"rope.dimension_count",                 IN_LAYER(n_rot),         H_INT,  2,     ARCH_MAX_HEAD,    0,            arch__same_hd,    H_ZERO,          0},
    {"rope.freq_base",                       IN_ROPE(base),           H_FLT,  1,     1e12,             10000,        NULL,             0,               0},
    {"rope.freq_base_swa",                   IN_MODEL(base_local),    H_FLT,  1,     1e12,             0,            arch__base,       0,               0},
    {"rope.dimension_sections",              OF_MODEL, 0,             H_SECTIONS, 0, ARCH_MAX_HEAD,    0,            NULL,             0,               A_SECTIONS},
    {"rope.scaling.type",                    IN_ROPE(scaling),        H_WORD, 0,     0,                SCALE_LINEAR, NULL,             0,               0},
    {"rope.scale_linear",                    IN_ROPE(factor),         H_FLT,  1e-3,  1e6,              1,            NULL,             0,               0},
    {"rope.scaling.factor",                  IN_ROPE(factor),         H_FLT,  1e-3,  1e6,              0,            NULL,             H_ALSO,          0},
    {"rope.scaling.original_context_length", IN_ROPE(n_ctx_orig),     H_INT,  1,     ARCH_MAX_CTX,     0,            arch__n_ctx,      0,               0},
    {"rope.scaling.attn_factor",             IN_ROPE(yarn_attn),      H_FLT,  1e-3,  1e3,              1,            NULL,             0,               0},
    {"rope.scaling.yarn_attn_factor",        IN_ROPE(yarn_attn),      H_FLT,  1e-3,  1e3,              0,            NULL,             H_ALSO,          0},
    {"rope.scaling.yarn_log_multiplier",     IN_ROPE(yarn_log),       H_FLT,  0,     1e3,              0,            NULL,             0,               0},
    {"rope.scaling.finetuned",               ONLY(1, 1, A_MULTIPLIERS)},
    {"attention.temperature_scale",          IN_MODEL(temper),        H_FLT,  0,     1e3,              0,            NULL,             0,               A_TEMPER},
    {"attention.temperature_scale",          ONLY(0, 0, 0)},
    {"attention.temperature_length",         IN_MODEL(temper_length), H_INT,  1,     ARCH_MAX_CTX,     0,            arch__orig_ctx,   0,               A_TEMPER},
    {"attention.temperature_length",         ONLY(0, 0, 0)},
    {"rope.scaling.yarn_ext_factor",         IN_ROPE(yarn_ext),       H_FLT,  0,     1e3,              1,            NULL,             0,               0},
    {"rope.scaling.yarn_beta_fast",          IN_ROPE(yarn_fast),      H_FLT,  1e-3,  1e6,              32,           NULL,             0,               0},
    {"rope.scaling.yarn_beta_slow",          IN_ROPE(yarn_slow),      H_FLT,  1e-3,  1e6,              1,            NULL,             0,               0},
    {"feed_forward_length",                  IN_LAYER(n_ff),          H_INT,  1,     ARCH_MAX_WIDTH,   0,            NULL,             0,               A_MOE},
    {"feed_forward_length",                  IN_LAYER(n_ff),          H_INT,  1,     ARCH_MAX_WIDTH,   0,            NULL,             H_NEED | H_ZERO, 0},
    {"expert_count",                         IN_LAYER(n_expert),      H_INT,  1,     ARCH_MAX_EXPERTS, 0,            NULL,             H_NEED,          A_MOE},
    {"expert_count",                         ONLY(0, 0, A_DENSE)},
    {"expert_count",                         IN_LAYER(n_expert),      H_INT,  0,     ARCH_MAX_EXPERTS, 0,            NULL,             0,               0},
    {"expert_used_count",                    IN_LAYER(n_expert_used), H_INT,  0,     ARCH_MAX_EXPERTS, 0,            NULL,             0,               0},
    {"expert_feed_forward_length",           IN_LAYER(n_ff_exp),      H_INT,  0,     ARCH_MAX_WIDTH,   0,            arch__n_ff_exp,   0,               0},
    {"expert_shared_feed_forward_length",    IN_LAYER(n_ff_shexp),    H_INT,  1,     ARCH_MAX_WIDTH,   0,            arch__n_ff,       0,               A_SHARED_EXPERT},
    {"expert_shared_feed_forward_length",    IN_LAYER(n_ff_shexp),    H_INT,  0,     ARCH_MAX_WIDTH,   0,            NULL,             0,               A_SHARED_PLAIN},
    {"expert_gating_func",                   IN_MODEL(expert_gate),   H_INT,  0,     3,                0,            NULL,             0,               0},
    {"expert_weights_norm",                  IN_MODEL(topk_norm),     H_BOOL, 0,     1,                0,            arch__topk_norm,  0,               0},
    {"expert_weights_scale",                 IN_MODEL(expert_scale),  H_FLT,  0,     1e6,              1,            NULL,             0,               0},
    {"leading_dense_block_count",            IN_MODEL(n_dense),       H_INT,  0,     ARCH_MAX_LAYERS,  0,            NULL,             0,               0},
    {"nextn_predict_layers",                 IN_MODEL(n_ahead),       H_INT,  0,     ARCH_MAX_LAYERS,  0,            NULL,             0,               A_DELTA},
    {"full_attention_interval",              IN_LAYER(recurrent),     H_PATTERN, 1,  ARCH_MAX_LAYERS,  0,            arch__recurs,     0,               A_DELTA},
    {"full_attention_interval",              ONLY(0, 1, 0)},
    {"attention.recurrent_layers",           IN_LAYER(recurrent),     H_PATTERN, 0,  1,                0,            NULL,             H_ALSO | H_FLAT, A_DELTA},
    {"ssm.conv_kernel",                      IN_LAYER(rec.taps),      H_INT,  2,     ARCH_MAX_TAPS,    0,            NULL,             H_NEED,          A_DELTA},
    {"ssm.group_count",                      IN_LAYER(rec.n_k),       H_INT,  1,     ARCH_MAX_HEADS,   0,            NULL,             H_NEED,          A_DELTA},
    {"ssm.state_size",                       IN_LAYER(rec.d_k),       H_INT,  1,     ARCH_MAX_HEAD,    0,            NULL,             H_NEED,          A_DELTA},
    {"ssm.time_step_rank",                   IN_LAYER(rec.n_v),       H_INT,  1,     ARCH_MAX_HEADS,   0,            NULL,             H_NEED,          A_DELTA},
    {"ssm.inner_size",                       IN_LAYER(rec.width),     H_INT,  1,     ARCH_MAX_WIDTH,   0,            NULL,             H_NEED,          A_DELTA},
    {"shortconv.l_cache",                    IN_LAYER(rec.taps),      H_INT,  2,     ARCH_MAX_TAPS,    0,            NULL,             H_NEED,          A_SHORT_CONV},
    {"hidden_activation",                    IN_MODEL(act),           H_ACT,  0,     0,                0,            arch__act,        0,               0},
    {"attention.causal",                     IN_MODEL(causal),        H_BOOL, 0,     1,                0,            arch__causal,     0,               0},
    {"pooling_type",                         IN_MODEL(pooling),       H_INT,  0,     POOLINGS - 1,     0,            arch__pooling,    0,               0},
    {"classifier.output_labels",             IN_MODEL(n_class),       H_COUNT, 1,    ARCH_MAX_CLASSES, 1,            NULL,             0,               0},
    {"dense_2_feat_out",                     IN_MODEL(n_behind),      H_INT,  1,     ARCH_MAX_WIDTH,   0,            NULL,             0,               0},
    {"moe_every_n_layers",                   IN_MODEL(moe_every),     H_INT,  2,     ARCH_MAX_LAYERS,  0,            NULL,             H_NEED,          A_SOME_EXPERTS},
    {"moe_every_n_layers",                   ONLY(0, 1, 0)},
    {"attention.max_alibi_bias",             ONLY(8, 8, A_ALIBI)},
    {"attention.max_alibi_bias",             ONLY(0, 0, 0)},
    /* not supported: only values that change nothing are accepted */
    {"attention.clamp_kqv",                  ONLY(0, 0, 0)},
    {"attention.output_scale",               ONLY(0, 1, 0)},
    {"router_logit_softcapping",             ONLY(0, 0, 0)},
    {"use_parallel_residual",                ONLY(0, 0, 0)},
    {"interleave_moe_layer_step",            ONLY(0, 1, 0)},
    {"expert_group_count",                   ONLY(0, 1, 0)},
};
enum { ARCH_KEYS = sizeof arch_keys / sizeof *arch_keys };

/* Whether row i is the one that reads its key: the first with its name whose traits match. */
static bool arch__reads(const arch_desc *desc, int i) {
    const arch_key *k = &arch_keys[i];
    if (k->traits && !(k->traits & desc->traits)) return false;
    return i == 0 || strcmp(k->name, k[-1].name) != 0 || !arch__reads(desc, i - 1);
}

/* The field of a row; of layer il if each layer has one. */
static void *arch__field(arch_hparams *hp, const arch_key *k, int il) {
    char *base = k->of == OF_MODEL ? (char *)hp : k->of == OF_ROPE ? (char *)&hp->rope[0] : (char *)&hp->layer[il];
    return base + k->at;
}

static void arch__set(void *field, arch_type type, double v) {
    switch (type) {
    case H_INT: case H_COUNT: *(int *)field = (int)v; break;
    case H_ACT: *(dev_act *)field = (dev_act)(int)v; break;
    case H_FLT: *(float *)field = (float)v; break;
    case H_BOOL: case H_PATTERN: *(bool *)field = v != 0; break;
    case H_WORD: *(arch_scaling *)field = (arch_scaling)(int)v; break;
    case H_SECTIONS: case H_ONLY: break;
    }
}

static int arch__word(const arch_hparams *hp, const gguf_file *g, const arch_key *k, const char *key, double *v, err_t *e) {
    bytes     word = {0};
    const int got = gguf_get_str(g, key, &word, e);
    if (got != 1) return got;
    const int i = arch_scaling_of(word);
    *v = i;
    if (i >= 0) return 1;
    arch__bad(hp, g, k->name, e, "\"%.*s\", expected none, linear, yarn or longrope", (int)(word.n > 40 ? 40 : word.n), (const char *)word.p);
    return -1;
}

/* As files name the activations that have names. */
static int arch__act_word(const arch_hparams *hp, const gguf_file *g, const arch_key *k, const char *key, double *v, err_t *e) {
    static const struct { const char *name; dev_act act; } names[] = {
        {"gelu", ACT_GELU_ERF}, {"gelu_pytorch_tanh", ACT_GELU}, {"silu", ACT_SILU}, {"swish", ACT_SILU}, {"relu", ACT_RELU}};
    bytes     word = {0};
    const int got = gguf_get_str(g, key, &word, e);
    for (size_t i = 0; got == 1 && i < sizeof names / sizeof *names; i++)
        if (bytes_is(word, names[i].name)) return *v = names[i].act, 1;
    if (got == 1) arch__bad(hp, g, k->name, e, "\"%.*s\", expected gelu, gelu_pytorch_tanh, silu, swish or relu", (int)(word.n > 40 ? 40 : word.n), (const char *)word.p);
    return got == 1 ? -1 : got;
}

static int arch__count(const arch_hparams *hp, const gguf_file *g, const arch_key *k, const char *key, double *v, err_t *e) {
    const gguf_kv *kv = NULL;
    const int      got = gguf_get_arr(g, key, &kv, e);
    if (got != 1) return got;
    *v = (double)kv->count;
    if (*v >= k->lo && *v <= k->hi) return 1;
    arch__bad(hp, g, k->name, e, "%llu values, expected %.0f to %.0f", (unsigned long long)kv->count, k->lo, k->hi);
    return -1;
}

/* Reads a key with a single value. 1; 0: the key is absent; -1: e is set. */
static int arch__value(const arch_hparams *hp, const gguf_file *g, const arch_key *k, const char *key, double *v, err_t *e) {
    uint64_t u = 0;
    float    f = 0;
    bool     b = false;
    int      got = -1;
    switch (k->type) {
    case H_INT: case H_PATTERN:
        if ((got = gguf_get_u64(g, key, (uint64_t)k->lo, (uint64_t)k->hi, &u, e)) == 1) *v = (double)u;
        return got;
    case H_FLT:
        if ((got = gguf_get_f32(g, key, (float)k->lo, (float)k->hi, &f, e)) == 1) *v = (double)f;
        return got;
    case H_BOOL:
        if ((got = gguf_get_bool(g, key, &b, e)) == 1) *v = b;
        return got;
    case H_WORD: return arch__word(hp, g, k, key, v, e);
    case H_ACT: return arch__act_word(hp, g, k, key, v, e);
    case H_COUNT: return arch__count(hp, g, k, key, v, e);
    case H_SECTIONS: case H_ONLY: break;
    }
    return got;
}

/* Refuses a value that would change the text. */
static bool arch__only(const arch_hparams *hp, const gguf_file *g, const arch_key *k, const char *key, err_t *e) {
    const gguf_kv *kv = gguf_find(g, key);
    double         x = (double)NAN;
    bool           b = false;
    int            got = 1;
    if (!kv) return true;
    if (kv->type == GGUF_BOOL) got = gguf_get_bool(g, key, &b, e), x = b;
    else if (kv->type != GGUF_ARR) got = gguf_get_number(g, key, -DBL_MAX, DBL_MAX, &x, e);
    if (got < 0 || x == k->lo || x == k->hi) return got >= 0;
    return arch__bad(hp, g, k->name, e, "a step that llmrun does not know, expected %g or no such key", k->hi);
}

/* Sections of RoPE are the same position in a text, so they change nothing; they must lie in the part that is rotated. */
static bool arch__sections(const arch_hparams *hp, const gguf_file *g, const arch_key *k, const char *key, err_t *e) {
    const gguf_kv *kv = gguf_find(g, key);
    uint64_t       sum = 0, u = 0;
    if (!kv) return true;
    for (uint64_t i = 0; i < kv->count && sum <= (uint64_t)k->hi; i++) {
        if (!gguf_arr_u64(kv, i, &u) || u > (uint64_t)k->hi) return arch__bad(hp, g, k->name, e, "value %llu, expected a number of pairs", (unsigned long long)i);
        sum += u;
    }
    if (kv->type == GGUF_ARR && (kv->count == 3 || kv->count == 4) && !(kv->count == 4 && u) && 2 * sum <= (uint64_t)hp->layer[0].n_rot) return true;
    return arch__bad(hp, g, k->name, e, "%llu sections of %llu pairs, expected 3 of at most %d together, and 0 behind them", (unsigned long long)kv->count,
                     (unsigned long long)sum, hp->layer[0].n_rot / 2);
}

/* Reads an array with an integer for each layer, or for a pattern a bool. */
static bool arch__each(arch_hparams *hp, const gguf_file *g, const arch_key *k, const gguf_kv *kv, err_t *e) {
    if (kv->count != (uint64_t)hp->n_layer)
        return arch__bad(hp, g, k->name, e, "%llu values, expected one for each of %d layers", (unsigned long long)kv->count,
                         hp->n_layer);
    for (int il = 0; il < hp->n_layer; il++) {
        uint64_t   u;
        const double hi = k->type == H_PATTERN ? 1 : k->hi;
        const bool is = gguf_arr_u64(kv, (uint64_t)il, &u), none = is && !u && (k->flags & H_ZERO);
        if (!is || (!none && (u < (uint64_t)k->lo || u > (uint64_t)hi)))
            return arch__bad(hp, g, k->name, e, "value %d is out of range, expected an integer from %.0f to %.0f", il, k->lo, hi);
        arch__set(arch__field(hp, k, il), k->type, (double)u);
    }
    return true;
}

/* The same with a float for each layer. */
static bool arch__each_float(arch_hparams *hp, const gguf_file *g, const arch_key *k, const gguf_kv *kv, err_t *e) {
    if (kv->count != (uint64_t)hp->n_layer)
        return arch__bad(hp, g, k->name, e, "%llu values, expected one for each of %d layers", (unsigned long long)kv->count, hp->n_layer);
    for (int il = 0; il < hp->n_layer; il++) {
        float      f = 0;
        const bool is = gguf_arr_f32(kv, (uint64_t)il, &f);
        if (!is || !(((k->flags & H_LEAST) && f == -INFINITY) || ((double)f >= k->lo && (double)f <= k->hi)))
            return arch__bad(hp, g, k->name, e, "value %d is out of range, expected a number from %g to %g", il, k->lo, k->hi);
        arch__set(arch__field(hp, k, il), k->type, (double)f);
    }
    return true;
}

static bool arch__read(arch_hparams *hp, const gguf_file *g, const arch_key *k, err_t *e) {
    char   key[160];
    double v = 0;
    snprintf(key, sizeof key, "%s.%s", hp->desc->name, k->name);
    if (k->type == H_ONLY) return arch__only(hp, g, k, key, e);
    if (k->type == H_SECTIONS) return arch__sections(hp, g, k, key, e);
    if (k->of == OF_LAYER && !hp->layer) hp->layer = mem_new((size_t)hp->n_layer, sizeof *hp->layer);
    const int n = k->of == OF_LAYER ? hp->n_layer : 1;
    for (int i = 0; i < n && !(k->flags & H_ALSO); i++)
        arch__set(arch__field(hp, k, i), k->type, k->from ? k->from(hp, hp->layer ? &hp->layer[i] : NULL) : k->preset);
    const gguf_kv *kv = gguf_find(g, key);
    if (kv && kv->type == GGUF_ARR && k->of == OF_LAYER && (k->type == H_INT || k->type == H_PATTERN)) return arch__each(hp, g, k, kv, e);
    if (kv && kv->type == GGUF_ARR && k->of == OF_LAYER && k->type == H_FLT) return arch__each_float(hp, g, k, kv, e);
    if (kv && (k->flags & H_EACH)) return arch__bad(hp, g, k->name, e, "one value, expected one for each layer");
    const int got = arch__value(hp, g, k, key, &v, e);
    if (got == 0 && (k->flags & H_NEED)) return err_set(e, EXIT_INPUT, "%s: key %s is missing", g->path, key);
    const bool period = k->type == H_PATTERN && !(k->flags & H_FLAT);
    for (int i = 0; i < n && got == 1; i++) arch__set(arch__field(hp, k, i), k->type, period ? arch__in_pattern(hp, i, (int)v) : v);
    return got >= 0;
}

/* --- sizes of a layer that depend on each other --- */

static bool arch__heads(const arch_hparams *hp, const gguf_file *g, int il, err_t *e) {
    const arch_layer_hp *l = &hp->layer[il];
    if (l->mixer != MIX_ATTN) return true;
    if (l->n_head % l->n_head_kv)
        return arch__bad(hp, g, "attention.head_count", e, "%d query heads in layer %d, expected a multiple of %d key heads", l->n_head, il,
                         l->n_head_kv);
    if (!l->hd_k)
        return arch__bad(hp, g, "embedding_length", e, "an embedding length of %d, expected a multiple of %d heads", hp->n_embd, l->n_head);
    if (l->hd_k < 2 || l->hd_k > ARCH_MAX_HEAD || l->hd_k % 2)
        return arch__bad(hp, g, "attention.key_length", e, "heads of %d values, expected an even number up to %d", l->hd_k, ARCH_MAX_HEAD);
    if (l->n_rot % 2 || l->n_rot > l->hd_k)
        return arch__bad(hp, g, "rope.dimension_count", e, "%d, expected an even number up to %d", l->n_rot, l->hd_k);
    return true;
}

/* Checks the experts of a layer and sets its kind of feed-forward. */
static bool arch__experts(arch_hparams *hp, const gguf_file *g, arch_layer_hp *l, err_t *e) {
    if (l->n_expert_used > l->n_expert || (l->n_expert && !l->n_expert_used))
        return arch__bad(hp, g, "expert_used_count", e, "%d of %d experts, expected %d to %d", l->n_expert_used, l->n_expert,
                         l->n_expert > 0, l->n_expert);
    if (l->n_expert && !l->n_ff_exp)
        return arch__bad(hp, g, "expert_feed_forward_length", e, "no width for %d experts, expected one", l->n_expert);
    l->ffn = l->n_expert ? FFN_EXPERTS : l->n_ff ? FFN_DENSE : FFN_NONE;
    if (l->n_expert && l->n_ff && (hp->desc->traits & A_BESIDE)) l->ffn = FFN_BESIDE;
    if (l->ffn == FFN_EXPERTS) l->n_ff = 0;
    else if (l->ffn != FFN_BESIDE) l->n_ff_exp = l->n_ff_shexp = 0;
    return true;
}

/* The RoPE that a layer needs, from that of the file. */
static arch_rope_hp arch__rope_for(const arch_hparams *hp, arch_rope_hp of, const arch_layer_hp *l) {
    of.n_rot = l->n_rot;
    if (!l->window) return of;
    of.local = (hp->desc->traits & A_LOCAL_ROPE) != 0;
    if (of.local) of.scaling = SCALE_NONE, of.factor = of.yarn_attn = 1;
    if (of.local || hp->base_local != of.base) of.base = hp->base_local;
    return of;
}

/* Finds the layer's RoPE table: that of an earlier layer with the same sizes, or a new one. `file`: parameters of the file. */
static bool arch__rope(arch_hparams *hp, const gguf_file *g, const arch_rope_hp *file, arch_layer_hp *l, err_t *e) {
    const arch_rope_hp want = arch__rope_for(hp, *file, l);
    if (!l->n_rot) return true;
    while (l->rope < hp->n_rope) {
        const arch_rope_hp *is = &hp->rope[l->rope];
        if (is->n_rot == want.n_rot && is->local == want.local && is->base == want.base) return true;
        l->rope++;
    }
    if (hp->n_rope == ARCH_ROPES)
        return arch__bad(hp, g, "rope.dimension_count", e, "more than %d different values, expected fewer", ARCH_ROPES);
    hp->rope[hp->n_rope++] = want;
    return true;
}

/* The sizes of a gated delta net, whose width is that of its values as read from the file. */
static bool arch__delta(const arch_hparams *hp, const gguf_file *g, arch_rec *r, err_t *e) {
    if (r->n_v % r->n_k)
        return arch__bad(hp, g, "ssm.time_step_rank", e, "%d value heads, expected a multiple of %d key heads", r->n_v, r->n_k);
    if (r->width % r->n_v)
        return arch__bad(hp, g, "ssm.inner_size", e, "%d values, expected a multiple of %d heads", r->width, r->n_v);
    r->d_v = r->width / r->n_v;
    if (r->d_v > ARCH_MAX_HEAD)
        return arch__bad(hp, g, "ssm.inner_size", e, "heads of %d values, expected up to %d", r->d_v, ARCH_MAX_HEAD);
    const int64_t width = 2 * (int64_t)r->n_k * r->d_k + r->width;
    if (width > ARCH_MAX_WIDTH)
        return arch__bad(hp, g, "ssm.state_size", e, "%lld channels of the convolution, expected up to %d", (long long)width, ARCH_MAX_WIDTH);
    r->width = (int)width;
    return true;
}

/* The mixer of a layer. A recurrent one has no keys and values. */
static bool arch__mixer(const arch_hparams *hp, const gguf_file *g, arch_layer_hp *l, err_t *e) {
    const uint64_t traits = hp->desc->traits;
    l->mixer = (traits & A_DELTA) && l->recurrent ? MIX_DELTA : (traits & A_SHORT_CONV) && !l->n_head_kv ? MIX_CONV : MIX_ATTN;
    l->gated = (traits & A_DELTA) && l->mixer == MIX_ATTN;
    if (l->mixer == MIX_ATTN) {
        l->rec = (arch_rec){0};
        return true;
    }
    l->n_head_kv = l->n_rot = l->window = 0;
    if (l->mixer == MIX_DELTA) return arch__delta(hp, g, &l->rec, e);
    l->rec.width = hp->n_embd;
    return true;
}

/* What patterns of layers make of a layer. */
static void arch__pattern(const arch_hparams *hp, int il) {
    const arch_desc *desc = hp->desc;
    arch_layer_hp   *l = &hp->layer[il];
    if (il < hp->n_dense) l->n_expert = l->n_expert_used = 0;
    l->view = hp->causal ? VIEW_PAST : VIEW_ALL;
    if (!(desc->traits & A_ALTUP)) l->sparse = -INFINITY;
    if (!l->windowed) l->window = 0;
    if (l->window && hp->hd_k_local) l->hd_k = l->hd_v = l->n_rot = hp->hd_k_local;
    if (l->window && hp->hd_v_local) l->hd_v = hp->hd_v_local;
    if (l->window && hp->n_rot_local) l->n_rot = hp->n_rot_local;
    if (hp->moe_every && il % hp->moe_every != 1) l->n_expert = l->n_expert_used = 0;
    if ((desc->traits & (A_LEARNED | A_ALIBI)) || (desc->plain_every && il % desc->plain_every == desc->plain_every - 1)) l->n_rot = 0;
}

/* The last layers read the keys and values of the last one before them that has the same window. */
static bool arch__share(arch_hparams *hp, const gguf_file *g, int il, err_t *e) {
    arch_layer_hp *l = &hp->layer[il];
    int            from = hp->n_layer - hp->n_shared - 1;
    if (il <= from) return true;
    while (from >= 0 && hp->layer[from].window != l->window) from--;
    if (from < 0)
        return arch__bad(hp, g, "attention.shared_kv_layers", e, "%d layers, and layer %d has none of its kind before them to read from", hp->n_shared, il);
    const arch_layer_hp *of = &hp->layer[from];
    if (of->n_head_kv != l->n_head_kv || of->hd_k != l->hd_k || of->hd_v != l->hd_v)
        return arch__bad(hp, g, "attention.shared_kv_layers", e, "layer %d reads %d heads of %d values of layer %d, expected %d of %d", il, of->n_head_kv, of->hd_k, from,
                         l->n_head_kv, l->hd_k);
    l->kv_back = il - from;
    return true;
}

/* The vocabulary's size: its tokens are counted; a file without tokens has a key. */
static bool arch__vocab(arch_hparams *hp, const gguf_file *g, err_t *e) {
    char           key[160];
    uint64_t       n;
    const gguf_kv *tokens = NULL;
    int            got = gguf_get_arr(g, "tokenizer.ggml.tokens", &tokens, e);
    snprintf(key, sizeof key, "%s.vocab_size", hp->desc->name);
    if (got < 0) return false;
    if (got == 1 && (tokens->count < 1 || tokens->count > ARCH_MAX_VOCAB))
        return gguf_bad(g, tokens->part, tokens->at, e, "a vocabulary of %llu tokens", (unsigned long long)tokens->count);
    if (got == 1) n = tokens->count;
    else if ((got = gguf_get_u64(g, key, 1, ARCH_MAX_VOCAB, &n, e)) == 0) err_set(e, EXIT_INPUT, "%s: key %s is missing", g->path, key);
    hp->n_vocab = got == 1 ? (int)n : 0;
    return got == 1;
}

/* What zeros and multipliers of the file stand for. */
static void arch__defaults(arch_hparams *hp) {
    arch_rope_hp *ro = &hp->rope[0];
    ro->yarn_smooth = (hp->desc->traits & A_YARN_SMOOTH) != 0;
    if (ro->scaling == SCALE_NONE || ro->scaling == SCALE_LONG) ro->factor = 1;
    if (hp->expert_scale == 0) hp->expert_scale = 1;
    if (hp->expert_gate == GATE_SOFTMAX_OF_CHOSEN) hp->topk_norm = true;
    if ((hp->desc->traits & A_MULTIPLIERS) && hp->logit_scale != 0) hp->logit_scale = 1 / hp->logit_scale;
}

/* Reads and checks all hyper-parameters. On failure e is set. The caller calls arch_drop() in both cases. */
static bool arch_load(arch_hparams *hp, const gguf_file *g, err_t *e) {
    *hp = (arch_hparams){0};
    bool ok = arch__find(hp, g, e) && arch__vocab(hp, g, e);
    for (int i = 0; ok && i < ARCH_KEYS; i++) ok = !arch__reads(hp->desc, i) || arch__read(hp, g, &arch_keys[i], e);
    if (ok && hp->n_ahead >= hp->n_layer)
        ok = arch__bad(hp, g, "nextn_predict_layers", e, "%d, expected fewer than %d layers", hp->n_ahead, hp->n_layer);
    if (!ok) return false;
    hp->n_layer -= hp->n_ahead;
    if (hp->n_stream && hp->active >= hp->n_stream) return arch__bad(hp, g, "altup.active_idx", e, "%d, expected a number below %d streams", hp->active, hp->n_stream);
    arch__defaults(hp);
    const arch_rope_hp file = hp->rope[0];
    for (int il = 0; ok && il < hp->n_layer; il++) {
        arch__pattern(hp, il);
        ok = arch__mixer(hp, g, &hp->layer[il], e) && arch__heads(hp, g, il, e) && arch__rope(hp, g, &file, &hp->layer[il], e) && arch__experts(hp, g, &hp->layer[il], e) &&
             arch__share(hp, g, il, e);
    }
    return ok;
}

/* --- tensors --- */

/* A size in the shape of a tensor; arch_dim() is its value in layer il (-1: of the whole model). */
typedef enum {
    D_1, D_EMBD, D_VOCAB, D_CTX, D_Q, D_Q_PROJ, D_K, D_V, D_QKV, D_O, D_HEAD, D_HEAD_K, D_FF, D_GATE_UP, D_FF_EXP, D_GATE_UP_EXP, D_FF_SHEXP, D_EXPERT, D_ROT,
    D_REC, D_REC_ALL, D_REC_V, D_REC_HEAD, D_REC_HEADS, D_REC_GATES, D_REC_TAPS, D_CLASS, D_BEHIND,
    D_LAYER, D_LAYERS, D_LAYER_EMBD, D_STREAM, D_STREAMS, D_STREAM_PAIRS,
    D_FILE                                            /* as the tensor has it */
} arch_size;

/* Factors of RoPE frequencies in the file: they are for the first table that all positions use. */
static int arch__factors(const arch_hparams *hp) {
    int t = 0;
    while (t < hp->n_rope - 1 && hp->rope[t].local) t++;
    return t < hp->n_rope ? hp->rope[t].n_rot / 2 : 0;
}

static int64_t arch_dim(const arch_hparams *hp, arch_size d, int il) {
    const arch_layer_hp *l = &hp->layer[il < 0 ? 0 : il];
    switch (d) {
    case D_1: return 1;
    case D_EMBD: return hp->n_embd;
    case D_VOCAB: return hp->n_vocab;
    case D_CTX: return hp->n_ctx_train;
    case D_Q: return (int64_t)l->n_head * l->hd_k;
    case D_Q_PROJ: return (int64_t)l->n_head * l->hd_k * (l->gated ? 2 : 1);
    case D_K: return (int64_t)l->n_head_kv * l->hd_k;
    case D_V: return (int64_t)l->n_head_kv * l->hd_v;
    case D_QKV: return arch_dim(hp, D_Q_PROJ, il) + arch_dim(hp, D_K, il) + arch_dim(hp, D_V, il);
    case D_O: return (int64_t)l->n_head * l->hd_v;
    case D_HEAD: return l->n_head;
    case D_HEAD_K: return l->hd_k;
    case D_FF: return l->n_ff;
    case D_GATE_UP: return 2 * (int64_t)l->n_ff;
    case D_FF_EXP: return l->n_ff_exp;
    case D_GATE_UP_EXP: return 2 * (int64_t)l->n_ff_exp;
    case D_FF_SHEXP: return l->n_ff_shexp;
    case D_EXPERT: return l->n_expert;
    case D_ROT: return arch__factors(hp);
    case D_REC: return l->rec.width;
    case D_REC_ALL: return l->rec.n_v ? l->rec.width + arch_dim(hp, D_REC_V, il) : 3 * (int64_t)l->rec.width;
    case D_REC_V: return l->rec.n_v ? (int64_t)l->rec.n_v * l->rec.d_v : l->rec.width;
    case D_REC_HEAD: return l->rec.d_v;
    case D_REC_HEADS: return l->rec.n_v;
    case D_REC_GATES: return 2 * (int64_t)l->rec.n_v;
    case D_REC_TAPS: return l->rec.taps;
    case D_CLASS: return hp->n_class;
    case D_BEHIND: return hp->n_behind;
    case D_LAYER: return hp->n_embd_layer;
    case D_LAYERS: return (int64_t)hp->n_layer * hp->n_embd_layer;
    case D_LAYER_EMBD: return hp->n_embd_layer ? hp->n_embd : 0;
    case D_STREAM: return hp->n_stream;
    case D_STREAMS: return hp->n_stream ? hp->n_stream - 1 : 0;
    case D_STREAM_PAIRS: return (int64_t)hp->n_stream * hp->n_stream;
    case D_FILE: return 1;
    }
    return 0;
}

/* Tensors of a model: weights W_, among them the gains of norms, and biases B_. The bias of a norm follows its gain. */
typedef enum {
    W_TOK_EMBD, W_POS_EMBD, W_TYPES, W_EMBD_NORM, B_EMBD_NORM, W_CLS, B_CLS, W_CLS_NORM, W_CLS_OUT, B_CLS_OUT, W_DENSE_2, W_DENSE_3, W_OUTPUT_NORM, B_OUTPUT_NORM, W_OUTPUT, W_ROPE_FREQS, W_ROPE_LONG, W_ROPE_SHORT,
    W_ATTN_NORM, B_ATTN_NORM, W_QKV, B_QKV, W_Q, W_K, W_V, B_Q, B_K, B_V, W_Q_NORM, B_Q_NORM, W_K_NORM, B_K_NORM, W_SINKS, W_O, B_O,
    W_ATTN_POST_NORM, B_ATTN_POST_NORM, W_ATTN_SUM_NORM, B_ATTN_SUM_NORM, W_ATTN_TWICE_NORM, B_ATTN_TWICE_NORM, W_FFN_SUM_NORM, B_FFN_SUM_NORM,
    W_FFN_NORM, B_FFN_NORM, W_FFN_POST_NORM, B_FFN_POST_NORM, W_GATE_UP, W_GATE, W_UP, W_DOWN, B_GATE, B_UP, B_DOWN,
    W_ROUTER, B_ROUTER, B_ROUTER_CHOICE, W_GATE_UP_EXPS, W_GATE_EXPS, W_UP_EXPS, W_DOWN_EXPS, B_GATE_EXPS, B_UP_EXPS, B_DOWN_EXPS,
    W_SHEXP_GATE, W_GATE_SHEXP, W_UP_SHEXP, W_DOWN_SHEXP,
    W_REC_ALL, W_REC_IN, W_REC_Z, W_REC_GATES, W_REC_ALPHA, W_REC_BETA, W_REC_TAPS, W_REC_DECAY, B_REC_STEP, W_REC_NORM, B_REC_NORM, W_REC_OUT,
    W_BY_TOKEN, W_BY_STREAM, W_BY_NORM, B_BY_NORM, W_BY_GATE, W_BY_PROJ, W_BY_POST_NORM, B_BY_POST_NORM, W_LAYER_SCALE,
    W_ROUTER_NORM, B_ROUTER_NORM, W_EXPS_NORM, B_EXPS_NORM, W_EXPS_POST_NORM, B_EXPS_POST_NORM, W_DENSE_POST_NORM, B_DENSE_POST_NORM,
    W_STREAM_IN, W_STREAM_OUT, W_ALT_ROUTER, W_ALT_NORM, B_ALT_NORM, W_ALT_PREDICT, W_ALT_CORRECT, W_ALT_SCALE, W_LAUREL_IN, W_LAUREL_OUT, W_LAUREL_NORM, B_LAUREL_NORM,
    ARCH_SLOTS
} arch_slot_id;

enum {                                                /* flags of a slot */
    S_OPT = 1,                                        /* may be absent */
    S_VEC = 2,                                        /* vector of f32, not a matrix */
    S_LONG = 4,                                       /* the tensor may have more rows, which are not used */
    S_FIT = 8,                                        /* a tensor of another shape is that of another slot */
    S_FIRST = 16,                                     /* of the first layer alone */
    S_OWN = 32,                                       /* of layers with keys and values of their own; in others it has no use */
};

enum {                                                /* who has the tensor: the model, or each layer of these kinds */
    ON_MODEL = 1,
    ON_MIXER = 2, ON_ATTN = ON_MIXER << MIX_ATTN, ON_DELTA = ON_MIXER << MIX_DELTA, ON_CONV = ON_MIXER << MIX_CONV, ON_MIXERS = ON_ATTN | ON_DELTA | ON_CONV,
    ON_FFN = 256, ON_DENSE = ON_FFN << FFN_DENSE, ON_EXPERTS = ON_FFN << FFN_EXPERTS, ON_BESIDE = ON_FFN << FFN_BESIDE,
};

typedef struct {
    arch_slot_id id;
    const char *name;                                 /* in the file; %d: layer; NULL: these architectures have no such tensor */
    arch_size   out, in, stack;                       /* rows, values in a row, matrices */
    unsigned    flags, on;
    uint64_t    traits;                               /* only architectures with one of these; 0: all */
} arch_slot;

/* To add a tensor: an id above and a row here. Rows of one tensor are neighbours; the first whose traits match describes it. The step applies
 * each norm and bias that a model has. A tensor with an empty side does not exist. */
static const arch_slot arch_slots[] = {
    /* id              name in the file                      rows        row         stack     flags          where                  traits */
    {W_TOK_EMBD,       "token_embd.weight",                  D_VOCAB,    D_EMBD,     D_1,      0,             ON_MODEL,              0},
    {W_POS_EMBD,       "position_embd.weight",               D_CTX,      D_EMBD,     D_1,      0,             ON_MODEL,              A_LEARNED},
    {W_OUTPUT_NORM,    "token_embd_norm.weight",             D_1,        D_EMBD,     D_1,      S_VEC,         ON_MODEL,              A_SHORT_CONV},
    {W_TYPES,          "token_types.weight",                 D_1,        D_EMBD,     D_1,      S_VEC | S_OPT | S_LONG, ON_MODEL,     A_SUM_NORM},
    {W_EMBD_NORM,      "token_embd_norm.weight",             D_1,        D_EMBD,     D_1,      S_VEC,         ON_MODEL,              A_EMBD_NORM},
    {B_EMBD_NORM,      "token_embd_norm.bias",               D_1,        D_EMBD,     D_1,      S_VEC | S_OPT, ON_MODEL,              A_EMBD_NORM},
    {W_CLS,            "cls.weight",                         D_EMBD,     D_EMBD,     D_1,      S_OPT,         ON_MODEL,              0},
    {B_CLS,            "cls.bias",                           D_1,        D_EMBD,     D_1,      S_VEC | S_OPT, ON_MODEL,              0},
    {W_CLS_NORM,       "cls.norm.weight",                    D_1,        D_EMBD,     D_1,      S_VEC | S_OPT, ON_MODEL,              0},
    {W_CLS_OUT,        "cls.output.weight",                  D_CLASS,    D_EMBD,     D_1,      S_OPT,         ON_MODEL,              0},
    {B_CLS_OUT,        "cls.output.bias",                    D_1,        D_CLASS,    D_1,      S_VEC | S_OPT, ON_MODEL,              0},
    {W_DENSE_2,        "dense_2.weight",                     D_BEHIND,   D_EMBD,     D_1,      0,             ON_MODEL,              0},
    {W_DENSE_3,        "dense_3.weight",                     D_EMBD,     D_BEHIND,   D_1,      0,             ON_MODEL,              0},
    {W_OUTPUT_NORM,    NULL,                                 D_1,        D_1,        D_1,      0,             ON_MODEL,              A_SUM_NORM},
    {W_OUTPUT_NORM,    "output_norm.weight",                 D_1,        D_EMBD,     D_1,      S_VEC,         ON_MODEL,              0},
    {B_OUTPUT_NORM,    "output_norm.bias",                   D_1,        D_EMBD,     D_1,      S_VEC | S_OPT, ON_MODEL,              A_LAYER_NORM},
    {W_OUTPUT,         "output.weight",                      D_VOCAB,    D_EMBD,     D_1,      S_OPT,         ON_MODEL,              0},
    {W_ROPE_FREQS,     "rope_freqs.weight",                  D_1,        D_ROT,      D_1,      S_VEC | S_OPT, ON_MODEL,              0},
    {W_ROPE_LONG,      "rope_factors_long.weight",           D_1,        D_ROT,      D_1,      S_VEC | S_OPT, ON_MODEL,              0},
    {W_ROPE_SHORT,     "rope_factors_short.weight",          D_1,        D_ROT,      D_1,      S_VEC | S_OPT, ON_MODEL,              0},
    {W_ATTN_NORM,      NULL,                                 D_1,        D_1,        D_1,      S_FIRST,       ON_ATTN,               A_FIRST_BARE},
    {W_ATTN_NORM,      "blk.%d.attn_norm.weight",            D_1,        D_EMBD,     D_1,      S_VEC,         ON_MIXERS,             A_PRE_NORM},
    {B_ATTN_NORM,      "blk.%d.attn_norm.bias",              D_1,        D_EMBD,     D_1,      S_VEC | S_OPT, ON_MIXERS,             A_LAYER_NORM},
    {W_QKV,            "blk.%d.attn_qkv.weight",             D_QKV,      D_EMBD,     D_1,      S_OPT,         ON_ATTN,               0},
    {B_QKV,            "blk.%d.attn_qkv.bias",               D_1,        D_QKV,      D_1,      S_VEC | S_OPT, ON_ATTN,               0},
    {W_Q,              "blk.%d.attn_q.weight",               D_Q_PROJ,   D_EMBD,     D_1,      S_OPT,         ON_ATTN,               0},
    {W_K,              "blk.%d.attn_k.weight",               D_K,        D_EMBD,     D_1,      S_OPT | S_OWN, ON_ATTN,               0},
    {W_V,              "blk.%d.attn_v.weight",               D_V,        D_EMBD,     D_1,      S_OPT | S_OWN, ON_ATTN,               0},
    {B_Q,              "blk.%d.attn_q.bias",                 D_1,        D_Q_PROJ,   D_1,      S_VEC | S_OPT, ON_ATTN,               0},
    {B_K,              "blk.%d.attn_k.bias",                 D_1,        D_K,        D_1,      S_VEC | S_OPT | S_OWN, ON_ATTN,               0},
    {B_V,              "blk.%d.attn_v.bias",                 D_1,        D_V,        D_1,      S_VEC | S_OPT | S_OWN, ON_ATTN,               0},
    {W_Q_NORM,         "blk.%d.attn_q_norm.weight",          D_1,        D_HEAD_K,   D_1,      S_VEC,         ON_ATTN,               A_QK_NORM},
    {W_Q_NORM,         "blk.%d.attn_q_norm.weight",          D_1,        D_Q,        D_1,      S_VEC,         ON_ATTN,               A_QK_NORM_WIDE | A_QK_LAYER_NORM},
    {B_Q_NORM,         "blk.%d.attn_q_norm.bias",            D_1,        D_Q,        D_1,      S_VEC | S_OPT, ON_ATTN,               A_QK_LAYER_NORM},
    {W_K_NORM,         "blk.%d.attn_k_norm.weight",          D_1,        D_HEAD_K,   D_1,      S_VEC | S_OWN, ON_ATTN,               A_QK_NORM},
    {W_K_NORM,         "blk.%d.attn_k_norm.weight",          D_1,        D_K,        D_1,      S_VEC | S_OWN, ON_ATTN,               A_QK_NORM_WIDE | A_QK_LAYER_NORM},
    {B_K_NORM,         "blk.%d.attn_k_norm.bias",            D_1,        D_K,        D_1,      S_VEC | S_OPT, ON_ATTN,               A_QK_LAYER_NORM},
    {W_SINKS,          "blk.%d.attn_sinks.weight",           D_1,        D_HEAD,     D_1,      S_VEC,         ON_ATTN,               A_SINKS},
    {W_O,              "blk.%d.attn_output.weight",          D_EMBD,     D_O,        D_1,      0,             ON_ATTN,               0},
    {B_O,              "blk.%d.attn_output.bias",            D_1,        D_EMBD,     D_1,      S_VEC | S_OPT, ON_ATTN,               0},
    {W_ATTN_POST_NORM, "blk.%d.post_attention_norm.weight",  D_1,        D_EMBD,     D_1,      S_VEC,         ON_ATTN,               A_POST_NORM},
    {W_ATTN_SUM_NORM,  "blk.%d.attn_output_norm.weight",     D_1,        D_EMBD,     D_1,      S_VEC,         ON_ATTN,               A_SUM_NORM},
    {B_ATTN_SUM_NORM,  "blk.%d.attn_output_norm.bias",       D_1,        D_EMBD,     D_1,      S_VEC | S_OPT, ON_ATTN,               A_SUM_NORM},
    {W_ATTN_TWICE_NORM, "blk.%d.attn_norm_2.weight",         D_1,        D_EMBD,     D_1,      S_VEC,         ON_ATTN,               A_SUM_TWICE},
    {B_ATTN_TWICE_NORM, "blk.%d.attn_norm_2.bias",           D_1,        D_EMBD,     D_1,      S_VEC | S_OPT, ON_ATTN,               A_SUM_TWICE},
    {W_FFN_SUM_NORM,   "blk.%d.layer_output_norm.weight",    D_1,        D_EMBD,     D_1,      S_VEC,         ON_DENSE | ON_EXPERTS, A_SUM_NORM},
    {B_FFN_SUM_NORM,   "blk.%d.layer_output_norm.bias",      D_1,        D_EMBD,     D_1,      S_VEC | S_OPT, ON_DENSE | ON_EXPERTS, A_SUM_NORM},
    {W_FFN_NORM,       "blk.%d.post_attention_norm.weight",  D_1,        D_EMBD,     D_1,      S_VEC,         ON_DENSE | ON_EXPERTS, A_LATE_NAME},
    {W_FFN_NORM,       "blk.%d.ffn_norm.weight",             D_1,        D_EMBD,     D_1,      S_VEC,         ON_DENSE | ON_EXPERTS, A_PRE_NORM},
    {B_FFN_NORM,       "blk.%d.ffn_norm.bias",               D_1,        D_EMBD,     D_1,      S_VEC | S_OPT, ON_DENSE | ON_EXPERTS, A_LAYER_NORM},
    {W_FFN_POST_NORM,  "blk.%d.post_ffw_norm.weight",        D_1,        D_EMBD,     D_1,      S_VEC,         ON_DENSE | ON_EXPERTS, A_POST_NORM},
    {W_GATE_UP,        "blk.%d.ffn_up.weight",               D_GATE_UP,  D_EMBD,     D_1,      0,             ON_DENSE,              A_GATE_UP},
    {W_GATE_UP,        "blk.%d.ffn_up.weight",               D_GATE_UP,  D_EMBD,     D_1,      S_OPT | S_FIT, ON_DENSE,              A_EITHER_UP},
    {W_GATE,           "blk.%d.ffn_gate.weight",             D_FF,       D_EMBD,     D_1,      S_OPT,         ON_DENSE,              A_EITHER_UP},
    {W_UP,             "blk.%d.ffn_up.weight",               D_FF,       D_EMBD,     D_1,      S_OPT | S_FIT, ON_DENSE,              A_EITHER_UP},
    {W_GATE,           NULL,                                 D_1,        D_1,        D_1,      0,             ON_DENSE,              A_UNGATED | A_GATE_UP},
    {W_GATE,           "blk.%d.ffn_gate.weight",             D_FF,       D_EMBD,     D_1,      0,             ON_DENSE,              0},
    {W_UP,             NULL,                                 D_1,        D_1,        D_1,      0,             ON_DENSE,              A_GATE_UP},
    {W_UP,             "blk.%d.ffn_up.weight",               D_FF,       D_EMBD,     D_1,      0,             ON_DENSE,              0},
    {W_DOWN,           "blk.%d.ffn_down.weight",             D_EMBD,     D_FF,       D_1,      0,             ON_DENSE,              0},
    {B_GATE,           NULL,                                 D_1,        D_1,        D_1,      0,             ON_DENSE,              A_UNGATED | A_GATE_UP},
    {B_GATE,           "blk.%d.ffn_gate.bias",               D_1,        D_FF,       D_1,      S_VEC | S_OPT, ON_DENSE,              0},
    {B_UP,             NULL,                                 D_1,        D_1,        D_1,      0,             ON_DENSE,              A_GATE_UP},
    {B_UP,             "blk.%d.ffn_up.bias",                 D_1,        D_FF,       D_1,      S_VEC | S_OPT, ON_DENSE,              0},
    {B_DOWN,           "blk.%d.ffn_down.bias",               D_1,        D_EMBD,     D_1,      S_VEC | S_OPT, ON_DENSE,              0},
    {W_ROUTER,         "blk.%d.ffn_gate_inp.weight",         D_EXPERT,   D_EMBD,     D_1,      0,             ON_EXPERTS,            0},
    {B_ROUTER,         "blk.%d.ffn_gate_inp.bias",           D_1,        D_EXPERT,   D_1,      S_VEC | S_OPT, ON_EXPERTS,            0},
    {B_ROUTER_CHOICE,  "blk.%d.exp_probs_b.bias",            D_1,        D_EXPERT,   D_1,      S_VEC,         ON_EXPERTS,            A_CHOICE_BIAS},
    {W_GATE_UP_EXPS,   NULL,                                 D_1,        D_1,        D_1,      0,             ON_EXPERTS,            A_UNGATED},
    {W_GATE_EXPS,      NULL,                                 D_1,        D_1,        D_1,      0,             ON_EXPERTS,            A_UNGATED},
    {W_GATE_UP_EXPS,   "blk.%d.ffn_gate_up_exps.weight",     D_GATE_UP_EXP,D_EMBD,     D_EXPERT, S_OPT,         ON_EXPERTS,            0},
    {W_GATE_EXPS,      "blk.%d.ffn_gate_exps.weight",        D_FF_EXP,   D_EMBD,     D_EXPERT, S_OPT,         ON_EXPERTS,            0},
    {W_UP_EXPS,        "blk.%d.ffn_up_exps.weight",          D_FF_EXP,   D_EMBD,     D_EXPERT, S_OPT,         ON_EXPERTS,            0},
    {W_DOWN_EXPS,      "blk.%d.ffn_down_exps.weight",        D_EMBD,     D_FF_EXP,   D_EXPERT, 0,             ON_EXPERTS,            0},
    {B_GATE_EXPS,      "blk.%d.ffn_gate_exps.bias",          D_EXPERT,   D_FF_EXP,   D_1,      S_VEC | S_OPT, ON_EXPERTS,            0},
    {B_UP_EXPS,        "blk.%d.ffn_up_exps.bias",            D_EXPERT,   D_FF_EXP,   D_1,      S_VEC | S_OPT, ON_EXPERTS,            0},
    {B_DOWN_EXPS,      "blk.%d.ffn_down_exps.bias",          D_EXPERT,   D_EMBD,     D_1,      S_VEC | S_OPT, ON_EXPERTS,            0},
    {W_SHEXP_GATE,     "blk.%d.ffn_gate_inp_shexp.weight",   D_1,        D_EMBD,     D_1,      S_VEC,         ON_EXPERTS,            A_SHARED_EXPERT},
    {W_GATE_SHEXP,     "blk.%d.ffn_gate_shexp.weight",       D_FF_SHEXP, D_EMBD,     D_1,      0,             ON_EXPERTS,            A_SHARED_EXPERT | A_SHARED_PLAIN},
    {W_UP_SHEXP,       "blk.%d.ffn_up_shexp.weight",         D_FF_SHEXP, D_EMBD,     D_1,      0,             ON_EXPERTS,            A_SHARED_EXPERT | A_SHARED_PLAIN},
    {W_DOWN_SHEXP,     "blk.%d.ffn_down_shexp.weight",       D_EMBD,     D_FF_SHEXP, D_1,      0,             ON_EXPERTS,            A_SHARED_EXPERT | A_SHARED_PLAIN},
    {W_REC_ALL,        "blk.%d.ssm_in.weight",               D_REC_ALL,  D_EMBD,     D_1,      S_OPT,         ON_DELTA,              A_DELTA_GROUPED},
    {W_REC_ALL,        "blk.%d.shortconv.in_proj.weight",    D_REC_ALL,  D_EMBD,     D_1,      0,             ON_CONV,               0},
    {W_REC_IN,         "blk.%d.attn_qkv.weight",             D_REC,      D_EMBD,     D_1,      S_OPT,         ON_DELTA,              0},
    {W_REC_Z,          "blk.%d.attn_gate.weight",            D_REC_V,    D_EMBD,     D_1,      S_OPT,         ON_DELTA,              0},
    {W_REC_GATES,      "blk.%d.ssm_ba.weight",               D_REC_GATES,D_EMBD,     D_1,      0,             ON_DELTA,              A_DELTA_GROUPED},
    {W_REC_ALPHA,      NULL,                                 D_1,        D_1,        D_1,      0,             ON_DELTA,              A_DELTA_GROUPED},
    {W_REC_ALPHA,      "blk.%d.ssm_alpha.weight",            D_REC_HEADS,D_EMBD,     D_1,      0,             ON_DELTA,              0},
    {W_REC_BETA,       NULL,                                 D_1,        D_1,        D_1,      0,             ON_DELTA,              A_DELTA_GROUPED},
    {W_REC_BETA,       "blk.%d.ssm_beta.weight",             D_REC_HEADS,D_EMBD,     D_1,      0,             ON_DELTA,              0},
    {W_REC_TAPS,       "blk.%d.ssm_conv1d.weight",           D_REC,      D_REC_TAPS, D_1,      S_VEC,         ON_DELTA,              0},
    {W_REC_TAPS,       "blk.%d.shortconv.conv.weight",       D_REC,      D_REC_TAPS, D_1,      S_VEC,         ON_CONV,               0},
    {W_REC_DECAY,      "blk.%d.ssm_a",                       D_1,        D_REC_HEADS,D_1,      S_VEC,         ON_DELTA,              0},
    {B_REC_STEP,       "blk.%d.ssm_dt.bias",                 D_1,        D_REC_HEADS,D_1,      S_VEC,         ON_DELTA,              0},
    {W_REC_NORM,       "blk.%d.ssm_norm.weight",             D_1,        D_REC_HEAD, D_1,      S_VEC,         ON_DELTA,              0},
    {W_REC_OUT,        "blk.%d.ssm_out.weight",              D_EMBD,     D_REC_V,    D_1,      0,             ON_DELTA,              0},
    {W_REC_OUT,        "blk.%d.shortconv.out_proj.weight",   D_EMBD,     D_REC_V,    D_1,      0,             ON_CONV,               0},
    {W_BY_TOKEN,       "per_layer_token_embd.weight",        D_VOCAB,    D_LAYERS,   D_1,      0,             ON_MODEL,              A_BY_LAYER},
    {W_BY_STREAM,      "per_layer_model_proj.weight",        D_LAYERS,   D_EMBD,     D_1,      0,             ON_MODEL,              A_BY_LAYER},
    {W_BY_NORM,        "per_layer_proj_norm.weight",         D_1,        D_LAYER,    D_1,      S_VEC,         ON_MODEL,              A_BY_LAYER},
    {W_BY_GATE,        "blk.%d.inp_gate.weight",             D_LAYER,    D_EMBD,     D_1,      0,             ON_MIXERS,             A_BY_LAYER},
    {W_BY_PROJ,        "blk.%d.proj.weight",                 D_EMBD,     D_LAYER,    D_1,      0,             ON_MIXERS,             A_BY_LAYER},
    {W_BY_POST_NORM,   "blk.%d.post_norm.weight",            D_1,        D_LAYER_EMBD, D_1,    S_VEC,         ON_MIXERS,             A_BY_LAYER},
    {W_LAYER_SCALE,    "blk.%d.layer_output_scale.weight",   D_1,        D_1,        D_1,      S_VEC | S_OPT, ON_MIXERS,             A_BY_LAYER},
    {W_ROUTER_NORM,    "blk.%d.ffn_gate_inp.scale",          D_1,        D_EMBD,     D_1,      S_VEC,         ON_BESIDE,             0},
    {W_EXPS_NORM,      "blk.%d.pre_ffw_norm_2.weight",       D_1,        D_EMBD,     D_1,      S_VEC,         ON_BESIDE,             0},
    {W_EXPS_POST_NORM, "blk.%d.post_ffw_norm_2.weight",      D_1,        D_EMBD,     D_1,      S_VEC,         ON_BESIDE,             0},
    {W_DENSE_POST_NORM, "blk.%d.post_ffw_norm_1.weight",     D_1,        D_EMBD,     D_1,      S_VEC,         ON_BESIDE,             0},
    {W_STREAM_IN,      "altup_proj.weight",                  D_EMBD,     D_EMBD,     D_STREAMS, 0,            ON_MODEL,              A_ALTUP},
    {W_STREAM_OUT,     "altup_unembd_proj.weight",           D_EMBD,     D_EMBD,     D_STREAMS, 0,            ON_MODEL,              A_ALTUP},
    {W_ALT_ROUTER,     "blk.%d.altup_router.weight",         D_STREAM,   D_EMBD,     D_1,      0,             ON_MIXERS,             A_ALTUP},
    {W_ALT_NORM,       "blk.%d.altup_router_norm.weight",    D_1,        D_EMBD,     D_1,      S_VEC,         ON_MIXERS,             A_ALTUP},
    {W_ALT_PREDICT,    "blk.%d.altup_predict_coef.weight",   D_STREAM_PAIRS, D_STREAM, D_1,    0,             ON_MIXERS,             A_ALTUP},
    {W_ALT_CORRECT,    "blk.%d.altup_correct_coef.weight",   D_STREAM,   D_STREAM,   D_1,      0,             ON_MIXERS,             A_ALTUP},
    {W_ALT_SCALE,      "blk.%d.altup_correct_scale.weight",  D_1,        D_EMBD,     D_1,      S_VEC,         ON_MIXERS,             A_ALTUP},
    {W_LAUREL_IN,      "blk.%d.laurel_l.weight",             D_FILE,     D_EMBD,     D_1,      0,             ON_MIXERS,             A_ALTUP},
    {W_LAUREL_OUT,     "blk.%d.laurel_r.weight",             D_EMBD,     D_FILE,     D_1,      0,             ON_MIXERS,             A_ALTUP},
    {W_LAUREL_NORM,    "blk.%d.laurel_post_norm.weight",     D_1,        D_EMBD,     D_1,      S_VEC,         ON_MIXERS,             A_ALTUP},
};
enum { ARCH_SLOT_ROWS = sizeof arch_slots / sizeof *arch_slots };

/* The row that describes a tensor of layer il (-1: of the model); NULL: it has none. */
static const arch_slot *arch_slot_of(const arch_hparams *hp, arch_slot_id id, int il) {
    const arch_layer_hp *l = &hp->layer[il < 0 ? 0 : il];
    const unsigned       both = il >= 0 && l->ffn == FFN_BESIDE ? ON_DENSE | ON_EXPERTS : 0;
    const unsigned       what = il < 0 ? ON_MODEL : (unsigned)ON_MIXER << l->mixer | (unsigned)ON_FFN << l->ffn | both;
    for (const arch_slot *s = arch_slots; s < arch_slots + ARCH_SLOT_ROWS; s++) {
        if (s->id != id || !(s->on & what) || (s->traits && !(hp->desc->traits & s->traits)) || (s->flags & S_FIRST && il)) continue;
        return s->name && arch_dim(hp, s->out, il) && arch_dim(hp, s->in, il) && arch_dim(hp, s->stack, il) ? s : NULL;
    }
    return NULL;
}
