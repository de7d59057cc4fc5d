/* ===== [arch] architectures as data =====
 * What a model of each architecture consists of: a row of arch_table holds the choices that its step makes, arch_keys the
 * hyper-parameters, arch_slots the tensors with their shapes. arch_load() reads and checks the hyper-parameters. Sizes, kinds and
 * windows belong to a layer. The step reads kinds and numbers and never asks for an architecture by name.
 * To add an architecture:
 *   1. A row of arch_table. A choice that no other makes is a trait: a bit of its own below, read where a step is laid out
 *      (the hyper-parameters here, the list of operations in [fwd]); where hardly another will ever make it, a quirk. Files of
 *      one architecture that differ by a tensor, a key or the number of layers have a row each. An optional key that llama.cpp
 *      reads for it: its name in arch_peers.
 *   2. For a key that no other has: a field of arch_hparams or arch_layer_hp and a row of arch_keys. For a tensor that no other
 *      has: an id and a row of arch_slots; for tensors that a file may have as one, model_joins of [model]. A norm (W_) is
 *      followed by its bias (B_) in the list of ids, whether files have it or not. A row for this architecture alone stands
 *      before the row of the same key or tensor for all others. A tensor without a row is refused, a key without a row is
 *      ignored: a key that changes the text needs one, and be it ONLY().
 *   3. What the step does with them, in [fwd]: fwd_mixers and fwd_ffns have a function for each kind of mixer and feed-forward.
 *      Operations are rows of ops_kinds in [ops].
 *   4. Its pre-tokenizer: the name in a row of tok_pres ([tok]), or a row. Its chat template comes with the file; marks of
 *      thinking that no other has are a row of chat__marks ([chat]).
 *   5. A tiny model and the logits of a float64 reading: rows of ARCHS and MODELS in tests/gen/tiny_decoders.py (an encoder:
 *      tests/gen/tiny_encoders.py), a row of ARCHS in tests/tiny_read_decoders.py, the second reading, which is the first where
 *      transformers has no class; one with a quirk goes to tiny_quirks.py and tiny_read_quirks.py instead, one that reads texts
 *      as a whole and answers them to tiny_pairs.py or tiny_diffuse.py. The head of
 *      tests/gen/tiny_models.py tells how; tests/data/README.md lists what they must
 *      show; tests/gen/tiny_convert.py compares names and layouts with those of llama.cpp's converter. New rows of
 *      data/tiny/pending.txt move to manifest.txt. A model with keys of its own is named in t_model_keys() of tests/t_model.c,
 *      a broken file of it is a row of tests/hostile.py. Then `build/test/tests fwd model tok`, tests/tiny_check.py and its
 *      --faults.
 *   6. The table of the README: `tests/readme.py ./llmrun README.md --write`.
 * tests/invented.rows shows two architectures that are rows of arch_table alone.
 * Draft heads (NextN, multi-token prediction) are layers behind the last: attention and a feed-forward as the architecture has
 * them, and the tensors blk.N.nextn. A file may name such layers and leave their tensors out. A_NEXTN is for architectures whose
 * last norm leaves what a head reads and whose layers add to one stream. A head has the window that its layer has in the file.
 * Public: arch_table, arch_list, arch_scaling_of, arch_peers, arch_load, arch_drop, arch_whole, arch_diffuses, arch_number,
 * arch_layers, arch_own, arch_own_layers, arch_has_head, arch_assists, arch_is_head, arch_dim, arch_slot_of.
 * Opens: arch_desc, arch_hparams, arch_layer_hp, arch_rec, arch_rope_hp, arch_slot. */

typedef enum { ROPE_PAIRS, ROPE_HALVES } arch_rope;   /* RoPE rotates values 2i and 2i + 1 of a head, or i and i + n_rot/2 */

enum {                                /* traits: choices inside a step */
    A_PRE_NORM = 1,                   /* norms of what attention and feed-forward read from the stream */
    A_POST_NORM = 2,                  /* norms of what they add to it */
    A_LAYER_NORM = 4,                 /* norms are LayerNorm, which may have biases; else RMS norms */
    A_QK_NORM = 8,                    /* RMS norm of each query and key head, before RoPE */
    A_QK_NORM_WIDE = 16,              /* the same of all heads together */
    A_LATE_NAME = 32,                 /* the norm before the feed-forward is named post_attention_norm */
    A_SINKS = 64,                     /* scores of each head have one more, which takes its share of the weight */
    A_LOCAL_ROPE = 128,               /* layers with a window have a RoPE base of their own and no scaling */
    A_SECTIONS = 256,                 /* RoPE has sections for time, height and width, which are the same position in a text */
    A_TEMPER = 512,                   /* queries grow with the position */
    A_LEARNED = 1024,                 /* learned positions; none has RoPE */
    A_ROOT_EMBD = 2048,               /* embeddings are multiplied by the square root of their width */
    A_MULTIPLIERS = 4096,             /* logits are divided by logit_scale */
    A_DENSE = 1 << 13,                /* no model has experts */
    A_MOE = 1 << 14,                  /* every model has experts */
    A_TOPK_NORM = 1 << 15,            /* weights of the chosen experts are scaled to sum to 1 */
    A_SHARED_EXPERT = 1 << 16,        /* one expert runs for every token, after a sigmoid gate */
    A_SHARED_PLAIN = 1 << 17,         /* one expert may run for every token, without a gate */
    A_UNGATED = 1 << 18,              /* the feed-forward is down(act(up)) */
    A_GATE_UP = 1 << 19,              /* ffn_up holds the rows of the gate and those of up after them */
    A_YARN_SMOOTH = 1 << 20,          /* the blend of YaRN begins and ends between two pairs, not at whole ones */
    A_DELTA = 1 << 21,                /* some layers are gated delta nets; attention in the others has a gate */
    A_DELTA_GROUPED = 1 << 22,        /* value heads of a key head are neighbours; projections are joined for each key head */
    A_SHORT_CONV = 1 << 23,           /* layers without K/V heads are short convolutions; the last norm is token_embd_norm */
    A_CHOICE_BIAS = 1 << 24,          /* a bias of each expert counts for the choice of experts alone */
    A_ENCODER = 1 << 25,              /* positions see those after them too; a window lies half on each side */
    A_SUM_NORM = 1 << 26,             /* norms of the stream after each sum; none at its end */
    A_EMBD_NORM = 1 << 27,            /* a norm of the embeddings */
    A_ALIBI = 1 << 28,                /* scores fall with the distance (ALiBi); none has RoPE */
    A_FIRST_BARE = 1 << 29,           /* the first layer has no norm before attention */
    A_EITHER_UP = 1 << 30,            /* ffn_up may hold the rows of the gate before its own */
    A_SOME_EXPERTS = 1ll << 31,       /* some layers have experts: the second of every moe_every_n_layers */
    A_VALUE_NORM = 1ll << 32,         /* RMS norm of value heads, without a gain; without attn_v: keys before their norm */
    A_BY_LAYER = 1ll << 33,           /* a token has an embedding for each layer too; late layers read earlier keys and values */
    A_BESIDE = 1ll << 34,             /* experts run beside the dense feed-forward; their router has a norm of its own */
    A_ALTUP = 1ll << 35,              /* several streams (AltUp), a low-rank layer beside attention (LAuReL), sparse gates */
    A_QK_LAYER_NORM = 1ll << 36,      /* LayerNorm of all query heads together, and of all key heads */
    A_SUM_TWICE = 1ll << 37,          /* what attention reads is added to its normed sum once more; that sum has a norm too */
    A_UP_FIRST = 1ll << 38,           /* where ffn_up holds the rows of the gate, they follow its own */
    A_NEXTN = 1ll << 39,              /* layers after the last may be draft heads */
    A_MAY_QK_NORM = 1ll << 40,        /* A_QK_NORM in files that have its tensors */
    A_MAY_CHOICE = 1ll << 41,         /* A_CHOICE_BIAS in files that have its tensors */
    A_BARE_CHOICE = 1ll << 42,        /* the same, its tensor has a name without .bias */
    A_SIGMOID = 1ll << 43,            /* scores of experts are sigmoids unless the file says another function */
    A_DENSE_SEEN = 1ll << 44,         /* layers without a router are dense */
    A_MUP = 1ll << 45,                /* A_MULTIPLIERS as in MiniCPM 1 and 2, where the file has none */
    A_SQUARE_SCALE = 1ll << 46,       /* scores are divided by the size of a head, not by its root */
    A_HEAD_IS_ROT = 1ll << 47,        /* heads have as many values as RoPE rotates */
    A_HALF_FF = 1ll << 48,            /* the file's feed_forward_length is that of gate and up together */
    A_BARE_NORM = 1ll << 49,          /* norms of what attention, feed-forward and output read have neither gain nor bias */
    A_CLAMP = 1ll << 50,              /* queries, keys and values may be cut to a range */
    A_OUTPUT_EMBD = 1ll << 51,        /* a file may have the output matrix alone, which then holds the embeddings too */
    A_QKV_BY_HEAD = 1ll << 52,        /* attn_qkv holds query, key and value of one head after the other */
    A_ENC_NAME = 1ll << 53,           /* the last norm is named enc.output_norm */
    A_WHOLE = 1ll << 54,              /* all of a head rotates and all positions are seen, whatever the file says */
    A_MAY_SINKS = 1ll << 55,          /* A_SINKS in layers that have the tensor */
    A_HEAD_GATE = 1ll << 56,          /* a layer may have a gate on each head of attention's output: a sigmoid of what it reads */
    A_CHAIN = 1ll << 57,              /* with A_NEXTN: each further guess has a head of its own; they read and leave the stream */
    A_CUT_GLU = 1ll << 58,            /* the activated gate and up of a feed-forward may be cut to a range */
    A_ASSIST = 1ll << 59,             /* a draft head for another model, whose embeddings, keys and values it reads */
    A_GROUP_BEST = 1ll << 61,         /* where no bias counts for the choice, a group of experts is as good as its best one */
    A_LATENT = 1ll << 62,             /* latent attention (MLA): a position has one key, of which its value is a part */
    /* several at once */
    A_BERT = A_ENCODER | A_LAYER_NORM | A_SUM_NORM | A_EMBD_NORM,      /* what BERT and its kin have */
    A_QK_WHOLE = A_QK_NORM_WIDE | A_QK_LAYER_NORM,                     /* a norm of all heads together, of either kind */
    A_SHARED = A_SHARED_EXPERT | A_SHARED_PLAIN,                       /* a shared expert of either kind */
    A_NO_GATE = A_UNGATED | A_GATE_UP,                                 /* no matrix is that of the gate alone */
    A_NO_GAIN = A_SUM_NORM | A_BARE_NORM,                              /* the last norm has no gain, or there is none */
};

enum {                                /* quirks: traits of one architecture or of a few, in a word of their own */
    Q_LATE_QK_NORM = 1,               /* norms of query and key heads come after RoPE */
    Q_STILL = 2,                      /* layers without a window have no RoPE */
    Q_OUT_GATE = 4,                   /* what attention gives is multiplied by the sigmoid of a product, value by value */
    Q_SOFT_GATE = 8,                  /* the same by softplus, value by value or head by head */
    Q_SUB_NORMS = 16,                 /* norms before attn_output and ffn_down */
    Q_DENSE_HEAD = 32,                /* draft heads have no experts */
    Q_LOCAL_ROT = 64,                 /* layers with a window may rotate another number of values */
    Q_ALPHA = 128,                    /* the base of RoPE may grow by a power of alpha; 4 sections may be; 1 expert is none */
    Q_RMS_NAME = 256,                 /* the epsilon of LayerNorm has the name of that of RMS norms */
    Q_SUM_NAME = 512,                 /* the norm before the feed-forward is named attn_output_norm */
    Q_GROK = 1024,                    /* scales of Grok; the norm after attention is named attn_output_norm; experts may run
                                       * beside the dense feed-forward without norms of their own */
    Q_OUT_NAME = 2048,                /* the norm after the feed-forward is named layer_output_norm */
    Q_SHORT_NAMES = 4096,             /* norms after blocks have names without .weight */
    Q_ROUTE_FIRST = 8192,             /* routers read the stream that attention reads, without a norm */
    Q_EMBD_BARE = 1 << 14,            /* embeddings are normed without a gain */
    Q_SKIP = 1 << 15,                 /* each layer adds the embeddings again; query heads have a gain each, keys have none */
    Q_FINE_POST = 1 << 16,            /* norms after blocks have an epsilon of 1e-8 */
    Q_MAY_ALIBI = 1 << 17,            /* ALiBi by a key; learned positions and norms of all Q and all K in files that have them */
    Q_XIELU = 1 << 18,                /* the activation has parameters in each layer */
    Q_MIXER = 1 << 19,                /* two experts, chosen one after the other (SparseMixer) */
    Q_NO_HEADS = 1 << 20,             /* layers may lack attention, or have a product in place of it */
    Q_LOOPS = 1 << 21,                /* the layers may run several times */
    Q_ADJUGATE = 1 << 22,             /* experts of a group share a small one, which runs beside each of them */
    Q_ONE_NORM = 1 << 23,             /* attention and feed-forward read the stream side by side, after one norm */
    Q_TWO_NORMS = 1 << 24,            /* the same after a norm of each: attn_norm_2 of attention, attn_norm of the feed-forward */
    Q_MAY_PARALLEL = 1 << 25,         /* a key says whether they read it side by side, after a norm of each */
    Q_CHUNKED = 1 << 26,              /* windows are chunks of a text; queries without RoPE have a temperature (Llama 4) */
    Q_HEAD_GAINS = 1 << 27,           /* files may have norms of query and key heads, with gains of each head */
    Q_ONE_BLOCK = 1 << 28,            /* a layer with a feed-forward has nothing else, and one norm (Nemotron-H) */
    Q_HEAD_NORMS = 1 << 29,           /* Q_HEAD_GAINS in every layer with attention (PLaMo 2) */
    Q_BUCKETS = 1 << 30,              /* scores have a bias for ranges of distances (T5); none has RoPE; names begin with enc. */
    Q_INDEX = 1ll << 33,              /* files have an indexer, which chooses positions where a text has more than a budget */
    Q_BLOCKS = 1ll << 34,             /* it chooses blocks of positions, for each key head (MiniMax M3) */
    Q_STREAMS = 1ll << 40,            /* several streams with hyper-connections in place of norms; a table of n-grams */
    Q_MEANS = 1ll << 41,              /* an indexer that chooses blocks of positions by the means of their keys (Qwen 4) */
    Q_POOLED = 1ll << 35,             /* keys of groups of positions beside a window, hyper-connections (DeepSeek V4) */
    Q_DIFFUSE = 1ll << 32,            /* answers begin as masks, which a token each replaces in any order (diffusion) */
    Q_PAIRS = 1ll << 31,              /* decoder layers follow those of an encoder, whose output they read (cross attention) */
    /* several at once */
    Q_EACH_GAIN = Q_HEAD_GAINS | Q_HEAD_NORMS,                         /* norms of query and key heads with gains of each */
};

/* How a position reads earlier positions: attention; a gated delta net; a short convolution; latent attention; a product of its
 * own, which reads none; nothing at all; Mamba-2; attention and Mamba-2 side by side; Mamba; Mamba with a step and a decay for
 * each head (PLaMo 2); RWKV-7; RWKV-6; Kimi delta attention, a gated delta net with a decay for each channel; attention, and
 * after it attention over an encoder's output; attention to a window and to groups of positions, each of which became one key. */
typedef enum {
    MIX_ATTN, MIX_DELTA, MIX_CONV, MIX_LATENT, MIX_LINEAR, MIX_NONE, MIX_SSD, MIX_BOTH, MIX_SCAN, MIX_SCAN_HEADS, MIX_WKV7,
    MIX_WKV6, MIX_KDA, MIX_CROSS, MIX_POOLED, MIXERS
} arch_mixer;

/* What is not said here is 0: none. */
typedef struct {
    const char *name;                                 /* general.architecture of the file */
    const char *families;                             /* models that have it; NULL: they are in an earlier row of this name */
    arch_rope   rope;                                 /* which values RoPE rotates together */
    uint64_t    traits;                               /* A_PRE_NORM and its neighbours */
    uint64_t    quirks;                               /* Q_LATE_QK_NORM and its neighbours */
    /* files with this are of this row, which follows that of the others: */
    const char *tensor;                               /* a tensor */
    const char *key;                                  /* a key, ARCH.key */
    int         layers;                               /* block_count */
    dev_act     act;                                  /* of the feed-forward */
    int         window;                               /* where the file has no window */
    int         window_every;                         /* of so many layers the last sees all positions; 0: none does */
    bool        window_first;                         /* the first of them does instead */
    float       cap;                                  /* of attention scores, where the file has none */
    float       final_cap;                            /* of logits, where the file has none */
    int         plain_every;                          /* of so many layers the last has no RoPE */
    int         full_rot;                             /* layers without a window rotate one in so many of n_rot; 0: all */
    float       base_local;                           /* base of RoPE in layers with a window; 0: as in the others */
    int         wide_scale;                           /* so many layers: scores as for heads of n_embd / n_head values */
    float       attn_scale;                           /* factor on scores; 0: 1 / sqrt(values of a head) */
    bool        local_turn;                           /* of layers with experts, those without a window have no RoPE */
    bool        weigh_first;                          /* experts get their inputs times their weights */
    bool        average;                              /* a feed-forward is the mean of the chosen experts and the shared one */
    bool        aside;                                /* experts read what attention reads, beside it and a dense feed-forward */
    arch_mixer  state;                                /* of layers without K/V heads, or MIX_BOTH of all; 0: none has a state */
    bool        channel_mix;                          /* feed-forwards read the position before, too (RWKV) */
    bool        index_halves;                         /* RoPE of the indexer is in halves, though not that of attention */
    int         index_every;                          /* of long contexts: see arch__indexed() */
} arch_desc;

static const arch_desc arch_table[] = {
    /* name             known as                              rope         the rest by name */
    {"llama",           "Llama 1-3, Mistral, Mixtral, TinyLlama, SmolLM and their kin", ROPE_PAIRS,
     .traits = A_PRE_NORM | A_TOPK_NORM | A_NEXTN},
    {"qwen2",           "Qwen 1.5 and 2.x, distilled R1",         ROPE_HALVES, .traits = A_PRE_NORM | A_DENSE | A_NEXTN},
    {"qwen2moe",        "Qwen 1.5 MoE, Qwen 2 57B-A14B",          ROPE_HALVES, .traits = A_PRE_NORM | A_MOE | A_SHARED_EXPERT},
    {"qwen3",           "Qwen 3",                                 ROPE_HALVES,
     .traits = A_PRE_NORM | A_DENSE | A_QK_NORM | A_NEXTN},
    {"qwen3moe",        "Qwen 3 30B-A3B, 235B-A22B, Coder",       ROPE_HALVES,
     .traits = A_PRE_NORM | A_MOE | A_QK_NORM | A_TOPK_NORM | A_NEXTN},
    {"gemma",           "Gemma 1, CodeGemma",                     ROPE_HALVES, .traits = A_PRE_NORM | A_DENSE | A_ROOT_EMBD,
     .act = ACT_GELU},
    {"gemma2",          "Gemma 2",                                ROPE_HALVES,
     .traits = A_PRE_NORM | A_POST_NORM | A_DENSE | A_ROOT_EMBD, .act = ACT_GELU, .window = 4096, .window_every = 2, .cap = 50,
     .final_cap = 30, .wide_scale = 46},
    {"gemma3",          "Gemma 3",                                ROPE_HALVES,
     .traits = A_PRE_NORM | A_POST_NORM | A_DENSE | A_QK_NORM | A_ROOT_EMBD | A_LOCAL_ROPE, .act = ACT_GELU, .window_every = 6,
     .base_local = 10000, .wide_scale = 62},
    {"gpt-oss",         "gpt-oss 20B and 120B",                   ROPE_HALVES,
     .traits = A_PRE_NORM | A_LATE_NAME | A_MOE | A_TOPK_NORM | A_SINKS | A_YARN_SMOOTH, .act = ACT_SWIGLU_CLIP,
     .window_every = 2},
    {"phi3",            "Phi 3 and 4, mini and medium",           ROPE_HALVES, .traits = A_PRE_NORM | A_DENSE | A_GATE_UP},
    {"mistral3",        "Ministral 3",                            ROPE_PAIRS,  .traits = A_PRE_NORM | A_TOPK_NORM | A_TEMPER},
    {"granite",         "Granite 3",                              ROPE_PAIRS,  .traits = A_PRE_NORM | A_DENSE | A_MULTIPLIERS},
    {"granitemoe",      "Granite 3 MoE",                          ROPE_PAIRS,
     .traits = A_PRE_NORM | A_TOPK_NORM | A_SHARED_PLAIN | A_MULTIPLIERS},
    {"smollm3",         "SmolLM 3",                               ROPE_PAIRS,  .traits = A_PRE_NORM | A_DENSE, .plain_every = 4},
    {"olmo2",           "OLMo 2 and 3",                           ROPE_HALVES,
     .traits = A_POST_NORM | A_DENSE | A_QK_NORM_WIDE | A_LOCAL_ROPE, .window_every = 4},
    {"starcoder2",      "StarCoder 2",                            ROPE_HALVES,
     .traits = A_PRE_NORM | A_DENSE | A_LAYER_NORM | A_UNGATED, .act = ACT_GELU},
    {"gpt2",            "GPT-2",                                  ROPE_HALVES,
     .traits = A_PRE_NORM | A_DENSE | A_LAYER_NORM | A_UNGATED | A_LEARNED, .act = ACT_GELU},
    {"qwen3vl",         "Qwen 3 VL, its text",                    ROPE_HALVES,
     .traits = A_PRE_NORM | A_DENSE | A_QK_NORM | A_SECTIONS},
    {"olmoe",           "OLMoE",                                  ROPE_HALVES, .traits = A_PRE_NORM | A_QK_NORM_WIDE},
    {"seed_oss",        "Seed-OSS",                               ROPE_HALVES, .traits = A_PRE_NORM | A_LATE_NAME | A_DENSE},
    {"bert",            "BERT, RoBERTa, XLM-RoBERTa: BGE, E5, GTE, MiniLM", ROPE_HALVES,
     .traits = A_BERT | A_DENSE | A_UNGATED | A_LEARNED, .act = ACT_GELU_ERF},
    {"nomic-bert",      "Nomic Embed 1",                          ROPE_HALVES, .traits = A_BERT | A_DENSE},
    {"nomic-bert-moe",  "Nomic Embed 2",                          ROPE_HALVES, .traits = A_BERT | A_UNGATED | A_SOME_EXPERTS,
     .act = ACT_GELU_ERF},
    {"jina-bert-v2",    "Jina Embeddings 2, also for code",       ROPE_HALVES, .traits = A_BERT | A_DENSE | A_EITHER_UP | A_ALIBI,
     .act = ACT_GELU_ERF},
    /* Jina for code: "qk-post-norm" */
    {"jina-bert-v2",    NULL,                                     ROPE_HALVES,
     .traits = A_BERT | A_DENSE | A_EITHER_UP | A_ALIBI | A_QK_LAYER_NORM | A_SUM_TWICE | A_UP_FIRST,
     .tensor = "blk.0.attn_norm_2.weight",
     .act = ACT_GELU_ERF},
    {"modern-bert",     "ModernBERT: GTE, Granite Embedding R2",  ROPE_HALVES,
     .traits = A_ENCODER | A_LAYER_NORM | A_PRE_NORM | A_EMBD_NORM | A_FIRST_BARE | A_DENSE | A_GATE_UP | A_LOCAL_ROPE,
     .act = ACT_GELU_ERF, .window_every = 3, .window_first = true},
    {"gemma-embedding", "EmbeddingGemma",                         ROPE_HALVES,
     .traits = A_ENCODER | A_PRE_NORM | A_POST_NORM | A_DENSE | A_QK_NORM | A_ROOT_EMBD | A_LOCAL_ROPE, .act = ACT_GELU,
     .window_every = 6, .base_local = 10000},
    {"qwen3vlmoe",      "Qwen 3 VL 30B-A3B and 235B-A22B, their text", ROPE_HALVES,
     .traits = A_PRE_NORM | A_MOE | A_QK_NORM | A_TOPK_NORM | A_SECTIONS},
    {"qwen35",          "Qwen 3.5 and 3.6",                       ROPE_HALVES,
     .traits = A_PRE_NORM | A_LATE_NAME | A_DENSE | A_QK_NORM | A_DELTA | A_NEXTN | A_SECTIONS},
    {"qwen35moe",       "Qwen 3.5 and 3.6 with experts: 35B-A3B, 122B-A10B", ROPE_HALVES,
     .traits = A_PRE_NORM | A_LATE_NAME | A_MOE | A_QK_NORM | A_TOPK_NORM | A_SHARED_EXPERT | A_DELTA | A_NEXTN | A_SECTIONS},
    {"qwen3next",       "Qwen3-Next 80B-A3B, Qwen3-Coder-Next",   ROPE_HALVES,
     .traits = A_PRE_NORM | A_LATE_NAME | A_MOE | A_QK_NORM | A_TOPK_NORM | A_SHARED_EXPERT | A_DELTA | A_NEXTN |
               A_DELTA_GROUPED},
    {"qwen4exp",        "Qwen 3.8 Flash Next (Qwen 4 experimental), its text", ROPE_HALVES,
     .traits = A_MOE | A_QK_NORM | A_TOPK_NORM | A_SHARED_EXPERT | A_DELTA | A_SECTIONS, .quirks = Q_STREAMS | Q_INDEX | Q_MEANS},
    {"lfm2",            "LFM2 350M to 2.6B",                      ROPE_HALVES,
     .traits = A_PRE_NORM | A_DENSE | A_QK_NORM | A_SHORT_CONV},
    {"lfm2moe",         "LFM2 8B-A1B, 24B-A2B",                   ROPE_HALVES,
     .traits = A_PRE_NORM | A_QK_NORM | A_TOPK_NORM | A_SHORT_CONV | A_CHOICE_BIAS},
    {"gemma4",          "Gemma 4: E2B, E4B, 26B-A4B, 31B",        ROPE_HALVES,
     .traits = A_PRE_NORM | A_POST_NORM | A_QK_NORM | A_TOPK_NORM | A_ROOT_EMBD | A_LOCAL_ROPE | A_VALUE_NORM | A_BY_LAYER |
               A_BESIDE,
     .act = ACT_GELU, .window_every = 6, .attn_scale = 1},
    {"gemma4-assistant", "draft heads for Gemma 4, which go with -md to that model", ROPE_HALVES,
     .traits = A_PRE_NORM | A_POST_NORM | A_QK_NORM | A_DENSE | A_LOCAL_ROPE | A_BY_LAYER | A_ASSIST, .act = ACT_GELU,
     .window_every = 6, .attn_scale = 1},
    {"gemma3n",         "Gemma 3n: E2B, E4B",                     ROPE_HALVES,
     .traits = A_PRE_NORM | A_POST_NORM | A_DENSE | A_QK_NORM | A_ROOT_EMBD | A_LOCAL_ROPE | A_VALUE_NORM | A_BY_LAYER | A_ALTUP,
     .act = ACT_GELU, .window_every = 5, .final_cap = 30, .base_local = 10000, .attn_scale = 1},
    {"glm4",            "GLM-4 of 2025 (0414), GLM-Z1, the text of GLM-4.1V and GLM-OCR", ROPE_PAIRS,
     .traits = A_PRE_NORM | A_POST_NORM | A_DENSE | A_GATE_UP | A_NEXTN},
    /* GLM-4.1V and GLM-OCR */
    {"glm4",            NULL,                                     ROPE_HALVES,
     .traits = A_PRE_NORM | A_POST_NORM | A_DENSE | A_GATE_UP | A_NEXTN | A_SECTIONS, .key = "rope.dimension_sections"},
    {"glm4moe",         "GLM-4.5, 4.6 and 4.7, Air, the text of GLM-4.5V, Solar Open", ROPE_HALVES,
     .traits = A_PRE_NORM | A_LATE_NAME | A_MOE | A_MAY_QK_NORM | A_SIGMOID | A_CHOICE_BIAS | A_SHARED_PLAIN | A_NEXTN |
               A_SECTIONS},
    {"minimax-m2",      "MiniMax M2",                             ROPE_HALVES,
     .traits = A_PRE_NORM | A_MOE | A_QK_NORM_WIDE | A_TOPK_NORM | A_SIGMOID | A_CHOICE_BIAS},
    {"minimax-m3",      "MiniMax M3, its text",                   ROPE_HALVES,
     .traits = A_PRE_NORM | A_MOE | A_QK_NORM | A_SIGMOID | A_CHOICE_BIAS | A_SHARED_PLAIN, .quirks = Q_INDEX | Q_BLOCKS,
     .act = ACT_SWIGLU_CLIP},
    {"ernie4_5",        "ERNIE 4.5 0.3B",                         ROPE_PAIRS,  .traits = A_PRE_NORM | A_DENSE},
    {"ernie4_5-moe",    "ERNIE 4.5 21B-A3B, 300B-A47B",           ROPE_PAIRS,
     .traits = A_PRE_NORM | A_MOE | A_TOPK_NORM | A_MAY_CHOICE | A_SHARED_PLAIN},
    {"paddleocr",       "PaddleOCR-VL, its text",                 ROPE_HALVES, .traits = A_PRE_NORM | A_DENSE | A_SECTIONS},
    {"dots1",           "dots.llm1",                              ROPE_HALVES,
     .traits = A_PRE_NORM | A_MOE | A_QK_NORM | A_SIGMOID | A_MAY_CHOICE | A_SHARED_PLAIN},
    {"hy_v3",           "Hunyuan 3",                              ROPE_HALVES,
     .traits = A_PRE_NORM | A_MOE | A_QK_NORM | A_TOPK_NORM | A_SIGMOID | A_BARE_CHOICE | A_SHARED_PLAIN | A_NEXTN |
               A_DENSE_SEEN},
    {"mimo2",           "MiMo V2 Flash, V2.5",                    ROPE_HALVES,
     .traits = A_PRE_NORM | A_MOE | A_TOPK_NORM | A_SIGMOID | A_MAY_CHOICE | A_MAY_SINKS | A_NEXTN | A_CHAIN | A_DENSE_SEEN |
               A_LOCAL_ROPE},
    {"step35",          "Step 3.5 Flash, the text of Step 3.7 Flash", ROPE_HALVES,
     .traits = A_PRE_NORM | A_MOE | A_MAY_QK_NORM | A_SIGMOID | A_MAY_CHOICE | A_SHARED_PLAIN | A_HEAD_GATE | A_CUT_GLU |
               A_NEXTN | A_CHAIN | A_DENSE_SEEN | A_LOCAL_ROPE,
     .quirks = Q_LOCAL_ROT, .full_rot = 2},
    {"qwen2vl",         "Qwen 2 VL and 2.5 VL, their text",       ROPE_HALVES, .traits = A_PRE_NORM | A_DENSE | A_SECTIONS},
    {"qwen",            "Qwen 1",                                 ROPE_HALVES, .traits = A_PRE_NORM | A_DENSE | A_HALF_FF},
    {"internlm2",       "InternLM 2 and 2.5",                     ROPE_PAIRS,  .traits = A_PRE_NORM | A_DENSE},
    {"minicpm",         "MiniCPM 1, 2 and 4",                     ROPE_PAIRS,
     .traits = A_PRE_NORM | A_TOPK_NORM | A_MULTIPLIERS | A_MUP},
    {"nemotron",        "Nemotron 3 and 4, Minitron",             ROPE_HALVES,
     .traits = A_PRE_NORM | A_DENSE | A_LAYER_NORM | A_UNGATED, .act = ACT_RELU2},
    {"exaone",          "EXAONE 3 and 3.5, EXAONE Deep",          ROPE_HALVES, .traits = A_PRE_NORM | A_DENSE},
    {"arcee",           "AFM 4.5B",                               ROPE_PAIRS,  .traits = A_PRE_NORM | A_DENSE | A_UNGATED,
     .act = ACT_RELU2},
    {"deepseek",        "DeepSeek MoE 16B",                       ROPE_PAIRS,  .traits = A_PRE_NORM | A_MOE | A_SHARED_PLAIN},
    {"deepseek2",       "DeepSeek V2, V3 and R1, Kimi K2, GLM-4.7-Flash, Mistral Large 3, GigaChat 3", ROPE_PAIRS,
     .traits = A_PRE_NORM | A_LATENT | A_MAY_CHOICE | A_GROUP_BEST | A_SHARED_PLAIN | A_TEMPER | A_NEXTN},
    /* V3, R1, Kimi K2, GLM-4.7-Flash: older files do not say what makes the score of an expert */
    {"deepseek2",       NULL,                                     ROPE_PAIRS,
     .traits = A_PRE_NORM | A_LATENT | A_MAY_CHOICE | A_SHARED_PLAIN | A_TEMPER | A_NEXTN | A_SIGMOID,
     .tensor = "blk.3.exp_probs_b.bias"},
    {"deepseek32",      "DeepSeek V3.2",                          ROPE_PAIRS,
     .traits = A_PRE_NORM | A_LATENT | A_MAY_CHOICE | A_SHARED_PLAIN | A_TEMPER | A_NEXTN | A_SIGMOID, .quirks = Q_INDEX,
     .index_halves = true},
    {"glm-dsa",         "GLM-5, 5.1 and 5.2",                     ROPE_PAIRS,
     .traits = A_PRE_NORM | A_LATENT | A_MAY_CHOICE | A_SHARED_PLAIN | A_TEMPER | A_NEXTN | A_SIGMOID, .quirks = Q_INDEX,
     .index_every = 4},
    {"deepseek4",       "DeepSeek V4, Flash and Pro, without their draft heads", ROPE_PAIRS,
     .traits = A_PRE_NORM | A_MOE | A_MAY_CHOICE | A_SHARED_PLAIN | A_CUT_GLU, .quirks = Q_POOLED},
    {"mistral4",        "Mistral Small 4",                        ROPE_PAIRS,
     .traits = A_PRE_NORM | A_LATENT | A_MAY_CHOICE | A_SHARED_PLAIN | A_TEMPER},
    {"minicpm3",        "MiniCPM 3",                              ROPE_HALVES,
     .traits = A_PRE_NORM | A_LATENT | A_DENSE | A_MULTIPLIERS | A_MUP},
    {"plm",             "PLM 1.8B",                               ROPE_PAIRS,
     .traits = A_PRE_NORM | A_LATENT | A_DENSE | A_UNGATED, .act = ACT_RELU2},
    {"deepseek2-ocr",   "DeepSeek OCR, its text",                 ROPE_HALVES,
     .traits = A_PRE_NORM | A_MOE | A_MAY_CHOICE | A_SHARED_PLAIN | A_WHOLE},
    {"bailingmoe",      "Ling and Ring of 2024, Lite and Plus",   ROPE_PAIRS,
     .traits = A_PRE_NORM | A_MOE | A_SHARED_PLAIN | A_HEAD_IS_ROT},
    {"bailingmoe2",     "Ling and Ring of 2025, 2.0: mini, flash, 1T; Sarvam", ROPE_HALVES,
     .traits = A_PRE_NORM | A_MOE | A_QK_NORM | A_SIGMOID | A_MAY_CHOICE | A_SHARED_PLAIN | A_NEXTN},
    {"chatglm",         "ChatGLM 2 and 3, GLM-4 9B of 2024",      ROPE_PAIRS,  .traits = A_PRE_NORM | A_DENSE | A_GATE_UP},
    {"baichuan",        "Baichuan 1 and 2",                       ROPE_PAIRS,  .traits = A_PRE_NORM | A_DENSE},
    /* Baichuan 13B */
    {"baichuan",        NULL,                                     ROPE_PAIRS,  .traits = A_PRE_NORM | A_DENSE | A_ALIBI,
     .layers = 40},
    {"xverse",          "XVERSE",                                 ROPE_PAIRS,  .traits = A_PRE_NORM | A_DENSE},
    {"orion",           "Orion 14B",                              ROPE_HALVES, .traits = A_PRE_NORM | A_DENSE | A_LAYER_NORM},
    {"olmo",            "OLMo 1",                                 ROPE_PAIRS,
     .traits = A_DENSE | A_LAYER_NORM | A_BARE_NORM | A_CLAMP},
    {"starcoder",       "StarCoder 1, SantaCoder",                ROPE_PAIRS,
     .traits = A_PRE_NORM | A_DENSE | A_LAYER_NORM | A_UNGATED | A_LEARNED, .act = ACT_GELU},
    {"codeshell",       "CodeShell",                              ROPE_HALVES,
     .traits = A_PRE_NORM | A_DENSE | A_LAYER_NORM | A_UNGATED | A_OUTPUT_EMBD, .act = ACT_GELU},
    {"refact",          "Refact 1.6B",                            ROPE_PAIRS,  .traits = A_PRE_NORM | A_DENSE | A_ALIBI},
    {"bloom",           "BLOOM, BLOOMZ",                          ROPE_PAIRS,
     .traits = A_PRE_NORM | A_DENSE | A_LAYER_NORM | A_UNGATED | A_EMBD_NORM | A_ALIBI, .act = ACT_GELU},
    {"jais",            "Jais",                                   ROPE_PAIRS,
     .traits = A_PRE_NORM | A_DENSE | A_LAYER_NORM | A_ALIBI | A_SQUARE_SCALE},
    {"jais2",           "Jais 2",                                 ROPE_HALVES,
     .traits = A_PRE_NORM | A_DENSE | A_LAYER_NORM | A_UNGATED, .act = ACT_RELU2},
    {"llama4",          "Llama 4 Scout and Maverick, MobileLLM R1", ROPE_PAIRS,
     .traits = A_PRE_NORM | A_SIGMOID | A_SHARED_PLAIN, .quirks = Q_CHUNKED, .window = 8192, .window_every = 4,
     .local_turn = true, .weigh_first = true},
    {"command-r",       "Command R and R+, Aya 23, Aya Expanse",  ROPE_PAIRS,
     .traits = A_DENSE | A_LAYER_NORM, .quirks = Q_ONE_NORM | Q_HEAD_GAINS},
    {"cohere2",         "Command R7B, Command A, Tiny Aya",       ROPE_PAIRS,
     .traits = A_DENSE | A_LAYER_NORM, .quirks = Q_ONE_NORM, .window_every = 4, .local_turn = true},
    {"cohere2moe",      "North Mini Code",                        ROPE_PAIRS,
     .traits = A_MOE | A_LAYER_NORM | A_SIGMOID | A_SHARED_PLAIN | A_NEXTN, .quirks = Q_ONE_NORM, .window_every = 4,
     .window_first = true, .local_turn = true, .average = true},
    /* with RMS norms */
    {"cohere2moe",      NULL,                                     ROPE_PAIRS,
     .traits = A_MOE | A_SIGMOID | A_SHARED_PLAIN | A_NEXTN, .quirks = Q_ONE_NORM, .key = "attention.layer_norm_rms_epsilon",
     .window_every = 4, .window_first = true, .local_turn = true, .average = true},
    {"falcon",          "Falcon 7B and 40B",                      ROPE_HALVES,
     .traits = A_DENSE | A_LAYER_NORM | A_UNGATED, .quirks = Q_ONE_NORM, .act = ACT_GELU_ERF},
    /* Falcon 40B */
    {"falcon",          NULL,                                     ROPE_HALVES,
     .traits = A_DENSE | A_LAYER_NORM | A_UNGATED, .quirks = Q_TWO_NORMS, .tensor = "blk.0.attn_norm_2.weight",
     .act = ACT_GELU_ERF},
    {"gptneox",         "GPT-NeoX, Pythia, Dolly 2, RedPajama",   ROPE_HALVES,
     .traits = A_PRE_NORM  | A_DENSE | A_LAYER_NORM | A_UNGATED, .quirks = Q_MAY_PARALLEL, .act = ACT_GELU_ERF},
    {"phi2",            "Phi 1, 1.5 and 2",                       ROPE_HALVES,
     .traits = A_DENSE | A_LAYER_NORM | A_UNGATED, .quirks = Q_ONE_NORM, .act = ACT_GELU},
    {"plamo",           "PLaMo 13B",                              ROPE_HALVES, .traits = A_DENSE, .quirks = Q_ONE_NORM},
    {"stablelm",        "StableLM 1 to 2",                        ROPE_HALVES,
     .traits = A_DENSE | A_LAYER_NORM, .quirks = Q_ONE_NORM | Q_HEAD_GAINS},
    /* all but StableLM 2 12B */
    {"stablelm",        NULL,                                     ROPE_HALVES,
     .traits = A_PRE_NORM | A_DENSE | A_LAYER_NORM, .quirks = Q_HEAD_GAINS, .tensor = "blk.0.ffn_norm.weight"},
    {"gptj",            "GPT-J 6B",                               ROPE_PAIRS,
     .traits = A_DENSE | A_LAYER_NORM | A_UNGATED, .quirks = Q_ONE_NORM, .act = ACT_GELU},
    {"arctic",          "Snowflake Arctic",                       ROPE_PAIRS,
     .traits = A_PRE_NORM | A_MOE | A_TOPK_NORM, .aside = true},
    {"mamba2",          "Mamba-2, Codestral Mamba",               ROPE_HALVES, .traits = A_PRE_NORM | A_DENSE, .state = MIX_SSD},
    {"nemotron_h",      "Nemotron-H, Nemotron Nano 2",            ROPE_HALVES, .traits = A_PRE_NORM | A_DENSE | A_UNGATED,
     .quirks = Q_ONE_BLOCK, .act = ACT_RELU2, .plain_every = 1, .state = MIX_SSD},
    {"nemotron_h_moe",  "Nemotron 3 Nano and Super",              ROPE_HALVES,
     .traits = A_PRE_NORM | A_MOE | A_UNGATED | A_SIGMOID | A_CHOICE_BIAS | A_SHARED_PLAIN, .quirks = Q_ONE_BLOCK,
     .act = ACT_RELU2, .plain_every = 1, .state = MIX_SSD},
    {"granitehybrid",   "Granite 4 H, Bamba",                     ROPE_PAIRS,
     .traits = A_PRE_NORM | A_TOPK_NORM | A_SHARED_PLAIN | A_MULTIPLIERS, .state = MIX_SSD},
    {"falcon-h1",       "Falcon-H1",                              ROPE_HALVES, .traits = A_PRE_NORM | A_DENSE, .state = MIX_BOTH},
    {"mamba",           "Mamba, Falcon Mamba",                    ROPE_HALVES, .traits = A_PRE_NORM | A_DENSE, .state = MIX_SCAN},
    {"jamba",           "Jamba",                                  ROPE_HALVES, .traits = A_PRE_NORM | A_DENSE_SEEN,
     .plain_every = 1, .state = MIX_SCAN},
    {"plamo2",          "PLaMo 2 and 2.1",                        ROPE_HALVES,
     .traits = A_PRE_NORM | A_POST_NORM | A_DENSE | A_GATE_UP, .quirks = Q_HEAD_NORMS, .state = MIX_SCAN_HEADS},
    {"rwkv7",           "RWKV-7",                                 ROPE_HALVES,
     .traits = A_PRE_NORM | A_DENSE | A_LAYER_NORM | A_EMBD_NORM, .act = ACT_RELU2, .state = MIX_WKV7, .channel_mix = true},
    {"arwkv7",          "ARWKV-7",                                ROPE_HALVES, .traits = A_PRE_NORM | A_DENSE,
     .state = MIX_WKV7},
    {"rwkv6",           "RWKV-6",                                 ROPE_HALVES,
     .traits = A_PRE_NORM | A_DENSE | A_LAYER_NORM | A_EMBD_NORM, .act = ACT_RELU2, .state = MIX_WKV6, .channel_mix = true},
    {"rwkv6qwen2",      "QRWKV-6",                                ROPE_HALVES, .traits = A_PRE_NORM | A_DENSE,
     .state = MIX_WKV6},
    {"kimi-linear",     "Kimi Linear 48B-A3B",                    ROPE_PAIRS,
     .traits = A_PRE_NORM | A_LATENT | A_MOE | A_TOPK_NORM | A_SIGMOID | A_CHOICE_BIAS | A_SHARED_PLAIN, .plain_every = 1,
     .state = MIX_KDA},
    {"mellum",          "Mellum 2",                               ROPE_HALVES,
     .traits = A_PRE_NORM | A_MOE | A_QK_NORM | A_TOPK_NORM | A_LOCAL_ROPE, .window_every = 4},
    {"pangu-embedded",  "openPangu Embedded",                     ROPE_HALVES, .traits = A_PRE_NORM | A_DENSE},
    {"openelm",         "OpenELM",                                ROPE_HALVES, .traits = A_PRE_NORM | A_DENSE | A_QK_NORM},
    {"exaone4",         "EXAONE 4.0 1.2B",                        ROPE_HALVES,
     .traits = A_POST_NORM | A_DENSE | A_QK_NORM | A_NEXTN},
    /* EXAONE 4.0 32B, 4.5 */
    {"exaone4",         NULL,                                     ROPE_HALVES,
     .traits = A_POST_NORM | A_DENSE | A_QK_NORM | A_NEXTN, .quirks = Q_STILL, .key = "attention.sliding_window",
     .window_every = 4},
    {"exaone4",         NULL,                                     ROPE_HALVES,
     .traits = A_POST_NORM | A_DENSE | A_QK_NORM | A_NEXTN, .quirks = Q_STILL, .layers = 64, .window = 4096, .window_every = 4},
    {"exaone-moe",      "K-EXAONE 236B-A23B",                     ROPE_HALVES,
     .traits = A_PRE_NORM | A_MOE | A_QK_NORM | A_SIGMOID | A_MAY_CHOICE | A_SHARED_PLAIN | A_NEXTN,
     .quirks = Q_STILL | Q_DENSE_HEAD, .window = 128, .window_every = 4},
    {"hunyuan-dense",   "Hunyuan 0.5B to 7B",                     ROPE_HALVES,
     .traits = A_PRE_NORM | A_DENSE | A_QK_NORM | A_SECTIONS, .quirks = Q_LATE_QK_NORM | Q_ALPHA},
    {"hunyuan_vl",      "HunyuanOCR, Hunyuan VL, their text",     ROPE_HALVES,
     .traits = A_PRE_NORM | A_DENSE | A_QK_NORM | A_SECTIONS, .quirks = Q_LATE_QK_NORM | Q_ALPHA},
    {"hunyuan-moe",     "Hunyuan A13B",                           ROPE_HALVES,
     .traits = A_PRE_NORM | A_MOE | A_QK_NORM | A_TOPK_NORM | A_SHARED_PLAIN, .quirks = Q_LATE_QK_NORM},
    {"maincoder",       "Maincoder 1B",                           ROPE_PAIRS,
     .traits = A_PRE_NORM | A_DENSE | A_QK_NORM, .quirks = Q_LATE_QK_NORM},
    {"mpt",             "MPT",                                    ROPE_PAIRS,
     .traits = A_PRE_NORM | A_DENSE | A_LAYER_NORM | A_UNGATED | A_CLAMP, .quirks = Q_MAY_ALIBI, .act = ACT_GELU_ERF},
    {"dbrx",            "DBRX",                                   ROPE_HALVES,
     .traits = A_PRE_NORM | A_LAYER_NORM | A_TOPK_NORM | A_CLAMP, .quirks = Q_SUM_NAME},
    {"afmoe",           "Trinity Nano, Mini and Large",           ROPE_HALVES,
     .traits = A_PRE_NORM | A_POST_NORM | A_MOE | A_QK_NORM | A_ROOT_EMBD | A_SIGMOID | A_CHOICE_BIAS | A_SHARED_PLAIN,
     .quirks = Q_STILL | Q_OUT_GATE, .window_every = 4},
    {"laguna",          "Laguna XS.2, S.2 and M.1",               ROPE_HALVES,
     .traits = A_PRE_NORM | A_MOE | A_QK_NORM | A_TOPK_NORM | A_SIGMOID | A_CHOICE_BIAS | A_SHARED_PLAIN | A_LOCAL_ROPE,
     .quirks = Q_SOFT_GATE | Q_LOCAL_ROT, .window_every = 4, .window_first = true},
    {"muse-glimmer",    "Muse Glimmer 30B, its text",             ROPE_PAIRS,
     .traits = A_PRE_NORM | A_POST_NORM | A_DENSE | A_QK_NORM,
     .quirks = Q_STILL | Q_OUT_GATE | Q_EMBD_BARE | Q_FINE_POST, .window_every = 4},
    {"bitnet",          "BitNet b1.58",                           ROPE_HALVES,
     .traits = A_PRE_NORM | A_DENSE, .quirks = Q_SUB_NORMS},
    {"bitnet-b1.58",    "BitNet b1.58 2B4T, as bitnet.cpp writes it", ROPE_HALVES,
     .traits = A_PRE_NORM | A_DENSE, .quirks = Q_SUB_NORMS, .act = ACT_RELU2},
    {"apertus",         "Apertus 8B and 70B",                     ROPE_HALVES,
     .traits = A_PRE_NORM | A_DENSE | A_QK_NORM | A_UNGATED, .quirks = Q_XIELU},
    {"smallthinker",    "SmallThinker",                           ROPE_HALVES,
     .traits = A_PRE_NORM | A_MOE | A_TOPK_NORM, .quirks = Q_ROUTE_FIRST, .act = ACT_RELU},
    /* with windows: 21B-A3B */
    {"smallthinker",    NULL,                                     ROPE_HALVES,
     .traits = A_PRE_NORM | A_MOE | A_TOPK_NORM, .quirks = Q_ROUTE_FIRST | Q_STILL, .key = "attention.sliding_window",
     .act = ACT_RELU, .window_every = 4, .window_first = true},
    {"plamo3",          "PLaMo 3",                                ROPE_HALVES,
     .traits = A_PRE_NORM | A_POST_NORM | A_DENSE | A_QK_NORM | A_GATE_UP | A_LOCAL_ROPE, .quirks = Q_SHORT_NAMES,
     .window_every = 8, .base_local = 10000},
    {"talkie",          "Talkie 13B",                             ROPE_HALVES,
     .traits = A_DENSE | A_BARE_NORM, .quirks = Q_EMBD_BARE | Q_SKIP},
    {"grok",            "Grok 1",                                 ROPE_HALVES,
     .traits = A_PRE_NORM | A_POST_NORM | A_TOPK_NORM, .quirks = Q_GROK | Q_OUT_NAME, .act = ACT_GELU, .cap = 30,
     .attn_scale = 0.08838834764831845f},
    /* Grok 2 */
    {"grok",            NULL,                                     ROPE_HALVES,
     .traits = A_PRE_NORM | A_POST_NORM | A_TOPK_NORM, .quirks = Q_GROK, .tensor = "blk.0.post_ffw_norm.weight", .act = ACT_GELU,
     .cap = 30, .attn_scale = 0.08838834764831845f},
    {"phimoe",          "Phi 3.5 MoE",                            ROPE_HALVES,
     .traits = A_PRE_NORM | A_LAYER_NORM, .quirks = Q_RMS_NAME | Q_MIXER},
    {"deci",            "DeciLM, Nemotron 49B, 51B and 253B (Llama)", ROPE_PAIRS,
     .traits = A_PRE_NORM | A_DENSE, .quirks = Q_NO_HEADS},
    {"nanbeige",        "Nanbeige",                               ROPE_PAIRS,  .traits = A_PRE_NORM | A_DENSE, .quirks = Q_LOOPS},
    {"grovemoe",        "GroveMoE",                               ROPE_HALVES,
     .traits = A_PRE_NORM | A_MOE | A_QK_NORM | A_TOPK_NORM, .quirks = Q_ADJUGATE},
    {"jina-bert-v3",    "Jina Embeddings 3",                      ROPE_HALVES, .traits = A_BERT | A_DENSE | A_UNGATED,
     .act = ACT_GELU_ERF},
    {"eurobert",        "EuroBERT, Jina Embeddings 5",            ROPE_HALVES, .traits = A_ENCODER | A_PRE_NORM | A_DENSE},
    {"llama-embed",     "Llama Embed Nemotron 8B",                ROPE_PAIRS,  .traits = A_ENCODER | A_PRE_NORM | A_DENSE},
    {"dream",           "Dream 7B, DreamCoder, DiffuCoder",       ROPE_HALVES, .traits = A_ENCODER | A_PRE_NORM | A_DENSE,
     .quirks = Q_DIFFUSE},
    {"llada",           "LLaDA 8B, 1.5",                          ROPE_PAIRS,  .traits = A_ENCODER | A_PRE_NORM | A_DENSE,
     .quirks = Q_DIFFUSE},
    {"llada-moe",       "LLaDA-MoE 7B-A1B",                       ROPE_HALVES,
     .traits = A_ENCODER | A_PRE_NORM | A_MOE | A_QK_NORM, .quirks = Q_DIFFUSE},
    {"t5",              "T5, Flan-T5, mT5, their kin",            ROPE_HALVES, .traits = A_PRE_NORM | A_DENSE | A_UNGATED,
     .quirks = Q_BUCKETS | Q_PAIRS, .act = ACT_RELU, .attn_scale = 1},
    /* T5 1.1, Flan-T5, mT5 */
    {"t5",              NULL,                                     ROPE_HALVES, .traits = A_PRE_NORM | A_DENSE,
     .quirks = Q_BUCKETS | Q_PAIRS, .tensor = "enc.blk.0.ffn_gate.weight", .act = ACT_GELU, .attn_scale = 1},
    {"t5encoder",       "Sentence-T5, GTR, the T5 that encodes for image models", ROPE_HALVES,
     .traits = A_ENCODER | A_PRE_NORM | A_DENSE | A_ENC_NAME | A_UNGATED, .quirks = Q_BUCKETS, .act = ACT_RELU,
     .attn_scale = 1},
    /* T5 1.1 */
    {"t5encoder",       NULL,                                     ROPE_HALVES,
     .traits = A_ENCODER | A_PRE_NORM | A_DENSE | A_ENC_NAME, .quirks = Q_BUCKETS, .tensor = "enc.blk.0.ffn_gate.weight",
     .act = ACT_GELU, .attn_scale = 1},
    {"neo-bert",        "NeoBERT",                                ROPE_PAIRS,
     .traits = A_ENCODER | A_PRE_NORM | A_DENSE | A_GATE_UP | A_QKV_BY_HEAD | A_ENC_NAME},
};
enum { ARCH_COUNT = sizeof arch_table / sizeof arch_table[0] };

/* Lists the architectures for people: one line for each, its name and its families. */
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

/* How the rows of a text become its vector, by the number in a file: each row stands alone; their mean; the first one; the last
 * one; the first or last one, after a classifier. */
typedef enum { POOLING_NONE, POOLING_MEAN, POOLING_CLS, POOLING_LAST, POOLING_RANK, POOLINGS } arch_pooling;

/* FFN_CHANNELS: the channel mix of RWKV. FFN_BESIDE: a dense one and experts, with norms of their own; FFN_BOTH: the same of one
 * input, halved in power; FFN_ASIDE: the same, and the experts read what attention reads. */
typedef enum { FFN_NONE, FFN_DENSE, FFN_EXPERTS, FFN_CHANNELS, FFN_BESIDE, FFN_BOTH, FFN_ASIDE } arch_ffn;

/* Sizes of a recurrent mixer. */
typedef struct {
    int taps;                                         /* positions that the convolution reads */
    int width;                                        /* channels of the convolution; 0: the layer is not recurrent */
    int n_k;                                          /* heads of keys */
    int n_v;                                          /* heads of values; 0: there is nothing after the convolution */
    int d_k;                                          /* values of a key head */
    int d_v;                                          /* values of a value head */
    int n_gate[2];                                    /* values of the gates of a position: first ones, second ones */
} arch_rec;

enum { ARCH_CONVS = 2 };                              /* most convolutions and shifts of a layer beside its state */

/* One layer. What may differ between layers is here and nowhere else. */
typedef struct {
    arch_mixer mixer;                                 /* how it reads earlier positions */
    arch_ffn   ffn;                                   /* its kind of feed-forward */
    int   n_head;                                     /* heads of queries */
    int   n_head_kv;                                  /* heads of keys and values */
    int   hd_k;                                       /* values of a query or key head */
    int   hd_v;                                       /* values of a value head */
    int   n_rot;                                      /* RoPE rotates the first n_rot values of a head; 0: none */
    int   rope;                                       /* number of its table of frequencies */
    bool  still;                                      /* latent attention: the last n_rot values of a key do not rotate */
    int   kv_back;                                    /* it reads keys and values of the layer so many before it; 0: its own */
    bool  kv_over;                                    /* its own lie where those of the layer before it were: in no later step are
                                                       * they read */
    int   kv_at;                                      /* A_ASSIST: those of this layer of the other model */
    bool  windowed;                                   /* by the pattern of layers */
    dev_view view;                                    /* which side of itself a position sees */
    int   window;                                     /* positions that one sees, with itself, half of it on each side; 0: all */
    int   rank;                                       /* latent attention: values of a key before those that rotate; 0: none */
    int   q_rank;                                     /* values between the two matrices of queries; 0: there is one matrix */
    int   hd_q;                                       /* values of a query before it takes in the keys' matrix */
    int   hd_o;                                       /* values of a head of its output */
    bool  unit;                                       /* queries and keys have a norm without gain after RoPE */
    bool  tempered;                                   /* queries grow with the position */
    float attn_scale;                                 /* factor on q . k */
    float cap;                                        /* scores become cap * tanh(score / cap); 0: they stay */
    bool  gated;                                      /* the query projection holds a gate after each head */
    bool  recurrent;                                  /* by the pattern of layers: a gated delta net */
    bool  indexed;                                    /* it has an indexer */
    bool  listed;                                     /* experts of a row are those that a table has for its token */
    bool  chooses;                                    /* it attends to what that chooses, or that of a layer before it */
    int   ratio;                                      /* Q_MEANS, Q_POOLED: positions that have one key; 0: there are none */
    int   pool_span;                                  /* Q_POOLED: positions that such a key is made of; 0: there are none */
    int   n_ff;                                       /* width of the dense feed-forward; 0: none */
    float sparse;                                     /* cuts gates off below mean - sparse * deviation; -INFINITY: none */
    int   n_expert;                                   /* experts; 0: none */
    int   n_expert_used;                              /* experts that a row goes through */
    int   n_ff_exp;                                   /* width of an expert */
    int   n_ff_shexp;                                 /* width of the shared expert; 0: none */
    float cut;                                        /* act(gate) and up of experts are cut to [-cut, cut]; 0: they stay */
    float cut_always;                                 /* the same of the shared expert and of a dense feed-forward */
    int   n_ff_adj;                                   /* width of an expert that a group shares; 0: none */
    float xielu_n;                                    /* of xIELU (Huang 2024): log(exp(alpha_n - beta) - 1) */
    float xielu_p;                                    /* log(exp(alpha_p) - 1) */
    float xielu_beta;                                 /* slope at 0 */
    float xielu_eps;                                  /* negative inputs count as this at most */
    arch_rec rec;                                     /* of a recurrent layer */
    arch_rec conv[ARCH_CONVS];                        /* convolutions before it, where its own reads one position (taps 1); RWKV:
                                                       * shifts by one position, of what the mixer reads and the feed-forward */
    int   lora_rank[5];                               /* RWKV: of the decay, the rate, the values, the gate, the mix */
    bool  rec_normed;                                 /* Mamba: RMS norms of what makes steps, keys and queries */
    int   n_rank;                                     /* Mamba: values from which the steps are made */
} arch_layer_hp;

/* Parameters of one table of RoPE frequencies. */
typedef struct {
    int   n_rot;                                      /* values of a head that it rotates */
    bool  local;                                      /* of layers with a window alone: options do not change it */
    float base;                                       /* of the frequencies: base^(-2i / n_rot) radians per position */
    float factor;                                     /* above 1 it stretches the context */
    arch_scaling scaling;                             /* how */
    int   n_ctx_orig;                                 /* context that the model was trained with */
    float yarn_attn;                                  /* factor on cos and sin */
    float yarn_ext;                                   /* weight of the frequencies that YaRN keeps */
    float yarn_fast;                                  /* pairs that turn so often in n_ctx_orig are kept */
    float yarn_slow;                                  /* those that turn so seldom are stretched */
    bool  yarn_smooth;                                /* YaRN blends from and to places between pairs */
    float yarn_log;                                   /* YaRN's factor on cos and sin is divided by one with it; 0: by none */
    bool  yarn_scores;                                /* scores have the square of that one instead, and cos and sin no factor */
} arch_rope_hp;

enum { ARCH_ROPES = 4 };                              /* most tables of one model */

/* What makes the score of an expert, as files number it. Softmax of the chosen is softmax of all with weights that sum to 1. */
typedef enum { GATE_NONE, GATE_SOFTMAX, GATE_SIGMOID, GATE_SOFTMAX_OF_CHOSEN, GATE_ROOT_SOFTPLUS } arch_gate;

typedef struct arch_hparams {
    const arch_desc *desc;                            /* the row of its architecture */
    int    n_vocab;                                   /* tokens */
    int    n_embd;                                    /* width of the stream */
    int    n_state;                                   /* A_ASSIST: width of the other model's stream */
    int    n_layer;                                   /* layers that a step runs */
    int    n_enc;                                     /* of these, the first, an encoder's: they run for a text once, the others
                                                       * for its answer; 0: there is no such encoder */
    int    n_dec;                                     /* decoder layers after them */
    int    n_index;                                   /* Q_INDEX: heads of the indexer */
    int    hd_index;                                  /* values of one */
    int    n_top;                                     /* blocks of positions that a row attends to of more; 0: all */
    int    index_block;                               /* positions of a block, 1: each is chosen for itself */
    int    index_local;                               /* the last blocks, which are always among them */
    int    n_out_group;                               /* groups of heads whose outputs have a matrix each; 0: none */
    int    out_rank;                                  /* values that each of these gives */
    float  pool_base;                                 /* base of RoPE in layers with groups of positions */
    int    n_listed;                                  /* so many first layers choose experts by the token */
    int    hyper_turns;                               /* normalisations of the matrix that mixes them */
    float  hyper_eps;                                 /* what is added in these */
    int    n_bucket;                                  /* ranges of distances that have a bias of scores; 0: there are none */
    int    start;                                     /* token with which an answer begins after the text that the encoder reads;
                                                       * -1: the start token */
    int    n_ctx_train;                               /* positions that the model was trained for */
    int    n_ahead;                                   /* layers after the last, which predict further tokens */
    int    n_nextn;                                   /* of these, draft heads: their tensors are there, and used */
    int    n_dense;                                   /* the first layers, which have no experts */
    int    n_shexp;                                   /* shared experts, which are computed as one */
    int    n_group;                                   /* groups of experts that lie side by side; 0, 1: all are one */
    int    n_group_used;                              /* of these, groups that a row chooses experts from */
    int    n_loops;                                   /* so many times the layers of the file run; 0: once */
    bool   loop_skip;                                 /* the last norm does not stand between two of them */
    int    n_adjugate;                                /* experts that share a small one; 0: none do */
    float  adjugate_scale;                            /* factor on what that adds */
    float  router_cap;                                /* logits of experts become cap * tanh(logit / cap); 0: they stay */
    float  alpha;                                     /* the base of RoPE grows by alpha^(n / (n - 2)); 0: it stays */
    float  alibi;                                     /* slopes of ALiBi are 2^(-alibi i / heads); 0: there are none */
    float  clamp;                                     /* queries, keys and values are cut to [-clamp, clamp]; 0: they stay */
    bool   topk_norm;                                 /* weights of the chosen experts sum to 1 */
    float  expert_scale;                              /* factor on the weights of the chosen experts */
    arch_gate expert_gate;                            /* what makes the score of an expert */
    int    pooling;                                   /* arch_pooling */
    int    n_class;                                   /* values of a classifier */
    int    n_pooled;                                  /* width between the two matrices after pooling; 0: there are none */
    dev_act act;                                      /* of the feed-forward */
    int    moe_every;                                 /* of so many layers one has experts; 0: every layer may have them, of
                                                       * Llama 4 none has */
    bool   parallel;                                  /* attention and feed-forward read the stream side by side */
    bool   shifts;                                    /* Q_DIFFUSE: logits of a position are those of the token after it */
    bool   causal;                                    /* positions see those before them alone; else a text is computed whole */
    float  eps;                                       /* of norms */
    float  embd_scale;                                /* factor on embeddings; 0: 1 */
    float  residual_scale;                            /* factor on what a block adds; 0: 1 */
    float  logit_scale;                               /* factor on logits; 0: 1 */
    float  final_cap;                                 /* logits become cap * tanh(logit / cap); 0: they stay */
    float  value_scale;                               /* factor on the output of attention; 0: 1 */
    float  temper;                                    /* queries grow by temper * log(1 + whole temper_length before them) */
    int    temper_length;                             /* positions */
    int    temper_ahead;                              /* it grows so many positions before the end of each length */
    float  base_local;                                /* base of RoPE in layers with a window */
    int    hd_rot;                                    /* hd_k where no key says it; 0: n_embd / n_head */
    int    hd_k_local;                                /* hd_k in layers with a window; 0: as in the others */
    int    hd_v_local;                                /* hd_v there */
    int    n_rot_local;                               /* n_rot there */
    int    n_shared;                                  /* so many layers at the end read keys and values of earlier ones */
    int    n_embd_layer;                              /* width of the embeddings for each layer; 0: none */
    bool   roped;                                     /* RoPE is used where a state is in the architecture */
    int    rescale_every;                             /* after so many layers the stream is halved; 0: never */
    int    n_embd_exp;                                  /* width in which experts compute; 0: n_embd */
    int    n_stream;                                  /* streams (AltUp, Q_STREAMS); 0: one */
    int    stream_rank;                               /* Q_STREAMS: values between the two matrices of a gate */
    int    gram_layer;                                /* the layer to which n-grams add something; -1: there is no such layer */
    int    gram_row;                                  /* values of a row of their table */
    int    gram_taps;                                 /* taps of the convolution after them, grams.n positions apart */
    dev_grams grams;                                  /* how they find rows */
    int    active;                                    /* the one that blocks read */
    bool   halves;                                    /* RoPE is in pairs, rows of Q and K in halves: see [import] */
    uint32_t own_keys;                                /* rows of arch_peers that count, though llama.cpp does not read them */
    int    n_rope;                                    /* tables of RoPE */
    arch_rope_hp   rope[ARCH_ROPES];                  /* [n_rope] */
    arch_layer_hp *layer;                             /* [n_layer + n_nextn] */
} arch_hparams;

enum {
    ARCH_MAX_LAYERS = 512, ARCH_MAX_HEADS = 4096, ARCH_MAX_HEAD = 1024, ARCH_MAX_WIDTH = 1 << 20,
    ARCH_MAX_CTX = 1 << 28, ARCH_MAX_EXPERTS = DEV_EXPERTS, ARCH_MAX_SHARED = 64, ARCH_MAX_CLASSES = 512,
    ARCH_MAX_VOCAB = 1 << 24, ARCH_MAX_BUCKETS = 128, ARCH_MAX_CHOSEN = 1 << 20,
    ARCH_MAX_TAPS = DEV_TAPS,
    ARCH_MAX_STREAMS = DEV_STREAMS, ARCH_MAX_POOL = 1024, ARCH_MAX_TURNS = 1000
};

/* Frees what arch_load() made, also where that failed. */
static void arch_drop(arch_hparams *hp) {
    mem_free(hp->layer);
    *hp = (arch_hparams){0};
}

enum { ARCH_KEY = 160 };                              /* bytes of a key with its NUL */

/* The key of the file: ARCH.name, or the name alone if it begins with "general.", "xielu." or "diffusion.". */
static void arch__key(const arch_hparams *hp, const char *name, char key[ARCH_KEY]) {
    const bool whole = !strncmp(name, "general.", 8) || !strncmp(name, "xielu.", 6) || !strncmp(name, "diffusion.", 10);
    snprintf(key, ARCH_KEY, whole ? "%.0s%s" : "%s.%s", hp->desc ? hp->desc->name : "", name);
}

/* Sets the error of a key. Returns false. */
__attribute__((format(printf, 5, 6)))
static bool arch__bad(const arch_hparams *hp, const gguf_file *g, const char *name, err_t *e, const char *fmt, ...) {
    char    key[ARCH_KEY], text[400];
    va_list ap;
    arch__key(hp, name, key);
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const gguf_kv *kv = gguf_find(g, key);
    if (kv) return gguf_bad(g, kv->part, kv->at, e, "%s: %s", key, text);
    return err_set(e, EXIT_INPUT, "%s: %s: %s", g->path, key, text);
}

/* Whether a file of this architecture is of row d. */
static bool arch__is_row(const arch_desc *d, const gguf_file *g) {
    char     key[160];
    uint64_t n = 0;
    if (d->tensor && !gguf_tensor_find(g, d->tensor)) return false;
    snprintf(key, sizeof key, "%s.%s", d->name, d->key ? d->key : "block_count");
    if (d->key && !gguf_find(g, key)) return false;
    return !d->layers || (gguf_get_u64(g, key, 0, ARCH_MAX_LAYERS, &n, &(err_t){0}) == 1 && n == (uint64_t)d->layers);
}

static bool arch__find(arch_hparams *hp, const gguf_file *g, err_t *e) {
    bytes name = {0};
    int   got = gguf_get_str(g, "general.architecture", &name, e);
    if (got < 0) return false;
    if (got == 0) return err_set(e, EXIT_INPUT, "%s: key general.architecture is missing", g->path);
    for (int i = 0; i < ARCH_COUNT; i++) {
        const arch_desc *d = &arch_table[i];
        if (bytes_is(name, d->name) && arch__is_row(d, g)) hp->desc = d;
    }
    if (hp->desc) return true;
    return arch__bad(hp, g, "general.architecture", e, "found \"%.*s\"%s, expected an architecture of llmrun --list archs",
                     (int)min_size(name.n, 60), (const char *)name.p, name.n > 60 ? "..." : "");
}

/* --- hyper-parameters: a row for each key --- */

typedef enum { OF_MODEL, OF_ROPE, OF_LAYER } arch_owner;
typedef enum {
    H_INT, H_FLT, H_BOOL,
    H_WORD,                                           /* name of a scaling */
    H_ACT,                                            /* name of an activation */
    H_COUNT,                                          /* length of a list */
    H_PATTERN,                                        /* which layers */
    H_SECTIONS,                                       /* of RoPE: no field */
    H_ONLY                                            /* no field, and the value must be lo or hi */
} arch_type;

enum {                                                /* flags of a key */
    H_NEED = 1,                                       /* required */
    H_ZERO = 2,                                       /* 0 in an array: the layer has none */
    H_ALSO = 4,                                       /* a second name for the field of an earlier row, without a default */
    H_EACH = 8,                                       /* always an array */
    H_LEAST = 16,                                     /* -infinity in an array: the layer has none */
    H_FLAT = 32,                                      /* of a pattern: one value is that of every layer, not a period */
    H_UNSET = 64,                                     /* 0 stands for 1 */
    H_MORE = 128,                                     /* an array may go on with values of draft heads that the file lacks */
};

typedef struct {                                      /* what a default may be computed from */
    const arch_hparams  *hp;                          /* the fields of earlier rows */
    const arch_layer_hp *l;                           /* the layer; NULL before the first key of layers */
} arch_at;

typedef struct {
    const char *name;                                 /* follows the architecture's name and a dot */
    arch_owner  of;                                   /* struct with the field; OF_LAYER: the key may be an array */
    size_t      at;                                   /* its offset there */
    arch_type   type;                                 /* of the value */
    unsigned    flags;                                /* H_NEED and its neighbours */
    double      lo;                                   /* the least value */
    double      hi;                                   /* the greatest */
    double      preset;                               /* if the key is absent */
    double    (*from)(arch_at a);                     /* computes it from fields of earlier rows; NULL: preset */
    uint64_t    traits;                               /* only architectures with one of these; 0: all */
    uint64_t    quirks;                               /* or with one of these */
    unsigned    states;                               /* or with one of these states, a mask of 1 << MIX_ */
} arch_key;

/* Whether a row with these traits and quirks is for the architecture. */
static bool arch__is_for(const arch_desc *d, uint64_t traits, uint64_t quirks) {
    return (!traits && !quirks) || d->traits & traits || d->quirks & quirks;
}

static double arch__n_head(arch_at a) { return a.l->n_head; }
static double arch__hd_k(arch_at a) {
    if (a.hp->hd_rot) return a.hp->hd_rot;
    return !a.l->n_head || a.hp->n_embd % a.l->n_head ? 0 : a.hp->n_embd / a.l->n_head;
}

static double arch__same_hd(arch_at a) { return a.l->hd_k; }
static double arch__hd_v(arch_at a) {                 /* files of MiniCPM 3 do not say it */
    return a.l->rank && a.l->n_head && a.hp->n_embd % a.l->n_head == 0 ? a.hp->n_embd / a.l->n_head : a.l->hd_k;
}
static double arch__n_ctx(arch_at a) { return a.hp->n_ctx_train; }
static double arch__orig_ctx(arch_at a) { return a.hp->rope[0].n_ctx_orig; }
static double arch__n_ff(arch_at a) { return a.l->n_ff; }
static double arch__topk_norm(arch_at a) { return (a.hp->desc->traits & A_TOPK_NORM) != 0; }
static double arch__gate(arch_at a) { return a.hp->desc->traits & A_SIGMOID ? GATE_SIGMOID : GATE_SOFTMAX; }
static double arch__window(arch_at a) { return a.hp->desc->window; }
static double arch__cap(arch_at a) { return (double)a.hp->desc->cap; }
static double arch__final_cap(arch_at a) { return (double)a.hp->desc->final_cap; }
static double arch__causal(arch_at a) { return !(a.hp->desc->traits & A_ENCODER); }
static double arch__pooling(arch_at a) {
    return a.hp->causal && !(a.hp->desc->quirks & Q_PAIRS) ? POOLING_LAST : POOLING_MEAN;
}
static double arch__n_dec(arch_at a) { return a.hp->n_layer; }
static double arch__act(arch_at a) { return a.hp->desc->act; }

static double arch__base(arch_at a) {
    return (double)(a.hp->desc->base_local != 0 ? a.hp->desc->base_local : a.hp->rope[0].base);
}

static double arch__embd_scale(arch_at a) {
    if (a.hp->desc->quirks & Q_GROK) return 78.38367176906169;
    return a.hp->desc->traits & A_ROOT_EMBD ? (double)sqrtf((float)a.hp->n_embd) : a.hp->desc->traits & A_MUP ? 12 : 0;
}

static double arch__residual_scale(arch_at a) { return a.hp->desc->traits & A_MUP ? 1.4 / sqrt(a.hp->n_layer) : 0; }
static double arch__n_shexp(arch_at a) { return (a.hp->desc->quirks & Q_CHUNKED) != 0; }
static double arch__logit_scale(arch_at a) {
    return a.hp->desc->traits & A_MUP ? a.hp->n_embd / 256.0 : a.hp->desc->quirks & Q_GROK ? 0.5773502691896257 : 0;
}
static double arch__adjugate_ff(arch_at a) { return a.l->hd_k; }
static double arch__n_ff_shexp(arch_at a) { return (double)a.hp->n_shexp * a.l->n_ff_exp; }

static double arch__attn_scale(arch_at a) {
    const arch_desc *d = a.hp->desc;
    const int        hd = d->wide_scale == a.hp->n_layer ? a.hp->n_embd / a.l->n_head : a.l->hd_k;
    if (a.l->hd_q) return (double)(1.0f / sqrtf((float)a.l->hd_q));
    if (d->traits & A_SQUARE_SCALE) return (double)(1.0f / (float)hd);
    return d->attn_scale != 0 ? (double)d->attn_scale : (double)(1.0f / sqrtf((float)hd));
}

static double arch__n_ff_exp(arch_at a) {
    return (a.hp->desc->traits & A_MOE) && a.l->n_expert_used && !a.hp->desc->aside ? a.l->n_ff / a.l->n_expert_used : a.l->n_ff;
}

/* Whether layer il has the window where the last of every `period` layers, or the first, sees all positions. */
static bool arch__in_pattern(const arch_hparams *hp, int il, int period) {
    if (!period) return true;
    return hp->desc->window_first ? il % period != 0 : il % period != period - 1;
}

enum { ARCH_DELTA_PERIOD = 4 };                       /* of so many layers the last has attention, where nothing else is said */

static double arch__windowed(arch_at a) { return arch__in_pattern(a.hp, (int)(a.l - a.hp->layer), a.hp->desc->window_every); }
static double arch__recurs(arch_at a) { return arch__in_pattern(a.hp, (int)(a.l - a.hp->layer), ARCH_DELTA_PERIOD); }

enum { ARCH_INDEX_CTX = 1 << 20, ARCH_INDEX_FIRST = 2 };

/* Whether a layer has an indexer of its own, where no key says it: in files of GLM 5.2, whose context is long, the first ones and
 * one of so many after them. */
static double arch__indexed(arch_at a) {
    const int il = (int)(a.l - a.hp->layer), every = a.hp->n_ctx_train < ARCH_INDEX_CTX ? 0 : a.hp->desc->index_every;
    return !every || il < ARCH_INDEX_FIRST || (il - ARCH_INDEX_FIRST) % every == 0;
}

#define MODEL(f) .of = OF_MODEL, .at = offsetof(arch_hparams, f)
#define ROPE(f)  .of = OF_ROPE, .at = offsetof(arch_rope_hp, f)
#define LAYER(f) .of = OF_LAYER, .at = offsetof(arch_layer_hp, f)
#define ONLY(a, b) .of = OF_MODEL, .at = 0, H_ONLY, 0, a, b
enum {
    ARCH_SSD = 1 << MIX_SSD | 1 << MIX_BOTH, ARCH_MAMBA = 1 << MIX_SCAN | 1 << MIX_SCAN_HEADS,
    ARCH_SSM = ARCH_SSD | ARCH_MAMBA, ARCH_WKV = 1 << MIX_WKV7 | 1 << MIX_WKV6, ARCH_STATES = ARCH_SSM | ARCH_WKV,
    ARCH_KDA = 1 << MIX_KDA
};

/* To add a hyper-parameter: a row after those that its default needs. Rows of one key are neighbours, of which the first
 * whose traits match reads it; rows of one key that stand apart each read it, into a field of their own. A key that changes the
 * text but that no step supports has a row too: a model that uses it is refused. */
static const arch_key arch_keys[] = {
    /* name                                 field                  type      flags   from, to             the rest by name */
    {"block_count",                         MODEL(n_layer),        H_INT,    H_NEED, 1, ARCH_MAX_LAYERS},
    {"nextn_predict_layers",                MODEL(n_ahead),        H_INT,    0,      0, ARCH_MAX_LAYERS,
     .traits = A_NEXTN, .quirks = Q_STREAMS | Q_POOLED},
    {"decoder_block_count",                 MODEL(n_dec),          H_INT,    0,      1, ARCH_MAX_LAYERS / 2,
     .from = arch__n_dec, .quirks = Q_PAIRS},
    {"decoder_start_token_id",              MODEL(start),          H_INT,    0,      0, ARCH_MAX_VOCAB - 1,
     .preset = -1, .quirks = Q_PAIRS},
    {"attention.relative_buckets_count",    MODEL(n_bucket),       H_INT,    H_NEED, 4, ARCH_MAX_BUCKETS, .quirks = Q_BUCKETS},
    {"attention.relative_buckets_count",    ONLY(0, 0)},
    {"attention.indexer.head_count",        MODEL(n_index),        H_INT,    H_NEED, 1, ARCH_MAX_HEADS,
     .quirks = Q_INDEX | Q_POOLED},
    {"attention.indexer.key_length",        MODEL(hd_index),       H_INT,    H_NEED, 2, ARCH_MAX_HEAD,
     .quirks = Q_INDEX | Q_POOLED},
    {"attention.indexer.top_k",             MODEL(n_top),          H_INT,    H_NEED, 1, ARCH_MAX_CHOSEN,
     .quirks = Q_INDEX | Q_POOLED},
    {"attention.indexer.top_k",             ONLY(0, 0)},
    {"attention.compress_ratios",           LAYER(ratio),          H_INT,    0,      0, ARCH_MAX_TAPS,    .quirks = Q_MEANS},
    {"attention.compress_ratios",           LAYER(ratio),          H_INT,    H_NEED | H_EACH | H_ZERO | H_MORE, 2, ARCH_MAX_POOL,
     .quirks = Q_POOLED},
    {"attention.indexer.block_size",        MODEL(index_block),    H_INT,    H_NEED, 1, ARCH_MAX_CHOSEN,  .quirks = Q_BLOCKS},
    {"attention.indexer.block_size",        ONLY(0, 1)},
    {"attention.indexer.local_blocks",      MODEL(index_local),    H_INT,    H_NEED, 0, ARCH_MAX_CHOSEN,  .quirks = Q_BLOCKS},
    {"attention.indexer.local_blocks",      ONLY(0, 0)},
    {"context_length",                      MODEL(n_ctx_train),    H_INT,    H_NEED, 1, ARCH_MAX_CTX},
    {"embedding_length",                    MODEL(n_embd),         H_INT,    H_NEED, 1, ARCH_MAX_WIDTH},
    {"embedding_length_out",                MODEL(n_state),        H_INT,    H_NEED, 1, ARCH_MAX_WIDTH,   .traits = A_ASSIST},
    {"attention.layer_norm_epsilon",        MODEL(eps),            H_FLT,    0,      1e-20, 1,            .quirks = Q_RMS_NAME},
    {"attention.layer_norm_epsilon",        MODEL(eps),            H_FLT,    H_NEED, 1e-20, 1,            .traits = A_LAYER_NORM},
    {"attention.layer_norm_rms_epsilon",    MODEL(eps),            H_FLT,    H_NEED, 1e-20, 1,            .quirks = Q_RMS_NAME},
    {"attention.layer_norm_rms_epsilon",    MODEL(eps),            H_FLT,    H_ALSO, 1e-20, 1,            .traits = A_LAYER_NORM},
    {"attention.layer_norm_rms_epsilon",    MODEL(eps),            H_FLT,    H_NEED, 1e-20, 1},
    {"attention.head_count",                LAYER(n_head),         H_INT,    H_NEED | H_ZERO, 1, ARCH_MAX_HEADS,
     .quirks = Q_NO_HEADS},
    {"attention.head_count",                LAYER(n_head),         H_INT,    0,      0, ARCH_MAX_HEADS,
     .states = ARCH_STATES},
    {"attention.head_count",                LAYER(n_head),         H_INT,    H_NEED, 1, ARCH_MAX_HEADS},
    {"attention.head_count_kv",             LAYER(n_head_kv),      H_INT,    0,      0, ARCH_MAX_HEADS,
     .from = arch__n_head, .states = ARCH_STATES | ARCH_KDA},
    {"attention.head_count_kv",             LAYER(n_head_kv),      H_INT,    H_ZERO, 1, ARCH_MAX_HEADS,
     .from = arch__n_head, .traits = A_SHORT_CONV, .quirks = Q_NO_HEADS},
    {"attention.head_count_kv",             LAYER(n_head_kv),      H_INT,    0,      1, ARCH_MAX_HEADS,   .from = arch__n_head},
    {"attention.indexer.types",             LAYER(indexed),        H_PATTERN, H_FLAT, 0, 1,
     .from = arch__indexed, .quirks = Q_INDEX},
    {"rope.dimension_count",                MODEL(hd_rot),         H_INT,    0,      2, ARCH_MAX_HEAD,
     .traits = A_HEAD_IS_ROT},                        /* the row below reads it too, as n_rot */
    {"attention.kv_lora_rank",              LAYER(rank),           H_INT,    H_NEED, 1, ARCH_MAX_HEAD,    .traits = A_LATENT},
    {"attention.q_lora_rank",               LAYER(q_rank),         H_INT,    H_NEED, 1, ARCH_MAX_WIDTH,   .quirks = Q_POOLED},
    {"attention.q_lora_rank",               LAYER(q_rank),         H_INT,    0,      0, ARCH_MAX_WIDTH,   .traits = A_LATENT},
    {"attention.compress_rope_freq_base",   MODEL(pool_base),      H_FLT,    H_NEED, 1, 1e12,             .quirks = Q_POOLED},
    {"attention.output_group_count",        MODEL(n_out_group),    H_INT,    H_NEED, 1, ARCH_MAX_HEADS,   .quirks = Q_POOLED},
    {"attention.output_lora_rank",          MODEL(out_rank),       H_INT,    H_NEED, 1, ARCH_MAX_WIDTH,   .quirks = Q_POOLED},
    {"hash_layer_count",                    MODEL(n_listed),       H_INT,    H_NEED, 0, ARCH_MAX_LAYERS,  .quirks = Q_POOLED},
    {"hyper_connection.sinkhorn_iterations", MODEL(hyper_turns),   H_INT,    H_NEED, 1, ARCH_MAX_TURNS,   .quirks = Q_POOLED},
    {"hyper_connection.epsilon",            MODEL(hyper_eps),      H_FLT,    H_NEED, 0, 1,                .quirks = Q_POOLED},
    {"attention.key_length_mla",            LAYER(hd_q),           H_INT,    0,      2, ARCH_MAX_HEAD,    .traits = A_LATENT},
    {"attention.value_length_mla",          LAYER(hd_o),           H_INT,    0,      1, ARCH_MAX_HEAD,    .traits = A_LATENT},
    {"attention.key_length",                LAYER(hd_k),           H_INT,    0,      2, ARCH_MAX_HEAD,    .from = arch__hd_k},
    {"attention.value_length",              LAYER(hd_v),           H_INT,    0,      1, ARCH_MAX_HEAD,    .from = arch__hd_v},
    {"attention.value_scale",               MODEL(value_scale),    H_FLT,    0,      0, 1e3},
    {"attention.scale",                     LAYER(attn_scale),     H_FLT,    0,      1e-6, 1e3, .from = arch__attn_scale},
    {"attention.output_scale",              LAYER(attn_scale),     H_FLT,    H_ALSO, 1e-6, 1e3,           .quirks = Q_GROK},
    {"attention.output_scale",              ONLY(0, 1)},
    {"attention.sliding_window",            LAYER(window),         H_INT,    H_NEED, 1, ARCH_MAX_CTX,     .quirks = Q_POOLED},
    {"attention.sliding_window",            LAYER(window),         H_INT,    0,      0, ARCH_MAX_CTX,     .from = arch__window},
    {"attention.sliding_window_pattern",    LAYER(windowed),       H_PATTERN, 0,     0, ARCH_MAX_LAYERS,  .from = arch__windowed},
    {"attention.key_length_swa",            MODEL(hd_k_local),     H_INT,    0,      2, ARCH_MAX_HEAD,    .traits = A_BY_LAYER},
    {"attention.value_length_swa",          MODEL(hd_v_local),     H_INT,    0,      1, ARCH_MAX_HEAD,    .traits = A_BY_LAYER},
    {"rope.dimension_count_swa",            MODEL(n_rot_local),    H_INT,    0,      2, ARCH_MAX_HEAD,
     .traits = A_BY_LAYER, .quirks = Q_LOCAL_ROT},
    {"attention.shared_kv_layers",          MODEL(n_shared),       H_INT,    0,      0, ARCH_MAX_LAYERS,  .traits = A_BY_LAYER},
    {"attention.shared_kv_layers",          ONLY(0, 0)},
    {"hyper_connection.count",              MODEL(n_stream),       H_INT,    H_NEED, 2, ARCH_MAX_STREAMS,
     .quirks = Q_STREAMS | Q_POOLED},
    {"hyper_connection.low_rank",           MODEL(stream_rank),    H_INT,    H_NEED, 1, ARCH_MAX_WIDTH,   .quirks = Q_STREAMS},
    {"ple.ngram_size",                      MODEL(grams.n),        H_INT,    0,      2, DEV_GRAM,         .quirks = Q_STREAMS},
    {"ple.heads_per_ngram",                 MODEL(grams.each),     H_INT,    0,      1, DEV_GRAM_HEADS,   .quirks = Q_STREAMS},
    {"ple.conv_kernel",                     MODEL(gram_taps),      H_INT,    0,      1, ARCH_MAX_TAPS,    .quirks = Q_STREAMS},
    {"ple.eos_token_id",                    MODEL(grams.stop),     H_INT,    0,      0, ARCH_MAX_VOCAB - 1,
     .preset = -1, .quirks = Q_STREAMS},
    {"embedding_length_per_layer_input",    MODEL(gram_row),       H_INT,    0,      1, ARCH_MAX_WIDTH,   .quirks = Q_STREAMS},
    {"embedding_length_per_layer_input",    MODEL(n_embd_layer),   H_INT,    0,      0, ARCH_MAX_WIDTH,   .traits = A_BY_LAYER},
    {"altup.num_inputs",                    MODEL(n_stream),       H_INT,    0,      2, ARCH_MAX_STREAMS,
     .preset = 4, .traits = A_ALTUP},
    {"altup.active_idx",                    MODEL(active),         H_INT,    0,      0, ARCH_MAX_STREAMS, .traits = A_ALTUP},
    {"activation_sparsity_scale",           LAYER(sparse),         H_FLT,    H_EACH | H_LEAST, -1e3, 1e3,
     .preset = -INFINITY, .traits = A_ALTUP},
    {"attn_logit_softcapping",              LAYER(cap),            H_FLT,    0,      0, 1e6,              .from = arch__cap},
    {"final_logit_softcapping",             MODEL(final_cap),      H_FLT,    0,      0, 1e6, .from = arch__final_cap},
    {"embedding_scale",                     MODEL(embd_scale),     H_FLT,    0,      0, 1e6, .from = arch__embd_scale},
    {"residual_scale",                      MODEL(residual_scale), H_FLT,    0,      0, 1e6, .from = arch__residual_scale},
    {"logit_scale",                         MODEL(logit_scale),    H_FLT,    0,      0, 1e6, .from = arch__logit_scale},
    {"rope.dimension_count",                LAYER(n_rot),          H_INT,    0,      0, ARCH_MAX_HEAD,
     .from = arch__same_hd, .traits = A_WHOLE},
    {"rope.dimension_count",                LAYER(n_rot),          H_INT,    H_ZERO, 2, ARCH_MAX_HEAD,    .from = arch__same_hd},
    {"rope.freq_base",                      ROPE(base),            H_FLT,    0,      1, 1e12,             .preset = 10000},
    {"rope.scaling.alpha",                  MODEL(alpha),          H_FLT,    0,      0, 1e6,              .quirks = Q_ALPHA},
    {"rope.freq_base_swa",                  MODEL(base_local),     H_FLT,    0,      1, 1e12,             .from = arch__base},
    {"rope.halves",                         MODEL(halves),         H_BOOL,   0,      0, 1},
    {"rope.dimension_sections",             .of = OF_MODEL, .at = 0, H_SECTIONS, 0,  0, ARCH_MAX_HEAD,    .traits = A_SECTIONS},
    {"rope.scaling.type",                   ROPE(scaling),         H_WORD,   0,      0, 0,                .preset = SCALE_LINEAR},
    {"rope.scale_linear",                   ROPE(factor),          H_FLT,    H_UNSET, 1e-3, 1e6,          .preset = 1},
    {"rope.scaling.factor",                 ROPE(factor),          H_FLT,    H_ALSO | H_UNSET, 1e-3, 1e6},
    {"rope.scaling.original_context_length", ROPE(n_ctx_orig),     H_INT,    0,      1, ARCH_MAX_CTX,     .from = arch__n_ctx},
    {"rope.scaling.attn_factor",            ROPE(yarn_attn),       H_FLT,    0,      1e-3, 1e3,           .preset = 1},
    {"rope.scaling.yarn_attn_factor",       ROPE(yarn_attn),       H_FLT,    H_ALSO, 1e-3, 1e3},
    {"rope.scaling.yarn_log_multiplier",    ROPE(yarn_log),        H_FLT,    0,      0, 1e3},
    {"rope.scaling.finetuned",              MODEL(roped),          H_BOOL,   0,      0, 1,                .preset = 1,
     .states = ARCH_SSM},
    {"rope.scaling.finetuned",              ONLY(0, 1), .traits = A_MUP},
    {"rope.scaling.finetuned",              ONLY(1, 1), .traits = A_MULTIPLIERS},
    {"attention.temperature_scale",         MODEL(temper),         H_FLT,    0,      0, 1e3,              .traits = A_TEMPER},
    {"attention.temperature_scale",         MODEL(temper),         H_FLT,    0,      0, 1e3, .preset = 0.1, .quirks = Q_CHUNKED},
    {"attention.temperature_scale",         ONLY(0, 0)},
    {"attention.temperature_length",        MODEL(temper_length),  H_INT,    0,      1, ARCH_MAX_CTX,
     .from = arch__orig_ctx, .traits = A_TEMPER},
    {"attention.temperature_length",        MODEL(temper_length),  H_INT,    0,      1, ARCH_MAX_CTX,
     .preset = 8192, .quirks = Q_CHUNKED},
    {"attention.temperature_length",        MODEL(temper_length),  H_INT,    0,      0, ARCH_MAX_CTX,     .quirks = Q_GROK},
    {"attention.temperature_length",        ONLY(0, 0)},
    {"rope.scaling.yarn_ext_factor",        ROPE(yarn_ext),        H_FLT,    0,      0, 1e3,              .preset = 1},
    {"rope.scaling.yarn_beta_fast",         ROPE(yarn_fast),       H_FLT,    0,      1e-3, 1e6,
     .preset = 8, .quirks = Q_GROK},
    {"rope.scaling.yarn_beta_fast",         ROPE(yarn_fast),       H_FLT,    0,      1e-3, 1e6,           .preset = 32},
    {"rope.scaling.yarn_beta_slow",         ROPE(yarn_slow),       H_FLT,    0,      1e-3, 1e6,           .preset = 1},
    {"feed_forward_length",                 LAYER(n_ff),           H_INT,    0,      0, ARCH_MAX_WIDTH,
     .states = ARCH_STATES},
    {"feed_forward_length",                 LAYER(n_ff),           H_INT,    0,      1, ARCH_MAX_WIDTH,   .traits = A_MOE},
    {"feed_forward_length",                 LAYER(n_ff),           H_INT,    H_NEED | H_ZERO, 1, ARCH_MAX_WIDTH},
    {"expert_count",                        LAYER(n_expert),       H_INT,    H_NEED, 1, ARCH_MAX_EXPERTS, .traits = A_MOE},
    {"expert_count",                        ONLY(0, 1), .quirks = Q_ALPHA},
    {"expert_count",                        ONLY(0, 0), .traits = A_DENSE},
    {"expert_count",                        LAYER(n_expert),       H_INT,    0,      0, ARCH_MAX_EXPERTS},
    {"expert_used_count",                   LAYER(n_expert_used),  H_INT,    0,      0, ARCH_MAX_EXPERTS},
    {"expert_feed_forward_length",          LAYER(n_ff_exp),       H_INT,    0,      0, ARCH_MAX_WIDTH,   .from = arch__n_ff_exp},
    {"expert_shared_feed_forward_length",   LAYER(n_ff_shexp),     H_INT,    0,      1, ARCH_MAX_WIDTH,
     .from = arch__n_ff, .traits = A_SHARED_EXPERT},
    {"swiglu_clamp_exp",                    LAYER(cut),            H_FLT,    H_ZERO, 1, 1e6,              .traits = A_CUT_GLU},
    {"swiglu_clamp_exp",                    ONLY(0, 0)},
    {"swiglu_clamp_shexp",                  LAYER(cut_always),     H_FLT,    H_ZERO, 1, 1e6,              .traits = A_CUT_GLU},
    {"swiglu_clamp_shexp",                  ONLY(0, 0)},
    {"expert_shared_count",                 MODEL(n_shexp),        H_INT,    0,      0, ARCH_MAX_SHARED,
     .from = arch__n_shexp, .traits = A_SHARED_PLAIN},
    {"expert_shared_feed_forward_length",   LAYER(n_ff_shexp),     H_INT,    0,      0, ARCH_MAX_WIDTH,
     .from = arch__n_ff_shexp, .traits = A_SHARED_PLAIN},
    {"expert_group_count",                  MODEL(n_group),        H_INT,    0,      0, ARCH_MAX_EXPERTS},
    {"expert_group_used_count",             MODEL(n_group_used),   H_INT,    0,      0, ARCH_MAX_EXPERTS},
    {"expert_gating_func",                  MODEL(expert_gate),    H_INT,    H_NEED, 4, 4,                   .quirks = Q_POOLED},
    {"expert_gating_func",                  MODEL(expert_gate),    H_INT,    0,      0, 3,                   .from = arch__gate},
    {"expert_weights_norm",                 MODEL(topk_norm),      H_BOOL,   0,      0, 1, .from = arch__topk_norm},
    {"expert_weights_scale",                MODEL(expert_scale),   H_FLT,    0,      0, 1e6,              .preset = 1},
    {"router_logit_softcapping",            MODEL(router_cap),     H_FLT,    0,      0, 1e6},
    {"experts_per_group",                   MODEL(n_adjugate),     H_INT,    H_NEED, 1, ARCH_MAX_EXPERTS, .quirks = Q_ADJUGATE},
    {"expert_chunk_feed_forward_length",    LAYER(n_ff_adj),       H_INT,    0,      1, ARCH_MAX_WIDTH,
     .from = arch__adjugate_ff, .quirks = Q_ADJUGATE},
    {"expert_group_scale",                  MODEL(adjugate_scale), H_FLT,    H_NEED, 0, 1e3,              .quirks = Q_ADJUGATE},
    {"num_loops",                           MODEL(n_loops),        H_INT,    0,      1, ARCH_MAX_LAYERS,
     .preset = 1, .quirks = Q_LOOPS},
    {"skip_loop_final_norm",                MODEL(loop_skip),      H_BOOL,   0,      0, 1,                .quirks = Q_LOOPS},
    {"xielu.alpha_n",                       LAYER(xielu_n),        H_FLT,    H_NEED, -1e3, 1e3,           .quirks = Q_XIELU},
    {"xielu.alpha_p",                       LAYER(xielu_p),        H_FLT,    H_NEED, -1e3, 1e3,           .quirks = Q_XIELU},
    {"xielu.beta",                          LAYER(xielu_beta),     H_FLT,    H_NEED, -1e3, 1e3,           .quirks = Q_XIELU},
    {"xielu.eps",                           LAYER(xielu_eps),      H_FLT,    H_NEED, -1, 1,               .quirks = Q_XIELU},
    {"leading_dense_block_count",           MODEL(n_dense),        H_INT,    0,      0, ARCH_MAX_LAYERS},
    {"full_attention_interval",             LAYER(recurrent),      H_PATTERN, 0,     1, ARCH_MAX_LAYERS,
     .from = arch__recurs, .traits = A_DELTA},
    {"full_attention_interval",             ONLY(0, 1)},
    {"attention.recurrent_layers",          LAYER(recurrent),      H_PATTERN, H_ALSO | H_FLAT, 0, 1,      .traits = A_DELTA},
    {"ssm.conv_kernel",                     LAYER(rec.taps),       H_INT,    H_NEED, 2, ARCH_MAX_TAPS,
     .traits = A_DELTA, .states = ARCH_KDA},
    {"kda.head_dim",                        LAYER(rec.d_k),        H_INT,    H_NEED, 1, ARCH_MAX_HEAD,    .states = ARCH_KDA},
    {"ssm.group_count",                     LAYER(rec.n_k),        H_INT,    H_NEED, 1, ARCH_MAX_HEADS,   .traits = A_DELTA},
    {"ssm.state_size",                      LAYER(rec.d_k),        H_INT,    H_NEED, 1, ARCH_MAX_HEAD,    .traits = A_DELTA},
    {"ssm.time_step_rank",                  LAYER(rec.n_v),        H_INT,    H_NEED, 1, ARCH_MAX_HEADS,   .traits = A_DELTA},
    {"ssm.inner_size",                      LAYER(rec.width),      H_INT,    H_NEED, 1, ARCH_MAX_WIDTH,   .traits = A_DELTA},
    {"ssm.conv_kernel",                     LAYER(conv[0].taps),   H_INT,    H_NEED, 2, ARCH_MAX_TAPS,    .states = ARCH_SSM},
    {"ssm.group_count",                     LAYER(rec.n_k),        H_INT,    H_NEED, 1, ARCH_MAX_HEADS,   .states = ARCH_SSD},
    {"ssm.group_count",                     ONLY(0, 0), .states = ARCH_MAMBA},
    {"ssm.state_size",                      LAYER(rec.d_k),        H_INT,    H_NEED, 1, ARCH_MAX_HEAD,    .states = ARCH_SSM},
    {"ssm.time_step_rank",                  LAYER(n_rank),         H_INT,    H_NEED, 1, ARCH_MAX_WIDTH,
     .states = 1 << MIX_SCAN},
    {"ssm.time_step_rank",                  LAYER(rec.n_v),        H_INT,    H_NEED, 1, ARCH_MAX_HEADS,   .states = ARCH_SSM},
    {"ssm.inner_size",                      LAYER(conv[0].width),  H_INT,    H_NEED, 1, ARCH_MAX_WIDTH,   .states = ARCH_SSM},
    {"ssm.dt_b_c_rms",                      LAYER(rec_normed),     H_BOOL,   0,      0, 1,
     .states = 1 << MIX_SCAN},
    {"wkv.head_size",                       LAYER(rec.d_k),        H_INT,    H_NEED, 1, ARCH_MAX_HEAD,    .states = ARCH_WKV},
    {"attention.decay_lora_rank",           LAYER(lora_rank[0]),   H_INT,    H_NEED, 1, ARCH_MAX_WIDTH,
     .states = 1 << MIX_WKV7},
    {"attention.iclr_lora_rank",            LAYER(lora_rank[1]),   H_INT,    H_NEED, 1, ARCH_MAX_WIDTH,
     .states = 1 << MIX_WKV7},
    {"attention.value_residual_mix_lora_rank", LAYER(lora_rank[2]), H_INT,      H_NEED, 1, ARCH_MAX_WIDTH,
     .states = 1 << MIX_WKV7},
    {"attention.gate_lora_rank",            LAYER(lora_rank[3]),   H_INT,    0,      0, ARCH_MAX_WIDTH,
     .states = 1 << MIX_WKV7},
    {"time_decay_extra_dim",                LAYER(lora_rank[0]),   H_INT,    H_NEED, 1, ARCH_MAX_WIDTH,
     .states = 1 << MIX_WKV6},
    {"time_mix_extra_dim",                  LAYER(lora_rank[4]),   H_INT,    H_NEED, 1, ARCH_MAX_WIDTH,
     .states = 1 << MIX_WKV6},
    {"rescale_every_n_layers",              MODEL(rescale_every),  H_INT,    0,      0, ARCH_MAX_LAYERS,  .states = ARCH_WKV},
    {"moe_latent_size",                     MODEL(n_embd_exp),       H_INT,    0,      0, ARCH_MAX_WIDTH,   .states = ARCH_SSD},
    {"moe_latent_size",                     ONLY(0, 0)},
    {"shortconv.l_cache",                   LAYER(rec.taps),       H_INT,    H_NEED, 2, ARCH_MAX_TAPS,    .traits = A_SHORT_CONV},
    {"hidden_activation",                   MODEL(act),            H_ACT,    0,      0, 0,                .from = arch__act},
    {"diffusion.shift_logits",              MODEL(shifts),         H_BOOL,   0,      0, 1,                .preset = 1,
     .quirks = Q_DIFFUSE},
    {"attention.causal",                    MODEL(causal),         H_BOOL,   0,      0, 1,                .from = arch__causal},
    {"pooling_type",                        MODEL(pooling),        H_INT,    0,      0, POOLINGS - 1,     .from = arch__pooling},
    {"classifier.output_labels",            MODEL(n_class),        H_COUNT,  0,      1, ARCH_MAX_CLASSES, .preset = 1},
    {"dense_2_feat_out",                    MODEL(n_pooled),       H_INT,    0,      1, ARCH_MAX_WIDTH},
    {"moe_every_n_layers",                  MODEL(moe_every),      H_INT,    H_NEED, 2, ARCH_MAX_LAYERS,
     .traits = A_SOME_EXPERTS},
    {"moe_every_n_layers",                  ONLY(0, 1)},
    {"attention.max_alibi_bias",            ONLY(8, 8), .traits = A_ALIBI},
    {"attention.max_alibi_bias",            MODEL(alibi),          H_FLT,    0,      0, 1e3,              .quirks = Q_MAY_ALIBI},
    {"attention.max_alibi_bias",            ONLY(0, 0)},
    /* not supported: only values that change nothing are accepted */
    {"attention.clamp_kqv",                 MODEL(clamp),          H_FLT,    0,      0, 1e6,              .traits = A_CLAMP},
    {"attention.clamp_kqv",                 ONLY(0, 0)},
    {"use_parallel_residual",               MODEL(parallel),       H_BOOL,   H_NEED, 0, 1, .quirks = Q_MAY_PARALLEL},
    {"use_parallel_residual",               ONLY(0, 1), .quirks = Q_HEAD_GAINS},     /* tensors of StableLM say it, not the key */
    {"use_parallel_residual",               ONLY(1, 1), .quirks = Q_ONE_NORM | Q_TWO_NORMS},
    {"use_parallel_residual",               ONLY(0, 0)},
    {"interleave_moe_layer_step",           MODEL(moe_every),      H_INT,    H_NEED, 0, ARCH_MAX_LAYERS,  .quirks = Q_CHUNKED},
    {"interleave_moe_layer_step",           ONLY(0, 1)},
};
enum { ARCH_KEYS = sizeof arch_keys / sizeof *arch_keys };

/* Keys that llama.cpp reads for these architectures alone. A model is what its file says, so they count for the others as well,
 * and one line on stderr names a key that changes the text there. */
static const struct { const char *key, *archs; } arch_peers[] = {
    {"attention.scale",                     "granite granitemoe minicpm refact deepseek arcee granitehybrid"},
    {"attention.sliding_window",
     "gemma2 gemma3 gpt-oss olmo2 modern-bert gemma-embedding lfm2 gemma4 gemma4-assistant gemma3n mellum mimo2 step35 exaone4 "
     "exaone-moe afmoe laguna smallthinker plamo3 muse-glimmer cohere2 cohere2moe llama4 deepseek4 "
     "deepseek2-ocr"},                                /* the last: A_WHOLE */
    {"attention.sliding_window_pattern",
     "gemma2 gemma3 gpt-oss olmo2 modern-bert gemma-embedding gemma4 gemma4-assistant gemma3n mellum mimo2 step35 exaone4 "
     "exaone-moe afmoe laguna smallthinker plamo3 muse-glimmer cohere2 cohere2moe llama4"},
    {"attention.value_scale",               "mimo2"},
    {"attn_logit_softcapping",              "gemma2 grok"},
    {"final_logit_softcapping",             "gemma2 gemma3 gemma4 grok muse-glimmer"},
    {"embedding_scale",                     "granite granitemoe granitehybrid minicpm grok"},
    {"residual_scale",                      "granite granitemoe granitehybrid minicpm"},
    {"logit_scale",
     "granite granitemoe granitehybrid minicpm grok talkie muse-glimmer command-r cohere2 cohere2moe"},
    {"rope.freq_base_swa",
     "gemma2 gemma3 gpt-oss olmo2 modern-bert gemma-embedding gemma4 gemma4-assistant gemma3n mellum mimo2 step35 afmoe laguna "
     "smallthinker plamo3 muse-glimmer llama4"},
    {"rope.scaling.yarn_attn_factor",       "grok"},
    {"rope.scaling.yarn_log_multiplier",    "mistral3 deepseek2 mistral4"},
    {"rope.scaling.yarn_ext_factor",        "grok"},
    {"rope.scaling.yarn_beta_fast",         "mistral3 grok"},
    {"rope.scaling.yarn_beta_slow",         "mistral3 grok"},
    {"attention.temperature_length",        "grok deepseek2 mistral4"},
    {"expert_gating_func",
     "lfm2moe glm4moe minimax-m2 dots1 hy_v3 step35 deepseek2-ocr exaone-moe afmoe laguna smallthinker deepseek2 "
     "mistral4 bailingmoe2 cohere2moe kimi-linear deepseek4"},
    {"expert_weights_norm",
     "glm4moe dots1 hy_v3 step35 deepseek2-ocr bailingmoe exaone-moe afmoe laguna deepseek2 mistral4 bailingmoe2 "
     "cohere2moe nemotron_h_moe deepseek4"},
    {"expert_weights_scale",
     "glm4moe dots1 hy_v3 step35 deepseek deepseek2-ocr bailingmoe exaone-moe afmoe laguna deepseek2 mistral4 bailingmoe2 "
     "cohere2moe nemotron_h_moe kimi-linear deepseek4"},
    {"hidden_activation",                   "modern-bert"},
    {"router_logit_softcapping",            ""},
    {"nextn_predict_layers",
     "qwen35 qwen35moe qwen3next glm4 glm4moe hy_v3 mimo2 step35 exaone4 exaone-moe deepseek2 bailingmoe2 cohere2moe "
     "qwen4exp deepseek4"},
};
enum { ARCH_PEERS = sizeof arch_peers / sizeof *arch_peers };

/* Whether a row of arch_keys is for the architecture. */
static bool arch__key_for(const arch_desc *desc, const arch_key *k) {
    if (desc->state && k->states >> desc->state & 1) return true;
    return (!k->states || k->traits || k->quirks) && arch__is_for(desc, k->traits, k->quirks);
}

/* Whether row i is the one that reads its key: of neighbours with its name the first that is for the architecture. */
static bool arch__reads(const arch_desc *desc, int i) {
    const arch_key *k = &arch_keys[i];
    if (!arch__key_for(desc, k)) return false;
    while (i-- && !strcmp(arch_keys[i].name, k->name))
        if (arch__key_for(desc, &arch_keys[i])) return false;
    return true;
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

static double arch__get(const void *field, arch_type type) {
    switch (type) {
    case H_INT: case H_COUNT: return *(const int *)field;
    case H_ACT: return *(const dev_act *)field;
    case H_FLT: return (double)*(const float *)field;
    case H_BOOL: case H_PATTERN: return *(const bool *)field;
    case H_WORD: return *(const arch_scaling *)field;
    case H_SECTIONS: case H_ONLY: break;
    }
    return 0;
}

/* Keeps that this key counts, if llama.cpp does not read it for the architecture. */
static void arch__counts(arch_hparams *hp, const char *name) {
    const bytes arch = bytes_of(hp->desc->name);
    for (size_t i = 0; i < ARCH_PEERS; i++)
        if (!strcmp(arch_peers[i].key, name) && !bytes_among(arch, arch_peers[i].archs)) hp->own_keys |= 1u << i;
}

/* The activation that files name so; -1: none. */
static int arch__act_of(bytes name) {
    static const struct { const char *name; dev_act act; } names[] = {
        {"gelu", ACT_GELU_ERF}, {"gelu_pytorch_tanh", ACT_GELU}, {"silu", ACT_SILU}, {"swish", ACT_SILU}, {"relu", ACT_RELU},
        {"relu2", ACT_RELU2}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (bytes_is(name, names[i].name)) return (int)names[i].act;
    return -1;
}

/* The number of a name: of a scaling, or of an activation. */
static int arch__word(const arch_hparams *hp, const gguf_file *g, const arch_key *k, const char *key, double *v, err_t *e) {
    bytes     word = {0};
    const int got = gguf_get_str(g, key, &word, e);
    if (got != 1) return got;
    const int i = k->type == H_ACT ? arch__act_of(word) : arch_scaling_of(word);
    if (i >= 0) return *v = i, 1;
    arch__bad(hp, g, k->name, e, "\"%.*s\", expected %s", (int)min_size(word.n, 40), (const char *)word.p,
              k->type == H_ACT ? "gelu, gelu_pytorch_tanh, silu, swish, relu or relu2" : "none, linear, yarn or longrope");
    return -1;
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
        if (k->flags & H_UNSET && gguf_get_f32(g, key, 0, 0, &f, &(err_t){0}) == 1) return *v = 1, 1;
        if ((got = gguf_get_f32(g, key, (float)k->lo, (float)k->hi, &f, e)) == 1) *v = (double)f;
        return got;
    case H_BOOL:
        if ((got = gguf_get_bool(g, key, &b, e)) == 1) *v = b;
        return got;
    case H_WORD: case H_ACT: return arch__word(hp, g, k, key, v, e);
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
        if (!gguf_arr_u64(kv, i, &u) || u > (uint64_t)k->hi)
            return arch__bad(hp, g, k->name, e, "value %llu, expected a number of pairs", GGUF_U(i));
        sum += u;
    }
    const bool four = kv->count == 4 && (!u || hp->desc->quirks & Q_ALPHA);
    const bool some = kv->type == GGUF_ARR && (kv->count == 3 || four);
    if (some && 2 * sum <= (uint64_t)hp->layer[0].n_rot) return true;
    return arch__bad(hp, g, k->name, e, "%llu sections of %llu pairs, expected 3 of at most %d together, and 0 after them",
                     GGUF_U(kv->count), GGUF_U(sum), hp->layer[0].n_rot / 2);
}

/* The layers of the file that are no draft heads, whose key has not been read yet. */
static int arch__trunk(const arch_hparams *hp, const gguf_file *g) {
    char     key[ARCH_KEY];
    uint64_t n = 0;
    arch__key(hp, "nextn_predict_layers", key);
    if (hp->desc->traits & A_NEXTN || hp->desc->quirks & (Q_STREAMS | Q_POOLED))
        gguf_get_u64(g, key, 0, (uint64_t)hp->n_layer - 1, &n, &(err_t){0});
    return hp->n_layer - (int)n;
}

enum { ARCH_MORE = 64 };                              /* most draft heads that a file may lack, of H_MORE */

/* Reads an array with a value for each layer, which may leave out draft heads: integers, or for a pattern bools, or floats. */
static bool arch__each(arch_hparams *hp, const gguf_file *g, const arch_key *k, const gguf_kv *kv, err_t *e) {
    const bool   floats = k->type == H_FLT;
    const double hi = k->type == H_PATTERN ? 1 : k->hi;
    const bool   more = k->flags & H_MORE && kv->count > (uint64_t)hp->n_layer && kv->count <= (uint64_t)hp->n_layer + ARCH_MORE;
    if (!more && kv->count != (uint64_t)hp->n_layer && kv->count != (uint64_t)arch__trunk(hp, g))
        return arch__bad(hp, g, k->name, e, "%llu values, expected one for each of %d layers", GGUF_U(kv->count), hp->n_layer);
    for (int il = (int)kv->count; il < hp->n_layer && hp->desc->local_turn && k->type == H_PATTERN; il++)
        arch__set(arch__field(hp, k, il), k->type, 0);
    for (int il = 0; il < min_int((int)kv->count, hp->n_layer); il++) {
        uint64_t     u = 0;
        float        f = 0;
        const bool   is = floats ? gguf_arr_f32(kv, (uint64_t)il, &f) : gguf_arr_u64(kv, (uint64_t)il, &u);
        const double v = floats ? (double)f : (double)u;
        const bool   none = (k->flags & H_ZERO && v == 0) || (k->flags & H_LEAST && v == -INFINITY);
        if (!is || (!none && !(v >= k->lo && v <= hi)))
            return arch__bad(hp, g, k->name, e, floats ? "value %d is out of range, expected a number from %g to %g"
                                                       : "value %d is out of range, expected an integer from %.0f to %.0f",
                             il, k->lo, hi);
        arch__set(arch__field(hp, k, il), k->type, v);
    }
    return true;
}

/* Reads the value of a key, or the values of its layers, where the file has it. */
static bool arch__take(arch_hparams *hp, const gguf_file *g, const arch_key *k, const char *key, int n, err_t *e) {
    const gguf_kv *kv = gguf_find(g, key);
    const bool     many = k->type == H_INT || k->type == H_PATTERN || k->type == H_FLT;
    double         v = 0;
    if (kv && kv->type == GGUF_ARR && k->of == OF_LAYER && many) return arch__each(hp, g, k, kv, e);
    if (kv && (k->flags & H_EACH)) return arch__bad(hp, g, k->name, e, "one value, expected one for each layer");
    const int got = arch__value(hp, g, k, key, &v, e);
    if (got == 0 && (k->flags & H_NEED)) return err_set(e, EXIT_INPUT, "%s: key %s is missing", g->path, key);
    const bool period = k->type == H_PATTERN && !(k->flags & H_FLAT);
    for (int i = 0; i < n && got == 1; i++)
        arch__set(arch__field(hp, k, i), k->type, period ? arch__in_pattern(hp, i, (int)v) : v);
    return got >= 0;
}

static bool arch__read(arch_hparams *hp, const gguf_file *g, const arch_key *k, err_t *e) {
    char   key[ARCH_KEY];
    double was[ARCH_MAX_LAYERS];
    bool   changed = false;
    arch__key(hp, k->name, key);
    if (k->type == H_ONLY) return arch__only(hp, g, k, key, e);
    if (k->type == H_SECTIONS) return arch__sections(hp, g, k, key, e);
    if (k->of == OF_LAYER && !hp->layer) hp->layer = mem_new((size_t)hp->n_layer, sizeof *hp->layer);
    const int n = k->of == OF_LAYER ? hp->n_layer : 1;
    for (int i = 0; i < n; i++) {
        void *field = arch__field(hp, k, i);
        if (!(k->flags & H_ALSO))
            arch__set(field, k->type, k->from ? k->from((arch_at){hp, hp->layer ? &hp->layer[i] : NULL}) : k->preset);
        was[i] = arch__get(field, k->type);
    }
    if (!arch__take(hp, g, k, key, n, e)) return false;
    for (int i = 0; i < n; i++) changed = changed || arch__get(arch__field(hp, k, i), k->type) != was[i];
    if (changed) arch__counts(hp, k->name);
    return true;
}

/* --- sizes of a layer that depend on each other --- */

/* Latent attention. In files of both forms hd_k and hd_v are then those of a position in the cache. */
static bool arch__latent_heads(const arch_hparams *hp, const gguf_file *g, const arch_layer_hp *l, err_t *e) {
    if (!l->n_head)
        return arch__bad(hp, g, "attention.head_count", e, "0 heads in layer %d, expected at least one", (int)(l - hp->layer));
    if (l->rank < 2 || l->rank % 2)
        return arch__bad(hp, g, "attention.kv_lora_rank", e, "%d, expected an even number from 2 on", l->rank);
    if (l->n_rot < 2 || l->n_rot % 2 || l->n_rot >= l->hd_q)
        return arch__bad(hp, g, "rope.dimension_count", e, "%d, expected an even number from 2 on, below %d values of a query",
                         l->n_rot, l->hd_q);
    if (l->hd_k > ARCH_MAX_HEAD)
        return arch__bad(hp, g, "attention.kv_lora_rank", e, "%d and %d rotated values, expected up to %d together", l->rank,
                         l->n_rot, ARCH_MAX_HEAD);
    return true;
}

static bool arch__heads(const arch_hparams *hp, const gguf_file *g, int il, err_t *e) {
    const arch_layer_hp *l = &hp->layer[il];
    if (l->mixer == MIX_LATENT) return arch__latent_heads(hp, g, l, e);
    if (l->mixer != MIX_ATTN && l->mixer != MIX_BOTH && l->mixer != MIX_CROSS) return true;
    const arch_layer_hp *one = &hp->layer[0];
    if (hp->desc->quirks & Q_BUCKETS && (l->n_head != one->n_head || l->n_head_kv != one->n_head_kv || l->hd_k != one->hd_k ||
                                         l->hd_v != one->hd_v))
        return arch__bad(hp, g, "attention.head_count", e, "layer %d has other heads than layer 0, expected the same in all", il);
    if (!l->n_head && l->n_head_kv)
        return arch__bad(hp, g, "attention.head_count_kv", e, "%d key heads in layer %d, which has no query heads, expected none",
                         l->n_head_kv, il);
    if (!l->n_head || !l->n_head_kv)
        return arch__bad(hp, g, l->n_head ? "attention.head_count_kv" : "attention.head_count", e,
                         "0 heads in layer %d, expected at least one", il);
    if (l->n_head % l->n_head_kv)
        return arch__bad(hp, g, "attention.head_count", e, "%d query heads in layer %d, expected a multiple of %d key heads",
                         l->n_head, il, l->n_head_kv);
    if (hp->desc->traits & A_QKV_BY_HEAD && (l->n_head != l->n_head_kv || l->hd_k != l->hd_v))
        return arch__bad(hp, g, "attention.head_count_kv", e, "%d key heads of %d values, expected %d as the queries have",
                         l->n_head_kv, l->hd_v, l->n_head);
    if (!l->hd_k)
        return arch__bad(hp, g, "embedding_length", e, "an embedding length of %d, expected a multiple of %d heads", hp->n_embd,
                         l->n_head);
    if (l->hd_k < 2 || l->hd_k > ARCH_MAX_HEAD || l->hd_k % 2)
        return arch__bad(hp, g, "attention.key_length", e, "heads of %d values, expected an even number up to %d", l->hd_k,
                         ARCH_MAX_HEAD);
    if (l->n_rot % 2 || l->n_rot > l->hd_k)
        return arch__bad(hp, g, "rope.dimension_count", e, "%d, expected an even number up to %d", l->n_rot, l->hd_k);
    return true;
}

/* Checks the groups of a layer's experts. */
static bool arch__groups(const arch_hparams *hp, const gguf_file *g, const arch_layer_hp *l, err_t *e) {
    const int n = hp->n_group, used = hp->n_group_used;
    if (l->n_expert % n)
        return arch__bad(hp, g, "expert_group_count", e, "%d groups, expected a number that divides %d experts", n, l->n_expert);
    if (used < 1 || used > n)
        return arch__bad(hp, g, "expert_group_used_count", e, "%d of %d groups, expected 1 to %d", used, n, n);
    if (l->n_expert / n * used < l->n_expert_used)
        return arch__bad(hp, g, "expert_group_used_count", e, "%d groups of %d experts, expected %d experts at least", used,
                         l->n_expert / n, l->n_expert_used);
    return true;
}

/* Whether the file has a dense feed-forward for a layer that has experts. */
static bool arch__has_dense(const arch_hparams *hp, const gguf_file *g, const arch_layer_hp *l) {
    char name[64];
    snprintf(name, sizeof name, "blk.%d.ffn_up.weight", (int)(l - hp->layer));
    return gguf_tensor_find(g, name) != NULL;
}

/* Checks the experts of a layer and sets its kind of feed-forward. */
static bool arch__experts(arch_hparams *hp, const gguf_file *g, arch_layer_hp *l, err_t *e) {
    if (l->n_expert_used > l->n_expert || (l->n_expert && !l->n_expert_used))
        return arch__bad(hp, g, "expert_used_count", e, "%d of %d experts, expected %d to %d", l->n_expert_used, l->n_expert,
                         l->n_expert > 0, l->n_expert);
    if (l->n_expert && hp->n_group > 1 && !arch__groups(hp, g, l, e)) return false;
    if (l->n_expert && !l->n_ff_exp)
        return arch__bad(hp, g, "expert_feed_forward_length", e, "no width for %d experts, expected one", l->n_expert);
    if (hp->desc->quirks & Q_MIXER && l->n_expert && (l->n_expert_used != 2 || l->n_expert < 2))
        return arch__bad(hp, g, "expert_used_count", e, "%d of %d experts, expected 2", l->n_expert_used, l->n_expert);
    if (hp->n_adjugate && l->n_expert % hp->n_adjugate)
        return arch__bad(hp, g, "experts_per_group", e, "%d of %d experts, expected a divisor", hp->n_adjugate, l->n_expert);
    l->ffn = l->n_expert ? FFN_EXPERTS : !l->n_ff ? FFN_NONE : hp->desc->channel_mix ? FFN_CHANNELS : FFN_DENSE;
    if (l->n_expert && l->n_ff && (hp->desc->traits & A_BESIDE)) l->ffn = FFN_BESIDE;
    if (l->n_expert && l->n_ff && hp->desc->quirks & Q_GROK && arch__has_dense(hp, g, l)) l->ffn = FFN_BOTH;
    if (l->n_expert && hp->desc->aside) l->ffn = FFN_ASIDE, l->n_ff = hp->n_embd;
    if (l->ffn == FFN_EXPERTS) l->n_ff = 0;
    else if (l->ffn < FFN_BESIDE) l->n_ff_exp = l->n_ff_shexp = l->n_ff_adj = 0;
    return l->ffn != FFN_NONE || !(hp->parallel || hp->n_stream) ||
           arch__bad(hp, g, "feed_forward_length", e, "none in layer %d, expected one in each layer", (int)(l - hp->layer));
}

/* The RoPE that a layer needs, from that of the file. */
static arch_rope_hp arch__rope_for(const arch_hparams *hp, arch_rope_hp of, const arch_layer_hp *l) {
    of.n_rot = l->n_rot;
    of.yarn_scores = l->mixer == MIX_POOLED || (l->mixer == MIX_LATENT && of.yarn_log != 0);
    if (l->mixer == MIX_POOLED) {
        of.local = !l->ratio;
        if (of.local) of.scaling = SCALE_NONE, of.factor = of.yarn_attn = 1;
        else of.base = hp->pool_base;
        return of;
    }
    if (!l->window) return of;
    of.local = (hp->desc->traits & A_LOCAL_ROPE) != 0;
    if (of.local) of.scaling = SCALE_NONE, of.factor = of.yarn_attn = 1;
    if (of.local || hp->base_local != of.base) of.base = hp->base_local;
    return of;
}

/* Finds the layer's RoPE table: that of an earlier layer with the same sizes, or a new one. `file`: parameters of the file. */
static bool arch__rope(arch_hparams *hp, const gguf_file *g, const arch_rope_hp *file, arch_layer_hp *l, err_t *e) {
    const arch_rope_hp want = arch__rope_for(hp, *file, l);
    if (!l->n_rot || l->still) return true;
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
        return arch__bad(hp, g, "ssm.state_size", e, "%lld channels of the convolution, expected up to %d", (long long)width,
                         ARCH_MAX_WIDTH);
    r->width = (int)width;
    r->n_gate[0] = r->n_gate[1] = r->n_v;
    return true;
}

/* The sizes of latent attention. Where a file says those of heads apart (key_length_mla), key_length and value_length are those
 * of what the cache keeps; older files have those of heads there. */
static bool arch__latent(const arch_hparams *hp, const gguf_file *g, arch_layer_hp *l, err_t *e) {
    const int key = l->rank + l->n_rot;
    l->mixer = MIX_LATENT;
    l->rec = (arch_rec){0};
    if (!l->hd_q != !l->hd_o)
        return arch__bad(hp, g, l->hd_q ? "attention.value_length_mla" : "attention.key_length_mla", e,
                         "no such key, expected one beside the other of the two");
    if (l->hd_q && l->hd_k != key)
        return arch__bad(hp, g, "attention.key_length", e,
                         "%d, expected %d with key_length_mla: kv_lora_rank and rope.dimension_count together", l->hd_k, key);
    /* Kimi Linear's files have the config's head_dim there, which nothing reads */
    if (l->hd_q && l->hd_v != l->rank && hp->desc->state != MIX_KDA)
        return arch__bad(hp, g, "attention.value_length", e, "%d, expected %d with value_length_mla: kv_lora_rank", l->hd_v,
                         l->rank);
    if (!l->hd_q) l->hd_q = l->hd_k, l->hd_o = l->hd_v;
    l->n_head_kv = 1;
    l->hd_k = key;
    l->hd_v = l->rank;
    return true;
}

/* The sizes of Mamba and Mamba-2, whose convolution is as wide as its values, as read from the file. */
static bool arch__ssm(const arch_hparams *hp, const gguf_file *g, arch_layer_hp *l, err_t *e) {
    arch_rec  *r = &l->rec;
    const bool ssd = l->mixer == MIX_SSD || l->mixer == MIX_BOTH;
    const int  inner = l->conv[0].width;
    if (!ssd) r->n_k = 1;
    if (l->mixer == MIX_SCAN) r->n_v = inner / (inner & -inner & 64 ? 64 : inner & -inner);
    if (r->n_v % r->n_k)
        return arch__bad(hp, g, "ssm.group_count", e, "%d, expected a number that divides %d heads (ssm.time_step_rank)", r->n_k,
                         r->n_v);
    if (inner % r->n_v)
        return arch__bad(hp, g, "ssm.inner_size", e, "%d values, expected a multiple of %d heads (ssm.time_step_rank)", inner,
                         r->n_v);
    r->d_v = inner / r->n_v;
    if (r->d_v > ARCH_MAX_HEAD)
        return arch__bad(hp, g, "ssm.inner_size", e, "heads of %d values, expected up to %d", r->d_v, ARCH_MAX_HEAD);
    const int64_t width = 2 * (int64_t)r->n_k * r->d_k + inner;
    if (width > ARCH_MAX_WIDTH)
        return arch__bad(hp, g, "ssm.state_size", e, "%lld channels of the convolution, expected up to %d", (long long)width,
                         ARCH_MAX_WIDTH);
    r->taps = 1;
    r->width = (int)width;
    r->n_gate[0] = l->mixer == MIX_SCAN ? inner : r->n_v;
    if (ssd) l->conv[0].width = r->width;
    if (l->mixer == MIX_SCAN_HEADS) l->n_rank = max_int(64, hp->n_embd / 16);
    return true;
}

/* The sizes of RWKV: heads of all channels; of keys and values there may be fewer. */
static bool arch__wkv(const arch_hparams *hp, const gguf_file *g, arch_layer_hp *l, err_t *e) {
    arch_rec *r = &l->rec;
    if (hp->n_embd % r->d_k)
        return arch__bad(hp, g, "wkv.head_size", e, "%d, expected a number that divides %d channels", r->d_k, hp->n_embd);
    r->d_v = r->d_k;
    r->n_v = hp->n_embd / r->d_k;
    r->n_k = l->n_head_kv && l->mixer == MIX_WKV6 ? l->n_head_kv : r->n_v;
    if (r->n_v % r->n_k)
        return arch__bad(hp, g, "attention.head_count_kv", e, "%d, expected a number that divides %d heads", r->n_k, r->n_v);
    const int64_t width = l->mixer == MIX_WKV7 ? 5 * (int64_t)hp->n_embd : 2 * ((int64_t)hp->n_embd + (int64_t)r->n_k * r->d_k);
    r->width = (int)width;
    r->taps = 1;
    l->conv[0] = l->conv[1] = (arch_rec){.taps = 2, .width = hp->n_embd};
    if (!hp->desc->channel_mix) l->conv[1].width = 0;
    return true;
}

/* The sizes of Kimi delta attention: queries, keys and values have as many heads, and each head as many values. */
static bool arch__kda(const arch_hparams *hp, const gguf_file *g, arch_layer_hp *l, err_t *e) {
    arch_rec     *r = &l->rec;
    const int64_t all = (int64_t)l->n_head * r->d_k;
    if (3 * all > ARCH_MAX_WIDTH)
        return arch__bad(hp, g, "kda.head_dim", e, "%lld channels of the convolution, expected up to %d", (long long)(3 * all),
                         ARCH_MAX_WIDTH);
    r->d_v = r->d_k;
    r->n_k = r->n_v = l->n_head;
    r->width = (int)(3 * all);
    r->n_gate[0] = (int)all;
    r->n_gate[1] = r->n_v;
    l->rank = l->hd_q = l->hd_o = 0;
    return true;
}

enum { ARCH_OVERLAP = 4 };                            /* groups of so many positions overlap the one before, and are chosen */

/* The sizes of attention to groups of positions. Keys are values: what the cache keeps of a position is one row, as in latent
 * attention. */
static bool arch__pooled(const arch_hparams *hp, const gguf_file *g, arch_layer_hp *l, err_t *e) {
    const int il = (int)(l - hp->layer);
    if (l->n_head_kv != 1)
        return arch__bad(hp, g, "attention.head_count_kv", e, "%d key heads in layer %d, expected 1", l->n_head_kv, il);
    if (l->hd_v != l->hd_k)
        return arch__bad(hp, g, "attention.value_length", e, "%d, expected %d: keys are values", l->hd_v, l->hd_k);
    if (l->hd_k < 2 || l->hd_k % 2)
        return arch__bad(hp, g, "attention.key_length", e, "heads of %d values, expected an even number up to %d", l->hd_k,
                         ARCH_MAX_HEAD);
    if (l->n_rot < 2 || l->n_rot % 2 || l->n_rot > l->hd_k)
        return arch__bad(hp, g, "rope.dimension_count", e, "%d, expected an even number from 2 to %d", l->n_rot, l->hd_k);
    if (l->n_head % hp->n_out_group)
        return arch__bad(hp, g, "attention.output_group_count", e, "%d groups, expected a number that divides %d heads",
                         hp->n_out_group, l->n_head);
    if ((int64_t)hp->n_out_group * hp->out_rank > ARCH_MAX_WIDTH)
        return arch__bad(hp, g, "attention.output_lora_rank", e, "%d groups of %d values, expected up to %d together",
                         hp->n_out_group, hp->out_rank, ARCH_MAX_WIDTH);
    if ((int64_t)hp->n_stream * hp->n_embd > ARCH_MAX_WIDTH)
        return arch__bad(hp, g, "hyper_connection.count", e, "%d streams of %d values, expected up to %d together", hp->n_stream,
                         hp->n_embd, ARCH_MAX_WIDTH);
    if (!hp->causal)
        return arch__bad(hp, g, "attention.causal", e, "false, expected true: groups are of earlier positions");
    if (hp->n_listed > hp->n_layer)
        return arch__bad(hp, g, "hash_layer_count", e, "%d, expected up to %d layers", hp->n_listed, hp->n_layer);
    l->rank = l->hd_k;
    l->rec = l->conv[0] = l->conv[1] = (arch_rec){0};
    l->indexed = l->ratio == ARCH_OVERLAP;
    l->pool_span = l->indexed ? 2 * l->ratio : l->ratio;
    l->listed = il < hp->n_listed;
    if (l->indexed && (hp->hd_index % 2 || hp->hd_index < l->n_rot))
        return arch__bad(hp, g, "attention.indexer.key_length", e, "%d, expected an even number from %d rotated values on",
                         hp->hd_index, l->n_rot);
    return true;
}

/* How a layer reads earlier positions. */
static arch_mixer arch__mixer_of(const arch_hparams *hp, const arch_layer_hp *l) {
    const arch_desc *desc = hp->desc;
    if (hp->n_enc && l - hp->layer >= hp->n_enc) return MIX_CROSS;
    if (desc->quirks & Q_ONE_BLOCK && l->n_ff) return MIX_NONE;
    if (desc->quirks & Q_POOLED) return MIX_POOLED;
    if (1u << desc->state & (unsigned)ARCH_WKV) return desc->state;
    if (desc->state) return desc->state == MIX_BOTH || !l->n_head_kv ? desc->state : MIX_ATTN;
    if (desc->quirks & Q_NO_HEADS && !l->n_head_kv) return l->n_head ? MIX_LINEAR : MIX_NONE;
    if (desc->traits & A_DELTA && l->recurrent) return MIX_DELTA;
    return desc->traits & A_SHORT_CONV && !l->n_head_kv ? MIX_CONV : MIX_ATTN;
}

/* The mixer of a layer. One without attention has no keys and values. */
static bool arch__mixer(const arch_hparams *hp, const gguf_file *g, arch_layer_hp *l, err_t *e) {
    if (hp->desc->traits & A_LATENT && !(hp->desc->state && !l->n_head_kv)) return arch__latent(hp, g, l, e);
    l->recurrent = l->recurrent && l < hp->layer + hp->n_layer;       /* a draft head has attention */
    l->mixer = arch__mixer_of(hp, l);
    l->gated = (hp->desc->traits & A_DELTA) && l->mixer == MIX_ATTN;
    if (1u << l->mixer & (unsigned)ARCH_WKV && !arch__wkv(hp, g, l, e)) return false;
    if (l->mixer == MIX_POOLED) return arch__pooled(hp, g, l, e);
    if (l->mixer != MIX_ATTN && l->mixer != MIX_BOTH && l->mixer != MIX_CROSS) l->n_head_kv = l->n_rot = l->window = 0;
    if (l->mixer == MIX_ATTN || l->mixer == MIX_CROSS || l->mixer == MIX_NONE) {
        l->rec = l->conv[0] = l->conv[1] = (arch_rec){0};
        return true;
    }
    if (l->mixer == MIX_DELTA) return arch__delta(hp, g, &l->rec, e);
    if (l->mixer == MIX_KDA) return arch__kda(hp, g, l, e);
    if (1u << l->mixer & (unsigned)ARCH_SSM) return arch__ssm(hp, g, l, e);
    if (l->mixer != MIX_CONV) return true;
    l->rec.width = hp->n_embd;
    return true;
}

/* Whether layer il has the tensor. */
static bool arch__has(const gguf_file *g, int il, const char *tensor) {
    char name[64];
    snprintf(name, sizeof name, "blk.%d.%s.weight", il, tensor);
    return gguf_tensor_find(g, name) != NULL;
}
enum { ARCH_PLAIN_EXPERTS = 128 };                    /* Llama 4 with so many (Maverick) has no norm of queries and keys */

/* What patterns of layers make of a layer. */
static void arch__pattern(const arch_hparams *hp, const gguf_file *g, int il) {
    const arch_desc *desc = hp->desc;
    arch_layer_hp   *l = &hp->layer[il];
    const bool       seen = desc->traits & A_DENSE_SEEN && !arch__has(g, il, "ffn_gate_inp");
    const bool       no_moe = desc->quirks & Q_DENSE_HEAD && il >= hp->n_layer;
    const bool       chunked = desc->quirks & Q_CHUNKED, open = chunked && !l->window, many = l->n_expert == ARCH_PLAIN_EXPERTS;
    if (il < hp->n_dense || seen || no_moe) l->n_expert = l->n_expert_used = 0;
    if (desc->quirks & Q_ALPHA) l->n_expert_used = 0;
    if (!(desc->traits & A_ALTUP)) l->sparse = -INFINITY;
    if (desc->traits & A_HALF_FF) l->n_ff /= 2;
    if (!l->windowed) l->window = 0;
    if (desc->traits & A_WHOLE) l->n_rot = l->hd_k, l->window = 0;
    if (l->window && hp->hd_k_local) l->hd_k = l->hd_v = l->n_rot = hp->hd_k_local;
    if (l->window && hp->hd_v_local) l->hd_v = hp->hd_v_local;
    if (l->window && hp->n_rot_local) l->n_rot = hp->n_rot_local;
    if (desc->full_rot && !l->window) l->n_rot /= desc->full_rot;
    const bool dense = hp->moe_every ? il % hp->moe_every != (chunked ? hp->moe_every - 1 : 1) : chunked;
    if (dense) l->n_expert = l->n_expert_used = 0;
    const bool plain = desc->plain_every && il % desc->plain_every == desc->plain_every - 1;
    const bool turns = desc->local_turn && (open || il < hp->n_dense || il >= hp->n_layer);
    const bool still = (desc->local_turn || desc->quirks & Q_STILL) && !l->windowed && !turns;
    const bool bare = desc->traits & (A_LEARNED | A_ALIBI) || desc->quirks & (Q_MAY_ALIBI | Q_BUCKETS);
    l->still = plain && desc->traits & A_LATENT;
    if (!l->still && (plain || still || bare || (desc->state && !hp->roped))) l->n_rot = 0;
    if (desc->quirks & Q_ONE_BLOCK && !l->n_ff) l->n_expert = l->n_expert_used = 0;
    l->view = !hp->causal ? VIEW_ALL : chunked && l->window ? VIEW_CHUNK : VIEW_PAST;
    if (hp->n_enc) l->view = il < hp->n_enc ? VIEW_SOURCE : VIEW_ANSWER;
    l->kv_over = il > 0 && il < hp->n_enc;
    l->unit = chunked && l->n_rot && !many;
    l->tempered = hp->temper != 0 && !(chunked && l->n_rot);
}

/* The last layers read the keys and values of the last one before them that has the same window. */
static bool arch__share(arch_hparams *hp, const gguf_file *g, int il, err_t *e) {
    arch_layer_hp *l = &hp->layer[il];
    int            from = hp->n_layer - hp->n_shared - 1;
    if (hp->desc->traits & A_ASSIST) {
        l->kv_back = 1;                               /* model_add_head() finds where they lie */
        return true;
    }
    if (il <= from || il >= hp->n_layer) return true;
    while (from >= 0 && hp->layer[from].window != l->window) from--;
    if (from < 0)
        return arch__bad(hp, g, "attention.shared_kv_layers", e,
                         "%d layers, and layer %d has none of its kind before them to read from", hp->n_shared, il);
    const arch_layer_hp *of = &hp->layer[from];
    if (of->n_head_kv != l->n_head_kv || of->hd_k != l->hd_k || of->hd_v != l->hd_v)
        return arch__bad(hp, g, "attention.shared_kv_layers", e,
                         "layer %d reads %d heads of %d values of layer %d, expected %d of %d", il, of->n_head_kv, of->hd_k, from,
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
    else got = gguf_get_u64(g, key, 1, ARCH_MAX_VOCAB, &n, e);
    if (!got) err_set(e, EXIT_INPUT, "%s: key %s is missing", g->path, key);
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
    if (hp->expert_gate == GATE_NONE && hp->desc->traits & A_SIGMOID) hp->expert_gate = GATE_SIGMOID;
    if (hp->desc->quirks & (Q_ONE_NORM | Q_TWO_NORMS)) hp->parallel = true;
    hp->temper_ahead = (hp->desc->quirks & Q_CHUNKED) != 0;
    if (hp->desc->traits & A_ALIBI) hp->alibi = 8;
    if (hp->alpha > 0 && hp->layer[0].hd_k > 2) {
        const double n = hp->layer[0].hd_k;
        ro->base = (float)((double)ro->base * pow((double)hp->alpha, n / (n - 2)));
    }
    if ((hp->desc->traits & A_MULTIPLIERS) && hp->logit_scale != 0) hp->logit_scale = 1 / hp->logit_scale;
    if (!hp->index_block) hp->index_block = 1;
}

/* The indexer of the layer: its own, or that of a layer before it, or none. A draft head has one where its tensors are there. */
static bool arch__index(arch_hparams *hp, const gguf_file *g, int il, err_t *e) {
    arch_layer_hp *l = &hp->layer[il];
    const bool     blocks = hp->desc->quirks & Q_BLOCKS, means = hp->desc->quirks & Q_MEANS, head = il >= hp->n_layer;
    if (hp->desc->quirks & Q_POOLED) return true;
    if (!hp->n_top) {
        l->indexed = false;
        return true;
    }
    if (blocks) l->indexed = il >= hp->n_dense;
    if (means) l->indexed = l->ratio && l->mixer == MIX_ATTN;
    if (head) l->indexed = arch__has(g, il, "indexer.attn_k");
    l->chooses = l->indexed || (!blocks && !means && !head);
    if (l->chooses && l->window)
        return arch__bad(hp, g, "attention.sliding_window", e, "%d in layer %d, expected none: the indexer chooses positions",
                         l->window, il);
    if (!l->indexed)
        return il || !l->chooses ||
               arch__bad(hp, g, "attention.indexer.types", e, "layer 0 has the choice of a layer before it, expected its own");
    if (!hp->causal)
        return arch__bad(hp, g, "attention.causal", e, "false, expected true: the indexer chooses earlier positions");
    if (hp->hd_index % 2 || hp->hd_index < l->n_rot)
        return arch__bad(hp, g, "attention.indexer.key_length", e, "%d, expected an even number from %d rotated values on",
                         hp->hd_index, l->n_rot);
    if (blocks && hp->n_index != l->n_head_kv)
        return arch__bad(hp, g, "attention.indexer.head_count", e, "%d, expected %d: one for each key head", hp->n_index,
                         l->n_head_kv);
    if (means) l->conv[0] = (arch_rec){.taps = hp->index_block, .width = hp->hd_index};
    if (l->rank && !l->q_rank)
        return arch__bad(hp, g, "attention.q_lora_rank", e, "0, expected at least 1: the indexer reads queries of that rank");
    return true;
}

/* Blocks whose keys have a mean are of one size. A row sees so many whole ones, and the positions after the last of them. */
static bool arch__means(arch_hparams *hp, const gguf_file *g, err_t *e) {
    int n = 0;
    for (int il = 0; il < hp->n_layer; il++) {
        if (n && hp->layer[il].ratio && hp->layer[il].ratio != n)
            return arch__bad(hp, g, "attention.compress_ratios", e, "%d in layer %d, expected %d as in the one before it, or 0",
                             hp->layer[il].ratio, il, n);
        if (hp->layer[il].ratio) n = hp->layer[il].ratio;
    }
    if (n && hp->n_top % n)
        return arch__bad(hp, g, "attention.indexer.top_k", e, "%d positions, expected a multiple of %d: whole blocks",
                         hp->n_top, n);
    hp->index_block = max_int(n, 1);
    hp->n_top = n ? hp->n_top / n + 1 : 0;
    return true;
}

/* The sizes of what indexers choose: a list of blocks, or one for each key head. */
static bool arch__choice(arch_hparams *hp, const gguf_file *g, err_t *e) {
    const int lists = hp->desc->quirks & Q_BLOCKS ? hp->n_index : 1;
    if (hp->desc->quirks & Q_MEANS && !arch__means(hp, g, e)) return false;
    if (hp->index_local > hp->n_top)
        return arch__bad(hp, g, "attention.indexer.local_blocks", e, "%d, expected at most %d: the blocks that are chosen",
                         hp->index_local, hp->n_top);
    return (int64_t)lists * hp->n_top <= ARCH_MAX_CHOSEN / hp->index_block ||
           arch__bad(hp, g, "attention.indexer.top_k", e, "%d lists of %d blocks of %d positions, expected at most %d in all",
                     lists, hp->n_top, hp->index_block, ARCH_MAX_CHOSEN);
}

/* A list of n numbers that the file has for n-grams. */
static bool arch__gram_list(const arch_hparams *hp, const gguf_file *g, const char *name, int n, uint64_t most, uint64_t *to,
                            err_t *e) {
    char           key[ARCH_KEY];
    const gguf_kv *kv = NULL;
    arch__key(hp, name, key);
    const int got = gguf_get_arr(g, key, &kv, e);
    if (got < 0) return false;
    if (!got) return err_set(e, EXIT_INPUT, "%s: key %s is missing", g->path, key);
    if (kv->count < (uint64_t)n)
        return arch__bad(hp, g, name, e, "%llu values, expected %d", GGUF_U(kv->count), n);
    for (int i = 0; i < n; i++)
        if (!gguf_arr_u64(kv, (uint64_t)i, &to[i]) || to[i] > most)
            return arch__bad(hp, g, name, e, "value %d is out of range, expected an integer up to %llu", i, GGUF_U(most));
    return true;
}

/* The layer of the n-grams, of which there is one at most, and its convolutions: of tokens, and of what it adds. */
static bool arch__gram_layer(arch_hparams *hp, const gguf_file *g, err_t *e) {
    const dev_grams *gr = &hp->grams;
    arch_layer_hp   *l = &hp->layer[hp->gram_layer];
    const int        reach = (hp->gram_taps - 1) * gr->n + 1;
    if (l->mixer != MIX_DELTA)
        return arch__bad(hp, g, "ple.layers", e, "layer %d, expected one without attention", hp->gram_layer);
    if (reach > ARCH_MAX_TAPS)
        return arch__bad(hp, g, "ple.conv_kernel", e, "%d taps %d positions apart, expected %d positions at most", hp->gram_taps,
                         gr->n, ARCH_MAX_TAPS);
    if ((int64_t)hp->n_stream * hp->n_embd > ARCH_MAX_WIDTH)
        return arch__bad(hp, g, "hyper_connection.count", e, "%d streams of %d values, expected %d values at most", hp->n_stream,
                         hp->n_embd, ARCH_MAX_WIDTH);
    l->conv[0] = (arch_rec){.taps = reach, .width = hp->n_stream * hp->n_embd};
    l->conv[1] = (arch_rec){.taps = gr->n, .width = 1};
    return true;
}

/* How n-grams find rows, and which layer they belong to. */
static bool arch__grams(arch_hparams *hp, const gguf_file *g, err_t *e) {
    static const struct { const char *name; size_t at; bool unset; } need[] = {
        {"ple.ngram_size", offsetof(arch_hparams, grams.n), false},
        {"ple.heads_per_ngram", offsetof(arch_hparams, grams.each), false},
        {"ple.conv_kernel", offsetof(arch_hparams, gram_taps), false},
        {"ple.eos_token_id", offsetof(arch_hparams, grams.stop), true},
        {"embedding_length_per_layer_input", offsetof(arch_hparams, gram_row), false}};
    char           key[ARCH_KEY];
    const gguf_kv *kv = NULL;
    uint64_t       layer = 0;
    dev_grams     *gr = &hp->grams;
    arch__key(hp, "ple.layers", key);
    const int got = hp->desc->quirks & Q_STREAMS ? gguf_get_arr(g, key, &kv, e) : 0;
    hp->gram_layer = -1;
    if (got < 0) return false;
    if (!got || !kv->count) return true;
    if (kv->count > 1) return arch__bad(hp, g, "ple.layers", e, "%llu layers, expected one", GGUF_U(kv->count));
    if (!gguf_arr_u64(kv, 0, &layer) || layer >= (uint64_t)hp->n_layer)
        return arch__bad(hp, g, "ple.layers", e, "layer %llu of %d, expected a smaller number", GGUF_U(layer), hp->n_layer);
    for (size_t i = 0; i < sizeof need / sizeof *need; i++) {
        arch__key(hp, need[i].name, key);
        if (*(const int *)(const void *)((const char *)hp + need[i].at) == (need[i].unset ? -1 : 0))
            return err_set(e, EXIT_INPUT, "%s: key %s is missing", g->path, key);
    }
    const int heads = (gr->n - 1) * gr->each;
    if (heads > DEV_GRAM_HEADS || (int64_t)heads * hp->gram_row > ARCH_MAX_WIDTH)
        return arch__bad(hp, g, "ple.heads_per_ngram", e,
                         "%d rows of %d values for a position, expected %d rows and %d values at most", heads, hp->gram_row,
                         DEV_GRAM_HEADS, ARCH_MAX_WIDTH);
    if (gr->stop >= hp->n_vocab)
        return arch__bad(hp, g, "ple.eos_token_id", e, "%d, expected a token below %d", gr->stop, hp->n_vocab);
    if (!arch__gram_list(hp, g, "ple.layer_multipliers", gr->n, UINT64_MAX, gr->factor, e) ||
        !arch__gram_list(hp, g, "ple.head_offsets", heads, INT32_MAX, gr->first, e) ||
        !arch__gram_list(hp, g, "ple.head_vocab_sizes", heads, INT32_MAX, gr->rows, e)) return false;
    for (int h = 0; h < heads; h++)
        if (!gr->rows[h] || gr->first[h] + gr->rows[h] > INT32_MAX)
            return arch__bad(hp, g, "ple.head_vocab_sizes", e,
                             "%llu rows from %llu on for head %d, expected at least 1, and %d at most in all",
                             GGUF_U(gr->rows[h]), GGUF_U(gr->first[h]), h, INT32_MAX);
    hp->gram_layer = (int)layer;
    return arch__gram_layer(hp, g, e);
}

/* Whether a text is computed in one step, since its positions see those after them. */
static bool arch_whole(const arch_hparams *hp) { return !hp->causal || hp->n_enc; }

/* The layers of a decoder follow those of its encoder. Positions of a text and of its answer are counted together. Where logits
 * are products of the embeddings, they have the factor that makes up for these being large (Raffel et al. 2020). */
static bool arch__decoder(arch_hparams *hp, const gguf_file *g, err_t *e) {
    const int n = hp->n_layer;
    if (hp->desc->quirks & (Q_DIFFUSE | Q_PAIRS) && hp->causal != !(hp->desc->traits & A_ENCODER))
        return arch__bad(hp, g, "attention.causal", e, "%s, expected the other or no such key", hp->causal ? "true" : "false");
    if (!(hp->desc->quirks & Q_PAIRS)) return true;
    if (n > ARCH_MAX_LAYERS - hp->n_dec)
        return arch__bad(hp, g, "decoder_block_count", e, "%d layers after %d of the encoder, expected at most %d in all",
                         hp->n_dec, n, ARCH_MAX_LAYERS);
    if (hp->start >= hp->n_vocab)
        return arch__bad(hp, g, "decoder_start_token_id", e, "%d, expected a token below %d", hp->start, hp->n_vocab);
    hp->n_enc = n;
    hp->n_layer += hp->n_dec;
    hp->layer = mem_grow(hp->layer, (size_t)hp->n_layer, sizeof *hp->layer);
    for (int i = n; i < hp->n_layer; i++) hp->layer[i] = hp->layer[i - n < n ? i - n : n - 1];
    hp->n_ctx_train = min_int(hp->n_ctx_train, ARCH_MAX_CTX / 2) * 2;
    if (hp->logit_scale == 0 && !gguf_tensor_find(g, "output.weight")) hp->logit_scale = 1 / sqrtf((float)hp->n_embd);
    return true;
}

/* Whether answers are decoded by diffusion. */
static bool arch_diffuses(const arch_hparams *hp) { return (hp->desc->quirks & Q_DIFFUSE) != 0; }

/* The number of layer il in the names of its tensors. */
static int arch_number(const arch_hparams *hp, int il) { return hp->n_enc && il >= hp->n_enc ? il - hp->n_enc : il; }

/* Whether layer il has the tensors of a draft head. */
static bool arch__nextn_at(const gguf_file *g, int il) { return arch__has(g, il, "nextn.eh_proj"); }

/* Layers with weights, draft heads among them: these are the last. */
static int arch_layers(const arch_hparams *hp) { return hp->n_layer + hp->n_nextn; }

/* Sets n_layer to the number of layers that a step runs, and n_nextn to the number of draft heads, which the file counts too. */
static bool arch__split(arch_hparams *hp, const gguf_file *g, err_t *e) {
    if (hp->n_ahead >= hp->n_layer)
        return arch__bad(hp, g, "nextn_predict_layers", e, "%d, expected fewer than %d layers", hp->n_ahead, hp->n_layer);
    if (!hp->n_ahead && arch__nextn_at(g, hp->n_layer - 1))
        return arch__bad(hp, g, "nextn_predict_layers", e, "%d, but layer %d of %d is a draft head (nextn), expected at least 1",
                         hp->n_ahead, hp->n_layer - 1, hp->n_layer);
    hp->n_layer -= hp->n_ahead;
    for (int i = 0; i < hp->n_ahead && hp->desc->traits & A_NEXTN; i++) hp->n_nextn += arch__nextn_at(g, hp->n_layer + i);
    return !hp->n_nextn || hp->n_nextn == hp->n_ahead ||
           arch__bad(hp, g, "nextn_predict_layers", e, "%d, and %d of the layers from %d on are draft heads (nextn), not all",
                     hp->n_ahead, hp->n_nextn, hp->n_layer);
}

/* The layers of the file that step layer il has the weights of: where layers run several times, il runs over all of them. */
static int arch_own(const arch_hparams *hp, int il) {
    return hp->n_loops > 1 && il >= 0 ? il % (hp->n_layer / hp->n_loops) : il;
}

/* Layers with weights of their own, draft heads among them. */
static int arch_own_layers(const arch_hparams *hp) {
    return hp->n_loops > 1 ? hp->n_layer / hp->n_loops : arch_layers(hp);
}

/* Layers that run several times become so many layers of a step, each with keys and values of its own. */
static bool arch__loop(arch_hparams *hp, const gguf_file *g, err_t *e) {
    const int n = hp->n_layer;
    if (hp->n_loops <= 1) return true;
    if (hp->n_loops > ARCH_MAX_LAYERS / n)
        return arch__bad(hp, g, "num_loops", e, "%d times %d layers, expected at most %d in all", hp->n_loops, n,
                         ARCH_MAX_LAYERS);
    hp->n_layer *= hp->n_loops;
    hp->layer = mem_grow(hp->layer, (size_t)hp->n_layer, sizeof *hp->layer);
    for (int i = n; i < hp->n_layer; i++) hp->layer[i] = hp->layer[i - n];
    return true;
}

/* Whether a layer reads earlier positions. */
static bool arch__reads_past(const arch_hparams *hp) {
    for (int il = 0; il < hp->n_layer; il++)
        if (hp->layer[il].mixer != MIX_NONE && hp->layer[il].mixer != MIX_LINEAR) return true;
    return false;
}

/* Reads and checks all hyper-parameters. On failure e is set. The caller calls arch_drop() in both cases. */
static bool arch_load(arch_hparams *hp, const gguf_file *g, err_t *e) {
    *hp = (arch_hparams){0};
    bool ok = arch__find(hp, g, e) && arch__vocab(hp, g, e);
    for (int i = 0; ok && i < ARCH_KEYS; i++) ok = !arch__reads(hp->desc, i) || arch__read(hp, g, &arch_keys[i], e);
    if (!ok || !arch__split(hp, g, e) || !arch__loop(hp, g, e) || !arch__decoder(hp, g, e)) return false;
    if (hp->n_stream && hp->active >= hp->n_stream)
        return arch__bad(hp, g, "altup.active_idx", e, "%d, expected a number below %d streams", hp->active, hp->n_stream);
    arch__defaults(hp);
    if (!arch__choice(hp, g, e)) return false;
    const arch_rope_hp file = hp->rope[0];
    for (int il = 0; ok && il < arch_layers(hp); il++) {
        arch_layer_hp *l = &hp->layer[il];
        arch__pattern(hp, g, il);
        ok = arch__mixer(hp, g, l, e) && arch__heads(hp, g, il, e) && arch__index(hp, g, il, e) &&
             arch__rope(hp, g, &file, l, e) && arch__experts(hp, g, l, e) && arch__share(hp, g, il, e);
    }
    if (ok && !arch__grams(hp, g, e)) return false;
    if (ok && !arch__reads_past(hp))
        return arch__bad(hp, g, hp->desc->quirks & Q_ONE_BLOCK ? "feed_forward_length" : "attention.head_count_kv", e,
                         "none of %d layers reads earlier positions, expected one at least", hp->n_layer);
    return ok;
}

/* Whether a file, which need not be sound, has a draft head. */
static bool arch_has_head(const gguf_file *g) {
    arch_hparams hp = {0};
    err_t        none = {0};
    const bool   ok = arch_load(&hp, g, &none) && hp.n_nextn > 0;
    arch_drop(&hp);
    return ok;
}

/* Whether it is a draft head of another architecture than the model that it belongs to. */
static bool arch_assists(const gguf_file *g) {
    arch_hparams hp = {0};
    return arch__find(&hp, g, &(err_t){0}) && hp.desc->traits & A_ASSIST;
}

/* Whether it has a draft head alone: one with the sizes of the model that it belongs to, or of another architecture. */
static bool arch_is_head(const gguf_file *g) {
    const bool trunk = gguf_tensor_find(g, "blk.0.attn_norm.weight") || gguf_tensor_find(g, "blk.0.attn_output.weight");
    return arch_assists(g) || (!trunk && arch_has_head(g));
}

/* --- tensors --- */

/* A size in the shape of a tensor; arch_dim() is its value in layer il (-1: of the whole model). */
typedef enum {
    D_1, D_EMBD, D_EMBD_PAIR, D_STATE, D_STATE_PAIR, D_VOCAB, D_CTX, D_Q, D_Q_PROJ, D_K, D_V, D_QKV, D_O, D_HEAD,
    D_HEAD_K, D_HEAD_KV, D_FF, D_GATE_UP, D_FF_EXP, D_GATE_UP_EXP, D_FF_SHEXP, D_FF_ADJ, D_EXPERT, D_EXP_EMBD, D_ADJUGATES, D_ROT,
    D_ROT_MOST, D_RANK, D_KEY, D_Q_RANK, D_Q_HEADS, D_Q_WHOLE, D_NOPE, D_HEAD_O, D_KV_B,
    D_CONV, D_CONV_TAPS, D_REC_KEY, D_REC_GROUP, D_REC_GROUPS, D_STEP_RANK, D_STEP,
    D_LERPS, D_FIVE, D_RANK_DECAY, D_RANK_RATE, D_RANK_VALUE, D_RANK_GATE, D_RANK_MIX, D_RANK_MIXES, D_REC_KEYS,
    D_REC, D_REC_ALL, D_REC_V, D_REC_HEAD, D_REC_HEADS, D_REC_GATES, D_REC_TAPS, D_CLASS, D_POOLED,
    D_BUCKETS, D_INDEX, D_INDEX_HEAD, D_INDEX_HEADS, D_LAYER, D_LAYERS, D_LAYER_EMBD, D_STREAM, D_STREAMS, D_STREAM_PAIRS,
    D_WIDE, D_STREAM_RANK, D_GRAM_ROWS, D_GRAM_ROW, D_GRAM_HEADS, D_GRAM_WIDE, D_GRAM_EMBD, D_GRAM_TAPS,
    D_OUT_GROUP, D_OUT_RANK, D_OUT_GROUPS, D_OUT_ALL, D_POOL, D_POOL_HEAD, D_POOL_ALL, D_POOL_INDEX, D_HYPER_MIX, D_THREE,
    D_LISTED,
    D_FILE                                            /* as the tensor has it */
} arch_size;

/* Factors of RoPE frequencies in the file: they are for the first table that all positions use. */
static int arch__factors(const arch_hparams *hp) {
    int t = 0;
    while (t < hp->n_rope - 1 && hp->rope[t].local) t++;
    return t < hp->n_rope ? hp->rope[t].n_rot / 2 : 0;
}

/* Pairs that the table with the most of them rotates. */
static int arch__pairs(const arch_hparams *hp) {
    int n = 0;
    for (int t = 0; t < hp->n_rope; t++) n = max_int(n, hp->rope[t].n_rot / 2);
    return n;
}

/* Rows of the table of n-grams that some head finds; 0: there is no table. */
static int64_t arch__gram_rows(const arch_hparams *hp) {
    int64_t n = 0;
    for (int h = 0; hp->gram_layer >= 0 && h < (hp->grams.n - 1) * hp->grams.each; h++)
        n = max_i64(n, (int64_t)(hp->grams.first[h] + hp->grams.rows[h]));
    return n;
}

/* The sizes of what n-grams have: of the model, or of their layer. */
static int64_t arch__gram_dim(const arch_hparams *hp, arch_size d, int il) {
    const bool here = il == hp->gram_layer;
    if (d == D_GRAM_ROWS) return arch__gram_rows(hp);
    if (d == D_GRAM_ROW || d == D_GRAM_TAPS) return d == D_GRAM_ROW ? hp->gram_row : hp->gram_taps;
    if (d == D_GRAM_HEADS) return here ? (int64_t)(hp->grams.n - 1) * hp->grams.each * hp->gram_row : 0;
    return !here ? 0 : d == D_GRAM_WIDE ? (int64_t)hp->n_stream * hp->n_embd : hp->n_embd;
}

/* The sizes of attention to groups of positions, of hyper-connections, of lists of experts; or of n-grams. */
static int64_t arch__pooled_dim(const arch_hparams *hp, arch_size d, int il) {
    const arch_layer_hp *l = &hp->layer[max_int(il, 0)];
    switch (d) {
    case D_OUT_GROUP: return hp->n_out_group ? (int64_t)l->n_head * l->hd_v / hp->n_out_group : 0;
    case D_OUT_RANK: return hp->out_rank;
    case D_OUT_GROUPS: return hp->n_out_group;
    case D_OUT_ALL: return (int64_t)hp->n_out_group * hp->out_rank;
    case D_POOL: return l->ratio;
    case D_POOL_HEAD: return l->ratio ? l->hd_k : 0;
    case D_POOL_ALL: return l->ratio ? (int64_t)l->hd_k * (l->pool_span / l->ratio) : 0;
    case D_POOL_INDEX: return l->indexed ? 2 * (int64_t)hp->hd_index : 0;
    case D_HYPER_MIX: return (2 + (int64_t)hp->n_stream) * hp->n_stream;
    case D_THREE: return 3;
    case D_LISTED: return l->listed ? l->n_expert_used : 0;
    default: return arch__gram_dim(hp, d, il);
    }
}

/* A size of the shapes in layer il, -1: of the model; 0: this model has nothing of that size. */
static int64_t arch_dim(const arch_hparams *hp, arch_size d, int il) {
    const arch_layer_hp *l = &hp->layer[max_int(il, 0)];
    switch (d) {
    case D_1: case D_FILE: return 1;
    case D_EMBD: return hp->n_embd;
    case D_EMBD_PAIR: return 2 * (int64_t)hp->n_embd;
    case D_STATE: return hp->n_state;
    case D_STATE_PAIR: return 2 * (int64_t)hp->n_state;
    case D_VOCAB: return hp->n_vocab;
    case D_CTX: return hp->n_ctx_train;
    case D_Q: return (int64_t)l->n_head * l->hd_k;
    case D_Q_PROJ: return (int64_t)l->n_head * l->hd_k * (l->gated ? 2 : 1);
    case D_K: return (int64_t)l->n_head_kv * l->hd_k;
    case D_V: return (int64_t)l->n_head_kv * l->hd_v;
    case D_QKV: return arch_dim(hp, D_Q_PROJ, il) + arch_dim(hp, D_K, il) + arch_dim(hp, D_V, il);
    case D_O: return (int64_t)l->n_head * (l->rank ? l->hd_o : l->hd_v);
    case D_HEAD: return l->n_head;
    case D_HEAD_K: return l->hd_k;
    case D_HEAD_KV: return l->n_head_kv;
    case D_FF: return l->n_ff;
    case D_GATE_UP: return 2 * (int64_t)l->n_ff;
    case D_FF_EXP: return l->n_ff_exp;
    case D_GATE_UP_EXP: return 2 * (int64_t)l->n_ff_exp;
    case D_FF_SHEXP: return l->n_ff_shexp;
    case D_FF_ADJ: return l->n_ff_adj;
    case D_EXPERT: return l->n_expert;
    case D_ADJUGATES: return hp->n_adjugate ? l->n_expert / hp->n_adjugate : 0;
    case D_ROT: return arch__factors(hp);
    case D_RANK: return l->rank;
    case D_KEY: return l->hd_k;
    case D_Q_RANK: return l->q_rank;
    case D_Q_HEADS: return (int64_t)l->n_head * l->hd_q;
    case D_Q_WHOLE: return l->q_rank ? 0 : arch_dim(hp, D_Q_HEADS, il);
    case D_NOPE: return l->hd_q - l->n_rot;
    case D_HEAD_O: return l->hd_o;
    case D_KV_B: return (int64_t)l->n_head * (l->hd_q - l->n_rot + l->hd_o);
    case D_ROT_MOST: return arch__factors(hp) ? arch__pairs(hp) : 0;
    case D_CONV: return l->conv[0].width;
    case D_CONV_TAPS: return l->conv[0].taps;
    case D_REC_KEY: return l->rec.d_k;
    case D_REC_GROUP: return l->rec.n_k ? arch_dim(hp, D_REC_V, il) / l->rec.n_k : 0;
    case D_REC_GROUPS: return l->rec.n_k;
    case D_STEP_RANK: return l->n_rank;
    case D_STEP: return l->n_rank + 2 * (int64_t)l->rec.d_k;
    case D_EXP_EMBD: return hp->n_embd_exp ? hp->n_embd_exp : hp->n_embd;
    case D_LERPS: return l->mixer == MIX_WKV7 && l->lora_rank[3] ? 6 : 5;
    case D_FIVE: return 5;
    case D_RANK_DECAY: return l->lora_rank[0];
    case D_RANK_RATE: return l->lora_rank[1];
    case D_RANK_VALUE: return l->lora_rank[2];
    case D_RANK_GATE: return l->lora_rank[3];
    case D_RANK_MIX: return l->lora_rank[4];
    case D_RANK_MIXES: return 5 * (int64_t)l->lora_rank[4];
    case D_REC_KEYS: return (int64_t)l->rec.n_k * l->rec.d_k;
    case D_REC: return l->rec.width;
    case D_REC_ALL:
        if (l->conv[0].width) return arch_dim(hp, D_REC_V, il) + l->conv[0].width + (l->n_rank ? 0 : l->rec.n_v);
        return l->rec.n_v ? l->rec.width + arch_dim(hp, D_REC_V, il) : 3 * (int64_t)l->rec.width;
    case D_REC_V: return l->rec.n_v ? (int64_t)l->rec.n_v * l->rec.d_v : l->rec.width;
    case D_REC_HEAD: return l->rec.d_v;
    case D_REC_HEADS: return l->rec.n_v;
    case D_REC_GATES: return 2 * (int64_t)l->rec.n_v;
    case D_REC_TAPS: return l->rec.taps;
    case D_BUCKETS: return hp->n_bucket;
    case D_INDEX: return (int64_t)hp->n_index * hp->hd_index;
    case D_INDEX_HEAD: return hp->hd_index;
    case D_INDEX_HEADS: return hp->n_index;
    case D_CLASS: return hp->n_class;
    case D_POOLED: return hp->n_pooled;
    case D_LAYER: return hp->n_embd_layer;
    case D_LAYERS: return (int64_t)hp->n_layer * hp->n_embd_layer;
    case D_LAYER_EMBD: return hp->n_embd_layer ? hp->n_embd : 0;
    case D_STREAM: return hp->n_stream;
    case D_STREAMS: return hp->n_stream ? hp->n_stream - 1 : 0;
    case D_STREAM_PAIRS: return (int64_t)hp->n_stream * hp->n_stream;
    case D_WIDE: return (int64_t)hp->n_stream * hp->n_embd;
    case D_STREAM_RANK: return hp->stream_rank;
    default: return arch__pooled_dim(hp, d, il);
    }
}

/* Tensors of a model: weights W_, among them the gains of norms, and biases B_. The bias of a norm follows its gain. */
typedef enum {
    W_TOK_EMBD, W_POS_EMBD, W_TYPES, W_EMBD_NORM, B_EMBD_NORM, W_CLS, B_CLS, W_CLS_NORM, W_CLS_OUT, B_CLS_OUT,
    W_DENSE_2, W_DENSE_3, W_OUTPUT_NORM, B_OUTPUT_NORM, W_OUTPUT, B_OUTPUT, W_ROPE_FREQS, W_ROPE_LONG, W_ROPE_SHORT,
    W_ATTN_NORM, B_ATTN_NORM, W_QKV_HEADS, W_QKV, B_QKV, W_Q, W_K, W_V, B_Q, B_K, B_V, W_Q_NORM, B_Q_NORM, W_K_NORM, B_K_NORM,
    W_Q_A, W_Q_A_NORM, B_Q_A_NORM, W_Q_B, W_KV_A, W_KV_A_NORM, B_KV_A_NORM, W_KV_B, W_K_B, W_V_B,
    W_SINKS, W_HEAD_GAIN, W_OUT_GATE, W_HEAD_GATE, W_ATTN_SUB_NORM, B_ATTN_SUB_NORM, W_O, B_O,
    W_ATTN_POST_NORM, B_ATTN_POST_NORM, W_ATTN_SUM_NORM, B_ATTN_SUM_NORM, W_ATTN_TWICE_NORM, B_ATTN_TWICE_NORM,
    W_FFN_SUM_NORM, B_FFN_SUM_NORM,
    W_FFN_NORM, B_FFN_NORM, W_FFN_POST_NORM, B_FFN_POST_NORM, W_FFN_SUB_NORM, B_FFN_SUB_NORM,
    W_SKIP_SCALE, W_GATE_UP, W_GATE, W_UP, W_DOWN, B_GATE, B_UP, B_DOWN,
    W_ROUTER, B_ROUTER, B_ROUTER_CHOICE, W_GATE_UP_EXPS, W_GATE_EXPS, W_UP_EXPS, W_DOWN_EXPS, B_GATE_EXPS, B_UP_EXPS, B_DOWN_EXPS,
    W_SHEXP_GATE, W_GATE_SHEXP, W_UP_SHEXP, W_DOWN_SHEXP, W_GATE_ADJ, W_UP_ADJ, W_DOWN_ADJ,
    W_REC_ALL, W_REC_IN, W_REC_Z, W_REC_GATES, W_REC_ALPHA, W_REC_BETA, W_REC_TAPS, W_TAPS_Q, W_TAPS_K, W_TAPS_V,
    W_REC_DECAY, B_REC_STEP,
    W_REC_NORM, B_REC_NORM, W_REC_OUT,
    W_SSM_IN, W_MAMBA_IN, B_CONV, W_SKIP, W_STEP_IN, W_STEP, W_STEP_NORM, B_STEP_NORM, W_KEY_NORM, B_KEY_NORM,
    W_QUERY_NORM, B_QUERY_NORM,
    W_EXPS_IN, W_EXPS_OUT,
    W_WKV_LERP, W_WKV_LERP_X, W_WKV_MIX_1, W_WKV_MIX_2, W_WKV_R, B_WKV_R, W_WKV_K, B_WKV_K, W_WKV_V, B_WKV_V, W_WKV_GATE,
    W_WKV_OUT, W_WKV_DECAY_1, W_WKV_DECAY_2, B_WKV_DECAY, W_WKV_RATE_1, W_WKV_RATE_2, B_WKV_RATE, W_WKV_VALUE_1,
    W_WKV_VALUE_2, B_WKV_VALUE, W_WKV_GATE_1, W_WKV_GATE_2, W_WKV_KEY, W_WKV_KEY_RATE, W_WKV_SHARE, W_WKV_FIRST, W_WKV_NORM,
    B_WKV_NORM, W_MIX_LERP_K, W_MIX_LERP_R, W_MIX_KEY, W_MIX_VALUE, W_MIX_R,
    W_BY_TOKEN, W_BY_STREAM, W_BY_NORM, B_BY_NORM, W_BY_GATE, W_BY_PROJ, W_BY_POST_NORM, B_BY_POST_NORM, W_LAYER_SCALE,
    W_ROUTER_NORM, B_ROUTER_NORM, W_EXPS_NORM, B_EXPS_NORM, W_EXPS_POST_NORM, B_EXPS_POST_NORM,
    W_DENSE_POST_NORM, B_DENSE_POST_NORM,
    W_STREAM_IN, W_STREAM_OUT, W_ALT_ROUTER, W_ALT_NORM, B_ALT_NORM, W_ALT_PREDICT, W_ALT_CORRECT, W_ALT_SCALE,
    W_LAUREL_IN, W_LAUREL_OUT, W_LAUREL_NORM, B_LAUREL_NORM,
    W_NEXTN_EMBD, W_NEXTN_TOKEN_NORM, B_NEXTN_TOKEN_NORM, W_NEXTN_STATE_NORM, B_NEXTN_STATE_NORM, W_NEXTN_PROJ,
    W_NEXTN_NORM, B_NEXTN_NORM, W_NEXTN_LATE_NORM, B_NEXTN_LATE_NORM, W_NEXTN_OUTPUT,
    W_ASSIST_IN, W_ASSIST_OUT,
    W_INDEX_Q, W_INDEX_K, W_INDEX_SHARE, W_INDEX_Q_NORM, B_INDEX_Q_NORM, W_INDEX_K_NORM, B_INDEX_K_NORM,
    W_HC_ATTN_NORM, W_HC_ATTN_DOWN, W_HC_ATTN_UP, W_HC_ATTN_INJECT, W_HC_FFN_NORM, W_HC_FFN_DOWN, W_HC_FFN_UP, W_HC_FFN_INJECT,
    W_HC_OUT_NORM, W_HC_OUT_DOWN, W_HC_OUT_UP,
    W_GRAMS, W_GRAM_KEY, W_GRAM_VALUE, W_GRAM_KEY_NORM, W_GRAM_QUERY_NORM, W_GRAM_CONV_NORM, W_GRAM_TAPS,
    W_OUT_A, W_POOL_KV, W_POOL_GATE, W_POOL_PLACE, W_POOL_NORM, W_POOL_INDEX_KV, W_POOL_INDEX_GATE, W_POOL_INDEX_PLACE,
    W_POOL_INDEX_NORM, W_HYPER_ATTN, B_HYPER_ATTN, W_HYPER_ATTN_SCALE, W_HYPER_FFN, B_HYPER_FFN, W_HYPER_FFN_SCALE,
    W_HYPER_HEAD, B_HYPER_HEAD, W_HYPER_HEAD_SCALE, W_LISTED,
    W_ENC_NORM, B_ENC_NORM, W_DISTANCE, W_CROSS_NORM, B_CROSS_NORM, W_CROSS_Q, W_CROSS_K, W_CROSS_V, W_CROSS_O,
    ARCH_SLOTS
} arch_slot_id;

enum {                                                /* flags of a slot */
    S_OPT = 1,                                        /* may be absent */
    S_VEC = 2,                                        /* vector of f32, not a matrix */
    S_OPT_VEC = S_OPT | S_VEC,
    S_LONG = 4,                                       /* the tensor may have more rows, which are not used */
    S_FIT = 8,                                        /* a tensor of another shape is that of another slot */
    S_FIRST = 16,                                     /* of the first layer alone */
    S_OWN = 32,                                       /* of layers with keys and values of their own; in others it has no use */
    S_CHOICE = 64,                                    /* of layers with an indexer; in others it has no use */
    S_CHOICE_VEC = S_CHOICE | S_VEC,
    S_FLAT = 128,                                     /* the file has the matrices of the stack as rows of one */
    S_NUMBERS = 256,                                  /* integers, those of experts */
    S_ANY_VEC = 512 | S_VEC,                          /* a vector of several rows, which may have a type of weights */
};

enum {                                                /* who has the tensor: the model, or each layer of these kinds */
    ON_MODEL = 1,
    ON_MIXER = 2, ON_ATTN = ON_MIXER << MIX_ATTN | ON_MIXER << MIX_BOTH, ON_DELTA = ON_MIXER << MIX_DELTA,
    ON_CONV = ON_MIXER << MIX_CONV, ON_LATENT = ON_MIXER << MIX_LATENT, ON_LINEAR = ON_MIXER << MIX_LINEAR,
    ON_NONE = ON_MIXER << MIX_NONE, ON_SSD = ON_MIXER << MIX_SSD | ON_MIXER << MIX_BOTH,
    ON_SCAN = ON_MIXER << MIX_SCAN, ON_HEADS = ON_MIXER << MIX_SCAN_HEADS, ON_MAMBA = ON_SCAN | ON_HEADS,
    ON_SSM = ON_SSD | ON_MAMBA,
    ON_CROSS = ON_MIXER << MIX_CROSS, ON_POOLED = ON_MIXER << MIX_POOLED,
    ON_WKV7 = ON_MIXER << MIX_WKV7, ON_WKV6 = ON_MIXER << MIX_WKV6, ON_WKV = ON_WKV7 | ON_WKV6,
    ON_KDA = ON_MIXER << MIX_KDA, ON_DELTAS = ON_DELTA | ON_KDA,
    ON_MIXERS = ON_ATTN | ON_DELTAS | ON_CONV | ON_LATENT | ON_LINEAR | ON_SSM | ON_WKV | ON_POOLED,
    ON_FFN = ON_MIXER << MIXERS, ON_DENSE = ON_FFN << FFN_DENSE, ON_EXPERTS = ON_FFN << FFN_EXPERTS,
    ON_CHANNELS = ON_FFN << FFN_CHANNELS, ON_BESIDE = ON_FFN << FFN_BESIDE, ON_ASIDE = ON_FFN << FFN_ASIDE,
    ON_FFNS = ON_DENSE | ON_EXPERTS | ON_CHANNELS,
    ON_NEXTN = 1 << 24,                               /* a draft head, beside its kinds */
};

typedef struct {
    arch_slot_id id;                                  /* where it goes */
    const char *name;                                 /* in the file; %d: layer; NULL: these architectures have no such tensor */
    arch_size   out;                                  /* rows */
    arch_size   in;                                   /* values in a row */
    unsigned    flags;                                /* S_OPT and its neighbours */
    unsigned    on;                                   /* ON_MODEL and its neighbours */
    arch_size   stack;                                /* matrices of that shape */
    uint64_t    traits;                               /* only architectures with one of these; 0: all */
    uint64_t    quirks;                               /* or with one of these */
} arch_slot;

/* To add a tensor: an id above and a row here. Rows of one tensor are neighbours; the first whose traits match describes it. The
 * step applies each norm and bias that a model has. A tensor with an empty side does not exist. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"  /* most rows have no quirks */
static const arch_slot arch_slots[] = {
    /* id              name in the file                    rows         values       flags      where       sets traits quirks */
    {W_TOK_EMBD,       "token_embd.weight",                D_VOCAB,     D_EMBD,      S_OPT,     ON_MODEL,   D_1, A_OUTPUT_EMBD},
    {W_TOK_EMBD,       "token_embd.weight",                D_VOCAB,     D_EMBD,      0,         ON_MODEL,   D_1, 0},
    {W_POS_EMBD,       "position_embd.weight",             D_CTX,       D_EMBD,      0,         ON_MODEL,   D_1, A_LEARNED},
    {W_POS_EMBD,       "position_embd.weight",             D_CTX,       D_EMBD,      S_OPT,     ON_MODEL,   D_1, 0, Q_MAY_ALIBI},
    {W_OUTPUT_NORM,    "token_embd_norm.weight",           D_1,         D_EMBD,      S_VEC,     ON_MODEL,   D_1, A_SHORT_CONV},
    {W_TYPES,          "token_types.weight",               D_1,         D_EMBD, S_OPT_VEC | S_LONG, ON_MODEL,   D_1, A_SUM_NORM},
    {W_EMBD_NORM,      "token_embd_norm.weight",           D_1,         D_EMBD,      S_VEC,     ON_MODEL,   D_1, A_EMBD_NORM},
    {B_EMBD_NORM,      "token_embd_norm.bias",             D_1,         D_EMBD,      S_OPT_VEC, ON_MODEL,   D_1, A_EMBD_NORM},
    {W_CLS,            "cls.weight",                       D_EMBD,      D_EMBD,      S_OPT,     ON_MODEL,   D_1, 0},
    {B_CLS,            "cls.bias",                         D_1,         D_EMBD,      S_OPT_VEC, ON_MODEL,   D_1, 0},
    {W_CLS_NORM,       "cls.norm.weight",                  D_1,         D_EMBD,      S_OPT_VEC, ON_MODEL,   D_1, 0},
    {W_CLS_OUT,        "cls.output.weight",                D_CLASS,     D_EMBD,      S_OPT,     ON_MODEL,   D_1, 0},
    {B_CLS_OUT,        "cls.output.bias",                  D_1,         D_CLASS,     S_OPT_VEC, ON_MODEL,   D_1, 0},
    {W_DENSE_2,        "dense_2.weight",                   D_POOLED,    D_EMBD,      0,         ON_MODEL,   D_1, 0},
    {W_DENSE_3,        "dense_3.weight",                   D_EMBD,      D_POOLED,    0,         ON_MODEL,   D_1, 0},
    {W_OUTPUT_NORM,    NULL,                               D_1,         D_1,         0,         ON_MODEL,   D_1, A_NO_GAIN},
    {W_OUTPUT_NORM,    "dec.output_norm.weight",           D_1,         D_EMBD,      S_VEC,     ON_MODEL,   D_1, 0, Q_PAIRS},
    {W_ENC_NORM,       "enc.output_norm.weight",           D_1,         D_EMBD,      S_VEC,     ON_MODEL,   D_1, 0, Q_PAIRS},
    {W_OUTPUT_NORM,    "enc.output_norm.weight",           D_1,         D_EMBD,      S_VEC,     ON_MODEL,   D_1, A_ENC_NAME},
    {W_OUTPUT_NORM,    NULL,                               D_1,         D_1,         0,         ON_MODEL,   D_1, 0, Q_STREAMS},
    {W_OUTPUT_NORM,    "output_norm.weight",               D_1,         D_EMBD,      S_VEC,     ON_MODEL,   D_1, 0},
    {B_OUTPUT_NORM,    "output_norm.bias",                 D_1,         D_EMBD,      S_OPT_VEC, ON_MODEL,   D_1, A_LAYER_NORM},
    {W_OUTPUT,         "output.weight",                    D_VOCAB,     D_EMBD,      S_OPT,     ON_MODEL,   D_1, 0},
    {B_OUTPUT,         "output.bias",                      D_1,         D_VOCAB,     S_OPT_VEC, ON_MODEL,   D_1, 0},
    {W_ROPE_FREQS,     "rope_freqs.weight",                D_1,         D_ROT_MOST,  S_OPT_VEC, ON_MODEL,   D_1, A_HEAD_GATE},
    {W_ROPE_FREQS,     "rope_freqs.weight",                D_1,         D_ROT,       S_OPT_VEC, ON_MODEL,   D_1, 0},
    {W_ROPE_LONG,      "rope_factors_long.weight",         D_1,         D_ROT,       S_OPT_VEC, ON_MODEL,   D_1, 0},
    {W_ROPE_SHORT,     "rope_factors_short.weight",        D_1,         D_ROT,       S_OPT_VEC, ON_MODEL,   D_1, 0},
    {W_ATTN_NORM,      NULL,                               D_1,         D_1,         S_FIRST,   ON_ATTN,    D_1, A_FIRST_BARE},
    {W_ATTN_NORM,       "enc.blk.%d.attn_norm.weight",      D_1,         D_EMBD,      S_VEC,     ON_ATTN,    D_1, 0, Q_BUCKETS},
    {W_ATTN_NORM,       "dec.blk.%d.attn_norm.weight",      D_1,         D_EMBD,      S_VEC,     ON_CROSS,   D_1, 0, Q_BUCKETS},
    {W_ATTN_NORM,      "blk.%d.attn_norm_2.weight",        D_1,         D_EMBD,      S_VEC,     ON_MIXERS,  D_1, 0, Q_TWO_NORMS},
    {W_ATTN_NORM,      "blk.%d.attn_norm.weight",          D_1,         D_EMBD,      S_VEC,     ON_MIXERS,  D_1,
     A_PRE_NORM, Q_ONE_NORM},
    {B_ATTN_NORM,      "blk.%d.attn_norm_2.bias",          D_1,         D_EMBD,      S_OPT_VEC, ON_MIXERS,  D_1, 0, Q_TWO_NORMS},
    {B_ATTN_NORM,      "blk.%d.attn_norm.bias",            D_1,         D_EMBD,      S_OPT_VEC, ON_MIXERS,  D_1, A_LAYER_NORM},
    {W_QKV_HEADS,      "blk.%d.attn_qkv.weight",           D_QKV,       D_EMBD,      0,         ON_ATTN,    D_1, A_QKV_BY_HEAD},
    {W_QKV,            NULL,                               D_1,         D_1,         0,         ON_ATTN,    D_1, A_QKV_BY_HEAD},
    {W_QKV,            "blk.%d.attn_qkv.weight",           D_QKV,       D_EMBD,      S_OPT,     ON_ATTN,    D_1, 0},
    {B_QKV,            NULL,                               D_1,         D_1,         0,         ON_ATTN,    D_1, A_QKV_BY_HEAD},
    {B_QKV,            "blk.%d.attn_qkv.bias",             D_1,         D_QKV,       S_OPT_VEC, ON_ATTN,    D_1, 0},
    {W_Q,              NULL,                               D_1,         D_1,         0,         ON_ATTN,    D_1, A_QKV_BY_HEAD},
    {W_Q,               "enc.blk.%d.attn_q.weight",         D_Q_PROJ,    D_EMBD,      0,         ON_ATTN,    D_1, 0, Q_BUCKETS},
    {W_Q,               "dec.blk.%d.attn_q.weight",         D_Q_PROJ,    D_EMBD,      0,         ON_CROSS,   D_1, 0, Q_BUCKETS},
    {W_Q,              "blk.%d.attn_q.weight",             D_Q_PROJ,    D_EMBD,      S_OPT,     ON_ATTN,    D_1, 0},
    {W_Q,              "blk.%d.attn_q.weight",             D_Q_WHOLE,   D_EMBD,      0,         ON_LATENT,  D_1, 0},
    {W_Q,              "blk.%d.attn_q.weight",             D_REC_V,     D_EMBD,      0,         ON_KDA,     D_1, 0},
    {W_K,              NULL,                               D_1,         D_1,         0,         ON_ATTN,    D_1, A_QKV_BY_HEAD},
    {W_K,               "enc.blk.%d.attn_k.weight",         D_K,         D_EMBD,      0,         ON_ATTN,    D_1, 0, Q_BUCKETS},
    {W_K,               "dec.blk.%d.attn_k.weight",         D_K,         D_EMBD,      0,         ON_CROSS,   D_1, 0, Q_BUCKETS},
    {W_K,              "blk.%d.attn_k.weight",             D_K,         D_EMBD,      S_OPT | S_OWN, ON_ATTN, D_1, 0},
    {W_K,              "blk.%d.attn_k.weight",             D_REC_V,     D_EMBD,      0,         ON_KDA,     D_1, 0},
    {W_V,              NULL,                               D_1,         D_1,         0,         ON_ATTN,    D_1, A_QKV_BY_HEAD},
    {W_V,               "enc.blk.%d.attn_v.weight",         D_V,         D_EMBD,      0,         ON_ATTN,    D_1, 0, Q_BUCKETS},
    {W_V,               "dec.blk.%d.attn_v.weight",         D_V,         D_EMBD,      0,         ON_CROSS,   D_1, 0, Q_BUCKETS},
    {W_V,              "blk.%d.attn_v.weight",             D_V,         D_EMBD,      S_OPT | S_OWN, ON_ATTN, D_1, 0},
    {W_V,              "blk.%d.attn_v.weight",             D_REC_V,     D_EMBD,      0,         ON_KDA,     D_1, 0},
    {B_Q,              "blk.%d.attn_q.bias",               D_1,         D_Q_PROJ,    S_OPT_VEC, ON_ATTN,    D_1, 0},
    {B_K,              "blk.%d.attn_k.bias",               D_1,         D_K,         S_OPT_VEC | S_OWN, ON_ATTN, D_1, 0},
    {B_V,              "blk.%d.attn_v.bias",               D_1,         D_V,         S_OPT_VEC | S_OWN, ON_ATTN, D_1, 0},
    {W_Q_NORM,         "blk.%d.attn_q_norm.weight",        D_1,         D_HEAD_K,    S_VEC,     ON_ATTN,    D_1, A_QK_NORM},
    {W_Q_NORM,         "blk.%d.attn_q_norm.weight",        D_1,         D_HEAD_K,    S_OPT_VEC, ON_ATTN,    D_1, A_MAY_QK_NORM},
    {W_Q_NORM,         "blk.%d.attn_q_norm.weight",        D_HEAD,      D_HEAD_K,    S_OPT_VEC, ON_ATTN,    D_1, 0, Q_HEAD_GAINS},
    {W_Q_NORM,         "blk.%d.attn_q_norm.weight",        D_HEAD,      D_HEAD_K,    S_VEC,     ON_ATTN,    D_1, 0, Q_HEAD_NORMS},
    {W_Q_NORM,         "blk.%d.attn_q_norm.weight",        D_1,         D_Q,         S_VEC,     ON_ATTN,    D_1, A_QK_WHOLE},
    {B_Q_NORM,         "blk.%d.attn_q_norm.bias",          D_1,         D_Q,         S_OPT_VEC, ON_ATTN,    D_1, A_QK_LAYER_NORM},
    {W_Q_NORM,         "blk.%d.attn_q_norm.weight",        D_1,         D_Q,         S_OPT_VEC, ON_ATTN,    D_1, 0, Q_MAY_ALIBI},
    {B_Q_NORM,         "blk.%d.attn_q_norm.bias",          D_1,         D_Q,         S_OPT_VEC, ON_ATTN,    D_1, 0, Q_MAY_ALIBI},
    {W_K_NORM,         "blk.%d.attn_k_norm.weight",        D_1,         D_K,         S_OPT_VEC, ON_ATTN,    D_1, 0, Q_MAY_ALIBI},
    {B_K_NORM,         "blk.%d.attn_k_norm.bias",          D_1,         D_K,         S_OPT_VEC, ON_ATTN,    D_1, 0, Q_MAY_ALIBI},
    {W_K_NORM,         "blk.%d.attn_k_norm.weight",        D_1,         D_HEAD_K,    S_VEC | S_OWN, ON_ATTN, D_1, A_QK_NORM},
    {W_K_NORM,         "blk.%d.attn_k_norm.weight",        D_1,         D_HEAD_K,    S_OPT_VEC, ON_ATTN,    D_1, A_MAY_QK_NORM},
    {W_K_NORM,         "blk.%d.attn_k_norm.weight",        D_HEAD_KV,   D_HEAD_K,    S_OPT_VEC, ON_ATTN,    D_1, 0, Q_HEAD_GAINS},
    {W_K_NORM,         "blk.%d.attn_k_norm.weight",        D_HEAD_KV,   D_HEAD_K,    S_VEC,     ON_ATTN,    D_1, 0, Q_HEAD_NORMS},
    {W_K_NORM,         "blk.%d.attn_k_norm.weight",        D_1,         D_K,         S_VEC | S_OWN, ON_ATTN, D_1, A_QK_WHOLE},
    {B_K_NORM,         "blk.%d.attn_k_norm.bias",          D_1,         D_K,         S_OPT_VEC, ON_ATTN,    D_1, A_QK_LAYER_NORM},
    {W_Q_A,            "blk.%d.attn_q_a.weight",           D_Q_RANK,    D_EMBD,      0, ON_LATENT | ON_POOLED, D_1, 0},
    {W_Q_A_NORM,       "blk.%d.attn_q_a_norm.weight",      D_1,         D_Q_RANK,    S_VEC, ON_LATENT | ON_POOLED, D_1, 0},
    {W_Q_B,            "blk.%d.attn_q_b.weight",           D_Q_HEADS,   D_Q_RANK,    0,         ON_LATENT,  D_1, 0},
    {W_Q_B,            "blk.%d.attn_q_b.weight",           D_Q,         D_Q_RANK,    0,         ON_POOLED,  D_1, 0},
    {W_KV_A,           "blk.%d.attn_kv.weight",            D_K,         D_EMBD,      0,         ON_POOLED,  D_1, 0},
    {W_KV_A,           "blk.%d.attn_kv_a_mqa.weight",      D_KEY,       D_EMBD,      0,         ON_LATENT,  D_1, 0},
    {W_KV_A_NORM,      "blk.%d.attn_kv_a_norm.weight",     D_1,         D_RANK,      S_VEC, ON_LATENT | ON_POOLED, D_1, 0},
    {W_KV_B,           "blk.%d.attn_kv_b.weight",          D_KV_B,      D_RANK,      S_OPT,     ON_LATENT,  D_1, 0},
    {W_K_B,            "blk.%d.attn_k_b.weight",           D_RANK,      D_NOPE,      S_OPT,     ON_LATENT,  D_HEAD, 0},
    {W_V_B,            "blk.%d.attn_v_b.weight",           D_HEAD_O,    D_RANK,      S_OPT,     ON_LATENT,  D_HEAD, 0},
    {W_SINKS,          "blk.%d.attn_sinks.weight",         D_1,         D_HEAD,      S_VEC,     ON_POOLED,  D_1, 0},
    {W_SINKS,          "blk.%d.attn_sinks.weight",         D_1,         D_HEAD,      S_VEC,     ON_ATTN,    D_1, A_SINKS},
    {W_SINKS,          "blk.%d.attn_sinks.weight",         D_1,         D_HEAD,      S_OPT_VEC, ON_ATTN,    D_1, A_MAY_SINKS},
    {W_HEAD_GAIN,      "blk.%d.attn_q_norm.weight",        D_HEAD,      D_1,         S_VEC,     ON_ATTN,    D_1, 0, Q_SKIP},
    {W_OUT_GATE,       "blk.%d.attn_gate.weight",          D_O,         D_EMBD,      0,         ON_ATTN,    D_1, 0, Q_OUT_GATE},
    {W_OUT_GATE,       "blk.%d.attn_gate.weight",          D_O,         D_EMBD,      S_OPT | S_FIT, ON_ATTN, D_1, 0, Q_SOFT_GATE},
    {W_HEAD_GATE,      "blk.%d.attn_gate.weight",          D_HEAD,      D_EMBD,      S_OPT,     ON_ATTN,    D_1, A_HEAD_GATE},
    {W_HEAD_GATE,      "blk.%d.attn_gate.weight",          D_HEAD,      D_EMBD,      S_OPT | S_FIT, ON_ATTN, D_1, 0, Q_SOFT_GATE},
    {W_ATTN_SUB_NORM,  "blk.%d.attn_sub_norm.weight",      D_1,         D_O,         S_VEC,     ON_ATTN,    D_1, 0, Q_SUB_NORMS},
    {W_O,               "enc.blk.%d.attn_o.weight",         D_EMBD,      D_O,         0,         ON_ATTN,    D_1, 0, Q_BUCKETS},
    {W_O,               "dec.blk.%d.attn_o.weight",         D_EMBD,      D_O,         0,         ON_CROSS,   D_1, 0, Q_BUCKETS},
    {W_O,              "blk.%d.attn_output.weight",        D_EMBD,      D_O,         0, ON_ATTN | ON_LATENT, D_1, 0},
    {W_O,              "blk.%d.attn_output.weight",        D_EMBD,      D_EMBD,      0,         ON_LINEAR,  D_1, 0},
    {W_O,              "blk.%d.attn_output_b.weight",      D_EMBD,      D_OUT_ALL,   0,         ON_POOLED,  D_1, 0},
    {W_OUT_A,          "blk.%d.attn_output_a.weight",      D_OUT_RANK,  D_OUT_GROUP, S_FLAT,    ON_POOLED,  D_OUT_GROUPS, 0},
    {W_POOL_KV,        "blk.%d.attn_compressor_kv.weight", D_POOL_ALL,  D_EMBD,      0,         ON_POOLED,  D_1, 0},
    {W_POOL_GATE,      "blk.%d.attn_compressor_gate.weight", D_POOL_ALL, D_EMBD,     0,         ON_POOLED,  D_1, 0},
    {W_POOL_PLACE,     "blk.%d.attn_compressor_ape.weight", D_POOL,     D_POOL_ALL,  S_ANY_VEC,    ON_POOLED,  D_1, 0},
    {W_POOL_NORM,      "blk.%d.attn_compressor_norm.weight", D_1,       D_POOL_HEAD, S_VEC,     ON_POOLED,  D_1, 0},
    {W_POOL_INDEX_KV,  "blk.%d.indexer_compressor_kv.weight", D_POOL_INDEX, D_EMBD,  0,         ON_POOLED,  D_1, 0},
    {W_POOL_INDEX_GATE, "blk.%d.indexer_compressor_gate.weight", D_POOL_INDEX, D_EMBD, 0,       ON_POOLED,  D_1, 0},
    {W_POOL_INDEX_PLACE, "blk.%d.indexer_compressor_ape.weight", D_POOL, D_POOL_INDEX, S_ANY_VEC, ON_POOLED,  D_1, 0},
    {W_POOL_INDEX_NORM, "blk.%d.indexer_compressor_norm.weight", D_1,    D_INDEX_HEAD, S_CHOICE_VEC, ON_POOLED, D_1, 0},
    {W_HYPER_ATTN,     "blk.%d.hc_attn_fn.weight",         D_HYPER_MIX, D_WIDE, 0,        ON_POOLED,  D_1, 0},
    {B_HYPER_ATTN,     "blk.%d.hc_attn_base.weight",       D_1,         D_HYPER_MIX, S_VEC,     ON_POOLED,  D_1, 0},
    {W_HYPER_ATTN_SCALE, "blk.%d.hc_attn_scale.weight",    D_1,         D_THREE,     S_VEC,     ON_POOLED,  D_1, 0},
    {W_HYPER_FFN,      "blk.%d.hc_ffn_fn.weight",          D_HYPER_MIX, D_WIDE, 0,        ON_POOLED,  D_1, 0},
    {B_HYPER_FFN,      "blk.%d.hc_ffn_base.weight",        D_1,         D_HYPER_MIX, S_VEC,     ON_POOLED,  D_1, 0},
    {W_HYPER_FFN_SCALE, "blk.%d.hc_ffn_scale.weight",      D_1,         D_THREE,     S_VEC,     ON_POOLED,  D_1, 0},
    {W_HYPER_HEAD,     "output_hc_fn.weight",              D_STREAM,    D_WIDE, 0,        ON_MODEL,   D_1, 0, Q_POOLED},
    {B_HYPER_HEAD,     "output_hc_base.weight",            D_1,         D_STREAM,    S_VEC,     ON_MODEL,   D_1, 0, Q_POOLED},
    {W_HYPER_HEAD_SCALE, "output_hc_scale.weight",         D_1,         D_1,         S_VEC,     ON_MODEL,   D_1, 0, Q_POOLED},
    {W_LISTED,         "blk.%d.ffn_gate_tid2eid.weight",   D_VOCAB,     D_LISTED,    S_NUMBERS, ON_POOLED,  D_1, 0},
    {B_O,              "blk.%d.attn_output.bias",          D_1,         D_EMBD,      S_OPT_VEC, ON_ATTN | ON_LINEAR, D_1, 0},
    {W_ATTN_POST_NORM, "blk.%d.attn_output_norm.weight",   D_1,         D_EMBD,      S_VEC,     ON_ATTN,    D_1, 0, Q_GROK},
    {W_ATTN_POST_NORM, "blk.%d.post_attention_norm",       D_1,         D_EMBD,      S_VEC, ON_ATTN,    D_1, 0, Q_SHORT_NAMES},
    {W_ATTN_POST_NORM, "blk.%d.post_attention_norm.weight", D_1,        D_EMBD,      S_VEC,     ON_MIXERS,  D_1, A_POST_NORM},
    {W_ATTN_SUM_NORM,  "blk.%d.attn_output_norm.weight",   D_1,         D_EMBD,      S_VEC,     ON_ATTN,    D_1, A_SUM_NORM},
    {B_ATTN_SUM_NORM,  "blk.%d.attn_output_norm.bias",     D_1,         D_EMBD,      S_OPT_VEC, ON_ATTN,    D_1, A_SUM_NORM},
    {W_ATTN_TWICE_NORM, "blk.%d.attn_norm_2.weight",       D_1,         D_EMBD,      S_VEC,     ON_ATTN,    D_1, A_SUM_TWICE},
    {B_ATTN_TWICE_NORM, "blk.%d.attn_norm_2.bias",         D_1,         D_EMBD,      S_OPT_VEC, ON_ATTN,    D_1, A_SUM_TWICE},
    {W_FFN_SUM_NORM,   "blk.%d.layer_output_norm.weight",  D_1,         D_EMBD,      S_VEC,     ON_FFNS,    D_1, A_SUM_NORM},
    {B_FFN_SUM_NORM,   "blk.%d.layer_output_norm.bias",    D_1,         D_EMBD,      S_OPT_VEC, ON_FFNS,    D_1, A_SUM_NORM},
    {W_FFN_NORM,        "enc.blk.%d.ffn_norm.weight",       D_1,         D_EMBD,      S_VEC,     ON_ATTN,    D_1, 0, Q_BUCKETS},
    {W_FFN_NORM,        "dec.blk.%d.ffn_norm.weight",       D_1,         D_EMBD,      S_VEC,     ON_CROSS,   D_1, 0, Q_BUCKETS},
    {W_FFN_NORM,       "blk.%d.attn_norm_2.weight",        D_1,         D_EMBD,      S_VEC,     ON_CHANNELS, D_1, 0},
    {W_FFN_NORM,       "blk.%d.attn_norm.weight",          D_1,         D_EMBD,      S_VEC,     ON_NONE,    D_1, 0, Q_ONE_BLOCK},
    {W_FFN_NORM,       "blk.%d.post_attention_norm.weight", D_1,        D_EMBD,      S_VEC,     ON_FFNS,    D_1, A_LATE_NAME},
    {W_FFN_NORM,       "blk.%d.attn_norm.weight",          D_1,         D_EMBD,      S_VEC,     ON_FFNS,    D_1, 0, Q_TWO_NORMS},
    {W_FFN_NORM,       "blk.%d.attn_output_norm.weight",   D_1,         D_EMBD,      S_VEC,     ON_FFNS,    D_1, 0, Q_SUM_NAME},
    {W_FFN_NORM,       "blk.%d.ffn_norm.weight",           D_1,         D_EMBD,      S_VEC,     ON_FFNS,    D_1, A_PRE_NORM},
    {B_FFN_NORM,       "blk.%d.attn_norm_2.bias",          D_1,         D_EMBD,      S_VEC,     ON_CHANNELS, D_1, 0},
    {B_FFN_NORM,       "blk.%d.attn_norm.bias",            D_1,         D_EMBD,      S_OPT_VEC, ON_FFNS,    D_1, 0, Q_TWO_NORMS},
    {B_FFN_NORM,       NULL,                               D_1,         D_1,         0,         ON_FFNS,    D_1, 0, Q_ONE_NORM},
    {B_FFN_NORM,       "blk.%d.ffn_norm.bias",             D_1,         D_EMBD,      S_OPT_VEC, ON_FFNS,    D_1, A_LAYER_NORM},
    {W_FFN_POST_NORM,  "blk.%d.layer_output_norm.weight",  D_1,         D_EMBD,      S_VEC,     ON_FFNS,    D_1, 0, Q_OUT_NAME},
    {W_FFN_POST_NORM,  "blk.%d.post_ffw_norm",             D_1,         D_EMBD,      S_VEC, ON_FFNS,    D_1, 0, Q_SHORT_NAMES},
    {W_FFN_POST_NORM,  "blk.%d.post_ffw_norm.weight",      D_1,         D_EMBD,      S_VEC,     ON_FFNS,    D_1, A_POST_NORM},
    {W_FFN_SUB_NORM,   "blk.%d.ffn_sub_norm.weight",       D_1,         D_FF,        S_VEC,     ON_DENSE,   D_1, 0, Q_SUB_NORMS},
    {W_SKIP_SCALE,     "blk.%d.layer_output_scale.weight", D_1,         D_1,         S_VEC,     ON_MIXERS,  D_1, 0, Q_SKIP},
    {W_GATE_UP,        "blk.%d.ffn_up.weight",             D_GATE_UP,   D_EMBD,      0,         ON_DENSE,   D_1, A_GATE_UP},
    {W_GATE_UP,        "blk.%d.ffn_up.weight",             D_GATE_UP,   D_EMBD,      S_OPT | S_FIT, ON_DENSE, D_1, A_EITHER_UP},
    {W_GATE,           "blk.%d.ffn_gate.weight",           D_FF,        D_EMBD,      S_OPT,     ON_DENSE,   D_1, A_EITHER_UP},
    {W_UP,             "blk.%d.ffn_up.weight",             D_FF,        D_EMBD,      S_OPT | S_FIT, ON_DENSE, D_1, A_EITHER_UP},
    {W_GATE,           NULL,                               D_1,         D_1,         0,         ON_DENSE,   D_1, A_NO_GATE},
    {W_GATE,            "enc.blk.%d.ffn_gate.weight",       D_FF,        D_EMBD,      0,         ON_ATTN,    D_1, 0, Q_BUCKETS},
    {W_GATE,            "dec.blk.%d.ffn_gate.weight",       D_FF,        D_EMBD,      0,         ON_CROSS,   D_1, 0, Q_BUCKETS},
    {W_GATE,           "blk.%d.ffn_gate.weight",           D_FF,        D_EMBD,      0,         ON_DENSE,   D_1, 0},
    {W_UP,             NULL,                               D_1,         D_1,         0,         ON_DENSE,   D_1, A_GATE_UP},
    {W_UP,              "enc.blk.%d.ffn_up.weight",         D_FF,        D_EMBD,      0,         ON_ATTN,    D_1, 0, Q_BUCKETS},
    {W_UP,              "dec.blk.%d.ffn_up.weight",         D_FF,        D_EMBD,      0,         ON_CROSS,   D_1, 0, Q_BUCKETS},
    {W_UP,             "blk.%d.ffn_up.weight",             D_FF,        D_EMBD,      0,         ON_DENSE,   D_1, 0},
    {W_DOWN,            "enc.blk.%d.ffn_down.weight",       D_EMBD,      D_FF,        0,         ON_ATTN,    D_1, 0, Q_BUCKETS},
    {W_DOWN,            "dec.blk.%d.ffn_down.weight",       D_EMBD,      D_FF,        0,         ON_CROSS,   D_1, 0, Q_BUCKETS},
    {W_DOWN,           "blk.%d.ffn_down.weight",           D_EMBD,      D_FF,        0,         ON_DENSE,   D_1, 0},
    {B_GATE,           NULL,                               D_1,         D_1,         0,         ON_DENSE,   D_1, A_NO_GATE},
    {B_GATE,           "blk.%d.ffn_gate.bias",             D_1,         D_FF,        S_OPT_VEC, ON_DENSE,   D_1, 0},
    {B_UP,             NULL,                               D_1,         D_1,         0,         ON_DENSE,   D_1, A_GATE_UP},
    {B_UP,             "blk.%d.ffn_up.bias",               D_1,         D_FF,        S_OPT_VEC, ON_DENSE,   D_1, 0},
    {B_DOWN,           "blk.%d.ffn_down.bias",             D_1,         D_EMBD,      S_OPT_VEC, ON_DENSE,   D_1, 0},
    {W_ROUTER,         "blk.%d.ffn_gate_inp.weight",       D_EXPERT,    D_EMBD,      0,         ON_EXPERTS, D_1, 0},
    {B_ROUTER,         "blk.%d.ffn_gate_inp.bias",         D_1,         D_EXPERT,    S_OPT_VEC, ON_EXPERTS, D_1, 0},
    {B_ROUTER_CHOICE,  "blk.%d.exp_probs_b.bias",          D_1,         D_EXPERT,    S_VEC,     ON_EXPERTS, D_1, A_CHOICE_BIAS},
    {B_ROUTER_CHOICE,  "blk.%d.exp_probs_b.bias",          D_1,         D_EXPERT,    S_OPT_VEC, ON_EXPERTS, D_1, A_MAY_CHOICE},
    {B_ROUTER_CHOICE,  "blk.%d.exp_probs_b",               D_1,         D_EXPERT,    S_OPT_VEC, ON_EXPERTS, D_1, A_BARE_CHOICE},
    {W_GATE_UP_EXPS,   NULL,                               D_1,         D_1,         0,         ON_EXPERTS, D_1, A_UNGATED},
    {W_GATE_EXPS,      NULL,                               D_1,         D_1,         0,         ON_EXPERTS, D_1, A_UNGATED},
    {W_GATE_UP_EXPS,   "blk.%d.ffn_gate_up_exps.weight",   D_GATE_UP_EXP, D_EMBD,    S_OPT,     ON_EXPERTS, D_EXPERT, 0},
    {W_GATE_EXPS,      "blk.%d.ffn_gate_exps.weight",      D_FF_EXP,    D_EMBD,      S_OPT,     ON_EXPERTS, D_EXPERT, 0},
    {W_UP_EXPS,        "blk.%d.ffn_up_exps.weight",        D_FF_EXP,    D_EXP_EMBD,  S_OPT,     ON_EXPERTS, D_EXPERT, 0},
    {W_DOWN_EXPS,      "blk.%d.ffn_down_exps.weight",      D_EXP_EMBD,  D_FF_EXP,    0,         ON_EXPERTS, D_EXPERT, 0},
    {B_GATE_EXPS,      "blk.%d.ffn_gate_exps.bias",        D_EXPERT,    D_FF_EXP,    S_OPT_VEC, ON_EXPERTS, D_1, 0},
    {B_UP_EXPS,        "blk.%d.ffn_up_exps.bias",          D_EXPERT,    D_FF_EXP,    S_OPT_VEC, ON_EXPERTS, D_1, 0},
    {B_DOWN_EXPS,      "blk.%d.ffn_down_exps.bias",        D_EXPERT,    D_EMBD,      S_OPT_VEC, ON_EXPERTS, D_1, 0},
    {W_SHEXP_GATE,     "blk.%d.ffn_gate_inp_shexp.weight", D_1,         D_EMBD,      S_VEC,     ON_EXPERTS, D_1, A_SHARED_EXPERT},
    {W_EXPS_IN,        "blk.%d.ffn_latent_down.weight",    D_EXP_EMBD,  D_EMBD,      S_OPT,     ON_EXPERTS, D_1, A_UNGATED},
    {W_EXPS_OUT,       "blk.%d.ffn_latent_up.weight",      D_EMBD,      D_EXP_EMBD,  S_OPT,     ON_EXPERTS, D_1, A_UNGATED},
    {W_GATE_SHEXP,     NULL,                               D_1,         D_1,         0,         ON_EXPERTS, D_1, A_UNGATED},
    {W_GATE_SHEXP,     "blk.%d.ffn_gate_shexp.weight",     D_FF_SHEXP,  D_EMBD,      0,         ON_EXPERTS, D_1, A_SHARED},
    {W_UP_SHEXP,       "blk.%d.ffn_up_shexp.weight",       D_FF_SHEXP,  D_EMBD,      0,         ON_EXPERTS, D_1, A_SHARED},
    {W_DOWN_SHEXP,     "blk.%d.ffn_down_shexp.weight",     D_EMBD,      D_FF_SHEXP,  0,         ON_EXPERTS, D_1, A_SHARED},
    {W_GATE_ADJ,       "blk.%d.ffn_gate_chexps.weight",    D_FF_ADJ,    D_EMBD,      0,         ON_EXPERTS, D_ADJUGATES, 0},
    {W_UP_ADJ,         "blk.%d.ffn_up_chexps.weight",      D_FF_ADJ,    D_EMBD,      0,         ON_EXPERTS, D_ADJUGATES, 0},
    {W_DOWN_ADJ,       "blk.%d.ffn_down_chexps.weight",    D_EMBD,      D_FF_ADJ,    0,         ON_EXPERTS, D_ADJUGATES, 0},
    {W_REC_ALL,        "blk.%d.ssm_in.weight",             D_REC_ALL,   D_EMBD,      S_OPT,     ON_DELTA,   D_1, A_DELTA_GROUPED},
    {W_REC_ALL,        "blk.%d.shortconv.in_proj.weight",  D_REC_ALL,   D_EMBD,      0,         ON_CONV,    D_1, 0},
    {W_REC_ALL,        "blk.%d.ssm_in.weight",             D_REC_ALL,   D_EMBD,      0,         ON_HEADS,   D_1, 0},
    {W_REC_IN,         "blk.%d.attn_qkv.weight",           D_REC,       D_EMBD,      S_OPT,     ON_DELTA,   D_1, 0},
    {W_REC_Z,          "blk.%d.attn_gate.weight",          D_REC_V,     D_EMBD,      S_OPT,     ON_DELTA,   D_1, 0},
    {W_REC_GATES,      "blk.%d.ssm_ba.weight",             D_REC_GATES, D_EMBD,      0,         ON_DELTA,   D_1, A_DELTA_GROUPED},
    {W_REC_ALPHA,      NULL,                               D_1,         D_1,         0,         ON_DELTA,   D_1, A_DELTA_GROUPED},
    {W_REC_ALPHA,      "blk.%d.ssm_alpha.weight",          D_REC_HEADS, D_EMBD,      0,         ON_DELTA,   D_1, 0},
    {W_REC_BETA,       NULL,                               D_1,         D_1,         0,         ON_DELTA,   D_1, A_DELTA_GROUPED},
    {W_REC_BETA,       "blk.%d.ssm_beta.weight",           D_REC_HEADS, D_EMBD,      0,         ON_DELTAS,  D_1, 0},
    {W_TAPS_Q,         "blk.%d.ssm_conv1d_q.weight",       D_REC_V,     D_REC_TAPS,  S_VEC,     ON_KDA,     D_1, 0},
    {W_TAPS_K,         "blk.%d.ssm_conv1d_k.weight",       D_REC_V,     D_REC_TAPS,  S_VEC,     ON_KDA,     D_1, 0},
    {W_TAPS_V,         "blk.%d.ssm_conv1d_v.weight",       D_REC_V,     D_REC_TAPS,  S_VEC,     ON_KDA,     D_1, 0},
    {W_REC_TAPS,       "blk.%d.ssm_conv1d.weight",         D_REC,       D_REC_TAPS,  S_VEC,     ON_DELTA,   D_1, 0},
    {W_REC_TAPS,       "blk.%d.ssm_conv1d.weight",         D_CONV,      D_CONV_TAPS, S_VEC,     ON_SSM,     D_1, 0},
    {W_REC_TAPS,       "blk.%d.shortconv.conv.weight",     D_REC,       D_REC_TAPS,  S_VEC,     ON_CONV,    D_1, 0},
    {W_REC_DECAY,      "blk.%d.ssm_a",                     D_REC_HEADS, D_1,         S_VEC, ON_SSD | ON_KDA, D_1, 0},
    {W_REC_DECAY,      "blk.%d.ssm_a",                     D_REC_V,     D_REC_KEY,   S_VEC,     ON_SCAN,    D_1, 0},
    {W_REC_DECAY,      "blk.%d.ssm_a",                     D_1,         D_REC_HEADS, S_VEC,     ON_DELTA | ON_HEADS, D_1, 0},
    {B_REC_STEP,       "blk.%d.ssm_dt.bias",               D_1,         D_REC_V,     S_VEC, ON_SCAN | ON_KDA, D_1, 0},
    {B_REC_STEP,       "blk.%d.ssm_dt.bias",               D_1,         D_REC_HEADS, S_VEC,     ON_DELTA | ON_SSM, D_1, 0},
    {W_REC_NORM,       "blk.%d.ssm_norm.weight",           D_REC_GROUPS, D_REC_GROUP, S_OPT_VEC, ON_MIXER << MIX_BOTH, D_1, 0},
    {W_REC_NORM,       "blk.%d.ssm_norm.weight",           D_REC_GROUPS, D_REC_GROUP, S_VEC,    ON_SSD,     D_1, 0},
    {W_REC_NORM,       "blk.%d.ssm_norm.weight",           D_1,         D_REC_HEAD,  S_VEC,     ON_DELTAS,  D_1, 0},
    {W_REC_OUT,        "blk.%d.ssm_out.weight",            D_EMBD,      D_REC_V,     0,         ON_DELTA | ON_SSM, D_1, 0},
    {W_REC_OUT,        "blk.%d.attn_output.weight",        D_EMBD,      D_REC_V,     0,         ON_KDA,     D_1, 0},
    {W_REC_OUT,        "blk.%d.shortconv.out_proj.weight", D_EMBD,      D_REC_V,     0,         ON_CONV,    D_1, 0},
    {W_SSM_IN,         "blk.%d.ssm_in.weight",             D_REC_ALL,   D_EMBD,      0,         ON_SSD,     D_1, 0},
    {W_MAMBA_IN,       "blk.%d.ssm_in.weight",             D_REC_ALL,   D_EMBD,      0,         ON_SCAN,    D_1, 0},
    {B_CONV,           "blk.%d.ssm_conv1d.bias",           D_1,         D_CONV,      S_OPT_VEC, ON_SSM,     D_1, 0},
    {W_SKIP,           "blk.%d.ssm_d",                     D_REC_HEADS, D_1,         S_VEC,     ON_SSD,     D_1, 0},
    {W_SKIP,           "blk.%d.ssm_d",                     D_1,         D_REC_V,     S_VEC,     ON_SCAN,    D_1, 0},
    {W_SKIP,           "blk.%d.ssm_d",                     D_1,         D_REC_HEADS, S_VEC,     ON_HEADS,   D_1, 0},
    {W_STEP_IN,        "blk.%d.ssm_x.weight",              D_STEP,      D_REC_V,     0,         ON_MAMBA,   D_1, 0},
    {W_STEP,           "blk.%d.ssm_dt.weight",             D_REC_V,     D_STEP_RANK, 0,         ON_SCAN,    D_1, 0},
    {W_STEP,           "blk.%d.ssm_dt.weight",             D_REC_HEADS, D_STEP_RANK, 0,         ON_HEADS,   D_1, 0},
    {W_STEP_NORM,      "blk.%d.ssm_dt_norm.weight",        D_1,         D_STEP_RANK, S_OPT_VEC, ON_MAMBA,   D_1, 0},
    {W_KEY_NORM,       "blk.%d.ssm_b_norm.weight",         D_1,         D_REC_KEY,   S_OPT_VEC, ON_MAMBA,   D_1, 0},
    {W_QUERY_NORM,     "blk.%d.ssm_c_norm.weight",         D_1,         D_REC_KEY,   S_OPT_VEC, ON_MAMBA,   D_1, 0},
    {W_WKV_LERP,       "blk.%d.time_mix_lerp_fused.weight", D_LERPS,    D_EMBD,      S_VEC,     ON_WKV,     D_1, 0},
    {W_WKV_LERP_X,     "blk.%d.time_mix_lerp_x.weight",    D_1,         D_EMBD,      S_VEC,     ON_WKV6,    D_1, 0},
    {W_WKV_MIX_1,      "blk.%d.time_mix_w1.weight",        D_RANK_MIXES, D_EMBD,     0,         ON_WKV6,    D_1, 0},
    {W_WKV_MIX_2,      "blk.%d.time_mix_w2.weight",        D_EMBD,      D_RANK_MIX,  0,         ON_WKV6,    D_FIVE, 0},
    {W_WKV_R,          "blk.%d.time_mix_receptance.weight", D_EMBD,     D_EMBD,      0,         ON_WKV,     D_1, 0},
    {B_WKV_R,          "blk.%d.time_mix_receptance.bias",  D_1,         D_EMBD,      S_OPT_VEC, ON_WKV6,    D_1, 0},
    {W_WKV_K,          "blk.%d.time_mix_key.weight",       D_REC_KEYS,  D_EMBD,      0,         ON_WKV,     D_1, 0},
    {B_WKV_K,          "blk.%d.time_mix_key.bias",         D_1,         D_REC_KEYS,  S_OPT_VEC, ON_WKV6,    D_1, 0},
    {W_WKV_V,          "blk.%d.time_mix_value.weight",     D_REC_KEYS,  D_EMBD,      0,         ON_WKV,     D_1, 0},
    {B_WKV_V,          "blk.%d.time_mix_value.bias",       D_1,         D_REC_KEYS,  S_OPT_VEC, ON_WKV6,    D_1, 0},
    {W_WKV_GATE,       "blk.%d.time_mix_gate.weight",      D_EMBD,      D_EMBD,      0,         ON_WKV6,    D_1, 0},
    {W_WKV_OUT,        "blk.%d.time_mix_output.weight",    D_EMBD,      D_EMBD,      0,         ON_WKV,     D_1, 0},
    {W_WKV_DECAY_1,    "blk.%d.time_mix_w1.weight",        D_RANK_DECAY, D_EMBD,     0,         ON_WKV7,    D_1, 0},
    {W_WKV_DECAY_1,    "blk.%d.time_mix_decay_w1.weight",  D_RANK_DECAY, D_EMBD,     0,         ON_WKV6,    D_1, 0},
    {W_WKV_DECAY_1,    "blk.%d.ssm_f_a.weight",            D_REC_HEAD,  D_EMBD,      0,         ON_KDA,     D_1, 0},
    {W_WKV_DECAY_2,    "blk.%d.time_mix_w2.weight",        D_EMBD,      D_RANK_DECAY, 0,        ON_WKV7,    D_1, 0},
    {W_WKV_DECAY_2,    "blk.%d.time_mix_decay_w2.weight",  D_EMBD,      D_RANK_DECAY, 0,        ON_WKV6,    D_1, 0},
    {W_WKV_DECAY_2,    "blk.%d.ssm_f_b.weight",            D_REC_V,     D_REC_HEAD,  0,         ON_KDA,     D_1, 0},
    {B_WKV_DECAY,      "blk.%d.time_mix_w0.weight",        D_1,         D_EMBD,      S_VEC,     ON_WKV7,    D_1, 0},
    {B_WKV_DECAY,      "blk.%d.time_mix_decay.weight",     D_1,         D_EMBD,      S_VEC,     ON_WKV6,    D_1, 0},
    {W_WKV_RATE_1,     "blk.%d.time_mix_a1.weight",        D_RANK_RATE, D_EMBD,      0,         ON_WKV7,    D_1, 0},
    {W_WKV_RATE_2,     "blk.%d.time_mix_a2.weight",        D_EMBD,      D_RANK_RATE, 0,         ON_WKV7,    D_1, 0},
    {B_WKV_RATE,       "blk.%d.time_mix_a0.weight",        D_1,         D_EMBD,      S_VEC,     ON_WKV7,    D_1, 0},
    {W_WKV_VALUE_1,    "blk.%d.time_mix_v1.weight",        D_RANK_RATE, D_EMBD,      S_OPT | S_FIRST, ON_WKV7, D_1, 0},
    {W_WKV_VALUE_1,    "blk.%d.time_mix_v1.weight",        D_RANK_VALUE, D_EMBD,     0,         ON_WKV7,    D_1, 0},
    {W_WKV_VALUE_2,    "blk.%d.time_mix_v2.weight",        D_EMBD,      D_RANK_RATE, S_OPT | S_FIRST, ON_WKV7, D_1, 0},
    {W_WKV_VALUE_2,    "blk.%d.time_mix_v2.weight",        D_EMBD,      D_RANK_VALUE, 0,        ON_WKV7,    D_1, 0},
    {B_WKV_VALUE,      "blk.%d.time_mix_v0.weight",        D_1,         D_EMBD,      S_OPT_VEC | S_FIRST, ON_WKV7, D_1, 0},
    {B_WKV_VALUE,      "blk.%d.time_mix_v0.weight",        D_1,         D_EMBD,      S_VEC,     ON_WKV7,    D_1, 0},
    {W_WKV_GATE_1,     "blk.%d.time_mix_g1.weight",        D_RANK_GATE, D_EMBD,      0,         ON_WKV7,    D_1, 0},
    {W_WKV_GATE_1,     "blk.%d.ssm_g_a.weight",            D_REC_HEAD,  D_EMBD,      0,         ON_KDA,     D_1, 0},
    {W_WKV_GATE_2,     "blk.%d.time_mix_g2.weight",        D_EMBD,      D_RANK_GATE, 0,         ON_WKV7,    D_1, 0},
    {W_WKV_GATE_2,     "blk.%d.ssm_g_b.weight",            D_REC_V,     D_REC_HEAD,  0,         ON_KDA,     D_1, 0},
    {W_WKV_KEY,        "blk.%d.time_mix_k_k.weight",       D_1,         D_EMBD,      S_VEC,     ON_WKV7,    D_1, 0},
    {W_WKV_KEY_RATE,   "blk.%d.time_mix_k_a.weight",       D_1,         D_EMBD,      S_VEC,     ON_WKV7,    D_1, 0},
    {W_WKV_SHARE,      "blk.%d.time_mix_r_k.weight",       D_1,         D_EMBD,      S_VEC,     ON_WKV7,    D_1, 0},
    {W_WKV_FIRST,      "blk.%d.time_mix_first.weight",     D_REC_HEADS, D_REC_KEY,   S_VEC,     ON_WKV6,    D_1, A_LAYER_NORM},
    {W_WKV_NORM,       "blk.%d.time_mix_ln.weight",        D_1,         D_EMBD,      S_VEC,     ON_WKV,     D_1, A_LAYER_NORM},
    {W_WKV_NORM,       "blk.%d.time_mix_ln.weight",        D_1,         D_EMBD,      S_OPT_VEC, ON_WKV7,    D_1, 0},
    {B_WKV_NORM,       "blk.%d.time_mix_ln.bias",          D_1,         D_EMBD,      S_VEC,     ON_WKV,     D_1, A_LAYER_NORM},
    {B_WKV_NORM,       "blk.%d.time_mix_ln.bias",          D_1,         D_EMBD,      S_OPT_VEC, ON_WKV7,    D_1, 0},
    {W_MIX_LERP_K,     "blk.%d.channel_mix_lerp_k.weight", D_1,         D_EMBD,      S_VEC,     ON_CHANNELS, D_1, 0},
    {W_MIX_LERP_R,     "blk.%d.channel_mix_lerp_r.weight", D_1,         D_EMBD,      S_OPT_VEC, ON_CHANNELS, D_1, 0},
    {W_MIX_KEY,        "blk.%d.channel_mix_key.weight",    D_FF,        D_EMBD,      0,         ON_CHANNELS, D_1, 0},
    {W_MIX_VALUE,      "blk.%d.channel_mix_value.weight",  D_EMBD,      D_FF,        0,         ON_CHANNELS, D_1, 0},
    {W_MIX_R,          "blk.%d.channel_mix_receptance.weight", D_EMBD,  D_EMBD,      S_OPT,     ON_CHANNELS, D_1, 0},
    {W_BY_TOKEN,       "per_layer_token_embd.weight",      D_VOCAB,     D_LAYERS,    0,         ON_MODEL,   D_1, A_BY_LAYER},
    {W_BY_STREAM,      "per_layer_model_proj.weight",      D_LAYERS,    D_EMBD,      0,         ON_MODEL,   D_1, A_BY_LAYER},
    {W_BY_NORM,        "per_layer_proj_norm.weight",       D_1,         D_LAYER,     S_VEC,     ON_MODEL,   D_1, A_BY_LAYER},
    {W_BY_GATE,        "blk.%d.inp_gate.weight",           D_LAYER,     D_EMBD,      0,         ON_MIXERS,  D_1, A_BY_LAYER},
    {W_BY_PROJ,        "blk.%d.proj.weight",               D_EMBD,      D_LAYER,     0,         ON_MIXERS,  D_1, A_BY_LAYER},
    {W_BY_POST_NORM,   "blk.%d.post_norm.weight",          D_1,         D_LAYER_EMBD, S_VEC,    ON_MIXERS,  D_1, A_BY_LAYER},
    {W_LAYER_SCALE,    "blk.%d.layer_output_scale.weight", D_1,         D_1,         S_OPT_VEC, ON_MIXERS,  D_1, A_BY_LAYER},
    {W_ROUTER_NORM,    "blk.%d.ffn_gate_inp.scale",        D_1,         D_EMBD,      S_VEC,     ON_BESIDE,  D_1, 0},
    {W_EXPS_NORM,      "blk.%d.ffn_norm_exps.weight",      D_1,         D_EMBD,      S_VEC,     ON_ASIDE,   D_1, 0},
    {W_EXPS_NORM,      "blk.%d.pre_ffw_norm_2.weight",     D_1,         D_EMBD,      S_VEC,     ON_BESIDE,  D_1, 0},
    {W_EXPS_POST_NORM, "blk.%d.post_ffw_norm_2.weight",    D_1,         D_EMBD,      S_VEC,     ON_BESIDE,  D_1, 0},
    {W_DENSE_POST_NORM, "blk.%d.post_ffw_norm_1.weight",   D_1,         D_EMBD,      S_VEC,     ON_BESIDE,  D_1, 0},
    {W_STREAM_IN,      "altup_proj.weight",                D_EMBD,      D_EMBD,      0,         ON_MODEL,   D_STREAMS, A_ALTUP},
    {W_STREAM_OUT,     "altup_unembd_proj.weight",         D_EMBD,      D_EMBD,      0,         ON_MODEL,   D_STREAMS, A_ALTUP},
    {W_ALT_ROUTER,     "blk.%d.altup_router.weight",       D_STREAM,    D_EMBD,      0,         ON_MIXERS,  D_1, A_ALTUP},
    {W_ALT_NORM,       "blk.%d.altup_router_norm.weight",  D_1,         D_EMBD,      S_VEC,     ON_MIXERS,  D_1, A_ALTUP},
    {W_ALT_PREDICT,    "blk.%d.altup_predict_coef.weight", D_STREAM_PAIRS, D_STREAM, 0,         ON_MIXERS,  D_1, A_ALTUP},
    {W_ALT_CORRECT,    "blk.%d.altup_correct_coef.weight", D_STREAM,    D_STREAM,    0,         ON_MIXERS,  D_1, A_ALTUP},
    {W_ALT_SCALE,      "blk.%d.altup_correct_scale.weight", D_1,        D_EMBD,      S_VEC,     ON_MIXERS,  D_1, A_ALTUP},
    {W_LAUREL_IN,      "blk.%d.laurel_l.weight",           D_FILE,      D_EMBD,      0,         ON_MIXERS,  D_1, A_ALTUP},
    {W_LAUREL_OUT,     "blk.%d.laurel_r.weight",           D_EMBD,      D_FILE,      0,         ON_MIXERS,  D_1, A_ALTUP},
    {W_LAUREL_NORM,    "blk.%d.laurel_post_norm.weight",   D_1,         D_EMBD,      S_VEC,     ON_MIXERS,  D_1, A_ALTUP},
    {W_HC_ATTN_NORM,   "blk.%d.hc_attn_norm.weight",       D_1,         D_WIDE,      S_VEC,     ON_MIXERS,  D_1, 0, Q_STREAMS},
    {W_HC_ATTN_DOWN,   "blk.%d.hc_attn_down.weight",       D_STREAM_RANK, D_WIDE,    0,         ON_MIXERS,  D_1, 0, Q_STREAMS},
    {W_HC_ATTN_UP,     "blk.%d.hc_attn_up.weight",         D_WIDE,      D_STREAM_RANK, 0,       ON_MIXERS,  D_1, 0, Q_STREAMS},
    {W_HC_ATTN_INJECT, "blk.%d.hc_attn_inject.weight",     D_STREAM,    D_WIDE,      0,         ON_MIXERS,  D_1, 0, Q_STREAMS},
    {W_HC_FFN_NORM,    "blk.%d.hc_ffn_norm.weight",        D_1,         D_WIDE,      S_VEC,     ON_MIXERS,  D_1, 0, Q_STREAMS},
    {W_HC_FFN_DOWN,    "blk.%d.hc_ffn_down.weight",        D_STREAM_RANK, D_WIDE,    0,         ON_MIXERS,  D_1, 0, Q_STREAMS},
    {W_HC_FFN_UP,      "blk.%d.hc_ffn_up.weight",          D_WIDE,      D_STREAM_RANK, 0,       ON_MIXERS,  D_1, 0, Q_STREAMS},
    {W_HC_FFN_INJECT,  "blk.%d.hc_ffn_inject.weight",      D_STREAM,    D_WIDE,      0,         ON_MIXERS,  D_1, 0, Q_STREAMS},
    {W_HC_OUT_NORM,    "output_hc_norm.weight",            D_1,         D_WIDE,      S_VEC,     ON_MODEL,   D_1, 0, Q_STREAMS},
    {W_HC_OUT_DOWN,    "output_hc_down.weight",            D_STREAM_RANK, D_WIDE,    0,         ON_MODEL,   D_1, 0, Q_STREAMS},
    {W_HC_OUT_UP,      "output_hc_up.weight",              D_WIDE,      D_STREAM_RANK, 0,       ON_MODEL,   D_1, 0, Q_STREAMS},
    {W_GRAMS,          "per_layer_token_embd.weight",      D_GRAM_ROWS, D_GRAM_ROW,  S_LONG,    ON_MODEL,   D_1, 0, Q_STREAMS},
    {W_GRAM_KEY,       "blk.%d.ple_key.weight",            D_GRAM_WIDE, D_GRAM_HEADS, 0,        ON_DELTA,   D_1, 0, Q_STREAMS},
    {W_GRAM_VALUE,     "blk.%d.ple_value.weight",          D_GRAM_EMBD, D_GRAM_HEADS, 0,        ON_DELTA,   D_1, 0, Q_STREAMS},
    {W_GRAM_KEY_NORM,  "blk.%d.ple_norm_key.weight",       D_1,         D_GRAM_WIDE, S_VEC,     ON_DELTA,   D_1, 0, Q_STREAMS},
    {W_GRAM_QUERY_NORM, "blk.%d.ple_norm_query.weight",    D_1,         D_GRAM_WIDE, S_VEC,     ON_DELTA,   D_1, 0, Q_STREAMS},
    {W_GRAM_CONV_NORM, "blk.%d.ple_norm_conv.weight",      D_1,         D_GRAM_WIDE, S_VEC,     ON_DELTA,   D_1, 0, Q_STREAMS},
    {W_GRAM_TAPS,      "blk.%d.ple_conv1d.weight",         D_GRAM_WIDE, D_GRAM_TAPS, 0,         ON_DELTA,   D_1, 0, Q_STREAMS},
    {W_DISTANCE,        "enc.blk.%d.attn_rel_b.weight",     D_BUCKETS,   D_HEAD,      S_OPT,     ON_ATTN,    D_1, 0, Q_BUCKETS},
    {W_DISTANCE,        "dec.blk.%d.attn_rel_b.weight",     D_BUCKETS,   D_HEAD,      S_OPT,     ON_CROSS,   D_1, 0, Q_BUCKETS},
    {W_CROSS_NORM,      "dec.blk.%d.cross_attn_norm.weight", D_1,         D_EMBD,      S_VEC,     ON_CROSS,   D_1, 0, Q_BUCKETS},
    {W_CROSS_Q,         "dec.blk.%d.cross_attn_q.weight",   D_Q,         D_EMBD,      0,         ON_CROSS,   D_1, 0, Q_BUCKETS},
    {W_CROSS_K,         "dec.blk.%d.cross_attn_k.weight",   D_K,         D_EMBD,      0,         ON_CROSS,   D_1, 0, Q_BUCKETS},
    {W_CROSS_V,         "dec.blk.%d.cross_attn_v.weight",   D_V,         D_EMBD,      0,         ON_CROSS,   D_1, 0, Q_BUCKETS},
    {W_CROSS_O,         "dec.blk.%d.cross_attn_o.weight",   D_EMBD,      D_O,         0,         ON_CROSS,   D_1, 0, Q_BUCKETS},
    {W_INDEX_Q,         "blk.%d.indexer.attn_q_b.weight",   D_INDEX,     D_Q_RANK,    S_CHOICE,  ON_POOLED,  D_1, 0},
    {W_INDEX_Q,         "blk.%d.indexer.attn_q_b.weight",   D_INDEX,     D_Q_RANK,    S_CHOICE,  ON_LATENT,  D_1, 0, Q_INDEX},
    {W_INDEX_Q,         "blk.%d.indexer.q_proj.weight",     D_INDEX,     D_EMBD,      S_CHOICE,  ON_ATTN,    D_1, 0, Q_INDEX},
    {W_INDEX_K,         "blk.%d.indexer.attn_k.weight",     D_INDEX_HEAD, D_EMBD,      S_CHOICE,  ON_LATENT,  D_1, 0, Q_INDEX},
    {W_INDEX_K,         "blk.%d.indexer.k_proj.weight",     D_INDEX_HEAD, D_EMBD,      S_CHOICE,  ON_ATTN,    D_1, 0, Q_INDEX},
    {W_INDEX_SHARE,     "blk.%d.indexer.proj.weight",       D_INDEX_HEADS, D_EMBD,      S_CHOICE,  ON_POOLED,  D_1, 0},
    {W_INDEX_SHARE,     "blk.%d.indexer.proj.weight",       D_INDEX_HEADS, D_EMBD,      S_CHOICE,  ON_LATENT,  D_1, 0, Q_INDEX},
    {W_INDEX_Q_NORM,    "blk.%d.indexer.q_norm.weight",     D_1,         D_INDEX_HEAD, S_CHOICE_VEC, ON_ATTN,    D_1, 0, Q_INDEX},
    {W_INDEX_K_NORM,    "blk.%d.indexer.k_norm.weight",     D_1,         D_INDEX_HEAD, S_CHOICE_VEC, ON_ATTN,    D_1, 0, Q_INDEX},
    {W_INDEX_K_NORM,    "blk.%d.indexer.k_norm.weight",     D_1,         D_INDEX_HEAD, S_CHOICE_VEC, ON_LATENT,  D_1, 0, Q_INDEX},
    {B_INDEX_K_NORM,    "blk.%d.indexer.k_norm.bias",       D_1,         D_INDEX_HEAD, S_CHOICE_VEC, ON_LATENT,  D_1, 0, Q_INDEX},
    {W_NEXTN_EMBD,     "blk.%d.nextn.embed_tokens.weight", D_VOCAB,     D_EMBD,      S_OPT,     ON_NEXTN,   D_1, 0},
    {W_NEXTN_TOKEN_NORM, "blk.%d.nextn.enorm.weight",      D_1,         D_EMBD,      S_VEC,     ON_NEXTN,   D_1, 0},
    {W_NEXTN_STATE_NORM, "blk.%d.nextn.hnorm.weight",      D_1,         D_EMBD,      S_VEC,     ON_NEXTN,   D_1, 0},
    {W_NEXTN_PROJ,     "blk.%d.nextn.eh_proj.weight",      D_EMBD,      D_EMBD_PAIR, 0,         ON_NEXTN,   D_1, 0},
    {W_NEXTN_NORM,     "blk.%d.nextn.shared_head_norm.weight", D_1,     D_EMBD,      S_OPT_VEC, ON_NEXTN,   D_1, 0},
    {W_NEXTN_LATE_NORM, "blk.%d.layer_output_norm.weight", D_1,         D_EMBD,      S_OPT_VEC, ON_NEXTN,   D_1, 0},
    {W_NEXTN_OUTPUT,   "blk.%d.nextn.shared_head_head.weight", D_VOCAB, D_EMBD,      S_OPT,     ON_NEXTN,   D_1, 0},
    {W_ASSIST_IN,      "blk.%d.nextn.pre_projection.weight", D_EMBD,    D_STATE_PAIR, S_FIRST,  ON_ATTN,    D_1, A_ASSIST},
    {W_ASSIST_OUT,     "nextn.post_projection.weight",     D_STATE,     D_EMBD,      0,         ON_MODEL,   D_1, A_ASSIST},
};
#pragma GCC diagnostic pop
enum { ARCH_SLOT_ROWS = sizeof arch_slots / sizeof *arch_slots };

/* The row that describes a tensor of layer il (-1: of the model); NULL: it has none. */
static const arch_slot *arch_slot_of(const arch_hparams *hp, arch_slot_id id, int il) {
    const arch_layer_hp *l = &hp->layer[max_int(il, 0)];
    const unsigned       both = il >= 0 && l->ffn >= FFN_BESIDE ? ON_DENSE | ON_EXPERTS : 0;
    const unsigned       head = il >= hp->n_layer ? ON_NEXTN : 0;
    const unsigned       what = il < 0 ? ON_MODEL : (unsigned)ON_MIXER << l->mixer | (unsigned)ON_FFN << l->ffn | both | head;
    for (const arch_slot *s = arch_slots; s < arch_slots + ARCH_SLOT_ROWS; s++) {
        if (s->id != id || !(s->on & what) || (s->flags & S_FIRST && il)) continue;
        if (!arch__is_for(hp->desc, s->traits, s->quirks)) continue;
        return s->name && arch_dim(hp, s->out, il) && arch_dim(hp, s->in, il) && arch_dim(hp, s->stack, il) ? s : NULL;
    }
    return NULL;
}
