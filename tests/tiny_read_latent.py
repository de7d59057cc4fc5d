"""Reading for tests/tiny_check.py of models with latent attention (MLA): every head has keys and values of its own, made of the latent ones."""
import numpy as np

from tiny_read import softmax
from tiny_read_decoders import Decoder
from tiny_read_recurrent import in_turn, l2_norm, sigmoid, silu


class Latent(Decoder):
    FAULTS = Decoder.FAULTS + [
        "no attn_q_a_norm", "no attn_kv_a_norm", "latent values normed with the rotated ones", "keys of the next head", "values of the next head",
        "values of heads first", "keys without the rotated part", "queries rotated at the front", "scores of the rank", "scores of the part that stays",
        "no yarn factor on scores", "yarn factor once", "yarn factor on cos and sin",
        "all positions", "one position fewer", "one position more", "products of both signs", "heads of the indexer weigh the same",
        "weights of the next head", "rope of the indexer in the other form", "keys of the indexer without mean",
        "keys of the indexer without bias", "the choice of the first layer",
    ]

    def __init__(self, f, **kw):
        super().__init__(f, **kw)
        self.has["sigmoid"] = "blk.3.exp_probs_b.bias" in self.w

    def enter(self, il):
        key = self.key
        self.il, self.window, self.alibi, self.cut, self.cut_always = il, 0, False, 0, 0
        self.heads, self.rank = key("attention.head_count"), key("attention.kv_lora_rank")
        self.hd = self.rot = key("rope.dimension_count")
        size = key("attention.key_length_mla", key("attention.key_length"))
        self.nope = size - self.rot
        self.v = key("attention.value_length_mla", key("attention.value_length", key("embedding_length") // self.heads))
        self.stretch = 1.0
        self.rope_init(False)
        self.scale = self.stretch / np.sqrt({"scores of the rank": self.rank + self.rot, "scores of the part that stays": self.nope}.get(self.fault, size))
        if self.fault == "no rope":
            self.freq, self.gain = np.zeros(self.rot // 2), 1.0

    def yarn(self, base, factor):
        super().yarn(base, factor)
        m = self.or_else("no logarithmic multiplier", self.key("rope.scaling.yarn_log_multiplier"), 0.0)
        self.gain = self.or_else("yarn factor on cos and sin", 1.0, 1 + 0.1 * np.log(factor))
        self.stretch = {"no yarn factor on scores": 1.0, "yarn factor once": 1 + m * np.log(factor)}.get(self.fault, (1 + m * np.log(factor)) ** 2)

    def queries(self, b, x):
        """[n, heads, nope + rot]"""
        if b + "attn_q_a.weight" in self.w:
            q = self.mul(b + "attn_q_b", self.norm(b + "attn_q_a_norm", self.mul(b + "attn_q_a", x)))
        else:
            q = self.mul(b + "attn_q", x)
        q = q.reshape(len(x), self.heads, -1)
        at = slice(0, self.rot) if self.fault == "queries rotated at the front" else slice(self.nope, None)
        q[..., at] = self.rope(q[..., at])
        return q

    def heads_of(self, b):
        """Of each head: [heads, nope, rank] for keys, [heads, v, rank] for values."""
        if b + "attn_kv_b.weight" in self.w:
            each = self.w[b + "attn_kv_b.weight"].reshape(self.heads, self.nope + self.v, self.rank)
            if self.fault == "values of heads first":
                return each[:, self.v:], each[:, :self.v]
            return each[:, :self.nope], each[:, self.nope:]
        return self.w[b + "attn_k_b.weight"].swapaxes(1, 2), self.w[b + "attn_v_b.weight"]

    # --- the indexer ---
    def index_rope(self, x):
        """x [n, heads, size]: the first values turn"""
        if self.fault == "indexer without rope":
            return x
        angle = np.arange(len(x))[:, None, None] * self.freq
        cos, sin, rot, y = np.cos(angle), np.sin(angle), self.rot, x.copy()
        halves = (self.arch == "deepseek32") != (self.fault == "rope of the indexer in the other form")
        one, two = (slice(0, rot // 2), slice(rot // 2, rot)) if halves else (slice(0, rot, 2), slice(1, rot, 2))
        y[..., one], y[..., two] = x[..., one] * cos - x[..., two] * sin, x[..., one] * sin + x[..., two] * cos
        return y

    def index_keys(self, b, x):
        k = self.mul(b + "indexer.attn_k", x)
        if self.fault != "keys of the indexer without norm":
            k = k - k.mean(-1, keepdims=True) * (self.fault != "keys of the indexer without mean")
            k = k / np.sqrt((k * k).mean(-1, keepdims=True) + 1e-6) * self.w[b + "indexer.k_norm.weight"]
            k = k + self.w[b + "indexer.k_norm.bias"] * (self.fault != "keys of the indexer without bias")
        return self.index_rope(k[:, None])[:, 0]

    def index_scores(self, b, x):
        """[n, n]"""
        q = self.mul(b + "indexer.attn_q_b", self.norm(b + "attn_q_a_norm", self.mul(b + "attn_q_a", x)))
        q = self.index_rope(q.reshape(len(x), self.key("attention.indexer.head_count"), -1))
        dots = np.einsum("nhd,md->hnm", q, self.index_keys(b, x))
        share = self.mul(b + "indexer.proj", x).T
        share = {"heads of the indexer weigh the same": np.ones_like(share), "weights of the next head": np.roll(share, -1, axis=0)}.get(self.fault, share)
        return (share[:, :, None] * (dots if self.fault == "products of both signs" else np.maximum(dots, 0))).sum(0)

    def chosen(self, b, x):
        """[n, n] which positions each one attends to"""
        past = np.arange(len(x))[None] <= np.arange(len(x))[:, None]
        if not self.key("attention.indexer.top_k", 0) or self.fault == "all positions":
            return past
        own = self.key("attention.indexer.types", [True] * self.layers)[self.il]
        if self.fault == "the choice of the first layer":
            own = self.il == 0
        if own:
            top = self.key("attention.indexer.top_k") + {"one position fewer": -1, "one position more": 1}.get(self.fault, 0)
            self.last = self.best(np.where(past, self.index_scores(b, x), -np.inf), top) & past
        return self.last

    def attend(self, b, x):
        n, q = len(x), self.queries(b, x)
        both = self.mul(b + "attn_kv_a_mqa", x)
        z, k_rot = both[:, :self.rank], self.rope(both[:, None, self.rank:])
        if self.fault == "latent values normed with the rotated ones":
            z = z / np.sqrt((both * both).mean(-1, keepdims=True) + self.eps) * self.w[b + "attn_kv_a_norm.weight"]
        else:
            z = self.norm(b + "attn_kv_a_norm", z)
        k_b, v_b = self.heads_of(b)
        k_b = np.roll(k_b, -1, axis=0) if self.fault == "keys of the next head" else k_b
        v_b = np.roll(v_b, -1, axis=0) if self.fault == "values of the next head" else v_b
        q = self.temper(q)
        if self.fault == "keys without the rotated part":
            k_rot = 0 * k_rot
        scale = self.scale * self.or_else("score scale", 1, 0.8)
        past = self.chosen(b, x)
        out = np.empty((n, self.heads, self.v))
        for h in range(self.heads):
            k = np.concatenate([z @ k_b[h].T, k_rot[:, 0]], axis=1)
            out[:, h] = softmax(np.where(past, q[:, h] @ k.T * scale, -np.inf)) @ (z @ v_b[h].T)
        return self.mul(b + "attn_output", out.reshape(n, -1))

    def feed(self, b, x):
        joined = b + "ffn_gate_up_exps.weight"
        if joined in self.w and b + "ffn_gate_exps.weight" not in self.w:
            self.w[b + "ffn_gate_exps.weight"], self.w[b + "ffn_up_exps.weight"] = np.split(self.w[joined], 2, axis=1)
            self.types[b + "ffn_gate_exps.weight"] = self.types[b + "ffn_up_exps.weight"] = self.types[joined]
        return super().feed(b, x)


class Kimi(Latent):
    """kimi-linear: latent attention without RoPE, and delta nets with a decay for each channel, position after position."""
    FAULTS = [f for f in Latent.FAULTS if f != "no rope"] + [
        "keys with rope", "no convolution history", "convolution one position late", "taps reversed", "filters of keys for queries",
        "state of another text", "state not taken back", "state of the wrong snapshot", "no decay", "one decay for each head",
        "decay after the update", "no bias of the decay", "no softplus", "beta 1", "beta not squashed", "value not corrected",
        "output before the update", "no silu after the convolution", "no l2 norm of k", "no l2 norm of q", "q not scaled", "silu for the output's gate",
        "no gate of the output", "gate before the norm", "no norm of the output"]

    def enter(self, il):
        super().enter(il)
        if self.fault != "keys with rope":
            self.freq, self.gain = np.zeros(self.rot // 2), 1.0

    def attend(self, b, x):
        return super().attend(b, x) if self.key("attention.head_count_kv")[self.il] else self.delta(b, x)

    def convolve(self, x, w):
        """x [n, channels]; w [channels, taps], the last tap is that of the present."""
        taps = w.shape[1]
        w = w[:, ::-1] if self.fault == "taps reversed" else w
        before = x[::-1][:taps - 1] if self.fault == "state of another text" else np.zeros((taps - 1, x.shape[1]))
        past = np.concatenate([before[:self.fault == "convolution one position late"], before, x])
        first = taps - 1 if self.fault == "no convolution history" else 0
        y = sum(w[:, j] * past[j:j + len(x)] for j in range(first, taps))
        return y if self.fault == "no silu after the convolution" else silu(y)

    def heads_in(self, b, x):
        """-> q, k, v [n, heads, d]"""
        n, parts = len(x), []
        for name in "qkv":
            taps = "k" if self.fault == "filters of keys for queries" and name == "q" else name
            w = self.w[b + "ssm_conv1d_%s.weight" % taps].reshape(-1, self.key("ssm.conv_kernel"))
            parts.append(self.convolve(self.mul(b + "attn_" + name, x), w).reshape(n, self.heads, -1))
        q, k, v = parts
        q, k = (p if self.fault == "no l2 norm of " + name else l2_norm(p) for p, name in ((q, "q"), (k, "k")))
        return q / (1 if self.fault == "q not scaled" else np.sqrt(q.shape[2])), k, v

    def rates(self, b, x):
        """-> beta [n, heads], decay [n, heads, d]"""
        step = self.mul(b + "ssm_f_b", self.mul(b + "ssm_f_a", x))
        if self.fault != "no bias of the decay":
            step = step + self.w[b + "ssm_dt.bias"]
        step = (np.exp(step) if self.fault == "no softplus" else np.logaddexp(0, step)).reshape(len(x), self.heads, -1)
        if self.fault == "one decay for each head":
            step = 0 * step + step[:, :, :1]
        beta = self.mul(b + "ssm_beta", x)
        beta = np.ones_like(beta) if self.fault == "beta 1" else beta if self.fault == "beta not squashed" else sigmoid(beta)
        return beta, np.exp((0 if self.fault == "no decay" else 1) * self.w[b + "ssm_a"].reshape(-1, 1) * step)

    def delta(self, b, x):
        (q, k, v), (beta, decay) = self.heads_in(b, x), self.rates(b, x)
        n, S, out, states = len(x), np.zeros((self.heads, q.shape[2], v.shape[2])), np.empty_like(v), {}
        for t in in_turn(self.fault, n):
            if self.fault == "state of the wrong snapshot" and t == n - 16:
                S = states[n - 32]
            if self.fault == "output before the update":
                out[t] = np.einsum("hkv,hk->hv", S, q[t])
            late = self.fault == "decay after the update"
            S = S if late else S * decay[t][:, :, None]
            held = 0 if self.fault == "value not corrected" else np.einsum("hkv,hk->hv", S, k[t])
            S = S + k[t][:, :, None] * (beta[t][:, None] * (v[t] - held))[:, None, :]
            S = S * decay[t][:, :, None] if late else S
            if self.fault != "output before the update":
                out[t] = np.einsum("hkv,hk->hv", S, q[t])
            states[t + 1] = S
        gate = self.mul(b + "ssm_g_b", self.mul(b + "ssm_g_a", x)).reshape(out.shape)
        gate = {"silu for the output's gate": silu, "no gate of the output": np.ones_like}.get(self.fault, sigmoid)(gate)
        if self.fault == "gate before the norm":
            out, gate = out * gate, 1
        out = out if self.fault == "no norm of the output" else self.norm(b + "ssm_norm", out)
        return self.mul(b + "attn_output", (out * gate).reshape(n, -1))


READERS = dict(dict.fromkeys(("deepseek2", "deepseek32", "glm-dsa", "mistral4", "minicpm3", "plm"), Latent), **{"kimi-linear": Kimi})
