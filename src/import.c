/* ===== [import] a checkpoint's folder as a model file =====
 * import_open() gives a gguf_file for a folder that transformers reads, so that everything else works as with a GGUF file: keys
 * from config.json and the tokenizer, and tensors under GGUF names. import_names maps names, a row each: where a tensor goes and
 * what changes on the way. Matrices of F32, F16 and BF16 whose rows stay as they are, are views of the mapped files. All others
 * are made when they are wanted: norms in F32, stacks of experts, transposed and split matrices, quantised weights.
 *   For a file (IMPORT_FILE) rows of Q and K are permuted where llama.cpp rotates pairs. A model that runs from the folder keeps
 * them: the key ARCH.rope.halves tells the step to read halves and to write pairs (K_ROPE_TO_PAIRS), which gives the same bits.
 *   IMPORT_EXACT: quantised matrices become F32, to be quantised to another type. Otherwise each keeps its precision (dq_exact).
 * A tensor of the folder that no row takes is an error, and so is one that a row needs and that is missing; the loader finds the
 * others that are missing, and shapes that do not match.
 * To add a name: a row of import_names. Names are matched without the parts that import_fronts and import_inner list; # is
 * the number of an expert.
 * Public: import_open, import_is_folder, import_list, import_adapter_open, import_adapter_drop.
 * Opens: import_adapter, import_base, import_low. */

enum { IMPORT_FILE = 1, IMPORT_EXACT = 2, IMPORT_LAZY = 4 };  /* flags: see the banner; LAZY: made when gguf_fill() asks */

typedef enum {
    IC_NONE,                         /* as it is                                                           */
    IC_Q, IC_K,                      /* rows of a head: two halves become pairs, in families with FAM_PAIRS */
    IC_TRANSPOSE,                    /* the matrix is stored as [in, out]                                  */
    IC_HALVES,                       /* two tensors: the first half of the rows, the second                */
    IC_HALVES_T,                     /* the same of a transposed matrix                                    */
    IC_EVEN_ODD,                     /* two tensors: even rows, odd rows                                   */
    IC_EVEN_ODD_T,                   /* the same of a transposed matrix                                    */
    IC_SQUEEZE,                      /* dimensions of 1 go                                                 */
    IC_NEG_EXP,                      /* -exp(x)                                                            */
    IC_QKV_THIRDS,                   /* three tensors, a third of the rows each; Q and K as IC_Q, IC_K     */
    IC_QKV_HEADS,                    /* three tensors: all rows of Q, of K, of V; Q and K likewise         */
    IC_QKV_GROUPS,                   /* three tensors: groups of queries, a key and a value                */
    IC_QKV_BLOOM,                    /* rows by head: query, key, value; they become queries, keys, values */
    IC_KEY_VALUE,                    /* two tensors: rows of one key head, and the others                  */
    IC_POSITIONS,                    /* positions that begin behind the padding token                      */
    IC_GLM_Q, IC_GLM_K,              /* pairs become halves, where RoPE has sections                       */
    IC_V_HEADS,                      /* rows of value heads: grouped by key head, they become tiled        */
    IC_V_HEADS_QKV,                  /* the same after the rows of queries and keys                        */
    IC_V_HEADS_IN,                   /* the same of columns                                                */
    IC_V_HEAD_ONE,                   /* the same of heads of one row                                       */
    IC_QKVZ,                         /* two tensors: queries, keys and values of qwen3next, and gates      */
    IC_SCALE,                        /* multiplied by a number of the config                               */
    IC_A_LOG,                        /* -exp(x); of mamba2 a column                                        */
    IC_COLUMN,                       /* of mamba2 a column                                                 */
    IC_GROUPS,                       /* a row for each group of states                                     */
    IC_KV_B,                         /* two stacks by head: keys, transposed, and values                   */
    IC_TIMES,                        /* multiplied by other numbers of the config                          */
    IC_HEAD_ROWS,                    /* vectors of heads become rows of one matrix                         */
    IC_EXPERTS,                      /* [rows of all experts] become a stack                               */
    IC_EXPERTS_T,                    /* the same, each transposed                                          */
    IC_DEEP,                         /* [n, taps] or [n, 1, taps] become [1, n, 1, taps]                   */
    IC_DECAYS,                       /* -exp(x), of as many dimensions                                     */
    IC_FLAT,                         /* a vector, whatever its dimensions are                              */
    IC_FLIP,                         /* dimensions of 1 go; then as IC_TRANSPOSE, each matrix of a stack   */
    IC_FIVE,                         /* the same; five blocks of rows change places                        */
    IC_RESCALE,                      /* divided by 2 for each group of layers in front                     */
    IC_LERPS,                        /* vectors of one matrix, which become a stack                        */
    IC_LERP_0, IC_LERP_1, IC_LERP_2, IC_LERP_3, IC_LERP_4, IC_LERP_5,        /* a vector of that stack     */
    IC_TERNARY,                      /* each value becomes -m, 0 or m, m the mean of their sizes           */
    IC_SIGNS,                        /* the second half of each head is turned                             */
    IC_TOP,                          /* [n] becomes [n, 1]                                                 */
    IC_SPREAD,                       /* heads of queries of PLaMo: groups of 5 become 5 groups             */
    IC_SPREAD_IN,                    /* the same of columns                                                */
    IC_INDEX,                        /* two tensors: rows of all heads of an indexer, and those of its key */
    IC_HASH,                         /* left out; its numbers are what the config gives                    */
    IC_NUMBERS,                      /* integers, which the file has as those of 32 bits                   */
    IC_FIRST,                        /* left out where another tensor has the name already                 */
    IC_SKIP                          /* left out                                                           */
} import_change;

typedef struct {
    const char   *name;              /* in the folder, without its front and without .weight or .bias      */
    const char   *to;                /* in the file; several: with "|" between them                        */
    import_change change;
    const char   *archs;             /* these alone, "!" all but these, "-" these without experts; NULL: all */
} import_name;

#define V4 "deepseek4"
#define LATE_NORM \
    "glm4moe seed_oss gpt-oss qwen35 qwen35moe qwen3next gemma2 gemma3 gemma3n gemma4 gemma-embedding olmo2 exaone4 afmoe"
#define LINEAR    "qwen3next qwen35 qwen35moe"
#define MAMBA2    "mamba2 granitehybrid falcon-h1 nemotron_h nemotron_h_moe"
#define RWKV_7    "rwkv7 arwkv7"
#define BITNET    "bitnet bitnet-b1.58"
#define RWKV_6    "rwkv6 rwkv6qwen2"

/* Names of layers. The first row that matches counts. A "to" with a suffix of its own (.weight, .bias, .scale) is whole. */
static const import_name import_layer_names[] = {
    /* BitNet */
    {"self_attn.q_proj", "attn_q", IC_TERNARY, BITNET}, {"self_attn.k_proj", "attn_k", IC_TERNARY, BITNET},
    {"self_attn.v_proj", "attn_v", IC_TERNARY, BITNET}, {"self_attn.o_proj", "attn_output", IC_TERNARY, BITNET},
    {"mlp.gate_proj", "ffn_gate", IC_TERNARY, BITNET}, {"mlp.up_proj", "ffn_up", IC_TERNARY, BITNET},
    {"mlp.down_proj", "ffn_down", IC_TERNARY, BITNET}, {"self_attn.inner_attn_ln", "attn_sub_norm", 0, "bitnet"},
    {"mlp.ffn_layernorm", "ffn_sub_norm", 0, "bitnet"}, {"self_attn.attn_sub_norm", "attn_sub_norm", 0, BITNET},
    {"mlp.ffn_sub_norm", "ffn_sub_norm", 0, BITNET},
    /* RWKV-7, as its authors name parts and as the library fla does */
    {"ln1", "attn_norm", 0, RWKV_7 " rwkv6"}, {"attn_norm", "attn_norm", 0, RWKV_7}, {"ln2", "attn_norm_2", 0, "rwkv7 rwkv6"},
    {"ffn_norm", "attn_norm_2", 0, "rwkv7"}, {"pre_norm", "token_embd_norm", 0, "rwkv7"},
    {"pre_ln", "token_embd_norm", 0, "rwkv6"},
    {"attention.x_x", "time_mix_lerp_fused.weight", IC_LERPS, RWKV_7},
    {"attention.x_r", "time_mix_lerp_fused.weight", IC_LERP_0, RWKV_7},
    {"attention.x_w", "time_mix_lerp_fused.weight", IC_LERP_1, RWKV_7},
    {"attention.x_k", "time_mix_lerp_fused.weight", IC_LERP_2, RWKV_7},
    {"attention.x_v", "time_mix_lerp_fused.weight", IC_LERP_3, RWKV_7},
    {"attention.x_a", "time_mix_lerp_fused.weight", IC_LERP_4, RWKV_7},
    {"attention.x_g", "time_mix_lerp_fused.weight", IC_LERP_5, RWKV_7},
    {"attention.w0", "time_mix_w0.weight", IC_FLAT, RWKV_7}, {"attention.w1", "time_mix_w1.weight", IC_FLIP, RWKV_7},
    {"attention.w2", "time_mix_w2.weight", IC_FLIP, RWKV_7}, {"attention.a0", "time_mix_a0.weight", IC_FLAT, RWKV_7},
    {"attention.a1", "time_mix_a1.weight", IC_FLIP, RWKV_7}, {"attention.a2", "time_mix_a2.weight", IC_FLIP, RWKV_7},
    {"attention.v0", "time_mix_v0.weight", IC_FLAT, RWKV_7}, {"attention.v1", "time_mix_v1.weight", IC_FLIP, RWKV_7},
    {"attention.v2", "time_mix_v2.weight", IC_FLIP, RWKV_7}, {"attention.g1", "time_mix_g1.weight", IC_FLIP, RWKV_7},
    {"attention.g2", "time_mix_g2.weight", IC_FLIP, RWKV_7},
    {"attention.w_lora.lora.0", "time_mix_w1", 0, RWKV_7}, {"attention.w_lora.lora.2.weight", "time_mix_w2.weight", 0, RWKV_7},
    {"attention.w_lora.lora.2.bias", "time_mix_w0.weight", IC_FLAT, RWKV_7},
    {"attention.a_lora.lora.0", "time_mix_a1", 0, RWKV_7}, {"attention.a_lora.lora.2.weight", "time_mix_a2.weight", 0, RWKV_7},
    {"attention.a_lora.lora.2.bias", "time_mix_a0.weight", IC_FLAT, RWKV_7},
    {"attention.v_lora.lora.0", "time_mix_v1", 0, RWKV_7}, {"attention.v_lora.lora.2.weight", "time_mix_v2.weight", 0, RWKV_7},
    {"attention.v_lora.lora.2.bias", "time_mix_v0.weight", IC_FLAT, RWKV_7},
    {"attention.g_lora.lora.0", "time_mix_g1", 0, RWKV_7}, {"attention.g_lora.lora.2", "time_mix_g2", 0, RWKV_7},
    {"attention.k_k", "time_mix_k_k.weight", IC_FLAT, RWKV_7}, {"attention.k_a", "time_mix_k_a.weight", IC_FLAT, RWKV_7},
    {"attention.r_k", "time_mix_r_k.weight", IC_FLAT, RWKV_7},
    {"attention.receptance", "time_mix_receptance", 0, RWKV_7}, {"attention.r_proj", "time_mix_receptance", 0, RWKV_7},
    {"attention.key", "time_mix_key", 0, RWKV_7}, {"attention.k_proj", "time_mix_key", 0, RWKV_7},
    {"attention.value", "time_mix_value", 0, RWKV_7}, {"attention.v_proj", "time_mix_value", 0, RWKV_7},
    {"attention.output", "time_mix_output", 0, RWKV_7}, {"attention.o_proj", "time_mix_output", 0, RWKV_7},
    {"attention.ln_x", "time_mix_ln", 0, RWKV_7}, {"attention.g_norm", "time_mix_ln", 0, RWKV_7},
    {"feed_forward.x_k", "channel_mix_lerp_k.weight", IC_FLAT, "rwkv7"},
    {"feed_forward.key", "channel_mix_key", 0, "rwkv7 rwkv6"}, {"feed_forward.value", "channel_mix_value", 0, "rwkv7"},
    /* RWKV-6 */
    {"attention.time_maa_x", "time_mix_lerp_x.weight", IC_FLAT, RWKV_6},
    {"attention.time_maa_w", "time_mix_lerp_fused.weight", IC_LERP_0, RWKV_6},
    {"attention.time_maa_k", "time_mix_lerp_fused.weight", IC_LERP_1, RWKV_6},
    {"attention.time_maa_v", "time_mix_lerp_fused.weight", IC_LERP_2, RWKV_6},
    {"attention.time_maa_r", "time_mix_lerp_fused.weight", IC_LERP_3, RWKV_6},
    {"attention.time_maa_g", "time_mix_lerp_fused.weight", IC_LERP_4, RWKV_6},
    {"attention.time_maa_w1", "time_mix_w1.weight", IC_FLIP, "rwkv6"},
    {"attention.time_maa_w2", "time_mix_w2.weight", IC_FLIP, "rwkv6"},
    {"attention.time_maa_w1", "time_mix_w1.weight", IC_FIVE, "rwkv6qwen2"},
    {"attention.time_maa_w2", "time_mix_w2.weight", IC_FIVE, "rwkv6qwen2"},
    {"attention.time_decay", "time_mix_decay.weight", IC_FLAT, RWKV_6},
    {"attention.time_decay_w1", "time_mix_decay_w1.weight", IC_FLIP, RWKV_6},
    {"attention.time_decay_w2", "time_mix_decay_w2.weight", IC_FLIP, RWKV_6},
    {"attention.time_faaaa", "time_mix_first.weight", 0, "rwkv6"},
    {"attention.receptance", "time_mix_receptance", 0, "rwkv6"}, {"attention.key", "time_mix_key", 0, "rwkv6"},
    {"attention.value", "time_mix_value", 0, "rwkv6"}, {"attention.gate", "time_mix_gate", 0, RWKV_6},
    {"attention.output", "time_mix_output", IC_RESCALE, "rwkv6"}, {"attention.ln_x", "time_mix_ln", 0, "rwkv6"},
    {"attention.q_proj", "time_mix_receptance", 0, "rwkv6qwen2"}, {"attention.k_proj", "time_mix_key", 0, "rwkv6qwen2"},
    {"attention.v_proj", "time_mix_value", 0, "rwkv6qwen2"}, {"attention.o_proj", "time_mix_output", 0, "rwkv6qwen2"},
    {"feed_forward.time_maa_k", "channel_mix_lerp_k.weight", IC_FLAT, "rwkv6"},
    {"feed_forward.time_maa_r", "channel_mix_lerp_r.weight", IC_FLAT, "rwkv6"},
    {"feed_forward.receptance", "channel_mix_receptance", 0, "rwkv6"},
    {"feed_forward.value", "channel_mix_value", IC_RESCALE, "rwkv6"},
    /* Kimi Linear */
    {"self_attn.q_conv1d", "ssm_conv1d_q", IC_DEEP, "kimi-linear"},
    {"self_attn.k_conv1d", "ssm_conv1d_k", IC_DEEP, "kimi-linear"},
    {"self_attn.v_conv1d", "ssm_conv1d_v", IC_DEEP, "kimi-linear"}, {"self_attn.A_log", "ssm_a", IC_DECAYS, "kimi-linear"},
    {"self_attn.dt_bias", "ssm_dt.bias", 0, "kimi-linear"}, {"self_attn.f_a_proj", "ssm_f_a", 0, "kimi-linear"},
    {"self_attn.f_b_proj", "ssm_f_b", 0, "kimi-linear"}, {"self_attn.b_proj", "ssm_beta", 0, "kimi-linear"},
    {"self_attn.g_a_proj", "ssm_g_a", 0, "kimi-linear"}, {"self_attn.g_b_proj", "ssm_g_b", 0, "kimi-linear"},
    {"self_attn.o_norm", "ssm_norm", 0, "kimi-linear"},
    {"block_sparse_moe.gate.e_score_correction_bias", "exp_probs_b.bias", 0, "kimi-linear"},
    /* Talkie */
    {"attn.attn_query", "attn_q", IC_SIGNS, "talkie"}, {"attn.attn_key", "attn_k", IC_SIGNS, "talkie"},
    {"attn.attn_value", "attn_v", 0, "talkie"}, {"attn.attn_resid", "attn_output", 0, "talkie"},
    {"attn.head_gain.head_g", "attn_q_norm.weight", IC_TOP, "talkie"}, {"attn_gain.a_g", "attn_output.scale", 0, "talkie"},
    {"mlp_gain.a_g", "ffn_down.scale", 0, "talkie"}, {"mlp.mlp_linear", "ffn_up", 0, "talkie"},
    {"mlp.mlp_gate", "ffn_gate", 0, "talkie"}, {"mlp.mlp_resid", "ffn_down", 0, "talkie"},
    {"embed_skip.a_g", "layer_output_scale.weight", 0, "talkie"},
    /* PLaMo */
    {"self_attn.q_proj", "attn_q", IC_SPREAD, "plamo"}, {"self_attn.o_proj", "attn_output", IC_SPREAD_IN, "plamo"},
    {"pre_mixer_norm", "attn_norm", 0, "plamo2 plamo3"}, {"post_mixer_norm.weight", "post_attention_norm", 0, "plamo2 plamo3"},
    {"pre_mlp_norm", "ffn_norm", 0, "plamo2 plamo3"}, {"post_mlp_norm.weight", "post_ffw_norm", 0, "plamo2 plamo3"},
    {"mixer.qkv_proj", "attn_qkv", 0, "plamo2 plamo3"}, {"mixer.q_weight", "attn_q_norm.weight", 0, "plamo2"},
    {"mixer.k_weight", "attn_k_norm.weight", 0, "plamo2"}, {"mixer.q_norm", "attn_q_norm", 0, "plamo3"},
    {"mixer.k_norm", "attn_k_norm", 0, "plamo3"}, {"mixer.bcdt_proj", "ssm_x", 0, "plamo2"},
    {"mixer.dt_norm_weight", "ssm_dt_norm", 0, "plamo2"}, {"mixer.B_norm_weight", "ssm_b_norm", 0, "plamo2"},
    {"mixer.C_norm_weight", "ssm_c_norm", 0, "plamo2"},
    /* Grok 1 and 2 */
    {"pre_attn_norm", "attn_norm", 0, "grok"}, {"post_attn_norm", "attn_output_norm", 0, "grok"},
    {"pre_moe_norm", "ffn_norm", 0, "grok"}, {"post_moe_norm", "post_ffw_norm", 0, "grok"},
    {"rms_norm", "attn_norm", 0, "grok"}, {"rms_norm_1", "attn_output_norm", 0, "grok"}, {"rms_norm_2", "ffn_norm", 0, "grok"},
    {"rms_norm_3", "layer_output_norm", 0, "grok"}, {"router", "ffn_gate_inp", 0, "grok"},
    {"multi_head_attention.query", "attn_q", 0, "grok"}, {"multi_head_attention.key", "attn_k", 0, "grok"},
    {"multi_head_attention.value", "attn_v", 0, "grok"}, {"multi_head_attention.linear", "attn_output", 0, "grok"},
    {"moe.#.linear", "ffn_gate_exps", 0, "grok"}, {"moe.#.linear_v", "ffn_up_exps", 0, "grok"},
    {"moe.#.linear_1", "ffn_down_exps", 0, "grok"},
    /* others */
    {"residual_layernorm", "ffn_norm", 0, "arctic"}, {"post_attention_layernorm", "ffn_norm_exps", 0, "arctic"},
    {"residual_mlp.w1", "ffn_gate", 0, "arctic"}, {"residual_mlp.w2", "ffn_down", 0, "arctic"},
    {"residual_mlp.w3", "ffn_up", 0, "arctic"},
    {"q_proj", "attn_q", IC_Q, "llada"}, {"k_proj", "attn_k", IC_K, "llada"}, {"v_proj", "attn_v", 0, "llada"},
    {"attn_out", "attn_output", 0, "llada"}, {"ff_norm", "ffn_norm", 0, "llada"}, {"ff_proj", "ffn_gate", 0, "llada"},
    {"up_proj", "ffn_up", 0, "llada"}, {"ff_out", "ffn_down", 0, "llada"},
    {"attn.qkv_proj", "attn_qkv", 0, "openelm"}, {"attn.q_norm", "attn_q_norm", 0, "openelm"},
    {"attn.k_norm", "attn_k_norm", 0, "openelm"}, {"ffn.proj_1", "ffn_gate|ffn_up", IC_HALVES, "openelm"},
    {"ffn.proj_2", "ffn_down", 0, "openelm"},
    {"attention.query_key_value", "attn_qkv", 0, "bailingmoe2"}, {"attention.query_layernorm", "attn_q_norm", 0, "bailingmoe2"},
    {"attention.key_layernorm", "attn_k_norm", 0, "bailingmoe2"},
    {"final_layernorm", "layer_output_norm", 0, "bailingmoe2 mimo2"},
    {"self_attn.qkv_proj", "attn_qkv", 0, "mimo2"}, {"self_attn.attention_sink_bias", "attn_sinks.weight", 0, "mimo2"},
    {"self_attn.g_proj", "attn_gate", 0, "step35 laguna"}, {"moe.gate", "ffn_gate_inp", 0, "step35"},
    {"moe.router_bias", "exp_probs_b.bias", 0, "step35"}, {"moe.gate_proj", "ffn_gate_exps", 0, "step35"},
    {"moe.up_proj", "ffn_up_exps", 0, "step35"}, {"moe.down_proj", "ffn_down_exps", 0, "step35"},
    {"share_expert.gate_proj", "ffn_gate_shexp", 0, "step35"}, {"share_expert.up_proj", "ffn_up_shexp", 0, "step35"},
    {"share_expert.down_proj", "ffn_down_shexp", 0, "step35"},
    {"transformer.shared_head.norm", "nextn.shared_head_norm", 0, "step35"},
    {"transformer.shared_head.output", "nextn.shared_head_head", 0, "step35"},
    {"mlp.experts.e_score_correction_bias", "exp_probs_b.bias", 0, "laguna"},
    /* DeepSeek V4 */
    {"attn.wq_a", "attn_q_a", 0, V4}, {"attn.q_norm", "attn_q_a_norm", 0, V4}, {"attn.wq_b", "attn_q_b", 0, V4},
    {"attn.wkv", "attn_kv", 0, V4}, {"attn.kv_norm", "attn_kv_a_norm", 0, V4}, {"attn.attn_sink", "attn_sinks.weight", 0, V4},
    {"attn.wo_a", "attn_output_a", 0, V4}, {"attn.wo_b", "attn_output_b", 0, V4},
    {"attn.compressor.ape", "attn_compressor_ape.weight", 0, V4}, {"attn.compressor.wkv", "attn_compressor_kv", 0, V4},
    {"attn.compressor.wgate", "attn_compressor_gate", 0, V4}, {"attn.compressor.norm", "attn_compressor_norm", 0, V4},
    {"attn.indexer.wq_b", "indexer.attn_q_b", 0, V4}, {"attn.indexer.weights_proj", "indexer.proj", 0, V4},
    {"attn.indexer.compressor.ape", "indexer_compressor_ape.weight", 0, V4},
    {"attn.indexer.compressor.wkv", "indexer_compressor_kv", 0, V4},
    {"attn.indexer.compressor.wgate", "indexer_compressor_gate", 0, V4},
    {"attn.indexer.compressor.norm", "indexer_compressor_norm", 0, V4},
    {"hc_attn_fn", "hc_attn_fn.weight", 0, V4}, {"hc_attn_base", "hc_attn_base.weight", 0, V4},
    {"hc_attn_scale", "hc_attn_scale.weight", 0, V4}, {"hc_ffn_fn", "hc_ffn_fn.weight", 0, V4},
    {"hc_ffn_base", "hc_ffn_base.weight", 0, V4}, {"hc_ffn_scale", "hc_ffn_scale.weight", 0, V4},
    {"ffn.gate.tid2eid", "ffn_gate_tid2eid.weight", IC_NUMBERS, V4}, {"ffn.gate.bias", "exp_probs_b.bias", 0, V4},
    {"ffn.gate", "ffn_gate_inp", 0, V4}, {"ffn.experts.#.w1", "ffn_gate_exps", 0, V4},
    {"ffn.experts.#.w2", "ffn_down_exps", 0, V4}, {"ffn.experts.#.w3", "ffn_up_exps", 0, V4},
    {"ffn.shared_experts.w1", "ffn_gate_shexp", 0, V4}, {"ffn.shared_experts.w2", "ffn_down_shexp", 0, V4},
    {"ffn.shared_experts.w3", "ffn_up_shexp", 0, V4},
    {"self_attn.indexer.k_norm", "indexer.k_norm", 0, NULL}, {"self_attn.indexer.weights_proj", "indexer.proj", 0, NULL},
    {"self_attn.indexer.wk", "indexer.attn_k", 0, NULL}, {"self_attn.indexer.wq_b", "indexer.attn_q_b", 0, NULL},
    {"self_attn.indexer.index_qk_proj", "indexer.q_proj|indexer.k_proj", IC_INDEX, "qwen4exp"},
    {"self_attn.indexer.q_layernorm", "indexer.q_norm", 0, NULL}, {"self_attn.indexer.k_layernorm", "indexer.k_norm", 0, NULL},
    {"attn_hyper_connection.hc_norm", "hc_attn_norm", 0, NULL},
    {"attn_hyper_connection.input_mix_weight_down", "hc_attn_down", 0, NULL},
    {"attn_hyper_connection.input_mix_weight_up", "hc_attn_up", 0, NULL},
    {"attn_hyper_connection.block_inject_weight", "hc_attn_inject", 0, NULL},
    {"mlp_hyper_connection.hc_norm", "hc_ffn_norm", 0, NULL},
    {"mlp_hyper_connection.input_mix_weight_down", "hc_ffn_down", 0, NULL},
    {"mlp_hyper_connection.input_mix_weight_up", "hc_ffn_up", 0, NULL},
    {"mlp_hyper_connection.block_inject_weight", "hc_ffn_inject", 0, NULL},
    {"ple.key_proj", "ple_key", 0, NULL}, {"ple.value_proj", "ple_value", 0, NULL}, {"ple.norm_key", "ple_norm_key", 0, NULL},
    {"ple.norm_query", "ple_norm_query", 0, NULL}, {"ple.norm_conv", "ple_norm_conv", 0, NULL},
    {"ple.conv1d", "ple_conv1d", IC_SQUEEZE, NULL},
    {"ple.ple_embedding.ngram_embedding.shard_#", "per_layer_token_embd", IC_HEAD_ROWS, NULL},
    {"ple.ple_embedding.ngram_embedding", "per_layer_token_embd", 0, NULL},
    {"ple.ple_embedding.layer_multipliers", "", IC_HASH, NULL}, {"ple.ple_embedding.ngram_heads_vocab_sizes", "", IC_HASH, NULL},
    {"ple.ple_embedding.ngram_heads_offsets", "", IC_HASH, NULL},
    {"self_attn.index_q_proj", "indexer.q_proj", 0, NULL}, {"self_attn.index_k_proj", "indexer.k_proj", 0, NULL},
    {"self_attn.index_q_norm", "indexer.q_norm", 0, NULL}, {"self_attn.index_k_norm", "indexer.k_norm", 0, NULL},
    {"block_sparse_moe.shared_experts.gate_proj", "ffn_gate_shexp", 0, NULL},
    {"block_sparse_moe.shared_experts.up_proj", "ffn_up_shexp", 0, NULL},
    {"block_sparse_moe.shared_experts.down_proj", "ffn_down_shexp", 0, NULL},
    {"block_sparse_moe.primary_router", "ffn_gate_inp", 0, "smallthinker"},
    {"block_sparse_moe.experts.#.gate", "ffn_gate_exps", 0, "smallthinker"},
    {"block_sparse_moe.experts.#.up", "ffn_up_exps", 0, "smallthinker"},
    {"block_sparse_moe.experts.#.down", "ffn_down_exps", 0, "smallthinker"},
    {"block_sparse_moe.gate", "ffn_gate", 0, "-smallthinker"}, {"block_sparse_moe.up", "ffn_up", 0, "-smallthinker"},
    {"block_sparse_moe.down", "ffn_down", 0, "-smallthinker"},
    {"mlp.chunk_experts.#.gate_proj", "ffn_gate_chexps", 0, "grovemoe"},
    {"mlp.chunk_experts.#.up_proj", "ffn_up_chexps", 0, "grovemoe"},
    {"mlp.chunk_experts.#.down_proj", "ffn_down_chexps", 0, "grovemoe"}, {"mlp.expert_bias", "", IC_SKIP, "grovemoe"},
    {"mlp.gate.expert_bias", "", IC_SKIP, "grovemoe"},
    {"self_attn.linear_attn", "attn_output", 0, "deci"},
    {"mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight", 0, "mistral4"},
    /* Falcon-H1 */
    {"pre_ff_layernorm.weight", "ffn_norm", 0, "falcon-h1"},
    {"self_attn.q_proj", "attn_q", IC_TIMES, "falcon-h1"}, {"self_attn.k_proj", "attn_k", IC_TIMES, "falcon-h1"},
    {"self_attn.v_proj", "attn_v", IC_TIMES, "falcon-h1"}, {"self_attn.o_proj", "attn_output", IC_TIMES, "falcon-h1"},
    {"feed_forward.gate_proj", "ffn_gate", IC_TIMES, "falcon-h1"}, {"feed_forward.down_proj", "ffn_down", IC_TIMES, "falcon-h1"},
    {"mamba.in_proj", "ssm_in", IC_TIMES, "falcon-h1"}, {"mamba.out_proj", "ssm_out", IC_TIMES, "falcon-h1"},
    /* norms */
    {"ln_mlp", "attn_norm", 0, "falcon"}, {"ln_attn", "attn_norm_2", 0, "falcon"}, {"norm_1", "attn_norm", 0, "mpt"},
    {"norm_2", "ffn_norm", 0, "mpt"}, {"norm_attn_norm.norm_1", "attn_norm", 0, NULL},
    {"norm_attn_norm.norm_2", "attn_output_norm", 0, NULL}, {"attention_layernorm", "attn_norm", 0, NULL},
    {"feedforward_layernorm", "ffn_norm", 0, NULL}, {"pre_mlp_layernorm", "ffn_norm", 0, NULL},
    {"pre_ff_layernorm", "ffn_norm", 0, NULL}, {"norm", "attn_norm", 0, "mamba mamba2 nemotron_h nemotron_h_moe plamo"},
    {"self_attn.q_layernorm.norms.#", "attn_q_norm", IC_HEAD_ROWS, NULL},
    {"self_attn.k_layernorm.norms.#", "attn_k_norm", IC_HEAD_ROWS, NULL},
    {"input_layernorm", "attn_norm", 0, NULL}, {"ln_1", "attn_norm", 0, NULL}, {"attention_norm", "attn_norm", 0, NULL},
    {"attn_norm", "attn_norm", 0, NULL}, {"operator_norm", "attn_norm", 0, NULL},
    {"layer_norm_1", "attn_norm_2", 0, "jina-bert-v2"},
    {"post_attention_layernorm", "post_attention_norm", 0, LATE_NORM}, {"post_attention_layernorm", "ffn_norm", 0, NULL},
    {"post_self_attn_layernorm", "post_attention_norm", 0, NULL}, {"post_mlp_layernorm", "post_ffw_norm", 0, NULL},
    {"pre_feedforward_layernorm", "ffn_norm", 0, NULL}, {"post_feedforward_layernorm", "post_ffw_norm", 0, NULL},
    {"pre_feedforward_layernorm_2", "pre_ffw_norm_2", 0, NULL}, {"post_feedforward_layernorm_1", "post_ffw_norm_1", 0, NULL},
    {"post_feedforward_layernorm_2", "post_ffw_norm_2", 0, NULL},
    {"ln_2", "ffn_norm", 0, NULL}, {"ffn_norm", "ffn_norm", 0, NULL}, {"mlp_norm", "ffn_norm", 0, NULL},
    {"attention.output.LayerNorm", "attn_output_norm", 0, NULL}, {"norm1", "attn_output_norm", 0, NULL},
    {"output.LayerNorm", "layer_output_norm", 0, NULL}, {"norm2", "layer_output_norm", 0, NULL},
    {"mlp.layernorm", "layer_output_norm", 0, NULL}, {"layer_norm_2", "layer_output_norm", 0, NULL},
    {"self_attn.q_norm", "attn_q_norm", 0, NULL}, {"self_attn.k_norm", "attn_k_norm", 0, NULL},
    {"self_attn.query_layernorm", "attn_q_norm", 0, NULL}, {"self_attn.key_layernorm", "attn_k_norm", 0, NULL},
    {"self_attn.q_layernorm", "attn_q_norm", 0, NULL}, {"self_attn.k_layernorm", "attn_k_norm", 0, NULL},
    {"attention.self.layer_norm_q", "attn_q_norm", 0, NULL}, {"attention.self.layer_norm_k", "attn_k_norm", 0, NULL},
    /* attention */
    {"self_attn.q_a_proj", "attn_q_a", 0, NULL}, {"self_attn.q_a_layernorm", "attn_q_a_norm", 0, NULL},
    {"self_attn.q_b_proj", "attn_q_b", 0, NULL}, {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa", 0, NULL},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm", 0, NULL}, {"self_attn.kv_b_proj", "attn_k_b|attn_v_b", IC_KV_B,
                                                 "deepseek2 deepseek32 glm-dsa mistral4 kimi-linear"},
    {"self_attn.kv_b_proj", "attn_kv_b", 0, NULL}, {"self_attn.dense", "attn_output", 0, NULL},
    {"self_attn.gate_proj", "attn_gate", 0, "afmoe"},
    {"norm_attn_norm.attn.Wqkv", "attn_qkv", 0, NULL}, {"norm_attn_norm.attn.out_proj", "attn_output", 0, NULL},
    {"attn.q_ln", "attn_q_norm", 0, NULL}, {"attn.k_ln", "attn_k_norm", 0, NULL},
    {"attention.query_key_value", "attn_qkv", IC_QKV_BLOOM, "gptneox"},
    {"self_attention.query_key_value", "attn_qkv", IC_QKV_BLOOM, "falcon"},
    {"self_attn.q_proj", "attn_q", IC_GLM_Q, "glm4"}, {"self_attn.k_proj", "attn_k", IC_GLM_K, "glm4"},
    {"self_attn.q_proj", "attn_q", IC_Q, NULL}, {"self_attn.k_proj", "attn_k", IC_K, NULL},
    {"self_attn.v_proj", "attn_v", 0, NULL},
    {"self_attn.o_proj", "attn_output", 0, NULL}, {"self_attn.out_proj", "attn_output", 0, NULL},
    {"self_attn.sinks", "attn_sinks.weight", 0, NULL},
    {"self_attn.W_pack", "attn_q|attn_k|attn_v", IC_QKV_THIRDS, NULL},
    {"self_attn.qkv_proj", "attn_q|attn_k|attn_v", IC_QKV_HEADS, "ernie4_5 ernie4_5-moe paddleocr"},
    {"self_attn.qkv_proj", "attn_qkv", 0, NULL},
    {"attention.query_key_value", "attn_q|attn_k|attn_v", IC_QKV_HEADS, NULL}, {"attention.dense", "attn_output", 0, NULL},
    {"attention.wqkv", "attn_q|attn_k|attn_v", IC_QKV_GROUPS, NULL}, {"attention.wo", "attn_output", 0, NULL},
    {"attn.c_attn", "attn_qkv", IC_TRANSPOSE, "gpt2 jais"}, {"attn.c_attn", "attn_qkv", 0, NULL},
    {"attn.c_proj", "attn_output", IC_TRANSPOSE, "gpt2 jais"}, {"attn.c_proj", "attn_output", 0, NULL},
    {"attn.q", "attn_q", 0, "refact"}, {"attn.kv", "attn_k|attn_v", IC_KEY_VALUE, "refact"},
    {"attn.attention.q_proj", "attn_q", 0, NULL}, {"attn.attention.k_proj", "attn_k", 0, NULL},
    {"attn.attention.v_proj", "attn_v", 0, NULL}, {"attn.attention.out_proj", "attn_output", 0, NULL},
    {"self_attention.query_key_value", "attn_qkv", IC_QKV_BLOOM, "bloom"},
    {"self_attention.query_key_value", "attn_qkv", 0, NULL},
    {"self_attention.dense", "attn_output", 0, NULL},
    {"mixer.out_proj", "ssm_out", 0, "mamba mamba2 nemotron_h nemotron_h_moe plamo2"},
    {"mixer.q_proj", "attn_q", IC_Q, NULL}, {"mixer.k_proj", "attn_k", IC_K, NULL}, {"mixer.v_proj", "attn_v", 0, NULL},
    {"mixer.o_proj", "attn_output", 0, NULL},
    {"attn.Wqkv", "attn_qkv", 0, NULL}, {"mixer.Wqkv", "attn_qkv", 0, NULL}, {"qkv", "attn_qkv", 0, NULL},
    {"attn.out_proj", "attn_output", 0, NULL}, {"mixer.out_proj", "attn_output", 0, NULL}, {"attn.Wo", "attn_output", 0, NULL},
    {"wo", "attn_output", 0, NULL},
    {"attention.self.query", "attn_q", 0, NULL}, {"attention.self.key", "attn_k", 0, NULL},
    {"attention.self.value", "attn_v", 0, NULL}, {"attention.output.dense", "attn_output", 0, NULL},
    {"attn.bias", "", IC_SKIP, NULL}, {"attn.masked_bias", "", IC_SKIP, NULL}, {"attention.bias", "", IC_SKIP, NULL},
    {"attention.masked_bias", "", IC_SKIP, NULL}, {"self_attn.rotary_emb.inv_freq", "", IC_SKIP, NULL},
    {"attention.rotary_emb.inv_freq", "", IC_SKIP, NULL},
    {"attn.rotary_emb.inv_freq", "", IC_SKIP, NULL}, {"self_attention.rotary_emb.inv_freq", "", IC_SKIP, NULL},
    /* feed-forward */
    {"mixer.up_proj", "ffn_up", 0, NULL}, {"mixer.down_proj", "ffn_down", 0, NULL}, {"mixer.gate", "ffn_gate_inp", 0, NULL},
    {"mixer.gate.e_score_correction_bias", "exp_probs_b.bias", 0, NULL},
    {"mixer.experts.#.up_proj", "ffn_up_exps", 0, NULL}, {"mixer.experts.#.down_proj", "ffn_down_exps", 0, NULL},
    {"mixer.experts.up_proj", "ffn_up_exps.weight", 0, NULL}, {"mixer.experts.down_proj", "ffn_down_exps.weight", 0, NULL},
    {"mixer.shared_experts.up_proj", "ffn_up_shexp", 0, NULL}, {"mixer.shared_experts.down_proj", "ffn_down_shexp", 0, NULL},
    {"mixer.fc1_latent_proj", "ffn_latent_down", 0, NULL}, {"mixer.fc2_latent_proj", "ffn_latent_up", 0, NULL},
    {"shared_mlp.input_linear", "ffn_gate|ffn_up", IC_HALVES, "-granitehybrid"},
    {"shared_mlp.output_linear", "ffn_down", 0, "-granitehybrid"},
    {"ffn.up_proj", "ffn_up", 0, NULL}, {"ffn.down_proj", "ffn_down", 0, NULL},
    {"feed_forward.gate_proj", "ffn_gate", 0, NULL}, {"feed_forward.up_proj", "ffn_up", 0, NULL},
    {"feed_forward.down_proj", "ffn_down", 0, NULL},
    {"mlp.act_fn.alpha_n", "", IC_SKIP, "apertus"}, {"mlp.act_fn.alpha_p", "", IC_SKIP, "apertus"},
    {"mlp.act_fn.beta", "", IC_SKIP, "apertus"}, {"mlp.act_fn.eps", "", IC_SKIP, "apertus"},
    {"mlp.gate_proj", "ffn_gate", 0, NULL}, {"mlp.up_proj", "ffn_up", 0, NULL}, {"mlp.down_proj", "ffn_down", 0, NULL},
    {"mlp.gate_up_proj", "ffn_gate|ffn_up", IC_HALVES, "refact"}, {"mlp.gate_up_proj", "ffn_up", 0, NULL},
    {"mlp.up_gate_proj", "ffn_gate|ffn_up", IC_HALVES, NULL},
    {"mlp.c_fc", "ffn_up", IC_TRANSPOSE, "gpt2 jais"}, {"mlp.c_fc", "ffn_up", 0, NULL},
    {"mlp.c_fc2", "ffn_gate", IC_TRANSPOSE, "jais"},
    {"mlp.c_proj", "ffn_down", IC_TRANSPOSE, "gpt2 jais"}, {"mlp.c_proj", "ffn_down", 0, NULL},
    {"mlp.c_fc_0", "ffn_gate", 0, NULL}, {"mlp.c_fc_1", "ffn_up", 0, NULL},
    {"mlp.w1", "ffn_up", 0, "qwen"}, {"mlp.w2", "ffn_gate", 0, "qwen"},
    {"mlp.dense_h_to_4h", "ffn_up", 0, NULL}, {"mlp.dense_4h_to_h", "ffn_down", 0, NULL},
    {"feed_forward.w1", "ffn_gate", 0, NULL}, {"feed_forward.w3", "ffn_up", 0, NULL}, {"feed_forward.w2", "ffn_down", 0, NULL},
    {"intermediate.dense", "ffn_up", 0, NULL}, {"output.dense", "ffn_down", 0, NULL},
    {"mlp.fc11", "ffn_up", 0, NULL}, {"mlp.fc12", "ffn_gate", 0, NULL}, {"mlp.fc1", "ffn_up", 0, NULL},
    {"mlp.fc2", "ffn_down", 0, NULL},
    {"mlp.gated_layers", "ffn_up", 0, NULL}, {"mlp.up_gated_layer", "ffn_up", 0, NULL}, {"mlp.wo", "ffn_down", 0, NULL},
    {"mlp.down_layer", "ffn_down", 0, NULL}, {"mlp.Wi", "ffn_up", 0, NULL}, {"mlp.Wo", "ffn_down", 0, NULL},
    {"ffn.w12", "ffn_up", 0, NULL}, {"ffn.w3", "ffn_down", 0, NULL},
    /* experts */
    {"feed_forward.router", "ffn_gate_inp", 0, NULL}, {"mlp.gate.wg", "ffn_gate_inp", 0, NULL},
    {"ffn.router.layer", "ffn_gate_inp", 0, NULL}, {"ffn.experts.mlp.w1", "ffn_gate_exps.weight", IC_EXPERTS, NULL},
    {"ffn.experts.mlp.v1", "ffn_up_exps.weight", IC_EXPERTS, NULL},
    {"ffn.experts.mlp.w2", "ffn_down_exps.weight", IC_EXPERTS_T, NULL},
    {"feed_forward.experts.gate_up_proj", "ffn_gate_exps.weight|ffn_up_exps.weight", IC_HALVES_T, "llama4"},
    {"feed_forward.experts.down_proj", "ffn_down_exps.weight", IC_TRANSPOSE, "llama4"},
    {"feed_forward.shared_expert.gate_proj", "ffn_gate_shexp", 0, NULL},
    {"feed_forward.shared_expert.up_proj", "ffn_up_shexp", 0, NULL},
    {"feed_forward.shared_expert.down_proj", "ffn_down_shexp", 0, NULL},
    {"feed_forward.experts.#.gate_proj", "ffn_gate_exps", 0, NULL}, {"feed_forward.experts.#.up_proj", "ffn_up_exps", 0, NULL},
    {"feed_forward.experts.#.down_proj", "ffn_down_exps", 0, NULL},
    {"mlp.expert_bias", "exp_probs_b.bias", 0, "afmoe"},
    {"block_sparse_moe.gate", "ffn_gate_inp", 0, NULL}, {"mlp.gate", "ffn_gate_inp", 0, NULL},
    {"mlp.router", "ffn_gate_inp", 0, NULL},
    {"mlp.router.gate", "ffn_gate_inp", 0, NULL}, {"block_sparse_moe.router.layer", "ffn_gate_inp", 0, NULL},
    {"mlp.router.layer", "ffn_gate_inp", 0, NULL}, {"feed_forward.gate", "ffn_gate_inp", 0, NULL},
    {"router.proj", "ffn_gate_inp", 0, NULL},
    {"router.scale", "ffn_gate_inp.scale", 0, NULL}, {"router.per_expert_scale", "ffn_down_exps.scale", 0, NULL},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp", 0, NULL},
    {"mlp.expert_bias", "exp_probs_b", 0, "hy_v3"}, {"mlp.e_score_correction_bias", "exp_probs_b", 0, "hy_v3"},
    {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias", 0, NULL},
    {"mlp.e_score_correction_bias", "exp_probs_b.bias", 0, NULL},
    {"mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias", 0, NULL},
    {"mlp.gate.moe_statics.e_score_correction_bias", "exp_probs_b.bias", 0, NULL},
    {"block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias", 0, NULL},
    {"feed_forward.expert_bias", "exp_probs_b.bias", 0, NULL},
    {"mlp.gate.expert_bias", "exp_probs_b.bias", 0, NULL},
    {"mlp.experts.#.gate_proj", "ffn_gate_exps", 0, NULL}, {"mlp.experts.#.up_proj", "ffn_up_exps", 0, NULL},
    {"mlp.experts.#.down_proj", "ffn_down_exps", 0, NULL},
    {"block_sparse_moe.experts.#.w1", "ffn_gate_exps", 0, NULL}, {"block_sparse_moe.experts.#.w3", "ffn_up_exps", 0, NULL},
    {"block_sparse_moe.experts.#.w2", "ffn_down_exps", 0, NULL},
    {"feed_forward.experts.#.w1", "ffn_gate_exps", 0, NULL}, {"feed_forward.experts.#.w3", "ffn_up_exps", 0, NULL},
    {"feed_forward.experts.#.w2", "ffn_down_exps", 0, NULL},
    {"mlp.experts.gate_up_proj", "ffn_gate_exps.weight|ffn_up_exps.weight", IC_EVEN_ODD_T, "gpt-oss"},
    {"mlp.experts.gate_up_proj_bias", "ffn_gate_exps.bias|ffn_up_exps.bias", IC_EVEN_ODD_T, "gpt-oss"},
    {"mlp.experts.gate_up_proj_blocks", "ffn_gate_exps.weight|ffn_up_exps.weight", IC_EVEN_ODD, "gpt-oss"},
    {"mlp.experts.down_proj", "ffn_down_exps.weight", IC_TRANSPOSE, "gpt-oss"},
    {"mlp.experts.down_proj_bias", "ffn_down_exps.bias", 0, "gpt-oss"},
    {"mlp.experts.down_proj_blocks", "ffn_down_exps.weight", 0, "gpt-oss"},
    {"mlp.experts.gate_up_proj", "ffn_gate_exps.weight|ffn_up_exps.weight", IC_HALVES_T, "qwen3vlmoe"},
    {"mlp.experts.down_proj", "ffn_down_exps.weight", IC_TRANSPOSE, "qwen3vlmoe"},
    {"mlp.experts.gate_up_proj", "ffn_gate_exps.weight|ffn_up_exps.weight", IC_HALVES, NULL},
    {"mlp.experts.down_proj", "ffn_down_exps.weight", 0, NULL},
    {"block_sparse_moe.experts.gate_up_proj", "ffn_gate_exps.weight|ffn_up_exps.weight", IC_HALVES, NULL},
    {"block_sparse_moe.experts.down_proj", "ffn_down_exps.weight", 0, NULL},
    {"feed_forward.experts.gate_up_proj", "ffn_gate_exps.weight|ffn_up_exps.weight", IC_HALVES, NULL},
    {"feed_forward.experts.down_proj", "ffn_down_exps.weight", 0, NULL},
    {"experts.gate_up_proj", "ffn_gate_up_exps.weight", 0, "gemma4"}, {"experts.down_proj", "ffn_down_exps.weight", 0, "gemma4"},
    {"block_sparse_moe.input_linear", "ffn_gate_exps|ffn_up_exps", IC_HALVES, NULL},
    {"block_sparse_moe.output_linear", "ffn_down_exps", 0, NULL},
    {"shared_mlp.input_linear", "ffn_gate_shexp|ffn_up_shexp", IC_HALVES, NULL},
    {"shared_mlp.output_linear", "ffn_down_shexp", 0, NULL},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp", 0, NULL}, {"mlp.shared_expert.up_proj", "ffn_up_shexp", 0, NULL},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp", 0, NULL},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp", 0, NULL}, {"mlp.shared_experts.up_proj", "ffn_up_shexp", 0, NULL},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp", 0, NULL},
    {"mlp.shared_mlp.gate_proj", "ffn_gate_shexp", 0, NULL}, {"mlp.shared_mlp.up_proj", "ffn_up_shexp", 0, NULL},
    {"mlp.shared_mlp.down_proj", "ffn_down_shexp", 0, NULL},
    {"mlp.experts.mlp.w1", "ffn_up_exps.weight", IC_EXPERTS, NULL},
    {"mlp.experts.mlp.w2", "ffn_down_exps.weight", IC_EXPERTS_T, NULL},
    {"mlp.experts.bias", "", IC_SKIP, NULL},
    /* recurrent layers */
    {"mixer.in_proj", "ssm_in", 0, NULL}, {"mixer.conv1d", "ssm_conv1d", IC_SQUEEZE, NULL}, {"mixer.x_proj", "ssm_x", 0, NULL},
    {"mixer.dt_proj", "ssm_dt", 0, NULL}, {"mixer.dt_bias", "ssm_dt.bias", 0, NULL}, {"mixer.A_log", "ssm_a", IC_A_LOG, NULL},
    {"mixer.D", "ssm_d", IC_COLUMN, NULL}, {"mixer.norm", "ssm_norm", IC_GROUPS, NULL},
    {"mamba.in_proj", "ssm_in", 0, NULL}, {"mamba.conv1d", "ssm_conv1d", IC_SQUEEZE, NULL}, {"mamba.x_proj", "ssm_x", 0, NULL},
    {"mamba.dt_proj", "ssm_dt", 0, NULL}, {"mamba.dt_layernorm", "ssm_dt_norm", 0, NULL},
    {"mamba.A_log", "ssm_a", IC_A_LOG, NULL},
    {"mamba.b_layernorm", "ssm_b_norm", 0, NULL}, {"mamba.c_layernorm", "ssm_c_norm", 0, NULL},
    {"mamba.norm", "ssm_norm", IC_GROUPS, NULL}, {"mamba.dt_bias", "ssm_dt.bias", 0, NULL},
    {"mamba.D", "ssm_d", IC_COLUMN, NULL}, {"mamba.out_proj", "ssm_out", 0, NULL},
    {"linear_attn.in_proj_qkvz", "attn_qkv|attn_gate", IC_QKVZ, "qwen3next"}, {"linear_attn.in_proj_ba", "ssm_ba", 0, NULL},
    {"linear_attn.in_proj_qkv", "attn_qkv", IC_V_HEADS_QKV, NULL}, {"linear_attn.in_proj_z", "attn_gate", IC_V_HEADS, NULL},
    {"linear_attn.in_proj_a", "ssm_alpha", IC_V_HEAD_ONE, NULL}, {"linear_attn.in_proj_b", "ssm_beta", IC_V_HEAD_ONE, NULL},
    {"linear_attn.conv1d", "ssm_conv1d", IC_SQUEEZE, "qwen3next"}, {"linear_attn.conv1d", "ssm_conv1d", IC_V_HEADS_QKV, NULL},
    {"linear_attn.A_log", "ssm_a", IC_NEG_EXP, NULL}, {"linear_attn.dt_bias", "ssm_dt.bias", IC_V_HEAD_ONE, NULL},
    {"linear_attn.norm", "ssm_norm", 0, NULL}, {"linear_attn.out_proj", "ssm_out", IC_V_HEADS_IN, NULL},
    {"conv.conv", "shortconv.conv", IC_SQUEEZE, NULL}, {"conv.in_proj", "shortconv.in_proj", 0, NULL},
    {"conv.out_proj", "shortconv.out_proj", 0, NULL},
    /* Gemma 3n and 4 */
    {"per_layer_input_gate", "inp_gate", 0, NULL}, {"per_layer_projection", "proj", 0, NULL},
    {"post_per_layer_input_norm", "post_norm", 0, NULL}, {"layer_scalar", "layer_output_scale.weight", 0, NULL},
    {"altup.correction_coefs", "altup_correct_coef", 0, NULL}, {"altup.correct_output_scale", "altup_correct_scale.weight", 0,
                                                                NULL},
    {"altup.prediction_coefs", "altup_predict_coef", 0, NULL}, {"altup.modality_router", "altup_router", 0, NULL},
    {"altup.router_norm", "altup_router_norm", 0, NULL}, {"laurel.linear_left", "laurel_l", 0, NULL},
    {"laurel.linear_right", "laurel_r", 0, NULL}, {"laurel.post_laurel_norm", "laurel_post_norm", 0, NULL},
    /* draft heads */
    {"eh_proj", "nextn.eh_proj", 0, NULL}, {"enorm", "nextn.enorm", 0, NULL}, {"hnorm", "nextn.hnorm", 0, NULL},
    {"embed_tokens", "nextn.embed_tokens", 0, NULL}, {"shared_head.norm", "nextn.shared_head_norm", 0, NULL},
    {"shared_head.head", "nextn.shared_head_head", 0, NULL}, {"final_layernorm", "nextn.shared_head_norm", 0, "hy_v3"},
};

/* Names of tensors that belong to no layer. */
static const import_name import_model_names[] = {
    {"hyper_connection_mixer.hc_norm", "output_hc_norm", 0, NULL},
    {"hyper_connection_mixer.input_mix_weight_down", "output_hc_down", 0, NULL},
    {"hyper_connection_mixer.input_mix_weight_up", "output_hc_up", 0, NULL},
    {"hc_head_fn", "output_hc_fn.weight", 0, V4}, {"hc_head_base", "output_hc_base.weight", 0, V4},
    {"hc_head_scale", "output_hc_scale.weight", 0, V4},
    /* T5; # is the number of the layer */
    {"shared", "token_embd", IC_FIRST, T5},
    {"encoder.block.#.layer.0.SelfAttention.q", "enc.blk.#.attn_q", 0, T5},
    {"encoder.block.#.layer.0.SelfAttention.k", "enc.blk.#.attn_k", 0, T5},
    {"encoder.block.#.layer.0.SelfAttention.v", "enc.blk.#.attn_v", 0, T5},
    {"encoder.block.#.layer.0.SelfAttention.o", "enc.blk.#.attn_o", 0, T5},
    {"encoder.block.#.layer.0.SelfAttention.relative_attention_bias", "enc.blk.#.attn_rel_b", 0, T5},
    {"encoder.block.#.layer.0.layer_norm", "enc.blk.#.attn_norm", 0, T5},
    {"encoder.block.#.layer.1.DenseReluDense.wi", "enc.blk.#.ffn_up", 0, T5},
    {"encoder.block.#.layer.1.DenseReluDense.wi_0", "enc.blk.#.ffn_gate", 0, T5},
    {"encoder.block.#.layer.1.DenseReluDense.wi_1", "enc.blk.#.ffn_up", 0, T5},
    {"encoder.block.#.layer.1.DenseReluDense.wo", "enc.blk.#.ffn_down", 0, T5},
    {"encoder.block.#.layer.1.layer_norm", "enc.blk.#.ffn_norm", 0, T5},
    {"encoder.final_layer_norm", "enc.output_norm", 0, T5},
    {"encoder.embed_tokens", "token_embd", IC_FIRST, T5},
    {"decoder.block.#.layer.0.SelfAttention.q", "dec.blk.#.attn_q", 0, T5},
    {"decoder.block.#.layer.0.SelfAttention.k", "dec.blk.#.attn_k", 0, T5},
    {"decoder.block.#.layer.0.SelfAttention.v", "dec.blk.#.attn_v", 0, T5},
    {"decoder.block.#.layer.0.SelfAttention.o", "dec.blk.#.attn_o", 0, T5},
    {"decoder.block.#.layer.0.SelfAttention.relative_attention_bias", "dec.blk.#.attn_rel_b", 0, T5},
    {"decoder.block.#.layer.0.layer_norm", "dec.blk.#.attn_norm", 0, T5},
    {"decoder.block.#.layer.1.EncDecAttention.q", "dec.blk.#.cross_attn_q", 0, T5},
    {"decoder.block.#.layer.1.EncDecAttention.k", "dec.blk.#.cross_attn_k", 0, T5},
    {"decoder.block.#.layer.1.EncDecAttention.v", "dec.blk.#.cross_attn_v", 0, T5},
    {"decoder.block.#.layer.1.EncDecAttention.o", "dec.blk.#.cross_attn_o", 0, T5},
    {"decoder.block.#.layer.1.EncDecAttention.relative_attention_bias", "dec.blk.#.cross_attn_rel_b", 0, T5},
    {"decoder.block.#.layer.1.layer_norm", "dec.blk.#.cross_attn_norm", 0, T5},
    {"decoder.block.#.layer.2.DenseReluDense.wi", "dec.blk.#.ffn_up", 0, T5},
    {"decoder.block.#.layer.2.DenseReluDense.wi_0", "dec.blk.#.ffn_gate", 0, T5},
    {"decoder.block.#.layer.2.DenseReluDense.wi_1", "dec.blk.#.ffn_up", 0, T5},
    {"decoder.block.#.layer.2.DenseReluDense.wo", "dec.blk.#.ffn_down", 0, T5},
    {"decoder.block.#.layer.2.layer_norm", "dec.blk.#.ffn_norm", 0, T5},
    {"decoder.final_layer_norm", "dec.output_norm", 0, T5},
    {"decoder.embed_tokens", "token_embd", IC_FIRST, T5},
    /* others */
    {"embeddings", "token_embd", 0, "rwkv7 rwkv6"}, {"pre_ln", "token_embd_norm", 0, "rwkv7 rwkv6"},
    {"ln_out", "output_norm", 0, "rwkv7 rwkv6"}, {"head", "output", 0, "rwkv7 rwkv6 " V4},
    {"ff_out", "output", 0, "llada"}, {"token_embeddings", "token_embd", 0, "openelm"},
    {"in_out_embed", "token_embd", 0, "grok"}, {"rms_norm", "output_norm", 0, "grok"},
    {"embed", "token_embd", 0, "talkie " V4}, {"lm_head", "output.weight", 0, "talkie"},
    {"lm_head_gain.w_g", "", IC_SKIP, "talkie"},
    {"embed_tokens", "token_embd", IC_TIMES, "falcon-h1"}, {"lm_head", "output", IC_TIMES, "falcon-h1"},
    {"embed_in", "token_embd", 0, "gptneox"}, {"embed_out", "output", 0, "gptneox"},
    {"final_layer_norm", "output_norm", 0, "gptneox"},
    {"embeddings", "token_embd", 0, "mamba mamba2 nemotron_h nemotron_h_moe"}, {"norm_f", "output_norm", 0, NULL},
    {"embed_tokens", "token_embd", 0, NULL}, {"tok_embeddings", "token_embd", 0, NULL},
    {"word_embeddings", "token_embd", 0, NULL},
    {"wte", "token_embd", IC_SCALE, "jais"}, {"wte", "token_embd", 0, NULL}, {"embedding.word_embeddings", "token_embd", 0, NULL},
    {"embeddings.word_embeddings", "token_embd", 0, NULL}, {"embeddings.tok_embeddings", "token_embd", 0, NULL},
    {"encoder", "token_embd", 0, "neo-bert"},
    {"wpe", "position_embd", 0, NULL}, {"embeddings.position_embeddings", "position_embd", IC_POSITIONS, NULL},
    {"embeddings.token_type_embeddings", "token_types", 0, NULL},
    {"embeddings.LayerNorm", "token_embd_norm", 0, NULL}, {"embeddings.norm", "token_embd_norm", 0, NULL},
    {"emb_ln", "token_embd_norm", 0, NULL},
    {"word_embeddings_layernorm", "token_embd_norm", 0, NULL}, {"embedding_norm", "token_embd_norm", 0, NULL},
    {"norm", "output_norm", 0, NULL}, {"ln_f", "output_norm", 0, NULL}, {"final_norm", "output_norm", 0, NULL},
    {"final_layernorm", "output_norm", 0, NULL}, {"encoder.final_layernorm", "output_norm", 0, NULL},
    {"layer_norm", "enc.output_norm", 0, "neo-bert"},
    {"lm_head", "output", IC_SCALE, "jais"}, {"lm_head", "output", 0, NULL}, {"output", "output", 0, NULL},
    {"output_layer", "output", 0, NULL},
    {"embed_tokens_per_layer", "per_layer_token_embd", 0, NULL}, {"per_layer_model_projection", "per_layer_model_proj", 0, NULL},
    {"per_layer_projection_norm", "per_layer_proj_norm", 0, NULL},
    {"altup_projections.#", "altup_proj", 0, NULL}, {"altup_unembed_projections.#", "altup_unembd_proj", 0, NULL},
    {"classifier.dense", "cls", 0, NULL}, {"classifier.out_proj", "cls.output", 0, NULL},
    {"classifier", "cls.output", 0, "bert modern-bert"},
    {"head.dense", "cls", 0, "modern-bert"}, {"head.norm", "cls.norm", 0, "modern-bert"}, {"pooler.dense", "", IC_SKIP, NULL},
    {"embeddings.position_ids", "", IC_SKIP, NULL}, {"pre_classifier", "cls", 0, NULL},
    {"rotary_pos_emb.inv_freq", "", IC_SKIP, NULL}, {"relative_pe.slopes", "", IC_SKIP, NULL},
    {"rotary_emb.inv_freq", "", IC_SKIP, NULL},
};

/* What stands in front of the number of a layer, without the parts that import_inner lists. */
static const char *const import_layer_fronts[] = {
    "layers.", "h.", "blocks.", "encoder.layer.", "encoder.layers.", "transformer_encoder.", "decoder.layers.", "layers.layers.",
    "decoder_layer."};

/* Parts of a name that say nothing: they are taken off its beginning, one after the other. */
static const char *const import_fronts[] = {"model.", "transformer.", "bert.", "roberta.", "ernie.", "language_model.",
                                            "text_model.",
                                            "thinker.", "lfm.", "gpt_neox.", "backbone.", "rwkv."};

/* Names that hold one of these belong to images, sound or training; a leading "=": names that begin so. */
static const char *const import_foreign[] = {
    "visual.", "vision.", "vision_", "audio.", "audio_", "talker.", "token2wav.", "code2wav.", "projector.",
        "pre_mm_projector_norm",
    "image_newline", "view_seperator", "patch_embed", "patch_merger.", "patch_merge_mlp.", "connector.", "sam_model",
        "qwen2_model",
    "=mlp", "=vit.", "=vpm.", "=siglip2.", "=resampler.", "=merger.", "=speech_embeddings.", "=conformer.",
    "=sound_encoder.", "=sound_projection.", "=cls.predictions", "=cls.seq_relationship", "=mtp_block.",
    "=mtp_emb_norm.", "=mtp_hidden_norm.", "=mtp_linear_proj.", "=decoder.", "mlp_AR."};

/* Tensors that are F32 always, beside those that are no matrix, norms, and what does not end in .weight: as llama.cpp has it. */
static const char *const import_f32[] = {"ffn_gate_inp.weight", "ffn_gate_inp_shexp.weight", "position_embd.weight",
                                         "token_types.weight",
                                         "ssm_conv1d.weight", "shortconv.conv.weight", "ple_conv1d.weight",
                                             "altup_correct_coef.weight",
                                             "altup_predict_coef.weight", "ssm_conv1d_q.weight", "ssm_conv1d_k.weight",
                                         "ssm_conv1d_v.weight", "indexer.proj.weight", "time_mix_first.weight",
                                         "hc_attn_fn.weight", "hc_ffn_fn.weight", "output_hc_fn.weight",
                                         "_compressor_ape.weight",
                                         "time_mix_w1.weight", "time_mix_w2.weight", "time_mix_decay_w1.weight",
                                         "time_mix_decay_w2.weight", "time_mix_lerp_fused.weight"};

/* --- what a tensor of the file is made of --- */

typedef struct {
    dq_mat   m;                      /* the source                                                         */
    uint64_t mat;                    /* the matrix of it                                                   */
    uint64_t row0;                   /* the first row                                                      */
    uint64_t step;                   /* to the next row                                                    */
    bool     transposed;             /* rows are columns of the source                                     */
    uint64_t base;                   /* transposed: the row of the source that has the first values        */
    uint64_t order;                  /* number of the expert                                               */
} import_piece;

typedef struct {
    char          name[GGUF_NAME_MAX + 1];
    int           layer;             /* -1: of no layer                                                    */
    import_piece *piece;             /* [n] matrices, one after the other                                  */
    size_t        n;
    uint64_t      rows, cols;        /* of each matrix in the file                                         */
    int           n_dims;            /* in the file                                                        */
    uint32_t     *row;               /* [rows] the row of a piece that comes r-th; NULL: r                 */
    uint32_t     *col;               /* [cols] likewise of columns                                         */
    float         add;               /* added to each value                                                */
    float         times;             /* a factor on it, unless 1                                           */
    float        *part;              /* [rows] a further factor of each row; NULL: none                    */
    bool          neg_exp;           /* -exp(x) of it                                                      */
    bool          flat;              /* pieces are rows of one matrix                                      */
    bool          deep;              /* dimensions are [pieces, rows, 1, cols]                             */
    bool          ternary;           /* values become -m, 0, m                                             */
    float         mean;              /* m, once it is known; 0: not yet                                    */
    uint32_t      type;              /* in the file                                                        */
    float        *own;               /* values that no tensor has; NULL: pieces have them                  */
    bool          numbers;           /* they are integers of 32 bits                                       */
    const st_tensor *from;           /* the first source, for messages                                     */
} import_tensor;

typedef struct {
    gguf_maker     maker;            /* the first field: what gguf_file.maker points to                    */
    st_folder      files;            /* sources; its mappings become those of the gguf_file                */
    import_tensor *t;                /* [n] in the order of the file                                       */
    size_t         n;
} import_made;

typedef struct {
    family_config c;
    unsigned      flags;             /* IMPORT_FILE and its neighbours                                     */
    import_made  *made;
    bool         *used;              /* [files.n] tensors that something takes                             */
    uint32_t      n_vocab;           /* tokens                                                             */
    bool          halves;            /* rows of Q and K keep their order, though the file rotates pairs    */
    err_t        *e;
} import_job;

/* --- making rows --- */

/* Source row of row r of a piece. */
static uint64_t import__row(const import_tensor *t, const import_piece *p, uint64_t r) {
    return p->row0 + p->step * (t->row ? t->row[r] : r);
}

/* Rows row[0..n) of a piece as floats, before their values change. */
static void import__gather(const import_tensor *t, const import_piece *p, const uint64_t *row, int n, float *out,
                           float *scratch) {
    float *to = t->col ? scratch : out, *line = scratch + DQ_TILE * t->cols;
    if (!p->transposed) dq_rows(&p->m, p->mat, row, n, to);
    else
        for (uint64_t k = 0; k < t->cols; k++) {
            const uint64_t from = p->base + k;
            if (p->m.form != DQ_PLAIN) dq_rows(&p->m, p->mat, &from, 1, line);
            for (int i = 0; i < n; i++) {
                float *x = to + (size_t)i * t->cols + k;
                if (p->m.form != DQ_PLAIN) *x = line[row[i]];
                else dq_floats(p->m.w, (p->mat * p->m.rows + from) * p->m.cols + row[i], 1, x);
            }
        }
    for (uint64_t k = 0; t->col && k < t->cols; k++)
        for (int i = 0; i < n; i++) out[(size_t)i * t->cols + k] = scratch[(size_t)i * t->cols + t->col[k]];
}

static void import__change(const import_tensor *t, const import_piece *p, const uint64_t *row, float *x, uint64_t n) {
    if (t->neg_exp) for (uint64_t i = 0; i < n; i++) x[i] = -expf(x[i]);
    if (t->times != 1) for (uint64_t i = 0; i < n; i++) x[i] *= t->times;
    if (t->part) for (uint64_t i = 0; i < n; i++) x[i] *= t->part[row[i / t->cols] - p->row0];
    if (t->add != 0) for (uint64_t i = 0; i < n; i++) x[i] += t->add;
    if (!t->ternary) return;
    const float inverse = 1 / t->mean;                /* as the framework rounds: w * (1 / m), then divided by 1 / m */
    for (uint64_t i = 0; i < n; i++) {
        const float q = nearbyintf(x[i] * inverse);
        x[i] = (q > 1 ? 1 : q < -1 ? -1 : q) / inverse;
    }
}

/* The mean of the sizes of all values, at least 1e-5. */
static float import__mean(const import_tensor *t) {
    const import_piece *p = &t->piece[0];
    float              *line = mem_new(t->cols, sizeof *line);
    float              *scratch = mem_new(mem_size(DQ_TILE + 1, t->cols), sizeof *scratch);
    double              sum = 0;
    for (uint64_t r = 0; r < t->rows; r++) {
        const uint64_t row = import__row(t, p, r);
        import__gather(t, p, &row, 1, line, scratch);
        for (uint64_t k = 0; k < t->cols; k++) sum += (double)fabsf(line[k]);
    }
    mem_free_all(line, scratch);
    return (float)max_f64(sum / ((double)t->rows * (double)t->cols), 1e-5);
}

/* Whether the bytes of a row go through as they are. */
static bool import__keeps(const import_tensor *t, const import_piece *p) {
    static const int8_t type[ST_TYPES] = {[ST_F32] = K_F32 + 1, [ST_F16] = K_F16 + 1, [ST_BF16] = K_BF16 + 1};
    return p->m.form == DQ_PLAIN && type[p->m.w->type] == (int)t->type + 1 && !p->transposed && !t->col && !t->neg_exp &&
           t->times == 1 && !t->part && t->add == 0 && !t->ternary;
}

static bool import__is_float(uint32_t type) { return type == K_F32 || type == K_F16 || type == K_BF16; }

typedef struct {
    const import_made *made;
    const gguf_tensor *t;            /* in the file                                                        */
    const import_tensor *how;
    uint64_t           from, to;     /* rows, counted through all matrices                                 */
    pool              *team;         /* NULL: this thread alone                                            */
    float            **buf;          /* [threads] scratch                                                  */
} import__fill_job;

/* Makes rows [from, from + n) of one piece, n at most DQ_TILE. */
static void import__tile(const import__fill_job *j, uint64_t from, int n, float *buf) {
    const import_tensor *t = j->how;
    const import_piece  *p = &t->piece[from / t->rows];
    const size_t         row_bytes = k_row_bytes(t->type, (int64_t)t->cols);
    uint8_t             *out = (uint8_t *)(uintptr_t)j->t->data + from * row_bytes;
    uint64_t             row[DQ_TILE];
    for (int i = 0; i < n; i++) row[i] = import__row(t, p, from % t->rows + (uint64_t)i);
    if (import__keeps(t, p)) {
        for (int i = 0; i < n; i++) memcpy(out + (size_t)i * row_bytes, dq_row_view(&p->m, p->mat, row[i]), row_bytes);
    } else if (!import__is_float(t->type)) {
        for (int i = 0; i < n; i++) dq_pack_rows(&p->m, t->type, p->mat, row[i], out + (size_t)i * row_bytes);
    } else {
        float *x = t->type == K_F32 ? (float *)(void *)out : buf;
        import__gather(t, p, row, n, x, buf + DQ_TILE * t->cols);
        import__change(t, p, row, x, (uint64_t)n * t->cols);
        for (int i = 0; i < n && t->type != K_F32; i++)
            k_types[t->type].quant(x + (size_t)i * t->cols, out + (size_t)i * row_bytes, (int64_t)t->cols);
    }
}

/* Rows of one tile do not lie in two pieces. */
static int import__tile_rows(const import__fill_job *j, uint64_t from) {
    return (int)min_u64(min_u64(DQ_TILE, j->to - from), j->how->rows - from % j->how->rows);
}

static void import__fill_some(void *ctx, int ith) {
    const import__fill_job *j = ctx;
    const uint64_t          tiles = (j->to - j->from + DQ_TILE - 1) / DQ_TILE;
    for (uint64_t i; (i = (uint64_t)pool_next(j->team)) < tiles;) {
        const uint64_t end = min_u64(j->to, j->from + (i + 1) * DQ_TILE);
        for (uint64_t at = j->from + i * DQ_TILE, n; at < end; at += n) {
            n = min_u64((uint64_t)import__tile_rows(j, at), end - at);
            import__tile(j, at, (int)n, j->buf[ith]);
        }
    }
}

static void import__fill(const gguf_maker *maker, const gguf_tensor *t, uint64_t from, uint64_t to, void *team) {
    const import_made *made = (const import_made *)(const void *)maker;
    import__fill_job   j = {made, t, NULL, from, to, team, NULL};
    for (size_t i = 0; i < made->n && !j.how; i++)
        if (bytes_is(t->name, made->t[i].name)) {
            if (made->t[i].ternary && made->t[i].mean == 0) made->t[i].mean = import__mean(&made->t[i]);
            j.how = &made->t[i];
        }
    ASSERT(j.how);
    if (j.how->own) {
        memcpy((uint8_t *)(uintptr_t)t->data, j.how->own, t->n_bytes);
        return;
    }
    const int n = team ? j.team->n : 1;
    j.buf = mem_new((size_t)n, sizeof *j.buf);
    uint64_t line = 0;                                /* a row of the source, where its columns are rows */
    for (size_t i = 0; i < j.how->n; i++) line = max_u64(line, j.how->piece[i].transposed ? j.how->piece[i].m.cols : 0);
    for (int i = 0; i < n; i++) j.buf[i] = mem_aligned(2 * DQ_TILE * j.how->cols + line, sizeof **j.buf);
    if (team) pool_run(team, import__fill_some, &j);
    else
        for (uint64_t at = from, rows; at < to; at += rows) {
            rows = (uint64_t)import__tile_rows(&j, at);
            import__tile(&j, at, (int)rows, j.buf[0]);
        }
    for (int i = 0; i < n; i++) mem_free(j.buf[i]);
    mem_free(j.buf);
}

static void import__drop(gguf_maker *maker) {
    import_made *m = (import_made *)(void *)maker;
    for (size_t i = 0; i < m->n; i++) mem_free_all(m->t[i].piece, m->t[i].row, m->t[i].col, m->t[i].own,
                                                     m->t[i].part);
    mem_free(m->t);
    if (m->maker.room) munmap(m->maker.room, m->maker.room_bytes);
    st_close(&m->files);
    mem_free(m);
}

/* --- sources: tensors that together are a matrix --- */

/* The tensor NAME with another end. */
static const st_tensor *import__beside(const import_job *j, bytes base, const char *end) {
    str s = {0};
    str_cat(&s, base);
    str_put(&s, end);
    const st_tensor *t = st_find(&j->made->files, str_bytes(&s));
    str_drop(&s);
    if (t) j->used[t - j->made->files.tensor] = true;
    return t;
}

#define QUANT_AT(name) "quantization_config." name

static int import__config_int(const import_job *j, const char *names, int preset) { return family_int(&j->c, names, preset); }

/* The scale of a matrix of bytes: of the whole, of rows, of groups or of blocks. */
static bool import__scaled(import_job *j, dq_mat *m, const st_tensor *scale) {
    bytes    block = family_get(&j->c, QUANT_AT("weight_block_size")), item;
    uint64_t size[2] = {128, 128};
    for (int i = 0; i < 2 && bytes_cut_item(&block, &item); i++) size[i] = strtoul((const char *)item.p, NULL, 10);
    const uint64_t n = scale->n_bytes / st_type_bytes(scale->type), rows = m->rows, cols = m->cols, per = n / m->n_mat;
    m->form = DQ_SCALED;
    m->scale = scale;
    const uint64_t last = scale->n_dims ? scale->dim[scale->n_dims - 1] : 1;
    if (!size[0] || !size[1]) size[0] = size[1] = 128;
    if (per == 1) m->group_rows = rows, m->group = cols;
    else if (per == rows && (last == 1 || scale->n_dims < 2)) m->group_rows = 1, m->group = cols;
    else if (scale->n_dims >= 2 && scale->dim[scale->n_dims - 2] == rows && last && cols % last == 0) m->group_rows = 1,
        m->group = cols / last;
    else m->group_rows = size[0], m->group = size[1];
    if (n % m->n_mat == 0 && m->group && m->group_rows) return dq_check(&j->made->files, m, j->e);
    return st_bad(&j->made->files, scale, j->e, "has %llu scales, expected as many for each of %llu matrices", GGUF_U(n),
                  GGUF_U(m->n_mat));
}

/* NAME.qweight, .qzeros, .scales: GPTQ or AWQ. */
static bool import__int_codes(import_job *j, bytes base, const st_tensor *q, dq_mat *m) {
    const st_folder *f = &j->made->files;
    str              method = {0};
    str_unquote(&method, family_get(&j->c, QUANT_AT("quant_method")), true);
    const bool awq = bytes_is(str_bytes(&method), "awq");
    bool       v2 = bytes_is(family_get(&j->c, QUANT_AT("checkpoint_format")), "\"gptq_v2\"");
    str_drop(&method);
    *m = (dq_mat){.form = awq ? DQ_AWQ : DQ_GPTQ, .w = q, .n_mat = 1, .group_rows = 1, .zero_add = v2 ? 0 : 1,
                  .bits = import__config_int(j, QUANT_AT("bits") " " QUANT_AT("w_bit"), 4)};
    m->zero = import__beside(j, base, ".qzeros");
    m->scale = import__beside(j, base, ".scales");
    if (!m->zero || !m->scale) return st_bad(f, q, j->e, "has no %s beside it", m->zero ? "scales" : "qzeros");
    if (!awq) m->order = import__beside(j, base, ".g_idx");
    if (q->n_dims != 2 || m->scale->n_dims != 2 || !m->scale->dim[0])
        return st_bad(f, q, j->e, "has %d dimensions and scales of %d, expected 2", q->n_dims, m->scale->n_dims);
    if (!(m->bits == 4 || (!awq && (m->bits == 2 || m->bits == 3 || m->bits == 8))))
        return st_bad(f, q, j->e, "has codes of %d bits, expected %s", m->bits, awq ? "4" : "2, 3, 4 or 8");
    m->cols = awq ? q->dim[0] : q->dim[0] * 32 / (uint64_t)m->bits;
    m->rows = m->scale->dim[1];
    const int group = import__config_int(j, QUANT_AT("group_size") " " QUANT_AT("q_group_size"), 0);
    m->group = group > 0 ? (uint64_t)group : (m->cols + m->scale->dim[0] - 1) / m->scale->dim[0];
    return m->group && dq_check(f, m, j->e);
}

/* NAME.weight_packed: compressed-tensors. */
static bool import__packed(import_job *j, bytes base, const st_tensor *w, dq_mat *m) {
    const st_folder *f = &j->made->files;
    const st_tensor *scale = import__beside(j, base, ".weight_scale"), *shape = import__beside(j, base, ".weight_shape"),
                    *global = import__beside(j, base, ".weight_global_scale");
    bytes            groups = family_get(&j->c, QUANT_AT("config_groups")), key = {0}, group = {0};
    import__beside(j, base, ".input_global_scale");
    bytes_cut_member(&groups, &key, &group);
    const bytes how = bytes_trim(bytes_member(group, "weights"));
    *m = (dq_mat){.w = w, .scale = scale, .n_mat = 1, .group_rows = 1, .bits = 4};
    if (!scale || w->n_dims != 2) return st_bad(f, w, j->e, "has %d dimensions and %s scales", w->n_dims, scale ? "its" : "no");
    m->rows = w->dim[0];
    if (w->type == ST_U8) {                           /* FP4 */
        m->cols = 2 * w->dim[1];
        m->form = global ? DQ_NVFP4 : DQ_MXFP4;
        if (global && !(dq_floats(global, 0, 1, &m->factor), m->factor != 0))
            return st_bad(f, global, j->e, "is 0, expected a factor");
        m->divide = true;
        return dq_check(f, m, j->e);
    }
    const bytes bits = bytes_trim(bytes_member(how, "num_bits"));
    m->form = DQ_PACKED;
    if (bits.n == 1 && isdigit(bits.p[0])) m->bits = bits.p[0] - '0';
    if (m->bits != 4 && m->bits != 8 && m->bits != 2) return st_bad(f, w, j->e, "has codes of %d bits, expected 2, 4 or 8",
                                                                    m->bits);
    m->cols = w->dim[1] * 32 / (uint64_t)m->bits;
    if (shape && shape->n_bytes == 16 && shape->type == ST_I64) memcpy(&m->cols, shape->data + 8, 8);
    m->zero = import__beside(j, base, ".weight_zero_point");
    m->order = import__beside(j, base, ".weight_g_idx");
    if (scale->n_dims != 2 || !scale->dim[1] || !m->cols || m->cols > INT32_MAX)
        return st_bad(f, w, j->e, "has scales of %d dimensions, expected 2", scale->n_dims);
    if (m->cols % scale->dim[1])
        return st_bad(f, w, j->e, "has rows of %llu and %llu groups, expected whole groups", GGUF_U(m->cols),
                      GGUF_U(scale->dim[1]));
    m->group = m->cols / scale->dim[1];
    return dq_check(f, m, j->e);
}

/* A number in the JSON of a quant_state. */
static double import__state(bytes json, const char *name, double preset) {
    const bytes v = bytes_trim(bytes_member(json, name));
    char        text[64];
    if (!v.n || v.n >= sizeof text || !(isdigit(v.p[0]) || v.p[0] == '-')) return preset;
    memcpy(text, v.p, v.n);
    text[v.n] = 0;
    return strtod(text, NULL);
}

/* NAME.weight with NAME.weight.absmax: bitsandbytes. */
static bool import__bnb(import_job *j, bytes name, const st_tensor *w, const st_tensor *absmax, dq_mat *m) {
    const st_folder *f = &j->made->files;
    const st_tensor *state = import__beside(j, name, ".quant_state.bitsandbytes__nf4");
    if (!state) state = import__beside(j, name, ".quant_state.bitsandbytes__fp4");
    const bytes json = state ? (bytes){state->data, (size_t)state->n_bytes} : (bytes){0};
    bytes       shape, item;
    *m = (dq_mat){.form = DQ_BNB4, .w = w, .scale = absmax, .n_mat = 1, .bits = 4};
    m->map = import__beside(j, name, ".quant_map");
    if (!m->map || !bytes_is_json(json)) return st_bad(f, w, j->e, "has no %s beside it", m->map ? "quant_state" : "quant_map");
    shape = bytes_trim(bytes_member(json, "shape"));
    if (bytes_cut_item(&shape, &item)) m->rows = strtoul((const char *)item.p, NULL, 10);
    if (bytes_cut_item(&shape, &item)) m->cols = strtoul((const char *)item.p, NULL, 10);
    m->group = (uint64_t)max_f64(import__state(json, "blocksize", 64), 1);
    m->nested_group = (uint64_t)max_f64(import__state(json, "nested_blocksize", 256), 1);
    m->nested_offset = (float)import__state(json, "nested_offset", 0);
    m->nested = import__beside(j, name, ".nested_quant_map");
    m->nested_scale = import__beside(j, name, ".nested_absmax");
    if (!m->rows || !m->cols || m->rows > INT32_MAX || m->cols > INT32_MAX || !m->nested != !m->nested_scale)
        return st_bad(f, w, j->e, "has a quant_state with the shape %llu x %llu", GGUF_U(m->rows), GGUF_U(m->cols));
    return dq_check(f, m, j->e);
}

/* The matrix that the tensor belongs to. base: its name without .weight; `weight`: its name ends so. */
static bool import__source(import_job *j, const st_tensor *t, bytes base, bool weight, dq_mat *m) {
    const st_folder *f = &j->made->files;
    const st_tensor *s;
    *m = dq_plain(t);
    if (!weight) {
        if ((t->type == ST_E4M3 || t->type == ST_E5M2 || t->type == ST_I8) && (s = import__beside(j, t->name, "_scale_inv")))
            return import__scaled(j, m, s);
        if ((t->type == ST_E4M3 || t->type == ST_E5M2 || t->type == ST_I8) && (s = import__beside(j, t->name, "_scale")))
            return import__scaled(j, m, s);
        return dq_check(f, m, j->e);
    }
    if ((s = import__beside(j, t->name, ".absmax"))) return import__bnb(j, t->name, t, s, m);
    if ((s = import__beside(j, base, ".SCB"))) {
        import__beside(j, base, ".weight_format");
        m->form = DQ_BNB8, m->scale = s;
        return dq_check(f, m, j->e);
    }
    if ((s = import__beside(j, base, ".weight_scale_2"))) {
        const st_tensor *scale = import__beside(j, base, ".weight_scale"), *input = import__beside(j, base, ".input_scale");
        if (!scale) return st_bad(f, t, j->e, "has no weight_scale beside it");
        if (!s->n_bytes || (input && !input->n_bytes)) return st_bad(f, t, j->e, "has an empty scale beside it");
        m->form = DQ_NVFP4, m->scale = scale, m->cols *= 2;
        dq_floats(s, 0, 1, &m->factor);
        if (input) dq_floats(input, 0, 1, &m->input);
        return dq_check(f, m, j->e);
    }
    if ((s = import__beside(j, base, ".weight_scale_inv")) || (s = import__beside(j, base, ".weight_scale"))) {
        import__beside(j, base, ".input_scale");
        import__beside(j, base, ".activation_scale");
        import__beside(j, base, ".input_scale_ub");
        m->zero = import__beside(j, base, ".weight_zero_point");
        return import__scaled(j, m, s);
    }
    if (family_is(&j->c, V4) && (s = import__beside(j, base, ".scale"))) {
        if (t->type != ST_I8) return import__scaled(j, m, s);
        m->form = DQ_MXFP4, m->scale = s, m->bits = 4, m->cols *= 2;
    }
    return dq_check(f, m, j->e);
}

/* --- collecting tensors --- */

static import_tensor *import__find(import_job *j, const char *name) {
    for (size_t i = j->made->n; i-- > 0;)
        if (!strcmp(j->made->t[i].name, name)) return &j->made->t[i];
    return NULL;
}

enum { IMPORT_MOST = 16384 };                         /* tensors of a model: finding one looks at all */

/* Adds pieces to the tensor of this name, and makes it where there is none. expert: its number; -1: it has one piece, or
 * stacks. */
static import_tensor *import__add(import_job *j, const char *name, int layer, const import_piece *p, uint64_t rows, uint64_t cols,
                                  int n_dims, const st_tensor *from) {
    import_tensor *t = import__find(j, name);
    if (t && (t->rows != rows || t->cols != cols)) {
        st_bad(&j->made->files, from, j->e, "gives %s rows of %llu x %llu, expected %llu x %llu as others do", name,
               GGUF_U(rows), GGUF_U(cols),
               GGUF_U(t->rows), GGUF_U(t->cols));
        return NULL;
    }
    if (!t) {
        if (j->made->n == IMPORT_MOST) {
            st_bad(&j->made->files, from, j->e, "is one of more than %d, expected fewer tensors", IMPORT_MOST);
            return NULL;
        }
        import_tensor fresh = {.layer = layer, .rows = rows, .cols = cols, .n_dims = n_dims, .times = 1, .from = from,
                               .type = K_F32};
        snprintf(fresh.name, sizeof fresh.name, "%s", name);
        j->made->t = mem_reserve(j->made->t, j->made->n, UINT64_MAX, sizeof *j->made->t);
        j->made->t[j->made->n++] = fresh;
        t = &j->made->t[j->made->n - 1];
    }
    t->piece = mem_reserve(t->piece, t->n, UINT64_MAX, sizeof *t->piece);
    t->piece[t->n++] = *p;
    return t;
}

/* [n] numbers 0, 1, 2, ... */
static uint32_t *import__identity(uint64_t n) {
    uint32_t *v = mem_new(n, sizeof *v);
    for (uint64_t i = 0; i < n; i++) v[i] = (uint32_t)i;
    return v;
}

/* Two halves of each of n_head heads become pairs: row 2i of a head is its row i, row 2i + 1 its row i + half. */
static void import__pair_rows(uint32_t *row, uint64_t n, uint64_t n_head) {
    const uint64_t hd = n_head ? n / n_head : 0;
    for (uint64_t r = 0; hd && r < hd * n_head; r++) row[r] = (uint32_t)(r / hd * hd + (r % hd) / 2 + (r % 2) * (hd / 2));
}

/* Row r of V heads, tiled, is row ... of those grouped by key head; heads have hd rows and begin at row `from`. */
static void import__tile_heads(uint32_t *row, uint64_t from, uint64_t n_k, uint64_t per_k, uint64_t hd) {
    for (uint64_t v = 0; v < per_k; v++)
        for (uint64_t k = 0; k < n_k; k++)
            for (uint64_t d = 0; d < hd; d++) row[from + (v * n_k + k) * hd + d] = (uint32_t)(from + (k * per_k + v) * hd + d);
}

static bool import__divides(import_job *j, const st_tensor *t, uint64_t rows, uint64_t by, const char *what) {
    return (by && rows % by == 0) || st_bad(&j->made->files, t, j->e, "has %llu rows, expected a multiple of %llu %s",
                                            GGUF_U(rows), GGUF_U(by), what);
}

/* What one tensor, or an expert of a stack, gives: several parts of names, each with its rows. */
typedef struct {
    import_job        *j;
    const import_name *row;          /* of import_names                                                    */
    const st_tensor   *t;
    dq_mat             m;
    int                layer;
    int64_t            expert;       /* -1: none                                                           */
    const char        *suffix;       /* .weight, .bias or nothing                                          */
    int                dims;         /* of the tensor as m has it; 0: those of t                           */
} import__one;

/* Part `part` of the row's names, as a name of the file. */
static void import__name(const import__one *o, int part, char name[GGUF_NAME_MAX + 1]) {
    const char *to = o->row->to;
    while (part-- && strchr(to, '|')) to = strchr(to, '|') + 1;
    const int   n = (int)strcspn(to, "|");
    const bool  whole = bytes_find((bytes){(const uint8_t *)to, (size_t)n}, 0, bytes_of(".weight")) != SIZE_MAX ||
                       bytes_find((bytes){(const uint8_t *)to, (size_t)n}, 0, bytes_of(".bias")) != SIZE_MAX ||
                       bytes_find((bytes){(const uint8_t *)to, (size_t)n}, 0, bytes_of(".scale")) != SIZE_MAX;
    const char *number = memchr(to, '#', (size_t)n);  /* of the layer, where the name does not begin with blk */
    if (number)
        snprintf(name, GGUF_NAME_MAX + 1, "%.*s%d%.*s%s", (int)(number - to), to, o->layer, n - (int)(number - to) - 1,
                 number + 1, o->suffix);
    else if (o->layer >= 0) snprintf(name, GGUF_NAME_MAX + 1, "blk.%d.%.*s%s", o->layer, n, to, whole ? "" : o->suffix);
    else snprintf(name, GGUF_NAME_MAX + 1, "%.*s%s", n, to, whole ? "" : o->suffix);
}

/* Adds `rows` rows from row0 on, each `step` after the one before, of all matrices of the source. Returns the tensor; NULL: e is
 * set. */
static import_tensor *import__take(const import__one *o, int part, uint64_t row0, uint64_t step, uint64_t rows, bool transposed) {
    const dq_mat  *m = &o->m;
    import_tensor *t = NULL;
    char           name[GGUF_NAME_MAX + 1];
    const int      own = o->dims ? o->dims : o->t->n_dims,
                   dims = o->expert >= 0 ? 3 : m->form == DQ_PLAIN ? min_int(max_int(own, 1), 4) : m->n_mat > 1 ? 3 : 2;
    import__name(o, part, name);
    if (own > 3 && m->form == DQ_PLAIN)
        return st_bad(&o->j->made->files, o->t, o->j->e, "has %d dimensions, expected at most 3", o->t->n_dims), NULL;
    if (transposed && m->form != DQ_PLAIN)
        return st_bad(&o->j->made->files, o->t, o->j->e, "is quantised and stored transposed, expected floats"), NULL;
    for (uint64_t i = 0; i < m->n_mat; i++) {
        const import_piece p = {*m, i, row0, step, transposed, 0, o->expert >= 0 ? (uint64_t)o->expert : i};
        if (!(t = import__add(o->j, name, o->layer, &p, rows, transposed ? m->rows : m->cols, dims, o->t))) return NULL;
    }
    return t;
}

static bool import__pairs(const import_job *j) { return (j->c.row->flags & FAM_PAIRS) != 0; }

/* Marks rows of queries or keys of n_head heads to be permuted. */
static bool import__permute(const import__one *o, import_tensor *t, uint64_t n_head) {
    if (!t) return false;
    if (!import__pairs(o->j)) return true;
    if (!import__divides(o->j, o->t, t->rows > 1 ? t->rows : t->cols, 2 * n_head, "values of heads")) return false;
    if (!(o->j->flags & IMPORT_FILE)) {
        o->j->halves = true;
        return true;
    }
    if (t->rows > 1) import__pair_rows(t->row = import__identity(t->rows), t->rows, n_head);
    else import__pair_rows(t->col = import__identity(t->cols), t->cols, n_head);
    return true;
}

static uint64_t import__config_u(const import_job *j, const char *names) { return (uint64_t)family_int(&j->c, names, 0); }

/* A bias of experts [E, 2 F]: even columns and odd ones. */
static bool import__pairs_of_columns(const import__one *o) {
    import__one two = *o;
    if (!import__divides(o->j, o->t, o->m.cols, 2, "halves")) return false;
    two.m.n_mat = o->m.rows, two.m.rows = o->m.cols / 2, two.m.cols = 2;
    for (int part = 0; part < 2; part++) {
        import_tensor *t = import__take(&two, part, (uint64_t)part, 1, 1, true);
        if (!t) return false;
        t->flat = true;
    }
    return true;
}

/* The tensors of a row with several names. */
static bool import__split(const import__one *o) {
    const import_job *j = o->j;
    const uint64_t    n = o->m.rows, heads = (uint64_t)j->c.n_head, kv = (uint64_t)j->c.n_kv, hd = (uint64_t)j->c.head_dim;
    switch (o->row->change) {
    case IC_HALVES: {
        const uint64_t half = n / 2;
        return import__divides(o->j, o->t, n, 2, "halves") && import__take(o, 0, 0, 1, half, false) &&
            import__take(o, 1, half, 1, half, false);
    }
    case IC_HALVES_T: {
        const uint64_t half = o->m.cols / 2;
        return import__divides(o->j, o->t, o->m.cols, 2, "halves") && import__take(o, 0, 0, 1, half, true) &&
            import__take(o, 1, half, 1, half, true);
    }
    case IC_EVEN_ODD: return import__divides(o->j, o->t, n, 2, "halves") && import__take(o, 0, 0, 2, n / 2, false) &&
        import__take(o, 1, 1, 2, n / 2, false);
    case IC_EVEN_ODD_T: {
        const uint64_t half = o->m.cols / 2;
        if (o->t->n_dims == 2) return import__pairs_of_columns(o);
        return import__divides(o->j, o->t, o->m.cols, 2, "halves") && import__take(o, 0, 0, 2, half, true) &&
            import__take(o, 1, 1, 2, half, true);
    }
    case IC_KEY_VALUE: return n > hd ? import__take(o, 0, 0, 1, hd, false) && import__take(o, 1, hd, 1, n - hd, false)
                                     : st_bad(&j->made->files, o->t, j->e, "has %llu rows, expected more than a head of %llu",
                                              GGUF_U(n), GGUF_U(hd));
    case IC_INDEX: {
        const uint64_t q = (uint64_t)family_int(&j->c, "indexer_n_heads", 0) * (uint64_t)family_int(&j->c, "indexer_head_dim", 0);
        return n > q ? import__take(o, 0, 0, 1, q, false) && import__take(o, 1, q, 1, n - q, false)
                     : st_bad(&j->made->files, o->t, j->e, "has %llu rows, expected more than %llu of queries",
                               GGUF_U(n), GGUF_U(q));
    }
    case IC_QKV_THIRDS: return import__divides(o->j, o->t, n, 3, "parts") &&
        import__permute(o, import__take(o, 0, 0, 1, n / 3, false), heads) &&
                               import__permute(o, import__take(o, 1, n / 3, 1, n / 3, false), heads) &&
                                   import__take(o, 2, n / 3 * 2, 1, n / 3, false);
    case IC_QKV_HEADS:
        if (n != (heads + 2 * kv) * hd)
            return st_bad(&j->made->files, o->t, j->e, "has %llu rows, expected %llu", GGUF_U(n), GGUF_U((heads + 2 * kv) * hd));
        return import__permute(o, import__take(o, 0, 0, 1, heads * hd, false), heads) &&
               import__permute(o, import__take(o, 1, heads * hd, 1, kv * hd, false), kv) &&
                   import__take(o, 2, (heads + kv) * hd, 1, kv * hd, false);
    default: break;
    }
    return false;
}

/* Groups of queries, a key and a value: rows of Q, K and V are gathered, and those of Q and K permuted. */
static bool import__groups(const import__one *o) {
    const import_job *j = o->j;
    const uint64_t    heads = (uint64_t)j->c.n_head, kv = (uint64_t)j->c.n_kv, hd = (uint64_t)j->c.head_dim, per = kv
        ? heads / kv : 0;
    if (!per || o->m.rows != kv * (per + 2) * hd)
        return st_bad(&j->made->files, o->t, j->e, "has %llu rows, expected %llu", GGUF_U(o->m.rows),
                      GGUF_U(kv * (per + 2) * hd));
    for (int part = 0; part < 3; part++) {
        const uint64_t each = part ? 1 : per, n = kv * each * hd;
        import_tensor *t = import__take(o, part, 0, 1, n, false);
        if (!t || !import__permute(o, t, part ? kv : heads)) return false;
        uint32_t *order = t->row ? t->row : import__identity(n);
        if (part == 2) for (uint64_t r = 0; r < n; r++) order[r] = (uint32_t)r;
        for (uint64_t r = 0; r < n; r++) {
            const uint64_t from = order[r], head = from / hd;
            order[r] = (uint32_t)((head / each * (per + 2) + (part ? per + (uint64_t)part - 1 : head % each)) * hd + from % hd);
        }
        t->row = order;
    }
    return true;
}

/* Rows of each group, queries, a key and a value, become all queries, all keys, all values. A group of bloom and of GPT-NeoX is a
 * head. */
static bool import__fused(const import__one *o) {
    const uint64_t heads = (uint64_t)o->j->c.n_head, groups = family_is(&o->j->c, "falcon") ? (uint64_t)o->j->c.n_kv : heads,
                   per = groups ? heads / groups : 0, all = groups * (per + 2), n = max_u64(o->m.rows,
                       o->m.rows == 1 ? o->m.cols : 0);
    if (!groups || heads % groups)
        return st_bad(&o->j->made->files, o->t, o->j->e, "needs heads in whole groups, found %llu heads in %llu groups",
                      GGUF_U(heads), GGUF_U(groups));
    import_tensor *t = import__take(o, 0, 0, 1, o->m.rows, false);
    if (!t || !import__divides(o->j, o->t, n, all, "heads")) return false;
    mem_free_all(t->row, t->col);
    t->row = t->col = NULL;
    uint32_t      *order = import__identity(n);
    const uint64_t hd = n / all;
    for (uint64_t r = 0; r < n; r++) {
        const uint64_t h = r / hd, key = heads, value = heads + groups;
        const uint64_t from = h < key ? h / per * (per + 2) + h % per : h < value ? (h - key) * (per + 2) + per
            : (h - value) * (per + 2) + per + 1;
        order[r] = (uint32_t)(from * hd + r % hd);
    }
    *(o->m.rows > 1 ? &t->row : &t->col) = order;
    return true;
}

/* Latent keys and values: rows of each head are those of its keys, which become columns, and those of its values. */
static bool import__kv_b(const import__one *o) {
    const uint64_t heads = (uint64_t)o->j->c.n_head, k = import__config_u(o->j, "qk_nope_head_dim"),
                   v = import__config_u(o->j, "v_head_dim");
    if (!k || !v || o->m.n_mat != 1 || o->m.rows != heads * (k + v))
        return st_bad(&o->j->made->files, o->t, o->j->e, "has %llu rows, expected %llu", GGUF_U(o->m.rows),
            GGUF_U(heads * (k + v)));
    for (int part = 0; part < 2; part++) {
        char name[GGUF_NAME_MAX + 1];
        import__name(o, part, name);
        for (uint64_t h = 0; h < heads; h++) {
            const uint64_t     from = h * (k + v);
            const import_piece p = {o->m, 0, part ? from + k : 0, 1, !part, part ? 0 : from, h};
            if (!import__add(o->j, name, o->layer, &p, part ? v : o->m.cols, part ? o->m.cols : k, 3, o->t)) return false;
        }
    }
    return true;
}

/* Vectors of a recurrent layer. */
static bool import__states(import__one *o) {
    const bool     column = family_is(&o->j->c, MAMBA2) && o->t->n_dims == 1 && o->row->change != IC_GROUPS;
    const uint64_t groups = o->row->change == IC_GROUPS ? max_u64(import__config_u(o->j, "n_groups mamba_n_groups"), 1) : 1;
    if ((column || groups > 1) && o->m.form != DQ_PLAIN)
        return st_bad(&o->j->made->files, o->t, o->j->e, "is quantised, expected floats");
    if (column) o->m.rows = o->m.cols, o->m.cols = 1;
    if (o->m.cols % groups)
        return st_bad(&o->j->made->files, o->t, o->j->e, "has %llu values, expected a multiple of %llu groups", GGUF_U(o->m.cols),
                      GGUF_U(groups));
    if (groups > 1) o->m.rows = groups, o->m.cols /= groups;
    import_tensor *t = import__take(o, 0, 0, 1, o->m.rows, false);
    if (!t) return false;
    if (column || o->row->change == IC_GROUPS) t->n_dims = 2;
    t->neg_exp = o->row->change == IC_A_LOG;
    return true;
}

/* Pairs of a head become halves in the part that rotates. */
static bool import__unpair(const import__one *o, uint64_t n_head) {
    import_tensor *t = import__take(o, 0, 0, 1, o->m.rows, false);
    if (!t) return false;
    if (!family_get(&o->j->c, "rope_parameters.mrope_section rope_scaling.mrope_section").n) return true;
    double         part = 0.5;
    family_rope(&o->j->c, "partial_rotary_factor", &part);
    if (!(part >= 0 && part <= 1))
        return st_bad(&o->j->made->files, o->t, o->j->e, "has a partial_rotary_factor of %g, expected 0 to 1", part);
    const uint64_t n = t->rows > 1 ? t->rows : t->cols, hd = n_head ? n / n_head : 0;
    const uint64_t rot = (uint64_t)((double)hd * part) & ~(uint64_t)1;
    if (!import__divides(o->j, o->t, n, n_head, "heads")) return false;
    uint32_t *order = import__identity(n);
    for (uint64_t r = 0; r < n; r++)
        if (r % hd < rot) order[r] = (uint32_t)(r / hd * hd + (r % hd < rot / 2 ? 2 * (r % hd) : 2 * (r % hd - rot / 2) + 1));
    *(t->rows > 1 ? &t->row : &t->col) = order;
    return true;
}

/* Gated delta nets of Qwen 3.5: value heads grouped by key head become tiled. */
static bool import__value_heads(import__one *o) {
    const import_job *j = o->j;
    const uint64_t    n_k = import__config_u(j, "linear_num_key_heads"), n_v = import__config_u(j, "linear_num_value_heads"),
                      d_k = import__config_u(j, "linear_key_head_dim"), d_v = import__config_u(j, "linear_value_head_dim"),
                      per = n_k ? n_v / n_k : 0;
    const bool        tiled = family_is(&j->c, "qwen35 qwen35moe qwen4exp") && n_k != n_v;
    if (!per || n_v != per * n_k) return st_bad(&j->made->files, o->t, j->e,
                                                "needs value heads in whole groups, found %llu of %llu", GGUF_U(n_v),
                                                    GGUF_U(n_k));
    if (o->t->n_dims == 3) o->m.rows = o->t->dim[0], o->m.n_mat = 1;       /* conv1d: [channels, 1, taps] */
    import_tensor *t = import__take(o, 0, 0, 1, o->m.rows, false);
    if (!t) return false;
    if (o->t->n_dims == 3) t->n_dims = 2;
    if (o->row->change == IC_NEG_EXP) t->neg_exp = true;
    if (!tiled) return true;
    const bool     cols = o->row->change == IC_V_HEADS_IN || t->rows == 1;
    const uint64_t from = o->row->change == IC_V_HEADS_QKV ? 2 * n_k * d_k : 0,
                   hd = o->row->change == IC_V_HEAD_ONE || o->row->change == IC_NEG_EXP ? 1 : d_v, n = cols ? t->cols : t->rows;
    if (n != from + n_v * hd) return st_bad(&j->made->files, o->t, j->e, "has %llu values to sort, expected %llu", GGUF_U(n),
                                            GGUF_U(from + n_v * hd));
    import__tile_heads(*(cols ? &t->col : &t->row) = import__identity(n), from, n_k, per, hd);
    return true;
}

/* qwen3next: rows of each key head are query, key, values, gates; they become all queries, keys and values, and all gates. */
static bool import__qkvz(const import__one *o) {
    const import_job *j = o->j;
    const uint64_t    n_k = import__config_u(j, "linear_num_key_heads"), n_v = import__config_u(j, "linear_num_value_heads"),
                      d_k = import__config_u(j, "linear_key_head_dim"), d_v = import__config_u(j, "linear_value_head_dim"),
                      v = n_k ? n_v / n_k * d_v : 0, each = 2 * d_k + 2 * v;
    if (!n_k || o->m.rows != n_k * each) return st_bad(&j->made->files, o->t, j->e, "has %llu rows, expected %llu",
                                                       GGUF_U(o->m.rows), GGUF_U(n_k * each));
    import_tensor *qkv = import__take(o, 0, 0, 1, n_k * (2 * d_k + v), false), *z = qkv
        ? import__take(o, 1, 0, 1, n_k * v, false) : NULL;
    if (!z) return false;
    qkv = import__find(o->j, qkv->name);
    qkv->row = import__identity(qkv->rows);
    z->row = import__identity(z->rows);
    for (uint64_t r = 0; r < qkv->rows; r++) {
        const uint64_t part = r < n_k * d_k ? 0 : r < 2 * n_k * d_k ? 1 : 2, at = r - part * n_k * d_k, d = part == 2 ? v : d_k;
        qkv->row[r] = (uint32_t)(at / d * each + part * d_k + at % d);
    }
    for (uint64_t r = 0; r < z->rows; r++) z->row[r] = (uint32_t)(r / v * each + 2 * d_k + v + r % v);
    return true;
}

/* Number i of a list of the config, or the number; 1: there is none. */
static double import__factor(const import_job *j, const char *name, int i) {
    bytes  list = family_get(&j->c, name), item = {0};
    double v = 1;
    if (!list.n || list.p[0] != '[') return family_number(&j->c, name, &v) ? v : 1;
    for (int k = 0; k <= i; k++)
        if (!bytes_cut_item(&list, &item)) return 1;
    return strtod((const char *)item.p, NULL);
}

/* Falcon-H1: factors of the config go into the weights. */
static bool import__multiplied(const import__one *o) {
    static const struct { const char *to, *name; int i; } factors[] = {
        {"ffn_down", "mlp_multipliers", 1}, {"ffn_gate", "mlp_multipliers", 0}, {"attn_k", "key_multiplier", 0},
        {"attn_q", "attention_in_multiplier", 0}, {"attn_v", "attention_in_multiplier", 0},
        {"attn_output", "attention_out_multiplier", 0}, {"ssm_out", "ssm_out_multiplier", 0},
        {"ssm_in", "ssm_in_multiplier", 0}, {"output", "lm_head_multiplier", 0}, {"token_embd", "embedding_multiplier", 0}};
    const import_job *j = o->j;
    import_tensor    *t = import__take(o, 0, 0, 1, o->m.rows, false);
    const uint64_t    inner = import__config_u(j, "mamba_d_ssm"),
                      states = import__config_u(j, "mamba_n_groups") * import__config_u(j, "mamba_d_state");
    if (!t || (o->t->n_dims < 2 && strcmp(o->suffix, ".bias") == 0)) return t != NULL;
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        if (!strcmp(o->row->to, factors[i].to)) t->times = (float)import__factor(j, factors[i].name, factors[i].i);
    const bool key = !strcmp(o->row->to, "attn_k"), in = !strcmp(o->row->to, "ssm_in");
    if (!key && !in) return true;
    mem_free(t->part);
    t->part = mem_new(t->rows, sizeof *t->part);
    for (uint64_t r = 0; r < t->rows; r++) {
        const int i = r < inner ? 0 : r < 2 * inner ? 1 : r < 2 * inner + states ? 2 : r < 2 * inner + 2 * states ? 3 : 4;
        t->part[r] = (float)(key ? import__factor(j, "attention_in_multiplier", 0) : import__factor(j, "ssm_multipliers", i));
    }
    return true;
}

/* Experts whose rows lie one after the other in one matrix. */
static bool import__experts(import__one *o) {
    const uint64_t n = (uint64_t)o->j->c.n_expert;
    if (!import__divides(o->j, o->t, o->m.rows, n, "experts")) return false;
    if (o->m.form != DQ_PLAIN)
        return st_bad(&o->j->made->files, o->t, o->j->e, "is quantised, expected floats: its experts lie in one matrix");
    o->m.rows /= n;
    o->m.n_mat = n;
    import_tensor *t = o->row->change == IC_EXPERTS ? import__take(o, 0, 0, 1, o->m.rows, false)
        : import__take(o, 0, 0, 1, o->m.cols, true);
    if (t) t->n_dims = 3;
    return t != NULL;
}

static bool import__positions(const import__one *o) {
    const bool     offset = o->j->c.row->flags & FAM_OFFSET && family_get(&o->j->c, "pad_token_id").n;
    const uint64_t skip = offset ? import__config_u(o->j, "pad_token_id") + 1 : 0;
    if (o->m.rows <= skip) return st_bad(&o->j->made->files, o->t, o->j->e, "has %llu rows, expected more than %llu",
                                         GGUF_U(o->m.rows), GGUF_U(skip));
    return import__take(o, 0, skip, 1, o->m.rows - skip, false) != NULL;
}

/* Values of a tensor. */
static uint64_t import__count(const st_tensor *t) {
    uint64_t n = 1;
    for (int i = 0; i < t->n_dims; i++) n *= t->dim[i];
    return n;
}

/* Takes a tensor of floats as n matrices of so many rows and columns, with dimensions of its own. */
static import_tensor *import__shaped(import__one *o, uint64_t n, uint64_t rows, uint64_t cols, int dims, bool transposed) {
    if (o->m.form != DQ_PLAIN) return st_bad(&o->j->made->files, o->t, o->j->e, "is quantised, expected floats"), NULL;
    if (n > DQ_MAT_MAX)
        return st_bad(&o->j->made->files, o->t, o->j->e, "would be %llu matrices, expected at most %d", GGUF_U(n), DQ_MAT_MAX),
            NULL;
    if (!rows || !cols || n * rows * cols != import__count(o->t))
        return st_bad(&o->j->made->files, o->t, o->j->e, "has %llu values, expected %llu x %llu x %llu",
                      GGUF_U(import__count(o->t)), GGUF_U(n), GGUF_U(rows), GGUF_U(cols)), NULL;
    o->m.n_mat = n, o->m.rows = rows, o->m.cols = cols, o->dims = dims > 3 ? 3 : dims;
    import_tensor *t = import__take(o, 0, 0, 1, transposed ? cols : rows, transposed);
    if (t) t->n_dims = dims;
    return t;
}

/* The last dimensions of a tensor, without those of 1 in front: dim[0] matrices of dim[1] rows. */
static void import__squeezed(const st_tensor *t, uint64_t dim[3]) {
    int at = 3;
    dim[0] = dim[1] = dim[2] = 1;
    for (int i = t->n_dims - 1; i >= 0; i--) {
        if (t->dim[i] == 1) continue;
        if (at) dim[--at] = t->dim[i];
        else dim[0] *= t->dim[i];
    }
}

/* Tensors of RWKV whose dimensions change. */
static bool import__wkv(import__one *o) {
    const import_change how = o->row->change;
    const uint64_t      n = import__count(o->t);
    uint64_t            dim[3];
    import_tensor      *t;
    import__squeezed(o->t, dim);
    if (how == IC_FLAT) return import__shaped(o, 1, 1, n, 1, false) != NULL;
    if (how == IC_LERPS || how >= IC_LERP_0) {
        const uint64_t width = (uint64_t)o->j->c.n_embd;
        o->expert = how == IC_LERPS ? -1 : (int64_t)(how - IC_LERP_0);
        if (how != IC_LERPS && n != width)
            return st_bad(&o->j->made->files, o->t, o->j->e, "has %llu values, expected %llu", GGUF_U(n), GGUF_U(width));
        t = import__shaped(o, n / width, 1, width, 4, false);
        if (t) t->deep = true;
        return t != NULL;
    }
    const int dims = dim[0] > 1 ? 3 : 2;
    t = import__shaped(o, dim[0], dim[1], dim[2], dims, true);
    if (!t || how != IC_FIVE) return t != NULL;
    /* blocks w, k, v, r, g become r, k, v, w, g */
    static const uint8_t from[5] = {3, 1, 2, 0, 4};
    if (dims == 3) {
        if (t->n != 5)
            return st_bad(&o->j->made->files, o->t, o->j->e, "has %zu matrices, expected 5", t->n);
        for (size_t i = 0; i < t->n; i++) t->piece[i].order = from[i];       /* changing places twice changes nothing */
        return true;
    }
    if (!import__divides(o->j, o->t, t->rows, 5, "blocks")) return false;
    t->row = import__identity(t->rows);
    for (uint64_t r = 0, each = t->rows / 5; r < t->rows; r++) t->row[r] = (uint32_t)(from[r / each] * each + r % each);
    return true;
}

/* PLaMo: query head h reads key head h % 5; in the file those of one key head stand together. */
static bool import__spread(const import__one *o) {
    const bool     cols = o->row->change == IC_SPREAD_IN;
    const uint64_t heads = (uint64_t)o->j->c.n_head, kv = 5, n = cols ? o->m.cols : o->m.rows, hd = n / heads;
    import_tensor *t = import__take(o, 0, 0, 1, o->m.rows, false);
    if (!t || !import__divides(o->j, o->t, n, heads, "heads") || !import__divides(o->j, o->t, heads, kv, "heads of keys"))
        return false;
    uint32_t *order = import__identity(n);
    for (uint64_t r = 0; r < n; r++)
        order[r] = (uint32_t)((r / hd % (heads / kv) * kv + r / hd / (heads / kv)) * hd + r % hd);
    *(cols ? &t->col : &t->row) = order;
    return true;
}

/* Factors of rows: the second half of each head is turned. */
static bool import__signs(import__one *o) {
    import_tensor *t = import__take(o, 0, 0, 1, o->m.rows, false);
    const uint64_t hd = (uint64_t)o->j->c.head_dim;
    if (!t || !import__divides(o->j, o->t, t->rows, hd, "values of heads")) return false;
    t->part = mem_new(t->rows, sizeof *t->part);
    for (uint64_t r = 0; r < t->rows; r++) t->part[r] = r % hd < hd / 2 ? 1 : -1;
    return true;
}

/* Takes a tensor as -exp(x), as [n, 1], or with a dimension more. */
static bool import__reshaped(import__one *o) {
    const uint64_t n = import__count(o->t), taps = o->t->n_dims ? o->t->dim[o->t->n_dims - 1] : 0;
    import_tensor *t = NULL;
    if (o->row->change == IC_DEEP) {
        if (taps && (t = import__shaped(o, 1, n / taps, taps, 4, false))) t->deep = true;
    } else if (o->row->change == IC_TOP) t = import__shaped(o, 1, n, 1, 2, false);
    else if (o->t->n_dims < 2) t = import__shaped(o, 1, 1, n, 1, false);
    else t = import__shaped(o, 1, n / max_u64(taps, 1), taps, o->t->n_dims, false);
    if (t) t->neg_exp = o->row->change == IC_DECAYS;
    return t || (!o->j->e->code && st_bad(&o->j->made->files, o->t, o->j->e, "has no values"));
}

/* A power of 2 for each group of layers in front. */
static bool import__rescaled(import__one *o) {
    const int      every = family_int(&o->j->c, "rescale_every", 0);
    import_tensor *t = import__take(o, 0, 0, 1, o->m.rows, false);
    if (t && every) t->times = ldexpf(1, -(o->layer / every));
    return t != NULL;
}

/* Numbers of n-grams, which the framework makes of the config and saves beside the weights: others would find other rows. */
static bool import__hash(const import__one *o) {
    const st_tensor  *t = o->t;
    const family_hash gr = family_grams(&o->j->c);
    const char       *name = strrchr(o->row->name, '.') + 1;
    const bool        factors = !strcmp(name, "layer_multipliers");
    const uint64_t   *want = factors ? gr.factor : strstr(name, "offsets") ? gr.first : gr.rows,
                      n = (uint64_t)(factors ? gr.n : (gr.n - 1) * gr.each);
    if (t->type != ST_I64 || t->n_bytes != 8 * n)
        return st_bad(&o->j->made->files, t, o->j->e, "has %llu bytes of %s, expected %llu of I64", GGUF_U(t->n_bytes),
                      st_type_name(t->type), GGUF_U(8 * n));
    for (uint64_t i = 0; i < n; i++) {
        uint64_t is;
        memcpy(&is, t->data + 8 * i, 8);
        if (is != want[i])
            return st_bad(&o->j->made->files, t, o->j->e, "has %llu as value %llu, expected %llu as config.json gives it",
                          GGUF_U(is), GGUF_U(i), GGUF_U(want[i]));
    }
    return true;
}

/* Whether matrices become three values. Those of 2B4T have them already, where the config does not say otherwise. */
static bool import__rounds(const import_job *j) {
    return family_is(&j->c, "bitnet") || bytes_is(family_get(&j->c, QUANT_AT("quantization_mode")), "\"online\"");
}

/* Integers, as they are: those of experts. */
static bool import__numbers(import__one *o) {
    const st_tensor *t = o->t;
    if ((t->type != ST_I64 && t->type != ST_I32) || t->n_dims != 2)
        return st_bad(&o->j->made->files, t, o->j->e, "has %d dimensions of %s, expected 2 of I64 or I32", t->n_dims,
                      st_type_name(t->type));
    o->m = dq_plain(t);
    import_tensor *made = import__take(o, 0, 0, 1, o->m.rows, false);
    if (!made) return false;
    const uint64_t each = st_type_bytes(t->type), n = t->n_bytes / each;
    mem_free(made->own);
    made->own = mem_new((size_t)n, sizeof *made->own);
    made->numbers = true;
    for (uint64_t i = 0; i < n; i++) {
        int64_t v = 0;
        int32_t is;
        memcpy(&v, t->data + i * each, each);
        is = each == 8 ? (int32_t)v : (int32_t)(uint32_t)v;
        if (each == 8 && is != v)
            return st_bad(&o->j->made->files, t, o->j->e, "has %lld as value %llu, expected an integer of 32 bits",
                          (long long)v, GGUF_U(i));
        memcpy(&made->own[i], &is, sizeof is);
    }
    return true;
}

/* What a tensor of the folder becomes. */
static bool import__convert(import__one *o) {
    import_tensor *t = NULL;
    const uint64_t heads = (uint64_t)o->j->c.n_head, kv = (uint64_t)o->j->c.n_kv;
    switch (o->row->change) {
    case IC_SKIP: case IC_HASH: case IC_NUMBERS: return true;
    case IC_DEEP: case IC_DECAYS: case IC_TOP: return import__reshaped(o);
    case IC_FLAT: case IC_FLIP: case IC_FIVE: case IC_LERPS: case IC_LERP_0: case IC_LERP_1: case IC_LERP_2: case IC_LERP_3:
    case IC_LERP_4: case IC_LERP_5: return import__wkv(o);
    case IC_RESCALE: return import__rescaled(o);
    case IC_SIGNS: return import__signs(o);
    case IC_SPREAD: case IC_SPREAD_IN: return import__spread(o);
    case IC_TERNARY:
        if ((t = import__take(o, 0, 0, 1, o->m.rows, false))) t->ternary = !strcmp(o->suffix, ".weight") && import__rounds(o->j);
        return t != NULL;
    case IC_FIRST: {
        char name[GGUF_NAME_MAX + 1];
        import__name(o, 0, name);
        return import__find(o->j, name) || import__take(o, 0, 0, 1, o->m.rows, false);
    }
    case IC_TIMES: return import__multiplied(o);
    case IC_Q: return import__permute(o, import__take(o, 0, 0, 1, o->m.rows, false), heads);
    case IC_K: {                                      /* layers of deci differ in their heads of keys */
        const uint64_t rows = o->m.rows > 1 ? o->m.rows : o->m.cols, hd = (uint64_t)o->j->c.head_dim;
        const bool     all = family_is(&o->j->c, "baichuan xverse"), own = family_is(&o->j->c, "deci") && hd;
        return import__permute(o, import__take(o, 0, 0, 1, o->m.rows, false), all ? heads : own ? rows / hd : kv);
    }
    case IC_GLM_Q: return import__unpair(o, heads);
    case IC_GLM_K: return import__unpair(o, kv);
    case IC_HALVES: case IC_HALVES_T: case IC_EVEN_ODD: case IC_EVEN_ODD_T: case IC_KEY_VALUE: case IC_QKV_THIRDS:
    case IC_QKV_HEADS: case IC_INDEX: return import__split(o);
    case IC_QKV_GROUPS: return import__groups(o);
    case IC_QKV_BLOOM: return import__fused(o);
    case IC_KV_B: return import__kv_b(o);
    case IC_A_LOG: case IC_COLUMN: case IC_GROUPS: return import__states(o);
    case IC_HEAD_ROWS:
        if ((t = import__take(o, 0, 0, 1, o->m.rows, false))) t->n_dims = 2, t->flat = true;
        return t != NULL;
    case IC_V_HEADS: case IC_V_HEADS_QKV: case IC_V_HEADS_IN: case IC_V_HEAD_ONE: case IC_NEG_EXP: return import__value_heads(o);
    case IC_QKVZ: return import__qkvz(o);
    case IC_EXPERTS: case IC_EXPERTS_T: return import__experts(o);
    case IC_POSITIONS: return import__positions(o);
    case IC_TRANSPOSE:
        if (o->t->n_dims < 2 || o->m.form != DQ_PLAIN) return import__take(o, 0, 0, 1, o->m.rows, false) != NULL;
        return import__take(o, 0, 0, 1, o->m.cols, true) != NULL;
    case IC_SQUEEZE:
        if (o->t->n_dims == 3) o->m.rows = o->t->dim[0], o->m.n_mat = 1;
        if ((t = import__take(o, 0, 0, 1, o->m.rows, false)) && o->t->n_dims > 1) t->n_dims = 2;
        return t != NULL;
    case IC_SCALE: {
        double by = 1, alpha = 1;
        if (!strcmp(o->row->name, "wte")) family_number(&o->j->c, "mup_embeddings_scale embeddings_scale", &by);
        else if (family_number(&o->j->c, "mup_output_alpha", &alpha)) family_number(&o->j->c, "mup_width_scale", &by),
            by *= alpha;
        else family_number(&o->j->c, "width_scale", &by);
        if ((t = import__take(o, 0, 0, 1, o->m.rows, false))) t->times = (float)by;
        return t != NULL;
    }
    case IC_NONE:                                     /* codes of mimo2's rows are those of each device, one after the other */
        if (o->m.form != DQ_PLAIN && family_is(&o->j->c, "mimo2") && !strcmp(o->row->to, "attn_qkv"))
            return st_bad(&o->j->made->files, o->t, o->j->e, "is quantised in parts of several devices, expected floats");
        return import__take(o, 0, 0, 1, o->m.rows, false) != NULL;
    }
    return false;
}

/* --- names --- */

/* Whether `name` is the pattern, where # stands for a number. */
static bool import__matches(bytes name, const char *pattern, int64_t *number) {
    size_t i = 0;
    *number = -1;
    for (; *pattern; pattern++) {
        if (*pattern != '#') {
            if (i >= name.n || name.p[i++] != (uint8_t)*pattern) return false;
            continue;
        }
        const size_t from = i;
        for (*number = 0; i < name.n && isdigit(name.p[i]) && i < from + 6; i++) *number = 10 * *number + (name.p[i] - '0');
        if (i == from) return false;
    }
    return i == name.n;
}

static bool import__is_for(const import_job *j, const char *archs) {
    if (archs && *archs == '-') return !j->c.n_expert && family_is(&j->c, archs + 1);
    return !archs || (*archs == '!' ? !family_is(&j->c, archs + 1) : family_is(&j->c, archs));
}

/* The row of a name without its front. The suffix .weight or .bias may be part of a row's name or not. */
static const import_name *import__row_of(const import_job *j, bytes name, bool layer, int64_t *expert, const char **suffix) {
    const import_name *rows = layer ? import_layer_names : import_model_names;
    const size_t       n = layer ? sizeof import_layer_names / sizeof *import_layer_names
        : sizeof import_model_names / sizeof *import_model_names;
    bytes              stem = name;
    *suffix = "";
    if (bytes_ends(name, bytes_of(".weight"))) stem.n -= 7, *suffix = ".weight";
    else if (bytes_ends(name, bytes_of(".bias"))) stem.n -= 5, *suffix = ".bias";
    else if (bytes_ends(name, bytes_of(".gamma"))) stem.n -= 6, *suffix = ".weight";     /* older BERT */
    else if (bytes_ends(name, bytes_of(".beta"))) stem.n -= 5, *suffix = ".bias";
    for (size_t i = 0; i < n; i++) {
        if (!import__is_for(j, rows[i].archs)) continue;
        if (import__matches(stem, rows[i].name, expert)) return &rows[i];
        if (**suffix && import__matches(name, rows[i].name, expert)) return *suffix = "", &rows[i];
    }
    return NULL;
}

static bool import__is_foreign(bytes name) {
    for (size_t i = 0; i < sizeof import_foreign / sizeof *import_foreign; i++) {
        const char *part = import_foreign[i];
        if (*part == '=' ? bytes_begins(name, bytes_of(part + 1)) : bytes_find(name, 0, bytes_of(part)) != SIZE_MAX) return true;
    }
    return false;
}

/* The name without what says nothing. *layer: the number of its layer, -1: none. */
static bytes import__stem(bytes name, int *layer) {
    *layer = -1;
    for (size_t i = 0; i < sizeof import_fronts / sizeof *import_fronts; i++)
        if (bytes_begins(name, bytes_of(import_fronts[i]))) {
            name = bytes_slice(name, strlen(import_fronts[i]), name.n);
            i = (size_t)-1;
        }
    for (size_t i = 0; i < sizeof import_layer_fronts / sizeof *import_layer_fronts; i++) {
        size_t at = strlen(import_layer_fronts[i]), from = at;
        int    n = 0;
        if (!bytes_begins(name, bytes_of(import_layer_fronts[i]))) continue;
        for (; at < name.n && at < from + 5 && isdigit(name.p[at]); at++) n = 10 * n + (name.p[at] - '0');
        if (at == from || at >= name.n || name.p[at] != '.') continue;
        *layer = n;
        return bytes_slice(name, at + 1, name.n);
    }
    return name;
}

/* mtp.* of Qwen, EXAONE and MiMo: the layers of draft heads follow the last. Returns false for a tensor that is left out. */
static bool import__draft(const import_job *j, bytes *name, int *layer, str *text) {
    static const char *const from[] = {"fc", "pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"},
        *const to[] = {"eh_proj", "enorm", "hnorm", "shared_head.norm"};
    bytes rest = bytes_slice(*name, 4, name->n);
    if (!family_is(&j->c, LINEAR " exaone-moe exaone4 mimo2") || !j->c.n_ahead) return false;
    if (bytes_begins(rest, bytes_of("layers."))) {
        *name = import__stem(rest, layer);
        *layer += *layer >= 0 ? j->c.n_layer : 0;
        return true;
    }
    for (size_t i = 0; i < 4; i++) {
        str_clear(text);
        str_fmt(text, "%s.weight", from[i]);
        if (!bytes_eq(rest, str_bytes(text))) continue;
        str_clear(text);
        str_fmt(text, "%s.weight", to[i]);
        *name = str_bytes(text);
        *layer = j->c.n_layer;
        return true;
    }
    return true;
}

/* Ends of names of quantised matrices; the rest of the name is that of NAME.weight. */
static bool import__quantised(import_job *j, const st_tensor *t, bytes *base, dq_mat *m, bool *done) {
    static const char *const aside[] = {".qzeros", ".scales", ".g_idx", ".SCB", ".weight_format", ".weight_scale",
                                        ".weight_scale_inv", ".weight_scale_2",
                                        ".weight_shape", ".weight_zero_point", ".weight_g_idx", ".weight_global_scale",
                                            ".input_global_scale", ".input_scale",
                                        ".activation_scale", ".input_scale_ub", ".k_scale", ".v_scale", ".absmax",
                                            ".quant_map", ".nested_absmax",
                                        ".nested_quant_map", ".quant_state.bitsandbytes__nf4",
                                            ".quant_state.bitsandbytes__fp4", "_scale_inv", "_scales",
                                        "_activation_scale"};
    *done = true;
    if (bytes_ends(t->name, bytes_of(".qweight"))) {
        *base = bytes_slice(t->name, 0, t->name.n - 8);
        return import__int_codes(j, *base, t, m);
    }
    if (bytes_ends(t->name, bytes_of(".weight_packed"))) {
        *base = bytes_slice(t->name, 0, t->name.n - 14);
        return import__packed(j, *base, t, m);
    }
    if (bytes_ends(t->name, bytes_of("_blocks"))) {
        const st_tensor *s = import__beside(j, bytes_slice(t->name, 0, t->name.n - 7), "_scales");
        *base = t->name;
        *m = dq_plain(t);
        if (!s || t->n_dims != 4 || t->dim[3] != 16) return st_bad(&j->made->files, t, j->e, "has %d dimensions%s", t->n_dims,
                                                                   s ? "" : " and no scales");
        *m = (dq_mat){.form = DQ_MXFP4, .w = t, .scale = s, .n_mat = t->dim[0], .rows = t->dim[1], .cols = 32 * t->dim[2],
        .bits = 4};
        return dq_check(&j->made->files, m, j->e);
    }
    if (family_is(&j->c, V4) && bytes_ends(t->name, bytes_of(".scale"))) {
        if (bytes_begins(t->name, bytes_of("mtp."))) j->used[t - j->made->files.tensor] = true;    /* of what is left out */
        *base = (bytes){0};
        return true;
    }
    for (size_t i = 0; i < sizeof aside / sizeof *aside; i++)
        if (bytes_ends(t->name, bytes_of(aside[i])) && !bytes_ends(t->name, bytes_of("per_expert_scale"))) {
            *base = (bytes){0};
            return true;
        }
    *done = false;
    return true;
}

/* A bias of zeros is left out. Another one is an error: the model has no place for it. */
static bool import__no_bias(const import_job *j, const st_tensor *t) {
    float x;
    for (uint64_t i = 0; i < t->n_bytes / st_type_bytes(t->type); i++) {
        dq_floats(t, i, 1, &x);
        if (x != 0) return st_bad(&j->made->files, t, j->e, "is a bias with values, expected zeros");
    }
    return true;
}

/* What of the folder is no tensor of the model, by its name. */
static bool import__left_out(const import_job *j, bytes stem, int layer) {
    static const char ahead[] = "num_nextn_predict_layers mtp_num_hidden_layers";
    if (layer >= 0) return layer >= j->c.n_layer + j->c.n_ahead && family_int(&j->c, ahead, 0);    /* draft heads, not taken */
    const bool head = bytes_is(stem, "lm_head.weight"), tied = family_true(&j->c, "tie_word_embeddings");
    if (head && (j->c.row->flags & FAM_NO_HEAD || (j->c.row->flags & FAM_TIED && tied))) return true;
    if (!(j->c.row->flags & FAM_ENCODER)) return false;
    static const char *const heads[] = {"lm_head.", "vocab_", "head.dense", "head.norm", "decoder.", "classifier", "dropout",
                                        "pooler."};
    const bool labels = family_is(&j->c, "bert modern-bert") && family_get(&j->c, "id2label").n;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (bytes_begins(stem, bytes_of(heads[i])) && !(labels && (i == 2 || i == 3 || i == 5))) return true;
    return false;
}

/* A name of RWKV, whose parts have several names. */
static bytes import__parts(bytes name, str *text) {
    static const struct { const char *from, *to; } parts[] = {
        {"self_attn.", "attention."}, {"attn.", "attention."}, {"attention.", "attention."}, {"ffn.", "feed_forward."}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!bytes_begins(name, bytes_of(parts[i].from))) continue;
        name = bytes_slice(name, strlen(parts[i].from), name.n);
        if (bytes_begins(name, bytes_of("time_mixer."))) name = bytes_slice(name, 11, name.n);
        str_put(text, parts[i].to);
        str_cat(text, name);
        return str_bytes(text);
    }
    return name;
}

/* Converts a tensor, and again where it stands for several. */
static bool import__copies(const import__one *of, bytes stem) {
    import_job *j = of->j;
    import__one o = *of;
    const bool  first = family_is(&j->c, RWKV_7) && o.layer == 0;
    if (first && !strncmp(o.row->to, "time_mix_v", 10) && isdigit((uint8_t)o.row->to[10])) return true;
    if (!import__convert(&o)) return false;
    if (first && !strncmp(o.row->to, "time_mix_a", 10)) {      /* it has no values to mix: those of the rate stand in */
        import_name twice = *o.row;
        char        to[32];
        snprintf(to, sizeof to, "time_mix_v%s", o.row->to + 10);
        twice.to = to;
        o = *of;
        o.row = &twice;
        return import__convert(&o);
    }
    /* parts that all draft heads share */
    static const char shared[] = "eh_proj.weight enorm.weight hnorm.weight shared_head.norm.weight";
    const bool one = family_is(&j->c, "exaone4") && of->layer == j->c.n_layer && family_true(&j->c, "mtp_share_layers"),
               all = one || (family_is(&j->c, "exaone-moe exaone4") && bytes_among(stem, shared));
    for (int layer = j->c.n_layer + 1; all && layer < j->c.n_layer + j->c.n_ahead; layer++) {
        o = *of;
        o.layer = layer;
        if (!import__convert(&o)) return false;
    }
    return true;
}

/* Draft heads that the config names and the folder has not are not taken: frameworks leave them out when they save a model. */
static void import__count_ahead(import_job *j) {
    int layer = -1, last = -1;
    for (size_t i = 0; i < j->made->files.n && j->c.n_ahead; i++) {
        const bytes stem = import__stem(j->made->files.tensor[i].name, &layer);
        if (layer >= 0 || !bytes_begins(stem, bytes_of("mtp."))) last = max_int(last, layer);
        else last = j->c.n_layer;
    }
    if (last < j->c.n_layer) j->c.n_ahead = 0;
}

/* Layers that a row may name: of T5's decoder, or all others. */
static int import__layers(const import_job *j, const import_name *row) {
    if (!row || !family_is(&j->c, T5) || strncmp(row->to, "dec.", 4) != 0) return j->c.n_layer + j->c.n_ahead;
    return family_is(&j->c, "t5") ? family_int(&j->c, "num_decoder_layers", j->c.n_layer) : 0;
}

/* Takes one tensor of the folder. */
static bool import__tensor(import_job *j, const st_tensor *t) {
    import__one o = {.j = j, .t = t, .layer = -1, .expert = -1};
    bytes       base = {0}, stem;
    str         text = {0};
    bool        done, ok = import__quantised(j, t, &base, &o.m, &done), weight = bytes_ends(t->name, bytes_of(".weight"));
    if (!ok || (done && !base.n)) return ok;
    bytes name = done && !bytes_eq(base, t->name) ? base : t->name;
    str   whole = {0};
    if (done && !bytes_eq(base, t->name)) str_cat(&whole, base), str_put(&whole, ".weight"), name = str_bytes(&whole);
    j->used[t - j->made->files.tensor] = true;
    stem = import__stem(name, &o.layer);
    if (family_is(&j->c, RWKV)) stem = import__parts(stem, &text);
    if (o.layer < 0 && bytes_begins(stem, bytes_of("mtp."))) ok = import__draft(j, &stem, &o.layer, &text) || (stem.n = 0, true);
    const bool bias = j->c.row->flags & FAM_NO_BIAS && bytes_ends(stem, bytes_of(".bias"));
    ok = ok && (!bias || import__no_bias(j, t));
    const bool foreign = !family_is(&j->c, T5) && import__is_foreign(o.layer < 0 ? stem : name);
    const bool skip = !ok || bias || !stem.n || foreign || import__left_out(j, stem, o.layer);
    if (!skip) {
        o.row = import__row_of(j, stem, o.layer >= 0, &o.expert, &o.suffix);
        if (o.row && o.layer < 0 && strchr(o.row->to, '#')) o.layer = (int)o.expert, o.expert = -1;
        else if (o.row && (!strncmp(o.row->to, "token_", 6) || !strncmp(o.row->to, "per_layer_token_", 16))) o.layer = -1;
        const int layers = import__layers(j, o.row);
        if (o.layer >= layers)
            ok = st_bad(&j->made->files, t, j->e, "is of layer %d, expected one below %d", o.layer, layers);
        else if (!o.row) ok = st_bad(&j->made->files, t, j->e, "has no place in a %s model", j->c.row->arch);
        else if (o.row->change == IC_HASH) ok = import__hash(&o);
        else if (o.row->change == IC_NUMBERS) ok = import__numbers(&o);
        else if (o.row->change != IC_SKIP) {
            const size_t cut = weight ? 7 : 0;
            ok = (done || import__source(j, t, bytes_slice(t->name, 0, t->name.n - cut), weight, &o.m)) &&
                import__copies(&o, stem);
        }
    }
    str_drop_all(&text, &whole);
    return ok;
}

/* --- after all are collected --- */

static int import__by_order(const void *a, const void *b) {
    const import_piece *x = a, *y = b;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Experts of a stack in their order, and whether all are there. */
static bool import__check_stack(import_job *j, import_tensor *t) {
    if (t->n > 1) qsort(t->piece, t->n, sizeof *t->piece, import__by_order);
    for (size_t i = 0; i < t->n; i++)
        if (t->piece[i].order != i && t->n > 1)
            return st_bad(&j->made->files, t->from, j->e, "is one of %zu for %s, expected number %zu among them", t->n,
                          t->name, i);
    if (t->n > 1 && t->n_dims < 3 && !t->flat)
        return st_bad(&j->made->files, t->from, j->e, "is one of %zu for %s, expected one", t->n, t->name);
    return true;
}

/* The type of a tensor in the file. */
static uint32_t import__type(const import_job *j, const import_tensor *t) {
    const size_t n = strlen(t->name);
    const bool   weight = n > 7 && !strcmp(t->name + n - 7, ".weight"), norm = n > 12 &&
        !strcmp(t->name + n - 12, "_norm.weight");
    if (t->numbers) return K_I32;
    if (t->own || t->n_dims <= 1 || !weight || norm) return K_F32;
    for (size_t i = 0; i < sizeof import_f32 / sizeof *import_f32; i++)
        if (bytes_ends(bytes_of(t->name), bytes_of(import_f32[i]))) return K_F32;
    if (family_is(&j->c, "minimax-m3") && strstr(t->name, ".indexer.")) return K_F32;
    uint32_t type = K_F32;
    for (size_t i = 0; i < t->n; i++) {               /* a stack has one type */
        uint32_t own = dq_exact(&t->piece[i].m);
        if (t->piece[i].m.form != DQ_PLAIN && j->flags & IMPORT_EXACT) own = K_F32;
        const bool changes = t->times != 1 || t->part || t->add != 0 || t->neg_exp || t->ternary;
        if (!import__is_float(own) && (changes || t->col || t->piece[i].transposed || t->cols % k_types[own].block)) own = K_BF16;
        if (i && own != type) own = import__is_float(own) && import__is_float(type) ? K_F32 : K_F16;
        type = own;
    }
    return type;
}

/* Tensors by layer, and by name within one: the order in which llama.cpp quantises. */
static int import__by_name(const void *a, const void *b) {
    const import_tensor *x = a, *y = b;
    return x->layer != y->layer ? (x->layer < y->layer ? -1 : 1) : strcmp(x->name, y->name);
}

/* What is added to the values of a tensor, by its name in the folder: gains of norms may be stored less a number, biases of
 * experts with a mean that goes. */
static float import__shift(const import_job *j, const import_tensor *t) {
    static const struct { const char *end; double add; } plamo[] = {     /* 1 / 5 and 1 / 5^1.5: what two norms begin with */
        {".post_mixer_norm.weight", 0.2}, {".post_mlp_norm.weight", 0.08944271909999159}, {".pre_mixer_norm.weight", 1},
        {".pre_mlp_norm.weight", 1}, {".norm.weight", 1}, {".mixer.q_norm.weight", 1}, {".mixer.k_norm.weight", 1}};
    const bytes name = t->from->name;
    if (family_is(&j->c, "plamo2 plamo3")) {
        for (size_t i = 0; i < sizeof plamo / sizeof *plamo; i++)
            if (bytes_ends(name, bytes_of(plamo[i].end))) return (float)plamo[i].add;
        return 0;
    }
    if (j->c.row->flags & FAM_CENTRED && bytes_ends(name, bytes_of(".expert_bias"))) {
        double sum = 0;
        float  x;
        for (uint64_t i = 0; i < t->cols; i++) dq_floats(t->from, i, 1, &x), sum += (double)x;
        return -(float)(sum / (double)t->cols);
    }
    const bool norm = bytes_ends(name, bytes_of("norm.weight")) || bytes_find(name, 0, bytes_of(".ple.norm_")) != SIZE_MAX;
    if (!(j->c.row->flags & FAM_NORM_1) || !norm) return 0;
    return !bytes_ends(name, bytes_of("linear_attn.norm.weight"));
}

/* Adds a tensor of numbers that no file has. */
static void import__own(import_job *j, const char *name, const double *v, uint64_t n) {
    import_tensor t = {.layer = -1, .rows = 1, .cols = n, .n_dims = 1, .times = 1, .type = K_F32,
                       .from = &j->made->files.tensor[0]};
    snprintf(t.name, sizeof t.name, "%s", name);
    t.own = mem_new(n, sizeof *t.own);
    for (uint64_t i = 0; i < n; i++) t.own[i] = (float)v[i];
    j->made->t = mem_reserve(j->made->t, j->made->n, UINT64_MAX, sizeof *j->made->t);
    j->made->t[j->made->n++] = t;
}

/* Factors on frequencies of Llama 3, in single precision as the framework has them. */
static void import__llama3(import_job *j) {
    double base = 10000, factor = 8, low = 1, high = 4, ctx = 8192, f[512];
    const int hd = min_int(j->c.head_dim, 1024);
    int       dim = hd;
    family_number(&j->c, ROPE_IN("rope_theta") " rope_theta", &base);
    if (family_is(&j->c, "step35")) {                 /* layers that see everything rotate a part */
        const double first = family_item(&j->c, "rope_theta", 0);
        if (!isnan(first)) base = first;
        dim = hd / 2;
    }
    family_rope(&j->c, "factor", &factor);
    family_rope(&j->c, "low_freq_factor", &low);
    family_rope(&j->c, "high_freq_factor", &high);
    family_rope(&j->c, "original_max_position_embeddings", &ctx);
    for (int i = 0; i < dim / 2; i++) {
        const float freq = 1.0f / powf((float)base, (float)(2 * i) / (float)dim),
            wave = (float)(2 * 3.14159265358979323846) / freq;
        const float smooth = ((float)ctx / wave - (float)low) / (float)(high - low);
        f[i] = wave < (float)(ctx / high) ? 1 : wave > (float)(ctx / low) ? factor
            : (double)(1.0f / ((1.0f - smooth) / (float)factor + smooth));
    }
    for (int i = dim / 2; i < hd / 2; i++) f[i] = 1;
    import__own(j, "rope_freqs.weight", f, (uint64_t)hd / 2);
}

/* Factors that a config lists. */
static bool import__listed(import_job *j, const char *from, const char *name) {
    bytes  list = family_get(&j->c, from), item;
    double f[1024];
    int    n = 0;
    for (; n < 1024 && bytes_cut_item(&list, &item); n++) f[n] = strtod((const char *)item.p, NULL);
    if (n) import__own(j, name, f, (uint64_t)n);
    return n > 0;
}

/* Tensors that the config gives. */
static void import__extra(import_job *j) {
    static const char type[] = ROPE_IN("rope_type") " rope_scaling.type";
    const bytes       kind = family_get(&j->c, type);
    if (family_is(&j->c, "llama mistral3 granite granitemoe smollm3 arcee llama-embed exaone exaone4 llama4 afmoe apertus "
                  "exaone-moe nanbeige deci step35") && bytes_is(kind, "\"llama3\""))
        import__llama3(j);
    if (family_is(&j->c, "phi3 phimoe minicpm minicpm3")) {
        import__listed(j, ROPE_IN("long_factor"), "rope_factors_long.weight");
        import__listed(j, ROPE_IN("short_factor"), "rope_factors_short.weight");
    }
    if (family_is(&j->c, "gemma4")) {
        double    f[1024], part = 0.25;
        const int hd = min_int(family_int(&j->c, "global_head_dim", 512), 2048);
        family_rope(&j->c, "partial_rotary_factor", &part);
        for (int i = 0; i < hd / 2; i++) f[i] = i < (int)(hd * part / 2) ? 1 : 1e30;
        import__own(j, "rope_freqs.weight", f, (uint64_t)hd / 2);
    }
}

/* Factors of the matrices of a tensor stand beside it, unless all are 1. */
static void import__beside_it(import_job *j, const char *name, int layer, const char *end, const double *f, size_t n) {
    char to[GGUF_NAME_MAX + 16];
    bool one = true;
    for (size_t i = 0; i < n; i++) one = one && fabs(f[i] - 1) < 1e-6;
    if (one) return;
    snprintf(to, sizeof to, "%.*s.%s", (int)(strlen(name) - 7), name, end);
    import__own(j, to, f, n);
    j->made->t[j->made->n - 1].layer = layer;
}

/* The factors of NVFP4: of weights, and of activations where each matrix has one. */
static void import__factors(import_job *j, const import_tensor *t) {
    double *f = mem_new(2 * t->n, sizeof *f);
    char    name[GGUF_NAME_MAX + 1];
    bool    inputs = true, plain = t->type != K_NVFP4;
    const size_t n = t->n;
    const int    layer = t->layer;                    /* import__own() may move t */
    for (size_t i = 0; i < n && !plain; i++) {
        const dq_mat *m = &t->piece[i].m;
        f[i] = (double)(m->divide ? 1.0f / m->factor : m->factor);
        f[n + i] = (double)m->input;
        inputs = inputs && m->input > 0;
    }
    snprintf(name, sizeof name, "%s", t->name);
    if (!plain) import__beside_it(j, name, layer, "scale", f, n);
    if (!plain && inputs) import__beside_it(j, name, layer, "input_scale", f + n, n);
    mem_free(f);
}

/* --- the file in memory --- */

/* Whether a tensor is a view of a mapped file: its rows follow each other there, and nothing changes. */
static const uint8_t *import__view(const import_tensor *t) {
    const size_t row_bytes = k_row_bytes(t->type, (int64_t)t->cols), align = t->type == K_F32 ? 4 : 2;
    if (t->own || t->row) return NULL;
    const uint8_t *first = dq_row_view(&t->piece[0].m, t->piece[0].mat, t->piece[0].row0);
    for (size_t i = 0; i < t->n; i++) {
        const import_piece *p = &t->piece[i];
        if (!import__keeps(t, p) || p->step != 1) return NULL;
        if (dq_row_view(&p->m, p->mat, p->row0) != first + i * row_bytes * t->rows) return NULL;
    }
    return (uintptr_t)first % align ? NULL : first;
}

/* Dimensions, the row first. */
static bool import__dims(import_job *j, const import_tensor *t, gguf_tensor *g) {
    uint64_t all;
    *g = (gguf_tensor){.name = bytes_of(t->name), .type = t->type, .n_dims = (uint32_t)t->n_dims, .part = 1 + t->from->part,
                       .at = t->from->at, .dim = {t->cols, t->rows, max_size(t->n, 1), 1}};
    if (t->n_dims == 1) g->dim[1] = g->dim[2] = 1;
    if (t->flat) g->dim[1] *= g->dim[2], g->dim[2] = 1;
    if (t->deep) g->dim[3] = g->dim[2], g->dim[2] = g->dim[1], g->dim[1] = 1;
    if (!t->cols || !t->rows || t->cols > INT32_MAX || t->rows > INT32_MAX ||
        __builtin_mul_overflow(g->dim[1] * g->dim[2] * g->dim[3], k_row_bytes(t->type, (int64_t)t->cols), &all))
        return st_bad(&j->made->files, t->from, j->e, "is %llu x %llu x %zu, expected sizes of at least 1", GGUF_U(t->cols),
                      GGUF_U(t->rows), t->n);
    g->n_bytes = all;
    return true;
}

enum { IMPORT_SMALL = 1 << 20 };                      /* bytes up to which a tensor is made at once */

/* Fills the directory of g and reserves the room for what is made. */
static bool import__directory(import_job *j, gguf_file *g) {
    import_made *made = j->made;
    gguf_tensor *t = mem_new(made->n, sizeof *t);
    size_t       room = 0, page = (size_t)sysconf(_SC_PAGESIZE);
    size_t      *at = mem_new(made->n, sizeof *at);
    bool         ok = true;
    for (size_t i = 0; i < made->n && ok; i++) {
        ok = import__dims(j, &made->t[i], &t[i]);
        if (!ok || (t[i].data = import__view(&made->t[i]))) continue;
        t[i].made = true;
        at[i] = room;
        const size_t align = t[i].n_bytes > IMPORT_SMALL ? page : 64;       /* pages of large ones are given back alone */
        at[i] = room = (room + align - 1) & ~(align - 1);
        ok = !__builtin_add_overflow(room, (size_t)t[i].n_bytes + page, &room) ||
            err_set(j->e, EXIT_RESOURCE, "%s: too large", j->c.dir);
    }
    if (ok && room) {
        made->maker.room_bytes = room;
        void *p = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) ok = err_set(j->e, EXIT_RESOURCE, "%s: out of memory: %zu bytes", j->c.dir, room);
        else made->maker.room = p;
    }
    for (size_t i = 0; i < made->n; i++)
        if (ok && t[i].made) t[i].data = made->maker.room + at[i];
    mem_free(at);
    if (ok) return gguf_set_tensors(g, t, made->n, j->e);
    mem_free(t);
    return false;
}

/* Makes what is wanted from the beginning: all of it, or what is small. */
static void import__first(const gguf_file *g, bool lazy) {
    pool *team = lazy ? NULL : pool_new(pool_default_threads());
    for (uint64_t i = 0; i < g->n_tensor; i++) {
        const gguf_tensor *t = &g->tensor[i];
        if (lazy && t->n_bytes > IMPORT_SMALL) continue;
        gguf_fill(g, t, 0, t->dim[1] * t->dim[2] * t->dim[3], t->n_bytes > IMPORT_SMALL ? team : NULL);
    }
    if (team) pool_free(team);
}

/* --- keys that are of the whole --- */

/* A line NAME: value at the beginning of README.md, between lines of ---. */
static bool import__card(bytes card, const char *name, str *out) {
    bytes line;
    str_clear(out);
    if (!bytes_cut_line(&card, &line) || !bytes_is(bytes_trim(line), "---")) return false;
    while (bytes_cut_line(&card, &line) && !bytes_is(bytes_trim(line), "---")) {
        const size_t n = strlen(name);
        if (line.n <= n || memcmp(line.p, name, n) || line.p[n] != ':') continue;
        bytes value = bytes_trim(bytes_slice(line, n + 1, line.n));
        if (!value.n && bytes_cut_line(&card, &line) && bytes_begins(bytes_trim(line), bytes_of("- ")))
            value = bytes_trim(bytes_slice(bytes_trim(line), 2, bytes_trim(line).n));
        if (value.n > 1 && (value.p[0] == '"' || value.p[0] == '\'') && value.p[value.n - 1] == value.p[0])
            value = bytes_slice(value, 1, value.n - 1);
        if (!value.n || !utf8_whole(value)) return false;
        str_cat(out, value);
        return true;
    }
    return false;
}

static bool import__general(import_job *j, gguf_writer *w) {
    static const struct { const char *from, *key; bool whole; } sampling[] = {
    {"top_k", "general.sampling.top_k", true}, {"top_p", "general.sampling.top_p", false},
            {"min_p", "general.sampling.min_p", false},
    {"temperature", "general.sampling.temp", false}, {"repetition_penalty", "general.sampling.penalty_repeat", false}};
    str         text = {0}, card = {0}, path = {0};
    struct stat its;
    char       *real = realpath(j->c.dir, NULL);
    gguf_write_str(w, "general.architecture", bytes_of(j->c.row->arch));
    gguf_write_str(w, "general.type", bytes_of("model"));
    if (!real || !hub_name_of(real, &text)) str_put(&text, str_base_name(real ? real : j->c.dir));
    gguf_write_str(w, "general.name", str_bytes(&text));
    mem_free(real);
    str_fmt(&path, "%s/README.md", j->c.dir);
    const bool has = stat(path.p, &its) == 0 && S_ISREG(its.st_mode) &&
        str_read_file(&card, path.p, O_NONBLOCK, ST_JSON_MAX, "a smaller file", &(err_t){0});
    if (has && import__card(str_bytes(&card), "license", &text)) gguf_write_str(w, "general.license", str_bytes(&text));
    if (has && import__card(str_bytes(&card), "base_model", &text)) {
        const uint8_t *slash = memchr(text.p, '/', text.n);
        gguf_write_u32(w, "general.base_model.count", 1);
        gguf_write_str(w, "general.base_model.0.name", slash ? bytes_of((const char *)slash + 1) : str_bytes(&text));
    }
    const int got = st_read_json(j->c.dir, "generation_config.json", &text, j->e);
    family_config gen = {.root = str_bytes(&text)};
    for (size_t i = 0; got == 1 && i < sizeof sampling / sizeof *sampling; i++) {
        double v;
        if (!family_number(&gen, sampling[i].from, &v)) continue;
        if (!sampling[i].whole) gguf_write_f32(w, sampling[i].key, (float)v);
        else if (v >= 0 && v <= INT32_MAX && v == floor(v))
            gguf_write_i32(w, sampling[i].key, (int32_t)v);
    }
    str_drop_all(&text, &card, &path);
    return got >= 0;
}

/* general.file_type: that of most weights. */
static uint32_t import__file_type(const import_job *j) {
    static const struct { uint8_t type, file; } types[] = {{K_F32, 0}, {K_F16, 1}, {K_BF16, 32}, {K_Q4_0, 2}, {K_Q4_1, 3},
                                                           {K_Q8_0, 7}, {K_MXFP4, 38}, {K_NVFP4, 39}};
    uint64_t n[sizeof types / sizeof *types] = {0};
    size_t   best = 0;
    for (size_t i = 0; i < j->made->n; i++)
        for (size_t k = 0; k < sizeof types / sizeof *types; k++)
            if (types[k].type == j->made->t[i].type)
                n[k] += j->made->t[i].rows * j->made->t[i].cols * max_size(j->made->t[i].n, 1);
    for (size_t k = 1; k < sizeof types / sizeof *types; k++)
        if (n[k] > n[best]) best = k;
    return types[best].file;
}

/* Numbers of activations that are tensors of the folder, a list for each. */
static bool import__xielu(import_job *j, gguf_writer *w) {
    static const char *const names[] = {"alpha_n", "alpha_p", "beta", "eps"};
    float *v = mem_new((size_t)j->c.n_layer, sizeof *v);
    str    s = {0};
    bool   ok = true;
    for (size_t k = 0; ok && k < 4; k++) {
        int n = 0;
        for (; n < j->c.n_layer; n++) {
            str_clear(&s);
            str_fmt(&s, "model.layers.%d.mlp.act_fn.%s", n, names[k]);
            const st_tensor *t = st_find(&j->made->files, str_bytes(&s));
            if (!t) break;
            if (t->n_bytes != st_type_bytes(t->type)) {
                ok = st_bad(&j->made->files, t, j->e, "has %llu bytes, expected one value", GGUF_U(t->n_bytes));
                break;
            }
            dq_floats(t, 0, 1, &v[n]);
        }
        if (!ok) break;
        str_clear(&s);
        str_fmt(&s, "xielu.%s", names[k]);
        if (n == j->c.n_layer) gguf_write_array(w, s.p, GGUF_F32, v, (uint64_t)n);
        else if (n || k < 2)
            ok = err_set(j->e, EXIT_INPUT, "%s: %d layers with act_fn.%s, expected %d", j->c.dir, n, names[k], j->c.n_layer);
    }
    mem_free(v);
    str_drop(&s);
    return ok;
}

/* Talkie's scale of logits is a tensor of the folder. */
static bool import__logit_scale(import_job *j, gguf_writer *w) {
    static const char *const names[] = {"lm_head_gain.w_g", "model.lm_head_gain.w_g"};
    float x;
    for (size_t i = 0; i < 2; i++) {
        const st_tensor *t = st_find(&j->made->files, bytes_of(names[i]));
        if (!t) continue;
        if (t->n_bytes != st_type_bytes(t->type))
            return st_bad(&j->made->files, t, j->e, "has %llu bytes, expected one value", GGUF_U(t->n_bytes));
        dq_floats(t, 0, 1, &x);
        gguf_write_f32(w, "talkie.logit_scale", x);
    }
    return true;
}

static bool import__keys(import_job *j, gguf_writer *w) {
    if (!import__general(j, w) || !family_write_keys(&j->c, w, j->e) || !vocab_write(&j->c, w, &j->n_vocab, j->e)) return false;
    if (family_is(&j->c, "apertus") && !import__xielu(j, w)) return false;
    if (family_is(&j->c, "talkie") && !import__logit_scale(j, w)) return false;
    gguf_write_u32(w, "general.quantization_version", 2);
    gguf_write_u32(w, "general.file_type", import__file_type(j));
    str key = {0};
    str_fmt(&key, "%s.rope.halves", j->c.row->arch);
    if (j->halves) gguf_write_bool(w, key.p, true);
    str_drop(&key);
    return true;
}

/* --- the whole --- */

/* Reads all tensors of the folder into j->made->t. */
static bool import__collect(import_job *j) {
    const st_folder *f = &j->made->files;
    import__count_ahead(j);
    if (!f->n) return err_set(j->e, EXIT_INPUT, "%s: no tensors, expected a model", j->c.dir);
    for (size_t i = 0; i < f->n; i++)                 /* before any of them is read */
        if (!f->tensor[i].n_bytes) return st_bad(f, &f->tensor[i], j->e, "has no values, expected sizes of at least 1");
    j->used = mem_new(f->n, sizeof *j->used);
    for (size_t i = 0; i < f->n; i++)
        if (!import__tensor(j, &f->tensor[i])) return false;
    for (size_t i = 0; i < f->n; i++)
        if (!j->used[i] && !import__is_foreign(f->tensor[i].name) && !bytes_ends(f->tensor[i].name, bytes_of(".k_scale")) &&
            !bytes_ends(f->tensor[i].name, bytes_of(".v_scale")))
            return st_bad(f, &f->tensor[i], j->e, "belongs to no matrix, expected one beside it");
    import__extra(j);
    for (size_t i = 0, n = j->made->n; i < n; i++) {
        import_tensor *t = &j->made->t[i];
        if (!import__check_stack(j, t)) return false;
        t->type = import__type(j, t);
        if (!t->own) t->add = import__shift(j, t);
        import__factors(j, &j->made->t[i]);
    }
    if (!j->made->n) return err_set(j->e, EXIT_INPUT, "%s: no tensors, expected a model", j->c.dir);
    qsort(j->made->t, j->made->n, sizeof *j->made->t, import__by_name);
    return true;
}

/* Rows of embeddings beyond the tokens: gemma3 leaves them out. */
static void import__trim(import_job *j) {
    import_tensor *t = import__find(j, "token_embd.weight");
    if (t && family_is(&j->c, "gemma3 gemma-embedding") && t->rows > j->n_vocab && j->n_vocab) t->rows = j->n_vocab;
}

/* Moves the mapped files of the folder behind the keys of g. */
static void import__adopt(import_job *j, gguf_file *g) {
    gguf_file *from = &j->made->files.files;
    g->part = mem_grow(g->part, (size_t)(g->n_parts + from->n_parts), sizeof *g->part);
    for (int i = 0; i < from->n_parts; i++) g->part[g->n_parts + i] = from->part[i];
    g->n_parts += from->n_parts;
    g->n_bytes += from->n_bytes;
    g->path = g->part[0].path;
}

static bool import__build(import_job *j, gguf_file *g, const char *dir) {
    gguf_writer w = {.fd = -1};
    str         head = {0};
    bool        ok = family_open(&j->c, dir, j->e) && st_open(&j->made->files, dir, j->e) && import__collect(j) &&
        import__keys(j, &w);
    if (ok) {
        import__trim(j);
        gguf_write_head(&w, &head);
        ok = gguf_parse(g, (const uint8_t *)head.p, head.n, dir, j->e);
    }
    if (ok) {
        g->part[0].own_memory = head.p;
        head = (str){0};
        import__adopt(j, g);
        ok = import__directory(j, g);
    }
    gguf_write_drop(&w);
    str_drop(&head);
    return ok;
}

/* Whether the path names a folder. */
static bool import_is_folder(const char *path) {
    struct stat its;
    return stat(path, &its) == 0 && S_ISDIR(its.st_mode);
}

/* Opens a model: a folder as the banner says, anything else by gguf_open(). On failure e is set and nothing stays open. */
static bool import_open(gguf_file *g, const char *path, unsigned flags, err_t *e) {
    if (!import_is_folder(path)) return gguf_open(g, path, e);
    import_job j = {.flags = flags, .e = e, .made = mem_new(1, sizeof *j.made)};
    *g = (gguf_file){0};
    j.made->maker = (gguf_maker){.fill = import__fill, .drop = import__drop, .again = (flags & IMPORT_LAZY) != 0};
    const bool ok = import__build(&j, g, path);
    if (!ok && !e->code) err_set(e, EXIT_INPUT, "%s: cannot be read as a checkpoint", path);
    if (g->n_parts > 1) {                             /* g has the mappings now */
        mem_free(j.made->files.files.part);
        j.made->files.files = (gguf_file){0};
    }
    mem_free(j.used);
    family_drop(&j.c);
    if (g->part) g->maker = &j.made->maker;
    else import__drop(&j.made->maker);
    if (ok) import__first(g, flags & IMPORT_LAZY);
    else if (g->part) gguf_close(g);
    return ok;
}

/* --- adapters: folders of PEFT ---
 * adapter_config.json, and adapter_model.safetensors with MODULE.lora_A.weight [rank, in] and MODULE.lora_B.weight [out, rank];
 * of embeddings MODULE.lora_embedding_A [rank, tokens] and _B [width, rank]. What a row of import_names does with the rows of a
 * matrix, it does with those of B. */

/* The model that an adapter is for. */
typedef struct {
    const char *arch;                /* general.architecture                                               */
    int         n_layer, n_head, n_kv, head_dim, n_expert;
} import_base;

/* What an adapter adds to a tensor of the model's file: scale B (A x). */
typedef struct {
    char     name[GGUF_NAME_MAX + 1];
    uint64_t n_mat, rank, in, out;   /* experts, or 1                                                      */
    float   *a;                      /* [n_mat, rank, in]; of embeddings [tokens, rank]: in is their number */
    float   *b;                      /* [n_mat, out, rank]                                                 */
    float    scale;                  /* alpha / rank, or alpha / sqrt(rank)                                */
    bool     embeds;
} import_low;

typedef struct {
    import_low *low;                 /* [n]                                                                */
    size_t      n;
} import_adapter;

enum {
    IMPORT_TRIES = 10000,            /* steps of a match of a regular expression                           */
    IMPORT_TRIES_KIB = 1024,         /* memory of it                                                       */
    IMPORT_REGEXES = 100,            /* expressions of a pattern                                           */
};

/* A key of rank_pattern or alpha_pattern. */
typedef struct {
    str         key;
    pcre2_code *code;                /* NULL: the key is a name                                            */
    double      value;
} import_pattern;

typedef struct {
    const char     *name;
    import_pattern *of;              /* [n]                                                                */
    size_t          n;
    int             n_regex;         /* of them, those that are no names                                   */
} import_patterns;

/* Two matrices of one module, and what they become: job 0 has A, job 1 has B. */
typedef struct {
    import_job    job[2];
    family_config how;               /* adapter_config.json                                                */
    st_folder     files;
    float        *scale;             /* [tensors of job 1]                                                 */
    size_t        n_scale;
    import_patterns rank, alpha;     /* rank_pattern and alpha_pattern                                     */
    pcre2_code   *target;            /* target_modules where it is an expression                           */
    pcre2_match_data *match;
    pcre2_match_context *limits;
    err_t        *e;
} import_peft;

/* Frees what import_adapter_open() read. */
static void import_adapter_drop(import_adapter *a) {
    for (size_t i = 0; i < a->n; i++) mem_free_all(a->low[i].a, a->low[i].b);
    mem_free(a->low);
    *a = (import_adapter){0};
}

/* An option of adapter_config.json that changes what is computed; false. */
__attribute__((format(printf, 2, 3))) static bool import__refuse(const import_peft *p, const char *fmt, ...) {
    char    what[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return err_set(p->e, EXIT_INPUT, "%s/adapter_config.json: %s", p->how.dir, what);
}

/* Whether a member is absent, null, false, or an empty list or object. */
static bool import__is_off(const family_config *c, const char *name) {
    const bytes v = family_get(c, name);
    return !v.n || bytes_is(v, "false") || (v.n >= 2 && !bytes_trim(bytes_slice(v, 1, v.n - 1)).n);
}

/* Whether the adapter is one that products can have: a plain LoRA. */
static bool import__plain_lora(const import_peft *p) {
    static const struct { const char *name, *what; } off[] = {
        {"use_dora", "DoRA"}, {"use_qalora", "QALoRA"}, {"alora_invocation_tokens", "an activated LoRA"}, {"lora_bias", "biases"},
        {"modules_to_save", "whole modules (modules_to_save)"}, {"target_parameters", "parameters (target_parameters)"},
        {"layer_replication", "replicated layers"}, {"trainable_token_indices", "token vectors (trainable_token_indices)"}};
    static const char *const inits[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};
    const bytes type = family_get(&p->how, "peft_type"), bias = family_get(&p->how, "bias"),
                init = family_get(&p->how, "init_lora_weights");
    if (!bytes_is(type, "\"LORA\"")) return import__refuse(p, "peft_type is %.*s, expected \"LORA\"", GGUF_SHOW(type));
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        if (!import__is_off(&p->how, off[i].name))
            return import__refuse(p, "%s: %s, expected a plain LoRA", off[i].name, off[i].what);
    if (bias.n && !bytes_is(bias, "\"none\""))
        return import__refuse(p, "bias is %.*s, expected \"none\"", GGUF_SHOW(bias));
    for (size_t i = 0; i < sizeof inits / sizeof *inits; i++)
        if (bytes_begins(bytes_slice(init, init.n > 0, init.n), bytes_of(inits[i])))
            return import__refuse(p, "init_lora_weights is %.*s, which changes the model's weights, too", GGUF_SHOW(init));
    return true;
}

/* Appends an expression of Python's. There {,n} is {0,n} and {,} is {0,}, which PCRE2 takes as they stand before 10.43. */
static void import__put_regex(str *s, bytes text) {
    bool   set = false;              /* within [] */
    size_t first = 0;                /* the first character of the set, which does not end it */
    for (size_t i = 0; i < text.n; i++) {
        const uint8_t c = text.p[i];
        size_t        end = i + 2;
        str_cat(s, bytes_slice(text, i, i + 1));
        if (c == '\\' && i + 1 < text.n) {
            str_cat(s, bytes_slice(text, i + 1, i + 2));
            i++;
        } else if (set) set = c != ']' || i == first;
        else if (c == '[') {
            set = true;
            first = i + 1 + (i + 1 < text.n && text.p[i + 1] == '^');
        } else if (c == '{' && i + 1 < text.n && text.p[i + 1] == ',') {
            while (end < text.n && isdigit(text.p[end])) end++;
            if (end < text.n && text.p[end] == '}') str_put(s, "0");
        }
    }
}

/* The expression of a text of adapter_config.json. whole: it is to match all of a module's name (target_modules); else, as PEFT
 * has it for keys of patterns, the last parts of it. NULL: it is none, and e is set. */
static pcre2_code *import__regex(const import_peft *p, const char *name, bytes text, bool whole) {
    static const char before[] = "(.*\\.)?(", after[] = ")$";
    const uint32_t    how = PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_ANCHORED | (whole ? PCRE2_ENDANCHORED : 0);
    const size_t      lead = whole ? 0 : sizeof before - 1;
    char              why[128] = "";
    str               s = {0};
    int               rc;
    PCRE2_SIZE        at;
    str_put(&s, whole ? "" : before);
    import__put_regex(&s, text);
    const size_t end = s.n;
    str_put(&s, whole ? "" : after);
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)s.p, s.n, how, &rc, &at, NULL);
    if (!code) {
        pcre2_get_error_message(rc, (PCRE2_UCHAR *)why, sizeof why);
        import__refuse(p, "%s: %s at byte %zu of the regular expression \"%.*s\"", name, why,
                       min_size(at - min_size(at, lead), end - lead), GGUF_SHOW(bytes_slice(str_bytes(&s), lead, end)));
    }
    str_drop(&s);
    return code;
}

/* Whether an expression matches a module. A failure of the match sets e. */
static bool import__fits_regex(const import_peft *p, const char *name, const pcre2_code *code, bytes module) {
    char      why[128] = "";
    const int rc = pcre2_match(code, module.p, module.n, 0, 0, p->match, p->limits);
    if (rc >= 0) return true;
    if (rc == PCRE2_ERROR_NOMATCH) return false;
    pcre2_get_error_message(rc, (PCRE2_UCHAR *)why, sizeof why);
    return import__refuse(p, "%s: %s on the module %.*s", name, why, GGUF_SHOW(module));
}

/* Whether `name` is the module or its last parts; any: a dot of it is any character and ^ before it means all of the module, as
 * in an expression. */
static bool import__ends(bytes name, bytes module, bool any) {
    if (any && name.n && name.p[0] == '^') {
        name = bytes_slice(name, 1, name.n);
        if (name.n != module.n) return false;
    }
    if (module.n < name.n || (module.n > name.n && module.p[module.n - name.n - 1] != '.')) return false;
    const uint8_t *tail = module.p + (module.n - name.n);
    for (size_t i = name.n; i-- > 0;)
        if (name.p[i] != tail[i] && !(any && name.p[i] == '.')) return false;
    return true;
}

/* Whether a key is letters, digits, _, - and dots alone, perhaps behind ^: then it is compared without an expression, since there
 * may be one for each of thousands of modules. */
static bool import__is_name(bytes key) {
    for (size_t i = key.n && key.p[0] == '^'; i < key.n; i++)
        if (!isalnum(key.p[i]) && key.p[i] != '_' && key.p[i] != '.' && key.p[i] != '-') return false;
    return true;
}

/* Reads rank_pattern or alpha_pattern. */
static bool import__patterns(import_peft *p, const char *name, import_patterns *to) {
    bytes object = family_get(&p->how, name), key = {0}, value;
    to->name = name;
    while (bytes_cut_member(&object, &key, &value)) {
        char           *end, number[64];
        const bytes     v = bytes_trim(value);
        const size_t    i = MEM_PUSH(to->of, to->n, (import_pattern){0});
        import_pattern *one = &to->of[i];
        str_put(&one->key, "");
        if (!str_unquote(&one->key, key, true))
            return import__refuse(p, "%s has the key %.*s, expected a text", name, GGUF_SHOW(key));
        const bytes text = str_bytes(&one->key);
        snprintf(number, sizeof number, "%.*s", (int)min_size(v.n, 60), (const char *)v.p);
        one->value = strtod(number, &end);
        if (end == number || *end) return import__refuse(p, "%s of \"%.*s\" is no number", name, GGUF_SHOW(text));
        if (import__is_name(text)) continue;
        if (++to->n_regex > IMPORT_REGEXES)
            return import__refuse(p, "%s has more than %d regular expressions", name, IMPORT_REGEXES);
        if (!(one->code = import__regex(p, name, text, false))) return false;
    }
    return true;
}

/* All expressions of the config. */
static bool import__expressions(import_peft *p) {
    const bytes target = family_get(&p->how, "target_modules");
    p->match = pcre2_match_data_create(1, NULL);
    p->limits = pcre2_match_context_create(NULL);
    if (!p->match || !p->limits) die(EXIT_RESOURCE, "out of memory for regular expressions");
    pcre2_set_match_limit(p->limits, IMPORT_TRIES);
    pcre2_set_heap_limit(p->limits, IMPORT_TRIES_KIB);
    if (target.n && target.p[0] == '"' && !bytes_is(target, "\"all-linear\"")) {
        str text = {0};
        str_put(&text, "");
        if (str_unquote(&text, target, true)) p->target = import__regex(p, "target_modules", str_bytes(&text), true);
        else import__refuse(p, "target_modules is %.*s, expected a text or a list of names", GGUF_SHOW(target));
        str_drop(&text);
        if (!p->target) return false;
    }
    return import__patterns(p, "rank_pattern", &p->rank) && import__patterns(p, "alpha_pattern", &p->alpha);
}

static void import__patterns_drop(import_patterns *a) {
    for (size_t i = 0; i < a->n; i++) {
        pcre2_code_free(a->of[i].code);
        str_drop(&a->of[i].key);
    }
    mem_free(a->of);
    *a = (import_patterns){0};
}

static void import__expressions_drop(import_peft *p) {
    import__patterns_drop(&p->rank);
    import__patterns_drop(&p->alpha);
    pcre2_code_free(p->target);
    pcre2_match_data_free(p->match);
    pcre2_match_context_free(p->limits);
}

/* *out becomes the number of the first key that is for the module, as in PEFT. False: e is set. */
static bool import__number_of(const import_peft *p, const import_patterns *a, bytes module, double *out) {
    for (size_t i = 0; i < a->n; i++) {
        const import_pattern *one = &a->of[i];
        if (one->code ? !import__fits_regex(p, a->name, one->code, module) : !import__ends(str_bytes(&one->key), module, true)) {
            if (p->e->code) return false;
            continue;
        }
        *out = one->value;
        return true;
    }
    return true;
}

/* Whether target_modules has the module: a list holds names or their last parts, a text is an expression for the whole name. */
static bool import__targets(const import_peft *p, bytes module) {
    bytes list = family_get(&p->how, "target_modules"), item;
    str   text = {0};
    if (p->target) return import__fits_regex(p, "target_modules", p->target, module);
    bool found = !list.n || list.p[0] != '[';
    while (!found && bytes_cut_item(&list, &item)) {
        str_clear(&text);
        found = str_unquote(&text, item, true) && import__ends(str_bytes(&text), module, false);
    }
    str_drop(&text);
    return found;
}

/* The factor on B (A x) of a module whose A has r rows. */
static bool import__low_scale(const import_peft *p, const st_tensor *t, bytes module, uint64_t r, float *out) {
    double rank = -1, alpha = NAN;
    family_number(&p->how, "r", &rank);
    family_number(&p->how, "lora_alpha", &alpha);
    if (!import__number_of(p, &p->rank, module, &rank) || !import__number_of(p, &p->alpha, module, &alpha)) return false;
    if (!(rank >= 1)) return import__refuse(p, "r is %g, expected at least 1", rank);
    if (!(fabs(alpha) <= 1e6)) return import__refuse(p, "lora_alpha is %g, expected -1e6 to 1e6", alpha);
    if (rank != (double)r) return st_bad(&p->files, t, p->e, "has rank %llu, expected %g, that of adapter_config.json", GGUF_U(r),
                                         rank);
    *out = (float)(alpha / (family_true(&p->how, "use_rslora") ? sqrt(rank) : rank));
    return true;
}

static int import__n_names(const import_name *row) {
    int n = 1;
    for (const char *p = row->to; *p; p++) n += *p == '|';
    return n;
}

/* What the rows of B, or of A, of a module become in the model's file. */
static bool import__low_one(import_peft *p, int which, const st_tensor *t, bytes module) {
    import_job *j = &p->job[which];
    str         name = {0};
    import__one o = {.j = j, .t = t, .m = dq_plain(t), .layer = -1, .expert = -1};
    bool        ok = true;
    str_cat(&name, module);
    str_put(&name, ".weight");
    const bytes stem = import__stem(str_bytes(&name), &o.layer);
    o.row = import__row_of(j, stem, o.layer >= 0, &o.expert, &o.suffix);
    if (o.row && o.layer < 0 && strchr(o.row->to, '#')) o.layer = (int)o.expert, o.expert = -1;
    if (t->n_dims != 2 || t->type > ST_BF16)
        ok = st_bad(&p->files, t, p->e, "has %d dimensions of %s, expected 2 of F32, F16 or BF16", t->n_dims,
                    st_type_name(t->type));
    else if (!o.row || o.layer >= import__layers(j, o.row) - j->c.n_ahead || o.row->change == IC_SKIP)
        ok = st_bad(&p->files, t, p->e, "has no place in a %s model of %d layers", j->c.row->arch, j->c.n_layer);
    else if (o.row->change > IC_HALVES && (o.row->change < IC_QKV_THIRDS || o.row->change > IC_KEY_VALUE))
        ok = st_bad(&p->files, t, p->e, "is for a matrix whose columns or values are converted, which no adapter can follow");
    else if (!dq_check(&p->files, &o.m, p->e)) ok = false;
    else if (which && o.row->change != IC_TRANSPOSE) ok = import__convert(&o);
    else
        for (int part = 0, n = import__n_names(o.row); ok && part < n; part++)
            ok = import__take(&o, part, 0, 1, o.m.rows, false) != NULL;
    str_drop(&name);
    return ok;
}

/* The number of a tensor among those that job 1 made, by the module that it comes from. */
static void import__note_scale(import_peft *p, float scale) {
    for (; p->n_scale < p->job[1].made->n; p->n_scale++) {
        p->scale = mem_reserve(p->scale, p->n_scale, UINT64_MAX, sizeof *p->scale);
        p->scale[p->n_scale] = scale;
    }
}

/* A module's A and B. */
static bool import__low_pair(import_peft *p, const st_tensor *a, const st_tensor *b, bytes module) {
    float scale = 0;
    if (!import__targets(p, module))
        return !p->e->code && st_bad(&p->files, a, p->e, "is of no module of target_modules in adapter_config.json");
    if (!import__low_scale(p, a, module, a->n_dims ? a->dim[0] : 0, &scale)) return false;
    if (!import__low_one(p, 0, a, module) || !import__low_one(p, 1, b, module)) return false;
    if (p->job[0].made->n != p->job[1].made->n) return st_bad(&p->files, b, p->e, "has another place than lora_A");
    import__note_scale(p, scale);
    for (size_t i = 0; i < p->n_scale; i++)           /* of a stack of experts, the first one's counts */
        for (size_t k = 0; k < p->job[1].made->t[i].n; k++)
            if (p->job[1].made->t[i].piece[k].m.w == b && p->scale[i] != scale)
                return st_bad(&p->files, b, p->e, "has a scale of %g, expected %g as the other experts of its layer",
                              (double)scale, (double)p->scale[i]);
    return true;
}

/* The module of a tensor, whose name has `end` behind it; false: it has not. */
static bool import__module(bytes name, const char *end, bytes *module) {
    static const char *const fronts[] = {"base_model.model.", "base_model."};
    if (!bytes_ends(name, bytes_of(end))) return false;
    *module = bytes_slice(name, 0, name.n - strlen(end));
    for (size_t i = 0; i < sizeof fronts / sizeof *fronts; i++)
        if (bytes_begins(*module, bytes_of(fronts[i]))) {
            *module = bytes_slice(*module, strlen(fronts[i]), module->n);
            break;
        }
    return true;
}

/* Takes all tensors of the folder; those that end with `b` beside those that end with `a`. */
static bool import__low_all(import_peft *p) {
    static const char *const ends[][2] = {{".lora_A.weight", ".lora_B.weight"},
                                          {".lora_A.default.weight", ".lora_B.default.weight"},
                                          {".lora_embedding_A", ".lora_embedding_B"},
                                          {".lora_embedding_A.default", ".lora_embedding_B.default"}};
    enum { ENDS = sizeof ends / sizeof *ends };
    for (size_t i = 0; i < p->files.n; i++) {
        const st_tensor *t = &p->files.tensor[i], *other = NULL;
        bytes            module = {0};
        str              name = {0};
        int              k = 0, side = 0;
        for (; k < ENDS; k++) {
            if (import__module(t->name, ends[k][side = 0], &module)) break;
            if (import__module(t->name, ends[k][side = 1], &module)) break;
        }
        if (bytes_find(t->name, 0, bytes_of("lora_magnitude_vector")) != SIZE_MAX)
            return st_bad(&p->files, t, p->e, "is of DoRA, expected a plain LoRA");
        if (k == ENDS) return st_bad(&p->files, t, p->e, "is neither MODULE.lora_A.weight nor MODULE.lora_B.weight");
        str_cat(&name, bytes_slice(t->name, 0, t->name.n - strlen(ends[k][side])));
        str_put(&name, ends[k][!side]);
        other = st_find(&p->files, str_bytes(&name));
        if (!other) st_bad(&p->files, t, p->e, "has no %s beside it", ends[k][!side]);
        const bool ok = other && (side || import__low_pair(p, t, other, module));
        str_drop(&name);
        if (!ok) return false;
    }
    return true;
}

/* All values of a tensor [matrices, rows, cols]. */
static float *import__low_values(const import_tensor *t) {
    float *x = mem_new(mem_size(mem_size(t->n, t->rows), t->cols), sizeof *x);
    float *scratch = mem_new(mem_size(DQ_TILE + 1, t->cols), sizeof *scratch);
    for (size_t i = 0; i < t->n; i++)
        for (uint64_t r = 0; r < t->rows; r++) {
            const uint64_t row = import__row(t, &t->piece[i], r);
            import__gather(t, &t->piece[i], &row, 1, x + (i * t->rows + r) * t->cols, scratch);
        }
    mem_free(scratch);
    return x;
}

/* What the tensors of both jobs are together. */
static bool import__low_result(import_peft *p, import_adapter *out) {
    const size_t n = p->job[0].made->n;
    if (!n) return err_set(p->e, EXIT_INPUT, "%s: no tensors, expected an adapter", p->how.dir);
    out->low = mem_new(n, sizeof *out->low);
    for (size_t i = 0; i < n; i++) {
        import_tensor *a = &p->job[0].made->t[i], *b = import__find(&p->job[1], a->name);
        if (!b || !import__check_stack(&p->job[0], a) || !import__check_stack(&p->job[1], b)) return false;
        import_low *low = &out->low[out->n++];
        *low = (import_low){.n_mat = a->n, .rank = a->rows, .in = a->cols, .out = b->rows,
                            .scale = p->scale[b - p->job[1].made->t]};
        snprintf(low->name, sizeof low->name, "%s", a->name);
        if (b->cols != low->rank || b->n != a->n)
            return st_bad(&p->files, b->from, p->e, "has rows of %llu values, expected %llu, the rank", GGUF_U(b->cols),
                          GGUF_U(low->rank));
        low->embeds = !strcmp(low->name, "token_embd.weight");
        low->a = import__low_values(a);
        low->b = import__low_values(b);
        if (!low->embeds) continue;
        float *turned = mem_new(mem_size(low->rank, low->in), sizeof *turned);
        for (uint64_t k = 0; k < low->rank; k++)
            for (uint64_t v = 0; v < low->in; v++) turned[v * low->rank + k] = low->a[k * low->in + v];
        mem_free(low->a);
        low->a = turned;
    }
    return true;
}

/* The options of the adapter, and jobs as if the tensors were those of the model's folder. */
static bool import__low_begin(import_peft *p, const import_base *of, const char *dir) {
    p->how.dir = dir;
    const int got = st_read_json(dir, "adapter_config.json", &p->how.json, p->e);
    if (got == 0) err_set(p->e, EXIT_INPUT, "%s: no adapter_config.json, expected a GGUF file or the folder of an adapter", dir);
    if (got < 1) return false;
    p->how.root = bytes_trim(str_bytes(&p->how.json));
    for (int k = 0; k < 2; k++) {
        import_job *j = &p->job[k];
        *j = (import_job){.flags = IMPORT_FILE, .e = p->e, .made = mem_new(1, sizeof *j->made)};
        j->c = (family_config){.dir = dir, .n_layer = of->n_layer, .n_head = of->n_head, .n_kv = of->n_kv,
                               .head_dim = of->head_dim, .n_expert = of->n_expert};
        for (size_t i = 0; i < sizeof family_table / sizeof *family_table && !j->c.row; i++)
            if (!strcmp(family_table[i].arch, of->arch)) j->c.row = &family_table[i];
        if (!j->c.row)
            return err_set(p->e, EXIT_INPUT, "%s: folders of adapters for %s are not known, expected a GGUF file", dir, of->arch);
    }
    return import__plain_lora(p) && import__expressions(p) && st_open(&p->files, dir, p->e);
}

/* Reads a folder of PEFT for a model. On failure e is set. The caller calls import_adapter_drop() in both cases. */
static bool import_adapter_open(import_adapter *out, const char *dir, const import_base *of, err_t *e) {
    import_peft p = {.e = e};
    *out = (import_adapter){0};
    bool ok = import__low_begin(&p, of, dir);
    for (int k = 0; ok && k < 2; k++) p.job[k].made->files = p.files;   /* for messages; p owns it */
    ok = ok && import__low_all(&p) && import__low_result(&p, out) && gguf_alive(&p.files.files, e);
    for (int k = 0; k < 2; k++) {
        if (!p.job[k].made) continue;
        p.job[k].made->files = (st_folder){0};
        import__drop(&p.job[k].made->maker);
    }
    st_close(&p.files);
    mem_free(p.scale);
    import__expressions_drop(&p);
    family_drop(&p.how);
    return ok;
}

/* Lists what folders may hold: for each architecture the classes of transformers. */
static void import_list(str *out) {
    for (size_t i = 0; i < sizeof family_table / sizeof *family_table; i++)
        str_fmt(out, "%-15s %s\n", family_table[i].arch, family_table[i].classes);
}
