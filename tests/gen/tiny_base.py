"""What the families of tests/gen/tiny_models.py share: sizes, vocabularies, how weights are drawn, how a file is written."""
import argparse
import os

import numpy as np
from gguf import RopeScalingType

import tiny_blocks as blocks

N_VOCAB = 272
N_CTX = 256
N_PROMPT = 80                                   # more than two attention tiles of 32; not a multiple of them


def arguments(doc, out):
    """The command line of a program that makes models: --out DIR, which is made, and beginnings of names."""
    a = argparse.ArgumentParser(description=doc.split("\n")[0])
    a.add_argument("--out", default=out, metavar="DIR")
    a.add_argument("names", nargs="*", metavar="NAME", help="only models whose name starts so")
    a = a.parse_args()
    os.makedirs(a.out, exist_ok=True)
    return a


def f32(x):
    """What a float becomes in the file."""
    return float(np.float32(x))


# --- the models -----------------------------------------------------------------------------------------------------
# embd, layers, heads, kv, hd, ff: sizes; out: standard deviation of the logits; sharp: its square is that of the attention
# scores; type: of every matrix, or a function of the tensor's name; n: tokens of the prompt; rows, step: golden positions
# are every `step`-th up to the last.
BASE = dict(arch="llama", embd=32, layers=2, heads=4, kv=2, hd=16, ff=64, tied=True, theta=10000.0, eps=1e-5, rope={},
            bias=(), window=0, moe=None, type="F32", out=2.5, sharp=1.5, n=N_PROMPT, rows=8, step=10, greedy=False,
            vocab="bpe", attn_factor=1.0, ctx=N_CTX)


# --- vocabularies ---------------------------------------------------------------------------------------------------
def add_spm_vocab(w, ends=False):
    """ends: texts end with a token, and no space is added before them."""
    pieces = ["\u2581", "e", "t", "a", "o", "n", "h", "he", "th", "the", "\u2581t", "\u2581the", "\u2581a"]
    tokens = ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % i for i in range(256)] + pieces
    assert len(tokens) == N_VOCAB
    w.add_tokenizer_model("llama")
    w.add_token_list(tokens)
    w.add_token_scores([0.0] * 259 + [-float(len(pieces) - i) for i in range(len(pieces))])
    w.add_token_types([2, 3, 3] + [6] * 256 + [1] * len(pieces))
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    w.add_add_bos_token(True)
    w.add_add_eos_token(ends)
    if ends:
        w.add_add_space_prefix(False)


def add_bpe_vocab(w, pre="qwen2", around=False):
    """around: texts begin and end with a token."""
    plain = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b <= 255]
    byte = {b: chr(b) for b in plain}
    byte.update({b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in byte)})
    merges = ["h e", "t he", "Ġ t", "Ġt he", "Ġ a", "i n", "a n", "an d", "Ġ and", "e r", "r e", "o n"]
    tokens = [byte[b] for b in range(256)] + [m.replace(" ", "") for m in merges]
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"]
    assert len(tokens) + len(special) == N_VOCAB and len(set(tokens)) == len(tokens)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre(pre)
    w.add_token_list(tokens + special)
    w.add_token_types([1] * len(tokens) + [3] * len(special))
    w.add_token_merges(merges)
    w.add_eos_token_id(N_VOCAB - 2)
    w.add_bos_token_id(N_VOCAB - 4)
    w.add_pad_token_id(N_VOCAB - 1)
    w.add_add_bos_token(around)
    if around:
        w.add_add_eos_token(True)


def add_rwkv_vocab(w):
    """Tokens as Python writes bytes, of which a text has the longest at each place."""
    words = [b" t", b"he", b"the", b" the", b"\n\n", b"'s", b"\\n", "\u00e9".encode(), b"in", b"ing", b"er", b"  ", b"    ", b"\xe3\x81", b"and"]
    tokens = ["<s>"] + [repr(t)[2:-1] for t in [bytes([b]) for b in range(256)] + words]
    assert len(tokens) == N_VOCAB and len(set(tokens)) == len(tokens)
    w.add_tokenizer_model("rwkv")
    w.add_token_list(tokens)
    w.add_token_types([3] + [1] * (len(tokens) - 1))
    w.add_bos_token_id(0)
    w.add_eos_token_id(0)
    w.add_eot_token_id(tokens.index("\\n\\n"))


def add_vocab(g, s):
    {"spm": add_spm_vocab, "rwkv": add_rwkv_vocab}.get(s["vocab"], add_bpe_vocab)(g)


def stop_ids(s):
    return {"spm": {2}, "rwkv": {0, 261}}.get(s["vocab"], {N_VOCAB - 4, N_VOCAB - 2})


# --- weights, in the file's names and layout ------------------------------------------------------------------------
class Weights:
    """data: what goes into the file; value: the float32 numbers it means."""

    def __init__(self, s):
        self.s, self.rng, self.data, self.value = s, np.random.default_rng(s["seed"]), {}, {}

    def matrix(self, name, *shape, gain=1.0, plain=False):
        s = self.s
        std = gain / np.sqrt(shape[-1])
        t = "F32" if plain else s["type"](name) if callable(s["type"]) else s["type"]
        data, raw, value = blocks.draw(t, self.rng, shape, std)
        self.data[name + ".weight"], self.value[name + ".weight"] = (data, raw), value
        if name.split(".")[-1] in s["bias"]:
            self.vector(name + ".bias", shape[:-1], 0.0, 0.4)

    def vector(self, name, n, mean, std):
        self.fixed(name, (mean + std * self.rng.standard_normal(n)).astype(np.float32))

    def fixed(self, name, v):
        self.data[name], self.value[name] = (v, None), v


# --- the same weights, as the framework names them ------------------------------------------------------------------
def halves_to_pairs(x, heads):
    """Rows of Q or K: the framework rotates row i of a head with i + hd/2, `llama` files keep such pairs adjacent."""
    return x.reshape(heads, 2, x.shape[0] // heads // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def pairs_to_halves(x, heads):
    y = x.reshape(heads, x.shape[0] // heads // 2, 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)
    assert (halves_to_pairs(y, heads) == x).all()
    return y


# --- the file -------------------------------------------------------------------------------------------------------
def add_rope_keys(g, s):
    r = s["rope"]
    kind = {"linear": RopeScalingType.LINEAR, "yarn": RopeScalingType.YARN}.get(r.get("rope_type"))
    if kind is None:
        return
    g.add_rope_scaling_type(kind)
    g.add_rope_scaling_factor(r["factor"])
    if kind == RopeScalingType.YARN:
        g.add_rope_scaling_orig_ctx_len(r["original_max_position_embeddings"])
    if s["attn_factor"] != 1.0:
        g.add_rope_scaling_attn_factors(s["attn_factor"])


def write_tensors(g, w):
    """Adds the weights to a file whose keys are complete, and closes it."""
    for name, (data, raw) in w.data.items():
        g.add_tensor(name, data, raw_dtype=raw)
    g.write_header_to_file()
    g.write_kv_data_to_file()
    g.write_tensors_to_file()
    g.close()
