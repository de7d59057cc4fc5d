"""Models of RWKV-7 (rwkv7, arwkv7) and RWKV-6 (rwkv6, rwkv6qwen2).

A family of tests/gen/tiny_models.py. transformers has no class for them: the golden values are those of the reading in
tests/tiny_read_rwkv.py.
"""
import numpy as np

from tiny_base import N_VOCAB

MODULES = []


def float_types(name):
    """F32 where layers of these models are new, F16 elsewhere: smaller files."""
    return "F16" if "ffn_" in name or "channel_mix" in name or name in ("token_embd", "output") else "F32"


# hs: size of a head; kv: heads of keys, in rwkv6qwen2; rank: of the decay, the rate, the values and the mix; gate: rank of the gate, 0: there is none
RWKV = dict(type=float_types, metric="nmse", embd=16, layers=2, hs=8, kv=2, ff=24, eps=1e-5, tied=False, rank=4, gate=6, every=0)
MODELS = {
    "rwkv7": dict(RWKV, vocab="rwkv", arch="rwkv7", layers=3, greedy=True),
    "arwkv7": dict(RWKV, arch="arwkv7", eps=1e-6),
    "arwkv7_plain": dict(RWKV, arch="arwkv7", eps=1e-6, gate=0, normed=False),
    "rwkv6": dict(RWKV, vocab="rwkv", arch="rwkv6", layers=3, every=2, greedy=True),
    "rwkv6qwen2": dict(RWKV, arch="rwkv6qwen2", eps=1e-6, embd=32, kv=2, hs=8),
}


def draw(w, s):
    D, seven, own = s["embd"], "7" in s["arch"][:6], s["arch"] in ("rwkv6", "rwkv7")
    w.matrix("token_embd", N_VOCAB, D, gain=np.sqrt(D))
    if own:
        norm(w, "token_embd_norm", D)
    for i in range(s["layers"]):
        b = "blk.%d." % i
        norm(w, b + "attn_norm", D, own)
        (draw_7 if seven else draw_6)(w, s, b, i)
        if own:
            norm(w, b + "attn_norm_2", D)
            w.vector(b + "channel_mix_lerp_k.weight", D, 0.5, 0.3)
            w.matrix(b + "channel_mix_key", s["ff"], D, gain=1.3)
            w.matrix(b + "channel_mix_value", D, s["ff"], gain=1.5)
            if not seven:
                w.vector(b + "channel_mix_lerp_r.weight", D, 0.5, 0.3)
                w.matrix(b + "channel_mix_receptance", D, D, gain=1.5)
        else:
            norm(w, b + "ffn_norm", D, False)
            for name, rows, cols in (("gate", s["ff"], D), ("up", s["ff"], D), ("down", D, s["ff"])):
                w.matrix(b + "ffn_" + name, rows, cols, gain=1.3)
    norm(w, "output_norm", D, own)
    w.matrix("output", N_VOCAB, D, gain=s["out"])


def norm(w, name, n, bias=True):
    w.vector(name + ".weight", n, 1.0, 0.2)
    if bias:
        w.vector(name + ".bias", n, 0.0, 0.2)


def low_rank(w, b, name, rank, D):
    w.matrix(b + name + "1", rank, D, gain=1.5)
    w.matrix(b + name + "2", D, rank, gain=1.5)


def draw_7(w, s, b, i):
    D = s["embd"]
    w.vector(b + "time_mix_lerp_fused.weight", (6 if s["gate"] else 5, 1, 1, D), 0.5, 0.3)
    w.vector(b + "time_mix_w0.weight", D, -1.0, 1.5)
    for name in "av"[:1 + (i > 0)]:
        w.vector(b + "time_mix_%s0.weight" % name, D, 0.0, 0.5)
        low_rank(w, b, "time_mix_" + name, s["rank"], D)
    if i == 0:                                          # llama.cpp's converter writes those of the rate once more, which nothing reads
        for end in "012":
            name = b + "time_mix_%s" + end + ".weight"
            w.data[name % "v"], w.value[name % "v"] = w.data[name % "a"], w.value[name % "a"]
    low_rank(w, b, "time_mix_w", s["rank"], D)
    if s["gate"]:
        low_rank(w, b, "time_mix_g", s["gate"], D)
    for name, mean, std in (("k_k", 0.9, 0.2), ("k_a", 0.9, 0.2), ("r_k", 0.0, 0.4)):
        w.vector(b + "time_mix_%s.weight" % name, D, mean, std)
    for name in ("receptance", "key", "value", "output"):
        w.matrix(b + "time_mix_" + name, D, D, gain=1.3)
    if s.get("normed", True):
        norm(w, b + "time_mix_ln", D)


def draw_6(w, s, b, i):
    D, rank, kv = s["embd"], s["rank"], s["kv"] * s["hs"]
    w.vector(b + "time_mix_lerp_x.weight", D, 0.5, 0.3)
    w.vector(b + "time_mix_lerp_fused.weight", (5, 1, 1, D), 0.5, 0.3)
    w.matrix(b + "time_mix_w1", 5 * rank, D)
    w.matrix(b + "time_mix_w2", 5, D, rank, gain=0.7)
    if s["arch"] == "rwkv6":
        w.vector(b + "time_mix_first.weight", (D // s["hs"], s["hs"]), 0.5, 0.4)
        norm(w, b + "time_mix_ln", D)
        kv = D
    w.vector(b + "time_mix_decay.weight", D, -1.5, 1.0)
    low_rank(w, b, "time_mix_decay_w", rank, D)
    for name, rows in (("receptance", D), ("key", kv), ("value", kv), ("gate", D), ("output", D)):
        w.matrix(b + "time_mix_" + name, rows, D, gain=1.3)
        if s["arch"] == "rwkv6qwen2" and name in ("receptance", "key", "value"):
            w.vector(b + "time_mix_%s.bias" % name, rows, 0.0, 0.3)


def hf_class(s):
    return None


def write_keys(g, s):
    a = s["arch"]
    g.add_context_length(s["ctx"])
    g.add_embedding_length(s["embd"])
    g.add_block_count(s["layers"])
    g.add_head_count(0)
    g.add_feed_forward_length(s["ff"])
    (g.add_layer_norm_eps if a in ("rwkv6", "rwkv7") else g.add_layer_norm_rms_eps)(s["eps"])
    g.add_wkv_head_size(s["hs"])
    if a.startswith("rwkv6"):
        g.add_time_mix_extra_dim(s["rank"])
        g.add_time_decay_extra_dim(s["rank"])
    else:
        g.add_decay_lora_rank(s["rank"])
        g.add_iclr_lora_rank(s["rank"])
        g.add_value_residual_mix_lora_rank(s["rank"])
        g.add_gate_lora_rank(s["gate"])
    if a == "rwkv6":
        g.add_rescale_every_n_layers(s["every"])
    if a in ("arwkv7", "rwkv6qwen2"):
        g.add_token_shift_count(1)
    if a == "rwkv6qwen2":
        g.add_head_count_kv(s["kv"])
