/* [json]: any JSON value or object, the values of schemas. */
#include "program.h"
#include "check.h"
#include "shortest.h"

typedef struct {
    gram       *g;
    lang_pool  *langs;
    schema_doc *s;
    err_t       e;
    bool        ok;
    uint64_t    random;
} tn_doc;

static tn_doc tn_open(const char *schema, bool object, const json_form *f) {
    tn_doc        d = {.g = gram_new(), .langs = lang_pool_new(1 << 20), .random = 1};
    const int32_t root = gram_rule(d.g, "root"), from = gram_begin(d.g, root), to = gram_end(d.g, root);
    if (!schema) d.ok = json_any(d.g, from, object, f, to);
    else d.s = schema_open(bytes_of(schema), "S", d.langs, &d.e);
    if (d.s) d.ok = json_build(d.g, from, d.s, f, to, &d.e);
    d.ok = d.ok && gram_seal(d.g, root, &d.e);
    return d;
}

static void tn_close(tn_doc *d) {
    gram_free(d->g);
    schema_free(d->s);
    lang_pool_free(d->langs);
}

static bool tn_takes(tn_doc *d, const char *text) {
    size_t at;
    err_t  e = {0};
    const bool got = gram_match(d->g, bytes_of(text), &at, &e);
    CHECKF(!e.code, "%s: %s", text, e.text);
    return got;
}

static const json_form tn_loose = {.loose = true}, tn_made = {.space = 2};

/* Texts of any kind: whether they are JSON, and whether generation may write them. */
static const struct {
    const char *text;
    bool        json, made;
} tn_any[] = {
    {"null", 1, 1}, {"true", 1, 1}, {"false", 1, 1}, {"nul", 0, 0}, {"True", 0, 0}, {"nulll", 0, 0}, {"", 0, 0},
    {" ", 0, 0}, {" null ", 1, 0}, {"\t\r\n0\n", 1, 0}, {"\fnull", 0, 0}, {"\xc2\xa0null", 0, 0},
    {"0", 1, 1}, {"-0", 1, 1}, {"-", 0, 0}, {"00", 0, 0}, {"01", 0, 0}, {"10", 1, 1}, {"1.0", 1, 1}, {"1.", 0, 0},
    {".5", 0, 0}, {"-.5", 0, 0}, {"+1", 0, 0}, {"1e5", 1, 1}, {"1E+5", 1, 1}, {"1e-05", 1, 1}, {"1e", 0, 0},
    {"1e+", 0, 0}, {"1.5e3", 1, 1}, {"1.e3", 0, 0}, {"0e1", 1, 1}, {"0x1", 0, 0}, {"1 2", 0, 0}, {"NaN", 0, 0},
    {"Infinity", 0, 0}, {"-Infinity", 0, 0}, {"123456789012345678", 1, 1}, {"1234567890123456789", 1, 0}, {"-123456789012345678", 1, 1},
    {"1234567890123456.7", 1, 1}, {"12345678901234567.8", 1, 0}, {"0.12345678901234567", 1, 1}, {"0.123456789012345678", 1, 0},
    {"12.345678901234567", 1, 1}, {"12.3456789012345678", 1, 0}, {"1e289", 1, 1}, {"1e290", 1, 0}, {"1e-019", 1, 1},
    {"1e0019", 1, 0}, {"-1.5E+199", 1, 1}, {"1e300", 1, 0}, {"1e99", 1, 1}, {"1e1000", 1, 0}, {"--1", 0, 0}, {"1-1", 0, 0},
    {"\"\"", 1, 1}, {"\"a\"", 1, 1}, {"\"a", 0, 0}, {"a", 0, 0}, {"'a'", 0, 0}, {"\"\\\"\"", 1, 1}, {"\"\\\"", 0, 0},
    {"\"\\/\\b\\f\\n\\r\\t\\\\\"", 1, 1}, {"\"\\a\"", 0, 0}, {"\"\\u00e9\"", 1, 1}, {"\"\\u00E9\"", 1, 1},
    {"\"\\u00e\"", 0, 0}, {"\"\\U0041\"", 0, 0}, {"\"\\ud83d\\ude00\"", 1, 1}, {"\"\\uD83D\\uDE00\"", 1, 1},
    {"\"\\ud83d\"", 1, 0}, {"\"\\ude00\"", 1, 0}, {"\"\\ud83dx\"", 1, 0}, {"\"\\ud83d\\u0041\"", 1, 0},
    {"\"\xf0\x9f\x98\x80\"", 1, 1}, {"\"\xed\xa0\xbd\"", 0, 0}, {"\"\xc0\xaf\"", 0, 0}, {"\"\xff\"", 0, 0},
    {"\"\xe9\"", 0, 0}, {"\"\n\"", 0, 0}, {"\"\t\"", 0, 0}, {"\"\x1f\"", 0, 0}, {"\"\x7f\"", 1, 1}, {"\"a\\", 0, 0},
    {"\"\xe2\x80\xa8\"", 1, 1}, {"\"a\" \"b\"", 0, 0}, {"[]", 1, 1}, {"[ ]", 1, 0}, {"[1]", 1, 1}, {"[1,2]", 1, 1},
    {"[1, 2]", 1, 1}, {"[1,  2]", 1, 0}, {"[1 ,2]", 1, 0}, {"[1,]", 0, 0}, {"[,1]", 0, 0}, {"[1 2]", 0, 0},
    {"[", 0, 0}, {"]", 0, 0}, {"[1", 0, 0}, {"[1}", 0, 0}, {"[[]]", 1, 1}, {"[[[[[]]]]]", 1, 1},
    {"[\n  1,\n  2\n]", 1, 1}, {"[\n]", 1, 0}, {"[\r\n1]", 1, 0}, {"[\t1]", 1, 0}, {"[ 1]", 1, 0}, {"[1 ]", 1, 0},
    {"{}", 1, 1}, {"{ }", 1, 0}, {"{\n}", 1, 0}, {"{\"a\":1}", 1, 1}, {"{\"a\": 1}", 1, 1}, {"{\"a\":\n1}", 1, 0},
    {"{\"a\" :1}", 1, 0}, {"{\"a\":1,\"b\":[]}", 1, 1}, {"{\"a\":1,}", 0, 0}, {"{,}", 0, 0}, {"{\"a\"}", 0, 0},
    {"{\"a\":}", 0, 0}, {"{a:1}", 0, 0}, {"{1:1}", 0, 0}, {"{\"a\":1 \"b\":2}", 0, 0}, {"{\"a\":1", 0, 0},
    {"{\"a\":1]", 0, 0}, {"{\"a\":1}}", 0, 0}, {"{\"a\":{\"b\":{\"c\":null}}}", 1, 1}, {"{\"\":0}", 1, 1},
    {"{\n  \"a\": {\n    \"b\": [\n      1\n    ]\n  }\n}", 1, 1}, {"{\"a\":1,\n\"b\":2}", 1, 1},
    {"{\"a\":1, \n\"b\":2}", 1, 0}, {"{\n\n\"a\":1}", 1, 0}, {"{\"a\":1}\n", 1, 0}, {"// a\n1", 0, 0}, {"\xef\xbb\xbf" "1", 0, 0},
};

static void t_json_any(void) {
    tn_doc loose = tn_open(NULL, false, &tn_loose), made = tn_open(NULL, false, &tn_made),
           object = tn_open(NULL, true, &tn_loose);
    CHECKF(loose.ok && made.ok && object.ok, "%s", loose.e.text);
    for (size_t i = 0; loose.ok && i < sizeof tn_any / sizeof *tn_any; i++) {
        const char *text = tn_any[i].text;
        CHECKF(tn_takes(&loose, text) == tn_any[i].json, "as JSON: %s", text);
        CHECKF(tn_takes(&made, text) == tn_any[i].made, "as an answer: %s", text);
        CHECKF(tn_takes(&object, text) == (tn_any[i].json && strchr(text, '{') && text[0] == '{'), "as an object: %s", text);
    }
    tn_close(&loose), tn_close(&made), tn_close(&object);
}

/* The blanks that generation may write, by its three forms. */
static const struct {
    const char *text;
    bool        space[3];
} tn_spaces[] = {
    {"{\"a\":[1,2]}", {1, 1, 1}}, {"{\"a\": [1, 2]}", {0, 1, 1}}, {"{\"a\":  1}", {0, 0, 0}},
    {"{\n \"a\":1}", {0, 0, 1}}, {"{\"a\":1\n}", {0, 0, 1}}, {"[1,\n  2]", {0, 0, 1}}, {"[\n1\n]", {0, 0, 1}},
    {"[]", {1, 1, 1}}, {"{ }", {0, 0, 0}},
};

static void t_json_space(void) {
    str wide = {0}, over = {0};
    for (int space = 0; space < 3; space++) {
        tn_doc d = tn_open(NULL, false, &(json_form){.space = space});
        for (size_t i = 0; CHECK(d.ok) && i < sizeof tn_spaces / sizeof *tn_spaces; i++)
            CHECKF(tn_takes(&d, tn_spaces[i].text) == tn_spaces[i].space[space], "space %d: %s", space, tn_spaces[i].text);
        str_clear(&wide), str_clear(&over);
        str_fmt(&wide, "[\n%64s1]", ""), str_fmt(&over, "[\n%65s1]", "");
        CHECK(tn_takes(&d, wide.p) == (space == 2));
        CHECK(!tn_takes(&d, over.p));
        tn_close(&d);
    }
    str_drop(&wide), str_drop(&over);
}

/* 100,000 brackets inside each other need no stack. */
static void t_json_nesting(void) {
    enum { DEEP = 100000 };
    tn_doc d = tn_open(NULL, false, &tn_loose);
    char  *text = mem_new(2 * DEEP + 1, 1);
    memset(text, '[', DEEP);
    CHECK(d.ok && !tn_takes(&d, text));
    memset(text + DEEP, ']', DEEP);
    CHECK(d.ok && tn_takes(&d, text));
    mem_free(text);
    tn_close(&d);
}

/* --- values of schemas --- */

static uint64_t tn_draw(tn_doc *d, uint64_t n) { return (d->random = rng_mix(d->random + 1)) % n; }

/* A byte that may follow, drawn from all of them; an end of something is likelier, the more so at the end of a text.
 * -1: none may. */
static int tn_byte(tn_doc *d, int32_t set, bool late) {
    static const char ends[] = "\"}],";
    int               can[256], n = 0;
    for (int b = 0; b < 256; b++)
        if (gram_step(d->g, set, (uint8_t)b) >= 0) can[n++] = b;
    for (size_t i = 0; i < 4; i++)
        if (gram_step(d->g, set, (uint8_t)ends[i]) >= 0 && tn_draw(d, 100) < (late ? 60 : 25)) return ends[i];
    for (int i = 0; n && i < 3; i++) {                /* plain characters are likelier */
        const int b = can[tn_draw(d, (uint64_t)n)];
        if (b >= 0x20 && b < 0x7f && b != '\\') return b;
    }
    return n ? can[tn_draw(d, (uint64_t)n)] : -1;
}

/* A random text of `most` bytes, then a short way to its end. False: somewhere there is no way to an end. */
static bool tn_text(tn_doc *d, size_t most, str *out) {
    gram_track t;
    bool       alive = true;
    gram_track_open(&t, d->g);
    for (size_t i = 0; alive && i < most && !(gram_complete(d->g, t.set) && tn_draw(d, 4) == 0); i++) {
        const int b = tn_byte(d, t.set, 2 * i > most);
        if (b < 0) break;
        str_add(out, &(char){(char)b}, 1);
        t.set = gram_step(d->g, t.set, (uint8_t)b);
        alive = gram_least(d->g, t.set) != UINT64_MAX;
    }
    alive = alive && shortest_text(d->g, t.set, out);
    gram_track_close(&t);
    return alive;
}

static const json_form tn_forms[] = {{.space = 2}, {.space = 0}, {.space = 1, .order = 1}};

/* What is generated for a schema: it can be completed wherever it stops, and matches. */
static int tn_generate(const char *schema, tn_doc *loose) {
    str text = {0};
    int  n = 0;
    for (size_t f = 0; f < sizeof tn_forms / sizeof *tn_forms; f++) {
        tn_doc d = tn_open(schema, false, &tn_forms[f]);
        for (int i = 0; d.ok && i < 12; i++, n++) {
            str_clear(&text);
            str_add(&text, "", 0);
            const bool ends = tn_text(&d, 4 + tn_draw(&d, 120), &text);
            CHECKF(ends, "form %zu of %s: no end after %s", f, schema, text.p);
            CHECKF(tn_takes(loose, text.p), "form %zu of %s: generated %s", f, schema, text.p);
        }
        CHECKF(d.ok || d.e.code == EXIT_INPUT, "%s: %s", schema, d.e.text);
        tn_close(&d);
    }
    str_drop(&text);
    return n;
}

static int tn_case(val v) {
    str           schema = {0}, text = {0};
    const val_list *texts = v.list->at[1].list;
    int             n = 0;
    val_utf8(v.list->at[0].s, &schema);
    tn_doc d = tn_open(schema.p, false, &tn_loose);
    CHECKF(d.ok || strstr(d.e.text, "nothing satisfies"), "%s: %s", schema.p, d.e.text);
    for (size_t i = 0; i < texts->n; i++) {
        const val *one = texts->at[i].list->at;
        str_clear(&text);
        val_utf8(one[0].s, &text);
        CHECKF((d.ok && tn_takes(&d, text.p)) == one[1].b, "%s: %s", schema.p, text.p);
    }
    if (d.ok) n = tn_generate(schema.p, &d);
    tn_close(&d);
    str_drop(&schema), str_drop(&text);
    return n;
}

static void t_json_schemas(void) {
    val_env env;
    int     n = 0, texts = 0;
    char   *all = t_read("tests/data/golden/json.jsonl", NULL), *rest = all;
    if (!CHECK(all != NULL)) return;
    val_env_init(&env, 0, 0, NULL);
    for (char *one; (one = strsep(&rest, "\n")) && *one; n++) texts += tn_case(val_json_read(&env, bytes_of(one), 0));
    CHECKF(n > 150 && texts > 4000, "%d schemas, %d texts", n, texts);
    val_env_drop(&env);
    mem_free(all);
}

/* A schema, a text, and whether it is generated with the schema's order of keys, with any order, and taken loose. */
static const struct {
    const char *schema, *text;
    bool        made, any, loose;
} tn_cases[] = {
    /* order */
    {"{'properties':{'b':{},'a':{}}}", "{'b':1,'a':2}", 1, 1, 1},
    {"{'properties':{'b':{},'a':{}}}", "{'a':1,'b':2}", 0, 1, 1}, {"{'properties':{'b':{},'a':{}}}", "{'c':1,'b':2}", 0, 1, 1},
    {"{'properties':{'b':{},'a':{}}}", "{'a':1,'c':2}", 1, 1, 1},
    {"{'properties':{'a':{}}}", "{'a':1,'a':2}", 0, 0, 0}, {"{'required':['a'],'properties':{'b':{}}}", "{'b':1}", 0, 0, 0},
    /* keys that stand twice where they are counted */
    {"{'type':'object','minProperties':2}", "{'x':1,'x':2}", 0, 0, 0},
    {"{'type':'object','minProperties':2}", "{'x':1,'y':2}", 1, 1, 1},
    {"{'type':'object','minProperties':2}", "{'x':1,'x\\u0079':2}", 0, 0, 1},
    {"{'type':'object','minProperties':2}", "{'x':1,'\\u0078':2}", 0, 0, 0},
    /* numbers */
    {"{'type':'integer'}", "10", 1, 1, 1}, {"{'type':'integer'}", "10.0", 0, 0, 1},
    {"{'type':'integer'}", "1e1", 0, 0, 1}, {"{'type':'integer'}", "15e-1", 0, 0, 0}, {"{'type':'integer'}", "1.50e1", 0, 0, 1},
    {"{'minimum':5}", "50e-1", 0, 0, 1}, {"{'minimum':5}", "49e-1", 0, 0, 0}, {"{'minimum':5}", "1e400", 0, 0, 1},
    {"{'minimum':5}", "-1e400", 0, 0, 0}, {"{'type':'number'}", "1e5", 1, 1, 1},
    {"{'type':'number','minimum':1}", "1.50", 1, 1, 1}, {"{'const':0}", "-0", 0, 0, 1},
    {"{'type':'integer'}", "123456789012345678", 1, 1, 1}, {"{'type':'integer'}", "1234567890123456789", 0, 0, 1},
    {"{'type':'integer','maximum':18446744073709551615}", "18446744073709551615", 0, 0, 1},
    {"{'type':'integer','minimum':0,'maximum':18446744073709551615}", "18446744073709551615", 1, 1, 1},
    {"{'type':'integer','minimum':1e30}", "1000000000000000000000000000001", 1, 1, 1},
    {"{'type':'integer','minimum':0,'maximum':1e300}", "123456789012345678", 1, 1, 1},
    {"{'type':'integer','minimum':0,'maximum':1e300}", "1234567890123456789", 0, 0, 1},
    {"{'type':'number','minimum':0}", "0.12345678901234567", 1, 1, 1}, {"{'type':'number','minimum':0}", "0.123456789012345678", 0, 0, 1},
    {"{'type':'number','minimum':1e-30,'maximum':2e-30}", "0.0000000000000000000000000000015", 1, 1, 1},
    {"{'enum':[1,123456789012345678901]}", "123456789012345678901", 1, 1, 1}, {"{'const':1.5}", "1.50000000000000000", 0, 0, 1},
    {"{'const':1.5}", "1.50", 1, 1, 1}, {"{'const':1e-25}", "0.0000000000000000000000001", 1, 1, 1},
    {"{'type':'number','multipleOf':0.001}", "1.2340", 1, 1, 1}, {"{'type':'number','multipleOf':0.001}", "1.23400000000000000", 0, 0, 1},
    {"{'multipleOf':1e25}", "10000000000000000000000000", 1, 1, 1}, {"{'multipleOf':1e25}", "0", 1, 1, 1},
    {"{'type':'integer','multipleOf':1999}", "199900000", 1, 1, 1}, {"{'type':'integer','multipleOf':1999}", "1999000000", 0, 0, 1},
    {"{'const':1}", "100e-2", 0, 0, 1}, {"{'type':'integer','minimum':3,'maximum':3}", "3", 1, 1, 1},
    /* times */
    {"{'format':'time'}", "'10:00:00.123456789Z'", 1, 1, 1}, {"{'format':'time'}", "'10:00:00.1234567891Z'", 0, 0, 1},
    {"{'format':'date-time'}", "'2024-01-01T10:00:00.1234567891+01:00'", 0, 0, 1},
    {"{'format':'date-time'}", "'2024-01-01T10:00:00.123+01:00'", 1, 1, 1},
    {"{'format':'duration'}", "'P123456789D'", 1, 1, 1}, {"{'format':'duration'}", "'P1234567890D'", 0, 0, 1},
    {"{'format':'time','minLength':25}", "'10:00:00.123456789012345Z'", 1, 1, 1},
    {"{'not':{'format':'time'},'maxLength':30}", "'10:00:00.1234567891Z'", 0, 0, 0},
    {"{'anyOf':[{'format':'time'},{'const':'now'}]}", "'10:00:00.1234567891Z'", 1, 1, 1},
    /* strings */
    {"{'const':'\\u00e9'}", "'\xc3\xa9'", 1, 1, 1}, {"{'const':'\\u00e9'}", "'\\u00E9'", 0, 0, 1},
    {"{'const':'a/b'}", "'a/b'", 1, 1, 1}, {"{'const':'a/b'}", "'a\\/b'", 0, 0, 1},
    {"{'maxLength':1}", "'\\ud83d\\ude00'", 0, 0, 1},
    {"{'maxLength':1}", "'\xf0\x9f\x98\x80'", 1, 1, 1},
    {"{'properties':{'\\ud83d\\ude00':{}},'additionalProperties':false}", "{'\\ud83d\\uDE00':1}", 0, 0, 1},
    {"{'properties':{'\\ud83d\\ude00':{}},'additionalProperties':false}", "{'\xf0\x9f\x98\x80':1}", 1, 1, 1},
    {"{'properties':{'\\ud83d\\ude00':{}},'additionalProperties':false}", "{'\\ud83d\\ude01':1}", 0, 0, 0},
    {"{'properties':{'':{'type':'null'}},'additionalProperties':false}", "{'':null}", 1, 1, 1},
    /* items that differ */
    {"{'items':{'type':'number'},'uniqueItems':true,'type':'array'}", "[1,1.0]", 0, 0, 0},
    {"{'items':{'type':'number'},'uniqueItems':true,'type':'array'}", "[1,1.5,10]", 1, 1, 1},
    {"{'items':{'type':'number'},'uniqueItems':true,'type':'array'}", "[1,10,1]", 0, 0, 0},
    /* numbers that rng_mix() makes alike with those of no condition, and of another alternative */
    {"{'type':'array','allOf':[{'minItems':3,'maxItems':59746509979368893},{'maxItems':7}]}", "[]", 0, 0, 0},
    {"{'type':'array','allOf':[{'anyOf':[{'minItems':1,'maxItems':2},{'minItems':6,'maxItems':3201646146941205699}]},"
     "{'items':{'type':'integer'}}]}", "[1,1,1,1,1,1]", 1, 1, 1},
    {"{'type':'array','uniqueItems':true}", "[{'a':1,'b':2},{'b':2.0,'a':10e-1}]", 0, 0, 0},
    {"{'type':'array','uniqueItems':true}", "[{'a':1,'b':2},{'b':1,'a':2}]", 0, 0, 1},
    {"{'type':'array','uniqueItems':true}", "[0,-0.0]", 0, 0, 0},
    {"{'type':'array','uniqueItems':true}", "['a','\\u0061']", 0, 0, 0},
    {"{'type':'array','uniqueItems':true}", "[1,true,'1',[1],null,'',{},[]]", 0, 0, 1},
    {"{'type':'array','uniqueItems':true}", "[[[1]],[[1.0]]]", 0, 0, 0},
    {"{'type':'array','uniqueItems':true}", "[1e400,1e401]", 0, 0, 1},
    {"{'type':'array','uniqueItems':true}", "['\\ud83d\\ude00','\xf0\x9f\x98\x80']", 0, 0, 0},
    {"{'type':'array','uniqueItems':true}", "[{'a':1,'a':2},{'a':2}]", 0, 0, 0},
    {"{'items':{'type':'string'},'uniqueItems':true,'type':'array'}", "['a','ab','a']", 0, 0, 0},
    {"{'items':{'type':'string'},'uniqueItems':true,'type':'array'}", "['a','ab','']", 1, 1, 1},
    {"{'items':{'type':'boolean'},'uniqueItems':true,'type':'array'}", "[true,false]", 1, 1, 1},
    /* counts that no automaton could write out */
    {"{'type':'array','maxItems':1000000000000000000}", "[1,2]", 1, 1, 1},
    {"{'type':'array','minItems':1000000000000}", "[1,2]", 0, 0, 0},
    {"{'type':'object','maxProperties':1000000000000000000}", "{'a':1}", 1, 1, 1},
    {"{'type':'array','contains':{'const':1},'minContains':3,'maxContains':1000000000}", "[1,2,1,1]", 1, 1, 1},
    {"{'type':'array','contains':{'const':1},'minContains':3,'maxContains':1000000000}", "[1,2,1]", 0, 0, 0},
};

/* In the tables ' stands for a quote. */
static char *tn_quoted(const char *text) {
    char *s = str_dup(text);
    for (char *p = s; *p; p++) *p = *p == '\'' ? '"' : *p;
    return s;
}

static void t_json_forms(void) {
    static const json_form forms[] = {{.order = 0}, {.order = 1}, {.loose = true}};
    for (size_t i = 0; i < sizeof tn_cases / sizeof *tn_cases; i++) {
        char      *schema = tn_quoted(tn_cases[i].schema), *text = tn_quoted(tn_cases[i].text);
        const bool want[] = {tn_cases[i].made, tn_cases[i].any, tn_cases[i].loose};
        for (int f = 0; f < 3; f++) {
            tn_doc d = tn_open(schema, false, &forms[f]);
            CHECKF((d.ok && tn_takes(&d, text)) == want[f], "form %d, %s: %s (%s)", f, schema, text, d.e.text);
            tn_close(&d);
        }
        mem_free(schema), mem_free(text);
    }
}

/* Arrays whose items differ: strings and numbers of few and of many values, objects with a key that differs, or that may
 * be missing, or in some alternatives alone, objects and arrays that come once, an array within itself. */
static const char *const tn_unique[] = {
    "{'title':''}", "{'minItems':4}",
    "{'items':{'type':'integer'},'minItems':3}", "{'items':{'type':'integer','minimum':0,'maximum':300},'minItems':5}",
    "{'items':{'type':'number','minimum':0,'maximum':4,'multipleOf':0.01},'minItems':6}", "{'items':{'pattern':'^(a|b[a-z]{2})$'}}",
    "{'items':{'pattern':'^(a|\\u00e9[a-z]{2})$'},'minItems':2}", "{'items':{'type':'string','maxLength':2},'minItems':4}",
    "{'items':{'enum':['a','ab','abc',1,2,null,true,1.5]},'minItems':7}",
    "{'items':{'type':'object','required':['name'],'properties':{'id':{'type':'integer'},'name':{'type':'string'},'x':{}}},'minItems':2}",
    "{'items':{'type':'object','properties':{'a':{'type':'boolean'},'path':{'type':'string'}},'additionalProperties':false},'minItems':2}",
    "{'items':{'type':'object','properties':{'k':{'enum':['p','q','r']},'v':{'type':'boolean'}}},'minItems':3}",
    "{'items':{'type':['object','string','null'],'properties':{'n':{'type':['integer','null','string']}}},'minItems':4}",
    ("{'items':{'anyOf':[{'type':'string'},{'type':'object','required':['n'],'properties':{'n':{'type':'string'}}},"
     "{'type':'object','required':['m'],'properties':{'m':{'type':'integer'}},'additionalProperties':false}]},'minItems':3}"),
    "{'items':{'type':'object','minProperties':2,'properties':{'n':{'type':'string'}}}}",
    "{'items':{'type':'object','additionalProperties':{'type':'integer'}}}", "{'items':{'type':'array','items':{'type':'boolean'}}}",
    "{'prefixItems':[{'type':'string'},{'type':'integer'}],'items':{'type':'null'}}", "{'prefixItems':[{'type':'string'},{}]}",
    "{'contains':{'type':'integer'},'items':{'type':['integer','string']}}",
    "{'items':{'type':['string','array'],'prefixItems':[{'type':'null'}],'items':{'type':'null'},'uniqueItems':true,'minItems':2}}",
    "{'prefixItems':[{'const':1}],'items':{'enum':['a','b']},'contains':{'const':'b'},'minContains':0,'maxContains':1}",
    "{'oneOf':[{'items':{'type':'string'}},{'items':{'type':'object','required':['n'],'properties':{'n':{'type':'string'}}}}],'minItems':2}",
    "{'items':{'enum':[{'a':1},{'a':2},[1],[2]]},'maxItems':3}", "{'items':{'$ref':'#'}}",
    "{'items':{'type':'object','properties':{'c':{'$ref':'#'},'n':{'type':'string','maxLength':3}}},'maxItems':4}",
};

static void t_json_unique(void) {
    for (size_t i = 0; i < sizeof tn_unique / sizeof *tn_unique; i++) {
        str    schema = {0};
        char  *rest = tn_quoted(tn_unique[i]);
        str_put(&schema, "{\"type\":\"array\",\"uniqueItems\":true,");
        str_put(&schema, rest + 1);
        tn_doc loose = tn_open(schema.p, false, &tn_loose);
        if (CHECKF(loose.ok, "%s: %s", schema.p, loose.e.text))
            CHECKF(tn_generate(schema.p, &loose) == 36, "%s", schema.p);
        tn_close(&loose), mem_free(rest), str_drop(&schema);
    }
    tn_doc d = tn_open("{\"type\":\"array\",\"uniqueItems\":true,\"minItems\":2,\"prefixItems\":[{\"type\":\"null\"}]}", false, &(json_form){.lax = true});
    str    notes = {0};
    if (CHECK(d.ok)) schema_note_put(d.s, &notes);
    CHECK(d.ok && tn_takes(&d, "[null,null]") && strstr(notes.p, "#: uniqueItems is dropped"));
    tn_close(&d), str_drop(&notes);
}

/* Strings whose bound is too large for states: taken up to it, generated shorter. */
static void t_json_tall(void) {
    static const struct { const char *schema, *head, *tail; char fill; uint64_t most; } rows[] = {
        {"{'type':'string','pattern':'^(ab|x)y*$','maxLength':1400000}", "\"ab", "\"", 'y', 1399998},
        {"{'type':'string','format':'uri','minLength':1,'maxLength':65536}", "\"http://", "\"", 'a', 65529},
        {"{'allOf':[{'pattern':'^x'},{'maxLength':6000},{'maxLength':5000,'minLength':10}],'type':'string'}", "\"x", "\"", 'a', 4999},
        {"{'anyOf':[{'type':'null'},{'type':'string','pattern':'^(aa)+$','maxLength':9999}]}", "\"", "\"", 'a', 9998},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char  *schema = tn_quoted(rows[i].schema);
        tn_doc loose = tn_open(schema, false, &tn_loose), made = tn_open(schema, false, &tn_made);
        CHECKF(loose.ok && made.ok, "%s: %s%s", schema, loose.e.text, made.e.text);
        for (uint64_t k = 0; loose.ok && made.ok && k < 3; k++) {
            const uint64_t n = k < 2 ? rows[i].most + k : 12;
            str            text = {0};
            str_put(&text, rows[i].head);
            for (uint64_t j = 0; j < n; j++) str_add(&text, &rows[i].fill, 1);
            str_put(&text, rows[i].tail);
            CHECKF(tn_takes(&loose, text.p) == (k != 1), "%s: %llu", schema, (unsigned long long)n);
            CHECKF(tn_takes(&made, text.p) == (k == 2), "%s, made: %llu", schema, (unsigned long long)n);
            str_drop(&text);
        }
        if (loose.ok) tn_generate(schema, &loose);
        tn_close(&loose), tn_close(&made), mem_free(schema);
    }
}

/* Schemas that cannot be held, and words of the error; gen: only in generation. */
static const struct {
    const char *schema, *words;
    bool        gen;
} tn_refused[] = {
    {"{'properties':{'a':{'type':'array','prefixItems':[{'type':'string'}],'uniqueItems':true,'minItems':2}}}",
     "S: /properties/a: uniqueItems beside", 1},
    {"{'type':'array','not':{'uniqueItems':true}}", "S: /not/uniqueItems: its negation", 0},
    {"{'type':'array','items':{'type':'object'},'uniqueItems':true,'minItems':2}", "S: #: uniqueItems cannot", 1},
    {"{'type':'object','patternProperties':{'^[0-9]{4}$':{}},'additionalProperties':false,'minProperties':2}",
     "S: #: a number of properties", 1}, {"false", "S: #: nothing satisfies", 0},
    {"{'type':'object','required':['a'],'properties':{'a':{'$ref':'#'}}}", "nothing satisfies", 0},
    {"{'type':'array','items':{'enum':[1,2]},'uniqueItems':true,'minItems':3}", "nothing satisfies", 0},
    {"{'type':'object','additionalProperties':false,'properties':{'a':{}},'minProperties':2}", "nothing satisfies",
     0}, {"{'type':'array','contains':{'type':'integer'},'items':{'type':'string'}}", "nothing satisfies", 0},
    {"{'type':'array','minContains':3,'contains':{},'maxItems':2}", "nothing satisfies", 0},
    {"{'type':'object','propertyNames':{'enum':['a','b']},'minProperties':3}", "nothing satisfies", 0},
};

static void t_json_refused(void) {
    for (size_t i = 0; i < sizeof tn_refused / sizeof *tn_refused; i++) {
        char  *schema = tn_quoted(tn_refused[i].schema);
        tn_doc d = tn_open(schema, false, &tn_made), m = tn_open(schema, false, &tn_loose);
        CHECKF(!d.ok && d.e.code == EXIT_INPUT && strstr(d.e.text, tn_refused[i].words), "%s: %s", schema, d.e.text);
        CHECKF(m.ok == tn_refused[i].gen, "%s, loose: %s", schema, m.e.text);
        tn_close(&d), tn_close(&m);
        mem_free(schema);
    }
}

/* An object of n members that may be left out: any of them in order, and states that grow with n alone. */
static void t_json_many(void) {
    str schema = {0}, text = {0};
    int states[2] = {0};
    for (int k = 0; k < 2; k++) {
        const int n = k ? 4000 : 1000;
        str_clear(&schema);
        str_put(&schema, "{\"additionalProperties\":false,\"properties\":{");
        for (int i = 0; i < n; i++) str_fmt(&schema, "%s\"key%d\":{\"type\":\"null\"}", i ? "," : "", i);
        str_put(&schema, "}}");
        tn_doc d = tn_open(schema.p, false, &tn_made), m = tn_open(schema.p, false, &tn_loose);
        if (!CHECK(d.ok && m.ok)) return;
        states[k] = d.g->n_state;
        for (int i = 0; i < 20; i++) {
            str_clear(&text);
            str_put(&text, "{");
            for (int j = (int)tn_draw(&d, (uint64_t)n / 4); j < n; j += 1 + (int)tn_draw(&d, (uint64_t)n / (i % 2 ? 4 : 100)))
                str_fmt(&text, "%s\"key%d\":null", text.n > 1 ? "," : "", j);
            str_put(&text, "}");
            CHECKF(tn_takes(&d, text.p) && tn_takes(&m, text.p), "%s", text.p);
        }
        CHECK(!tn_takes(&d, "{\"key7\":null,\"key6\":null}") && tn_takes(&m, "{\"key7\":null,\"key6\":null}") &&
              !tn_takes(&m, "{\"key7\":null,\"key7\":null}"));
        tn_close(&d), tn_close(&m);
    }
    CHECKF(states[1] < 5 * states[0], "%d states for 1,000 members, %d for 4,000", states[0], states[1]);
    str_drop(&schema), str_drop(&text);
}

static const t_case t_json_cases[] = {
    {"json any", "a text is taken as JSON, and written, where RFC 8259 and the form say so", t_json_any},
    {"json space", "generation writes the blanks of its form and no others", t_json_space},
    {"json nesting", "a hundred thousand brackets inside each other are read", t_json_nesting},
    {"json schemas",
     "texts match as python3-jsonschema judges them; what is generated can be completed "
     "wherever it stops, and matches", t_json_schemas},
    {"json forms",
     "order, spelling and numbers of each form; items that differ; keys that stand twice; counts of any size", t_json_forms},
    {"json unique", "items that must differ do, whatever they are, and there is always a way on", t_json_unique},
    {"json tall", "strings are as long as a large bound allows, and generated ones shorter", t_json_tall},
    {"json refused", "what cannot be held, and what nothing satisfies, is refused with its place", t_json_refused},
    {"json many", "a thousand members that may be left out take states that grow with their number", t_json_many},
};
static const t_suite t_json_suite = SUITE(t_json_cases);
