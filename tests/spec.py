#!/usr/bin/env python3
"""Tests of speculation by running the command: the text does not depend on the guesses, nor on their source.

    python3 tests/spec.py ./llmrun [--stress BINARY] [--all] [--prompts N] [--files N] [--seed N] [WORD ...]

Cases whose name holds a word, else all.
--all: 500 prompts of 100 tokens (--prompts) for every draft length and source, 20,000 seeds, every sampler with every
source, 300 random files; then a table of what was guessed. By itself a selection of that which takes seconds. --stress: a
build that preempts at every step; its answers are held against those of the first. LLMRUN_SLOW=N stretches every time limit
N times, for builds under a sanitizer.
  Two answers are compared as bytes: whole records of a batch (less the time of day), log-probabilities among them, or the
ids of a run. A comparison counts only where guesses were made, which the summary tells: a run without any is a failure of
the case.
  Distributions are tested by chi-square at p = 1e-4 against the softmax, in float64, of the logits that the model gives for
the tokens before; the seeds are fixed, so the verdict is the same every time. Cells that expect less than 5 answers are one
cell.
"""
import argparse, array, collections, functools, json, math, os, random, re, resource, struct, sys
from chance import fit, softmax, survival
from hostile import byte_chars
from kit import (Skip, begin, case, check, done, equal, finish, jsonl, levels, read, records, refused, same, sanitized, scratch,
                 some, walk)

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
for folder in ("models", "train"), ("tests", "gen"):
    sys.path.insert(0, os.path.join(HERE, *folder))
import inflate, world

PIP = os.path.join(HERE, "models", "pip-q4_k_m.gguf")
DRAFT = os.path.join(HERE, "models", "pip-draft-q8_0.gguf")
TINY = os.path.join(HERE, "tests", "data", "tiny")
SMALL = os.path.join(TINY, "llama.gguf")
SHARED = os.environ.get("SHARED") or os.path.join(HERE, "..", "shared")
STORIES = os.path.join(os.path.abspath(SHARED), "data", "stories260K.gguf")
TMP, tmp, put = scratch("spec")
PIP_HEAD = os.path.join(HERE, "models", "pip-head-q4_k_m.gguf")
NEAR = os.path.join(TINY, "qwen35_near.gguf")                     # with a draft head that is often right
NEVER = os.path.join(TINY, "qwen35moe_mtp.gguf")                  # with one that is never right
PLAIN = ("--no-lookup", "--no-head")   # a run without guesses
SOURCES = ("draft", "lookup", "both")
O = None                               # options of this script
TABLE = []                             # rows of the table


def run(*args, binary=None, timeout=120, **kw):
    return finish(begin([binary or O.binary, *args], **kw), timeout)


def good(*args, **kw):
    return done(run(*args, **kw), args)


def text_of(model, *args):
    """Ids of a text, the start token among them."""
    return [int(x) for x in good("-m", model, "--tokenize", "--bos", "--special", *args).split()]


# --- drafts ---

UNIT = {0: 4, 1: 2, 8: 34, 30: 2}      # bytes of a weight, or of a block of them, by type


def patched(model, name, patch):
    """A copy of a model with some bytes changed: patch(file, bytes)."""
    path = tmp(name)
    if not os.path.exists(path):
        f = inflate.File(model)
        b = bytearray(f.b)
        patch(f, b)
        with open(path, "wb") as out:
            out.write(b)
    return path


def gains(f):
    """Offset and number of the last norm's gains, float32; where norms have none, of the last weights before it."""
    last = [f.tensors[name] for name in f.tensors if name.endswith("ffn_down.weight")][-1:]
    norms = ("output_norm.weight", "output_hc_norm.weight", "token_embd_norm.weight")
    dims, kind, at = next((f.tensors[x] for x in norms if x in f.tensors), *last)
    check(kind == 0, "gains of another type")
    return f.base + at, math.prod(dims)


def turn_signs(f, b):
    at, n = gains(f)
    for i in range(n):
        b[at + 4 * i + 3] ^= 0x80


def fill_gains(value):
    def patch(f, b):
        at, n = gains(f)
        b[at:at + 4 * n] = struct.pack("<f", value) * n
    return patch


def shuffle(f, b):
    rng = random.Random(1)
    for dims, kind, at in f.tensors.values():
        if len(dims) > 1 and kind in UNIT:
            unit, size = UNIT[kind], math.prod(dims) * UNIT[kind] // (32 if kind == 8 else 1)
            parts = [b[i:i + unit] for i in range(f.base + at, f.base + at + size, unit)]
            rng.shuffle(parts)
            b[f.base + at:f.base + at + size] = b"".join(parts)


def blur(share):
    """A model whose float weights have a random relative error."""
    def patch(f, b):
        rng = random.Random(1)
        for dims, kind, at in f.tensors.values():
            if len(dims) > 1 and kind == 0:
                end = f.base + at + 4 * math.prod(dims)
                w = array.array("f", bytes(b[f.base + at:end]))
                b[f.base + at:end] = array.array("f", (x * (1 + rng.gauss(0, share)) for x in w)).tobytes()
    return patch


def set_number(key, value):
    def patch(f, b):
        kind, raw = f.keys[key]
        check(kind == inflate.U32, key + ": another type")
        name = key.encode()
        at = bytes(f.b).index(struct.pack("<Q", len(name)) + name) + 8 + len(name) + 4
        same(bytes(b[at:at + 4]), raw, key)
        b[at:at + 4] = struct.pack("<I", value)
    return patch


def stem(model):
    return os.path.basename(model)[:-len(".gguf")]


def wrong(model):
    """A draft for which the least likely token is the most likely."""
    return patched(model, stem(model) + "-wrong.gguf", turn_signs)


# A draft for Pip, made from one of the models that ship.
DRAFTS = {
    "small": lambda: DRAFT,
    "right": lambda: PIP,
    "wrong": lambda: wrong(DRAFT),
    "shuffled": lambda: patched(DRAFT, "shuffled.gguf", shuffle),
    "without numbers": lambda: patched(DRAFT, "nan.gguf", fill_gains(math.nan)),
    "endless": lambda: patched(DRAFT, "inf.gguf", fill_gains(3e38)),
    "of a short context": lambda: patched(DRAFT, "brief.gguf", set_number("qwen3.context_length", 64)),
}
MUTE = ("without numbers", "endless")  # they have no likeliest token


# --- vocabularies, read from the file ---

def vocab(model):
    """(texts, types) of the tokens."""
    f = inflate.File(model)

    def items(key, form):
        raw = f.keys["tokenizer.ggml." + key][1]
        n, at, out = struct.unpack_from("<Q", raw, 4)[0], 12, []
        for _ in range(n):
            if form:
                out.append(struct.unpack_from(form, raw, at)[0])
                at += 4
            else:
                size = struct.unpack_from("<Q", raw, at)[0]
                out.append(raw[at + 8:at + 8 + size])
                at += 8 + size
        return out
    return items("tokens", ""), items("token_type", "<i")


def tokenizer(model):
    return vocab(model)[0]


def spelt(model):
    """What each token is in an answer: of a vocabulary of pieces bytes as bytes, a low line as a blank; of one of bytes what its characters
    stand for."""
    texts, types = vocab(model)
    if inflate.File(model).keys["tokenizer.ggml.model"][1].endswith(b"gpt2"):
        back = {c: i for i, c in enumerate(byte_chars())}
        return [bytes(back[c] for c in t.decode()) if kind == 1 else t for t, kind in zip(texts, types)]
    return [bytes([int(t[3:5], 16)]) if kind == 6 else t.replace("\u2581".encode(), b" ") for t, kind in zip(texts, types)]


def swap_tokens(no):
    """Two tokens of one length change places; the first that differs is number no, where a later one is as long."""
    def patch(f, b):
        raw = f.keys["tokenizer.ggml.tokens"][1]
        start, at, texts = bytes(f.b).index(raw), 12, []
        for _ in range(struct.unpack_from("<Q", raw, 4)[0]):
            size = struct.unpack_from("<Q", raw, at)[0]
            texts.append((start + at + 8, raw[at + 8:at + 8 + size]))
            at += 8 + size
        where, text = texts[no]
        other, new = next(x for x in texts[no + 1:] + texts[:no][::-1] if len(x[1]) == len(text))
        b[where:where + len(text)], b[other:other + len(text)] = new, text
    return patch


def cut_vocabulary(model, drop):
    """A float model without the last tokens of its vocabulary."""
    path, f = tmp("%s-%d.gguf" % (stem(model), drop)), inflate.File(model)
    n = len(tokenizer(model)) - drop
    for key, (kind, raw) in list(f.keys.items()):
        if key in ("tokenizer.ggml.tokens", "tokenizer.ggml.scores", "tokenizer.ggml.token_type"):
            inner, at = struct.unpack_from("<I", raw)[0], 12
            for _ in range(n):
                at += 8 + struct.unpack_from("<Q", raw, at)[0] if inner == inflate.TEXT else 4
            f.keys[key] = kind, struct.pack("<IQ", inner, n) + raw[12:at]
    if "llama.vocab_size" in f.keys:
        f.set_number("llama.vocab_size", n)
    rows = lambda name, dims: [dims[0], n] if name in ("token_embd.weight", "output.weight") else dims
    inflate.write(path, f.keys, [(name, rows(name, dims), kind, lambda name=name, dims=dims,
                                  kind=kind: f.data(name)[:inflate.size_of(rows(name, dims), kind)])
                                 for name, (dims, kind, _) in f.tensors.items()], f.align())
    return path


def context(model):
    return next(struct.unpack_from("<I", raw)[0] for key, (_, raw) in inflate.File(model).keys.items()
                if key.endswith(".context_length"))


def families():
    """The tiny models in groups of one vocabulary, but for those whose context is too short for the texts here."""
    groups = collections.defaultdict(list)
    for name in sorted(x for x in os.listdir(TINY) if x.endswith(".gguf")):
        path = os.path.join(TINY, name)
        if context(path) < 256:
            continue
        texts, types = vocab(path)
        groups[tuple(texts), tuple(types)].append(path)
    return list(groups.values())


# --- runs, and what their summaries say ---

KINDS = ("draft", "head", "lookup")
Counts = collections.namedtuple("Counts", "tokens steps guessed accepted speed")


def counts_of(s):
    return Counts(s["completion_tokens"], s["decode_steps"], {k: s[k + "_guessed"] for k in KINDS},
                  {k: s[k + "_accepted"] for k in KINDS}, s["speculation_speedup"])


def guessed(c, source, what, must=True):
    """Checks that guesses came from this source, or both, or none; must: there were some."""
    for kind in KINDS:
        check(0 <= c.accepted[kind] <= c.guessed[kind], "%s: %d of %d guesses accepted"
              % (what, c.accepted[kind], c.guessed[kind]))
        if source != "all" and source != kind and not (source == "both" and kind != "head"):
            same(c.guessed[kind], 0, "%s: guesses of %s" % (what, kind))
    if source != "none" and must and not sanitized() and not stressed():                # measured times decide whether to guess
        check(sum(c.guessed.values()) > 0, what + ": no guess was made")


def one_thread(args):
    """One thread: with two, every small step would wait for a thread when other programs run."""
    return args if "-t" in args else ("-t", "1", *args)


@functools.cache
def stressed():
    """Whether this binary is a stress build: it preempts at every step, and a sequence that is read again guesses little."""
    lines = [{"prompt": "Once %d" % i, "max_tokens": 8, "ignore_eos": True} for i in range(4)]
    r = run("-m", SMALL, "--batch", put("stress.jsonl", lines), "--format", "json", *PLAIN)
    return json.loads(next(x for x in r.err.splitlines() if x.startswith(b"{")))["preemptions"] > 0


def told(lines, *args, model=PIP, rc=0, **kw):
    """Runs a file of these lines: its records, and the summary."""
    r = run("-m", model, "--batch", put("in.jsonl", lines), "--format", "json", *one_thread(args), **kw)
    check(r.rc == rc, "%s: want exit %d, got %r" % (" ".join(args), rc, r))
    return records(r.out), json.loads(next(x for x in r.err.splitlines() if x.startswith(b"{")))


def unguessed(lines, *args, **kw):
    """The answers of a file without speculation."""
    got, s = told(lines, *PLAIN, *args, **kw)
    guessed(counts_of(s), "none", "a plain run")
    same([no for no, r in got.items() if r.error], [], "lines with an error")
    return got


def by(source, draft=DRAFT):
    """The options that let a source guess."""
    return ((("-md", draft) if source in ("draft", "both", "all") else ()) +
            (("--no-lookup",) if source in ("draft", "head") else ("--lookup",)) + (() if source in ("head", "all") else ("--no-head",)))


def forced(k):
    """k guesses in each step, or as many as measurement says."""
    return ("--draft-min", str(k), "--draft-max", str(k)) if k else ()


def held(want, lines, source, *args, draft=DRAFT, k=0, what="", must=True, **kw):
    """Checks that a run with speculation gives the wanted records, and made guesses if k is given. Returns its counts."""
    what = " ".join(x for x in (what, source, "k = %d" % k if k else "k by measurement", " ".join(args)) if x)
    got, s = told(lines, *by(source, draft), *forced(k), *args, **kw)
    equal(got, want, what)
    c = counts_of(s)
    guessed(c, source, what, must and k > 0)
    TABLE.append((what, len(lines), c))
    return c


WHY = rb"the CPUs were shared|too few steps without drafts were timed"
SPEC = re.compile(rb"(?m)^llmrun: speculation (?:(\d+\.\d+)x plain decoding: )?(\d+) tokens in (\d+) steps, (\d+\.\d+) a step"
                  rb"(?:; speed-up not measurable: (" + WHY + rb"))?$")
KIND = re.compile(rb"(?m)^llmrun: (draft|head|lookup) +(\d+) guessed, (\d+) accepted(?: \((\d+\.\d+) %\))?"
                  rb"(?:, by depth((?: \d+)+) %)?(?:; (\d+\.\d+) s of drafting)?(?:; (\d+\.\d+)x where it guessed)?$")


def counts_in(err, n):
    """What the summary of a run of n tokens counts."""
    m, kinds = SPEC.search(err), {x[0].decode(): x for x in KIND.findall(err)}
    number = lambda kind, at: int(kinds[kind][at]) if kind in kinds else 0
    return Counts(int(m.group(2)) if m else n, int(m.group(3)) if m else n, {k: number(k, 1) for k in KINDS},
                  {k: number(k, 2) for k in KINDS}, float(m.group(1)) if m and m.group(1) else None)


def alone(prompt, *args, model=PIP, **kw):
    """One run: (ids, what it counted, stderr)."""
    r = run("-m", model, "--raw", "-f", put("prompt.txt", prompt.encode()), "--ids", "-v", *one_thread(args), **kw)
    check(r.rc == 0, "%s: %r" % (" ".join(args), r))
    ids = [int(x) for x in r.out.split()]
    return ids, counts_in(r.err, len(ids)), r.err


def held_alone(prompt, *args, runs, model=PIP, what=""):
    """Checks that a run gives the same ids with each (source, draft, k). Returns the ids without speculation."""
    want, none, _ = alone(prompt, *PLAIN, *args, model=model)
    guessed(none, "none", "a plain run")
    made = 0
    for source, draft, k in runs:
        name = " ".join(("%s %s, k = %d" % (what, source, k), *args))
        ids, c, _ = alone(prompt, *by(source, draft), *forced(k), *args, model=model)
        same(ids, want, name)
        guessed(c, source, name, must=False)
        made += sum(c.guessed.values())
    check(made > 0 or len(want) < 8, "%s %s: no guess was made" % (what, " ".join(args)))
    return want


# --- prompts ---

def prompt(no):
    """The beginning of a text of Pip's world: a story, questions, sums, lists, records, chats, cut anywhere."""
    text = world.document(no, "test").text
    return text[:random.Random(no).randrange(20, 300)]


def greedy_lines(n, tokens):
    """Most ignore the end of the text, half ask for log-probabilities."""
    return [{"prompt": prompt(i), "max_tokens": tokens, "temperature": 0, **({"ignore_eos": True} if i % 4 else {}),
             **({"logprobs": 5} if i % 2 else {})}
            for i in range(n)]


def sampled_lines(n, tokens):
    """Every sampler that a line may ask for, each line its own seed, several answers to one prompt."""
    more = ({}, {"temperature": 1.5}, {"top_k": 5, "top_p": 0.9, "min_p": 0.1},
            {"presence_penalty": 0.5, "frequency_penalty": 0.3, "repetition_penalty": 1.2},
            {"logit_bias": {"200": 4.5, "201": -100}}, {"stop": [" the", "zebra", "."]}, {"n": 3},
            {"top_k": 0, "top_p": 1, "min_p": 0, "temperature": 1}, {"max_tokens": 3})
    return [{"prompt": prompt(100 + i // 2), "max_tokens": tokens, "temperature": 0.8, "seed": i,
             **({"ignore_eos": True} if i % 3 else {}),
             **({"logprobs": 5} if i % 2 else {}), **more[i % len(more)]} for i in range(n)]


def small_lines(rng, n=8, tokens=40, high=255):
    """Prompts of ids, for any vocabulary of 272 tokens: some repeat themselves, some are long."""
    lines = []
    for i in range(n):
        ids = [rng.randrange(10, high) for _ in range(rng.choice((1, 6, 30, 70)))]
        lines.append({"prompt": ids * rng.choice((1, 2)), "max_tokens": tokens, "temperature": (0, 0, 0.8, 1.5)[i % 4],
                      "seed": i, "ignore_eos": True, **({"logprobs": 5} if i % 3 else {})})
    return lines


# --- greedy ---

WIDTHS = (32, 4, 1)


@case
def every_length():
    """greedy records are the same for draft lengths of 1 to 16 and measured ones, for every source, in batches of any width"""
    lines = greedy_lines(O.prompts, 100 if O.all else 40)
    want = unguessed(lines)
    for i, k in enumerate(some([*range(1, 17), 0])):
        for source in ("both", SOURCES[i % 2]) if O.all else [SOURCES[i % 3]]:
            width = WIDTHS[(i // 3) % 3] if not O.all else 32 // (k or 4)      # 32 guesses are most in a step of many texts
            held(want, lines, source, "-np", str(max(1, width)), k=k, timeout=3600)


@case
def widths():
    """one, four and 32 at a time, with every source"""
    lines = greedy_lines(60 if O.all else 6, 60)
    want = unguessed(lines, "-np", "1")
    for i, source in enumerate(SOURCES):
        for width in WIDTHS:
            for k in (2, 5, 11, 0) if O.all else [(2, 7, 0)[(i + width) % 3]]:
                held(want, lines, source, "-np", str(width), k=k, timeout=600)


@case
def one_shot():
    """one run prints the same ids: every source, forced and measured lengths"""
    for i in some(range(O.prompts if O.all else 3), 3):
        runs = [(source, DRAFT, k) for k in (i % 16 + 1, 0) for source in ((SOURCES[i % 3],) if O.all else SOURCES)]
        held_alone(prompt(i), "-n", "100", "--temp", "0", *(("--ignore-eos",) if i % 4 else ()), runs=runs)


@case
def streams():
    """the text that is streamed is the same, with stop strings across guesses and without"""
    for more in (), ("--stop", "the"), ("--stop", ". "), ("--stop", "\n"), ("--stop", "e w", "--stop", " a "), ("--special",):
        args = ("-m", PIP, "--raw", "-p", prompt(3), "-n", "60", "--temp", "0", "-q", *more)
        want = good(*args, *PLAIN)
        for source, k in ("both", 16), ("draft", 3), ("lookup", 5):
            r = run(*args, *by(source), *forced(k))
            same((r.rc, r.out, r.err), (0, want, b""), " ".join((source, *more)))


@case
def drafts():
    """a draft that is right, wrong, random, gives NaN or has a short context changes the number of accepted guesses alone"""
    lines = greedy_lines(60 if O.all else 8, 100 if O.all else 50) + sampled_lines(40 if O.all else 9, 30)
    greedy = [dict(x, ignore_eos=True) for x in lines[:8]]
    want, want_greedy = unguessed(lines), unguessed(greedy)
    for i, (name, make) in enumerate(some(DRAFTS.items(), 2)):
        for k in (1, 2, 4, 8, 16, 0) if O.all else ((1, 7, 16)[i % 3], 0):
            held(want, lines, "draft", "-np", str(max(1, 32 // (k or 4))), draft=make(), k=k, what=name,
                 must=name not in MUTE, timeout=900)
        c = held(want_greedy, greedy, "draft", "-np", "4", draft=make(), k=4, what=name, must=name not in MUTE)
        if name in MUTE:
            same(c.guessed["draft"], 0, name + ": guesses")
            continue
        if stressed():
            continue
        share = c.accepted["draft"] / c.guessed["draft"]
        low, high = {"right": (1, 1), "small": (0.2, 0.999), "of a short context": (0.2, 0.999)}.get(name, (0, 0.1))
        check(low <= share <= high, "%s: %d of %d guesses accepted" % (name, c.accepted["draft"], c.guessed["draft"]))
        if name == "right":
            check(c.tokens / c.steps > 3, "a draft that is always right: %d tokens in %d steps of 1 + 4" % (c.tokens, c.steps))


@case
def at_every_level():
    """kernel levels, threads, chunks and blocks: the same records with guesses as without"""
    lines = greedy_lines(20 if O.all else 4, 40) + sampled_lines(18 if O.all else 4, 20)
    want, small = unguessed(lines), small_lines(random.Random(2))
    want_small = unguessed(small, model=SMALL)
    shapes = ("-t 1", "-t 2", "-t 3", "-b 1", "-b 7", "-b 64 -t 1", "--kv-block-size 1", "--kv-block-size 2 -np 2",
              "--kv-block-size 7", "--kv-block-size 32", "--batch-order input -np 3",
              "--batch-window 1", "--batch-static -np 5", "--repack on", "--repack off")
    for i, level in enumerate(levels(O.binary)):
        for source in SOURCES if O.all else [SOURCES[i % 3]]:
            held(want, lines, source, "--cpu", level, "-t", str(1 + i % 2), k=(3, 6, 12, 1)[i % 4])
            held(want_small, small, source, "--cpu", level, draft=SMALL, k=5, model=SMALL)
    for i, shape in enumerate(x for x in some(shapes) if "static" not in x
                              or not stressed()):   # the small pool of that build does not hold those who have ended
        for source in SOURCES if O.all else [SOURCES[i % 3]]:
            held(want_small, small, source, *shape.split(), draft=wrong(SMALL), k=i % 16 + 1, model=SMALL,
                 must="static" not in shape)
            held(want_small, small, source, *shape.split(), draft=SMALL, k=0, model=SMALL)


@case
def caches():
    """cache types, each with itself: f32, f16, bf16, q8_0, q4_0 and mixed"""
    for i, (k, v) in enumerate((("f16", "f16"), ("q8_0", "q8_0"), ("q4_0", "q4_0"), ("f32", "q4_0"), ("q8_0", "bf16"))):
        kind = ("-ctk", k, "-ctv", v)
        for model, draft, lines in ((PIP, DRAFT, greedy_lines(4, 40) + sampled_lines(3, 20)),
                                    (SMALL, SMALL, small_lines(random.Random(i)))):
            want = unguessed(lines, *kind, "-np", "1", model=model)
            for j, source in enumerate(SOURCES):
                if O.all or model == SMALL or j == i % 3:
                    held(want, lines, source, *kind, "-np", str(WIDTHS[j]), draft=draft, k=(4, 16, 9)[j], model=model)
            held_alone(prompt(i) if model == PIP else "the hen", *kind, "-n", "40", "--temp", "0", "--ignore-eos",
                       runs=[("both", draft, 3 + i)], model=model)


@case
def architectures():
    """tiny models (a quarter; all in a stress build), with themselves, one that is always wrong and another as their draft"""
    groups = families()
    check(sum(map(len, groups)) > 30 and all(len(g) > 1 for g in groups), "%r" % [len(g) for g in groups])
    pairs = [(m, g[j - 1]) for g in groups for j, m in enumerate(g)]
    for i, (model, other) in enumerate(pairs if O.all or stressed() else some(pairs[::4])):
        lines = small_lines(random.Random(i), 8, 60)
        want = unguessed(lines, "-np", "1", "-t", "1", model=model)
        plan = [("draft", model, i % 16 + 1), ("both", wrong(model), (i + 7) % 16 + 1), ("draft", other, (i + 3) % 16 + 1),
                ("lookup", model, (i + 11) % 16 + 1)]
        for j, (source, draft, k) in enumerate(plan if O.all else (plan[0], plan[1 + i % 3])):
            for length in range(1, 17) if O.all else [k]:
                held(want, lines, source, "-np", str((16, 4, 1)[j % 3]), draft=draft, k=length, what=stem(model), model=model)
        greedy = [dict(x, temperature=0) for x in lines[:4]]
        c = held(unguessed(greedy, model=model), greedy, "draft", draft=model, k=4, what=stem(model), model=model)
        same(c.accepted["draft"], c.guessed["draft"], stem(model) + " as its own draft: guesses accepted")


# --- draft heads ---

def head_of(f):
    """(name, dims, type, offset in the file) of the tensors of a model's draft head."""
    head = max(int(name.split(".")[1]) for name in f.tensors if name.startswith("blk."))
    return [(name, *where[:2], f.base + where[2]) for name, where in f.tensors.items() if name.startswith("blk.%d." % head)]


def fill_head(end, value):
    """Float tensors of the head whose names end so are this value."""
    def patch(f, b):
        found = [x for x in head_of(f) if x[0].endswith(end) and x[2] == 0]
        check(found, "no tensor " + end)
        for _, dims, _, at in found:
            n = math.prod(dims)
            b[at:at + 4 * n] = struct.pack("<f", value) * n
    return patch


@case
def heads():
    """a draft head, which is often right or never, changes no record: any number of guesses, batch, chunk, cache and thread"""
    for m, model in enumerate((NEAR, NEVER)):
        lines = small_lines(random.Random(m), 8, 60) + [dict(x, n=3) for x in small_lines(random.Random(9), 3, 30)]
        want = unguessed(lines, model=model)
        for k in range(16) if O.all else (3, 8, 0):
            for source in ("head", "all") if O.all else ("head", "all")[k == 8:][:1]:
                held(want, lines, source, "-np", str((1, 4, 16)[k % 3]), draft=model, k=k, model=model)
        shapes = ("--kv-blocks 24 --kv-block-size 16 -np 11", "-b 7 -t 2 --kv-block-size 7 -np 2", "-t 3", "-b 1", "--kv-block-size 1",
                  "--state-mem 64K", "--cpu scalar", "--repack on")
        for i, shape in enumerate(some(shapes, 3)):
            held(want, lines, "head", *shape.split(), k=i % 8 + 1, model=model)
        for kind in some(("q8_0", "q4_0", "f32"), 1):
            args = ("-ctk", kind, "-ctv", kind)
            held(unguessed(lines, *args, model=model), lines, "head", *args, k=4, model=model)
        greedy = [dict(x, temperature=0, max_tokens=100) for x in lines[:4]]
        c = held(unguessed(greedy, model=model), greedy, "head", k=3, model=model)
        low, high = ((0.25, 1), (0, 0.1))[m]
        check(stressed() or low <= c.accepted["head"] / c.guessed["head"] <= high, "%s: %r" % (stem(model), c))
        if O.stress:
            for k in (1, 5, 15, 0):
                held(want, lines, "head", k=k, model=model, binary=O.stress)


CHAINS = [os.path.join(TINY, name + ".gguf") for name in ("mimo2", "step35")]     # with a head for each guess


def chain_near(model):
    """A copy whose layers add little and whose heads pass on the token: they are often right."""
    def patch(f, b):
        forms = {0: "f", 1: "e"}
        where = {name: (f.base + at, math.prod(dims), forms.get(kind), dims) for name, (dims, kind, at) in f.tensors.items()}
        last = where["output_norm.weight"]
        for name, (at, n, form, dims) in where.items():
            size = struct.calcsize(form) * n
            if "_down" in name or name.endswith("attn_output.weight"):
                b[at:at + size] = struct.pack("<%d%s" % (n, form), *(0.01 * x for x in struct.unpack("<%d%s" % (n, form), b[at:at + size])))
            elif name.endswith("eh_proj.weight"):
                b[at:at + size] = struct.pack("<%df" % n, *(float(i % dims[0] == i // dims[0]) for i in range(n)))
            elif name.endswith("nextn.enorm.weight"):
                b[at:at + size] = struct.pack("<%df" % n, *[1.0] * n)
            elif name.endswith(("layer_output_norm.weight", "nextn.shared_head_norm.weight")):
                b[at:at + size] = b[last[0]:last[0] + size]
    return patched(model, stem(model) + "-near.gguf", patch)


@case
def heads_in_a_chain():
    """a draft head for each guess, with windows, often right or never: the same records and ids, at most as many guesses as heads"""
    for m, model in enumerate(x for chain in CHAINS for x in (chain, chain_near(chain))):
        lines = small_lines(random.Random(m), 6, 50) + [dict(x, n=2) for x in small_lines(random.Random(9), 2, 30)]
        want = unguessed(lines, model=model)
        for k, source, *shape in some(((1, "head", "-np", "4"), (3, "all", "-np", "1"), (3, "head", "--kv-blocks", "24", "--kv-block-size", "16", "-np", "8"),
                                       (2, "head", "-b", "7", "-t", "2", "--kv-block-size", "7"), (5, "head", "--cpu", "scalar"), (0, "all", "-np", "16")), 6):
            c = held(want, lines, source, *shape, draft=model, k=k, model=model, what=stem(model))
            check(source != "head" or not k or stressed() or c.guessed["head"] <= 3 * c.steps, "more guesses than heads: %r" % (c,))
        args = ("-ctk", "q8_0", "-ctv", "q8_0")
        held(unguessed(lines, *args, model=model), lines, "head", *args, k=3, model=model)
        greedy = [dict(x, temperature=0, max_tokens=80) for x in lines[:3]]
        c = held(unguessed(greedy, model=model), greedy, "head", k=3, model=model)
        low, high = ((0, 0.1), (0.3, 1))[m % 2]
        check(stressed() or low <= c.accepted["head"] / c.guessed["head"] <= high, "%s: %r" % (stem(model), c))
        held_alone("Hello the world", "-n", "90", "--ignore-eos", "--temp", "0.8", "-s", "5", "--context-shift", "-c", "48", "--keep", "4",
                   runs=[("head", None, 3), ("head", None, 0)], model=model)
        if O.stress:
            held(want, lines, "head", k=3, model=model, binary=O.stress)
        trunk, head = head_beside(model)
        got, s = told(lines, "-md", head, "--no-lookup", *forced(3), model=trunk)
        equal(got, unguessed(lines, model=trunk), "heads beside " + stem(model))
        guessed(counts_of(s), "head", "heads beside " + stem(model))
        cache = ("--prompt-cache", tmp(stem(model) + ".cache"))
        for _ in range(2):
            held(want, lines, "head", *cache, k=2, model=model)


@case
def heads_alone():
    """one run with a draft head prints the same ids: samplers, ends of context, context shift, a constraint, a draft model beside it"""
    runs = [("head", None, 1), ("head", None, 4), ("head", None, 15), ("head", None, 0), ("all", NEAR, 3), ("all", NEAR, 0)]
    for i, args in enumerate(("--temp 0", "--temp 1 -s 3", "--temp 1.5 -s 4 --top-k 0", "--temp 0 --repeat-penalty 1.3", "--mirostat 2 -s 1",
                              "--temp 0.8 -s 5 --context-shift -c 48 --keep 4", "--temp 0 -c 64", "--temp 0.7 -s 2 --stop e",
                              "--temp 0 --regex [a-z]{40,60}")):
        held_alone("Hello the world" * (1 + i % 2), "-n", "100", *(("--ignore-eos",) if "regex" not in args else ()), *args.split(),
                   runs=runs, model=NEAR)
    for name, what in ("glm4moe_air", "glm4moe, experts in the head"), ("deepseek2_v3", "latent attention in the head"), ("bailingmoe2", "groups of experts"):
        held_alone("Hello the world", "-n", "60", "--temp", "0", "--ignore-eos", runs=runs[:3], model=os.path.join(TINY, name + ".gguf"), what=what)
    for most in (1, 3):
        _, c, err = alone("Hello", "-n", "120", "--temp", "0", "--ignore-eos", "--no-lookup", "--draft-max", str(most), "--draft-min", "1",
                          model=NEAR)
        depth = re.search(rb"head .*by depth((?: \d+)+) %", err)
        check(depth and len(depth.group(1).split()) <= most, "--draft-max %d: %r" % (most, err))


@case
def heads_without_numbers():
    """NaN and infinity in a draft head: no guess, and the same text; weights of zeros: wrong guesses"""
    lines, texts = small_lines(random.Random(3), 4, 30), lambda got: [[c["text"] for c in r.body["choices"]] for r in got.values()]
    for model in NEAR, NEVER:
        want = texts(unguessed(lines, model=model))
        for i, (end, value) in enumerate((("eh_proj.weight", math.nan), ("enorm.weight", math.inf), ("attn_k.weight", math.nan),
                                          ("attn_norm.weight", math.nan), ("attn_v.weight", -math.inf), ("eh_proj.weight", 0))):
            broken = patched(model, "%s-%s-%s.gguf" % (stem(model), end, value), fill_head(end, value))
            same(texts(unguessed(lines, model=broken)), want, "texts of " + stem(broken))
            args = ("-ctk", "q8_0", "-ctv", "q8_0") if i % 2 else ()
            plain = unguessed(lines, *args, model=broken)
            c = held(plain, lines, "head", *args, k=3, model=broken, must=value == 0, what=end)
            same(value == 0 or stressed() or c.guessed["head"], value == 0 or stressed() or 0, "%s of %s: guesses" % (end, value))
            held(plain, lines, "all", *args, draft=model, k=2, model=broken, what=end)


def head_beside(model):
    """A model in two files: without its draft heads, and these alone."""
    f, paths = inflate.File(model), []
    first, more = min(int(name.split(".")[1]) for name in f.tensors if ".nextn." in name), re.compile(r"blk\.(\d+)\.")
    for alone in False, True:
        kept = [x for x in f.tensors.items() if not more.match(x[0]) or (int(more.match(x[0])[1]) >= first) == alone]
        if not alone and model not in CHAINS and stem(model)[:-5] not in map(stem, CHAINS):     # those have arrays of block_count values
            arch = stem(model).split("_")[0]
            f.set_number(arch + ".block_count", first)
            del f.keys[arch + ".nextn_predict_layers"]
        keys = dict(f.keys)
        paths.append(tmp("%s-%s.gguf" % (stem(model), "head" if alone else "trunk")))
        inflate.write(paths[-1], keys, [(name, dims, kind, lambda name=name: f.data(name)) for name, (dims, kind, _) in kept], f.align())
        f = inflate.File(model)
    return paths


@case
def heads_beside():
    """a draft head in a file of its own, given with -md, guesses as one inside; what does not fit is refused"""
    for model in NEAR, NEVER:
        trunk, head = head_beside(model)
        lines = small_lines(random.Random(5), 6, 40)
        want = unguessed(lines, model=trunk)
        for k in 1, 4, 0:
            got, s = told(lines, "-md", head, "--no-lookup", *forced(k), model=trunk)
            equal(got, want, "a head beside the model, k = %d" % k)
            c = counts_of(s)
            guessed(c, "head", "a head beside the model", must=k > 0)
            _, inside = told(lines, *by("head"), *forced(k), model=model)
            same(not k or counts_of(inside).accepted, not k or c.accepted, "guesses accepted of a head inside and of one beside, k = %d" % k)
        held(want, lines, "lookup", k=3, model=trunk)
        cache = ("--prompt-cache", tmp(stem(model) + ".beside.cache"))
        for args in ("-md", head), ("-md", head), ():
            equal(told(lines, *args, *cache, model=trunk)[0], want, "a prompt cache beside " + " ".join(args))
        for args in (("-m", model, "-md", head), ("-m", SMALL, "-md", head), ("-m", head), ("-m", trunk, "-md", head_beside(NEVER if model == NEAR else NEAR)[1])):
            refused(run(*args, "--raw", "-p", "a", "-n", "2"), 2, "head", " ".join(args))
        args = ("--raw", "-p", "a", "-n", "8", "--temp", "0", "--ignore-eos", "-md", head)
        refused(run("-m", trunk, *args, "--no-head"), 2, "--no-head", "a head in a file and --no-head")


ASSISTED = {os.path.join(TINY, of + ".gguf"): os.path.join(TINY, "beside", name + ".gguf")
            for of, name in (("gemma4", "gemma4-assistant"), ("gemma4_far", "gemma4-assistant_far"))}


def floats(f, b, name, new=None):
    """A float tensor as a list; new: what it becomes."""
    dims, kind, at = f.tensors[name]
    form, at = "<%d%s" % (math.prod(dims), {0: "f", 1: "e"}[kind]), f.base + at
    if new is not None:
        b[at:at + struct.calcsize(form)] = struct.pack(form, *new)
    return list(struct.unpack_from(form, b, at))


def assisted_near(model, head):
    """Copies of a gemma4 and of its assistant that are often of one mind: layers add little, embeddings have no values where the assistant has none,
    which passes on those of the token."""
    a, width = inflate.File(head), inflate.File(model).tensors["token_embd.weight"][0][0]
    n = a.tensors["token_embd.weight"][0][0]

    def quiet(f, b):
        for name in f.tensors:
            if name.endswith(("post_attention_norm.weight", "post_ffw_norm.weight", "post_norm.weight")):
                floats(f, b, name, [0.01 * x for x in floats(f, b, name)])

    def target(f, b):
        quiet(f, b)
        floats(f, b, "token_embd.weight", [x * (i % width < n) for i, x in enumerate(floats(f, b, "token_embd.weight"))])
    near = patched(model, stem(model) + "-near.gguf", target)

    def assistant(f, b):
        t = inflate.File(near)
        quiet(f, b)
        floats(f, b, "token_embd.weight", [x for i, x in enumerate(floats(t, t.b, "token_embd.weight")) if i % width < n])
        floats(f, b, "output_norm.weight", floats(t, t.b, "output_norm.weight")[:n])
        floats(f, b, "blk.0.nextn.pre_projection.weight", [float(i % (2 * width) == i // (2 * width)) for i in range(2 * width * n)])
    return near, patched(head, stem(head) + "-near.gguf", assistant)


@case
def heads_that_assist():
    """gemma4-assistant, given with -md, often right or never: the same records and ids; what does not fit is refused"""
    for m, (model, head) in enumerate(x for pair in ASSISTED.items() for x in (pair, assisted_near(*pair))):
        lines = small_lines(random.Random(m), 6, 50) + [dict(x, n=2) for x in small_lines(random.Random(9), 2, 30)]
        want = unguessed(lines, model=model)

        def beside(want, *args, k, must=True, source="head"):
            got, s = told(lines, "-md", head, *(("--no-lookup",) if source == "head" else ("--lookup",)), *forced(k), *args, model=model)
            equal(got, want, "%s beside %s, %s" % (stem(head), stem(model), " ".join(args)))
            guessed(counts_of(s), source, stem(head), must=must and k > 0)
            return counts_of(s)
        for k, *args in some(((1, "-np", "4"), (4, "--kv-blocks", "24", "--kv-block-size", "16", "-np", "8"), (3, "-b", "7", "-t", "2", "--kv-block-size", "7"),
                              (7, "--cpu", "scalar"), (0, "-np", "16"), (2, "-b", "1", "-np", "2")), 6):
            beside(want, *args, k=k)
        beside(want, k=3, source="all")
        args = ("-ctk", "q8_0", "-ctv", "q8_0")
        beside(unguessed(lines, *args, model=model), *args, k=3)
        cache = ("--prompt-cache", tmp(stem(model) + ".assisted.cache"))
        for _ in range(2):
            beside(want, *cache, k=2)
        if m % 2:
            lines = [dict(x, temperature=0, max_tokens=80) for x in lines[:3]]
            c = beside(unguessed(lines, model=model), k=3)
            check(stressed() or c.accepted["head"] / c.guessed["head"] > 0.3, "%s: %r" % (stem(head), c))
        for args in ("--temp 0", "--temp 0.8 -s 5 --context-shift -c 48 --keep 4", "--temp 0 --regex [a-z]{20,30}"):
            args = ("-n", "80", *(() if "regex" in args else ("--ignore-eos",)), *args.split())
            plain, _, _ = alone("Hello the world", *PLAIN, *args, model=model)
            for k in 1, 3, 0:
                same(alone("Hello the world", "-md", head, "--no-lookup", *forced(k), *args, model=model)[0], plain, "%s, k = %d, %s" % (stem(head), k, " ".join(args)))
        other = list(ASSISTED.values())[m < 2]
        for args in (("-m", head), ("-m", SMALL, "-md", head), ("-m", NEAR, "-md", head), ("-m", model, "-md", other)):
            refused(run(*args, "--raw", "-p", "a", "-n", "2"), 2, "head", " ".join(args))
        refused(run("-m", model, "-md", head, "--no-head", "--raw", "-p", "a", "-n", "2"), 2, "--no-head", "an assistant and --no-head")


# Tokens a step that a float64 reading counts over the texts of 4 prompts, 200 tokens each, with so many guesses:
# make bench-spec HEAD=models/pip-head-q4_k_m.gguf MODEL=models/pip-q4_k_m.gguf SPEC="--rounds 1 --prompts 4"
COUNTED = {1: 1.825, 2: 2.452, 3: 3.046}


@case
def heads_shipped():
    """the head of the shipped model: the same stories at temperature 0.5 with one, two and three guesses, right as often as a float64 count
    says, to 2 %"""
    args = ("--ignore-eos", "-n", "200", "--temp", "0.5", "--top-k", "0", "--top-p", "1", "--min-p", "0")
    texts = [(world.story_prompt(i), *args, "-s", str(i + 1)) for i in range(4)]
    want = [alone(*x, *PLAIN)[0] for x in texts]
    for n, counted in COUNTED.items():
        runs = [alone(*x, "-md", PIP_HEAD, "--no-lookup", *forced(n)) for x in texts]
        same([ids for ids, _, _ in runs], want, "texts with %d guesses" % n)
        share = sum(c.tokens for _, c, _ in runs) / sum(c.steps for _, c, _ in runs)
        check(stressed() or abs(share / counted - 1) < 0.02, "%d guesses: %.3f tokens a step, %.3f counted" % (n, share, counted))


@case
def heads_that_lack():
    """a model whose draft head lacks a tensor, or has one of another type, runs without that head and says so; --bench --head refuses it"""
    args = ("--raw", "-p", "a", "-n", "24", "--temp", "0", "--ignore-eos")
    want = good("-m", NEAR, *args, "-q", *PLAIN)
    for name in "attn_q.weight", "nextn.enorm.weight", "ffn_down.weight":
        data = read(NEAR)
        old = b"blk.%d.%s" % (int(re.search(rb"blk\.([0-9]+)\.nextn", data)[1]), name.encode())
        check(data.count(old) == 1, "one " + name)
        path = tmp("lacks.gguf")
        with open(path, "wb") as f:
            f.write(data.replace(old, old[:-1] + b"_"))
        r = run("-m", path, *args)
        same((r.rc, r.out, r.err.count(b"runs without that draft head"), name.encode() in r.err), (0, want, 1, True), "one line that names " + name)
        r = run("--bench", "-m", path, "--head", "-p", "0", "-n", "2", "-r", "1", "--draft-max", "1")
        check(r.rc == 2 and b"the file has no draft head (nextn), expected one" in r.err, "--bench --head: %r" % r)
    refused(run("--bench", "-m", NEAR, "-md", SMALL, "--head", "-n", "2", "--draft-max", "1"), 2, "--model-draft", "two of one kind in --bench")
    refused(run("--bench", "-m", NEAR, "--head", "-n", "2"), 2, "--draft-max", "--bench --head without guesses")


@case
def heads_in_bench():
    """--bench with a draft head: that of the model, one in a file of its own, an assistant; its time counts and the row names it"""
    assisted = list(ASSISTED.items())[0]
    for args, name in ((("-m", NEAR, "--head"), "draft head"), (("-m", PIP, "-md", PIP_HEAD), PIP_HEAD),
                       (("-m", assisted[0], "-md", assisted[1]), assisted[1])):
        rows = json.loads(good("--bench", *args, "-p", "0", "-n", "6", "-r", "1", "-q", "--draft-max", "0,2", "--acceptance", "100", "-o", "json"))
        same([(r["n_draft"], r["draft_model"]) for r in rows], [(0, ""), (2, name)], " ".join(args))
    refused(run("--bench", "-m", SMALL, "-md", PIP_HEAD, "-n", "2", "--draft-max", "1"), 2, "head", "the head of another model in --bench")


@case
def heads_kept():
    """a draft head beside --prompt-cache and --resume; a cache file of one kind is none of the other"""
    lines = small_lines(random.Random(7), 8, 40)
    want = unguessed(lines, model=NEAR)
    cache = ("--prompt-cache", tmp("head.cache"))
    for _ in range(2):
        held(want, lines, "head", *cache, k=3, model=NEAR)
    equal(unguessed(lines, *cache, model=NEAR), want, "a cache of a run with the head, without it")
    held(want, lines, "all", *cache, draft=NEAR, k=3, model=NEAR)
    path, out = put("heads.jsonl", lines), tmp("heads.out.jsonl")
    good("-m", NEAR, "--batch", path, "-o", out, "-q", *PLAIN)
    whole = read(out)
    for more in (*by("head"), *forced(3)), by("all", NEAR), PLAIN:
        with open(out, "wb") as f:
            f.write(whole[:whole.index(b"\n", len(whole) // 3) + 1])
        good("-m", NEAR, "--batch", path, "-o", out, "-q", "--resume", *more)
        equal(records(read(out)), want, "resumed with " + " ".join(more))


# --- samplers ---

SETTINGS = ("--temp 0", "--temp 0.8", "--temp 1.5", "--temp 1 --top-k 0 --top-p 1 --min-p 0",
            "--temp 0 --repeat-penalty 1.3 --repeat-last-n 20",
            "--temp 0.9 --presence-penalty 0.6 --frequency-penalty 0.4 --repeat-last-n -1",
            "--temp 0 --dry-multiplier 0.8 --dry-penalty-last-n -1 --dry-allowed-length 1",
            "--temp 0.8 --dry-multiplier 0.8 --dry-penalty-last-n 30", "--mirostat 1 --temp 0.9",
            "--mirostat 2 --mirostat-lr 0.3 --mirostat-ent 3", "--temp 0 -l 200+3.5 -l 201-inf -l 220+2",
            "--temp 0.8 -l 200+3.5", "--temp 0 --ignore-eos", "--temp 1.2 --xtc-probability 0.6 --xtc-threshold 0.1",
            "--temp 1 --typical 0.5", "--temp 1 --top-nsigma 1",
            "--temp 1 --dynatemp-range 0.7", "--temp 0.8 --samplers temperature;top_k;top_p --top-k 7",
            "--temp 0 --stop he", "--temp 0.8 --stop the --stop a", "--temp 1 --min-p 0.3")


@case
def samplers():
    """every sampler, penalty, bias and end, in one run and in a batch"""
    for i, setting in enumerate(some(SETTINGS)):
        args, sources = ("-s", str(i), *setting.split()), SOURCES if O.all else (SOURCES[i % 3],)
        model, draft, text = ((PIP, DRAFT, prompt(i)), (SMALL, SMALL, "the hen and the the hen"))[0 if O.all else i % 2]
        held_alone(text, "-n", "60", *args, runs=[(s, draft, k) for s in sources
                                                  for k in (i % 7 + 2, 0)] + [("draft", model, 6)], model=model)
        lines = [{"prompt": prompt(i + j)[:100], "max_tokens": 50, "seed": j, **({"logprobs": 5} if j % 2 else {})}
                 for j in range(4)]
        want = unguessed(lines, *args, model=model)
        for s in sources:
            held(want, lines, s, "-np", "4", *args, draft=draft, k=i % 11 + 2, model=model, must="--stop" not in args)


@case
def sampled():
    """sampled lines, each its own seed and sampler, several answers to one prompt: texts and log-probabilities stay"""
    lines = sampled_lines(90 if O.all else 12, 60 if O.all else 40)
    want = unguessed(lines, "-np", "2")
    for i, k in enumerate(range(17) if O.all else (1, 4, 9, 0)):
        for source in SOURCES if O.all else (SOURCES[i % 3],):
            held(want, lines, source, "-np", str((8, 32, 1)[i % 3]), k=k)
    for seed in some(range(O.seed, O.seed + (40 if O.all else 4))):
        for temp in "0.8", "1.5":
            held_alone(prompt(seed), "-n", "50", "-s", str(seed), "--temp", temp, "--ignore-eos",
                       runs=[(SOURCES[seed % 3], DRAFT, seed % 8 + 1), ("draft", PIP, 0)])


@case
def least_probability():
    """--draft-p-min ends drafts earlier: at 1 there are next to none; no record changes"""
    lines = [{"prompt": prompt(i), "max_tokens": 60, "seed": i, "ignore_eos": True} for i in range(4)]
    want = unguessed(lines, *WHOLE, model=SMALL)
    for p in "0", "0.1", "0.6", "1":
        for least in "0", "3":
            got, s = told(lines, *WHOLE, *by("draft", SMALL), "--draft-max", "8", "--draft-min", least, "--draft-p-min", p,
                          model=SMALL)
            c = counts_of(s)
            equal(got, want, "--draft-p-min " + p)
            guessed(c, "draft", "--draft-p-min " + p, must=least > "0")
            check((p, least) != ("1", "0") or c.guessed["draft"] < 10, "--draft-p-min 1: %d guesses" % c.guessed["draft"])


@case
def trimmed():
    """--draft-vocab: a draft that guesses among the first tokens alone changes no record; among few it is seldom right"""
    lines = [dict(x, ignore_eos=True) for x in greedy_lines(5, 40)] + sampled_lines(5, 20)
    want, right = unguessed(lines), []
    for n in ("1", "20", "400", "2000", "3071", "3072", "99999", "0") if O.all else ("1", "400", "99999"):
        c = held(want, lines, "draft", "-np", "4", "--draft-vocab", n, k=4, must=n != "1")
        right.append(c.accepted["draft"])
        held(want, lines, "both", "-np", "2", "--draft-vocab", n, draft=PIP, k=0)
    check(right[0] * 4 < right[-1] and right[1] < right[-1], "guesses accepted for a growing --draft-vocab: %r" % right)
    small = small_lines(random.Random(5))
    want = unguessed(small, model=SMALL)
    for n in "200", "259", "270":
        held(want, small, "draft", "--draft-vocab", n, draft=SMALL, k=3, model=SMALL)
        held(want, small, "draft", "--draft-vocab", n, draft=cut_vocabulary(SMALL, 13), k=3, model=SMALL)


# --- ends of texts, of contexts and of the cache ---

@case
def ends():
    """texts end where they did: after any number of tokens, with the context, at an end token, at a stop string"""
    for n in (*range(0, 8), 17, 18):
        ids = held_alone("Once upon a time", "-n", str(n), "--temp", "0", "--ignore-eos",
                         runs=[("draft", PIP, 16), ("both", DRAFT, 5)])
        same(len(ids), n, "tokens")
    for c in (20, 33, 64, 65):
        for model in PIP, SMALL:
            ids = held_alone("Once", "-n", "-1", "-c", str(c), "--temp", "0", "--ignore-eos",
                             runs=[("draft", model, k) for k in (1, 5, 16, 0)] + [("lookup", model, 7)], model=model)
            check(0 < c - len(ids) < 30, "%d tokens in a context of %d" % (len(ids), c))
    line = {"prompt": "Once", "temperature": 0, "ignore_eos": True}
    lines = [{**line, "max_tokens": n} for n in (0, 1, 2, 3, 5, 8, 13)] + [line, {**line, "n": 2},
                                                                           {**line, "max_tokens": 5, "stop": "e"}]
    for model in PIP, SMALL:
        want = unguessed(lines, "-c", "90", model=model)
        for k in (1, 4, 16, 0):
            held(want, lines, "draft", "-c", "90", "-np", str(k + 1), draft=model, k=k, model=model)
    asks = [{"prompt": world.task(name, seed).prompt, "temperature": 0, "max_tokens": 40, **({"stop": "\n"} if i % 2 else {})}
            for i, name in enumerate(sorted(world.TASKS)) for seed in range(10 if O.all else 1)]
    want = unguessed(asks)
    check(sum(r.body["choices"][0]["finish_reason"] == "stop" for r in want.values()) > len(asks) // 2,
          "few answers end by themselves")
    for source, k in ("draft", 8), ("both", 3), ("lookup", 4), ("draft", 0):
        held(want, asks, source, k=k)


@case
def shifted():
    """--context-shift: beyond a full context the ids stay the same, for any number of kept tokens"""
    for model, draft in some(((SMALL, wrong(SMALL)), (PIP, DRAFT), (PIP, PIP), (SMALL, SMALL)), 4):
        for c, keep in ((32, 0), (48, 4), (33, -1))[:1 if model == PIP and not O.all else 3]:
            for temp in ("0", "0.9")[:1 if model == PIP and not O.all else 2]:
                runs = [("draft", draft, k)
                        for k in ((1, 2, 5, 16, 0) if O.all else (3, 16))] + [("lookup", draft, 6), ("both", draft, 4)]
                ids = held_alone("Once upon a", "-n", "150", "-c", str(c), "--context-shift", "--keep", str(keep), "-s",
                                 "3", "--temp", temp, "--ignore-eos", runs=runs, model=model)
                same(len(ids), 150, "tokens")


@case
def pressure():
    """guesses that do not fit a small cache are left out, preempted sequences run again, and the records stay the same"""
    lines = [{"prompt": "the hen and the " * 2 + "x" * i, "max_tokens": 60, "temperature": i % 2, "seed": i,
              "ignore_eos": True, "logprobs": 0} for i in range(16)]
    want = unguessed(lines, model=SMALL)
    for i, config in enumerate(some(("--kv-blocks 12 --kv-block-size 16 -np 16",
                                     "--kv-blocks 40 --kv-block-size 4 -b 20 -np 16",
                                     "--kv-blocks 150 --kv-block-size 1 --batch-order input -np 8",
                                     "--kv-blocks 105 --kv-block-size 1 -np 3", "--kv-blocks 14 --kv-block-size 8 -np 2"), 2)):
        _, calm = told(lines, *PLAIN, *config.split(), model=SMALL)
        check(stressed() or calm["preemptions"] > 0, config + ": no preemption without guesses")
        for source in SOURCES:
            for draft, k in ((SMALL, 1), (SMALL, 16), (wrong(SMALL), 16),
                             (SMALL, 0)) if O.all else ((SMALL, 16), (wrong(SMALL), 5)):
                held(want, lines, source, *config.split(), draft=draft, k=k, model=SMALL)
    _, s = told(lines, *PLAIN, "-np", "16", "--kv-block-size", "4", model=SMALL)
    for share in () if stressed() else (2, 4):        # of what a run holds that makes no room before it has to
        room = ("--kv-mem", str(int(s["kv_bytes_peak"]) // share), "--kv-block-size", "4", "-np", "16")
        bounded = unguessed(lines, *room, model=SMALL)
        for source, k in ("draft", 16), ("both", 8), ("lookup", 16):
            held(bounded, lines, source, *room, draft=SMALL, k=k, model=SMALL)
    for blocks in (9, 12):                            # of eight tokens, for one text of 64 or more
        held_alone("the hen", "-n", "55", "--temp", "0", "--ignore-eos", "--kv-block-size", "8", "--kv-blocks",
                   str(blocks), runs=[("draft", SMALL, 16), ("both", SMALL, 3)], model=SMALL)


@case
def narrow_windows():
    """a draft whose window leaves few rows for a step, or one, is read in smaller pieces, and the text stays the same"""
    lines = [{"prompt": "the hen %d and" % i, "max_tokens": 30, "temperature": 0, "ignore_eos": True} for i in range(12)]
    for name in some(("llama_window", "gpt-oss", "gemma2", "olmo2_window", "phi3", "llama4")):
        model = os.path.join(os.path.dirname(SMALL), name + ".gguf")
        for config in "-np 4 --kv-block-size 4 --kv-blocks 8 -c 32", "-np 8 --kv-block-size 1 --kv-blocks 45 -c 45":
            held(unguessed(lines, *config.split(), model=model), lines, "draft", *config.split(), "--draft-max", "5",
                 draft=model, k=4, model=model, must=False)
    window = os.path.join(os.path.dirname(SMALL), "llama_window.gguf")
    held_alone("a b", "-n", "20", "-c", "28", "--temp", "0", "--ignore-eos", "--kv-block-size", "1",
               runs=[("draft", window, 3), ("draft", window, 0)], model=window)


@case
def kept_prompts():
    """beside --prompt-cache, --resume and a stress build the records are the same"""
    lines = greedy_lines(8, 30) + sampled_lines(8, 20)
    want = unguessed(lines)
    for source in SOURCES:
        for _ in range(2):
            held(want, lines, source, "--prompt-cache", tmp(source + ".cache"), k=4)
    held_alone(prompt(4) * 2, "--prompt-cache", tmp("one.cache"), "-n", "60", "--temp", "0.7", "-s", "4", "--ignore-eos",
               runs=[(s, DRAFT, k) for s in SOURCES for k in (7, 0)])
    path, out = put("whole.jsonl", lines), tmp("out.jsonl")
    good("-m", PIP, "--batch", path, "-o", out, "-q", *PLAIN)
    whole = read(out)
    for more in (*by("both"), *forced(6)), by("lookup"), (*by("draft"), "--draft-p-min", "0.4"), PLAIN:
        with open(out, "wb") as f:
            f.write(whole[:whole.index(b"\n", len(whole) // 3) + 1])
        good("-m", PIP, "--batch", path, "-o", out, "-q", "--resume", *more)
        equal(records(read(out)), want, "resumed with " + " ".join(more))
    if O.stress:
        for source in SOURCES:
            for k in (1, 5, 16, 0):
                held(want, lines, source, k=k, binary=O.stress)


# --- anything with anything ---

def random_lines(rng, high):
    stems, lines = [[rng.randrange(10, high) for _ in range(rng.choice((1, 3, 16, 33, 70)))] for _ in range(3)], []
    for _ in range(rng.choice((1, 2, 6, 20))):
        ids = rng.choice(stems)[:rng.choice((1, 5, 16, 100))] + [rng.randrange(10, high)
                                                                 for _ in range(rng.choice((0, 1, 2, 8, 31)))]
        line = {"prompt": ids * rng.choice((1, 1, 3)), "max_tokens": rng.choice((0, 1, 2, 7, 33, 70, 100)),
                "temperature": rng.choice((0, 0, 0.7, 1.5)), "seed": rng.randrange(5)}
        for share, more in ((0.5, {"logprobs": rng.choice((0, 1, 5))}), (0.2, {"n": rng.choice((1, 2, 5))}),
                            (0.6, {"ignore_eos": True}), (0.2, {"priority": rng.randrange(3)}),
                            (0.2, {"stop": [rng.choice("aeiou"), "th"]}),
                            (0.2, {"repetition_penalty": 1.3, "presence_penalty": 0.5}),
                            (0.1, {"logit_bias": {"40": 3, "41": -100}})):
            if rng.random() < share:
                line.update(more)
        lines.append(line)
    return lines


def random_shape(rng):
    """Options that change how a file is run but no answer. A pool holds at least one full context of 256."""
    block = rng.choice((1, 2, 3, 8, 16, 64))
    shape = ["-np", rng.choice((1, 2, 3, 9, 17, 40)), "-t", rng.choice((1, 2, 3)), "-b",
             rng.choice((1, 2, 5, 17, 64, 512)), "--kv-block-size", block, "--cpu", rng.choice(levels(O.binary))]
    for share, more in ((0.5, ["--kv-blocks", -(-256 // block) + rng.choice((0, 1, 2, 5, 20))]),
                        (0.3, ["--batch-order", "input"]), (0.2, ["--batch-window", rng.choice((1, 2, 5))]),
                        (0.2, ["--repack", rng.choice(("on", "off"))])):
        if rng.random() < share:
            shape += more
    return [str(x) for x in shape]


def random_speculation(rng, drafts):
    """(source, draft, options)"""
    low, high = rng.choice((0, 0, 1, 2, 5, 16, 64)), rng.choice((1, 2, 3, 7, 16, 64))
    return rng.choice(SOURCES), rng.choice(drafts), ["--draft-min", str(min(low, high)), "--draft-max",
                                                     str(high)] + (["--draft-p-min", rng.choice(("0.1", "0.5", "0.95"))]
                                                                   if rng.random() < 0.2 else [])


@case
def random_files():
    """random files under random options give the answers of a run without guesses, line by line (--files N of them)"""
    groups, guesses = families(), 0
    for seed in some(range(O.seed, O.seed + O.files)):
        rng = random.Random(seed)
        group = rng.choice(groups)
        model, lines = rng.choice(group), random_lines(rng, 255)
        kind = rng.choice(([], ["-ctk", "q8_0", "-ctv", "q8_0"], ["-ctk", "q4_0", "-ctv", "q4_0"],
                           ["--dry-multiplier", "0.8"], ["--mirostat", "2"], ["--xtc-probability", "0.5"]))
        kind += rng.choice(([], [], ["-c", "150"]))
        r = run("-m", model, "--batch", put("in.jsonl", lines), "-q", *PLAIN, *kind, "-np", "1", "-t", "1")
        check(r.rc in (0, 1), repr(r))
        want = records(r.out)
        for _ in range(3):
            source, draft, more = random_speculation(rng, (model, model, wrong(model), rng.choice(group)))
            shape = random_shape(rng)
            got, s = told(lines, *by(source, draft), *more, *kind, *shape, model=model, rc=r.rc)
            equal(got, want, "--seed %d, %s, %s" % (seed, stem(model),
                                                    " ".join((*by(source, stem(draft)), *more, *kind, *shape))))
            guesses += sum(counts_of(s).guessed.values())
    check(guesses > 0, "no guess was made")


# --- distributions ---

WORDS = "Once upon a time, there was a"
WHOLE = ("--temp", "1", "--top-k", "0", "--top-p", "1", "--min-p", "0")
EXACT = ("-ctk", "f32", "-ctv", "f32")


def stories():
    if not os.path.exists(STORIES):
        raise Skip("no " + STORIES)
    return STORIES


@functools.cache
def logits_after(model, text):
    """The last row of --logits: float32, one for each token."""
    raw = array.array("f", good("-m", model, "-f", put("text.txt", text), "--logits", "-", "-q", *EXACT))
    return tuple(raw[-len(tokenizer(model)):])


class Exact:
    """What the first two tokens after a prompt must be, n times: expectations by what they are in an answer.
    ends: tokens that are out, by --ignore-eos."""

    def __init__(self, model, prompt, n, keep, ends=(2,)):
        self.words, self.model, self.keep, self.n, self.ends, self.known = spelt(model), model, keep, n, ends, set()
        ids = text_of(model, "-p", prompt)
        first = self.after(prompt.encode())
        self.no = {}
        for i, p in first.items():
            if p > first.get(self.no.get(self.words[i]), 0):
                self.no[self.words[i]] = i
        self.first, self.second, self.pairs, left = collections.Counter(), collections.Counter(), collections.Counter(), float(n)
        for i, p in first.items():
            self.first[self.words[i]] += n * p
        for i, p in first.items():
            text = prompt.encode() + self.words[i]
            if n * p < 5 or self.no[self.words[i]] != i or text_of(model, "-f", put("text.txt", text)) != ids + [i]:
                continue                               # too rare, or not what the text is read as: its pairs are in one cell
            for j, q in self.after(text).items():
                self.pairs[self.words[i], self.words[j]] += n * p * q
                self.second[self.words[j]] += n * p * q
            left -= n * p
            self.known.add(self.words[i])
        self.pairs["else"] = self.second["else"] = left

    def after(self, text):
        logits = list(logits_after(self.model, text))
        for i in self.ends:
            logits[i] = -math.inf
        return {i: p for i, p in softmax(logits, self.keep).items() if p > 0}

    def verdict(self, answers):
        """p of first tokens, of second tokens, of pairs; answers: (first, second) of each."""
        same(len(answers), self.n, "answers")
        known = lambda a, cell: cell if a in self.known else "else"
        return {"first tokens": fit(collections.Counter(a for a, _ in answers), self.first),
                "second tokens": fit(collections.Counter(known(a, b) for a, b in answers), self.second),
                "pairs": fit(collections.Counter(known(a, (a, b)) for a, b in answers), self.pairs)}


def two_of(record):
    return tuple(map(bytes, record.body["choices"][0]["logprobs"]["bytes"][:2]))


def draw(model, prompts, tokens, *args):
    """A file of these prompts, line i with seed i: records and counts."""
    lines = [{"prompt": x, "seed": i, "max_tokens": tokens, "logprobs": 0, "ignore_eos": True} for i, x in enumerate(prompts)]
    got, s = told(lines, *WHOLE, *EXACT, *args, model=model, timeout=3600)
    return got, counts_of(s)


def distribution(keep, lengths):
    """Against the exact distribution: plain answers, those with forced guesses, and, which must fail, those of the draft."""
    model, n = stories(), 20000 if O.all else 2000
    if stressed() or sanitized():
        raise Skip("too few guesses, or too slow, for as many answers")
    draft = patched(model, "blurred.gguf", blur(0.25))
    more = ("--top-k", str(keep))
    exact = Exact(model, WORDS, n, keep)
    plain, c = draw(model, [WORDS] * n, 4, *more, *PLAIN)
    guessed(c, "none", "plain")
    told_p, shares = {0: exact.verdict([two_of(r) for r in plain.values()])}, {}
    for k in lengths:
        got, c = draw(model, [WORDS] * n, k + 3, *more, *by("draft", draft), *forced(k), "-np", str(32 // k))
        guessed(c, "draft", "k = %d" % k)
        shares[k] = c.accepted["draft"] / c.guessed["draft"]
        told_p[k] = exact.verdict([two_of(r) for r in got.values()])
    for k, verdict in told_p.items():
        for what, p in verdict.items():
            check(p >= 1e-4, "k = %d: %s: p = %.2e" % (k, what, p))
        check(0.05 < shares.get(k, 0.5) < 0.95, "k = %d: %.3f of the guesses accepted" % (k, shares.get(k, 0)))
    # The controls. Guesses that are accepted always: the second token is the draft's, after the first of the model.
    own, _ = draw(draft, [WORDS] * n, 4, *more, *PLAIN)
    controls = {"the draft's own": exact.verdict([two_of(r) for r in own.values()])}
    for what, p in controls["the draft's own"].items():
        check(p < 1e-4, "the draft's %s in place of the model's: p = %.2e" % (what, p))
    ids = text_of(model, "-p", WORDS)
    firsts = [two_of(r)[0] for _, r in sorted(plain.items())]
    guess, _ = draw(draft, [ids + [exact.no[a]] for a in firsts], 1, *more, *PLAIN)
    controls["accepted always"] = verdict = exact.verdict([(a, two_of(r)[0]) for a, (_, r) in zip(firsts, sorted(guess.items()))])
    check(verdict["first tokens"] >= 1e-4, "the model's first tokens: p = %.2e" % verdict["first tokens"])
    for what in "second tokens", "pairs":
        check(verdict[what] < 1e-4, "%s with guesses accepted always: p = %.2e" % (what, verdict[what]))
    TABLE.append(("chi-square, %d seeds, %s: p" % (n, "top-k %d" % keep if keep else "temperature 1"),
                  {**{"k = %d (%.1f %% accepted)" % (k, 100 * shares[k]) if k else "plain": v for k, v in told_p.items()},
                   **controls}))


@case
def chi_square():
    """temperature 1, no other sampler: first and second tokens and pairs are distributed as the model says, not as the draft"""
    distribution(0, (1, 8) if O.all else (3,))


@case
def chi_square_of_twenty():
    """the same with --top-k 20"""
    distribution(20, (1, 8) if O.all else (3,))


def distribution_of_head(keep, lengths, model, ends, *args):
    """Against the exact distribution: answers with guesses of a draft head, and, which must fail, those of a model that is a little
    another one. args: options that add the head."""
    n = 20000 if O.all else 2000
    if stressed() or sanitized():
        raise Skip("too few guesses, or too slow, for as many answers")
    more, verdicts, shares = ("--top-k", str(keep)), {}, {}
    exact = Exact(model, WORDS, n, keep, ends)
    for k in lengths:
        got, c = draw(model, [WORDS] * n, k + 3, *args, *more, *by("head"), *forced(k), "-np", str(32 // k))
        guessed(c, "head", "k = %d" % k)
        shares[k] = c.accepted["head"] / c.guessed["head"]
        verdicts[k] = exact.verdict([two_of(r) for r in got.values()])
        check(0.05 < shares[k] < 0.95, "k = %d: %.3f of the guesses accepted" % (k, shares[k]))
        for what, p in verdicts[k].items():
            check(p >= 1e-4, "k = %d: %s: p = %.2e" % (k, what, p))
    other, _ = draw(patched(model, stem(model) + "-blurred.gguf", blur(0.25)), [WORDS] * n, 4, *more, *PLAIN)
    control = exact.verdict([two_of(r) for r in other.values()])
    for what, p in control.items():
        check(p < 1e-4, "another model's %s in place of the model's: p = %.2e" % (what, p))
    TABLE.append(("chi-square of heads, %s, %d seeds, %s: p" % (stem(model), n, "top-k %d" % keep if keep else "temperature 1"),
                  {**{"k = %d (%.1f %% accepted)" % (k, 100 * shares[k]): v for k, v in verdicts.items()}, "another model": control}))


@case
def chi_square_of_heads():
    """temperature 1, no other sampler: first and second tokens and pairs with guesses of a draft head are distributed as the model says"""
    distribution_of_head(0, (1, 3, 8) if O.all else (3,), NEAR, (268, 270))


@case
def chi_square_of_heads_of_twenty():
    """the same with --top-k 20"""
    distribution_of_head(20, (1, 3, 8) if O.all else (3,), NEAR, (268, 270))


@case
def chi_square_itself():
    """the test's own arithmetic: known quantiles, a true die that passes and a loaded one that does not"""
    for x, freedom, p in ((3.841459, 1, 0.05), (124.342113, 100, 0.05), (18.307038, 10, 0.05), (149.449253, 100, 0.001),
                          (2.705543, 1, 0.1), (67.32756, 100, 0.995), (1074.6794, 1000, 0.05)):
        check(abs(survival(x, freedom) / p - 1) < 1e-4, "survival(%g, %d) = %g" % (x, freedom, survival(x, freedom)))
    rng, fair = random.Random(1), {i: 1000.0 for i in range(6)}
    check(fit(collections.Counter(rng.randrange(6) for _ in range(6000)), fair) > 1e-4, "a fair die")
    check(fit(collections.Counter(rng.choice((0, 1, 2, 3, 4, 5, 5, 0, 1, 2, 3, 4, 5)) for _ in range(6000)), fair) < 1e-4,
          "a loaded die")
    check(fit(collections.Counter(rng.randrange(7) for _ in range(6000)), fair) == 0, "a seventh side")


@case
def logits_of_the_oracle():
    """the logits that the expectations come from are those of a forward pass in float64 that shares nothing with the program"""
    try:
        sys.path.insert(0, os.path.join(HERE, "tests"))
        import tiny_check
    except ImportError as e:
        raise Skip(str(e))
    oracle, words = tiny_check.read(stories()), spelt(stories())
    for text in [WORDS.encode()] + [WORDS.encode() + words[i] for i in (263, 310, 400)]:
        ids = text_of(STORIES, "-f", put("text.txt", text))
        p, q = softmax(logits_after(STORIES, text), 0), softmax(list(oracle.logits(ids)[-1]), 0)
        far = max(abs(p[i] - q[i]) for i in p)
        check(far < 1e-5, "%r: probabilities %.1e apart" % (text, far))


# --- what cannot be a draft ---

@case
def vocabularies():
    """a draft of another vocabulary is refused, exit 2, with the first token that differs; another architecture is not"""
    args = ("--raw", "-p", "Once", "-n", "4", "--temp", "0")
    batch = ("--batch", put("in.jsonl", [{"prompt": "Once", "max_tokens": 4}]))
    for no in (0, 1, 300, 1700, 3050):
        draft = patched(DRAFT, "token%d.gguf" % no, swap_tokens(no))
        for how in args, batch:
            refused(run("-m", PIP, "-md", draft, *how), 2, r"token%d\.gguf.*\b%d\b" % (no, no), "token %d, %s" % (no, how[0]))
    both = patched(patched(DRAFT, "two.gguf", swap_tokens(950)), "three.gguf", swap_tokens(900))
    refused(run("-m", PIP, "-md", both, *args), 2, r"\b900\b", "two tokens differ")
    for model, draft in ((PIP, SMALL), (SMALL, DRAFT), (SMALL, os.path.join(TINY, "qwen3.gguf")),
                         (os.path.join(TINY, "qwen2.gguf"), SMALL)):
        refused(run("-m", model, "-md", draft, *args), 2, os.path.basename(draft) + r".*\b0\b", "%s for %s"
                % (stem(draft), stem(model)))
    for group in families():
        names = list({stem(x).split("_")[0]: x for x in group}.values())
        for i, model in enumerate(names):
            held_alone("the hen", "-n", "12", "--temp", "0", "--ignore-eos", runs=[("draft", names[i - 1], 3)], model=model,
                       what=stem(names[i - 1]))


@case
def padded_vocabularies():
    """a draft with some tokens fewer or more works, and guesses only tokens that both have; one with many fewer is refused"""
    lines = small_lines(random.Random(3), 8, 60)
    for drop in (1, 13):
        short = cut_vocabulary(SMALL, drop)
        want = unguessed(lines, model=SMALL)
        for k in (1, 5, 0):
            held(want, lines, "draft", "-np", "4", draft=short, k=k, model=SMALL)
        lines_short = small_lines(random.Random(3), 8, 60, 255)
        want = unguessed(lines_short, model=short)
        for draft in SMALL, os.path.join(TINY, "llama_moe.gguf"):
            held(want, lines_short, "draft", "-np", "2", draft=draft, k=6, model=short)
    wide = [{"prompt": [259 + (7 * i) % 13 for i in range(20)], "max_tokens": 30, "temperature": 1.5, "seed": s,
             "ignore_eos": True} for s in range(4)]
    held(unguessed(wide, model=SMALL), wide, "draft", draft=cut_vocabulary(SMALL, 13), k=4, model=SMALL, must=False)
    refused(run("-m", SMALL, "-md", cut_vocabulary(SMALL, 140), "-p", "a", "-n", "4"), 2, "272.*132|132.*272", "140 tokens fewer")


@case
def no_drafts():
    """a draft that is missing, damaged, cut short or no model is exit 2 with its name; options out of range are named"""
    args = ("-m", PIP, "--raw", "-p", "Once", "-n", "4")
    data = read(DRAFT)
    os.mkdir(tmp("folder"))
    for name, draft in (("missing", tmp("missing.gguf")), ("text", put("text.gguf", b"these are words\n" * 9)),
                        ("empty", put("empty.gguf", b"")), ("folder", tmp("folder")),
                        ("cut", put("cut.gguf", data[:len(data) // 2])), ("head", put("head.gguf", data[:1000]))):
        refused(run(*args, "-md", draft), 2, os.path.basename(draft), name)
    for more, word in ((("--draft-max", "0"), "--draft-max"), (("--draft-max", "65"), "--draft-max"),
                       (("--draft-min", "65"), "--draft-min"), (("--draft-min", "-1"), "--draft-min"),
                       (("--draft-max", "x"), "--draft-max"), (("--draft-p-min", "1.5"), "--draft-p-min"),
                       (("--draft-p-min", "-0.1"), "--draft-p-min"), (("--draft-p-min", "nan"), "--draft-p-min"),
                       (("--draft-vocab", "-1"), "--draft-vocab"),
                       (("-md",), "-md|--model-draft"), (("--lookup-cache",), "--lookup-cache")):
        refused(run(*args, *more), 2, word, " ".join(more))


# --- the lookup cache ---

class Kept:
    """A text that repeats nothing of itself, and a lookup cache of it."""

    def __init__(self, name, model=SMALL, words="the hen", tokens=60):
        self.path, self.model, self.words = tmp(name), model, words
        self.how = ("-n", str(tokens), "-s", "5", "--temp", "1", "--ignore-eos")
        self.want, _, _ = alone(words, *PLAIN, *self.how, model=model)
        self.first, self.data = self.run(), read(self.path)
        self.whole = self.run()[0]
        with open(self.path, "wb") as f:
            f.write(self.data)

    def run(self, *more):
        ids, c, err = alone(self.words, "--lookup", *forced(4), "--lookup-cache", self.path, *self.how, *more, model=self.model)
        same(ids, self.want, "ids beside a lookup cache")
        return c, err

    def damaged(self, data, what, harmless=False):
        """The text stays, and a word is said; or, where the damage may be harmless, the guesses are those of the whole file."""
        with open(self.path, "wb") as f:
            f.write(data)
        c, err = self.run()
        word = os.path.basename(self.path).encode() in err
        check(word or (harmless and c[2:4] == self.whole[2:4]), "%s: nothing is said: %r, %r" % (what, c, err))
        return word


@case
def lookup_cache():
    """a second run finds its text in the cache, one shot and in a batch; a grown cache still serves"""
    for model, words in (SMALL, "the hen"), (PIP, "Once upon a time"):
        kept = Kept("used%d.lookup" % (model == PIP), model, words)
        before, after = kept.first[0], kept.run()[0]
        check(after.accepted["lookup"] > before.accepted["lookup"] + 20 and after.steps < before.steps,
              "%r without the cache, %r with it" % (before, after))
        lines = [{"prompt": kept.words, "max_tokens": 60, "seed": 5, "temperature": 1, "ignore_eos": True, "logprobs": 2}]
        want = unguessed(lines, model=model)
        c = held(want, lines, "lookup", "--lookup-cache", kept.path, k=4, model=model)
        check(c.accepted["lookup"] > before.accepted["lookup"] + 20, "a batch beside the cache: %r" % (c,))
        others = small_lines(random.Random(7), 20) if model == SMALL else sampled_lines(20, 40)
        for _ in range(2):
            held(unguessed(others, model=model), others, "lookup", "--lookup-cache", kept.path, k=3, model=model)
        again = kept.run()[0]
        check(again.accepted["lookup"] > before.accepted["lookup"], "after other texts: %r" % (again,))


@case
def lookup_cache_damaged():
    """a damaged or cut lookup cache is reported and not used: the text stays the same, exit 0"""
    kept, rng = Kept("damaged.lookup"), random.Random(1)
    size = len(kept.data)
    check(size > 100, "a cache of %d bytes" % size)
    spots = range(size) if O.all and size < 5000 else sorted({*range(0, 64, 5), size - 1,
                                                              *(rng.randrange(size) for _ in range(1000 if O.all else 25))})
    words = [kept.damaged(kept.data[:at] + bytes([kept.data[at] ^ (1 << rng.randrange(8))]) + kept.data[at + 1:],
                          "byte %d of %d" % (at, size), harmless=True) for at in some(spots)]
    check(sum(words) > 0.7 * len(words), "a word about %d of %d bytes" % (sum(words), len(words)))
    for end in some(sorted({1, 2, 3, 4, 7, 8, 9, 16, 24, 31, 32, 33, 40, 64, 100, size // 2, size - 8, size - 1,
                            *(rng.randrange(1, size) for _ in range(300 if O.all else 8))})):
        kept.damaged(kept.data[:end], "%d of %d bytes" % (end, size), harmless=end > size - 64)
    for more in b"\0", kept.data, bytes(1000):
        kept.damaged(kept.data + more, "%d bytes more" % len(more), harmless=True)


@case
def lookup_cache_foreign():
    """a file that is no lookup cache stays as it is; one of another vocabulary is not used"""
    kept = Kept("foreign.lookup")
    for name, data in ("words", b"these are my notes\n"), ("a model", read(SMALL)), ("zeros", bytes(4096)), ("JSON", b"{}\n"):
        kept.damaged(data, name)
        same(read(kept.path) == data, True, name + " as it was")
    for model, words in ((PIP, "Once"), (os.path.join(TINY, "qwen3.gguf"), "the hen")):
        other = Kept("other.lookup", model, words)
        with open(other.path, "wb") as f:
            f.write(kept.data)
        _, err = other.run()
        check(b"other.lookup" in err, "%s: nothing is said of another vocabulary's file: %r" % (stem(model), err))
        os.unlink(other.path)
    lines = [{"prompt": "the hen", "max_tokens": 20, "temperature": 0}]
    want = unguessed(lines, model=SMALL)
    path = put("batch.lookup", b"these are my notes\n")
    r = run("-m", SMALL, "--batch", put("in.jsonl", lines), "--lookup-cache", path)
    check(r.rc == 0 and b"batch.lookup" in r.err, repr(r))
    equal(records(r.out), want, "a batch beside notes")
    same(read(path), b"these are my notes\n", "the notes")
    left = [x for x in os.listdir(TMP) if ".lookup" in x and not x.endswith(".lookup")]
    same(left, [], "files left beside the caches")


@case
def lookup_cache_disk():
    """a cache that cannot be written gives a warning or exit 2 or 3, and never changes the text or the old cache"""
    kept = Kept("disk.lookup")
    for path in "/nonexistent/lookup", tmp(""), "/dev/full":
        r = run("-m", SMALL, "-p", kept.words, "--ids", "--lookup-cache", path, *kept.how)
        check(r.rc in (0, 2, 3) and r.err, "%s: %r" % (path, r))
        check(r.rc == 2 or [int(x) for x in r.out.split()] == kept.want, "%s: %r" % (path, r))
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (len(kept.data) // 2, len(kept.data) // 2))
    r = run("-m", SMALL, "-p", "another hen", "--ids", "-n", "100", "--temp", "1.5", "-s", "9", "--ignore-eos",
            "--lookup-cache", kept.path, preexec_fn=limit)
    check(r.rc in (0, 3) and b"disk.lookup" in r.err, "no room on the disk: %r" % r)
    same(read(kept.path), kept.data, "the cache that was there")


# --- the summary ---

@case
def summaries():
    """the summary of a run adds up: tokens, steps, guesses, shares by depth; without guesses there is none, and none with -q"""
    for model, args, n in ((DRAFT, ("--draft-max", "5", "--draft-min", "5"), 200), (PIP, forced(16), 120),
                           (DRAFT, forced(1), 50)):
        ids, c, err = alone("Once upon a time", "-n", str(n), "--temp", "0", "--ignore-eos", "-md", model, "--lookup", *args)
        m, most = SPEC.search(err), int(args[-1] if args[-2] == "--draft-max" else args[1])
        check(m, "no line about speculation: %r" % err)
        check(abs(float(m.group(4)) - c.tokens / c.steps) < 0.0051, "%d tokens in %d steps are not %s a step"
              % (c.tokens, c.steps, m.group(4).decode()))
        check(n - 4 <= c.tokens <= n, "%d tokens of %d: the first are not timed" % (c.tokens, n))
        same(c.tokens, c.steps + sum(c.accepted.values()), "tokens, and steps with what was accepted")
        for kind, made, right, share, depths, spent, worth in KIND.findall(err):
            check(0 <= int(right) <= int(made), repr(err))
            check(abs(float(share) - 100 * int(right) / int(made)) < 0.051, "%s: %s of %s are not %s %%"
                  % (kind.decode(), right, made, share))
            shares = [int(x) for x in depths.split()]
            check(0 < len(shares) <= most and all(0 <= x <= 100 for x in shares), "shares by depth: %r" % shares)
            same(bool(spent), kind == b"draft", "time of drafting: %r" % err)
            check(not worth or m.group(1), "what one source was worth where the whole is not known: %r" % err)
        check(not m.group(1) or float(m.group(1)) <= float(m.group(4)) and not m.group(5),
              "faster than its tokens a step: %r" % err)
    for args in PLAIN, ("-md", DRAFT, *PLAIN), ("--lookup",), ():
        ids, _, err = alone("Once upon a time", "-n", "30", "--temp", "0", *args)
        if "-md" not in args and args != ("--lookup",) and args:
            check(not SPEC.search(err) and not KIND.search(err) and b"speculation" not in err,
                  "told of speculation without any: %r" % err)
        quiet = run("-m", PIP, "--raw", "-p", "Once upon a time", "-n", "30", "--temp", "0", "-q", *args)
        same((quiet.rc, quiet.err), (0, b""), "-q")


@case
def summaries_of_batches():
    """the summary of a batch counts the same way, as JSON and as text, and its counts are those of its lines"""
    lines = [{"prompt": prompt(i), "max_tokens": 40, "temperature": 0, "ignore_eos": True} for i in range(6)]
    for source, k in ("draft", 4), ("both", 3), ("lookup", 6):
        got, s = told(lines, *by(source), *forced(k))
        c = counts_of(s)
        guessed(c, source, source)
        same((c.tokens, c.tokens - len(lines)), (240, c.steps + sum(c.accepted.values())),
             "tokens; all but the first of each, and steps with what was accepted")
        check(c.steps < c.tokens and (c.speed is None or 0 < c.speed <= c.tokens / c.steps), repr(c))
        r = run("-m", PIP, "--batch", put("in.jsonl", lines), *by(source), *forced(k))
        check(SPEC.search(r.err), "no line about speculation: %r" % r.err)
        guessed(counts_in(r.err, 0), source, source + ", as text")
    _, s = told(lines, *PLAIN)
    same(counts_of(s)._replace(speed=0), Counts(240, counts_of(s).steps, dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0),
                                                0), "without guesses")
    r = run("-m", PIP, "--batch", put("in.jsonl", lines), *PLAIN)
    check(b"speculation" not in r.err and not KIND.search(r.err), "told of speculation without any: %r" % r.err)


@case
def documented():
    """--help tells every option"""
    text = " ".join(good("--help").decode().split())
    for name in ("--head", "--no-head", "-md, --model-draft", "--draft-max", "--draft-min", "--draft-p-min", "--draft-vocab", "--lookup",
                 "--no-lookup", "--lookup-cache"):
        check(re.search(re.escape(name) + r"[ ,]", text), name + " is not in --help")


def print_table():
    """Prints the guesses of each comparison."""
    print("| run | lines | tokens | steps | draft | head | lookup | speed |\n|---|---|---|---|---|---|---|---|")
    share = lambda c, kind: "%d of %d (%.1f %%)" % (c.accepted[kind], c.guessed[kind],
                                                    100 * c.accepted[kind] / c.guessed[kind]) if c.guessed[kind] else ""
    for row in TABLE:
        if len(row) == 3:
            what, n, c = row
            print("| %s | %d | %d | %d | %s | %s | %s | %s |" % (what.replace(TMP + "/", ""), n, c.tokens, c.steps,
                                                            share(c, "draft"), share(c, "head"), share(c, "lookup"),
                                                            "%.2f" % c.speed if c.speed else "-"))
    for row in TABLE:
        if len(row) == 2:
            print("%s: %s" % (row[0], "; ".join("%s: %s" % (k, ", ".join("%s %.3g" % x for x in v.items())) for k,
                                                v in row[1].items())))


def main():
    global O
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter,
                                 epilog=__doc__)
    ap.add_argument("binary")
    ap.add_argument("--stress", type=os.path.abspath, help="a stress build to hold against BINARY")
    ap.add_argument("--all", action="store_true")
    ap.add_argument("--prompts", type=int)
    ap.add_argument("--files", type=int)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("words", nargs="*")
    O = ap.parse_intermixed_args()
    O.binary = os.path.abspath(O.binary)
    O.prompts = O.prompts or (500 if O.all else 8)
    O.files = O.files or (300 if O.all else 6)
    failed = walk("spec", O.words, TMP, print_table if O.all else None)
    sys.exit(failed)


main()
