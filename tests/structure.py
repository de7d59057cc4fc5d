#!/usr/bin/env python3
"""Tests of structured output by running the command: an answer is what its constraint asks for, however it is made.

    python3 tests/structure.py ./llmrun [--stress BINARY] [--answers N] [WORD ...]     cases whose name holds a word, else all

--stress: a build that preempts at every step; its answers are held against those of the first.
--answers: answers of `held` for each constraint.
The oracles are Python's re and json, sets of texts, and jsonschema where it is installed.
"""
import argparse, json, os, re, sys
from kit import begin, case, check, done, equal, finish, jsonl, new_folder, records, refused, same, short, walk

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(HERE, "tests", "gen"))
PIP = os.path.join(HERE, "models", "pip-q4_k_m.gguf")
DRAFT = os.path.join(HERE, "models", "pip-draft-q8_0.gguf")
SMALL = os.path.join(HERE, "tests", "data", "tiny", "llama.gguf")
TMP = new_folder("structure")
O = None                               # options of this script
N = 80                                 # tokens of an answer


def put(name, data):
    path = os.path.join(TMP, name)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode() if isinstance(data, str) else jsonl(data))
    return path


def run(*args, inp=None, binary=None, timeout=60, **kw):
    if inp is not None:
        kw["stdin"] = -1
    return finish(begin([binary or O.binary, *args], **kw), timeout, inp)


def good(*args, **kw):
    return done(run(*args, **kw), args)


def batch(lines, *args, model=PIP, rc=0, binary=None):
    r = run("-m", model, "--batch", put("in.jsonl", lines), "-q", *args, binary=binary, timeout=120)
    check(r.rc == rc, "%s: want exit %d, got %r" % (" ".join(args), rc, r))
    return records(r.out)


# --- constraints, and what they mean by somebody else's words ---

RECORD = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8},
                                           "age": {"type": "integer", "minimum": 1, "maximum": 99},
          "pet": {"enum": ["cat", "dog", None]}}, "required": ["name", "age", "pet"], "additionalProperties": False}
GRAMMAR = 'root ::= item ("," " "? item){0,5} "."\nitem ::= [a-z]{1,6} | "(" item ")"\n'


def is_json(t):
    try:
        return json.loads(t.decode()) is not None or True
    except ValueError:
        return False


def is_record(t):
    if not is_json(t):
        return False
    v = json.loads(t)
    return isinstance(v, dict) and list(v) == ["name", "age", "pet"] and isinstance(v["name"], str) and \
        len(v["name"]) <= 8 and type(v["age"]) is int and \
        1 <= v["age"] <= 99 and v["pet"] in ("cat", "dog", None)


def is_list(t):
    flat = t
    while re.search(rb"\([a-z]{1,6}\)", flat):
        flat = re.sub(rb"\(([a-z]{1,6})\)", rb"\1", flat)
    return bool(re.fullmatch(rb"[a-z]{1,6}(, ?[a-z]{1,6}){0,5}\.", flat))


def fits(pattern):
    return lambda t: re.fullmatch(pattern, t.decode("utf-8", "replace"), re.A) is not None


# name: options of a command, keys of a body, the judge
HELD = {
    "choice": (["--choice", "yes|no|not at all"], {"structured_outputs": {"choice": ["yes", "no", "not at all"]}},
               lambda t: t in (b"yes", b"no", b"not at all")),
    "regex": (["--regex", r"[A-Z][a-z]{2,9}( [a-z]{1,8}){0,6}\."], {"regex": r"[A-Z][a-z]{2,9}( [a-z]{1,8}){0,6}\."},
              fits(r"[A-Z][a-z]{2,9}( [a-z]{1,8}){0,6}\.")),
    "date": (["--regex", r"(19|20)\d\d-(0[1-9]|1[0-2])-[0-3]\d"],
             {"guided_regex": r"(19|20)\d\d-(0[1-9]|1[0-2])-[0-3]\d"}, fits(r"(19|20)\d\d-(0[1-9]|1[0-2])-[0-3]\d")),
    "grammar": (["--grammar", GRAMMAR], {"grammar": GRAMMAR}, is_list),
    "record": (["--json-schema", json.dumps(RECORD)],
               {"response_format": {"type": "json_schema",
                                    "json_schema": {"name": "r", "strict": True, "schema": RECORD}}}, is_record),
    "object": (["--json-schema", '{"type":"object"}'], {"response_format": {"type": "json_object"}},
               lambda t: is_json(t) and t.lstrip()[:1] == b"{"),
}
PROMPTS = ["Once upon a time", "The cat said", "Pip was", "{", "A list:", ""]


def bodies(n, names=None, **more):
    """Lines with constraints in turn, a line without one now and then."""
    names, out = names or list(HELD), []
    for i in range(n):
        held = {} if i % 7 == 6 else HELD[names[i % len(names)]][1]
        out.append({"custom_id": "%d %s" % (i, "free" if i % 7 == 6 else names[i % len(names)]),
                    "prompt": PROMPTS[i % len(PROMPTS)] or " ", "max_tokens": N,
                    "temperature": [0, 0.8, 1.5][i % 3], "seed": i, **held, **more})
    return out


def judge(found, must_end=False):
    """Every finished answer of these records is what its constraint asks for. Returns how many there are."""
    whole = 0
    for r in found.values():
        name, choice = r.id.split()[1], r.body["choices"][0]
        if name == "free" or (choice["finish_reason"] != "stop" and not must_end):
            continue
        text = choice["text"].encode()
        check(HELD[name][2](text), "%s: %s is not what it asks for" % (r.id, short(text)))
        whole += 1
    return whole


# --- answers ---

@case
def held():
    """every finished answer is what its constraint asks for, by the judgement of re, json and sets; --match agrees"""
    for name, (options, _, is_one) in HELD.items():
        whole = 0
        for seed in range(O.answers):
            r = run("-m", PIP, "--raw", "-p", PROMPTS[seed % len(PROMPTS)] or " ", "-n", str(N), "-s", str(seed),
                    "--temp", "0" if seed == 0 else "1.2", *options, "--json")
            check(r.rc == 0, "%s: %r" % (name, r))
            answer = json.loads(r.out)
            text, unfinished = answer["text"].encode(), b"unfinished" in r.err
            same(answer["finish_reason"] == "length", unfinished,
                 "%s, %s: finish reason and message %r" % (name, short(text), r.err[-200:]))
            same(is_one(text), not unfinished, "%s: %s" % (name, short(text)))
            m = run("--match", *options, inp=text)
            same(m.rc, 1 if unfinished else 0, "%s: --match of %s says %r" % (name, short(text), m.err))
            whole += not unfinished
        check(whole, "%s: no answer was finished" % name)


@case
def one_text():
    """the same bytes alone, in a batch of 32, with guesses and without, by one thread and two, with a small cache, resumed"""
    lines = bodies(32)
    want = batch(lines, "-np", "1", "--no-lookup", "-t", "1")
    check(judge(want) >= 16, "too few finished answers")
    for args in (["-np", "32"], ["-np", "32", "--no-lookup", "-t", "2"], ["-np", "5", "-t", "2"],
                 ["-np", "32", "-md", DRAFT], ["-np", "4", "-md", DRAFT, "--no-lookup", "-t", "1"],
                 ["-np", "32", "--kv-blocks", "40"], ["-np", "8", "--batch-static"]):
        equal(batch(lines, *args), want, " ".join(args))
    if O.stress:
        equal(batch(lines, "-np", "8", binary=O.stress), want, "preempted at every step")
    path, out = put("lines.jsonl", lines), os.path.join(TMP, "out.jsonl")
    good("-m", PIP, "--batch", path, "-o", out, "-np", "32", "-q")
    with open(out, "rb") as f:
        made = f.read().splitlines(True)
    with open(out, "wb") as f:
        f.writelines(made[:11])
    good("-m", PIP, "--batch", path, "-o", out, "-np", "3", "--resume", "-q")
    with open(out, "rb") as f:
        equal(records(f.read()), want, "resumed")
    for i, line in enumerate(lines[:8]):
        text = good("-m", PIP, "--raw", "-p", line["prompt"], "-n", str(N), "--temp", str(line["temperature"]), "-s", str(i),
                    *(HELD[line["custom_id"].split()[1]][0] if i % 7 != 6 else []), "-q")
        same(text, want[i + 1].body["choices"][0]["text"].encode(), "line %d as a command" % (i + 1))


@case
def closed():
    """where nothing may follow the answer ends at once, also under --ignore-eos, without an end token or a step for one"""
    for more in ([], ["--ignore-eos"]):
        r = run("-m", PIP, "--raw", "-p", "x", "-n", "50", "--choice", "yes|no", "--json", "-v", *more)
        answer = json.loads(r.out)
        check(answer["text"] in ("yes", "no") and answer["finish_reason"] == "stop" and b"lets nothing follow" in r.err, repr(r))
    one = batch([{"prompt": "x", "max_tokens": 1, "ignore_eos": True, "structured_outputs": {"choice": ["a"]}}])[1].body
    same((one["choices"][0]["text"], one["choices"][0]["finish_reason"], one["usage"]["completion_tokens"]),
         ("a", "stop", 1), "as many tokens as -n allows")
    empty = batch([{"prompt": "x", "regex": ""}])[1].body
    same((empty["choices"][0]["text"], empty["choices"][0]["finish_reason"], empty["usage"]["completion_tokens"]),
         ("", "stop", 0), "only the empty text")
    r = batch([{"prompt": "x", "max_tokens": 30, "ignore_eos": True, "regex": "a*"}])[1].body["choices"][0]
    same((r["text"].strip("a"), r["finish_reason"]), ("", "length"), "whole, but more may follow")


@case
def unfinished():
    """an answer that is cut before its constraint is met: exit 1, one line on stderr, with -q too, and its finish reason; its text and the caches are written all the same"""
    long = ["--regex", "[a-z]{40}"]
    r = run("-m", PIP, "--raw", "-p", "x", "-n", "3", *long)
    said = b"llmrun: the answer is unfinished: 3 tokens, as many as -n allows; its constraint is not met\n"
    check(r.rc == 1 and r.err.endswith(said) and re.fullmatch(b"[a-z]+", r.out.strip()), repr(r))
    r = run("-m", PIP, "--raw", "-p", "x y", "-c", "16", "--regex", "[a-z ]{400}")
    check(r.rc == 1 and b"the answer is unfinished: the context is full" in r.err, repr(r))
    kept = os.path.join(TMP, "unfinished.cache")
    r = run("-m", PIP, "--raw", "-p", "x", "-n", "3", "-q", *long, "-o", os.path.join(TMP, "unfinished.txt"), "--prompt-cache", kept, "--kv-block-size", "1")
    same((r.rc, r.err), (1, said), "-q")
    check(os.path.getsize(kept) and re.fullmatch(b"[a-z]+", open(os.path.join(TMP, "unfinished.txt"), "rb").read()), "what -q wrote")
    r = run("-m", PIP, "-p", "x", "-n", "3", "-q", *long)
    check(r.rc == 1 and r.err == said and re.fullmatch(b"[a-z]+\n", r.out), "a message: %r" % r)
    stop = ["--regex", "ab(cd)?;"]
    r = run("-m", PIP, "--raw", "-p", "x", "--stop", ";", *stop, "--json")
    check(r.rc == 1 and json.loads(r.out)["finish_reason"] == "stop" and b"unfinished: a stop text" in r.err, repr(r))
    r = run("-m", PIP, "--raw", "-p", "x", "--stop", ";", "--regex", "ab(cd)?;?", "--json", "--logit-bias", "0-inf",
            "--logit-bias", "2-inf")
    check(r.rc == 0 and json.loads(r.out)["text"] in ("ab", "abcd") and b"unfinished" not in r.err, "cut where it is whole: %r" % r)
    lines = [{"prompt": "x", "max_tokens": 2, "regex": "[a-z]{40}", "n": 2}, {"prompt": "x", "regex": "a"}]
    path = put("in.jsonl", lines)
    r = run("-m", PIP, "--batch", path, "-q")
    same((r.rc, r.err), (1, b"llmrun: %s: 2 answers are unfinished: cut before the constraint was met\n" % path.encode()), "a batch")
    bad = run("-m", PIP, "--batch", put("in.jsonl", [*lines, {"prompt": 1}]), "-q")
    same((bad.rc, bad.err.split(b": ", 2)[2]), (1, b"1 line is answered with an error, 2 answers are unfinished: cut before the constraint was met\n"), "and an error")
    found = records(r.out)
    same([c["finish_reason"] for c in found[1].body["choices"]], ["length"] * 2, "finish reasons")


@case
def nothing_left():
    """where logit biases leave nothing that is allowed, the answer is an error, never another text"""
    ids = good("-m", PIP, "--mask", "--choice", "yes|no", "-p", "").split()
    check(ids, "no ids")
    bias = [x for i in ids for x in ("--logit-bias", i.decode() + "-inf")]
    refused(run("-m", PIP, "--raw", "-p", "x", "--choice", "yes|no", *bias), 2, "no token is possible", "all of them are forbidden")
    lines = [{"prompt": "x", "structured_outputs": {"choice": ["yes", "no"]},
              "logit_bias": {i.decode(): -1e30 for i in ids}}, {"prompt": "x", "regex": "a"}]
    found = batch([dict(lines[0], logit_bias={i.decode(): -1e30 for i in ids}), lines[1]])
    check(found[1].body["choices"][0]["text"] in ("yes", "no") or found[1].error, "a finite bias leaves the choice")


# tokens that the shortest text of each surely fits into
FITS = {"choice": 2, "regex": 5, "date": 12, "grammar": 3, "record": 32, "object": 2}


@case
def ended_whole():
    """an answer ends whole within -n wherever that is possible, and is unfinished where it is not; --no-close lets -n cut it"""
    for name, (options, _, is_one) in HELD.items():
        ended = []
        for n in (1, 2, 5, 12, 32):
            for seed in range(3):
                r = run("-m", PIP, "--raw", "-p", "x", "-n", str(n), "-s", str(seed), "--temp", "1.5", *options, "--json")
                whole = b"unfinished" not in r.err
                same(r.rc, 0 if whole else 1, "%s, -n %d: exit code" % (name, n))
                check(whole == is_one(json.loads(r.out)["text"].encode()), "%s, -n %d: %r" % (name, n, r))
                ended.append((n, whole))
        check(all(whole for n, whole in ended if n >= FITS[name]),
              "%s: its shortest text fits into %d tokens: %s" % (name, FITS[name], ended))
        check(not all(whole for n, whole in ended), "%s: -n 1 cut nothing" % name)
    ways = [run("-m", PIP, "--raw", "-p", "x", "-n", "8", "-s", "1", "-q", "-j", '{"type":"array","minItems":3,"items":{"type":"string"}}', *more)
            for more in ((), ("--close",), ("--no-close",), ("--no-close", "--close"))]
    same([(r.rc, r.out == ways[0].out) for r in ways], [(0, True), (0, True), (1, False), (0, True)], "exit code, and whether the text is the same")


@case
def own_probabilities():
    """log-probabilities are the model's own, whatever the constraint forbids"""
    ask = {"prompt": "Once upon a time", "max_tokens": 6, "temperature": 0, "logprobs": 5, "seed": 1}
    free, held = batch([ask])[1].body["choices"][0], batch([dict(ask, regex="[A-Z]{3}[0-9]+")])[1].body["choices"][0]
    same(held["logprobs"]["top_logprobs"][0].items() >= free["logprobs"]["top_logprobs"][0].items(), True,
         "the likeliest tokens at the first place")
    check(held["text"] != free["text"]
          and held["logprobs"]["token_logprobs"][0] < min(free["logprobs"]["top_logprobs"][0].values()),
          "the constraint changed nothing")


@case
def behind_a_text():
    """--grammar-after: free text up to the first TEXT, then the constraint"""
    seen = 0
    for seed in range(6):
        r = run("-m", PIP, "--raw", "-p", "Once upon a time", "-n", "120", "-s", str(seed), "--temp", "1", "--grammar-after",
                ". ", "--choice", "yes|no", "--json")
        text = json.loads(r.out)["text"]
        same(r.rc, int(b"unfinished" in r.err), "exit code: %r" % r)
        if b"unfinished" in r.err:
            check(". " not in text or text.split(". ", 1)[1] in ("", "y", "ye", "n"), short(text))
            continue
        check(re.fullmatch(r"(?s)((?!\. ).)*\. (yes|no)", text), short(text))
        seen += 1
    check(seen, "no answer came to it")
    for text, rc in (("abc. yes", 0), (". no", 0), ("a. b. yes", 1), ("yes", 1)):
        same(run("--match", "--grammar-after", ". ", "--choice", "yes|no", inp=text.encode()).rc, rc, text)
    refused(run("--match", "--grammar-after", "x" * 2000, "--choice", "yes"), 2, "2000 bytes", "a long mark")


@case
def shifted():
    """a context shift does not change where an answer stands in its constraint"""
    r = run("-m", PIP, "--raw", "-p", "x", "-c", "24", "--context-shift", "-n", "300", "--regex", "([a-z]{3}[0-9]{2};){30}", "-q")
    check(r.rc == 0 and re.fullmatch(rb"([a-z]{3}[0-9]{2};){30}", r.out.strip()), repr(r))


@case
def talked():
    """every answer of a conversation has the constraint; one that is cut is said, and the exit code is 1"""
    r = run("-m", PIP, "-i", "-n", "40", "--choice", "yes|no", "-q", inp=b"Are you Pip?\nReally?\n")
    check(r.rc == 0 and re.fullmatch(rb"((yes|no)\s+){2}", r.out), repr(r))
    r = run("-m", PIP, "-i", "-n", "3", "--regex", "[a-z]{40}", "-q", inp=b"Are you Pip?\nReally?\n")
    said = b"llmrun: the answer is unfinished: 3 tokens, as many as -n allows; its constraint is not met\n"
    same((r.rc, r.err), (1, said * 2 + b"llmrun: 2 answers do not meet the constraint\n"), "cut answers")


# --- what is refused ---

BAD = [("grammar", 'root ::= "a" x'), ("grammar", 'root ::= root "a" | "b"'), ("grammar", "x ::= y"),
       ("grammar", 'root ::= "a" root'), ("regex", "(a"), ("regex", r"(a)\1"), ("regex", "a(?=b)"),
       ("json_schema", '{"type": 5}'), ("json_schema", '{"$ref": "http://example.com/x"}'),
       ("json_schema", '{"allOf": [{"type": "string"}, {"type": "null"}]}'), ("json_schema", "{"),
       ("json_schema", '{"type": "string", "pattern": "(?=a)b"}')]


@case
def refused_before():
    """a constraint that cannot be held is refused before the model runs, with a line and exit code 2; in a batch with a record"""
    option = {"grammar": "--grammar", "regex": "--regex", "json_schema": "--json-schema"}
    for kind, text in BAD:
        refused(run("-m", PIP, "-p", "x", option[kind], text), 2, option[kind], text)
        refused(run("--match", option[kind], text, inp=b""), 2, option[kind], text)
    for kind, name in (("grammar", "--grammar-file"), ("json_schema", "--json-schema-file")):
        path = put("bad.txt", next(t for k, t in BAD if k == kind))
        refused(run("-m", PIP, "-p", "x", name, path), 2, "llmrun: " + re.escape(path) + ": ", name)
        refused(run("-m", PIP, "-p", "x", name, path + ".none"), 2, "No such file", name)
    same(run("--match", "--json-schema-file", put("marked.json", '\ufeff{"const":1}'), inp=b"1").rc, 0,
         "a schema after a byte order mark")
    lines = []
    for kind, text in BAD:
        try:
            form = {kind: text}
            if kind == "json_schema":
                form = {"response_format": {"type": "json_schema", "json_schema": {"schema": json.loads(text)}}}
        except ValueError:
            continue
        lines += [{"prompt": "x", "max_tokens": 2, **form}, {"prompt": "x", "max_tokens": 2}]
    for names in ("regex", "guided_regex", "regex"), ("guided_regex", "regex"):
        found = batch([{"prompt": "a", name: "("} for name in names], rc=1)
        same([found[i + 1].error["message"].split(":")[0] for i in range(len(names))], list(names), "names of equal constraints")
    found = batch(lines, rc=1)
    for no, r in found.items():
        same(r.error is not None, no % 2 == 1, "line %d: %s" % (no, short(r.line)))
        check(r.error is None or re.match("(grammar|regex|response_format): ", r.error["message"]), short(r.line))


@case
def ends_where_whole():
    """an answer that is whole ends: with --ignore-eos, --close, no shift; XTC and DRY never forbid what a constraint leaves"""
    for n in range(1, 6):
        r = run("-m", PIP, "--raw", "-p", "Hello", "-s", "1", "-q", "--regex", "(qz)*", "--ignore-eos", "--close", "-n", str(n))
        check(r.rc == 0 and re.fullmatch(rb"(qz)*", r.out) and len(r.out) <= n, "-n %d: %r" % (n, r))
        found = batch([{"prompt": "Hello", "max_tokens": n, "ignore_eos": True, "regex": "(qz)*", "seed": 1}], "--close")[1]
        same(found.body["choices"][0]["text"].encode(), r.out, "in a batch, -n %d" % n)
    r = run("-m", PIP, "--raw", "-p", "one two three four five six seven eight nine ten", "-c", "16", "--context-shift",
            "--keep", "-1", "--json-schema", '{"type":"array","items":{"type":"integer"}}', "--close",
            "-s", "1", "-q")
    same((r.rc, json.loads(r.out)), (0, []), "--close where the prompt fills the context")
    xtc = ("-m", PIP, "--raw", "-p", "Hello", "-n", "5", "-s", "1", "--xtc-probability", "1", "--xtc-threshold", "0", "--top-p",
           "1", "--min-p", "0", "-q")
    check(run(*xtc, "--choice", "yes|no").out in (b"yes", b"no"), "XTC under a constraint")
    same(run(*xtc, "--top-k", "0", "--ignore-eos").rc, 0, "XTC without end tokens")
    r = run("-m", PIP, "--raw", "-p", "Hello", "-n", "60", "-s", "1", "--dry-multiplier", "1000", "--dry-base", "1000",
            "--dry-penalty-last-n", "1000", "-c", "1024", "--regex", "(%){50}", "-q")
    same((r.rc, r.out), (0, b"%" * 50), "DRY under a constraint")


# --- --match and --mask ---

@case
def matched():
    """--match: exit code 0 for a whole match, 1 with the first byte that does not fit, and a model is not needed"""
    for options, text, byte in ((["--choice", "a\\|b|c\\\\"], b"a|b", None),
                                (["--choice", "a\\|b|c\\\\"], b"c\\", None), (["--choice", "a|b"], b"a|", 1),
                                (["--choice", "|b"], b"", None),
                                (["--regex", "a+b"], b"aaab", None), (["--regex", "a+b"], b"aaac", 3),
                                (["--regex", "a+b"], b"aaa", 3), (["--regex", "a+b"], b"aaab\n", 4),
                                (["-j", '{"required":["a"]}'], b' { "b" : [1, 2e5] ,\n"a":"\\u0041"}\n', None),
                                (["-j", '{"required":["a"]}'], b'{"b":1}', 6),
                                (["--grammar", 'root ::= "(" root ")" | "x"'], b"((x))", None),
                                (["--grammar", 'root ::= "(" root ")" | "x"'], b"((x)", 4)):
        r = run("--match", *options, inp=text)
        same(r.rc, 0 if byte is None else 1, "%s of %r: %r" % (options, text, r))
        check(byte is None or (b"byte %d" % byte in r.err and r.err.count(b"\n") == 1), repr(r))
        same(run("--match", *options, "-p", text.decode()).rc, r.rc, "-p") if text else None
        same(r.out, b"", "stdout")
    long = b"(" * 200000 + b"x" + b")" * 200000
    same(run("--match", "--grammar", 'root ::= "(" root ")" | "x"', inp=long).rc, 0, "two hundred thousand brackets")


@case
def masked():
    """--mask: exactly the tokens whose text may come next; as JSON, and for each place of a text as CSV"""
    some_ids = sorted(int(x) for x in good("-m", PIP, "--mask", "--choice", "yes|yellow|no", "-p", "ye").split())
    texts = {i: good("-m", PIP, "--detokenize", "-p", str(i)) for i in some_ids}
    same(sorted(texts.values()), sorted(set(texts.values())), "texts")
    check(all(t and b"s".startswith(t) or b"llow".startswith(t) for t in texts.values()) and b"s" in texts.values()
          and b"l" in texts.values(), repr(texts))
    found = json.loads(good("-m", PIP, "--mask", "--choice", "yes|yellow|no", "-p", "ye", "--json"))
    same((found["complete"], found["count"], found["ids"]), (False, len(some_ids), some_ids), "JSON")
    ends = sorted(int(x) for x in good("-m", PIP, "--mask", "--choice", "yes|no", "-p", "yes").split())
    check(0 in ends and 2 in ends and len(ends) == 2, "end tokens: %r" % ends)
    rows = good("-m", PIP, "--mask", "--choice", "yes|yellow|no", "-p", "yellow", "--format", "csv").decode().splitlines()
    same(rows[0], "place,byte,id,allowed,complete,microseconds", "head")
    cells = [r.split(",") for r in rows[1:]]
    check(cells[0][1] == "0" and cells[-1][1] == "6" and cells[-1][2] == "" and cells[-1][4] == "1"
          and all(float(c[5]) >= 0 for c in cells), repr(rows))
    refused(run("-m", PIP, "--mask", "--choice", "yes|no", "-p", "yak"), 1, "byte 1", "a text that does not fit")


# --- speed and shares ---

@case
def shared():
    """equal constraints of a batch are compiled once, and -v tells of them and of the share of forced tokens"""
    lines = [{"prompt": p, "max_tokens": 60, "temperature": 0.5, "seed": i, **HELD["record"][1]}
             for i, p in enumerate(PROMPTS[:5] * 4)]
    r = run("-m", PIP, "--batch", put("in.jsonl", lines), "-v")
    same((r.rc, r.err.count(b"llmrun: constraint ")), (0, 1), "constraints: %s" % r.err[-2000:].decode())
    m = re.search(rb"llmrun: forced +(\d+) of (\d+) tokens", r.err)
    check(m and 0 < int(m.group(1)) < int(m.group(2)), "forced tokens: %s" % r.err[-2000:].decode())
    lines = [dict(x, **HELD[k][1]) for x in lines for k in ("record", "regex", "grammar")]
    for x in lines:
        if "grammar" in x or "regex" in x:
            x.pop("response_format", None)
        if "grammar" in x:
            x.pop("regex", None)
    single = [x for x in lines if sum(k in x for k in ("grammar", "regex", "response_format")) == 1]
    r = run("-m", PIP, "--batch", put("in.jsonl", single), "-v")
    same((r.rc, r.err.count(b"llmrun: constraint ")), (0, 3), "three constraints")


@case
def noted():
    """words of a schema that have no effect are told once on stderr"""
    schema = '{"type":"object","frobnicate":1,"properties":{"a":{"const":1}},"required":["a"],"additionalProperties":false}'
    r = run("-m", PIP, "--raw", "-p", "x", "-n", "30", "-j", schema)
    check(r.rc == 0 and r.err.count(b"frobnicate") == 1, repr(r))
    r = run("--match", "-j", schema, inp=b'{"a":1}')
    check(r.rc == 0 and r.err.count(b"frobnicate") == 1, repr(r))


@case
def numbers_end():
    """numbers of schemas and of free JSON have an end, however many digits the model would write; --help structure says how many"""
    digits = "".join("%d+9," % int(t) for t in good("-m", PIP, "--tokenize", "-p", "0123456789").decode().split())
    bias = [x for one in digits.strip(",").split(",") for x in ("-l", one)]
    schemas = ('{"type":"number"}', '{"type":"integer"}', '{"type":"number","minimum":0.5}', '{"type":"array","items":{"type":"number"},"maxItems":2,"minItems":1}')
    for schema in schemas:
        for seed in range(5):
            text = good("-m", PIP, "--no-chat", "-p", "1", "-n", "200", "--temp", "0.8", "-s", str(seed), "-j", schema, "-q", *bias).decode()
            json.loads(text)
            check(all(len(d) <= 18 for d in re.findall("[0-9]+", text)), "%s: %s" % (schema, text))
    check(b"at most 18 digits" in good("--help", "structure") and b"uniqueItems" in good("--help", "structure"), "the table of bounds")


@case
def loose_schemas():
    """uniqueItems that cannot be kept while generating is refused with its place, and dropped with a note under --schema-loose"""
    schema = '{"type":"array","uniqueItems":true,"prefixItems":[{"type":["integer","null"]}],"items":{"type":"integer"},"minItems":3,"maxItems":3}'
    refused(run("-m", PIP, "--no-chat", "-p", "x", "-j", schema), 2, "#: uniqueItems beside items by their place", "without the option")
    r = run("-m", PIP, "--no-chat", "-p", "x", "-n", "80", "-j", schema, "--schema-loose")
    check(r.rc == 0 and len(json.loads(r.out)) == 3 and r.err.count(b"#: uniqueItems is dropped") == 1, repr(r))


@case
def defaults_of_a_batch():
    """the constraint of the command counts for lines without one; a line's own wins, and response_format text has none"""
    lines = [{"prompt": "x"}, {"prompt": "x", "regex": "[0-9]"},
             {"prompt": "x", "response_format": {"type": "text"}, "max_tokens": 5}, {"prompt": "x", "grammar": None}]
    found = batch(lines, "--choice", "yes|no", "-n", "20")
    texts = [found[i].body["choices"][0]["text"] for i in range(1, 5)]
    check(texts[0] in ("yes", "no") and re.fullmatch("[0-9]", texts[1]) and texts[2] not in ("yes", "no")
          and texts[3] in ("yes", "no"), repr(texts))


def main():
    global O
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("binary")
    p.add_argument("--stress")
    p.add_argument("--answers", type=int, default=12)
    p.add_argument("words", nargs="*", metavar="WORD")
    O = p.parse_args()
    O.binary, O.stress = os.path.abspath(O.binary), O.stress and os.path.abspath(O.stress)
    os.chdir(HERE)
    return walk("structure", O.words, TMP)


if __name__ == "__main__":
    sys.exit(main())
