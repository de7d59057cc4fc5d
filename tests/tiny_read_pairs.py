"""The second reading of encoder-decoders (t5) in numpy, float64, as Raffel et al. 2020 (arXiv 1910.10683) and the T5 1.1 of its authors
arrange them. Where files have no output matrix, the embeddings are it, and logits have the factor of width^-1/2."""
import numpy as np

from tiny_read_encoders import bucket, gelu_tanh, softmax


class Pair:
    def __init__(self, f):
        self.w, self.arch = f.tensors, f.meta["general.architecture"]
        self.key = lambda k, default=None: f.meta.get(self.arch + "." + k, default)
        self.heads, self.hd, self.eps = self.key("attention.head_count"), self.key("attention.key_length"), self.key("attention.layer_norm_rms_epsilon")

    def norm(self, name, x):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * self.w[name + ".weight"]

    def attend(self, b, x, of, bias):
        """x [n, D] asks, `of` [m, D] is read; bias [heads, n, m]."""
        q, k, v = ((y @ self.w["%s%s.weight" % (b, c)].T).reshape(len(y), self.heads, self.hd) for c, y in (("q", x), ("k", of), ("v", of)))
        p = softmax(np.einsum("nhd,mhd->hnm", q, k) + bias)
        return np.einsum("hnm,mhd->nhd", p, v).reshape(len(x), -1) @ self.w[b + "o.weight"].T

    def distances(self, half, il, n):
        far = np.arange(n) - np.arange(n)[:, None]
        own = "%s.blk.%d.attn_rel_b.weight"
        w = self.w.get(own % (half, il), self.w[own % (half, 0)])
        bias = w[bucket(far, self.key("attention.relative_buckets_count"), half == "enc")].transpose(2, 0, 1)
        return bias if half == "enc" else np.where(far <= 0, bias, -np.inf)

    def ffn(self, b, x):
        up = x @ self.w[b + "ffn_up.weight"].T
        gated = b + "ffn_gate.weight" in self.w
        up = gelu_tanh(x @ self.w[b + "ffn_gate.weight"].T) * up if gated else np.maximum(up, 0)
        return up @ self.w[b + "ffn_down.weight"].T

    def half(self, half, ids, layers, text=None):
        x = self.w["token_embd.weight"][ids]
        for il in range(layers):
            b = "%s.blk.%d." % (half, il)
            y = self.norm(b + "attn_norm", x)
            x = x + self.attend(b + "attn_", y, y, self.distances(half, il, len(ids)))
            if text is not None:
                x = x + self.attend(b + "cross_attn_", self.norm(b + "cross_attn_norm", x), text, 0)
            x = x + self.ffn(b, self.norm(b + "ffn_norm", x))
        return self.norm(half + ".output_norm", x)

    def logits(self, text, answer):
        layers = self.key("block_count")
        x = self.half("dec", answer, self.key("decoder_block_count", layers), self.half("enc", text, layers))
        if "output.weight" in self.w:
            return x @ self.w["output.weight"].T
        return x @ self.w["token_embd.weight"].T * x.shape[1] ** -0.5
