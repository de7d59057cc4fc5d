/* [gbnf]: grammars, each with texts that it takes and texts that it does not; errors by line and byte; sizes that a
 * file of a stranger may have. */
#include "program.h"
#include "check.h"

/* The grammar, ready to run; NULL: e says why not. */
static gram *tgbnf_open(bytes text, const gbnf_words *w, err_t *e) {
    gram   *g = gram_new();
    int32_t root = -1;
    *e = (err_t){0};
    if (gbnf_build(g, text, w, &root, e) && gram_seal(g, root, e)) return g;
    gram_free(g);
    return NULL;
}

static bool tgbnf_takes(gram *g, bytes text) {
    size_t     at;
    err_t      e = {0};
    const bool is = gram_match(g, text, &at, &e);
    CHECKF(!e.code, "%.60s: %s", (const char *)text.p, e.text);
    return is;
}

typedef struct {
    const char *grammar, *yes[8], *no[8];
} tgbnf_row;

static void tgbnf_rows(const tgbnf_row *row, size_t n) {
    for (size_t i = 0; i < n; i++) {
        err_t e;
        gram *g = tgbnf_open(bytes_of(row[i].grammar), NULL, &e);
        CHECKF(g, "%s: %s", row[i].grammar, e.text);
        for (int k = 0; g && k < 8 && row[i].yes[k]; k++)
            CHECKF(tgbnf_takes(g, bytes_of(row[i].yes[k])), "%s does not take \"%s\"", row[i].grammar, row[i].yes[k]);
        for (int k = 0; g && k < 8 && row[i].no[k]; k++)
            CHECKF(!tgbnf_takes(g, bytes_of(row[i].no[k])), "%s takes \"%s\"", row[i].grammar, row[i].no[k]);
        gram_free(g);
    }
}
#define TGBNF(rows) tgbnf_rows(rows, sizeof rows / sizeof *rows)

static void t_gbnf_literals(void) {
    static const tgbnf_row rows[] = {
        {"root ::= \"ab\"", {"ab"}, {"", "a", "abc", "ba"}},
        {"root::=\"a\"\"b\"", {"ab"}, {"a"}},
        {"root ::= \"\"", {""}, {"a"}},
        {"root ::= \"\" \"x\" \"\"", {"x"}, {""}},
        {"root ::= \"\\n\\r\\t\\\\\\\"\\[\\]\"", {"\n\r\t\\\"[]"}, {"\n\r\t\\\"["}},
        {"root ::= \"\\x41\\u00e9\\U0001F600\"", {"A\xc3\xa9\xf0\x9f\x98\x80"}, {"A\xe9"}},
        {"root ::= \"\\xe9\"", {"\xc3\xa9"}, {"\xe9"}},
        {"root ::= \"\xc3\xa9\xe2\x82\xac\"", {"\xc3\xa9\xe2\x82\xac"}, {"\xc3\xa9"}},
        {"root ::= \"a\nb\"", {"a\nb"}, {"a", "ab"}},
        {"root ::= \"#\" # a comment \" with a quote\n", {"#"}, {""}},
    };
    TGBNF(rows);
}

static void t_gbnf_classes(void) {
    static const tgbnf_row rows[] = {
        {"root ::= [a-cx]", {"a", "b", "c", "x"}, {"", "d", "ab", "-"}},
        {"root ::= [^a-cx]", {"d", "\n", "\xc3\xa9", "\xf0\x9f\x98\x80", "\x01"}, {"", "a", "b", "x", "dd", "\x80", "\xc3"}},
        {"root ::= [-a]", {"-", "a"}, {"b"}},
        {"root ::= [a-]", {"-", "a"}, {"b"}},
        {"root ::= [+--]", {"+", ",", "-"}, {".", "*"}},
        {"root ::= [a^]", {"a", "^"}, {"b"}},
        {"root ::= [\\]\\[\\\\]", {"]", "[", "\\"}, {"a"}},
        {"root ::= [\xe3\x81\x81-\xe3\x82\x9f]+", {"\xe3\x81\x93\xe3\x82\x93"}, {"\xe3\x82\xa0", "\xe3"}},
        {"root ::= [\\x00-\\x1F\\u0100-\\U0010FFFF]", {"\x01", "\x1f", "\xc4\x80", "\xf4\x8f\xbf\xbf"}, {" ", "\xc3\xbf"}},
        {"root ::= [^\\x00-\\uD7FF]", {"\xee\x80\x80", "\xf0\x90\x80\x80"}, {"a", "\xed\x9f\xbf", "\xed\xa0\x80"}},
        {"root ::= .", {"a", "\n", "\xf0\x9f\x98\x80"}, {"", "ab", "\xff", "\xc3"}},
        {"root ::= ...\"x\"...", {"axcxbxc", "\xf0\x9f\x98\x80xxxyyy"}, {"abxabc", "abcxab"}},
        {"root ::= [\"'] [ \\t] [#]", {"\" #", "'\t#"}, {"\"#"}},
    };
    TGBNF(rows);
}

static void t_gbnf_counts(void) {
    static const tgbnf_row rows[] = {
        {"root ::= \"a\"*", {"", "a", "aaaa"}, {"b", "ab"}},
        {"root ::= \"a\"+", {"a", "aaaa"}, {"", "b"}},
        {"root ::= \"a\"?", {"", "a"}, {"aa"}},
        {"root ::= \"ab\"{2}", {"abab"}, {"ab", "ababab"}},
        {"root ::= \"a\"{2,}", {"aa", "aaaaaa"}, {"", "a"}},
        {"root ::= \"a\"{2,4}", {"aa", "aaa", "aaaa"}, {"", "a", "aaaaa"}},
        {"root ::= \"a\"{0,2} \"b\"", {"b", "ab", "aab"}, {"aaab", ""}},
        {"root ::= \"a\"{0} \"b\"{0,0}", {""}, {"a", "b"}},
        {"root ::= \"a\"{ 1 , 2 }", {"a", "aa"}, {"", "aaa"}},
        {"root ::= \"a\" {1,2} \"b\" +", {"ab", "aabb"}, {"a", "aaab"}},
        {"root ::= (\"a\" \"b\"{2}){2,3}", {"abbabb", "abbabbabb"}, {"abb", "abab", "abbabbabbabb"}},
        {"root ::= (\"a\"*)* \"b\"", {"b", "aab"}, {"a"}},
        {"root ::= (\"a\"? \"b\"?)+", {"", "a", "b", "abba"}, {"c"}},
        {"root ::= (\"a\"*){3} \"b\"", {"b", "aaaaaab"}, {"ba"}},
        {"root ::= \"a\"{2}{3}", {"aaaaaa"}, {"aaaaa", "aaaaaaa"}},
        {"root ::= \"a\"+?", {"", "a", "aaa"}, {"b"}},
        {"root ::= (\"x\"* \"y\")? \"z\"", {"z", "yz", "xxyz"}, {"xz", "xxz"}},
        {"root ::= \"x\"+ \"y\"* \"z\"", {"xz", "xxyyz"}, {"xyxz", "yz"}},
        {"root ::= \"x\"{2,3} \"x\"", {"xxx", "xxxx"}, {"xx", "xxxxx"}},
        {"root ::= (\"a\" | \"aa\"){3}", {"aaa", "aaaa", "aaaaaa"}, {"aa", "aaaaaaa"}},
    };
    TGBNF(rows);
}

static void t_gbnf_rules(void) {
    static const tgbnf_row rows[] = {
        {"root ::= a b\na ::= \"x\"\nb ::= \"y\" | \"z\"", {"xy", "xz"}, {"x", "xyz"}},
        {"b ::= \"y\"\r\nroot ::= b b\r\n", {"yy"}, {"y"}},
        {"root ::= \"(\" root \")\" | \"\"", {"", "()", "((()))"}, {"(", "())"}},
        {"root ::= e\ne ::= t (\"+\" t)*\nt ::= [0-9]+ | \"(\" e \")\"", {"1", "1+22", "(1+2)+3"}, {"", "+1", "1+", "(1"}},
        {"root ::= \"a\" |\n  \"b\" |\n\n  \"c\"", {"a", "b", "c"}, {"", "ab"}},
        {"root ::=\n  \"a\" \"b\"\n", {"ab"}, {"a"}},
        {"root ::= (\n  \"a\"\n  \"b\" # one\n  | # two\n  \"c\"\n)\n", {"ab", "c"}, {"abc", "a"}},
        {"root ::= (\"a\"\n*\n) \"b\"", {"b", "aab"}, {"a"}},
        {"root ::= | \"a\"", {"", "a"}, {"b"}},
        {"root ::= \"a\" | ", {"", "a"}, {"b"}},
        {"root ::= () \"a\" (|)", {"a"}, {""}},
        {"root ::= \"a\"\nroot ::= \"b\"", {"b"}, {"a", "ab"}},
        {"# nothing yet\n\n\t root ::= A-1\nA-1 ::= \"x\" #end", {"x"}, {""}},
        {"root ::= <think> \"x\" </think>", {"<think>x</think>"}, {"x"}},
        {"root ::= word \".\"\nword ::= [a-z] word?", {"a.", "abc."}, {".", "a"}},
        {"root ::= x(\"-\"x)*\nx::=\"1\"", {"1", "1-1-1"}, {"11", "1-"}},
    };
    g_log_level = LOG_QUIET;
    TGBNF(rows);
    g_log_level = LOG_NORMAL;
}

static void t_gbnf_errors(void) {
    static const struct {
        const char *grammar, *error;
    } rows[] = {
        {"", "the grammar has no rule named root, expected one"},
        {"a ::= \"x\"", "the grammar has no rule named root, expected one"},
        {"a ::= root", "the grammar has no rule named root, expected one"},
        {"root ::= a\n b ::= c", "line 1, byte 10: found the name a, expected the name of a rule that the grammar defines"},
        {"root ::= \"a\"\r\n| \"b\"",
         "line 2, byte 1: found '|', expected the name of a rule (a rule goes on in the next line only inside of "
         "brackets and after '|' or '::=')"},
        {"root = \"a\"", "line 1, byte 6: found '=', expected '::=' after the name of a rule"},
        {"root\n::= \"a\"", "line 1, byte 5: found the end of the line, expected '::=' after the name of a rule"},
        {"root", "line 1, byte 5: found the end of the grammar, expected '::=' after the name of a rule"},
        {"root ::= foo_bar", "line 1, byte 13: found '_', expected an item, '|' or the end of the line"},
        {"root ::= \"a\" ::= \"b\"", "line 1, byte 14: found ':', expected an item, '|' or the end of the line"},
        {"root ::= \"\\q\"",
         "line 1, byte 12: found 'q', expected n, r, t, \\, \", [, ], xHH, uHHHH or UHHHHHHHH after a backslash"},
        {"root ::= \"\\",
         "line 1, byte 12: found the end of the grammar, expected n, r, t, \\, \", [, ], xHH, uHHHH or "
         "UHHHHHHHH after a backslash"},
        {"root ::= \"\\x4g\"", "line 1, byte 14: found 'g', expected 2 hexadecimal digits after \\x"},
        {"root ::= [\\u12]", "line 1, byte 15: found ']', expected 4 hexadecimal digits after \\u"},
        {"root ::= \"\\U00110000\"", "line 1, byte 11: found \\U00110000, expected a code point, which is 0010ffff at most"},
        {"root ::= \"\\uD800\"",
         "line 1, byte 11: found U+D800 in a literal, expected a character: this is half of a pair in UTF-16"},
        {"root ::= \"a\xff\"", "line 1, byte 12: found byte 0xff, expected UTF-8"},
        {"root ::= \"a\n\n", "line 1, byte 10: found a literal without its end, expected '\"'"},
        {"root ::= \"a\"\nx ::= [a-", "line 2, byte 7: found a class without its end, expected ']'"},
        {"root ::= []", "line 1, byte 11: found ']', expected a character of the class (']' itself is \\])"},
        {"root ::= [^]", "line 1, byte 12: found ']', expected a character of the class (']' itself is \\])"},
        {"root ::= [z-a]", "line 1, byte 11: found the range U+007A to U+0061, expected the lower end first"},
        {"root ::= (\"a\"\n\n", "line 1, byte 10: found a group without its end, expected ')'"},
        {"root ::= \"a\")", "line 1, byte 13: found ')', expected an item, '|' or the end of the line"},
        {"root ::= (\"a\" @)", "line 1, byte 15: found '@', expected an item, '|' or ')'"},
        {"root ::= *", "line 1, byte 10: found '*', expected an item before its count"},
        {"root ::= \"a\" | {2}", "line 1, byte 16: found '{', expected an item before its count"},
        {"root ::= \"a\"{}", "line 1, byte 14: found '}', expected a number"},
        {"root ::= \"a\"{,2}", "line 1, byte 14: found ',', expected a number"},
        {"root ::= \"a\"{2;3}", "line 1, byte 15: found ';', expected ',' or '}'"},
        {"root ::= \"a\"{2,x}", "line 1, byte 16: found 'x', expected '}'"},
        {"root ::= \"a\"{3,2}", "line 1, byte 13: found {3,2}, expected the smaller number first"},
        {"root ::= \"a\"{1000000000000000001}", "line 1, byte 14: found a count that is too large, expected at most 10^18"},
        {"root ::= \"a\"{0,99999999999999999999999}", "line 1, byte 16: found a count that is too large, expected at most 10^18"},
        {"root ::= !\"a\"", "line 1, byte 11: found '\"', expected a token in <> after '!'"},
        {"root ::= <[7]>", "line 1, byte 10: found the id of a token, expected none: no vocabulary is given"},
        {"root ::= !<a>", "line 1, byte 10: found '!' before a token, expected none: no vocabulary is given"},
        {"root ::= <a", "line 1, byte 10: found a token without its end, expected '>'"},
        {"root ::= <[a]>", "line 1, byte 12: found 'a', expected the id of a token"},
        {"root ::= <[7>", "line 1, byte 13: found '>', expected ]> after the id of a token"},
        {"root ::= \"a\" \x01", "line 1, byte 14: found byte 0x01, expected an item, '|' or the end of the line"},
        {"\xef\xbb\xbf" "root ::= \"a\"",
         "line 1, byte 1: found '\xef\xbb\xbf', expected the name of a rule (a rule goes on in the next line only inside of "
         "brackets and after '|' or '::=')"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        err_t e;
        gram *g = tgbnf_open(bytes_of(rows[i].grammar), NULL, &e);
        CHECKF(!g, "taken: %s", rows[i].grammar);
        EQ_INT(e.code, EXIT_INPUT);
        EQ_STR(e.text, rows[i].error);
        gram_free(g);
    }
}

static void t_gbnf_recursion(void) {
    static const struct {
        const char *grammar, *names[3];
    } rows[] = {
        {"root ::= root \"a\" | \"b\"", {"root"}},
        {"root ::= one\none ::= two \"x\"\ntwo ::= one | \"y\"", {"one", "two"}},
        {"root ::= sp one\nsp ::= \" \"?\none ::= sp sp* one \"x\" | \"y\"", {"one"}},
        {"root ::= (\"a\"* one)\none ::= (two){0,3} one | \"z\"\ntwo ::= \"q\"", {"one"}},
        {"root ::= one one\none ::= \"\" | two \"k\"\ntwo ::= one{2} \"j\"", {"one", "two"}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        err_t e;
        gram *g = tgbnf_open(bytes_of(rows[i].grammar), NULL, &e);
        CHECKF(!g && e.code == EXIT_INPUT && strstr(e.text, "left recursion"), "%s: %s", rows[i].grammar, g ? "taken" : e.text);
        for (int k = 0; k < 3 && rows[i].names[k]; k++)
            CHECKF(strstr(e.text, rows[i].names[k]), "%s: no %s in: %s", rows[i].grammar, rows[i].names[k], e.text);
        gram_free(g);
    }
}

/* --- tokens --- */

static int32_t tgbnf_id(void *ctx, bytes name) {
    const char *const *names = ctx;
    for (int32_t i = 0; names[i]; i++)
        if (bytes_is(name, names[i])) return i;
    return -1;
}

/* Follows "k" of the text: a byte as it is, '0' + id in braces as a token. Whether it is complete; -1: it cannot go on. */
static int tgbnf_walk(gram *g, const char *text) {
    gram_track t;
    gram_track_open(&t, g);
    for (const char *p = text; *p && t.set >= 0; p++) {
        if (*p == '{') t.set = gram_step_token(g, t.set, p[1] - '0'), p += 2;
        else t.set = gram_step(g, t.set, (uint8_t)*p);
    }
    const int got = t.set < 0 ? -1 : gram_complete(g, t.set);
    gram_track_close(&t);
    return got;
}

static void t_gbnf_tokens(void) {
    static const char *const names[] = {"<a>", "<think>", "</think>", "<x y>", NULL};
    static const struct {
        const char *grammar, *text;
        int         want;
    } rows[] = {
        {"root ::= <think> \"k\" </think>", "{1}k{2}", 1},
        {"root ::= <think> \"k\" </think>", "{1}k", 0},
        {"root ::= <think> \"k\" </think>", "{2}", -1},
        {"root ::= <think> \"k\" </think>", "<", -1},
        {"root ::= <[1]> !<[2]>* <[2]> .*", "{1}{0}{3}{1}{2}abc", 1},
        {"root ::= <[1]> !<[2]>* <[2]> .*", "{1}{2}{2}", -1},
        {"root ::= !</think>{2} \"z\"", "{0}{1}z", 1},
        {"root ::= !</think>{2} \"z\"", "{0}{2}", -1},
        {"root ::= <x y>", "{3}", 1},
    };
    const gbnf_words w = {(void *)(uintptr_t)names, tgbnf_id, 4};
    err_t            e;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gram *g = tgbnf_open(bytes_of(rows[i].grammar), &w, &e);
        CHECKF(g, "%s: %s", rows[i].grammar, e.text);
        if (g)
            CHECKF(tgbnf_walk(g, rows[i].text) == rows[i].want, "%s after %s is not %d", rows[i].grammar,
                   rows[i].text, rows[i].want);
        gram_free(g);
    }
    CHECK(!tgbnf_open(bytes_of("root ::= <b>"), &w, &e));
    EQ_STR(e.text, "line 1, byte 10: found <b>, expected a token of the vocabulary");
    CHECK(!tgbnf_open(bytes_of("root ::= !<[4]>"), &w, &e));
    EQ_STR(e.text, "line 1, byte 10: found a token id that is too large, expected 0 to 3");
}

/* --- sizes --- */

/* n times `before`, then `middle`, then n times `after`. */
static void tgbnf_nest(str *s, size_t n, const char *before, const char *middle, const char *after) {
    for (size_t i = 0; i < n; i++) str_put(s, before);
    str_put(s, middle);
    for (size_t i = 0; i < n; i++) str_put(s, after);
}

/* Builds the grammar and reads the text within a few seconds of processor time, which work in the square of the size
 * would exceed. limited: a limit may be reached. */
static void tgbnf_quick(const str *s, const char *text, bool takes, bool limited, const char *what) {
    const double start = t_cpu();
    err_t        e;
    size_t       at;
    gram        *g = tgbnf_open(str_bytes(s), NULL, &e);
    const bool   is = g && gram_match(g, bytes_of(text), &at, &e);
    if (e.code) CHECKF(limited && e.code == EXIT_RESOURCE, "%s: %s", what, e.text);
    else CHECKF(is == takes, "%s: \"%.20s\"", what, text);
    gram_free(g);
    CHECKF(t_cpu() - start < 10, "%s takes %.1f s", what, t_cpu() - start);
}

static void t_gbnf_sizes(void) {
    static const struct {
        const char *before, *middle, *after, *text;
        bool        limited;
    } nests[] = {
        {"(", "\"a\"", ")", "a", false},           {"(", "\"a\"", ")*", "aaa", false},
        {"(", "\"a\"", ")+", "aaa", false}, {"(", "\"a\"", ")?", "", false},
        {"(\"x\" |", "\"a\"", ")?", "", false},   {"(\"x\"", "\"a\"", "| \"b\")", "b", false}, {"(", "", ")", "", false},
        {"(", "\"a\"", "){1,2}", "aaaa", true},    {"(", "\"a\"", " \"b\"?)*", "aabbaab", true},
    };
    for (size_t i = 0; i < sizeof nests / sizeof *nests; i++) {
        str s = {0};
        str_put(&s, "root ::= ");
        tgbnf_nest(&s, 60000, nests[i].before, nests[i].middle, nests[i].after);
        tgbnf_quick(&s, nests[i].text, true, nests[i].limited, nests[i].after);
        str_drop(&s);
    }
    str s = {0};
    str_put(&s, "root ::= ");
    tgbnf_nest(&s, 100000, "(", "", "");
    err_t e;
    CHECK(!tgbnf_open(str_bytes(&s), NULL, &e));
    EQ_STR(e.text, "line 1, byte 100009: found a group without its end, expected ')'");
    str_drop(&s);
}

static void t_gbnf_many_rules(void) {
    str s = {0};
    for (int i = 0; i < 5000; i++) str_fmt(&s, i ? "r%d ::= r%d\n" : "root ::= r1\n", i, i + 1);
    str_put(&s, "r5000 ::= \"a\"\n");
    tgbnf_quick(&s, "a", true, false, "a chain");
    str_clear(&s);
    for (int i = 0; i < 5000; i++) str_fmt(&s, i ? "r%d ::= \"\" | r%d\n" : "root ::= r1\n", i, i + 1);
    str_put(&s, "r5000 ::= \"a\"\n");
    tgbnf_quick(&s, "", true, false, "a chain of empty rules");
    str_clear(&s);
    str_put(&s, "root ::= r1");
    for (int i = 2; i < 100000; i++) str_fmt(&s, " | r%d", i);
    for (int i = 1; i < 100000; i++) str_fmt(&s, "\nr%d ::= \"%d\"", i, i);
    tgbnf_quick(&s, "99999", true, false, "many rules");
    str_drop(&s);
}

static void t_gbnf_large_counts(void) {
    static const struct {
        const char *grammar, *text;
        bool        takes;
    } rows[] = {
        {"root ::= \"a\"{0,1000000000000000000}", "aaaaaaaaaaaa", true},
        {"root ::= (\"a\"{0,1000000000000000000} \"b\"){5,1000000000000000000}", "abbaabbab", true},
        {"root ::= ((([a-z]{0,30000}){0,30000}){0,30000}){0,30000}", "abcdefghijklmnopqrstuvwxyz", true},
        {"root ::= \"a\"{1000000000000000000} \"b\"", "ab", false},
        {"root ::= (\"a\" | \"a\" | \"a\" \"a\"){20,1000000}",
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", true},
        {"root ::= (\"a\"? \"a\"? \"a\"?)* \"b\"", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        str s = {0};
        str_put(&s, rows[i].grammar);
        tgbnf_quick(&s, rows[i].text, rows[i].takes, false, rows[i].grammar);
        str_drop(&s);
    }
}

/* Every beginning of a grammar is taken or ends with a message; none is read beyond its end. */
static void t_gbnf_beginnings(void) {
    static const char text[] =
        "root ::= (\"a\\x41\" [^\\u00e9-z\xc3\xa9]{2,3} | <t> )* # c\n  r2 |\r\n .\nr2 ::= root? \"\\U0001F600\"+\n";
    for (size_t n = 0; n < sizeof text; n++) {
        uint8_t *p = memcpy(mem_new(n ? n : 1, 1), text, n);           /* of this size, so that a sanitizer sees a read beyond */
        err_t    e;
        gram    *g = tgbnf_open((bytes){p, n}, NULL, &e);
        CHECKF(g || (e.code == EXIT_INPUT && e.text[0]), "%zu bytes: %s", n, e.text);
        gram_free(g);
        mem_free(p);
    }
}

static const t_case t_gbnf_cases[] = {
    {"gbnf literals", "a literal stands for its characters, escapes included", t_gbnf_literals},
    {"gbnf classes", "a class takes the code points of its ranges, a negated one all others", t_gbnf_classes},
    {"gbnf counts", "counts hold exactly, on items, groups and counts", t_gbnf_counts},
    {"gbnf rules", "rules, alternatives, groups and lines are read as llama.cpp reads them", t_gbnf_rules},
    {"gbnf errors", "an error names line and byte, what was found and what was expected", t_gbnf_errors},
    {"gbnf recursion", "left recursion is refused with the names of its cycle", t_gbnf_recursion},
    {"gbnf tokens", "tokens are taken by their ids, and any but one after '!'", t_gbnf_tokens},
    {"gbnf sizes", "60,000 groups inside each other are read in time that grows with their number", t_gbnf_sizes},
    {"gbnf many rules",
     "chains of 5,000 rules and 100,000 alternatives are read in time that grows with their number", t_gbnf_many_rules},
    {"gbnf large counts", "a count is a number, and is never unrolled", t_gbnf_large_counts},
    {"gbnf beginnings", "a grammar that ends early is refused with a message", t_gbnf_beginnings},
};
static const t_suite t_gbnf_suite = SUITE(t_gbnf_cases);
