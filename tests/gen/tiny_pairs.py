#!/usr/bin/env python3
"""Tiny random encoder-decoders (t5) as GGUF, with the logits that transformers computes for them in float64.

    python3 tests/gen/tiny_pairs.py [--out DIR] [NAME ...]         # tests/data/pairs, or DIR; only models whose name starts so

Needs torch, transformers, gguf, numpy. tests/tiny_read_pairs.py is a second reading, which must agree to 1e-10. pairs.txt has a line for each
model: NAME TEXT ANSWER STEP METRIC LIMIT. TEXT, ANSWER: tokens of the text that the encoder reads, and of what the decoder reads, its start
token among them. NAME.ids has the ids of both, NAME.f32 the logits after every STEPth token of the answer, the last one among them, NAME.greedy
the ids that argmax picks after the text and the start token.
"""
import os
import sys
import zlib

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]
import tiny_encoders as enc                                     # noqa: E402
from gguf import GGUFWriter                                     # noqa: E402
from tiny_base import N_VOCAB, Weights, arguments, f32, write_tensors     # noqa: E402
from tiny_read import File                                      # noqa: E402
from tiny_read_pairs import Pair                                # noqa: E402
sys.path[:] = [p for p in sys.path if p != os.path.join(HERE, "..")]          # torch looks for a module of the name of tests/cuda.py

OUT = os.path.join(HERE, "..", "data", "pairs")
MODULES = enc.MODULES
GREEDY, START, END = 24, 1, 2                                   # ids of the vocabulary: <pad> begins an answer
T5 = dict(enc.T5, arch="t5", layers=2, layers_dec=3, ff=24, embd=16, heads=2, hd=10, sharp=0.8, act=1.4, n=(150, 40), metric="nmse", limit="1e-6", tied=False)
MODELS = {
    "t5": dict(T5, tied=True, layers_dec=2, n=(70, 170)),
    "t5_gated": dict(T5, gated=True),
    "t5_umt5": dict(T5, gated=True, every_layer=True, layers=3, layers_dec=2, n=(40, 33)),
    "t5_q8_0": dict(T5, type="Q8_0", embd=32, ff=32, hd=16, gated=True, act=1.0, metric="kl", limit="1e-3", n=(50, 30)),
}


def spec_of(name):
    s = dict(enc.BASE, name=name)
    s.update(MODELS[name])
    s["eps"], s["seed"] = f32(s["eps"]), zlib.crc32(name.encode())
    return s


def write_gguf(s, path):
    w = Weights(s)
    w.matrix("token_embd", N_VOCAB, s["embd"], gain=np.sqrt(s["embd"]) * 2)
    enc.draw_t5(w, s)
    enc.draw_t5(w, s, "dec")
    if not s["tied"]:
        w.matrix("output", N_VOCAB, s["embd"], gain=2.5)
    g = GGUFWriter(path, s["arch"])
    g.add_name("tiny " + s["name"])
    g.add_description("random weights; made by tests/gen/tiny_pairs.py %s" % s["name"])
    for add, v in ((g.add_block_count, s["layers"]), (g.add_context_length, s["ctx"]), (g.add_embedding_length, s["embd"]), (g.add_feed_forward_length, s["ff"]),
                   (g.add_head_count, s["heads"]), (g.add_decoder_block_count, s["layers_dec"]), (g.add_decoder_start_token_id, START), (g.add_layer_norm_rms_eps, s["eps"])):
        add(v)
    enc.write_t5_keys(g, s)
    enc.add_t5_vocab(g)
    write_tensors(g, w)
    return w


def hf_class(s):
    return "UMT5ForConditionalGeneration" if s.get("every_layer") else "T5ForConditionalGeneration"


def hf_config(s):
    return dict(enc.t5_config(s), num_decoder_layers=s["layers_dec"], tie_word_embeddings=s["tied"], decoder_start_token_id=START, pad_token_id=START, eos_token_id=END)


def hf_state(s, value):
    return enc.t5_state(s, value)


def framework(s, value):
    import torch
    from tiny_oracle import OnlyDouble, Oracle, everything_double

    class Untied(Oracle):
        def load(self, state, ignored):
            """The class ties its output matrix to the embeddings, whatever its config says."""
            if not s["tied"]:
                self.model.tie_weights = lambda: None
                self.model.lm_head.weight = torch.nn.Parameter(self.model.lm_head.weight.detach().clone())
            super().load(state, ignored)
    o = Untied(sys.modules[__name__], s, value)

    def logits(text, answer):
        with everything_double(o.modules), torch.no_grad(), OnlyDouble():
            return o.model(input_ids=torch.tensor([text]), decoder_input_ids=torch.tensor([answer]), use_cache=False).logits[0].numpy()
    return logits


def greedy_ids(logits, text):
    answer = [START]
    for _ in range(GREEDY):
        top = logits(text, answer)[-1]
        first, second = np.argsort(-top)[:2]
        assert top[first] - top[second] > 1e-3, "a greedy text near a tie"
        answer.append(int(first))
        if first == END:
            break
    return answer[1:]


def build(name, out):
    s, path = spec_of(name), os.path.join(out, name)
    w = write_gguf(s, path + ".gguf")
    rng = np.random.default_rng(s["seed"] + 1)
    text = [int(i) for i in rng.integers(4, 180, s["n"][0] - 1)] + [END]
    answer = [START] + [int(i) for i in rng.integers(4, 180, s["n"][1] - 1)]
    reading, oracle = Pair(File(path + ".gguf")), framework(s, w.value)
    want = oracle(text, answer)
    apart = np.abs(want - reading.logits(text, answer)).max()
    assert apart < 1e-10, "%s: the readings differ by %g" % (name, apart)
    step = len(answer) // 10
    want[len(answer) - 1 - 9 * step::step].astype("<f4").tofile(path + ".f32")
    greedy = greedy_ids(reading.logits, text)
    with open(path + ".ids", "w") as f:
        f.write(" ".join(map(str, text)) + "\n" + " ".join(map(str, answer)) + "\n")
    with open(path + ".greedy", "w") as f:
        f.write(" ".join(map(str, greedy)) + "\n")
    print("%-24s %7d bytes  logits sd %.2f, numpy %.0e apart, %d greedy ids" % (name, os.path.getsize(path + ".gguf"), want.std(), apart, len(greedy)))
    return "%s %d %d %d %s %s\n" % (name, len(text), len(answer), step, s["metric"], s["limit"])


def main():
    a = arguments(__doc__, OUT)
    listed = os.path.join(a.out, "pairs.txt")
    rows = {r.split()[0]: r for r in open(listed)} if os.path.exists(listed) else {}
    rows.update({n: build(n, a.out) for n in MODELS if not a.names or n.startswith(tuple(a.names))})
    with open(listed, "w") as f:
        f.writelines(rows[n] for n in MODELS if n in rows)


if __name__ == "__main__":
    main()
