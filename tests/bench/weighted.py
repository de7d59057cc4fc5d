#!/usr/bin/env python3
"""Weighted squared error of llmrun's quantised matrices over llama-quantize's, type by type. Markdown on stdout.

    LLAMA_CPP=DIR python3 tests/bench/weighted.py --imatrix imatrix.gguf [--types Q4_K_M,IQ2_S]

DIR holds llama-quantize. Both write a file of each type from --model, plain and with the importance matrix (llmrun --imatrix-out);
matrices that got the same type in both are compared: mean, least and most ratio of the sum of importance times squared error, and of the
same times sqrt(mean square of 256 weights + weight squared), which both programs minimise below four bits. Needs numpy and gguf.
"""
import argparse, os, sys, tempfile

import gguf
import numpy as np
from gguf.quants import dequantize

from quality import ROOT, TYPES, Failed, run

FLOATS = ("F32", "F16", "BF16")


def matrices(path):
    """name -> (float64 [rows, columns], type)"""
    return {t.name: (dequantize(t.data, t.tensor_type).astype(np.float64), t.tensor_type.name)
            for t in gguf.GGUFReader(path).tensors if len(t.shape) == 2}


def importance(path):
    return {t.name.removesuffix(".in_sum2"): t.data.astype(np.float64).reshape(-1)
            for t in gguf.GGUFReader(path).tensors if t.name.endswith(".in_sum2")}


def spread(x):
    blocks = x.reshape(-1, 256)
    return np.sqrt((blocks ** 2).mean(1, keepdims=True) + blocks ** 2).reshape(x.shape)


def ratios(true, ours, theirs, weight_of):
    """type -> [(ratio, ratio of what is minimised)]"""
    out = {}
    for name, (x, _) in true.items():
        (a, kind), (b, other) = ours[name], theirs[name]
        if kind != other or kind in FLOATS:
            continue
        w = weight_of.get(name, 1.0)
        errors = [[(w * k * (y - x) ** 2).sum() for y in (a, b)] for k in (1.0, spread(x))]
        out.setdefault(kind, []).append(tuple(mine / peers for mine, peers in errors))
    return out


def cells(pairs):
    return " | ".join("%.3f (%.3f to %.3f)" % (np.mean(v), min(v), max(v)) for v in zip(*pairs))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--llmrun", default=os.path.join(ROOT, "llmrun"))
    ap.add_argument("--model", default=os.path.join(ROOT, "models", "pip-f16.gguf"))
    ap.add_argument("--imatrix", required=True)
    ap.add_argument("--types", default=",".join(TYPES))
    o = ap.parse_args()
    theirs = os.path.join(os.environ.get("LLAMA_CPP") or ap.error("LLAMA_CPP names no folder"), "llama-quantize")
    true, weights, failed = matrices(o.model), importance(o.imatrix), []
    print("| file | made | matrices of | weighted error, ours / theirs | what is minimised |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        a, b = (os.path.join(folder, x) for x in ("ours.gguf", "theirs.gguf"))
        for kind in o.types.split(","):
            for how, more, weight_of in ("plain", [], {}), ("imatrix", ["--imatrix", o.imatrix], weights):
                try:
                    for command in ([o.llmrun, "-q", "--quantize", kind, "-m", o.model, "-o", a, *more], [theirs, *more, o.model, b, kind]):
                        run(*command)
                    for one, pairs in ratios(true, matrices(a), matrices(b), weight_of).items():
                        print(f"| {kind} | {how} | {one} | {cells(pairs)} |", flush=True)
                except (Failed, NotImplementedError, ValueError) as why:
                    failed.append(f"* {kind}, {how}: {why}")
    if failed:
        print("\nNot compared:\n" + "\n".join(failed))


if __name__ == "__main__":
    sys.exit(main())
