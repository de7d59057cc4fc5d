"""Train a model of this folder on the world's text: the target from the data, the draft from the target and the data.

    python3 train.py --size target --out run/target.pt --minutes 90
    python3 train.py --size draft --teacher run/target.pt --out run/draft.pt --minutes 15

The text is written while training runs, one document per seed, none used twice. The world knows what its text only implies: where
the person or the thing just named is. A linear head on a middle layer, thrown away afterwards, has to tell (States): a story names
somebody thirty times and is asked about him once. A checkpoint holds everything that the next step depends on: `--resume`
continues where the run stopped. The learning rate rises for a moment, stays, and falls to zero over the last part of the
budget, so only the budget has to be known, not the speed of the machine.
"""
import argparse
import concurrent.futures
import copy
import dataclasses
import os
import sys
import tempfile
import time

os.environ.setdefault("OMP_WAIT_POLICY", "passive")   # spinning threads would starve whoever shares the machine

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn

import judge
import mend
import world
from model import SIZES, Model, load, n_params
from tokenizer import EOT, Tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))
RUNNING_EVERY = 8             # one plain document in so many joins the running text
RUNNING_SKIP = ("chat",)      # kinds that never do: their control tokens are no plain text


WHERE = {name: i for i, name in enumerate([None, "gone", *world.PHRASE, *world.NAMES, *world.BOXES, *world.CHESTS])}
KEYS = ("x", "y", "doc", "z", "w", "a")     # of a batch
NO_MENTION = (-1, -1, -1)
BORDER = (EOT, False, NO_MENTION)


def mention_classes(mentions):
    """character after a name -> numbers of the place, of whom or what it is at, of the place at first"""
    out = {}
    for end, place, at, first in mentions:
        at = at if at in WHERE else at.split()[-1]   # "red box"
        out[end] = (WHERE[place], WHERE[at], WHERE[first])
    return out


class Packer:
    """Rows of n_ctx tokens from consecutive seeds. A row holds whole documents, each begun by the start token, that cannot see
    one another; or a stretch of running text, cut anywhere, as a reader of a long plain file meets it."""

    def __init__(self, tok, n_ctx, split, answer_weight, seed=0, pool=48):
        self.tok, self.n_ctx, self.split, self.answer_weight, self.seed = tok, n_ctx, split, answer_weight, seed
        self.pool_size, self.pool, self.running, self.n_plain = pool, [], [], 0

    def state(self):
        return {"seed": self.seed, "pool": list(self.pool), "running": list(self.running), "n_plain": self.n_plain}

    def restore(self, state):
        self.__dict__.update(copy.deepcopy(state))

    def tokens(self, doc):
        """(id, is part of an answer or ends one, classes of who is named up to here) for each token."""
        out, spans, named = [], iter(sorted(doc.answers)), mention_classes(doc.mentions)
        span = next(spans, None)
        for start, end, ids in self.tok.pieces(doc.text):
            while span and start > span[1]:
                span = next(spans, None)
            inside = bool(span) and end > span[0] and start <= span[1]
            out.extend((i, inside, NO_MENTION) for i in ids[:-1])
            out.append((ids[-1], inside, named.get(end, NO_MENTION)))
        return out

    def read_one(self):
        doc = world.document(self.seed, self.split)
        self.seed += 1
        if doc.kind not in RUNNING_SKIP:
            self.n_plain += 1
            if self.n_plain % RUNNING_EVERY == 0:
                self.running.extend(self.tokens(dataclasses.replace(doc, text=doc.text.rstrip("\n") + "\n\n")))
                return
        unit = self.tokens(doc)
        if len(unit) < self.n_ctx:
            self.pool.append([BORDER] + unit + [BORDER])

    def row(self):
        """As KEYS: inputs, targets, document numbers, classes of mentions, weights, answer marks, each n_ctx long"""
        while len(self.pool) < self.pool_size and len(self.running) < self.n_ctx:
            self.read_one()
        if len(self.running) >= self.n_ctx:
            cut, self.running = self.running[:self.n_ctx], self.running[self.n_ctx - 1:]
            return self.finish([[BORDER] + cut])
        units, room = [self.pool.pop(0)], self.n_ctx
        room -= len(units[0]) - 1
        while True:                                   # the longest that still fits, the earliest of equals
            fits = [i for i, u in enumerate(self.pool) if len(u) - 1 <= room]
            if not fits:
                return self.finish(units)
            best = max(fits, key=lambda i: (len(self.pool[i]), -i))
            room -= len(self.pool[best]) - 1
            units.append(self.pool.pop(best))

    def finish(self, units):
        x, y, d, z, w, a = [], [], [], [], [], []
        for number, unit in enumerate(units):
            for (here, _, named), (there, answer, _) in zip(unit, unit[1:]):
                x.append(here), y.append(there), d.append(number), z.append(named), a.append(float(answer))
                w.append(self.answer_weight if answer else 1.0)
        pad = self.n_ctx - len(x)
        zeros = [0.0] * pad
        return x + [EOT] * pad, y + [EOT] * pad, d + [len(units)] * pad, z + [NO_MENTION] * pad, w + zeros, a + zeros

    def batch(self, n_rows):
        rows = zip(*(self.row() for _ in range(n_rows)))
        return dict(zip(KEYS, map(torch.tensor, rows)), state=self.state())


class Prefetch:
    """The next batch is packed while the current one trains."""

    def __init__(self, packer, n_rows):
        self.packer, self.n_rows = packer, n_rows
        self.pool = concurrent.futures.ThreadPoolExecutor(1)
        self.next = self.pool.submit(packer.batch, n_rows)

    def take(self):
        batch = self.next.result()
        self.next = self.pool.submit(self.packer.batch, self.n_rows)
        return batch


def orthogonal(g):
    """Newton-Schulz: the nearest matrices with equal singular values, roughly; g [N, R, C] with R <= C"""
    x = g / (g.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        s = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(s, s, s, beta=-4.7750, alpha=2.0315), x, beta=3.4445)
    return x


class Team:
    """The processes that train one model together, each a share of the rows. On a machine that others use too, two processes
    of one thread get further than one of two threads, which would wait for each other in every small operation."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size

    def mine(self, n):
        """This process's share of n things in order."""
        return range(n * self.rank // self.size, n * (self.rank + 1) // self.size)

    def total(self, tensors, numbers=()):
        """Sums over the team, in place of the tensors; the sums of the numbers are returned."""
        numbers = torch.tensor(numbers, dtype=torch.float64)
        if self.size > 1:
            flat = torch.cat([t.flatten() for t in tensors]) if tensors else torch.empty(0)
            dist.all_reduce(flat)
            dist.all_reduce(numbers)
            for t, part in zip(tensors, flat.split([t.numel() for t in tensors])):
                t.copy_(part.view_as(t))
        return numbers.tolist()


class Muon:
    """Momentum, then an orthogonal step of the same size for every direction. Matrices of equal shape go through together,
    each process of the team its share of them."""

    def __init__(self, matrices, team, momentum=0.95, decay=0.01):
        self.items, self.team = [(p, rows) for p, rows in matrices], team
        self.momentum, self.decay = momentum, decay
        self.velocity = [torch.zeros_like(p) for p, _ in self.items]

    @torch.no_grad()
    def step(self, lr, momentum=None):
        momentum = self.momentum if momentum is None else momentum
        groups = {}
        for (p, rows), v in zip(self.items, self.velocity):
            v.lerp_(p.grad, 1 - momentum)
            step = p.grad.lerp(v, momentum)
            for part, target in zip(step.split(rows), p.data.split(rows)):
                tall = part.shape[0] > part.shape[1]
                wide = part.mT if tall else part
                groups.setdefault(tuple(wide.shape), []).append((wide, target, tall))
        steps = {}
        for shape, group in groups.items():
            steps[shape] = torch.zeros(len(group), *shape, device=group[0][0].device)
            mine = self.team.mine(len(group))
            if mine:
                steps[shape][mine.start:mine.stop] = orthogonal(torch.stack([group[i][0] for i in mine]))
        self.team.total(list(steps.values()))
        for shape, group in groups.items():
            for ortho, (_, target, tall) in zip(steps[shape], group):
                scale = max(1.0, target.shape[0] / target.shape[1]) ** 0.5
                target.mul_(1 - lr * self.decay).add_(ortho.mT if tall else ortho, alpha=-lr * scale)

    def state(self):
        return self.velocity

    def restore(self, velocity):
        for mine, theirs in zip(self.velocity, velocity):
            mine.copy_(theirs)


def doc_mask(doc):
    """[B, T] document numbers -> [B, 1, T, T] added to the scores: nothing ahead, nothing of another document"""
    t = doc.shape[1]
    ok = (doc[:, :, None] == doc[:, None, :]) & torch.ones(t, t, dtype=torch.bool, device=doc.device).tril()
    return torch.zeros(ok.shape, device=doc.device).masked_fill_(~ok, float("-inf"))[:, None]


class States(nn.Module):
    """Reads from a middle layer, where a person or a thing has just been named, what the text implies about it: the place, whom
    or what it is directly at, the place at first. Only training has it: that the model keeps these facts near the names is what
    answers and stories are made from."""

    def __init__(self, cfg, weight):
        super().__init__()
        self.tap, self.weight = 2 * cfg.n_layer // 3, weight
        self.head = nn.Linear(cfg.n_embd, len(NO_MENTION) * len(WHERE), bias=False)
        nn.init.zeros_(self.head.weight)

    def loss(self, x, z):
        """x [B, T, D] after block `tap`, z [B, T, 3] classes or -1 -> sum"""
        logits = self.head(F.rms_norm(x, x.shape[-1:]))
        return self.weight * F.cross_entropy(logits.view(-1, len(WHERE)).float(), z.flatten(), ignore_index=-1, reduction="sum")


def data_loss(model, x, y, doc, z, w, a, states=None):
    """sums over the tokens: weighted loss, loss, loss of answers"""
    hidden, middle = model.hidden(x, doc_mask(doc), tap=states.tap if states else 0)
    logits = F.linear(hidden, model.embd)
    ce = F.cross_entropy(logits.flatten(0, 1).float(), y.flatten(), reduction="none").view_as(w)
    weighted = (ce * w).sum() + (states.loss(middle, z) if states else 0)
    return weighted, (ce * (w > 0)).sum(), (ce * a).sum()


def teacher_loss(model, x, y, doc, z, w, a, teacher, share=0.8):
    """As data_loss; a share of the first is the distance from the teacher's distribution."""
    mask = doc_mask(doc)
    with torch.no_grad():
        aim = torch.log_softmax(teacher(x, mask).float(), -1)
    logp = torch.log_softmax(model(x, mask).float(), -1)
    ce = -logp.gather(-1, y[..., None])[..., 0]
    kl = (aim.exp() * (aim - logp)).sum(-1)
    return ((share * kl + (1 - share) * ce) * w).sum(), (ce * (w > 0)).sum(), (ce * a).sum()


class Trainer:
    def __init__(self, args, team):
        self.args, self.team = args, team
        self.dev = "cuda" if torch.cuda.is_available() else "cpu"
        self.cfg = SIZES[args.size]
        self.tok = Tokenizer.load(args.tokenizer)
        self.model = Model(self.cfg, args.seed).to(self.dev)
        self.teacher = load(args.teacher).to(self.dev) if args.teacher else None
        self.states = None if self.teacher else States(self.cfg, args.state_weight).to(self.dev)
        self.learning = list(self.model.parameters()) + list(self.states.parameters() if self.states else ())
        matrices = list(self.model.matrices())
        moved = {id(p) for p, _ in matrices}
        self.muon = Muon(matrices, team)
        self.adam = torch.optim.AdamW([p for p in self.learning if id(p) not in moved], lr=args.lr_embd,
                                      betas=(0.9, 0.98), eps=1e-10, weight_decay=0.0, fused=True)
        self.packer = Packer(self.tok, self.cfg.n_ctx, "train", args.answer_weight, args.first_seed)
        self.step, self.tokens, self.spent = 0, 0, 0.0
        self.packer_state = self.packer.state()
        if args.init:
            import export                             # here, so that only what reads or writes GGUF needs that library
            export.fill(self.model, self.tok, args.init)
        if args.resume:
            self.restore(torch.load(args.resume, map_location=self.dev, weights_only=False))
        loss = teacher_loss if self.teacher else data_loss
        self.run_loss = torch.compile(loss) if args.compile else loss
        self.mender = mend.Mender(self.tok, team.rank, team.size, self.step) if args.mend else None
        self.val = Packer(self.tok, self.cfg.n_ctx, "test", args.answer_weight).batch(12)

    def save(self):
        state = {"size": self.args.size, "cfg": vars(self.cfg), "model": self.model.state_dict(), "muon": self.muon.state(),
                 "states": self.states and self.states.state_dict(), "adam": self.adam.state_dict(), "packer": self.packer_state, "step": self.step, "tokens": self.tokens,
                 "spent": self.spent}
        torch.save(state, self.args.out + ".tmp")
        os.replace(self.args.out + ".tmp", self.args.out)

    def restore(self, state):
        self.model.load_state_dict(state["model"])
        if self.states:
            self.states.load_state_dict(state["states"])
        self.muon.restore(state["muon"])
        self.adam.load_state_dict(state["adam"])
        self.packer.restore(state["packer"])
        self.step, self.tokens, self.spent = state["step"], state["tokens"], state["spent"]

    def progress(self):
        if self.args.tokens:
            return min(1.0, self.tokens / self.args.tokens)
        return min(1.0, self.spent / (60 * self.args.minutes))

    def rate(self):
        rise = min(1.0, (self.step + 1) / self.args.warmup)
        return rise * min(1.0, (1 - self.progress()) / self.args.decay)

    def slices(self, batch, n):
        mine = self.team.mine(len(batch["x"]))
        for i in range(mine.start, mine.stop, n):
            yield [batch[k][i:min(i + n, mine.stop)].to(self.dev) for k in KEYS]

    def update(self, batch):
        """One step; (mean loss, mean loss of answers). The first process keeps the time for all."""
        args, sums, total = self.args, [0.0, 0.0], float(batch["w"].sum())
        for part in self.slices(batch, args.micro):
            with torch.autocast(self.dev, torch.bfloat16, enabled=self.dev == "cuda"):
                weighted, plain, answers = self.run_loss(self.model, *part, self.teacher or self.states)
            (weighted / total).backward()
            sums[0] += float(plain.detach())
            sums[1] += float(answers.detach())
        if self.mender:
            groups = self.mender.take(self.model, args.mend_groups)
            if groups:
                (args.mend / self.team.size * mend.loss(self.model, groups)).backward()
        plain, answers, self.spent = self.team.total([p.grad for p in self.learning],
                                                     sums + [0.0 if self.team.rank else self.before + time.monotonic() - self.clock])
        rate = self.rate()
        self.muon.step(args.lr * rate, momentum=0.85 + 0.10 * min(1.0, self.step / 200))
        for group in self.adam.param_groups:
            group["lr"] = args.lr_embd * rate
        self.adam.step()
        for p in self.learning:
            p.grad = None
        n_real = int((batch["w"] > 0).sum())
        self.step, self.tokens, self.packer_state = self.step + 1, self.tokens + n_real, batch["state"]
        return plain / n_real, answers / max(1.0, float(batch["a"].sum()))

    @torch.no_grad()
    def validate(self):
        sums = [0.0, 0.0]
        for part in self.slices(self.val, self.args.micro):
            _, plain, answers = data_loss(self.model, *part)
            sums[0] += float(plain)
            sums[1] += float(answers)
        plain, answers = self.team.total([], sums)
        return plain / float((self.val["w"] > 0).sum()), answers / float(self.val["a"].sum())

    def judge(self):
        """One process judges, with the threads of all."""
        if self.team.rank == 0:
            torch.set_num_threads(self.team.size * self.args.threads)
            say("# " + judge.quick(self.model, self.tok, self.args.judge_n, 4 * self.args.judge_n))
            torch.set_num_threads(self.args.threads)

    def run(self):
        args, feed, first = self.args, Prefetch(self.packer, self.args.rows), self.team.rank == 0
        if first:
            say(f"{args.size}: {n_params(self.model)} parameters, step {self.step}, {self.spent / 60:.1f} of {args.minutes} minutes")
            say("step,tokens,minutes,loss,loss_answers,val,val_answers,tokens_per_s")
        self.before, self.clock = self.spent, time.monotonic()
        saved = judged = self.clock
        marks, loss, loss_a = (self.tokens, self.spent), 0.0, 0.0
        while self.progress() < 1.0 and (not args.steps or self.step < args.steps):
            one, one_a = self.update(feed.take())
            loss, loss_a = loss + one / args.log_every, loss_a + one_a / args.log_every
            if self.step % args.log_every == 0:
                val, val_a = self.validate()
                speed = (self.tokens - marks[0]) / (self.spent - marks[1] + 1e-9)
                if first:
                    wrong = f",{self.mender.wrong}/{self.mender.told}" if self.mender else ""
                    say(f"{self.step},{self.tokens},{self.spent / 60:.2f},{loss:.4f},{loss_a:.4f},{val:.4f},{val_a:.4f},{speed:.0f}{wrong}")
                    if wrong:
                        self.mender.wrong = self.mender.told = 0
                marks, loss, loss_a = (self.tokens, self.spent), 0.0, 0.0
            now = time.monotonic()
            if first and now - saved > 60 * args.save_every:
                self.save()
                saved = now
            if now - judged > 60 * args.judge_every:
                self.judge()
                judged = time.monotonic()
        if first:
            self.save()
        self.judge()


def say(line):
    print(line, flush=True)


def work(rank, args, store):
    """One process of the team."""
    torch.set_num_threads(args.threads)
    if args.procs > 1:
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=args.procs)
    Trainer(args, Team(rank, args.procs)).run()
    if args.procs > 1:
        dist.destroy_process_group()


def options():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--size", choices=SIZES, default="target")
    ap.add_argument("--teacher", help="checkpoint to learn from")
    ap.add_argument("--tokenizer", default=os.path.join(HERE, "tokenizer.json"))
    ap.add_argument("--out", required=True, help="checkpoint to write")
    start = ap.add_mutually_exclusive_group()
    start.add_argument("--resume", help="checkpoint to continue from")
    start.add_argument("--init", metavar="GGUF", help="file of export.py to begin with; the optimisers start afresh")
    ap.add_argument("--minutes", type=float, default=90, help="training time in all, resumed parts included")
    ap.add_argument("--tokens", type=float, default=0, help="tokens in all, in place of minutes: for a machine that has other work too")
    ap.add_argument("--steps", type=int, default=0, help="stop after so many steps; 0: by time only")
    ap.add_argument("--rows", type=int, default=8, help="rows of n_ctx tokens in a step")
    ap.add_argument("--micro", type=int, default=4, help="rows in one pass")
    ap.add_argument("--lr", type=float, default=0.012, help="of the matrices")
    ap.add_argument("--lr-embd", type=float, default=0.003, help="of the embedding and the norms")
    ap.add_argument("--warmup", type=int, default=40, help="steps")
    ap.add_argument("--decay", type=float, default=0.6, help="last share of the budget, over which the rate falls to zero")
    ap.add_argument("--answer-weight", type=float, default=5.0)
    ap.add_argument("--state-weight", type=float, default=3.0, help="of telling where those named are")
    ap.add_argument("--mend", type=float, default=0, help="weight of the sentences drawn where stories went wrong (mend.py)")
    ap.add_argument("--mend-groups", type=int, default=3, help="places of stories in a step, of each process")
    ap.add_argument("--seed", type=int, default=1, help="of the initial weights")
    ap.add_argument("--first-seed", type=int, default=0, help="seed of the first document")
    ap.add_argument("--procs", type=int, default=2, help="processes that share the rows of a step")
    ap.add_argument("--threads", type=int, default=1, help="threads of each")
    ap.add_argument("--log-every", type=int, default=50)
    ap.add_argument("--save-every", type=float, default=3, help="minutes")
    ap.add_argument("--judge-every", type=float, default=15, help="minutes")
    ap.add_argument("--judge-n", type=int, default=6, help="prompts of each task then")
    ap.add_argument("--no-compile", dest="compile", action="store_false")
    return ap


def main():
    args = options().parse_args()
    if args.procs == 1 or torch.cuda.is_available():
        args.procs = 1
        return work(0, args, None)
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, (args, os.path.join(folder, "store")), nprocs=args.procs)


if __name__ == "__main__":
    sys.exit(main())
