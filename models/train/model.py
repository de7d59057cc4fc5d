"""The two small transformers of this folder in torch: architecture `qwen3` as GGUF readers know it.

RMS norm before each half of a block, queries and keys normalised per head, rotary positions over halves of a head, grouped key
and value heads, SwiGLU, no biases, the output head tied to the embedding. Matrices that read the same row are kept as one
(`qkv`, `gate_up`), which saves passes over memory; export.py takes them apart.
"""
import dataclasses
import math

import torch
import torch.nn.functional as F
from torch import nn

EPS = 1e-6


@dataclasses.dataclass
class Config:
    n_vocab: int = 3072
    n_embd: int = 256
    n_layer: int = 6
    n_head: int = 4
    n_head_kv: int = 2
    head_dim: int = 64
    n_ff: int = 768
    n_ctx: int = 512
    rope_base: float = 10000.0


SIZES = {
    "target": Config(),
    "draft": Config(n_embd=64, n_layer=3, n_head=2, n_head_kv=1, head_dim=32, n_ff=256),
}


def rms_norm(x, w):
    return F.rms_norm(x, (x.shape[-1],), w, EPS)


def rope_tables(cfg, n):
    half = cfg.head_dim // 2
    freq = cfg.rope_base ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = torch.arange(n, dtype=torch.float64)[:, None] * freq
    return angle.cos().float(), angle.sin().float()


def rotate(x, cos, sin):
    """x [B, H, T, HD]; cos, sin [T, HD / 2] or [B, 1, T, HD / 2]"""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.d_q, self.d_kv = cfg.n_head * cfg.head_dim, cfg.n_head_kv * cfg.head_dim
        self.attn_norm = nn.Parameter(torch.ones(cfg.n_embd))
        self.qkv = nn.Parameter(torch.empty(self.d_q + 2 * self.d_kv, cfg.n_embd))
        self.q_norm = nn.Parameter(torch.ones(cfg.head_dim))
        self.k_norm = nn.Parameter(torch.ones(cfg.head_dim))
        self.out = nn.Parameter(torch.empty(cfg.n_embd, self.d_q))
        self.ffn_norm = nn.Parameter(torch.ones(cfg.n_embd))
        self.gate_up = nn.Parameter(torch.empty(2 * cfg.n_ff, cfg.n_embd))
        self.down = nn.Parameter(torch.empty(cfg.n_embd, cfg.n_ff))

    def attention(self, x, cos, sin, mask, past):
        cfg, (b, t, _) = self.cfg, x.shape
        q, k, v = F.linear(x, self.qkv).split((self.d_q, self.d_kv, self.d_kv), dim=-1)
        q = q.view(b, t, cfg.n_head, cfg.head_dim).transpose(1, 2)
        k = k.view(b, t, cfg.n_head_kv, cfg.head_dim).transpose(1, 2)
        v = v.view(b, t, cfg.n_head_kv, cfg.head_dim).transpose(1, 2)
        q, k = rotate(rms_norm(q, self.q_norm), cos, sin), rotate(rms_norm(k, self.k_norm), cos, sin)
        if past is not None:
            k, v = past.add(self, k, v)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None, enable_gqa=True)
        return F.linear(y.transpose(1, 2).reshape(b, t, self.d_q), self.out)

    def forward(self, x, cos, sin, mask, past=None):
        x = x + self.attention(rms_norm(x, self.attn_norm), cos, sin, mask, past)
        gate, up = F.linear(rms_norm(x, self.ffn_norm), self.gate_up).chunk(2, dim=-1)
        return x + F.linear(F.silu(gate) * up, self.down)


class Model(nn.Module):
    def __init__(self, cfg, seed=0):
        super().__init__()
        self.cfg = cfg
        self.embd = nn.Parameter(torch.empty(cfg.n_vocab, cfg.n_embd))
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.n_layer))
        self.out_norm = nn.Parameter(torch.ones(cfg.n_embd))
        cos, sin = rope_tables(cfg, cfg.n_ctx)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self.init(seed)

    def init(self, seed):
        gen = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            self.embd.normal_(0, 0.02, generator=gen)
            for blk in self.blocks:
                blk.qkv.normal_(0, 1 / math.sqrt(self.cfg.n_embd), generator=gen)
                blk.gate_up.normal_(0, 1 / math.sqrt(self.cfg.n_embd), generator=gen)
                blk.out.zero_()
                blk.down.zero_()

    def matrices(self):
        """The parameters that Muon moves, each as the row counts of the matrices fused in it."""
        for blk in self.blocks:
            yield blk.qkv, (blk.d_q, blk.d_kv, blk.d_kv)
            yield blk.out, (self.cfg.n_embd,)
            yield blk.gate_up, (self.cfg.n_ff, self.cfg.n_ff)
            yield blk.down, (self.cfg.n_embd,)

    def hidden(self, ids, mask=None, pos=None, past=None, tap=None):
        """ids [B, T] -> [B, T, D] after the last norm; mask None means causal, else added to the scores [B, 1, T, T].
        With a tap also what stands after so many blocks, [B, T, D]."""
        cos, sin = self.cos[:ids.shape[1]], self.sin[:ids.shape[1]]
        if pos is not None:
            cos, sin = self.cos[pos][:, None], self.sin[pos][:, None]
        x, tapped = F.embedding(ids, self.embd), None
        for n, blk in enumerate(self.blocks, 1):
            x = blk(x, cos, sin, mask, past)
            tapped = x if n == tap else tapped
        x = rms_norm(x, self.out_norm)
        return x if tap is None else (x, tapped)

    def forward(self, ids, mask=None, pos=None, past=None):
        return F.linear(self.hidden(ids, mask, pos, past), self.embd)


def n_params(model):
    return sum(p.numel() for p in model.parameters())


def load(path):
    """The model of a checkpoint, for use."""
    state = torch.load(path, map_location="cpu", weights_only=False)
    model = Model(Config(**state["cfg"]))
    model.load_state_dict(state["model"])
    return model.eval().requires_grad_(False)


class Cache:
    """Keys and values of the tokens already seen, for batched generation. Rows are right-padded prompts: each row's own
    positions are passed to the model, and the mask hides the padding."""

    def __init__(self):
        self.kv = {}

    def add(self, block, k, v):
        if block in self.kv:
            k, v = torch.cat((self.kv[block][0], k), dim=2), torch.cat((self.kv[block][1], v), dim=2)
        self.kv[block] = (k, v)
        return k, v


@torch.no_grad()
def generate(model, prompts, n_new, stops, temp=0.0, gen=None):
    """Continue token lists, all in one batch; each answer ends before the first token of `stops`."""
    dev = model.embd.device
    n = max(len(p) for p in prompts)
    n_new = min(n_new, model.cfg.n_ctx - n)
    lens = torch.tensor([len(p) for p in prompts], device=dev)
    ids = torch.tensor([list(p) + [0] * (n - len(p)) for p in prompts], device=dev)
    past = Cache()
    hid = model.hidden(ids, past=past)
    logits = F.linear(hid[torch.arange(len(prompts), device=dev), lens - 1], model.embd)
    seen = torch.arange(n, device=dev)[None] < lens[:, None]
    out, open_rows = [[] for _ in prompts], set(range(len(prompts)))
    for i in range(n_new):
        if temp > 0:
            nxt = torch.multinomial(torch.softmax(logits.float() / temp, -1), 1, generator=gen)[:, 0]
        else:
            nxt = logits.argmax(-1)
        for row, tok in enumerate(nxt.tolist()):
            if row in open_rows:
                if tok in stops:
                    open_rows.discard(row)
                else:
                    out[row].append(tok)
        if not open_rows or i + 1 == n_new:
            break
        seen = torch.cat((seen, torch.ones_like(seen[:, :1])), dim=1)
        mask = torch.zeros(seen.shape, device=dev).masked_fill(~seen, float("-inf"))[:, None, None]
        logits = model(nxt[:, None], mask=mask, pos=(lens + i)[:, None], past=past)[:, 0]
    return out
