/* ===== [filter] filters, tests, methods and functions of templates =====
 * What a template can call, each a row of a table: filters (`text | upper`), tests (`x is defined`), methods
 * (`text.upper()`) and global functions (`range(3)`), as Jinja2 3.1 and Python 3.11 define them. The tables have what public
 * chat templates use; another name is unknown.
 *   A row names its parameters as Python does; filter_call() puts arguments in their places, so a row's function finds them
 * in order.
 * Invariants: characters keep their origin through every row; sizes are checked before they are made; work counts as steps;
 * a row that sorts, searches or walks does not recurse. Results of map, select and their kin are made at once and read once,
 * as Python's generators.
 *   To add a row: its function, and a line in filter__filters, filter__tests, filter__methods or filter__functions.
 * Public: filter_is_space, filter_is_word, filter_read_int, filter_read_float, filter_find, test_find, function_find,
 * filter_call, filter_nearest, filter_getattr, filter_getitem.
 * Opens: filter_row. */

/* --- characters --- */

static bool filter__is_cased(val_chr c) { return val_is(VAL_IS_LOWER, c) || val_is(VAL_IS_UPPER, c) || val_is(VAL_IS_TITLE, c); }

/* The value of a decimal digit of any script, -1: none. Their ranges begin at a zero and have ten or a multiple of ten
 * characters. */
static int filter__decimal(val_chr chr) {
    const val_chr c = VAL_CHAR(chr);
    if (c < 128) return c >= '0' && c <= '9' ? (int)(c - '0') : -1;
    const chars_range *r = val_chars_find(VAL_IS_DECIMAL, c);
    return r ? (int)((c - r->at[0]) % 10) : -1;
}

/* Appends a character in another case: by the longer forms, else by the map. False: neither has it, and nothing is appended. */
static bool filter__put_mapped(val_env *env, val_buf *b, val_chr chr, int map, int longer) {
    const val_chr       c = VAL_CHAR(chr), origin = chr & VAL_INPUT;
    const chars_range *r = val_chars_find(longer, c);
    for (int i = 1; r && i < 4 && r->at[i]; i++) val_buf_chr(env, b, r->at[i] | origin);
    if (r) return true;
    r = val_chars_find(map, c);
    if (r) val_buf_chr(env, b, (c + r->at[3]) | origin);
    return r != NULL;
}

static void filter__put_upper(val_env *env, val_buf *b, val_chr chr) {
    const val_chr c = VAL_CHAR(chr);
    if (c < 128) val_buf_chr(env, b, c >= 'a' && c <= 'z' ? chr - 32 : chr);
    else if (!filter__put_mapped(env, b, chr, VAL_TO_UPPER, VAL_UPPER_LONG)) val_buf_chr(env, b, chr);
}

static void filter__put_title(val_env *env, val_buf *b, val_chr chr) {
    if (VAL_CHAR(chr) < 128 || !filter__put_mapped(env, b, chr, VAL_TO_TITLE, VAL_TITLE_LONG)) filter__put_upper(env, b, chr);
}

/* Whether the sigma at s[i] ends a word: a cased letter is before it and none after it; case-ignorable characters between
 * do not count. */
static bool filter__is_final(val_env *env, val_str s, size_t i) {
    size_t k = i, end = i + 1;
    while (k > 0 && val_is(VAL_IS_IGNORABLE, s.p[k - 1])) k--;
    while (end < s.n && val_is(VAL_IS_IGNORABLE, s.p[end])) end++;
    val_step_chars(env, end - k);
    return k > 0 && filter__is_cased(s.p[k - 1]) && !(end < s.n && filter__is_cased(s.p[end]));
}

/* Appends s[i] in lower case. */
static void filter__put_lower(val_env *env, val_buf *b, val_str s, size_t i) {
    const val_chr chr = s.p[i], c = VAL_CHAR(chr);
    if (c < 128) val_buf_chr(env, b, c >= 'A' && c <= 'Z' ? chr + 32 : chr);
    else if (c == 0x3a3) val_buf_chr(env, b, (filter__is_final(env, s, i) ? 0x3c2 : 0x3c3) | (chr & VAL_INPUT));
    else if (!filter__put_mapped(env, b, chr, VAL_TO_LOWER, VAL_LOWER_LONG)) val_buf_chr(env, b, chr);
}

enum filter_case { FILTER_LOWER, FILTER_UPPER, FILTER_CAPITAL, FILTER_TITLE };

/* A string in another case, as Python's lower, upper, capitalize and title. */
static val_str filter__cased(val_env *env, val_str s, enum filter_case to) {
    val_buf *b = val_buf_new(env);
    bool     in_word = false;
    val_step_chars(env, 4 * (uint64_t)s.n);
    val_buf_reserve(env, b, s.n);
    for (size_t i = 0; i < s.n; i++) {
        const bool first = to == FILTER_TITLE ? !in_word : to == FILTER_CAPITAL && i == 0;
        if (to == FILTER_TITLE) in_word = filter__is_cased(s.p[i]);
        if (first) filter__put_title(env, b, s.p[i]);
        else if (to == FILTER_UPPER) filter__put_upper(env, b, s.p[i]);
        else filter__put_lower(env, b, s, i);
    }
    return val_buf_str(b);
}

/* --- rows, and arguments of a call --- */

enum { FILTER_PARAMS = 4 };

typedef struct filter_row filter_row;

/* A call of a row: the value in front of it, and its arguments in the order of the row's parameters. */
typedef struct {
    val_env          *env;
    const filter_row *row;
    val               in;
    val               a[FILTER_PARAMS];
    const val_args   *args;                           /* as written */
} filter_in;

struct filter_row {
    val_func    head;                                 /* its name; a bound method calls through it */
    const char *params;                               /* names in order, with their defaults: see filter__bind */
    val       (*run)(filter_in *f);
    unsigned    kinds;                                /* methods: 1 << val_kind of the values that have it */
    int         with;                                 /* distinguishes rows that share a function */
};

static const char filter__absent[] = "an argument that is not there";

static bool filter__given(const filter_in *f, int i) { return f->a[i].kind != VAL_UNDEF || f->a[i].name != filter__absent; }

/* Cuts the next word off a list of parameters: `name`, `name=default`; a default in quotes may hold blanks. */
static bytes filter__word(const char **p) {
    const char *from = *p + strspn(*p, " "), *end = from;
    for (bool quoted = false; *end && (quoted || *end != ' '); end++) quoted ^= *end == '\'';
    *p = end;
    return (bytes){(const uint8_t *)from, (size_t)(end - from)};
}

/* The name of a parameter: what is before `=`. */
static bytes filter__name(bytes word) {
    const uint8_t *equal = word.n ? memchr(word.p, '=', word.n) : NULL;
    return (bytes){word.p, equal ? (size_t)(equal - word.p) : word.n};
}

/* `none`, `true`, `false`, 'text', a whole number, or `?`: the function of the row sees that the argument is not there. */
static val filter__default(val_env *env, bytes word) {
    const char *p = (const char *)word.p;
    switch (*p) {
    case '?': return val_undef(filter__absent);
    case 'n': return val_none();
    case 't': return val_bool(true);
    case 'f': return val_bool(false);
    case '\'': return val_text(env, (bytes){word.p + 1, word.n - 2}, false);
    default: return val_int(strtol(p, NULL, 10));
    }
}

/* Whether an argument has this name. */
static bool filter__is_name(const val_pair *p, bytes name) {
    size_t k = 0;
    if (p->key.kind != VAL_STR || p->key.s.n != name.n) return false;
    while (k < name.n && VAL_CHAR(p->key.s.p[k]) == name.p[k]) k++;
    return k == name.n;
}

/* The argument of this name; NULL: none. */
static const val_pair *filter__named(const val_args *args, bytes name) {
    for (size_t i = 0; args->named && i < args->named->n; i++)
        if (!args->named->at[i].gone && filter__is_name(&args->named->at[i], name)) return &args->named->at[i];
    return NULL;
}

/* An argument by name that is no parameter: the first of them. */
__attribute__((noreturn)) static void filter__too_many_names(filter_in *f) {
    const val_dict *named = f->args->named;
    for (size_t i = 0; i < named->n && !strchr(f->row->params, '/'); i++) {
        bool        known = named->at[i].gone;
        const char *at = f->row->params;
        for (bytes word; !known && (word = filter__word(&at)).n;) known = filter__is_name(&named->at[i], filter__name(word));
        if (!known)
            val_fail(f->env, EXIT_INPUT, "%s() has no parameter '%s'", f->row->head.name,
                val_quote(val_as_str(f->env, named->at[i].key)).p);
    }
    val_fail(f->env, EXIT_INPUT, "%s() takes no arguments by name", f->row->head.name);
}

/* Puts the arguments in the order of the parameters. The list of these is written as in Python: `name=default`; `/`: by
 * position only; `*`, `**`: any number more by position, by name. */
static void filter__bind(filter_in *f) {
    const char *at = f->row->params;
    const bool  by_name = !strchr(at, '/');
    bool        any = false, any_named = false;
    size_t      n = 0, named = 0;
    if (f->args->named) val_step(f->env, f->args->named->n / 8);
    for (bytes word; (word = filter__word(&at)).n;) {
        const bytes name = filter__name(word);
        if (bytes_is(word, "/")) continue;
        if (bytes_is(word, "*")) any = true;
        else if (bytes_is(word, "**")) any_named = true;
        else {
            const val_pair *p = by_name ? filter__named(f->args, name) : NULL;
            if (p && n < f->args->n)
                val_fail(f->env, EXIT_INPUT, "%s() has two values for '%.*s'", f->row->head.name, (int)name.n,
                    (const char *)name.p);
            if (n < f->args->n) f->a[n] = f->args->at[n];
            else if (p) f->a[n] = p->value, named++;
            else if (name.n < word.n) f->a[n] = filter__default(f->env, (bytes){word.p + name.n + 1, word.n - name.n - 1});
            else
                val_fail(f->env, EXIT_INPUT, "%s() lacks its argument '%.*s'", f->row->head.name, (int)name.n,
                    (const char *)name.p);
            n++;
        }
    }
    if (!any && f->args->n > n)
        val_fail(f->env, EXIT_INPUT, "%s() takes %zu arguments at most, %zu are given", f->row->head.name, n, f->args->n);
    if (!any_named && f->args->named && f->args->named->live > named) filter__too_many_names(f);
}

/* Calls a row with a value in front (a function has none: undefined). */
static val filter_call(val_env *env, const filter_row *row, val in, const val_args *args) {
    filter_in f = {.env = env, .row = row, .in = in, .args = args};
    val_step(env, 1);
    filter__bind(&f);
    return row->run(&f);
}

/* --- what rows ask of their arguments --- */

/* The name of parameter i; -1: the value in front. */
static val_quoted filter__param(const filter_in *f, int i) {
    val_quoted  q = {"its value"};
    const char *at = f->row->params;
    bytes       word = {0};
    for (int k = 0; k <= i; k++) word = filter__name(filter__word(&at));
    if (i >= 0) snprintf(q.p, sizeof q.p, "'%.*s'", (int)word.n, (const char *)word.p);
    return q;
}

/* The argument i (-1: the value in front) is not what the row takes. */
__attribute__((noreturn)) static void filter__wrong(const filter_in *f, int i, const char *expected) {
    const val v = i < 0 ? f->in : f->a[i];
    val_defined(f->env, v);
    val_fail(f->env, EXIT_INPUT, "%s(): %s is %s, expected %s", f->row->head.name, filter__param(f, i).p, val_kind_name(v),
        expected);
}

/* Kinds of values, as a set. */
#define FILTER_KIND(k) (1u << (k))
#define FILTER_INTS    (FILTER_KIND(VAL_INT) | FILTER_KIND(VAL_BIG))
#define FILTER_NUMBERS (FILTER_INTS | FILTER_KIND(VAL_BOOL) | FILTER_KIND(VAL_FLOAT))
#define FILTER_LISTS   (FILTER_KIND(VAL_LIST) | FILTER_KIND(VAL_TUPLE) | FILTER_KIND(VAL_RANGE))
#define FILTER_SIZED   (FILTER_KIND(VAL_STR) | FILTER_KIND(VAL_DICT) | FILTER_KIND(VAL_UNDEF) | FILTER_LISTS)

/* Argument i as a whole number of 64 bits; one beyond them becomes the nearest. */
static int64_t filter__int(filter_in *f, int i) {
    const val v = f->a[i];
    if (v.kind == VAL_BOOL) return v.b;
    if (v.kind == VAL_BIG) return val_is_negative(v) ? INT64_MIN : INT64_MAX;
    if (v.kind != VAL_INT) filter__wrong(f, i, "int");
    return v.i;
}

static val_str filter__str(filter_in *f, int i) {
    const val v = i < 0 ? f->in : f->a[i];
    if (v.kind != VAL_STR) filter__wrong(f, i, "str");
    return v.s;
}

/* True or False, as a number: what `reverse` of Python takes. */
static bool filter__flag(filter_in *f, int i) {
    const int64_t n = filter__int(f, i);
    if (n != (int)n) filter__wrong(f, i, "a number that fits in 32 bits");
    return n != 0;
}

/* A string that is safe where another one is. */
static val filter__like(val other, val_str s) {
    val v = val_str_view(s);
    v.safe = other.kind == VAL_STR && other.safe;
    return v;
}

/* Grows a buffer for n characters of a result. */
static void filter__room(val_env *env, val_buf *b, uint64_t n) {
    val_room(env, n, sizeof(val_chr));
    val_step_chars(env, n);
    val_buf_reserve(env, b, n);
}

static void filter__fill(val_env *env, val_buf *b, val_chr c, uint64_t n) {
    filter__room(env, b, n);
    for (; n > 0; n--) val_buf_chr(env, b, c);
}

/* A value as a safe string: escaped, if it is not safe already. */
static val filter__safe(val_env *env, val v) {
    val out = v;
    if (v.kind != VAL_STR || !v.safe) out = val_str_view(val_escape(env, val_as_str(env, v)));
    out.safe = true;
    return out;
}

/* The string that joins a safe string: escaped where it is not safe. */
static val_str filter__beside(val_env *env, val with, val v) {
    return with.kind == VAL_STR && with.safe ? filter__safe(env, v).s : v.s;
}

/* Whether Python takes the character as whitespace. */
static bool filter_is_space(val_chr c) { return val_is(VAL_IS_SPACE, c); }

/* Whether a name can have this character. */
static bool filter_is_word(val_chr c) {
    if (VAL_CHAR(c) == '_' || val_is(VAL_IS_ALPHA, c)) return true;
    return val_is(VAL_IS_NUMERIC, c) || val_is(VAL_IS_DIGIT, c) || val_is(VAL_IS_DECIMAL, c);
}

/* --- numbers: from text, to text --- */

/* Without whitespace at both ends. */
static val_str filter__bare(val_str s) {
    size_t from = 0, to = s.n;
    while (from < to && val_is(VAL_IS_SPACE, s.p[from])) from++;
    while (to > from && val_is(VAL_IS_SPACE, s.p[to - 1])) to--;
    return val_sub(s, from, to);
}

/* The value of a digit or letter below 36, else 99. */
static int filter__digit(val_chr chr) {
    const val_chr c = VAL_CHAR(chr), low = c | 32;
    if (low >= 'a' && low <= 'z' && c < 128) return (int)(low - 'a') + 10;
    const int d = filter__decimal(chr);
    return d < 0 ? 99 : d;
}

/* The base that a number's prefix names (0x, 0o, 0b), and whether the prefix fits the base that is asked for. */
static int filter__prefix(val_str s, int64_t base) {
    if (s.n < 2 || VAL_CHAR(s.p[0]) != '0') return 0;
    const val_chr c = VAL_CHAR(s.p[1]) | 32;
    const int     named = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 0;
    return named && (base == 0 || base == named) ? named : 0;
}

/* The digits of a whole number, `_` between two of them, with its sign. False: it is none. Fails where it does not fit in
 * 64 bits. */
static bool filter__digits(val_env *env, val_str s, int base, bool neg, int64_t *out) {
    int64_t sum = 0;
    bool    beyond = false;
    if (!s.n || VAL_CHAR(s.p[s.n - 1]) == '_') return false;
    for (size_t i = 0; i < s.n; i++) {
        if (VAL_CHAR(s.p[i]) == '_' && i > 0 && VAL_CHAR(s.p[i - 1]) != '_') continue;
        const int d = filter__digit(s.p[i]);
        if (d >= base) return false;
        beyond = beyond || __builtin_mul_overflow(sum, base, &sum) || __builtin_add_overflow(sum, neg ? -d : d, &sum);
    }
    if (beyond) val_fail(env, EXIT_INPUT, "found '%s%s', an integer beyond 64 bits", neg ? "-" : "", val_quote(s).p);
    *out = sum;
    return true;
}

/* int(text, base) as Python's. False: the text is no such number. Fails where it does not fit in 64 bits. */
static bool filter_read_int(val_env *env, val_str s, int64_t base, int64_t *out) {
    val_step_chars(env, s.n);
    s = filter__bare(s);
    const bool neg = s.n && VAL_CHAR(s.p[0]) == '-';
    if (s.n && (neg || VAL_CHAR(s.p[0]) == '+')) s = val_sub(s, 1, s.n);
    if (base != 0 && (base < 2 || base > 36)) return false;
    const int named = filter__prefix(s, base);
    if (named) s = val_sub(s, s.n > 2 && VAL_CHAR(s.p[2]) == '_' ? 3 : 2, s.n);
    const bool zero_led = base == 0 && !named && s.n > 1 && VAL_CHAR(s.p[0]) == '0';
    if (!filter__digits(env, s, named ? named : base ? (int)base : 10, neg, out)) return false;
    return !(zero_led && *out);
}

/* Skips digits with `_` between them. */
static const char *filter__skip_digits(const char *p) {
    while ((*p >= '0' && *p <= '9') || (*p == '_' && p[-1] >= '0' && p[-1] <= '9' && p[1] >= '0' && p[1] <= '9')) p++;
    return p;
}

/* Whether the text after its sign is a float of Python. */
static bool filter__is_float_text(const char *p) {
    static const char *const names[] = {"inf", "infinity", "nan"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(p, names[i]) == 0) return true;
    const char *q = filter__skip_digits(p), *r = *q == '.' ? filter__skip_digits(q + 1) : q;
    if (r == p || (r == p + 1 && *q == '.')) return false;
    if ((*r | 32) == 'e') {
        const char *s = r + 1 + (r[1] == '+' || r[1] == '-');
        r = filter__skip_digits(s);
        if (r == s) return false;
    }
    return !*r;
}

/* float(text) as Python's. False: the text is no such number. */
static bool filter_read_float(val_env *env, val_str s, double *out) {
    val_step_chars(env, s.n);
    s = filter__bare(s);
    char  *text = val_alloc(env, s.n + 2, 1), *p = text + 1;         /* text[0]: filter__skip_digits looks one character back */
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        const int d = filter__decimal(s.p[i]);
        if (d < 0 && (VAL_CHAR(s.p[i]) >= 128 || VAL_CHAR(s.p[i]) == 0)) return false;
        p[n++] = d >= 0 ? (char)('0' + d) : (char)s.p[i];
    }
    if (!filter__is_float_text(p + (*p == '-' || *p == '+'))) return false;
    n = 0;
    for (const char *q = p; *q; q++)
        if (*q != '_') p[n++] = *q;
    p[n] = 0;
    *out = strtod(p, NULL);
    return true;
}

/* --- attributes and rows by name: used before they are defined, since map and select may name any row --- */

enum { FILTER_OF_FILTERS, FILTER_OF_TESTS, FILTER_OF_FUNCTIONS, FILTER_OF_VALUES };   /* the tables */
static val               filter_getitem(val_env *env, val v, val key);                /* the rows call it */
static const filter_row *filter__row_of(val_env *env, int table, val name);           /* the rows call it */

/* A number in the name of a path, -1: it is none. More than nine digits are more than any list has. */
static int64_t filter__path_number(val_str s) {
    int64_t n = s.n ? 0 : -1;
    for (size_t i = 0; i < s.n; i++) {
        const int d = filter__decimal(s.p[i]);
        if (d < 0) return -1;
        n = s.n > 9 ? INT32_MAX : n * 10 + d;
    }
    return n;
}

/* --- attributes, paths of attributes --- */

/* An item of a value by a path: the parts of a name between points, whole numbers as such. It is read once and followed
 * for many values. */
typedef struct {
    val_list *parts;                                  /* [n]; empty: the value itself */
    val       absent;                                 /* in place of undefined; None: undefined stays */
    bool      fold;                                   /* strings in lower case, for comparisons */
} filter_path;

static void filter__split_on(val_env *env, val_list *out, val_str s, val_chr at) {
    val_step_chars(env, s.n);
    for (size_t from = 0, i = 0; i <= s.n; i++) {
        if (i < s.n && VAL_CHAR(s.p[i]) != at) continue;
        val_list_add(env, out, val_str_view(val_sub(s, from, i)));
        from = i + 1;
    }
}

/* attribute None: the value itself. */
static filter_path filter__path(filter_in *f, val attribute, bool fold) {
    filter_path p = {.parts = val_list_new(f->env).list, .absent = val_none(), .fold = fold};
    if (attribute.kind == VAL_STR) filter__split_on(f->env, p.parts, attribute.s, '.');
    else if (attribute.kind != VAL_NONE) val_list_add(f->env, p.parts, attribute);
    for (size_t i = 0; attribute.kind == VAL_STR && i < p.parts->n; i++) {
        const int64_t n = filter__path_number(p.parts->at[i].s);
        if (n >= 0) p.parts->at[i] = val_int(n);
    }
    return p;
}

static val filter__folded(val_env *env, val v) {
    return v.kind == VAL_STR ? val_str_view(filter__cased(env, v.s, FILTER_LOWER)) : v;
}

static val filter__follow(filter_in *f, const filter_path *p, val v) {
    for (size_t i = 0; i < p->parts->n; i++) {
        val_step(f->env, 1);
        v = filter_getitem(f->env, v, p->parts->at[i]);
        if (v.kind == VAL_UNDEF && p->absent.kind != VAL_NONE) v = p->absent;
    }
    return p->fold ? filter__folded(f->env, v) : v;
}

/* --- filters of lists --- */

/* The items of a filter's value; an undefined one has none. */
static val_list *filter__items(filter_in *f) {
    if (f->in.kind == VAL_UNDEF) return val_list_new(f->env).list;
    return val_items(f->env, f->in);
}

/* A copy of a list, which the template may change. */
static val_list *filter__copied(val_env *env, const val_list *l) {
    val_list *out = val_list_new(env).list;
    val_step(env, l->n / 16);
    for (size_t i = 0; i < l->n; i++) val_list_add(env, out, l->at[i]);
    return out;
}

/* Sorts by keys, smallest first; equal ones keep their order, also in reverse. keys and items have n entries. Returns a
 * new list. */
static val_list *filter__sorted(val_env *env, const val_list *keys, const val_list *items, bool reverse) {
    const size_t n = items->n;
    val_pair    *a = val_alloc(env, n, sizeof *a), *b = val_alloc(env, n, sizeof *b);
    val_list    *out = val_list_new(env).list;
    for (size_t i = 0; i < n; i++) a[i] = (val_pair){.key = keys->at[i], .value = items->at[i]};
    a = val_sort_pairs(env, a, b, n, reverse);
    for (size_t i = 0; i < n; i++) val_list_add(env, out, a[i].value);
    return out;
}

/* The keys of all items, by one path. */
static val_list *filter__keys(filter_in *f, const val_list *items, const filter_path *p) {
    val_list *keys = val_list_new(f->env).list;
    for (size_t i = 0; i < items->n; i++) val_list_add(f->env, keys, filter__follow(f, p, items->at[i]));
    return keys;
}

/* sort: an attribute may name several paths, between commas. Keys are lists, as in Jinja2: undefined ones are equal. */
static val filter__sort(filter_in *f) {
    val_list *items = filter__items(f), *keys = val_list_new(f->env).list, *names = val_list_new(f->env).list;
    if (f->a[2].kind == VAL_STR) filter__split_on(f->env, names, f->a[2].s, ',');
    else val_list_add(f->env, names, f->a[2]);
    for (size_t i = 0; i < items->n; i++) val_list_add(f->env, keys, val_list_new(f->env));
    for (size_t k = 0; k < names->n; k++) {
        const filter_path p = filter__path(f, names->at[k], !val_truth(f->a[1]));
        for (size_t i = 0; i < items->n; i++) val_list_add(f->env, keys->at[i].list, filter__follow(f, &p, items->at[i]));
    }
    return val_of_list(filter__sorted(f->env, keys, items, filter__flag(f, 0)));
}

static val filter__dictsort(filter_in *f) {
    if (f->in.kind != VAL_DICT) filter__wrong(f, -1, "dict");
    const bool by_value = val_is_str(f->a[1], "value");
    if (!by_value && !val_is_str(f->a[1], "key")) val_fail(f->env, EXIT_INPUT, "dictsort(): 'by' is neither 'key' nor 'value'");
    const val_list *pairs = val_items(f->env, val_view_of(f->in.dict, VAL_ITEMS));
    const val_list *keys = val_items(f->env, val_view_of(f->in.dict, by_value ? VAL_VALUES : VAL_KEYS));
    const filter_path p = filter__path(f, val_none(), !val_truth(f->a[0]));
    return val_of_list(filter__sorted(f->env, filter__keys(f, keys, &p), pairs, filter__flag(f, 2)));
}

static val filter__unique(filter_in *f) {
    const val_list   *items = filter__items(f);
    const filter_path p = filter__path(f, f->a[1], !val_truth(f->a[0]));
    val_dict         *seen = val_dict_new(f->env).dict;
    val_list         *out = val_list_new(f->env).list;
    for (size_t i = 0; i < items->n; i++) {
        bool      found;
        const val key = filter__follow(f, &p, items->at[i]);
        val_step(f->env, 1);
        val_dict_get(seen, key, &found);
        if (found) continue;
        val_dict_set(f->env, seen, key, val_none());
        val_list_add(f->env, out, items->at[i]);
    }
    return val_iter_of(f->env, out);
}

/* min, max (with 1): the first of equal ones. */
static val filter__extreme(filter_in *f) {
    const val_list   *items = filter__items(f);
    const filter_path p = filter__path(f, f->a[1], !val_truth(f->a[0]));
    size_t            best = 0;
    val               best_key = val_none();
    if (!items->n) return val_undef("the largest or smallest item of nothing");
    for (size_t i = 0; i < items->n; i++) {
        const val key = filter__follow(f, &p, items->at[i]);
        val_step(f->env, 1);
        if (i && (f->row->with ? val_order(f->env, best_key, key, "<") : val_order(f->env, key, best_key, "<")) != -1) continue;
        best = i;
        best_key = key;
    }
    return items->at[best];
}

static val filter__map(filter_in *f) {
    val_list *out = val_list_new(f->env).list;
    if (!val_truth(f->in)) return val_iter_of(f->env, out);
    const val_list *items = val_items(f->env, f->in);
    const val_pair *attribute = f->args->n ? NULL : filter__named(f->args, bytes_of("attribute"));
    if (attribute) {
        const val_pair *absent = filter__named(f->args, bytes_of("default"));
        if (f->args->named->live > 1u + (absent != NULL))
            val_fail(f->env, EXIT_INPUT, "map(): expected 'attribute' and 'default' alone");
        filter_path p = filter__path(f, attribute->value, false);
        if (absent) p.absent = absent->value;
        return val_iter_of(f->env, filter__keys(f, items, &p));
    }
    if (!f->args->n) val_fail(f->env, EXIT_INPUT, "map() lacks the name of a filter");
    const filter_row *row = items->n ? filter__row_of(f->env, FILTER_OF_FILTERS, f->args->at[0]) : NULL;
    const val_args    rest = {f->args->at + 1, f->args->n - 1, f->args->named};
    for (size_t i = 0; i < items->n; i++) val_list_add(f->env, out, filter_call(f->env, row, items->at[i], &rest));
    return val_iter_of(f->env, out);
}

enum { FILTER_REJECT = 1, FILTER_BY_ATTRIBUTE = 2 };

/* select, reject, selectattr, rejectattr: with says which one. Without the name of a test, values are asked for their truth. */
static val filter__select(filter_in *f) {
    const bool reject = f->row->with & FILTER_REJECT;
    val_list  *out = val_list_new(f->env).list;
    val_args   rest = *f->args;
    if (!val_truth(f->in)) return val_iter_of(f->env, out);
    const val_list *items = val_items(f->env, f->in);
    const bool      by = f->row->with & FILTER_BY_ATTRIBUTE;
    if (by && !rest.n) val_fail(f->env, EXIT_INPUT, "%s() lacks the name of an attribute", f->row->head.name);
    const filter_path p = filter__path(f, by ? rest.at[0] : val_none(), false);
    if (by) rest.at++, rest.n--;
    const filter_row *test = rest.n && items->n ? filter__row_of(f->env, FILTER_OF_TESTS, rest.at[0]) : NULL;
    if (test) rest.at++, rest.n--;
    for (size_t i = 0; i < items->n; i++) {
        val v = filter__follow(f, &p, items->at[i]);
        val_step(f->env, 1);
        if (test) v = filter_call(f->env, test, v, &rest);
        if (val_truth(v) != reject) val_list_add(f->env, out, items->at[i]);
    }
    return val_iter_of(f->env, out);
}

static val filter__list(filter_in *f) { return val_of_list(filter__copied(f->env, filter__items(f))); }

static val filter__first(filter_in *f) {
    if (f->in.kind == VAL_STR && f->in.s.n) return val_str_view(val_sub(f->in.s, 0, 1));
    if (f->in.kind == VAL_ITER) {
        val_iter *it = f->in.iter;
        return it->at < it->list->n ? it->list->at[it->at++] : val_undef("the first item of nothing");
    }
    const val_list *items = filter__items(f);
    return items->n ? items->at[0] : val_undef("the first item of nothing");
}

static val filter__last(filter_in *f) {
    if (f->in.kind == VAL_ITER) filter__wrong(f, -1, "something that can be walked backwards");
    if (f->in.kind == VAL_STR && f->in.s.n) return val_index(f->env, f->in, val_int(-1));
    const val_list *items = filter__items(f);
    return items->n ? items->at[items->n - 1] : val_undef("the last item of nothing");
}

static val filter__length(filter_in *f) {
    if (f->in.kind == VAL_UNDEF) return val_int(0);
    if (!val_has_len(f->in)) filter__wrong(f, -1, "something with a length");
    return val_int((int64_t)val_len(f->env, f->in));
}

/* join: the printed forms of all items. */
static val filter__join(filter_in *f) {
    const val_list   *items = filter__items(f);
    const filter_path p = filter__path(f, f->a[1], false);
    const val_str     between = val_as_str(f->env, f->a[0]);
    val_buf          *b = val_buf_new(f->env);
    for (size_t i = 0; i < items->n; i++) {
        val_step(f->env, 1);
        if (i) val_buf_add(f->env, b, between);
        val_print(f->env, b, filter__follow(f, &p, items->at[i]));
    }
    return val_str_view(val_buf_str(b));
}

static val filter__pairs(filter_in *f) {
    if (f->in.kind == VAL_UNDEF) return val_iter_of(f->env, val_list_new(f->env).list);
    if (f->in.kind != VAL_DICT) filter__wrong(f, -1, "dict");
    return val_iter_of(f->env, filter__copied(f->env, val_items(f->env, val_view_of(f->in.dict, VAL_ITEMS))));
}

/* --- filters of strings --- */

/* string: the value as a string; a safe one stays so. */
static val filter__string(filter_in *f) { return filter__like(f->in, val_as_str(f->env, f->in)); }

static val filter__case(filter_in *f) {
    return filter__like(f->in, filter__cased(f->env, val_as_str(f->env, f->in), (enum filter_case)f->row->with));
}

static bool filter__between_words(val_chr c) {
    return filter_is_space(c) || (VAL_CHAR(c) < 128 && strchr("-({[<", (int)VAL_CHAR(c)));
}

/* title: a word begins after a blank or one of - ( { [ <. Words are put in lower case one by one. */
static val filter__title(filter_in *f) {
    const val_str s = val_as_str(f->env, f->in);
    val_buf      *b = val_buf_new(f->env);
    val_step_chars(f->env, 4 * (uint64_t)s.n);
    for (size_t i = 0, end; i < s.n; i = end) {
        const bool gap = filter__between_words(s.p[i]);
        for (end = i + 1; end < s.n && filter__between_words(s.p[end]) == gap; end++) {}
        const val_str word = val_sub(s, i, end);
        filter__put_upper(f->env, b, word.p[0]);
        for (size_t k = 1; k < word.n; k++) filter__put_lower(f->env, b, val_sub(word, 1, word.n), k - 1);
    }
    return val_str_view(val_buf_str(b));
}

/* Whether a character is one of these; NULL: whether it is whitespace. */
static bool filter__among(val_env *env, const val_str *chars, val_chr c) {
    if (!chars) return filter_is_space(c);
    val_step_chars(env, chars->n);
    for (size_t i = 0; i < chars->n; i++)
        if (VAL_CHAR(chars->p[i]) == VAL_CHAR(c)) return true;
    return false;
}

enum { FILTER_LEFT = 1, FILTER_RIGHT = 2 };

/* trim, strip, lstrip, rstrip: with says which ends; without an argument whitespace goes. */
static val filter__strip(filter_in *f) {
    const val_str s = val_as_str(f->env, f->in);
    const val_str  given = f->a[0].kind == VAL_NONE ? (val_str){0} : filter__str(f, 0);
    const val_str *chars = f->a[0].kind == VAL_NONE ? NULL : &given;
    size_t         from = 0, to = s.n;
    while (f->row->with & FILTER_LEFT && from < to && filter__among(f->env, chars, s.p[from])) from++;
    while (f->row->with & FILTER_RIGHT && to > from && filter__among(f->env, chars, s.p[to - 1])) to--;
    val_step_chars(f->env, 8 * (uint64_t)(s.n - (to - from)));
    return filter__like(f->in, val_sub(s, from, to));
}

/* Replaces at most `most` times (negative: all). An empty text is before each character and at the end. */
static val_str filter__replaced(val_env *env, val_str s, val_str old, val_str new, int64_t most) {
    val_buf *b = val_buf_new(env);
    size_t   at = 0;
    for (int64_t n = 0; most < 0 || n < most; n++) {
        const int64_t found = at <= s.n ? val_find(env, s, old, at, s.n) : -1;
        if (found < 0) break;
        val_step(env, 1);
        val_buf_add(env, b, val_sub(s, at, (size_t)found));
        val_buf_add(env, b, new);
        at = (size_t)found + old.n;
        if (old.n) continue;
        if (at < s.n) val_buf_chr(env, b, s.p[at]);
        at++;
    }
    if (at < s.n) val_buf_add(env, b, val_sub(s, at, s.n));
    return val_buf_str(b);
}

static val filter__replace(filter_in *f) {
    const int64_t most = f->a[2].kind == VAL_NONE ? -1 : filter__int(f, 2);
    val_env      *env = f->env;
    return val_str_view(filter__replaced(env, val_as_str(env, f->in), val_as_str(env, f->a[0]), val_as_str(env, f->a[1]), most));
}

static bool filter__is_line_end(val_chr chr) {
    const val_chr c = VAL_CHAR(chr);
    return (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

/* The lines of a string, with or without their ends, as Python's splitlines. */
static val_list *filter__lines(val_env *env, val_str s, bool keep) {
    val_list *out = val_list_new(env).list;
    val_step_chars(env, s.n);
    for (size_t from = 0, i = 0; from < s.n; from = i) {
        for (i = from; i < s.n && !filter__is_line_end(s.p[i]); i++) {}
        const size_t end = i;
        if (i + 1 < s.n && VAL_CHAR(s.p[i]) == 13 && VAL_CHAR(s.p[i + 1]) == 10) i++;
        i += i < s.n;
        val_step(env, 1);
        val_list_add(env, out, val_str_view(val_sub(s, from, keep ? i : end)));
    }
    return out;
}

static val filter__indent(filter_in *f) {
    const val_str s = filter__str(f, -1);
    val_buf      *by = val_buf_new(f->env), *b = val_buf_new(f->env), *ended = val_buf_new(f->env);
    if (f->a[0].kind == VAL_STR) {
        val_buf_add(f->env, by, f->a[0].s);
    } else {
        const int64_t n = filter__int(f, 0);
        filter__fill(f->env, by, ' ', n > 0 ? (uint64_t)n : 0);
    }
    val_buf_add(f->env, ended, s);
    val_buf_chr(f->env, ended, '\n');                 /* so that an end of a line at the end counts */
    const val_list *lines = filter__lines(f->env, val_buf_str(ended), false);
    for (size_t i = 0; i < lines->n; i++) {
        const bool indented = i == 0 ? val_truth(f->a[1]) : val_truth(f->a[2]) || lines->at[i].s.n;
        if (i) val_buf_chr(f->env, b, '\n');
        if (indented) filter__room(f->env, b, by->n), val_buf_add(f->env, b, val_buf_str(by));
        val_buf_add(f->env, b, lines->at[i].s);
    }
    return filter__like(f->in, val_buf_str(b));
}

static val filter__marked_safe(filter_in *f) {
    val v = val_str_view(val_as_str(f->env, f->in));
    v.safe = true;
    return v;
}

static val_list *filter__words(val_env *env, val_str s, int64_t most) {
    val_list *out = val_list_new(env).list;
    val_step_chars(env, s.n);
    for (size_t i = 0, from;; most--) {
        while (i < s.n && val_is(VAL_IS_SPACE, s.p[i])) i++;
        if (i == s.n) return out;
        for (from = i; i < s.n && (most == 0 || !val_is(VAL_IS_SPACE, s.p[i])); i++) {}
        val_list_add(env, out, val_str_view(val_sub(s, from, i)));
        if (most == 0) return out;
    }
}

/* --- filters of numbers --- */

/* int: a text in the base, else as a float; the default where neither is a number. */
static val filter__to_int(filter_in *f) {
    double  d;
    int64_t n;
    if (f->in.kind == VAL_UNDEF) filter__wrong(f, -1, "a number or a text");
    if (f->in.kind == VAL_STR) {
        if (filter_read_int(f->env, f->in.s, filter__int(f, 1), &n)) return val_int(n);
        if (!filter_read_float(f->env, f->in.s, &d) || !isfinite(d)) return f->a[0];
        return val_trunc(f->env, d);
    }
    if (f->in.kind == VAL_FLOAT) return isnan(f->in.f) ? f->a[0] : val_trunc(f->env, f->in.f);
    return 1u << f->in.kind & FILTER_NUMBERS ? val_pos(f->env, f->in) : f->a[0];
}

/* --- filters of any value --- */

static val filter__default_value(filter_in *f) {
    return f->in.kind == VAL_UNDEF || (val_truth(f->a[1]) && !val_truth(f->in)) ? f->a[0] : f->in;
}

/* format: each %s of the text is the printed form of the next argument, %% is %. */
static val filter__format(filter_in *f) {
    const val_str s = val_as_str(f->env, f->in);
    val_buf      *b = val_buf_new(f->env);
    size_t        n = 0;
    val_step_chars(f->env, s.n);
    for (size_t i = 0; i < s.n; i++) {
        if (VAL_CHAR(s.p[i]) != '%') {
            val_buf_chr(f->env, b, s.p[i]);
            continue;
        }
        const val_chr  what = ++i < s.n ? VAL_CHAR(s.p[i]) : 0;
        const val_str  found = val_sub(s, i - 1, min_size(i + 1, s.n));
        if (what != 's' && what != '%')
            val_fail(f->env, EXIT_INPUT, "format(): found '%s', expected %%s or %%%%", val_quote(found).p);
        if (what == '%') {
            val_buf_chr(f->env, b, s.p[i]);
            continue;
        }
        if (n == f->args->n) val_fail(f->env, EXIT_INPUT, "format(): the text has more %%s than the %zu arguments", n);
        const val v = val_str_view(val_as_str(f->env, f->args->at[n]));
        val_buf_add(f->env, b, filter__beside(f->env, f->in, f->args->at[n].kind == VAL_STR ? f->args->at[n] : v));
        n++;
    }
    if (n < f->args->n) val_fail(f->env, EXIT_INPUT, "format(): %zu arguments for a text with %zu times %%s", f->args->n, n);
    return filter__like(f->in, val_buf_str(b));
}

/* tojson(ensure_ascii, indent, separators, sort_keys), as transformers has it: json.dumps without escapes for HTML. */
static val filter__tojson(filter_in *f) {
    val_json_form form = {.indent = f->a[1],
                          .item_sep = val_none(),
                          .key_sep = val_none(),
                          .sort_keys = val_truth(f->a[3]),
                          .ensure_ascii = val_truth(f->a[0])};
    val_buf      *b = val_buf_new(f->env);
    if (form.indent.kind != VAL_NONE && form.indent.kind != VAL_STR) form.indent = val_int(filter__int(f, 1));
    if (f->a[2].kind != VAL_NONE) {
        const val_list *two = val_items(f->env, f->a[2]);
        if (two->n != 2 || two->at[0].kind != VAL_STR || two->at[1].kind != VAL_STR) filter__wrong(f, 2, "two strings");
        form.item_sep = two->at[0];
        form.key_sep = two->at[1];
    }
    val_json_write(f->env, b, f->in, &form);
    return val_str_view(val_buf_str(b));
}

static val filter__fromjson(filter_in *f) { return val_json_parse(f->env, filter__str(f, -1)); }

/* --- tests --- */

static val filter__is_kind(filter_in *f) { return val_bool((unsigned)f->row->with >> f->in.kind & 1); }
static val filter__is_bool(filter_in *f) { return val_bool(f->in.kind == VAL_BOOL && f->in.b == (f->row->with != 0)); }
static val filter__is_iterable(filter_in *f) { return val_bool(val_iterable(f->in)); }

/* even, odd: whether value % 2 is `with`. */
static val filter__is_parity(filter_in *f) {
    return val_bool(val_eq(f->env, val_mod(f->env, f->in, val_int(2)), val_int(f->row->with)));
}

static val filter__is_equal(filter_in *f) { return val_bool(val_eq(f->env, f->in, f->a[0])); }

/* --- methods of strings --- */

/* startswith, endswith: with a tuple, one of its strings. */
static val filter__has_end(filter_in *f) {
    const val *one = f->a;
    size_t     n = 1;
    if (f->a[0].kind == VAL_TUPLE) one = f->a[0].list->at, n = f->a[0].list->n;
    for (size_t i = 0; i < n; i++) {
        val_step(f->env, 1);
        if (one[i].kind != VAL_STR)
            val_fail(f->env, EXIT_INPUT, "%s(): found %s, expected str or a tuple of str", f->row->head.name,
                val_kind_name(one[i]));
        const val_str all = f->in.s, s = one[i].s;
        if (s.n > all.n) continue;
        val_step_chars(f->env, s.n);
        if (val_str_eq(s, f->row->with == FILTER_RIGHT ? val_sub(all, all.n - s.n, all.n) : val_sub(all, 0, s.n)))
            return val_bool(true);
    }
    return val_bool(false);
}

/* What is between the separators, at most `most` of them (negative: all). */
static val_list *filter__split_by(filter_in *f, val_str s, val_str by, int64_t most) {
    val_list *out = val_list_new(f->env).list;
    if (!by.n) val_fail(f->env, EXIT_INPUT, "split(): the separator is empty");
    for (; most != 0; most--) {
        const int64_t at = val_find(f->env, s, by, 0, s.n);
        if (at < 0) break;
        val_step(f->env, 1);
        val_list_add(f->env, out, val_str_view(val_sub(s, 0, (size_t)at)));
        s = val_sub(s, (size_t)at + by.n, s.n);
    }
    val_list_add(f->env, out, val_str_view(s));
    return out;
}

/* A list of strings that are safe where the string in front is. */
static val filter__strings(filter_in *f, val_list *l) {
    for (size_t i = 0; i < l->n; i++) l->at[i].safe = f->in.safe;
    return val_of_list(l);
}

/* split: by a text, or into words. */
static val filter__split(filter_in *f) {
    const int64_t most = max_i64(filter__int(f, 1), -1);
    const bool    words = f->a[0].kind == VAL_NONE;
    return filter__strings(f,
        words ? filter__words(f->env, f->in.s, most) : filter__split_by(f, f->in.s, filter__str(f, 0), most));
}

static val filter__replace_text(filter_in *f) {
    filter__str(f, 1);
    return filter__like(f->in,
        filter__replaced(f->env, f->in.s, filter__str(f, 0), filter__beside(f->env, f->in, f->a[1]), filter__int(f, 2)));
}

/* --- methods of lists --- */

static val filter__append(filter_in *f) {
    val_list_add(f->env, f->in.list, f->a[0]);
    return val_none();
}

static val filter__pop(filter_in *f) {
    val_list *l = f->in.list;
    int64_t   i = filter__int(f, 0);
    if (i < 0 && i >= -(int64_t)l->n) i += (int64_t)l->n;
    if (i < 0 || i >= (int64_t)l->n) val_fail(f->env, EXIT_INPUT, "pop(): item %lld of a list of %zu", (long long)i, l->n);
    const val v = l->at[i];
    val_step(f->env, (l->n - (size_t)i) / 16);
    for (size_t k = (size_t)i + 1; k < l->n; k++) l->at[k - 1] = l->at[k];
    l->n--;
    return v;
}

/* --- methods of dicts --- */

static val filter__view(filter_in *f) { return val_view_of(f->in.dict, f->row->with); }

static val filter__get(filter_in *f) {
    bool      found;
    const val v = val_dict_get(f->in.dict, f->a[0], &found);
    return found ? v : f->a[1];
}

/* Adds the entries of a mapping, or of a list of pairs. */
static void filter__add_entries(filter_in *f, val_dict *d, val from) {
    val_defined(f->env, from);
    const val_list *pairs = val_items(f->env, from.kind == VAL_DICT ? val_view_of(from.dict, VAL_ITEMS) : from);
    for (size_t i = 0; i < pairs->n; i++) {
        const val_list *pair = val_items(f->env, pairs->at[i]);
        val_step(f->env, 1);
        if (pair->n != 2)
            val_fail(f->env, EXIT_INPUT, "%s(): item %zu has %zu parts, expected two", f->row->head.name, i, pair->n);
        val_dict_set(f->env, d, pair->at[0], pair->at[1]);
    }
}

/* Adds what a call has: a mapping by position, and entries by name. */
static void filter__fill_dict(filter_in *f, val_dict *d) {
    if (filter__given(f, 0)) filter__add_entries(f, d, f->a[0]);
    if (f->args->named) filter__add_entries(f, d, val_of_dict(f->args->named));
}

static val filter__update(filter_in *f) {
    filter__fill_dict(f, f->in.dict);
    return val_none();
}

/* --- objects of global functions --- */

static val filter__call_row(val_env *env, const val_func *func, val self, const val_args *args) {
    return filter_call(env, (const filter_row *)func, self, args);
}

typedef struct {
    val_object base;
    val_dict  *at;
} filter_namespace;

static bool filter__namespace_get(val_env *env, val_object *o, val_str name, val *out) {
    bool found;
    (void)env;
    *out = val_dict_get(((filter_namespace *)o)->at, val_str_view(name), &found);
    return found;
}

static bool filter__namespace_set(val_env *env, val_object *o, val_str name, val v) {
    val_dict_set(env, ((filter_namespace *)o)->at, val_str_view(name), v);
    return true;
}

static val_dict *filter__namespace_dict(val_object *o) { return ((filter_namespace *)o)->at; }

static val filter__namespace(filter_in *f) {
    static const val_class type = {
        .name = "Namespace", .get = filter__namespace_get, .set = filter__namespace_set, .dict = filter__namespace_dict,
    };
    filter_namespace *o = val_alloc(f->env, 1, sizeof *o);
    *o = (filter_namespace){{&type}, val_dict_new(f->env).dict};
    filter__fill_dict(f, o->at);
    return val_of_object(&o->base);
}

/* --- global functions --- */

enum { FILTER_RANGE_MAX = 100000 };                   /* items of a range, as in Jinja2's sandbox */

static val filter__range_of(filter_in *f) {
    const bool one = !filter__given(f, 1);
    val        v = val_range_of(one ? 0 : filter__int(f, 0), filter__int(f, one ? 0 : 1), filter__int(f, 2));
    if (!v.range.step) val_fail(f->env, EXIT_INPUT, "range(): the step is 0");
    if (val_len(f->env, v) > FILTER_RANGE_MAX) val_fail(f->env, EXIT_INPUT, "range(): more than %d items", FILTER_RANGE_MAX);
    return v;
}

static val filter__dict_of(filter_in *f) {
    val d = val_dict_new(f->env);
    filter__fill_dict(f, d.dict);
    return d;
}

/* Ends the rendering with the template's own words. */
__attribute__((noreturn)) static val filter__raise(filter_in *f) {
    const val_str s = val_as_str(f->env, f->a[0]);
    char          text[400];
    size_t        n = 0;
    for (size_t i = 0; i < s.n && n < sizeof text - 5; i++) n += val_encode(VAL_CHAR(s.p[i]), text + n);
    val_fail(f->env, EXIT_INPUT, "raise_exception: %.*s", (int)n, text);
}

/* Appends one conversion of strftime, such as %d or %-5d. */
static void filter__put_time(val_env *env, val_buf *b, const char *format, const struct tm *t) {
    char         text[512];
    const size_t n = strftime(text, sizeof text, format, t);
    if (!n && format[strlen(format) - 1] != 'p' && format[strlen(format) - 1] != 'P')
        val_fail(env, EXIT_INPUT, "strftime_now(): the result of '%s' is too long", format);
    text[n] = 0;
    val_buf_put(env, b, text);
}

/* strftime_now(format): local time in a form of strftime, as Python's datetime writes it: %f are microseconds, and a time
 * without a zone has empty %z and %Z. */
static val filter__strftime(filter_in *f) {
    const val_str   s = filter__str(f, 0);
    val_buf        *b = val_buf_new(f->env);
    struct timespec now;
    struct tm       t;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &t);
    val_step_chars(f->env, s.n);
    for (size_t i = 0; i < s.n; i++) {
        char   one[16] = "%", micro[32];
        size_t n = 1;
        if (VAL_CHAR(s.p[i]) != '%' || i + 1 == s.n) {
            val_buf_chr(f->env, b, s.p[i]);
            continue;
        }
        val_chr c = VAL_CHAR(s.p[++i]);
        for (; i + 1 < s.n && n < sizeof one - 2 && c < 128 && strchr("_-^#0123456789EO", (int)c); c = VAL_CHAR(s.p[++i]))
            one[n++] = (char)c;
        one[n] = (char)c;
        val_step(f->env, 1);
        if (c == 'f' && n == 1) {
            snprintf(micro, sizeof micro, "%06ld", now.tv_nsec / 1000);
            val_buf_put(f->env, b, micro);
        } else if (c < 128 && c && strchr("aAbBcCdDeFgGhHIjklmMnpPrRsSTtuUVwWxXyY%", (int)c)) {
            filter__put_time(f->env, b, one, &t);
        } else if (c != 'z' && c != 'Z') {
            val_buf_put(f->env, b, "%");
            for (size_t k = 1; k < n; k++) val_buf_chr(f->env, b, (uint8_t)one[k]);
            val_buf_chr(f->env, b, s.p[i]);
        }
    }
    return val_str_view(val_buf_str(b));
}

/* --- tables: name, parameters, function --- */

#define FILTER_ROW(name, params, run, with) {{name, filter__call_row}, params, run, 0, with}
#define FILTER_METHOD(kinds, name, params, run, with) {{name, filter__call_row}, params, run, kinds, with}

static const filter_row filter__filters[] = {
    FILTER_ROW("capitalize", "", filter__case, FILTER_CAPITAL),
    FILTER_ROW("default", "default_value='' boolean=false", filter__default_value, 0),
    FILTER_ROW("dictsort", "case_sensitive=false by='key' reverse=false", filter__dictsort, 0),
    FILTER_ROW("first", "", filter__first, 0),
    FILTER_ROW("format", "* /", filter__format, 0),
    FILTER_ROW("from_json", "", filter__fromjson, 0),
    FILTER_ROW("indent", "width=4 first=false blank=false", filter__indent, 0),
    FILTER_ROW("int", "default=0 base=10", filter__to_int, 0),
    FILTER_ROW("items", "", filter__pairs, 0),
    FILTER_ROW("join", "d='' attribute=none", filter__join, 0),
    FILTER_ROW("last", "", filter__last, 0),
    FILTER_ROW("length", "/", filter__length, 0),
    FILTER_ROW("list", "", filter__list, 0),
    FILTER_ROW("lower", "", filter__case, FILTER_LOWER),
    FILTER_ROW("map", "* **", filter__map, 0),
    FILTER_ROW("max", "case_sensitive=false attribute=none", filter__extreme, 1),
    FILTER_ROW("min", "case_sensitive=false attribute=none", filter__extreme, 0),
    FILTER_ROW("reject", "* **", filter__select, FILTER_REJECT),
    FILTER_ROW("rejectattr", "* **", filter__select, FILTER_REJECT | FILTER_BY_ATTRIBUTE),
    FILTER_ROW("replace", "old new count=none", filter__replace, 0),
    FILTER_ROW("safe", "", filter__marked_safe, 0),
    FILTER_ROW("select", "* **", filter__select, 0),
    FILTER_ROW("selectattr", "* **", filter__select, FILTER_BY_ATTRIBUTE),
    FILTER_ROW("sort", "reverse=false case_sensitive=false attribute=none", filter__sort, 0),
    FILTER_ROW("string", "", filter__string, 0),
    FILTER_ROW("title", "", filter__title, 0),
    FILTER_ROW("tojson", "ensure_ascii=false indent=none separators=none sort_keys=false", filter__tojson, 0),
    FILTER_ROW("trim", "chars=none", filter__strip, FILTER_LEFT | FILTER_RIGHT),
    FILTER_ROW("unique", "case_sensitive=false attribute=none", filter__unique, 0),
    FILTER_ROW("upper", "", filter__case, FILTER_UPPER),
};

static const filter_row filter__tests[] = {
    FILTER_ROW("boolean", "", filter__is_kind, FILTER_KIND(VAL_BOOL)),
    FILTER_ROW("defined", "", filter__is_kind, FILTER_KIND(VAL_KINDS) - 1 - FILTER_KIND(VAL_UNDEF)),
    FILTER_ROW("eq", "b /", filter__is_equal, 0),
    FILTER_ROW("equalto", "b /", filter__is_equal, 0),
    FILTER_ROW("even", "", filter__is_parity, 0),
    FILTER_ROW("false", "", filter__is_bool, 0),
    FILTER_ROW("float", "", filter__is_kind, FILTER_KIND(VAL_FLOAT)),
    FILTER_ROW("integer", "", filter__is_kind, FILTER_INTS),
    FILTER_ROW("iterable", "", filter__is_iterable, 0),
    FILTER_ROW("mapping", "", filter__is_kind, FILTER_KIND(VAL_DICT)),
    FILTER_ROW("none", "", filter__is_kind, FILTER_KIND(VAL_NONE)),
    FILTER_ROW("number", "", filter__is_kind, FILTER_NUMBERS),
    FILTER_ROW("odd", "", filter__is_parity, 1),
    FILTER_ROW("sequence", "", filter__is_kind, FILTER_SIZED),
    FILTER_ROW("string", "", filter__is_kind, FILTER_KIND(VAL_STR)),
    FILTER_ROW("true", "", filter__is_bool, 1),
    FILTER_ROW("undefined", "", filter__is_kind, FILTER_KIND(VAL_UNDEF)),
};

#define FILTER_STR(name, params, run, with) FILTER_METHOD(FILTER_KIND(VAL_STR), name, params, run, with)
#define FILTER_LIST(name, params, run, with) FILTER_METHOD(FILTER_KIND(VAL_LIST), name, params, run, with)
#define FILTER_DICT(name, params, run, with) FILTER_METHOD(FILTER_KIND(VAL_DICT), name, params, run, with)

/* Methods, by the kinds that have them. */
static const filter_row filter__methods[] = {
    FILTER_STR("capitalize", "/", filter__case, FILTER_CAPITAL),
    FILTER_STR("endswith", "suffix /", filter__has_end, FILTER_RIGHT),
    FILTER_STR("lower", "/", filter__case, FILTER_LOWER),
    FILTER_STR("lstrip", "chars=none /", filter__strip, FILTER_LEFT),
    FILTER_STR("replace", "old new count=-1 /", filter__replace_text, 0),
    FILTER_STR("rstrip", "chars=none /", filter__strip, FILTER_RIGHT),
    FILTER_STR("split", "sep=none maxsplit=-1", filter__split, 0),
    FILTER_STR("startswith", "prefix /", filter__has_end, FILTER_LEFT),
    FILTER_STR("strip", "chars=none /", filter__strip, FILTER_LEFT | FILTER_RIGHT),
    FILTER_STR("title", "/", filter__case, FILTER_TITLE),
    FILTER_STR("upper", "/", filter__case, FILTER_UPPER),

    FILTER_LIST("append", "object /", filter__append, 0),
    FILTER_LIST("pop", "index=-1 /", filter__pop, 0),

    FILTER_DICT("get", "key default=none /", filter__get, 0),
    FILTER_DICT("items", "/", filter__view, VAL_ITEMS),
    FILTER_DICT("keys", "/", filter__view, VAL_KEYS),
    FILTER_DICT("update", "other=? / **", filter__update, 0),
    FILTER_DICT("values", "/", filter__view, VAL_VALUES),
};

static const filter_row filter__functions[] = {
    FILTER_ROW("dict", "iterable=? / **", filter__dict_of, 0),
    FILTER_ROW("namespace", "iterable=? / **", filter__namespace, 0),
    FILTER_ROW("raise_exception", "message", filter__raise, 0),
    FILTER_ROW("range", "start stop=? step=1 /", filter__range_of, 0),
    FILTER_ROW("strftime_now", "format", filter__strftime, 0),
};

static const struct {
    const char       *what;
    const filter_row *rows;
    size_t            n;
} filter__tables[] = {
    [FILTER_OF_FILTERS] = {"filter", filter__filters, sizeof filter__filters / sizeof *filter__filters},
    [FILTER_OF_TESTS] = {"test", filter__tests, sizeof filter__tests / sizeof *filter__tests},
    [FILTER_OF_FUNCTIONS] = {"function", filter__functions, sizeof filter__functions / sizeof *filter__functions},
    [FILTER_OF_VALUES] = {"method", filter__methods, sizeof filter__methods / sizeof *filter__methods},
};

/* --- looking up rows --- */

static const filter_row *filter__row_in(int table, bytes name, unsigned kinds) {
    for (size_t i = 0; name.n && i < filter__tables[table].n; i++) {
        const filter_row *row = &filter__tables[table].rows[i];
        if ((!kinds || row->kinds & kinds) && name.p[0] == (uint8_t)row->head.name[0] && bytes_is(name, row->head.name))
            return row;
    }
    return NULL;
}

/* The filter of this name; NULL: there is none. */
static const filter_row *filter_find(bytes name) { return filter__row_in(FILTER_OF_FILTERS, name, 0); }
/* The same of tests, what `is` asks. */
static const filter_row *test_find(bytes name) { return filter__row_in(FILTER_OF_TESTS, name, 0); }
/* The same of functions that every template has. */
static const filter_row *function_find(bytes name) { return filter__row_in(FILTER_OF_FUNCTIONS, name, 0); }

/* The end of an error about an unknown name: " (is 'upper' meant?)" with the nearest filter, test or function; "" where
 * none is near. */
typedef struct {
    char p[64];
} filter_hint;

/* The hint for a name that is none. */
static filter_hint filter_nearest(bytes name) {
    filter_hint hint = {""};
    int         best = bytes_slack(name) + 1;
    for (int t = FILTER_OF_FILTERS; t <= FILTER_OF_FUNCTIONS; t++)
        for (size_t i = 0; i < filter__tables[t].n; i++) {
            const char *known = filter__tables[t].rows[i].head.name;
            const int   d = bytes_distance(name, bytes_of(known));
            if (d >= best) continue;
            best = d;
            snprintf(hint.p, sizeof hint.p, " (is '%.32s' meant?)", known);
        }
    return hint;
}

enum { FILTER_NAME_MAX = 32 };                        /* longer than any name of a row */

/* A name as ASCII; empty where it can be no name of a row. */
static bytes filter__ascii_name(val_str s, char text[FILTER_NAME_MAX]) {
    if (s.n >= FILTER_NAME_MAX) return (bytes){0};
    for (size_t i = 0; i < s.n; i++) {
        if (VAL_CHAR(s.p[i]) >= 128) return (bytes){0};
        text[i] = (char)s.p[i];
    }
    return (bytes){(const uint8_t *)text, s.n};
}

static const filter_row *filter__row_named(int table, val_str s) {
    char text[FILTER_NAME_MAX];
    return filter__row_in(table, filter__ascii_name(s, text), 0);
}

static const filter_row *filter__row_of(val_env *env, int table, val name) {
    if (name.kind != VAL_STR)
        val_fail(env, EXIT_INPUT, "the name of a %s is %s, expected str", filter__tables[table].what, val_kind_name(name));
    const filter_row *row = filter__row_named(table, name.s);
    const val_quoted q = val_quote(name.s);
    if (!row)
        val_fail(env, EXIT_INPUT, "found '%s', which is no %s here%s", q.p, filter__tables[table].what,
            filter_nearest(bytes_of(q.p)).p);
    return row;
}

/* v.name, where it is a method or an attribute of the value's kind, not an entry. False: there is none. */
static bool filter__attribute(val_env *env, val v, val_str name, val *out) {
    char text[FILTER_NAME_MAX];
    if (v.kind == VAL_OBJECT) return v.object->type->get && v.object->type->get(env, v.object, name, out);
    const filter_row *row = filter__row_in(FILTER_OF_VALUES, filter__ascii_name(name, text), 1u << v.kind);
    if (row) *out = val_bind(env, &row->head, v);
    return row != NULL;
}

/* v.name: an attribute, else the entry of a dict. Undefined, without a name, where there is neither, and for names that
 * begin with two underscores. */
static val filter_getattr(val_env *env, val v, val_str name) {
    val out;
    val_defined(env, v);
    if (name.n >= 2 && VAL_CHAR(name.p[0]) == '_' && VAL_CHAR(name.p[1]) == '_') return val_undef(NULL);
    if (filter__attribute(env, v, name, &out)) return out;
    return v.kind == VAL_DICT ? val_dict_get(v.dict, val_str_view(name), NULL) : val_undef(NULL);
}

/* v[key]: an item or entry, else the attribute of this name. Undefined, without a name, where there is neither. */
static val filter_getitem(val_env *env, val v, val key) {
    const val item = val_index(env, v, key);
    val       out;
    if (item.kind != VAL_UNDEF || key.kind != VAL_STR) return item;
    if (key.s.n >= 2 && VAL_CHAR(key.s.p[0]) == '_' && VAL_CHAR(key.s.p[1]) == '_') return item;
    return filter__attribute(env, v, key.s, &out) ? out : item;
}
