#!/usr/bin/env python3
"""The rule of constraints against brute force: a token may come if and only if the text with it can still be completed,
an end if and only if it is complete.
    python3 tests/rule.py build/test/judge [part of a name ...] [--tokens N] [--seed N]

Random grammars, expressions and schemas with a vocabulary of 512 tokens; after every prefix of random walks, every
token. Grammars and expressions are interpreted by oracle.py with sets of stacks, expressions also by Python's re.
Schemas are closed by a small world of values, all of which python3-jsonschema judges: what is right is then a finite
set of texts. N tokens for each kind (100,000)."""
import itertools, json, os, random, re, sys
import kit
from kit import case, check, new_folder, validator
from oracle import Judge, Machine, Texts, Trie, a_document, a_grammar, a_regex, gbnf, left_recursive, spellings, universe
from oracle import vocabulary

TMP = new_folder("rule")
O = None
STEPS = 14


class Table:
    """A judge with a vocabulary."""

    def __init__(self, spm=False):
        path = vocabulary(os.path.join(TMP, "spm.gguf" if spm else "bpe.gguf"), random.Random(7), spm)
        self.judge, self.spm = Judge(O.judge, path), spm
        self.words = self.judge.words()
        self.n, self.ends = len(self.words), {i for i, (_, end) in enumerate(self.words) if end}
        self.trie = Trie(self.words)
        self.first = Trie([(b[1:] if b and b[:1] == b" " else b, end) for b, end in self.words]) if spm else self.trie

    def bytes(self, id, first):
        b = self.words[id][0] or b""
        return b[1:] if first and self.spm and b[:1] == b" " else b


def tables():
    return [Table(), Table(spm=True)]


def shown(table, ids):
    return ", ".join("%d %r" % (i, table.words[i][0]) for i in sorted(ids)[:6]) or "none"


def follow(table, machine, state, id, first):
    """The state after a token; None: two ways that cannot be one."""
    by_text, by_token = None, machine.token(state, id)
    b = table.bytes(id, first)
    if b:
        by_text = state
        for c in b:
            by_text = machine.step(by_text, c)
            if not machine.alive(by_text):
                by_text = None
                break
    if by_token is None or not machine.alive(by_token):
        return by_text
    if by_text is None:
        return by_token
    return (by_text[0] | by_token[0], b"") if not by_text[1] else None


def expected(table, machine, state, first):
    ids = (table.first if first else table.trie).allowed(machine, state)
    ids |= {i for i in range(table.n) if i not in table.ends and (t := machine.token(state, i)) is not None and machine.alive(t)}
    return ids | (table.ends if machine.whole(state) else set())


def walk(table, machine, seed, what):
    """Number of tokens that were held against the machine."""
    steps, faults = table.judge.walk(seed, STEPS)
    check(not faults, "%s: %s" % (what, faults[:3]))
    check(steps, "%s: no mask" % what)
    state, text = machine.first, b""
    for i, (mask, whole, id) in enumerate(steps):
        want = expected(table, machine, state, i == 0)
        check(mask == want, "%s\nafter %r: too many: %s; missing: %s"
              % (what, text, shown(table, mask - want), shown(table, want - mask)))
        check(whole == machine.whole(state), "%s\nafter %r: whole is %s" % (what, text, whole))
        if id is None:
            check(not want - table.ends or i == STEPS - 1, "%s\nafter %r: no token is taken" % (what, text))
            return (i + 1) * table.n
        text += table.bytes(id, i == 0)
        state = follow(table, machine, state, id, i == 0)
        if state is None:
            return (i + 1) * table.n
    return len(steps) * table.n


def fewest(table, text):
    """The fewest tokens that spell a text; None: none do."""
    need = [0] + [None] * len(text)
    for i in range(len(text)):
        at = (table.first if i == 0 else table.trie).root
        for k in range(i, len(text)):
            at = at[0].get(text[k])
            if at is None or need[i] is None:
                break
            if at[1] and (need[k + 1] is None or need[i] + 1 < need[k + 1]):
                need[k + 1] = need[i] + 1
    return need[-1]


def closing(table, seed, what):
    """A walk that leaves room for an end is whole where the shortest text fits."""
    text = table.judge.least()
    check(text is not None, what + "\nno shortest text")
    need = fewest(table, text)
    for left in {1, 2, 5, 30, need or 1, (need or 1) + 1, (need or 1) + 3}:
        told = table.judge.close(seed + left, left)
        check(need is None or need > left or told.startswith("closed"),
              "%s\n--close with %d tokens: %s, though %r has %s" % (what, left, told, text, need))


def seeds(share=1.0):
    """Seeds until enough tokens were held; the case counts them in O.held."""
    O.held = O.refused = O.skipped = O.ordered = O.apart = 0
    for seed in itertools.count(O.seed):
        if O.held >= O.tokens * share:
            break
        yield seed
        check(seed - O.seed < 1000 or O.held, "nothing was held in 1,000 seeds")
    print("      %d seeds, %d tokens, %d refused rightly, %d beyond the oracle" % (seed - O.seed, O.held, O.refused, O.skipped))


def against(table, machine, kind, text, form, seed, what, may_refuse=()):
    us, no = table.judge.build(kind, text, form)
    if no:
        check(machine is not None and (not machine.alive(machine.first)
                                       or any(re.search(w, no[1]) for w in may_refuse)), "%s\nis refused: %d %s" % (what, *no))
        O.refused += 1
        return
    check(machine is not None and machine.alive(machine.first), "%s\nis held, though nothing satisfies it" % what)
    O.held += walk(table, machine, seed, what)
    if seed % 4 == 0 and "<[" not in what:
        closing(table, seed, what)


@case
def grammars():
    """random grammars in GBNF, with rules that call each other, tokens by number, characters of several bytes"""
    both = tables()
    for seed in seeds():
        rng, table = random.Random(seed), both[seed % 3 == 0]
        rules = a_grammar(rng, 8 if rng.random() < 0.2 and not table.spm else 0)
        text = gbnf(rules, rng)
        what = "--seed %d, grammar:\n%s" % (seed, text)
        loops = left_recursive(rules)
        if loops:
            us, no = table.judge.build("gbnf", text)
            machine = None if no else Machine(rules)
            check(no or "root" not in loops and not reached(rules, loops), what + "left recursion is held")
            check(not no or no[0] == 2, what + "exit %s" % (no,))
            O.refused += 1
            continue
        try:
            against(table, Machine(rules), "gbnf", text, "plain", seed, what)
        except Machine.TooMany:
            O.skipped += 1


def reached(rules, loops):
    """Whether one of the loops is called from the root at all."""
    seen, todo = {"root"}, ["root"]
    while todo:
        for name in re.findall(r"'ref', '(\w+)'", repr(rules[todo.pop()])):
            if name not in seen:
                seen.add(name)
                todo.append(name)
    return seen & loops


@case
def expressions():
    """random regular expressions: masks against stacks, whole texts against Python's re"""
    both = tables()
    for seed in seeds():
        rng, table = random.Random(seed), both[seed % 3 == 0]
        text, node = a_regex(rng)
        what = "--seed %d, expression %s" % (seed, text)
        try:
            against(table, Machine({"root": node}), "regex", text, "plain", seed, what)
        except Machine.TooMany:
            O.skipped += 1
            continue
        if not Machine({"root": node}).alive(Machine({"root": node}).first):
            continue
        whole = re.compile(text)
        for i in range(3):
            t = table.judge.sample(seed + i, 30)
            check(t is not None and whole.fullmatch(t.decode()), "%s: %r is a text of it" % (what, t))


# What an expression of Python is made of beside what oracle.py writes.
RE_PARTS = ("a", "b", "ab", ".", "\\d", "\\D", "\\w", "\\W", "\\s", "\\S", "[a-c]", "[^a]", "[]a]", "[^]a]", "[a\\]b]",
            "[\\d_]", "[^\\w]", "(a)", "(?:b)", "(?P<x>a|b)", "a|b", "|", "^", "$", "\\A", "\\Z",
            "\\b", "\\B", "(?i:a)", "(?s:.)", "\\n", "\\t", "\\x61", "\\u00e9", "\\141", "\\.", "é", "[é-€]", "a*",
            "b+", "a?", "a*?", "b+?", "a??", "a{2}", "a{1,2}", "a{,2}", "a{1,}", "a{", "{", "}", "a{x}",
            "(a|)", "()", "(|a)*", "(a*)*", "(a+b?)+", "(?#note)", "\\\\", "[a-]", "[-a]", "[\\b]", "\\0", "-", "\\-",
            "[a-c-e]", "(?=a)", "(?!a)", "(?<=a)", "\\1", "a*+", "(?>a)", "\\N{DIGIT ONE}", "[[a]",
            "(?a)", "(?x) a", "\\a", "\\f", "\\v", "\\r", "[\\n]", "a**", "*", "(", ")", "\\", "[", "[z-a]", "a{2,1}",
            "\\q", "\\p", "(?P<x>", "\\8")


@case
def whole_expressions():
    """expressions of random parts, also such as Python refuses: what is held matches the texts that Python's re matches"""
    judge, held, refused = Judge(O.judge), 0, {}
    alphabet = "ab\n \t_1c-{}é€x.^$]\\"
    for seed in range(O.seed, O.seed + max(300, O.tokens // 100)):
        rng = random.Random(seed)
        text = "".join(rng.choice(RE_PARTS) for _ in range(rng.choice((1, 2, 3, 4, 6))))
        try:
            import warnings
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                whole = re.compile(text)
        except (re.error, OverflowError, RecursionError):
            whole = None
        us, no = judge.build("regex", text)
        if no:
            check(no[0] == 2 and no[1], "--seed %d, %r: exit %d, %s" % (seed, text, *no))
            if whole is not None:
                refused.setdefault(re.sub(r"['\"].*|byte \d+|\d+", "", no[1]), text)
            continue
        check(whole is not None, "--seed %d: %r is held, Python refuses it" % (seed, text))
        texts = ["".join(rng.choice(alphabet) for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4, 5)))) for _ in range(40)] + [text]
        texts += [t.decode() for i in range(5) if (t := judge.sample(seed + i, 20)) is not None]
        for t, told in zip(texts, judge.match([t.encode() for t in texts])):
            check(told.split()[0] == ("yes" if whole.fullmatch(t) else "no"),
                  "--seed %d: %r against %r: %s" % (seed, text, t, told))
        held += 1
    print("      %d held; refused though Python takes them, by reason: %s"
          % (held, "; ".join("%s (%r)" % x for x in list(refused.items())[:12])))


# --- schemas ---

def closed_world(seed):
    """A random schema within a small world: (schema, [(value, whether it is valid)])"""
    rng = random.Random(seed)
    world, values = universe(rng)
    document = a_document(rng)
    defs = document.pop("$defs", None)
    schema = {"allOf": [document, world], **({"$defs": defs} if defs else {})}
    v = validator(schema)
    return schema, [(x, v.is_valid(x)) for x in values]


def kept_apart(text, v):
    """Whether a value has an array whose items must differ and are not all generated: objects and arrays differ in less than their values, and
    items by their place, items that are counted and repeated items are left out."""
    if isinstance(v, dict):
        return any(kept_apart(text, x) for x in v.values())
    return '"uniqueItems"' in text and isinstance(v, list) and (
        len(v) > 1 and (any(isinstance(x, (list, dict)) for x in v) or re.search('"(prefixItems|contains|not|oneOf|if)"', text) is not None)
        or any(kept_apart(text, x) for x in v))


@case
def schemas():
    """random schemas in a small world of values, judged by jsonschema: keys in any order, as in the schema, by --match"""
    validator(True)
    table, beyond = Table(), {}
    for seed in seeds():
        try:
            schema, values = closed_world(seed)
        except RecursionError:
            O.skipped += 1
            continue
        text, what = json.dumps(schema), "--seed %d, schema %s" % (seed, json.dumps(schema))
        some = any(ok for _, ok in values)
        every = [(t, ok) for v, ok in values for t in spellings(v)]
        good = {t for t, ok in every if ok}
        for form in ("match", "any", "plain"):
            us, no = table.judge.build("schema", text, form)
            if no:
                if not some:
                    O.refused += form == "plain"
                else:
                    check(no[0] in (2, 3), "%s\nexit %d, %s" % (what, *no))
                    beyond.setdefault(form + ": " + re.sub(r"#\S*|\d+|'.*?'|\".*?\"", "..", no[1]), seed)
                    O.skipped += form == "plain"
                continue
            check(some, "%s\n%s: is held, though nothing satisfies it" % (what, form))
            told = table.judge.match([t for t, _ in every])
            taken = {t for (t, _), x in zip(every, told) if x == "yes"}
            check(not taken - good, "%s\n%s: taken, but not valid: %r" % (what, form, sorted(taken - good)[:3]))
            if form != "match" and good - taken:         # one order of keys for each value that is valid
                O.ordered += form == "any"
                missing = [v for v, ok in values if ok and not taken & set(spellings(v))]
                O.apart += any(kept_apart(text, v) for v in missing)
                missing = [v for v in missing if not kept_apart(text, v)]
                check(not missing, "%s\n%s: valid, but not taken: %r" % (what, form, missing[:3]))
            else:
                check(not good - taken, "%s\n%s: valid, but not taken: %r" % (what, form, sorted(good - taken)[:3]))
            if form != "match":
                O.held += walk(table, Texts(taken), seed, what + "\nform " + form)
                if seed % 8 == 0:
                    closing(table, seed, what)
    print("      %d schemas with one order of keys where any is asked for, %d with fewer arrays whose items differ" % (O.ordered, O.apart))
    for reason, seed in beyond.items():
        print("      refused, --seed %d: %s" % (seed, reason))


@case
def open_schemas():
    """random schemas without such a world: the shortest and random texts are valid for jsonschema, whatever the form"""
    validator(True)
    judge, texts = Judge(O.judge), 0
    for seed in range(O.seed, O.seed + max(100, O.tokens // 400)):
        rng = random.Random(seed)
        schema = a_document(rng, 3)
        v, what = validator(schema), "--seed %d, schema %s" % (seed, json.dumps(schema))
        for form in ("plain", "any", "blank", "lines"):
            us, no = judge.build("schema", json.dumps(schema), form)
            if no:
                check(no[0] in (2, 3), "%s\nexit %d, %s" % (what, *no))
                continue
            for t in [judge.least()] + [judge.sample(seed + i, rng.choice((10, 40, 100))) for i in range(4)]:
                check(t is not None, "%s\n%s: no text" % (what, form))
                if re.search(rb"[0-9.]{16}|[0-9][eE][-+]?[0-9]", t):     # Python's numbers hold no more digits
                    continue
                try:
                    ok = v.is_valid(json.loads(t))
                except (RecursionError, OverflowError):
                    continue
                except ValueError as e:
                    raise AssertionError("%s\n%s: no JSON: %r, %s" % (what, form, t, e))
                check(ok, "%s\n%s: not valid: %r" % (what, form, t))
                texts += 1
            told = judge.build("schema", json.dumps(schema), "match")
            check(not told[1] or re.search(r"negation is not supported|more than \d+ alternatives", told[1][1]),
                  "%s\n%s holds, match refuses: %s" % (what, form, told[1]))
    check(texts > 100, "%d texts" % texts)
    print("      %d texts" % texts)


if __name__ == "__main__":
    O = kit.arguments("judge", tokens=100000, seed=1)
    if kit.sanitized():
        O.tokens //= 10
    sys.exit(kit.walk("rule", O.words, TMP))
