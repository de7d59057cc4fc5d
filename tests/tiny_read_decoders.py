"""Reading for tests/tiny_check.py of decoders that differ from Llama in what ARCHS tells."""
import math

import numpy as np

from tiny_read import Model, round_act, softmax

EXACT = (0, 1, 30)                                              # F32, F16, BF16: activations stay as they are


def erf(x):
    return np.vectorize(math.erf, otypes=[float])(x)


def gelu_erf(x):
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


def silu(x):
    return x / (1 + np.exp(-x))


def relu2(x):
    return np.maximum(x, 0) ** 2


def slopes(n):
    """ALiBi: powers of 2^(-8/p) for the largest power of two p, then every second one of those for 2 p."""
    p = 1 << (n.bit_length() - 1)
    return np.array([2.0 ** (-8 * (h + 1) / p) if h < p else 2.0 ** (-4 * (2 * (h - p) + 1) / p) for h in range(n)])


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


# act; pairs: the two values that rotate together are adjacent; every: of so many layers the last has no window, if the file has no pattern
# plain: windowed layers rotate without scaling, with a base of their own if the file tells one (base: what it is otherwise)
# root: embeddings are scaled by the root of their size; ffn_norm: name of the norm before the feed-forward; nope: of so many layers the last
# does not rotate; wide: files of so many layers scale scores by the root of the embedding's size over the heads
# fine: YaRN's ramp begins and ends between pairs; normed: the weights of the chosen experts add up to 1; clip: of the activations
# sigmoid: scores of experts are sigmoids if no key says what they are; alibi: scores fall with the distance, in files of so many layers or (True)
# all; square: scores are divided by the size of a head; turned: heads have as many values as rotate; mup: scales where no key tells them
# times: logits are multiplied by logit_scale; whole: all of a head rotates and there is no window, whatever keys tell
# half: layers without a window rotate half of what the others do; chain: draft heads read the stream before the last norm, one for each guess
# alone: a group's score is that of its best expert, where scores are softmax and no bias counts for the choice
PLAIN = dict(act=silu, pairs=False, every=1, plain=False, base=0, root=False, ffn_norm="ffn_norm", nope=0, wide=0, fine=False, normed=True, clip=0,
             sigmoid=False, alibi=False, square=False, turned=False, mup=False, whole=False, alone=False, half=False, chain=False, times=False)
ARCHS = {
    "gemma": dict(act=gelu, root=True),
    "gemma2": dict(act=gelu, root=True, every=2, wide=46),
    "gemma3": dict(act=gelu, root=True, every=6, wide=62, plain=True, base=10000.0),
    "gpt-oss": dict(every=2, ffn_norm="post_attention_norm", fine=True, clip=7.0),
    "phi3": dict(every=0),
    "mistral3": dict(pairs=True), "granite": dict(pairs=True), "granitemoe": dict(pairs=True), "smollm3": dict(pairs=True, nope=4),
    "olmo2": dict(every=4, plain=True),
    "olmoe": dict(normed=False),
    "starcoder2": dict(act=gelu), "gpt2": dict(act=gelu),
    "seed_oss": dict(ffn_norm="post_attention_norm"),
    "qwen3vl": {}, "qwen3vlmoe": {},
    "glm4": dict(pairs=True), "chatglm": dict(pairs=True),
    "glm4moe": dict(ffn_norm="post_attention_norm", sigmoid=True, normed=False),
    "minimax-m2": dict(sigmoid=True), "minimax-m3": dict(sigmoid=True, clip=7.0, normed=False),
    "ernie4_5": dict(pairs=True), "ernie4_5-moe": dict(pairs=True), "paddleocr": {},
    "dots1": dict(sigmoid=True, normed=False), "hy_v3": dict(sigmoid=True),
    "qwen2vl": {}, "qwen": {}, "exaone": {}, "orion": {}, "pangu-embedded": {},
    "internlm2": dict(pairs=True), "xverse": dict(pairs=True), "baichuan": dict(pairs=True, alibi=40),
    "minicpm": dict(pairs=True, mup=True),
    "nemotron": dict(act=relu2), "jais2": dict(act=relu2), "arcee": dict(act=relu2, pairs=True),
    "deepseek": dict(pairs=True, normed=False), "deepseek2-ocr": dict(normed=False, whole=True),
    "bailingmoe": dict(pairs=True, normed=False, turned=True),
    "olmo": dict(pairs=True),
    "starcoder": dict(act=gelu), "codeshell": dict(act=gelu), "bloom": dict(act=gelu, alibi=True),
    "refact": dict(alibi=True), "jais": dict(alibi=True, square=True),
    "mellum": dict(plain=True, every=4),
    "deepseek2": dict(pairs=True, normed=False, alone=True), "mistral4": dict(pairs=True, normed=False), "minicpm3": dict(mup=True),
    "deepseek32": dict(pairs=True, normed=False), "glm-dsa": dict(pairs=True, normed=False),
    "plm": dict(pairs=True, act=relu2), "kimi-linear": dict(pairs=True),
    "bailingmoe2": dict(sigmoid=True, normed=False),
    "mimo2": dict(plain=True, sigmoid=True, chain=True), "step35": dict(plain=True, sigmoid=True, normed=False, half=True, chain=True),
}
NORMS = ["attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm", "attn_q_norm", "attn_k_norm", "output_norm", "token_embd_norm"]
BIASES = {"attn_q": "attn_q attn_k attn_v attn_qkv", "attn_output": "attn_output", "ffn": "ffn_up ffn_down", "router": "ffn_gate_inp",
          "gates of experts": "ffn_gate_exps", "ups of experts": "ffn_up_exps", "downs of experts": "ffn_down_exps",
          "norms": "attn_norm ffn_norm output_norm"}
BIAS_OF = {slot: "no bias: " + what for what, slots in BIASES.items() for slot in slots.split()}


class Decoder(Model):
    PLAIN, ARCHS = PLAIN, ARCHS
    FAULTS = [
        "window one longer", "window one shorter", "no window", "window everywhere", "window on the wrong layers", "window from the first",
        "no attention cap", "no final cap", "final cap of the scores", "cap before the scale", "no sinks", "sinks of the next head",
        "sink with a value", "rope kind", "rope base", "whole rope for partial", "rope of the last part", "one rope table", "tables swapped",
        "rope in every layer", "no rope", "rope left out in the wrong layers", "no rope scaling", "scaling in every layer", "no yarn ramp",
        "no yarn magnitude", "ramp rounded or not", "default betas", "no logarithmic multiplier", "long and short factors swapped", "no factors",
        "no longrope magnitude", "no temperature", "temperature one position early", "temperature without the floor",
        "no positions", "positions one off", "no embedding scale", "no residual scale", "no attention scale", "no logit scale",
        "logits times the scale", "score scale", "size of a head in every file", "head grouping", "no norm gains", "gains 1 + g", "norm epsilon", "norm at the other place",
        "q/k norm of the other width", "q/k norm after rope", "mean not subtracted", "other activation", "gate and up swapped",
        "no clip", "clip of gates alone", "clip of ups alone", "sigmoid of the gate", "ups without 1", "softmax over all experts",
        "expert weights normed or not", "one expert fewer", "no shared expert", "keys and values swapped", "other scores of experts",
        "no choice bias", "choice bias in the weights", "no expert scale", "no groups", "one group fewer", "groups by one expert or two",
        "groups without the choice bias", "no slopes", "slopes of the next head", "no clamp", "no bare norms",
        "no value scale", "no gates of heads", "gates of the next head", "no cut", "cut before the activation", "cut of the wrong kind",
        "halves in the wrong layers",
        "all blocks", "one block fewer", "one block more", "the last block not chosen first", "the mean of a block", "blocks one position late",
        "blocks of the next head", "queries of the indexer without norm", "keys of the indexer without norm", "indexer without rope",
    ] + ["no " + n for n in NORMS] + ["no bias: " + what for what in BIASES]

    guesses = None                                              # draft heads are left out

    def __init__(self, f, **kw):
        key = "%s.attention.layer_norm_" % f.meta["general.architecture"]
        self.centred = key + "epsilon" in f.meta
        f.meta.setdefault(key + "rms_epsilon", f.meta.get(key + "epsilon"))
        super().__init__(f, **kw)
        self.has = dict(self.PLAIN, **self.ARCHS[self.arch])
        self.gaps = []                                              # between the scores of the last chosen expert and the next one
        self.choices = []                                           # of each position, the same of an indexer
        self.see = None                                             # [key heads, n, n] what it chooses in this layer
        if self.fault == "other activation":
            self.has["act"] = silu if self.has["act"] in (gelu, gelu_erf) else gelu

    def or_else(self, fault, value, wrong):
        return wrong if self.fault == fault else value

    # --- layers: windows and rotations ---
    def windowed(self, il):
        pattern = self.key("attention.sliding_window_pattern", self.has["every"])
        if isinstance(pattern, list):
            return pattern[il]
        if self.fault == "window from the first":
            return pattern == 0 or il % pattern != 0
        return pattern == 0 or (il + 1) % pattern != 0

    def enter(self, il):
        key, each = self.key, lambda v: v[il] if isinstance(v, list) else v
        self.il, self.heads = il, each(key("attention.head_count"))
        self.kv, self.hd = each(key("attention.head_count_kv", self.heads)), key("attention.key_length", key("embedding_length") // self.heads)
        self.hd = key("rope.dimension_count") if self.has["turned"] else self.hd
        self.hd_v = key("attention.value_length", self.hd)
        self.cut, self.cut_always = (each(key("swiglu_clamp_" + of, 0.0)) for of in ("exp", "shexp"))
        if self.fault == "cut of the wrong kind":
            self.cut, self.cut_always = self.cut_always, self.cut
        self.alibi = self.has["alibi"] in (True, self.layers) and self.fault != "no slopes"
        local = self.windowed(il)
        self.window = 0 if self.has["whole"] else key("attention.sliding_window", 0)
        if self.window:
            seen = {"window everywhere": True, "no window": False, "window on the wrong layers": not local}.get(self.fault, local)
            self.window = (self.window + {"window one longer": 1, "window one shorter": -1}.get(self.fault, 0)) * seen
        own = self.has["plain"] and key("attention.sliding_window", 0) > 0
        local = {"one rope table": False, "tables swapped": not local}.get(self.fault, local) and own
        self.rope_init(local)
        nope = self.has["nope"] and (il + 1 - (self.fault == "rope left out in the wrong layers")) % self.has["nope"] == 0
        turns = "position_embd.weight" not in self.w and self.has["alibi"] not in (True, self.layers)
        if not turns or nope and self.fault != "rope in every layer" or self.fault == "no rope":
            self.freq = np.zeros(self.rot // 2)
            self.gain = 1.0

    def rope_init(self, local):
        key, fault = self.key, self.fault
        self.rot = self.hd if self.has["whole"] else self.or_else("whole rope for partial", key("rope.dimension_count", self.hd), self.hd)
        if self.has["half"] and (self.fault == "halves in the wrong layers") == self.windowed(self.il):
            self.rot //= 2
        base = key("rope.freq_base", 10000.0)
        if local:
            base = key("rope.freq_base_swa", self.has["base"] or base)
        base *= self.or_else("rope base", 1, 1.5)
        pair = np.arange(self.rot // 2)
        self.gain, self.freq = 1.0, base ** (-2 * pair / self.rot)
        if "rope_freqs.weight" in self.w and fault != "no factors":
            self.freq = self.freq / (1 if local and self.has["half"] else self.w["rope_freqs.weight"][:len(pair)])
        kind, factor = key("rope.scaling.type", "none"), key("rope.scaling.factor", 1.0)
        if fault == "no rope scaling" or local and fault != "scaling in every layer":
            return
        if kind == "linear":
            self.freq = self.freq / factor
        if kind == "yarn":
            self.yarn(base, factor)
        if "rope_factors_long.weight" in self.w:
            ctx = key("rope.scaling.original_context_length")
            name = "long" if key("context_length") > ctx and fault != "long and short factors swapped" else "short"
            factors = self.w["rope_factors_%s.weight" % name]
            factors = np.resize(factors, len(pair))
            self.freq = self.freq if fault == "no factors" else self.freq / factors
            self.gain = self.or_else("no longrope magnitude", key("rope.scaling.attn_factor", 1.0), 1.0)

    def yarn(self, base, factor):
        key, n = self.key, self.rot
        turns = [key("rope.scaling.yarn_beta_" + name, default) for name, default in (("fast", 32.0), ("slow", 1.0))]
        turns = self.or_else("default betas", turns, [32.0, 1.0])
        lo, hi = (n * np.log(key("rope.scaling.original_context_length") / (t * 2 * np.pi)) / (2 * np.log(base)) for t in turns)
        if self.has["fine"] == (self.fault == "ramp rounded or not"):
            lo, hi = np.floor(lo), np.ceil(hi)
        lo, hi = max(lo, 0), min(hi, n - 1)
        ramp = np.clip((np.arange(n // 2) - lo) / max(hi - lo, 0.001), 0, 1)
        ramp = self.or_else("no yarn ramp", ramp, np.ones(n // 2))
        self.freq = self.freq / factor * ramp + self.freq * (1 - ramp)
        of = self.or_else("no logarithmic multiplier", key("rope.scaling.yarn_log_multiplier", 0.0), 0.0)
        gain = (1 + 0.1 * np.log(factor)) / (1 + 0.1 * of * np.log(factor)) * key("rope.scaling.attn_factor", 1.0)
        self.gain = self.or_else("no yarn magnitude", gain, 1.0)

    def rope(self, x):
        """x [n, heads, hd]"""
        angle, half, y = np.arange(len(x))[:, None, None] * self.freq, self.rot // 2, x.copy()
        cos, sin = self.gain * np.cos(angle), self.gain * np.sin(angle)
        at = self.or_else("rope of the last part", 0, x.shape[-1] - self.rot)
        pairs = (self.has["pairs"] and not self.key("rope.dimension_sections", 0)) != (self.fault == "rope kind")
        one, two = (slice(at, at + self.rot, 2), slice(at + 1, at + self.rot, 2)) if pairs else (slice(at, at + half), slice(at + half, at + self.rot))
        y[..., one] = x[..., one] * cos - x[..., two] * sin
        y[..., two] = x[..., one] * sin + x[..., two] * cos
        return y

    # --- norms, matrices ---
    def norm(self, name, x):
        slot = name.split(".")[-1]
        if self.fault == "no " + slot:
            return x
        if self.centred and self.fault != "mean not subtracted":
            x = x - x.mean(-1, keepdims=True)
        gain = self.w.get(name + ".weight", 1)
        y = x / np.sqrt((x * x).mean(-1, keepdims=True) + self.or_else("norm epsilon", self.eps, 0.1))
        y = y * {"no norm gains": 1, "gains 1 + g": 1 + gain}.get(self.fault, gain)
        return y + self.bias(name)

    def bare(self):
        """Whether norms have neither gain nor bias."""
        return "output_norm.weight" not in self.w

    def norm_if(self, name, y):
        bare = self.bare() and name.endswith(("attn_norm", "ffn_norm", "output_norm")) and self.fault != "no bare norms"
        return self.norm(name, y) if bare or name + ".weight" in self.w else y

    def bias(self, name):
        missing = name + ".bias" not in self.w or self.fault == BIAS_OF.get(name.split(".")[-1])
        return 0 if missing else self.w[name + ".bias"]

    def times(self, name, x, w):
        return (round_act(x) if self.act8 and self.types[name + ".weight"] not in EXACT else x) @ w.T

    def mul(self, name, x):
        return self.times(name, x, self.w[name + ".weight"]) + self.bias(name)

    # --- attention ---
    def qkv(self, b, x):
        """-> q, k, v [n, heads, hd], normed and rotated"""
        n, q_rows, kv_rows = len(x), self.heads * self.hd, self.kv * self.hd
        if b + "attn_qkv.weight" in self.w:
            q, k, v = np.split(self.mul(b + "attn_qkv", x), [q_rows, q_rows + kv_rows], axis=-1)
        else:
            q, k, v = (self.mul(b + "attn_" + c, x) for c in "qkv")
        if self.fault == "keys and values swapped" and self.hd == self.hd_v:
            k, v = v, k
        clamp = self.key("attention.clamp_kqv", 0.0)
        if clamp and self.fault != "no clamp":
            q, k, v = (np.clip(y, -clamp, clamp) for y in (q, k, v))
        after = self.fault == "q/k norm after rope"
        q, k = (self.turn(y, self.qk_norm(b + name, y)) if not after else self.qk_norm(b + name, self.turn(y, y))
                for y, name in ((q, "attn_q_norm"), (k, "attn_k_norm")))
        return q.reshape(n, -1, self.hd), k.reshape(n, -1, self.hd), v.reshape(n, -1, self.hd_v)

    def turn(self, like, y):
        return self.rope(y.reshape(len(y), -1, self.hd)).reshape(like.shape)

    def qk_norm(self, name, x):
        """For each head if it is as wide as a head, else for all at once; x [n, width]"""
        if name + ".weight" not in self.w:
            return x
        gain = self.w[name + ".weight"]
        each = len(gain) == self.hd and self.fault != "q/k norm of the other width" or \
            len(gain) != self.hd and self.fault == "q/k norm of the other width"
        if self.fault == "no " + name.split(".")[-1]:
            return x
        y = x.reshape(len(x), -1, self.hd) if each else x
        y = y / np.sqrt((y * y).mean(-1, keepdims=True) + self.or_else("norm epsilon", self.eps, 0.1))
        gain = np.resize(gain, x.shape[-1])
        return y.reshape(x.shape) * {"no norm gains": 1, "gains 1 + g": 1 + gain}.get(self.fault, gain)

    def temper(self, q):
        scale, length = self.key("attention.temperature_scale", 0.0), self.key("rope.scaling.original_context_length", 1)
        if not scale or self.fault == "no temperature":
            return q
        at = np.arange(len(q)) + (self.fault == "temperature one position early")
        at = at / length if self.fault == "temperature without the floor" else at // length
        return q * (1 + scale * np.log(1 + at))[:, None, None]

    def scores(self, q, k):
        """of one head [n, n], capped and masked"""
        scale = self.key("attention.scale", 0.0)
        wide = self.has["wide"] == self.layers and self.fault != "size of a head in every file"
        scale = scale if scale and self.fault != "no attention scale" else np.sqrt(self.heads / self.key("embedding_length") if wide else 1 / self.hd)
        scale = scale ** 2 if self.has["square"] else scale
        scale *= self.or_else("score scale", 1, 0.8)
        cap = self.key("attn_logit_softcapping", 0.0)
        s = q @ k.T
        s = s if self.fault == "cap before the scale" else s * scale
        if cap and self.fault != "no attention cap":
            s = cap * np.tanh(s / cap)
        s = s * scale if self.fault == "cap before the scale" else s
        p = np.arange(len(q))
        seen = p[None] <= p[:, None]
        if self.window:
            seen &= p[:, None] - p[None] < self.window
        return np.where(seen, s, -np.inf)

    # --- an indexer: it chooses blocks of positions for each key head ---
    def best(self, scores, top):
        """[n, m] of each row the `top` best of the scores [n, m], of equal ones the first."""
        order = np.argsort(-scores, axis=1, kind="stable")
        chosen = np.zeros(scores.shape, bool)
        np.put_along_axis(chosen, order[:, :top], True, axis=1)
        if scores.shape[1] > top:
            last, refused = (np.take_along_axis(scores, order[:, at:at + 1], 1)[:, 0] for at in (top - 1, top))
            with np.errstate(invalid="ignore"):
                gap = (last - refused) / np.maximum(np.where(np.isfinite(scores), np.abs(scores), 0).max(1), 1e-30)
            self.choices.append(np.where(np.isfinite(last) & np.isfinite(refused), gap, 1.0))
        return chosen

    def index_heads(self, b, x, name):
        y = self.mul(b + "indexer.%s_proj" % name, x).reshape(len(x), -1, self.key("attention.indexer.key_length"))
        if self.fault != {"q": "queries", "k": "keys"}[name] + " of the indexer without norm":
            y = y / np.sqrt((y * y).mean(-1, keepdims=True) + self.eps) * self.w[b + "indexer.%s_norm.weight" % name]
        return y if self.fault == "indexer without rope" else self.rope(y)

    def chosen(self, b, x):
        """[key heads, n, n] which positions each one attends to; None: all before it"""
        if b + "indexer.q_proj.weight" not in self.w or self.fault == "all blocks":
            return None
        n, q, k = len(x), self.index_heads(b, x, "q"), self.index_heads(b, x, "k")[:, 0]
        top, size, local = (self.key("attention.indexer." + name) for name in ("top_k", "block_size", "local_blocks"))
        top += {"one block fewer": -1, "one block more": 1}.get(self.fault, 0)
        at, blocks = (np.arange(n) + (self.fault == "blocks one position late")) // size, (n + size) // size
        past, see = np.arange(n)[None] <= np.arange(n)[:, None], []
        for h in range(q.shape[1]):
            s, scores = np.where(past, q[:, h] @ k.T, -np.inf), np.full((n, blocks), -np.inf)
            for i in range(blocks):
                of = s[:, at == i]
                if self.fault == "the mean of a block" and of.shape[1]:
                    seen = np.isfinite(of)
                    scores[:, i] = np.where(seen.any(1), np.where(seen, of, 0).sum(1) / np.maximum(seen.sum(1), 1), -np.inf)
                elif of.shape[1]:
                    scores[:, i] = of.max(1)
                near = (at - i >= 0) & (at - i < local)
                scores[near & (self.fault != "the last block not chosen first"), i] = np.inf
            see.append(self.best(scores, top)[:, at] & past)
        return np.roll(see, self.fault == "blocks of the next head", axis=0)

    def attend(self, b, x):
        n = len(x)
        q, k, v = self.qkv(b, x)
        see = self.chosen(b, x)
        q = self.temper(q)
        if self.kv16:
            k, v = k.astype(np.float16).astype(float), v.astype(np.float16).astype(float)
        sinks = self.w.get(b + "attn_sinks.weight")
        if self.fault == "no sinks":
            sinks = None
        elif sinks is not None and self.fault == "sinks of the next head":
            sinks = np.roll(sinks, 1)
        out = np.empty((n, self.heads, self.hd_v))
        for h in range(self.heads):
            g = h % self.kv if self.fault == "head grouping" else h * self.kv // self.heads
            s, values = self.scores(q[:, h], k[:, g]), v[:, g]
            s = s if see is None else np.where(see[g], s, -np.inf)
            if self.alibi:
                of = (h + 1) % self.heads if self.fault == "slopes of the next head" else h
                s = s - slopes(self.heads)[of] * (np.arange(n)[:, None] - np.arange(n))
            if sinks is not None:
                s = np.concatenate([s, np.full((n, 1), sinks[h])], axis=1)
                values = np.concatenate([values, values[:1] * (self.fault == "sink with a value")])
            out[:, h] = softmax(s) @ values
        if b + "attn_gate.weight" in self.w and self.fault != "no gates of heads":
            gate = 1 / (1 + np.exp(-self.mul(b + "attn_gate", x)))
            out *= np.roll(gate, self.fault == "gates of the next head", axis=1)[:, :, None]
        out *= self.or_else("no value scale", self.key("attention.value_scale", 1.0), 1)
        return self.mul(b + "attn_output", out.reshape(n, -1))

    # --- feed-forward ---
    def activate(self, gate, up, cut=0):
        if self.fault == "gate and up swapped":
            gate, up = up, gate
        if cut and self.fault != "no cut":
            up, act = np.clip(up, -cut, cut), self.has["act"]
            return (act(np.minimum(gate, cut)) if self.fault == "cut before the activation" else np.minimum(act(gate), cut)) * up
        clip = 0 if self.fault == "no clip" else self.has["clip"]
        if not self.has["clip"]:
            return self.has["act"](gate) * up
        if clip and self.fault != "clip of ups alone":
            gate = np.minimum(gate, clip)
        if clip and self.fault != "clip of gates alone":
            up = np.clip(up, -clip, clip)
        return gate / (1 + np.exp(-self.or_else("sigmoid of the gate", 1.702, 1.0) * gate)) * (up + self.or_else("ups without 1", 1, 0))

    def feed(self, b, x):
        if b + "ffn_gate_inp.weight" in self.w:
            return self.experts(b, x)
        up = self.mul(b + "ffn_up", x)
        if b + "ffn_gate.weight" in self.w:
            return self.mul(b + "ffn_down", self.activate(self.mul(b + "ffn_gate", x), up, self.cut_always))
        joined = up.shape[-1] == 2 * self.w[b + "ffn_down.weight"].shape[1]
        return self.mul(b + "ffn_down", self.activate(*np.split(up, 2, axis=-1)) if joined else self.has["act"](up))

    def choose(self, b, x):
        """(chosen experts, their weights) of each row"""
        used = self.used - (self.fault == "one expert fewer")
        sigmoid = self.key("expert_gating_func", 0) or 1 + self.has["sigmoid"]
        scores = x @ self.w[b + "ffn_gate_inp.weight"].T + self.bias(b + "ffn_gate_inp")
        scores = 1 / (1 + np.exp(-scores)) if (sigmoid == 2) != (self.fault == "other scores of experts") else softmax(scores)
        bias = self.w.get(b + "exp_probs_b.bias", self.w.get(b + "exp_probs_b", 0))
        choice = scores + (0 if self.fault == "no choice bias" else bias)
        far = self.leave_groups(choice, bias, sigmoid)
        order = -np.sort(-choice, axis=1)
        self.gaps.append(np.minimum(order[:, used - 1] - order[:, used], far))
        for row, chosen in zip(scores, choice):
            best = np.argsort(-chosen)[:used]
            weights = (chosen if self.fault == "choice bias in the weights" else row)[best]
            normed = self.key("expert_weights_norm", self.has["normed"]) != (self.fault in ("expert weights normed or not", "softmax over all experts"))
            weights = weights / weights.sum() if normed else weights
            yield best, weights * self.or_else("no expert scale", self.key("expert_weights_scale", 0.0) or 1, 1)

    def leave_groups(self, choice, bias, gate):
        """Experts of all but the best groups are out of the choice. -> how far the last of these groups is above the next one"""
        n, used = self.key("expert_group_count", 0), self.key("expert_group_used_count", 0)
        if n < 2 or self.fault == "no groups":
            return np.inf
        used -= self.fault == "one group fewer" and (used - 1) * choice.shape[1] // n >= self.used
        alone = (self.has["alone"] and gate != 2 and np.ndim(bias) == 0) != (self.fault == "groups by one expert or two")
        of = choice - bias if self.fault == "groups without the choice bias" else choice
        score = np.sort(of.reshape(len(choice), n, -1), axis=-1)[..., -1 if alone else -2:].sum(-1)
        order = np.argsort(-score, axis=1)
        for row, groups in zip(choice, order):
            row.reshape(n, -1)[groups[used:]] = -np.inf
        score = -np.sort(-score, axis=1)
        return score[:, used - 1] - score[:, used]

    def experts(self, b, x):
        def mul(name, e, v):
            bias = self.bias(b + name)
            return self.times(b + name, v, self.w[b + name + ".weight"][e]) + (bias if np.ndim(bias) == 0 else bias[e])
        y = np.zeros_like(x)
        for t, (best, weights) in enumerate(self.choose(b, x)):
            for e, weight in zip(best, weights):
                y[t] += weight * mul("ffn_down_exps", e, self.activate(mul("ffn_gate_exps", e, x[t]), mul("ffn_up_exps", e, x[t]), self.cut))
        if b + "ffn_up_shexp.weight" in self.w and self.fault != "no shared expert":
            y += self.mul(b + "ffn_down_shexp", self.activate(self.mul(b + "ffn_gate_shexp", x), self.mul(b + "ffn_up_shexp", x), self.cut_always))
        return y

    # --- the model ---
    def block(self, f, x, before, after):
        """x + f(x), with the norms that the layer has."""
        has = [n + ".weight" in self.w for n in (before, after)]
        scale = self.key("residual_scale", 1.4 / np.sqrt(self.layers) if self.has["mup"] else 1.0)
        scale = self.or_else("no residual scale", scale, 1.0)
        if self.fault != "norm at the other place":
            return x + scale * self.norm_if(after, f(self.norm_if(before, x)))
        if all(has):
            return self.norm(after, x + scale * f(self.norm(before, x)))
        return x + scale * (f(self.norm(after, x)) if has[1] else self.norm(before, f(x)))

    def embed(self, ids):
        x = self.w["token_embd.weight" if "token_embd.weight" in self.w else "output.weight"][ids]
        scale = np.sqrt(x.shape[-1]) if self.has["root"] else self.key("embedding_scale", 12.0 if self.has["mup"] else 1.0)
        x = self.norm_if("token_embd_norm", x * self.or_else("no embedding scale", scale, 1))
        if "position_embd.weight" in self.w and self.fault != "no positions":
            x = x + self.w["position_embd.weight"][np.arange(len(ids)) + (self.fault == "positions one off")]
        return x

    def cap(self, x):
        cap = self.key("final_logit_softcapping", 0.0)
        cap = self.or_else("final cap of the scores", cap, self.key("attn_logit_softcapping", cap))
        return cap * np.tanh(x / cap) if cap and self.fault != "no final cap" else x

    def layer(self, b, x):
        self.enter(int(b.split(".")[1]))
        before_ffn = self.has["ffn_norm"]
        x = self.block(lambda y: self.attend(b, y), x, b + "attn_norm", b + ("post_attention_norm" if before_ffn == "ffn_norm" else "none"))
        return self.block(lambda y: self.feed(b, y), x, b + before_ffn, b + "post_ffw_norm")

    def stream(self, ids):
        """After the last layer, [n, D]."""
        x = self.embed(ids)
        for i in range(self.layers):
            x = self.layer("blk.%d." % i, x)
        return x

    def hidden(self, ids):
        return self.norm_if("output_norm", self.stream(ids))

    def logits(self, ids):
        return self.scaled(self.mul("output" if "output.weight" in self.w else "token_embd", self.hidden(ids)))

    def scaled(self, x):
        scale = self.key("logit_scale", self.key("embedding_length") / 256 if self.has["mup"] else 1.0)
        scale = self.or_else("no logit scale", scale, 1)
        x = x * scale if self.has["times"] != (self.fault == "logits times the scale") else x / scale
        return self.cap(x)

    # --- several draft heads, one for each guess ---
    @property
    def GUESS_FAULTS(self):
        return self.CHAIN_FAULTS if self.has["chain"] else super().GUESS_FAULTS

    CHAIN_FAULTS = ["token and state swapped", "state after the last norm", "state not normed", "token not normed", "one head for all guesses",
                    "own state not fed back", "state of the model for every row", "keys of the text left out", "another last norm", "no block"]

    def guesses(self, ids, own):
        """Head k makes guess k. Its rows of the text read the model's states; those of the guesses before it what the head before has left."""
        if not self.has["chain"]:
            return self.scaled(super().guesses(ids, own))
        n, fault, ids = len(ids) - own, self.fault, np.array(ids)
        h = (self.hidden if fault == "state after the last norm" else self.stream)(ids[:n])
        before, got = np.zeros((len(ids), h.shape[1])), []
        before[1:n + 1] = h
        for k in range(own):
            at = self.layers + (0 if fault == "one head for all guesses" else k)
            b, rows = "blk.%d." % at, n + k + 1
            e = self.w[b + "nextn.embed_tokens.weight" if b + "nextn.embed_tokens.weight" in self.w else "token_embd.weight"][ids[:rows]]
            e = e if fault == "token not normed" else self.norm(b + "nextn.enorm", e)
            s = before[:rows] if fault == "state not normed" else self.norm(b + "nextn.hnorm", before[:rows])
            x = self.mul(b + "nextn.eh_proj", np.concatenate([s, e] if fault == "token and state swapped" else [e, s], axis=1))
            if fault == "keys of the text left out":
                x = np.concatenate([self.layer(b, x[i:i + 1]) for i in range(rows)])
            elif fault != "no block":
                x = self.layer(b, x)
            norms = [b + "nextn.shared_head_norm", b + "layer_output_norm", "output_norm"]
            norms = norms[::-1] if fault == "another last norm" else norms
            output = b + "nextn.shared_head_head"
            y = self.norm(next(o for o in norms if o + ".weight" in self.w), x[-1:])
            got.append(self.mul(output if output + ".weight" in self.w else "output" if "output.weight" in self.w else "token_embd", y))
            if k + 1 < own and fault != "own state not fed back":
                before[n + k + 1] = h[-1] if fault == "state of the model for every row" else x[-1]
        return np.concatenate(got)


READERS = dict.fromkeys(ARCHS, Decoder)             # tests/tiny_read_latent.py has other ones for some
