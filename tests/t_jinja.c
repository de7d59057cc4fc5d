/* [jinja]: templates against Jinja2's answers (data/golden/jinja.jsonl, made by gen/jinja_cases.py), errors by line,
 * limits, nesting on a small stack, origins of characters. */
#include "program.h"
#include "check.h"

/* Renders a template; "!code text" where it is wrong or fails. */
static void tj_render(const char *file, bytes text, val vars, str *out) {
    err_t      e = {0};
    jinja_text got = {0};
    jinja     *t = jinja_parse(text, file, &e);
    str_clear(out);
    str_add(out, "", 0);
    if (t && jinja_render(t, vars, &got, &e)) str_add(out, got.text.p, got.text.n);
    else str_fmt(out, "!%d %s", e.code, e.text);
    jinja_text_drop(&got);
    jinja_free(t);
}

static void tj_answer(val_env *env, const val_list *one, val context, int line) {
    str        source = {0}, want = {0}, got = {0};
    const bool fails = one->at[1].kind == VAL_NONE;
    (void)env;
    val_utf8(one->at[0].s, &source);
    if (!fails) val_utf8(one->at[1].s, &want);
    str_add(&source, "", 0), str_add(&want, "", 0);
    tj_render("t", str_bytes(&source), context, &got);
    if (fails) CHECKF(strncmp(got.p, "!2 t:", 5) == 0, "line %d: %s\ngot  %s\nwant an error", line, source.p, got.p);
    else CHECKF(bytes_eq(str_bytes(&got), str_bytes(&want)), "line %d: %s\ngot  %s\nwant %s", line, source.p, got.p, want.p);
    str_drop(&source), str_drop(&want), str_drop(&got);
}

static void t_jinja_answers(void) {
    val_env env;
    val     context = val_none();
    int     line = 0;
    char   *text = t_read("tests/data/golden/jinja.jsonl", NULL), *rest = text;
    if (!CHECK(text != NULL)) return;
    val_env_init(&env, 0, 0, NULL);
    for (char *one; (one = strsep(&rest, "\n")) && *one; line++) {
        const val v = val_json_read(&env, bytes_of(one), 0);
        if (!line) context = v;
        else tj_answer(&env, v.list, context, line + 1);
    }
    CHECK(line > 340);
    val_env_drop(&env);
    mem_free(text);
}

/* Templates that are wrong: the line, and words of the error. */
static const struct {
    const char *text, *line, *words;
} tj_errors[] = {
    {"a\n{{ x", "2", "found 'the end of the template'"},
    {"\n\n{% if x %}\na\n", "4", "inside 'if' of line 3, expected 'endif'"},
    {"{% for a in b %}\n{% endif %}", "2", "'endif' inside 'for' of line 1, expected 'endfor'"},
    {"{{ 'a\nb }}", "1", "a string without an end"},
    {"\n{# a", "2", "a comment without an end"},
    {"\n{% raw %}\n{{", "2", "{% endraw %}"},
    {"{{ a\n b }}", "2", "found 'b', expected '}}'"},
    {"{% set x = %}", "1", "found '%}', expected an expression"},
    {"{{\n(1,\n2}\n}}", "3", "found '}', expected ')'"},
    {"{{ ) }}", "1", "')' without its opening bracket"},
    {"{% nosuch %}", "1", "found 'nosuch', expected a statement"},
    {"{% break %}", "1", "'break' outside of a loop"},
    {"{% include 'x' %}", "1", "'include', which is refused"},
    {"{% extends 'x' %}", "1", "refused"},
    {"{% import 'x' as y %}", "1", "refused"},
    {"{% from 'x' import y %}", "1", "refused"},
    {"{% block x %}{% endblock %}", "1", "refused"},
    {"\n{{ x|uper }}", "2", "upper"},
    {"{{ x is\n strin }}", "1", "string"},
    {"{% for loop in x %}{% endfor %}", "1", "'loop' as a name to set"},
    {"{% set 1 = 2 %}", "1", "a name to set"},
    {"{% call x %}{% endcall %}", "1", "expected a call"},
    {"{% macro a(b=1, c) %}{% endmacro %}", "1", "the parameter 'c' without a default"},
    {"{{ f(a=1, a=2) }}", "1", "the argument 'a' twice"},
    {"{{ '\\x4' }}", "1", "2 hexadecimal digits"},
    {"{{ \x01 }}", "1", "the character '\x01'"},
    {"{{ \xff }}", "1", "expected an expression"},
    {"{{ a[1:2, 3] }}", "1", "a slice among subscripts"},
    {"\n\n{{ 1 // 0 }}", "3", "zero"},
    {"{{ nope.x }}", "1", "nope is undefined"},
    {"{{ x.nope.y }}", "1", "nope is undefined"},
    {"{{ nope() }}", "1", "nope is undefined"},
    {"{{ 'a'\n() }}", "2", "a call of str"},
    {"{% for a in 5 %}{% endfor %}", "1", "int to loop over"},
    {"{% set a, b = [1] %}", "1", "1 values to unpack, expected 2"},
    {"{% set x.a = 1 %}", "1", "expected a namespace"},
    {"{% macro m(a) %}{% endmacro %}\n{{ m(1, 2) }}", "2", "'m' got 2 arguments, expected 1"},
    {"{% macro m() %}{% endmacro %}{{ m(q=1) }}", "1", "'m' has no parameter 'q'"},
    {"{{ range(1)(2) }}", "1", "a call of range"},
    {"{% for a in [1] %}{{ loop(a) }}{% endfor %}", "1", "a call of LoopContext"},
    {"{% for k in x %}{% set _ = x.update({'c': 3}) %}{% endfor %}", "1", "dict was changed"},
    {"{{ raise_exception('no\x1b[31m way') }}", "1", "no"},
    {"{{ [1][1:'a'] }}", "1", "a slice of list"},
    {"{{ f(**[1]) }}", "1", "f"},
    {"{{ dict(**[1]) }}", "1", "found '*', expected an expression"},
    {"{% filter length %}a{% endfilter %}", "1", "expected str"},
    {"{{ 1 < 'a' }}", "1", "'<'"},
    {"\n{{ x|wordwrap }}", "2", "found 'wordwrap', which is no filter or test here"},
    {"\n{{ x is divisibleby 3 }}", "2", "found 'divisibleby', which is no filter or test here"},
    {"\n{{ 'a'.isdigit() }}", "2", "isdigit is undefined"},
    {"\n{{ joiner() }}", "2", "joiner is undefined"},
    {"{% for a in [1] %}\n{{ loop.cycle('a') }}{% endfor %}", "2", "found loop.cycle, which is not there"},
    {"\n{% with a = 1 %}{% endwith %}", "2", "found 'with', expected a statement"},
    {"\n{% for a in b recursive %}{% endfor %}", "2", "found 'recursive', expected '%}'"},
    {"{% macro m() %}{{ kwargs }}{% endmacro %}", "1", "found 'kwargs' in a macro"},
    {"{% macro m() %}{% endmacro %}\n{{ m.name }}", "2", "the attribute 'name' of a macro"},
    {"\n{{ 2 ** 3 }}", "2", "found '*', expected an expression"},
    {"\n{{ '%d' % 3 }}", "2", "'%' is not supported between str and int"},
    {"\n{{ '%d'|format(3) }}", "2", "format(): found '%d', expected %s or %%"},
    {"\n{{ 9223372036854775808 }}", "2", "an integer beyond 64 bits"},
    {"\n{{ 9223372036854775807 + 1 }}", "2", "'+' takes or makes an integer beyond 64 bits"},
    {"\n{{ 1e300|int }}", "2", "beyond 64 bits"},
};

static void t_jinja_errors(void) {
    val_env env;
    str     got = {0};
    char    where[32];
    val_env_init(&env, 0, 0, NULL);
    const val vars = val_json_read(&env, bytes_of("{\"x\": {\"a\": 1, \"b\": 2}}"), 0);
    for (size_t i = 0; i < sizeof tj_errors / sizeof *tj_errors; i++) {
        tj_render("FILE", bytes_of(tj_errors[i].text), vars, &got);
        snprintf(where, sizeof where, "!2 FILE:%s: ", tj_errors[i].line);
        CHECKF(strncmp(got.p, where, strlen(where)) == 0 && strstr(got.p, tj_errors[i].words), "%s\ngot  %s\nwant %s %s",
            tj_errors[i].text, got.p, where, tj_errors[i].words);
    }
    str_drop(&got);
    val_env_drop(&env);
}

/* Templates that spend a limit. */
static const struct {
    const char *text, *words;
} tj_limits[] = {
    {"{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "steps"},
    {"{% for a in range(99999) %}{% for b in range(99999) if false %}{% endfor %}{% endfor %}", "steps"},
    {"{{ 'x' * 100000000 }}", "64 MiB"},
    {"{{ 'x' * 9223372036854775807 }}", "64 MiB"},
    {"{{ [1] * 100000000 }}", "64 MiB"},
    {"{% set x = 'a' %}{% for i in range(99) %}{% set x = x ~ x %}{% endfor %}", "x"},
    {"{% set n = namespace(s='a') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}", "64 MiB"},
    {"{% set n = namespace(s='a') %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor %}", "64 MiB"},
    {"{% set l = [1] %}{% for a in l %}{% set _ = l.append(a) %}{% endfor %}", "spent"},
    {"{% set x = 'x' * 1000000 %}{% for a in range(99) %}{{ x }}{% endfor %}", "16 MiB"},
    {"{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", "200 levels"},
    {"{% macro a() %}{{ caller }}{% call a() %}{% endcall %}{% endmacro %}{{ a() }}", "200 levels"},
    {"{% set n = namespace(l=[]) %}{% for a in range(1200) %}{% set n.l = [n.l] %}{% endfor %}{{ n.l }}", "1000 levels"},
    {"{% set s = m ~ 'a' %}{% for i in range(6) %}{{ s * 3000000 }}{% endfor %}", "64 MiB"},
    {"{{ range(1000000000000)|list }}", ""},
    {"{{ 'a'|indent(1000000000000) }}", ""},
    {"{{ ('a' * 10000)|replace('a', 'b' * 100000) }}", "64 MiB"},
    {"{{ (['a' * 100000] * 10000)|join }}", "64 MiB"},
};

static void t_jinja_limits(void) {
    val_env env;
    str     got = {0};
    val_env_init(&env, 0, 0, NULL);
    const val vars = val_json_read(&env, bytes_of("{\"m\": \"b\"}"), VAL_JSON_INPUT);
    for (size_t i = 0; i < sizeof tj_limits / sizeof *tj_limits; i++) {
        tj_render("FILE", bytes_of(tj_limits[i].text), vars, &got);
        if (strcmp(tj_limits[i].words, "x") == 0) CHECKF(!*got.p, "%s\ngot  %.300s", tj_limits[i].text, got.p);
        else {
            const char *head = *tj_limits[i].words ? "!3 FILE:1: " : "!";
            const bool  ends = strncmp(got.p, head, strlen(head)) == 0 && strstr(got.p, tj_limits[i].words);
            CHECKF(ends, "%s\ngot  %.300s", tj_limits[i].text, got.p);
        }
    }
    str_drop(&got);
    val_env_drop(&env);
}

/* Something n times inside itself: what opens it, the middle, what closes it. */
static const struct {
    const char *open, *middle, *shut, *want;
} tj_nested[] = {
    {"(", "1", ")", "1"},
    {"-", "1", "", NULL},
    {"not ", "1", "", NULL},
    {"1 if 0 else ", "2", "", "2"},
    {"[", "1", "]", NULL},
    {"{1:", "2", "}", NULL},
    {"m(", "1", ")", NULL},
    {"x[", "0", "]", NULL},
    {"1|default(", "1", ")", "1"},
    {"%}{% if 1 ", "%}x{% if 1 %}{% endif ", "%}{% endif ", "x"},
    {"%}{% for a in [1] ", "%}x{% if 1 %}{% endif ", "%}{% endfor ", "x"},
    {"%}{% set a ", "%}{% if 1 %}{% endif ", "%}{% endset ", ""},
    {"%}{% macro a() ", "%}{% if 1 %}{% endif ", "%}{% endmacro ", ""},
    {"%}{% filter trim ", "%}x{% if 1 %}{% endif ", "%}{% endfilter ", "x"},
    {"%}{% call caller() ", "%}{% if 1 %}{% endif ", "%}{% endcall ", NULL},
    {"%}{% for a in [1] if a ", "%}x{% if 1 %}{% endif ", "%}{% endfor ", "x"},
    {"%}{% generation ", "%}x{% if 1 %}{% endif ", "%}{% endgeneration ", "x"},
};

static void tj_nest(size_t i, int n, str *got) {
    const bool statement = tj_nested[i].open[0] == '%';
    str        text = {0};
    val_env    env;
    str_put(&text, statement ? "{% if 1 %}{% endif " : "{{ ");
    for (int k = 0; k < n; k++) str_put(&text, tj_nested[i].open);
    str_put(&text, tj_nested[i].middle);
    for (int k = 0; k < n; k++) str_put(&text, tj_nested[i].shut);
    str_put(&text, statement ? "%}" : " }}");
    val_env_init(&env, 0, 0, NULL);
    tj_render("FILE", str_bytes(&text), val_dict_new(&env), got);
    val_env_drop(&env);
    str_drop(&text);
}

static void *tj_small_stack(void *arg) {
    str got = {0};
    (void)arg;
    for (size_t i = 0; i < sizeof tj_nested / sizeof *tj_nested; i++) {
        tj_nest(i, JINJA_LEVELS - 10, &got);
        if (tj_nested[i].want) EQ_STR(got.p, tj_nested[i].want);
        else CHECKF(!strstr(got.p, "1000 levels"), "%s: %.200s", tj_nested[i].open, got.p);
        tj_nest(i, JINJA_LEVELS + 10, &got);
        CHECKF(strncmp(got.p, "!3 FILE:1: ", 11) == 0 && strstr(got.p, "1000 levels"), "%s: %.200s", tj_nested[i].open, got.p);
    }
    val_env env;
    val_env_init(&env, 0, 0, NULL);
    tj_render("FILE", bytes_of("{% macro a(n) %}{{ a(n - 1) if n else 'end' }}{% endmacro %}{{ a(199) }}"),
        val_dict_new(&env), &got);
    EQ_STR(got.p, "end");
    val_env_drop(&env);
    str_drop(&got);
    return NULL;
}

static void t_jinja_nesting(void) {
    pthread_attr_t a;
    pthread_t      t;
    pthread_attr_init(&a);
    pthread_attr_setstacksize(&a, 160 << 10);
    if (CHECK(pthread_create(&t, &a, tj_small_stack, NULL) == 0)) pthread_join(t, NULL);
    pthread_attr_destroy(&a);
}

/* What is rendered, with the parts of messages in angle brackets. */
static void tj_origins(const char *text, const char *json, str *out) {
    val_env    env;
    err_t      e = {0};
    jinja_text got;
    size_t     at = 0;
    val_env_init(&env, 0, 0, NULL);
    jinja    *t = jinja_parse(bytes_of(text), "t", &e);
    const val vars = val_json_read(&env, bytes_of(json), VAL_JSON_INPUT);
    str_clear(out);
    if (CHECKF(t && jinja_render(t, vars, &got, &e), "%s", e.text)) {
        for (size_t i = 0; i < got.from.n; at = got.from.at[i++].end)
            str_fmt(out, got.from.at[i].input ? "<%.*s>" : "%.*s", (int)(got.from.at[i].end - at), got.text.p + at);
        EQ_INT(at, got.text.n);
        jinja_text_drop(&got);
    }
    jinja_free(t);
    val_env_drop(&env);
}

static void t_jinja_origins(void) {
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"[{{ x }}]", "[<ab c>]"},
        {"{{ x ~ '|' ~ x }}", "<ab c>|<ab c>"},
        {"{{ x|upper }}{{ x[1:] }}{{ x|length }}", "<AB Cb c>4"},
        {"{% set y %}({{ x }}){% endset %}{{ y }}", "(<ab c>)"},
        {"{% macro m(a) %}-{{ a }}-{{ caller() }}{% endmacro %}{% call m(x) %}!{{ x }}!{% endcall %}", "-<ab c>-!<ab c>!"},
        {"{{ x.split()|join('+') }}", "<ab>+<c>"},
        {"{% filter upper %}a{{ x }}{% endfilter %}", "A<AB C>"},
        {"{% set n = namespace(s='') %}{% for c in x %}{% set n.s = n.s + c + '.' %}{% endfor %}{{ n.s }}",
         "<a>.<b>.< >.<c>."},
        {"{{ [x]|tojson }}", "[\"<ab c>\"]"},
        {"{{ {'k': x} }}", "{'k': '<ab c>'}"},
        {"{{ x|replace('b', '{{') }}", "<a>{{< c>"},
        {"{% for k in d %}{{ k }}={{ d[k] }}{% endfor %}", "<k>=<{{ v }}>"},
        {"{{ '%s-%s'|format(x, 1) }}", "<ab c>-1"},
        {"{{ 'a' if x == 'ab c' }}", "a"},
    };
    str got = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tj_origins(rows[i].text, "{\"x\": \"ab c\", \"d\": {\"k\": \"{{ v }}\"}}", &got);
        EQ_STR(got.p, rows[i].want);
    }
    str_drop(&got);
}

/* A rendering changes neither the variables nor the template, and bytes that are no UTF-8 go through. */
static void t_jinja_again(void) {
    static const char text[] = "{% set _ = l.append(1) %}{% set _ = d.update({'a': 2}) %}{{ l }}{{ d }}"
                               "{% set s = 'x' %}{% set s = s ~ 'y' %}{{ s }}{{ b ~ '\xfe' }}\xff";
    static const char want[] = "[0, 1]{'a': 2}xy\xc3(\xfe\xff";
    val_env           env;
    err_t             e = {0};
    val_env_init(&env, 0, 0, NULL);
    const val vars = val_json_read(&env, bytes_of("{\"l\": [0], \"d\": {\"a\": 1}, \"b\": \"\xc3(\"}"), VAL_JSON_INPUT);
    jinja    *t = jinja_parse(bytes_of(text), "t", &e);
    for (int i = 0; t && i < 3; i++) {
        jinja_text got;
        if (!CHECKF(jinja_render(t, vars, &got, &e), "%s", e.text)) break;
        EQ_STR(got.text.p, want);
        jinja_text_drop(&got);
    }
    CHECKF(t != NULL, "%s", e.text);
    EQ_INT(val_get(vars, "l").list->n, 1);
    EQ_INT(val_get(val_get(vars, "d"), "a").i, 1);
    jinja_free(t);
    val_env_drop(&env);
}

static const t_case t_jinja_cases[] = {
    {"jinja answers",
     "small templates of each statement and expression render as in Jinja2, or fail where it fails", t_jinja_answers},
    {"jinja errors", "a wrong template ends with its file and line, what was found and what was expected", t_jinja_errors},
    {"jinja limits", "a template that spends steps, memory, text, calls or levels ends with exit 3", t_jinja_limits},
    {"jinja nesting",
     "a thousand levels of each statement and bracket, and 200 calls, need no stack; more are refused", t_jinja_nesting},
    {"jinja origins", "each byte of a rendering is a message's or the template's, whatever it went through", t_jinja_origins},
    {"jinja again", "a rendering changes neither variables nor template, and bytes that are no UTF-8 go through", t_jinja_again},
};
static const t_suite t_jinja_suite = SUITE(t_jinja_cases);
