"""Learning from one's own mistakes: where a story of the model contradicts itself, other ways to go on are drawn and judged.

The model continues first sentences of training stories; world.py's reader finds the first sentence that contradicts those before
it. From the text before that sentence several sentences are drawn anew: those that can be true are made likelier, those that
cannot less likely, each by its distance from the mean of those that demand the same (policy gradient with a group's mean as
baseline, as in GRPO, arXiv:2402.03300, without its division by the deviation). A sentence that the reader cannot read is wrong.
"""
import json
import os
import subprocess
import tempfile

import torch
import torch.nn.functional as F

import export
import judge
import world
from tokenizer import EOT

FIRST = 1 << 40         # seeds of the prompts, away from those of the documents
TEMP = 0.6
STORIES = 96            # drawn in a round
STORY_TOKENS = 110
WAYS = 12               # sentences drawn in place of a wrong one
SENTENCE_TOKENS = 28
LEAST = 0.2             # of the baseline: what is always wrong at a place becomes less likely there


def draw(gguf, prompts, seed, n, max_tokens):
    """n continuations of each prompt, by llmrun on one thread"""
    lines = "".join(json.dumps({"prompt": p, "n": n, "seed": seed + i, "max_tokens": max_tokens}) + "\n" for i, p in enumerate(prompts))
    done = subprocess.run([judge.LLMRUN, "-q", "-t", "1", "-m", gguf, "--batch", "-", *judge.sampling(TEMP)],
                          input=lines.encode(), stdout=subprocess.PIPE, check=True)
    out = [None] * len(prompts)
    for line in done.stdout.splitlines():
        body = json.loads(line)["response"]["body"]
        out[int(body["id"].split("-")[1]) - 1] = [choice["text"] for choice in body["choices"]]
    return out


class Mender:
    """Groups of sentences drawn at the same place of a story: (tokens before, [(tokens, advantage)])."""

    def __init__(self, tok, rank, size, step):
        self.tok, self.seed, self.stride = tok, FIRST + rank + step * size * STORIES, size
        self.groups, self.told, self.wrong = [], 0, 0

    def round(self, model):
        """Draw stories, and for each that goes wrong a group."""
        with tempfile.TemporaryDirectory() as folder:
            gguf, prompts, befores = os.path.join(folder, "now.gguf"), [], []
            export.export(model, self.tok, gguf, "now")
            for _ in range(STORIES):
                prompts.append(world.story_prompt(self.seed, "train"))
                self.seed += self.stride
            for prompt, (text,) in zip(prompts, draw(gguf, prompts, self.seed, 1, STORY_TOKENS)):
                at = world.first_fault(prompt + text)
                if at is not None and at > len(prompt):
                    befores.append((prompt + text)[:at].removesuffix(" "))
            self.told, self.wrong = self.told + len(prompts), self.wrong + len(befores)
            if befores:
                for before, texts in zip(befores, draw(gguf, befores, self.seed, WAYS, SENTENCE_TOKENS)):
                    self.add(before, texts)

    def add(self, before, texts):
        """A sentence is compared with those that demand the same: else what demands nothing, a mood, would win everywhere."""
        ways, kinds = [], {}
        for text in texts:
            verdict = world.next_sentence(before, text)
            if verdict:
                end, good, stake = verdict
                ways.append((self.tok.encode(text[:end]), good, stake))
                kinds.setdefault(stake, []).append(good)
        means = {stake: max(LEAST, sum(all_good) / len(all_good)) for stake, all_good in kinds.items()}
        ways = [(ids, good - means[stake]) for ids, good, stake in ways if good != means[stake]]
        if ways:
            self.groups.append(([EOT] + self.tok.encode(before), ways))

    def take(self, model, n):
        """The next groups, drawn when they have run out."""
        if len(self.groups) < n:
            self.round(model)
        out, self.groups = self.groups[:n], self.groups[n:]
        return out


def loss(model, groups):
    """Mean over the groups. A row holds the text before and, each seeing that text and itself alone, the ways to go on."""
    rows, dev = [], model.embd.device
    for before, ways in groups:
        ids, part, pos = list(before), [0] * len(before), list(range(len(before)))
        source, target, weight = [], [], []
        for number, (way, advantage) in enumerate(ways, 1):
            source += [len(before) - 1] + list(range(len(ids), len(ids) + len(way) - 1))
            target += way
            weight += [advantage / WAYS] * len(way)
            ids, part = ids + way, part + [number] * len(way)
            pos += range(len(before), len(before) + len(way))
        rows.append((ids, part, pos, source, target, weight))
    n = max(len(row[0]) for row in rows)
    ids, part, pos = (torch.tensor([row[k] + [fill] * (n - len(row[k])) for row in rows], device=dev) for k, fill in ((0, EOT), (1, -1), (2, 0)))
    seen = torch.ones(n, n, dtype=torch.bool, device=dev).tril() & ((part[:, None, :] == part[:, :, None]) | (part == 0)[:, None, :])
    mask = torch.zeros(seen.shape, device=dev).masked_fill_(~seen, float("-inf"))[:, None]
    hidden = model.hidden(ids, mask, pos=pos)
    at = torch.tensor([i * n + source for i, row in enumerate(rows) for source in row[3]], device=dev)
    logp = torch.log_softmax(F.linear(hidden.flatten(0, 1)[at], model.embd) / TEMP, -1)
    target, weight = (torch.tensor([x for row in rows for x in row[k]], device=dev) for k in (4, 5))
    return -(logp.gather(1, target[:, None])[:, 0] * weight).sum() / len(rows)
