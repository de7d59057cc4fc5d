/* ===== [constrain] constraints as a user gives them =====
 * A constraint from its text to an automaton with its masks, and where one answer is in it. Free text may come before
 * it: thinking, or all up to a mark. Equal constraints are compiled once and share their masks.
 * Invariants:
 * - Each automaton has a lock. What runs under it allocates nothing, and its result does not depend on who else uses
 *   the automaton. The cache of automata is one thread's; others may mask with them and close them.
 * - A place is a set of the automaton that a track keeps, and whether the next token loses its leading blank. Both
 *   depend on the tokens of the answer alone.
 * To add a kind of constraint:
 *   1. Its name in constrain_kind, its function and its row in constrain__kinds.
 *   2. An option that gives it: a field of constrain_opts, a row of constrain__sources, a row of cli_opts and its name at
 *      BESIDE_HOLD in [cli]. An option that names a file: its field in act__apart_from_inputs() and act__settings() of [act].
 *   3. What a line of a batch says: a word in req__take_structured() of [req], or a row of req_keys.
 *   4. Tests: its row in tests/constraint.h, its rows in HELD and FITS of tests/structure.py, the message of --match in
 *      tests/cli.py. A notation of its own has an interpreter in tests/oracle.py and a part in tests/rule.py.
 *   5. A row in the README's table of constraints.
 * Public: constrain_kind, constrain_spec, constrain_think, constrain_opts, constrain_defaults, constrain_rules,
 * constrain_langs, constrain_schema_open, constrain_blanks, constrain_close, constrain_open, constrain_notes, constrain_warn,
 * constrain_match,
 * constrain_check, constrain_given, constrain_from, constrain_cache_new, constrain_cache_free, constrain_get,
 * constrain_report, constrain_report_all, constrain_seq_new, constrain_seq_like, constrain_strips,
 * constrain_seq_free, constrain_seq_copy, constrain_complete, constrain_closed, constrain_mask, constrain_bits,
 * constrain_accept, constrain_guess, constrain_feed, constrain_forced.
 * Opens: constrain_spec, constrain_think, constrain_opts, constrain_rules. */

enum {
    CONSTRAIN_MAX = 64 << 20,                         /* bytes of a text at most */
    CONSTRAIN_MARK = 1024,                            /* bytes of a mark after which it begins */
    CONSTRAIN_BLANKS = 8,                             /* bytes of white space that may be between thinking and the constraint */
    CONSTRAIN_STATES = 500000,                        /* of the regular languages of a schema */
    CONSTRAIN_IDLE = 16,                              /* compiled constraints that are kept while nobody uses them */
    CONSTRAIN_WORK = 1 << 23,                         /* units of work that ways to the ends of the answers to a line may take:
                                                       * about a second; after that their ends are not looked for */
    CONSTRAIN_STEP_WORK = 1 << 14,                    /* and those of a token that do not count: a millisecond or two */
    CONSTRAIN_MASK_WORK = 1 << 26,                    /* the same of steps of the automaton for masks: a second or so; after that
                                                       * the answer fails. What other answers have found costs nothing. */
    CONSTRAIN_MASK_STEP = 1 << 18,                    /* some milliseconds */
    CONSTRAIN_IDLE_MEM = 64 << 20,                    /* about how many bytes of unused automata are kept */
};

typedef enum { CONSTRAIN_NONE, CONSTRAIN_GBNF, CONSTRAIN_SCHEMA, CONSTRAIN_OBJECT, CONSTRAIN_REGEX, CONSTRAIN_CHOICE,
               CONSTRAIN_CALLS, CONSTRAIN_KINDS } constrain_kind;

typedef struct constrain      constrain;
typedef struct constrain_seq  constrain_seq;          /* where one answer is */
typedef struct constrain_cache constrain_cache;

typedef struct {                                      /* thinking before the constraint */
    bytes open, end;                                  /* its marks; empty: there is none */
    bytes lead, tail;                                 /* texts that may begin the answer's content, without thinking and
                                                       * after it */
    bool  inside;                                     /* the answer begins inside it; else it may be left out */
} constrain_think;

typedef struct constrain_spec {
    constrain_kind  kind;
    bytes           text;                             /* as the kind has it; of calls: all that `fill` depends on */
    const char     *path;                             /* for messages: a file, an option, a key; NULL: tools */
    bytes           after;                            /* it begins after this text; empty: at once */
    constrain_think think;
    bool            close;                            /* an answer ends whole within its length, where that is possible */
    json_form       form;
    bool          (*fill)(void *ctx, constrain *c, gram *g, int32_t from, int32_t to, err_t *e);   /* of calls */
    bool          (*ease)(void *ctx, const err_t *why, str *notes);     /* of calls, after a failure: asks for less and adds a
                                                       * line to the notes; false: it cannot. NULL: never */
    void           *ctx;
} constrain_spec;

/* What the command line says of a constraint. */
typedef struct {
    /* texts and files, one at most; NULL: not given */
    const char *grammar, *grammar_file, *schema, *schema_file, *regex, *choice;
    const char *after;                                /* constrain_spec.after; NULL: at once */
    const char *order, *space;                        /* words of constrain__orders, constrain__spaces */
    bool        close, lax;                           /* json_form.lax */
} constrain_opts;

static const constrain_opts constrain_defaults = {.order = "schema", .space = "lines", .close = true};

static const char *const constrain__orders[] = {"schema", "any", NULL},
                  *const constrain__spaces[] = {"none", "one", "lines", NULL};

/* What holds for all constraints of a kind, for --help structure; --match takes more than is generated. */
static const struct {
    const char *what, *rule;
} constrain_rules[] = {
    {"numbers", "generated with at most 18 digits, with a point 17, and an exponent of three digits up to 289; more digits "
                "where bounds of up to 40 digits or an enum ask for them. --match takes any number of digits"},
    {"times, durations", "generated with at most nine digits in a fraction of a second and in each count of a duration"},
    {"long strings", "beside a pattern or a format, a maxLength above 4096 is generated shorter; --match takes all of it"},
    {"unique items", "strings, numbers and up to 256 other values differ as values do; objects differ in one string or number, "
                     "which is always written; objects without it, and arrays, come once. Beside items by place or contains: "
                     "only as many items as differ whatever they are, else the array is left out where a word, a string "
                     "or a number may come in its place, or the schema is refused"},
    {"oneOf", "where too many alternatives overlap, only objects with a key that distinguishes the alternatives are generated"},
    {"--regex", "as Python's re.fullmatch: \\d \\w \\s \\b and (?i) are Unicode's, under the flag a ASCII's"},
    {"pattern", "as ECMA-262 has it, found anywhere: \\d and \\w are ASCII's, \\s its white space; \\p{...} takes general "
                "categories. No backreference, no lookbehind; lookahead outside of groups"},
    {"format", "date-time, date, time, duration, email, hostname, ipv4, ipv6, uuid, uri, uri-reference, json-pointer and "
               "relative-json-pointer are kept; regex is any string; others have no effect and are named"},
    {"$ref", "within the schema, and to the meta-schemas of drafts 4, 6 and 7; nothing is fetched"},
    {"thinking", "comes before the constraint; it is left out where it is off, its budget is 0 or the prompt ends behind it"},
};
enum { N_CONSTRAIN_RULES = sizeof constrain_rules / sizeof *constrain_rules };

struct constrain {
    _Atomic int      users;                           /* the cache is one of them; others may leave on any thread */
    bool             cached, close;
    uint64_t         used;                            /* when it was asked for last, counted in requests */
    str              key;                             /* all that it depends on */
    err_t            err;                             /* why it could not be compiled */
    str              notes;                           /* words of a schema without effect, schemas that are not kept; lines */
    gram            *g;
    mask_cache      *m;                               /* NULL: for matching alone */
    lang_pool       *langs;                           /* NULL: not asked for yet */
    schema_doc     **schema;                          /* [n_schema] what the automaton needs as long as it lives */
    size_t           n_schema;
    const tok_vocab *v;
    pthread_mutex_t  lock;
};

/* The regular languages that the automaton is made of. */
static lang_pool *constrain_langs(constrain *c) { return c->langs ? c->langs : (c->langs = lang_pool_new(CONSTRAIN_STATES)); }

/* A schema that lives as long as the constraint. path: in messages. NULL: e says why there is none. */
static schema_doc *constrain_schema_open(constrain *c, bytes text, const char *path, err_t *e) {
    schema_doc *s = schema_open(text, path, constrain_langs(c), e);
    if (!s) return NULL;
    c->schema = mem_reserve(c->schema, c->n_schema, UINT32_MAX, sizeof *c->schema);
    return c->schema[c->n_schema++] = s;
}

/* --- free text before it --- */

/* Any text up to the first `mark`, which is not empty; `to` is where the mark has ended. States as Knuth, Morris and
 * Pratt have them: state i has seen the first i bytes of the mark. */
static void constrain__until(gram *g, int32_t from, bytes mark, int32_t to) {
    int32_t *state = mem_new(mark.n, sizeof *state);
    int32_t *next = mem_new(mark.n, 256 * sizeof *next);     /* [mark.n][256] the state after a byte */
    size_t   fall = 0;                                /* the state that the text without its first byte leads to */
    for (size_t i = 0; i < mark.n; i++) {
        state[i] = i ? gram_state(g) : from;
        for (size_t b = 0; b < 256; b++) next[256 * i + b] = i ? next[256 * fall + b] : 0;
        next[256 * i + mark.p[i]] = (int32_t)i + 1;
        if (i) fall = (size_t)next[256 * fall + mark.p[i]];
    }
    for (size_t i = 0; i < mark.n; i++) {
        gram_free_state(g, state[i]);
        for (unsigned b = 0, end; b < 256; b = end) {
            const int32_t go = next[256 * i + b];
            for (end = b + 1; end < 256 && next[256 * i + end] == go; end++) {}
            gram_byte(g, state[i], (uint8_t)b, (uint8_t)(end - 1), go == (int32_t)mark.n ? to : state[go]);
        }
    }
    mem_free(state);
    mem_free(next);
}

/* At most CONSTRAIN_BLANKS bytes of white space. */
static void constrain_blanks(gram *g, int32_t from, int32_t to) {
    static const uint8_t blanks[] = {' ', '\n', '\r', '\t'};
    for (int i = 0; i <= CONSTRAIN_BLANKS; i++) {
        const int32_t next = i < CONSTRAIN_BLANKS ? gram_state(g) : to;
        gram_eps(g, from, to);
        for (size_t k = 0; k < sizeof blanks && i < CONSTRAIN_BLANKS; k++) gram_byte(g, from, blanks[k], blanks[k], next);
        from = next;
    }
}

/* A mark that may be spelled by control tokens too. */
static void constrain__mark(gram *g, int32_t from, bytes mark, int32_t to) {
    for (size_t i = 0; i < mark.n; i++) {
        const int32_t next = i + 1 < mark.n ? gram_state(g) : to;
        gram_free_state(g, from);
        gram_byte(g, from, mark.p[i], mark.p[i], next);
        from = next;
    }
}

/* A mark that may be missing, with the blanks after it. */
static void constrain__maybe(gram *g, int32_t from, bytes mark, int32_t to) {
    gram_eps(g, from, to);
    if (!mark.n) return;
    const int32_t after = gram_state(g);
    constrain__mark(g, from, mark, after);
    constrain_blanks(g, after, to);
}

/* Thinking, as far as the answer has some, and the blanks after it. */
static void constrain__thinking(gram *g, int32_t from, const constrain_think *o, int32_t to) {
    const int32_t inside = gram_state(g), end = gram_state(g), after = gram_state(g), start = gram_state(g);
    if (!o->inside) constrain__maybe(g, from, o->lead, to);
    if (!o->end.n) return;
    if (o->inside) gram_eps(g, from, inside);
    else {
        constrain_blanks(g, from, start);
        constrain__mark(g, start, o->open, inside);
    }
    constrain__until(g, inside, o->end, end);
    constrain_blanks(g, end, after);
    constrain__maybe(g, after, o->tail, to);
}

/* --- kinds --- */

static int32_t constrain__id_of(void *ctx, bytes name) {
    const tok_vocab *v = ctx;
    tok_ids          ids = {0};
    err_t            none = {0};
    const bool       one = tok_encode(v, name, TOK_SPECIAL | TOK_MIDDLE, &ids, &none) && ids.n == 1 &&
                           bytes_eq(tok_text(v, ids.id[0]), name);
    const int32_t    id = one ? ids.id[0] : -1;
    tok_ids_drop(&ids);
    return id;
}

static bool constrain__gbnf(constrain *c, const constrain_spec *o, int32_t from, int32_t to, err_t *e) {
    const gbnf_words words = {(void *)(uintptr_t)c->v, constrain__id_of, c->v ? tok_count(c->v) : 0};
    int32_t          root = 0;
    if (!gbnf_build(c->g, bytes_unmarked(o->text), c->v ? &words : NULL, &root, e)) return false;
    gram_call(c->g, from, root, to);
    return true;
}

static bool constrain__schema(constrain *c, const constrain_spec *o, int32_t from, int32_t to, err_t *e) {
    schema_doc *s = constrain_schema_open(c, o->text, o->path, e);
    if (!s || !json_build(c->g, from, s, &o->form, to, e)) return false;
    schema_note_put(s, &c->notes);
    return true;
}

static bool constrain__object(constrain *c, const constrain_spec *o, int32_t from, int32_t to, err_t *e) {
    (void)e;
    json_any(c->g, from, true, &o->form, to);
    return true;
}

static bool constrain__regex(constrain *c, const constrain_spec *o, int32_t from, int32_t to, err_t *e) {
    return lang_regex_gram(c->g, from, o->text, to, e);
}

/* The texts between bars. A backslash before a bar or a backslash makes it a part of the text. */
static bool constrain__choice(constrain *c, const constrain_spec *o, int32_t from, int32_t to, err_t *e) {
    str    one = {0};
    size_t i = 0;
    (void)e;
    for (bool more = true; more; i++) {
        const bool quoted = i + 1 < o->text.n && o->text.p[i] == '\\' && (o->text.p[i + 1] == '|' || o->text.p[i + 1] == '\\');
        more = i < o->text.n;
        if (quoted) i++;
        if (more && (quoted || o->text.p[i] != '|')) {
            str_add(&one, o->text.p + i, 1);
            continue;
        }
        if (one.n) gram_text(c->g, from, str_bytes(&one), to);
        else gram_eps(c->g, from, to);
        str_clear(&one);
    }
    str_drop(&one);
    return true;
}

static bool constrain__calls(constrain *c, const constrain_spec *o, int32_t from, int32_t to, err_t *e) {
    return o->fill(o->ctx, c, c->g, from, to, e);
}

static const struct {
    bool (*build)(constrain *c, const constrain_spec *o, int32_t from, int32_t to, err_t *e);
    bool   names;                                     /* its errors name `path` themselves */
} constrain__kinds[CONSTRAIN_KINDS] = {
    [CONSTRAIN_GBNF]   = {constrain__gbnf,   false},
    [CONSTRAIN_SCHEMA] = {constrain__schema, true},
    [CONSTRAIN_OBJECT] = {constrain__object, false},
    [CONSTRAIN_REGEX]  = {constrain__regex,  false},
    [CONSTRAIN_CHOICE] = {constrain__choice, false},
    [CONSTRAIN_CALLS]  = {constrain__calls,  true},
};

/* --- compiling --- */

/* The constraint of its kind, after all that may come before it. Returns the rule. */
static int32_t constrain__build(constrain *c, const constrain_spec *o, err_t *e) {
    gram         *g = c->g;
    const int32_t rule = gram_rule(g, NULL);
    int32_t       at = gram_begin(g, rule), next = gram_state(g);
    if (o->think.end.n || o->think.lead.n) constrain__thinking(g, at, &o->think, next), at = next, next = gram_state(g);
    if (o->after.n) constrain__until(g, at, o->after, next), at = next, next = gram_state(g);
    constrain__kinds[o->kind].build(c, o, at, gram_end(g, rule), e);
    return rule;
}

/* One user less; the last one frees the constraint. NULL is allowed. */
static void constrain_close(constrain *c) {
    if (!c || atomic_fetch_sub(&c->users, 1) > 1) return;
    mask_free(c->m);
    gram_free(c->g);
    for (size_t i = 0; i < c->n_schema; i++) schema_free(c->schema[i]);
    mem_free(c->schema);
    if (c->langs) lang_pool_free(c->langs);
    pthread_mutex_destroy(&c->lock);
    str_drop(&c->key);
    str_drop(&c->notes);
    mem_free(c);
}

/* As constrain_open(), once. */
static constrain *constrain__try(const constrain_spec *o, const tok_vocab *v, const mask_vocab *w, err_t *e) {
    constrain *c = mem_new(1, sizeof *c);
    err_t      why = {0};
    c->close = o->close, c->v = v, c->g = gram_new();
    atomic_store(&c->users, 1);
    pthread_mutex_init(&c->lock, NULL);
    if (o->after.n > CONSTRAIN_MARK)
        err_set(&why, EXIT_INPUT, "a text of %zu bytes before it, expected at most %d", o->after.n, CONSTRAIN_MARK);
    const int32_t root = why.code ? 0 : constrain__build(c, o, &why);
    if (!why.code) gram_seal(c->g, root, &why);
    if (!why.code && c->close && w && !gram_ways(c->g))
        err_set(&why, EXIT_RESOURCE, "out of memory: ways to the end of a constraint");
    if (!why.code && w && !(c->m = mask_new(c->g, w)))
        err_set(&why, EXIT_RESOURCE, "its masks do not fit into %d MiB", GRAM_MEM >> 20);
    if (!why.code) return c;
    const char *path = o->path ? o->path : "tools";
    const bool  named = constrain__kinds[o->kind].names && strncmp(why.text, path, strlen(path)) == 0;
    err_set(e, why.code, "%s%s%s", named ? "" : path, named ? "" : ": ", why.text);
    constrain_close(c);
    return NULL;
}

/* Compiles a constraint, for the tokens of a vocabulary, or for matching alone (v, w NULL). It has one user. NULL: e
 * says why not. */
static constrain *constrain_open(const constrain_spec *o, const tok_vocab *v, const mask_vocab *w, err_t *e) {
    str        notes = {0};
    err_t      why = {0};
    constrain *c;
    while (!(c = constrain__try(o, v, w, &why)) && o->ease && o->ease(o->ctx, &why, &notes)) why = (err_t){0};
    if (c) str_cat(&c->notes, str_bytes(&notes));
    else *e = why;
    str_drop(&notes);
    return c;
}

/* What the constraint leaves out, a line each: words of a schema without effect, schemas that are not kept. NULL: nothing. */
static bytes constrain_notes(const constrain *c) { return c ? str_bytes(&c->notes) : (bytes){0}; }

/* The same as warnings. path: as in its spec. */
static void constrain_warn(const constrain *c, const char *path) {
    bytes notes = constrain_notes(c), one;
    while (bytes_cut_line(&notes, &one)) log_warn("%s: %.*s", path, (int)min_size(one.n, 400), (const char *)one.p);
}

/* Whether the text is a whole match. False with e unset: *at is the first byte that cannot be there, or the length of
 * a text that is not whole. */
static bool constrain_match(constrain *c, bytes text, size_t *at, err_t *e) { return gram_match(c->g, text, at, e); }

/* --- options --- */

static const struct {
    size_t         at;                                /* offset in constrain_opts */
    const char    *name;
    constrain_kind kind;
    bool           file;
} constrain__sources[] = {
    {offsetof(constrain_opts, grammar),      "--grammar",          CONSTRAIN_GBNF,   false},
    {offsetof(constrain_opts, grammar_file), "--grammar-file",     CONSTRAIN_GBNF,   true},
    {offsetof(constrain_opts, schema),       "--json-schema",      CONSTRAIN_SCHEMA, false},
    {offsetof(constrain_opts, schema_file),  "--json-schema-file", CONSTRAIN_SCHEMA, true},
    {offsetof(constrain_opts, regex),        "--regex",            CONSTRAIN_REGEX,  false},
    {offsetof(constrain_opts, choice),       "--choice",           CONSTRAIN_CHOICE, false},
};
enum { CONSTRAIN_SOURCES = sizeof constrain__sources / sizeof *constrain__sources };

static const char *constrain__text_of(const constrain_opts *o, int i) {
    return *(const char *const *)(const void *)((const char *)o + constrain__sources[i].at);
}

/* The source that is given; -1: none. */
static int constrain__source(const constrain_opts *o) {
    int i = 0;
    while (i < CONSTRAIN_SOURCES && !constrain__text_of(o, i)) i++;
    return i < CONSTRAIN_SOURCES ? i : -1;
}

/* Checks the options against each other. */
static bool constrain_check(const constrain_opts *o, err_t *e) {
    const int first = constrain__source(o);
    for (int i = first + 1; first >= 0 && i < CONSTRAIN_SOURCES; i++)
        if (constrain__text_of(o, i))
            return err_set(e, EXIT_INPUT, "%s and %s both give a constraint, expected one",
                           constrain__sources[first].name, constrain__sources[i].name);
    return true;
}

/* Whether the options give one. */
static bool constrain_given(const constrain_opts *o) { return constrain__source(o) >= 0; }

static int constrain__word(const char *const *words, const char *word) {
    int i = 0;
    while (words[i] && strcmp(words[i], word) != 0) i++;
    return i;
}

/* The constraint of the options; kind CONSTRAIN_NONE: they give none. own keeps the text of a file, which the caller drops. */
static bool constrain_from(const constrain_opts *o, str *own, constrain_spec *out, err_t *e) {
    const int i = constrain__source(o);
    *out = (constrain_spec){.close = o->close, .after = o->after ? bytes_of(o->after) : (bytes){0},
                            .form = {.order = constrain__word(constrain__orders, o->order),
                                     .space = constrain__word(constrain__spaces, o->space), .lax = o->lax}};
    if (i < 0) return true;
    const char *text = constrain__text_of(o, i);
    out->kind = constrain__sources[i].kind;
    out->path = constrain__sources[i].file ? text : constrain__sources[i].name;
    str_put(own, "");
    if (!constrain__sources[i].file) return out->text = bytes_of(text), true;
    if (!str_read_file(own, text, 0, CONSTRAIN_MAX, "a constraint", e)) return false;
    return out->text = str_bytes(own), true;
}

/* --- equal constraints --- */

struct constrain_cache {
    const tok_vocab *v;
    mask_vocab      *words;                           /* NULL: not asked for yet */
    constrain      **c;                               /* [n] */
    int              n;
    uint64_t         asked;
};

/* No constraint yet, for the tokens of a vocabulary that lives longer. */
static constrain_cache *constrain_cache_new(const tok_vocab *v) {
    constrain_cache *k = mem_new(1, sizeof *k);
    k->v = v;
    return k;
}

/* Closes all that are kept; NULL is allowed. */
static void constrain_cache_free(constrain_cache *k) {
    if (!k) return;
    for (int i = 0; i < k->n; i++) constrain_close(k->c[i]);
    mask_vocab_free(k->words);
    mem_free(k->c);
    mem_free(k);
}

static void constrain__key_text(str *key, bytes b) {
    str_fmt(key, "%zu:", b.n);
    str_add(key, b.p, b.n);
}

/* All that a constraint depends on, as bytes. */
static str constrain__key(const constrain_spec *o) {
    str key = {0};
    str_fmt(&key, "%d,%d,%d,%d,%d,%d,%d:", o->kind, o->close, o->think.inside, o->form.loose, o->form.order, o->form.space,
            o->form.lax);
    const bytes texts[] = {o->think.open, o->think.end, o->think.lead, o->think.tail, o->after, o->text};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) constrain__key_text(&key, texts[i]);
    return key;
}

/* Frees unused constraints where there are too many of them, the one that was asked for longest ago first. */
static void constrain__evict(constrain_cache *k) {
    for (;;) {
        int    idle = 0, oldest = -1;
        size_t size = 0;
        for (int i = 0; i < k->n; i++) {
            if (atomic_load(&k->c[i]->users) > 1) continue;
            if (oldest < 0 || k->c[i]->used < k->c[oldest]->used) oldest = i;
            idle++, size += k->c[i]->g ? gram_bytes(k->c[i]->g) : 0;
        }
        if (idle <= CONSTRAIN_IDLE && (idle < 2 || size <= CONSTRAIN_IDLE_MEM)) return;
        constrain_close(k->c[oldest]);
        k->c[oldest] = k->c[--k->n];
    }
}

static constrain *constrain__find(const constrain_cache *k, const str *key) {
    for (int i = 0; i < k->n; i++)
        if (bytes_eq(str_bytes(&k->c[i]->key), str_bytes(key))) return k->c[i];
    return NULL;
}

/* Whether one with the same notes is there. */
static bool constrain__noted(const constrain_cache *k, const constrain *c) {
    for (int i = 0; i < k->n; i++)
        if (bytes_eq(str_bytes(&k->c[i]->notes), str_bytes(&c->notes))) return true;
    return false;
}

/* What the key of a refused constraint has besides: its message begins with the path. */
static void constrain__key_path(str *key, const constrain_spec *o) { constrain__key_text(key, bytes_of(o->path ? o->path : "")); }

/* Compiles the constraint and keeps it under its key, which becomes its own. NULL: an interrupt came. */
static constrain *constrain__add(constrain_cache *k, const constrain_spec *o, str key) {
    err_t why = {0};
    if (!k->words) k->words = mask_vocab_new(k->v);
    constrain *c = constrain_open(o, k->v, k->words, &why);
    if (g_interrupt) {                                /* what it has ended is not the constraint's fault */
        constrain_close(c);
        str_drop(&key);
        return NULL;
    }
    if (!c) {                                         /* it is kept, so that it is not tried again */
        c = mem_new(1, sizeof *c);
        c->err = why;
        atomic_store(&c->users, 1);
        pthread_mutex_init(&c->lock, NULL);
    }
    c->key = key;
    if (c->err.code) constrain__key_path(&c->key, o);
    if (!constrain__noted(k, c)) constrain_warn(c, o->path);
    MEM_PUSH(k->c, k->n, c);
    return c;
}

/* The constraint, compiled now or before, with one more user: constrain_close() ends it. NULL: e says why there is none. */
static constrain *constrain_get(constrain_cache *k, const constrain_spec *o, err_t *e) {
    str          key = constrain__key(o);
    const size_t n = key.n;
    constrain   *c = constrain__find(k, &key);
    if (!c) {
        constrain__key_path(&key, o);
        c = constrain__find(k, &key);
        key.n = n;
    }
    if (c) str_drop(&key);
    else c = constrain__add(k, o, key);
    if (!c) return err_set(e, EXIT_INPUT, "interrupted before the constraint was compiled"), NULL;
    c->used = ++k->asked;
    const err_t why = c->err;
    atomic_fetch_add(&c->users, !why.code);
    constrain__evict(k);
    if (why.code) *e = why;
    return why.code ? NULL : c;
}

/* A line for stderr under -v. */
static void constrain_report(const constrain *c, str *out) {
    if (g_log_level < LOG_VERBOSE || !c || !c->g) return;
    str_put(out, "llmrun: constraint  ");
    gram_stats(c->g, out);
    if (c->m) str_put(out, ", "), mask_stats(c->m, out);
    str_put(out, "\n");
}

/* The same for all that are kept. */
static void constrain_report_all(const constrain_cache *k, str *out) {
    for (int i = 0; k && i < k->n; i++) constrain_report(k->c[i], out);
}

/* --- one answer --- */

struct constrain_seq {
    constrain     *c;
    gram_track     at;
    bool           strip;                             /* the next token loses its leading blank */
    bool           refused;                           /* a token came that is not allowed */
    const tok_ids *ends;                              /* further tokens that end an answer; NULL: none */
    uint64_t       budget;                            /* units of work for ways to its end that are left, */
    uint64_t       work;                              /* and for masks */
    int32_t        n_bits;                            /* ids of the vocabulary */
    uint32_t       bits[];
};

/* At the beginning of an answer, one of so many to a line, which share its budget. stripped: its first token loses its leading
 * blank. c and ends stay their owner's, longer than the place. */
static constrain_seq *constrain_seq_new(constrain *c, bool stripped, const tok_ids *ends, int share) {
    const int32_t  n = tok_count(c->v);
    constrain_seq *s = mem_new(1, sizeof *s + ((size_t)n + 31) / 32 * sizeof *s->bits);
    s->c = c;
    s->strip = stripped;
    s->ends = ends;
    s->budget = CONSTRAIN_WORK / (uint64_t)max_int(share, 1);
    s->work = CONSTRAIN_MASK_WORK / (uint64_t)max_int(share, 1);
    s->n_bits = n;
    pthread_mutex_lock(&c->lock);
    gram_track_open(&s->at, c->g);
    pthread_mutex_unlock(&c->lock);
    return s;
}

/* A place of the same constraint, at its beginning. */
static constrain_seq *constrain_seq_like(const constrain_seq *s) { return constrain_seq_new(s->c, false, s->ends, 1); }

/* Whether the next token loses its leading blank. */
static bool constrain_strips(const constrain_seq *s) { return s->strip; }

/* Ends the place; NULL is allowed. */
static void constrain_seq_free(constrain_seq *s) {
    if (!s) return;
    pthread_mutex_lock(&s->c->lock);
    gram_track_close(&s->at);
    pthread_mutex_unlock(&s->c->lock);
    mem_free(s);
}

/* Both are of the same constraint. The budget is the smaller one: what was spent ahead of an answer is spent. */
static void constrain_seq_copy(constrain_seq *s, const constrain_seq *from) {
    pthread_mutex_lock(&s->c->lock);
    gram_track_copy(&s->at, &from->at);
    pthread_mutex_unlock(&s->c->lock);
    s->strip = from->strip;
    s->refused = from->refused;
    s->budget = min_u64(s->budget, from->budget);
    s->work = min_u64(s->work, from->work);
}

/* Whether the text so far is whole. */
static bool constrain_complete(constrain_seq *s) {
    pthread_mutex_lock(&s->c->lock);
    const bool yes = !s->refused && gram_complete(s->c->g, s->at.set);
    pthread_mutex_unlock(&s->c->lock);
    return yes;
}

/* Whether it is whole and nothing may follow. */
static bool constrain_closed(constrain_seq *s) {
    pthread_mutex_lock(&s->c->lock);
    const bool yes = !s->refused && gram_closed(s->c->g, s->at.set);
    pthread_mutex_unlock(&s->c->lock);
    return yes;
}

static bool constrain__any(const uint32_t *bits, int32_t n) {
    uint32_t any = 0;
    for (int32_t i = 0; i < (n + 31) / 32; i++) any |= bits[i];
    return any != 0;
}

/* Less of a budget by `used` units, of which `free` do not count. */
static void constrain__spend(uint64_t *budget, uint64_t used, uint64_t free) {
    if (used > free) *budget -= min_u64(*budget, used - free);
}

/* Finds the tokens that may come next, into s->bits. left: tokens that the answer may still have, -1: any number; work: units
 * for that at most. False: a limit was reached, or an interrupt. */
static bool constrain__find_bits(constrain_seq *s, int64_t left, uint64_t work) {
    const bool      closes = s->c->close && left >= 0 && s->budget;
    const size_t    size = ((size_t)s->n_bits + 31) / 32 * sizeof *s->bits;
    uint64_t        units = 0;
    pthread_mutex_lock(&s->c->lock);
    gram_task_begin(s->c->g, work);
    const uint32_t *bits = closes ? mask_closing(s->c->m, s->at.set, s->strip, left, &units) : NULL;
    if (!bits || !constrain__any(bits, s->n_bits)) bits = mask_of(s->c->m, s->at.set, s->strip);
    constrain__spend(&s->budget, units, CONSTRAIN_STEP_WORK);
    constrain__spend(&s->work, gram_task_end(s->c->g), CONSTRAIN_MASK_STEP);
    if (bits) memcpy(s->bits, bits, size);
    const bool complete = gram_complete(s->c->g, s->at.set);
    pthread_mutex_unlock(&s->c->lock);
    for (size_t i = 0; s->ends && i < s->ends->n; i++) {
        const int32_t id = s->ends->id[i];
        const uint32_t bit = UINT32_C(1) << (id & 31);
        if (id < 0 || id >= s->n_bits) continue;
        s->bits[id >> 5] = complete ? s->bits[id >> 5] | bit : s->bits[id >> 5] & ~bit;
    }
    return bits != NULL;
}

/* A logit of each token that may not come next becomes -infinity; n: ids of the model. left as above. Allocates
 * nothing. False: a limit was reached, or an interrupt. */
static bool constrain_mask(constrain_seq *s, float *logits, int32_t n, int64_t left) {
    if (s->refused || !constrain__find_bits(s, left, s->work + CONSTRAIN_MASK_STEP)) return false;
    const int32_t both = min_int(n, s->n_bits);
    mask_apply(s->bits, logits, both);
    for (int32_t i = both; i < n; i++) logits[i] = -INFINITY;
    return true;
}

/* [(tokens + 31) / 32] of the vocabulary: those that may come next; until the next call. NULL: a limit was reached. */
static const uint32_t *constrain_bits(constrain_seq *s) {
    return !s->refused && constrain__find_bits(s, -1, UINT64_MAX) ? s->bits : NULL;
}

/* One more token; counts: its steps are work of masks. */
static bool constrain__token(constrain_seq *s, int32_t id, bool counts) {
    if (s->refused) return false;
    pthread_mutex_lock(&s->c->lock);
    if (counts) gram_task_begin(s->c->g, s->work);
    const int32_t set = mask_accept(s->c->m, s->at.set, id, s->strip);
    if (counts) constrain__spend(&s->work, gram_task_end(s->c->g), 0);
    if (set >= 0) s->at.set = set;
    pthread_mutex_unlock(&s->c->lock);
    s->strip = tok_strips(s->c->v, id, s->strip);
    s->refused = set < 0;
    return set >= 0;
}

/* The answer has one more token, which is none that ends it. False: it is not allowed, or a limit was reached.
 * Allocates nothing. */
static bool constrain_accept(constrain_seq *s, int32_t id) { return constrain__token(s, id, false); }

/* The same for a guess, whose steps count as work of masks. Where that is spent nothing is guessed. */
static bool constrain_guess(constrain_seq *s, int32_t id) { return s->work && constrain__token(s, id, true); }

/* The same for text of no token. */
static bool constrain_feed(constrain_seq *s, bytes text) {
    pthread_mutex_lock(&s->c->lock);
    for (size_t i = 0; i < text.n && !s->refused; i++) {
        const int32_t set = gram_step(s->c->g, s->at.set, text.p[i]);
        if (set >= 0) s->at.set = set;
        s->refused = set < 0;
    }
    pthread_mutex_unlock(&s->c->lock);
    return !s->refused;
}

/* Appends the text that comes next whatever is chosen, at most `most` bytes. False: there is none. */
static bool constrain_forced(constrain_seq *s, size_t most, str *out) {
    const size_t had = out->n;
    pthread_mutex_lock(&s->c->lock);
    if (!s->refused) mask_forced(s->c->m, s->at.set, most, out);
    pthread_mutex_unlock(&s->c->lock);
    return out->n > had;
}
