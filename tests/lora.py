#!/usr/bin/env python3
"""Tests of adapters (LoRA) by running the command: what names them, what they change, what they leave alone.

    python3 tests/lora.py ./llmrun [WORD ...]     cases whose name holds a word, else all

The adapters are those of data/lora, whose logits t_lora.c holds against merged weights in float64 (gen/tiny_lora.py).
"""
import json, os, struct, sys
from kit import arguments, begin, case, check, done, finish, records, refused, same, scratch, walk

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "gen"))
TINY, LORA = os.path.join(HERE, "data", "tiny"), os.path.join(HERE, "data", "lora")
SMALL = os.path.join(TINY, "llama.gguf")
ALL, QV, WIDE = (os.path.join(LORA, n + ".gguf") for n in ("llama_all", "llama_qv", "llama_wide"))
TMP, tmp, put = scratch("lora")
O = None                               # options of this script
PROMPT = "Once upon a time there was a cat who sat on the mat"


def run(*args, timeout=60):
    return finish(begin([O.binary, *args]), timeout)


def good(*args, **kw):
    return done(run(*args, "-q", **kw), args)


def text(*args, model=SMALL):
    return good("-m", model, "--raw", "-p", PROMPT, "-n", "12", "--temp", "0", "--ids", *args)


def logits(*args, model=SMALL):
    good("-m", model, "--raw", "-p", PROMPT, "--logits", tmp("logits.f32"), *args)
    with open(tmp("logits.f32"), "rb") as f:
        return f.read()


def lora(*specs):
    return [x for s in specs for x in ("--lora", s)]


def batch(lines, *args, rc=0, name="in.jsonl"):
    """The records of a batch in the order of its lines."""
    r = run("-m", SMALL, "--batch", put(name, lines), "--raw", "-q", "-s", "1", *args)
    same(r.rc, rc, "batch %s: %r" % (" ".join(args), r))
    return [one for _, one in sorted(records(r.out).items())]


def line(**more):
    return {"prompt": PROMPT, "max_tokens": 8, "temperature": 0, "logprobs": 3, **more}


# --- lines of a batch ------------------------------------------------------------------------------------------------
KEYS = [({}, (ALL, QV + "=0.5")), ({"lora": "llama_all"}, (ALL,)), ({"lora": "llama_qv"}, (QV + "=0.5",)), ({"lora": []}, ()),
        ({"lora": [{"id": 0, "scale": -0.25}]}, (ALL + "=-0.25",)), ({"lora": None}, (ALL, QV + "=0.5")),
        ({"lora": ["llama_qv", {"name": "llama_all", "scale": 2}]}, (ALL + "=2", QV + "=0.5")),
        ({"lora": [{"id": 1, "scale": 0}, {"id": 0}]}, (ALL,))]


@case
def lines():
    """a line of a batch has the answer, to the bit, of a run with the adapters that it names alone"""
    own = [batch([line()], *lora(*specs))[0].body["choices"] for _, specs in KEYS]
    check(len({json.dumps(c) for c in own}) >= 6, "the adapters of this test change too little")
    for args in ("-np", "1"), ("-np", "8"), ("-np", "8", "-b", "3"), ("-np", "3", "--kv-block-size", "2"):
        got = batch([line(**key) for key, _ in KEYS] * 2, *lora(ALL, QV + "=0.5"), *args)
        for i, r in enumerate(got):
            same(r.body["choices"], own[i % len(KEYS)], "%s: %s" % (" ".join(args), KEYS[i % len(KEYS)][0]))


@case
def unknown():
    """a line that names an adapter which is not there is an error of that line"""
    got = batch([line(lora="nobody"), line(), line(lora=[{"id": 2}]), line(lora=7)], *lora(ALL, QV), rc=1)
    same([bool(r.error) for r in got], [True, False, True, True], "errors")
    for r, word in zip((got[0], got[2], got[3]), ("\"nobody\", expected one of 2 adapters", "number 2", "found a number")):
        check(word in str(r.error), "%r: want %r" % (r.error, word))
    check("no adapter is loaded" in str(batch([line(lora="llama_all")], rc=1)[0].error), "without --lora")
    got = batch([line(lora=[])])
    same(got[0].body["choices"], batch([line()])[0].body["choices"], "no adapter where none is loaded")


@case
def scales():
    """a scale of 0 leaves the model as it is, a name of a file is one with or without its scale; several files add up"""
    plain = logits()
    same(logits(*lora(ALL + "=0")), plain, "--lora FILE=0")
    same(logits(*lora(ALL)), logits(*lora(ALL + "=1")), "--lora FILE=1")
    same(logits("--lora-scaled", ALL + ":1"), logits(*lora(ALL)), "--lora-scaled FILE:1")
    check(logits(*lora(ALL, QV)) not in (plain, logits(*lora(ALL))), "the second adapter changes nothing")


# --- what must not be shared -----------------------------------------------------------------------------------------
@case
def prompt_cache():
    """blocks of a prompt cache on disk serve runs with the same adapters and scales alone"""
    cache, runs = tmp("cache.gguf"), [(), (ALL,), (ALL + "=0.5",), (QV,), (ALL, QV)]
    want = [text(*lora(*r)) for r in runs]
    for turn in range(2):
        for i, r in enumerate(runs):
            got = batch([line()], *lora(*r), "--prompt-cache", cache, "--kv-block-size", "4")[0]
            cached = got.body["usage"].get("prompt_tokens_details", {}).get("cached_tokens", 0)
            check((cached > 0) == (turn == 1), "turn %d, %s: %d tokens of the prompt cached" % (turn, r, cached))
            same(text(*lora(*r), "--prompt-cache", cache, "--kv-block-size", "4"), want[i], "turn %d, %s" % (turn, r))


@case
def resume():
    """results of a batch are gone on with only by a run with the same adapters and scales"""
    lines = [line(seed=i) for i in range(3)]
    path, out = put("resume.jsonl", lines), tmp("out.jsonl")
    args = ["-m", SMALL, "--batch", path, "--raw", "-q", "-s", "1", "-o", out]
    good(*args, *lora(ALL))
    good(*args, *lora(ALL), "--resume")
    for other in lora(ALL + "=0.5"), lora(QV), []:
        r = run(*args, *other, "--resume")
        check(r.rc == 2, "--resume with other adapters: %r" % r)


@case
def speculation():
    """guesses, which the draft model makes without adapters, change no text"""
    for args in (), lora(ALL), lora(ALL, QV + "=-1"):
        want = text("--no-lookup", *args)
        for how in ("--lookup",), ("-md", SMALL, "--draft-max", "4"), ("-md", os.path.join(TINY, "llama_q4_k_m.gguf")):
            same(text(*how, *args), want, "%s %s" % (how, args))


# --- files that are refused ------------------------------------------------------------------------------------------
def gguf(keys, tensors):
    """A GGUF file: keys name -> (type, bytes), tensors name -> (dims, type, bytes)."""
    def string(s):
        return struct.pack("<Q", len(s)) + s.encode()
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    out += b"".join(string(k) + struct.pack("<I", t) + v for k, (t, v) in keys.items())
    at, data = 0, b""
    for name, (dims, kind, raw) in tensors.items():
        out += string(name) + struct.pack("<I%dQIQ" % len(dims), len(dims), *dims, kind, at)
        data += raw + b"\0" * (-len(raw) % 32)
        at = len(data)
    return out + b"\0" * (-len(out) % 32) + data


def word(s):
    return 8, struct.pack("<Q", len(s)) + s.encode()


def numbers(*dims, value=0.01):
    n = 1
    for d in dims:
        n *= d
    return list(dims), 0, struct.pack("<%df" % n, *([value] * n))


KEYS_OF = {"general.architecture": word("llama"), "general.type": word("adapter"), "adapter.type": word("lora"),
           "adapter.lora.alpha": (6, struct.pack("<f", 8))}
Q = "blk.0.attn_q.weight"
PAIR = {Q + ".lora_a": numbers(48, 2), Q + ".lora_b": numbers(2, 48)}


@case
def hostile():
    """an adapter of another model, of another shape, with numbers that are none, without a pair: exit 2 and one line that says so"""
    def keys(**changed):
        return {k: v for k, v in {**KEYS_OF, **{n.replace("_", "."): v for n, v in changed.items()}}.items() if v}
    files = {
        "no adapter": (gguf(keys(general_type=word("model")), PAIR), 'general.type is "model", expected an adapter'),
        "another kind": (gguf(keys(adapter_type=word("control")), PAIR), 'adapter.type is "control", expected lora'),
        "another architecture": (gguf(keys(general_architecture=word("qwen2")), PAIR), 'architecture "qwen2", expected "llama"'),
        "no alpha": (gguf(keys(adapter_lora_alpha=(8, word("8")[1])), PAIR), "adapter.lora.alpha is of type string, expected f32"),
        "huge alpha": (gguf(keys(adapter_lora_alpha=(6, struct.pack("<f", 1e30))), PAIR), "adapter.lora.alpha is 1[.0-9]*e\\+30, expected"),
        "alpha that is none": (gguf(keys(adapter_lora_alpha=(6, struct.pack("<f", float("nan")))), PAIR), "adapter.lora.alpha is -?nan"),
        "no pair": (gguf(KEYS_OF, {Q + ".lora_a": PAIR[Q + ".lora_a"]}), "has no blk.0.attn_q.weight.lora_b beside it"),
        "no tensors": (gguf(KEYS_OF, {}), "holds no matrix"),
        "a strange tensor": (gguf(KEYS_OF, {**PAIR, "blk.0.attn_norm.weight": numbers(48)}), "is neither NAME.lora_a nor NAME.lora_b"),
        "another layer": (gguf(KEYS_OF, {k.replace("blk.0", "blk.9"): v for k, v in PAIR.items()}), "blk.9.attn_q.weight, which"),
        "a norm": (gguf(KEYS_OF, {"blk.0.attn_norm.weight.lora_a": numbers(48, 1), "blk.0.attn_norm.weight.lora_b": numbers(1, 1)}),
                   "blk.0.attn_norm.weight, which no adapter can change"),
        "rows too long": (gguf(KEYS_OF, {**PAIR, Q + ".lora_a": numbers(49, 2)}), "lora_a is 49 x 2 x 1, expected rows of 48"),
        "too few rows": (gguf(KEYS_OF, {**PAIR, Q + ".lora_b": numbers(2, 47)}), "lora_b is 2 x 47 x 1, expected 2 x 48 x 1"),
        "two ranks": (gguf(KEYS_OF, {**PAIR, Q + ".lora_b": numbers(3, 48)}), "lora_b is 3 x 48 x 1, expected 2 x 48 x 1"),
        "rank 0": (gguf(KEYS_OF, {Q + ".lora_a": numbers(48, 0), Q + ".lora_b": numbers(0, 48)}), "dimension"),
        "NaN": (gguf(KEYS_OF, {**PAIR, Q + ".lora_a": numbers(48, 2, value=float("nan"))}), "has -?nan in row 0, column 0"),
        "infinity": (gguf(KEYS_OF, {**PAIR, Q + ".lora_b": numbers(2, 48, value=float("inf"))}), "has inf in row 0, column 0"),
        "stacks": (gguf(KEYS_OF, {Q + ".lora_a": numbers(48, 2, 2), Q + ".lora_b": numbers(2, 48, 2)}), "48 x 2 x 2"),
        "whole numbers": (gguf(KEYS_OF, {**PAIR, Q + ".lora_a": ([48, 2], 26, b"\0" * 384)}), "has type i32, expected a type of weights"),
        "an activated LoRA": (gguf({**KEYS_OF, "adapter.alora.invocation_tokens": (9, struct.pack("<IQI", 4, 1, 5))}, PAIR),
                              "activated LoRA"),
        "cut": (gguf(KEYS_OF, PAIR)[:-100], "at byte"),
        "empty": (b"", "is empty"),
        "no file": (None, "No such file"),
    }
    for name, (data, why) in files.items():
        path = put("bad.gguf", data) if data is not None else tmp("missing.gguf")
        refused(run("-m", SMALL, "--raw", "-p", "a", "-n", "1", "--lora", path, "-q"), 2, why, name)
    good("-m", SMALL, "--raw", "-p", "a", "-n", "1", "--lora", put("good.gguf", gguf(KEYS_OF, PAIR)))
    refused(run("-m", SMALL, "--raw", "-p", "a", "-n", "1", *lora(ALL, ALL), "-q"), 2, "two adapters are named llama_all", "twice")
    refused(run("-m", SMALL, "--raw", "-p", "a", "-n", "1", "--lora", ALL + "=x", "-q"), 2, "the scale is", "no scale")
    refused(run("-m", SMALL, "--raw", "-p", "a", "-n", "1", "--lora", SMALL, "-q"), 2, "expected an adapter", "a model")
    refused(run("-m", ALL, "--raw", "-p", "a", "-n", "1", "-q"), 2, "adapter", "an adapter as a model")


if __name__ == "__main__":
    O = arguments("binary")
    O.binary = os.path.abspath(O.binary)
    sys.exit(walk("lora", O.words, TMP))
