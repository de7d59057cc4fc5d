"""The family of tests/gen/tiny_models.py with the architectures llama, qwen2, qwen3, qwen2moe and qwen3moe."""
import numpy as np

from tiny_base import N_CTX, N_VOCAB, add_rope_keys, f32, pairs_to_halves

MODULES = ["models.%s.modeling_%s" % (m, m) for m in ("llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen2_moe", "qwen3_moe")]

# Eight-bit activations alone move the logits by 1e-3 to 3e-3 of their variance, so the quantised models are kept calmer:
# with logits of deviation 1 that is a KL of 2e-4 to 6e-4 (tests/tiny_check.py --act8), under the limit of 1e-3.
QUANT = dict(layers=1, out=1.0, sharp=1.1)
Q256 = dict(QUANT, embd=256, heads=4, kv=1, hd=64, ff=256)
Q32 = dict(QUANT, embd=64, ff=288)                # ff: one block of 256 activations and a tail


QKV = ("attn_q", "attn_k", "attn_v")
TRAINED = dict(original_max_position_embeddings=64)
YARN = dict(TRAINED, rope_type="yarn", factor=4.0)


def mix(attn, up, down):
    """One type for attention and the embedding (which is also the output), others for ffn_gate, ffn_up and ffn_down."""
    return lambda name: down if "ffn_down" in name else up if ".ffn_" in name else attn


def q4_k_m(name):
    return "Q6_K" if "attn_v" in name or "ffn_down" in name or "token_embd" in name else "Q4_K"


MODELS = {
    "llama": dict(embd=48, hd=12, ff=80, tied=False, greedy=True),
    "llama_rope3": dict(layers=1, theta=500000.0, rope=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0,
                                                            high_freq_factor=4.0, **TRAINED)),
    "llama_linear": dict(layers=1, rope=dict(rope_type="linear", factor=4.0)),
    "llama_yarn": dict(layers=1, rope=YARN),
    "llama_yarn_attn": dict(layers=1, rope=dict(YARN, factor=8.0), attn_factor=0.75),
    "llama_bias": dict(layers=1, bias=QKV + ("attn_output", "ffn_gate", "ffn_up", "ffn_down")),
    "llama_window": dict(window=24),
    "llama_odd": dict(embd=60, heads=3, kv=1, hd=20, ff=90, layers=1),
    "llama_mha": dict(heads=4, kv=4, hd=8, ff=33),
    "llama_moe": dict(moe=dict(experts=4, used=2, ff=32, norm=True)),
    "qwen2": dict(arch="qwen2", embd=48, hd=12, bias=QKV, eps=1e-6, theta=1000000.0, greedy=True),
    "qwen2_output_bias": dict(arch="qwen2", cls=None, layers=1, embd=16, heads=2, kv=1, hd=8, ff=24, bias=QKV + ("output",), eps=1e-6, tied=False),
    "qwen3": dict(arch="qwen3", hd=32, eps=1e-6, theta=1000000.0, greedy=True),
    "qwen3_mtp": dict(arch="qwen3", layers=1, eps=1e-6, theta=1000000.0, mtp=True),
    "qwen3_yarn": dict(layers=1, arch="qwen3", eps=1e-6, rope=YARN),
    "qwen2moe": dict(layers=1, arch="qwen2moe", hd=8, bias=QKV, eps=1e-6, tied=False,
                     moe=dict(experts=6, used=3, ff=24, shared=40, norm=False)),
    "qwen3moe": dict(arch="qwen3moe", eps=1e-6, layers=1, moe=dict(experts=8, used=2, ff=24, norm=True)),
    "llama_f16": dict(type="F16", embd=48, hd=12),
    "qwen2_bf16": dict(arch="qwen2", type="BF16", embd=48, hd=12, bias=QKV, eps=1e-6),
    "llama_q4_k_m": dict(Q256, type=q4_k_m),
    "qwen3_q8_0": dict(QUANT, arch="qwen3", embd=96, hd=32, eps=1e-6, type="Q8_0", layers=2),
    "qwen3moe_q8_0": dict(QUANT, arch="qwen3moe", embd=64, heads=4, kv=2, hd=32, eps=1e-6, type="Q8_0", n=48, step=5,
                          moe=dict(experts=8, used=2, ff=32, norm=True)),
    "llama_moe_q4_0": dict(QUANT, embd=64, heads=4, kv=2, hd=16, type="Q4_0", n=48, step=5,
                           moe=dict(experts=4, used=2, ff=64, norm=True)),
}
BY_32 = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "IQ4_NL", "MXFP4")
MODELS.update({"t_" + t.lower(): dict(Q32, type=t) for t in BY_32})
MODELS.update({"t_" + t.lower(): dict(Q32, ff=320, type=t) for t in ("NVFP4", "Q2_0")})
MODELS.update({"t_q1_0": dict(Q32, embd=128, hd=32, ff=384, type="Q1_0")})
MIXES = [("Q2_K", "IQ2_XXS", "Q5_K"), ("Q3_K", "IQ1_M", "IQ4_XS"), ("TQ2_0", "IQ3_XXS", "IQ3_S"),
         ("IQ2_S", "TQ1_0", "IQ2_XS"), ("IQ1_S", "IQ1_S", "IQ1_S")]
MODELS.update({"t_" + "_".join(dict.fromkeys(m)).lower(): dict(Q256, type=mix(*m)) for m in MIXES})
# mtp: a draft head behind the last layer
for row in MODELS.values():
    row.setdefault("mtp", False)
    row["vocab"] = "spm" if row.get("arch", "llama") == "llama" else "bpe"


# --- weights, in the file's names and layout ------------------------------------------------------------------------
def draw(w, s):
    D, q, kv = s["embd"], s["heads"] * s["hd"], s["kv"] * s["hd"]
    w.matrix("token_embd", N_VOCAB, D, gain=s["out"] if s["tied"] else np.sqrt(D))
    for i in range(s["layers"] + s["mtp"]):
        draw_layer(w, s, "blk.%d." % i, D, q, kv)
    if s["mtp"]:
        draw_head(w, "blk.%d.nextn." % s["layers"], D)
    w.vector("output_norm.weight", D, 1.0, 0.2)
    if not s["tied"]:
        w.matrix("output", N_VOCAB, D, gain=s["out"])
    if s["rope"].get("rope_type") == "llama3":
        factors = llama3_factors(s).astype(np.float32)
        w.data["rope_freqs.weight"], w.value["rope_freqs.weight"] = (factors, None), factors


def draw_layer(w, s, b, D, q, kv):
    normed = s["arch"].startswith("qwen3")
    sharp = 1.0 if normed else s["sharp"]
    w.vector(b + "attn_norm.weight", D, 1.0, 0.2)
    w.matrix(b + "attn_q", q, D, gain=sharp)
    w.matrix(b + "attn_k", kv, D, gain=sharp)
    w.matrix(b + "attn_v", kv, D)
    w.matrix(b + "attn_output", D, q, gain=1.5)
    if normed:
        w.vector(b + "attn_q_norm.weight", s["hd"], s["sharp"], 0.2 * s["sharp"])
        w.vector(b + "attn_k_norm.weight", s["hd"], s["sharp"], 0.2 * s["sharp"])
    w.vector(b + "ffn_norm.weight", D, 1.0, 0.2)
    moe = s["moe"]
    if not moe:
        w.matrix(b + "ffn_gate", s["ff"], D, gain=1.5)
        w.matrix(b + "ffn_up", s["ff"], D)
        w.matrix(b + "ffn_down", D, s["ff"], gain=1.5)
        return
    E, F = moe["experts"], moe["ff"]
    w.matrix(b + "ffn_gate_inp", E, D, gain=1.5, plain=True)
    w.matrix(b + "ffn_gate_exps", E, F, D, gain=1.5)
    w.matrix(b + "ffn_up_exps", E, F, D)
    w.matrix(b + "ffn_down_exps", E, D, F, gain=2.0)
    if "shared" in moe:
        w.vector(b + "ffn_gate_inp_shexp.weight", D, 0.0, 1.5 / np.sqrt(D))
        w.matrix(b + "ffn_gate_shexp", moe["shared"], D, gain=1.5)
        w.matrix(b + "ffn_up_shexp", moe["shared"], D)
        w.matrix(b + "ffn_down_shexp", D, moe["shared"], gain=1.5)


def draw_head(w, b, D):
    w.matrix(b + "eh_proj", D, 2 * D)
    for name in "enorm", "hnorm", "shared_head_norm":
        w.vector(b + name + ".weight", D, 1.0, 0.2)


def check(s, value, oracle):
    """The framework's frequencies are the plain ones over the file's factors."""
    if "rope_freqs.weight" in value:
        plain = s["theta"] ** (-np.arange(0, s["hd"], 2) / s["hd"])
        inv_freq = oracle.model.model.rotary_emb.inv_freq.numpy()
        assert np.allclose(inv_freq * value["rope_freqs.weight"], plain, rtol=1e-6, atol=0)


def llama3_factors(s):
    """By what each pair's frequency is divided, as the Llama 3.1 recipe says."""
    r = s["rope"]
    wave = 2 * np.pi * s["theta"] ** (np.arange(0, s["hd"], 2) / s["hd"])
    low, high = r["low_freq_factor"], r["high_freq_factor"]
    keep = np.clip((r["original_max_position_embeddings"] / wave - low) / (high - low), 0, 1)
    return 1 / ((1 - keep) / r["factor"] + keep)


# --- the same weights, as the framework names them ------------------------------------------------------------------
HF_NAMES = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
            "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
            "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
            "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", "ffn_gate_inp": "mlp.gate",
            "ffn_gate_shexp": "mlp.shared_expert.gate_proj", "ffn_up_shexp": "mlp.shared_expert.up_proj",
            "ffn_down_shexp": "mlp.shared_expert.down_proj", "ffn_gate_inp_shexp": "mlp.shared_expert_gate"}
HF_TOP = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
          "output.weight": "lm_head.weight"}


def hf_state(s, value):
    state = {}
    for name, x in value.items():
        if name in HF_TOP:
            state[HF_TOP[name]] = x
        if not name.startswith("blk."):
            continue
        _, i, slot, kind = (name.split(".") + [""])[:4]
        if int(i) >= s["layers"]:
            continue                                  # a draft head, which the framework has not
        layer = "model.layers.%s." % i
        if s["arch"] == "llama" and slot in ("attn_q", "attn_k"):
            x = pairs_to_halves(x, s["heads"] if slot == "attn_q" else s["kv"])
        if slot == "ffn_gate_inp_shexp":
            x = x[None, :]
        if slot == "ffn_gate_exps":
            up = value["blk.%s.ffn_up_exps.weight" % i]
            state[layer + "mlp.experts.gate_up_proj"] = np.concatenate([x, up], axis=1)
        elif slot == "ffn_down_exps":
            state[layer + "mlp.experts.down_proj"] = x
        elif slot != "ffn_up_exps":
            state[layer + HF_NAMES[slot] + "." + kind] = x
    return state


def hf_class(s):
    if "cls" in s:                              # the framework's class has no bias of the output
        return s["cls"]
    if s["arch"] == "llama":
        return "MixtralForCausalLM" if s["moe"] else "MistralForCausalLM" if s["window"] else "LlamaForCausalLM"
    return {"qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM", "qwen2moe": "Qwen2MoeForCausalLM",
            "qwen3moe": "Qwen3MoeForCausalLM"}[s["arch"]]


def hf_config(s):
    rope = dict({"rope_type": "default"}, **s["rope"], rope_theta=s["theta"])
    if rope["rope_type"] == "yarn":             # the file's attn_factor multiplies the usual magnitude
        rope["attention_factor"] = f32(s["attn_factor"]) * (1 + 0.1 * np.log(rope["factor"]))
    c = dict(vocab_size=N_VOCAB, hidden_size=s["embd"], num_hidden_layers=s["layers"], num_attention_heads=s["heads"],
             num_key_value_heads=s["kv"], head_dim=s["hd"], intermediate_size=s["ff"], rms_norm_eps=s["eps"],
             max_position_embeddings=N_CTX, rope_parameters=rope, tie_word_embeddings=s["tied"], hidden_act="silu",
             bos_token_id=None, eos_token_id=None, pad_token_id=None, sliding_window=s["window"] or None)
    cls = hf_class(s)
    if cls == "LlamaForCausalLM":
        c.update(attention_bias="attn_q" in s["bias"], mlp_bias="ffn_up" in s["bias"])
        del c["sliding_window"]
    if s["moe"]:
        m = s["moe"]
        c.update(num_experts_per_tok=m["used"], decoder_sparse_step=1, mlp_only_layers=[])
        if cls == "MixtralForCausalLM":
            c.update(num_local_experts=m["experts"], intermediate_size=m["ff"])
            del c["decoder_sparse_step"], c["mlp_only_layers"]
        else:
            c.update(num_experts=m["experts"], moe_intermediate_size=m["ff"], norm_topk_prob=m["norm"])
        if "shared" in m:
            c.update(shared_expert_intermediate_size=m["shared"])
    return c


# --- the file -------------------------------------------------------------------------------------------------------
def write_keys(g, s):
    g.add_context_length(N_CTX)
    g.add_embedding_length(s["embd"])
    g.add_block_count(s["layers"] + s["mtp"])
    if s["mtp"]:
        g.add_uint32(s["arch"] + ".nextn_predict_layers", 1)
    g.add_head_count(s["heads"])
    g.add_head_count_kv(s["kv"])
    g.add_layer_norm_rms_eps(s["eps"])
    g.add_rope_freq_base(s["theta"])
    g.add_vocab_size(N_VOCAB)
    if s["arch"] == "llama":
        g.add_rope_dimension_count(s["hd"])
    if s["arch"].startswith("qwen3") or s["hd"] * s["heads"] != s["embd"]:
        g.add_key_length(s["hd"])
        g.add_value_length(s["hd"])
    add_moe_keys(g, s)
    add_rope_keys(g, s)
    if s["window"]:
        g.add_sliding_window(s["window"])


def add_moe_keys(g, s):
    m = s["moe"]
    g.add_feed_forward_length(m["ff"] if m and s["arch"] == "llama" else s["ff"])
    if m:
        g.add_expert_count(m["experts"])
        g.add_expert_used_count(m["used"])
        if s["arch"] != "llama":
            g.add_expert_feed_forward_length(m["ff"])
        if "shared" in m:
            g.add_expert_shared_feed_forward_length(m["shared"])
