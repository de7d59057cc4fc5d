#!/usr/bin/env python3
"""Small templates of every statement and expression, and what Jinja2 3.1 makes of them. t_jinja.c renders them in the same way.
    python3 tests/gen/jinja_cases.py > tests/data/golden/jinja.jsonl

The first line is the context. Each other line is [template, text], the text null where Jinja2 fails. Jinja2 is set up as for chat templates."""
import json

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

CONTEXT = {"x": 5, "s": "h\u00e9llo w\u00f6rld", "l": [1, 2, 3], "d": {"a": 1, "b": {"c": [4, 5]}, "items": 7}, "n": None, "t": True, "f": 2.5, "e": [],
           "ms": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "yo", "tool_calls": []}, {"role": "user", "content": "x"}],
           "tree": [{"v": 1, "c": [{"v": 2, "c": []}, {"v": 3, "c": [{"v": 4, "c": []}]}]}, {"v": 5, "c": []}]}

TEMPLATES = r'''
{{ -x|string }} {{ -x.real if false else 2 }} {{ 7//2 }} {{ -7//2 }} {{ 7%-3 }} {{ 1/2 }} {{ 10/5 }}
=====
{{ not x == 5 }} {{ not not x }} {{ x == not }} 
=====
{{ 1 < x < 10 > 3 }} {{ 1 < x > 10 < 3 }} {{ 1 in l == true }} {{ 4 not in l }} {{ x is not none }} {{ x is odd }}
=====
{{ x is equalto 5 }} {{ x is equalto(3) }} {{ l is iterable }}
=====
{{ x is defined if y }}
=====
{{ 'yes' if x is defined else 'no' }}
=====
{{ 1 if false }}|{{ 'a' if n else 'b' if t else 'c' }}|{{ 'a' if n if t else 'q' }}|{{ (1 if t) + 2 }}
=====
{{ (1, 2) }} {{ (1,) }} {{ () }} {{ 1, 2 }} {{ [1,2,] }} {{ {'a':1,} }} {{ {} }} {{ (1) }} {{ 1, }}
=====
{{ l[0] }}{{ l[-1] }}{{ l[7] }}{{ l[0:2] }}{{ l[::-1] }}{{ l[:1] }}{{ l[1:] }}{{ l[:] }}{{ l[::2] }}{{ l[0:3:2] }}{{ s[1] }}{{ s[::-1] }}{{ l[:-1] }}{{l[1::]}}{{l[:2:]}}
=====
{{ d.a }}{{ d['a'] }}{{ d.b.c[1] }}{{ d.b.c.1 }}{{ d.zz }}{{ d['zz'] }}{{ d.items() }}{{ d['items'] }}{{ d.get('a') }}{{ d.get('q', 9) }}
=====
{{ d.zz.y }}
=====
{{ nope }}{{ nope|default('x') }}{{ nope is defined }}{{ nope == nope2 }}{{ nope|length }}
=====
{{ nope.x }}
=====
{{ nope() }}
=====
{{ x() }}
=====
{{ 1//0 }}
=====
{{ 1 if 0 else 1//0 }}
=====
{% for i in l %}{{ i }}{% if loop.last %}!{% endif %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}
=====
{% for i in l if i > 1 %}{{ i }}{% if loop.last %}!{% endif %}{{ loop.index }}{{ loop.length }}{{ loop.nextitem }}{{ loop.previtem }};{% endfor %}
=====
{% for i in l if i > 9 %}{{ i }}{% else %}empty{% endfor %}{% for i in [] %}{% else %}E{% endfor %}{% for i in l %}{% break %}{% else %}X{% endfor %}{% for i in l %}{{i}}{% if i==2 %}{% break %}{% endif %}{% else %}X{% endfor %}{% for i in l %}{% continue %}{% else %}Y{% endfor %}
=====
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for (a, b), c in [((1,2),3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}{% for a, in [[1],[2]] %}{{ a }}{% endfor %}
=====
{% for a, b in [[1,2,3]] %}{% endfor %}
=====
{% set y = 1 %}{% for i in l %}{% set y = y + i %}{{ y }}{% endfor %}{{ y }}{% if t %}{% set y = 9 %}{% endif %}{{ y }}{% if not t %}{% set z = 9 %}{% endif %}{{ z }}
=====
{{ x }}{% set x = 7 %}{{ x }}{% if true %}{% set x = 8 %}{% endif %}{{ x }}{% for x in [1] %}{{ x }}{% endfor %}{{ x }}
=====
{% set ns = namespace(a=1, b='z') %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{% set ns.c, q = 5, 6 %}{{ ns.c }}{{ q }}{{ ns }}{{ ns['a'] }}{{ ns.zz }}
=====
{% set x.a = 1 %}
=====
{% set nope.a = 1 %}
=====
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (a, b) = (b, a) %}{{ a }}{{ b }}{% set a = 1, 2 %}{{ a }}{% set a, = [5] %}{{ a }}
=====
{% set b %}  hi {{ x }} {% endset %}[{{ b }}]{% set b | upper | trim %} hi {% endset %}[{{ b }}]{% set b | replace('h', 'j') %}hh{% endset %}{{ b }}
=====
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
=====
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, b=2) }}
=====
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}
=====
{% macro list(items) %}<{% for i in items %}{{ caller(i, loop.index) }}{% endfor %}>{% endmacro %}{% call(v, n=3) list(l) %}{{ v }}:{{ n }}{{ x }},{% endcall %}
=====
{% macro o() %}[{{ caller() }}]{% endmacro %}{% macro p() %}({{ caller() }}){% endmacro %}{% call o() %}a{% call p() %}b{% endcall %}c{% endcall %}
=====
{% call x %}{% endcall %}
=====
{% call l|length %}{% endcall %}
=====
{% filter upper %}abc {{ s }}{% endfilter %}{% filter replace('a', 'b')|upper %}aaa{% endfilter %}
=====
{% macro outer() %}{% set q = 5 %}{% macro inner() %}{{ q }}{{ x }}{% endmacro %}{{ inner() }}{% set q = 6 %}{{ inner() }}{% endmacro %}{{ outer() }}{{ q }}
=====
{% macro a(n) %}{{ n }}{% if n %}{{ a(n - 1) }}{% endif %}{% endmacro %}{{ a(5) }}
=====
{% raw %}{{ x }}{% endraw %} {%- raw -%}  {% if %}  {%- endraw -%}   z
=====
  {# c #}
a {#- c -#} b
  {%- if t %} y {% endif -%}  z
    {% if t +%}
 q
    {%+ if t %}w{% endif %}
{{- ' x ' -}}
  end
=====
{% if t %}
  a
  {% if t %}
b
  {% endif %}
{% endif %}
c
=====
a
  {{ x }}
b  {% if t %}  {% endif %}  
   {% set q = 1 %}   
 d
=====
{{ "a\nb\t\x41\u00e9\101\q\'" 'c' "d" }}{{ 'é\é' }}
=====
{{ 0x1F }} {{ 0b11 }} {{ 0o17 }} {{ 1_000 }} {{ 1e3 }} {{ 1.5e-3 }} {{ 007 }}
=====
{{ 00 }} {{ 1.0 }} {{ 1000000000000000000 * 3 }} {{ 1e16 }} {{ 1.0.re }}
=====
{{ 'a' ~ 1 ~ n ~ 2.0 }} {{ 'a' + 'b' }} {{ 'a' * 3 }} {{ [1] + [2] }} {{ '%s-%d' % ('q', 3) }} {{ 1 + 2 ~ 3 }}
=====
{{ 'a' + 1 }}
=====
{{ x|foo }}
=====
{% if false %}{{ x|foo }}{% endif %}ok{{ 1 if true else x|foo }}{{ (x|foo) if false }}
=====
{% if false %}{% for i in l %}{{ i|foo }}{% endfor %}{% endif %}ok
=====
{% if x is foo %}{% endif %}
=====
{{ [1,2,3]|map('string')|join(',') }} {{ ms|selectattr('role','equalto','user')|map(attribute='content')|list }} {{ ms|map(attribute='role')|list|unique|list }}
=====
{% for m in ms if m.role == 'user' %}{{ loop.index }}/{{ loop.length }} {{ m.content }}{% if not loop.last %}, {% endif %}{% endfor %}
=====
{% generation %}a{{ x }}{% endgeneration %}
=====
{% do x %}
=====
{% if t %}
=====
{% endif %}
=====
{% if t %}{% endfor %}
=====
{% break %}
=====
{% for i in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}
=====
{% for loop in l %}{% endfor %}
=====
{% for i in l %}{% set loop = 1 %}{% endfor %}
=====
{{ loop }}{{ loop.index }}
=====
{% for i in l %}{% for j in l %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}
=====
{% for i in l %}{% set outer = loop %}{% for j in [1,2] %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}
=====
{{ x if }}
=====
{{ }}
=====
{{ x
=====
{{ 'abc }}
=====
{# abc
=====
{{ (1 }}
=====
{{ 1) }}
=====
{{ a b }}
=====
{% set x = x + 1 %}{{ x }}{% macro m() %}{{ x }}{% set x = 3 %}{{ x }}{% endmacro %}{{ m() }}{{ x }}
=====
{% for i in [1,2] %}{% if i == 1 %}{% set q = 5 %}{% endif %}{{ q }}{% endfor %}
=====
{% for i in [1,2] %}{{ q }}{% set q = i %}{{ q }}{% endfor %}{{ q }}
=====
{{ d|dictsort }}{{ d.keys()|list }}{{ d.values()|list|length }}{% for k in d %}{{ k }}{% endfor %}
=====
{{ 'x' if l and not e or n else 'y' }}{{ n or 'dflt' }}{{ x and 'v' }}{{ not n and 1 }}
=====
{{ s.upper() }}{{ s.split(' ') }}{{ s.split()[0][1:] }}{{ s.foo }}{{ s.startswith('h') }}{{ s|title }}
=====
{{ loop is defined }}{% for i in l if loop is defined %}{{ i }}{% endfor %}
=====
{{ {'a': 1}.a }}{{ [1,2][0] }}{{ (1,2)[1] }}{{ 'abc'[1] }}{{ "a".upper() }}{{ {'b': {'c': 2}}['b']['c'] }}
=====
{{ range(3)|list }}{{ range(1, 10, 3)|list }}{% for i in range(3) %}{{ i }}{% endfor %}{{ range(3) }}{{ dict(a=1) }}
=====
{{ x | default ( 1 ) | string + 'a' }}{{ 1 + 2 | string }}
=====
{{ 'a'|upper if t }}{{ l | join ('-') }}{{ 5 is number }}{{ 5 is not string }}{{ x is odd is even }}
=====
{{ l|first }}{{ l|last }}{{ l[1:]|length }}
=====
{%- for i in l -%}
  {{ i }}
{%- endfor %}

{%- if x -%} a {%- endif %}  

end

=====
{{ d.__class__ }}{{ d.__foo }}{{ x.__class__ }}
=====
{{ x.__class__.foo }}
=====
{{ not x in l }}{{ not (x in l) }}{{ x not in l and t }}
=====
{{ f(a=1, a=2) }}
=====
{{ range(*[1,5])|list }}

=====
{{ x }}
=====
no tags at all
=====


=====
a{# c #}b{#- c #} d {# e -#} f{#- #}
=====
{#-#}x{#--#}y{#+#}
  {#+ keep +#}
z
=====
  {% if t %}1{% endif %}
  {%+ if t %}2{%+ endif %}
  {%- if t -%}  3  {%- endif -%}
  {{ 4 }}
  {{- 5 -}}
  6
=====
{% if t %}

two newlines above
{% endif %}


after
=====
x {%- raw %} {{ a }} {% endraw -%} y {% raw -%}  {% b %}  {%- endraw %}

 z {% raw %}
 q
 {% endraw %}
 e
=====
{% raw +%}{% endraw %}
=====
{%raw%}{{{%endraw%}{%-raw-%} a {%-endraw-%}
=====
{{ '}}' }}{{ "%}" }}{% if '%}' %}{{ {'a': {'b': 1}} }}{% endif %}
=====
{{ {'a':{}}}}
=====
{{-1}}{{ -1 }}{{+1}}{{ +1 }}{{ - 1 - -1 }}{{ 2 - - 2 }}
=====
{{ 1 +}}
=====
{{ [1, 2, 3][1:][0] }}{{ "abc"[1:2].upper() }}{{ [[1, 2], [3]][0][-1] }}{{ "a.b".split(".")[0] }}
=====
{{ l[::0] }}
=====
{{ l['a'] }}{{ l[1.0] }}{{ l[none] }}{{ d[l] }}{{ s.x }}|
=====
{{ n.x }}{{ x.y }}{{ x['y'] }}{{ t.z }}|
=====
{{ n.x.y }}
=====
{{ n[1:] }}
=====
{{ l[1:'a'] }}
=====
{{ l[1, 2] }}|{{ l[] }}|
=====
{{ l[1:2, 3] }}
=====
{{ d.b['c'].0 }}{{ d['b'].c.1 }}{{ ms.0.role }}{{ ms[0]['role'] }}
=====
{{ a.b.c }}
=====
{{ (1, 2, 3)|length }}{{ (1, 2)[0] }}{{ ((1)) }}{{ (1,)|length }}{{ ()|length }}{{ [(), [], {}] }}
=====
{{ 1 == 1.0 }}{{ 1 == true }}{{ 'a' < 'b' }}{{ [1, 2] < [1, 3] }}{{ (1,) == [1] }}{{ none == none }}{{ {} == {} }}
=====
{{ 1 < 'a' }}
=====
{{ 1 < 2 < 3 < 4 > 3 != 5 in [5, 6] }}{{ 1 < 2 > 3 < nope.x }}{{ 3 > 2 > 1 == true }}
=====
{{ 1 < 2 > 1 < nope.x }}
=====
{{ true and false or true }}{{ false or none }}{{ 0 or '' or [] }}|{{ 1 and 2 and 3 }}{{ 1 and 0 and nope.x }}{{ 1 or nope.x }}
=====
{{ not true or true }}{{ not (true or true) }}{{ not 1 == 2 }}{{ not 1 in [1] }}{{ not not not 0 }}
=====
{{ 1 is number and 'a' is string or 2 is none }}{{ x is not string }}{{ not x is string }}{{ x is eq 5 }}
=====
{{ x is equalto 5 ~ 'a' }}{{ x is equalto l[0] }}{{ x is equalto(5) and 1 }}{{ x is defined ~ '!' }}
=====
{{ x is even or x is odd }}{{ 5 is equalto 2 + 3 }}{{ (x is odd) is true }}{{ x is odd | string }}
=====
{{ x is equalto -5 }}
=====
{{ 'a' if x > 3 else 'b' if x > 1 else 'c' }}{{ ('a' if n else 'b') ~ 'c' }}{{ 'a' ~ 'b' if t else 'c' }}{{ [1 if t else 2, 3 if n else 4] }}{{ {'k': 1 if n else 2} }}
=====
{{ (1 if n) is defined }}{{ (1 if n).x }}
=====
{{ 1 if t if n else 2 if t }}{{ 1 if n if t else 2 }}{{ 1 if t else 2 if n else 3 }}
=====
{{ x|string|length }}{{ (x|string) ~ 'a'|upper }}{{ 'a' 'b'|upper }}{{ 'x'|default('y')|upper }}{{ nope|default('y', true)|upper }}{{ ''|default('z', boolean=true) }}
=====
{{ x | string | replace ( '5' , '6' ) }}{{ [3, 1, 2]|sort|first }}{{ [3, 1]|sort(reverse=true)|join('-') }}{{ l|map('string')|join }}
=====
{{ x|a.b }}
=====
{{ x|replace }}
=====
{{ x is a.b }}
=====
{{ s|upper.lower }}
=====
{{ s | upper() | lower( ) }}{{ 'a,b'.split(',')|join('+') }}{{ s.upper()|lower|title }}
=====
{{ -5|string }}{{ -5.5|int }}{{ 5 - 3|int }}{{ 2*3|string }}{{ -x|string ~ 'a' }}
=====
{{ 5 // 2 }}{{ -5 // 2 }}{{ 5 % -3 }}{{ 5.5 // 2 }}{{ 10 / 4 }}{{ 3 * 'ab' }}{{ 'ab' * 0 }}|
=====
{{ 5 % 0 }}
=====
{{ 5 / 0 }}
=====
{{ 'a' - 1 }}
=====
{{ [1] + (2,) }}
=====
{{ nope + 1 }}
=====
{{ nope ~ 1 }}{{ 1 ~ none ~ true ~ [1, 'a'] ~ {'k': 'v'} }}
=====
{{ -nope }}
=====
{{ 9223372036854775806 + 1 }}{{ -9223372036854775807 - 1 }}{{ 99999999 * 9999999999 }}
=====
{{ 1.0 }}{{ 0.1 + 0.2 }}{{ 1e100 }}{{ 1E5 }}{{ 1_0.5_0 }}{{ 1e-7 }}{{ 100000000000000000.0 }}
=====
{{ 1__0 }}
=====
{{ 0xfg }}
=====
{{ 1.e5 }}
=====
{{ 1.x }}
=====
{{ .5 }}
=====
{{ 'a\'b' "c\"d" 'e\\f' 'g\ h' '\x41\u0042\U00000043\104' '\a\b\f\v\0'|length }}
=====
{{ 'line1\
line2' }}{{ "a
b" }}
=====
{{ '\x4' }}
=====
{{ '\u12' }}
=====
{{ '\U00110000' }}
=====
{{ 'ünïcödé'|upper }}{{ ünï }}{% set ünï = 3 %}{{ ünï }}{{ '日本' ~ '語' }}{{ '\ü' }}
=====
{% set _x = 1 %}{{ _x }}{% set x2 = _x + 1 %}{{ x2 }}{{ __y }}
=====
{% set x = 1 if n else 2 %}{{ x }}{% set y = 1, %}{{ y }}{% set z = 'a' 'b' %}{{ z }}{% set w = not x %}{{ w }}
=====
{% set a %}{% endset %}[{{ a }}]{% set a %}{% set b = 1 %}{{ b }}{% endset %}[{{ a }}][{{ b }}]
=====
{% set a | upper | replace('A', 'b') %}aA{% endset %}{{ a }}{% set a | length %}four{% endset %}{{ a + 1 }}
=====
{% set a, b %}{% endset %}
=====
{% set a.b %}{% endset %}
=====
{% set ns = namespace() %}{% set ns.x %}block {{ x }}{% endset %}{{ ns.x }}{% set (a, b) = 1, 2 %}{{ a + b }}
=====
{% set 1 = 2 %}
=====
{% set true = 2 %}
=====
{% set a[0] = 2 %}
=====
{% set a = %}
=====
{% set a b %}
=====
{% set = 1 %}
=====
{% set a, b = 1 %}
=====
{% set a, b = 'xy' %}{{ b }}{{ a }}{% set a, (b, c) = 1, (2, 3) %}{{ a }}{{ b }}{{ c }}{% set () = [] %}
=====
{% set a = namespace(x=1) %}{% set b = a %}{% set b.x = 2 %}{{ a.x }}{% macro m(q) %}{% set q.x = 7 %}{% endmacro %}{{ m(a) }}{{ a.x }}
=====
{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{{ ns.c is defined }}{{ ns.c }}|
=====
{% set ns = namespace(a=1) %}{% for i in l %}{% set ns.a = ns.a * 2 %}{% if loop.last %}{{ ns.a }}{% endif %}{% endfor %}
=====
{% set d.a = 1 %}
=====
{% set ns = namespace(a=1) %}{% set ns.a, ns.b = ns.a + 1, ns.a + 2 %}{{ ns.a }}{{ ns.b }}
=====
{% if t %}{% set v = 1 %}{% else %}{% set v = 2 %}{% endif %}{{ v }}{% if n %}{% set w = 1 %}{% elif t %}{% set w = 2 %}{% else %}{% set w = 3 %}{% endif %}{{ w }}
=====
{% if n %}{% set x = 1 %}{% endif %}{{ x }}{% if n %}{% set undefd = 1 %}{% endif %}{{ undefd is defined }}{{ undefd }}
=====
{% if t %}{% if n %}{% set x = 1 %}{% endif %}{{ x }}{% set x = 2 %}{% endif %}{{ x }}
=====
{% for i in [1, 2] %}{% if i == 2 %}{% set x = i %}{% endif %}{{ x }}{% endfor %}{{ x }}
=====
{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% for j in [1] %}{% set x = x * 10 %}{{ x }}{% endfor %}{{ x }}{% endfor %}{{ x }}
=====
{% macro m() %}{{ x }}{% set x = 1 %}{{ x }}{% endmacro %}{{ m() }}{{ x }}{% macro k() %}{% if n %}{% set x = 2 %}{% endif %}{{ x }}{% endmacro %}{{ k() }}
=====
{% macro m() %}{{ later }}{% endmacro %}{{ m() }}{% set later = 'now' %}{{ m() }}
=====
{% macro m(x) %}{{ x }}{% set x = x + 1 %}{{ x }}{% endmacro %}{{ m(1) }}{{ x }}
=====
{{ m is defined }}{% macro m() %}hi{% endmacro %}{{ m is defined }}{% if t %}{% macro k() %}yo{% endmacro %}{% endif %}{{ k() }}
=====
{% for i in [1, 2] %}{% macro m() %}{{ i }}{{ x }}{% endmacro %}{{ m() }}{% endfor %}{{ m is defined }}
=====
{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(b=1, a=2) }}{{ m(1, b=2) }}{{ m(*[1, 2]) }}{{ m(*[1], b=4) }}{{ m(1) }}|{{ m(1, *[2]) }}
=====
{% macro m(a, b=a ~ 'x', c=b ~ 'y') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(1, c=2) }}{{ m() }}
=====
{% macro m(a=x) %}{{ a }}{% endmacro %}{{ m() }}{% set x = 9 %}{{ m() }}{{ m(none) }}{{ m(nope) }}|
=====
{% macro m(a, b=1, c) %}{% endmacro %}
=====
{% macro m(a, a) %}{% endmacro %}
=====
{% macro m(a.b) %}{% endmacro %}
=====
{% macro m %}{% endmacro %}
=====
{% macro %}{% endmacro %}
=====
{% macro m() %}{{ a }}{% endmacro %}{{ m(a=1) }}
=====
{% macro m(caller) %}{{ caller() }}{% endmacro %}
=====
{% macro m(caller=none) %}{{ caller() if caller else 'no' }}{% endmacro %}{{ m() }}{% call m() %}yes{% endcall %}
=====
{% macro m() %}{{ caller is defined }}{{ caller() if caller }}{% endmacro %}{{ m() }}{% call m() %}yes{% endcall %}
=====
{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}
=====
{% macro m(a) %}{{ caller(a, k=2) }}{% endmacro %}{% call(q, k=1, z='d') m(5) %}{{ q }}{{ k }}{{ z }}{% endcall %}
=====
{% macro m() %}{{ caller(1) }}{% endmacro %}{% call m() %}y{% endcall %}
=====
{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}{% set x = 1 %}{{ x }}{% endcall %}{{ x }}
=====
{% macro m() %}{% for i in l %}{{ caller(i) }}{% endfor %}{% endmacro %}{% for j in [7, 8] %}{% call(i) m() %}{{ i }}{{ j }}{{ loop.index }} {% endcall %}{% endfor %}
=====
{% call d.get('a') %}{% endcall %}
=====
{% call (1) %}{% endcall %}
=====
{% call(a) %}{% endcall %}
=====
{% macro m() %}{{ caller() }}{% endmacro %}{% call (m()) %}p{% endcall %}{% call m()|upper %}{% endcall %}
=====
{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}{% call m() %}{% call m() %}x{% endcall %}{% endcall %}{% endcall %}
=====
{% macro f(n) %}{{ n if n < 2 else f(n - 1)|int + f(n - 2)|int }}{% endmacro %}{{ f(10) }}
=====
{% macro a(n) %}{% if n %}a{{ b(n - 1) }}{% endif %}{% endmacro %}{% macro b(n) %}{% if n %}b{{ a(n - 1) }}{% endif %}{% endmacro %}{{ a(7) }}
=====
{% macro m(f) %}{{ f('x') }}{% endmacro %}{% macro g(a) %}<{{ a }}>{% endmacro %}{{ m(g) }}{{ [g][0](1) }}{{ {'g': g}.g(2) }}
=====
{% filter upper %}a{% filter replace('B', 'c') %}b{% endfilter %}{% endfilter %}{% filter trim|upper %}  x {% endfilter %}{% filter indent(9, true) %}ab{% endfilter %}|
=====
{% filter length %}abc{% endfilter %}
=====
{% filter upper %}{% set x = 1 %}{{ x }}{% endfilter %}{{ x }}
=====
{% filter %}{% endfilter %}
=====
{% filter nosuch %}{% endfilter %}
=====
{% for i in l %}{{ i }}{{ ',' if not loop.last }}{% endfor %};{% for i in l %}{{ loop.index }}/{{ loop.length }} {% endfor %}
=====
{% for i in 'abc' %}{{ i }}{{ loop.nextitem }}{{ loop.previtem }}|{% endfor %}{% for i in (1, 2) %}{{ i }}{% endfor %}{% for i in d %}{{ i }}{% endfor %}
=====
{% for i in nope %}x{% else %}none{% endfor %}{% for i in none %}{% endfor %}
=====
{% for i in 5 %}{% endfor %}
=====
{% for i in l|map('string') %}{{ i }}{{ loop.index }}{{ loop.length }}{{ loop.last }}{% endfor %}
=====
{% for i in l[::-1] %}{{ loop.nextitem }}{{ i }}{{ loop.length }}{% endfor %}{% for i in l|select('odd') %}{{ loop.last }}{% endfor %}
=====
{% for k, v in d.items() %}{{ loop.index }}{{ k }}{% endfor %}{% for k, v in d|dictsort %}{{ k }}{% endfor %}{% for k, v in d|items %}{{ k }}{{ loop.last }}{% endfor %}
=====
{% for i in range(10) if i is odd %}{{ i }}{{ loop.index }}{{ loop.last }}{{ loop.nextitem }}{{ loop.length }} {% endfor %}
=====
{% for i in range(5) if i > 1 %}{% if loop.first %}{{ loop.length }}{% endif %}{% if loop.index == 2 %}{{ loop.nextitem }}{{ loop.length }}{% endif %}{{ i }}{% endfor %}
=====
{% set ns = namespace(stop=9) %}{% for i in range(6) if i < ns.stop %}{{ i }}{% if i == 2 %}{% set ns.stop = 3 %}{% endif %}{% endfor %}
=====
{% set ns = namespace(stop=9) %}{% for i in range(6) if i < ns.stop %}{{ i }}{{ loop.last }}{% if i == 2 %}{% set ns.stop = 3 %}{% endif %}{% endfor %}
=====
{% for a, b in [(1, 2), (3, 4)] if b > 2 %}{{ a }}{{ b }}{{ loop.length }}{% endfor %}{% for (a, b), (c, d) in [((1, 2), (3, 4))] %}{{ a }}{{ b }}{{ c }}{{ d }}{% endfor %}
=====
{% for i in l if x == 5 %}{{ i }}{% set x = 6 %}{% endfor %}{{ x }}
=====
{% for i in l if i in [j for j in l] %}{% endfor %}
=====
{% for i in l if i == 1 if i == 2 %}{% endfor %}
=====
{% for i in l if i if t else n %}{{ i }}{% endfor %}
=====
{% for i in (l if t else []) %}{{ i }}{% endfor %}{% for i in l or [9] %}{{ i }}{% endfor %}{% for i in 1, 2, 3 %}{{ i }}{% endfor %}
=====
{% for i in l %}{% for j in l %}{% if j == 2 %}{% continue %}{% endif %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %}
=====
{% for i in l %}{% set q %}{{ i }}{% if i == 2 %}{% break %}{% endif %}{% endset %}{{ q }}{% endfor %}.{% for i in l %}{% filter upper %}a{% if i == 2 %}{% continue %}{% endif %}b{% endfilter %}{% endfor %}.
=====
{% for i in [] %}{% else %}{% break %}{% endfor %}
=====
{% for j in l %}{{ j }}{% for i in [] %}{% else %}{% break %}{% endfor %}{% endfor %}
=====
{% continue %}
=====
{% for i in l %}{% call foo() %}{% break %}{% endcall %}{% endfor %}
=====
{% for i in [] %}a{% else %}{% set x = 1 %}{{ x }}{% endfor %}{{ x }}{% for i in [1] %}{% else %}b{% endfor %}
=====
{% for i in l %}{{ loop['index'] }}{{ loop.index0 + 1 }}{{ loop.first and not loop.last }}{% endfor %}
=====
{% for i in l %}{% set L = loop %}{% for j in [1, 2] if L.index > 1 %}{{ L.index }}{{ loop.index }}{% endfor %}{% endfor %}
=====
{% for loop in l %}{{ loop }}{% endfor %}
=====
{% for i in l %}{% macro m(loop) %}{{ loop }}{% endmacro %}{{ m(1) }}{% endfor %}
=====
{% macro m(it) %}{{ it.index }}{{ it.last }}{{ it.length }}{% endmacro %}{% for i in l if i > 1 %}{{ m(loop) }}{% endfor %}
=====
{% for a.b in l %}{% endfor %}
=====
{% for in l %}{% endfor %}
=====
{% for i l %}{% endfor %}
=====
{% for i in %}{% endfor %}
=====
{% for i in l %}{% endfor i %}
=====
{% if %}{% endif %}
=====
{% if x: %}a{% elif n: %}b{% else: %}c{% endif %}{% for i in l: %}{{ i }}{% endfor %}
=====
{% if n %}a{% elif x == 5 %}b{% elif nope.x %}{% else %}c{% endif %}{% if n %}{% elif n %}{% endif %}
=====
{% if t %}{% else %}{% else %}{% endif %}
=====
{% if t %}{% else %}{% elif t %}{% endif %}
=====
{% if x, n %}tuple{% endif %}{% if (n, ) %}t{% endif %}
=====
{% if 1 if 0 else 2 %}{% endif %}
=====
{% else %}
=====
{% endfor %}
=====
{% for i in l %}{% if t %}{% endfor %}{% endif %}
=====
{% nosuch %}
=====
{% %}
=====
{% 1 %}
=====
{%
=====
{{ x }
=====
{% if x }}
=====
a { b } {% if t %}{{% endif %}
=====
a {b} { {c} } }} %} #}
=====
{{ x; }}
=====
{{ x $ }}
=====
{{ ] }}
=====
{{ (] }}
=====
{{ 'a }}
=====
{{ f(1 2) }}
=====
{{ f(, 1) }}
=====
{{ dict(a=1,) }}{{ dict() }}{{ range(3,)|list }}
=====
{{ f(a=1, 2) }}
=====
{{ f(*l, 2) }}
=====
{{ f(*l, *l) }}
=====
{{ dict(*[{'a': 1}]) }}{{ dict(*[], b=2) }}
=====
{{ range(*5) }}
=====
{{ [1, 2 }}
=====
{{ {1} }}
=====
{{ {'a' 1} }}
=====
{{ {1: 2, 'a': [3], none: 4, (1, 2): 5} }}{{ {'a': 1, 'a': 2} }}
=====
{{ {[]: 1} }}
=====
{{ {'a': 1}['a'] }}{{ {'a': 1}.items()|list }}{{ 'abc'.split('b') }}{{ 'a'.upper() }}
=====
{{ x.__class__ }}{{ ''.__class__ }}{{ l.__len__ }}|{{ x['__class__'] }}
=====
{{ ''.__class__.__mro__ }}
=====
{{ ''.__class__() }}
=====
{% generation %}{{ x }}{% set q = 1 %}{{ q }}{% endgeneration %}{{ q }}{% for i in l %}{% generation %}{{ i }}{{ loop.index }}{% endgeneration %}{% endfor %}
=====
{% for i in l %}{% generation %}{% break %}{% endgeneration %}{% endfor %}
=====
{% do l.append(1) %}
=====
{% trans %}{% endtrans %}
=====
{% import 'a' as b %}
=====
{% from 'a' import b %}
=====
{% extends 'a' %}
=====
{{ ms|selectattr('role', 'equalto', 'user')|list|length }}{{ ms|map(attribute='content')|join('/') }}{{ ms[-1].content }}{{ ms[1:]|length }}{{ (ms|first)['role'] }}
=====
{%- for m in ms %}
    {%- if m.role == 'user' %}
        {{- '<u>' + m.content + '</u>' }}
    {%- elif m['role'] == 'assistant' -%}
        <a>{{ m.content | trim }}</a>
    {%- endif %}
{%- endfor %}
{%- if not nope %}{{ '<a>' }}{% endif %}
=====
{{ raise_exception('stop') }}
=====
{{ 'a' if t else raise_exception('never') }}
=====
{{ tojson }}{{ ms[0]|tojson }}{{ d|tojson(indent=2) }}
=====
{{ x is mapping }}{{ d is mapping }}{{ l is sequence }}{{ s is sequence }}{{ l is iterable }}{{ x is boolean }}{{ t is true }}{{ n is none }}{{ nope is undefined }}
=====
{{ l == [1, 2, 3] }}{{ l is eq([1, 2, 3]) }}{{ 2 in l }}{{ 'ell' in 'hello' }}{{ 'a' in d }}{{ 1 in (1, 2) }}{{ 3 in range(5) }}{{ 'x' not in nope }}
=====
{{ 1 in 5 }}
=====
{{ 1 in 'a' }}
=====
{{ s[0] }}{{ s[-1] }}{{ s[1:4] }}{{ s[100] }}|{{ s[100:] }}|{{ s[::-1][:3] }}
=====
{{ l[-3:] }}{{ l[5:] }}{{ l[:-5] }}{{ l[-1:0:-1] }}{{ l[none:2] }}{{ (1, 2, 3)[1:] }}{{ range(10)[2:8:3]|list }}{{ range(5)[-1] }}
=====
{{ d[1:] }}
=====
{{ nope[1:] }}
=====
{{ nope['a'] }}
=====
{{ true + true }}{{ true * 3 }}{{ -true }}{{ 5 % 3.5 }}
=====
{{ 1 if x else }}
=====
{{ if }}{{ for }}{{ else }}|
=====
{{ x if x }}{{ in }}
=====
{{ not }}
=====
{{ and 1 }}
=====
{% set if = 1 %}{{ if }}{% set for = 2 %}{{ for }}
=====
{{ none.x }}{{ true.x }}{{ None }}{{ True }}{{ False }}{{ none is none }}
=====
{{ 1,2 if n else 3,4 }}{{ 1, 2 }}
=====
{{ *l }}
=====
{{ x == 5 == true }}{{ (x == 5) == true }}
=====
{% set x = [] %}{% for i in l %}{% set x = x + [i] %}{% endfor %}{{ x }}{% set ns = namespace(x=[]) %}{% for i in l %}{% set ns.x = ns.x + [i] %}{% endfor %}{{ ns.x }}
=====
{% set outer = 1 %}{% macro m() %}{% set outer = 2 %}{% macro k() %}{{ outer }}{% endmacro %}{{ k() }}{% endmacro %}{{ m() }}{{ outer }}
=====
{% for i in [1, 2] %}{% set k = i %}{% for j in [1] %}{{ k }}{% set k = 9 %}{{ k }}{% endfor %}{{ k }}{% endfor %}
=====
{% set f = 'abc'.upper %}{{ f() }}{% set g = d.get %}{{ g('a') }}{% set r = range %}{{ r(2)|list }}
=====
{% if false %}{{ x|nosuch }}{% elif x is nosuch %}{% endif %}
=====
{{ 1 if false else 2 if t else x|nosuch }}{{ (x is nosuch) if n else 'k' }}
=====
{% if n %}{{ x|nosuch(1, a=2)|upper }}{% set q = 1 is nosuch %}{% endif %}ok
=====
{% if n %}{% macro q() %}{{ 1|nosuch }}{% endmacro %}{% endif %}ok
'''[1:-1].split("\n=====\n")

# Templates with characters that are hard to see here.
TEMPLATES += [
    "a\r\nb\rc\n\n", "{% if t %}\r\na\r\n{% endif %}\r\n", "  \t{% if t %}\t \n x\n\t{% endif %}\n", "a\u00a0{%- if t %}\u2003{{- 1 }}{% endif -%}\u3000b", "\x0b{% if t %}a{% endif %}",
    "x\n\n", "x\n", "{{ 1 }}\n", "{# a #}\n", "{% raw %}\nx\n{% endraw %}\n", "\n{%- if t %}\n\n{% endif %}\n\n", "{{ 'a\r\nb' }}", "{{ '\\\r\n' }}",
]


class Generation(Extension):
    """{% generation %} prints its body."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("body"), [], [], body).set_lineno(line)

    def body(self, caller):
        return caller()


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.TemplateError(message)


ENV = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation])
ENV.filters["tojson"] = tojson
ENV.globals["raise_exception"] = raise_exception


def render(template):
    try:
        return ENV.from_string(template).render(**json.loads(json.dumps(CONTEXT)))
    except (jinja2.TemplateError, TypeError, ValueError, ArithmeticError, LookupError, SyntaxError, AssertionError):
        return None


def main():
    print(json.dumps(CONTEXT))
    for t in TEMPLATES:
        print(json.dumps([t, render(t)]))


main()
