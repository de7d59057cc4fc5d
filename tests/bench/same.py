#!/usr/bin/env python3
"""Two versions of llmrun on the same commands: whether every byte of their output is the same.

    make bench-same BEFORE=COMMIT [AFTER=COMMIT]
    python3 tests/bench/same.py --before COMMIT --after ./llmrun

For a change that must not change a result. The commands write the logits and a sampled text of every model of tests/data/tiny, and texts,
scores, a perplexity and the answers of a batch file by the shipped model: with one thread, in small steps, at several CPU levels and cache
types, packed or not, with a draft model, with n-gram lookup, with too few blocks. What depends on the time or on the commit is left out of a
record. A version is a program or a commit, as in versions.py. Prints each command whose output differs; exit code 1: there is one.
"""
import argparse, glob, json, os, subprocess, sys, tempfile

import results, versions

SHIPPED = os.path.join(results.ROOT, "models", "pip-q4_k_m.gguf")
DRAFT = os.path.join(results.ROOT, "models", "pip-draft-q8_0.gguf")
VARIANTS = ([], ["-t", "1"], ["-b", "7"], ["--cpu", "scalar"], ["--cpu", "avx2"], ["--repack", "off"], ["--repack", "on"],
            ["-ctk", "q8_0", "-ctv", "q8_0"], ["-ctk", "q4_0", "-ctv", "f16"], ["-md", DRAFT], ["--lookup"])
TIMED = ("id", "created", "system_fingerprint", "times", "request_id")


def write_inputs(folder):
    """A text and a batch file of prompts of several lengths, sampling settings and answers."""
    text, lines = os.path.join(folder, "text"), os.path.join(folder, "lines.jsonl")
    with open(text, "w", encoding="ascii") as f:
        f.write("Tom was a cat. Tom liked milk. The cat sat on the mat and the dog ran away. " * 12)
    with open(lines, "w", encoding="ascii") as f:
        for i in range(12):
            prompt = "Once upon a time, in a small town, " * (i % 4 + 1) + "x" * i
            print(json.dumps({"custom_id": str(i), "prompt": prompt, "max_tokens": 6 + 5 * i, "temperature": 0.7 * (i % 3), "seed": i}), file=f)
    return text, lines


def commands(text, lines):
    for model in sorted(glob.glob(os.path.join(results.ROOT, "tests", "data", "tiny", "*.gguf"))):
        yield ["-m", model, "-p", "Hello world, this is a test", "--logits", "-"]
        yield ["-m", model, "--no-chat", "-p", "Hello world", "-n", "40", "--temp", "0.9", "--seed", "3", "--ignore-eos", "-t", "2", "--cpu", "avx2"]
    for variant in VARIANTS:
        yield ["-m", SHIPPED, "--no-chat", "-p", "Once upon a time", "-n", "60", "--temp", "0.6", "--seed", "5"] + variant
        yield ["-m", SHIPPED, "--batch", lines] + variant
        if variant[:1] not in (["-md"], ["--lookup"]):
            yield ["-m", SHIPPED, "--score", "-f", text] + variant
    yield ["-m", SHIPPED, "--batch", lines, "--kv-blocks", "12"]
    yield ["-m", SHIPPED, "--perplexity", "-f", text, "-c", "256"]


def without_time(record):
    for part in (record, record.get("response") or {}, (record.get("response") or {}).get("body") or {}):
        for key in TIMED:
            part.pop(key, None)
    return json.dumps(record, sort_keys=True)


def output(program, command):
    """Exit code and output; the records of a batch in the order of their text, since they are written as they end."""
    ran = subprocess.run([program, "-q"] + command, stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    if "--batch" not in command:
        return ran.returncode, ran.stdout
    return ran.returncode, sorted(without_time(json.loads(line)) for line in ran.stdout.splitlines())


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--before", required=True, help="a commit or a program")
    p.add_argument("--after", default=os.path.join(results.ROOT, "llmrun"), help="the same (./llmrun)")
    o = p.parse_args()
    pair = [versions.version(x) for x in (o.before, o.after)]
    n = ran = differ = 0
    with tempfile.TemporaryDirectory() as folder:
        for command in commands(*write_inputs(folder)):
            before, after = (output(x, command) for x in pair)
            n, ran = n + 1, ran + (before[0] == 0)
            if before != after:
                differ += 1
                print("differs: llmrun " + " ".join(command))
    print("%d commands, %d of them end with exit code 0; %d differ" % (n, ran, differ))
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())
