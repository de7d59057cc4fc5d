"""gemma4 and gemma3n: heads whose size depends on the layer, K/V of an earlier layer, embeddings for each layer, AltUp, LAuReL.

A family of tests/gen/tiny_models.py. The converter of these files folds nothing into the weights.
"""
import numpy as np

from tiny_base import N_CTX, N_VOCAB, f32

MODULES = ["models.gemma4.modeling_gemma4", "models.gemma3n.modeling_gemma3n"]

# kinds: w for a windowed layer, f for one that sees all; share: so many layers at the end read the K/V of the last layer of their kind
# before them. hd, full: size of a head in windowed and in full layers; kv, kv_full: key heads there; part: the rotated part of full heads.
# per: width of a layer's own embedding. same: full layers have no V but their K. spare: layers that share have K/V weights all the same,
# which nobody reads. sparse: by layer, what share of the gates is cut off. altup: streams, the active one; rank: of LAuReL.
COMMON = dict(metric="nmse", vocab="spm", eps=1e-6, out=2.0, heads=2, kv=1, hd=16, ff=24, cap=8.0, window=20, share=0, per=8,
              same=False, joint=False, spare=False, theta=30000.0, theta_swa=1000.0)
FOUR = dict(COMMON, arch="gemma4", full=32, kv_full=1, part=0.25, wide=False)
THREE = dict(COMMON, arch="gemma3n", full=16, kv_full=1, altup=4, active=0, rank=6, spare=True)
MOE = dict(experts=5, used=2, ff=16)
CALM = dict(metric="kl", out=1.0, sharp=1.1, embd=64, hd=32, ff=32, per=32)


def float_types(name):
    """F32 where layers of these models are new, F16 elsewhere: smaller files."""
    return "F16" if name.startswith(("token_embd", "per_layer_token")) or "ffn_" in name and not name.endswith("_inp") else "F32"


def quantised(name):
    """All matrices but those that no file has so: the router and the coefficients of AltUp."""
    return "F32" if name.endswith(("_inp", "_coef")) else "Q8_0"


MODELS = {
    "gemma4": dict(FOUR, kinds="wwfwf", share=2, wide=True, greedy=True),
    "gemma4_far": dict(FOUR, kinds="fwwf", share=1, window=40),
    "gemma4_moe": dict(FOUR, kinds="wf", per=0, same=True, kv=2, moe=MOE, joint=True),
    "gemma4_split": dict(FOUR, kinds="wf", per=0, moe=MOE),
    "gemma3n": dict(THREE, kinds="wfwf", share=2, sparse=(0.7, 0, 0.5, 0), greedy=True),
    "gemma3n_alt": dict(THREE, kinds="wf", altup=3, active=1, window=40, sparse=(0, 0.8)),
    "gemma4_q8_0": dict(FOUR | CALM, full=64, kinds="wfwf", share=2, type=quantised),
    "gemma4_moe_q8_0": dict(FOUR | CALM, full=64, kinds="wf", same=True, per=0, moe=dict(MOE, ff=32), type=quantised, n=48, step=5),
    "gemma3n_q8_0": dict(THREE | CALM, full=32, kinds="wfwf", share=2, rank=32, sparse=(0, 0.5, 0, 0), type=quantised),
}
for row in MODELS.values():
    row.setdefault("type", float_types)
    row["layers"] = len(row["kinds"])


def is_full(s, i):
    return s["kinds"][i] == "f"


def shares(s, i):
    return i >= s["layers"] - s["share"]


def head(s, i):
    """Size of a head and number of key heads of a layer."""
    return (s["full"], s["kv_full"]) if is_full(s, i) else (s["hd"], s["kv"])


def width(s, i):
    return s["ff"] * (2 if s.get("wide") and shares(s, i) else 1)


# --- weights, in the file's names and layout ------------------------------------------------------------------------
def draw(w, s):
    D, L, P = s["embd"], s["layers"], s["per"]
    w.matrix("token_embd", N_VOCAB, D, gain=s["out"])
    if s["arch"] == "gemma4":
        pairs = s["full"] // 2
        turned = int(s["full"] * s["part"] / 2)
        factors = np.array([1.0] * turned + [1e30] * (pairs - turned), np.float32)
        w.data["rope_freqs.weight"], w.value["rope_freqs.weight"] = (factors, None), factors
    else:
        w.matrix("altup_proj", s["altup"] - 1, D, D)
        w.matrix("altup_unembd_proj", s["altup"] - 1, D, D)
    if P:
        w.matrix("per_layer_token_embd", N_VOCAB, L * P, gain=np.sqrt(L))
        w.matrix("per_layer_model_proj", L * P, D)
        w.vector("per_layer_proj_norm.weight", P, 1.0, 0.2)
    for i in range(L):
        draw_layer(w, s, i, "blk.%d." % i)
    w.vector("output_norm.weight", D, 1.0, 0.2)


def draw_layer(w, s, i, b):
    D, P = s["embd"], s["per"]
    for name in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm") + ("post_norm",) * bool(P):
        w.vector(b + name + ".weight", D, 1.0, 0.2)
    draw_attention(w, s, i, b)
    w.matrix(b + "ffn_gate", width(s, i), D, gain=1.5)
    w.matrix(b + "ffn_up", width(s, i), D)
    w.matrix(b + "ffn_down", D, width(s, i))
    if s["moe"]:
        draw_experts(w, s, b)
    if P:
        w.matrix(b + "inp_gate", P, D)
        w.matrix(b + "proj", D, P)
    if s["arch"] == "gemma4":
        w.vector(b + "layer_output_scale.weight", 1, 0.7, 0.15)
    else:
        draw_altup(w, s, b)


def draw_attention(w, s, i, b):
    D, (hd, kv) = s["embd"], head(s, i)
    sharp = s["sharp"] / hd ** 0.25
    w.matrix(b + "attn_q", s["heads"] * hd, D)
    w.vector(b + "attn_q_norm.weight", hd, sharp, 0.2 * sharp)
    w.matrix(b + "attn_output", D, s["heads"] * hd)
    if shares(s, i) and not s["spare"]:
        return
    w.matrix(b + "attn_k", kv * hd, D)
    w.vector(b + "attn_k_norm.weight", hd, sharp, 0.2 * sharp)
    if not (s["same"] and is_full(s, i)):
        w.matrix(b + "attn_v", kv * hd, D)


def draw_experts(w, s, b):
    D, E, F = s["embd"], s["moe"]["experts"], s["moe"]["ff"]
    w.matrix(b + "ffn_gate_inp", E, D, gain=2.0 * np.sqrt(D))       # of inputs that are divided by the root of their number
    w.vector(b + "ffn_gate_inp.scale", D, 1.0, 0.2)
    if s["joint"]:
        w.matrix(b + "ffn_gate_up_exps", E, 2 * F, D, gain=1.2)
    else:
        w.matrix(b + "ffn_gate_exps", E, F, D, gain=1.5)
        w.matrix(b + "ffn_up_exps", E, F, D)
    w.matrix(b + "ffn_down_exps", E, D, F)
    w.vector(b + "ffn_down_exps.scale", E, 1.0, 0.3)
    for name in ("pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"):
        w.vector(b + name + ".weight", D, 1.0, 0.2)


def draw_altup(w, s, b):
    D, A = s["embd"], s["altup"]
    w.matrix(b + "altup_router", A, D, gain=2.0 * D)                # of inputs that are divided by their number
    w.vector(b + "altup_router_norm.weight", D, 1.0, 0.2)
    w.matrix(b + "altup_predict_coef", A * A, A, gain=0.5)
    w.matrix(b + "altup_correct_coef", A, A, gain=0.5)
    w.vector(b + "altup_correct_scale.weight", D, 1.0, 0.2)
    w.matrix(b + "laurel_l", s["rank"], D)
    w.matrix(b + "laurel_r", D, s["rank"])
    w.vector(b + "laurel_post_norm.weight", D, 1.0, 0.2)


# --- the same weights, as the framework has them --------------------------------------------------------------------
NAMES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm", "attn_norm": "input_layernorm",
         "post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
         "post_ffw_norm": "post_feedforward_layernorm", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
         "inp_gate": "per_layer_input_gate", "proj": "per_layer_projection", "post_norm": "post_per_layer_input_norm",
         "ffn_gate_inp": "router.proj", "pre_ffw_norm_2": "pre_feedforward_layernorm_2", "post_ffw_norm_1": "post_feedforward_layernorm_1",
         "post_ffw_norm_2": "post_feedforward_layernorm_2", "altup_router": "altup.modality_router",
         "altup_router_norm": "altup.router_norm", "altup_predict_coef": "altup.prediction_coefs", "altup_correct_coef": "altup.correction_coefs", "laurel_l": "laurel.linear_left",
         "laurel_r": "laurel.linear_right", "laurel_post_norm": "laurel.post_laurel_norm"}
WHOLE = {"layer_output_scale.weight": "layer_scalar", "altup_correct_scale.weight": "altup.correct_output_scale",
         "ffn_gate_inp.scale": "router.scale", "ffn_down_exps.scale": "router.per_expert_scale",
         "ffn_gate_up_exps.weight": "experts.gate_up_proj", "ffn_down_exps.weight": "experts.down_proj"}
TOP = {"token_embd": "embed_tokens", "output_norm": "norm", "per_layer_token_embd": "embed_tokens_per_layer",
       "per_layer_model_proj": "per_layer_model_projection", "per_layer_proj_norm": "per_layer_projection_norm"}
STACKS = {"altup_proj": "altup_projections", "altup_unembd_proj": "altup_unembed_projections"}


def hf_state(s, value):
    state = {}
    for name, x in value.items():
        if name.startswith("blk."):
            _, i, slot = name.split(".", 2)
            hf_slot(s, int(i), slot, x, value, state)
        elif name.rpartition(".")[0] in STACKS:
            state.update({"model.%s.%d.weight" % (STACKS[name.rpartition(".")[0]], j): m for j, m in enumerate(x)})
        elif name != "rope_freqs.weight":
            state["model.%s.weight" % TOP[name.rpartition(".")[0]]] = x
    return state


def hf_slot(s, i, slot, x, value, state):
    layer = "model.layers.%d." % i
    if shares(s, i) and slot.startswith(("attn_k", "attn_v")):
        return                                          # nobody reads them
    if slot == "ffn_gate_exps.weight":
        state[layer + "experts.gate_up_proj"] = np.concatenate([x, value["blk.%d.ffn_up_exps.weight" % i]], axis=1)
    elif slot in WHOLE:
        state[layer + WHOLE[slot]] = x
    elif slot != "ffn_up_exps.weight":
        state[layer + NAMES[slot.rpartition(".")[0]] + ".weight"] = x


def hf_class(s):
    return "Gemma4ForCausalLM" if s["arch"] == "gemma4" else "Gemma3nForCausalLM"


def hf_config(s):
    rope = dict(sliding_attention=dict(rope_type="default", rope_theta=s["theta_swa"]),
                full_attention=dict(rope_type="default", rope_theta=s["theta"]))
    c = dict(vocab_size=N_VOCAB, hidden_size=s["embd"], num_hidden_layers=s["layers"], num_attention_heads=s["heads"],
             num_key_value_heads=s["kv"], head_dim=s["hd"], intermediate_size=s["ff"], rms_norm_eps=s["eps"], max_position_embeddings=N_CTX,
             rope_parameters=rope, tie_word_embeddings=True, hidden_activation="gelu_pytorch_tanh", sliding_window=s["window"],
             layer_types=["full_attention" if is_full(s, i) else "sliding_attention" for i in range(s["layers"])],
             final_logit_softcapping=s["cap"], num_kv_shared_layers=s["share"], hidden_size_per_layer_input=s["per"],
             vocab_size_per_layer_input=N_VOCAB, bos_token_id=None, eos_token_id=None, pad_token_id=None)
    if s["arch"] == "gemma3n":
        c.update(altup_num_inputs=s["altup"], altup_active_idx=s["active"], laurel_rank=s["rank"],
                 activation_sparsity_pattern=[float(x) for x in s["sparse"]])
        return c
    rope["full_attention"].update(rope_type="proportional", partial_rotary_factor=s["part"])
    c.update(global_head_dim=s["full"], num_global_key_value_heads=s["kv_full"] if s["same"] else None, attention_k_eq_v=s["same"],
             use_double_wide_mlp=s["wide"], enable_moe_block=bool(s["moe"]))
    if s["moe"]:
        c.update(num_experts=s["moe"]["experts"], top_k_experts=s["moe"]["used"], moe_intermediate_size=s["moe"]["ff"])
    return c


def hub_config(s):
    if s["arch"] == "gemma3n":
        return {} if s["altup"] == 4 else None
    return dict(global_head_dim=s["full"], **dict(num_global_key_value_heads=s["kv_full"]) if s["same"] else {})


ROUTER = (".router", lambda module, out: out[0].log())              # probabilities


def check(s, value, oracle):
    """The factors in the file turn the plain frequencies into those of the framework."""
    if s["arch"] == "gemma4":
        want = oracle.model.model.rotary_emb.full_attention_inv_freq.numpy()
        plain = s["theta"] ** (-np.arange(0, s["full"], 2) / s["full"])
        assert np.allclose(plain / value["rope_freqs.weight"], want, rtol=1e-12, atol=1e-29)


# --- the keys -------------------------------------------------------------------------------------------------------
def write_keys(g, s):
    a, layers = s["arch"], range(s["layers"])
    g.add_context_length(N_CTX)
    g.add_embedding_length(s["embd"])
    g.add_block_count(s["layers"])
    g.add_head_count(s["heads"])
    widths, kv = [width(s, i) for i in layers], [head(s, i)[1] for i in layers]
    g.add_feed_forward_length(widths if a == "gemma3n" or s["wide"] else s["ff"])
    g.add_head_count_kv(kv if len(set(kv)) > 1 else kv[0])
    g.add_layer_norm_rms_eps(s["eps"])
    g.add_rope_freq_base(s["theta"])
    g.add_float32(a + ".rope.freq_base_swa", s["theta_swa"])
    g.add_sliding_window(s["window"])
    g.add_array(a + ".attention.sliding_window_pattern", [not is_full(s, i) for i in layers])
    g.add_uint32(a + ".attention.shared_kv_layers", s["share"])
    g.add_uint32(a + ".embedding_length_per_layer_input", s["per"])
    g.add_float32(a + ".final_logit_softcapping", s["cap"])
    g.add_key_length(s["full"])
    g.add_value_length(s["full"])
    if a == "gemma4":
        for key, n in (("attention.key_length_swa", s["hd"]), ("attention.value_length_swa", s["hd"]), ("rope.dimension_count", s["full"]),
                       ("rope.dimension_count_swa", s["hd"])):
            g.add_uint32(a + "." + key, n)
    else:
        g.add_uint32(a + ".altup.active_idx", s["active"])
        g.add_uint32(a + ".altup.num_inputs", s["altup"])
        g.add_array(a + ".activation_sparsity_scale", [f32(cut(x)) for x in s["sparse"]])
    if s["moe"]:
        g.add_expert_count(s["moe"]["experts"])
        g.add_expert_used_count(s["moe"]["used"])
        g.add_expert_feed_forward_length(s["moe"]["ff"])


def cut(share):
    """The quantile of the normal distribution below which that share lies."""
    from statistics import NormalDist
    return NormalDist().inv_cdf(share) if share else -np.inf
