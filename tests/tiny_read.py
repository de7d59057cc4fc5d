"""A float64 forward pass in numpy, written from the file format alone: what tests/tiny_check.py reads models with.

Needs numpy, and gguf for the block formats (not its reader: the container is parsed here). The rotation works on the file's own rows,
pairs for `llama` and halves for the others, so a wrong permutation at conversion cannot hide.
"""
import struct

import numpy as np

NP_TYPES = ["u1", "i1", "<u2", "<i2", "<u4", "<i4", "<f4", "?", None, None, "<u8", "<i8", "<f8"]
SIZES = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 10: (256, 84), 11: (256, 110),
         12: (256, 144), 13: (256, 176), 14: (256, 210), 16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50),
         20: (32, 18), 26: (1, 4), 21: (256, 110), 22: (256, 82), 23: (256, 136), 29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66),
         39: (32, 17), 40: (64, 36), 41: (128, 18), 42: (64, 18)}


# --- the container --------------------------------------------------------------------------------------------------
class File:
    def __init__(self, path):
        self.b, self.at = open(path, "rb").read(), 4
        assert self.b[:4] == b"GGUF" and self.take("<I") == 3
        n_tensors, n_keys = self.take("<Q"), self.take("<Q")
        self.meta = {}
        for _ in range(n_keys):
            key = self.text()
            self.meta[key] = self.value(self.take("<I"))
        infos = [self.info() for _ in range(n_tensors)]
        align = self.meta.get("general.alignment", 32)
        base = -(-self.at // align) * align
        self.types = {n: t for n, _, t, _ in infos}
        self.tensors = {n: weights(self.b, base + at, dims, t) for n, dims, t, at in infos}

    def take(self, fmt):
        v = struct.unpack_from(fmt, self.b, self.at)[0]
        self.at += struct.calcsize(fmt)
        return v

    def text(self):
        n = self.take("<Q")
        self.at += n
        return self.b[self.at - n:self.at].decode()

    def value(self, t):
        if t == 8:
            return self.text()
        if t == 9:
            elem, n = self.take("<I"), self.take("<Q")
            return [self.value(elem) for _ in range(n)]
        dt = np.dtype(NP_TYPES[t])
        self.at += dt.itemsize
        return np.frombuffer(self.b, dt, 1, self.at - dt.itemsize)[0].item()

    def info(self):
        name, nd = self.text(), self.take("<I")
        dims = [self.take("<Q") for _ in range(nd)]
        return name, dims, self.take("<I"), self.take("<Q")


def weights(b, at, dims, t):
    """float64 array, slowest dimension first."""
    block, size = SIZES[t]
    shape = dims[::-1]
    raw = np.frombuffer(b, "u1", int(np.prod(dims)) // block * size, at)
    if t in (0, 1):
        return raw.view("<f4" if t == 0 else "<f2").astype(np.float64).reshape(shape)
    if t == 26:
        return raw.view("<i4").reshape(shape)
    blk = raw.reshape(-1, size)
    if t == 41:
        codes = np.unpackbits(blk[:, 2:], axis=1, bitorder="little") * 2.0 - 1
    elif t == 42:
        codes = np.stack([(blk[:, 2:] >> s) & 3 for s in (0, 2, 4, 6)], axis=2).reshape(len(blk), 64) - 1.0
    else:
        from gguf import quants
        from gguf.constants import GGMLQuantizationType
        return quants.dequantize(blk, GGMLQuantizationType(t)).astype(np.float64).reshape(shape)
    return (codes * blk[:, :2].copy().view("<f2").astype(np.float64)).reshape(shape)


DIFFUSES = ("dream", "llada", "llada-moe")          # positions see those after them, too: answers are decoded by diffusion


# --- the model ------------------------------------------------------------------------------------------------------
class Model:
    """fault: one wrong reading of the file, see FAULTS. act8, kv16: roundings that a runner may do."""
    FAULTS = ["rope kind", "rope base", "no rope scaling", "no frequency factors", "no yarn ramp", "no yarn magnitude", "no window",
              "window one longer", "window one shorter", "score scale", "head grouping", "no norm gains", "norm epsilon", "no q/k norm",
              "no norms after blocks", "no biases", "gelu for silu", "expert weights normed", "no shared expert",
              "shared expert ungated"]

    def __init__(self, f, fault="", act8=False, kv16=False):
        self.w, self.types, self.fault, self.act8, self.kv16 = f.tensors, f.types, fault, act8, kv16
        self.arch = f.meta["general.architecture"]

        def key(k, default=None):
            v = f.meta.get(self.arch + "." + k, default)
            assert v is not None, k
            return v
        self.key, self.layers = key, key("block_count") - key("nextn_predict_layers", 0)
        self.eps = key("attention.layer_norm_rms_epsilon")
        self.used = key("expert_used_count", 0)

    def enter(self, il):
        """The sizes of layer il."""
        def each(k, default=None):
            v = self.key(k, default)
            return v[il] if isinstance(v, list) else v
        self.heads, self.kv = each("attention.head_count"), each("attention.head_count_kv")
        self.hd = each("attention.key_length", self.key("embedding_length") // self.heads)
        self.window = each("attention.sliding_window", 0)
        if self.window:
            self.window += {"window one longer": 1, "window one shorter": -1, "no window": -self.window}.get(self.fault, 0)
        self.rope_init(self.key)

    def rope_init(self, key):
        """Angle per position of each pair, and the magnitude of cos and sin."""
        n, base = self.hd, key("rope.freq_base", 10000.0)
        base = 1.5 * base if self.fault == "rope base" else base
        self.gain, kind, factor = 1.0, key("rope.scaling.type", "none"), key("rope.scaling.factor", 1.0)
        f = base ** (-np.arange(0, n, 2) / n)
        if "rope_freqs.weight" in self.w and self.fault != "no frequency factors":
            f = f / self.w["rope_freqs.weight"]
        if kind == "linear" and self.fault != "no rope scaling":
            f = f / factor
        if kind == "yarn" and self.fault != "no rope scaling":
            ctx = key("rope.scaling.original_context_length")
            lo, hi = (n * np.log(ctx / (rot * 2 * np.pi)) / (2 * np.log(base)) for rot in (32, 1))
            lo, hi = max(np.floor(lo), 0), min(np.ceil(hi), n - 1)
            ramp = np.clip((np.arange(n // 2) - lo) / max(hi - lo, 0.001), 0, 1)
            ramp = ramp * 0 + 1 if self.fault == "no yarn ramp" else ramp
            f = f / factor * ramp + f * (1 - ramp)
            self.gain = (1 + 0.1 * np.log(factor)) * key("rope.scaling.attn_factor", 1.0)
            self.gain = 1.0 if self.fault == "no yarn magnitude" else self.gain
        self.freq = f

    def mul(self, name, x):
        w = self.w[name + ".weight"]
        if self.act8 and self.types[name + ".weight"] not in (0, 1, 30):
            x = round_act(x)
        y = x @ w.T
        bias = self.w.get(name + ".bias")
        return y if bias is None or self.fault == "no biases" else y + bias

    def norm(self, name, x):
        eps = 1e-2 if self.fault == "norm epsilon" else self.eps
        y = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
        return y if self.fault == "no norm gains" else y * self.w[name + ".weight"]

    def norm_if(self, name, y):
        """A norm before or after a block, in files that have it."""
        left_out = self.fault == "no norms after blocks" and ".post_" in name
        return y if left_out or name + ".weight" not in self.w else self.norm(name, y)

    def rope(self, x):
        """x [n, heads, hd]"""
        angle = np.arange(len(x))[:, None] * self.freq
        cos, sin = self.gain * np.cos(angle)[:, None], self.gain * np.sin(angle)[:, None]
        pairs = (self.arch in ("llama", "llada")) != (self.fault == "rope kind")
        a, b = (x[..., 0::2], x[..., 1::2]) if pairs else np.split(x, 2, axis=-1)
        a, b = a * cos - b * sin, a * sin + b * cos
        return np.stack([a, b], -1).reshape(x.shape) if pairs else np.concatenate([a, b], -1)

    def attend(self, b, x):
        n = len(x)
        q = self.mul(b + "attn_q", x).reshape(n, self.heads, self.hd)
        k = self.mul(b + "attn_k", x).reshape(n, self.kv, self.hd)
        v = self.mul(b + "attn_v", x).reshape(n, self.kv, self.hd)
        if b + "attn_q_norm.weight" in self.w and self.fault != "no q/k norm":
            q, k = self.norm(b + "attn_q_norm", q), self.norm(b + "attn_k_norm", k)
        q, k = self.rope(q), self.rope(k)
        if self.kv16:
            k, v = k.astype(np.float16).astype(float), v.astype(np.float16).astype(float)
        p = np.arange(n)
        seen = (p[None] <= p[:, None]) | (self.arch in DIFFUSES)
        if self.window:
            seen &= p[:, None] - p[None] < self.window
        scale = 1 / np.sqrt(self.hd) if self.fault != "score scale" else 1 / self.hd ** 0.45
        out = np.empty_like(q)
        for h in range(self.heads):
            g = h % self.kv if self.fault == "head grouping" else h * self.kv // self.heads
            s = np.where(seen, q[:, h] @ k[:, g].T * scale, -np.inf)
            out[:, h] = softmax(s) @ v[:, g]
        return self.mul(b + "attn_output", out.reshape(n, -1))

    def act(self, x):
        if self.fault == "gelu for silu":
            return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))
        return x / (1 + np.exp(-x))

    def feed(self, b, x):
        if b + "ffn_gate_inp.weight" not in self.w:
            return self.mul(b + "ffn_down", self.act(self.mul(b + "ffn_gate", x)) * self.mul(b + "ffn_up", x))
        prob = softmax(x @ self.w[b + "ffn_gate_inp.weight"].T)
        y = np.zeros_like(x)
        normed = (self.arch not in ("qwen2moe", "llada-moe")) != (self.fault == "expert weights normed")
        for t in range(len(x)):
            best = np.argsort(-prob[t])[:self.used]
            w = prob[t, best] / (prob[t, best].sum() if normed else 1)
            for e, we in zip(best, w):
                y[t] += we * self.expert(b, e, x[t:t + 1])[0]
        if b + "ffn_gate_inp_shexp.weight" in self.w and self.fault != "no shared expert":
            s = self.mul(b + "ffn_down_shexp", self.act(self.mul(b + "ffn_gate_shexp", x)) * self.mul(b + "ffn_up_shexp", x))
            gate = 1 / (1 + np.exp(-(x @ self.w[b + "ffn_gate_inp_shexp.weight"])))
            y += s * (1 if self.fault == "shared expert ungated" else gate[:, None])
        return y

    def expert(self, b, e, x):
        def mul(name, v):
            if self.act8 and self.types[b + name + ".weight"] not in (0, 1, 30):
                v = round_act(v)
            return v @ self.w[b + name + ".weight"][e].T
        return mul("ffn_down_exps", self.act(mul("ffn_gate_exps", x)) * mul("ffn_up_exps", x))

    LAST_NORM = "output_norm"

    def layer(self, b, x):
        self.enter(int(b.split(".")[1]))
        x = x + self.norm_if(b + "post_attention_norm", self.attend(b, self.norm_if(b + "attn_norm", x)))
        if any(n.startswith(b + "ffn_") for n in self.w):
            x = x + self.norm_if(b + "post_ffw_norm", self.feed(b, self.norm_if(b + "ffn_norm", x)))
        return x

    def hidden(self, ids):
        """What the head reads, [n, D]."""
        x = self.w["token_embd.weight"][ids]
        for i in range(self.layers):
            x = self.layer("blk.%d." % i, x)
        return self.norm(self.LAST_NORM, x)

    def logits(self, ids):
        return self.mul("output" if "output.weight" in self.w else "token_embd", self.hidden(ids))

    # --- draft heads ---
    GUESS_FAULTS = ["token and state swapped", "state of the same position", "state not normed", "token not normed",
                    "token before the last", "own state not fed back", "state before the last norm fed back", "keys of the text left out",
                    "no block"]

    def head(self, ids, before):
        """The draft head (NextN, as llama.cpp arranges it): row p reads token p and the state `before` it.
        -> the stream behind the block, and the state that the next row may read [n, D]"""
        b, fault = "blk.%d." % self.layers, self.fault
        own = b + "nextn.embed_tokens.weight"
        e = self.w[own if own in self.w else "token_embd.weight"][ids]
        e = e if fault == "token not normed" else self.norm(b + "nextn.enorm", e)
        h = before if fault == "state not normed" else self.norm(b + "nextn.hnorm", before)
        x = self.mul(b + "nextn.eh_proj", np.concatenate([h, e] if fault == "token and state swapped" else [e, h], axis=1))
        if fault == "keys of the text left out":
            x = np.concatenate([self.layer(b, x[i:i + 1]) for i in range(len(x))])
        elif fault != "no block":
            x = self.layer(b, x)
        last = [n for n in (b + "nextn.shared_head_norm", b + "layer_output_norm", self.LAST_NORM) if n + ".weight" in self.w]
        return x, self.norm(last[0], x)

    def guesses(self, ids, own):
        """Logits [own, V] of the last `own` tokens of ids, each a guess of the token after it. The model has read those before them;
        the first of them reads its state, each further one what the head has left of the one before."""
        n, output = len(ids) - own, "blk.%d.nextn.shared_head_head" % self.layers
        ids = np.array(ids)
        if self.fault == "token before the last":
            ids = np.concatenate([ids[:1], ids[:-1]])
        h = self.hidden(ids[:n])
        before = np.zeros((len(ids), h.shape[1]))
        before[1:n + 1] = h
        if self.fault == "state of the same position":
            before[:n] = h
        for i in range(own):
            x, state = self.head(ids, before)
            if i + 1 < own and self.fault != "own state not fed back":
                before[n + i + 1] = (x if self.fault == "state before the last norm fed back" else state)[n + i]
        return self.mul(output if output + ".weight" in self.w else "output" if "output.weight" in self.w else "token_embd", state[n:])


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def round_act(x):
    """Rows to int8 with a scale per 256, and back."""
    y = x.copy()
    for at in range(0, x.shape[-1], 256):
        part = x[..., at:at + 256]
        d = np.abs(part).max(-1, keepdims=True) / 127
        y[..., at:at + 256] = np.rint(part / np.where(d > 0, d, 1)) * d
    return y


def nmse(got, want):
    return ((got - want) ** 2).sum() / (want ** 2).sum()


def kls(got, want):
    """KL divergence of each row."""
    p, q = softmax(want), softmax(got)
    return (p * (np.log(p) - np.log(q))).sum(-1)
