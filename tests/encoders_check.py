#!/usr/bin/env python3
"""Checks the encoders of tests/data/encoders without torch: the reading of tests/tiny_read_encoders.py beside the golden values.

    python3 tests/encoders_check.py [-k NAME]     golden hidden states and embeddings are what the GGUF files say
    python3 tests/encoders_check.py --faults      how far each wrong reading moves the embeddings (float models); every one that
                                                  a model can have must cost 30 times the limit

Needs numpy, and gguf for the block formats. Decoders of embed.txt are read by tests/tiny_check.py.
"""
import argparse
import os
import sys

import numpy as np

from tiny_read import File
from tiny_read_encoders import FAULTS, Encoder

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "encoders")


def manifest(only, decoders=False):
    for line in open(os.path.join(DATA, "embed.txt")):
        rank = line.startswith("rank ")
        r = dict(zip("name file cases golden pooling width limit".split(), line[5 * rank:].split()))
        if rank:
            r.update(width=r["pooling"], limit=r["width"], pooling="rank")
        if only not in r["name"] or r["name"].startswith("embed_") and not decoders:
            continue
        r["cases"] = [[int(i) for i in text.split()] for text in open(os.path.join(DATA, r["cases"]))]
        r["golden"] = np.fromfile(os.path.join(DATA, r["golden"]), "<f4").astype(float).reshape(-1, int(r["width"]))
        assert len(r["golden"]) == (len(r["cases"]) if rank else sum(len(ids) + 3 for ids in r["cases"]))
        yield r


def apart(a, b):
    """1 - cosine."""
    return 1 - a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def check(r):
    e, at, worst = Encoder(File(os.path.join(DATA, r["file"]))), 0, 0
    for ids in r["cases"]:
        h = e.hidden(ids)
        got = e.scores(h)[None] if r["pooling"] == "rank" else np.vstack([h] + e.vectors(h))
        worst = max(worst, np.abs(got - r["golden"][at:at + len(got)]).max())
        at += len(got)
    print("%-24s %.1e %s" % (r["name"], worst, "ok" if worst < 1e-5 else "FAIL"))
    return worst < 1e-5


def check_faults(r):
    """The text that a fault moves farthest, its embedding as the file pools it."""
    f, ok, at = File(os.path.join(DATA, r["file"])), True, {"mean": 0, "cls": 1}[r["pooling"]]
    e = Encoder(f)
    want = [e.vectors(e.hidden(ids))[at] for ids in r["cases"]]
    for fault in FAULTS:
        wrong = Encoder(f, fault)
        worst = max(apart(wrong.vectors(wrong.hidden(ids))[at], v) for ids, v in zip(r["cases"], want))
        if worst > 1e-15:
            loud = worst >= 30 * float(r["limit"])
            ok = ok and loud
            print("%-24s %-40s %.1e %s" % (r["name"], fault, worst, "" if loud else "QUIET"))
    pooled = {"mean of all but the ends": lambda h: h[1:-1].mean(0), "cls for mean": lambda h: h[0], "mean for cls": lambda h: h.mean(0), "last": lambda h: h[-1]}
    for fault, pool in pooled.items():
        cases = [(e.vector(pool(e.hidden(ids))), v) for ids, v in zip(r["cases"], want) if len(ids) > 2]
        worst = max(apart(a, b) for a, b in cases)
        if worst > 1e-15:
            print("%-24s %-40s %.1e" % (r["name"], fault, worst))
            ok = ok and worst >= 30 * float(r["limit"])
    return ok


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("-k", default="", metavar="NAME", help="only models with NAME in their names")
    a.add_argument("--faults", action="store_true")
    a = a.parse_args()
    rows = [r for r in manifest(a.k) if not a.faults or r["limit"] == "1e-10"]
    sys.exit(not all([(check_faults if a.faults else check)(r) for r in rows]))


if __name__ == "__main__":
    main()
