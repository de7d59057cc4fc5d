/* [schema]: documents and shapes. An evaluator that walks the shapes decides whether a value satisfies a schema; the
 * verdicts come from the JSON Schema specification and from python3-jsonschema (data/golden/schema.jsonl, made by
 * gen/schema_cases.py). */
#include "program.h"
#include "check.h"

typedef struct {
    schema_doc *doc;
    err_t       e;
} ts_doc;

static bool ts_is(ts_doc *d, schema_conj c, val v);

static char *ts_text(val v, str *out) {
    str_clear(out);
    str_add(out, "", 0);
    val_utf8(v.s, out);
    return out->p;
}

/* A number as JSON text. */
static void ts_number(val v, str *out) {
    val_env env;
    str_clear(out);
    str_add(out, "", 0);
    if (v.kind == VAL_FLOAT) {
        str_put(out, val_float_repr(v.f).p);
        return;
    }
    val_env_init(&env, 0, 0, NULL);
    val_buf *b = val_buf_new(&env);
    val_put_int(&env, b, v);
    val_utf8(val_buf_str(b), out);
    val_env_drop(&env);
}

/* Equal as JSON Schema says: numbers by value, and a boolean is no number. */
static bool ts_equal(val a, val b) {
    val_env env;
    if ((a.kind == VAL_BOOL) != (b.kind == VAL_BOOL) || a.kind == VAL_LIST || a.kind == VAL_DICT) {
        if (a.kind != b.kind) return false;
        const size_t n = a.kind == VAL_LIST ? a.list->n : a.dict->n;
        bool         same = n == (b.kind == VAL_LIST ? b.list->n : b.dict->n);
        for (size_t i = 0; i < n && same; i++) {
            if (a.kind == VAL_LIST) same = ts_equal(a.list->at[i], b.list->at[i]);
            else {
                const val other = val_dict_get(b.dict, a.dict->at[i].key, &same);
                same = same && ts_equal(a.dict->at[i].value, other);
            }
        }
        return same;
    }
    val_env_init(&env, 0, 0, NULL);
    const bool same = val_eq(&env, a, b);
    val_env_drop(&env);
    return same;
}

static bool ts_array(ts_doc *d, const schema_array *a, const val_list *l) {
    if (l->n < a->min || l->n > a->max) return false;
    for (size_t i = 0; i < l->n; i++) {
        if (!ts_is(d, i < a->n_prefix ? a->prefix[i] : a->rest, l->at[i])) return false;
        for (size_t k = 0; a->unique && k < i; k++)
            if (ts_equal(l->at[i], l->at[k])) return false;
    }
    for (size_t c = 0; c < a->n_contains; c++) {
        uint64_t n = 0;
        for (size_t i = a->contains[c].from; i < l->n; i++) n += ts_is(d, a->contains[c].value, l->at[i]);
        if (n < a->contains[c].min || n > a->contains[c].max) return false;
    }
    return true;
}

/* A member: that of its declared key, or of the only language that has its key. */
static bool ts_member(ts_doc *d, const schema_object *o, bytes key, val v) {
    size_t in = 0;
    bool   ok = false;
    for (size_t i = 0; i < o->n_prop; i++)
        if (bytes_eq(o->prop[i].name, key)) ok = ts_is(d, o->prop[i].value, v), in++;
    for (size_t i = 0; i < o->n_extra; i++)
        if (lang_has(o->extra[i].keys, key)) ok = ts_is(d, o->extra[i].value, v), in++;
    CHECKF(in <= 1, "the key '%.*s' is in %zu parts of an object", (int)key.n, key.p, in);
    return ok;
}

static bool ts_object(ts_doc *d, const schema_object *o, const val_dict *v) {
    str      text = {0};
    bool     ok = v->n >= o->min && v->n <= o->max;
    uint64_t need = 0, *some = mem_new(o->n_some, sizeof *some);
    for (size_t i = 0; i < o->n_prop; i++) need += o->prop[i].required;
    for (size_t i = 0; i < v->n && ok; i++) {
        ts_text(v->at[i].key, &text);
        for (size_t k = 0; k < o->n_prop; k++) need -= o->prop[k].required && bytes_eq(o->prop[k].name, str_bytes(&text));
        ok = ts_member(d, o, str_bytes(&text), v->at[i].value);
        for (size_t k = 0; k < o->n_some; k++)
            some[k] += lang_has(o->some[k].keys, str_bytes(&text)) && ts_is(d, o->some[k].value, v->at[i].value);
    }
    for (size_t k = 0; k < o->n_some; k++) ok = ok && some[k] >= o->some[k].min && some[k] <= o->some[k].max;
    str_drop(&text);
    mem_free(some);
    return ok && !need;
}

static bool ts_string(const schema_shape *s, val v) {
    str text = {0};
    if (!s->string) return false;
    ts_text(v, &text);
    const bool ok = lang_has(s->string, str_bytes(&text));
    str_drop(&text);
    return ok;
}

static bool ts_is_number(const schema_shape *s, val v) {
    str text = {0};
    if (!s->number) return false;
    ts_number(v, &text);
    const bool ok = num_in(s->number, str_bytes(&text));
    str_drop(&text);
    return ok;
}

/* Whether the value satisfies the shape of a conjunction. */
static bool ts_is(ts_doc *d, schema_conj c, val v) {
    const schema_shape *s = d->e.code ? NULL : schema_shape_of(d->doc, c, &d->e);
    if (!s) return false;
    switch (v.kind) {
    case VAL_NONE: return s->null;
    case VAL_BOOL: return v.b ? s->yes : s->no;
    case VAL_STR: return ts_string(s, v);
    case VAL_LIST:
        for (size_t i = 0; i < s->n_array; i++)
            if (ts_array(d, &s->array[i], v.list)) return true;
        return false;
    case VAL_DICT:
        for (size_t i = 0; i < s->n_object; i++)
            if (ts_object(d, &s->object[i], v.dict)) return true;
        return false;
    default: return ts_is_number(s, v);
    }
}

static bool ts_open(ts_doc *d, const char *text, lang_pool *p) {
    *d = (ts_doc){0};
    d->doc = schema_open(bytes_of(text), "s.json", p, &d->e);
    return d->doc;
}

/* One line of the golden file: a schema, values and verdicts. */
static void ts_case(const val_list *line, int at) {
    str        text = {0};
    ts_doc     d;
    lang_pool *p = lang_pool_new(500000);
    ts_open(&d, ts_text(line->at[0], &text), p);
    for (size_t i = 0; i < line->at[1].list->n && !d.e.code; i++) {
        const val_list *one = line->at[1].list->at[i].list;
        const bool      got = ts_is(&d, schema_root(d.doc), one->at[0]);
        CHECKF(d.e.code || got == one->at[1].b, "line %d, value %zu: got %d, want %d\n%s", at, i + 1, got, one->at[1].b, text.p);
    }
    CHECKF(!d.e.code || strstr(d.e.text, "negation") || strstr(d.e.text, "refers to itself"), "line %d: %s\n%s", at,
           d.e.text, text.p);
    schema_free(d.doc);
    lang_pool_free(p);
    str_drop(&text);
}

static void t_schema_verdicts(void) {
    val_env env;
    int     line = 0;
    char   *text = t_read("tests/data/golden/schema.jsonl", NULL), *rest = text;
    if (!CHECK(text != NULL)) return;
    val_env_init(&env, 0, 0, NULL);
    for (char *one; (one = strsep(&rest, "\n")) && *one;) ts_case(val_json_read(&env, bytes_of(one), 0).list, ++line);
    CHECK(line >= 200);
    val_env_drop(&env);
    mem_free(text);
}

/* Schemas with a value: '+' in front of one that satisfies the schema, '-' of one that does not. */
static const struct {
    const char *schema, *value;
} ts_values[] = {
    /* references */
    {"{'$ref':'#/$defs/a~1b%25','$defs':{'a/b%':{'type':'null'}}}", "+null"},
    {"{'$ref':'#/$defs/a~1b%25','$defs':{'a/b%':{'type':'null'}}}", "-1"},
    {"{'$ref':'#x','$defs':{'q':{'$anchor':'x','const':5}}}", "+5.0"},
    {"{'$ref':'#x','$defs':{'q':{'$anchor':'x','const':5}}}", "-6"},
    {"{'$id':'http://a.b/c/d.json','$ref':'../e?q#/$defs/z','$defs':{'k':{'$id':'/e?q','$defs':{'z':{'enum':[1]}}}}}", "+1"},
    {"{'$id':'http://a.b/c/d.json','$ref':'../e?q#/$defs/z','$defs':{'k':{'$id':'/e?q','$defs':{'z':{'enum':[1]}}}}}", "-2"},
    {"{'properties':{'next':{'$ref':'#'}},'required':['v']}", "+{'v':1,'next':{'v':2,'next':{'v':3}}}"},
    {"{'properties':{'next':{'$ref':'#'}},'required':['v']}", "-{'v':1,'next':{'v':2,'next':{}}}"},
    {"{'$ref':'#/unknown/0','unknown':[{'type':'string'}]}", "+'a'"},
    {"{'$ref':'#/unknown/0','unknown':[{'type':'string'}]}", "-1"},
    {"{'$dynamicRef':'#d','$defs':{'k':{'$dynamicAnchor':'d','type':'null'}}}", "+null"},
    {"{'$ref':'#/$defs/t','$defs':{'t':true}}", "+1"},
    {"{'$ref':'#/$defs/s','maxLength':2,'$defs':{'s':{'type':'string'}}}", "-'abc'"},
    {"{'$schema':'http://json-schema.org/draft-07/schema#','$ref':'#/definitions/s','maxLength':2,"
     "'definitions':{'s':{'type':'string'}}}", "+'abc'"},
    {"{'$ref':'http://json-schema.org/draft-07/schema#'}", "+{'if':{'type':'string'},'items':[true,{'enum':[1,1]}]}"},
    {"{'$ref':'http://json-schema.org/draft-07/schema#'}", "-{'properties':{'a':{'type':'text'}}}"},
    {"{'items':{'$ref':'https://json-schema.org/draft-06/schema#/definitions/nonNegativeInteger'}}", "+[0,3]"},
    {"{'items':{'$ref':'https://json-schema.org/draft-06/schema#/definitions/nonNegativeInteger'}}", "-[-1]"},
    {"{'$ref':'http://json-schema.org/draft-06/schema'}", "+{'then':5}"}, {"{'$ref':'http://json-schema.org/draft-07/schema'}", "-{'then':5}"},
    {"{'$ref':'http://json-schema.org/draft-04/schema#'}", "-{'exclusiveMaximum':true}"},
    {"{'$ref':'http://json-schema.org/draft-04/schema#'}", "+{'maximum':1,'exclusiveMaximum':true}"},
    {"{'$defs':{'properties':{'type':'null'},'$ref':{'const':1},'enum':{},'note':'x'},'properties':{'a':{'$ref':'#/$defs/properties'},"
     "'b':{'$ref':'#/$defs/$ref'}}}", "+{'a':null,'b':1}"},
    {"{'$schema':'http://json-schema.org/draft-07/schema#','definitions':{'properties':{'type':'null'},'$ref':{'const':1}},"
     "'properties':{'a':{'$ref':'#/definitions/properties'},'$ref':{'$ref':'#/definitions/$ref'}}}", "-{'$ref':2}"},
    /* older spellings */
    {"{'minimum':3,'exclusiveMinimum':true}", "-3"}, {"{'minimum':3,'exclusiveMinimum':true}", "+3.5"},
    {"{'maximum':3,'exclusiveMaximum':false}", "+3"},
    {"{'items':[{'type':'null'}],'additionalItems':{'type':'string'}}", "+[null,'a']"},
    {"{'items':[{'type':'null'}],'additionalItems':{'type':'string'}}", "-[null,1]"},
    {"{'items':[{'type':'null'}],'additionalItems':false}", "-[null,1]"},
    {"{'dependencies':{'a':['b'],'c':{'maxProperties':1}}}", "-{'a':1}"},
    {"{'dependencies':{'a':['b'],'c':{'maxProperties':1}}}", "+{'c':1}"},
    {"{'dependencies':{'a':['b'],'c':{'maxProperties':1}}}", "-{'c':1,'d':1}"},
    {"{'$schema':'http://json-schema.org/draft-04/schema#','id':'http://x/y','allOf':[{'$ref':'y#/definitions/a'}],"
     "'definitions':{'a':{'type':'null'}}}", "+null"},
    /* numbers */
    {"{'type':'integer'}", "+1e3"}, {"{'type':'integer'}", "-1e-3"}, {"{'multipleOf':0.01}", "+19.99"},
    {"{'multipleOf':0.01}", "-19.995"}, {"{'const':100}", "+1e2"}, {"{'maximum':1e3}", "+1000.0"},
    {"{'maximum':1e3}", "-1000.5"}, {"{'minimum':-0.0}", "+0"}, {"{'const':9007199254740993}", "-9007199254740992"},
    {"{'const':1}", "-true"}, {"{'enum':[false]}", "-0"},
    /* formats */
    {"{'format':'date'}", "+'2024-02-29'"}, {"{'format':'date'}", "-'2023-02-29'"},
    {"{'format':'date'}", "-'1900-02-29'"}, {"{'format':'date'}", "+'2000-02-29'"},
    {"{'format':'date'}", "-'2024-04-31'"}, {"{'format':'date'}", "+5"},
    {"{'format':'date-time'}", "+'1990-12-31T15:59:50.123-08:00'"},
    {"{'format':'date-time'}", "-'1990-12-31T24:00:00Z'"}, {"{'format':'time'}", "+'23:59:60Z'"},
    {"{'format':'time'}", "-'22:59:60Z'"},
    {"{'format':'duration'}", "+'P4Y2M3DT5M'"}, {"{'format':'duration'}", "-'P'"},
    {"{'format':'duration'}", "-'P2D1Y'"}, {"{'format':'email'}", "+'joe.bloggs@example.com'"},
    {"{'format':'email'}", "-'.joe@example.com'"}, {"{'format':'email'}", "-'2962'"},
    {"{'format':'hostname'}", "+'a-b.example'"}, {"{'format':'hostname'}", "-'-a.example'"},
    {"{'format':'hostname'}", "-'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'"},
    {"{'format':'ipv4'}", "+'192.168.0.1'"}, {"{'format':'ipv4'}", "-'256.0.0.1'"},
    {"{'format':'ipv4'}", "-'01.2.3.4'"}, {"{'format':'ipv6'}", "+'::ffff:192.168.0.1'"},
    {"{'format':'ipv6'}", "+'1::8'"}, {"{'format':'ipv6'}", "-'1::2::3'"}, {"{'format':'ipv6'}", "-'1:2:3:4:5:6:7:8:9'"},
    {"{'format':'uri'}", "+'http://u@e.x:80/a/b?c=d#e'"}, {"{'format':'uri'}", "+'urn:a:b'"},
    {"{'format':'uri'}", "-'/a/b'"}, {"{'format':'uri'}", "-'http://a b'"},
    {"{'format':'uri-reference'}", "+'../a?b'"}, {"{'format':'uri-reference'}", "-'\\\\a'"},
    {"{'format':'uuid'}", "+'2EB8AA08-aa98-11ea-b4aa-73b441d16380'"},
    {"{'format':'uuid'}", "-'2eb8aa08aa9811eab4aa73b441d16380'"}, {"{'format':'json-pointer'}", "+'/a~0b/~1'"},
    {"{'format':'json-pointer'}", "-'/a~2'"},
    {"{'format':'relative-json-pointer'}", "+'1/a'"}, {"{'format':'relative-json-pointer'}", "-'/a'"},
    {"{'format':'nosuch'}", "+'x'"}, {"{'format':'regex'}", "+'('"},
    /* objects and arrays whose parts meet */
    {"{'properties':{'a':{}},'patternProperties':{'^b':{'type':'null'}},'additionalProperties':false}",
     "+{'a':1,'bx':null}"},
     {"{'properties':{'a':{}},'patternProperties':{'^b':{'type':'null'}},'additionalProperties':false}", "-{'c':1}"},
    {"{'patternProperties':{'^a':{'minimum':2},'b$':{'maximum':5}},'required':['ab']}", "-{'ab':7}"},
    {"{'patternProperties':{'^a':{'minimum':2},'b$':{'maximum':5}},'required':['ab']}", "+{'ab':4,'a':9}"},
    {"{'not':{'properties':{'a':{'type':'null'}},'required':['a']}}", "+{}"},
    {"{'not':{'properties':{'a':{'type':'null'}},'required':['a']}}", "-{'a':null}"},
    {"{'not':{'additionalProperties':{'type':'null'}}}", "+{'x':1,'y':null}"},
    {"{'not':{'additionalProperties':{'type':'null'}}}", "-{'x':null}"},
    {"{'not':{'items':{'type':'null'}}}", "+[null,1]"}, {"{'not':{'contains':{'type':'null'}}}", "-[null]"},
    {"{'contains':{'type':'null'},'minContains':0,'maxContains':1}", "-[null,null]"},
    {"{'const':{'a':[1,{'b':null}]}}", "+{'a':[1.0,{'b':null}]}"},
    {"{'const':{'a':[1,{'b':null}]}}", "-{'a':[1,{'b':null}],'c':1}"}, {"{'enum':[[],{}]}", "-[null]"},
    {"{'not':{'enum':[[1,2]]}}", "+[1]"}, {"{'not':{'enum':[[1,2]]}}", "-[1,2]"},
    {"{'uniqueItems':true}", "-[[1],[1.0]]"}, {"{'uniqueItems':true}", "+[1,true]"},
    {"{'not':{'uniqueItems':true},'uniqueItems':true}", "-[1]"},
    {"{'propertyNames':{'enum':['x','y']},'minProperties':2}", "+{'y':1,'x':2}"},
    {"{'propertyNames':{'enum':['x','y']},'minProperties':2}", "-{'x':2}"}, {"{'propertyNames':false}", "+{}"},
    {"{'unevaluatedProperties':false,'anyOf':[{'properties':{'a':true},'required':['a']},"
     "{'properties':{'b':true},'required':['b']}]}", "+{'a':1,'b':2}"},
    {"{'unevaluatedProperties':false,'anyOf':[{'properties':{'a':true},'required':['a']},"
     "{'properties':{'b':true,'c':true},'required':['b']}]}", "-{'a':1,'c':2}"},
};

/* The text with its single quotes as double ones. */
static char *ts_quotes(const char *text) {
    char *p = str_dup(text);
    for (char *c = p; *c; c++)
        if (*c == '\'') *c = '"';
    return p;
}

static void t_schema_values(void) {
    for (size_t i = 0; i < sizeof ts_values / sizeof *ts_values; i++) {
        char      *schema = ts_quotes(ts_values[i].schema), *value = ts_quotes(ts_values[i].value + 1);
        lang_pool *p = lang_pool_new(500000);
        ts_doc     d;
        val_env    env;
        val_env_init(&env, 0, 0, NULL);
        const bool open = ts_open(&d, schema, p),
                   got = open && ts_is(&d, schema_root(d.doc), val_json_read(&env, bytes_of(value), 0));
        CHECKF(!d.e.code && got == (ts_values[i].value[0] == '+'), "%s: %s %s", schema, ts_values[i].value, d.e.text);
        schema_free(d.doc);
        val_env_drop(&env);
        lang_pool_free(p);
        mem_free(schema), mem_free(value);
    }
}

/* Schemas that are refused: the code, and words of the message. */
static const struct {
    const char *schema;
    int         code;
    const char *words;
} ts_errors[] = {
    {"{'type':5}", 2, "s.json: /type: found int, expected a type or a list of types"},
    {"{'properties':{'a/b':{'minLength':-1}}}", 2, "/properties/a~1b/minLength: found int, expected a whole number from 0"},
    {"{'type':'strin'}", 2, "/type: found 'strin', expected null, boolean"},
    {"{'anyOf':[]}", 2, "/anyOf: found list, expected a list of schemas with one at least"},
    {"{'items':5}", 2, "/items: found int"},
    {"{'$ref':'#/$defs/a','$defs':{'a':'x'}}", 2, "/$ref: the reference '#/$defs/a' leads to a value of the type str, expected a schema"},
    {"{'$ref':'http://json-schema.org/draft-03/schema'}", 2, "leads out of this document"}, {"{'$defs':[]}", 2, "/$defs: found list"},
    {"{'required':['a',1]}", 2, "/required: found list, expected a list of strings"},
    {"{'multipleOf':0}", 2, "/multipleOf: found a number of at most 0"},
    {"[1]", 2, "s.json: found list, expected a schema"}, {"{'a':", 2, "s.json: JSON, byte 6"},
    {"{'a':1,'a':2}", 2, "stands twice"}, {"\xff", 2, "not valid UTF-8"},
    {"{'$ref':'#/x'}", 2, "/$ref: the reference '#/x' leads to nothing"},
    {"{'$ref':'#x'}", 2, "/$ref: the reference '#x' names no anchor"},
    {"{'$ref':'http://x/y'}", 2,
     "/$ref: the reference 'http://x/y' leads out of this document, and nothing is fetched"},
     {"{'allOf':[{'$ref':'#/x'}],'x':3}", 2, "/allOf/0/$ref: the reference '#/x' leads to a value of the type int"},
    {"{'$ref':'#'}", 2, "refers to itself"},
    {"{'allOf':[{'$ref':'#/$defs/a'}],'$defs':{'a':{'anyOf':[{'$ref':'#'},true]}}}", 2, "refers to itself"},
    {"{'$ref':'#/$defs/a','$defs':{'a':{'$ref':'#/$defs/b'},'b':{'not':{'$ref':'#/$defs/a'}}}}", 2, "lead back to this schema"},
    {"{'pattern':'a(?=b)*'}", 2, "/pattern: byte"}, {"{'pattern':'(a)\\\\1'}", 2, "/pattern: byte"},
    {"{'patternProperties':{'[':{}}}", 2, "/patternProperties: byte"},
    {"{'items':{'not':{'uniqueItems':true}}}", 2, "/items/not/uniqueItems: its negation is not supported"},
    {"{'const':1.23456789012345678901}", 2, "/const: a number with more digits"},
    {"{'minimum':1e999}", 2, "/minimum: a number with more digits"},
    {"{'$defs':{'a':{'$dynamicAnchor':'x'},'b':{'$id':'q','$dynamicAnchor':'x'}},'$dynamicRef':'#x'}", 2, "/$dynamicRef"},
};

static void t_schema_errors(void) {
    for (size_t i = 0; i < sizeof ts_errors / sizeof *ts_errors; i++) {
        char      *schema = ts_quotes(ts_errors[i].schema);
        lang_pool *p = lang_pool_new(500000);
        ts_doc     d;
        val_env    env;
        val_env_init(&env, 0, 0, NULL);
        if (ts_open(&d, schema, p)) ts_is(&d, schema_root(d.doc), val_json_read(&env, bytes_of("[[1]]"), 0));
        CHECKF(d.e.code == ts_errors[i].code && strstr(d.e.text, ts_errors[i].words) && !strchr(d.e.text, '\n'),
               "%s: %d %s", schema, d.e.code, d.e.text);
        schema_free(d.doc);
        val_env_drop(&env);
        lang_pool_free(p);
        mem_free(schema);
    }
}

/* Times a text is repeated between two others, or n times a beginning and n times an end. */
static char *ts_repeat(const char *open, size_t n, const char *middle, const char *close) {
    str s = {0};
    for (size_t i = 0; i < n; i++) str_put(&s, open);
    str_put(&s, middle);
    for (size_t i = 0; i < n; i++) str_put(&s, close);
    return s.p;
}

/* Opens the schema and works out the shape of its root, within a second. */
static void ts_hostile(char *schema, int code, const char *words) {
    lang_pool   *p = lang_pool_new(500000);
    ts_doc       d;
    const double from = t_cpu();
    for (char *c = schema; *c; c++)
        if (*c == '\'') *c = '"';
    if (ts_open(&d, schema, p)) schema_shape_of(d.doc, schema_root(d.doc), &d.e);
    CHECKF(d.e.code == code && strstr(d.e.text, words), "%.60s: %d %s", schema, d.e.code, d.e.text);
    CHECKF(t_cpu() - from < 10, "%.60s: %.1f s", schema, t_cpu() - from);
    schema_free(d.doc);
    lang_pool_free(p);
    mem_free(schema);
}

static void t_schema_limits(void) {
    ts_hostile(ts_repeat("{'not':", 100000, "true", "}"), EXIT_RESOURCE, "levels");
    ts_hostile(ts_repeat("{'allOf':[", 400, "true", "]}"), 0, "");
    ts_hostile(ts_repeat("{'properties':{'a':", 450, "true", "}}"), 0, "");
    ts_hostile(ts_repeat("{'minItems':18446744073709551615,'maxLength':1000000000,'minProperties':1e300,'items':",
                         300, "true", "}"), 0, "");
    ts_hostile(ts_repeat("{'not':{'allOf':[{'maxProperties':1},{'minProperties':1},{'required':['a']},", 200, "true",
                         "]}}"), 0, "");
    str s = {0};
    str_put(&s, "{'allOf':[");
    for (int i = 0; i < 40; i++)
        str_fmt(&s, "%s{'oneOf':[{'required':['a%d']},{'required':['b%d']},{'required':['c%d']}]}", i ? "," : "", i, i, i);
    str_put(&s, "]}");
    ts_hostile(s.p, EXIT_RESOURCE, "");
    s = (str){0};
    str_put(&s, "{'$defs':{'a0':true");
    for (int i = 1; i < 8000; i++) str_fmt(&s, ",'a%d':{'allOf':[{'$ref':'#/$defs/a%d'},{'maxLength':%d}]}", i, i - 1, i);
    str_put(&s, "},'$ref':'#/$defs/a7999'}");
    ts_hostile(s.p, 0, "");
    s = (str){0};
    str_put(&s, "{'enum':[");
    for (int i = 0; i < 20000; i++) str_fmt(&s, "%s'word%d'", i ? "," : "", i);
    str_put(&s, "]}");
    ts_hostile(s.p, 0, "");
}

/* Order of keys: properties as they stand, then required ones that are not declared; conjunctions in the order of
 * first appearance. */
static void t_schema_order(void) {
    char      *text =
        ts_quotes("{'allOf':[{'properties':{'z':true,'b':true}}],'required':['q','b'],"
                  "'properties':{'b':true,'a':{'type':'null'}},"
                  "'maxProperties':3,'unknown':1,'items':{'nope':2}}");
    lang_pool *p = lang_pool_new(500000);
    ts_doc     d;
    str        notes = {0}, names = {0};
    if (CHECK(ts_open(&d, text, p))) {
        const schema_shape *s = schema_shape_of(d.doc, schema_root(d.doc), &d.e);
        if (CHECK(s && s->n_object == 1)) {
            for (size_t i = 0; i < s->object[0].n_prop; i++)
                str_fmt(&names, "%.*s%s ", (int)s->object[0].prop[i].name.n, s->object[0].prop[i].name.p,
                        s->object[0].prop[i].required ? "!" : "");
            EQ_STR(names.p, "z b! a q! ");
            EQ_INT(s->object[0].min, 2);
            EQ_INT(s->object[0].max, 3);
            EQ_INT(s->object[0].n_extra, 1);
        }
        schema_note_put(d.doc, &notes);
        EQ_STR(notes.p,
               "#: the keyword 'unknown' is not known and has no effect\n"
               "/items: the keyword 'nope' is not known and has no effect\n");
    }
    str_drop(&notes), str_drop(&names);
    schema_free(d.doc);
    lang_pool_free(p);
    mem_free(text);
}

static const t_case t_schema_cases[] = {
    {"schema verdicts", "random schemas of all keywords, and values: the verdicts are those of python3-jsonschema",
     t_schema_verdicts},
    {"schema values",
     "references, older spellings, numbers, formats, keywords that meet: "
     "values that satisfy a schema do, others do not", t_schema_values},
    {"schema errors", "what is wrong or cannot be held is one line with file and JSON pointer", t_schema_errors},
    {"schema limits", "deep, long and exploding schemas answer or end with exit 3", t_schema_limits},
    {"schema order", "keys come in the order of the schema; unknown keywords are notes", t_schema_order},
};
static const t_suite t_schema_suite = SUITE(t_schema_cases);
