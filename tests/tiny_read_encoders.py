"""The second reading of encoders: bert, nomic-bert, nomic-bert-moe, jina-bert-v2, jina-bert-v3, modern-bert, gemma-embedding, eurobert,
llama-embed, neo-bert and t5encoder in numpy, float64.

tests/encoders_check.py holds the models of tests/data/encoders/embed.txt against it. transformers has no class for nomic-bert-moe,
jina-bert-v2 and neo-bert: their golden values are this reading, written beside the code that their authors publish (modeling_hf_nomic_bert.py of
nomic-ai/nomic-bert-2048, modeling_bert.py of jinaai/jina-bert-implementation; of jinaai/jina-bert-v2-qk-post-norm for the variant that embeds
code: LayerNorm of all queries and of all keys before heads are split, attention's normed sum goes through layer_norm_1(x + sum), and
up_gated_layer holds up, then gated, of `up * gelu(gated)`). neo-bert: model.py of chandar-lab/NeoBERT, whose qkv holds query, key and value of
one head after the other. What they share with the others is held against transformers there.
"""
import math

import numpy as np

FAULTS = ["causal", "no window", "window everywhere", "window on the wrong layers", "window one longer", "window one shorter", "one-sided window",
          "rope pairs", "rope base", "bases exchanged", "half rope", "no rope", "no token types", "token types of the second text", "no positions", "positions one later",
          "no norm of embeddings", "norm of the embeddings missing its bias", "rms for layer norm", "norm epsilon", "norm before for after", "norm in layer 0", "no final norm",
          "score scale", "gelu tanh", "gelu for silu", "silu for gelu", "gate and up exchanged", "no biases", "no slopes", "slopes of a power of two", "slopes causal", "slopes before the scale",
          "expert weights normed", "softmax of the chosen", "no embedding scale", "no q/k norm", "norm after rope", "no norms after blocks", "head grouping",
          "no dense layers", "dense layers exchanged",
          "joined by kind", "q/k norm of each head", "q/k norm without a bias", "q/k norm exchanged", "no second norm", "second norm of one sum", "second norm behind the feed-forward", "first norm left out",
          "no distances", "distances one way", "distances exchanged", "distances linear", "distances beyond the reach", "relu for gelu"]


def erf(x):
    return np.vectorize(math.erf, otypes=[float])(x)


def gelu_erf(x):
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def silu(x):
    return x / (1 + np.exp(-x))


def slopes(n, whole=True):
    """ALiBi: a geometric row for the largest power of two, every other one of twice as many for the rest."""
    p = 2 ** int(math.log2(n))
    return np.array([2.0 ** (-8 * (h + 1) / p) if h < p or not whole else 2.0 ** (-4 * (2 * (h - p) + 1) / p) for h in range(n)])


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def bucket(far, n, both=True, reach=128, linear=False, ends=True):
    """The bucket of a distance, key - query, of n (Raffel et al. 2020): half of those of a side are for one distance each, the others
    for ranges that grow up to `reach`."""
    at = 0
    if both:
        n //= 2
        at, far = n * (far > 0), np.abs(far)
    else:
        far = np.maximum(-far, 0)
    exact = n // 2
    wide = exact + np.floor(np.log(np.maximum(far, 1) / exact) / np.log(reach / exact) * (n - exact) + 1e-9).astype(int)
    wide = exact + (far - exact) // 4 if linear else wide
    return at + np.where(far < exact, far, np.minimum(wide, n - 1) if ends else wide % n)


class Encoder:
    def __init__(self, f, fault=""):
        self.w, self.fault, self.arch = f.tensors, fault, f.meta["general.architecture"]
        self.key = lambda k, default=None: f.meta.get(self.arch + "." + k, default)
        self.gemma, self.modern, self.neo = self.arch == "gemma-embedding", self.arch == "modern-bert", self.arch == "neo-bert"
        self.t5 = self.arch == "t5encoder"
        self.plain = self.neo or self.arch in ("eurobert", "llama-embed", "t5encoder")
        self.blk = "enc.blk.%d." if self.t5 else "blk.%d."
        self.rms = self.gemma or self.plain
        self.heads = self.key("attention.head_count")
        self.kv = self.key("attention.head_count_kv", self.heads)
        self.hd = self.key("attention.key_length", self.key("embedding_length") // self.heads)
        self.eps = self.key("attention.layer_norm_rms_epsilon" if self.rms else "attention.layer_norm_epsilon")
        self.eps = 1e-2 if fault == "norm epsilon" else self.eps
        self.gaps = []

    # --- parts ---
    def norm(self, name, x):
        w, b = self.w[name + ".weight"], self.w.get(name + ".bias", 0)
        mean = 0 if self.rms or self.fault == "rms for layer norm" else x.mean(-1, keepdims=True)
        b = 0 if self.fault == "norm of the embeddings missing its bias" and name == "token_embd_norm" else b
        return (x - mean) / np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + self.eps) * w + b

    def mul(self, name, x):
        y = x @ self.w[name + ".weight"].T
        return y if self.fault == "no biases" else y + self.w.get(name + ".bias", 0)

    def windowed(self, il):
        if not self.key("attention.sliding_window", 0) or self.fault == "no window":
            return False
        every = self.key("attention.sliding_window_pattern", 3 if self.modern else 6)
        if isinstance(every, list):
            return every[il]
        first = self.modern != (self.fault == "window on the wrong layers")
        return self.fault == "window everywhere" or il % every != (0 if first else every - 1)

    def mask(self, il, n):
        d = np.arange(n)[:, None] - np.arange(n)
        seen = d >= 0 if self.fault == "causal" else d == d
        if self.windowed(il):
            half = self.key("attention.sliding_window") // 2 + {"window one longer": 1, "window one shorter": -1}.get(self.fault, 0)
            seen = seen & (d <= half) & (d >= (0 if self.fault == "one-sided window" else -half))
        return np.where(seen, 0.0, -np.inf)

    def rope(self, il, x):
        """x [n, heads, hd]: rotates element i with i + hd/2."""
        if self.arch in ("bert", "jina-bert-v2", "t5encoder") or self.fault == "no rope":
            return x
        local = self.windowed(il) != (self.fault == "bases exchanged")
        base = self.key("rope.freq_base_swa", 10000.0) if local and (self.modern or self.gemma) else self.key("rope.freq_base", 10000.0)
        base = 1.5 * base if self.fault == "rope base" else base
        n, hd = x.shape[0], x.shape[2]
        turned = hd // 2 if self.fault == "half rope" else hd
        at = np.arange(n)[:, None] * base ** (-np.arange(0, turned, 2) / turned)
        cos, sin = np.cos(at)[:, None], np.sin(at)[:, None]
        y = x.copy()
        if (self.fault == "rope pairs") != (self.arch in ("neo-bert", "llama-embed")):
            a, b = x[..., 0:turned:2], x[..., 1:turned:2]
            y[..., 0:turned:2], y[..., 1:turned:2] = a * cos - b * sin, a * sin + b * cos
        else:
            a, b = x[..., :turned // 2], x[..., turned // 2:turned]
            y[..., :turned // 2], y[..., turned // 2:turned] = a * cos - b * sin, a * sin + b * cos
        return y

    def qkv(self, b, x):
        n, sizes = len(x), np.cumsum([self.heads * self.hd, self.kv * self.hd])
        if self.neo and self.fault != "joined by kind":
            q, k, v = self.mul(b + "attn_qkv", x).reshape(n, self.heads, 3, self.hd).swapaxes(0, 2).swapaxes(1, 2)
        elif b + "attn_qkv.weight" in self.w:
            q, k, v = np.split(self.mul(b + "attn_qkv", x), sizes, axis=1)
        else:
            q, k, v = (self.mul(b + "attn_" + c, x) for c in "qkv")
        return q.reshape(n, self.heads, self.hd), k.reshape(n, self.kv, self.hd), v.reshape(n, self.kv, self.hd)

    def code(self, b):
        """Whether a layer is of jina-bert-v2's variant for code."""
        return b + "attn_norm_2.weight" in self.w

    def norm_wide(self, b, c, x):
        """[n, heads, hd] of queries or keys, normed over all heads."""
        if self.fault == "no q/k norm":
            return x
        name = b + "attn_%s_norm" % ("qk"[c == "q"] if self.fault == "q/k norm exchanged" else c)
        if self.fault == "q/k norm of each head":
            parts = zip(np.split(self.w[name + ".weight"], x.shape[1]), np.split(self.w[name + ".bias"], x.shape[1]))
            return np.stack([(v - v.mean(-1, keepdims=True)) / np.sqrt(v.var(-1, keepdims=True) + self.eps) * g + a for v, (g, a) in zip(x.swapaxes(0, 1), parts)], axis=1)
        flat = self.norm(name, x.reshape(len(x), -1)) - (self.w[name + ".bias"] if self.fault == "q/k norm without a bias" else 0)
        return flat.reshape(x.shape)

    def place(self, il, b, q, k):
        """Norms of each head, and positions."""
        if self.code(b):
            return self.norm_wide(b, "q", q), self.norm_wide(b, "k", k)
        steps = [lambda c, x: self.norm(b + "attn_%s_norm" % c, x) if self.gemma and self.fault != "no q/k norm" else x, lambda c, x: self.rope(il, x)]
        for step in steps[::-1] if self.fault == "norm after rope" else steps:
            q, k = step("q", q), step("k", k)
        return q, k

    def distances(self, b, n):
        """[heads, n, n]: biases of scores, from the layer's own table or that of the first layer."""
        far, rows = np.arange(n) - np.arange(n)[:, None], self.key("attention.relative_buckets_count")
        w = self.w.get(b + "attn_rel_b.weight", self.w[self.blk % 0 + "attn_rel_b.weight"])
        far = -far if self.fault == "distances exchanged" else far
        return w[bucket(far, rows, self.fault != "distances one way", linear=self.fault == "distances linear",
                        ends=self.fault != "distances beyond the reach")].transpose(2, 0, 1)

    def attention(self, il, x):
        b, n = self.blk % il, len(x)
        q, k, v = self.qkv(b, x)
        q, k = self.place(il, b, q, k)
        group = self.heads // self.kv
        of = [h % self.kv if self.fault == "head grouping" else h // group for h in range(self.heads)]
        bias = np.zeros((self.heads, n, n))
        if self.arch == "jina-bert-v2" and self.fault != "no slopes":
            far = np.abs(np.arange(n)[:, None] - np.arange(n))
            far = np.where(np.arange(n)[:, None] < np.arange(n), 0, far) if self.fault == "slopes causal" else far
            bias = -slopes(self.heads, self.fault != "slopes of a power of two")[:, None, None] * far
        if self.t5 and self.fault != "no distances":
            bias = self.distances(b, n)
        out = np.empty((n, self.heads, self.hd))
        scale = (1 if self.t5 else 1 / math.sqrt(self.hd)) * (0.5 if self.fault == "score scale" else 1)
        for h in range(self.heads):
            s = q[:, h] @ k[:, of[h]].T
            s = (s + bias[h]) * scale if self.fault == "slopes before the scale" else s * scale + bias[h]
            out[:, h] = softmax(s + self.mask(il, n)) @ v[:, of[h]]
        return self.mul(b + ("attn_o" if self.t5 else "attn_output"), out.reshape(n, -1))

    def act(self):
        gated = self.blk % 0 + "ffn_gate.weight" in self.w
        if self.t5:
            return gelu_tanh if gated and self.fault not in ("relu for gelu", "silu for gelu") else silu if self.fault == "silu for gelu" else lambda x: np.maximum(x, 0)
        name = self.key("hidden_activation", "gelu") if self.modern else "silu" if self.plain or self.arch == "nomic-bert" else "tanh" if self.gemma else "gelu"
        name = {"gelu tanh": "tanh" if name == "gelu" else name, "gelu for silu": "gelu" if name == "silu" else name, "silu for gelu": "silu"}.get(self.fault, name)
        return {"gelu": gelu_erf, "tanh": gelu_tanh, "silu": silu}[name]

    def experts(self, b, x):
        w, used = self.w, self.key("expert_used_count")
        scores = x @ w[b + "ffn_gate_inp.weight"].T
        p, out = softmax(scores), np.zeros_like(x)
        top = np.argsort(-scores, axis=1)
        ordered = -np.sort(-p, axis=1)
        self.gaps.append(ordered[:, used - 1] - ordered[:, used])
        for r in range(len(x)):
            chosen = top[r, :used]
            share = {"expert weights normed": p[r, chosen] / p[r, chosen].sum(), "softmax of the chosen": softmax(scores[r, chosen])}.get(self.fault, p[r, chosen])
            for e, g in zip(chosen, share):
                out[r] += g * (self.act()(w[b + "ffn_up_exps.weight"][e] @ x[r]) @ w[b + "ffn_down_exps.weight"][e].T)
        return out

    def ffn(self, b, x):
        if b + "ffn_gate_inp.weight" in self.w:
            return self.experts(b, x)
        up = self.mul(b + "ffn_up", x)
        if b + "ffn_gate.weight" in self.w:
            gate = self.mul(b + "ffn_gate", x)
        elif up.shape[1] == 2 * self.w[b + "ffn_down.weight"].shape[1]:
            gate, up = np.split(up, 2, axis=1)
        else:
            return self.mul(b + "ffn_down", self.act()(up))
        joined = b + "ffn_gate.weight" not in self.w
        gate, up = (up, gate) if (self.fault == "gate and up exchanged") != (joined and self.code(b)) else (gate, up)
        return self.mul(b + "ffn_down", self.act()(gate) * up)

    # --- the model ---
    def embed(self, ids):
        x = self.w["token_embd.weight"][ids]
        if self.gemma and self.fault != "no embedding scale":
            x = x * math.sqrt(x.shape[1])
        if "token_types.weight" in self.w and self.fault != "no token types":
            x = x + self.w["token_types.weight"][-1 if self.fault == "token types of the second text" else 0]
        if "position_embd.weight" in self.w and self.fault != "no positions":
            x = x + self.w["position_embd.weight"][np.arange(len(ids)) + (self.fault == "positions one later")]
        return self.norm("token_embd_norm", x) if "token_embd_norm.weight" in self.w and self.fault != "no norm of embeddings" else x

    def layer_around(self, il, x):
        """bert, nomic, jina: a norm of the sum behind each half; in jina's variant for code two of them behind attention."""
        b = "blk.%d." % il
        if self.code(b):
            return self.layer_code(il, b, x)
        if self.fault == "norm before for after":
            x = x + self.attention(il, self.norm(b + "attn_output_norm", x))
            return x + self.ffn(b, self.norm(b + "layer_output_norm", x))
        x = self.norm(b + "attn_output_norm", x + self.attention(il, x))
        return self.norm(b + "layer_output_norm", x + self.ffn(b, x))

    def layer_code(self, il, b, x):
        a = self.attention(il, x)
        a = a if self.fault == "first norm left out" else self.norm(b + "attn_output_norm", x + a)
        late = self.fault == "second norm behind the feed-forward"
        if self.fault != "no second norm" and not late:
            a = self.norm(b + "attn_norm_2", a if self.fault == "second norm of one sum" else x + a)
        y = self.norm(b + "layer_output_norm", a + self.ffn(b, a))
        return self.norm(b + "attn_norm_2", x + y) if late else y

    def layer_before(self, il, x):
        """modern-bert, gemma: a norm before each half, in gemma another one behind it; the first layer of modern-bert has none before attention."""
        b = self.blk % il
        post = lambda name, y: self.norm(b + name, y) if self.gemma and self.fault != "no norms after blocks" else y
        inner = self.norm(b + "attn_norm", x) if b + "attn_norm.weight" in self.w else self.norm("token_embd_norm", x) if self.fault == "norm in layer 0" else x
        x = x + post("post_attention_norm", self.attention(il, inner))
        return x + post("post_ffw_norm", self.ffn(b, self.norm(b + "ffn_norm", x)))

    def hidden(self, ids):
        """[n, embd]: a row for each token, behind the final norm where there is one."""
        x, self.gaps = self.embed(ids), []
        for il in range(self.key("block_count")):
            x = (self.layer_before if self.rms or self.modern else self.layer_around)(il, x)
        last = "enc.output_norm" if self.neo or self.t5 else "output_norm"
        return self.norm(last, x) if last + ".weight" in self.w and self.fault != "no final norm" else x

    def vector(self, pooled):
        """What follows pooling: the dense layers of gemma-embedding, then the length becomes 1."""
        if "dense_2.weight" in self.w and self.fault != "no dense layers":
            a, b = self.w["dense_2.weight"], self.w["dense_3.weight"]
            pooled = pooled @ b @ a if self.fault == "dense layers exchanged" else b @ (a @ pooled)
        return pooled / np.linalg.norm(pooled)

    def scores(self, hidden):
        """Of a model with a classifier: of the first token in bert, of the mean in modern-bert."""
        if self.modern:
            x = self.norm("cls.norm", gelu_erf(self.mul("cls", hidden.mean(0))))
        else:
            x = np.tanh(self.mul("cls", hidden[0]))
        return self.mul("cls.output", x)

    def vectors(self, hidden):
        """mean, cls and last."""
        return [self.vector(p) for p in (hidden.mean(0), hidden[0], hidden[-1])]
