#!/usr/bin/env python3
"""Writes tests/data/golden/val.txt: operations on values and what Python 3.11 makes of them, for the tests of section [val].
    python3 tests/gen/val_oracle.py > tests/data/golden/val.txt

A line has an operation, its arguments and the result, apart by tabs. Arguments are JSON. The result is repr() of Python's as JSON, or ! where it
raises an exception, or where an operation would take or make an integer beyond 64 bits, or divide one beyond 53 bits: those are refused."""
import json
import math
import operator
import random

rnd = random.Random(24)
WORDS = ["", "a", "it's", 'say "x"', "'\"", "tab\t", "line\nend\r", "\\", "\x00\x1f\x7f", "é", "\x80\xa0\xad", "日本", "😀", "\u200b\ufeff", "\ue000", "\U000e0001", "\u0378",
         "\u2028", "ﬀ", "\U0001f600x", "a" * 70, "</s>", "<a href='x'>&</a>"]


def an_int():
    kind = rnd.randrange(6)
    if kind == 0:
        return rnd.randint(-20, 20)
    if kind == 1:
        return rnd.choice([-1, 1]) * (2 ** rnd.choice([31, 32, 53, 54, 62, 63, 64, 65, 96, 128]) + rnd.randint(-2, 2))
    if kind == 2:
        return rnd.choice([-1, 1]) * 10 ** rnd.randint(0, 60)
    if kind == 3:                                   # limbs of all ones and zeros, where carries and guesses of a quotient go wrong
        return rnd.choice([-1, 1]) * sum(rnd.choice([0, 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32 - 2]) << 32 * i for i in range(rnd.randint(1, 8)))
    return rnd.choice([-1, 1]) * rnd.getrandbits(rnd.choice([8, 30, 63, 64, 100, 200, 700]))


def a_float():
    kind = rnd.randrange(7)
    if kind == 0:
        return rnd.choice([0.0, -0.0, 1.0, 0.1, 0.5, 1.5, -2.5, 1e16, 1e15, 123456789012345680.0, 9007199254740993.0, 1e22, 1e23, 1e-4, 1e-5, 5e-324, 2.2250738585072014e-308,
                           1.7976931348623157e308, float("inf"), float("-inf"), float("nan")])
    if kind == 1:
        return rnd.choice([-1, 1]) * 2.0 ** rnd.randint(-1074, 1023)
    if kind == 2:
        return float(rnd.randint(-10 ** 6, 10 ** 6)) / rnd.choice([1, 2, 4, 10, 100, 1000])
    if kind == 3:
        return math.ldexp(rnd.getrandbits(53), rnd.randint(-1074, 971))
    if kind == 4:
        return math.ldexp(rnd.getrandbits(rnd.randint(1, 52)), -1074)
    return rnd.uniform(-1, 1) * 10.0 ** rnd.randint(-10, 20)


def a_number():
    return rnd.choice([an_int, an_int, a_float, lambda: rnd.random() < 0.5])()


def a_text():
    return "".join(rnd.choice(WORDS) for _ in range(rnd.randint(0, 3)))


def a_value(depth=0):
    kind = rnd.randrange(9 if depth < 4 else 5)
    if kind == 0:
        return a_text()
    if kind == 1:
        return rnd.choice([None, True, False])
    if kind < 5:
        return a_number()
    if kind < 7:
        return [a_value(depth + 1) for _ in range(rnd.randint(0, 4))]
    return {a_text() + str(i % 3): a_value(depth + 1) for i in range(rnd.randint(0, 4))}


def a_bound():
    return rnd.choice([None, 0, 1, -1, 2, -2, 5, -5, 100, -100, 2 ** 70, -2 ** 70, rnd.randint(-9, 9)])


def sequence():
    return rnd.choice(["", "a", "abcdéf", [], [1], [1, 2, 3, 4, 5]])


def dumps(v, indent, separators, sort_keys, ascii_only):
    return json.dumps(v, indent=indent, separators=separators and tuple(separators), sort_keys=sort_keys, ensure_ascii=ascii_only)


def loads(text):
    r = json.loads(text)
    if any(0xd800 <= ord(c) < 0xe000 for c in repr(r)):
        raise ValueError
    return r


OPS = {
    "add": operator.add, "minus": operator.sub, "mul": operator.mul, "div": operator.truediv, "floordiv": operator.floordiv, "mod": operator.mod,
    "neg": operator.neg, "pos": operator.pos, "eq": operator.eq, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "in": lambda a, b: a in b,
    "index": lambda v, i: v[i], "slice": lambda v, a, b, c: v[slice(a, b, c)], "repr": lambda v: v, "str": str, "json": dumps, "loads": loads,
    "int": lambda s, base: int(s, base), "float": float, "len": len, "truth": bool, "trunc": int,
}


COMPUTES = {"add", "minus", "mul", "div", "floordiv", "mod", "neg", "int", "trunc"}


def refused(op, args, result):
    """Whether the operation takes or makes an integer that is too large for it."""
    integers = [n for n in (*args, result) if isinstance(n, int)]
    return any(not -2 ** 63 <= n < 2 ** 63 for n in integers) or op == "neg" and args[0] == -2 ** 63 \
        or op == "div" and all(isinstance(n, int) for n in args) and any(abs(n) > 2 ** 53 for n in args)


def line(op, *args):
    try:
        result = OPS[op](*args)
        result = "!" if op in COMPUTES and refused(op, args, result) else json.dumps(repr(result))
    except (TypeError, ValueError, ArithmeticError, LookupError):
        result = "!"
    print("\t".join([op] + [json.dumps(a) for a in args] + [result]))


def numbers():
    for _ in range(150):
        for op in ("add", "minus", "mul", "div", "floordiv", "mod"):
            line(op, a_number(), a_number())
    for _ in range(60):                             # draws of rows that are gone: those after them stay
        rnd.randint(-12, 12), a_float(), rnd.randint(-10 ** 10, 10 ** 10), rnd.choice("abcd"), rnd.randint(0, 40), rnd.randint(-3, 3), rnd.choice("abcdef")
    for _ in range(60):
        for op in ("neg", "pos", "truth"):
            line(op, a_number())
        line("trunc", a_float())
        line("div", an_int(), an_int())
        line("div", an_int() * 10 ** rnd.randint(0, 330), an_int() * 10 ** rnd.randint(0, 330))
        n = an_int()
        line("eq", n, float(n) if abs(n) < 2 ** 1000 else n)
        line("lt", n, float(n) if abs(n) < 2 ** 1000 else n)
    for _ in range(250):
        line(rnd.choice(["eq", "lt", "le", "gt"]), a_number(), a_number())
    for a in range(-7, 8):
        for b in (-3, -2, -1, 0, 1, 2, 3, -2.5, 2.5, 0.0):
            line("floordiv", a, b)
            line("mod", a, b)
    for a in (2 ** 63, -2 ** 63, 2 ** 63 - 1, -2 ** 63 - 1, 2 ** 64):
        for op in ("add", "minus", "mul", "floordiv", "mod"):
            for b in (1, -1, 2, -2, 2 ** 63, -2 ** 63):
                line(op, a, b)
                line(op, b, a)
    for e in range(-1074, 1024, 7):
        line("repr", 2.0 ** e)
    for _ in range(300):
        line("repr", a_float())
    for digits in (4299, 4300):
        line("repr", -10 ** (digits - 1))
        line("mul", 10 ** (digits // 2), 10 ** (digits - digits // 2))


def texts():
    for s in WORDS:
        line("repr", s)
        line("str", s)
    for _ in range(100):
        line("repr", a_text())
    for s in ("12", " 12 ", "1_000", "_1", "1_", "1__0", "+5", "-5", "--5", "", " ", "+", "0x1f", "1f", "٣٤", "１２", "1.0", "1e3", "inf", "-Infinity", "nan", "NaN", "1_0.5_0", "1._5", ".5",
              "5.", ".", "e5", "1e", "1e+", "1e400", "-1e-400", "0x", "007", "00", "1 2", "\u00a07\u3000", "٣.٥", "1\x00", "1e5_0", "infinit", "0b101", "0o17", "z"):
        for base in (10, 16, 8, 2, 0, 36):
            line("int", s, base)
        line("float", s)
    for s in ('[1, 2.0, -0, -0.0, 1E5, 1e-7, 123456789012345678901234567890]', '{"a": 1, "b": 2, "a": 3}', '"\\u0041\\u00e9\\ud83d\\ude00\\n\\/"', "[NaN, Infinity, -Infinity]", " \t\r\n1 ", "", "[",
              "[1,]", "{,}", '{"a"}', '{"a":}', '{"a":1,}', "{1:2}", "01", "-", "-a", "1.", "1.e5", ".5", "1e", "+1", "tru", "nul", '"\t"', '"\\x"', '"\\u12"', '"', '"\\', "[1] 2", "1 2", "'a'",
              '"\u007f\u0080\u2028"', "\ufeff1", "[[[]]]", '{"":{"":[]}}', "1e400", "-1e400", "[1 2]", '{"a" 1}', "[1}", "nan", "-Infinit", "\u00a01", "[\x0b1]"):
        line("loads", s)


def containers():
    for _ in range(150):
        v = sequence()
        line("index", v, a_bound())
        line("slice", v, a_bound(), a_bound(), a_bound())
        line("mul", v, rnd.choice([0, 1, 3, -2, True, 2.0, None]))
        line("add", v, sequence())
    for _ in range(120):
        a, b = a_value(), a_value()
        line("eq", a, json.loads(json.dumps(a)))
        line("eq", a, b)
        line(rnd.choice(["lt", "le", "gt"]), sequence(), sequence())
        line(rnd.choice(["lt", "le", "gt"]), [a, 1], [json.loads(json.dumps(a)), 2])
        line("in", rnd.choice(["a", "", "cd", 1, 1.0, True, None, a]), rnd.choice([sequence(), {"a": 1}, [True, None], [[1], {}], b]))
        line("repr", a)
        line("json", a, rnd.choice([None, None, 0, 2, 4, -1, "\t", True]), rnd.choice([None, None, [",", ":"], [" ; ", " = "]]), rnd.random() < 0.3, rnd.random() < 0.5)
        line("loads", json.dumps(b, indent=rnd.choice([None, 1])))
    for v in ("abc", [1, 2], {"a": 1}, 5, None):
        line("len", v)
    line("eq", {"a": 1, "b": [2.0]}, {"b": [2], "a": True})
    line("eq", [1], {"a": 1})
    line("mul", [1], 2 ** 70)
    line("mul", "", 2 ** 70)


numbers()
texts()
containers()
