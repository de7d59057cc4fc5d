/* ===== [schema] JSON Schema: documents and the normal form =====
 * A document is read, its references are resolved inside of it, and each schema that the root reaches becomes a node: a
 * list of parts, one for each assertion. A conjunction is a sorted list of literals, a literal is a node or the negation
 * of one; equal nodes and equal conjunctions exist once.
 * The shape of a conjunction says for each type of values which ones satisfy it, without combinators:
 *   null, booleans, strings, numbers   a set of values (schema__flat); and, or, not are operations on sets
 *   objects, arrays                    alternatives (schema__alt); "and" is a product of two lists, "or" puts them
 *                                      together, "not" goes down to the parts
 * The values of members and items are conjunctions again, whose shapes are worked out when somebody asks, so recursion
 * ends.
 * Invariants: a value satisfies the schema if and only if it satisfies the shape; what cannot be said so is refused with
 * its JSON pointer. Nothing recurses. Memory is in the val_env of the document, and an error leaves by val_fail.
 * Public: schema_free, schema_open, schema_root, schema_shape_of, schema_allow_part, schema_left_out, schema_pool,
 * schema_brief, schema_path, schema_and, schema_not, schema_drop_note, schema_note_put.
 * Opens: schema_prop, schema_extra, schema_some, schema_object, schema_contains, schema_array, schema_shape. */

typedef struct schema_doc schema_doc;
typedef int32_t schema_conj;                          /* a conjunction of schemas and negated schemas */
enum { SCHEMA_TRUE = 0, SCHEMA_FALSE = 1 };

/* A declared key, in the order of the schema. */
typedef struct {
    bytes       name;                                 /* UTF-8 */
    schema_conj value;
    bool        required;
} schema_prop;

/* Keys that are not declared. The languages of an object are disjoint; a key in none of them may not come. */
typedef struct {
    const lang *keys;
    schema_conj value;
} schema_extra;

/* Among all members, declared ones too: at least min and at most max have a key of keys and a value of value. */
typedef struct {
    const lang *keys;
    schema_conj value;
    uint64_t    min, max;
} schema_some;

typedef struct {
    schema_prop  *prop;
    size_t        n_prop;
    schema_extra *extra;
    size_t        n_extra;
    uint64_t      min, max;                           /* members; max UINT64_MAX: no bound */
    schema_some  *some;
    size_t        n_some;
    const char   *at;                                 /* JSON pointer */
} schema_object;

/* Among the items from index `from` on: at least min and at most max have a value of value. */
typedef struct {
    schema_conj value;
    uint64_t    from, min, max;
} schema_contains;

typedef struct {
    schema_conj     *prefix;                          /* of the first items */
    size_t           n_prefix;
    schema_conj      rest;                            /* of the items after them */
    uint64_t         min, max;                        /* items; max UINT64_MAX: no bound */
    bool             unique;
    schema_contains *contains;
    size_t           n_contains;
    const char      *at;                              /* JSON pointer */
} schema_array;

typedef struct {
    bool                 null, no, yes;               /* null, false, true */
    const lang          *string;                      /* NULL: none */
    const lang          *number;                      /* NULL: none */
    bool                 any_number;                  /* every number, with exponents too */
    const schema_array  *array;
    size_t               n_array;                     /* alternatives */
    const schema_object *object;
    size_t               n_object;
    const char          *at;                          /* JSON pointer */
} schema_shape;

enum {
    SCHEMA__MEM     = 64 << 20,                       /* bytes of a document with all that is made of it */
    SCHEMA__STEPS   = 6000000,                        /* of about 100 ns */
    SCHEMA__ALTS    = 4096,                           /* alternatives of one type of values */
    SCHEMA__SOFT    = 512,                            /* those of "just one" above which a part is looked for */
    SCHEMA__POINTER = 400,                            /* bytes of a JSON pointer in a message */
    SCHEMA__NOTES   = 20,
    SCHEMA__FORMATS = 14,
    SCHEMA__ABSORB  = 48,                             /* alternatives that are compared pair by pair */
    SCHEMA__KEYS    = 256                             /* words of propertyNames that become declared keys */
};

/* --- parts of nodes --- */

typedef enum {
    SCHEMA__NEVER,                                    /* nothing */
    SCHEMA__ALL, SCHEMA__ANY, SCHEMA__ONE, SCHEMA__NOT,
    SCHEMA__IF,                                       /* sub: if, then, else */
    SCHEMA__TYPE,                                     /* flat: without numbers and strings of a certain form */
    SCHEMA__ENUM,                                     /* flat: values without parts; sub: nodes of values with parts */
    SCHEMA__STRING, SCHEMA__LEN, SCHEMA__NUMBER,
    SCHEMA__PROPS,                                    /* sub: of name[], then of lang[], then (rest) of other keys */
    SCHEMA__NAMES, SCHEMA__REQUIRED, SCHEMA__COUNT,
    SCHEMA__NEEDS,                                    /* with the key name[0] the others have to come */
    SCHEMA__WITH,                                     /* with the key name[0] the object satisfies sub[0] */
    SCHEMA__ITEMS,                                    /* sub: of the first items, then (rest) of the others */
    SCHEMA__LENGTHS, SCHEMA__CONTAINS, SCHEMA__UNIQUE,
    SCHEMA__LEFT                                      /* sub[0]: of members, or (rest) items, that nothing else evaluates */
} schema__kind;

enum { SCHEMA__NO, SCHEMA__SOME, SCHEMA__EVERY };     /* of the objects, or of the arrays */

/* A set of values, exact for those without parts. */
typedef struct {
    bool         null, no, yes;
    uint8_t      obj, arr;                            /* SCHEMA__NO, SCHEMA__EVERY; SCHEMA__SOME: perhaps */
    const lang  *str, *num;
} schema__flat;

typedef struct {
    uint8_t       kind;                               /* schema__kind */
    bool          rest;
    uint32_t      n_sub, n_name, n_lang;
    int32_t      *sub;                                /* nodes; -1: none (then, else) */
    int32_t      *name;
    int32_t      *sorted;                             /* PROPS: the same names in the order of their numbers */
    const lang  **lang;
    const lang   *set;                                /* STRING, NUMBER; PROPS: keys that no lang[] has, NULL: all */
    uint64_t      min, max;
    schema__flat *flat;
    const char   *word;                               /* the keyword */
} schema__part;

/* --- alternatives of objects and arrays --- */

typedef struct {
    int32_t     name;
    schema_conj value;                                /* SCHEMA_FALSE: may not come */
    bool        required;
} schema__key;

/* The value of each member whose key is in keys and not in the names of `but`. These names are declared in the alternative. */
typedef struct {
    const lang         *keys;                         /* NULL: all */
    const schema__part *but;                          /* NULL: none */
    schema_conj         value;
} schema__gen;

typedef struct {
    schema__key     *key;                             /* [n_key] of objects */
    schema__gen     *gen;                             /* [n_gen] */
    schema_some     *some;                            /* [n_some] */
    schema_conj     *prefix;                          /* [n_prefix] of arrays */
    schema_contains *contains;                        /* [n_contains] */
    uint32_t         n_key;
    uint32_t         n_gen;
    uint32_t         n_some;
    uint32_t         n_prefix;
    uint32_t         n_contains;
    schema_conj      rest;                            /* of items */
    bool             unique;
    uint64_t         min, max;                        /* members or items */
    const char      *repeats;                         /* two items are equal, which no shape says: JSON pointer of the
                                                       * uniqueItems; NULL: they need not be */
    uint64_t         hash;
} schema__alt;

typedef struct {
    schema__alt **at;
    size_t        n, cap;
    bool          part;                               /* some values are left out: see schema_allow_part() */
} schema__alts;

/* --- documents --- */

typedef struct {
    int32_t *at;
    size_t   n, cap;
} schema__ints;

typedef struct {
    val           v;                                  /* the schema, or the value of `is` */
    bool          is;                                 /* a value that has to be equal to v */
    bool          queued;                             /* the root reaches it */
    uint8_t       busy;                               /* bit SCHEMA__BUSY + task: being worked out */
    int32_t       resource;
    int32_t       parent;                             /* -1: `key` is the whole pointer */
    const char   *word;                               /* keyword of the parent */
    bytes         key;                                /* after it; p NULL: none */
    int64_t       index;                              /* after it; -1: none */
    const char   *at;                                 /* JSON pointer; NULL: not asked for */
    schema__part *part;
    uint32_t      n_part;
    int32_t       lit;                                /* the literal that stands for the node */
    schema__flat *flat, *flat_not;                    /* of the node and of its negation; NULL: not worked out */
    schema__alts *alts[4];                            /* SCHEMA__TASK */
} schema__node;

typedef struct {
    int32_t      *lit;
    uint32_t      n;
    uint8_t       barren;                             /* 0: not known, 1: no, 2: yes */
    schema__flat *flat;                               /* NULL: not worked out */
    schema_shape *shape;
} schema__conj;

typedef struct {
    bytes   uri;
    val     root;
    int32_t node;
} schema__resource;

struct schema_doc {
    val_env           env;
    err_t             err;                            /* of an earlier call */
    lang_pool        *langs;
    char             *path;
    hmap              map;                            /* of all that exists once */
    int32_t           root;                           /* node */
    schema_conj       top;                            /* of the root */
    int32_t           never;                          /* the literal of SCHEMA_FALSE */
    bool              may_part;                       /* alternatives may be a part of those that satisfy a schema */
    const char       *left_out;                       /* JSON pointer of what such a part leaves out; NULL: nothing */
    bool              soft, spilled;                  /* more than SCHEMA__SOFT alternatives are no error; there were more */
    bool              old_refs;                       /* what is beside $ref has no effect */
    bool              old_ids;                        /* `id` in place of $id */
    bytes            *name;
    uint32_t         *seen;                           /* [names] schema__merge */
    uint32_t         *place;                          /* [names] of the keys that were seen */
    uint32_t          n_seen;
    schema__node     *node;
    schema__conj     *conj;
    schema__resource *resource;
    size_t            n_name, cap_name;
    size_t            cap_seen;
    size_t            n_node, cap_node;
    size_t            n_conj, cap_conj;
    size_t            n_resource, cap_resource;
    schema__ints      fresh;                          /* nodes whose subschemas are not yet nodes */
    schema__part     *build;                          /* parts of the node that is compiled */
    size_t            n_build, cap_build;
    schema__ints      synthetic;                      /* nodes that appear at no place of the document */
    bool              asks_left;                      /* unevaluated... appears somewhere: an `if` alone has an effect */
    bool              old_contains;                   /* `contains` evaluates no items */
    schema__ints      reached;                        /* nodes in the order in which the root reaches them */
    const lang       *none, *all, *numbers;
    const lang       *counted[SCHEMA__FORMATS];       /* texts of formats with numbers of any length, as far as they appear */
    const lang      **regex;                          /* of regular expressions */
    size_t            n_regex, cap_regex;
    double           *rough;                          /* numbers of the text that are not exactly a double */
    size_t            n_rough, cap_rough;
    int32_t           here;                           /* node that is worked on, for messages */
    str               notes, text;                    /* text: a pointer that is put together */
    size_t            n_notes;
};

enum { SCHEMA__NODE_TRUE, SCHEMA__NODE_FALSE };
enum { SCHEMA__LIT_TRUE, SCHEMA__LIT_FALSE };
#define SCHEMA__NEG(lit) ((lit) ^ 1)

/* An array of the document with space for one more element. */
static void *schema__room(schema_doc *s, void *old, size_t n, size_t *cap, size_t each) {
    if (n < *cap) return old;
    const size_t more = *cap ? 2 * *cap : 8;
    void        *p = val_alloc(&s->env, more, each);
    if (n) memcpy(p, old, n * each);
    *cap = more;
    return p;
}

static void schema__ints_add(schema_doc *s, schema__ints *l, int32_t i) {
    l->at = schema__room(s, l->at, l->n, &l->cap, sizeof *l->at);
    l->at[l->n++] = i;
}

static bytes schema__keep(schema_doc *s, bytes b) {
    uint8_t *p = val_alloc(&s->env, b.n + 1, 1);
    if (b.n) memcpy(p, b.p, b.n);
    return (bytes){p, b.n};
}

static bytes schema__utf8(schema_doc *s, val_str v) {
    uint8_t *p = val_alloc(&s->env, (uint64_t)v.n * 4 + 1, 1);
    size_t   n = 0;
    for (size_t i = 0; i < v.n; i++) n += val_encode(VAL_CHAR(v.p[i]), (char *)p + n);
    return (bytes){p, n};
}

/* --- what exists once: the number of a key, 0 where it is new --- */

typedef enum { SCHEMA__OF_NAME, SCHEMA__OF_CONJ, SCHEMA__OF_NODE, SCHEMA__OF_PLACE, SCHEMA__OF_URI, SCHEMA__OF_ANCHOR,
               SCHEMA__OF_PATTERN } schema__of;

static hmap_entry *schema__once(schema_doc *s, schema__of of, bytes key) {
    const uint64_t a = bytes_hash(s->map.seed + 2 * of, key), b = bytes_hash(s->map.seed + 2 * of + 1, key);
    return hmap_add(&s->map, a ? a : 1, b);
}

static uint32_t schema__once_get(const hmap_entry *en) { return (uint32_t)en->b; }
static void     schema__once_set(hmap_entry *en, uint32_t v) { en->b = (en->b & ~(uint64_t)UINT32_MAX) | v; }

static int32_t schema__name(schema_doc *s, val_str v) {
    const bytes text = schema__utf8(s, v);
    hmap_entry *en = schema__once(s, SCHEMA__OF_NAME, text);
    if (schema__once_get(en)) return (int32_t)schema__once_get(en) - 1;
    s->name = schema__room(s, s->name, s->n_name, &s->cap_name, sizeof *s->name);
    s->name[s->n_name++] = text;
    schema__once_set(en, (uint32_t)s->n_name);
    return (int32_t)s->n_name - 1;
}

/* --- JSON pointers and messages --- */

/* Appends a part of a pointer; false: it is long enough. */
static bool schema__pointer_add(str *p, bytes part) {
    str_put(p, "/");
    for (size_t i = 0; i < part.n && p->n < SCHEMA__POINTER; i++) {
        if (part.p[i] == '~') str_put(p, "~0");
        else if (part.p[i] == '/') str_put(p, "~1");
        else str_add(p, part.p + i, 1);
    }
    if (p->n < SCHEMA__POINTER) return true;
    str_put(p, "...");
    return false;
}

static void schema__pointer_node(schema_doc *s, int32_t node) {
    schema__ints chain = {0};
    str *const   p = &s->text;
    str_clear(p);
    for (int32_t i = node; i >= 0; i = s->node[i].parent) schema__ints_add(s, &chain, i);
    const schema__node *top = &s->node[chain.at[chain.n - 1]];
    str_add(p, top->key.p, top->key.n);
    bool more = true;
    for (size_t i = chain.n - 1; more && i-- > 0;) {
        const schema__node *n = &s->node[chain.at[i]];
        char                index[24];
        snprintf(index, sizeof index, "%lld", (long long)n->index);
        more = schema__pointer_add(p, bytes_of(n->word));
        if (more && n->key.p) more = schema__pointer_add(p, n->key);
        if (more && n->index >= 0) more = schema__pointer_add(p, bytes_of(index));
    }
}

/* The JSON pointer of a node; "#" is the root. */
static const char *schema__at(schema_doc *s, int32_t node) {
    if (s->node[node].at) return s->node[node].at;
    schema__pointer_node(s, node);
    if (!s->text.n) str_put(&s->text, "#");
    return s->node[node].at = (const char *)schema__keep(s, str_bytes(&s->text)).p;
}

/* The JSON pointer of a keyword of the node. */
static const char *schema__word_at(schema_doc *s, int32_t node, const char *word) {
    const char  *at = schema__at(s, node);
    const bool   root = strcmp(at, "#") == 0;
    const size_t n = strlen(at) + strlen(word) + 2;
    char        *p = val_alloc(&s->env, n, 1);
    snprintf(p, n, "%s/%s", root ? "" : at, word);
    return p;
}

__attribute__((format(printf, 4, 5), noreturn))
static void schema__fail(schema_doc *s, const char *at, int code, const char *fmt, ...) {
    char    text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    val_fail(&s->env, code, "%s: %s", at, text);
}

__attribute__((format(printf, 3, 4))) static void schema__note(schema_doc *s, const char *at, const char *fmt, ...) {
    va_list ap;
    char    text[200];
    if (s->n_notes++ >= SCHEMA__NOTES) return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    str_fmt(&s->notes, "%s: %s\n", at, text);
}

/* A language; NULL is one that went over the budget. */
static const lang *schema__lang(schema_doc *s, const lang *l) {
    if (!l) schema__fail(s, schema__at(s, s->here), EXIT_RESOURCE, "the states for sets of strings and numbers are spent");
    val_step(&s->env, 8);
    return l;
}

/* Results that are one of the operands cost no steps. */
static const lang *schema__lang_and(schema_doc *s, const lang *a, const lang *b) {
    const lang *both = lang_and(s->langs, a, b);
    return both && (both == a || both == b) ? both : schema__lang(s, both);
}

static const lang *schema__lang_or(schema_doc *s, const lang *a, const lang *b) {
    const lang *either = lang_or(s->langs, a, b);
    return either && (either == a || either == b) ? either : schema__lang(s, either);
}

static const lang *schema__lang_not(schema_doc *s, const lang *a) { return schema__lang(s, lang_not(s->langs, a)); }

static const lang *schema__lang_words(schema_doc *s, const int32_t *name, size_t n) {
    bytes *w = val_alloc(&s->env, n + 1, sizeof *w);
    for (size_t i = 0; i < n; i++) w[i] = s->name[name[i]];
    return n ? schema__lang(s, lang_words(s->langs, w, n)) : s->none;
}

/* --- sets of numbers, values --- */

/* The complement among the texts of numbers. */
static const lang *schema__num_not(schema_doc *s, const lang *a) {
    return a == s->none ? s->numbers : a == s->numbers ? s->none : schema__lang_and(s, s->numbers, schema__lang_not(s, a));
}

static const lang *schema__num_and(schema_doc *s, const lang *a, const lang *b) {
    return a == s->numbers ? b : b == s->numbers ? a : schema__lang_and(s, a, b);
}
static const lang *schema__num_or(schema_doc *s, const lang *a, const lang *b) {
    return a == s->numbers ? a : b == s->numbers ? b : schema__lang_or(s, a, b);
}

static schema__flat schema__flat_all(const schema_doc *s) {
    return (schema__flat){.null = true, .no = true, .yes = true, .obj = SCHEMA__EVERY, .arr = SCHEMA__EVERY, .str = s->all,
                          .num = s->numbers};
}

static schema__flat schema__flat_none(const schema_doc *s) { return (schema__flat){.str = s->none, .num = s->none}; }

static schema__flat schema__flat_not(schema_doc *s, schema__flat a) {
    return (schema__flat){
        .null = !a.null, .no = !a.no, .yes = !a.yes, .obj = SCHEMA__EVERY - a.obj, .arr = SCHEMA__EVERY - a.arr,
        .str = schema__lang_not(s, a.str), .num = schema__num_not(s, a.num),
    };
}

static schema__flat schema__flat_and(schema_doc *s, schema__flat a, schema__flat b) {
    return (schema__flat){
        .null = a.null && b.null, .no = a.no && b.no, .yes = a.yes && b.yes,
        .obj = (uint8_t)min_int(a.obj, b.obj), .arr = (uint8_t)min_int(a.arr, b.arr),
        .str = schema__lang_and(s, a.str, b.str), .num = schema__num_and(s, a.num, b.num),
    };
}

static schema__flat schema__flat_or(schema_doc *s, schema__flat a, schema__flat b) {
    return (schema__flat){
        .null = a.null || b.null, .no = a.no || b.no, .yes = a.yes || b.yes,
        .obj = (uint8_t)max_int(a.obj, b.obj), .arr = (uint8_t)max_int(a.arr, b.arr),
        .str = schema__lang_or(s, a.str, b.str), .num = schema__num_or(s, a.num, b.num),
    };
}

/* --- keywords --- */

typedef enum {                                        /* what the value of a keyword has to be */
    SCHEMA__W_ANY, SCHEMA__W_SCHEMA, SCHEMA__W_LIST, SCHEMA__W_MAP, SCHEMA__W_DEFS, SCHEMA__W_COUNT, SCHEMA__W_NUMBER,
        SCHEMA__W_TEXT,
        SCHEMA__W_BOOL,
    SCHEMA__W_TEXTS, SCHEMA__W_TEXTS_MAP, SCHEMA__W_TYPE, SCHEMA__W_VALUES, SCHEMA__W_ITEMS, SCHEMA__W_DEPENDS,
        SCHEMA__W_LIMIT, SCHEMA__WANTS
} schema__want;

static const char *const schema__want_name[SCHEMA__WANTS] = {
    [SCHEMA__W_ANY] = "a value", [SCHEMA__W_SCHEMA] = "a schema: an object, true or false",
    [SCHEMA__W_LIST] = "a list of schemas with one at least", [SCHEMA__W_MAP] = "an object of schemas",
    [SCHEMA__W_DEFS] = "an object",
    [SCHEMA__W_COUNT] = "a whole number from 0", [SCHEMA__W_NUMBER] = "a number", [SCHEMA__W_TEXT] = "a string",
    [SCHEMA__W_BOOL] = "true or false", [SCHEMA__W_TEXTS] = "a list of strings",
    [SCHEMA__W_TEXTS_MAP] = "an object of lists of strings", [SCHEMA__W_TYPE] = "a type or a list of types",
    [SCHEMA__W_VALUES] = "a list of values",
    [SCHEMA__W_ITEMS] = "a schema or a list of schemas",
    [SCHEMA__W_DEPENDS] = "an object of schemas and lists of strings", [SCHEMA__W_LIMIT] = "a number, or true or false"};

/* Keywords that are asked for by name: rows of schema__words. */
typedef enum {
    SCHEMA__OLD_ID, SCHEMA__REF, SCHEMA__DYNAMIC_REF, SCHEMA__RECURSIVE_REF, SCHEMA__KEY_TYPE, SCHEMA__KEY_ENUM,
    SCHEMA__KEY_CONST, SCHEMA__KEY_ALL, SCHEMA__KEY_ANY, SCHEMA__KEY_ONE, SCHEMA__KEY_NOT, SCHEMA__KEY_IF,
    SCHEMA__KEY_THEN, SCHEMA__KEY_ELSE, SCHEMA__PROPERTIES, SCHEMA__PATTERNS, SCHEMA__ADDITIONAL, SCHEMA__KEY_NAMES,
    SCHEMA__KEY_REQUIRED, SCHEMA__MIN_PROPS, SCHEMA__MAX_PROPS, SCHEMA__DEP_REQUIRED, SCHEMA__DEP_SCHEMAS,
    SCHEMA__DEPENDENCIES, SCHEMA__PREFIX, SCHEMA__KEY_ITEMS, SCHEMA__MORE_ITEMS, SCHEMA__KEY_CONTAINS,
    SCHEMA__MIN_CONTAINS, SCHEMA__MAX_CONTAINS, SCHEMA__MIN_ITEMS, SCHEMA__MAX_ITEMS, SCHEMA__KEY_UNIQUE,
    SCHEMA__MIN_LENGTH, SCHEMA__MAX_LENGTH, SCHEMA__PATTERN, SCHEMA__FORMAT, SCHEMA__MINIMUM, SCHEMA__MAXIMUM,
    SCHEMA__ABOVE, SCHEMA__BELOW, SCHEMA__MULTIPLE, SCHEMA__LEFT_PROPS, SCHEMA__LEFT_ITEMS, SCHEMA__NAMED
} schema__word;

static bool schema__is_schema(val v) { return v.kind == VAL_DICT || v.kind == VAL_BOOL; }
static bool schema__is_int(val v) { return v.kind == VAL_INT || v.kind == VAL_BIG; }
static bool schema__is_text(val v) { return v.kind == VAL_STR; }

static bool schema__list_of(val v, bool (*is)(val)) {
    for (size_t i = 0; v.kind == VAL_LIST && i < v.list->n; i++)
        if (!is(v.list->at[i])) return false;
    return v.kind == VAL_LIST;
}

static bool schema__is_texts(val v) { return schema__list_of(v, schema__is_text); }
static bool schema__is_depend(val v) { return schema__is_schema(v) || schema__is_texts(v); }

static bool schema__map_of(val v, bool (*is)(val)) {
    for (size_t i = 0; v.kind == VAL_DICT && i < v.dict->n; i++)
        if (!is(v.dict->at[i].value)) return false;
    return v.kind == VAL_DICT;
}

static bool schema__is_count(val v) {
    if (v.kind == VAL_FLOAT) return v.f >= 0 && v.f == floor(v.f);
    return v.kind == VAL_INT ? v.i >= 0 : v.kind == VAL_BIG && !val_is_negative(v);
}

static bool schema__fits(val v, schema__want want) {
    const bool number = schema__is_int(v) || v.kind == VAL_FLOAT;
    switch (want) {
    case SCHEMA__W_SCHEMA: return schema__is_schema(v);
    case SCHEMA__W_LIST: return schema__list_of(v, schema__is_schema) && v.list->n;
    case SCHEMA__W_MAP: return schema__map_of(v, schema__is_schema);
    case SCHEMA__W_DEFS: return v.kind == VAL_DICT;   /* a value that is no schema counts where a reference leads to it */
    case SCHEMA__W_COUNT: return schema__is_count(v);
    case SCHEMA__W_NUMBER: return number;
    case SCHEMA__W_TEXT: return v.kind == VAL_STR;
    case SCHEMA__W_BOOL: return v.kind == VAL_BOOL;
    case SCHEMA__W_TEXTS: return schema__is_texts(v);
    case SCHEMA__W_TEXTS_MAP: return schema__map_of(v, schema__is_texts);
    case SCHEMA__W_TYPE: return v.kind == VAL_STR || schema__list_of(v, schema__is_text);
    case SCHEMA__W_VALUES: return v.kind == VAL_LIST;
    case SCHEMA__W_ITEMS: return schema__is_schema(v) || schema__list_of(v, schema__is_schema);
    case SCHEMA__W_DEPENDS: return schema__map_of(v, schema__is_depend);
    case SCHEMA__W_LIMIT: return number || v.kind == VAL_BOOL;
    case SCHEMA__W_ANY: case SCHEMA__WANTS: break;
    }
    return true;
}

/* --- URIs (RFC 3986): a reference against a base --- */

typedef struct {
    bytes scheme, authority, path, query;             /* p NULL: it has none */
} schema__uri;

/* The bytes of *b up to the first one of `stop`; they leave *b. */
static bytes schema__uri_until(bytes *b, const char *stop) {
    size_t n = 0;
    while (n < b->n && !strchr(stop, b->p[n])) n++;
    const bytes r = {b->p, n};
    *b = (bytes){b->p + n, b->n - n};
    return r;
}

static schema__uri schema__uri_of(bytes b) {
    schema__uri u = {0};
    bytes       rest = b;
    const bytes scheme = schema__uri_until(&rest, ":/?#");
    if (rest.n && rest.p[0] == ':' && scheme.n && isalpha(scheme.p[0])) u.scheme = scheme, b = (bytes){rest.p + 1, rest.n - 1};
    if (b.n >= 2 && b.p[0] == '/' && b.p[1] == '/') {
        b = (bytes){b.p + 2, b.n - 2};
        u.authority = schema__uri_until(&b, "/?#");
    }
    u.path = schema__uri_until(&b, "?#");
    if (b.n && b.p[0] == '?') b = (bytes){b.p + 1, b.n - 1}, u.query = schema__uri_until(&b, "#");
    return u;
}

/* Appends a path without its "." and ".." parts. */
static void schema__uri_path(str *out, bytes path) {
    const size_t from = out->n;
    while (path.n) {
        const bool  slash = path.p[0] == '/';
        if (slash) path = (bytes){path.p + 1, path.n - 1};
        const bytes part = schema__uri_until(&path, "/");
        const bool  up = bytes_is(part, "..");
        if (up)
            while (out->n > from && out->p[--out->n] != '/') {}
        if (up || bytes_is(part, ".")) {
            if (!path.n) str_put(out, "/");
            continue;
        }
        if (slash) str_put(out, "/");
        str_add(out, part.p, part.n);
    }
}

static void schema__uri_put(str *out, const char *before, bytes part, const char *after) {
    if (!part.p) return;
    str_put(out, before);
    str_add(out, part.p, part.n);
    str_put(out, after);
}

/* The absolute form of a reference without its fragment. */
static bytes schema__uri_join(schema_doc *s, bytes base, bytes ref) {
    str *const        out = &s->text;
    const schema__uri b = schema__uri_of(base), r = schema__uri_of(ref);
    const bool        far = r.scheme.p || r.authority.p;
    size_t            dir = 0;
    str_clear(out);
    str_add(out, "", 0);
    schema__uri_put(out, "", r.scheme.p ? r.scheme : b.scheme, ":");
    schema__uri_put(out, "//", far ? r.authority : b.authority, "");
    for (size_t i = 0; i < b.path.n; i++)
        if (b.path.p[i] == '/') dir = i + 1;
    if (far || (r.path.n && r.path.p[0] == '/')) schema__uri_path(out, r.path);
    else if (!r.path.n) str_add(out, b.path.p, b.path.n);
    else {
        uint8_t *whole = val_alloc(&s->env, dir + r.path.n, 1);
        if (dir) memcpy(whole, b.path.p, dir);
        memcpy(whole + dir, r.path.p, r.path.n);
        schema__uri_path(out, (bytes){whole, dir + r.path.n});
    }
    schema__uri_put(out, "?", r.query.p || r.path.n || far ? r.query : b.query, "");
    return schema__keep(s, str_bytes(out));
}

/* Cuts the fragment off; its p is NULL where there is none. */
static bytes schema__uri_fragment(bytes *uri) {
    bytes rest = *uri;
    *uri = schema__uri_until(&rest, "#");
    return rest.n ? (bytes){rest.p + 1, rest.n - 1} : (bytes){NULL, 0};
}

/* %XX as bytes. */
static bytes schema__uri_decode(schema_doc *s, bytes b) {
    uint8_t *p = val_alloc(&s->env, b.n + 1, 1);
    size_t   n = 0;
    for (size_t i = 0; i < b.n; i++) {
        uint64_t   byte = b.p[i];
        const bool hex = b.p[i] == '%' && i + 2 < b.n && bytes_hex(b.p + i + 1, 2, &byte);
        p[n++] = (uint8_t)byte;
        if (hex) i += 2;
    }
    return (bytes){p, n};
}

/* --- places of schemas: each one is a node --- */

static int32_t schema__node_new(schema_doc *s, schema__node n) {
    s->node = schema__room(s, s->node, s->n_node, &s->cap_node, sizeof *s->node);
    n.lit = (int32_t)(2 * s->n_node);
    s->node[s->n_node++] = n;
    if (s->n_node > INT32_MAX / 16) val_fail(&s->env, EXIT_RESOURCE, "more than %d schemas", INT32_MAX / 16);
    return (int32_t)s->n_node - 1;
}

static hmap_entry *schema__place_of(schema_doc *s, val v) {
    const val_dict *d = v.dict;
    return schema__once(s, SCHEMA__OF_PLACE, (bytes){(const uint8_t *)&d, sizeof d});
}

/* The node of a schema; -1: it has none yet. */
static int32_t schema__node_of(schema_doc *s, val v) {
    if (v.kind == VAL_BOOL) return v.b ? SCHEMA__NODE_TRUE : SCHEMA__NODE_FALSE;
    return (int32_t)schema__once_get(schema__place_of(s, v)) - 1;
}

/* Makes the node of a schema that is an object, if it has none. */
static int32_t schema__node_add(schema_doc *s, schema__node n) {
    int32_t i = schema__node_of(s, n.v);
    if (i >= 0) return i;
    i = schema__node_new(s, n);
    schema__once_set(schema__place_of(s, n.v), (uint32_t)i + 1);
    schema__ints_add(s, &s->fresh, i);
    return i;
}

/* The entry of a name in a resource. */
static hmap_entry *schema__anchor(schema_doc *s, int32_t resource, bytes name) {
    uint8_t *p = val_alloc(&s->env, name.n + sizeof resource, 1);
    memcpy(p, &resource, sizeof resource);
    if (name.n) memcpy(p + sizeof resource, name.p, name.n);
    return schema__once(s, SCHEMA__OF_ANCHOR, (bytes){p, name.n + sizeof resource});
}

static void schema__anchor_add(schema_doc *s, int32_t node, bytes name) {
    hmap_entry *en = schema__anchor(s, s->node[node].resource, name);
    if (!schema__once_get(en)) schema__once_set(en, (uint32_t)node + 1);
}

enum { SCHEMA__DYNAMIC = -1 };                        /* in place of a resource: how many dynamic anchors have the name */

/* A resource begins at the node. */
static void schema__resource_add(schema_doc *s, int32_t node, bytes uri) {
    s->resource = schema__room(s, s->resource, s->n_resource, &s->cap_resource, sizeof *s->resource);
    s->resource[s->n_resource++] = (schema__resource){uri, s->node[node].v, node};
    s->node[node].resource = (int32_t)s->n_resource - 1;
    hmap_entry *en = schema__once(s, SCHEMA__OF_URI, uri);
    if (!schema__once_get(en)) schema__once_set(en, (uint32_t)s->n_resource);
}

/* $id and anchors of a schema. */
static void schema__index_names(schema_doc *s, int32_t node) {
    const val v = s->node[node].v;
    const val id = val_get(v, s->old_ids ? "id" : "$id"), anchor = val_get(v, "$anchor"), dynamic = val_get(v, "$dynamicAnchor");
    if (s->old_refs && val_get(v, "$ref").kind != VAL_UNDEF) return;
    if (id.kind == VAL_STR) {
        bytes       uri = schema__utf8(s, id.s);
        const bytes fragment = schema__uri_fragment(&uri);
        if (uri.n) schema__resource_add(s, node, schema__uri_join(s, s->resource[s->node[node].resource].uri, uri));
        if (fragment.n) schema__anchor_add(s, node, fragment);
    }
    if (anchor.kind == VAL_STR) schema__anchor_add(s, node, schema__utf8(s, anchor.s));
    if (dynamic.kind == VAL_STR) {
        const bytes name = schema__utf8(s, dynamic.s);
        hmap_entry *en = schema__anchor(s, SCHEMA__DYNAMIC, name);
        schema__once_set(en, schema__once_get(en) + 1);
        schema__anchor_add(s, node, name);
    }
}

static void schema__index_one(schema_doc *s, int32_t node, const char *word, bytes key, int64_t index, val v) {
    if (v.kind == VAL_DICT)
        schema__node_add(s, (schema__node){.v = v, .resource = s->node[node].resource, .parent = node, .word = word,
                                           .key = key, .index = index});
}

/* --- references --- */

/* The part of a value that a part of a JSON pointer names; undefined: there is none. */
static val schema__pointer_step(schema_doc *s, val v, bytes part) {
    uint8_t *p = val_alloc(&s->env, part.n + 1, 1);
    size_t   n = 0, index = 0;
    for (size_t i = 0; i < part.n; i++) {
        const bool escape = part.p[i] == '~' && i + 1 < part.n && (part.p[i + 1] == '0' || part.p[i + 1] == '1');
        p[n++] = escape ? (part.p[++i] == '0' ? '~' : '/') : part.p[i];
    }
    if (v.kind == VAL_DICT) return val_dict_get(v.dict, val_text(&s->env, (bytes){p, n}, false), NULL);
    for (size_t i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9' || index > UINT32_MAX) return val_undef(NULL);
        index = index * 10 + (size_t)(p[i] - '0');
    }
    return v.kind == VAL_LIST && n && index < v.list->n ? v.list->at[index] : val_undef(NULL);
}

/* The node that a JSON pointer leads to, from the root of a resource. */
static int32_t schema__pointer_find(schema_doc *s, int32_t resource, bytes pointer, const char *at) {
    val         v = s->resource[resource].root;
    const bytes whole = pointer;
    while (pointer.n) {
        pointer = (bytes){pointer.p + 1, pointer.n - 1};
        v = schema__pointer_step(s, v, schema__uri_until(&pointer, "/"));
        if (v.kind == VAL_UNDEF)
            schema__fail(s, at, EXIT_INPUT, "the reference '#%.*s' leads to nothing in this document", (int)whole.n, whole.p);
        const int32_t n = v.kind == VAL_DICT ? schema__node_of(s, v) : -1;
        if (n >= 0) resource = s->node[n].resource;
    }
    if (!schema__is_schema(v))
        schema__fail(s, at, EXIT_INPUT, "the reference '#%.*s' leads to a value of the type %s, expected a schema",
                     (int)whole.n, whole.p, val_kind_name(v));
    if (v.kind == VAL_BOOL) return schema__node_of(s, v);
    return schema__node_add(s, (schema__node){.v = v, .resource = resource, .parent = -1, .key = whole, .index = -1});
}

/* The meta-schemas of drafts 4, 6 and 7, without what asserts nothing: references lead to them though nothing is fetched.
 * Draft 7 is draft 6 with some more keywords. */
#define SCHEMA__DRAFT4 \
    "{\"definitions\":{\"schemaArray\":{\"type\":\"array\",\"minItems\":1,\"items\":{\"$ref\":\"#\"}},\"positiveInteg" \
    "er\":{\"type\":\"integer\",\"minimum\":0},\"positiveIntegerDefault0\":{\"allOf\":[{\"$ref\":\"#/definitions/posi" \
    "tiveInteger\"},{}]},\"simpleTypes\":{\"enum\":[\"array\",\"boolean\",\"integer\",\"null\",\"number\",\"object\"," \
    "\"string\"]},\"stringArray\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"minItems\":1,\"uniqueItems\":" \
    "true}},\"type\":\"object\",\"properties\":{\"id\":{\"type\":\"string\"},\"$schema\":{\"type\":\"string\"},\"titl" \
    "e\":{\"type\":\"string\"},\"description\":{\"type\":\"string\"},\"default\":{},\"multipleOf\":{\"type\":\"number" \
    "\",\"minimum\":0,\"exclusiveMinimum\":true},\"maximum\":{\"type\":\"number\"},\"exclusiveMaximum\":{\"type\":\"b" \
    "oolean\"},\"minimum\":{\"type\":\"number\"},\"exclusiveMinimum\":{\"type\":\"boolean\"},\"maxLength\":{\"$ref\":" \
    "\"#/definitions/positiveInteger\"},\"minLength\":{\"$ref\":\"#/definitions/positiveIntegerDefault0\"},\"pattern" \
    "\":{\"type\":\"string\",\"format\":\"regex\"},\"additionalItems\":{\"anyOf\":[{\"type\":\"boolean\"},{\"$ref\":" \
    "\"#\"}]},\"items\":{\"anyOf\":[{\"$ref\":\"#\"},{\"$ref\":\"#/definitions/schemaArray\"}]},\"maxItems\":{\"$ref" \
    "\":\"#/definitions/positiveInteger\"},\"minItems\":{\"$ref\":\"#/definitions/positiveIntegerDefault0\"},\"unique" \
    "Items\":{\"type\":\"boolean\"},\"maxProperties\":{\"$ref\":\"#/definitions/positiveInteger\"},\"minProperties\":" \
    "{\"$ref\":\"#/definitions/positiveIntegerDefault0\"},\"required\":{\"$ref\":\"#/definitions/stringArray\"},\"add" \
    "itionalProperties\":{\"anyOf\":[{\"type\":\"boolean\"},{\"$ref\":\"#\"}]},\"definitions\":{\"type\":\"object\"," \
    "\"additionalProperties\":{\"$ref\":\"#\"}},\"properties\":{\"type\":\"object\",\"additionalProperties\":{\"$ref" \
    "\":\"#\"}},\"patternProperties\":{\"type\":\"object\",\"additionalProperties\":{\"$ref\":\"#\"}},\"dependencies" \
    "\":{\"type\":\"object\",\"additionalProperties\":{\"anyOf\":[{\"$ref\":\"#\"},{\"$ref\":\"#/definitions/stringAr" \
    "ray\"}]}},\"enum\":{\"type\":\"array\",\"minItems\":1,\"uniqueItems\":true},\"type\":{\"anyOf\":[{\"$ref\":\"#/d" \
    "efinitions/simpleTypes\"},{\"type\":\"array\",\"items\":{\"$ref\":\"#/definitions/simpleTypes\"},\"minItems\":1," \
    "\"uniqueItems\":true}]},\"format\":{\"type\":\"string\"},\"allOf\":{\"$ref\":\"#/definitions/schemaArray\"},\"an" \
    "yOf\":{\"$ref\":\"#/definitions/schemaArray\"},\"oneOf\":{\"$ref\":\"#/definitions/schemaArray\"},\"not\":{\"$re" \
    "f\":\"#\"}},\"dependencies\":{\"exclusiveMaximum\":[\"maximum\"],\"exclusiveMinimum\":[\"minimum\"]}}"
#define SCHEMA__DRAFT6_HEAD \
    "{\"definitions\":{\"schemaArray\":{\"type\":\"array\",\"minItems\":1,\"items\":{\"$ref\":\"#\"}},\"nonNegativeIn" \
    "teger\":{\"type\":\"integer\",\"minimum\":0},\"nonNegativeIntegerDefault0\":{\"allOf\":[{\"$ref\":\"#/definition" \
    "s/nonNegativeInteger\"},{}]},\"simpleTypes\":{\"enum\":[\"array\",\"boolean\",\"integer\",\"null\",\"number\",\"" \
    "object\",\"string\"]},\"stringArray\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"uniqueItems\":true}}" \
    ",\"type\":[\"object\",\"boolean\"],\"properties\":{"
#define SCHEMA__DRAFT6_TAIL \
    "\"$id\":{\"type\":\"string\",\"format\":\"uri-reference\"},\"$schema\":{\"type\":\"string\",\"format\":\"uri\"}," \
    "\"$ref\":{\"type\":\"string\",\"format\":\"uri-reference\"},\"title\":{\"type\":\"string\"},\"description\":{\"t" \
    "ype\":\"string\"},\"default\":{},\"examples\":{\"type\":\"array\",\"items\":{}},\"multipleOf\":{\"type\":\"numbe" \
    "r\",\"exclusiveMinimum\":0},\"maximum\":{\"type\":\"number\"},\"exclusiveMaximum\":{\"type\":\"number\"},\"minim" \
    "um\":{\"type\":\"number\"},\"exclusiveMinimum\":{\"type\":\"number\"},\"maxLength\":{\"$ref\":\"#/definitions/no" \
    "nNegativeInteger\"},\"minLength\":{\"$ref\":\"#/definitions/nonNegativeIntegerDefault0\"},\"pattern\":{\"type\":" \
    "\"string\",\"format\":\"regex\"},\"additionalItems\":{\"$ref\":\"#\"},\"items\":{\"anyOf\":[{\"$ref\":\"#\"},{\"" \
    "$ref\":\"#/definitions/schemaArray\"}]},\"maxItems\":{\"$ref\":\"#/definitions/nonNegativeInteger\"},\"minItems" \
    "\":{\"$ref\":\"#/definitions/nonNegativeIntegerDefault0\"},\"uniqueItems\":{\"type\":\"boolean\"},\"contains\":{" \
    "\"$ref\":\"#\"},\"maxProperties\":{\"$ref\":\"#/definitions/nonNegativeInteger\"},\"minProperties\":{\"$ref\":\"" \
    "#/definitions/nonNegativeIntegerDefault0\"},\"required\":{\"$ref\":\"#/definitions/stringArray\"},\"additionalPr" \
    "operties\":{\"$ref\":\"#\"},\"definitions\":{\"type\":\"object\",\"additionalProperties\":{\"$ref\":\"#\"}},\"pr" \
    "operties\":{\"type\":\"object\",\"additionalProperties\":{\"$ref\":\"#\"}},\"patternProperties\":{\"type\":\"obj" \
    "ect\",\"additionalProperties\":{\"$ref\":\"#\"},\"propertyNames\":{\"format\":\"regex\"}},\"dependencies\":{\"ty" \
    "pe\":\"object\",\"additionalProperties\":{\"anyOf\":[{\"$ref\":\"#\"},{\"$ref\":\"#/definitions/stringArray\"}]}" \
    "},\"propertyNames\":{\"$ref\":\"#\"},\"const\":{},\"enum\":{\"type\":\"array\"},\"type\":{\"anyOf\":[{\"$ref\":" \
    "\"#/definitions/simpleTypes\"},{\"type\":\"array\",\"items\":{\"$ref\":\"#/definitions/simpleTypes\"},\"minItems" \
    "\":1,\"uniqueItems\":true}]},\"format\":{\"type\":\"string\"},\"allOf\":{\"$ref\":\"#/definitions/schemaArray\"}" \
    ",\"anyOf\":{\"$ref\":\"#/definitions/schemaArray\"},\"oneOf\":{\"$ref\":\"#/definitions/schemaArray\"},\"not\":{" \
    "\"$ref\":\"#\"}}}"
#define SCHEMA__DRAFT7_MORE \
    "\"$comment\":{\"type\":\"string\"},\"readOnly\":{\"type\":\"boolean\"},\"contentMediaType\":{\"type\":\"string\"" \
    "},\"contentEncoding\":{\"type\":\"string\"},\"if\":{\"$ref\":\"#\"},\"then\":{\"$ref\":\"#\"},\"else\":{\"$ref\"" \
    ":\"#\"},"

static const struct { const char *uri, *text; } schema__metas[] = {
    {"http://json-schema.org/draft-04/schema", SCHEMA__DRAFT4},
    {"http://json-schema.org/draft-06/schema", SCHEMA__DRAFT6_HEAD SCHEMA__DRAFT6_TAIL},
    {"http://json-schema.org/draft-07/schema", SCHEMA__DRAFT6_HEAD SCHEMA__DRAFT7_MORE SCHEMA__DRAFT6_TAIL},
};

static void schema__index(schema_doc *s);             /* its keywords make the nodes of references */

/* Adds the meta-schema of a URI to the document. Returns its resource; -1: there is none. */
static int32_t schema__meta(schema_doc *s, bytes uri) {
    const bytes plain = bytes_of("http:"), safe = bytes_of("https:");
    const size_t scheme = bytes_begins(uri, plain) ? plain.n : bytes_begins(uri, safe) ? safe.n : 0;
    const bytes  rest = bytes_slice(uri, scheme, uri.n);
    size_t       i = 0;
    while (i < sizeof schema__metas / sizeof *schema__metas && !(scheme && bytes_is(rest, schema__metas[i].uri + plain.n))) i++;
    if (i == sizeof schema__metas / sizeof *schema__metas) return -1;
    const bytes   name = bytes_of(schema__metas[i].uri);
    const val     root = val_json_read(&s->env, bytes_of(schema__metas[i].text), VAL_JSON_STRICT);
    const int32_t node = schema__node_add(s, (schema__node){.v = root, .parent = -1, .key = name, .index = -1});
    schema__resource_add(s, node, schema__keep(s, uri));
    schema__index(s);
    return s->node[node].resource;
}

/* The node that a reference leads to. */
static int32_t schema__resolve(schema_doc *s, int32_t node, val_str ref, const char *at) {
    bytes       uri = schema__utf8(s, ref);
    const bytes whole = uri;
    bytes       fragment = schema__uri_fragment(&uri);
    int32_t     resource = s->node[node].resource;
    if (uri.n) {
        const bytes whole_uri = schema__uri_join(s, s->resource[resource].uri, uri);
        resource = (int32_t)schema__once_get(schema__once(s, SCHEMA__OF_URI, whole_uri)) - 1;
        if (resource < 0) resource = schema__meta(s, whole_uri);
    }
    if (resource < 0)
        schema__fail(s, at, EXIT_INPUT, "the reference '%.*s' leads out of this document, and nothing is fetched",
                     (int)whole.n, whole.p);
    fragment = schema__uri_decode(s, fragment);
    int32_t target = s->resource[resource].node;
    if (fragment.n && fragment.p[0] == '/') target = schema__pointer_find(s, resource, fragment, at);
    else if (fragment.n) target = (int32_t)schema__once_get(schema__anchor(s, resource, fragment)) - 1;
    if (target < 0)
        schema__fail(s, at, EXIT_INPUT, "the reference '%.*s' names no anchor of this document", (int)whole.n, whole.p);
    return target;
}

/* --- nodes to parts --- */

typedef struct {
    val     v[SCHEMA__NAMED];                         /* of the keyword; undefined: it is not there */
    uint8_t order[SCHEMA__NAMED];                     /* [n] keywords with makers, in the order of the document */
    size_t  n;
    schema__word row;                                 /* the keyword whose parts are made, with its text and its kind */
    const char  *text;
    schema__kind kind;
} schema__read;

/* A subschema that counts. */
static int32_t schema__child(schema_doc *s, val v) {
    const int32_t i = schema__node_of(s, v);
    ASSERT(i >= 0);
    if (!s->node[i].queued) schema__ints_add(s, &s->reached, i);
    s->node[i].queued = true;
    return i;
}

/* A part of the node that is compiled; the pointer is valid up to the next one. */
static schema__part *schema__part_add(schema_doc *s, schema__kind kind, const char *word, size_t n_sub, size_t n_name,
                                      size_t n_lang) {
    s->build = schema__room(s, s->build, s->n_build, &s->cap_build, sizeof *s->build);
    schema__part *p = &s->build[s->n_build++];
    *p = (schema__part){.kind = (uint8_t)kind, .word = word, .n_sub = (uint32_t)n_sub, .n_name = (uint32_t)n_name,
                        .n_lang = (uint32_t)n_lang, .max = UINT64_MAX};
    if (n_sub) p->sub = val_alloc(&s->env, n_sub, sizeof *p->sub);
    if (n_name) p->name = val_alloc(&s->env, n_name, sizeof *p->name);
    if (n_lang) p->lang = val_alloc(&s->env, n_lang, sizeof *p->lang);
    return p;
}

static const char *schema__here(schema_doc *s, const char *word) { return schema__word_at(s, s->here, word); }

/* The text of a JSON number. */
static bytes schema__number(schema_doc *s, val v, const char *word) {
    if (v.kind == VAL_FLOAT) {
        for (size_t i = 0; i < s->n_rough; i++)
            if (s->rough[i] == v.f)
                schema__fail(s, schema__here(s, word), EXIT_INPUT,
                             "a number with more digits, or a larger exponent, than a double holds");
        const val_float_text t = val_float_repr(v.f);
        return schema__keep(s, bytes_of(t.p));
    }
    val_buf *b = val_buf_new(&s->env);
    val_put_int(&s->env, b, v);
    return schema__utf8(s, val_buf_str(b));
}

static uint64_t schema__count(val v) {
    const uint64_t most = UINT64_MAX - 1;
    if (v.kind == VAL_FLOAT) return v.f < 0x1p63 ? (uint64_t)v.f : most;
    return v.kind == VAL_INT ? (uint64_t)v.i : most;
}

static uint64_t schema__count_or(val v, uint64_t otherwise) { return v.kind == VAL_UNDEF ? otherwise : schema__count(v); }

/* allOf, anyOf, oneOf, not, propertyNames: all their subschemas. */
static void schema__make_subs(schema_doc *s, const schema__read *r) {
    const val     v = r->v[r->row];
    const bool    list = v.kind == VAL_LIST;
    const size_t  n = list ? v.list->n : 1;
    schema__part *p = schema__part_add(s, r->kind, r->text, n, 0, 0);
    for (size_t i = 0; i < n; i++) p->sub[i] = schema__child(s, list ? v.list->at[i] : v);
}

/* A minimum and the maximum of the row after it. */
static void schema__make_bounds(schema_doc *s, const schema__read *r) {
    schema__part *p = schema__part_add(s, r->kind, r->text, 0, 0, 0);
    p->min = schema__count_or(r->v[r->row], 0);
    p->max = schema__count_or(r->v[r->row + 1], UINT64_MAX);
}

static void schema__make_if(schema_doc *s, const schema__read *r) {
    const val then = r->v[SCHEMA__KEY_THEN], other = r->v[SCHEMA__KEY_ELSE];
    if (r->v[SCHEMA__KEY_IF].kind == VAL_UNDEF || (then.kind == VAL_UNDEF && other.kind == VAL_UNDEF && !s->asks_left)) return;
    schema__part *p = schema__part_add(s, SCHEMA__IF, "if", 3, 0, 0);
    p->sub[0] = schema__child(s, r->v[SCHEMA__KEY_IF]);
    p->sub[1] = then.kind == VAL_UNDEF ? SCHEMA__NODE_TRUE : schema__child(s, then);
    p->sub[2] = other.kind == VAL_UNDEF ? SCHEMA__NODE_TRUE : schema__child(s, other);
}

static void schema__make_target(schema_doc *s, const char *word, int32_t target) {
    schema__part *p = schema__part_add(s, SCHEMA__ALL, word, 1, 0, 0);
    p->sub[0] = target == SCHEMA__NODE_TRUE || target == SCHEMA__NODE_FALSE ? target : schema__child(s, s->node[target].v);
}

static void schema__make_ref(schema_doc *s, const schema__read *r) {
    schema__make_target(s, "$ref", schema__resolve(s, s->here, r->v[SCHEMA__REF].s, schema__here(s, "$ref")));
}

/* Holds where the anchor is not dynamic, or the only one of its name: then it is $ref. */
static void schema__make_dynamic(schema_doc *s, const schema__read *r) {
    const char *const at = schema__here(s, "$dynamicRef");
    const int32_t     target = schema__resolve(s, s->here, r->v[SCHEMA__DYNAMIC_REF].s, at);
    bytes             ref = schema__utf8(s, r->v[SCHEMA__DYNAMIC_REF].s);
    const bytes       fragment = schema__uri_fragment(&ref);
    const bool        pointer = !fragment.n || fragment.p[0] == '/';
    const val         name = target > SCHEMA__NODE_FALSE ? val_get(s->node[target].v, "$dynamicAnchor") : val_undef(NULL);
    if (!pointer && name.kind == VAL_STR && schema__once_get(schema__anchor(s, SCHEMA__DYNAMIC, schema__utf8(s, name.s))) > 1)
        schema__fail(s, at, EXIT_INPUT,
                     "the anchor '%s' is given several times, and the value decides which one is meant: this is not "
                     "supported", val_quote(name.s).p);
    schema__make_target(s, "$dynamicRef", target);
}

static void schema__make_recursive(schema_doc *s, const schema__read *r) {
    const char *const at = schema__here(s, "$recursiveRef");
    if (s->n_resource > 1) schema__fail(s, at, EXIT_INPUT, "$recursiveRef in a document with several $id is not supported");
    schema__make_target(s, "$recursiveRef", schema__resolve(s, s->here, r->v[SCHEMA__RECURSIVE_REF].s, at));
}

/* --- type, enum, const --- */

static void schema__type_add(schema_doc *s, schema__flat *f, val name) {
    static const char *const names[] = {"null", "boolean", "object", "array", "string", "number", "integer"};
    size_t                   i = 0;
    while (i < 7 && !val_is_str(name, names[i])) i++;
    switch (i) {
    case 0: f->null = true; break;
    case 1: f->no = f->yes = true; break;
    case 2: f->obj = SCHEMA__EVERY; break;
    case 3: f->arr = SCHEMA__EVERY; break;
    case 4: f->str = s->all; break;
    case 5: f->num = s->numbers; break;
    case 6: f->num = schema__num_or(s, f->num, schema__lang(s, num_integer(s->langs, false))); break;
    default:
        schema__fail(s, schema__here(s, "type"), EXIT_INPUT,
                     "found '%s', expected null, boolean, object, array, string, number or integer", val_quote(name.s).p);
    }
}

static schema__part *schema__flat_part(schema_doc *s, schema__kind kind, const char *word, size_t n_sub) {
    schema__part *p = schema__part_add(s, kind, word, n_sub, 0, 0);
    p->flat = val_alloc(&s->env, 1, sizeof *p->flat);
    *p->flat = schema__flat_none(s);
    return p;
}

static void schema__make_type(schema_doc *s, const schema__read *r) {
    const val     v = r->v[SCHEMA__KEY_TYPE];
    schema__flat *f = schema__flat_part(s, SCHEMA__TYPE, "type", 0)->flat;
    if (v.kind == VAL_STR) schema__type_add(s, f, v);
    for (size_t i = 0; v.kind == VAL_LIST && i < v.list->n; i++) schema__type_add(s, f, v.list->at[i]);
}

/* The union of n languages, pair by pair: the sizes of the intermediate ones stay small. */
static const lang *schema__union(schema_doc *s, const lang **l, size_t n) {
    for (; n > 1; n = (n + 1) / 2)
        for (size_t i = 0; i < n; i += 2) l[i / 2] = i + 1 < n ? schema__lang_or(s, l[i], l[i + 1]) : l[i];
    return n ? l[0] : s->none;
}

static int32_t schema__value_node(schema_doc *s, val v, const char *word, int64_t index) {
    const schema__node n = {.v = v, .is = true, .queued = true, .resource = s->node[s->here].resource,
                            .parent = s->here, .word = word, .index = index};
    const int32_t      i = schema__node_new(s, n);
    schema__ints_add(s, &s->reached, i);
    return i;
}

static void schema__make_values(schema_doc *s, const char *word, const val *v, size_t n) {
    schema__part *p = schema__flat_part(s, SCHEMA__ENUM, word, n);
    bytes        *text = val_alloc(&s->env, n, sizeof *text);
    bytes        *num = val_alloc(&s->env, n, sizeof *num);
    size_t        n_text = 0, n_num = 0;
    p->n_sub = 0;
    for (size_t i = 0; i < n; i++) {
        val_step(&s->env, 1);
        if (v[i].kind == VAL_NONE) p->flat->null = true;
        else if (v[i].kind == VAL_BOOL) *(v[i].b ? &p->flat->yes : &p->flat->no) = true;
        else if (v[i].kind == VAL_STR) text[n_text++] = schema__utf8(s, v[i].s);
        else if (v[i].kind == VAL_DICT || v[i].kind == VAL_LIST)
            p->sub[p->n_sub++] = schema__value_node(s, v[i], word, n > 1 ? (int64_t)i : -1);
        else num[n_num++] = schema__number(s, v[i], word);
        if (v[i].kind == VAL_DICT) p->flat->obj = SCHEMA__SOME;
        if (v[i].kind == VAL_LIST) p->flat->arr = SCHEMA__SOME;
    }
    if (n_text) p->flat->str = schema__lang(s, lang_words(s->langs, text, n_text));
    p->flat->num = n_num ? schema__lang(s, num_values(s->langs, num, n_num)) : s->none;
}

static void schema__make_enum(schema_doc *s, const schema__read *r) {
    schema__make_values(s, "enum", r->v[SCHEMA__KEY_ENUM].list->at, r->v[SCHEMA__KEY_ENUM].list->n);
}
static void schema__make_const(schema_doc *s, const schema__read *r) {
    schema__make_values(s, "const", &r->v[SCHEMA__KEY_CONST], 1);
}

/* --- strings and numbers --- */

/* The language of a regular expression; at: of the message. */
static const lang *schema__regex(schema_doc *s, bytes pattern, bool search, const char *at) {
    err_t       e = {0};
    uint8_t    *key = val_alloc(&s->env, pattern.n + 1, 1);
    const lang *l;
    key[0] = search;
    if (pattern.n) memcpy(key + 1, pattern.p, pattern.n);
    hmap_entry *en = schema__once(s, SCHEMA__OF_PATTERN, (bytes){key, pattern.n + 1});
    if (schema__once_get(en)) return s->regex[schema__once_get(en) - 1];
    val_step(&s->env, 100 + 10 * pattern.n);
    l = lang_regex(s->langs, pattern, search, &e);
    if (!l && e.code) schema__fail(s, at, e.code, "%s", e.text);
    s->regex = schema__room(s, s->regex, s->n_regex, &s->cap_regex, sizeof *s->regex);
    s->regex[s->n_regex++] = schema__lang(s, l);
    schema__once_set(en, (uint32_t)s->n_regex);
    return l;
}

static void schema__make_pattern(schema_doc *s, const schema__read *r) {
    const lang *l = schema__regex(s, schema__utf8(s, r->v[SCHEMA__PATTERN].s), true, schema__here(s, "pattern"));
    schema__part_add(s, SCHEMA__STRING, "pattern", 0, 0, 0)->set = l;
}

#define SCHEMA__YEAR   "[0-9]{4}"
#define SCHEMA__LEAP   "(?:[0-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
#define SCHEMA__DATE                                                                                               \
    "(?:" SCHEMA__YEAR "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"   \
    "|02-(?:0[1-9]|1[0-9]|2[0-8]))|" SCHEMA__LEAP "-02-29)"
#define SCHEMA__TIME(part)                                                                                         \
    "(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\." part ")?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"    \
    "|23:59:60(?:\\." part ")?(?:[Zz]|[+-]00:00))"
#define SCHEMA__CLOCK(n) "T(?:" n "H(?:" n "M(?:" n "S)?)?|" n "M(?:" n "S)?|" n "S)"
#define SCHEMA__DURATION(n)                                                                                        \
    "P(?:" n "W|(?:" n "Y(?:" n "M(?:" n "D)?)?|" n "M(?:" n "D)?|" n "D)(?:" SCHEMA__CLOCK(n) ")?|" SCHEMA__CLOCK(n) ")"
#define SCHEMA__PART   "[0-9]{1,9}"                   /* digits of a second, or of a count, that are generated */
#define SCHEMA__LABEL  "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define SCHEMA__HOST   SCHEMA__LABEL "(?:\\." SCHEMA__LABEL ")*"
#define SCHEMA__DOMAIN "[A-Za-z0-9](?:-*[A-Za-z0-9])*(?:\\.[A-Za-z0-9](?:-*[A-Za-z0-9])*)*"
#define SCHEMA__OCTET  "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define SCHEMA__IPV4   SCHEMA__OCTET "(?:\\." SCHEMA__OCTET "){3}"
#define SCHEMA__H16    "[0-9A-Fa-f]{1,4}"
#define SCHEMA__LS32   "(?:" SCHEMA__H16 ":" SCHEMA__H16 "|" SCHEMA__IPV4 ")"
#define SCHEMA__IPV6                                                                                               \
    "(?:(?:" SCHEMA__H16 ":){6}" SCHEMA__LS32 "|::(?:" SCHEMA__H16 ":){5}" SCHEMA__LS32                            \
    "|(?:" SCHEMA__H16 ")?::(?:" SCHEMA__H16 ":){4}" SCHEMA__LS32                                                  \
    "|(?:(?:" SCHEMA__H16 ":){0,1}" SCHEMA__H16 ")?::(?:" SCHEMA__H16 ":){3}" SCHEMA__LS32                         \
    "|(?:(?:" SCHEMA__H16 ":){0,2}" SCHEMA__H16 ")?::(?:" SCHEMA__H16 ":){2}" SCHEMA__LS32                         \
    "|(?:(?:" SCHEMA__H16 ":){0,3}" SCHEMA__H16 ")?::" SCHEMA__H16 ":" SCHEMA__LS32                                \
    "|(?:(?:" SCHEMA__H16 ":){0,4}" SCHEMA__H16 ")?::" SCHEMA__LS32                                                \
    "|(?:(?:" SCHEMA__H16 ":){0,5}" SCHEMA__H16 ")?::" SCHEMA__H16                                                 \
    "|(?:(?:" SCHEMA__H16 ":){0,6}" SCHEMA__H16 ")?::)"
#define SCHEMA__ATEXT  "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define SCHEMA__LOCAL  "(?:" SCHEMA__ATEXT "(?:\\." SCHEMA__ATEXT ")*|\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\")"
#define SCHEMA__PCT    "%[0-9A-Fa-f]{2}"
#define SCHEMA__UNRES  "A-Za-z0-9._~\\-"
#define SCHEMA__PCHAR  "(?:[" SCHEMA__UNRES "!$&'()*+,;=:@]|" SCHEMA__PCT ")"
#define SCHEMA__AUTH                                                                                               \
    "(?:(?:[" SCHEMA__UNRES "!$&'()*+,;=:]|" SCHEMA__PCT ")*@)?"                                                   \
    "(?:\\[[0-9A-Fa-f:.]+\\]|(?:[" SCHEMA__UNRES "!$&'()*+,;=]|" SCHEMA__PCT ")*)(?::[0-9]*)?"
#define SCHEMA__TAIL   "(?:\\?(?:" SCHEMA__PCHAR "|[/?])*)?(?:#(?:" SCHEMA__PCHAR "|[/?])*)?"
#define SCHEMA__SLASHES "(?:/" SCHEMA__PCHAR "*)*"
#define SCHEMA__URI                                                                                                \
    "[A-Za-z][A-Za-z0-9+.-]*:(?://" SCHEMA__AUTH SCHEMA__SLASHES "|/(?:" SCHEMA__PCHAR "+" SCHEMA__SLASHES ")?"    \
    "|" SCHEMA__PCHAR "+" SCHEMA__SLASHES "|)" SCHEMA__TAIL
#define SCHEMA__NOCOLON "(?:[" SCHEMA__UNRES "!$&'()*+,;=@]|" SCHEMA__PCT ")"
#define SCHEMA__RELATIVE                                                                                           \
    "(?://" SCHEMA__AUTH SCHEMA__SLASHES "|/(?:" SCHEMA__PCHAR "+" SCHEMA__SLASHES ")?"                            \
    "|" SCHEMA__NOCOLON "+" SCHEMA__SLASHES "|)" SCHEMA__TAIL
#define SCHEMA__POINT  "(?:/(?:[^~/]|~[01])*)*"

/* Formats as regular expressions of whole strings. A new one is one row. They are small, because a bound of the
 * length multiplies their states: the labels of an e-mail address are not counted, and an IP address in the brackets
 * of a URI is any text of its characters. brief: the part of those with numbers of any length that is generated. */
static const struct {
    const char *name, *regex, *brief;
} schema__formats[SCHEMA__FORMATS] = {
    {"date-time", SCHEMA__DATE "[Tt]" SCHEMA__TIME("[0-9]+"), SCHEMA__DATE "[Tt]" SCHEMA__TIME(SCHEMA__PART)},
    {"date", SCHEMA__DATE, NULL},
    {"time", SCHEMA__TIME("[0-9]+"), SCHEMA__TIME(SCHEMA__PART)},
    {"duration", SCHEMA__DURATION("[0-9]+"), SCHEMA__DURATION(SCHEMA__PART)},
    {"email", SCHEMA__LOCAL "@" SCHEMA__DOMAIN, NULL},
    {"hostname", SCHEMA__HOST, NULL},
    {"ipv4", SCHEMA__IPV4, NULL},
    {"ipv6", SCHEMA__IPV6, NULL},
    {"uuid", "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}", NULL},
    {"uri", SCHEMA__URI, NULL},
    {"uri-reference", "(?:" SCHEMA__URI "|" SCHEMA__RELATIVE ")", NULL},
    {"json-pointer", SCHEMA__POINT, NULL},
    {"relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|" SCHEMA__POINT ")", NULL},
    {"regex", NULL, NULL},                            /* no regular language: any string */
};

static void schema__make_format(schema_doc *s, const schema__read *r) {
    const val   v = r->v[SCHEMA__FORMAT];
    size_t      i = 0;
    const lang *l;
    while (i < SCHEMA__FORMATS && !val_is_str(v, schema__formats[i].name)) i++;
    if (i == SCHEMA__FORMATS) {
        schema__note(s, schema__here(s, "format"), "the format '%s' is not known and has no effect", val_quote(v.s).p);
        return;
    }
    if (!schema__formats[i].regex) return;
    l = schema__regex(s, bytes_of(schema__formats[i].regex), false, schema__here(s, "format"));
    schema__part_add(s, SCHEMA__STRING, "format", 0, 0, 0)->set = l;
    if (schema__formats[i].brief) s->counted[i] = l;
}

/* One bound; strict: true in draft-04's spelling of an exclusive one. */
static const lang *schema__bound(schema_doc *s, const char *word, val v, bool upper, bool strict) {
    if (v.kind == VAL_UNDEF || v.kind == VAL_BOOL) return s->numbers;
    return schema__lang(s, num_bound(s->langs, schema__number(s, v, word), upper, strict));
}

static const lang *schema__multiple(schema_doc *s, val v) {
    err_t e = {0};
    if (v.kind == VAL_UNDEF) return s->numbers;
    if (v.kind == VAL_FLOAT ? !(v.f > 0) : v.kind == VAL_INT ? v.i <= 0 : val_is_negative(v))
        schema__fail(s, schema__here(s, "multipleOf"), EXIT_INPUT, "found a number of at most 0, expected one above 0");
    const lang *l = num_multiple(s->langs, schema__number(s, v, "multipleOf"), &e);
    if (!l && e.code) schema__fail(s, schema__here(s, "multipleOf"), e.code, "%s", e.text);
    return schema__lang(s, l);
}

static void schema__make_number(schema_doc *s, const schema__read *r) {
    const val   above = r->v[SCHEMA__ABOVE], below = r->v[SCHEMA__BELOW];
    const lang *l = schema__multiple(s, r->v[SCHEMA__MULTIPLE]);
    l = schema__num_and(s, l, schema__bound(s, "minimum", r->v[SCHEMA__MINIMUM], false, above.kind == VAL_BOOL && above.b));
    l = schema__num_and(s, l, schema__bound(s, "maximum", r->v[SCHEMA__MAXIMUM], true, below.kind == VAL_BOOL && below.b));
    l = schema__num_and(s, l, schema__bound(s, "exclusiveMinimum", above, false, true));
    l = schema__num_and(s, l, schema__bound(s, "exclusiveMaximum", below, true, true));
    schema__part_add(s, SCHEMA__NUMBER, "minimum", 0, 0, 0)->set = l;
}

/* --- objects --- */

static int schema__int_order(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static void schema__sort_names(schema_doc *s, schema__part *p) {
    p->sorted = val_alloc(&s->env, p->n_name, sizeof *p->sorted);
    if (p->n_name) memcpy(p->sorted, p->name, p->n_name * sizeof *p->name);
    qsort(p->sorted, p->n_name, sizeof *p->sorted, schema__int_order);
}

static bool schema__has_name(const schema__part *p, int32_t name) {
    return p->n_name && bsearch(&name, p->sorted, p->n_name, sizeof *p->sorted, schema__int_order);
}

static size_t schema__size(val v) { return v.kind == VAL_DICT ? v.dict->n : v.kind == VAL_LIST ? v.list->n : 0; }

static void schema__make_props(schema_doc *s, const schema__read *r) {
    const val     props = r->v[SCHEMA__PROPERTIES], patterns = r->v[SCHEMA__PATTERNS], rest = r->v[SCHEMA__ADDITIONAL];
    const size_t  n = schema__size(props), m = schema__size(patterns);
    const bool    more = rest.kind != VAL_UNDEF;
    const char   *at = m ? schema__here(s, "patternProperties") : NULL;
    schema__part *p = schema__part_add(s, SCHEMA__PROPS, "properties", n + m + more, n, m);
    for (size_t i = 0; i < n; i++) {
        p->name[i] = schema__name(s, props.dict->at[i].key.s);
        p->sub[i] = schema__child(s, props.dict->at[i].value);
    }
    for (size_t i = 0; i < m; i++) {
        p->lang[i] = schema__regex(s, schema__utf8(s, patterns.dict->at[i].key.s), true, at);
        p->sub[n + i] = schema__child(s, patterns.dict->at[i].value);
    }
    p->rest = more;
    if (more) p->sub[n + m] = schema__child(s, rest);
    if (more && m) {
        const lang **all = val_alloc(&s->env, m, sizeof *all);
        memcpy(all, p->lang, m * sizeof *all);
        p->set = schema__lang_not(s, schema__union(s, all, m));
    }
    schema__sort_names(s, p);
}

static void schema__name_list(schema_doc *s, schema__kind kind, const char *word, const val *key, val list) {
    const size_t  first = key ? 1 : 0;
    schema__part *p = schema__part_add(s, kind, word, 0, list.list->n + first, 0);
    if (key) p->name[0] = schema__name(s, key->s);
    for (size_t i = 0; i < list.list->n; i++) p->name[i + first] = schema__name(s, list.list->at[i].s);
    schema__sort_names(s, p);
}

static void schema__make_required(schema_doc *s, const schema__read *r) {
    schema__name_list(s, SCHEMA__REQUIRED, "required", NULL, r->v[SCHEMA__KEY_REQUIRED]);
}

/* dependentRequired, dependentSchemas, dependencies: one part for each key. */
static void schema__make_depends(schema_doc *s, const schema__read *r) {
    const val v = r->v[r->row];
    for (size_t i = 0; i < schema__size(v); i++) {
        const val key = v.dict->at[i].key, needs = v.dict->at[i].value;
        if (needs.kind == VAL_LIST) {
            schema__name_list(s, SCHEMA__NEEDS, r->text, &key, needs);
            continue;
        }
        schema__part *p = schema__part_add(s, SCHEMA__WITH, r->text, 1, 1, 0);
        p->name[0] = schema__name(s, key.s);
        p->sub[0] = schema__child(s, needs);
    }
}

/* --- arrays --- */

/* prefixItems and items, or the older items (a list) and additionalItems. */
static void schema__make_items(schema_doc *s, const schema__read *r) {
    const val     items = r->v[SCHEMA__KEY_ITEMS];
    const bool    old = items.kind == VAL_LIST;
    const val     first = old ? items : r->v[SCHEMA__PREFIX], rest = old ? r->v[SCHEMA__MORE_ITEMS] : items;
    const size_t  n = schema__size(first);
    const bool    more = rest.kind != VAL_UNDEF;
    schema__part *p = schema__part_add(s, SCHEMA__ITEMS, "items", n + more, 0, 0);
    for (size_t i = 0; i < n; i++) p->sub[i] = schema__child(s, first.list->at[i]);
    if (more) p->sub[n] = schema__child(s, rest);
    p->rest = more;
}

static void schema__make_contains(schema_doc *s, const schema__read *r) {
    if (r->v[SCHEMA__KEY_CONTAINS].kind == VAL_UNDEF) return;
    schema__part *p = schema__part_add(s, SCHEMA__CONTAINS, "contains", 1, 0, 0);
    p->sub[0] = schema__child(s, r->v[SCHEMA__KEY_CONTAINS]);
    p->min = schema__count_or(r->v[SCHEMA__MIN_CONTAINS], 1);
    p->max = schema__count_or(r->v[SCHEMA__MAX_CONTAINS], UINT64_MAX);
}

static void schema__make_unique(schema_doc *s, const schema__read *r) {
    if (r->v[SCHEMA__KEY_UNIQUE].b) schema__part_add(s, SCHEMA__UNIQUE, "uniqueItems", 0, 0, 0);
}

/* unevaluatedProperties, unevaluatedItems: replaced when all nodes are there (schema__left_all). */
static void schema__make_left(schema_doc *s, const schema__read *r) {
    const val           v = r->v[r->row];
    const bool          items = r->row == SCHEMA__LEFT_ITEMS, all = v.kind == VAL_BOOL && v.b;
    const schema__kind  plain = items ? SCHEMA__ITEMS : SCHEMA__PROPS;
    schema__part *const p = schema__part_add(s, all ? plain : SCHEMA__LEFT, r->text, 1, 0, 0);
    p->sub[0] = schema__child(s, v);
    p->rest = all || items;
}

/* Keywords: what the value has to be, what makes the parts (NULL: the nearest row above that has a maker, with the values
 * of both), of which kind where the maker has several, and whether after all others, so that `properties` gives the
 * order of keys. */
static const struct {
    const char  *text;
    schema__want want;
    void       (*make)(schema_doc *s, const schema__read *r);
    schema__kind kind;
    bool         late;
} schema__words[] = {
    /* keyword                  text                    value                parts                   kind             late */
    [SCHEMA__OLD_ID]         = {"id",                    SCHEMA__W_ANY,       NULL,                   0,               false},
    [SCHEMA__REF]            = {"$ref",                  SCHEMA__W_TEXT,      schema__make_ref,       0,               false},
    [SCHEMA__DYNAMIC_REF]    = {"$dynamicRef",           SCHEMA__W_TEXT,      schema__make_dynamic,   0,               false},
    [SCHEMA__RECURSIVE_REF]  = {"$recursiveRef",         SCHEMA__W_TEXT,      schema__make_recursive, 0,               false},
    [SCHEMA__KEY_TYPE]       = {"type",                  SCHEMA__W_TYPE,      schema__make_type,      0,               false},
    [SCHEMA__KEY_ENUM]       = {"enum",                  SCHEMA__W_VALUES,    schema__make_enum,      0,               false},
    [SCHEMA__KEY_CONST]      = {"const",                 SCHEMA__W_ANY,       schema__make_const,     0,               false},
    [SCHEMA__KEY_ALL]        = {"allOf",                 SCHEMA__W_LIST,      schema__make_subs,      SCHEMA__ALL,     false},
    [SCHEMA__KEY_ANY]        = {"anyOf",                 SCHEMA__W_LIST,      schema__make_subs,      SCHEMA__ANY,     false},
    [SCHEMA__KEY_ONE]        = {"oneOf",                 SCHEMA__W_LIST,      schema__make_subs,      SCHEMA__ONE,     false},
    [SCHEMA__KEY_NOT]        = {"not",                   SCHEMA__W_SCHEMA,    schema__make_subs,      SCHEMA__NOT,     false},
    [SCHEMA__KEY_IF]         = {"if",                    SCHEMA__W_SCHEMA,    schema__make_if,        0,               false},
    [SCHEMA__KEY_THEN]       = {"then",                  SCHEMA__W_SCHEMA,    NULL,                   0,               false},
    [SCHEMA__KEY_ELSE]       = {"else",                  SCHEMA__W_SCHEMA,    NULL,                   0,               false},
    [SCHEMA__PROPERTIES]     = {"properties",            SCHEMA__W_MAP,       schema__make_props,     0,               false},
    [SCHEMA__PATTERNS]       = {"patternProperties",     SCHEMA__W_MAP,       NULL,                   0,               false},
    [SCHEMA__ADDITIONAL]     = {"additionalProperties",  SCHEMA__W_SCHEMA,    NULL,                   0,               false},
    [SCHEMA__KEY_NAMES]      = {"propertyNames",         SCHEMA__W_SCHEMA,    schema__make_subs,      SCHEMA__NAMES,   true},
    [SCHEMA__KEY_REQUIRED]   = {"required",              SCHEMA__W_TEXTS,     schema__make_required,  0,               true},
    [SCHEMA__MIN_PROPS]      = {"minProperties",         SCHEMA__W_COUNT,     schema__make_bounds,    SCHEMA__COUNT,   true},
    [SCHEMA__MAX_PROPS]      = {"maxProperties",         SCHEMA__W_COUNT,     NULL,                   0,               true},
    [SCHEMA__DEP_REQUIRED]   = {"dependentRequired",     SCHEMA__W_TEXTS_MAP, schema__make_depends,   0,               true},
    [SCHEMA__DEP_SCHEMAS]    = {"dependentSchemas",      SCHEMA__W_MAP,       schema__make_depends,   0,               true},
    [SCHEMA__DEPENDENCIES]   = {"dependencies",          SCHEMA__W_DEPENDS,   schema__make_depends,   0,               true},
    [SCHEMA__PREFIX]         = {"prefixItems",           SCHEMA__W_LIST,      schema__make_items,     0,               false},
    [SCHEMA__KEY_ITEMS]      = {"items",                 SCHEMA__W_ITEMS,     NULL,                   0,               false},
    [SCHEMA__MORE_ITEMS]     = {"additionalItems",       SCHEMA__W_SCHEMA,    NULL,                   0,               false},
    [SCHEMA__KEY_CONTAINS]   = {"contains",              SCHEMA__W_SCHEMA,    schema__make_contains,  0,               true},
    [SCHEMA__MIN_CONTAINS]   = {"minContains",           SCHEMA__W_COUNT,     NULL,                   0,               true},
    [SCHEMA__MAX_CONTAINS]   = {"maxContains",           SCHEMA__W_COUNT,     NULL,                   0,               true},
    [SCHEMA__MIN_ITEMS]      = {"minItems",              SCHEMA__W_COUNT,     schema__make_bounds,    SCHEMA__LENGTHS, true},
    [SCHEMA__MAX_ITEMS]      = {"maxItems",              SCHEMA__W_COUNT,     NULL,                   0,               true},
    [SCHEMA__KEY_UNIQUE]     = {"uniqueItems",           SCHEMA__W_BOOL,      schema__make_unique,    0,               true},
    [SCHEMA__MIN_LENGTH]     = {"minLength",             SCHEMA__W_COUNT,     schema__make_bounds,    SCHEMA__LEN,     false},
    [SCHEMA__MAX_LENGTH]     = {"maxLength",             SCHEMA__W_COUNT,     NULL,                   0,               false},
    [SCHEMA__PATTERN]        = {"pattern",               SCHEMA__W_TEXT,      schema__make_pattern,   0,               false},
    [SCHEMA__FORMAT]         = {"format",                SCHEMA__W_TEXT,      schema__make_format,    0,               false},
    [SCHEMA__MINIMUM]        = {"minimum",               SCHEMA__W_NUMBER,    schema__make_number,    0,               false},
    [SCHEMA__MAXIMUM]        = {"maximum",               SCHEMA__W_NUMBER,    NULL,                   0,               false},
    [SCHEMA__ABOVE]          = {"exclusiveMinimum",      SCHEMA__W_LIMIT,     NULL,                   0,               false},
    [SCHEMA__BELOW]          = {"exclusiveMaximum",      SCHEMA__W_LIMIT,     NULL,                   0,               false},
    [SCHEMA__MULTIPLE]       = {"multipleOf",            SCHEMA__W_NUMBER,    NULL,                   0,               false},
    [SCHEMA__LEFT_PROPS]     = {"unevaluatedProperties", SCHEMA__W_SCHEMA,    schema__make_left,      0,               true},
    [SCHEMA__LEFT_ITEMS]     = {"unevaluatedItems",      SCHEMA__W_SCHEMA,    schema__make_left,      0,               true},
    /* without parts */
    {.text = "$id", .want = SCHEMA__W_TEXT}, {.text = "$anchor", .want = SCHEMA__W_TEXT},
    {.text = "$dynamicAnchor", .want = SCHEMA__W_TEXT},
    {.text = "$recursiveAnchor", .want = SCHEMA__W_BOOL}, {.text = "$defs", .want = SCHEMA__W_DEFS},
    {.text = "definitions", .want = SCHEMA__W_DEFS},
    {.text = "$schema"}, {.text = "$vocabulary"}, {.text = "$comment"}, {.text = "title"}, {.text = "description"},
    {.text = "default"},
    {.text = "examples"}, {.text = "example"}, {.text = "deprecated"}, {.text = "readOnly"}, {.text = "writeOnly"},
    {.text = "contentEncoding"}, {.text = "contentMediaType"}, {.text = "contentSchema"},
};
enum { SCHEMA__WORDS = sizeof schema__words / sizeof *schema__words };

/* The row of a keyword; -1: unknown. */
static int schema__word_find(val_str key) {
    for (int i = 0; i < SCHEMA__WORDS; i++)
        if (val_str_is(key, schema__words[i].text)) return i;
    return -1;
}

/* The schemas of one keyword. */
static void schema__index_word(schema_doc *s, int32_t node, int row, val v) {
    const schema__want want = schema__words[row].want;
    const char *const  word = schema__words[row].text;
    const bool         one = want == SCHEMA__W_SCHEMA || want == SCHEMA__W_ITEMS,
                       map = want == SCHEMA__W_MAP || want == SCHEMA__W_DEFS || want == SCHEMA__W_DEPENDS;
    if (one) schema__index_one(s, node, word, (bytes){NULL, 0}, -1, v);
    for (size_t i = 0; (want == SCHEMA__W_LIST || want == SCHEMA__W_ITEMS) && v.kind == VAL_LIST && i < v.list->n; i++)
        schema__index_one(s, node, word, (bytes){NULL, 0}, (int64_t)i, v.list->at[i]);
    for (size_t i = 0; map && v.kind == VAL_DICT && i < v.dict->n; i++)
        if (v.dict->at[i].value.kind == VAL_DICT)
            schema__index_one(s, node, word, schema__utf8(s, v.dict->at[i].key.s), -1, v.dict->at[i].value);
}

/* Makes nodes of all schemas inside of the fresh ones. */
static void schema__index(schema_doc *s) {
    while (s->fresh.n) {
        const int32_t node = s->fresh.at[--s->fresh.n];
        const val     v = s->node[node].v;
        schema__index_names(s, node);
        for (size_t i = 0; i < v.dict->n; i++) {
            const int row = schema__word_find(v.dict->at[i].key.s);
            val_step(&s->env, 1);
            if (row < 0) continue;
            s->asks_left |= row == SCHEMA__LEFT_PROPS || row == SCHEMA__LEFT_ITEMS;
            schema__index_word(s, node, row, v.dict->at[i].value);
        }
    }
}

static void schema__unknown(schema_doc *s, val_str key) {
    if (!s->old_ids || !val_str_is(key, "id"))
        schema__note(s, schema__at(s, s->here), "the keyword '%s' is not known and has no effect", val_quote(key).p);
}

/* The keywords of a schema, each with a value of its type. */
static void schema__read_words(schema_doc *s, val v, schema__read *r) {
    *r = (schema__read){.n = 0};
    for (size_t i = 0; i < v.dict->n; i++) {
        const val key = v.dict->at[i].key, value = v.dict->at[i].value;
        int       row = schema__word_find(key.s);
        val_step(&s->env, 1);
        if (row < 0 || (row == SCHEMA__OLD_ID && !s->old_ids)) {
            schema__unknown(s, key.s);
            continue;
        }
        const schema__want want = schema__words[row].want;
        if (s->old_refs && !val_is_str(key, "$ref") && val_get(v, "$ref").kind != VAL_UNDEF) continue;
        if (!schema__fits(value, want))
            schema__fail(s, schema__here(s, schema__words[row].text), EXIT_INPUT, "found %s, expected %s",
                         val_kind_name(value), schema__want_name[want]);
        if (row >= SCHEMA__NAMED) continue;
        r->v[row] = value;
        while (row && !schema__words[row].make) row--;
        if (!memchr(r->order, row, r->n)) r->order[r->n++] = (uint8_t)row;
    }
}

static void schema__compile_words(schema_doc *s, val v) {
    schema__read r;
    schema__read_words(s, v, &r);
    for (int late = 0; late < 2; late++)
        for (size_t i = 0; i < r.n; i++) {
            r.row = r.order[i], r.text = schema__words[r.row].text, r.kind = schema__words[r.row].kind;
            if (!schema__words[r.row].make || schema__words[r.row].late != late) continue;
            schema__words[r.row].make(s, &r);
            schema__index(s);                         /* a reference may lead to schemas that were none before */
        }
}

/* A value as a schema: an object has just these members, a list these items. */
static void schema__compile_value(schema_doc *s, val v) {
    const bool   list = v.kind == VAL_LIST;
    const size_t n = schema__size(v);
    if (!list && v.kind != VAL_DICT) {
        schema__make_values(s, "const", &v, 1);
        return;
    }
    schema__flat *type = schema__flat_part(s, SCHEMA__TYPE, "const", 0)->flat;
    *(list ? &type->arr : &type->obj) = SCHEMA__EVERY;
    schema__part *p = schema__part_add(s, list ? SCHEMA__ITEMS : SCHEMA__PROPS, "const", n + 1, list ? 0 : n, 0);
    for (size_t i = 0; i < n; i++) {
        if (!list) p->name[i] = schema__name(s, v.dict->at[i].key.s);
        p->sub[i] = schema__value_node(s, list ? v.list->at[i] : v.dict->at[i].value, "const", (int64_t)i);
    }
    p->sub[n] = SCHEMA__NODE_FALSE;
    p->rest = true;
    if (list) {
        p = schema__part_add(s, SCHEMA__LENGTHS, "const", 0, 0, 0);
        p->min = p->max = n;
        return;
    }
    schema__sort_names(s, p);
    const int32_t *names = p->name;
    p = schema__part_add(s, SCHEMA__REQUIRED, "const", 0, n, 0);
    if (n) memcpy(p->name, names, n * sizeof *names);
    schema__sort_names(s, p);
}

/* The parts that were added become those of the node. */
static void schema__parts_keep(schema_doc *s, int32_t node) {
    schema__node *n = &s->node[node];
    n->n_part = (uint32_t)s->n_build;
    n->part = val_alloc(&s->env, s->n_build, sizeof *n->part);
    if (s->n_build) memcpy(n->part, s->build, s->n_build * sizeof *n->part);
}

static void schema__compile(schema_doc *s, int32_t node) {
    const val v = s->node[node].v;
    s->here = node;
    s->n_build = 0;
    val_step(&s->env, 2);
    if (s->node[node].is) schema__compile_value(s, v);
    else if (v.kind == VAL_DICT) schema__compile_words(s, v);
    else if (!v.b) schema__part_add(s, SCHEMA__NEVER, "false", 0, 0, 0);
    schema__parts_keep(s, node);
}

static bool schema__has_subs(const schema__part *p) { return p->kind >= SCHEMA__ALL && p->kind <= SCHEMA__IF; }

/* --- unevaluatedProperties and unevaluatedItems ---
 * What is evaluated depends on which of the schemas for the same value hold. Each combination of those that say
 * something of members (items) is one case: it asserts which of them hold, and its further members (items) satisfy
 * the subschema. The cases are in one "any". */

enum { SCHEMA__CASES = 256 };

typedef struct {
    bool          items;                              /* unevaluatedItems */
    bool          all;                                /* everything is evaluated */
    int32_t       node, sub;                          /* the schema and its subschema of what is left */
    schema__ints  todo;                               /* nodes that hold */
    schema__ints  names, subs, holds, fails;          /* subs: of contains; holds, fails: what the case asserts */
    const lang  **lang;
    size_t        n_lang, cap_lang, n_prefix;
    uint8_t       choice[32];                         /* of the case: which ones hold */
    size_t        n_choice, at;
} schema__left;

static bool schema__left_in(const schema__ints *l, int32_t node) {
    for (size_t i = 0; i < l->n; i++)
        if (l->at[i] == node) return true;
    return false;
}

static bool schema__left_says(const schema__part *p, bool items) {
    if (p->kind == SCHEMA__LEFT) return p->rest == items;
    return items ? p->kind == SCHEMA__ITEMS || p->kind == SCHEMA__CONTAINS : p->kind == SCHEMA__PROPS;
}

/* Whether a schema, or one for the same value inside of it, says something of members (items). */
static bool schema__left_speaks(schema_doc *s, int32_t node, bool items) {
    schema__ints seen = {0};
    schema__ints_add(s, &seen, node);
    for (size_t i = 0; i < seen.n; i++)
        for (size_t k = 0; k < s->node[seen.at[i]].n_part; k++) {
            const schema__part *p = &s->node[seen.at[i]].part[k];
            if (schema__left_says(p, items)) return true;
            for (size_t j = 0; (schema__has_subs(p) || p->kind == SCHEMA__WITH) && p->kind != SCHEMA__NOT && j < p->n_sub; j++)
                if (!schema__left_in(&seen, p->sub[j])) schema__ints_add(s, &seen, p->sub[j]);
            val_step(&s->env, 1 + seen.n / 16);
        }
    return false;
}

/* Decides whether a schema holds in this case. */
static bool schema__left_choose(schema_doc *s, schema__left *l, int32_t node) {
    const char *const word = l->items ? "unevaluatedItems" : "unevaluatedProperties";
    if (l->at == sizeof l->choice)
        schema__fail(s, schema__word_at(s, l->node, word), EXIT_RESOURCE,
                     "more than %zu schemas beside it that may hold or not", sizeof l->choice);
    if (l->at == l->n_choice) l->choice[l->n_choice++] = 1;
    const bool holds = l->choice[l->at++];
    schema__ints_add(s, holds ? &l->holds : &l->fails, node);
    return holds;
}

static int32_t schema__synthetic(schema_doc *s, int32_t parent, const char *word) {
    const schema__node n = {.v = val_bool(true), .queued = true, .resource = s->node[parent].resource,
                            .parent = parent, .word = word, .index = -1};
    const int32_t      i = schema__node_new(s, n);
    schema__ints_add(s, &s->synthetic, i);
    s->n_build = 0;
    return i;
}

/* The schema that the key of a dependency is there. */
static int32_t schema__left_key(schema_doc *s, const schema__left *l, const schema__part *p) {
    const int32_t i = schema__synthetic(s, l->node, p->word);
    schema__part *q = schema__part_add(s, SCHEMA__REQUIRED, p->word, 0, 1, 0);
    q->name[0] = p->name[0];
    schema__sort_names(s, q);
    schema__parts_keep(s, i);
    return i;
}

static void schema__left_members(schema_doc *s, schema__left *l, const schema__part *p) {
    l->all |= p->rest || p->kind == SCHEMA__LEFT;
    for (size_t i = 0; i < p->n_name; i++) schema__ints_add(s, &l->names, p->name[i]);
    for (size_t i = 0; i < p->n_lang; i++) {
        l->lang = schema__room(s, l->lang, l->n_lang, &l->cap_lang, sizeof *l->lang);
        l->lang[l->n_lang++] = p->lang[i];
    }
}

static void schema__left_items(schema_doc *s, schema__left *l, const schema__part *p) {
    if (p->kind == SCHEMA__CONTAINS) {
        if (!s->old_contains) schema__ints_add(s, &l->subs, p->sub[0]);
        return;
    }
    l->all |= p->rest;
    if (p->n_sub > l->n_prefix) l->n_prefix = p->n_sub;
}

/* One part of a schema that holds. */
static void schema__left_part(schema_doc *s, schema__left *l, const schema__part *p) {
    if (schema__left_says(p, l->items)) {
        if (l->items) schema__left_items(s, l, p);
        else schema__left_members(s, l, p);
        return;
    }
    switch ((schema__kind)p->kind) {
    case SCHEMA__ALL:
        for (size_t i = 0; i < p->n_sub; i++) schema__ints_add(s, &l->todo, p->sub[i]);
        break;
    case SCHEMA__ANY: case SCHEMA__ONE:
        for (size_t i = 0; i < p->n_sub; i++)
            if (schema__left_speaks(s, p->sub[i], l->items) && schema__left_choose(s, l, p->sub[i]))
                schema__ints_add(s, &l->todo, p->sub[i]);
        break;
    case SCHEMA__IF:
        if (!schema__left_speaks(s, p->sub[0], l->items) && !schema__left_speaks(s, p->sub[1], l->items) &&
            !schema__left_speaks(s, p->sub[2], l->items))
            break;
        if (schema__left_choose(s, l, p->sub[0])) {
            schema__ints_add(s, &l->todo, p->sub[0]);
            schema__ints_add(s, &l->todo, p->sub[1]);
        } else schema__ints_add(s, &l->todo, p->sub[2]);
        break;
    case SCHEMA__WITH:
        if (!l->items && schema__left_speaks(s, p->sub[0], false) && schema__left_choose(s, l, schema__left_key(s, l, p)))
            schema__ints_add(s, &l->todo, p->sub[0]);
        break;
    default: break;
    }
}

/* What is evaluated in the case of these choices. */
static void schema__left_collect(schema_doc *s, schema__left *l) {
    l->all = false;
    l->at = l->n_lang = l->n_prefix = l->names.n = l->subs.n = l->holds.n = l->fails.n = l->todo.n = 0;
    schema__ints_add(s, &l->todo, l->node);
    for (size_t i = 0; i < l->todo.n; i++) {
        const int32_t node = l->todo.at[i];
        const bool    again = schema__left_in(&(schema__ints){.at = l->todo.at, .n = i}, node);
        val_step(&s->env, 1 + i / 16);
        for (size_t k = 0; !again && k < s->node[node].n_part; k++)
            if (node != l->node || s->node[node].part[k].kind != SCHEMA__LEFT || s->node[node].part[k].rest != l->items)
                schema__left_part(s, l, &s->node[node].part[k]);
    }
}

static void schema__left_rest_members(schema_doc *s, const schema__left *l, const char *word) {
    const size_t  n = l->names.n, m = l->n_lang;
    schema__part *p = schema__part_add(s, SCHEMA__PROPS, word, n + m + 1, n, m);
    if (n) memcpy(p->name, l->names.at, n * sizeof *p->name);
    if (m) memcpy(p->lang, l->lang, m * sizeof *p->lang);
    for (size_t i = 0; i < n + m; i++) p->sub[i] = SCHEMA__NODE_TRUE;
    p->sub[n + m] = l->sub;
    p->rest = true;
    schema__sort_names(s, p);
    if (m) p->set = schema__lang_not(s, schema__union(s, l->lang, m));
}

/* What an item after the prefix satisfies: the subschema or that of a `contains`. */
static int32_t schema__left_other(schema_doc *s, const schema__left *l, const char *word) {
    if (!l->subs.n) return l->sub;
    const int32_t i = schema__synthetic(s, l->node, word);
    schema__part *p = schema__part_add(s, SCHEMA__ANY, word, l->subs.n + 1, 0, 0);
    for (size_t k = 0; k < l->subs.n; k++) p->sub[k] = l->subs.at[k];
    p->sub[l->subs.n] = l->sub;
    schema__parts_keep(s, i);
    return i;
}

/* The node of the case that was collected. */
static int32_t schema__left_case(schema_doc *s, const schema__left *l, const char *word) {
    const int32_t other = l->items ? schema__left_other(s, l, word) : l->sub, i = schema__synthetic(s, l->node, word);
    if (l->holds.n) {
        schema__part *p = schema__part_add(s, SCHEMA__ALL, word, l->holds.n, 0, 0);
        memcpy(p->sub, l->holds.at, l->holds.n * sizeof *p->sub);
    }
    for (size_t k = 0; k < l->fails.n; k++) schema__part_add(s, SCHEMA__NOT, word, 1, 0, 0)->sub[0] = l->fails.at[k];
    if (!l->all && l->items) {
        schema__part *p = schema__part_add(s, SCHEMA__ITEMS, word, l->n_prefix + 1, 0, 0);
        for (size_t k = 0; k < l->n_prefix; k++) p->sub[k] = SCHEMA__NODE_TRUE;
        p->sub[l->n_prefix] = other;
        p->rest = true;
    } else if (!l->all) schema__left_rest_members(s, l, word);
    schema__parts_keep(s, i);
    return i;
}

/* The next combination: the last one that held does not. False: that was the last. */
static bool schema__left_next(schema__left *l) {
    while (l->n_choice && !l->choice[l->n_choice - 1]) l->n_choice--;
    if (l->n_choice) l->choice[l->n_choice - 1] = 0;
    return l->n_choice;
}

/* The cases of one keyword. */
static schema__ints schema__left_cases(schema_doc *s, int32_t node, const schema__part *left) {
    schema__left l = {.node = node, .items = left->rest, .sub = left->sub[0]};
    schema__ints cases = {0};
    s->here = node;
    do {
        if (cases.n == SCHEMA__CASES)
            schema__fail(s, schema__word_at(s, node, left->word), EXIT_RESOURCE,
                         "more than %d combinations of schemas that hold", SCHEMA__CASES);
        schema__left_collect(s, &l);
        schema__ints_add(s, &cases, schema__left_case(s, &l, left->word));
    } while (schema__left_next(&l));
    return cases;
}

/* Works out the cases of all nodes; what they are made of stays as it was read until all are there. */
static void schema__left_all(schema_doc *s) {
    schema__ints where = {0}, first = {0}, cases = {0};
    for (size_t i = 0; i < s->reached.n; i++)
        for (size_t k = 0; k < s->node[s->reached.at[i]].n_part; k++) {
            if (s->node[s->reached.at[i]].part[k].kind != SCHEMA__LEFT) continue;
            const schema__part left = s->node[s->reached.at[i]].part[k];
            const schema__ints some = schema__left_cases(s, s->reached.at[i], &left);
            schema__ints_add(s, &where, s->reached.at[i]);
            schema__ints_add(s, &where, (int32_t)k);
            schema__ints_add(s, &first, (int32_t)cases.n);
            for (size_t c = 0; c < some.n; c++) schema__ints_add(s, &cases, some.at[c]);
        }
    schema__ints_add(s, &first, (int32_t)cases.n);
    for (size_t i = 0; i + 1 < first.n; i++) {
        schema__part *p = &s->node[where.at[2 * i]].part[where.at[2 * i + 1]];
        p->kind = SCHEMA__ANY;
        p->rest = false;
        p->n_sub = (uint32_t)(first.at[i + 1] - first.at[i]);
        p->sub = cases.at + first.at[i];
    }
    for (size_t i = 0; i < s->synthetic.n; i++) schema__ints_add(s, &s->reached, s->synthetic.at[i]);
}

/* --- equal nodes become one --- */

static void schema__key_add(schema__ints *key, schema_doc *s, uint64_t v) {
    schema__ints_add(s, key, (int32_t)(uint32_t)v);
    schema__ints_add(s, key, (int32_t)(uint32_t)(v >> 32));
}

/* Equal keys: equal parts. Their nodes may still be merged, which leaves some equal parts with different keys. */
static void schema__key_part(schema__ints *key, schema_doc *s, const schema__part *p) {
    const schema__flat *f = p->flat;
    schema__key_add(key, s, p->kind | (uint64_t)p->rest << 8 | (uint64_t)p->n_sub << 32);
    schema__key_add(key, s, p->n_name | (uint64_t)p->n_lang << 32);
    schema__key_add(key, s, p->min);
    schema__key_add(key, s, p->max);
    schema__key_add(key, s, (uintptr_t)p->set);
    for (size_t i = 0; i < p->n_sub; i++) schema__ints_add(s, key, s->node[p->sub[i]].lit);
    for (size_t i = 0; i < p->n_name; i++) schema__ints_add(s, key, p->name[i]);
    for (size_t i = 0; i < p->n_lang; i++) schema__key_add(key, s, (uintptr_t)p->lang[i]);
    if (!f) return;
    schema__key_add(key, s, (uint64_t)(f->null | f->no << 1 | f->yes << 2 | f->obj << 3 | f->arr << 5));
    schema__key_add(key, s, (uintptr_t)f->str);
    schema__key_add(key, s, (uintptr_t)f->num);
}

/* The literal that stands for a node: that of its only subschema, of its negation, of an equal node, or its own. */
static int32_t schema__literal(schema_doc *s, int32_t node, schema__ints *key) {
    const schema__node *n = &s->node[node];
    if (!n->n_part) return SCHEMA__LIT_TRUE;
    const schema__part *p = n->part;
    const bool          single = n->n_part == 1 && p->n_sub == 1;
    if (n->n_part == 1 && p->kind == SCHEMA__NEVER) return SCHEMA__LIT_FALSE;
    if (single && p->sub[0] != node && (p->kind == SCHEMA__ALL || p->kind == SCHEMA__ANY || p->kind == SCHEMA__ONE))
        return s->node[p->sub[0]].lit;
    if (single && p->kind == SCHEMA__NOT) return SCHEMA__NEG(s->node[p->sub[0]].lit);
    key->n = 0;
    for (size_t i = 0; i < n->n_part; i++) schema__key_part(key, s, &n->part[i]);
    val_step(&s->env, key->n / 16);
    hmap_entry *en = schema__once(s, SCHEMA__OF_NODE, (bytes){(const uint8_t *)key->at, key->n * sizeof *key->at});
    if (!schema__once_get(en)) schema__once_set(en, (uint32_t)node + 1);
    return 2 * ((int32_t)schema__once_get(en) - 1);
}

/* The literal of a node. Literals of references to nodes that came later are followed. */
static int32_t schema__lit(schema_doc *s, int32_t node) {
    int32_t lit = 2 * node;
    for (size_t steps = 0; s->node[lit >> 1].lit != (lit & ~1); steps++) {
        if (steps > s->n_node)
            schema__fail(s, schema__at(s, node), EXIT_INPUT, "the references lead back to this schema without an end");
        lit = s->node[lit >> 1].lit ^ (lit & 1);
    }
    return lit;
}

/* --- conjunctions --- */

/* The conjunction of n literals, sorted and each one once. */
static schema_conj schema__conj_of(schema_doc *s, const int32_t *lit, size_t n) {
    if (n == 1 && lit[0] == SCHEMA__LIT_FALSE) return SCHEMA_FALSE;
    hmap_entry *en = schema__once(s, SCHEMA__OF_CONJ, (bytes){(const uint8_t *)lit, n * sizeof *lit});
    if (schema__once_get(en)) return (int32_t)schema__once_get(en) - 1;
    s->conj = schema__room(s, s->conj, s->n_conj, &s->cap_conj, sizeof *s->conj);
    schema__conj *c = &s->conj[s->n_conj++];
    *c = (schema__conj){.lit = val_alloc(&s->env, n, sizeof *lit), .n = (uint32_t)n};
    if (n) memcpy(c->lit, lit, n * sizeof *lit);
    schema__once_set(en, (uint32_t)s->n_conj);
    return (int32_t)s->n_conj - 1;
}

static schema_conj schema__conj_lit(schema_doc *s, int32_t lit) {
    return lit == SCHEMA__LIT_TRUE ? SCHEMA_TRUE : schema__conj_of(s, &lit, 1);
}
static schema_conj schema__conj_node(schema_doc *s, int32_t node, bool neg) {
    return schema__conj_lit(s, schema__lit(s, node) ^ neg);
}

/* Whether a has all literals of b: its values are values of b. */
static bool schema__conj_within(const schema_doc *s, schema_conj a, schema_conj b) {
    if (a == b || b == SCHEMA_TRUE || a == SCHEMA_FALSE) return true;
    const schema__conj *x = &s->conj[a], *y = &s->conj[b];
    size_t              i = 0;
    if (b == SCHEMA_FALSE || y->n > x->n) return false;
    for (size_t j = 0; j < y->n; j++) {
        while (i < x->n && x->lit[i] < y->lit[j]) i++;
        if (i == x->n || x->lit[i] != y->lit[j]) return false;
    }
    return true;
}

/* --- values without parts: sets --- */

/* Puts a node on a stack of work, unless it is done. busy: its bit. */
static bool schema__push(schema_doc *s, schema__ints *stack, int32_t task, int32_t node, uint8_t busy, bool done) {
    if (done) return false;
    if (s->node[node].busy & busy)
        schema__fail(s, schema__at(s, node), EXIT_INPUT, "this schema refers to itself for the same value, so it says nothing");
    schema__ints_add(s, stack, task);
    return true;
}

enum { SCHEMA__BUSY_FLAT = 16 };                      /* the four bits before it are tasks of alternatives */

/* Pushes the nodes whose sets this one needs and that are not there. */
static bool schema__flat_needs(schema_doc *s, int32_t node, schema__ints *stack) {
    bool more = false;
    for (size_t i = 0; i < s->node[node].n_part; i++) {
        const schema__part *p = &s->node[node].part[i];
        for (size_t k = 0; schema__has_subs(p) && k < p->n_sub; k++) {
            const int32_t sub = schema__lit(s, p->sub[k]) >> 1;
            more |= schema__push(s, stack, sub, sub, SCHEMA__BUSY_FLAT, s->node[sub].flat != NULL);
        }
    }
    return more;
}

static schema__flat schema__flat_sub(schema_doc *s, const schema__part *p, size_t i) {
    const int32_t lit = schema__lit(s, p->sub[i]);
    return lit & 1 ? schema__flat_not(s, *s->node[lit >> 1].flat) : *s->node[lit >> 1].flat;
}

/* What satisfies some of the subschemas (any), and what satisfies just one, of n pairs that are combined pair by pair. */
static schema__flat schema__flat_one(schema_doc *s, const schema__part *p, bool one) {
    schema__flat *any = val_alloc(&s->env, p->n_sub, sizeof *any), *just = val_alloc(&s->env, p->n_sub, sizeof *just);
    for (size_t i = 0; i < p->n_sub; i++) any[i] = just[i] = schema__flat_sub(s, p, i);
    for (size_t n = p->n_sub; n > 1; n = (n + 1) / 2)
        for (size_t i = 0; i < n; i += 2) {
            const schema__flat a = any[i], b = any[i + (i + 1 < n)], x = just[i], y = just[i + (i + 1 < n)];
            any[i / 2] = i + 1 < n ? schema__flat_or(s, a, b) : a;
            just[i / 2] = x;
            if (!one || i + 1 == n) continue;
            just[i / 2] = schema__flat_or(s, schema__flat_and(s, x, schema__flat_not(s, b)),
                                          schema__flat_and(s, y, schema__flat_not(s, a)));
        }
    return one ? just[0] : any[0];
}

/* What a part lets pass. Parts of objects and arrays let pass all else. */
static schema__flat schema__flat_part_of(schema_doc *s, const schema__part *p) {
    schema__flat f = schema__flat_all(s);
    switch ((schema__kind)p->kind) {
    case SCHEMA__NEVER: return schema__flat_none(s);
    case SCHEMA__ALL:
        for (size_t i = 0; i < p->n_sub; i++) f = schema__flat_and(s, f, schema__flat_sub(s, p, i));
        return f;
    case SCHEMA__ANY: return schema__flat_one(s, p, false);
    case SCHEMA__ONE: return schema__flat_one(s, p, true);
    case SCHEMA__NOT: return schema__flat_not(s, schema__flat_sub(s, p, 0));
    case SCHEMA__IF:
        f = schema__flat_sub(s, p, 0);
        return schema__flat_or(s, schema__flat_and(s, f, schema__flat_sub(s, p, 1)),
                               schema__flat_and(s, schema__flat_not(s, f), schema__flat_sub(s, p, 2)));
    case SCHEMA__TYPE: case SCHEMA__ENUM: return *p->flat;
    case SCHEMA__STRING: f.str = p->set; return f;
    case SCHEMA__LEN: f.str = schema__lang(s, lang_length(s->langs, p->min, p->max)); return f;
    case SCHEMA__NUMBER: f.num = p->set; return f;
    case SCHEMA__PROPS: case SCHEMA__NAMES: case SCHEMA__REQUIRED: case SCHEMA__COUNT: case SCHEMA__NEEDS: case SCHEMA__WITH:
        f.obj = SCHEMA__SOME;
        return f;
    case SCHEMA__ITEMS: case SCHEMA__LENGTHS: case SCHEMA__CONTAINS: case SCHEMA__UNIQUE: f.arr = SCHEMA__SOME; return f;
    case SCHEMA__LEFT: break;
    }
    return f;
}

static void schema__flat_make(schema_doc *s, int32_t node) {
    schema__flat *f = val_alloc(&s->env, 1, sizeof *f);
    *f = schema__flat_all(s);
    s->here = node;
    for (size_t i = 0; i < s->node[node].n_part; i++)
        *f = schema__flat_and(s, *f, schema__flat_part_of(s, &s->node[node].part[i]));
    s->node[node].flat = f;
}

/* The set of a literal. */
static schema__flat schema__flat_of(schema_doc *s, int32_t lit) {
    const int32_t here = s->here;
    schema__ints  stack = {0};
    schema__push(s, &stack, lit >> 1, lit >> 1, SCHEMA__BUSY_FLAT, s->node[lit >> 1].flat != NULL);
    while (stack.n) {
        const int32_t node = stack.at[stack.n - 1];
        const bool    done = s->node[node].flat != NULL;
        val_step(&s->env, 1);
        if (!done) s->node[node].busy |= SCHEMA__BUSY_FLAT;
        if (!done && schema__flat_needs(s, node, &stack)) continue;
        if (!done) schema__flat_make(s, node);
        s->node[node].busy &= (uint8_t)~SCHEMA__BUSY_FLAT;
        stack.n--;
    }
    if ((lit & 1) && !s->node[lit >> 1].flat_not) {
        const schema__flat f = schema__flat_not(s, *s->node[lit >> 1].flat);
        s->node[lit >> 1].flat_not = val_alloc(&s->env, 1, sizeof f);
        *s->node[lit >> 1].flat_not = f;
    }
    s->here = here;
    return lit & 1 ? *s->node[lit >> 1].flat_not : *s->node[lit >> 1].flat;
}

/* Whether the set of a has no value of b, as far as the sets say. */
static bool schema__flat_apart(schema_doc *s, const schema__flat *a, const schema__flat *b) {
    if ((a->obj && b->obj) || (a->arr && b->arr) || (a->null && b->null) || (a->no && b->no) || (a->yes && b->yes)) return false;
    return schema__lang_and(s, a->str, b->str) == s->none && schema__num_and(s, a->num, b->num) == s->none;
}

/* Drops negations of what the other literals exclude already: of {const: 1} and not {const: 2} only the first stays.
 * Returns how many literals are left. */
static size_t schema__conj_implied(schema_doc *s, int32_t *lit, size_t n) {
    schema__flat f = schema__flat_all(s);
    size_t       n_neg = 0, left = 0;
    for (size_t i = 0; i < n; i++) n_neg += lit[i] & 1;
    if (!n_neg || n_neg == n) return n;
    for (size_t i = 0; i < n; i++)
        if (!(lit[i] & 1)) f = schema__flat_and(s, f, schema__flat_of(s, lit[i]));
    for (size_t i = 0; i < n; i++) {
        const schema__flat other = lit[i] & 1 ? schema__flat_of(s, SCHEMA__NEG(lit[i])) : f;
        if (!(lit[i] & 1) || !schema__flat_apart(s, &f, &other)) lit[left++] = lit[i];
    }
    return left;
}

static schema_conj schema__conj_and(schema_doc *s, schema_conj a, schema_conj b) {
    if (a == b || b == SCHEMA_TRUE) return a;
    if (a == SCHEMA_TRUE) return b;
    if (a == SCHEMA_FALSE || b == SCHEMA_FALSE) return SCHEMA_FALSE;
    const schema__conj x = s->conj[a], y = s->conj[b];
    int32_t           *lit = val_alloc(&s->env, (uint64_t)x.n + y.n, sizeof *lit);
    size_t             n = 0;
    for (size_t i = 0, j = 0; i < x.n || j < y.n;) {
        const int32_t next = j == y.n || (i < x.n && x.lit[i] <= y.lit[j]) ? x.lit[i] : y.lit[j];
        i += i < x.n && x.lit[i] == next;
        j += j < y.n && y.lit[j] == next;
        if (n && lit[n - 1] == SCHEMA__NEG(next)) return SCHEMA_FALSE;
        lit[n++] = next;
    }
    val_step(&s->env, 1 + n / 8);
    return schema__conj_of(s, lit, schema__conj_implied(s, lit, n));
}

static schema__flat schema__flat_conj(schema_doc *s, schema_conj c) {
    schema__flat f = schema__flat_all(s);
    if (c == SCHEMA_FALSE) return schema__flat_none(s);
    if (s->conj[c].flat) return *s->conj[c].flat;
    for (size_t i = 0; i < s->conj[c].n; i++) f = schema__flat_and(s, f, schema__flat_of(s, s->conj[c].lit[i]));
    s->conj[c].flat = val_alloc(&s->env, 1, sizeof f);
    return *s->conj[c].flat = f;
}

/* Whether it is plain that nothing satisfies the conjunction. */
static bool schema__barren(schema_doc *s, schema_conj c) {
    if (c == SCHEMA_TRUE || c == SCHEMA_FALSE) return c == SCHEMA_FALSE;
    if (!s->conj[c].barren) {
        const schema__flat f = schema__flat_conj(s, c);
        s->conj[c].barren = f.null || f.no || f.yes || f.obj || f.arr || f.str != s->none || f.num != s->none ? 1 : 2;
    }
    return s->conj[c].barren == 2;
}

/* --- objects and arrays: alternatives --- */

static void schema__alts_add(schema_doc *s, schema__alts *l, schema__alt *a) {
    if (!a) return;
    if (s->soft && l->n >= SCHEMA__SOFT) {
        s->spilled = true;
        return;
    }
    if (l->n >= SCHEMA__ALTS) schema__fail(s, schema__at(s, s->here), EXIT_RESOURCE, "more than %d alternatives", SCHEMA__ALTS);
    l->at = schema__room(s, l->at, l->n, &l->cap, sizeof *l->at);
    l->at[l->n++] = a;
}

/* An alternative that everything satisfies. */
static schema__alt *schema__alt_new(schema_doc *s) {
    schema__alt *a = val_alloc(&s->env, 1, sizeof *a);
    a->max = UINT64_MAX;
    return a;
}

/* New alternatives with one assertion each. */
static schema__alt *schema__alt_key(schema_doc *s, int32_t name, schema_conj value, bool required) {
    schema__alt *a = schema__alt_new(s);
    if (required && schema__barren(s, value)) return NULL;
    a->key = val_alloc(&s->env, 1, sizeof *a->key);
    a->key[a->n_key++] = (schema__key){name, value, required};
    a->min = required;
    return a;
}

static schema__alt *schema__alt_some(schema_doc *s, const lang *keys, schema_conj value) {
    schema__alt *a = schema__alt_new(s);
    if (keys == s->none || schema__barren(s, value)) return NULL;
    a->some = val_alloc(&s->env, 1, sizeof *a->some);
    a->some[a->n_some++] = (schema_some){keys, value, 1, UINT64_MAX};
    a->min = 1;
    return a;
}

static schema__alt *schema__alt_gen(schema_doc *s, const lang *keys, const schema__part *but, schema_conj value) {
    schema__alt *a = schema__alt_new(s);
    if (keys == s->none || value == SCHEMA_TRUE) return a;
    a->gen = val_alloc(&s->env, 1, sizeof *a->gen);
    a->gen[a->n_gen++] = (schema__gen){keys == s->all ? NULL : keys, but && but->n_name ? but : NULL, value};
    return a;
}

static schema__alt *schema__alt_contains(schema_doc *s, schema_conj value, uint64_t from, uint64_t min, uint64_t max) {
    schema__alt *a = schema__alt_new(s);
    a->contains = val_alloc(&s->env, 1, sizeof *a->contains);
    a->contains[a->n_contains++] = (schema_contains){value, from, min, max};
    return a;
}

/* --- "and" of two alternatives --- */

static bool schema__gen_covers(const schema_doc *s, const schema__gen *g, int32_t name) {
    return (!g->keys || lang_has(g->keys, s->name[name])) && !(g->but && schema__has_name(g->but, name));
}

/* Begins a set of names: the keys of a. */
static void schema__seen_begin(schema_doc *s, const schema__alt *a) {
    if (s->cap_seen < s->n_name) {
        s->cap_seen = s->n_name + 64;
        s->seen = val_alloc(&s->env, s->cap_seen, sizeof *s->seen);
        s->place = val_alloc(&s->env, s->cap_seen, sizeof *s->place);
        s->n_seen = 0;
    }
    s->n_seen++;
    for (size_t i = 0; i < a->n_key; i++) s->seen[a->key[i].name] = s->n_seen, s->place[a->key[i].name] = (uint32_t)i;
}

static void schema__merge_keys(schema_doc *s, schema__alt *r, const schema__alt *a, const schema__alt *b) {
    schema__seen_begin(s, r);
    r->key = val_alloc(&s->env, (uint64_t)a->n_key + b->n_key, sizeof *r->key);
    for (size_t i = 0; i < a->n_key + b->n_key; i++) {
        const schema__key k = i < a->n_key ? a->key[i] : b->key[i - a->n_key];
        if (s->seen[k.name] == s->n_seen) {
            schema__key *same = &r->key[s->place[k.name]];
            same->value = schema__conj_and(s, same->value, k.value);
            same->required |= k.required;
            continue;
        }
        s->seen[k.name] = s->n_seen;
        s->place[k.name] = r->n_key;
        r->key[r->n_key++] = k;
    }
}

static void schema__merge_gens(schema_doc *s, schema__alt *r, const schema__alt *a, const schema__alt *b) {
    r->gen = val_alloc(&s->env, (uint64_t)a->n_gen + b->n_gen, sizeof *r->gen);
    for (size_t i = 0; i < a->n_gen + b->n_gen; i++) {
        const schema__gen g = i < a->n_gen ? a->gen[i] : b->gen[i - a->n_gen];
        size_t            k = 0;
        while (k < r->n_gen && (r->gen[k].keys != g.keys || r->gen[k].but != g.but)) k++;
        if (k < r->n_gen) r->gen[k].value = schema__conj_and(s, r->gen[k].value, g.value);
        else r->gen[r->n_gen++] = g;
    }
}

static bool schema__some_equal(const schema_some *x, const schema_some *y) {
    return x->keys == y->keys && x->value == y->value && x->min == y->min && x->max == y->max;
}

static void schema__merge_somes(schema_doc *s, schema__alt *r, const schema__alt *a, const schema__alt *b) {
    r->some = val_alloc(&s->env, (uint64_t)a->n_some + b->n_some, sizeof *r->some);
    for (size_t i = 0; i < a->n_some + b->n_some; i++) {
        const schema_some o = i < a->n_some ? a->some[i] : b->some[i - a->n_some];
        size_t            k = 0;
        while (k < r->n_some && !schema__some_equal(&r->some[k], &o)) k++;
        if (k == r->n_some) r->some[r->n_some++] = o;
    }
}

/* The only key that may satisfy the obligation, where no other keys than declared ones may come; -1: several, -2: none. */
static int schema__some_key(schema_doc *s, const schema__alt *a, const schema_some *o) {
    int found = -2;
    for (size_t i = 0; i < a->n_key; i++) {
        const schema__key *k = &a->key[i];
        if (k->value == SCHEMA_FALSE || !lang_has(o->keys, s->name[k->name]) ||
            schema__barren(s, schema__conj_and(s, k->value, o->value)))
            continue;
        if (found != -2) return -1;
        found = (int)i;
    }
    return found;
}

/* Replaces obligations that only one key can satisfy. False: one that none can. */
static bool schema__settle_somes(schema_doc *s, schema__alt *a) {
    size_t n = 0;
    for (size_t i = 0; i < a->n_some; i++) {
        const int k = a->some[i].max == UINT64_MAX && a->some[i].min == 1 ? schema__some_key(s, a, &a->some[i]) : -1;
        if (k == -2) return false;
        if (k == -1) {
            a->some[n++] = a->some[i];
            continue;
        }
        a->key[k].value = schema__conj_and(s, a->key[k].value, a->some[i].value);
        a->key[k].required = true;
    }
    a->n_some = (uint32_t)n;
    return true;
}

/* What the languages of keys say of the declared ones. False: a required key cannot come. */
static bool schema__settle_keys(schema_doc *s, schema__alt *a) {
    for (size_t i = 0; i < a->n_key; i++) {
        schema__key *k = &a->key[i];
        for (size_t g = 0; g < a->n_gen && k->value != SCHEMA_FALSE; g++)
            if (!schema__conj_within(s, k->value, a->gen[g].value) && schema__gen_covers(s, &a->gen[g], k->name))
                k->value = schema__conj_and(s, k->value, a->gen[g].value);
        if (schema__barren(s, k->value)) k->value = SCHEMA_FALSE;
        if (k->value == SCHEMA_FALSE && k->required) return false;
    }
    val_step(&s->env, 1 + a->n_key / 4 + (uint64_t)a->n_key * a->n_gen / 4);
    return true;
}

/* Works off what can be said more plainly. False: nothing satisfies it. */
static bool schema__settle_object(schema_doc *s, schema__alt *a) {
    bool     closed = false;
    uint64_t need = 0, may = 0;
    for (size_t i = 0; i < a->n_gen; i++) {
        if (schema__barren(s, a->gen[i].value)) a->gen[i].value = SCHEMA_FALSE;
        closed |= !a->gen[i].keys && a->gen[i].value == SCHEMA_FALSE;
    }
    if (!schema__settle_keys(s, a)) return false;
    if (closed && !schema__settle_somes(s, a)) return false;
    for (size_t i = 0; i < a->n_key; i++) need += a->key[i].required, may += a->key[i].value != SCHEMA_FALSE;
    if (a->min < need) a->min = need;
    if (a->n_some && !a->min) a->min = 1;
    if (closed && a->max > may) a->max = may;
    return a->min <= a->max;
}

static void schema__merge_prefix(schema_doc *s, schema__alt *r, const schema__alt *a, const schema__alt *b) {
    r->n_prefix = a->n_prefix > b->n_prefix ? a->n_prefix : b->n_prefix;
    r->prefix = val_alloc(&s->env, r->n_prefix, sizeof *r->prefix);
    for (size_t i = 0; i < r->n_prefix; i++)
        r->prefix[i] = schema__conj_and(s, i < a->n_prefix ? a->prefix[i] : a->rest, i < b->n_prefix ? b->prefix[i] : b->rest);
    r->rest = schema__conj_and(s, a->rest, b->rest);
    val_step(&s->env, 1 + r->n_prefix / 8);
}

static void schema__merge_contains(schema_doc *s, schema__alt *r, const schema__alt *a, const schema__alt *b) {
    r->contains = val_alloc(&s->env, (uint64_t)a->n_contains + b->n_contains, sizeof *r->contains);
    for (size_t i = 0; i < a->n_contains + b->n_contains; i++) {
        const schema_contains c = i < a->n_contains ? a->contains[i] : b->contains[i - a->n_contains];
        size_t                k = 0;
        while (k < r->n_contains && (r->contains[k].value != c.value || r->contains[k].from != c.from)) k++;
        if (k == r->n_contains) r->contains[r->n_contains++] = c;
        if (r->contains[k].min < c.min) r->contains[k].min = c.min;
        if (r->contains[k].max > c.max) r->contains[k].max = c.max;
    }
}

/* Whether each item from c->from on plainly has a value of it. */
static bool schema__counts_all(schema_doc *s, const schema__alt *a, const schema_contains *c) {
    bool all = c->value == SCHEMA_TRUE || a->rest == SCHEMA_FALSE || schema__conj_and(s, a->rest, c->value) == a->rest;
    for (size_t i = c->from; all && c->value != SCHEMA_TRUE && i < a->n_prefix; i++)
        all = schema__conj_and(s, a->prefix[i], c->value) == a->prefix[i];
    return all;
}

/* One count of items. False: it cannot be reached; *drop: it says nothing. */
static bool schema__settle_contains(schema_doc *s, schema__alt *a, schema_contains *c, bool *drop) {
    if (c->min > c->max || (c->min && schema__barren(s, c->value))) return false;
    *drop = schema__barren(s, c->value) || (!c->min && c->max == UINT64_MAX) || a->max <= c->from;
    if (c->min) {
        if (c->min > UINT64_MAX - 1 - c->from) c->min = UINT64_MAX - 1 - c->from;
        if (a->min < c->from + c->min) a->min = c->from + c->min;
    }
    if (!schema__counts_all(s, a, c)) return true;
    *drop = true;
    if (c->max < UINT64_MAX - c->from && a->max > c->from + c->max) a->max = c->from + c->max;
    return true;
}

/* Cuts what lies after the largest number of items, and items that are like all further ones. */
static void schema__settle_ends(schema__alt *a) {
    if (a->n_prefix > a->max) a->n_prefix = (uint32_t)a->max;
    if (a->n_prefix >= a->max) a->rest = SCHEMA_FALSE;
    while (a->n_prefix && a->rest != SCHEMA_FALSE && a->prefix[a->n_prefix - 1] == a->rest) a->n_prefix--;
    if (a->max <= 1) a->unique = false;
}

static bool schema__settle_array(schema_doc *s, schema__alt *a) {
    size_t n = 0;
    if (schema__barren(s, a->rest)) a->rest = SCHEMA_FALSE;
    if (a->rest == SCHEMA_FALSE && a->max > a->n_prefix) a->max = a->n_prefix;
    for (size_t i = 0; i < a->n_prefix && i < a->max; i++)
        if (schema__barren(s, a->prefix[i])) a->max = i;
    for (size_t i = 0; i < a->n_contains; i++) {
        bool drop;
        if (!schema__settle_contains(s, a, &a->contains[i], &drop)) return false;
        if (!drop) a->contains[n++] = a->contains[i];
    }
    a->n_contains = (uint32_t)n;
    schema__settle_ends(a);
    return a->min <= a->max;
}

static uint64_t schema__mix(const schema_doc *s, uint64_t a, uint64_t b, uint64_t c) {
    return rng_mix(rng_mix(rng_mix(s->map.seed ^ a) ^ b) ^ c);
}

/* Equal alternatives have equal hashes, whatever the order of their keys. The seed is secret: a schema cannot be written so that
 * two of its alternatives are taken for one. */
static void schema__alt_hash(const schema_doc *s, schema__alt *a) {
    uint64_t h = schema__mix(s, a->min, a->max, (uint64_t)a->rest << 1 | a->unique) ^ (uintptr_t)a->repeats;
    for (size_t i = 0; i < a->n_key; i++)
        h += schema__mix(s, (uint64_t)a->key[i].name, (uint64_t)a->key[i].value, 2 + a->key[i].required);
    for (size_t i = 0; i < a->n_gen; i++)
        h += schema__mix(s, (uintptr_t)a->gen[i].keys, (uintptr_t)a->gen[i].but, (uint64_t)a->gen[i].value);
    for (size_t i = 0; i < a->n_some; i++)
        h += schema__mix(s, (uintptr_t)a->some[i].keys, (uint64_t)a->some[i].value, a->some[i].min ^ rng_mix(a->some[i].max));
    for (size_t i = 0; i < a->n_prefix; i++) h += schema__mix(s, i, (uint64_t)a->prefix[i], 3);
    for (size_t i = 0; i < a->n_contains; i++)
        h += schema__mix(s, (uint64_t)a->contains[i].value, a->contains[i].from,
                         a->contains[i].min ^ rng_mix(a->contains[i].max));
    a->hash = h;
}

/* Whether it is the alternative that everything satisfies. */
static bool schema__alt_any(const schema__alt *a) {
    return !a->min && a->max == UINT64_MAX && a->rest == SCHEMA_TRUE && !a->unique && !a->repeats && !a->n_key && !a->n_gen &&
           !a->n_some && !a->n_prefix && !a->n_contains;
}

/* Both; NULL: nothing satisfies them. */
static schema__alt *schema__alt_and(schema_doc *s, const schema__alt *a, const schema__alt *b, bool arr) {
    schema__alt *r = schema__alt_new(s);
    r->min = max_u64(a->min, b->min);
    r->max = min_u64(a->max, b->max);
    r->repeats = a->repeats ? a->repeats : b->repeats;
    val_step(&s->env, 2);
    if (r->min > r->max) return NULL;
    if (arr) {
        r->unique = a->unique || b->unique;
        if (r->unique && r->repeats) return NULL;
        schema__merge_prefix(s, r, a, b);
        schema__merge_contains(s, r, a, b);
    } else {
        schema__merge_keys(s, r, a, b);
        schema__merge_gens(s, r, a, b);
        schema__merge_somes(s, r, a, b);
    }
    if (!(arr ? schema__settle_array(s, r) : schema__settle_object(s, r))) return NULL;
    schema__alt_hash(s, r);
    return r;
}

/* Whether each value of a is plainly one of b. */
static bool schema__alt_within(schema_doc *s, const schema__alt *a, const schema__alt *b) {
    if (b->repeats || a->min < b->min || a->max > b->max || (b->unique && !a->unique) || b->n_contains ||
        b->n_prefix || !schema__conj_within(s, a->rest, b->rest))
        return false;
    for (size_t i = 0; i < a->n_prefix; i++)
        if (!schema__conj_within(s, a->prefix[i], b->rest)) return false;
    for (size_t i = 0; i < b->n_gen; i++) {
        size_t k = 0;
        while (k < a->n_gen && (a->gen[k].keys != b->gen[i].keys || a->gen[k].but != b->gen[i].but ||
                                !schema__conj_within(s, a->gen[k].value, b->gen[i].value)))
            k++;
        if (k == a->n_gen) return false;
    }
    for (size_t i = 0; i < b->n_some; i++) {
        size_t k = 0;
        while (k < a->n_some && !schema__some_equal(&a->some[k], &b->some[i])) k++;
        if (k == a->n_some) return false;
    }
    schema__seen_begin(s, a);
    for (size_t i = 0; i < b->n_key; i++) {
        const schema__key *y = &b->key[i];
        const bool         there = s->seen[y->name] == s->n_seen;
        const schema__key  x = there ? a->key[s->place[y->name]] : (schema__key){y->name, SCHEMA_TRUE, false};
        if ((y->required && !x.required) || !schema__conj_within(s, x.value, y->value)) return false;
    }
    val_step(&s->env, 1 + (a->n_key + b->n_key) / 8);
    return true;
}

/* Drops alternatives that are equal to others, and in short lists those that lie within others. */
static void schema__alts_reduce(schema_doc *s, schema__alts *l) {
    size_t n = 0;
    val_step(&s->env, l->n * l->n / 64);
    for (size_t i = 0; i < l->n; i++) {
        bool drop = false;
        for (size_t k = 0; k < n && !drop; k++) drop = l->at[k]->hash == l->at[i]->hash;
        if (!drop) l->at[n++] = l->at[i];
    }
    l->n = n;
    if (n > SCHEMA__ABSORB) return;
    n = 0;
    for (size_t i = 0; i < l->n; i++) {
        bool drop = false;
        for (size_t k = 0; k < l->n && !drop; k++) drop = (k < n || k > i) && schema__alt_within(s, l->at[i], l->at[k]);
        if (!drop) l->at[n++] = l->at[i];
    }
    l->n = n;
}

/* "And" of two lists. */
static schema__alts schema__alts_and(schema_doc *s, schema__alts a, schema__alts b, bool arr) {
    schema__alts r = {.part = a.part || b.part};
    if (a.n == 1 && schema__alt_any(a.at[0])) return b;
    if (b.n == 1 && schema__alt_any(b.at[0])) return a;
    for (size_t i = 0; i < a.n; i++)
        for (size_t k = 0; k < b.n; k++) schema__alts_add(s, &r, schema__alt_and(s, a.at[i], b.at[k], arr));
    if (r.n > 1) schema__alts_reduce(s, &r);
    return r;
}

/* Whether a key that has to come in a or in b has no value in both. The keys of a are the set of names. */
static bool schema__keys_apart(schema_doc *s, const schema__alt *a, const schema__alt *b) {
    for (size_t i = 0; i < b->n_key; i++) {
        const schema__key *y = &b->key[i], *x = s->seen[y->name] == s->n_seen ? &a->key[s->place[y->name]] : NULL;
        if (!x || (!x->required && !y->required) || x->value == y->value) continue;
        const schema__flat f = schema__flat_conj(s, x->value), g = schema__flat_conj(s, y->value);
        if (schema__flat_apart(s, &f, &g)) return true;
    }
    val_step(&s->env, 1);
    return false;
}

/* Whether an alternative plainly has no value in common with those of a list. */
static bool schema__alt_apart(schema_doc *s, const schema__alt *a, const schema__alts *l, bool arr) {
    for (size_t i = 0; i < l->n; i++) {
        schema__seen_begin(s, a);
        if (!schema__keys_apart(s, a, l->at[i]) && schema__alt_and(s, a, l->at[i], arr)) return false;
    }
    return true;
}

/* The values of a key that each alternative of a list needs, or (may) declares. False: not each one does. */
static bool schema__key_values(schema_doc *s, const schema__alts *l, int32_t name, bool may, schema__flat *out) {
    *out = schema__flat_none(s);
    for (size_t i = 0; i < l->n; i++) {
        const schema__alt *a = l->at[i];
        size_t             k = 0;
        while (k < a->n_key && (a->key[k].name != name || !(may || a->key[k].required))) k++;
        val_step(&s->env, 1 + k / 16);
        if (k == a->n_key) return false;
        *out = schema__flat_or(s, *out, schema__flat_conj(s, a->key[k].value));
    }
    return true;
}

/* Whether the values of a key that all of n lists need, or (may) declare, tell them apart: unions of two at a time, up to
 * the union of all. */
static bool schema__apart_by(schema_doc *s, const schema__alts *l, size_t n, int32_t name, bool may) {
    schema__flat *any = val_alloc(&s->env, n, sizeof *any);
    for (size_t i = 0; i < n; i++)
        if (!schema__key_values(s, &l[i], name, may, &any[i])) return false;
    for (; n > 1; n = (n + 1) / 2)
        for (size_t i = 0; i < n; i += 2) {
            if (i + 1 < n && !schema__flat_apart(s, &any[i], &any[i + 1])) return false;
            any[i / 2] = i + 1 < n ? schema__flat_or(s, any[i], any[i + 1]) : any[i];
        }
    return true;
}

/* A key by which objects of n lists of alternatives can be distinguished; -1: there is none. may:
 * also a key that is not required, for the objects that have it. */
static int32_t schema__apart_key(schema_doc *s, const schema__alts *l, size_t n, bool may) {
    size_t first = 0;
    for (size_t i = 0; i < n; i++)
        if (l[i].part) return -1;                     /* of what is left out nothing is known */
    while (first < n && !l[first].n) first++;
    const schema__alt *a = first < n ? l[first].at[0] : NULL;
    for (size_t k = 0; a && k < a->n_key; k++)
        if ((may || a->key[k].required) && schema__apart_by(s, l, n, a->key[k].name, may)) return a->key[k].name;
    return -1;
}

/* The alternatives of a list in which a key comes. */
static schema__alts schema__with_key(schema_doc *s, const schema__alts *l, int32_t name) {
    schema__alts       out = {.part = true};
    const schema__alt *there = schema__alt_key(s, name, SCHEMA_TRUE, true);
    for (size_t i = 0; i < l->n; i++) schema__alts_add(s, &out, schema__alt_and(s, l->at[i], there, false));
    return out;
}

/* --- the alternatives of literals --- */

/* A task: literal and whether arrays are meant. */
static uint8_t        schema__task(int32_t lit, bool arr) { return (uint8_t)((lit & 1) << 1 | arr); }
static schema__alts **schema__memo(schema_doc *s, int32_t lit, bool arr) {
    return &s->node[lit >> 1].alts[schema__task(lit, arr)];
}

/* Known without its parts: all, none, or worked out earlier. False: it is not known. */
static bool schema__alts_known(schema_doc *s, int32_t lit, bool arr, schema__alts *out) {
    const schema__flat  f = schema__flat_of(s, lit);
    const schema__alts *memo = *schema__memo(s, lit, arr);
    const uint8_t       some = arr ? f.arr : f.obj;
    *out = (schema__alts){0};
    if (some == SCHEMA__EVERY) schema__alts_add(s, out, schema__alt_new(s));
    else if (some == SCHEMA__SOME && memo) *out = *memo;
    return some != SCHEMA__SOME || memo;
}

/* Pushes the task unless its answer is known. */
static bool schema__alts_push(schema_doc *s, schema__ints *stack, int32_t lit, bool arr) {
    schema__alts known;
    if (schema__alts_known(s, lit, arr, &known)) return false;
    return schema__push(s, stack, lit * 2 + arr, lit >> 1, (uint8_t)(1 << schema__task(lit, arr)), false);
}

/* Pushes the tasks that a part of a literal needs. */
static bool schema__part_needs(schema_doc *s, const schema__part *p, bool neg, bool arr, schema__ints *stack) {
    bool more = false;
    if (!schema__has_subs(p) && p->kind != SCHEMA__ENUM && (p->kind != SCHEMA__WITH || arr)) return false;
    for (size_t i = 0; i < p->n_sub; i++) {
        const int32_t lit = schema__lit(s, p->sub[i]);
        const bool    both = p->kind == SCHEMA__IF && i == 0,
                      none = neg && (p->kind == SCHEMA__ANY || p->kind == SCHEMA__ONE || p->kind == SCHEMA__ENUM);
        const bool    turn = !none && (p->kind == SCHEMA__NOT) != neg;
        if (both || !turn) more |= schema__alts_push(s, stack, lit, arr);
        if (both || turn) more |= schema__alts_push(s, stack, SCHEMA__NEG(lit), arr);
    }
    return more;
}

static schema__alts schema__alts_get(schema_doc *s, int32_t lit, bool arr) {
    schema__alts  l;
    const bool    known = schema__alts_known(s, lit, arr, &l);
    ASSERT(known);
    return l;
}

static schema__alts schema__sub(schema_doc *s, const schema__part *p, size_t i, bool neg, bool arr) {
    return schema__alts_get(s, schema__lit(s, p->sub[i]) ^ neg, arr);
}

static void schema__alts_join(schema_doc *s, schema__alts *l, schema__alts more) {
    for (size_t i = 0; i < more.n; i++) schema__alts_add(s, l, more.at[i]);
    l->part |= more.part;
}

static void schema__alts_put(schema_doc *s, schema__alts *l, schema__alt *a) {
    if (a) schema__alt_hash(s, a);
    schema__alts_add(s, l, a);
}

static schema__alts schema__alts_of(schema_doc *s, schema__alt *a) {
    schema__alts l = {0};
    schema__alts_put(s, &l, a);
    return l;
}

static schema__alts schema__alts_true(schema_doc *s) { return schema__alts_of(s, schema__alt_new(s)); }

/* The alternatives of l that are none of the literal. Those that are apart from it stay as they are; its negation is
 * asked for where one is not. False: tasks were pushed. */
static bool schema__without(schema_doc *s, schema__alts *l, int32_t lit, bool arr, schema__ints *stack) {
    const schema__alts with = schema__alts_get(s, lit, arr);
    schema__alts       out = {.part = l->part}, not = {0};
    bool               known = false;
    for (size_t i = 0; i < l->n; i++) {
        if (!with.part && schema__alt_apart(s, l->at[i], &with, arr)) {
            schema__alts_add(s, &out, l->at[i]);
            continue;
        }
        if (!known && schema__alts_push(s, stack, SCHEMA__NEG(lit), arr)) return false;
        if (!known) not = schema__alts_get(s, SCHEMA__NEG(lit), arr), out.part |= not.part;
        known = true;
        for (size_t k = 0; k < not.n; k++) schema__alts_add(s, &out, schema__alt_and(s, l->at[i], not.at[k], arr));
    }
    if (known) schema__alts_reduce(s, &out);
    *l = out;
    return true;
}

/* All of the subschemas. */
static schema__alts schema__every(schema_doc *s, const schema__part *p, bool arr) {
    schema__alts l = schema__alts_true(s);
    for (size_t i = 0; i < p->n_sub && l.n; i++) l = schema__alts_and(s, l, schema__sub(s, p, i, false, arr), arr);
    return l;
}

/* None of the subschemas. False: tasks were pushed. */
static bool schema__none(schema_doc *s, const schema__part *p, bool arr, schema__ints *stack, schema__alts *out) {
    *out = schema__alts_true(s);
    for (size_t i = 0; i < p->n_sub && out->n; i++)
        if (!schema__without(s, out, schema__lit(s, p->sub[i]), arr, stack)) return false;
    return true;
}

static schema__alts schema__either(schema_doc *s, const schema__part *p, bool neg, bool arr) {
    schema__alts l = {0};
    for (size_t i = 0; i < p->n_sub; i++) schema__alts_join(s, &l, schema__sub(s, p, i, neg, arr));
    schema__alts_reduce(s, &l);
    return l;
}

static bool schema__any_part(const schema__alts *l, size_t n) {
    bool any = false;
    for (size_t i = 0; i < n; i++) any |= l[i].part;
    return any;
}

/* Just one of the subschemas, in the alternatives that the other parts of the node leave: there, subschemas are apart
 * more often. Where that makes too many and a part may do, it is the objects with a key that distinguishes them. False: tasks
 * were pushed. */
static bool schema__just_one(schema_doc *s, const schema__part *p, schema__alts among, bool arr, schema__ints *stack,
                             schema__alts *out) {
    const size_t  n = p->n_sub;
    bool          done = true;
    schema__alts *l = val_alloc(&s->env, n, sizeof *l);
    size_t        some = 0;
    *out = (schema__alts){0};
    for (size_t i = 0; i < n; i++) l[i] = schema__alts_and(s, among, schema__sub(s, p, i, false, arr), arr), some += l[i].n > 0;
    const bool    apart = some < 2 ? !schema__any_part(l, n) : !arr && schema__apart_key(s, l, n, false) >= 0;
    const int32_t key = s->may_part && !apart && !arr ? schema__apart_key(s, l, n, true) : -1;
    s->soft = key >= 0, s->spilled = false;
    for (size_t i = 0; i < n && done; i++) {
        schema__alts one = l[i];
        for (size_t k = 0; k < n && one.n && done && !apart && !s->spilled; k++)
            if (k != i) done = schema__without(s, &one, schema__lit(s, p->sub[k]), arr, stack);
        schema__alts_join(s, out, one);
    }
    s->soft = false;
    if (s->spilled) *out = (schema__alts){0};
    for (size_t i = 0; i < n && s->spilled && done; i++) schema__alts_join(s, out, schema__with_key(s, &l[i], key));
    if (done) schema__alts_reduce(s, out);
    return done;
}

/* None of the subschemas, or two of them. False: tasks were pushed. */
static bool schema__not_one(schema_doc *s, const schema__part *p, bool arr, schema__ints *stack, schema__alts *out) {
    if (!schema__none(s, p, arr, stack, out)) return false;
    for (size_t i = 0; i < p->n_sub; i++)
        for (size_t k = 0; k < i; k++)
            schema__alts_join(s, out, schema__alts_and(s, schema__sub(s, p, k, false, arr),
                                                       schema__sub(s, p, i, false, arr), arr));
    schema__alts_reduce(s, out);
    return true;
}

/* (if and then) or (not if and else); the negation: (if and not then) or (not if and not else). */
static schema__alts schema__cases(schema_doc *s, const schema__part *p, bool neg, bool arr) {
    schema__alts l = schema__alts_and(s, schema__sub(s, p, 0, false, arr), schema__sub(s, p, 1, neg, arr), arr), copy = {0};
    schema__alts_join(s, &copy, l);
    schema__alts_join(s, &copy, schema__alts_and(s, schema__sub(s, p, 0, true, arr), schema__sub(s, p, 2, neg, arr), arr));
    schema__alts_reduce(s, &copy);
    return copy;
}

static schema__alts schema__props(schema_doc *s, const schema__part *p) {
    schema__alt *a = schema__alt_new(s);
    a->key = val_alloc(&s->env, p->n_name, sizeof *a->key);
    a->gen = val_alloc(&s->env, (uint64_t)p->n_lang + 1, sizeof *a->gen);
    for (size_t i = 0; i < p->n_name; i++)
        a->key[a->n_key++] = (schema__key){p->name[i], schema__conj_node(s, p->sub[i], false), false};
    for (size_t i = 0; i < p->n_lang; i++) {
        const schema_conj value = schema__conj_node(s, p->sub[p->n_name + i], false);
        if (value != SCHEMA_TRUE && p->lang[i] != s->none)
            a->gen[a->n_gen++] = (schema__gen){p->lang[i] == s->all ? NULL : p->lang[i], NULL, value};
    }
    const schema_conj rest = p->rest ? schema__conj_node(s, p->sub[p->n_sub - 1], false) : SCHEMA_TRUE;
    if (rest != SCHEMA_TRUE && p->set != s->none) a->gen[a->n_gen++] = (schema__gen){p->set, p->n_name ? p : NULL, rest};
    return schema__alts_of(s, schema__settle_object(s, a) ? a : NULL);
}

/* Some member has a value that its subschema forbids. A key that has to come and has a wrong value is one alternative
 * with its absence (required: the part of this node, NULL: there is none), so that the negation of { kind: const,
 * required } stays one alternative. */
static schema__alts schema__not_props(schema_doc *s, const schema__part *p, const schema__part *required) {
    schema__alts l = {0};
    for (size_t i = 0; i < p->n_name; i++) {
        const bool must = required && schema__has_name(required, p->name[i]);
        schema__alts_put(s, &l, schema__alt_key(s, p->name[i], schema__conj_node(s, p->sub[i], true), !must));
    }
    for (size_t i = 0; i < p->n_lang; i++)
        schema__alts_put(s, &l, schema__alt_some(s, p->lang[i], schema__conj_node(s, p->sub[p->n_name + i], true)));
    if (!p->rest || schema__lit(s, p->sub[p->n_sub - 1]) == SCHEMA__LIT_TRUE) return l;
    const lang *others = schema__lang_not(s, schema__lang_words(s, p->name, p->n_name));
    schema__alts_put(s, &l, schema__alt_some(s, schema__lang_and(s, p->set ? p->set : s->all, others),
                                             schema__conj_node(s, p->sub[p->n_sub - 1], true)));
    return l;
}

static int32_t schema__name_nth(schema_doc *s, const lang *l, uint64_t i) {
    str_clear(&s->text);
    str_add(&s->text, "", 0);
    lang_nth(l, i, &s->text);
    return schema__name(s, val_text(&s->env, str_bytes(&s->text), false).s);
}

/* propertyNames. Few possible keys become declared ones. */
static schema__alts schema__names(schema_doc *s, const schema__part *p, bool neg) {
    const lang    *l = schema__flat_of(s, schema__lit(s, p->sub[0])).str, *others = schema__lang_not(s, l);
    const uint64_t n = lang_count(l, SCHEMA__KEYS + 1);
    if (neg) return schema__alts_of(s, schema__alt_some(s, others, SCHEMA_TRUE));
    schema__alt *a = schema__alt_gen(s, others, NULL, SCHEMA_FALSE);
    if (n > SCHEMA__KEYS) return schema__alts_of(s, a);
    schema__part *but = val_alloc(&s->env, 1, sizeof *but);
    a->key = val_alloc(&s->env, n, sizeof *a->key);
    but->name = val_alloc(&s->env, n, sizeof *but->name);
    for (uint64_t i = 0; i < n; i++) {
        but->name[but->n_name++] = schema__name_nth(s, l, i);
        a->key[a->n_key++] = (schema__key){but->name[i], SCHEMA_TRUE, false};
    }
    schema__sort_names(s, but);
    a->gen = val_alloc(&s->env, 1, sizeof *a->gen);
    a->gen[0] = (schema__gen){NULL, n ? but : NULL, SCHEMA_FALSE};
    a->n_gen = 1;
    return schema__alts_of(s, schema__settle_object(s, a) ? a : NULL);
}

/* Names that have to come: all of p from `from` on. */
static schema__alts schema__required(schema_doc *s, const schema__part *p, size_t from) {
    schema__alt *a = schema__alt_new(s), *none = schema__alt_new(s);
    a->key = val_alloc(&s->env, p->n_name, sizeof *a->key);
    for (size_t i = from; i < p->n_name; i++) a->key[a->n_key++] = (schema__key){p->name[i], SCHEMA_TRUE, true};
    return schema__alts_of(s, schema__alt_and(s, a, none, false));          /* each name once */
}

/* One of them is not there; those in `but` are left out. */
static schema__alts schema__not_required(schema_doc *s, const schema__part *p, size_t from, const schema__part *but) {
    schema__alts l = {0};
    for (size_t i = from; i < p->n_name; i++)
        if (!but || !schema__has_name(but, p->name[i]))
            schema__alts_put(s, &l, schema__alt_key(s, p->name[i], SCHEMA_FALSE, false));
    return l;
}

/* The key is not there, or the others are (with it: the object satisfies the subschema); the negation: it is, and one of
 * them is not. */
static schema__alts schema__depends(schema_doc *s, const schema__part *p, bool neg) {
    schema__alts       l = schema__alts_of(s, schema__alt_key(s, p->name[0], neg ? SCHEMA_TRUE : SCHEMA_FALSE, neg));
    const schema__alts more = p->kind == SCHEMA__WITH ? schema__sub(s, p, 0, neg, false)
                              : neg                   ? schema__not_required(s, p, 1, NULL)
                                                      : schema__required(s, p, 1);
    if (neg) return schema__alts_and(s, l, more, false);
    schema__alts_join(s, &l, more);
    schema__alts_reduce(s, &l);
    return l;
}

static schema__alts schema__items(schema_doc *s, const schema__part *p) {
    schema__alt *a = schema__alt_new(s);
    a->n_prefix = p->n_sub - p->rest;
    a->prefix = val_alloc(&s->env, a->n_prefix, sizeof *a->prefix);
    for (size_t i = 0; i < a->n_prefix; i++) a->prefix[i] = schema__conj_node(s, p->sub[i], false);
    a->rest = p->rest ? schema__conj_node(s, p->sub[a->n_prefix], false) : SCHEMA_TRUE;
    return schema__alts_of(s, schema__settle_array(s, a) ? a : NULL);
}

/* An array whose item i satisfies the conjunction. */
static schema__alt *schema__alt_item(schema_doc *s, size_t i, schema_conj value) {
    schema__alt *a = schema__alt_new(s);
    a->n_prefix = (uint32_t)i + 1;
    a->prefix = val_alloc(&s->env, a->n_prefix, sizeof *a->prefix);
    a->prefix[i] = value;
    a->min = i + 1;
    return schema__settle_array(s, a) ? a : NULL;
}

static schema__alts schema__not_items(schema_doc *s, const schema__part *p) {
    const size_t n = p->n_sub - p->rest;
    schema__alts l = {0};
    for (size_t i = 0; i < n; i++) schema__alts_put(s, &l, schema__alt_item(s, i, schema__conj_node(s, p->sub[i], true)));
    if (p->rest) {
        schema__alt *a = schema__alt_contains(s, schema__conj_node(s, p->sub[n], true), n, 1, UINT64_MAX);
        schema__alts_put(s, &l, schema__settle_array(s, a) ? a : NULL);
    }
    return l;
}

/* A number of members or of items from min to max; of `contains` the items of the subschema: none at all says that each
 * item satisfies its negation. */
static schema__alt *schema__alt_count(schema_doc *s, const schema__part *p, uint64_t min, uint64_t max) {
    schema__alt *a = schema__alt_new(s);
    if (min > max) return NULL;
    if (p->kind != SCHEMA__CONTAINS) return a->min = min, a->max = max, a;
    if (max) a = schema__alt_contains(s, schema__conj_node(s, p->sub[0], false), 0, min, max);
    else a->rest = schema__conj_node(s, p->sub[0], true);
    return schema__settle_array(s, a) ? a : NULL;
}

static schema__alts schema__counts(schema_doc *s, const schema__part *p, bool neg) {
    schema__alts l = {0};
    if (!neg) return schema__alts_of(s, schema__alt_count(s, p, p->min, p->max));
    if (p->min) schema__alts_put(s, &l, schema__alt_count(s, p, 0, p->min - 1));
    if (p->max < UINT64_MAX) schema__alts_put(s, &l, schema__alt_count(s, p, p->max + 1, UINT64_MAX));
    return l;
}

/* The negation has no form: it is refused where no value without it is left. */
static schema__alts schema__unique(schema_doc *s, const schema__part *p, bool neg) {
    schema__alt *a = schema__alt_new(s);
    a->unique = !neg;
    a->min = neg ? 2 : 0;
    if (neg) a->repeats = schema__word_at(s, s->here, p->word);
    return schema__alts_of(s, a);
}

static const schema__part *schema__part_find(const schema__node *n, schema__kind kind) {
    for (size_t i = 0; i < n->n_part; i++)
        if (n->part[i].kind == kind) return &n->part[i];
    return NULL;
}

static schema__alts schema__part_object(schema_doc *s, const schema__node *n, const schema__part *p, bool neg) {
    switch ((schema__kind)p->kind) {
    case SCHEMA__PROPS: return neg ? schema__not_props(s, p, schema__part_find(n, SCHEMA__REQUIRED)) : schema__props(s, p);
    case SCHEMA__NAMES: return schema__names(s, p, neg);
    case SCHEMA__REQUIRED:
        return neg ? schema__not_required(s, p, 0, schema__part_find(n, SCHEMA__PROPS)) : schema__required(s, p, 0);
    case SCHEMA__COUNT: return schema__counts(s, p, neg);
    case SCHEMA__NEEDS: case SCHEMA__WITH: return schema__depends(s, p, neg);
    default: return neg ? (schema__alts){0} : schema__alts_true(s);
    }
}

static schema__alts schema__part_array(schema_doc *s, const schema__part *p, bool neg) {
    switch ((schema__kind)p->kind) {
    case SCHEMA__ITEMS: return neg ? schema__not_items(s, p) : schema__items(s, p);
    case SCHEMA__LENGTHS: case SCHEMA__CONTAINS: return schema__counts(s, p, neg);
    case SCHEMA__UNIQUE: return schema__unique(s, p, neg);
    default: return neg ? (schema__alts){0} : schema__alts_true(s);
    }
}

/* The alternatives of a part, or of its negation; of "just one" only the negation. False: tasks were pushed. */
static bool schema__part_alts(schema_doc *s, const schema__node *n, const schema__part *p, bool neg, bool arr,
                              schema__ints *stack, schema__alts *out) {
    const bool some = p->flat && (arr ? p->flat->arr : p->flat->obj) == SCHEMA__EVERY;
    *out = (schema__alts){0};
    switch ((schema__kind)p->kind) {
    case SCHEMA__NEVER: if (neg) *out = schema__alts_true(s); break;
    case SCHEMA__ALL: *out = neg ? schema__either(s, p, true, arr) : schema__every(s, p, arr); break;
    case SCHEMA__ANY: case SCHEMA__ENUM:
        if (neg) return schema__none(s, p, arr, stack, out);
        *out = schema__either(s, p, false, arr);
        break;
    case SCHEMA__ONE: return schema__not_one(s, p, arr, stack, out);
    case SCHEMA__NOT: *out = schema__sub(s, p, 0, !neg, arr); break;
    case SCHEMA__IF: *out = schema__cases(s, p, neg, arr); break;
    case SCHEMA__TYPE: if (some != neg) *out = schema__alts_true(s); break;
    default: *out = arr ? schema__part_array(s, p, neg) : schema__part_object(s, n, p, neg); break;
    }
    return true;
}

/* "And" of the parts of a node: first those that are not "just one", then these. False: tasks were pushed. */
static bool schema__alts_parts(schema_doc *s, const schema__node *n, bool arr, schema__ints *stack, schema__alts *l) {
    schema__alts part;
    *l = schema__alts_true(s);
    for (int one = 0; one < 2; one++)
        for (size_t i = 0; i < n->n_part && l->n; i++) {
            if ((n->part[i].kind == SCHEMA__ONE) != one) continue;
            const bool done = one ? schema__just_one(s, &n->part[i], *l, arr, stack, &part)
                                  : schema__part_alts(s, n, &n->part[i], false, arr, stack, &part);
            if (!done) return false;
            *l = one ? part : schema__alts_and(s, *l, part, arr);
        }
    return true;
}

/* "Or" of the negations of the parts of a node. */
static bool schema__alts_negation(schema_doc *s, const schema__node *n, bool arr, schema__ints *stack, schema__alts *l) {
    schema__alts part;
    for (size_t i = 0; i < n->n_part; i++) {
        if (!schema__part_alts(s, n, &n->part[i], true, arr, stack, &part)) return false;
        schema__alts_join(s, l, part);
    }
    schema__alts_reduce(s, l);
    return true;
}

/* The alternatives of a literal whose needs are there. False: tasks were pushed. */
static bool schema__alts_make(schema_doc *s, int32_t lit, bool arr, schema__ints *stack) {
    const schema__node n = s->node[lit >> 1];
    schema__alts       l = {0};
    s->here = lit >> 1;
    if (lit & 1 ? !schema__alts_negation(s, &n, arr, stack, &l) : !schema__alts_parts(s, &n, arr, stack, &l)) return false;
    schema__alts *kept = val_alloc(&s->env, 1, sizeof *kept);
    *kept = l;
    *schema__memo(s, lit, arr) = kept;
    return true;
}

static bool schema__alts_needs(schema_doc *s, int32_t lit, bool arr, schema__ints *stack) {
    const schema__node n = s->node[lit >> 1];
    bool               more = false;
    for (size_t i = 0; i < n.n_part; i++) more |= schema__part_needs(s, &n.part[i], lit & 1, arr, stack);
    return more;
}

/* The alternatives of a literal. */
static schema__alts schema__alts_lit(schema_doc *s, int32_t lit, bool arr) {
    schema__ints stack = {0};
    schema__alts l;
    schema__alts_push(s, &stack, lit, arr);
    while (stack.n) {
        const int32_t top = stack.at[stack.n - 1], node = top >> 2;
        const uint8_t busy = (uint8_t)(1 << schema__task(top >> 1, top & 1));
        val_step(&s->env, 1);
        const bool known = schema__alts_known(s, top >> 1, top & 1, &l);
        if (!known) s->node[node].busy |= busy;
        if (!known && (schema__alts_needs(s, top >> 1, top & 1, &stack) || !schema__alts_make(s, top >> 1, top & 1, &stack)))
            continue;
        s->node[node].busy &= (uint8_t)~busy;
        stack.n--;
    }
    return schema__alts_get(s, lit, arr);
}

/* --- shapes --- */

/* Splits the cells by one language of keys: what is in it has its value, too. */
static size_t schema__cells_split(schema_doc *s, schema_extra *cell, size_t n, const schema__gen *g, schema_extra *out) {
    size_t            m = 0;
    const lang *const keys = g->keys ? g->keys : s->all, *const others = schema__lang_not(s, keys);
    for (size_t i = 0; i < n; i++) {
        const schema_extra in = {schema__lang_and(s, cell[i].keys, keys), schema__conj_and(s, cell[i].value, g->value)};
        const schema_extra off = {schema__lang_and(s, cell[i].keys, others), cell[i].value};
        if (in.keys != s->none && !schema__barren(s, in.value)) out[m++] = in;
        if (off.keys != s->none) out[m++] = off;
    }
    return m;
}

/* The languages of keys that are not declared, disjoint, with their values. Names of `but` are declared, so they do
 * not count here. */
static void schema__shape_extra(schema_doc *s, const schema__alt *a, schema_object *o) {
    schema_extra *cell = val_alloc(&s->env, 1, sizeof *cell);
    size_t        n = 1;
    cell[0] = (schema_extra){s->all, SCHEMA_TRUE};
    for (size_t i = 0; i < a->n_gen && n; i++) {
        schema_extra *out = val_alloc(&s->env, 2 * n, sizeof *out);
        n = schema__cells_split(s, cell, n, &a->gen[i], out);
        cell = out;
        val_step(&s->env, n);
    }
    o->extra = val_alloc(&s->env, n, sizeof *o->extra);
    if (!n || !a->max) return;
    int32_t *name = val_alloc(&s->env, a->n_key, sizeof *name);
    for (size_t i = 0; i < a->n_key; i++) name[i] = a->key[i].name;
    const lang *others = a->n_key ? schema__lang_not(s, schema__lang_words(s, name, a->n_key)) : s->all;
    for (size_t i = 0; i < n; i++) {
        const lang *keys = schema__lang_and(s, cell[i].keys, others);
        size_t      k = 0;
        while (k < o->n_extra && o->extra[k].value != cell[i].value) k++;
        if (keys == s->none) continue;
        if (k == o->n_extra) o->extra[o->n_extra++] = (schema_extra){keys, cell[i].value};
        else o->extra[k].keys = schema__lang_or(s, o->extra[k].keys, keys);
    }
}

static schema_object schema__shape_object(schema_doc *s, const schema__alt *a, const char *at) {
    schema_object o = {.min = a->min, .max = a->max, .some = a->some, .n_some = a->n_some, .at = at};
    o.prop = val_alloc(&s->env, a->n_key, sizeof *o.prop);
    for (size_t i = 0; i < a->n_key && a->max; i++)
        if (a->key[i].value != SCHEMA_FALSE)
            o.prop[o.n_prop++] = (schema_prop){s->name[a->key[i].name], a->key[i].value, a->key[i].required};
    schema__shape_extra(s, a, &o);
    return o;
}

/* The alternatives of a conjunction. */
static schema__alts schema__shape_alts(schema_doc *s, schema_conj c, bool arr) {
    schema__alts l = schema__alts_true(s);
    for (size_t i = 0; i < s->conj[c].n && l.n; i++) {
        const schema__alts one = schema__alts_lit(s, s->conj[c].lit[i], arr);
        s->here = s->conj[c].lit[i] >> 1;
        l = schema__alts_and(s, l, one, arr);
    }
    size_t n = 0;
    for (size_t i = 0; i < l.n; i++) {
        if (!l.at[i]->repeats) l.at[n++] = l.at[i];
        else if (!s->may_part) schema__fail(s, l.at[i]->repeats, EXIT_INPUT, "its negation is not supported");
        else s->left_out = l.at[i]->repeats;
    }
    l.n = n;
    return l;
}

static void schema__shape_parts(schema_doc *s, schema_conj c, const schema__flat *f, schema_shape *out) {
    schema__alts l = {0};
    if (f->obj) l = schema__shape_alts(s, c, false);
    schema_object *object = val_alloc(&s->env, l.n, sizeof *object);
    for (size_t i = 0; i < l.n; i++) object[i] = schema__shape_object(s, l.at[i], out->at);
    out->object = object;
    out->n_object = l.n;
    l = (schema__alts){0};
    if (f->arr) l = schema__shape_alts(s, c, true);
    schema_array *array = val_alloc(&s->env, l.n, sizeof *array);
    for (size_t i = 0; i < l.n; i++) {
        const schema__alt *a = l.at[i];
        array[i] = (schema_array){
            .prefix = a->prefix, .n_prefix = a->n_prefix, .rest = a->rest, .min = a->min, .max = a->max,
            .unique = a->unique, .contains = a->contains, .n_contains = a->n_contains, .at = out->at,
        };
    }
    out->array = array;
    out->n_array = l.n;
}

static schema_shape *schema__shape_make(schema_doc *s, schema_conj c) {
    schema_shape *out = val_alloc(&s->env, 1, sizeof *out);
    s->here = s->conj[c].n ? s->conj[c].lit[0] >> 1 : s->root;
    const schema__flat f = schema__flat_conj(s, c);
    out->at = schema__at(s, s->here);
    out->null = f.null, out->no = f.no, out->yes = f.yes;
    out->string = f.str == s->none ? NULL : f.str;
    out->number = f.num == s->none ? NULL : f.num;
    out->any_number = f.num == s->numbers;
    schema__shape_parts(s, c, &f, out);
    s->conj[c].shape = out;
    return out;
}

/* --- a document --- */

/* Numbers of the text that a double does not hold exactly: most JSON numbers are held, so the few others are
 * remembered by their doubles. */
static void schema__check_number(schema_doc *s, bytes text) {
    const bytes  copy = schema__keep(s, text);
    const double f = strtod((const char *)copy.p, NULL);
    if (text.n <= 15 && !memchr(text.p, 'e', text.n) && !memchr(text.p, 'E', text.n)) return;
    const val_float_text t = val_float_repr(f);
    if (isfinite(f) && num_equal(copy, bytes_of(t.p))) return;
    s->rough = schema__room(s, s->rough, s->n_rough, &s->cap_rough, sizeof *s->rough);
    s->rough[s->n_rough++] = f;
}

static void schema__check_numbers(schema_doc *s, bytes text) {
    while (text.n) {
        const bool string = *text.p == '"', number = *text.p == '-' || isdigit(*text.p);
        if (!string && !number) text = bytes_slice(text, 1, text.n);
        else {
            const bytes one = bytes_trim(bytes_cut_json(&text));
            if (number && (memchr(one.p, '.', one.n) || memchr(one.p, 'e', one.n) || memchr(one.p, 'E', one.n)))
                schema__check_number(s, one);
        }
    }
}

static void schema__dialect(schema_doc *s, val root) {
    static const char *const old[] = {"draft-03", "draft-04", "draft-05", "draft-06", "draft-07"};
    const val                v = val_get(root, "$schema");
    str_clear(&s->text);
    str_add(&s->text, "", 0);
    if (v.kind == VAL_STR) val_utf8(v.s, &s->text);
    for (size_t i = 0; i < sizeof old / sizeof *old; i++) s->old_refs |= strstr(s->text.p, old[i]) != NULL;
    s->old_contains = s->old_refs || strstr(s->text.p, "2019-09");
    s->old_ids = strstr(s->text.p, old[0]) || strstr(s->text.p, old[1]);
}

static void schema__begin(schema_doc *s, val root) {
    s->none = schema__lang(s, lang_none(s->langs));
    s->all = schema__lang(s, lang_all(s->langs));
    s->numbers = schema__lang(s, num_all(s->langs));
    schema__node_new(s, (schema__node){.v = val_bool(true), .queued = true, .parent = -1, .index = -1});
    schema__node_new(s, (schema__node){.v = val_bool(false), .queued = true, .parent = -1, .index = -1});
    s->node[SCHEMA__NODE_FALSE].lit = SCHEMA__LIT_FALSE;
    s->node[SCHEMA__NODE_TRUE].lit = SCHEMA__LIT_TRUE;
    s->root = schema__node_new(s, (schema__node){.v = root, .queued = true, .parent = -1, .index = -1});
    schema__resource_add(s, s->root, (bytes){(const uint8_t *)"", 0});
    if (root.kind != VAL_DICT) return;
    schema__once_set(schema__place_of(s, root), (uint32_t)s->root + 1);
    schema__ints_add(s, &s->fresh, s->root);
    schema__dialect(s, root);
    schema__index(s);
}

typedef struct {
    schema_doc *s;
    bytes       text;
    schema_conj conj, other;
} schema__call;

static void schema__open_run(val_env *env, void *arg) {
    const schema__call *call = arg;
    schema_doc         *s = call->s;
    const val           root = val_json_read(env, call->text, VAL_JSON_STRICT);
    schema__ints        key = {0};
    s->here = SCHEMA__NODE_TRUE;
    if (!schema__is_schema(root))
        val_fail(env, EXIT_INPUT, "found %s, expected a schema: an object, true or false", val_kind_name(root));
    schema__check_numbers(s, call->text);
    schema__begin(s, root);
    schema__ints_add(s, &s->reached, s->root);
    for (size_t i = 0; i < s->reached.n; i++) schema__compile(s, s->reached.at[i]);
    schema__left_all(s);
    for (size_t i = s->reached.n; i-- > 0;)           /* subschemas come after their schemas, but for recursive references */
        s->node[s->reached.at[i]].lit = schema__literal(s, s->reached.at[i], &key);
    s->conj = schema__room(s, s->conj, 0, &s->cap_conj, sizeof *s->conj);
    schema__conj_of(s, NULL, 0);
    s->never = SCHEMA__LIT_FALSE;
    s->conj[s->n_conj++] = (schema__conj){.lit = &s->never, .n = 1, .barren = 2};
    s->top = schema__conj_node(s, s->root, false);
}

/* Frees the document, but not the pool of its languages; NULL is allowed. Shapes are void. */
static void schema_free(schema_doc *s) {
    if (!s) return;
    val_env_drop(&s->env);
    hmap_drop(&s->map);
    str_drop(&s->notes);
    str_drop(&s->text);
    mem_free(s->path);
    mem_free(s);
}

/* Reads a document and checks it: keywords have values of their types, references lead to schemas. path: in messages.
 * NULL: e says why. */
static schema_doc *schema_open(bytes text, const char *path, lang_pool *p, err_t *e) {
    schema_doc  *s = mem_new(1, sizeof *s);
    schema__call call = {.s = s, .text = bytes_unmarked(text)};
    s->path = str_dup(path);
    s->langs = p;
    val_env_init(&s->env, SCHEMA__MEM, SCHEMA__STEPS, s->path);
    hmap_init(&s->map, ~(uint64_t)UINT32_MAX);
    const bool utf8 = utf8_whole(call.text) || err_set(e, EXIT_INPUT, "%s: the schema is not valid UTF-8", path);
    if (utf8 && val_run(&s->env, schema__open_run, &call, e)) return s;
    schema_free(s);
    return NULL;
}

/* The conjunction of the whole schema. */
static schema_conj schema_root(const schema_doc *s) { return s->top; }

static void schema__shape_run(val_env *env, void *arg) {
    schema__call *call = arg;
    (void)env;
    schema__shape_make(call->s, call->conj);
}

/* The shape of a conjunction; it is kept, and lives as long as the document. NULL: e says why; later calls fail, too. */
static const schema_shape *schema_shape_of(schema_doc *s, schema_conj c, err_t *e) {
    schema__call call = {.s = s, .conj = c};
    if (!s->err.code && !s->conj[c].shape) val_run(&s->env, schema__shape_run, &call, &s->err);
    if (s->err.code) return err_set(e, s->err.code, "%s", s->err.text), NULL;
    return s->conj[c].shape;
}

/* From here on shapes may be a part of the values that satisfy a schema (for generation), where the whole of them has no
 * form, or has too many alternatives. */
static void schema_allow_part(schema_doc *s) { s->may_part = true; }

/* JSON pointer of a uniqueItems whose negation was left out; NULL: nothing was. */
static const char *schema_left_out(const schema_doc *s) { return s->left_out; }

/* The pool of the languages. */
static lang_pool *schema_pool(const schema_doc *s) { return s->langs; }

/* The part of a language of strings that is generated: times and durations have at most nine digits in each number where
 * that is possible. NULL: over the budget. */
static const lang *schema_brief(const schema_doc *s, const lang *l) {
    const lang *all = s->none, *brief = s->none;
    bool        some = false;
    str         word = {0};
    err_t       e = {0};
    str_put(&word, "");
    const bool least = lang_least(l, &word);
    for (size_t i = 0; i < SCHEMA__FORMATS; i++) {
        const bool same = s->counted[i] && s->counted[i] == l;
        if (same) brief = lang_regex(s->langs, bytes_of(schema__formats[i].brief), false, &e);
        some |= same || (least && lang_has(s->counted[i], str_bytes(&word)));
    }
    str_drop(&word);
    if (!some || brief != s->none) return some ? brief : l;
    for (size_t i = 0; i < SCHEMA__FORMATS; i++) {
        if (!s->counted[i]) continue;
        all = lang_or(s->langs, all, s->counted[i]);
        brief = lang_or(s->langs, brief, lang_regex(s->langs, bytes_of(schema__formats[i].brief), false, &e));
    }
    const lang *others = lang_and(s->langs, l, lang_not(s->langs, all));
    if (!others || !lang_empty(others)) return others ? l : NULL;
    brief = lang_and(s->langs, l, brief);
    return brief && lang_empty(brief) ? l : brief;
}

/* The name of the document in messages. */
static const char *schema_path(const schema_doc *s) { return s->path; }

static void schema__and_run(val_env *env, void *arg) {
    schema__call *call = arg;
    (void)env;
    call->conj = schema__conj_and(call->s, call->conj, call->other);
}

/* The conjunction of both; -1: a limit was reached, and the next schema_shape_of says which. */
static schema_conj schema_and(schema_doc *s, schema_conj a, schema_conj b) {
    schema__call call = {.s = s, .conj = a, .other = b};
    return !s->err.code && val_run(&s->env, schema__and_run, &call, &s->err) ? call.conj : -1;
}

static void schema__not_run(val_env *env, void *arg) {
    schema__call *call = arg;
    (void)env;
    if (call->conj == SCHEMA_TRUE) call->conj = SCHEMA_FALSE;
    else call->conj = schema__conj_lit(call->s, SCHEMA__NEG(call->s->conj[call->conj].lit[0]));
}

/* The negation of the value of a schema_some or a schema_contains, which is at most one literal; -1: as in schema_and. */
static schema_conj schema_not(schema_doc *s, schema_conj c) {
    schema__call call = {.s = s, .conj = c};
    ASSERT(s->conj[c].n <= 1);
    return !s->err.code && val_run(&s->env, schema__not_run, &call, &s->err) ? call.conj : -1;
}

/* Notes that something at a place has no effect. */
static void schema_drop_note(schema_doc *s, const char *at, const char *what) { schema__note(s, at, "%s", what); }

/* Appends a line for each word that has no effect. */
static void schema_note_put(const schema_doc *s, str *out) {
    str_add(out, s->notes.p, s->notes.n);
    if (s->n_notes > SCHEMA__NOTES) str_fmt(out, "and %zu more\n", s->n_notes - SCHEMA__NOTES);
}
