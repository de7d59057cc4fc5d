/* ===== [quant] offline quantisation =====
 * A file type is a base type with exceptions: tensors that matter more, by their role in the model and by their layer, get
 * more bits than the base, and a few get fewer. The tables quant_files, quant_kept, quant_roles, quant_rules and quant_fallback
 * say which. The choices are those of llama.cpp (src/llama-quant.cpp, August 2026), so that a file type means the same in both.
 * Weights are converted in pieces of a row, shared by the threads: memory does not grow with the model, except for blocks of a
 * guide, and neither threads nor pieces change a byte. Metadata and tensors keep their order; a model in parts becomes one file.
 * A weight that is not finite, or too large for the type (k_most), is an error that names its tensor. A run that fails leaves no
 * file.
 * To add a mixture:
 *   1. FT_NAME in quant_ft, before FT_COPY; 64 at most, since a rule has a bit for each.
 *   2. A row of quant_files: its number is llama.cpp's, its base a type with a fit in k_fitters or `quant` in k_types.
 *   3. Rows of quant_rules for the tensors that leave its base. The first row that matches counts, and rows of FT_ANY match
 *      every mixture: a row stands before those of its tensors.
 *   4. Its name in FILES of tests/gen/quant_types.py, which asks llama.cpp for the type of every tensor, and in TYPES of
 *      tests/bench/quality.py. Then `build/test/tests quantize` and `python3 tests/cli.py ./llmrun quantize`. No test fails for a
 *      mixture without lines of llama.cpp.
 * Public: quant_opts, quant_guide, quant_knows, quant_run, quant_list, quant_type_of.
 * Opens: quant_opts, quant_guide, quant_merge. */

typedef enum {
    FT_F32, FT_F16, FT_BF16, FT_Q8_0, FT_Q6_K, FT_Q5_K_M, FT_Q5_K_S, FT_Q5_1, FT_Q5_0, FT_Q4_K_M, FT_Q4_K_S, FT_Q4_1,
    FT_Q4_0, FT_IQ4_NL, FT_IQ4_XS, FT_NVFP4, FT_MXFP4, FT_MXFP4_MOE, FT_Q3_K_L, FT_Q3_K_M, FT_Q3_K_S, FT_IQ3_M,
    FT_IQ3_S, FT_IQ3_XS, FT_IQ3_XXS, FT_Q2_K, FT_Q2_K_S, FT_Q2_0, FT_IQ2_M, FT_IQ2_S, FT_IQ2_XS, FT_IQ2_XXS, FT_TQ2_0,
    FT_TQ1_0, FT_IQ1_M, FT_IQ1_S, FT_Q1_0, FT_COPY, N_FT
} quant_ft;

enum {
    QUANT_SAME = 255,     /* in place of a type: the type that it has so far */
    QUANT_TRIES = 100000, /* match steps of a pattern on a name; a usual one takes fewer than a thousand */
    QUANT_TRIES_KIB = 1024, /* memory of these */
};

static const struct {
    const char *name, *also;                          /* also: a second spelling */
    uint8_t     number, base;                         /* general.file_type; the type where no rule applies */
    const char *about;
} quant_files[N_FT] = {
    [FT_F32]       = {"F32",       NULL,   0,  K_F32,     "every matrix in single precision"},
    [FT_F16]       = {"F16",       NULL,   1,  K_F16,     "every matrix in half precision"},
    [FT_BF16]      = {"BF16",      NULL,   32, K_BF16,    "every matrix in bfloat16"},
    [FT_Q8_0]      = {"Q8_0",      NULL,   7,  K_Q8_0,    "all q8_0: almost equal to f16"},
    [FT_Q6_K]      = {"Q6_K",      NULL,   18, K_Q6_K,    "all q6_K"},
    [FT_Q5_K_M]    = {"Q5_K_M",    "Q5_K", 17, K_Q5_K,    "q5_K; output and half of attn_v and ffn_down q6_K"},
    [FT_Q5_K_S]    = {"Q5_K_S",    NULL,   16, K_Q5_K,    "q5_K; output q6_K"},
    [FT_Q5_1]      = {"Q5_1",      NULL,   9,  K_Q5_1,    "q5_1; output q6_K"},
    [FT_Q5_0]      = {"Q5_0",      NULL,   8,  K_Q5_0,    "q5_0; output q6_K"},
    [FT_Q4_K_M]    = {"Q4_K_M",    "Q4_K", 15, K_Q4_K,    "q4_K; output and half of attn_v and ffn_down q6_K: the usual choice"},
    [FT_Q4_K_S]    = {"Q4_K_S",    NULL,   14, K_Q4_K,    "q4_K; output q6_K, first attn_v and ffn_down q5_K"},
    [FT_Q4_1]      = {"Q4_1",      NULL,   3,  K_Q4_1,    "q4_1; output q6_K"},
    [FT_Q4_0]      = {"Q4_0",      NULL,   2,  K_Q4_0,    "q4_0; output q6_K"},
    [FT_IQ4_NL]    = {"IQ4_NL",    NULL,   25, K_IQ4_NL,  "iq4_nl, sixteen uneven steps; output q6_K"},
    [FT_IQ4_XS]    = {"IQ4_XS",    NULL,   30, K_IQ4_XS,  "iq4_xs, the same in super-blocks; output q6_K"},
    [FT_NVFP4]     = {"NVFP4",     NULL,   39, K_NVFP4,   "nvfp4; output q6_K"},
    [FT_MXFP4]     = {"MXFP4",     NULL,   38, K_MXFP4,   "mxfp4; embeddings and output q8_0"},
    [FT_MXFP4_MOE] = {"MXFP4_MOE", NULL,   38, K_MXFP4,   "experts mxfp4, everything else q8_0"},
    [FT_Q3_K_L]    = {"Q3_K_L",    NULL,   13, K_Q3_K,    "q3_K; attn_v, attn_output and ffn_down q5_K, output q6_K"},
    [FT_Q3_K_M]    = {"Q3_K_M",    "Q3_K", 12, K_Q3_K,    "q3_K; attn_v, attn_output and ffn_down q4_K, output q6_K"},
    [FT_Q3_K_S]    = {"Q3_K_S",    NULL,   11, K_Q3_K,    "q3_K; output q6_K"},
    [FT_IQ3_M]     = {"IQ3_M",     NULL,   27, K_IQ3_S,   "iq3_s; attn_v, attn_output and first ffn_down q4_K"},
    [FT_IQ3_S]     = {"IQ3_S",     NULL,   26, K_IQ3_S,   "iq3_s; output q6_K"},
    [FT_IQ3_XS]    = {"IQ3_XS",    NULL,   22, K_IQ3_S,   "iq3_s; attn_q, attn_k and middle feed-forward iq3_xxs"},
    [FT_IQ3_XXS]   = {"IQ3_XXS",   NULL,   23, K_IQ3_XXS, "iq3_xxs; attn_q and attn_k iq2_s, attn_output iq3_s"},
    [FT_Q2_K]      = {"Q2_K",      NULL,   10, K_Q2_K,    "q2_K; attn_v, attn_output and ffn_down q3_K, output q6_K"},
    [FT_Q2_K_S]    = {"Q2_K_S",    NULL,   21, K_Q2_K,    "q2_K; first ffn_down q4_K, output q6_K"},
    [FT_Q2_0]      = {"Q2_0",      NULL,   41, K_Q2_0,    "q2_0; embeddings q4_K, output q6_K"},
    [FT_IQ2_M]     = {"IQ2_M",     NULL,   29, K_IQ2_S,   "iq2_s; attn_v, attn_output and embeddings iq3_s, output q5_K"},
    [FT_IQ2_S]     = {"IQ2_S",     NULL,   28, K_IQ2_XS,  "iq2_xs; attn_v, attn_output and embeddings iq3_s, output q5_K"},
    [FT_IQ2_XS]    = {"IQ2_XS",    NULL,   20, K_IQ2_XS,  "iq2_xs; attn_v and embeddings q2_K, output q5_K"},
    [FT_IQ2_XXS]   = {"IQ2_XXS",   NULL,   19, K_IQ2_XXS, "iq2_xxs; attn_v and embeddings q2_K, output q5_K"},
    [FT_TQ2_0]     = {"TQ2_0",     NULL,   37, K_TQ2_0,   "tq2_0, for models trained with three values; embeddings q4_K"},
    [FT_TQ1_0]     = {"TQ1_0",     NULL,   36, K_TQ1_0,   "tq1_0, the same in fewer bytes; embeddings q4_K"},
    [FT_IQ1_M]     = {"IQ1_M",     NULL,   31, K_IQ1_M,   "iq1_m; attn_v and embeddings q2_K, output q5_K"},
    [FT_IQ1_S]     = {"IQ1_S",     NULL,   24, K_IQ1_S,   "iq1_s; attn_v and embeddings q2_K, output q5_K"},
    [FT_Q1_0]      = {"Q1_0",      NULL,   40, K_Q1_0,    "q1_0, for models trained with two values; output q6_K"},
    [FT_COPY]      = {"COPY",      "AUTO", 0,  QUANT_SAME, "every tensor as it is; parts become one file"},
};

/* --- tensors that are kept, and roles of tensors, by name --- */

/* A matrix is converted if its name ends in "weight" and holds none of these: norms and routers, which are small and
 * sensitive, and small matrices of other kinds. A leading "=": the whole name. */
static const char *const quant_kept[] = {
    "_norm.weight", "ffn_gate_inp.weight", "ffn_gate_tid2eid.weight",              /* norms, routers              */
    "altup", "laurel", "per_layer_model_proj",                                      /* Gemma 3n                    */
    "=position_embd.weight", "=token_types.weight", "attn_rel_b.weight",            /* positions of BERT, T5       */
    "ssm_conv1d", "shortconv.conv.weight", "ple_conv1d.weight",                         /* short convolutions          */
    "indexer.k_proj.weight", "indexer.q_proj.weight", "_compressor_ape.weight",     /* sparse attention            */
    "hc_attn_fn.weight", "hc_ffn_fn.weight", "output_hc_fn.weight",                 /* hyper-connections           */
    "time_mix_first.weight", "time_mix_w0.weight", "time_mix_w1.weight", "time_mix_w2.weight", "time_mix_v0.weight",
    "time_mix_v1.weight", "time_mix_v2.weight", "time_mix_a0.weight", "time_mix_a1.weight", "time_mix_a2.weight",
    "time_mix_g1.weight", "time_mix_g2.weight", "time_mix_decay_w1.weight", "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight",                                                   /* RWKV                        */
    ".position_embd", "sam.pos_embd", "sam.neck.", "sam.net_", ".rel_pos", ".patch_embd", ".patch_merger",
    "a.rvq.codebook", "mm.a.code_embd",                                             /* images and sound            */
};

enum {
    R_OUT = 1, R_EMBD = 2, R_Q = 4, R_K = 8, R_V = 16, R_O = 32, R_UP = 64, R_GATE = 128, R_DOWN = 256, R_OTHER = 512,
    R_ANY = 1023
};

/* The first match counts. Fused and low-rank matrices count as attn_v: they need the same precision. */
static const struct {
    const char *part;                                 /* of the name; a leading "=": the whole name */
    uint16_t    role;
} quant_roles[] = {
    {"=output.weight", R_OUT},     {"=token_embd.weight", R_EMBD}, {"=per_layer_token_embd.weight", R_EMBD},
    {"attn_qkv.weight", R_V},      {"attn_kv_b.weight", R_V},      {"attn_v.weight", R_V},
    {"attn_k.weight", R_K},        {"attn_q.weight", R_Q},         {"attn_output.weight", R_O},
    {"ffn_up", R_UP},              {"ffn_gate", R_GATE},           {"ffn_down", R_DOWN},
};

/* --- rules: which tensor gets which type --- */

enum {                                                /* conditions: all of a row must hold */
    W_GQA4 = 1,                                       /* four query heads or more share a key head */
    W_WIDE = 2,                                       /* that, or four experts or more */
    W_EXP8 = 4,                                       /* eight experts, as Mixtral has */
    W_8TH = 8, W_16TH = 16,                           /* among the first eighth or sixteenth of the layers */
    W_MORE = 32,                                      /* first or last eighth, and every third layer between */
    W_MIDDLE = 64,                                    /* neither the first nor the last eighth */
    W_TWO = 128, W_FOUR = 256,                        /* among the first two or four of its role */
    W_GUIDED = 512, W_BLIND = 1024,                   /* with an importance matrix; without one */
    W_FALCON = 2048, W_OTHERS = 4096,                 /* Falcon, every other architecture */
    W_EXPERTS = 8192,                                 /* a stack of matrices */
    W_UNEVEN = 16384,                                 /* its rows are not whole blocks of the base type */
};

#define FT(x) (1ull << FT_##x)
#define FT_ANY    (~0ull)
#define FT_LOW_S  (FT(IQ2_S) | FT(IQ2_M))
#define FT_LOW_X  (FT(IQ2_XXS) | FT(IQ2_XS) | FT(IQ1_S) | FT(IQ1_M))
#define FT_LOW    (FT_LOW_S | FT_LOW_X)
#define FT_LIFT_O (FT(Q2_K) | FT(IQ3_XS) | FT(IQ3_XXS) | FT(Q3_K_S) | FT(Q3_K_M) | FT(IQ4_NL) | FT(Q4_K_S) | FT(Q4_K_M) | \
                   FT(IQ3_S) | FT(IQ3_M) | FT(IQ4_XS))

static const struct {
    uint64_t file;
    uint16_t role, when;
    uint8_t  type;
} quant_rules[] = {
    /* file types                          tensors        when                 type */
    /* the output matrix, or embeddings that are the output matrix too */
    {FT(MXFP4) | FT(MXFP4_MOE),            R_OUT,         0,                   K_Q8_0},
    {FT_ANY,                               R_OUT,         W_FALCON,            K_Q8_0},
    {FT_ANY,                               R_OUT,         W_UNEVEN,            K_Q8_0},
    {FT_LOW | FT(IQ3_XXS),                 R_OUT,         0,                   K_Q5_K},
    {FT(Q8_0),                             R_OUT,         0,                   K_Q8_0},
    {FT_ANY,                               R_OUT,         0,                   K_Q6_K},
    {FT(MXFP4_MOE),                        R_ANY,         W_EXPERTS,           K_MXFP4},
    {FT(MXFP4_MOE),                        R_ANY,         0,                   K_Q8_0},
    /* embeddings where there is an output matrix */
    {FT_LOW_X,                             R_EMBD,        0,                   K_Q2_K},
    {FT_LOW_S | FT(IQ3_XXS),               R_EMBD,        0,                   K_IQ3_S},
    {FT(TQ1_0) | FT(TQ2_0) | FT(Q2_0),     R_EMBD,        0,                   K_Q4_K},
    {FT(MXFP4),                            R_EMBD,        0,                   K_Q8_0},
    /* below three bits a weight */
    {FT_LOW,                               R_V,           W_WIDE,              K_Q4_K},
    {FT_LOW_S,                             R_V,           0,                   K_IQ3_S},
    {FT_LOW_X,                             R_V,           0,                   K_Q2_K},
    {FT_LOW,                               R_K,           W_EXP8,              K_Q4_K},
    {FT_LOW_S,                             R_DOWN,        W_8TH,               K_IQ3_S},
    {FT_LOW_X,                             R_DOWN,        W_8TH,               K_Q2_K},
    {FT_LOW,                               R_O,           W_EXP8,              K_Q5_K},
    {FT(IQ1_S) | FT(IQ1_M),                R_O,           0,                   K_IQ2_XXS},
    {FT_LOW_S,                             R_O,           0,                   K_IQ3_S},
    {FT_LOW,                               R_ANY,         0,                   QUANT_SAME},
    /* values: small, and the most sensitive */
    {FT_ANY,                               R_V,           W_EXP8,              K_Q8_0},
    {FT(Q2_K) | FT(Q2_K_S) | FT(IQ3_XXS) | FT(IQ3_XS) | FT(IQ3_S), R_V, W_GQA4, K_Q4_K},
    {FT(Q2_K),                             R_V,           0,                   K_Q3_K},
    {FT(IQ3_XXS),                          R_V,           W_BLIND,             K_IQ3_S},
    {FT(Q3_K_M),                           R_V,           W_TWO,               K_Q5_K},
    {FT(Q3_K_M) | FT(IQ3_M),               R_V,           0,                   K_Q4_K},
    {FT(Q3_K_L),                           R_V,           0,                   K_Q5_K},
    {FT(IQ4_NL) | FT(IQ4_XS),              R_V,           W_GQA4,              K_Q5_K},
    {FT(Q4_K_M) | FT(Q5_K_M),              R_V,           W_MORE,              K_Q6_K},
    {FT(Q4_K_S),                           R_V,           W_FOUR,              K_Q5_K},
    /* keys, queries */
    {FT_ANY,                               R_K,           W_EXP8,              K_Q8_0},
    {FT(IQ3_XS),                           R_K | R_Q,     0,                   K_IQ3_XXS},
    {FT(IQ3_XXS),                          R_K | R_Q,     0,                   K_IQ2_S},
    /* ffn_down: its inputs have the widest range */
    {FT(Q2_K),                             R_DOWN,        0,                   K_Q3_K},
    {FT(Q2_K_S),                           R_DOWN,        W_8TH,               K_Q4_K},
    {FT(IQ3_XXS),                          R_DOWN,        W_BLIND | W_8TH,     K_Q4_K},
    {FT(IQ3_XXS),                          R_DOWN,        W_BLIND,             K_Q3_K},
    {FT(Q3_K_M),                           R_DOWN,        W_16TH,              K_Q5_K},
    {FT(Q3_K_M),                           R_DOWN,        W_OTHERS,            K_Q4_K},
    {FT(Q3_K_M),                           R_DOWN,        W_MORE,              K_Q4_K},
    {FT(IQ3_M),                            R_DOWN,        W_8TH,               K_Q4_K},
    {FT(IQ3_M),                            R_DOWN,        W_EXP8 | W_MORE,     K_Q4_K},
    {FT(Q3_K_L),                           R_DOWN,        W_FALCON,            K_Q4_K},
    {FT(Q3_K_L),                           R_DOWN,        0,                   K_Q5_K},
    {FT(Q4_K_M),                           R_DOWN,        W_FALCON | W_16TH,   K_Q6_K},
    {FT(Q4_K_M),                           R_DOWN,        W_FALCON | W_MORE,   K_Q5_K},
    {FT(Q4_K_M),                           R_DOWN,        W_OTHERS | W_MORE,   K_Q6_K},
    {FT(IQ4_NL) | FT(IQ4_XS),              R_DOWN,        W_BLIND | W_8TH,     K_Q5_K},
    {FT(Q5_K_M),                           R_DOWN,        W_MORE,              K_Q6_K},
    {FT(Q4_K_S),                           R_DOWN,        W_OTHERS | W_8TH,    K_Q5_K},
    {FT(Q4_0),                             R_DOWN,        W_GUIDED | W_8TH,    K_Q4_1},
    {FT(Q5_0),                             R_DOWN,        W_GUIDED | W_8TH,    K_Q5_1},
    /* attn_output */
    {FT(Q3_K_L),                           R_O,           W_FALCON,            K_Q4_K},
    {FT_ANY,                               R_O,           W_FALCON,            QUANT_SAME},
    {FT_LIFT_O,                            R_O,           W_EXP8,              K_Q5_K},
    {FT_ANY,                               R_O,           W_EXP8,              QUANT_SAME},
    {FT(Q2_K),                             R_O,           0,                   K_Q3_K},
    {FT(IQ3_XXS),                          R_O,           0,                   K_IQ3_S},
    {FT(Q3_K_M) | FT(IQ3_M),               R_O,           0,                   K_Q4_K},
    {FT(Q3_K_L),                           R_O,           0,                   K_Q5_K},
    {FT(IQ3_XS),                           R_GATE | R_UP, W_MIDDLE,            K_IQ3_XXS},
};

/* The type that replaces one whose blocks do not divide a row. A type without an entry is replaced by f16. */
static const uint8_t quant_fallback[K_TYPE_MAX] = {
    [K_Q2_K] = K_Q4_0, [K_Q3_K] = K_Q4_0, [K_Q4_K] = K_Q5_0, [K_Q5_K] = K_Q5_1, [K_Q6_K] = K_Q8_0,
    [K_TQ1_0] = K_Q4_0, [K_TQ2_0] = K_Q4_0, [K_Q2_0] = K_Q4_0, [K_Q1_0] = K_Q4_0, [K_NVFP4] = K_Q4_0,
    [K_IQ1_S] = K_IQ4_NL, [K_IQ1_M] = K_IQ4_NL, [K_IQ2_XXS] = K_IQ4_NL, [K_IQ2_XS] = K_IQ4_NL, [K_IQ2_S] = K_IQ4_NL,
    [K_IQ3_XXS] = K_IQ4_NL, [K_IQ3_S] = K_IQ4_NL, [K_IQ4_XS] = K_IQ4_NL,
    [K_I2_S] = K_Q4_0, [K_IQ2_K] = K_IQ4_NL, [K_IQ3_K] = K_IQ4_NL, [K_IQ4_K] = K_IQ4_NL, [K_IQ5_K] = K_Q5_1, [K_IQ6_K] = K_Q8_0,
    [K_IQ1_KT] = K_IQ4_NL, [K_IQ2_KT] = K_IQ4_NL, [K_IQ3_KT] = K_IQ4_NL, [K_IQ4_KT] = K_IQ4_NL, [K_IQ2_KS] = K_IQ4_NL,
    [K_IQ2_KL] = K_IQ4_NL, [K_IQ3_KS] = K_IQ4_NL, [K_IQ4_KS] = K_IQ4_NL, [K_IQ4_KSS] = K_IQ4_NL, [K_IQ5_KS] = K_Q5_1,
};

/* Models of 70 billion weights with few value heads for each query head: attn_v gets at least five bits. */
static const struct {
    const char *arch;
    int         layers;
    bool        grouped;                              /* only if key heads are shared */
} quant_70b[] = {{"llama", 80, true}, {"qwen2", 80, false}, {"deci", 80, false}, {"olmo", 80, false}, {"jais2", 68, false}};

/* --- options --- */

/* Knowledge about matrices beyond their weights: an importance matrix, or calibrated blocks. */
typedef struct {
    void *ctx;
    /* Importance of each input channel, [dim[0]], of matrix `matrix` of the tensor (an expert; 0 in a plain tensor); NULL:
     * unknown. */
    const float *(*weights)(void *ctx, const gguf_tensor *t, uint64_t matrix);
    /* Called once, before the first write, with the new type `to` of each tensor; may be NULL. False: ends the run; e is set. */
    bool (*prepare)(void *ctx, const uint32_t *to, err_t *e);
    /* Tensor i, already converted; NULL: it is converted here. May be NULL. */
    const uint8_t *(*bytes)(void *ctx, uint64_t i);
} quant_guide;

/* What is added to the weights before they are converted; a tensor that changes is converted, also where it keeps its type. */
typedef struct {
    const void *ctx;
    bool (*changes)(const void *ctx, const gguf_tensor *t);
    /* Adds to x [n], which is what row `row`, counted through all matrices, has from column `col` on. tmp: [n] scratch. */
    void (*add)(const void *ctx, const gguf_tensor *t, uint64_t row, uint64_t col, int n, float *x, float *tmp);
} quant_merge;

typedef struct {
    const char  *output_type, *embd_type;             /* names; NULL: by the rules */
    const char **tensor_type;                         /* PATTERN=TYPE; the first match counts */
    int          n_tensor_type, n_threads;            /* 0 threads: what the process may use */
    bool         requantize, pure, leave_output, dry_run;
    const quant_guide *guide;                         /* NULL: all channels have the same importance */
    const quant_merge *merge;                         /* NULL: nothing is added */
    struct {                                          /* written to the metadata if `file` is set */
        const char *file;
        bytes       dataset;
        uint32_t    entries, chunks;
    } imatrix;
} quant_opts;

typedef struct {
    pcre2_code *code;
    uint32_t    type;
    bool        met;                                  /* it matches some tensor */
    bool        used;                                 /* one that it is the first to match gets its type, or has it */
} quant__pattern;

/* How one tensor is converted. */
typedef struct {
    const gguf_tensor *t;
    uint32_t           to;
    uint16_t           role;
    bool               fell;                          /* its rows do not fit the chosen type: it got another one */
    uint64_t           n_bytes;
    bool               merged;                        /* something is added to its weights */
} quant__step;

typedef struct {
    const gguf_file  *g;
    const quant_opts *o;
    quant_ft          ft;
    int               output_type, embd_type;         /* -1: by the rules */
    quant__pattern   *pattern;
    int               n_pattern;
    pcre2_match_data *match;
    pcre2_match_context *limits;
    quant__step      *step;                           /* [n_tensor], in the order of the file */
    bool              falcon;                         /* the architecture, which has rules of its own */
    bool              big;                            /* 70B, likewise */
    bool              tied;                           /* embeddings are the output matrix too */
    int               gqa;                            /* query heads of a K/V head */
    int               n_expert, n_layer;              /* of the model */
    int               n_v;                            /* tensors that count as attn_v */
    int               i_v, i_down, i_gate, i_up;      /* tensors of each role so far */
    uint64_t          from_bytes, to_bytes;           /* of all tensors, before and after */
    uint64_t          weights;                        /* of all tensors */
    int               n_fell;                         /* tensors whose rows the asked type does not divide */
    int               n_blind;                        /* tensors that lack an importance matrix */
} quant__plan;

/* --- names --- */

/* The row of quant_files with this name, in upper or lower case; -1: none. */
static int quant__find(const char *name) {
    for (int i = 0; i < N_FT; i++)
        if (!strcasecmp(quant_files[i].name, name) || (quant_files[i].also && !strcasecmp(quant_files[i].also, name))) return i;
    return -1;
}

/* A name in lower case, without separators. */
static bytes quant__plain(const char *name, char buf[32]) {
    size_t n = 0;
    for (; *name && n < 32; name++)
        if (isalnum((unsigned char)*name)) buf[n++] = (char)tolower((unsigned char)*name);
    return (bytes){(const uint8_t *)buf, n};
}

/* The row with the most similar name; -1: none is similar. */
static int quant__similar(const char *name) {
    char        a[32], b[32];
    const bytes typed = quant__plain(name, a);
    int         least = bytes_slack(typed) + 1, best = -1;
    for (int i = 0; i < N_FT; i++) {
        const int d = bytes_distance(typed, quant__plain(quant_files[i].name, b));
        if (d < least) least = d, best = i;
    }
    return best;
}

/* Whether --quantize takes the name of a type; `option` is what gave it. On failure e is set. */
static bool quant_knows(const char *option, const char *type, err_t *e) {
    const int near = quant__similar(type);
    if (quant__find(type) >= 0) return true;
    if (near >= 0)
        return err_set(e, EXIT_INPUT, "%s: unknown type '%.60s' (did you mean %s?)", option, type, quant_files[near].name);
    return err_set(e, EXIT_INPUT, "%s: unknown type '%.60s' (--list quants)", option, type);
}

/* Whether this program can quantise to this type. */
static bool quant__is_writable(uint32_t type) { return k_type_weight(type) && (k_fitters[type].fit || k_types[type].quant); }

/* Appends the type that a file names (general.file_type), such as Q4_K_M; without one, that of most bytes: "mostly f16". */
static void quant_type_of(const gguf_file *g, str *out) {
    uint64_t number = 0, of[K_TYPE_MAX] = {0};
    uint32_t most = 0;
    err_t    none = {0};
    const bool named = gguf_get_u64(g, "general.file_type", 0, UINT32_MAX, &number, &none) == 1;
    for (int i = 0; named && i < FT_COPY; i++)
        if (quant_files[i].number == number) {
            str_put(out, quant_files[i].name);
            return;
        }
    for (uint64_t i = 0; i < g->n_tensor; i++) of[g->tensor[i].type] += g->tensor[i].n_bytes;
    for (uint32_t i = 0; i < K_TYPE_MAX; i++)
        if (of[i] > of[most]) most = i;
    str_fmt(out, "mostly %s", k_types[most].name);
}

static bool quant__type(const char *option, const char *name, int *out, err_t *e) {
    *out = name ? k_type_by_name(name) : -1;
    if (!name || (*out >= 0 && k_type_weight((uint32_t)*out))) return true;
    return err_set(e, EXIT_INPUT, "%s: unknown type '%.60s', expected one for weights (--list types)", option, name);
}

static bool quant__has(bytes name, const char *part) {
    size_t n = strlen(part);
    if (*part == '=') return bytes_is(name, part + 1);
    return name.n >= n && memmem(name.p, name.n, part, n);
}

static uint16_t quant__role(bytes name) {
    for (size_t i = 0; i < sizeof quant_roles / sizeof *quant_roles; i++)
        if (quant__has(name, quant_roles[i].part)) return quant_roles[i].role;
    return R_OTHER;
}

/* The N of blk.N.; -1: another name. */
static int quant__layer(bytes name) {
    int n = 0;
    if (name.n < 5 || memcmp(name.p, "blk.", 4) || !isdigit(name.p[4])) return -1;
    for (size_t i = 4; i < name.n && isdigit(name.p[i]) && n < 100000000; i++) n = n * 10 + (name.p[i] - '0');
    return n;
}

static bool quant__matrix(const gguf_tensor *t) { return t->dim[1] > 1 || t->dim[2] > 1 || t->dim[3] > 1; }

/* Whether the tensor may change its type at all. */
static bool quant__allowed(const quant__plan *p, const gguf_tensor *t) {
    if (!quant__matrix(t) || !k_type_weight(t->type)) return false;
    if (t->name.n < 6 || memcmp(t->name.p + t->name.n - 6, "weight", 6)) return false;
    if (p->o->leave_output && bytes_is(t->name, p->tied ? "token_embd.weight" : "output.weight")) return false;
    for (size_t i = 0; i < sizeof quant_kept / sizeof *quant_kept; i++)
        if (quant__has(t->name, quant_kept[i])) return false;
    return true;
}

/* --- patterns --- */

static void quant__patterns_drop(quant__plan *p) {
    for (int i = 0; i < p->n_pattern; i++) pcre2_code_free(p->pattern[i].code);
    pcre2_match_data_free(p->match);
    pcre2_match_context_free(p->limits);
    mem_free(p->pattern);
}

/* Reads PATTERN=TYPE; the type follows the last '='. On failure e is set. */
static bool quant__pattern_read(quant__plan *p, const char *text, err_t *e) {
    const char *eq = strrchr(text, '=');
    int         type, rc;
    PCRE2_SIZE  at;
    if (!eq || eq == text) return err_set(e, EXIT_INPUT, "--tensor-type: expected PATTERN=TYPE, found '%.100s'", text);
    if (!quant__type("--tensor-type", eq + 1, &type, e)) return false;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)text, (size_t)(eq - text), PCRE2_CASELESS, &rc, &at, NULL);
    if (!code) {
        char why[128] = "";
        pcre2_get_error_message(rc, (PCRE2_UCHAR *)why, sizeof why);
        return err_set(e, EXIT_INPUT, "--tensor-type: %s at byte %zu of '%.100s'", why, (size_t)at, text);
    }
    p->pattern[p->n_pattern++] = (quant__pattern){code, (uint32_t)type, false, false};
    return true;
}

static bool quant__patterns(quant__plan *p, err_t *e) {
    if (!p->o->n_tensor_type) return true;
    p->pattern = mem_new((size_t)p->o->n_tensor_type, sizeof *p->pattern);
    p->match = pcre2_match_data_create(1, NULL);
    p->limits = pcre2_match_context_create(NULL);
    if (!p->match || !p->limits) die(EXIT_RESOURCE, "out of memory for regular expressions");
    pcre2_set_match_limit(p->limits, QUANT_TRIES);
    pcre2_set_heap_limit(p->limits, QUANT_TRIES_KIB);
    for (int i = 0; i < p->o->n_tensor_type; i++)
        if (!quant__pattern_read(p, p->o->tensor_type[i], e)) return false;
    return true;
}

/* The first pattern that matches the name; -1: none. */
static int quant__by_pattern(const quant__plan *p, bytes name, err_t *e) {
    int found = -1;
    for (int i = 0; i < p->n_pattern && !e->code; i++) {
        int rc = pcre2_match(p->pattern[i].code, name.p, name.n, 0, 0, p->match, p->limits);
        if (rc >= 0) {
            p->pattern[i].met = true;
            if (found < 0) found = i;
        } else if (rc != PCRE2_ERROR_NOMATCH)
            err_set(e, EXIT_INPUT, "--tensor-type %.100s: takes too many steps or too much memory to match %.*s, expected a "
                    "simpler pattern", p->o->tensor_type[i], GGUF_SHOW(name));
    }
    return found;
}

/* --- the choice --- */

/* A number of the architecture; of an array the first element. */
static int quant__number(const gguf_file *g, bytes arch, const char *what, int absent) {
    char     key[160];
    uint64_t v = 0;
    err_t    none = {0};
    snprintf(key, sizeof key, "%.*s.%s", (int)min_size(arch.n, 64), (const char *)arch.p, what);
    const gguf_kv *kv = gguf_find(g, key);
    if (!kv) return absent;
    if (kv->type == GGUF_ARR) return gguf_arr_u64(kv, 0, &v) && v <= INT32_MAX ? (int)v : absent;
    return gguf_get_u64(g, key, 0, INT32_MAX, &v, &none) == 1 ? (int)v : absent;
}

static void quant__read_model(quant__plan *p) {
    const gguf_file *g = p->g;
    bytes            arch = bytes_of("");
    err_t            none = {0};
    gguf_get_str(g, "general.architecture", &arch, &none);
    int head = quant__number(g, arch, "attention.head_count", 0), kv = quant__number(g, arch, "attention.head_count_kv", head);
    p->gqa = kv > 0 ? head / kv : 0;
    p->n_expert = quant__number(g, arch, "expert_count", 0);
    p->n_layer = quant__number(g, arch, "block_count", 0);
    p->falcon = bytes_is(arch, "falcon");
    p->tied = !gguf_tensor_find(g, "output.weight");
    for (size_t i = 0; i < sizeof quant_70b / sizeof *quant_70b; i++)
        if (bytes_is(arch, quant_70b[i].arch) && p->n_layer == quant_70b[i].layers && (!quant_70b[i].grouped || head != kv))
            p->big = true;
    for (uint64_t i = 0; i < g->n_tensor; i++) p->n_v += quant__role(g->tensor[i].name) == R_V;
}

/* The conditions that layer i of n meets. */
static unsigned quant__layer_conditions(int i, int n) {
    unsigned w = 0;
    int      eighth = n / 8, last = (int)(7ll * n / 8);
    if (i < eighth) w |= W_8TH;
    if (i < n / 16) w |= W_16TH;
    if (i < eighth || i >= last || (i - eighth) % 3 == 2) w |= W_MORE;
    if (i >= eighth && i < last) w |= W_MIDDLE;
    if (i < 2) w |= W_TWO;
    if (i < 4) w |= W_FOUR;
    return w;
}

/* The role that decides a tensor's type: tied embeddings are the output matrix too and count as that. */
static uint16_t quant__acts_as(const quant__plan *p, const quant__step *s) {
    return p->tied && s->role == R_EMBD ? R_OUT : s->role;
}

/* The conditions that a tensor meets. Its layer is its number among the tensors of its role; with experts, whose tensors may have
 * any order and number, it is the layer in its name. Below three bits it is the number in both cases. */
static unsigned quant__conditions(quant__plan *p, const quant__step *s, uint16_t role) {
    const bool      low = FT_LOW >> p->ft & 1;
    const uint8_t   base = quant_files[p->ft].base;
    int            *count = role == R_V ? &p->i_v : role == R_DOWN ? &p->i_down : role == R_GATE ? &p->i_gate : &p->i_up;
    const bool      placed = role & (R_V | R_DOWN | R_GATE | R_UP);
    int             i = placed ? (*count)++ : 0, layer = quant__layer(s->t->name);
    if (role != R_V && p->n_expert > 1 && !low && layer >= 0) i = layer;
    unsigned w = placed ? quant__layer_conditions(i, role == R_V ? p->n_v : p->n_layer) : 0;
    if (p->gqa >= 4) w |= W_GQA4;
    if (p->gqa >= 4 || p->n_expert >= 4) w |= W_WIDE;
    if (p->n_expert == 8) w |= W_EXP8;
    if (s->t->dim[2] > 1) w |= W_EXPERTS;
    if (s->t->dim[0] % k_types[base].block) w |= W_UNEVEN;
    return w | (p->o->guide ? W_GUIDED : W_BLIND) | (p->falcon ? W_FALCON : W_OTHERS);
}

static uint32_t quant__by_rule(quant__plan *p, const quant__step *s) {
    const uint32_t base = quant_files[p->ft].base;
    const uint16_t role = quant__acts_as(p, s);
    unsigned when = quant__conditions(p, s, role);
    uint32_t type = base;
    for (size_t i = 0; i < sizeof quant_rules / sizeof *quant_rules; i++) {
        if (!(quant_rules[i].file >> p->ft & 1) || !(quant_rules[i].role & role)) continue;
        if ((quant_rules[i].when & when) != quant_rules[i].when) continue;
        if (quant_rules[i].type != QUANT_SAME) type = quant_rules[i].type;
        break;
    }
    bool lift = p->big && role == R_V && !(FT_LOW >> p->ft & 1) && (type == K_Q3_K || type == K_Q4_K);
    return lift ? K_Q5_K : type;
}

/* The type, or its replacement where rows of this length do not fit. */
static uint32_t quant__fitting(quant__step *s, uint32_t type) {
    uint64_t n = s->t->dim[0];
    if (n % k_types[type].block == 0) return type;
    s->fell = true;
    uint32_t next = quant_fallback[type];
    return next && n % k_types[next].block == 0 ? next : K_F16;
}

static bool quant__choose(quant__plan *p, quant__step *s, err_t *e) {
    const uint8_t base = quant_files[p->ft].base;
    const int     found = quant__by_pattern(p, s->t->name, e);
    s->to = s->t->type;
    if (found >= 0 && p->pattern[found].type == s->to) p->pattern[found].used = true;  /* it stays, as asked */
    if (!quant__allowed(p, s->t)) return !e->code;
    int asked = s->role == R_EMBD ? p->embd_type : -1;
    if (asked < 0 && quant__acts_as(p, s) == R_OUT) asked = p->output_type;
    if (asked < 0 && found >= 0) asked = (int)p->pattern[found].type, p->pattern[found].used = true;
    bool mix = !p->o->pure && base != QUANT_SAME && k_types[base].kind != K_KIND_FLOAT;
    if (asked >= 0) s->to = (uint32_t)asked;
    else if (mix) s->to = quant__by_rule(p, s);
    else if (base != QUANT_SAME && !(k_types[base].kind == K_KIND_FLOAT && quant__has(s->t->name, "indexer.proj.weight")))
        s->to = base;                                 /* a checkpoint's indexer stays F32 in a file of floats */
    if (s->to != s->t->type) s->to = quant__fitting(s, s->to);
    return !e->code;
}

/* Whether the type loses much without an importance matrix for this tensor. */
static bool quant__wants_guide(const quant__plan *p, const quant__step *s) {
    if (s->role & (R_OUT | R_EMBD)) return false;
    switch (s->to) {
    case K_IQ1_S: case K_IQ1_M: case K_IQ2_XXS: case K_IQ2_XS: case K_IQ2_S: case K_IQ3_XXS: return true;
    case K_Q2_K: return p->ft == FT_Q2_K_S;
    default: return false;
    }
}

/* By layer, then by name: the order in which layers are counted. */
static int quant__order(const void *a, const void *b) {
    bytes  x = (*(quant__step *const *)a)->t->name, y = (*(quant__step *const *)b)->t->name;
    int    i = quant__layer(x), j = quant__layer(y), c = memcmp(x.p, y.p, min_size(x.n, y.n));
    return i != j ? (i < j ? -1 : 1) : c ? c : (x.n > y.n) - (x.n < y.n);
}

/* Whether the conversion is possible and allowed. On failure e is set. */
static bool quant__check_step(const quant__plan *p, const quant__step *s, err_t *e) {
    const gguf_tensor *t = s->t;
    const k_type      *from = &k_types[t->type], *to = &k_types[s->to];
    if (from->kind != K_KIND_FLOAT && !p->o->requantize && s->to != t->type)
        return gguf_bad(p->g, t->part, t->at, e, "tensor %.*s is %s already, expected a float type "
                        "(--allow-requantize converts it to %s)", GGUF_SHOW(t->name), from->name, to->name);
    if (quant__is_writable(s->to)) return true;
    return gguf_bad(p->g, t->part, t->at, e, "tensor %.*s would become %s, which cannot be written", GGUF_SHOW(t->name),
                    to->name);
}

/* Checks that each pattern gives a tensor its type: one without effect is a mistake. On failure e is set. */
static bool quant__check_patterns(const quant__plan *p, err_t *e) {
    for (int i = 0; i < p->n_pattern; i++)
        if (!p->pattern[i].met)
            return err_set(e, EXIT_INPUT, "--tensor-type: '%.100s' matches no tensor of %s (--inspect shows the names)",
                           p->o->tensor_type[i], p->g->path);
    for (int i = 0; i < p->n_pattern; i++)
        if (!p->pattern[i].used)
            return err_set(e, EXIT_INPUT, "--tensor-type: '%.100s' has no effect: each tensor of %s that it matches keeps its "
                           "type, or has it from an earlier pattern or another option", p->o->tensor_type[i], p->g->path);
    return true;
}

static bool quant__steps(quant__plan *p, err_t *e) {
    const uint64_t n = p->g->n_tensor;
    quant__step  **order = mem_new(n, sizeof *order);
    p->step = mem_new(n, sizeof *p->step);
    for (uint64_t i = 0; i < n; i++) {
        p->step[i] = (quant__step){.t = &p->g->tensor[i], .role = quant__role(p->g->tensor[i].name)};
        order[i] = &p->step[i];
    }
    qsort(order, n, sizeof *order, quant__order);
    bool ok = true;
    for (uint64_t i = 0; ok && i < n; i++) ok = quant__choose(p, order[i], e);
    ok = ok && quant__check_patterns(p, e);
    mem_free(order);
    for (uint64_t i = 0; ok && i < n; i++) {
        quant__step       *s = &p->step[i];
        const gguf_tensor *t = s->t;
        uint64_t           rows = t->dim[1] * t->dim[2] * t->dim[3];
        s->n_bytes = rows * k_row_bytes(s->to, (int64_t)t->dim[0]);
        p->weights += rows * t->dim[0];
        p->from_bytes += t->n_bytes;
        p->to_bytes += s->n_bytes;
        p->n_fell += s->fell;
        p->n_blind += s->to != t->type && !p->o->guide && quant__wants_guide(p, s);
        s->merged = p->o->merge && p->o->merge->changes(p->o->merge->ctx, t);
        if ((s->to != t->type || s->merged) && !p->o->dry_run) ok = quant__check_step(p, s, e);
    }
    return ok;
}

static void quant__plan_drop(quant__plan *p) {
    quant__patterns_drop(p);
    mem_free(p->step);
}

static bool quant__plan_make(quant__plan *p, const gguf_file *g, const char *type, const quant_opts *o, err_t *e) {
    *p = (quant__plan){.g = g, .o = o};
    const int ft = quant__find(type);
    if (!quant_knows("--quantize", type, e)) return false;
    p->ft = (quant_ft)ft;
    if (!quant__type("--output-tensor-type", o->output_type, &p->output_type, e) ||
        !quant__type("--token-embedding-type", o->embd_type, &p->embd_type, e) || !quant__patterns(p, e))
        return false;
    quant__read_model(p);
    return quant__steps(p, e);
}

/* --- the list --- */

/* Tensors of Llama 3.1 8B: what list shows bits of. */
enum { USUAL_LAYERS = 32, USUAL_EACH = 9, USUAL_TENSORS = 3 + USUAL_LAYERS * USUAL_EACH, USUAL_NAME = 32 };

/* Bits per weight of a file of this type, of the usual shape and without an importance matrix. */
static double quant__usual_bits(int ft) {
    static const struct {
        const char *name;
        uint64_t    cols, rows;
    } whole[] = {{"token_embd.weight", 4096, 128256}, {"output.weight", 4096, 128256}, {"output_norm.weight", 4096, 1}},
      layer[USUAL_EACH] = {{"attn_norm", 4096, 1},    {"attn_q", 4096, 4096},     {"attn_k", 4096, 1024},
                           {"attn_v", 4096, 1024},    {"attn_output", 4096, 4096}, {"ffn_norm", 4096, 1},
                           {"ffn_gate", 4096, 14336}, {"ffn_up", 4096, 14336},    {"ffn_down", 14336, 4096}};
    gguf_tensor     *t = mem_new(USUAL_TENSORS, sizeof *t);
    char           (*name)[USUAL_NAME] = mem_new(USUAL_TENSORS, sizeof *name);
    const gguf_file  g = {.tensor = t, .n_tensor = USUAL_TENSORS};
    const quant_opts o = {.dry_run = true};
    err_t            none = {0};
    quant__plan p = {.g = &g, .o = &o, .ft = (quant_ft)ft, .output_type = -1, .embd_type = -1, .n_v = USUAL_LAYERS, .gqa = 4,
                     .n_layer = USUAL_LAYERS};
    for (int i = 0; i < USUAL_TENSORS; i++) {
        const bool     in_layer = i >= 3;
        const uint64_t cols = in_layer ? layer[(i - 3) % USUAL_EACH].cols : whole[i].cols;
        const uint64_t rows = in_layer ? layer[(i - 3) % USUAL_EACH].rows : whole[i].rows;
        if (in_layer) snprintf(name[i], USUAL_NAME, "blk.%d.%s.weight", (i - 3) / USUAL_EACH, layer[(i - 3) % USUAL_EACH].name);
        else snprintf(name[i], USUAL_NAME, "%s", whole[i].name);
        t[i] = (gguf_tensor){.name = bytes_of(name[i]), .type = rows > 1 ? K_F16 : K_F32, .dim = {cols, rows, 1, 1}};
    }
    quant__steps(&p, &none);
    const double bits = 8.0 * (double)p.to_bytes / (double)p.weights;
    quant__plan_drop(&p);
    mem_free_all(t, name);
    return bits;
}

/* Appends the names that --quantize takes, a row each, with the bits per weight of a file of 8 billion weights, and what they
 * are. */
static void quant_list(str *out) {
    for (int i = 0; i < N_FT; i++) {
        const char *also = quant_files[i].also;
        char        bits[16] = "-";
        if (quant_files[i].base != QUANT_SAME) snprintf(bits, sizeof bits, "%.2f", quant__usual_bits(i));
        str_fmt(out, "%-10s %7s  %s%s%s%s\n", quant_files[i].name, bits, quant_files[i].about, also ? " (also " : "",
                also ? also : "", also ? ")" : "");
    }
}

/* --- the weights --- */

enum {
    QUANT_PIECE = 16384,                              /* weights at a time: whole blocks of every type */
    QUANT_SLICE = 1 << 22                             /* weights between two writes */
};

/* The thread that writes a slice while the next one is converted. It may sleep for long: where many programs write, the system
 * stops each until the disk has caught up, and a thread of the team would stop with it. */
typedef struct {
    pthread_t       thread;
    bool            runs;                             /* the thread exists */
    pthread_mutex_t lock;
    pthread_cond_t  turn;                             /* n or end has changed */
    gguf_writer    *w;
    const uint8_t  *p;
    size_t          n;                                /* bytes to write; 0: none */
    bool            end;
    bool            failed;                           /* so far; `e` says how */
    err_t           e;
} quant__sink;

static void *quant__sink_loop(void *arg) {
    quant__sink *s = arg;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->n && !s->end) pthread_cond_wait(&s->turn, &s->lock);
        if (!s->n) break;
        pthread_mutex_unlock(&s->lock);
        const bool ok = gguf_write_data(s->w, s->p, s->n, &s->e);
        pthread_mutex_lock(&s->lock);
        s->failed = s->failed || !ok;
        s->n = 0;
        pthread_cond_broadcast(&s->turn);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* Starts it. Where the system allows no thread, slices are written as they come. */
static void quant__sink_open(quant__sink *s, gguf_writer *w) {
    *s = (quant__sink){.w = w, .lock = PTHREAD_MUTEX_INITIALIZER, .turn = PTHREAD_COND_INITIALIZER};
    s->runs = host_thread(&s->thread, quant__sink_loop, s) == 0;
}

/* Waits until all is written. False: e is set. */
static bool quant__sink_wait(quant__sink *s, err_t *e) {
    pthread_mutex_lock(&s->lock);
    while (s->n) pthread_cond_wait(&s->turn, &s->lock);
    pthread_mutex_unlock(&s->lock);
    if (s->failed) *e = s->e;
    return !s->failed;
}

/* Hands n bytes over when those before them are written. They stay as they are until the next call returns. */
static bool quant__sink_put(quant__sink *s, const uint8_t *p, size_t n, err_t *e) {
    if (!quant__sink_wait(s, e)) return false;
    if (!s->runs) return gguf_write_data(s->w, p, n, e);
    pthread_mutex_lock(&s->lock);
    s->p = p;
    s->n = n;
    pthread_cond_broadcast(&s->turn);
    pthread_mutex_unlock(&s->lock);
    return true;
}

/* Ends the thread when it has written what it has. */
static void quant__sink_close(quant__sink *s) {
    pthread_mutex_lock(&s->lock);
    s->end = true;
    pthread_cond_broadcast(&s->turn);
    pthread_mutex_unlock(&s->lock);
    if (s->runs) pthread_join(s->thread, NULL);
}

/* The conversion of a slice: pieces [begin, end) of a tensor. Piece j is part j % per_row of row j / per_row. */
typedef struct {
    const quant__plan *p;
    const quant__step *s;
    pool              *pool;
    float            **buf;                           /* [threads][2 * QUANT_PIECE]: weights, importances */
    uint8_t           *out, *done;                    /* bytes of the slice, and of the one before, which is written meanwhile */
    quant__sink        sink;
    uint64_t           per_row;                       /* pieces of a row */
    uint64_t           begin, end;                    /* pieces of the slice */
    uint64_t           task;                          /* pieces that a thread takes at a time */
    float              most;                          /* the largest magnitude that the type can represent */
    _Atomic uint64_t   bad;                           /* the first piece with a larger weight; UINT64_MAX: none */
} quant__job;

static uint64_t quant__offset(const quant__job *j, uint32_t type, uint64_t piece) {
    uint64_t row = piece / j->per_row, col = piece % j->per_row * QUANT_PIECE;
    return row * k_row_bytes(type, (int64_t)j->s->t->dim[0]) + col / k_types[type].block * k_types[type].bytes;
}

/* Index of the first weight beyond `most`; n: none. */
static uint64_t quant__first_beyond(const float *x, uint64_t n, float most) {
    int bad = 0;
    for (uint64_t i = 0; i < n; i++) bad |= !(fabsf(x[i]) <= most);
    if (!bad) return n;
    uint64_t i = 0;
    while (fabsf(x[i]) <= most) i++;
    return i;
}

static uint64_t quant__piece_weights(const quant__job *j, uint64_t piece) {
    uint64_t left = j->s->t->dim[0] - piece % j->per_row * QUANT_PIECE;
    return min_u64(left, QUANT_PIECE);
}

/* Below four bits the importance of a weight grows with its magnitude: a large weight contributes more to the output than the
 * mean square of its channel says. This lowers the divergence of whole models by a tenth (tests/bench/NOTES.md); from four bits
 * up it does not. */
static const float *quant__emphasis(uint32_t type, const float *x, const float *w, float *out, uint64_t n) {
    if (k_types[type].bytes * 8 >= k_types[type].block * 4) return w;
    for (uint64_t from = 0; from < n; from += K_SUPER) {
        const uint64_t to = n - from < K_SUPER ? n : from + K_SUPER;
        double         square = 0;
        for (uint64_t i = from; i < to; i++) square += (double)x[i] * x[i];
        const double mean = square / (double)(to - from);
        for (uint64_t i = from; i < to; i++) {
            const double v = sqrt(mean + (double)x[i] * x[i]) * (w ? w[i] : 1);
            out[i] = v < FLT_MAX ? (float)v : FLT_MAX;
        }
    }
    return out;
}

/* Quantises n weights, whole blocks, of importance w (NULL: all the same). tmp: [n] scratch. */
static void quant__fit(uint32_t type, const float *x, const float *w, float *tmp, void *dst, uint64_t n) {
    if (k_fitters[type].fit) k_fitters[type].fit(x, quant__emphasis(type, x, w, tmp, n), dst, (int64_t)n);
    else k_types[type].quant(x, dst, (int64_t)n);
}

static void quant__merge(const quant__job *j, uint64_t piece, float *x, uint64_t n) {
    const quant_merge *m = j->p->o->merge;
    m->add(m->ctx, j->s->t, piece / j->per_row, piece % j->per_row * QUANT_PIECE, (int)n, x, x + QUANT_PIECE);
}

static void quant__piece(quant__job *j, uint64_t piece, float *x) {
    const gguf_tensor *t = j->s->t;
    const quant_guide *guide = j->p->o->guide;
    uint64_t           n = quant__piece_weights(j, piece), row = piece / j->per_row;
    gguf_floats(t, row, piece % j->per_row * QUANT_PIECE, x, n);
    if (j->s->merged) quant__merge(j, piece, x, n);
    if (quant__first_beyond(x, n, j->most) < n) {
        uint64_t first = atomic_load(&j->bad);
        while (piece < first && !atomic_compare_exchange_weak(&j->bad, &first, piece)) {}
        return;
    }
    const float *w = guide ? guide->weights(guide->ctx, t, row / t->dim[1]) : NULL;
    if (w) w += piece % j->per_row * QUANT_PIECE;
    uint8_t *dst = j->out + quant__offset(j, j->s->to, piece) - quant__offset(j, j->s->to, j->begin);
    quant__fit(j->s->to, x, w, x + QUANT_PIECE, dst, n);
}

static void quant__work(void *ctx, int ith) {
    quant__job *j = ctx;
    for (;;) {
        uint64_t from = j->begin + (uint64_t)pool_next(j->pool) * j->task;
        if (from >= j->end || g_interrupt) return;
        for (uint64_t i = from; i < from + j->task && i < j->end; i++) quant__piece(j, i, j->buf[ith]);
    }
}

static bool quant__refuse(const quant__job *j, uint64_t piece, err_t *e) {
    const gguf_tensor *t = j->s->t;
    float             *x = j->buf[0];
    uint64_t           n = quant__piece_weights(j, piece), at = quant__offset(j, t->type, piece);
    gguf_floats(t, piece / j->per_row, piece % j->per_row * QUANT_PIECE, x, n);
    if (j->s->merged) quant__merge(j, piece, x, n);
    double bad = (double)x[quant__first_beyond(x, n, j->most)];
    return gguf_bad(j->p->g, t->part, t->at + at, e, "tensor %.*s holds %g in row %llu, expected weights of at most %g",
                    GGUF_SHOW(t->name), bad, GGUF_U(piece / j->per_row), (double)j->most);
}

/* Gives pages of a tensor back that are no longer needed. */
static void quant__drop_pages(const quant__plan *p, const gguf_tensor *t, uint64_t from, uint64_t to) {
    gguf_drop_pages(p->g, t->data + from, to - from);
}

/* After each slice. False: stop; e is set unless it was an interrupt. */
static bool quant__continue(const quant__plan *p, err_t *e) {
    if (g_interrupt) return false;
    return gguf_alive(p->g, e);
}

/* Converts a tensor. Its last slice may not be written yet. */
static bool quant__convert(quant__job *j, err_t *e) {
    const gguf_tensor *t = j->s->t;
    uint64_t           n = min_u64(t->dim[0], QUANT_PIECE), slice = QUANT_SLICE / n;
    j->per_row = (t->dim[0] + QUANT_PIECE - 1) / QUANT_PIECE;
    j->task = n < QUANT_PIECE ? QUANT_PIECE / n : 1;
    j->most = k_most(j->s->to);
    atomic_store(&j->bad, UINT64_MAX);
    const uint64_t all = t->dim[1] * t->dim[2] * t->dim[3] * j->per_row;
    for (j->begin = 0; j->begin < all; j->begin = j->end) {
        j->end = all - j->begin < slice ? all : j->begin + slice;
        gguf_fill(j->p->g, t, j->begin / j->per_row, (j->end + j->per_row - 1) / j->per_row, j->pool);
        pool_run(j->pool, quant__work, j);
        if (!quant__continue(j->p, e)) return false;
        uint64_t bad = atomic_load(&j->bad);
        if (bad != UINT64_MAX) return quant__refuse(j, bad, e);
        uint8_t *made = j->out;
        const uint64_t n_made = quant__offset(j, j->s->to, j->end) - quant__offset(j, j->s->to, j->begin);
        if (!quant__sink_put(&j->sink, made, (size_t)n_made, e)) return false;
        j->out = j->done;
        j->done = made;
        quant__drop_pages(j->p, t, quant__offset(j, t->type, j->begin), quant__offset(j, t->type, j->end));
    }
    return true;
}

/* The bytes of tensor i from the guide; NULL: none. */
static const uint8_t *quant__from_guide(const quant__plan *p, uint64_t i) {
    const quant_guide *guide = p->o->guide;
    return guide && guide->bytes ? guide->bytes(guide->ctx, i) : NULL;
}

static bool quant__prepare(const quant__plan *p, err_t *e) {
    const quant_guide *guide = p->o->guide;
    if (!guide || !guide->prepare) return true;
    uint32_t *to = mem_new(p->g->n_tensor, sizeof *to);
    for (uint64_t i = 0; i < p->g->n_tensor; i++) to[i] = p->step[i].to;
    bool ok = guide->prepare(guide->ctx, to, e);
    mem_free(to);
    return ok;
}

static bool quant__copy(const quant__plan *p, const gguf_tensor *t, pool *team, gguf_writer *w, err_t *e) {
    enum { STEP = 16 << 20 };
    const uint64_t row = k_row_bytes(t->type, (int64_t)t->dim[0]), step = max_u64(STEP / row, 1) * row;
    for (uint64_t at = 0, some; at < t->n_bytes; at += some) {
        some = min_u64(t->n_bytes - at, step);
        gguf_fill(p->g, t, at / row, (at + some) / row, team);
        if (!gguf_write_data(w, t->data + at, (size_t)some, e) || !quant__continue(p, e)) return false;
        quant__drop_pages(p, t, at, at + some);
    }
    return true;
}

static void quant__progress(const quant__plan *p, double since, uint64_t done, const quant__step *s) {
    const double all = (double)p->from_bytes + 1;
    if (!progress_due()) return;
    progress_show("quantising: %.0f %%%s, %.*s -> %s", 100 * (double)done / all, progress_left(since, (double)done, all).p,
                  (int)s->t->name.n, (const char *)s->t->name.p, k_types[s->to].name);
}

static bool quant__data(const quant__plan *p, gguf_writer *w, err_t *e) {
    pool      *team = pool_new(p->o->n_threads > 0 ? p->o->n_threads : pool_default_threads());
    quant__job job = {.p = p, .pool = team};
    job.out = mem_aligned(QUANT_SLICE, sizeof(float));
    job.done = mem_aligned(QUANT_SLICE, sizeof(float));
    quant__sink_open(&job.sink, w);
    const double t0 = clock_now();
    job.buf = mem_new((size_t)team->n, sizeof *job.buf);
    for (int i = 0; i < team->n; i++) job.buf[i] = mem_aligned(2 * QUANT_PIECE, sizeof **job.buf);
    uint64_t done = 0;
    bool     ok = true;
    for (uint64_t i = 0; ok && i < p->g->n_tensor; i++) {
        job.s = &p->step[i];
        quant__progress(p, t0, done, job.s);
        log_info("%.*s: %s -> %s", GGUF_SHOW(job.s->t->name), k_types[job.s->t->type].name, k_types[job.s->to].name);
        const uint8_t *ready = quant__from_guide(p, i);
        const bool copies = job.s->to == job.s->t->type && !job.s->merged;
        if ((ready || copies) && !quant__sink_wait(&job.sink, e)) ok = false;
        else if (ready) ok = gguf_write_data(w, ready, (size_t)job.s->n_bytes, e) && quant__continue(p, e);
        else ok = copies ? quant__copy(p, job.s->t, team, w, e) : quant__convert(&job, e);
        done += job.s->t->n_bytes;
    }
    ok = ok && quant__sink_wait(&job.sink, e);
    quant__sink_close(&job.sink);
    progress_clear();
    for (int i = 0; i < team->n; i++) mem_free(job.buf[i]);
    mem_free_all(job.buf, job.out, job.done);
    pool_free(team);
    return ok;
}

/* --- the file --- */

static const char quant__file_type[] = "general.file_type", quant__version[] = "general.quantization_version";

/* Whether a key of the source is left out or written with a new value. */
static bool quant__is_replaced(const quant__plan *p, bytes key) {
    if (p->g->n_parts > 1 && key.n > 6 && !memcmp(key.p, "split.", 6)) return true;
    return p->o->imatrix.file && key.n > 17 && !memcmp(key.p, "quantize.imatrix.", 17);
}

static void quant__metadata(const quant__plan *p, gguf_writer *w) {
    const gguf_file *g = p->g;
    const bool       named = p->ft != FT_COPY;
    for (uint64_t i = 0; i < g->n_kv; i++) {
        const gguf_kv *kv = &g->kv[i];
        if (named && bytes_is(kv->key, quant__file_type)) gguf_write_u32(w, quant__file_type, quant_files[p->ft].number);
        else if (named && bytes_is(kv->key, quant__version)) gguf_write_u32(w, quant__version, 2);
        else if (!quant__is_replaced(p, kv->key)) gguf_write_kv(w, g, kv);
    }
    if (named && !gguf_find(g, quant__version)) gguf_write_u32(w, quant__version, 2);
    if (named && !gguf_find(g, quant__file_type)) gguf_write_u32(w, quant__file_type, quant_files[p->ft].number);
    if (!p->o->imatrix.file) return;
    gguf_write_str(w, "quantize.imatrix.file", bytes_of(p->o->imatrix.file));
    if (p->o->imatrix.dataset.n) gguf_write_str(w, "quantize.imatrix.dataset", p->o->imatrix.dataset);
    gguf_write_u32(w, "quantize.imatrix.entries_count", p->o->imatrix.entries);
    if (p->o->imatrix.chunks) gguf_write_u32(w, "quantize.imatrix.chunks_count", p->o->imatrix.chunks);
}

static bool quant__write(const quant__plan *p, const char *path, err_t *e) {
    gguf_writer w;
    if (!gguf_write_start(&w, path, p->g->align, p->g, e)) return false;
    w.tight = p->g->part[p->g->n_parts - 1].n % p->g->align != 0;      /* as the source: some programs pad the end of the file */
    bool ok = quant__prepare(p, e);                   /* may take hours; the file was created before */
    quant__metadata(p, &w);
    for (uint64_t i = 0; i < p->g->n_tensor; i++) {
        const gguf_tensor *t = p->step[i].t;
        gguf_write_tensor(&w, t->name, p->step[i].to, t->n_dims, t->dim);
    }
    ok = ok && quant__data(p, &w, e);
    if (ok) return gguf_write_finish(&w, e);
    gguf_write_drop(&w);
    return false;
}

/* --- messages --- */

static double quant__mib(uint64_t n) { return (double)n / (1 << 20); }
static double quant__bpw(const quant__plan *p, uint64_t n) { return 8.0 * (double)n / (double)(p->weights + !p->weights); }

static void quant__totals(const quant__plan *p, str *s) {
    str_fmt(s, "%.2f MiB (%.2f bits a weight) -> %.2f MiB (%.2f)", quant__mib(p->from_bytes), quant__bpw(p, p->from_bytes),
            quant__mib(p->to_bytes), quant__bpw(p, p->to_bytes));
}

/* Prints the plan as a table. Names come from the file: each is made visible, on one line. */
static void quant__table(const quant__plan *p, out_t *out) {
    str    s = {0}, name = {0};
    size_t wide = 4;
    for (uint64_t i = 0; i < p->g->n_tensor; i++) wide = max_size(p->step[i].t->name.n, wide);
    str_fmt(&s, "%-*s  %-22s %-8s %-8s %10s %10s\n", (int)wide, "name", "shape", "from", "to", "MiB", "MiB");
    for (uint64_t i = 0; i < p->g->n_tensor; i++) {
        const quant__step *q = &p->step[i];
        char               shape[96] = "";
        str_clear(&name);
        str_visible_line(&name, q->t->name);
        for (uint32_t d = 0, n = 0; d < q->t->n_dims; d++)
            n += (uint32_t)snprintf(shape + n, sizeof shape - n, "%s%llu", d ? " x " : "", GGUF_U(q->t->dim[d]));
        str_fmt(&s, "%-*s  %-22s %-8s %-8s %10.2f %10.2f%s\n", (int)wide, name.p, shape, k_types[q->t->type].name,
                k_types[q->to].name, quant__mib(q->t->n_bytes), quant__mib(q->n_bytes), q->fell ? "  fallback" : "");
        out_put(out, s.p, s.n);
        str_clear(&s);
    }
    str_fmt(&s, "%llu tensors, %llu weights: ", GGUF_U(p->g->n_tensor), GGUF_U(p->weights));
    quant__totals(p, &s);
    str_put(&s, "\n");
    out_put(out, s.p, s.n);
    str_drop_all(&s, &name);
}

static void quant__warn(const quant__plan *p) {
    const char *name = quant_files[p->ft].name;
    if (p->n_fell)
        log_warn("%s: %d of %llu tensors have rows that are not whole blocks of the chosen type; they get another type", name,
                 p->n_fell, GGUF_U(p->g->n_tensor));
    if (p->n_blind)
        log_warn("%s: %d tensors get a type that needs an importance matrix to be accurate (--imatrix)", name, p->n_blind);
}

/* Converts g to the file type `type` and writes it to `path`; with o->dry_run it prints the type of each tensor to `out` instead.
 * False: e is set, or an interrupt; no file is left. */
static bool quant_run(const gguf_file *g, const char *type, const char *path, const quant_opts *o, out_t *out, err_t *e) {
    quant__plan p;
    double      t0 = clock_now();
    bool        ok = quant__plan_make(&p, g, type, o, e);
    if (ok) quant__warn(&p);
    if (ok && o->dry_run) quant__table(&p, out);
    else if (ok) ok = quant__write(&p, path, e);
    if (ok && !o->dry_run) {
        str s = {0};
        quant__totals(&p, &s);
        log_warn("%s: %s in %.1f s", path, s.p, clock_now() - t0);
        str_drop(&s);
    }
    quant__plan_drop(&p);
    return ok;
}
