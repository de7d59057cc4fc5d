"""Readings for tests/tiny_check.py of models with recurrent layers: gated delta net (Delta) and short convolution (Conv).

Position after position, as the rule is written; no chunks.
"""
import numpy as np

from tiny_read import Model, round_act, softmax


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


def l2_norm(x):
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)


def in_turn(fault, n):
    """The positions that a state meets, one after the other."""
    order = list(range(n))
    if fault == "state of another text":
        order = order[::-1] + order
    if fault == "state not taken back":
        at = n // 2                                     # three guesses that were wrong
        order = order[:at] + order[at + 5:at + 8] + order[at:]
    return order


class Recurrent(Model):
    """What both kinds share: the convolution over the last inputs, faults of a state, the layers' attention."""
    STATE = ["no convolution history", "convolution one position late", "taps reversed", "state of another text", "state not taken back",
             "state of the wrong snapshot"]
    ATTENTION = ["rope kind", "rope base", "rope on a wrong part", "score scale", "head grouping", "no q/k norm", "q/k norm after rope"]
    COMMON = ["no norm gains", "norm epsilon", "gelu for silu"]

    def __init__(self, f, **kw):
        super().__init__(f, **kw)
        self.rope_init(self.key)

    def rope_init(self, key):
        self.hd = key("attention.key_length", key("embedding_length") // key("attention.head_count"))
        self.rot = key("rope.dimension_count", self.hd)
        if self.fault == "rope on a wrong part":
            self.rot = self.hd if self.rot < self.hd else self.hd // 2
        base = key("rope.freq_base") * (1.5 if self.fault == "rope base" else 1)
        self.freq = base ** (-np.arange(0, self.rot, 2) / self.rot)

    def rope(self, x):
        """x [n, heads, hd]: halves of the first `rot` values of a head."""
        angle = np.arange(len(x))[:, None, None] * self.freq
        cos, sin, turned = np.cos(angle), np.sin(angle), x.copy()
        half = self.rot // 2
        one, two = slice(0, half), slice(half, self.rot)
        if self.fault == "rope kind":
            one, two = slice(0, self.rot, 2), slice(1, self.rot, 2)
        turned[..., one] = x[..., one] * cos - x[..., two] * sin
        turned[..., two] = x[..., one] * sin + x[..., two] * cos
        return turned

    def sees(self, n):
        """[n, n] which positions each one attends to."""
        return np.tri(n, dtype=bool)

    def attention(self, b, q, k, v):
        """q [n, heads, hd]; k, v [n, kv, hd] -> [n, heads * hd]"""
        n, heads, kv = len(q), q.shape[1], k.shape[1]
        names, after = (b + "attn_q_norm", b + "attn_k_norm"), self.fault == "q/k norm after rope"
        if after:
            q, k = self.rope(q), self.rope(k)
        if self.fault != "no q/k norm":
            q, k = self.norm(names[0], q), self.norm(names[1], k)
        if not after:
            q, k = self.rope(q), self.rope(k)
        if self.kv16:
            k, v = k.astype(np.float16).astype(float), v.astype(np.float16).astype(float)
        scale = 1 / np.sqrt(self.hd) if self.fault != "score scale" else 1 / self.hd ** 0.45
        seen, out = self.sees(n), np.empty_like(q)
        for h in range(heads):
            g = h % kv if self.fault == "head grouping" else h * kv // heads
            out[:, h] = softmax(np.where(seen, q[:, h] @ k[:, g].T * scale, -np.inf)) @ v[:, g]
        return out.reshape(n, -1)

    def convolve(self, x, w):
        """x [n, channels]; w [channels, taps], the last tap is that of the present."""
        taps = w.shape[1]
        w = w[:, ::-1] if self.fault == "taps reversed" else w
        before = np.zeros((taps - 1, x.shape[1]))
        if self.fault == "state of another text":
            before = x[::-1][:taps - 1]
        past = np.concatenate([before, x])
        if self.fault == "convolution one position late":
            past = np.concatenate([before[:1], past])
        y = np.zeros_like(x)
        for j in range(taps):
            part = w[:, j] * past[j:j + len(x)]
            if self.fault == "no convolution history" and j < taps - 1:
                part = 0
            y += part
        return y

    def feed(self, b, x):
        if b + "ffn_gate_inp.weight" not in self.w:
            return self.mul(b + "ffn_down", self.act(self.mul(b + "ffn_gate", x)) * self.mul(b + "ffn_up", x))
        y = np.zeros_like(x)
        for t, (best, weights) in enumerate(self.choose(b, x)):
            for e, we in zip(best, weights):
                y[t] += we * self.expert(b, e, x[t:t + 1])[0]
        return y + self.shared(b, x)

    def expert(self, b, e, x):
        name = b + "ffn_gate_up_exps"
        if name + ".weight" not in self.w:
            return super().expert(b, e, x)
        gate, up = np.split(self.rounded(name, x) @ self.w[name + ".weight"][e].T, 2, axis=-1)
        if self.fault == "gate and up swapped":
            gate, up = up, gate
        down = b + "ffn_down_exps"
        return self.rounded(down, self.act(gate) * up) @ self.w[down + ".weight"][e].T

    def rounded(self, name, x):
        return round_act(x) if self.act8 and self.types[name + ".weight"] not in (0, 1, 30) else x

    def shared(self, b, x):
        return 0

    def layer(self, b, x):
        x = x + self.mix(b, self.norm(b + "attn_norm", x))
        return x + self.feed(b, self.norm(b + self.FFN_NORM, x))

    def hidden(self, ids):
        """What the head reads, [n, D]."""
        x = self.w["token_embd.weight"][ids]
        for i in range(self.layers):
            x = self.layer("blk.%d." % i, x)
        return self.norm(self.LAST_NORM, x)

    def logits(self, ids):
        return self.mul("output" if "output.weight" in self.w else "token_embd", self.hidden(ids))


class Delta(Recurrent):
    """qwen35, qwen35moe, qwen3next"""
    FFN_NORM, LAST_NORM = "post_attention_norm", "output_norm"
    FAULTS = Recurrent.COMMON + Recurrent.ATTENTION + Recurrent.STATE + [
        "value heads grouped for tiled", "no decay", "decay after the update", "no bias of the decay", "no softplus", "beta 1",
        "beta not squashed", "value not corrected", "output before the update", "no silu after the convolution", "no l2 norm of k",
        "no l2 norm of q", "l2 norm for each channel group", "q not scaled", "z squashed for silu", "z before the norm", "z left out",
        "no norm of the output", "no gate of the attention", "gates behind the queries", "gate silu", "beta and alpha in halves",
        "mtp block run", "gains 1 + g", "expert weights not normed", "no shared expert", "shared expert ungated",
        "gate and up swapped"]

    def __init__(self, f, **kw):
        super().__init__(f, **kw)
        key = self.key
        if self.fault == "mtp block run":
            self.layers += key("nextn_predict_layers", 0)
        self.nk, self.nv, self.d = key("ssm.group_count"), key("ssm.time_step_rank"), key("ssm.state_size")
        assert key("ssm.inner_size") == self.nv * self.d

    def norm(self, name, x):
        y = super().norm(name, x)
        return y + y / self.w[name + ".weight"] if self.fault == "gains 1 + g" and not name.endswith("ssm_norm") else y

    def mix(self, b, x):
        layer, listed = int(b.split(".")[1]), self.key("attention.recurrent_layers", [])
        full = not listed[layer] if listed else (layer + 1) % self.key("full_attention_interval", 4) == 0
        full |= layer >= self.key("block_count") - self.key("nextn_predict_layers", 0)
        return self.attend(b, x) if full else self.delta_net(b, x)

    def attend(self, b, x):
        n, heads = len(x), self.key("attention.head_count")
        q = self.mul(b + "attn_q", x)
        if self.fault == "gates behind the queries":
            q, gate = np.split(q.reshape(n, 2 * heads, self.hd), 2, axis=1)
        else:
            q, gate = np.split(q.reshape(n, heads, 2 * self.hd), 2, axis=2)
        k, v = (self.mul(b + name, x).reshape(n, -1, self.hd) for name in ("attn_k", "attn_v"))
        y = self.attention(b, q, k, v)
        squash = {"no gate of the attention": np.ones_like, "gate silu": silu}.get(self.fault, sigmoid)
        return self.mul(b + "attn_output", y * squash(gate.reshape(n, -1)))

    def projections(self, b, x):
        """-> q, k, v side by side [n, channels] and z [n, nv, d]"""
        n, kd, per = len(x), self.nk * self.d, self.nv // self.nk
        if b + "ssm_in.weight" not in self.w:
            return self.mul(b + "attn_qkv", x), self.mul(b + "attn_gate", x).reshape(n, self.nv, self.d)
        rows = self.mul(b + "ssm_in", x).reshape(n, self.nk, -1)
        q, k, v, z = np.split(rows, [self.d, 2 * self.d, (2 + per) * self.d], axis=2)
        assert q.size == n * kd and v.shape == z.shape
        return np.concatenate([p.reshape(n, -1) for p in (q, k, v)], axis=1), z.reshape(n, self.nv, self.d)

    def rates(self, b, x):
        """-> beta and decay [n, nv]"""
        n = len(x)
        if b + "ssm_ba.weight" in self.w:
            ba = self.mul(b + "ssm_ba", x)
            beta, alpha = np.split(ba, 2, axis=1) if self.fault == "beta and alpha in halves" else \
                (p.reshape(n, -1) for p in np.split(ba.reshape(n, self.nk, -1), 2, axis=2))
        else:
            beta, alpha = self.mul(b + "ssm_beta", x), self.mul(b + "ssm_alpha", x)
        if self.fault != "no bias of the decay":
            alpha = alpha + self.w[b + "ssm_dt.bias"]
        step = np.exp(alpha) if self.fault == "no softplus" else np.logaddexp(0, alpha)
        decay = np.ones_like(step) if self.fault == "no decay" else np.exp(self.w[b + "ssm_a"] * step)
        if self.fault == "beta 1":
            beta = np.full_like(beta, np.inf)
        return (beta if self.fault == "beta not squashed" else sigmoid(beta)), decay

    def heads(self, b, x):
        """-> q, k, v [n, nv, d] of each value head, and z"""
        n, kd = len(x), self.nk * self.d
        raw, z = self.projections(b, x)
        c = self.convolve(raw, self.w[b + "ssm_conv1d.weight"])
        if self.fault != "no silu after the convolution":
            c = self.act(c)
        q, k, v = (p.reshape(n, -1, self.d) for p in np.split(c, [kd, 2 * kd], axis=1))
        if self.fault == "l2 norm for each channel group":
            q, k = (l2_norm(p.reshape(n, -1)).reshape(p.shape) for p in (q, k))
        else:
            q = q if self.fault == "no l2 norm of q" else l2_norm(q)
            k = k if self.fault == "no l2 norm of k" else l2_norm(k)
        if self.fault != "q not scaled":
            q = q / np.sqrt(self.d)
        tiled = (self.arch != "qwen3next") != (self.fault == "value heads grouped for tiled")
        h = np.arange(self.nv)
        of = h % self.nk if tiled else h * self.nk // self.nv
        return q[:, of], k[:, of], v, z

    def rule(self, q, k, v, beta, decay):
        """The delta rule for all value heads; S [nv, d of k, d of v]."""
        n, out, S, states = len(q), np.empty_like(v), np.zeros((self.nv, self.d, self.d)), {}
        for t in in_turn(self.fault, n):
            if self.fault == "state of the wrong snapshot" and t == n - 16:
                S = states[n - 32]
            if self.fault == "output before the update":
                out[t] = np.einsum("hkv,hk->hv", S, q[t])
            S = S if self.fault == "decay after the update" else S * decay[t][:, None, None]
            held = 0 if self.fault == "value not corrected" else np.einsum("hkv,hk->hv", S, k[t])
            S = S + k[t][:, :, None] * (beta[t][:, None] * (v[t] - held))[:, None, :]
            S = S * decay[t][:, None, None] if self.fault == "decay after the update" else S
            if self.fault != "output before the update":
                out[t] = np.einsum("hkv,hk->hv", S, q[t])
            states[t + 1] = S
        return out

    def delta_net(self, b, x):
        q, k, v, z = self.heads(b, x)
        o = self.rule(q, k, v, *self.rates(b, x))
        z = {"z squashed for silu": sigmoid, "z left out": np.ones_like}.get(self.fault, self.act)(z)
        if self.fault == "z before the norm":
            o, z = o * z, 1
        o = o if self.fault == "no norm of the output" else self.norm(b + "ssm_norm", o)
        return self.mul(b + "ssm_out", (o * z).reshape(len(x), -1))

    def choose(self, b, x):
        prob = softmax(x @ self.w[b + "ffn_gate_inp.weight"].T)
        for p in prob:
            best = np.argsort(-p)[:self.used]
            yield best, p[best] / (1 if self.fault == "expert weights not normed" else p[best].sum())

    def shared(self, b, x):
        if self.fault == "no shared expert":
            return 0
        y = self.mul(b + "ffn_down_shexp", self.act(self.mul(b + "ffn_gate_shexp", x)) * self.mul(b + "ffn_up_shexp", x))
        return y if self.fault == "shared expert ungated" else y * sigmoid(x @ self.w[b + "ffn_gate_inp_shexp.weight"].reshape(-1, 1))


class Conv(Recurrent):
    """lfm2, lfm2moe"""
    FFN_NORM, LAST_NORM = "ffn_norm", "token_embd_norm"
    FAULTS = Recurrent.COMMON + Recurrent.ATTENTION + Recurrent.STATE + [
        "silu after the convolution", "b and c swapped", "c and x swapped", "no b", "no c", "last norm first", "softmax for sigmoid",
        "no expert bias", "expert bias in the weights", "expert weights not normed"]

    def mix(self, b, x):
        kv = self.key("attention.head_count_kv")[int(b.split(".")[1])]
        if not kv:
            return self.short_conv(b, x)
        q, k, v = (self.mul(b + name, x).reshape(len(x), -1, self.hd) for name in ("attn_q", "attn_k", "attn_v"))
        assert k.shape[1] == kv
        return self.mul(b + "attn_output", self.attention(b, q, k, v))

    def short_conv(self, b, x):
        parts = np.split(self.mul(b + "shortconv.in_proj", x), 3, axis=1)
        order = {"b and c swapped": (1, 0, 2), "c and x swapped": (0, 2, 1)}.get(self.fault, (0, 1, 2))
        gate, out, value = (parts[i] for i in order)
        product, w = value if self.fault == "no b" else gate * value, self.w[b + "shortconv.conv.weight"]
        y = self.convolve(product, w)
        n = len(x)
        if self.fault == "state of the wrong snapshot":             # the inputs before position n - 16 are those of 16 positions earlier
            wrong = np.concatenate([product[n - 40:n - 32], product[n - 16:]])
            y[n - 16:] = self.convolve(wrong, w)[8:]
        if self.fault == "state not taken back":                    # three guesses that were wrong lie before n // 2
            at = n // 2
            y[at:] = self.convolve(np.concatenate([product[:at], product[at + 5:at + 8], product[at:]]), w)[at + 3:]
        y = silu(y) if self.fault == "silu after the convolution" else y
        return self.mul(b + "shortconv.out_proj", y if self.fault == "no c" else out * y)

    def choose(self, b, x):
        s = x @ self.w[b + "ffn_gate_inp.weight"].T
        p = softmax(s) if self.fault == "softmax for sigmoid" else sigmoid(s)
        bias = self.w[b + "exp_probs_b.bias"]
        for row in p:
            best = np.argsort(-(row if self.fault == "no expert bias" else row + bias))[:self.used]
            weights = (row + bias if self.fault == "expert bias in the weights" else row)[best]
            yield best, weights / (1 if self.fault == "expert weights not normed" else weights.sum() + 1e-6)

    def logits(self, ids):
        if self.fault == "last norm first":                         # as its name says, but not as the model does
            self.w = dict(self.w, **{"token_embd.weight": self.norm(self.LAST_NORM, self.w["token_embd.weight"])})
        return super().logits(ids)


READERS = dict(qwen35=Delta, qwen35moe=Delta, qwen3next=Delta, lfm2=Conv, lfm2moe=Conv)
