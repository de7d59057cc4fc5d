"""How often a draft head is right, counted in float64: what llmrun's accepted guesses are held against by spec.py.

The model and its head are read as tests/tiny_read.py reads them, from the file format alone, and the text is one that llmrun wrote. A guess is
right where a draw from the head's distribution, with the random number of that place, is the token that stands there. Needs numpy, and gguf
for the block formats.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tiny_check import reader                                   # noqa: E402
from tiny_read import File                                      # noqa: E402

MASK = (1 << 64) - 1


def mix(x):
    """rng_mix() of [base]"""
    x = (x + 0x9e3779b97f4a7c15) & MASK
    x = ((x ^ (x >> 30)) * 0xbf58476d1ce4e5b9) & MASK
    x = ((x ^ (x >> 27)) * 0x94d049bb133111eb) & MASK
    return x ^ (x >> 31)


def unit(seed, place):
    """The number that draws token `place` of an answer, in [0, 1)."""
    return (mix(mix(mix(mix(seed) ^ 0) ^ place) ^ 0) >> 11) * 2.0 ** -53


def draw(logits, temp, u):
    """The token at which the mass of tokens by falling logit passes u."""
    order = np.argsort(-logits, kind="stable")
    if temp == 0:
        return order[0]
    w = np.exp((logits[order] - logits[order[0]]) / temp)
    return order[np.searchsorted(np.cumsum(w), u * w.sum(), side="right")]


class Text:
    """A text that llmrun wrote after a prompt; ends: tokens that are never drawn."""

    def __init__(self, m, prompt, answer, seed, temp, ends):
        self.m, self.ids, self.at, self.seed, self.temp, self.ends = m, np.array(prompt + answer), len(prompt), seed, temp, ends
        h = m.hidden(self.ids)
        self.before = np.concatenate([np.zeros((1, h.shape[1])), h[:-1]])
        self.states, self.known = {}, {}
        first = m.head(self.ids, self.before)[1]
        self.states = {(p, 1): first[p] for p in range(len(self.ids))}
        self.output = m.w["output.weight" if "output.weight" in m.w else "token_embd.weight"]

    def state(self, p, depth):
        """What the head leaves of row p where the rows before it, depth - 1 of them, were guesses too."""
        if (p, depth) not in self.states:
            before = self.before[:p + 1].copy()
            for d in range(2, depth + 1):
                row = p - depth + d
                before[row] = self.state(row - 1, d - 1)
            self.states[p, depth] = self.m.head(self.ids[:p + 1], before)[1][p]
        return self.states[p, depth]

    def right(self, p, depth):
        """Whether guess `depth` of a step, which reads row p, is the token after it."""
        if (p, depth) not in self.known:
            logits = self.output @ self.state(p, depth)
            logits[self.ends] = -np.inf
            self.known[p, depth] = draw(logits, self.temp, unit(self.seed, p + 1 - self.at)) == self.ids[p + 1]
        return self.known[p, depth]

    def steps(self, n):
        """Steps that the answer takes after its first token with n guesses in each; the first step guesses nothing."""
        p, steps, last = self.at, 0, len(self.ids) - 1
        while p < last:
            most = min(n, last - p - 1) if steps else 0
            right = 0
            while right < most and self.right(p + right, right + 1):
                right += 1
            p, steps = p + right + 1, steps + 1
        return steps


def read(model, head):
    """The reading of a model with its draft head, which lies in the same file (head None) or in one of its own."""
    f = File(model)
    if head:
        h = File(head)
        f.meta.update((key, h.meta[key]) for key in h.meta if key.endswith((".block_count", ".nextn_predict_layers")))
        f.tensors.update(h.tensors)
        f.types.update(h.types)
    return reader(f)(f)
