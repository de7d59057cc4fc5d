#!/usr/bin/env python3
"""Tests of --embed by running the command: vectors of texts, pooled, normalised, written; lines of a batch.

    python3 tests/embed.py ./llmrun [WORD ...]     cases whose name holds a word, else all

The oracle of what is pooled is Python's arithmetic over the rows of --pooling none; that of a row the logits that the output matrix makes of it.
"""
import argparse, array, ast, base64, json, math, os, random, re, struct, subprocess, sys, unicodedata
from hostile import ARR, BOOL, F32, I32, STR, U32, family, filled, resized, with_tensor, without_tensor
from kit import Skip, begin, case, check, done, equal, finish, jsonl, new_folder, records, refused, same, some, walk

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TINY = os.path.join(HERE, "tests", "data", "tiny")
SMALL = os.path.join(TINY, "llama.gguf")
PIP = os.path.join(HERE, "models", "pip-q4_k_m.gguf")
TMP = new_folder("embed")
TEXT = "Once upon a time there was a small vector, and it pointed at the sea."
O = None                               # options of this script


def put(name, data):
    path = os.path.join(TMP, name)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else jsonl(data))
    return path


def run(*args, inp=None, timeout=60):
    return finish(begin([O.binary, *args], **({"stdin": -1} if inp is not None else {})), timeout, inp)


def good(*args, **kw):
    return done(run(*args, **kw), args)


def rows(*args, model=SMALL, text=TEXT):
    """The vectors of a text, as lists of numbers."""
    return [[float(x) for x in line.split()] for line in good("-m", model, "--embed", "-p", text, "-q", *args).splitlines()]


def floats(data):
    return list(struct.unpack("<%df" % (len(data) // 4), data))


def batch(lines, *args, model=SMALL, rc=0):
    r = run("-m", model, "--embed", "--batch", put("in.jsonl", lines), "-q", *args, timeout=120)
    check(r.rc == rc, "%s: want exit %d, got %r" % (" ".join(args), rc, r))
    return records(r.out)


def vectors(record):
    return [d["embedding"] for d in record.body["data"]]


def near(got, want, limit, what):
    same(len(got), len(want), what + ": width")
    worst = max(abs(a - b) for a, b in zip(got, want))
    check(worst <= limit * max(1e-30, max(abs(b) for b in want)), "%s: off by %g" % (what, worst))


def normed(v, p=2):
    by = sum(abs(x) ** p for x in v) ** (1 / p)
    return [x / by for x in v]


@case
def rows_are_hidden_values():
    """the rows of --pooling none are what the output matrix multiplies: their products are the logits"""
    for name in some(("llama", "qwen2", "qwen3", "llama_window", "qwen3moe"), 2):
        model = os.path.join(TINY, name + ".gguf")
        got = rows("--pooling", "none", "--embd-normalize", "-1", model=model)
        n = len(got[0])
        logits = floats(good("-m", model, "--logits", "-", "-p", TEXT, "-q"))
        v = len(logits) // len(got)
        tied = run("-m", model, "--dump-tensor", "output.weight", "-q")
        w = floats(tied.out if tied.rc == 0 else good("-m", model, "--dump-tensor", "token_embd.weight", "-q"))
        for i in (0, len(got) // 2, len(got) - 1):
            want = [sum(a * b for a, b in zip(got[i], w[k * n:k * n + n])) for k in range(v)]
            near(logits[i * v:i * v + v], want, 1e-4, "%s: logits of row %d" % (name, i))


class Encoders:
    """The lines of tests/data/encoders/embed.txt; --embed is compared with what they say."""

    def __init__(self):
        folder = os.path.join(HERE, "tests", "data", "encoders")
        self.rows, self.rankers = [], []
        if not os.path.exists(os.path.join(folder, "embed.txt")):
            raise Skip("no tests/data/encoders")
        with open(os.path.join(folder, "embed.txt")) as f:
            for line in f:
                rank, line = line.startswith("rank "), line[5 * line.startswith("rank "):]
                name, model, cases, golden, *pooling, width, limit = line.split()
                with open(os.path.join(folder, cases)) as c:
                    ids = [[int(x) for x in t.split()] for t in c]
                with open(os.path.join(folder, golden), "rb") as g:
                    values = floats(g.read())
                if rank:
                    self.rankers.append((name, os.path.join(folder, model), ids,
                                         [values[i:i + int(width)] for i in range(0, len(values), int(width))], float(limit)))
                else:
                    self.rows.append((name, os.path.join(folder, model), ids, self.texts(ids, values, int(width)),
                                      pooling[0], float(limit)))

    @staticmethod
    def texts(ids, values, width):
        """For each text its hidden rows and three embeddings by name."""
        rows = [values[i:i + width] for i in range(0, len(values), width)]
        out = []
        for t in ids:
            n = len(t)
            out.append({"none": rows[:n], "mean": rows[n], "cls": rows[n + 1], "last": rows[n + 2]})
            rows = rows[n + 3:]
        same(rows, [], "golden values left over")
        return out


def turn(a, b):
    """1 - cosine."""
    return 1 - sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


@case
def encoders():
    """encoders and a pooled decoder have the rows and vectors of transformers in float64, where the file is quantised its own pooling's"""
    for name, model, ids, want, pooling, limit in Encoders().rows:
        exact = limit < 1e-6
        lines = [{"input": t} for t in ids]
        for word in (("none", "mean", "cls", "last") if exact else (pooling.replace("-", "last"),)):
            got = batch(lines, "--pooling", word, model=model)
            for i, w in enumerate(want):
                v = vectors(got[i + 1])[0]
                for a, b in zip(v, w[word]) if word == "none" else [(v, w[word])]:
                    check(turn(a, b) <= limit, "%s, text %d, %s: 1 - cosine is %.3g, over %g" % (name, i, word,
                                                                                                 turn(a, b), limit))
        if pooling != "-":
            same(vectors(batch(lines, model=model)[1]), vectors(batch(lines, "--pooling", pooling, model=model)[1]),
                 name + ": the file's pooling")


@case
def rerankers():
    """--pooling rank gives the scores of the classifier, as they are"""
    for name, model, ids, want, limit in Encoders().rankers:
        for more in ((), ("--embd-normalize", "0")):
            got = batch([{"input": t} for t in ids], "--pooling", "rank", *more, model=model)
            for i, w in enumerate(want):
                v = vectors(got[i + 1])[0]
                check(len(v) == len(w) and max(abs(a - b) for a, b in zip(v, w)) <= limit,
                      "%s, text %d: %r, want %r" % (name, i, v, w))
        error = batch([{"input": ids[0], "dimensions": len(want[0]) + 1}], "--pooling", "rank", model=model, rc=1)[1].error
        check("expected the %d of the model" % len(want[0]) in error["message"], "dimensions: %r" % error)


@case
def encoders_texts():
    """a text has the vector of the ids that transformers gives to it, those that begin and end it among them"""
    folder = os.path.join(HERE, "tests", "data", "encoders")
    with open(os.path.join(folder, "texts.jsonl")) as f:
        lines = [json.loads(line) for line in f]
    for model in sorted({r["model"] for r in lines}):
        texts = [r for r in lines if r["model"] == model]
        got, want = (batch([{"input": r[key]} for r in texts], model=os.path.join(folder, model)) for key in ("text", "ids"))
        for i, r in enumerate(texts):
            same(vectors(got[i + 1]), vectors(want[i + 1]), "%s, %r" % (model, r["text"]))


@case
def encoders_same_bits():
    """a text in an encoder has the same bits alone, among others, with any number of threads and rows of a step, at every level"""
    for name, model, ids, _, _, _ in some(r for r in Encoders().rows
                                          if r[0] in ("bert", "modern-bert_q8_0", "jina-bert-v2", "jina-bert-v2_code",
                                                      "gemma-embedding", "nomic-bert-moe")):
        lines = [{"input": t} for t in (ids * 8)[:8]]
        n = min(8, len(ids))
        want = batch(lines, model=model)
        for i in (0, n - 1):
            same(vectors(batch([lines[i]], model=model)[1]), vectors(want[i + 1]), name + ": alone")
        turned = batch(lines[::-1], "-t", "3", model=model)
        same([vectors(turned[8 - i]) for i in range(8)], [vectors(want[i + 1]) for i in range(8)], name + ": the other way round")
        for more in (("-t", "1", "-b", "1"), ("--cpu", "scalar"), ("--cpu", "avx2"),
                     ("-np", "1", "--kv-block-size", "3", "-ctk", "f32")):
            if more[-1] != "avx2" or b"avx2" in good("--list", "cpu"):
                equal(batch(lines, *more, model=model), want, "%s %s" % (name, " ".join(more)))


def npy(data):
    """Shape and values of a NumPy file, read by its own specification."""
    check(data[:8] == b"\x93NUMPY\x01\x00", "magic of %r" % data[:8])
    n = struct.unpack("<H", data[8:10])[0]
    head = ast.literal_eval(data[10:10 + n].decode("latin1"))
    check((10 + n) % 64 == 0 and data[9 + n:10 + n] == b"\n", "the head of a NumPy file is padded")
    same((head["descr"], head["fortran_order"]), ("<f4", False), "NumPy's head")
    same(len(data) - 10 - n, 4 * head["shape"][0] * head["shape"][1], "bytes of a NumPy file")
    return head["shape"], data[10 + n:]


@case
def numpy_files():
    """-o FILE.npy is a NumPy file of float32, [texts][width], with the floats of FILE.f32; also of one text and of lines with errors; .json is a list, .txt numbers"""
    texts = put("texts.txt", b"a text\nb\n" + b"c d\n" * 40)
    path, raw = os.path.join(TMP, "v.npy"), os.path.join(TMP, "v.f32")
    for more in (), ("-np", "2", "--batch-window", "3"):
        good("-m", SMALL, "--embed", "--batch", texts, "-q", "-o", path, *more)
        good("-m", SMALL, "--embed", "--batch", texts, "-q", "-o", raw, *more)
        shape, data = npy(open(path, "rb").read())
        same(data, open(raw, "rb").read(), "floats")
        same(shape[0], 42, "texts")
        os.unlink(path), os.unlink(raw)
    r = run("-m", SMALL, "--embed", "--batch", put("odd.jsonl", [{"input": ["a", "b"]}, {"input": 5}]), "-q", "-o", path)
    same((r.rc, npy(open(path, "rb").read())[0][0]), (1, 3), "lines with errors: %r" % r.err)
    refused(run("-m", SMALL, "--embed", "--batch", texts, "-q", "-o", path), 2, "expected a new file", "a file with rows")
    good("-m", SMALL, "--embed", "-p", "a text", "-q", "-o", path)
    same(npy(open(path, "rb").read()), ((1, shape[1]), data[:4 * shape[1]]), "one text")
    os.unlink(path)
    refused(run("-m", SMALL, "--embed", "--batch", texts, "-q", "-o", "/dev/null.npy/x.npy"), 2, "Not a directory|No such file", "a folder")
    out = os.path.join(TMP, "v.json")
    good("-m", SMALL, "--embed", "--batch", texts, "-q", "-o", out)
    got = json.load(open(out))
    same([x["line"] for x in got], list(range(1, 43)), "a list of records")
    same(struct.pack("<%df" % shape[1], *got[0]["response"]["body"]["data"][0]["embedding"]), data[:4 * shape[1]], "its vectors")
    text = os.path.join(TMP, "v.txt")
    good("-m", SMALL, "--embed", "--batch", texts, "-q", "-o", text)
    same(open(text, "rb").read(), good("-m", SMALL, "--embed", "--batch", texts, "-q", "--format", "text"), "numbers")
    refused(run("-m", SMALL, "--embed", "--batch", texts, "-q", "-o", os.path.join(TMP, "v.csv")), 2, "form of answers", "CSV of vectors")


@case
def truncated():
    """--truncate cuts a text to the context, or to the file's max_seq_length, and keeps its end token; --embed-prefix is text before each text"""
    bert = {r[0]: r for r in Encoders().rows}["bert"][1]
    text = " ".join("abcdefghij"[i % 10] for i in range(200))
    short = put("short.gguf", family("../encoders/bert", "max_seq_length", U32, 7).bytes())
    for model, limit, more in ((bert, 96, ()), (short, 7, ()), (SMALL, 20, ("-c", "20")), (bert, 12, ("-c", "12"))):
        whole = [int(x) for x in good("-m", model, "--tokenize", "--bos", "-p", text, "-q").split()]
        ends = [int(x) for x in good("-m", model, "--tokenize", "-p", "[SEP]", "--special", "-q").split()] if model != SMALL else []
        want = (whole[:limit - 1] + ends) if ends else whole[:limit]
        same(len(want), limit, "the oracle")
        line = [{"input": [want]}, {"input": text}, {"input": "a"}]
        got = batch(line, "--truncate", *more, model=model)
        same(vectors(got[2]), vectors(got[1]), "a text that is cut, %d tokens" % limit)
        same(got[2].body["usage"]["prompt_tokens"], limit, "tokens")
        same(vectors(got[3]), vectors(batch(line[2:], *more, model=model)[1]), "a text that fits")
        alone = [float(x) for x in good("-m", model, "--embed", "-p", text, "--truncate", "-q", *more).split()]
        same(alone, vectors(got[1])[0], "one text")
        r = run("-m", model, "--embed", "--batch", put("t.txt", text.encode() + b"\na\n"), "--truncate", *more)
        check(b"1 text is cut to %d tokens" % limit in r.err, repr(r))
        if model != short:
            check("context" in batch(line[1:2], *more, model=model, rc=1)[1].error["message"], "without --truncate")
    line = [{"input": ["a text", "b"]}]
    same(vectors(batch(line, "--embed-prefix", "query: ")[1]), vectors(batch([{"input": ["query: a text", "query: b"]}])[1]), "the prefix of lines")
    same(rows("--embed-prefix", "query: ", text="a"), rows(text="query: a"), "the prefix of a text")
    same(vectors(batch([{"input": [[5, 6]]}], "--embed-prefix", "query: ")[1]), vectors(batch([{"input": [[5, 6]]}])[1]), "no prefix before token ids")


@case
def encoder_refusals():
    """an encoder makes no text, and refuses a text that is longer than its context, with both numbers"""
    rows = {r[0]: r for r in Encoders().rows}
    model = rows["bert"][1]
    for more in (("-p", "a"), ("-p", "a", "--score"), ("-p", "a", "--logits", os.path.join(TMP, "l")),
                 ("--perplexity", "-p", "a b c"), ("--batch", put("a.txt", b"a\n")),
                 ("--bench", "-p", "4", "-n", "0"), ("-p", "a", "--imatrix-out", os.path.join(TMP, "i"))):
        r = run("-m", model, *more)
        check(r.rc == 2 and b"bert model makes vectors of texts and continues none, expected --embed" in r.err,
              "%s: %r" % (more, r))
    long = [{"input": [5] * n} for n in (96, 97)]
    for name in ("bert", "modern-bert"):
        found = batch(long, model=rows[name][1], rc=1)
        check(found[1].body and "97 tokens, the encoder's context holds 96" in found[2].error["message"],
              "%s: %r" % (name, found[2].error))
    refused(run("-m", model, "--embed", "-p", "a", "-c", "200"), 2, "learned", "more positions than are learned")


@case
def forms_of_lines():
    """--batch with --format text writes numbers, with -o FILE.f32 raw floats: a row for each text in the order of the input, the bytes of the text alone; a line with an error keeps its place"""
    texts = ["a text", "b", "a longer text of several words", "c d"] * 5
    alone = {t: good("-m", SMALL, "--embed", "-p", t, "-q") for t in set(texts)}
    plain, path = put("texts.txt", "".join(t + "\n" for t in texts).encode()), os.path.join(TMP, "rows.f32")
    for more in (), ("-np", "3", "--batch-order", "input"), ("-ub", "4"):
        same(good("-m", SMALL, "--embed", "--batch", plain, "--format", "text", "-q", *more),
             b"".join(alone[t] for t in texts), "numbers")
        same(good("-m", SMALL, "--embed", "--batch", plain, "-o", path, "-q", *more), b"", "stdout beside -o")
        with open(path, "rb") as f:
            rows_ = floats(f.read())
        os.unlink(path)
        want = [x for t in texts for x in array.array("f", map(float, alone[t].split()))]
        same(rows_, want, "raw floats")
    check(not os.path.exists(path + ".llmrun"), "a header beside raw floats")
    lines = put("lines.jsonl", [{"input": ["b", "c d"]}, {"input": 5}, {"input": "a text"},
                                {"input": ["b", ""], "dimensions": 8}])
    r = run("-m", SMALL, "--embed", "--batch", lines, "--format", "text")
    got = r.out.decode().split("\n")
    same((r.rc, got[:2] + got[2:4]),
         (1, (alone["b"] + alone["c d"]).decode().split("\n")[:2] + ["", alone["a text"].decode()[:-1]]), "numbers of lines")
    same(got[4:6], ["", ""], "a line with other dimensions than the model's")
    check(re.search(rb"lines\.jsonl: line 2: input: found a number", r.err), repr(r.err))
    r = run("-m", SMALL, "--embed", "--batch", lines, "-o", path)
    with open(path, "rb") as f:
        rows_ = floats(f.read())
    width = len(alone["b"].split())
    same((r.rc, len(rows_)), (1, 6 * width), "floats of lines with errors: %r" % r.err)
    check([x != x for x in rows_] == [i // width in (2, 4, 5) for i in range(6 * width)]
          and b"dimensions: found 8, expected the" in r.err, "NaN where a line has an error: %r" % r.err)
    refused(run("-m", SMALL, "--embed", "--batch", plain, "-o", path, "--resume"), 2, "cannot go on, expected -o FILE.jsonl", "--resume of floats")
    refused(run("-m", SMALL, "--embed", "--batch", plain, "--format", "text", "--pooling", "none"), 2,
            "several vectors", "--pooling none")


@case
def pooling():
    """mean, cls and last are the mean, the first and the last of the rows; the default without a word of the file is the last one"""
    each = rows("--pooling", "none", "--embd-normalize", "-1")
    mean = [sum(c) / len(each) for c in zip(*each)]
    check(len(each) > 20, "a long text")
    for word, want in (("mean", mean), ("cls", each[0]), ("last", each[-1])):
        near(rows("--pooling", word, "--embd-normalize", "-1")[0], want, 1e-6, word)
        near(rows("--pooling", word)[0], normed(want), 1e-6, word + ", normalised")
    same(rows(), rows("--pooling", "last"), "the default")
    for word in "none", "mean", "cls", "last":
        same(rows("--pooling", word, "-ub", "3"), rows("--pooling", word), word + " in chunks of three tokens")
    near(rows("--pooling", "none")[3], normed(each[3]), 1e-6, "a token's vector, normalised")


@case
def normalisation():
    """--embd-normalize: no norm, the largest magnitude at 32760, P-norms of 1"""
    v = rows("--embd-normalize", "-1")[0]
    most = max(map(abs, v))
    near(rows("--embd-normalize", "0")[0], [x / most * 32760 for x in v], 1e-6, "0")
    for p in (1, 2, 3, 7):
        near(rows("--embd-normalize", str(p))[0], normed(v, p), 1e-6, str(p))
    near(rows("--embd-normalize", "1000")[0], [x / most for x in v], 2e-2, "a high P")
    refused(run("-m", SMALL, "--embed", "-p", "a", "--embd-normalize", "-2"), 2, "--embd-normalize", "a norm below -1")


@case
def forms():
    """numbers on a line, JSON in OpenAI's shape and raw floats hold the same values"""
    v, path = rows()[0], os.path.join(TMP, "v.f32")
    same(good("-m", SMALL, "--embed", "-p", TEXT, "-q", "-o", path), b"", "stdout beside -o")
    with open(path, "rb") as f:
        raw = floats(f.read())
    same(raw, array.array("f", v).tolist(), "raw floats")
    j = json.loads(good("-m", SMALL, "--embed", "-p", TEXT, "-q", "--json"))
    same((j["object"], j["model"], j["data"][0]["object"], j["data"][0]["index"]),
         ("list", "llama.gguf", "embedding", 0), "the shape")
    same(j["data"][0]["embedding"], v, "JSON")
    n = len(good("-m", SMALL, "--tokenize", "--bos", "-p", TEXT).split())
    same(j["usage"], {"prompt_tokens": n, "total_tokens": n}, "usage")
    good("-m", SMALL, "--embed", "-p", TEXT, "-q", "-o", path, "--format", "text")
    with open(path, "rb") as f:
        same([float(x) for x in f.read().split()], v, "text in a file")
    several = json.loads(good("-m", SMALL, "--embed", "-p", TEXT, "-q", "--json", "--pooling", "none"))["data"][0]["embedding"]
    same((len(several), several[-1]), (n, v), "each token")


@case
def end_token():
    """a text ends with the end token where the file asks for it, and begins as a prompt does"""
    with open(SMALL, "rb") as f:
        data = bytearray(f.read())
    key = b"tokenizer.ggml.add_eos_token"
    data[data.index(key) + len(key) + 4] = 1
    model = put("eos.gguf", bytes(data))
    ids = [int(x) for x in good("-m", SMALL, "--tokenize", "--bos", "-p", TEXT).split()]
    want = batch([{"input": ids}, {"input": ids + [2]}])
    same(rows()[0], vectors(want[1])[0], "without the end token")
    same(rows(model=model)[0], vectors(want[2])[0], "with the end token")
    same(vectors(batch([{"input": TEXT}], model=model)[1]), vectors(want[2]), "a line")
    start = good("-m", SMALL, "--detokenize", "--special", "-p", str(ids[0])).decode()
    same(json.loads(good("-m", SMALL, "--embed", "--json", "-q", "-p", start + TEXT))["data"][0]["embedding"], rows()[0], "the start token, as text")
    bare = batch([{"input": ids[1:]}])[1]
    same(json.loads(good("-m", SMALL, "--embed", "--json", "-q", "--no-bos", "-p", TEXT))["data"][0]["embedding"], vectors(bare)[0], "--no-bos")


@case
def same_bits():
    """a vector has the same bits alone, among others, in any order, with any number of threads and rows of a step, at every level"""
    texts = [TEXT[i:] + TEXT[:3 * i] for i in range(0, 40, 5)] + [TEXT, "a"]
    for model in (SMALL, PIP):
        for word in ("mean", "last", "none") if model == SMALL else ("mean",):
            want = batch([{"input": t} for t in texts], "--pooling", word, model=model)
            v = [vectors(want[i + 1])[0] for i in range(len(texts))]
            alone = rows("--pooling", word, model=model, text=texts[3])
            same(alone if word == "none" else alone[0], v[3], "alone")
            turned = batch([{"input": t} for t in reversed(texts)], "--pooling", word, "-t", "3", "-b", "7", model=model)
            same([vectors(turned[len(texts) - i])[0] for i in range(len(texts))], v, "the other way round, 3 threads, 7 rows")
            if model == PIP:
                continue
            for more in some((("-t", "1", "-b", "1"), ("--cpu", "scalar"), ("-np", "2", "--kv-blocks", "40"),
                              ("--batch-order", "input", "-np", "1")), 3):
                equal(batch([{"input": t} for t in texts], "--pooling", word, *more, model=model), want,
                      "%s %s" % (word, " ".join(more)))


@case
def shared_beginnings():
    """texts with the same beginning share it where their last row alone is asked for, with the same bits"""
    lines = [{"input": TEXT * 2 + t} for t in ("a", "b", "cd", "")]
    path = put("shared.jsonl", lines)
    for word, shares in (("last", True), ("mean", False), ("cls", False)):
        r = run("-m", PIP, "--embed", "--batch", path, "--pooling", word, "--json")
        shared = json.loads(r.err)["shared_tokens"]
        check((shared > 40) == shares, "%s: %d tokens are shared" % (word, shared))
        for i, line in enumerate(lines):
            same(vectors(records(r.out)[i + 1])[0], rows("--pooling", word, model=PIP, text=line["input"])[0],
                 "%s: line %d" % (word, i + 1))


@case
def requests():
    """/v1/embeddings: a text, texts, token ids, lists of them; base64; dimensions; an envelope; plain lines"""
    ids = [[1, 5, 9, 40], [1, 7]]
    one = vectors(batch([{"input": x} for x in ids])[1])[0]
    got = batch([{"input": "Hello"}, {"input": ["Hello", "you", "Hello"]}, {"input": ids[0]},
                 {"input": ids, "model": "m", "user": "u"},
                 {"input": ids[0], "encoding_format": "base64"}, {"input": ids[0], "dimensions": len(one), "encoding_format": "float"},
                 {"custom_id": "x", "method": "POST", "url": "/v1/embeddings", "body": {"input": "Hello", "dimensions": None}}])
    hello = vectors(got[1])[0]
    same(hello, rows(text="Hello")[0], "a text")
    check(vectors(got[2])[0] == hello == vectors(got[2])[2] != vectors(got[2])[1], "texts")
    same([d["index"] for d in got[2].body["data"]], [0, 1, 2], "numbers of texts")
    same(vectors(got[3]), [one], "ids")
    same((vectors(got[4])[0], got[4].body["usage"]), (one, {"prompt_tokens": 6, "total_tokens": 6}), "lists of ids")
    same(floats(base64.b64decode(vectors(got[5])[0], validate=True)), array.array("f", one).tolist(), "base64")
    same(vectors(got[6])[0], one, "dimensions, those of the model")
    same((got[7].id, vectors(got[7])[0]), ("x", hello), "an envelope")
    same(got[7].body["object"], "list", "the shape")
    text = run("-m", SMALL, "--embed", "--batch", put("in.txt", b"Hello\n\n[you]\n"), "-q")
    same(vectors(records(text.out)[1])[0], hello, "a plain line")
    same(sorted(records(text.out)), [1, 3], "plain lines")


@case
def bad_lines():
    """a line that is wrong has an error that says why, the others are answered, and the exit code is 1"""
    bad = [({"input": "a", "temperature": 0}, "temperature"), ({"input": "a", "foo": 1}, "foo"),
           ({"prompt": "a"}, "prompt: belongs to /v1/completions"),
           ({"messages": [{"role": "user", "content": "a"}]}, "messages: belongs to /v1/chat"), ({}, "no input"),
           ({"input": []}, "empty list"),
           ({"input": {}}, "input: found an object"), ({"input": 3}, "input: found a number"), ({"input": [[]]}, "empty list"),
           ({"input": [1, "a"]}, "token ids alone"), ({"input": ["a", [1], {}]}, "text or a list"),
           ({"input": [99999]}, "token ids of another tokenizer?"),
           ({"input": [-1]}, "out of range"), ({"input": [1.5]}, "whole number"), ({"input": "a", "dimensions": 0}, "dimensions"),
           ({"input": "a", "dimensions": 100000}, "found 100000, expected the"), ({"input": "a", "dimensions": 5}, "found 5, expected the"),
           ({"input": "a", "dimensions": "5"}, "found a string"),
           ({"input": "a", "encoding_format": "int8"}, "int8"), ({"input": "a", "encoding_format": 1}, "float or base64"),
           ({"custom_id": "c", "method": "POST", "url": "/v1/completions", "body": {"input": "a"}}, "expected /v1/embeddings"),
           ({"custom_id": "d", "method": "POST", "url": "/v1/embeddings", "body": {"input": "a", "n": 2}}, "n: belongs to"),
           (b'{"input":"a"', "JSON|json|expected"), ({"input": "word " * 900}, "context"), ({"input": ["a"] * 3000}, "at most")]
    found = batch([b for b, _ in bad] + [{"input": "good"}], rc=1)
    for i, (line, word) in enumerate(bad):
        error = found[i + 1].error
        check(error and any(w in error["message"] for w in word.split("|")), "%.60r: %r" % (line, error))
    check(found[len(bad) + 1].body, "the good line is answered")


@case
def among_answers():
    """lines for /v1/embeddings among lines for texts have the vectors of --embed, and the texts are what they are without them; a table has no place for vectors"""
    exact = ("-m", PIP, "-ctk", "f32", "-ctv", "f32", "-q", "--batch")
    texts = [{"url": "/v1/completions", "body": {"prompt": "Once %d" % i, "max_tokens": 8, "seed": i}} for i in range(6)]
    vectors = [{"url": "/v1/embeddings", "body": {"input": ["text %d" % i, "more"], "encoding_format": "base64" if i % 2 else "float"}} for i in range(6)]
    for i, line in enumerate(texts + vectors):
        line.update({"custom_id": "c%d" % i, "method": "POST"})
    mixed = [line for pair in zip(texts, vectors) for line in pair]
    alone = records(good(*exact, put("texts.jsonl", texts)))
    made = records(good(*exact, put("vectors.jsonl", vectors), "--embed"))
    both = records(good(*exact, put("mixed.jsonl", mixed)))
    same([both[2 * i + 1].body["choices"] for i in range(6)], [alone[i + 1].body["choices"] for i in range(6)], "texts")
    same([both[2 * i + 2].body["data"] for i in range(6)], [made[i + 1].body["data"] for i in range(6)], "vectors")
    r = run(*exact, put("mixed.jsonl", mixed), "--format", "csv")
    check(r.rc == 1 and r.out.count(b"a run that writes texts") == 6, "a table: %r" % r)


@case
def resume_and_shards():
    """results of vectors are resumed, ordered and joined from shards as those of answers; other settings are refused"""
    lines = [{"custom_id": "t%d" % i, "method": "POST", "url": "/v1/embeddings", "body": {"input": "text %d" % i}}
             for i in range(20)]
    path, out = put("in.jsonl", lines), os.path.join(TMP, "out.jsonl")
    base = ("-m", SMALL, "--embed", "--batch", path, "-q")
    good(*base, "-o", out, "--ordered")
    with open(out, "rb") as f:
        whole = f.read()
    same(list(records(whole)), list(range(1, 21)), "the order of the input")
    with open(out, "wb") as f:
        f.write(whole[:len(whole) // 2])
    good(*base, "-o", out, "--resume")
    with open(out, "rb") as f:
        equal(records(f.read()), records(whole), "resumed")
    refused(run(*base, "-o", out, "--resume", "--pooling", "mean"), 2, "pooling", "another pooling")
    refused(run(*base, "-o", out, "--resume", "--embd-normalize", "0"), 2, "embd-normalize", "another norm")
    parts = [os.path.join(TMP, "part%d.jsonl" % i) for i in (1, 2)]
    for i in (1, 2):
        good(*base, "--shard", "%d/2" % i, "-o", os.path.join(TMP, "part{shard}.jsonl"))
    equal(records(good("--merge", *parts)), records(whole), "two shards")


@case
def refusals():
    """what cannot be has one line and exit 2: options of answers, two actions, no classifier, a text that is too long"""
    refused(run("-m", SMALL, "--embed", "-p", "a", "--temp", "0"), 2, "--temp has no effect on --embed", "sampling")
    refused(run("-m", SMALL, "--embed", "--batch", put("a.txt", b"a\n"), "-n", "3"), 2,
            "no effect on --embed --batch", "tokens to generate")
    refused(run("-m", SMALL, "--embed", "-p", "a", "--resume"), 2, "--resume has no effect on --embed", "--resume of a prompt")
    refused(run("-m", SMALL, "--embed", "--batch", put("a.txt", b"a\n"), "-p", "b"), 2, "no effect", "a prompt beside lines")
    refused(run("-m", SMALL, "--embed", "--score", "-p", "a"), 2, "two actions", "two actions")
    refused(run("-m", SMALL, "--score", "--batch", "a", "-p", "a"), 2, "two actions", "two others")
    refused(run("-m", SMALL, "-p", "a", "--pooling", "mean"), 2, "no effect on generation", "pooling of an answer")
    refused(run("-m", SMALL, "--embed", "-p", "a", "--pooling", "max"), 2, "--pooling", "an unknown pooling")
    refused(run("-m", SMALL, "--embed", "-p", "a", "--pooling", "rank"), 2, "classifier", "no classifier")
    refused(run("-m", SMALL, "--embed", "-p", "a", "--format", "csv"), 2, "no form csv", "a form")
    refused(run("-m", SMALL, "--embed", "-p", "word " * 900), 2, r"\d+ tokens.*holds \d+", "a long text")
    refused(run("-m", SMALL, "--embed", "-p", "a", "-o", SMALL), 2, "itself", "the model as output")


def broken():
    """Encoders with one thing changed, and a word of what llmrun says to each."""
    of = "../encoders/"
    for model, key, t, v in (("bert", "pooling_type", U32, 5), ("bert", "pooling_type", STR, "cls"),
                             ("bert", "attention.causal", U32, 2), ("bert", "context_length", U32, 97),
                             ("bert", "context_length", U32, 0), ("bert", "attention.layer_norm_epsilon", F32, 0.0),
                             ("bert", "attention.layer_norm_epsilon", F32, float("nan")),
                             ("nomic-bert-moe", "moe_every_n_layers", U32, 0),
                             ("nomic-bert-moe", "moe_every_n_layers", U32, 1),
                             ("nomic-bert-moe", "moe_every_n_layers", U32, 1 << 31),
                             ("nomic-bert-moe", "moe_every_n_layers", None, None),
                             ("nomic-bert-moe", "expert_used_count", U32, 5),
                             ("jina-bert-v2", "attention.max_alibi_bias", F32, 4.0),
                             ("jina-bert-v2", "attention.head_count", U32, 5),
                             ("modern-bert", "hidden_activation", STR, "mish"), ("modern-bert", "hidden_activation", U32, 1),
                             ("modern-bert", "attention.sliding_window_pattern", U32, 513),
                             ("modern-bert", "attention.sliding_window_pattern", ARR, (BOOL, [1])),
                             ("modern-bert", "attention.sliding_window", U32, 1 << 31),
                             ("modern-bert", "rope.freq_base_swa", F32, -1.0),
                             ("modern-bert_rank", "classifier.output_labels", ARR, (STR, [])),
                             ("modern-bert_rank", "classifier.output_labels", U32, 2),
                             ("modern-bert_rank", "classifier.output_labels", ARR, (STR, ["a"] * 600))):
        yield key + "|position_embd.weight is 16 x 96|multiple of 5 heads", family(of + model, key, t, v).bytes()
    for model, tensor in (("bert", "token_embd_norm.weight"), ("bert", "position_embd.weight"),
                          ("bert", "blk.1.attn_output_norm.weight"), ("bert", "blk.2.layer_output_norm.weight"),
                          ("jina-bert-v2_code", "blk.1.attn_norm_2.weight"),
                          ("jina-bert-v2_code", "blk.1.attn_q_norm.weight"), ("jina-bert-v2_code", "blk.0.attn_k_norm.weight"),
                          ("nomic-bert-moe", "blk.1.ffn_gate_inp.weight"),
                          ("jina-bert-v2_split", "blk.0.ffn_gate.weight"), ("jina-bert-v2", "blk.0.ffn_up.weight"),
                          ("modern-bert", "blk.1.attn_norm.weight"), ("modern-bert", "output_norm.weight"),
                          ("gemma-embedding_dense", "dense_3.weight")):
        yield tensor + "|ffn_gate.weight is missing", without_tensor(of + model, tensor)
    for model, tensor, dims in (("bert", "token_types.weight", [15, 2]), ("bert", "position_embd.weight", [16, 95]),
                                ("bert", "blk.0.attn_output_norm.bias", [8]),
                                ("jina-bert-v2_code", "blk.1.attn_q_norm.weight", [8]),
                                ("jina-bert-v2_code", "blk.0.attn_k_norm.bias", [25]),
                                ("jina-bert-v2_code", "blk.1.attn_norm_2.bias", [23]),
                                ("jina-bert-v2", "blk.0.ffn_up.weight", [24, 33]),
                                ("gemma-embedding_dense", "dense_2.weight", [16, 25]),
                                ("bert_rank", "cls.output.weight", [16, 2]),
                                ("modern-bert_rank", "cls.output.bias", [1]), ("modern-bert_rank", "cls.norm.weight", [17])):
        yield tensor + "|ffn_gate.weight is missing", resized(of + model, tensor, dims)
    for model, tensor, dims in (("bert", "output_norm.weight", [16]), ("bert", "blk.0.ffn_gate.weight", [16, 32]),
                                ("modern-bert", "blk.0.attn_norm.weight", [16]),
                                ("jina-bert-v2", "blk.0.attn_q_norm.weight", [24]),
                                ("jina-bert-v2", "blk.1.attn_norm_2.weight", [24]), ("bert", "blk.0.attn_norm_2.weight", [16]),
                                ("modern-bert", "token_types.weight", [16, 2]),
                                ("nomic-bert-moe", "blk.1.ffn_gate_exps.weight", [16, 16, 4]),
                                ("bert", "dense_2.weight", [16, 16])):
        yield tensor, with_tensor(of + model, tensor, dims)
    for model, tensor in (("bert", "blk.0.ffn_up.weight"), ("bert", "token_types.weight"),
                          ("gemma-embedding_dense", "dense_2.weight"), ("modern-bert_rank", "cls.norm.weight")):
        for word in (0x7fc00000, 0x7f800000):
            yield "NaN", filled(of + model, tensor, word)


@case
def broken_encoders():
    """an encoder with a key or a tensor that is wrong, missing or too much is refused in one line that names it; a NaN is no vector"""
    Encoders()
    for word, data in broken():
        model = put("broken.gguf", data)
        more = ("--pooling", "rank") if b"cls.output.weight" in data else ()
        refused(run("-m", model, "--embed", "-p", "a b", "-q", *more), 2, word, word)


# --- vocabularies of the kind whitespace: a second reading in Python ---

WHITE_CHARS = "abcdefghijklmnopqrstuvwxyz0123456789.,!?-_ABHZ" + "\u4f60\u597d\u4e16\u754c\u4e2d\u6587\u3002\uff01" + "\u00e9\u00fc\u0301\u0130\u03c3\u00b2\u2167\u24d0\u20ac\u2581\u200d"
WHITE_MERGES = ["h e", "l l", "he ll", "hell o", "\u4f60 \u597d", "\u4e16 \u754c", "1 2", "12 3", "! !", "a \u0301",
                "H e", "He ll", "i n", "in g", "_ a", "c !", ", \u4f60", "\u24d0 b"]
WHITE_SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "\0"]


def white_file(lower=True, unknown=True):
    """jina-bert-v2 with such a vocabulary, as its model for Chinese has one."""
    tokens = WHITE_SPECIAL + list(WHITE_CHARS) + [m.replace(" ", "") for m in WHITE_MERGES]
    n = len(tokens)
    tokens += ["[PAD%d]" % i for i in range(272 - n)]
    t, f = "tokenizer.ggml.", family("../encoders/jina-bert-v2")
    for k in [k for k, _, _ in f.kv if k.startswith(t)]:
        f.drop(k)
    f.set(t + "model", STR, "whitespace").set(t + "pre", STR, "whitespace").set(t + "tokens", ARR,
                                                                                (STR, tokens)).set(t + "merges", ARR,
                                                                                                   (STR, WHITE_MERGES))
    f.set(t + "token_type", ARR, (I32, [3] * 5 + [1] * (n - 5) + [5] * (272 - n)))
    for k, v in [("bos", 0), ("padding", 1), ("eos", 2), ("mask", 4)] + [("unknown", 3)] * unknown:
        f.set(t + k + "_token_id", U32, v)
    f.set(t + "add_bos_token", BOOL, 1).set(t + "add_eos_token", BOOL, 1)
    return f.set(t + "normalizer.lowercase", BOOL, 1) if lower else f


def white_words(text):
    r"""What \w+|[^\w\s]+ of the tokenizers library finds."""
    def kind(c):
        if unicodedata.category(c)[0] in "LM" or unicodedata.category(c) in ("Nd", "Nl",
                                                                             "Pc") or c in "\u200c\u200d" or 0x24b6 <= ord(c) <= 0x24e9:
            return "w"
        return "s" if c.isspace() else "p"
    words, last = [], "s"
    for c in text:
        k = kind(c)
        if k != "s":
            words[len(words):] = [[]] if k != last else []
            words[-1].append(c)
        last = k
    return words


def white_ids(text, lower, unknown):
    id_of = {t: i for i, t in enumerate(WHITE_SPECIAL + list(WHITE_CHARS) + [m.replace(" ", "") for m in WHITE_MERGES])}
    rank, out = {tuple(m.split(" ")): i for i, m in enumerate(WHITE_MERGES)}, []
    for word in white_words("".join(c.lower() for c in text) if lower else text):
        known = [c if c in id_of else None for c in word]
        while True:
            ranks = [rank.get((a, b), 1 << 30) for a, b in zip(known, known[1:])]
            if not ranks or min(ranks) == 1 << 30:
                break
            i = ranks.index(min(ranks))
            known[i:i + 2] = [known[i] + known[i + 1]]
        out += [id_of[c] if c is not None else 3 for c in known if c is not None or unknown]
    return out


@case
def whitespace_words():
    """a whitespace vocabulary has the ids of a second reading: lower case or not, words of characters, merges inside them, unknown characters with and without a token"""
    rng = random.Random(5)
    texts = ["hello \u4f60\u597d,\u4e16\u754c!!", "HELLO Hello h\u00e9llo", "abc! c! c !", "a\u0301 \u0130\u03a3",
             "\u2581a \u2581 \u00b2\u2167\u24d0b\u24b6b", "  \t\u3000in\u2028ing\u00a0", "\0x",
             "123_a-12 3 \U0001f600\u0e01", "<mask> <s>"]
    texts += ["".join(rng.choice(WHITE_CHARS + "  \n\u3000XYhel\u4f60\u597d!!\U0001f680\u0939")
                      for _ in range(rng.randint(1, 40))) for _ in range(60)]
    for lower in (True, False):
        for unknown in (True, False):
            model = put("white.gguf", white_file(lower, unknown).bytes())
            for text in texts:
                if "\0" in text:
                    continue
                got = [int(x) for x in good("-m", model, "--tokenize", "-p", text, "-q").split()]
                same(got, white_ids(text, lower, unknown), "ids of %r" % text)
    model = put("white.gguf", white_file().bytes())
    same([int(x) for x in good("-m", model, "--tokenize", "-f", put("nul.txt", b"a\0 \xff"), "-q").split()],
         [6, 5, 3], "a NUL, and a byte that is no text")
    same(rows("--pooling", "none", model=model, text="hello <mask>"),
         rows("--pooling", "none", model=model, text="HELLO<mask>"), "spaces and case change nothing")
    same(len(rows("--pooling", "none", model=model, text="hello <mask>")), 4, "rows of a start, two tokens and an end")
    same(good("-m", model, "--detokenize", "-p", "%s %s" % tuple(white_ids("hello \u4f60\u597d", True, True)),
              "-q").decode(), "hello\u4f60\u597d", "the text of ids")
    refused(run("-m", model, "--tokenize", "-p", "a", "--pre", "qwen2"), 2, "no pre-tokenizer", "--pre")


# A stand-in for llama-embedding: the vectors of llmrun, and the lines of a log. LESS: tokens that it leaves out.
PEER = r"""#!%s
import subprocess, sys
opt = lambda name: sys.argv[sys.argv.index(name) + 1]
texts = open(opt("-f")).read().split("\n")
print("0.00.500.000 I batch_decode: n_tokens = %%d, n_seq = %%d" %% (TOKENS * len(texts) - LESS, len(texts)), file=sys.stderr)
for text in texts:
    row = subprocess.run(["%s", "-m", opt("-m"), "--embed", "-q", "--pooling", opt("--pooling"), "-p", text], stdin=subprocess.DEVNULL, capture_output=True).stdout
    print(" ".join("%%.7f" %% float(x) for x in row.split()))
print("0.02.500.250 I llama_perf_context_print:        load time =       1.00 ms", file=sys.stderr)
"""


@case
def bench_embed_speed():
    """tests/bench/embed_speed.py embeds texts of exactly so many tokens in both programs and prints ratios; a peer that computes less is reported"""
    for model, tokens, less in (("../encoders/bert.gguf", 24, 0), ("llama.gguf", 40, 0), ("../encoders/bert.gguf", 24, 1)):
        peer = put("llama-embedding", ((PEER % (sys.executable, O.binary)).replace("TOKENS",
                                                                                   str(tokens)).replace("LESS", str(less))).encode())
        os.chmod(peer, 0o755)
        r = subprocess.run([sys.executable, os.path.join(HERE, "tests", "bench", "embed_speed.py"), "--llmrun",
                            O.binary, "--peer", peer, "--model", os.path.join(TINY, model),
                            "--texts", "3", "--tokens", str(tokens), "--batches", "512", "--rounds", "1", "-t", "1"],
                            capture_output=True, text=True)
        if less:
            check(r.returncode == 2 and "computed 71 tokens, expected 72" in r.stderr, repr(r))
            continue
        check(r.returncode == 0, r.stderr)
        cells = [c.strip() for c in r.stdout.splitlines()[-1].strip("|").split("|")]
        same(cells[0], "3 x %d, -b 512" % tokens, "the row")
        check(float(cells[2]) == 2.0 and float(cells[5]) > 0 and float(cells[7]) > 0.99999, r.stdout)


if __name__ == "__main__":
    a = argparse.ArgumentParser()
    a.add_argument("binary")
    a.add_argument("words", nargs="*")
    O = a.parse_args()
    O.binary = os.path.abspath(O.binary)
    sys.exit(walk("embed", O.words, TMP))
