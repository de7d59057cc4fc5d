#!/usr/bin/env python3
"""Tests of constraints that are made to be hard: families of schemas, expressions and grammars, each at several sizes.

    python3 tests/hard.py ./llmrun [WORD ...] [--all]     cases whose name holds a word, else all; of 30 constraints, or of all of them
    python3 tests/hard.py ./llmrun [WORD ...] --list      CPU seconds, MiB and outcome of each alone; of those whose name holds a word
"""
import argparse, json, os, random, re, shutil, signal, subprocess, sys
from kit import SLOW, begin, case, check, done, finish, jsonl, new_folder, records, same, until_caught, walk

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PIP = os.path.join(HERE, "models", "pip-q4_k_m.gguf")
TMP = new_folder("hard")
SAMPLE = 30
O = None                               # options of this script

def chain(n, make, last):
    for i in reversed(range(n)):
        last = make(i, last)
    return last


def schema(**s):
    return {"structured_outputs": {"json": s}}


def regex(s):
    return {"regex": s}


def grammar(s):
    return {"grammar": s}


def text(pattern, **more):
    return schema(type="string", pattern=pattern, **more)


def late(n):
    """A language whose smallest deterministic automaton has 2^n states."""
    return "(a|b)*a(a|b){%d}" % n


def named(n, make):
    return {"k%d" % i: make(i) for i in range(n)}


def wide(n):
    return {"type": "object", "properties": named(n, lambda i: {"type": ["string", "integer", "null", "boolean"][i % 4]})}


def tree(n):
    """A recursive schema: each node refers to the next ones of a ring."""
    return {"$ref": "#/$defs/n0", "$defs": {"n%d" % i: {"type": "object", "properties": {
        "a": {"$ref": "#/$defs/n%d" % ((i + 1) % n)}, "b": {"type": "array", "items": {"$ref": "#/$defs/n%d" % ((2 * i + 1) % n)}}},
        "required": ["a"] if i % 3 else []} for i in range(n)}}


def words(n, size=6):
    return ["".join("abcdefgh"[(i * 7919 >> 3 * k) & 7] for k in range(size)) + str(i) for i in range(n)]


# name: function of a size, sizes. A larger size is harder.
FAMILIES = {
    # expressions
    "late regex":           (lambda n: regex(late(n)), (8, 12, 16, 18, 24, 40)),
    "late and bounded":     (lambda n: text("^(%s)$" % late(n), minLength=1000, maxLength=1005), (8, 11, 12, 13, 16)),
    "late somewhere":       (lambda n: text(late(n), minLength=1000, maxLength=1005), (6, 12, 14)),
    "late, once":           (lambda n: regex("(a|b){0,%d}a(a|b){%d}" % (n, n)), (10, 20, 100, 1000)),
    "nested counts":        (lambda n: regex("((a{1,%d}b){1,%d}c){1,%d}" % (n, n, n)), (10, 100, 1000, 100000)),
    "deep counts":          (lambda n: regex("(" * n + "a" + "{1,9})" * n), (3, 6, 12, 40)),
    "ambiguous counts":     (lambda n: regex("((a|aa){1,%d}){1,%d}b" % (n, n)), (10, 100, 1000)),
    "optional run":         (lambda n: regex("(a?){%d}a{%d}" % (n, n)), (10, 100, 1000, 10000)),
    "stars in stars":       (lambda n: regex("(" * n + "a*" + ")*" * n + "b"), (5, 50, 500)),
    "lookaheads":           (lambda n: text("^" + "".join("(?=.*%s.{%d})" % (c, n) for c in "abcd") + ".*$"), (1, 2, 4, 8)),
    "many lookaheads":      (lambda n: text("^" + "".join("(?=.*%c)" % (97 + i) for i in range(n)) + "[a-z]*$"), (6, 12, 14, 26)),
    "unicode classes":      (lambda n: regex(r"(\w\s?|\W){%d}" % n), (10, 1000)),
    "unicode any case":     (lambda n: regex(r"(?i)(straße|[à-þ]|\w{1,9}){1,%d}" % n), (10, 1000)),
    "categories":           (lambda n: text(r"^(\p{L}\p{M}*|\p{N}|\P{L}\p{Sm}){%d}$" % n), (5, 50, 500)),
    "wide classes":         (lambda n: regex("[" + r"\w" * n + "]"), (100, 400000)),
    "any case":             (lambda n: regex("(?i)" + "|".join(words(n))), (100, 10000)),
    "word edges":           (lambda n: regex(r"(\b\w{1,%d}\b ?)*" % n), (5, 50, 500)),
    "long alternatives":    (lambda n: regex("|".join(words(n))), (1000, 20000)),
    # strings of schemas
    "patterns in allOf":    (lambda n: schema(type="string", allOf=[{"pattern": "^(%s)$" % late(i)} for i in range(1, n)]), (4, 8, 12)),
    "counts in allOf":      (lambda n: schema(type="string", allOf=[{"pattern": "^((a|b){%d})*$" % p} for p in (2, 3, 5, 7, 11, 13, 17, 19)[:n]]), (3, 5, 8)),
    "letters somewhere":    (lambda n: schema(type="string", allOf=[{"pattern": chr(97 + i)} for i in range(n)]), (4, 10, 14, 20)),
    "patterns in not":      (lambda n: schema(type="string", **{"not": {"pattern": "^(%s)$" % late(n)}}), (8, 14, 20)),
    "bounded formats":      (lambda n: schema(type="string", format="uri", pattern="[a-z]{%d}" % n, maxLength=4 * n), (5, 50, 500)),
    "long and patterned":   (lambda n: text("^[a-z]+( [a-z]+)*$", minLength=n, maxLength=n + 9), (100, 4000, 100000)),
    "late and long":        (lambda n: text("^(%s)$" % late(9), minLength=n), (300, 3000)),
    "length of emails":     (lambda n: schema(type="string", format="email", minLength=n, maxLength=2 * n), (50, 500)),
    # objects
    "names of one kind":    (lambda n: schema(type="object", minProperties=6, propertyNames={"pattern": "^%s$" % late(n)}), (4, 8, 10, 12)),
    "many such names":      (lambda n: schema(type="object", minProperties=n, propertyNames={"pattern": "^%s$" % late(6)}), (6, 12, 40)),
    "few names":            (lambda n: schema(type="object", minProperties=n, propertyNames={"enum": words(n + 2, 2)}), (5, 20, 100)),
    "kinds of names":       (lambda n: schema(type="object", patternProperties={"^%s" % late(i): {"type": "integer", "minimum": i} for i in range(n)}), (4, 7, 10)),
    "letters in names":     (lambda n: schema(type="object", patternProperties={chr(97 + i): {"multipleOf": i + 2} for i in range(n)}), (4, 8, 12)),
    "least of many":        (lambda n: schema(**wide(n), minProperties=n // 2, additionalProperties=False), (10, 60, 200, 1000)),
    "at most some":         (lambda n: schema(**wide(n), maxProperties=n // 2), (10, 60, 300)),
    "required, any order":  (lambda n: schema(**wide(n), required=list(named(n, str))), (10, 100, 1000)),
    "wide objects":         (lambda n: schema(**wide(n)), (100, 2000, 20000)),
    "dependent keys":       (lambda n: schema(**wide(n), dependentRequired={"k%d" % i: ["k%d" % (i + 1)] for i in range(n - 1)}), (10, 60, 300)),
    "dependent schemas":    (lambda n: schema(**wide(n), dependentSchemas={"k%d" % i: {"minProperties": i % 7} for i in range(n)}), (4, 8, 16)),
    "deep objects":         (lambda n: {"structured_outputs": {"json": chain(n, lambda i, x: {"type": "object", "properties": {"k": x}, "required": ["k"]}, {"type": "null"})}}, (20, 60, 200)),
    # arrays
    "unique enum":          (lambda n: schema(type="array", uniqueItems=True, minItems=n - 3, items={"enum": list(range(n))}), (8, 23, 60, 250)),
    "unique words":         (lambda n: schema(type="array", uniqueItems=True, minItems=20, items={"type": "string", "pattern": "^%s$" % late(n)}), (4, 8, 10)),
    "unique short texts":   (lambda n: schema(type="array", uniqueItems=True, minItems=n, items={"type": "string", "minLength": 1, "maxLength": 2}), (10, 100, 1000)),
    "unique numbers":       (lambda n: schema(type="array", uniqueItems=True, minItems=n, items={"type": "integer", "minimum": 1, "maximum": n + 2}), (9, 90, 900)),
    "unique objects":       (lambda n: schema(type="array", uniqueItems=True, minItems=n, items={"type": "object", "properties": {"id": {"type": "string", "maxLength": 3}}, "required": ["id"]}), (5, 50, 500)),
    "contains":             (lambda n: schema(type="array", contains={"type": "integer", "minimum": n}, minContains=n, maxContains=2 * n), (3, 30, 1000)),
    "contains patterns":    (lambda n: schema(type="array", allOf=[{"contains": {"type": "string", "pattern": late(i)}} for i in range(n)]), (2, 4, 6)),
    "long arrays":          (lambda n: schema(type="array", minItems=n, maxItems=n + 1, items={"type": "array", "minItems": n, "items": {"enum": [1, "a"]}}), (10, 1000, 1000000)),
    "tuples":               (lambda n: schema(type="array", prefixItems=[{"enum": [i, str(i)]} for i in range(n)], minItems=n), (20, 500, 5000)),
    # numbers
    "multiples":            (lambda n: schema(type="integer", multipleOf=n), (7, 997, 65537, 1000003, 10**15 + 37)),
    "multiples together":   (lambda n: schema(type="integer", allOf=[{"multipleOf": p} for p in (7, 11, 13, 17, 19, 23)[:n]], minimum=1000), (2, 4, 6)),
    "fractions":            (lambda n: schema(type="number", multipleOf=float("1e-%d" % n), minimum=0.1, exclusiveMaximum=7.3), (2, 8)),
    "bounds":               (lambda n: {"structured_outputs": {"json": {"type": "integer", "minimum": -10**n + 7, "maximum": 10**n - 3}}}, (5, 17)),
    # combinations
    "products":             (lambda n: schema(allOf=[{"anyOf": [{"type": "object", "properties": {"k%d" % i: {"const": v}}, "required": ["k%d" % i]} for v in range(n)]} for i in range(n)]), (2, 4, 6, 9)),
    "one of many":          (lambda n: schema(oneOf=[{"type": "object", "properties": {"k%d" % i: {"type": "string"}, "k%d" % (i + 1): {"type": "integer"}}} for i in range(n)]), (4, 10, 40)),
    "one of objects":       (lambda n: schema(oneOf=[{"type": "object", "properties": {"kind": {"const": i}, "v": {"type": "string"}}, "required": ["kind"]} for i in range(n)]), (20, 300)),
    "if in if":             (lambda n: {"structured_outputs": {"json": chain(n, lambda i, x: {"if": {"properties": {"k%d" % i: {"const": 1}}}, "then": {"required": ["k%d" % (i + 1)]}, "else": x}, {"type": "object"})}}, (3, 6, 10, 14)),
    "not in not":           (lambda n: {"structured_outputs": {"json": chain(n, lambda i, x: {"not": {"anyOf": [x, {"pattern": "k%d" % i}, {"minimum": i}]}}, {"type": "string"})}}, (4, 8, 16)),
    "big enum":             (lambda n: schema(enum=words(n)), (1000, 50000)),
    "big mixed enum":       (lambda n: schema(enum=[w if i % 3 else [i, {w: i}] for i, w in enumerate(words(n))]), (200, 5000)),
    "rings":                (lambda n: schema(**tree(n)), (2, 20, 300)),
    "doubling references":  (lambda n: schema(**{"$ref": "#/$defs/d0", "$defs": {"d%d" % i: {"allOf": [{"$ref": "#/$defs/d%d" % (i + 1)}] * 2} if i < n else {"type": "array"} for i in range(n + 1)}}), (10, 25, 60)),
    "doubling objects":     (lambda n: schema(**{"$ref": "#/$defs/d0", "$defs": {"d%d" % i: {"type": "object", "properties": {k: {"$ref": "#/$defs/d%d" % (i + 1)} for k in "ab"}, "required": ["a", "b"]} if i < n else {"type": "null"} for i in range(n + 1)}}), (5, 12, 40)),
    "unevaluated":          (lambda n: schema(anyOf=[{"properties": {"k%d" % i: True}} for i in range(n)], type="object", unevaluatedProperties=False), (4, 10)),
    # grammars
    "counts in a grammar":  (lambda n: grammar('root ::= (("a" | "b"){1,%d} ("c"){0,%d}){1,%d}' % (n, n, n)), (10, 1000, 100000)),
    "ambiguous grammar":    (lambda n: grammar('root ::= ' + ' | '.join('s "%s"' % ("b" * i) for i in range(1, n)) + '\ns ::= "a" s s | "a"'), (3, 30)),
    "palindromes":          (lambda n: grammar('root ::= ' + ' | '.join('"%c" root "%c"' % (97 + i, 97 + i) for i in range(n)) + ' | ""'), (2, 20)),
    "nullable rules":       (lambda n: grammar('root ::= ' + ' '.join('r%d' % i for i in range(n)) + ''.join('\nr%d ::= "%c"? r%d?' % (i, 97 + i % 26, i + 1) if i + 1 < n else '\nr%d ::= "z"?' % i for i in range(n))), (5, 30, 200)),
    "rules in rules":       (lambda n: grammar('root ::= r0\n' + ''.join('r%d ::= r%d r%d\n' % (i, i + 1, i + 1) for i in range(n)) + 'r%d ::= "a" | "b"\n' % n), (10, 30, 60)),
    "many rules":           (lambda n: grammar('root ::= ' + ' | '.join('r%d' % i for i in range(n)) + ''.join('\nr%d ::= "%d" r%d | "x"' % (i, i % 10, (i * 7 + 1) % n) for i in range(n))), (100, 5000)),
    "words somewhere":      (lambda n: grammar("root ::= [^\\x00]* w\nw ::= " + " | ".join('"%s"' % w for w in words(n))), (300, 20000)),
    "loops beside loops":   (lambda n: grammar("root ::= " + " | ".join('([a-z ]* "%c"){%d}' % (97 + i % 26, i + 2) for i in range(n))), (20, 400)),
    "counts after counts":  (lambda n: grammar("root ::= " + " ".join("([a-z ]{0,%d} [b-y ]*){0,%d}" % (i + 3, i + 5) for i in range(n))), (5, 120)),
    "any text, then":       (lambda n: grammar('root ::= [^\\x00]* ' + ' '.join('"%c" [^\\x00]*' % (97 + i % 26) for i in range(n))), (3, 30, 300)),
}
HARD = {"%s %d" % (name, n): dict(prompt="x", max_tokens=60, seed=1, temperature=0.8, **make(n)) for name, (make, sizes) in FAMILIES.items() for n in sizes}
PLAIN = [{"prompt": "Once upon a time", "max_tokens": 24, "seed": 3}, {"prompt": "A list:", "max_tokens": 24, "temperature": 0, "regex": r"( [a-z]{1,9},){2,5} and [a-z]+\."},
         {"prompt": "Pip", "max_tokens": 30, "seed": 5, **schema(type="object", properties={"name": {"type": "string", "maxLength": 9}, "age": {"type": "integer"}},
                                                               required=["name", "age"], additionalProperties=False)}]

# what a line may take, beside the model: see CONSTRAIN_WORK and the enumerators after it, MASK_WORK
WAYS = (1 << 23) + 60 * (1 << 14) + (1 << 21)
STEPS = 2 * (1 << 26) + 60 * (1 << 18) + (1 << 23)   # guesses may take as much as the answer
CPU, MEM = 20, 256                     # seconds, with much to spare: a line takes less than one; MiB
COUNTS = re.compile(rb"constraint  \d+ steps of \d+ not known before in (\d+) units of work, .*, \d+ searches for ways in (\d+) units")


def chosen():
    """All of them, or the hardest of the families in turn."""
    if O.all:
        return list(HARD)
    last = ["%s %d" % (name, sizes[-1]) for name, (_, sizes) in FAMILIES.items()]
    return random.Random(7).sample(last, SAMPLE)


def put(name, lines):
    path = os.path.join(TMP, name)
    with open(path, "wb") as f:
        f.write(jsonl(lines))
    return path


def cost(lines, *args, seconds=CPU):
    """A batch of these lines: exit code, stdout, stderr, CPU seconds, MiB at most."""
    path = put("cost.jsonl", lines)
    limit = int(seconds * SLOW)
    with open(os.path.join(TMP, "err"), "w+b") as err:
        p = subprocess.Popen(["sh", "-c", "ulimit -t %d; exec \"$0\" \"$@\"" % limit, O.binary, "-m", PIP, "--batch", path, *args], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=err)
        out = p.stdout.read()
        _, status, used = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
        err.seek(0)
        return p.returncode, out, err.read(), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def outcome(r):
    """The texts of a record, or its error without the token at which the work of masks ended: guesses may have done some of it."""
    return r.texts() if r.body else re.sub(r"after token \d+", "", r.error["message"])


@case
def alone():
    """each constraint alone: an answer, or a clear error of its line; the work for its ways and its masks, counted in units, and its memory have a bound"""
    for name in chosen():
        rc, out, err, _, mem = cost([HARD[name]], "-v", "-t", "1")
        check(rc in (0, 1), "%s: exit %d, %r" % (name, rc, err[-300:]))
        r = records(out)[1]
        check(r.body or re.fullmatch(r"(structured_outputs|regex|grammar|the constraint).*(more than|spent|too many|too much|too large|expected at most|no text|room|supported|satisfies).*",
                                     r.error["message"]), "%s: %r" % (name, r.error))
        for steps, ways in COUNTS.findall(err):
            check(int(steps) <= STEPS and int(ways) <= WAYS, "%s: %s units of steps, %s of ways" % (name, steps.decode(), ways.decode()))
        check(mem <= MEM * (4 if SLOW > 1 else 1), "%s: %d MiB" % (name, mem))


@case
def together():
    """in one file with ordinary lines: these have the text that they have alone, the hard ones too, in the memory of a few, by one thread and two, with choices"""
    names = chosen()
    lines = [x for i, name in enumerate(names) for x in (HARD[name], PLAIN[i % 3])]
    rc, out, err, _, mem = cost(lines, "-q", seconds=CPU * len(names))
    check(rc in (0, 1) and mem <= 3 * MEM * (4 if SLOW > 1 else 1), "exit %d, %d MiB, %r" % (rc, mem, err[-300:]))
    found = records(out)
    own = records(done(finish(begin([O.binary, "-m", PIP, "--batch", put("plain.jsonl", PLAIN), "-q"])), "the ordinary lines"))
    for i in range(len(names)):
        same(found[2 * i + 2].texts(), own[i % 3 + 1].texts(), "an ordinary line beside %s" % names[i])
        same(found[2 * i + 2].body["usage"]["completion_tokens"], own[i % 3 + 1].body["usage"]["completion_tokens"], "its tokens")
    for i in range(0, len(names), 1 if O.all else 3):
        one = records(cost([HARD[names[i]]], "-q", "-t", "1")[1])[1]
        same(outcome(found[2 * i + 1]), outcome(one), "%s in the file" % names[i])


@case
def known_before():
    """where the budget of a line ends does not depend on what the lines before it have found: the same line thrice, without guesses, by two threads; its choices share it"""
    for name, n in (("unique objects 5", 1), ("unique short texts 10", 1), ("names of one kind 4", 3), ("palindromes 20", 1), ("dependent schemas 8", 2)):
        line = dict(HARD[name], n=n)
        one = records(cost([line], "-q", "-t", "1")[1])[1].texts()
        found = records(cost([line] * 3, "-q", "-t", "2", "--no-lookup")[1])
        for no in found:
            same(found[no].texts(), one, "%s, %d choices, line %d" % (name, n, no))


@case
def ends_close():
    """an array of objects that differ in a key ends whole within its tokens, as its ways are found in the budget"""
    for tokens in (60, 80):
        r = records(cost([dict(HARD["unique objects 5"], max_tokens=tokens)], "-q")[1])[1]
        same(r.body["choices"][0]["finish_reason"], "stop", "%d tokens" % tokens)
        ids = [x["id"] for x in json.loads(r.texts()[0])]
        check(len(ids) >= 5 and len(set(ids)) == len(ids), "%d tokens: %r" % (tokens, ids))


@case
def interrupted():
    """SIGINT while a constraint is compiled, searched or masked: exit 130, no line has an error for it, --resume answers the rest as without"""
    lines = [dict(HARD[n], custom_id=n) for n in ("patterns in not 14", "letters somewhere 10", "nullable rules 200", "palindromes 20")]
    whole = records(cost(lines, "-q", "-t", "1")[1])
    for tenths in (1, 4):
        path = os.path.join(TMP, "interrupted%d.jsonl" % tenths)
        p = begin([O.binary, "-m", PIP, "--batch", put("in.jsonl", lines), "-q", "-np", "1", "-t", "1", "-o", path])
        until_caught(p, signal.SIGINT)
        try:
            p.wait(tenths / 10)
        except subprocess.TimeoutExpired:
            p.send_signal(signal.SIGINT)
        r = finish(p)
        check(r.rc in (0, 1, 130), repr(r))
        with open(path, "rb") as f:
            for no, x in records(b"".join(y for y in f.read().splitlines(True) if b'"custom_id"' in y)).items():
                same((x.error, x.texts()), (whole[no].error, whole[no].texts()), "a line before the interrupt")
        finish(begin([O.binary, "-m", PIP, "--batch", put("in.jsonl", lines), "-q", "-t", "1", "--resume", "-o", path]))
        with open(path, "rb") as f:
            found = records(b"".join(y for y in f.read().splitlines(True) if b'"custom_id"' in y))
        same({no: x.texts() for no, x in found.items()}, {no: x.texts() for no, x in whole.items()}, "resumed")


def show(words):
    for name, line in HARD.items():
        if not words or any(w in name for w in words):
            rc, out, err, cpu, mem = cost([line], "-q", "-t", "1")
            r = records(out)[1] if out else None
            said = "exit %d %r" % (rc, err[-100:]) if not r else r.error["message"][:100] if r.error else "%s %r" % (r.body["choices"][0]["finish_reason"], r.texts()[0][:60])
            print("%6.2f s %6.0f MiB  %-28s %s" % (cpu, mem, name, said), flush=True)
    shutil.rmtree(TMP, ignore_errors=True)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("binary")
    p.add_argument("words", nargs="*")
    p.add_argument("--all", action="store_true")
    p.add_argument("--list", action="store_true")
    O = p.parse_intermixed_args()
    O.binary = os.path.abspath(O.binary)
    sys.exit(show(O.words) if O.list else walk("hard", O.words, TMP))
