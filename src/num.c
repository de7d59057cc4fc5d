/* ===== [num] decimal numbers as languages =====
 * Sets of numbers as languages of their texts without exponent: -?(0|[1-9][0-9]*)(\.[0-9]+)? A complement is taken
 * within num_all. Texts of one value (1, 1.0, 1.00; 0, -0) are in such a set or not, all of them; num_integer(plain) and
 * num_decimal hold one text for each value.
 *   num_in judges any number of JSON. Its exponent has 18 digits at most: a number with a longer one is in no set.
 * Public: num_read, num_drop, num_equal, num_bound, num_values, num_all, num_decimal, num_integer,
 * num_short, num_multiple, num_in.
 * Opens: num_dec. */

enum {
    NUM_DIGITS = 20000,                               /* of a bound, written without exponent */
    NUM_STATES = 1 << 16,                             /* of an automaton of remainders */
};

/* sign 0.DIGITS * 10^exp, without zeros at either end of the digits. Zero: no digits. */
typedef struct {
    bool    neg;
    str     digits;
    int64_t exp;
} num_dec;

/* The digits at p up to another character; returns their number. */
static size_t num__digits(bytes b, size_t at) {
    size_t n = 0;
    while (at + n < b.n && b.p[at + n] >= '0' && b.p[at + n] <= '9') n++;
    return n;
}

/* The exponent from its letter on: its first 18 digits. False: it is none, or it has more. */
static bool num__exponent(bytes b, size_t at, int64_t *exp) {
    const bool neg = at + 1 < b.n && b.p[at + 1] == '-', sign = neg || (at + 1 < b.n && b.p[at + 1] == '+');
    size_t     from = at + 1 + sign, n = num__digits(b, from);
    *exp = 0;
    if (!n || from + n != b.n) return false;
    for (; n > 1 && b.p[from] == '0'; n--) from++;
    for (size_t i = 0; i < n && i < 18; i++) *exp = *exp * 10 + (b.p[from + i] - '0');
    if (neg) *exp = -*exp;
    return n <= 18;
}

/* Reads a number of JSON. False: it is none, or its exponent has more than 18 digits, of which d has the first. d is
 * to be dropped in either case. */
static bool num_read(bytes b, num_dec *d) {
    *d = (num_dec){.neg = b.n && *b.p == '-'};
    const size_t from = d->neg, whole = num__digits(b, from);
    size_t       at = from + whole, frac = 0, lead = 0;
    bool         held = true;
    if (!whole || (whole > 1 && b.p[from] == '0')) return false;
    str_add(&d->digits, b.p + from, whole);
    if (at < b.n && b.p[at] == '.') {
        frac = num__digits(b, at + 1);
        str_add(&d->digits, b.p + at + 1, frac);
        at += 1 + frac;
        if (!frac) return false;
    }
    if (at < b.n) held = (b.p[at] | 0x20) == 'e' && num__exponent(b, at, &d->exp);
    while (lead < d->digits.n && d->digits.p[lead] == '0') lead++;
    memmove(d->digits.p, d->digits.p + lead, d->digits.n - lead + 1);
    d->digits.n -= lead;
    d->exp += (int64_t)whole - (int64_t)lead;
    while (d->digits.n && d->digits.p[d->digits.n - 1] == '0') d->digits.n--;
    if (!d->digits.n) d->exp = 0;
    return held;
}

/* Drops the digits. */
static void num_drop(num_dec *d) { str_drop(&d->digits); }

/* Whether two numbers of JSON without their signs are equal; one whose exponent is too large is equal to none. */
static bool num_equal(bytes a, bytes b) {
    num_dec    x, y;
    const bool left = num_read(a, &x), right = num_read(b, &y), held = left && right, zero = !x.digits.n && !y.digits.n;
    const bool equal = zero || (held && x.exp == y.exp && bytes_eq(str_bytes(&x.digits), str_bytes(&y.digits)));
    num_drop(&x), num_drop(&y);
    return equal;
}

/* Digit i before (i < 0: ones are -1) or after the point (from 0 on). */
static unsigned num__digit(const num_dec *d, int64_t i) {
    const int64_t at = d->exp + i;
    return at >= 0 && at < (int64_t)d->digits.n ? (unsigned)(d->digits.p[at] - '0') : 0;
}

/* digits before the point */
static int64_t num__whole(const num_dec *d) { return max_i64(d->exp, 1); }
/* digits after it */
static int64_t num__frac(const num_dec *d) { return (int64_t)d->digits.n > d->exp ? (int64_t)d->digits.n - d->exp : 0; }

/* --- automata over the characters of numbers --- */

typedef struct {
    bool     *ends;
    uint32_t  n;
    lang_arc *arc;
    size_t    n_arc;
} num_machine;

static uint32_t num__state(num_machine *m, bool ends) {
    return MEM_PUSH(m->ends, m->n, ends);
}

static void num__arc(num_machine *m, uint32_t from, char lo, char hi, uint32_t to) {
    if (lo <= hi) MEM_PUSH(m->arc, m->n_arc, (lang_arc){from, (uint8_t)lo, (uint8_t)hi, to});
}

/* Arcs for the digits from `least` on: those below d, d, those above d. */
static void num__three(num_machine *m, uint32_t from, char least, unsigned d, uint32_t below, uint32_t same, uint32_t above) {
    const char c = (char)('0' + d);
    num__arc(m, from, least, (char)(c - 1), below);
    if (c >= least) num__arc(m, from, c, c, same);
    num__arc(m, from, c < least ? least : (char)(c + 1), '9', above);
}

static const lang *num__keep(lang_pool *p, num_machine *m) {
    const lang *l = lang_arcs(p, m->n, m->ends, m->arc, m->n_arc);
    mem_free(m->ends);
    mem_free(m->arc);
    return l;
}

enum { NUM_BELOW = 1, NUM_SAME = 2, NUM_ABOVE = 4 };

/* The numbers from `start` on that compare with d, sign left out, in one of the ways of `want`. */
static void num__compare(num_machine *m, uint32_t start, const num_dec *d, unsigned want) {
    const int64_t  whole = num__whole(d), frac = num__frac(d);
    const bool     below = want & NUM_BELOW, same = want & NUM_SAME, above = want & NUM_ABOVE;
    const uint32_t point_below = num__state(m, false), digits_below = num__state(m, below),
                   point_above = num__state(m, false), digits_above = num__state(m, above);
    const uint32_t longer = num__state(m, above),
                   zero = num__state(m, whole == 1 ? (num__digit(d, -1) ? below : frac ? below : same) : below);
    uint32_t       less = start, equal = start, more = start, point = num__state(m, false), last;
    num__arc(m, digits_below, '0', '9', digits_below);
    num__arc(m, digits_above, '0', '9', digits_above);
    num__arc(m, longer, '0', '9', longer);
    num__arc(m, longer, '.', '.', point_above);
    num__arc(m, point_below, '0', '9', digits_below);
    num__arc(m, point_above, '0', '9', digits_above);
    num__arc(m, start, '0', '0', zero);
    for (int64_t i = 1; i <= whole; i++) {            /* states after i digits */
        const bool     full = i == whole, first = i == 1;
        const uint32_t l = num__state(m, below), e = num__state(m, full ? (frac ? below : same) : below),
                       g = num__state(m, full ? above : below);
        num__three(m, equal, first ? '1' : '0', num__digit(d, i - 1 - whole), l, e, g);
        if (!first) num__arc(m, less, '0', '9', l), num__arc(m, more, '0', '9', g);
        num__arc(m, l, '.', '.', point_below);
        num__arc(m, g, '.', '.', full ? point_above : point_below);
        num__arc(m, e, '.', '.', full ? point : point_below);
        less = l, equal = e, more = g;
    }
    num__arc(m, less, '0', '9', longer), num__arc(m, equal, '0', '9', longer), num__arc(m, more, '0', '9', longer);
    num__arc(m, zero, '.', '.', whole > 1 || num__digit(d, -1) ? point_below : point);
    for (int64_t i = 0; i < frac; i++, point = last) {
        last = num__state(m, i + 1 == frac ? same : below);
        num__three(m, point, '0', num__digit(d, i), digits_below, last, digits_above);
    }
    const uint32_t zeros = num__state(m, same);
    num__three(m, point, '0', 0, digits_below, zeros, digits_above);
    num__three(m, zeros, '0', 0, digits_below, zeros, digits_above);
}

/* `want` for the other sign. */
static unsigned num__turn(unsigned want) {
    return (want & NUM_SAME) | (want & NUM_BELOW ? NUM_ABOVE : 0u) | (want & NUM_ABOVE ? NUM_BELOW : 0u);
}

/* The numbers that compare with a number of JSON in one of the ways of `want`. NULL: it has too many digits. */
static const lang *num__compared(lang_pool *p, bytes number, unsigned want) {
    num_dec     d;
    num_machine m = {0};
    const lang *l = NULL;
    if (num_read(number, &d) && d.exp <= NUM_DIGITS && d.exp >= -NUM_DIGITS && d.digits.n <= NUM_DIGITS) {
        const uint32_t start = num__state(&m, false), minus = num__state(&m, false);
        const bool     neg = d.neg && d.digits.n, pos = !d.neg && d.digits.n;
        num__arc(&m, start, '-', '-', minus);
        num__compare(&m, start, &d, !neg ? want : want & NUM_ABOVE ? 7 : 0);
        num__compare(&m, minus, &d, !pos ? num__turn(want) : want & NUM_BELOW ? 7 : 0);
        l = num__keep(p, &m);
    }
    num_drop(&d);
    return l;
}

/* The numbers up to a bound (upper), or from it on; strict: without it. NULL: more than NUM_DIGITS digits, or over the budget. */
static const lang *num_bound(lang_pool *p, bytes bound, bool upper, bool strict) {
    return num__compared(p, bound, (upper ? NUM_BELOW : NUM_ABOVE) | (strict ? 0u : NUM_SAME));
}

typedef struct {                                      /* a tree of texts */
    num_machine m;
    uint32_t   (*child)[12];                          /* by state and character: 0: none; ".", "-", then digits */
    uint32_t    zeros;                                /* a state after which only zeros come */
} num_tree;

static uint32_t num__node(num_tree *t) {
    t->child = mem_reserve(t->child, t->m.n, UINT32_MAX, sizeof *t->child);
    memset(t->child[t->m.n], 0, sizeof *t->child);
    return num__state(&t->m, false);
}

static unsigned num__slot(char c) { return c == '.' ? 0 : c == '-' ? 1 : 2 + (unsigned)(c - '0'); }

static uint32_t num__child(num_tree *t, uint32_t s, char c) {
    const unsigned k = num__slot(c);
    if (!t->child[s][k]) {
        const uint32_t fresh = num__node(t);
        t->child[s][k] = fresh;
    }
    return t->child[s][k];
}

/* After s any number of zeros may come; those that other texts begin with are there already. */
static void num__zeros(num_tree *t, uint32_t s) {
    for (const unsigned k = num__slot('0'); s != t->zeros; s = t->child[s][k]) {
        if (!t->child[s][k]) t->child[s][k] = t->zeros;
        t->m.ends[t->child[s][k]] = true;
    }
}

/* The text of a value, after its sign; with its zeros when all texts are there. */
static void num__texts(num_tree *t, uint32_t s, const num_dec *d, bool zeros) {
    for (int64_t i = -num__whole(d); i < 0; i++) s = num__child(t, s, (char)('0' + num__digit(d, i)));
    t->m.ends[s] |= !num__frac(d);
    s = num__child(t, s, '.');
    for (int64_t i = 0; i < num__frac(d); i++) s = num__child(t, s, (char)('0' + num__digit(d, i)));
    t->m.ends[s] |= num__frac(d) > 0;
    if (zeros) num__zeros(t, s);
}

static bool num__value(num_tree *t, bytes value, bool zeros) {
    num_dec    d;
    const bool ok = num_read(value, &d) && d.exp <= NUM_DIGITS && d.exp >= -NUM_DIGITS && d.digits.n <= NUM_DIGITS;
    if (ok && (!d.neg || !d.digits.n)) num__texts(t, 0, &d, zeros);
    if (ok && (d.neg || !d.digits.n)) num__texts(t, num__child(t, 0, '-'), &d, zeros);
    num_drop(&d);
    return ok;
}

/* The texts of some values: 1, 1.0, 1.00 ... NULL: one has too many digits, or the budget does not allow it. */
static const lang *num_values(lang_pool *p, const bytes *value, size_t n) {
    num_tree    t = {0};
    bool        ok = true;
    const char *character = ".-0123456789";
    num__node(&t), t.zeros = num__node(&t);
    t.child[t.zeros][num__slot('0')] = t.zeros;
    for (size_t i = 0; i < 2 * n && ok; i++) ok = num__value(&t, value[i % n], i >= n) && lang_room(p, t.m.n);
    for (uint32_t s = 0; ok && s < t.m.n; s++)
        for (unsigned k = 0; k < 12; k++)
            if (t.child[s][k]) num__arc(&t.m, s, character[k], character[k], t.child[s][k]);
    mem_free(t.child);
    if (!ok) t.m.n = 0, t.m.n_arc = 0;
    const lang *l = num__keep(p, &t.m);
    return ok ? l : NULL;
}

/* The language of all decimal numbers. */
static const lang *num_all(lang_pool *p) { return num__compared(p, bytes_of("0"), NUM_BELOW | NUM_SAME | NUM_ABOVE); }

/* The integers: 1, 1.0, -0; plain: in one form each, without a point and without -0. */
static const lang *num_integer(lang_pool *p, bool plain) {
    num_machine    m = {0};
    const uint32_t start = num__state(&m, false), minus = num__state(&m, false), zero = num__state(&m, true),
                   whole = num__state(&m, true), point = num__state(&m, false), zeros = num__state(&m, true);
    num__arc(&m, start, '-', '-', minus);
    num__arc(&m, start, '0', '0', zero);
    num__arc(&m, start, '1', '9', whole), num__arc(&m, minus, '1', '9', whole), num__arc(&m, whole, '0', '9', whole);
    if (!plain) {
        num__arc(&m, minus, '0', '0', zero);
        num__arc(&m, zero, '.', '.', point), num__arc(&m, whole, '.', '.', point);
        num__arc(&m, point, '0', '0', zeros), num__arc(&m, zeros, '0', '0', zeros);
    }
    return num__keep(p, &m);
}

/* The numbers in one form each: without -0, and without zeros at the end of a fraction. */
static const lang *num_decimal(lang_pool *p) {
    num_machine    m = {0};
    const uint32_t start = num__state(&m, false), minus = num__state(&m, false), zero = num__state(&m, true),
                   less = num__state(&m, false), whole = num__state(&m, true), point = num__state(&m, false),
                   zeros = num__state(&m, false), last = num__state(&m, true);
    num__arc(&m, start, '-', '-', minus);
    num__arc(&m, start, '0', '0', zero), num__arc(&m, minus, '0', '0', less);
    num__arc(&m, start, '1', '9', whole), num__arc(&m, minus, '1', '9', whole), num__arc(&m, whole, '0', '9', whole);
    for (uint32_t i = zero; i <= whole; i++) num__arc(&m, i, '.', '.', point);
    for (uint32_t i = point; i <= last; i++) num__arc(&m, i, '0', '0', zeros), num__arc(&m, i, '1', '9', last);
    return num__keep(p, &m);
}

/* The numbers of at most `whole` digits without a point, of at most `all` digits with one; a zero before the point does
 * not count. */
static const lang *num_short(lang_pool *p, uint32_t whole, uint32_t all) {
    num_machine    m = {0};
    const uint32_t start = num__state(&m, false), minus = num__state(&m, false), zero = num__state(&m, true);
    const uint32_t point = m.n;                       /* after i digits and the point: state point + 2 * i; after one more
                                                       * digit, point + 2 * i + 1 */
    for (uint32_t i = 0; i < all; i++) num__state(&m, false), num__state(&m, true);
    num__arc(&m, start, '-', '-', minus);
    num__arc(&m, start, '0', '0', zero), num__arc(&m, minus, '0', '0', zero);
    if (all) num__arc(&m, zero, '.', '.', point);
    for (uint32_t i = 0; i < all; i++) {
        num__arc(&m, point + 2 * i, '0', '9', point + 2 * i + 1);
        if (i + 1 < all) num__arc(&m, point + 2 * i + 1, '0', '9', point + 2 * i + 3);
    }
    for (uint32_t i = 0, from = start; i < whole; i++) {
        const uint32_t to = num__state(&m, true);
        num__arc(&m, from, i ? '0' : '1', '9', to);
        if (!i) num__arc(&m, minus, '1', '9', to);
        if (i + 1 < all) num__arc(&m, to, '.', '.', point + 2 * (i + 1));
        from = to;
    }
    return num__keep(p, &m);
}

/* --- multiples --- */

/* The multiples of each * 10^exp. Before the point a state is the remainder by `each` of the digits but the zeros at
 * their end, and how many of these there are (up to exp); after it the remainder of all digits, and how many are
 * after the point (up to -exp). */
typedef struct {
    num_machine m;
    uint64_t each, *ten;                              /* powers of ten modulo `each` */
    uint32_t zeros, places;                           /* exp, -exp; one of them is 0 */
} num_multiples;

/* NUM__POINT, NUM__TAIL: after an integer that need not be looked at any more */
enum { NUM__START, NUM__MINUS, NUM__ZERO, NUM__POINT, NUM__TAIL, NUM__FIRST };

static uint32_t num__whole_at(const num_multiples *x, uint64_t rest, uint32_t zeros) {
    return NUM__FIRST + (uint32_t)rest * (x->zeros + 1) + zeros;
}
static uint32_t num__frac_at(const num_multiples *x, uint64_t rest, uint32_t places) {
    return num__whole_at(x, x->each, 0) + (uint32_t)rest * (x->places + 1) + places;
}

/* rest * 10^n + digit, modulo `each`. */
static uint64_t num__shift(const num_multiples *x, uint64_t rest, uint32_t n, unsigned digit) {
    return (rest * x->ten[n] + digit) % x->each;
}

/* The state after the digits of a state before the point and one more. */
static uint32_t num__whole_next(const num_multiples *x, uint64_t rest, uint32_t zeros, unsigned digit) {
    if (digit) return num__whole_at(x, num__shift(x, rest, zeros + 1, digit), 0);
    return zeros < x->zeros ? num__whole_at(x, rest, zeros + 1) : num__whole_at(x, num__shift(x, rest, 1, 0), zeros);
}

static void num__multiples_whole(num_multiples *x, uint64_t rest, uint32_t zeros) {
    const uint32_t s = num__whole_at(x, rest, zeros);
    x->m.ends[s] = zeros == x->zeros && num__shift(x, rest, x->places, 0) == 0;
    for (unsigned d = 0; d < 10; d++) num__arc(&x->m, s, (char)('0' + d), (char)('0' + d), num__whole_next(x, rest, zeros, d));
    if (x->places) num__arc(&x->m, s, '.', '.', num__frac_at(x, rest, 0));
    else if (x->m.ends[s]) num__arc(&x->m, s, '.', '.', NUM__POINT);
}

/* After the point: digits that count, then zeros. */
static void num__multiples_frac(num_multiples *x, uint64_t rest, uint32_t places) {
    const uint32_t s = num__frac_at(x, rest, places);
    x->m.ends[s] = places && num__shift(x, rest, x->places - places, 0) == 0;
    for (unsigned d = 0; d < 10 && places < x->places; d++)
        num__arc(&x->m, s, (char)('0' + d), (char)('0' + d), num__frac_at(x, num__shift(x, rest, 1, d), places + 1));
    if (places == x->places && x->m.ends[s]) num__arc(&x->m, s, '0', '0', s);
}

static const lang *num__multiples(lang_pool *p, num_multiples *x) {
    const uint32_t most = x->zeros > x->places ? x->zeros : x->places;
    x->ten = mem_new((size_t)most + 2, sizeof *x->ten);
    x->ten[0] = 1 % x->each;
    for (uint32_t i = 0; i <= most; i++) x->ten[i + 1] = x->ten[i] * 10 % x->each;
    for (uint32_t s = 0, n = num__frac_at(x, x->each, 0); s < n; s++) num__state(&x->m, s == NUM__ZERO || s == NUM__TAIL);
    num__arc(&x->m, NUM__START, '-', '-', NUM__MINUS);
    for (uint32_t s = NUM__START; s <= NUM__MINUS; s++) {
        num__arc(&x->m, s, '0', '0', NUM__ZERO);
        for (unsigned d = 1; d < 10; d++) num__arc(&x->m, s, (char)('0' + d), (char)('0' + d), num__whole_at(x, d % x->each, 0));
    }
    num__arc(&x->m, NUM__ZERO, '.', '.', x->places ? num__frac_at(x, 0, 0) : NUM__POINT);
    num__arc(&x->m, NUM__POINT, '0', '0', NUM__TAIL);
    num__arc(&x->m, NUM__TAIL, '0', '0', NUM__TAIL);
    for (uint64_t rest = 0; rest < x->each; rest++) {
        for (uint32_t i = 0; i <= x->zeros; i++) num__multiples_whole(x, rest, i);
        for (uint32_t i = 0; i <= x->places && x->places; i++) num__multiples_frac(x, rest, i);
    }
    mem_free(x->ten);
    return num__keep(p, &x->m);
}

/* The multiples of a number above 0. NULL: e says that there would be more than NUM_STATES remainders. */
static const lang *num_multiple(lang_pool *p, bytes of, err_t *e) {
    num_dec     d;
    uint64_t    each = 0;
    const lang *l = NULL;
    const bool  ok = num_read(of, &d) && d.digits.n && !d.neg;
    for (size_t i = 0; ok && i < d.digits.n && each <= NUM_STATES; i++) each = each * 10 + (uint64_t)(d.digits.p[i] - '0');
    const int64_t exp = d.exp - (int64_t)d.digits.n;
    if (!ok) err_set(e, EXIT_INPUT, "found %.*s, expected a number above 0", of.n < 40 ? (int)of.n : 40, of.p);
    else if (each > NUM_STATES || exp > NUM_STATES || exp < -NUM_STATES ||
             each * (uint64_t)((exp < 0 ? -exp : exp) + 1) > NUM_STATES)
        err_set(e, EXIT_RESOURCE, "multiples of %.*s need more than %d remainders", of.n < 40 ? (int)of.n : 40, of.p, NUM_STATES);
    else
        l = num__multiples(p, &(num_multiples){.each = each, .zeros = exp > 0 ? (uint32_t)exp : 0,
                                               .places = exp < 0 ? (uint32_t)-exp : 0});
    num_drop(&d);
    if (!l) err_set(e, EXIT_RESOURCE, "multiples of %.*s need too many states", of.n < 40 ? (int)of.n : 40, of.p);
    return l;
}

/* Whether a number of JSON is in a set. One with an exponent is judged as its text without it, however long that is. */
static bool num_in(const lang *l, bytes json_number) {
    num_dec d;
    str     s = {0};
    bool    in = false;
    if (!json_number.n || (!memchr(json_number.p, 'e', json_number.n) && !memchr(json_number.p, 'E', json_number.n)))
        return lang_has(l, json_number);
    if (num_read(json_number, &d)) {
        const uint64_t after = d.exp > (int64_t)d.digits.n ? (uint64_t)(d.exp - (int64_t)d.digits.n) : 0,
                       before = d.exp < 0 ? (uint64_t)-d.exp : 0;
        const size_t   whole = d.exp <= 0 ? 0 : d.exp < (int64_t)d.digits.n ? (size_t)d.exp : d.digits.n;
        if (d.neg && d.digits.n) str_put(&s, "-");
        str_add(&s, d.digits.p, whole);
        if (!whole) str_put(&s, "0");
        if (whole < d.digits.n) str_put(&s, ".");
        const size_t head = s.n;
        str_add(&s, d.digits.p + whole, d.digits.n - whole);
        const bytes first = {(const uint8_t *)s.p, after ? s.n : head}, last = {(const uint8_t *)s.p + first.n, s.n - first.n};
        in = lang_has_run(l, first, '0', after ? after : before, last);
    }
    num_drop(&d);
    str_drop(&s);
    return in;
}
