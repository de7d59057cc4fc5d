"""The family of tests/gen/tiny_models.py with decoders that differ from Llama by norms, windows, rotations, biases, scales and experts:
gemma, gemma2, gemma3, gpt-oss, phi3, mistral3, granite, granitemoe, smollm3, olmo2, olmoe, starcoder2, gpt2, seed_oss, and the text of
qwen3vl and qwen3vlmoe.

Scales, caps, sinks and factors are far from what would change nothing, windows are shorter than the prompt, and layers are as many as it
takes to have each kind twice.
"""
import numpy as np
from gguf import RopeScalingType

from tiny_base import N_CTX, N_VOCAB, f32, pairs_to_halves

# --- the architectures ----------------------------------------------------------------------------------------------
# cls, module: of the framework, and where it lies; text: its config is the text_config of another one
# pairs: files keep the two rows of Q and K that rotate together adjacent; shift: files hold 1 + the framework's gains
# norms: of a layer as wide as the model; qk: norms of Q and K for each head or for all heads at once
# layer_norm: norms subtract the mean and have a bias; fused: Q, K and V are one matrix; ffn: gated, plain (without a gate), joined (gate and
# up are one matrix), experts; head_dim, n_rot, base: the file tells these; positions: learned positions, no rotation
# names: the framework's names where they are not those of HF_NAMES
PLAIN = dict(pairs=False, shift=0, norms=("attn_norm", "ffn_norm"), qk=None, layer_norm=False, fused=False, ffn="gated",
             head_dim=False, n_rot=False, base=True, positions=False, names={})
AROUND = dict(norms=("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"),
              names={"post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
                     "post_ffw_norm": "post_feedforward_layernorm"})
FFN_NORM = dict(norms=("attn_norm", "post_attention_norm"), names={"post_attention_norm": "post_attention_layernorm"})
EXPERTS = {"ffn_gate_inp": "block_sparse_moe.router", "experts": "block_sparse_moe.experts", "ffn_gate_up_shexp": "shared_mlp.input_linear",
           "ffn_down_shexp": "shared_mlp.output_linear"}
LLAMA = dict(pairs=True, n_rot=True)
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
    "starcoder2": dict(cls="Starcoder2ForCausalLM", module="starcoder2", layer_norm=True, ffn="plain",
                       names={"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}),
    "gpt2": dict(cls="GPT2LMHeadModel", module="gpt2", layer_norm=True, ffn="plain", fused=True, positions=True,
                 names={"attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj", "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj",
                        "attn_norm": "ln_1", "ffn_norm": "ln_2"}),
    "seed_oss": dict(FFN_NORM, cls="SeedOssForCausalLM", module="seed_oss", head_dim=True),
    "qwen3vl": dict(cls="Qwen3VLForConditionalGeneration", module="qwen3_vl", head_dim=True, qk="head", text=True),
    "qwen3vlmoe": dict(cls="Qwen3VLMoeForConditionalGeneration", module="qwen3_vl_moe", head_dim=True, qk="head", text=True, ffn="experts"),
}
OTHER_MODULES = ["olmo3", "granitemoeshared"]                 # of classes that a model names itself
MODULES = ["models.%s.modeling_%s" % (m, m) for m in [a["module"] for a in ARCHS.values()] + OTHER_MODULES]
IGNORED = "model.visual."


def arch_of(s):
    return dict(PLAIN, **ARCHS[s["arch"]])


# --- the models -----------------------------------------------------------------------------------------------------
# Beside what tiny_base.BASE tells: config: further arguments of the framework's config; keys: of the file, by their function in GGUFWriter;
# cls: another class than that of the architecture; n_rot: dimensions that rotate; act: standard deviation of what an
# activation gets; down: of the weights after it, times the root of their inputs
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


# --- weights, in the file's names and layout ------------------------------------------------------------------------
def draw(w, s):
    a, D = arch_of(s), s["embd"]
    w.matrix("token_embd", N_VOCAB, D, gain=s["out"] if s["tied"] else np.sqrt(D))
    if a["positions"]:
        w.matrix("position_embd", s["ctx"], D, gain=s["out"])
    for i in range(s["layers"]):
        draw_attention(w, s, a, "blk.%d." % i)
        draw_ffn(w, s, a, "blk.%d." % i)
    norm(w, a, "output_norm", D)
    if not s["tied"]:
        w.matrix("output", N_VOCAB, D, gain=s["out"])
    for name in ("long", "short"):
        if "longrope" == s["rope"].get("rope_type"):
            factors = np.array(s["rope"][name + "_factor"], np.float32)
            w.data["rope_factors_%s.weight" % name], w.value["rope_factors_%s.weight" % name] = (factors, None), factors


def norm(w, a, name, n, mean=1.0):
    w.vector(name + ".weight", n, mean, 0.2 * mean)
    if a["layer_norm"]:
        w.vector(name + ".bias", n, 0.0, 0.3)


def draw_attention(w, s, a, b):
    D, q, kv = s["embd"], s["heads"] * s["hd"], s["kv"] * s["hd"]
    sharp = 1.0 if a["qk"] else s["sharp"]
    for name in a["norms"]:
        norm(w, a, b + name, D)
    if a["fused"]:
        w.matrix(b + "attn_qkv", q + 2 * kv, D, gain=sharp)
    else:
        w.matrix(b + "attn_q", q, D, gain=sharp)
        w.matrix(b + "attn_k", kv, D, gain=sharp)
        w.matrix(b + "attn_v", kv, D)
    w.matrix(b + "attn_output", D, q, gain=1.5)
    if a["qk"]:
        norm(w, a, b + "attn_q_norm", q if a["qk"] == "width" else s["hd"], s["sharp"])
        norm(w, a, b + "attn_k_norm", kv if a["qk"] == "width" else s["hd"], s["sharp"])
    if "attn_sinks" in s["bias"]:
        w.vector(b + "attn_sinks.weight", s["heads"], 1.5, 1.0)


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
    w.matrix(b + "ffn_gate_inp", E, D, gain=1.5, plain=True)
    for name, rows, cols, gain in (("ffn_gate_exps", F, D, s["act"]), ("ffn_up_exps", F, D, s["act"]), ("ffn_down_exps", D, F, s["down"])):
        w.matrix(b + name, E, rows, cols, gain=gain)
    if "shared" in s["moe"]:
        for name, rows, cols in (("ffn_gate_shexp", s["moe"]["shared"], D), ("ffn_up_shexp", s["moe"]["shared"], D), ("ffn_down_shexp", D, s["moe"]["shared"])):
            w.matrix(b + name, rows, cols, gain=1.5)


# --- the same weights, as the framework names them ------------------------------------------------------------------
HF_NAMES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
            "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm", "attn_norm": "input_layernorm",
            "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
            "ffn_gate_inp": "mlp.gate", "experts": "mlp.experts"}
HF_TOP = {"token_embd": "embed_tokens", "output_norm": "norm"}
GPT2_TOP = {"token_embd": "wte", "position_embd": "wpe", "output_norm": "ln_f"}


def hf_state(s, value):
    a, state = arch_of(s), {}
    names = dict(HF_NAMES, **a["names"])
    gpt2 = s["arch"] == "gpt2"
    root = "transformer." if gpt2 else "model.language_model." if a.get("text") else "model."
    layers = root + ("h.%s." if gpt2 else "layers.%s.")
    for name, x in value.items():
        kind, slot = name.split(".")[-1], name.split(".")[-2]
        if a["shift"] and slot.endswith("norm"):
            x = x.astype(np.float64) - a["shift"]
        if a["pairs"] and slot in ("attn_q", "attn_k"):
            x = pairs_to_halves(x, s["heads"] if slot == "attn_q" else s["kv"])
        if gpt2 and x.ndim == 2 and name.startswith("blk."):
            x = x.T                                             # its matrices are [in, out]
        if name == "output.weight":
            state["lm_head.weight"] = x
        elif name.startswith("blk.") and "exp" not in slot and slot != "attn_sinks" and not (slot == "ffn_gate_inp" and s["arch"] == "gpt-oss"):
            state[layers % name.split(".")[1] + names[slot] + "." + kind] = x
        elif slot in (GPT2_TOP if gpt2 else HF_TOP):
            state[root + (GPT2_TOP if gpt2 else HF_TOP)[slot] + "." + kind] = x
    for i in range(s["layers"] if s["moe"] else 0):
        get = lambda slot, kind="weight": value.get("blk.%d.%s.%s" % (i, slot, kind))        # noqa: E731
        state.update({layers % i + n: x for n, x in (gpt_oss_state if s["arch"] == "gpt-oss" else expert_state)(names, get).items()})
    return state


def expert_state(names, get):
    state = {names["experts"] + ".gate_up_proj": np.concatenate([get("ffn_gate_exps"), get("ffn_up_exps")], axis=1),
             names["experts"] + ".down_proj": get("ffn_down_exps")}
    if get("ffn_up_shexp") is not None:
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


ROUTER = (("mlp.gate", "mlp.router", "block_sparse_moe.router"), lambda module, out: out[0])


def hf_class(s):
    return s.get("cls") or ARCHS[s["arch"]]["cls"]


def rounded(x):
    """Floats of a config as the file has them."""
    if isinstance(x, dict):
        return {k: rounded(v) for k, v in x.items()}
    return f32(x) if isinstance(x, float) else [rounded(v) for v in x] if isinstance(x, list) else x


def hf_config(s):
    if s["arch"] == "gpt2":
        return dict(vocab_size=N_VOCAB, n_embd=s["embd"], n_layer=s["layers"], n_head=s["heads"], n_positions=s["ctx"], n_inner=s["ff"],
                    layer_norm_epsilon=s["eps"], bos_token_id=None, eos_token_id=None, activation_function="gelu_new")
    rope = s["rope"] if "full_attention" in s["rope"] else dict({"rope_type": "default", "rope_theta": s["theta"]}, **s["rope"])
    c = dict(vocab_size=N_VOCAB, hidden_size=s["embd"], num_hidden_layers=s["layers"], num_attention_heads=s["heads"],
             num_key_value_heads=s["kv"], head_dim=s["hd"], intermediate_size=s["ff"], max_position_embeddings=s["ctx"],
             rope_parameters=rope, tie_word_embeddings=s["tied"], bos_token_id=None, eos_token_id=None, pad_token_id=None)
    c["norm_epsilon" if arch_of(s)["layer_norm"] else "rms_norm_eps"] = s["eps"]
    if s["moe"]:
        m = s["moe"]
        c.update(num_experts_per_tok=m["used"], num_local_experts=m["experts"], intermediate_size=m["ff"])
        if s["arch"] in ("olmoe", "qwen3vlmoe"):
            c.update(num_experts=c.pop("num_local_experts"), moe_intermediate_size=m["ff"])
        if "shared" in m:
            c.update(shared_intermediate_size=m["shared"])
    if s["rope"].get("rope_type") == "longrope":
        c.update(original_max_position_embeddings=s["rope"]["original_max_position_embeddings"])
    c = rounded(dict(c, **s["config"]))
    if arch_of(s).get("text"):
        eye = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=s["embd"], num_position_embeddings=4,
                   deepstack_visual_indexes=[0])
        return dict(text_config=c, vision_config=eye, tie_word_embeddings=s["tied"])
    return c


# --- the file -------------------------------------------------------------------------------------------------------
def write_keys(g, s):
    a, m = arch_of(s), s["moe"]
    g.add_block_count(s["layers"])
    g.add_context_length(s["ctx"])
    g.add_embedding_length(s["embd"])
    g.add_feed_forward_length(m["ff"] if m else s["ff"])
    g.add_head_count(s["heads"])
    if not a["positions"]:
        g.add_head_count_kv(s["kv"])
    if a["base"] and not a["positions"]:
        g.add_rope_freq_base(s["theta"])
    if a["pairs"]:
        g.add_vocab_size(N_VOCAB)
    (g.add_layer_norm_eps if a["layer_norm"] else g.add_layer_norm_rms_eps)(s["eps"])
    if a["head_dim"]:
        g.add_key_length(s["hd"])
        g.add_value_length(s["hd"])
    if a["n_rot"]:
        g.add_rope_dimension_count(s.get("n_rot", s["hd"]))
    if m:
        g.add_expert_count(m["experts"])
        g.add_expert_used_count(m["used"])
        if s["arch"] in ("gpt-oss", "qwen3vlmoe"):
            g.add_expert_feed_forward_length(m["ff"])
        if "shared" in m:
            g.add_expert_shared_feed_forward_length(m["shared"])
    add_scaling_keys(g, s)
    for name, value in s["keys"].items():
        getattr(g, "add_" + name)(value)


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


def hub_config(s):
    a = arch_of(s)
    if s["arch"] == "qwen3vlmoe" or s["name"] == "phi3_short":      # experts lie otherwise in older checkpoints; a factor that no config gives
        return None
    c = {} if a["head_dim"] else dict(head_dim=None)
    if "full_attention" in s["rope"] and s["arch"] == "olmo2":
        c.update(rope_parameters=s["rope"]["full_attention"])
    return dict(c, n_ctx=s["ctx"]) if s["arch"] == "gpt2" else c
