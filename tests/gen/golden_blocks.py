#!/usr/bin/env python3
"""Golden blocks for every quantised format:  python3 tests/gen/golden_blocks.py  (needs numpy and gguf 0.19 or later)

Writes under tests/data/golden:
  fmt_TYPE.bin      one text line, six blocks with edge cases, and the float32 they mean
  fmt_sums.txt      per type, a checksum of what half a million weights of random bytes mean (NaN, infinities included)
  fmt_quant.bin     one text line and float32 inputs; fmt_quant_TYPE.bin: one text line and the bytes they become

The oracle is the `gguf` package, which knows nothing of llmrun. It lacks Q1_0 and Q2_0: these two are written out
here from their description (f16 scale, then 128 sign bits, or 64 two-bit codes worth -1 0 1 2, lowest bits first).
"""
import os

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import quants

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "golden")
BY = "python3 tests/gen/golden_blocks.py"
SUM_WEIGHTS = 1 << 19

# name in the field: (weights, bytes per block, offsets of its f16 values)
FORMATS = {
    "q4_0": (32, 18, [0]), "q4_1": (32, 20, [0, 2]), "q5_0": (32, 22, [0]), "q5_1": (32, 24, [0, 2]), "q8_0": (32, 34, [0]),
    "q2_K": (256, 84, [80, 82]), "q3_K": (256, 110, [108]), "q4_K": (256, 144, [0, 2]), "q5_K": (256, 176, [0, 2]),
    "q6_K": (256, 210, [208]), "iq2_xxs": (256, 66, [0]), "iq2_xs": (256, 74, [0]), "iq3_xxs": (256, 98, [0]),
    "iq1_s": (256, 50, [0]), "iq4_nl": (32, 18, [0]), "iq3_s": (256, 110, [0]), "iq2_s": (256, 82, [0]),
    "iq4_xs": (256, 136, [0]), "iq1_m": (256, 56, []), "tq1_0": (256, 54, [52]), "tq2_0": (256, 66, [64]),
    "mxfp4": (32, 17, []), "nvfp4": (64, 36, []), "q1_0": (128, 18, [0]), "q2_0": (64, 18, [0]),
}


def dequant_bits(blocks, per_byte):
    """Q1_0 (8 codes a byte) and Q2_0 (4 codes a byte)."""
    bits = 8 // per_byte
    d = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    codes = blocks[:, 2:, None] >> (np.arange(per_byte, dtype=np.uint8) * bits) & ((1 << bits) - 1)
    codes = codes.reshape(len(blocks), -1).astype(np.float32)
    return d * (codes * 2 - 1 if bits == 1 else codes - 1)


def dequant(name, blocks):
    with np.errstate(all="ignore"):
        if name in ("q1_0", "q2_0"):
            return dequant_bits(blocks, 8 if name == "q1_0" else 4)
        return quants.dequantize(blocks, T[name.upper()])


def mix(x):
    """The finaliser of splitmix64; also in t_fmt.c."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def stream(seed, n):
    words = mix((np.uint64(seed) << np.uint64(32)) + np.arange((n + 7) // 8, dtype=np.uint64))
    return words.view(np.uint8)[:n]


def checksum(values):
    bits = values.view(np.uint32).ravel().astype(np.uint64)
    bits = np.where((bits & np.uint64(0x7FFFFFFF)) > 0x7F800000, np.uint64(0x7FC00000), bits)
    return int(mix(np.arange(len(bits), dtype=np.uint64) << np.uint64(32) | bits).sum(dtype=np.uint64))


def set_scales(name, block, h):
    """The f16 bit pattern h for the scale of a block; the minimum, where there is one, gets it with the other sign."""
    at = FORMATS[name][2]
    for k, off in enumerate(at):
        block[off:off + 2] = np.frombuffer(np.uint16(h ^ (0x8000 if k else 0)).tobytes(), dtype=np.uint8)
    if name == "iq1_m":                                  # a nibble on top of each of four words
        for k in range(4):
            block[48 + 2 * k + 1] = (block[48 + 2 * k + 1] & 15) | (h >> 4 * k & 15) << 4
    if name == "mxfp4":
        block[0] = {0x3C00: 127, 0x0001: 1, 0x7BFF: 250, 0x2A66: 122, 0xA8CC: 0}[h]
    if name == "nvfp4":
        block[:4] = {0x3C00: [0x38, 0x7F, 0xFF, 0x7E], 0x0001: [1, 7, 8, 0x81], 0x7BFF: [0x7E, 0x7F, 0x80, 0]}.get(h, block[:4])


def edge_blocks(name, seed):
    """Small scale, negative scale, zero bytes, every bit set at scale 1, subnormal scale, the largest scale."""
    _, size, _ = FORMATS[name]
    blocks = stream(seed, 6 * size).reshape(6, size).copy()
    blocks[2] = 0
    blocks[3] = 255
    for i, h in [(0, 0x2A66), (1, 0xA8CC), (3, 0x3C00), (4, 0x0001), (5, 0x7BFF)]:
        set_scales(name, blocks[i], h)
    return blocks


def save(name, what, *arrays):
    with open(os.path.join(OUT, name), "wb") as f:
        f.write(f"{BY}: {what}\n".encode())
        for a in arrays:
            f.write(a.tobytes())


def write_blocks():
    sums = [f"# {BY}: type, seed, weights, checksum of the dequantised random bytes"]
    for seed, (name, (weights, size, _)) in enumerate(FORMATS.items(), 1):
        blocks = edge_blocks(name, seed)
        values = dequant(name, blocks)
        assert values.shape == (6, weights) and values.dtype == np.float32 and np.isfinite(values).all(), name
        save(f"fmt_{name}.bin", f"6 blocks of {size} bytes, then their {6 * weights} floats", blocks, values)
        random = stream(seed + 1000, SUM_WEIGHTS // weights * size).reshape(-1, size)
        sums.append(f"{name} {seed + 1000} {SUM_WEIGHTS} {checksum(dequant(name, random)):016x}")
    with open(os.path.join(OUT, "fmt_sums.txt"), "w") as f:
        f.write("\n".join(sums) + "\n")


def quant_inputs():
    """Blocks of 32: normal values from tiny to beyond f16, then zeros, ties, a constant, spikes, one sign only."""
    rng = np.random.default_rng(1)
    rows = [rng.standard_normal(32) * 10.0 ** e for e in np.linspace(-30, 6, 19)]
    rows += [rng.standard_normal(32) for _ in range(12)]
    rows += [np.zeros(32), np.full(32, 3.25), np.full(32, -0.1), np.abs(rng.standard_normal(32))]
    rows += [np.append(np.arange(31) - 15.5, 127), np.append(np.arange(31) * 4 + 0.5, -127)]      # halves at q8_0
    rows += [np.append(np.arange(31) / 2 - 7.5, -8), np.append(np.arange(31) / 2 - 7.5, 8)]       # halves at q4_0
    rows += [np.append(np.arange(31) / 2 - 7.5, -16), np.arange(32) / 2, np.arange(32) - 31]
    rows += [np.eye(1, 32, 5)[0] * -7, np.eye(1, 32, 31)[0] * 1e-5]
    rows += [np.where(np.arange(32) % 2, 1.0, -1.0)]                                              # two extremes
    return np.array(rows, dtype=np.float32)


def write_quants():
    x = quant_inputs()
    save("fmt_quant.bin", f"{x.size} floats, what fmt_quant_TYPE.bin was made from", x)
    for name in ["f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1"]:
        with np.errstate(all="ignore"):
            got = quants.quantize(x, T[name.upper()])
        save(f"fmt_quant_{name}.bin", f"{x.size} floats as {name}", got)


if __name__ == "__main__":
    os.makedirs(OUT, exist_ok=True)
    write_blocks()
    write_quants()
