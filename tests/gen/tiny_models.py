#!/usr/bin/env python3
"""Tiny random models as GGUF, with the logits that transformers computes for them in float64.

    python3 tests/gen/tiny_models.py [--out DIR]         # all of tests/data/tiny, or of DIR, and the rows of its manifests
    python3 tests/gen/tiny_models.py llama qwen3         # models whose name starts so, and their rows

Needs torch, transformers, gguf, numpy. Each model has a fixed seed of its own, so the files come out the same
whichever are built. tests/data/README.md tells what is what; tests/tiny_check.py checks the files with numpy alone.

A family of architectures is a module of FAMILIES:

    MODELS                    name -> what the model has that tiny_base.BASE has not
    MODULES                   the modules of transformers that its classes run in; all their float32 becomes float64
    draw(w, s)                draws the weights of model s into w (tiny_base.Weights), in the names and the layout of the file
    write_keys(g, s)          the keys of the architecture
    hf_class(s)               the class of transformers; None: there is none, and the golden values are those of the reading in tests/
    hf_config(s)              the arguments of its config
    hf_state(s, value)        the same weights in the names and the layout of the framework
    ROUTER                    (end or ends of the names of modules that choose experts, function of a module and its output that returns the
                              scores that decide); tiny_oracle.ROUTER where there is none
    IGNORED                   start of the names of parameters that no text reaches; none where it is missing
    check(s, value, oracle)   asserts what it likes; may be missing

To add a model: one row in the MODELS of its family. Rows of models that the program does not read yet stand in pending.txt instead of
manifest.txt; a new model's row goes there.
"""
import os
import sys
import zlib

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import tiny_decoders                                            # noqa: E402
import tiny_latent                                              # noqa: E402
import tiny_llama                                               # noqa: E402
import tiny_gemma                                               # noqa: E402
import tiny_parallel                                            # noqa: E402
import tiny_pooled                                              # noqa: E402
import tiny_quirks                                              # noqa: E402
import tiny_recurrent                                           # noqa: E402
import tiny_rwkv                                                # noqa: E402
import tiny_ssm                                                 # noqa: E402
import tiny_streams                                             # noqa: E402
from gguf import GGUFWriter                                     # noqa: E402
from tiny_base import BASE, N_VOCAB, Weights, add_vocab, arguments, f32, stop_ids, write_tensors     # noqa: E402

FAMILIES = [tiny_llama, tiny_decoders, tiny_quirks, tiny_latent, tiny_pooled, tiny_parallel, tiny_recurrent, tiny_streams, tiny_ssm, tiny_rwkv,
            tiny_gemma]
OUT = os.path.join(HERE, "..", "data", "tiny")
GREEDY = 24


def spec_of(family, name):
    s = dict(BASE, name=name)
    s.update(family.MODELS[name])
    s["eps"], s["seed"] = f32(s["eps"]), zlib.crc32(name.encode())
    if "metric" not in s:
        s["metric"] = "nmse" if s["type"] in ("F32", "F16") else "kl"
    s["limit"] = {"nmse": "1e-6", "kl": "1e-3", "kl-median": "2e-3"}[s["metric"]]
    return s


def write_gguf(family, s, path):
    """Writes the file and returns its weights."""
    w = Weights(s)
    family.draw(w, s)
    g = GGUFWriter(path, s["arch"])
    g.add_name("tiny " + s.get("title", s["name"]))
    g.add_description("random weights; made by tests/gen/tiny_models.py %s" % s["name"])
    family.write_keys(g, s)
    add_vocab(g, s)
    write_tensors(g, w)
    return w


class Reading:
    """In place of a class of transformers: the reading of tests/tiny_read*.py."""

    def __init__(self, path):
        sys.path.append(os.path.join(HERE, ".."))                   # after torch, which looks for a module of the name of tests/cuda.py
        from tiny_check import read
        self.model = read(path)

    def logits(self, ids):
        self.model.gaps = []
        return self.model.logits(ids)

    def router_gaps(self, top_k):
        return np.min(self.model.gaps, axis=0)

    def choice_gaps(self, ids):
        """Of each position, how far what an indexer chooses is from what it leaves."""
        self.model.choices = []
        self.model.logits(ids)
        return np.min(self.model.choices, axis=0)


# --- prompts and golden values --------------------------------------------------------------------------------------
def draw_prompt(s, oracle, path):
    """Random ids. In a mixture of experts a token near a tie is drawn again, so that rounding does not choose; where there is an indexer, too."""
    rng = np.random.default_rng(s["seed"] + 1)
    lo, hi = (3, N_VOCAB) if s["vocab"] == "spm" else (0, N_VOCAB - 4)
    ids = [int(i) for i in rng.integers(lo, hi, s["n"])]
    if s["vocab"] == "spm":
        ids[0] = 1
    if s["moe"]:
        least = 0.02 if s["metric"] == "nmse" else 0.12
        for _ in range(5000):
            oracle.logits(ids)
            near = np.flatnonzero(oracle.router_gaps(s["moe"]["used"]) < least)
            if not len(near) and "index" in s:
                near = np.flatnonzero(Reading(path + ".gguf").choice_gaps(ids) < 1e-3)
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


def build(family, name, out):
    """One model with its prompt and golden values; returns its row of the manifest."""
    from tiny_oracle import Oracle
    s, path = spec_of(family, name), os.path.join(out, name)
    w = write_gguf(family, s, path + ".gguf")
    oracle = Oracle(family, s, w.value) if family.hf_class(s) else Reading(path + ".gguf")
    if hasattr(family, "check") and family.hf_class(s):
        family.check(s, w.value, oracle)
    of = Reading(path + ".gguf") if s.get("quick") else oracle
    ids = draw_prompt(s, of, path)
    logits = oracle.logits(ids)
    first = s["n"] - 1 - (s["rows"] - 1) * s["step"]
    logits[first::s["step"]].astype("<f4").tofile(path + ".f32")
    write_ids(path + ".ids", ids)
    greedy = greedy_ids(s, of, ids) if s["greedy"] else []
    assert greedy is not None, name + ": greedy text near a tie, change its seed"
    if greedy:
        write_ids(path + ".greedy", greedy)
    print("%-24s %7d bytes  logits sd %.2f" % (name, os.path.getsize(path + ".gguf"), logits.std()))
    return "%s %s.gguf %s.ids %s.f32 %s %d %d %d %d %d %s %s\n" % (
        name, name, name, name, name + ".greedy" if greedy else "-", s["n"], N_VOCAB, first, s["step"], s["rows"],
        s["metric"], s["limit"])


# --- the lists of models --------------------------------------------------------------------------------------------
def read_rows(path):
    """name -> row"""
    return {r.split()[0]: r for r in open(path)} if os.path.exists(path) else {}


def update_rows(out, built):
    """Rows stay where their models have one; new ones go to pending.txt, which is sorted."""
    listed, pending = (os.path.join(out, n + ".txt") for n in ("manifest", "pending"))
    rows, waiting = read_rows(listed), read_rows(pending)
    rows.update({n: r for n, r in built.items() if n in rows})
    waiting.update({n: r for n, r in built.items() if n not in rows})
    with open(listed, "w") as f:
        f.writelines(rows.values())
    with open(pending, "w") as f:
        f.writelines(r for n, r in sorted(waiting.items()) if n not in rows)


def main():
    a = arguments(__doc__, OUT)
    wanted = [(f, n) for f in FAMILIES for n in f.MODELS if not a.names or n.startswith(tuple(a.names))]
    update_rows(a.out, {n: build(f, n, a.out) for f, n in wanted})


if __name__ == "__main__":
    main()
