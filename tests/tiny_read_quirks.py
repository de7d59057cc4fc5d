"""Reading for tests/tiny_check.py of decoders that have a step or two of their own: gates of attention's output, norms in other places, xIELU,
layers without attention, layers that run several times, routers that read earlier or weigh otherwise.
"""
import numpy as np

import tiny_read_decoders
from tiny_read import Model, softmax
from tiny_read_decoders import Decoder, gelu, relu2, silu, slopes


def relu(x):
    return np.maximum(x, 0)


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def gelu_exact(x):
    from math import erf
    return 0.5 * x * (1 + np.vectorize(erf)(x / np.sqrt(2)))


# Beside what tests/tiny_read_decoders.py tells: still: layers without a window do not rotate; first: the first of `every` layers has no window
# late: norms of Q and K come after the rotation; sum, post: names of the norms before the feed-forward and after the blocks
# embed: a norm of the embeddings without gain; early: the router reads the stream that attention reads; mixer: two experts, one after the other
# scales: of embeddings, logits and scores, where no key tells them; times: logits are multiplied by their scale
AROUND = dict(post=("post_attention_norm.weight", "post_ffw_norm.weight"))
OWN = dict(still=False, first=False, late=False, post=(None, None), embed=False, early=False, mixer=False, scales=(1.0, 1.0, 0.0), times=False)
ARCHS = {
    "openelm": {},
    "exaone4": dict(AROUND, still=True, every=4),
    "exaone-moe": dict(still=True, every=4, sigmoid=True, normed=False),
    "hunyuan-dense": dict(late=True), "hunyuan_vl": dict(late=True), "hunyuan-moe": dict(late=True), "maincoder": dict(late=True, pairs=True),
    "mpt": dict(act=gelu_exact), "dbrx": dict(ffn_norm="attn_output_norm"),
    "afmoe": dict(AROUND, still=True, every=4, root=True, sigmoid=True, normed=False),
    "laguna": dict(first=True, every=4, plain=True, sigmoid=True),
    "muse-glimmer": dict(AROUND, still=True, every=4, embed=True, pairs=True, times=True),
    "bitnet": {}, "bitnet-b1.58": dict(act=relu2), "apertus": {},
    "smallthinker": dict(act=relu, still=True, first=True, every=4, early=True),
    "plamo3": dict(every=8, plain=True, base=10000.0, post=("post_attention_norm", "post_ffw_norm")),
    "talkie": dict(embed=True, times=True),
    "grok": dict(act=gelu, times=True, post=("attn_output_norm.weight", "post_ffw_norm.weight layer_output_norm.weight"),
                 scales=(78.38367176906169, 0.5773502691896257, 0.08838834764831845)),
    "phimoe": dict(mixer=True),
    "deci": dict(pairs=True), "nanbeige": dict(pairs=True), "grovemoe": {},
}
tiny_read_decoders.ARCHS.update(ARCHS)
PER_LAYER = ("attention.head_count", "attention.head_count_kv", "feed_forward_length")


class Quirky(Decoder):
    guesses = Model.guesses
    FAULTS = Decoder.FAULTS + [
        "no gate", "other gate", "gates of the next head", "no sub norms", "no xielu bend", "xielu epsilon", "alphas as they are", "skip of the stream",
        "no head gains", "experts of the normed stream", "softmax of all for the mixer", "no softcap of the router", "dense beside left out",
        "loops once", "no norm between loops", "adjugates of the next group", "no adjugates", "post norms' epsilon",
        "linear layer left out", "no alpha", "slopes of 8", "no bare norm of embeddings", "logits divided",
    ]

    def __init__(self, f, **kw):
        self.il, self.in_window = 0, False
        super().__init__(f, **kw)
        self.meta, self.file_key = f.meta, self.key
        self.has = dict(OWN, **self.has)
        if self.fault == "other activation" and self.has["act"] is gelu_exact:
            self.has["act"] = silu                      # GELU by tanh is too near it
        self.layers = f.meta[self.arch + ".block_count"] - f.meta.get(self.arch + ".nextn_predict_layers", 0)
        self.key = self.key_here

    def key_here(self, k, default=None):
        """The key of the layer at hand."""
        if k == "rope.dimension_count" and self.in_window:
            k = k + "_swa" if self.arch + "." + k + "_swa" in self.meta else k
        v = self.file_key(k, default)
        if k == "rope.freq_base" and self.file_key("rope.scaling.alpha", 0.0) and self.fault != "no alpha":
            return v * self.file_key("rope.scaling.alpha") ** (self.hd / (self.hd - 2))
        return v[self.il] if k in PER_LAYER and isinstance(v, list) else v

    # --- layers ---
    def windowed(self, il):
        pattern = self.key("attention.sliding_window_pattern", self.has["every"])
        if not isinstance(pattern, list) and self.has["first"] and pattern:
            return il % pattern != 0 if self.fault != "window from the first" else (il + 1) % pattern != 0
        return (il + 1) % self.has["every"] != 0 if isinstance(pattern, list) and il >= len(pattern) else super().windowed(il)

    def rope_init(self, local):
        self.in_window = local
        super().rope_init(local)

    def enter(self, il):
        self.il = il
        if not self.key("attention.head_count"):
            return
        super().enter(il)
        self.hd_v = self.key("attention.value_length", self.hd)
        windows = self.key("attention.sliding_window", 0) > 0
        if self.arch == "afmoe" or windows and self.has["still"]:
            if not self.windowed(il) and self.fault != "rope in every layer":
                self.freq, self.gain = np.zeros(self.rot // 2), 1.0
        if self.arch == "mpt":
            self.freq, self.gain = np.zeros(self.rot // 2), 1.0
        self.alibi = self.key("attention.max_alibi_bias", 0.0)

    # --- attention ---
    def bare_norm(self, x, eps=None):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + (self.eps if eps is None else eps))

    def layer_norm_qk(self, name, y):
        if name + ".weight" not in self.w:
            return y
        y = y - y.mean(-1, keepdims=True)
        return y / np.sqrt((y * y).mean(-1, keepdims=True) + self.eps) * self.w[name + ".weight"] + self.bias(name)

    def heads_of(self, b, name, y):
        """Norm and rotation of queries or keys [n, width]"""
        late = self.has["late"] != (self.fault == "q/k norm after rope")
        if self.arch == "mpt":
            return self.layer_norm_qk(b + name, y)
        if self.arch == "talkie":
            y = self.turn(y, y).reshape(len(y), -1, self.hd)
            y = y if self.fault == "no " + name else self.bare_norm(y)
            gain = self.w[b + "attn_q_norm.weight"] if name == "attn_q_norm" and self.fault != "no head gains" else np.ones((1, 1))
            return (y * gain).reshape(len(y), -1)
        return self.qk_norm(b + name, self.turn(y, y)) if late else self.turn(y, self.qk_norm(b + name, y))

    def qkv(self, b, x):
        n, q_rows, kv_rows = len(x), self.heads * self.hd, self.kv * self.hd
        if b + "attn_qkv.weight" in self.w:
            q, k, v = np.split(self.mul(b + "attn_qkv", x), [q_rows, q_rows + kv_rows], axis=-1)
        else:
            q, k, v = (self.mul(b + "attn_" + c, x) for c in "qkv")
        if self.fault == "keys and values swapped":
            k, v = v, k
        clamp = self.key("attention.clamp_kqv", 0.0)
        if clamp and self.fault != "no clamp":
            q, k, v = (np.clip(y, -clamp, clamp) for y in (q, k, v))
        q, k = self.heads_of(b, "attn_q_norm", q), self.heads_of(b, "attn_k_norm", k)
        return q.reshape(n, -1, self.hd), k.reshape(n, -1, self.hd), v.reshape(n, -1, self.hd_v)

    def score_scale(self):
        return self.key("attention.output_scale", self.has["scales"][2]) or 1 / np.sqrt(self.hd)

    def attend(self, b, x):
        if not self.key("attention.head_count_kv"):
            return self.mul(b + "attn_output", x) * (self.fault != "linear layer left out")
        n = len(x)
        q, k, v = self.qkv(b, x)
        out, p = np.empty((n, self.heads, self.hd_v)), np.arange(n)
        seen = p[None] <= p[:, None]
        if self.window:
            seen &= p[:, None] - p[None] < self.window
        cap = self.key("attn_logit_softcapping", 30.0 if self.arch == "grok" else 0.0)
        for h in range(self.heads):
            g = h % self.kv if self.fault == "head grouping" else h * self.kv // self.heads
            s = q[:, h] @ k[:, g].T * self.score_scale() * self.or_else("score scale", 1, 0.8)
            s = cap * np.tanh(s / cap) if cap and self.fault != "no attention cap" else s
            if self.alibi and self.fault != "no slopes":
                of = (h + 1) % self.heads if self.fault == "slopes of the next head" else h
                bias = 8.0 if self.fault == "slopes of 8" else self.alibi
                s = s - slopes(self.heads)[of] ** (bias / 8) * (p[:, None] - p[None])
            out[:, h] = softmax(np.where(seen, s, -np.inf)) @ v[:, g]
        out = self.gated(b, x, out)
        return self.mul(b + "attn_output", self.norm_if(b + "attn_sub_norm", out))

    def gated(self, b, x, out):
        """[n, heads, hd] -> [n, heads * hd]"""
        n = len(x)
        if b + "attn_gate.weight" in self.w and self.fault != "no gate":
            gate = self.mul(b + "attn_gate", x)
            soft = (self.arch == "laguna") != (self.fault == "other gate")
            gate = softplus(gate) if soft else 1 / (1 + np.exp(-gate))
            if gate.shape[1] == self.heads:
                out = out * np.roll(gate, self.fault == "gates of the next head", axis=1)[:, :, None]
            else:
                out = (out.reshape(n, -1) * np.roll(gate, self.hd * (self.fault == "gates of the next head"), axis=1)).reshape(out.shape)
        return out.reshape(n, -1)

    def norm_if(self, name, y):
        if name.endswith("sub_norm") and self.fault == "no sub norms":
            return y
        if self.arch == "talkie":
            bare = name.endswith(("attn_norm", "ffn_norm", "output_norm"))
            return self.bare_norm(y) if bare and self.fault != "no bare norms" else y
        return super().norm_if(name, y)

    # --- feed-forward ---
    def xielu(self, x):
        n, p, beta, eps = (self.meta["xielu." + k][self.il] for k in ("alpha_n", "alpha_p", "beta", "eps"))
        n, p = (n, p) if self.fault == "alphas as they are" else (beta + softplus(n), softplus(p))
        eps = self.or_else("xielu epsilon", eps, -1.0)
        low = np.minimum(x, eps)
        bent = 0 if self.fault == "no xielu bend" else np.expm1(low) - x
        return np.where(x > 0, p * x * x, n * bent) + beta * x

    def dense(self, b, x):
        up = self.mul(b + "ffn_up", x)
        if self.arch == "apertus":
            return self.mul(b + "ffn_down", self.xielu(up))
        if b + "ffn_gate.weight" in self.w:
            up = self.activate(self.mul(b + "ffn_gate", x), up)
        elif up.shape[-1] == 2 * self.w[b + "ffn_down.weight"].shape[1]:
            up = self.activate(*np.split(up, 2, axis=-1))
        else:
            up = self.has["act"](up)
        return self.mul(b + "ffn_down", self.norm_if(b + "ffn_sub_norm", up))

    def feed(self, b, x):
        if b + "ffn_gate_inp.weight" not in self.w:
            return self.dense(b, x)
        y = self.experts(b, x)
        if b + "ffn_up.weight" in self.w and self.fault != "dense beside left out":
            y = (y + self.dense(b, x)) * np.sqrt(0.5)
        return y

    def two(self, logits):
        """SparseMixer in use: the best, then the best of the others, each with its softmax among those within 2 % of it."""
        left, picks, weights = logits.copy(), [], []
        for _ in range(2):
            best = int(np.argmax(left))
            top = left[best]
            near = (top - left) / np.maximum(np.abs(logits), top) <= 0.02
            weights.append(1 / np.exp(left[near] - top).sum())
            picks.append(best)
            left[best] = -np.inf
        return picks, weights

    def choose(self, b, x):
        if self.has["early"] and self.fault != "experts of the normed stream":
            x = self.entered
        cap = self.key("router_logit_softcapping", 0.0)
        if self.has["mixer"] and self.fault != "softmax of all for the mixer":
            logits = x @ self.w[b + "ffn_gate_inp.weight"].T
            order = -np.sort(-logits, axis=1)
            self.gaps.append(order[:, 1] - order[:, 2])
            return [self.two(row) for row in logits]
        if cap and self.fault != "no softcap of the router":
            return self.choose_of(cap * np.tanh(x @ self.w[b + "ffn_gate_inp.weight"].T / cap))
        return super().choose(b, x)

    def choose_of(self, logits):
        for row in softmax(logits):
            best = np.argsort(-row)[:self.used]
            self.gap.append(-np.sort(-row)[self.used - 1:self.used + 1])
            yield best, row[best] / row[best].sum()

    def experts(self, b, x):
        self.gap = []
        chosen = [(list(e), list(w)) for e, w in self.choose(b, x)]
        if self.gap:
            self.gaps.append(np.array([g[0] - g[1] for g in self.gap]))
        y = np.zeros_like(x)
        for t, (best, weights) in enumerate(chosen):
            for e, weight in zip(best, weights):
                y[t] += weight * self.one(b, "exps", e, x[t])
                if b + "ffn_up_chexps.weight" in self.w and self.fault != "no adjugates":
                    share, n = self.key("experts_per_group"), len(self.w[b + "ffn_up_chexps.weight"])
                    group = (e // share + (self.fault == "adjugates of the next group")) % n
                    y[t] += self.key("expert_group_scale") * weight * self.one(b, "chexps", group, x[t])
        if b + "ffn_up_shexp.weight" in self.w and self.fault != "no shared expert":
            y += self.mul(b + "ffn_down_shexp", self.activate(self.mul(b + "ffn_gate_shexp", x), self.mul(b + "ffn_up_shexp", x)))
        return y

    def one(self, b, kind, e, x):
        gate, up, down = (self.w["%sffn_%s_%s.weight" % (b, part, kind)][e] for part in ("gate", "up", "down"))
        return down @ self.activate(gate @ x, up @ x)

    # --- the model ---
    def post(self, b, which, y):
        for name in (self.has["post"][which] or "").split():
            if b + name in self.w and self.fault != "no " + name.split(".")[0]:
                eps = 1e-8 if self.arch == "muse-glimmer" and self.fault != "post norms' epsilon" else self.eps
                return self.bare_norm(y, eps) * self.w[b + name]
        return y

    def layer(self, b, x):
        self.enter(int(b.split(".")[1]))
        self.entered = x
        if self.key("attention.head_count"):
            x = x + self.post(b, 0, self.attend(b, self.norm_if(b + "attn_norm", x)))
        if any(n.startswith(b + "ffn_") for n in self.w):
            x = x + self.post(b, 1, self.feed(b, self.norm_if(b + self.has["ffn_norm"], x)))
        if b + "layer_output_scale.weight" in self.w:
            x = x + self.w[b + "layer_output_scale.weight"] * (x if self.fault == "skip of the stream" else self.embedded)
        return x

    def mul(self, name, x):
        factor = self.w.get(name + ".scale", 1)
        return self.times(name, x, self.w[name + ".weight"]) * factor + self.bias(name)

    def hidden(self, ids):
        x = self.w["token_embd.weight"][ids]
        scale = np.sqrt(x.shape[-1]) if self.has["root"] else self.key("embedding_scale", self.has["scales"][0])
        x = x * self.or_else("no embedding scale", scale, 1)
        x = self.bare_norm(x) if self.has["embed"] and self.fault != "no bare norm of embeddings" else x
        if "position_embd.weight" in self.w and self.fault != "no positions":
            x = x + self.w["position_embd.weight"][np.arange(len(ids)) + (self.fault == "positions one off")]
        self.embedded = x
        loops = self.or_else("loops once", self.key("num_loops", 1), 1)
        for loop in range(loops):
            if loop and not self.key("skip_loop_final_norm", False) and self.fault != "no norm between loops":
                x = self.norm("output_norm", x)
            for i in range(self.layers):
                x = self.layer("blk.%d." % i, x)
        return self.norm_if("output_norm", x)

    def logits(self, ids):
        x = self.mul("output" if "output.weight" in self.w else "token_embd", self.hidden(ids))
        scale = self.key("logit_scale", self.has["scales"][1])
        scale = self.or_else("no logit scale", scale, 1)
        return self.cap(x / scale if self.fault == "logits divided" else x * scale)


READERS = dict.fromkeys(ARCHS, Quirky)
