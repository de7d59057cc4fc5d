"""Independent interpreters of constraints, random constraints, and the way to tests/judge.c. Nothing here looks at how llmrun does it.

A grammar is a dict {name: node} with a rule "root". Nodes are tuples:
    ("chars", ((lo, hi), ...))   one character of these ranges of code points
    ("seq", a, b, ...)  ("alt", a, b, ...)  ("rep", a, min, max or None)  ("ref", name)  ("token", id, other)
Machine walks a grammar with sets of stacks, byte by byte: a set that is not empty can be completed, since everything that cannot end is cut
out first. That is the definition of a mask, written down without regard for speed.
"""
import json, os, random, re, struct, subprocess, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hostile import ARR, BOOL, F32, I32, STR, U32, File, byte_chars

NOTHING = ("chars", ())
EMPTY = ("seq",)
TOP = 0x10ffff


# --- the machine ---

def lit(text):
    return ("seq", *(("chars", ((ord(c), ord(c)),)) for c in text))


def ranges_of(text):
    return tuple((ord(c), ord(c)) for c in text)


def inverted(ranges):
    out, at = [], 0
    for lo, hi in sorted(ranges):
        if lo > at:
            out.append((at, lo - 1))
        at = max(at, hi + 1)
    if at <= TOP:
        out.append((at, TOP))
    return tuple(out)


def prefix_range(b):
    """Code points whose UTF-8 begins with these bytes, which are no whole character: (lo, hi), or None."""
    first = b[0]
    n, bits, low = ((2, first & 0x1f, 0x80) if 0xc2 <= first <= 0xdf else (3, first & 0xf, 0x800) if 0xe0 <= first <= 0xef else
                    (4, first & 7, 0x10000) if 0xf0 <= first <= 0xf4 else (0, 0, 0))
    if not n or len(b) >= n:
        return None
    for c in b[1:]:
        if not 0x80 <= c <= 0xbf:
            return None
        bits = bits << 6 | c & 0x3f
    rest = 6 * (n - len(b))
    lo, hi = max(bits << rest, low), min((bits + 1 << rest) - 1, TOP)
    if lo >= 0xd800 and hi <= 0xdfff:
        return None
    return (lo, hi) if lo <= hi else None


class Machine:
    """States are (frozenset of stacks, bytes of an incomplete character). A stack is a number in a table of (node, rest)."""
    MOST = 3000                          # stacks of a state; more: TooMany

    class TooMany(Exception):
        pass

    def __init__(self, rules):
        self.rules = rules
        self.good = self.productive()
        self.rules = {k: self.pruned(v) for k, v in rules.items() if k in self.good}
        self.table, self.ids, self.steps = [None], {}, {}
        if "root" not in self.good:
            self.first = (frozenset(), b"")
        else:
            self.first = (self.closure([self.cons(("ref", "root"), 0)]), b"")

    def ends(self, n, good):
        k = n[0]
        return (any(a <= b and not (a >= 0xd800 and b <= 0xdfff) for a, b in n[1]) if k == "chars" else all(self.ends(x, good) for x in n[1:]) if k == "seq" else
                any(self.ends(x, good) for x in n[1:]) if k == "alt" else n[2] == 0 or self.ends(n[1], good) if k == "rep" else n[1] in good if k == "ref" else True)

    def productive(self):
        good, more = set(), True
        while more:
            more = {k for k, v in self.rules.items() if k not in good and self.ends(v, good)}
            good |= more
        return good

    def pruned(self, n):
        k = n[0]
        if k == "seq":
            return ("seq", *map(self.pruned, n[1:]))
        if k == "alt":
            return ("alt", *(self.pruned(x) for x in n[1:] if self.ends(x, self.good)))
        if k == "rep":
            return ("rep", self.pruned(n[1]), n[2], n[3]) if self.ends(n[1], self.good) and n[3] != 0 else EMPTY
        return n

    def cons(self, node, rest):
        key = node, rest
        if key not in self.ids:
            self.ids[key] = len(self.table)
            self.table.append(key)
        return self.ids[key]

    def put(self, nodes, rest):
        for n in reversed(nodes):
            rest = self.cons(n, rest)
        return rest

    def closure(self, stacks):
        """All stacks with a terminal on top that these become; 0 is the empty one: the text is whole."""
        todo, seen, out = list(stacks), set(stacks), set()
        while todo:
            s = todo.pop()
            if s == 0:
                out.add(0)
                continue
            n, rest = self.table[s]
            k = n[0]
            if k in ("chars", "token"):
                out.add(s)
                continue
            if k == "seq":
                more = [self.put(n[1:], rest)]
            elif k == "alt":
                more = [self.cons(x, rest) for x in n[1:]]
            elif k == "ref":
                more = [self.cons(self.rules[n[1]], rest)]
            else:
                left = None if n[3] is None else n[3] - 1
                again = rest if left == 0 else self.cons(("rep", n[1], max(n[2] - 1, 0), left), rest)
                more = [self.cons(n[1], again)] + ([rest] if n[2] == 0 else [])
            for m in more:
                if m not in seen:
                    seen.add(m)
                    todo.append(m)
            if len(seen) > self.MOST:
                raise self.TooMany
        return frozenset(out)

    def step(self, state, byte):
        key = state, byte
        if key not in self.steps:
            self.steps[key] = self.stepped(state[0], state[1] + bytes([byte]))
        return self.steps[key]

    def stepped(self, stacks, held):
        try:
            c = ord(held.decode("utf-8"))
        except (UnicodeDecodeError, TypeError):
            r = prefix_range(held)
            keep = r and frozenset(s for s in stacks if s and self.table[s][0][0] == "chars" and self.meets(self.table[s][0][1], r))
            return (keep, held) if keep else (frozenset(), b"")
        return self.closure([self.table[s][1] for s in stacks if s and self.table[s][0][0] == "chars" and any(a <= c <= b for a, b in self.table[s][0][1])]), b""

    @staticmethod
    def meets(ranges, r):
        for lo, hi in ranges:
            a, b = max(lo, r[0]), min(hi, r[1])
            if a <= b and not (a >= 0xd800 and b <= 0xdfff):
                return True
        return False

    def token(self, state, id):
        if state[1]:
            return frozenset(), b""
        return self.closure([self.table[s][1] for s in state[0] if s and self.table[s][0][0] == "token" and (self.table[s][0][1] == id) != self.table[s][0][2]]), b""

    def walk(self, data, state=None):
        state = state or self.first
        for b in data:
            state = self.step(state, b)
            if not state[0]:
                break
        return state

    def alive(self, state): return bool(state[0])
    def whole(self, state): return 0 in state[0] and not state[1]


def left_recursive(rules):
    """Whether a rule can be called again before a character."""
    nullable, more = set(), True
    def empty(n):
        k = n[0]
        return (all(map(empty, n[1:])) if k == "seq" else any(map(empty, n[1:])) if k == "alt" else n[2] == 0 or empty(n[1]) if k == "rep" else n[1] in nullable if k == "ref" else False)
    while more:
        more = {k for k, v in rules.items() if k not in nullable and empty(v)}
        nullable |= more
    def firsts(n):
        k = n[0]
        if k == "ref":
            return {n[1]}
        if k == "alt":
            return set().union(*map(firsts, n[1:])) if n[1:] else set()
        if k == "rep":
            return firsts(n[1]) if n[3] != 0 else set()
        out = set()
        for x in n[1:] if k == "seq" else ():
            out |= firsts(x)
            if not empty(x):
                break
        return out
    reach = {k: firsts(v) for k, v in rules.items()}
    for _ in rules:
        for k in reach:
            reach[k] = reach[k].union(*(reach.get(x, ()) for x in reach[k]))
    return {k for k in rules if k in reach[k]}


class Texts:
    """The machine of a finite set of texts."""

    def __init__(self, texts):
        self.texts = set(texts)
        self.prefixes = {t[:i] for t in self.texts for i in range(len(t) + 1)}
        self.first = b""

    def step(self, state, byte):
        state = state + bytes([byte]) if state is not None else None
        return state if state in self.prefixes else None

    def token(self, state, id): return None
    def alive(self, state): return state is not None and state in self.prefixes
    def whole(self, state): return state in self.texts


# --- the vocabulary ---

PIECES = ('{" "}  "a "b "c ": "," ", ":" a": b": c": {"a" {"b" ,"a" ,"b" ,"c" "a":  [] {} [[ ]] ,[ ], }, }} ]} "]  "} null true false nul tr ue fal se 10 12 00 .5 -1 1. 0. 1, 0, 2] '
          'ab aa ba bb abc aab bc cc ca xy xx yx x1 a1 1a -- a- ab- \n\n \t  a b ab c aba bab').split(" ")


def words(rng):
    """512 tokens: (bytes or None, kind). Three control tokens, each byte, and pieces of what the tests' grammars are about; some are parts of characters."""
    pieces = {p.encode() for p in PIECES if p} | {" ", "  ", " a", " \"", ": ", ", ", "\n ", "\n  "} and set()
    for p in PIECES:
        pieces.add(p.encode())
    for p in (" ", "  ", "   ", " a", ' "', ": ", ", ", "\n ", "\n  ", "\n\n", ' {"', "é", "éa", "aé", "€", "ab€", "😀", "😀a", "\\\"", "\\n", "\\u00", "é\""):
        pieces.add(p.encode())
    for p in (b"\xe2\x82", b"a\xc3", b"\xa9", b"\xa9b", b"\xac\"", b"\xf0\x9f", b"\x98\x80", b"\x82\xac", b"\xc3\xa9\xc3", b"\xac\xe2\x82", b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80"):
        pieces.add(p)
    pieces = {p for p in pieces if len(p) > 1}
    while len(pieces) < 512 - 256 - 3:
        n = rng.choice((2, 2, 3, 3, 4, 6))
        pieces.add("".join(rng.choice('aaabbbcx01,":{}[] ') for _ in range(n)).encode())
    pieces = sorted(pieces)
    rng.shuffle(pieces)
    return [(None, b"<|end|>"), (None, b"<think>"), (None, b"</think>")] + [(bytes([b]), None) for b in range(256)] + [(p, None) for p in pieces[:512 - 259]]


def vocabulary(path, rng, spm=False):
    """Writes a vocabulary as a model file without tensors; spm: one whose texts begin with a space that is dropped."""
    rows, chars, f = words(rng), byte_chars(), File()
    if spm:
        text = lambda p: "<0x%02X>" % p[0] if len(p) == 1 else p.decode().replace(" ", "\u2581")
        rows = [r for r in rows if r[0] is None or len(r[0]) == 1 or utf8(r[0])]
        rows.append(("\u2581".encode(), None))
        tokens = ["<unk>"] + [n.decode() if p is None else "\u2581" if p == "\u2581".encode() else text(p) for p, n in rows]
        types = [2] + [3 if p is None else 6 if len(p) == 1 else 1 for p, _ in rows]
    else:
        tokens = [n.decode() if p is None else "".join(chars[b] for b in p) for p, n in rows]
        types = [3 if p is None else 1 for p, _ in rows]
    f.set("general.architecture", STR, "llama").set("tokenizer.ggml.model", STR, "llama" if spm else "gpt2")
    f.set("tokenizer.ggml.tokens", ARR, (STR, tokens)).set("tokenizer.ggml.token_type", ARR, (I32, types))
    if spm:
        f.set("tokenizer.ggml.scores", ARR, (F32, [0.0] * len(tokens))).set("tokenizer.ggml.unknown_token_id", U32, 0)
    else:
        f.set("tokenizer.ggml.pre", STR, "gpt-2").set("tokenizer.ggml.merges", ARR, (STR, []))
    end = tokens.index("<|end|>")
    f.set("tokenizer.ggml.bos_token_id", U32, end).set("tokenizer.ggml.eos_token_id", U32, end)
    with open(path, "wb") as out:
        out.write(f.bytes())
    return path


def utf8(b):
    try:
        return b.decode("utf-8")
    except UnicodeDecodeError:
        return None


# --- the judge ---

class Judge:
    """A process of tests/judge.c. Each method is one command."""

    def __init__(self, binary, vocabulary=None):
        self.binary, self.vocabulary, self.p = binary, vocabulary, None
        self.start()

    def start(self):
        self.p = subprocess.Popen([self.binary] + ([self.vocabulary] if self.vocabulary else []), stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def put(self, line, data=None):
        self.p.stdin.write(line.encode() + b"\n" + (b"" if data is None else data + b"\n"))

    def get(self):
        self.p.stdin.flush()
        line = self.p.stdout.readline()
        if not line:
            raise Died("the judge ended with %s" % self.p.wait())
        return line.decode("utf-8", "replace").rstrip("\n")

    def text(self):
        kind, _, n = self.get().partition(" ")
        if kind != "text":
            return None
        data = self.p.stdout.read(int(n))
        self.p.stdout.read(1)
        return data

    def build(self, kind, text, form="match"):
        """(microseconds, None), or (microseconds, (code, message)) where it is refused."""
        data = text if isinstance(text, bytes) else text.encode()
        self.put("build %s %s %d" % (kind, form, len(data)), data)
        word, _, rest = self.get().partition(" ")
        if word == "held":
            return float(rest), None
        code, us, why = (rest.split(" ", 2) + [""])[:3]
        return float(us), (int(code), why)

    def match(self, texts):
        """For each text "yes", "no BYTE" or "error ..."."""
        out = []
        for i in range(0, len(texts), 100):           # no more than a pipe holds of answers
            for t in texts[i:i + 100]:
                self.put("match %d" % len(t), t)
            out += [self.get() for _ in texts[i:i + 100]]
        return out

    def least(self):
        self.put("least")
        return self.text()

    def sample(self, seed, most):
        self.put("sample %d %d" % (seed, most))
        return self.text()

    def walk(self, seed, steps, of="walk"):
        """[(mask as a set of ids, whole, id that is taken or None)], and what the judge found itself. of: "bytes": bytes in place of tokens."""
        self.put("%s %d %d" % (of, seed, steps))
        out, faults = [], []
        while (line := self.get()) != "done":
            word, *rest = line.split(" ")
            if word == "mask":
                bits = [int(rest[0][i:i + 8], 16) for i in range(0, len(rest[0]), 8)]
                out.append([{32 * i + j for i, w in enumerate(bits) if w for j in range(32) if w >> j & 1}, rest[1] == "whole", None])
            elif word == "take":
                out[-1][2] = int(rest[0])
            else:
                faults.append(line)
        return out, faults

    def close(self, seed, tokens):
        self.put("close %d %d" % (seed, tokens))
        return self.get()

    def words(self):
        """[(bytes or None, whether it ends an answer)]"""
        self.put("words")
        n = int(self.get().split()[1])
        rows = [self.get() for _ in range(n)]
        return [(bytes.fromhex(r[1:].split(" ")[0]) if r[0] == "=" else None, r.endswith(" end")) for r in rows]

    def end(self):
        self.p.stdin.close()
        return self.p.wait()


class Died(Exception):
    pass


class Trie:
    """The tokens by their bytes: children by byte, ids of the tokens that end here."""

    def __init__(self, words):
        self.root = [{}, []]
        for id, (b, end) in enumerate(words):
            if b and not end:
                self.add(b, id)

    def add(self, b, id):
        at = self.root
        for c in b:
            at = at[0].setdefault(c, [{}, []])
        at[1].append(id)

    def allowed(self, machine, state):
        out, todo = set(), [(self.root, state)]
        while todo:
            node, s = todo.pop()
            out.update(node[1])
            for c, child in node[0].items():
                t = machine.step(s, c)
                if machine.alive(t):
                    todo.append((child, t))
        return out


# --- random grammars: a node, and how GBNF and a regular expression write it ---

ALPHABET = "ab01 \"{}:,x\n-é€😀"


def a_class(rng):
    out = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        a = rng.choice(ALPHABET)
        if rng.random() < 0.3:
            b = chr(min(TOP, ord(a) + rng.choice((1, 2, 5, 90))))
            out.append((ord(a), ord(b)))
        else:
            out.append((ord(a), ord(a)))
    return tuple(out)


def a_node(rng, depth, names):
    """A random node; names: rules it may call."""
    x = rng.random()
    if depth == 0 or x < 0.28:
        y = rng.random()
        if y < 0.6:
            return lit("".join(rng.choice(ALPHABET) for _ in range(rng.choice((1, 1, 2, 3)))))
        r = a_class(rng)
        return ("chars", inverted(r)) if y > 0.93 else ("chars", r)
    if x < 0.45 and names:
        return ("ref", rng.choice(names))
    if x < 0.68:
        return ("seq", *(a_node(rng, depth - 1, names) for _ in range(rng.choice((1, 2, 2, 3)))))
    if x < 0.83:
        return ("alt", *(a_node(rng, depth - 1, names) for _ in range(rng.choice((2, 2, 3)))), *([EMPTY] if rng.random() < 0.15 else []))
    low, high = rng.choice(((0, None), (0, None), (1, None), (0, 1), (2, 2), (1, 3), (0, 2), (2, None), (0, 0), (3, 5)))
    return ("rep", a_node(rng, depth - 1, names), low, high)


def as_class(ranges, escape):
    inside = "".join(escape(lo) if lo == hi else escape(lo) + "-" + escape(hi) for lo, hi in ranges)
    return "[" + inside + "]"


def gbnf_char(c, where):
    """A character as GBNF writes it in a string or a class."""
    s = chr(c)
    if s in '"\\' or where == "class" and s in "]^-[":
        return "\\" + s if s in '"\\]['  and s != "-" else "\\x%02X" % c
    if s == "\n":
        return "\\n"
    if c < 0x20 or c == 0x7f:
        return "\\x%02x" % c
    return s if c < 0x80 or c % 3 else "\\u%04x" % c if c < 0x10000 else "\\U%08x" % c


def gbnf_node(n, top=False):
    k = n[0]
    if k == "chars":
        if not n[1]:
            return '[^\\x00-\\U0010FFFF]'
        return as_class(n[1], lambda c: gbnf_char(c, "class"))
    if k == "ref":
        return n[1]
    if k == "token":
        return ("!" if n[2] else "") + "<[%d]>" % n[1]
    if k == "seq":
        if n[1:] and all(x[0] == "chars" and len(x[1]) == 1 and x[1][0][0] == x[1][0][1] for x in n[1:]):
            return '"' + "".join(gbnf_char(x[1][0][0], "string") for x in n[1:]) + '"'
        return " ".join(map(gbnf_node, n[1:])) if top and n[1:] else "(" + (" ".join(map(gbnf_node, n[1:])) or '""') + ")"
    if k == "alt":
        inside = " | ".join(gbnf_node(x, True) for x in n[1:])
        return inside if top else "(" + inside + ")"
    inside = gbnf_node(n[1])
    if n[1][0] == "rep":
        inside = "(" + inside + ")"
    return inside + counted(n[2], n[3])


def counted(low, high):
    return {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((low, high)) or ("{%d}" % low if low == high else "{%d,}" % low if high is None else "{%d,%d}" % (low, high))


def a_grammar(rng, tokens=0):
    """Random rules; tokens: how many there are, where the grammar may name them."""
    names = ["root"] + ["r%d" % i for i in range(rng.choice((0, 1, 2, 3, 5)))]
    rules = {}
    for n in names:
        node = a_node(rng, rng.choice((1, 2, 3)), [x for x in names if x != "root" or rng.random() < 0.3])
        if tokens and rng.random() < 0.4:
            node = ("alt", node, ("seq", ("token", rng.randrange(1, tokens), rng.random() < 0.2), node))
        rules[n] = node
    return rules


def gbnf(rules, rng):
    lines = []
    for k, v in rules.items():
        text = gbnf_node(v, True)
        lines.append("%s ::= %s%s" % (k, text, rng.choice(("", "", "  # a comment", "\n"))))
    return "\n".join(lines) + "\n"


RE_CLASSES = {"\\d": ((48, 57),), "\\w": ((48, 57), (65, 90), (95, 95), (97, 122)), "\\s": ((9, 13), (32, 32))}


def re_char(c, where):
    s = chr(c)
    if s in "\\^$.|?*+()[]{}-" or s == "#":
        return "\\" + s
    if c < 0x20 or c == 0x7f:
        return "\\n" if s == "\n" else "\\x%02x" % c
    return s


def re_node(n, rng):
    k = n[0]
    if k == "chars":
        if n[1] == inverted(((10, 10),)):
            return "."
        for word, r in RE_CLASSES.items():
            if n[1] == r:
                return word
            if n[1] == inverted(r):
                return word.upper()
        if len(n[1]) > 1 and n[1][0][0] == 0 and n[1][-1][1] == TOP:
            return as_class(inverted(n[1]), lambda c: re_char(c, "class")).replace("[", "[^", 1)
        return as_class(n[1], lambda c: re_char(c, "class"))
    if k == "seq":
        return "".join(re_char(x[1][0][0], "") if x[0] == "chars" and len(x[1]) == 1 and x[1][0][0] == x[1][0][1] else
                       "(?:" + re_node(x, rng) + ")" if x[0] == "alt" else re_node(x, rng) for x in n[1:])
    if k == "alt":
        return "|".join(re_node(x, rng) for x in n[1:])
    inside = re_node(n[1], rng)
    if n[1][0] in ("seq", "alt", "rep"):
        inside = rng.choice(("(", "(?:", "(?:", "(?P<n%d>" % rng.randrange(10 ** 9))) + inside + ")"
    return inside + counted(n[2], n[3]) + rng.choice(("", "", "", "?"))


def a_regex(rng):
    """(expression, its node); classes are ASCII's"""
    node = a_node(rng, rng.choice((2, 3, 4)), [])
    if rng.random() < 0.3:
        word = rng.choice(list(RE_CLASSES))
        more = rng.choice((RE_CLASSES[word], inverted(RE_CLASSES[word]), inverted(((10, 10),))))
        node = ("seq", node, ("rep", ("chars", more), 0, rng.choice((1, 2, None))), a_node(rng, 1, []))
    return "(?a)" + re_node(node, rng), node


# --- random schemas ---

def pick(rng, *weighted):
    return rng.choices([w[1] for w in weighted], [w[0] for w in weighted])[0]


KEYS = ("a", "b", "c")
PATTERNS = ("^a", "b$", "^a*$", "ab", "^(a|b)$", "^[ab]{1,2}$", "^.b", "[^a]", "^$", "a|^b$", "^(?!a)", "\\d")


def a_leaf(rng):
    return rng.choice((None, True, False, 0, 1, 2, 3, -1, 1.5, 1.0, "", "a", "b", "ab", "ba", "aa"))


def a_value(rng, depth=2):
    x = rng.random()
    if depth == 0 or x < 0.6:
        return a_leaf(rng)
    if x < 0.8:
        return [a_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    return {k: a_value(rng, depth - 1) for k in rng.sample(KEYS, rng.randrange(4))}


def of_numbers(rng, d, sub):
    w = rng.choice(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"))
    return {w: rng.choice((1, 2, 3, 0.5, 1.5)) if w == "multipleOf" else rng.choice((-1, 0, 0.5, 1, 1.5, 2, 3, 1e0, 10))}


def of_strings(rng, d, sub):
    w = rng.choice(("minLength", "maxLength", "pattern"))
    return {w: rng.choice(PATTERNS[:-2]) if w == "pattern" else rng.randrange(4)}


def of_arrays(rng, d, sub):
    w = rng.choice(("items", "items", "prefixItems", "contains", "minItems", "maxItems", "uniqueItems", "range"))
    if w == "items":
        return {"items": sub()}
    if w == "prefixItems":
        return {"prefixItems": [sub() for _ in range(rng.randint(1, 3))], **({"items": sub()} if rng.random() < 0.5 else {})}
    if w == "contains":
        return {"contains": sub(), **({"minContains": rng.randrange(3)} if rng.random() < 0.4 else {}), **({"maxContains": rng.randrange(1, 3)} if rng.random() < 0.4 else {})}
    return {"uniqueItems": True} if w == "uniqueItems" else {"minItems": 1, "maxItems": 2} if w == "range" else {w: rng.randrange(4)}


def of_objects(rng, d, sub):
    w = rng.choice(("properties", "properties", "properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties", "maxProperties", "dependentRequired",
                    "dependentSchemas"))
    some = lambda low=1: rng.sample(KEYS, rng.randint(low, 3))
    if w == "properties":
        return {w: {k: sub() for k in some()}, **({"required": some(0)} if rng.random() < 0.5 else {}), **({"additionalProperties": rng.choice((False, False, sub()))} if rng.random() < 0.5 else {})}
    if w == "required":
        return {w: some()}
    if w == "additionalProperties":
        return {w: rng.choice((False, sub()))}
    if w == "patternProperties":
        return {w: {rng.choice(PATTERNS[:-2]): sub() for _ in range(rng.choice((1, 1, 2)))}}
    if w == "propertyNames":
        return {w: rng.choice(({"pattern": rng.choice(PATTERNS[:-2])}, {"enum": some()}, {"maxLength": 1}, sub()))}
    if w == "dependentRequired":
        return {w: {k: some() for k in some()[:2]}}
    if w == "dependentSchemas":
        return {w: {k: sub() for k in some()[:2]}}
    return {w: rng.randrange(4)}


def of_more(rng, d, sub):
    w = rng.choice(("anyOf", "anyOf", "oneOf", "allOf", "not", "if", "enum", "const", "$ref"))
    if w in ("anyOf", "oneOf", "allOf"):
        return {w: [sub() for _ in range(rng.choice((1, 2, 2, 3)))]}
    if w == "not":
        return {w: sub()}
    if w == "if":
        return {w: sub(), **({"then": sub()} if rng.random() < 0.8 else {}), **({"else": sub()} if rng.random() < 0.6 else {})}
    if w == "enum":
        return {w: [a_value(rng) for _ in range(rng.choice((1, 2, 4)))]}
    if w == "const":
        return {w: a_value(rng)}
    return {w: rng.choice(("#/$defs/x", "#/$defs/y"))}


TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")


def a_schema(rng, depth=2, refs=True):
    """A random subschema over a small world of keys and values."""
    if rng.random() < 0.06:
        return rng.random() < 0.6
    sub = lambda: a_schema(rng, depth - 1, refs)
    out = {}
    if rng.random() < 0.5:
        out["type"] = rng.choice(TYPES) if rng.random() < 0.8 else rng.sample(TYPES, rng.randint(1, 3))
    for _ in range(pick(rng, (2, 0), (5, 1), (3, 2), (1, 3))):
        kinds = [of_numbers, of_strings] + ([of_arrays, of_objects, of_objects, of_more] if depth else [])
        more = rng.choice(kinds)(rng, depth, sub)
        if "$ref" in more and not refs:
            continue
        out.update({k: v for k, v in more.items() if k not in out})
    return out


def a_document(rng, depth=2):
    s = a_schema(rng, depth)
    s = s if isinstance(s, dict) else {"allOf": [s]}
    if "$ref" in json.dumps(s):
        defs = {k: a_schema(rng, 1) for k in "xy"}
        if rng.random() < 0.5:                        # a reference that goes around, through a value
            defs["x"] = {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/x"}, "maxItems": 2}, defs["x"]]}
        s = {**s, "$defs": defs}
    return s


# --- a closed world: every value there is ---

def universe(rng):
    """(schema, all values it has)"""
    leaves = rng.choice(((None, True, 0, 1, "", "a"), (False, 0, 2, "a", "b", "ab"), (True, 1, "a"), (0, 1, 2, 3), ("", "a", "b", "aa", "ab", "ba", "bb"), (None, 2, "b")))
    most = 2 if len(leaves) > 3 else 3
    keys = KEYS[:2] if len(leaves) > 3 else KEYS
    leaf = {"enum": list(leaves)}
    deep = rng.random() < 0.3 and len(leaves) <= 3
    small = [*leaves, *([[], [leaves[0]], {}, {"a": leaves[1]}] if deep else [])]
    item = {"enum": small} if deep else leaf
    arrays, level = [[]], [[]]
    for _ in range(most):
        level = [x + [v] for x in level for v in small]
        arrays += level
    objects = [{}]
    for k in keys:
        objects += [{**o, k: v} for o in objects for v in small]
    schema = {"anyOf": [leaf, {"type": "array", "items": item, "maxItems": most}, {"type": "object", "properties": {k: item for k in keys}, "additionalProperties": False}]}
    return schema, [*leaves, *arrays, *objects]


def spellings(v):
    """Every text of a value without blanks, keys in any order."""
    if isinstance(v, list):
        out = [b""]
        for i, x in enumerate(v):
            out = [o + (b"," if i else b"") + s for o in out for s in spellings(x)]
        return [b"[" + o + b"]" for o in out]
    if isinstance(v, dict):
        out, keys = [], list(v)
        import itertools
        for order in itertools.permutations(keys):
            parts = [b""]
            for i, k in enumerate(order):
                parts = [p + (b"," if i else b"") + json.dumps(k).encode() + b":" + s for p in parts for s in spellings(v[k])]
            out += [b"{" + p + b"}" for p in parts]
        return out
    return [json.dumps(v).encode()]
