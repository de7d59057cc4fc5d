#!/usr/bin/env python3
"""The error of the arithmetic apart from the weights': 8-bit activations and rounded caches compared with float. Markdown on stdout; exit 1 past a limit.

    make gate [MODEL=models/pip-f16.gguf]

Every type is made of --model (--pure, with an importance matrix), and of the same model with outliers: a few channels of each matrix's input made 100 times
larger and the matrix's columns as much smaller, which changes only the rounding errors; two channels of every key 10 times larger
and the query's as much smaller. A file is then compared with its own weights in F32, whose products are float: the difference is the
activations' rounding alone. Caches: both models against themselves with keys and values in F32.
  Limits: mean divergence 1e-3, perplexity 0.1 per cent beyond twice its standard error; none with q4_0 in a cache, which is coarse, nor
where the weights themselves are ruined (twice the model's perplexity). Needs the Python packages gguf and numpy.
"""
import argparse, json, os, shutil, sys, tempfile

import gguf
import numpy as np

from quality import ROOT, line, head, run, write_documents

TYPES = ["BF16", "Q8_0", "Q6_K", "Q5_K", "Q5_0", "Q4_K", "Q4_1", "Q4_0", "IQ4_NL", "IQ4_XS", "MXFP4", "Q3_K", "IQ3_S", "Q2_K", "IQ2_XS", "TQ2_0"]
CACHES = [("bf16", "bf16"), ("f16", "f16"), ("q8_0", "f32"), ("f32", "q8_0"), ("q8_0", "q8_0"),
          ("q4_0", "f32"), ("f32", "q4_0"), ("q4_0", "q4_0"), ("q8_0", "q4_0")]
LIMIT_KLD, LIMIT_PPL, COARSE = 1e-3, 1e-3, "q4_0"
FACTOR, CHANNELS, KEY_FACTOR = 100, 3, 10


def plant(source, target):
    """The model with channels of the norms, of ffn_up, of attn_v and of the keys scaled up, and what reads them scaled down."""
    r = gguf.GGUFReader(source)
    data = {t.name: np.array(t.data, np.float32) for t in r.tensors}
    hd = r.get_field(r.get_field("general.architecture").contents() + ".attention.value_length").contents()

    def scale_keys(layer):
        """Of the rotary pairs of halves the middle one by weight, where keys have a norm of their own."""
        k, q = (data.get("blk.%d.attn_%s_norm.weight" % (layer, name)) for name in "kq")
        if k is None:
            return
        weight = np.abs(k * q).reshape(2, -1).sum(0)
        at = int(np.argsort(weight)[len(weight) // 2])
        for i in (at, at + len(weight)):
            k[i] *= KEY_FACTOR
            q[i] /= KEY_FACTOR

    def scale(layer, rows, readers, channels, columns):
        """Of the channels those that matter least: a block's scale has nothing left for columns that small."""
        made, read = data["blk.%d.%s.weight" % (layer, rows)], [data["blk.%d.%s.weight" % (layer, name)] for name in readers]
        matter = [np.linalg.norm(made[i]) * sum(np.linalg.norm(w[:, columns(i)]) for w in read) for i in range(channels)]
        at = np.argsort(matter)[:CHANNELS]
        made[at] *= FACTOR
        for w in read:
            w[:, [c for i in at for c in columns(int(i))]] /= FACTOR

    for layer in range(1 + max(int(n.split(".")[1]) for n in data if n.startswith("blk."))):
        def size(name):
            return data["blk.%d.%s.weight" % (layer, name)].shape
        group = size("attn_output")[1] // size("attn_v")[0]            # query heads that read one of V
        scale(layer, "attn_norm", ("attn_q", "attn_k", "attn_v"), size("attn_norm")[0], lambda i: [i])
        scale(layer, "ffn_norm", ("ffn_gate", "ffn_up"), size("ffn_norm")[0], lambda i: [i])
        scale(layer, "ffn_up", ("ffn_down",), size("ffn_up")[0], lambda i: [i])
        scale(layer, "attn_v", ("attn_output",), size("attn_v")[0],
              lambda i: [(i // hd * group + g) * hd + i % hd for g in range(group)])
        scale_keys(layer)
    shutil.copy(source, target)
    with open(target, "r+b") as f:
        for t in r.tensors:
            f.seek(int(t.data_offset))
            f.write(data[t.name].astype(t.data.dtype).tobytes())
    return target


class Gate:
    def __init__(self, o, folder):
        self.o, self.folder, self.bad = o, folder, 0
        self.text = write_documents(self.at("text.txt"), "test", o.documents)
        self.train = write_documents(self.at("train.txt"), "train", o.documents)

    def at(self, name):
        return os.path.join(self.folder, name)

    def llmrun(self, *args):
        return run(os.path.abspath(self.o.llmrun), "-q", "-t", str(self.o.threads), *args)

    def base(self, model):
        """What the model says in float, and its perplexity."""
        done = self.llmrun("-m", model, "-f", self.text, "--perplexity", "--kl-divergence-base", self.at("base"), "--kl-top-k", "0", "--json")
        return json.loads(done)["perplexity"]

    def compare(self, name, ppl, model, *more):
        """A line of the table: against the base in hand."""
        got = json.loads(self.llmrun("-m", model, "--kl-divergence", self.at("base"), "--json", *more))
        kld, off, error = got["kld"]["mean"], got["ln_ratio"], got["ln_ratio_error"]
        ruined = ppl > 2 * self.whole
        over = COARSE not in more and not ruined and (kld > LIMIT_KLD or abs(off) > LIMIT_PPL + 2 * error)
        self.bad += over
        print(line([*name, "%.4f" % ppl, "%+.3f ± %.3f %%" % (100 * off, 100 * error), "%.6f" % kld, "%.3f %%" % (100 * got["same_top"]),
                    "over" if over else "ruined" if ruined else ""]), flush=True)

    def weights(self, kind, model, what):
        made, plain, matrix = self.at("made.gguf"), self.at("plain.gguf"), self.at(what + ".imatrix")
        if not os.path.exists(matrix):
            self.llmrun("-m", model, "-f", self.train, "--imatrix-out", matrix)
        self.llmrun("-m", model, "--quantize", kind, "--pure", "--imatrix", matrix, "-o", made)
        self.llmrun("-m", made, "--quantize", "F32", "--allow-requantize", "-o", plain)
        self.compare([kind, what], self.base(plain), made)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--llmrun", default=os.path.join(ROOT, "llmrun"))
    p.add_argument("--model", default=os.path.join(ROOT, "models", "pip-f16.gguf"), help="F16 or F32 (default %(default)s)")
    p.add_argument("--types", default=",".join(TYPES), help="by comma (default all); empty: caches alone")
    p.add_argument("--documents", type=int, default=120, help="of the test split (default %(default)s)")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    o = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        g = Gate(o, folder)
        planted = plant(o.model, g.at("planted.gguf"))
        g.whole = g.base(o.model)
        print("\n".join(head(["type", "model", "PPL in float", "PPL", "mean KLD", "same top", ""])))
        for kind in filter(None, o.types.split(",")):
            g.weights(kind, o.model, "as it is")
            g.weights(kind, planted, "with outliers")
        for model, what in (o.model, "as it is"), (planted, "with outliers"):
            g.base(model)
            for k, v in CACHES:
                g.compare(["cache %s, %s" % (k, v), what], g.whole, model, "-ctk", k, "-ctv", v)
    return g.bad > 0


if __name__ == "__main__":
    sys.exit(main())
