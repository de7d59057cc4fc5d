#!/usr/bin/env python3
"""Embeddings of the tiny encoders in llmrun and in llama.cpp, side by side with those of transformers in float64, as Markdown.

    make bench-embeddings PEER=path/to/llama.cpp [EMBEDDINGS="-k modern"]

PEER is a folder of llama.cpp with its headers and a build in build/bin. Each figure is the worst 1 - cosine over the texts of a model, pooled
as its file says (`-`: last), or the greatest difference of a score for a model with a classifier. Figures of llmrun above the limit are
marked with *; what differs between llama.cpp and transformers is explained in NOTES.md.
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
import encoders_check                                           # noqa: E402
import logits                                                   # noqa: E402

POOLINGS = {"mean": 1, "cls": 2, "last": 3, "rank": 4}


def golden(r):
    """The vectors, or scores, of the texts."""
    if r["pooling"] == "rank":
        return list(r["golden"])
    out, at = [], 0
    for ids in r["cases"]:
        at += len(ids) + 3
        out.append(r["golden"][at - 3 + {"mean": 0, "cls": 1, "last": 2}[r["pooling"]]])
    return out


def why(done):
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return lines[0][-70:] if lines else "exit %d" % done.returncode


def own(program, path, r):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as f:
        f.writelines(json.dumps({"input": ids}) + "\n" for ids in r["cases"])
        f.flush()
        done = subprocess.run([program, "-m", path, "--embed", "--pooling", r["pooling"], "--batch", f.name, "-q"], capture_output=True)
    if done.returncode:
        return why(done)
    records = [json.loads(line) for line in done.stdout.decode().splitlines()]
    return [np.array(x["response"]["body"]["data"][0]["embedding"], float) for x in records if x.get("response")]


def peer(program, path, r):
    out = []
    for ids in r["cases"]:
        done = subprocess.run([program, path, str(POOLINGS[r["pooling"]])], input=" ".join(map(str, ids)).encode(), capture_output=True)
        if done.returncode:
            return why(done)
        out.append(np.frombuffer(done.stdout, "<f4").astype(float))
    return out


def distance(r, a, b):
    for x in (a, b):
        if isinstance(x, str):
            return x
    each = [np.abs(x - y).max() if r["pooling"] == "rank" else encoders_check.apart(x, y) for x, y in zip(a, b)]
    return max(each) if len(a) == len(b) == len(r["cases"]) else "%d texts" % len(a)


def main():
    a = logits.begin(__doc__, "llmrun")
    ok = True
    for r in encoders_check.manifest(a.k, True):
        r["pooling"] = r["pooling"].replace("-", "last")
        path = os.path.join(encoders_check.DATA, r["file"])
        want, mine, theirs = golden(r), own(a.llmrun, path, r), peer(a.peer, path, r)
        figures = [distance(r, mine, want), distance(r, theirs, want), distance(r, mine, theirs)]
        held = not isinstance(figures[0], str) and figures[0] <= float(r["limit"])
        ok = ok and held
        texts = [f if isinstance(f, str) else "%.1e" % f for f in figures]
        print("| %s | %s | %s%s | %s | %s |" % (r["name"], r["limit"], texts[0], "" if held else "*", texts[1], texts[2]), flush=True)
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
