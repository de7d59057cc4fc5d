"""The family of tests/gen/tiny_models.py with attention to groups of positions and with hyper-connections: deepseek4.

One layer has the window alone, one groups that overlap and an indexer, one groups of other lengths; the experts of the first layer are those
that a table has for a token. llama.cpp reads groups of 4 and of 128 positions alone, transformers those that its config has.
"""
import numpy as np

from tiny_base import N_VOCAB, f32
from tiny_decoders import add_scaling_keys, draw_experts, rounded
from tiny_recurrent import MOE32, Q8_0

MODULES = ["models.deepseek_v4.modeling_deepseek_v4"]

# rot: values of a head that rotate; q_rank: between the two matrices of queries; groups, o_rank: of outputs; pools: positions of a group in each
# layer, 0: none; listed: layers that choose experts by the token; hyper: streams, normalisations, what is added in them;
# index: heads of the indexer, their size, groups that it chooses; cut: of gates and ups; base: of RoPE where there are groups; quick: see tiny_streams
POOLED = dict(arch="deepseek4", quick=True, tied=False, embd=16, heads=4, kv=1, hd=16, layers=4, eps=1e-6, rot=4, q_rank=10, groups=2, o_rank=6,
              window=24, pools=[0, 4, 16, 4], listed=1, hyper=(4, 5, 1e-6), index=(8, 8, 7), cut=1.5, base=40000.0, act=1.5, down=2.0,
              rope=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64),
              moe=dict(experts=6, used=2, ff=8, shared=8, choice=0.3), scale=1.7)
MODELS = {
    "deepseek4": dict(POOLED, greedy=True),
    "deepseek4_odd": dict(POOLED, layers=3, hd=12, heads=6, groups=3, rot=6, window=9, pools=[12, 4, 0], listed=0, hyper=(2, 2, 2e-2), index=(6, 10, 11), rope={}),
    "deepseek4_q8_0": dict(POOLED | Q8_0 | dict(out=0.7), moe=dict(MOE32, shared=32, choice=0.3), layers=2, n=48, step=5, embd=32, heads=2, hd=32, rot=8, q_rank=32,
                           o_rank=32, pools=[4, 8], hyper=(3, 4, 1e-6), index=(6, 32, 9)),
}


# --- weights, in the file's names and layout ------------------------------------------------------------------------
def gain(w, name, n, mean=1.0):
    w.vector(name + ".weight", n, mean, 0.2 * mean)


def draw_hyper(w, name, rows, n, scales):
    w.matrix(name + "_fn", rows, n, gain=1.5, plain=True)
    w.vector(name + "_base.weight", rows, 0.0, 0.7)
    w.fixed(name + "_scale.weight", np.linspace(0.8, 1.2, scales).astype(np.float32))


def draw_pool(w, name, size, wide, n, D):
    w.matrix(name + "_kv", wide, D, gain=1.5)
    w.matrix(name + "_gate", wide, D, gain=1.5)
    w.vector(name + "_ape.weight", (size, wide), 0.0, 0.7)
    gain(w, name + "_norm", n)


def draw(w, s):
    D, (A, _, _) = s["embd"], s["hyper"]
    w.matrix("token_embd", N_VOCAB, D, gain=np.sqrt(D))
    for i in range(s["layers"]):
        draw_layer(w, s, i)
    draw_hyper(w, "output_hc", A, A * D, 1)
    gain(w, "output_norm", D)
    w.matrix("output", N_VOCAB, D, gain=s["out"])


def draw_layer(w, s, i):
    b, D, H, hd, size, (A, _, _) = "blk.%d." % i, s["embd"], s["heads"], s["hd"], s["pools"][i], s["hyper"]
    gain(w, b + "attn_norm", D)
    w.vector(b + "attn_sinks.weight", H, 0.0, 1.0)
    w.matrix(b + "attn_q_a", s["q_rank"], D)
    gain(w, b + "attn_q_a_norm", s["q_rank"])
    w.matrix(b + "attn_q_b", H * hd, s["q_rank"])
    w.matrix(b + "attn_kv", hd, D)
    gain(w, b + "attn_kv_a_norm", hd, s["sharp"] ** 2)
    w.matrix(b + "attn_output_a", s["groups"] * s["o_rank"], H * hd // s["groups"])
    w.matrix(b + "attn_output_b", D, s["groups"] * s["o_rank"], gain=1.5)
    for name in ("attn", "ffn"):
        draw_hyper(w, b + "hc_" + name, (2 + A) * A, A * D, 3)
    if size:
        draw_pool(w, b + "attn_compressor", size, hd * (1 + (size == 4)), hd, D)
    if size == 4:
        n, each, _ = s["index"]
        w.matrix(b + "indexer.proj", n, D)
        w.matrix(b + "indexer.attn_q_b", n * each, s["q_rank"])
        draw_pool(w, b + "indexer_compressor", size, 2 * each, each, D)
    gain(w, b + "ffn_norm", D)
    draw_experts(w, s, b)
    if i < s["listed"]:
        m = s["moe"]
        del w.data[b + "exp_probs_b.bias"], w.value[b + "exp_probs_b.bias"]
        w.fixed(b + "ffn_gate_tid2eid.weight", np.stack([w.rng.permutation(m["experts"])[:m["used"]] for _ in range(N_VOCAB)]).astype(np.int32))


# --- the same weights, as the framework names them ------------------------------------------------------------------
NAMES = {"attn_norm": "input_layernorm.weight", "attn_sinks": "self_attn.sinks", "attn_q_a": "self_attn.q_a_proj.weight",
         "attn_q_a_norm": "self_attn.q_a_norm.weight", "attn_q_b": "self_attn.q_b_proj.weight", "attn_kv": "self_attn.kv_proj.weight",
         "attn_kv_a_norm": "self_attn.kv_norm.weight", "attn_output_a": "self_attn.o_a_proj.weight", "attn_output_b": "self_attn.o_b_proj.weight",
         "ffn_norm": "post_attention_layernorm.weight", "ffn_gate_inp": "mlp.gate.weight", "ffn_gate_tid2eid": "mlp.gate.tid2eid",
         "exp_probs_b": "mlp.gate.e_score_correction_bias", "ffn_down_exps": "mlp.experts.down_proj",
         "ffn_gate_shexp": "mlp.shared_experts.gate_proj.weight", "ffn_up_shexp": "mlp.shared_experts.up_proj.weight",
         "ffn_down_shexp": "mlp.shared_experts.down_proj.weight", "indexer.proj": "self_attn.compressor.indexer.scorer.weights_proj.weight",
         "indexer.attn_q_b": "self_attn.compressor.indexer.q_b_proj.weight"}
for _name, _to in (("attn_compressor", "self_attn.compressor."), ("indexer_compressor", "self_attn.compressor.indexer.")):
    NAMES.update({_name + "_kv": _to + "kv_proj.weight", _name + "_gate": _to + "gate_proj.weight", _name + "_ape": _to + "position_bias",
                  _name + "_norm": _to + "kv_norm.weight"})
for _name in ("attn", "ffn"):
    NAMES.update({"hc_%s_%s" % (_name, part): "%s_hc.%s" % (_name, part) for part in ("fn", "base", "scale")})
TOP = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight", "output.weight": "lm_head.weight",
       "output_hc_fn.weight": "model.hc_head.hc_fn", "output_hc_base.weight": "model.hc_head.hc_base", "output_hc_scale.weight": "model.hc_head.hc_scale"}


def hf_state(s, value):
    state = {}
    for name, x in value.items():
        if name in TOP:
            state[TOP[name]] = x
            continue
        _, layer, rest = name.split(".", 2)
        rest = rest.rsplit(".", 1)[0]
        if rest in NAMES:
            state["model.layers.%s.%s" % (layer, NAMES[rest])] = x
    for i in range(s["layers"]):
        parts = [value["blk.%d.ffn_%s_exps.weight" % (i, n)] for n in ("gate", "up")]
        state["model.layers.%d.mlp.experts.gate_up_proj" % i] = np.concatenate(parts, axis=1)
    return state


def decided(module, logits):
    import torch
    if hasattr(module, "tid2eid"):
        return torch.arange(logits.shape[1]).double().expand(logits.shape)
    return torch.nn.functional.softplus(logits).sqrt() + module.e_score_correction_bias


ROUTER = ("mlp.gate", lambda module, out: decided(module, out[0]))


def hf_class(s):
    return "DeepseekV4ForCausalLM"


def hf_config(s):
    m, (A, turns, eps), (n, each, top) = s["moe"], s["hyper"], s["index"]
    kinds = {0: "sliding_attention", 4: "compressed_sparse_attention"}
    part = s["rot"] / s["hd"]
    rope = dict(main=dict(rope_type="default", rope_theta=s["theta"], partial_rotary_factor=part),
                compress=dict(dict(s["rope"], attention_factor=1.0) if s["rope"] else dict(rope_type="default"), rope_theta=s["base"],
                              partial_rotary_factor=part))
    return rounded(dict(
        vocab_size=N_VOCAB, hidden_size=s["embd"], moe_intermediate_size=m["ff"], num_hidden_layers=s["layers"], num_attention_heads=s["heads"],
        num_key_value_heads=1, head_dim=s["hd"], q_lora_rank=s["q_rank"], num_experts_per_tok=m["used"], n_routed_experts=m["experts"],
        n_shared_experts=1, routed_scaling_factor=s["scale"], max_position_embeddings=s["ctx"], rope_theta=s["theta"],
        layer_types=[kinds.get(p, "heavily_compressed_attention") for p in s["pools"]], compress_rope_theta=s["base"],
        compress_rates={"compressed_sparse_attention": 4, "heavily_compressed_attention": max(s["pools"])}, hc_mult=A, hc_sinkhorn_iters=turns, hc_eps=eps,
        mlp_layer_types=["hash_moe" if i < s["listed"] else "moe" for i in range(s["layers"])], swiglu_limit=s["cut"], sliding_window=s["window"],
        o_groups=s["groups"], o_lora_rank=s["o_rank"], index_n_heads=n, index_head_dim=each, index_topk=top, rms_norm_eps=s["eps"],
        tie_word_embeddings=False, rope_parameters=rope, bos_token_id=None, eos_token_id=None, pad_token_id=None)) | {"partial_rotary_factor": part}


# --- the file -------------------------------------------------------------------------------------------------------
def write_keys(g, s):
    m, key, (A, turns, eps) = s["moe"], s["arch"] + ".", s["hyper"]
    g.add_block_count(s["layers"])
    g.add_context_length(s["ctx"])
    g.add_embedding_length(s["embd"])
    g.add_head_count(s["heads"])
    g.add_head_count_kv(1)
    g.add_key_length(s["hd"])
    g.add_value_length(s["hd"])
    g.add_q_lora_rank(s["q_rank"])
    g.add_sliding_window(s["window"])
    g.add_rope_dimension_count(s["rot"])
    g.add_rope_freq_base(s["theta"])
    g.add_vocab_size(N_VOCAB)
    g.add_layer_norm_rms_eps(s["eps"])
    add_scaling_keys(g, s)
    g.add_expert_count(m["experts"])
    g.add_expert_used_count(m["used"])
    g.add_expert_feed_forward_length(m["ff"])
    g.add_expert_shared_count(1)
    g.add_expert_weights_scale(f32(s["scale"]))
    g.add_expert_weights_norm(True)
    g.add_uint32(key + "expert_gating_func", 4)
    for name in ("exp", "shexp"):
        g.add_array(key + "swiglu_clamp_" + name, [float(s["cut"])] * s["layers"])
    for name, value in zip(("head_count", "key_length", "top_k"), s["index"]):
        g.add_uint32(key + "attention.indexer." + name, value)
    g.add_uint32(key + "attention.output_group_count", s["groups"])
    g.add_uint32(key + "attention.output_lora_rank", s["o_rank"])
    g.add_array(key + "attention.compress_ratios", s["pools"])
    g.add_float32(key + "attention.compress_rope_freq_base", s["base"])
    g.add_uint32(key + "hyper_connection.count", A)
    g.add_uint32(key + "hyper_connection.sinkhorn_iterations", turns)
    g.add_float32(key + "hyper_connection.epsilon", f32(eps))
    g.add_uint32(key + "hash_layer_count", s["listed"])
