#!/usr/bin/env python3
"""Architectures that nobody has, as GGUF, with the logits of a float64 reading in numpy.

    python3 tests/gen/invented.py            # all of tests/data/invented, and its rows in the manifest of tests/data/tiny

The program learns them from tests/invented.rows alone. Layers of the first differ in all that a layer may have of its own: heads, size of
a head (and so of its RoPE), window, width of the feed-forward, which the last one lacks; it has norms before and after the blocks. The second
has norms after the blocks alone. Needs gguf and numpy.
"""
import os
import sys

import numpy as np
from gguf import GGUFWriter

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]
import tiny_check                                               # noqa: E402
import tiny_models                                              # noqa: E402
from tiny_base import N_VOCAB, Weights, add_bpe_vocab, f32, write_tensors               # noqa: E402

OUT = os.path.join(HERE, "..", "data", "invented")
D, N_CTX, THETA, EPS = 48, 256, 10000.0, f32(1e-5)
MODELS = {
    "invented": dict(heads=[2, 4, 6], kv=[1, 2, 2], hd=[32, 16, 16], ff=[64, 96, 0], window=[20, 0, 33], qk=True, pre=True),
    "invented2": dict(heads=[2, 2], kv=[1, 1], hd=[24, 24], ff=[48, 64], window=[0, 0], qk=False, pre=False),
}
N, ROWS, STEP = 80, 8, 10


def draw_weights(s):
    w = Weights(dict(arch="", seed=20, type="F32", bias=()))
    w.matrix("token_embd", N_VOCAB, D, gain=2.5)
    for i, (heads, kv, hd, ff) in enumerate(zip(s["heads"], s["kv"], s["hd"], s["ff"])):
        b = "blk.%d." % i
        norms = [("attn_norm", D)] * s["pre"] + [("attn_q_norm", hd), ("attn_k_norm", hd)] * s["qk"] + [("post_attention_norm", D)]
        matrices = [("attn_q", heads * hd, D), ("attn_k", kv * hd, D), ("attn_v", kv * hd, D), ("attn_output", D, heads * hd)]
        if ff:
            norms += [("ffn_norm", D)] * s["pre"] + [("post_ffw_norm", D)]
            matrices += [("ffn_gate", ff, D), ("ffn_up", ff, D), ("ffn_down", D, ff)]
        for name, n in norms:
            w.vector(b + name + ".weight", n, 1.5 if n == hd else 1.0, 0.2)
        for name, rows, cols in matrices:
            w.matrix(b + name, rows, cols, gain=1.5)
    w.vector("output_norm.weight", D, 1.0, 0.2)
    return w


def write_gguf(name, s, path):
    g = GGUFWriter(path, name)
    g.add_name(name)
    g.add_description("random weights; made by tests/gen/invented.py")
    g.add_context_length(N_CTX)
    g.add_embedding_length(D)
    g.add_block_count(len(s["hd"]))
    g.add_head_count(s["heads"])
    g.add_head_count_kv(s["kv"])
    g.add_feed_forward_length(s["ff"])
    g.add_layer_norm_rms_eps(EPS)
    g.add_rope_freq_base(THETA)
    g.add_array(name + ".attention.key_length", s["hd"])
    g.add_array(name + ".attention.sliding_window", s["window"])
    add_bpe_vocab(g)
    write_tensors(g, draw_weights(s))


def build(name, s):
    """One model; returns its row of the manifest."""
    path = os.path.join(OUT, name)
    write_gguf(name, s, path + ".gguf")
    ids = [int(i) for i in np.random.default_rng(21).integers(0, N_VOCAB - 4, N)]
    logits = tiny_check.read(path + ".gguf").logits(ids)
    first = N - 1 - (ROWS - 1) * STEP
    logits[first::STEP].astype("<f4").tofile(path + ".f32")
    tiny_models.write_ids(path + ".ids", ids)
    print("%s %d bytes, logits sd %.2f" % (name, os.path.getsize(path + ".gguf"), logits.std()))
    files = " ".join("../invented/%s.%s" % (name, end) for end in ("gguf", "ids", "f32"))
    return "%s %s - %d %d %d %d %d nmse 1e-6\n" % (name, files, N, N_VOCAB, first, STEP, ROWS)


def main():
    os.makedirs(OUT, exist_ok=True)
    manifest = os.path.join(tiny_models.OUT, "manifest.txt")
    rows = [r for r in open(manifest) if r.split()[0] not in MODELS] + [build(*m) for m in MODELS.items()]
    with open(manifest, "w") as f:
        f.writelines(rows)


if __name__ == "__main__":
    main()
