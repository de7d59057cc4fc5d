#!/usr/bin/env python3
"""Tiny random models that decode by diffusion (dream, llada, llada-moe) as GGUF, with logits in float64 and answers.

    python3 tests/gen/tiny_diffuse.py [--out DIR] [NAME ...]       # tests/data/diffuse, or DIR; only models whose name starts so

Needs torch, transformers, gguf, numpy. The logits are those of transformers' classes of Qwen 2, Llama and Qwen 3 MoE with every position
seen, which compute the same; tests/tiny_read.py must agree to 1e-10. NAME.ids has a prompt with masks, NAME.f32 the logits of every 7th
position. NAME.answers has lines STEPS BLOCK EPS ALGORITHM PROMPT ANSWER, both lists of ids with commas: what the loop below, written from the
papers (Ye et al. 2025, Nie et al. 2025) and their code, makes of that reading's logits at temperature 0; no choice is near a tie.
"""
import os
import sys
import zlib

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]
import tiny_llama                                               # noqa: E402
from gguf import GGUFWriter                                     # noqa: E402
from tiny_base import BASE, N_VOCAB, Weights, add_bpe_vocab, arguments, f32, write_tensors     # noqa: E402
from tiny_read import File, Model                               # noqa: E402
sys.path[:] = [p for p in sys.path if p != os.path.join(HERE, "..")]          # torch looks for a module of the name of tests/cuda.py

OUT = os.path.join(HERE, "..", "data", "diffuse")
MODULES, MASK = tiny_llama.MODULES, N_VOCAB - 1
LIKE = {"dream": "qwen2", "llada": "llama", "llada-moe": "qwen3moe"}
SMALL = dict(embd=32, hd=8, heads=4, kv=2, ff=48, out=3.0, sharp=1.5)
MODELS = {
    "dream": dict(SMALL, bias=tiny_llama.QKV, eps=1e-6, theta=1000000.0, tied=True),
    "llada": dict(SMALL, kv=4, tied=False),
    "llada-moe": dict(SMALL, layers=1, eps=1e-5, tied=False, moe=dict(experts=4, used=2, ff=24, norm=False)),
}
# steps, block, eps, algorithm: 0 in both of block and eps is what the model was trained for
WAYS = {"dream": [(24, 0, 0, 4), (7, 0, 0.001, 1), (10, 0, 0.1, 2), (9, 8, 0, 4)], "llada": [(32, 0, 0, 4), (10, 8, 0, 4), (5, 40, 0, 2), (13, 0, 0.01, 1)],
        "llada-moe": [(12, 16, 0, 4)]}
ANSWER, PROMPT = 40, 13


def spec_of(name):
    s = dict(BASE, name=name, arch=LIKE[name], vocab="bpe", mtp=False)
    s.update(MODELS[name])
    s["eps"], s["seed"] = f32(s["eps"]), zlib.crc32(name.encode())
    return s


def write_gguf(s, path):
    w = Weights(s)
    tiny_llama.draw(w, s)
    g = GGUFWriter(path, s["name"])
    g.add_name("tiny " + s["name"])
    g.add_description("random weights; made by tests/gen/tiny_diffuse.py %s" % s["name"])
    tiny_llama.write_keys(g, s)
    g.add_causal_attention(False)
    if s["name"] != "dream":                                    # whose files do not say it
        g.add_bool("diffusion.shift_logits", False)
    add_bpe_vocab(g, "llada-moe" if s["moe"] else "qwen2")
    g.add_mask_token_id(MASK)
    write_tensors(g, w)
    return w


def hf_class(s):
    return tiny_llama.hf_class(s)


def hf_config(s):
    return tiny_llama.hf_config(s)


def hf_state(s, value):
    return tiny_llama.hf_state(s, value)


def framework(s, value):
    import torch
    from tiny_oracle import OnlyDouble, Oracle, everything_double
    o = Oracle(sys.modules[__name__], s, value)

    def logits(ids):
        n = len(ids)
        with everything_double(o.modules), torch.no_grad(), OnlyDouble():
            return o.model(input_ids=torch.tensor([ids]), attention_mask=torch.zeros(1, 1, n, n), use_cache=False).logits[0].numpy()
    return logits


class Wary(Model):
    """Refuses texts in which a router's choice is near a tie."""

    def feed(self, b, x):
        if b + "ffn_gate_inp.weight" in self.w:
            s = -np.sort(-x @ self.w[b + "ffn_gate_inp.weight"].T, axis=1)
            if (s[:, self.used - 1] - s[:, self.used]).min() < 1e-3:
                raise ArithmeticError("near a tie")
        return super().feed(b, x)


# --- the loop -------------------------------------------------------------------------------------------------------
def near(a, b, least):
    if abs(a - b) < least:
        raise ArithmeticError("near a tie")


def confidence(p, algorithm):
    top = np.sort(p)[::-1]
    return {1: (p * np.log(p + 1e-300)).sum(), 2: top[0] - top[1], 4: top[0]}[algorithm]


def by_time(left, step, steps, eps):
    t, s = (np.float32(1) - np.float32(i) / np.float32(steps) * (np.float32(1) - np.float32(eps)) for i in (step, step + 1))
    return left if step == steps - 1 else int(np.float32(left) * (np.float32(1) - s / t))


def by_blocks(left, step, steps):
    return left // steps + (step < left % steps)


def turn(logits, x, at, n, algorithm, shift):
    """n of the masks at these places become tokens."""
    found = []
    rows = logits(x)
    for i in at:
        row = rows[i - shift].copy()
        row[MASK] = -np.inf
        best = np.argsort(-row)[:2]
        near(row[best[0]], row[best[1]], 1e-3)
        p = np.exp(row - row.max())
        found.append((confidence(p / p.sum(), algorithm), i, best[0]))
    found.sort(key=lambda f: -f[0])
    if n < len(found):
        near(found[n - 1][0], found[n][0], 1e-5)
    for _, i, token in found[:n]:
        x[i] = int(token)


def answer_of(logits, prompt, way, shift):
    steps, block, eps, algorithm = way
    block, eps = (0, 0.001) if shift and not block and not eps else (32, 0) if not block and not eps else (block, eps)
    x = list(prompt) + [MASK] * ANSWER
    size = block or ANSWER
    blocks = -(-ANSWER // size)
    for b in range(blocks):
        end = len(prompt) + min((b + 1) * size, ANSWER)
        own = max(steps // blocks + (b < steps % blocks), 1)
        whole = end - len(prompt) - b * size
        for step in range(own):
            at = [i for i in range(len(prompt) + b * size, end) if x[i] == MASK]
            n = by_blocks(whole, step, own) if block else by_time(len(at), step, own, eps)
            if at and n:
                turn(logits, x, at, min(n, len(at)), algorithm, shift)
    assert MASK not in x
    return x[len(prompt):]


def answers(s, logits, shift):
    rng, lines = np.random.default_rng(s["seed"] + 2), []
    ends = (N_VOCAB - 2, N_VOCAB - 4)
    for way in WAYS[s["name"]]:
        for _ in range(2000):
            prompt = [int(i) for i in rng.integers(0, N_VOCAB - 4, PROMPT)]
            try:
                answer = answer_of(logits, prompt, way, shift)
            except ArithmeticError:
                continue
            if not set(answer) & set(ends):
                break
        else:
            raise SystemExit("%s: no prompt without a near tie" % s["name"])
        lines.append("%d %d %g %d %s %s\n" % (*way, ",".join(map(str, prompt)), ",".join(map(str, answer))))
    return lines


def build(name, out):
    s, path = spec_of(name), os.path.join(out, name)
    w = write_gguf(s, path + ".gguf")
    rng, model = np.random.default_rng(s["seed"] + 1), Model(File(path + ".gguf"))
    ids = [int(i) for i in rng.integers(0, N_VOCAB - 4, 70)]
    ids[30:60:2] = [MASK] * 15
    want = framework(s, w.value)(ids)
    apart = np.abs(want - model.logits(ids)).max()
    assert apart < 1e-10, "%s: the readings differ by %g" % (name, apart)
    want[6::7].astype("<f4").tofile(path + ".f32")
    with open(path + ".ids", "w") as f:
        f.write(" ".join(map(str, ids)) + "\n")
    with open(path + ".answers", "w") as f:
        f.writelines(answers(s, Wary(File(path + ".gguf")).logits, name == "dream"))
    print("%-12s %7d bytes  logits sd %.2f, numpy %.0e apart" % (name, os.path.getsize(path + ".gguf"), want.std(), apart))


def main():
    a = arguments(__doc__, OUT)
    for name in MODELS:
        if not a.names or name.startswith(tuple(a.names)):
            build(name, a.out)


if __name__ == "__main__":
    main()
