"""Reading for tests/tiny_check.py of models with several streams, hyper-connections of a low rank, a table of n-grams and an indexer of means.

Token after token and position after position, as the rules are written.
"""
import numpy as np

from tiny_read import softmax
from tiny_read_recurrent import Delta, sigmoid, silu


# of the gated delta net: those that a model of this kind can show
OF_DELTA = [f for f in Delta.FAULTS if f not in ("mtp block run", "gains 1 + g", "z squashed for silu", "rope on a wrong part")]


class Streams(Delta):
    """qwen4exp"""
    HYPER = ["one stream", "gate of the next stream", "gate not squashed", "no gate of a block's input", "sum of the streams", "rank not activated",
             "rank not divided", "weights not doubled", "weights not squashed", "weights of the next stream", "norm over all streams",
             "blocks add to one stream", "the last mean without a gate"]
    GRAMS = ["no n-grams", "bigrams alone", "stops end nothing", "a stop ends what it sees itself", "tokens before a text are the first", "sum for xor",
             "factors reversed", "rows of the next head", "no gate of the n-grams", "no root of the gate", "root without a sign", "no norm of the key",
             "no norm of the query", "no norm before the convolution of n-grams", "convolution of n-grams without gaps", "gaps of n-grams one more",
             "no convolution of n-grams", "convolution of n-grams alone", "no silu of n-grams"]
    INDEX = ["all positions", "one block fewer", "one block more", "the last positions chosen too", "products of both signs", "the largest key of a block",
             "keys normed before the mean", "rope at the end of a block", "queries of the indexer without norm", "keys of the indexer without norm",
             "indexer without rope", "one head of the indexer"]
    FAULTS = OF_DELTA + ["silu for squashed z"] + HYPER + GRAMS + INDEX

    def __init__(self, f, **kw):
        super().__init__(f, **kw)
        self.n, self.gaps, self.choices = self.key("hyper_connection.count"), [], []         # see tiny_read_decoders

    def or_else(self, fault, right, wrong):
        return wrong if self.fault == fault else right

    # --- streams [n, streams, D] ---
    def norms(self, name, x):
        """The norm of each stream."""
        axes = self.or_else("norm over all streams", -1, (-2, -1))
        y = x / np.sqrt((x * x).mean(axes, keepdims=True) + (1e-2 if self.fault == "norm epsilon" else self.eps))
        return y if self.fault == "no norm gains" else y * self.w[name + ".weight"].reshape(x.shape[1:])

    def enter(self, name, x):
        """-> what a block reads [n, D]; the weights of what it adds [n, streams], None: it adds nothing"""
        n, normed = len(x), self.norms(name + "norm", x)
        low = self.mul(name + "down", normed.reshape(n, -1)) / self.or_else("rank not divided", self.n, 1)
        gate = self.mul(name + "up", low if self.fault == "rank not activated" else self.act(low)).reshape(x.shape)
        gate = self.or_else("gate of the next stream", gate, np.roll(gate, -1, axis=1))
        gate = self.or_else("gate not squashed", sigmoid(gate), gate)
        if self.fault == "no gate of a block's input" or (self.fault == "the last mean without a gate" and name.startswith("output")):
            gate = 1
        out = (gate * normed).mean(1) * self.or_else("sum of the streams", 1, self.n)
        out = self.or_else("one stream", out, (gate * normed)[:, 0])
        if name + "inject.weight" not in self.w:
            return out, None
        c = self.mul(name + "inject", normed.reshape(n, -1)) / self.n
        c = self.or_else("weights of the next stream", c, np.roll(c, -1, axis=1))
        return out, self.or_else("weights not doubled", 2, 1) * self.or_else("weights not squashed", sigmoid(c), c)

    def inject(self, x, y, c):
        more = y[:, None] * c[:, :, None]
        if self.fault == "blocks add to one stream":
            more[:, 1:] = 0
        return x + more

    def hidden(self, ids):
        x = np.repeat(self.w["token_embd.weight"][ids][:, None], self.n, axis=1)
        for i in range(self.layers):
            b = "blk.%d." % i
            if i in self.key("ple.layers", []) and self.fault != "no n-grams":
                x = x + self.recall(b, ids, x)
            y, c = self.enter(b + "hc_attn_", x)
            x = self.inject(x, self.mix(b, y), c)
            y, c = self.enter(b + "hc_ffn_", x)
            x = self.inject(x, self.feed(b, y), c)
        return self.enter("output_hc_", x)[0]

    # --- n-grams ---
    def rows(self, ids):
        """Rows of the table for each token, [n, heads]."""
        n, stop, by = self.key("ple.ngram_size"), self.key("ple.eos_token_id"), self.key("ple.layer_multipliers")
        each, first, size = self.key("ple.heads_per_ngram"), self.key("ple.head_offsets"), self.key("ple.head_vocab_sizes")
        if self.fault == "rows of the next head":
            first, size = first[1:] + first[:1], size[1:] + size[:1]
        by = self.or_else("factors reversed", by, by[::-1])
        before, out = self.or_else("tokens before a text are the first", stop, 0), []
        for at in range(len(ids)):
            seen, over = [], False
            for back in range(n):
                t = (stop if over else before) if over or back > at else ids[at - back]
                over |= t == stop and self.fault != "stops end nothing" and (back > 0 or self.fault == "a stop ends what it sees itself")
                seen.append(int(t))
            row, h = [], 0
            for length in range(2, n + 1):
                mixed = 0
                for back in range(2 if self.fault == "bigrams alone" else length):
                    term = seen[back] * by[back]
                    mixed = mixed + term if self.fault == "sum for xor" else mixed ^ term
                for _ in range(each):
                    row.append(mixed % size[h] + first[h])
                    h += 1
            out.append(row)
        return np.array(out)

    def recall(self, b, ids, x):
        n = len(ids)
        e = self.w["per_layer_token_embd.weight"][self.rows(ids)].reshape(n, -1)
        key, value = self.mul(b + "ple_key", e).reshape(x.shape), self.mul(b + "ple_value", e)
        key = key if self.fault == "no norm of the key" else self.norms(b + "ple_norm_key", key)
        query = x if self.fault == "no norm of the query" else self.norms(b + "ple_norm_query", x)
        s = (key * query).sum(-1) / np.sqrt(x.shape[2])
        root = np.sqrt(np.maximum(np.abs(s), 1e-6)) * self.or_else("root without a sign", np.sign(s), 1)
        gate = sigmoid(self.or_else("no root of the gate", root, s))
        gated = value[:, None] * self.or_else("no gate of the n-grams", gate, np.ones_like(gate))[:, :, None]
        normed = gated if self.fault == "no norm before the convolution of n-grams" else self.norms(b + "ple_norm_conv", gated)
        w, gap = self.w[b + "ple_conv1d.weight"], self.key("ple.ngram_size")
        gap = 1 if self.fault == "convolution of n-grams without gaps" else gap + (self.fault == "gaps of n-grams one more")
        flat, y = normed.reshape(n, -1), np.zeros((n, w.shape[0]))
        for k in range(w.shape[1]):
            back = (w.shape[1] - 1 - k) * gap
            if back < n:
                y[back:] += w[:, k] * flat[:n - back]
        y = (y if self.fault == "no silu of n-grams" else silu(y)).reshape(x.shape)
        return (0 if self.fault == "convolution of n-grams alone" else gated) + (0 if self.fault == "no convolution of n-grams" else y)

    def choose(self, b, x):
        s = x @ self.w[b + "ffn_gate_inp.weight"].T
        order = -np.sort(-s, axis=1)
        self.gaps.append(order[:, self.used - 1] - order[:, self.used])
        return super().choose(b, x)

    # --- recurrent layers and attention ---
    def delta_net(self, b, x):
        q, k, v, z = self.heads(b, x)
        o = self.rule(q, k, v, *self.rates(b, x))
        z = {"silu for squashed z": silu, "z left out": np.ones_like}.get(self.fault, sigmoid)(z)
        if self.fault == "z before the norm":
            o, z = o * z, 1
        o = o if self.fault == "no norm of the output" else self.norm(b + "ssm_norm", o)
        return self.mul(b + "ssm_out", (o * z).reshape(len(x), -1))

    def attend(self, b, x):
        self.seen = self.chosen(b, x)
        return super().attend(b, x)

    def sees(self, n):
        return self.seen

    def index_norm(self, name, x):
        y = x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps)
        return y * self.w[name + ".weight"]

    def chosen(self, b, x):
        """[n, n] the positions that each one attends to: whole blocks, and those after the last of them."""
        n, past = len(x), np.tri(len(x), dtype=bool)
        ratios = self.key("attention.compress_ratios", [])
        size = ratios[int(b.split(".")[1])] if ratios else 0
        if not size or self.fault == "all positions":
            self.choices.append(np.ones(n))
            return past
        top = self.key("attention.indexer.top_k") // size + {"one block fewer": -1, "one block more": 1}.get(self.fault, 0)
        d, rope = self.key("attention.indexer.key_length"), (lambda y: y) if self.fault == "indexer without rope" else self.rope
        q, k = self.mul(b + "indexer.q_proj", x).reshape(n, -1, d), self.mul(b + "indexer.k_proj", x)
        q = q[:, :1] if self.fault == "one head of the indexer" else q
        q = rope(q if self.fault == "queries of the indexer without norm" else self.index_norm(b + "indexer.q_norm", q))
        blocks = n // size
        if self.fault == "keys normed before the mean":
            k = self.index_norm(b + "indexer.k_norm", k)
        of = k[:blocks * size].reshape(blocks, size, d)
        mean = of.max(1) if self.fault == "the largest key of a block" else of.mean(1)
        if self.fault not in ("keys normed before the mean", "keys of the indexer without norm"):
            mean = self.index_norm(b + "indexer.k_norm", mean)
        at, keys = np.arange(blocks) * size + (size - 1 if self.fault == "rope at the end of a block" else 0), np.zeros((n, 1, d))
        keys[at, 0] = mean
        s = np.einsum("nhd,md->nhm", q, rope(keys)[at, 0])
        s = (s if self.fault == "products of both signs" else np.maximum(s, 0)).sum(1)
        seen, gaps = np.zeros((n, n), bool), np.ones(n)
        for t in range(n):
            whole = (t + 1) // size - (self.fault == "the last positions chosen too" and (t + 1) % size == 0)
            order = np.argsort(-s[t, :whole], kind="stable")
            if whole > top:
                ranked = s[t, order]
                gaps[t] = (ranked[top - 1] - ranked[top]) / max(np.abs(ranked).max(), 1e-30)
            for i in order[:top]:
                seen[t, i * size:(i + 1) * size] = True
            seen[t, whole * size:t + 1] = True
        self.choices.append(gaps)
        return seen


READERS = {"qwen4exp": Streams}
