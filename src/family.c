/* ===== [family] models of transformers, and what their config.json says as GGUF keys =====
 * family_table names the classes of transformers ("architectures" of config.json) and the GGUF architecture of each; family_keys
 * has a row for each key of a GGUF file and the places of config.json that it comes from. Keys that are more than one number are
 * written by functions of family_more. Names and values are those that llama.cpp's converter writes for the same folder.
 * To add a family:
 *   1. A row of family_table; a choice about its tensors is a flag.
 *   2. Rows of family_keys for keys that no other has; else its name in the lists of rows. A row for some architectures stands
 *      before the row of the same key for all others.
 *   3. Rows of import_names in [import] for names of tensors that no other has.
 *   4. `make import PEER=DIR WORDS=NAME` compares it with the converter.
 * Public: family_open, family_drop, family_get, family_number, family_int, family_true, family_is, family_item,
 * family_write_keys, family_rope, family_grams.
 * Opens: family_row, family_config, family_hash. */

enum {                               /* what is done with tensors                                          */
    FAM_PAIRS = 1,                   /* rows of Q and K are permuted for RoPE in pairs                     */
    FAM_NORM_1 = 2,                  /* gains of norms are stored less 1                                   */
    FAM_TIED = 4,                    /* lm_head is left out where embeddings are tied, or always           */
    FAM_ENCODER = 8,                 /* heads of training are left out                                     */
    FAM_SPM = 16,                    /* tokenizer.model is read first where there is one                   */
    FAM_SPACE = 32,                  /* add_prefix_space of tokenizer_config.json counts                   */
    FAM_NO_SPACE = 64,               /* a text gets no space in front                                      */
    FAM_NO_HEAD = 128,               /* lm_head is left out always                                         */
    FAM_OFFSET = 256,                /* positions begin behind the padding token                           */
    FAM_NO_BIAS = 512,               /* biases are zeros, and left out                                     */
    FAM_NO_HEADS = 1024,             /* no attention, or numbers of heads that layers have apart           */
    FAM_CENTRED = 2048,              /* biases of experts are stored with a mean, which goes               */
    FAM_EXPERTS = 4096,              /* a row only for models where a layer of the pattern has experts     */
    FAM_RELU2 = 8192                 /* a row only for models whose activation is relu squared             */
};

typedef struct {
    const char *classes;             /* names in "architectures", separated by spaces                      */
    const char *arch;                /* general.architecture                                               */
    unsigned    flags;               /* FAM_PAIRS and its neighbours                                       */
    const char *key;                 /* only where this member of the config is not 0, nor absent; NULL: always */
} family_row;

static const family_row family_table[] = {
    {"LLaMAForCausalLM LlamaForCausalLM MistralForCausalLM MixtralForCausalLM VLlama3ForCausalLM LlavaForConditionalGeneration "
     "IQuestCoderForCausalLM LlamaModel InternLM3ForCausalLM", "llama", FAM_PAIRS | FAM_SPM | FAM_SPACE, NULL},
    {"Qwen2ForCausalLM Qwen2Model KORMoForCausalLM", "qwen2", FAM_SPM, NULL},
    {"Qwen2MoeForCausalLM", "qwen2moe", 0, NULL},
    {"Qwen3ForCausalLM Qwen3Model", "qwen3", FAM_SPM, NULL},
    {"Qwen3MoeForCausalLM", "qwen3moe", 0, NULL},
    {"GemmaForCausalLM", "gemma", FAM_NORM_1 | FAM_SPM | FAM_NO_SPACE | FAM_NO_HEAD, NULL},
    {"Gemma2ForCausalLM", "gemma2", FAM_NORM_1 | FAM_SPM | FAM_NO_SPACE | FAM_NO_HEAD, NULL},
    {"Gemma3ForCausalLM Gemma3ForConditionalGeneration", "gemma3", FAM_NORM_1 | FAM_SPM | FAM_NO_SPACE, NULL},
    {"Gemma3TextModel", "gemma-embedding", FAM_NORM_1 | FAM_SPM | FAM_NO_SPACE, NULL},
    {"Gemma3nForCausalLM Gemma3nForConditionalGeneration", "gemma3n", FAM_SPM | FAM_NO_SPACE, NULL},
    {"Gemma4ForCausalLM Gemma4ForConditionalGeneration", "gemma4", 0, NULL},
    {"GptOssForCausalLM", "gpt-oss", 0, NULL},
    {"Phi3ForCausalLM", "phi3", FAM_SPM, NULL},
    {"Mistral3ForConditionalGeneration Mistral4ForCausalLM", "mistral4", FAM_TIED, "kv_lora_rank"},
    {"Ministral3ForCausalLM Mistral3ForConditionalGeneration", "mistral3", FAM_PAIRS | FAM_SPM | FAM_SPACE, NULL},
    {"GraniteForCausalLM", "granite", FAM_PAIRS | FAM_SPM | FAM_SPACE, NULL},
    {"GraniteMoeForCausalLM GraniteMoeSharedForCausalLM", "granitemoe", FAM_PAIRS | FAM_SPM | FAM_SPACE, NULL},
    {"SmolLM3ForCausalLM", "smollm3", FAM_PAIRS | FAM_SPM | FAM_SPACE, NULL},
    {"Olmo2ForCausalLM Olmo3ForCausalLM", "olmo2", 0, NULL},
    {"OlmoForCausalLM OLMoForCausalLM", "olmo", FAM_PAIRS, NULL},
    {"OlmoeForCausalLM", "olmoe", 0, NULL},
    {"Starcoder2ForCausalLM", "starcoder2", 0, NULL},
    {"GPTBigCodeForCausalLM", "starcoder", 0, NULL},
    {"GPT2LMHeadModel", "gpt2", 0, NULL},
    {"Qwen3VLForConditionalGeneration", "qwen3vl", FAM_SPM, NULL},
    {"Qwen3VLMoeForConditionalGeneration", "qwen3vlmoe", 0, NULL},
    {"Qwen2VLForConditionalGeneration Qwen2_5_VLForConditionalGeneration Qwen2VLModel", "qwen2vl", FAM_SPM, NULL},
    {"Qwen3NextForCausalLM", "qwen3next", FAM_NORM_1, NULL},
    {"Qwen3_5ForCausalLM Qwen3_5ForConditionalGeneration", "qwen35", FAM_NORM_1, NULL},
    {"Qwen3_5MoeForCausalLM Qwen3_5MoeForConditionalGeneration", "qwen35moe", FAM_NORM_1, NULL},
    {"Qwen4ExpForCausalLM Qwen4ExpForConditionalGeneration", "qwen4exp", FAM_NORM_1, NULL},
    {"SeedOssForCausalLM", "seed_oss", 0, NULL},
    {"Lfm2ForCausalLM LFM2ForCausalLM", "lfm2", 0, NULL},
    {"Lfm2MoeForCausalLM", "lfm2moe", 0, NULL},
    {"Glm4ForCausalLM Glm4vForConditionalGeneration", "glm4", 0, NULL},
    {"Glm4MoeForCausalLM Glm4vMoeForConditionalGeneration SolarOpenForCausalLM", "glm4moe", 0, NULL},
    {"MiniMaxM2ForCausalLM", "minimax-m2", 0, NULL},
    {"MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration", "minimax-m3", FAM_NORM_1, NULL},
    {"Ernie4_5ForCausalLM Ernie4_5_ForCausalLM", "ernie4_5", FAM_SPM | FAM_SPACE, NULL},
    {"Ernie4_5_MoeForCausalLM", "ernie4_5-moe", FAM_SPM | FAM_SPACE, NULL},
    {"PaddleOCRVLForConditionalGeneration", "paddleocr", FAM_SPM | FAM_SPACE, NULL},
    {"Dots1ForCausalLM", "dots1", 0, NULL},
    {"HYV3ForCausalLM", "hy_v3", 0, NULL},
    {"InternLM2ForCausalLM", "internlm2", FAM_PAIRS | FAM_SPM, NULL},
    {"MiniCPMForCausalLM", "minicpm", FAM_PAIRS | FAM_SPM, NULL},
    {"NemotronForCausalLM", "nemotron", FAM_NORM_1 | FAM_SPM, NULL},
    {"ExaoneForCausalLM", "exaone", 0, NULL},
    {"ArceeForCausalLM", "arcee", FAM_PAIRS | FAM_SPM | FAM_SPACE, NULL},
    {"DeepseekForCausalLM", "deepseek", FAM_PAIRS | FAM_SPM, NULL},
    {"DeepseekOCRForCausalLM", "deepseek2-ocr", FAM_TIED, NULL},
    {"BailingMoeForCausalLM", "bailingmoe", FAM_PAIRS, NULL},
    {"BailingMoeV2ForCausalLM", "bailingmoe2", 0, NULL},
    {"SarvamMoEForCausalLM modeling_sarvam_moe.SarvamMoEForCausalLM", "bailingmoe2", FAM_CENTRED, NULL},
    {"GlmForCausalLM ChatGLMModel ChatGLMForConditionalGeneration", "chatglm", 0, NULL},
    {"BaichuanForCausalLM BaiChuanForCausalLM", "baichuan", FAM_PAIRS | FAM_SPM, NULL},
    {"XverseForCausalLM", "xverse", FAM_PAIRS, NULL},
    {"OrionForCausalLM", "orion", FAM_SPM, NULL},
    {"CodeShellForCausalLM", "codeshell", 0, NULL},
    {"GPTRefactForCausalLM", "refact", 0, NULL},
    {"BloomForCausalLM BloomModel", "bloom", 0, NULL},
    {"JAISLMHeadModel", "jais", 0, NULL},
    {"Jais2ForCausalLM", "jais2", 0, NULL},
    {"QWenLMHeadModel", "qwen", 0, NULL},
    {"MellumForCausalLM", "mellum", 0, NULL},
    {"PanguEmbeddedForCausalLM", "pangu-embedded", FAM_SPM | FAM_SPACE | FAM_TIED, NULL},
    {"CohereForCausalLM", "command-r", 0, NULL},
    {"Cohere2ForCausalLM", "cohere2", FAM_NO_BIAS, NULL},
    {"Cohere2MoeForCausalLM", "cohere2moe", FAM_NO_BIAS, NULL},
    {"FalconForCausalLM RWForCausalLM", "falcon", 0, NULL},
    {"GPTNeoXForCausalLM", "gptneox", 0, NULL},
    {"PhiForCausalLM", "phi2", 0, NULL},
    {"PhimoeForCausalLM PhiMoEForCausalLM", "phimoe", FAM_SPM, NULL},
    {"Llama4ForCausalLM Llama4ForConditionalGeneration", "llama4", 0, NULL},
    {"DeepseekV2ForCausalLM DeepseekV3ForCausalLM Glm4MoeLiteForCausalLM KimiVLForConditionalGeneration YoutuForCausalLM",
     "deepseek2", FAM_TIED, NULL},
    {"DeepseekV32ForCausalLM", "deepseek32", FAM_TIED, NULL},
    {"DeepseekV4ForCausalLM", "deepseek4", 0, NULL},
    {"GlmMoeDsaForCausalLM", "glm-dsa", FAM_TIED, NULL},
    {"MiniCPM3ForCausalLM", "minicpm3", FAM_SPM, NULL},
    {"PLMForCausalLM", "plm", 0, NULL},
    {"KimiLinearModel KimiLinearForCausalLM", "kimi-linear", 0, NULL},
    {"MiMoV2FlashForCausalLM MiMoV2ForCausalLM", "mimo2", 0, NULL},
    {"Step3p5ForCausalLM Step3p7ForConditionalGeneration", "step35", FAM_NORM_1, NULL},
    {"Exaone4ForCausalLM Exaone4_5_ForConditionalGeneration", "exaone4", 0, NULL},
    {"ExaoneMoEForCausalLM ExaoneMoeForCausalLM", "exaone-moe", 0, NULL},
    {"HunYuanDenseV1ForCausalLM", "hunyuan-dense", FAM_TIED, NULL},
    {"HunYuanVLForConditionalGeneration", "hunyuan_vl", FAM_TIED, NULL},
    {"HunYuanMoEV1ForCausalLM", "hunyuan-moe", FAM_TIED, NULL},
    {"DbrxForCausalLM", "dbrx", 0, NULL},
    {"AfmoeForCausalLM", "afmoe", 0, NULL},
    {"LagunaForCausalLM", "laguna", 0, NULL},
    {"SmallThinkerForCausalLM", "smallthinker", 0, NULL},
    {"GroveMoeForCausalLM modeling_grove_moe.GroveMoeForCausalLM", "grovemoe", 0, NULL},
    {"MaincoderForCausalLM", "maincoder", 0, NULL},
    {"NanbeigeForCausalLM", "nanbeige", FAM_PAIRS | FAM_SPM | FAM_SPACE, NULL},
    {"DeciLMForCausalLM", "deci", FAM_PAIRS | FAM_SPM | FAM_SPACE, NULL},
    {"TalkieForCausalLM", "talkie", 0, NULL},
    {"BitNetForCausalLM", "bitnet-b1.58", FAM_RELU2, NULL},
    {"BitnetForCausalLM BitNetForCausalLM", "bitnet", FAM_SPM, NULL},
    {"OpenELMForCausalLM", "openelm", FAM_NO_HEADS | FAM_SPM, NULL},
    {"GrokForCausalLM Grok1ForCausalLM", "grok", FAM_SPM, NULL},
    {"ArcticForCausalLM", "arctic", FAM_PAIRS | FAM_SPM, NULL},
    {"ApertusForCausalLM", "apertus", 0, NULL},
    {"StableLmForCausalLM StableLMEpochForCausalLM LlavaStableLMEpochForCausalLM", "stablelm", 0, NULL},
    {"MPTForCausalLM MptForCausalLM", "mpt", 0, NULL},
    {"MambaForCausalLM MambaLMHeadModel FalconMambaForCausalLM", "mamba", FAM_NO_HEADS | FAM_TIED, NULL},
    {"Mamba2ForCausalLM", "mamba2", FAM_NO_HEADS | FAM_TIED, NULL},
    {"GraniteMoeHybridForCausalLM BambaForCausalLM", "granitehybrid", FAM_PAIRS, NULL},
    {"FalconH1ForCausalLM", "falcon-h1", 0, NULL},
    {"NemotronHForCausalLM", "nemotron_h_moe", FAM_PAIRS | FAM_EXPERTS, "num_experts_per_tok"},
    {"NemotronHForCausalLM", "nemotron_h", FAM_PAIRS, NULL},
    {"JambaForCausalLM", "jamba", FAM_SPM | FAM_NO_SPACE, NULL},
    {"PlamoForCausalLM", "plamo", FAM_SPM, NULL},
    {"Plamo2ForCausalLM PLaMo2ForCausalLM", "plamo2", 0, NULL},
    {"Plamo3ForCausalLM PLaMo3ForCausalLM", "plamo3", 0, NULL},
    {"Rwkv7ForCausalLM RWKV7ForCausalLM", "rwkv7", FAM_NO_HEADS, NULL},
    {"RwkvHybridForCausalLM", "arwkv7", FAM_NO_HEADS | FAM_SPM, NULL},
    {"Rwkv6ForCausalLM", "rwkv6", FAM_NO_HEADS, NULL},
    {"RWKV6Qwen2ForCausalLM", "rwkv6qwen2", FAM_SPM, NULL},
    {"DreamModel", "dream", FAM_SPM, NULL},
    {"LLaDAModelLM", "llada", FAM_PAIRS, NULL},
    {"LLaDAMoEModel LLaDAMoEModelLM", "llada-moe", 0, NULL},
    {"T5WithLMHeadModel T5ForConditionalGeneration MT5ForConditionalGeneration UMT5ForConditionalGeneration UMT5Model", "t5",
     FAM_SPM, NULL},
    {"T5EncoderModel", "t5encoder", FAM_SPM, NULL},
    {"BertModel BertForMaskedLM CamembertModel BertForSequenceClassification", "bert", FAM_ENCODER, NULL},
    {"RobertaModel RobertaForSequenceClassification", "bert", FAM_ENCODER | FAM_OFFSET, NULL},
    {"XLMRobertaModel XLMRobertaForSequenceClassification", "bert", FAM_ENCODER | FAM_OFFSET, NULL},
    {"NomicBertModel", "nomic-bert-moe", FAM_ENCODER, "moe_every_n_layers"},
    {"NomicBertModel", "nomic-bert", FAM_ENCODER, NULL},
    {"JinaBertModel JinaBertForMaskedLM", "jina-bert-v2", FAM_ENCODER, NULL},
    {"ModernBertModel ModernBertForMaskedLM ModernBertForSequenceClassification", "modern-bert", FAM_ENCODER, NULL},
    {"NeoBERT NeoBERTLMHead NeoBERTForSequenceClassification", "neo-bert", FAM_ENCODER, NULL},
    {"EuroBertModel JinaEmbeddingsV5Model", "eurobert", FAM_ENCODER, NULL},
    {"LlamaBidirectionalModel", "llama-embed", FAM_PAIRS | FAM_SPM | FAM_SPACE, NULL},
};

typedef struct {
    const char       *dir;           /* the folder                                                         */
    str               json;          /* config.json                                                        */
    bytes             root;          /* the object of json                                                 */
    bytes             text;          /* its part that describes a text model, or none; its members count first */
    const family_row *row;           /* the family                                                         */
    int               n_layer;       /* layers, without draft heads                                        */
    int               n_ahead;       /* layers of draft heads that are taken                               */
    int               n_head, n_kv;  /* heads of attention                                                 */
    int               n_embd;        /* width                                                              */
    int               head_dim;      /* values of a head                                                   */
    int               n_expert;      /* experts, 0: none                                                   */
} family_config;

enum { FAM_GRAM = 8, FAM_GRAM_HEADS = 64 };            /* most tokens of an n-gram, most heads                 */

typedef struct {                     /* how n-grams find rows of a table                                   */
    int      n;                      /* tokens of the longest; 0: there is no table                        */
    int      each;                   /* heads of each length, from two tokens on                           */
    int      stop;                   /* the token that ends a text                                         */
    uint64_t factor[FAM_GRAM];       /* [n] of a token so many positions back                              */
    uint64_t first[FAM_GRAM_HEADS];  /* [(n - 1) * each] first row of a head                               */
    uint64_t rows[FAM_GRAM_HEADS];   /* [(n - 1) * each] its rows                                          */
} family_hash;

/* --- reading the config --- */

/* The member at a path of names with dots between them; empty: there is none, or it is null. */
static bytes family__path(bytes object, bytes path) {
    char name[96];
    while (path.n && object.n && object.p[0] == '{') {
        const uint8_t *dot = memchr(path.p, '.', path.n);
        const size_t   n = dot ? (size_t)(dot - path.p) : path.n;
        if (n >= sizeof name) return (bytes){0};
        memcpy(name, path.p, n);
        name[n] = 0;
        object = bytes_trim(bytes_member(object, name));
        path = bytes_slice(path, dot ? n + 1 : n, path.n);
    }
    return path.n || bytes_is(object, "null") ? (bytes){0} : object;
}

/* Text of the first of these members that exists and is not null, paths separated by spaces; empty: none does. */
static bytes family_get(const family_config *c, const char *names) {
    for (const char *p = names; *p; p += strspn(p, " ")) {
        const size_t n = strcspn(p, " ");
        const bytes  path = {(const uint8_t *)p, n};
        bytes        v = family__path(c->text, path);
        if (!v.n) v = family__path(c->root, path);
        if (v.n) return v;
        p += n;
    }
    return (bytes){0};
}

/* The same as a number. False: there is none. */
static bool family_number(const family_config *c, const char *names, double *out) {
    const bytes v = family_get(c, names);
    char        text[64], *end;
    if (!v.n || v.n >= sizeof text || !(isdigit(v.p[0]) || v.p[0] == '-')) return false;
    memcpy(text, v.p, v.n);
    text[v.n] = 0;
    *out = strtod(text, &end);
    return !*end && isfinite(*out);
}

/* The same as a whole number from 0 to 2^31 - 1; `preset` where there is none. */
static int family_int(const family_config *c, const char *names, int preset) {
    double x = preset;
    if (!family_number(c, names, &x) || !(x >= 0 && x <= INT32_MAX)) return preset;
    return (int)x;
}

/* Whether the member is true. */
static bool family_true(const family_config *c, const char *names) { return bytes_is(family_get(c, names), "true"); }

/* Whether the architecture is among these, separated by spaces. */
static bool family_is(const family_config *c, const char *archs) { return bytes_among(bytes_of(c->row->arch), archs); }

/* Whether the member is this text. */
static bool family__says(const family_config *c, const char *names, const char *text) {
    const bytes v = family_get(c, names);
    return v.n == strlen(text) + 2 && v.p[0] == '"' && !memcmp(v.p + 1, text, v.n - 2);
}

/* --- the family --- */

/* Whether a layer of a pattern of letters or kinds has experts. transformers gives all models of the class a number of them. */
static bool family__some_experts(const family_config *c) {
    const bytes letters = family_get(c, "hybrid_override_pattern"), kinds = family_get(c, "layers_block_type layer_types");
    return letters.n ? memchr(letters.p, 'E', letters.n) != NULL : bytes_find(kinds, 0, bytes_of("\"moe\"")) != SIZE_MAX;
}

/* transformers' BitNet has relu squared where the config names no other activation. */
static bool family__relu2(const family_config *c) {
    return !family_get(c, "hidden_act").n || family__says(c, "hidden_act", "relu2");
}

static const family_row *family__find(const family_config *c, bytes name) {
    for (size_t i = 0; i < sizeof family_table / sizeof *family_table; i++) {
        const family_row *r = &family_table[i];
        const bool        has = (!r->key || family_int(c, r->key, 0)) && (!(r->flags & FAM_EXPERTS) || family__some_experts(c));
        const bool        act = !(r->flags & FAM_RELU2) || family__relu2(c);
        if (bytes_among(name, r->classes) && has && act) return r;
    }
    return NULL;
}

static bool family__row(family_config *c, err_t *e) {
    bytes list = bytes_trim(bytes_member(c->root, "architectures")), item = {0};
    str   name = {0};
    if (!bytes_cut_item(&list, &item) || !str_unquote(&name, item, true)) {
        str_drop(&name);
        return err_set(e, EXIT_INPUT, "%s/config.json: no name in \"architectures\", expected a class of transformers", c->dir);
    }
    c->row = family__find(c, str_bytes(&name));
    if (!c->row)
        err_set(e, EXIT_INPUT, "%s/config.json: architecture %.80s, expected one of --list checkpoints", c->dir, name.p);
    str_drop(&name);
    return c->row != NULL;
}

/* Layers where each has a kind: a letter of a pattern, or a name of a list. */
static int family__kinds(const family_config *c) {
    const bytes letters = family_get(c, "hybrid_override_pattern");
    bytes       list = family_get(c, "layers_block_type layer_types"), item;
    int         n = 0;
    if (letters.n > 2 && letters.n < 4096) return (int)letters.n - 2;
    while (bytes_cut_item(&list, &item)) n++;
    return n;
}

/* Members that hold the config of the text model in those of models for images and sound. */
static const char *const family__texts[] = {"text_config", "llm_config", "lm_config", "language_config"};

/* Frees what family_open() made. */
static void family_drop(family_config *c) {
    str_drop(&c->json);
    *c = (family_config){0};
}

/* Reads the object in c->json. */
static bool family__parse(family_config *c, err_t *e) {
    const char *dir = c->dir;
    c->root = bytes_trim(str_bytes(&c->json));
    for (size_t i = 0; i < sizeof family__texts / sizeof *family__texts && !c->text.n; i++)
        c->text = family__path(c->root, bytes_of(family__texts[i]));
    if (!family__row(c, e)) return false;
    c->n_layer = family_int(c, "n_layers num_hidden_layers n_layer num_layers num_transformer_layers", 0);
    if (!c->n_layer) c->n_layer = family__kinds(c);
    c->n_head = c->row->flags & FAM_NO_HEADS ? 1 : family_int(c, "num_attention_heads n_head n_heads num_heads", 0);
    c->n_kv = family_int(c, "num_key_value_heads n_kv_heads multi_query_group_num num_query_groups num_kv_heads n_head_kv "
                         "num_attention_groups",
                         family_is(c, "falcon") ? 1 : c->n_head);
    c->n_embd = family_int(c, "hidden_size n_embd dim n_embed d_model model_dim", 0);
    c->n_expert = family_int(c, "num_local_experts num_experts n_routed_experts moe_num_experts ffn_config.moe_num_experts "
                             "moe_num_primary_experts", 0);
    if (c->n_layer < 1 || c->n_head < 1 || c->n_embd < 1 || c->n_layer > 4096 || c->n_expert > 65536)
        return err_set(e, EXIT_INPUT, "%s/config.json: %d layers, %d heads, width %d, expected positive numbers", dir, c->n_layer,
                       c->n_head, c->n_embd);
    /* lists of layers are read from their beginning for each layer */
    if ((uint64_t)c->n_layer * c->json.n > 1u << 28)
        return err_set(e, EXIT_INPUT, "%s/config.json: %zu bytes for %d layers, expected less", dir, c->json.n, c->n_layer);
    c->head_dim = family_int(c, "head_dim", c->n_embd / c->n_head);
    if (family_is(c, "glm4moe hy_v3 exaone-moe bailingmoe2 step35 deepseek32 glm-dsa exaone4"))
        c->n_ahead = family_int(c, "num_nextn_predict_layers", 0);
    if (family_is(c, "mimo2")) c->n_ahead = 3;        /* all have three, and no config says so */
    if (family_is(c, "qwen3next qwen35 qwen35moe")) c->n_ahead = family_int(c, "mtp_num_hidden_layers", 0);
    return c->n_ahead <= 64 || err_set(e, EXIT_INPUT, "%s/config.json: %d draft heads, expected at most 64", dir, c->n_ahead);
}

/* Reads config.json of the folder. The caller calls family_drop() in both cases. On failure e is set. */
static bool family_open(family_config *c, const char *dir, err_t *e) {
    *c = (family_config){.dir = dir};
    const int got = st_read_json(dir, "config.json", &c->json, e);
    if (got == 0) return err_set(e, EXIT_INPUT, "%s: no config.json, expected the folder of a checkpoint", dir);
    return got > 0 && family__parse(c, e);
}

/* --- keys: a row for each --- */

typedef enum { FK_INT, FK_FLT, FK_BOOL } family_kind;

typedef struct {
    const char *key;                 /* follows the architecture's name and a dot                          */
    family_kind kind;
    const char *from;                /* paths in the config, the first that exists counts; NULL: none      */
    double    (*calc)(const family_config *c);        /* instead, or where there is none; NAN: no key; NULL */
    const char *archs;               /* these alone, or with a leading "!" all but these; NULL: all        */
} family_key;

/* Architectures whose keys the converter writes one by one, without those that all others have. */
#define FAM_OWN "gemma gemma2 phi3 gpt2 starcoder bloom chatglm codeshell refact jais orion " FAM_BARE " phimoe openelm plamo " \
    "plamo2 " T5 " " RWKV
#define T5   "t5 t5encoder"
#define RWKV "rwkv7 arwkv7 rwkv6 rwkv6qwen2"
/* Those of them whose norms and heads have other names, too. */
#define FAM_BARE "falcon gptneox phi2 stablelm mpt dbrx minicpm3 mamba mamba2 jamba"
/* Gated delta nets. */
#define FAM_DELTA "qwen3next qwen35 qwen35moe qwen4exp"
/* Latent attention with the keys of DeepSeek. */
#define LATENT "deepseek2 deepseek32 glm-dsa mistral4"

#define HYBRID "granitehybrid falcon-h1 nemotron_h nemotron_h_moe"
#define ROPE_IN(name) \
    "rope_parameters.full_attention." name " rope_parameters.compress." name " rope_parameters." name " rope_scaling." name

static double family__layers(const family_config *c) { return c->n_layer + c->n_ahead; }
static double family__heads(const family_config *c) { return c->n_head; }
static double family__one(const family_config *c) { return (void)c, 1; }
static double family__two(const family_config *c) { return (void)c, 2; }
static double family__eight(const family_config *c) { return (void)c, 8; }
static double family__zero(const family_config *c) { return (void)c, 0; }
static double family__yes(const family_config *c) { return (void)c, 1; }
static double family__wide(const family_config *c) { return 4.0 * c->n_embd; }
static double family__embd(const family_config *c) { return c->n_embd; }
static double family__base(const family_config *c) { return (void)c, 10000; }
static double family__head(const family_config *c) { return c->head_dim; }
/* transformers gives a Llama this number where its config has none, and the converter writes it then. */
static double family__head_llama(const family_config *c) {
    return family__says(c, "model_type", "llama") ? c->head_dim : (double)NAN;
}
static double family__plain_head(const family_config *c) { return c->n_embd / c->n_head; }
static double family__eps5(const family_config *c) { return (void)c, 1e-5; }
static double family__eps6(const family_config *c) { return (void)c, 1e-6; }
static double family__eps12(const family_config *c) { return (void)c, 1e-12; }
static double family__ctx_gemma3(const family_config *c) { return (void)c, 131072; }
static double family__none(const family_config *c) { return (void)c, (double)NAN; }
static double family__ctx_falcon(const family_config *c) { return (void)c, 2048; }
static double family__ctx_mamba(const family_config *c) { return (void)c, 1 << 20; }

/* DeepSeek V4: values of a head that rotate; layers whose experts a table chooses. */
static double family__rot_v4(const family_config *c) {
    double part = 0;
    if (family_number(c, "rope_parameters.main.partial_rotary_factor partial_rotary_factor", &part))
        return (int)(part * c->head_dim);
    return family_int(c, "qk_rope_head_dim", 64);
}
static double family__listed(const family_config *c) {
    bytes list = family_get(c, "mlp_layer_types"), item;
    int   n = 0;
    while (bytes_cut_item(&list, &item) && item.n == 10 && !memcmp(item.p, "\"hash_moe\"", 10)) n++;
    return n;
}

static double family__four(const family_config *c) { return (void)c, 4; }
static double family__kv(const family_config *c) { return c->n_kv; }

/* A factor of RoPE, or its preset. */
static double family__part(const family_config *c, double preset) {
    family_number(c, ROPE_IN("partial_rotary_factor") " partial_rotary_factor rope_pct rope_percent rotary_pct", &preset);
    return preset;
}

static double family__rot_phi(const family_config *c) { return (int)(family__part(c, 1) * c->n_embd) / c->n_head; }
/* A member that is a number, or a list whose values are equal. */
static double family__first(const family_config *c, const char *name) {
    bytes list = family_get(c, name), item = {0};
    char  text[64] = "";
    if (!list.n || list.p[0] != '[') return family_int(c, name, -1) < 0 ? (double)NAN : family_int(c, name, 0);
    if (!bytes_cut_item(&list, &item) || item.n >= sizeof text) return (double)NAN;
    memcpy(text, item.p, item.n);
    return strtod(text, NULL);
}

static double family__ff_hunyuan(const family_config *c) { return family__first(c, "moe_intermediate_size"); }
static double family__used_hunyuan(const family_config *c) { return family__first(c, "moe_topk"); }
static double family__shared_hunyuan(const family_config *c) { return family__first(c, "num_shared_expert"); }
static double family__experts_hunyuan(const family_config *c) { return c->n_expert > 1 ? c->n_expert : (double)NAN; }

/* Whether positions of HunYuan VL have sections, which its base of RoPE goes with. */
static bool family__xdrope(const family_config *c) {
    static const char type[] = ROPE_IN("rope_type") " rope_scaling.type";
    if (!family_is(c, "hunyuan_vl")) return false;
    return family__says(c, type, "xdrope") ||
           (family__says(c, type, "dynamic") && family_get(c, "rope_parameters.mrope_section rope_scaling.mrope_section").n);
}

/* The base of RoPE that HunYuan's context of 256 K needs. */
static bool family__alpha(const family_config *c, double *base) {
    double alpha = 50, dim = c->head_dim - (c->head_dim == 2);
    *base = 10000;
    if (family__xdrope(c) || !family__says(c, ROPE_IN("rope_type") " rope_scaling.type", "dynamic") ||
        !family_is(c, "hunyuan-dense hunyuan-moe hunyuan_vl"))
        return false;
    if (family_is(c, "hunyuan-moe")) alpha = 1000, dim = c->n_embd / c->n_head;
    family_number(c, ROPE_IN("alpha"), &alpha);
    family_number(c, ROPE_IN("rope_theta") " rope_theta", base);
    *base *= pow(alpha, dim / (dim - 2));
    return true;
}

static double family__ctx_hunyuan(const family_config *c) {
    double base;
    return family__alpha(c, &base) ? 1 << 18 : family_int(c, "max_position_embeddings", 0);
}

static double family__dense_deepseek(const family_config *c) { return family_get(c, "n_routed_experts").n ? 0 : c->n_layer; }
static double family__key_latent(const family_config *c) {
    return family_int(c, "kv_lora_rank", 512) + family_int(c, "qk_rope_head_dim", 0);
}
static double family__key_whole(const family_config *c) {
    return family_int(c, "qk_nope_head_dim", 0) + family_int(c, "qk_rope_head_dim", 0);
}
static double family__latent(const family_config *c) { return (void)c, 512; }
static double family__norm_deepseek(const family_config *c) { return family_true(c, "norm_topk_prob") ? 1 : (double)NAN; }
static double family__yarn_deepseek(const family_config *c) {
    double all = (double)NAN;
    family_number(c, ROPE_IN("mscale_all_dim"), &all);
    return 0.1 * all;
}

static double family__dense_cohere(const family_config *c) {
    bytes list = family_get(c, "mlp_layer_types"), item;
    int   n = 0;
    if (!list.n) return family_int(c, "first_k_dense_replace", 0);
    while (bytes_cut_item(&list, &item) && bytes_is(item, "\"dense\"")) n++;
    return n;
}

static double family__shared_cohere(const family_config *c) {
    const int n = family_int(c, "num_shared_experts", 0);
    return n ? (double)n * family_int(c, "intermediate_size", 0) : (double)NAN;
}

static double family__shared_count(const family_config *c) {
    const int n = family_int(c, "num_shared_experts", 0);
    return n ? n : (double)NAN;
}

static double family__window_llama4(const family_config *c) {
    bytes list = family_get(c, "layer_types"), item;
    bool  full = list.n > 0;
    while (bytes_cut_item(&list, &item)) full = full && bytes_is(item, "\"full_attention\"");
    return full ? 0 : (double)NAN;
}

static double family__rot_part(const family_config *c) { return (int)(family__part(c, 1) * (c->n_embd / c->n_head)); }

/* Sizes of Mamba, where the config leaves them out. */
static double family__inner_mamba(const family_config *c) {
    return family_int(c, "expand mamba_expand", 2) * (double)c->n_embd;
}
static double family__rank_mamba(const family_config *c) { return (c->n_embd + 15) / 16; }
static double family__state_mamba(const family_config *c) { return family_is(c, "mamba2") ? 128 : 16; }
static double family__rank_mamba2(const family_config *c) {
    return family_int(c, "intermediate_size d_inner", (int)family__inner_mamba(c)) /
           max_int(family_int(c, "mamba_d_head head_dim", 64), 1);
}
static double family__ctx_hybrid(const family_config *c) {
    const bytes class = family_get(c, "architectures");
    return bytes_find(class, 0, bytes_of("Bamba")) != SIZE_MAX ? family_int(c, "max_position_embeddings", 0) : 1 << 20;
}
static double family__inner_hybrid(const family_config *c) {
    if (family_is(c, "granitehybrid")) return (double)family_int(c, "mamba_expand", 2) * c->n_embd;
    return (double)family_int(c, "mamba_num_heads", 0) * family_int(c, "mamba_head_dim", 0);
}
static double family__rope_hybrid(const family_config *c) { return family__ctx_hybrid(c) != 1 << 20; }
static double family__falcon_mamba(const family_config *c) { return family__says(c, "model_type", "falcon_mamba"); }

/* ALiBi of MPT. */
static double family__alibi_mpt(const family_config *c) {
    return family_true(c, "attn_config.alibi") ? family_int(c, "attn_config.alibi_bias_max", 8) : 0;
}

static double family__rot_exaone(const family_config *c) { return (int)(family__part(c, 1) * (c->n_embd / c->n_head)); }
static double family__rot_half(const family_config *c) { return (int)(c->head_dim * family__part(c, 0.5)); }
static double family__rot_quarter(const family_config *c) { return (int)(c->head_dim * family__part(c, 0.25)); }
static double family__rot_chatglm(const family_config *c) {
    return (int)(family_int(c, "attention_dim", c->n_embd / c->n_head) * family__part(c, 0.5));
}

static double family__base_chatglm(const family_config *c) {
    double ratio = 1;
    family_number(c, "rope_ratio", &ratio);
    return 10000 * ratio;
}

static double family__ff_refact(const family_config *c) { return ((int64_t)(2 * (4 * (double)c->n_embd) / 3) + 255) / 256 * 256; }
static double family__ff_neo(const family_config *c) { return (int)(2.0 * family_int(c, "intermediate_size", 0) / 3); }

static double family__ff_lfm2(const family_config *c) {
    double ff = family_int(c, "block_ff_dim intermediate_size", 0), by = 1;
    const int64_t step = family_int(c, "block_multiple_of", 256);
    if (!family_true(c, "block_auto_adjust_ff_dim")) return ff;
    ff = (double)(int64_t)(2 * ff / 3);
    if (family_number(c, "block_ffn_dim_multiplier", &by)) ff = (double)(int64_t)(by * ff);
    return (double)(((int64_t)ff + step - 1) / max_i64(step, 1) * step);
}

/* Positions that follow the padding token. */
static double family__ctx_encoder(const family_config *c) {
    const int n = family_int(c, "max_position_embeddings n_ctx n_positions", 0);
    if (!(c->row->flags & FAM_OFFSET) || !family_get(c, "pad_token_id").n) return n ? n : (double)NAN;
    return n - family_int(c, "pad_token_id", 0) - 1;
}

static double family__ctx_nomic(const family_config *c) {
    return family_int(c, "n_positions", 0) == 8192 && family_int(c, "max_trained_positions", 2048) == 2048 ? 2048 : 512;
}

static double family__residual_minicpm(const family_config *c) {
    double depth = (double)NAN;
    family_number(c, "scale_depth", &depth);
    return depth / sqrt(c->n_layer);
}

static double family__logit_minicpm(const family_config *c) {
    return c->n_embd / (double)family_int(c, "dim_model_base", c->n_embd);
}

static double family__ff_shared_hy(const family_config *c) {
    return (double)family_int(c, "moe_intermediate_size", 0) * family_int(c, "num_shared_experts", 1);
}

static double family__ff_shared_ernie(const family_config *c) {
    if (!family_int(c, "moe_num_shared_experts", 0)) return (double)NAN;
    return family_int(c, "intermediate_size", 0) / max_int(family_int(c, "num_key_value_heads", 1), 1);
}

static double family__inner(const family_config *c) {
    return (double)family_int(c, "linear_value_head_dim", 0) * family_int(c, "linear_num_value_heads", 0);
}

static double family__window_phi3(const family_config *c) { return (void)c, 0; }
static double family__orig_phi3(const family_config *c) { return family_int(c, "max_position_embeddings", 4096); }

static double family__ahead(const family_config *c) {
    if (c->n_ahead || family_is(c, "exaone-moe mimo2")) return c->n_ahead;
    /* heads that the config names and the folder has not: as if no head were wanted */
    if (family_is(c, "step35 exaone4") || (family_is(c, "deepseek32 glm-dsa") && family_int(c, "num_nextn_predict_layers", 0)))
        return (double)NAN;
    return family_get(c, "num_nextn_predict_layers").n ? 0 : (double)NAN;
}

static double family__deepstack(const family_config *c) {
    bytes list = family_get(c, "vision_config.deepstack_visual_indexes"), item;
    int   n = 0;
    while (bytes_cut_item(&list, &item)) n++;
    return n;
}

static double family__attn_factor(const family_config *c) {
    const double orig = family_int(c, ROPE_IN("original_max_position_embeddings") " original_max_position_embeddings",
                                   family_int(c, "max_position_embeddings", 4096));
    const double scale = family_int(c, "max_position_embeddings", 4096) / orig;
    if (!family_get(c, ROPE_IN("long_factor")).n) return (double)NAN;
    if (family__says(c, ROPE_IN("rope_type") " rope_scaling.type", "yarn")) return scale > 1 ? 0.1 * log(scale) + 1 : 1;
    return scale > 1 ? sqrt(1 + log(scale) / log(orig)) : 1;
}

/* Item i of a list of numbers, or the number itself; NAN: there is none. */
static double family_item(const family_config *c, const char *name, int i) {
    bytes  list = family_get(c, name), item = list;
    double v = (double)NAN;
    char   text[64];
    for (int k = 0, is_list = list.n && list.p[0] == '['; is_list && k <= i; k++)
        if (!bytes_cut_item(&list, &item)) return (double)NAN;
    if (!item.n || item.n >= sizeof text || item.p[0] == '[') return (double)NAN;
    memcpy(text, item.p, item.n);
    text[item.n] = 0;
    char *end;
    v = strtod(text, &end);
    return *end && *end != ' ' ? (double)NAN : v;
}

/* A number of layers' sizes: 0 for what is none. */
static double family__small(double x) { return x > 0 && x < 1 << 24 ? x : 0; }

/* The member `name` of part `part` of layer i of DeciLM's block_configs; empty: there is none, or it is null. */
static bytes family__block(const family_config *c, int i, const char *part, const char *name) {
    bytes list = family_get(c, "block_configs"), item = {0};
    for (int k = 0; k <= i; k++)
        if (!bytes_cut_item(&list, &item)) return (bytes){0};
    const bytes v = bytes_trim(bytes_member(bytes_trim(bytes_member(item, part)), name));
    return bytes_is(v, "null") ? (bytes){0} : v;
}

static double family__text_number(bytes v) {
    char text[64] = "";
    if (!v.n || v.n >= sizeof text) return 0;
    memcpy(text, v.p, v.n);
    return family__small(strtod(text, NULL));
}

/* Heads of keys of a layer of DeciLM. */
static int family__layer_kv(const family_config *c, int layer) {
    if (!family_get(c, "block_configs").n) {
        const double own = family_item(c, "num_key_value_heads_per_layer", layer);
        return isnan(own) ? c->n_kv : (int)family__small(own);
    }
    const int group = (int)family__text_number(family__block(c, layer, "attention", "n_heads_in_group"));
    return group ? c->n_head / group : 0;
}

static double family__key_deci(const family_config *c) {
    return family_get(c, "block_configs").n ? c->n_embd / c->n_head : family_get(c, "head_dim").n ? c->head_dim : (double)NAN;
}

static double family__latent_rot(const family_config *c) {
    return (int)(family_int(c, "qk_rope_head_dim", 0) * family__part(c, 1));
}
static double family__rot_head(const family_config *c) { return (int)(c->head_dim * family__part(c, 1)); }
static double family__rot_local(const family_config *c) {
    double part = 1;
    if (!family_get(c, "rope_parameters.sliding_attention").n) return (double)NAN;
    family_number(c, "rope_parameters.sliding_attention.partial_rotary_factor", &part);
    return (int)(c->head_dim * part);
}
static double family__rot_bailing(const family_config *c) {
    return (int)(c->head_dim * (c->row->flags & FAM_CENTRED ? 1 : family__part(c, 0.5)));
}
static double family__ctx_t5(const family_config *c) { return (void)c, 512; }
static double family__ctx_plamo(const family_config *c) { return family_is(c, "plamo") ? 4096 : 2048; }
static double family__ctx_llada(const family_config *c) { return (void)c, 4096; }
static double family__five(const family_config *c) { return (void)c, 5; }
static double family__eps_talkie(const family_config *c) { return (void)c, 0x1p-23; }
static double family__ff_rwkv(const family_config *c) {
    return family_is(c, "rwkv7") ? 4.0 * c->n_embd : floor(3.5 * c->n_embd / 32) * 32;
}
static double family__wide_heads(const family_config *c) { return family_is(c, "plamo2") ? 128 : 64; }
static double family__ff_plamo2(const family_config *c) { return (void)c, 13312; }
static double family__ff_llada(const family_config *c) { return (void)c, 12288; }
static double family__thirty(const family_config *c) { return (void)c, 30; }
static double family__buckets(const family_config *c) { return (void)c, 32; }
/* Ranks of RWKV-6: twice as many in its 7B, and in all conversions of Qwen2 from that width on. */
static double family__mix_rank(const family_config *c) {
    return (family_is(c, "rwkv6") ? c->n_embd == 4096 : c->n_embd >= 4096) ? 64 : 32;
}
static double family__decay_rank(const family_config *c) { return 2 * family__mix_rank(c); }

/* Ranks of RWKV-7 where the config leaves them out: a multiple of 32. */
static double family__rank_rwkv(const family_config *c, double power, double by) {
    return max_f64(1, nearbyint(pow(c->n_embd, power) * by / 32)) * 32;
}
static double family__rank_decay(const family_config *c) { return family_is(c, "arwkv7") ? 64 : family__rank_rwkv(c, 0.5, 1.8); }
static double family__rank_value(const family_config *c) { return family_is(c, "arwkv7") ? 32 : family__rank_rwkv(c, 0.5, 1.3); }
static double family__rank_gate(const family_config *c) {
    if (family_is(c, "arwkv7")) return family_true(c, "wkv_has_gate") ? 128 : 0;
    return family__rank_rwkv(c, 0.8, 0.6);
}

/* Sizes of the heads of PLaMo 2's states. */
static double family__inner_plamo2(const family_config *c) {
    return (double)family_int(c, "mamba_num_heads", 64) * family_int(c, "hidden_size_per_head", 128);
}
static double family__sixty_four(const family_config *c) { return (void)c, 64; }

static double family__out_grok(const family_config *c) { return 1 / sqrt(c->head_dim); }

/* Layers without experts at the beginning: of a list with a 0 for each, of the number of the first with experts. */
static double family__dense_minimax(const family_config *c) {
    bytes list = family_get(c, "moe_layer_freq"), item;
    int   n = 0;
    while (bytes_cut_item(&list, &item) && bytes_is(item, "0")) n++;
    return n;
}
static double family__dense_step(const family_config *c) {
    const bytes list = family_get(c, "moe_layers_enum");
    int         least = INT32_MAX, n = 0;
    for (size_t i = 1; i < list.n; i++) {
        if (isdigit(list.p[i])) n = min_int(n, 1 << 20) * 10 + (list.p[i] - '0');
        else if (isdigit(list.p[i - 1])) least = min_int(least, n), n = 0;
    }
    return least < INT32_MAX ? least : 0;
}

static double family__ff_shared(const family_config *c) {
    return (double)family_int(c, "moe_intermediate_size", 0) * family_int(c, "num_shared_experts", 0);
}
static double family__softmax_first(const family_config *c) { return family_true(c, "moe_primary_router_apply_softmax") ? 1 : 2; }

/* The window of a model whose layout has one. */
static double family__window_small(const family_config *c) {
    bytes list = family_get(c, "sliding_window_layout"), item;
    bool  some = false;
    while (bytes_cut_item(&list, &item)) some = some || !bytes_is(item, "0");
    const int n = family_int(c, "sliding_window_size", 0);
    return some && n ? n : (double)NAN;
}
static double family__window_some(const family_config *c) {
    const int n = family_int(c, "sliding_window", 0);
    return n ? n : (double)NAN;
}
static double family__pattern_plamo(const family_config *c) {
    if (!family_get(c, "window_size sliding_window").n || !family_get(c, "sliding_window_pattern").n) return (double)NAN;
    return family_int(c, "sliding_window_pattern", 0);
}
static double family__chunk(const family_config *c) { return family_int(c, "head_dim", 0) ? family_int(c, "head_dim", 0) : 128; }
static double family__twentieth(const family_config *c) { return (void)c, 0.05; }
static double family__loops(const family_config *c) { return max_int(family_int(c, "num_loops", 1), 1); }
static double family__head_said(const family_config *c) { return family_get(c, "head_dim").n ? c->head_dim : (double)NAN; }

static const family_key family_keys[] = {
    {"block_count",                      FK_INT, NULL, family__layers, NULL},
    {"context_length",                   FK_INT, NULL, family__ctx_encoder, "bert"},
    {"context_length",                   FK_INT, NULL, family__ctx_nomic, "nomic-bert nomic-bert-moe"},
    {"context_length",                   FK_INT, NULL, family__ctx_falcon, "falcon"},
    {"context_length",                   FK_INT, NULL, family__ctx_mamba, "mamba mamba2 " RWKV},
    {"context_length",                   FK_INT, "n_positions", family__ctx_t5, T5},
    {"context_length",                   FK_INT, NULL, family__ctx_plamo, "plamo"},
    {"context_length",                   FK_INT, "max_position_embeddings", family__ctx_plamo, "plamo2"},
    {"context_length",                   FK_INT, "max_context_length", NULL, "openelm"},
    {"context_length",                   FK_INT, "max_sequence_length", family__ctx_llada, "llada"},
    {"context_length",                   FK_INT, NULL, family__ctx_hybrid, "granitehybrid nemotron_h nemotron_h_moe"},
    {"context_length",                   FK_INT, "max_position_embeddings", family__zero, "falcon-h1"},
    {"context_length",                   FK_INT, NULL, family__ctx_hunyuan, "hunyuan-dense hunyuan-moe hunyuan_vl"},
    {"context_length",                   FK_INT, "max_seq_len", NULL, "mpt dbrx"},
    {"context_length",                   FK_INT, "model_max_length max_position_embeddings", NULL, "command-r"},
    {"context_length",                   FK_INT, "n_positions max_position_embeddings", NULL, "phi2"},
    {"context_length",                   FK_INT, "max_position_embeddings", family__ctx_gemma3,
     "gemma3 gemma-embedding gemma3n gemma4"},
    {"context_length",                   FK_INT, "seq_length", family__embd, "bloom chatglm"},
    {"context_length",                   FK_INT, "n_ctx n_positions", NULL, "gpt2 starcoder codeshell refact jais"},
    {"context_length",                   FK_INT, "max_sequence_length max_position_embeddings model_max_length", NULL, "orion"},
    {"context_length",                   FK_INT, "max_position_embeddings n_ctx n_positions max_length max_sequence_length "
                                                 "model_max_length", NULL, NULL},
    {"embedding_length",                 FK_INT, NULL, family__embd, NULL},
    {"feed_forward_length",              FK_INT, NULL, family__wide, "gpt2 starcoder codeshell bloom falcon phi2 mpt"},
    {"feed_forward_length",              FK_INT, NULL, family__zero, "mamba mamba2"},
    {"feed_forward_length",              FK_INT, "ffn_config.ffn_hidden_size", NULL, "dbrx"},
    {"feed_forward_length",              FK_INT, "intermediate_size_mlp", NULL, "llama4"},
    {"feed_forward_length",              FK_INT, NULL, family__ff_refact, "refact"},
    {"feed_forward_length",              FK_INT, NULL, family__ff_neo, "neo-bert"},
    {"feed_forward_length",              FK_INT, NULL, family__ff_lfm2, "lfm2"},
    {"feed_forward_length",              FK_INT, "ffn_hidden_size intermediate_size", family__wide, "chatglm"},
    {"feed_forward_length",              FK_INT, "d_ff", NULL, T5},
    {"feed_forward_length",              FK_INT, "intermediate_size", family__ff_rwkv, "rwkv7 rwkv6"},
    {"feed_forward_length",              FK_INT, "intermediate_size", family__ff_plamo2, "plamo2"},
    {"feed_forward_length",              FK_INT, "mlp_hidden_size", family__ff_llada, "llada"},
    {"feed_forward_length",              FK_INT, "moe_ffn_hidden_size intermediate_size", NULL, "smallthinker"},
    {"feed_forward_length",              FK_INT, NULL, family__none, "gemma3n gemma4 nemotron_h nemotron_h_moe openelm deci"},
                                                                                             /* family__by_layer */
    {"feed_forward_length",              FK_INT,
     "prefix_dense_intermediate_size dense_intermediate_size intermediate_size n_inner "
                                                 "hidden_dim", NULL, NULL},
    {"attention.head_count",             FK_INT, NULL, family__zero, "mamba mamba2 " RWKV},
    {"attention.head_count",             FK_INT, NULL, family__none, "openelm plamo2 step35 laguna deci"},
    {"attention.head_count",             FK_INT, NULL, family__heads, NULL},
    {"attention.head_count_kv",          FK_INT, NULL, family__none, "gpt2 jais lfm2 lfm2moe gemma4 gptneox mamba mamba2 jamba "
     "granitehybrid nemotron_h nemotron_h_moe openelm plamo2 step35 mimo2 kimi-linear deci rwkv7 arwkv7 rwkv6 " T5},
    {"attention.head_count_kv",          FK_INT, NULL, family__one, LATENT},
    {"attention.head_count_kv",          FK_INT, NULL, family__five, "plamo"},
    {"attention.head_count_kv",          FK_INT, NULL, family__kv, "falcon phi2"},
    {"attention.head_count_kv",          FK_INT, "attn_config.kv_n_heads", NULL, "mpt dbrx"},
    {"attention.head_count_kv",          FK_INT, NULL, family__one, "starcoder refact"},
    {"attention.head_count_kv",          FK_INT, "num_query_groups", NULL, "codeshell"},
    {"attention.head_count_kv",          FK_INT, "multi_query_group_num num_key_value_heads", family__heads, "chatglm"},
    {"attention.head_count_kv",          FK_INT, "num_key_value_heads", family__heads, "bloom gemma gemma2 orion llama"},
    {"attention.head_count_kv",          FK_INT, "num_key_value_heads n_kv_heads", NULL, NULL},
    {"attention.layer_norm_epsilon",     FK_FLT, NULL, family__eps5, "olmo mpt dbrx"},
    {"attention.layer_norm_epsilon",     FK_FLT, "layer_norm_eps layer_norm_epsilon norm_eps", NULL,
     "falcon gptneox phi2 stablelm"},
    {"attention.layer_norm_epsilon",     FK_FLT, "rms_norm_eps", NULL, "orion"},
    {"attention.layer_norm_epsilon",     FK_FLT, "layer_norm_eps layer_norm_epsilon norm_epsilon norm_eps", NULL, "nemotron"},
    {"attention.layer_norm_epsilon",     FK_FLT, "layer_norm_epsilon", NULL, "gpt2 starcoder bloom codeshell jais"},
    {"attention.layer_norm_epsilon",     FK_FLT, "layer_norm_epsilon", family__eps6, T5},
    {"attention.layer_norm_epsilon",     FK_FLT, "layer_norm_epsilon norm_eps", NULL, "rwkv7 rwkv6"},
    {"attention.layer_norm_epsilon",     FK_FLT, NULL, family__none,
     "gemma gemma2 phi3 phimoe chatglm refact minicpm3 mamba mamba2 jamba openelm plamo plamo2 arwkv7 rwkv6qwen2"},
    {"attention.layer_norm_epsilon",     FK_FLT, "layer_norm_eps layer_norm_epsilon norm_epsilon", family__eps12, "bert"},
    {"attention.layer_norm_epsilon",     FK_FLT, "layer_norm_eps layer_norm_epsilon norm_epsilon", NULL, NULL},
    {"attention.layer_norm_rms_epsilon", FK_FLT, NULL, family__eps5, "olmoe"},
    {"attention.layer_norm_rms_epsilon", FK_FLT, "layernorm_epsilon", family__eps5, "chatglm"},
    {"attention.layer_norm_rms_epsilon", FK_FLT, "layer_norm_epsilon", NULL, "refact"},
    {"attention.layer_norm_rms_epsilon", FK_FLT, NULL, family__none,
     "gpt2 starcoder bloom codeshell jais orion falcon gptneox phi2 stablelm mpt dbrx rwkv7 rwkv6"},
    {"attention.layer_norm_rms_epsilon", FK_FLT, "layer_norm_epsilon", family__eps6, T5},
    {"attention.layer_norm_rms_epsilon", FK_FLT, NULL, family__eps6, "openelm"},
    {"attention.layer_norm_rms_epsilon", FK_FLT, NULL, family__eps_talkie, "talkie"},
    {"attention.layer_norm_rms_epsilon", FK_FLT, "layernorm_epsilon", family__eps5, "mimo2"},
    {"attention.layer_norm_rms_epsilon", FK_FLT, "rms_norm_eps", family__eps5, "step35"},
    {"attention.layer_norm_rms_epsilon", FK_FLT, "layer_norm_epsilon rms_norm_eps", family__eps5, "mamba mamba2 falcon-h1"},
    {"attention.layer_norm_rms_epsilon", FK_FLT, "layer_norm_epsilon rms_norm_eps", family__eps6, "jamba"},
    {"attention.layer_norm_rms_epsilon", FK_FLT, "rms_norm_eps layer_norm_epsilon", NULL, "nemotron_h nemotron_h_moe"},
    {"attention.layer_norm_rms_epsilon", FK_FLT, "norm_eps", NULL, "lfm2"},
    {"attention.layer_norm_rms_epsilon", FK_FLT, "norm_eps", family__eps6, "neo-bert"},
    {"attention.layer_norm_rms_epsilon", FK_FLT, "rms_norm_eps", family__eps6,
     "gemma3 gemma-embedding deepseek2-ocr llama plamo2 " LATENT},
    {"attention.layer_norm_rms_epsilon", FK_FLT, "rms_norm_eps norm_eps", NULL, NULL},
    {"attention.key_length",             FK_INT, NULL, family__head, "gemma gemma2 pangu-embedded"},
    {"attention.key_length",             FK_INT, NULL, family__key_whole, "minicpm3 plm"},
    {"attention.key_length",             FK_INT, NULL, family__key_latent, "kimi-linear " LATENT},
    {"attention.key_length",             FK_INT, "d_kv", family__wide_heads, T5},
    {"attention.key_length",             FK_INT, "hidden_size_per_head", family__wide_heads, "plamo2"},
    {"attention.key_length",             FK_INT, "head_dim", NULL, "openelm"},
    {"attention.key_length",             FK_INT, NULL, family__key_deci, "deci"},
    {"attention.value_length",           FK_INT, NULL, family__key_deci, "deci"},
    {"attention.value_length",           FK_INT, "d_kv", family__wide_heads, T5},
    {"attention.value_length",           FK_INT, "hidden_size_per_head", family__wide_heads, "plamo2"},
    {"attention.value_length",           FK_INT, "head_dim", NULL, "openelm"},
    {"attention.value_length",           FK_INT, "v_head_dim", NULL, "plm mimo2"},
    {"attention.value_length",           FK_INT, "kv_lora_rank", family__latent, LATENT},
    {"attention.key_length_mla",         FK_INT, NULL, family__key_whole, "kimi-linear " LATENT},
    {"attention.value_length_mla",       FK_INT, "v_head_dim", NULL, "kimi-linear " LATENT},
    {"attention.q_lora_rank",            FK_INT, "q_lora_rank", NULL, "minicpm3 kimi-linear deepseek4 " LATENT},
    {"attention.kv_lora_rank",           FK_INT, "kv_lora_rank", family__latent, LATENT},
    {"attention.kv_lora_rank",           FK_INT, "kv_lora_rank", NULL, "minicpm3 plm kimi-linear"},
    {"attention.key_length",             FK_INT, NULL, family__none, FAM_OWN " granite granitemoe granitehybrid"},
    {"attention.key_length",             FK_INT, "global_head_dim", NULL, "gemma4"},
    {"attention.key_length",             FK_INT, "head_dim", family__head_llama, "llama bitnet"},
    {"attention.key_length",             FK_INT, "head_dim", NULL, NULL},
    {"attention.value_length",           FK_INT, NULL, family__head, "gemma gemma2 pangu-embedded"},
    {"attention.value_length",           FK_INT, NULL, family__none, FAM_OWN " granite granitemoe granitehybrid"},
    {"attention.value_length",           FK_INT, "global_head_dim", NULL, "gemma4"},
    {"attention.value_length",           FK_INT, "head_dim", family__head_llama, "llama bitnet"},
    {"attention.value_length",           FK_INT, "head_dim", NULL, NULL},
    {"attention.key_length_swa",         FK_INT, "head_dim", NULL, "gemma4"},
    {"attention.value_length_swa",       FK_INT, "head_dim", NULL, "gemma4"},
    {"vocab_size",                       FK_INT, "vocab_size", NULL,
     "llama mistral3 granite granitemoe smollm3 arcee llama-embed deepseek deepseek2-ocr bailingmoe pangu-embedded nemotron "
     "lfm2 lfm2moe modern-bert cohere2 cohere2moe llama4 minicpm3 exaone4 afmoe apertus "
     "granitehybrid falcon-h1 nemotron_h nemotron_h_moe plm kimi-linear exaone-moe bailingmoe2 laguna nanbeige deci arctic "
     "llada plamo2 plamo3 deepseek4 " LATENT},
    {"rope.dimension_count",             FK_INT, NULL, family__plain_head,
     "granite granitemoe granitehybrid baichuan xverse arctic"},
    {"rope.dimension_count",             FK_INT, NULL, family__rot_part, "cohere2 gptneox stablelm"},
    {"rope.dimension_count",             FK_INT, "qk_rope_head_dim", NULL,
     "deepseek2 deepseek32 mistral4 minicpm3 plm kimi-linear"},
    {"rope.dimension_count",             FK_INT, NULL, family__latent_rot, "glm-dsa"},
    {"rope.dimension_count",             FK_INT, NULL, family__rot_head, "mimo2 laguna"},
    {"rope.dimension_count_swa",         FK_INT, NULL, family__rot_local, "laguna"},
    {"rope.dimension_count",             FK_INT, NULL, family__rot_bailing, "bailingmoe2"},
    {"rope.dimension_count",             FK_INT, NULL, family__head_said, "maincoder openelm"},
    {"rope.dimension_count",             FK_INT, NULL, family__head,
     "nemotron_h nemotron_h_moe cohere2moe llama4 afmoe apertus llama mistral3 smollm3 arcee llama-embed deepseek bailingmoe "
     "jais2 pangu-embedded nanbeige deci llada"},
    {"rope.dimension_count",             FK_INT, NULL, family__rot_phi, "phi2 phi3 phimoe nemotron"},
    {"rope.dimension_count",             FK_INT, NULL, family__rot_exaone, "exaone"},
    {"rope.dimension_count",             FK_INT, NULL, family__rot_half, "glm4 glm4moe"},
    {"rope.dimension_count",             FK_INT, NULL, family__rot_quarter, FAM_DELTA},
    {"rope.dimension_count",             FK_INT, NULL, family__rot_chatglm, "chatglm"},
    {"rope.dimension_count",             FK_INT, "rotary_dim", NULL, "minimax-m2 minimax-m3"},
    {"rope.dimension_count",             FK_INT, "qk_rope_head_dim", NULL, "deepseek2-ocr"},
    {"rope.dimension_count",             FK_INT, "global_head_dim", NULL, "gemma4"},
    {"rope.dimension_count_swa",         FK_INT, "head_dim", NULL, "gemma4"},
    {"rope.freq_base",                   FK_FLT, NULL, family__base, "codeshell neo-bert"},
    {"rope.freq_base",                   FK_FLT, NULL, family__base_chatglm, "chatglm"},
    {"rope.freq_base",                   FK_FLT, "rope_freq_constant", NULL, "openelm"},
    {"rope.freq_base",                   FK_FLT, ROPE_IN("rope_theta") " rope_theta", family__base, "plamo2"},
    {"rope.scaling.original_context_length", FK_INT,
     ROPE_IN("original_max_position_embeddings") " original_max_position_embeddings",
     family__orig_phi3, "phi3 phimoe"},
    {"rope.scaling.attn_factor",         FK_FLT, NULL, family__attn_factor, "phi3 phimoe"},
    {"rope.freq_base",                   FK_FLT, "attn_config.rope_theta", NULL, "dbrx"},
    {"rope.scaling.yarn_log_multiplier", FK_FLT, NULL, family__yarn_deepseek, LATENT},
    {"logit_scale",                      FK_FLT, "logit_scale", NULL, "command-r cohere2 cohere2moe"},
    {"use_parallel_residual",            FK_BOOL, "use_parallel_residual", family__yes, "gptneox"},
    {"use_parallel_residual",            FK_BOOL, "use_parallel_residual", family__zero, "stablelm"},
    {"rope.scaling.yarn_log_multiplier", FK_FLT, ROPE_IN("mscale_all_dim"), NULL, "mistral3"},
    {"attention.temperature_scale",      FK_FLT, ROPE_IN("llama_4_scaling_beta"), NULL, "mistral3"},
    {"attention.scale",                  FK_FLT, "attention_multiplier", NULL, "granite granitemoe granitehybrid"},
    {"embedding_scale",                  FK_FLT, "embedding_multiplier", NULL, "granite granitemoe granitehybrid"},
    {"residual_scale",                   FK_FLT, "residual_multiplier", NULL, "granite granitemoe granitehybrid"},
    {"logit_scale",                      FK_FLT, "logits_scaling", NULL, "granite granitemoe granitehybrid"},
    {"embedding_scale",                  FK_FLT, "embedding_multiplier_scale", NULL, "grok"},
    {"logit_scale",                      FK_FLT, "output_multiplier_scale", NULL, "grok"},
    {"attention.output_scale",           FK_FLT, "attn_output_multiplier", family__out_grok, "grok"},
    {"attention.temperature_length",     FK_INT, "attn_temperature_len", NULL, "grok"},
    {"attn_logit_softcapping",           FK_FLT, "attn_logit_softcapping", family__thirty, "grok"},
    {"router_logit_softcapping",         FK_FLT, "router_logit_softcapping", family__thirty, "grok"},
    {"final_logit_softcapping",          FK_FLT, "final_logit_softcapping", NULL, "grok"},
    {"attention.value_scale",            FK_FLT, "attention_value_scale", NULL, "mimo2"},
    {"embedding_scale",                  FK_FLT, "scale_emb", NULL, "minicpm"},
    {"residual_scale",                   FK_FLT, NULL, family__residual_minicpm, "minicpm"},
    {"logit_scale",                      FK_FLT, NULL, family__logit_minicpm, "minicpm"},
    {"attention.sliding_window",         FK_INT, "sliding_window", NULL,
     "gemma2 gemma3 gemma3n gemma4 gemma-embedding gpt-oss olmo2 mellum cohere2 cohere2moe exaone4 exaone-moe afmoe mimo2 "
     "step35 deepseek4"},
    {"attention.sliding_window",         FK_INT, NULL, family__window_some, "laguna"},
    {"attention.sliding_window",         FK_INT, NULL, family__window_small, "smallthinker"},
    {"attention.sliding_window",         FK_INT, "window_size sliding_window", NULL, "plamo3"},
    {"attention.sliding_window_pattern", FK_INT, NULL, family__pattern_plamo, "plamo3"},
    {"attention.sliding_window",         FK_INT, NULL, family__window_llama4, "llama4"},
    {"attention.sliding_window",         FK_INT, "sliding_window", family__window_phi3, "phi3 phimoe"},
    {"attention.sliding_window",         FK_INT, "local_attention", NULL, "modern-bert"},
    {"attention.sliding_window",         FK_INT, "sliding_window_size sliding_window", NULL, "deepseek2-ocr"},
    {"attention.sliding_window_pattern", FK_INT, "global_attn_every_n_layers", NULL, "modern-bert"},
    {"attn_logit_softcapping",           FK_FLT, "attn_logit_softcapping", NULL, "gemma2"},
    {"final_logit_softcapping",          FK_FLT, "final_logit_softcapping", NULL, "gemma2 gemma3 gemma3n gemma4 gemma-embedding"},
    {"attention.clamp_kqv",              FK_FLT, "clip_qkv", NULL, "olmo"},
    {"attention.clamp_kqv",              FK_FLT, "attn_config.clip_qkv", NULL, "mpt dbrx"},
    {"attention.max_alibi_bias",         FK_FLT, NULL, family__alibi_mpt, "mpt"},
    {"attention.max_alibi_bias",         FK_FLT, NULL, family__eight, "jais"},
    {"attention.shared_kv_layers",       FK_INT, "num_kv_shared_layers", NULL, "gemma3n gemma4"},
    {"embedding_length_per_layer_input", FK_INT, "hidden_size_per_layer_input", family__zero, "gemma3n gemma4"},
    {"altup.active_idx",                 FK_INT, "altup_active_idx", NULL, "gemma3n"},
    {"altup.num_inputs",                 FK_INT, "altup_num_inputs", NULL, "gemma3n"},
    {"expert_count",                     FK_INT, "moe_num_experts", NULL, "ernie4_5-moe"},
    {"expert_count",                     FK_INT, "ffn_config.moe_num_experts", NULL, "dbrx"},
    {"expert_count",                     FK_INT, NULL, family__experts_hunyuan, "hunyuan-dense hunyuan_vl"},
    {"expert_count",                     FK_INT, "num_local_experts num_experts", NULL, "phimoe jamba"},
    {"expert_used_count",                FK_INT, "ffn_config.moe_top_k", NULL, "dbrx"},
    {"expert_used_count",                FK_INT, "num_experts_per_tok num_experts_per_token", NULL, "phimoe jamba"},
    {"expert_used_count",                FK_INT, NULL, family__used_hunyuan, "hunyuan-moe"},
    {"expert_count",                     FK_INT, "moe_num_primary_experts num_local_experts num_experts", NULL, "smallthinker"},
    {"expert_count",                     FK_INT, "moe_num_experts", NULL, "step35"},
    {"expert_count",                     FK_INT, "num_local_experts num_experts n_routed_experts", NULL, "!" FAM_OWN},
    {"expert_used_count",                FK_INT, "moe_k", NULL, "ernie4_5-moe"},
    {"expert_used_count",                FK_INT, "moe_top_k", NULL, "nomic-bert-moe step35"},
    {"expert_used_count",                FK_INT, "moe_num_active_primary_experts num_experts_per_tok", NULL, "smallthinker"},
    {"expert_used_count",                FK_INT, "num_experts_per_tok num_experts_per_token top_k_experts", NULL, "!" FAM_OWN},
    {"expert_group_count",               FK_INT, "n_group", NULL, "!" FAM_OWN},
    {"expert_group_used_count",          FK_INT, "topk_group", NULL, "!" FAM_OWN},
    {"expert_feed_forward_length",       FK_INT, "intermediate_size", NULL,
     "gpt-oss minimax-m2 minimax-m3 llama4 cohere2moe"},
    {"expert_feed_forward_length",       FK_INT, "moe_ffn_hidden_size", NULL, "smallthinker"},
    {"expert_feed_forward_length",       FK_INT, "expert_intermediate_size", NULL, "llada-moe"},
    {"expert_feed_forward_length",       FK_INT, NULL, family__ff_hunyuan, "hunyuan-moe"},
    {"expert_feed_forward_length",       FK_INT, "moe_intermediate_size", NULL,
     "qwen2moe qwen3moe qwen3vlmoe " FAM_DELTA " glm4moe dots1 hy_v3 deepseek bailingmoe mellum lfm2moe "
     "ernie4_5-moe afmoe nemotron_h_moe kimi-linear mimo2 step35 exaone-moe bailingmoe2 laguna grovemoe grok deepseek4"},
    {"expert_feed_forward_length",       FK_INT, "moe_intermediate_size intermediate_size", NULL, "deepseek2-ocr " LATENT},
    {"expert_chunk_feed_forward_length", FK_INT, NULL, family__chunk, "grovemoe"},
    {"experts_per_group",                FK_INT, NULL, family__two, "grovemoe"},
    {"expert_group_scale",               FK_FLT, NULL, family__twentieth, "grovemoe"},
    {"expert_feed_forward_length",       FK_INT, "expert_intermediate_size moe_intermediate_size", NULL, "gemma4"},
    {"expert_shared_feed_forward_length", FK_INT, "shared_expert_intermediate_size", NULL,
     "qwen2moe qwen3moe qwen3vlmoe " FAM_DELTA " dots1 laguna"},
    {"expert_shared_feed_forward_length", FK_INT, "share_expert_dim", NULL, "step35"},
    {"expert_shared_feed_forward_length", FK_INT, "moe_shared_expert_intermediate_size", family__ff_shared, "bailingmoe2"},
    {"expert_shared_feed_forward_length", FK_INT, NULL, family__ff_shared, "exaone-moe"},
    {"expert_shared_feed_forward_length", FK_INT, "shared_intermediate_size", NULL, "granitemoe granitehybrid"},
    {"expert_shared_feed_forward_length", FK_INT, "moe_shared_expert_intermediate_size", NULL, "nemotron_h_moe"},
    {"expert_shared_feed_forward_length", FK_INT, "intermediate_size", NULL, "hunyuan-moe"},
    {"expert_shared_feed_forward_length", FK_INT, NULL, family__shared_cohere, "cohere2moe"},
    {"expert_shared_feed_forward_length", FK_INT, NULL, family__ff_shared_hy, "hy_v3"},
    {"expert_shared_feed_forward_length", FK_INT, NULL, family__ff_shared_ernie, "ernie4_5-moe"},
    {"expert_shared_count",              FK_INT, "n_shared_experts", NULL,
     "glm4moe dots1 deepseek nemotron_h_moe minimax-m3 deepseek4"},
    {"expert_shared_count",              FK_INT, "n_shared_experts", family__zero, "deepseek2-ocr " LATENT},
    {"expert_shared_count",              FK_INT, "num_shared_experts", NULL,
     "bailingmoe bailingmoe2 afmoe kimi-linear exaone-moe"},
    {"expert_shared_count",              FK_INT, NULL, family__shared_count, "cohere2moe"},
    {"expert_shared_count",              FK_INT, NULL, family__shared_hunyuan, "hunyuan-moe"},
    {"expert_shared_count",              FK_INT, "moe_num_shared_experts", NULL, "ernie4_5-moe"},
    {"leading_dense_block_count",        FK_INT, "first_k_dense_replace", NULL,
     "glm4moe dots1 deepseek deepseek2-ocr bailingmoe bailingmoe2 kimi-linear"},
    {"leading_dense_block_count",        FK_INT, "first_k_dense_replace first_last_k_dense_replace", family__zero, "exaone-moe"},
    {"leading_dense_block_count",        FK_INT, NULL, family__dense_minimax, "minimax-m3"},
    {"leading_dense_block_count",        FK_INT, NULL, family__dense_step, "step35"},
    {"leading_dense_block_count",        FK_INT, "num_dense_layers", NULL, "lfm2moe afmoe"},
    {"leading_dense_block_count",        FK_INT, "first_k_dense_replace", family__dense_deepseek, LATENT},
    {"leading_dense_block_count",        FK_INT, NULL, family__dense_cohere, "cohere2moe laguna"},
    {"interleave_moe_layer_step",        FK_INT, "interleave_moe_layer_step", NULL, "llama4"},
    {"expert_weights_scale",             FK_FLT, "route_scale", NULL, "afmoe"},
    {"expert_weights_norm",              FK_BOOL, "route_norm", NULL, "afmoe"},
    {"expert_weights_norm",              FK_BOOL, "norm_topk_prob", family__zero, "cohere2moe"},
    {"expert_weights_norm",              FK_BOOL, NULL, family__norm_deepseek, LATENT},
    {"expert_weights_norm",              FK_BOOL, NULL, family__yes, "minimax-m3 laguna"},
    {"expert_weights_norm",              FK_BOOL, "norm_expert_weight", NULL, "step35"},
    {"leading_dense_block_count",        FK_INT, "moe_layer_start_index", NULL, "ernie4_5-moe"},
    {"interleave_moe_layer_step",        FK_INT, "moe_layer_interval", NULL, "ernie4_5-moe"},
    {"expert_weights_scale",             FK_FLT, NULL, family__one, "deepseek bailingmoe"},
    {"expert_weights_scale",             FK_FLT, "routed_scaling_factor", NULL,
     "glm4moe dots1 deepseek2-ocr nemotron_h_moe kimi-linear exaone-moe bailingmoe2 minimax-m3 deepseek4 " LATENT},
    {"expert_weights_scale",             FK_FLT, "moe_routed_scaling_factor", NULL, "laguna"},
    {"expert_weights_scale",             FK_FLT, "moe_router_scaling_factor", NULL, "step35"},
    {"expert_weights_scale",             FK_FLT, "router_scaling_factor", family__one, "hy_v3"},
    {"expert_weights_norm",              FK_BOOL, "norm_topk_prob", NULL,
     "glm4moe dots1 bailingmoe bailingmoe2 nemotron_h_moe exaone-moe"},
    {"expert_weights_norm",              FK_BOOL, "norm_topk_prob", family__yes, "deepseek4"},
    {"expert_gating_func",               FK_INT, NULL, family__four, "deepseek4"},
    {"rope.dimension_count",             FK_INT, NULL, family__rot_v4, "deepseek4"},
    {"rope.freq_base",                   FK_FLT, "rope_parameters.main.rope_theta rope_theta", family__base, "deepseek4"},
    {"attention.compress_rope_freq_base", FK_FLT, "compress_rope_theta rope_parameters.compress.rope_theta", NULL, "deepseek4"},
    {"attention.output_group_count",     FK_INT, "o_groups", NULL, "deepseek4"},
    {"attention.output_lora_rank",       FK_INT, "o_lora_rank", NULL, "deepseek4"},
    {"hash_layer_count",                 FK_INT, "num_hash_layers", family__listed, "deepseek4"},
    {"hyper_connection.count",           FK_INT, "hc_mult", NULL, "deepseek4"},
    {"hyper_connection.sinkhorn_iterations", FK_INT, "hc_sinkhorn_iters", NULL, "deepseek4"},
    {"hyper_connection.epsilon",         FK_FLT, "hc_eps", NULL, "deepseek4"},
    {"moe_latent_size",                  FK_INT, "moe_latent_size", NULL, "nemotron_h_moe"},
    {"rope.scaling.finetuned",           FK_BOOL, NULL, family__rope_hybrid, "granitehybrid nemotron_h nemotron_h_moe"},
    {"expert_weights_norm",              FK_BOOL, "route_norm", family__yes, "hy_v3"},
    {"expert_gating_func",               FK_INT, NULL, family__two, "glm4moe lfm2moe hy_v3 laguna"},
    {"expert_gating_func",               FK_INT, NULL, family__softmax_first, "smallthinker"},
    {"moe_every_n_layers",               FK_INT, "moe_every_n_layer", family__one, "step35"},
    {"moe_every_n_layers",               FK_INT, "moe_every_n_layers", NULL, "nomic-bert-moe"},
    {"nextn_predict_layers",             FK_INT, NULL, family__ahead,
     "glm4moe hy_v3 qwen3next qwen35 qwen35moe mimo2 step35 exaone-moe exaone4 bailingmoe2 deepseek32 glm-dsa"},
    {"attention.indexer.head_count",     FK_INT, "index_n_heads", NULL, "deepseek32 glm-dsa deepseek4"},
    {"attention.indexer.key_length",     FK_INT, "index_head_dim", NULL, "deepseek32 glm-dsa deepseek4"},
    {"attention.indexer.top_k",          FK_INT, "index_topk", NULL, "deepseek32 glm-dsa deepseek4"},
    {"attention.indexer.head_count",     FK_INT, "sparse_attention_config.sparse_num_index_heads", NULL, "minimax-m3"},
    {"attention.indexer.key_length",     FK_INT, "sparse_attention_config.sparse_index_dim", NULL, "minimax-m3"},
    {"attention.indexer.top_k",          FK_INT, "sparse_attention_config.sparse_topk_blocks", NULL, "minimax-m3"},
    {"attention.indexer.block_size",     FK_INT, "sparse_attention_config.sparse_block_size", NULL, "minimax-m3"},
    {"attention.indexer.local_blocks",   FK_INT, "sparse_attention_config.sparse_local_block", NULL, "minimax-m3"},
    {"attention.indexer.head_count",     FK_INT, "indexer_n_heads", NULL, "qwen4exp"},
    {"attention.indexer.key_length",     FK_INT, "indexer_head_dim", NULL, "qwen4exp"},
    {"attention.indexer.top_k",          FK_INT, "indexer_budget", NULL, "qwen4exp"},
    {"hyper_connection.count",           FK_INT, "hc_count", family__four, "qwen4exp"},
    {"hyper_connection.low_rank",        FK_INT, "hc_lowrank", NULL, "qwen4exp"},
    {"num_loops",                        FK_INT, NULL, family__loops, "nanbeige"},
    {"skip_loop_final_norm",             FK_BOOL, "skip_loop_final_norm", family__zero, "nanbeige"},
    {"decoder_block_count",              FK_INT, "num_decoder_layers", NULL, "t5"},
    {"decoder_start_token_id",           FK_INT, "decoder_start_token_id", NULL, "t5"},
    {"attention.relative_buckets_count", FK_INT, "relative_attention_num_buckets", family__buckets, T5},
    {"kda.head_dim",                     FK_INT, "linear_attn_config.head_dim", NULL, "kimi-linear"},
    {"wkv.head_size",                    FK_INT, "head_size head_dim", NULL, "rwkv7 rwkv6 arwkv7"},
    {"wkv.head_size",                    FK_INT, NULL, family__plain_head, "rwkv6qwen2"},
    {"rescale_every_n_layers",           FK_INT, "rescale_every", NULL, "rwkv6"},
    {"time_mix_extra_dim",               FK_INT, "lora_rank_tokenshift", family__mix_rank, "rwkv6qwen2"},
    {"time_decay_extra_dim",             FK_INT, "lora_rank_decay", family__decay_rank, "rwkv6qwen2"},
    {"time_mix_extra_dim",               FK_INT, NULL, family__mix_rank, "rwkv6"},
    {"time_decay_extra_dim",             FK_INT, NULL, family__decay_rank, "rwkv6"},
    {"attention.decay_lora_rank",        FK_INT, "lora_rank_decay decay_low_rank_dim", family__rank_decay, "rwkv7"},
    {"attention.iclr_lora_rank",         FK_INT, "lora_rank_iclr a_low_rank_dim", family__rank_decay, "rwkv7"},
    {"attention.value_residual_mix_lora_rank", FK_INT, "lora_rank_value_residual_mix v_low_rank_dim", family__rank_value,
     "rwkv7"},
    {"attention.gate_lora_rank",         FK_INT, "lora_rank_gate gate_low_rank_dim", family__rank_gate, "rwkv7"},
    {"attention.decay_lora_rank",        FK_INT, NULL, family__rank_decay, "arwkv7"},
    {"attention.iclr_lora_rank",         FK_INT, NULL, family__rank_decay, "arwkv7"},
    {"attention.value_residual_mix_lora_rank", FK_INT, NULL, family__rank_value, "arwkv7"},
    {"attention.gate_lora_rank",         FK_INT, NULL, family__rank_gate, "arwkv7"},
    {"token_shift_count",                FK_INT, NULL, family__one, "arwkv7 rwkv6qwen2"},
    {"n_deepstack_layers",               FK_INT, NULL, family__deepstack, "qwen3vl qwen3vlmoe"},
    {"ssm.conv_kernel",                  FK_INT, "linear_conv_kernel_dim", NULL, FAM_DELTA},
    {"ssm.state_size",                   FK_INT, "linear_key_head_dim", NULL, FAM_DELTA},
    {"ssm.group_count",                  FK_INT, "linear_num_key_heads", NULL, FAM_DELTA},
    {"ssm.time_step_rank",               FK_INT, "linear_num_value_heads", NULL, FAM_DELTA},
    {"ssm.inner_size",                   FK_INT, NULL, family__inner, FAM_DELTA},
    {"full_attention_interval",          FK_INT, "full_attention_interval", NULL, FAM_DELTA},
    {"ssm.conv_kernel",                  FK_INT, "linear_attn_config.short_conv_kernel_size", NULL, "kimi-linear"},
    {"ssm.conv_kernel",                  FK_INT, "mamba_d_conv", family__four, "plamo2"},
    {"ssm.state_size",                   FK_INT, "mamba_d_state", family__sixty_four, "plamo2"},
    {"ssm.time_step_rank",               FK_INT, "mamba_num_heads", family__sixty_four, "plamo2"},
    {"ssm.inner_size",                   FK_INT, NULL, family__inner_plamo2, "plamo2"},
    {"ssm.group_count",                  FK_INT, NULL, family__zero, "plamo2"},
    {"ssm.conv_kernel",                  FK_INT, "conv_kernel d_conv mamba_d_conv", family__four, HYBRID " mamba mamba2 jamba"},
    {"ssm.inner_size",                   FK_INT, "intermediate_size d_inner", family__inner_mamba, "mamba mamba2"},
    {"ssm.inner_size",                   FK_INT, NULL, family__inner_mamba, "jamba"},
    {"ssm.inner_size",                   FK_INT, "mamba_d_ssm", NULL, "falcon-h1"},
    {"ssm.inner_size",                   FK_INT, NULL, family__inner_hybrid, HYBRID},
    {"ssm.time_step_rank",               FK_INT, "mamba_n_heads mamba_num_heads", NULL, HYBRID},
    {"ssm.group_count",                  FK_INT, "n_groups mamba_n_groups", NULL, HYBRID},
    {"ssm.state_size",                   FK_INT, "state_size d_state mamba_d_state ssm_state_size", family__state_mamba,
     HYBRID " mamba mamba2 jamba"},
    {"ssm.time_step_rank",               FK_INT, NULL, family__rank_mamba2, "mamba2"},
    {"ssm.time_step_rank",               FK_INT, "time_step_rank dt_rank mamba_dt_rank", family__rank_mamba, "mamba jamba"},
    {"ssm.group_count",                  FK_INT, "n_groups", family__one, "mamba2"},
    {"ssm.dt_b_c_rms",                   FK_BOOL, NULL, family__falcon_mamba, "mamba"},
    {"shortconv.l_cache",                FK_INT, "conv_L_cache", NULL, "lfm2 lfm2moe"},
};

static bool family__row_is_for(const family_config *c, const char *archs) {
    return !archs || (*archs == '!' ? !family_is(c, archs + 1) : family_is(c, archs));
}

/* The value of a row. False: the config has none. */
static bool family__value(const family_config *c, const family_key *k, double *v) {
    const bytes text = k->from ? family_get(c, k->from) : (bytes){0};
    if (text.n && k->kind == FK_BOOL) return *v = bytes_is(text, "true"), true;
    if (text.n && family_number(c, k->from, v)) return true;
    if (!k->calc) return false;
    *v = k->calc(c);
    return !isnan(*v);
}

static const char *family__key(const family_config *c, const char *name, char key[128]) {
    snprintf(key, 128, "%s.%s", c->row->arch, name);
    return key;
}

static bool family__put(const family_config *c, const family_key *k, gguf_writer *w, err_t *e) {
    char   key[128];
    double v = 0;
    const bytes text = k->from && k->kind != FK_BOOL ? family_get(c, k->from) : (bytes){0};
    if (text.n && text.p[0] == '"')
        return err_set(e, EXIT_INPUT, "%s/config.json: %.*s for %s, expected a number", c->dir, GGUF_SHOW(text), k->key);
    if (!family__value(c, k, &v)) return true;
    family__key(c, k->key, key);
    if (k->kind == FK_INT && !(v >= 0 && v <= UINT32_MAX && v == floor(v)))
        return err_set(e, EXIT_INPUT, "%s/config.json: %s would be %g, expected a whole number", c->dir, k->key, v);
    if (k->kind == FK_INT) gguf_write_u32(w, key, (uint32_t)v);
    else if (k->kind == FK_FLT) gguf_write_f32(w, key, (float)v);
    else gguf_write_bool(w, key, v != 0);
    return true;
}

/* --- keys that are more than a number --- */

/* A number about RoPE, of the layers that see everything where there are two kinds. False: there is none. */
static bool family_rope(const family_config *c, const char *name, double *out) {
    char paths[256];
    snprintf(paths, sizeof paths,
             "rope_parameters.full_attention.%s rope_parameters.compress.%s rope_parameters.%s rope_scaling.%s", name, name, name,
             name);
    return family_number(c, paths, out);
}

static void family__rope_number(const family_config *c, gguf_writer *w, const char *from, const char *name) {
    char   key[128];
    double v;
    if (family_rope(c, from, &v)) gguf_write_f32(w, family__key(c, name, key), (float)v);
}

/* RoPE of all but those that write their keys one by one. */
static void family__rope_keys(const family_config *c, gguf_writer *w) {
    static const char type[] = ROPE_IN("rope_type") " rope_scaling.type";
    char   key[128];
    double v = 0, factor = 0;
    const bool scaled = family_rope(c, "factor", &factor);
    if (family__says(c, type, "linear") && scaled) {
        gguf_write_str(w, family__key(c, "rope.scaling.type", key), bytes_of("linear"));
        gguf_write_f32(w, family__key(c, "rope.scaling.factor", key), (float)factor);
    } else if (family__says(c, type, "yarn") && scaled) {
        gguf_write_str(w, family__key(c, "rope.scaling.type", key), bytes_of("yarn"));
        gguf_write_f32(w, family__key(c, "rope.scaling.factor", key), (float)factor);
        if (family_rope(c, "original_max_position_embeddings", &v) || family_number(c, "original_max_position_embeddings", &v))
            gguf_write_u32(w, family__key(c, "rope.scaling.original_context_length", key), (uint32_t)v);
        family__rope_number(c, w, "extrapolation_factor", "rope.scaling.yarn_ext_factor");
        family__rope_number(c, w, family_rope(c, "attention_factor", &v) ? "attention_factor" : "attn_factor",
                            "rope.scaling.yarn_attn_factor");
        family__rope_number(c, w, "beta_fast", "rope.scaling.yarn_beta_fast");
        family__rope_number(c, w, "beta_slow", "rope.scaling.yarn_beta_slow");
    } else if (family__says(c, type, "longrope") || family__says(c, type, "su")) {
        gguf_write_str(w, family__key(c, "rope.scaling.type", key), bytes_of("longrope"));
    } else if (family_is(c, "bitnet")) {
        gguf_write_str(w, family__key(c, "rope.scaling.type", key), bytes_of("linear"));
        gguf_write_f32(w, family__key(c, "rope.scaling.factor", key), 1);
    } else if (family_is(c, "deepseek modern-bert eurobert neo-bert nemotron command-r cohere2 cohere2moe exaone-moe")) {
        gguf_write_str(w, family__key(c, "rope.scaling.type", key), bytes_of("none"));
    }
    if (family__alpha(c, &v)) {
        gguf_write_f32(w, family__key(c, "rope.freq_base", key), (float)v);
        gguf_write_str(w, family__key(c, "rope.scaling.type", key), bytes_of("none"));
        gguf_write_f32(w, family__key(c, "rope.scaling.factor", key), 1);
        gguf_write_u32(w, family__key(c, "rope.scaling.original_context_length", key), 1 << 18);
        return;
    }
    if (family__xdrope(c)) {
        const double ctx = family_int(c, "max_position_embeddings", 0);
        double       alpha = 1, by = 1;
        family_rope(c, "alpha", &alpha);
        family_rope(c, "factor", &by);
        gguf_write_str(w, family__key(c, "rope.scaling.type", key), bytes_of("none"));
        gguf_write_f32(w, family__key(c, "rope.scaling.alpha", key), (float)alpha);
        gguf_write_f32(w, family__key(c, "rope.scaling.factor", key), (float)by);
        gguf_write_u32(w, family__key(c, "rope.scaling.original_context_length", key), (uint32_t)ctx);
    }
    if (family_is(c, "neo-bert deepseek4")) return;   /* their base is a row of family_keys */
    if (family_is(c, "step35") && family_get(c, "rope_theta").n && *family_get(c, "rope_theta").p == '[') {
        v = family_item(c, "rope_theta", 0);
        if (!isnan(v)) gguf_write_f32(w, family__key(c, "rope.freq_base", key), (float)v);
        v = family_item(c, "rope_theta", 1);
        if (!isnan(v)) gguf_write_f32(w, family__key(c, "rope.freq_base_swa", key), (float)v);
        return;
    }
    if (family_number(c, ROPE_IN("rope_theta") " global_rope_theta rope_global_theta "
                         "rope_theta_global rope_theta "
                         "rotary_emb_base", &v))
        gguf_write_f32(w, family__key(c, "rope.freq_base", key), (float)v);
    else if (family_is(c, "gemma3 gemma-embedding gemma3n gemma4"))
        gguf_write_f32(w, family__key(c, "rope.freq_base", key), 1e6f);
    if (family_number(c, "rope_parameters.sliding_attention.rope_theta local_rope_theta rope_local_theta rope_theta_local "
                         "swa_rope_theta rope_local_base_freq", &v))
        gguf_write_f32(w, family__key(c, "rope.freq_base_swa", key), (float)v);
}

/* Sections of RoPE, padded to four. */
static void family__sections(const family_config *c, gguf_writer *w) {
    bytes    list = family_get(c, "rope_parameters.xdrope_section rope_scaling.xdrope_section rope_parameters.mrope_section "
                               "rope_scaling.mrope_section"), item;
    int32_t  v[4] = {0};
    char     key[128];
    int      n = 0;
    if (!list.n && !family_is(c, "qwen35 qwen35moe qwen4exp")) return;
    if (!list.n) v[0] = v[1] = 11, v[2] = 10;
    for (; n < 4 && bytes_cut_item(&list, &item); n++) v[n] = (int32_t)strtol((const char *)item.p, NULL, 10);
    gguf_write_array(w, family__key(c, "rope.dimension_sections", key), GGUF_I32, v, 4);
}

/* Whether layer i of the config's list is of this kind. */
static bool family__layer_is(bytes types, int i, const char *kind) {
    bytes item = {0};
    for (int k = 0; k <= i; k++)
        if (!bytes_cut_item(&types, &item)) return false;
    return item.n == strlen(kind) + 2 && !memcmp(item.p + 1, kind, item.n - 2);
}

/* Which layers have a window, where the config has a value for each layer. */
static void family__windows(const family_config *c, gguf_writer *w) {
    const bytes types = family_get(c, "layer_types");
    char        key[128];
    const int   n = c->n_layer + (family_is(c, "step35") ? c->n_ahead : 0);
    uint8_t    *on = mem_new((size_t)n, 1);
    const bool  every4 = family_is(c, "olmo2") && !types.n;
    for (int i = 0; i < n; i++) on[i] = every4 ? (i + 1) % 4 != 0 : family__layer_is(types, i, "sliding_attention");
    const bytes pattern = family_get(c, "sliding_window_pattern");
    const int   every = family_int(c, "sliding_window_pattern", 0);
    const bool  letters = pattern.n > 2 && pattern.p[0] == '"', exaone = family_is(c, "exaone4 exaone-moe");
    for (int i = 0; i < c->n_layer && exaone && !types.n; i++)
        on[i] = letters ? pattern.p[1 + (size_t)i % (pattern.n - 2)] == 'L' : every && (i + 1) % every != 0;
    if (family_is(c, "gemma3n gemma4 cohere2moe step35") || (family_is(c, "olmo2 mellum") && family_get(c, "sliding_window").n) ||
        (exaone && family_get(c, "sliding_window").n && (types.n || letters || every)))
        gguf_write_array(w, family__key(c, "attention.sliding_window_pattern", key), GGUF_BOOL, on, (uint64_t)n);
    mem_free(on);
}

/* An array of whole numbers, one for each of n layers. */
static void family__array(const family_config *c, gguf_writer *w, const char *name, const int32_t *v, int n) {
    char key[128];
    gguf_write_array(w, family__key(c, name, key), GGUF_I32, v, (uint64_t)n);
}

/* OpenELM: a multiple of `by` that is no more than a tenth less than x. */
static int32_t family__divisible(double x, int by) {
    const double n = max_f64(by, floor(trunc(x + by / 2.0) / by) * by), more = n < 0.9 * x ? n + by : n;
    return more < 1 << 30 ? (int32_t)more : 0;
}

typedef struct {
    const family_config *c;
    gguf_writer *w;
    int32_t     *q, *k, *ff;         /* [n] heads of queries, heads of keys, widths of the feed-forward    */
    int          n;                  /* layers and draft heads                                             */
} family__layers_job;

static void family__openelm(const family__layers_job *j) {
    const family_config *c = j->c;
    const int            by = max_int(family_int(c, "ffn_dim_divisor", 1), 1);
    for (int i = 0; i < j->n; i++) {
        j->q[i] = (int32_t)family__small(family_item(c, "num_query_heads", i));
        j->k[i] = (int32_t)family__small(family_item(c, "num_kv_heads", i));
        j->ff[i] = family__divisible(family__small(family_item(c, "ffn_multipliers", i)) * c->n_embd, by);
    }
    family__array(c, j->w, "feed_forward_length", j->ff, j->n);
    family__array(c, j->w, "attention.head_count", j->q, j->n);
    family__array(c, j->w, "attention.head_count_kv", j->k, j->n);
}

/* DeciLM 7B has a list of heads of keys; the Nemotrons have block_configs. */
static void family__deci(const family__layers_job *j) {
    const family_config *c = j->c;
    const bool           blocks = family_get(c, "block_configs").n > 0;
    char                 key[128];
    for (int i = 0; i < j->n; i++) {
        const bytes  linear = family__block(c, i, "attention", "replace_with_linear");
        const double wide = floor(2 * family__text_number(family__block(c, i, "ffn", "ffn_mult")) * c->n_embd / 3);
        j->k[i] = family__layer_kv(c, i);
        j->q[i] = j->k[i] || bytes_is(linear, "true") ? c->n_head : 0;
        j->ff[i] = wide < 1 << 30 ? ((int32_t)wide + 255) / 256 * 256 : 0;
    }
    if (blocks) family__array(c, j->w, "attention.head_count", j->q, j->n);
    else gguf_write_u32(j->w, family__key(c, "attention.head_count", key), (uint32_t)c->n_head);
    if (blocks) family__array(c, j->w, "feed_forward_length", j->ff, j->n);
    else gguf_write_u32(j->w, family__key(c, "feed_forward_length", key), (uint32_t)family_int(c, "intermediate_size", 0));
    if (blocks || family_get(c, "num_key_value_heads_per_layer").n)
        family__array(c, j->w, "attention.head_count_kv", j->k, j->n);
    else gguf_write_u32(j->w, family__key(c, "attention.head_count_kv", key), (uint32_t)c->n_kv);
}

static void family__laguna(const family__layers_job *j) {
    for (int i = 0; i < j->n; i++) {
        const double own = family_item(j->c, "num_attention_heads_per_layer", i);
        j->q[i] = isnan(own) ? j->c->n_head : (int32_t)family__small(own);
    }
    family__array(j->c, j->w, "attention.head_count", j->q, j->n);
}

/* Layers of the list, counted from 1, have attention; the others have states. */
static void family__kimi(const family__layers_job *j) {
    bytes list = family_get(j->c, "linear_attn_config.full_attn_layers"), item;
    while (bytes_cut_item(&list, &item)) {
        const long i = strtol((const char *)item.p, NULL, 10);
        if (i >= 1 && i <= j->n) j->k[i - 1] = 1;
    }
    family__array(j->c, j->w, "attention.head_count_kv", j->k, j->n);
}

static void family__plamo2(const family__layers_job *j) {
    const int step = max_int(family_int(j->c, "mamba_step", 2), 1), heads = family_int(j->c, "num_attention_heads", 32),
              kv = family_int(j->c, "num_key_value_heads", 4);
    if (bytes_is(family_get(j->c, "mamba_enabled"), "false")) return;
    for (int i = 0; i < j->n; i++)
        if (j->n <= step / 2 ? i == j->n - 1 : i % step == step / 2) j->q[i] = heads, j->k[i] = kv;
    family__array(j->c, j->w, "attention.head_count_kv", j->k, j->n);
    family__array(j->c, j->w, "attention.head_count", j->q, j->n);
}

/* Draft heads have a window. */
static void family__mimo(const family__layers_job *j) {
    for (int i = 0; i < j->n; i++) {
        j->ff[i] = i < j->c->n_layer ? (int32_t)family__small(family_item(j->c, "hybrid_layer_pattern", i)) : 1;
        j->k[i] = family_int(j->c, j->ff[i] == 1 ? "swa_num_key_value_heads" : "num_key_value_heads", 0);
    }
    family__array(j->c, j->w, "attention.head_count_kv", j->k, j->n);
    family__array(j->c, j->w, "attention.sliding_window_pattern", j->ff, j->n);
}

static void family__step(const family__layers_job *j) {
    static const char *const limits[][2] = {{"swiglu_limits", "swiglu_clamp_exp"},
                                            {"swiglu_limits_shared", "swiglu_clamp_shexp"}};
    const bytes types = family_get(j->c, "layer_types");
    const int   heads = j->c->n_head, kv = family_int(j->c, "num_attention_groups", 0);
    float      *limit = mem_new((size_t)j->n, sizeof *limit);
    char        key[128];
    for (int i = 0; i < j->n; i++) {
        const bool local = family__layer_is(types, i, "sliding_attention");
        j->q[i] = local ? family_int(j->c, "attention_other_setting.num_attention_heads", heads) : heads;
        j->k[i] = local ? family_int(j->c, "attention_other_setting.num_attention_groups", kv) : kv;
    }
    family__array(j->c, j->w, "attention.head_count", j->q, j->n);
    family__array(j->c, j->w, "attention.head_count_kv", j->k, j->n);
    for (int k = 0; k < 2; k++) {
        if (!family_get(j->c, limits[k][0]).n) continue;
        for (int i = 0; i < j->n; i++) {
            const double x = family_item(j->c, limits[k][0], i);
            limit[i] = isnan(x) ? 0 : (float)x;
        }
        gguf_write_array(j->w, family__key(j->c, limits[k][1], key), GGUF_F32, limit, (uint64_t)j->n);
    }
    mem_free(limit);
}

/* Numbers of layers whose kinds the config has in a form of its own. */
static void family__by_kind(const family_config *c, gguf_writer *w) {
    static const struct { const char *arch; void (*write)(const family__layers_job *j); } kinds[] = {
        {"openelm", family__openelm}, {"deci", family__deci}, {"laguna", family__laguna}, {"kimi-linear", family__kimi},
        {"plamo2", family__plamo2}, {"mimo2", family__mimo}, {"step35", family__step}};
    const size_t       n = (size_t)(c->n_layer + c->n_ahead);
    family__layers_job j = {c, w, mem_new(n, sizeof *j.q), mem_new(n, sizeof *j.k), mem_new(n, sizeof *j.ff), (int)n};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (family_is(c, kinds[i].arch)) kinds[i].write(&j);
    mem_free_all(j.q, j.k, j.ff);
}

static bool family__is_prime(uint64_t n) {
    for (uint64_t i = 2; i * i <= n; i++)
        if (n % i == 0) return false;
    return n > 1;
}

/* How the n-grams of Qwen 4 find rows of their table: odd factors from a seed, and for each head as many rows as the next prime
 * says. n is 0 where there is none, or where the config has sizes that no table can have. */
static family_hash family_grams(const family_config *c) {
    family_hash    to = {.n = family_int(c, "ngram_size", 3), .each = family_int(c, "heads_per_ngram", 8)};
    const uint64_t vocab = (uint64_t)max_int(family_int(c, "vocab_size", 1), 1), seed = (uint64_t)family_int(c, "seed", 1234),
                   half = max_u64((INT64_MAX / vocab) / 2, 1);
    uint64_t       rows = (uint64_t)family_int(c, "ngram_vocab_size_base", 20000000), at = 0;
    const double   stop = family_item(c, "eos_token_id", 0);
    if (isnan(family_item(c, "ple_layer_ids", 0)) || to.n < 2 || to.n > FAM_GRAM || to.each < 1 ||
        (to.n - 1) * to.each > FAM_GRAM_HEADS) return (family_hash){0};
    to.stop = stop >= 0 && stop <= INT32_MAX ? (int)stop : -1;
    for (int i = 0; i < to.n; i++)
        to.factor[i] = 2 * (rng_mix(seed + 0x9E3779B97F4A7C15u * (uint64_t)(i + 1)) % half) + 1;
    for (int h = 0; h < (to.n - 1) * to.each; h++, rows++) {
        while (!family__is_prime(rows)) rows++;
        to.first[h] = at;
        to.rows[h] = rows;
        at += rows;
    }
    return to;
}

/* Which layers are gated delta nets, blocks of the indexer, and the n-grams. */
static bool family__qwen4(const family_config *c, gguf_writer *w, err_t *e) {
    const family_hash gr = family_grams(c);
    const bytes       types = family_get(c, "layer_types");
    const int         n = c->n_layer, heads = (gr.n - 1) * gr.each, ratio = family_int(c, "indexer_compress_ratio", 0);
    char              key[128];
    if (!family__says(c, "output_gate_type", "sigmoid"))
        return err_set(e, EXIT_INPUT, "%s/config.json: output_gate_type is not sigmoid, expected that", c->dir);
    int32_t *v = mem_new((size_t)n, sizeof *v);
    uint8_t *delta = mem_new((size_t)n, 1);
    const int every = max_int(family_int(c, "full_attention_interval", 4), 1);
    for (int i = 0; i < n; i++) {
        delta[i] = types.n ? family__layer_is(types, i, "linear_attention") : (i + 1) % every != 0;
        v[i] = delta[i] ? 0 : ratio;
    }
    gguf_write_array(w, family__key(c, "attention.recurrent_layers", key), GGUF_BOOL, delta, (uint64_t)n);
    if (ratio) gguf_write_array(w, family__key(c, "attention.compress_ratios", key), GGUF_I32, v, (uint64_t)n);
    int layers = 0;
    for (double x; gr.n && layers < n && !isnan(x = family_item(c, "ple_layer_ids", layers)); layers++)
        v[layers] = x >= 1 && x <= n ? (int32_t)x - 1 : n;
    if (layers) {
        gguf_write_array(w, family__key(c, "ple.layers", key), GGUF_I32, v, (uint64_t)layers);
        gguf_write_u32(w, family__key(c, "ple.ngram_size", key), (uint32_t)gr.n);
        gguf_write_u32(w, family__key(c, "ple.heads_per_ngram", key), (uint32_t)gr.each);
        gguf_write_u32(w, family__key(c, "ple.conv_kernel", key), (uint32_t)family_int(c, "ple_conv_kernel_size", 4));
        if (gr.stop >= 0) gguf_write_u32(w, family__key(c, "ple.eos_token_id", key), (uint32_t)gr.stop);
        gguf_write_u32(w, family__key(c, "embedding_length_per_layer_input", key),
                       (uint32_t)(family_int(c, "ple_embed_dim", c->n_embd) / heads));
        gguf_write_array(w, family__key(c, "ple.layer_multipliers", key), GGUF_U64, gr.factor, (uint64_t)gr.n);
        gguf_write_array(w, family__key(c, "ple.head_offsets", key), GGUF_U64, gr.first, (uint64_t)heads);
        gguf_write_array(w, family__key(c, "ple.head_vocab_sizes", key), GGUF_U64, gr.rows, (uint64_t)heads);
    }
    mem_free_all(v, delta);
    return true;
}

/* Numbers that differ between layers. */
static void family__by_layer(const family_config *c, gguf_writer *w) {
    const bytes types = family_get(c, "layer_types");
    char        key[128];
    int32_t    *v = mem_new((size_t)c->n_layer, sizeof *v);
    const int   kv = family_int(c, "num_key_value_heads", c->n_head), full = family_int(c, "num_global_key_value_heads", -1),
                ff = family_int(c, "intermediate_size", 0), shared = family_int(c, "num_kv_shared_layers", 0);
    if (family_is(c, "lfm2 lfm2moe")) {
        const bool conv = family_is(c, "lfm2");
        for (int i = 0; i < c->n_layer; i++)
            v[i] = (conv ? !family__layer_is(types, i, "conv") : family__layer_is(types, i, "full_attention")) ? kv : 0;
        gguf_write_array(w, family__key(c, "attention.head_count_kv", key), GGUF_I32, v, (uint64_t)c->n_layer);
    }
    if (family_is(c, "granitehybrid nemotron_h nemotron_h_moe")) {
        const bytes block = family_get(c, "layers_block_type"), letters = family_get(c, "hybrid_override_pattern"),
                    kinds = types.n ? types : block;
        const bool  moe = family_is(c, "nemotron_h_moe");
        for (int i = 0; i < c->n_layer; i++)
            v[i] = (letters.n > (size_t)i + 1 ? letters.p[i + 1] == '*' : family__layer_is(kinds, i, "attention") ||
                        family__layer_is(kinds, i, "full_attention")) ? kv : 0;
        gguf_write_array(w, family__key(c, "attention.head_count_kv", key), GGUF_I32, v, (uint64_t)c->n_layer);
        for (int i = 0; i < c->n_layer; i++)
            v[i] = (letters.n > (size_t)i + 1 ? letters.p[i + 1] == (moe ? 'E' : '-') : family__layer_is(kinds, i, "moe") ||
                        family__layer_is(kinds, i, "mlp")) ? moe ? family_int(c, "moe_intermediate_size", 0) : ff : 0;
        if (!family_is(c, "granitehybrid"))
            gguf_write_array(w, family__key(c, "feed_forward_length", key), GGUF_I32, v, (uint64_t)c->n_layer);
    }
    if (family_is(c, "jamba")) {
        const int from = family_int(c, "attn_layer_offset", 0), step = max_int(family_int(c, "attn_layer_period", 1), 1);
        for (int i = 0; i < c->n_layer; i++) v[i] = i >= from && (i - from) % step == 0 ? kv : 0;
        gguf_write_array(w, "jamba.attention.head_count_kv", GGUF_I32, v, (uint64_t)c->n_layer);
    }
    if (family_is(c, "gemma4")) {
        for (int i = 0; i < c->n_layer; i++) v[i] = family__layer_is(types, i, "sliding_attention") ? kv : full;
        if (full >= 0) gguf_write_array(w, family__key(c, "attention.head_count_kv", key), GGUF_I32, v, (uint64_t)c->n_layer);
        else gguf_write_u32(w, family__key(c, "attention.head_count_kv", key), (uint32_t)kv);
        for (int i = 0; i < c->n_layer; i++) v[i] = i < c->n_layer - shared ? ff : 2 * ff;
        if (family_true(c, "use_double_wide_mlp"))
            gguf_write_array(w, family__key(c, "feed_forward_length", key), GGUF_I32, v, (uint64_t)c->n_layer);
        else gguf_write_u32(w, family__key(c, "feed_forward_length", key), (uint32_t)ff);
    }
    if (family_is(c, "gemma3n")) {                    /* one for each layer, or one for all */
        bytes list = family_get(c, "intermediate_size"), item;
        for (int i = 0; i < c->n_layer; i++) v[i] = bytes_cut_item(&list, &item) ? (int32_t)strtol((const char *)item.p, NULL,
                                                                      10) : ff;
        if (ff) gguf_write_u32(w, family__key(c, "feed_forward_length", key), (uint32_t)ff);
        else gguf_write_array(w, family__key(c, "feed_forward_length", key), GGUF_I32, v, (uint64_t)c->n_layer);
    }
    family__by_kind(c, w);
    mem_free(v);
}

/* The x below which a standard normal variable lies with probability p. */
static double family__quantile(double p) {
    double lo = -40, hi = 40;
    if (p == 0.5) return 0;
    for (int i = 0; i < 200; i++) {
        const double mid = (lo + hi) / 2;
        *(erfc(-mid * 0.70710678118654752440) / 2 < p ? &lo : &hi) = mid;
    }
    return (lo + hi) / 2;
}

/* Which gates of gemma3n are cut off. */
static void family__sparsity(const family_config *c, gguf_writer *w) {
    bytes  list = family_get(c, "activation_sparsity_pattern"), item;
    float *v = mem_new((size_t)c->n_layer, sizeof *v);
    char   key[128];
    for (int i = 0; i < c->n_layer; i++) {
        const double p = bytes_cut_item(&list, &item) ? (double)(float)strtod((const char *)item.p, NULL) : 0;
        v[i] = p <= 0 ? -INFINITY : p >= 1 ? INFINITY : (float)family__quantile(p);
    }
    gguf_write_array(w, family__key(c, "activation_sparsity_scale", key), GGUF_F32, v, (uint64_t)c->n_layer);
    mem_free(v);
}

/* How vectors are pooled: modules.json names a folder, whose config.json says it. */
static bool family__pooling(const family_config *c, gguf_writer *w, err_t *e) {
    static const struct { const char *flag, *mode; uint32_t type; } modes[] = {
        {"pooling_mode_mean_tokens", "mean", 1}, {"pooling_mode_cls_token", "cls", 2},
            {"pooling_mode_lasttoken", "lasttoken", 3}};
    str      modules = {0}, config = {0}, path = {0}, type = {0};
    char     key[128];
    int      got = st_read_json(c->dir, "modules.json", &modules, e);
    bytes    list = str_bytes(&modules), item;
    while (got == 1 && bytes_cut_item(&list, &item)) {
        str_clear(&type);
        str_clear(&path);
        if (!str_unquote(&type, bytes_trim(bytes_member(item, "type")), true) ||
            !bytes_ends(str_bytes(&type), bytes_of("Pooling"))) continue;
        const bool named = str_unquote(&path, bytes_trim(bytes_member(item, "path")), true) && path.n && path.p[0] != '/' &&
                           bytes_find(str_bytes(&path), 0, bytes_of("..")) == SIZE_MAX && !memchr(path.p, 0, path.n);
        if (!named) got = err_set(e, EXIT_INPUT, "%s/modules.json: a pooling without a folder, expected its path", c->dir) ? 1
            : -1;
        else str_put(&path, "/config.json"), got = st_read_json(c->dir, path.p, &config, e);
        for (size_t i = 0; got == 1 && i < 3; i++) {
            const bytes mode = bytes_trim(bytes_member(str_bytes(&config), "pooling_mode"));
            const bool  is = bytes_is(bytes_trim(bytes_member(str_bytes(&config), modes[i].flag)), "true") ||
                             (mode.n == strlen(modes[i].mode) + 2 && !memcmp(mode.p + 1, modes[i].mode, mode.n - 2));
            if (!is) continue;
            gguf_write_u32(w, family__key(c, "pooling_type", key), modes[i].type);
            break;
        }
        break;
    }
    str_drop_all(&modules, &config, &path, &type);
    return !e->code;
}

/* Names of the classes of a classifier, in the order of their keys as texts; the two that stand for none are left out. */
static void family__labels(const family_config *c, gguf_writer *w) {
    bytes  rest = family_get(c, "id2label"), key = {0}, value, *label = NULL;
    str   *text = NULL;
    size_t n = 0;
    char   name[128];
    while (bytes_cut_member(&rest, &key, &value)) {
        str s = {0};
        if (!str_unquote(&s, bytes_trim(value), false)) {
            str_drop(&s);
            continue;
        }
        text = mem_reserve(text, n, UINT64_MAX, sizeof *text);
        label = mem_reserve(label, n, UINT64_MAX, sizeof *label);
        label[n] = str_bytes(&s);
        text[n++] = s;
    }
    if (n && !(n == 2 && bytes_is(label[0], "LABEL_0")))
        gguf_write_strs(w, family__key(c, "classifier.output_labels", name), label, n);
    for (size_t i = 0; i < n; i++) str_drop(&text[i]);
    mem_free_all(text, label);
}

/* Which layers of GLM have an indexer of their own. */
static void family__index_types(const family_config *c, gguf_writer *w) {
    bytes    list = family_get(c, "indexer_types"), item, at = list;
    char     key[128];
    uint64_t n = 0, i = 0;
    while (bytes_cut_item(&at, &item)) n++;
    uint8_t *full = mem_new(n, 1);
    for (at = list; i < n && bytes_cut_item(&at, &item); i++) full[i] = bytes_is(item, "\"full\"");
    if (list.n) gguf_write_array(w, family__key(c, "attention.indexer.types", key), GGUF_BOOL, full, n);
    mem_free(full);
}

/* YaRN of Grok, whose members lie in the config itself. */
static void family__yarn_grok(const family_config *c, gguf_writer *w) {
    static const struct { const char *from, *key; } numbers[] = {
        {"scaling_factor", "rope.scaling.factor"}, {"extrapolation_factor", "rope.scaling.yarn_ext_factor"},
        {"attn_factor", "rope.scaling.yarn_attn_factor"}, {"beta_fast", "rope.scaling.yarn_beta_fast"},
        {"beta_slow", "rope.scaling.yarn_beta_slow"}};
    char   key[128];
    double v;
    if (!family__says(c, "rope_type", "yarn") && !family__says(c, "rope_type", "original")) return;
    gguf_write_str(w, family__key(c, "rope.scaling.type", key), bytes_of("yarn"));
    gguf_write_u32(w, family__key(c, "rope.scaling.original_context_length", key),
                   (uint32_t)family_int(c, "original_max_position_embeddings", 0));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (family_number(c, numbers[i].from, &v)) gguf_write_f32(w, family__key(c, numbers[i].key, key), (float)v);
}

static bool family__causal(const family_config *c) {
    return !family_is(c, "bert nomic-bert nomic-bert-moe jina-bert-v2 jina-bert-v3 modern-bert neo-bert eurobert dream llada "
                      "llada-moe") &&
           !bytes_is(family_get(c, "is_causal"), "false");
}

/* Groups of positions of each layer, and cuts of its experts, of DeepSeek V4. */
static bool family__v4(const family_config *c, gguf_writer *w, err_t *e) {
    static const char *const kinds[] = {"compressed_sparse_attention", "heavily_compressed_attention"},
                      *const paths[] = {"compress_rates.compressed_sparse_attention compress_rate_csa",
                                        "compress_rates.heavily_compressed_attention compress_rate_hca"};
    const bytes types = family_get(c, "layer_types");
    const bool  ratios = family_get(c, "compress_ratios").n;
    const int   n = c->n_layer, rate[] = {family_int(c, paths[0], 4), family_int(c, paths[1], 128)};
    double      cut = 0;
    char        key[128];
    if (family_get(c, "scoring_func").n && !family__says(c, "scoring_func", "sqrtsoftplus"))
        return err_set(e, EXIT_INPUT, "%s/config.json: scoring_func is not sqrtsoftplus, expected that", c->dir);
    if (!ratios && !types.n)
        return err_set(e, EXIT_INPUT, "%s/config.json: no compress_ratios, expected those of %d layers", c->dir, n);
    int32_t *v = mem_new((size_t)n, sizeof *v);
    float   *limit = mem_new((size_t)n, sizeof *limit);
    family_number(c, "swiglu_limit", &cut);
    for (int i = 0; i < n; i++) {
        const double is = ratios ? family_item(c, "compress_ratios", i) : 0;
        v[i] = is >= 0 && is <= INT32_MAX ? (int32_t)is : -1;       /* the loader says what is wrong with others */
        for (int k = 0; k < 2 && !ratios; k++)
            if (family__layer_is(types, i, kinds[k])) v[i] = rate[k];
        limit[i] = (float)cut;
    }
    gguf_write_array(w, family__key(c, "attention.compress_ratios", key), GGUF_I32, v, (uint64_t)n);
    gguf_write_array(w, family__key(c, "swiglu_clamp_exp", key), GGUF_F32, limit, (uint64_t)n);
    gguf_write_array(w, family__key(c, "swiglu_clamp_shexp", key), GGUF_F32, limit, (uint64_t)n);
    mem_free_all(v, limit);
    return true;
}

static const char *family__score(const family_config *c) {
    static const char names[] = "score_function scoring_func score_func moe_router_activation moe_router_activation_func "
                                "expert_selection_fn";
    return family__says(c, names, "sigmoid") ? "sigmoid" : family__says(c, names, "softmax") ? "softmax" : "";
}

static bool family__more(const family_config *c, gguf_writer *w, err_t *e) {
    char key[128];
    str  act = {0};
    if (!family_is(c, FAM_OWN)) {
        family__rope_keys(c, w);
        family__sections(c, w);
        if (*family__score(c) && !family_is(c, "glm4moe lfm2moe hy_v3 laguna smallthinker"))
            gguf_write_u32(w, family__key(c, "expert_gating_func", key), *family__score(c) == 's' && family__score(c)[1] == 'i'
                           ? 2 : 1);
    }
    double base = 10000;
    if (family_is(c, "phi3 phimoe")) {
        family_number(c, ROPE_IN("rope_theta") " rope_theta", &base);
        gguf_write_f32(w, family__key(c, "rope.freq_base", key), (float)base);
    }
    if (family_is(c, "falcon")) gguf_write_str(w, "falcon.tensor_data_layout", bytes_of("jploski"));
    if (family_is(c, "codeshell")) {
        gguf_write_str(w, "codeshell.rope.scaling.type", bytes_of("linear"));
        gguf_write_f32(w, "codeshell.rope.scaling.factor", 1);
    }
    if (family_is(c, "baichuan xverse orion"))
        gguf_write_str(w, family__key(c, "tensor_data_layout", key), bytes_of("Meta AI original pth"));
    family__windows(c, w);
    family__by_layer(c, w);
    if (family_is(c, "gemma3n")) family__sparsity(c, w);
    if (family_is(c, "qwen4exp") && !family__qwen4(c, w, e)) return false;
    if (family_is(c, "deepseek4") && !family__v4(c, w, e)) return false;
    if (!family__causal(c)) gguf_write_bool(w, family__key(c, "attention.causal", key), false);
    if (family_is(c, "llada llada-moe")) gguf_write_bool(w, "diffusion.shift_logits", false);
    if (family_is(c, "glm-dsa")) family__index_types(c, w);
    if (family_is(c, "grok")) family__yarn_grok(c, w);
    if (family_is(c, "bert neo-bert modern-bert")) family__labels(c, w);
    if (family_is(c, "modern-bert") && str_unquote(&act, family_get(c, "hidden_activation"), true))
        gguf_write_str(w, "modern-bert.hidden_activation", str_bytes(&act));
    str_drop(&act);
    if (family_is(c, "neo-bert")) return gguf_write_u32(w, "neo-bert.pooling_type", 2), true;
    return !family_is(c, "bert nomic-bert nomic-bert-moe jina-bert-v2 modern-bert eurobert gemma-embedding qwen2 qwen3 arcee "
                      "dream llada") ||
           family__pooling(c, w, e);
}

/* Writes the keys of the architecture. On failure e is set. */
static bool family_write_keys(const family_config *c, gguf_writer *w, err_t *e) {
    for (size_t i = 0; i < sizeof family_keys / sizeof *family_keys; i++) {
        const family_key *k = &family_keys[i];
        bool              first = true;               /* an earlier row of this key is for the architecture */
        if (!family__row_is_for(c, k->archs)) continue;
        for (size_t j = 0; j < i; j++)
            first = first && (strcmp(family_keys[j].key, k->key) != 0 || !family__row_is_for(c, family_keys[j].archs));
        if (first && !family__put(c, k, w, e)) return false;
    }
    return family__more(c, w, e);
}
