#!/usr/bin/env python3
"""What another quantiser achieves on fixed rows:  python3 tests/gen/fit_grid.py path/to/libggml-base.so

Writes tests/data/golden/fit_grid.txt: type, kind of row, weighed or not, and the error sum w*(x - x^)^2 left by ggml's
quantiser, whose blocks the `gguf` package reads. The rows are made by formulas that tests/t_fit.c repeats. Types that
ggml quantises only with an importance matrix get one of ones where the row is not weighed.
"""
import ctypes
import os
import sys

import numpy as np
from gguf import GGMLQuantizationType as T

import golden_blocks as gb

N = 1024
OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "golden", "fit_grid.txt")
TYPES = ["iq4_nl", "iq4_xs", "mxfp4", "nvfp4", "tq1_0", "tq2_0", "q1_0", "q2_0", "iq3_xxs", "iq3_s", "iq2_xxs", "iq2_xs",
         "iq2_s", "iq1_s", "iq1_m"]
ID = {"q1_0": 41, "q2_0": 42}


def uniform(seed, n):
    return (gb.mix((np.uint64(seed) << np.uint64(32)) + np.arange(n, dtype=np.uint64)) >> np.uint64(40)) * 2.0 ** -24


def row(kind):
    """0: a bell; 1: long tails; 2: a bell and an outlier per 256; 3: groups of 32 of unlike sizes."""
    v = uniform(50 + kind, 4 * N).reshape(N, 4).sum(axis=1) - 2
    i = np.arange(N)
    v = {0: v, 1: v * v * v, 2: np.where(i % 256 == 77, v * 64, v), 3: v * 2.0 ** -(i // 32 % 6)}[kind]
    return (v * 0.0625).astype(np.float32)


def weights():
    u = uniform(99, N)
    return (1 / (u * u + 0.0625)).astype(np.float32)


def main():
    lib = ctypes.CDLL(sys.argv[1])
    lib.ggml_quantize_chunk.restype = ctypes.c_size_t
    lib.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_void_p]
    lines = [f"# python3 tests/gen/fit_grid.py libggml-base.so: type, kind of row, weighed, sum w*(x - x^)^2 over {N} weights"]
    for name in TYPES:
        number = ID[name] if name in ID else int(T[name.upper()])
        block, size, _ = gb.FORMATS[name]
        for kind in range(4):
            for weighed in range(2):
                x, w = row(kind), weights() if weighed else np.ones(N, dtype=np.float32)
                given = w.ctypes.data if weighed or name in ("iq2_xxs", "iq2_xs", "iq1_s", "iq1_m") else None
                dst = np.zeros(N // block * size, dtype=np.uint8)
                lib.ggml_quantize_chunk(number, x.ctypes.data, dst.ctypes.data, 0, 1, N, given)
                e = x.astype(np.float64) - gb.dequant(name, dst.reshape(-1, size)).reshape(-1).astype(np.float64)
                lines.append(f"{name} {kind} {weighed} {float((w.astype(np.float64) * e * e).sum()):.12g}")
    with open(OUT, "w") as f:
        f.write("\n".join(lines) + "\n")


main()
