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
    if isinstance(v, BuiltinMethodType) or type(v).__name__ in ("Namespace", "Joiner", "Cycler"):
        return type(v).__name__
    return repr(v)


def call(table, row, value, args, named):
    if table == "filter":
        return ENV.call_filter(row, value, args, named, context=CONTEXT)
    if table == "test":
        return bool(ENV.call_test(row, value, args, named, context=CONTEXT))
    if table == "method":
        found = getattr(value, row)
        found = ENV.wrap_str_format(found) or found
        return found(*args, **named) if callable(found) else found
    return ENV.globals[row](*args, **named)


NUMBERS_OF, CALLS = {}, {}


def case(table, row, value, *args, **named):
    mine = fresh(value)
    try:
        result = answer(call(table, row, mine, list(fresh(args)), fresh(named)))
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
        for row in ("upper", "lower", "capitalize", "title", "trim", "wordcount", "string", "urlencode", "reverse", "list", "length", "striptags", "e", "first", "last"):
            f(row, s)
        for row in ("upper", "lower", "capitalize", "title", "swapcase", "casefold", "strip", "lstrip", "rstrip", "split", "rsplit", "splitlines", "isalnum", "isalpha", "isascii", "isdecimal", "isdigit",
                    "isidentifier", "islower", "isnumeric", "isprintable", "isspace", "istitle", "isupper", "expandtabs"):
            m(row, s)
        t("lower", s), t("upper", s)
    for s in ("\u00b2\u0663", "\u0663", "\u00bd", "\u4e09", "\u2167", " \x1c\x85", "Ab Cd", "AB", "\u01c5b", "\x00", "\u00ad", "\U0001d7d8"):
        for row in ("isalnum", "isalpha", "isdecimal", "isdigit", "isnumeric", "isspace", "istitle", "isupper", "islower", "isprintable"):
            m(row, s)
    for row in ("upper", "lower", "capitalize", "title", "trim", "string", "length", "wordcount", "e", "escape", "forceescape", "safe", "striptags", "center", "urlencode", "reverse", "list", "first", "last", "join", "indent",
                "truncate", "wordwrap", "replace", "count"):
        for v in VALUES if row in ("list", "first", "last", "reverse", "join", "length", "count") else VALUES[:-1]:
            f(row, v)
    for s in ("abc", "", "  x  ", Markup("<x>")):
        for w in (-1, 0, 4, 5, 8, 9):
            f("center", s, w), m("center", s, w), m("ljust", s, w, "*"), m("rjust", s, w, "<"), m("center", s, w, "*"), m("zfill", s, w)
    m("zfill", "-5", 6), m("zfill", "+5", 6), m("center", "a", 5, "ab"), m("center", "a", "5"), m("center", "a", width=5), f("center", "a", width=5), f("center", "a", 2.0)
    m("expandtabs", "a\tbc\td\ne\t", 4), m("expandtabs", "\t\ta", tabsize=0), m("expandtabs", "a\tb", 1)
    for s, a in (("xxabcxx", "x"), ("  a ", None), ("abc", ""), ("\u00e9a\u00e9", "\u00e9"), ("abcba", "ab")):
        f("trim", s, a), m("strip", s, a), m("lstrip", s, a), m("rstrip", s, a), f("trim", s, chars=a)
    m("strip", "a", 1), f("trim", 5), f("trim", "a", 5)
    for args in (("a", "b"), ("", "-"), ("aa", "x"), ("z", "y"), ("a", "")):
        for s in ("banana", "", "aaaa"):
            f("replace", s, *args), f("replace", s, *args, 1), f("replace", s, *args, count=2), m("replace", s, *args), m("replace", s, *args, 1), m("replace", s, *args, 0)
    f("replace", 12321, 2, "x"), f("replace", UNDEF, "a", "b"), f("replace", "abc", UNDEF, "-"), m("replace", "a", 1, "b"), f("replace", "a"), f("replace", "aa", "a", "b", "1"), m("replace", Markup("a"), "a", "<")
    for s in ("a,b,,c", "a", "", ",", "a, b"):
        for n in (-1, 0, 1, 2):
            m("split", s, ",", n), m("rsplit", s, ",", n), m("split", s, ", ", maxsplit=n), m("split", s, None, n), m("rsplit", s, sep=None, maxsplit=n)
        m("partition", s, ","), m("rpartition", s, ",")
    for n in range(4):
        m("split", "  a b  c ", None, n), m("rsplit", "  a b  c ", None, n)
    m("split", "a", ""), m("partition", "a", ""), m("split", "a", 1), m("split", Markup("a,b"), ","), m("split", "aXbXXc", "X"), m("rsplit", "aaa", "aa")
    m("splitlines", LINES), m("splitlines", LINES, True), m("splitlines", LINES, keepends=True), m("splitlines", "a\r\r\nb")
    for sub in ("a", "na", "", "x", "banana", "bananas"):
        for bounds in ((), (1,), (2, 4), (-3,), (0, -1), (9,), (6,), (None, 3), (4, 2), (-99, 99)):
            for row in ("find", "index", "rfind", "rindex", "count", "startswith", "endswith"):
                m(row, "banana", sub, *bounds)
    m("startswith", "abc", ("x", "ab")), m("endswith", "abc", ("x", "bc")), m("startswith", "abc", ()), m("startswith", "abc", ["a"]), m("startswith", "abc", (1,)), m("find", "abc", 1), m("count", "abc", None), m("find", "abc", "a", "b")
    m("removeprefix", "abcabc", "abc"), m("removesuffix", "abcabc", "abc"), m("removeprefix", "abc", "x"), m("removesuffix", "a", "bca"), m("removesuffix", "abc", "")
    m("join", ", ", ["a", "b"]), m("join", ", ", []), m("join", "", "abc"), m("join", "-", ("x",)), m("join", "-", [1]), m("join", "-", {"a": 1, "b": 2}), m("join", Markup("<"), ["<", Markup(">")]), m("join", "-", 5)
    m("isalpha", "a", 1), m("upper", "a", "b")
    for v in ([], ["a", 1, None, True, 1.0], "abc", (1, 2), {"a": 1, "b": 2}, UNDEF, Once("x", "y"), 5, range(3)):
        f("join", v), f("join", v, ", "), f("join", v, d="|")
    f("join", PEOPLE, ", ", attribute="name"), f("join", PEOPLE, attribute="age"), f("join", [["a"], ["b"]], "", 0), f("join", ["a", Markup("<")], "&"), f("join", [1, 2], UNDEF), f("join", [1, 2], 5)
    for args, named in (((), {}), ((2,), {}), ((0,), {}), (("> ",), {}), ((4, True), {}), ((4, False, True), {}), ((), {"width": 2, "first": True, "blank": True}), ((), {"first": 1}), ((-1,), {}), ((2.0,), {})):
        for s in ("one", "a\n\nb\n", LINES, "", "\n", Markup("<a>\n<b>")):
            f("indent", s, *args, **named)
    for args in ((9,), (9, True), (11,), (11, False, "...", 0), (3,), (2,), (6, False, ""), (255,), (9, True, "\u2026", 0), (7, False, "!", 0), (10, False, "..."), (5, False, "...", -1), (5, True, "<")):
        for s in ("foo bar baz qux", "short", "", Markup("foo <b> baz qux"), "nospacesatallhere", [1, 2]):
            f("truncate", s, *args)
    text = "The quick brown-fox jumps over the lazy--dog and well-known self-contained, a-b c-d--e ---f (x)\nnext  paragraph\twith   gaps and averyveryverylongwordthatdoesnotfit\n\nend  "
    for args, named in (((), {}), ((10,), {}), ((5,), {}), ((1,), {}), ((10, False), {}), ((12, True, "|"), {}), ((10, True, None, False), {}), ((), {"width": 20, "break_on_hyphens": False, "wrapstring": "~"}), ((0,), {}), ((8, False, "\n", False), {})):
        for s in (text, "", "a", "   lead", "hello-world foo", "ab-cd-ef gh-ij", "x" * 30, "well-" * 6, "-" * 12, "a--b--c", "1-2 foo1-bar"):
            f("wordwrap", s, *args, **named)
    f("wordwrap", 5), f("wordwrap", UNDEF)
    f("urlencode", {"a b": "c&d", "e": 1, "\u00e9": None}), f("urlencode", [("a", "b/c"), ("d", 2)]), f("urlencode", "a/b c?d=\u00e9~_.-\U0001f600"), f("urlencode", 5), f("urlencode", UNDEF), f("urlencode", [1]), f("urlencode", {})
    f("xmlattr", {"a": 1, "b": "x<\"'>&", "c": None, "d": UNDEF, "e": True}), f("xmlattr", {"a": 1}, False), f("xmlattr", {}), f("xmlattr", {"a b": 1}), f("xmlattr", {"a/": 1}), f("xmlattr", {"a=": 1}), f("xmlattr", {"a": Markup("<")}, autospace=False), f("xmlattr", [1]), f("xmlattr", UNDEF)
    for s in ("<b>bold</b>  text", "a &lt; b &amp;&#39;&#x41; &nbsp;x", "<!-- c <b> -->x", "a<b", "<a<b>>c", "x > y", "<!-- a", "&amp;lt;", "<!<!-- x -->-- y -->z", Markup("<i>m</i>"), "&quot;&apos;&hellip;", "&#0;&#xd800;&#1114112;", "& &; &# &#x;", "&amp", "a\n\tb", "<!-->x", "<!--->y", "<!--x-->", "<!<!---->--a-->b", "<!-- a --!-->c", "<!--<!-- -->d-->", "<<a>b>", "<a <!-- b> --> c", "&ltx;", "&lt"):
        f("striptags", s)
    for s in ("<&>'\"", Markup("<&>"), "plain", 5, None):
        f("e", s), f("escape", s), f("forceescape", s), f("safe", s), t("escaped", s)


def lists():
    for v in VALUES:
        for row in ("sort", "unique", "min", "max", "sum", "items", "dictsort", "default", "abs", "int", "float", "round", "tojson", "filesizeformat"):
            f(row, v)
        f("map", v, "string"), f("select", v), f("reject", v), f("batch", v, 2), f("slice", v, 2), f("d", v, "x"), f("default", v, "x", True), f("default", v, default_value="y", boolean=True), f("map", v, attribute="a"), f("selectattr", v, "a"), f("rejectattr", v, "a")
        f("groupby", v, "a"), f("attr", v, "a"), f("count", v)
        for row in ("boolean", "callable", "defined", "even", "false", "filter", "float", "integer", "iterable", "mapping", "none", "number", "odd", "sequence", "string", "test", "true", "undefined", "lower", "upper", "escaped"):
            t(row, v)
        for row in ("==", "eq", "equalto", "!=", "ne", "<", "lt", "lessthan", "<=", "le", ">", "gt", "greaterthan", ">=", "ge", "sameas", "divisibleby"):
            t(row, v, 3), t(row, v, "abc"), t(row, v, [1, 2]), t(row, v, None), t(row, v, UNDEF)
        t("in", v, [1, "abc", None, [1, 2]]), t("in", v, "xabcx"), t("in", v, {"abc": 1, "": 2}), t("in", v, (True,)), t("in", 1, v), t("in", "a", v)
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
    f("groupby", PEOPLE, "age"), f("groupby", PEOPLE, "name"), f("groupby", PEOPLE, "name", case_sensitive=True), f("groupby", PEOPLE, "x.y.1", default=0), f("groupby", PEOPLE, "zip", default="none"), f("groupby", [["a", 1], ["b", 2], ["a", 3]], 0)
    f("map", ["a", "b"], "upper"), f("map", [1.5, 2.7], "int"), f("map", PEOPLE, attribute="name"), f("map", PEOPLE, attribute="x.y.0", default="?"), f("map", PEOPLE, attribute="x.y"), f("map", PEOPLE, attribute="zip", default="?"), f("map", ["ab"], "replace", "a", "x"), f("map", ["a"], "nothing"), f("map", ["a"]), f("map", [1], 5)
    f("map", PEOPLE, attribute="name", other=1), f("map", ["x"], "center", width=5), f("map", [["a", "b"]], "join", "-"), f("map", [None], "default", "x", true=1), f("map", [{"a": 1}], "list"), f("map", "abc", "upper"), f("map", [[3, 4]], attribute=1), f("map", [3, 4], attribute="real")
    f("select", [0, 1, "", "a", None]), f("reject", [0, 1, "", "a", None]), f("select", range(6), "odd"), f("reject", range(6), "divisibleby", 3), f("select", ["a", "b"], "equalto", "a"), f("select", ["a", "b"], "in", ["b"]), f("select", [1], "nothing"), f("select", [3, 5], ">", 4), f("select", ["a"], "eq")
    f("selectattr", PEOPLE, "x"), f("selectattr", PEOPLE, "age", "equalto", 30), f("rejectattr", PEOPLE, "age", "eq", 30), f("selectattr", PEOPLE, "name", "in", ["Bob"]), f("selectattr", PEOPLE, "x", "defined"), f("rejectattr", PEOPLE, "x", "undefined"), f("selectattr", PEOPLE), f("selectattr", PEOPLE, "x.y"), f("selectattr", PEOPLE, "x", "mapping")
    for n in (1, 2, 3, 7, 10, 0, -1):
        f("batch", range(7), n), f("batch", range(7), n, "x"), f("slice", range(7), n), f("slice", range(7), n, "x")
    f("batch", range(3), linecount=2, fill_with=0), f("slice", "abcde", slices=2, fill_with="-"), f("slice", [1], "2")
    f("sum", [1, 2.5, True]), f("sum", [1, 2], None, 10), f("sum", PEOPLE, "age"), f("sum", PEOPLE, attribute="age", start=1), f("sum", [[1], [2]], start=[]), f("sum", ["a"]), f("sum", ["a"], start=""), f("sum", [0.1] * 10)
    f("first", []), f("last", []), f("first", {"a": 1}), f("last", {"a": 1, "b": 2}), f("last", "xyz"), f("last", Once(1, 2)), f("first", Once(1, 2)), f("last", range(5)), f("first", 5)
    f("reverse", {"a": 1, "b": 2}), f("reverse", (1, 2)), f("reverse", Once(1, 2)), f("reverse", [1, [2]])
    f("list", {"a": 1}), f("items", {"a": 1, "b": [2]}), f("attr", {"a": 1}, "a"), f("attr", "x", "nothing"), f("attr", 5, "real"), f("attr", "x", 5), f("attr", range(1, 9, 2), "stop")
    t("sameas", True, 1), t("sameas", None, None), t("sameas", "a", "a"), t("filter", "upper"), t("filter", "nothing"), t("test", "odd"), t("divisibleby", 9, 0), t("divisibleby", 9.0, 3), t("odd", -3), t("even", "a%d"), t("in", "b", "abc"), t("in", 3, range(5)), t("in", 1, 5), t("eq", 1), t("eq", 1, 2, 3), t("defined", 1, 2), t("divisibleby", 9, num=3)
    t("lt", float("nan"), 1), t("ge", 1, 1.0), t("in", [1], {"a": 1})


def methods():
    for v in ([1, 2, 3, 1], [], (1, 2, 1), range(1, 10, 3)):
        for x in (1, 2, 4, "a", 1.0, True):
            m("count", v, x), m("index", v, x), m("index", v, x, 1), m("index", v, x, -2, 9)
        for row in ("start", "stop", "step", "append", "copy"):
            m(row, v)
    for v in ([], [1], [3, 1, 2], ["b", "A"]):
        m("append", v, 9), m("append", v), m("clear", v), m("copy", v), m("extend", v, [7, 8]), m("extend", v, "ab"), m("extend", v, 5), m("pop", v), m("pop", v, 0), m("pop", v, -2), m("pop", v, 5), m("remove", v, 1), m("reverse", v), m("sort", v), m("sort", v, reverse=True), m("pop", v, "a")
        for i in (0, 1, -1, 99, -99):
            m("insert", v, i, "x")
    m("sort", [1, "a"]), m("append", [1], [2]), m("nothing", [])
    for d in ({}, {"a": 1}, {"a": 1, "b": None, "c": [1]}):
        for row in ("clear", "copy", "items", "keys", "values", "popitem"):
            m(row, d)
        for k in ("a", "b", "z", 1, None):
            m("get", d, k), m("get", d, k, "x"), m("pop", d, k), m("pop", d, k, "x"), m("pop", d, k, None), m("setdefault", d, k), m("setdefault", d, k, 5)
        m("update", d, {"z": 9, "a": 2}), m("update", d, [("p", 1)]), m("update", d, q=3), m("update", d, {"a": 5}, a=6), m("update", d), m("update", d, [1]), m("update", d, 5)
    m("get", {"a": 1}, [1]), m("get", {"a": 1}), m("get", {"a": 1}, "a", default=2)
    for n in (0, 1, -5, 255, 2 ** 64, -(2 ** 70), True, False):
        for row in ("bit_count", "bit_length", "conjugate", "denominator", "numerator", "imag", "real"):
            m(row, n)
    for x in (0.0, 1.5, -2.0, float("inf"), float("nan")):
        for row in ("is_integer", "conjugate", "imag", "real"):
            m(row, x)


def functions():
    for args in ((), (3,), (0,), (-1,), (1, 5), (5, 1), (1, 10, 3), (10, 1, -4), (1, 5, 0), (1.0,), ("3",), (True,), (100000,), (100001,), (0, 10 ** 30), (None,), (1, 2, 3, 4)):
        g("range", *args)
    g("range", stop=3), g("dict"), g("dict", a=1, b=2), g("dict", {"x": 1}, y=2), g("dict", [("a", 1), ["b", 2]]), g("dict", [1]), g("dict", 5), g("dict", {1: 2}, {3: 4}), g("dict", "ab"), g("dict", UNDEF), g("namespace", UNDEF), m("update", {"a": 1}, UNDEF), m("extend", [1], UNDEF)
    g("namespace"), g("namespace", a=1), g("namespace", {"b": 2}, a=1), g("joiner"), g("joiner", "; "), g("joiner", sep="; "), g("cycler", 1, 2), g("cycler")


NUMBERS = [0, 1, -1, 42, 2.5, 3.5, -2.5, 0.125, 2.675, 1234.5678, 15, 25, -15, 5, 12345678, 2 ** 80 + 1, True, 1e16, 1e22, 1.5e-7, 123456.789, float("inf"), float("nan"), -0.0, 99999.5, 25.5, 1e-320, 1.7976931348623157e308]


def numbers():
    for x in NUMBERS:
        f("abs", x), f("int", x), f("float", x), f("string", x), f("filesizeformat", x), f("filesizeformat", x, True)
        for p in (0, 1, 2, 3, -1, -2, None, 20, 400, -400):
            f("round", x, p)
        for how in ("ceil", "floor", "common", "other"):
            f("round", x, 1, how), f("round", x, method=how), f("round", x, -1, how)
    for s in ("42", " 42 ", "-17", "+5", "4_2", "4__2", "_4", "4_", "0x1A", "0b11", "0o17", "12.7", "1e3", "1_0.5_0", "abc", "", "  ", "inf", "-Infinity", "nan", "NaN", "1.", ".5", ".", "1e", "1e+", "1e-3", "--5", "5 5", "\u0664\u0662", "\uff11\uff12", "9" * 30, "9" * 400, "1e400", "0x", "z", "08", "1\x00", "1.5.2", "+-1", "0_0", "1e5_0", "\u00b2"):
        f("int", s), f("int", s, -1), f("int", s, default=7, base=16), f("int", s, 0, 0), f("int", s, 5, 2), f("int", s, 5, 36), f("float", s), f("float", s, "d")
    f("int", "zz", 0, 37), f("int", "1", 0, 1), f("int", [1]), f("int", None, "x"), f("float", None), f("float", [1], default=2), f("int", Markup("5"))
    for n in (0, 1, 2, 999, 1000, 1001, 999999, 10 ** 6, 1024, 1536, 10 ** 9, 10 ** 12, 10 ** 15, 10 ** 18, 10 ** 21, 10 ** 24, 10 ** 27, 10 ** 30, 2 ** 80, 1.0, 0.5, -5, -5000, "300", "3000.5", "abc", None):
        f("filesizeformat", n), f("filesizeformat", n, binary=True)


def percents():
    values = [0, 5, -5, 42, 255, -255, 3.14159, -2.5, 1e10, 1e-10, "abc", "", None, True, [1], {"a": 1}, 2 ** 70, float("inf"), float("nan"), -0.0, 65, "\u00e9", UNDEF, 0.0001, 123456789.0, 1e100]
    forms = ["%s", "%r", "%a", "%d", "%i", "%u", "%x", "%X", "%o", "%e", "%E", "%f", "%F", "%g", "%G", "%c", "%5s", "%-5s|", "%05d", "%+d", "% d", "%+ d", "%.2f", "%8.3f", "%-8.2f|", "%08.2f", "%#x", "%#o", "%.3s", "%5.1s|", "%.3d", "%8.4d", "%#.3g", "%.0f", "%#.0f", "%.0e", "%5c", "%010x", "%-10d|", "%.10g", "%+.1e", "%ld", "%hd", "%.d", "%.s", "%-05d|", "%+08.2f", "%#X", "%x%%"]
    for form in forms:
        for v in values:
            f("format", form, v)
    for form, args in (("%s %s", (1, 2)), ("%s", ()), ("%s", (1, 2)), ("%%", ()), ("%5%|", ()), ("%", ()), ("abc%", ()), ("%q", (1,)), ("%*d", (5, 42)), ("%-*d|", (5, 42)), ("%*d|", (-5, 42)), ("%.*f", (2, 3.14159)), ("%*d", ("a", 1)), ("%(a)s", (1,)), ("%s", ((1, 2),)), ("%.2", (1,)), ("abc", ()), ("abc", (1,)), ("%s%s%s", ("a", "b")), ("%\u00e9", (1,)), ("%d", ("5",)), ("%c", ("ab",)), ("%c", (-1,)), ("%c", (1114112,)), ("%.*s|", (2, "abc"))):
        f("format", form, *args)
    f("format", "%(a)s-%(b)05d", a="x", b=7), f("format", "%(a)s", b=1), f("format", "%(a", a=1), f("format", "%(a(b))s", a=1), f("format", "%(a)s %%", a=1), f("format", "%(a)s", 1, a=1), f("format", "%s", a=1), f("format", Markup("<%s|%r|%d>"), "<", "<", 5), f("format", Markup("%s"), Markup("<")), f("format", 5, 1), f("format", UNDEF)
    f("format", "%(a)", a=1), f("format", "%(a)d %(a)x", a=255)


def formats():
    values = [0, 5, -5, 42, 255, 1234567, -1234567, 3.14159, -2.5, 1e10, 1e-10, 1234567.891, "abc", "", None, True, [1], 2 ** 70, float("inf"), float("nan"), -0.0, "\u00e9\u00e9", UNDEF, 1e16, 0.00001, 100.0, Markup("<")]
    specs = ["", "d", "x", "X", "o", "b", "c", "e", "E", "f", "F", "g", "G", "%", "n", "s", "5", "<5", ">5", "^5", "=5", "*^9", "05", "+", "-", " ", "+d", ",", "_", ",d", "_x", "#x", "#b", "#o", "08,", "010,", "09,", ".2", ".3f", "10.3f", ".0f", ",.2f", "*>10", "<05", "^05", "+.2e", ".1%", "#.3g", ".5s", "10s", "x<10", "{<5", "z", "z.1f", ".4", ".1", ".10", "0=8", "#010x", "_b", "015,.2f", "^+10", "d5", "5d5", ".", "5.", "ss", "=", "<", "+s", ",s", "_d", "\u00e9>6", "1000000000000000000000", ".0", "#", "0", ",x", "#.0f", ".3d"]
    for spec in specs:
        for v in values:
            m("format", "{:" + spec + "}", v)
    for form, args, named in (("{} {}", (1, 2), {}), ("{1} {0}", (1, 2), {}), ("{a} {b}", (), {"a": 1, "b": 2}), ("{", (), {}), ("}", (), {}), ("{{}}", (), {}), ("{{{}}}", (1,), {}), ("{0} {}", (1, 2), {}), ("{} {0}", (1, 2), {}), ("{}", (), {}), ("{a}", (), {}), ("{0.real}", (5,), {}), ("{0[a]}", ({"a": 7},), {}), ("{0[1]}", ([1, 2],), {}), ("{a.b}", (), {"a": {"b": 3}}), ("{0[a][b]}", ({"a": {"b": 4}},), {}),
                              ("{!r}", ("x",), {}), ("{!s:>5}", ("x",), {}), ("{!a}", ("\u00e9\u20ac\U0001f600",), {}), ("{!x}", (1,), {}), ("{!}", (1,), {}), ("{0!r:>5}", ("x",), {}), ("{:{}}", (1, 5), {}), ("{:{w}.{p}f}", (3.14159,), {"w": 8, "p": 2}), ("{:{:{}}}", (1, 2, 3), {}), ("{0:{1}}", (1, 5), {}), ("{a:{b}}", (), {"a": 1, "b": "x"}), ("{0[", ([1],), {}), ("{0[]}", ([1],), {}), ("{0.}", (1,), {}), ("{0[0]x}", ([1],), {}), ("{!r", (1,), {}), ("{:", (1,), {}), ("{0", (1,), {}), ("a{0}b{0}c", ("-",), {}),
                              ("{0.nothing}", (1,), {}), ("{0[9]}", ([1],), {}), ("{x[0]}", (), {"x": "abc"}), ("{:%Y}", ("a",), {}), ("{0!r}{1!s}", ("a", "b"), {}), ("{99999999999999999999}", (1,), {}), ("{a!r:>{w}}|", (), {"a": "q", "w": 6}), ("{ }", (1,), {}), ("{0 }", (1,), {}), ("{[0]}", ([1],), {}), ("{.real}", (3,), {}), ("}}{{", (), {}), ("{:}}", (1,), {}), ("{:}}}", (1,), {}), ("{0[}]}", ({"}": 1},), {}), ("{0!rr}", (1,), {})):
        m("format", form, *args, **named)
    m("format", Markup("<{}>{!r}"), "<", "<"), m("format", Markup("{}"), Markup("<")), m("format", Markup("{:5}"), 3), m("format", Markup("{:5}"), Markup("a"))
    m("format_map", "{a}-{b}", {"a": 1, "b": 2}), m("format_map", "{a}", {}), m("format_map", "{0}", {"0": 1}), m("format_map", "{a}"), m("format_map", "{a}", {"a": 1}, {"b": 1}), m("format_map", "{a}", a=1)


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


def pages():
    words = "some words that go on and on until the line is full and then go on for a good while longer than it"
    for v in VALUES[:-1] + [words, words + "\n" + words + "\nend\n", "x" * 100, "x" * 78, "x" * 77, {"key": words, "a": [1, 2]}, [words, words], list(range(40)), list(range(22)), list(range(23)), [list(range(30)), {"b": 1, "a": {"d": words, "c": ()}}],
                           {"k%d" % i: {"z": i, "y": [i] * 20} for i in range(5, 0, -1)}, (words,), ([words],), {3: "c", 1: "a"}, {"b": {2: 1, "x": 2}}, [[[[["a" * 70]]]]], ["a" * 74, "b"], ["a" * 75], {"a": "b" * 72}, [words + "  " + words, "t\tq\u00e9\u200b'\""],
                           [[], {}, ()] * 12, "one\n\ntwo\n" * 12, Markup(words)]:
        f("pprint", v)


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")
    for part in (strings, lists, methods, functions, numbers, percents, formats, jsons, pages):
        part()
    print("[" + ",".join(NUMBERS_OF) + "]")
    for start, cases in CALLS.items():
        print(start + ", " + json.dumps(list(cases.values()), separators=(",", ":")) + "]")
