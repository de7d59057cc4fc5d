/* ===== [filter] filters, tests, methods and functions of templates =====
 * What a template can call, each a row of a table: filters (`text | upper`), tests (`x is defined`), methods (`text.upper()`) and global functions
 * (`range(3)`), as Jinja2 3.1 and Python 3.11 define them; also attributes, and both kinds of Python's formats (`%` and str.format).
 *   A row names its parameters as Python does; filter_call() puts arguments in their places, so a row's function finds them in order.
 * Invariants: characters keep their origin through every row; sizes are checked before they are made; work counts as steps; a row
 * that sorts, searches or walks does not recurse. Results of map, select and their kin are made at once and read once, as Python's generators.
 *   To add a row: its function, and a line in filter__filters, filter__tests, filter__methods or filter__functions.
 * Public: filter_is_space, filter_is_word, filter_read_int, filter_read_float, filter_find, test_find, function_find, filter_call, filter_nearest, filter_getattr, filter_getitem, filter_format.
 * Opens: filter_row. */

/* --- characters --- */

static bool filter__is_digit(val_chr c) { return val_is(VAL_IS_DECIMAL, c) || val_is(VAL_IS_DIGIT, c); }
static bool filter__is_numeric(val_chr c) { return filter__is_digit(c) || val_is(VAL_IS_NUMERIC, c); }
static bool filter__is_alnum(val_chr c) { return val_is(VAL_IS_ALPHA, c) || filter__is_numeric(c); }
static bool filter__is_cased(val_chr c) { return val_is(VAL_IS_LOWER, c) || val_is(VAL_IS_UPPER, c) || val_is(VAL_IS_TITLE, c); }
static bool filter__is_word(val_chr c) { return VAL_CHAR(c) == '_' || filter__is_alnum(c); }

/* The value of a decimal digit of any script, -1: none. Their ranges begin at a zero and have ten or a multiple of ten characters. */
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

/* Whether the sigma at s[i] ends a word: a cased letter is before it and none after it; case-ignorable characters between do not count. */
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

static void filter__put_fold(val_env *env, val_buf *b, val_str s, size_t i) {
    if (VAL_CHAR(s.p[i]) == 0x3a3) val_buf_chr(env, b, 0x3c3 | (s.p[i] & VAL_INPUT));
    else if (!filter__put_mapped(env, b, s.p[i], VAL_TO_FOLD, VAL_FOLD_LONG)) filter__put_lower(env, b, s, i);
}

enum filter_case { FILTER_LOWER, FILTER_UPPER, FILTER_CAPITAL, FILTER_TITLE, FILTER_SWAP, FILTER_FOLD };

/* A string in another case, as Python's lower, upper, capitalize, title, swapcase and casefold. */
static val_str filter__cased(val_env *env, val_str s, enum filter_case to) {
    val_buf *b = val_buf_new(env);
    bool     in_word = false;
    val_step_chars(env, 4 * (uint64_t)s.n);
    val_buf_reserve(env, b, s.n);
    for (size_t i = 0; i < s.n; i++) {
        const bool first = to == FILTER_TITLE ? !in_word : to == FILTER_CAPITAL && i == 0;
        if (to == FILTER_TITLE) in_word = filter__is_cased(s.p[i]);
        if (first) filter__put_title(env, b, s.p[i]);
        else if (to == FILTER_FOLD) filter__put_fold(env, b, s, i);
        else if (to == FILTER_UPPER || (to == FILTER_SWAP && val_is(VAL_IS_LOWER, s.p[i]))) filter__put_upper(env, b, s.p[i]);
        else if (to == FILTER_SWAP && !val_is(VAL_IS_UPPER, s.p[i])) val_buf_chr(env, b, s.p[i]);
        else filter__put_lower(env, b, s, i);
    }
    return val_buf_str(b);
}

/* --- rows, and arguments of a call --- */

enum { FILTER_PARAMS = 6 };

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

/* `none`, `true`, `false`, 'text', a whole number, a fraction, or `?`: the function of the row sees that the argument is not there. */
static val filter__default(val_env *env, bytes word) {
    const char *p = (const char *)word.p;
    switch (*p) {
    case '?': return val_undef(filter__absent);
    case 'n': return val_none();
    case 't': return val_bool(true);
    case 'f': return val_bool(false);
    case '\'': return val_text(env, (bytes){word.p + 1, word.n - 2}, false);
    default: return memchr(p, '.', word.n) ? val_float(strtod(p, NULL)) : val_int(strtol(p, NULL, 10));
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
        if (!known) val_fail(f->env, EXIT_INPUT, "%s() has no parameter '%s'", f->row->head.name, val_quote(val_as_str(f->env, named->at[i].key)).p);
    }
    val_fail(f->env, EXIT_INPUT, "%s() takes no arguments by name", f->row->head.name);
}

/* Puts the arguments in the order of the parameters. The list of these is written as in Python: `name=default`; `/`: by position only; `*`, `**`:
 * any number more by position, by name. */
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
            if (p && n < f->args->n) val_fail(f->env, EXIT_INPUT, "%s() has two values for '%.*s'", f->row->head.name, (int)name.n, (const char *)name.p);
            if (n < f->args->n) f->a[n] = f->args->at[n];
            else if (p) f->a[n] = p->value, named++;
            else if (name.n < word.n) f->a[n] = filter__default(f->env, (bytes){word.p + name.n + 1, word.n - name.n - 1});
            else val_fail(f->env, EXIT_INPUT, "%s() lacks its argument '%.*s'", f->row->head.name, (int)name.n, (const char *)name.p);
            n++;
        }
    }
    if (!any && f->args->n > n) val_fail(f->env, EXIT_INPUT, "%s() takes %zu arguments at most, %zu are given", f->row->head.name, n, f->args->n);
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
    val_fail(f->env, EXIT_INPUT, "%s(): %s is %s, expected %s", f->row->head.name, filter__param(f, i).p, val_kind_name(v), expected);
}

static bool filter__is_int(val v) { return v.kind == VAL_INT || v.kind == VAL_BIG || v.kind == VAL_BOOL; }
static bool filter__is_number(val v) { return filter__is_int(v) || v.kind == VAL_FLOAT; }

/* A whole number as 64 bits; one beyond them becomes the nearest. False: no whole number. */
static bool filter__whole(val_env *env, val v, int64_t *out) {
    if (v.kind == VAL_BOOL) *out = v.b;
    else if (v.kind == VAL_INT) *out = v.i;
    else if (v.kind == VAL_BIG) *out = val_order(env, v, val_int(0), "<") < 0 ? INT64_MIN : INT64_MAX;
    else return false;
    return true;
}

static int64_t filter__int(filter_in *f, int i) {
    int64_t n = 0;
    if (!filter__whole(f->env, f->a[i], &n)) filter__wrong(f, i, "int");
    return n;
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

static bool filter__bool(filter_in *f, int i) { return val_truth(f->a[i]); }

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

static bool filter_is_space(val_chr c) { return val_is(VAL_IS_SPACE, c); }

/* Whether a name can have this character. */
static bool filter_is_word(val_chr c) { return VAL_CHAR(c) == '_' || val_is(VAL_IS_ALPHA, c) || val_is(VAL_IS_NUMERIC, c) || val_is(VAL_IS_DIGIT, c) || val_is(VAL_IS_DECIMAL, c); }

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

/* The digits of a whole number, `_` between two of them. False: it is none. */
static bool filter__digits(val_env *env, val_str s, int base, val *out) {
    int64_t part = 0, scale = 1;
    val     sum = val_int(0);
    if (!s.n || VAL_CHAR(s.p[s.n - 1]) == '_' || (base == 10 && s.n > VAL_DIGITS_MAX)) return false;
    for (size_t i = 0; i < s.n; i++) {
        if (VAL_CHAR(s.p[i]) == '_' && i > 0 && VAL_CHAR(s.p[i - 1]) != '_') continue;
        const int d = filter__digit(s.p[i]);
        if (d >= base) return false;
        part = part * base + d;
        scale *= base;
        if (scale < INT64_MAX / 36 / 36 && i + 1 < s.n) continue;
        sum = val_add(env, val_mul(env, sum, val_int(scale)), val_int(part));
        part = 0, scale = 1;
    }
    *out = sum;
    return true;
}

/* int(text, base) as Python's. False: the text is no such number. */
static bool filter_read_int(val_env *env, val_str s, int64_t base, val *out) {
    val_step_chars(env, s.n);
    s = filter__bare(s);
    const bool neg = s.n && VAL_CHAR(s.p[0]) == '-';
    if (s.n && (neg || VAL_CHAR(s.p[0]) == '+')) s = val_sub(s, 1, s.n);
    if (base != 0 && (base < 2 || base > 36)) return false;
    const int named = filter__prefix(s, base);
    if (named) s = val_sub(s, s.n > 2 && VAL_CHAR(s.p[2]) == '_' ? 3 : 2, s.n);
    const bool zero_led = base == 0 && !named && s.n > 1 && VAL_CHAR(s.p[0]) == '0';
    if (!filter__digits(env, s, named ? named : base ? (int)base : 10, out)) return false;
    if (zero_led && val_truth(*out)) return false;
    if (neg) *out = val_neg(env, *out);
    return true;
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

/* How a value is laid out in a format, of both kinds. */
typedef struct {
    val_chr fill;
    char    align;                                    /* < > ^ = ; 0: not given */
    char    sign;                                     /* + or blank; 0: minus signs alone */
    bool    alt, zero, no_minus_zero;                 /* # 0 z */
    char    group;                                    /* , or _; 0: none */
    int64_t width, precision;                         /* -1: none */
    val_chr type;                                     /* 0: none */
} filter_spec;

/* Appends blanks (or another fill) so that n characters take up the width; returns what must follow the text. */
static uint64_t filter__pad(val_env *env, val_buf *b, const filter_spec *sp, char align, uint64_t n) {
    const uint64_t pad = sp->width > 0 && (uint64_t)sp->width > n ? (uint64_t)sp->width - n : 0;
    const uint64_t left = align == '<' ? 0 : align == '^' ? pad / 2 : pad;
    filter__room(env, b, pad + n);
    filter__fill(env, b, sp->fill, left);
    return pad - left;
}

static void filter__put_text(val_env *env, val_buf *b, const filter_spec *sp, char align, val_str s) {
    if (sp->precision >= 0 && (uint64_t)sp->precision < s.n) s = val_sub(s, 0, (size_t)sp->precision);
    const uint64_t after = filter__pad(env, b, sp, sp->align ? sp->align : align, s.n);
    val_buf_add(env, b, s);
    filter__fill(env, b, sp->fill, after);
}

/* A number as text in parts: sign and prefix, whole digits, and what follows them. */
typedef struct {
    char    lead[4];
    val_str whole, rest;
} filter_digits;

/* Number of whole digits with the zeros that fill the width. */
static uint64_t filter__zeros(const filter_spec *sp, const filter_digits *d, int every) {
    const uint64_t other = strlen(d->lead) + d->rest.n;
    const uint64_t space = sp->align == '=' && sp->fill == '0' && sp->width > 0 && (uint64_t)sp->width > other ? (uint64_t)sp->width - other : 0;
    const uint64_t groups = space / (uint64_t)(every + 1), rest = space % (uint64_t)(every + 1);
    const uint64_t n = sp->group && space && d->whole.n ? groups * (uint64_t)every + (rest ? rest : 1) : space;
    return n > d->whole.n ? n : d->whole.n;
}

/* Appends a number. Zeros that fill the width belong to the whole digits, so that groups go through them. */
static void filter__put_number(val_env *env, val_buf *b, const filter_spec *sp, const filter_digits *d) {
    const int      every = memchr("bBoxX", (int)sp->type, 5) && sp->type ? 4 : 3;
    const uint64_t digits = filter__zeros(sp, d, every), marks = sp->group && d->whole.n ? (digits - 1) / (uint64_t)every : 0;
    const char     align = sp->align ? sp->align : '>';
    const uint64_t n = strlen(d->lead) + digits + marks + d->rest.n;
    uint64_t       after = 0;
    if (align != '=') after = filter__pad(env, b, sp, align, n);
    val_buf_put(env, b, d->lead);
    if (align == '=' && sp->width > 0 && (uint64_t)sp->width > n) filter__fill(env, b, sp->fill, (uint64_t)sp->width - n);
    filter__room(env, b, digits + marks);
    for (uint64_t i = digits; i > 0; i--) {
        val_buf_chr(env, b, i > d->whole.n ? '0' : d->whole.p[d->whole.n - i]);
        if (marks && i > 1 && (i - 1) % (uint64_t)every == 0) val_buf_chr(env, b, (val_chr)sp->group);
    }
    val_buf_add(env, b, d->rest);
    filter__fill(env, b, sp->fill, after);
}

static char filter__sign(const filter_spec *sp, bool neg) { return neg ? '-' : sp->sign; }

/* |v| of a whole number; True is 1. */
static val filter__magnitude(val_env *env, val v) {
    v = val_pos(env, v);
    return val_order(env, v, val_int(0), "<") == -1 ? val_neg(env, v) : v;
}

static val_str filter__in_base(val_env *env, val v, int base) {
    val_buf *b = val_buf_new(env);
    val_put_int(env, b, v, (uint32_t)base);
    return val_buf_str(b);
}

/* The text with its ASCII letters in upper case. */
static val_str filter__large(val_env *env, val_str s) {
    val_buf *b = val_buf_new(env);
    for (size_t i = 0; i < s.n; i++) val_buf_chr(env, b, s.p[i] >= 'a' && s.p[i] <= 'z' ? s.p[i] - 32 : s.p[i]);
    return val_buf_str(b);
}

/* A whole number in the base of the type. */
static void filter__put_int(val_env *env, val_buf *b, const filter_spec *sp, val v) {
    const char    type = sp->type ? (char)sp->type : 'd';
    const int     base = type == 'b' ? 2 : type == 'o' ? 8 : (type | 32) == 'x' ? 16 : 10;
    const bool    neg = val_order(env, v, val_int(0), "<") == -1;
    filter_digits d = {.lead = "", .whole = filter__in_base(env, filter__magnitude(env, v), base)};
    if (type == 'X') d.whole = filter__large(env, d.whole);
    size_t n = 0;
    if (filter__sign(sp, neg)) d.lead[n++] = filter__sign(sp, neg);
    if (sp->alt && base != 10) d.lead[n++] = '0', d.lead[n++] = type;
    filter__put_number(env, b, sp, &d);
}

/* |x| in the form of a type of Python, as ASCII: e f g with a precision; `r` is the shortest text that gives the same float. */
static val_str filter__float_text(val_env *env, double x, char form, int64_t precision, bool alt) {
    val_buf *b = val_buf_new(env);
    bool     point = false;
    if (isnan(x) || isinf(x)) {
        val_buf_put(env, b, isnan(x) ? "nan" : "inf");
    } else if (form == 'r') {
        const val_float_text text = val_float_repr(x);
        for (const char *p = text.p; *p; p++) {
            point = point || *p == '.';
            if (alt && !point && *p == 'e') val_buf_chr(env, b, '.');
            val_buf_chr(env, b, (uint8_t)*p);
        }
    } else {
        char fmt[] = {'%', '#', '.', '*', form, 0};
        if (!alt) memmove(fmt + 1, fmt + 2, 4);
        if (precision > INT_MAX - 512) val_fail(env, EXIT_INPUT, "a precision of %lld is too large", (long long)precision);
        val_room(env, (uint64_t)precision + 512, sizeof(val_chr) + 1);
        char *text = val_alloc(env, (uint64_t)precision + 512, 1);
        snprintf(text, (size_t)precision + 512, fmt, (int)precision, x);
        val_step_chars(env, (size_t)precision * 4);
        val_buf_put(env, b, text);
    }
    return val_buf_str(b);
}

/* A float without a type but with a precision: as g, with one digit at least after the point. */
static val_str filter__float_general(val_env *env, double x, int64_t precision) {
    const int64_t p = precision ? precision : 1;
    if (isnan(x) || isinf(x)) return filter__float_text(env, x, 'e', 0, false);
    const val_str e = filter__float_text(env, x, 'e', p - 1, false);
    val_buf      *b = val_buf_new(env);
    size_t        at = 0;
    int           exp = 0;
    while (VAL_CHAR(e.p[at]) != 'e') at++;
    for (size_t i = at + 2; i < e.n; i++) exp = exp * 10 + (int)(e.p[i] - '0');
    if (e.p[at + 1] == '-') exp = -exp;
    const bool    use_exp = exp < -4 || exp >= p - 1;
    val_str       digits = use_exp ? val_sub(e, 0, at) : filter__float_text(env, x, 'f', p - 1 - exp, false);
    bool          point = false;
    for (size_t i = 0; i < digits.n; i++) point = point || digits.p[i] == '.';
    while (point && digits.p[digits.n - 1] == '0') digits.n--;
    if (point && digits.p[digits.n - 1] == '.') digits.n--, point = false;
    val_buf_add(env, b, digits);
    if (use_exp) val_buf_add(env, b, val_sub(e, at, e.n));
    else if (!point) val_buf_put(env, b, ".0");
    return val_buf_str(b);
}

/* Whether every digit of the text is 0. */
static bool filter__is_zero(val_str s) {
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] != '0' && s.p[i] != '.') return s.p[i] == 'e';
    return true;
}

/* A float in the form of the type: e E f F g G % or none. */
static void filter__put_float(val_env *env, val_buf *b, const filter_spec *sp, double x) {
    const char type = (char)sp->type, low = (char)(type | 32);
    const bool percent = type == '%', general = !type || type == 'n';
    bool       neg = signbit(x) && !isnan(x);
    int64_t    precision = sp->precision < 0 ? 6 : sp->precision;
    val_str    text;
    x = fabs(percent ? x * 100 : x);
    if (!type && sp->precision >= 0) text = filter__float_general(env, x, precision);
    else if (!type) text = filter__float_text(env, x, 'r', 0, sp->alt);
    else text = filter__float_text(env, x, percent ? 'f' : general ? 'g' : low, (low == 'g' || general) && !precision ? 1 : precision, sp->alt);
    if (neg && sp->no_minus_zero && filter__is_zero(text)) neg = false;
    val_buf *all = val_buf_new(env);
    val_buf_add(env, all, type >= 'A' && type <= 'Z' ? filter__large(env, text) : text);
    if (percent) val_buf_put(env, all, "%");
    filter_digits d = {.lead = {filter__sign(sp, neg)}, .whole = val_buf_str(all)};
    size_t        whole = 0;
    while (whole < d.whole.n && d.whole.p[whole] >= '0' && d.whole.p[whole] <= '9') whole++;
    d.rest = val_sub(d.whole, whole, d.whole.n);
    d.whole = val_sub(d.whole, 0, whole);
    filter__put_number(env, b, sp, &d);
}

/* repr(v); ascii: other characters as escapes. */
static val_str filter__repr(val_env *env, val v, bool ascii) {
    val_buf *b = val_buf_new(env), *out;
    char     text[16];
    val_repr(env, b, v);
    if (!ascii) return val_buf_str(b);
    out = val_buf_new(env);
    for (size_t i = 0; i < b->n; i++) {
        const val_chr c = VAL_CHAR(b->at[i]), origin = b->at[i] & VAL_INPUT;
        snprintf(text, sizeof text, c < 256 ? "\\x%02x" : c < 65536 ? "\\u%04x" : "\\U%08x", c);
        if (c < 128) val_buf_chr(env, out, b->at[i]);
        for (const char *p = text; c >= 128 && *p; p++) val_buf_chr(env, out, (uint8_t)*p | origin);
    }
    return val_buf_str(out);
}

/* --- Python's `%` --- */

typedef struct {
    val_env *env;
    val_str  s;                                       /* the format */
    size_t   i;                                       /* what is read next */
    val      args;
    size_t   used;                                    /* arguments taken, by position */
    bool     by_key;                                  /* the argument is a mapping */
    bool     safe;                                    /* the format is safe: what goes in is escaped */
    val_buf *out;
} filter_percent;

static val_chr filter__peek(const filter_percent *p) { return p->i < p->s.n ? VAL_CHAR(p->s.p[p->i]) : 0; }

/* The next argument by position. */
static val filter__percent_next(filter_percent *p) {
    const bool   tuple = p->args.kind == VAL_TUPLE;
    const size_t n = tuple ? p->args.list->n : 1;
    if (p->used >= n) val_fail(p->env, EXIT_INPUT, "not enough arguments for the format string");
    p->used++;
    return tuple ? p->args.list->at[p->used - 1] : p->args;
}

/* `(name)`: the entry of this name. */
static val filter__percent_key(filter_percent *p) {
    const size_t from = ++p->i;
    int          deep = 1;
    for (; p->i < p->s.n && deep; p->i++) deep += filter__peek(p) == '(' ? 1 : filter__peek(p) == ')' ? -1 : 0;
    if (deep) val_fail(p->env, EXIT_INPUT, "incomplete name in a format string");
    if (!p->by_key) val_fail(p->env, EXIT_INPUT, "the format requires a mapping, %s found", val_kind_name(p->args));
    const val key = val_str_view(val_sub(p->s, from, p->i - 1));
    bool      found = false;
    const val v = p->args.kind == VAL_DICT ? val_dict_get(p->args.dict, key, &found) : val_undef(NULL);
    if (!found) val_fail(p->env, EXIT_INPUT, "a format takes the entry '%s', which %s does not have", val_quote(key.s).p, val_kind_name(p->args));
    return v;
}

/* The decimal number at s[*i], which is read; `absent` where there is none. */
static int64_t filter__number(val_env *env, val_str s, size_t *i, int64_t absent) {
    int64_t n = absent;
    for (; *i < s.n && VAL_CHAR(s.p[*i]) >= '0' && VAL_CHAR(s.p[*i]) <= '9'; ++*i) {
        const int d = (int)(VAL_CHAR(s.p[*i]) - '0');
        if (n < 0) n = 0;
        if (n > (INT64_MAX - d) / 10) val_fail(env, EXIT_INPUT, "a number in a format string is too large");
        n = n * 10 + d;
    }
    return n;
}

/* A width or a precision: a number, or `*` for the next argument. */
static int64_t filter__percent_number(filter_percent *p) {
    int64_t n = 0;
    if (filter__peek(p) != '*') return filter__number(p->env, p->s, &p->i, 0);
    p->i++;
    const val v = filter__percent_next(p);
    if (!filter__whole(p->env, v, &n)) val_fail(p->env, EXIT_INPUT, "found %s for * in a format string, expected int", val_kind_name(v));
    return n;
}

static filter_spec filter__percent_spec(filter_percent *p) {
    filter_spec sp = {.fill = ' ', .precision = -1};
    for (val_chr c; (c = filter__peek(p)) && memchr("-+ #0", (int)c, c < 128 ? 5 : 0); p->i++) {
        if (c == '-') sp.align = '<';
        else if (c == '0') sp.zero = true;
        else if (c == '#') sp.alt = true;
        else if (c == '+' || !sp.sign) sp.sign = (char)c;
    }
    sp.width = filter__percent_number(p);
    if (sp.width < 0) sp.align = '<', sp.width = sp.width == INT64_MIN ? INT64_MAX : -sp.width;
    if (filter__peek(p) == '.') {
        p->i++;
        sp.precision = filter__percent_number(p);
        if (sp.precision < 0) sp.precision = 0;
    }
    if (filter__peek(p) && memchr("hlL", (int)filter__peek(p), filter__peek(p) < 128 ? 3 : 0)) p->i++;
    return sp;
}

/* %d %i %u %o %x %X: a precision is the least number of digits. */
static void filter__percent_int(filter_percent *p, filter_spec *sp, val v) {
    const bool decimal = sp->type == 'd' || sp->type == 'i' || sp->type == 'u';
    if (!filter__is_number(v) || (!decimal && v.kind == VAL_FLOAT))
        val_fail(p->env, EXIT_INPUT, "%%%c in a format wants %s, %s found", (char)sp->type, decimal ? "a number" : "int", val_kind_name(v));
    if (v.kind == VAL_FLOAT && !isfinite(v.f)) val_fail(p->env, EXIT_INPUT, "%%%c in a format wants a finite number", (char)sp->type);
    if (v.kind == VAL_FLOAT) v = val_trunc(p->env, v.f);
    if (decimal) sp->type = 'd';
    if (sp->precision > 0) {                          /* the digits with their zeros, then the width */
        filter_spec digits = {.fill = '0', .align = '=', .type = sp->type};
        val_buf    *b = val_buf_new(p->env);
        const bool neg = val_order(p->env, v, val_int(0), "<") == -1;
        digits.width = sp->precision;
        filter__put_int(p->env, b, &digits, filter__magnitude(p->env, v));
        filter_digits d = {.lead = "", .whole = val_buf_str(b)};
        size_t        n = 0;
        if (filter__sign(sp, neg)) d.lead[n++] = filter__sign(sp, neg);
        if (sp->alt && !decimal) d.lead[n++] = '0', d.lead[n++] = (char)sp->type;
        filter__put_number(p->env, p->out, sp, &d);
    } else {
        filter__put_int(p->env, p->out, sp, v);
    }
}

static void filter__percent_chr(filter_percent *p, filter_spec *sp, val v) {
    val_chr c = 0;
    int64_t n = 0;
    sp->precision = -1;
    if (v.kind == VAL_STR && v.s.n == 1) c = v.s.p[0];
    else if (!filter__whole(p->env, v, &n)) val_fail(p->env, EXIT_INPUT, "%%c in a format wants int or one character, %s found", val_kind_name(v));
    else if (n < 0 || n > 0x10ffff) val_fail(p->env, EXIT_INPUT, "%%c in a format wants a code point, %lld found", (long long)n);
    else c = (val_chr)n | VAL_INPUT;                  /* a number has no origin, and it may be a message's */
    filter__put_text(p->env, p->out, sp, '>', (val_str){&c, 1, NULL});
}

/* %s %r %a */
static void filter__percent_text(filter_percent *p, filter_spec *sp, val v) {
    val_str s = sp->type == 's' ? val_as_str(p->env, v) : filter__repr(p->env, v, sp->type == 'a');
    if (p->safe && !(sp->type == 's' && v.kind == VAL_STR && v.safe)) s = filter__safe(p->env, val_str_view(s)).s;
    filter__put_text(p->env, p->out, sp, '>', s);
}

/* One conversion, after its `%`. */
static void filter__percent_one(filter_percent *p) {
    val  v = val_undef(filter__absent);
    bool named = filter__peek(p) == '(';
    if (named) v = filter__percent_key(p);
    filter_spec sp = filter__percent_spec(p);
    if (p->i >= p->s.n) val_fail(p->env, EXIT_INPUT, "incomplete format: it ends behind %%");
    const val_chr whole = p->s.p[p->i++];
    sp.type = VAL_CHAR(whole);
    if (!named) v = filter__percent_next(p);
    if (sp.type == 's' || sp.type == 'r' || sp.type == 'a') {
        filter__percent_text(p, &sp, v);
        return;
    }
    if (sp.zero && sp.align != '<' && sp.type != 'c') sp.fill = '0', sp.align = '=';
    if (sp.type >= 128 || !memchr("diuoxXeEfFgGc", (int)sp.type, 13))
        val_fail(p->env, EXIT_INPUT, "unsupported conversion %%%s in a format string", val_quote((val_str){&whole, 1, NULL}).p);
    val_defined(p->env, v);
    if (sp.type == 'c') filter__percent_chr(p, &sp, v);
    else if (memchr("diuoxX", (int)sp.type, 6)) filter__percent_int(p, &sp, v);
    else if (!filter__is_number(v)) val_fail(p->env, EXIT_INPUT, "%%%c in a format wants a number, %s found", (char)sp.type, val_kind_name(v));
    else filter__put_float(p->env, p->out, &sp, val_as_float(p->env, v));
}

/* format % args: a tuple is the arguments, a mapping is asked by name, another value is the one argument. */
static val filter_format(val_env *env, val format, val args) {
    static const unsigned mapping = 1u << VAL_DICT | 1u << VAL_LIST | 1u << VAL_RANGE | 1u << VAL_UNDEF;
    filter_percent        p = {.env = env, .s = format.s, .args = args, .by_key = mapping >> args.kind & 1, .safe = format.safe, .out = val_buf_new(env)};
    val_step_chars(env, format.s.n);
    while (p.i < p.s.n) {
        const val_chr c = p.s.p[p.i++];
        if (VAL_CHAR(c) == '%' && filter__peek(&p) != '%') {
            filter__percent_one(&p);
            continue;
        }
        p.i += VAL_CHAR(c) == '%';
        val_buf_chr(env, p.out, c);
    }
    const size_t n = args.kind == VAL_TUPLE ? args.list->n : 1;
    if (p.used < n && !p.by_key) val_fail(env, EXIT_INPUT, "a format string takes %zu arguments, %zu are given", p.used, n);
    return filter__like(format, val_buf_str(p.out));
}

/* --- attributes and rows by name: used before they are defined, since a format, map and select may name any row --- */

enum { FILTER_OF_FILTERS, FILTER_OF_TESTS, FILTER_OF_FUNCTIONS, FILTER_OF_VALUES };                             /* the tables */
static val               filter_getattr(val_env *env, val v, val_str name);                                     /* the rows call it */
static val               filter_getitem(val_env *env, val v, val key);                                          /* the rows call it */
static bool              filter__attribute(val_env *env, val v, val_str name, val *out);                        /* the rows call it */
static const filter_row *filter__row_of(val_env *env, int table, val name);                                     /* the rows call it */
static const filter_row *filter__row_named(int table, val_str s);                                               /* the rows call it */

/* --- Python's str.format --- */

/* The ASCII character s[i]; 0: none is there. */
static char filter__ascii_at(val_str s, size_t i) { return i < s.n && VAL_CHAR(s.p[i]) < 128 ? (char)VAL_CHAR(s.p[i]) : 0; }

/* Reads one of these characters at s[*i]; 0: none of them is there. */
static char filter__one_of(val_str s, size_t *i, const char *set) {
    const char c = filter__ascii_at(s, *i);
    if (!c || !strchr(set, c)) return 0;
    ++*i;
    return c;
}

/* Reads fill, align, sign, z, #, 0, width, grouping, precision and type. text: the value is a string. */
static filter_spec filter__read_spec(val_env *env, val_str s, bool text) {
    filter_spec sp = {.fill = ' ', .precision = -1};
    size_t      i = 1;
    const bool  filled = (sp.align = filter__one_of(s, &i, "<>=^")) != 0;
    if (filled) sp.fill = s.p[0];
    else i = 0, sp.align = filter__one_of(s, &i, "<>=^");
    const char sign = filter__one_of(s, &i, "+- ");
    if (sign && text) val_fail(env, EXIT_INPUT, "found a sign in the format of a string");
    sp.sign = sign == '-' ? 0 : sign;
    sp.no_minus_zero = filter__one_of(s, &i, "z") != 0;
    sp.alt = filter__one_of(s, &i, "#") != 0;
    if (!filled && filter__one_of(s, &i, "0")) {
        sp.fill = '0';
        if (!sp.align && !text) sp.align = '=';
    }
    sp.width = filter__number(env, s, &i, 0);
    sp.group = filter__one_of(s, &i, ",_");
    if (filter__one_of(s, &i, ".") && (sp.precision = filter__number(env, s, &i, -1)) < 0) val_fail(env, EXIT_INPUT, "a format string lacks the precision behind a point");
    if (i + 1 < s.n) val_fail(env, EXIT_INPUT, "found '%s', which is no format of a value", val_quote(s).p);
    if (i < s.n) sp.type = VAL_CHAR(s.p[i]);
    return sp;
}

/* The type of a format does not belong to the value's kind. */
__attribute__((noreturn)) static void filter__bad_type(val_env *env, val v, const filter_spec *sp) {
    val_fail(env, EXIT_INPUT, "a value of kind %s has no format '%s'", val_kind_name(v), val_quote((val_str){&sp->type, 1, NULL}).p);
}

static void filter__format_int(val_env *env, val_buf *b, filter_spec *sp, val v) {
    if (sp->type < 128 && sp->type && strchr("eEfFgG%", (int)sp->type)) {
        filter__put_float(env, b, sp, val_as_float(env, v));
        return;
    }
    if (sp->type >= 128 || (sp->type && !strchr("bcdnoxX", (int)sp->type))) filter__bad_type(env, v, sp);
    if (sp->precision >= 0) val_fail(env, EXIT_INPUT, "the format of an int has a precision");
    if (sp->type == 'c') {
        if (sp->sign || sp->alt) val_fail(env, EXIT_INPUT, "the format c of an int has a sign or #");
        filter_percent p = {.env = env, .out = b};
        if (!sp->align || sp->align == '=') sp->align = '>';
        filter__percent_chr(&p, sp, v);
        return;
    }
    if (sp->group == ',' && sp->type && strchr("bnoxX", (int)sp->type)) val_fail(env, EXIT_INPUT, "',' goes with decimal digits alone");
    if (sp->type == 'n') sp->type = 0;
    filter__put_int(env, b, sp, v);
}

/* format(v, spec): appends it. */
static void filter__format_value(val_env *env, val_buf *b, val v, val_str spec) {
    if (spec.n == 0) {
        val_print(env, b, v);
        return;
    }
    if (!filter__is_number(v) && v.kind != VAL_STR) val_fail(env, EXIT_INPUT, "%s takes no format '%s'", val_kind_name(v), val_quote(spec).p);
    filter_spec sp = filter__read_spec(env, spec, v.kind == VAL_STR);
    if (v.kind == VAL_STR) {
        if (sp.type && sp.type != 's') filter__bad_type(env, v, &sp);
        if (sp.align == '=' || sp.alt || sp.group || sp.no_minus_zero) val_fail(env, EXIT_INPUT, "'%s' is no format of a string", val_quote(spec).p);
        filter__put_text(env, b, &sp, '<', v.s);
    } else if (v.kind == VAL_FLOAT) {
        if (sp.type >= 128 || (sp.type && !strchr("eEfFgGn%", (int)sp.type)) || (sp.group && sp.type == 'n')) filter__bad_type(env, v, &sp);
        filter__put_float(env, b, &sp, v.f);
    } else {
        if (sp.no_minus_zero && !(sp.type < 128 && sp.type && strchr("eEfFgG%", (int)sp.type))) val_fail(env, EXIT_INPUT, "'%s' is no format of an int", val_quote(spec).p);
        filter__format_int(env, b, &sp, v);
    }
}

/* A format being read; `from` .. is a replacement field inside of it. */
typedef struct {
    val_env        *env;
    const val_args *args;
    val             mapping;                          /* format_map: names are looked up here; else undefined */
    int64_t         next;                             /* number of the next field without a name; -1: fields have numbers */
    bool            safe;
} filter_fields;

static bool filter__all_digits(val_str s) {
    for (size_t i = 0; i < s.n; i++)
        if (filter__decimal(s.p[i]) < 0) return false;
    return s.n > 0;
}

/* A number in a field's name; more than nine digits are more than any list has. */
static int64_t filter__field_number(val_str s) {
    int64_t n = 0;
    for (size_t i = 0; i < s.n; i++) n = s.n > 9 ? INT32_MAX : n * 10 + filter__decimal(s.p[i]);
    return n;
}

/* What the first part of a field's name stands for. */
static val filter__field_first(filter_fields *f, val_str name) {
    int64_t n = -1;
    if (filter__all_digits(name)) n = filter__field_number(name);
    if (n >= 0) {
        if ((uint64_t)n >= f->args->n) val_fail(f->env, EXIT_INPUT, "a format string takes argument %lld, %zu are given", (long long)n, f->args->n);
        return f->args->at[n];
    }
    bool found = false;
    val  v = val_undef(NULL);
    if (f->mapping.kind == VAL_DICT) v = val_dict_get(f->mapping.dict, val_str_view(name), &found);
    else if (f->args->named) v = val_dict_get(f->args->named, val_str_view(name), &found);
    if (!found) val_fail(f->env, EXIT_INPUT, "a format string takes an argument '%s', which is not given", val_quote(name).p);
    return v;
}

/* The value of a field: a name or number, then .name and [key]. */
static val filter__field_value(filter_fields *f, val_str name) {
    size_t i = 0;
    while (i < name.n && VAL_CHAR(name.p[i]) != '.' && VAL_CHAR(name.p[i]) != '[') i++;
    val v = filter__field_first(f, val_sub(name, 0, i));
    while (i < name.n) {
        const bool   index = VAL_CHAR(name.p[i]) == '[';
        const size_t from = ++i;
        while (i < name.n && (index ? VAL_CHAR(name.p[i]) != ']' : VAL_CHAR(name.p[i]) != '.' && VAL_CHAR(name.p[i]) != '[')) i++;
        const val_str part = val_sub(name, from, i);
        if (!part.n || (index && i == name.n)) val_fail(f->env, EXIT_INPUT, "'%s' is no name of a field", val_quote(name).p);
        if (!index) v = filter_getattr(f->env, v, part);
        else v = filter_getitem(f->env, v, filter__all_digits(part) ? val_int(filter__field_number(part)) : val_str_view(part));
        i += index;
        if (index && i < name.n && VAL_CHAR(name.p[i]) != '.' && VAL_CHAR(name.p[i]) != '[') val_fail(f->env, EXIT_INPUT, "'%s' is no name of a field", val_quote(name).p);
    }
    return v;
}

/* !s !r !a */
static val filter__convert(val_env *env, val v, val_chr how) {
    if (how == 's') return val_str_view(val_as_str(env, v));
    if (how != 'r' && how != 'a') val_fail(env, EXIT_INPUT, "unknown conversion '%s' in a format string", val_quote((val_str){&how, 1, NULL}).p);
    return val_str_view(filter__repr(env, v, how == 'a'));
}

static val_str filter__fields(filter_fields *f, val_str s, int deep);   /* a field's format may hold fields itself */

/* One field, without its braces: name, conversion, format. */
static void filter__field(filter_fields *f, val_buf *out, val_str s, int deep) {
    size_t  i = 0;
    val_str spec = {0};
    val_chr how = 0;
    for (bool index = false; i < s.n && (index || (VAL_CHAR(s.p[i]) != '!' && VAL_CHAR(s.p[i]) != ':')); i++)
        index = index ? VAL_CHAR(s.p[i]) != ']' : VAL_CHAR(s.p[i]) == '[';
    val_str name = val_sub(s, 0, i);
    if (i < s.n && VAL_CHAR(s.p[i]) == '!') {
        if (i + 1 == s.n) val_fail(f->env, EXIT_INPUT, "a field of a format string ends behind '!'");
        how = VAL_CHAR(s.p[i + 1]);
        i += 2;
        if (i < s.n && VAL_CHAR(s.p[i]) != ':') val_fail(f->env, EXIT_INPUT, "expected ':' behind the conversion of a field");
    }
    if (i < s.n) spec = val_sub(s, i + 1, s.n);
    char          text[24];
    val_chr       number[24];
    if ((name.n == 0 && f->next < 0) || (f->next > 0 && filter__all_digits(name))) val_fail(f->env, EXIT_INPUT, "fields with and without numbers in one format string");
    if (name.n == 0) {
        name.n = (uint32_t)snprintf(text, sizeof text, "%lld", (long long)f->next++);
        for (size_t k = 0; k < name.n; k++) number[k] = (uint8_t)text[k];
        name.p = number;
    } else if (filter__all_digits(name)) {
        f->next = -1;
    }
    val v = filter__field_value(f, name);
    if (how) v = filter__convert(f->env, v, how);
    spec = filter__fields(f, spec, deep + 1);
    if (!f->safe) {
        filter__format_value(f->env, out, v, spec);
        return;
    }
    val_buf *b = val_buf_new(f->env);
    if (v.kind == VAL_STR && v.safe && spec.n) val_fail(f->env, EXIT_INPUT, "a safe string takes no format '%s'", val_quote(spec).p);
    filter__format_value(f->env, b, v, spec);
    if (v.kind == VAL_STR && v.safe) val_buf_add(f->env, out, val_buf_str(b));
    else val_buf_add(f->env, out, val_escape(f->env, val_buf_str(b)));
}

/* Where the field that begins at i ends: its closing brace. */
static size_t filter__field_end(filter_fields *f, val_str s, size_t i) {
    int  open = 1;
    bool index = false;
    for (; i < s.n; i++) {
        const val_chr c = VAL_CHAR(s.p[i]);
        if (c == '[' && open == 1) index = true;
        else if (c == ']') index = false;
        if (index) continue;
        open += c == '{' ? 1 : c == '}' ? -1 : 0;
        if (!open) return i;
    }
    val_fail(f->env, EXIT_INPUT, "expected '}' before the end of a format string");
}

/* Replaces the fields in {braces}. */
static val_str filter__fields(filter_fields *f, val_str s, int deep) {
    val_buf *out = val_buf_new(f->env);
    if (deep > 3) val_fail(f->env, EXIT_INPUT, "fields of a format string stand too deep inside each other");
    val_step_chars(f->env, s.n);
    for (size_t i = 0; i < s.n; i++) {
        const val_chr c = VAL_CHAR(s.p[i]);
        if (c != '{' && c != '}') {
            val_buf_chr(f->env, out, s.p[i]);
        } else if (i + 1 < s.n && VAL_CHAR(s.p[i + 1]) == c) {
            val_buf_chr(f->env, out, s.p[i++]);
        } else if (c == '}') {
            val_fail(f->env, EXIT_INPUT, "a single '}' in a format string");
        } else {
            const size_t end = filter__field_end(f, s, i + 1);
            filter__field(f, out, val_sub(s, i + 1, end), deep);
            i = end;
        }
    }
    return val_buf_str(out);
}

/* --- attributes, paths of attributes --- */

/* An item of a value by a path: the parts of a name between points, whole numbers as such. It is read once and followed for many values. */
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
    for (size_t i = 0; attribute.kind == VAL_STR && i < p.parts->n; i++)
        if (filter__all_digits(p.parts->at[i].s)) p.parts->at[i] = val_int(filter__field_number(p.parts->at[i].s));
    return p;
}

static val filter__folded(val_env *env, val v) { return v.kind == VAL_STR ? val_str_view(filter__cased(env, v.s, FILTER_LOWER)) : v; }

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

static val filter__generator(filter_in *f, val_list *l) { return val_iter_of(f->env, l, "generator"); }

/* A copy of a list, which the template may change. */
static val_list *filter__copied(val_env *env, const val_list *l) {
    val_list *out = val_list_new(env).list;
    val_step(env, l->n / 16);
    for (size_t i = 0; i < l->n; i++) val_list_add(env, out, l->at[i]);
    return out;
}

/* Merges two sorted halves of keys and items. */
static void filter__merge(val_env *env, const val_pair *from, val_pair *to, size_t lo, size_t mid, size_t hi, bool reverse) {
    size_t a = lo, b = mid;
    for (size_t i = lo; i < hi; i++) {
        const bool both = a < mid && b < hi;
        const bool second = both && (reverse ? val_order(env, from[a].key, from[b].key, "<") : val_order(env, from[b].key, from[a].key, "<")) == -1;
        val_step(env, both);
        to[i] = a == mid || second ? from[b++] : from[a++];
    }
}

/* Sorts by keys, smallest first; equal ones keep their order, also in reverse. keys and items have n entries. Returns a new list. */
static val_list *filter__sorted(val_env *env, const val_list *keys, const val_list *items, bool reverse) {
    const size_t n = items->n;
    val_pair    *a = val_alloc(env, n, sizeof *a), *b = val_alloc(env, n, sizeof *b);
    val_list    *out = val_list_new(env).list;
    for (size_t i = 0; i < n; i++) a[i] = (val_pair){.key = keys->at[i], .value = items->at[i]};
    for (size_t run = 1; run < n; run *= 2) {
        for (size_t lo = 0; lo < n; lo += 2 * run)
            filter__merge(env, a, b, lo, lo + run < n ? lo + run : n, lo + 2 * run < n ? lo + 2 * run : n, reverse);
        val_pair *t = a;
        a = b, b = t;
    }
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
        const filter_path p = filter__path(f, names->at[k], !filter__bool(f, 1));
        for (size_t i = 0; i < items->n; i++) val_list_add(f->env, keys->at[i].list, filter__follow(f, &p, items->at[i]));
    }
    return val_of_list(filter__sorted(f->env, keys, items, filter__flag(f, 0)));
}

static val filter__dictsort(filter_in *f) {
    if (f->in.kind != VAL_DICT) filter__wrong(f, -1, "dict");
    const bool by_value = val_is_str(f->a[1], "value");
    if (!by_value && !val_is_str(f->a[1], "key")) val_fail(f->env, EXIT_INPUT, "dictsort(): 'by' is neither 'key' nor 'value'");
    const val_list *pairs = val_items(f->env, val_view_of(f->in.dict, VAL_ITEMS)), *keys = val_items(f->env, val_view_of(f->in.dict, by_value ? VAL_VALUES : VAL_KEYS));
    const filter_path p = filter__path(f, val_none(), !filter__bool(f, 0));
    return val_of_list(filter__sorted(f->env, filter__keys(f, keys, &p), pairs, filter__flag(f, 2)));
}

static val filter__unique(filter_in *f) {
    const val_list   *items = filter__items(f);
    const filter_path p = filter__path(f, f->a[1], !filter__bool(f, 0));
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
    return filter__generator(f, out);
}

/* min, max (with 1): the first of equal ones. */
static val filter__extreme(filter_in *f) {
    const val_list   *items = filter__items(f);
    const filter_path p = filter__path(f, f->a[1], !filter__bool(f, 0));
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

enum { FILTER_GROUP = 1 };                            /* in `view` of a tuple: a pair of groupby */

static bool filter__is_group(val v) { return v.kind == VAL_TUPLE && v.view == FILTER_GROUP; }

/* groupby gives pairs of a key and a list: tuples whose parts have the names `grouper` and `list`, see filter__attribute. */
static val filter__groupby(filter_in *f) {
    const val_list *items = filter__items(f);
    filter_path     p = filter__path(f, f->a[0], !filter__bool(f, 2)), plain = filter__path(f, f->a[0], false);
    p.absent = plain.absent = f->a[1];
    val_list *sorted = filter__sorted(f->env, filter__keys(f, items, &p), items, false), *out = val_list_new(f->env).list;
    val       last = val_none();
    for (size_t i = 0; i < sorted->n; i++) {
        const val key = filter__follow(f, &p, sorted->at[i]);
        if (!out->n || !val_eq(f->env, key, last)) {
            const val shown = filter__follow(f, &plain, sorted->at[i]);
            val       pair = val_pair_of(f->env, shown, val_list_new(f->env));
            pair.view = FILTER_GROUP;
            val_list_add(f->env, out, pair);
            last = key;
        }
        val_list_add(f->env, out->at[out->n - 1].list->at[1].list, sorted->at[i]);
    }
    return val_of_list(out);
}

static val filter__map(filter_in *f) {
    val_list *out = val_list_new(f->env).list;
    if (!val_truth(f->in)) return filter__generator(f, out);
    const val_list *items = val_items(f->env, f->in);
    const val_pair *attribute = f->args->n ? NULL : filter__named(f->args, bytes_of("attribute"));
    if (attribute) {
        const val_pair *absent = filter__named(f->args, bytes_of("default"));
        if (f->args->named->live > 1u + (absent != NULL)) val_fail(f->env, EXIT_INPUT, "map(): expected 'attribute' and 'default' alone");
        filter_path p = filter__path(f, attribute->value, false);
        if (absent) p.absent = absent->value;
        return filter__generator(f, filter__keys(f, items, &p));
    }
    if (!f->args->n) val_fail(f->env, EXIT_INPUT, "map() lacks the name of a filter");
    const filter_row *row = items->n ? filter__row_of(f->env, FILTER_OF_FILTERS, f->args->at[0]) : NULL;
    const val_args    rest = {f->args->at + 1, f->args->n - 1, f->args->named};
    for (size_t i = 0; i < items->n; i++) val_list_add(f->env, out, filter_call(f->env, row, items->at[i], &rest));
    return filter__generator(f, out);
}

enum { FILTER_REJECT = 1, FILTER_BY_ATTRIBUTE = 2 };

/* select, reject, selectattr, rejectattr: with says which one. Without the name of a test, values are asked for their truth. */
static val filter__select(filter_in *f) {
    const bool reject = f->row->with & FILTER_REJECT;
    val_list  *out = val_list_new(f->env).list;
    val_args   rest = *f->args;
    filter_path p = {0};
    if (!val_truth(f->in)) return filter__generator(f, out);
    const val_list *items = val_items(f->env, f->in);
    if (f->row->with & FILTER_BY_ATTRIBUTE) {
        if (!rest.n) val_fail(f->env, EXIT_INPUT, "%s() lacks the name of an attribute", f->row->head.name);
        p = filter__path(f, rest.at[0], false);
        rest.at++, rest.n--;
    } else {
        p = filter__path(f, val_none(), false);
    }
    const filter_row *test = rest.n && items->n ? filter__row_of(f->env, FILTER_OF_TESTS, rest.at[0]) : NULL;
    if (test) rest.at++, rest.n--;
    for (size_t i = 0; i < items->n; i++) {
        val v = filter__follow(f, &p, items->at[i]);
        val_step(f->env, 1);
        if (test) v = filter_call(f->env, test, v, &rest);
        if (val_truth(v) != reject) val_list_add(f->env, out, items->at[i]);
    }
    return filter__generator(f, out);
}

static val filter__batch(filter_in *f) {
    const val_list *items = filter__items(f);
    val_list       *out = val_list_new(f->env).list, *row = val_list_new(f->env).list;
    const int64_t   n = filter__int(f, 0);
    for (size_t i = 0; i < items->n; i++) {
        if ((int64_t)row->n == n) {
            val_list_add(f->env, out, val_of_list(row));
            row = val_list_new(f->env).list;
        }
        val_list_add(f->env, row, items->at[i]);
    }
    if (row->n) val_list_add(f->env, out, val_of_list(row));
    if (row->n && f->a[1].kind != VAL_NONE && (int64_t)row->n < n) {
        val_room(f->env, (uint64_t)n, sizeof(val));
        val_step(f->env, (uint64_t)n / 16);
        while ((int64_t)row->n < n) val_list_add(f->env, row, f->a[1]);
    }
    return filter__generator(f, out);
}

static val filter__slice(filter_in *f) {
    const val_list *items = filter__items(f);
    val_list       *out = val_list_new(f->env).list;
    const int64_t   slices = filter__int(f, 0);
    if (slices == 0) val_fail(f->env, EXIT_INPUT, "slice(): division by zero");
    for (int64_t i = 0, at = 0; i < slices; i++) {
        val_list *row = val_list_new(f->env).list;
        int64_t   n = (int64_t)items->n / slices;
        const bool extra = i < (int64_t)items->n % slices;
        val_step(f->env, 1);
        for (n += extra; n > 0; n--) val_list_add(f->env, row, items->at[at++]);
        if (!extra && f->a[1].kind != VAL_NONE) val_list_add(f->env, row, f->a[1]);
        val_list_add(f->env, out, val_of_list(row));
    }
    return filter__generator(f, out);
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

static val_list *filter__turned(val_env *env, const val_list *l) {
    val_list *out = val_list_new(env).list;
    val_step(env, l->n / 16);
    for (size_t i = l->n; i > 0; i--) val_list_add(env, out, l->at[i - 1]);
    return out;
}

static val filter__reverse(filter_in *f) {
    if (f->in.kind == VAL_STR) {
        val r = val_slice(f->env, f->in, val_none(), val_none(), val_int(-1));
        r.safe = f->in.safe;
        return r;
    }
    val_list *out = filter__turned(f->env, filter__items(f));
    if (f->in.kind == VAL_ITER) return val_of_list(out);
    static const char *const names[VAL_KINDS] = {[VAL_LIST] = "list_reverseiterator", [VAL_DICT] = "dict_reversekeyiterator", [VAL_RANGE] = "range_iterator"};
    return val_iter_of(f->env, out, names[f->in.kind] ? names[f->in.kind] : "reversed");
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

static val filter__sum(filter_in *f) {
    const val_list   *items = filter__items(f);
    const filter_path p = filter__path(f, f->a[0], false);
    val               sum = f->a[1];
    if (sum.kind == VAL_STR) filter__wrong(f, 1, "a number or a list");
    for (size_t i = 0; i < items->n; i++) {
        val_step(f->env, 1);
        sum = val_add(f->env, sum, filter__follow(f, &p, items->at[i]));
    }
    return sum;
}

static val filter__pairs(filter_in *f) {
    if (f->in.kind == VAL_UNDEF) return filter__generator(f, val_list_new(f->env).list);
    if (f->in.kind != VAL_DICT) filter__wrong(f, -1, "dict");
    return filter__generator(f, filter__copied(f->env, val_items(f->env, val_view_of(f->in.dict, VAL_ITEMS))));
}

/* --- filters of strings --- */

/* string: the value as a string; a safe one stays so. */
static val filter__string(filter_in *f) { return filter__like(f->in, val_as_str(f->env, f->in)); }

static val filter__case(filter_in *f) { return filter__like(f->in, filter__cased(f->env, val_as_str(f->env, f->in), (enum filter_case)f->row->with)); }

static bool filter__between_words(val_chr c) { return filter_is_space(c) || (VAL_CHAR(c) < 128 && strchr("-({[<", (int)VAL_CHAR(c))); }

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
        const bool indented = i == 0 ? filter__bool(f, 1) : filter__bool(f, 2) || lines->at[i].s.n;
        if (i) val_buf_chr(f->env, b, '\n');
        if (indented) filter__room(f->env, b, by->n), val_buf_add(f->env, b, val_buf_str(by));
        val_buf_add(f->env, b, lines->at[i].s);
    }
    return filter__like(f->in, val_buf_str(b));
}

/* center, ljust, rjust: with is the side that the blanks are on. Of an odd number of blanks around a text the left side gets one more
 * where the width is odd. */
static val filter__justify(filter_in *f) {
    const val_str s = val_as_str(f->env, f->in);
    const int64_t width = filter__int(f, 0);
    const val_str fill = filter__beside(f->env, f->in, f->a[1]);
    if (f->a[1].kind != VAL_STR || fill.n != 1) val_fail(f->env, EXIT_INPUT, "%s(): 'fillchar' is not one character", f->row->head.name);
    const uint64_t pad = width > 0 && (uint64_t)width > s.n ? (uint64_t)width - s.n : 0;
    const uint64_t left = f->row->with == FILTER_LEFT ? pad : f->row->with == FILTER_RIGHT ? 0 : pad / 2 + (pad & (uint64_t)width & 1);
    val_buf *b = val_buf_new(f->env);
    if (!pad) return filter__like(f->in, s);
    filter__room(f->env, b, pad + s.n);
    filter__fill(f->env, b, fill.p[0], left);
    val_buf_add(f->env, b, s);
    filter__fill(f->env, b, fill.p[0], pad - left);
    return filter__like(f->in, val_buf_str(b));
}

/* truncate(length, killwords, end, leeway) */
static val filter__truncate(filter_in *f) {
    const int64_t length = filter__int(f, 0), leeway = f->a[3].kind == VAL_NONE ? 5 : filter__int(f, 3);
    const val_str end = filter__str(f, 2);
    if (length < (int64_t)end.n) val_fail(f->env, EXIT_INPUT, "truncate(): a length of %lld, expected %u at least", (long long)length, end.n);
    if (leeway < 0) val_fail(f->env, EXIT_INPUT, "truncate(): a leeway of %lld, expected none below 0", (long long)leeway);
    if (f->in.kind == VAL_UNDEF || (val_has_len(f->in) && (double)val_len(f->env, f->in) <= (double)length + (double)leeway)) return f->in;
    const val_str s = filter__str(f, -1);
    size_t        n = (size_t)(length - (int64_t)end.n);
    if (n > s.n) n = s.n;
    for (size_t i = n; i > 0 && !filter__bool(f, 1); i--)
        if (VAL_CHAR(s.p[i - 1]) == ' ') {
            n = i - 1;
            break;
        }
    return val_add(f->env, filter__like(f->in, val_sub(s, 0, n)), f->a[2]);
}

static val filter__wordcount(filter_in *f) {
    const val_str s = val_as_str(f->env, f->in);
    int64_t       n = 0;
    val_step_chars(f->env, 32 * (uint64_t)s.n);
    for (size_t i = 0; i < s.n; i++) n += filter__is_word(s.p[i]) && !(i && filter__is_word(s.p[i - 1]));
    return val_int(n);
}

static val filter__escaped(filter_in *f) { return filter__safe(f->env, f->in); }

static val filter__force_escaped(filter_in *f) {
    val v = f->in;
    v.safe = false;
    return filter__safe(f->env, v.kind == VAL_STR ? v : val_str_view(val_as_str(f->env, f->in)));
}

static val filter__marked_safe(filter_in *f) {
    val v = val_str_view(val_as_str(f->env, f->in));
    v.safe = true;
    return v;
}


/* Appends a value as a part of a URL: letters, digits, _.-~ and `also` stay, the bytes of other characters become %XX; in a query a blank is +. */
static void filter__quote(val_env *env, val_buf *b, val v, char also, bool query) {
    const val_str s = val_as_str(env, v);
    val_step_chars(env, 4 * (uint64_t)s.n);
    for (size_t i = 0; i < s.n; i++) {
        const val_chr c = VAL_CHAR(s.p[i]), origin = s.p[i] & VAL_INPUT;
        char          utf8[4];
        if (c && c < 128 && (filter__is_alnum(c) || strchr("_.-~", (int)c) || c == (uint8_t)also)) {
            val_buf_chr(env, b, s.p[i]);
        } else if (query && c == ' ') {
            val_buf_chr(env, b, '+' | origin);
        } else {
            const size_t n = val_encode(c, utf8);
            for (size_t k = 0; k < n; k++) {
                val_buf_chr(env, b, '%' | origin);
                val_buf_chr(env, b, (uint8_t)"0123456789ABCDEF"[(uint8_t)utf8[k] >> 4] | origin);
                val_buf_chr(env, b, (uint8_t)"0123456789ABCDEF"[utf8[k] & 15] | origin);
            }
        }
    }
}

/* urlencode: a string as a path; a mapping or a list of pairs as a query. */
static val filter__urlencode(filter_in *f) {
    val_buf *b = val_buf_new(f->env);
    if (f->in.kind == VAL_STR || !val_iterable(f->in)) {
        filter__quote(f->env, b, f->in, '/', false);
        return val_str_view(val_buf_str(b));
    }
    const val_list *pairs = val_items(f->env, f->in.kind == VAL_DICT ? val_view_of(f->in.dict, VAL_ITEMS) : f->in);
    for (size_t i = 0; i < pairs->n; i++) {
        const val_list *pair = val_items(f->env, pairs->at[i]);
        if (pair->n != 2) val_fail(f->env, EXIT_INPUT, "urlencode(): item %zu has %zu parts, expected two", i, pair->n);
        if (i) val_buf_put(f->env, b, "&");
        filter__quote(f->env, b, pair->at[0], 0, true);
        val_buf_put(f->env, b, "=");
        filter__quote(f->env, b, pair->at[1], 0, true);
    }
    return val_str_view(val_buf_str(b));
}

/* xmlattr: `key="value"` for each entry that has a value. */
static val filter__xmlattr(filter_in *f) {
    if (f->in.kind != VAL_DICT) filter__wrong(f, -1, "dict");
    const val_list *pairs = val_items(f->env, val_view_of(f->in.dict, VAL_ITEMS));
    val_buf        *b = val_buf_new(f->env);
    for (size_t i = 0; i < pairs->n; i++) {
        const val key = pairs->at[i].list->at[0], v = pairs->at[i].list->at[1];
        if (v.kind == VAL_NONE || v.kind == VAL_UNDEF) continue;
        if (key.kind != VAL_STR) val_fail(f->env, EXIT_INPUT, "xmlattr(): a key is %s, expected str", val_kind_name(key));
        for (size_t k = 0; k < key.s.n; k++)
            if (VAL_CHAR(key.s.p[k]) < 128 && strchr(" \t\n\r\f\v/>=", (int)VAL_CHAR(key.s.p[k])) && VAL_CHAR(key.s.p[k]))
                val_fail(f->env, EXIT_INPUT, "xmlattr(): the key '%s' has a character that no attribute has", val_quote(key.s).p);
        if (b->n || filter__bool(f, 0)) val_buf_put(f->env, b, " ");
        val_buf_add(f->env, b, filter__safe(f->env, key).s);
        val_buf_put(f->env, b, "=\"");
        val_buf_add(f->env, b, filter__safe(f->env, v).s);
        val_buf_put(f->env, b, "\"");
    }
    return val_str_view(val_buf_str(b));
}

/* Where the first `shut` ends that is in open + s[at ..), after the beginning of `open`; 0: nowhere. */
static size_t filter__shut(val_env *env, val_str s, size_t at, val_str open, val_str shut) {
    for (size_t p = 0; p < open.n; p++) {             /* the two marks may share characters */
        size_t k = 0;
        while (k < shut.n && (p + k < open.n ? VAL_CHAR(open.p[p + k]) == VAL_CHAR(shut.p[k]) : at + p + k - open.n < s.n && VAL_CHAR(s.p[at + p + k - open.n]) == VAL_CHAR(shut.p[k]))) k++;
        if (k == shut.n && p + k > open.n) return at + p + k - open.n;
    }
    const int64_t found = val_find(env, s, shut, at, s.n);
    return found < 0 ? 0 : (size_t)found + shut.n;
}

/* The string without what is between two marks, the marks too. Text on both sides of what goes may form a new mark. */
static val_str filter__without(val_env *env, val_str s, const char *from, const char *to) {
    const val_str open = val_str_of(env, from).s, shut = val_str_of(env, to).s;
    val_buf      *b = val_buf_new(env);
    val_step_chars(env, s.n);
    val_buf_reserve(env, b, s.n);
    for (size_t i = 0, end = 1; i < s.n;) {
        val_buf_chr(env, b, s.p[i++]);
        if (!end || b->n < open.n || !val_str_eq(val_sub(val_buf_str(b), b->n - open.n, b->n), open)) continue;
        end = filter__shut(env, s, i, open, shut);
        if (end) b->n -= open.n, i = end;
    }
    return val_buf_str(b);
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

/* The character that an entity of HTML stands for, and its length; 0: this is none. Of the names it has those that escape() and common texts use. */
static size_t filter__entity(val_str s, size_t at, val_chr *out) {
    static const struct {
        const char *name;                             /* some need no semicolon */
        val_chr     c;
    } rows[] = {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos;", '\''}, {"nbsp", 0xa0}, {"copy", 0xa9}, {"laquo", 0xab}, {"raquo", 0xbb},
                {"ndash;", 0x2013}, {"mdash;", 0x2014}, {"lsquo;", 0x2018}, {"rsquo;", 0x2019}, {"ldquo;", 0x201c}, {"rdquo;", 0x201d}, {"bull;", 0x2022},
                {"hellip;", 0x2026}, {"euro;", 0x20ac}};
    size_t i = at + 1;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        const size_t n = strlen(rows[r].name);
        if (i + n > s.n || !val_str_is(val_sub(s, i, i + n), rows[r].name)) continue;
        *out = rows[r].c;
        return n + 1 + (rows[r].name[n - 1] != ';' && i + n < s.n && VAL_CHAR(s.p[i + n]) == ';');
    }
    if (i >= s.n || VAL_CHAR(s.p[i]) != '#') return 0;
    const bool     hex = ++i < s.n && (VAL_CHAR(s.p[i]) | 32) == 'x';
    const uint32_t base = hex ? 16 : 10;
    uint32_t       n = 0;
    size_t         from = i += hex;
    for (; i < s.n && VAL_CHAR(s.p[i]) < 128 && (uint32_t)filter__digit(s.p[i]) < base; i++) n = n > 0x110000 ? n : n * base + (uint32_t)filter__digit(s.p[i]);
    if (i == from) return 0;
    *out = n == 0 || n > 0x10ffff || (n >= 0xd800 && n < 0xe000) ? 0xfffd : n;
    return i - at + (i < s.n && VAL_CHAR(s.p[i]) == ';');
}

static val filter__striptags(filter_in *f) {
    val_env  *env = f->env;
    val_str   s = filter__without(env, val_as_str(env, f->in), "<!--", "-->");
    val_list *words = filter__words(env, filter__without(env, s, "<", ">"), -1);
    val_buf  *line = val_buf_new(env), *b = val_buf_new(env);
    for (size_t i = 0; i < words->n; i++) {
        if (i) val_buf_put(env, line, " ");
        val_buf_add(env, line, words->at[i].s);
    }
    s = val_buf_str(line);
    val_step_chars(env, s.n);
    for (size_t i = 0, n; i < s.n; i += n ? n : 1) {
        val_chr c = 0;
        n = VAL_CHAR(s.p[i]) == '&' ? filter__entity(s, i, &c) : 0;
        val_buf_chr(env, b, n ? c | (s.p[i] & VAL_INPUT) : s.p[i]);
    }
    return val_str_view(val_buf_str(b));
}

/* --- wordwrap: lines of a width, as Python's textwrap --- */

static bool filter__is_gap(val_chr chr) {
    const val_chr c = VAL_CHAR(chr);
    return c == ' ' || (c >= 9 && c <= 13);
}

/* A letter: part of a word, and neither a digit nor `_`. */
static bool filter__is_letter(val_chr c) { return filter__is_alnum(c) && !val_is(VAL_IS_DECIMAL, c); }

/* Whether a character may be before a dash of two or more: part of a word or one of !"'&.,? */
static bool filter__before_dash(val_chr c) { return filter__is_word(c) || (VAL_CHAR(c) < 128 && VAL_CHAR(c) && strchr("!\"'&.,?", (int)VAL_CHAR(c))); }

/* Where a dash of two or more that begins at i ends, if a word follows; i: there is none. */
static size_t filter__dash(val_str s, size_t i) {
    size_t k = i;
    while (k < s.n && VAL_CHAR(s.p[k]) == '-') k++;
    return k >= i + 2 && k < s.n && filter__is_word(s.p[k]) ? k : i;
}

/* Whether a line may break after the hyphen s[i] of the piece: letters are on both sides. */
static bool filter__hyphen(val_str s, size_t from, size_t i) {
    if (i < from + 1 || VAL_CHAR(s.p[i]) != '-' || i < 2 || !filter__is_letter(s.p[i - 1])) return false;
    const bool two = filter__is_letter(s.p[i - 2]), split = i >= 3 && VAL_CHAR(s.p[i - 2]) == '-' && filter__is_letter(s.p[i - 3]);
    if (!two && !split) return false;
    size_t k = i + 1;
    if (k >= s.n || !filter__is_letter(s.p[k])) return false;
    k++;
    if (k < s.n && VAL_CHAR(s.p[k]) == '-') k++;
    return k < s.n && filter__is_letter(s.p[k]);
}

/* The end of the piece that begins at i: whitespace, a dash between words, or a word, which may end after a hyphen. */
static size_t filter__piece(val_str s, size_t i, bool hyphens) {
    size_t end = i;
    if (filter__is_gap(s.p[i])) {
        while (end < s.n && filter__is_gap(s.p[end])) end++;
        return end;
    }
    if (hyphens && i > 0 && filter__before_dash(s.p[i - 1]) && filter__dash(s, i) > i) return filter__dash(s, i);
    for (end = i + 1; end < s.n && !filter__is_gap(s.p[end]); end++) {
        if (!hyphens) continue;
        if (end > i + 1 && filter__hyphen(s, i, end - 1)) return end;
        if (filter__before_dash(s.p[end - 1]) && filter__dash(s, end) > end) return end;
    }
    return end;
}

typedef struct {
    val_env  *env;
    val_list *pieces;                                 /* of one paragraph, in order */
    size_t    at;                                     /* the next one */
    size_t    width;
    bool      breaks, hyphens;
} filter_wrap;

static bool filter__blank(val_str s) { return filter__bare(s).n == 0; }

/* A piece longer than a line gives as many characters as fit into `space`; of a word with hyphens, up to the last one that fits. */
static void filter__break_piece(filter_wrap *w, val_list *line, size_t space) {
    val_str *piece = &w->pieces->at[w->at].s;
    size_t   n = space;
    if (!w->breaks) {
        if (!line->n) val_list_add(w->env, line, w->pieces->at[w->at++]);
        return;
    }
    if (w->hyphens && piece->n > space) {
        size_t k = space;
        while (k > 1 && VAL_CHAR(piece->p[k - 1]) != '-') k--;
        bool word = false;
        for (size_t i = 0; k > 1 && i + 1 < k; i++) word = word || VAL_CHAR(piece->p[i]) != '-';
        if (word) n = k;
    }
    if (n > piece->n) n = piece->n;
    val_list_add(w->env, line, val_str_view(val_sub(*piece, 0, n)));
    *piece = val_sub(*piece, n, piece->n);
}

/* The pieces of the next line. `first`: it is the first one, which keeps its blanks. */
static val_list *filter__line(filter_wrap *w, bool first) {
    val_list *line = val_list_new(w->env).list;
    size_t    n = 0;
    if (!first && filter__blank(w->pieces->at[w->at].s)) w->at++;
    for (; w->at < w->pieces->n && n + w->pieces->at[w->at].s.n <= w->width; w->at++) {
        val_step(w->env, 1);
        n += w->pieces->at[w->at].s.n;
        val_list_add(w->env, line, w->pieces->at[w->at]);
    }
    if (w->at < w->pieces->n && w->pieces->at[w->at].s.n > w->width) filter__break_piece(w, line, w->width - n);
    if (line->n && filter__blank(line->at[line->n - 1].s)) line->n--;
    return line;
}

/* Appends one paragraph in lines. */
static void filter__wrap(filter_wrap *w, val_buf *b, val_str s, val_str between) {
    w->pieces = val_list_new(w->env).list;
    w->at = 0;
    for (size_t i = 0, end; i < s.n; i = end) {
        end = filter__piece(s, i, w->hyphens);
        val_step_chars(w->env, 8 * (end - i));
        val_list_add(w->env, w->pieces, val_str_view(val_sub(s, i, end)));
    }
    for (bool first = true; w->at < w->pieces->n;) {
        const val_list *line = filter__line(w, first);
        val_step(w->env, 1);
        if (!line->n) continue;
        if (!first) val_buf_add(w->env, b, between);
        for (size_t i = 0; i < line->n; i++) val_buf_add(w->env, b, line->at[i].s);
        first = false;
    }
}

static val filter__wordwrap(filter_in *f) {
    const int64_t   width = filter__int(f, 0);
    const val_list *lines = filter__lines(f->env, filter__str(f, -1), false);
    const val_str   between = f->a[2].kind == VAL_NONE ? val_str_of(f->env, "\n").s : filter__str(f, 2);
    filter_wrap     w = {.env = f->env, .width = (size_t)width, .breaks = filter__bool(f, 1), .hyphens = filter__bool(f, 3)};
    val_buf        *b = val_buf_new(f->env);
    if (width <= 0 && lines->n) val_fail(f->env, EXIT_INPUT, "wordwrap(): a width of %lld, expected one above 0", (long long)width);
    for (size_t i = 0; i < lines->n; i++) {
        if (i) val_buf_add(f->env, b, between);
        filter__wrap(&w, b, lines->at[i].s, between);
    }
    return val_str_view(val_buf_str(b));
}

/* --- filters of numbers --- */

static val filter__abs(filter_in *f) {
    if (!filter__is_number(f->in)) filter__wrong(f, -1, "a number");
    if (f->in.kind == VAL_FLOAT) return val_float(fabs(f->in.f));
    return val_order(f->env, f->in, val_int(0), "<") < 0 ? val_neg(f->env, f->in) : val_pos(f->env, f->in);
}

/* int: a text in the base, else as a float; the default where neither is a number. */
static val filter__to_int(filter_in *f) {
    double d;
    val    out;
    if (f->in.kind == VAL_UNDEF) filter__wrong(f, -1, "a number or a text");
    if (filter__is_int(f->in)) return val_pos(f->env, f->in);
    if (f->in.kind == VAL_STR) {
        if (filter_read_int(f->env, f->in.s, filter__int(f, 1), &out)) return out;
        if (!filter_read_float(f->env, f->in.s, &d) || !isfinite(d)) return f->a[0];
        return val_trunc(f->env, d);
    }
    if (f->in.kind != VAL_FLOAT || isnan(f->in.f)) return f->a[0];
    return val_trunc(f->env, f->in.f);
}

static val filter__to_float(filter_in *f) {
    double d;
    if (f->in.kind == VAL_UNDEF) filter__wrong(f, -1, "a number or a text");
    if (filter__is_number(f->in)) return val_float(val_as_float(f->env, f->in));
    if (f->in.kind == VAL_STR && filter_read_float(f->env, f->in.s, &d)) return val_float(d);
    return f->a[0];
}

/* A whole number rounded to a multiple of 10^digits; half goes to the even neighbour. */
static val filter__round_int(val_env *env, val v, int64_t digits) {
    v = val_pos(env, v);
    if (digits <= 0) return v;
    if (v.kind == VAL_INT && digits > 19) return val_int(0);
    const val unit = val_pow(env, val_int(10), val_int(digits)), rest = val_mod(env, v, unit);
    val       whole = val_floordiv(env, v, unit);
    const int half = val_order(env, val_mul(env, rest, val_int(2)), unit, "<");
    if (half > 0 || (half == 0 && val_truth(val_mod(env, whole, val_int(2))))) whole = val_add(env, whole, val_int(1));
    return val_mul(env, whole, unit);
}

/* A float rounded to digits after the point (negative: before it), by its exact decimal value; half goes to the even neighbour. */
static double filter__round_float(val_env *env, double x, int64_t digits) {
    char text[400];
    if (!isfinite(x) || digits > 323 || x == 0) return x;
    if (digits < -308) return 0.0 * x;
    if (digits < 0) {
        double     whole;
        const bool part = modf(fabs(x), &whole) != 0;
        const val  v = val_trunc(env, whole), unit = val_pow(env, val_int(10), val_int(-digits)), rest = val_mod(env, v, unit);
        val        r = filter__round_int(env, v, -digits);
        if (part && val_order(env, val_mul(env, rest, val_int(2)), unit, "<") == 0) r = val_add(env, val_minus(env, v, rest), unit);
        return copysign(val_as_float(env, r), x);
    }
    snprintf(text, sizeof text, "%.*f", (int)(fabs(x) < 1e17 ? digits : 0), x);
    const double r = strtod(text, NULL);
    if (isinf(r)) val_fail(env, EXIT_INPUT, "round(): the result is too large for a float");
    return r;
}

/* round(precision, method) */
static val filter__round(filter_in *f) {
    const bool common = val_is_str(f->a[1], "common"), up = val_is_str(f->a[1], "ceil");
    if (!common && !up && !val_is_str(f->a[1], "floor")) val_fail(f->env, EXIT_INPUT, "round(): 'method' is none of common, ceil and floor");
    if (!filter__is_number(f->in)) filter__wrong(f, -1, "a number");
    if (common && f->a[0].kind == VAL_NONE) return f->in.kind == VAL_FLOAT ? val_trunc(f->env, filter__round_float(f->env, f->in.f, 0)) : val_pos(f->env, f->in);
    const int64_t digits = filter__int(f, 0);
    if (common && f->in.kind == VAL_FLOAT) return val_float(filter__round_float(f->env, f->in.f, digits));
    if (common) return filter__round_int(f->env, f->in, digits < -INT64_MAX ? INT64_MAX : -digits);
    const val scale = val_pow(f->env, val_int(10), f->a[0]);
    val       v = val_mul(f->env, f->in, scale);
    if (v.kind == VAL_FLOAT) v = val_trunc(f->env, up ? ceil(v.f) : floor(v.f));
    return val_div(f->env, v, scale);
}

/* filesizeformat: in units of 1000 or 1024. */
static val filter__filesize(filter_in *f) {
    static const char *const unit[2][8] = {{"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"}, {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"}};
    const bool   binary = filter__bool(f, 0);
    const val    base = val_int(binary ? 1024 : 1000);
    double       n = 0;
    int          i = 0;
    char         text[400];
    if (f->in.kind == VAL_STR ? !filter_read_float(f->env, f->in.s, &n) : !filter__is_number(f->in)) filter__wrong(f, -1, "a number");
    if (f->in.kind != VAL_STR) n = val_as_float(f->env, f->in);
    if (n == 1) return val_str_of(f->env, "1 Byte");
    if (n < (double)base.i) {
        val_buf *b = val_buf_new(f->env);
        val_print(f->env, b, val_trunc(f->env, n));
        val_buf_put(f->env, b, " Bytes");
        return val_str_view(val_buf_str(b));
    }
    val scale = val_mul(f->env, base, base);          /* an integer: no power of 1000 above 10^22 is a float */
    for (; i < 7 && val_order(f->env, val_float(n), scale, "<") != -1; i++) scale = val_mul(f->env, scale, base);
    snprintf(text, sizeof text, "%.1f %s", (double)base.i * (isnan(n) ? (double)NAN : n) / val_as_float(f->env, scale), unit[binary][i]);   /* no sign before nan */
    return val_str_of(f->env, text);
}

/* --- filters of any value --- */

static val filter__default_value(filter_in *f) {
    return f->in.kind == VAL_UNDEF || (filter__bool(f, 1) && !val_truth(f->in)) ? f->a[0] : f->in;
}

static val filter__format(filter_in *f) {
    const val_args *args = f->args;
    if (args->n && args->named && args->named->live) val_fail(f->env, EXIT_INPUT, "format(): arguments by position and by name at the same time");
    if (args->named && args->named->live) return filter_format(f->env, filter__string(f), val_of_dict(args->named));
    val tuple = val_tuple_new(f->env);
    for (size_t i = 0; i < args->n; i++) val_list_add(f->env, tuple.list, args->at[i]);
    return filter_format(f->env, filter__string(f), tuple);
}

/* --- pprint: a value over several lines, as Python's pprint at a width of 80 --- */

enum { FILTER_PAGE = 80 };

/* A list, tuple or dict that is being printed. */
typedef struct {
    val             v;
    const val_list *items;                            /* of a dict: pairs */
    size_t          i;
    size_t          indent, allowance;                /* columns in front of its items, and what must fit after its last one */
} filter_page;

typedef struct {
    val_env     *env;
    val_buf     *out;
    filter_page *at;                                  /* [n], the outermost first */
    size_t       n;
} filter_pages;

/* Puts the entries of a dict in the order of its keys, where all of them are strings or all are numbers. */
static void filter__order_entries(val_env *env, val_dict *d) {
    const val_list *keys = val_items(env, val_view_of(d, VAL_KEYS)), *pairs = val_items(env, val_view_of(d, VAL_ITEMS));
    bool            text = true, number = true;
    for (size_t i = 0; i < keys->n; i++) text = text && keys->at[i].kind == VAL_STR, number = number && filter__is_number(keys->at[i]);
    if (!text && !number) return;
    const val_list *sorted = filter__sorted(env, keys, pairs, false);
    val_dict_clear(d);
    for (size_t i = 0; i < sorted->n; i++) val_dict_set(env, d, sorted->at[i].list->at[0], sorted->at[i].list->at[1]);
}

/* A copy of the value with all its dicts in order, but for those in a pair of groupby: Python prints it as one piece. */
static val filter__ordered(val_env *env, val v) {
    v = val_copy(env, v);
    val_list *left = val_list_new(env).list;
    val_list_add(env, left, v);
    while (left->n) {
        const val part = left->at[--left->n];
        if (filter__is_group(part)) continue;
        if (part.kind != VAL_LIST && part.kind != VAL_TUPLE && part.kind != VAL_DICT) continue;
        if (part.kind == VAL_DICT) filter__order_entries(env, part.dict);
        const val_list *items = val_items(env, part.kind == VAL_DICT ? val_view_of(part.dict, VAL_VALUES) : part);
        for (size_t i = 0; i < items->n; i++) val_list_add(env, left, items->at[i]);
    }
    return v;
}

static void filter__new_line(filter_pages *p, size_t indent) {
    val_buf_put(p->env, p->out, "\n");
    filter__fill(p->env, p->out, ' ', indent);
}

/* Cuts a line of a string after blanks so that the repr of each piece fits; `last` columns stay free after the last piece. */
static void filter__cut_line(filter_pages *p, val_list *out, val_str line, int64_t width, int64_t last) {
    size_t from = 0, to = 0;
    while (to < line.n) {
        size_t end = to;
        while (end < line.n && !filter_is_space(line.p[end])) end++;
        while (end < line.n && filter_is_space(line.p[end])) end++;
        if (end == line.n) width -= last;
        const val_str whole = filter__repr(p->env, val_str_view(val_sub(line, from, end)), false);
        if ((int64_t)whole.n > width && to > from) val_list_add(p->env, out, val_str_view(filter__repr(p->env, val_str_view(val_sub(line, from, to)), false))), from = to;
        to = end;
    }
    if (to > from) val_list_add(p->env, out, val_str_view(filter__repr(p->env, val_str_view(val_sub(line, from, to)), false)));
}

/* A string that does not fit: in pieces, one a line; in brackets where nothing is around it. */
static void filter__page_text(filter_pages *p, val_str s, size_t indent, size_t allowance) {
    const bool      alone = p->n == 0;
    const val_list *lines = filter__lines(p->env, s, true);
    val_list       *pieces = val_list_new(p->env).list;
    indent += alone;
    allowance += alone;
    const int64_t width = FILTER_PAGE - (int64_t)indent;
    for (size_t i = 0; i < lines->n; i++) {
        const int64_t last = i + 1 == lines->n ? (int64_t)allowance : 0;
        const val_str whole = filter__repr(p->env, lines->at[i], false);
        if ((int64_t)whole.n <= width - last) val_list_add(p->env, pieces, val_str_view(whole));
        else filter__cut_line(p, pieces, lines->at[i].s, width, last);
    }
    const bool brackets = alone && pieces->n > 1;
    if (brackets) val_buf_put(p->env, p->out, "(");
    for (size_t i = 0; i < pieces->n; i++) {
        if (i) filter__new_line(p, indent);
        val_buf_add(p->env, p->out, pieces->at[i].s);
    }
    if (brackets) val_buf_put(p->env, p->out, ")");
}

/* Appends a value, or opens it where it does not fit into the line. */
static void filter__page_value(filter_pages *p, val v, size_t indent, size_t allowance) {
    const val_str whole = filter__repr(p->env, v, false);
    const bool    fits = (uint64_t)whole.n + indent + allowance <= FILTER_PAGE;
    if (!fits && v.kind == VAL_STR && !v.safe) {
        filter__page_text(p, v.s, indent, allowance);
    } else if (!fits && !filter__is_group(v) && (v.kind == VAL_LIST || v.kind == VAL_TUPLE || v.kind == VAL_DICT) && val_len(p->env, v)) {
        ASSERT(p->n < VAL_DEPTH_MAX);                 /* val_repr() refuses more */
        const val_list *items = val_items(p->env, v.kind == VAL_DICT ? val_view_of(v.dict, VAL_ITEMS) : v);
        p->at[p->n++] = (filter_page){v, items, 0, indent + 1, allowance + 1 + (v.kind == VAL_TUPLE && items->n == 1)};
        val_buf_put(p->env, p->out, v.kind == VAL_LIST ? "[" : v.kind == VAL_TUPLE ? "(" : "{");
    } else {
        val_buf_add(p->env, p->out, whole);
    }
}

/* Appends the next item of the innermost open value, or shuts it. */
static void filter__page_next(filter_pages *p) {
    filter_page *o = &p->at[p->n - 1];
    if (o->i == o->items->n) {
        val_buf_put(p->env, p->out, o->v.kind == VAL_LIST ? "]" : o->v.kind == VAL_DICT ? "}" : o->items->n == 1 ? ",)" : ")");
        p->n--;
        return;
    }
    val    v = o->items->at[o->i];
    size_t indent = o->indent;
    if (o->i++) {
        val_buf_put(p->env, p->out, ",");
        filter__new_line(p, indent);
    }
    if (o->v.kind == VAL_DICT) {
        const val_str key = filter__repr(p->env, v.list->at[0], false);
        val_buf_add(p->env, p->out, key);
        val_buf_put(p->env, p->out, ": ");
        indent += key.n + 2;
        v = v.list->at[1];
    }
    filter__page_value(p, v, indent, o->i == o->items->n ? o->allowance : 1);
}

static val filter__pprint(filter_in *f) {
    filter_pages p = {f->env, val_buf_new(f->env), val_alloc(f->env, VAL_DEPTH_MAX, sizeof(filter_page)), 0};
    filter__page_value(&p, filter__ordered(f->env, f->in), 0, 0);
    while (p.n) filter__page_next(&p);
    return val_str_view(val_buf_str(p.out));
}

/* tojson(ensure_ascii, indent, separators, sort_keys), as transformers has it: json.dumps without escapes for HTML. */
static val filter__tojson(filter_in *f) {
    val_json_form form = {.indent = f->a[1], .item_sep = val_none(), .key_sep = val_none(), .ensure_ascii = filter__bool(f, 0), .sort_keys = filter__bool(f, 3)};
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

static val filter__attr(filter_in *f) {
    const val v = f->in;
    val       out;
    val_defined(f->env, v);
    return filter__attribute(f->env, v, filter__str(f, 0), &out) ? out : val_undef(NULL);
}

enum { FILTER_RANDOM, FILTER_LINKS };

/* A row that is known and refused. */
__attribute__((noreturn)) static val filter__refused(filter_in *f) {
    static const char *const why[] = {[FILTER_RANDOM] = "its result is random", [FILTER_LINKS] = "no links are made in a chat"};
    val_fail(f->env, EXIT_INPUT, "%s is refused: %s", f->row->head.name, why[f->row->with]);
}

/* --- tests --- */

static val filter__is_kind(filter_in *f) { return val_bool((unsigned)f->row->with >> f->in.kind & 1); }
static val filter__is_defined(filter_in *f) { return val_bool(f->in.kind != VAL_UNDEF); }
static val filter__is_bool(filter_in *f) { return val_bool(f->in.kind == VAL_BOOL && f->in.b == (f->row->with != 0)); }
static val filter__is_iterable(filter_in *f) { return val_bool(val_iterable(f->in)); }
static val filter__is_safe(filter_in *f) { return val_bool(f->in.kind == VAL_STR && f->in.safe); }
static val filter__is_in(filter_in *f) { return val_bool(val_in(f->env, f->in, f->a[0])); }
static val filter__is_callable(filter_in *f) { return val_bool(f->in.kind == VAL_UNDEF || f->in.kind == VAL_FUNC || (f->in.kind == VAL_OBJECT && (f->in.object->type->call || f->in.object->type->callable))); }

/* Whether two values are one. Numbers and strings are where they are equal: a template cannot see more. */
static val filter__is_same(filter_in *f) {
    const val a = f->in, b = f->a[0];
    if (a.kind != b.kind) return val_bool(false);
    if (a.kind == VAL_LIST || a.kind == VAL_TUPLE) return val_bool(a.list == b.list);
    return val_bool(a.kind == VAL_DICT ? a.dict == b.dict : val_eq(f->env, a, b));
}

/* value % n == with; without a parameter n is 2. */
static val filter__is_multiple(filter_in *f) {
    const val n = *f->row->params ? f->a[0] : val_int(2);
    const val rest = f->in.kind == VAL_STR ? filter_format(f->env, f->in, n) : val_mod(f->env, f->in, n);
    return val_bool(val_eq(f->env, rest, val_int(f->row->with)));
}

enum { FILTER_BELOW = 1, FILTER_SAME = 2, FILTER_ABOVE = 4 };

/* Comparisons: with says which orders are true. */
static val filter__is_order(filter_in *f) {
    const int with = f->row->with;
    if (with == FILTER_SAME || with == (FILTER_BELOW | FILTER_ABOVE)) return val_bool(val_eq(f->env, f->in, f->a[0]) == (with == FILTER_SAME));
    const int order = val_order(f->env, f->in, f->a[0], f->row->head.name);
    return val_bool(order == -1 ? with & FILTER_BELOW : order == 0 ? with & FILTER_SAME : order == 1 ? with & FILTER_ABOVE : 0);
}

static val filter__is_row(filter_in *f) {
    if (!val_hashable(f->env, f->in)) filter__wrong(f, -1, "a name");
    return val_bool(f->in.kind == VAL_STR && filter__row_named(f->row->with, f->in.s));
}

/* --- methods of strings --- */

/* Whether all characters are in one set: with. An empty string is in none. */
static val filter__all_are(filter_in *f) {
    const val_str s = f->in.s;
    bool          all = s.n > 0;
    val_step_chars(f->env, 4 * (uint64_t)s.n);
    for (size_t i = 0; i < s.n && all; i++) {
        const val_chr c = s.p[i];
        switch (f->row->with) {
        case VAL_IS_DIGIT: all = filter__is_digit(c); break;
        case VAL_IS_NUMERIC: all = filter__is_numeric(c); break;
        case VAL_SETS: all = filter__is_alnum(c); break;
        default: all = val_is(f->row->with, c); break;
        }
    }
    return val_bool(all);
}

static val filter__is_identifier(filter_in *f) {
    const val_str s = f->in.s;
    bool          all = s.n > 0;
    val_step_chars(f->env, 4 * (uint64_t)s.n);
    for (size_t i = 0; i < s.n && all; i++)
        all = val_is(VAL_IS_ALPHA, s.p[i]) != val_is(VAL_IS_ID_ODD, s.p[i]) || (i && val_is(VAL_IS_ID_REST, s.p[i]));
    return val_bool(all);
}

/* isascii, isprintable: an empty string is both. */
static val filter__all_plain(filter_in *f) {
    bool all = true;
    val_step_chars(f->env, f->in.s.n);
    for (size_t i = 0; i < f->in.s.n && all; i++) all = f->row->with ? val_printable(VAL_CHAR(f->in.s.p[i])) : VAL_CHAR(f->in.s.p[i]) < 128;
    return val_bool(all);
}

/* islower, isupper, and the tests of these names: there are cased characters, and all of them are in this case. */
static val filter__is_case(filter_in *f) {
    const val_str s = val_as_str(f->env, f->in);
    bool          any = false, all = true;
    val_step_chars(f->env, 16 * (uint64_t)s.n);
    for (size_t i = 0; i < s.n && all; i++) {
        if (val_is(f->row->with, s.p[i])) any = true;
        else all = !filter__is_cased(s.p[i]);
    }
    return val_bool(any && all);
}

static val filter__is_title(filter_in *f) {
    bool any = false, all = true, in_word = false;
    val_step_chars(f->env, 16 * (uint64_t)f->in.s.n);
    for (size_t i = 0; i < f->in.s.n && all; i++) {
        const bool lower = val_is(VAL_IS_LOWER, f->in.s.p[i]), cased = filter__is_cased(f->in.s.p[i]);
        if (cased) all = lower == in_word, any = true;
        in_word = cased;
    }
    return val_bool(any && all);
}

/* Brings start and end, arguments i and i + 1, into a string or list of n items, as a slice. False: start is after the end of it. */
static bool filter__bounds(filter_in *f, int i, size_t n, size_t *from, size_t *to) {
    int64_t at[2] = {0, (int64_t)n};
    *from = *to = 0;
    for (int k = 0; k < 2; k++) {
        if (f->a[i + k].kind == VAL_NONE) continue;
        at[k] = filter__int(f, i + k);
        if (at[k] < 0) at[k] = at[k] < -(int64_t)n ? 0 : at[k] + (int64_t)n;
        else if (k && at[k] > (int64_t)n) at[k] = (int64_t)n;
    }
    if (at[0] > at[1]) return false;
    *from = (size_t)at[0];
    *to = (size_t)at[1];
    return true;
}

/* Where a text appears last in s[from .. to), -1: it does not. */
static int64_t filter__find_last(val_env *env, val_str s, val_str what, size_t from, size_t to) {
    size_t work = 0;
    if (what.n > to - from) return -1;
    for (size_t i = to - what.n + 1, k; i-- > from;) {
        for (k = 0; k < what.n && VAL_CHAR(s.p[i + k]) == VAL_CHAR(what.p[k]); k++) {}
        if ((work += k + 1) >= 4096) val_step_chars(env, work), work = 0;
        if (k == what.n) return (int64_t)i;
    }
    val_step_chars(env, work);
    return -1;
}

enum { FILTER_LAST = 1, FILTER_MUST = 2 };

/* find, index, rfind, rindex */
static val filter__find(filter_in *f) {
    const val_str what = filter__str(f, 0);
    size_t        from, to;
    int64_t       at = -1;
    if (filter__bounds(f, 1, f->in.s.n, &from, &to))
        at = f->row->with & FILTER_LAST ? filter__find_last(f->env, f->in.s, what, from, to) : val_find(f->env, f->in.s, what, from, to);
    if (at < 0 && f->row->with & FILTER_MUST) val_fail(f->env, EXIT_INPUT, "%s(): '%s' is not in the string", f->row->head.name, val_quote(what).p);
    return val_int(at < 0 ? -1 : at);
}

static val filter__count_text(filter_in *f) {
    const val_str what = filter__str(f, 0);
    size_t        from, to;
    int64_t       n = 0;
    if (!filter__bounds(f, 1, f->in.s.n, &from, &to)) return val_int(0);
    if (!what.n) return val_int((int64_t)(to - from) + 1);
    for (int64_t at; (at = val_find(f->env, f->in.s, what, from, to)) >= 0; n++) {
        val_step(f->env, 1);
        from = (size_t)at + what.n;
    }
    return val_int(n);
}

/* startswith, endswith: with a tuple, one of its strings. */
static val filter__has_end(filter_in *f) {
    const val  *one = f->a;
    size_t      n = 1, from, to;
    const char *name = f->row->head.name;
    if (f->a[0].kind == VAL_TUPLE) one = f->a[0].list->at, n = f->a[0].list->n;
    const bool within = filter__bounds(f, 1, f->in.s.n, &from, &to);
    for (size_t i = 0; i < n; i++) {
        val_step(f->env, 1);
        if (one[i].kind != VAL_STR) val_fail(f->env, EXIT_INPUT, "%s(): found %s, expected str or a tuple of str", name, val_kind_name(one[i]));
        const val_str s = one[i].s;
        if (!within || s.n > to - from) continue;
        val_step_chars(f->env, s.n);
        if (val_str_eq(s, f->row->with == FILTER_RIGHT ? val_sub(f->in.s, to - s.n, to) : val_sub(f->in.s, from, from + s.n))) return val_bool(true);
    }
    return val_bool(false);
}

static void filter__empty_separator(filter_in *f, val_str s) {
    if (!s.n) val_fail(f->env, EXIT_INPUT, "%s(): the separator is empty", f->row->head.name);
}

/* Words from the right, at most `most` splits; what is left at the beginning is one word. */
static val_list *filter__words_right(val_env *env, val_str s, int64_t most) {
    val_list *out = val_list_new(env).list;
    val_step_chars(env, s.n);
    for (size_t i = s.n, to;; most--) {
        while (i > 0 && val_is(VAL_IS_SPACE, s.p[i - 1])) i--;
        if (i == 0) break;
        for (to = i; i > 0 && (most == 0 || !val_is(VAL_IS_SPACE, s.p[i - 1])); i--) {}
        val_list_add(env, out, val_str_view(val_sub(s, i, to)));
        if (most == 0) break;
    }
    return filter__turned(env, out);
}

static val_list *filter__split_by(filter_in *f, val_str s, val_str by, int64_t most) {
    val_list *out = val_list_new(f->env).list;
    const bool last = f->row->with == FILTER_RIGHT;
    filter__empty_separator(f, by);
    for (; most != 0; most--) {
        const int64_t at = last ? filter__find_last(f->env, s, by, 0, s.n) : val_find(f->env, s, by, 0, s.n);
        if (at < 0) break;
        val_step(f->env, 1);
        val_list_add(f->env, out, val_str_view(last ? val_sub(s, (size_t)at + by.n, s.n) : val_sub(s, 0, (size_t)at)));
        s = last ? val_sub(s, 0, (size_t)at) : val_sub(s, (size_t)at + by.n, s.n);
    }
    val_list_add(f->env, out, val_str_view(s));
    return last ? filter__turned(f->env, out) : out;
}

/* A list of strings that are safe where the string in front is. */
static val filter__strings(filter_in *f, val_list *l) {
    for (size_t i = 0; i < l->n; i++) l->at[i].safe = f->in.safe;
    return val_of_list(l);
}

/* split, rsplit: by a text, or into words. */
static val filter__split(filter_in *f) {
    const int64_t most = filter__int(f, 1) < 0 ? -1 : filter__int(f, 1);
    if (f->a[0].kind != VAL_NONE) return filter__strings(f, filter__split_by(f, f->in.s, filter__str(f, 0), most));
    return filter__strings(f, f->row->with == FILTER_RIGHT ? filter__words_right(f->env, f->in.s, most) : filter__words(f->env, f->in.s, most));
}

static val filter__splitlines(filter_in *f) { return filter__strings(f, filter__lines(f->env, f->in.s, filter__bool(f, 0))); }

/* partition, rpartition: what is before, the separator, what is after. */
static val filter__partition(filter_in *f) {
    const val_str by = filter__str(f, 0), s = f->in.s;
    const bool    last = f->row->with == FILTER_RIGHT;
    filter__empty_separator(f, by);
    const int64_t at = last ? filter__find_last(f->env, s, by, 0, s.n) : val_find(f->env, s, by, 0, s.n);
    val_list     *l = val_list_new(f->env).list;
    const val_str none = {0};
    if (at < 0 && last) val_list_add(f->env, l, val_str_view(none)), val_list_add(f->env, l, val_str_view(none));
    val_list_add(f->env, l, val_str_view(at < 0 ? s : val_sub(s, 0, (size_t)at)));
    if (at < 0 && !last) val_list_add(f->env, l, val_str_view(none)), val_list_add(f->env, l, val_str_view(none));
    if (at >= 0) {
        val_list_add(f->env, l, val_str_view(val_sub(s, (size_t)at, (size_t)at + by.n)));   /* of the text, not of the argument: its origin */
        val_list_add(f->env, l, val_str_view(val_sub(s, (size_t)at + by.n, s.n)));
    }
    return val_of_tuple(filter__strings(f, l).list);
}

static val filter__join_strings(filter_in *f) {
    const val_list *items = f->a[0].kind == VAL_UNDEF ? val_list_new(f->env).list : val_items(f->env, f->a[0]);
    val_buf        *b = val_buf_new(f->env);
    for (size_t i = 0; i < items->n; i++) {
        val_step(f->env, 1);
        if (!f->in.safe && items->at[i].kind != VAL_STR) val_fail(f->env, EXIT_INPUT, "join(): item %zu is %s, expected str", i, val_kind_name(items->at[i]));
        if (i) val_buf_add(f->env, b, f->in.s);
        val_buf_add(f->env, b, f->in.safe ? filter__safe(f->env, items->at[i]).s : items->at[i].s);
    }
    return filter__like(f->in, val_buf_str(b));
}

static val filter__replace_text(filter_in *f) {
    filter__str(f, 1);
    return filter__like(f->in, filter__replaced(f->env, f->in.s, filter__str(f, 0), filter__beside(f->env, f->in, f->a[1]), filter__int(f, 2)));
}

/* removeprefix, removesuffix */
static val filter__remove(filter_in *f) {
    const val_str s = f->in.s, what = filter__str(f, 0);
    const bool    last = f->row->with == FILTER_RIGHT;
    val_step_chars(f->env, what.n);
    if (what.n > s.n || !val_str_eq(what, last ? val_sub(s, s.n - what.n, s.n) : val_sub(s, 0, what.n))) return f->in;
    return filter__like(f->in, last ? val_sub(s, 0, s.n - what.n) : val_sub(s, what.n, s.n));
}

static val filter__zfill(filter_in *f) {
    const val_str  s = f->in.s;
    const int64_t  width = filter__int(f, 0);
    const uint64_t pad = width > 0 && (uint64_t)width > s.n ? (uint64_t)width - s.n : 0;
    const bool     sign = s.n && (VAL_CHAR(s.p[0]) == '+' || VAL_CHAR(s.p[0]) == '-');
    val_buf       *b = val_buf_new(f->env);
    filter__room(f->env, b, pad + s.n);
    if (sign) val_buf_chr(f->env, b, s.p[0]);
    filter__fill(f->env, b, '0', pad);
    val_buf_add(f->env, b, val_sub(s, sign, s.n));
    return filter__like(f->in, val_buf_str(b));
}

static val filter__expandtabs(filter_in *f) {
    const int64_t size = filter__int(f, 0);
    val_buf      *b = val_buf_new(f->env);
    uint64_t      column = 0;
    for (size_t i = 0; i < f->in.s.n; i++) {
        const val_chr c = VAL_CHAR(f->in.s.p[i]);
        if (c == '\t') {
            const uint64_t n = size > 0 ? (uint64_t)size - column % (uint64_t)size : 0;
            filter__fill(f->env, b, ' ' | (f->in.s.p[i] & VAL_INPUT), n);
            column += n;
            continue;
        }
        val_buf_chr(f->env, b, f->in.s.p[i]);
        column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
    return filter__like(f->in, val_buf_str(b));
}

/* str.format, str.format_map (with 1) */
static val filter__format_fields(filter_in *f) {
    static const val_args none;
    if (f->row->with && f->a[0].kind != VAL_DICT) filter__wrong(f, 0, "dict");
    filter_fields fields = {.env = f->env, .args = f->row->with ? &none : f->args, .mapping = f->row->with ? f->a[0] : val_undef(NULL), .safe = f->in.safe};
    return filter__like(f->in, filter__fields(&fields, f->in.s, 1));
}

/* --- methods of lists, tuples and ranges --- */

static val filter__append(filter_in *f) {
    val_list_add(f->env, f->in.list, f->a[0]);
    return val_none();
}

static val filter__extend(filter_in *f) {
    const val_list *items = val_items(f->env, f->a[0]);
    const size_t    n = items->n;                     /* read before the loop: x.extend(x) is allowed */
    val_step(f->env, n / 16);
    for (size_t i = 0; i < n; i++) val_list_add(f->env, f->in.list, items->at[i]);
    return val_none();
}

/* Puts a value in front of item i of a list; beyond the end: at the end. */
static val filter__insert(filter_in *f) {
    val_list *l = f->in.list;
    int64_t   i = filter__int(f, 0);
    if (i < 0) i = i < -(int64_t)l->n ? 0 : i + (int64_t)l->n;
    val_list_add(f->env, l, f->a[1]);
    val_step(f->env, l->n / 16);
    for (size_t k = l->n - 1; k > (uint64_t)i; k--) l->at[k] = l->at[k - 1], l->at[k - 1] = f->a[1];
    return val_none();
}

static val filter__take(val_env *env, val_list *l, size_t i) {
    const val v = l->at[i];
    val_step(env, (l->n - i) / 16);
    for (size_t k = i + 1; k < l->n; k++) l->at[k - 1] = l->at[k];
    l->n--;
    return v;
}

static val filter__pop(filter_in *f) {
    val_list *l = f->in.list;
    int64_t   i = filter__int(f, 0);
    if (i < 0 && i >= -(int64_t)l->n) i += (int64_t)l->n;
    if (i < 0 || i >= (int64_t)l->n) val_fail(f->env, EXIT_INPUT, "pop(): item %lld of a list of %zu", (long long)i, l->n);
    return filter__take(f->env, l, (size_t)i);
}

/* The place of a value in the items from .. to, -1: it is not there. */
static int64_t filter__place(val_env *env, const val_list *l, val v, size_t from, size_t to) {
    for (size_t i = from; i < to && i < l->n; i++) {
        val_step(env, 1);
        if (val_eq(env, l->at[i], v)) return (int64_t)i;
    }
    return -1;
}

static val filter__remove_item(filter_in *f) {
    const int64_t i = filter__place(f->env, f->in.list, f->a[0], 0, f->in.list->n);
    if (i < 0) val_fail(f->env, EXIT_INPUT, "remove(): the list does not have this item");
    filter__take(f->env, f->in.list, (size_t)i);
    return val_none();
}

static val filter__index_item(filter_in *f) {
    const val_list *l = val_items(f->env, f->in);
    size_t          from, to;
    const int64_t   i = filter__bounds(f, 1, l->n, &from, &to) ? filter__place(f->env, l, f->a[0], from, to) : -1;
    if (i < 0) val_fail(f->env, EXIT_INPUT, "index(): %s does not have this item", val_kind_name(f->in));
    return val_int(i);
}

static val filter__range_index(filter_in *f) {
    const int64_t i = filter__place(f->env, val_items(f->env, f->in), f->a[0], 0, SIZE_MAX);
    if (i < 0) val_fail(f->env, EXIT_INPUT, "index(): the range does not have this item");
    return val_int(i);
}

static val filter__count_item(filter_in *f) {
    const val_list *l = val_items(f->env, f->in);
    int64_t         n = 0;
    for (size_t i = 0; i < l->n; i++) {
        val_step(f->env, 1);
        n += val_eq(f->env, l->at[i], f->a[0]);
    }
    return val_int(n);
}

static val filter__clear(filter_in *f) {
    if (f->in.kind == VAL_DICT) val_dict_clear(f->in.dict);
    else f->in.list->n = 0;
    return val_none();
}

static val filter__copy(filter_in *f) {
    if (f->in.kind == VAL_LIST) return val_of_list(filter__copied(f->env, f->in.list));
    val d = val_dict_new(f->env);
    val_step(f->env, f->in.dict->n);
    for (size_t i = 0; i < f->in.dict->n; i++)
        if (!f->in.dict->at[i].gone) val_dict_set(f->env, d.dict, f->in.dict->at[i].key, f->in.dict->at[i].value);
    return d;
}

static val filter__reverse_list(filter_in *f) {
    *f->in.list = *filter__turned(f->env, f->in.list);
    return val_none();
}

static val filter__sort_list(filter_in *f) {
    if (f->a[0].kind != VAL_NONE) filter__wrong(f, 0, "None: a template has no functions for keys");
    *f->in.list = *filter__sorted(f->env, f->in.list, f->in.list, filter__flag(f, 1));
    return val_none();
}

static val filter__range_part(filter_in *f) {
    const val_range r = f->in.range;
    return val_int(f->row->with == 0 ? r.from : f->row->with == 1 ? r.to : r.step);
}

/* --- methods of dicts --- */

static val filter__view(filter_in *f) { return val_view_of(f->in.dict, f->row->with); }

static val filter__get(filter_in *f) {
    bool      found;
    const val v = val_dict_get(f->in.dict, f->a[0], &found);
    return found ? v : f->a[1];
}

static val filter__pop_key(filter_in *f) {
    bool      found;
    const val v = val_dict_get(f->in.dict, f->a[0], &found);
    if (found) val_dict_del(f->in.dict, f->a[0]);
    else if (!filter__given(f, 1)) val_fail(f->env, EXIT_INPUT, "pop(): the dict has no key '%s'", val_quote(val_as_str(f->env, f->a[0])).p);
    return found ? v : f->a[1];
}

static val filter__popitem(filter_in *f) {
    val_dict *d = f->in.dict;
    if (!d->live) val_fail(f->env, EXIT_INPUT, "popitem(): the dict is empty");
    while (d->at[d->n - 1].gone) d->n--;
    const val_pair p = d->at[d->n - 1];
    val_dict_del(d, p.key);
    return val_pair_of(f->env, p.key, p.value);
}

static val filter__setdefault(filter_in *f) {
    bool      found;
    const val v = val_dict_get(f->in.dict, f->a[0], &found);
    if (found) return v;
    val_dict_set(f->env, f->in.dict, f->a[0], f->a[1]);
    return f->a[1];
}

/* Adds the entries of a mapping, or of a list of pairs. */
static void filter__add_entries(filter_in *f, val_dict *d, val from) {
    val_defined(f->env, from);
    const val_list *pairs = val_items(f->env, from.kind == VAL_DICT ? val_view_of(from.dict, VAL_ITEMS) : from);
    for (size_t i = 0; i < pairs->n; i++) {
        const val_list *pair = val_items(f->env, pairs->at[i]);
        val_step(f->env, 1);
        if (pair->n != 2) val_fail(f->env, EXIT_INPUT, "%s(): item %zu has %zu parts, expected two", f->row->head.name, i, pair->n);
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

/* --- methods of numbers --- */

static val filter__itself(filter_in *f) { return val_pos(f->env, f->in); }
static val filter__zero(filter_in *f) { return f->in.kind == VAL_FLOAT ? val_float(0) : val_int(0); }
static val filter__one(filter_in *f) { (void)f; return val_int(1); }
static val filter__is_integer(filter_in *f) { return val_bool(isfinite(f->in.f) && f->in.f == floor(f->in.f)); }

/* bit_length, bit_count (with 1) */
static val filter__bits(filter_in *f) {
    const val_str s = filter__in_base(f->env, filter__magnitude(f->env, f->in), 2);
    int64_t       n = 0;
    for (size_t i = 0; i < s.n; i++) n += s.p[i] == '1';
    return val_int(f->row->with ? n : n ? (int64_t)s.n : 0);
}

/* --- objects of global functions --- */

/* A row of an object, bound to it. */
static bool filter__bound(val_env *env, const filter_row *rows, size_t n, val_object *o, val_str name, val *out) {
    for (size_t i = 0; i < n; i++)
        if (val_str_is(name, rows[i].head.name)) return *out = val_bind(env, &rows[i].head, val_of_object(o)), true;
    return false;
}

static val filter__call_row(val_env *env, const val_func *func, val self, const val_args *args) { return filter_call(env, (const filter_row *)func, self, args); }

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
    static const val_class type = {.name = "Namespace", .get = filter__namespace_get, .set = filter__namespace_set, .dict = filter__namespace_dict};
    filter_namespace      *o = val_alloc(f->env, 1, sizeof *o);
    *o = (filter_namespace){{&type}, val_dict_new(f->env).dict};
    filter__fill_dict(f, o->at);
    return val_of_object(&o->base);
}

typedef struct {
    val_object base;
    val        between;
    bool       used;
} filter_joiner;

static val filter__joiner_call(val_env *env, val_object *o, const val_args *args) {
    filter_joiner *j = (filter_joiner *)o;
    const bool     used = j->used;
    if (args->n || (args->named && args->named->live)) val_fail(env, EXIT_INPUT, "a joiner takes no arguments");
    j->used = true;
    return used ? j->between : val_str_view((val_str){0});
}

static val filter__joiner(filter_in *f) {
    static const val_class type = {.name = "Joiner", .call = filter__joiner_call};
    filter_joiner         *o = val_alloc(f->env, 1, sizeof *o);
    *o = (filter_joiner){{&type}, f->a[0], false};
    return val_of_object(&o->base);
}

typedef struct {
    val_object base;
    val_list  *items;
    size_t     at;
} filter_cycler;

static filter_cycler *filter__cycler_of(filter_in *f) { return (filter_cycler *)f->in.object; }

static val filter__cycler_next(filter_in *f) {
    filter_cycler *c = filter__cycler_of(f);
    const val      v = c->items->at[c->at];
    c->at = (c->at + 1) % c->items->n;
    return v;
}

static val filter__cycler_reset(filter_in *f) {
    filter__cycler_of(f)->at = 0;
    return val_none();
}

static const filter_row filter__cycler_rows[] = {
    {{"next", filter__call_row}, "", filter__cycler_next, 0, 0},
    {{"reset", filter__call_row}, "", filter__cycler_reset, 0, 0},
};

static bool filter__cycler_get(val_env *env, val_object *o, val_str name, val *out) {
    const filter_cycler *c = (filter_cycler *)o;
    if (val_str_is(name, "current")) return *out = c->items->at[c->at], true;
    if (val_str_is(name, "pos")) return *out = val_int((int64_t)c->at), true;
    if (val_str_is(name, "items")) return *out = val_of_tuple(c->items), true;
    return filter__bound(env, filter__cycler_rows, sizeof filter__cycler_rows / sizeof *filter__cycler_rows, o, name, out);
}

static val filter__cycler(filter_in *f) {
    static const val_class type = {.name = "Cycler", .get = filter__cycler_get};
    filter_cycler         *o = val_alloc(f->env, 1, sizeof *o);
    if (!f->args->n) val_fail(f->env, EXIT_INPUT, "cycler() lacks its items");
    *o = (filter_cycler){{&type}, val_list_new(f->env).list, 0};
    for (size_t i = 0; i < f->args->n; i++) val_list_add(f->env, o->items, f->args->at[i]);
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
    if (!n && format[strlen(format) - 1] != 'p' && format[strlen(format) - 1] != 'P') val_fail(env, EXIT_INPUT, "strftime_now(): the result of '%s' is too long", format);
    text[n] = 0;
    val_buf_put(env, b, text);
}

/* strftime_now(format): local time in a form of strftime, as Python's datetime writes it: %f are microseconds, and a time without a zone has empty %z
 * and %Z. */
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
        for (i++; i + 1 < s.n && VAL_CHAR(s.p[i]) < 128 && strchr("_-^#0123456789EO", (int)VAL_CHAR(s.p[i])) && n < sizeof one - 2; i++) one[n++] = (char)VAL_CHAR(s.p[i]);
        const val_chr c = VAL_CHAR(s.p[i]);
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
#define FILTER_KIND(k) (1u << (k))

static const filter_row filter__filters[] = {
    FILTER_ROW("abs", "/", filter__abs, 0),
    FILTER_ROW("attr", "name", filter__attr, 0),
    FILTER_ROW("batch", "linecount fill_with=none", filter__batch, 0),
    FILTER_ROW("capitalize", "", filter__case, FILTER_CAPITAL),
    FILTER_ROW("center", "width=80 fillchar=' '", filter__justify, 0),
    FILTER_ROW("count", "/", filter__length, 0),
    FILTER_ROW("d", "default_value='' boolean=false", filter__default_value, 0),
    FILTER_ROW("default", "default_value='' boolean=false", filter__default_value, 0),
    FILTER_ROW("dictsort", "case_sensitive=false by='key' reverse=false", filter__dictsort, 0),
    FILTER_ROW("e", "/", filter__escaped, 0),
    FILTER_ROW("escape", "/", filter__escaped, 0),
    FILTER_ROW("filesizeformat", "binary=false", filter__filesize, 0),
    FILTER_ROW("first", "", filter__first, 0),
    FILTER_ROW("float", "default=0.0", filter__to_float, 0),
    FILTER_ROW("forceescape", "", filter__force_escaped, 0),
    FILTER_ROW("format", "* **", filter__format, 0),
    FILTER_ROW("from_json", "", filter__fromjson, 0),
    FILTER_ROW("groupby", "attribute default=none case_sensitive=false", filter__groupby, 0),
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
    FILTER_ROW("pprint", "", filter__pprint, 0),
    FILTER_ROW("random", "", filter__refused, FILTER_RANDOM),
    FILTER_ROW("reject", "* **", filter__select, FILTER_REJECT),
    FILTER_ROW("rejectattr", "* **", filter__select, FILTER_REJECT | FILTER_BY_ATTRIBUTE),
    FILTER_ROW("replace", "old new count=none", filter__replace, 0),
    FILTER_ROW("reverse", "", filter__reverse, 0),
    FILTER_ROW("round", "precision=0 method='common'", filter__round, 0),
    FILTER_ROW("safe", "", filter__marked_safe, 0),
    FILTER_ROW("select", "* **", filter__select, 0),
    FILTER_ROW("selectattr", "* **", filter__select, FILTER_BY_ATTRIBUTE),
    FILTER_ROW("slice", "slices fill_with=none", filter__slice, 0),
    FILTER_ROW("sort", "reverse=false case_sensitive=false attribute=none", filter__sort, 0),
    FILTER_ROW("string", "", filter__string, 0),
    FILTER_ROW("striptags", "", filter__striptags, 0),
    FILTER_ROW("sum", "attribute=none start=0", filter__sum, 0),
    FILTER_ROW("title", "", filter__title, 0),
    FILTER_ROW("tojson", "ensure_ascii=false indent=none separators=none sort_keys=false", filter__tojson, 0),
    FILTER_ROW("trim", "chars=none", filter__strip, FILTER_LEFT | FILTER_RIGHT),
    FILTER_ROW("truncate", "length=255 killwords=false end='...' leeway=none", filter__truncate, 0),
    FILTER_ROW("unique", "case_sensitive=false attribute=none", filter__unique, 0),
    FILTER_ROW("upper", "", filter__case, FILTER_UPPER),
    FILTER_ROW("urlencode", "", filter__urlencode, 0),
    FILTER_ROW("urlize", "* **", filter__refused, FILTER_LINKS),
    FILTER_ROW("wordcount", "", filter__wordcount, 0),
    FILTER_ROW("wordwrap", "width=79 break_long_words=true wrapstring=none break_on_hyphens=true", filter__wordwrap, 0),
    FILTER_ROW("xmlattr", "autospace=true", filter__xmlattr, 0),
};

#define FILTER_NUMBERS (FILTER_KIND(VAL_INT) | FILTER_KIND(VAL_BIG) | FILTER_KIND(VAL_BOOL))
#define FILTER_SIZED   (FILTER_KIND(VAL_STR) | FILTER_KIND(VAL_LIST) | FILTER_KIND(VAL_TUPLE) | FILTER_KIND(VAL_DICT) | FILTER_KIND(VAL_RANGE) | FILTER_KIND(VAL_UNDEF))

static const filter_row filter__tests[] = {
    FILTER_ROW("!=", "b /", filter__is_order, FILTER_BELOW | FILTER_ABOVE),
    FILTER_ROW("<", "b /", filter__is_order, FILTER_BELOW),
    FILTER_ROW("<=", "b /", filter__is_order, FILTER_BELOW | FILTER_SAME),
    FILTER_ROW("==", "b /", filter__is_order, FILTER_SAME),
    FILTER_ROW(">", "b /", filter__is_order, FILTER_ABOVE),
    FILTER_ROW(">=", "b /", filter__is_order, FILTER_ABOVE | FILTER_SAME),
    FILTER_ROW("boolean", "", filter__is_kind, FILTER_KIND(VAL_BOOL)),
    FILTER_ROW("callable", "/", filter__is_callable, 0),
    FILTER_ROW("defined", "", filter__is_defined, 0),
    FILTER_ROW("divisibleby", "num", filter__is_multiple, 0),
    FILTER_ROW("eq", "b /", filter__is_order, FILTER_SAME),
    FILTER_ROW("equalto", "b /", filter__is_order, FILTER_SAME),
    FILTER_ROW("escaped", "", filter__is_safe, 0),
    FILTER_ROW("even", "", filter__is_multiple, 0),
    FILTER_ROW("false", "", filter__is_bool, 0),
    FILTER_ROW("filter", "", filter__is_row, FILTER_OF_FILTERS),
    FILTER_ROW("float", "", filter__is_kind, FILTER_KIND(VAL_FLOAT)),
    FILTER_ROW("ge", "b /", filter__is_order, FILTER_ABOVE | FILTER_SAME),
    FILTER_ROW("greaterthan", "b /", filter__is_order, FILTER_ABOVE),
    FILTER_ROW("gt", "b /", filter__is_order, FILTER_ABOVE),
    FILTER_ROW("in", "seq", filter__is_in, 0),
    FILTER_ROW("integer", "", filter__is_kind, FILTER_KIND(VAL_INT) | FILTER_KIND(VAL_BIG)),
    FILTER_ROW("iterable", "", filter__is_iterable, 0),
    FILTER_ROW("le", "b /", filter__is_order, FILTER_BELOW | FILTER_SAME),
    FILTER_ROW("lessthan", "b /", filter__is_order, FILTER_BELOW),
    FILTER_ROW("lower", "", filter__is_case, VAL_IS_LOWER),
    FILTER_ROW("lt", "b /", filter__is_order, FILTER_BELOW),
    FILTER_ROW("mapping", "", filter__is_kind, FILTER_KIND(VAL_DICT)),
    FILTER_ROW("ne", "b /", filter__is_order, FILTER_BELOW | FILTER_ABOVE),
    FILTER_ROW("none", "", filter__is_kind, FILTER_KIND(VAL_NONE)),
    FILTER_ROW("number", "", filter__is_kind, FILTER_NUMBERS | FILTER_KIND(VAL_FLOAT)),
    FILTER_ROW("odd", "", filter__is_multiple, 1),
    FILTER_ROW("sameas", "other", filter__is_same, 0),
    FILTER_ROW("sequence", "", filter__is_kind, FILTER_SIZED),
    FILTER_ROW("string", "", filter__is_kind, FILTER_KIND(VAL_STR)),
    FILTER_ROW("test", "", filter__is_row, FILTER_OF_TESTS),
    FILTER_ROW("true", "", filter__is_bool, 1),
    FILTER_ROW("undefined", "", filter__is_kind, FILTER_KIND(VAL_UNDEF)),
    FILTER_ROW("upper", "", filter__is_case, VAL_IS_UPPER),
};

#define FILTER_STR(name, params, run, with) FILTER_METHOD(FILTER_KIND(VAL_STR), name, params, run, with)
#define FILTER_LIST(name, params, run, with) FILTER_METHOD(FILTER_KIND(VAL_LIST), name, params, run, with)
#define FILTER_DICT(name, params, run, with) FILTER_METHOD(FILTER_KIND(VAL_DICT), name, params, run, with)
#define FILTER_LISTS (FILTER_KIND(VAL_LIST) | FILTER_KIND(VAL_TUPLE))
#define FILTER_RANGE FILTER_KIND(VAL_RANGE)
#define FILTER_REALS (FILTER_NUMBERS | FILTER_KIND(VAL_FLOAT))

/* Methods, by the kinds that have them; params NULL: an attribute, which is not called. */
static const filter_row filter__methods[] = {
    FILTER_STR("capitalize", "/", filter__case, FILTER_CAPITAL),
    FILTER_STR("casefold", "/", filter__case, FILTER_FOLD),
    FILTER_STR("center", "width fillchar=' ' /", filter__justify, 0),
    FILTER_STR("count", "sub start=none end=none /", filter__count_text, 0),
    FILTER_STR("endswith", "suffix start=none end=none /", filter__has_end, FILTER_RIGHT),
    FILTER_STR("expandtabs", "tabsize=8", filter__expandtabs, 0),
    FILTER_STR("find", "sub start=none end=none /", filter__find, 0),
    FILTER_STR("format", "* **", filter__format_fields, 0),
    FILTER_STR("format_map", "mapping /", filter__format_fields, 1),
    FILTER_STR("index", "sub start=none end=none /", filter__find, FILTER_MUST),
    FILTER_STR("isalnum", "/", filter__all_are, VAL_SETS),
    FILTER_STR("isalpha", "/", filter__all_are, VAL_IS_ALPHA),
    FILTER_STR("isascii", "/", filter__all_plain, 0),
    FILTER_STR("isdecimal", "/", filter__all_are, VAL_IS_DECIMAL),
    FILTER_STR("isdigit", "/", filter__all_are, VAL_IS_DIGIT),
    FILTER_STR("isidentifier", "/", filter__is_identifier, 0),
    FILTER_STR("islower", "/", filter__is_case, VAL_IS_LOWER),
    FILTER_STR("isnumeric", "/", filter__all_are, VAL_IS_NUMERIC),
    FILTER_STR("isprintable", "/", filter__all_plain, 1),
    FILTER_STR("isspace", "/", filter__all_are, VAL_IS_SPACE),
    FILTER_STR("istitle", "/", filter__is_title, 0),
    FILTER_STR("isupper", "/", filter__is_case, VAL_IS_UPPER),
    FILTER_STR("join", "iterable /", filter__join_strings, 0),
    FILTER_STR("ljust", "width fillchar=' ' /", filter__justify, FILTER_RIGHT),
    FILTER_STR("lower", "/", filter__case, FILTER_LOWER),
    FILTER_STR("lstrip", "chars=none /", filter__strip, FILTER_LEFT),
    FILTER_STR("partition", "sep /", filter__partition, FILTER_LEFT),
    FILTER_STR("removeprefix", "prefix /", filter__remove, FILTER_LEFT),
    FILTER_STR("removesuffix", "suffix /", filter__remove, FILTER_RIGHT),
    FILTER_STR("replace", "old new count=-1 /", filter__replace_text, 0),
    FILTER_STR("rfind", "sub start=none end=none /", filter__find, FILTER_LAST),
    FILTER_STR("rindex", "sub start=none end=none /", filter__find, FILTER_LAST | FILTER_MUST),
    FILTER_STR("rjust", "width fillchar=' ' /", filter__justify, FILTER_LEFT),
    FILTER_STR("rpartition", "sep /", filter__partition, FILTER_RIGHT),
    FILTER_STR("rsplit", "sep=none maxsplit=-1", filter__split, FILTER_RIGHT),
    FILTER_STR("rstrip", "chars=none /", filter__strip, FILTER_RIGHT),
    FILTER_STR("split", "sep=none maxsplit=-1", filter__split, FILTER_LEFT),
    FILTER_STR("splitlines", "keepends=false", filter__splitlines, 0),
    FILTER_STR("startswith", "prefix start=none end=none /", filter__has_end, FILTER_LEFT),
    FILTER_STR("strip", "chars=none /", filter__strip, FILTER_LEFT | FILTER_RIGHT),
    FILTER_STR("swapcase", "/", filter__case, FILTER_SWAP),
    FILTER_STR("title", "/", filter__case, FILTER_TITLE),
    FILTER_STR("upper", "/", filter__case, FILTER_UPPER),
    FILTER_STR("zfill", "width /", filter__zfill, 0),

    FILTER_LIST("append", "object /", filter__append, 0),
    FILTER_LIST("clear", "/", filter__clear, 0),
    FILTER_LIST("copy", "/", filter__copy, 0),
    FILTER_LIST("extend", "iterable /", filter__extend, 0),
    FILTER_LIST("insert", "index object /", filter__insert, 0),
    FILTER_LIST("pop", "index=-1 /", filter__pop, 0),
    FILTER_LIST("remove", "value /", filter__remove_item, 0),
    FILTER_LIST("reverse", "/", filter__reverse_list, 0),
    FILTER_LIST("sort", "key=none reverse=false", filter__sort_list, 0),
    FILTER_METHOD(FILTER_LISTS | FILTER_RANGE, "count", "value /", filter__count_item, 0),
    FILTER_METHOD(FILTER_LISTS, "index", "value start=none stop=none /", filter__index_item, 0),
    FILTER_METHOD(FILTER_RANGE, "index", "value /", filter__range_index, 0),

    FILTER_DICT("clear", "/", filter__clear, 0),
    FILTER_DICT("copy", "/", filter__copy, 0),
    FILTER_DICT("get", "key default=none /", filter__get, 0),
    FILTER_DICT("items", "/", filter__view, VAL_ITEMS),
    FILTER_DICT("keys", "/", filter__view, VAL_KEYS),
    FILTER_DICT("pop", "key default=? /", filter__pop_key, 0),
    FILTER_DICT("popitem", "/", filter__popitem, 0),
    FILTER_DICT("setdefault", "key default=none /", filter__setdefault, 0),
    FILTER_DICT("update", "other=? / **", filter__update, 0),
    FILTER_DICT("values", "/", filter__view, VAL_VALUES),

    FILTER_METHOD(FILTER_NUMBERS, "bit_count", "/", filter__bits, 1),
    FILTER_METHOD(FILTER_NUMBERS, "bit_length", "/", filter__bits, 0),
    FILTER_METHOD(FILTER_REALS, "conjugate", "/", filter__itself, 0),
    FILTER_METHOD(FILTER_NUMBERS, "denominator", NULL, filter__one, 0),
    FILTER_METHOD(FILTER_REALS, "imag", NULL, filter__zero, 0),
    FILTER_METHOD(FILTER_KIND(VAL_FLOAT), "is_integer", "/", filter__is_integer, 0),
    FILTER_METHOD(FILTER_NUMBERS, "numerator", NULL, filter__itself, 0),
    FILTER_METHOD(FILTER_REALS, "real", NULL, filter__itself, 0),
    FILTER_METHOD(FILTER_RANGE, "start", NULL, filter__range_part, 0),
    FILTER_METHOD(FILTER_RANGE, "step", NULL, filter__range_part, 2),
    FILTER_METHOD(FILTER_RANGE, "stop", NULL, filter__range_part, 1),
};

static const filter_row filter__functions[] = {
    FILTER_ROW("cycler", "* /", filter__cycler, 0),
    FILTER_ROW("dict", "iterable=? / **", filter__dict_of, 0),
    FILTER_ROW("joiner", "sep=', '", filter__joiner, 0),
    FILTER_ROW("lipsum", "* **", filter__refused, FILTER_RANDOM),
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
        if ((!kinds || row->kinds & kinds) && name.p[0] == (uint8_t)row->head.name[0] && bytes_is(name, row->head.name)) return row;
    }
    return NULL;
}

/* The row of this name; NULL: there is none. */
static const filter_row *filter_find(bytes name) { return filter__row_in(FILTER_OF_FILTERS, name, 0); }
static const filter_row *test_find(bytes name) { return filter__row_in(FILTER_OF_TESTS, name, 0); }
static const filter_row *function_find(bytes name) { return filter__row_in(FILTER_OF_FUNCTIONS, name, 0); }

/* The end of an error about an unknown name: " (is 'upper' meant?)" with the nearest filter, test or function; "" where none is near. */
typedef struct {
    char p[64];
} filter_hint;

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
    if (name.kind != VAL_STR) val_fail(env, EXIT_INPUT, "the name of a %s is %s, expected str", filter__tables[table].what, val_kind_name(name));
    const filter_row *row = filter__row_named(table, name.s);
    const val_quoted q = val_quote(name.s);
    if (!row) val_fail(env, EXIT_INPUT, "found '%s', which is no %s here%s", q.p, filter__tables[table].what, filter_nearest(bytes_of(q.p)).p);
    return row;
}

/* v.name, where it is a method or an attribute of the value's kind, not an entry. False: there is none. */
static bool filter__attribute(val_env *env, val v, val_str name, val *out) {
    char text[FILTER_NAME_MAX];
    if (v.kind == VAL_OBJECT) return v.object->type->get && v.object->type->get(env, v.object, name, out);
    const filter_row *row = filter__row_in(FILTER_OF_VALUES, filter__ascii_name(name, text), 1u << v.kind);
    if (filter__is_group(v) && (val_str_is(name, "grouper") || val_str_is(name, "list")))
        return *out = v.list->at[val_str_is(name, "list")], true;
    if (!row) return false;
    static const val_args none;
    *out = row->params ? val_bind(env, &row->head, v) : row->run(&(filter_in){.env = env, .row = row, .in = v, .args = &none});
    return true;
}

/* v.name: an attribute, else the entry of a dict. Undefined, without a name, where there is neither, and for names that begin with two underscores. */
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
