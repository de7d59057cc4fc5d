#!/usr/bin/env python3
"""llmrun --embed and llama.cpp's llama-embedding in turn on the same texts, and the ratios as Markdown.

    make bench-embed-speed PEER=path/to/llama-embedding MODEL=model.gguf [EMBED_SPEED="--texts 64 --tokens 128 --rounds 3"]

The texts are random, all different, each of exactly --tokens tokens. Times exclude the loading of the model. llmrun prints its time,
which includes the reading of the texts; the peer's is the time between two lines of its log. The peer's speed depends on how many tokens it computes
together (-b, which is also its context here), so it runs with each number of --batches. For each the programs alternate: llmrun, peer,
llmrun, ..., llmrun; a peer's run is compared with the mean of the runs around it, and the table holds medians. That both computed all
tokens is checked; the least cosine between their vectors of a text stands in the last column.
  --pooling is the same in both, whatever the file says. --own and --theirs pass further options.
"""
import argparse, json, os, random, re, shlex, statistics, subprocess, sys, tempfile

import peer
from peer import Failed, run

HERE = os.path.dirname(os.path.abspath(__file__))
WORDS = "a b c d e f g h i j k l m n o p q r s t u v w x y z the and of in to was for on with as by at from his her it an be this that which or are".split()
TRIES = 200


def count(o, text):
    return len(run(o.llmrun, "--tokenize", "--no-stdin", "-q", "-m", o.model, "-p", text).split())


def make_texts(o):
    """Texts of words whose tokens add up to o.tokens, with those that the model puts around a text."""
    said = json.loads(run(o.llmrun, "--embed", "--json", "--no-stdin", "-q", "-m", o.model, "-p", "a b"))
    around = said["usage"]["prompt_tokens"] - count(o, "a b")
    cost = {w: count(o, "a " + w) - count(o, "a") for w in WORDS}
    rng, texts = random.Random(o.tokens), []
    for _ in range(o.texts * TRIES):
        words = [rng.choice(WORDS)]
        left = o.tokens - around - count(o, words[0])
        while left > 0:
            words.append(rng.choice(WORDS))
            left -= cost[words[-1]]
        text = " ".join(words)
        if left == 0 and text not in texts:
            texts.append(text)
        if len(texts) == o.texts:
            return texts
    raise Failed("found %d texts of %d tokens, expected %d" % (len(texts), o.tokens, o.texts))


def own(o, folder):
    """Tokens, seconds, vectors."""
    out = os.path.join(folder, "vectors.jsonl")
    if os.path.exists(out):
        os.unlink(out)
    r = subprocess.run([o.llmrun, "--embed", "--json", "-m", o.model, "--pooling", o.pooling, "-t", str(o.threads), "--batch", os.path.join(folder, "texts.jsonl"),
                        "-o", out] + shlex.split(o.own), stdin=subprocess.DEVNULL, capture_output=True)
    lines = r.stderr.decode(errors="replace").strip().splitlines() or ["exit %d" % r.returncode]
    if r.returncode:
        raise Failed("llmrun: %s" % lines[-1])
    said = json.loads(next(line for line in lines if line.startswith("{")))
    with open(out) as f:
        records = sorted((json.loads(line) for line in f), key=lambda x: x["line"])
    return said["computed_prompt_tokens"], said["seconds"], [x["response"]["body"]["data"][0]["embedding"] for x in records]


def theirs(o, folder, batch):
    """The same, by the clock of its log: from the first batch to the line behind the vectors. Its "prompt eval time" lacks some batches of encoders."""
    text = run(o.peer, "-m", o.model, "--pooling", o.pooling, "-t", str(o.threads), "-c", str(batch), "-b", str(batch), "-ub", str(batch), "-lv", "4", "--log-prefix", "--log-timestamps",
               "--embd-output-format", "raw", "-f", os.path.join(folder, "texts.txt"), merge=True, *shlex.split(o.theirs))
    at = lambda m: sum(int(x) * by for x, by in zip(m.groups()[:4], (60, 1, 1e-3, 1e-6)))
    stamp = r"(\d+)\.(\d+)\.(\d+)\.(\d+) I "
    batches, end = list(re.finditer(stamp + r"batch_decode: n_tokens = (\d+)", text)), re.search(stamp + "llama_perf_context_print:", text)
    if not batches or not end:
        raise Failed("the peer: its log names no batches or no end")
    rows = [line.split() for line in text.splitlines() if re.fullmatch(r"(-?[0-9]+\.[0-9]+ ?){8,}", line)]
    return sum(int(m.group(5)) for m in batches), at(end) - at(batches[0]), [[float(x) for x in r] for r in rows]


def least_cosine(a, b):
    if len(a) != len(b):
        raise Failed("vectors of %d and %d texts" % (len(a), len(b)))
    dot = lambda x, y: sum(i * j for i, j in zip(x, y))
    return min(dot(x, y) / (dot(x, x) * dot(y, y)) ** 0.5 for x, y in zip(a, b))


def measure(o, folder, batch):
    """A row of the table."""
    ours, peers = [own(o, folder)], []
    for i in range(o.rounds):
        peers.append(theirs(o, folder, batch))
        ours.append(own(o, folder))
        print("-b %d, round %d of %d: %.3f and %.3f s" % (batch, i + 1, o.rounds, ours[-1][1], peers[-1][1]), file=sys.stderr)
    for who, n in [("llmrun", n) for n, _, _ in ours] + [("the peer", n) for n, _, _ in peers]:
        if n != o.texts * o.tokens:
            raise Failed("%s computed %d tokens, expected %d" % (who, n, o.texts * o.tokens))
    ratio = [2 * p[1] / (a[1] + b[1]) for a, p, b in zip(ours, peers, ours[1:])]
    med, n = statistics.median, o.texts * o.tokens
    a, p = med(s for _, s, _ in ours), med(s for _, s, _ in peers)
    return "| %d x %d, -b %d | %.3f | %.3f | %.0f | %.0f | %.2f | %.2f to %.2f | %.6f |" % (
        o.texts, o.tokens, batch, a, p, n / a, n / p, med(ratio), min(ratio), max(ratio), least_cosine(ours[0][2], peers[0][2]))


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter, epilog=__doc__)
    ap.add_argument("--llmrun", default=os.path.join(os.path.dirname(os.path.dirname(HERE)), "llmrun"))
    ap.add_argument("--peer", required=True, help="a llama-embedding")
    ap.add_argument("--model", required=True)
    ap.add_argument("--texts", type=int, default=64)
    ap.add_argument("--tokens", type=int, default=128, help="of each text (128)")
    ap.add_argument("--batches", default="256,512,2048", help="the peer's -b, with commas between (256,512,2048)")
    ap.add_argument("--pooling", default="mean")
    ap.add_argument("--threads", "-t", type=int, default=len(os.sched_getaffinity(0)))
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--own", default="", help="further options for llmrun")
    ap.add_argument("--theirs", default="", help="further options for the peer")
    ap.add_argument("--foreign", action="store_true", help="run a peer that was not built for this machine")
    o = ap.parse_args()
    if o.rounds < 1 or o.texts < 1 or o.tokens < 8:
        ap.error("expected 1 round, 1 text of 8 tokens, or more")
    try:
        native, start = peer.judge(o.peer, o.foreign), peer.cpu_time()
        with tempfile.TemporaryDirectory() as folder:
            texts = make_texts(o)
            with open(os.path.join(folder, "texts.jsonl"), "w") as f:
                f.writelines(json.dumps({"input": t}) + "\n" for t in texts)
            with open(os.path.join(folder, "texts.txt"), "w") as f:
                f.write("\n".join(texts))
            rows = [measure(o, folder, int(b)) for b in o.batches.split(",")]
    except (Failed, OSError, ValueError, KeyError, StopIteration) as why:
        print("embed_speed.py: %s" % why, file=sys.stderr)
        return 2
    others = peer.meanwhile(start)
    print("%s, %d threads, pooling %s; medians of %d rounds; peer: %s\n" % (os.path.basename(o.model), o.threads, o.pooling, o.rounds, native))
    if others:
        print(others + "\n")
    print("| texts x tokens | llmrun s | peer s | llmrun t/s | peer t/s | ratio | least to most | least cosine |\n|---|---|---|---|---|---|---|---|")
    print("\n".join(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
