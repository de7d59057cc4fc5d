"""Random template snippets: a grammar as tables, and a way to make a snippet smaller. Used by templates.py.

A rule is a list of productions; <word> in a production is another rule. A rule of EXPRESSIONS has two lists: what stands alone,
and what holds further expressions. Most snippets are well typed; some arguments are of any type."""
import random, re

# The variables of every snippet.
CONTEXT = {
    "s": "Hello, World", "t": "  two  spaces\n", "u": "Grüße, 世界 🎉 ǆ", "e": "", "h": "<b a=\"1\">x & 'y'</b>",
    "lines": "one\ntwo\n\n  three", "csv": "a,b,,c", "digits": "42", "i": 7, "n": -3, "z": 0, "big": 12345678901234567890123,
    "f": 2.5, "g": -0.125, "tiny": 1.5e-7, "huge": 1e22, "yes": True, "no": False, "nil": None,
    "l": [3, 1, 2], "words": ["b", "A", "c", "a", "B"], "mix": [1, "a", None, True, 2.5, [1], {"k": "v"}],
    "pairs": [["a", 1], ["b", 2]], "empty": [], "nest": [[1, 2], [3, [4]]],
    "floats": [0.1, -2.5, 1e16], "d": {"b": 1, "a": "x", "C": None},
    "deep": {"k": {"k": [1, {"k": "v"}]}, "items": 5, "2": "two"}, "void": {},
    "rows": [{"name": "x", "n": 2, "t": {"k": 1}, "on": True}, {"name": "Y", "n": 1, "t": {"k": 2}, "on": False},
             {"name": "a", "n": 2, "t": {"k": 1}}],
    "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"},
                 {"role": "assistant", "content": None,
                  "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"x": 1, "y": "é"}}}]},
                 {"role": "tool", "content": "[1]"}],
}

# name: (stand alone, hold others)
EXPRESSIONS = {
    "int": ([
        "0", "1", "2", "3", "7", "10", "-1", "-2", "42", "100", "255", "1_000", "65536", "2147483648", "9223372036854775807",
        "0x1F", "0b101", "0o17", "0XfF", "1_0", "l.0", "pairs.1.1", "i", "n", "z", "i", "n", "l[0]", "nest[0][1]", "d.b",
        "deep['items']", "rows[0].n", "yes", "no", "<name>",
    ], [
        "<int> + <int>", "<int> - <int>", "<int> * <int>", "<int> // <int>", "<int> % <int>", "-<int>", "+<int>",
        "<seq>|length", "<str>|int", "<float>|int", "<any>|int(<int>)", "<digits>|int(base=<few>)",
        "<digits>|int(0, <base>)", "<ints>|min", "<ints>|max", "<list>[<few>]", "<int> if <bool> else <int>",
        "<int> and <int>", "<int> or <int>", "<loop>", "<d>.b", "nest[<few>][<few>]", "<ints>|first", "<ints>|last",
        "<int>|default(<int>)",
    ]),
    "float": ([
        "0.0", "1.0", "-0.0", "0.1", "2.5", "1e3", "1.5e-7", "1E5", "123456789.125", "1e16", "1e22", "3.14159", "0.5",
        "100.0", "2.5e-5", "0.30000000000000004", "1e-5", "123e300", "f", "g", "tiny", "floats[1]", "1_0.5", "<name>",
    ], [
        "<int> / <int>", "<float> + <int>", "<float> - <float>", "<float> * <float>", "<float> / <float>",
        "<float> // <float>", "<float> % <float>", "-<float>", "floats|max",
    ]),
    "bool": ([
        "true", "false", "True", "False", "yes", "no",
    ], [
        "<int> < <int>", "<int> <= <float>", "<str> > <str>", "<any> == <any>", "<any> != <any>", "<int> >= <int>",
        "<int> < <int> < <int>", "<list> < <list>", "<str> == <str>", "<any> in <seq>", "<any> not in <seq>",
        "<piece> in <str>", "not <any>", "<bool> and <bool>", "<bool> or <bool>", "<bool> or not <bool>", "<any> is <test>",
        "<any> is not <test>",
        "<int> is <inttest>", "<str> is <strtest>", "<name> is defined", "<name>.x is undefined", "<d>.nope is defined",
        "<d>['a'] is defined", "<name>[0] is defined", "<str>.startswith(<piece>)", "<str>.endswith(<piece>)",
        "<str>.startswith((<piece>, <piece>))", "<key> in <dict>", "<int> == <float>", "<tuple> == <tuple>",
        "<dict> == <dict>",
    ]),
    "str": ([
        "''", "'a'", '"b"', "'Ab'", "'xy'", "'%s'", '"it\'s"', '\'say_"hi"\'', "'\\n'", "'\\t\\\\'", "'\\x41\\u00e9'",
        "'\\U0001F600'", "'é世'", "'\\101\\q'", "'a'", "'b,c'", "'1'", "'-5'", "'2.5'", "'{}'", "s", "t", "u", "e", "h",
        "lines", "csv", "digits", "s", "u", "words[1]", "d.a", "rows[0].name", "messages[1].content", "messages[0].role",
        "<name>",
    ], [
        "<str> ~ <any>", "<any> ~ <any> ~ <any>", "<str> + <str>", "<str> * <few>", "<few> * <str>", "<str>|<strfilter>",
        "<str>|<strfilter>", "<str>|<strfilter>", "<str>|<strfilter>|<strfilter>", "<str>.<strmethod>", "<str>.<strmethod>",
        "<str>.<strmethod>", "<str><slice>", "<str><slice>", "<str>[<few>]", "<any>|string", "<seq>|join",
        "<seq>|join(<sep>)", "<list>|join(<sep>)", "rows|join(<sep>, attribute='name')", "<any>|tojson",
        "<any>|tojson(indent=<few>)", "<any>|tojson(<few>)", "<seq>|tojson(sort_keys=true)",
        "<any>|tojson(ensure_ascii=<bool>)", "<any>|tojson(separators=(',', ':'))",
        "<any>|tojson(indent=none, separators=(', ', ': '), ensure_ascii=true)", "<any>|default(<str>)",
        "<any>|default(<str>, <bool>)", "<any>|default(default_value=<str>)", "<list>|first|string", "<iter>|join(<sep>)",
        "<iter>|join(<sep>)", "<str> if <bool> else <str>", "<str> if <bool>", "<str>|safe ~ <h>",
        "<any>|string|length ~ ''", "<d>.a", "messages[<few>].role", "'a' 'djacent'", "<name>.content", "<any> or <str>",
        "<name> ~ <name>", "'%s-%s%%'|format(<any>, <any>)", "'%s'|format(<any>)",
    ]),
    "list": ([
        "[]", "[1]", "[1,2,3]", "['a','b']", "[[]]", "[none,true]", "l", "words", "mix", "pairs", "empty", "nest", "floats",
        "rows", "messages", "deep.k.k", "rows[0:2]", "<name>",
    ], [
        "[<any>]", "[<any>, <any>]", "[<int>, <int>, <int>,]", "[<str>, <str>]", "<list> + <list>", "<list> * <few>",
        "<list><slice>", "<list><slice>", "<iter>|list", "<iter>|list", "<iter>|list", "<iter>|list", "<seq>|list",
        "<str>.split()", "<str>.split(<sep>)", "<str>.split(<sep>, <few>)", "<str>.split(maxsplit=<few>)",
        "<str>.split(none, <few>)", "<str>|list", "<list>|sort", "<words>|sort(<bool>)",
        "<words>|sort(case_sensitive=<bool>, reverse=<bool>)", "rows|sort(attribute='<field>')",
        "rows|sort(attribute='<field>,<field>', reverse=<bool>)", "<ints>|sort(reverse=<bool>)", "<dict>|dictsort",
        "<dict>|dictsort(<bool>)", "<dict>|dictsort(false, '<by>', <bool>)", "<dict>|dictsort(by='<by>')",
        "<list> if <bool> else <list>", "<list> or <list>", "<name>|default([])", "<list>|default([<any>], true)",
    ]),
    "words": ([
        "words", "csv.split(',')", "['x']", "['b','a']", "u|list", "[]", "s.split()", "words",
    ], [
        "<str>.split(<sep>)", "[<str>, <str>]", "<words> + <words>", "<words>|sort", "<words>|map('<case>')|list",
        "<words>|unique|list", "<str>|list",
    ]),
    "ints": ([
        "l", "[1,2]", "range(3)", "range(10)|list", "[5]", "[]", "[1,2.5,true]",
    ], [
        "[<int>, <int>]", "[<int>, <float>]", "<words>|map('length')|list", "range(<few>)", "rows|map(attribute='n')|list",
        "range(<few>, <int8>, <few>)",
    ]),
    "tuple": ([
        "()", "(1,)", "(1,2)", "('a','b','c')", "(none,'x')",
    ], [
        "(<any>,)", "(<any>, <any>)", "<tuple> + <tuple>", "<tuple> * <few>", "<tuple><slice>", "<dict>|dictsort|first",
        "<dict>|items|first", "<dict>.items()|list|last",
    ]),
    "dict": ([
        "{}", "{'a':1}", "{'x':'y','k':[1]}", "{1:2}", "d", "deep", "void", "rows[1]", "d", "rows[0].t", "messages[2]",
        "{'a':1,'a':2}", "<name>",
    ], [
        "{<key>: <any>}", "{<key>: <any>, <key>: <any>}", "{<any>: <any>}", "dict(a=<any>)", "dict(<dict>, b=<any>)",
        "dict(<pairs>)", "deep.k", "<rows>|first", "<list>|last|default({})", "messages[2].tool_calls[0].function",
        "<dict> or <dict>", "<dict> if <bool> else {}", "{'a': <any>, 'b': <dict>}",
    ]),
    "d": ([
        "d", "{'a': 'q', 'b': 3}", "dict(a='z', b=2)",
    ], [
        "dict(d, a=<str>)",
    ]),
    "h": ([
        "h", "'<i>'", "s", "'&'",
    ], [
        "<str>", "<h>|safe",
    ]),
    "rows": ([
        "rows", "rows[1:]", "messages", "[]",
    ], [
        "<rows> + <rows>", "rows|selectattr('n')|list", "[<dict>, <dict>]",
    ]),
    "pairs": ([
        "pairs", "[('a', 1)]", "d.items()", "[]",
    ], [
        "[(<key>, <any>)]", "<dict>.items()", "<dict>|items", "<dict>|dictsort", "[[<key>, <any>], [<key>, <any>]]",
    ]),
    "undef": ([
        "missing", "d.nope", "rows[9]", "l[7]", "missing2", "empty[0]", "e[0]", "nil.x", "s.nope", "i.nope", "d['q']",
        "empty|first", "empty|last", "messages[0].tool_calls",
    ], [
        "<dict>.nope", "<list>[99]", "<name>", "<any>['nope']", "<empty>|first", "<any> if false",
    ]),
    "empty": ([
        "empty", "''", "()", "{}",
    ], [
        "<empty> or <empty>",
    ]),
    "key": ([
        "'a'", "'b'", "'k'", "'x'", "'name'", "'C'", "1", "2", "<digits>", "<str>",
    ], [
        "<int>", "<tuple>", "<bool>", "<str>", "none",
    ]),
}

# Iterables that are read once.
RULES = {
    "iter": [
        "rows|selectattr('<field>', 'equalto', <any>)", "rows|selectattr('<field>', '<testname>')",
        "<rows>|rejectattr('role', 'eq', 'user')",
        "<seq>|map('<anyfilter>')", "<words>|map('<case>')", "<words>|map('replace', <piece>, <str>)",
        "rows|map(attribute='<field>')", "rows|map(attribute='<field>', default=<any>)", "rows|map(attribute='t.k')",
        "<words>|map('length')", "<list>|map('string')", "<list>|map('default', <any>, true)", "pairs|map('first')",
        "pairs|map(attribute=0)", "pairs|map(attribute='1')", "<list>|map('tojson')", "<words>|map('indent', width=<few>)",
        "<list>|select", "<list>|reject", "<list>|select('<testname>')", "<list>|reject('<testname>')",
        "<list>|select('equalto', <any>)", "rows|selectattr('<field>')", "rows|rejectattr('<field>')",
        "rows|rejectattr('<field>', 'equalto', <any>)", "<rows>|rejectattr('<field>', 'defined')", "<words>|unique",
        "<words>|unique(<bool>)", "<list>|unique", "rows|unique(attribute='<field>')", "<dict>|items", "<dict>.items()",
        "<dict>.keys()", "<dict>.values()", "range(<few>)", "range(<few>, <int8>)", "range(<int8>, <few>, -<few>)",
        "range(<few>)<slice>", "<iter>|map('string')", "<iter>|select('string')", "<dict>|list",
    ],
    "seq": [
        "<str>", "<list>", "<list>", "<dict>", "<tuple>", "range(<few>)", "<words>", "<list>", "<iter>", "<undef>",
        "<words>", "<ints>",
    ],
    "any": [
        "<int>", "<int>", "<float>", "<str>", "<str>", "<str>", "<list>", "<dict>", "<bool>", "none", "nil", "<tuple>",
        "<undef>", "<words>", "<name>", "<loop>", "(<loose>)", "<odd>",
    ],
    "loose": [
        "<atom> is not <test>",
        "<atom> <op> <atom> <op> <atom>", "<atom> <op> <atom> <op> <atom> <op> <atom>", "-<atom> <op> <atom>",
        "not <atom> <op> <atom>", "<atom> <op> -<atom> <op> <atom>|string", "<atom> <op> <atom>|<anyfilter> <op> <atom>",
        "<atom> if <atom> <op> <atom> else <atom> if <atom> else <atom>", "<atom> <op> <atom> is <test>",
        "not <atom> is <test> and <atom>", "<atom> is <test> <op> <atom>", "<atom>, <atom>", "<atom>, ",
        "<atom> <op> <atom>[<few>]", "<atom> not in <atom> <op> <atom>", "<atom> in <atom> == <atom>",
    ],
    "atom": [
        "1", "2", "0", "i", "'a'", "s", "l", "none", "true", "false", "2.5", "d", "x", "missing", "'3'", "[1]", "-1", "3",
        "(1, 2)", "words",
    ],
    "op": [
        "+", "-", "*", "/", "//", "%", "~", "and", "or", "==", "!=", "<", ">", "<=", ">=", "in", "not in", "~", "+", "*",
        "and", "or",
    ],
    "odd": [
        "big", "big|int", "big < 1e30", "big == 1.2345678901234567890123e22", "[big, 1, 1e30]|sort", "{big: 1}",
        "'}}'", "'%}'", '"{{"', "'{%'", "{'a': {'b': {}}}", "{'in': 1}.in", "{'if': 2, 'é': 3}.if", "{'é': 3}.é",
        '\'a\' \'b\' "c"', "d.get('b')", "d.get('q')", "d.get('q', <any>)", "d.get(<key>)", "deep.get('items')", "d.keys()",
        "d.values()", "d.items()", "range(<few>)", "range(3)[<few>]", "range(0, 9, 2)[::-1]", "l[-1]", "l[1, 2]", "s[::]",
        "[<any>,]", "{<key>: <any>,}", "(<any>)", "((<any>))", "()", "[[], ()]", "namespace(a=<any>)", "namespace()",
        "namespace", "m", "ns", "loop", "caller", "none.x", "missing.x", "missing['x']", "missing()", "missing + 1",
        "1 in missing", "missing == missing2", "missing == none", "missing in 's'", "nil|list", "5|list", "d|list",
        "missing|list", "l.append(1)", "l.append(1) or l", "l.pop() ~ l", "d.update({})", "d|length", "5|length",
        "missing|length", "true + true", "'a' * true", "none ~ none", "1 == true", "1 == 1.0",
        "{1: 'a', true: 'b', 1.0: 'c'}", "l == [3, 1, 2.0]", "'10' < '9'", "[1] < [1, 0]", "'a' < 'B'", "(1, 2) == [1, 2]",
        "-7 // 2", "-7 % 3", "7 % -3", "-7.5 // 2", "-7.5 % 2", "7.5 % -2", "1 / 3", "10 / 5", "1e300 * 1e300",
        "big|string|length", "loop is defined", "true is boolean", "1 is boolean", "strftime_now is defined",
        "strftime_now('%Y') | length",
    ],
    "few": ["0", "1", "2", "3", "4", "5", "2", "-1", "7"],
    "int8": ["0", "1", "5", "9", "-4", "12"],
    "base": ["2", "8", "10", "16", "36", "0"],
    "digits": [
        "'12'", "'0x1F'", "'-7'", "' 5 '", "'1_000'", "'077'", "'0b101'", "'zz'", "'1e3'", "'٣'", "'1.9'", "''", "'+4'",
        "'12345678901234567890'", "'nan'", "'inf'", "'0o17'",
    ],
    "by": ["key", "value"],
    "field": ["name", "n", "on", "t", "role", "content", "nope", "t.k"],
    "case": ["upper", "lower", "title", "capitalize", "trim"],
    "testname": [
        "defined", "none", "string", "number", "integer", "mapping", "iterable", "sequence", "odd", "true", "boolean", "float",
        "undefined", "false", "nope",
    ],
    "piece": ["'a'", "'o'", "', '", "'l'", "''", "' '", "'\\n'", "'ß'", "'b'", "'two'", "'1'", "<str>"],
    "sep": ["','", "', '", "' '", "''", "'-'", "'\\n'", "'o'", "<str>"],
    "name": ["a", "b", "x", "k", "v", "ns", "ns.a", "item"],
    "test": [
        "defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "iterable", "sequence",
        "true", "false", "eq <any>", "equalto(<any>)", "none", "string", "mapping", "iterable", "sequence",
        "defined and <bool>", "string or <bool>", "number", "odd", "even",
    ],
    "inttest": ["odd", "even", "number", "integer", "eq <float>", "boolean"],
    "strtest": ["string", "eq 'a'"],
    "anyfilter": [
        "string", "length", "upper", "lower", "int", "list", "first", "last", "trim", "tojson", "title", "string", "string",
        "nope", "join",
    ],
    "strfilter": [
        "upper", "lower", "title", "capitalize", "trim", "trim(<piece>)", "trim(chars='ab ')", "replace(<piece>, <str>)",
        "replace(<piece>, <str>, <few>)", "replace(old=<piece>, new=<str>)", "length|string", "indent", "indent(<few>)",
        "indent(<few>, true)", "indent(width=<few>, first=<bool>, blank=<bool>)", "indent('> ')", "safe", "string",
        "first|string", "last|string", "default('x')", "format(<any>)", "format(<any>, <any>)", "list|join('.')",
        "safe|replace('<', <h>)", "tojson|upper", "trim|upper", "upper|lower", "select|join", "join('|')", "sort|join",
        "unique|join",
    ],
    "strmethod": [
        "upper()", "lower()", "title()", "capitalize()", "strip()", "lstrip()", "rstrip()", "strip(<piece>)",
        "lstrip(<piece>)", "rstrip(<piece>)", "replace(<piece>, <str>)", "replace(<piece>, <str>, <few>)", "split(<sep>)[0]",
        "split(<sep>)[-1]", "split(<sep>)|last", "split(<sep>)|join('+')",
    ],
    "slice": [
        "[<few>:]", "[:<few>]", "[<few>:<few>]", "[::-1]", "[::2]", "[-<few>:]", "[:-<few>]", "[<few>:<int8>:<few>]",
        "[::<few>]", "[1:-1]", "[:]", "[<int>:<int>]", "[::-2]", "[<int8>:<few>:-1]", "[<any>:]",
    ],
    "text": [
        "<|im_start|>", "\n", "\n", " ", "  ", "text", "a b", "\n\n", "  \n", "é", "{ ", "} ", "}} ", "%", "#", "\t", "\n  ",
        "x\n", "\r\n",
        "\r", "'", '"', "\\", "{ { ", "% }",
    ],
    "target": ["x", "a", "k, v", "x, y", "a, b", "item", "(a, b)", "x, (a, b)", "v", "ns.a"],
    "statement": [
        "{{<any>}}", "{{<any>}}", "{{<str>}}", "{{<any>}}", "<text>", "<text>", "<text>", "{#<text>note<text>#}",
        "{#-<text>{{ note }}<text>-#}", "{#+ n #}", "{%for x in <atom>, <atom>%}{{x}}{%endfor%}",
        "{%set x = <atom>, <atom>%}{{x}}",
        "{%for x in l%}{%macro w()%}{{x}}{{loop.index if loop}}{%endmacro%}{{w()}}{%endfor%}",
        "{%for x in l%}<loopbody>{%else%}{{loop}}{%endfor%}", "{%if true%}{%set b = <any>%}{%endif%}{{b}}",
        "{%if false%}{%set s = 1%}{%endif%}{{s}}", "{%for q in l%}{%set s = q%}{{s}}{%endfor%}{{s}}",
        "{%if false%}{{x|nope}}{%endif%}", "{%if false%}{{x is nope}}{%endif%}", "{{1 if true else (1|nope)}}",
        "{{x}}{%-for x in l-%}{{-x-}}{%-endfor-%}{{x}}", "{%set m2%}{{x}}{%endset%}{{m2|length}}{{m2 is string}}",
        "{%if <bool>%}<body>{%endif%}", "{%if <any>%}<body>{%else%}<body>{%endif%}",
        "{%if <bool>%}<body>{%elif <bool>%}<body>{%elif <any>%}<body>{%else%}<body>{%endif%}", "<for>", "<for>", "<for>",
        "<for>", "{%set <name1> = <any>%}", "{%set <name1> = <any>%}", "{%set a, b = <any>, <any>%}",
        "{%set (a, b) = <tuple>%}", "{%set a, b = <list>%}", "{%set x%}<body>{%endset%}{{x}}",
        "{%set x | <strfilter>%}<body>{%endset%}{{x ~ x}}", "{%set ns = namespace()%}{%set ns.a = <any>%}{{ns.a}}",
        "{%set ns = namespace(a=<any>, b=1)%}", "{%set ns.a = <any>%}", "{%set ns.a = ns.a ~ <any>%}",
        "{%set ns = namespace(<dict>)%}{{ns.a}}",
        "{%set ns = namespace(n=0)%}{%for x in <seq>%}{%set ns.n = ns.n + 1%}{%endfor%}{{ns.n}}", "<macro>", "<macro>",
        "<call>", "<call>", "<call>", "{%filter <strfilter>%}<body>{%endfilter%}",
        "{%filter upper|trim%}<body>{%endfilter%}", "{%raw%}{{ raw }} {% x %}<text>{%endraw%}",
        "{%generation%}<quiet>{%endgeneration%}", "{%call m(<any>)%}<quiet>{%endcall%}",
        "{%call(p) m(<any>)%}[{{p}}]<quiet>{%endcall%}", "{%break%}", "{%continue%}", "{%if <bool>%}{%break%}{%endif%}",
        "{%if loop.first%}{%continue%}{%endif%}", "{{loop.<loopfield>}}", "{%if not loop.last%},{%endif%}",
        "{{raise_exception(<str>)}}", "{{-<any>-}}", "{%set _ = l%}{{_}}", "{%set x = x + 1%}", "{%set x = x ~ 'q'%}{{x}}",
    ],
    "for": [
        "{%for <target> in <seq>%}<loopbody>{%endfor%}", "{%for x in <list>%}{{x}}<loopbody>{%endfor%}",
        "{%for x in <seq>%}<loopbody>{%else%}<body>{%endfor%}", "{%for x in <seq> if <any>%}<loopbody>{%endfor%}",
        "{%for x in <list> if x is <test>%}{{loop.index}}{{x}}{%else%}none{%endfor%}",
        "{%for k, v in <pairs>%}{{k}}={{v}}<loopbody>{%endfor%}",
        "{%for k, v in <dict>.items()%}{{k}}:{{v}}{{', ' if not loop.last}}{%endfor%}",
        "{%for k, v in <dict>|dictsort%}<loopbody>{{v|tojson}}{%endfor%}",
        "{%for m in messages%}{{m.role}}: {{m.content}}<loopbody>{%endfor%}",
        "{%for m in rows%}{{m['name']}}<loopbody>{%endfor%}", "{%for x in <iter>%}{{loop.index0}}{{x}}<loopbody>{%endfor%}",
        "{%for x in <words>%}{{loop.previtem}}<{{x}}>{{loop.nextitem}}{{loop.length}}{%endfor%}",
        "{%for x in range(<few>)%}{%for y in range(x)%}{{x * y}}{{loop.index}}{%endfor%}<loopbody>{%endfor%}",
        "{%for x in <seq>%}{%set x = 1%}{%set b = x%}{%endfor%}{{x}}{{b}}",
    ],
    "loopfield": ["index", "index0", "first", "last", "length", "previtem", "nextitem"],
    "name1": ["a", "b", "x", "k", "item"],
    "macro": [
        "{%macro m(p)%}<quiet>{{p}}{%endmacro%}", "{%macro m(p, q=<any>)%}{{p}}/{{q}}<quiet>{%endmacro%}",
        "{%macro m(p=1, q=p)%}{{p}}{{q}}{%endmacro%}", "{%macro m(p)%}{{p}}{{caller() if caller}}{%endmacro%}",
        "{%macro m(p)%}{{caller(p)}}{%endmacro%}",
        "{%macro m(p)%}{%if p > 0%}{{p}}{{m(p - 1)}}{%endif%}{%endmacro%}{{m(3)}}",
        "{%macro m(a)%}{{a}}{{b}}{{x}}{%endmacro%}",
    ],
    "call": [
        "{{m(<any>)}}", "{{m(<any>, <any>)}}", "{{m(p=<any>)}}", "{{m()}}", "{{m(<any>, q=<any>)}}", "{{m(q=1, p=2)}}",
        "{{m(*<list>)}}", "{{m(<any>, zz=<any>)}}", "{{m(1, 2, 3, 4)}}", "{{m(<any>)|<strfilter>}}", "{{m(<any>)|length}}",
    ],
    "snippet": [
        "{{<loose>}}", "{{<loose>}}", "{%if <loose>%}<text>y<text>{%endif%}<text>", "{{<odd>}}", "{{<any>}}", "{{<str>}}",
        "{{<list>}}", "{{<int>}}", "{{<bool>}}", "{{<float>}}", "{{<iter>|list}}", "{{<any>|tojson}}", "{{<dict>}}",
        "{{[<any>, <any>]}}", "<program>", "<program>", "<program>", "<program>", "<program>", "<program>", "<program>",
        "<program>", "<program>", "<program>",
    ],
    "program": [
        "<statement><statement>", "<statement><statement><statement>",
        "<statement><text><statement><text><statement><statement>", "<macro><text><call><statement>",
        "<macro><statement><call><text><statement><call>", "<text><statement><text>",
        "{%set x = <any>%}<text>{%set a = <any>%}<statement><statement>", "<text><for><text>",
    ],
}


SPOIL = ("( ) [ ] { } , . : | ~ = == -%} %} }} {{ {% {%- {# #} ' \" and or not is in if else 1 .5 1. 0x * @ $ ! ? ; & ^ x.y "
         "endif endfor set for true None 1e \\ ` # - + // <").split()


def pieces(text):
    """Words, runs of spaces, ends of tags, other characters."""
    return re.findall(r"\w+|\s+|\{[{%#][-+]?|[-+]?[}%#]\}|.", text) or [""]


class Generator:
    """Snippets from the tables. The deeper a rule stands, the likelier it ends; `loops`, `macro` and `space` tell whether
    loop, m() and ns have a meaning."""

    def __init__(self, seed):
        self.random, self.left = random.Random(seed), 0

    def snippet(self):
        self.loops, self.macro, self.space, self.left = 0, False, False, 40
        text = self.expand("snippet", 4)
        return text if self.random.random() < 0.92 else self.spoil(text)

    def spoil(self, text):
        """A token less, twice, or elsewhere: what is refused must be refused."""
        tokens = pieces(text)
        i, j = self.random.randrange(len(tokens)), self.random.randrange(len(tokens))
        one, two = self.random.choice(SPOIL), self.random.choice(SPOIL)
        tokens[i:i + 1] = self.random.choice(([], [tokens[i]] * 2, [tokens[j]], [one], [tokens[i], " ", two]))
        return "".join(tokens)

    def expand(self, rule, depth):
        self.left -= 1
        if rule in EXPRESSIONS:
            return self.expression(rule, depth)
        if rule in ("body", "loopbody", "quiet"):
            return self.body(rule, depth - 1)
        if rule == "loop":
            return self.fill("loop.<loopfield>" if self.loops else "<int>", depth - 1)
        if rule == "statement" and (depth <= 0 or self.left < 0):
            rule = "text"
        if rule == "any" and self.left < 0:
            return "1"
        return self.fill(self.random.choice(RULES[rule]), depth)

    def expression(self, rule, depth):
        if self.random.random() < 0.03 and depth > 0 and rule != "any":
            return self.expand("any", depth)          # an operand of another type
        alone, hold = EXPRESSIONS[rule]
        if depth <= 0 or self.left < 0 or self.random.random() < 0.35:
            return self.fill(self.random.choice(alone), depth)
        text = self.fill(self.random.choice(hold), depth - 1)
        return text if re.fullmatch(r"\w+|'\w*'", text) or self.random.random() < 0.08 else "(" + text + ")"

    def body(self, kind, depth):
        before, self.loops = self.loops, {"loopbody": self.loops + 1, "quiet": 0, "body": self.loops}[kind]
        parts = range(self.random.choice((0, 1, 1, 1, 2)))
        text = "".join(self.expand("statement" if self.random.random() < 0.7 else "text", depth) for _ in parts)
        self.loops = before
        return text

    def fill(self, production, depth):
        if not self.loops and ("{%break" in production or "{%continue" in production):
            production = "<text>"
        self.macro, self.space = self.macro or "macro m(" in production, self.space or "namespace(" in production
        lacks = (not self.macro and re.search(r"\bm\(", production)
                 or not self.loops and "loop." in production and "{%for" not in production
                 or not self.space and "ns.a" in production)
        if lacks and self.random.random() < 0.95:
            production = "<text>" if re.search("[{}]", production) else "x"
        parts = re.split(r"<(\w+)>", production)
        known = lambda w: w in RULES or w in EXPRESSIONS or w in ("body", "loopbody", "quiet", "loop")
        down = depth if production[0] in "<{" else depth - 0.5
        made = lambda p: self.expand(p, down) if known(p) else "<%s>" % p
        return "".join(made(p) if i % 2 else self.tags(p) for i, p in enumerate(parts))

    def tags(self, text):
        """White space and its control around what stands in a tag of a production."""
        pick = lambda *of: self.random.choice(of)
        begin = lambda m: pick("", "", "", "", "  ", "\n    ") + "{%" + pick("", "", "", "", "-", "+") + pick(" ", " ", "", "\n")
        end = lambda m: pick(" ", " ", "") + pick("", "", "", "", "-") + "%}" + pick("", "", "", "\n", " \n")
        text = re.sub(r"\{%(?=\w)", begin, text)
        text = re.sub(r"(?<=[\w)\]}'])%\}", end, text)
        if text.startswith("}}"):
            text = pick(" ", "", " -", " ") + text
        if text.startswith("%}"):
            text = pick(" ", " ", " -", "", " +") + text + pick("", "", "\n")
        if text.endswith("{{"):
            text += pick(" ", "", "- ", " ")
        return text


def shrink(snippet, differs, rounds=40):
    """The smallest snippet found that still differs; differs(list) says it of many at once."""
    for _ in range(rounds):
        tokens = pieces(snippet)
        tries = []
        for n in (len(tokens) // 2, len(tokens) // 4, 12, 8, 6, 5, 4, 3, 2, 1):
            if n > 0:
                tries += ["".join(tokens[:i] + tokens[i + n:]) for i in range(len(tokens) - n + 1)]
        tries = sorted(set(t for t in tries if len(t) < len(snippet)), key=len)[:4000]
        found = next((t for t, yes in zip(tries, differs(tries)) if yes), None) if tries else None
        if found is None:
            return snippet
        snippet = found
    return snippet
