/* ===== [gbnf] grammars in GBNF =====
 * Reads a grammar as llama.cpp documents the format, in one pass, and builds each of its rules in an automaton.
 * Groups are in the rule around them; a count {m,n} is a register of the automaton, so nothing is unrolled.
 * Characters are code points. As llama.cpp: the last definition of a rule counts; a newline ends a rule outside of
 * groups, except after '|' and '::='; `.` and negated classes take newlines too. Unlike it: counts have no limit of
 * 2,000; what is empty or reversed in a class or a count is refused.
 * Public: gbnf_build.
 * Opens: gbnf_words. */

typedef struct {                                      /* tokens that a grammar names */
    void   *ctx;
    int32_t (*id_of)(void *ctx, bytes name);          /* id of the token with this text, -1: there is none */
    int32_t n_vocab;
} gbnf_words;

enum { GBNF_RANGES = 1 << 20 };                       /* ranges of a class at most */
#define GBNF_COUNT 1000000000000000000u               /* the largest number of a count */

typedef struct {
    int32_t rule;                                     /* of the automaton */
    int32_t body;                                     /* the state in which its definition begins, -1: there is none yet */
    size_t  at;                                       /* the first place of its name */
} gbnf__rule;

typedef struct {                                      /* states of an item: nothing leads into `from` from inside,
                                                       * nothing out of `to` */
    int32_t from, to;
    bool    maybe, loop;                              /* it is something that may be missing, or come again */
} gbnf__span;

typedef struct {                                      /* a rule's body or a group that is open */
    gbnf__span span, last;                            /* of all of it; of its last item */
    int32_t    before;                                /* the state in front of the group */
    size_t     at;                                    /* of its bracket */
    size_t     n;                                     /* its items, and two for each bar */
} gbnf__group;

typedef struct {
    gram             *g;
    const gbnf_words *w;                              /* NULL: no vocabulary */
    err_t            *e;
    bytes             t;
    size_t            at;                             /* the next byte of t */
    hmap              names;                          /* to places in rule */
    gbnf__rule       *rule;                           /* [0]: root */
    size_t            n_rules;
    gbnf__group      *open;                           /* [0]: the rule's body */
    size_t            n_open;
    int32_t           here;                           /* the state after what was read of the sequence */
    gram_range       *range;                          /* of the class that is read */
    size_t            n_ranges;
    str               text;                           /* of the literal or name that is read */
    size_t            again;                          /* place after the first second definition of a rule, 0: none */
} gbnf__reader;

typedef struct {                                      /* what is between brackets and counts */
    enum { GBNF__TEXT, GBNF__CHARS, GBNF__RULE, GBNF__TOKEN } kind;
    int32_t id;                                       /* of the rule, of the token */
    bool    other;                                    /* any token but this one */
} gbnf__leaf;

/* --- errors: line and byte, what was found, what was expected --- */

/* Line and byte of a place, both from 1. */
static void gbnf__place(bytes t, size_t at, size_t *line, size_t *byte) {
    size_t from = 0;
    *line = 1;
    for (size_t i = 0; i < at && i < t.n; i++)
        if (t.p[i] == '\n' || (t.p[i] == '\r' && !(i + 1 < t.n && t.p[i + 1] == '\n'))) ++*line, from = i + 1;
    *byte = at - from + 1;
}

__attribute__((format(printf, 3, 4))) static bool gbnf__fail(gbnf__reader *r, size_t at, const char *fmt, ...) {
    char    why[400];
    size_t  line, byte;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    gbnf__place(r->t, at, &line, &byte);
    return err_set(r->e, EXIT_INPUT, "line %zu, byte %zu: %s", line, byte, why);
}

/* Fails at the next byte: names what is there. */
static bool gbnf__expected(gbnf__reader *r, const char *what) {
    const size_t left = r->t.n - r->at;
    const int    len = utf8_len(r->t.p + r->at, left);
    if (!left) return gbnf__fail(r, r->at, "found the end of the grammar, expected %s", what);
    if (r->t.p[r->at] == '\n' || r->t.p[r->at] == '\r')
        return gbnf__fail(r, r->at, "found the end of the line, expected %s", what);
    if (!len || r->t.p[r->at] < 0x20) return gbnf__fail(r, r->at, "found byte 0x%02x, expected %s", r->t.p[r->at], what);
    return gbnf__fail(r, r->at, "found '%.*s', expected %s", len, (const char *)r->t.p + r->at, what);
}

/* --- characters and blanks --- */

/* The next byte, 0 at the end. */
static uint8_t gbnf__peek(const gbnf__reader *r) { return r->at < r->t.n ? r->t.p[r->at] : 0; }

static bool gbnf__newline(uint8_t b) { return b == '\n' || b == '\r'; }
static bool gbnf__in_name(uint8_t b) {
    return (b >= '0' && b <= '9') || (b >= 'A' && b <= 'Z') || (b >= 'a' && b <= 'z') || b == '-';
}

/* Skips blanks and comments, and newlines where lines may end. */
static void gbnf__skip(gbnf__reader *r, bool lines) {
    for (; r->at < r->t.n; r->at++) {
        const uint8_t b = r->t.p[r->at];
        if (b == '#')
            while (r->at + 1 < r->t.n && !gbnf__newline(r->t.p[r->at + 1])) r->at++;
        else if (b != ' ' && b != '\t' && !(lines && gbnf__newline(b))) return;
    }
}

/* The same between items: a newline is a blank in a group alone. */
static void gbnf__gap(gbnf__reader *r) { gbnf__skip(r, r->n_open > 1); }

static bool gbnf__take(gbnf__reader *r, const char *word) {
    const bool there = bytes_begins(bytes_slice(r->t, r->at, r->t.n), bytes_of(word));
    r->at += there ? strlen(word) : 0;
    return there;
}

/* The hexadecimal number of `digits` digits after the escape at `from`. */
static bool gbnf__hex(gbnf__reader *r, size_t from, int digits, uint32_t *c) {
    *c = 0;
    for (int i = 0; i < digits; i++, r->at++) {
        const uint8_t b = gbnf__peek(r);
        const int     d = bytes_hex_digit(b);
        if (d < 0 && digits == 2) return gbnf__expected(r, "2 hexadecimal digits after \\x");
        if (d < 0 && digits == 4) return gbnf__expected(r, "4 hexadecimal digits after \\u");
        if (d < 0) return gbnf__expected(r, "8 hexadecimal digits after \\U");
        *c = *c << 4 | (uint32_t)d;
    }
    return *c <= 0x10ffff || gbnf__fail(r, from, "found \\U%08x, expected a code point, which is 0010ffff at most", *c);
}

static bool gbnf__escape(gbnf__reader *r, uint32_t *c) {
    static const char from[] = "nrt\\\"[]", to[] = "\n\r\t\\\"[]";
    const size_t      at = r->at++;
    const uint8_t     b = gbnf__peek(r);
    const char       *p = b ? memchr(from, b, sizeof from - 1) : NULL;
    if (!p && !(b && memchr("xuU", b, 3)))
        return gbnf__expected(r, "n, r, t, \\, \", [, ], xHH, uHHHH or UHHHHHHHH after a backslash");
    r->at++;
    if (!p) return gbnf__hex(r, at, b == 'x' ? 2 : b == 'u' ? 4 : 8, c);
    *c = (uint8_t)to[p - from];
    return true;
}

/* The next character of a literal or class. */
static bool gbnf__char(gbnf__reader *r, uint32_t *c) {
    const int len = utf8_len(r->t.p + r->at, r->t.n - r->at);
    if (gbnf__peek(r) == '\\') return gbnf__escape(r, c);
    if (!len) return gbnf__expected(r, "UTF-8");
    *c = utf8_get(r->t.p + r->at, len);
    r->at += (size_t)len;
    return true;
}

/* --- leaves: literals, classes, names of rules, tokens --- */

static bool gbnf__literal(gbnf__reader *r) {
    const size_t from = r->at++;
    str_clear(&r->text);
    while (r->at < r->t.n && gbnf__peek(r) != '"') {
        const size_t at = r->at;
        uint32_t     c;
        if (!gbnf__char(r, &c)) return false;
        if (c >= 0xd800 && c < 0xe000)
            return gbnf__fail(r, at, "found U+%04X in a literal, expected a character: this is half of a pair in UTF-16", c);
        str_char(&r->text, c);
    }
    return gbnf__take(r, "\"") || gbnf__fail(r, from, "found a literal without its end, expected '\"'");
}

static bool gbnf__range(gbnf__reader *r, gram_range *out) {
    const size_t at = r->at;
    if (!gbnf__char(r, &out->lo)) return false;
    out->hi = out->lo;
    if (gbnf__peek(r) != '-' || r->at + 1 >= r->t.n || r->t.p[r->at + 1] == ']') return true;
    r->at++;
    if (!gbnf__char(r, &out->hi)) return false;
    return out->lo <= out->hi || gbnf__fail(r, at, "found the range U+%04X to U+%04X, expected the lower end first",
                                            out->lo, out->hi);
}

static bool gbnf__class(gbnf__reader *r) {
    const size_t from = r->at++;
    const bool   negated = gbnf__take(r, "^");
    r->n_ranges = 0;
    if (gbnf__peek(r) == ']') return gbnf__expected(r, "a character of the class (']' itself is \\])");
    while (r->at < r->t.n && gbnf__peek(r) != ']') {
        gram_range x;
        if (r->n_ranges == GBNF_RANGES) return err_set(r->e, EXIT_RESOURCE, "a class has more than %d ranges", GBNF_RANGES);
        if (!gbnf__range(r, &x)) return false;
        MEM_PUSH(r->range, r->n_ranges, x);
    }
    if (!gbnf__take(r, "]")) return gbnf__fail(r, from, "found a class without its end, expected ']'");
    if (!negated) return true;
    MEM_PUSH(r->range, r->n_ranges, (gram_range){0, 0});  /* room for one range more */
    r->n_ranges = gram_ranges_negate(r->range, gram_ranges_join(r->range, r->n_ranges - 1));
    return true;
}

/* The name at the next byte, which belongs to one. */
static bytes gbnf__name(gbnf__reader *r) {
    const size_t from = r->at;
    while (gbnf__in_name(gbnf__peek(r))) r->at++;
    return (bytes){r->t.p + from, r->at - from};
}

/* The place of the rule with this name in r->rule; a new one where the name is new. */
static size_t gbnf__rule_of(gbnf__reader *r, bytes name) {
    hmap_entry *en = hmap_add(&r->names, bytes_hash(r->names.seed, name) | 1, bytes_hash(~r->names.seed, name));
    if (!(uint32_t)en->b) {
        str_clear(&r->text);
        str_add(&r->text, name.p, name.n);
        MEM_PUSH(r->rule, r->n_rules, (gbnf__rule){gram_rule(r->g, r->text.p), -1, r->at - name.n});
        en->b |= r->n_rules;
    }
    return (size_t)(uint32_t)en->b - 1;
}

/* <[id]> after its "<[". */
static bool gbnf__token_id(gbnf__reader *r, size_t from, int32_t *id) {
    uint64_t n = 0;
    if (!isdigit(gbnf__peek(r))) return gbnf__expected(r, "the id of a token");
    for (; isdigit(gbnf__peek(r)); r->at++)
        if (n <= INT32_MAX) n = n * 10 + (gbnf__peek(r) - '0');
    if (!gbnf__take(r, "]>")) return gbnf__expected(r, "]> after the id of a token");
    if (!r->w) return gbnf__fail(r, from, "found the id of a token, expected none: no vocabulary is given");
    if (n >= (uint64_t)r->w->n_vocab)
        return gbnf__fail(r, from, "found a token id that is too large, expected 0 to %d", r->w->n_vocab - 1);
    *id = (int32_t)n;
    return true;
}

/* <text>, !<text>, <[id]> or !<[id]>. Without a vocabulary <text> stands for its own bytes. */
static bool gbnf__token(gbnf__reader *r, gbnf__leaf *leaf) {
    const size_t from = r->at;
    leaf->kind = GBNF__TOKEN;
    leaf->other = gbnf__take(r, "!");
    const size_t at = r->at;
    if (!gbnf__take(r, "<")) return gbnf__expected(r, "a token in <> after '!'");
    if (gbnf__take(r, "[")) return gbnf__token_id(r, from, &leaf->id);
    while (r->at < r->t.n && gbnf__peek(r) != '>') r->at++;
    if (!gbnf__take(r, ">")) return gbnf__fail(r, from, "found a token without its end, expected '>'");
    const bytes name = {r->t.p + at, r->at - at};
    if (!r->w && leaf->other) return gbnf__fail(r, from, "found '!' before a token, expected none: no vocabulary is given");
    if (!r->w) leaf->kind = GBNF__TEXT, str_clear(&r->text), str_add(&r->text, name.p, name.n);
    else if ((leaf->id = r->w->id_of(r->w->ctx, name)) < 0)
        return gbnf__fail(r, from, "found %.*s, expected a token of the vocabulary", (int)min_size(name.n, 80),
                          (const char *)name.p);
    return true;
}

static bool gbnf__leaf_read(gbnf__reader *r, gbnf__leaf *leaf) {
    const uint8_t b = gbnf__peek(r);
    *leaf = (gbnf__leaf){.kind = b == '"' ? GBNF__TEXT : GBNF__CHARS};
    if (b == '"') return gbnf__literal(r);
    if (b == '[') return gbnf__class(r);
    if (b == '<' || b == '!') return gbnf__token(r, leaf);
    if (b == '.') {
        r->n_ranges = 0, r->at++;
        MEM_PUSH(r->range, r->n_ranges, (gram_range){0, 0x10ffff});
        return true;
    }
    const size_t at = gbnf__rule_of(r, gbnf__name(r));
    leaf->kind = GBNF__RULE;
    leaf->id = r->rule[at].rule;
    return true;
}

static void gbnf__leaf_put(gbnf__reader *r, const gbnf__leaf *leaf, gbnf__span s) {
    switch (leaf->kind) {
    case GBNF__TEXT: gram_text(r->g, s.from, str_bytes(&r->text), s.to); break;
    case GBNF__CHARS: lang_chars(r->g, s.from, r->range, r->n_ranges, s.to); break;
    case GBNF__RULE: gram_call(r->g, s.from, leaf->id, s.to); break;
    case GBNF__TOKEN: gram_token(r->g, s.from, leaf->id, leaf->other, s.to); break;
    }
}

/* --- counts --- */

static bool gbnf__counted(const gbnf__reader *r) {
    const uint8_t b = gbnf__peek(r);
    return b && memchr("*+?{", b, 4);
}

static bool gbnf__number(gbnf__reader *r, uint64_t *n) {
    const size_t from = r->at;
    *n = 0;
    if (!isdigit(gbnf__peek(r))) return gbnf__expected(r, "a number");
    for (; isdigit(gbnf__peek(r)); r->at++)
        if (*n <= GBNF_COUNT) *n = *n * 10 + (gbnf__peek(r) - '0');
    if (*n > GBNF_COUNT) return gbnf__fail(r, from, "found a count that is too large, expected at most 10^18");
    gbnf__gap(r);
    return true;
}

/* {m}, {m,} or {m,n}. */
static bool gbnf__braces(gbnf__reader *r, uint64_t *min, uint64_t *max) {
    const size_t from = r->at++;
    gbnf__gap(r);
    if (!gbnf__number(r, min)) return false;
    *max = *min;
    if (gbnf__take(r, ",")) {
        gbnf__gap(r);
        *max = UINT64_MAX;
        if (isdigit(gbnf__peek(r)) && !gbnf__number(r, max)) return false;
    } else if (gbnf__peek(r) != '}') return gbnf__expected(r, "',' or '}'");
    if (!gbnf__take(r, "}")) return gbnf__expected(r, "'}'");
    return *min <= *max || gbnf__fail(r, from, "found {%llu,%llu}, expected the smaller number first",
                                      (unsigned long long)*min, (unsigned long long)*max);
}

static bool gbnf__count(gbnf__reader *r, uint64_t *min, uint64_t *max) {
    const uint8_t b = gbnf__peek(r);
    if (b == '{') return gbnf__braces(r, min, max);
    *min = b == '+';
    *max = b == '?' ? 1 : UINT64_MAX;
    r->at++;
    return true;
}

/* The item s, min to max times. A loop in a loop is one: groups in groups with nothing but counts stay small. */
static gbnf__span gbnf__repeat(gram *g, gbnf__span s, uint64_t min, uint64_t max) {
    const bool maybe = min == 0, loop = max == UINT64_MAX, unrolled = min > 1 || (!loop && max > 1);
    if (!unrolled && max > 0 && maybe <= s.maybe && loop <= s.loop) return s;
    gbnf__span out = {.from = gram_state(g), .to = gram_state(g)};
    out.maybe = !unrolled && (maybe || (s.maybe && max > 0));
    out.loop = !unrolled && (loop || (s.loop && max > 0));
    if (unrolled) {
        const int32_t rule = gram_rule(g, NULL);
        gram_eps(g, gram_begin(g, rule), s.from);
        gram_eps(g, s.to, gram_end(g, rule));
        gram_repeat(g, out.from, rule, min, max, out.to);
        return out;
    }
    if (max > 0) {
        gram_eps(g, out.from, s.from);
        gram_eps(g, s.to, out.to);
        if (loop) gram_eps(g, s.to, s.from);
    }
    if (maybe) gram_eps(g, out.from, out.to);
    return out;
}

/* --- sequences, groups, rules --- */

/* The sequence goes on after the item s. */
static void gbnf__add(gbnf__reader *r, gbnf__span s) {
    gbnf__group *top = &r->open[r->n_open - 1];
    r->here = s.to;
    top->last = s;
    top->n++;
}

/* Appends the item s, with the counts that follow it, to the sequence. */
static bool gbnf__append(gbnf__reader *r, gbnf__span s) {
    for (gbnf__gap(r); gbnf__counted(r); gbnf__gap(r)) {
        uint64_t min, max;
        if (!gbnf__count(r, &min, &max)) return false;
        s = gbnf__repeat(r->g, s, min, max);
    }
    gram_eps(r->g, r->here, s.from);
    gbnf__add(r, s);
    return true;
}

/* Opens a rule's body or a group that ends in the state `to`. */
static void gbnf__open(gbnf__reader *r, int32_t to) {
    const gbnf__span s = {.from = gram_state(r->g), .to = to};
    MEM_PUSH(r->open, r->n_open, (gbnf__group){.span = s, .before = r->here, .at = r->at});
    r->here = s.from;
}

/* Closes the innermost one. What holds a single item is that item. */
static gbnf__span gbnf__close(gbnf__reader *r) {
    const gbnf__group top = r->open[--r->n_open];
    gram_eps(r->g, r->here, top.span.to);
    r->here = top.before;
    return top.n == 1 ? top.last : top.span;
}

static bool gbnf__item(gbnf__reader *r) {
    gbnf__leaf leaf;
    if (!gbnf__leaf_read(r, &leaf)) return false;
    gbnf__gap(r);
    const bool       counted = gbnf__counted(r);
    const gbnf__span s = {.from = counted ? gram_state(r->g) : r->here, .to = gram_state(r->g)};
    gbnf__leaf_put(r, &leaf, s);
    if (counted) return gbnf__append(r, s);
    gbnf__add(r, s);
    return true;
}

/* One item, bracket or bar of a rule's body; *over: its end. */
static bool gbnf__step(gbnf__reader *r, bool *over) {
    const uint8_t b = gbnf__peek(r);
    const bool    end = r->at == r->t.n;
    *over = r->n_open == 1 && (end || gbnf__newline(b));
    if (*over) return gbnf__close(r), true;
    if (end) return gbnf__fail(r, r->open[r->n_open - 1].at, "found a group without its end, expected ')'");
    if (b == '(') {
        gbnf__open(r, gram_state(r->g));
        r->at++, gbnf__gap(r);
    } else if (b == ')' && r->n_open > 1) {
        r->at++;
        return gbnf__append(r, gbnf__close(r));
    } else if (b == '|') {
        gbnf__group *top = &r->open[r->n_open - 1];
        gram_eps(r->g, r->here, top->span.to);
        r->here = top->span.from;
        top->n += 2, r->at++, gbnf__skip(r, true);
    } else if (gbnf__counted(r)) return gbnf__expected(r, "an item before its count");
    else if (gbnf__in_name(b) || (b && memchr("\"[<!.", b, 5))) return gbnf__item(r);
    else return gbnf__expected(r, r->n_open > 1 ? "an item, '|' or ')'" : "an item, '|' or the end of the line");
    return true;
}

/* name ::= body */
static bool gbnf__rule_read(gbnf__reader *r) {
    const size_t from = r->at;
    bool         over = false;
    if (!gbnf__in_name(gbnf__peek(r)))
        return gbnf__expected(r, "the name of a rule (a rule goes on in the next line only inside of brackets and after "
                                 "'|' or '::=')");
    const size_t at = gbnf__rule_of(r, gbnf__name(r));
    gbnf__rule  *rule = &r->rule[at];
    gbnf__skip(r, false);
    if (!gbnf__take(r, "::=")) return gbnf__expected(r, "'::=' after the name of a rule");
    gbnf__skip(r, true);
    if (rule->body >= 0 && !r->again) r->again = from + 1;
    gbnf__open(r, gram_end(r->g, rule->rule));
    rule->body = r->here;
    while (!over && !gram_failed(r->g))
        if (!gbnf__step(r, &over)) return false;
    gbnf__skip(r, true);
    return true;
}

/* Joins each rule with its body; every name that is used has one. */
static bool gbnf__link(gbnf__reader *r) {
    if (r->rule[0].body < 0) return err_set(r->e, EXIT_INPUT, "the grammar has no rule named root, expected one");
    for (size_t i = 0; i < r->n_rules; i++) {
        const gbnf__rule rule = r->rule[i];
        if (rule.body < 0) {
            r->at = rule.at;
            const bytes name = gbnf__name(r);
            return gbnf__fail(r, rule.at, "found the name %.*s, expected the name of a rule that the grammar defines",
                              (int)min_size(name.n, 80), (const char *)name.p);
        }
        gram_eps(r->g, gram_begin(r->g, rule.rule), rule.body);
    }
    return true;
}

static void gbnf__warn_again(const gbnf__reader *r) {
    size_t line, byte;
    if (!r->again) return;
    gbnf__place(r->t, r->again - 1, &line, &byte);
    log_warn("grammar, line %zu: this rule is defined a second time; its last definition counts", line);
}

/* Builds the grammar `text` in g and sets *root to its rule root. w NULL: without a vocabulary <text> is that text,
 * and what needs ids of tokens is refused. False: e says where and why. A limit of g is left to gram_seal(). */
static bool gbnf_build(gram *g, bytes text, const gbnf_words *w, int32_t *root, err_t *e) {
    gbnf__reader r = {.g = g, .w = w, .e = e, .t = text};
    bool         ok = true;
    hmap_init(&r.names, ~(uint64_t)UINT32_MAX);
    gbnf__rule_of(&r, bytes_of("root"));
    *root = r.rule[0].rule;
    gbnf__skip(&r, true);
    while (ok && r.at < text.n && !gram_failed(g)) ok = gbnf__rule_read(&r);
    if (ok && !gram_failed(g)) ok = gbnf__link(&r);
    if (ok) gbnf__warn_again(&r);
    hmap_drop(&r.names);
    mem_free(r.rule), mem_free(r.open), mem_free(r.range);
    str_drop(&r.text);
    return ok;
}
