#!/usr/bin/env python3
"""A model of the same function and a larger shape: what a big model costs, with the words of a small one.

    python3 tests/gen/inflate.py models/pip-f16.gguf --like 1.1b -o big-f16.gguf        # 2.2 GB, under a minute
    ./llmrun -m big-f16.gguf --quantize Q4_K_M -o big-q4_k_m.gguf                       # about 0.7 GB
    ./llmrun -m big-q4_k_m.gguf -p "Once upon a time" --temp 0.5

    python3 tests/gen/inflate.py MODEL [--embd N] [--heads N] [--kv-heads N] [--ff N] [--layers N] [--seed N] -o FILE

MODEL is a llama, qwen2 or qwen3 in F32, F16 or BF16, without experts; the types stay, and the vocabulary. What is not
said stays, or is the preset's; key/value heads grow as the heads do. Needs python 3.9 and nothing else; the same
bytes come out for the same seed. tests/inflate.py holds the result to the original's logits and texts.

- Width D -> D2: channels D.. are zero from the embedding on, so the mean square of a row shrinks by D/D2. The norms'
  gains shrink by the square root of that, their epsilon by D/D2: what leaves a norm is what left it before. The norms
  of qwen3's queries and keys are as wide as they were but read the same epsilon; smaller there, it moves a row by less
  than epsilon / 2 over the row's mean square, which is of the order of the rounding of a float (Pip: below 2e-7).
- Heads, feed-forward: rows and columns of zeros. Head h of a group stays the h-th of that group.
- Draft heads (blk.N.nextn, in MODEL or alone in a file of their own) grow as its layers do and stay behind the last.
- Layers: those of MODEL are spread evenly; between them stand layers of random weights whose attn_output and ffn_down
  are zero. They compute, and fill the cache, with ordinary numbers, and add nothing.

With widths that are multiples of 256 no block of weights or activations holds both old and new channels (but for
attn_output, when a group gains heads): a quantised type then leaves zero what is zero and rounds the rest as in MODEL.
"""
import argparse
import os
import random
import re
import statistics
import struct

PRESETS = {  # the layers of TinyLlama 1.1B; three more stand in for its larger vocabulary
    "1.1b": dict(embd=2048, heads=32, kv_heads=4, ff=5632, layers=25),
}
ARCHS = ("llama", "qwen2", "qwen3")
U32, F32, TEXT, ARRAY, U64 = 4, 6, 8, 9, 10                       # types of values, as numbered in the file
WIDTH = {0: 1, 1: 1, 2: 2, 3: 2, U32: 4, 5: 4, F32: 4, 7: 1, U64: 8, 11: 8, 12: 8}
FLOATS = {0: ("F32", 4, "<f"), 1: ("F16", 2, "<e"), 30: ("BF16", 2, "<f")}
# name, rows, columns: of tensors outside the layers and in them. Axes: V vocabulary, D width, Q and K heads, F
# feed-forward, H one head, R rotations; N is D too, of gains that make up for the zeros; P is D twice.
OUTER = {"token_embd.weight": "VD", "output.weight": "VD", "output_norm.weight": "N", "rope_freqs.weight": "R"}
LAYER = {"attn_norm.weight": "N", "ffn_norm.weight": "N", "attn_q_norm.weight": "H", "attn_k_norm.weight": "H",
         "attn_q.weight": "QD", "attn_k.weight": "KD", "attn_v.weight": "KD", "attn_output.weight": "DQ",
         "ffn_gate.weight": "FD", "ffn_up.weight": "FD", "ffn_down.weight": "DF",
         "attn_q.bias": "Q", "attn_k.bias": "K", "attn_v.bias": "K", "attn_output.bias": "D",
         "ffn_gate.bias": "F", "ffn_up.bias": "F", "ffn_down.bias": "D",
         "nextn.eh_proj.weight": "DP", "nextn.enorm.weight": "N", "nextn.hnorm.weight": "N", "nextn.shared_head_norm.weight": "N"}


def need(ok, why):
    if not ok:
        raise SystemExit("inflate.py: " + why)


# --- the container --------------------------------------------------------------------------------------------------
class File:
    """keys: name -> (type, raw bytes); tensors: name -> (dims, fastest first; type; offset in bytes)."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.b = memoryview(f.read())
        need(self.b[:8] == b"GGUF\3\0\0\0", path + ": not a GGUF file of version 3")
        self.at = 8
        n_tensors, n_keys = self.take("<Q"), self.take("<Q")
        self.keys, self.tensors = {}, {}
        for _ in range(n_keys):
            name, kind, at = self.text(), self.take("<I"), self.at
            self.skip(kind)
            self.keys[name] = kind, bytes(self.b[at:self.at])
        for _ in range(n_tensors):
            name, n = self.text(), self.take("<I")
            self.tensors[name] = [self.take("<Q") for _ in range(n)], self.take("<I"), self.take("<Q")
        self.base = -(-self.at // self.align()) * self.align()

    def take(self, form):
        v = struct.unpack_from(form, self.b, self.at)[0]
        self.at += struct.calcsize(form)
        return v

    def text(self):
        n = self.take("<Q")
        self.at += n
        return bytes(self.b[self.at - n:self.at]).decode()

    def skip(self, kind):
        if kind == TEXT:
            n = self.take("<Q")
            self.at += n
        elif kind == ARRAY:
            kind, n = self.take("<I"), self.take("<Q")
            if kind in WIDTH:
                self.at += n * WIDTH[kind]
            else:
                for _ in range(n):
                    self.skip(kind)
        else:
            self.at += WIDTH[kind]

    def align(self):
        return self.number("general.alignment", 32)

    def number(self, name, default=None):
        """A u32 or u64, or an f32."""
        kind, raw = self.keys.get(name, (None, b""))
        if kind is None and default is not None:
            return default
        need(kind in (U32, U64, F32), f"{name}: a number was expected")
        return struct.unpack({U32: "<I", U64: "<Q", F32: "<f"}[kind], raw)[0]

    def set_number(self, name, value):
        kind = self.keys.get(name, (F32 if isinstance(value, float) else U32,))[0]
        self.keys[name] = kind, struct.pack({U32: "<I", U64: "<Q", F32: "<f"}[kind], value)

    def string(self, name):
        return self.keys[name][1][8:].decode() if name in self.keys else ""

    def set_string(self, name, value):
        self.keys[name] = TEXT, struct.pack("<Q", len(value.encode())) + value.encode()

    def data(self, name):
        dims, kind, at = self.tensors[name]
        n = size_of(dims, kind)
        need(self.base + at + n <= len(self.b), name + ": its data ends after the file")
        return self.b[self.base + at:self.base + at + n]


def size_of(dims, kind):
    n = FLOATS[kind][1]
    for d in dims:
        n *= d
    return n


def write(path, keys, tensors, align):
    """tensors: (name, dims, type, function that makes the data), the data one after the other."""
    def text(s):
        return struct.pack("<Q", len(s.encode())) + s.encode()

    head, at = [b"GGUF\3\0\0\0", struct.pack("<QQ", len(tensors), len(keys))], 0
    for name, (kind, raw) in keys.items():
        head += [text(name), struct.pack("<I", kind), raw]
    for name, dims, kind, _ in tensors:
        head += [text(name), struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, at)]
        at += -(-size_of(dims, kind) // align) * align
    with open(path, "wb") as f:
        f.write(b"".join(head))
        for name, dims, kind, make in tensors:
            f.write(bytes(-f.tell() % align))
            data = make()
            assert len(data) == size_of(dims, kind), name
            f.write(data)
        f.write(bytes(-f.tell() % align))


# --- the shapes -----------------------------------------------------------------------------------------------------
class Axis:
    """old channels among new ones: spans of (first old, first new, how many)."""

    def __init__(self, old, new=None, spans=None):
        self.old, self.new = old, old if new is None else new
        self.spans = spans or [(0, 0, old)]


class Shape:
    def __init__(self, src, want):
        self.src, self.arch = src, src.string("general.architecture")
        need(self.arch in ARCHS, f"architecture {self.arch!r}: only {', '.join(ARCHS)} can be inflated")
        need(src.number(self.arch + ".expert_count", 0) == 0, "a model with experts cannot be inflated")
        need(src.number("split.count", 1) == 1, "a part of a split model cannot be inflated")
        old = {"embd": self.key("embedding_length"), "layers": self.key("block_count"), "ff": self.key("feed_forward_length"),
               "heads": self.key("attention.head_count")}
        old["kv_heads"] = self.key("attention.head_count_kv", old["heads"])
        self.n_heads = self.key("nextn_predict_layers", 0)
        old["layers"] -= self.n_heads
        self.old, self.group = old, old["heads"] // old["kv_heads"]
        self.hd = self.key("attention.key_length", old["embd"] // old["heads"])
        need(self.key("attention.value_length", self.hd) == self.hd, "heads of values are not as wide as those of keys")
        self.new = {k: want[k] or v for k, v in old.items() if k != "kv_heads"}
        self.new["kv_heads"] = want["kv_heads"] or self.new["heads"] // self.group
        self.axes = self.make_axes()

    def key(self, name, default=None):
        return self.src.number(f"{self.arch}.{name}", default)

    def make_axes(self):
        old, new = self.old, self.new
        for k in old:
            need(new[k] >= old[k], f"--{k.replace('_', '-')} {new[k]}: the model has {old[k]}")
        need(new["heads"] % new["kv_heads"] == 0, f"{new['heads']} heads do not divide into {new['kv_heads']} groups")
        r, r2, hd = self.group, new["heads"] // new["kv_heads"], self.hd
        need(r2 >= r, f"{new['kv_heads']} key/value heads leave {r2} heads a group: the model has {r}")
        heads = [(g * r * hd, g * r2 * hd, r * hd) for g in range(old["kv_heads"])]
        width = Axis(old["embd"], new["embd"])
        pair = Axis(2 * old["embd"], 2 * new["embd"], [(0, 0, old["embd"]), (old["embd"], new["embd"], old["embd"])])
        return {"D": width, "N": width, "P": pair, "F": Axis(old["ff"], new["ff"]), "H": Axis(hd),
                "Q": Axis(old["heads"] * hd, new["heads"] * hd, heads),
                "K": Axis(old["kv_heads"] * hd, new["kv_heads"] * hd)}

    def shrink(self):
        """What the zeros make of a row's mean square."""
        return self.old["embd"] / self.new["embd"]

    def axes_of(self, name):
        """Rows and columns of a tensor of the file; a vector is one row."""
        layer = re.fullmatch(r"blk\.\d+\.(.*)", name)
        letters = LAYER.get(layer[1]) if layer else OUTER.get(name)
        dims, kind, _ = self.src.tensors[name]
        need(letters is not None, name + ": not a tensor this script knows")
        need(kind in FLOATS, name + ": its type is none of F32, F16, BF16")
        need(kind == 0 or letters != "N", name + ": gains are expected in F32")
        need(len(dims) == len(letters), f"{name}: {len(dims)} dimensions, expected {len(letters)}")
        axes = [self.axes.get(a, Axis(d)) for a, d in zip(letters, dims[::-1])]
        need([a.old for a in axes] == dims[::-1], f"{name}: shape {dims}, expected {[a.old for a in axes][::-1]}")
        return [Axis(1)] * (len(axes) == 1) + axes, letters

    def home(self, i):
        """Where layer i of the model goes."""
        return i * self.new["layers"] // self.old["layers"]

    def keys(self, n_params):
        f, new = self.src, self.new
        for name, k in (("embedding_length", "embd"), ("block_count", "layers"), ("feed_forward_length", "ff"),
                        ("attention.head_count", "heads"), ("attention.head_count_kv", "kv_heads")):
            f.set_number(f"{self.arch}.{name}", new[k] + self.n_heads * (k == "layers"))
        eps = self.arch + ".attention.layer_norm_rms_epsilon"
        f.set_number(eps, f.number(eps) * self.shrink())
        if new["embd"] != new["heads"] * self.hd:
            f.set_number(self.arch + ".attention.key_length", self.hd)
            f.set_number(self.arch + ".attention.value_length", self.hd)
        label = f"{n_params / 1e9:.2g}B" if n_params >= 1e9 else f"{n_params / 1e6:.3g}M"
        f.set_string("general.name", f"{f.string('general.name')} inflated to {label}".strip())
        f.set_string("general.size_label", label)
        return f.keys


# --- the weights ----------------------------------------------------------------------------------------------------
def spread(raw, size, rows, cols):
    """Values of `size` bytes at their new places, zeros between them."""
    out = bytearray(rows.new * cols.new * size)
    for r0, r1, n in rows.spans:
        for r in range(n):
            for c0, c1, m in cols.spans:
                a, b = ((r0 + r) * cols.old + c0) * size, ((r1 + r) * cols.new + c1) * size
                out[b:b + m * size] = raw[a:a + m * size]
    return out


def gains(raw, factor):
    n = len(raw) // 4
    return struct.pack(f"<{n}f", *(v * factor for v in struct.unpack(f"<{n}f", raw)))


def noise(seed, name, n, kind, deviation):
    """About a bell: the highest byte (sign, exponent) by its quantiles, the bytes below it as they fall."""
    _, size, form = FLOATS[kind]
    bell = statistics.NormalDist(0, deviation)
    table = bytes(struct.pack(form, bell.inv_cdf((i + 0.5) / 256))[-1] for i in range(256))
    draw = random.Random(f"{seed} {name}")
    out = bytearray(n * size)
    for i in range(size):
        b = draw.randbytes(n)
        out[i::size] = b.translate(table) if i == size - 1 else b
    return out


def real(shape, name):
    """A tensor of the model at its new size."""
    (rows, cols), letters = shape.axes_of(name)
    raw = shape.src.data(name)
    if letters == "N":
        raw = gains(raw, shape.shrink() ** 0.5)
    return spread(raw, FLOATS[shape.src.tensors[name][1]][1], rows, cols)


def idle(shape, name, like, seed):
    """The tensor `name` of a layer that adds nothing, made like another one's."""
    (rows, cols), letters = shape.axes_of(like)
    kind, n = shape.src.tensors[like][1], rows.new * cols.new
    if like.endswith(".bias") or letters in ("DQ", "DF"):
        return bytes(n * FLOATS[kind][1])
    if letters in ("N", "H"):
        one = struct.pack("<f", shape.shrink() ** 0.5 if letters == "N" else 1)
        return spread(one * cols.old, 4, rows, cols)
    return noise(seed, name, n, kind, cols.old ** -0.5)


def heads(shape, names):
    """Tensors of draft heads, and what they are called in the new file."""
    found = [(re.fullmatch(r"blk\.(\d+)\.(.*)", n), n) for n in names]
    return {n: f"blk.{int(m[1]) - shape.old['layers'] + shape.new['layers']}.{m[2]}" for m, n in found if m and int(m[1]) >= shape.old["layers"]}


def plan(shape, seed):
    """Every tensor of the new file: those before the layers, the layers, those after, draft heads."""
    behind = heads(shape, shape.src.tensors)
    names = [n for n in shape.src.tensors if n not in behind]
    return [entry(shape, name, source, seed) for name, source in (trunk(shape, names) if names else []) + [(behind[n], n) for n in behind]]


def trunk(shape, names):
    """(name, the tensor that it comes from or None) of all but draft heads."""
    layer = [bool(re.match(r"blk\.", n)) for n in names]
    first, last = layer.index(True), len(names) - layer[::-1].index(True)
    homes = {shape.home(i): i for i in range(shape.old["layers"])}
    parts = [n.split(".", 2)[2] for n in names if n.startswith("blk.0.")]
    jobs = [(n, n) for n in names[:first]]
    jobs += [(f"blk.{i}.{p}", f"blk.{homes[i]}.{p}" if i in homes else None) for i in range(shape.new["layers"]) for p in parts]
    jobs += [(n, n) for n in names[last:]]
    need({s for _, s in jobs} - {None} == set(names), "the layers do not hold the same tensors")
    return jobs


def entry(shape, name, source, seed):
    like = source or re.sub(r"^blk\.\d+", "blk.0", name)
    axes, letters = shape.axes_of(like)
    kind = shape.src.tensors[like][1]
    need(source or kind == 0 or letters != "H", like + ": gains are expected in F32")
    dims = [a.new for a in axes[::-1]][:len(letters)]
    return name, dims, kind, (lambda: real(shape, source)) if source else (lambda: idle(shape, name, like, seed))


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("model")
    ap.add_argument("-o", "--output", required=True, metavar="FILE")
    ap.add_argument("--like", choices=PRESETS, help="sizes that the options below may still change")
    for name, what in (("embd", "width"), ("heads", "heads"), ("kv-heads", "heads of keys and values"),
                       ("ff", "feed-forward width"), ("layers", "layers")):
        ap.add_argument("--" + name, type=int, metavar="N", help=what)
    ap.add_argument("--seed", type=int, default=1, metavar="N", help="of the layers that add nothing [1]")
    args = vars(ap.parse_args())
    preset = PRESETS.get(args["like"], {})
    try:
        src = File(args["model"])
    except (OSError, KeyError, ValueError, struct.error) as e:
        need(False, f"{args['model']}: cannot be read: {e}")
    shape = Shape(src, {k: args[k] or preset.get(k) for k in ("embd", "heads", "kv_heads", "ff", "layers")})
    align, tensors = shape.src.align(), plan(shape, args["seed"])
    n_params = sum(size_of(dims, kind) // FLOATS[kind][1] for _, dims, kind, _ in tensors)
    write(args["output"] + ".tmp", shape.keys(n_params), tensors, align)
    os.replace(args["output"] + ".tmp", args["output"])
    print(f"{args['output']}: {n_params:,} parameters, {os.path.getsize(args['output']):,} bytes")


if __name__ == "__main__":
    main()
