#!/usr/bin/env python3
"""Random values in templates against Python's own: printed forms, JSON, arithmetic, order, subscripts.
    python3 tests/values.py ./llmrun [part of a name ...] [--seed N]

A template applies one operation to each row of a list, and prints a line for each. Rows whose operation fails in Python are not
asked, nor those whose arithmetic takes or makes integers beyond 64 bits."""
import json, math, os, random, subprocess, sys
import kit
from kit import case, check, new_folder, short

BIN = sys.argv[1]
SEED = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else 24
FOLDER = new_folder("values")
ROWS = 500 if kit.sanitized() else 3000
WORDS = ["", "a", "it's", 'say "x"', "tab\t", "line\nend\r", "\\", "\x00\x1f\x7f", "é", "\x80\xa0\xad", "日本", "😀", "\u200b\ufeff",
         "\ue000", "\U000e0001", "\u2028", "<b>&amp;"]


def an_int(rnd):
    size = rnd.choice([4, 8, 31, 53, 62, 63, 64, 65, 100, 300])
    return rnd.choice([-1, 1]) * (rnd.getrandbits(size) if rnd.random() < 0.7 else 2 ** size + rnd.randint(-2, 2))


def a_float(rnd):
    kind = rnd.randrange(5)
    if kind == 0:
        return math.ldexp(rnd.getrandbits(53), rnd.randint(-1074, 900))
    if kind == 1:
        return rnd.choice([0.0, -0.0, 1e16, 1e22, 5e-324, 0.1, 1 / 3, 1e-5, 123456789.125])
    if kind == 2:
        return rnd.choice([-1, 1]) * 2.0 ** rnd.randint(-1074, 1023)
    return rnd.randint(-10 ** 6, 10 ** 6) / rnd.choice([1, 2, 3, 10, 1000, 7e9])


def a_number(rnd):
    return rnd.choice([an_int, an_int, a_float, lambda r: r.random() < 0.5])(rnd)


def a_text(rnd):
    other = lambda: chr(rnd.choice([rnd.randrange(0x20, 0x3000), rnd.randrange(0xe000, 0x110000)]))
    return "".join(rnd.choice(WORDS) if rnd.random() < 0.8 else other() for _ in range(rnd.randint(0, 4)))


def a_value(rnd, deep=0):
    kind = rnd.randrange(8 if deep < 4 else 4)
    if kind == 0:
        return rnd.choice([None, True, False])
    if kind == 1:
        return a_text(rnd)
    if kind < 4:
        return a_number(rnd)
    if kind < 6:
        return [a_value(rnd, deep + 1) for _ in range(rnd.randint(0, 4))]
    return {a_text(rnd) + str(i): a_value(rnd, deep + 1) for i in range(rnd.randint(0, 4))}


def a_bound(rnd):
    return rnd.choice([None, 0, 1, -1, 3, -3, 100, -100, 2 ** 70, -2 ** 70])


def a_sequence(rnd):
    return rnd.choice([a_text(rnd), [a_value(rnd, 3) for _ in range(rnd.randint(0, 6))]])


def render(template, rows):
    """The lines that the template prints, one for each row."""
    for name, text in ("t.jinja", template), ("c.json", json.dumps({"messages": [], "rows": rows})):
        with open(os.path.join(FOLDER, name), "w", encoding="utf-8", newline="") as f:
            f.write(text)
    command = [BIN, "--render", "--chat-template-file", os.path.join(FOLDER, "t.jinja"), "-f", os.path.join(FOLDER, "c.json")]
    r = subprocess.run(command, capture_output=True, env=kit.ENV, timeout=60 * kit.SLOW)
    check(r.returncode == 0, "exit %d: %s" % (r.returncode, r.stderr.decode("utf-8", "replace")))
    lines = r.stdout.decode("utf-8").split("\n")
    check(len(lines) == len(rows) + 1 and lines[-1] == "", "%d lines for %d rows" % (len(lines) - 1, len(rows)))
    return lines[:-1]


def agree(expression, python, make):
    """The expression over row r in a template and the function of r in Python agree: str() of a list of the result, one line."""
    rnd, rows, want = random.Random("%d %s" % (SEED, expression)), [], []
    for _ in range(ROWS):
        r = make(rnd)
        try:
            want.append(repr([python(*r)]))
            rows.append(r)
        except (TypeError, ValueError, ArithmeticError, LookupError):
            pass
    check(len(rows) > ROWS / 10, "%s: only %d rows" % (expression, len(rows)))
    got = render("{% for r in rows %}{{ [" + expression + "] }}\n{% endfor %}", rows)
    for r, a, b in zip(rows, got, want):
        check(a == b, "%s of %s: got %s, want %s" % (expression, short(r), short(a), short(b)))


@case
def printed():
    """str() and repr() of values"""
    agree("r[0]", lambda v: v, lambda rnd: [a_value(rnd)])
    agree("r[0] | string", str, lambda rnd: [a_value(rnd)])
    agree("r[0] ~ r[1]", lambda a, b: str(a) + str(b), lambda rnd: [a_value(rnd), a_value(rnd)])


@case
def as_json():
    """tojson is json.dumps with ensure_ascii off"""
    agree("r[0] | tojson", lambda v: json.dumps(v, ensure_ascii=False), lambda rnd: [a_value(rnd)])
    agree("r[0] | tojson(indent=r[1], sort_keys=r[2])",
          lambda v, n, keys: json.dumps(v, ensure_ascii=False, indent=n, sort_keys=keys),
          lambda rnd: [a_value(rnd), rnd.choice([None, 0, 2, 4]), rnd.random() < 0.5])
    agree("r[0] | tojson(separators=r[1], ensure_ascii=r[2])",
          lambda v, s, ascii_only: json.dumps(v, ensure_ascii=ascii_only, separators=s),
          lambda rnd: [a_value(rnd), rnd.choice([None, [",", ":"], [" , ", " : "]]), rnd.random() < 0.5])


def narrow(python):
    """The function of numbers, an error where an integer beyond 64 bits takes part."""
    def run(*numbers):
        result = python(*numbers)
        if any(isinstance(n, int) and not -2 ** 63 <= n < 2 ** 63 for n in (*numbers, result)):
            raise OverflowError
        return result
    return run


def quotient(a, b):
    """a / b where both are floats exactly."""
    if any(isinstance(n, int) and abs(n) > 2 ** 53 for n in (a, b)):
        raise OverflowError
    return a / b


@case
def arithmetic():
    """arithmetic of integers of 64 bits and floats"""
    def two(rnd):
        return [a_number(rnd), a_number(rnd)]
    agree("r[0] + r[1]", narrow(lambda a, b: a + b), two)
    agree("r[0] - r[1]", narrow(lambda a, b: a - b), two)
    agree("r[0] * r[1]", narrow(lambda a, b: a * b), two)
    agree("r[0] / r[1]", quotient, two)
    agree("r[0] // r[1]", narrow(lambda a, b: a // b), two)
    agree("r[0] % r[1]", narrow(lambda a, b: a % b), two)
    agree("-r[0]", narrow(lambda a: -a), lambda rnd: [a_number(rnd)])


@case
def order():
    """comparison of numbers, texts and lists"""
    def two(rnd):
        a = rnd.choice([a_number, a_text, lambda r: [a_number(r), a_text(r)]])
        x = a(rnd)
        as_float = lambda: float(x) if isinstance(x, int) and abs(x) < 2 ** 1000 else x
        return [x, rnd.choice([lambda: x, lambda: a(rnd), as_float])()]
    some = lambda rnd: two(rnd) if rnd.random() < 0.5 else [a_value(rnd), a_value(rnd)]
    among = lambda rnd: [rnd.choice(["a", "", 1, 1.0, True, None]), rnd.choice([a_sequence(rnd), {"a": 1}, [1, "a"]])]
    agree("[r[0] == r[1], r[0] != r[1]]", lambda a, b: [a == b, a != b], some)
    agree("[r[0] < r[1], r[0] <= r[1], r[0] > r[1], r[0] >= r[1]]", lambda a, b: [a < b, a <= b, a > b, a >= b], two)
    agree("r[0] in r[1]", lambda a, b: a in b, among)


@case
def subscripts():
    """subscripts and slices, also from the end and beyond it"""
    bounds = lambda rnd, n: [a_sequence(rnd)] + [a_bound(rnd) for _ in range(n)]
    agree("r[0][r[1]]", lambda v, i: v[i], lambda rnd: [a_sequence(rnd), rnd.randint(-4, 4)])
    agree("r[0][r[1]:r[2]]", lambda v, a, b: v[a:b], lambda rnd: bounds(rnd, 2))
    agree("r[0][r[1]:r[2]:r[3]]", lambda v, a, b, c: v[a:b:c], lambda rnd: bounds(rnd, 3))


PARTS = [w for i, w in enumerate(sys.argv) if i > 1 and w != "--seed" and sys.argv[i - 1] != "--seed"]
sys.exit(kit.walk("values", PARTS, FOLDER))
