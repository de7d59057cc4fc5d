#!/usr/bin/env python3
"""Answers of a model under constraints, judged by others.
    python3 tests/answers.py ./llmrun [part of a name ...] [--answers N] [--seed N]

N answers (1,000) of the model that ships here at temperature 1.5 under random schemas: every finished one is valid for python3-jsonschema. The same for
grammars and regular expressions, against the interpreters of oracle.py and Python's re. What is drawn under a mask is distributed as the model says of the
tokens that may come, by chi-square at p = 1e-4 with fixed seeds."""
import array, collections, json, math, os, random, re, sys
import kit
from chance import fit, softmax
from kit import Skip, begin, case, check, finish, jsonl, new_folder, records, same, sanitized, validator
from oracle import Machine, Trie, a_document, a_grammar, a_regex, byte_chars, gbnf, left_recursive, lit

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(HERE, "tests", "gen"))
PIP = os.path.join(HERE, "models", "pip-q4_k_m.gguf")
TMP = new_folder("answers")
WHOLE = ("--temp", "1", "--top-k", "0", "--top-p", "1", "--min-p", "0", "--no-close")
EXACT = ("-ctk", "f32", "-ctv", "f32")
PROMPTS = ("Once upon a time", "A list: ", "The record of Tom is ", "{", "What is 2 + 3?", "")
O = None


def put(name, data):
    path = os.path.join(TMP, name)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else jsonl(data))
    return path


def batch(lines, *args):
    """Records of a batch of these lines, and what stood on stderr."""
    r = finish(begin([O.binary, "-m", PIP, "--batch", put("in.jsonl", lines), "-np", "16", *args]), 600)
    check(r.rc in (0, 1), repr(r))
    return records(r.out), r.err


# --- schemas ---

def line(rng, keys, tokens):
    return {"prompt": rng.choice(PROMPTS), "max_tokens": tokens, "temperature": 1.5, "seed": rng.randrange(1 << 30), **keys}


def of_schema(schema):
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": schema}}}


def valid(v, text):
    try:
        return v.is_valid(json.loads(text))
    except ValueError:
        return False
    except (OverflowError, RecursionError):               # numbers that Python cannot hold: the oracle says nothing
        return True


def under_schemas(tokens, *args):
    """(finished, cut) over N answers under random schemas; what is refused is beside them."""
    rng, schemas = random.Random(O.seed), []
    n = O.answers // 5 if sanitized() else O.answers
    while len(schemas) < n * 5 // 4:                      # a fifth is refused: nothing satisfies it, or it cannot be held
        s = a_document(rng, rng.choice((1, 2, 2, 3)))
        schemas.append(s)
    got, err = batch([line(rng, of_schema(s), tokens) for s in schemas], *args)
    same(len(got), len(schemas), "records")
    c = collections.Counter()
    for no, r in sorted(got.items()):
        s = schemas[no - 1]
        if r.error:
            c["refused"] += 1
            continue
        choice = r.body["choices"][0]
        same(choice["finish_reason"] in ("stop", "length"), True, "finish_reason")
        if choice["finish_reason"] == "stop" or "--no-close" not in args:
            check(valid(validator(s), r.texts()[0]), "line %d, schema %s: %r is not valid" % (no, json.dumps(s), r.texts()[0]))
        c["finished" if choice["finish_reason"] == "stop" else "cut"] += 1
    check(c["refused"] < len(schemas) // 3, "%d of %d refused" % (c["refused"], len(schemas)))
    check(c["finished"] > n // 3, "%r" % c)
    print("      %s" % ", ".join("%d %s" % (v, k) for k, v in sorted(c.items())))


@case
def schemas():
    """answers under random schemas at temperature 1.5, which -n may cut: every finished one is valid"""
    validator(True)
    under_schemas(60, "--no-close")


@case
def schemas_closed():
    """the same without --no-close: every one ends, and is valid"""
    validator(True)
    under_schemas(60)


@case
def schemas_spaced():
    """the same with keys in any order, without blanks and with lines"""
    validator(True)
    for args in (("--json-order", "any", "--json-space", "none"), ("--json-order", "any", "--json-space", "one"), ("--json-space", "lines")):
        old, O.answers = O.answers, max(40, O.answers // 10)
        try:
            under_schemas(60, *args)
        finally:
            O.answers = old


# --- grammars and expressions ---

def finished(rows, err, got, accepts):
    c = collections.Counter()
    for no, r in sorted(got.items()):
        if r.error:
            c["refused"] += 1
        elif r.body["choices"][0]["finish_reason"] == "stop":
            check(accepts(rows[no - 1], r.texts()[0]), "line %d: %s: %r" % (no, rows[no - 1][0], r.texts()[0]))
            c["finished"] += 1
        else:
            c["cut"] += 1
    check(c["finished"] > len(rows) // 3, "%r" % c)
    print("      %s" % ", ".join("%d %s" % (v, k) for k, v in sorted(c.items())))


@case
def grammars():
    """answers under random grammars: every finished one is a text of its grammar"""
    rng, rows = random.Random(O.seed), []
    while len(rows) < max(50, O.answers // 5):
        rules = a_grammar(rng)
        if not left_recursive(rules) and Machine(rules).alive(Machine(rules).first):
            rows.append((gbnf(rules, rng), rules))
    def accepts(row, text):
        m = Machine(row[1])
        try:
            return m.whole(m.walk(text))
        except Machine.TooMany:
            return True
    finished(rows, *reversed(batch([line(rng, {"grammar": g}, 40) for g, _ in rows])), accepts)


@case
def expressions():
    """answers under random expressions: every finished one matches by Python's re"""
    rng, rows = random.Random(O.seed), []
    while len(rows) < max(50, O.answers // 5):
        text, node = a_regex(rng)
        m = Machine({"root": node})
        if m.alive(m.first):
            rows.append((text, None))
    finished(rows, *reversed(batch([line(rng, {"regex": e}, 40) for e, _ in rows])), lambda row, text: re.compile(row[0]).fullmatch(text.decode()))


# --- distributions ---

def pieces():
    """[(bytes, whether it ends an answer)] of the model's vocabulary"""
    import inflate
    f = inflate.File(PIP)
    raw, out, at = f.keys["tokenizer.ggml.tokens"][1], [], 12
    back = {c: i for i, c in enumerate(byte_chars())}
    for _ in range(int.from_bytes(raw[4:12], "little")):
        n = int.from_bytes(raw[at:at + 8], "little")
        text = raw[at + 8:at + 8 + n].decode()
        out.append((None, True) if text.startswith("<|") else (bytes(back[c] for c in text), False))
        at += 8 + n
    return out


def logits_after(text):
    r = finish(begin([O.binary, "-m", PIP, "-f", put("text.txt", text), "--logits", "-", "-q", *EXACT]), 60)
    same(r.rc, 0, "--logits")
    return array.array("f", r.out)


def tokens_of(text):
    r = finish(begin([O.binary, "-m", PIP, "-f", put("text.txt", text), "--tokenize", "--bos", "--special"]), 60)
    return [int(x) for x in r.out.split()]


class Exact:
    """What the first two tokens behind a prompt are under a constraint, n times: the model's probabilities of what may come."""

    def __init__(self, prompt, rules, n):
        self.prompt, self.n, self.words, self.machine = prompt, n, pieces(), Machine(rules)
        self.trie, self.ends = Trie(self.words), {i for i, (_, end) in enumerate(self.words) if end}
        ids = tokens_of(prompt)
        self.free, first = softmax(logits_after(prompt)[-len(self.words):], 0), self.after(b"")
        self.first = {self.words[i][0]: n * p for i, p in first.items()}
        self.pairs, left = collections.Counter(), float(n)
        for i, p in first.items():
            b = self.words[i][0]
            if n * p < 50 or tokens_of(prompt + b) != ids + [i]:
                continue                                  # too rare, or the text is cut elsewhere: in one cell
            for j, q in self.after(b).items():
                self.pairs[b, self.words[j][0]] += n * p * q
            left -= n * p
        self.known = {a for a, _ in self.pairs}
        self.pairs["else"] = left

    def after(self, text):
        logits = logits_after(self.prompt + text)[-len(self.words):]
        may = self.trie.allowed(self.machine, self.machine.walk(text))
        return {i: p for i, p in softmax([x if i in may else -math.inf for i, x in enumerate(logits)], 0).items() if p > 0}

    def verdict(self, answers):
        same(len(answers), self.n, "answers")
        return {"first tokens": fit(collections.Counter(a for a, _ in answers), self.first),
                "pairs": fit(collections.Counter((a, b) if a in self.known else "else" for a, b in answers), self.pairs)}


LETTERS = ("chars", ((97, 122),))
FIRST = ("chars", ((98, 107), (109, 122)))
WORD_PAIR = {"root": ("seq", lit(" "), FIRST, ("rep", LETTERS, 2, None), lit(" "), FIRST, ("rep", ("alt", LETTERS, lit("'")), 1, None), lit("."))}


@case
def chi_square():
    """first tokens and pairs under a mask follow the model's probabilities of what may come, drawn plainly, with guesses, and not what the model says without a mask"""
    if sanitized():
        raise Skip("too slow for as many answers")
    n, prompt = 2000, b"Once upon a time, there was a"
    exact = Exact(prompt, WORD_PAIR, n)
    keys = {"grammar": gbnf(WORD_PAIR, random.Random(1))}
    for what, more in (("plain", ("--no-lookup",)), ("with guesses", ("--lookup",))):
        got, err = batch([{"prompt": prompt.decode(), "seed": i, "max_tokens": 3, "logprobs": 0, **keys} for i in range(n)], *WHOLE, *EXACT, *more)
        answers = [tuple(map(bytes, r.body["choices"][0]["logprobs"]["bytes"][:2])) for _, r in sorted(got.items())]
        for name, p in exact.verdict(answers).items():
            check(p >= 1e-4, "%s, %s: p = %.2e" % (what, name, p))
    # Controls: much is forbidden; shares of another temperature do not pass, nor those of the model where what is forbidden stays in the sum.
    share = math.fsum(exact.free[i] for i in exact.after(b""))
    check(0.1 < share < 0.9, "the mask allows %.3f of what the model says" % share)
    firsts = collections.Counter(a for a, _ in answers)
    flat = {a: x ** 0.7 for a, x in exact.first.items()}
    total = math.fsum(flat.values())
    check(fit(firsts, {a: n * x / total for a, x in flat.items()}) < 1e-4, "another temperature passes too")
    check(fit(firsts, {a: x * share for a, x in exact.first.items()}) < 1e-4, "shares without a mask pass too")


if __name__ == "__main__":
    O = kit.arguments("binary", answers=1000, seed=1)
    sys.exit(kit.walk("answers", O.words, TMP))
