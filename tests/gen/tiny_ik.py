#!/usr/bin/env python3
"""Tiny models with types that only ik_llama.cpp and bitnet.cpp have:  python3 tests/gen/tiny_ik.py IK_LLAMA_CPP
(a checkout; needs numpy, gguf and g++) writes into tests/data/tiny
  t_ik             every type of ik_llama.cpp: a llama whose matrices have one each
  t_i2_s           bitnet-b1.58, its matrices I2_S
and foreign.txt, a list of them in the form of manifest.txt. The weights that the random blocks mean come from the functions of ik_llama.cpp that
golden_ik.py cuts out; the golden logits from the float64 reading (tests/tiny_read*.py) of a twin in F32."""
import os
import struct
import sys
import tempfile

import numpy as np
from gguf import GGUFWriter

import golden_ik
import tiny_base
import tiny_blocks
import tiny_llama
import tiny_models
import tiny_quirks

IDS = dict(i2_s=36, q6_0=133, iq2_k=137, iq3_k=138, iq4_k=139, iq5_k=140, iq6_k=141, iq4_ks=144, iq2_ks=145, iq4_kss=146, iq5_ks=152, iq2_kt=153,
           iq3_kt=154, iq4_kt=155, iq3_ks=156, iq2_kl=157, iq1_kt=158)
# of the embeddings, of q k v output gate up down of two layers, of the output
ORDER = ("iq2_k iq4_k q6_0 iq6_k iq3_k iq2_ks iq4_ks iq3_ks iq4_kss iq5_k iq5_ks iq2_kl iq1_kt iq2_kt iq3_kt iq4_kt").split()


def put(rows, name, scale):
    """Random rows of blocks, whose scales become about `scale`."""
    weights, size, front, at = golden_ik.FORMATS[name]
    vary = np.random.default_rng(5).uniform(0.7, 1.3, rows.shape[0])
    if front:
        rows[:, :front] = (vary * scale).astype(np.float16 if front == 2 else np.float32).view(np.uint8).reshape(len(rows), front)
    for b in range(0, rows.shape[1] if at is not None and not front else 0, size):
        rows[:, b:b + 2] = (vary * scale).astype(np.float16).view(np.uint8).reshape(len(rows), 2)


def draw(lib, name, rng, shape, std):
    """Bytes of the tensor, and the float32 weights that they mean."""
    weights, size, front, _ = golden_ik.FORMATS[name]
    n, rows = shape[-1], int(np.prod(shape[:-1]))
    data = rng.integers(0, 256, (rows, front + n // weights * size), dtype=np.uint8)
    put(data, name, 1.0)
    scale = std / golden_ik.dequant(lib, name, data, n).std()
    put(data, name, scale)
    value = golden_ik.dequant(lib, name, data, n)
    tail = b""
    if name == "i2_s":                                      # codes of 3 do not occur; one scale for all
        for k in range(0, 8, 2):
            data[(data >> k & 3) == 3] ^= np.uint8(2 << k)
        value = golden_ik.dequant(lib, name, data, n) * np.float32(scale)
        tail = np.float32(scale).tobytes() + bytes(28)
    return data.tobytes() + tail, value.reshape(shape)


class Weights(tiny_base.Weights):
    def matrix(self, name, *shape, gain=1.0, plain=False):
        kind = None if plain else self.s["kind"](name)
        if not kind:
            return super().matrix(name, *shape, gain=gain, plain=True)
        data, value = draw(self.s["lib"], kind, self.rng, shape, gain / np.sqrt(shape[-1]))
        self.data[name + ".weight"], self.value[name + ".weight"] = (value, None), value
        self.s["blocks"][name + ".weight"] = (IDS[kind], data)


def twin(family, s, path):
    """The model in F32; the blocks of its matrices are in s["blocks"] then."""
    w = Weights(s)
    family.draw(w, s)
    g = GGUFWriter(path, s["arch"])
    g.add_name("tiny " + s["name"])
    g.add_description("random weights; made by tests/gen/tiny_ik.py")
    family.write_keys(g, s)
    tiny_base.add_vocab(g, s)
    tiny_base.write_tensors(g, w)


def replace(path, blocks, out):
    """A copy of a GGUF file of float tensors, where those in `blocks` have another type and other data."""
    b = open(path, "rb").read()
    n_tensor, n_kv = struct.unpack_from("<QQ", b, 8)
    size = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def text(at):
        return at + 8 + struct.unpack_from("<Q", b, at)[0]

    def value(at, kind):
        if kind == 8:
            return text(at)
        if kind != 9:
            return at + size[kind]
        of, count = struct.unpack_from("<IQ", b, at)
        at += 12
        for _ in range(count):
            at = value(at, of)
        return at
    at = 24
    for _ in range(n_kv):
        at = text(at)
        at = value(at + 4, struct.unpack_from("<I", b, at)[0])
    head, infos = b[:at], []
    for _ in range(n_tensor):
        end = text(at)
        name, dims = b[at + 8:end].decode(), struct.unpack_from("<I", b, end)[0]
        shape = struct.unpack_from("<%dQ" % dims, b, end + 4)
        kind, offset = struct.unpack_from("<IQ", b, end + 4 + 8 * dims)
        infos.append((name, shape, kind, offset))
        at = end + 16 + 8 * dims
    start, data = (at + 31) // 32 * 32, b""
    for name, shape, kind, offset in infos:
        kind, raw = blocks.get(name, (kind, b[start + offset:start + offset + int(np.prod(shape)) * 4]))
        head += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I%dQIQ" % len(shape), len(shape), *shape, kind, len(data))
        data += raw + bytes(-len(raw) % 32)
    open(out, "wb").write(head + bytes(-len(head) % 32) + data)


def build(lib, family, name, spec, kind):
    """One model; returns its row of the list."""
    family.MODELS[name] = spec
    s = tiny_models.spec_of(family, name)
    s.update(kind=kind, lib=lib, blocks={}, metric="kl", limit="1e-3")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "twin.gguf")
        twin(family, s, path)
        reading = tiny_models.Reading(path)
        out = os.path.join(tiny_models.OUT, name)
        replace(path, s["blocks"], out + ".gguf")
    ids = tiny_models.draw_prompt(s, reading)
    logits = reading.logits(ids)
    first = s["n"] - 1 - (s["rows"] - 1) * s["step"]
    logits[first::s["step"]].astype("<f4").tofile(out + ".f32")
    tiny_models.write_ids(out + ".ids", ids)
    print("%-24s %7d bytes  logits sd %.2f" % (name, os.path.getsize(out + ".gguf"), logits.std()))
    return "%s %s.gguf %s.ids %s.f32 - %d %d %d %d %d %s %s\n" % (name, name, name, name, s["n"], tiny_base.N_VOCAB, first, s["step"], s["rows"],
                                                                  s["metric"], s["limit"])


def main(ik):
    draw = tiny_quirks.base.draw_attention                  # tiny_quirks names layers, as in "blk.0."
    tiny_quirks.base.draw_attention = lambda w, s, a, i: draw(w, s, a, int(i.split(".")[1]) if isinstance(i, str) else i)
    tiny_quirks.base.ARCHS["bitnet-b1.58"] = dict(tiny_quirks.ARCHS["bitnet"], cls=None)
    turn = iter(ORDER)
    assert sorted(ORDER) == sorted(t for t in IDS if t != "i2_s")
    with tempfile.TemporaryDirectory() as folder:
        lib = golden_ik.build(ik, folder)
        rows = [build(lib, tiny_llama, "t_ik", dict(tiny_llama.Q256, vocab="spm", mtp=False, tied=False, layers=2, heads=4, kv=1, hd=64, ff=256), lambda name: next(turn)),
                build(lib, tiny_quirks, "t_i2_s", dict(tiny_quirks.MODELS["bitnet"], arch="bitnet-b1.58", embd=128, heads=4, kv=2, hd=32, ff=256, keys={}, gate=None, out=1.2),
                      lambda name: None if "embd" in name else "i2_s")]
    with open(os.path.join(tiny_models.OUT, "foreign.txt"), "w") as f:
        f.writelines(rows)


if __name__ == "__main__":
    main(sys.argv[1])
