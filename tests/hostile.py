#!/usr/bin/env python3
"""Malformed model files, and constraints that a stranger wrote, against the program itself.

    tests/hostile.py ./llmrun [--only TEXT] [--keep DIR] [--no-limit] [-v]
    tests/hostile.py --corpus tests/corpus/gguf        writes the seeds of fuzz_gguf.c and stops

Two good tiny models (llama: 1 layer, width 32, 1 head; one with an SPM vocabulary, one with a byte-level BPE one) are
written here, and each case changes one thing. On every file `--inspect -m FILE` and `-m FILE -p x -n 1` must end with exit 2
and exactly one line on stderr that begins with `llmrun: `, the run with nothing on stdout, within ten seconds of CPU time and
1 GiB of address space, never by a signal. --no-limit lifts the bound on memory and allows twenty times as long, for sanitizer
builds. A case marked EITHER may also run (exit 0): what the file says is odd but somebody's real file may hold it. The good
models must run. A constraint is held against a text by --match, and generates four tokens of a good model; all of them are
lines of one batch too, and each gets one record.
"""
import argparse, json, os, random, resource, shutil, struct, subprocess, sys, tempfile, time

U8, I8, U16, I16, U32, I32, F32, BOOL, STR, ARR, U64, I64, F64 = range(13)
FORM = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B", U64: "Q", I64: "q", F64: "d"}
T_F32, T_F16, T_Q4_0, T_Q8_0, T_Q8_1, T_Q8_K, T_I8, T_I32, T_I64 = 0, 1, 2, 8, 9, 15, 24, 26, 27
BAD, EITHER, GOOD = {2}, {0, 2}, {0}
PROMPT = "a " * 500
SCARCE = {2, 3}                       # a file larger than the address space we allow may also be a lack of memory
M64 = (1 << 64) - 1


def u32(x): return struct.pack("<I", x & 0xffffffff)
def u64(x): return struct.pack("<Q", x & M64)
def raw(s): return s if isinstance(s, bytes) else s.encode()


class File:
    """A GGUF file in which every field can be set to a wrong value."""

    def __init__(self, version=3):
        self.version, self.kv, self.tensors, self.align = version, [], [], 32
        self.n_kv = self.n_tensors = None           # what the header says, when it is not the truth
        self.magic, self.nul = b"GGUF", False

    def copy(self):
        f = File()
        f.__dict__.update(self.__dict__)
        f.kv, f.tensors = list(self.kv), [dict(t) for t in self.tensors]
        return f

    def count(self, n): return u32(n) if self.version == 1 else u64(n)

    def string(self, s, says=None):
        s = raw(s) + (b"\0" if self.nul else b"")
        return self.count(len(s) if says is None else says) + s

    def value(self, t, v):
        if t == STR: return self.string(v)
        if t == ARR:
            elem, items = v
            return u32(elem) + self.count(len(items)) + (b"".join(map(self.string, items)) if elem == STR else
                                                         struct.pack("<%d%s" % (len(items), FORM[elem]), *items))
        return struct.pack("<" + FORM[t], v)

    def at(self, key): return next((i for i, k in enumerate(self.kv) if k[0] == key), len(self.kv))

    def set(self, key, t, v):
        self.kv[self.at(key):self.at(key) + 1] = [(key, t, v)]
        return self

    def raw_kv(self, data, key=None):               # bytes in place of a whole pair
        self.kv.append((key, None, data))
        return self

    def drop(self, key):
        del self.kv[self.at(key)]
        return self

    def get(self, key): return self.kv[self.at(key)][2]

    def add(self, name, dims, t, data, **lies):
        self.tensors.append(dict(name=name, dims=dims, type=t, data=data, offset=None, n_dims=None, raw_name=None, **lies))
        return self

    def tensor(self, name): return next(t for t in self.tensors if t["name"] == name)

    def bytes(self):
        out = [self.magic, u32(self.version)]
        out += [self.count(len(self.tensors) if self.n_tensors is None else self.n_tensors)]
        out += [self.count(len(self.kv) if self.n_kv is None else self.n_kv)]
        for key, t, v in self.kv:
            out.append(v if t is None else self.string(key) + u32(t) + self.value(t, v))
        data, head = b"", []
        for t in self.tensors:
            data += b"\0" * (-len(data) % self.align)
            name = self.string(t["name"]) if t["raw_name"] is None else t["raw_name"]
            dims = b"".join(map(self.count, t["dims"]))
            n_dims = len(t["dims"]) if t["n_dims"] is None else t["n_dims"]
            head.append(name + u32(n_dims) + dims + u32(t["type"]) + u64(len(data) if t["offset"] is None else t["offset"]))
            data += t["data"]
        out = b"".join(out + head)
        if self.tensors: out += b"\0" * (-len(out) % self.align) + data
        return out


# --- the good models ---

N_EMBD, N_FF, N_CTX = 32, 64, 64


def model(n_vocab):
    rng = random.Random(1)
    f = File()
    def rand(n): return struct.pack("<%df" % n, *(rng.gauss(0, 0.2) for _ in range(n)))
    for key, t, v in (("general.architecture", STR, "llama"), ("general.name", STR, "tiny"), ("llama.block_count", U32, 1),
                      ("llama.context_length", U32, N_CTX), ("llama.embedding_length", U32, N_EMBD),
                      ("llama.feed_forward_length", U32, N_FF), ("llama.attention.head_count", U32, 1),
                      ("llama.attention.head_count_kv", U32, 1), ("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
                      ("llama.rope.dimension_count", U32, N_EMBD), ("llama.rope.freq_base", F32, 10000.0)):
        f.set(key, t, v)
    for name, dims in (("token_embd.weight", (N_EMBD, n_vocab)), ("output_norm.weight", (N_EMBD,)),
                       ("output.weight", (N_EMBD, n_vocab)),
                       ("blk.0.attn_norm.weight", (N_EMBD,)), ("blk.0.attn_q.weight", (N_EMBD, N_EMBD)),
                       ("blk.0.attn_k.weight", (N_EMBD, N_EMBD)), ("blk.0.attn_v.weight", (N_EMBD, N_EMBD)),
                       ("blk.0.attn_output.weight", (N_EMBD, N_EMBD)), ("blk.0.ffn_norm.weight", (N_EMBD,)),
                       ("blk.0.ffn_gate.weight", (N_EMBD, N_FF)), ("blk.0.ffn_up.weight", (N_EMBD, N_FF)),
                       ("blk.0.ffn_down.weight", (N_FF, N_EMBD))):
        n = dims[0] * (dims[1] if len(dims) > 1 else 1)
        f.add(name, list(dims), T_F32, struct.pack("<%df" % n, *[1.0] * n) if len(dims) == 1 else rand(n))
    return f


def spm_tokens():
    words = ["\u2581", "e", "t", "a", "he", "\u2581t", "\u2581the", "x", "\u2581x", "in", "on", "s", "\u2581a"]
    return ["<unk>", "<s>", "</s>"] + ["<0x%02X>" % i for i in range(256)] + words


def spm():
    tokens = spm_tokens()
    f = model(len(tokens))
    f.set("tokenizer.ggml.model", STR, "llama").set("tokenizer.ggml.tokens", ARR, (STR, tokens))
    f.set("tokenizer.ggml.scores", ARR, (F32, [0.0] * 259 + [-float(i) for i in range(len(tokens) - 259)]))
    f.set("tokenizer.ggml.token_type", ARR, (I32, [2, 3, 3] + [6] * 256 + [1] * (len(tokens) - 259)))
    return (f.set("tokenizer.ggml.bos_token_id", U32, 1).set("tokenizer.ggml.eos_token_id", U32, 2)
            .set("tokenizer.ggml.unknown_token_id", U32, 0))


def byte_chars():
    """The printable character that byte-level BPE writes for each byte."""
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    rest = [b for b in range(256) if b not in keep]
    return [chr(b) if b in keep else chr(256 + rest.index(b)) for b in range(256)]


def bpe():
    merges = ["h e", "t he", "i n", "o n", "\u0120 the"]
    tokens = byte_chars() + [m.replace(" ", "") for m in merges] + ["<|endoftext|>"]
    f = model(len(tokens))
    (f.set("tokenizer.ggml.model", STR, "gpt2").set("tokenizer.ggml.pre", STR, "gpt-2")
     .set("tokenizer.ggml.tokens", ARR, (STR, tokens)))
    f.set("tokenizer.ggml.token_type", ARR, (I32, [1] * (len(tokens) - 1) + [3])).set("tokenizer.ggml.merges", ARR, (STR, merges))
    return f.set("tokenizer.ggml.bos_token_id", U32, len(tokens) - 1).set("tokenizer.ggml.eos_token_id", U32, len(tokens) - 1)


SPM, BPE = spm(), bpe()


# --- the cases: (name, what may happen, bytes | {file name: bytes, first one is opened} | a function of a directory) ---

def with_kv(*pair_bytes, n=None):
    """A file of these raw pairs alone."""
    f = File()
    for p in pair_bytes: f.raw_kv(p)
    f.n_kv = n
    return f.bytes()


def key(name, t, payload=b""): return u64(len(raw(name))) + raw(name) + u32(t) + payload


def one_tensor(**lies):
    f = SPM.copy()
    f.tensor("blk.0.attn_q.weight").update(lies)
    return f.bytes()


def container():
    good = SPM.bytes()
    yield "1 empty", BAD, b""
    yield "1 magic alone", BAD, b"GGUF"
    rng = random.Random(2)
    meta = good.index(b"blk.0.ffn_down.weight") + 60
    cuts = (list(range(1, 48, 5)) + sorted(rng.sample(range(48, meta), 25) + rng.sample(range(meta, len(good)), 10))
            + [len(good) - 1])
    for n in cuts: yield "1 prefix of %d" % n, BAD, good[:n]
    for name, head in (("FUGG", b"FUGG"), ("ggml", b"lmgg"), ("ggjt", b"tjgg"), ("zip", b"PK\3\4"), ("text", b"Once"),
                       ("zeros", bytes(4))):
        yield "2 magic " + name, BAD, head + good[4:]
    for v in (0, 4, 0x03000000, 0x02000000, 0xffffffff): yield "3 version %d" % v, BAD, good[:4] + u32(v) + good[8:]
    yield "3 v1 with an empty key", BAD, b"GGUF" + u32(1) + u32(0) + u32(1) + u32(0) + u32(U32) + u32(1)
    yield "3 v1 with 64-bit counts", BAD, good[:4] + u32(1) + good[8:]
    yield "3 version 3 with 32-bit counts", BAD, b"GGUF" + u32(3) + good_v(1)[8:]
    for n in (M64, 1 << 63, M64 // 88 + 1, len(SPM.tensors) + 1, 1 << 40): yield "4 n_tensors %d" % n, BAD, lie(n_tensors=n)
    for n in (M64, 1 << 63, M64 // 64 + 1, len(SPM.kv) + 1, 1 << 40): yield "5 n_kv %d" % n, BAD, lie(n_kv=n)
    yield "5 n_kv one less", BAD, lie(n_kv=len(SPM.kv) - 1)
    tail = u32(U32) + u32(1) + bytes(40)
    for n in (M64, 1 << 63, 60, 0): yield "6 key length %d" % n, BAD, with_kv(u64(n) + b"abc" + tail)
    yield "6 key length 65536", BAD, with_kv(key("k" * 65536, U32, u32(1)))
    for name, k in (("NUL", b"a\0b"), ("bad UTF-8", b"a\xff"), ("half a character", b"a\xe2\x82"),
                    ("a surrogate", b"a\xed\xa0\x80")):
        f = SPM.copy()
        yield "6 key with " + name, BAD, f.set(k, U32, 1).bytes()
    for n in (M64, 1 << 63, 1 << 32, 41, M64 - 7): yield "7 string length %d" % n, BAD, with_kv(key("k", STR, u64(n) + bytes(40)))
    for n in (M64, 1 << 63, 41, M64 - 7):
        yield "7 array string length %d" % n, BAD, with_kv(key("k", ARR, u32(STR) + u64(2) + u64(1) + b"a" + u64(n) + bytes(40)))
    for t in (13, 255, 0xffffffff): yield "8 value type %d" % t, BAD, with_kv(key("k", t, bytes(64)))
    yield "8 array of arrays", BAD, with_kv(key("k", ARR, u32(ARR) + u64(1) + u32(U8) + u64(1) + b"a"))
    yield "8 arrays 100000 deep", BAD, with_kv(key("k", ARR, (u32(ARR) + u64(1)) * 100000 + u32(U8) + u64(1) + b"a"))
    for t in (13, 0xffffffff): yield "8 element type %d" % t, BAD, with_kv(key("k", ARR, u32(t) + u64(1) + bytes(64)))
    for t, n in ((U64, 1 << 61), (U32, 1 << 62), (STR, 1 << 60), (U8, M64), (STR, M64), (U8, (1 << 30) + 1), (U8, 41), (U32, 11),
                 (STR, 6), (STR, 1 << 30)):
        yield "9 array of %d, type %d" % (n, t), BAD, with_kv(key("k", ARR, u32(t) + u64(n) + bytes(40)))
    f = SPM.copy()
    f.kv.append(("llama.block_count", U32, 1))
    yield "10 key twice", BAD, f.bytes()
    f = SPM.copy()
    f.add("output_norm.weight", [N_EMBD], T_F32, bytes(128))
    yield "10 tensor twice", BAD, f.bytes()
    yield ("10 a million keys", BAD, b"GGUF" + u32(3) + u64(0) + u64(1000000)
           + b"".join(u64(7) + b"%07x" % i + u32(U8) + b"\1" for i in range(1000000)))
    n = 200000
    yield "10 many tensors", BAD, pad(b"GGUF" + u32(3) + u64(n) + u64(0) + b"".join(
        u64(7) + b"%07x" % i + u32(1) + u64(1) + u32(T_I8) + u64(32 * i) for i in range(n))) + bytes(32 * n)
    for v in (0, 3, 4, 13, 24, 1 << 21, 1 << 31, 0xffffffff):
        yield "11 alignment %d" % v, BAD, SPM.copy().set("general.alignment", U32, v).bytes()
    for t, v in ((I32, 32), (U64, 32), (STR, "32"), (ARR, (U32, [32])), (F32, 32.0)):
        yield "11 alignment of type %d" % t, BAD, SPM.copy().set("general.alignment", t, v).bytes()
    for v in (2, 255): yield "12 bool %d" % v, BAD, SPM.copy().set("tokenizer.ggml.add_bos_token", BOOL, v).bytes()
    yield "12 bool 2 in an array", BAD, SPM.copy().set("k", ARR, (BOOL, [0, 1, 2])).bytes()


def pad(b): return b + bytes(-len(b) % 32)


def lie(**what):
    f = SPM.copy()
    f.__dict__.update(what)
    return f.bytes()


def good_v(version, nul=False):
    f = SPM.copy()
    f.version, f.nul = version, nul
    return f.bytes()


def tensors():
    for n in (0, 5, 9, 1000000, 0xffffffff): yield "13 n_dims %d" % n, BAD, one_tensor(n_dims=n)
    for dims in ([0, 32], [32, 0], [32, 32, 0], [32, 32, 1, 0], [M64, 32], [32, M64], [1 << 63, 1], [32, 1 << 63], [0]):
        yield "14 dimensions %s" % dims, BAD, one_tensor(dims=dims)
    for dims in ([4194305, 4194305, 211106198978564], [(1 << 63) - 1, 2], [2, (1 << 63) - 1]):
        yield "15 dimensions %s" % dims, BAD, one_tensor(dims=dims)
    for dims in ([4, (1 << 30) - 1, (1 << 30) + 1], [32, (1 << 42) + 1], [1 << 20, 1 << 20, 1 << 20]):
        yield "16 dimensions %s" % dims, BAD, one_tensor(dims=dims)
    f = File()
    f.add("a", [0x7fffffffffffffc0], T_I8, bytes(32)).add("b", [0x7fffffffffffffc0], T_I8, bytes(32))
    f.tensors[1]["offset"] = 0x7fffffffffffffc0
    yield "17 two tensors whose sum wraps", BAD, f.bytes()
    for t in (4, 5, 31, 32, 33, 36, 37, 38, 43, 97, 134, 200, 339, (1 << 31) - 1, 0xffffffff):
        yield "18 type %d" % t, BAD, one_tensor(type=t)
    for t, size in ((T_Q8_1, 36 * 32), (T_I64, 8 * 1024), (T_I8, 1024)):
        yield "18 type %d as a weight" % t, BAD, one_tensor(type=t, data=bytes(size))
    yield "18 q8_K as a weight", BAD, one_tensor(type=T_Q8_K, dims=[256, 4], data=bytes(4 * 292))
    yield "19 row of 31 in q4_0", BAD, one_tensor(type=T_Q4_0, dims=[31, 32])
    yield "19 row of 32 in q6_K", BAD, one_tensor(type=14, dims=[32, 32])
    for off in (1, 4, 1 << 40, M64 - 31, 1 << 63, 0, 32): yield "20 offset %d" % off, BAD, one_tensor(offset=off)
    f = SPM.copy()
    q, k = f.tensor("blk.0.attn_q.weight"), f.tensor("blk.0.attn_k.weight")
    at = sum((len(t["data"]) + 31) // 32 * 32 for t in f.tensors[:f.tensors.index(q)])
    q["offset"], k["offset"] = at + 4096, at
    yield "20 out of order", BAD, f.bytes()
    yield "21 one byte short", BAD, SPM.bytes()[:-1]
    f = SPM.copy()
    head = len(f.bytes()) - sum((len(t["data"]) + 31) // 32 * 32 for t in f.tensors)
    yield "21 data begins past the end", BAD, f.bytes()[:head - 1]
    for n in (64, 65, 1000): yield "22 name of %d bytes" % n, BAD, one_tensor(name="n" * n)
    yield "22 name of 0 bytes", BAD, one_tensor(name="")
    yield "22 name length 2^64-1", BAD, one_tensor(raw_name=u64(M64) + b"blk.0.attn_q.weight")
    yield "22 name with NUL", BAD, one_tensor(name=b"blk.0.attn_q.weight\0")
    yield "22 name with bad UTF-8", BAD, one_tensor(name=b"blk.0.attn_q.w\xffight")


def kv(k, t, v, base=None): return (base or SPM).copy().set(k, t, v).bytes()
def without(k, base=None): return (base or SPM).copy().drop(k).bytes()


NUMBERS = ("llama.block_count", "llama.context_length", "llama.embedding_length", "llama.feed_forward_length",
           "llama.attention.head_count",
           "llama.attention.head_count_kv", "llama.rope.dimension_count")


def models():
    a = "general.architecture"
    yield "23 architecture missing", BAD, without(a)
    yield "23 architecture of u32", BAD, kv(a, U32, 1)
    yield "23 architecture of array", BAD, kv(a, ARR, (STR, ["llama"]))
    for v in ("", "nonsense", "LLAMA", "llama\0", b"\xff\xfe", "l" * (1 << 20), "%s%n"):
        yield "23 architecture %.12r" % v, BAD, kv(a, STR, v)
    for k in NUMBERS:
        v = SPM.get(k)
        for what, t, x in (("string", STR, str(v)), ("float", F32, float(v)), ("bool", BOOL, 1), ("negative", I32, -1),
                           ("strings", ARR, (STR, ["1"])), ("floats", ARR, (F32, [1.0]))):
            yield "24 %s: %s" % (k, what), BAD, kv(k, t, x)
    for k in ("llama.attention.layer_norm_rms_epsilon", "llama.rope.freq_base"):
        for what, t, x in (("string", STR, "1"), ("u32", U32, 1), ("array", ARR, (F32, [1.0]))):
            yield "24 %s: %s" % (k, what), BAD, kv(k, t, x)
    yield "24 block_count of array", BAD, kv("llama.block_count", ARR, (U32, [1]))
    for k in NUMBERS[:5] + ("llama.attention.layer_norm_rms_epsilon",): yield "24 %s missing" % k, BAD, without(k)
    h = "llama.attention.head_count"
    for v in (0, 2, 3, 33, 1 << 20, 0xffffffff): yield "25 head_count %d" % v, BAD, kv(h, U32, v)
    for v in (0, 2, 0xffffffff): yield "25 head_count_kv %d" % v, BAD, kv(h + "_kv", U32, v)
    for v in (0, 1, 31, 33, 64, 0xffffffff): yield "25 embedding_length %d" % v, BAD, kv("llama.embedding_length", U32, v)
    for k in ("key", "value"):
        for v in (0, 16, 1 << 20, 0xffffffff): yield "25 %s_length %d" % (k, v), BAD, kv("llama.attention.%s_length" % k, U32, v)
    for v in (0, 2, 513, 100000, 0xffffffff): yield "26 block_count %d" % v, BAD, kv("llama.block_count", U32, v)
    yield "26 block_count 2^40", BAD, kv("llama.block_count", U64, 1 << 40)
    for v in (0, 0xffffffff): yield "27 context_length %d" % v, BAD, kv("llama.context_length", U32, v)
    yield "27 context_length 2^63", BAD, kv("llama.context_length", U64, 1 << 63)
    for n, used in ((2, 3), (2, 0), (1000000, 2), (0xffffffff, 1), (4, 2)):
        f = SPM.copy().set("llama.expert_count", U32, n).set("llama.expert_used_count", U32, used)
        yield "28 experts %d, used %d" % (n, used), BAD, f.bytes()
    yield "28 used experts without experts", BAD, kv("llama.expert_used_count", U32, 2)
    yield "28 experts without used", BAD, kv("llama.expert_count", U32, 2)
    for k in ("llama.feed_forward_length", h, h + "_kv"):
        for v in ([], [0], [1 << 31]): yield "29 %s %s" % (k, v), BAD, kv(k, ARR, (U32, v))
    each = ["llama." + k for k in ("attention.key_length", "attention.value_length", "attention.sliding_window",
                                   "rope.dimension_count",
                                   "expert_count", "expert_used_count", "expert_feed_forward_length")]
    for k in each:
        for v in ([], [1 << 31], [8, 8]): yield "29 %s %s" % (k, v), BAD, kv(k, ARR, (U32, v))
        for what, t, x in (("strings", STR, ["1"]), ("floats", F32, [8.0]), ("negative", I32, [-8])):
            yield "29 %s: %s" % (k, what), BAD, kv(k, ARR, (t, x))
    for k in each[:2]: yield "29 %s [0]" % k, BAD, kv(k, ARR, (U32, [0]))
    for k in each[2:]: yield "29 %s [0]: none" % k, GOOD, kv(k, ARR, (U32, [0]))
    f = SPM.copy().set("llama.feed_forward_length", ARR, (U32, [0]))
    f.tensors = [t for t in f.tensors if ".ffn_" not in t["name"]]
    yield "29 no feed-forward in the layer", GOOD, f.bytes()
    for n, ok in (1, GOOD), (2, BAD):
        yield "29 attention.scale of %d layers" % n, ok, kv("llama.attention.scale", ARR, (F32, [1.0] * n))
    yield "29 head_count [-1]", BAD, kv(h, ARR, (I32, [-1]))
    for v in (0, 1, 31, 33, 34, 0xffffffff): yield "30 rope dimension %d" % v, BAD, kv("llama.rope.dimension_count", U32, v)
    nan, inf = float("nan"), float("inf")
    for v in (0.0, nan, -1.0, inf, -inf): yield "30 rope base %s" % v, BAD, kv("llama.rope.freq_base", F32, v)
    for v in (0.0, nan, -1e-5, inf): yield "30 epsilon %s" % v, BAD, kv("llama.attention.layer_norm_rms_epsilon", F32, v)
    for v in (1 << 31, 0xffffffff): yield "30 window %d" % v, BAD, kv("llama.attention.sliding_window", U32, v)
    yield "30 window 0: none", GOOD, kv("llama.attention.sliding_window", U32, 0)
    for v in (nan, -1.0, inf): yield "30 rope factor %s" % v, BAD, kv("llama.rope.scaling.factor", F32, v)
    yield "30 rope factor 0: none", GOOD, kv("llama.rope.scaling.factor", F32, 0.0)
    yield "30 rope scaling of unknown type", BAD, kv("llama.rope.scaling.type", STR, "magic")
    for t in SPM.tensors:
        name = t["name"]
        for what, dims in (("narrower", [t["dims"][0] - 1] + t["dims"][1:]), ("turned", (t["dims"] + [1])[::-1]),
                           ("with a third dimension", (t["dims"] + [1])[:2] + [2])):
            f = SPM.copy()
            n = 1
            for d in dims: n *= d
            f.tensor(name).update(dims=dims, data=bytes(4 * n))
            yield "31 %s %s" % (name, what), BAD, f.bytes()
        f = SPM.copy()
        f.tensors.remove(f.tensor(name))
        # without output.weight the embeddings serve as output: a whole model
        yield "31 %s missing" % name, GOOD if name == "output.weight" else BAD, f.bytes()
        if "norm" in name:
            f = SPM.copy()
            f.tensor(name).update(type=T_Q4_0, data=bytes(18))
            yield "31 %s as q4_0" % name, BAD, f.bytes()
    for name in ("token_embd.weight", "output.weight"):
        f = SPM.copy()
        t = f.tensor(name)
        t.update(dims=[N_EMBD, t["dims"][1] - 1], data=t["data"][:-4 * N_EMBD])
        yield "31 %s: rows below the vocabulary" % name, BAD, f.bytes()
    f = SPM.copy()
    f.add("blk.0.unheard_of.weight", [N_EMBD], T_F32, bytes(128))
    yield "31 a tensor nobody uses", BAD, f.bytes()
    for what, word in (("NaN", 0x7fc00000), ("Inf", 0x7f800000), ("-Inf", 0xff800000)):
        for name in ("token_embd.weight", "blk.0.attn_k.weight", "output.weight", "output_norm.weight"):
            f = SPM.copy()
            t = f.tensor(name)
            t["data"] = u32(word) * (len(t["data"]) // 4)
            yield "32 %s in %s" % (what, name), EITHER, f.bytes()
    f = SPM.copy()
    t = f.tensor("output.weight")
    t.update(type=T_Q8_0, data=b"\xff" * (t["dims"][1] * 34))
    yield "32 NaN scales in q8_0", EITHER, f.bytes()


# --- families: one change to a tiny model of tests/data/tiny ---

def opened(path):
    """A good file of version 3 whose tensors are all f32 or f16, as a File."""
    with open(path, "rb") as f: b = f.read()
    at = 4
    def take(form):
        nonlocal at
        at += struct.calcsize("<" + form)
        return struct.unpack_from("<" + form, b, at - struct.calcsize("<" + form))[0]
    def text(): return bytes(take("%ds" % take("Q"))).decode()
    def value(t):
        if t == STR: return text()
        if t != ARR: return take(FORM[t])
        elem = take("I")
        return elem, [value(elem) for _ in range(take("Q"))]
    f = File(take("I"))
    n_tensors, n_kv = take("Q"), take("Q")
    for _ in range(n_kv): f.set(text(), t := take("I"), value(t))
    heads = [(text(), [take("Q") for _ in range(take("I"))], take("I"), take("Q")) for _ in range(n_tensors)]
    base = -(-at // f.align) * f.align
    for name, dims, t, start in heads:
        size = {T_F32: 4, T_F16: 2, T_I32: 4}[t]
        for d in dims: size *= d
        f.add(name, dims, t, b[base + start:base + start + size])
    return f


TINY = {}


def family(name, key=None, t=None, v=None):
    """The tiny model; key: without the architecture in front, v None: it is taken away."""
    if name not in TINY:
        TINY[name] = opened(os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "tiny", name + ".gguf"))
    f = TINY[name].copy()
    if key: key = f.get("general.architecture") + "." + key
    if key and v is None: return f.drop(key)
    return f.set(key, t, v) if key else f


def resized(name, tensor, dims):
    """A tensor of other sizes."""
    f = family(name)
    of = f.tensor(tensor)["type"]
    n = {T_F32: 4, T_F16: 2, T_I32: 4}[of]
    for d in dims: n *= d
    f.tensor(tensor).update(dims=dims, type=of if of == T_I32 else T_F32, data=bytes(n))
    return f.bytes()


def filled(name, tensor, word):
    """A tensor whose every value is these bits."""
    f = family(name)
    t = f.tensor(tensor)
    t["data"] = u32(word) * (len(t["data"]) // 4)
    return f.bytes()


def without_tensor(name, tensor):
    f = family(name)
    f.tensors.remove(f.tensor(tensor))
    return f.bytes()


def with_tensor(name, tensor, dims):
    n = 4
    for d in dims: n *= d
    return family(name).add(tensor, dims, T_F32, bytes(n)).bytes()


def dense_granite(count, used):
    """granite by the name granitemoe, as a converter writes a GraniteMoeShared model without experts: its shared expert is the
    dense feed-forward."""
    f = family("granite")
    f.kv = [(k.replace("granite.", "granitemoe."), t, v) for k, t, v in f.kv]
    f.set("general.architecture", STR, "granitemoe")
    f.set("granitemoe.expert_shared_feed_forward_length", U32, f.get("granitemoe.feed_forward_length"))
    for k, v in (("expert_count", count), ("expert_used_count", used)):
        if v is not None: f.set("granitemoe." + k, U32, v)
    return f.bytes()


def families():
    nan, inf, window = float("nan"), float("inf"), "attention.sliding_window"
    for m in ("gemma", "gemma2", "gemma3", "gpt-oss", "phi3", "mistral3", "granite", "granitemoe_shared", "smollm3",
              "olmo2_window", "olmoe", "starcoder2", "gpt2", "seed_oss", "qwen3vl", "qwen3vlmoe"):
        yield "60 good " + m, GOOD, family(m).bytes()
    for v in (0, 1, 7, 512): yield "60 pattern %d" % v, GOOD, family("gemma3", window + "_pattern", U32, v).bytes()
    for v in (513, 1 << 31): yield "60 pattern %d" % v, BAD, family("gemma3", window + "_pattern", U32, v).bytes()
    for what, t, v in (("negative", I32, -1), ("float", F32, 6.0), ("bool", BOOL, 1), ("string", STR, "6"),
                       ("none", ARR, (BOOL, [])), ("short", ARR, (BOOL, [1] * 6)), ("long", ARR, (BOOL, [1] * 8)),
                       ("floats", ARR, (F32, [1.0] * 7)), ("strings", ARR, (STR, ["1"] * 7)), ("twos", ARR, (U32, [2] * 7)),
                       ("negatives", ARR, (I32, [-1] * 7)), ("a million", ARR, (U8, [1] * 1000000))):
        yield "60 pattern: " + what, BAD, family("gemma3", window + "_pattern", t, v).bytes()
    for what, t in (("bools", BOOL), ("ints", U32), ("bytes", I8)):
        yield "60 pattern of %s" % what, GOOD, family("gemma3", window + "_pattern", ARR, (t, [1, 1, 0, 1, 0, 0, 1])).bytes()
    for v in ([20] * 6, [20] * 8, []):
        yield "60 windows of %d layers" % len(v), BAD, family("gemma3", window, ARR, (U32, v)).bytes()
    for k in ("attention.head_count", "attention.head_count_kv", "feed_forward_length", "rope.dimension_count",
              "attention.key_length"):
        for v in ([8] * 6, [8] * 8, [3, 8, 8, 8, 8, 8, 8]):
            yield "61 %s %s" % (k, v), BAD, family("gemma3", k, ARR, (U32, v)).bytes()
    for m, keys in (("granite", ("embedding_scale", "residual_scale", "logit_scale", "attention.scale")),
                    ("gemma2", ("attn_logit_softcapping", "final_logit_softcapping")),
                    ("mistral3", ("attention.temperature_scale", "rope.scaling.yarn_log_multiplier")),
                    ("gemma3", ("rope.freq_base_swa",)), ("granitemoe_shared", ("expert_weights_scale",))):
        for k in keys:
            for v in (nan, inf, -inf, -1.0, 1e30): yield "62 %s %s" % (k, v), BAD, family(m, k, F32, v).bytes()
            for what, t, v in (("string", STR, "1"), ("array", ARR, (F32, [1.0] * 99)), ("int", U32, 1)):
                yield "62 %s: %s" % (k, what), BAD, family(m, k, t, v).bytes()
    for v in (0, 1 << 31):
        yield "62 temperature_length %d" % v, BAD, family("mistral3", "attention.temperature_length", U32, v).bytes()
    yield "62 rope_finetuned false", BAD, family("granite", "rope.scaling.finetuned", BOOL, 0).bytes()
    for m in ("gpt-oss", "granitemoe_shared", "olmoe", "qwen3vlmoe"):
        for k, v in (("expert_used_count", 7), ("expert_used_count", 0), ("expert_used_count", 1 << 31), ("expert_count", 3),
                     ("expert_count", 1 << 20), 
                     ("feed_forward_length" if m[0] in "go" and m != "gpt-oss" else "expert_feed_forward_length", 15)):
            yield "63 %s: %s %d" % (m, k, v), BAD, family(m, k, U32, v).bytes()
    for v in (4, 1 << 31): yield "63 expert_gating_func %d" % v, BAD, family("gpt-oss", "expert_gating_func", U32, v).bytes()
    for what, count, used in (("no counts", None, None), ("0 experts", 0, None), ("0 of 0 experts", 0, 0)):
        yield "63 granitemoe without experts: " + what, GOOD, dense_granite(count, used)
    for what, count, used in (("2 of 0", 0, 2), ("2 of none", None, 2), ("0 of 4", 4, 0), ("2 of 4", 4, 2)):
        yield "63 granitemoe without experts: " + what, BAD, dense_granite(count, used)
    for v in (0, 23, 1 << 31):
        yield "63 shared width %d" % v, BAD, family("granitemoe_shared", "expert_shared_feed_forward_length", U32, v).bytes()
    for v in ([4, 2, 3, 0], [4, 2, 2, 1], [4, 4], [4, 1, 1, 1, 1], [], [1 << 31, 2, 2, 0], [0x7fffffff] * 3 + [0]):
        yield "64 sections %s" % v, BAD, family("qwen3vl", "rope.dimension_sections", ARR, (U32, v)).bytes()
    for what, t, v in (("int", U32, 4), ("negative", ARR, (I32, [4, -2, 2, 0])), ("floats", ARR, (F32, [4.0, 2.0, 2.0, 0.0])),
                       ("string", STR, "4,2,2,0")):
        yield "64 sections: " + what, BAD, family("qwen3vl", "rope.dimension_sections", t, v).bytes()
    for v in (0, 11, 18, 1 << 31): yield "64 rotated part %d" % v, BAD, family("phi3", "rope.dimension_count", U32, v).bytes()
    for word in (0x7fc00000, 0, 0x7f800000, 0xbf800000):
        yield "64 rope factors of bits %08x" % word, BAD, filled("phi3", "rope_factors_long.weight", word)
    for t in ("rope_factors_long.weight", "rope_factors_short.weight"):
        yield "64 %s missing" % t, BAD, without_tensor("phi3", t)
        yield "64 %s short" % t, BAD, resized("phi3", t, [5])
    yield "64 two kinds of rope factors", BAD, with_tensor("phi3", "rope_freqs.weight", [6])
    for v in (4096, 95): yield "65 %d learned positions in the key" % v, BAD, family("gpt2", "context_length", U32, v).bytes()
    yield "65 learned positions missing", BAD, without_tensor("gpt2", "position_embd.weight")
    for m, t, dims in (("gpt2", "position_embd.weight", [23, 96]), ("gpt2", "blk.0.attn_qkv.weight", [24, 71]),
                       ("gpt2", "blk.0.attn_qkv.bias", [71]), ("gpt2", "blk.0.attn_norm.bias", [23]),
                       ("gpt2", "output_norm.bias", [25]),
                       ("phi3", "blk.0.ffn_up.weight", [32, 24]), ("phi3", "blk.1.attn_qkv.weight", [32, 32]),
                       ("gpt-oss", "blk.0.attn_sinks.weight", [4]), ("gpt-oss", "blk.1.ffn_gate_exps.bias", [16, 3]),
                       ("gpt-oss", "blk.1.ffn_down_exps.bias", [15, 4]), ("gpt-oss", "blk.0.ffn_gate_inp.bias", [5]),
                       ("gpt-oss", "blk.0.ffn_up_exps.weight", [16, 16, 3]), ("olmo2_window", "blk.0.attn_q_norm.weight", [8]),
                       ("olmo2_window", "blk.0.attn_k_norm.weight", [16]), ("olmoe", "blk.0.attn_q_norm.weight", [8]),
                       ("starcoder2", "blk.0.ffn_up.bias", [31]), ("gemma3", "blk.0.attn_q_norm.weight", [16])):
        yield "66 %s: %s is %s" % (m, t, dims), BAD, resized(m, t, dims)
    for m, t in (("gpt-oss", "blk.1.attn_sinks.weight"), ("gpt-oss", "blk.1.post_attention_norm.weight"),
                 ("seed_oss", "blk.0.post_attention_norm.weight"), ("gemma2", "blk.1.post_ffw_norm.weight"),
                 ("gemma3", "blk.0.post_attention_norm.weight"),
                 ("olmo2_window", "blk.0.attn_k_norm.weight"), ("phi3", "blk.0.ffn_up.weight"), ("gpt2", "blk.0.attn_qkv.weight"),
                 ("starcoder2", "blk.1.attn_norm.weight"), ("granitemoe_shared", "blk.0.ffn_up_shexp.weight")):
        yield "66 %s: %s missing" % (m, t), BAD, without_tensor(m, t)
    for m, t, dims in (("gpt2", "blk.0.attn_q.weight", [24, 24]), ("gpt2", "blk.0.attn_k.bias", [24]),
                       ("phi3", "blk.0.ffn_gate.weight", [32, 24]), ("starcoder2", "blk.0.ffn_gate.weight", [32, 32]),
                       ("gpt2", "blk.0.ffn_gate.bias", [96]),
                       ("olmo2_window", "blk.0.attn_norm.weight", [16]), ("gemma", "blk.0.attn_q_norm.weight", [8]),
                       ("qwen3vlmoe", "blk.0.ffn_gate_up_exps.weight", [16, 32, 6]), ("granite", "blk.0.attn_sinks.weight", [2]),
                       ("seed_oss", "blk.0.ffn_norm.weight", [16]), ("gemma3", "position_embd.weight", [16, 256]),
                       ("olmoe", "blk.0.ffn_up_shexp.weight", [16, 16]), ("gemma2", "output_norm.bias", [16])):
        yield "66 %s: %s too" % (m, t), BAD, with_tensor(m, t, dims)
    for m, t in (("gpt-oss", "blk.0.attn_sinks.weight"), ("gpt-oss", "blk.0.ffn_gate_inp.bias"),
                 ("gpt-oss", "blk.0.ffn_down_exps.bias"), ("gpt2", "blk.0.attn_norm.bias"),
                 ("olmo2_window", "blk.0.attn_q_norm.weight"), ("gpt2", "position_embd.weight")):
        for word in (0x7fc00000, 0x7f800000, 0xff800000):
            yield "67 %s: %s of bits %08x" % (m, t, word), EITHER, filled(m, t, word)


def more_families():
    """Those from glm4 on, which are rows of tables beside the others."""
    nan, top = float("nan"), 1 << 31
    for m in ("glm4", "glm4_sections", "glm4moe", "glm4moe_air", "minimax-m2", "ernie4_5-moe", "dots1", "hy_v3", "qwen", "minicpm_old", "deepseek", "bailingmoe",
              "baichuan_13b", "olmo_clip", "codeshell", "bloom", "jais", "mellum"):
        yield "67 good " + m, GOOD, family(m).bytes()
    for m, k, values in (("glm4moe", "expert_shared_count", (0, 2, 65, top)), ("glm4moe", "leading_dense_block_count", (0, 2, 513)),
                         ("glm4moe", "expert_gating_func", (4, top)), ("glm4moe", "expert_group_count", (3, 4, 5, 1025, top)), ("glm4moe", "expert_group_used_count", (1025, top)),
                         ("glm4moe_air", "nextn_predict_layers", (0, 2, 3, top)), ("glm4moe", "nextn_predict_layers", (2, 3)),
                         ("ernie4_5-moe", "interleave_moe_layer_step", (2,)), ("ernie4_5-moe", "expert_shared_feed_forward_length", (0, 16, top)),
                         ("minimax-m2", "rope.dimension_count", (3, 10)), ("bailingmoe", "rope.dimension_count", (1, 10, 13, 1025, top)),
                         ("qwen", "feed_forward_length", (0, 1, 62, top)), ("baichuan_13b", "block_count", (39, 41)),
                         ("chatglm", "feed_forward_length", (31, 33))):
        for v in values: yield "67 %s: %s %d" % (m, k, v), BAD, family(m, k, U32, v).bytes()
    for m, k, values in (("olmo_clip", "attention.clamp_kqv", (nan, -1.0, 1e30)), ("olmo", "attention.layer_norm_epsilon", (0.0, nan)),
                         ("minicpm", "embedding_scale", (nan, -1.0)), ("minicpm_old", "logit_scale", (nan, -2.0)), ("jais", "attention.max_alibi_bias", (7.0, nan)),
                         ("internlm2", "attention.clamp_kqv", (1.0,)), ("glm4moe", "expert_weights_scale", (nan, -1.0))):
        for v in values: yield "67 %s: %s %s" % (m, k, v), BAD, family(m, k, F32, v).bytes()
    for v in ([1, 1, 2, 1], [2, 2, 2, 0], [4], []):
        yield "67 glm4: sections %s" % v, BAD, family("glm4_sections", "rope.dimension_sections", ARR, (U32, v)).bytes()
    for m, t, dims in (("glm4moe", "blk.1.exp_probs_b.bias", [5]), ("hy_v3", "blk.1.exp_probs_b", [7]), ("glm4moe", "blk.0.attn_q_norm.weight", [16]),
                       ("minimax-m2", "blk.0.attn_q_norm.weight", [8]), ("glm4", "blk.0.ffn_up.weight", [16, 32]), ("bloom", "token_embd_norm.bias", [23]),
                       ("starcoder", "blk.0.attn_qkv.weight", [24, 72]), ("../encoders/neo-bert", "blk.0.attn_qkv.weight", [16, 32])):
        yield "67 %s: %s is %s" % (m, t, dims), BAD, resized(m, t, dims)
    for m, t in (("glm4moe", "blk.1.exp_probs_b.bias"), ("glm4", "blk.1.post_ffw_norm.weight"), ("dots1", "blk.1.ffn_up_shexp.weight"), ("codeshell", "output.weight"),
                 ("hy_v3", "blk.1.ffn_gate_inp.weight"), ("starcoder", "position_embd.weight"), ("jais", "blk.0.ffn_gate.weight"), ("bloom", "token_embd_norm.weight"),
                 ("../encoders/neo-bert", "enc.output_norm.weight"), ("nemotron", "output_norm.bias")):
        yield "67 %s: %s missing" % (m, t), GOOD if t.endswith(".bias") and m == "nemotron" else BAD, without_tensor(m, t)
    for m, t in (("dots1", "blk.1.exp_probs_b.bias"), ("ernie4_5-moe", "blk.1.exp_probs_b.bias"), ("hy_v3", "blk.1.exp_probs_b"), ("codeshell", "blk.0.ffn_up.bias")):
        yield "67 %s: no %s, which a file may lack" % (m, t), GOOD, without_tensor(m, t)
    for m, t, dims, what in (("qwen2vl", "output.bias", [272], GOOD), ("qwen2vl", "output.bias", [271], BAD), ("olmo", "output_norm.weight", [16], BAD),
                             ("olmo", "blk.0.attn_norm.weight", [16], BAD), ("codeshell", "token_embd.weight", [16, 272], GOOD),
                             ("minimax-m2", "blk.0.exp_probs_b", [6], BAD), ("../encoders/neo-bert", "blk.0.attn_qkv.bias", [48], BAD)):
        yield "67 %s with %s of %s" % (m, t, dims), what, with_tensor(m, t, dims)
    yield from chained()
    yield "67 neo-bert with fewer key heads", BAD, family("../encoders/neo-bert", "attention.head_count_kv", U32, 1).bytes()


def latent():
    """Latent attention, and experts in groups."""
    top = 1 << 31
    for m in ("deepseek2", "deepseek2_old", "deepseek2_v3", "deepseek2_glm", "mistral4", "minicpm3", "plm", "bailingmoe2"):
        yield "71 good " + m, GOOD, family(m).bytes()
    for m, k, values in (("deepseek2", "attention.kv_lora_rank", (0, 19, 21, 1021, 1025, top)), ("deepseek2", "attention.q_lora_rank", (5, top)),
                         ("deepseek2_v3", "attention.q_lora_rank", (0, 9, 11, 1 << 20, top)), ("deepseek2", "attention.key_length_mla", (0, 1, 4, 15, 17, 1025, top)),
                         ("deepseek2", "attention.value_length_mla", (0, 5, 7, 1025, top)), ("deepseek2", "attention.key_length", (16, 23, 25, top)),
                         ("deepseek2", "attention.value_length", (6, 19, 24, top)), ("deepseek2", "rope.dimension_count", (0, 1, 3, 6, 16, 18, top)),
                         ("deepseek2_old", "attention.kv_lora_rank", (0, 19, 1025, top)), ("deepseek2_old", "attention.key_length", (0, 4, 15, 18, top)),
                         ("deepseek2_old", "attention.value_length", (0, 5, 7, top)), ("deepseek2_old", "rope.dimension_count", (0, 3, 2, 16, top)),
                         ("deepseek2_old", "attention.key_length_mla", (16, 0)), ("deepseek2_old", "attention.value_length_mla", (6,)),
                         ("minicpm3", "attention.value_length", (3, 5)), ("plm", "attention.kv_lora_rank", (0, 24)), ("plm", "attention.head_count", (0, 3, 5)),
                         ("deepseek2_v3", "expert_group_count", (5, 7, 24, 1025, top)), ("deepseek2_v3", "expert_group_used_count", (0, 5, top)),
                         ("bailingmoe2", "expert_group_count", (3, 16, top)), ("bailingmoe2", "expert_group_used_count", (0, 1, 5, top))):
        for v in values: yield "71 %s: %s %d" % (m, k, v), BAD, family(m, k, U32, v).bytes()
    for k in ("attention.key_length_mla", "attention.value_length_mla", "attention.kv_lora_rank"):
        yield "71 deepseek2: no " + k, BAD, family("deepseek2", k).bytes()
    yield "71 deepseek2_v3: groups, not how many are used", BAD, family("deepseek2_v3", "expert_group_used_count").bytes()
    for m, t, dims in (("deepseek2", "blk.0.attn_k_b.weight", [20, 12, 4]), ("deepseek2", "blk.0.attn_v_b.weight", [20, 24]), ("deepseek2", "blk.1.attn_kv_a_norm.weight", [24]),
                       ("deepseek2_old", "blk.0.attn_kv_b.weight", [20, 71]), ("deepseek2_v3", "blk.1.exp_probs_b.bias", [11]), ("plm", "blk.0.attn_q.weight", [16, 48])):
        yield "71 %s: %s is %s" % (m, t, dims), BAD, resized(m, t, dims)
    for m, t in (("deepseek2", "blk.0.attn_k_b.weight"), ("deepseek2", "blk.1.attn_v_b.weight"), ("deepseek2", "blk.0.attn_q.weight"), ("deepseek2", "blk.0.attn_kv_a_mqa.weight"),
                 ("deepseek2_v3", "blk.0.attn_q_a.weight"), ("deepseek2_v3", "blk.1.attn_q_b.weight"), ("deepseek2_v3", "blk.1.attn_q_a_norm.weight"),
                 ("deepseek2_old", "blk.0.attn_kv_b.weight"), ("minicpm3", "blk.1.attn_kv_a_norm.weight"), ("mistral4", "blk.0.attn_output.weight")):
        yield "71 %s: %s missing" % (m, t), BAD, without_tensor(m, t)
    for m, t, dims in (("deepseek2", "blk.0.attn_kv_b.weight", [20, 72]), ("deepseek2_old", "blk.0.attn_k_b.weight", [12, 20, 4]), ("deepseek2", "blk.0.attn_q_a.weight", [16, 10]),
                       ("deepseek2", "blk.0.attn_k.weight", [16, 16]), ("plm", "blk.0.ffn_gate.weight", [16, 32]), ("bailingmoe2", "blk.0.attn_q.weight", [16, 32])):
        yield "71 %s: %s too" % (m, t), BAD, with_tensor(m, t, dims)
    for word in (0x7fc00000, 0x7f800000, 0xff800000):
        yield "71 deepseek2_old: keys' and values' matrix of bits %08x" % word, EITHER, filled("deepseek2_old", "blk.0.attn_kv_b.weight", word)
def parallel_families():
    """Those whose attention and feed-forward read the stream side by side, and Llama 4."""
    nan, top, par = float("nan"), 1 << 31, "use_parallel_residual"
    for m in ("command-r", "command-r_plus", "cohere2", "cohere2moe", "cohere2moe_rms", "falcon", "falcon_40b", "gptneox", "gptneox_serial", "phi2", "plamo",
              "stablelm", "stablelm_12b", "gptj", "arctic", "llama4", "llama4_maverick", "llama4_open"):
        yield "68 good " + m, GOOD, family(m).bytes()
    for m, v, what in (("gptneox", 0, GOOD), ("gptneox", None, BAD), ("falcon", 0, BAD), ("falcon", 1, GOOD), ("falcon_40b", 0, BAD), ("phi2", 0, BAD),
                       ("plamo", 0, BAD), ("stablelm", 0, GOOD), ("stablelm_12b", 0, GOOD), ("llama4", 1, BAD), ("arctic", 1, BAD)):
        yield "68 %s: parallel residual %s" % (m, v), what, family(m, par, BOOL, v).bytes()
    for t, v in ((U32, 1), (STR, "true"), (ARR, (BOOL, [1, 1]))):
        yield "68 gptneox: parallel residual of type %d" % t, BAD, family("gptneox", par, t, v).bytes()
    for m, k, values in (("cohere2moe", "leading_dense_block_count", (0, 2, 513)), ("cohere2moe", "expert_shared_count", (65, top)), ("cohere2moe_rms", "expert_shared_count", (0, 1)),
                         ("cohere2moe", "expert_gating_func", (4,)), ("command-r", "feed_forward_length", (0, top)), ("cohere2moe_rms", "nextn_predict_layers", (0, 2, 5, 6, top)),
                         ("arctic", "feed_forward_length", (0, 15, top)), ("arctic", "expert_count", (0, 5)), ("falcon", "attention.head_count_kv", (2, 3)),
                         ("phi2", "rope.dimension_count", (3, 10)), ("llama4", "interleave_moe_layer_step", (0, 2, 3, 513, top)),
                         ("llama4_maverick", "interleave_moe_layer_step", (1, 3, 4)), ("llama4", "attention.temperature_length", (0, top)),
                         ("llama4", "attention.sliding_window", (top,)), ("llama4", "expert_count", (0, 3, 1025)), ("llama4", "expert_shared_count", (0, 2))):
        for v in values: yield "68 %s: %s %d" % (m, k, v), BAD, family(m, k, U32, v).bytes()
    yield "68 llama4: no interleave_moe_layer_step", BAD, family("llama4", "interleave_moe_layer_step", U32, None).bytes()
    for m, k, values in (("llama4", "attention.temperature_scale", (nan, -1.0)), ("command-r", "logit_scale", (nan, -1.0, 1e30)),
                         ("cohere2moe_rms", "attention.layer_norm_rms_epsilon", (0.0, nan))):
        for v in values: yield "68 %s: %s %s" % (m, k, v), BAD, family(m, k, F32, v).bytes()
    for m, v, what in (("cohere2moe", [1] * 4, BAD), ("cohere2moe", [1] * 6, BAD), ("cohere2moe_rms", [0, 1, 1, 1], GOOD), ("cohere2moe_rms", [0, 1, 1, 1, 1], GOOD),
                       ("cohere2moe_rms", [0, 1, 1], BAD), ("llama4", [1, 0, 1, 0], GOOD), ("llama4", [1] * 3, BAD)):
        yield "68 %s: windows %s" % (m, v), what, family(m, "attention.sliding_window_pattern", ARR, (BOOL, v)).bytes()
    for m, t, dims in (("command-r_plus", "blk.0.attn_q_norm.weight", [8]), ("command-r_plus", "blk.1.attn_k_norm.weight", [8, 4]),
                       ("stablelm_12b", "blk.0.attn_q_norm.weight", [32]), ("falcon", "blk.0.attn_qkv.weight", [16, 48]),
                       ("arctic", "blk.0.ffn_up.weight", [16, 32]), ("llama4", "blk.0.ffn_up_shexp.weight", [16, 8]), ("gptj", "output.bias", [271])):
        yield "68 %s: %s is %s" % (m, t, dims), BAD, resized(m, t, dims)
    for m, t in (("falcon_40b", "blk.0.attn_norm_2.weight"), ("falcon_40b", "blk.0.attn_norm.weight"), ("stablelm", "blk.1.ffn_norm.weight"),
                 ("gptneox", "blk.0.ffn_norm.weight"), ("arctic", "blk.1.ffn_norm_exps.weight"), ("arctic", "blk.0.ffn_up.weight"),
                 ("llama4", "blk.0.ffn_up_shexp.weight"), ("plamo", "blk.0.attn_norm.weight"), ("cohere2moe", "blk.0.ffn_gate.weight")):
        yield "68 %s: %s missing" % (m, t), BAD, without_tensor(m, t)
    for m, t, dims, what in (("falcon", "blk.1.attn_norm_2.weight", [16], BAD), ("falcon_40b", "blk.0.ffn_norm.weight", [32], BAD),
                             ("command-r", "blk.0.ffn_norm.weight", [16], BAD), ("command-r", "blk.0.ffn_norm.bias", [16], BAD),
                             ("plamo", "blk.0.attn_norm.bias", [16], BAD), ("phi2", "blk.0.ffn_gate.weight", [16, 64], BAD),
                             ("llama4", "blk.0.attn_q_norm.weight", [8], BAD), ("cohere2moe", "blk.0.ffn_gate_inp.weight", [16, 4], BAD),
                             ("command-r", "blk.0.attn_norm.bias", [16], GOOD), ("arctic", "blk.0.ffn_up_shexp.weight", [16, 16], BAD)):
        yield "68 %s with %s of %s" % (m, t, dims), what, with_tensor(m, t, dims)


def quirky():
    """Those with a step or two of their own, from openelm on."""
    nan, top = float("nan"), 1 << 31
    for m in ("openelm", "exaone4", "exaone4_window", "exaone4_mtp", "exaone-moe", "hunyuan_vl", "hunyuan-moe", "mpt", "mpt_learned", "dbrx", "afmoe", "laguna",
              "laguna_each", "muse-glimmer", "bitnet", "apertus", "smallthinker_window", "plamo3", "talkie", "grok", "grok_old", "phimoe", "deci", "nanbeige",
              "grovemoe"):
        yield "68 good " + m, GOOD, family(m).bytes()
    for m, k, values in (("phimoe", "expert_used_count", (0, 1, 3)), ("phimoe", "expert_count", (1,)), ("grovemoe", "experts_per_group", (0, 4, 5, 7, top)),
                         ("grovemoe", "expert_chunk_feed_forward_length", (0, 23, top)), ("nanbeige", "num_loops", (0, 257, 513, top)),
                         ("hunyuan_vl", "expert_count", (2, top)), ("exaone-moe", "expert_group_count", (2,)), ("exaone-moe", "nextn_predict_layers", (0, 2, 6)),
                         ("exaone4_mtp", "nextn_predict_layers", (0, 3)), ("laguna", "rope.dimension_count_swa", (1, 3, 10, top)),
                         ("deci", "attention.head_count", (0, 3)), ("deci", "feed_forward_length", (0, 8)), ("openelm", "attention.head_count", (0, 4)),
                         ("dbrx", "feed_forward_length", (8, 32)), ("talkie", "attention.head_count", (2, 8)), ("smallthinker", "expert_used_count", (0, 7))):
        for v in values: yield "68 %s: %s %d" % (m, k, v), BAD, family(m, k, U32, v).bytes()
    for m, k, values in (("hunyuan_vl", "rope.scaling.alpha", (nan, -1.0, 1e9)), ("mpt", "attention.max_alibi_bias", (nan, -1.0, 1e9)),
                         ("grok", "router_logit_softcapping", (nan, -1.0)), ("grok", "attention.output_scale", (0.0, nan)),
                         ("grovemoe", "expert_group_scale", (nan, -0.1)), ("phimoe", "attention.layer_norm_rms_epsilon", (0.0, nan)),
                         ("mpt", "attention.clamp_kqv", (nan, -1.0))):
        for v in values: yield "68 %s: %s %s" % (m, k, v), BAD, family(m, k, F32, v).bytes()
    for m, k, v, what in (("mpt", "attention.max_alibi_bias", 0.0, GOOD), ("grok", "router_logit_softcapping", 0.0, GOOD), ("hunyuan_vl", "rope.scaling.alpha", 0.0, GOOD)):
        yield "68 %s: %s %s" % (m, k, v), what, family(m, k, F32, v).bytes()
    for k, v in (("alpha_n", [0.5]), ("alpha_p", [0.5] * 3), ("beta", [nan, 0.5]), ("eps", [-2.0, 0.0]), ("eps", [])):
        yield "68 apertus: xielu.%s %s" % (k, v), BAD, family("apertus").set("xielu." + k, ARR, (F32, v)).bytes()
    yield "68 apertus: no xielu.beta", BAD, family("apertus").drop("xielu.beta").bytes()
    yield "68 apertus: one xielu.beta for all layers", GOOD, family("apertus").set("xielu.beta", F32, 0.4).bytes()
    for m, k, v in (("deci", "attention.head_count", [4, 4, 0, 4, 0]), ("deci", "attention.head_count_kv", [2, 0, 1, 1, 0, 0]),
                    ("deci", "attention.head_count_kv", [2, 2, 0, 1, 0, 0]), ("deci", "attention.head_count", [4, 0, 0, 4, 0, 0]),
                    ("deci", "feed_forward_length", [32, 24, 0, 0, 0, 32]), ("openelm", "attention.head_count_kv", [1, 3]),
                    ("laguna", "attention.head_count", [4, 2, 2, 4, 4]), ("exaone4_mtp", "attention.head_count", [4, 4]), ("exaone4_mtp", "attention.head_count_kv", [2]),
                    ("exaone4_mtp", "attention.sliding_window_pattern", [1]),
                    ("hunyuan_vl", "rope.dimension_sections", [1, 1, 1, 2]), ("hunyuan_vl", "rope.dimension_sections", [1, 1, 1, 1, 0])):
        yield "68 %s: %s %s" % (m, k, v), BAD, family(m, k, ARR, (U32, v)).bytes()
    for m, t, dims in (("afmoe", "blk.1.attn_gate.weight", [16, 4]), ("laguna", "blk.1.attn_gate.weight", [16, 3]), ("laguna_each", "blk.1.attn_gate.weight", [16, 31]),
                       ("bitnet", "blk.0.attn_sub_norm.weight", [8]), ("bitnet", "blk.0.ffn_sub_norm.weight", [16]), ("talkie", "blk.0.attn_q_norm.weight", [8]),
                       ("talkie", "blk.0.layer_output_scale.weight", [2]), ("deci", "blk.1.attn_output.weight", [16, 32]), ("mpt_learned", "blk.0.attn_k_norm.weight", [8]),
                       ("grovemoe", "blk.0.ffn_up_chexps.weight", [16, 24, 6]), ("plamo3", "blk.0.post_ffw_norm", [8])):
        yield "68 %s: %s is %s" % (m, t, dims), BAD, resized(m, t, dims)
    for m, t in (("afmoe", "blk.1.attn_gate.weight"), ("laguna", "blk.1.attn_gate.weight"), ("bitnet", "blk.0.ffn_sub_norm.weight"), ("plamo3", "blk.0.post_ffw_norm"),
                 ("talkie", "blk.1.layer_output_scale.weight"), ("grok", "blk.1.attn_output_norm.weight"), ("grok_old", "blk.1.layer_output_norm.weight"),
                 ("deci", "blk.1.attn_output.weight"), ("nanbeige", "blk.1.ffn_up.weight"), ("grovemoe", "blk.1.ffn_down_chexps.weight"),
                 ("dbrx", "blk.0.attn_output_norm.weight"), ("exaone4", "blk.0.post_attention_norm.weight"), ("phimoe", "blk.0.ffn_gate_inp.weight")):
        yield "68 %s: %s missing" % (m, t), BAD, without_tensor(m, t)
    for m, t, dims, what in (("deci", "blk.2.attn_norm.weight", [16], BAD), ("deci", "blk.3.ffn_up.weight", [16, 32], BAD), ("deci", "blk.1.attn_q.weight", [16, 32], BAD),
                             ("nanbeige", "blk.2.attn_norm.weight", [16], BAD), ("exaone4", "blk.0.attn_norm.weight", [16], BAD),
                             ("talkie", "output_norm.weight", [16], BAD), ("mpt", "position_embd.weight", [24, 256], GOOD), ("mpt", "blk.0.ffn.act.scales", [96], BAD),
                             ("smallthinker", "blk.0.ffn_up_shexp.weight", [16, 16], BAD)):
        yield "68 %s with %s of %s" % (m, t, dims), what, with_tensor(m, t, dims)
def chained():
    """mimo2 and step35: heads, windows and cuts that depend on the layer, a draft head for each guess."""
    nan, top = float("nan"), 1 << 31
    for m in ("mimo2", "step35"):
        yield "67 good " + m, GOOD, family(m).bytes()
        for v in (0, 1, 2, 4, 7, 8, top):
            yield "67 %s: %d draft heads" % (m, v), BAD, family(m, "nextn_predict_layers", U32, v).bytes()
        yield "67 %s without its heads" % m, GOOD, without_layers(m, 4)
        yield "67 %s with the first of its heads alone" % m, BAD, without_layers(m, 5)
        yield "67 %s: a second head without its projection" % m, BAD, without_tensor(m, "blk.5.nextn.eh_proj.weight")
        for t in ("blk.5.nextn.hnorm.weight", "blk.6.attn_output.weight", "blk.4.ffn_down.weight"):
            yield "67 %s: %s missing" % (m, t), GOOD, without_tensor(m, t)
        for k, v in (("attention.head_count_kv", [1] * 6), ("attention.sliding_window_pattern", [1] * 8), ("attention.head_count_kv", [0] + [1] * 6)):
            yield "67 %s: %s %s" % (m, k, v), BAD, family(m, k, ARR, (U32, v)).bytes()
        yield "67 %s: a layer without router" % m, BAD, without_tensor(m, "blk.2.ffn_gate_inp.weight")
    for v in (nan, -1.0, 1e4):
        yield "67 mimo2: attention.value_scale %s" % v, BAD, family("mimo2", "attention.value_scale", F32, v).bytes()
    for k in ("swiglu_clamp_exp", "swiglu_clamp_shexp"):
        for v in ([1.0] * 6, [nan] * 7, [-1.0] * 7, [0.5] * 7, [1e7] * 7, []):
            yield "67 step35: %s %s" % (k, v), BAD, family("step35", k, ARR, (F32, v)).bytes()
        yield "67 step35: no %s" % k, GOOD, family("step35", k, F32, None).bytes()
        yield "67 mimo2: %s" % k, BAD, family("mimo2", k, F32, 7.0).bytes()
    for m, t, dims in (("mimo2", "blk.1.attn_sinks.weight", [3]), ("mimo2", "blk.4.attn_qkv.weight", [16, 59]), ("mimo2", "blk.4.layer_output_norm.weight", [15]),
                       ("step35", "blk.1.attn_gate.weight", [16, 2]), ("step35", "rope_freqs.weight", [2]), ("step35", "blk.6.nextn.eh_proj.weight", [31, 16])):
        yield "67 %s: %s is %s" % (m, t, dims), BAD, resized(m, t, dims)
    for m, t in (("mimo2", "blk.1.attn_sinks.weight"), ("mimo2", "blk.4.layer_output_norm.weight"), ("mimo2", "blk.1.exp_probs_b.bias"),
                 ("step35", "blk.1.attn_gate.weight"), ("step35", "rope_freqs.weight")):
        yield "67 %s: no %s, which a file may lack" % (m, t), GOOD, without_tensor(m, t)


def without_layers(m, n):
    """A model without the tensors of layer n and of those behind it."""
    f = family(m)
    f.tensors = [x for x in f.tensors if not x["name"].startswith("blk.") or int(x["name"].split(".")[1]) < n]
    return f.bytes()


class Beside:
    """A draft head in a file of its own, given with the model that it is for."""

    def __init__(self, data, model="gemma4"):
        self.data, self.model = data, opened(os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "tiny", model + ".gguf")).bytes()

    def runs(self, d):
        model, head = (place({name: data}, d) for name, data in (("m.gguf", self.model), ("head.gguf", self.data)))
        yield "beside", ["-m", model, "-md", head, "--raw", "-p", "x", "-n", "6", "--temp", "0", "--ignore-eos", "--draft-min", "2", "-q"], None


def assistants():
    """gemma4-assistant beside its model."""
    name, nan, top = "beside/gemma4-assistant", float("nan"), 1 << 31
    yield "67 good " + name, GOOD, Beside(family(name).bytes())
    yield "67 %s without its model" % name, EITHER, family(name).bytes()
    for k, values in (("embedding_length_out", (0, 31, 33, top, None)), ("block_count", (0, 2, 4, 513, None)), ("attention.head_count", (0, 3, 8, top, None)),
                      ("attention.key_length", (16, 31, 64)), ("attention.key_length_swa", (8, 32, top)), ("attention.sliding_window", (1, 19, 21, top)),
                      ("embedding_length", (15, 32, None)), ("rope.dimension_count", (3, 64)), ("feed_forward_length", (0, 25, None))):
        for v in values:
            yield "67 assistant: %s %s" % (k, v), EITHER if k == "attention.sliding_window" and v == 0 else BAD, Beside(family(name, k, U32, v).bytes())
    for v in ([1, 1], [1, 1, 0, 1], [], [2, 1, 0]):
        yield "67 assistant: windows %s" % v, BAD, Beside(family(name, "attention.sliding_window_pattern", ARR, (U32, v)).bytes())
    yield "67 assistant: all layers with windows", BAD, Beside(family(name, "attention.sliding_window_pattern", ARR, (BOOL, [1, 1, 1])).bytes())
    for v in (0, 1, 99):
        yield "67 assistant: nextn_predict_layers %d" % v, GOOD, Beside(family(name, "nextn_predict_layers", U32, v).bytes())
    yield "67 assistant: a cap of logits", GOOD, Beside(family(name, "final_logit_softcapping", F32, 30.0).bytes())
    for t in ("blk.0.nextn.pre_projection.weight", "nextn.post_projection.weight", "token_embd.weight", "output_norm.weight", "rope_freqs.weight",
              "blk.1.attn_q.weight", "blk.2.attn_q_norm.weight", "blk.0.ffn_down.weight", "blk.1.post_ffw_norm.weight", "blk.0.layer_output_scale.weight"):
        lacks = GOOD if t in ("rope_freqs.weight", "blk.0.layer_output_scale.weight") else BAD
        yield "67 assistant: %s missing" % t, lacks, Beside(without_tensor(name, t))
    for t, dims in (("blk.0.nextn.pre_projection.weight", [32, 16]), ("nextn.post_projection.weight", [16, 16]), ("token_embd.weight", [16, 271]),
                    ("blk.1.attn_q.weight", [16, 32]), ("rope_freqs.weight", [15])):
        yield "67 assistant: %s is %s" % (t, dims), BAD, Beside(resized(name, t, dims))
    for t, dims, what in (("blk.0.attn_k.weight", [16, 16], GOOD), ("masked_embd_centroids.weight", [16, 8], GOOD), ("masked_embd_ordering", [272], GOOD),
                          ("blk.1.nextn.pre_projection.weight", [64, 16], BAD), ("blk.0.nextn.eh_proj.weight", [32, 16], BAD)):
        yield "67 assistant with %s" % t, what, Beside(with_tensor(name, t, dims))
    for word in (0x7fc00000, 0x7f800000):
        yield "67 assistant of bits %08x" % word, GOOD, Beside(filled(name, "blk.0.nextn.pre_projection.weight", word))
    data = family(name).bytes()
    for n in (0, 7, 100, len(data) // 2, len(data) - 1):
        yield "67 assistant: the first %d bytes" % n, BAD, Beside(data[:n])
    f = family(name).set("general.architecture", STR, "gemma4")
    yield "67 assistant that says it is a gemma4", BAD, Beside(f.bytes())
    yield "67 assistant beside another model", BAD, Beside(data, "llama")
    yield "67 assistant beside a model with other windows", BAD, Beside(data, "gemma4_far")


def one_kind(layer, n, t, v):
    """qwen35 whose n layers are copies of this one, with attention.recurrent_layers as one value for all. Without that key every
    fourth layer has attention."""
    f = family("qwen35", "attention.recurrent_layers", t, v).set("qwen35.block_count", U32, n)
    head = "blk.%d." % layer
    mine = [x for x in f.tensors if x["name"].startswith(head)]
    f.tensors = [x for x in f.tensors if not x["name"].startswith("blk.")]
    f.tensors += [dict(x, name="blk.%d." % i + x["name"][len(head):]) for i in range(n) for x in mine]
    return f.bytes()


def two_heads(m, whole):
    """A model with a draft head and one more layer behind it: a copy of the head, or without what makes it one."""
    f = family(m, "nextn_predict_layers", U32, 2).set("qwen35.block_count", U32, 4)
    f.tensors += [dict(x, name=x["name"].replace("blk.2.", "blk.3.")) for x in f.tensors
                  if x["name"].startswith("blk.2.") and (whole or ".nextn." not in x["name"])]
    return f.bytes()


def head_alone(m):
    f = family(m)
    f.tensors = [x for x in f.tensors if not x["name"].startswith(("blk.0.", "blk.1."))]
    return f.bytes()


def recurrent():
    for m in ("qwen35", "qwen35_even", "qwen35_mtp", "qwen35_near", "qwen35moe", "qwen35moe_mtp", "qwen3next", "qwen3next_in", "lfm2", "lfm2_tap4", "lfm2moe"):
        yield "68 good " + m, GOOD, family(m).bytes()
    sizes = {"ssm.conv_kernel": (0, 1, 3, 5, 17, 1 << 31), "ssm.state_size": (0, 7, 16, 1025, 1 << 31),
             "ssm.group_count": (0, 3, 4, 8, 1 << 31), "ssm.time_step_rank": (0, 2, 3, 8, 4097, 1 << 31),
             "ssm.inner_size": (0, 31, 33, 64, 1 << 20, 1 << 31)}
    for k in sizes:
        for v in sizes[k]: yield "68 %s %d" % (k, v), BAD, family("qwen35", k, U32, v).bytes()
        yield "68 %s missing" % k, BAD, family("qwen35", k, U32, None).bytes()
        for what, t, v in (("string", STR, "4"), ("negative", I32, -4), ("short", ARR, (U32, [4, 4])),
                           ("long", ARR, (U32, [4] * 4)), ("strings", ARR, (STR, ["4"] * 3))):
            yield "68 %s: %s" % (k, what), BAD, family("qwen35", k, t, v).bytes()
    f = family("qwen35")
    for k in ("state_size", "group_count", "time_step_rank", "inner_size"): f.set("qwen35.ssm." + k, U32, 1024)
    yield "68 a state of 4 GiB that no tensor has", BAD, f.bytes()
    for v in (0, 1, 2, 4, 513, 1 << 31):
        yield "69 full_attention_interval %d" % v, BAD, family("qwen35", "full_attention_interval", U32, v).bytes()
    for what, t, v in (("one", BOOL, 1), ("number", U32, 1), ("short", ARR, (BOOL, [1] * 2)), ("long", ARR, (BOOL, [1] * 4)),
                       ("others", ARR, (BOOL, [0, 1, 1])), ("none", ARR, (BOOL, [0] * 3)), ("twos", ARR, (U32, [2] * 3)),
                       ("floats", ARR, (F32, [1.0] * 3)), ("empty", ARR, (BOOL, []))):
        yield "69 recurrent layers: " + what, BAD, family("qwen35", "attention.recurrent_layers", t, v).bytes()
    yield "69 recurrent layers as they are", GOOD, family("qwen35", "attention.recurrent_layers", ARR, (U32, [1, 1, 0])).bytes()
    for what, t, v in (("two", U32, 2), ("negative", I32, -1), ("float", F32, 1.0), ("string", STR, "1"), ("2^31", U32, 1 << 31)):
        yield "69 recurrent layers, one value: " + what, BAD, one_kind(0, 1, t, v)
    for form in (U8, I32, U32, U64):
        yield "69 recurrent layers, one value: none is, form %d" % form, GOOD, one_kind(2, 1, form, 0)
        yield "69 recurrent layers, one value: all are, form %d" % form, GOOD, one_kind(0, 4, form, 1)
    for layer, n, v in ((2, 1, 1), (0, 4, 0)):
        yield "69 recurrent layers, one value: %d, which they are not" % v, BAD, one_kind(layer, n, U32, v)
    yield "69 qwen35: a model without attention", GOOD, family("qwen35", "nextn_predict_layers", U32, 1).bytes()
    for m, v in (("qwen35", 3), ("qwen35", 1 << 31), ("qwen35_mtp", 0), ("qwen35_mtp", 9), ("qwen3_mtp", 0), ("qwen3_mtp", 9)):
        yield "69 %s: nextn_predict_layers %d" % (m, v), BAD, family(m, "nextn_predict_layers", U32, v).bytes()
    yield "69 qwen35_mtp: two draft heads, of which one has tensors", BAD, two_heads("qwen35_mtp", whole=False)
    yield "69 qwen35_mtp: two draft heads", GOOD, two_heads("qwen35_mtp", whole=True)
    yield "69 qwen35_mtp: the draft head alone", BAD, head_alone("qwen35_mtp")
    yield "69 qwen3_mtp: a draft head without a norm of its own", GOOD, without_tensor("qwen3_mtp", "blk.1.nextn.shared_head_norm.weight")
    for t, dims in (("eh_proj", [32, 32]), ("eh_proj", [64, 31]), ("eh_proj", [63, 32]), ("enorm", [31]), ("hnorm", [64]),
                    ("shared_head_norm", [16])):
        yield "69 draft head: %s is %s" % (t, dims), BAD, resized("qwen35_mtp", "blk.2.nextn.%s.weight" % t, dims)
    for t, dims in (("embed_tokens", [32, 271]), ("embed_tokens", [31, 272]), ("shared_head_head", [32, 1])):
        yield "69 draft head: %s is %s" % (t, dims), BAD, resized("qwen35moe_mtp", "blk.2.nextn.%s.weight" % t, dims)
    for t in ("nextn.enorm", "nextn.hnorm", "attn_norm", "attn_q", "attn_output", "ffn_down"):
        yield "69 draft head: %s missing" % t, GOOD, without_tensor("qwen35_mtp", "blk.2.%s.weight" % t)
    yield "69 draft head: no norm of its own", GOOD, without_tensor("qwen35_mtp", "blk.2.nextn.shared_head_norm.weight")
    yield "69 no draft head where the key tells of one", GOOD, without_tensor("qwen35_mtp", "blk.2.nextn.eh_proj.weight")
    for word in (0x7fc00000, 0x7f800000, 0x7f7fffff):
        for t in ("nextn.eh_proj", "nextn.enorm", "attn_k", "attn_q_norm"):
            yield "69 draft head: %s of bits %08x" % (t, word), GOOD, filled("qwen35_mtp", "blk.2.%s.weight" % t, word)
    for v in ([2, 1, 2, 0], [2, 1, 1, 1], [2, 1], [1 << 31] * 4):
        yield "69 sections %s" % v, BAD, family("qwen35", "rope.dimension_sections", ARR, (U32, v)).bytes()
    for v in (0, 1, 2, 4, 17, 1 << 31): yield "70 l_cache %d" % v, BAD, family("lfm2", "shortconv.l_cache", U32, v).bytes()
    yield "70 l_cache missing", BAD, family("lfm2", "shortconv.l_cache", U32, None).bytes()
    for v in ([0, 1, 0], [0, 1, 0, 1, 0], [0] * 4, [1, 0, 1, 0], [0, 3, 0, 1], [0, 1 << 31, 0, 1], []):
        yield "70 head_count_kv %s" % v, BAD, family("lfm2", "attention.head_count_kv", ARR, (U32, v)).bytes()
    for v in (0, 1): yield "70 head_count_kv %d" % v, BAD, family("lfm2", "attention.head_count_kv", U32, v).bytes()
    for v in (0, 3, 1 << 31):
        yield "70 leading_dense_block_count %d" % v, BAD, family("lfm2moe", "leading_dense_block_count", U32, v).bytes()
    for word in (0x7fc00000, 0xffc00000, 0x7f800000, 0xff800000, 0x3f800000):
        yield "71 decay of bits %08x" % word, BAD, filled("qwen35", "blk.0.ssm_a", word)
    yield "71 a decay that forgets nothing", GOOD, filled("qwen35", "blk.0.ssm_a", 0x80000000)
    for word in (0x7fc00000, 0x7f800000, 0xff800000):
        yield "71 step of bits %08x" % word, BAD, filled("qwen35", "blk.1.ssm_dt.bias", word)
    for word in (0x7fc00000, 0x7f800000, 0xff7fffff):
        for m, t in (("qwen35", "blk.0.ssm_conv1d.weight"), ("qwen35", "blk.0.attn_qkv.weight"),
                     ("qwen35", "blk.0.ssm_norm.weight"), ("lfm2", "blk.0.shortconv.conv.weight"),
                     ("lfm2", "blk.0.shortconv.in_proj.weight")):
            yield "71 %s: %s of bits %08x" % (m, t, word), EITHER, filled(m, t, word)
    for m, t, dims in (("qwen35", "blk.0.ssm_conv1d.weight", [3, 64]), ("qwen35", "blk.0.ssm_conv1d.weight", [4, 63]),
                       ("qwen35", "blk.0.ssm_conv1d.weight", [64, 4]), ("qwen35", "blk.0.ssm_a", [3]),
                       ("qwen35", "blk.0.ssm_dt.bias", [5]),
                       ("qwen35", "blk.0.ssm_norm.weight", [32]), ("qwen35", "blk.0.attn_qkv.weight", [32, 63]),
                       ("qwen35", "blk.0.attn_gate.weight", [32, 64]), ("qwen35", "blk.0.ssm_out.weight", [31, 32]),
                       ("qwen35", "blk.0.ssm_alpha.weight", [32, 3]), ("qwen35", "blk.2.attn_q.weight", [32, 32]),
                       ("qwen3next", "blk.0.ssm_ba.weight", [32, 4]), ("qwen3next_in", "blk.0.ssm_in.weight", [32, 64]),
                       ("lfm2", "blk.0.shortconv.conv.weight", [3, 31]), ("lfm2", "blk.0.shortconv.conv.weight", [2, 32]),
                       ("lfm2", "blk.0.shortconv.in_proj.weight", [32, 95]), ("lfm2", "token_embd_norm.weight", [31])):
        yield "72 %s: %s is %s" % (m, t, dims), BAD, resized(m, t, dims)
    for m, t in (("qwen35", "blk.0.ssm_a"), ("qwen35", "blk.0.ssm_dt.bias"), ("qwen35", "blk.0.ssm_conv1d.weight"),
                 ("qwen35", "blk.0.attn_qkv.weight"), ("qwen35", "blk.0.attn_gate.weight"), ("qwen35", "blk.0.ssm_beta.weight"),
                 ("qwen35", "blk.0.ssm_norm.weight"), ("qwen35", "blk.0.ssm_out.weight"), ("qwen3next", "blk.0.ssm_ba.weight"),
                 ("qwen3next_in", "blk.0.ssm_in.weight"), ("lfm2", "blk.0.shortconv.conv.weight"),
                 ("lfm2", "blk.0.shortconv.out_proj.weight"), ("lfm2", "token_embd_norm.weight"),
                 ("lfm2moe", "blk.1.exp_probs_b.bias")):
        yield "72 %s: %s missing" % (m, t), BAD, without_tensor(m, t)
    for m, t, dims in (("qwen35", "blk.0.ssm_in.weight", [32, 96]), ("qwen3next", "blk.0.ssm_in.weight", [32, 96]),
                       ("qwen35", "blk.0.ssm_ba.weight", [32, 8]), ("qwen35", "blk.2.ssm_a", [4]),
                       ("qwen35", "blk.3.attn_norm.weight", [32]),
                       ("qwen35_mtp", "blk.99.attn_norm.weight", [32]), ("qwen35", "blk.0.attn_q.weight", [32, 64]),
                       ("lfm2", "blk.1.shortconv.conv.weight", [3, 32]), ("lfm2", "output_norm.weight", [32])):
        yield "72 %s: %s too" % (m, t), BAD, with_tensor(m, t, dims)


def state_spaces():
    """Mamba-2, Mamba and their hybrids."""
    for m in ("mamba2", "nemotron_h", "nemotron_h_moe", "nemotron_h_moe_latent", "granitehybrid", "granitehybrid_dense", "falcon-h1", "falcon-h1_norm",
              "mamba", "mamba_falcon", "jamba", "plamo2"):
        yield "77 good " + m, GOOD, family(m).bytes()
    sizes = {"ssm.conv_kernel": (0, 1, 3, 5, 17, 1 << 31), "ssm.state_size": (0, 5, 12, 1025, 1 << 31), "ssm.inner_size": (0, 31, 33, 64, 1 << 20, 1 << 31)}
    for m in ("mamba2", "granitehybrid_dense", "falcon-h1", "mamba", "plamo2"):
        for k, v in [(k, v) for k in sizes for v in sizes[k]]: yield "77 %s: %s %d" % (m, k, v), BAD, family(m, k, U32, v).bytes()
    for m, k, v in ([("mamba2", "ssm.group_count", v) for v in (0, 1, 3, 5, 8, 1 << 31)] + [("mamba2", "ssm.time_step_rank", v) for v in (0, 2, 3, 8, 4097)]
                    + [("mamba", "ssm.time_step_rank", v) for v in (0, 2, 4, 1 << 31)] + [("mamba", "ssm.group_count", 2), ("plamo2", "ssm.group_count", 1)]
                    + [("plamo2", "ssm.time_step_rank", v) for v in (0, 3, 5, 8)] + [("nemotron_h_moe_latent", "moe_latent_size", v) for v in (0, 7, 16, 1 << 31)]
                    + [("nemotron_h_moe", "moe_latent_size", 8), ("falcon-h1", "attention.head_count_kv", 0), ("falcon-h1", "attention.head_count", 0)]):
        yield "77 %s: %s %d" % (m, k, v), BAD, family(m, k, U32, v).bytes()
    for k in ("ssm.conv_kernel", "ssm.state_size", "ssm.group_count", "ssm.time_step_rank", "ssm.inner_size"):
        yield "77 %s missing" % k, BAD, family("mamba2", k, U32, None).bytes()
    f = family("mamba2")
    for k in ("state_size", "group_count", "time_step_rank", "inner_size"): f.set("mamba2.ssm." + k, U32, 1024)
    yield "77 a state of 4 GiB that no tensor has", BAD, f.bytes()
    for m, k, v in (("nemotron_h", "feed_forward_length", [24] * 5), ("nemotron_h", "feed_forward_length", [0] * 5),
                    ("nemotron_h", "attention.head_count_kv", [0] * 5), ("nemotron_h", "attention.head_count_kv", [1] * 5),
                    ("granitehybrid", "attention.head_count_kv", [0, 1]), ("granitehybrid", "attention.head_count_kv", [1, 1, 1]),
                    ("granitehybrid", "attention.head_count_kv", [0, 0, 0]), ("granitehybrid", "attention.head_count_kv", [0, 3, 0]),
                    ("plamo2", "attention.head_count", [0, 0, 0]), ("jamba", "attention.head_count_kv", [1 << 31, 1, 0, 0])):
        yield "77 %s: %s %s" % (m, k, v), BAD, family(m, k, ARR, (U32, v)).bytes()
    for word in (0x7fc00000, 0x7f800000, 0xff800000, 0x3f800000):
        for m in ("mamba2", "mamba", "plamo2"): yield "78 %s: decay of bits %08x" % (m, word), BAD, filled(m, "blk.0.ssm_a", word)
    for word in (0x7fc00000, 0x7f800000, 0xff800000):
        for m, t in (("mamba2", "ssm_dt.bias"), ("mamba", "ssm_dt.bias"), ("mamba2", "ssm_d"), ("plamo2", "ssm_d")):
            yield "78 %s: %s of bits %08x" % (m, t, word), BAD, filled(m, "blk.0." + t, word)
    for word in (0x7fc00000, 0x7f800000, 0xff7fffff):
        for m, t in (("mamba2", "ssm_conv1d.weight"), ("mamba2", "ssm_conv1d.bias"), ("mamba2", "ssm_in.weight"), ("mamba2", "ssm_norm.weight"),
                     ("mamba", "ssm_x.weight"), ("mamba", "ssm_dt.weight"), ("jamba", "ssm_b_norm.weight")):
            yield "78 %s: %s of bits %08x" % (m, t, word), EITHER, filled(m, "blk.0." + t, word)
    for m, t, dims in (("mamba2", "blk.0.ssm_in.weight", [16, 91]), ("mamba2", "blk.0.ssm_conv1d.weight", [4, 55]), ("mamba2", "blk.0.ssm_a", [4]),
                       ("mamba2", "blk.0.ssm_d", [1, 3]), ("mamba2", "blk.0.ssm_norm.weight", [32]), ("mamba2", "blk.0.ssm_out.weight", [31, 16]),
                       ("mamba2", "blk.0.ssm_dt.bias", [5]), ("mamba", "blk.0.ssm_a", [5, 32]), ("mamba", "blk.0.ssm_x.weight", [32, 14]),
                       ("mamba", "blk.0.ssm_dt.weight", [4, 32]), ("plamo2", "blk.0.ssm_dt.weight", [64, 3]), ("plamo2", "blk.1.attn_q_norm.weight", [8]),
                       ("nemotron_h_moe_latent", "blk.1.ffn_latent_down.weight", [16, 7]), ("nemotron_h_moe_latent", "blk.1.ffn_up_exps.weight", [16, 16, 5])):
        yield "78 %s: %s is %s" % (m, t, dims), BAD, resized(m, t, dims)
    for m, t in (("mamba2", "ssm_in.weight"), ("mamba2", "ssm_conv1d.weight"), ("mamba2", "ssm_a"), ("mamba2", "ssm_d"), ("mamba2", "ssm_norm.weight"),
                 ("mamba2", "ssm_out.weight"), ("mamba2", "ssm_dt.bias"), ("mamba", "ssm_x.weight"), ("mamba", "ssm_dt.weight")):
        yield "78 %s: %s missing" % (m, t), BAD, without_tensor(m, "blk.0." + t)
    for m, t in (("nemotron_h_moe_latent", "blk.1.ffn_latent_up.weight"), ("nemotron_h_moe", "blk.1.exp_probs_b.bias"), ("plamo2", "blk.0.post_ffw_norm"),
                 ("falcon-h1", "blk.0.ffn_norm")):
        yield "78 %s: %s missing" % (m, t), BAD, without_tensor(m, t)
    yield "78 nemotron_h: no bias of the convolution, which a file may lack", GOOD, without_tensor("nemotron_h", "blk.0.ssm_conv1d.bias")
    for m, t, dims in (("mamba2", "blk.0.attn_q.weight", [16, 16]), ("nemotron_h", "blk.1.ssm_a", [1, 4]), ("nemotron_h", "blk.0.ffn_up.weight", [16, 24]),
                       ("mamba2", "blk.2.attn_norm.weight", [16]), ("jamba", "blk.1.ssm_d", [32])):
        yield "78 %s: %s too" % (m, t), BAD, with_tensor(m, t, dims)


def rwkvs():
    """RWKV-6 and 7."""
    for m in ("rwkv7", "arwkv7", "arwkv7_plain", "rwkv6", "rwkv6qwen2"): yield "79 good " + m, GOOD, family(m).bytes()
    for m, k, values in (("rwkv7", "wkv.head_size", (0, 3, 32, 1025, 1 << 31)), ("rwkv7", "attention.decay_lora_rank", (0, 3, 5, 1 << 31)),
                         ("rwkv7", "attention.iclr_lora_rank", (0, 5)), ("rwkv7", "attention.value_residual_mix_lora_rank", (0, 5)),
                         ("rwkv7", "attention.gate_lora_rank", (0, 5)), ("rwkv6", "time_mix_extra_dim", (0, 5)), ("rwkv6", "time_decay_extra_dim", (0, 5)),
                         ("rwkv6qwen2", "attention.head_count_kv", (1, 3, 8)), ("rwkv6", "rescale_every_n_layers", (513,))):
        for v in values: yield "79 %s: %s %d" % (m, k, v), BAD, family(m, k, U32, v).bytes()
    for m, k in (("rwkv7", "wkv.head_size"), ("rwkv7", "attention.iclr_lora_rank"), ("rwkv6", "time_mix_extra_dim")):
        yield "79 %s: %s missing" % (m, k), BAD, family(m, k, U32, None).bytes()
    for m, t in (("rwkv7", "time_mix_lerp_fused"), ("rwkv7", "time_mix_k_k"), ("rwkv7", "time_mix_ln"), ("rwkv6", "time_mix_first"), ("rwkv7", "channel_mix_key"),
                 ("rwkv7", "attn_norm_2"), ("arwkv7", "ffn_norm")):
        yield "79 %s: %s missing" % (m, t), BAD, without_tensor(m, "blk.0.%s.weight" % t)
    yield "79 rwkv7: values of the first layer, which nothing reads", GOOD, without_tensor("rwkv7", "blk.0.time_mix_v1.weight")
    yield "79 rwkv7: values of a later layer missing", BAD, without_tensor("rwkv7", "blk.1.time_mix_v1.weight")


def kimis():
    """Kimi Linear: delta nets with a decay for each channel beside latent attention."""
    top = 1 << 31
    for m in ("kimi-linear", "kimi-linear_whole"): yield "79 good " + m, GOOD, family(m).bytes()
    for m, k, values in (("kimi-linear", "kda.head_dim", (0, 5, 7, 1025, top)), ("kimi-linear", "ssm.conv_kernel", (0, 1, 3, 5, 17, top)),
                         ("kimi-linear", "attention.head_count", (0, 3, 4096, top)), ("kimi-linear", "attention.head_count_kv", (0, 1)),
                         ("kimi-linear", "attention.kv_lora_rank", (0, 19, 1025, top)), ("kimi-linear", "rope.dimension_count", (0, 3, 6, top)),
                         ("kimi-linear", "expert_count", (0, 4, 1025)), ("kimi-linear", "leading_dense_block_count", (0, 2, top))):
        for v in values: yield "79 %s: %s %d" % (m, k, v), BAD, family(m, k, U32, v).bytes()
    for v in ([0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 1], [0, 1, 0, 0], [0, top, 0]):
        yield "79 kimi-linear: heads %s" % v, BAD, family("kimi-linear", "attention.head_count_kv", ARR, (U32, v)).bytes()
    for k in ("kda.head_dim", "ssm.conv_kernel", "attention.kv_lora_rank", "attention.head_count"):
        yield "79 kimi-linear: %s missing" % k, BAD, family("kimi-linear", k).bytes()
    for t in ("attn_q.weight", "attn_k.weight", "attn_v.weight", "ssm_conv1d_q.weight", "ssm_conv1d_v.weight", "ssm_f_a.weight", "ssm_f_b.weight",
              "ssm_beta.weight", "ssm_a", "ssm_dt.bias", "ssm_g_a.weight", "ssm_g_b.weight", "ssm_norm.weight", "attn_output.weight"):
        yield "79 kimi-linear: %s missing" % t, BAD, without_tensor("kimi-linear", "blk.0." + t)
    for t, dims in (("ssm_conv1d_k.weight", [4, 1, 23]), ("ssm_conv1d_k.weight", [3, 1, 24]), ("ssm_a", [4]), ("ssm_dt.bias", [4]), ("ssm_f_b.weight", [6, 23])):
        yield "79 kimi-linear: %s is %s" % (t, dims), BAD, resized("kimi-linear", "blk.0." + t, dims)
    for dims in ([4, 24], [4, 1, 24]):
        yield "79 kimi-linear: a filter of %s" % dims, GOOD, resized("kimi-linear", "blk.0.ssm_conv1d_k.weight", dims)
    for t, dims in (("blk.1.ssm_a", [1, 4]), ("blk.0.attn_kv_a_mqa.weight", [16, 24]), ("blk.0.ssm_conv1d.weight", [4, 72]), ("blk.0.ssm_out.weight", [24, 16])):
        yield "79 kimi-linear: %s too" % t, BAD, with_tensor("kimi-linear", t, dims)
    for word in (0x7fc00000, 0x7f800000, 0x3f800000): yield "79 kimi-linear: decay of bits %08x" % word, BAD, filled("kimi-linear", "blk.0.ssm_a", word)
    yield "79 kimi-linear: a step that is not a number", BAD, filled("kimi-linear", "blk.0.ssm_dt.bias", 0x7fc00000)
    for word in (0x7fc00000, 0x7f800000, 0xff7fffff):
        yield "79 kimi-linear: a filter of bits %08x" % word, EITHER, filled("kimi-linear", "blk.0.ssm_conv1d_v.weight", word)


def wholes():
    """Encoders with a decoder, models that decode by diffusion, indexers."""
    top = 1 << 31
    for m in ("../pairs/t5", "../pairs/t5_gated", "../pairs/t5_umt5", "../diffuse/dream", "../diffuse/llada", "../diffuse/llada-moe", "deepseek32", "glm-dsa", "minimax-m3",
              "qwen4exp", "qwen4exp_odd", "qwen4exp_plain", "deepseek4", "deepseek4_odd"):
        yield "81 good " + m, GOOD, family(m).bytes()
    for m, k, values in (("../pairs/t5", "decoder_block_count", (0, 1, 3, 257, top)), ("../pairs/t5", "decoder_start_token_id", (272, 1 << 24, top)),
                         ("../pairs/t5", "attention.relative_buckets_count", (0, 3, 15, 17, 129, top)), ("../pairs/t5", "attention.key_length", (0, 1, 12, top)),
                         ("../pairs/t5", "block_count", (0, 1, 3, 513, top)), ("../encoders/t5encoder", "attention.relative_buckets_count", (0, 15, 17, top)),
                         ("llama", "attention.relative_buckets_count", (16,)), ("llama", "attention.indexer.top_k", (16,)),
                         ("deepseek32", "attention.indexer.top_k", (0, (1 << 20) + 1, top)), ("deepseek32", "attention.indexer.head_count", (0, 2, 4097)),
                         ("deepseek32", "attention.indexer.key_length", (0, 2, 5, 7, 9, 1025)), ("deepseek32", "attention.indexer.block_size", (2,)),
                         ("deepseek32", "attention.indexer.local_blocks", (1,)), ("deepseek32", "attention.indexer.types", (0,)),
                         ("deepseek32", "attention.sliding_window", (8,)), ("deepseek32", "attention.q_lora_rank", (0,)),
                         ("minimax-m3", "attention.indexer.head_count", (1, 3)), ("minimax-m3", "attention.indexer.key_length", (6, 11)),
                         ("minimax-m3", "attention.indexer.block_size", (0, 1 << 19, top)), ("minimax-m3", "attention.indexer.local_blocks", (5, top)),
                         ("minimax-m3", "attention.indexer.top_k", (104858, 1 << 20)),
                         ("qwen4exp", "hyper_connection.count", (0, 1, 2, 4, 17, top)), ("qwen4exp", "hyper_connection.low_rank", (0, 9, 11, top)),
                         ("qwen4exp", "attention.indexer.top_k", (0, 23, 25, (1 << 20) + 1, top)), ("qwen4exp", "attention.indexer.head_count", (0, 5, 4097)),
                         ("qwen4exp", "attention.indexer.key_length", (0, 6, 11, 1025)), ("qwen4exp", "attention.compress_ratios", (17, top)),
                         ("qwen4exp", "ple.ngram_size", (0, 1, 2, 4, 9, top)), ("qwen4exp", "ple.heads_per_ngram", (0, 1, 3, 33, top)),
                         ("qwen4exp", "ple.conv_kernel", (0, 3, 6, 17, top)), ("qwen4exp", "ple.eos_token_id", (272, 1 << 24, top)),
                         ("qwen4exp", "embedding_length_per_layer_input", (0, 5, 7, 1 << 20, top)), ("qwen4exp", "nextn_predict_layers", (4, top)),
                         ("deepseek4", "hyper_connection.count", (0, 1, 3, 17, top)), ("deepseek4", "hyper_connection.sinkhorn_iterations", (0, 1001, top)),
                         ("deepseek4", "attention.indexer.top_k", (0, (1 << 20) + 1, top)), ("deepseek4", "attention.indexer.head_count", (0, 7, 4097)),
                         ("deepseek4", "attention.indexer.key_length", (0, 2, 7, 9, 10, 1025)), ("deepseek4", "attention.output_group_count", (0, 3, 4, 8, top)),
                         ("deepseek4", "attention.output_lora_rank", (0, 5, 7, 1 << 20, top)), ("deepseek4", "attention.compress_ratios", (1, 1025, top)),
                         ("deepseek4", "attention.sliding_window", (0, top)), ("deepseek4", "attention.q_lora_rank", (0, 9, top)),
                         ("deepseek4", "attention.head_count_kv", (0, 2)), ("deepseek4", "attention.value_length", (8, 12)), ("deepseek4", "attention.key_length", (14, 15)),
                         ("deepseek4", "rope.dimension_count", (0, 3, 10, 18)), ("deepseek4", "hash_layer_count", (2, 5, top)), ("deepseek4", "expert_gating_func", (1, 2, 5)),
                         ("deepseek4", "nextn_predict_layers", (4, top))):
        for v in values: yield "81 %s: %s %d" % (m, k, v), BAD, family(m, k, U32, v).bytes()
    for m in ("../pairs/t5", "../encoders/t5encoder"):
        for k, v in (("head_count", [1, 2]), ("head_count", [2, 1]), ("key_length", [8, 4]), ("value_length", [10, 12])):
            yield "81 %s: %s %s" % (m, k, v), BAD, family(m, "attention." + k, ARR, (U32, v)).bytes()
    for m, v in (("../pairs/t5", False), ("../diffuse/dream", True), ("../diffuse/llada", True)):
        yield "81 %s: attention.causal %s" % (m, v), BAD, family(m, "attention.causal", BOOL, v).bytes()
    for k, kind, values in (("ple.layers", I32, ([1], [4], [-1], [0, 2])), ("ple.layer_multipliers", U64, ([], [3, 5],)),
                            ("ple.head_offsets", U64, ([0, 53, 112], [0, 53, 112, 1 << 31], [0, 53, 112, 1 << 20], [0, 53, 112, (1 << 64) - 1])),
                            ("ple.head_vocab_sizes", U64, ([53, 59, 61], [53, 59, 0, 67], [53, 59, 61, (1 << 31) - 1], [53, 59, 61, 1 << 63])),
                            ("attention.compress_ratios", I32, ([0, 4, 0, 3], [0, 4, 0], [0, 4, 0, -4], [0, 4, 0, 5])),
                            ("attention.recurrent_layers", BOOL, ([True, False, False, True], [True] * 4))):
        for v in values: yield "81 qwen4exp: %s %s" % (k, v), BAD, family("qwen4exp", k, ARR, (kind, v)).bytes()
    yield "81 qwen4exp: blocks of an indexer that no layer has", GOOD, family("qwen4exp", "attention.compress_ratios", ARR, (I32, [4, 4, 4, 4])).bytes()
    yield "81 qwen4exp: a last layer that is a draft head, which is not used", GOOD, family("qwen4exp", "nextn_predict_layers", U32, 1).bytes()
    yield "81 qwen4exp: all positions", GOOD, family("qwen4exp", "attention.compress_ratios", ARR, (I32, [0] * 4)).bytes()
    for k in ("hyper_connection.count", "hyper_connection.low_rank", "attention.indexer.top_k", "ple.ngram_size", "ple.eos_token_id", "ple.layer_multipliers",
              "ple.head_offsets", "ple.head_vocab_sizes", "embedding_length_per_layer_input", "ple.conv_kernel", "ple.layers"):
        yield "81 qwen4exp: %s missing" % k, BAD, family("qwen4exp", k, U32, None).bytes()
    for t in ("blk.0.hc_attn_norm.weight", "blk.3.hc_ffn_up.weight", "blk.1.hc_attn_inject.weight", "output_hc_down.weight", "per_layer_token_embd.weight",
              "blk.2.ple_key.weight", "blk.2.ple_norm_conv.weight", "blk.2.ple_conv1d.weight", "blk.1.indexer.q_proj.weight", "blk.3.indexer.k_norm.weight"):
        yield "81 qwen4exp: %s missing" % t, BAD, without_tensor("qwen4exp", t)
    for t, dims in (("per_layer_token_embd.weight", [6, 239]), ("per_layer_token_embd.weight", [5, 256]), ("blk.2.ple_conv1d.weight", [4, 71]),
                    ("blk.2.ple_value.weight", [23, 24]), ("blk.0.hc_attn_down.weight", [72, 9]), ("output_hc_norm.weight", [24])):
        yield "81 qwen4exp: %s is %s" % (t, dims), BAD, resized("qwen4exp", t, dims)
    for t, dims in (("output_norm.weight", [24]), ("blk.0.attn_norm.weight", [24]), ("blk.1.ple_key.weight", [24, 72])):
        yield "81 qwen4exp: %s too" % t, BAD, with_tensor("qwen4exp", t, dims)
    for v in ([0, 4, 16], [0, 4, 16, 1], [0, 4, 16, -4], [0, 4, 16, 1025], [0, 4, 16, 16], [4, 4, 16, 4], [0, 4, 8, 4], [0] * 1025):
        yield "81 deepseek4: attention.compress_ratios %s" % v[:5], BAD, family("deepseek4", "attention.compress_ratios", ARR, (I32, v)).bytes()
    yield "81 deepseek4: ratios of draft heads that the file lacks", GOOD, family("deepseek4", "attention.compress_ratios", ARR, (I32, [0, 4, 16, 4, 0])).bytes()
    yield "81 deepseek4: a last layer that is a draft head, which is not used", GOOD, family("deepseek4", "nextn_predict_layers", U32, 1).bytes()
    yield "81 deepseek4: attention.causal", BAD, family("deepseek4", "attention.causal", BOOL, False).bytes()
    for v in (-1.0, 2.0, float("nan")): yield "81 deepseek4: hyper_connection.epsilon %g" % v, BAD, family("deepseek4", "hyper_connection.epsilon", F32, v).bytes()
    for v in (0.5, 1e13, float("nan")): yield "81 deepseek4: compress_rope_freq_base %g" % v, BAD, family("deepseek4", "attention.compress_rope_freq_base", F32, v).bytes()
    for k in ("hyper_connection.count", "hyper_connection.sinkhorn_iterations", "hyper_connection.epsilon", "attention.compress_ratios", "attention.compress_rope_freq_base",
              "attention.output_group_count", "attention.output_lora_rank", "attention.indexer.top_k", "attention.sliding_window", "attention.q_lora_rank", "hash_layer_count",
              "expert_gating_func"):
        yield "81 deepseek4: %s missing" % k, BAD, family("deepseek4", k, U32, None).bytes()
    for t in ("blk.0.hc_attn_fn.weight", "blk.3.hc_ffn_base.weight", "blk.1.hc_attn_scale.weight", "output_hc_base.weight", "output_hc_fn.weight", "blk.0.ffn_gate_tid2eid.weight",
              "blk.1.attn_compressor_kv.weight", "blk.2.attn_compressor_ape.weight", "blk.3.attn_compressor_norm.weight", "blk.1.indexer_compressor_gate.weight",
              "blk.1.indexer.proj.weight", "blk.3.indexer.attn_q_b.weight", "blk.0.attn_sinks.weight", "blk.0.attn_output_a.weight", "blk.2.attn_kv.weight", "blk.0.attn_kv_a_norm.weight"):
        yield "81 deepseek4: %s missing" % t, BAD, without_tensor("deepseek4", t)
    for t, dims in (("blk.0.attn_output_a.weight", [32, 11]), ("blk.0.attn_output_a.weight", [31, 12]), ("blk.0.ffn_gate_tid2eid.weight", [2, 271]),
                    ("blk.0.ffn_gate_tid2eid.weight", [1, 272]), ("blk.1.attn_compressor_ape.weight", [32, 3]), ("blk.1.attn_compressor_kv.weight", [16, 16]),
                    ("blk.2.attn_compressor_gate.weight", [16, 15]), ("blk.0.hc_attn_fn.weight", [64, 23]), ("output_hc_scale.weight", [2]), ("blk.1.hc_ffn_scale.weight", [2])):
        yield "81 deepseek4: %s is %s" % (t, dims), BAD, resized("deepseek4", t, dims)
    for t, dims in (("blk.1.ffn_gate_tid2eid.weight", [2, 272]), ("blk.0.attn_compressor_kv.weight", [16, 32]), ("blk.0.attn_q.weight", [16, 64])):
        yield "81 deepseek4: %s too" % t, BAD, with_tensor("deepseek4", t, dims)
    for word in (6, 0xffffffff, 0x7fffffff): yield "81 deepseek4: expert %d of a token" % word, BAD, filled("deepseek4", "blk.0.ffn_gate_tid2eid.weight", word)
    for t, word in (("output_hc_fn.weight", 0x7fc00000), ("blk.1.attn_compressor_ape.weight", 0x7f800000), ("blk.1.hc_attn_base.weight", 0xff800000)):
        yield "81 deepseek4: %s of bits %08x" % (t, word), EITHER, filled("deepseek4", t, word)
    for v in ([0, 1, 1], [1, 0], [1, 0, 1, 1], [1, 2, 1]):
        yield "81 glm-dsa: attention.indexer.types %s" % v, BAD, family("glm-dsa", "attention.indexer.types", ARR, (U32, v)).bytes()
    yield "81 glm-dsa: a window of a layer without an indexer", BAD, family("glm-dsa", "attention.sliding_window", ARR, (U32, [0, 8, 0])).bytes()
    yield "81 glm-dsa: an indexer that nothing reads", GOOD, family("glm-dsa", "attention.indexer.types", ARR, (U32, [1, 0, 0])).bytes()
    yield "81 glm-dsa: an indexer that is not there", BAD, family("glm-dsa", "attention.indexer.types", ARR, (U32, [1, 1, 1])).bytes()
    yield "81 deepseek32: attention.causal", BAD, family("deepseek32", "attention.causal", BOOL, False).bytes()
    for m, k in (("../pairs/t5", "attention.relative_buckets_count"), ("deepseek32", "attention.indexer.top_k"), ("minimax-m3", "attention.indexer.head_count"),
                 ("minimax-m3", "attention.indexer.block_size"), ("minimax-m3", "attention.indexer.local_blocks")):
        yield "81 %s: %s missing" % (m, k), BAD, family(m, k, U32, None).bytes()
    for m, t in (("../pairs/t5", "enc.output_norm.weight"), ("../pairs/t5", "dec.output_norm.weight"), ("../pairs/t5", "enc.blk.0.attn_rel_b.weight"),
                 ("../pairs/t5", "dec.blk.0.attn_rel_b.weight"), ("../pairs/t5", "dec.blk.1.cross_attn_k.weight"), ("../pairs/t5", "dec.blk.0.cross_attn_norm.weight"),
                 ("../pairs/t5", "enc.blk.1.ffn_up.weight"), ("../pairs/t5_gated", "dec.blk.2.ffn_gate.weight"), ("../encoders/t5encoder", "enc.blk.0.attn_rel_b.weight"),
                 ("deepseek32", "blk.1.indexer.attn_k.weight"), ("deepseek32", "blk.0.indexer.proj.weight"), ("deepseek32", "blk.0.indexer.k_norm.bias"),
                 ("glm-dsa", "blk.2.indexer.attn_q_b.weight"), ("minimax-m3", "blk.1.indexer.q_norm.weight"), ("minimax-m3", "blk.1.indexer.k_proj.weight")):
        yield "81 %s: %s missing" % (m, t), BAD, without_tensor(m, t)
    for m, t, dims in (("../pairs/t5", "enc.blk.0.attn_rel_b.weight", [2, 15]), ("../pairs/t5", "dec.blk.0.attn_rel_b.weight", [3, 16]),
                       ("../pairs/t5", "dec.blk.1.cross_attn_v.weight", [16, 21]), ("deepseek32", "blk.0.indexer.attn_k.weight", [16, 7])):
        yield "81 %s: %s is %s" % (m, t, dims), BAD, resized(m, t, dims)
    for m, t, dims in (("../pairs/t5", "blk.0.attn_q.weight", [16, 20]), ("../pairs/t5", "dec.blk.2.attn_q.weight", [16, 20]), ("../pairs/t5", "enc.blk.0.ffn_gate.weight", [16, 24])):
        yield "81 %s: %s too" % (m, t), BAD, with_tensor(m, t, dims)
    yield "81 t5: biases between a text and its answer, which nothing reads", GOOD, with_tensor("../pairs/t5", "dec.blk.0.cross_attn_rel_b.weight", [2, 16])
    for word in (0x7fc00000, 0x7f800000, 0xff800000):
        yield "81 t5: biases of bits %08x" % word, BAD, filled("../pairs/t5", "enc.blk.0.attn_rel_b.weight", word)


def gemmas():
    """Layers that read the K/V of others, embeddings of each layer, several streams."""
    nan, inf = float("nan"), float("inf")
    for m in ("gemma4", "gemma4_far", "gemma4_moe", "gemma4_split", "gemma3n", "gemma3n_alt"):
        yield "73 good " + m, GOOD, family(m).bytes()
    for v in (4, 5, 6, 512, 513, 1 << 31):
        yield "73 shared layers %d" % v, BAD, family("gemma4", "attention.shared_kv_layers", U32, v).bytes()
    for what, t, v in (("negative", I32, -1), ("float", F32, 2.0), ("array", ARR, (U32, [2] * 5)), ("string", STR, "2")):
        yield "73 shared layers: " + what, BAD, family("gemma4", "attention.shared_kv_layers", t, v).bytes()
    yield "73 the source has other heads", BAD, family("gemma4", "attention.head_count_kv", ARR, (U32, [1, 1, 1, 2, 1])).bytes()
    for v in (8, 64, 1024):
        f = family("gemma4_moe", "attention.value_length", U32, v)
        f.tensor("blk.1.attn_output.weight").update(dims=[2 * v, 32], type=T_F32, data=bytes(2 * v * 32 * 4))
        yield "73 values of %d that are keys of 32" % v, BAD, f.bytes()
    for k in ("attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa",
              "embedding_length_per_layer_input"):
        for v in (3, 7, 1 << 31): yield "73 %s %d" % (k, v), BAD, family("gemma4", k, U32, v).bytes()
    for k, v in (("altup.num_inputs", 1), ("altup.num_inputs", 17), ("altup.num_inputs", 3), ("altup.active_idx", 4),
                 ("altup.active_idx", 1 << 31)):
        yield "73 %s %d" % (k, v), BAD, family("gemma3n", k, U32, v).bytes()
    for what, t, v in (("short", ARR, (F32, [1.0] * 3)), ("long", ARR, (F32, [1.0] * 5)), ("ints", ARR, (U32, [1] * 4)),
                       ("one", F32, 1.0), ("nan", ARR, (F32, [nan, 1.0, 1.0, 1.0])), ("inf", ARR, (F32, [inf, 1.0, 1.0, 1.0])),
                       ("huge", ARR, (F32, [1e30] * 4))):
        yield "73 sparsity: " + what, BAD, family("gemma3n", "activation_sparsity_scale", t, v).bytes()
    yield "73 no sparsity", GOOD, family("gemma3n", "activation_sparsity_scale", ARR, (F32, [-inf] * 4)).bytes()
    for m, t, dims in (("gemma3n", "blk.0.laurel_r.weight", [5, 32]), ("gemma3n", "blk.0.laurel_l.weight", [33, 6]),
                       ("gemma3n", "blk.1.altup_predict_coef.weight", [4, 15]), ("gemma3n", "altup_proj.weight", [32, 32, 4]),
                       ("gemma4", "per_layer_token_embd.weight", [39, 272]), ("gemma4", "per_layer_model_proj.weight", [32, 39]),
                       ("gemma4", "blk.0.post_norm.weight", [31]), ("gemma4", "blk.0.layer_output_scale.weight", [2]),
                       ("gemma4", "rope_freqs.weight", [15]),
                       ("gemma4_moe", "blk.0.ffn_gate_inp.scale", [1]), ("gemma4_moe", "blk.0.ffn_down_exps.scale", [4])):
        yield "73 %s: %s is %s" % (m, t, dims), BAD, resized(m, t, dims)
    for m, t in (("gemma4", "blk.0.attn_k.weight"), ("gemma4", "blk.0.inp_gate.weight"), ("gemma3n", "blk.1.altup_router.weight"),
                 ("gemma3n", "altup_unembd_proj.weight"), ("gemma4_moe", "blk.1.pre_ffw_norm_2.weight"),
                 ("gemma4_moe", "blk.0.ffn_gate_inp.scale")):
        yield "73 %s: %s missing" % (m, t), BAD, without_tensor(m, t)
    for word in (0x7fc00000, 0, 0x6fffffff, 0xf149f2ca):
        yield "73 rope divisors of bits %08x" % word, BAD, filled("gemma4", "rope_freqs.weight", word)
    for word in (0x7fc00000, 0x7f800000):
        yield "73 layer scales of bits %08x" % word, EITHER, filled("gemma4", "blk.1.layer_output_scale.weight", word)


def split_parts(n=3, count=None, total=None, nos=None):
    parts = []
    for i in range(n):
        f = SPM.copy() if i == 0 else File()
        per = (len(SPM.tensors) + n - 1) // n
        f.tensors = [dict(t) for t in SPM.tensors[i * per:(i + 1) * per]]
        f.set("split.no", U16, i if nos is None else nos[i]).set("split.count", U32, n if count is None else count)
        parts.append(f.set("split.tensors.count", I32, len(SPM.tensors) if total is None else total))
    return parts


def named(parts, n=None):
    return {"m-%05d-of-%05d.gguf" % (i + 1, n or len(parts)): p.bytes() for i, p in enumerate(parts) if p}


def splits():
    yield "33 good", GOOD, named(split_parts())
    for c in (0, 2, 4, 1 << 16, 0xffffffff): yield "33 split.count %d" % c, BAD, named(split_parts(count=c))
    p = split_parts()
    yield "33 part missing", BAD, named([p[0], None, p[2]])
    p[1] = split_parts()[2]
    yield "33 another part's file", BAD, named(p)
    p = split_parts()
    p[1].tensors = [dict(t) for t in SPM.tensors[:4]]
    yield "33 part with other tensors", BAD, named(p)
    p[1].tensors = []
    yield "33 part without tensors", BAD, named(p)
    yield "33 wrong total", BAD, named(split_parts(total=5))
    yield "33 negative total", BAD, named(split_parts(total=-1))
    yield "33 numbers swapped", BAD, named(split_parts(nos=[0, 2, 1]))
    files = named(split_parts())
    yield "33 opened by its second part", BAD, dict(sorted(files.items(), key=lambda f: "00002" not in f[0]))
    yield "33 name without a number", BAD, {"model.gguf": split_parts()[0].bytes(), **files}
    p = split_parts()
    yield "33 split.count of text with ..", BAD, named([p[0].set("split.count", STR, "../../3"), p[1], p[2]])
    p = named(split_parts())
    p["m-00003-of-00003.gguf"] = p["m-00003-of-00003.gguf"][:200]
    yield "33 part cut off", BAD, p


def vocabularies():
    t = "tokenizer.ggml."
    tokens, scores, types = (SPM.get(t + k)[1] for k in ("tokens", "scores", "token_type"))
    n = len(tokens)
    for base, name in ((SPM, "spm"), (BPE, "bpe")):
        yield "34 %s tokens missing" % name, BAD, without(t + "tokens", base)
        yield "34 %s tokens of u32" % name, BAD, kv(t + "tokens", ARR, (U32, list(range(n))), base)
        yield "34 %s tokens of f32" % name, BAD, kv(t + "tokens", ARR, (F32, [0.0] * n), base)
        yield "34 %s tokens no array" % name, BAD, kv(t + "tokens", STR, "a", base)
        yield "34 %s no tokens in it" % name, BAD, kv(t + "tokens", ARR, (STR, []), base)
        yield "34 %s one token less" % name, BAD, kv(t + "tokens", ARR, (STR, base.get(t + "tokens")[1][:-1]), base)
        yield "34 %s one token more" % name, BAD, kv(t + "tokens", ARR, (STR, base.get(t + "tokens")[1] + ["more"]), base)
        yield "34 %s model missing" % name, BAD, without(t + "model", base)
        yield "34 %s model of u32" % name, BAD, kv(t + "model", U32, 1, base)
        ty = base.get(t + "token_type")[1]
        for what, v in (("shorter", (I32, ty[:-1])), ("longer", (I32, ty + [1])), ("empty", (I32, [])), ("of u8", (U8, ty)),
                        ("of f32", (F32, [float(x) for x in ty])), ("of strings", (STR, ["1"] * len(ty)))):
            yield "34 %s token_type %s" % (name, what), BAD, kv(t + "token_type", ARR, v, base)
        yield "34 %s token_type out of range" % name, EITHER, kv(t + "token_type", ARR, (I32, [77] + ty[1:]), base)
    for what, v in (("shorter", (F32, scores[:-1])), ("longer", (F32, scores + [0.0])), ("empty", (F32, [])),
                    ("of u8", (U8, [0] * n)), ("of i32", (I32, [0] * n)), ("of strings", (STR, ["0"] * n))):
        yield "34 scores " + what, BAD, kv(t + "scores", ARR, v)
    yield "34 scores no array", BAD, kv(t + "scores", F32, 0.0)
    yield "34 scores of NaN", EITHER, kv(t + "scores", ARR, (F32, [float("nan")] * n))
    for base, name in ((SPM, "spm"), (BPE, "bpe")):
        for k in ("bos", "eos"):
            for v in (len(base.get(t + "tokens")[1]), 1 << 31, 0xfffffffe):
                yield "35 %s %s = %d" % (name, k, v), BAD, kv(t + k + "_token_id", U32, v, base)
            yield "35 %s %s = -2" % (name, k), BAD, kv(t + k + "_token_id", I32, -2, base)
            yield "35 %s %s = -1: none" % (name, k), GOOD, kv(t + k + "_token_id", I32, -1, base)
            yield "35 %s %s = 2^32-1: none" % (name, k), GOOD, kv(t + k + "_token_id", U32, 0xffffffff, base)
            yield "35 %s %s = 2^64-1: none" % (name, k), GOOD, kv(t + k + "_token_id", U64, (1 << 64) - 1, base)
            yield "35 %s %s of text" % (name, k), BAD, kv(t + k + "_token_id", STR, "1", base)
        for k in ("unknown", "padding", "seperator", "mask", "eot", "fim_pre", "prefix"):
            for v in (0xffffffff, 1 << 31, 123456):
                yield "35 %s %s = %d" % (name, k, v), GOOD, kv(t + k + "_token_id", U32, v, base)
            yield "35 %s %s = -1" % (name, k), GOOD, kv(t + k + "_token_id", I32, -1, base)
            yield "35 %s %s of f32" % (name, k), BAD, kv(t + k + "_token_id", F32, 1.0, base)
        f = base.copy()
        for k in ("bos_token_id", "eos_token_id", "unknown_token_id", "merges"):
            if f.at(t + k) < len(f.kv): f.drop(t + k)
        f.set(t + "tokens", ARR, (STR, ["a"])).set(t + "token_type", ARR, (I32, [1]))
        if base is SPM: f.set(t + "scores", ARR, (F32, [0.0]))
        else: f.set(t + "merges", ARR, (STR, []))
        for x in ("token_embd.weight", "output.weight"): f.tensor(x).update(dims=[N_EMBD, 1], data=bytes(4 * N_EMBD))
        yield "35 %s of one token, no ids" % name, EITHER, f.bytes()
    for v in ("<0x-1>", "<0xZZ>", "<0x1>", "<0x100>", "<0x>", "", "<0x41"):
        yield "36 byte token %r" % v, BAD, kv(t + "tokens", ARR, (STR, tokens[:68] + [v] + tokens[69:]))
    yield "36 byte token twice", EITHER, kv(t + "tokens", ARR, (STR, tokens[:68] + ["<0x42>"] + tokens[69:]))
    yield "36 no byte tokens", EITHER, kv(t + "token_type", ARR, (I32, [1] * n),
                                          SPM.copy().set(t + "tokens", ARR, (STR, ["t%d" % i for i in range(n)])))
    m = t + "merges"
    merges = BPE.get(m)[1]
    for what, v in (("without a space", "he"), ("with an empty first half", " e"), ("with an empty second half", "h "),
                    ("empty", ""), ("of unknown parts", "zzz yyy"), ("whose whole is unknown", "x q")):
        yield "37 merge " + what, BAD, kv(m, ARR, (STR, merges + [v]), BPE)
    yield "37 merge with two spaces", EITHER, kv(m, ARR, (STR, merges + ["h e r"]), BPE)
    yield "37 merge twice", EITHER, kv(m, ARR, (STR, merges + merges), BPE)
    yield "37 merges missing", EITHER, without(m, BPE)
    yield "37 merges of u32", BAD, kv(m, ARR, (U32, [1, 2]), BPE)
    yield "37 merges no array", BAD, kv(m, STR, "h e", BPE)
    f = BPE.copy()
    f.drop(m)
    f.raw_kv(key(m, ARR, u32(STR) + u64(10 ** 7) + (u64(3) + b"h e") * 10 ** 7))
    yield "37 ten million merges", EITHER, f.bytes()
    for base, name in ((SPM, "spm"), (BPE, "bpe")):
        words = base.get(t + "tokens")[1]
        i = len(words) - 2                             # a plain token in both
        for what, v in (("empty", ""), ("twice", words[i - 1]), ("not UTF-8", b"\xff\xfe"), ("with NUL", "a\0b"),
                        ("of 16 MB", "k" * (1 << 24)), ("of 16 MB, not UTF-8", b"\xff" * (1 << 24))):
            yield "38 %s token %s" % (name, what), EITHER, kv(t + "tokens", ARR, (STR, words[:i] + [v] + words[i + 1:]), base)
    for v in ("", "nonsense", "plamo3", "x" * (1 << 20)): yield "39 model %.10r" % v, BAD, kv(t + "model", STR, v)
    # tokens with scores may be anyone's
    for v in ("t5", "bert", "rwkv"): yield "39 model %.10r" % v, GOOD, kv(t + "model", STR, v)
    white = BPE.copy().set(t + "model", STR, "whitespace").set(t + "pre", STR, "whitespace")
    words = BPE.get(t + "tokens")[1]
    yield "39 whitespace", GOOD, white.bytes()
    yield "39 whitespace without pre", GOOD, white.copy().drop(t + "pre").bytes()
    yield "39 whitespace with a token that is NUL", GOOD, kv(t + "tokens", ARR, (STR, words[:-2] + ["\0"] + words[-1:]), white)
    yield "39 whitespace without merges", BAD, without(t + "merges", white)
    yield "39 whitespace without tokens", BAD, without(t + "tokens", white)
    for v in ("", "qwen2", "default", "Whitespace", "x" * (1 << 20)):
        yield "39 whitespace with pre %.10r" % v, BAD, kv(t + "pre", STR, v, white)
    yield "39 whitespace with pre of u32", BAD, kv(t + "pre", U32, 1, white)
    for what, v in (("of unknown parts", "zzz yyy"), ("of a control token", words[-1] + " a"), ("of one text", "hello"),
                    ("empty", "")):
        yield "39 whitespace: a merge " + what, GOOD if " " in v else BAD, kv(t + "merges", ARR, (STR, [v]), white)
    for what, v in (("empty", ""), ("not UTF-8", b"\xff\xfe")):
        yield "39 whitespace: a token that is " + what, BAD, kv(t + "tokens", ARR, (STR, words[:-2] + [v] + words[-1:]), white)
    yield "39 whitespace: lower case of u32", BAD, kv(t + "normalizer.lowercase", U32, 1, white)
    yield "39 pre whitespace of gpt2", BAD, kv(t + "pre", STR, "whitespace", BPE)
    for v in ("", "nonsense", "x" * (1 << 20)): yield "39 pre %.10r" % v, BAD, kv(t + "pre", STR, v, BPE)
    yield "39 pre of u32", BAD, kv(t + "pre", U32, 1, BPE)
    for v in ([], [1], [1, 2, 3], [0xff, 0xff, 0xff, 0xff], [8, 0, 0, 0] + [0x41] * 8, [4, 0, 0, 0] + [0xff] * 8):
        f = SPM.copy().set(t + "model", STR, "t5").set(t + "precompiled_charsmap", ARR, (U8, v))
        yield "40 charsmap %s" % v, BAD if v else GOOD, f.bytes()                 # no bytes are no map


def not_files():
    def make(kind):
        def build(d):
            path = os.path.join(d, kind)
            if kind == "directory": os.mkdir(path)
            elif kind == "pipe": os.mkfifo(path)
            elif kind == "sparse": open(path, "wb").close(), os.truncate(path, 8 << 30)
            elif kind == "sparse with a head":
                open(path, "wb").write(SPM.bytes())
                os.truncate(path, 8 << 30)
            elif kind == "unreadable":
                open(path, "wb").write(SPM.bytes())
                os.chmod(path, 0)
            return path
        return build
    yield "0 missing", BAD, make("missing")
    yield "0 directory", BAD, make("directory")
    yield "0 pipe", BAD, make("pipe")
    yield "0 /dev/zero", BAD, lambda d: "/dev/zero"
    yield "0 /dev/null", BAD, lambda d: "/dev/null"
    yield "0 sparse 8 GiB", SCARCE, make("sparse")
    yield "0 good head on 8 GiB", {0, 2, 3}, make("sparse with a head")
    if os.geteuid(): yield "0 unreadable", BAD, make("unreadable")


def wide(n_ff, words=spm_tokens()):
    """Two layers of width 2. A feed-forward far wider than the file is large must not make scratch as large."""
    f = model(len(words))
    for k, t, v in SPM.kv: f.set(k, t, v)
    f.set("llama.block_count", U32, 2).set("llama.context_length", U32, 4096).set("llama.embedding_length", U32, 2)
    f.set("llama.attention.head_count", U32, 1).set("llama.feed_forward_length", U32, n_ff)
    for k in ("llama.attention.head_count_kv", "llama.rope.dimension_count", "llama.attention.key_length",
              "llama.attention.value_length"):
        if f.at(k) < len(f.kv): f.drop(k)
    n, t = len(words), "tokenizer.ggml."
    f.set(t + "tokens", ARR, (STR, words)).set(t + "scores", ARR, (F32, [0.0] * n))
    f.set(t + "token_type", ARR, (I32, SPM.get(t + "token_type")[1][:n]))
    shapes = [("token_embd.weight", [2, n]), ("output_norm.weight", [2]), ("output.weight", [2, n])]
    for i in range(2):
        shapes += [("blk.%d.%s.weight" % (i, w), d) for w,
                   d in (("attn_norm", [2]), ("attn_q", [2, 2]), ("attn_k", [2, 2]), ("attn_v", [2, 2]), ("attn_output", [2, 2]),
                   ("ffn_norm", [2]), ("ffn_gate", [2, n_ff]), ("ffn_up", [2, n_ff]), ("ffn_down", [n_ff, 2]))]
    f.tensors = []
    for name, d in shapes: f.add(name, d, T_F32, struct.pack("<f", 1.0) * (d[0] * (d + [1])[1]))
    return f.bytes()


def goods():
    yield "good spm", GOOD, SPM.bytes()
    yield "good bpe", GOOD, BPE.bytes()
    for v in (1, 2): yield "good version %d" % v, GOOD, good_v(v)
    for v in (1, 2): yield "good version %d with final NULs" % v, GOOD, good_v(v, True)
    f = SPM.copy()
    f.align = 4096
    yield "good alignment 4096", GOOD, f.set("general.alignment", U32, 4096).bytes()
    yield "good, of great width", GOOD, wide(1 << 18)
    yield "good with a strange key", GOOD, kv("x\u00e4", ARR, (I16, [-1, 2]))


# --- constraints: a text that a stranger wrote, held against a text and a model ---

class Constraint:
    """Two runs: --match on a text, and four tokens of a model. key: the body key of a batch line that says the same."""
    OPTIONS = {"grammar": "--grammar-file", "schema": "--json-schema-file", "regex": "--regex"}

    def __init__(self, kind, text, on="aaaa"):
        self.kind, self.text, self.on = kind, raw(text), raw(on)

    def runs(self, d):
        model, path = os.path.join(d, "m.gguf"), os.path.join(d, "constraint")
        for name, data in ((model, SPM.bytes()), (path, self.text)):
            with open(name, "wb") as f: f.write(data)
        option = [self.OPTIONS[self.kind], self.text if self.kind == "regex" else path]
        if self.kind == "regex" and (len(self.text) > 100000 or 0 in self.text): return
        yield "match", ["--match"] + option, self.on
        yield "run", ["-m", model, "-p", "x", "-n", "4", "--temp", "0"] + option, None

    def body(self):
        """The keys of a batch line; None: not one that JSON can hold."""
        try:
            text = self.text.decode()
            if self.kind != "schema": return {self.kind: text}
            json.loads(text)
        except (ValueError, RecursionError):
            return None
        return '"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":%s}}' % text


ANY, NO = {0, 1, 2, 3}, {2, 3}        # some may be held, the others must not
HUGE = 10 ** 18


def grammars():
    def g(text, on="aaaa"): return Constraint("grammar", text, on)
    n = 100000
    for name, text in (("direct", 'root ::= root "a" | "b"'), ("indirect", 'root ::= x "a"\nx ::= y "b"\ny ::= root | "c"'),
                       ("through nullable", 'root ::= n root "a" | "b"\nn ::= "x"?'),
                       ("through a nullable count", 'root ::= ("x"* "y"?){0,3} root | "b"'),
                       ("in a rule", 'root ::= "a" x\nx ::= x | "b"'),
                       ("of a hundred thousand", "\n".join("r%d ::= r%d" % (i, (i + 1) % n) for i in range(n))
                        + "\nroot ::= r0")):
        yield "49 left recursion " + name, BAD, g(text)
    for name, text in (("twice", '("a"*)*'), ("thrice", '(("a"*)*)*'), ("mixed", '((("a"?)+)*){0,5}'),
                       ("a thousand", "(" * 1000 + '"a"*' + ")*" * 1000), ("empty", '("" ("")* )*')):
        yield "50 stars " + name, {0, 1}, g("root ::= " + text)
    yield "51 groups within each other", {0, 3}, g("root ::= " + "(" * n + '"aaaa"' + ")" * n)
    yield "51 groups beside each other", ANY, g("root ::= " + '("a"?)' * n)
    yield "51 groups open", BAD, g("root ::= " + "(" * n)
    yield "51 rules in a chain", {0, 3}, g("root ::= r0\n" + "\n".join("r%d ::= r%d" % (i, i + 1) for i in range(n))
                                           + '\nr%d ::= "aaaa"\n' % n)
    yield "51 rules with a byte each", ANY, g("root ::= r0\n" + "\n".join('r%d ::= "a" r%d | "a"' % (i, i + 1) for i in range(n))
                                              + '\nr%d ::= "a"\n' % n, "a" * 1000)
    yield "51 alternatives", {0, 3}, g("root ::= " + " | ".join('"%d"' % i for i in range(n)) + ' | "aaaa"')
    yield "51 a class of a hundred thousand", {0, 1, 3}, g("root ::= [" + "".join(chr(0x4e00 + i % 20000) for i in range(n))
                                                           + "a]*")
    for name, text in (("most", '"a"{0,%d}' % HUGE), ("least", '"a"{%d,}' % HUGE),
                       ("within counts", '((("a"{0,2000}){0,2000}){0,2000}){0,2000}'),
                       ("of 10^18 thrice", '(("a"{0,%d}){0,%d}){0,%d}' % (HUGE, HUGE, HUGE)),
                       ("of the empty text", '""{%d}' % HUGE), ("of what may be empty", '("a"?){%d}' % HUGE),
                       ("of a class", "[ab]{3,%d}" % HUGE)):
        yield "52 count " + name, ANY, g("root ::= " + text)
    yield "52 count beyond 64 bits", ANY, g('root ::= "a"{0,%d}' % 10 ** 30)
    yield "52 count the wrong way", BAD, g('root ::= "a"{3,2}')
    for name, text in (("no root", 'x ::= "a"'), ("a missing rule", 'root ::= x'), ("an escape", 'root ::= "\\q"'),
                       ("an open string", 'root ::= "a'), ("an open class", "root ::= [a"),
                       ("a class the wrong way", "root ::= [z-a]"), ("no text", ""), ("zeros", b"root ::= \"\0\"" * 3),
                       ("no UTF-8", b'root ::= "\xff"'), ("a star alone", "root ::= *"), ("two ::=", 'root ::= ::= "a"'),
                       ("an escape beyond Unicode", 'root ::= "\\U00110000"'), ("half an escape", 'root ::= "\\x"')):
        yield "53 " + name, BAD if name != "zeros" else ANY, g(text)
    for name, text in (("itself alone", 'root ::= "a" root'), ("two rules", 'root ::= "a" x\nx ::= "b" root'),
                       ("an empty class", "root ::= [^\\x00-\\U0010FFFF]")):
        yield "57 nothing satisfies: " + name, BAD, g(text)
    yield "57 only the empty text", {0, 1}, g('root ::= ""', "")
    yield "58 half a character", BAD, g(b'root ::= "\xc3" [\xa9]')
    yield "58 characters of every length", {0, 1}, g("root ::= [\U00000001-\U0010FFFF]*", "aé€😀".encode())
    for name, text in (("two of one", '("a" | "a")*'), ("three lengths", '("a" | "aa" | "aaa")*'),
                       ("pairs", 'x x x x "b"\nx ::= "a"*'), ("trees", 'x\nx ::= "a" x x | ""'),
                       ("palindromes", 'x\nx ::= "a" x "a" | "a" | ""'),
                       ("calls of calls", 'x\nx ::= "a" y y y | "a"\ny ::= "a" x x | "a"')):
        yield "59 ambiguous: " + name, {0, 1, 3}, g("root ::= " + text, "a" * 3000)


def expressions():
    def r(text, on="a" * 5000): return Constraint("regex", text, on)
    n = 10000
    for text in ("(a+)+$", "(a|a)*b", "(a*)*b", "(a|aa)+$", "(.*.*)*=", "([a-z]+)*1", "(a?){1000}a{1000}",
                 "((a{0,1000}){0,1000}){0,1000}b", "a{0,%d}" % HUGE, "a{%d}" % HUGE, "(a|b)*a(a|b){40}", "(.{0,1000}a){0,1000}",
                 "((((a{0,99}){0,99}){0,99}){0,99}){0,99}", "(?:a?){%d}" % HUGE):
        yield "56 %.40s" % text, {0, 1, 3}, r(text)
    for text in ("(a)\\1", "(?=a)a", "(?!b)a", "(?<=a)b", "(?P=x)", "(", ")", "[", "a**", "*", "a{2,1}", "\\", "[z-a]",
                 "(?P<x>a)(?P<x>b)", "(?i", "\\xZZ"):
        yield "56 refused: %s" % text, BAD, r(text)
    yield "56 groups within each other", ANY, r("(" * n + "a" + ")" * n)
    yield "56 groups open", BAD, r("(" * n)
    yield "56 alternatives", {0, 1, 3}, r("|".join("%d" % i for i in range(n)))
    yield "56 a hundred thousand groups", ANY, r("(" * 100000 + "a" + ")" * 100000)
    yield "56 not UTF-8", BAD, r(b"\xff")


def nest(n, before, inside, after): return before * n + inside + after * n


def schemas():
    def s(x, on="[1]"): return Constraint("schema", x if isinstance(x, (str, bytes)) else json.dumps(x), on)
    n, refused, both = 100000, BAD, ANY
    for name, x in (("to itself", {"$ref": "#"}), ("around",
                                                   {"$ref": "#/$defs/a",
                                                    "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
                    ("through allOf", {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}),
                    ("through not", {"$defs": {"a": {"not": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}),
                    ("missing", {"$ref": "#/$defs/none"}), ("remote", {"$ref": "https://example.com/schema.json"}),
                    ("a file", {"$ref": "file:///etc/passwd"}),
                    ("no text", {"$ref": 1}), ("of a bad escape", {"$ref": "#/%zz/~7"})):
        yield "54 $ref " + name, refused, s(x)
    chain = {"$defs": {"x%d" % i: {"$ref": "#/$defs/x%d" % (i + 1)} for i in range(n)}, "$ref": "#/$defs/x0"}
    chain["$defs"]["x%d" % n] = True
    yield "54 $ref in a chain", both, s(chain)
    yield "54 $ref through items, endless", refused, s({"type": "array", "minItems": 1, "items": {"$ref": "#"}})
    for k in ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties", "minContains", "maxContains"):
        for v in (2 ** 64 - 1, 2 ** 64, 10 ** 9, HUGE, 10 ** 40, -1, 1.5, "1", 1e300):
            yield "55 %s %s" % (k, str(v)[:24]), both, s({k: v, "contains": True} if "Contains" in k
                                                         else {k: v, "type": {"I": "array", "L": "string", "P": "object"}[k[3]]})
    for name, text in (("items", nest(n, '{"items":', "{}", "}")), ("properties", nest(n, '{"properties":{"a":', "{}", "}}")),
                       ("not", nest(n, '{"not":', "{}", "}")), ("allOf", nest(n, '{"allOf":[', "{}", "]}")),
                       ("anyOf", nest(n, '{"anyOf":[', "{}", ",{}]}")),
                       ("oneOf", nest(n, '{"oneOf":[', "{}", ",{}]}")),
                       ("if", nest(n, '{"if":', "{}", ',"then":{"type":"array"}}')),
                       ("const", '{"const":' + nest(n, "[", "1", "]") + "}"), ("no schema", "[" * n),
                       ("objects open", '{"items":' * n)):
        yield "56 a hundred thousand deep: " + name, both, s(text)
    yield "56 an instance a hundred thousand deep", {0, 1, 3}, s({"items": {"$ref": "#"}}, nest(n, "[", "1", "]"))
    yield "56 an instance that stays open", {0, 1, 3}, s({}, "[" * n)
    for text in ("(a+)+$", "(a|a)*b", "^(a|b)*a(a|b){30}$", "^.*a.{500}$", "(x+x+)+y", "a{0,100000}", "(a{0,1000}){0,1000}",
                 "(a)\\1", "(?=a)", "(?<!a)b", "(", "[", "*", "\\p{L}", "(?i)a", "\\ud800"):
        yield "56 pattern %s" % text, both, s({"pattern": text}, '"%s"' % ("a" * 5000))
    for name, x in (("enum of a hundred thousand", {"enum": list(range(n)) + [[1]]}),
                    ("properties", {"properties": {"k%d" % i: {} for i in range(n)}}),
                    ("required", {"required": ["k%d" % i for i in range(n)]}),
                    ("required of properties", {"properties": {"k%d" % i: True for i in range(20000)},
                                                "required": ["k%d" % i for i in range(20000)]}),
                    ("allOf of anyOf",
                     {"allOf": [{"anyOf": [{"required": ["a%d" % i]}, {"required": ["b%d" % i]}]} for i in range(60)]}),
                    ("oneOf of properties", {"oneOf": [{"properties": {"k%d" % i: {"type": "string"}}} for i in range(200)]}),
                    ("not allOf anyOf",
                     {"not": {"allOf": [{"anyOf": [{"minProperties": i}, {"maxItems": i}]} for i in range(100)]}}),
                    ("patterns that overlap", {"patternProperties": {"^.*%d.*x%d" % (i, i): {"minimum": i} for i in range(60)}}),
                    ("contains of contains", {"allOf": [{"contains": {"minimum": i}, "maxContains": i} for i in range(40)]}),
                    ("dependencies", {"dependentSchemas": {"k%d" % i: {"required": ["k%d" % (i + 1)]} for i in range(2000)}}),
                    ("unique items", {"uniqueItems": True, "items": {"enum": list(range(3000))}, "minItems": 2999}),
                    ("unique objects", {"uniqueItems": True, "items": {"type": "object"}}),
                    ("multipleOf 1e-300", {"multipleOf": 1e-300}), ("multipleOf of 10^15", {"multipleOf": 999999999999989}),
                    ("multipleOf 1e300", {"multipleOf": 1e300}), ("multipleOf 0", {"multipleOf": 0}),
                    ("a bound of 10^300", {"minimum": 10 ** 300, "maximum": 10 ** 300 + 1}),
                    ("else of else", {"if": {"const": 1},
                                      "else": {"if": {"const": 2}, "else": {"if": {"const": 3}, "else": False}}}),
                    ("false", False), ("not true", {"not": {}}), ("number as schema", {"properties": {"a": 1}}),
                    ("type unknown", {"type": "thing"}), ("type empty", {"type": []}), ("enum no list", {"enum": 1}),
                    ("required no list", {"required": "a"}), ("allOf empty", {"allOf": []})):
        yield "56 " + name, both, s(x)
    yield "56 a bound of a hundred thousand digits", both, s('{"minimum":1%s}' % ("0" * n))
    yield "56 a bound with an exponent", both, s('{"minimum":1e999999999999999999999, "multipleOf": 1e-99999999}')
    for name, x in (("no text", b""), ("half", b'{"type":'), ("not UTF-8", b'{"const":"\xff"}'), ("zeros", b"\0" * 100),
                    ("a key twice", b'{"type":"string","type":"number"}'), ("half a pair", b'{"const":"\\ud800"}'),
                    ("two values", b"{} {}"), ("a list", b"[]"), ("BOM", b"\xef\xbb\xbf{}")):
        yield "56 file: " + name, both, s(x)


# --- running ---

def line_fault(err):
    text = err.decode("utf-8", "replace")
    if not text.endswith("\n") or text.count("\n") != 1: return "stderr is not one line: %r" % text[:300]
    if not text.startswith("llmrun: "): return "stderr begins with %r" % text[:60]
    if any(ord(c) < 32 for c in text[:-1]): return "control characters in %r" % text[:300]
    return None


def fault(binary, args, allowed, limit, quiet_out, inp=None):
    """The error of a run, or None. A refusal takes less than a second of CPU time; ten are allowed for slow machines."""
    # preexec_fn would copy this process
    confine = ["sh", "-c", "ulimit -c 0; %sexec \"$@\"" % ("ulimit -v %d; " % (limit >> 10) if limit else ""), "sh"]
    def cpu():
        u = resource.getrusage(resource.RUSAGE_CHILDREN)
        return u.ru_utime + u.ru_stime
    slow = 1 if limit else 20
    start = cpu()
    try:
        p = subprocess.run(confine + [binary] + args, **({"stdin": subprocess.DEVNULL} if inp is None else {"input": inp}),
                           capture_output=True, timeout=60 * slow)
    except subprocess.TimeoutExpired:
        return "still running after %d s" % (60 * slow)
    took = cpu() - start
    if p.returncode < 0: return "signal %d" % -p.returncode
    if p.returncode == 1 and quiet_out and 0 in allowed and b"llmrun: the answer is unfinished: " in p.stderr:
        return None                                       # -n is reached before the constraint is met
    if p.returncode not in allowed:
        return "exit %d, want %s: %r" % (p.returncode, " or ".join(map(str, sorted(allowed))),
                                         p.stderr.decode("utf-8", "replace")[:200])
    if p.returncode and quiet_out and p.stdout: return "refused, yet wrote %r on stdout" % p.stdout[:80]
    if p.returncode and line_fault(p.stderr): return line_fault(p.stderr)
    return "took %.2f s" % took if p.returncode and took >= 10 * slow else None


def place(case, d):
    """Writes the case's files; the path to open."""
    if callable(case): return case(d)
    files = case if isinstance(case, dict) else {"m.gguf": case}
    for name, data in files.items():
        with open(os.path.join(d, name), "wb") as f: f.write(data)
    return os.path.join(d, next(iter(files)))


def on_file(path, name):
    yield "inspect", ["--inspect", "-m", path], None
    yield "run", ["-m", path, "-p", PROMPT if "width" in name else "x", "-n", "1", "--temp", "0"], None


def batch_fault(opt):
    """All constraints as lines of one batch: a record for each, and the good lines among them are answered."""
    rows = [(name, allowed, body) for group in (grammars, expressions, schemas) for name, allowed,
            c in group() if (body := c.body()) is not None]
    line = lambda body: b'{"prompt":"x","max_tokens":4,"temperature":0%s}\n' % (b"," + body if body else b"")
    d = tempfile.mkdtemp(prefix="hostile.")
    model, path = os.path.join(d, "m.gguf"), os.path.join(d, "in.jsonl")
    with open(model, "wb") as f: f.write(SPM.bytes())
    with open(path, "wb") as f:
        for _, _, body in rows:
            f.write(line((body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)[1:-1]).encode()) + line(b""))
    try:
        p = subprocess.run([opt.binary, "-m", model, "--batch", path, "-q"], stdin=subprocess.DEVNULL, capture_output=True,
                           timeout=600 * (20 if opt.no_limit else 1))
    except subprocess.TimeoutExpired:
        return "still running"
    finally:
        shutil.rmtree(d, ignore_errors=True)
    if p.returncode != 1: return "exit %d: %r" % (p.returncode, p.stderr[-300:])
    found = {}
    for x in map(json.loads, p.stdout.splitlines()): found.setdefault(x["line"], []).append(x)
    if sorted(found) != list(range(1, 2 * len(rows) + 1)) or any(len(x) > 1 for x in found.values()):
        return "%d records for %d lines" % (sum(map(len, found.values())), 2 * len(rows))
    for i, (name, allowed, _) in enumerate(rows):
        said = found[2 * i + 1][0]["error"]
        if said and not allowed & {2, 3} or not said and not allowed & {0, 1}: return "%s: %s" % (name, said)
        if found[2 * i + 2][0]["error"]: return "after %s: %s" % (name, found[2 * i + 2][0]["error"])
    return None


def run(opt):
    passed = failed = 0
    limit = 0 if opt.no_limit else 1 << 30
    groups = (goods, container, tensors, models, families, more_families, quirky, latent, parallel_families, assistants, recurrent,
              state_spaces, rwkvs, kimis, wholes, gemmas, splits, vocabularies, not_files, grammars,
              expressions, schemas)
    for name, allowed, case in (c for g in groups for c in g()):
        if opt.only and opt.only not in name: continue
        d = tempfile.mkdtemp(prefix="hostile.")
        if isinstance(case, (Constraint, Beside)): runs = case.runs(d)
        else: runs = on_file(place(case, d), name)
        start = time.time()
        faults = [(what, fault(opt.binary, args, allowed if what != "run" else allowed - {1} | ({0} if 1 in allowed else set()),
                               limit, what == "run", inp)) for what, args, inp in runs]
        bad = ["%s: %s" % f for f in faults if f[1]]
        passed, failed = passed + (not bad), failed + bool(bad)
        if bad or opt.verbose:
            print("%s %s%s" % ("FAIL" if bad else "ok  ", name, "".join("\n     " + b for b in bad)), flush=True)
        if opt.verbose and isinstance(case, Constraint): print("     %.2f s" % (time.time() - start))
        if bad and opt.keep and not callable(case) and not isinstance(case, Constraint):
            shutil.copytree(d, os.path.join(opt.keep, "%03d-" % failed + "".join(c if c.isalnum() else "_" for c in name)[:40]))
        shutil.rmtree(d, ignore_errors=True)
    if not opt.only or opt.only in "constraints in a batch":
        bad = batch_fault(opt)
        passed, failed = passed + (not bad), failed + bool(bad)
        if bad or opt.verbose:
            print("%s constraints in a batch%s" % ("FAIL" if bad else "ok  ", ": " + bad if bad else ""), flush=True)
    print("hostile: %d passed, %d failed" % (passed, failed))
    return 1 if failed or not passed else 0


def tiny(version, nul=False):
    """Every type in a few hundred bytes, for the fuzzer."""
    f = File(version)
    f.nul, f.align = nul, 64
    for k, t, v in (("u8", U8, 200), ("i8", I8, -3), ("u16", U16, 60000), ("i16", I16, -300), ("u32", U32, 1 << 31),
                    ("i32", I32, -5), ("f32", F32, 1.5), ("bool", BOOL, 1),
                    ("str", STR, "hello"), ("u64", U64, M64), ("i64", I64, -1 << 63), ("f64", F64, -2.25),
                    ("general.alignment", U32, 64), ("a.str", ARR, (STR, ["one", "", "three"])),
                    ("a.bool", ARR, (BOOL, [0, 1])), ("a.i16", ARR, (I16, [-1, 7])), ("a.f64", ARR, (F64, [0.5])),
                    ("a.none", ARR, (U64, []))):
        f.set(k, t, v)
    return f.add("t", [4, 2], T_F32, bytes(32)).add("u.weight", [32, 2], T_Q8_0, bytes(68)).bytes()


def corpus(d):
    for v in (1, 2, 3): open(os.path.join(d, "v%d.gguf" % v), "wb").write(tiny(v))
    open(os.path.join(d, "v1-nul.gguf"), "wb").write(tiny(1, True))
    f = File()
    for k in ("model", "bos_token_id", "eos_token_id"):
        f.set("tokenizer.ggml." + k, *[x for x in SPM.kv if x[0] == "tokenizer.ggml." + k][0][1:])
    words = spm_tokens()[:40]
    f.set("tokenizer.ggml.tokens", ARR, (STR, words)).set("tokenizer.ggml.scores", ARR, (F32, [0.0] * 40))
    f.set("tokenizer.ggml.token_type", ARR, (I32, [6] * 40))
    open(os.path.join(d, "vocab.gguf"), "wb").write(f.bytes())
    f = File().set("split.no", U16, 0).set("split.count", U16, 1).set("split.tensors.count", I32, 1)
    open(os.path.join(d, "split.gguf"), "wb").write(f.add("t", [8], T_F32, bytes(32)).bytes())
    f = File().set("general.file_type", U32, 40)            # 36 is I2_S
    for i, (t, n, size) in enumerate(((T_F16, 4, 8), (T_Q4_0, 32, 18), (14, 256, 210), (39, 32, 17), (T_I8, 3, 3), (T_I64, 1, 8), (36, 128, 64),
                                      (133, 32, 26), (137, 256, 76), (144, 256, 140), (145, 256, 72), (158, 256, 60))):
        f.add("t%d" % i, [n], t, bytes(size))
    open(os.path.join(d, "types.gguf"), "wb").write(f.bytes())
    open(os.path.join(d, "model.gguf"), "wb").write(wide(4, spm_tokens()[:24]))
    # the keys of a family, in front of a small vocabulary
    for m in ("gemma3", "gpt-oss", "mistral3", "granitemoe_shared", "qwen3vl"):
        f = family(m, "rope.freq_base_swa", F32, 1e4)
        f.tensors, f.kv = [], [x for x in f.kv if not x[0].startswith("tokenizer.")]
        f.set(f.get("general.architecture") + ".attention.sliding_window_pattern", ARR,
              (BOOL, [1, 0, 1, 1, 0, 1, 1][:f.get(f.get("general.architecture") + ".block_count")]))
        open(os.path.join(d, m + ".gguf"), "wb").write(f.set("tokenizer.ggml.tokens", ARR, (STR, ["a", "b", "c"])).bytes())
    open(os.path.join(d, "big-endian.gguf"), "wb").write(b"GGUF" + struct.pack(">IQQ", 3, 0, 0))


def main():
    p = argparse.ArgumentParser(description="malformed model files against the program itself")
    p.add_argument("binary", nargs="?")
    p.add_argument("--only", help="cases whose name holds this text")
    p.add_argument("--keep", help="directory for the files of failed cases")
    p.add_argument("--no-limit", action="store_true", help="no bound on memory, twenty times as long: for sanitizer builds")
    p.add_argument("--corpus", help="write the fuzzer's seeds into this directory and stop")
    p.add_argument("-v", "--verbose", action="store_true", help="good cases too")
    opt = p.parse_args()
    if opt.corpus: return corpus(opt.corpus)
    if not opt.binary: p.error("which binary?")
    if os.sep not in opt.binary: opt.binary = os.path.join(".", opt.binary)
    return run(opt)


if __name__ == "__main__":
    sys.exit(main())
