"""Models with recurrent layers: the gated delta net (qwen35, qwen35moe, qwen3next) and the short convolution (lfm2, lfm2moe).

A family of tests/gen/tiny_models.py. What the converter of these files does to the framework's weights is undone here: 1 + gain,
-exp(A_log), the order of value heads, the parts of the joint projections of qwen3next.
"""
import sys

import numpy as np

from tiny_base import N_VOCAB

MODULES = ["models.%s.modeling_%s" % (m, m) for m in ("qwen3_5", "qwen3_5_moe", "qwen3_next", "lfm2", "lfm2_moe")]
CLASSES = {"qwen35": "Qwen3_5ForCausalLM", "qwen35moe": "Qwen3_5MoeForCausalLM", "qwen3next": "Qwen3NextForCausalLM",
           "lfm2": "Lfm2ForCausalLM", "lfm2moe": "Lfm2MoeForCausalLM"}


def float_types(name):
    """F32 where layers of these models are new, F16 elsewhere: smaller files."""
    return "F16" if "ffn_" in name and not name.endswith("ffn_gate_inp") or name in ("token_embd", "output") else "F32"


def quantised(kind):
    """All matrices but those that no file has in that type: the convolution and the router; rows that are no whole blocks are Q8_0."""
    short = ("ffn_down", "attn_output", "ssm_out")
    return lambda name: ("F32" if "conv1d" in name or name.endswith(("shortconv.conv", "ffn_gate_inp")) else
                         "Q8_0" if kind.endswith("_K") and name.endswith(short) else kind)


# nk, nv, d, taps: key heads, value heads, size of their heads, taps of the convolution. attn: the attention layers, in qwen files by
# a list; every: or the last of so many. rot: rotated part of a head. mtp: a draft head behind the last layer; own: with a vocabulary of its own;
# near: blocks add so little of what they would that the head, which reads the token, is often right; wrong: but for a share of tokens,
# which it takes for others.
# old: `ssm_in` for two matrices. joint: gate and up of the experts in one tensor. dense: leading layers without experts.
# The norm of the output hides the length of q but for its epsilon, which is large here: so a q that is not normed or not scaled is seen.
COMMON = dict(type=float_types, metric="nmse", mtp=False, own=False, near=0, wrong=0, old=False, joint=False, ctx=256)
DELTA = dict(COMMON, arch="qwen35", eps=2e-3, theta=10000.0, layers=2, every=2, attn=(), heads=2, kv=1, hd=16, rot=8, ff=40,
             nk=2, nv=4, d=8, taps=4)
CONV = dict(COMMON, arch="lfm2", eps=1e-5, theta=1000000.0, layers=2, attn=(1,), heads=2, kv=1, hd=16, rot=16, ff=40, taps=3, dense=0)
MOE = dict(experts=5, used=2, ff=16, shared=20, norm=True)
MOE32 = dict(experts=5, used=2, ff=32, shared=32, norm=True)
CALM = dict(metric="kl", out=1.0, sharp=1.1)
Q8_0 = dict(CALM, embd=64, ff=32, hd=32, type=quantised("Q8_0"))
Q4_K = dict(CALM, embd=256, ff=32, type=quantised("Q4_K"))


MODELS = {
    "qwen35": dict(DELTA, layers=3, every=3, greedy=True),
    "qwen35_long": dict(DELTA, ctx=1024, n=600, step=80),
    "qwen35_mtp": dict(DELTA, nv=6, taps=3, mtp=True, tied=False),
    "qwen35_even": dict(DELTA, nk=3, nv=3, d=12, attn=(0,)),
    "qwen35moe": dict(DELTA, arch="qwen35moe", moe=MOE, joint=True),
    "qwen35moe_mtp": dict(DELTA, arch="qwen35moe", moe=MOE, mtp=True, own=True, tied=False),
    "qwen35_near": dict(DELTA, layers=3, every=3, mtp=True, near=0.06, tied=False, out=4.0),
    "qwen3next": dict(DELTA, arch="qwen3next", moe=MOE),
    "qwen3next_in": dict(DELTA, arch="qwen3next", moe=MOE, old=True),
    "lfm2": dict(CONV, layers=4, attn=(1, 3), greedy=True),
    "lfm2_tap4": dict(CONV, attn=(0,), taps=4),
    "lfm2moe": dict(CONV, arch="lfm2moe", layers=3, dense=1, moe=MOE | dict(shared=0)),
    "qwen35_q8_0": dict(DELTA | Q8_0, d=16),
    "qwen35moe_q8_0": dict(DELTA | Q8_0 | dict(out=0.7), arch="qwen35moe", d=16, moe=MOE32, n=48, step=5),
    "qwen3next_q8_0": dict(DELTA | Q8_0 | dict(out=0.7), arch="qwen3next", d=16, moe=MOE32, old=True, n=48, step=5),
    "lfm2_q8_0": dict(CONV | Q8_0, rot=32),
    "lfm2moe_q8_0": dict(CONV | Q8_0, arch="lfm2moe", rot=32, dense=1, moe=MOE32 | dict(shared=0), n=48, step=5),
    "qwen35_q4_k": dict(DELTA | Q4_K, d=16),
}


def is_delta(s):
    return s["arch"].startswith("qwen")


def is_attention(s, i):
    return i in s["attn"] if s["attn"] else (i + 1) % s["every"] == 0


# --- weights, in the file's names and layout ------------------------------------------------------------------------
def draw(w, s):
    D = s["embd"]
    w.matrix("token_embd", N_VOCAB, D, gain=s["out"] if s["tied"] else np.sqrt(D))
    for i in range(s["layers"] + s["mtp"]):
        draw_layer(w, s, i, "blk.%d." % i)
    w.vector("output_norm.weight" if is_delta(s) else "token_embd_norm.weight", D, 1.0, 0.2)
    if not s["tied"]:
        w.matrix("output", N_VOCAB, D, gain=s["out"])


def draw_layer(w, s, i, b):
    D = s["embd"]
    w.vector(b + "attn_norm.weight", D, 1.0, 0.2)
    if i >= s["layers"] or is_attention(s, i):
        draw_attention(w, s, b)
    elif is_delta(s):
        draw_delta(w, s, b)
    else:
        w.matrix(b + "shortconv.in_proj", 3 * D, D, gain=1.3)
        w.matrix(b + "shortconv.conv", D, s["taps"], gain=1.5)
        w.matrix(b + "shortconv.out_proj", D, D, gain=1.5)
    w.vector(b + ("post_attention_norm.weight" if is_delta(s) else "ffn_norm.weight"), D, 1.0, 0.2)
    draw_feed(w, s, i, b)
    if i >= s["layers"]:
        w.matrix(b + "nextn.eh_proj", D, 2 * D)
        for name in ("enorm", "hnorm") if s["own"] or s["near"] else ("enorm", "hnorm", "shared_head_norm"):
            w.vector(b + "nextn.%s.weight" % name, D, 1.0, 0.2)
        if s["near"]:
            draw_near(w, s, b)
        if s["own"]:
            w.matrix(b + "nextn.embed_tokens", N_VOCAB, D, gain=np.sqrt(D))
            w.matrix(b + "nextn.shared_head_head", N_VOCAB, D, gain=s["out"])


def draw_near(w, s, b):
    """A head that begins with the token alone, as the model does. Those that it takes for others have rows of its own embeddings."""
    w.vector(b + "nextn.enorm.weight", s["embd"], 1.0, 0.0)
    eye = np.concatenate([np.eye(s["embd"]), np.zeros((s["embd"], s["embd"]))], axis=1).astype(np.float32)
    w.fixed(b + "nextn.eh_proj.weight", eye)
    if s["wrong"]:
        w.data[b + "nextn.embed_tokens.weight"] = w.data["token_embd.weight"][0].swapped(s["wrong"]), w.data["token_embd.weight"][1]


def quiet(s):
    """How much of what they would the blocks of a model add to the stream."""
    return s["near"] or 1


def draw_attention(w, s, b):
    D, q, kv = s["embd"], s["heads"] * s["hd"], s["kv"] * s["hd"]
    w.matrix(b + "attn_q", 2 * q if is_delta(s) else q, D)
    w.matrix(b + "attn_k", kv, D)
    w.matrix(b + "attn_v", kv, D)
    w.matrix(b + "attn_output", D, q, gain=(2.0 if is_delta(s) else 1.5) * quiet(s))
    for name in ("attn_q_norm", "attn_k_norm"):
        w.vector(b + name + ".weight", s["hd"], s["sharp"], 0.2 * s["sharp"])


def draw_delta(w, s, b):
    D, kd, vd, nv = s["embd"], s["nk"] * s["d"], s["nv"] * s["d"], s["nv"]
    if s["old"]:
        w.matrix(b + "ssm_in", 2 * kd + 2 * vd, D)
    else:
        w.matrix(b + "attn_qkv", 2 * kd + vd, D)
        w.matrix(b + "attn_gate", vd, D)
    w.matrix(b + "ssm_conv1d", 2 * kd + vd, s["taps"], gain=1.5)
    w.vector(b + "ssm_dt.bias", nv, -0.5, 1.0)
    a = -np.exp(w.rng.uniform(np.log(0.02), np.log(2.0), nv)).astype(np.float32)
    w.data[b + "ssm_a"], w.value[b + "ssm_a"] = (a, None), a
    if s["arch"] == "qwen3next":
        w.matrix(b + "ssm_ba", 2 * nv, D, gain=1.5)
    else:
        w.matrix(b + "ssm_beta", nv, D, gain=1.5)
        w.matrix(b + "ssm_alpha", nv, D, gain=1.5)
    w.vector(b + "ssm_norm.weight", s["d"], 1.0, 0.2)
    w.matrix(b + "ssm_out", D, vd, gain=2.0 * quiet(s))


def draw_feed(w, s, i, b):
    D, m = s["embd"], s["moe"]
    if not m or i < s.get("dense", 0):
        w.matrix(b + "ffn_gate", s["ff"], D, gain=1.5)
        w.matrix(b + "ffn_up", s["ff"], D)
        w.matrix(b + "ffn_down", D, s["ff"], gain=1.5 * quiet(s))
        return
    E, F = m["experts"], m["ff"]
    w.matrix(b + "ffn_gate_inp", E, D, gain=1.5)
    if s["joint"]:
        w.matrix(b + "ffn_gate_up_exps", E, 2 * F, D, gain=1.2)
    else:
        w.matrix(b + "ffn_gate_exps", E, F, D, gain=1.5)
        w.matrix(b + "ffn_up_exps", E, F, D)
    w.matrix(b + "ffn_down_exps", E, D, F, gain=2.0 * quiet(s))
    if not is_delta(s):
        w.vector(b + "exp_probs_b.bias", E, 0.0, 0.2)
    if m["shared"]:
        w.vector(b + "ffn_gate_inp_shexp.weight", D, 0.0, 1.5 / np.sqrt(D))
        if not s["old"]:                                # the converter writes a matrix of one row; older ones wrote a vector
            as_row(w, b + "ffn_gate_inp_shexp.weight")
        w.matrix(b + "ffn_gate_shexp", m["shared"], D, gain=1.5)
        w.matrix(b + "ffn_up_shexp", m["shared"], D)
        w.matrix(b + "ffn_down_shexp", D, m["shared"], gain=1.5 * quiet(s))


def as_row(w, name):
    data, raw = w.data[name]
    w.data[name], w.value[name] = (data[None], raw), data[None]


# --- the same weights, as the framework has them --------------------------------------------------------------------
QWEN = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
        "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm", "attn_norm": "input_layernorm",
        "post_attention_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj", "ffn_gate_inp": "mlp.gate", "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
        "ffn_up_shexp": "mlp.shared_expert.up_proj", "ffn_down_shexp": "mlp.shared_expert.down_proj",
        "ffn_gate_inp_shexp": "mlp.shared_expert_gate", "attn_qkv": "linear_attn.in_proj_qkv", "attn_gate": "linear_attn.in_proj_z",
        "ssm_conv1d": "linear_attn.conv1d", "ssm_beta": "linear_attn.in_proj_b", "ssm_alpha": "linear_attn.in_proj_a",
        "ssm_ba": "linear_attn.in_proj_ba", "ssm_in": "linear_attn.in_proj_qkvz", "ssm_norm": "linear_attn.norm",
        "ssm_out": "linear_attn.out_proj"}
LFM = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.out_proj",
       "attn_q_norm": "self_attn.q_layernorm", "attn_k_norm": "self_attn.k_layernorm", "attn_norm": "operator_norm", "ffn_norm": "ffn_norm",
       "ffn_gate": "feed_forward.w1", "ffn_up": "feed_forward.w3", "ffn_down": "feed_forward.w2", "ffn_gate_inp": "feed_forward.gate",
       "shortconv.in_proj": "conv.in_proj", "shortconv.conv": "conv.conv", "shortconv.out_proj": "conv.out_proj"}
TOP = {"token_embd": "model.embed_tokens", "output": "lm_head", "output_norm": "model.norm", "token_embd_norm": "model.embedding_norm"}


def tiled(x, axis, nk, d):
    """The converter's order of value heads: from r heads behind each key head to all key heads, r times."""
    shape = list(x.shape)
    x = x.reshape(shape[:axis] + [nk, shape[axis] // nk // d, d] + shape[axis + 1:])
    return x.swapaxes(axis, axis + 1).reshape(shape)


def grouped(x, axis, nk, d):
    """The framework's order of value heads, from the file's."""
    y = tiled(x, axis, x.shape[axis] // nk // d, d)
    assert (tiled(y, axis, nk, d) == x).all()
    return y


def value_heads(s, slot, x):
    """x with the framework's order of value heads."""
    nk, d, at = s["nk"], s["d"], 2 * s["nk"] * s["d"]
    if slot in ("attn_qkv", "ssm_conv1d"):
        return np.concatenate([x[:at], grouped(x[at:], 0, nk, d)])
    if slot == "attn_gate":
        return grouped(x, 0, nk, d)
    if slot == "ssm_out":
        return grouped(x, 1, nk, d)
    return grouped(x, 0, nk, 1) if slot in ("ssm_beta", "ssm_alpha", "ssm_a", "ssm_dt") else x


def by_key_head(s, qkv, z):
    """qwen3next: q, k, v, z of one key head, then those of the next."""
    nk, d = s["nk"], s["d"]
    parts = [p.reshape(nk, -1, qkv.shape[1]) for p in (*np.split(qkv, [nk * d, 2 * nk * d]), z)]
    return np.concatenate(parts, axis=1).reshape(-1, qkv.shape[1])


def hf_layer(s, layer, slots):
    """One layer: slots in the file's names to parameters in the framework's."""
    slots, out = dict(slots), {}
    if s["arch"] == "qwen3next" and "attn_qkv.weight" in slots:
        slots["ssm_in.weight"] = by_key_head(s, slots.pop("attn_qkv.weight"), slots.pop("attn_gate.weight"))
    if "ffn_gate_exps.weight" in slots:
        slots["ffn_gate_up_exps.weight"] = np.concatenate([slots.pop("ffn_gate_exps.weight"), slots.pop("ffn_up_exps.weight")], axis=1)
    for name, x in slots.items():
        slot, _, kind = name.rpartition(".") if name != "ssm_a" else ("ssm_a", "", "")
        x = np.asarray(x, np.float64)
        if s["arch"] in ("qwen35", "qwen35moe"):
            x = value_heads(s, slot, x)
        if is_delta(s) and slot.endswith("norm") and slot != "ssm_norm":
            x = x - 1
        if slot in ("ssm_conv1d", "shortconv.conv"):
            x = x[:, None]
        if slot == "ffn_gate_inp_shexp":
            x = x.reshape(1, -1)
        ffn = "mlp" if is_delta(s) else "feed_forward"
        special = {"ssm_a": ("linear_attn.A_log", lambda v: np.log(-v)), "ssm_dt": ("linear_attn.dt_bias", None),
                   "exp_probs_b": (ffn + ".expert_bias", None), "ffn_gate_up_exps": (ffn + ".experts.gate_up_proj", None),
                   "ffn_down_exps": (ffn + ".experts.down_proj", None)}
        if slot in special:
            to, change = special[slot]
            out[layer + to] = change(x) if change else x
        else:
            out[layer + (QWEN if is_delta(s) else LFM)[slot] + "." + kind] = x
    return out


def hf_state(s, value):
    state, layers = {}, [{} for _ in range(s["layers"] + 1)]
    for name, x in value.items():
        if name.startswith("blk."):
            _, i, slot = name.split(".", 2)
            layers[int(i)][slot] = x
        else:
            slot = name.rpartition(".")[0]
            state[TOP[slot] + ".weight"] = np.asarray(x, np.float64) - (1 if slot == "output_norm" else 0)
    for i in range(s["layers"]):                        # the block behind them is not run
        state.update(hf_layer(s, "model.layers.%d." % i, layers[i]))
    return state


def hf_class(s):
    return CLASSES[s["arch"]]


def hf_config(s):
    kinds = ("full_attention", "linear_attention" if is_delta(s) else "conv")
    rope = dict(rope_type="default", rope_theta=s["theta"])
    c = dict(vocab_size=N_VOCAB, hidden_size=s["embd"], num_hidden_layers=s["layers"], num_attention_heads=s["heads"],
             num_key_value_heads=s["kv"], intermediate_size=s["ff"], max_position_embeddings=s["ctx"], rope_parameters=rope,
             tie_word_embeddings=s["tied"], bos_token_id=None, eos_token_id=None, pad_token_id=None,
             layer_types=[kinds[not is_attention(s, i)] for i in range(s["layers"])])
    if is_delta(s):
        rope["partial_rotary_factor"] = s["rot"] / s["hd"]
        c.update(head_dim=s["hd"], rms_norm_eps=s["eps"], linear_conv_kernel_dim=s["taps"], linear_key_head_dim=s["d"],
                 linear_value_head_dim=s["d"], linear_num_key_heads=s["nk"], linear_num_value_heads=s["nv"])
        if s["arch"] == "qwen3next":
            c.update(decoder_sparse_step=1, mlp_only_layers=[], norm_topk_prob=True)
        else:
            rope["mrope_section"] = sections(s)[:3]
    else:
        c.update(norm_eps=s["eps"], conv_L_cache=s["taps"])
        c.update(dict(num_dense_layers=s["dense"]) if s["moe"] else dict(block_auto_adjust_ff_dim=False))
    if s["arch"] == "qwen35moe":
        del c["intermediate_size"]
    if s["moe"]:
        m = s["moe"]
        c.update(num_experts=m["experts"], num_experts_per_tok=m["used"], moe_intermediate_size=m["ff"])
        if m["shared"]:
            c.update(shared_expert_intermediate_size=m["shared"])
    return c


def choice(router, out):
    """The scores by which a router's experts are chosen."""
    return out[0] if router.bias is None else out[0].sigmoid() + router.bias


def hub_config(s):
    if is_delta(s):
        return None if s["attn"] or s["old"] or s["mtp"] else dict(full_attention_interval=s["every"])
    return {} if s["moe"] else dict(block_ff_dim=s["ff"])


ROUTER = (("mlp.gate", "feed_forward.gate"), choice)


def check(s, value, oracle):
    """The chunked form of the delta rule, which the framework runs, gives what the rule itself gives: the golden values are those of the rule."""
    for block in oracle.model.modules():
        if hasattr(block, "experts"):
            block.gate.bias = getattr(block, "expert_bias", None)
    if is_delta(s):
        mod, ids = sys.modules[type(oracle.model).__module__], list(range(150))
        chunked, mod.torch_chunk_gated_delta_rule = oracle.logits(ids), mod.torch_recurrent_gated_delta_rule
        assert np.allclose(chunked, oracle.logits(ids), rtol=0, atol=1e-11)


# --- the keys -------------------------------------------------------------------------------------------------------
def sections(s):
    half = s["rot"] // 2
    return [half - 2 * (half // 3), half // 3, half // 3, 0]


def write_keys(g, s):
    a, m = s["arch"], s["moe"]
    g.add_context_length(s["ctx"])
    g.add_embedding_length(s["embd"])
    g.add_block_count(s["layers"] + s["mtp"])
    g.add_head_count(s["heads"])
    g.add_layer_norm_rms_eps(s["eps"])
    g.add_rope_freq_base(s["theta"])
    if a not in ("qwen35moe", "qwen4exp"):
        g.add_feed_forward_length(s["ff"])
    if is_delta(s):
        write_delta_keys(g, s)
    else:
        g.add_head_count_kv([s["kv"] * is_attention(s, i) for i in range(s["layers"])])
        g.add_shortconv_l_cache(s["taps"])
        g.add_vocab_size(N_VOCAB)
    if m:
        g.add_expert_count(m["experts"])
        g.add_expert_used_count(m["used"])
        g.add_expert_feed_forward_length(m["ff"])
        if m["shared"]:
            g.add_expert_shared_feed_forward_length(m["shared"])
        if not is_delta(s):
            g.add_leading_dense_block_count(s["dense"])
            g.add_uint32(a + ".expert_gating_func", 2)


def write_delta_keys(g, s):
    a = s["arch"]
    g.add_head_count_kv(s["kv"])
    g.add_key_length(s["hd"])
    g.add_value_length(s["hd"])
    g.add_rope_dimension_count(s["rot"])
    if a != "qwen3next":
        g.add_rope_dimension_sections(sections(s))
    g.add_ssm_conv_kernel(s["taps"])
    g.add_ssm_state_size(s["d"])
    g.add_ssm_group_count(s["nk"])
    g.add_ssm_time_step_rank(s["nv"])
    g.add_ssm_inner_size(s["nv"] * s["d"])
    if s["attn"]:
        g.add_array(a + ".attention.recurrent_layers", [not is_attention(s, i) for i in range(s["layers"])])
    else:
        g.add_uint32(a + ".full_attention_interval", s["every"])
    if s["mtp"]:
        g.add_uint32(a + ".nextn_predict_layers", 1)
