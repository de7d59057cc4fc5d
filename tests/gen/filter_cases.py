#!/usr/bin/env python3
"""Calls of filters, tests, methods and functions of templates, and what Jinja2 3.1 and Python 3.11 answer. t_filter.c calls the rows of section [filter] in the same way.
    python3 tests/gen/filter_cases.py > tests/data/golden/filter.jsonl

The first line lists the values. Each other line is a call with many values in front: [table, row, arguments, arguments by name, cases], a case being
[number of the value, answer] or, of a method that may change its value, [number, answer, value afterwards]. table is filter, test, method or function; the answer is the
repr of the result, 0 where the call fails, or [list] for what can be read once. Values that JSON does not have are written {"$": kind, "v": ...}."""
import json
import sys
from collections.abc import Iterator
from types import BuiltinMethodType

import jinja2
from jinja2.sandbox import SandboxedEnvironment
from markupsafe import Markup

UNDEF = jinja2.Undefined(name="x")


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


ENV = SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=False)
ENV.filters["tojson"] = tojson
ENV.filters["from_json"] = json.loads
CONTEXT = ENV.from_string("").new_context()


class Once:
    """A generator of these items."""
    def __init__(self, *items):
        self.items = items


def fresh(v):
    """A value for one call: calls may change or spend it."""
    if isinstance(v, Once):
        return (x for x in v.items)
    if isinstance(v, (list, tuple)):
        return type(v)(fresh(x) for x in v)
    if isinstance(v, dict):
        return {k: fresh(x) for k, x in v.items()}
    return v


def coded(v):
    if isinstance(v, jinja2.Undefined):
        return {"$": "undefined"}
    if isinstance(v, Markup):
        return {"$": "safe", "v": str(v)}
    if isinstance(v, tuple):
        return {"$": "tuple", "v": [coded(x) for x in v]}
    if isinstance(v, Once):
        return {"$": "once", "v": [coded(x) for x in v.items]}
    if isinstance(v, range):
        return {"$": "range", "v": [v.start, v.stop, v.step]}
    if isinstance(v, list):
        return [coded(x) for x in v]
    if isinstance(v, dict):
        if all(isinstance(k, str) for k in v):
            return {k: coded(x) for k, x in v.items()}
        return {"$": "dict", "v": [[coded(k), coded(x)] for k, x in v.items()]}
    return v


def answer(v):
    if isinstance(v, Iterator):
        return [repr(list(v))]
    if isinstance(v, BuiltinMethodType) or type(v).__name__ == "Namespace":
        return type(v).__name__
    return repr(v)


def call(table, row, value, args, named):
    if table == "filter":
        return ENV.call_filter(row, value, args, named, context=CONTEXT)
    if table == "test":
        return bool(ENV.call_test(row, value, args, named, context=CONTEXT))
    if table == "method":
        return getattr(value, row)(*args, **named)
    return ENV.globals[row](*args, **named)


NUMBERS_OF, CALLS = {}, {}


def refused(row, value, result):
    """Whether the call would compute with an integer beyond 64 bits."""
    wide = lambda n: isinstance(n, int) and not -2 ** 63 <= n < 2 ** 63
    return row in ("even", "odd") and wide(value) or row == "int" and wide(result) and not wide(value)


def case(table, row, value, *args, **named):
    mine = fresh(value)
    try:
        result = call(table, row, mine, list(fresh(args)), fresh(named))
        result = 0 if refused(row, value, result) else answer(result)
    except Exception:
        result = 0
    after = [repr(mine)] if table == "method" and isinstance(mine, (list, dict)) and mine != value else []
    number = NUMBERS_OF.setdefault(json.dumps(coded(value)), len(NUMBERS_OF))
    CALLS.setdefault(json.dumps([table, row, [coded(x) for x in args], {k: coded(x) for k, x in named.items()}])[:-1], {})[number] = [number, result] + after


def f(row, value, *args, **named):
    case("filter", row, value, *args, **named)


def t(row, value, *args, **named):
    case("test", row, value, *args, **named)


def m(row, value, *args, **named):
    case("method", row, value, *args, **named)


def g(row, *args, **named):
    case("function", row, None, *args, **named)


WORDS = ["", "a", "Hello World", "hELLO wORLD", "foo-bar (baz) [qux] {x} <y>", "  spaced\tout \n", "\u00dfstra\u00dfe", "\u01c6\u01c4 \u01c5", "\u0391\u03a3 \u03a3\u0391\u03a3 \u03a3", "\u0130stanbul \u0131", "\ufb01sh \ufb03",
         "\u0390\u03b0 \u1fb3\u1fbc", "don't they're", "\u10d0\u1c90", "\u2160\u2170 \u24b6\u24d0", "A\u0301b \u00aa\u00ba", "123 abc456def", "\u0149\u01f0", "x\u00a0y\u2003z\u3000", "\U00010400\U00010428", "a\u03a3\u00ad", "\u00ad\u03a3", "\u13a0\uab70 \u13f8", "1\u03a3", "\u03a3.\u03b1"]
VALUES = [None, True, False, 0, 1, -7, 3, 2 ** 70, 1.5, -0.0, 1e300, "", "abc", "12", [], [1, 2], (1, 2), {}, {"a": 1}, range(3), UNDEF, Markup("<b>"), Once(1, 2)]
PEOPLE = [{"name": "Bob", "age": 30, "x": {"y": [1, 2]}}, {"name": "alice", "age": 25, "x": {"y": [0, 9]}}, {"name": "Carl", "age": 30}, {"name": "bob", "age": 25, "x": {}}]
LINES = "one\ntwo\r\nthree\n\nfour\x0bfive\x0csix\x1cseven\u2028eight\n"


def strings():
    for s in WORDS:
        for row in ("upper", "lower", "capitalize", "title", "trim", "string", "list", "length", "first", "last"):
            f(row, s)
        for row in ("upper", "lower", "capitalize", "title", "strip", "lstrip", "rstrip", "split"):
            m(row, s)
    for row in ("upper", "lower", "capitalize", "title", "trim", "string", "length", "safe", "list", "first", "last", "join", "indent", "replace"):
        for v in VALUES if row in ("list", "first", "last", "join", "length") else VALUES[:-1]:
            f(row, v)
    for s, a in (("xxabcxx", "x"), ("  a ", None), ("abc", ""), ("\u00e9a\u00e9", "\u00e9"), ("abcba", "ab")):
        f("trim", s, a), m("strip", s, a), m("lstrip", s, a), m("rstrip", s, a), f("trim", s, chars=a)
    m("strip", "a", 1), f("trim", 5), f("trim", "a", 5)
    for args in (("a", "b"), ("", "-"), ("aa", "x"), ("z", "y"), ("a", "")):
        for s in ("banana", "", "aaaa"):
            f("replace", s, *args), f("replace", s, *args, 1), f("replace", s, *args, count=2), m("replace", s, *args), m("replace", s, *args, 1), m("replace", s, *args, 0)
    f("replace", 12321, 2, "x"), f("replace", UNDEF, "a", "b"), f("replace", "abc", UNDEF, "-"), m("replace", "a", 1, "b"), f("replace", "a"), f("replace", "aa", "a", "b", "1"), m("replace", Markup("a"), "a", "<")
    for s in ("a,b,,c", "a", "", ",", "a, b"):
        for n in (-1, 0, 1, 2):
            m("split", s, ",", n), m("split", s, ", ", maxsplit=n), m("split", s, None, n)
    for n in range(4):
        m("split", "  a b  c ", None, n)
    m("split", "a", ""), m("split", "a", 1), m("split", Markup("a,b"), ","), m("split", "aXbXXc", "X")
    for sub in ("a", "na", "", "x", "banana", "bananas"):
        m("startswith", "banana", sub), m("endswith", "banana", sub)
    m("startswith", "abc", ("x", "ab")), m("endswith", "abc", ("x", "bc")), m("startswith", "abc", ()), m("startswith", "abc", ["a"]), m("startswith", "abc", (1,))
    m("upper", "a", "b")
    for v in ([], ["a", 1, None, True, 1.0], "abc", (1, 2), {"a": 1, "b": 2}, UNDEF, Once("x", "y"), 5, range(3)):
        f("join", v), f("join", v, ", "), f("join", v, d="|")
    f("join", PEOPLE, ", ", attribute="name"), f("join", PEOPLE, attribute="age"), f("join", [["a"], ["b"]], "", 0), f("join", ["a", Markup("<")], "&"), f("join", [1, 2], UNDEF), f("join", [1, 2], 5)
    for args, named in (((), {}), ((2,), {}), ((0,), {}), (("> ",), {}), ((4, True), {}), ((4, False, True), {}), ((), {"width": 2, "first": True, "blank": True}), ((), {"first": 1}), ((-1,), {}), ((2.0,), {})):
        for s in ("one", "a\n\nb\n", LINES, "", "\n", Markup("<a>\n<b>")):
            f("indent", s, *args, **named)
    for s in ("<&>'\"", Markup("<&>"), "plain", 5, None):
        f("safe", s)


def lists():
    for v in VALUES:
        for row in ("sort", "unique", "min", "max", "items", "dictsort", "default", "int", "tojson"):
            f(row, v)
        f("map", v, "string"), f("select", v), f("reject", v), f("default", v, "x", True), f("default", v, default_value="y", boolean=True), f("map", v, attribute="a"), f("selectattr", v, "a"), f("rejectattr", v, "a")
        for row in ("boolean", "defined", "even", "false", "float", "integer", "iterable", "mapping", "none", "number", "odd", "sequence", "string", "true", "undefined"):
            t(row, v)
        for row in ("eq", "equalto"):
            t(row, v, 3), t(row, v, "abc"), t(row, v, [1, 2]), t(row, v, None), t(row, v, UNDEF)
    for args in ({}, {"reverse": True}, {"case_sensitive": True}, {"reverse": True, "case_sensitive": True}):
        for v in (["b", "A", "a", "B"], [3, 1, 2.5, True], "bAcB", {"b": 1, "A": 2}, [(2, "a"), (1, "b")], [1, "a"], [[2], [1]], [None, 1], [None, None], [{}, {}], [UNDEF, UNDEF], Once(3, 1), [], range(4, 0, -1)):
            f("sort", v, **args)
    f("sort", PEOPLE, attribute="name"), f("sort", PEOPLE, attribute="age,name"), f("sort", PEOPLE, False, True, "name"), f("sort", PEOPLE, attribute="x.y.0"), f("sort", PEOPLE, attribute="nothing"), f("sort", [[2, 1], [1, 2]], attribute=1), f("sort", PEOPLE, True, attribute="age"), f("sort", [3, 1], "yes"), f("sort", [3, 1], 2 ** 31), f("sort", [1, 3], 2 ** 31 - 1)
    d = {"b": 1, "A": 3, "c": 2}
    for args in ((), (True,), (False, "value"), (False, "key", True), (False, "other"), (True, "value", True)):
        f("dictsort", d, *args), f("dictsort", {2: "x", 1: "y"}, *args)
    f("dictsort", d, by="value", reverse=True), f("dictsort", {"a": 1, 2: 3}), f("dictsort", d, nothing=1)
    for v in (["a", "A", "b", 1, True, 1.0, None], "aAbB", [[1]], [(1,), (1,)], [UNDEF, UNDEF]):
        f("unique", v), f("unique", v, True), f("unique", v, case_sensitive=True)
    f("unique", PEOPLE, attribute="age"), f("unique", PEOPLE, attribute="name"), f("min", PEOPLE, attribute="age"), f("max", PEOPLE, attribute="name"), f("max", ["b", "A"]), f("min", ["b", "A"], True), f("min", ["b", "A", "a"]), f("max", [1, "a"]), f("min", "hello"), f("max", [1, 1.0, True])
    f("map", ["a", "b"], "upper"), f("map", [1.5, 2.7], "int"), f("map", PEOPLE, attribute="name"), f("map", PEOPLE, attribute="x.y.0", default="?"), f("map", PEOPLE, attribute="x.y"), f("map", PEOPLE, attribute="zip", default="?"), f("map", ["ab"], "replace", "a", "x"), f("map", [1], 5), f("map", ["a"], "nothing"), f("map", ["a"])
    f("map", PEOPLE, attribute="name", other=1), f("map", [["a", "b"]], "join", "-"), f("map", [None], "default", "x", true=1), f("map", [{"a": 1}], "list"), f("map", "abc", "upper"), f("map", [[3, 4]], attribute=1)
    f("select", [0, 1, "", "a", None]), f("reject", [0, 1, "", "a", None]), f("select", range(6), "odd"), f("select", ["a", "b"], "equalto", "a"), f("select", [1], "nothing"), f("select", ["a"], "eq")
    f("selectattr", PEOPLE, "x"), f("selectattr", PEOPLE, "age", "equalto", 30), f("rejectattr", PEOPLE, "age", "eq", 30), f("selectattr", PEOPLE, "x", "defined"), f("rejectattr", PEOPLE, "x", "undefined"), f("selectattr", PEOPLE), f("selectattr", PEOPLE, "x.y"), f("selectattr", PEOPLE, "x", "mapping")
    f("first", []), f("last", []), f("first", {"a": 1}), f("last", {"a": 1, "b": 2}), f("last", "xyz"), f("last", Once(1, 2)), f("first", Once(1, 2)), f("last", range(5)), f("first", 5)
    f("list", {"a": 1}), f("items", {"a": 1, "b": [2]})
    t("odd", -3), t("eq", 1), t("eq", 1, 2, 3), t("defined", 1, 2)


def methods():
    for v in ([1, 2, 3, 1], [], (1, 2, 1), range(1, 10, 3)):
        for row in ("append",):
            m(row, v)
    for v in ([], [1], [3, 1, 2], ["b", "A"]):
        m("append", v, 9), m("append", v), m("pop", v), m("pop", v, 0), m("pop", v, -2), m("pop", v, 5), m("pop", v, "a")
    m("append", [1], [2]), m("nothing", [])
    for d in ({}, {"a": 1}, {"a": 1, "b": None, "c": [1]}):
        for row in ("items", "keys", "values"):
            m(row, d)
        for k in ("a", "b", "z", 1, None):
            m("get", d, k), m("get", d, k, "x")
        m("update", d, {"z": 9, "a": 2}), m("update", d, [("p", 1)]), m("update", d, q=3), m("update", d, {"a": 5}, a=6), m("update", d), m("update", d, [1]), m("update", d, 5)
    m("get", {"a": 1}, [1]), m("get", {"a": 1}), m("get", {"a": 1}, "a", default=2)


def functions():
    for args in ((), (3,), (0,), (-1,), (1, 5), (5, 1), (1, 10, 3), (10, 1, -4), (1, 5, 0), (1.0,), ("3",), (True,), (100000,), (100001,), (0, 10 ** 30), (None,), (1, 2, 3, 4)):
        g("range", *args)
    g("range", stop=3), g("dict"), g("dict", a=1, b=2), g("dict", {"x": 1}, y=2), g("dict", [("a", 1), ["b", 2]]), g("dict", [1]), g("dict", 5), g("dict", {1: 2}, {3: 4}), g("dict", "ab"), g("dict", UNDEF), g("namespace", UNDEF), m("update", {"a": 1}, UNDEF)
    g("namespace"), g("namespace", a=1), g("namespace", {"b": 2}, a=1)


NUMBERS = [0, 1, -1, 42, 2.5, 3.5, -2.5, 0.125, 2.675, 1234.5678, 15, 25, -15, 5, 12345678, 2 ** 80 + 1, True, 1e16, 1e22, 1.5e-7, 123456.789, float("inf"), float("nan"), -0.0, 99999.5, 25.5, 1e-320, 1.7976931348623157e308]


def numbers():
    for x in NUMBERS:
        f("int", x), f("string", x)
    for s in ("42", " 42 ", "-17", "+5", "4_2", "4__2", "_4", "4_", "0x1A", "0b11", "0o17", "12.7", "1e3", "1_0.5_0", "abc", "", "  ", "inf", "-Infinity", "nan", "NaN", "1.", ".5", ".", "1e", "1e+", "1e-3", "--5", "5 5", "\u0664\u0662", "\uff11\uff12", "9" * 30, "9" * 400, "1e400", "0x", "z", "08", "1\x00", "1.5.2", "+-1", "0_0", "1e5_0", "\u00b2"):
        f("int", s), f("int", s, -1), f("int", s, default=7, base=16), f("int", s, 0, 0), f("int", s, 5, 2), f("int", s, 5, 36)
    f("int", "zz", 0, 37), f("int", "1", 0, 1), f("int", [1]), f("int", None, "x"), f("int", Markup("5"))


def formats():
    for v in [0, -5, 3.14159, "abc", "", None, True, [1], {"a": 1}, 2 ** 70, float("inf"), "\u00e9", UNDEF, Markup("<"), (1, 2)]:
        f("format", "%s", v), f("format", "[%s|%%]", v), f("format", Markup("<%s>"), v)
    for form, args in (("%s %s", (1, 2)), ("%s", ()), ("%s", (1, 2)), ("%%", ()), ("%", ()), ("abc%", ()), ("%q", (1,)), ("abc", ()), ("abc", (1,)), ("%s%s%s", ("a", 1, None)), ("", ()), ("", (1,)), (5, (1,)), (UNDEF, ())):
        f("format", form, *args)


def jsons():
    values = [None, True, 1, 2 ** 70, 1.0, 1e100, float("inf"), "a\"\\\n\t\x00\u00e9\u20ac\U0001f600</b>&'", [], [1, [2, {}]], {}, {"b": 1, "a": [1, 2, {"c": None}]}, (1, 2), {1: 2, None: 3, True: 4, 1.5: 5}, UNDEF, Markup("<x>"), range(2), {"x": UNDEF}, {"b": 1, "B": 2, "a": 3}]
    for v in values:
        f("tojson", v)
        for named in ({"indent": 2}, {"indent": 0}, {"indent": "\t"}, {"indent": -1}, {"indent": True}, {"sort_keys": True}, {"ensure_ascii": True}, {"separators": (",", ":")}, {"separators": [", ", "="], "indent": 1}, {"separators": ("a",)}, {"nothing": 1}):
            f("tojson", v, **named)
        f("tojson", v, True, 4)
    for s in ("1", "[1, 2.5, \"a\"]", "{\"a\": {\"b\": null}}", "{", "", "nul", "[1,]", "\"\\u00e9\\ud83d\\ude00\"", "NaN", "1e400", "{\"a\":1,\"a\":2}", "123456789012345678901234567890", " [ ] "):
        f("from_json", s)
    f("from_json", 5), f("from_json", None)


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")
    for part in (strings, lists, methods, functions, numbers, formats, jsons):
        part()
    print("[" + ",".join(NUMBERS_OF) + "]")
    for start, cases in CALLS.items():
        print(start + ", " + json.dumps(list(cases.values()), separators=(",", ":")) + "]")
