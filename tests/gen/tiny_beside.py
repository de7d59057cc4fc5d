#!/usr/bin/env python3
"""Draft heads in files of their own, tests/data/tiny/beside/NAME.gguf, and their guesses, NAME.guess.

    python3 tests/gen/tiny_beside.py [NAME ...]          # heads whose name starts so, or all

gemma4-assistant is made for tests/data/tiny/gemma4.gguf, gemma4-assistant_far for gemma4_far.gguf: random weights, in the names and the
layout that llama.cpp's converter gives them. The guesses are those of the float64 reading in tests/tiny_read_gemma.py: logits [9, V] as
little-endian float32, three guesses in a row after 1 token, a third and all but three of the model's prompt. Needs gguf and numpy.
"""
import os
import sys
import zlib

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]
import tiny_gemma                                               # noqa: E402
from gguf import GGUFWriter                                     # noqa: E402
from tiny_base import BASE, N_CTX, N_VOCAB, Weights, add_vocab, f32, write_tensors     # noqa: E402
from tiny_check import DATA, beside, manifest                   # noqa: E402

OUT = os.path.join(DATA, "beside")
# of: the model that it is for; kinds: w for a layer with the window, f for one without; of the model: sizes of heads, window, bases
HEADS = {"gemma4-assistant": dict(of="gemma4", kinds="wwf"), "gemma4-assistant_far": dict(of="gemma4_far", kinds="fw")}


def sizes(name):
    of = dict(BASE, **tiny_gemma.MODELS[HEADS[name]["of"]])
    return dict(of, **HEADS[name], arch="gemma4-assistant", name=name, embd=16, ff=24, heads=4, type=tiny_gemma.float_types, eps=f32(of["eps"]), state=of["embd"],
                seed=zlib.crc32(name.encode()))


def draw(w, s):
    D = s["embd"]
    w.matrix("token_embd", N_VOCAB, D, gain=s["out"])
    w.vector("output_norm.weight", D, 1.0, 0.2)
    w.matrix("nextn.post_projection", s["state"], D, gain=1.0)
    w.matrix("blk.0.nextn.pre_projection", D, 2 * s["state"], gain=1.0)
    turned, pairs = int(s["full"] * s["part"] / 2), s["full"] // 2
    w.fixed("rope_freqs.weight", np.array([1.0] * turned + [1e30] * (pairs - turned), np.float32))
    for i, kind in enumerate(s["kinds"]):
        b, hd = "blk.%d." % i, s["full"] if kind == "f" else s["hd"]
        sharp = s["sharp"] / hd ** 0.25
        for name in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"):
            w.vector(b + name + ".weight", D, 1.0, 0.2)
        w.matrix(b + "attn_q", s["heads"] * hd, D)
        w.vector(b + "attn_q_norm.weight", hd, sharp, 0.2 * sharp)
        w.matrix(b + "attn_output", D, s["heads"] * hd)
        w.matrix(b + "ffn_gate", s["ff"], D, gain=1.5)
        w.matrix(b + "ffn_up", s["ff"], D)
        w.matrix(b + "ffn_down", D, s["ff"])
        w.vector(b + "layer_output_scale.weight", 1, 0.7, 0.15)


def write_keys(g, s):
    a, n = s["arch"], len(s["kinds"])
    g.add_context_length(N_CTX)
    g.add_embedding_length(s["embd"])
    g.add_uint32(a + ".embedding_length_out", s["state"])
    g.add_block_count(n)
    g.add_uint32(a + ".nextn_predict_layers", n)
    g.add_head_count(s["heads"])
    g.add_head_count_kv(s["kv"])
    g.add_feed_forward_length(s["ff"])
    g.add_layer_norm_rms_eps(s["eps"])
    g.add_rope_freq_base(s["theta"])
    g.add_float32(a + ".rope.freq_base_swa", s["theta_swa"])
    g.add_sliding_window(s["window"])
    g.add_array(a + ".attention.sliding_window_pattern", [k == "w" for k in s["kinds"]])
    g.add_uint32(a + ".attention.shared_kv_layers", n)
    g.add_uint32(a + ".embedding_length_per_layer_input", 0)
    g.add_key_length(s["full"])
    g.add_value_length(s["full"])
    for key, size in (("attention.key_length_swa", s["hd"]), ("attention.value_length_swa", s["hd"]), ("rope.dimension_count", s["full"]),
                      ("rope.dimension_count_swa", s["hd"])):
        g.add_uint32(a + "." + key, size)


def build(name):
    s, path = sizes(name), os.path.join(OUT, name + ".gguf")
    w = Weights(s)
    draw(w, s)
    g = GGUFWriter(path, s["arch"])
    g.add_name("tiny " + name)
    g.add_description("random weights; made by tests/gen/tiny_beside.py %s" % name)
    write_keys(g, s)
    add_vocab(g, s)
    write_tensors(g, w)
    own = beside(name, next(r for r in manifest("") if r["name"] == s["of"]))
    own.astype("<f4").tofile(os.path.join(OUT, name + ".guess"))
    print("%-24s %7d bytes  logits sd %.2f" % (name, os.path.getsize(path), own.std()))


if __name__ == "__main__":
    os.makedirs(OUT, exist_ok=True)
    for one in HEADS:
        if len(sys.argv) < 2 or one.startswith(tuple(sys.argv[1:])):
            build(one)
