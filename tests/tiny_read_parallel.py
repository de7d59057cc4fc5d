"""Reading for tests/tiny_check.py of decoders whose attention and feed-forward read the stream side by side, and of Llama 4."""
import numpy as np

from tiny_read_decoders import PLAIN, Decoder, gelu, gelu_erf

# as in tiny_read_decoders; local: only layers with a window rotate, and dense ones in front of those with experts; first: the first of so
# many layers has no window; mean: a feed-forward is the mean of the chosen experts and the shared one; aside: experts read what attention reads
ARCHS = {
    "command-r": dict(pairs=True, times=True),
    "cohere2": dict(pairs=True, times=True, every=4, local=True),
    "cohere2moe": dict(pairs=True, times=True, sigmoid=True, normed=False, local=True, mean=True),
    "falcon": dict(act=gelu_erf), "gptneox": dict(act=gelu_erf), "phi2": dict(act=gelu), "plamo": {}, "stablelm": {},
    "gptj": dict(act=gelu, pairs=True),
    "arctic": dict(pairs=True, aside=True),
}


class Parallel(Decoder):
    PLAIN, ARCHS = dict(PLAIN, local=False, mean=False, aside=False), ARCHS
    FAULTS = Decoder.FAULTS + ["feed-forward after attention", "feed-forward beside attention", "norms of attention and feed-forward swapped",
                               "gains of the first head", "sum of experts", "rope in no dense layer", "experts after attention"]

    def enter(self, il):
        super().enter(il)
        dense = il < self.key("leading_dense_block_count", 0) and self.fault != "rope in no dense layer" or il >= self.layers
        if self.has["local"] and not self.windowed(il) and not dense and self.fault != "rope in every layer":
            self.freq = np.zeros(self.rot // 2)

    def windowed(self, il):
        return il < self.layers and super().windowed(il)             # a draft head sees all positions

    def qk_norm(self, name, x):
        gain = self.w.get(name + ".weight")
        if gain is None or gain.ndim == 1 or self.fault == "no " + name.split(".")[-1]:
            return super().qk_norm(name, x)
        y = x.reshape(len(x), -1, self.hd)
        y = y - y.mean(-1, keepdims=True) * (self.fault != "mean not subtracted")
        y = y / np.sqrt((y * y).mean(-1, keepdims=True) + self.or_else("norm epsilon", self.eps, 0.1))
        gain = self.or_else("gains of the first head", gain, gain[:1])
        return (y * {"no norm gains": 1, "gains 1 + g": 1 + gain}.get(self.fault, gain)).reshape(x.shape)

    def experts(self, b, x):
        y = super().experts(b, x)
        return y / 2 if self.has["mean"] and self.fault != "sum of experts" else y

    def norms_of(self, b):
        """(attention's, feed-forward's) names."""
        names = (b + "attn_norm", b + ("ffn_norm" if b + "ffn_norm.weight" in self.w else "attn_norm"))
        names = (b + "attn_norm_2", b + "attn_norm") if b + "attn_norm_2.weight" in self.w else names
        return names[::-1] if self.fault == "norms of attention and feed-forward swapped" else names

    def dense(self, b, x):
        return self.mul(b + "ffn_down", self.activate(self.mul(b + "ffn_gate", x), self.mul(b + "ffn_up", x)))

    def layer(self, b, x):
        self.enter(int(b.split(".")[1]))
        first, second = self.norms_of(b)
        attended = x + self.attend(b, self.norm(first, x))
        if self.has["aside"]:
            read = self.or_else("experts after attention", x, attended)
            return attended + self.dense(b, self.norm(second, attended)) + self.experts(b, self.norm(b + "ffn_norm_exps", read))
        beside = self.key("use_parallel_residual", True) if self.arch == "gptneox" else b + "ffn_norm.weight" not in self.w
        beside = {"feed-forward after attention": False, "feed-forward beside attention": True}.get(self.fault, beside)
        return attended + self.feed(b, self.norm(second, x if beside else attended))


class Llama4(Decoder):
    ARCHS = {"llama4": dict(pairs=True, every=4, sigmoid=True, normed=False)}
    FAULTS = Decoder.FAULTS + ["a window, not a chunk", "chunks of one more", "no norm after rope", "norm in every layer", "temperature in every layer",
                               "temperature one position late", "weight after the expert", "rope in full layers"]

    def enter(self, il):
        super().enter(il)
        self.chunks = self.windowed(il) and self.window > 0
        open_ = self.key("attention.sliding_window", 8192) == 0
        self.turns = (self.windowed(il) or open_) or self.fault in ("rope in full layers", "rope in every layer")
        if not self.turns:
            self.freq = np.zeros(self.rot // 2)

    def turn(self, like, y):
        y = super().turn(like, y)
        if self.fault == "no norm after rope" or not (self.turns or self.fault == "norm in every layer") or self.key("expert_count", 0) == 128:
            return y
        z = y.reshape(len(y), -1, self.hd)
        return (z / np.sqrt((z * z).mean(-1, keepdims=True) + self.or_else("norm epsilon", self.eps, 0.1))).reshape(y.shape)

    def temper(self, q):
        scale, length = self.key("attention.temperature_scale", 0.1), self.key("attention.temperature_length", 8192)
        if self.turns and self.fault != "temperature in every layer" or self.fault == "no temperature":
            return q
        at = np.arange(len(q)) + 1 - (self.fault == "temperature one position late") + (self.fault == "temperature one position early")
        return q * (1 + scale * np.log(1 + (at / length if self.fault == "temperature without the floor" else at // length)))[:, None, None]

    def scores(self, q, k):
        s = super().scores(q, k)
        if not self.chunks or self.fault == "a window, not a chunk":
            return s
        at = np.arange(len(q)) // (self.window + (self.fault == "chunks of one more"))
        window, self.window = self.window, 0
        s = super().scores(q, k)
        self.window = window
        return np.where(at[:, None] == at[None], s, -np.inf)

    def experts(self, b, x):
        if self.fault == "weight after the expert":
            return super().experts(b, x)
        w = self.w
        y = self.mul(b + "ffn_down_shexp", self.activate(self.mul(b + "ffn_gate_shexp", x), self.mul(b + "ffn_up_shexp", x)))
        y = np.zeros_like(x) if self.fault == "no shared expert" else y
        for t, (best, weights) in enumerate(self.choose(b, x)):
            for e, weight in zip(best, weights):
                read = weight * x[t]
                gate, up = (self.times(b + n, read, w[b + n + ".weight"][e]) for n in ("ffn_gate_exps", "ffn_up_exps"))
                y[t] += self.times(b + "ffn_down_exps", self.activate(gate, up), w[b + "ffn_down_exps.weight"][e])
        return y


READERS = dict(dict.fromkeys(ARCHS, Parallel), llama4=Llama4)
