"""Reading for tests/tiny_check.py of models with keys of groups of positions and with hyper-connections: deepseek4.

Position after position and stream after stream, as the rules are written.
"""
import numpy as np

from tiny_read import softmax
from tiny_read_decoders import ARCHS, Decoder
from tiny_read_recurrent import sigmoid, silu


def softplus(x):
    return np.log1p(np.exp(-np.abs(x))) + np.maximum(x, 0)


class Pooled(Decoder):
    """deepseek4"""
    OF_DECODERS = ["window one longer", "window one shorter", "no window", "no sinks", "sinks of the next head", "sink with a value", "rope kind", "rope base",
                   "rope of the last part", "no rope", "no rope scaling", "no yarn ramp", "score scale", "no norm gains", "norm epsilon",
                   "gate and up swapped", "one expert fewer", "expert weights normed or not", "no shared expert", "no choice bias", "choice bias in the weights",
                   "no expert scale", "no cut", "no attn_norm", "no ffn_norm", "no output_norm"]
    ATTENTION = ["no attn_q_a_norm", "no attn_kv_a_norm", "queries without norm", "values with their rotation", "groups of outputs swapped",
                 "base of windows in every layer", "base of groups in every layer", "scaling in windows", "yarn factor on cos and sin"]
    POOLS = ["no groups of positions", "groups seen one position early", "groups seen one position late", "mean for softmax", "gates of all values alike",
             "no gates of places", "places from the end", "no norm of groups", "groups rotated at their end", "groups without rotation",
             "groups do not overlap", "values of the earlier group swapped", "gates of the earlier group swapped"]
    INDEX = ["all groups", "one group of positions fewer", "one group of positions more", "products of both signs", "heads of the indexer weigh the same",
             "weights of the next head", "queries of the indexer without rope", "keys of the indexer without norm", "the earliest groups"]
    HYPER = ["one stream read", "no eps of what is read", "no norm of streams", "norm of each stream", "weights not doubled", "weights of the next stream",
             "matrix transposed", "no matrix", "no normalisations", "one normalisation fewer", "rows before columns", "scales swapped",
             "no base of streams", "last streams summed"]
    EXPERTS = ["softplus without root", "sigmoid for softplus", "experts by scores", "experts of the next token", "cut after the activation", "gates cut below too",
               "ups not cut"]
    FAULTS = OF_DECODERS + ATTENTION + POOLS + INDEX + HYPER + EXPERTS
    ARCHS = dict(ARCHS, deepseek4=dict(pairs=True))

    def enter(self, il):
        key = self.key
        self.il, self.heads, self.hd, self.alibi = il, key("attention.head_count"), key("attention.key_length"), False
        self.size, self.window = key("attention.compress_ratios")[il], key("attention.sliding_window")
        self.window += {"window one longer": 1, "window one shorter": -1, "no window": 1 << 20}.get(self.fault, 0)
        self.rot, pooled = key("rope.dimension_count"), self.size > 0
        base = key("attention.compress_rope_freq_base" if pooled else "rope.freq_base")
        if self.fault in ("base of windows in every layer", "base of groups in every layer"):
            base = key("rope.freq_base" if self.fault == "base of windows in every layer" else "attention.compress_rope_freq_base")
        base *= self.or_else("rope base", 1, 1.5)
        self.gain, self.freq = 1.0, base ** (-np.arange(0, self.rot, 2) / self.rot)
        if key("rope.scaling.type", "none") == "yarn" and self.fault != "no rope scaling" and (pooled or self.fault == "scaling in windows"):
            self.yarn(base, key("rope.scaling.factor"))
            self.gain = self.or_else("yarn factor on cos and sin", 1.0, 1 + 0.1 * np.log(key("rope.scaling.factor")))
        if self.fault == "no rope":
            self.freq = np.zeros(self.rot // 2)

    def turned(self, x, at, back=False):
        """x [n, heads, size] whose last values turn as at the positions `at`"""
        y, angle = x.copy(), np.asarray(at)[:, None, None] * self.freq
        cos, sin, half = self.gain * np.cos(angle), self.gain * np.sin(angle) * (-1 if back else 1), self.rot // 2
        first = self.or_else("rope of the last part", x.shape[-1] - self.rot, 0)
        pairs = self.fault != "rope kind"
        one, two = (slice(first, first + self.rot, 2), slice(first + 1, first + self.rot, 2)) if pairs else \
            (slice(first, first + half), slice(first + half, first + self.rot))
        y[..., one], y[..., two] = x[..., one] * cos - x[..., two] * sin, x[..., one] * sin + x[..., two] * cos
        return y

    # --- groups of positions ---
    def pooled(self, name, x, each, indexer=False):
        """[groups, each] their keys"""
        n, size = len(x) // self.size, self.size
        kv, gate = (self.mul(name + part, x)[:n * size].reshape(n, size, -1) for part in ("_kv", "_gate"))
        if self.fault != "no gates of places":
            gate = gate + self.w[name + "_ape.weight"][::-1 if self.fault == "places from the end" else 1]
        if self.fault == "gates of all values alike":
            gate = np.repeat(gate.mean(-1, keepdims=True), gate.shape[-1], axis=-1)
        late, wide = slice(kv.shape[-1] - each, None), kv.shape[-1] > each
        early = slice(0, each)
        out = np.zeros((n, each))
        for i in range(n):
            v, g = [kv[i][:, late]], [gate[i][:, late]]
            if wide and i and self.fault != "groups do not overlap":
                v.insert(0, kv[i - 1][:, late if self.fault == "values of the earlier group swapped" else early])
                g.insert(0, gate[i - 1][:, late if self.fault == "gates of the earlier group swapped" else early])
            v, g = np.concatenate(v), np.concatenate(g)
            share = softmax(g.T).T if self.fault != "mean for softmax" else np.ones_like(g) / len(g)
            out[i] = (share * v).sum(0)
        if self.fault != ("keys of the indexer without norm" if indexer else "no norm of groups"):
            out = self.norm(name + "_norm", out)
        if self.fault == "groups without rotation":
            return out
        at = np.arange(n) * size + (size - 1 if self.fault == "groups rotated at their end" else 0)
        return self.turned(out[:, None], at)[:, 0]

    def seen(self, n):
        """[n, groups] those that are complete"""
        early = {"groups seen one position early": 1, "groups seen one position late": -1}.get(self.fault, 0)
        return np.arange(n // self.size)[None] < ((np.arange(n) + 1 + early) // self.size)[:, None]

    def chosen(self, b, x, queries):
        """[n, groups] those that each position attends to"""
        n, see = len(x), self.seen(len(x))
        if b + "indexer.proj.weight" not in self.w or self.fault == "all groups":
            return see
        d, top = self.key("attention.indexer.key_length"), self.key("attention.indexer.top_k")
        top += {"one group of positions fewer": -1, "one group of positions more": 1}.get(self.fault, 0)
        q = self.mul(b + "indexer.attn_q_b", queries).reshape(n, -1, d)
        q = q if self.fault == "queries of the indexer without rope" else self.turned(q, np.arange(n))
        by = self.mul(b + "indexer.proj", x) / np.sqrt(d * q.shape[1])
        by = np.roll(by, 1, axis=1) if self.fault == "weights of the next head" else by
        by = np.ones_like(by) if self.fault == "heads of the indexer weigh the same" else by
        s = np.einsum("nhd,md->nhm", q, self.pooled(b + "indexer_compressor", x, d, True))
        s = s if self.fault == "products of both signs" else np.maximum(s, 0)
        s = np.where(see, (s * by[:, :, None]).sum(1), -np.inf)
        if self.fault == "the earliest groups":
            s = np.where(see, -np.arange(see.shape[1]), -np.inf)
        return self.best(s, top) & see

    def attend(self, b, x):
        n, at = len(x), np.arange(len(x))
        low = self.norm(b + "attn_q_a_norm", self.mul(b + "attn_q_a", x))
        q = self.mul(b + "attn_q_b", low).reshape(n, self.heads, self.hd)
        if self.fault != "queries without norm":
            q = q / np.sqrt((q * q).mean(-1, keepdims=True) + self.eps)
        q = self.turned(q, at)
        kv = self.turned(self.norm(b + "attn_kv_a_norm", self.mul(b + "attn_kv", x))[:, None], at)[:, 0]
        see = (at[None] <= at[:, None]) & (at[:, None] - at[None] < self.window)
        if self.size and self.fault != "no groups of positions":
            kv = np.concatenate([kv, self.pooled(b + "attn_compressor", x, self.hd)])
            see = np.concatenate([see, self.chosen(b, x, low)], axis=1)
        sinks, scale = self.w[b + "attn_sinks.weight"], self.or_else("score scale", 1, 0.8) / np.sqrt(self.hd)
        sinks = np.roll(sinks, 1) if self.fault == "sinks of the next head" else sinks
        out = np.empty_like(q)
        for h in range(self.heads):
            s, values = np.where(see, q[:, h] @ kv.T * scale, -np.inf), kv
            if self.fault != "no sinks":
                s = np.concatenate([s, np.full((n, 1), sinks[h])], axis=1)
                values = np.concatenate([kv, kv[:1] * (self.fault == "sink with a value")])
            out[:, h] = softmax(s) @ values
        if self.fault != "values with their rotation":
            out = self.turned(out, at, back=True)
        groups = self.key("attention.output_group_count")
        w = self.w[b + "attn_output_a.weight"].reshape(groups, self.key("attention.output_lora_rank"), -1)
        w = w[::-1] if self.fault == "groups of outputs swapped" else w
        y = self.grouped(b + "attn_output_a", out.reshape(n, groups, -1), w)
        return self.mul(b + "attn_output_b", y.reshape(n, -1))

    def grouped(self, name, x, w):
        """x [n, groups, in], w [groups, out, in]"""
        return np.stack([self.times(name, x[:, g], w[g]) for g in range(len(w))], axis=1)

    # --- experts ---
    def activate(self, gate, up, cut=0):
        if self.fault == "gate and up swapped":
            gate, up = up, gate
        if not cut or self.fault == "no cut":
            return silu(gate) * up
        up = up if self.fault == "ups not cut" else np.clip(up, -cut, cut)
        gate = np.maximum(gate, -cut) if self.fault == "gates cut below too" else gate
        return (np.minimum(silu(gate), cut) if self.fault == "cut after the activation" else silu(np.minimum(gate, cut))) * up

    def enter_experts(self):
        self.cut, self.cut_always = (self.key("swiglu_clamp_" + of)[self.il] for of in ("exp", "shexp"))

    def choose(self, b, x):
        used, listed = self.used - (self.fault == "one expert fewer"), self.w.get(b + "ffn_gate_tid2eid.weight")
        scores = x @ self.w[b + "ffn_gate_inp.weight"].T
        scores = sigmoid(scores) if self.fault == "sigmoid for softplus" else softplus(scores) ** self.or_else("softplus without root", 0.5, 1)
        bias = self.w.get(b + "exp_probs_b.bias", 0)
        choice = scores + (0 if self.fault == "no choice bias" else bias)
        if listed is None or self.fault == "experts by scores":
            order = -np.sort(-choice, axis=1)
            self.gaps.append(order[:, used - 1] - order[:, used])
        ids = np.roll(self.ids, 1) if self.fault == "experts of the next token" else self.ids
        for t, row in enumerate(scores):
            best = np.argsort(-choice[t])[:used] if listed is None or self.fault == "experts by scores" else listed[ids[t]].astype(int)[:used]
            weights = (choice[t] if self.fault == "choice bias in the weights" else row)[best]
            weights = weights if self.fault == "expert weights normed or not" else weights / weights.sum()
            yield best, weights * self.or_else("no expert scale", self.key("expert_weights_scale"), 1)

    # --- streams [n, A, D] ---
    def coefficients(self, name, x):
        """-> what is read of each stream [n, A]; what is written to each; the matrix [n, A, A] from streams to streams"""
        n, A = x.shape[:2]
        eps, turns = self.key("hyper_connection.epsilon"), self.key("hyper_connection.sinkhorn_iterations")
        axes = (-1,) if self.fault == "norm of each stream" else (-2, -1)
        flat = x if self.fault == "no norm of streams" else x / np.sqrt((x * x).mean(axes, keepdims=True) + self.eps)
        c, base, scale = self.mul(name + "_fn", flat.reshape(n, -1)), self.w[name + "_base.weight"], self.w[name + "_scale.weight"]
        scale = scale[::-1] if self.fault == "scales swapped" else scale
        base = base * (self.fault != "no base of streams")
        read = sigmoid(c[:, :A] * scale[0] + base[:A]) + self.or_else("no eps of what is read", eps, 0)
        if len(base) == A:
            return read, None, None
        write = self.or_else("weights not doubled", 2, 1) * sigmoid(c[:, A:2 * A] * scale[1] + base[A:2 * A])
        write = np.roll(write, 1, axis=1) if self.fault == "weights of the next stream" else write
        mix = softmax((c[:, 2 * A:] * scale[2] + base[2 * A:]).reshape(n, A, A)) + eps
        turns = {"no normalisations": 0, "one normalisation fewer": turns - 1}.get(self.fault, turns)
        for turn in range(max(2 * turns - 1, 0)):
            axis = 1 + (turn % 2 == (self.fault != "rows before columns"))
            mix = mix / (mix.sum(axis, keepdims=True) + eps)
        return read, write, mix

    def collapse(self, x, read):
        return x[:, 0] if self.fault == "one stream read" else (read[:, :, None] * x).sum(1)

    def through(self, name, x, f):
        read, write, mix = self.coefficients(name, x)
        mix = np.swapaxes(mix, 1, 2) if self.fault == "matrix transposed" else mix
        mixed = x if self.fault == "no matrix" else np.einsum("nkd,nki->nid", x, mix)
        return mixed + write[:, :, None] * f(self.collapse(x, read))[:, None]

    def hidden(self, ids):
        self.ids = np.array(ids)
        x = np.repeat(self.w["token_embd.weight"][ids][:, None], self.key("hyper_connection.count"), axis=1)
        for i in range(self.layers):
            b = "blk.%d." % i
            self.enter(i)
            self.enter_experts()
            x = self.through(b + "hc_attn", x, lambda y: self.attend(b, self.norm(b + "attn_norm", y)))            # noqa: B023
            x = self.through(b + "hc_ffn", x, lambda y: self.experts(b, self.norm(b + "ffn_norm", y)))             # noqa: B023
        y = x.sum(1) if self.fault == "last streams summed" else self.collapse(x, self.coefficients("output_hc", x)[0])
        return self.norm("output_norm", y)

    def logits(self, ids):
        return self.mul("output", self.hidden(ids))


READERS = {"deepseek4": Pooled}
