#!/usr/bin/env python3
"""The errors that the fitters of ggml_kernels.h must not exceed:  python3 tests/gen/golden_fit.py libggml-base.so

The oracle is ggml's own quantiser, ggml_quantize_chunk, called through ctypes; its blocks are widened by the `gguf`
package, and the errors summed in double precision. Needs numpy and gguf 0.19 or later. Writes under tests/data/golden:
  fit_rows.bin   one text line, then float32: ROWS rows of N weights, one row of N importances
  fit_errors.txt per type and row: sum of e^2, and sum of w*e^2 when the quantiser was given the importances
"""
import ctypes
import os
import sys

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import quants

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "golden")
BY = "python3 tests/gen/golden_fit.py"
N = 512
TYPES = ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_K", "q3_K", "q4_K", "q5_K", "q6_K"]


def rows():
    """Bell-shaped, long-tailed, flat, sparse, one-sided, uneven and lumpy rows, of sizes from tiny to huge."""
    rng = np.random.default_rng(3)
    normal = rng.standard_normal
    out = [normal(N) * s for s in (0.02, 1.0, 1e-4, 3e3)]
    out += [rng.laplace(size=N) * 0.03 for _ in range(2)]
    out += [rng.standard_t(4, N) * 0.05 for _ in range(2)]
    out += [rng.uniform(-1, 1, N)]
    out += [np.where(rng.random(N) < 0.2, normal(N), 0)]
    out += [1 + 0.1 * normal(N), -1 - 0.1 * normal(N), np.abs(normal(N))]
    out += [normal(N) * np.exp(normal(N) * 0.7) * 0.02]                     # a scale of its own for every column
    out += [normal(N) * np.repeat(np.exp(normal(N // 32) * 0.5), 32)]       # and for every 32
    out += [np.sin(np.arange(N) * 0.1) + 0.1 * normal(N)]
    return np.array(out, dtype=np.float32)


def importances():
    rng = np.random.default_rng(4)
    w = np.exp(rng.standard_normal(N))
    w[rng.random(N) < 0.02] *= 20
    return w.astype(np.float32)


def chunk(lib, kind, x, w):
    out = np.zeros(quants.quant_shape_to_byte_shape(x.shape, kind), dtype=np.uint8)
    got = lib.ggml_quantize_chunk(int(kind), x.ctypes.data, out.ctypes.data, 0, 1, N, w.ctypes.data if w is not None else None)
    assert got == out.nbytes
    return quants.dequantize(out, kind).astype(np.float64)


def main():
    lib = ctypes.CDLL(sys.argv[1])
    lib.ggml_quantize_chunk.restype = ctypes.c_size_t
    lib.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64,
                                        ctypes.c_int64, ctypes.c_void_p]
    xs, w = rows(), importances()
    with open(os.path.join(OUT, "fit_rows.bin"), "wb") as f:
        f.write(f"{BY}: {len(xs)} rows of {N} floats, then {N} importances\n".encode())
        f.write(xs.tobytes() + w.tobytes())
    with open(os.path.join(OUT, "fit_errors.txt"), "w") as f:
        f.write(f"# {BY}: type, row, sum of e^2 without importances, sum of w*e^2 with them\n")
        for name in TYPES:
            for i, x in enumerate(xs):
                e = [float((v * (x - chunk(lib, T[name.upper()], x, u)) ** 2).sum()) for u, v in ((None, np.ones(N)), (w, w))]
                f.write(f"{name} {i} {e[0]:.9e} {e[1]:.9e}\n")


main()
