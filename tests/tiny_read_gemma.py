"""Readings for tests/tiny_check.py of gemma4 (Four) and gemma3n (Three)."""
import numpy as np

from tiny_read import Model, round_act, softmax


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


def rms(x, least=0.0):
    return np.sqrt(np.maximum((x * x).mean(-1, keepdims=True), least))


class Gemma(Model):
    """What both share: attention of two kinds of layers, K/V of an earlier layer, embeddings for each layer, the cap."""
    FAULTS = [
        "no norm gains", "norm epsilon", "gains 1 + g", "silu for gelu", "rope kind", "rope base", "one rope table",
        "window one longer", "window one shorter", "no window", "window everywhere", "window on the other layers", "scores scaled",
        "no q/k norm", "no v norm", "v normed with the gain of k", "norm after rope", "no norms after blocks",
        "k/v of the layer before", "own k/v", "no embedding scale", "no cap", "no embeddings by layer",
        "embeddings of the next layer", "no scale of the embeddings by layer", "no projection by layer", "projection not normed",
        "no gate by layer", "no norm after the embedding by layer"]

    def __init__(self, f, **kw):
        super().__init__(f, **kw)
        key = self.key
        self.D, self.P = key("embedding_length"), key("embedding_length_per_layer_input")
        self.share = key("attention.shared_kv_layers")
        self.windowed = key("attention.sliding_window_pattern")
        if self.fault == "window everywhere":
            self.windowed = [True] * self.layers
        if self.fault == "window on the other layers":
            self.windowed = [not w for w in self.windowed]
        self.kinds = key("attention.sliding_window_pattern")            # sizes and tables stay where they are

    def norm(self, name, x):
        y = super().norm(name, x)
        return y + y / self.w[name + ".weight"] if self.fault == "gains 1 + g" else y

    def plain_norm(self, x):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps)

    def act(self, x):
        return x / (1 + np.exp(-x)) if self.fault == "silu for gelu" else gelu(x)

    def after(self, name, y):
        return y if self.fault == "no norms after blocks" else self.norm(name, y)

    # --- attention --------------------------------------------------------------------------------------------------
    def table(self, i, hd):
        local = self.kinds[i] and self.fault != "one rope table"
        base = self.key("rope.freq_base_swa" if local else "rope.freq_base") * (1.5 if self.fault == "rope base" else 1)
        f = base ** (-np.arange(0, hd, 2) / hd)
        factors = self.w.get("rope_freqs.weight")
        if factors is None or self.fault == "no frequency factors" or (self.kinds[i] and self.fault != "frequency factors everywhere"):
            return f
        return f / factors[:hd // 2]

    def rope(self, x, freq):
        """x [n, heads, hd]; halves"""
        angle = np.arange(len(x))[:, None, None] * freq
        cos, sin = np.cos(angle), np.sin(angle)
        pairs = self.fault == "rope kind"
        a, b = (x[..., 0::2], x[..., 1::2]) if pairs else np.split(x, 2, axis=-1)
        a, b = a * cos - b * sin, a * sin + b * cos
        return np.stack([a, b], -1).reshape(x.shape) if pairs else np.concatenate([a, b], -1)

    def turned(self, name, x, freq):
        if self.fault == "no q/k norm":
            return self.rope(x, freq)
        if self.fault == "norm after rope":
            return self.norm(name, self.rope(x, freq))
        return self.rope(self.norm(name, x), freq)

    def source(self, i):
        """The layer whose K/V layer i reads."""
        first = self.layers - self.share
        if i < first or self.fault == "own k/v" and "blk.%d.attn_k.weight" % i in self.w:
            return i
        if self.fault == "k/v of the layer before":         # of its kind, but not the last one
            kinds = [j for j in range(first) if self.kinds[j] == self.kinds[i]]
            return kinds[-2] if len(kinds) > 1 else kinds[-1]
        return max(j for j in range(first) if self.kinds[j] == self.kinds[i])

    def keys_values(self, i, b, x, hd, freq):
        raw = self.mul(b + "attn_k", x).reshape(len(x), -1, hd)
        v = self.mul(b + "attn_v", x).reshape(raw.shape) if b + "attn_v.weight" in self.w else raw
        k = self.turned(b + "attn_k_norm", raw, freq)
        if self.fault == "v is the normed k" and b + "attn_v.weight" not in self.w:
            v = k
        if self.fault == "v normed with the gain of k":
            v = self.norm(b + "attn_k_norm", v)
        elif self.fault != "no v norm":
            v = self.plain_norm(v)
        if self.kv16:
            k, v = k.astype(np.float16).astype(float), v.astype(np.float16).astype(float)
        return k, v

    def seen(self, i, n):
        p, window = np.arange(n), self.key("attention.sliding_window")
        mask = p[None] <= p[:, None]
        window += {"window one longer": 1, "window one shorter": -1, "no window": n}.get(self.fault, 0)
        return mask & (p[:, None] - p[None] < window) if self.windowed[i] else mask

    def attend_layer(self, i, x):
        b, n, heads = "blk.%d." % i, len(x), self.key("attention.head_count")
        hd = self.w[b + "attn_q_norm.weight"].size
        freq = self.table(i, hd)
        q = self.turned(b + "attn_q_norm", self.mul(b + "attn_q", x).reshape(n, heads, hd), freq)
        if self.source(i) == i:
            self.cache[i] = self.keys_values(i, b, x, hd, freq)
        k, v = self.cache[self.source(i)]
        scale = 1 / np.sqrt(hd) if self.fault == "scores scaled" else 1
        out, seen = np.empty_like(q), self.seen(i, n)
        for h in range(heads):
            g = h * k.shape[1] // heads
            out[:, h] = softmax(np.where(seen, q[:, h] @ k[:, g].T * scale, -np.inf)) @ v[:, g]
        return self.after(b + "post_attention_norm", self.mul(b + "attn_output", out.reshape(n, -1)))

    # --- embeddings for each layer ----------------------------------------------------------------------------------
    def by_layer(self, ids, x):
        """[n, layers, P]"""
        shape = (len(ids), self.layers, self.P)
        own = self.w["per_layer_token_embd.weight"][ids].reshape(shape)
        if self.fault != "no scale of the embeddings by layer":
            own = own * np.sqrt(self.P)
        p = self.mul("per_layer_model_proj", x).reshape(shape)
        p = p / np.sqrt(self.D)                 # the norm hides this factor, as the norm behind the block hides the half below
        p = p if self.fault == "projection not normed" else self.norm("per_layer_proj_norm", p)
        if self.fault == "no projection by layer":
            return own
        return (p + own) * np.sqrt(0.5)

    def add_by_layer(self, i, x):
        """What the embedding of layer i adds; x goes through its gate."""
        b, at = "blk.%d." % i, (i + (self.fault == "embeddings of the next layer")) % self.layers
        if self.fault == "no embeddings by layer":
            return 0
        gate = 1 if self.fault == "no gate by layer" else self.act(self.mul(b + "inp_gate", x))
        y = self.mul(b + "proj", gate * self.each[:, at])
        return y if self.fault == "no norm after the embedding by layer" else self.norm(b + "post_norm", y)

    def logits(self, ids):
        x = self.w["token_embd.weight"][ids] * (1 if self.fault == "no embedding scale" else np.sqrt(self.D))
        self.cache, self.each = {}, self.by_layer(ids, x) if self.P else None
        self.last = self.stack(x)
        y = self.mul("output" if "output.weight" in self.w else "token_embd", self.norm("output_norm", self.last))
        cap = self.key("final_logit_softcapping")
        return y if self.fault == "no cap" else cap * np.tanh(y / cap)


class Four(Gemma):
    FAULTS = Gemma.FAULTS + [
        "no frequency factors", "frequency factors everywhere", "v is the normed k", "no layer scalar",
        "layer scalar on the block alone", "no dense block", "no experts", "router on the normed input", "router not normed",
        "router without its scale", "router not scaled down", "expert weights not normed", "no factor of an expert",
        "experts on the dense block's norm", "no norm after the dense block", "no norm after the experts", "gate and up swapped"]

    def rounded(self, name, x):
        return round_act(x) if self.act8 and self.types[name + ".weight"] not in (0, 1, 30) else x

    def expert(self, b, e, x):
        gate_up, down = b + "ffn_gate_up_exps", b + "ffn_down_exps"
        if gate_up + ".weight" in self.w:
            gate, up = np.split(self.rounded(gate_up, x) @ self.w[gate_up + ".weight"][e].T, 2, axis=-1)
        else:
            gate, up = (self.rounded(b + n, x) @ self.w[b + n + ".weight"][e].T for n in ("ffn_gate_exps", "ffn_up_exps"))
        gate, up = (up, gate) if self.fault == "gate and up swapped" else (gate, up)
        return self.rounded(down, self.act(gate) * up) @ self.w[down + ".weight"][e].T

    def experts(self, b, x):
        r = x if self.fault == "router not normed" else self.plain_norm(x)
        r = self.norm(b + "pre_ffw_norm_2", x) if self.fault == "router on the normed input" else r
        r = r if self.fault == "router without its scale" else r * self.w[b + "ffn_gate_inp.scale"]
        r = r if self.fault == "router not scaled down" else r / np.sqrt(self.D)
        prob = softmax(r @ self.w[b + "ffn_gate_inp.weight"].T)
        u = self.norm(b + ("ffn_norm" if self.fault == "experts on the dense block's norm" else "pre_ffw_norm_2"), x)
        y = np.zeros_like(x)
        for t, p in enumerate(prob):
            best = np.argsort(-p)[:self.used]
            weights = p[best] / (1 if self.fault == "expert weights not normed" else p[best].sum())
            if self.fault != "no factor of an expert":
                weights = weights * self.w[b + "ffn_down_exps.scale"][best]
            for e, we in zip(best, weights):
                y[t] += we * self.expert(b, e, u[t:t + 1])[0]
        return y if self.fault == "no norm after the experts" else self.norm(b + "post_ffw_norm_2", y)

    def block(self, b, x):
        """The feed-forward; with experts beside it where the layer has them."""
        y = self.feed(b, self.norm(b + "ffn_norm", x))
        if b + "ffn_gate_inp.weight" in self.w:
            y = y if self.fault == "no norm after the dense block" else self.norm(b + "post_ffw_norm_1", y)
            y = y * (self.fault != "no dense block") + (0 if self.fault == "no experts" else self.experts(b, x))
        return self.after(b + "post_ffw_norm", y)

    def feed(self, b, x):
        return self.mul(b + "ffn_down", self.act(self.mul(b + "ffn_gate", x)) * self.mul(b + "ffn_up", x))

    def stack(self, x):
        for i in range(self.layers):
            b, before = "blk.%d." % i, x
            x = x + self.attend_layer(i, self.norm(b + "attn_norm", x))
            x = x + self.block(b, x)
            if self.P:
                x = x + self.add_by_layer(i, x)
            scale = self.w[b + "layer_output_scale.weight"]
            if self.fault == "layer scalar on the block alone":
                x = before + (x - before) * scale
            elif self.fault != "no layer scalar":
                x = x * scale
        return x


class Assistant(Four):
    """gemma4-assistant: a draft head beside a gemma4, whose embeddings, last normed state, keys and values it reads."""
    GUESS_FAULTS = ["token and state swapped", "no embedding scale", "state before the last norm fed back", "own state not fed back",
                    "position of the last key", "one position further each", "window of as many", "keys of the other layers", "scores scaled", "no q/k norm",
                    "no frequency factors", "no layer scalar", "no norms after blocks", "norm epsilon"]

    def __init__(self, f, **kw):
        super().__init__(f, **kw)
        self.layers = self.key("block_count")

    def attend_one(self, i, x, target, n):
        """x [1, D], at position n behind n keys."""
        b, heads, fault = "blk.%d." % i, self.key("attention.head_count"), self.fault
        hd = self.w[b + "attn_q_norm.weight"].size
        freq = self.table(i, hd)
        q = self.mul(b + "attn_q", x).reshape(1, heads, hd)
        q = q if fault == "no q/k norm" else self.norm(b + "attn_q_norm", q)
        at = n - (fault == "position of the last key")
        q = self.rope(np.repeat(q, at + 1, axis=0), freq)[-1]
        of = [j for j in range(target.layers) if target.kinds[j] == self.kinds[i]]
        k, v = target.cache[target.source(of[0 if fault == "keys of the other layers" else -1])]
        window = self.key("attention.sliding_window") + (fault == "window of as many")
        first = max(0, n - window + 1) if self.kinds[i] else 0
        scale = 1 / np.sqrt(hd) if fault == "scores scaled" else 1
        out = np.empty((heads, hd))
        for h in range(heads):
            g = h * k.shape[1] // heads
            out[h] = softmax(q[h] @ k[first:n, g].T * scale) @ v[first:n, g]
        return self.after(b + "post_attention_norm", self.mul(b + "attn_output", out.reshape(1, -1)))

    def guesses(self, target, ids, own):
        """Logits [own, V] of the last `own` tokens of ids, each a guess of the token after it, where the target has read those before them."""
        n, fault, got = len(ids) - own, self.fault, []
        target.logits(ids[:n])
        h = target.norm("output_norm", target.last)[-1:]
        for i in range(own):
            e = target.w["token_embd.weight"][[ids[n + i]]]
            e = e * (1 if fault == "no embedding scale" else np.sqrt(e.shape[1]))
            x = self.mul("blk.0.nextn.pre_projection", np.concatenate([h, e] if fault == "token and state swapped" else [e, h], axis=1))
            for il in range(self.layers):
                b = "blk.%d." % il
                x = x + self.attend_one(il, self.norm(b + "attn_norm", x), target, n + i * (fault == "one position further each"))
                x = x + self.block(b, x)
                x = x if fault == "no layer scalar" else x * self.w[b + "layer_output_scale.weight"]
            y = self.norm("output_norm", x)
            got.append(self.mul("token_embd", y))
            if fault != "own state not fed back":
                h = self.mul("nextn.post_projection", x if fault == "state before the last norm fed back" else y)
        return np.concatenate(got)


class Three(Gemma):
    FAULTS = Gemma.FAULTS + [
        "no laurel", "laurel on the stream", "laurel not normed", "sum not halved", "no cut of the gates",
        "cut of every layer's gates", "deviation of a sample", "cut behind the activation", "first stream active", "no prediction",
        "prediction transposed", "no correction", "correction of the active stream alone", "correction without one",
        "router before the norm", "router not scaled down", "modalities not squashed", "no correct scale",
        "embedding by layer in every stream", "streams not made as large", "last streams not made as large",
        "first stream alone at the end"]

    def __init__(self, f, **kw):
        super().__init__(f, **kw)
        self.A, self.active = self.key("altup.num_inputs"), self.key("altup.active_idx")
        if self.fault == "first stream active":
            self.active = 0

    def streams(self, x):
        """Stream 0 is x; the others are projections of it, as large as it is."""
        h = [x]
        for m in self.w["altup_proj.weight"]:
            y = x @ m.T
            h.append(y if self.fault == "streams not made as large" else y * rms(x) / rms(y, 1e-5))
        return h

    def merged(self, h):
        out = [h[0]]
        if self.fault == "first stream alone at the end":
            return h[0]
        for y, m in zip(h[1:], self.w["altup_unembd_proj.weight"]):
            y = y @ m.T
            out.append(y if self.fault == "last streams not made as large" else y * rms(h[0]) / rms(y, 1e-5))
        return sum(out) / self.A

    def modalities(self, b, y):
        y = y if self.fault == "router before the norm" else self.norm(b + "altup_router_norm", y)
        y = y @ self.w[b + "altup_router.weight"].T / (1 if self.fault == "router not scaled down" else self.D)
        return y if self.fault == "modalities not squashed" else np.tanh(y)

    def predict(self, b, h):
        if self.fault == "no prediction":
            return h
        c = (self.modalities(b, h[self.active]) @ self.w[b + "altup_predict_coef.weight"].T).reshape(-1, self.A, self.A)
        c = c.swapaxes(1, 2) if self.fault == "prediction transposed" else c
        return [h[i] + sum(c[:, i, j, None] * h[j] for j in range(self.A)) for i in range(self.A)]

    def correct(self, b, pred, t):
        new = t - pred[self.active]
        c = self.modalities(b, t) @ self.w[b + "altup_correct_coef.weight"].T + (self.fault != "correction without one")
        if self.fault == "no correction":
            return [t if i == self.active else p for i, p in enumerate(pred)]
        alone = self.fault == "correction of the active stream alone"
        return [p if alone and i != self.active else p + c[:, i, None] * new for i, p in enumerate(pred)]

    def laurel(self, b, n, x):
        if self.fault == "no laurel":
            return n
        y = self.mul(b + "laurel_r", self.mul(b + "laurel_l", n))
        y = y if self.fault == "laurel not normed" else self.norm(b + "laurel_post_norm", y)
        return y + (x if self.fault == "laurel on the stream" else n)

    def cut(self, i, gate):
        scale = self.key("activation_sparsity_scale")[i]
        if self.fault == "cut of every layer's gates":
            scale = max(self.key("activation_sparsity_scale"))
        if np.isinf(scale) or self.fault == "no cut of the gates":
            return gate
        least = gate.mean(-1, keepdims=True) + scale * gate.std(-1, keepdims=True, ddof=int(self.fault == "deviation of a sample"))
        return np.maximum(gate - least, 0)

    def feed_layer(self, i, x):
        b = "blk.%d." % i
        gate = self.mul(b + "ffn_gate", x)
        gate = self.cut(i, self.act(gate)) if self.fault == "cut behind the activation" else self.act(self.cut(i, gate))
        return self.after(b + "post_ffw_norm", self.mul(b + "ffn_down", gate * self.mul(b + "ffn_up", x)))

    def stack(self, x):
        h = self.streams(x)
        for i in range(self.layers):
            h = self.layer(i, h)
        return self.merged(h)

    def layer(self, i, h):
        b = "blk.%d." % i
        pred = self.predict(b, h)
        x = pred[self.active]
        n = self.norm(b + "attn_norm", x)
        g = x + self.attend_layer(i, n) + self.laurel(b, n, x)
        g = g if self.fault == "sum not halved" else g / np.sqrt(2)
        h = self.correct(b, pred, g + self.feed_layer(i, self.norm(b + "ffn_norm", g)))
        first = h[self.active] * (1 if self.fault == "no correct scale" else self.w[b + "altup_correct_scale.weight"])
        more = self.add_by_layer(i, first)
        return [y if j == 0 and self.fault != "embedding by layer in every stream" else y + more for j, y in enumerate(h)]


READERS = dict(gemma4=Four, gemma3n=Three)
