/* ===== [json] JSON values as rules of an automaton =====
 * JSON texts (RFC 8259): any value or object, and the values of a schema. There are two forms of a text.
 *   Loose (--match): white space wherever JSON allows it, each spelling of a string and of a number, members in any order.
 *   Generation, a part of that: members in the order of the schema, or in any order (`order` 1); a character of a
 * string that the schema restricts is written in one way, in other strings every escape may come (halves of surrogate
 * pairs only as pairs); integers have no fraction; exponents come where every number may; numbers
 * have an end. Under uniqueItems a part of each value differs, not the value as a whole. White space: `space` 0
 * none; 1 at most one blank after ':' and ','; 2 as 1, or a line break and at most 64 blanks after '{', '[' and ','
 * and before '}' and ']'; never before ':' and ',', never inside of empty brackets, never around the value.
 * Public: json_any, json_rules_new, json_rules_free, json_rules_value, json_build.
 * Opens: json_form. */

typedef struct {
    bool loose;                                       /* any order, any blanks, any spelling */
    int  order;                                       /* 0: keys as the schema has them; 1: in any order */
    int  space;                                       /* 0: no blanks; 1: at most one; 2: or a line with indentation */
    bool lax;                                         /* what generation cannot keep is dropped, with a note */
} json_form;

typedef struct json_rules json_rules;                 /* values of one document in one automaton */

enum {
    JSON_BLANKS = 64,                                 /* of the indentation of a line */
    JSON_WHOLE = 18,                                  /* digits of a number without a point that is generated */
    JSON_DIGITS = 17,                                 /* and of one with a point: a double has no more */
    JSON_WIDE = 40,                                   /* and of one whose bounds are that long */
};

/* Rules that every value shares: made when they are first called. */
typedef enum { JSON_VALUE, JSON_OBJECT, JSON_ARRAY, JSON_STRING, JSON_NUMBER, JSON_REST, JSON_OTHER, JSON_LINE,
               JSON_BLANK, JSON_NOTHING, JSON_SHARED } json_shared;

/* Where blanks may be. */
typedef enum { JSON_AROUND, JSON_OPENED, JSON_CLOSING, JSON_BEFORE, JSON_COMMA, JSON_COLON } json_place;

struct json_rules {
    gram              *g;
    json_form          f;
    int32_t            shared[JSON_SHARED];           /* 1 + rule, 0: not made yet */
    schema_doc        *s;                             /* NULL, and all that follows too: rules of any value are asked for */
    lang_pool         *langs;
    err_t             *e;
    struct json__node *node;
    size_t             n_node;
    hmap               of;                            /* 1 + conjunction: its node */
    struct json__use  *use;
    size_t             n_use;
    hmap               part;                          /* see json__part() */
    uint32_t          *todo;                          /* nodes whose rules are to be filled */
    size_t             n_todo;
    bool               solved;                        /* json__node.can is final */
    bool               others;                        /* the value that is filled may be a word, a string or a number, too */
};

/* --- blanks and words --- */

static int32_t json__byte(json_rules *d, int32_t from, char c) {
    const int32_t to = gram_state(d->g);
    gram_byte(d->g, from, (uint8_t)c, (uint8_t)c, to);
    return to;
}

static int32_t json__rule(json_rules *d, json_shared which);   /* the rules call each other */

static void json__blank_rule(json_rules *d, int32_t from, int32_t to) { gram_byte(d->g, from, ' ', ' ', to); }

static void json__line_rule(json_rules *d, int32_t from, int32_t to) {
    gram_repeat(d->g, json__byte(d, from, '\n'), json__rule(d, JSON_BLANK), 0, JSON_BLANKS, to);
}

/* The state after the blanks that may come at a place. */
static int32_t json__space(json_rules *d, int32_t from, json_place place) {
    const bool after = place == JSON_COMMA || place == JSON_COLON,
               line = place == JSON_COMMA || place == JSON_OPENED || place == JSON_CLOSING;
    if (d->f.loose && place == JSON_CLOSING) return from;   /* those of JSON_BEFORE */
    if (d->f.loose) {
        static const uint8_t white[][2] = {{'\t', '\n'}, {'\r', '\r'}, {' ', ' '}};
        const int32_t        loop = gram_state(d->g);
        gram_eps(d->g, from, loop);
        for (size_t i = 0; i < 3; i++) gram_byte(d->g, loop, white[i][0], white[i][1], loop);
        return loop;
    }
    if (!(d->f.space >= 1 && after) && !(d->f.space >= 2 && line)) return from;
    const int32_t to = gram_state(d->g);
    gram_eps(d->g, from, to);
    if (after) gram_byte(d->g, from, ' ', ' ', to);
    if (d->f.space >= 2 && line) gram_call(d->g, from, json__rule(d, JSON_LINE), to);
    return to;
}

/* ':' with its blanks. */
static int32_t json__colon(json_rules *d, int32_t from) {
    return json__space(d, json__byte(d, json__space(d, from, JSON_BEFORE), ':'), JSON_COLON);
}

/* ',' with its blanks. */
static int32_t json__comma(json_rules *d, int32_t from) { return json__space(d, json__byte(d, from, ','), JSON_COMMA); }

/* The brackets of a container and the blanks inside of them. Returns the state after the first; the last one may come at
 * `close`, and where empty is true after the first. */
static int32_t json__brackets(json_rules *d, int32_t from, const char *pair, bool empty, int32_t close, int32_t to) {
    const uint8_t last = (uint8_t)pair[1];
    const int32_t open = json__byte(d, from, pair[0]), first = json__space(d, open, JSON_OPENED);
    if (empty) gram_byte(d->g, d->f.loose ? first : open, last, last, to);
    gram_byte(d->g, json__space(d, close, JSON_CLOSING), last, last, to);
    return first;
}

/* --- strings and numbers of every kind --- */

static void json__digits(json_rules *d, int32_t from, const char *ranges, int32_t to) {
    for (; *ranges; ranges += 2) gram_byte(d->g, from, (uint8_t)ranges[0], (uint8_t)ranges[1], to);
}

static const char json__hex[] = "09afAF";

/* The four digits after \u: the first two of them as ranges. */
static void json__unicode(json_rules *d, int32_t from, const char *first, const char *second, int32_t to) {
    const int32_t s1 = gram_state(d->g), s2 = gram_state(d->g), s3 = gram_state(d->g);
    json__digits(d, from, first, s1);
    json__digits(d, s1, second, s2);
    json__digits(d, s2, json__hex, s3);
    json__digits(d, s3, json__hex, to);
}

/* A backslash and what comes after it. */
static void json__escape(json_rules *d, int32_t from, int32_t to) {
    const int32_t escape = json__byte(d, from, '\\'), u = json__byte(d, escape, 'u'), high = gram_state(d->g);
    json__digits(d, escape, "\"\"\\\\//bbffnnrrtt", to);
    if (d->f.loose) json__unicode(d, u, json__hex, json__hex, to);     /* halves of pairs too: the text is JSON */
    json__unicode(d, u, "09acefACEF", json__hex, to);
    json__unicode(d, u, "ddDD", "07", to);
    json__unicode(d, u, "ddDD", "89abAB", high);
    json__unicode(d, json__byte(d, json__byte(d, high, '\\'), 'u'), "ddDD", "cfCF", to);
}

/* The inside of a string and its last quote: a rule of its own, so that all strings are in the same state. */
static void json__rest_rule(json_rules *d, int32_t from, int32_t to) {
    static const gram_range raw[] = {{0x20, 0x21}, {0x23, 0x5b}, {0x5d, 0x10ffff}};
    const int32_t           inside = gram_state(d->g);
    gram_eps(d->g, from, inside);
    lang_chars(d->g, inside, raw, sizeof raw / sizeof *raw, inside);
    json__escape(d, inside, inside);
    gram_byte(d->g, inside, '"', '"', to);
}

static void json__string_rule(json_rules *d, int32_t from, int32_t to) {
    gram_call(d->g, json__byte(d, from, '"'), json__rule(d, JSON_REST), to);
}

/* A character that is not printable ASCII, raw or as an escape, then the rest of the string. */
static void json__other_rule(json_rules *d, int32_t from, int32_t to) {
    const int32_t escape = json__byte(d, from, '\\'), next = gram_state(d->g);
    const int32_t high = json__byte(d, json__byte(d, json__byte(d, escape, 'u'), '0'), '0'), low = gram_state(d->g);
    lang_chars(d->g, from, &(gram_range){0x80, 0x10ffff}, 1, next);
    json__digits(d, escape, "\"\"\\\\bbffnnrrtt", next);
    json__digits(d, high, "01", low);
    json__digits(d, low, json__hex, next);
    gram_call(d->g, next, json__rule(d, JSON_REST), to);
}

/* -? (0 | [1-9] [0-9]*) (. [0-9]+)? Returns the state after it. */
static int32_t json__plain_number(json_rules *d, int32_t from) {
    const int32_t sign = gram_state(d->g), whole = gram_state(d->g), part = gram_state(d->g), over = gram_state(d->g);
    gram_eps(d->g, from, sign);
    gram_byte(d->g, from, '-', '-', sign);
    gram_byte(d->g, sign, '0', '0', over);
    gram_byte(d->g, sign, '1', '9', whole);
    gram_byte(d->g, whole, '0', '9', whole);
    gram_eps(d->g, whole, over);
    gram_byte(d->g, json__byte(d, over, '.'), '0', '9', part);
    gram_byte(d->g, part, '0', '9', part);
    const int32_t end = gram_state(d->g);
    gram_eps(d->g, part, end);
    gram_eps(d->g, over, end);
    return end;
}

/* [eE] [+-]? Returns the state after it, where the digits come. */
static int32_t json__exponent(json_rules *d, int32_t from) {
    const int32_t e = gram_state(d->g), sign = gram_state(d->g);
    json__digits(d, from, "eeEE", e);
    gram_eps(d->g, e, sign);
    json__digits(d, e, "++--", sign);
    return sign;
}

/* At most three digits after the sign of an exponent: up to 289, so that a double holds JSON_WHOLE digits with it. */
static void json__short_exponent(json_rules *d, int32_t from, int32_t to) {
    const int32_t two = gram_state(d->g), one = gram_state(d->g), last = gram_state(d->g), after = gram_state(d->g);
    const int32_t at = json__exponent(d, from);
    json__digits(d, at, "01", two);
    json__digits(d, at, "22", one);
    json__digits(d, at, "39", last);
    json__digits(d, two, "09", last);
    json__digits(d, one, "08", last);
    json__digits(d, one, "99", after);
    json__digits(d, last, "09", after);
    const int32_t ends[] = {two, one, last, after};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) gram_eps(d->g, ends[i], to);
}

/* A number that ends: the bounds are those of num_short(). */
static void json__short_number(json_rules *d, int32_t from, int32_t to) {
    gram         *g = d->g;
    const int32_t sign = gram_state(g), over = gram_state(g);
    int32_t       point[JSON_DIGITS], part = 0, whole = sign;
    gram_eps(g, from, sign);
    gram_byte(g, from, '-', '-', sign);
    for (int i = JSON_DIGITS - 1; i >= 0; i--) {      /* after i digits and the point */
        const int32_t next = gram_state(g);
        point[i] = gram_state(g);
        gram_byte(g, point[i], '0', '9', next);
        if (i + 1 < JSON_DIGITS) gram_byte(g, next, '0', '9', part);
        gram_eps(g, next, over);
        part = next;
    }
    const int32_t zero = json__byte(d, sign, '0');
    gram_byte(g, zero, '.', '.', point[0]);
    gram_eps(g, zero, over);
    for (int i = 1; i <= JSON_WHOLE; i++) {
        const int32_t next = gram_state(g);
        gram_byte(g, whole, i == 1 ? '1' : '0', '9', next);
        if (i < JSON_DIGITS) gram_byte(g, next, '.', '.', point[i]);
        gram_eps(g, next, over);
        whole = next;
    }
    gram_eps(g, over, to);
    json__short_exponent(d, over, to);
}

static void json__number_rule(json_rules *d, int32_t from, int32_t to) {
    if (!d->f.loose) {
        json__short_number(d, from, to);
        return;
    }
    const int32_t end = json__plain_number(d, from), digits = gram_state(d->g);
    gram_eps(d->g, end, to);
    gram_byte(d->g, json__exponent(d, end), '0', '9', digits);
    gram_byte(d->g, digits, '0', '9', digits);
    gram_eps(d->g, digits, to);
}

/* --- any value --- */

static void json__object_rule(json_rules *d, int32_t from, int32_t to) {
    const int32_t colon = gram_state(d->g), after = gram_state(d->g), end = json__space(d, after, JSON_BEFORE);
    gram_call(d->g, json__brackets(d, from, "{}", true, end, to), json__rule(d, JSON_STRING), colon);
    gram_call(d->g, json__colon(d, colon), json__rule(d, JSON_VALUE), after);
    gram_call(d->g, json__comma(d, end), json__rule(d, JSON_STRING), colon);
}

static void json__array_rule(json_rules *d, int32_t from, int32_t to) {
    const int32_t after = gram_state(d->g), end = json__space(d, after, JSON_BEFORE);
    gram_call(d->g, json__brackets(d, from, "[]", true, end, to), json__rule(d, JSON_VALUE), after);
    gram_call(d->g, json__comma(d, end), json__rule(d, JSON_VALUE), after);
}

static void json__value_rule(json_rules *d, int32_t from, int32_t to) {
    gram_text(d->g, from, bytes_of("null"), to);
    gram_text(d->g, from, bytes_of("false"), to);
    gram_text(d->g, from, bytes_of("true"), to);
    for (json_shared i = JSON_OBJECT; i <= JSON_NUMBER; i++) gram_call(d->g, from, json__rule(d, i), to);
}

static int32_t json__rule(json_rules *d, json_shared which) {
    static const struct {
        const char *name;
        void (*make)(json_rules *d, int32_t from, int32_t to);
    } rules[JSON_SHARED] = {
        [JSON_VALUE]   = {"value",            json__value_rule},
        [JSON_OBJECT]  = {"object",           json__object_rule},
        [JSON_ARRAY]   = {"array",            json__array_rule},
        [JSON_STRING]  = {"string",           json__string_rule},
        [JSON_NUMBER]  = {"number",           json__number_rule},
        [JSON_REST]    = {"rest of a string", json__rest_rule},
        [JSON_OTHER]   = {"rest of a key",    json__other_rule},
        [JSON_LINE]    = {"line",             json__line_rule},
        [JSON_BLANK]   = {"blank",            json__blank_rule},
        [JSON_NOTHING] = {"nothing",          NULL},
    };
    if (d->shared[which]) return d->shared[which] - 1;
    const int32_t rule = gram_rule(d->g, rules[which].name);
    d->shared[which] = rule + 1;
    if (rules[which].make) rules[which].make(d, gram_begin(d->g, rule), gram_end(d->g, rule));
    return rule;
}

/* A rule with the blanks that may be around a text. */
static void json__whole(json_rules *d, int32_t from, int32_t rule, int32_t to) {
    const int32_t after = gram_state(d->g);
    gram_call(d->g, json__space(d, from, JSON_AROUND), rule, after);
    gram_eps(d->g, json__space(d, after, JSON_AROUND), to);
}

/* Any JSON value, or any object. False: a limit was reached. */
static bool json_any(gram *g, int32_t from, bool object, const json_form *f, int32_t to) {
    json_rules d = {.g = g, .f = *f};
    json__whole(&d, from, json__rule(&d, object ? JSON_OBJECT : JSON_VALUE), to);
    return !gram_failed(g);
}

/* --- values that a checker compares (--match): each value as a hash that is equal where JSON Schema calls the values
 * equal --- */

enum { JSON_UNIQUE = 1, JSON_KEYS = 2 };              /* checks: the items of an array differ; the keys of an object
                                                       * differ. Others: the language of a number or of a string */

typedef struct {
    uint64_t hash;                                    /* of an item, or of the key of a member */
    uint64_t value;                                   /* the hash of the member's value */
    size_t   at;                                      /* its place among the others */
} json__hashed;

/* The hash of a string, a number or a word. text: in one form, `own` is room for it. */
static uint64_t json__hash_scalar(uint64_t seed, bytes text, str *own) {
    num_dec d;
    str_clear(own);
    if (*text.p == '"') {
        str_put(own, "\"");
        if (!str_unquote(own, text, true)) str_cat(own, text);      /* half of a surrogate pair */
    } else if (isalpha(*text.p)) str_cat(own, text);
    else {
        num_read(text, &d);
        str_put(own, d.neg && d.digits.n ? "-" : "+");
        str_cat(own, str_bytes(&d.digits));
        str_fmt(own, "e%lld", (long long)d.exp);
        num_drop(&d);
    }
    return bytes_digest((bytes){(const uint8_t *)&seed, sizeof seed}, str_bytes(own)).a;
}

static int json__hash_order(const void *x, const void *y) {
    const json__hashed *a = x, *b = y;
    return a->hash != b->hash ? (a->hash < b->hash ? -1 : 1) : a->at < b->at ? -1 : a->at > b->at;
}

/* Sorts the n items of an array or of an object, which are keys and values in turn and become members. Returns the
 * number of items or members. */
static size_t json__hash_sort(json__hashed *x, size_t n, bool object) {
    if (object) n /= 2;
    for (size_t i = 0; object && i < n; i++) x[i] = (json__hashed){x[2 * i].hash, x[2 * i + 1].hash, i};
    if (n) qsort(x, n, sizeof *x, json__hash_order);
    return n;
}

/* The hash of a container of n items: of an object, in whatever order its members are; of equal keys the last counts. */
static uint64_t json__hash_all(uint64_t seed, json__hashed *x, size_t n, bool object) {
    uint64_t hash = rng_mix(seed ^ object);
    if (object) n = json__hash_sort(x, n, true);
    for (size_t i = 0; i < n; i++)
        if (!object || i + 1 == n || x[i].hash != x[i + 1].hash) hash = rng_mix(rng_mix(hash ^ x[i].hash) ^ x[i].value);
    return hash;
}

/* Whether the items of an array, or the keys of an object, all differ. The text is JSON. */
static bool json__distinct(bytes text, bool keys) {
    const uint64_t seed = rng_secret();               /* nobody can choose values that collide */
    json__hashed  *x = NULL;                          /* [n] items of the open containers, outermost first */
    size_t        *open = NULL;                       /* [n_open] their first items, times 2; 1 more: an object */
    size_t         n = 0, n_open = 0;
    str            own = {0};
    bool           all = true;
    while (text.n) {
        const uint8_t c = *text.p;
        uint64_t      hash;
        if (!memchr(" \t\r\n,:{[]}", c, 10)) hash = json__hash_scalar(seed, bytes_trim(bytes_cut_json(&text)), &own);
        else {
            text = bytes_slice(text, 1, text.n);
            if (c == '{' || c == '[') {
                open = mem_reserve(open, n_open, UINT64_MAX, sizeof *open);
                open[n_open++] = 2 * n + (c == '{');
            }
            if (c != '}' && c != ']') continue;
            if (!--n_open) break;
            const size_t first = open[n_open] / 2;
            hash = json__hash_all(seed, n > first ? x + first : NULL, n - first, open[n_open] % 2);
            n = first;
        }
        x = mem_reserve(x, n, UINT64_MAX, sizeof *x);
        x[n] = (json__hashed){.hash = hash, .at = n};
        n++;
    }
    n = json__hash_sort(x, n, keys);
    for (size_t i = 1; i < n; i++) all &= x[i].hash != x[i - 1].hash;
    mem_free(x), mem_free(open);
    str_drop(&own);
    return all;
}

/* A gram_checker. */
static bool json__check(void *ctx, uint64_t which, bytes text) {
    (void)ctx;
    if (which == JSON_UNIQUE || which == JSON_KEYS) return json__distinct(text, which == JSON_KEYS);
    const lang *l = (const lang *)(uintptr_t)which;
    if (*text.p != '"') return num_in(l, text);
    str        own = {0};
    const bool in = str_unquote(&own, text, true) && lang_has(l, str_bytes(&own));
    str_drop(&own);
    return in;
}

/* --- what a schema's values are made of --- */

enum {
    JSON_NEEDS = 8,                                   /* kinds of items or members that are counted, in one value */
    JSON_WAYS = 1 << JSON_NEEDS,                      /* ways in which one item counts for some of them and not for others */
    JSON_GRID = 20000,                                /* states of counts times places that are written out */
    JSON_SPREAD = 16,                                 /* places after the prefix of an array that are written out */
    JSON_WORDS = 256,                                 /* keys or values that are handled one by one */
    JSON_BUT = 2048,                                  /* words that keys are not */
    JSON_ZEROS = 64,                                  /* texts of 0 at most among short numbers */
    JSON_LIST = 1 << 16,                              /* numbers of a list that are generated whatever their digits are */
    JSON_BLOCK = 16,                                  /* members that are tried one by one */
    JSON_EXPONENT = 20,                               /* digits of an exponent where numbers are restricted */
    JSON_MARK = 3,                                    /* register where an array whose items differ begins: after those
                                                       * of json__loop_item */
    JSON_WORD_BITS = 64,                              /* bits of a register */
};

/* Items or members of a value are counted: at least min, at most max; of members `from` is 0. */
typedef schema_contains json__need;

/* One item or member may be a value of this, and then counts for the needs of these bits. */
typedef struct {
    schema_conj value;
    uint32_t    counts;
} json__way;

typedef struct {
    bytes       name;
    const lang *keys;                                 /* NULL: only `name` */
    schema_conj value;
    bool        required;
    uint32_t    needs;                                /* bits of those to which its key belongs */
} json__member;

/* An alternative of objects: declared members, then the languages of further ones. */
typedef struct {
    json__member *m;
    size_t        n_prop, n;
    uint64_t      min, max;
    json__need    need[JSON_NEEDS];
    size_t        n_need;
    bool          none;                               /* no object satisfies it */
    str          *word;                               /* names of members that a finite language has */
    size_t        n_word;
    bytes        *named;                              /* the declared names of the schema, also of members that have no value */
    size_t        n_named;
    const char   *at;
} json__object;

typedef struct json__node {
    schema_conj         c;
    const schema_shape *shape;
    json__object       *object;                       /* [shape->n_object] */
    bool                can;                          /* some value satisfies it */
    bool                queued;
    int32_t             rule;                         /* -1: not made yet */
} json__node;

typedef struct json__use {
    uint32_t user, used;                              /* nodes */
} json__use;

static bool json__refuse(json_rules *d, const char *at, const char *what) {
    return err_set(d->e, EXIT_INPUT, "%s: %s: %s", schema_path(d->s), at, what);
}

static bool json__over(json_rules *d, const char *at, const char *what) {
    return err_set(d->e, EXIT_RESOURCE, "%s: %s: %s need more states than there is room for", schema_path(d->s), at, what);
}

/* The node of a conjunction, made where it is new. */
static uint32_t json__node_of(json_rules *d, schema_conj c) {
    hmap_entry *en = hmap_add(&d->of, (uint64_t)(uint32_t)c + 1, 0);
    if (en->b) return (uint32_t)(en->b - 1);
    en->b = d->n_node + 1;
    return (uint32_t)MEM_PUSH(d->node, d->n_node, (json__node){.c = c, .rule = -1});
}

/* Whether some value satisfies c, as far as is known. */
static bool json__can(json_rules *d, schema_conj c) {
    if (c == SCHEMA_TRUE || c == SCHEMA_FALSE) return c == SCHEMA_TRUE;
    return d->node[json__node_of(d, c)].can;
}

/* The ways in which a member or an item of value v may count for the needs of a mask. Once it is known which values exist, only
 * ways that have some. */
static size_t json__ways(json_rules *d, schema_conj v, const json__need *need, uint32_t mask, json__way out[JSON_WAYS]) {
    size_t n = 1;
    out[0] = (json__way){v, 0};
    for (int j = 0; j < JSON_NEEDS; j++) {
        const size_t before = n;
        if (!(mask >> j & 1)) continue;
        for (size_t i = 0; i < before; i++) {
            const json__way   w = out[i];
            const schema_conj with = need[j].max ? schema_and(d->s, w.value, need[j].value) : SCHEMA_FALSE;
            if (with == w.value && need[j].max) out[i].value = SCHEMA_FALSE;    /* each counts */
            else if (need[j].max != UINT64_MAX) out[i].value = schema_and(d->s, w.value, schema_not(d->s, need[j].value));
            if (with != SCHEMA_FALSE) out[n++] = (json__way){with, w.counts | 1u << j};
        }
    }
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (out[i].value != SCHEMA_FALSE && (!d->solved || json__can(d, out[i].value))) out[kept++] = out[i];
    return kept;
}

/* --- members of an object --- */

static void json__member_add(json__object *o, json__member m) {
    o->m = mem_reserve(o->m, o->n, UINT64_MAX, sizeof *o->m);
    o->m[o->n++] = m;
}

/* A further language of keys: in generation the words of a small one are members of their own. */
static void json__extra_add(json_rules *d, json__object *o, const lang *keys, schema_conj value, uint32_t needs) {
    const uint64_t n = d->f.loose ? UINT64_MAX : lang_count(keys, JSON_WORDS + 1);
    if (n > JSON_WORDS) json__member_add(o, (json__member){.keys = keys, .value = value, .needs = needs});
    for (uint64_t i = 0; n <= JSON_WORDS && i < n; i++) {
        o->word = mem_reserve(o->word, o->n_word, UINT64_MAX, sizeof *o->word);
        str *word = &o->word[o->n_word++];
        *word = (str){0};
        lang_nth(keys, i, word);
        json__member_add(o, (json__member){.name = str_bytes(word), .value = value, .needs = needs});
    }
}

/* A language of keys is cut at the languages of the needs, so that each key of a part counts for the same ones. */
static void json__extra_cut(json_rules *d, json__object *o, const schema_object *from, const schema_extra *x) {
    for (uint32_t mask = 0; mask < 1u << from->n_some; mask++) {
        const lang *keys = x->keys;
        for (size_t j = 0; j < from->n_some && keys; j++)
            keys = lang_and(d->langs, keys, mask >> j & 1 ? from->some[j].keys : lang_not(d->langs, from->some[j].keys));
        if (keys && !lang_empty(keys)) json__extra_add(d, o, keys, x->value, mask);
    }
}

/* Words come before languages: those of a finite language may be after another language. */
static void json__words_first(json__object *o) {
    json__member *m = mem_new(o->n, sizeof *m);
    size_t        n = 0;
    for (int keys = 0; keys < 2; keys++) {
        for (size_t i = 0; i < o->n; i++)
            if ((o->m[i].keys != NULL) == keys) m[n++] = o->m[i];
        if (!keys) o->n_prop = n;
    }
    mem_free(o->m);
    o->m = m;
}

static bool json__object_read(json_rules *d, const schema_object *from, json__object *o) {
    *o = (json__object){.min = from->min, .max = from->max, .n_need = from->n_some, .at = from->at};
    if (from->n_some > JSON_NEEDS) return json__refuse(d, from->at, "more than 8 kinds of members are counted in one object");
    for (size_t j = 0; j < from->n_some; j++)
        o->need[j] = (json__need){.value = from->some[j].value, .min = from->some[j].min, .max = from->some[j].max};
    o->named = mem_new(from->n_prop, sizeof *o->named);
    o->n_named = from->n_prop;
    for (size_t i = 0; i < from->n_prop; i++) {
        const schema_prop *p = &from->prop[i];
        uint32_t           needs = 0;
        o->named[i] = p->name;
        for (size_t j = 0; j < from->n_some; j++) needs |= (uint32_t)lang_has(from->some[j].keys, p->name) << j;
        if (p->value != SCHEMA_FALSE)
            json__member_add(o, (json__member){.name = p->name, .value = p->value, .required = p->required, .needs = needs});
        else if (p->required) o->none = true;
    }
    for (size_t i = 0; i < from->n_extra; i++)
        if (from->extra[i].value != SCHEMA_FALSE) json__extra_cut(d, o, from, &from->extra[i]);
    json__words_first(o);
    return !lang_over(d->langs) || json__over(d, from->at, "the keys of objects");
}

/* --- items of an array --- */

static schema_conj json__item_at(const schema_array *a, uint64_t i) { return i < a->n_prefix ? a->prefix[i] : a->rest; }

/* Bits of the needs that are counted at a place. */
static uint32_t json__needs_at(const schema_array *a, uint64_t place) {
    uint32_t mask = 0;
    for (size_t j = 0; j < a->n_contains; j++) mask |= (uint32_t)(place >= a->contains[j].from) << j;
    return mask;
}

/* Places of an array that differ: those after them are as the last one. */
static uint64_t json__places(const schema_array *a) {
    uint64_t n = a->n_prefix;
    for (size_t j = 0; j < a->n_contains; j++) n = max_u64(n, a->contains[j].from);
    return min_u64(n, a->max);
}

/* --- counts as states: each tuple of counts is a number below `size` --- */

typedef struct {
    struct { uint64_t min, max, cap, step; } at[JSON_NEEDS + 1];
    size_t n;
    size_t size;                                      /* more than JSON_GRID: too many */
} json__grid;

static void json__grid_add(json__grid *g, uint64_t min, uint64_t max) {
    const uint64_t cap = max == UINT64_MAX ? min : max;
    g->at[g->n].min = min;
    g->at[g->n].max = max;
    g->at[g->n].cap = cap;
    g->at[g->n++].step = g->size;
    g->size = g->size > JSON_GRID || cap >= JSON_GRID ? JSON_GRID + 1 : g->size * (cap + 1);
}

static uint64_t json__grid_count(const json__grid *g, size_t v, size_t i) { return v / g->at[i].step % (g->at[i].cap + 1); }

/* Counts one for each bit. False: more than a maximum. */
static bool json__grid_step(const json__grid *g, size_t *v, uint32_t counts) {
    for (size_t i = 0; i < g->n; i++) {
        if (!(counts >> i & 1)) continue;
        const bool full = json__grid_count(g, *v, i) == g->at[i].cap;
        if (full && g->at[i].max != UINT64_MAX) return false;
        if (!full) *v += g->at[i].step;
    }
    return true;
}

static bool json__grid_done(const json__grid *g, size_t v) {
    for (size_t i = 0; i < g->n; i++)
        if (json__grid_count(g, v, i) < g->at[i].min) return false;
    return true;
}

static json__grid json__grid_of(const json__need *need, size_t n) {
    json__grid g = {.size = 1};
    for (size_t j = 0; j < n; j++) json__grid_add(&g, need[j].min, need[j].max);
    return g;
}

/* --- which values exist: the least fixpoint over the conjunctions that are reached --- */

static bool json__uses_ways(json_rules *d, uint32_t user, schema_conj v, const json__need *need, uint32_t mask, const char *at) {
    json__way    way[JSON_WAYS];
    const size_t n = json__ways(d, v, need, mask, way);
    for (size_t i = 0; i < n; i++) {
        if (way[i].value < 0)
            return d->e->code ? false : json__refuse(d, at, "values that are counted here cannot be told from others");
        if (way[i].value == SCHEMA_TRUE || way[i].value == SCHEMA_FALSE) continue;
        d->use = mem_reserve(d->use, d->n_use, UINT64_MAX, sizeof *d->use);
        d->use[d->n_use++] = (json__use){user, json__node_of(d, way[i].value)};
    }
    return true;
}

static bool json__uses_array(json_rules *d, uint32_t user, const schema_array *a) {
    if (a->n_contains > JSON_NEEDS) return json__refuse(d, a->at, "more than 8 kinds of items are counted in one array");
    const uint64_t places = json__places(a);
    uint32_t       done = UINT32_MAX;                 /* the mask with which `rest` was read last */
    for (uint64_t i = 0; i <= places && i < a->max; i++) {
        const uint32_t mask = json__needs_at(a, i);
        if (i >= a->n_prefix && mask == done) continue;
        if (!json__uses_ways(d, user, json__item_at(a, i), a->contains, mask, a->at)) return false;
        if (i >= a->n_prefix) done = mask;
    }
    return true;
}

/* Reads the shape of a node; conjunctions in it become nodes. */
static bool json__read(json_rules *d, uint32_t at) {
    const schema_shape *s = schema_shape_of(d->s, d->node[at].c, d->e);
    if (!s) return false;
    json__object *object = mem_new(s->n_object, sizeof *object);
    d->node[at].shape = s;
    d->node[at].object = object;
    for (size_t i = 0; i < s->n_array; i++)
        if (!json__uses_array(d, at, &s->array[i])) return false;
    for (size_t i = 0; i < s->n_object; i++) {
        json__object *o = &object[i];
        if (!json__object_read(d, &s->object[i], o)) return false;
        for (size_t k = 0; k < o->n; k++)
            if (!json__uses_ways(d, at, o->m[k].value, o->need, o->m[k].needs, o->at)) return false;
    }
    return true;
}

static json__grid json__object_grid(const json__object *o) {
    json__grid g = json__grid_of(o->need, o->n_need);
    if (o->min || o->max < o->n || (o->max != UINT64_MAX && o->n > o->n_prop)) json__grid_add(&g, o->min, o->max);
    return g;
}

/* to gets the counts that are reached from those of `from` by one more item. */
static bool json__reach(json_rules *d, const json__grid *g, const bool *from, const json__way *way, size_t n_way,
                        uint32_t more, bool *to) {
    bool changed = false;
    for (size_t i = 0; i < n_way; i++) {
        if (!json__can(d, way[i].value)) continue;
        for (size_t v = 0; v < g->size; v++) {
            size_t next = v;
            if (!from[v] || !json__grid_step(g, &next, way[i].counts | more) || to[next]) continue;
            to[next] = changed = true;
        }
    }
    return changed;
}

static bool json__reached(const json__grid *g, const bool *at) {
    for (size_t v = 0; v < g->size; v++)
        if (at[v] && json__grid_done(g, v)) return true;
    return false;
}

static bool json__object_counts(json_rules *d, const json__object *o, const json__grid *g) {
    bool     *at = mem_new(g->size, 1), *next = mem_new(g->size, 1);
    json__way way[JSON_WAYS];
    at[0] = true;
    for (size_t i = 0; i < o->n; i++) {
        const json__member *m = &o->m[i];
        const size_t        n = json__ways(d, m->value, o->need, m->needs, way);
        const uint64_t      rounds = m->keys ? lang_count(m->keys, g->size) : 1;
        bool                more = true;
        for (uint64_t k = 0; k < rounds && more; k++) {
            memcpy(next, at, g->size);
            if (m->required) memset(next, 0, g->size);
            more = json__reach(d, g, at, way, n, 1u << o->n_need, next);
            memcpy(at, next, g->size);
        }
    }
    const bool can = json__reached(g, at);
    mem_free(at), mem_free(next);
    return can;
}

static bool json__member_can(json_rules *d, const json__object *o, const json__member *m) {
    json__way    way[JSON_WAYS];
    const size_t n = json__ways(d, m->value, o->need, m->needs, way);
    for (size_t i = 0; i < n; i++)
        if (json__can(d, way[i].value)) return true;
    return false;
}

static bool json__object_can(json_rules *d, const json__object *o) {
    uint64_t required = 0, all = 0;
    if (o->none) return false;
    for (size_t i = 0; i < o->n; i++) {
        const bool can = json__member_can(d, o, &o->m[i]);
        if (o->m[i].required && !can) return false;
        required += o->m[i].required;
        if (can && all < o->min) all += o->m[i].keys ? lang_count(o->m[i].keys, o->min) : 1;
    }
    if (required > o->max || all < o->min || o->min > o->max) return false;
    const json__grid g = json__object_grid(o);
    return !o->n_need || g.size > JSON_GRID || json__object_counts(d, o, &g);
}

/* --- arrays --- */

/* The end of an array, from place `k` on, where all places are alike and at most one kind of items is counted. */
typedef struct {
    uint64_t  k, min, max;
    json__way way[JSON_WAYS];
    size_t    n_way;
    bool      counts, with, without;                  /* a kind is counted; an item may count; an item may not count */
    uint64_t  c_min, c_max;
} json__loop;

/* False: the array is not of this kind. */
static bool json__loop_of(json_rules *d, const schema_array *a, json__loop *l) {
    const size_t      n = a->n_contains;
    const json__need *need = a->contains;
    if (n > 1 || (n && need[0].from < a->n_prefix)) return false;
    *l = (json__loop){.k = json__places(a), .counts = n > 0, .c_min = n ? need[0].min : 0, .c_max = n ? need[0].max : UINT64_MAX};
    json__way    way[JSON_WAYS];
    const size_t n_way = json__ways(d, a->rest, need, json__needs_at(a, l->k), way);
    for (size_t i = 0; i < n_way; i++) {
        if (!json__can(d, way[i].value)) continue;
        l->way[l->n_way++] = way[i];
        *(way[i].counts ? &l->with : &l->without) = true;
    }
    l->min = a->min > l->k ? a->min - l->k : 0;
    l->max = a->max == UINT64_MAX ? UINT64_MAX : a->max - l->k;
    if (!l->n_way) l->max = 0;
    if (!l->without && l->counts && l->c_max < l->max) l->max = l->c_max;
    return true;
}

static bool json__loop_can(json_rules *d, const schema_array *a, const json__loop *l) {
    for (uint64_t i = 0; i < l->k; i++)
        if (!json__can(d, json__item_at(a, i))) return a->min <= i && l->c_min == 0;
    return l->min <= l->max && l->c_min <= l->c_max && l->c_min <= l->max && (!l->c_min || l->with);
}

static bool json__array_counts(json_rules *d, const schema_array *a, const json__grid *g, uint64_t last) {
    bool     *at = mem_new(g->size, 1), *next = mem_new(g->size, 1), can = false, more = true;
    json__way way[JSON_WAYS];
    at[0] = true;
    for (uint64_t i = 0; more && !can; i++) {
        const size_t n = json__ways(d, json__item_at(a, i), a->contains, json__needs_at(a, i), way);
        can = i >= a->min && json__reached(g, at);
        if (i == a->max || can) break;
        if (i < last) memset(next, 0, g->size);
        else memcpy(next, at, g->size);
        more = json__reach(d, g, at, way, n, 0, next);
        memcpy(at, next, g->size);
    }
    mem_free(at), mem_free(next);
    return can;
}

/* The number of places after which an array with counts is the same at each place; of a bounded one, its places. */
static uint64_t json__array_last(const schema_array *a) {
    const uint64_t places = json__places(a), last = max_u64(places, a->min);
    return a->max != UINT64_MAX ? a->max : last ? last : 1;
}

/* The numbers of a language that have so few digits that all of them end: fewer where many remainders are counted, more
 * where all but 0 have more. NULL: over the budget. */
static const lang *json__ended(json_rules *d, const lang *l) {
    static const uint32_t digits[] = {JSON_WHOLE, 12, 9};
    size_t                i = 0;
    while (i < 3 && lang_depth(l, digits[i] + 2, JSON_GRID) == JSON_GRID) i++;
    if (!l || i == 3) return l;
    const lang *few = lang_and(d->langs, l, num_short(d->langs, digits[i], digits[i] - 1));
    if (lang_count(few, JSON_ZEROS + 1) > JSON_ZEROS) return few;
    const bytes zero = bytes_of("0");
    const lang *some = lang_and(d->langs, l, lang_not(d->langs, num_values(d->langs, &zero, 1)));
    if (lang_empty(some)) return lang_and(d->langs, l, lang_word(d->langs, zero));
    for (uint32_t k = JSON_WIDE; lang_empty(lang_and(d->langs, few, some)) && k <= NUM_DIGITS; k *= 2)
        few = lang_depth(l, k, JSON_GRID) == JSON_GRID ? l : lang_and(d->langs, l, num_short(d->langs, k, k));
    return few;
}

/* Whether the numbers of a language, which is of one form each, are a short list, or have few digits. */
static bool json__ends(json_rules *d, const lang *one) {
    if (!lang_is_finite(one)) return false;
    if (lang_states(one) <= JSON_WIDE || lang_count(one, JSON_LIST) < JSON_LIST) return true;
    return lang_empty(lang_and(d->langs, one, lang_not(d->langs, num_short(d->langs, JSON_WIDE, JSON_WIDE))));
}

/* The part of a language of numbers that is generated: integers without a point, and nothing without an end. Values of
 * a short list are all in it, and numbers between bounds of up to JSON_WIDE digits. NULL: over the budget. */
static const lang *json__written(json_rules *d, const lang *l) {
    const lang *whole = num_integer(d->langs, false), *plain = num_integer(d->langs, true);
    if (l == whole) return num_short(d->langs, JSON_WHOLE, 0);
    const lang *fractions = lang_and(d->langs, l, lang_not(d->langs, whole));
    if (lang_empty(fractions)) {
        const lang *one = lang_and(d->langs, l, plain);
        return json__ends(d, one) ? one : json__ended(d, one);
    }
    const lang *one = lang_and(d->langs, l, num_decimal(d->langs)), *few = json__ended(d, l);
    return json__ends(d, one) ? lang_or(d->langs, few, one) : few;
}

/* A set of values whose texts show whether two of them are equal: a list of distinct words, and languages. Objects and
 * arrays are not among them. */
typedef struct {
    str        *text;
    size_t      n;
    const lang *string, *number;                      /* NULL: none */
    bool        parts;                                /* there are objects or arrays, too */
} json__values;

static void json__values_drop(json__values *v) {
    for (size_t i = 0; i < v->n; i++) str_drop(&v->text[i]);
    mem_free(v->text);
}

static str *json__values_add(json__values *v) {
    v->text = mem_reserve(v->text, v->n, UINT64_MAX, sizeof *v->text);
    v->text[v->n] = (str){0};
    return &v->text[v->n++];
}

static void json__values_word(json__values *v, const char *word) { str_put(json__values_add(v), word); }

/* The words of a language whose characters are one byte each in a JSON string. */
static const lang *json__one_byte(json_rules *d, const lang *l) {
    err_t e = {0};
    return lang_and(d->langs, l, lang_regex(d->langs, bytes_of("[ !#-\\[\\]-~]*"), false, &e));
}

/* The strings of a language that can be kept apart: all, where each goes on without an end, else those of characters
 * that are one byte. NULL: none. */
static const lang *json__apart_strings(json_rules *d, const lang *l) {
    const lang *plain = !l || lang_endless(l) ? l : json__one_byte(d, l);
    return plain && lang_empty(plain) ? NULL : plain;
}

/* The numbers, each in one form. NULL: none. */
static const lang *json__apart_numbers(json_rules *d, const schema_shape *s) {
    if (!s->any_number && !s->number) return NULL;
    const lang *l = lang_and(d->langs, json__written(d, s->any_number ? num_all(d->langs) : s->number), num_decimal(d->langs));
    return l && lang_empty(l) ? NULL : l;
}

static void json__values_strings(json_rules *d, json__values *v, const schema_shape *s) {
    const uint64_t n = s->string ? lang_count(s->string, JSON_WORDS + 1) : 0;
    str            word = {0};
    if (n > JSON_WORDS) v->string = json__apart_strings(d, s->string);
    else
        for (uint64_t i = 0; i < n; i++) {
            str_clear(&word);
            lang_nth(s->string, i, &word);
            str_json_plain(json__values_add(v), str_bytes(&word));
        }
    str_drop(&word);
}

static void json__values_numbers(json_rules *d, json__values *v, const schema_shape *s) {
    const lang    *l = json__apart_numbers(d, s);
    const uint64_t n = lang_count(l, JSON_WORDS + 1);
    if (n > JSON_WORDS) v->number = l;
    else
        for (uint64_t i = 0; i < n; i++) lang_nth(l, i, json__values_add(v));
}

static json__values json__values_of(json_rules *d, const schema_shape *s) {
    json__values v = {.parts = s->n_array || s->n_object};
    if (s->null) json__values_word(&v, "null");
    if (s->no) json__values_word(&v, "false");
    if (s->yes) json__values_word(&v, "true");
    json__values_strings(d, &v, s);
    json__values_numbers(d, &v, s);
    return v;
}

/* Whether there are enough values for the items of an array that differ. True where that is not known. */
static bool json__unique_can(json_rules *d, const schema_array *a) {
    if (!a->unique || a->min < 2 || a->n_prefix || a->n_contains || a->rest == SCHEMA_TRUE || a->rest == SCHEMA_FALSE)
        return true;
    const schema_shape *s = d->node[json__node_of(d, a->rest)].shape;
    json__values        v = json__values_of(d, s);
    const bool          can = v.parts || lang_count(s->string, JSON_WORDS + 1) > JSON_WORDS || v.number || v.n >= a->min;
    json__values_drop(&v);
    return can;
}

static bool json__array_can(json_rules *d, const schema_array *a) {
    const json__grid g = json__grid_of(a->contains, a->n_contains);
    const uint64_t   last = json__array_last(a);
    json__loop       l;
    if (a->min > a->max || !json__unique_can(d, a)) return false;
    if (json__loop_of(d, a, &l)) return json__loop_can(d, a, &l);
    return g.size > JSON_GRID || last > JSON_GRID / g.size || json__array_counts(d, a, &g, last);
}

/* --- the fixpoint --- */

static bool json__node_can(json_rules *d, uint32_t at) {
    const schema_shape *s = d->node[at].shape;
    if (s->null || s->no || s->yes || s->any_number) return true;
    if (s->string && !lang_empty(s->string)) return true;
    if (s->number && !lang_empty(s->number)) return true;
    for (size_t i = 0; i < s->n_array; i++)
        if (json__array_can(d, &s->array[i])) return true;
    for (size_t i = 0; i < s->n_object; i++)
        if (json__object_can(d, &d->node[at].object[i])) return true;
    return false;
}

/* The users of each node: those of node i are user[first[i]] up to user[first[i + 1]]. */
static void json__users(const json_rules *d, uint32_t *first, uint32_t *user) {
    for (size_t i = 0; i < d->n_use; i++) first[d->use[i].used + 1]++;
    for (size_t i = 0; i < d->n_node; i++) first[i + 1] += first[i];
    for (size_t i = d->n_use; i-- > 0;) user[first[d->use[i].used]++] = d->use[i].user;
    for (size_t i = d->n_node; i > 0; i--) first[i] = first[i - 1];
    first[0] = 0;
}

/* The nodes from `from` on are new: decides which of them have a value. The last come first, because most are below
 * their users. */
static void json__solve(json_rules *d, size_t from) {
    uint32_t *first = mem_new(d->n_node + 1, sizeof *first), *user = mem_new(d->n_use, sizeof *user),
             *todo = mem_new(d->n_node, sizeof *todo);
    size_t    n = 0;
    json__users(d, first, user);
    for (size_t i = from; i < d->n_node; i++) todo[n++] = (uint32_t)i, d->node[i].queued = true;
    while (n) {
        const uint32_t at = todo[--n];
        d->node[at].queued = false;
        if (d->node[at].can || !json__node_can(d, at)) continue;
        d->node[at].can = true;
        for (uint32_t i = first[at]; i < first[at + 1]; i++)
            if (!d->node[user[i]].can && !d->node[user[i]].queued) todo[n++] = user[i], d->node[user[i]].queued = true;
    }
    mem_free(first), mem_free(user), mem_free(todo);
    d->solved = true;
}

/* Reads every conjunction that c reaches. */
static bool json__reach_all(json_rules *d, schema_conj c) {
    const size_t from = d->n_node;
    if (c == SCHEMA_TRUE || c == SCHEMA_FALSE) return true;
    json__node_of(d, c);
    d->solved = false;
    for (size_t i = from; i < d->n_node; i++)
        if (!json__read(d, (uint32_t)i)) return false;
    json__solve(d, from);
    return true;
}

/* --- rules of values --- */

static int32_t json__rule_of(json_rules *d, schema_conj c);      /* rules of values call each other */

static void json__value(json_rules *d, int32_t from, schema_conj c, int32_t to) {
    gram_call(d->g, from, json__rule_of(d, c), to);
}

/* Guards and counts between two states: returns the state after them. */
static int32_t json__op(json_rules *d, int32_t from, gram_op_kind kind, uint64_t k, uint64_t a, uint64_t b) {
    const int32_t to = gram_state(d->g);
    gram_op_edge(d->g, from, (gram_op){kind, (uint32_t)k, a, b}, to);
    return to;
}

/* Rules that all values share, by what they are made of: a language of strings, of numbers, of keys; the escapes of a
 * character; see json__halves_of(); what comes once of a node. */
typedef enum { JSON_OF_STRINGS, JSON_OF_NUMBERS, JSON_OF_KEYS, JSON_OF_ESCAPES, JSON_OF_HALVES, JSON_OF_ONCE } json_part;

/* The place for 1 + such a rule. */
static hmap_entry *json__part(json_rules *d, uint64_t of, json_part kind) { return hmap_add(&d->part, (of << 3 | kind) + 1, 0); }

static int32_t json__string(json_rules *d, const schema_shape *s) {
    gram *g = d->g;
    if (lang_is_all(s->string)) return json__rule(d, JSON_STRING);
    hmap_entry *en = json__part(d, (uintptr_t)s->string, JSON_OF_STRINGS);
    if (en->b) return (int32_t)(en->b - 1);
    const int32_t rule = gram_rule(g, "string");
    en->b = (uint64_t)rule + 1;
    if (d->f.loose && lang_is_tall(s->string)) {      /* read whole, then compared */
        const int32_t mark = json__op(d, gram_begin(g, rule), GRAM_MARK, 0, 0, 0), at = gram_state(g);
        gram_call(g, mark, json__rule(d, JSON_STRING), at);
        gram_op_edge(g, at, (gram_op){GRAM_CHECK, 0, (uint64_t)(uintptr_t)s->string, 0}, gram_end(g, rule));
        return rule;
    }
    const int32_t end = gram_state(g), from = json__byte(d, gram_begin(g, rule), '"');
    gram_byte(g, end, '"', '"', gram_end(g, rule));
    const lang *l = d->f.loose ? s->string : schema_brief(d->s, s->string);
    if (l) lang_emit_json(g, from, l, d->f.loose, false, end);
    else json__over(d, s->at, "the strings");
    return rule;
}

/* Loose: a number with an exponent is read whole and then compared. */
static void json__exponents(json_rules *d, int32_t from, const lang *l, int32_t to) {
    gram   *g = d->g;
    int32_t at = json__exponent(d, json__plain_number(d, json__op(d, from, GRAM_MARK, 0, 0, 0))), end = gram_state(g);
    for (int i = 0; i < JSON_EXPONENT; i++) {
        const int32_t next = gram_state(g);
        gram_byte(g, at, '0', '9', next);
        gram_eps(g, next, end);
        at = next;
    }
    gram_op_edge(g, end, (gram_op){GRAM_CHECK, 0, (uint64_t)(uintptr_t)l, 0}, to);
}

static int32_t json__number(json_rules *d, const schema_shape *s) {
    gram *g = d->g;
    if (s->any_number) return json__rule(d, JSON_NUMBER);
    hmap_entry *en = json__part(d, (uintptr_t)s->number, JSON_OF_NUMBERS);
    if (en->b) return (int32_t)(en->b - 1);
    const int32_t rule = gram_rule(g, "number"), from = gram_begin(g, rule), to = gram_end(g, rule);
    en->b = (uint64_t)rule + 1;
    const lang *plain = d->f.loose ? s->number : json__written(d, s->number);
    if (plain) lang_emit(g, from, plain, to);
    else json__over(d, s->at, "the numbers");
    if (d->f.loose) json__exponents(d, from, s->number, to);
    return rule;
}

/* --- names of members --- */

static void json__spelled_unit(json_rules *d, int32_t from, unsigned unit, int32_t to) {
    static const char *const digits[] = {"00", "11", "22", "33", "44", "55", "66", "77", "88", "99", "aaAA", "bbBB",
                                         "ccCC", "ddDD", "eeEE", "ffFF"};
    for (int i = 3; i >= 0; i--) {
        const int32_t next = i ? gram_state(d->g) : to;
        json__digits(d, from, digits[unit >> 4 * i & 15], next);
        from = next;
    }
}

/* The rule of what may be after the backslash of an escape of character c. */
static int32_t json__escape_of(json_rules *d, uint32_t c) {
    static const char letters[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    gram             *g = d->g;
    hmap_entry       *en = json__part(d, c, JSON_OF_ESCAPES);
    if (en->b) return (int32_t)(en->b - 1);
    const int32_t rule = gram_rule(g, "escape"), from = gram_begin(g, rule), to = gram_end(g, rule),
                  u = json__byte(d, from, 'u'), low = gram_state(g);
    const char   *at = c && c < 0x80 ? strchr(means, (char)c) : NULL;
    en->b = (uint64_t)rule + 1;
    if (at) gram_byte(g, from, (uint8_t)letters[at - means], (uint8_t)letters[at - means], to);
    json__spelled_unit(d, u, c < 0x10000 ? c : 0xd800 + ((c - 0x10000) >> 10), c < 0x10000 ? to : low);
    if (c >= 0x10000)
        json__spelled_unit(d, json__byte(d, json__byte(d, low, '\\'), 'u'), 0xdc00 + ((c - 0x10000) & 0x3ff), to);
    return rule;
}

/* One character of a name: loose in each spelling that JSON allows, else in one. */
static void json__spelled(json_rules *d, int32_t from, bytes raw, int32_t to) {
    const uint32_t c = utf8_get(raw.p, (int)raw.n);
    if (d->f.loose) gram_call(d->g, json__byte(d, from, '\\'), json__escape_of(d, c), to);
    if (c >= 0x20 && c != '"' && c != '\\') gram_text(d->g, from, raw, to);
    else if (!d->f.loose) {
        str text = {0};
        str_json_plain(&text, raw);
        gram_text(d->g, from, (bytes){(const uint8_t *)text.p + 1, text.n - 2}, to);
        str_drop(&text);
    }
}

typedef struct {
    bytes    name;
    uint32_t member;
} json__sorted;

static int json__name_order(const void *x, const void *y) {
    const bytes a = ((const json__sorted *)x)->name, b = ((const json__sorted *)y)->name;
    const int   c = a.n && b.n ? memcmp(a.p, b.p, min_size(a.n, b.n)) : 0;
    return c ? c : a.n < b.n ? -1 : a.n > b.n;
}

/* The part of a name that begins it and the one before it, in whole characters. */
static size_t json__common(bytes a, bytes b) {
    size_t n = 0;
    while (n < a.n && n < b.n && a.p[n] == b.p[n]) n++;
    while (n && n < a.n && (a.p[n] & 0xc0) == 0x80) n--;
    return n;
}

/* A node of a tree of names: what is after some characters that names begin with. */
typedef struct {
    int32_t  state;
    uint64_t child[2];                                /* bits of ASCII characters that go on to another node */
    size_t   name;                                    /* 1 + the place of the name that ends here, 0: none does */
} json__twig;

typedef struct {
    json__twig *at;                                   /* [n] the first one is the root, after the first quote */
    size_t      n;
} json__tree;

static size_t json__twig_new(json_rules *d, json__tree *t) {
    return MEM_PUSH(t->at, t->n, (json__twig){.state = gram_state(d->g)});
}

/* The tree of n sorted names. */
static json__tree json__tree_of(json_rules *d, int32_t from, const json__sorted *name, size_t n) {
    json__tree t = {0};
    size_t     longest = 0;
    for (size_t i = 0; i < n; i++) longest = max_size(longest, name[i].name.n);
    size_t *path = mem_new(longest + 1, sizeof *path);     /* nodes after the bytes of the name before */
    path[0] = json__twig_new(d, &t);
    gram_byte(d->g, from, '"', '"', t.at[0].state);
    for (size_t i = 0; i < n; i++) {
        const bytes one = name[i].name;
        for (size_t at = i ? json__common(one, name[i - 1].name) : 0, len; at < one.n; at += len) {
            const uint8_t c = one.p[at];
            len = (size_t)max_int(utf8_len(one.p + at, one.n - at), 1);     /* names are UTF-8 */
            path[at + len] = json__twig_new(d, &t);
            if (c < 0x80) t.at[path[at]].child[c >> 6] |= (uint64_t)1 << (c & 63);
            json__spelled(d, t.at[path[at]].state, (bytes){one.p + at, len}, t.at[path[at + len]].state);
        }
        t.at[path[one.n]].name = i + 1;
    }
    mem_free(path);
    return t;
}

/* The names of members in quotes, as a tree: after the name of member m[i] is key[i]. */
static void json__names(json_rules *d, int32_t from, const json__sorted *name, size_t n, const int32_t *key) {
    json__tree t = json__tree_of(d, from, name, n);
    for (size_t i = 0; i < t.n; i++)
        if (t.at[i].name) gram_byte(d->g, t.at[i].state, '"', '"', key[name[t.at[i].name - 1].member]);
    mem_free(t.at);
}

/* A name in quotes; returns the state after it. */
static int32_t json__name(json_rules *d, int32_t from, bytes name) {
    const int32_t to = gram_state(d->g);
    json__names(d, from, &(json__sorted){name, 0}, 1, &to);
    return to;
}

/* What is after the beginning of a name and goes on as none of them: a quote or another character. */
static void json__twig_others(json_rules *d, const json__twig *t, int32_t rest, int32_t to) {
    gram *g = d->g;
    if (!t->name) gram_byte(g, t->state, '"', '"', to);
    gram_call(g, t->state, json__rule(d, JSON_OTHER), to);
    for (unsigned c = 0x20, last; c < 0x80; c = last + 1) {
        last = c;
        if (c == '"' || c == '\\' || (t->child[c >> 6] >> (c & 63) & 1)) continue;
        while (last < 0x7f && last + 1 != '"' && last + 1 != '\\' && !(t->child[(last + 1) >> 6] >> ((last + 1) & 63) & 1))
            last++;
        gram_byte(g, t->state, (uint8_t)c, (uint8_t)last, rest);
    }
}

static bool json__plain_name(bytes name) {
    for (size_t k = 0; k < name.n; k++)
        if (name.p[k] < 0x20 || name.p[k] > 0x7e || name.p[k] == '"' || name.p[k] == '\\') return false;
    return true;
}

/* Every key but n names (generation), which are printable ASCII: a tree of the names, and after a character that leaves
 * it, rules that all keys share. */
static void json__undeclared(json_rules *d, int32_t from, const bytes *names, size_t n, int32_t to) {
    json__sorted *name = mem_new(n, sizeof *name);
    const int32_t rest = gram_state(d->g);
    for (size_t i = 0; i < n; i++) name[i].name = names[i];
    qsort(name, n, sizeof *name, json__name_order);
    json__tree tree = json__tree_of(d, from, name, n);
    gram_call(d->g, rest, json__rule(d, JSON_REST), to);
    for (size_t i = 0; i < tree.n; i++) json__twig_others(d, &tree.at[i], rest, to);
    mem_free(tree.at), mem_free(name);
}

/* Whether keys are all but the declared names, which are printable ASCII. */
static bool json__all_but_named(json_rules *d, const json__object *o, const lang *keys) {
    for (size_t i = 0; i < o->n_named; i++)
        if (!json__plain_name(o->named[i])) return false;
    return o->n_named && keys == lang_not(d->langs, lang_words(d->langs, o->named, o->n_named));
}

/* Keys that are all but a few words (generation). False: they are not. */
static bool json__all_but_words(json_rules *d, int32_t from, const lang *keys, int32_t to) {
    const lang    *words = lang_not(d->langs, keys);
    const uint64_t n = d->f.loose ? 0 : lang_count(words, JSON_BUT + 1);
    bool           plain = n > 0 && n <= JSON_BUT;
    if (!plain) return false;
    str   *own = mem_new(n, sizeof *own);
    bytes *name = mem_new(n, sizeof *name);
    for (uint64_t i = 0; i < n; i++) {
        str_put(&own[i], "");
        lang_nth(words, i, &own[i]);
        name[i] = str_bytes(&own[i]);
        plain &= json__plain_name(name[i]);
    }
    if (plain) json__undeclared(d, from, name, n, to);
    for (uint64_t i = 0; i < n; i++) str_drop(&own[i]);
    mem_free(own), mem_free(name);
    return plain;
}

/* The rule of the keys of a language in quotes. */
static int32_t json__key_rule(json_rules *d, const lang *keys) {
    gram       *g = d->g;
    hmap_entry *en = json__part(d, (uintptr_t)keys, JSON_OF_KEYS);
    if (en->b) return (int32_t)(en->b - 1);
    const int32_t rule = gram_rule(g, "key"), from = gram_begin(g, rule), to = gram_end(g, rule);
    en->b = (uint64_t)rule + 1;
    if (json__all_but_words(d, from, keys, to)) return rule;
    const int32_t end = gram_state(g);
    lang_emit_json(g, json__byte(d, from, '"'), keys, d->f.loose, false, end);
    gram_byte(g, end, '"', '"', to);
    return rule;
}

/* A key of a language in quotes; returns the state after it. once: it is none of the earlier ones, and its characters are
 * one byte each where that leaves keys without an end. */
static int32_t json__key(json_rules *d, int32_t from, const json__object *o, const lang *keys, bool once) {
    gram         *g = d->g;
    const int32_t to = gram_state(g), end = once ? gram_state(g) : to;
    if (once) {
        const lang *few = json__one_byte(d, keys);
        lang_emit_apart(g, json__byte(d, from, '"'), lang_endless(keys) && !lang_endless(few) ? keys : few, end);
        gram_byte(g, end, '"', '"', to);
        return json__op(d, to, GRAM_DISTINCT, 0, 0, 0);
    }
    if (lang_is_all(keys)) gram_call(g, from, json__rule(d, JSON_STRING), to);
    else if (!d->f.loose && json__all_but_named(d, o, keys)) json__undeclared(d, from, o->named, o->n_named, to);
    else gram_call(g, from, json__key_rule(d, keys), to);
    return to;
}

/* --- objects --- */

/* Members of which some value exists; the counts of the others are dropped with them. False: there is no object. */
static bool json__object_live(json_rules *d, json__object *o) {
    if (!json__object_can(d, o)) return false;
    size_t n = 0;
    for (size_t i = 0, n_prop = o->n_prop; i < o->n; i++) {
        if (json__member_can(d, o, &o->m[i])) o->m[n++] = o->m[i];
        else if (i < n_prop) o->n_prop--;
    }
    o->n = n;
    return true;
}

static uint64_t json__required(const json__object *o, size_t from) {
    uint64_t n = 0;
    for (size_t i = from; i < o->n; i++) n += o->m[i].required;
    return n;
}

/* Whether there are always further keys that did not come yet, and of those that are counted. */
static bool json__keys_many(json_rules *d, const json__object *o) {
    bool any = false;
    for (size_t i = o->n_prop; i < o->n; i++) {
        const bool many = lang_endless(o->m[i].keys) || lang_count(json__one_byte(d, o->m[i].keys), LANG_FEW) == LANG_FEW;
        if (!many && o->m[i].needs) return false;
        any |= many;
    }
    return any;
}

#define JSON_NOT_APART "a number of properties whose keys cannot be kept apart while generating"

/* Members in the order of the schema (generation). Before member i are the states next[i], after one where member i
 * may be the next, after[i]. Counts are registers: word 0 the members that differ in any case, word 1 all of them;
 * each only where it matters. */
typedef struct {
    json_rules    *d;
    json__object *o;
    uint64_t     *more, *need;                        /* [n_prop + 1] members from i on that differ and can come
                                                       * (UINT64_MAX: no end); that must come */
    bool          extra;                              /* there are further keys */
    bool          low, high, once;                    /* word 0 and word 1 are counted; further keys differ */
    int32_t       close, end;
    size_t        split;                              /* 1 + a member whose value is written elsewhere, 0: none; */
    int32_t       before, behind;                     /* the states in front of its colon and after its value */
} json__chain;

static int32_t json__chain_count(json__chain *x, int32_t from, bool differs) {
    if (x->low && differs) from = json__op(x->d, from, GRAM_ADD, 0, 1, x->o->min);
    if (x->high) from = json__op(x->d, from, GRAM_ADD, 1, 1, x->o->max);
    return from;
}

/* Guard: one more member may come besides those that must come from member i on. */
static int32_t json__chain_room(json__chain *x, int32_t from, uint64_t need) {
    if (!x->high) return from;
    return x->o->max > need ? json__op(x->d, from, GRAM_WITHIN, 1, 0, x->o->max - need - 1) : -1;
}

/* What may be after a member, where member i is the next. */
static void json__chain_after(json__chain *x, int32_t at, size_t i, int32_t next) {
    if (!x->need[i]) gram_eps(x->d->g, x->low ? json__op(x->d, at, GRAM_WITHIN, 0, x->o->min, UINT64_MAX) : at, x->close);
    const int32_t comma = x->need[i] ? at : json__chain_room(x, at, 0);
    if ((i < x->o->n_prop || x->extra) && comma >= 0) gram_eps(x->d->g, json__comma(x->d, comma), next);
}

static void json__chain_member(json__chain *x, size_t i, const int32_t *next, const int32_t *after) {
    const json__member *m = &x->o->m[i];
    gram               *g = x->d->g;
    const int32_t       from = m->required ? next[i] : json__chain_room(x, next[i], x->need[i + 1]);
    if (from >= 0)
        json__value(x->d, json__colon(x->d, json__name(x->d, json__chain_count(x, from, true), m->name)),
                    m->value, after[i + 1]);
    if (m->required) return;
    const bool enough = !x->low || x->more[i + 1] >= x->o->min;
    gram_eps(g, enough ? next[i] : json__op(x->d, next[i], GRAM_WITHIN, 0, x->o->min - x->more[i + 1], UINT64_MAX), next[i + 1]);
}

/* Which counts matter. False: they cannot be held. */
static bool json__chain_counts(json__chain *x) {
    const json__object *o = x->o;
    const uint64_t      required = json__required(o, 0);
    x->extra = o->n > o->n_prop;
    x->low = o->min > 1 && o->min > required;
    x->high = o->max < o->n_prop || (x->extra && o->max != UINT64_MAX);
    x->once = x->low && json__keys_many(x->d, o);
    if (x->low && !x->once && o->n_prop < o->min) return json__refuse(x->d, o->at, JSON_NOT_APART);
    x->more[o->n_prop] = x->once ? UINT64_MAX : 0;
    x->need[o->n_prop] = 0;
    for (size_t i = o->n_prop; i-- > 0;) {
        x->more[i] = x->once ? UINT64_MAX : x->more[i + 1] + 1;
        x->need[i] = x->need[i + 1] + o->m[i].required;
    }
    return true;
}

/* The members without counts, in blocks: from within a block its members are tried one by one, each later block as a
 * tree of names. So few alternatives are open at a time where many members may be left out. */
static void json__chain_blocks(json__chain *x, const int32_t *next, const int32_t *after) {
    const json__object *o = x->o;
    const size_t        n = o->n_prop;
    json_rules         *d = x->d;
    json__sorted       *name = mem_new(n, sizeof *name);
    int32_t            *key = mem_new(n, sizeof *key);
    size_t              block = JSON_BLOCK;
    while (block * block < n) block++;
    for (size_t i = 0; i < n; i++) {
        key[i] = i + 1 == x->split ? x->before : gram_state(d->g);
        if (i + 1 != x->split) json__value(d, json__colon(d, key[i]), o->m[i].value, after[i + 1]);
    }
    for (size_t i = 0; i < n; i++) {
        const size_t most = i % block ? 1 : block < n - i ? block : n - i;
        size_t       k = 0;
        while (k < most && (!k || !o->m[i + k - 1].required)) name[k] = (json__sorted){o->m[i + k].name, (uint32_t)(i + k)}, k++;
        const bool required = o->m[i + k - 1].required;
        qsort(name, k, sizeof *name, json__name_order);
        json__names(d, next[i], name, k, key);
        if (!required) gram_eps(d->g, next[i], next[i + most]);
    }
    mem_free(name), mem_free(key);
}

static void json__chain_build(json__chain *x, int32_t from) {
    json_rules   *d = x->d;
    gram         *g = d->g;
    const size_t  n = x->o->n_prop;
    int32_t      *next = mem_new(n + 1, sizeof *next), *after = mem_new(n + 1, sizeof *after);
    for (size_t i = 0; i <= n; i++) next[i] = gram_state(g), after[i] = gram_state(g);
    if (x->split) after[x->split] = x->behind;
    gram_eps(g, json__brackets(d, from, "{}", !x->o->min && !x->need[0], x->close, x->end), next[0]);
    if (!x->low && !x->high) json__chain_blocks(x, next, after);
    else
        for (size_t i = 0; i < n; i++) json__chain_member(x, i, next, after);
    for (size_t i = n ? 1 : 0; i <= n; i++) json__chain_after(x, after[i], i, next[i]);
    const int32_t room = json__chain_room(x, next[n], 0), key = room < 0 ? -1 : json__chain_count(x, room, x->once);
    for (size_t i = n; i < x->o->n && key >= 0; i++)
        json__value(d, json__colon(d, json__key(d, key, x->o, x->o->m[i].keys, x->once)), x->o->m[i].value, after[n]);
    mem_free(next), mem_free(after);
}

static bool json__object_chain(json_rules *d, json__object *o, int32_t from, int32_t to) {
    json__chain x = {.d = d, .o = o, .close = gram_state(d->g), .end = to,
                     .more = mem_new(o->n_prop + 1, sizeof *x.more), .need = mem_new(o->n_prop + 1, sizeof *x.need)};
    const bool  held = json__chain_counts(&x);
    if (held) json__chain_build(&x, from);
    mem_free(x.more), mem_free(x.need);
    return held;
}

/* Whether an object needs several members that may be further ones: then a key that appears twice would count twice. */
static bool json__object_least(const json__object *o, uint64_t required) {
    bool least = o->min > 1 && o->min > required;
    for (size_t j = 0; j < o->n_need; j++) least |= o->need[j].min > 0;
    return least;
}

/* Members in the order of the schema where some are counted by their values (generation): next and after of the chain
 * are there for each tuple of counts, at [i * size + counts]. */
static void json__grid_value(json_rules *d, const json__object *o, const json__member *m, const json__grid *g,
                             size_t v, int32_t from, const int32_t *after) {
    json__way    way[JSON_WAYS];
    const size_t n = json__ways(d, m->value, o->need, m->needs, way);
    for (size_t i = 0; i < n; i++) {
        size_t next = v;
        if (json__grid_step(g, &next, way[i].counts | 1u << o->n_need)) json__value(d, from, way[i].value, after[next]);
    }
}

static void json__grid_members(json_rules *d, const json__object *o, const json__grid *g, size_t v, bool once,
                               const int32_t *next, const int32_t *after) {
    for (size_t i = 0; i < o->n_prop; i++) {
        const int32_t at = next[i * g->size + v];
        json__grid_value(d, o, &o->m[i], g, v, json__colon(d, json__name(d, at, o->m[i].name)), after + (i + 1) * g->size);
        if (!o->m[i].required) gram_eps(d->g, at, next[(i + 1) * g->size + v]);
    }
    for (size_t i = o->n_prop; i < o->n; i++)
        json__grid_value(d, o, &o->m[i], g, v,
                         json__colon(d, json__key(d, next[o->n_prop * g->size + v], o, o->m[i].keys, once)),
                         after + o->n_prop * g->size);
}

static bool json__object_grid_build(json_rules *d, const json__object *o, int32_t from, int32_t to) {
    gram            *g = d->g;
    const json__grid grid = json__object_grid(o);
    const size_t     n = (o->n_prop + 1) * grid.size;
    const bool       extra = o->n > o->n_prop, once = extra && json__object_least(o, json__required(o, 0));
    if (grid.size > JSON_GRID || n > JSON_GRID) return json__over(d, o->at, "the members that are counted");
    if (once && !json__keys_many(d, o)) return json__refuse(d, o->at, JSON_NOT_APART);
    int32_t      *next = mem_new(n, sizeof *next), *after = mem_new(n, sizeof *after);
    const int32_t close = gram_state(g);
    for (size_t i = 0; i < n; i++) next[i] = gram_state(g), after[i] = gram_state(g);
    gram_eps(g, json__brackets(d, from, "{}", json__grid_done(&grid, 0) && !json__required(o, 0), close, to), next[0]);
    for (size_t v = 0; v < grid.size; v++) json__grid_members(d, o, &grid, v, once, next, after);
    for (size_t i = 0; i < n; i++) {
        if (json__grid_done(&grid, i % grid.size) && !json__required(o, i / grid.size)) gram_eps(g, after[i], close);
        gram_eps(g, json__comma(d, after[i]), next[i]);
    }
    mem_free(next), mem_free(after);
    return true;
}

/* Members in any order. Declared ones are bits, the required ones first; after the bits are the counts, each only
 * where it matters. */
typedef struct {
    json_rules          *d;
    const json__object *o;
    uint64_t            required;
    uint64_t            words;                        /* registers in use */
    uint64_t            low;                          /* 1 + the register of members that differ; 0: none */
    uint64_t            room;                         /* of all members */
    uint64_t            rest;                         /* of those not required */
    uint64_t            mark;                         /* of the place of the first byte */
    uint64_t            need[JSON_NEEDS];             /* registers of the needs */
    bool                once;                         /* further keys differ */
    int32_t             next, after;
} json__any;

static int32_t json__count(json_rules *d, int32_t from, uint64_t k, uint64_t most) {
    return k ? json__op(d, from, GRAM_ADD, k - 1, 1, most) : from;
}
static int32_t json__within(json_rules *d, int32_t from, uint64_t k, uint64_t a, uint64_t b) {
    return k ? json__op(d, from, GRAM_WITHIN, k - 1, a, b) : from;
}

static bool json__any_counts(json__any *x) {
    const json__object *o = x->o;
    const bool          loose = x->d->f.loose, extra = o->n > o->n_prop, low = o->min > x->required,
                        high = o->max < o->n_prop || (extra && o->max != UINT64_MAX);
    x->words = (o->n_prop + JSON_WORD_BITS - 1) / JSON_WORD_BITS;
    x->once = !loose && low && o->min > 1 && json__keys_many(x->d, o);
    if (!loose && low && extra && !x->once && o->min > 1 && (high || o->n_prop < o->min))
        return json__refuse(x->d, o->at, JSON_NOT_APART);
    if (low) x->low = ++x->words;
    if (high || !extra) x->room = ++x->words;
    if (high) x->rest = ++x->words;
    for (size_t j = 0; j < o->n_need; j++) x->need[j] = ++x->words;
    if (loose && extra && json__object_least(o, x->required)) x->mark = ++x->words;
    return true;
}

/* After a key: what the member changes. */
static int32_t json__any_counted(json__any *x, int32_t from, bool required, bool differs) {
    if (differs) from = json__count(x->d, from, x->low, x->o->min);
    if (!required) from = json__count(x->d, from, x->rest, x->o->max);
    return json__count(x->d, from, x->room, UINT64_MAX);
}

static void json__any_value(json__any *x, const json__member *m, int32_t from) {
    json__way    way[JSON_WAYS];
    const size_t n = json__ways(x->d, m->value, x->o->need, m->needs, way);
    from = json__colon(x->d, from);
    for (size_t i = 0; i < n; i++) {
        int32_t at = way[i].counts ? gram_state(x->d->g) : x->after;
        json__value(x->d, from, way[i].value, at);
        for (size_t j = 0; j < x->o->n_need; j++) {
            const json__need *need = &x->o->need[j];
            if (!(way[i].counts >> j & 1)) continue;
            if (need->max != UINT64_MAX) at = json__within(x->d, at, x->need[j], 0, need->max - 1);
            at = json__count(x->d, at, x->need[j], need->max == UINT64_MAX ? need->min : need->max);
        }
        if (way[i].counts) gram_eps(x->d->g, at, x->after);
    }
}

/* The declared members, or those of them that are required or not: in generation each one that has not come yet,
 * loose as a tree of names, after which it is seen whether the name is new. */
static void json__any_declared(json__any *x, int32_t from, bool required) {
    const json__object *o = x->o;
    json__sorted       *name = mem_new(o->n_prop, sizeof *name);
    int32_t            *key = mem_new(o->n_prop, sizeof *key);
    uint64_t            bit = required ? 0 : x->required;
    size_t              n = 0;
    for (size_t i = 0; i < o->n_prop; i++) {
        const json__member *m = &o->m[i];
        if (m->required != required) continue;
        key[i] = gram_state(x->d->g);
        name[n++] = (json__sorted){m->name, (uint32_t)i};
        if (!x->d->f.loose) json__names(x->d, json__op(x->d, from, GRAM_LACKS, 0, bit, 0), &name[n - 1], 1, key);
        json__any_value(x, m, json__any_counted(x, json__op(x->d, key[i], GRAM_TAKE, 0, bit++, 0), required, true));
    }
    if (x->d->f.loose && n) {
        qsort(name, n, sizeof *name, json__name_order);
        json__names(x->d, from, name, n, key);
    }
    mem_free(name), mem_free(key);
}

static void json__any_members(json__any *x) {
    const json__object *o = x->o;
    const bool          spare = o->max > x->required;     /* members may come besides the required ones */
    const int32_t       other = !x->rest ? x->next
                                : spare  ? json__within(x->d, x->next, x->rest, 0, o->max - x->required - 1)
                                         : -1;
    json__any_declared(x, x->next, true);
    if (other >= 0) json__any_declared(x, other, false);
    for (size_t i = o->n_prop; i < o->n && other >= 0; i++)
        json__any_value(x, &o->m[i], json__any_counted(x, json__key(x->d, other, o, o->m[i].keys, x->once), false,
                                                       x->once || x->d->f.loose || o->min <= 1));
}

/* After a member: a comma where another one may come. Returns the state where all is there. */
static int32_t json__any_after(json__any *x) {
    const json__object *o = x->o;
    json_rules          *d = x->d;
    const int32_t       at = json__space(d, x->after, JSON_BEFORE);
    const uint64_t      most = o->n > o->n_prop || o->max < o->n_prop ? o->max : o->n_prop;
    if (most) gram_eps(d->g, json__comma(d, json__within(d, at, x->room, 0, most - 1)), x->next);
    int32_t close = x->required ? json__op(d, at, GRAM_HAS, 0, 0, x->required - 1) : at;
    close = json__within(d, close, x->low, o->min, UINT64_MAX);
    for (size_t j = 0; j < o->n_need; j++)
        if (o->need[j].min) close = json__within(d, close, x->need[j], o->need[j].min, UINT64_MAX);
    return close;
}

static bool json__object_any(json_rules *d, const json__object *o, int32_t from, int32_t to) {
    gram     *g = d->g;
    json__any x = {.d = d, .o = o, .required = json__required(o, 0), .next = gram_state(g), .after = gram_state(g)};
    bool      least = o->min || x.required;
    if (!json__any_counts(&x)) return false;
    for (size_t j = 0; j < o->n_need; j++) least |= o->need[j].min > 0;
    if (x.mark) {
        from = json__op(d, from, GRAM_MARK, x.mark - 1, 0, 0);
        const int32_t end = gram_state(g);
        gram_op_edge(g, end, (gram_op){GRAM_CHECK, (uint32_t)x.mark - 1, JSON_KEYS, 0}, to);
        to = end;
    }
    json__any_members(&x);
    gram_eps(g, json__brackets(d, from, "{}", !least, json__any_after(&x), to), x.next);
    return true;
}

/* --- arrays --- */

/* An array whose places and counts are written out as states: next[i] before item i, after[i] after it, for each
 * tuple of counts. */
static bool json__array_grid(json_rules *d, const schema_array *a, const json__grid *grid, uint64_t last, int32_t from,
                             int32_t to) {
    gram         *g = d->g;
    const size_t  size = grid->size, n = (last + 1) * size;
    int32_t      *next = mem_new(n, sizeof *next), *after = mem_new(n, sizeof *after);
    const int32_t close = gram_state(g);
    json__way     way[JSON_WAYS];
    for (size_t i = 0; i < n; i++) next[i] = gram_state(g), after[i] = gram_state(g);
    gram_eps(g, json__brackets(d, from, "[]", !a->min && json__grid_done(grid, 0), close, to), next[0]);
    for (uint64_t i = 0; i <= last && i < a->max; i++) {
        const uint64_t then = i < last ? i + 1 : last;
        const size_t   n_way = json__ways(d, json__item_at(a, i), a->contains, json__needs_at(a, i), way);
        for (size_t v = 0; v < size; v++)
            for (size_t k = 0; k < n_way; k++) {
                size_t to_v = v;
                if (json__grid_step(grid, &to_v, way[k].counts))
                    json__value(d, next[i * size + v], way[k].value, after[then * size + to_v]);
            }
    }
    for (size_t i = size; i < n; i++) {
        const int32_t at = json__space(d, after[i], JSON_BEFORE);
        if (i / size >= a->min && json__grid_done(grid, i % size)) gram_eps(g, at, close);
        if (i / size < a->max) gram_eps(g, json__comma(d, at), next[i]);
    }
    mem_free(next), mem_free(after);
    return true;
}

/* An item of the end of an array: the guards of its way, its value, its counts. Registers: 0 items of the end, 1
 * those that count, 2 the others. */
static void json__loop_item(json_rules *d, const json__loop *l, const json__way *w, int32_t from, int32_t after) {
    const bool     others = l->c_min && l->max != UINT64_MAX;
    const uint64_t most = l->max == UINT64_MAX ? l->min : l->max, c_most = l->c_max == UINT64_MAX ? l->c_min : l->c_max;
    const int32_t  end = gram_state(d->g);
    if (w->counts && l->c_max != UINT64_MAX) from = json__op(d, from, GRAM_WITHIN, 1, 0, l->c_max - 1);
    if (!w->counts && others && l->max <= l->c_min) return;
    if (!w->counts && others) from = json__op(d, from, GRAM_WITHIN, 2, 0, l->max - l->c_min - 1);
    json__value(d, from, w->value, end);
    int32_t at = most ? json__op(d, end, GRAM_ADD, 0, 1, most) : end;
    if (w->counts && c_most) at = json__op(d, at, GRAM_ADD, 1, 1, c_most);
    if (!w->counts && others) at = json__op(d, at, GRAM_ADD, 2, 1, l->max);
    gram_eps(d->g, at, after);
}

/* After an item: the bracket and the comma. Negative: they may not come. */
static void json__array_after(json_rules *d, int32_t close_at, int32_t close, int32_t comma_at, int32_t next) {
    if (close_at >= 0) gram_eps(d->g, close_at, close);
    if (comma_at >= 0) gram_eps(d->g, json__comma(d, comma_at), next);
}

static bool json__array_loop(json_rules *d, const schema_array *a, const json__loop *l, int32_t from, int32_t to) {
    gram         *g = d->g;
    const int32_t close = gram_state(g), next = gram_state(g), after = gram_state(g);
    const bool    ends = !l->min && !l->c_min, goes_on = l->max > 0;
    int32_t       at = json__brackets(d, from, "[]", !a->min && !l->c_min, close, to);
    for (uint64_t i = 0; i < l->k; i++) {
        const int32_t end = gram_state(g), item = gram_state(g);
        json__value(d, at, json__item_at(a, i), end);
        const int32_t spaced = json__space(d, end, JSON_BEFORE);
        json__array_after(d, (i + 1 < l->k ? i + 1 >= a->min && !l->c_min : ends) ? spaced : -1, close,
                          i + 1 < l->k || goes_on ? spaced : -1, item);
        at = item;
    }
    gram_eps(g, at, next);
    for (size_t i = 0; i < l->n_way; i++) json__loop_item(d, l, &l->way[i], next, after);
    at = json__space(d, after, JSON_BEFORE);
    const int32_t enough = l->min > 1 ? json__op(d, at, GRAM_WITHIN, 0, l->min, UINT64_MAX) : at;
    const int32_t comma = l->max == UINT64_MAX ? at : l->max > 1 ? json__op(d, at, GRAM_WITHIN, 0, 0, l->max - 1) : -1;
    json__array_after(d, l->c_min ? json__op(d, enough, GRAM_WITHIN, 1, l->c_min, UINT64_MAX) : enough, close, comma, next);
    return true;
}

static bool json__array_items(json_rules *d, const schema_array *a, int32_t from, int32_t to) {
    const json__grid grid = json__grid_of(a->contains, a->n_contains);
    const uint64_t   last = json__array_last(a);
    json__loop       l;
    const bool       small = a->n_contains ? grid.size <= JSON_GRID && last < JSON_GRID / grid.size
                                           : last <= json__places(a) + JSON_SPREAD;
    if (small) return json__array_grid(d, a, &grid, last, from, to);
    if (json__loop_of(d, a, &l)) return json__array_loop(d, a, &l, from, to);
    return json__over(d, a->at, "the items that are counted");
}

/* --- items that all differ (generation) ---
 * The text of an item would have to be compared where it ends, on whatever stack. So items are made apart by less:
 *   Words of a short list are bits. Strings and numbers are texts, each in one spelling, which are kept (GRAM_DISTINCT);
 *   where few words go on as a text does, it goes on as long as one of them is left (GRAM_SPARE).
 *   Objects differ in the value of one member, a string or a number that is always written. Those alternatives of
 *   objects that cannot have it come once in all, without this member; so do arrays.
 *   Where the schema has items by their place, or counts some, there are as many as differ whatever they are.
 * Whatever is written then differs; and there is always a next item as long as fewer than `max` are there. */

/* An alternative of objects in two rules: up to the key of the member, and from after its value on. */
typedef struct { int32_t before, behind; } json__halves;

typedef struct {
    json_rules  *d;
    json__values v;
    uint32_t     node;                                /* of the items */
    bytes        name;                                /* of the member in which objects differ; n 0: none */
    int32_t      once[2];                             /* rules of the other objects and of arrays, -1: none */
    uint64_t     texts;                               /* the most words of a language: LANG_FEW where they have no end */
    uint64_t     n;                                   /* 1 + the register, 0: none */
    uint64_t     min, max;
    int32_t      next, after;
} json__unique;

static json__member *json__member_of(const json__object *o, bytes name) {
    for (size_t i = 0; i < o->n_prop; i++)
        if (bytes_eq(o->m[i].name, name)) return &o->m[i];
    return NULL;
}

/* The shape of a conjunction; NULL: it was not read, because its values are counted and so it appears in parts. */
static const schema_shape *json__shape(const json_rules *d, schema_conj c) {
    const hmap_entry *en = hmap_find(&d->of, (uint64_t)(uint32_t)c + 1, 0);
    return en->a ? d->node[en->b - 1].shape : NULL;
}

/* The strings and the numbers of a member that can be kept apart. */
static void json__apart_of(json_rules *d, schema_conj c, const lang **string, const lang **number) {
    const schema_shape *s = c == SCHEMA_TRUE ? NULL : json__shape(d, c);
    *string = s ? json__apart_strings(d, s->string) : c == SCHEMA_TRUE ? lang_all(d->langs) : NULL;
    *number = s ? json__apart_numbers(d, s) : NULL;
}

/* How well a member distinguishes the objects of an alternative; 0: not at all, as where members are counted. */
static int json__apart_score(json_rules *d, const json__object *o, bytes name) {
    const json__member *m = json__member_of(o, name);
    const lang         *string, *number;
    if (!m || o->none || o->n_need || (o->min > 1 && o->min > json__required(o, 0)) || o->max < o->n_prop ||
        (o->n > o->n_prop && o->max != UINT64_MAX))
        return 0;
    json__apart_of(d, m->value, &string, &number);
    const uint64_t n = max_u64(lang_count(string, LANG_FEW), lang_count(number, LANG_FEW));
    return n < 2 ? 0 : 2 * (n == LANG_FEW ? string ? 3 : 2 : 1) + m->required;
}

enum { JSON_TRIED = 8 };                              /* alternatives whose members are tried */

/* The member in which objects differ; n 0: there is none. */
static bytes json__apart_name(json_rules *d, const json__object *o, size_t n) {
    bytes best = {0};
    int   most = 0;
    for (size_t i = 0; i < n && i < JSON_TRIED; i++)
        for (size_t k = 0; k < o[i].n_prop; k++) {
            int all = 0;
            for (size_t j = 0; j < n && o[i].m[k].name.n; j++) all += json__apart_score(d, &o[j], o[i].m[k].name);
            if (all > most) most = all, best = o[i].m[k].name;
        }
    return best;
}

/* A copy with members of its own. */
static json__object json__object_copy(const json__object *o) {
    json__object c = *o;
    c.m = mem_new(o->n, sizeof *c.m);
    if (o->n) memcpy(c.m, o->m, o->n * sizeof *c.m);
    return c;
}

/* The halves of an alternative, which are made once. */
static json__halves json__halves_of(json_rules *d, const json__object *from, bytes name) {
    gram       *g = d->g;
    hmap_entry *en = json__part(d, (uintptr_t)from, JSON_OF_HALVES);
    if (en->b) return (json__halves){(int32_t)(en->b & INT32_MAX), (int32_t)(en->b >> 32)};
    const json__halves h = {gram_rule(g, "object before its key"), gram_rule(g, "object behind its key")};
    en->b = (uint64_t)(uint32_t)h.behind << 32 | (uint32_t)h.before;
    json__object  o = json__object_copy(from);
    json__member *m = json__member_of(&o, name);
    json__chain   x = {.d = d, .o = &o, .close = gram_state(g), .end = gram_end(g, h.behind), .split = (size_t)(m - o.m) + 1,
                       .before = gram_end(g, h.before), .behind = gram_begin(g, h.behind),
                       .more = mem_new(o.n_prop + 1, sizeof *x.more), .need = mem_new(o.n_prop + 1, sizeof *x.need)};
    m->required = true;
    json__chain_counts(&x);
    json__chain_build(&x, gram_begin(g, h.before));
    mem_free(x.more), mem_free(x.need), mem_free(o.m);
    return h;
}

/* After an item. */
static void json__unique_over(json__unique *x, int32_t at) {
    gram_eps(x->d->g, json__count(x->d, at, x->n, x->max == UINT64_MAX ? x->min : x->max), x->after);
}

/* The words of a language as a text that none of those before is equal to; returns the state after it. */
static int32_t json__unique_text(json__unique *x, int32_t from, const lang *l, bool quoted) {
    gram         *g = x->d->g;
    const int32_t open = quoted ? gram_state(g) : from, end = gram_state(g);
    if (quoted) gram_byte_op(g, from, '"', '"', (gram_op){GRAM_APPEND, 0, 0, 0}, open);
    lang_emit_apart(g, open, l, end);
    return json__op(x->d, quoted ? json__byte(x->d, end, '"') : end, GRAM_DISTINCT, 0, 0, 0);
}

/* What comes once, as bit `bit`. */
static void json__unique_once(json__unique *x, int32_t rule, uint64_t bit) {
    const int32_t end = gram_state(x->d->g);
    gram_call(x->d->g, json__op(x->d, x->next, GRAM_LACKS, 0, bit, 0), rule, end);
    json__unique_over(x, json__op(x->d, end, GRAM_TAKE, 0, bit, 0));
}

/* An object that differs from others in a member. */
static void json__unique_object(json__unique *x, const json__object *o, bytes name) {
    gram              *g = x->d->g;
    const json__halves h = json__halves_of(x->d, o, name);
    const int32_t      key = gram_state(g), value = gram_state(g), end = gram_state(g);
    const lang        *string, *number;
    gram_call(g, x->next, h.before, key);
    const int32_t at = json__colon(x->d, key);
    json__apart_of(x->d, json__member_of(o, name)->value, &string, &number);
    if (string) gram_eps(g, json__unique_text(x, at, string, true), value);
    if (number) gram_eps(g, json__unique_text(x, at, number, false), value);
    gram_call(g, value, h.behind, end);
    json__unique_over(x, end);
}

/* An alternative of objects without a member. False: it needs it. */
static bool json__object_lacks(json_rules *d, json__object *o, bytes name) {
    size_t n = 0, n_prop = 0;
    for (size_t i = 0; i < o->n; i++) {
        json__member m = o->m[i];
        if (!m.keys && bytes_eq(m.name, name)) {
            if (m.required) return false;
            continue;
        }
        if (m.keys) m.keys = lang_and(d->langs, m.keys, lang_not(d->langs, lang_word(d->langs, name)));
        if (m.keys && lang_empty(m.keys)) continue;
        o->m[n++] = m;
        n_prop += !m.keys;
    }
    o->n = n, o->n_prop = n_prop;
    return true;
}

static bool json__objects(json_rules *d, json__object *o, int32_t from, int32_t to);      /* may have such arrays */
static bool json__arrays(json_rules *d, const schema_array *a, int32_t from, int32_t to);  /* may be such arrays */

/* Fills a rule with the arrays of a node, or with its objects, without the member by which objects would differ. False:
 * there are none, or e is set. */
static bool json__once_fill(json_rules *d, uint32_t node, bool arrays, bytes name, int32_t rule) {
    const schema_shape *s = d->node[node].shape;
    json__object       *object = d->node[node].object;
    const int32_t       from = gram_begin(d->g, rule), to = gram_end(d->g, rule);
    bool                any = false;
    for (size_t i = 0; arrays && i < s->n_array; i++) {
        any |= json__array_can(d, &s->array[i]);
        d->others = false;
        if (!json__arrays(d, &s->array[i], from, to)) return false;
    }
    for (size_t i = 0; !arrays && i < s->n_object; i++) {
        if (object[i].none || (name.n && json__apart_score(d, &object[i], name))) continue;
        json__object o = json__object_copy(&object[i]);
        const bool   there = (!name.n || json__object_lacks(d, &o, name)) && json__object_live(d, &o);
        const bool   held = !there || json__objects(d, &o, from, to);
        any |= there;
        mem_free(o.m);
        if (!held) return false;
    }
    return any;
}

/* That rule, made once; -1: there is none. */
static int32_t json__once_rule(json_rules *d, uint32_t node, bool arrays, bytes name) {
    const uint64_t of = 2 * (uint64_t)node + arrays;
    hmap_entry    *en = json__part(d, of, JSON_OF_ONCE);
    if (en->b) return (int32_t)(en->b & INT32_MAX) - 1;
    const int32_t rule = gram_rule(d->g, "once");
    en->b = (uint64_t)rule + 1;                       /* it may be asked for while it is filled */
    const bool any = json__once_fill(d, node, arrays, name, rule);
    if (!any) json__part(d, of, JSON_OF_ONCE)->b = UINT64_C(1) << 32;
    return any ? rule : -1;
}

/* What a node's objects and arrays are kept apart by. */
static void json__unique_parts(json__unique *x) {
    json_rules         *d = x->d;
    const schema_shape *s = d->node[x->node].shape;
    json__object       *o = d->node[x->node].object;
    const lang         *string, *number;
    for (size_t i = 0; i < s->n_object; i++) o[i].none = !json__object_live(d, &o[i]);
    x->name = json__apart_name(d, o, s->n_object);
    for (size_t i = 0; x->name.n && i < s->n_object; i++) {
        if (!json__apart_score(d, &o[i], x->name)) continue;
        json__apart_of(d, json__member_of(&o[i], x->name)->value, &string, &number);
        x->texts = max_u64(x->texts, max_u64(lang_count(string, LANG_FEW), lang_count(number, LANG_FEW)));
    }
    for (int arrays = 0; arrays < 2; arrays++) x->once[arrays] = json__once_rule(d, x->node, arrays, x->name);
}

/* The kinds of values that an item may be. */
static void json__unique_kinds(json__unique *x, schema_conj item) {
    json_rules *d = x->d;
    x->once[0] = x->once[1] = -1;
    if (item == SCHEMA_TRUE) {
        for (int i = 0; i < 3; i++) json__values_word(&x->v, (const char *[]){"null", "false", "true"}[i]);
        x->v.string = lang_all(d->langs);
        x->v.number = lang_and(d->langs, json__written(d, num_all(d->langs)), num_decimal(d->langs));
        x->once[0] = json__rule(d, JSON_OBJECT), x->once[1] = json__rule(d, JSON_ARRAY);
    } else {
        x->node = json__node_of(d, item);
        x->v = json__values_of(d, d->node[x->node].shape);
        if (x->v.parts) json__unique_parts(x);
    }
    x->texts = max_u64(x->texts, max_u64(lang_count(x->v.string, LANG_FEW), lang_count(x->v.number, LANG_FEW)));
}

static void json__unique_items(json__unique *x) {
    gram    *g = x->d->g;
    uint64_t bit = 0;
    for (; bit < x->v.n; bit++) {
        const int32_t end = gram_state(g);
        gram_text(g, json__op(x->d, x->next, GRAM_LACKS, 0, bit, 0), str_bytes(&x->v.text[bit]), end);
        json__unique_over(x, json__op(x->d, end, GRAM_TAKE, 0, bit, 0));
    }
    if (x->v.string) json__unique_over(x, json__unique_text(x, x->next, x->v.string, true));
    if (x->v.number) json__unique_over(x, json__unique_text(x, x->next, x->v.number, false));
    for (size_t i = 0; x->name.n && i < x->d->node[x->node].shape->n_object; i++) {
        const json__object *o = &x->d->node[x->node].object[i];
        if (json__apart_score(x->d, o, x->name)) json__unique_object(x, o, x->name);
    }
    for (int i = 0; i < 2; i++)
        if (x->once[i] >= 0) json__unique_once(x, x->once[i], bit++);
}

/* Whether no value satisfies both conjunctions, as far as their types and their strings and numbers say. */
static bool json__types_apart(json_rules *d, schema_conj a, schema_conj b) {
    const bool none = a == SCHEMA_FALSE || b == SCHEMA_FALSE;
    if (none || a == SCHEMA_TRUE || b == SCHEMA_TRUE) return none;
    const schema_shape *x = json__shape(d, a), *y = json__shape(d, b);
    if (!x || !y) return false;
    if ((x->null && y->null) || (x->no && y->no) || (x->yes && y->yes)) return false;
    if ((x->n_array && y->n_array) || (x->n_object && y->n_object)) return false;
    return !(x->string && y->string && !lang_empty(lang_and(d->langs, x->string, y->string))) &&
           !(x->number && y->number && !lang_empty(lang_and(d->langs, x->number, y->number)));
}

/* How many items from the first one on differ whatever they are. */
static uint64_t json__apart_places(json_rules *d, const schema_array *a) {
    uint64_t n = 1;
    for (; n <= a->n_prefix && n < a->max; n++)
        for (uint64_t i = 0; i < n; i++)
            if (!json__types_apart(d, json__item_at(a, i), json__item_at(a, n))) return n;
    return n;
}

/* The array is given up: it is left out where values of other types may come in its place, else refused, or with its items
 * as they are where that is asked for. */
static bool json__unique_not(json_rules *d, const schema_array *a, int32_t from, int32_t to, const char *why) {
    if (!d->f.lax && !d->e->code && d->others) return true;
    if (!d->f.lax) return d->e->code ? false : json__refuse(d, a->at, why);
    schema_drop_note(d->s, a->at, "uniqueItems is dropped");
    return json__array_items(d, a, from, to);
}

static bool json__array_unique(json_rules *d, const schema_array *a, int32_t from, int32_t to) {
    gram        *g = d->g;
    json__unique x = {.d = d, .min = a->min, .max = a->max};
    if (a->n_prefix || a->n_contains || a->rest == SCHEMA_FALSE) {
        schema_array few = *a;
        few.unique = false, few.max = min_u64(a->max, json__apart_places(d, a));
        if (!d->f.lax && few.min <= few.max && json__array_can(d, &few)) return json__array_items(d, &few, from, to);
        return json__unique_not(d, a, from, to, "uniqueItems beside items by their place, or beside contains, cannot be kept "
                                                "while generating (--schema-loose drops it)");
    }
    json__unique_kinds(&x, a->rest);
    const uint64_t words = x.v.n + (x.once[0] >= 0) + (x.once[1] >= 0);
    if (x.texts < LANG_FEW) x.max = min_u64(x.max, max_u64(x.texts, words));
    if (x.max != UINT64_MAX || x.min > 1) x.n = (words + JSON_WORD_BITS - 1) / JSON_WORD_BITS + 1;
    if (d->e->code || x.min > x.max) {
        json__values_drop(&x.v);
        return json__unique_not(d, a, from, to, "uniqueItems cannot be kept while generating: too few items are sure to differ "
                                                "(--schema-loose drops it)");
    }
    x.next = gram_state(g), x.after = gram_state(g);
    const int32_t close = gram_state(g);
    gram_eps(g, json__brackets(d, from, "[]", !x.min, close, to), x.next);
    json__unique_items(&x);
    const int32_t comma = x.max == UINT64_MAX ? x.after : x.max > 1 ? json__within(d, x.after, x.n, 0, x.max - 1) : -1;
    json__array_after(d, x.min > 1 ? json__within(d, x.after, x.n, x.min, UINT64_MAX) : x.after, close, comma, x.next);
    json__values_drop(&x.v);
    return true;
}

static bool json__arrays(json_rules *d, const schema_array *a, int32_t from, int32_t to) {
    const bool differ = a->unique && a->max > 1;
    if (!json__array_can(d, a)) return true;
    if (!differ) return json__array_items(d, a, from, to);
    if (!d->f.loose) return json__array_unique(d, a, from, to);
    const int32_t end = gram_state(d->g);
    gram_op_edge(d->g, end, (gram_op){GRAM_CHECK, JSON_MARK, JSON_UNIQUE, 0}, to);
    return json__array_items(d, a, json__op(d, from, GRAM_MARK, JSON_MARK, 0, 0), end);
}

/* --- values --- */

static bool json__objects(json_rules *d, json__object *o, int32_t from, int32_t to) {
    if (!json__object_live(d, o)) return true;
    if (d->f.loose || (d->f.order == 1 && !o->n_need)) return json__object_any(d, o, from, to);
    return o->n_need ? json__object_grid_build(d, o, from, to) : json__object_chain(d, o, from, to);
}

/* A rule that other values share, where a shape is nothing but that; -1: it is not. */
static int32_t json__known(json_rules *d, const schema_shape *s) {
    const bool words = s->null || s->no || s->yes, numbers = s->any_number || s->number;
    const int  types = words + (s->string != NULL) + numbers + (s->n_array > 0) + (s->n_object > 0);
    const schema_array  *a = s->array;
    const schema_object *o = s->object;
    const bool arrays = s->n_array == 1 && !a->n_prefix && a->rest == SCHEMA_TRUE && !a->min && a->max == UINT64_MAX &&
                        !a->unique && !a->n_contains;
    const bool objects = s->n_object == 1 && !o->n_prop && o->n_extra == 1 && lang_is_all(o->extra[0].keys) &&
                         o->extra[0].value == SCHEMA_TRUE && !o->min && o->max == UINT64_MAX && !o->n_some;
    if (types == 1 && s->string) return json__string(d, s);
    if (types == 1 && numbers) return json__number(d, s);
    if (types == 1 && arrays) return json__rule(d, JSON_ARRAY);
    if (types == 1 && objects) return json__rule(d, JSON_OBJECT);
    const bool all = s->null && s->no && s->yes && lang_is_all(s->string) && s->any_number && arrays && objects;
    return all ? json__rule(d, JSON_VALUE) : -1;
}

/* The rule of a conjunction that has values. What is new is filled later. */
static int32_t json__rule_of(json_rules *d, schema_conj c) {
    if (c == SCHEMA_TRUE) return json__rule(d, JSON_VALUE);
    if (c == SCHEMA_FALSE) return json__rule(d, JSON_NOTHING);
    const uint32_t at = json__node_of(d, c);
    if (d->node[at].rule >= 0) return d->node[at].rule;
    const int32_t known = json__known(d, d->node[at].shape);
    if (known >= 0) return d->node[at].rule = known;
    MEM_PUSH(d->todo, d->n_todo, at);
    return d->node[at].rule = gram_rule(d->g, d->node[at].shape->at);
}

static bool json__fill(json_rules *d, uint32_t at) {
    gram               *g = d->g;
    const schema_shape *s = d->node[at].shape;
    const int32_t       from = gram_begin(g, d->node[at].rule), to = gram_end(g, d->node[at].rule);
    if (s->null) gram_text(g, from, bytes_of("null"), to);
    if (s->no) gram_text(g, from, bytes_of("false"), to);
    if (s->yes) gram_text(g, from, bytes_of("true"), to);
    if (s->string) gram_call(g, from, json__string(d, s), to);
    if (s->any_number || s->number) gram_call(g, from, json__number(d, s), to);
    d->others = s->null || s->no || s->yes || s->string || s->any_number || s->number;
    for (size_t i = 0; i < s->n_array; i++)
        if (!json__arrays(d, &s->array[i], from, to)) return false;
    for (size_t i = 0; i < s->n_object; i++)
        if (!json__objects(d, &d->node[at].object[i], from, to)) return false;
    return true;
}

/* Values of the conjunctions of one document in one automaton. The document and its languages must stay as long as
 * the automaton is used. */
static json_rules *json_rules_new(gram *g, schema_doc *s, const json_form *f) {
    json_rules *d = mem_new(1, sizeof *d);
    *d = (json_rules){.g = g, .f = *f, .s = s, .langs = schema_pool(s)};
    hmap_init(&d->of, 0);
    hmap_init(&d->part, 0);
    if (f->loose) gram_checks(g, json__check, NULL);
    else schema_allow_part(s);
    return d;
}

/* Frees what building needed: the automaton keeps its rules. NULL is allowed. */
static void json_rules_free(json_rules *d) {
    if (!d) return;
    for (size_t i = 0; i < d->n_node; i++) {
        for (size_t k = 0; d->node[i].object && k < d->node[i].shape->n_object; k++) {
            json__object *o = &d->node[i].object[k];
            for (size_t j = 0; j < o->n_word; j++) str_drop(&o->word[j]);
            mem_free(o->word), mem_free(o->named), mem_free(o->m);
        }
        mem_free(d->node[i].object);
    }
    hmap_drop(&d->of), hmap_drop(&d->part);
    mem_free(d->node), mem_free(d->use), mem_free(d->todo);
    mem_free(d);
}

/* A value of c, with the blanks that may be around it. False: e says what cannot be held. */
static bool json_rules_value(json_rules *d, int32_t from, schema_conj c, int32_t to, err_t *e) {
    d->e = e;
    if (!json__reach_all(d, c)) return false;
    if (!json__can(d, c) && schema_left_out(d->s)) return json__refuse(d, schema_left_out(d->s), "its negation is not supported");
    if (!json__can(d, c)) return json__refuse(d, "#", "nothing satisfies the schema");
    json__whole(d, from, json__rule_of(d, c), to);
    while (d->n_todo && !gram_failed(d->g) && !e->code)
        if (!json__fill(d, d->todo[--d->n_todo])) return false;
    if (lang_over(d->langs)) json__over(d, "#", "the languages of strings and numbers");
    return !e->code;
}

/* A value of the whole document. */
static bool json_build(gram *g, int32_t from, schema_doc *s, const json_form *f, int32_t to, err_t *e) {
    json_rules *d = json_rules_new(g, s, f);
    const bool  built = json_rules_value(d, from, schema_root(s), to, e);
    json_rules_free(d);
    return built;
}
