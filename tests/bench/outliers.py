#!/usr/bin/env python3
"""Outliers in activations: how far single channels stand above the others in real models, and models of any weights with such channels.

    python3 tests/bench/outliers.py IN.gguf OUT.gguf           # a copy with outliers as in SmolLM2 135M and Gemma 3 270M
    python3 tests/bench/outliers.py --measure MODEL.gguf       # Markdown: largest over median and mean magnitude of the blocks that are rounded together
    python3 tests/bench/outliers.py --measure MODEL.gguf --layers    # the same by layer

Published models have a few channels whose activations are 5 to 60 times those of the others, in each matrix's input; random weights
and Pip have none. A copy gets them by larger gains of attn_norm, ffn_norm and output_norm, and by larger rows of attn_v (which
attn_output reads) and ffn_up (which ffn_down reads): --kinds names the inputs. Each channel's factor is drawn from the distribution of
the channels of the real models (PROFILE), so that the ratios within blocks come out as measured.
  Where a matrix that reads such a channel is of floats, its column is divided by the factor: the model computes what it did, and the largest
factors go to the channels that matter least. Columns of quantised matrices are left, since a block's scale has nothing left for so small a
column: such a copy has the speed of a real model and says nothing of use. --measure runs a reading of the model in numpy on --windows windows
of 512 tokens. Needs numpy.
"""
import argparse, mmap, os, shutil, subprocess, sys, tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.dirname(HERE))
import tiny_read                                       # noqa: E402
from tiny_check import reader                          # noqa: E402

WINDOW = 512
KINDS = {"attn": ("attn_q",), "attn_out": ("attn_output",), "ffn": ("ffn_gate", "ffn_up"), "down": ("ffn_down",), "output": ("output", "token_embd")}
# root mean square of a channel over that of the layer's median channel: at these parts of all channels, and at one of 10,000
PARTS = [0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.9999]
PROFILE = {
    "attn":     [1, 1.2, 1.55, 2.2, 4.2, 7.5, 12, 23, 60],
    "attn_out": [1, 1.3, 1.70, 2.1, 3.2, 4.6, 7.0, 10, 40],
    "ffn":      [1, 1.1, 1.35, 1.65, 2.5, 3.6, 5.4, 9.0, 40],
    "down":     [1, 1.35, 2.1, 2.9, 4.3, 5.6, 7.1, 12, 100],
    "output":   [1, 1.2, 1.55, 2.0, 3.2, 5.2, 7.6, 15, 55],
}
F32, F16, BF16 = FLOATS = 0, 1, 30
# where the f16 that scale a block are; a whole row is scaled by them
SCALES = {2: (0,), 3: (0, 2), 6: (0,), 7: (0, 2), 8: (0,), 10: (80, 82), 11: (108,), 12: (0, 2), 13: (0, 2), 14: (208,), 16: (0,), 17: (0,),
          18: (0,), 20: (0,), 21: (0,), 22: (0,), 23: (0,)}


class Mapped(tiny_read.File):
    """A file whose tensors are read when they are asked for, in float32."""

    def __init__(self, path, write=False):
        self.file = open(path, "r+b" if write else "rb")
        self.b, self.at = mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_WRITE if write else mmap.ACCESS_READ), 4
        if self.b[:4] != b"GGUF" or self.take("<I") != 3:
            raise SystemExit("%s: not a GGUF file of version 3" % path)
        n_tensors, n_keys = self.take("<Q"), self.take("<Q")
        self.meta = {}
        for _ in range(n_keys):
            key = self.text()
            self.meta[key] = self.value(self.take("<I"))
        infos = [self.info() for _ in range(n_tensors)]
        align = self.meta.get("general.alignment", 32)
        base = -(-self.at // align) * align
        self.infos = {name: (dims, kind, base + at) for name, dims, kind, at in infos}
        self.types = {name: kind for name, _, kind, _ in infos}
        self.tensors = self

    def __contains__(self, name):
        return name in self.infos

    def __iter__(self):
        return iter(self.infos)

    def get(self, name, default=None):
        return self[name] if name in self else default

    def bytes(self, name):
        """The blocks of a tensor, [rows, blocks of a row, bytes]; a change changes the file."""
        dims, kind, at = self.infos[name]
        block, size = tiny_read.SIZES[kind]
        raw = np.frombuffer(self.b, "u1", int(np.prod(dims)) // block * size, at)
        return raw.reshape(-1, dims[0] // block, size)

    def __getitem__(self, name):
        dims, kind, at = self.infos[name]
        if kind == F32:
            return np.frombuffer(self.b, "<f4", int(np.prod(dims)), at).reshape(dims[::-1])
        if kind == BF16:
            return (self.bytes(name).view("<u2").astype("<u4") << 16).view("<f4").reshape(dims[::-1])
        return tiny_read.weights(self.b, at, dims, kind).astype(np.float32)


# --- planting ---

def draw(rng, kind, n):
    """Factors of n channels, 1 for the lower half."""
    u = rng.random(n)
    return np.exp(np.interp(-np.log(1 - u), -np.log(1 - np.array(PARTS)), np.log(PROFILE[kind])))


def scale_rows(f, name, by):
    """Multiplies row i of a tensor by by[i]; a vector is a matrix of rows of one."""
    dims, kind, at = f.infos[name]
    if kind in (F32, F16):
        raw = np.frombuffer(f.b, "<f4" if kind == F32 else "<f2", int(np.prod(dims)), at).reshape(len(by), -1)
        raw[:] = raw * by[:, None]
    elif kind == BF16:
        write_bf16(f, name, f[name] * by[:, None])
    elif kind in SCALES:
        raw = f.bytes(name)
        for at in SCALES[kind]:
            old = raw[:, :, at:at + 2].copy().view("<f2")[..., 0].astype(np.float32)
            new = (old * by[:, None]).astype("<f2")
            if not np.isfinite(new).all():
                raise SystemExit("%s: a scale is above what f16 holds" % name)
            raw[:, :, at:at + 2] = new[..., None].view("u1")
    else:
        raise SystemExit("%s: rows of type %d cannot be scaled" % (name, kind))


def write_bf16(f, name, x):
    bits = x.astype("<f4").view("<u4")
    f.bytes(name).view("<u2").reshape(-1)[:] = ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16).astype("<u2").reshape(-1)


def scale_columns(f, name, by):
    if f.types[name] == BF16:
        return write_bf16(f, name, f[name] * by)
    dims, kind, at = f.infos[name]
    raw = np.frombuffer(f.b, "<f4" if kind == F32 else "<f2", int(np.prod(dims)), at).reshape(-1, dims[0])
    raw[:] = raw * by


class Planter:
    def __init__(self, f, seed):
        self.f, self.rng = f, np.random.default_rng(seed)

    def spread(self, kind, made, readers, channel=None):
        """Channels of an input: `made`, the tensor whose rows they are; what reads them; channel, the row that each of its columns reads."""
        f, readers = self.f, [r for r in readers if r in self.f]
        if made not in f or not readers:
            raise SystemExit("no tensor %s, or none that reads it" % made)
        n = f.infos[made][0][-1]
        channel = np.arange(n) if channel is None else channel
        by = draw(self.rng, kind, n)
        if all(f.types[r] in FLOATS for r in readers):
            read = np.bincount(channel, weights=sum((f[r].astype(np.float64) ** 2).sum(0) for r in readers), minlength=n)
            norm = np.linalg.norm(f[made].reshape(n, -1), axis=1)
            matter = norm * np.sqrt(read)
            for at in range(0, n, 256):                  # within blocks, so that each keeps what was drawn for it
                part = by[at:at + 256]
                part[np.argsort(matter[at:at + 256])] = np.sort(part)[::-1]
            by *= np.where(by > 1.5, np.median(norm) / norm, 1)    # those that matter least are small
            for r in readers:
                scale_columns(f, r, 1 / by[channel])
        scale_rows(f, made, by)

    def plant(self, kinds):
        f, arch = self.f, self.f.meta["general.architecture"]
        heads = f.meta[arch + ".attention.head_count"]
        kv = f.meta.get(arch + ".attention.head_count_kv", heads)
        for b in ("blk.%d." % i for i in range(f.meta[arch + ".block_count"])):
            if "attn" in kinds:
                self.spread("attn", b + "attn_norm.weight", [b + "attn_%s.weight" % c for c in "qkv"])
            if "attn_out" in kinds:
                rows = np.arange(f.infos[b + "attn_v.weight"][0][1]).reshape(kv, -1)
                self.spread("attn_out", b + "attn_v.weight", [b + "attn_output.weight"], np.repeat(rows, heads // kv, 0).reshape(-1))
            if "ffn" in kinds:
                self.spread("ffn", b + "ffn_norm.weight", [b + "ffn_gate.weight", b + "ffn_up.weight"])
            if "down" in kinds:
                self.spread("down", b + "ffn_up.weight", [b + "ffn_down.weight"])
        if "output" in kinds and "output.weight" in f:
            self.spread("output", "output_norm.weight", ["output.weight"])


def plant(source, target, kinds=tuple(PROFILE), seed=1):
    """Writes a copy of a model with outliers in the inputs of these kinds."""
    shutil.copy(source, target)
    os.chmod(target, 0o644)
    f = Mapped(target, write=True)
    Planter(f, seed).plant(kinds)
    f.b.flush()
    return target


# --- measuring ---

def listener(f, hear):
    """A reading of the model that calls hear(matrix, its input)."""
    class Listening(reader(f)):
        def mul(self, name, x):
            hear(name, x)
            if name in KINDS["output"]:
                return x[:, :1]                          # nobody asks for logits
            return super().mul(name, x)

    return Listening(f)


def rows_of(f, ids, n):
    """n windows of token ids; each begins with the start token where the model has one."""
    start = f.meta.get("tokenizer.ggml.bos_token_id") if f.meta.get("tokenizer.ggml.add_bos_token", f.meta["tokenizer.ggml.model"] == "llama") else None
    for at in range(0, min(n, len(ids) // WINDOW) * WINDOW, WINDOW):
        row = np.array(ids[at:at + WINDOW])
        if start is not None:
            row[0] = start
        yield row


def ratios(x, n):
    """Largest over median and over mean magnitude, for each block of n of the rows; a rest of a row is left out unless it is all."""
    n = min(n, x.shape[1])
    a = np.abs(x[:, :x.shape[1] // n * n].astype(np.float32)).reshape(-1, n)
    top, least = a.max(1), np.float32(1e-30)
    return top / np.maximum(np.median(a, 1), least), top / np.maximum(a.mean(1), least)


def measure(o):
    import fidelity
    with tempfile.TemporaryDirectory() as folder:
        text = o.text or fidelity.write_text(os.path.join(folder, "text.txt"))
        out = subprocess.run([o.llmrun, "-q", "-m", o.model, "--tokenize", "-f", text], stdout=subprocess.PIPE, check=True).stdout
        f, found = Mapped(o.model), {}
        if set(f.types.values()) - set(FLOATS):
            plain = os.path.join(folder, "f32.gguf")
            subprocess.run([o.llmrun, "-q", "-m", o.model, "--quantize", "F32", "--allow-requantize", "-o", plain], check=True)
            f = Mapped(plain)

        def hear(name, x):
            layer, what = (name.split(".")[1:] if name.startswith("blk.") else ("", name))
            for kind, names in KINDS.items():
                if what == names[0] or kind == "output" and what in names:
                    found.setdefault((kind, layer), []).append({n: ratios(x, n) for n in (32, 256)})
        model = listener(f, hear)
        for i, ids in enumerate(rows_of(f, [int(x) for x in out.split()], o.windows)):
            model.logits(ids)
            print("window %d" % (i + 1), file=sys.stderr, flush=True)
    return found


AT = [50, 90, 99, 99.9, 100]


def spread(values, ats):
    return ", ".join("%.3g" % v if v < 1000 else "%.0f" % v for v in np.percentile(values, ats))


def tables(found, by_layer):
    def line(cells): return "| " + " | ".join(cells) + " |"
    print(line(["input of", "block", "largest / median: " + ", ".join("%g %%" % p for p in AT), "largest / mean", "over 32 times the mean of the others"]))
    print("|---" * 5 + "|")
    for kind in KINDS:
        for n in (32, 256):
            parts = [p[n] for (k, _), ps in found.items() if k == kind for p in ps]
            if parts:
                median, mean = (np.concatenate([p[i] for p in parts]) for i in (0, 1))
                peak = mean * (n - 1) / (n - mean)       # over the mean of the others
                print(line([" ".join(KINDS[kind][:1]), str(n), spread(median, AT), spread(mean, AT), "%.2f %%" % (100 * (peak > 32).mean())]))
    if by_layer:
        print("\nBlocks of 256, largest / median, then largest / mean: 50, 99 and 100 % of the blocks of a layer.\n")
        print(line(["layer", *(KINDS[k][0] for k in KINDS if k != "output")]) + "\n" + "|---" * len(KINDS) + "|")
        for layer in sorted({int(layer) for _, layer in found if layer}):
            cells = []
            for kind in KINDS:
                if kind != "output":
                    both = [np.concatenate([p[256][i] for p in found[kind, str(layer)]]) for i in (0, 1)]
                    cells.append("; ".join(spread(x, [50, 99, 100]) for x in both))
            print(line([str(layer), *cells]))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("out", nargs="?", help="the copy to write")
    p.add_argument("--measure", action="store_true", help="measure the model and write nothing")
    p.add_argument("--layers", action="store_true", help="a table by layer as well")
    p.add_argument("--kinds", default=",".join(PROFILE), help="inputs that get outliers, by comma (default %(default)s)")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--windows", type=int, default=4, help="windows of %d tokens to measure (default %%(default)s)" % WINDOW)
    p.add_argument("--text", help="a text to measure on in place of fidelity.py's")
    p.add_argument("--llmrun", default=os.path.join(ROOT, "llmrun"))
    o = p.parse_args()
    if o.measure == bool(o.out):
        p.error("expected MODEL OUT, or --measure MODEL")
    if set(o.kinds.split(",")) - set(PROFILE):
        p.error("--kinds: expected of " + ", ".join(PROFILE))
    if o.out:
        plant(o.model, o.out, o.kinds.split(","), o.seed)
    else:
        tables(measure(o), o.layers)


if __name__ == "__main__":
    main()
