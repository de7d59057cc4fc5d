#!/usr/bin/env python3
"""Random regular expressions and texts with what Python's re says of them.
    python3 tests/gen/regex_cases.py [--seed N] [--cases 1500] > tests/data/golden/regex.txt

Lines, with %XX for what is not printable:
    F expression     re.fullmatch; texts follow, each with + (a match) or - before it
    S expression     re.search with re.ASCII, of what Python and ECMA-262 read alike; texts follow
    ! expression     Python refuses it"""
import random, re, signal, sys, urllib.parse, warnings

warnings.simplefilter("ignore")
ARGS = dict(zip(sys.argv[1::2], sys.argv[2::2]))
RND = random.Random(int(ARGS.get("--seed", 25)))
LETTERS = "ab1_ \néÉ-"
SAFE = "".join(chr(c) for c in range(33, 127) if chr(c) != "%") + " "


def quote(text):
    return urllib.parse.quote(text, safe=SAFE)


def pick(*choices):
    return RND.choice(choices)


def a_class(kind):
    parts = []
    for _ in range(RND.randint(1, 3)):
        parts.append(pick("a", "b", "1", "_", " ", "é", "a-c", "0-9", "\\d", "\\w", "\\s", "\\n", "\\-", "\\]", "A-Z", "\\x61", "\\u00e9", "à-ü", "^", "\\W", "\\D", "\\S", "😀", ".", "|"))
    text = pick("", "", "^") + "".join(parts)
    if kind == "S":
        text = re.sub(r"\\[sS]", "", text) or "a"
        text = "a" + text if text[0] == "^" and len(text) == 1 else text
    else:
        text += pick("", "", "", "-")
        if RND.random() < 0.1:
            text = "]" + text
    return "[" + text + "]"


def an_atom(kind, deep):
    k = RND.randrange(12 if deep < 4 else 6)
    if k < 3:
        return pick("a", "b", "1", "_", "é", "\\n" if kind == "F" else "a", "ab", "-", "\\.", "\\x62", "a", "b", "😀")
    if k == 3:
        return pick("\\d", "\\w", "\\D", "\\W", "\\s" if kind == "F" else "\\w", "\\S" if kind == "F" else "\\d", "." if kind == "F" else "[^a]", "{", "{a}", "\\{")
    if k == 4:
        return a_class(kind)
    if k == 5:
        return pick("a", "", "\\t", "\\\\", "\\/") if kind == "S" else pick("\\a", "\\0", "\\141", "\\U0001F600", "\\ ", "]", "}", "{,", "{1,b}", "\\é")
    if k < 9:
        return "(" + pick("", "?:", "?:") + expression(kind, deep + 1) + ")"
    if kind == "F" and k == 9:
        return "(?%s:%s)" % (pick("i", "s", "m", "x", "is", "-i", "i-s"), expression(kind, deep + 1))
    if kind == "F" and k == 10:
        return pick("(?#c)", "(?P<n%d>%s)" % (RND.randrange(99999), expression(kind, deep + 1)))
    return an_atom(kind, deep + 1)


def a_place(kind):
    if kind == "S":
        return pick("^", "\\b", "\\B", "^")
    return pick("^", "$", "$", "\\A", "\\Z", "\\b", "\\B", "(?m:^)", "(?m:$)")


def a_part(kind, deep):
    atom = an_atom(kind, deep)
    if RND.random() < 0.35 and atom:
        atom = "(?:" + atom + ")" if len(atom) > 1 and atom[0] not in "(\\[" else atom
        atom += pick("*", "+", "?", "*?", "+?", "??", "{2}", "{0,2}", "{1,}", "{,3}" if kind == "F" else "{0,3}", "{1,3}?", "{0}")
    return atom


def expression(kind, deep=0):
    out = []
    for _ in range(pick(1, 1, 1, 2, 3)):
        parts = [a_part(kind, deep) for _ in range(pick(0, 1, 1, 2, 2, 3))]
        if RND.random() < 0.15:
            parts.insert(RND.randint(0, len(parts)), a_place(kind))
        out.append("".join(parts))
    return "|".join(out)


def a_text():
    return "".join(RND.choice(LETTERS if RND.random() < 0.9 else "A.c9é😀\t{}Z0\\\x1c\x85\u0663\u0416Kſß²") for _ in range(RND.choice([0, 1, 1, 2, 2, 3, 4, 5, 7])))


def sample(node):
    """A text that a parsed expression may match (places are left out of account)."""
    out = ""
    for op, av in node:
        op = str(op)
        if op == "LITERAL":
            out += chr(av)
        elif op == "NOT_LITERAL" or op == "ANY":
            out += pick("a", "b", "\n", "1")
        elif op == "IN":
            items = [i for i in av if str(i[0]) in ("LITERAL", "RANGE")]
            item = RND.choice(items) if items and str(av[0][0]) != "NEGATE" else None
            out += pick("a", "1", " ", "_") if item is None else chr(item[1]) if str(item[0]) == "LITERAL" else chr(RND.choice(item[1]))
        elif op == "BRANCH":
            out += sample(RND.choice(av[1]))
        elif op == "SUBPATTERN":
            out += sample(av[3])
        elif op in ("MAX_REPEAT", "MIN_REPEAT"):
            out += "".join(sample(av[2]) for _ in range(RND.randint(av[0], min(av[1], av[0] + 2))))
    return out


def too_slow(*_):
    raise TimeoutError


signal.signal(signal.SIGALRM, too_slow)


def cases(kind):
    pattern = expression(kind)
    if kind == "F" and RND.random() < 0.1:
        pattern = "(?%s)%s" % (pick("i", "s", "m", "x", "ims", "a", "ai", "u"), pattern)
    if kind == "F" and RND.random() < 0.06:           # broken, mostly
        at = RND.randint(0, len(pattern))
        pattern = pattern[:at] + pick("(", ")", "[", "*", "{2}", "\\", "\\q", "(?", "+", "(?P<", "\\8", "[b-a]", "{3,2}") + pattern[at:]
    if kind == "S" and RND.random() < 0.4:
        pattern = pick("^(?:%s)$", "^%s", "^(?!%s)" % expression("S", 3).replace("\\b", "").replace("\\B", "").replace("^", "") + "%s", "%s") % pattern
    if kind == "S" and ("\\B" in pattern or "$" in pattern.replace(")$", "")):
        return
    if len(pattern) > 90:
        return
    try:
        signal.setitimer(signal.ITIMER_REAL, 2)
        rx = re.compile(pattern, re.ASCII if kind == "S" else 0)
        if kind == "S" and "^(?!" not in pattern and re.search(r"\(\?[!=]", pattern):
            return
        texts = {a_text() for _ in range(6)}
        tree = __import__("re._parser", fromlist=["parse"]).parse(pattern, re.ASCII if kind == "S" else 0)
        for _ in range(8):
            s = sample(tree)
            texts.add(s)
            if s:
                at = RND.randrange(len(s))
                texts.add(s[:at] + RND.choice(LETTERS) + s[at + RND.randint(0, 1):])
            texts.add(s + "\n")
        texts = sorted(t for t in texts if len(t) < 20)
        got = [bool(rx.fullmatch(t) if kind == "F" else rx.search(t)) for t in texts]
    except (re.error, OverflowError):
        if kind == "F":
            print("! " + quote(pattern))
        return
    except TimeoutError:
        return
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    if re.search(r"\\[1-9]|[*+?}]\+|\(\?[=!<>(]|\(\?P=", pattern.replace("(?!", "")) and not re.search(r"\\1[0-7]{2}", pattern):
        return
    if kind == "S" and any("\n" in t for t in texts):  # a dollar of Python also stands before a final newline
        pairs = [(t, g) for t, g in zip(texts, got) if not t.endswith("\n")]
    else:
        pairs = list(zip(texts, got))
    print(kind + " " + quote(pattern))
    for t, g in pairs:
        print("+-"[not g] + quote(t))


def main():
    print("# python3 tests/gen/regex_cases.py, with Python %s" % sys.version.split()[0])
    for _ in range(int(ARGS.get("--cases", 1200))):
        cases(RND.choice("FFFS"))


main()
