/* [json]: any JSON value or object, the values of schemas. */

typedef struct {
    gram       *g;
    err_t       e;
    bool        ok;
} tn_doc;

static tn_doc tn_open(const char *schema, bool object, const json_form *f) {
    tn_doc        d = {.g = gram_new()};
    const int32_t root = gram_rule(d.g, "root");
    if (!schema) d.ok = json_any(d.g, gram_begin(d.g, root), object, f, gram_end(d.g, root));
    d.ok = d.ok && gram_seal(d.g, root, &d.e);
    return d;
}

static void tn_close(tn_doc *d) {
    gram_free(d->g);
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
    {"null", 1, 1}, {"true", 1, 1}, {"false", 1, 1}, {"nul", 0, 0}, {"True", 0, 0}, {"nulll", 0, 0}, {"", 0, 0}, {" ", 0, 0}, {" null ", 1, 0}, {"\t\r\n0\n", 1, 0}, {"\fnull", 0, 0}, {"\xc2\xa0null", 0, 0},
    {"0", 1, 1}, {"-0", 1, 1}, {"-", 0, 0}, {"00", 0, 0}, {"01", 0, 0}, {"10", 1, 1}, {"1.0", 1, 1}, {"1.", 0, 0}, {".5", 0, 0}, {"-.5", 0, 0}, {"+1", 0, 0}, {"1e5", 1, 1}, {"1E+5", 1, 1}, {"1e-05", 1, 1}, {"1e", 0, 0},
    {"1e+", 0, 0}, {"1.5e3", 1, 1}, {"1.e3", 0, 0}, {"0e1", 1, 1}, {"0x1", 0, 0}, {"1 2", 0, 0}, {"NaN", 0, 0}, {"Infinity", 0, 0}, {"-Infinity", 0, 0}, {"123456789012345678901234567890", 1, 1}, {"--1", 0, 0}, {"1-1", 0, 0},
    {"\"\"", 1, 1}, {"\"a\"", 1, 1}, {"\"a", 0, 0}, {"a", 0, 0}, {"'a'", 0, 0}, {"\"\\\"\"", 1, 1}, {"\"\\\"", 0, 0}, {"\"\\/\\b\\f\\n\\r\\t\\\\\"", 1, 1}, {"\"\\a\"", 0, 0}, {"\"\\u00e9\"", 1, 1}, {"\"\\u00E9\"", 1, 1},
    {"\"\\u00e\"", 0, 0}, {"\"\\U0041\"", 0, 0}, {"\"\\ud83d\\ude00\"", 1, 1}, {"\"\\uD83D\\uDE00\"", 1, 1}, {"\"\\ud83d\"", 1, 0}, {"\"\\ude00\"", 1, 0}, {"\"\\ud83dx\"", 1, 0}, {"\"\\ud83d\\u0041\"", 1, 0},
    {"\"\xf0\x9f\x98\x80\"", 1, 1}, {"\"\xed\xa0\xbd\"", 0, 0}, {"\"\xc0\xaf\"", 0, 0}, {"\"\xff\"", 0, 0}, {"\"\xe9\"", 0, 0}, {"\"\n\"", 0, 0}, {"\"\t\"", 0, 0}, {"\"\x1f\"", 0, 0}, {"\"\x7f\"", 1, 1}, {"\"a\\", 0, 0},
    {"\"\xe2\x80\xa8\"", 1, 1}, {"\"a\" \"b\"", 0, 0}, {"[]", 1, 1}, {"[ ]", 1, 0}, {"[1]", 1, 1}, {"[1,2]", 1, 1}, {"[1, 2]", 1, 1}, {"[1,  2]", 1, 0}, {"[1 ,2]", 1, 0}, {"[1,]", 0, 0}, {"[,1]", 0, 0}, {"[1 2]", 0, 0},
    {"[", 0, 0}, {"]", 0, 0}, {"[1", 0, 0}, {"[1}", 0, 0}, {"[[]]", 1, 1}, {"[[[[[]]]]]", 1, 1}, {"[\n  1,\n  2\n]", 1, 1}, {"[\n]", 1, 0}, {"[\r\n1]", 1, 0}, {"[\t1]", 1, 0}, {"[ 1]", 1, 0}, {"[1 ]", 1, 0},
    {"{}", 1, 1}, {"{ }", 1, 0}, {"{\n}", 1, 0}, {"{\"a\":1}", 1, 1}, {"{\"a\": 1}", 1, 1}, {"{\"a\":\n1}", 1, 0}, {"{\"a\" :1}", 1, 0}, {"{\"a\":1,\"b\":[]}", 1, 1}, {"{\"a\":1,}", 0, 0}, {"{,}", 0, 0}, {"{\"a\"}", 0, 0},
    {"{\"a\":}", 0, 0}, {"{a:1}", 0, 0}, {"{1:1}", 0, 0}, {"{\"a\":1 \"b\":2}", 0, 0}, {"{\"a\":1", 0, 0}, {"{\"a\":1]", 0, 0}, {"{\"a\":1}}", 0, 0}, {"{\"a\":{\"b\":{\"c\":null}}}", 1, 1}, {"{\"\":0}", 1, 1},
    {"{\n  \"a\": {\n    \"b\": [\n      1\n    ]\n  }\n}", 1, 1}, {"{\"a\":1,\n\"b\":2}", 1, 1}, {"{\"a\":1, \n\"b\":2}", 1, 0}, {"{\n\n\"a\":1}", 1, 0}, {"{\"a\":1}\n", 1, 0}, {"// a\n1", 0, 0}, {"\xef\xbb\xbf" "1", 0, 0},
};

static void t_json_any(void) {
    tn_doc loose = tn_open(NULL, false, &tn_loose), made = tn_open(NULL, false, &tn_made), object = tn_open(NULL, true, &tn_loose);
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
    {"{\"a\":[1,2]}", {1, 1, 1}}, {"{\"a\": [1, 2]}", {0, 1, 1}}, {"{\"a\":  1}", {0, 0, 0}}, {"{\n \"a\":1}", {0, 0, 1}}, {"{\"a\":1\n}", {0, 0, 1}}, {"[1,\n  2]", {0, 0, 1}}, {"[\n1\n]", {0, 0, 1}}, {"[]", {1, 1, 1}}, {"{ }", {0, 0, 0}},
};

static void t_json_space(void) {
    str wide = {0}, over = {0};
    for (int space = 0; space < 3; space++) {
        tn_doc d = tn_open(NULL, false, &(json_form){.space = space});
        for (size_t i = 0; CHECK(d.ok) && i < sizeof tn_spaces / sizeof *tn_spaces; i++) CHECKF(tn_takes(&d, tn_spaces[i].text) == tn_spaces[i].space[space], "space %d: %s", space, tn_spaces[i].text);
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

static const t_case t_json_cases[] = {
    {"json any", "a text is taken as JSON, and written, where RFC 8259 and the form say so", t_json_any},
    {"json space", "generation writes the blanks of its form and no others", t_json_space},
    {"json nesting", "a hundred thousand brackets inside each other are read", t_json_nesting},
};
