"""Readings for tests/tiny_check.py of models with Mamba-2 and with Mamba: position after position, as the recurrences are written."""
import numpy as np

from tiny_read import softmax
from tiny_read_recurrent import Recurrent, in_turn, sigmoid, silu


def softplus(x):
    return np.logaddexp(0, x)


class Ssm(Recurrent):
    """mamba2, nemotron_h, nemotron_h_moe, granitehybrid, falcon-h1, mamba, jamba, plamo2"""
    LAST_NORM = "output_norm"
    FAULTS = ["no norm gains", "norm epsilon", "rope kind", "rope base", "score scale", "head grouping"] + Recurrent.STATE + [
        "no bias of the convolution", "no silu after the convolution", "no softplus", "no bias of the step", "step not in what is written",
        "no decay", "decay after the update", "output before the update", "no skip", "skip by the step", "keys and queries swapped",
        "groups dealt in turn", "z squashed for silu", "z left out", "norm before z", "norm of all groups", "z after the inputs",
        "rotated all the same", "not rotated", "relu for its square", "softmax for sigmoid", "no expert bias", "expert bias in the weights",
        "expert weights not normed", "expert weights not scaled", "no shared expert", "no latent", "residual not scaled",
        "embedding not scaled", "logits not scaled", "no norms of the rates", "no norms after blocks", "gate and up swapped",
        "attention after the state", "no q/k norm", "q/k norm after rope", "one q/k norm for all heads", "rates in another order",
        "z and inputs in halves"]

    def __init__(self, f, **kw):
        super().__init__(f, **kw)
        key = self.key
        self.nv, self.ds, self.inner = key("ssm.time_step_rank"), key("ssm.state_size"), key("ssm.inner_size")
        self.groups = key("ssm.group_count", 1) or 1

    def rope_init(self, key):
        heads = np.max(key("attention.head_count"))
        if heads:
            self.hd = self.key("attention.key_length", 0) or key("embedding_length") // heads
            self.rot = self.hd
            self.freq = (key("rope.freq_base", 10000.0) * (1.5 if self.fault == "rope base" else 1)) ** (-np.arange(0, self.rot, 2) / self.rot)

    def each(self, k, il, default=None):
        v = self.key(k, default)
        return v[il] if isinstance(v, list) else v

    def vec(self, name):
        """A vector, whose name may lack .weight."""
        return self.w[name + ".weight"] if name + ".weight" in self.w else self.w[name]

    def has(self, name):
        return name + ".weight" in self.w or name in self.w

    def norm(self, name, x, eps=None):
        eps = 1e-2 if self.fault == "norm epsilon" else self.eps
        y = x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
        return y if self.fault == "no norm gains" else y * self.vec(name)

    # --- Mamba-2 and Mamba ---
    def convolved(self, b, x):
        y = self.convolve(x, self.w[b + "ssm_conv1d.weight"])
        if b + "ssm_conv1d.bias" in self.w and self.fault != "no bias of the convolution":
            y = y + self.w[b + "ssm_conv1d.bias"]
        return y if self.fault == "no silu after the convolution" else silu(y)

    def step(self, b, x):
        x = x if self.fault == "no bias of the step" else x + self.w[b + "ssm_dt.bias"]
        return np.exp(x) if self.fault == "no softplus" else softplus(x)

    def scan(self, x, dt, a, k, q, skip):
        """x, dt [n, ...]; a [..., ds or 1]; k, q [n, ..., ds] -> y [n, ...], by the recurrence itself."""
        n, out, S, states = len(x), np.empty_like(x), np.zeros(x.shape[1:] + (self.ds,)), {}
        if self.fault == "keys and queries swapped":
            k, q = q, k
        for t in in_turn(self.fault, n):
            if self.fault == "state of the wrong snapshot" and t == n - 16:
                S = states[n - 32]
            if self.fault == "output before the update":
                out[t] = (S * q[t]).sum(-1)
            fall = 1 if self.fault == "no decay" else np.exp(dt[t][..., None] * a)
            write = (x[t] if self.fault == "step not in what is written" else dt[t] * x[t])[..., None] * k[t]
            S = (S + write) * fall if self.fault == "decay after the update" else S * fall + write
            if self.fault != "output before the update":
                out[t] = (S * q[t]).sum(-1)
            states[t + 1] = S
        if self.fault == "no skip":
            return out
        return out + skip * (dt * x if self.fault == "skip by the step" else x)

    def gate(self, y, z):
        return y if self.fault == "z left out" else y * (sigmoid(z) if self.fault == "z squashed for silu" else silu(z))

    def mamba2(self, b, x):
        n, hd, bc = len(x), self.inner // self.nv, self.groups * self.ds
        z, xbc, dt = np.split(self.mul(b + "ssm_in", x), [self.inner, 2 * self.inner + 2 * bc], axis=1)
        if self.fault == "z after the inputs":
            xbc, z = np.concatenate([z, xbc[:, self.inner:]], axis=1), xbc[:, :self.inner]
        v, k, q = np.split(self.convolved(b, xbc), [self.inner, self.inner + bc], axis=1)
        h = np.arange(self.nv)
        of = h % self.groups if self.fault == "groups dealt in turn" else h * self.groups // self.nv
        k, q = (p.reshape(n, self.groups, 1, self.ds)[:, of] for p in (k, q))
        dt = np.repeat(self.step(b, dt)[:, :, None], hd, axis=2)
        y = self.scan(v.reshape(n, self.nv, hd), dt, self.w[b + "ssm_a"].reshape(-1, 1, 1), k, q, self.w[b + "ssm_d"].reshape(-1, 1))
        y = y.reshape(n, -1)
        if b + "ssm_norm.weight" not in self.w:
            return self.mul(b + "ssm_out", self.gate(y, z))
        y, z = (y, z) if self.fault == "norm before z" else (self.gate(y, z), None)
        shape = (n, 1 if self.fault == "norm of all groups" else self.groups, -1)
        g = y.reshape(shape)
        g = (g / np.sqrt((g * g).mean(-1, keepdims=True) + (1e-2 if self.fault == "norm epsilon" else self.eps))).reshape(n, -1)
        g = g if self.fault == "no norm gains" else g * self.w[b + "ssm_norm.weight"].reshape(-1)
        return self.mul(b + "ssm_out", g if z is None else self.gate(g, z))

    def rate(self, b, name, x):
        if self.fault == "no norms of the rates":
            return x
        if self.key("ssm.dt_b_c_rms", False):
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps)
        return self.norm(b + name, x) if self.has(b + name) else x

    def mamba(self, b, x):
        n, heads = len(x), self.arch == "plamo2"
        both = self.mul(b + "ssm_in", x)
        if heads and self.fault != "z and inputs in halves":
            z, v = (p.reshape(n, -1) for p in np.split(both.reshape(n, self.nv, -1), 2, axis=2))
        else:
            v, z = np.split(both, 2, axis=1)
            v, z = (z, v) if self.fault == "z after the inputs" else (v, z)
        v = self.convolved(b, v)
        made = self.mul(b + "ssm_x", v)
        rank = made.shape[1] - 2 * self.ds
        first = heads == (self.fault != "rates in another order")
        k, q, dt = np.split(made, [self.ds, 2 * self.ds], axis=1) if first else np.split(np.roll(made, -rank, axis=1), [self.ds, 2 * self.ds], axis=1)
        k, q, dt = self.rate(b, "ssm_b_norm", k), self.rate(b, "ssm_c_norm", q), self.rate(b, "ssm_dt_norm", dt)
        dt = self.step(b, dt @ self.w[b + "ssm_dt.weight"].T)
        a, skip = self.w[b + "ssm_a"], self.w[b + "ssm_d"]
        if heads:
            hd = self.inner // self.nv
            dt, a, skip = (np.repeat(p, hd, axis=-1) for p in (dt, a, skip))
            a = a[:, None]
        y = self.scan(v, dt, a, k[:, None], q[:, None], skip)
        return self.mul(b + "ssm_out", self.gate(y, z))

    # --- attention ---
    def attend(self, b, x):
        il, n = int(b.split(".")[1]), len(x)
        heads, kv = self.each("attention.head_count", il), self.each("attention.head_count_kv", il)
        if b + "attn_qkv.weight" in self.w:
            q, k, v = (p.reshape(n, -1, self.hd) for p in
                       np.split(self.mul(b + "attn_qkv", x), [heads * self.hd, (heads + kv) * self.hd], axis=1))
        else:
            q, k, v = (self.mul(b + name, x).reshape(n, -1, self.hd) for name in ("attn_q", "attn_k", "attn_v"))
        roped = self.arch in ("falcon-h1", "plamo2") or (self.arch == "granitehybrid" and self.key("rope.scaling.finetuned", True))
        roped = (roped or self.fault == "rotated all the same") and self.fault != "not rotated"
        late = self.fault == "q/k norm after rope"
        if roped and late:
            q, k = self.rope(q), self.rope(k)
        if self.has(b + "attn_q_norm") and self.fault != "no q/k norm":
            q, k = self.head_norm(b + "attn_q_norm", q), self.head_norm(b + "attn_k_norm", k)
        if roped and not late:
            q, k = self.rope(q), self.rope(k)
        scale = self.key("attention.scale", 0) or 1 / np.sqrt(self.hd)
        scale = scale * 1.3 if self.fault == "score scale" else scale
        seen, out = np.tri(n, dtype=bool), np.empty_like(q)
        if self.kv16:
            k, v = k.astype(np.float16).astype(float), v.astype(np.float16).astype(float)
        for h in range(heads):
            g = h % kv if self.fault == "head grouping" else h * kv // heads
            out[:, h] = softmax(np.where(seen, q[:, h] @ k[:, g].T * scale, -np.inf)) @ v[:, g]
        return self.mul(b + "attn_output", out.reshape(n, -1))

    def head_norm(self, name, x):
        y = x / np.sqrt((x * x).mean(-1, keepdims=True) + (1e-2 if self.fault == "norm epsilon" else self.eps))
        g = self.w[name + ".weight"]
        g = g[:1] if self.fault == "one q/k norm for all heads" else g
        return y if self.fault == "no norm gains" else y * g

    def rope(self, x):
        angle = np.arange(len(x))[:, None, None] * self.freq
        cos, sin, turned, half = np.cos(angle), np.sin(angle), x.copy(), self.rot // 2
        pairs = (self.arch == "granitehybrid") != (self.fault == "rope kind")
        one, two = (slice(0, None, 2), slice(1, None, 2)) if pairs else (slice(0, half), slice(half, None))
        turned[..., one] = x[..., one] * cos - x[..., two] * sin
        turned[..., two] = x[..., one] * sin + x[..., two] * cos
        return turned

    # --- feed-forward ---
    def squeeze(self, x):
        if not self.arch.startswith("nemotron"):
            return silu(x)
        return np.maximum(x, 0) ** (1 if self.fault == "relu for its square" else 2)

    def wide(self, gate, up):
        return self.squeeze(up) if gate is None else self.squeeze(up) * gate if self.fault == "gate and up swapped" else self.squeeze(gate) * up

    def dense(self, b, x, tail=""):
        up, gate = self.mul(b + "ffn_up" + tail, x), None
        if b + "ffn_gate" + tail + ".weight" in self.w:
            gate = self.mul(b + "ffn_gate" + tail, x)
        elif self.arch == "plamo2":
            gate, up = np.split(up, 2, axis=1)
        return self.mul(b + "ffn_down" + tail, self.wide(gate, up))

    def choose(self, b, x):
        logits = x @ self.w[b + "ffn_gate_inp.weight"].T
        squashed = self.arch == "nemotron_h_moe" and self.fault != "softmax for sigmoid"
        for p in sigmoid(logits) if squashed else softmax(logits):
            bias = self.w.get(b + "exp_probs_b.bias", 0)
            best = np.argsort(-(p if self.fault == "no expert bias" else p + bias))[:self.used]
            weights = (p + bias if self.fault == "expert bias in the weights" else p)[best]
            normed = self.arch != "jamba" and self.fault != "expert weights not normed"
            scale = 1 if self.fault == "expert weights not scaled" else self.key("expert_weights_scale", 1.0)
            yield best, weights / (weights.sum() if normed else 1) * scale

    def moved(self, name, e, x):
        return self.rounded(name, x) @ self.w[name + ".weight"][e].T

    def feed(self, b, x):
        if b + "ffn_gate_inp.weight" not in self.w:
            return self.dense(b, x)
        latent = b + "ffn_latent_down.weight" in self.w
        inner = self.mul(b + "ffn_latent_down", x) if latent else x
        y = np.zeros_like(inner)
        for t, (best, weights) in enumerate(self.choose(b, x)):
            for e, we in zip(best, weights):
                row = inner[t:t + 1]
                gate = self.moved(b + "ffn_gate_exps", e, row) if b + "ffn_gate_exps.weight" in self.w else None
                y[t] += we * self.moved(b + "ffn_down_exps", e, self.wide(gate, self.moved(b + "ffn_up_exps", e, row)))[0]
        if latent:
            y = self.mul(b + "ffn_latent_up", inner if self.fault == "no latent" else y)
        if b + "ffn_up_shexp.weight" in self.w and self.fault != "no shared expert":
            y = y + self.dense(b, x, "_shexp")
        return y

    # --- layers ---
    def add(self, x, y, post):
        if self.has(post) and self.fault != "no norms after blocks":
            y = self.norm(post, y)
        return x + y * (1 if self.fault == "residual not scaled" else self.key("residual_scale", 1.0))

    def layer(self, b, x):
        state, attn, ffn = (b + name in self.w for name in ("ssm_in.weight", "attn_output.weight", "ffn_down.weight"))
        ffn |= b + "ffn_down_exps.weight" in self.w
        into, alone = self.norm(b + "attn_norm", x), ffn and not state and not attn
        mix = self.mamba if self.arch in ("mamba", "jamba", "plamo2") else self.mamba2
        if state or attn:
            y = mix(b, into) if state else 0
            if attn and state and self.fault == "attention after the state":
                x, into, y = x + y, self.norm(b + "attn_norm", x + y), 0
            x = self.add(x, y + (self.attend(b, into) if attn else 0), b + "post_attention_norm")
        if ffn:
            x = self.add(x, self.feed(b, into if alone else self.norm(b + "ffn_norm", x)), b + "post_ffw_norm")
        return x

    def hidden(self, ids):
        x = self.w["token_embd.weight"][ids] * (1 if self.fault == "embedding not scaled" else self.key("embedding_scale", 1.0))
        for i in range(self.layers):
            x = self.layer("blk.%d." % i, x)
        return self.norm(self.LAST_NORM, x)

    def logits(self, ids):
        self.gaps = []
        y = self.mul("output" if "output.weight" in self.w else "token_embd", self.hidden(ids))
        return y / (1 if self.fault == "logits not scaled" else self.key("logit_scale", 1.0))


READERS = dict.fromkeys(("mamba2", "nemotron_h", "nemotron_h_moe", "granitehybrid", "falcon-h1", "mamba", "jamba", "plamo2"), Ssm)
