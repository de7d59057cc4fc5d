#!/usr/bin/env python3
"""Which type every tensor gets:  python3 tests/gen/quant_types.py LLAMA-QUANTIZE   (the tool of llama.cpp)

Writes tests/data/golden/quant_types.txt: small models of several architectures, and what the tool's --dry-run makes of each
for every file type, with an importance matrix too where that changes something. The lines:

  model NAME ARCH                     then its keys and tensors; f16, data of zeros
  key KEY VALUE                       ARCH.KEY, u32 (a value with a point: f32)
  tensor NAME D0 [D1 [D2]]            a name with %d comes once for each layer
  file TYPE BASE [guided]             then every tensor that is not BASE
  TYPE NAME ...                       blk.{0,2-4}.x stands for layers 0, 2, 3 and 4
"""
import os
import re
import struct
import subprocess
import sys
import tempfile

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "golden", "quant_types.txt")
FILES = {  # name: base
    "F32": "f32", "F16": "f16", "BF16": "bf16", "Q8_0": "q8_0", "Q6_K": "q6_K", "Q5_K_M": "q5_K", "Q5_K_S": "q5_K", "Q5_1": "q5_1",
    "Q5_0": "q5_0", "Q4_K_M": "q4_K", "Q4_K_S": "q4_K", "Q4_1": "q4_1", "Q4_0": "q4_0", "IQ4_NL": "iq4_nl", "IQ4_XS": "iq4_xs",
    "MXFP4_MOE": "mxfp4", "Q3_K_L": "q3_K", "Q3_K_M": "q3_K", "Q3_K_S": "q3_K", "IQ3_M": "iq3_s", "IQ3_S": "iq3_s", "IQ3_XS": "iq3_s",
    "IQ3_XXS": "iq3_xxs", "Q2_K": "q2_K", "Q2_K_S": "q2_K", "Q2_0": "q2_0", "IQ2_M": "iq2_s", "IQ2_S": "iq2_xs", "IQ2_XS": "iq2_xs",
    "IQ2_XXS": "iq2_xxs", "TQ2_0": "tq2_0", "TQ1_0": "tq1_0", "IQ1_M": "iq1_m", "IQ1_S": "iq1_s", "Q1_0": "q1_0",
}
GUIDED = ["Q4_0", "Q5_0", "IQ3_XXS", "IQ4_NL", "IQ4_XS"]


def model(name, arch, layers, heads, kv, d=256, f=256, experts=0, tied=False, norm="layer_norm_rms_epsilon", attn="qkv", gate=True, shared=False,
          more=(), keys=()):
    k = [("block_count", layers), ("context_length", 128), ("embedding_length", d), ("feed_forward_length", f), ("attention.head_count", heads),
         ("attention.head_count_kv", kv), ("attention." + norm, 1e-5), ("rope.dimension_count", d // heads)]
    if experts:
        k += [("expert_count", experts), ("expert_used_count", 2)]
    t = [("token_embd.weight", (d, 4)), ("output_norm.weight", (d,))] + ([] if tied else [("output.weight", (d, 4))])
    t += [("blk.%d.attn_norm.weight", (d,)), ("blk.%d.attn_output.weight", (d, 4))]
    t += [("blk.%%d.attn_%s.weight" % c, (d, 4)) for c in attn] if attn != "fused" else [("blk.%d.attn_qkv.weight", (d, 4))]
    if experts:
        t += [("blk.%d.ffn_gate_inp.weight", (d, experts))]
        t += [("blk.%%d.ffn_%s_exps.weight" % c, (f if c == "down" else d, 4, experts)) for c in ("gate", "up", "down")]
        t += [("blk.%%d.ffn_%s_shexp.weight" % c, (f if c == "down" else d, 4)) for c in ("gate", "up", "down") if shared]
        t += [("blk.%d.ffn_gate_inp_shexp.weight", (d, 1))] if shared else []
    else:
        t += [("blk.%%d.ffn_%s.weight" % c, (f if c == "down" else d, 4)) for c in ("gate", "up", "down") if gate or c != "gate"]
    return name, arch, layers, k + list(keys), t + list(more)


MODELS = [
    model("dense", "llama", 12, 8, 8),
    model("grouped", "llama", 17, 8, 2, tied=True),
    model("mixtral", "llama", 9, 8, 2, experts=8),
    model("experts", "qwen2moe", 8, 8, 8, experts=4, shared=True),
    model("falcon", "falcon", 16, 8, 1, norm="layer_norm_epsilon", attn="fused", gate=False),
    model("uneven", "qwen3", 8, 4, 2, d=288, f=80, tied=True, more=[("blk.%d.attn_q_norm.weight", (72,)), ("blk.%d.attn_k_norm.weight", (72,))]),
    model("seventy", "qwen2", 80, 8, 1, more=[("blk.%d.attn_v.bias", (4,))]),
]


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def names(name, layers):
    return [name % i for i in range(layers)] if "%d" in name else [name]


def write(path, arch, layers, keys, tensors):
    kv = [text("general.architecture") + struct.pack("<I", 8) + text(arch)]
    for key, v in keys:
        kv.append(text(arch + "." + key) + (struct.pack("<If", 6, v) if isinstance(v, float) else struct.pack("<II", 4, v)))
    directory, n, at = b"", 0, 0
    for pattern, dims in tensors:
        for name in names(pattern, layers):
            directory += text(name) + struct.pack("<I%dQIQ" % len(dims), len(dims), *dims, 1, at)
            size = 2
            for d in dims:
                size *= d
            at, n = at + (size + 31) // 32 * 32, n + 1
    head = b"GGUF" + struct.pack("<IQQ", 3, n, len(kv)) + b"".join(kv) + directory
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32))
        f.truncate(f.tell() + at)


def types(tool, path, kind, imatrix):
    """name: type of every tensor, as the tool would make it; None when it refuses."""
    r = subprocess.run([tool, "--dry-run"] + (["--imatrix", imatrix] if imatrix else []) + [path, kind], capture_output=True, text=True)
    lines = re.findall(r"\] +(\S+) +- \[.*?type = +(\w+), size = .*?MiB(?: -> .*\((\w+)\))?\n", re.sub(r"warning: .*?falling back.*?\n", "", r.stdout + r.stderr))
    return {name: new or old for name, old, new in lines} if r.returncode == 0 else None


def ranges(layers):
    runs = []
    for i in sorted(layers):
        if runs and runs[-1][1] == i - 1:
            runs[-1][1] = i
        else:
            runs.append([i, i])
    return ",".join("%d" % a if a == b else "%d-%d" % (a, b) for a, b in runs)


def folded(found):
    """Names that differ in their layer alone, as one."""
    by = {}
    for name in found:
        m = re.match(r"blk\.(\d+)\.(.*)", name)
        by.setdefault(m.group(2) if m else None, []).append(int(m.group(1)) if m else name)
    top = by.pop(None, [])
    return top + ["blk.{%s}.%s" % (ranges(v), k) for k, v in sorted(by.items())]


def main():
    tool, out = sys.argv[1], ["made by python3 tests/gen/quant_types.py"]
    with tempfile.TemporaryDirectory() as tmp:
        path, imatrix = os.path.join(tmp, "m.gguf"), os.path.join(tmp, "i.dat")
        with open(imatrix, "wb") as f:  # the legacy form: one entry
            f.write(struct.pack("<ii4siiffi", 1, 4, b"none", 1, 2, 1.0, 1.0, 1))
        for name, arch, layers, keys, tensors in MODELS:
            write(path, arch, layers, keys, tensors)
            out.append("model %s %s" % (name, arch))
            out += ["key %s %s" % (k, "%g" % v if isinstance(v, float) else v) for k, v in keys]
            out += ["tensor %s %s" % (t, " ".join(map(str, dims))) for t, dims in tensors]
            for kind, guided in [(k, False) for k in FILES] + [(k, True) for k in GUIDED]:
                got = types(tool, path, kind, imatrix if guided else None)
                if got is None:
                    continue
                assert len(got) == sum(len(names(t, layers)) for t, _ in tensors), (name, kind, len(got))
                out.append("file %s %s%s" % (kind, FILES[kind], " guided" if guided else ""))
                for t in sorted(set(got.values()) - {FILES[kind]}):
                    out.append(t + " " + " ".join(folded([n for n in sorted(got) if got[n] == t])))
    with open(OUT, "w") as f:
        f.write("\n".join(out) + "\n")
    print(len(out), "lines")


main()
