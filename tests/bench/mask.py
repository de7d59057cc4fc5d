#!/usr/bin/env python3
"""Masks of JSON schemas: what they cost, beside llguidance where it is installed (pip install llguidance), as Markdown.

    make bench-mask VOCAB=vocabulary.gguf [DIR=folder] [MASK="--rounds 3"]
    make bench-mask MODEL=model.gguf

Each *.json of the folder (tests/data/schemas) is a schema; its "examples" are texts that it allows, written with a blank behind each comma and colon. Both
programs compile a schema and walk the same tokens of each example, one right after the other, on one thread. A round compiles anew: no mask is
known at its beginning. The figures are of all rounds together; --misses leaves out masks that the same round had already made.
  --each: a line for each schema. --slow N: the N slowest masks with the text in front of them.

With a model: rates of decoding with a free JSON object against those without a constraint, one sequence and 32, without guesses (an object of at least
1,000 members, so that it never ends within the answer); and of a record of six fixed keys with guesses of what is forced against without, whose
texts must be equal. What is compared runs in turn, forwards and backwards by turns; ratios are made within a pair.
"""
import argparse, glob, json, os, re, statistics, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))


class Ours:
    """build/main/mask, which answers one command after another."""
    name = "llmrun"

    def __init__(self, program, vocab):
        self.p = subprocess.Popen([program, vocab], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.vocabulary = self.line()

    def line(self):
        line = self.p.stdout.readline()
        if not line:
            raise SystemExit("the program ended early")
        return line.split()

    def say(self, text):
        self.p.stdin.write(text + "\n")
        self.p.stdin.flush()

    def tokens(self):
        self.say("tokens")
        rows = [self.line() for _ in range(int(self.vocabulary[1]))]
        return [(r[1], bytes.fromhex(r[2] if len(r) > 2 else "")) for r in rows]

    def compile(self, path, schema):
        self.say("schema " + path)
        row = self.line()
        return float(row[1]) if row[0] == "schema" else " ".join(row[1:])

    def walk(self, path):
        """Rows (token, allowed, microseconds of the mask, microseconds of the token), and whether the whole text passed."""
        self.say("text " + path)
        rows = []
        while True:
            row = self.line()
            if row[0] != "token":
                return rows, row[0] == "done"
            rows.append((int(row[1]), int(row[2]), float(row[3]), float(row[4])))


class Theirs:
    """llguidance, called from here; its mask is written into one buffer."""
    name = "llguidance"

    def __init__(self, tokens):
        import llguidance, ctypes

        class Words:
            eos_token_id = next(i for i, t in enumerate(tokens) if t[0] == "e")
            bos_token_id = None
            special_token_ids = [i for i, t in enumerate(tokens) if t[0] != "t"]

            def __call__(self, text):
                return []
        words = Words()
        words.tokens = [t[1] for t in tokens]
        began = time.perf_counter()
        self.lib = llguidance
        self.tok = llguidance.LLTokenizer(llguidance.TokenizerWrapper(words))
        self.seconds = time.perf_counter() - began
        self.size = (len(tokens) + 31) // 32 * 4
        self.buffer = ctypes.create_string_buffer(self.size + 64)
        self.at = (ctypes.addressof(self.buffer) + 63) & ~63

    def compile(self, path, schema):
        began = time.perf_counter()
        m = self.lib.LLMatcher(self.tok, self.lib.LLMatcher.grammar_from_json_schema(json.dumps(schema)))
        took = (time.perf_counter() - began) * 1e6
        self.m = m
        return str(m.get_error()).split("\n")[0] if m.is_error() else took

    def walk(self, ids):
        rows, clock = [], time.perf_counter
        self.m.reset()
        for i in ids:
            a = clock()
            self.m.unsafe_compute_mask_ptr(self.at, self.size)
            b = clock()
            ok = i < 0 or self.m.consume_token(i)
            c = clock()
            rows.append((i, 0, (b - a) * 1e6, (c - b) * 1e6))
            if not ok:
                return rows, False
        return rows, self.m.is_accepting()


def quantile(xs, q):
    xs = sorted(xs)
    return xs[min(len(xs) - 1, int(q * len(xs)))] if xs else float("nan")


def row(name, xs):
    return "| %s | %d | %.1f | %.1f | %.1f | %.1f | %.0f |" % (name, len(xs), statistics.mean(xs), quantile(xs, .5), quantile(xs, .9), quantile(xs, .99), max(xs)) if xs \
        else "| %s | 0 | | | | | |" % name


HEAD = "| | number | mean | p50 | p90 | p99 | most |\n|---|---|---|---|---|---|---|"


def schemas(folder):
    for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
        with open(path, encoding="utf-8") as f:
            schema = json.load(f)
        examples = schema.pop("examples", []) if isinstance(schema, dict) else []
        if examples:
            yield os.path.basename(path)[:-5], schema, [json.dumps(x, ensure_ascii=False) for x in examples]


def show(ours, theirs, kinds):
    for what, key in kinds:
        print("\n%s, microseconds\n\n%s" % (what, HEAD))
        for who in [ours] + ([theirs] if theirs else []):
            print(row(who.name, who.got[key]))


FREE = {"type": "object", "minProperties": 1000}
RECORD = {"type": "object", "additionalProperties": False, "properties": {
    "customer_name": {"type": "string", "maxLength": 12}, "shipping_address": {"type": "string", "maxLength": 12}, "order_number": {"type": "integer", "minimum": 0, "maximum": 999},
    "payment_method": {"enum": ["card", "cash", "transfer"]}, "delivery_status": {"enum": ["open", "sent", "done"]}, "gift_wrapping": {"type": "boolean"}}}
RECORD["required"] = list(RECORD["properties"])


def decode(o, *args):
    """The text, and tokens per second behind the first one."""
    r = subprocess.run([o.llmrun, "-m", o.model, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    rate = re.search(r"generated +(\d+) tokens.*?\(([\d.]+) tokens/s\)", r.stderr)
    if r.returncode or not rate:
        raise SystemExit("%s: exit %d: %s" % (" ".join(args), r.returncode, r.stderr.strip()[-300:]))
    return r.stdout, float(rate[2])


def pairs(o, name, one, other, equal=False):
    """A row: rates of two ways in turn."""
    got = []
    for i in range(o.pairs):
        ways = [(0, one(i)), (1, other(i))]
        both = dict((k, decode(o, *args)) for k, args in (ways if i % 2 else reversed(ways)))
        if equal and both[0][0] != both[1][0]:
            raise SystemExit("%s: the texts differ: %r and %r" % (name, both[0][0][:300], both[1][0][:300]))
        got.append((both[0][1], both[1][1]))
    ratios = [b / a for a, b in got]
    print("| %s | %.1f | %.1f | %.3f (%.3f to %.3f) |" % (name, statistics.median(a for a, _ in got), statistics.median(b for _, b in got), statistics.median(ratios), min(ratios), max(ratios)))


def batch_file(tmp, name, new, **body):
    path = os.path.join(tmp, name)
    with open(path, "w") as f:
        for i in range(32):
            f.write(json.dumps({"prompt": "Once upon a time there was number %d" % i, "max_tokens": new, "seed": i, "temperature": 0.8, "ignore_eos": True, **body}) + "\n")
    return lambda i: ["--batch", path, "-o", os.path.join(tmp, "%s-%d" % (name, i)), "--no-lookup"]


def speed(o):
    def words(i, *more):
        return ["--raw", "-p", "Once upon a time there was number %d" % i, "-n", str(o.new), "-s", str(i + 1), "--temp", "0.8", *more]
    print("| decoding | tokens/s | | ratio |\n|---|---|---|---|")
    pairs(o, "one sequence: free, a JSON object", lambda i: words(i, "--ignore-eos", "--no-lookup"), lambda i: words(i, "--no-lookup", "-j", json.dumps(FREE)))
    with tempfile.TemporaryDirectory() as tmp:
        free = batch_file(tmp, "free", o.new // 2)
        held = batch_file(tmp, "held", o.new // 2, response_format={"type": "json_schema", "json_schema": {"name": "any", "schema": FREE}})
        pairs(o, "32 sequences: free, a JSON object", free, held)
    record = ["-j", json.dumps(RECORD), "--json-space", o.space]
    pairs(o, "a record of six keys: without guesses, with", lambda i: words(i, *record, "--no-lookup"), lambda i: words(i, *record), True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--program", default="build/main/mask")
    p.add_argument("--vocab")
    p.add_argument("--model")
    p.add_argument("--llmrun", default="./llmrun")
    p.add_argument("--pairs", type=int, default=4)
    p.add_argument("--new", type=int, default=64)
    p.add_argument("--space", default="none")
    p.add_argument("--dir", default=os.path.join(HERE, "..", "data", "schemas"))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--each", action="store_true")
    p.add_argument("--slow", type=int, default=0)
    a = p.parse_args()
    if a.model:
        return speed(a)
    ours, theirs = Ours(a.program, a.vocab), None
    tokens = ours.tokens()
    print("vocabulary: %s tokens, %s nodes, %s ms" % tuple(ours.vocabulary[1:]))
    try:
        theirs = Theirs(tokens)
        print("llguidance %s: its vocabulary %.0f ms" % (theirs.lib.get_version(), theirs.seconds * 1e3))
    except ImportError:
        print("llguidance is not installed: llmrun alone")
    for who in filter(None, (ours, theirs)):
        who.got = {"compile": [], "mask": [], "token": []}
    slow, refused = [], []
    with tempfile.TemporaryDirectory() as tmp:
        for turn in range(a.rounds):
            for name, schema, texts in schemas(a.dir):
                one = os.path.join(tmp, "schema.json")
                with open(one, "w", encoding="utf-8") as f:
                    json.dump(schema, f)
                took = ours.compile(one, schema)
                other = theirs and theirs.compile(one, schema)
                if isinstance(took, str) or isinstance(other, str):
                    if not turn:
                        refused.append((name, took if isinstance(took, str) else "", other if isinstance(other, str) else ""))
                    continue
                ours.got["compile"].append(took)
                if theirs:
                    theirs.got["compile"].append(other)
                here = {"ours": [], "theirs": []}
                for text in texts:
                    path = os.path.join(tmp, "text")
                    with open(path, "w", encoding="utf-8") as f:
                        f.write(text)
                    rows, ok = ours.walk(path)
                    if not ok:
                        refused.append((name, "stuck behind " + repr(b"".join(tokens[r[0]][1] for r in rows[:-1])[-40:]), ""))
                        continue
                    if theirs:
                        other, ok = theirs.walk([r[0] for r in rows])
                        if not ok:
                            refused.append((name, "", "stuck behind " + repr(b"".join(tokens[r[0]][1] for r in other[:-1])[-40:])))
                            continue
                        theirs.got["mask"] += [r[2] for r in other]
                        theirs.got["token"] += [r[3] for r in other]
                        here["theirs"] += [r[2] for r in other]
                    ours.got["mask"] += [r[2] for r in rows]
                    ours.got["token"] += [r[3] for r in rows]
                    here["ours"] += [r[2] for r in rows]
                    at = b""
                    for r in rows:
                        slow.append((r[2], name, r[1], at[-40:]))
                        at += tokens[r[0]][1] if r[0] >= 0 else b""
                if a.each and not turn and here["ours"]:
                    print("%-10s compile %7.0f  mask p50 %6.1f p99 %7.1f most %7.1f   llguidance %s" % (name, took, quantile(here["ours"], .5), quantile(here["ours"], .99), max(here["ours"]),
                          "%7.0f p50 %6.1f p99 %7.1f most %7.1f" % (theirs.got["compile"][-1], quantile(here["theirs"], .5), quantile(here["theirs"], .99), max(here["theirs"])) if here["theirs"] else ""))
    show(ours, theirs, [("Compiling", "compile"), ("A mask", "mask"), ("A token that is taken", "token")])
    for name, why, other in refused:
        print("\nleft out: %s%s%s" % (name, why and ": llmrun: " + why, other and ": llguidance: " + other))
    for us, name, n, at in sorted(slow, reverse=True)[:a.slow]:
        print("%8.1f us %-10s %6d allowed behind %r" % (us, name, n, at))


main()
