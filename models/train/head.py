"""Train a draft head (NextN, multi-token prediction) for a model of this folder: one more block, which guesses the next token but one.

    python3 head.py ../pip-f16.gguf --out run/head.pt --minutes 25

The model stays as it is. At position p the head reads the token there and what the model's last norm left at p - 1, so that it
guesses what the model will say at p before the model has read p; it learns from the model's distribution there. Its own output
stands in for the model's where the next guesses read on (depth 2 and 3); in training as in use such a row sees, of the positions
before it, the keys and values of rows that had the model's output, but for those of the guesses just made.
"""
import argparse
import os
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

import export
from model import SIZES, Block, Model, n_params, rms_norm, rotate
from tokenizer import Tokenizer
from train import Muon, Packer, Prefetch, Team

HERE = os.path.dirname(os.path.abspath(__file__))
SHARES = 1.0, 0.6, 0.4        # weights of the guesses by their depth


def back(x, n, dim):
    """What stands n places before, zeros at the beginning."""
    if not n:
        return x
    kept = x.narrow(dim, 0, x.shape[dim] - n)
    return torch.cat((torch.zeros_like(x.narrow(dim, 0, n)), kept), dim)


class Head(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.token_norm = nn.Parameter(torch.ones(cfg.n_embd))
        self.state_norm = nn.Parameter(torch.ones(cfg.n_embd))
        self.proj = nn.Parameter(torch.empty(cfg.n_embd, 2 * cfg.n_embd))
        self.block = Block(cfg)
        self.out_norm = nn.Parameter(torch.ones(cfg.n_embd))

    @torch.no_grad()
    def begin(self, seed):
        """Weights of a model that knows nothing: the block adds nothing to what the projection makes of its two inputs."""
        gen = torch.Generator().manual_seed(seed)
        for p in (self.proj, self.block.qkv, self.block.gate_up):
            p.normal_(0, p.shape[1] ** -0.5, generator=gen)
        self.block.out.zero_()
        self.block.down.zero_()

    def matrices(self):
        blk = self.block
        yield self.proj, (self.cfg.n_embd,)
        yield blk.qkv, (blk.d_q, blk.d_kv, blk.d_kv)
        yield blk.out, (self.cfg.n_embd,)
        yield blk.gate_up, (self.cfg.n_ff, self.cfg.n_ff)
        yield blk.down, (self.cfg.n_embd,)

    def guess(self, emb, state, rope, first, mask):
        """Rows of one depth: emb [B, T, D] of the tokens, state [B, T, D] of the positions before, first: keys and values of each
        depth so far, to which those of this one are added; mask [B, 1, T, T] for those of depth 1. -> [B, T, D] after the last norm"""
        cfg, blk, (b, t, _) = self.cfg, self.block, emb.shape
        x = F.linear(torch.cat((rms_norm(emb, self.token_norm), rms_norm(state, self.state_norm)), -1), self.proj)
        q, k, v = F.linear(rms_norm(x, blk.attn_norm), blk.qkv).split((blk.d_q, blk.d_kv, blk.d_kv), dim=-1)
        q = rotate(rms_norm(q.view(b, t, cfg.n_head, -1).transpose(1, 2), blk.q_norm), *rope)
        k = rotate(rms_norm(k.view(b, t, cfg.n_head_kv, -1).transpose(1, 2), blk.k_norm), *rope)
        v = v.view(b, t, cfg.n_head_kv, -1).transpose(1, 2)
        first.append([z.repeat_interleave(cfg.n_head // cfg.n_head_kv, 1) for z in (k, v)])
        depth = len(first)
        near = [[back(z, j, 2) for z in first[depth - 1 - j]] for j in range(depth - 1)]
        scores = [q @ first[0][0].mT / cfg.head_dim ** 0.5 + mask] + [(q * kk).sum(-1, keepdim=True) / cfg.head_dim ** 0.5 for kk, _ in near]
        p = torch.cat(scores, -1).softmax(-1)
        y = p[..., :t] @ first[0][1] + sum(p[..., t + j:t + j + 1] * vv for j, (_, vv) in enumerate(near))
        x = x + F.linear(y.transpose(1, 2).reshape(b, t, blk.d_q), blk.out)
        gate, up = F.linear(rms_norm(x, blk.ffn_norm), blk.gate_up).chunk(2, dim=-1)
        return rms_norm(x + F.linear(F.silu(gate) * up, blk.down), self.out_norm)


def masks(doc, depth):
    """What a row of that depth sees of depth 1: rows of its document, so many places before it or more."""
    t = doc.shape[1]
    ok = (doc[:, :, None] == doc[:, None, :]) & torch.ones(t, t, dtype=torch.bool).tril(1 - depth)
    return torch.zeros(ok.shape).masked_fill_(~ok, float("-inf"))[:, None]


def losses(model, head, x, doc, w, depths, pull=0.0):
    """For each depth the sums over its rows of the distance from the model's distribution and, times pull, of that from its output;
    of the first alone; of rows where both find the same token likeliest; and how many rows there are."""
    with torch.no_grad():
        truth = state = model.hidden(x, masks(doc, 1))
        aim = torch.log_softmax(F.linear(state, model.embd), -1)
        emb = F.embedding(x, model.embd)
    rope, first, out = (model.cos[:x.shape[1]], model.sin[:x.shape[1]]), [], []
    begun = back(doc + 1, 1, 1) == doc + 1            # the position before is of the same document
    for depth in range(1, depths + 1):
        state = head.guess(emb, back(state, 1, 1) * begun[..., None], rope, first, masks(doc, depth))
        ok = (back(doc + 1, depth - 1, 1) == doc + 1) & (w > 0)
        logp = torch.log_softmax(F.linear(state[ok], model.embd), -1)
        kl = (aim[ok].exp() * (aim[ok] - logp)).sum()
        far = ((state - truth)[ok] ** 2).sum() / (truth[ok] ** 2).mean() / truth.shape[-1]
        out.append((kl + far * pull, kl, (aim[ok].argmax(-1) == logp.argmax(-1)).sum(), int(ok.sum())))
    return out


class Trainer:
    def __init__(self, args):
        self.args, self.cfg, self.tok = args, SIZES["target"], Tokenizer.load(args.tokenizer)
        self.model = Model(self.cfg)
        export.fill(self.model, self.tok, args.model)
        self.model.eval().requires_grad_(False)
        self.head = Head(self.cfg)
        self.head.begin(1)
        matrices = list(self.head.matrices())
        moved = {id(p) for p, _ in matrices}
        self.muon = Muon(matrices, Team(0, 1))
        self.adam = torch.optim.AdamW([p for p in self.head.parameters() if id(p) not in moved], lr=args.lr_norm, betas=(0.9, 0.98),
                                      weight_decay=0.0)
        self.packer = Packer(self.tok, self.cfg.n_ctx, "train", 1.0, args.first_seed)
        self.val = Packer(self.tok, self.cfg.n_ctx, "test", 1.0).batch(6)

    def rate(self, done, step):
        return min(1.0, (step + 1) / 20) * min(1.0, (1 - done) / self.args.decay)

    def update(self, batch, rate, depths):
        parts = losses(self.model, self.head, batch["x"], batch["doc"], batch["w"], depths, self.args.pull)
        sum(share * loss / n for share, (loss, _, _, n) in zip(SHARES, parts)).backward()
        self.muon.step(self.args.lr * rate)
        for group in self.adam.param_groups:
            group["lr"] = self.args.lr_norm * rate
        self.adam.step()
        self.head.zero_grad(set_to_none=True)

    @torch.no_grad()
    def judge(self):
        return losses(self.model, self.head, self.val["x"], self.val["doc"], self.val["w"], self.args.depths)

    def save(self):
        torch.save({"cfg": vars(self.cfg), "head": self.head.state_dict()}, self.args.out + ".tmp")
        os.replace(self.args.out + ".tmp", self.args.out)

    def run(self):
        args, step, tokens = self.args, 0, 0
        print("%d parameters beside the model's %d" % (n_params(self.head), n_params(self.model)), flush=True)
        batches, begun = Prefetch(self.packer, args.rows), time.process_time()
        while True:
            done = min(1.0, (time.process_time() - begun) / (60 * args.minutes))
            if step % args.log_every == 0 or done >= 1:
                print("step %d, %d tokens, %.1f min: held out, by depth: %s" % (step, tokens, (time.process_time() - begun) / 60, "; ".join(
                    "%.4f nats, %.3f the same" % (kl / n, same / n) for _, kl, same, n in self.judge())), flush=True)
                self.save()
            if done >= 1:
                return
            batch = batches.take()
            self.update(batch, self.rate(done, step), 1 if done < args.first else args.depths)
            tokens, step = tokens + int((batch["w"] > 0).sum()), step + 1


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("model", help="GGUF file of export.py")
    ap.add_argument("--out", required=True, help="checkpoint to write")
    ap.add_argument("--tokenizer", default=os.path.join(HERE, "tokenizer.json"))
    ap.add_argument("--minutes", type=float, default=25, help="CPU time of the run")
    ap.add_argument("--depths", type=int, default=len(SHARES), choices=range(1, len(SHARES) + 1), help="guesses in a row that are trained")
    ap.add_argument("--first", type=float, default=0.4, help="share of the time for the first guess alone")
    ap.add_argument("--pull", type=float, default=0.5, help="weight of the distance from the model's output")
    ap.add_argument("--rows", type=int, default=8, help="rows of n_ctx tokens in a step")
    ap.add_argument("--lr", type=float, default=0.01, help="of the matrices")
    ap.add_argument("--lr-norm", type=float, default=0.003, help="of the norms")
    ap.add_argument("--decay", type=float, default=0.7, help="last share of the time, over which the rate falls to zero")
    ap.add_argument("--first-seed", type=int, default=200000000, help="seed of the first document")
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--log-every", type=int, default=50)
    args = ap.parse_args()
    torch.set_num_threads(args.threads)
    Trainer(args).run()


if __name__ == "__main__":
    sys.exit(main())
