"""The family of tests/gen/tiny_models.py with decoders that differ from Llama by norms, windows, rotations, biases, scales and experts:
gemma, gemma2, gemma3, gpt-oss, phi3, mistral3, granite, granitemoe, smollm3, olmo2, olmoe, starcoder2, gpt2, seed_oss, the text of
qwen3vl and qwen3vlmoe, and those that are rows of tables beside them, from glm4 on.

Scales, caps, sinks and factors are far from what would change nothing, windows are shorter than the prompt, and layers are as many as it
takes to have each kind twice.
"""
import numpy as np
from gguf import ExpertGatingFuncType, RopeScalingType

from tiny_base import N_CTX, N_VOCAB, f32, pairs_to_halves
from tiny_llama import llama3_factors

# --- the architectures ----------------------------------------------------------------------------------------------
# cls, module: of the framework, and where it lies; cls None: it has no such class, and the golden values are those of the reading in
# tests/tiny_read_decoders.py; text: its config is the text_config of another one
# pairs: files keep the two rows of Q and K that rotate together adjacent; shift: files hold 1 + the framework's gains
# norms: of a layer as wide as the model; qk: norms of Q and K for each head or for all heads at once
# gate: each head of attention has a gate; sink: layers with a window have sinks, a parameter of the framework
# layer_norm: norms subtract the mean and have a bias; fused: Q, K and V are one matrix; ffn: gated, plain (without a gate), joined (gate and
# up are one matrix), experts; head_dim, n_rot, base: the file tells these; positions: learned positions, no rotation
# embd_norm, bare: a norm of the embeddings, norms without gain and bias; choice: the framework's name for the bias that counts for the choice of
# experts; alibi: no rotation, scores fall with the distance; trunk: names before and in front of layers, and names of what is not in a layer
# eps: the framework's name of the epsilon of norms; norm_bias: LayerNorm has a bias
# names: the framework's names where they are not those of HF_NAMES
PLAIN = dict(pairs=False, shift=0, norms=("attn_norm", "ffn_norm"), qk=None, layer_norm=False, fused=False, ffn="gated",
             head_dim=False, n_rot=False, base=True, positions=False, eps="rms_norm_eps",
             embd_norm=False, bare=False, choice=None, alibi=False, trunk=None, gate=False, sink=False, names={}, norm_bias=True)
AROUND = dict(norms=("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"),
              names={"post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
                     "post_ffw_norm": "post_feedforward_layernorm"})
FFN_NORM = dict(norms=("attn_norm", "post_attention_norm"), names={"post_attention_norm": "post_attention_layernorm"})
EXPERTS = {"ffn_gate_inp": "block_sparse_moe.router", "experts": "block_sparse_moe.experts", "ffn_gate_up_shexp": "shared_mlp.input_linear",
           "ffn_down_shexp": "shared_mlp.output_linear"}
LLAMA = dict(pairs=True, n_rot=True)
LIKE_LLAMA = dict(cls="LlamaForCausalLM", module="llama")
UP_DOWN = {"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}
SHARED = {"ffn_gate_shexp": "mlp.shared_experts.gate_proj", "ffn_up_shexp": "mlp.shared_experts.up_proj", "ffn_down_shexp": "mlp.shared_experts.down_proj"}
CHOSEN = dict(ffn="experts", head_dim=True, names=SHARED)
INDEXER = {n: "self_attn.indexer." + n for n in ("q_proj", "k_proj", "q_norm", "k_norm")}
GPT_TOP = {"token_embd": "wte", "position_embd": "wpe", "output_norm": "ln_f"}
GPT = dict(layer_norm=True, ffn="plain", fused=True, positions=True, trunk=("transformer.", "h.%s.", GPT_TOP),
           names=dict(UP_DOWN, attn_qkv="attn.c_attn", attn_output="attn.c_proj", attn_norm="ln_1", ffn_norm="ln_2"))
BLOOM_TOP = {"token_embd": "word_embeddings", "token_embd_norm": "word_embeddings_layernorm", "output_norm": "ln_f"}
ARCHS = {
    "gemma": dict(cls="GemmaForCausalLM", module="gemma", shift=1, head_dim=True, base=False),
    "gemma2": dict(AROUND, cls="Gemma2ForCausalLM", module="gemma2", shift=1, head_dim=True, base=False),
    "gemma3": dict(AROUND, cls="Gemma3ForCausalLM", module="gemma3", shift=1, head_dim=True, qk="head"),
    "gpt-oss": dict(FFN_NORM, cls="GptOssForCausalLM", module="gpt_oss", head_dim=True, ffn="experts"),
    "phi3": dict(cls="Phi3ForCausalLM", module="phi3", fused=True, ffn="joined", n_rot=True,
                 names={"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}),
    "mistral3": dict(LLAMA, cls="Ministral3ForCausalLM", module="ministral3", head_dim=True),
    "granite": dict(LLAMA, cls="GraniteForCausalLM", module="granite"),
    "granitemoe": dict(LLAMA, cls="GraniteMoeForCausalLM", module="granitemoe", ffn="experts", names=EXPERTS),
    "smollm3": dict(LLAMA, cls="SmolLM3ForCausalLM", module="smollm3"),
    "olmo2": dict(cls="Olmo2ForCausalLM", module="olmo2", qk="width", norms=("post_attention_norm", "post_ffw_norm"), names=AROUND["names"]),
    "olmoe": dict(cls="OlmoeForCausalLM", module="olmoe", qk="width", ffn="experts"),
    "starcoder2": dict(cls="Starcoder2ForCausalLM", module="starcoder2", layer_norm=True, eps="norm_epsilon", ffn="plain",
                       names={"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}),
    "gpt2": dict(GPT, cls="GPT2LMHeadModel", module="gpt2"),
    "seed_oss": dict(FFN_NORM, cls="SeedOssForCausalLM", module="seed_oss", head_dim=True),
    "qwen3vl": dict(cls="Qwen3VLForConditionalGeneration", module="qwen3_vl", head_dim=True, qk="head", text=True),
    "qwen3vlmoe": dict(cls="Qwen3VLMoeForConditionalGeneration", module="qwen3_vl_moe", head_dim=True, qk="head", text=True, ffn="experts"),
    "glm4": dict(AROUND, cls="Glm4ForCausalLM", module="glm4", head_dim=True, n_rot=True, ffn="joined",
                 names={"post_attention_norm": "post_self_attn_layernorm", "post_ffw_norm": "post_mlp_layernorm", "ffn_up": "mlp.gate_up_proj"}),
    "glm4moe": dict(FFN_NORM, cls="Glm4MoeForCausalLM", module="glm4_moe", head_dim=True, n_rot=True, ffn="experts",
                    choice="mlp.gate.e_score_correction_bias", names=dict(FFN_NORM["names"], **SHARED)),
    "minimax-m3": dict(CHOSEN, cls="MiniMaxM3VLForCausalLM", module="minimax_m3_vl", shift=1, n_rot=True, qk="head",
                       choice="mlp.gate.e_score_correction_bias", names=dict(SHARED, **INDEXER)),
    "minimax-m2": dict(CHOSEN, cls="MiniMaxM2ForCausalLM", module="minimax_m2", n_rot=True, qk="width", choice="mlp.e_score_correction_bias"),
    "ernie4_5": dict(cls="Ernie4_5ForCausalLM", module="ernie4_5", head_dim=True),
    "ernie4_5-moe": dict(CHOSEN, cls="Ernie4_5_MoeForCausalLM", module="ernie4_5_moe", choice="mlp.gate.moe_statics.e_score_correction_bias"),
    "paddleocr": dict(LIKE_LLAMA, head_dim=True),
    "dots1": dict(CHOSEN, cls="Dots1ForCausalLM", module="dots1", qk="head", choice="mlp.gate.e_score_correction_bias"),
    "hy_v3": dict(CHOSEN, cls="HYV3ForCausalLM", module="hy_v3", qk="head", choice="mlp.e_score_correction_bias"),
    "qwen2vl": dict(cls="Qwen2VLForConditionalGeneration", module="qwen2_vl", text=True),
    "qwen": dict(cls="Qwen2ForCausalLM", module="qwen2", fused=True),
    "internlm2": dict(LIKE_LLAMA, pairs=True),
    "minicpm": dict(LLAMA, cls="GraniteForCausalLM", module="granite"),
    "nemotron": dict(cls="NemotronForCausalLM", module="nemotron", shift=1, layer_norm=True, eps="norm_eps", ffn="plain", n_rot=True),
    "exaone": dict(LIKE_LLAMA, n_rot=True),
    "arcee": dict(LLAMA, cls="ArceeForCausalLM", module="arcee", ffn="plain", head_dim=True),
    "deepseek": dict(LLAMA, cls=None, ffn="experts"),
    "deepseek2-ocr": dict(cls=None, n_rot=True, ffn="experts", choice=""),
    "bailingmoe": dict(LLAMA, cls=None, ffn="experts"),
    "bailingmoe2": dict(CHOSEN, cls="Glm4MoeForCausalLM", module="glm4_moe", fused=True, n_rot=True, qk="head",
                        choice="mlp.gate.e_score_correction_bias"),
    "chatglm": dict(cls="GlmForCausalLM", module="glm", fused=True, n_rot=True, ffn="joined", names={"ffn_up": "mlp.gate_up_proj"}),
    "baichuan": dict(LLAMA, **LIKE_LLAMA),
    "xverse": dict(LLAMA, **LIKE_LLAMA),
    "orion": dict(cls="StableLmForCausalLM", module="stablelm", layer_norm=True, eps="layer_norm_eps"),
    "olmo": dict(cls="OlmoForCausalLM", module="olmo", pairs=True, layer_norm=True, bare=True, norms=()),
    "starcoder": dict(GPT, cls="GPTBigCodeForCausalLM", module="gpt_bigcode"),
    "codeshell": dict(cls="Starcoder2ForCausalLM", module="starcoder2", layer_norm=True, eps="norm_epsilon", ffn="plain", fused=True, names=UP_DOWN),
    "refact": dict(cls=None, alibi=True),
    "bloom": dict(cls="BloomForCausalLM", module="bloom", layer_norm=True, ffn="plain", fused=True, embd_norm=True, alibi=True,
                  trunk=("transformer.", "h.%s.", BLOOM_TOP),
                  names={"attn_qkv": "self_attention.query_key_value", "attn_output": "self_attention.dense", "ffn_up": "mlp.dense_h_to_4h",
                         "ffn_down": "mlp.dense_4h_to_h"}),
    "jais": dict(cls=None, layer_norm=True, fused=True, alibi=True),
    "jais2": dict(cls="Jais2ForCausalLM", module="jais2", layer_norm=True, eps="layer_norm_eps", ffn="plain", head_dim=True, n_rot=True),
    "mellum": dict(CHOSEN, cls="MellumForCausalLM", module="mellum", qk="head"),
    "pangu-embedded": dict(LIKE_LLAMA),
    "mimo2": dict(CHOSEN, cls="MiMoV2FlashForCausalLM", module="mimo_v2_flash", n_rot=True, sink=True, choice="mlp.gate.e_score_correction_bias"),
    "step35": dict(CHOSEN, cls="Step3p7ForConditionalGeneration", module="step3p7", text=True, shift=1, qk="head", n_rot=True, gate=True,
                   choice="mlp.gate.e_score_correction_bias"),
}
OTHER_MODULES = ["olmo3", "granitemoeshared"]                 # of classes that a model names itself
MODULES = ["models.%s.modeling_%s" % (m, m) for m in [a["module"] for a in ARCHS.values() if "module" in a] + OTHER_MODULES]
IGNORED = ("model.visual.", "model.vision_model.", "model.multi_modal_projector.")


def arch_of(s):
    return dict(PLAIN, **dict(ARCHS[s["arch"]], **{k: s[k] for k in ("qk", "layer_norm") if k in s}))


# --- the models -----------------------------------------------------------------------------------------------------
# Beside what tiny_base.BASE tells: config: further arguments of the framework's config; keys: of the file, by their function in GGUFWriter;
# cls: another class than that of the architecture; n_rot: dimensions that rotate; act: standard deviation of what an
# activation gets; down: of the weights after it, times the root of their inputs; dense: so many layers before those with experts;
# ahead: layers after the last, which predict further tokens; embd_too: the embeddings are the output matrix
# windows: for each layer whether it has the window, for those ahead too; heads_of, kv_of: its heads; hd_v: values of a value head
# floats: further keys
# dense_ahead: those ahead have no experts; fused_ahead: their Q, K and V are one matrix; last_ahead: the name of their last norm
SMALL = dict(config={}, keys={}, act=1.5, down=2.0, embd=16, heads=4, kv=2, hd=8, ff=32)
EVEN = dict(SMALL, heads=2, kv=1)                              # heads as wide as the model
SPM = dict(vocab="spm")
QKV = ("attn_q", "attn_k", "attn_v")
OTHERS = ("attn_output", "ffn_up", "ffn_down")
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64, rope_theta=10000.0)


def kinds(window, layers, every):
    """The framework's layer_types: the last of `every` layers sees all positions."""
    return ["full_attention" if (i + 1) % every == 0 else "sliding_attention" for i in range(layers)]


GEMMA2 = dict(SMALL, **SPM, arch="gemma2", eps=1e-6,
              config=dict(sliding_window=24, attn_logit_softcapping=3.0, final_logit_softcapping=4.0, query_pre_attn_scalar=8,
                          hidden_activation="gelu_pytorch_tanh"),
              keys=dict(sliding_window=24, attn_logit_softcapping=3.0, final_logit_softcapping=4.0))
GEMMA3 = dict(SMALL, **SPM, arch="gemma3", eps=1e-6, theta=1000000.0,
              config=dict(sliding_window=20, query_pre_attn_scalar=8, hidden_activation="gelu_pytorch_tanh"), keys=dict(sliding_window=20))
TWO_TABLES = {"full_attention": dict(rope_type="linear", factor=8.0, rope_theta=1000000.0),
              "sliding_attention": dict(rope_type="default", rope_theta=10000.0)}
# Sinks above most scores, and activations of a deviation of 4, of which every tenth passes the clip of 7.
GPT_OSS = dict(SMALL, arch="gpt-oss", tied=False, heads=3, kv=1, hd=16, act=4.0, down=0.3, bias=QKV + (
    "attn_output", "attn_sinks", "ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"),
    moe=dict(experts=4, used=2, ff=16), theta=10000.0, rope=dict(YARN, factor=8.0, beta_fast=32.0, beta_slow=1.0, truncate=False),
    config=dict(sliding_window=24), keys=dict(sliding_window=24, rope_scaling_yarn_beta_fast=32.0, rope_scaling_yarn_beta_slow=1.0))
LONG = float(np.sqrt(1 + np.log(N_CTX / 40) / np.log(40)))
LONGROPE = dict(rope_type="longrope", partial_rotary_factor=0.75, long_factor=[1.0, 1.5, 2.5, 4.0, 6.0, 9.0],
                short_factor=[1.0, 1.05, 1.2, 1.4, 1.7, 2.0], attention_factor=1.19)
# llama.cpp takes a model whose name has "phi3" in it for one with that vocabulary.
PHI3 = dict(SMALL, **SPM, arch="phi3", title="Phi", layers=2, embd=32, heads=2, kv=1, hd=16, ff=24, n_rot=12, tied=False, attn_factor=1.19)
CALM = dict(out=1.0, sharp=1.1)                                 # why: see tiny_llama.QUANT
GRANITE = dict(embedding_multiplier=0.5, residual_multiplier=0.7, attention_multiplier=0.7, logits_scaling=2.0)
GRANITE_KEYS = dict(embedding_scale=0.5, residual_scale=0.7, attention_scale=0.7, logit_scale=2.0)
SECTIONS = dict(mrope_section=[4, 2, 2], mrope_interleaved=True)
MODELS = {
    "gemma": dict(SMALL, **SPM, arch="gemma", layers=2, eps=1e-6, kv=1, config=dict(hidden_activation="gelu_pytorch_tanh")),
    "gemma2": dict(GEMMA2, layers=3),
    "gemma2_46": dict(GEMMA2, layers=46, embd=8, heads=2, kv=1, ff=8, type="F16", config=dict(GEMMA2["config"], query_pre_attn_scalar=4)),
    "gemma3": dict(GEMMA3, layers=7, heads=2, kv=1, greedy=True, rope=TWO_TABLES, keys=dict(GEMMA3["keys"], rope_freq_base_swa=10000.0)),
    "gpt-oss": dict(GPT_OSS, layers=3, greedy=True),
    "gemma3_q4_0": dict(GEMMA3, **CALM, layers=2, embd=64, hd=32, heads=2, kv=1, ff=96, type="Q4_0", rope=TWO_TABLES,
                        config=dict(GEMMA3["config"], query_pre_attn_scalar=32, layer_types=["sliding_attention", "full_attention"]),
                        keys=dict(GEMMA3["keys"], rope_freq_base_swa=10000.0, sliding_window_pattern=2)),
    "gpt-oss_mxfp4": dict(GPT_OSS, **CALM, layers=2, embd=64, heads=2, kv=1, hd=32, metric="kl-median", n=48, step=5,
                          moe=dict(experts=4, used=2, ff=32), type=lambda name: "MXFP4" if "_exps" in name else "Q8_0"),
    "phi3": dict(PHI3, rope=dict(LONGROPE, original_max_position_embeddings=40, attention_factor=LONG), attn_factor=LONG, config=dict(sliding_window=33),
                 keys=dict(sliding_window=33)),
    "phi3_short": dict(PHI3, layers=1, tied=True, rope=dict(LONGROPE, original_max_position_embeddings=N_CTX), keys=dict(sliding_window=0)),
    "olmo2": dict(EVEN, arch="olmo2", layers=2, eps=1e-6, theta=500000.0, tied=False),
    "olmo2_window": dict(EVEN, arch="olmo2", cls="Olmo3ForCausalLM", layers=5, eps=1e-6, tied=False, rope={
                             "full_attention": YARN, "sliding_attention": dict(rope_type="default", rope_theta=10000.0)},
                         config=dict(sliding_window=24, layer_types=kinds(24, 5, 4)),
                         keys=dict(sliding_window=24, sliding_window_pattern=[True, True, True, False, True])),
    "starcoder2": dict(EVEN, arch="starcoder2", layers=2, heads=4, kv=2, embd=32, theta=999999.0, bias=QKV + OTHERS,
                       config=dict(hidden_act="gelu_pytorch_tanh", sliding_window=None)),
    "gpt2": dict(EVEN, arch="gpt2", layers=2, heads=3, kv=3, embd=24, ff=96, ctx=96, bias=("attn_qkv",) + OTHERS),
    "mistral3": dict(SMALL, arch="mistral3", layers=2, heads=2, kv=1, hd=16, rope=dict(
                         rope_type="yarn", factor=8.0, original_max_position_embeddings=20, beta_fast=4.0, beta_slow=0.1, mscale=1.0,
                         mscale_all_dim=0.5, llama_4_scaling_beta=0.4),
                     keys=dict(rope_scaling_yarn_beta_fast=4.0, rope_scaling_yarn_beta_slow=0.1, rope_scaling_yarn_log_mul=0.5,
                               attn_temperature_scale=0.4)),
    "granite": dict(EVEN, arch="granite", layers=2, out=5.0, config=GRANITE, keys=GRANITE_KEYS),
    "granitemoe": dict(EVEN, arch="granitemoe", layers=2, out=5.0, config=GRANITE, keys=GRANITE_KEYS,
                       moe=dict(experts=6, used=3, ff=16)),
    "granitemoe_shared": dict(EVEN, arch="granitemoe", cls="GraniteMoeSharedForCausalLM", layers=1, out=5.0, config=GRANITE,
                              keys=GRANITE_KEYS, moe=dict(experts=6, used=3, ff=16, shared=24)),
    "smollm3": dict(EVEN, arch="smollm3", layers=5, theta=5000000.0, eps=1e-6),
    "olmoe": dict(EVEN, arch="olmoe", kv=2, layers=2, tied=False, moe=dict(experts=6, used=3, ff=16), config=dict(norm_topk_prob=False)),
    "seed_oss": dict(SMALL, arch="seed_oss", layers=2, eps=1e-6, tied=False, bias=QKV, theta=10000000.0,
                     config=dict(attention_bias=True, attention_out_bias=False)),
    "qwen3vl": dict(SMALL, arch="qwen3vl", layers=2, hd=16, eps=1e-6, theta=5000000.0, rope=SECTIONS,
                    keys=dict(rope_dimension_sections=[4, 2, 2, 0], num_deepstack_layers=1)),
    "qwen3vlmoe": dict(SMALL, arch="qwen3vlmoe", layers=1, hd=16, eps=1e-6, theta=5000000.0, rope=SECTIONS,
                       moe=dict(experts=6, used=2, ff=16), keys=dict(rope_dimension_sections=[4, 2, 2, 0], num_deepstack_layers=1)),
}
HALF = dict(rope=dict(partial_rotary_factor=0.5), n_rot=4)
SCALED = dict(routed_scaling_factor=1.7, router_scaling_factor=1.7)
ONE_GROUP = dict(expert_group_count=1, expert_group_used_count=1)
SIGMOID = dict(expert_gating_func=ExpertGatingFuncType.SIGMOID)
SCALES = dict(embedding_multiplier=1.5, residual_multiplier=0.6, attention_multiplier=float(1 / np.sqrt(8)), logits_scaling=1.5)
MODELS.update({
    "glm4": dict(SMALL, **HALF, arch="glm4", layers=2, tied=False, bias=QKV, config=dict(attention_bias=True)),
    "glm4_sections": dict(SMALL, arch="glm4", layers=1, hd=16, bias=QKV, halves=True, rope=dict(partial_rotary_factor=0.5), n_rot=8,
                          config=dict(attention_bias=True), keys=dict(rope_dimension_sections=[1, 1, 2, 0])),
    "glm4moe": dict(SMALL, **HALF, arch="glm4moe", layers=2, dense=1, qk="head", tied=False, bias=QKV,
                    moe=dict(experts=6, used=3, ff=16, shared=16, choice=0.3), config=dict(SCALED, attention_bias=True, use_qk_norm=True),
                    keys=dict(SIGMOID, **ONE_GROUP, leading_dense_block_count=1, expert_weights_scale=1.7, expert_weights_norm=True,
                              expert_shared_count=1, nextn_predict_layers=0)),
    "glm4moe_air": dict(SMALL, **HALF, arch="glm4moe", layers=2, ahead=1, moe=dict(experts=6, used=2, ff=16, shared=32, choice=0.3),
                        config=dict(SCALED, norm_topk_prob=False),
                        keys=dict(expert_weights_scale=1.7, expert_shared_count=2, nextn_predict_layers=1, block_count=3)),
    "glm4moe_q8_0": dict(SMALL, **CALM, arch="glm4moe", layers=2, dense=1, embd=64, heads=2, kv=1, hd=32, ff=64, rope=HALF["rope"], n_rot=16, type="Q8_0", n=48, step=5,
                         qk="head", moe=dict(experts=4, used=2, ff=32, shared=32, choice=1.0), config=dict(SCALED, use_qk_norm=True),
                         keys=dict(SIGMOID, leading_dense_block_count=1, expert_weights_scale=1.7, expert_weights_norm=True, expert_shared_count=1)),
    "minimax-m3": dict(SMALL, **HALF, arch="minimax-m3", layers=2, dense=1, tied=False, act=4.0, moe=dict(experts=6, used=3, ff=16, shared=16, choice=0.3),
                       index=(2, 12, 4, 5, 1),                   # heads of the indexer, their size, blocks that it chooses, their size, the last ones
                       keys=dict(SIGMOID, leading_dense_block_count=1, expert_weights_scale=1.7, expert_weights_norm=True, expert_shared_count=1)),
    "minimax-m2": dict(SMALL, **HALF, arch="minimax-m2", layers=2, tied=False, moe=dict(experts=6, used=3, ff=16, choice=0.3), keys=SIGMOID),
    "ernie4_5": dict(SMALL, arch="ernie4_5", layers=2, theta=500000.0),
    "ernie4_5-moe": dict(SMALL, arch="ernie4_5-moe", layers=2, ff=64, dense=1, theta=500000.0, moe=dict(experts=6, used=3, ff=16, shared=32, choice=0.05),
                         keys=dict(leading_dense_block_count=1, interleave_moe_layer_step=1, expert_shared_count=2,
                                   expert_shared_feed_forward_length=32)),
    "paddleocr": dict(SMALL, arch="paddleocr", layers=1, hd=16, theta=500000.0, keys=dict(rope_dimension_sections=[4, 2, 2, 0])),
    "dots1": dict(SMALL, arch="dots1", layers=2, dense=1, tied=False, kv=4, moe=dict(experts=6, used=3, ff=16, shared=32, choice=0.3),
                  config=dict(SCALED, norm_topk_prob=True),
                  keys=dict(ONE_GROUP, leading_dense_block_count=1, expert_shared_count=2, expert_weights_scale=1.7, expert_weights_norm=True)),
    "hy_v3": dict(SMALL, arch="hy_v3", layers=2, dense=1, moe=dict(experts=6, used=3, ff=16, shared=16, choice=0.3), config=SCALED,
                  keys=dict(SIGMOID, expert_shared_feed_forward_length=16, expert_weights_scale=1.7, expert_weights_norm=True)),
    "qwen2vl": dict(EVEN, arch="qwen2vl", layers=2, bias=QKV, eps=1e-6, theta=1000000.0, rope=dict(mrope_section=[1, 1, 2]),
                    keys=dict(rope_dimension_sections=[1, 1, 2, 0])),
    "qwen": dict(EVEN, arch="qwen", layers=2, kv=2, tied=False, bias=("attn_qkv",), eps=1e-6, keys=dict(feed_forward_length=64)),
    "internlm2": dict(EVEN, arch="internlm2", layers=2, tied=False, theta=1000000.0),
    "minicpm": dict(EVEN, arch="minicpm", layers=2, out=5.0, config=SCALES,
                    keys=dict(embedding_scale=1.5, residual_scale=0.6, logit_scale=1.5)),
    "minicpm_old": dict(EVEN, arch="minicpm", layers=2, out=0.2,
                        config=dict(SCALES, embedding_multiplier=12.0, residual_multiplier=float(1.4 / np.sqrt(2)), logits_scaling=16 / 256)),
    "nemotron": dict(EVEN, arch="nemotron", layers=2, tied=False, **HALF,
                     keys=dict(layer_norm_rms_eps=f32(1e-5), rope_scaling_type=RopeScalingType.NONE, vocab_size=N_VOCAB)),
    "exaone": dict(EVEN, arch="exaone", layers=1, heads=2, hd=8, rope=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                                           original_max_position_embeddings=64)),
    "arcee": dict(SMALL, arch="arcee", layers=2, tied=False, hd=8),
    "deepseek": dict(EVEN, arch="deepseek", layers=2, dense=1, tied=False, kv=2, moe=dict(experts=6, used=3, ff=16, shared=32),
                     keys=dict(leading_dense_block_count=1, expert_shared_count=2, expert_weights_scale=1.7)),
    "deepseek2-ocr": dict(EVEN, arch="deepseek2-ocr", layers=2, dense=1, kv=2, n_rot=0, moe=dict(experts=6, used=3, ff=16, shared=32, choice=0.05),
                          keys=dict(vocab_size=N_VOCAB, sliding_window=24, leading_dense_block_count=1, expert_shared_count=2, expert_weights_scale=1.7, expert_weights_norm=True)),
    "bailingmoe": dict(SMALL, arch="bailingmoe", layers=1, hd=12, n_rot=12, moe=dict(experts=6, used=3, ff=16, shared=32),
                       keys=dict(leading_dense_block_count=0, expert_shared_count=2, expert_weights_scale=1.0, expert_weights_norm=True)),
    "bailingmoe2": dict(SMALL, **HALF, arch="bailingmoe2", layers=2, dense=1, ahead=1, last_ahead="layer_output_norm", tied=False, eps=1e-6,
                        moe=dict(experts=8, used=3, ff=16, shared=16, choice=0.3),
                        config=dict(SCALED, use_qk_norm=True, n_group=4, topk_group=2, norm_topk_prob=True),
                        keys=dict(SIGMOID, leading_dense_block_count=1, expert_group_count=4, expert_group_used_count=2, expert_shared_count=1,
                                  expert_shared_feed_forward_length=16, expert_weights_scale=1.7, expert_weights_norm=True,
                                  nextn_predict_layers=1, block_count=3)),
    "chatglm": dict(EVEN, arch="chatglm", layers=2, tied=False, bias=("attn_qkv",), **HALF, config=dict(attention_bias=True)),
    "baichuan": dict(EVEN, arch="baichuan", layers=2, kv=2, tied=False),
    "baichuan_13b": dict(EVEN, arch="baichuan", cls=None, layers=40, embd=8, heads=2, kv=2, hd=4, ff=8, type="F16"),
    "xverse": dict(EVEN, arch="xverse", layers=1, kv=2, tied=False),
    "orion": dict(EVEN, arch="orion", layers=2, tied=False, config=dict(partial_rotary_factor=1.0)),
    "olmo": dict(EVEN, arch="olmo", layers=2, kv=2),
    "olmo_clip": dict(EVEN, arch="olmo", layers=2, config=dict(clip_qkv=0.8), keys=dict(clamp_kqv=0.8)),
    "starcoder": dict(EVEN, arch="starcoder", layers=2, heads=3, kv=1, embd=24, ff=96, ctx=96, bias=("attn_qkv",) + OTHERS),
    "codeshell": dict(EVEN, arch="codeshell", layers=2, tied=False, embd_too=True, bias=("attn_qkv",) + OTHERS,
                      config=dict(hidden_act="gelu_pytorch_tanh", sliding_window=None)),
    "bloom_q8_0": dict(EVEN, **CALM, arch="bloom", layers=1, embd=96, heads=3, hd=32, kv=3, ff=96 * 4, type="Q8_0", bias=("attn_qkv",) + OTHERS),
    "refact": dict(EVEN, arch="refact", layers=2, heads=4, hd=4, kv=1),
    "bloom": dict(EVEN, arch="bloom", layers=2, heads=3, hd=8, embd=24, kv=3, ff=96, bias=("attn_qkv",) + OTHERS),
    "jais": dict(EVEN, arch="jais", layers=2, kv=2, tied=False, sharp=2.5, bias=("attn_qkv", "ffn_gate") + OTHERS, keys=dict(max_alibi_bias=8.0)),
    "jais2": dict(SMALL, arch="jais2", layers=1, heads=2, hd=8, kv=2, bias=QKV + OTHERS),
    "mellum": dict(SMALL, arch="mellum", layers=4, tied=False, eps=1e-6, theta=500000.0, moe=dict(experts=4, used=2, ff=16),
                   rope={"full_attention": dict(YARN, rope_theta=500000.0), "sliding_attention": dict(rope_type="default", rope_theta=10000.0)},
                   config=dict(sliding_window=24, use_sliding_window=True, layer_types=kinds(24, 4, 4), norm_topk_prob=True),
                   keys=dict(sliding_window=24, sliding_window_pattern=[True, True, True, False], rope_freq_base_swa=10000.0, feed_forward_length=32)),
    "pangu-embedded": dict(EVEN, arch="pangu-embedded", layers=1, bias=QKV + ("attn_output",), config=dict(attention_bias=True)),
})
# Of mimo2 and step35: windows, then those of the heads; a head without a window, a rotation of half in it.
MIMO = [False, True, True, False, True, True, True]
STEP = [False, True, True, False, True, True, False]


def halves(name):
    """F16 where such layers are old: smaller files."""
    return "F16" if name in ("token_embd", "output") or "exps" in name else "F32"


MODELS.update({
    "mimo2": dict(SMALL, arch="mimo2", layers=4, dense=1, ahead=3, dense_ahead=True, fused_ahead=True, last_ahead="layer_output_norm", tied=False,
                  windows=MIMO, floats={"attention.value_scale": 0.6}, heads=4, kv_of=[2 if w else 1 for w in MIMO], kv=1, hd=8, hd_v=6, n_rot=4, theta=1000000.0, metric="nmse",
                  type=halves, moe=dict(experts=5, used=2, ff=16, choice=0.3),
                  rope={"full_attention": dict(rope_type="default", rope_theta=1000000.0, partial_rotary_factor=0.5),
                        "sliding_attention": dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5)},
                  config=dict(sliding_window=24, attention_value_scale=0.6, layer_types=["sliding_attention" if w else "full_attention" for w in MIMO[:4]],
                              mlp_layer_types=["dense"] + 3 * ["sparse"]),
                  keys=dict(sliding_window=24, sliding_window_pattern=MIMO, rope_freq_base_swa=10000.0, nextn_predict_layers=3, block_count=7)),
    "step35": dict(SMALL, arch="step35", layers=4, dense=1, ahead=3, dense_ahead=True, tied=False, windows=STEP, heads=2,
                   heads_of=[4 if w else 2 for w in STEP], kv=1, kv_of=[1] * 7, hd=8, n_rot=8, theta=1000000.0, metric="nmse",
                   type=halves, moe=dict(experts=5, used=2, ff=16, shared=16, choice=0.3),
                   rope={"full_attention": dict(rope_type="llama3", rope_theta=1000000.0, partial_rotary_factor=0.5, factor=8.0, low_freq_factor=1.0,
                                                high_freq_factor=4.0, original_max_position_embeddings=64),
                         "sliding_attention": dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=1.0)},
                   config=dict(sliding_window=24, num_sliding_attention_heads=4, moe_router_scaling_factor=1.7, share_expert_dim=16,
                               swiglu_limits=[0.0, 1.0, 0.0, 1.25], swiglu_limits_shared=[1.5, 0.0, 1.0, 0.0],
                               layer_types=["sliding_attention" if w else "full_attention" for w in STEP[:4]], mlp_layer_types=["dense"] + 3 * ["sparse"]),
                   keys=dict(sliding_window=24, sliding_window_pattern=STEP, rope_freq_base_swa=10000.0, nextn_predict_layers=3, block_count=7,
                             leading_dense_block_count=1, moe_every_n_layers=1, expert_shared_feed_forward_length=16, expert_weights_scale=1.7,
                             expert_weights_norm=True, swiglu_clamp_exp=[0.0, 1.0, 0.0, 1.25, 0.0, 1.0, 0.0],
                             swiglu_clamp_shexp=[1.5, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0])),
})


# --- weights, in the file's names and layout ------------------------------------------------------------------------
def draw(w, s):
    a, D = arch_of(s), s["embd"]
    if not s.get("embd_too"):
        w.matrix("token_embd", N_VOCAB, D, gain=s["out"] if s["tied"] else np.sqrt(D))
    if a["embd_norm"]:
        norm(w, a, "token_embd_norm", D)
    if a["positions"]:
        w.matrix("position_embd", s["ctx"], D, gain=s["out"])
    for i in range(s["layers"] + s.get("ahead", 0)):
        ahead = i >= s["layers"]
        draw_attention(w, s, dict(a, fused=True) if ahead and s.get("fused_ahead") else a, i)
        plain = ahead and s.get("dense_ahead") or not has_experts(s, i)
        draw_ffn(w, s, dict(a, ffn="gated") if plain and a["ffn"] == "experts" else a, "blk.%d." % i)
        if ahead:
            draw_ahead(w, s, a, "blk.%d." % i)
    if not a["bare"]:
        norm(w, a, "output_norm", D)
    if not s["tied"]:
        w.matrix("output", N_VOCAB, D, gain=s["out"])
    if s["rope"].get("rope_type") == "llama3":
        w.fixed("rope_freqs.weight", llama3_factors(s).astype(np.float32))
    if s["rope"].get("full_attention", {}).get("rope_type") == "llama3":        # as long as for those that rotate whole
        full = s["rope"]["full_attention"]
        n = int(s["hd"] * full["partial_rotary_factor"])
        factors = llama3_factors(dict(s, hd=n, rope=full, theta=full["rope_theta"]))
        w.fixed("rope_freqs.weight", np.concatenate([factors, np.ones(s["hd"] // 2 - len(factors))]).astype(np.float32))
    for name in ("long", "short"):
        if "longrope" == s["rope"].get("rope_type"):
            factors = np.array(s["rope"][name + "_factor"], np.float32)
            w.data["rope_factors_%s.weight" % name], w.value["rope_factors_%s.weight" % name] = (factors, None), factors


def has_experts(s, i):
    """Whether layer i has them: those after the dense ones, or the last of so many (sparse; 0: none has)."""
    step = s.get("sparse", 1)
    return bool(s["moe"]) and i >= s.get("dense", 0) and step > 0 and (i + 1) % step == 0


def draw_ahead(w, s, a, b):
    """What a draft head has beside a layer."""
    w.matrix(b + "nextn.eh_proj", s["embd"], 2 * s["embd"])
    for name in ("nextn.enorm", "nextn.hnorm", s.get("last_ahead", "nextn.shared_head_norm")):
        norm(w, a, b + name, s["embd"])


def norm(w, a, name, n, mean=1.0):
    w.vector(name + ".weight", n, mean, 0.2 * mean)
    if a["layer_norm"] and a["norm_bias"]:
        w.vector(name + ".bias", n, 0.0, 0.3)


def heads_of(s, i):
    """Heads of queries, and of keys and values, of layer i."""
    return s["heads_of"][i] if "heads_of" in s else s["heads"], s["kv_of"][i] if "kv_of" in s else s["kv"]


def draw_attention(w, s, a, i):
    heads, groups = heads_of(s, i)
    b, hd_v = "blk.%d." % i, s.get("hd_v", s["hd"])
    D, q, kv, values = s["embd"], heads * s["hd"], groups * s["hd"], groups * hd_v
    sharp = 1.0 if a["qk"] else s["sharp"]
    for name in a["norms"] + ("attn_norm_2",) * bool(s.get("two")) + ("ffn_norm",) * bool(s.get("serial")):
        norm(w, a, b + name, D)
    if a["fused"]:
        w.matrix(b + "attn_qkv", q + kv + values, D, gain=sharp)
    else:
        w.matrix(b + "attn_q", q, D, gain=sharp)
        w.matrix(b + "attn_k", kv, D, gain=sharp)
        w.matrix(b + "attn_v", values, D)
    w.matrix(b + "attn_output", D, heads * hd_v, gain=1.5)
    if a["gate"]:
        w.matrix(b + "attn_gate", heads, D, gain=1.5)
    if a["qk"]:
        for name, n in (("attn_q_norm", heads), ("attn_k_norm", groups)):
            shape = {"width": n * s["hd"], "heads": (n, s["hd"])}.get(a["qk"], s["hd"])
            norm(w, dict(a, norm_bias=False) if a["qk"] == "heads" else a, b + name, shape, s["sharp"])
    if "attn_sinks" in s["bias"] or a["sink"] and s["windows"][i]:
        w.vector(b + "attn_sinks.weight", heads, 1.5, 1.0)


def draw_ffn(w, s, a, b):
    D, F = s["embd"], s["ff"]
    if a["ffn"] == "experts":
        draw_experts(w, s, b)
        return
    if a["ffn"] == "gated":
        w.matrix(b + "ffn_gate", F, D, gain=s["act"])
    w.matrix(b + "ffn_up", 2 * F if a["ffn"] == "joined" else F, D, gain=s["act"])
    w.matrix(b + "ffn_down", D, F, gain=1.5)


def draw_experts(w, s, b):
    D, E, F = s["embd"], s["moe"]["experts"], s["moe"]["ff"]
    if s["arch"] == "arctic":
        for name in ("ffn_gate", "ffn_up", "ffn_down"):
            w.matrix(b + name, D, D, gain=1.5)
    w.matrix(b + "ffn_gate_inp", E, D, gain=1.5, plain=True)
    if s["arch"] == "minimax-m3":
        n, size = s["index"][:2]
        w.matrix(b + "indexer.q_proj", n * size, D)
        w.matrix(b + "indexer.k_proj", size, D)
        for c in "qk":
            w.vector(b + "indexer.%s_norm.weight" % c, size, 1.0, 0.2)
    if "choice" in s["moe"]:
        w.vector(b + "exp_probs_b" + (".bias" if s["arch"] != "hy_v3" else ""), (1, E) if s["arch"] == "ernie4_5-moe" else E, 0.0, s["moe"]["choice"])
    for name, rows, cols, gain in (("ffn_gate_exps", F, D, s["act"]), ("ffn_up_exps", F, D, s["act"]), ("ffn_down_exps", D, F, s["down"])):
        w.matrix(b + name, E, rows, cols, gain=gain)
    if "shared" in s["moe"]:
        for name, rows, cols in (("ffn_gate_shexp", s["moe"]["shared"], D), ("ffn_up_shexp", s["moe"]["shared"], D), ("ffn_down_shexp", D, s["moe"]["shared"])):
            w.matrix(b + name, rows, cols, gain=1.5)


# --- the same weights, as the framework names them ------------------------------------------------------------------
HF_NAMES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
            "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm", "attn_norm": "input_layernorm",
            "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
            "ffn_gate_inp": "mlp.gate", "experts": "mlp.experts", "attn_gate": "self_attn.g_proj"}
HF_TOP = {"token_embd": "embed_tokens", "output_norm": "norm"}


def hf_layer(s, a, i, slot, kind, x):
    """Tensors of layer i for one of the file, by their names in the layer."""
    names = dict(HF_NAMES, **a["names"])
    if slot in ("attn_q", "attn_k") and (a["pairs"] or s.get("halves")):
        turn = halves_to_pairs_of if s.get("halves") else pairs_to_halves
        x = turn(x, s["heads"] if slot == "attn_q" else s["kv"], *([s["n_rot"]] if s.get("halves") else []))
    if slot == "attn_qkv" and s["arch"] == "bloom":             # q, k and v of each head are neighbours
        x = x.reshape(3, s["heads"], s["hd"], -1).swapaxes(0, 1).reshape(x.shape)
    elif slot == "attn_qkv" and slot not in names:
        at = np.cumsum([s["heads"] * s["hd"], s["kv"] * s["hd"]])
        return {"%s.%s" % (names[c], kind): part for c, part in zip(("attn_q", "attn_k", "attn_v"), np.split(x, at))}
    return {"%s.%s" % (names[slot], kind): x.T if s["arch"] == "gpt2" and x.ndim == 2 else x}          # its matrices are [in, out]


def halves_to_pairs_of(x, heads, n_rot):
    """The first n_rot rows of each head as files of the converter without sections have them, and the framework."""
    y = x.reshape(heads, x.shape[0] // heads, *x.shape[1:]).copy()
    y[:, :n_rot] = y[:, :n_rot].reshape(heads, 2, n_rot // 2, *x.shape[1:]).swapaxes(1, 2).reshape(heads, n_rot, *x.shape[1:])
    return y.reshape(x.shape)


def hf_state(s, value):
    a, state = arch_of(s), {}
    names = dict(HF_NAMES, **a["names"])
    root, layers, top = a["trunk"] or ("model.language_model." if a.get("text") else "model.", "layers.%s.", HF_TOP)
    layers = root + layers
    for name, x in value.items():
        kind, slot, of = name.split(".")[-1], name.split(".")[-2], name.split(".")[1] if name.startswith("blk.") else None
        if a["shift"] and slot.endswith("norm") and kind == "weight":
            x = x.astype(np.float64) - a["shift"]
        if name == "output.weight":
            state["lm_head.weight"] = x
            if s.get("embd_too"):
                state[root + top["token_embd"] + ".weight"] = x
        elif of and slot == "attn_sinks" and a["sink"] and int(of) < s["layers"]:
            state[layers % of + "self_attn.sinks"] = x
        elif of and (int(of) >= s["layers"] or "exp" in name or slot == "attn_sinks" or slot == "ffn_gate_inp" and s["arch"] == "gpt-oss"):
            continue
        elif of:
            state.update({layers % of + n: v for n, v in hf_layer(s, a, int(of), slot, kind, x).items()})
        elif slot in top:
            state[root + top[slot] + "." + kind] = x
    for i in [i for i in range(s["layers"]) if has_experts(s, i)]:
        get = lambda slot, kind="weight": value.get("blk.%d.%s.%s" % (i, slot, kind))        # noqa: E731
        state.update({layers % i + n: x for n, x in (gpt_oss_state if s["arch"] == "gpt-oss" else expert_state)(names, get).items()})
        state.update({layers % i + n: x for n, x in chosen_state(a, s, value, i).items()})
    for name in [n for n in state if s["arch"] == "minimax-m3" and n.endswith(".gate_proj.weight")]:
        up = name.replace("gate_proj", "up_proj")
        state[name.replace("gate_proj", "gate_up_proj")] = np.concatenate([state.pop(name), state.pop(up)])
    return state


def expert_state(names, get):
    state = {names["experts"] + ".gate_up_proj": np.concatenate([get("ffn_gate_exps"), get("ffn_up_exps")], axis=1),
             names["experts"] + ".down_proj": get("ffn_down_exps")}
    if names.get("ffn_up_shexp") and get("ffn_up_shexp") is not None:
        state.update({names[n] + ".weight": get(n) for n in ("ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp")})
    elif get("ffn_up_shexp") is not None:
        state[names["ffn_gate_up_shexp"] + ".weight"] = np.concatenate([get("ffn_gate_shexp"), get("ffn_up_shexp")])
        state[names["ffn_down_shexp"] + ".weight"] = get("ffn_down_shexp")
    return state


def gpt_oss_state(names, get):
    """Its expert matrices are [in, out]; gate and up alternate."""
    def alternate(kind):
        gate, up = get("ffn_gate_exps", kind), get("ffn_up_exps", kind)
        return np.stack([gate, up], axis=2).reshape(gate.shape[0], -1, *gate.shape[2:])
    return {"self_attn.sinks": get("attn_sinks"), "mlp.router.weight": get("ffn_gate_inp"), "mlp.router.bias": get("ffn_gate_inp", "bias"),
            "mlp.experts.gate_up_proj": alternate("weight").swapaxes(1, 2), "mlp.experts.gate_up_proj_bias": alternate("bias"),
            "mlp.experts.down_proj": get("ffn_down_exps").swapaxes(1, 2), "mlp.experts.down_proj_bias": get("ffn_down_exps", "bias")}


ROUTER = (("mlp.gate", "mlp.router", "block_sparse_moe.router"), lambda module, out: router_scores(module, out))


def chosen_state(a, s, value, i):
    """The bias that counts for the choice of experts."""
    bias = value.get("blk.%d.exp_probs_b.bias" % i, value.get("blk.%d.exp_probs_b" % i))
    return {} if bias is None or not a["choice"] else {a["choice"]: bias}


def check(s, value, oracle):
    """Routers know the bias of the choice, which some blocks keep beside them."""
    for mod in oracle.model.modules():
        if hasattr(mod, "gate") and hasattr(mod, "e_score_correction_bias"):
            mod.gate.e_score_correction_bias = mod.e_score_correction_bias


def router_scores(module, out):
    """What decides which experts are chosen."""
    bias = getattr(getattr(module, "moe_statics", module), "e_score_correction_bias", None)
    if bias is None:
        return out[0]
    return (out[0].softmax(-1) if hasattr(module, "moe_statics") else out[0].sigmoid()) + bias.squeeze()


def hf_class(s):
    return s["cls"] if "cls" in s else ARCHS[s["arch"]]["cls"]


def rounded(x):
    """Floats of a config as the file has them."""
    if isinstance(x, dict):
        return {k: rounded(v) for k, v in x.items()}
    return f32(x) if isinstance(x, float) else [rounded(v) for v in x] if isinstance(x, list) else x


def hf_config(s):
    if s["arch"] in ("gpt2", "starcoder", "bloom"):
        return dict(vocab_size=N_VOCAB, n_embd=s["embd"], n_layer=s["layers"], n_head=s["heads"], n_positions=s["ctx"], n_inner=s["ff"],
                    hidden_size=s["embd"], layer_norm_epsilon=s["eps"], bos_token_id=None, eos_token_id=None, pad_token_id=None,
                    activation_function="gelu_new" if s["arch"] == "gpt2" else "gelu_pytorch_tanh")
    rope = s["rope"] if "full_attention" in s["rope"] else dict({"rope_type": "default", "rope_theta": s["theta"]}, **s["rope"])
    c = dict(vocab_size=N_VOCAB, hidden_size=s["embd"], num_hidden_layers=s["layers"], num_attention_heads=s["heads"],
             num_key_value_heads=s["kv"], head_dim=s["hd"], intermediate_size=s["ff"], max_position_embeddings=s["ctx"],
             rope_parameters=rope, tie_word_embeddings=s["tied"], bos_token_id=None, eos_token_id=None, pad_token_id=None)
    if not arch_of(s)["bare"]:
        c[arch_of(s)["eps"]] = s["eps"]
    if s["moe"]:
        m = s["moe"]
        c.update(num_experts_per_tok=m["used"], num_local_experts=m["experts"], intermediate_size=m["ff"])
        if s["arch"] in ("olmoe", "qwen3vlmoe"):
            c.update(num_experts=c.pop("num_local_experts"), moe_intermediate_size=m["ff"])
        if "shared" in m:
            c.update(shared_intermediate_size=m["shared"])
        if arch_of(s)["choice"] or s["arch"] == "mellum":
            shared = m.get("shared", 0) // m["ff"]
            c.update(intermediate_size=m["ff"] if s["arch"].startswith("minimax") else s["ff"], v_head_dim=s.get("hd_v", s["hd"]), moe_intermediate_size=m["ff"], n_routed_experts=m["experts"],
                     num_experts=m["experts"], n_shared_experts=shared, num_shared_experts=shared, first_k_dense_replace=s.get("dense", 0),
                     moe_num_experts=m["experts"], moe_k=m["used"], moe_num_shared_experts=shared, moe_layer_start_index=s.get("dense", 0))
    if s["rope"].get("rope_type") == "longrope":
        c.update(original_max_position_embeddings=s["rope"]["original_max_position_embeddings"])
    if s["arch"] == "minimax-m3":
        sparse = [has_experts(s, i) for i in range(s["layers"])]
        c.update(dense_intermediate_size=s["ff"], routed_scaling_factor=f32(1.7), mlp_layer_types=["sparse" if x else "dense" for x in sparse],
                 layer_types=["minimax_m3_sparse" if x else "full_attention" for x in sparse])
        c.update({"index_" + n: v for n, v in zip(("n_heads", "head_dim", "topk_blocks", "block_size", "local_blocks"), s["index"])})
    c = rounded(dict(c, **s["config"]))
    if s["arch"] == "step35":
        eye = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14)
        return dict(text_config=dict(c, pad_token_id=0), vision_config=eye, tie_word_embeddings=s["tied"])
    if arch_of(s).get("text"):
        if s["arch"] == "qwen2vl":
            return dict(text_config=c, vision_config=dict(depth=1, embed_dim=16, hidden_size=s["embd"], num_heads=2), tie_word_embeddings=s["tied"])
        eye = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=s["embd"], num_position_embeddings=4,
                   deepstack_visual_indexes=[0])
        return dict(text_config=c, vision_config=eye, tie_word_embeddings=s["tied"])
    return c


# --- the file -------------------------------------------------------------------------------------------------------
def write_keys(g, s):
    a, m = arch_of(s), s["moe"]
    if "block_count" not in s["keys"]:
        g.add_block_count(s["layers"])
    g.add_context_length(s["ctx"])
    g.add_embedding_length(s["embd"])
    if "feed_forward_length" not in s["keys"]:
        g.add_feed_forward_length(m["ff"] if m and not s.get("dense") else s["ff"])
    g.add_head_count(s.get("heads_of", s["heads"]))
    if not a["positions"] and s["arch"] != "jais" or s["arch"] == "starcoder":
        g.add_head_count_kv(s.get("kv_of", s["kv"]))
    if a["base"] and not a["positions"] and not a["alibi"]:
        g.add_rope_freq_base(s["theta"])
    if a["pairs"]:
        g.add_vocab_size(N_VOCAB)
    (g.add_layer_norm_eps if a["layer_norm"] else g.add_layer_norm_rms_eps)(s["eps"])
    if a["head_dim"]:
        g.add_key_length(s["hd"])
        g.add_value_length(s.get("hd_v", s["hd"]))
    if a["n_rot"] and not a["alibi"]:
        g.add_rope_dimension_count(s.get("n_rot", s["hd"]))
    if m:
        g.add_expert_count(m["experts"])
        g.add_expert_used_count(m["used"])
        if s["arch"] in ("gpt-oss", "qwen3vlmoe", "deepseek", "deepseek2-ocr", "bailingmoe", "mellum") or a["choice"]:
            g.add_expert_feed_forward_length(m["ff"])
        if "shared" in m and s["arch"] == "granitemoe":
            g.add_expert_shared_feed_forward_length(m["shared"])
    add_scaling_keys(g, s)
    for name, value in zip(("head_count", "key_length", "top_k", "block_size", "local_blocks"), s.get("index", ())):
        g.add_uint32("%s.attention.indexer.%s" % (s["arch"], name), value)
    for name, value in s["keys"].items():
        getattr(g, "add_" + name)(value)
    for name, value in s.get("floats", {}).items():
        g.add_float32("%s.%s" % (s["arch"], name), value)


def add_scaling_keys(g, s):
    """Of the layers that see all positions: the others rotate as they are."""
    r = s["rope"].get("full_attention", s["rope"])
    kind = {"linear": RopeScalingType.LINEAR, "yarn": RopeScalingType.YARN, "longrope": RopeScalingType.LONGROPE}.get(r.get("rope_type"))
    if kind is None:
        return
    if kind != RopeScalingType.LONGROPE:                        # the two vectors of factors say so
        g.add_rope_scaling_type(kind)
        g.add_rope_scaling_factor(r["factor"])
    if kind != RopeScalingType.LINEAR:
        g.add_rope_scaling_orig_ctx_len(r["original_max_position_embeddings"])
    if s["attn_factor"] != 1.0:
        g.add_rope_scaling_attn_factors(s["attn_factor"])


BORROWED = "paddleocr qwen internlm2 minicpm exaone baichuan xverse orion codeshell pangu-embedded".split()      # the class is that of another one


def hub_config(s):
    a = arch_of(s)
    if s["arch"] in BORROWED + ["chatglm", "qwen2vl", "minimax-m3"] or not hf_class(s) or s.get("ahead") or s.get("halves"):
        return None
    if s["arch"] == "qwen3vlmoe" or s["name"] == "phi3_short":      # experts lie otherwise in older checkpoints; a factor that no config gives
        return None
    c = {} if a["head_dim"] else dict(head_dim=None)
    if "full_attention" in s["rope"] and s["arch"] == "olmo2":
        c.update(rope_parameters=s["rope"]["full_attention"])
    if s["arch"] == "minimax-m2":
        c.update(rotary_dim=s["n_rot"])
    if s["arch"] in ("glm4moe", "step35"):
        c.update(num_nextn_predict_layers=0)
    return dict(c, n_ctx=s["ctx"], seq_length=s["ctx"]) if s["arch"] in ("gpt2", "bloom") else c
