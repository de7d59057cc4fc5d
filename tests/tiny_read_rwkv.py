"""Readings for tests/tiny_check.py of RWKV-7 (rwkv7, arwkv7) and RWKV-6 (rwkv6, rwkv6qwen2), as the papers write them: Peng et al. 2024
(arXiv 2404.05892) and 2025 (arXiv 2503.14456). transformers has no class for them: the golden values are those of these readings."""
import numpy as np

from tiny_read import Model
from tiny_read_recurrent import in_turn, sigmoid, silu


class Rwkv(Model):
    LAST_NORM = "output_norm"
    STATE = ["no past in the token shift", "shift one position late", "state of another text", "state not taken back",
             "state of the wrong snapshot", "output before the update", "no decay"]
    COMMON = ["no norm gains", "norm epsilon", "no norm of the heads", "heads' norm of all", "gate left out", "no biases"]

    def __init__(self, f, fault="", act8=False, kv16=False):
        self.w, self.types, self.fault, self.act8, self.kv16 = f.tensors, f.types, fault, act8, kv16
        self.arch = f.meta["general.architecture"]
        self.key = lambda k, default=None: f.meta.get(self.arch + "." + k, default)
        self.layers, self.hs = self.key("block_count"), self.key("wkv.head_size")
        self.rms = self.key("attention.layer_norm_rms_epsilon") is not None
        self.eps = self.key("attention.layer_norm_rms_epsilon") or self.key("attention.layer_norm_epsilon")
        self.used = 0

    def norm(self, name, x):
        eps = 1e-2 if self.fault == "norm epsilon" else self.eps
        if not self.rms:
            x = x - x.mean(-1, keepdims=True)
        y = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
        if self.fault == "no norm gains":
            return y
        bias = self.w.get(name + ".bias")
        return y * self.w[name + ".weight"] + (0 if bias is None or self.fault == "no biases" else bias)

    def head_norm(self, b, o):
        """o [n, heads, hs]: the norm of each head, with gains and biases of all channels."""
        n = len(o)
        if b + "time_mix_ln.weight" not in self.w or self.fault == "no norm of the heads":
            return o.reshape(n, -1)
        o = o.reshape(n, 1, -1) if self.fault == "heads' norm of all" else o
        o = o - o.mean(-1, keepdims=True)
        o = (o / np.sqrt((o * o).mean(-1, keepdims=True) + 64e-5)).reshape(n, -1)
        return o * self.w[b + "time_mix_ln.weight"] + self.w[b + "time_mix_ln.bias"]

    def before(self, x):
        """Of each position the one before it."""
        first = np.zeros((1, x.shape[1]))
        if self.fault == "no past in the token shift":
            return np.zeros_like(x)
        if self.fault == "state of another text":
            first = x[-1:]
        if self.fault == "shift one position late":
            return np.concatenate([first, first, x[:-2]])
        return np.concatenate([first, x[:-1]])

    def run(self, r, w, k, v, kk=None, b=None, bonus=None):
        """r, w, k, v, kk, b [n, heads, hs] -> [n, heads, hs]; S [heads, of k, of v]."""
        n, heads, hs = r.shape
        S, out, states = np.zeros((heads, hs, hs)), np.empty_like(v), {}
        for t in in_turn(self.fault, n):
            if self.fault == "state of the wrong snapshot" and t == n - 16:
                S = states[n - 32]
            write = k[t][:, :, None] * v[t][:, None]
            if bonus is not None or self.fault == "output before the update":
                out[t] = np.einsum("hkv,hk->hv", S + (0 if bonus is None else bonus[:, :, None] * write), r[t])
            fixed = 0
            if kk is not None:
                fixed = b[t][:, :, None] * -np.einsum("hkv,hk->hv", S, kk[t])[:, None]
            S = S * (1 if self.fault == "no decay" else w[t][:, :, None]) + write + (0 if self.fault == "no correction" else fixed)
            if bonus is None and self.fault != "output before the update":
                out[t] = np.einsum("hkv,hk->hv", S, r[t])
            states[t + 1] = S
        return out

    def lora(self, b, name, x, act=lambda x: x):
        return act(x @ self.w[b + name + "1.weight"].T) @ self.w[b + name + "2.weight"].T

    def hidden(self, ids):
        x = self.w["token_embd.weight"][ids]
        if "token_embd_norm.weight" in self.w:
            x = x if self.fault == "embedding not normed" else self.norm("token_embd_norm", x)
        self.first = None
        for i in range(self.layers):
            x = self.layer("blk.%d." % i, x)
            every = self.key("rescale_every_n_layers", 0)
            if every and (i + 1) % every == 0 and self.fault != "not rescaled":
                x = x / 2
        return self.norm(self.LAST_NORM, x)

    def logits(self, ids):
        return self.mul("output", self.hidden(ids))

    def layer(self, b, x):
        x = x + self.mix(b, self.norm(b + "attn_norm", x))
        if b + "ffn_gate.weight" in self.w:
            y = self.norm(b + "ffn_norm", x)
            return x + self.mul(b + "ffn_down", silu(self.mul(b + "ffn_gate", y)) * self.mul(b + "ffn_up", y))
        return x + self.channels(b, self.norm(b + "attn_norm_2", x))

    def channels(self, b, x):
        past = self.before(x)
        k = x + (0 if self.fault == "channel mix unshifted" else (past - x) * self.w[b + "channel_mix_lerp_k.weight"].reshape(-1))
        k = np.maximum(self.mul(b + "channel_mix_key", k), 0) ** (1 if self.fault == "relu for its square" else 2)
        y = self.mul(b + "channel_mix_value", k)
        if b + "channel_mix_receptance.weight" in self.w and self.fault != "no receptance":
            r = x + (past - x) * self.w[b + "channel_mix_lerp_r.weight"].reshape(-1)
            y = y * sigmoid(self.mul(b + "channel_mix_receptance", r))
        return y


class Rwkv7(Rwkv):
    FAULTS = Rwkv.COMMON + Rwkv.STATE + [
        "embedding not normed", "relu for its square", "channel mix unshifted", "no correction", "decay not squashed", "no tanh in the decay",
        "gate not squashed", "no value of the first layer", "key not normed", "key not scaled by the rate", "rate left out",
        "no share of the key itself", "share before the norm", "r and w swapped", "no key gain"]

    def mix(self, b, x):
        n, hs, f = len(x), self.hs, self.fault
        lerp = self.w[b + "time_mix_lerp_fused.weight"].reshape(-1, x.shape[1])
        mixed = [x + (self.before(x) - x) * m for m in lerp]
        xr, xw, xk, xv, xa = mixed[:5] if f != "r and w swapped" else (mixed[1], mixed[0], *mixed[2:5])
        r, k, v = self.mul(b + "time_mix_receptance", xr), self.mul(b + "time_mix_key", xk), self.mul(b + "time_mix_value", xv)
        w = self.lora(b, "time_mix_w", xw, (lambda x: x) if f == "no tanh in the decay" else np.tanh) + self.w[b + "time_mix_w0.weight"]
        w = np.exp(-0.606531 * (np.exp(np.minimum(w, 20)) if f == "decay not squashed" else sigmoid(w)))
        if self.first is None:
            self.first = v
        elif f != "no value of the first layer":
            v = v + (self.first - v) * sigmoid(self.lora(b, "time_mix_v", xv) + self.w[b + "time_mix_v0.weight"])
        a = sigmoid(self.lora(b, "time_mix_a", xa) + self.w[b + "time_mix_a0.weight"])
        a = np.ones_like(a) if f == "rate left out" else a
        kk = (k if f == "no key gain" else k * self.w[b + "time_mix_k_k.weight"]).reshape(n, -1, hs)
        kk = kk if f == "key not normed" else kk / np.sqrt((kk * kk).sum(-1, keepdims=True) + 1e-12)
        k = k if f == "key not scaled by the rate" else k * (1 + (a - 1) * self.w[b + "time_mix_k_a.weight"])
        r, w, k, v, a = (p.reshape(n, -1, hs) for p in (r, w, k, v, a))
        o = self.run(r, w, k, v, kk, kk * a)
        share = (r * k * self.w[b + "time_mix_r_k.weight"].reshape(-1, hs)).sum(-1, keepdims=True) * v
        if f == "share before the norm":
            o = self.head_norm(b, o + share)
        else:
            o = self.head_norm(b, o) + (0 if f == "no share of the key itself" else share.reshape(n, -1))
        if len(mixed) > 5 and f != "gate left out":
            o = o * self.lora(b, "time_mix_g", mixed[5], (lambda x: x) if f == "gate not squashed" else sigmoid)
        return self.mul(b + "time_mix_output", o)


class Rwkv6(Rwkv):
    FAULTS = Rwkv.COMMON + Rwkv.STATE + [
        "embedding not normed", "relu for its square", "channel mix unshifted", "no receptance", "not rescaled", "no bonus", "no tanh in the mix",
        "mix not by the token", "decay of one exponential", "gate of another kind", "keys not scaled by the decay", "queries not scaled",
        "heads dealt in turn"]

    def mix(self, b, x):
        n, hs, f = len(x), self.hs, self.fault
        past, D = self.before(x) - x, x.shape[1]
        seen = x + past * self.w[b + "time_mix_lerp_x.weight"].reshape(-1)
        inner = seen @ self.w[b + "time_mix_w1.weight"].T
        inner = (inner if f == "no tanh in the mix" else np.tanh(inner)).reshape(n, 5, -1)
        lerp = self.w[b + "time_mix_lerp_fused.weight"].reshape(5, D)
        w2 = self.w[b + "time_mix_w2.weight"]
        xw, xk, xv, xr, xg = (x + past * ((0 if f == "mix not by the token" else inner[:, i] @ w2[i].T) + lerp[i]) for i in range(5))
        r, k, v = self.mul(b + "time_mix_receptance", xr), self.mul(b + "time_mix_key", xk), self.mul(b + "time_mix_value", xv)
        plain = b + "time_mix_first.weight" in self.w
        g = self.mul(b + "time_mix_gate", xg)
        g = (silu if plain != (f == "gate of another kind") else sigmoid)(g)
        w = self.lora(b, "time_mix_decay_w", xw, np.tanh) + self.w[b + "time_mix_decay.weight"]
        w = sigmoid(w) if f == "decay of one exponential" else np.exp(-np.exp(w))
        r, w, k, v = (p.reshape(n, -1, hs) for p in (r, w, k, v))
        heads = r.shape[1]
        h = np.arange(heads)
        of = h % k.shape[1] if f == "heads dealt in turn" else h * k.shape[1] // heads
        k, v = k[:, of], v[:, of]
        if plain:
            o = self.head_norm(b, self.run(r, w, k, v, bonus=0 * r[0] if f == "no bonus" else self.w[b + "time_mix_first.weight"].reshape(heads, hs)))
        else:
            k = k if f == "keys not scaled by the decay" else k * (1 - w)
            o = self.run(r * (1 if f == "queries not scaled" else hs ** -0.5), w, k, v).reshape(n, -1)
        return self.mul(b + "time_mix_output", o if f == "gate left out" else o * g)


READERS = dict(rwkv7=Rwkv7, arwkv7=Rwkv7, rwkv6=Rwkv6, rwkv6qwen2=Rwkv6)
