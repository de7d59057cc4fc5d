"""How good is a model at its little world: exact answers per task, and stories without contradictions.

    python3 judge.py --model ../pip-q4_k_m.gguf --n 100

Every task of the test split is a prompt with one exact answer; the model continues it greedily, and what it wrote up to the end of
the line (or of the turn) must equal the answer to the letter. Stories are sampled at temperature 0.5 with fixed seeds from the
first sentences of test stories; the simulator's own checker reads the first 100 tokens of each.
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys

import world

HERE = os.path.dirname(os.path.abspath(__file__))
LLMRUN = os.path.join(HERE, "..", "..", "llmrun")
STORY_TOKENS = 100
STORY_TEMP = 0.5


def sampling(temp):
    """llmrun's options for draws from the whole distribution"""
    return "--temp", str(temp), "--top-k", "0", "--top-p", "1", "--min-p", "0"


def answer_of(task, text):
    """The part of a continuation that is the answer."""
    if "<|im_start|>" in task.prompt:
        return text.split("<|im_end|>")[0].rstrip("\n")
    return text.lstrip("\n").split("\n")[0] if not task.answer.startswith("\n") else text


def right(task, text):
    return answer_of(task, text).strip() == task.answer.strip()


class Score:
    """Right and asked, per task, and stories."""

    def __init__(self):
        self.tasks, self.hops, self.misses = {}, {}, []
        self.stories, self.clean, self.unparsed, self.parsed, self.faults = 0, 0, 0, 0, []

    def add_task(self, name, task, text):
        ok = right(task, text)
        asked, good = self.tasks.get(name, (0, 0))
        self.tasks[name] = (asked + 1, good + ok)
        self.hops[name] = task.hops
        if not ok:
            self.misses.append({"task": name, "prompt": task.prompt, "answer": task.answer, "got": answer_of(task, text)})

    def add_story(self, text):
        report = world.check(text)
        self.stories += 1
        self.clean += not report.contradictions
        self.parsed += report.parsed
        self.unparsed += len(report.unparsed)
        if report.contradictions:
            self.faults.append({"text": text, "contradictions": report.contradictions})

    def share(self, hops):
        pairs = [v for k, v in self.tasks.items() if self.hops[k] == hops]
        return sum(g for _, g in pairs) / max(1, sum(a for a, _ in pairs))

    def line(self):
        each = " ".join(f"{name} {good}/{asked}" for name, (asked, good) in self.tasks.items())
        stories = f"stories clean {self.clean}/{self.stories}, sentences unread {self.unparsed}/{self.unparsed + self.parsed}"
        return f"one-hop {self.share(1):.3f}, two-hop {self.share(2):.3f}; {stories}; {each}"

    def table(self):
        rows = ["| task | hops | right | of | share |", "|---|---|---|---|---|"]
        for name, (asked, good) in self.tasks.items():
            rows.append(f"| {name} | {self.hops[name]} | {good} | {asked} | {good / asked:.3f} |")
        rows.append(f"| one-hop, all | 1 | | | {self.share(1):.3f} |")
        if self.stories:
            rows.append(f"| stories without contradiction | | {self.clean} | {self.stories} | {self.clean / self.stories:.3f} |")
        return "\n".join(rows)

    def data(self):
        return {"tasks": {k: {"asked": a, "right": g, "hops": self.hops[k]} for k, (a, g) in self.tasks.items()},
                "one_hop": self.share(1), "two_hop": self.share(2), "stories": self.stories, "clean": self.clean,
                "sentences_parsed": self.parsed, "sentences_unparsed": self.unparsed}


def tasks(n, names=None, first=0):
    return [(name, world.task(name, seed)) for name in names or world.TASKS for seed in range(first, first + n)]


def quick(model, tok, n=8, n_stories=48, first=1 << 20):
    """A line about a torch model, for the training log: few tasks, batched. Its seeds are not those of the full judgement."""
    import torch
    from model import generate
    from tokenizer import EOT, IM_END
    score, todo = Score(), sorted(tasks(n, first=first), key=lambda t: len(t[1].prompt))
    was_training = model.training
    model.eval()
    for i in range(0, len(todo), 32):
        part = todo[i:i + 32]
        outs = generate(model, [[EOT] + tok.encode(t.prompt) for _, t in part], 64, (EOT, IM_END))
        for (name, task), out in zip(part, outs):
            score.add_task(name, task, tok.decode(out))
    gen = torch.Generator(model.embd.device).manual_seed(7)
    starts = [world.story_prompt(first + s) for s in range(n_stories)]
    outs = generate(model, [[EOT] + tok.encode(s) for s in starts], STORY_TOKENS, (EOT, IM_END), STORY_TEMP, gen)
    for start, out in zip(starts, outs):
        score.add_story(start + tok.decode(out))
    model.train(was_training)
    return score.line()


def ask(args, prompt, n, *more):
    """What llmrun writes after a prompt."""
    line = [args.llmrun, "-m", args.model, "-q", "-t", str(args.threads), "-n", str(n), "-f", "-", *more]
    done = subprocess.run(line, input=prompt.encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(line)}: exit {done.returncode}: {done.stderr.decode(errors='replace')}")
    return done.stdout.decode(errors="replace")


def judge(args):
    score = Score()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        todo = tasks(args.n, args.tasks)
        texts = pool.map(lambda t: ask(args, t[1].prompt, 96, "--temp", "0"), todo)
        for (name, task), text in zip(todo, texts):
            score.add_task(name, task, text)
        starts = [world.story_prompt(s) for s in range(args.stories)]
        texts = pool.map(lambda s: ask(args, s[1], STORY_TOKENS, "-s", str(s[0]), *sampling(STORY_TEMP)), enumerate(starts))
        for start, text in zip(starts, texts):
            score.add_story(start + text)
    return score


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--model", required=True, help="GGUF file")
    ap.add_argument("--llmrun", default=LLMRUN)
    ap.add_argument("--n", type=int, default=100, help="prompts of each task (default %(default)s)")
    ap.add_argument("--stories", type=int, default=200, help="story samples (default %(default)s)")
    ap.add_argument("--tasks", nargs="*", help="only these tasks")
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    ap.add_argument("--format", choices=("md", "json"), default="md")
    ap.add_argument("--misses", metavar="FILE", help="write what went wrong, one JSON object a line")
    args = ap.parse_args()
    score = judge(args)
    print(json.dumps(score.data()) if args.format == "json" else score.table())
    if args.misses:
        with open(args.misses, "w", encoding="utf-8") as f:
            for miss in score.misses + score.faults:
                f.write(json.dumps(miss) + "\n")


if __name__ == "__main__":
    sys.exit(main())
