"""The family of tests/gen/tiny_models.py with latent attention (MLA): deepseek2, mistral4, minicpm3, plm, and kimi-linear, whose other
layers are delta nets with a decay for each channel.

A head's query, its part of the latent values, its output and the two ranks all have sizes of their own, none of them a multiple of 32 where
weights are floats, so that nothing stands for something else. Layers of experts lie behind a dense one.
"""
import sys

import numpy as np
from gguf import ExpertGatingFuncType

from tiny_base import N_VOCAB, f32
from tiny_decoders import CALM, add_scaling_keys, draw_ahead, draw_experts, rounded
from tiny_recurrent import float_types

# cls, module: of the framework; cls None: it has no such class. whole: files hold keys' and values' matrices of all heads as one (attn_kv_b),
# without keys of their own for the sizes of heads; ffn: gated, or plain (without a gate); joined: gate and up of experts are one tensor
ARCHS = {
    "deepseek2": dict(cls="DeepseekV3ForCausalLM", module="deepseek_v3", whole=False, ffn="gated", joined=False),
    "deepseek32": dict(cls="DeepseekV32ForCausalLM", module="deepseek_v32", whole=False, ffn="gated", joined=False),
    "glm-dsa": dict(cls="GlmMoeDsaForCausalLM", module="glm_moe_dsa", whole=False, ffn="gated", joined=False),
    "mistral4": dict(cls="Mistral4ForCausalLM", module="mistral4", whole=False, ffn="gated", joined=True),
    "minicpm3": dict(cls="MiniCPM3ForCausalLM", module="minicpm3", whole=True, ffn="gated", joined=False),
    "plm": dict(cls=None, whole=True, ffn="plain", joined=False),
    "kimi-linear": dict(cls="KimiLinearForCausalLM", module="kimi_linear", whole=False, ffn="gated", joined=False),
}
OTHER_MODULES = ["deepseek_v2", "glm4_moe_lite"]               # of classes that a model names itself
MODULES = ["models.%s.modeling_%s" % (m, m) for m in [a["module"] for a in ARCHS.values() if "module" in a] + OTHER_MODULES]

# --- the models -----------------------------------------------------------------------------------------------------
# Beside what tiny_base.BASE tells: nope, rot: values of a head's query that stay, that rotate; rank, q_rank: of keys and values, of queries
# (0: one matrix); v: values of a head's output; dense, ahead, config, keys, act, down: as in tiny_decoders
LATENT = dict(config={}, keys={}, act=1.5, down=2.0, embd=16, heads=4, kv=1, hd=12, ff=32, layers=2, dense=1, eps=1e-6,
              nope=12, rot=4, rank=20, q_rank=10, v=6)
# kinds: a letter for each layer, L latent attention, K delta net; dk, taps: values of its heads, taps of its convolutions. eps: as in tiny_recurrent
KIMI = dict(LATENT, arch="kimi-linear", type=float_types, metric="nmse", q_rank=0, tied=False, dk=6, taps=4, eps=2e-3,
            moe=dict(experts=5, used=2, ff=8, shared=8, choice=0.3),
            config=dict(n_group=1, topk_group=1, routed_scaling_factor=1.7, norm_topk_prob=True),
            keys=dict(expert_gating_func=ExpertGatingFuncType.SIGMOID, expert_weights_scale=1.7, expert_shared_count=1))
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64, rope_theta=10000.0)
SIGMOID = dict(expert_gating_func=ExpertGatingFuncType.SIGMOID)
LONG = [1.0, 1.7, 3.0], [1.0, 1.2, 1.5]
MODELS = {
    "deepseek2": dict(LATENT, arch="deepseek2", cls="DeepseekV2ForCausalLM", q_rank=0, tied=False, moe=dict(experts=6, used=3, ff=16, shared=32),
                      rope=dict(YARN, mscale=0.707, mscale_all_dim=0.707),
                      config=dict(topk_method="greedy", routed_scaling_factor=1.7, norm_topk_prob=False),
                      keys=dict(expert_weights_scale=1.7, expert_shared_count=2, rope_scaling_yarn_log_mul=0.1 * 0.707)),
    "deepseek2_old": dict(LATENT, arch="deepseek2", cls="DeepseekV2ForCausalLM", whole=True, dense=0, moe=dict(experts=12, used=3, ff=8, shared=8),
                          config=dict(topk_method="group_limited_greedy", n_group=3, topk_group=1, routed_scaling_factor=1.7, norm_topk_prob=False),
                          keys=dict(expert_weights_scale=1.7, expert_shared_count=1, expert_group_count=3, expert_group_used_count=1)),
    "deepseek2_v3": dict(LATENT, arch="deepseek2", ahead=1, tied=False, greedy=True, moe=dict(experts=12, used=3, ff=8, shared=8, choice=0.3),
                         rope=dict(YARN, mscale=1.0, mscale_all_dim=1.0),
                         config=dict(n_group=4, topk_group=2, routed_scaling_factor=1.7, norm_topk_prob=True),
                         keys=dict(SIGMOID, expert_weights_scale=1.7, expert_weights_norm=True, expert_shared_count=1, expert_group_count=4,
                                   expert_group_used_count=2, rope_scaling_yarn_log_mul=0.1, nextn_predict_layers=1, block_count=3)),
    "deepseek2_glm": dict(LATENT, arch="deepseek2", cls="Glm4MoeLiteForCausalLM", layers=4, heads=3, theta=1000000.0,
                          moe=dict(experts=4, used=2, ff=8, shared=8, choice=0.3),
                          config=dict(n_group=1, topk_group=1, routed_scaling_factor=1.8, norm_topk_prob=True),
                          keys=dict(expert_weights_scale=1.8, expert_weights_norm=True, expert_shared_count=1, expert_group_count=1,
                                    expert_group_used_count=1)),
    "deepseek2_q8_0": dict(LATENT, **CALM, arch="deepseek2", whole=True, embd=64, heads=2, ff=64, nope=32, rot=16, rank=64, q_rank=32, v=32,
                           type="Q8_0", n=48, step=5, moe=dict(experts=4, used=2, ff=32, shared=32, choice=1.0),
                           config=dict(n_group=1, topk_group=1, routed_scaling_factor=1.7, norm_topk_prob=True),
                           keys=dict(SIGMOID, expert_weights_scale=1.7, expert_weights_norm=True, expert_shared_count=1)),
    # index: heads of the indexer, their size, positions that it chooses; types: layers with an indexer of their own, where not all have one
    "deepseek32": dict(LATENT, arch="deepseek32", tied=False, index=(4, 6, 11), rope=dict(YARN, mscale=1.0, mscale_all_dim=1.0),
                       moe=dict(experts=12, used=3, ff=8, shared=8, choice=0.3),
                       config=dict(n_group=4, topk_group=2, routed_scaling_factor=1.7, norm_topk_prob=True),
                       keys=dict(SIGMOID, expert_weights_scale=1.7, expert_weights_norm=True, expert_shared_count=1, expert_group_count=4,
                                 expert_group_used_count=2, rope_scaling_yarn_log_mul=0.1)),
    "glm-dsa": dict(LATENT, arch="glm-dsa", tied=False, layers=3, heads=3, theta=1000000.0, index=(4, 8, 7), types=[True, False, True],
                    moe=dict(experts=6, used=2, ff=8, shared=8, choice=0.3),
                    config=dict(n_group=1, topk_group=1, routed_scaling_factor=1.8, norm_topk_prob=True),
                    keys=dict(SIGMOID, expert_weights_scale=1.8, expert_weights_norm=True, expert_shared_count=1)),
    "mistral4": dict(LATENT, arch="mistral4", dense=0, tied=False, moe=dict(experts=6, used=3, ff=16, shared=16),
                     rope=dict(YARN, factor=8.0, original_max_position_embeddings=20, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.4),
                     config=dict(n_group=1, topk_group=1, norm_topk_prob=True),
                     keys=dict(expert_weights_scale=1.0, expert_weights_norm=True, expert_shared_count=1, expert_group_count=1,
                               expert_group_used_count=1, rope_scaling_yarn_log_mul=0.1, attn_temperature_scale=0.4,
                               attn_temperature_length=20)),
    "minicpm3": dict(LATENT, arch="minicpm3", out=0.2, rot=6, v=4, moe=None,
                     rope=dict(rope_type="longrope", long_factor=LONG[0], short_factor=LONG[1], original_max_position_embeddings=256, attention_factor=1.0)),
    "plm": dict(LATENT, arch="plm", q_rank=0, moe=None),
    "kimi-linear": dict(KIMI, kinds="KLK", layers=3, greedy=True),
    "kimi-linear_whole": dict(KIMI, kinds="LK", whole=True, dense=0, dk=9, taps=3, heads=3),
}


def arch_of(s):
    return dict(ARCHS[s["arch"]], **({"whole": s["whole"]} if "whole" in s else {}))


# --- weights, in the file's names and layout ------------------------------------------------------------------------
def draw(w, s):
    D = s["embd"]
    w.matrix("token_embd", N_VOCAB, D, gain=s["out"] if s["tied"] else np.sqrt(D))
    for i in range(s["layers"] + s.get("ahead", 0)):
        draw_layer(w, s, "blk.%d." % i, s["moe"] and i >= s["dense"])
    if s.get("ahead"):
        draw_ahead(w, s, dict(layer_norm=False), "blk.%d." % s["layers"])
    gain(w, "output_norm", D)
    if not s["tied"]:
        w.matrix("output", N_VOCAB, D, gain=s["out"])
    for name, factors in zip(("long", "short"), LONG if s["arch"] == "minicpm3" else ()):
        v = np.array(factors, np.float32)
        w.data["rope_factors_%s.weight" % name], w.value["rope_factors_%s.weight" % name] = (v, None), v


def gain(w, name, n, mean=1.0):
    w.vector(name + ".weight", n, mean, 0.2 * mean)


def is_delta(s, b):
    return s.get("kinds", "")[int(b.split(".")[1]):][:1] == "K"


def draw_delta(w, s, b):
    D, H, d = s["embd"], s["heads"], s["dk"]
    for name in "qkv":
        w.matrix(b + "attn_" + name, H * d, D, gain=1.3)
        w.vector(b + "ssm_conv1d_%s.weight" % name, (1, H * d, 1, s["taps"]), 0.0, 1.5 / np.sqrt(s["taps"]))
    for name in "fg":
        w.matrix(b + "ssm_%s_a" % name, d, D, gain=1.5)
        w.matrix(b + "ssm_%s_b" % name, H * d, d, gain=1.5)
    w.matrix(b + "ssm_beta", H, D)
    w.vector(b + "ssm_dt.bias", H * d, -0.5, 1.0)
    w.fixed(b + "ssm_a", -np.exp(w.rng.uniform(np.log(0.02), np.log(2.0), (H, 1))).astype(np.float32))
    gain(w, b + "ssm_norm", d)
    w.matrix(b + "attn_output", D, H * d, gain=1.5)


def draw_layer(w, s, b, experts):
    gain(w, b + "attn_norm", s["embd"])
    gain(w, b + "ffn_norm", s["embd"])
    (draw_delta if is_delta(s, b) else draw_attention)(w, s, b)
    draw_feed(w, s, b, experts)


def draw_attention(w, s, b):
    D, H, a = s["embd"], s["heads"], arch_of(s)
    if s["q_rank"]:
        w.matrix(b + "attn_q_a", s["q_rank"], D)
        gain(w, b + "attn_q_a_norm", s["q_rank"], s["sharp"])
    w.matrix(b + ("attn_q_b" if s["q_rank"] else "attn_q"), H * (s["nope"] + s["rot"]), s["q_rank"] or D, gain=1.0 if s["q_rank"] else s["sharp"])
    w.matrix(b + "attn_kv_a_mqa", s["rank"] + s["rot"], D, gain=s["sharp"])
    gain(w, b + "attn_kv_a_norm", s["rank"], s["sharp"])
    if a["whole"]:
        w.matrix(b + "attn_kv_b", H * (s["nope"] + s["v"]), s["rank"])
    else:
        w.matrix(b + "attn_k_b", H, s["rank"], s["nope"], gain=np.sqrt(s["nope"] / s["rank"]))
        w.matrix(b + "attn_v_b", H, s["v"], s["rank"])
    w.matrix(b + "attn_output", D, H * s["v"], gain=1.5)
    if "index" in s and s.get("types", [True] * 9)[int(b.split(".")[1])]:
        n, size, _ = s["index"]
        w.matrix(b + "indexer.attn_q_b", n * size, s["q_rank"])
        w.matrix(b + "indexer.attn_k", size, D)
        w.matrix(b + "indexer.proj", n, D)
        w.vector(b + "indexer.k_norm.weight", size, 1.0, 0.2)
        w.vector(b + "indexer.k_norm.bias", size, 0.0, 0.2)


def draw_feed(w, s, b, experts):
    D, a = s["embd"], arch_of(s)
    if experts:
        draw_experts(w, s, b)
        if a["joined"]:
            join_gate_up(w, b)
        return
    if a["ffn"] == "gated":
        w.matrix(b + "ffn_gate", s["ff"], D, gain=s["act"])
    w.matrix(b + "ffn_up", s["ff"], D, gain=s["act"])
    w.matrix(b + "ffn_down", D, s["ff"], gain=1.5)


def join_gate_up(w, b):
    """Both parts are floats."""
    parts = [w.value.pop(b + "ffn_%s_exps.weight" % n) for n in ("gate", "up")]
    for n in ("gate", "up"):
        w.data.pop(b + "ffn_%s_exps.weight" % n)
    v = np.concatenate(parts, axis=1)
    w.data[b + "ffn_gate_up_exps.weight"], w.value[b + "ffn_gate_up_exps.weight"] = (v, None), v


# --- the same weights, as the framework names them ------------------------------------------------------------------
NAMES = {"attn_q": "self_attn.q_proj", "attn_q_a": "self_attn.q_a_proj", "attn_q_a_norm": "self_attn.q_a_layernorm", "attn_q_b": "self_attn.q_b_proj",
         "attn_kv_a_mqa": "self_attn.kv_a_proj_with_mqa", "attn_kv_a_norm": "self_attn.kv_a_layernorm", "attn_kv_b": "self_attn.kv_b_proj",
         "attn_output": "self_attn.o_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
         "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "ffn_gate_inp": "mlp.gate", "ffn_gate_shexp": "mlp.shared_experts.gate_proj",
         "ffn_up_shexp": "mlp.shared_experts.up_proj", "ffn_down_shexp": "mlp.shared_experts.down_proj"}


DELTA_NAMES = {"attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "ssm_f_a": "self_attn.forget_gate.f_a_proj",
               "ssm_f_b": "self_attn.forget_gate.f_b_proj", "ssm_g_a": "self_attn.g_a_proj", "ssm_g_b": "self_attn.g_b_proj",
               "ssm_beta": "self_attn.b_proj", "ssm_norm": "self_attn.o_norm"}
INDEXER = {"attn_q_b": "wq_b", "attn_k": "wk", "proj": "weights_proj", "k_norm": "k_norm"}


def hf_state(s, value):
    state = {"model.embed_tokens.weight": value["token_embd.weight"], "model.norm.weight": value["output_norm.weight"]}
    if not s["tied"]:
        state["lm_head.weight"] = value["output.weight"]
    for name, x in value.items():
        part = name.split(".")
        if part[0] == "blk" and int(part[1]) < s["layers"] and part[2] in NAMES | (DELTA_NAMES if is_delta(s, name) else {}):
            state["model.layers.%s.%s.weight" % (part[1], (NAMES | DELTA_NAMES)[part[2]])] = x
        if part[2:3] == ["indexer"]:
            state["model.layers.%s.self_attn.indexer.%s.%s" % (part[1], INDEXER[part[3]], part[4])] = x
    for i in range(s["layers"]):
        b, to = "blk.%d." % i, "model.layers.%d." % i
        if is_delta(s, b):
            taps = np.concatenate([value[b + "ssm_conv1d_%s.weight" % n][0] for n in "qkv"])
            state[to + "self_attn.conv1d.weight"] = taps
            state[to + "self_attn.forget_gate.dt_bias"] = value[b + "ssm_dt.bias"]
            state[to + "self_attn.forget_gate.A_log"] = np.log(-np.asarray(value[b + "ssm_a"], np.float64)).reshape(1, 1, -1, 1)
        if b + "attn_k_b.weight" in value:
            whole = np.concatenate([value[b + "attn_k_b.weight"].swapaxes(1, 2), value[b + "attn_v_b.weight"]], axis=1)
            state[to + "self_attn.kv_b_proj.weight"] = whole.reshape(-1, s["rank"])
        if b + "exp_probs_b.bias" in value:
            state[to + "mlp.gate.e_score_correction_bias"] = value[b + "exp_probs_b.bias"]
        if b + "ffn_down_exps.weight" in value:
            parts = [value[b + "ffn_%s_exps.weight" % n] for n in ("gate", "up") if b + "ffn_%s_exps.weight" % n in value]
            state[to + "mlp.experts.gate_up_proj"] = np.concatenate(parts, axis=1) if parts else value[b + "ffn_gate_up_exps.weight"]
            state[to + "mlp.experts.down_proj"] = value[b + "ffn_down_exps.weight"]
    return state


ROUTER = ("mlp.gate", lambda module, out: decided(module, out[0]))


def decided(module, logits):
    """[n, E] whose distance between the last chosen and the next one is that of the experts, or of the groups where that is less."""
    import torch
    bias = getattr(module, "e_score_correction_bias", None)
    scores = logits.softmax(-1) if bias is None else logits.sigmoid() + bias
    groups = 1 if getattr(module, "topk_method", "") == "greedy" else module.num_group
    chosen, gaps = scores, []
    if groups > 1:
        each = scores.view(len(scores), groups, -1)
        of = each.max(-1).values if getattr(module, "topk_method", "") else each.topk(2, -1)[0].sum(-1)
        top = of.sort(-1, descending=True)[0]
        gaps.append(top[:, module.topk_group - 1] - top[:, module.topk_group])
        least = top[:, module.topk_group - 1].unsqueeze(-1)
        chosen = torch.where(of < least, -1e9, 0.0).repeat_interleave(scores.shape[1] // groups, -1) + scores
    top = chosen.sort(-1, descending=True)[0]
    gaps.append(top[:, module.top_k - 1] - top[:, module.top_k])
    gap = torch.stack(gaps).min(0)[0].unsqueeze(-1)
    return gap * (torch.arange(scores.shape[1]) < module.top_k)


def hf_class(s):
    return s["cls"] if "cls" in s else ARCHS[s["arch"]]["cls"]


def hf_config(s):
    m = s["moe"] or {}
    rope = dict({"rope_type": "default", "rope_theta": s["theta"]}, **s["rope"])
    c = dict(vocab_size=N_VOCAB, hidden_size=s["embd"], num_hidden_layers=s["layers"], num_attention_heads=s["heads"], num_key_value_heads=s["heads"],
             intermediate_size=s["ff"], max_position_embeddings=s["ctx"], rope_parameters=rope, tie_word_embeddings=s["tied"],
             rms_norm_eps=s["eps"], kv_lora_rank=s["rank"], q_lora_rank=s["q_rank"] or None, qk_nope_head_dim=s["nope"],
             qk_rope_head_dim=s["rot"], v_head_dim=s["v"], bos_token_id=None, eos_token_id=None, pad_token_id=None)
    if m:
        c.update(n_routed_experts=m["experts"], num_experts_per_tok=m["used"], moe_intermediate_size=m["ff"],
                 n_shared_experts=m["shared"] // m["ff"], first_k_dense_replace=s["dense"])
    if "kinds" in s:
        for name, old in (("num_experts", "n_routed_experts"), ("num_shared_experts", "n_shared_experts")):
            c[name] = c.pop(old)
        del c["rope_parameters"], c["first_k_dense_replace"]
        c.update(layer_types=["linear_attention" if k == "K" else "full_attention" for k in s["kinds"]], linear_head_dim=s["dk"],
                 mlp_layer_types=["dense" if i < s["dense"] else "sparse" for i in range(s["layers"])], linear_num_heads=s["heads"],
                 linear_conv_kernel_dim=s["taps"])
    if "index" in s:
        c.update(index_n_heads=s["index"][0], index_head_dim=s["index"][1], index_topk=s["index"][2])
    if "types" in s:
        c["indexer_types"] = ["full" if own else "shared" for own in s["types"]]
    return rounded(dict(c, **s["config"]))


def check(s, value, oracle):
    """kimi-linear: the norm of latent values has the epsilon of the others, as in llama.cpp; the chunked form of the delta rule, which the framework
    runs, gives what the rule itself gives: the golden values are those of the rule."""
    if "kinds" not in s:
        return
    for name, block in oracle.model.named_modules():
        if name.endswith("kv_a_layernorm"):
            block.variance_epsilon = s["eps"]
    mod, ids = sys.modules[type(oracle.model).__module__], list(range(150))
    chunked, mod.chunk_kimi_delta_attention = oracle.logits(ids), mod.recurrent_kimi_delta_attention
    assert np.allclose(chunked, oracle.logits(ids), rtol=0, atol=1e-11)


# --- the file -------------------------------------------------------------------------------------------------------
def write_keys(g, s):
    m, whole, key = s["moe"], arch_of(s)["whole"], s["nope"] + s["rot"]
    if "block_count" not in s["keys"]:
        g.add_block_count(s["layers"])
    g.add_context_length(s["ctx"])
    g.add_embedding_length(s["embd"])
    g.add_feed_forward_length(s["ff"])
    g.add_head_count(s["heads"])
    kv = s["heads"] if whole else 1
    g.add_head_count_kv([kv * (k == "L") for k in s["kinds"]] if "kinds" in s else kv)
    if "kinds" in s:
        g.add_ssm_conv_kernel(s["taps"])
        g.add_kda_head_dim(s["dk"])
    g.add_rope_freq_base(s["theta"])
    g.add_vocab_size(N_VOCAB)
    g.add_layer_norm_rms_eps(s["eps"])
    if s["q_rank"]:
        g.add_q_lora_rank(s["q_rank"])
    g.add_kv_lora_rank(s["rank"])
    apart = not whole or "kinds" in s
    g.add_key_length(s["rank"] + s["rot"] if apart else key)
    if s["arch"] != "minicpm3":                                 # its heads' outputs are together as wide as the model
        g.add_value_length(s["rank"] if apart else s["v"])
    if apart:
        g.add_key_length_mla(key)
        g.add_value_length_mla(s["v"])
    g.add_rope_dimension_count(s["rot"])
    for name, value in zip(("head_count", "key_length", "top_k"), s.get("index", ())):
        g.add_uint32("%s.attention.indexer.%s" % (s["arch"], name), value)
    if "types" in s:
        g.add_array("%s.attention.indexer.types" % s["arch"], s["types"])
    if m:
        g.add_leading_dense_block_count(s["dense"])
        g.add_expert_count(m["experts"])
        g.add_expert_used_count(m["used"])
        g.add_expert_feed_forward_length(m["ff"])
    add_scaling_keys(g, s)
    for name, value in s["keys"].items():
        getattr(g, "add_" + name)(f32(value) if isinstance(value, float) else value)


def hub_config(s):
    if not hf_class(s) or "whole" in s or "kinds" in s or s.get("ahead") or s["arch"] == "mistral4":        # its checkpoints are of a model that sees images
        return None
    return {}
