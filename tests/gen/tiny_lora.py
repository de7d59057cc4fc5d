#!/usr/bin/env python3
"""Adapters for the tiny models, and the logits of merged weights in float64: tests/data/lora.

    python3 tests/gen/tiny_lora.py

Each row of CASES is a model of tests/data/tiny with adapters and their scales. The weights of the model become W + s (alpha / r)
B A in float64; the readings of tests/tiny_read*.py give the logits at the rows that data/tiny/manifest.txt names. An output matrix
that is the embeddings stays as it is where the embeddings change. manifest.txt of the folder has a line for each case: its name,
the model, the adapters as --lora takes them, its logits.
"""
import os
import struct
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import tiny_check                                       # noqa: E402
from tiny_read import File                              # noqa: E402

OUT = os.path.join(os.path.dirname(HERE), "data", "lora")
LINEAR = "attn_q attn_k attn_v attn_qkv attn_output ffn_gate ffn_up ffn_down ffn_gate_inp".split()
EXPERTS = "ffn_gate_exps ffn_up_exps ffn_down_exps".split()

# adapter: model, rank, alpha, type, tensors by the last part of their names
ADAPTERS = {
    "llama_all": ("llama", 4, 8.0, "f32", LINEAR + ["output"]),
    "llama_qv": ("llama", 3, 0.0, "f16", ["attn_q", "attn_v"]),
    "llama_wide": ("llama", 40, 20.0, "f32", ["attn_k"]),
    "moe_experts": ("llama_moe", 2, 4.0, "f32", ["attn_q", "ffn_gate_inp"] + EXPERTS),
    "gemma_embd": ("gemma", 5, 3.0, "f32", ["token_embd", "ffn_up"]),
    "phi3_joined": ("phi3", 4, 6.0, "f32", LINEAR),
}
CASES = [("llama_all", "llama", {"llama_all": 1}), ("llama_half", "llama", {"llama_all": 0.5}),
         ("llama_three", "llama", {"llama_all": -0.75, "llama_qv": 1, "llama_wide": 0.5}),
         ("moe_experts", "llama_moe", {"moe_experts": 1}), ("gemma_embd", "gemma", {"gemma_embd": 2}),
         ("phi3_joined", "phi3", {"phi3_joined": 1})]


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def write(path, arch, alpha, tensors):
    """A GGUF file as llama.cpp's converter writes adapters; tensors: name -> array, slowest dimension first."""
    keys = [("general.architecture", 8, text(arch)), ("general.type", 8, text("adapter")), ("adapter.type", 8, text("lora")),
            ("adapter.lora.alpha", 6, struct.pack("<f", alpha))]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    head += b"".join(text(k) + struct.pack("<I", t) + v for k, t, v in keys)
    at, data = 0, b""
    for name, x in tensors.items():
        head += text(name) + struct.pack("<I", x.ndim) + struct.pack("<%dQ" % x.ndim, *x.shape[::-1])
        head += struct.pack("<IQ", 0 if x.dtype == np.float32 else 1, at)
        data += x.tobytes() + b"\0" * (-x.nbytes % 32)
        at = len(data)
    with open(path, "wb") as out:
        out.write(head + b"\0" * (-len(head) % 32) + data)


def draw(name, seed):
    model, rank, alpha, dtype, parts = ADAPTERS[name]
    row = next(r for r in tiny_check.manifest(model) if r["name"] == model)
    f, rng, to = File(os.path.join(tiny_check.DATA, row["file"])), np.random.default_rng(seed), {}
    for tensor, w in f.tensors.items():
        if tensor.split(".")[-2] not in parts or not tensor.endswith(".weight"):
            continue
        *stack, n_out, n_in = w.shape
        size = {"a": (*stack, rank, n_in), "b": (*stack, n_out, rank)}
        if tensor == "token_embd.weight":               # A has a row for each token, B for each value of an embedding
            size = {"a": (n_out, rank), "b": (n_in, rank)}
        for part, shape in size.items():
            scale = np.abs(w).mean() * (1 if part == "b" else 0.5)
            to[tensor + ".lora_" + part] = (rng.standard_normal(shape) * scale).astype("<f4" if dtype == "f32" else "<f2")
    write(os.path.join(OUT, name + ".gguf"), f.meta["general.architecture"], alpha, to)
    return rank, alpha, to


def merged(file, used, made):
    for name, scale in used.items():
        rank, alpha, tensors = made[name]
        for tensor in [t[:-7] for t in tensors if t.endswith(".lora_a")]:
            a, b = (tensors[tensor + ".lora_" + p].astype(np.float64) for p in "ab")
            delta = a @ b.T if tensor == "token_embd.weight" else b @ a
            if tensor == "token_embd.weight":
                file.tensors.setdefault("output.weight", file.tensors[tensor])
            file.types.setdefault("output.weight", file.types["token_embd.weight"])
            file.tensors[tensor] = file.tensors[tensor] + scale * (alpha / rank if alpha else 1) * delta
    return file


def main():
    os.makedirs(OUT, exist_ok=True)
    made = {name: draw(name, 100 + i) for i, name in enumerate(ADAPTERS)}
    with open(os.path.join(OUT, "manifest.txt"), "w") as out:
        for name, model, used in CASES:
            row = next(r for r in tiny_check.manifest(model) if r["name"] == model)
            f = merged(File(os.path.join(tiny_check.DATA, row["file"])), used, made)
            got = tiny_check.reader(f)(f).logits(row["ids"])[row["first"]::row["step"]]
            got.astype("<f4").tofile(os.path.join(OUT, name + ".f32"))
            moved = tiny_check.nmse(got, row["want"])
            print("%-14s moves the logits by an NMSE of %.2g" % (name, moved))
            assert 1e-3 < moved < 2, "the adapter must matter"
            out.write("%s %s %s %s.f32\n" % (name, model, ",".join("%s.gguf=%g" % u for u in used.items()), name))


if __name__ == "__main__":
    main()
