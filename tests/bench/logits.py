#!/usr/bin/env python3
"""Logits of the tiny models in llmrun and in llama.cpp, side by side with those of transformers in float64, as Markdown.

    make bench-logits PEER=path/to/llama.cpp [LOGITS="-k gemma"]

PEER is a folder of llama.cpp with its headers and a build in build/bin. Both programs run with one thread and K and V in f32. Each figure
is the NMSE over the golden rows, or, of quantised models, the mean of the KL divergences and behind it their median. Figures of llmrun above
the limit are marked with *; what differs between llama.cpp and transformers is explained in NOTES.md.
"""
import argparse
import os
import subprocess
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
import tiny_check                                               # noqa: E402
from tiny_read import kls, nmse                                 # noqa: E402


def logits(program, r):
    """Golden rows of what the program computes, None if it does not; standard error then says why."""
    path = os.path.join(tiny_check.DATA, r["file"])
    done = subprocess.run([program, path], input=" ".join(map(str, r["ids"])).encode(), capture_output=True)
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["exit %d" % done.returncode]
        print("%s: %s" % (os.path.basename(program), lines[0]), file=sys.stderr)
        return None
    return np.frombuffer(done.stdout, "<f4").astype(float).reshape(r["n"], r["V"])[r["first"]::r["step"]]


def distance(r, got, want):
    if got is None or want is None:
        return "refused"
    if r["metric"] == "nmse":
        return "%.1e" % nmse(got, want)
    each = kls(got, want)
    return "%.1e, %.1e" % (each.mean(), np.median(each))


def within(r, got):
    if got is None:
        return False
    error = nmse(got, r["want"]) if r["metric"] == "nmse" else (np.median if "median" in r["metric"] else np.mean)(kls(got, r["want"]))
    same = (got.argmax(1) == r["want"].argmax(1)).all() or r["metric"] != "nmse"
    return error <= float(r["limit"]) and same


def begin(doc, own):
    """The options of a program that sets llmrun beside llama.cpp (own: the name of the first), and the head of its table."""
    a = argparse.ArgumentParser(description=doc.split("\n")[0])
    a.add_argument("--" + own, required=True)
    a.add_argument("--peer", required=True)
    a.add_argument("-k", default="", metavar="NAME", help="only models whose name has this in it")
    a = a.parse_args()
    print("| model | limit | llmrun, transformers | llama.cpp, transformers | llmrun, llama.cpp |\n|---|---|---|---|---|")
    return a


def main():
    a = begin(__doc__, "own")
    ok = True
    for r in tiny_check.manifest(a.k):
        if r["file"].startswith("../invented"):                 # known to the tests alone
            continue
        own, peer = logits(a.own, r), logits(a.peer, r)
        held = within(r, own)
        ok &= held
        figures = [distance(r, own, r["want"]) + "*" * (not held), distance(r, peer, r["want"]), distance(r, own, peer)]
        print("| %s | %s %s | %s |" % (r["name"], r["metric"], r["limit"], " | ".join(figures)), flush=True)
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
