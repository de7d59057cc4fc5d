#!/usr/bin/env python3
"""Models with the layer shapes of real ones and random weights, for measurements of speed.

    python3 tests/gen/shapes.py                       # lists the shapes
    python3 tests/gen/shapes.py qwen35-2b gemma3-4b --out DIR [--layers N]

The families of tiny_models.py write them: the same keys and tensors as in their tiny models, in true sizes. The vocabulary has 32,768 tokens, and
big models have fewer layers, so that each file is under 8 GB. A matrix repeats 64 random rows, and experts are alike: a
step reads and multiplies as much as with a trained model, and its text means nothing. Models with a draft head have rows of their own
for each token, and a head that knows most of them: it is right about as often as trained ones are, where tokens are drawn at
temperature 1 from all. Needs gguf and numpy.
"""
import argparse
import os
import sys
import zlib

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import tiny_blocks as blocks                                    # noqa: E402
import tiny_decoders                                            # noqa: E402
import tiny_encoders                                            # noqa: E402
import tiny_gemma                                               # noqa: E402
import tiny_latent                                              # noqa: E402
import tiny_llama                                               # noqa: E402
import tiny_recurrent                                           # noqa: E402
import tiny_ssm                                                 # noqa: E402
from gguf import GGMLQuantizationType, GGUFWriter, quants       # noqa: E402
from tiny_base import BASE, write_tensors                       # noqa: E402

N_VOCAB, POOL = 32768, 64


def q4_k_m(name):
    """The mixture of that name, roughly: more bits for V, the down projections and the output; Q5_0 and Q8_0 where rows are no whole blocks."""
    if name.endswith(("ffn_gate_inp", "ssm_alpha", "ssm_beta", "conv1d", "shortconv.conv")) or ".altup" in name:
        return "F32"
    return "Q6_K" if "attn_v" in name or "ffn_down" in name or name == "token_embd" else "Q4_K"


def f16(name):
    return "F16"


def q8_0(name):
    return "F32" if q4_k_m(name) == "F32" else "Q8_0"


def mxfp4(name):
    return "MXFP4" if "_exps" in name else "Q8_0"


DELTA = dict(tiny_recurrent.DELTA, ctx=32768, d=128, nk=16, taps=4, every=4, hd=256, rot=64, theta=1e7, eps=1e-6, type=q4_k_m)
SSM = dict(tiny_ssm.SSM, ds=128, dh=64, type=q4_k_m)
HEAD = dict(mtp=True, near=0.002, wrong=0.06, tied=False, out=7.0)
SHAPES = {                                                      # family, what tiny_base.BASE has not; layers: of the file
    "qwen3-0.6b": (tiny_llama, dict(arch="qwen3", embd=1024, layers=28, heads=16, kv=8, hd=128, ff=3072, theta=1e6, eps=1e-6, type=q8_0)),
    "qwen3moe-30b": (tiny_llama, dict(arch="qwen3moe", embd=2048, layers=12, heads=32, kv=4, hd=128, ff=6144, theta=1e6, eps=1e-6, tied=False,
                                      moe=dict(experts=128, used=8, ff=768, norm=True), type=q4_k_m)),
    "qwen35-2b": (tiny_recurrent, dict(DELTA, embd=2048, layers=24, heads=8, kv=2, ff=6144, nv=16)),
    "qwen35moe-35b": (tiny_recurrent, dict(DELTA, arch="qwen35moe", embd=2048, layers=8, heads=16, kv=2, ff=512, nv=32, tied=False,
                                           moe=dict(experts=256, used=8, ff=512, shared=512, norm=True))),
    # with draft heads whose guesses are accepted about as often as those of trained ones: 1.8, 2.4 and 2.9 tokens a step for 1, 2 and 3;
    # of one never
    "qwen35-2b-head": (tiny_recurrent, dict(DELTA, **HEAD, embd=2048, layers=24, heads=8, kv=2, ff=6144, nv=16)),
    "qwen35-2b-never": (tiny_recurrent, dict(DELTA, **HEAD | dict(wrong=1), embd=2048, layers=24, heads=8, kv=2, ff=6144, nv=16)),
    "qwen35-27b-head": (tiny_recurrent, dict(DELTA, **HEAD, embd=5120, layers=16, heads=24, kv=4, ff=17408, nv=48)),
    # half of its experts, so that more layers fit beside the one of the head: two rows share .5 of 8 experts in place of .25
    "qwen35moe-35b-head": (tiny_recurrent, dict(DELTA, **HEAD, arch="qwen35moe", embd=2048, layers=24, heads=16, kv=2, ff=512, nv=32,
                                                moe=dict(experts=128, used=8, ff=512, shared=512, norm=True))),
    "lfm2moe-8b": (tiny_recurrent, dict(tiny_recurrent.CONV, arch="lfm2moe", embd=2048, layers=24, heads=32, kv=8, hd=64, ff=7168, dense=2,
                                        attn=(2, 6, 10, 14, 18, 21), moe=dict(experts=32, used=4, ff=1792, shared=0, norm=True), type=q4_k_m)),
    "gpt-oss-20b": (tiny_decoders, dict(tiny_decoders.GPT_OSS, embd=2880, layers=8, heads=64, kv=8, hd=64, ff=2880,
                                        moe=dict(experts=32, used=4, ff=2880), keys=dict(tiny_decoders.GPT_OSS["keys"], sliding_window=128),
                                        rope=dict(tiny_decoders.GPT_OSS["rope"], factor=32.0, original_max_position_embeddings=4096), type=mxfp4)),
    "gemma3-4b": (tiny_decoders, dict(tiny_decoders.GEMMA3, embd=2560, layers=34, heads=8, kv=4, hd=256, ff=10240,
                                      rope=tiny_decoders.TWO_TABLES, keys=dict(sliding_window=1024, rope_freq_base_swa=10000.0), type=q4_k_m)),
    "gemma4-e2b": (tiny_gemma, dict(tiny_gemma.FOUR, kinds="wwwwf" * 7, layers=35, embd=1536, heads=8, kv=1, hd=256, full=512, ff=6144, share=20,
                                    per=256, wide=True, window=512, type=q4_k_m)),
    "granite4-h-micro": (tiny_ssm, dict(SSM, arch="granitehybrid", scales=tiny_ssm.SCALES, embd=2048, layers=10, kinds="MMMMM*MMMM", nh=64, groups=1,
                                        heads=32, kv=8, hd=64, ff=8192)),
    "granite4-h-tiny": (tiny_ssm, dict(SSM, arch="granitehybrid", scales=tiny_ssm.SCALES, embd=1536, layers=10, kinds="MMMMM*MMMM", nh=48, groups=1,
                                       heads=12, kv=4, hd=128, moe=dict(experts=64, used=6, ff=512, shared=1024))),
    "nemotron3-nano": (tiny_ssm, dict(SSM, arch="nemotron_h_moe", tied=False, embd=2688, layers=9, kinds="MEMEM*EME", nh=64, groups=8, heads=32, kv=2,
                                      hd=128, moe=dict(experts=64, used=6, ff=1856, shared=3712))),
    "glm47-flash": (tiny_latent, dict(tiny_latent.MODELS["deepseek2_glm"], embd=2048, layers=4, heads=20, ff=10240, nope=192, rot=64, rank=512,
                                      q_rank=768, v=256, moe=dict(experts=64, used=4, ff=1536, shared=1536, choice=0.3), type=q4_k_m)),
    "kimi-linear-48b": (tiny_latent, dict(tiny_latent.KIMI, embd=2304, layers=8, kinds="KKKLKKKL", heads=32, ff=9216, nope=128, rot=64, rank=512,
                                          v=128, dk=128, moe=dict(experts=48, used=8, ff=1024, shared=1024, choice=0.3), type=q4_k_m)),
    "bert-base": (tiny_encoders, dict(tiny_encoders.BASE, **tiny_encoders.BERT, embd=768, layers=12, heads=12, kv=12, hd=64, ff=3072, ctx=512, type=f16)),
}


class Repeated:
    """What GGUFWriter asks of an array: a matrix that repeats a few rows."""

    def __init__(self, pool, shape):
        self.pool, self.shape, self.dtype = pool, shape, pool.dtype
        self.nbytes = int(np.prod(shape)) * pool.itemsize

    def tofile(self, f):
        left = int(np.prod(self.shape[:-1]))
        while left > 0:
            self.pool[:left].tofile(f)
            left -= len(self.pool)

    def swapped(self, share):
        """The same with a share of the rows in each other's places."""
        n = round(share * len(self.pool))
        return Repeated(np.concatenate([np.roll(self.pool[:n], 1, axis=0), self.pool[n:]]), self.shape)


class Weights:
    """tiny_base.Weights without the values, and with matrices that repeat rows."""

    def __init__(self, s):
        self.s, self.rng, self.data, self.value = s, np.random.default_rng(zlib.crc32(s["name"].encode())), {}, {}

    def matrix(self, name, *shape, gain=1.0, plain=False):
        t = "F32" if plain else self.s["type"](name)
        if t.endswith("_K") and shape[-1] % 256:
            t = "Q5_0" if t == "Q4_K" else "Q8_0"
        if self.s.get("near") and name.endswith(("ffn_up", "ffn_down")):      # half of what makes them quiet each: F16 has no smaller scales
            gain *= self.s["near"] ** (0.5 if name.endswith("up") else -0.5)
        rows = shape[0] if self.s.get("wrong") and name in ("token_embd", "output") else POOL
        data, raw, _ = blocks.draw(t, self.rng, (rows, shape[-1]), gain / np.sqrt(shape[-1]))
        self.data[name + ".weight"] = (Repeated(data, shape[:-1] + data.shape[-1:]), raw)
        if name.split(".")[-1] in self.s["bias"]:
            self.vector(name + ".bias", shape[:-1], 0.0, 0.4)

    def vector(self, name, n, mean, std):
        self.data[name] = ((mean + std * self.rng.standard_normal(n)).astype(np.float32), None)

    def fixed(self, name, matrix):
        whole = matrix.shape[-1] % 32 == 0 and matrix.ndim > 1
        self.data[name] = (quants.quantize(matrix, GGMLQuantizationType.Q8_0), GGMLQuantizationType.Q8_0) if whole else (matrix, None)


def add_vocab(g):
    """Bytes, tokens that no text has, three control tokens: as a vocabulary of the kind gpt2."""
    plain = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b <= 255]
    others = {b: 256 + i for i, b in enumerate(b for b in range(256) if b not in plain)}
    tokens = [chr(others.get(b, b)) for b in range(256)] + ["wo"] + ["word%d" % i for i in range(N_VOCAB - 260)]
    g.add_tokenizer_model("gpt2")
    g.add_tokenizer_pre("qwen2")
    g.add_token_list(tokens + ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    g.add_token_types([1] * len(tokens) + [3] * 3)
    g.add_token_merges(["w o"])
    g.add_eos_token_id(N_VOCAB - 1)
    g.add_bos_token_id(N_VOCAB - 3)
    g.add_add_bos_token(False)


def write(name, out, layers):
    family, row = SHAPES[name]
    s = BASE | dict(ctx=32768, name=name) | row
    if layers:
        s["layers"] = layers
        s["kinds"] = s.get("kinds", "")[:layers]
    family.N_VOCAB = N_VOCAB                                    # also of the vocabulary that tiny_encoders writes
    if hasattr(family, "N_CTX"):
        family.N_CTX = s["ctx"]
    w, path = Weights(s), os.path.join(out, name + ".gguf")
    family.draw(w, s)
    g = GGUFWriter(path, s["arch"])
    g.add_name(name)
    g.add_description("random weights of that shape; made by tests/gen/shapes.py")
    family.write_keys(g, s)
    tiny_encoders.add_bert_vocab(g) if s["vocab"] == "bert" else add_vocab(g)
    write_tensors(g, w)
    print("%s: %d layers, %.2f GB" % (path, s["layers"], os.path.getsize(path) / 1e9))


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("names", nargs="*", metavar="SHAPE")
    a.add_argument("--out", default=".", metavar="DIR")
    a.add_argument("--layers", type=int, help="so many, instead of the shape's")
    a = a.parse_args()
    for name in a.names:
        if name not in SHAPES:
            sys.exit("no shape %s, expected one of: %s" % (name, ", ".join(SHAPES)))
        write(name, a.out, a.layers)
    if not a.names:
        print("\n".join(SHAPES))


if __name__ == "__main__":
    main()
