#!/usr/bin/env python3
"""Tests of adapters (LoRA) by running the command: what names them, what they change, what they leave alone.

    python3 tests/lora.py ./llmrun [WORD ...]     cases whose name holds a word, else all

The adapters are those of data/lora, whose logits t_lora.c holds against merged weights in float64 (gen/tiny_lora.py).
"""
import json, os, random, re, struct, sys
import checkpoint as c
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


@case
def inspect():
    """--inspect says what an adapter is, and -v what a run has loaded"""
    r = run("-m", ALL, "--inspect")
    check(r.rc == 0 and b"LoRA of rank 4, alpha 8, for 15 matrices" in r.out, "%r" % r)
    same(json.loads(good("-m", ALL, "--inspect", "--json"))["runs"], False, "runs")
    r = run("-m", SMALL, "--raw", "-p", "a", "-n", "1", "-v", *lora(ALL + "=0.5"))
    check(b"llama_all.gguf: rank 4, scale 0.5, 15 matrices" in r.err, "%r" % r)


@case
def bench():
    """--bench --lora measures each step without adapters, too: rows of all tests have a speedup, -v counts the steps with them"""
    args = ["--bench", "-m", SMALL, "-p", "8", "-n", "3", "-npl", "2", "-r", "1", "-t", "1", "--no-warmup", "-o", "json"]
    r = run(*args, *lora(ALL, QV + "=0.5"), "-v")
    rows = json.loads(done(r, args))
    same([(row["n_prompt"], row["n_gen"]) for row in rows], [(8, 0), (0, 3)], "tests")
    check(all(row["speedup"] > 0 and row["avg_ts"] > 0 for row in rows), "speedup: %r" % rows)
    check(b"2 adapters" in r.out, "model_type: %r" % rows)
    same([int(n) for n in re.findall(rb": (\d+) steps", r.err)], [1, 3], "steps by stage: %r" % r.err)
    rows = json.loads(good(*args))
    same(rows[0]["speedup"], None, "speedup of a prompt without adapters")


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


# --- folders of PEFT -------------------------------------------------------------------------------------------------
def floats(raw):
    return struct.unpack("<%df" % (len(raw) // 4), raw)


WIDEN = {"F32": floats, "F16": lambda raw: struct.unpack("<%de" % (len(raw) // 2), raw),
         "BF16": lambda raw: floats(b"".join(b"\0\0" + raw[i:i + 2] for i in range(0, len(raw), 2)))}


def product(b, a, rows, cols, rank):
    """B [rows, rank] times A [rank, cols], row by row."""
    return [sum(b[r * rank + k] * a[k * cols + c] for k in range(rank)) for r in range(rows) for c in range(cols)]


def peft(name, family, words, rank=3, alpha=6.0, ranks=None, alphas=None, dtype="F32", prefix="base_model.model.", tensors=None, **more):
    """A folder of PEFT for the modules of a family whose names hold one of the words; returns it and the tensors of merged weights."""
    path, rng, own = tmp(name), random.Random(name), {}
    base = c.tensors_of(family, "F32")
    merged = dict(base)
    for tensor, (kind, shape, raw) in base.items():
        module = tensor[:-7]
        if not tensor.endswith(".weight") or len(shape) != 2 or not any(w in module for w in words):
            continue
        r, x = (next((v for k, v in (of or {}).items() if re.match(r"(.*\.)?(%s)$" % k, module)), preset)   # PEFT's get_pattern_key()
                for of, preset in ((ranks, rank), (alphas, alpha)))
        turned = "embed" in module or family == "gpt2"                     # [tokens, width]; Conv1D: [in, out]
        rows, cols = shape[::-1] if turned else shape
        ends = (".lora_embedding_A", ".lora_embedding_B") if "embed" in module else (".lora_A.weight", ".lora_B.weight")
        raws = [c.PACK[dtype](c.draw(rng, sides, 0.3)) for sides in ((r, cols), (rows, r))]
        own.update({prefix + module + end: (dtype, sides, v) for end, sides, v in zip(ends, ((r, cols), (rows, r)), raws)})
        delta = product(WIDEN[dtype](raws[1]), WIDEN[dtype](raws[0]), rows, cols, r)
        s = x / (r ** 0.5 if more.get("use_rslora") else r)
        if turned:
            delta = [delta[k * cols + i] for i in range(cols) for k in range(rows)]
        merged[tensor] = ("F32", shape, c.f32([w + s * d for w, d in zip(floats(raw), delta)]))
    c.put(path, "adapter_model.safetensors", c.safetensors(own if tensors is None else tensors(own)))
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": alpha, "target_modules": [w.strip(".") for w in words], "bias": "none",
              "rank_pattern": ranks or {}, "alpha_pattern": alphas or {}, "modules_to_save": None, "use_dora": False, **more}
    c.put(path, "adapter_config.json", {k: v for k, v in config.items() if v != "absent"})
    return path, merged


def as_file(folder, out):
    good("-m", folder, "--quantize", "auto", "-o", tmp(out))
    return tmp(out)


def nmse(got, want):
    got, want = floats(got), floats(want)
    return sum((a - b) ** 2 for a, b in zip(got, want)) / sum(b * b for b in want)


LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
PEFT = [("llama", LINEAR, {}), ("llama", ["q_proj", "k_proj"], {"use_rslora": True, "rank": 5}), ("qwen3", LINEAR + ["lm_head"], {"dtype": "BF16"}),
        ("llama", LINEAR, {"ranks": {"v_proj": 2, "layers.1.self_attn.q_proj": 7}, "alphas": {"down_proj": 1.0}, "dtype": "F16"}),
        ("llama", LINEAR, {"ranks": {r"layers\.(0|2)\..*_proj": 2, r".*\.mlp\..*": 5}, "alphas": {"(q|k)_proj": 3.0},
                           "target_modules": r"model\.layers\.\d+\.(self_attn|mlp)\.\w+"}),
        ("mixtral", ["q_proj", "w1", "w2", "w3", "block_sparse_moe.gate"], {}), ("phi3", ["qkv_proj", "gate_up_proj", "o_proj"], {}),
        ("gpt2", ["c_attn", "c_fc", "attn.c_proj"], {}), ("baichuan", ["W_pack"], {}), ("gemma2", ["q_proj", "down_proj"], {}), ("llama", ["q_proj", "embed_tokens"], {})]


@case
def folders():
    """logits with a folder of PEFT are those of merged weights, for a model in a folder and in a file; both to the bit the same"""
    for i, (family, words, more) in enumerate(PEFT):
        base, whole = tmp("base-%d" % i), tmp("merged-%d" % i)
        adapter, merged = peft("peft-%d" % i, family, words, **more)
        c.write(base, family, "F32")
        c.write(whole, family, "F32", tensors=merged)
        want, plain = logits(model=whole), logits(model=base)
        got = logits(*lora(adapter), model=base)
        check(nmse(plain, want) > 1e-4, "%s: the adapter changes too little" % family)
        check(nmse(got, want) < 1e-6, "%s, %s: NMSE %.2g" % (family, more, nmse(got, want)))
        same(logits(*lora(adapter), model=as_file(base, "base-%d.gguf" % i)) == got, True, "%s: the file and the folder" % family)


@case
def folders_of_pairs():
    """an adapter of T5, whose encoder and decoder each have layers, gives the answer of merged weights"""
    adapter, merged = peft("peft-t5", "t5", ["SelfAttention.q", "SelfAttention.v", "EncDecAttention.k"])
    c.write(tmp("base-t5"), "t5", "F32")
    c.write(tmp("merged-t5"), "t5", "F32", tensors=merged)
    want, plain = text(model=tmp("merged-t5")), text(model=tmp("base-t5"))
    check(want != plain, "the adapter changes too little")
    same(text(*lora(adapter), model=tmp("base-t5")), want, "the folder")
    same(text(*lora(adapter), model=as_file(tmp("base-t5"), "base-t5.gguf")), want, "the file")


@case
def folders_refused():
    """DoRA and all else that changes more than products, ranks and names that do not fit: exit 2 and one line that names it"""
    c.write(tmp("base"), "llama", "F32")
    rows = [({"use_dora": True}, "use_dora: DoRA"), ({"peft_type": "IA3"}, 'peft_type is "IA3", expected "LORA"'),
            ({"peft_type": "absent"}, "peft_type is"), ({"bias": "all"}, 'bias is "all", expected "none"'),
            ({"modules_to_save": ["lm_head"]}, "whole modules"), ({"init_lora_weights": "pissa_niter_4"}, "pissa_niter_4"),
            ({"r": 4}, "has rank 3, expected 4"), ({"r": 0}, "r is 0, expected at least 1"), ({"r": "absent"}, "r is -1"),
            ({"lora_alpha": 1e30}, "lora_alpha is 1e\\+30"), ({"lora_alpha": "absent"}, "lora_alpha is -?nan"),
            ({"rank_pattern": {"q_proj": 5}}, "has rank 3, expected 5"), ({"rank_pattern": {"layers.(": 3}}, "rank_pattern: missing closing parenthesis at byte 8 of the regular expression"),
            ({"alpha_pattern": {"q_proj": "x"}}, "is no number"), ({"target_modules": ["v_proj"]}, "no module of target_modules"), ({"target_modules": "q_proj"}, "no module of target_modules"),
            ({"target_modules": "*"}, "target_modules: quantifier does not follow a repeatable item at byte 0"),
            ({"lora_bias": True}, "biases"), ({"alora_invocation_tokens": [1, 2]}, "activated LoRA")]
    for i, (more, why) in enumerate(rows):
        path, _ = peft("refused-%d" % i, "llama", ["q_proj"], **{k: v for k, v in more.items() if k not in ("r", "lora_alpha", "rank_pattern",
                                                                                                        "alpha_pattern")})
        with open(os.path.join(path, "adapter_config.json")) as f:
            config = json.load(f)
        c.put(path, "adapter_config.json", {k: v for k, v in {**config, **more}.items() if v != "absent"})
        refused(run("-m", tmp("base"), "--raw", "-p", "a", "-n", "1", "--lora", path, "-q"), 2, why, str(more))
    def renamed(what, to):
        return lambda own: {k.replace(what, to): v for k, v in own.items()}
    changes = [(renamed("q_proj.lora_A.weight", "q_proj.lora_A.bias"), "is neither MODULE.lora_A"), (renamed("layers.1", "layers.9"), "has no place"),
               (renamed("self_attn.q_proj", "nothing.q_proj"), "has no place"),
               (lambda own: dict(list(own.items())[:-1]), "has no .lora_B.weight beside it"),
               (lambda own: {k: (d, s[::-1], raw) for k, (d, s, raw) in own.items()}, "rank"),
               (lambda own: {**own, "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector": ("F32", (64,), bytes(256))}, "DoRA"),
               (lambda own: {}, "no tensors"),
               (lambda own: {k: (d, s, struct.pack("<f", float("nan")) + raw[4:]) for k, (d, s, raw) in own.items()}, "nan, expected a number")]
    for i, (change, why) in enumerate(changes):
        path, _ = peft("changed-%d" % i, "llama", ["q_proj"], tensors=change)
        refused(run("-m", tmp("base"), "--raw", "-p", "a", "-n", "1", "--lora", path, "-q"), 2, why, why)
    os.makedirs(tmp("nothing"), exist_ok=True)
    refused(run("-m", tmp("base"), "--raw", "-p", "a", "-n", "1", "--lora", tmp("nothing"), "-q"), 2, "no adapter_config.json", "empty folder")


@case
def merge():
    """--lora-merge writes the weights with which the model gives the same logits, in the types that they had; --quantize merges, too"""
    for model, *specs in (("llama", ALL, QV + "=-0.5"), ("llama_moe", os.path.join(LORA, "moe_experts.gguf")),
                          ("phi3", os.path.join(LORA, "phi3_joined.gguf"))):
        path, out = os.path.join(TINY, model + ".gguf"), tmp("merged.gguf")
        good("-m", path, *lora(*specs), "--lora-merge", "-o", out)
        check(nmse(logits(model=out), logits(*lora(*specs), model=path)) < 1e-6, "%s: logits of merged weights" % model)
        done(run("-m", out, "--inspect", "-q"), "inspect")
    path = os.path.join(TINY, "llama_q4_k_m.gguf")
    for args in ("--lora-merge",), ("--quantize", "Q8_0", "--allow-requantize"):
        r = run("-m", path, *lora(ALL), *args, "-o", tmp("quantised.gguf"), "-q")
        check(r.rc == 2 and b"another model" in r.err, "an adapter of another width: %r" % r)
    good("-m", SMALL, *lora(ALL), "--quantize", "Q8_0", "-o", tmp("quantised.gguf"))
    check(nmse(logits(model=tmp("quantised.gguf")), logits(*lora(ALL))) < 1e-2, "quantised and merged")
    good("-m", tmp("quantised.gguf"), *lora(QV), "--lora-merge", "-o", tmp("again.gguf"))
    check(nmse(logits(model=tmp("again.gguf")), logits(*lora(QV), model=tmp("quantised.gguf"))) < 1e-2, "merged again, quantised")
    for args, why in ((["--lora-merge", "-o", tmp("x.gguf")], "no adapter given"), ([*lora(ALL), "--lora-merge"], "no file to write"),
                      ([*lora(ALL), "--lora-merge", "-o", ALL], "is the adapter itself")):
        refused(run("-m", SMALL, *args, "-q"), 2, why, why)
    tied = os.path.join(TINY, "gemma.gguf")
    refused(run("-m", tied, *lora(os.path.join(LORA, "gemma_embd.gguf")), "--lora-merge", "-o", tmp("x.gguf"), "-q"), 2,
            "cannot be merged", "tied embeddings")


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
                   "changes blk.0.attn_norm.weight, which no adapter can"),
        "rows too long": (gguf(KEYS_OF, {**PAIR, Q + ".lora_a": numbers(49, 2)}), "blk.0.attn_q.weight of 49 x 48 x 1, which is 48 x 48 x 1"),
        "too few rows": (gguf(KEYS_OF, {**PAIR, Q + ".lora_b": numbers(2, 47)}), "blk.0.attn_q.weight of 48 x 47 x 1, which is 48 x 48 x 1"),
        "two ranks": (gguf(KEYS_OF, {**PAIR, Q + ".lora_b": numbers(3, 48)}), "lora_b is 3 x 48 x 1, expected 2 x 48 x 1"),
        "rank 0": (gguf(KEYS_OF, {Q + ".lora_a": numbers(48, 0), Q + ".lora_b": numbers(0, 48)}), "dimension"),
        "NaN": (gguf(KEYS_OF, {**PAIR, Q + ".lora_a": numbers(48, 2, value=float("nan"))}), "has -?nan in row 0, column 0"),
        "infinity": (gguf(KEYS_OF, {**PAIR, Q + ".lora_b": numbers(2, 48, value=float("inf"))}), "has inf in row 0, column 0"),
        "stacks": (gguf(KEYS_OF, {Q + ".lora_a": numbers(48, 2, 2), Q + ".lora_b": numbers(2, 48, 2)}), "48 x 48 x 2, which is 48 x 48 x 1"),
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
