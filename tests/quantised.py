"""Quantised checkpoints: for each format a matrix as its library stores it, and the weights that the library's own formula gives.

Numbers are rounded to single precision where the libraries compute in it. Each maker returns tensors, members of quantization_config and the
rows [N][K] of weights. MAKERS: name -> (maker, the type that --quantize auto gives, whether the folder runs with matrices of that type).
"""
import json
import math
import struct

from checkpoint import bf16, draw, f16, f32


def single(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def half(x):
    return struct.unpack("<e", struct.pack("<e", x))[0]


def brain(x):
    return struct.unpack("<f", b"\0\0" + bf16([x]))[0]


def i32(words):
    return struct.pack("<%dI" % len(words), *(w & 0xFFFFFFFF for w in words))


def e4m3(b):
    sign, exp, mant = -1.0 if b & 128 else 1.0, b >> 3 & 15, b & 7
    return sign * (math.ldexp(8 + mant, exp - 10) if exp else math.ldexp(mant, -9))


E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
E2M1 += [-x for x in E2M1]
NF4 = [-1.0, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.091050036, 0.0, 0.0795803, 0.1609302, 0.2461123, 0.33791524,
       0.44070983, 0.562617, 0.72295684, 1.0]


FP4 = [0.0, 0.0625 / 12, 8 / 12, 1.0, 4 / 12, 6 / 12, 2 / 12, 3 / 12]    # of bitsandbytes
FP4 += [-x for x in FP4]


def stream(codes, bits):
    """A little-endian bit stream of codes, in words of 32 bits."""
    n = 0
    for i, c in enumerate(codes):
        n |= c << (i * bits)
    words = (len(codes) * bits + 31) // 32
    return [n >> 32 * i & 0xFFFFFFFF for i in range(words)]


def gptq(rng, N, K, bits, group=32, act=False, sym=False, v2=False):
    G = (K + group - 1) // group
    q = [[rng.randrange(1 << bits) for _ in range(K)] for _ in range(N)]
    z = [[1 << (bits - 1) if sym else rng.randrange(1, 1 << bits) for _ in range(N)] for _ in range(G)]
    s = [[half(0.01 + 0.01 * rng.random()) for _ in range(N)] for _ in range(G)]
    order = [k // group for k in range(K)]
    if act:
        rng.shuffle(order)
    cols = [stream([q[n][k] for k in range(K)], bits) for n in range(N)]
    qweight = [cols[n][w] for w in range(len(cols[0])) for n in range(N)]
    qzeros = [w for g in range(G) for w in stream([z[g][n] - (0 if v2 else 1) for n in range(N)], bits)]
    tensors = {"qweight": ("I32", (len(cols[0]), N), i32(qweight)), "qzeros": ("I32", (G, N * bits // 32), i32(qzeros)),
               "scales": ("F16", (G, N), f16([s[g][n] for g in range(G) for n in range(N)])), "g_idx": ("I32", (K,), i32(order))}
    config = dict(quant_method="gptq", bits=bits, group_size=group, desc_act=act, sym=sym, **(dict(checkpoint_format="gptq_v2") if v2 else {}))
    return tensors, config, [[single(s[order[k]][n] * (q[n][k] - z[order[k]][n])) for k in range(K)] for n in range(N)]


def awq(rng, N, K, group=32):
    G, order = K // group, [0, 2, 4, 6, 1, 3, 5, 7]
    q = [[rng.randrange(16) for _ in range(N)] for _ in range(K)]
    z = [[rng.randrange(16) for _ in range(N)] for _ in range(G)]
    s = [[half(0.01 + 0.01 * rng.random()) for _ in range(N)] for _ in range(G)]

    def pack(row):
        return [sum(row[8 * c + order[i]] << 4 * i for i in range(8)) for c in range(N // 8)]

    tensors = {"qweight": ("I32", (K, N // 8), i32([w for r in q for w in pack(r)])), "qzeros": ("I32", (G, N // 8), i32([w for r in z for w in pack(r)])),
               "scales": ("F16", (G, N), f16([x for r in s for x in r]))}
    return tensors, dict(quant_method="awq", bits=4, group_size=group, version="gemm"), \
        [[single(s[k // group][n] * (q[k][n] - z[k // group][n])) for k in range(K)] for n in range(N)]


def fp8(rng, N, K, scale):
    codes = [[rng.choice([b for b in range(256) if b & 127 != 127]) for _ in range(K)] for _ in range(N)]
    if scale == "tensor":
        shape, at = (1,), lambda n, k: 0
    elif scale == "row":
        shape, at = (N, 1), lambda n, k: n
    else:
        shape, at = ((N + 127) // 128, (K + 127) // 128), lambda n, k: n // 128 * ((K + 127) // 128) + k // 128
    count = 1
    for d in shape:
        count *= d
    s = [single(0.0005 + 0.0005 * rng.random()) for _ in range(count)]
    name = "weight_scale_inv" if scale == "block" else "weight_scale"
    tensors = {"weight": ("F8_E4M3", (N, K), bytes(b for r in codes for b in r)), name: ("F32", shape, f32(s))}
    config = dict(quant_method="fp8", weight_block_size=[128, 128]) if scale == "block" else dict(quant_method="compressed-tensors", format="float-quantized", config_groups={})
    return tensors, config, [[single(e4m3(codes[n][k]) * s[at(n, k)]) for k in range(K)] for n in range(N)]


def bnb(rng, N, K, kind, nested):
    table = [single(x) for x in (NF4 if kind == "nf4" else FP4)]
    q = [rng.randrange(16) for _ in range(N * K)]
    blocks = (N * K + 63) // 64
    state = dict(quant_type=kind, blocksize=64, dtype="bfloat16", shape=[N, K])
    tensors = {"weight": ("U8", ((N * K + 1) // 2, 1), bytes(q[i] << 4 | q[i + 1] for i in range(0, N * K, 2))), "weight.quant_map": ("F32", (16,), f32(table))}
    if nested:
        codes, offset = [rng.randrange(256) for _ in range(blocks)], single(0.0449)
        inner = [single(x / 255) for x in range(-128, 128)]
        outer = [single(0.01 + 0.01 * rng.random()) for _ in range((blocks + 255) // 256)]
        absmax = [single(single(inner[c] * outer[i // 256]) + offset) for i, c in enumerate(codes)]
        state.update(nested_blocksize=256, nested_dtype="float32", nested_offset=offset)
        tensors.update({"weight.absmax": ("U8", (blocks,), bytes(codes)), "weight.nested_absmax": ("F32", (len(outer),), f32(outer)),
                        "weight.nested_quant_map": ("F32", (256,), f32(inner))})
    else:
        absmax = [single(0.1 + 0.1 * rng.random()) for _ in range(blocks)]
        tensors["weight.absmax"] = ("F32", (blocks,), f32(absmax))
    text = json.dumps(state).encode()
    tensors["weight.quant_state.bitsandbytes__" + kind] = ("U8", (len(text),), text)
    return tensors, dict(quant_method="bitsandbytes", load_in_4bit=True), [[single(table[q[n * K + k]] * absmax[(n * K + k) // 64]) for k in range(K)] for n in range(N)]


def int8(rng, N, K):
    q = [[rng.randrange(-127, 128) for _ in range(K)] for _ in range(N)]
    s = [single(0.1 + 0.1 * rng.random()) for _ in range(N)]
    part = single(1 / 127)
    tensors = {"weight": ("I8", (N, K), struct.pack("<%db" % (N * K), *(x for r in q for x in r))), "SCB": ("F32", (N,), f32(s)), "weight_format": ("U8", (), b"\0")}
    return tensors, dict(quant_method="bitsandbytes", load_in_8bit=True), [[single(single(q[n][k] * s[n]) * part) for k in range(K)] for n in range(N)]


def packed(rng, N, K, bits=4, group=32, asym=False):
    G, top = K // group, 1 << (bits - 1)
    q = [[rng.randrange(1 << bits) for _ in range(K)] for _ in range(N)]
    z = [[rng.randrange(1 << bits) if asym else top for _ in range(G)] for _ in range(N)]
    s = [[brain(0.01 + 0.01 * rng.random()) for _ in range(G)] for _ in range(N)]
    per = 32 // bits
    tensors = {"weight_packed": ("I32", (N, (K + per - 1) // per), i32([w for r in q for w in stream(r, bits)])),
               "weight_scale": ("BF16", (N, G), bf16([x for r in s for x in r])), "weight_shape": ("I64", (2,), struct.pack("<2q", N, K))}
    if asym:
        cols = [stream([z[n][g] for n in range(N)], bits) for g in range(G)]
        tensors["weight_zero_point"] = ("I32", (len(cols[0]), G), i32([cols[g][w] for w in range(len(cols[0])) for g in range(G)]))
    config = dict(quant_method="compressed-tensors", format="pack-quantized",
                  config_groups={"group_0": {"weights": dict(num_bits=bits, type="int", strategy="group", group_size=group, symmetric=not asym)}})
    return tensors, config, [[single(s[n][k // group] * (q[n][k] - z[n][k // group])) for k in range(K)] for n in range(N)]


def int8_rows(rng, N, K):
    q = [[rng.randrange(-127, 128) for _ in range(K)] for _ in range(N)]
    s = [brain(0.001 + 0.001 * rng.random()) for _ in range(N)]
    tensors = {"weight": ("I8", (N, K), struct.pack("<%db" % (N * K), *(x for r in q for x in r))), "weight_scale": ("BF16", (N, 1), bf16(s))}
    return tensors, dict(quant_method="compressed-tensors", format="int-quantized", config_groups={}), [[single(q[n][k] * s[n]) for k in range(K)] for n in range(N)]


def nvfp4(rng, N, K, modelopt):
    q = [[rng.randrange(16) for _ in range(K)] for _ in range(N)]
    s = [[rng.randrange(40, 120) for _ in range(K // 16)] for _ in range(N)]
    factor = single(0.0123 if modelopt else 81.0)
    data, scales = bytes(r[k] | r[k + 1] << 4 for r in q for k in range(0, K, 2)), bytes(x for r in s for x in r)
    if modelopt:
        tensors = {"weight": ("U8", (N, K // 2), data), "weight_scale": ("F8_E4M3", (N, K // 16), scales), "weight_scale_2": ("F32", (), f32([factor])), "input_scale": ("F32", (), f32([0.5]))}
        config = dict(quant_method="modelopt", quant_algo="NVFP4")
    else:
        tensors = {"weight_packed": ("U8", (N, K // 2), data), "weight_scale": ("F8_E4M3", (N, K // 16), scales), "weight_global_scale": ("F32", (1,), f32([factor]))}
        config = dict(quant_method="compressed-tensors", format="nvfp4-pack-quantized", config_groups={"group_0": {"weights": dict(num_bits=4, type="float")}})

    def scale(n, k):
        x = e4m3(s[n][k // 16])
        return single(x * factor) if modelopt else single(x / factor)

    return tensors, config, [[single(E2M1[q[n][k]] * scale(n, k)) for k in range(K)] for n in range(N)]


def mxfp4(rng, N, K):
    q = [[rng.randrange(16) for _ in range(K)] for _ in range(N)]
    s = [[rng.randrange(118, 126) for _ in range(K // 32)] for _ in range(N)]
    tensors = {"weight_packed": ("U8", (N, K // 2), bytes(r[k] | r[k + 1] << 4 for r in q for k in range(0, K, 2))), "weight_scale": ("U8", (N, K // 32), bytes(x for r in s for x in r))}
    config = dict(quant_method="compressed-tensors", format="mxfp4-pack-quantized", config_groups={"group_0": {"weights": dict(num_bits=4, type="float")}})
    return tensors, config, [[E2M1[q[n][k]] * math.ldexp(1, s[n][k // 32] - 127) for k in range(K)] for n in range(N)]


def fbgemm(rng, N, K):
    tensors, _, rows = fp8(rng, N, K, "row")
    return dict(tensors, input_scale_ub=("F32", (1,), f32([1200.0]))), dict(quant_method="fbgemm_fp8", activation_scale_ub=1200.0), rows


def mxfp4_experts(rng, E, N, K):
    """Experts of gpt-oss: blocks [E, N, K/32, 16], scales [E, N, K/32], and the weights [E][N][K]."""
    q = [[[rng.randrange(16) for _ in range(K)] for _ in range(N)] for _ in range(E)]
    s = [[[rng.randrange(118, 126) for _ in range(K // 32)] for _ in range(N)] for _ in range(E)]
    blocks = ("U8", (E, N, K // 32, 16), bytes(r[k] | r[k + 1] << 4 for e in q for r in e for k in range(0, K, 2)))
    scales = ("U8", (E, N, K // 32), bytes(x for e in s for r in e for x in r))
    return blocks, scales, [[[E2M1[q[e][n][k]] * math.ldexp(1, s[e][n][k // 32] - 127) for k in range(K)] for n in range(N)] for e in range(E)]


def gpt_oss(rng, tensors, layers, E, F, D):
    """Tensors of gpt-oss with experts in blocks, as published, and the weights of gate, up and down by layer."""
    tensors, want = {n: t for n, t in tensors.items() if not n.endswith(("experts.gate_up_proj", "experts.down_proj"))}, {}
    for i in range(layers):
        base = "model.layers.%d.mlp.experts." % i
        tensors[base + "gate_up_proj_blocks"], tensors[base + "gate_up_proj_scales"], both = mxfp4_experts(rng, E, 2 * F, D)
        tensors[base + "down_proj_blocks"], tensors[base + "down_proj_scales"], down = mxfp4_experts(rng, E, D, F)
        want.update({"blk.%d.ffn_gate_exps.weight" % i: [e[0::2] for e in both], "blk.%d.ffn_up_exps.weight" % i: [e[1::2] for e in both],
                     "blk.%d.ffn_down_exps.weight" % i: down})
    return tensors, want


MAKERS = {
    "gptq_4": (lambda r, N, K: gptq(r, N, K, 4, sym=True), "q4_0"), "gptq_4_zeros": (lambda r, N, K: gptq(r, N, K, 4), None),
    "gptq_8": (lambda r, N, K: gptq(r, N, K, 8, sym=True), "q8_0"), "gptq_3": (lambda r, N, K: gptq(r, N, K, 3, sym=True), "q4_0"),
    "gptq_2": (lambda r, N, K: gptq(r, N, K, 2, sym=True), "q4_0"), "gptq_order": (lambda r, N, K: gptq(r, N, K, 4, act=True), "f16"),
    "gptq_v2": (lambda r, N, K: gptq(r, N, K, 4, sym=True, v2=True), "q4_0"), "gptq_3_zeros": (lambda r, N, K: gptq(r, N, K, 3), None),
    "awq": (awq, None), "fp8_tensor": (lambda r, N, K: fp8(r, N, K, "tensor"), "bf16"), "fp8_row": (lambda r, N, K: fp8(r, N, K, "row"), "bf16"),
    "fp8_block": (lambda r, N, K: fp8(r, N, K, "block"), "bf16"), "fbgemm": (fbgemm, "bf16"),
    "nf4": (lambda r, N, K: bnb(r, N, K, "nf4", False), "f16"),
    "nf4_nested": (lambda r, N, K: bnb(r, N, K, "nf4", True), "f16"), "fp4": (lambda r, N, K: bnb(r, N, K, "fp4", False), "f16"),
    "int8": (int8, "f16"), "packed_4": (packed, "q4_0"), "packed_4_zeros": (lambda r, N, K: packed(r, N, K, asym=True), None),
    "packed_8": (lambda r, N, K: packed(r, N, K, bits=8), "q8_0"), "int8_rows": (int8_rows, "q8_0"),
    "nvfp4": (lambda r, N, K: nvfp4(r, N, K, False), "nvfp4"), "nvfp4_modelopt": (lambda r, N, K: nvfp4(r, N, K, True), "nvfp4"), "mxfp4": (mxfp4, "mxfp4"),
}
