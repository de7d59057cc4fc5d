#!/usr/bin/env python3
"""Golden blocks of ik_llama.cpp's formats:  python3 tests/gen/golden_ik.py IK_LLAMA_CPP  (a checkout; needs numpy and g++)

Writes under tests/data/golden, like golden_blocks.py:
  fmt_TYPE.bin      one text line, six rows of one block with edge cases, and the float32 they mean
  fmt_sums_ik.txt   per type, a checksum of what one row of half a million weights of random bytes means

The oracle is ik_llama.cpp's own C++: the functions dequantize_row_TYPE are cut out of its sources and compiled alone. Two departures:
IQ6_K has the integer table of its products (iq6nl_values), since dequantize_row_iq6_k computes a polynomial that the table rounds,
which is checked here; and a zero of IQ3_KT has no sign.
"""
import ctypes
import os
import subprocess
import sys
import tempfile

import numpy as np
from golden_blocks import SUM_WEIGHTS, OUT, checksum, stream

BY = "python3 tests/gen/golden_ik.py"
# name: (weights, bytes per block, bytes in front of a row, offset of the f16 scale in a block or None)
FORMATS = {
    "q6_0": (32, 26, 0, 0), "iq2_k": (256, 76, 0, 0), "iq3_k": (256, 110, 0, 0), "iq4_k": (256, 144, 0, 0), "iq5_k": (256, 176, 0, 0),
    "iq6_k": (256, 212, 0, 0), "iq2_ks": (256, 70, 2, None), "iq2_kl": (256, 86, 2, None), "iq3_ks": (256, 102, 2, None),
    "iq4_ks": (256, 136, 4, None), "iq4_kss": (256, 128, 4, None), "iq5_ks": (256, 168, 4, None), "iq1_kt": (256, 56, 4, None),
    "iq2_kt": (256, 68, 4, None), "iq3_kt": (256, 100, 4, None), "iq4_kt": (256, 128, 4, None), "i2_s": (128, 32, 0, None),
}
HEAD = r"""
#define GGML_COMMON_DECL_C
#define GGML_COMMON_IMPL_C
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include "ggml-common.h"
#include <immintrin.h>
#define GGML_ASSERT(x) do { if (!(x)) abort(); } while (0)
#define GGML_FP16_TO_FP32(x) _cvtsh_ss(x)
"""
TABLE_IQ6 = r"""
extern "C" void table_iq6_k(const block_iq6_k *x, float *y, int64_t k) {
    for (int64_t i = 0; i < k; i++) {
        const block_iq6_k &b = x[i / 256];
        const int j = i % 256, g = j / 16, at = j / 64 * 32 + j % 32;
        const int low = b.qs[at] >> (j % 64 / 32 * 4) & 15, high = b.qh[j / 128 * 32 + j % 32] >> (j % 128 / 32 * 2) & 3;
        y[i] = GGML_FP16_TO_FP32(b.d) * b.scales[g] * iq6nl_values[(low | high << 4) + (b.extra >> g & 1) * 64];
    }
}
"""


def function(text, begins):
    at = text.index(begins)
    return text[at:text.index("\n}\n", at) + 3]


def build(ik, folder):
    """The oracle as a shared library."""
    read = lambda name: open(os.path.join(ik, "ggml", "src", name)).read()
    iqk = read("iqk/iqk_quantize.cpp")
    with open(os.path.join(folder, "ggml-common.h"), "w") as f:
        f.write(read("ggml-common.h"))
    code = HEAD + "".join(line + "\n" for line in iqk.split("\n") if line.startswith("#define ") and "_IQ6K " in line)
    values = iqk[iqk.index("    static inline void set_values("):]
    code += """template <int block_size, int group_size, int num_bits, bool is_abs = false, bool is_int = false> struct QuantizerIQKT {
    constexpr static int kSuperBlockSize = QK_K, kBlockSize = block_size, kGroupSize = group_size;
    constexpr static int kNg = kBlockSize / kGroupSize, kNblock = kSuperBlockSize / kBlockSize;
    constexpr static float kScale = is_int ? 1.f : 31.75f;
""" + values[:values.index("    static inline int bin4")] + "};\n"
    for k in "1234":
        using = next(line for line in iqk.split("\n") if line.startswith(f"using QuantizerIQ{k}KT = "))
        code += f"{using}\nstatic QuantizerIQ{k}KT q{k};\n#define iq{k}kt_{'de' if k == '4' else ''}quantizer() q{k}\n"
    code += 'extern "C" {\n' + function(iqk, "void dequantize_row_ms_i2s(")
    code += function(read("ggml-quants.c"), "void dequantize_row_q6_0(").replace("restrict", "")
    code += "".join(function(iqk, f"void dequantize_row_{n}(") for n in FORMATS if n not in ("q6_0", "i2_s")) + "}\n" + TABLE_IQ6
    source, lib = os.path.join(folder, "oracle.cpp"), os.path.join(folder, "oracle.so")
    open(source, "w").write(code)
    subprocess.check_call(["g++", "-O1", "-w", "-ffp-contract=off", "-mf16c", "-shared", "-fPIC", "-o", lib, source])
    return ctypes.CDLL(lib)


def dequant(lib, name, rows, weights):
    """rows: [n][bytes of a row], each of so many weights."""
    out = np.zeros((len(rows), weights), np.float32)

    def run(function, row, to):
        getattr(lib, function)(row.ctypes.data_as(ctypes.c_void_p), to.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(weights))
    for row, to in zip(rows, out):
        if name == "i2_s":               # the scale of a tensor stands after its rows; that of llmrun's rows is 1
            row = np.append(row, np.frombuffer(np.float32(1).tobytes(), np.uint8))
        row = np.ascontiguousarray(np.append(row, np.zeros(64, np.uint8)))
        run("table_iq6_k" if name == "iq6_k" else "dequantize_row_ms_i2s" if name == "i2_s" else "dequantize_row_" + name, row, to)
        if name == "iq6_k" and weights == 256:
            poly = np.zeros(weights, np.float32)
            run("dequantize_row_iq6_k", row, poly)
            scale = np.float32(np.abs(row.view(np.uint8)[:2].copy().view(np.float16)[0])) * 128
            assert not np.isfinite(scale) or np.nanmax(np.abs(poly - to)) <= 0.76 * scale, "the table is not the polynomial, rounded"
    return out + np.float32(0) if name == "iq3_kt" else out


def edge_rows(name, seed):
    """Small scale, negative scale, zero bytes, every bit set at scale 1, subnormal scale, the largest scale."""
    _, size, front, at = FORMATS[name]
    rows = stream(seed, 6 * (front + size)).reshape(6, front + size).copy()
    rows[2] = 0
    rows[3] = 255
    for i, half, scale in [(0, 0x2A66, 0.05), (1, 0xA8CC, -0.0375), (3, 0x3C00, 1), (4, 0x0001, 1e-41), (5, 0x7BFF, 1e30)]:
        if front == 4:
            rows[i][:4] = np.frombuffer(np.float32(scale).tobytes(), np.uint8)
        elif front == 2 or at is not None:
            rows[i][:2] = np.frombuffer(np.uint16(half).tobytes(), np.uint8)
    return rows


def random_row(name, seed):
    """A row of random bytes whose scale, where it stands in front, is a number of usual size; the seed."""
    weights, size, front, _ = FORMATS[name]
    for s in range(seed, seed + 100000, 100):
        row = stream(s, front + SUM_WEIGHTS // weights * size)
        scale = abs(float(row[:front].copy().view(np.float16 if front == 2 else np.float32)[0])) if front else 1
        if 1e-3 < scale < 1e3:
            return row, s
    raise SystemExit(name)


def main(ik):
    sums = [f"# {BY}: type, seed, weights, checksum of the dequantised random bytes"]
    with tempfile.TemporaryDirectory() as folder:
        lib = build(ik, folder)
        for seed, (name, (weights, size, front, _)) in enumerate(FORMATS.items(), 51):
            rows = edge_rows(name, seed)
            values = dequant(lib, name, rows, weights)
            assert np.isfinite(values).all(), name
            with open(os.path.join(OUT, f"fmt_{name}.bin"), "wb") as f:
                f.write(f"{BY}: 6 rows of {front + size} bytes, then their {6 * weights} floats\n".encode())
                f.write(rows.tobytes() + values.tobytes())
            row, seed = random_row(name, seed + 2000)
            sums.append(f"{name} {seed} {SUM_WEIGHTS} {checksum(dequant(lib, name, row[None], SUM_WEIGHTS)):016x}")
    with open(os.path.join(OUT, "fmt_sums_ik.txt"), "w") as f:
        f.write("\n".join(sums) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
