"""Random but sane blocks of every weight type, for tests/gen/tiny_models.py.

draw(type, rng, shape, std) returns (data, raw dtype, values): the array to hand to GGUFWriter.add_tensor, the type id
(None for plain float arrays) and the float32 weights that those bytes mean. Types that the gguf package can quantise
are quantised from normal weights. The others get random codes and sub-scales with a block scale that yields the wanted
standard deviation: any bytes are valid blocks there, and the oracle runs on the dequantised weights, so how well the
blocks fit some original does not matter.
"""
import numpy as np
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T

Q2_0 = 42                                # newer than the gguf package: 64 weights in 18 bytes
GGML_QUANT_SIZES.setdefault(Q2_0, (64, 18))

QUANTISED = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4", "BF16")
# type: (offset of the f16 scale d, offset of dmin or None, dmin / d that centres the weights, d may be negative)
RANDOM = {
    "Q2_K": (80, 82, 1.5, False), "Q3_K": (108, None, 0, True), "Q4_K": (0, 2, 7.5, False), "Q5_K": (0, 2, 15.5, False),
    "Q6_K": (208, None, 0, True), "IQ1_S": (0, None, 0, False), "IQ2_XXS": (0, None, 0, False), "IQ2_XS": (0, None, 0, False),
    "IQ2_S": (0, None, 0, False), "IQ3_XXS": (0, None, 0, False), "IQ3_S": (0, None, 0, False), "IQ4_NL": (0, None, 0, True),
    "IQ4_XS": (0, None, 0, True), "Q1_0": (0, None, 0, False),
}
TERNARY = ("TQ1_0", "TQ2_0")
PACKED = ("IQ1_M", "NVFP4", "Q2_0")      # the scale is spread over the block, or the codes need care
ALL = ("F32", "F16") + QUANTISED + tuple(RANDOM) + TERNARY + PACKED


def type_id(name):
    return Q2_0 if name == "Q2_0" else T[name]


def values(data, name):
    """float32 weights of an array of bytes [..., row bytes]."""
    if name in ("F32", "F16"):
        return data.astype(np.float32)
    if name == "Q1_0":                   # 128 weights: f16 d, one bit each: +d or -d
        b = data.reshape(-1, 18)
        bits = np.unpackbits(b[:, 2:], axis=1, bitorder="little").astype(np.float32)
        out = (2 * bits - 1) * b[:, :2].copy().view(np.float16).astype(np.float32)
        return out.reshape(*data.shape[:-1], -1)
    if name == "Q2_0":                   # 64 weights: f16 d, two bits each: d * (code - 1)
        b = data.reshape(-1, 18)
        codes = (b[:, 2:, None] >> np.array([0, 2, 4, 6], np.uint8)) & 3
        out = (codes.reshape(len(b), 64).astype(np.float32) - 1) * b[:, :2].copy().view(np.float16).astype(np.float32)
        return out.reshape(*data.shape[:-1], -1)
    return quants.dequantize(data, type_id(name))


def f16_bytes(x):
    return np.ascontiguousarray(x, np.float32).astype("<f2").view(np.uint8).reshape(len(x), 2)


def put_iq1m_scale(b, d):
    """IQ1_M keeps the four nibbles of its f16 scale in the top nibbles of four 16-bit scale words (bytes 48..55)."""
    h = np.ascontiguousarray(d, np.float32).astype("<f2").view(np.uint16)
    for k in range(4):
        at = 48 + 2 * k + 1
        b[:, at] = (b[:, at] & 0x0F) | (((h >> (4 * k)) & 0xF) << 4).astype(np.uint8)


def draw_blocks(name, rng, n_blocks, std):
    n, size = GGML_QUANT_SIZES[type_id(name)]
    b = rng.integers(0, 256, (n_blocks, size), dtype=np.uint8)
    vary = rng.uniform(0.6, 1.4, n_blocks)
    if name in TERNARY:
        w = rng.integers(-1, 2, (n_blocks, n)) * (vary * std * 1.22)[:, None]
        return quants.quantize(w.astype(np.float32), type_id(name)).reshape(n_blocks, size)
    if name == "NVFP4":                  # four UE4M3 scales, then 32 bytes of codes; rms of the sixteen code values is 5.5
        scale = rng.uniform(0.6, 1.4, (n_blocks, 4)) * std / 5.5 * 2
        b[:, :4] = quants.NVFP4.fp32_to_ue4m3(scale.astype(np.float32))
        return b
    if name == "Q2_0":
        c = rng.choice(np.arange(4, dtype=np.uint8), (n_blocks, 16, 4), p=[0.35, 0.35, 0.2, 0.1])
        b[:, 2:] = np.bitwise_or.reduce(c << np.array([0, 2, 4, 6], np.uint8), axis=2)
        b[:, :2] = f16_bytes(vary * std / 0.97)
        return b
    if name == "IQ1_M":
        put_iq1m_scale(b, vary)
        unit = quants.dequantize(b, T.IQ1_M).std()
        put_iq1m_scale(b, vary * std / unit)
        return b
    at, at_min, ratio, signed = RANDOM[name]
    if signed:
        vary = vary * rng.choice([-1.0, 1.0], n_blocks)
    lift = ratio * rng.uniform(0.9, 1.1, n_blocks)

    def put(factor):
        b[:, at:at + 2] = f16_bytes(vary * factor)
        if at_min is not None:
            b[:, at_min:at_min + 2] = f16_bytes(vary * lift * factor)
    put(1.0)
    put(std / values(b, name).std())
    return b


def draw(name, rng, shape, std, mean=0.0):
    if name in ("F32", "F16") + QUANTISED:
        w = (mean + std * rng.standard_normal(shape)).astype(np.float32)
        if name == "F32":
            return w, None, w
        if name == "F16":
            return w.astype(np.float16), None, w.astype(np.float16).astype(np.float32)
        data = quants.quantize(w, type_id(name))
    else:
        n, size = GGML_QUANT_SIZES[type_id(name)]
        assert shape[-1] % n == 0, (name, shape)
        n_blocks = int(np.prod(shape)) // n
        data = draw_blocks(name, rng, n_blocks, std).reshape(*shape[:-1], shape[-1] // n * size)
    got = values(data, name).reshape(shape)
    assert np.isfinite(got).all() and 0.5 * std < got.std() < 2 * std, (name, float(got.std()), std)
    return data, type_id(name), got
