#!/usr/bin/env python3
"""Tiny random models as GGUF, with the logits that transformers computes for them in float64.

    python3 tests/gen/tiny_models.py            # all of tests/data/tiny and its manifest.txt
    python3 tests/gen/tiny_models.py llama q    # only models whose name starts so; the manifest is left alone

Needs torch, transformers, gguf, numpy. Each model has a fixed seed of its own, so the files come out the same
whichever are built. tests/data/README.md tells what is what; tests/tiny_check.py checks the files with numpy alone.

To add a model: one row in MODELS; for a new architecture also a branch in hf_class and, if it has tensors nobody had,
in draw_layer and hf_state.
"""
import os
import sys
import zlib

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import tiny_blocks as blocks                                    # noqa: E402
from gguf import GGUFWriter                                     # noqa: E402

OUT = os.path.join(HERE, "..", "data", "tiny")
N_VOCAB = 272
N_CTX = 256
N_PROMPT = 80                                   # more than two attention tiles of 32; not a multiple of them
GREEDY = 24


def f32(x):
    """What a float becomes in the file."""
    return float(np.float32(x))


# --- the models -----------------------------------------------------------------------------------------------------
# embd, layers, heads, kv, hd, ff: sizes; out: standard deviation of the logits; sharp: its square is that of the attention
# scores; type: of every matrix, or a function of the tensor's name; n: tokens of the prompt; rows, step: golden positions
# are every `step`-th up to the last.
BASE = dict(arch="llama", embd=32, layers=2, heads=4, kv=2, hd=16, ff=64, tied=True, theta=10000.0, eps=1e-5, rope={},
            bias=(), window=0, moe=None, type="F32", out=2.5, sharp=1.5, n=N_PROMPT, rows=8, step=10, greedy=False)
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
    "qwen3": dict(arch="qwen3", hd=32, eps=1e-6, theta=1000000.0, greedy=True),
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


def spec_of(name):
    s = dict(BASE, name=name, attn_factor=1.0)
    s.update(MODELS[name])
    s["eps"], s["seed"] = f32(s["eps"]), zlib.crc32(name.encode())
    s["metric"] = "nmse" if s["type"] in ("F32", "F16") else "kl"
    s["limit"] = "1e-6" if s["metric"] == "nmse" else "1e-3"
    return s


# --- vocabularies ---------------------------------------------------------------------------------------------------
def add_spm_vocab(w):
    pieces = ["\u2581", "e", "t", "a", "o", "n", "h", "he", "th", "the", "\u2581t", "\u2581the", "\u2581a"]
    tokens = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % i for i in range(256)] + pieces
    assert len(tokens) == N_VOCAB
    w.add_tokenizer_model("llama")
    w.add_token_list(tokens)
    w.add_token_scores([0.0] * 259 + [-float(len(pieces) - i) for i in range(len(pieces))])
    w.add_token_types([2, 3, 3] + [6] * 256 + [1] * len(pieces))
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    w.add_add_bos_token(True)
    w.add_add_eos_token(False)


def add_bpe_vocab(w):
    plain = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b <= 255]
    byte = {b: chr(b) for b in plain}
    byte.update({b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in byte)})
    merges = ["h e", "t he", "Ġ t", "Ġt he", "Ġ a", "i n", "a n", "an d", "Ġ and", "e r", "r e", "o n"]
    tokens = [byte[b] for b in range(256)] + [m.replace(" ", "") for m in merges]
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"]
    assert len(tokens) + len(special) == N_VOCAB and len(set(tokens)) == len(tokens)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("qwen2")
    w.add_token_list(tokens + special)
    w.add_token_types([1] * len(tokens) + [3] * len(special))
    w.add_token_merges(merges)
    w.add_eos_token_id(N_VOCAB - 2)
    w.add_bos_token_id(N_VOCAB - 4)
    w.add_pad_token_id(N_VOCAB - 1)
    w.add_add_bos_token(False)


def is_spm(s):
    return s["arch"] == "llama"


def stop_ids(s):
    return {2} if is_spm(s) else {N_VOCAB - 4, N_VOCAB - 2}


# --- weights, in the file's names and layout ------------------------------------------------------------------------
class Weights:
    """data: what goes into the file; value: the float32 numbers it means."""

    def __init__(self, s):
        self.s, self.rng, self.data, self.value = s, np.random.default_rng(s["seed"]), {}, {}

    def matrix(self, name, *shape, gain=1.0, plain=False):
        s = self.s
        std = gain / np.sqrt(shape[-1])
        t = "F32" if plain else s["type"](name) if callable(s["type"]) else s["type"]
        data, raw, value = blocks.draw(t, self.rng, shape, std)
        self.data[name + ".weight"], self.value[name + ".weight"] = (data, raw), value
        if name.split(".")[-1] in s["bias"]:
            self.vector(name + ".bias", shape[0], 0.0, 0.4)

    def vector(self, name, n, mean, std):
        v = (mean + std * self.rng.standard_normal(n)).astype(np.float32)
        self.data[name], self.value[name] = (v, None), v


def draw_weights(s):
    w = Weights(s)
    D, q, kv = s["embd"], s["heads"] * s["hd"], s["kv"] * s["hd"]
    w.matrix("token_embd", N_VOCAB, D, gain=s["out"] if s["tied"] else np.sqrt(D))
    for i in range(s["layers"]):
        draw_layer(w, s, "blk.%d." % i, D, q, kv)
    w.vector("output_norm.weight", D, 1.0, 0.2)
    if not s["tied"]:
        w.matrix("output", N_VOCAB, D, gain=s["out"])
    if s["rope"].get("rope_type") == "llama3":
        factors = llama3_factors(s).astype(np.float32)
        w.data["rope_freqs.weight"], w.value["rope_freqs.weight"] = (factors, None), factors
    return w


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


def llama3_factors(s):
    """By what each pair's frequency is divided, as the Llama 3.1 recipe says."""
    r = s["rope"]
    wave = 2 * np.pi * s["theta"] ** (np.arange(0, s["hd"], 2) / s["hd"])
    low, high = r["low_freq_factor"], r["high_freq_factor"]
    keep = np.clip((r["original_max_position_embeddings"] / wave - low) / (high - low), 0, 1)
    return 1 / ((1 - keep) / r["factor"] + keep)


# --- the same weights, as the framework names them ------------------------------------------------------------------
def halves_to_pairs(x, heads):
    """Rows of Q or K: the framework rotates row i of a head with i + hd/2, `llama` files keep such pairs adjacent."""
    return x.reshape(heads, 2, x.shape[0] // heads // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def pairs_to_halves(x, heads):
    y = x.reshape(heads, x.shape[0] // heads // 2, 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)
    assert (halves_to_pairs(y, heads) == x).all()
    return y


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
        _, i, slot, kind = name.split(".")
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
def write_gguf(s, w, path):
    g = GGUFWriter(path, s["arch"])
    g.add_name("tiny " + s["name"])
    g.add_description("random weights; made by tests/gen/tiny_models.py %s" % s["name"])
    g.add_context_length(N_CTX)
    g.add_embedding_length(s["embd"])
    g.add_block_count(s["layers"])
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
    (add_spm_vocab if is_spm(s) else add_bpe_vocab)(g)
    write_tensors(g, w)


def write_tensors(g, w):
    """Adds the weights to a file whose keys are complete, and closes it."""
    for name, (data, raw) in w.data.items():
        g.add_tensor(name, data, raw_dtype=raw)
    g.write_header_to_file()
    g.write_kv_data_to_file()
    g.write_tensors_to_file()
    g.close()


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


def add_rope_keys(g, s):
    from gguf import RopeScalingType
    r = s["rope"]
    kind = {"linear": RopeScalingType.LINEAR, "yarn": RopeScalingType.YARN}.get(r.get("rope_type"))
    if kind is None:
        return
    g.add_rope_scaling_type(kind)
    g.add_rope_scaling_factor(r["factor"])
    if kind == RopeScalingType.YARN:
        g.add_rope_scaling_orig_ctx_len(r["original_max_position_embeddings"])
    if s["attn_factor"] != 1.0:
        g.add_rope_scaling_attn_factors(s["attn_factor"])


# --- prompts and golden values --------------------------------------------------------------------------------------
def draw_prompt(s, oracle):
    """Random ids. In a mixture of experts a token near a tie is drawn again, so that rounding does not choose."""
    rng = np.random.default_rng(s["seed"] + 1)
    lo, hi = (3, N_VOCAB) if is_spm(s) else (0, N_VOCAB - 4)
    ids = [int(i) for i in rng.integers(lo, hi, s["n"])]
    if is_spm(s):
        ids[0] = 1
    if s["moe"]:
        least = 0.02 if s["metric"] == "nmse" else 0.12
        for _ in range(5000):
            oracle.logits(ids)
            near = np.flatnonzero(oracle.router_gaps(s["moe"]["used"]) < least)
            if not len(near):
                return ids
            ids[near[0]] = int(rng.integers(lo, hi))
        raise SystemExit("%s: no prompt without a near tie" % s["name"])
    return ids


def greedy_ids(s, oracle, ids):
    """GREEDY further ids by argmax, None if a runner-up comes within 1e-3 or a token would end the text."""
    seq = list(ids)
    for _ in range(GREEDY):
        top = oracle.logits(seq)[-1]
        first, second = np.argsort(-top)[:2]
        if top[first] - top[second] < 1e-3 or int(first) in stop_ids(s):
            return None
        seq.append(int(first))
    return seq[len(ids):]


def write_ids(path, ids):
    with open(path, "w") as f:
        f.write(" ".join(map(str, ids)) + "\n")


def build(name):
    from tiny_oracle import Oracle
    s = spec_of(name)
    w = draw_weights(s)
    write_gguf(s, w, os.path.join(OUT, name + ".gguf"))
    oracle = Oracle(hf_class(s), hf_config(s), hf_state(s, w.value))
    if "rope_freqs.weight" in w.value:          # the framework's frequencies are the plain ones over the file's factors
        plain = s["theta"] ** (-np.arange(0, s["hd"], 2) / s["hd"])
        assert np.allclose(oracle.inv_freq * w.value["rope_freqs.weight"], plain, rtol=1e-6, atol=0)
    ids = draw_prompt(s, oracle)
    logits = oracle.logits(ids)
    first = s["n"] - 1 - (s["rows"] - 1) * s["step"]
    logits[first::s["step"]].astype("<f4").tofile(os.path.join(OUT, name + ".f32"))
    write_ids(os.path.join(OUT, name + ".ids"), ids)
    greedy = greedy_ids(s, oracle, ids) if s["greedy"] else []
    assert greedy is not None, name + ": greedy text near a tie, change its seed"
    if greedy:
        write_ids(os.path.join(OUT, name + ".greedy"), greedy)
    size = os.path.getsize(os.path.join(OUT, name + ".gguf"))
    print("%-24s %7d bytes  logits sd %.2f" % (name, size, logits.std()))
    return "%s %s.gguf %s.ids %s.f32 %s %d %d %d %d %d %s %s\n" % (
        name, name, name, name, name + ".greedy" if greedy else "-", s["n"], N_VOCAB, first, s["step"], s["rows"],
        s["metric"], s["limit"])


def main(args):
    os.makedirs(OUT, exist_ok=True)
    names = [n for n in MODELS if not args or any(n.startswith(a) for a in args)]
    lines = [build(n) for n in names]
    if not args:
        path = os.path.join(OUT, "manifest.txt")
        lines += [r for r in open(path) if r.split()[0] not in MODELS]          # of other scripts
        with open(path, "w") as f:
            f.writelines(lines)


if __name__ == "__main__":
    main(sys.argv[1:])
