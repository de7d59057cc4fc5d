/* Tests of [constrain]: constraints from their texts, free text before them, equal ones, places of answers. The
 * vocabulary is that of t_mask.c. */
#include "program.h"
#include "check.h"
#include "t_mask.h"

typedef struct {
    tk_vocab         k;
    tk_dice          d;
    constrain_cache *cache;
} tco;

static void tco_open(tco *t) {
    *t = (tco){0};
    tk_vocab_open(&t->k, 512, &t->d);
    t->cache = constrain_cache_new(&t->k.v);
}

static void tco_close(tco *t) {
    constrain_cache_free(t->cache);
    tk_vocab_close(&t->k);
}

static constrain_spec tco_spec(constrain_kind kind, const char *text) {
    return (constrain_spec){.kind = kind, .text = bytes_of(text), .path = "--x"};
}

/* Whether --match takes the text. */
static bool tco_takes(const constrain_spec *o, bytes text) {
    err_t      e = {0};
    size_t     at = 0;
    constrain *c = constrain_open(o, NULL, NULL, &e);
    CHECKF(c != NULL, "%.*s: %s", (int)o->text.n, o->text.p, e.text);
    const bool yes = c && constrain_match(c, text, &at, &e);
    CHECK(!e.code);
    constrain_close(c);
    return yes;
}

/* A byte order mark in front of a grammar or a schema is no part of it. */
static void t_constrain_mark(void) {
    const constrain_spec grammar = tco_spec(CONSTRAIN_GBNF, "\xef\xbb\xbfroot ::= \"a\""),
                         schema = tco_spec(CONSTRAIN_SCHEMA, "\xef\xbb\xbf{\"const\":1}");
    CHECK(tco_takes(&grammar, bytes_of("a")) && !tco_takes(&grammar, bytes_of("b")));
    CHECK(tco_takes(&schema, bytes_of("1")) && !tco_takes(&schema, bytes_of("2")));
}

/* Bars separate texts; a backslash makes a bar or a backslash a part of one. */
static void t_constrain_choice(void) {
    static const struct {
        const char *text, *takes, *not;               /* texts with newlines between them */
    } rows[] = {
        {"yes|no", "yes\nno", "ye\nyes|no\nyesno\n"}, {"a\\|b|c", "a|b\nc", "a\nb\na\\|b"},
        {"a\\\\|b", "a\\\nb", "a\na|b\na\\|b"}, {"a\\b\\", "a\\b\\", "ab\na\\b"},
        {"|x", "\nx", "|\n|x"},                       {"x|", "x\n", "x|"},                  {"", "", "x"},
        {"aa|a|a", "a\naa", "aaa\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const constrain_spec o = tco_spec(CONSTRAIN_CHOICE, rows[i].text);
        for (int side = 0; side < 2; side++)
            for (const char *p = side ? rows[i].not : rows[i].takes; p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
                const bytes text = {(const uint8_t *)p, strcspn(p, "\n")};
                if (side && !text.n) continue;
                CHECKF(tco_takes(&o, text) == !side, "'%s': '%.*s'", rows[i].text, (int)text.n, p);
            }
    }
}

/* Free text up to a mark: any text is taken exactly where the constraint follows the first mark in it. Against
 * memmem, for marks that overlap themselves. */
static void t_constrain_until(void) {
    tk_dice d = {0};
    for (int round = 0; round < 2000; round++) {
        char           mark[8] = "", text[24] = "";
        const size_t   n = 1 + tk_roll(&d, 4), m = tk_roll(&d, 16);
        constrain_spec o = tco_spec(CONSTRAIN_CHOICE, "b|ab");
        for (size_t i = 0; i < n; i++) mark[i] = "ab"[tk_roll(&d, 2)];
        for (size_t i = 0; i < m; i++) text[i] = "ab"[tk_roll(&d, 2)];
        o.after = bytes_of(mark);
        const char *at = strstr(text, mark), *rest = at ? at + n : "";
        CHECKF(tco_takes(&o, bytes_of(text)) == (at && (strcmp(rest, "b") == 0 || strcmp(rest, "ab") == 0)),
               "%s after the first %s", text, mark);
    }
}

/* Thinking comes first, once, and only where there are marks; blanks after it are free. */
static void t_constrain_thinking(void) {
    static const struct {
        bool        inside;
        const char *text;
        bool        takes;
    } rows[] = {
        {true, "so it is</t>yes", true},   {true, "</t>\n\nno", true},          {true, "yes", false},
        {true, "<t></t>no", true},           {true, "a</t>        yes", true},
        {true, "a</t>         yes", false}, {false, "yes", true},               {false, "<t>a</t>yes", true},
        {false, "\n<t>a\n</t>\n\nyes", true}, {false, "<t>a", false},
        {false, "a</t>yes", false},        {false, "<t>a</t>no</t>yes", false}, {false, " yes", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        constrain_spec o = tco_spec(CONSTRAIN_CHOICE, "yes|no");
        o.think = (constrain_think){.open = bytes_of("<t>"), .end = bytes_of("</t>"), .inside = rows[i].inside};
        CHECKF(tco_takes(&o, bytes_of(rows[i].text)) == rows[i].takes, "%d %s", rows[i].inside, rows[i].text);
    }
}

/* Equal constraints are one; what differs in anything is another; one that is refused is tried once. Few are kept
 * that nobody uses. */
static void t_constrain_cache(void) {
    tco            t;
    err_t          e = {0};
    constrain_spec a = tco_spec(CONSTRAIN_CHOICE, "yes|no"), b;
    tco_open(&t);
    CHECK(t.cache->words == NULL);
    constrain *first = constrain_get(t.cache, &a, &e), *again = constrain_get(t.cache, &a, &e);
    CHECK(first && first == again && first->users == 3);
    b = a, b.close = true;
    constrain *other = constrain_get(t.cache, &b, &e);
    CHECK(other && other != first);
    constrain_close(other);
    b = a, b.after = bytes_of("no");
    other = constrain_get(t.cache, &b, &e);
    CHECK(other && other != first);
    constrain_close(other);
    b = a, b.kind = CONSTRAIN_GBNF;
    CHECK(!constrain_get(t.cache, &b, &e) && e.code == EXIT_INPUT && strncmp(e.text, "--x: ", 5) == 0);
    const int n = t.cache->n;
    e = (err_t){0};
    CHECK(!constrain_get(t.cache, &b, &e) && e.code == EXIT_INPUT && t.cache->n == n);
    for (int i = 0; i < 5 * CONSTRAIN_IDLE; i++) {
        char text[16];
        snprintf(text, sizeof text, "a%d", i);
        b = tco_spec(CONSTRAIN_CHOICE, text);
        e = (err_t){0};
        other = constrain_get(t.cache, &b, &e);
        CHECK(other != NULL);
        constrain_close(other);
    }
    CHECKF(t.cache->n <= CONSTRAIN_IDLE + 2, "%d are kept", t.cache->n);
    e = (err_t){0};
    CHECK(constrain_get(t.cache, &a, &e) == first);
    for (int i = 0; i < 3; i++) constrain_close(first);
    tco_close(&t);
}

/* A place: what may come, end tokens among it where the text is whole, also those of a chat; a copy goes on alone; a
 * token that is not allowed ends it. */
static void t_constrain_seq(void) {
    tco            t;
    err_t          e = {0};
    constrain_spec o = tco_spec(CONSTRAIN_GBNF, "root ::= \"a\" \"b\"*");
    int32_t        stop = 2 + '#', a = 2 + 'a', b = 2 + 'b';
    const tok_ids  ends = {&stop, 1, 1};
    float          logits[600];
    tco_open(&t);
    constrain     *c = constrain_get(t.cache, &o, &e);
    constrain_seq *s = constrain_seq_new(c, false, &ends, 1), *copy = constrain_seq_like(s);
    CHECK(!constrain_complete(s) && !constrain_closed(s));
    for (int i = 0; i < 600; i++) logits[i] = 1;
    mem_freeze("a mask");
    CHECK(constrain_mask(s, logits, 600, -1) && logits[a] > 0 && isinf(logits[b]) && isinf(logits[stop]) &&
          isinf(logits[0]) && isinf(logits[599]));
    CHECK(constrain_accept(s, a) && constrain_complete(s) && !constrain_closed(s));
    for (int i = 0; i < 600; i++) logits[i] = 1;
    CHECK(constrain_mask(s, logits, 600, -1) && isinf(logits[a]) && logits[b] > 0 && logits[stop] > 0 && logits[0] > 0);
    constrain_seq_copy(copy, s);
    CHECK(constrain_feed(copy, bytes_of("bbb")) && constrain_complete(copy));
    CHECK(!constrain_accept(copy, a) && !constrain_complete(copy) && !constrain_mask(copy, logits, 600, -1) &&
          !constrain_accept(copy, b));
    CHECK(constrain_accept(s, b) && constrain_complete(s));
    mem_thaw();
    constrain_seq_free(copy);
    constrain_seq_free(s);
    constrain_close(c);
    tco_close(&t);
}

static const t_case t_constrain_cases[] = {
    {"constrain.choice", "bars separate texts, backslashes make them ordinary", t_constrain_choice},
    {"constrain.mark", "a byte order mark in front of a grammar or a schema is skipped", t_constrain_mark},
    {"constrain.until", "the constraint begins after the first mark", t_constrain_until},
    {"constrain.thinking", "thinking may come before it", t_constrain_thinking},
    {"constrain.cache", "equal constraints are compiled once", t_constrain_cache},
    {"constrain.seq", "places of answers and their masks", t_constrain_seq},
};
static const t_suite t_constrain_suite = SUITE(t_constrain_cases);
