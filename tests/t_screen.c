/* [screen]: lines end between words, whatever the parts in which a text comes; what is written is the text, but for blanks where a
 * line ends. */
#include "program.h"
#include "check.h"

/* The text in parts of `step` bytes that do not end inside of a character, in a window of so many columns; the caller drops it. */
static str t_screen__flow(const char *text, size_t step, int columns) {
    screen_text s = {0};
    str         out = {0};
    bytes       left = bytes_of(text);
    while (left.n) {
        const size_t n = max_size((size_t)utf8_head(left, step), (size_t)utf8_len(left.p, left.n));
        left = bytes_slice(left, n, left.n);
        screen_flow(&s, (bytes){left.p - n, n}, !left.n, columns, &out);
    }
    screen_drop(&s);
    return out;
}

static void t_screen_lines(void) {
    static const struct { const char *text; int columns; const char *want; } cases[] = {
        {"one two three four", 20, "one two three four"},
        {"one two three four five six seven", 20, "one two three four\nfive six seven"},
        {"one two three four f", 21, "one two three four f"},                   /* the last column stays free */
        {"one two three four f", 20, "one two three four\nf"},
        {"  indented text that is long", 20, "  indented text\nthat is long"},
        {"a  b\n\n  c \nd", 20, "a  b\n\n  c \nd"},
        {"see https://example.org/a/path?of=many&words and more", 20, "see\nhttps://example.org/a/path?of=many&words and more"},
        {"one two three four five six seven eight", 0, "one two three four five six seven eight"},
        {"a\tbcdefgh\tijklmnop q", 24, "a\tbcdefgh\nijklmnop q"},
        {"```c\nint f(int a) { return a + a; }\n```\none two three four five", 20,
         "```c\nint f(int a) { return a + a; }\n```\none two three four\nfive"},
        {"| a table | of two cells |\none two three four five", 20, "| a table | of two cells |\none two three four\nfive"},
        {"use `this` or `that` or `those`", 20, "use `this` or\n`that` or `those`"},
        {"日本語の文章は空白なしで続く", 20, "日本語の文章は空白\nなしで続く"},
        {"e\xcc\x81" "e\xcc\x81" "e\xcc\x81 one two three f", 20, "e\xcc\x81" "e\xcc\x81" "e\xcc\x81 one two three f"},
        {"", 20, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t step = 1; step < 60; step = step < 8 ? step + 1 : step * 7) {
            str out = t_screen__flow(cases[i].text, step, cases[i].columns);
            EQ_STR(out.p ? out.p : "", cases[i].want);
            str_drop(&out);
        }
}

/* A word is written when the next one begins, not later; in a line of code at once. */
static void t_screen_holds_back(void) {
    screen_text s = {0};
    str         out = {0};
    screen_flow(&s, bytes_of("one tw"), false, 40, &out);
    EQ_STR(out.p, "one");
    screen_flow(&s, bytes_of("o "), false, 40, &out);
    EQ_STR(out.p, "one two");
    screen_flow(&s, bytes_of("\n```\nint"), false, 40, &out);
    EQ_STR(out.p, "one two \n```\nint");
    screen_flow(&s, bytes_of(" x"), true, 40, &out);
    EQ_STR(out.p, "one two \n```\nint x");
    screen_drop(&s);
    str_drop(&out);
}

/* Texts of any characters: the parts in which they come change nothing, and all but white space stays. */
static void t_screen_any(void) {
    static const char *const parts[] = {"a", "word", " ", "  ", "\n", "\t", "`", "```", "|", "\xe6\x97\xa5", "e\xcc\x81", "\xf0\x9f\x98\x80", "aaaaaaaaaaaaaaaaaaaaaaaa"};
    for (uint64_t seed = 0; seed < 300; seed++) {
        str text = {0}, seen[2] = {{0}, {0}};
        str_put(&text, "");
        for (uint64_t i = 0; i < 40; i++) str_put(&text, parts[rng_mix(seed * 64 + i) % (sizeof parts / sizeof *parts)]);
        const int columns = seed % 7 ? SCREEN_LEAST + (int)(seed % 30) : 0;
        str       whole = t_screen__flow(text.p, text.n, columns), small = t_screen__flow(text.p, 1 + seed % 5, columns);
        EQ_STR(small.p, whole.p);
        for (int side = 0; side < 2; side++)
            for (const char *p = side ? whole.p : text.p; *p; p++)
                if (!strchr(" \n\t", *p)) str_add(&seen[side], p, 1);
        EQ_STR(seen[1].p ? seen[1].p : "", seen[0].p ? seen[0].p : "");
        str_drop_all(&text, &whole, &small, &seen[0], &seen[1]);
    }
}

static const t_case t_screen_cases[] = {
    {"screen_lines", "lines end between words and before wide characters; words longer than a line, code and tables stay whole", t_screen_lines},
    {"screen_any", "any text stays what it is but for white space, whatever its parts", t_screen_any},
    {"screen_holds_back", "only the word that is not whole yet is held back", t_screen_holds_back},
};
static const t_suite t_screen_suite = SUITE(t_screen_cases);
