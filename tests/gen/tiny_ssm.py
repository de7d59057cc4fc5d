"""Models with Mamba-2 (mamba2, nemotron_h, nemotron_h_moe, granitehybrid, falcon-h1) and with Mamba (mamba, jamba, plamo2).

A family of tests/gen/tiny_models.py. transformers has no class for plamo2: its golden values are those of the reading in
tests/tiny_read_ssm.py. What llama.cpp's converter does to the framework's weights is undone here: -exp(A_log), shapes.
"""
import numpy as np

from tiny_base import N_VOCAB, halves_to_pairs, pairs_to_halves

CLASSES = {"mamba2": ("mamba2", "Mamba2ForCausalLM"), "nemotron_h": ("nemotron_h", "NemotronHForCausalLM"),
           "nemotron_h_moe": ("nemotron_h", "NemotronHForCausalLM"), "granitehybrid": ("granitemoehybrid", "GraniteMoeHybridForCausalLM"),
           "falcon-h1": ("falcon_h1", "FalconH1ForCausalLM"), "mamba": ("mamba", "MambaForCausalLM"),
           "jamba": ("jamba", "JambaForCausalLM"), "plamo2": (None, None)}
MODULES = ["models.%s.modeling_%s" % (m, m) for m in sorted({m for m, _ in CLASSES.values() if m} | {"falcon_mamba"})]


def float_types(name):
    """F32 where layers of these models are new, F16 elsewhere: smaller files."""
    return "F16" if "ffn_" in name and not name.endswith("ffn_gate_inp") or name in ("token_embd", "output") else "F32"


# kinds: a letter for each layer: M Mamba, * attention, B both, - a feed-forward alone, E experts alone. nh, dh, groups, ds, taps: heads, values of
# a head, groups that share keys, values of a key, taps of the convolution. rank: values from which Mamba makes its steps.
# routed: which layers have experts, in jamba; scales: of embeddings, residuals, logits, scores; roped: granitehybrid rotates.
# near 0 lets a decay last for the whole prompt, 2 ends it in a few positions.
SSM = dict(type=float_types, metric="nmse", embd=16, heads=2, kv=1, hd=8, ff=24, eps=1e-5, kinds="MM", nh=4, dh=8, groups=2, ds=6, taps=4,
           rank=3, scales=None, roped=False, normed=True, latent=0, routed=(), bias_conv=True)
MOE = dict(experts=5, used=2, ff=16, shared=20)
SCALES = dict(embd=6.0, residual=0.4, logit=3.0, attn=0.25)

MODELS = {
    "mamba2": dict(SSM, arch="mamba2", greedy=True),
    "mamba2_long": dict(SSM, arch="mamba2", kinds="MM", groups=1, ds=16, ctx=1024, n=600, step=80),
    "nemotron_h": dict(SSM, tied=False, arch="nemotron_h", kinds="M-*M-", greedy=True),
    "nemotron_h_bias": dict(SSM, tied=False, arch="nemotron_h", kinds="M*-", groups=4, taps=3, bias_conv=False),
    "nemotron_h_moe": dict(SSM, tied=False, arch="nemotron_h_moe", kinds="MEM*E", moe=MOE),
    "nemotron_h_moe_latent": dict(SSM, tied=False, arch="nemotron_h_moe", kinds="ME*E", moe=MOE, latent=8),
    "granitehybrid": dict(SSM, arch="granitehybrid", kinds="M*M", moe=MOE, scales=SCALES, groups=1),
    "granitehybrid_dense": dict(SSM, arch="granitehybrid", kinds="MM*", scales=SCALES, ds=9),
    "granitehybrid_rope": dict(SSM, arch="granitehybrid", kinds="M*", scales=SCALES, roped=True),
    "falcon-h1": dict(SSM, arch="falcon-h1", kinds="BB", normed=False, greedy=True),
    "falcon-h1_norm": dict(SSM, arch="falcon-h1", kinds="BB", nh=6, dh=4),
    "mamba": dict(SSM, arch="mamba", greedy=True),
    "mamba_falcon": dict(SSM, arch="mamba", falcon=True, ds=16),
    "jamba": dict(SSM, arch="jamba", kinds="M*MM", moe=dict(MOE, shared=0), routed=(1, 3)),
    "plamo2": dict(SSM, arch="plamo2", kinds="M*M", heads=4, kv=2),
}


def is_scan(s):
    return s["arch"] in ("mamba", "jamba", "plamo2")


def has_ffn(s, i):
    """Whether a layer has a feed-forward, after its mixer or alone."""
    return s["kinds"][i] in "-E" if s["arch"].startswith("nemotron") else s["arch"] not in ("mamba", "mamba2")


def has_experts(s, i):
    return bool(s["moe"]) and has_ffn(s, i) and (not s["routed"] or i in s["routed"])


# --- weights, in the file's names and layout ------------------------------------------------------------------------
def draw(w, s):
    D = s["embd"]
    w.matrix("token_embd", N_VOCAB, D, gain=(s["out"] if s["tied"] else np.sqrt(D)) * (s["scales"]["logit"] if s["scales"] else 1))
    for i, kind in enumerate(s["kinds"]):
        b = "blk.%d." % i
        w.vector(b + "attn_norm.weight", D, 1.0, 0.2)
        if kind in "MB":
            (draw_mamba if is_scan(s) else draw_mamba2)(w, s, b)
        if kind in "*B":
            draw_attention(w, s, b)
        if s["arch"] == "plamo2":
            w.vector(b + "post_attention_norm", D, 1.0, 0.2)
            w.vector(b + "post_ffw_norm", D, 1.0, 0.2)
        if has_ffn(s, i):
            draw_feed(w, s, i, b)
    w.vector("output_norm.weight", D, 1.0, 0.2)
    if not s["tied"]:
        w.matrix("output", N_VOCAB, D, gain=s["out"])


def draw_attention(w, s, b):
    D, q, kv = s["embd"], s["heads"] * s["hd"], s["kv"] * s["hd"]
    if s["arch"] == "plamo2":
        w.matrix(b + "attn_qkv", q + 2 * kv, D)
        w.vector(b + "attn_q_norm.weight", (s["heads"], s["hd"]), 1.5, 0.3)
        w.vector(b + "attn_k_norm.weight", (s["kv"], s["hd"]), 1.5, 0.3)
    else:
        w.matrix(b + "attn_q", q, D, gain=1.5)
        w.matrix(b + "attn_k", kv, D, gain=1.5)
        w.matrix(b + "attn_v", kv, D)
    w.matrix(b + "attn_output", D, q, gain=1.5)


def rates(w, b, shape, column=False):
    a = -np.exp(w.rng.uniform(np.log(0.02), np.log(2.0), shape)).astype(np.float32)
    w.fixed(b + "ssm_a", a[:, None] if column else a)


def draw_mamba2(w, s, b):
    D, inner, width = s["embd"], s["nh"] * s["dh"], s["nh"] * s["dh"] + 2 * s["groups"] * s["ds"]
    w.matrix(b + "ssm_in", inner + width + s["nh"], D, gain=1.3)
    w.matrix(b + "ssm_conv1d", width, s["taps"], gain=1.5)
    if s["bias_conv"]:
        w.vector(b + "ssm_conv1d.bias", width, 0.0, 0.4)
    w.vector(b + "ssm_dt.bias", s["nh"], -0.5, 1.0)
    rates(w, b, s["nh"], column=True)
    w.vector(b + "ssm_d", (s["nh"], 1), 1.0, 0.4)
    if s["normed"]:
        w.vector(b + "ssm_norm.weight", (s["groups"], inner // s["groups"]), 1.0, 0.2)
    w.matrix(b + "ssm_out", D, inner, gain=1.5)


def draw_mamba(w, s, b):
    D, inner, heads = s["embd"], s["nh"] * s["dh"], s["arch"] == "plamo2"
    rank, steps = (64 if heads else s["rank"]), (s["nh"] if heads else inner)
    w.matrix(b + "ssm_in", 2 * inner, D, gain=1.3)
    w.matrix(b + "ssm_conv1d", inner, s["taps"], gain=1.5)
    if not heads:
        w.vector(b + "ssm_conv1d.bias", inner, 0.0, 0.4)
    w.matrix(b + "ssm_x", rank + 2 * s["ds"], inner, gain=2.0)
    w.matrix(b + "ssm_dt", steps, rank)
    w.vector(b + "ssm_dt.bias", steps, -0.5, 1.0)
    rates(w, b, s["nh"] if heads else (inner, s["ds"]))
    w.vector(b + "ssm_d", steps, 1.0, 0.4)
    if s["arch"] != "mamba":                            # llama.cpp's converter writes those of PLaMo 2 without .weight
        for name, n in (("dt", rank), ("b", s["ds"]), ("c", s["ds"])):
            w.vector(b + "ssm_%s_norm" % name + ("" if heads else ".weight"), n, 1.0, 0.2)
    w.matrix(b + "ssm_out", D, inner, gain=1.5)


def draw_feed(w, s, i, b):
    D, m, ff = s["embd"], s["moe"], s["ff"]
    gated = not s["arch"].startswith("nemotron")
    if gated:
        w.vector(b + "ffn_norm" + ("" if s["arch"] == "falcon-h1" else ".weight"), D, 1.0, 0.2)
    if not has_experts(s, i):
        if s["arch"] == "plamo2":
            w.matrix(b + "ffn_up", 2 * ff, D, gain=1.2)
        else:
            if gated:
                w.matrix(b + "ffn_gate", ff, D, gain=1.5)
            w.matrix(b + "ffn_up", ff, D)
        w.matrix(b + "ffn_down", D, ff, gain=1.5)
        return
    E, F, L = m["experts"], m["ff"] if s["arch"] != "jamba" else ff, s["latent"] or D
    w.matrix(b + "ffn_gate_inp", E, D, gain=1.5)
    if gated:
        w.matrix(b + "ffn_gate_exps", E, F, L, gain=1.5)
    else:
        w.vector(b + "exp_probs_b.bias", E, 0.0, 0.2)
    w.matrix(b + "ffn_up_exps", E, F, L)
    w.matrix(b + "ffn_down_exps", E, L, F, gain=2.0)
    if s["latent"]:
        w.matrix(b + "ffn_latent_down", L, D, gain=1.5)
        w.matrix(b + "ffn_latent_up", D, L, gain=1.5)
    if m["shared"]:
        if gated:
            w.matrix(b + "ffn_gate_shexp", m["shared"], D, gain=1.5)
        w.matrix(b + "ffn_up_shexp", m["shared"], D)
        w.matrix(b + "ffn_down_shexp", D, m["shared"], gain=1.5)


# --- the same weights, as the framework has them --------------------------------------------------------------------
# where layers are, the name of their norm, of the mixers, of what is not in a layer
PLACES = {"mamba2": ("backbone", "norm", "mixer", "mixer", "embeddings", "norm_f"), "mamba": ("backbone", "norm", "mixer", "mixer", "embeddings", "norm_f"),
          "nemotron_h": ("model", "norm", "mixer", "mixer", "embeddings", "norm_f"),
          "granitehybrid": ("model", "input_layernorm", "mamba", "self_attn", "embed_tokens", "norm"),
          "falcon-h1": ("model", "input_layernorm", "mamba", "self_attn", "embed_tokens", "final_layernorm"),
          "jamba": ("model", "input_layernorm", "mamba", "self_attn", "embed_tokens", "final_layernorm")}
MIXER = {"ssm_in": "in_proj", "ssm_conv1d": "conv1d", "ssm_x": "x_proj", "ssm_dt": "dt_proj", "ssm_norm": "norm", "ssm_out": "out_proj",
         "ssm_dt_norm": "dt_layernorm", "ssm_b_norm": "b_layernorm", "ssm_c_norm": "c_layernorm"}
ATTENTION = {"attn_q": "q_proj", "attn_k": "k_proj", "attn_v": "v_proj", "attn_output": "o_proj"}


def hf_feed(s, slots):
    """Feed-forward: names in the file to names in a layer of the framework."""
    a, m = s["arch"], s["moe"]
    if a.startswith("nemotron"):
        return {"ffn_up": "mixer.up_proj", "ffn_down": "mixer.down_proj", "ffn_gate_inp": "mixer.gate", "ffn_up_shexp": "mixer.shared_experts.up_proj",
                "ffn_down_shexp": "mixer.shared_experts.down_proj", "ffn_latent_down": "mixer.fc1_latent_proj",
                "ffn_latent_up": "mixer.fc2_latent_proj", "ffn_up_exps": "mixer.experts.up_proj", "ffn_down_exps": "mixer.experts.down_proj"}
    if a == "granitehybrid":
        joint = {("ffn_gate_shexp", "ffn_up_shexp"): "ffn_gate_up_shexp", ("ffn_gate_exps", "ffn_up_exps"): "ffn_gate_up_exps"}
        if not m:
            joint = {("ffn_gate", "ffn_up"): "ffn_gate_up"}
        join(slots, joint)
        return {"ffn_norm": "post_attention_layernorm", "ffn_gate_up": "shared_mlp.input_linear", "ffn_down": "shared_mlp.output_linear",
                "ffn_gate_up_shexp": "shared_mlp.input_linear", "ffn_down_shexp": "shared_mlp.output_linear",
                "ffn_gate_inp": "block_sparse_moe.router", "ffn_gate_up_exps": "block_sparse_moe.experts.gate_up_proj",
                "ffn_down_exps": "block_sparse_moe.experts.down_proj"}
    join(slots, {("ffn_gate_exps", "ffn_up_exps"): "ffn_gate_up_exps"})
    return {"ffn_norm": "pre_ff_layernorm", "ffn_gate": "feed_forward.gate_proj", "ffn_up": "feed_forward.up_proj",
            "ffn_down": "feed_forward.down_proj", "ffn_gate_inp": "feed_forward.router", "ffn_gate_up_exps": "feed_forward.experts.gate_up_proj",
            "ffn_down_exps": "feed_forward.experts.down_proj"}


def join(slots, pairs):
    for (one, two), to in pairs.items():
        if one + ".weight" in slots:
            slots[to + ".weight"] = np.concatenate([slots.pop(one + ".weight"), slots.pop(two + ".weight")], axis=-2)


def hf_layer(s, layer, slots, place):
    slots, out = dict(slots), {}
    feed = hf_feed(s, slots)
    for name, x in slots.items():
        slot, _, kind = name.rpartition(".") if name not in ("ssm_a", "ssm_d", "ffn_norm") else (name, "", "weight")
        x = np.asarray(x, np.float64)
        if slot in ("ssm_a", "ssm_d", "ssm_norm"):
            x = x.reshape(-1) if not is_scan(s) else x
        if slot == "ssm_a":
            out[layer + place[2] + ".A_log"] = np.log(-x)
        elif slot == "ssm_d":
            out[layer + place[2] + ".D"] = x
        elif slot == "ssm_dt" and not is_scan(s):
            out[layer + place[2] + ".dt_bias"] = x
        elif slot == "attn_norm":
            out[layer + place[1] + ".weight"] = x
        elif slot == "exp_probs_b":
            out[layer + "mixer.gate.e_score_correction_bias"] = x
        elif slot in MIXER:
            out[layer + place[2] + "." + MIXER[slot] + "." + kind] = x[:, None] if slot == "ssm_conv1d" and kind == "weight" else x
        elif slot in ATTENTION:
            if s["arch"] == "granitehybrid" and slot in ("attn_q", "attn_k"):   # files have pairs beside each other, rotated or not
                x = pairs_to_halves(x, s["heads"] if slot == "attn_q" else s["kv"])
            out[layer + place[3] + "." + ATTENTION[slot] + "." + kind] = x
        else:
            to = feed[slot]
            out[layer + to + ("" if ".experts." in to else "." + kind)] = x
    return out


def hf_state(s, value):
    place = PLACES["nemotron_h" if s["arch"] == "nemotron_h_moe" else s["arch"]]
    state, layers = {}, [{} for _ in s["kinds"]]
    top = {"token_embd": place[0] + "." + place[4], "output": "lm_head", "output_norm": place[0] + "." + place[5]}
    for name, x in value.items():
        if name.startswith("blk."):
            _, i, slot = name.split(".", 2)
            layers[int(i)][slot] = x
        else:
            state[top[name.rpartition(".")[0]] + ".weight"] = np.asarray(x, np.float64)
    for i, slots in enumerate(layers):
        state.update(hf_layer(s, "%s.layers.%d." % (place[0], i), slots, place))
    return state


def hf_class(s):
    return "FalconMambaForCausalLM" if s.get("falcon") else CLASSES[s["arch"]][1]


def hf_config(s):
    a, m, inner = s["arch"], s["moe"], s["nh"] * s["dh"]
    c = dict(vocab_size=N_VOCAB, hidden_size=s["embd"], tie_word_embeddings=s["tied"], bos_token_id=None, eos_token_id=None, pad_token_id=None)
    attn = dict(num_attention_heads=s["heads"], num_key_value_heads=s["kv"], max_position_embeddings=s["ctx"], rms_norm_eps=s["eps"])
    kinds = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe", "B": "hybrid"}
    types = [kinds[k] for k in s["kinds"]]
    if a in ("mamba", "mamba2"):
        c.update(num_hidden_layers=len(s["kinds"]), state_size=s["ds"], conv_kernel=s["taps"], expand=inner // s["embd"],
                 layer_norm_epsilon=s["eps"], use_conv_bias=s["bias_conv"])
        c.update(dict(time_step_rank=s["rank"]) if a == "mamba" else dict(num_heads=s["nh"], head_dim=s["dh"], n_groups=s["groups"], chunk_size=16))
        if s.get("falcon"):
            c.update(mixer_rms_eps=s["eps"])
        return c
    if a == "jamba":
        return dict(c, **attn, num_hidden_layers=len(s["kinds"]), intermediate_size=s["ff"], attn_layer_period=4, attn_layer_offset=1,
                    expert_layer_period=2, expert_layer_offset=1, num_experts=m["experts"], num_experts_per_tok=m["used"],
                    mamba_d_state=s["ds"], mamba_d_conv=s["taps"], mamba_expand=inner // s["embd"], mamba_dt_rank=s["rank"])
    mamba = dict(mamba_n_heads=s["nh"], mamba_d_head=s["dh"], mamba_n_groups=s["groups"], mamba_d_state=s["ds"], mamba_d_conv=s["taps"],
                 mamba_chunk_size=16, mamba_conv_bias=s["bias_conv"])
    rope = dict(rope_type="default", rope_theta=s["theta"])
    if a == "falcon-h1":
        return dict(c, **attn, **mamba, num_hidden_layers=len(types), head_dim=s["hd"], intermediate_size=s["ff"], mamba_d_ssm=inner,
                    mamba_rms_norm=s["normed"], mamba_norm_before_gate=False, rope_parameters=rope)
    if a == "granitehybrid":
        k = s["scales"]
        return dict(c, **attn, **mamba, num_hidden_layers=len(types), layer_types=types, mamba_expand=inner // s["embd"],
                    intermediate_size=m["ff"] if m else s["ff"], shared_intermediate_size=m["shared"] if m else s["ff"],
                    num_local_experts=m["experts"] if m else 0, num_experts_per_tok=m["used"] if m else 0, embedding_multiplier=k["embd"],
                    logits_scaling=k["logit"], residual_multiplier=k["residual"], attention_multiplier=k["attn"], rope_parameters=rope,
                    position_embedding_type="rope" if s["roped"] else None)
    c.update(layer_types=types, num_attention_heads=s["heads"], num_key_value_heads=s["kv"], head_dim=s["hd"], layer_norm_epsilon=s["eps"],
             max_position_embeddings=s["ctx"], intermediate_size=s["ff"], mamba_num_heads=s["nh"], mamba_head_dim=s["dh"], n_groups=s["groups"],
             ssm_state_size=s["ds"], conv_kernel=s["taps"], chunk_size=16, use_conv_bias=s["bias_conv"], mlp_hidden_act="relu2")
    if m:
        c.update(n_routed_experts=m["experts"], num_experts_per_tok=m["used"], moe_intermediate_size=m["ff"], norm_topk_prob=True,
                 moe_shared_expert_intermediate_size=m["shared"], n_group=1, topk_group=1, routed_scaling_factor=1.5,
                 moe_latent_size=s["latent"] or None)
    return c


def scores(module, out):
    """The scores by which a router's experts are chosen."""
    if hasattr(module, "e_score_correction_bias"):
        return out[0].sigmoid() + module.e_score_correction_bias
    logits = out[0] if isinstance(out, tuple) else out
    return logits if logits.ndim == 2 else logits.flatten(0, 1)


ROUTER = (("mixer.gate", "feed_forward.router", "block_sparse_moe.router"), scores)


def hub_config(s):
    """What configs on the hub say of layers and norms, `...` for a member that they have not; transformers has no class for plamo2."""
    if s["arch"] == "plamo2":
        return None
    types = {"M": "mamba", "*": "attention"}
    if s["arch"] == "granitehybrid":
        return dict(layer_types=[types[k] for k in s["kinds"]], model_type="granitemoehybrid")
    if s["arch"].startswith("nemotron"):
        moe = dict(n_shared_experts=1) if s["moe"] else dict.fromkeys(("num_experts_per_tok", "n_routed_experts", "n_shared_experts", "n_group", "topk_group"), ...)
        return dict(moe, num_hidden_layers=len(s["kinds"]), hybrid_override_pattern=s["kinds"], mamba_d_head=s["dh"], rms_norm_eps=s["eps"])
    return {}


# --- the keys -------------------------------------------------------------------------------------------------------
def write_keys(g, s):
    a, m, n = s["arch"], s["moe"], len(s["kinds"])
    attends = [k in "*B" for k in s["kinds"]]
    g.add_context_length(s["ctx"])
    g.add_embedding_length(s["embd"])
    g.add_block_count(n)
    g.add_layer_norm_rms_eps(s["eps"])
    g.add_ssm_conv_kernel(s["taps"])
    g.add_ssm_state_size(s["ds"])
    g.add_ssm_inner_size(s["nh"] * s["dh"])
    g.add_ssm_time_step_rank(s["rank"] if a in ("mamba", "jamba") else s["nh"])
    if a not in ("mamba", "jamba"):
        g.add_ssm_group_count(0 if a == "plamo2" else s["groups"])
    if a == "mamba":
        g.add_ssm_dt_b_c_rms(bool(s.get("falcon")))
    if a in ("mamba", "mamba2"):
        g.add_feed_forward_length(0)
        g.add_head_count(0)
        return
    g.add_head_count([s["heads"] * x for x in attends] if a == "plamo2" else s["heads"])
    g.add_head_count_kv(s["kv"] if a == "falcon-h1" else [s["kv"] * x for x in attends])
    if a in ("falcon-h1", "plamo2") or a.startswith("nemotron"):
        g.add_key_length(s["hd"])
        g.add_value_length(s["hd"])
    if a.startswith("nemotron"):
        g.add_feed_forward_length([(m["ff"] if m else s["ff"]) * has_ffn(s, i) for i in range(n)])
    else:
        g.add_feed_forward_length(m["ff"] if a == "granitehybrid" and m else s["ff"])
    if a in ("falcon-h1", "plamo2", "granitehybrid"):
        g.add_rope_freq_base(s["theta"])
    if a == "granitehybrid":
        k = s["scales"]
        g.add_attention_scale(k["attn"])
        g.add_embedding_scale(k["embd"])
        g.add_residual_scale(k["residual"])
        g.add_logit_scale(k["logit"])
        g.add_rope_scaling_finetuned(s["roped"])
        g.add_rope_dimension_count(s["hd"])
        g.add_vocab_size(N_VOCAB)
    if m:
        g.add_expert_count(m["experts"])
        g.add_expert_used_count(m["used"])
        if m["shared"]:
            g.add_expert_shared_feed_forward_length(m["shared"])
    if a == "nemotron_h_moe":
        g.add_expert_feed_forward_length(m["ff"])
        g.add_expert_shared_count(1)
        g.add_expert_weights_norm(True)
        g.add_expert_weights_scale(1.5)
        g.add_expert_group_count(1)
        if s["latent"]:
            g.add_uint32(a + ".moe_latent_size", s["latent"])
