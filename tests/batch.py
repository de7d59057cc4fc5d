#!/usr/bin/env python3
"""Tests of batch files by running the command: a line's answer does not depend on how the file is run, and no answer is lost.

    python3 tests/batch.py ./llmrun [--stress BINARY] [--kills N] [--files N] [--seed N] [WORD ...]     cases whose name holds a word, else all; none that holds a word after a ^

--stress: a build with blocks of two tokens, chunks of one and a preemption at every step; its answers, in every configuration, are held against those of
the first. --kills: how often the run over one file is killed (12). --files: random files (8). --seed: of those and of the moments of kills.
One line per case, then a count. LLMRUN_SLOW=N stretches every time limit N times, for builds under a sanitizer.
  Two answers are compared as bytes: whole records without the time of day (`created`), the tokens that were found in the cache
(`cached_tokens`) and settings (`system_fingerprint`). A file of one line is that line behind as many blank ones as it had lines before it, so that it keeps its number.
"""
import argparse, csv, hashlib, io, json, os, pty, random, re, resource, select, shutil, signal, subprocess, sys, threading, time
from kit import ENV, PASSING, SLOW, Record, Skip, begin, case, catches, check, done, equal, finish, jsonl, levels, new_folder, one_line, open_terminal, records, refused, same, sanitized, short, some, text_of, until_caught, walk

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(HERE, "models", "train"))
import world

PIP = os.path.join(HERE, "models", "pip-q4_k_m.gguf")
PIP16 = os.path.join(HERE, "models", "pip-f16.gguf")
DRAFT = os.path.join(HERE, "models", "pip-draft-q8_0.gguf")
TINY = os.path.join(HERE, "tests", "data", "tiny")
SMALL = os.path.join(TINY, "llama.gguf")
TMP = new_folder("batch")
O = None                               # options of this script


def tmp(name):
    return os.path.join(TMP, name)


def fresh(name):
    """A path in the folder of this run, without a file of that name or its header."""
    path = tmp(name)
    for old in path, path + ".llmrun", path + ".stale":
        if os.path.exists(old):
            os.unlink(old)
    return path


def start(*args, binary=None, **kw):
    return begin([binary or O.binary, *args], **kw)


def run(*args, inp=None, timeout=60, **kw):
    if inp is not None:
        kw["stdin"] = subprocess.PIPE
    return finish(start(*args, **kw), timeout, inp)


def good(*args, **kw):
    return done(run(*args, **kw), args)


# --- files of lines ---

def put(name, data):
    path = tmp(name)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else jsonl(data))
    return path


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except FileNotFoundError:
        return b""


def batch(lines, *args, model=PIP, rc=0, binary=None, timeout=120):
    """Runs a file of these lines with answers on stdout: {line number: record}."""
    path = put("in.jsonl", lines)
    r = run("-m", model, "--batch", path, "-q", *args, binary=binary, timeout=timeout)
    check(r.rc == rc, "%s: want exit %d, got %r" % (" ".join(args), rc, r))
    return records(r.out)


# --- lines ---

def story(rng, chars):
    """This many characters of a text of Pip's world."""
    text = ""
    while len(text) < chars:
        text += world.write_story(rng).text
    return text[:chars]


def odd_lines(seed, chars, vocab):
    """Twenty-five lines of many kinds: shared beginnings, several answers, stops, log-probabilities, ids, every sampler of a line."""
    rng = random.Random(seed)
    tale = story(rng, chars)
    ids = lambda n: [rng.randrange(10, vocab) for _ in range(n)]
    greedy = {"temperature": 0}
    lines = [{"prompt": tale + "\nQuestion: %s\nAnswer:" % q, "max_tokens": 12, "stop": "\n", "logprobs": i % 3, **greedy}
             for i, q in enumerate(("Where is the ball?", "Where is Roman?", "Who sang?", "Where is Ida?", "What is red?"))]
    lines += [{"custom_id": "twin %d" % i, "prompt": tale, "max_tokens": 25, "temperature": 0.9, "seed": i,
               "logprobs": 3} for i in range(2)]
    lines += [{"prompt": tale[:chars // 2], "n": 3, "seed": 7, "temperature": 1.1, "max_tokens": 20, "logprobs": 1},
              {"prompt": tale[:chars // 3], "n": 2, "max_tokens": 9, "logprobs": 0, **greedy},
              {"prompt": "", "max_tokens": 20, "logprobs": 1},
              {"prompt": "a", "max_tokens": 1, "logprobs": 5},
              {"prompt": tale[::-1] + tale[:chars // 4], "max_tokens": 5, "logprobs": 1, **greedy},
              {"prompt": "Once upon a time", "max_tokens": 40, "ignore_eos": True, "logprobs": 0, **greedy},
              {"prompt": "Once upon a time", "max_tokens": 30, "seed": -3, "temperature": 1.5},
              {"prompt": "Once upon", "max_tokens": 20, "presence_penalty": 0.5, "frequency_penalty": 0.3,
               "repetition_penalty": 1.2, "seed": 5, "logprobs": 2},
              {"prompt": tale[:40], "max_tokens": 20, "top_k": 5, "top_p": 0.9, "min_p": 0.1, "seed": 1 << 40},
              {"prompt": tale[:41], "max_tokens": 10, "logit_bias": {"200": 4.5, "201": -100}, "seed": 6, "logprobs": 2},
              {"prompt": tale[:60], "max_tokens": 40, "stop": [" the", "zebra", "."], "seed": 2},
              {"custom_id": "env", "method": "POST", "url": "/v1/completions",
               "body": {"model": "x", "prompt": tale[:70], "max_tokens": 10, "user": "u", **greedy}},
              {"prompt": [5], "max_tokens": 10, "seed": 3}]
    lines += [{"prompt": ids(n), "max_tokens": 8, "logprobs": 2, "ignore_eos": True, **greedy} for n in (15, 32, 33, 64)]
    return lines + [b'{"prompt":"' + b"Lily \xff\xc3(\x80" + b'","max_tokens":8,"seed":4}']


SEED = ("-s", "11")                    # of the lines that have none
LINES = {PIP: (1, 420, 3000), SMALL: (2, 90, 270)}
FEW = ("--kv-block-size", "4")         # blocks so small that every line has many


def lines_of(model):
    return odd_lines(*LINES[model])


def wanted(model):
    """The answers with which all others are compared, made once."""
    if model not in wanted.made:
        wanted.made[model] = batch(lines_of(model), *SEED, "-np", "8", model=model)
    return wanted.made[model]


wanted.made = {}


def other():
    """The build whose runs are held against the answers of the first."""
    return O.stress or O.binary


def builds():
    return [None] + ([O.stress] if O.stress else [])


def invariant(model, *configs):
    want = wanted(model)
    same(sorted(want), list(range(1, len(lines_of(model)) + 1)), "lines answered")
    for no, r in want.items():
        check(r.error is None, "line %d: %r" % (no, r.error))
    for config in some(configs):
        equal(batch(lines_of(model), *SEED, *config.split(), model=model, binary=other()), want, config)
    if O.stress:
        equal(batch(lines_of(model), *SEED, model=model, binary=O.stress), want, "the stress build")


def told(lines, *args, model=PIP, rc=0):
    """Runs a file: its records in the order of their output, and the summary."""
    path = put("in.jsonl", lines)
    r = run("-m", model, "--batch", path, "--format", "json", *args)
    check(r.rc == rc, "%s: want exit %d, got %r" % (" ".join(args), rc, r))
    return [Record(x) for x in r.out.split(b"\n")[:-1]], json.loads(next(x for x in r.err.splitlines() if x.startswith(b"{")))


def stressed():
    """Whether this binary is a stress build, which preempts at every step."""
    if not hasattr(stressed, "known"):
        _, s = told([{"prompt": "Once %d" % i, "max_tokens": 8, "ignore_eos": True} for i in range(4)], model=SMALL)
        stressed.known = s["preemptions"] > 0
    return stressed.known


# --- a line's answer does not depend on how it is run ---

@case
def shapes():
    """records have the documented keys in order; counts, offsets and texts agree with each other"""
    lines, got = lines_of(PIP), wanted(PIP)
    same(len({r.hash for r in got.values()}), len(lines), "hashes of lines")
    for no, r in sorted(got.items()):
        line = lines[no - 1]
        ask = {} if isinstance(line, bytes) else line.get("body", line)
        where = "line %d: " % no
        same(r.id, None if isinstance(line, bytes) else line.get("custom_id"), where + "custom_id")
        same(list(r.whole), ["id", "custom_id", "line", "response", "error"], where + "keys")
        same(list(r.whole["response"]), ["status_code", "request_id", "body"], where + "keys of the response")
        same(list(r.body), ["id", "object", "created", "model", "system_fingerprint", "choices", "usage"],
             where + "keys of the body")
        same((r.body["id"], r.body["object"]), ("cmpl-%d" % no, "text_completion"), where + "kind")
        check(abs(r.body["created"] - time.time()) < 600 * SLOW, where + "created %r" % r.body["created"])
        same([c["index"] for c in r.body["choices"]], list(range(ask.get("n", 1))), where + "choices")
        use, new = r.body["usage"], 0
        for c in r.body["choices"]:
            same(list(c), ["index", "text", *(["bytes"] if "bytes" in c else []), "logprobs", "finish_reason"],
                 where + "keys of a choice")
            check(c["finish_reason"] in ("stop", "length"), where + repr(c["finish_reason"]))
            for stop in [ask["stop"]] if isinstance(ask.get("stop"), str) else ask.get("stop", []):
                check(stop not in c["text"], where + "a stop text is printed")
            lp = c["logprobs"]
            same(lp is not None, ask.get("logprobs") is not None, where + "logprobs")
            if lp:
                n = len(lp["tokens"])
                same((len(lp["token_logprobs"]), len(lp["text_offset"])), (n, n), where + "lists")
                check(all(-1000 < x <= 1e-6 for x in lp["token_logprobs"]), where + repr(lp["token_logprobs"]))
                check(lp["text_offset"] == sorted(lp["text_offset"]), where + "offsets")
                spelt, text = b"".join(map(bytes, lp["bytes"])), text_of(c)
                same([bytes(x).decode("utf-8", "replace") for x in lp["bytes"]], lp["tokens"], where + "bytes of tokens")
                check(spelt.startswith(text), where + "%r does not begin with %r" % (spelt, text))
                if ask["logprobs"]:
                    same(len(lp["top_logprobs"]), n, where + "top_logprobs")
                    for top, x in zip(lp["top_logprobs"], lp["token_logprobs"]):
                        check(0 < len(top) <= ask["logprobs"] + 1 and max(top.values()) >= x, where + "%r beside %r" % (top, x))
                check(n <= ask["max_tokens"] and (c["finish_reason"] == "stop" or n == ask["max_tokens"]),
                      where + "%d tokens, %s" % (n, c["finish_reason"]))
                new += n
        same(use["total_tokens"], use["prompt_tokens"] + use["completion_tokens"], where + "total")
        check(0 <= use["prompt_tokens_details"]["cached_tokens"] <= use["prompt_tokens"], where + repr(use))
        if isinstance(ask.get("prompt"), list):
            same(use["prompt_tokens"], len(ask["prompt"]), where + "prompt_tokens")
        if ask.get("logprobs") is not None:
            same(use["completion_tokens"], new, where + "completion_tokens")


@case
def invariance():
    """rows, threads, chunks, block sizes, order and preemption change no byte of any record"""
    invariant(PIP, "-np 1 --batch-order input", "-np 2 -t 1", "-np 32 -t 2 -b 64", "-np 8 -b 7",
              "--kv-block-size 2 -np 16", "--kv-block-size 16 --kv-blocks 30 -np 16")


@case
def invariance_small():
    """the same on a tiny model, with many more shapes of run, and at every kernel level"""
    invariant(SMALL, "--batch-window 1", "--batch-window 3 -np 2", "--batch-static -np 5", "-np 1024 -c 200", "-np 1",
              "-np 2", "-np 3", "-np 32", "-np 64", "-t 1", "-t 2", "-t 3", "-b 1", "-b 7", "-b 64", "-b 4096",
              "--batch-order input", "--batch-order input -np 1",
              *("--kv-block-size %d" % n for n in (1, 2, 7, 16, 32, 512)), "--kv-block-size 2 -b 1 -np 2",
              "--kv-block-size 5 -b 3 -np 5 -t 2",
              *("--kv-block-size 4 --kv-blocks %d -np %d" % x for x in ((64, 32), (70, 8), (90, 4))),
              "--kv-block-size 1 --kv-blocks 260 -np 32 -b 3",
              *("--cpu %s -np %d -b %d" % (x, i + 1, 5 * i + 1) for i, x in enumerate(levels(O.binary))))


@case
def invariance_levels():
    """all kernel levels give the same records: lines of every kind, with the quantised types of a mixture"""
    lines, model = odd_lines(3, 60, 250), os.path.join(TINY, "llama_q4_k_m.gguf")
    want = batch(lines, *SEED, "-np", "1", "-b", "1", model=model)
    for level in levels(O.binary):
        equal(batch(lines, *SEED, "--cpu", level, "-np", "8", model=model, binary=other()), want, level)
    few, want = lines_of(PIP)[::6], None
    for level in levels(O.binary):
        got = batch(few, *SEED, "--cpu", level, "-np", "4", binary=other())
        want = want or got
        equal(got, want, level + " on Pip")


@case
def invariance_models():
    """every architecture and weight type: alone and with many others, with small blocks and a small pool"""
    names = sorted(x for x in os.listdir(TINY) if x.endswith(".gguf"))
    check(len(names) > 30, "%d tiny models" % len(names))
    lines = odd_lines(4, 50, 200)[3:] + [{"prompt": "x" * 30, "max_tokens": 40, "temperature": 0, "logprobs": 1,
                                          "ignore_eos": True}]
    for name in some(names):
        model = os.path.join(TINY, name)
        want = batch(lines, *SEED, "-np", "1", "-t", "1", model=model)
        equal(batch(lines, *SEED, "-np", "16", "-b", "9", "-t", "2", *FEW, "--kv-blocks", "60", model=model, binary=other()), want, name)


KINDS = ("gemma3", "gpt-oss", "llama4", "qwen35", "qwen35_near", "lfm2moe", "deepseek2_v3", "plamo2",
         "falcon-h1", "mamba", "rwkv7", "kimi-linear", "glm-dsa", "minimax-m3",
         "qwen4exp", "deepseek4")
# windows, sinks, chunks, gated delta nets, a draft head, short convolutions, latent attention, states of Mamba and RWKV, both of the
# latter kinds in one model, positions and blocks that an indexer chooses, a table of n-grams, keys of
# groups of positions


def kinds_lines():
    """Prompts of token ids that part within blocks and at their borders, some of them twice, with answers of several sequences."""
    rng = random.Random(21)
    stem = [rng.randrange(10, 260) for _ in range(90)]
    lines = [{"prompt": stem[:n] + [rng.randrange(10, 260) for _ in range(more)], "max_tokens": 12,
              "ignore_eos": True, "temperature": i % 2, "seed": i, "logprobs": 1}
             for i, (n, more) in enumerate(((90, 3), (90, 0), (90, 0), (64, 9), (33, 40), (32, 1), (8, 60), (0, 5)))]
    return lines + [dict(lines[1], n=3, temperature=1)]


@case
def invariance_kinds():
    """each kind of layer: chunks, company, few blocks, few states, guesses, a prompt cache on disk and --resume change no byte"""
    lines = kinds_lines()
    for name in some(KINDS, 3):
        model, cache = os.path.join(TINY, name + ".gguf"), fresh(name + ".cache")
        want = batch(lines, *SEED, "-np", "1", "-t", "1", model=model)
        for config in ("-b 1", "-b 7 -np 8 -t 2", "-np 8 --kv-block-size 4 --kv-blocks 45",
                       "-np 8 --kv-block-size 4 --state-mem 64K", "-np 3 --lookup --draft-max 5", "-np 2 --no-head --no-lookup",
                       "-np 4 -md %s --draft-min 3" % model, "-b 20 --kv-block-size 8 --prompt-cache %s" % cache,
                       "--kv-block-size 8 -np 2 --prompt-cache %s" % cache):
            equal(batch(lines, *SEED, *config.split(), model=model, binary=other()), want, "%s, %s" % (name, config))
        path, out = put("in.jsonl", lines), fresh("kinds.jsonl")
        for _ in range(2):                            # whole, then from the third record on
            r = run("-m", model, "--batch", path, *SEED, "-np", "8", "-q", "-o", out, "--resume", binary=other())
            check(r.rc == 0, repr(r))
            equal(records(read(out)), want, name + ", --resume")
            put("kinds.jsonl", b"".join(read(out).splitlines(True)[:2]))
        if O.stress:
            equal(batch(lines, *SEED, model=model, binary=O.stress), want, name + ", the stress build")


@case
def invariance_spans():
    """what an indexer chooses from spans of positions that threads score apart is what one thread chooses"""
    rng = random.Random(22)
    lines = [{"prompt": [rng.randrange(10, 260) for _ in range(200)], "max_tokens": 24, "ignore_eos": True, "temperature": 0, "logprobs": 1}]
    for name in ("deepseek32", "glm-dsa", "minimax-m3", "qwen4exp", "qwen4exp_odd", "deepseek4", "deepseek4_odd"):
        model = os.path.join(TINY, name + ".gguf")
        want = batch(lines, *SEED, "-np", "1", "-t", "1", model=model)
        for config in ("-t 4", "-t 3 -b 7", "-t 4 -b 64 --kv-block-size 16"):
            equal(batch(lines, *SEED, "-np", "1", *config.split(), model=model, binary=other()), want, "%s, %s" % (name, config))


@case
def invariance_cache():
    """every cache type gives the same answers alone, with many others, in chunks and with preemption"""
    for k, v in (("q8_0", "q8_0"), ("q4_0", "q4_0"), ("q8_0", "q4_0"), ("f32", "bf16")):
        kind = ("-ctk", k, "-ctv", v)
        for model, configs in some(((SMALL,
                                     ("-np 8", "-np 32 -b 7 -t 2", "--kv-block-size 3",
                                      "--kv-block-size 4 --kv-blocks 70 -np 16 --batch-order input")),
                                    (PIP, ("-np 16 -b 50",)))):
            lines = lines_of(model)[::1 if model == SMALL else 3]
            want = batch(lines, *SEED, *kind, "-np", "1", model=model)
            for config in configs:
                equal(batch(lines, *SEED, *kind, *config.split(), model=model, binary=other()), want, "%s, %s" % (" ".join(kind), config))


def random_lines(rng, vocab):
    """A file of token prompts that share beginnings of every length, with random options of a line."""
    stems, lines = [[rng.randrange(10, vocab) for _ in range(rng.choice((1, 3, 16, 31, 32, 33, 64, 70)))] for _ in range(3)], []
    for _ in range(rng.choice((2, 6, 20, 40))):
        prompt = rng.choice(stems)[:rng.choice((1, 5, 16, 32, 64, 100))] + [rng.randrange(10, vocab)
                                                                            for _ in range(rng.choice((0, 1, 2, 8, 31, 32, 60)))]
        line = {"prompt": prompt, "max_tokens": rng.choice((0, 1, 2, 7, 33, 70, 150)),
                "temperature": rng.choice((0, 0.7, 1.5)), "seed": rng.randrange(5)}
        for share, more in ((0.6, {"logprobs": rng.choice((0, 1, 4))}), (0.2, {"n": rng.choice((1, 2, 5, 9))}),
                            (0.5, {"ignore_eos": True}), (0.2, {"priority": rng.randrange(3)}),
                            (0.3, {"stop_token_ids": [rng.randrange(10, vocab) for _ in range(20)]}),
                            (0.3, {"min_tokens": min(rng.choice((1, 5, 40)), line["max_tokens"])}),
                            (0.2, {"stop": [rng.choice("aeiou"), "th"]}),
                            (0.2, {"repetition_penalty": 1.3, "presence_penalty": 0.5})):
            if rng.random() < share:
                line.update(more)
        lines.append(line)
    return lines


def random_config(rng, context):
    """Options that change how a file is run but no answer; a pool holds at least one full context."""
    block = rng.choice((1, 2, 3, 4, 8, 16, 32, 64, 300))
    config = ["-np", rng.choice((1, 2, 3, 5, 9, 17, 40)), "-t", rng.choice((1, 2, 3)), "-b",
              rng.choice((1, 2, 5, 17, 64, 512)), "--kv-block-size", block]
    for share, more in ((0.6, ["--kv-blocks", -(-context // block) + rng.choice((0, 1, 2, 5, 20))]),
                        (0.4, ["--batch-order", "input"]),
                        (0.3, ["--batch-window", rng.choice((1, 2, 5))]), (0.3, ["--repack", rng.choice(("on", "off"))])):
        if rng.random() < share:
            config += more
    return [str(x) for x in config]


@case
def random_files():
    """random files under random options give the answers of a run line by line (--files N of them)"""
    models = [os.path.join(TINY, x) for x in sorted(os.listdir(TINY)) if x.endswith(".gguf")] + [PIP] * 6
    for seed in some(range(O.seed, O.seed + O.files)):
        rng = random.Random(seed)
        model = rng.choice(models)
        lines = random_lines(rng, 3000 if model == PIP else 200)
        kind = rng.choice(([], ["-ctk", "q8_0", "-ctv", "q8_0"], ["-ctk", "q4_0", "-ctv", "q4_0"],
                           ["-ctk", "f32", "-ctv", "q8_0"]))
        want = batch(lines, *kind, "-np", "1", "-t", "1", model=model)
        for binary in builds():
            config = random_config(rng, 512 if model == PIP else 256)
            equal(batch(lines, *kind, *config, model=model, binary=binary), want,
                  "--seed %d, %s, %s" % (seed, os.path.basename(model), " ".join(kind + config)))


@case
def alone():
    """each line gives the same answer in a file of its own and among the others"""
    lines, want = lines_of(PIP), wanted(PIP)
    for no, line in some(enumerate(lines, 1)):
        equal(batch([b""] * (no - 1) + [line], *SEED, "-t", str(no % 2 + 1)), {no: want[no]}, "line %d alone" % no)


@case
def run_seed():
    """lines without a seed: -s gives all the same one, a random seed gives each its own"""
    lines = [{"prompt": "Once upon a time", "max_tokens": 30, "temperature": 1.3}] * 4
    texts = lambda *a: [r.texts()[0] for _, r in sorted(batch(lines, *a).items())]
    same(len(set(texts("-s", "5"))), 1, "texts with -s 5")
    check(len(set(texts())) > 1, "four lines with drawn seeds all say the same")
    check(texts() != texts(), "two runs drew one seed")


@case
def pressure():
    """a small pool: sequences are preempted, read again, and give the same answers; a large pool: no preemption"""
    lines = [{"prompt": story(random.Random(i), 40 + i), "max_tokens": 60, "temperature": 0, "ignore_eos": True,
              "logprobs": 0} for i in range(16)]
    want, calm = told(lines, "-np", "16", model=SMALL)
    check(stressed() or not calm["preemptions"], "%d preemptions without a bound" % calm["preemptions"])
    for config in ("--kv-blocks", "12", "--kv-block-size", "16"), ("--kv-blocks", "40", *FEW, "-b",
                                                                   "20"), ("--kv-blocks", "150", "--kv-block-size",
                                                                           "1", "--batch-order", "input"):
        got, tight = told(lines, "-np", "16", *config, model=SMALL)
        check(tight["preemptions"] > 0 and tight["kv_blocks_peak"] <= int(config[1]), "%s: %r" % (" ".join(config), tight))
        equal({r.no: r for r in got}, {r.no: r for r in want}, " ".join(config))


@case
def sharing():
    """a shared beginning is computed once, also for several answers to one prompt and with a quantised cache"""
    tale = story(random.Random(8), 700)
    n_tale = len(good("-m", PIP, "--tokenize", "--bos", "-p", tale).split())
    lines = [{"prompt": tale + " %d" % i, "max_tokens": 4, "temperature": 0} for i in range(12)]
    mixed = [x for i, line in enumerate(lines)
             for x in (line, {"prompt": story(random.Random(i), 80), "max_tokens": 4, "temperature": 0})]
    for config in ("-np", "12"), ("-np", "1"), ("-np", "3", "-ctk", "q8_0", "-ctv", "q8_0"), ("-np", "12",
                                                                                              "--kv-block-size", "8", "-b", "64"):
        for what in lines, mixed:
            got, s = told(what, *config)
            tokens = sum(r.body["usage"]["prompt_tokens"] for r in got)
            if stressed():
                continue                               # what was given up is computed again
            same((s["prompt_tokens"], s["prompt_tokens"] - s["computed_prompt_tokens"]), (tokens, s["shared_tokens"]),
                 "%s: tokens" % " ".join(config))
            same(sum(r.body["usage"]["prompt_tokens_details"]["cached_tokens"] for r in got), s["shared_tokens"],
                 "%s: tokens of the records" % " ".join(config))
            check(s["shared_tokens"] >= 11 * (n_tale - 32),
                  "%s: %d of %d tokens shared" % (" ".join(config), s["shared_tokens"], 11 * n_tale))
    got, s = told([{"prompt": tale, "n": 6, "max_tokens": 4, "seed": 1}])
    check(stressed() or s["computed_prompt_tokens"] <= n_tale + 6,
          "six answers to one prompt computed %d tokens of %d" % (s["computed_prompt_tokens"], n_tale))
    got, s = told(mixed[:2] + [dict(line) for line in mixed[:2]], "--batch-order", "input", "-np", "1")
    same([r.no for r in got], [1, 2, 3, 4], "the order of the file")
    check(stressed() or s["shared_tokens"] >= n_tale - 32, "%d tokens shared in the order of the file" % s["shared_tokens"])


@case
def turns():
    """lower priority numbers run first, equal ones in the order of the file; every line is answered"""
    lines = [{"prompt": "%c tale" % (65 + i), "max_tokens": 2, "temperature": 0, **({"priority": p} if p else {})}
             for i, p in enumerate((5, 0, -7, 5, 0, 100, -7))]
    for order, want in ("plan", [3, 7, 2, 5, 1, 4, 6]), ("input", [1, 2, 3, 4, 5, 6, 7]):
        got, _ = told(lines, "-np", "1", "--batch-order", order)
        same([r.no for r in got], want, order)
    got, s = told([{"prompt": "%d" % i, "max_tokens": 1 + 40 * (i % 3 == 0), "ignore_eos": True} for i in range(20)],
                  "-np", "4", "-s", "1")
    check(sorted(r.no for r in got) == list(range(1, 21)) and s["steps"] < 280, "%d steps" % s["steps"])


@case
def no_room():
    """a line that is too long for the pool or context is an error of that line; the others are answered; a pool too small for any is exit 3"""
    small = {"prompt": "Once", "max_tokens": 4, "temperature": 0}
    big, long = {"prompt": "Once upon a time " * 12, "max_tokens": 4}, {"prompt": "Once", "max_tokens": 150,
                                                                        "temperature": 0, "ignore_eos": True}
    whole = batch([small, small, long, small], model=SMALL)
    for args in ("--kv-blocks", "3", "--kv-block-size", "16"), ("--kv-blocks", "2", "--kv-block-size", "32"), ("-c", "40"):
        got = batch([small, big, long, small], *args, model=SMALL, rc=1)
        same({no for no, r in got.items() if r.error}, {2}, "%s: errors %r" % (" ".join(args), [r.error for r in got.values()]))
        equal({no: got[no] for no in (1, 4)}, {no: whole[no] for no in (1, 4)}, " ".join(args))
        check(whole[3].texts()[0].startswith(got[3].texts()[0])
              and got[3].body["choices"][0]["finish_reason"] == "length", "%s: %r" % (" ".join(args), got[3].body))
    refused(run("-m", SMALL, "--batch", put("in.jsonl", [small]), "--kv-mem", "1", "-q"), 3, "KV cache", "--kv-mem 1")


@case
def static():
    """a static batch in a small cache gives the answers of a continuous one, also when a line's first answer ends early and frees its blocks"""
    for seed, most, most_n, n, stop, times, blocks, seqs in ((62, 100, 100, 2, ["e", "t"], (2, 3, 2, 1, 3, 1), 30, 8),
                                                             (121, 100, 100, 3, "e", (3, 3, 1, 2, 2, 1), 47, 8),
                                                             (144, 200, 100, 3, "e", (3, 1, 2, 1, 3, 2), 51, 8),
                                                             (234, 200, 200, 2, ["e", "t"], (3, 3, 2, 1, 2, 2), 43, 16)):
        lines = [{"prompt": "XY", "max_tokens": most, "ignore_eos": True, "temperature": 0},
                 {"prompt": "Once upon", "max_tokens": most_n, "n": n, "seed": seed, "stop": stop, "temperature": 1.5}]
        lines += [{"prompt": "Lily and Tom went to the park and saw %d" % i * k, "max_tokens": 30, "ignore_eos": True,
                   "seed": i} for i, k in enumerate(times)]
        args = "--kv-blocks", str(blocks), "--kv-block-size", "4", "-np", str(seqs), "--batch-order", "input"
        equal(batch(lines, "--batch-static", *args, model=SMALL), batch(lines, *args, model=SMALL), " ".join(args))


@case
def memory():
    """-v prints the memory that a run needs; with a memory limit this and the cache stay below it: F16 weights and a draft are counted"""
    if sanitized():
        raise Skip("a sanitizer takes more addresses than any limit")
    one, limit = put("in.jsonl", [{"prompt": "a", "max_tokens": 4}]), 600 << 20
    for model, more in ((PIP16, ()), (PIP, ()), (PIP, ("-md", DRAFT)), (PIP16, ("-md", DRAFT, "--no-lookup"))):
        args = "-m", model, "--batch", one, "-v", "-np", "128", "-c", "100000", "-t", "2", *more
        r = run(*args, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        check(r.rc == 0, repr(r))
        told = re.search(rb"memory +([\d.]+) MiB left, (.*)", r.err)
        check(told, "no line about memory: %r" % r.err)
        rows = {name.decode(): float(x) for name, x in re.findall(rb"([a-z' ]+) ([\d.]+)(?:, |$)", told.group(2))}
        left, size = float(told.group(1)), os.path.getsize(model) / (1 << 20)
        check(left * (1 << 20) < limit, "%g MiB left" % left)
        check(sum(rows.values()) < left and rows["cache up to"] > left / 3, "%g MiB left, %r" % (left, rows))
        check(rows["weights in the file"] + rows.get("packed weights", 0) > size - 0.2, "%g MiB of weights, %r" % (size, rows))
        same(any("draft" in x for x in rows), "-md" in more, "draft")
        same("lookup tables" in rows, True, "tables")


FLAGS = {"temperature": "--temp", "top_k": "--top-k", "top_p": "--top-p", "min_p": "--min-p",
         "presence_penalty": "--presence-penalty", "max_tokens": "-n",
         "frequency_penalty": "--frequency-penalty", "repetition_penalty": "--repeat-penalty"}


def as_command(ask, choice):
    """The options of a one-shot run that is this line's answer number `choice`."""
    args = [x for key, flag in FLAGS.items() if key in ask for x in (flag, str(ask[key]))]
    for stop in [ask["stop"]] if isinstance(ask.get("stop"), str) else ask.get("stop", []):
        args += ["--stop", stop]
    for token, bias in ask.get("logit_bias", {}).items():
        args += ["-l", "%s%+g" % (token, bias)]
    seed = ask.get("seed", 11) + choice
    return args + ["-s", str(seed)] + (["--ignore-eos"] if ask.get("ignore_eos") else [])


@case
def one_shot():
    """the text of a line is what the command prints for its prompt and its settings"""
    for model in PIP, SMALL:
        for no, r in some(sorted(wanted(model).items()), 3):
            line = lines_of(model)[no - 1]
            ask = {"prompt": line, "max_tokens": 8, "seed": 4} if isinstance(line, bytes) else line.get("body", line)
            prompt = b"Lily \xff\xc3(\x80" if isinstance(line, bytes) else ask["prompt"]
            if isinstance(prompt, list) or ask.get("seed", 0) < 0:
                continue                               # the command takes neither ids nor a negative seed
            path = put("prompt.txt", prompt if isinstance(prompt, bytes) else prompt.encode())
            for i, text in enumerate(r.texts()):
                same(text, good("-m", model, "--raw", "-f", path, "-q", *as_command(ask, i)),
                     "%s, line %d, answer %d" % (os.path.basename(model), no, i))


@case
def scored():
    """log-probabilities are those of --score over the prompt and the answer"""
    exact, seen = ("-ctk", "f32", "-ctv", "f32"), 0
    lines = [{"prompt": story(random.Random(i), 60 + 20 * i), "max_tokens": 20, "temperature": i % 2, "seed": i,
              "logprobs": 0, "ignore_eos": True} for i in range(8)]
    for no, r in batch(lines, *exact, "-np", "8").items():
        prompt, text = lines[no - 1]["prompt"], r.body["choices"][0]["text"]
        ids = lambda t: good("-m", PIP, "--tokenize", "--bos", "--special", "-p", t).split()
        lp, rows = r.body["choices"][0]["logprobs"]["token_logprobs"], good("-m", PIP, "--score", "-q", "-p",
                                                                            prompt + text).decode().splitlines()
        if len(ids(prompt + text)) != len(ids(prompt)) + len(lp) or ids(prompt + text)[:len(ids(prompt))] != ids(prompt):
            continue                                   # the answer is not spelt with the tokens it was made of
        for got, want in zip(lp, (float(row.split()[2]) for row in rows[-len(lp):])):   # six digits, wherever they round
            check(abs(got - want) <= 5e-6 * abs(want), "line %d: %r, want %r" % (no, got, want))
        seen += 1
    check(seen >= 3, "only %d of 8 answers could be compared" % seen)


@case
def start_tokens():
    """a raw prompt that is written with the start token gets no second one, which one line says at the end; --no-bos adds none"""
    start = good("-m", PIP, "--detokenize", "--special", "-p", good("-m", PIP, "--tokenize", "--bos", "-p", "").decode()).decode()
    lines = [{"prompt": p, "max_tokens": 6, "temperature": 0} for p in ("Once upon", start + "Once upon", start + start + "Once")]
    texts = lambda r: [json.loads(x)["response"]["body"] for x in sorted(r.out.splitlines(), key=lambda x: json.loads(x)["line"])]
    path = put("starts.jsonl", lines)
    r = run("-m", PIP, "--batch", path)
    a, b, c = texts(r)
    same(b["choices"][0]["text"], a["choices"][0]["text"], "the same prompt")
    same([x["usage"]["prompt_tokens"] for x in (a, b)], [len(good_ids("Once upon"))] * 2, "tokens of the prompts")
    same(c["usage"]["prompt_tokens"], len(good_ids("Once")) + 1, "two start tokens that are written")
    check(r.err.count(b"2 prompts begin with the start token, which is not added a second time") == 1, repr(r.err))
    r = run("-m", PIP, "--batch", path, "--no-bos")
    same([x["usage"]["prompt_tokens"] for x in texts(r)], [len(good_ids("Once upon")) - 1, len(good_ids("Once upon")), len(good_ids("Once")) + 1], "--no-bos")
    check(b"start token" not in r.err, repr(r.err))


# --- forms of a file ---

@case
def plain_text():
    """a text file: each line that is not blank is a prompt, whatever its bytes; line endings and a BOM are no part of it"""
    prompts = [b"Once upon a time", b"{ is a bracket", b"a\0b", b"\xff\xfe", b"  lead and trail ", b"Lily"]
    want = batch([{"prompt": p.decode("latin-1")} if p == b"Lily"
                  else b'{"prompt":"%s"}' % p.replace(b"\0", b"\\u0000") for p in prompts], "-n", "12", *SEED)
    text = lambda found: {no: r.texts() for no, r in found.items()}
    for name, data, at in (("plain", b"\n".join(prompts) + b"\n", range(1, 7)),
                           ("no last newline", b"\n".join(prompts), range(1, 7)),
                           ("CRLF", b"\r\n".join(prompts) + b"\r\n", range(1, 7)),
                           ("BOM", b"\xef\xbb\xbf" + b"\n".join(prompts), range(1, 7)),
                           ("blank lines", b"\n\r\n" + b"\n\n".join(prompts) + b"\n\n", range(3, 15, 2))):
        got = batch(data, "--raw", "-n", "12", *SEED)
        same(sorted(got), list(at), name + ": lines")
        same([text(got)[no] for no in at], [text(want)[no] for no in range(1, 7)], name + ": texts")
    for data in b"", b"\n", b"\r\n\n", b"\xef\xbb\xbf":
        same(batch(data), {}, "%r" % data)


def good_ids(text):
    return [int(x) for x in good("-m", PIP, "--tokenize", "--bos", "-p", text).split()]


@case
def good_lines():
    """unusual but valid lines give the answers of their plain forms"""
    base = {"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0}
    want = batch([base])[1].texts()
    text = json.dumps(base).encode()
    odd = [dict(base, custom_id="", user=None, metadata={"a": ["b"]}, stream=False, model=None),
           dict(base, stop=None, n=None, seed=None, logprobs=None, top_p=None),
           dict(base, n=1, logprobs=0, response_format={"type": "text"}),
           {"custom_id": "x\u0000\"\\\n\u4e16\U0001f600", "body": base, "method": "POST", "url": "/v1/completions"},
           {"max_completion_tokens" if k == "max_tokens" else k: v for k, v in base.items()},
           dict(base, max_completion_tokens=8), dict(base, prompt=[base["prompt"]]),
           dict(base, store=False, service_tier="flex", echo=False, best_of=1, tools=[], tool_choice="none",
                suffix=None, stream_options=None),
           dict(base, priority=3), dict(base, priority=-3), b"  " + text + b" \t",
           json.dumps(base, separators=(",", ":")).encode(), text + b"\r", text.replace(b"O", b"\\u004f"),
           dict(base, prompt=[int(x) for x in good("-m", PIP, "--tokenize", "--bos", "-p", base["prompt"]).split()]),
           dict(base, max_tokens=8, stop=["no such", "words"])]
    got = batch(odd)
    for no, line in enumerate(odd, 1):
        check(no in got and got[no].error is None, "%s: %r" % (short(line), got.get(no) and got[no].error))
        same(got[no].texts(), want, short(line))
    same(got[4].id, odd[3]["custom_id"], "custom_id")
    none = batch([dict(base, max_tokens=0), dict(base, max_tokens=0, n=2, logprobs=1, custom_id="none")])
    same([(r.texts(), r.body["usage"]["completion_tokens"], r.body["choices"][0]["finish_reason"])
          for r in none.values()], [([b""], 0, "length"), ([b""] * 2, 0, "length")], "no tokens")
    full = {"prompt": "Once upon a time", "temperature": 0, "ignore_eos": True}
    three = dict(base, prompt=["Once upon a time", "Lily", good_ids("The dog")], logprobs=1, temperature=1, seed=5)
    for n in 1, 2:                                        # a list is as many choices: those of the first prompt, of the second ...
        whole, = batch([dict(three, n=n)], "--kv-blocks", "40", "--kv-block-size", "4").values()
        parts = [batch([dict(three, prompt=p, n=n, seed=5 + n * i)])[1] for i, p in enumerate(three["prompt"])]
        same([dict(c, index=0) for c in whole.body["choices"]],
             [dict(c, index=0) for p in parts for c in p.body["choices"]], "choices of a list, n %d" % n)
        same([c["index"] for c in whole.body["choices"]], list(range(3 * n)), "their numbers")
        for key in "prompt_tokens", "completion_tokens", "total_tokens":
            same(whole.body["usage"][key], sum(p.body["usage"][key] for p in parts), key)
    for model in PIP, SMALL:                              # no bound at all, or one beyond the context: until the context is full
        got = batch([full, dict(full, max_tokens=10**9)], model=model)
        path = put("prompt.txt", full["prompt"].encode())
        text = good("-m", model, "--raw", "-f", path, "--temp", "0", "--ignore-eos", "-q")
        same([(r.texts(), r.body["choices"][0]["finish_reason"]) for _, r in sorted(got.items())],
             [([text], "length")] * 2, "a full context")
    raw = run("-m", PIP, "--batch", put("in.jsonl", b'{"custom_id":"\xff\xc3(","prompt":"a","max_tokens":1}\n'), "-q")
    same([r.id for r in records(raw.out).values()], ["\ufffd\ufffd("], "a custom_id that is not UTF-8")


@case
def token_ends():
    """stop_token_ids end an answer before them, with ignore_eos too; until min_tokens neither they nor end tokens are picked, and no stop string counts; the same alone, together, with guesses"""
    base = {"prompt": "Once upon a time", "max_tokens": 30, "temperature": 0, "logprobs": 0}
    whole = batch([dict(base, ignore_eos=True)])[1]
    pieces = whole.body["choices"][0]["logprobs"]["tokens"]
    ids = [int(x) for x in good("-m", PIP, "-p", base["prompt"], "--no-chat", "--temp", "0", "-n", "30", "--ignore-eos", "--ids", "-q").split()]
    end = good("-m", PIP, "--tokenize", "--special", "-p", "<|endoftext|>").split()
    end = int(end[0]) if len(end) == 1 else next(int(x) for x in re.findall(rb"eos_token_id\D+(\d+)", good("--inspect", "-m", PIP)))
    at = next(i for i in range(8, 20) if ids[i] not in ids[:i])                         # its first place
    now = {str(end): 100}                                                               # it ends as soon as it may
    lines = [dict(base, stop_token_ids=[ids[at]]), dict(base, stop_token_ids=[ids[at]], ignore_eos=True),
             dict(base, stop_token_ids=[ids[at]], min_tokens=at), dict(base, stop_token_ids=[ids[at]], min_tokens=at + 3),
             dict(base, logit_bias=now), dict(base, logit_bias=now, min_tokens=7), dict(base, logit_bias=now, ignore_eos=True),
             dict(base, logit_bias=now, ignore_eos=True, stop_token_ids=[end]),
             dict(base, stop=pieces[2].strip() or pieces[3].strip(), min_tokens=12), dict(base, min_tokens=30),
             dict(base, regex="a{3}", min_tokens=20), dict(base, regex="a+", logit_bias=now, min_tokens=6, stop_token_ids=[end])]
    want = batch(lines, "-np", "1", "-t", "1", "--no-lookup")
    for more in some(["-np 12 -t 2", "-np 3 --lookup --draft-min 2", "-np 2 -b 3 --kv-block-size 2", "-np 12 -md %s --draft-min 2" % DRAFT]):
        equal(batch(lines, *more.split()), want, more)
    text = lambda no: want[no].body["choices"][0]["text"]
    ends = lambda no: (want[no].body["usage"]["completion_tokens"], want[no].body["choices"][0]["finish_reason"])
    for no in 1, 2, 3:
        same((text(no), ends(no)), ("".join(pieces[:at]), (at, "stop")), "line %d" % no)
    check(text(4).startswith("".join(pieces[:at])) and ends(4)[0] >= at + 3, "min_tokens beyond a stop token: %r" % want[4].line)
    same([ends(no) for no in (5, 6, 7, 8, 10)], [(0, "stop"), (7, "stop"), (30, "length"), (0, "stop"), (30, "length")], "end tokens")
    check(ends(9)[0] >= 12, "a stop string: %r" % want[9].line)
    same((text(11), ends(11)[1]), ("aaa", "stop"), "a constraint that lets nothing follow")
    check(re.fullmatch("a+", text(12)) and ends(12) == (6, "stop"), "a constraint that is met: %r" % want[12].line)


P = b'"prompt":"Once"'
LONG = "Once upon a time there was a dog. " * 400
BAD = [  # a line, a word that its message holds
    (b'{"custom_id":"big","prompt":"a","seed":99999999999999999999}', "64 bits"),
    (b'{"temperature":1e400,"custom_id":"huge","prompt":"a"}', "temperature.*range"),
    (b'{"custom_id":"same key","prompt":"a","prompt":"b"}', "twice"),
    (b'{"custom_id":"deep","prompt":"a","user":' + b"[" * 1999 + b"]" * 1999 + b"}", "levels"),
    (b"hello", ""), (b"{", ""), (b"{" + P, ""), (b"{" + P + b"} x", ""), (b"{" + P + b",}", ""), (b"[1,2]", ""),
    (b'"text"', ""), (b"null", ""), (b"12", ""), (b"{}", "prompt"),
    (b'{"prompt":"a","prompt":"b"}', ""), (b"{" + P + b',"frobnicate":1}', "frobnicate"),
    (b"{" + P + b',"max_tokens":1,"Max_tokens":1}', "Max_tokens"),
    ({"custom_id": "get", "method": "GET", "url": "/v1/completions", "body": {"prompt": "a"}}, "GET"),
    ({"custom_id": "url", "method": "POST", "url": "/v1/images", "body": {"prompt": "a"}}, "/v1/completions"),
    ({"custom_id": "vector", "method": "POST", "url": "/v1/embeddings", "body": {"prompt": "a"}}, "prompt: belongs to"),
    ({"custom_id": "key", "method": "POST", "url": "/v1/completions", "body": {"prompt": "a"}, "colour": 1}, "colour"),
    ({"custom_id": "body", "method": "POST", "url": "/v1/completions"}, "body"),
    ({"custom_id": "list", "method": "POST", "url": "/v1/completions", "body": []}, "body"),
    ({"custom_id": 7, "prompt": "a"}, "custom_id"),
    ({"custom_id": "mix", "method": "POST", "url": "/v1/chat/completions", "body": {"prompt": "a"}}, ""),
    ({"prompt": "a", "temperature": "hot"}, "temperature"), (b'{"prompt":"a","temperature":NaN}', ""),
    (b'{"prompt":"a","temperature":1e999}', ""), ({"prompt": "a", "temperature": -1e7}, "temperature"),
    ({"prompt": "a", "top_p": "x"}, "top_p"), ({"prompt": "a", "top_k": 1.5}, "top_k"),
    ({"prompt": "a", "min_p": []}, "min_p"), ({"prompt": "a", "repetition_penalty": 0}, "repetition_penalty"),
    ({"prompt": "a", "max_tokens": -5}, "max_tokens"), ({"prompt": "a", "max_tokens": 1.5}, "max_tokens"),
    ({"prompt": "a", "max_tokens": "10"}, "max_tokens"),
    (b'{"prompt":"a","max_tokens":99999999999999999999}', ""),
    ({"prompt": "a", "max_tokens": 1, "max_completion_tokens": 2}, "max_"),
    ({"prompt": "a", "n": 0}, "\\bn\\b"), ({"prompt": "a", "n": 129}, "\\bn\\b"), ({"prompt": "a", "n": True}, "\\bn\\b"),
    ({"prompt": "a", "stop": 5}, "stop"), ({"prompt": "a", "stop": [""]}, "stop"), ({"prompt": "a", "stop": ["x"] * 400}, "stop"),
    ({"prompt": "a", "logprobs": 99}, "logprobs"), ({"prompt": "a", "logprobs": -1}, "logprobs"),
    ({"prompt": "a", "seed": 1.5}, "seed"), ({"prompt": "a", "seed": "x"}, "seed"),
    ({"prompt": "a", "logit_bias": [1]}, "logit_bias"), ({"prompt": "a", "logit_bias": {"x": 1}}, "logit_bias"),
    ({"prompt": "a", "logit_bias": {"99999999": 1}}, "logit_bias"),
    ({"prompt": "a", "logit_bias": {"5": "x"}}, "logit_bias"), ({"prompt": "a", "stream": True}, "stream"),
    ({"prompt": "a", "echo": True}, "echo"), ({"prompt": "a", "best_of": 2}, "best_of"),
    ({"prompt": "a", "suffix": ""}, "suffix"),
    ({"prompt": "a", "tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
    ({"prompt": "a", "tool_choice": "required"}, "tool_choice"),
    ({"prompt": "a", "response_format": {"type": "json_schema"}}, "response_format"),
    ({"prompt": "a", "ignore_eos": 1}, "ignore_eos"), ({"prompt": "a", "min_tokens": 3, "max_tokens": 2}, "min_tokens"),
    ({"prompt": "a", "stop_token_ids": [99999999]}, "stop_token_ids"), ({"prompt": "a", "skip_special_tokens": 0}, "skip_special_tokens"),
    ({"prompt": "a", "response_format": {"type": "nonsense"}}, "response_format"),
    ({"prompt": "a", "grammar": 5}, "grammar"), ({"prompt": "a", "regex": {}}, "regex"),
    ({"prompt": "a", "chat_template_kwargs": {}}, "chat_template_kwargs"), ({"prompt": [99999999]}, "prompt|token"),
    ({"prompt": [-1]}, "prompt|token"), ({"prompt": [1.5]}, "prompt"),
    ({"prompt": [[1], []]}, "prompt"), ({"prompt": ["a", LONG], "max_tokens": 1}, "prompt 2 of 2.*context"),
    ({"prompt": [["a"]]}, "prompt"), ({"prompt": [[]]}, "prompt"), ({"prompt": [1, "a"]}, "prompt"),
    ({"prompt": ["a", 5]}, "prompt"), ({"prompt": ["a"] * 200, "n": 20}, "200 prompts"), ({"prompt": 5}, "prompt"),
    ({"prompt": None}, "prompt"), ({"prompt": []}, "prompt"),
    ({"prompt": LONG, "max_tokens": 1}, "context"),
    ({"prompt": "a", "messages": [{"role": "user", "content": "a"}]}, ""), ({"messages": "hello"}, "messages"),
    (b'{"prompt":"\\ud800"}', ""), (b'{"prompt":"\\x"}', ""), (b'{"prompt":"a\tb"}', ""), (b'{"prompt":"a\0b"}', ""),
    (b'{"prompt":"a","metadata":' + b"[" * 100000 + b"]" * 100000 + b"}", ""),
    ({"prompt": "a", "custom_id": "good 1"}, "custom_id|twice|good 1|duplicate"),
]


def id_of(line):
    """The custom_id that Python's own reader finds in a line, which goes deeper than llmrun's; the digits of a number."""
    sys.setrecursionlimit(5000)
    try:
        o = json.loads(line) if isinstance(line, bytes) else line
    except (ValueError, RecursionError):
        return None
    found = o.get("custom_id") if isinstance(o, dict) else None
    return found if isinstance(found, str) else str(found) if type(found) in (int, float) else None


@case
def bad_lines():
    """each bad line gives one error record with the reason; the good lines are answered as if they were alone; exit 1"""
    ok = [{"custom_id": "good %d" % i, "prompt": story(random.Random(i), 30 + i), "max_tokens": 6, "temperature": 0,
           "logprobs": 1} for i in range(len(BAD) // 4 + 2)]
    lines, blank = [ok[0], ok[1]], [ok[0], ok[1]]
    for i, (line, _) in enumerate(BAD):
        lines.append(line), blank.append(b"")
        if i % 4 == 3:
            lines.append(ok[2 + i // 4]), blank.append(ok[2 + i // 4])
    want = batch(blank)
    for config in (), ("-np", "1", "--batch-order", "input"), ("-np", "32", *FEW, "--kv-blocks", "130"):
        got = batch(lines, *config, rc=1)
        same(sorted(got), list(range(1, len(lines) + 1)), "lines with a record")
        equal({no: r for no, r in got.items() if no in want}, want, "the good lines")
        for no in sorted(set(got) - set(want)):
            line, word = lines[no - 1], next(w for x, w in BAD if x is lines[no - 1])
            check(got[no].error, "an answer to %s" % short(line))
            check(got[no].error["message"] and re.search(word, got[no].error["message"]),
                  "%s: want %r in %r" % (short(line), word, got[no].error))
            check(len(got[no].error["message"]) < 500,
                  "a message of %d characters for %s" % (len(got[no].error["message"]), short(line)))
            same(got[no].id, id_of(line), "custom_id of %s" % short(line))
    r = run("-m", PIP, "--batch", put("in.jsonl", lines))
    check(r.rc == 1 and str(len(BAD)).encode() in r.err, "the number of lines with an error is told: %r" % r.err)


@case
def exits():
    """exit 0: all lines good; 1: any error; 2: a wrong command, before anything is written"""
    one = put("one.jsonl", [{"prompt": "a", "max_tokens": 2}])
    same(run("-m", PIP, "--batch", one, "-q").rc, 0, "all good")
    same(run("-m", PIP, "--batch", put("bad.jsonl", [{"prompt": 5}]), "-q").rc, 1, "all bad")
    quiet = run("-m", PIP, "--batch", one, "-q")
    same(quiet.err, b"", "stderr with -q")
    out = fresh("out.jsonl")
    put("in.txt", b"x\n")
    for args, word in ((["--batch", tmp("none")], "none"), (["--batch", TMP], os.path.basename(TMP)),
                       (["--batch", one, "--resume"], "--resume"),
                       (["--batch", one, "-o", "/nonexistent/x"], "/nonexistent/x"),
                       (["--batch", one, "-o", TMP], os.path.basename(TMP)),
                       (["--batch", one, "--score"], "--score|two actions")):
        refused(run("-m", PIP, *args, "-q"), 2, word, " ".join(args))
    refused(run("--batch", one), 2, "no model given", "no model")
    copy = tmp("copy.gguf")
    shutil.copy(SMALL, copy)
    for more in (), ("--resume",):
        refused(run("-m", copy, "--batch", one, "-o", copy, "-q", *more), 2, "copy.gguf", "output onto the model")
        refused(run("-m", copy, "--batch", one, "-o", one, "-q", *more), 2, "one.jsonl", "output onto the input")
    same(read(copy) == read(SMALL), True, "the model as it was")
    same(read(one), jsonl([{"prompt": "a", "max_tokens": 2}]), "the input as it was")
    good("-m", PIP, "--batch", one, "-o", out, "-q")
    before = read(out)
    refused(run("-m", PIP, "--batch", one, "-o", out, "-q"), 2, "--resume", "an output that holds answers")
    same(read(out), before, "the answers")


@case
def summary():
    """the summary goes to stderr: text without colour in a pipe, or JSON that counts the lines"""
    path = put("in.jsonl", lines_of(PIP)[:6] + [b"{"])
    r = run("-m", PIP, "--batch", path, *SEED)
    check(r.rc == 1 and len(records(r.out)) == 7, repr(r))
    check(b"\x1b" not in r.err and b"\r" not in r.err and r.err, "colour or nothing in a pipe: %r" % r.err)
    got, s = told(lines_of(PIP)[:8] + [b"{"], *SEED, "--cost-per-hour", "36", rc=1)
    use = lambda key: sum(r.body["usage"][key] for r in got if r.body)
    same([s[k] for k in ("requests", "answered", "errors", "answered_before", "other_shards", "seed",
                         "kv_block_tokens")][:6], [9, 8, 1, 0, 0, 11], "counts")
    same((s["prompt_tokens"] >= use("prompt_tokens"), s["completion_tokens"]), (True, use("completion_tokens")), "tokens")
    for name in "ttft_s", "tpot_s", "itl_s", "e2e_s":
        check(0 < s[name]["p50"] <= s[name]["p95"] <= s[name]["p99"] < 60 * SLOW, "%s: %r" % (name, s[name]))
    check(0 <= s["kv_unused"] < 1 and 0 < s["steps_s"] <= s["seconds"] and s["kv_blocks_peak"] > 0
          and s["kv_bytes_peak"] > 0, repr(s))
    cost = 36 * s["seconds"] / 3600 * 1e6 / (s["prompt_tokens"] + s["completion_tokens"])
    check(abs(s["cost_per_million_tokens"] / cost - 1) < 1e-3, "cost %r, expected %g" % (s["cost_per_million_tokens"], cost))
    check(abs(s["cost"] / (36 * s["seconds"] / 3600) - 1) < 1e-3, "cost of the run: %r" % s["cost"])
    check(re.search(rb"cost +[0-9.e-]+ for this run, [0-9.e-]+ for a million tokens", run("-m", PIP, "--batch", path, "--cost-per-hour", "36").err), "cost as text")
    _, held = told([{"prompt": "a", "max_tokens": 2, "regex": "a{9}"}, {"prompt": "a", "max_tokens": 9, "regex": "a{1}"}], *SEED, "--no-close", rc=1)
    same(held["unfinished"], 1, "unfinished answers")
    for rate, count in (("requests_per_s", "requests"), ("prompt_tokens_per_s", "prompt_tokens"),
                        ("completion_tokens_per_s", "completion_tokens")):
        check(abs(s[rate] * s["seconds"] / s[count] - 1) < 1e-3, "%s %r" % (rate, s[rate]))


@case
def rates_interrupted():
    """an interrupted run counts the tokens that it has read and written, not those that wait"""
    if stressed():
        raise Skip("a step takes long")
    lines = [{"prompt": "word " * 50, "max_tokens": 1000000, "ignore_eos": True, "temperature": 0, "custom_id": str(i)} for i in range(40)]
    p = start("-m", PIP, "--batch", put("in.jsonl", lines), "--json", "-np", "2", "-c", "100000")
    time.sleep(0.7 * SLOW)
    p.send_signal(signal.SIGINT)
    r = finish(p)
    s = json.loads(r.err[r.err.index(b"{"):r.err.rindex(b"}") + 1].decode())
    same((r.rc, s["answered"]), (130, 0), "an interrupted run")
    same(s["prompt_tokens"], s["computed_prompt_tokens"] + s["shared_tokens"], "tokens of prompts")
    check(s["prompt_tokens"] < 40 * 50 and (s["completion_tokens"] > 0 or not s["steps"]), repr(s))


@case
def dry_run():
    """--dry-run names the wrong lines, counts tokens, estimates from a sample, and writes nothing; all that it counts is as in the run"""
    lines = [{"prompt": "Once %s" % ("upon " * (i % 9)), "max_tokens": 1 + i % 13, "temperature": 0} for i in range(72)] + [b"{", {"prompt": 5}]
    path, out, cache = put("in.jsonl", lines), fresh("dry.jsonl"), fresh("dry.cache")
    r = run("-m", PIP, "--batch", path, *SEED, "--dry-run", "--cost-per-hour", "36", "-o", out, "--prompt-cache", cache)
    check(r.rc == 1 and b"in.jsonl: line 74: prompt: found a number" in r.err and b"2 lines are wrong" in r.err, repr(r))
    check(not os.path.exists(out) and not os.path.exists(out + ".llmrun") and not os.path.exists(cache), "nothing is written")
    check(re.fullmatch(rb"lines       72 to answer, 2 wrong\nprompts     \d+ tokens \(\d+ to \d+\)\nanswers     about \d+ tokens, at most \d+\n"
                       rb"time        about \d+:\d\d:\d\d \(\d+ lines took [0-9.]+ s\)\nprice       about [0-9.e-]+\n", r.out), repr(r.out))
    s = json.loads(run("-m", PIP, "--batch", path, *SEED, "--dry-run", "--json", "-q", "-np", "100").out.decode())
    _, real = told(lines, *SEED, rc=1)
    same([s[k] for k in ("requests", "errors", "prompt_tokens", "sample_requests")], [72, 2, real["prompt_tokens"], 64], "counts")
    check(0 < s["shortest_prompt"] <= s["longest_prompt"] and s["completion_tokens_estimate"] <= s["completion_tokens_at_most"], repr(s))
    few = json.loads(run("-m", PIP, "--batch", put("in.jsonl", lines[:8]), *SEED, "--dry-run", "--json", "-q").out.decode())
    _, real = told(lines[:8], *SEED)
    same((few["sample_requests"], few["completion_tokens_estimate"]), (8, real["completion_tokens"]), "all lines are the sample")
    refused(run("-m", PIP, "--batch", path, "--dry-run", "--resume", "-o", out, "-q"), 2, "--dry-run and --resume disagree", "--resume")
    parts = [json.loads(run("-m", PIP, "--batch", put("in.jsonl", lines), "--dry-run", "--json", "-q", "--shard", "%d/2" % i).out.decode()) for i in (1, 2)]
    same((sum(p["requests"] for p in parts), [p["requests"] + p["errors"] + p["other_shards"] for p in parts]), (72, [74, 74]), "shards")
    r = run("-m", PIP, "--batch", put("in.jsonl", [b"{"] * 30), "--dry-run")
    check(r.rc == 1 and r.err.count(b"in.jsonl: line") == 20 and b"and 10 more lines" in r.err, repr(r))


@case
def drawn_seeds():
    """a run without --seed gives each line a seed of its own, which --batch-fields seed writes and --seed takes: it makes the same text again"""
    path = put("in.jsonl", [{"prompt": "Once upon a time", "max_tokens": 12, "temperature": 1.5}] * 6)
    rows = [json.loads(x) for x in good("-m", PIP, "--batch", path, "-q", "--batch-fields", "seed").splitlines()]
    check(len({x["seed"] for x in rows}) == 6 and all(0 <= x["seed"] < 1 << 63 for x in rows), repr([x["seed"] for x in rows]))
    for x in rows:
        alone = good("-m", PIP, "--raw", "-p", "Once upon a time", "-n", "12", "--temp", "1.5", "-s", str(x["seed"]), "-q")
        same(x["response"]["body"]["choices"][0]["text"].encode(), alone, "the text of --seed %d" % x["seed"])
    check(re.search(rb"llmrun: seed        \d+, drawn; each line has its own", run("-m", PIP, "--batch", path).err),
          "no word of it")


@case
def terminal():
    """a terminal shows one progress line, which is removed at the end; -q shows none. Lines are not read from a terminal"""
    master, slave = open_terminal()
    r = subprocess.run([O.binary, "-m", PIP, "--batch", "-"], stdin=slave, capture_output=True, timeout=60 * SLOW, env=ENV)
    os.close(master), os.close(slave)
    check(r.returncode == 2 and one_line(r.stderr) and b"is a terminal" in r.stderr, repr(r))
    for more in (), ("-q",):
        master, slave = open_terminal()
        p = subprocess.Popen([O.binary, "-m", PIP, "--batch", "-", "-np", "4", *more], stdin=subprocess.PIPE,
                             stdout=subprocess.DEVNULL, stderr=slave, env=ENV)
        os.close(slave)
        seen, asked, end = b"", 0, time.monotonic() + 60 * SLOW
        try:
            while True:
                if not p.stdin.closed:                # work enough to be drawn twice, however fast the machine
                    p.stdin.write(b'{"prompt":"Once %d","max_tokens":60,"ignore_eos":true}\n' % asked)
                    p.stdin.flush()
                    asked += 1
                    if asked > 50 if more else seen.count(b"\r") >= 2 or time.monotonic() > end:
                        p.stdin.close()
                if p.stdin.closed or select.select([master], [], [], 0.01)[0]:
                    seen += os.read(master, 65536)
        except OSError:
            pass
        os.close(master)
        same(p.wait(60 * SLOW), 0, "exit code")
        draws = seen.split(b"llmrun: requests")[0]
        if more:
            same(seen, b"", "stderr with -q")
        else:
            check(draws.count(b"\r") >= 2 and b"running" in draws and draws.endswith(b"\r\x1b[K"), repr(draws[-300:]))
            check(draws.count(b"\n") == 0, "progress takes more than a line: %r" % draws[-300:])


@case
def many_answers():
    """128 answers to one prompt, more than run at once, equal the answers of 128 lines with consecutive seeds"""
    ask = {"prompt": "", "temperature": 2, "max_tokens": 6}
    got = batch([dict(ask, n=128, seed=5)], "-np", "12", model=PIP)[1]
    one = batch([dict(ask, seed=5 + i) for i in range(128)])
    same(got.texts(), [one[i + 1].texts()[0] for i in range(128)], "texts")
    check(len(set(got.texts())) > 20, "128 answers are %d texts" % len(set(got.texts())))
    same(got.body["usage"]["completion_tokens"], sum(r.body["usage"]["completion_tokens"] for r in one.values()), "tokens")


def lines_from(p, n, timeout=60):
    """The next n lines of a process's stdout, fewer at a timeout."""
    got = []
    reader = threading.Thread(target=lambda: [got.append(p.stdout.readline()) for _ in range(n)], daemon=True)
    reader.start()
    reader.join(timeout * SLOW)
    return [x for x in got if x]


@case
def slow_producer():
    """--batch - answers a line before the next one is written; the end of the pipe ends the run"""
    for plain_lines in False, True:
        p = start("-m", PIP, "--batch", "-", "-q", "-n", "5", "-s", "1", stdin=subprocess.PIPE)
        for no in range(1, 4):
            p.stdin.write(b"Once upon\n" if plain_lines else b'{"custom_id":"%d","prompt":"Once upon"}\n' % no)
            p.stdin.flush()
            got = lines_from(p, 1)
            check(got, "no answer to line %d while the pipe is open" % no)
            same(Record(got[0][:-1]).no, no, "line number")
        p.stdin.write(b"the last line has no newline" if plain_lines else b'{"prompt":"x"}')
        p.stdin.close()
        p.stdin = None
        r = finish(p)
        check(r.rc == 0 and list(records(r.out)) == [4], repr(r))
    p = start("-m", PIP, "--batch", "-", "-q", stdin=subprocess.PIPE)
    until_caught(p, signal.SIGINT)
    time.sleep(0.3)
    p.send_signal(signal.SIGINT)
    same(finish(p).rc, 130, "SIGINT while waiting for a line")


def peak(*args, **kw):
    """Runs to the end: (exit code, stderr, most memory held, bytes)."""
    p = start(*args, stdout=subprocess.DEVNULL, **kw)
    err = []
    reader = threading.Thread(target=lambda: err.append(p.stderr.read()))
    reader.start()
    _, status, usage = os.wait4(p.pid, 0)
    reader.join()
    p.returncode = os.waitstatus_to_exitcode(status)
    p.stderr.close()
    return p.returncode, err[0], usage.ru_maxrss * 1024


@case
def little_memory():
    """where the system refuses memory for blocks, a run ends: each line has its answer or an error"""
    if sanitized():
        raise Skip("a sanitizer reserves address space")
    lines = [{"prompt": story(random.Random(i), 30 + 20 * i), "max_tokens": 40, "temperature": 0} for i in range(24)]
    path = put("in.jsonl", lines)
    for kib in 45000, 50000, 60000, 80000:
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (kib << 10, kib << 10))
        p = subprocess.run([O.binary, "-m", PIP, "-md", DRAFT, "--batch", path, "-np", "8", "-q", "-t", "2"],
                           stdin=subprocess.DEVNULL, capture_output=True, timeout=120, env=ENV, preexec_fn=limit)
        check(p.returncode in (0, 1) and sorted(records(p.stdout)) == list(range(1, 25)) or p.returncode == 3
              and one_line(p.stderr), "%d KiB: exit %d, %r" % (kib, p.returncode, p.stderr[-300:]))


@case
def long_line():
    """a line of 200 MB is one error record with its custom_id, is not kept in memory, and the lines around it are answered; --resume knows it"""
    path, out = tmp("long.jsonl"), fresh("out.jsonl")
    with open(path, "wb") as f:
        f.write(b'{"prompt":"a","max_tokens":2}\n{"custom_id":"long","prompt":"')
        for _ in range(200):
            f.write(b"a" * (1 << 20))
        f.write(b'"}\n{"prompt":"b","max_tokens":2}\n')
    rc, err, most = peak("-m", PIP, "--batch", path, "-o", out, "-q")
    got = records(read(out))
    same((rc, sorted(got)), (1, [1, 2, 3]), "exit code and lines; stderr %r" % err)
    check(got[2].error and not got[1].error and not got[3].error, "errors: %r" % [r.error for r in got.values()])
    same(got[2].id, "long", "custom_id")
    check(sanitized() or most < 180 << 20, "%d MiB of memory" % (most >> 20))
    r = run("-m", PIP, "--batch", path, "-o", out, "--resume")
    os.unlink(path)
    check(b"3 answered before" in r.err and not os.path.exists(out + ".stale"), "--resume: %r" % r.err)
    equal(records(read(out)), got, "--resume")


@case
def long_file():
    """memory does not grow with the number of lines"""
    held = []
    for n in 2000, 100000:
        path, out = tmp("many.jsonl"), fresh("out.jsonl")
        with open(path, "wb") as f:
            f.write(b"{}\n" + b'{"prompt":1}\n' * (n - 2) + b'{"prompt":"b","max_tokens":2}\n')
        rc, err, most = peak("-m", SMALL, "--batch", path, "-o", out, "-q")
        data = read(out)
        same((rc, data.count(b"\n")), (1, n), "exit code and records; stderr %r" % err)
        held.append(most)
    check(sanitized() or held[1] - held[0] < 16 << 20,
          "%d and %d KiB for 2,000 and 100,000 lines" % (held[0] >> 10, held[1] >> 10))


# --- no answer is lost ---

def fault_lines():
    """Sixty lines, every fifth one of a chat, whose answers take a while and fill a file that is larger than a small disk."""
    rng = random.Random(9)
    tale = story(rng, 300)
    ask = lambda i, text: {"prompt": text} if i % 5 != 4 else {"messages": [{"role": "system", "content": tale[:90]},
                                                                            {"role": "user", "content": text}]}
    return [{**ask(i, tale[:rng.randrange(300)] if i % 3 else tale + " %d" % i), "max_tokens": rng.randint(5, 60),
             "temperature": i % 2, "seed": i, "ignore_eos": True,
             **({"custom_id": "c%d" % i} if i % 2 else {}),
             **({"logprobs": True, "top_logprobs": 2} if i % 20 == 4 else {"logprobs": 2} if i % 4 < 2 and i % 5 != 4
                else {})} for i in range(60)]


class Fault:
    """The input of the interruption tests, and its answers in an undisturbed run."""
    want = None

    def __init__(self):
        if Fault.want is None:
            Fault.path = put("fault.jsonl", fault_lines())
            t0 = time.time()
            out = self.run(fresh("whole.jsonl"))
            Fault.took, Fault.want, Fault.size = time.time() - t0, records(out), len(out)
            same(sorted(self.want), list(range(1, 61)), "lines answered")

    def args(self, out, *more):
        return ("-m", PIP, "--batch", self.path, "-o", out, "-q", *more)

    def run(self, out, *more):
        r = run(*self.args(out, *more))
        check(r.rc == 0, "%s: %r" % (" ".join(more), r))
        return read(out)

    def part(self, data, what, torn=False):
        """What is written so far is whole records of the uninterrupted run."""
        got = records(data, torn)
        for no, r in got.items():
            same(r.plain, self.want[no].plain, "%s: line %d" % (what, no))
        return got

    def resume(self, out, what):
        equal(records(self.run(out, "--resume")), self.want, what)


def moment(rng, p, out, fault):
    """Waits for some time, or until the run's file has grown by some bytes."""
    if rng.random() < 0.4:
        deadline, until = time.time() + rng.uniform(0, fault.took), 1 << 60
    else:
        deadline, until = time.time() + 60 * SLOW, len(read(out)) + rng.randrange(1, fault.size // 3)
    while time.time() < deadline and p.poll() is None and (os.path.getsize(out) if os.path.exists(out) else 0) < until:
        time.sleep(0.001)


@case
def kills():
    """a run killed at random moments by SIGKILL, SIGTERM and SIGINT and resumed each time ends with every record once"""
    fault, rng, ended, left = Fault(), random.Random(O.seed), 0, len(some(range(O.kills)))
    while left > 0:
        out = fresh("killed.jsonl")
        done, before = False, set()
        while not done:
            p = start(*fault.args(out, "--resume", "-np", str(rng.choice((1, 4, 16))), "-t", str(rng.choice((1, 2))),
                                  *rng.choice(((), ("--batch-order", "input"), FEW))))
            if left > 0:
                moment(rng, p, out, fault)
            sig, hit = rng.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGINT)), left > 0 and p.poll() is None
            asked = catches(p, sig)
            if hit:
                p.send_signal(sig)
            r = finish(p)
            done = r.rc == 0
            what = "%d kills before the end, %s" % (left, sig.name)
            if not done:
                early = not asked and r.rc == -sig                          # the signal came before its handler
                check(hit and (early or r.rc == {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}[sig]),
                      "%s: %r" % (what, r))
                check(b"bug" not in r.err and b"annot" not in r.err, "%s: %r" % (what, r))
                left -= 1
            now = set(fault.part(read(out), what, torn=sig == signal.SIGKILL))
            check(now >= before, "%s: answers %r are gone" % (what, before - now))
            before = now
        equal(records(read(out)), fault.want, "after kills")
        ended += 1
    check(ended > 0, "no run came to its end")


@case
def told_to_resume():
    """an interrupt prints how to resume, and a second one ends the run at once"""
    fault, out = Fault(), fresh("told.jsonl")
    p = start("-m", PIP, "--batch", fault.path, "-o", out)
    while p.poll() is None and len(read(out)) < 100:
        time.sleep(0.001)
    p.send_signal(signal.SIGINT)
    r = finish(p)
    check(r.rc == 130 and b"--resume" in r.err, repr(r))
    fault.part(read(out), "interrupted")
    fault.resume(out, "resumed")
    out = fresh("twice.jsonl")
    p = start(*fault.args(out))
    while p.poll() is None and len(read(out)) < 100:
        time.sleep(0.001)
    p.send_signal(signal.SIGTERM), p.send_signal(signal.SIGTERM)
    same(finish(p).rc, 143, "two signals")


@case
def torn():
    """a file cut at any byte is resumed: complete records stay, an incomplete one is made again"""
    fault, rng = Fault(), random.Random(3)
    out = fresh("torn.jsonl")
    whole = fault.run(out)
    ends = [i + 1 for i, c in enumerate(whole) if c == 10]
    for cut in some([0, 1, ends[0] - 1, ends[0], ends[0] + 1, ends[-1] - 1, len(whole)] + [rng.randrange(len(whole))
                                                                                           for _ in range(4)], 4):
        os.truncate(out, cut) if cut <= os.path.getsize(out) else None
        with open(out, "wb") as f:
            f.write(whole[:cut])
        kept = whole[:max([0] + [e for e in ends if e <= cut])]
        fault.resume(out, "cut at byte %d" % cut)
        check(read(out).startswith(kept), "cut at byte %d: whole records were written again" % cut)
    with open(out, "ab") as f:
        f.write(b'{"id":"somebody else"}\n')
    refused(run(*fault.args(out, "--resume")), 2, "torn.jsonl", "a record of another kind")
    strange = tmp("strange.jsonl")
    fresh("strange.jsonl")
    put("strange.jsonl", b"these are my notes\n")
    refused(run(*fault.args(strange, "--resume")), 2, "strange.jsonl", "a file that is no results")
    same(read(strange), b"these are my notes\n", "the notes")


@case
def resumed_errors():
    """error records count as answers: a file of good, bad and repeated lines, resumed after each record, equals an undisturbed run"""
    line = {"prompt": "Once", "max_tokens": 3, "temperature": 0}
    lines = [dict(line, custom_id="a"), {"prompt": 5}, dict(line, custom_id="a"), {"custom_id": "b", "prompt": 5},
             line, line, dict(line, custom_id="b"), b"{", dict(line, custom_id="c")]
    path, out = put("in.jsonl", lines), fresh("errors.jsonl")
    same(run("-m", PIP, "--batch", path, "-o", out, "-q").rc, 1, "exit code")
    whole = read(out)
    same([no for no, r in sorted(records(whole).items()) if r.error], [2, 3, 4, 7, 8], "lines with an error")
    for end in [0] + [i + 1 for i, c in enumerate(whole) if c == 10]:
        with open(out, "wb") as f:
            f.write(whole[:end])
        r = run("-m", PIP, "--batch", path, "-o", out, "-q", "--resume", "-np", "2")
        check(r.rc in (0, 1), repr(r))
        equal(records(read(out)), records(whole), "resumed behind byte %d" % end)


@case
def model_shrinks():
    """a model file that shrinks during the run ends it with exit 3; the records are complete"""
    copy, out = tmp("shrinks.gguf"), fresh("shrinks.jsonl")
    shutil.copy(PIP, copy)
    p = held_open(out, copy, "--repack", "off")
    os.truncate(copy, 4096)
    p.stdin.write(b"Twice upon a time there was a dog.\n")
    p.stdin.close()
    p.stdin = None
    r = finish(p)
    check(r.rc == 3 and one_line(r.err), repr(r))
    same(sorted(records(read(out))), [1], "answers")


@case
def full_disk():
    """a failed write ends with exit 3, complete records and a hint to --resume, which continues from there"""
    fault = Fault()
    least = fault.size - 16 * len(fault.want)         # a drawn seed stands in each record: it may have fewer digits than in the whole run
    for limit in some((1, 700, fault.size // 3, fault.size // 2 + 17, least), 3):
        out = fresh("full.jsonl")
        r = run(*fault.args(out), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        refused(r, 3, "full.jsonl", "%d bytes" % limit)
        if limit >= fault.size // 3:
            check(b"--resume" in r.err, repr(r.err))
            check(len(fault.part(read(out), "%d bytes" % limit)) > 0, "nothing was written")
        fault.resume(out, "after %d bytes" % limit)
    if os.path.exists("/dev/full"):
        with open("/dev/full", "wb") as full:
            r = run("-m", PIP, "--batch", fault.path, "-q", stdout=full)
        check(r.rc == 3 and one_line(r.err), "stdout on a full disk: %r" % r)


@case
def full_file_system():
    """a file system of 64 KB fills up; on a larger one the run is resumed"""
    fault, folder = Fault(), tmp("disk")
    os.mkdir(folder)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True).returncode:
        raise Skip("no right to mount a file system")
    try:
        check(fault.size > 80000, "the answers are %d bytes, the disk is larger" % fault.size)
        out = os.path.join(folder, "out.jsonl")
        refused(run(*fault.args(out)), 3, "out.jsonl", "the disk is full")
        refused(run(*fault.args(out, "--resume")), 3, "out.jsonl", "the disk is still full")
        kept = fault.part(read(out), "the disk is full")
        check(kept, "nothing was written")
        for end in "", ".llmrun":
            shutil.copy(out + end, tmp("moved.jsonl" + end))
    finally:
        subprocess.run(["umount", folder])
    fault.resume(tmp("moved.jsonl"), "on a larger disk")


@case
def reader_leaves():
    """a reader that closes the pipe (| head) ends the run without a message, exit 0"""
    fault = Fault()
    p = start("-m", PIP, "--batch", fault.path, "-q")
    first = p.stdout.readline()
    p.stdout.close()
    p.wait(20 * SLOW)
    same((p.returncode, p.stderr.read()), (0, b""), "exit code and stderr")
    p.stderr.close()
    fault.part(first, "the first record")


def held_open(out, model=PIP, *more):
    """A run that has answered one line into `out` and waits for the next."""
    p = start("-m", model, "--batch", "-", "-o", out, "-q", "-n", "3", *more, stdin=subprocess.PIPE)
    p.stdin.write(b"Once\n")
    p.stdin.flush()
    deadline = time.time() + 60 * SLOW
    while not read(out).endswith(b"\n") and time.time() < deadline and p.poll() is None:
        time.sleep(0.01)
    check(read(out).endswith(b"\n"), "no answer in the file while the pipe is open")
    return p


@case
def two_runs():
    """two runs cannot write one file; a killed one leaves no lock behind"""
    out = fresh("two.jsonl")
    path = put("in.jsonl", b"Once\nTwice\n")
    p = held_open(out)
    before = read(out)
    refused(run("-m", PIP, "--batch", path, "-o", out, "-q", "-n", "3", "--resume"), 2, "two.jsonl", "a second run that resumes")
    refused(run("-m", PIP, "--batch", path, "-o", out, "-q", "-n", "3"), 2, "two.jsonl", "a second run that begins")
    same(read(out), before, "the file of the first")
    p.stdin.close()
    p.stdin = None
    same(finish(p).rc, 0, "the first run")
    out = fresh("two.jsonl")
    p = held_open(out)
    p.kill()
    finish(p)
    good("-m", PIP, "--batch", path, "-o", out, "-q", "-n", "3", "--resume")
    same(sorted(records(read(out))), [1, 2], "after a kill")


@case
def settings():
    """--resume with another model or other settings: exit 2 names what differs, and the file is unchanged"""
    path, out = put("in.jsonl", [{"prompt": "Once %d" % i, "max_tokens": 10} for i in range(6)]), fresh("set.jsonl")
    base = ("--batch", path, "-o", out, "-q")
    want = records(good("-m", PIP, "--batch", path, "-q", "-s", "4"))
    good("-m", PIP, *base, "-s", "4")
    whole = read(out)
    half = whole[:whole.index(b"\n", len(whole) // 2) + 1]
    for model, more, word in ((DRAFT, ("-s", "4"), "model"), (PIP, ("-s", "5"), "seed"),
                              (PIP, ("-s", "4", "--temp", "0.7"), "temp"), (PIP, ("-s", "4", "--top-k", "7"), "top.k"),
                              (PIP, ("-s", "4", "-ctk", "q8_0"), "cache|type|ctk"),
                              (PIP, ("-s", "4", "--stop", "x"), "stop|reverse"), (PIP, ("-s", "4", "--ignore-eos"), "ignore"),
                              (PIP, ("-s", "4", "-n", "3"), "predict|-n|n=|max"),
                              (PIP, ("-s", "4", "--blas"), "blas|BLAS"), (PIP, ("-s", "4", "--f16-as-bf16"), "bf16")):
        with open(out, "wb") as f:
            f.write(half)
        refused(run("-m", model, *base, *more, "--resume"), 2, word, " ".join(more))
        same(read(out), half, " ".join(more) + ": the answers")
    for more in (), ("-t", "1", "-np", "3", "-b", "5", "--batch-order", "input", "--kv-block-size", "8"):
        with open(out, "wb") as f:
            f.write(half)
        good("-m", PIP, *base, "-s", "4", *more, "--resume")
        equal(records(read(out)), want, "resumed with " + " ".join(more))
    for more in ("-s", "5"), ("-s", "4", "--temp", "0.7"), ():      # without the header the records say what they were made with
        put("set.jsonl", half)
        os.path.exists(out + ".llmrun") and os.unlink(out + ".llmrun")
        if more:
            refused(run("-m", PIP, *base, *more, "--resume"), 2, "system_fingerprint", "no header, " + " ".join(more))
            same((read(out), os.path.exists(out + ".llmrun")), (half, False), "refused without a header")
    good("-m", PIP, *base, "-s", "4", "--resume")
    equal(records(read(out)), want, "resumed without a header")
    check(os.path.exists(out + ".llmrun"), "the header is written again")
    out = fresh("drawn.jsonl")                        # a drawn seed is kept for the rest of the file
    good("-m", PIP, "--batch", path, "-o", out, "-q")
    whole = read(out)
    for header in True, False:
        put("drawn.jsonl", whole[:whole.index(b"\n") + 1])
        if not header:
            os.unlink(out + ".llmrun")
        good("-m", PIP, "--batch", path, "-o", out, "-q", "--resume")
        equal(records(read(out)), records(whole), "a drawn seed")
    same(len({r.body["system_fingerprint"] for r in records(whole).values()}), 1, "fingerprints of a run")


@case
def changed_input():
    """--resume finds a line's record by its content, without a custom_id also by its number; records of no line move to FILE.stale"""
    lines = [{"prompt": "Once %d" % i, "max_tokens": 4, "temperature": 0,
              **({"custom_id": "c%d" % i} if i < 3 else {})} for i in range(6)]
    path, out = put("in.jsonl", lines), fresh("changed.jsonl")
    good("-m", PIP, "--batch", path, "-o", out, "-q")
    before = read(out)
    good("-m", PIP, "--batch", path, "-o", out, "-q", "--resume")
    same(read(out), before, "resumed when all was answered")
    more = lines + [{"prompt": "new", "max_tokens": 4, "temperature": 0}]
    good("-m", PIP, "--batch", put("in.jsonl", more), "-o", out, "-q", "--resume")
    check(read(out).startswith(before) and sorted(records(read(out))) == list(range(1, 8)),
          "lines that were added: %r" % sorted(records(read(out))))
    check(not os.path.exists(out + ".stale"), "nothing is stale")

    whole = records(read(out))
    edited = [dict(more[0], prompt="Twice")] + more[3:4] + [dict(more[4],
                                                                 max_tokens=5)] + more[1:3] + more[5:]      # 1, 5: edited; 4: another number; 2, 3: moved with their ids
    for stream in False, True:
        put("changed.jsonl", read(out) if not stream else b"".join(r.line + b"\n" for r in whole.values()))
        os.path.exists(out + ".stale") and os.unlink(out + ".stale")
        put("in.jsonl", edited)
        args = ("-m", PIP, "--batch", "-" if stream else path, "-o", out, "--resume")
        r = run(*args, **({"inp": jsonl(edited)} if stream else {}))
        check(r.rc == 0 and b"3 of 7 records answer no line of the input as it is now; moved to" in r.err, repr(r))
        got = records(read(out))
        same(sorted(got), list(range(1, 8)), "lines after an edit")
        same({r.no: r.plain for r in records(read(out + ".stale")).values()},
             {no: whole[no].plain for no in (1, 4, 5)}, "records of lines that are gone")
        same([got[i].texts() for i in (4, 5, 6, 7)], [whole[i].texts() for i in (2, 3, 6, 7)], "answers of lines that moved")
        same({no: r.hash for no, r in got.items()}, {no: r.hash for no, r in batch(edited).items()}, "lines that are answered")
        again = read(out)
        r = run(*args, **({"inp": jsonl(edited)} if stream else {}))
        check(r.rc == 0 and b"stale" not in r.err and read(out) == again, "a second time: %r" % r)
    refused(run("--merge", out, out + ".stale", "-q"), 2, "two records of line [145] answer different texts",
            "merged with what is stale")
    r = run("-m", PIP, "--batch", put("other.jsonl", [{"prompt": "Other %d" % i, "max_tokens": 2} for i in range(3)]),
            "-o", out, "--resume")
    check(r.rc == 0 and b"7 of 7 records answer no line" in r.err, repr(r))
    same(sorted(records(read(out))), [1, 2, 3], "results of another input file")


@case
def lines_alike():
    """a record says by 128 bits of BLAKE2b which line it answers: a line made to have the hash of another one gets no answer of that one"""
    lines = [b"Pay 10 to Alice.", b"Pay AIww4ZeDsFYE"]                   # of one hash, by which records of earlier versions say it
    out, args = fresh("alike.jsonl"), ("-m", SMALL, "-n", "2", "-s", "1", "--raw", "--no-chat", "-q")
    good(*args, "--batch", put("in.txt", lines[0] + b"\n"), "-o", out)
    one = records(read(out))[1]
    put("in.txt", lines[1] + b"\n")
    r = run(*args[:-1], "--batch", tmp("in.txt"), "-o", out, "--resume")
    two = records(read(out))[1]
    check(r.rc == 0 and b"1 of 1 records answer no line of the input" in r.err and b"answered before" not in r.err, repr(r))
    same([one.hash, two.hash], [hashlib.blake2b(x, digest_size=16).hexdigest().encode() for x in lines], "digests")
    refused(run("--merge", out, put("one.jsonl", one.line + b"\n")), 2, "two records of line 1 answer different texts", "--merge")
    table = put("in.csv", b"a,b\r\nOnce,1\r\n")
    got = records(good(*args, "--batch", table, "--prompt-template", "{a}"))
    same(got[1].hash, hashlib.blake2b(b"Once,1", digest_size=16, key=hashlib.blake2b(b"a,b", digest_size=16).hexdigest().encode()).hexdigest().encode(), "the digest of a row")


def old_runs():
    """Results that an earlier version wrote, with a hash of 64 bits in each record: (name, arguments that resume them)."""
    at = lambda name: os.path.join(HERE, "tests", "data", "results", name)
    base = ("-m", SMALL, "-n", "4", "--temp", "0", "-s", "7", "-ctk", "bf16", "-ctv", "bf16", "--resume")
    return ((at("requests.old.jsonl"), (*base, "--batch", at("requests.jsonl"), "--chat-template-file", at("template.jinja"), "--grammar-file", at("words.gbnf"), "--no-close")),
            (at("rows.old.jsonl"), (*base, "--batch", at("rows.csv"), "--prompt-template", "Say {word}", "--id-column", "id", "--no-chat")))


@case
def results_of_earlier_versions():
    """results with a hash of 64 bits are resumed, with and without their header, moved and merged as they were when they were written"""
    for path, args in old_runs():
        whole, lines = read(path), read(path).splitlines(True)
        for header in True, False:
            out = fresh("old.jsonl")
            put("old.jsonl", b"".join(lines[:2]))
            os.path.exists(out + ".llmrun") and os.unlink(out + ".llmrun")
            if header:
                put("old.jsonl.llmrun", read(path + ".llmrun"))
            r = run(*args, "-o", out)
            check(r.rc == 0 and b"2 answered before" in r.err and b"stale" not in r.err, "%s, header %s: %r" % (path, header, r))
            check(read(out).startswith(b"".join(lines[:2])), "records that were there")
            got = json.loads(read(out).splitlines()[2])
            check(re.fullmatch(r"batch_req_3_[0-9a-f]{32}", got["id"]) and got["custom_id"] == json.loads(lines[2])["custom_id"], "a record that is added: %r" % got)
            same(read(out + ".llmrun"), read(path + ".llmrun"), "the header")
            r = run(*args, "-o", out)
            check(r.rc == 0 and b"3 answered before" in r.err and b"0 answered, 0 errors" in r.err, "once more: %r" % r)
        put("old.csv.jsonl", b"".join(lines[:2]))
        put("old.csv.jsonl.llmrun", read(path + ".llmrun"))
        r = run(*args, "-o", fresh("old.csv"))
        check(r.rc == 0 and b"2 answered before" in r.err and b"stale" not in r.err and read(tmp("old.csv")).count(b"\n1,") == 1, "a table of %s: %r" % (path, r))
        shuffled = put("shuffled.jsonl", lines[2] + lines[0])
        same(good("--merge", shuffled, path, "-q"), whole, "--merge")
        other = re.sub(rb"(batch_req_1_)[0-9a-f]{16}", rb"\g<1>0123456789abcdef", lines[0])
        refused(run("--merge", path, put("other.jsonl", other), "-q"), 2, "two records of line 1 answer different texts", "another hash")
        settings = read(path + ".llmrun").replace(b"chat-template=", b"chat-template=0", 1).replace(b"seed=7", b"seed=8", 1)
        put("old.jsonl", whole)
        put("old.jsonl.llmrun", settings)
        check(run(*args, "-o", tmp("old.jsonl")).rc == 2, "other settings")


@case
def stale_private():
    """header and FILE.stale are open to nobody who may not read the results; neither a link in its place nor notes lose a byte"""
    line = lambda i, n: {"prompt": "Once %d" % i, "max_tokens": n, "temperature": 0}
    mode = lambda path: os.stat(path).st_mode & 0o7777
    out, notes = fresh("private.jsonl"), put("notes.jsonl", b"these are my notes")
    for n in 2, 3, 4:
        path = put("in.jsonl", [line(i, n) for i in range(3)])
        if n == 2:
            os.close(os.open(out, os.O_WRONLY | os.O_CREAT, 0o600))
        good("-m", PIP, "--batch", path, "-o", out, "-q", *(["--resume"] if n > 2 else []))
        same([mode(x) for x in (out, out + ".llmrun")], [0o600] * 2, "modes")
    same((mode(out + ".stale"), read(out + ".stale").count(b"\n")), (0o600, 6), "FILE.stale")
    old, path = read(out), put("in.jsonl", [line(i, 5) for i in range(3)])
    for link in os.symlink, os.link:
        os.unlink(out + ".stale")
        link(notes, out + ".stale")
        refused(run("-m", PIP, "--batch", path, "-o", out, "-q", "--resume"), 2, "is no file of earlier results", link.__name__)
        same(read(notes), b"these are my notes", "the notes")
    same(set(old.split(b"\n")) <= set(read(out).split(b"\n")), True, "no record is lost")
    refused(run("-m", PIP, "--batch", path, "-o", notes, "-q", "--resume"), 2, "line 1 is no record", "notes are resumed")
    same(read(notes), b"these are my notes", "the notes")


@case
def stale_killed():
    """killed while records are moved to FILE.stale, or with a full disk there, no record is lost and the next run ends as it should"""
    line = lambda i, n: {"prompt": "Once %d" % i, "max_tokens": n, "temperature": 0}
    path, out = put("in.jsonl", [line(i, 2) for i in range(40)]), fresh("gone.jsonl")
    good("-m", PIP, "--batch", path, "-o", out, "-q")
    old = read(out)
    put("in.jsonl", [line(i, 2 + i % 2) for i in range(40)])
    args, want = ("-m", PIP, "--batch", path, "-o", out, "-q", "--resume"), None
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (len(old) // 4, len(old) // 4))
    r = run(*args, preexec_fn=limit)
    check(r.rc == 3 and read(out) == old, "a full disk: %r" % r)
    rng = random.Random(O.seed)
    for _ in some(range(O.kills), 3):
        p = start(*args)
        time.sleep(rng.uniform(0, 0.06))
        p.send_signal(signal.SIGKILL)
        finish(p)
        kept = {r.line for name in (out, out + ".stale") if os.path.exists(name)
                for r in map(Record, read(name).split(b"\n")[:-1])}
        check(kept.issuperset(old.split(b"\n")[:-1]), "a record is lost")
    good(*args)
    got = records(read(out))
    same({no: r.hash for no, r in got.items()},
         {no: r.hash for no, r in batch([line(i, 2 + i % 2) for i in range(40)]).items()}, "lines that are answered")
    same([x for x in os.listdir(TMP) if x.startswith("gone.jsonl") and x[10:] not in ("", ".llmrun", ".stale")], [], "files left")


def by_file(data):
    """{(file, line): record} of results whose input was several files."""
    found = {}
    for line in data.split(b"\n")[:-1]:
        r = Record(line)
        check((r.whole["file"], r.no) not in found, "answered twice: %r" % line[:60])
        found[r.whole["file"], r.no] = r
    return found


@case
def several_files():
    """several files, shell patterns too: records name their file, every answer is as in a run of its own; resumed, sharded and merged by file and line"""
    line = lambda i, **more: {"prompt": "Once %d" % i, "max_tokens": 3, "temperature": 0, **more}
    folder = tmp("many")
    os.mkdir(folder)
    names = [os.path.join("many", x) for x in ("b.jsonl", "a.txt", "c.jsonl", "empty.jsonl")]
    data = [jsonl([line(1, custom_id="x"), b"", line(2)]), b"{ no JSON here\n\nOnce 3\n",
            jsonl([line(1, custom_id="x"), b"{", line(4)]), b""]
    for name, text in zip(names, data):
        put(name, text)
    at, opts = {"cwd": TMP}, ("-m", PIP, "-n", "3", "--temp", "0", "-q")
    want = {}
    for name in names:
        want.update({(name, no): r for no, r in records(run(*opts, "--batch", name, **at).out).items()})
    same(len(want), 7, "lines")
    answers = lambda found: {k: (r.id, r.error, r.body and r.texts()) for k, r in found.items()}
    for files in (names, [names[0], "many/*.txt", "many/[c-z]*.jsonl"], ["many/*"], [names[0], "--batch", names[1], *names[2:]]):
        r = run(*opts, "--batch", *files, **at)
        check(r.rc == 1 and b"many/" in r.err, repr(r))
        same(answers(by_file(r.out)), answers(want), "answers of %r" % files)
    ordered = run(*opts, "--batch", *names, "--ordered", **at).out
    same(list(by_file(ordered)), [k for name in names for k in sorted(want) if k[0] == name], "order")
    out = fresh("many.jsonl")
    same(run(*opts, "--batch", *names, "-o", out, **at).rc, 1, "exit code")
    whole = read(out)
    put("many.jsonl", whole[:whole.index(b"\n", len(whole) // 2) + 1])
    same(run(*opts, "--batch", *names, "-o", out, "--resume", **at).rc, 1, "exit code")
    same(answers(by_file(read(out))), answers(want), "resumed")
    check(not os.path.exists(out + ".stale"), "nothing is stale")
    parts = []
    for i in 1, 2:
        parts.append(fresh("many%d.jsonl" % i))
        run(*opts, "--batch", *names, "--shard", "%d/2" % i, "-o", parts[-1], **at)
    merged = run("--merge", *parts, "-q")
    same(list(answers(by_file(merged.out))), sorted(want), "merged, in the order of names")
    put(names[0], jsonl([line(1, custom_id="x"), b"", line(5)]))
    r = run(*opts[:-1], "--batch", *names, "-o", out, "--resume", **at)
    check(b"1 of 7 records answer no line" in r.err, repr(r))
    same(sorted(by_file(read(out))), sorted(want), "after an edit")
    for files, word in ((["many/*.none"], "no file name matches"), ([names[0], names[0]], "given twice"),
                        ([names[0], "many/none.jsonl"], "No such file"), ([names[0], "many"], "directory")):
        refused(run(*opts, "--batch", *files, **at), 2, word, repr(files))
    odd = put("o[d]d.jsonl", jsonl([line(7)]))
    put("odd.jsonl", b"")
    same(len(records(good(*opts, "--batch", odd))), 1, "a name that looks like a pattern")


@case
def ordered():
    """--ordered: a stream and a file in the order of the input, whichever line ends first; also with a small window, an error, a resumed file"""
    lines = [{"prompt": "Once %d" % i, "max_tokens": 1 + 37 * i % 40, "temperature": 0, "priority": i % 3} for i in range(40)]
    lines[5], lines[17] = b"{", {"prompt": 5}
    want = batch(lines, rc=1)
    path, out = put("in.jsonl", lines), fresh("ordered.jsonl")
    for window in "1", "5", "64":
        r = run("-m", PIP, "--batch", path, "--ordered", "--batch-window", window, "-np", "4", "-q")
        equal(records(r.out), want, "window %s" % window)
        same(list(records(r.out)), sorted(want), "order, window %s" % window)
    run("-m", PIP, "--batch", path, "-o", out, "-np", "4", "-q")
    rows = read(out).split(b"\n")[:-1]
    check([Record(x).no for x in rows] != sorted(want), "answers end in the order of the input without --ordered too")
    put("ordered.jsonl", b"".join(x + b"\n" for x in rows[::2]))
    r = run("-m", PIP, "--batch", path, "-o", out, "-np", "4", "-q", "--resume", "--ordered")
    equal(records(read(out)), want, "resumed")
    same(list(records(read(out))), sorted(want), "order of a resumed file")
    if stressed():                                    # a preemption at every step: beside a text without an end the others hardly come to theirs
        return
    endless = {"prompt": "Once", "max_tokens": 1000000, "ignore_eos": True, "temperature": 0}
    for pause in 0.5, 2, 8, 32:                         # a slow machine needs longer for the four short answers
        p = start("-m", PIP, "--batch", "-", "--ordered", "-q", "-np", "5", "-c", "100000", stdin=subprocess.PIPE)
        p.stdin.write(jsonl([endless] + lines[:4]))
        p.stdin.flush()
        time.sleep(pause * SLOW)
        p.send_signal(signal.SIGINT)
        r = finish(p)
        if len(records(r.out)) == 4:
            break
    same((r.rc, list(records(r.out))), (130, [2, 3, 4, 5]), "an interrupted stream gives what has ended")


@case
def more_fields():
    """--batch-fields adds the prompt, the seed that makes the same text again, each completion's log-probability, times; in records and in CSV"""
    lines = [{"custom_id": 'a,"b', "prompt": 'Once, "x"\n', "max_tokens": 6, "n": 2, "stop": ["e"]},
             {"prompt": [5, 6], "max_tokens": 4, "seed": -7},
             {"prompt": ["A", "B"], "max_tokens": 3, "n": 2}, {"prompt": 5}, {"prompt": "x", "max_tokens": 0},
             b'{"prompt":"\xff\xc3","max_tokens":2}']
    path, plain_ones = put("in.jsonl", lines), batch(lines, "-s", "9", rc=1)
    fields = ("--batch-fields", "times,prompt,logprob,seed")
    r = run("-m", PIP, "--batch", path, *fields, "-q")
    got = {x["line"]: x for x in map(json.loads, r.out.decode().splitlines())}
    same([got[i].get("prompt") for i in range(1, 7)], ['Once, "x"\n', [5, 6], ["A", "B"], None, "x", "\ufffd\ufffd"], "prompts")
    check("seed" not in got[4] and "times" not in got[4], "fields of an error: %r" % got[4])
    for no in 1, 2, 3, 6:
        body, t = got[no]["response"]["body"], got[no]["times"]
        check(0 <= t["queued_s"] <= t["first_token_s"] <= t["total_s"] < 60 * SLOW, "times %r" % t)
        ask = dict(lines[no - 1] if no != 6 else {"prompt": [], "max_tokens": 2}, seed=got[no]["seed"], logprobs=0)
        data = b'{"prompt":"\xff\xc3","max_tokens":2,"logprobs":0,"seed":%d}' % ask["seed"] if no == 6 else ask
        again = next(iter(batch([data]).values())).body["choices"]
        same([(c["text"], c.get("bytes")) for c in again], [(c["text"], c.get("bytes")) for c in body["choices"]],
             "line %d with its seed" % no)
        for c, d in zip(again, body["choices"]):
            check(abs(sum(c["logprobs"]["token_logprobs"]) - d["logprob"]) < 1e-5 and d["logprobs"] is None,
                  "logprob of line %d: %r" % (no, d["logprob"]))
    same(list(got[5]["times"].values()) + [got[5]["response"]["body"]["choices"][0]["logprob"]], [None] * 3 + [0], "no tokens")
    refused(run("-m", PIP, "--batch", path, "--batch-fields", "prompt,none", "-q"), 2, "none", "an unknown field")

    path, out = put("in.jsonl", lines), fresh("rows.csv")
    r = run("-m", PIP, "--batch", path, *fields, "-s", "9", "-q", "--format", "csv", "-o", out, "--ordered")
    check(r.rc == 1 and os.listdir(TMP).count("rows.csv.llmrun") == 0, repr(r))
    rows = list(csv.DictReader(io.StringIO(read(out).decode(), newline="")))
    same(list(rows[0]), "line,custom_id,index,text,finish_reason,prompt_tokens,completion_tokens,error,prompt,seed,logprob,queued_s,first_token_s,total_s,reasoning_content,tool_calls".split(","), "header")
    want = [(no, i, c) for no, x in sorted(plain_ones.items()) for i, c in enumerate(x.body["choices"] if x.body else [None])]
    same([(int(x["line"]), x["index"]) for x in rows], [(no, str(i) if c else "") for no, i, c in want], "rows")
    same([(x["text"], x["finish_reason"]) for x in rows],
         [(c["text"], c["finish_reason"]) if c else ("", "") for _, _, c in want], "texts")
    same([x["prompt"] for x in rows], ['Once, "x"\n'] * 2 + ["5 6", "A", "A", "B", "B", "", "x", "\ufffd\ufffd"], "prompts")
    same([(x["custom_id"], x["seed"]) for x in rows[:3]], [('a,"b', "9"), ('a,"b', "10"), ("", "-7")], "ids and seeds")
    check([x["error"] != "" for x in rows] == [c is None for _, _, c in want] and "prompt" in rows[7]["error"], "errors")
    refused(run("-m", PIP, "--batch", path, "-q", "--format", "csv", "-o", out), 2, "expected a new file", "a file with rows")
    rows = csv.DictReader(io.StringIO(run("-m", PIP, "--batch", path, put("in2.jsonl", lines[4:5]), "-q", "--format",
                                          "csv").out.decode(), newline=""))
    same({(x["file"], x["line"]) for x in rows}, {(path, str(i)) for i in range(1, 7)} | {(tmp("in2.jsonl"), "1")},
         "files and lines")


# --- tables ---

TABLE = b'\xef\xbb\xbfid,review,stars\r\n7,"Good, ""very"" good\r\nindeed",5\r\n\r\n8,Once upon,1\r\n9,x\r\n10,"a"b,2\r\n7,A,3\r\n'


@case
def table_prompts():
    """--prompt-template makes a prompt of each row of CSV, TSV, JSON or text: the record has what the same prompt in a body has, the id, columns that go through"""
    opts = ("-m", PIP, "-n", "6", "--temp", "0", "-s", "4", "-q", "--no-chat", "--prompt-template", "{{{review}}} is")
    want = {no: c.texts() for no, c in batch([{"prompt": p, "max_tokens": 6} for p in
            ('{Good, "very" good\r\nindeed} is', "{Once upon} is")], "--temp", "0", "-s", "4").items()}
    path = put("t.csv", TABLE)
    r = run(*opts, "--batch", path, "--id-column", "id", "--batch-fields", "prompt,stars,id")
    got = records(r.out)
    same((r.rc, sorted(got)), (1, [1, 2, 3, 4, 5]), "rows")
    same([got[i].texts() for i in (1, 2)], [want[1], want[2]], "texts")
    same([got[i].id for i in (1, 2, 3, 5)], ["7", "8", None, "7"], "ids")
    same([got[i].whole["fields"] for i in (1, 2)], [{"stars": "5", "id": "7"}, {"stars": "1", "id": "8"}], "columns")
    same(got[2].whole["prompt"], "{Once upon} is", "the prompt")
    for no, word in (3, "line 6: found 2 cells, expected 3 (id, review, stars)"), (4, "line 7: cell 2 has text behind"):
        check(word in got[no].error["message"], repr(got[no].error))
    same(got[5].error["code"], "duplicate_custom_id", "an id that comes twice")

    rows = [["7", 'Good, "very" good\r\nindeed'], ["8", "Once upon"]]
    tsv = "id\treview\n" + "".join('%s\t"%s"\n' % (a, b.replace('"', '""')) for a, b in rows)
    objects = [{"custom_id": a, "review": b, "n": [1, None]} for a, b in rows]
    for name, data, more in (("t.tsv", tsv.encode(), ("--id-column", "id")), ("t.jsonl", jsonl(objects), ()),
                             ("t.dat", tsv.encode(), ("--id-column", "id", "--input-format", "tsv"))):
        r = run(*opts, "--batch", put(name, data), "--batch-fields", "all", *more)
        got = records(r.out)
        same({no: (x.id, x.texts()) for no, x in got.items()}, {1: ("7", want[1]), 2: ("8", want[2])}, name)
        same(got[1].whole["fields"], objects[0] if name == "t.jsonl" else {"id": "7", "review": rows[0][1]}, name + ": columns")
    got = records(run(*opts, "--batch", "-", "--input-format", "csv", inp=b"review\nOnce upon\n").out)
    same(got[1].texts(), want[2], "standard input")
    got = records(run(*opts[:-1], "{{{text}}} is", "--batch", put("t.txt", b"\nOnce upon\n")).out)
    same(got[2].texts(), want[2], "a line of text")
    r = run(*opts, "--batch", put("t.jsonl", jsonl([objects[1], {"x": 1}, b"{", [1], {"review": None}])))
    got = records(r.out)
    same([got[i].error["message"] for i in (2, 3, 4)], ["--prompt-template: no column 'review', expected one of x"] +
         ["the line is no JSON object"] * 2, "lines without the key, or no objects")
    check(got[5].body, "null is an empty text")


@case
def table_control():
    """a control token is one where the template has it, and text where a cell of a raw prompt has it"""
    path = put("t.csv", b"a\n<|endoftext|>\nOnce\n")
    tokens = lambda template: [r.body["usage"]["prompt_tokens"] for _, r in sorted(records(run(
        "-m", PIP, "--no-chat", "-n", "1", "-q", "--batch", path, "--prompt-template", template).out).items())]
    many, one = tokens("x{a}")
    check(many > one + 2, "the cell is text: %r" % ((many, one),))
    same(tokens("<|im_start|>x{a}"), [many + 1, one + 1], "the template's own")
    same(tokens("<|endoftext|>x{a}"), [many, one], "a start token that the template writes")


@case
def table_chat():
    """a filled prompt is the message of a user where lines are messages"""
    line = {"messages": [{"role": "user", "content": "What is 7 plus 5?"}], "max_tokens": 8, "temperature": 0}
    want = batch([line])[1].body["choices"][0]["message"]["content"]
    r = run("-m", PIP, "--chat", "-n", "8", "--temp", "0", "-q", "--batch", put("t.csv", b"a,b\n7,5\n"), "--prompt-template", "What is {a} plus {b}?")
    same(records(r.out)[1].body["choices"][0]["message"]["content"], want, "answers")


@case
def table_refused():
    """a table without a template, columns that are not there, and broken templates are refused before anything is written; unknown keys name the way out"""
    path, out = put("t.csv", TABLE), fresh("t.out.jsonl")
    args = ("-m", PIP, "-q", "-o", out, "--batch", path)
    refused(run(*args), 2, "--prompt-template", "no template")
    refused(run(*args, "--input-format", "csv"), 2, "--prompt-template", "no template")
    for template, word in ("{revew}", "no column 'revew'.*id, review, stars"), ("{review", "byte 0: found '{' alone"), ("", "empty text"):
        refused(run(*args, "--prompt-template", template), 2, word, template)
    refused(run(*args, "--prompt-template", "{review}", "--id-column", "key"), 2, "--id-column: no column 'key'", "the id")
    refused(run(*args, "--prompt-template", "{review}", "--batch-fields", "stars,star"), 2, "--batch-fields: no column 'star'", "a column")
    refused(run(*args[:-1], put("t.jsonl", [{"a": 1}]), "--prompt-template", "{review}"), 2, "no column 'review'", "the first object")
    refused(run(*args[:-1], put("t2.csv", b"a,b,a\n"), "--prompt-template", "{b}"), 2, "two columns are named 'a'", "names")
    refused(run(*args[:-1], put("t2.csv", b'a,b\n1,"2' + b"x\n" * 9000), "--prompt-template", "{b}", "--batch-line", "9000"), 2,
            "line 2: a row of more than 9000 bytes", "a quote that is not closed")
    check(not os.path.exists(out), "nothing is written")
    error = batch([{"review": "x", "prompt": "y"}], rc=1)[1].error["message"]
    check("unknown key 'review'" in error and "--prompt-template" in error and "metadata" in error, error)
    same(len(records(run("-m", PIP, "-q", "-n", "1", "--no-chat", "--input-format", "text", "--batch", path).out)), 7, "a table as lines of text")


@case
def table_resumed():
    """a table is resumed by its rows: changed rows and another header run again, rows that moved with their id do not"""
    out = fresh("t.out.jsonl")
    args = ("-m", PIP, "-q", "-n", "4", "--temp", "0", "-s", "3", "--no-chat", "--prompt-template", "{b}", "--id-column", "a", "--resume", "-o", out, "--batch")
    run(*args, put("t.csv", b"a,b\n1,One\n2,Two\n3,Three\n"))
    was = records(read(out))
    run(*args, put("t.csv", b"a,b\n3,Three\n1,One\n2,To\n"))
    got = records(read(out))
    same([got[i].id for i in (1, 2, 3)], ["3", "1", "2"], "order")
    same([got[i].body["created"] == was[k].body["created"] and got[i].hash == was[k].hash for i, k in ((1, 3), (2, 1))], [True] * 2, "rows that moved")
    check(got[3].hash != was[2].hash, "a changed row")
    run(*args, put("t.csv", b"a,b,c\n3,Three,\n"))
    same((len(records(read(out))), read(out + ".stale").count(b"\n")), (1, 4), "another header")
    r = run(*args[:10], "--prompt-template", "x{b}", *args[12:], tmp("t.csv"))
    refused(r, 2, "was made with prompt-template", "another template")


# --- forms of the answers ---

def rows_of(data, sep=","):
    return list(csv.DictReader(io.StringIO(data.decode(), newline=""), delimiter=sep))


@case
def forms():
    """the name of the -o file and --format say the form: CSV, TSV, text, a JSON list and records hold the same answers in the order of the input"""
    lines = [{"custom_id": "a", "prompt": "Once upon", "max_tokens": 9, "n": 2, "stop": ["zz"]}, {"prompt": 5}, {"prompt": "\u00e9, \"x\"", "max_tokens": 1},
             {"prompt": "x", "max_tokens": 0}]
    path, opts = put("in.jsonl", lines), ("-m", PIP, "-s", "9", "--batch", tmp("in.jsonl"))
    want = batch(lines, "-s", "9", rc=1)
    texts = [[text_of(c) for c in want[i].body["choices"]] if want[i].body else [b""] for i in sorted(want)]
    text = b"".join(x + b"\n" for line in texts for x in line)
    for name in "csv", "tsv", "txt", "json", "jsonl":
        out = fresh("forms." + name)
        fresh("forms.%s.jsonl" % name)
        r = run(*opts, "-o", out)
        check(r.rc == 1, repr(r))
        records_at = out if name == "jsonl" else out + ".jsonl"
        equal(records(read(records_at)), want, name + ": records")
        check(os.path.exists(records_at + ".llmrun") and (name == "jsonl" or not os.path.exists(out + ".llmrun")), name + ": header")
        if name in ("csv", "tsv"):
            got = rows_of(read(out), "," if name == "csv" else "\t")
            same([(int(x["line"]), x["custom_id"], x["text"].encode()) for x in got],
                 [(no, want[no].id or "", x) for no, t in zip(sorted(want), texts) for x in t], name)
            same([(x["prompt_tokens"] != "", x["completion_tokens"] != "") for x in got], [(True, True), (False, False), (False, False), (True, True), (True, True)], "tokens of a line stand once")
        elif name == "txt":
            same(read(out), text, "text")
        elif name == "json":
            equal(records(jsonl(json.loads(read(out).decode("utf-8")))[:0] + b"".join(x.rstrip(b",") + b"\n" for x in read(out).splitlines()[1:-1])), want, "list")
    same(run(*opts, "-q", "--format", "text").out, text, "text on stdout")
    same(run(*opts, "-q", "--format", "text", "-np", "1", "--batch-order", "input").out, text, "text of one after the other")
    same(run(*opts, "-q", "--format", "text", "--print0").out, b"".join(x + b"\0" for line in texts for x in line), "NULs")
    check(b"line 2: prompt:" in run(*opts, "--format", "text").err, "an error is said on stderr")
    rows = lambda data: sorted(tuple(x.items()) for x in rows_of(data))
    same(rows(run(*opts, "-q", "--format", "csv").out), rows(read(tmp("forms.csv"))), "CSV on stdout")
    equal(records(run(*opts, "-q", "--format", "jsonl").out), want, "records on stdout")
    out = fresh("forms2.csv")
    run(*opts, "-q", "--format", "jsonl", "-o", out)
    equal(records(read(out)), want, "--format comes before the name")
    for name, word in ("x.npy", "form of vectors"), ("x.f32", "form of vectors"):
        refused(run(*opts, "-q", "-o", tmp(name)), 2, word, name)
    refused(run(*opts, "-q", "--print0"), 2, "--format text", "--print0 alone")
    exact = run("-m", PIP, "-q", "--batch", put("in.jsonl", [{"prompt": "a", "max_tokens": 3, "logit_bias": {"200": 100}}]), "--format", "text").out
    with_bytes = batch([{"prompt": "a", "max_tokens": 3, "logit_bias": {"200": 100}}])[1].texts()[0]
    same(exact, with_bytes + b"\n", "exact bytes")


@case
def forms_columns():
    """a table of constrained answers has a column for each key of the schema; columns of the input go through; names that clash are told apart"""
    schema = {"type": "object", "properties": {"text": {"enum": ["a,b", 'c"d']}, "n": {"type": "integer", "minimum": 10, "maximum": 99}, "ok": {"type": "boolean"}, "line": {"type": "null"}},
              "required": ["text", "n", "ok", "line"], "additionalProperties": False}
    path = put("t.csv", b"id,text,n\n1,Once,x\n2,Two,\"y,z\"\n3,Three\n")
    base = ("-m", PIP, "-q", "-s", "3", "--no-chat", "--batch", path, "--prompt-template", "{text}", "--id-column", "id", "--batch-fields", "all",
            "--json-schema", json.dumps(schema))
    args = (*base, "-n", "60", "--close")
    want = records(run(*args).out)
    out = fresh("t.out.csv")
    fresh("t.out.csv.jsonl")
    for got in rows_of(run(*args, "-o", out).out or read(out)), rows_of(run(*args, "--format", "csv", "--ordered").out):
        same(list(got[0]), "line,custom_id,index,id,input.text,input.n,answer.text,n,ok,answer.line,finish_reason,prompt_tokens,completion_tokens,error,reasoning_content,tool_calls".split(","), "header")
        for row in got[:2]:
            answer = json.loads(want[int(row["line"])].texts()[0])
            same([row["answer.text"], row["n"], row["ok"], row["answer.line"]], [answer["text"], str(answer["n"]), json.dumps(answer["ok"]), ""], "keys")
        same([(x["custom_id"], x["input.text"], x["input.n"]) for x in got], [("1", "Once", "x"), ("2", "Two", "y,z"), ("", "", "")], "columns of the input")
        check("found 2 cells" in got[2]["error"], repr(got[2]))
    cut = put("t.jsonl", [{"text": "Once", "stop": None}])
    got = rows_of(run("-m", PIP, "-q", "--no-chat", "--temp", "0", "-n", "30", "--stop", "n", "--batch", cut, "--prompt-template", "{text}", "--json-schema",
                      json.dumps(schema), "--format", "csv").out)
    check(got[0]["error"].startswith("no object: ") and not got[0]["ok"], "cut answers say what they are: %r" % got)


@case
def forms_resumed():
    """--resume goes on with a table and a text by the records beside it; an interrupted run writes what has ended"""
    lines = [{"custom_id": str(i), "prompt": "Once %d" % i, "max_tokens": 3 + i % 5, "temperature": 0} for i in range(12)]
    for name in "r.csv", "r.txt", "r.json":
        out, side = fresh(name), fresh(name + ".jsonl")
        args = ("-m", PIP, "-q", "-s", "1", "-o", out, "--batch")
        path = put("in.jsonl", lines)
        refused(run(*args, tmp("none.jsonl")), 2, "none.jsonl", "no input")
        check(not os.path.exists(out), "a run that fails early leaves no file")
        good(*args, path)
        whole, kept = read(out), read(side)
        refused(run(*args, path), 2, "expected a new file", "a file with answers")
        put(name + ".jsonl", b"".join(x + b"\n" for x in kept.split(b"\n")[:5]) + kept[:9])
        put(name, whole[:20])
        good(*args, path, "--resume")
        strip = lambda data: PASSING.sub(rb"\1", data)
        same(strip(read(out)), strip(whole), name + ": resumed")
        good(*args, put("in.jsonl", lines[3:] + [lines[0]]), "--resume")
        back = read(out)
        check(back != whole and len(back) < len(whole), "lines that left the input")
        os.unlink(side)
        refused(run(*args, path, "--resume"), 2, "r[.].*[.]jsonl: not found", "no records")
    if stressed():
        return
    endless = {"prompt": "Once", "max_tokens": 1000000, "ignore_eos": True, "temperature": 0}
    for pause in 0.5, 2, 8, 32:
        out, side = fresh("r.csv"), fresh("r.csv.jsonl")
        p = start("-m", PIP, "-q", "-np", "5", "-c", "100000", "-o", out, "--batch", put("in.jsonl", [endless] + lines[:4]))
        time.sleep(pause * SLOW)
        p.send_signal(signal.SIGINT)
        r = finish(p)
        if len(records(read(side))) == 4:
            break
    same((r.rc, [x["line"] for x in rows_of(read(out))]), (130, ["2", "3", "4", "5"]), "an interrupted run")


@case
def forms_merged():
    """--merge writes joined records as a table, a text or a list, as a run of all lines does; shards of a table keep records that it joins"""
    lines = [{"custom_id": "k%d" % i, "prompt": "Once %d" % i, "max_tokens": 3, "temperature": 0, "n": 1 + i % 2} for i in range(9)] + [{"prompt": 5}]
    path = put("in.jsonl", lines)
    args = ("-m", PIP, "-q", "-s", "1", "--batch", path, "--batch-fields", "seed,logprob,prompt")
    parts = []
    for i in 1, 2, 3:
        parts.append(fresh("part%d.csv.jsonl" % i))
        fresh("part%d.csv" % i)
        run(*args, "-o", tmp("part{shard}.csv"), "--shard", "%d/3" % i)
    for name in "all.csv", "all.tsv", "all.txt", "all.json":
        out, whole = fresh(name), fresh("whole" + name[3:])
        fresh("whole%s.jsonl" % name[3:])
        run(*args, "-o", whole)
        good("--merge", *parts, "-o", out, "-q")
        strip = lambda data: re.sub(rb'"created":\d+|"cached_tokens":\d+|"system_fingerprint":"[^"]+"|,reasoning_content,tool_calls(?=\n)|,,(?=\n)', b"", data)
        if name == "all.csv":
            a, b = rows_of(read(out)), rows_of(read(whole))
            same(a, [{k: v for k, v in x.items() if k not in ("reasoning_content", "tool_calls")} for x in b], name)
        elif name == "all.tsv":
            same([x["text"] for x in rows_of(read(out), "\t")], [x["text"] for x in rows_of(read(whole), "\t")], name)
        else:
            same(strip(read(out)), strip(read(whole)), name)
    same(good("--merge", *parts, "--format", "text", "--print0", "-q").replace(b"\0", b"\n"), read(tmp("all.txt")), "NULs")
    records(good("--merge", *parts, "--format", "jsonl", "-q"))
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}, "b": {"type": "boolean"}}, "required": ["a", "b"], "additionalProperties": False}
    put("t.csv", b"x,y\nOnce,1\nTwo,2\n")
    out = fresh("objects.jsonl")
    run("-m", PIP, "-q", "-n", "60", "--close", "--no-chat", "--batch", tmp("t.csv"), "--prompt-template", "{x}", "--batch-fields", "y", "--json-schema", json.dumps(schema), "-o", out)
    rows = rows_of(good("--merge", out, "--format", "csv", "-q"))
    same(list(rows[0]), "line,custom_id,index,y,a,b,finish_reason,prompt_tokens,completion_tokens,error".split(","), "columns that the records have")
    check([x["y"] for x in rows] == ["1", "2"] and all(x["a"] in "12" and x["b"] in ("true", "false") for x in rows), repr(rows))
    refused(run("--merge", out, put("notes.txt", b"my notes\n"), "--format", "json", "-q"), 2, "notes.txt", "a part that is no results")


@case
def retry_errors():
    """--resume --retry-errors runs the lines again that have an error, and those alone"""
    lines = [{"custom_id": "a", "prompt": "Once", "max_tokens": 3}, {"prompt": "x " * 300, "max_tokens": 3}, {"prompt": 5}, {"prompt": "One", "max_tokens": 2}]
    path, out = put("in.jsonl", lines), fresh("retry.jsonl")
    args = ("-m", PIP, "-s", "1", "-o", out, "--batch", path)
    run(*args, "-q")
    was = {no: r.line for no, r in records(read(out)).items()}
    put("retry.jsonl", read(out).replace(was[1], b'{"id":"batch_req_1_%s","custom_id":"a","line":1,"response":null,"error":{"code":"out_of_room","message":"m"}}' %
                                        Record(was[1]).hash))
    r = run(*args, "--resume")
    check(r.rc == 1 and records(read(out))[1].error, "errors stay without --retry-errors")
    r = run(*args, "--resume", "--retry-errors")
    got = records(read(out))
    check(r.rc == 1 and b"2 lines with an error run again" in r.err and b"2 answered before" in r.err, repr(r))
    same((got[1].texts(), got[3].error["code"]), (Record(was[1]).texts(), "invalid_request"), "lines 1 and 3")
    same([got[i].line == was[i] for i in (2, 4)], [True, True], "the other lines")
    check(not os.path.exists(out + ".stale"), "errors are not kept")
    check(b"--retry-errors has no effect without --resume" in run(*args[:4], "--batch", path, "--retry-errors").err, "alone")


# --- many machines ---

@case
def shards():
    """three shards hold every line once; merged they are the whole run in the order of the file"""
    rng = random.Random(5)
    tales = [story(rng, 400) for _ in range(7)]
    lines = [{"prompt": rng.choice(tales)[:rng.choice((300, 400))] + " %d" % i, "max_tokens": 4, "temperature": i % 2,
              "seed": i} for i in range(60)] + [b"{", {"prompt": 5}]
    path, parts, mine = put("in.jsonl", lines), [], []
    for i in range(1, 4):
        parts.append(fresh("part%d.jsonl" % i))
        r = run("-m", PIP, "--batch", path, "--shard", "%d/3" % i, "-o", parts[-1], "-q")
        check(r.rc in (0, 1), repr(r))
        mine.append(set(records(read(parts[-1]))))
    same(sorted(no for part in mine for no in part), list(range(1, len(lines) + 1)), "lines of the shards")
    check(min(len(part) for part in mine) > 0, "shards of %r lines" % [len(part) for part in mine])
    whole = batch(lines, rc=1)
    for order in parts, parts[::-1]:
        out = fresh("merged.jsonl")
        r = run("--merge", *order, "-o", out, "-q")
        check(r.rc in (0, 1), repr(r))
        data = read(out)
        equal(records(data), whole, "merged")
        same([Record(x).no for x in data.split(b"\n")[:-1]], list(range(1, len(lines) + 1)), "order")
    stdout = run("--merge", parts[0], "-q")
    same([Record(x).no for x in stdout.out.split(b"\n")[:-1]], sorted(mine[0]), "one part on stdout")
    for bad in "0/3", "4/3", "1/0", "1", "a/b", "-1/3", "1/3/3", "1/99999999999999999999":
        refused(run("-m", PIP, "--batch", path, "--shard", bad, "-q"), 2, "--shard", bad)
    refused(run("--merge", parts[0], tmp("none.jsonl"), "-q"), 2, "none.jsonl", "a part that is not there")
    refused(run("--merge", parts[0], put("notes.txt", b"my notes\n"), "-q"), 2, "notes.txt", "a part that is no results")


ENGINES = ("SLURM_", "OMPI_", "PMI_", "PMIX_", "JOB_COMPLETION", "PARALLEL_", "LLMRUN_SHARDS")


def shard_auto_run(variables, *args):
    env = {k: v for k, v in ENV.items() if not k.startswith(ENGINES)}
    return run("-m", SMALL, "--batch", tmp("in.jsonl"), "--shard", "auto", *args,
               env=dict(env, **{k: str(v) for k, v in variables.items()}))


@case
def shard_auto():
    """--shard auto takes part and count from what numbers the task, says which, and stands in the name of the results; else exit 2 says what is missing"""
    put("in.jsonl", [{"prompt": "line %d of many" % i, "max_tokens": 1, "seed": 1} for i in range(40)])
    array = {"SLURM_ARRAY_TASK_ID": 7, "SLURM_ARRAY_TASK_MIN": 3, "SLURM_ARRAY_TASK_MAX": 9,
             "SLURM_ARRAY_TASK_STEP": 2, "SLURM_ARRAY_TASK_COUNT": 4}
    plain_array = {"SLURM_ARRAY_TASK_ID": 1, "SLURM_ARRAY_TASK_MIN": 0, "SLURM_ARRAY_TASK_COUNT": 3}
    for variables, part, engine in (
            (array, "3/4", "Slurm array 3 of 4"), (plain_array, "2/3", "Slurm array 2 of 3"),
            ({"SLURM_PROCID": 0, "SLURM_STEP_NUM_TASKS": 2}, "1/2", "Slurm task 1 of 2"),
            (dict(array, SLURM_PROCID=0, SLURM_NTASKS=2), "3/4", "Slurm array 3 of 4"),     # the batch script itself, which runs once
            (dict(array, SLURM_PROCID=1, SLURM_STEP_NUM_TASKS=2), "6/8", "Slurm array 3 of 4, Slurm task 2 of 2"),
            ({"OMPI_COMM_WORLD_RANK": 2, "OMPI_COMM_WORLD_SIZE": 3, "PMIX_RANK": 2}, "3/3", "Open MPI 3 of 3"),
            (dict(array, OMPI_COMM_WORLD_RANK=0, OMPI_COMM_WORLD_SIZE=3, SLURM_PROCID=1, SLURM_STEP_NUM_TASKS=2),
             "7/12", "Slurm array 3 of 4, Open MPI 1 of 3"),
            ({"PMI_RANK": 1, "PMI_SIZE": 4}, "2/4", "PMI 2 of 4"),
            ({"JOB_COMPLETION_INDEX": 4, "LLMRUN_SHARDS": 5}, "5/5", "Kubernetes indexed job 5 of 5"),
            ({"PARALLEL_SEQ": 5, "LLMRUN_SHARDS": 5}, "5/5", "GNU parallel 5 of 5"),
            (dict(array, PARALLEL_SEQ=1, LLMRUN_SHARDS=2), "1/2", "GNU parallel 1 of 2"),
            ({"PMIX_RANK": 0, "LLMRUN_SHARDS": 2}, "1/2", "PMIx 1 of 2")):
        for old in "part-%s.jsonl" % part.split("/")[0], "part-%s.jsonl.llmrun" % part.split("/")[0]:
            fresh(old)
        r = shard_auto_run(variables, "-o", tmp("part-{shard}.jsonl"))
        check(r.rc == 0 and ("--shard auto: part %s (%s)\n" % (part, engine)).encode() in r.err, "%r: %r" % (variables, r))
        same(sorted(records(read(tmp("part-%s.jsonl" % part.split("/")[0])))),
             sorted(records(good("-m", SMALL, "--batch", tmp("in.jsonl"), "--shard", part, "-q"))), "lines of part " + part)
    for variables, word in (({}, "SLURM_ARRAY_TASK_ID.*JOB_COMPLETION_INDEX.*PARALLEL_SEQ.*OMPI_COMM_WORLD_RANK.*PMI_RANK.*SLURM_PROCID"), ({"JOB_COMPLETION_INDEX": 1}, "JOB_COMPLETION_INDEX is set without LLMRUN_SHARDS"),
                            ({"PARALLEL_SEQ": 1}, "PARALLEL_SEQ is set without LLMRUN_SHARDS"),
                            ({"LLMRUN_SHARDS": 4}, "nothing in the environment"),
                            ({"PMI_RANK": 4, "PMI_SIZE": 4}, "PMI_RANK is 4 with PMI_SIZE 4"),
                            ({"PARALLEL_SEQ": 0, "LLMRUN_SHARDS": 4}, "PARALLEL_SEQ is 0"),
                            ({"PMI_RANK": "x", "PMI_SIZE": 4}, "PMI_RANK is 'x'"),
                            ({"PMI_RANK": -1, "PMI_SIZE": 4}, "PMI_RANK is '-1'"),
                            ({"PMI_RANK": 0, "PMI_SIZE": ""}, "PMI_SIZE is ''"),
                            (dict(array, SLURM_ARRAY_TASK_ID=4), "SLURM_ARRAY_TASK_ID is 4"),
                            (dict(plain_array, SLURM_ARRAY_TASK_ID=9), "SLURM_ARRAY_TASK_ID is 9"),
                            ({"PMI_RANK": 0, "PMI_SIZE": 9999999}, "9999999 parts"),
                            ({"PMI_RANK": 99999999999, "PMI_SIZE": 1}, "expected a number")):
        refused(shard_auto_run(variables, "-o", tmp("none-{shard}.jsonl")), 2, "--shard auto: .*" + word, repr(variables))
    check(not [x for x in os.listdir(TMP) if x.startswith("none-")], "a refused run left a file")
    refused(run("-m", SMALL, "--batch", tmp("in.jsonl"), "-o", tmp("none-{shard}.jsonl"), "-q"), 2,
            "expected --shard", "{shard} alone")


@case
def prompt_cache():
    """--prompt-cache FILE: the same answers with fewer computed tokens; a damaged, foreign or outdated file is reported and not used"""
    lines, cache = lines_of(PIP), tmp("prompts.cache")
    want = wanted(PIP)
    cached = lambda found: sum(r.body["usage"]["prompt_tokens_details"]["cached_tokens"] for r in found.values())
    use = ("--prompt-cache", cache)
    first = batch(lines, *SEED, *use)
    equal(first, want, "the run that writes the file")
    size = os.path.getsize(cache)
    second = batch(lines, *SEED, *use)
    equal(second, want, "the run that reads it")
    check(cached(second) > cached(first), "%d tokens found, %d without the file" % (cached(second), cached(first)))
    data, rng = read(cache), random.Random(1)
    for name, broken in (("empty", b""), ("cut", data[:size // 2]), ("cut in the head", data[:9]),
                         ("zeros", bytes(4096)), ("another file", read(SMALL)),
                         *(("byte %d" % i, data[:i] + bytes([data[i] ^ 0x55]) + data[i + 1:])
                           for i in [0, 4, 8, 16, 40] + [rng.randrange(size) for _ in range(8)])):
        put("prompts.cache", broken)
        equal(batch(lines, *SEED, *use), want, name)
    put("prompts.cache", data)
    path = put("in.jsonl", lines_of(SMALL))
    r = run("-m", SMALL, "--batch", path, *SEED, *use)
    check(r.rc == 0 and b"prompts.cache" in r.err, "a word about another model's file: %r" % r.err)
    equal(records(r.out), wanted(SMALL), "another model's file")


@case
def prompt_cache_shared():
    """a cache file with runs killed while writing it, with two runs at once, or read-only: the answers stay the same"""
    fault, cache, rng = Fault(), tmp("shared.cache"), random.Random(O.seed)
    for _ in some(range(O.kills // 2)):
        p = start(*fault.args(fresh("cached.jsonl"), "--prompt-cache", cache))
        time.sleep(rng.uniform(0.3, 1.3) * fault.took)
        p.send_signal(rng.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGINT)))
        finish(p)
    both = [start(*fault.args(fresh("both%d.jsonl" % i), "--prompt-cache", cache)) for i in range(2)]
    for i, p in enumerate(both):
        same(finish(p).rc, 0, "one of two runs")
        equal(records(read(tmp("both%d.jsonl" % i))), fault.want, "one of two runs")
    equal(records(fault.run(fresh("last.jsonl"), "--prompt-cache", cache)), fault.want, "after kills")
    before = read(cache)
    check(len(before) > 1000, "a cache file of %d bytes" % len(before))
    equal(batch(lines_of(PIP), *SEED, "--prompt-cache", cache, "--prompt-cache-ro"), wanted(PIP), "read only")
    check(read(cache) == before, "--prompt-cache-ro changed the file")
    left = [x for x in os.listdir(TMP) if x.startswith("shared.cache") and x != "shared.cache"]
    check(len(left) <= 1, "files left beside the cache: %r" % left)
    r = run("-m", PIP, "--batch", put("in.jsonl", lines_of(PIP)), *SEED, "--prompt-cache", "/nonexistent/cache")
    check(r.rc in (0, 2), repr(r))
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200000, 200000))
    r = run("-m", PIP, "--batch", put("in.jsonl", lines_of(PIP)[:9]), *SEED, "--prompt-cache", tmp("full.cache"),
            preexec_fn=limit)
    check(r.rc in (0, 3) and b"full.cache" in r.err, "a cache that does not fit on the disk: %r" % r)
    equal(records(r.out), {no: x for no, x in wanted(PIP).items() if no < 10}, "answers beside a full disk")


# --- the benchmark ---

PEER = """#!%s
import http.server, json, sys
opt = lambda name: sys.argv[sys.argv.index(name) + 1]
if "-npl" in sys.argv:
    print(json.dumps({"pl": int(opt("-npl")), "tg": int(opt("-ntg")), "speed_tg": 100.0}))
    sys.exit()

class Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def reply(self, data):
        data = json.dumps(data).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
    def do_GET(self):
        self.reply({"status": "ok"})
    def do_POST(self):
        q = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.reply({"tokens_evaluated": len(q["prompt"]), "tokens_predicted": q["n_predict"] + LESS, "timings": {"cache_n": 3}})
    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("127.0.0.1", int(opt("--port"))), Answer).serve_forever()
"""


@case
def bench_file():
    """tests/bench/batch.py compares llmrun with a server and a benchmark and prints ratios; a server that computes less is reported"""
    if sanitized():
        raise Skip("a sanitizer says nothing of a script")
    peers = tmp("peers")
    os.mkdir(peers)
    script = lambda *a: subprocess.run([sys.executable, os.path.join(HERE, "tests", "bench", "batch.py"), "--llmrun",
                                        O.binary, "--model", PIP, "--rounds", "1",
                                        "-np", "4", "--scale", "0.04", "--peers", peers, "--slots", "1,2", *a],
                                        capture_output=True, timeout=300 * SLOW)
    for less, rc in (0, 0), (-1, 2):
        for name in "llama-server", "llama-batched-bench":
            with open(os.path.join(peers, name), "w") as f:
                f.write((PEER % sys.executable).replace("LESS", str(less)))
            os.chmod(os.path.join(peers, name), 0o755)
        r = script("--only", "decode,mixed", "--sequences", "1,2", "--new", "4", "--depth",
                   "4") if not less else script("--only", "mixed")
        check(r.returncode == rc, r.stderr.decode())
        out = r.stdout.decode()
        if less:
            check(b"tokens, expected" in r.stderr, r.stderr.decode())
            continue
        rows = [[c.strip() for c in line.strip("|").split("|")] for line in out.splitlines()
                if re.match(r"\| (\d+ mixed|\d)", line)]
        same([row[0] for row in rows], ["1", "2", "8 mixed prompts", "8 mixed prompts"], "rows of %s" % out)
        check(all(float(row[3]) > 0 for row in rows[:2]) and all(float(row[10]) > 0 for row in rows[2:]), out)
        same([row[9] for row in rows[2:]], ["24", "24"], "tokens that the server found in its cache")


def main():
    global O
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0],
                                 formatter_class=argparse.RawDescriptionHelpFormatter, epilog=__doc__)
    ap.add_argument("binary")
    ap.add_argument("--stress", type=os.path.abspath, help="a stress build to hold against BINARY")
    ap.add_argument("--kills", type=int, default=12)
    ap.add_argument("--files", type=int, default=8)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("words", nargs="*")
    O = ap.parse_intermixed_args()
    O.binary = os.path.abspath(O.binary)
    sys.exit(walk("batch", O.words, TMP))


main()
