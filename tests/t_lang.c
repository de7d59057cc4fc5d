/* [lang]: languages against sets of texts, expressions against Python's re (tests/gen/regex_cases.py). */
#include "program.h"
#include "check.h"

enum { T_LANG_LETTERS = 3, T_LANG_LONG = 5, T_LANG_TEXTS = 364 };     /* texts of up to five of three letters: (3^6 - 1) / 2 */

/* Text i over the letters, all texts in order of their length. */
static bytes t_lang_text(int i, char *room) {
    static const char *letters[T_LANG_LETTERS] = {"a", "b", "é"};
    int                n = 0, size = 1;
    for (; i >= size; size *= T_LANG_LETTERS) i -= size, n++;
    room[0] = 0;
    for (int k = 0; k < n; k++, i /= T_LANG_LETTERS) strcat(room, letters[i % T_LANG_LETTERS]);
    return bytes_of(room);
}

typedef struct {
    const lang *l;
    bool        has[T_LANG_TEXTS];
} t_lang_set;

static t_lang_set t_lang_some_words(lang_pool *p, uint64_t *seed) {
    t_lang_set s = {0};
    char       room[8][16];
    bytes      w[8];
    const int  n = (int)((*seed = rng_mix(*seed)) % 8);
    for (int k = 0; k < n; k++) {
        const int i = (int)((*seed = rng_mix(*seed)) % T_LANG_TEXTS);
        w[k] = t_lang_text(i, room[k]);
        s.has[i] = true;
    }
    s.l = lang_words(p, w, (size_t)n);
    return s;
}

static t_lang_set t_lang_some_length(lang_pool *p, uint64_t *seed) {
    t_lang_set s = {0};
    char       room[16];
    const uint64_t min = (*seed = rng_mix(*seed)) % 4, max = (*seed = rng_mix(*seed)) % 3 ? min + *seed % 7 % 4 : UINT64_MAX;
    s.l = lang_length(p, min, max);
    for (int i = 0; i < T_LANG_TEXTS; i++) {
        const bytes t = t_lang_text(i, room);
        uint64_t    n = 0;
        for (size_t k = 0; k < t.n; k++) n += (t.p[k] & 0xc0) != 0x80;
        s.has[i] = min <= n && n <= max;
    }
    return s;
}

static t_lang_set t_lang_operation(lang_pool *p, const t_lang_set *a, const t_lang_set *b, uint64_t kind) {
    t_lang_set s = {0};
    s.l = kind == 0 ? lang_and(p, a->l, b->l) : kind == 1 ? lang_or(p, a->l, b->l) : lang_not(p, a->l);
    for (int i = 0; i < T_LANG_TEXTS; i++)
        s.has[i] = kind == 0 ? a->has[i] && b->has[i] : kind == 1 ? a->has[i] || b->has[i] : !a->has[i];
    return s;
}

static void t_lang_holds(const t_lang_set *s) {
    char room[16];
    for (int i = 0; i < T_LANG_TEXTS; i++)
        if (!CHECKF(lang_has(s->l, t_lang_text(i, room)) == s->has[i], "'%s' is a word: want %d", room, s->has[i])) return;
}

static void t_lang_operations(void) {
    lang_pool *p = lang_pool_new(1 << 20);
    t_lang_set set[60];
    uint64_t   seed = 11;
    for (int round = 0; round < 40; round++)
        for (int i = 0; i < 60; i++) {
            const t_lang_set *a = &set[(seed = rng_mix(seed)) % 60 % (unsigned)(i ? i : 1)],
                             *b = &set[(seed = rng_mix(seed)) % 60 % (unsigned)(i ? i : 1)];
            set[i] = i < 10 ? t_lang_some_words(p, &seed) : i < 14 ? t_lang_some_length(p, &seed)
                     : t_lang_operation(p, a, b, (seed = rng_mix(seed)) % 3);
            t_lang_holds(&set[i]);
        }
    CHECK(!lang_over(p));
    lang_pool_free(p);
}

/* The same language, made in two ways, is the same pointer. */
static void t_lang_same(void) {
    lang_pool *p = lang_pool_new(1 << 20);
    uint64_t   seed = 5;
    for (int i = 0; i < 300; i++) {
        const t_lang_set a = t_lang_some_words(p, &seed), b = t_lang_some_words(p, &seed), c = t_lang_some_length(p, &seed);
        const lang      *l = lang_or(p, lang_and(p, a.l, c.l), b.l), *m = lang_or(p, a.l, c.l);
        CHECK(lang_not(p, lang_not(p, l)) == l);
        CHECK(lang_and(p, lang_or(p, a.l, b.l), lang_or(p, c.l, b.l)) == l);
        CHECK(lang_not(p, lang_and(p, lang_not(p, a.l), lang_not(p, c.l))) == m);
        CHECK(lang_and(p, l, lang_not(p, l)) == lang_none(p) && lang_or(p, l, lang_not(p, l)) == lang_all(p));
    }
    CHECK(lang_length(p, 3, 3) == lang_and(p, lang_length(p, 0, 3), lang_not(p, lang_length(p, 0, 2))));
    CHECK(lang_length(p, 2, UINT64_MAX) == lang_not(p, lang_length(p, 0, 1)));
    CHECK(lang_is_all(lang_or(p, lang_length(p, 0, 4), lang_length(p, 3, UINT64_MAX))) && lang_empty(lang_length(p, 2, 1)));
    lang_pool_free(p);
}

static void t_lang_numbers(void) {
    lang_pool  *p = lang_pool_new(1 << 20);
    const bytes w[] = {bytes_of("to"), bytes_of(""), bytes_of("tea"), bytes_of("ten"), bytes_of("é"),
                       bytes_of("\xf0\x9f\x98\x80"), bytes_of("to")};
    static const char *const order[] = {"", "tea", "ten", "to", "é", "\xf0\x9f\x98\x80"};
    const lang *l = lang_words(p, w, 7);
    str         s = {0};
    EQ_INT(lang_count(l, 100), 6), EQ_INT(lang_count(l, 4), 4), EQ_INT(lang_count(lang_none(p), 4), 0);
    for (uint64_t i = 0; i < 6; i++, str_clear(&s))
        if (CHECK(lang_nth(l, i, &s))) EQ_STR(s.p ? s.p : "", order[i]);
    CHECK(!lang_nth(l, 6, &s) && !lang_nth(lang_all(p), 0, &s));
    EQ_INT(lang_count(lang_length(p, 0, 1), 1 << 30), 1 + LANG_SYMBOLS), EQ_INT(lang_count(lang_length(p, 0, 1000000), 77), 77);
    EQ_INT(lang_count(lang_all(p), 5), 5), EQ_INT(lang_count(lang_length(p, 0, 0), 5), 1);
    CHECK(lang_endless(lang_all(p)) && !lang_endless(l) && !lang_endless(lang_none(p)) &&
          lang_endless(lang_length(p, 3, UINT64_MAX)));
    CHECK(lang_endless(lang_not(p, lang_word(p, bytes_of("ab")))));
    CHECK(!lang_has(lang_all(p), bytes_of("\xff")) && !lang_has(lang_all(p), bytes_of("\xed\xa0\x80")) &&
          lang_has(l, bytes_of("\xf0\x9f\x98\x80")));
    str_drop(&s);
    lang_pool_free(p);
}

/* A large enumeration is built at once; two numbers hold a bounded text of any length. */
static void t_lang_large(void) {
    lang_pool *p = lang_pool_new(1 << 20);
    enum { WORDS = 10000 };
    char (*room)[24] = mem_new(WORDS, sizeof *room);
    bytes *w = mem_new(WORDS, sizeof *w);
    const double from = t_cpu();
    for (int i = 0; i < WORDS; i++) {
        snprintf(room[i], sizeof room[i], "%016llx", (unsigned long long)rng_mix((uint64_t)i));
        w[i] = bytes_of(room[i]);
    }
    const lang *l = lang_words(p, w, WORDS), *odd = lang_not(p, l);
    EQ_INT(lang_count(l, UINT64_MAX), WORDS);
    CHECK(lang_has(l, w[77]) && !lang_has(odd, w[77]) && lang_has(odd, bytes_of("77")) && lang_not(p, odd) == l);
    CHECK(lang_and(p, lang_length(p, 0, 1000000000), lang_length(p, 10, 100000)) == lang_length(p, 10, 100000) && !lang_over(p));
    CHECK(lang_not(p, lang_length(p, 0, 1000000000)) == lang_length(p, 1000000001, UINT64_MAX) &&
          lang_not(p, lang_word(p, bytes_of(""))) == lang_length(p, 1, UINT64_MAX));
    CHECK(lang_or(p, lang_length(p, 0, 1000000000), lang_length(p, 1000000001, 2000000000)) == lang_length(p, 0, 2000000000));
    CHECK(lang_or(p, lang_length(p, 7, 1000000000), lang_not(p, lang_length(p, 9, UINT64_MAX))) == lang_length(p, 0,
            1000000000) && !lang_over(p));
    CHECK(t_cpu() - from < 10);
    CHECK(!lang_not(p, lang_length(p, 1, 10000000)) && lang_over(p) && !lang_all(p) && !lang_and(p, l, l));
    mem_free(w);
    mem_free(room);
    lang_pool_free(p);
}

/* --- expressions --- */

/* %XX become bytes, in place; returns the text. */
static bytes t_lang_plain(char *s) {
    char *to = s;
    for (const char *p = s; *p; to++) {
        char hex[3] = {0};
        if (*p == '%') memcpy(hex, p + 1, 2), *to = (char)strtol(hex, NULL, 16), p += 3;
        else *to = *p++;
    }
    return (bytes){(const uint8_t *)s, (size_t)(to - s)};
}

typedef struct {                                      /* an expression in its forms */
    lang_pool  *p;
    const lang *l;                                    /* as a language */
    gram       *rules, *of_lang, *json, *loose;       /* as rules; the language as rules; as a JSON string in both
                                                       * forms. NULL: nothing satisfies */
} t_lang_rx;

static gram *t_lang_sealed(gram *g, int32_t root) {
    err_t e = {0};
    if (gram_seal(g, root, &e)) return g;
    CHECKF(e.code == EXIT_INPUT && strstr(e.text, "nothing"), "exit %d: %s", e.code, e.text);
    gram_free(g);
    return NULL;
}

static gram *t_lang_rules(bytes pattern, err_t *e) {
    gram   *g = gram_new();
    int32_t root = gram_rule(g, "root");
    if (lang_regex_gram(g, gram_begin(g, root), pattern, gram_end(g, root), e)) return t_lang_sealed(g, root);
    gram_free(g);
    return NULL;
}

static gram *t_lang_emitted(const lang *l, int form) {
    gram   *g = gram_new();
    int32_t root = gram_rule(g, "root");
    if (form == 0) lang_emit(g, gram_begin(g, root), l, gram_end(g, root));
    else lang_emit_json(g, gram_begin(g, root), l, form == 2, false, gram_end(g, root));
    return t_lang_sealed(g, root);
}

static bool t_lang_match(gram *g, bytes text) {
    err_t  e = {0};
    size_t at;
    const bool ok = g && gram_match(g, text, &at, &e);
    CHECKF(!e.code, "%s", e.text);
    return ok;
}

/* The inside of a JSON string; loose: as Python's json.dumps with ensure_ascii writes it, and a slash with a backslash. */
static void t_lang_json(str *out, bytes text, bool loose) {
    static const char from[] = "\"\\\b\f\n\r\t/", to[] = "\"\\bfnrt/";
    uint32_t          symbol;
    for (size_t i = 0, len; i < text.n; i += len) {
        len = (size_t)lang__read(text.p + i, text.n - i, &symbol);
        const uint32_t code = lang__code(symbol);
        const char    *p = code && code < 128 ? strchr(from, (int)code) : NULL;
        if (p && (loose || *p != '/')) str_fmt(out, "\\%c", to[p - from]);
        else if (code < 0x20 || (loose && code > 0x7e && code < 0x10000)) str_fmt(out, loose ? "\\u%04X" : "\\u%04x", code);
        else if (loose && code >= 0x10000) str_fmt(out, "\\u%04x\\u%04X", 0xd800 + (code - 0x10000) / 1024, 0xdc00 + code % 1024);
        else str_add(out, text.p + i, len);
    }
}

static void t_lang_ask(const t_lang_rx *x, const char *shown, bytes text, bool want) {
    str json = {0}, loose = {0};
    t_lang_json(&json, text, false), t_lang_json(&loose, text, true);
    CHECKF(lang_has(x->l, text) == want, "%s: language, '%.*s': want %d", shown, (int)text.n, text.p, want);
    CHECKF(t_lang_match(x->of_lang, text) == want, "%s: rules of the language, '%.*s': want %d", shown, (int)text.n,
           text.p, want);
    CHECKF(t_lang_match(x->json, str_bytes(&json)) == want, "%s: JSON, '%.*s': want %d", shown, (int)json.n, json.p, want);
    CHECKF(t_lang_match(x->loose, str_bytes(&loose)) == want && t_lang_match(x->loose, str_bytes(&json)) == want,
           "%s: JSON in any spelling, '%.*s': want %d", shown, (int)loose.n, loose.p, want);
    str_drop(&json), str_drop(&loose);
}

static void t_lang_rx_open(t_lang_rx *x, char kind, bytes pattern, const char *shown) {
    err_t   e = {0}, e2 = {0};
    lang_rx rx = {.text = pattern, .python = kind == 'F', .e = &e};
    *x = (t_lang_rx){.p = lang_pool_new(1 << 20)};
    x->l = lang__rx_lang(x->p, &rx, kind == 'S');
    lang__rx_drop(&rx);
    CHECKF(x->l && !e.code, "%s: %s", shown, e.text);
    if (!x->l) return;
    if (kind == 'F') x->rules = t_lang_rules(pattern, &e2);
    x->of_lang = t_lang_emitted(x->l, 0);
    x->json = t_lang_emitted(x->l, 1);
    x->loose = t_lang_emitted(x->l, 2);
    CHECKF(!e2.code, "%s: %s", shown, e2.text);
    CHECKF(kind == 'S' || !x->rules == lang_empty(x->l), "%s: nothing satisfies: rules %d, language %d", shown,
           !x->rules, lang_empty(x->l));
}

static void t_lang_rx_close(t_lang_rx *x) {
    gram_free(x->rules), gram_free(x->of_lang), gram_free(x->json), gram_free(x->loose);
    lang_pool_free(x->p);
    *x = (t_lang_rx){0};
}

static void t_lang_refused(bytes pattern, const char *shown) {
    err_t e = {0};
    gram *g = t_lang_rules(pattern, &e);
    CHECKF(e.code == EXIT_INPUT && strncmp(e.text, "byte ", 5) == 0, "%s: exit %d, %s", shown, e.code, e.text);
    gram_free(g);
}

static void t_lang_python(void) {
    char     *file = t_read("tests/data/golden/regex.txt", NULL), *rest = NULL, shown[300], kind = 0;
    t_lang_rx x = {0};
    int       n = 0;
    if (!CHECK(file)) return;
    for (char *line = strtok_r(file, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (*line == '#') continue;
        if (*line == '+' || *line == '-') {
            const bool  want = *line == '+';
            const bytes text = t_lang_plain(line + 1);
            if (!x.l) continue;
            t_lang_ask(&x, shown, text, want);
            if (kind == 'F')
                CHECKF(t_lang_match(x.rules, text) == want, "%s: rules, '%.*s': want %d", shown, (int)text.n, text.p, want);
            n++;
            continue;
        }
        kind = *line;
        snprintf(shown, sizeof shown, "%s", line);
        const bytes pattern = t_lang_plain(line + 2);
        t_lang_rx_close(&x);
        if (kind == '!') t_lang_refused(pattern, shown);
        else t_lang_rx_open(&x, kind, pattern, shown);
    }
    t_lang_rx_close(&x);
    CHECK(n >= 5000);
    mem_free(file);
}

/* A bound that is kept as a number says what the automaton would. */
static void t_lang_tall(void) {
    err_t       e = {0};
    lang_pool  *p = lang_pool_new(1 << 20);
    const lang *x = lang_regex(p, bytes_of("(aa|b)+"), false, &e), *y = lang_regex(p, bytes_of("a*"), false, &e),
               *tall = lang_and(p, x, lang_length(p, 0, 5000)), *both = lang_and(p, tall, y);
    str         s = {0};
    CHECK(lang_is_tall(tall) && !lang_is_tall(x) && lang_and(p, lang_length(p, 0, 5000), x) == tall);
    CHECK(lang_and(p, tall, lang_length(p, 0, 6000)) == tall && lang_and(p, tall, lang_length(p, 5001, 6000)) == lang_none(p));
    CHECK(lang_and(p, lang_word(p, bytes_of("aab")), lang_length(p, 0, 5000)) == lang_word(p, bytes_of("aab")));
    CHECK(lang_and(p, lang_and(p, x, lang_length(p, 0, 9000)), lang_length(p, 0, 3)) == lang_and(p, x, lang_length(p, 0, 3)));
    for (int i = 0; i < 4996; i++) str_put(&s, "a");
    for (int i = 4996; i < 5005; i++, str_put(&s, "a")) {
        const bool want = i % 2 == 0 && i <= 5000;
        CHECKF(lang_has(tall, str_bytes(&s)) == want && lang_has(both, str_bytes(&s)) == want &&
               lang_has(lang_not(p, tall), str_bytes(&s)) == !want &&
               lang_has(lang_or(p, tall, lang_word(p, bytes_of("q"))), str_bytes(&s)) == want, "%d", i);
    }
    CHECK(!lang_over(p));
    str_drop(&s);
    lang_pool_free(p);
}

/* The general category of every character is that of Python's unicodedata (tests/gen/unicode.py --categories-sum). */
static void t_lang_categories(void) {
    uint64_t hash = 0xcbf29ce484222325;
    pthread_once(&lang__unpacked, lang__unpack);
    for (uint32_t c = 0, i; c < 0x110000; c++) {
        for (i = 0; i < LANG_CATEGORIES && !chars_find(&lang__set[i], c); i++) {}
        hash = (hash ^ (i < LANG_CATEGORIES ? i : 255)) * 0x100000001b3;
    }
    CHECKF(hash == 0x20728d8c78256739, "%016llx", (unsigned long long)hash);
}

/* Classes: Unicode's in Python, but under the flag a; ASCII's in JSON Schema, but for blanks and \\p. */
static void t_lang_classes(void) {
    static const struct { const char *pattern, *text; int python, schema; } rows[] = {
        {"\\d", "7", 1, 1}, {"\\d", "\u0663", 1, 0}, {"\\d", "\u00b2", 0, 0}, {"\\D", "\u0663", 0, 1}, {"(?a)\\d", "\u0663", 0, -1},
        {"\\w", "\u00e9", 1, 0}, {"\\w", "\u00b2", 1, 0}, {"\\w", "\u4e2d", 1, 0}, {"\\w", "_", 1, 1}, {"\\w", "\u0301", 0, 0},
        {"\\W", "\u00e9", 0, 1}, {"[^\\W\\d_]", "\u00e9", 1, 0}, {"(?a:\\w)", "\u00e9", 0, -1}, {"(?a:(?u:\\w))", "\u00e9", 1, -1},
        {"\\s", "\x1c", 1, 0}, {"\\s", "\xc2\x85", 1, 0}, {"\\s", "\u3000", 1, 1}, {"\\s", "\ufeff", 0, 1}, {"(?a)\\s", "\u3000", 0, -1},
        {"(?i)\u00e9", "\u00c9", 1, 0}, {"(?i)[\u00e0-\u00ff]", "\u0178", 1, 0}, {"(?i)k", "\u212a", 1, 0}, {"(?ai)k", "\u212a", 0, -1},
        {"(?i)\u017f", "S", 1, 0}, {"(?i)[^\u00e9]", "\u00c9", 0, 1}, {"(?ai)\u00e9", "\u00c9", 0, -1}, {"(?i)\u03c3", "\u03c2", 1, 0},
        {"x\\b\u00e9", "x\u00e9", -1, 1}, {"x\\B\u00e9", "x\u00e9", 1, 0}, {"(?a)x\\b\u00e9", "x\u00e9", 1, -1},
        {"\\p{L}", "\u00e9", -1, 1}, {"\\p{L}", "1", -1, 0}, {"\\P{L}", "1", -1, 1}, {"\\p{Lu}", "\u00c9", -1, 1}, {"\\p{Lu}", "\u00e9", -1, 0},
        {"\\p{Letter}", "\u4e2d", -1, 1}, {"\\p{gc=Nd}", "\u0663", -1, 1}, {"\\p{General_Category=Number}", "\u00b2", -1, 1},
        {"[\\p{Sc}a]", "\u20ac", -1, 1}, {"[^\\p{P}]", "!", -1, 0}, {"[\\P{P}]", "!", -1, 0}, {"\\p{Zs}", " ", -1, 1},
    };
    lang_pool *p = lang_pool_new(1 << 20);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        err_t       e = {0}, e2 = {0};
        gram       *g = t_lang_rules(bytes_of(rows[i].pattern), &e);
        const lang *l = lang_regex(p, bytes_of(rows[i].pattern), false, &e2);
        CHECKF((g ? t_lang_match(g, bytes_of(rows[i].text)) : -1) == rows[i].python, "Python: %s, %s: %s", rows[i].pattern,
               rows[i].text, e.text);
        CHECKF((l ? lang_has(l, bytes_of(rows[i].text)) : -1) == rows[i].schema, "JSON Schema: %s, %s: %s", rows[i].pattern,
               rows[i].text, e2.text);
        gram_free(g);
    }
    lang_pool_free(p);
}

/* Expressions that are refused, with the byte that the message names. */
static void t_lang_messages(void) {
    static const struct { const char *pattern, *python, *schema; } rows[] = {
        {"(?=a)b", "byte 1: found a lookahead", NULL},
        {"a(?<!b)", "byte 2: found a lookbehind", "byte 2: found a lookbehind"},
        {"(a)\\1", "byte 4: found a backreference", "byte 4: found a backreference"},
        {"(?P<n>a)(?P=n)", "byte 9: found a backreference", "byte 9: found a backreference"},
        {"(?(1)a|b)", "byte 1: found a conditional group", "byte 1: found a conditional group"},
        {"(?>a)", "byte 1: found an atomic group", "byte 1: found an atomic group"},
        {"a{2}+", "byte 2: found a possessive count", "byte 5: found '+', expected no second count"},
        {"(?au)a", "byte 3: found the flags a and u", "byte 3: found a flag other than i"},
        {"(?a:\\b)", "byte 5: found a word's edge under a flag a or u", "byte 3: found a flag other than i"},
        {"\\p{Han}", "byte 2: found 'p', expected an escape of Python's re", "byte 1: found a property of Unicode (\\p) other"},
        {"\\pL", "byte 2: found 'p', expected an escape of Python's re", "byte 3: found 'L', expected a property of Unicode"},
        {"\\p{L", "byte 2: found 'p', expected an escape of Python's re", "byte 4: found 'L', expected a property of Unicode"},
        {"\\N{DIGIT ONE}", "byte 1: found a character by its name", "byte 2: found 'N', expected an escape of ECMA-262"},
        {"a(b", "byte 2: found '(' without its ')'", "byte 2: found '(' without its ')'"},
        {"a)b", "byte 2: found ')' without its '('", "byte 2: found ')' without its '('"},
        {"*", "byte 1: found '*', expected a part", "byte 1: found '*', expected a part"},
        {"a{3,2}", "byte 2: found a count whose least is above its most", "byte 2: found a count whose least is above its most"},
        {"[b-a]", "byte 2: found a range that ends before it begins", "byte 2: found a range that ends before it begins"},
        {"x[a", "byte 2: found a class without its ']'", "byte 2: found a class without its ']'"},
        {"\\", "byte 2: found the end, expected an escaped character", "byte 2: found the end, expected an escaped character"},
        {"\\xg1", "byte 3: found 'g', expected a hexadecimal digit", "byte 3: found 'g', expected a hexadecimal digit"},
        {"\\U00110000", "byte 10: found '0', expected a code point up to 10ffff",
         "byte 2: found 'U', expected an escape of ECMA-262"},
        {"\\400", "byte 1: found an octal number above 377", "byte 1: found a backreference"},
        {"a\xff", "byte 2: found byte 0xff, expected UTF-8", "byte 2: found byte 0xff, expected UTF-8"},
        {"(?P<a>x)(?P<a>y)", "byte 13: found the name of an earlier group", "byte 13: found the name of an earlier group"},
        {"a{18446744073709551615}", "byte 3: found a count of 2^64 - 1 or more", "byte 3: found a count of 2^64 - 1 or more"},
        {"(a(?=b))", "byte 3: found a lookahead", NULL},
        {"(a(?=b))*", "byte 3: found a lookahead", "byte 3: found a lookahead within a group or a repetition"},
        {"a\\b(?=b)\\bc", "byte 4: found a lookahead", "byte 9: found a place that asks for what came before"},
    };
    lang_pool *p = lang_pool_new(1 << 20);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        err_t       e = {0}, e2 = {0};
        gram       *g = t_lang_rules(bytes_of(rows[i].pattern), &e);
        const lang *l = lang_regex(p, bytes_of(rows[i].pattern), true, &e2);
        CHECKF(strncmp(e.text, rows[i].python, strlen(rows[i].python)) == 0, "%s: got '%s', want '%s'",
               rows[i].pattern, e.text, rows[i].python);
        CHECKF(rows[i].schema ? !l && strncmp(e2.text, rows[i].schema, strlen(rows[i].schema)) == 0 : l && !e2.code,
               "%s: got '%s', want '%s'", rows[i].pattern, e2.text,
               rows[i].schema ? rows[i].schema : "none");
        gram_free(g);
    }
    lang_pool_free(p);
}

/* What only ECMA-262 has, or reads in another way than Python. */
static void t_lang_ecma(void) {
    static const struct { const char *pattern, *yes, *no; } rows[] = {
        {"^\\u{1F600}$", "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x81"}, {"^\\uD83D\\uDE00$", "\xf0\x9f\x98\x80", "a"},
        {"^\\cJ$", "\n", "J"},
        {"^[\\w-.]+$", "a-.", "a+"},                              {"^a$", "a", "a\n"},
        {"^.$", "\xc2\x85", "\xe2\x80\xa8"},
        {"^\\s$", "\xef\xbb\xbf", "\x1c"},                        {"^\\S$", "\x1c", "\xe2\x80\x83"},
        {"^(?<n>a)b$", "ab", "a"},
        {"^[^]$", "\n", ""},                                      {"[]", NULL, "a"},
        {"^(?!.*--)(?=.*\\d)[a-z\\d-]+$", "a-1-b", "a--1"},
        {"^(?!admin$)[a-z]+$", "admins", "admin"},                {"(?=a)[ab]$", "ba", "ab"},
        {"^(?!a)a|b(?!c)", "bd", "abc"},
        {"^(a|[bc])*(?!\\n)$", "abc", "abd"},                     {"(?i)^straSSe$", "STRASSE", "stra\xc3\x9f""e"},
        {"^\\d{3}-\\d{4}$", "555-0123", "5555-0123"},
        {"^{a}$", "{a}", "a"},                                    {"a{,2}", "a{,2}", "aa"},
        {"\\/\\-\\_", "/-_", "/-"},
    };
    lang_pool *p = lang_pool_new(1 << 20);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        err_t       e = {0};
        const lang *l = lang_regex(p, bytes_of(rows[i].pattern), true, &e);
        if (!CHECKF(l && !e.code, "%s: %s", rows[i].pattern, e.text)) continue;
        CHECKF(!rows[i].yes || lang_has(l, bytes_of(rows[i].yes)), "%s matches '%s'", rows[i].pattern, rows[i].yes);
        CHECKF(!lang_has(l, bytes_of(rows[i].no)), "%s does not match '%s'", rows[i].pattern, rows[i].no);
    }
    lang_pool_free(p);
}

/* Counts and nesting of any size, expressions that blow up: an answer at once, with a code of CLI.md; what is built
 * matches in linear time. */
static void t_lang_hostile(void) {
    static const struct { const char *head, *part, *tail; int n, rules, schema; } rows[] = {
        {"(a{1,1000}){1,1000000000}", "", "", 0, EXIT_DONE, EXIT_RESOURCE},
        {"(a|b)*a(a|b){30}", "", "", 0, EXIT_DONE, EXIT_RESOURCE}, {"^(\\w+\\s?)+$", "", "", 0, EXIT_DONE, EXIT_DONE},
        {"(a{2}b?){0,1000000000000000000}", "", "", 0, EXIT_DONE, EXIT_RESOURCE},
        {"(x+x+)+y", "", "", 0, EXIT_DONE, EXIT_DONE},             {"^(.|\\s){2,1000000}$", "", "", 0, EXIT_DONE, EXIT_DONE},
        {"", "(", "", 100000, EXIT_INPUT, EXIT_INPUT},
        {"", "(?:", "", 100000, EXIT_INPUT, EXIT_INPUT},           {"", "a?", "", 20000, EXIT_DONE, EXIT_DONE},
        {"", "(?=a)", "", 1000, EXIT_INPUT, EXIT_RESOURCE},
        {"", "[^a]", "", 20000, EXIT_DONE, EXIT_RESOURCE},            {"", "\\b", "a", 20000, EXIT_DONE, EXIT_DONE},
        {"[", "\\u0100-\\uffff", "]", 50000, EXIT_DONE, EXIT_DONE},
        {"", ".*x", "", 3000, EXIT_DONE, EXIT_RESOURCE},
        {"", "aaaaaaaaaaaaaaaa", "", 100000, EXIT_RESOURCE, EXIT_RESOURCE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        str          s = {0};
        err_t        e = {0}, e2 = {0};
        lang_pool   *p = lang_pool_new(LANG_STATES);
        const double from = t_cpu();
        str_put(&s, rows[i].head);
        for (int k = 0; k < rows[i].n; k++) str_put(&s, rows[i].part);
        str_put(&s, rows[i].tail);
        gram       *g = t_lang_rules(str_bytes(&s), &e);
        const lang *l = lang_regex(p, str_bytes(&s), true, &e2);
        CHECKF(e.code == rows[i].rules && !g == !!e.code, "%.20s: rules: exit %d, %s", s.p, e.code, e.text);
        CHECKF(e2.code == rows[i].schema && !l == !!e2.code, "%.20s: language: exit %d, %s", s.p, e2.code, e2.text);
        CHECKF(t_cpu() - from < 10, "%.20s: %.1f s", s.p, t_cpu() - from);
        gram_free(g), lang_pool_free(p), str_drop(&s);
    }
}

/* Many groups, one in the other, are one part. */
static void t_lang_deep(void) {
    str   s = {0};
    err_t e = {0};
    for (int k = 0; k < 100000; k++) str_put(&s, "(");
    str_put(&s, "a");
    for (int k = 0; k < 100000; k++) str_put(&s, k % 2 ? ")*" : "){2}");
    gram *g = t_lang_rules(str_bytes(&s), &e);
    CHECKF(g && t_lang_match(g, bytes_of("aaaa")) && t_lang_match(g, bytes_of("")) &&
           !t_lang_match(g, bytes_of("ab")), "%s", e.text);
    gram_free(g);
    str_drop(&s);
}

/* Characters as bytes: all of some ranges, and no others. */
static void t_lang_chars(void) {
    err_t e = {0};
    static const gram_range r[] = {{0, 5}, {0x7e, 0x81}, {0x7ff, 0x801}, {0xd000, 0xe005}, {0xfff0, 0x1000f},
                                   {0x10fff0, 0x11ffff}, {0x20000, 0x2ffff}, {0x20005, 0x20009}};
    gram        *g = gram_new();
    const int32_t one = gram_rule(g, NULL);
    lang_chars(g, gram_begin(g, one), r, sizeof r / sizeof *r, gram_end(g, one));
    for (int32_t i = 0; i < g->n_state; i++)          /* a byte leads to one state */
        for (int32_t a = g->head[i]; a >= 0; a = g->arc[a].next)
            for (int32_t b = g->arc[a].next; b >= 0; b = g->arc[b].next)
                CHECK(g->arc[a].hi < g->arc[b].lo || g->arc[b].hi < g->arc[a].lo);
    if (!CHECKF(gram_seal(g, one, &e), "%s", e.text)) return;
    gram_hold(g, true);
    for (uint32_t c = 0; c < 0x110000; c += c < 0x11000 || (c & 0xffff) < 0x10 || (c & 0xffff) > 0xffe0 ? 1 : 0x61) {
        uint8_t b[4];
        int     n = 0;
        if (c < 0x80) b[n++] = (uint8_t)c;
        else if (c < 0x800) b[n++] = (uint8_t)(0xc0 | c >> 6);
        else if (c < 0x10000) b[n++] = (uint8_t)(0xe0 | c >> 12), b[n++] = (uint8_t)(0x80 | (c >> 6 & 63));
        else
            b[n++] = (uint8_t)(0xf0 | c >> 18), b[n++] = (uint8_t)(0x80 | (c >> 12 & 63)),
                b[n++] = (uint8_t)(0x80 | (c >> 6 & 63));
        if (c >= 0x80) b[n++] = (uint8_t)(0x80 | (c & 63));
        bool    want = false;
        int32_t set = gram__first(g);
        for (size_t i = 0; i < sizeof r / sizeof *r; i++)
            want = want || (r[i].lo <= c && c <= r[i].hi && (c < 0xd800 || c > 0xdfff));
        for (int i = 0; i < n; i++) set = gram_step(g, set, b[i]);
        if (!CHECKF(gram_closed(g, set) == want, "U+%04X", c)) return;
    }
    gram_free(g);
}

static const t_case t_lang_cases[] = {
    {"lang operations", "and, or and not of languages hold the texts that those of sets hold", t_lang_operations},
    {"lang same", "equal languages are one pointer, however they were made", t_lang_same},
    {"lang numbers", "words are counted and listed in order; endless languages are found", t_lang_numbers},
    {"lang large", "ten thousand words, lengths up to a billion, a budget that is kept to", t_lang_large},
    {"lang chars", "characters become bytes of UTF-8, each byte leads to one state", t_lang_chars},
    {"lang tall", "a large bound of the length is kept as a number and says the same", t_lang_tall},
    {"lang categories", "the general category of every character is Python's", t_lang_categories},
    {"lang classes", "classes, cases and words are Unicode's in Python, and ASCII's in JSON Schema, which has categories by name",
     t_lang_classes},
    {"lang python", "random expressions match what Python's re matches, as rules, as languages and as JSON strings",
     t_lang_python},
    {"lang ecma", "what ECMA-262 reads in another way than Python, lookaheads, places", t_lang_ecma},
    {"lang messages", "a refused expression names its byte and what was found there", t_lang_messages},
    {"lang hostile", "expressions that blow up elsewhere are built or refused at once", t_lang_hostile},
    {"lang deep", "a hundred thousand groups, one in the other", t_lang_deep},
};
static const t_suite t_lang_suite = SUITE(t_lang_cases);
