/* ===== [lang] regular languages =====
 * Sets of texts that a finite automaton decides: words, regular expressions, and what and, or and not make of them.
 *   A language is a minimal automaton over characters, with its states numbered in one way, kept once in a pool: equal
 * languages are the same pointer. Edges are ranges of symbols: a symbol is a code point, with the surrogates cut out of
 * the row. Only states from which a word can still end are kept, so a missing edge means that no word goes on there. All
 * texts of min to max characters of one class are a *span*: two numbers and a class, however large the numbers are; its
 * automaton is made when an operation needs it. So is that of a *tall* language: the words of another one that have at most
 * max characters, where max is large.
 *   Everything that is built is counted against the budget of the pool. When the budget is used up, results are NULL,
 * and NULL operands give NULL.
 * Public: lang_pool_free, lang_over, lang_length, lang_none, lang_all, lang_pool_new, lang_empty, lang_is_all,
 * lang_and, lang_or, lang_not, lang_words, lang_word, lang_has, lang_room, lang_arcs, lang_has_run, lang_states,
 * lang_is_tall, lang_depth, lang_is_finite, lang_least, lang_endless, lang_count, lang_nth, lang_chars, lang_emit,
 * lang_emit_json, lang_emit_apart, lang_regex, lang_regex_gram.
 * Opens: lang_arc. */

typedef struct lang lang;
typedef struct lang_pool lang_pool;

enum {
    LANG_SYMBOLS = 0x110000 - 0x800,                  /* code points without surrogates */
    LANG_STATES = 1 << 19,                            /* a budget for the languages of one constraint */
    LANG_TALL = 4096,                                 /* characters: above this a bound is kept as a number */
    LANG_BRIEF = 20000,                               /* states of a tall language that is generated, about */
    LANG_FEW = 1 << 20,                               /* words: so many are never used up */
    LANG_WORK = 8,                                    /* steps of all operations, and a quarter of that of one, for each
                                                       * unit of the budget */
};

typedef struct { uint32_t lo, hi, to; } lang_edge;    /* symbols lo .. hi lead to state `to` */

typedef struct {                                      /* state 0 is the first one; no state: no word */
    uint32_t  n;
    uint32_t *first;                                  /* [n + 1] edges of state s: first[s] .. first[s + 1], by symbol */
    lang_edge *edge;
    uint8_t  *ends;                                   /* [n] whether a word ends there */
} lang_dfa;

struct lang {
    lang_pool  *home;
    uint32_t    id;
    bool        span;                                 /* the words of min .. max characters of the class `cls` */
    uint64_t    min, max;                             /* max UINT64_MAX: no bound */
    const lang *base;                                 /* tall: its words of at most max characters; NULL: it is not */
    gram_range *cls;                                  /* symbols, sorted, with gaps between them */
    size_t      n_cls;
    lang_dfa    dfa;                                  /* of a span: empty until it is asked for */
};

enum { LANG_AND, LANG_OR, LANG_NOT };                 /* operators */

static uint32_t lang__symbol(uint32_t code) { return code < 0xd800 ? code : code - 0x800; }
static uint32_t lang__code(uint32_t symbol) { return symbol < 0xd800 ? symbol : symbol + 0x800; }

/* Replaces ranges of code points by those of symbols, sorted, with gaps between them. Returns their number. */
static size_t lang__to_symbols(gram_range *r, size_t n) {
    size_t m = 0;
    n = gram_ranges_join(r, n);
    for (size_t i = 0; i < n; i++) {
        gram_range x = r[i];
        if (x.lo >= 0xd800 && x.lo < 0xe000) x.lo = 0xe000;
        if (x.hi >= 0xd800 && x.hi < 0xe000) x.hi = 0xd7ff;
        if (x.lo > x.hi) continue;
        x = (gram_range){lang__symbol(x.lo), lang__symbol(x.hi)};
        if (m && r[m - 1].hi + 1 == x.lo) r[m - 1].hi = x.hi;
        else r[m++] = x;
    }
    return m;
}

/* A range of symbols as one of code points, among which surrogates may be. */
static gram_range lang__codes(gram_range symbols) { return (gram_range){lang__code(symbols.lo), lang__code(symbols.hi)}; }

/* x + y and x * y, at most `most`. */
static uint64_t lang__sum(uint64_t x, uint64_t y, uint64_t most) { return x > most || y > most - x ? most : x + y; }
static uint64_t lang__times(uint64_t x, uint64_t y, uint64_t most) {
    uint64_t z;
    return __builtin_mul_overflow(x, y, &z) || z > most ? most : z;
}

/* --- sequences of numbers, kept once: a sequence is known by its id --- */

typedef struct {
    uint32_t *item;                                   /* all sequences, one after the other */
    size_t    n_item, cap_item;
    size_t   *first;                                  /* [n + 1] */
    uint32_t  n;
    hmap      ids;                                    /* the hash of a sequence, and how many had it before, to 1 + id */
} lang_seqs;

static void lang__seqs_drop(lang_seqs *t) {
    mem_free(t->item);
    mem_free(t->first);
    hmap_drop(&t->ids);
    *t = (lang_seqs){0};
}

static const uint32_t *lang__seq(const lang_seqs *t, uint32_t id, size_t *n) {
    *n = t->first[id + 1] - t->first[id];
    return t->item + t->first[id];
}

/* The id of a sequence. That of a new one is the number of those before. */
static uint32_t lang__seqs_add(lang_seqs *t, const uint32_t *p, size_t n) {
    if (!t->n) {
        hmap_init(&t->ids, ~(uint64_t)UINT32_MAX);
        t->first = mem_reserve(NULL, 0, UINT64_MAX, sizeof *t->first);
        t->first[0] = 0;
    }
    const uint64_t hash = bytes_hash(t->ids.seed, (bytes){(const uint8_t *)p, n * sizeof *p}) | 1;
    hmap_entry    *en = hmap_add(&t->ids, hash, 0);
    for (uint64_t before = 1; (uint32_t)en->b; before++) {
        size_t          m;
        const uint32_t *q = lang__seq(t, (uint32_t)en->b - 1, &m);
        if (m == n && (!n || memcmp(p, q, n * sizeof *p) == 0)) return (uint32_t)en->b - 1;
        en = hmap_add(&t->ids, hash, before << 32);
    }
    en->b |= t->n + 1;
    if (t->n_item + n >= t->cap_item) t->item = mem_grow(t->item, t->cap_item = 2 * t->cap_item + n + 64, sizeof *t->item);
    if (n) memcpy(t->item + t->n_item, p, n * sizeof *p);
    t->first = mem_reserve(t->first, t->n + 1, UINT64_MAX, sizeof *t->first);
    t->first[t->n + 1] = t->n_item += n;
    return t->n++;
}

/* --- an automaton while it is built: states in order, each with its edges by symbol --- */

static void lang__dfa_drop(lang_dfa *d) {
    mem_free(d->first);
    mem_free(d->edge);
    mem_free(d->ends);
    *d = (lang_dfa){0};
}

static uint32_t lang__n_edge(const lang_dfa *d) { return d->n ? d->first[d->n] : 0; }

/* Begins the next state. */
static void lang__state(lang_dfa *d, bool ends) {
    uint32_t n_first = d->n + 1;
    if (!d->n) d->first = mem_reserve(NULL, 0, UINT64_MAX, sizeof *d->first), d->first[0] = 0;
    MEM_PUSH(d->first, n_first, d->first[d->n]);
    MEM_PUSH(d->ends, d->n, ends);
}

/* An edge of the state that was begun last. It is put into the edge before where the two meet. */
static void lang__edge(lang_dfa *d, uint32_t lo, uint32_t hi, uint32_t to) {
    uint32_t  *n = &d->first[d->n];
    lang_edge *last = *n > d->first[d->n - 1] ? &d->edge[*n - 1] : NULL;
    if (last && last->to == to && last->hi + 1 == lo) last->hi = hi;
    else MEM_PUSH(d->edge, *n, (lang_edge){lo, hi, to});
}

/* --- the pool --- */

struct lang_pool {
    size_t    budget, used;                           /* states and edges of all languages */
    size_t    work;                                   /* steps so far */
    bool      over;
    hmap      ids;                                    /* the hash of a language, and how many had it before, to 1 + id */
    lang    **kept;                                   /* by id */
    uint32_t  n;
    hmap      done;                                   /* operations: operator and operands to the id of the result */
    const lang *none, *all;                           /* no text; every text of Unicode scalar values */
};


static void lang__free(lang *l) {
    lang__dfa_drop(&l->dfa);
    mem_free(l->cls);
    mem_free(l);
}

/* Frees the pool with all its languages; NULL is allowed. */
static void lang_pool_free(lang_pool *p) {
    if (!p) return;
    for (uint32_t i = 0; i < p->n; i++) lang__free(p->kept[i]);
    mem_free(p->kept);
    hmap_drop(&p->ids);
    hmap_drop(&p->done);
    mem_free(p);
}

/* Whether the budget is used up: all results are NULL from then on. */
static bool lang_over(const lang_pool *p) { return p->over; }

/* Counts what is kept. False: the budget does not allow it, or an interrupt. */
static bool lang__spend(lang_pool *p, size_t n) {
    if (n > p->budget - p->used || g_interrupt) p->over = true;
    else p->used += n;
    return !p->over;
}

/* Counts steps. False: there were too many. */
static bool lang__work(lang_pool *p, size_t n) {
    p->work += n;
    if (p->work / LANG_WORK > p->budget || g_interrupt) p->over = true;
    return !p->over;
}

static bool lang__dfa_eq(const lang_dfa *a, const lang_dfa *b) {
    if (a->n != b->n || !a->n) return a->n == b->n;
    return memcmp(a->ends, b->ends, a->n) == 0 && memcmp(a->first, b->first, (a->n + 1) * sizeof *a->first) == 0 &&
           (!a->first[a->n] || memcmp(a->edge, b->edge, a->first[a->n] * sizeof *a->edge) == 0);
}

static bool lang__eq(const lang *a, const lang *b) {
    if (a->span != b->span || a->base != b->base) return false;
    if (a->base) return a->max == b->max;
    if (!a->span) return lang__dfa_eq(&a->dfa, &b->dfa);
    return a->min == b->min && a->max == b->max && a->n_cls == b->n_cls &&
           (!a->n_cls || memcmp(a->cls, b->cls, a->n_cls * sizeof *a->cls) == 0);
}

static uint64_t lang__hash(uint64_t seed, const lang *l) {
    const bytes cls = {(const uint8_t *)l->cls, l->n_cls * sizeof *l->cls};
    const bytes edges = {(const uint8_t *)l->dfa.edge, lang__n_edge(&l->dfa) * sizeof *l->dfa.edge};
    if (l->span) return rng_mix(bytes_hash(seed, cls) ^ rng_mix(l->min) ^ l->max);
    if (l->base) return rng_mix(rng_mix(seed ^ l->base->id) ^ l->max);
    return bytes_hash(seed ^ l->dfa.n, edges) ^ bytes_hash(seed, (bytes){l->dfa.ends, l->dfa.n});
}

/* The language of the pool that equals this one, which is moved from. */
static const lang *lang__keep(lang_pool *p, lang one) {
    const uint64_t hash = lang__hash(p->ids.seed, &one) | 1;
    hmap_entry    *en = hmap_add(&p->ids, hash, 0);
    for (uint64_t before = 1; (uint32_t)en->b && !lang__eq(p->kept[(uint32_t)en->b - 1], &one); before++)
        en = hmap_add(&p->ids, hash, before << 32);
    const lang *known = (uint32_t)en->b ? p->kept[(uint32_t)en->b - 1] : NULL;
    if (known || !lang__spend(p, 1 + one.n_cls + one.dfa.n + lang__n_edge(&one.dfa))) {
        lang__dfa_drop(&one.dfa);
        mem_free(one.cls);
        return known;
    }
    lang *l = mem_new(1, sizeof *l);
    *l = one;
    l->home = p;
    l->id = p->n;
    en->b |= p->n + 1;
    MEM_PUSH(p->kept, p->n, l);
    return l;
}

/* --- spans --- */

/* The words of min .. max characters of a class; cls is copied. */
static const lang *lang__span(lang_pool *p, const gram_range *cls, size_t n, uint64_t min, uint64_t max) {
    lang one = {.span = true, .min = min, .max = n ? max : 0};
    if (p->over) return NULL;
    if (max < min || (!n && min)) return lang__keep(p, (lang){0});
    if (!one.max) n = 0;
    one.cls = mem_new(n, sizeof *cls);
    one.n_cls = n;
    if (n) memcpy(one.cls, cls, n * sizeof *cls);
    return lang__keep(p, one);
}

static const gram_range lang__every[] = {{0, LANG_SYMBOLS - 1}};

/* The texts of min .. max characters; max UINT64_MAX: no bound. */
static const lang *lang_length(lang_pool *p, uint64_t min, uint64_t max) { return lang__span(p, lang__every, 1, min, max); }

/* The language without a text. */
static const lang *lang_none(lang_pool *p) { return p->over ? NULL : p->none; }
/* Every text of Unicode scalar values. */
static const lang *lang_all(lang_pool *p) { return p->over ? NULL : p->all; }

/* A pool; budget: states and edges of all its languages together. */
static lang_pool *lang_pool_new(size_t budget) {
    lang_pool *p = mem_new(1, sizeof *p);
    p->budget = budget;
    hmap_init(&p->ids, ~(uint64_t)UINT32_MAX);
    hmap_init(&p->done, ~(uint64_t)UINT32_MAX);
    p->none = lang__keep(p, (lang){0});
    p->all = lang_length(p, 0, UINT64_MAX);
    return p;
}

static bool lang__same_class(const lang_dfa *d, uint32_t a, uint32_t b) {
    const uint32_t n = d->first[a + 1] - d->first[a];
    if (n != d->first[b + 1] - d->first[b]) return false;
    for (uint32_t i = 0; i < n; i++) {
        const lang_edge *x = &d->edge[d->first[a] + i], *y = &d->edge[d->first[b] + i];
        if (x->lo != y->lo || x->hi != y->hi) return false;
    }
    return true;
}

/* Whether a minimal automaton in canonical order is a span: a chain of states with one class. */
static bool lang__dfa_span(const lang_dfa *d, uint64_t *min, uint64_t *max) {
    uint32_t least = 0;
    if (!d->n) return false;
    while (!d->ends[least]) least++;                  /* the last state of a chain ends */
    for (uint32_t s = 0; s < d->n; s++) {
        const uint32_t from = d->first[s], to = d->first[s + 1];
        if (d->ends[s] != (s >= least)) return false;
        if (s + 1 == d->n && from == to) continue;
        if (from == to || !lang__same_class(d, 0, s)) return false;
        for (uint32_t i = from; i < to; i++)
            if (d->edge[i].to != (s + 1 == d->n ? s : s + 1)) return false;
    }
    const bool loops = d->first[d->n - 1] < d->first[d->n];
    *min = least;
    *max = loops ? UINT64_MAX : d->n - 1;
    return !loops || least == d->n - 1;
}

/* Keeps a minimal automaton in canonical order; it is moved from. */
static const lang *lang__intern(lang_pool *p, lang_dfa d) {
    lang one = {.dfa = d};
    if (!lang__dfa_span(&d, &one.min, &one.max)) return lang__keep(p, one);
    const uint32_t n = d.first[1];
    gram_range    *cls = mem_new(n, sizeof *cls);
    for (uint32_t i = 0; i < n; i++) cls[i] = (gram_range){d.edge[i].lo, d.edge[i].hi};
    lang__dfa_drop(&d);
    const lang *l = lang__span(p, cls, n, one.min, one.max);
    mem_free(cls);
    return l;
}

static lang_dfa lang__span_dfa(const lang *l) {
    lang_dfa       b = {0};
    const uint64_t last = l->max == UINT64_MAX ? l->min : l->max;
    for (uint64_t s = 0; s <= last; s++) {
        lang__state(&b, s >= l->min);
        const uint32_t to = (uint32_t)(s < last ? s + 1 : s);
        for (size_t i = 0; i < l->n_cls && (s < last || l->max == UINT64_MAX); i++)
            lang__edge(&b, l->cls[i].lo, l->cls[i].hi, to);
    }
    return b;
}

static const lang *lang__combine(lang_pool *p, int op, const lang *l, const lang *m);   /* asks for automata of operands */

/* The automaton of a language; NULL: the budget does not allow it. */
static const lang_dfa *lang__dfa(const lang *l) {
    const uint64_t states = l->max == UINT64_MAX ? l->min : l->max;
    if (l->base) {
        const lang *whole = lang__combine(l->home, LANG_AND, l->base, lang_length(l->home, 0, l->max));
        return whole ? lang__dfa(whole) : NULL;
    }
    if (!l->span || l->dfa.n) return &l->dfa;
    lang *own = l->home->kept[l->id];
    if (states >= l->home->budget || !lang__spend(l->home, ((size_t)states + 1) * (l->n_cls + 1)))
        return l->home->over = true, NULL;
    own->dfa = lang__span_dfa(l);
    return &own->dfa;
}

/* --- the minimal automaton --- */

/* The sources of the edges into each state t: (*from)[head[t]] up to head[t + 1]. */
static uint32_t *lang__sources(const lang_dfa *d, uint32_t **from) {
    const uint32_t n_edge = lang__n_edge(d);
    uint32_t      *head = mem_new((size_t)d->n + 1, sizeof *head);
    *from = mem_new(n_edge, sizeof **from);
    for (uint32_t i = 0; i < n_edge; i++) head[d->edge[i].to]++;
    for (uint32_t s = 1; s < d->n; s++) head[s] += head[s - 1];
    head[d->n] = n_edge;
    for (uint32_t s = d->n; s-- > 0;)
        for (uint32_t i = d->first[s]; i < d->first[s + 1]; i++) (*from)[--head[d->edge[i].to]] = s;
    return head;
}

/* Marks of the states that a word can end after. */
static uint8_t *lang__live(const lang_dfa *d) {
    uint8_t  *live = mem_new(d->n, 1);
    uint32_t *from, *head = lang__sources(d, &from), *todo = mem_new(d->n, sizeof *todo), n = 0;
    for (uint32_t s = 0; s < d->n; s++)
        if (d->ends[s]) live[s] = 1, todo[n++] = s;
    while (n) {
        const uint32_t t = todo[--n];
        for (uint32_t i = head[t]; i < head[t + 1]; i++)
            if (!live[from[i]]) live[from[i]] = 1, todo[n++] = from[i];
    }
    mem_free(head);
    mem_free(from);
    mem_free(todo);
    return live;
}

/* The automaton d with the states of one block made one, without dead ones, numbered as a search in breadth meets
 * them. block NULL: each state is its own. What a first state without a word leaves is no state. d is moved from. */
static lang_dfa lang__number(lang_dfa d, const uint32_t *block, uint32_t n_block, const uint8_t *live) {
    lang_dfa b = {0};
    uint32_t  *number = mem_new(n_block, sizeof *number), *order = mem_new(n_block, sizeof *order), n = 0;
    if (d.n && (!live || live[0])) order[n] = 0, number[block ? block[0] : 0] = ++n;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t s = order[i];
        lang__state(&b, d.ends[s]);
        for (uint32_t k = d.first[s]; k < d.first[s + 1]; k++) {
            const uint32_t t = d.edge[k].to, at = block ? block[t] : t;
            if (live && !live[t]) continue;
            if (!number[at]) order[n] = t, number[at] = ++n;
            lang__edge(&b, d.edge[k].lo, d.edge[k].hi, number[at] - 1);
        }
    }
    mem_free(number);
    mem_free(order);
    lang__dfa_drop(&d);
    return b;
}

/* Partition refinement: states with the same signature (the blocks that their symbols lead to) stay in one block.
 * When a block splits, its largest part keeps the number, and only states with an edge into another part are looked
 * at again: each edge at most log n times. */
typedef struct {
    const lang_dfa *d;
    uint32_t *block;                                  /* [n] of a state */
    uint32_t *item, *at;                              /* [n] states block by block; where a state is in there */
    uint32_t *begin, *end;                            /* [n_block] of a block in item */
    uint32_t  n_block;
    uint32_t *head, *from;                            /* sources of the edges into a state: from[head[s]] .. */
    uint32_t *dirty, n_dirty;                         /* states to look at */
    uint8_t  *is_dirty;
    uint64_t *hash;                                   /* [n] of the signature of a dirty state */
    uint64_t  seed;
} lang_refine;

/* The next edge of a signature from edge *i on; false: there is none. */
static bool lang__signature(const lang_refine *r, uint32_t *i, uint32_t end, lang_edge *out) {
    if (*i >= end) return false;
    const lang_edge *e = &r->d->edge[(*i)++];
    *out = (lang_edge){e->lo, e->hi, r->block[e->to]};
    for (; *i < end; ++*i) {
        e = &r->d->edge[*i];
        if (e->lo != out->hi + 1 || r->block[e->to] != out->to) break;
        out->hi = e->hi;
    }
    return true;
}

static uint64_t lang__signature_hash(const lang_refine *r, uint32_t s) {
    uint64_t  h = r->seed;
    lang_edge e;
    for (uint32_t i = r->d->first[s]; lang__signature(r, &i, r->d->first[s + 1], &e);)
        h = rng_mix(h ^ ((uint64_t)e.lo << 32 | e.hi)) ^ e.to;
    return rng_mix(h);
}

static int lang__compare(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

static int lang__signature_order(const lang_refine *r, uint32_t a, uint32_t b) {
    uint32_t i = r->d->first[a], k = r->d->first[b];
    for (lang_edge x, y;;) {
        const bool more_a = lang__signature(r, &i, r->d->first[a + 1], &x),
                   more_b = lang__signature(r, &k, r->d->first[b + 1], &y);
        if (!more_a || !more_b) return more_a - more_b;
        if (x.lo != y.lo) return lang__compare(x.lo, y.lo);
        if (x.hi != y.hi) return lang__compare(x.hi, y.hi);
        if (x.to != y.to) return lang__compare(x.to, y.to);
    }
}

/* Order of dirty states: by block, then by signature. */
static int lang__dirty_order(const void *x, const void *y, void *ctx) {
    const lang_refine *r = ctx;
    const uint32_t     a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    if (r->block[a] != r->block[b]) return lang__compare(r->block[a], r->block[b]);
    if (r->hash[a] != r->hash[b]) return lang__compare(r->hash[a], r->hash[b]);
    return lang__signature_order(r, a, b);
}

/* Moves the states of a group from the end of block b's places into a new block. */
static void lang__carve(lang_refine *r, uint32_t b, const uint32_t *group, uint32_t n) {
    const uint32_t fresh = r->n_block++;
    r->end[fresh] = r->end[b];
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t s = group[i], place = --r->end[b], other = r->item[place];
        r->item[r->at[s]] = other, r->at[other] = r->at[s];
        r->item[place] = s, r->at[s] = place;
        r->block[s] = fresh;
    }
    r->begin[fresh] = r->end[b];
}

/* Exchanges the numbers of two blocks. */
static void lang__swap(lang_refine *r, uint32_t a, uint32_t b) {
    const uint32_t begin = r->begin[a], end = r->end[a];
    r->begin[a] = r->begin[b], r->end[a] = r->end[b];
    r->begin[b] = begin, r->end[b] = end;
    for (uint32_t i = r->begin[a]; i < r->end[a]; i++) r->block[r->item[i]] = a;
    for (uint32_t i = r->begin[b]; i < r->end[b]; i++) r->block[r->item[i]] = b;
}

/* Splits the block whose dirty states these are. starts: marks of the first state of each group of one signature. The
 * largest part keeps the number. */
static void lang__split(lang_refine *r, const uint32_t *dirty, const uint8_t *starts, uint32_t n) {
    const uint32_t b = r->block[dirty[0]], clean = r->end[b] - r->begin[b] - n;
    uint32_t       largest = b, most = clean;
    for (uint32_t i = 0, k; i < n; i = k) {
        for (k = i + 1; k < n && !starts[k];) k++;
        if (k - i > most) most = k - i, largest = clean || i ? r->n_block : b;
        if (clean || i) lang__carve(r, b, dirty + i, k - i);         /* else the first group stays where it is */
    }
    if (largest != b) lang__swap(r, b, largest);
}

/* One round over the dirty states. */
static void lang__round(lang_refine *r, uint8_t *starts) {
    const uint32_t first_new = r->n_block, n = r->n_dirty;
    for (uint32_t i = 0; i < n; i++) r->hash[r->dirty[i]] = lang__signature_hash(r, r->dirty[i]);
    qsort_r(r->dirty, n, sizeof *r->dirty, lang__dirty_order, r);
    for (uint32_t i = 0; i < n; i++) starts[i] = i == 0 || lang__dirty_order(&r->dirty[i - 1], &r->dirty[i], r) != 0;
    for (uint32_t i = 0, k; i < n; i = k) {
        const uint32_t b = r->block[r->dirty[i]];
        for (k = i + 1; k < n && r->block[r->dirty[k]] == b;) k++;
        lang__split(r, r->dirty + i, starts + i, k - i);
    }
    for (uint32_t i = 0; i < n; i++) r->is_dirty[r->dirty[i]] = 0;
    r->n_dirty = 0;
    for (uint32_t b = first_new; b < r->n_block; b++)
        for (uint32_t i = r->begin[b]; i < r->end[b]; i++)
            for (uint32_t k = r->head[r->item[i]]; k < r->head[r->item[i] + 1]; k++)
                if (!r->is_dirty[r->from[k]]) r->is_dirty[r->from[k]] = 1, r->dirty[r->n_dirty++] = r->from[k];
}

/* The two blocks to begin with: states with and without an end. */
static void lang__halves(lang_refine *r) {
    const uint32_t n = r->d->n;
    uint32_t       at = 0;
    for (int ends = 0; ends < 2; ends++) {
        const uint32_t begin = at;
        for (uint32_t s = 0; s < n; s++)
            if (!r->d->ends[s] == !ends) r->block[s] = r->n_block, r->item[at] = s, r->at[s] = at++;
        if (at > begin) r->begin[r->n_block] = begin, r->end[r->n_block++] = at;
    }
    for (uint32_t s = 0; s < n; s++) r->dirty[r->n_dirty++] = s;
}

/* The minimal automaton of the same language in canonical order; d is moved from. Every state of d is one that the
 * first one reaches. */
static lang_dfa lang__minimal(lang_dfa d) {
    uint8_t *live = lang__live(&d);
    d = lang__number(d, NULL, d.n, live);
    mem_free(live);
    uint32_t   *room = mem_new(d.n, 6 * sizeof *room);
    lang_refine r = {.d = &d, .block = room, .item = room + d.n, .at = room + 2 * (size_t)d.n,
                     .begin = room + 3 * (size_t)d.n, .end = room + 4 * (size_t)d.n, .dirty = room + 5 * (size_t)d.n,
                     .seed = rng_secret()};
    r.head = lang__sources(&d, &r.from);
    r.is_dirty = mem_new(d.n, 1);
    r.hash = mem_new(d.n, sizeof *r.hash);
    uint8_t *starts = mem_new(d.n, 1);
    lang__halves(&r);
    while (r.n_dirty && !g_interrupt) lang__round(&r, starts);         /* after an interrupt nothing is kept */
    d = lang__number(d, r.block, r.n_block, NULL);
    mem_free(starts);
    mem_free(r.hash);
    mem_free(r.is_dirty);
    mem_free(r.head);
    mem_free(r.from);
    mem_free(room);
    return d;
}

/* --- operations --- */

/* The result of an operation that was done before; NULL: it was not. */
static hmap_entry *lang__done(lang_pool *p, uint64_t op, const lang *a, const lang *b) {
    return hmap_add(&p->done, ((uint64_t)a->id << 32 | b->id) + 1, (op + 1) << 32);
}

/* A pair of states that the product knows by a number; a state of LANG__DEAD: none. */
typedef struct {
    const lang_dfa *a, *b;
    int             op;
    hmap            pairs;
    uint64_t       *pair;
    uint32_t        n;
    size_t          steps;
} lang_product;

#define LANG__DEAD UINT32_MAX

static bool lang__pair_ends(const lang_product *x, uint32_t a, uint32_t b) {
    const bool in_a = a != LANG__DEAD && x->a->ends[a], in_b = b != LANG__DEAD && x->b->ends[b];
    return x->op == LANG_AND ? in_a && in_b : in_a || in_b;
}

/* Whether all texts go on to an end from there. */
static bool lang__is_every(const lang_dfa *d, uint32_t s) {
    if (!d->ends[s] || d->first[s + 1] != d->first[s] + 1) return false;
    const lang_edge *e = &d->edge[d->first[s]];
    return e->lo == 0 && e->hi == LANG_SYMBOLS - 1 && e->to == s;
}

/* The number of a pair; LANG__DEAD: no word ends after it. */
static uint32_t lang__pair(lang_product *x, uint32_t a, uint32_t b) {
    if (x->op == LANG_AND && (a == LANG__DEAD || b == LANG__DEAD)) return LANG__DEAD;
    if (a == LANG__DEAD && b == LANG__DEAD) return LANG__DEAD;
    if (x->op == LANG_OR && a != LANG__DEAD && lang__is_every(x->a, a)) b = LANG__DEAD;
    if (x->op == LANG_OR && b != LANG__DEAD && lang__is_every(x->b, b)) a = LANG__DEAD;
    const uint32_t before = (uint32_t)x->pairs.n;
    hmap_entry    *en = hmap_add(&x->pairs, ((uint64_t)(a + 1) << 32 | (uint64_t)(b + 1)), x->n);
    if (x->pairs.n == before) return (uint32_t)en->b;
    en->b = x->n;
    return MEM_PUSH(x->pair, x->n, (uint64_t)a << 32 | b);
}

/* The edges of a pair: both rows of edges, from symbol to symbol where one of them changes. */
static void lang__pair_edges(lang_product *x, lang_dfa *out, uint32_t a, uint32_t b) {
    const lang_edge *i = NULL, *stop_a = NULL, *k = NULL, *stop_b = NULL;
    if (a != LANG__DEAD && x->a->edge) i = x->a->edge + x->a->first[a], stop_a = x->a->edge + x->a->first[a + 1];
    if (b != LANG__DEAD && x->b->edge) k = x->b->edge + x->b->first[b], stop_b = x->b->edge + x->b->first[b + 1];
    for (uint32_t lo = 0; lo < LANG_SYMBOLS && (i < stop_a || k < stop_b); x->steps++) {
        const bool     in_a = i < stop_a && i->lo <= lo, in_b = k < stop_b && k->lo <= lo;
        const uint32_t next_a = i == stop_a ? LANG_SYMBOLS : in_a ? i->hi + 1 : i->lo,
                       next_b = k == stop_b ? LANG_SYMBOLS : in_b ? k->hi + 1 : k->lo;
        const uint32_t next = next_a < next_b ? next_a : next_b;
        const uint32_t to = lang__pair(x, in_a ? i->to : LANG__DEAD, in_b ? k->to : LANG__DEAD);
        if (to != LANG__DEAD) lang__edge(out, lo, next - 1, to);
        if (in_a && i->hi + 1 == next) i++;
        if (in_b && k->hi + 1 == next) k++;
        lo = next;
    }
}

static const lang *lang__combine(lang_pool *p, int op, const lang *l, const lang *m) {
    lang_product x = {.a = lang__dfa(l), .b = lang__dfa(m), .op = op};
    lang_dfa     out = {0};
    if (!x.a || !x.b) return NULL;
    hmap_init(&x.pairs, 0);
    lang__pair(&x, x.a->n ? 0 : LANG__DEAD, x.b->n ? 0 : LANG__DEAD);
    for (uint32_t s = 0; s < x.n && !p->over; s++) {
        const uint32_t a = (uint32_t)(x.pair[s] >> 32), b = (uint32_t)x.pair[s];
        lang__state(&out, lang__pair_ends(&x, a, b));
        lang__pair_edges(&x, &out, a, b);
        if (x.steps > LANG_WORK / 4 * p->budget || x.n > p->budget || g_interrupt) p->over = true;
    }
    lang__work(p, x.steps);
    hmap_drop(&x.pairs);
    mem_free(x.pair);
    if (!p->over) return lang__intern(p, lang__minimal(out));
    lang__dfa_drop(&out);
    return NULL;
}

/* The classes of two spans in common. */
static const lang *lang__span_and(lang_pool *p, const lang *a, const lang *b) {
    gram_range *cls = mem_new(a->n_cls + b->n_cls, sizeof *cls);
    size_t      n = 0;
    for (size_t i = 0, k = 0; i < a->n_cls && k < b->n_cls;) {
        const gram_range x = a->cls[i], y = b->cls[k], both = gram_range_and(x, y);
        if (both.lo <= both.hi) cls[n++] = both;
        if (x.hi <= y.hi) i++;
        if (y.hi <= x.hi) k++;
    }
    const lang *l = lang__span(p, cls, n, max_u64(a->min, b->min), min_u64(a->max, b->max));
    mem_free(cls);
    return l;
}

/* Two spans whose classes are equal and whose lengths leave no gap are one; NULL: they are not. */
static const lang *lang__span_or(lang_pool *p, const lang *a, const lang *b) {
    const lang *cls = a->n_cls ? a : b;
    const bool  same = !a->n_cls || !b->n_cls || (a->n_cls == b->n_cls && memcmp(a->cls, b->cls, a->n_cls * sizeof *a->cls) == 0);
    if (!same || max_u64(a->min, b->min) > lang__sum(min_u64(a->max, b->max), 1, UINT64_MAX)) return NULL;
    return lang__span(p, cls->cls, cls->n_cls, min_u64(a->min, b->min), max_u64(a->max, b->max));
}

static bool lang_is_finite(const lang *l);               /* beside the numbers of words, below; it calls nothing of this */

/* Characters of a shortest word, which is appended to out (NULL: nowhere). */
static uint64_t lang__shortest(const lang_dfa *d, str *out) {
    uint32_t *todo = mem_new(d->n, sizeof *todo), n = 1, next = 0;
    uint32_t *by = mem_new(d->n, sizeof *by);         /* 1 + the edge that led to a state first, 0: not reached */
    uint32_t *from = mem_new(d->n, sizeof *from), s = 0;
    uint64_t  length = 0;
    while (!d->ends[s = todo[next++]])                /* each state has a way to an end */
        for (uint32_t k = d->first[s]; k < d->first[s + 1]; k++)
            if (d->edge[k].to && !by[d->edge[k].to])
                by[d->edge[k].to] = k + 1, from[d->edge[k].to] = s, todo[n++] = d->edge[k].to;
    for (n = 0; s; s = from[s], length++) todo[n++] = d->edge[by[s] - 1].lo;
    while (out && n) str_char(out, lang__code(todo[--n]));
    mem_free(todo), mem_free(by), mem_free(from);
    return length;
}

/* The words of a language that have at most max characters. */
static const lang *lang__tall(lang_pool *p, const lang *base, uint64_t max) {
    if (!base || base == p->none || max == UINT64_MAX) return base;
    if (base->base) return lang__tall(p, base->base, min_u64(max, base->max));
    if (base->span) return lang__span(p, base->cls, base->n_cls, base->min, min_u64(max, base->max));
    if (max >= base->dfa.n && lang_is_finite(base)) return base;       /* no word is longer */
    if (max <= LANG_TALL) return lang__combine(p, LANG_AND, base, lang_length(p, 0, max));
    return lang__shortest(&base->dfa, NULL) > max ? p->none : lang__keep(p, (lang){.base = base, .max = max});
}

static bool lang__is_every_class(const lang *l) { return l->n_cls == 1 && l->cls[0].lo == 0 && l->cls[0].hi == LANG_SYMBOLS - 1; }

/* Whether it is tall, or a span of all characters that is as long; then *base is the language without its bound. */
static bool lang__bound(lang_pool *p, const lang *l, const lang **base) {
    const bool length = l->span && lang__is_every_class(l) && l->max != UINT64_MAX && l->max > LANG_TALL;
    *base = length ? lang_length(p, l->min, UINT64_MAX) : l->base ? l->base : l;
    return length || l->base;
}

/* Whether no text is a word. NULL: false. */
static bool lang_empty(const lang *l) { return l && l == l->home->none; }
/* Whether every text is a word. NULL: false. */
static bool lang_is_all(const lang *l) { return l && l == l->home->all; }

static const lang *lang_and(lang_pool *p, const lang *a, const lang *b);        /* of languages without their bounds */

static const lang *lang__both(lang_pool *p, int op, const lang *a, const lang *b) {
    if (!a || !b || p->over) return NULL;
    if (a == b) return a;
    const lang *unit = op == LANG_AND ? p->all : p->none, *zero = op == LANG_AND ? p->none : p->all, *l = NULL;
    if (a == unit || b == zero) return b;
    if (b == unit || a == zero) return a;
    if (op == LANG_AND && a->span && b->span) return lang__span_and(p, a, b);
    if (op == LANG_OR && a->span && b->span && ((l = lang__span_or(p, a, b)) || p->over)) return l;
    if (a->id > b->id) return lang__both(p, op, b, a);
    const lang *x, *y;
    const bool  high = lang__bound(p, a, &x), low = lang__bound(p, b, &y);
    if (op == LANG_AND && (high || low))
        return lang__tall(p, lang_and(p, x, y), min_u64(high ? a->max : UINT64_MAX, low ? b->max : UINT64_MAX));
    if (op == LANG_OR && x == y && a->base && b->base) return lang__tall(p, x, max_u64(a->max, b->max));
    const uint32_t known = (uint32_t)lang__done(p, (uint64_t)op, a, b)->b;
    if (known) return p->kept[known - 1];
    l = lang__combine(p, op, a, b);
    if (l) lang__done(p, (uint64_t)op, a, b)->b |= l->id + 1;
    return l;
}

/* The words of both languages; NULL where an operand is, or over the budget. The same for the next two. */
static const lang *lang_and(lang_pool *p, const lang *a, const lang *b) { return lang__both(p, LANG_AND, a, b); }
/* The words of either language. */
static const lang *lang_or(lang_pool *p, const lang *a, const lang *b) { return lang__both(p, LANG_OR, a, b); }

/* The edges of a state of a complement: what had no edge leads to `rest`. */
static void lang__rest_edges(lang_dfa *out, const lang_dfa *d, uint32_t s, uint32_t rest) {
    uint32_t lo = 0;
    for (uint32_t i = d->first[s]; i < d->first[s + 1]; i++) {
        if (lo < d->edge[i].lo) lang__edge(out, lo, d->edge[i].lo - 1, rest);
        lang__edge(out, d->edge[i].lo, d->edge[i].hi, d->edge[i].to);
        lo = d->edge[i].hi + 1;
    }
    if (lo < LANG_SYMBOLS) lang__edge(out, lo, LANG_SYMBOLS - 1, rest);
}

/* A minimal automaton's complement is minimal again; the state of all texts becomes dead, and a state of all texts
 * takes what was dead. */
static const lang *lang__complement(lang_pool *p, const lang *l) {
    const lang_dfa *d = lang__dfa(l);
    lang_dfa        out = {0};
    if (!d) return NULL;
    for (uint32_t s = 0; s < d->n; s++) {
        lang__state(&out, !d->ends[s]);
        lang__rest_edges(&out, d, s, d->n);
    }
    lang__state(&out, true);
    lang__edge(&out, 0, LANG_SYMBOLS - 1, d->n);
    uint8_t *live = lang__live(&out);
    out = lang__number(out, NULL, out.n, live);
    mem_free(live);
    return lang__intern(p, out);
}

/* The texts that are no words. */
static const lang *lang_not(lang_pool *p, const lang *a) {
    if (!a || p->over) return NULL;
    if (a == p->none || a == p->all) return a == p->none ? p->all : p->none;
    if (a->span && (!a->max || lang__is_every_class(a)) && !a->min) return lang_length(p, a->max + 1, UINT64_MAX);
    if (a->span && lang__is_every_class(a) && a->max == UINT64_MAX) return lang_length(p, 0, a->min - 1);
    const uint32_t known = (uint32_t)lang__done(p, LANG_NOT, a, a)->b;
    if (known) return p->kept[known - 1];
    const lang *l = lang__complement(p, a);
    if (l) lang__done(p, LANG_NOT, a, a)->b |= l->id + 1;
    return l;
}

/* --- words --- */

typedef struct {                                      /* words in order become a minimal automaton: what no later word
                                                       * can reach is kept once */
    uint32_t *item;                                   /* [n] the states of the word before, one after the other: whether a
                                                       * word ends there, then lo, hi, to of each edge */
    size_t    n;
    size_t   *begin;                                  /* [deep + 1] where they begin in item */
    uint32_t *symbol;                                 /* [deep + 1] that lead to them */
    size_t    deep;
    lang_seqs kept;
} lang_trie;

/* Keeps the states after the first `deep` symbols. */
static void lang__trie_close(lang_trie *t, size_t deep) {
    for (; t->deep > deep; t->deep--) {
        const size_t   begin = t->begin[t->deep];
        const uint32_t id = lang__seqs_add(&t->kept, t->item + begin, t->n - begin), symbol = t->symbol[t->deep];
        uint32_t      *up = t->item + begin;          /* the end of the state before, which gets the edge */
        t->n = begin;
        if (begin > t->begin[t->deep - 1] + 1 && up[-1] == id && up[-2] + 1 == symbol) up[-2] = symbol;
        else MEM_PUSH(t->item, t->n, symbol), MEM_PUSH(t->item, t->n, symbol), MEM_PUSH(t->item, t->n, id);
    }
}

/* Begins the state after `deep` symbols. */
static void lang__trie_open(lang_trie *t, size_t deep, uint32_t symbol) {
    t->begin = mem_reserve(t->begin, deep, UINT64_MAX, sizeof *t->begin);
    t->symbol = mem_reserve(t->symbol, deep, UINT64_MAX, sizeof *t->symbol);
    t->begin[deep] = t->n, t->symbol[deep] = symbol;
    MEM_PUSH(t->item, t->n, 0);
    t->deep = deep;
}

/* The symbol at p, and its bytes; 0 bytes: no character begins there. */
static int lang__read(const uint8_t *p, size_t n, uint32_t *symbol) {
    const int len = utf8_len(p, n);
    *symbol = lang__symbol(len ? utf8_get(p, len) : 0);
    return len;
}

static void lang__trie_add(lang_trie *t, bytes w) {
    size_t   deep = 0, i = 0;
    uint32_t symbol = 0;
    int      len = 0;
    for (; i < w.n && deep < t->deep; i += (size_t)len, deep++) {
        len = lang__read(w.p + i, w.n - i, &symbol);
        if (t->symbol[deep + 1] != symbol) break;
    }
    lang__trie_close(t, deep);
    for (; i < w.n; i += (size_t)len) {
        len = lang__read(w.p + i, w.n - i, &symbol);
        lang__trie_open(t, ++deep, symbol);
    }
    t->item[t->begin[deep]] = 1;
}

/* The automaton of what was kept. The first state is the last one of it. */
static lang_dfa lang__trie_dfa(lang_trie *t) {
    lang_dfa b = {0};
    const uint32_t last = lang__seqs_add(&t->kept, t->item, t->n);
    for (uint32_t s = 0; s <= last; s++) {
        size_t          n;
        const uint32_t *p = lang__seq(&t->kept, last - s, &n);
        lang__state(&b, p[0]);
        for (size_t i = 1; i < n; i += 3) lang__edge(&b, p[i], p[i + 1], last - p[i + 2]);
    }
    return lang__number(b, NULL, b.n, NULL);
}

static int lang__word_order(const void *x, const void *y) {
    const bytes *a = x, *b = y;
    const int    c = memcmp(a->p, b->p, min_size(a->n, b->n));
    return c ? c : lang__compare(a->n, b->n);
}

static const lang *lang__trie(lang_pool *p, const bytes *w, size_t n) {
    lang_trie t = {0};
    lang__trie_open(&t, 0, 0);
    for (size_t i = 0; i < n; i++) lang__trie_add(&t, w[i]);
    lang__trie_close(&t, 0);
    const lang *l = lang__intern(p, lang__trie_dfa(&t));
    mem_free(t.item);
    mem_free(t.begin);
    mem_free(t.symbol);
    lang__seqs_drop(&t.kept);
    return l;
}

/* The words of a list; one that is not UTF-8 is left out. */
static const lang *lang_words(lang_pool *p, const bytes *w, size_t n) {
    bytes *sorted = mem_new(n, sizeof *sorted);
    size_t good = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        if (!utf8_whole(w[i])) continue;
        sorted[good] = w[i].n ? w[i] : bytes_of("");
        all += sorted[good++].n;
    }
    if (all > p->budget) p->over = true;
    qsort(sorted, good, sizeof *sorted, lang__word_order);
    const lang *l = p->over ? NULL : good ? lang__trie(p, sorted, good) : lang_none(p);
    mem_free(sorted);
    return l;
}

/* The language of one text; none of one that is not UTF-8. */
static const lang *lang_word(lang_pool *p, bytes utf8) { return lang_words(p, &utf8, 1); }

/* The edge of state s for a symbol, NULL: there is none. */
static const lang_edge *lang__follow(const lang_dfa *d, uint32_t s, uint32_t symbol) {
    const lang_edge *e = d->edge + d->first[s];
    const size_t     n = d->first[s + 1] - d->first[s], i = n ? mem_u32_find(&e->hi, n, sizeof *e, symbol) : 0;
    return i < n && e[i].lo <= symbol ? &e[i] : NULL;
}

static bool lang__in_class(const gram_range *r, size_t n, uint32_t symbol) {
    const size_t i = mem_u32_find(&r->hi, n, sizeof *r, symbol);
    return i < n && r[i].lo <= symbol;
}

/* Whether a text is a word. One that is not UTF-8 is none. */
static bool lang_has(const lang *l, bytes utf8) {
    uint32_t s = 0, symbol;
    uint64_t count = 0;
    if (l && l->base) {
        for (size_t i = 0; i < utf8.n; i++) count += (utf8.p[i] & 0xc0) != 0x80;
        return count <= l->max && lang_has(l->base, utf8);
    }
    if (!l || (!l->span && !l->dfa.n)) return false;
    for (size_t i = 0, len; i < utf8.n; i += len, count++) {
        if (!(len = (size_t)lang__read(utf8.p + i, utf8.n - i, &symbol))) return false;
        const lang_edge *e = l->span ? NULL : lang__follow(&l->dfa, s, symbol);
        if (l->span ? !lang__in_class(l->cls, l->n_cls, symbol) : !e) return false;
        if (e) s = e->to;
    }
    return l->span ? l->min <= count && count <= l->max : l->dfa.ends[s];
}

/* An automaton's edge for lang_arcs: code points of ASCII. */
typedef struct { uint32_t from, lo, hi, to; } lang_arc;

static int lang__arc_order(const void *x, const void *y) {
    const lang_arc *a = x, *b = y;
    return a->from != b->from ? lang__compare(a->from, b->from) : lang__compare(a->lo, b->lo);
}

/* Whether so many states may be made; else the pool is over its budget. */
static bool lang_room(lang_pool *p, size_t n) {
    if (n > p->budget - p->used) p->over = true;
    return !p->over;
}

/* The language of an automaton of n states, the first one is 0; ends: [n]. The arcs are put in order; those of one
 * state do not overlap. */
static const lang *lang_arcs(lang_pool *p, uint32_t n, const bool *ends, lang_arc *arc, size_t n_arc) {
    lang_dfa b = {0};
    if (!lang__work(p, n + n_arc) || n + n_arc > LANG_WORK / 4 * p->budget) return p->over = true, NULL;
    if (n_arc) qsort(arc, n_arc, sizeof *arc, lang__arc_order);
    for (size_t s = 0, i = 0; s < n; s++) {
        lang__state(&b, ends[s]);
        for (; i < n_arc && arc[i].from == s; i++) lang__edge(&b, arc[i].lo, arc[i].hi, arc[i].to);
    }
    return lang__intern(p, lang__minimal(b));
}

/* Follows an edge; false: there is none. */
static bool lang__go(const lang_dfa *d, uint32_t *s, uint32_t symbol) {
    const lang_edge *e = lang__follow(d, *s, symbol);
    if (e) *s = e->to;
    return e != NULL;
}

/* Whether the text "head, c that many times, tail" is a word, however often that is. All of it is ASCII. */
static bool lang_has_run(const lang *l, bytes head, uint8_t c, uint64_t times, bytes tail) {
    const lang_dfa *d = l ? lang__dfa(l) : NULL;
    uint32_t        s = 0;
    if (!d || !d->n) return false;
    uint32_t *seen = mem_new(d->n, sizeof *seen);     /* 1 + how many of c were read when a state came */
    bool      ok = true;
    for (size_t i = 0; ok && i < head.n; i++) ok = lang__go(d, &s, head.p[i]);
    for (uint64_t i = 0; ok && i < times; i++) {
        if (seen[s]) times = i + (times - i) % (i + 1 - seen[s]);         /* the rest goes round in a circle */
        else seen[s] = (uint32_t)i + 1;
        ok = i == times || lang__go(d, &s, c);
    }
    for (size_t i = 0; ok && i < tail.n; i++) ok = lang__go(d, &s, tail.p[i]);
    mem_free(seen);
    return ok && d->ends[s];
}

/* --- how many words --- */

/* Goes through the states from which finitely many words remain, each after those that it leads to, and sets their
 * number (where count is there). Returns how many such states there are. */
static uint32_t lang__finite(const lang_dfa *d, uint64_t *count, uint64_t most) {
    uint32_t *from, *head = lang__sources(d, &from), *left = mem_new(d->n, sizeof *left),
             *order = mem_new(d->n, sizeof *order), n = 0;
    for (uint32_t s = 0; s < d->n; s++)
        if (!(left[s] = d->first[s + 1] - d->first[s])) order[n++] = s;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t s = order[i];
        if (count) count[s] = min_u64(d->ends[s], most);
        for (uint32_t k = d->first[s]; count && k < d->first[s + 1]; k++)
            count[s] = lang__sum(count[s], lang__times(d->edge[k].hi - d->edge[k].lo + 1, count[d->edge[k].to], most), most);
        for (uint32_t k = head[s]; k < head[s + 1]; k++)
            if (!--left[from[k]]) order[n++] = from[k];
    }
    mem_free(head);
    mem_free(from);
    mem_free(left);
    mem_free(order);
    return n;
}

/* States of its automaton. */
static uint64_t lang_states(const lang *l) {
    if (l && l->base) return lang_states(l->base);
    if (!l || !l->span) return l ? l->dfa.n : 0;
    return lang__sum(l->max == UINT64_MAX ? l->min : l->max, 1, UINT64_MAX);
}

/* How many pairs of a state and a number of characters up to `steps` lead to each other, at most `most`: the size of what
 * counting characters makes of the automaton. */
static uint64_t lang_depth(const lang *l, uint32_t steps, uint64_t most) {
    const lang_dfa *d = l ? lang__dfa(l) : NULL;
    uint64_t        all = 0;
    if (!d || !d->n) return 0;
    uint32_t *at = mem_new(d->n, sizeof *at), *next = mem_new(d->n, sizeof *next), *seen = mem_new(d->n, sizeof *seen), n = 1;
    for (uint32_t step = 1, m = 0; n && all < most && step <= steps; step++, m = 0) {
        all += n;
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t k = d->first[at[i]]; k < d->first[at[i] + 1]; k++)
                if (seen[d->edge[k].to] != step) seen[d->edge[k].to] = step, next[m++] = d->edge[k].to;
        uint32_t *const turn = at;
        at = next, next = turn, n = m;
    }
    mem_free(at), mem_free(next), mem_free(seen);
    return min_u64(all, most);
}

/* Whether a bound of its words is kept as a number. NULL: false. */
static bool lang_is_tall(const lang *l) { return l && l->base; }

/* Whether there are finitely many words. NULL: true. */
static bool lang_is_finite(const lang *l) {
    if (!l || l->base || l->span) return !l || l->max != UINT64_MAX;
    return lang__finite(&l->dfa, NULL, 0) == l->dfa.n;
}

/* Appends a shortest word of a language that is no span. False: there is none. */
static bool lang_least(const lang *l, str *out) {
    const lang *plain = l && l->base ? l->base : l;
    const bool  any = plain && !plain->span && plain->dfa.n;
    if (any) lang__shortest(&plain->dfa, out);
    return any;
}

/* Whether infinitely many words begin with each beginning of a word. */
static bool lang_endless(const lang *l) {
    if (!l || l->base) return false;
    if (l->span) return l->max == UINT64_MAX;
    return l->dfa.n && lang__finite(&l->dfa, NULL, 0) == 0;
}

static uint64_t lang__span_count(const lang *l, uint64_t most) {
    uint64_t wide = 0, words = 1, all = 0;
    for (size_t i = 0; i < l->n_cls; i++) wide += l->cls[i].hi - l->cls[i].lo + 1;
    if (l->max == UINT64_MAX) return most;
    if (wide <= 1) return lang__sum(l->max - l->min, 1, most);
    for (uint64_t k = 0; k <= l->max && all < most; k++, words = lang__times(words, wide, UINT64_MAX)) {
        if (k >= l->min) all = lang__sum(all, words, most);
        if (words == UINT64_MAX) return most;
    }
    return all;
}

/* Number of words, at most `most`. */
static uint64_t lang_count(const lang *l, uint64_t most) {
    if (l && l->base) return most;                    /* more than anybody counts */
    if (!l || (!l->span && !l->dfa.n)) return 0;
    if (l->span) return lang__span_count(l, most);
    uint64_t *count = mem_new(l->dfa.n, sizeof *count);
    uint64_t  n = lang__finite(&l->dfa, count, most) < l->dfa.n ? most : count[0];
    mem_free(count);
    return n;
}

static void lang__put(str *out, uint32_t symbol) { str_char(out, lang__code(symbol)); }

/* Appends word i of the automaton, whose states have that many words. */
static void lang__spell_nth(const lang_dfa *d, const uint64_t *count, uint64_t i, str *out) {
    for (uint32_t s = 0, k; !d->ends[s] || i; s = d->edge[k].to) {
        i -= d->ends[s];
        for (k = d->first[s];; k++) {
            const uint64_t each = count[d->edge[k].to], all = lang__times(d->edge[k].hi - d->edge[k].lo + 1, each, UINT64_MAX);
            if (i < all || k + 1 == d->first[s + 1]) {
                lang__put(out, d->edge[k].lo + (uint32_t)(i / each));
                i %= each;
                break;
            }
            i -= all;
        }
    }
}

/* Appends word i, in the order of code points. False: there are not that many, or infinitely many. */
static bool lang_nth(const lang *l, uint64_t i, str *out) {
    if (!l || i >= lang_count(l, i == UINT64_MAX ? i : i + 1)) return false;
    const lang_dfa *d = lang__dfa(l);
    if (!d) return false;
    uint64_t  *count = mem_new(d->n, sizeof *count);
    const bool ok = lang__finite(d, count, UINT64_MAX) == d->n;
    if (ok) lang__spell_nth(d, count, i, out);
    mem_free(count);
    return ok;
}

/* --- as rules of an automaton over bytes --- */

/* A way to write a character as bytes. Its number, less `less`, is cut into groups of bits, highest first; each group
 * is a byte, a hexadecimal digit, or (no bits) a fixed text. */
typedef struct {
    enum { LANG_STOP, LANG_BYTE, LANG_HEX, LANG_TEXT } kind;
    uint8_t     bits, base;                           /* what is added to the value of the bits */
    const char *text;
} lang_digit;

enum { LANG_PLAIN = 1, LANG_STRICT = 2, LANG_LOOSE = 4, LANG_LONE = 8, LANG_JSON = LANG_STRICT | LANG_LOOSE };

typedef struct {
    int        when;                                  /* in which outputs */
    uint32_t   lo, hi, less;                          /* code points that are written so */
    lang_digit digit[12];
} lang_form;

#define LANG__BYTE(bits, base) {LANG_BYTE, bits, base, NULL}
#define LANG__HEX(bits, base)  {LANG_HEX, bits, base, NULL}
#define LANG__TEXT(t)          {LANG_TEXT, 0, 0, t}
#define LANG__U4               {LANG__TEXT("\\u"), LANG__HEX(4, 0), LANG__HEX(4, 0), LANG__HEX(4, 0), LANG__HEX(4, 0)}
#define LANG__U2               {LANG__TEXT("\\u00"), LANG__HEX(4, 0), LANG__HEX(4, 0)}

static const lang_form lang__forms[] = {
    {LANG_PLAIN, 0x00, 0x7f, 0, {LANG__BYTE(7, 0)}},
    {LANG_JSON, 0x20, 0x21, 0, {LANG__BYTE(7, 0)}},
    {LANG_JSON, 0x23, 0x5b, 0, {LANG__BYTE(7, 0)}},
    {LANG_JSON, 0x5d, 0x7f, 0, {LANG__BYTE(7, 0)}},
    {LANG_PLAIN | LANG_JSON, 0x80, 0x7ff, 0, {LANG__BYTE(5, 0xc0), LANG__BYTE(6, 0x80)}},
    {LANG_PLAIN | LANG_JSON, 0x800, 0xd7ff, 0, {LANG__BYTE(4, 0xe0), LANG__BYTE(6, 0x80), LANG__BYTE(6, 0x80)}},
    {LANG_PLAIN | LANG_JSON, 0xe000, 0xffff, 0, {LANG__BYTE(4, 0xe0), LANG__BYTE(6, 0x80), LANG__BYTE(6, 0x80)}},
    {LANG_PLAIN | LANG_JSON, 0x10000, 0x10ffff, 0,
     {LANG__BYTE(3, 0xf0), LANG__BYTE(6, 0x80), LANG__BYTE(6, 0x80), LANG__BYTE(6, 0x80)}},
    {LANG_JSON, 0x22, 0x22, 0x22, {LANG__TEXT("\\\"")}},
    {LANG_JSON, 0x5c, 0x5c, 0x5c, {LANG__TEXT("\\\\")}},
    {LANG_LOOSE, 0x2f, 0x2f, 0x2f, {LANG__TEXT("\\/")}},
    {LANG_JSON, 0x08, 0x08, 0x08, {LANG__TEXT("\\b")}},
    {LANG_JSON, 0x09, 0x09, 0x09, {LANG__TEXT("\\t")}},
    {LANG_JSON, 0x0a, 0x0a, 0x0a, {LANG__TEXT("\\n")}},
    {LANG_JSON, 0x0c, 0x0c, 0x0c, {LANG__TEXT("\\f")}},
    {LANG_JSON, 0x0d, 0x0d, 0x0d, {LANG__TEXT("\\r")}},
    {LANG_STRICT, 0x00, 0x07, 0, LANG__U2},
    {LANG_STRICT, 0x0b, 0x0b, 0, LANG__U2},
    {LANG_STRICT, 0x0e, 0x1f, 0, LANG__U2},
    {LANG_LOOSE, 0x0000, 0xd7ff, 0, LANG__U4},
    {LANG_LONE, 0xd800, 0xdfff, 0, LANG__U4},
    {LANG_LOOSE, 0xe000, 0xffff, 0, LANG__U4},
    {LANG_LOOSE, 0x10000, 0x10ffff, 0x10000,
     {LANG__TEXT("\\u"), LANG__HEX(0, 13), LANG__HEX(2, 8), LANG__HEX(4, 0), LANG__HEX(4, 0), LANG__TEXT("\\u"),
      LANG__HEX(0, 13), LANG__HEX(2, 12), LANG__HEX(4, 0), LANG__HEX(4, 0)}},
};

typedef struct {
    gram     *g;
    int       when;                                   /* of the forms: LANG_PLAIN ... */
    bool      append;                                 /* each byte is appended to the text of the activation */
    bool      apart;                                  /* and words are kept apart from those before */
    lang_seqs key;                                    /* (digits, target, values): what is written there already; */
    int32_t  *tail;                                   /* by id of a key: the state it begins in */
} lang_out;

static void lang__out_drop(lang_out *o) {
    lang__seqs_drop(&o->key);
    mem_free(o->tail);
}

static void lang__out_byte(lang_out *o, int32_t from, uint8_t lo, uint8_t hi, int32_t to) {
    if (o->append) gram_byte_op(o->g, from, lo, hi, (gram_op){.kind = GRAM_APPEND}, to);
    else gram_byte(o->g, from, lo, hi, to);
}

/* The digits lo .. hi of a group. */
static void lang__out_digit(lang_out *o, const lang_digit *d, int32_t from, uint32_t lo, uint32_t hi, int32_t to) {
    static const struct { gram_range of; uint8_t first; int when; } hex[] = {
        {{0, 9}, '0', ~0}, {{10, 15}, 'a', ~0}, {{10, 15}, 'A', LANG_LOOSE},
    };
    lo += d->base, hi += d->base;
    if (d->kind == LANG_BYTE) lang__out_byte(o, from, (uint8_t)lo, (uint8_t)hi, to);
    for (size_t i = 0; d->kind == LANG_HEX && i < sizeof hex / sizeof *hex; i++) {
        const gram_range both = gram_range_and((gram_range){lo, hi}, hex[i].of);
        const uint32_t   less = hex[i].of.lo - hex[i].first;
        if (both.lo <= both.hi && (o->when & hex[i].when))
            lang__out_byte(o, from, (uint8_t)(both.lo - less), (uint8_t)(both.hi - less), to);
    }
}

/* A fixed text before the state `to`. */
static void lang__out_text(lang_out *o, int32_t from, const char *text, int32_t to) {
    for (const char *c = text; *c; c++) {
        const int32_t next = c[1] ? gram_state(o->g) : to;
        lang__out_byte(o, from, (uint8_t)*c, (uint8_t)*c, next);
        from = next;
    }
}

/* The values of `n` ranges that have this digit above their lowest `rest` bits, without it; returns their number. The
 * first range reaches the digit. */
static size_t lang__below(const gram_range *r, size_t n, uint32_t digit, unsigned rest, gram_range *out) {
    const gram_range all = {digit << rest, (digit << rest) + (1u << rest) - 1};
    size_t           m = 0;
    for (; m < n && r[m].lo <= all.hi; m++) {
        const gram_range both = gram_range_and(r[m], all);
        out[m] = (gram_range){both.lo - all.lo, both.hi - all.lo};
    }
    return m;
}

static void lang__out_form(lang_out *o, const lang_form *f, int at, const gram_range *r, size_t n, int32_t from,
                           int32_t to);   /* calls lang__out_tail, which calls it for the next digit */

/* Bits of the digits from `at` on. */
static uint32_t lang__bits(const lang_form *f, int at) {
    uint32_t bits = 0;
    for (const lang_digit *d = &f->digit[at]; d->kind != LANG_STOP; d++) bits += d->bits;
    return bits;
}

/* The state in which the values r of the digits from `at` on begin. Recursion: at most the digits of a form. */
static int32_t lang__out_tail(lang_out *o, const lang_form *f, int at, const gram_range *r, size_t n, int32_t to) {
    if (f->digit[at].kind == LANG_STOP) return to;
    uint32_t *key = mem_new(3 + 2 * n, sizeof *key);
    /* no two forms have other digits after one of this kind with so many bits of its own and after it */
    key[0] = (uint32_t)f->digit[at].kind << 8 | f->digit[at].bits, key[1] = lang__bits(f, at), key[2] = (uint32_t)to;
    if (n) memcpy(key + 3, r, n * sizeof *r);
    const uint32_t known = o->key.n, id = lang__seqs_add(&o->key, key, 3 + 2 * n);
    mem_free(key);
    if (id < known) return o->tail[id];
    o->tail = mem_reserve(o->tail, id, UINT32_MAX, sizeof *o->tail);
    const int32_t s = o->tail[id] = gram_state(o->g);
    lang__out_form(o, f, at, r, n, s, to);
    return s;
}

/* Writes the values r from digit `at` on. Digits in a row that every value may follow are one edge. */
static void lang__out_form(lang_out *o, const lang_form *f, int at, const gram_range *r, size_t n, int32_t from, int32_t to) {
    const lang_digit *d = &f->digit[at];
    const uint32_t    rest = lang__bits(f, at + 1);
    if (d->kind == LANG_TEXT) {
        lang__out_text(o, from, d->text, lang__out_tail(o, f, at + 1, r, n, to));
        return;
    }
    gram_range *below = mem_new(n, sizeof *below);
    for (uint32_t v = 0, i = 0, last; i < n; v = last + 1) {
        if (v < r[i].lo >> rest) v = r[i].lo >> rest;
        const uint32_t full = (r[i].hi + 1) >> rest;  /* the first digit after those that the range covers */
        const bool     covers = r[i].lo <= v << rest && v < full;
        const size_t   m = covers ? 1 : lang__below(r + i, n - i, v, rest, below);
        if (covers) below[0] = (gram_range){0, (1u << rest) - 1};
        last = covers ? full - 1 : v;
        lang__out_digit(o, d, from, v, last, lang__out_tail(o, f, at + 1, below, m, to));
        while (i < n && r[i].hi >> rest <= last) i++;
    }
    mem_free(below);
}

/* One character of a class of symbols. */
static void lang__out_class(lang_out *o, int32_t from, const gram_range *cls, size_t n, int32_t to) {
    gram_range *r = mem_new(n, sizeof *r);
    for (size_t i = 0; i < sizeof lang__forms / sizeof *lang__forms; i++) {
        const lang_form *f = &lang__forms[i];
        size_t           m = 0;
        for (size_t k = 0; k < n && (f->when & o->when); k++) {
            const gram_range both = gram_range_and(lang__codes(cls[k]), (gram_range){f->lo, f->hi});
            if (both.lo <= both.hi) r[m++] = (gram_range){both.lo - f->less, both.hi - f->less};
        }
        if (m) lang__out_form(o, f, 0, r, m, from, to);
    }
    mem_free(r);
}

static int lang__target_order(const void *x, const void *y) {
    const lang_edge *a = x, *b = y;
    return a->to != b->to ? lang__compare(a->to, b->to) : lang__compare(a->lo, b->lo);
}

/* The edges of one state; those with one target are one class. to: [d->n]. */
static void lang__out_edges(lang_out *o, const lang_dfa *d, uint32_t s, int32_t from, const int32_t *to) {
    const uint32_t n = d->first[s + 1] - d->first[s];
    lang_edge     *e = mem_new(n, sizeof *e);
    gram_range    *r = mem_new(n, sizeof *r);
    if (n) memcpy(e, d->edge + d->first[s], n * sizeof *e);
    qsort(e, n, sizeof *e, lang__target_order);
    for (uint32_t i = 0, k; i < n; i = k) {
        for (k = i; k < n && e[k].to == e[i].to; k++) r[k - i] = (gram_range){e[k].lo, e[k].hi};
        lang__out_class(o, from, r, k - i, to[e[i].to]);
    }
    mem_free(r);
    mem_free(e);
}

/* In front of each state from which few words go on: one of them is left. gate: [d->n], as the states. */
static void lang__out_gates(lang_out *o, const lang_dfa *d, int32_t *state, int32_t *gate) {
    uint64_t *count = mem_new(d->n, sizeof *count);   /* 0: no end */
    lang__finite(d, count, LANG_FEW);
    for (uint32_t s = 0; s < d->n; s++) {
        if (!count[s] || count[s] == LANG_FEW) continue;
        gate[s] = gram_state(o->g);
        gram_op_edge(o->g, gate[s], (gram_op){.kind = GRAM_SPARE, .a = count[s]}, state[s]);
    }
    mem_free(count);
}

static void lang__out_dfa(lang_out *o, int32_t from, const lang_dfa *d, int32_t to) {
    int32_t *state = mem_new(d->n, sizeof *state), *gate = mem_new(d->n, sizeof *gate);
    for (uint32_t s = 0; s < d->n; s++) state[s] = gate[s] = gram_state(o->g);
    if (o->apart) lang__out_gates(o, d, state, gate);
    if (d->n) gram_eps(o->g, from, gate[0]);
    for (uint32_t s = 0; s < d->n && !gram_failed(o->g); s++) {
        lang__out_edges(o, d, s, state[s], gate);
        if (d->ends[s]) gram_eps(o->g, state[s], to);
    }
    mem_free(state), mem_free(gate);
}

/* Where the body of a count goes: between *from and *to, which are states of a loop or of a rule that is counted. */
static void lang__out_count(gram *g, uint64_t min, uint64_t max, int32_t from, int32_t to, int32_t *body, int32_t *body_end) {
    if (max == UINT64_MAX && min <= 1) {
        *body = gram_state(g), *body_end = min ? gram_state(g) : *body;
        gram_eps(g, from, *body);
        if (min) gram_eps(g, *body_end, *body);
        gram_eps(g, *body_end, to);
    } else if (max == 1) {
        *body = from, *body_end = to;
        if (!min) gram_eps(g, from, to);
    } else {
        const int32_t rule = gram_rule(g, NULL);
        *body = gram_begin(g, rule), *body_end = gram_end(g, rule);
        gram_repeat(g, from, rule, min, max, to);
    }
}

/* Characters of a class, min to max of them. */
static void lang__out_span(lang_out *o, int32_t from, const lang *l, int32_t to) {
    int32_t body, end;
    if (!l->n_cls) gram_eps(o->g, from, to);
    if (!l->n_cls) return;
    lang__out_count(o->g, l->min, l->max, from, to, &body, &end);
    lang__out_class(o, body, l->cls, l->n_cls, end);
}

/* The shorter words of a tall language, so that it has about LANG_BRIEF states. NULL: over the budget. */
static const lang *lang__brief(const lang *l) {
    uint64_t    most = max_u64(LANG_BRIEF / lang_states(l->base), lang__shortest(&l->base->dfa, NULL));
    const lang *one = lang__combine(l->home, LANG_AND, l->base, lang_length(l->home, 0, min_u64(most, l->max)));
    return one;
}

static void lang__out(lang_out *o, int32_t from, const lang *l, int32_t to) {
    if (l && l->base && o->when == LANG_STRICT) l = lang__brief(l);
    const bool      count = l && l->span && (!o->append || !l->max);
    const lang_dfa *d = l && !count ? lang__dfa(l) : NULL;
    if (count) lang__out_span(o, from, l, to);
    else if (d) lang__out_dfa(o, from, d, to);
    else gram_fail(o->g, "a language of texts is too large: more than %zu states and edges", l ? l->home->budget : 0);
    lang__out_drop(o);
}

/* Edges for one character of n ranges, as UTF-8; surrogates are left out. The ranges may overlap and are in any
 * order. A byte leads to one state alone. */
static void lang_chars(gram *g, int32_t from, const gram_range *r, size_t n, int32_t to) {
    gram_range *cls = mem_new(n, sizeof *cls);
    lang_out    o = {.g = g, .when = LANG_PLAIN};
    if (n) memcpy(cls, r, n * sizeof *cls);
    lang__out_class(&o, from, cls, lang__to_symbols(cls, n), to);
    lang__out_drop(&o);
    mem_free(cls);
}

/* The words of l, as UTF-8. */
static void lang_emit(gram *g, int32_t from, const lang *l, int32_t to) {
    lang__out(&(lang_out){.g = g, .when = LANG_PLAIN}, from, l, to);
}

/* The words of l as the inside of a JSON string, of a tall language the shorter ones. loose: in every spelling that JSON
 * allows; else each character in one way. append: GRAM_APPEND with every byte. In loose form the language of all texts
 * takes lone surrogates as well (\ud800), which are in no other language. */
static void lang_emit_json(gram *g, int32_t from, const lang *l, bool loose, bool append, int32_t to) {
    const int when = !loose ? LANG_STRICT : LANG_LOOSE | (lang_is_all(l) ? LANG_LONE : 0);
    lang__out(&(lang_out){.g = g, .when = when, .append = append}, from, l, to);
}

/* The words of l as the inside of a JSON string, each character in one way, with GRAM_APPEND. GRAM_DISTINCT comes after
 * them: where few words are left that go on as the text does, one of them must not have come yet. So a text that is alive
 * can be completed, as long as each character from which few go on is one byte. */
static void lang_emit_apart(gram *g, int32_t from, const lang *l, int32_t to) {
    lang__out(&(lang_out){.g = g, .when = LANG_STRICT, .append = true, .apart = true}, from, l, to);
}

/* --- regular expressions: text to nodes. Two kinds are read: those of JSON Schema (ECMA-262), and those of Python's
 * re. --- */

enum {
    LANG_TEXT_MAX = 1 << 20,                          /* bytes of an expression */
    LANG_LOOKS = 64,                                  /* lookaheads of an expression */
    LANG_RANGES = 1 << 22,                            /* ranges of all its classes: of \w there are 700 */
};

enum { LANG_I = 1, LANG_M = 2, LANG_S = 4, LANG_X = 8, LANG_A = 16, LANG_U = 32 };      /* flags (?imsxau) */

typedef enum { LANG_EMPTY, LANG_CLASS, LANG_CAT, LANG_ALT, LANG_REPEAT, LANG_AT, LANG_LOOK } lang_kind;

/* Places that an expression asks for. */
typedef enum { LANG_BEGIN, LANG_LINE_BEGIN, LANG_END, LANG_LAST_LINE /* the end, or before a final newline */,
               LANG_LINE_END, LANG_EDGE, LANG_NO_EDGE } lang_place;

typedef struct {
    lang_kind  kind;
    lang_place place;                                 /* LANG_AT */
    bool       negated;                               /* LANG_LOOK */
    bool       nullable;                              /* the empty text is one of its texts */
    uint32_t   cls;                                   /* LANG_CLASS */
    uint32_t   child, next;                           /* the first part; the next part of the node above. 0: none */
    uint64_t   min, max;                              /* LANG_REPEAT; UINT64_MAX: no bound */
    size_t     at;                                    /* where it begins in the expression */
} lang_node;

typedef struct {                                      /* a group that is open */
    uint32_t first_alt;                               /* alternatives before this one; 0: none */
    uint32_t last_alt;
    uint32_t first;                                   /* parts of this one; 0: none */
    uint32_t last;
    uint32_t part;                                    /* the last part, to which a count may belong; 0: none */
    enum { LANG_ATOM, LANG_PLACE, LANG_COUNTED } was; /* what it is */
    int      flags;                                   /* of the text after the group */
    bool     look, negated;
    size_t   at;
} lang_open;

typedef struct {
    bytes      text;
    size_t     at;
    bool       python;
    err_t     *e;
    int        flags;
    bool       ascii;                                 /* words between places are ASCII's */
    lang_node *node;
    uint32_t   n_node;
    lang_open *open;
    size_t     n_open;
    lang_seqs  classes;                               /* of symbols: lo, hi of each range */
    lang_seqs  names;                                 /* of groups */
    gram_range *set;                                  /* the class that is read: code points */
    size_t     n_set;
    size_t     n_ranges;                              /* of all classes so far */
    uint32_t   n_at, n_look;                          /* nodes of these kinds */
} lang_rx;

typedef struct { char p[24]; } lang_shown;

/* What is at a byte, for messages. */
static lang_shown lang__shown(const lang_rx *x, size_t at) {
    lang_shown s = {"the end"};
    const int  len = at < x->text.n ? utf8_len(x->text.p + at, x->text.n - at) : 0;
    if (at < x->text.n && !len) snprintf(s.p, sizeof s.p, "byte 0x%02x", x->text.p[at]);
    else if (len) snprintf(s.p, sizeof s.p, "'%.*s'", len, x->text.p + at);
    return s;
}

static bool lang__bad(lang_rx *x, size_t at, const char *expected) {
    return err_set(x->e, EXIT_INPUT, "byte %zu: found %s, expected %s", at + 1, lang__shown(x, at).p, expected);
}

/* A form that is no regular language, or not one that is read here. */
static bool lang__unheld(lang_rx *x, size_t at, const char *what) {
    return err_set(x->e, EXIT_INPUT, "byte %zu: found %s, which is not supported", at + 1, what);
}

static uint32_t lang__node(lang_rx *x, lang_kind kind, size_t at) {
    if (!x->n_node) MEM_PUSH(x->node, x->n_node, (lang_node){0});        /* 0 is no node */
    return MEM_PUSH(x->node, x->n_node, (lang_node){.kind = kind, .at = at});
}

/* --- classes --- */

static void lang__set_add(lang_rx *x, uint32_t lo, uint32_t hi) {
    x->n_ranges++;
    MEM_PUSH(x->set, x->n_set, (gram_range){lo, hi});
}

/* Replaces the set from `first` on by what is not in it. */
static void lang__set_negate(lang_rx *x, size_t first) {
    lang__set_add(x, 0, 0);                           /* room for one range more */
    gram_range *const r = x->set + first;
    x->n_set = first + gram_ranges_negate(r, gram_ranges_join(r, x->n_set - 1 - first));
}

static uint32_t lang__class_of(lang_rx *x, const gram_range *r, size_t n) {
    return lang__seqs_add(&x->classes, (const uint32_t *)r, 2 * n);
}

/* The set as a class of symbols; surrogates are left out. The set is empty afterwards. */
static uint32_t lang__set_class(lang_rx *x) {
    const uint32_t id = lang__class_of(x, x->set, lang__to_symbols(x->set, x->n_set));
    x->n_set = 0;
    return id;
}

static const gram_range *lang__class(const lang_rx *x, uint32_t id, size_t *n) {
    const uint32_t *p = lang__seq(&x->classes, id, n);
    *n /= 2;
    return (const gram_range *)p;
}

/* Characters by their general category (Unicode 14.0): rows made by tests/gen/unicode.py --categories. Surrogates and
 * what is not assigned are in none. */
typedef enum {
    LANG_LU, LANG_LL, LANG_LT, LANG_LM, LANG_LO, LANG_MN, LANG_MC, LANG_ME, LANG_ND, LANG_NL, LANG_NO, LANG_PC, LANG_PD,
    LANG_PS, LANG_PE, LANG_PI, LANG_PF, LANG_PO, LANG_SM, LANG_SC, LANG_SK, LANG_SO, LANG_ZS, LANG_ZL, LANG_ZP, LANG_CC,
    LANG_CF, LANG_CO, LANG_CATEGORIES,
    LANG_TO_LOWER = LANG_CATEGORIES, LANG_TABLES
} lang_category;

static const char *const lang__packed[LANG_TABLES] = {
    [LANG_LU] =
        "hCyBmDsBCMiB3BDPDvBBFECCDBDBCDGCCCEECCCCFBDDDBDBCCDBAEAIADADADPDRDADDBCC5BICCCDDBECHiJDEAJAHDBCCDBDBeCQkBADEEXGADDBADkD"
        "xBhBK3BBND/CDqCq6CqCCAGAzWqF7kC0CDEhK1EKhDKOJKLOJOJKMHJOpCGNGNGNIMGnIAFAEEDEDAEIHHBEDGLCGA+BA9zC+CxBDBCDHBECADAJEChDJDF"
        "AuqetBUboENE9BLFBJFDDDEVBGCICPBECAHAGDdAs5VyBmmBuCpEmC9EUCcCMCCr3BkDu/C+BhsV+BhtZyBbyBbyBbDBADADCDGCObyBbCCGDOCMcCCGCIC"
        "AEMcyBbyBbyBbyBbyBbyBfwBiBwBiBwBiBwBiBwBiBA2pEiC",
    [LANG_LL] =
        "hDyB7BAqBuBCOC3BBRBvBDFBCDDDAECFADAEEDADFDDBDDAEDDCDEHADADRBTBADDE7BBKDADCCAFJBmEC0BiGDEAEETAckCCCEECXBGCADADC0B+CChBK1"
        "BDNBhDxBwCo6C0CDE5XKjkCQ4D2CgCYCiCnD1EBOChDBOJKLOJOJKLOJOJaDOJOJOJICCHAEECCJGDCJOLECCzIAECEAcAFAFADCJGFA2BAs1C+CCAECCFF"
        "DBDBIGjDBAIDFANqCCAGA0oetBUboENBCC/BBMCDDJFDDDBCCTGAGPFDHJdAEA2Z0CGQI+Eh6TMNIqhByBumBuCpEmC8EUCcCMCCk4BkDu+C+BhsV+B7sZy"
        "BbMCiBbyBbGCDBKCUbyBbyBbyBbyBbyBbyBbyBbyBb2BdwBCKbwBCKbwBCKbwBCKbwBCKCA15BSCmBkwCiC",
    [LANG_LT] = "lOADADAnBA2sHOJOJONAQAwBA",
    [LANG_LM] =
        "wViBFWPIIDmEAGA/OAnHAlFCuICFAgBAKAEAhFAoFA1mBAgEA2RA72BAsDAkTAxOKvF8DOAjBoCyVAOARYg/CCyHAgGA2OAsBIGAiDC+CE34bAjnBKvIAzD"
        "AdC6DQxCAYAqDEEC2OAXAqEAtDAWCoDGKAngVAuBCh/BKCyCCQm8YGwiBYhCCCAtgQGCMCC5pMMugCA",
    [LANG_LO] =
        "qFAQAhIAFGxGA8Z0BFGuB+BCSkBCCkGCAZCLEDARDB4BewFMAZgCWqBrBwBIUGuBCKSwC8BqDEATAISRcFODCDqBCMCAEGEARAOCCEPCLAJKFCDqBCMCCCC"
        "CCgBGCAUERQCECqBCMCCCIEATAQCYAMODCDqBCMCCCIEAfCCEQASDBIEECGECCDBAECEEEWXA1BOCECsBCeEAbEDADCfAFOCECsBCSCIEAgBCCCQCSQCECw"
        "CDARAGEJEZKGiBEuBCQCADM7B+CCCNK8BCCDBGCuBCDBQCCKADIYGhBAgCOCmCcI0D0CVARKFGEAECIEFYNAyDwUCGDMCDBEDwCCGDgCCGDMCDBEDcCwDCG"
        "DkEmBeyD2mBDgBCyBG0EHOIiBOkBPiBPYCEQmDpBAkCkCCoDIIDiCCAGqEL8ByB6BDIM2CFyB3BsBKoDxF8CSO3B6BOCL2CbmCqBEL6ByDGCKCCEA7hBG4/"
        "CuDZsBKMCMCMCMCMCMCMCMoRA2BAFqFJDBwFFAG0CC6FS+BxBehQ+7MhCohpBCsnCkCuCJ2QFeLCjCAyBqEqFAoDAEMCECGCsBemDPiD/BKEDBAM2BLsBa4"
        "BI8CuBIDQLICwCYECOVeCKEAEiDCAECDIDDZCEUIAPKDKDKKMCMyEkCem6VNsBFgDloI6WDyGkCDBQCYCICDBDBDB0GiB0WT+DDqDpBW1DICsIqDSC4CD8B"
        "EKDKDKDEkBWCyBCkBCCCcDajB0HmM4BEgDwB+BOmBCOHqCL6BDmCFOhE6EjDuCJmD9EsTKqBLO5EKDDB0CCCEADsBLsBK8BiCkBCCLqBLyBnCuDHChCAQGC"
        "EC4BrB4BE4BkBOC2BcqDLqBLkBOiBvDwE4FmC9KyCHCvC4BLAJqBrBiBvBoBcsBNoD6BCDAO4ChBwBbmCeADAJkCEAN+CPGWDkBiBCwB1CMCDBECcCSI8Cn"
        "BODCDqBCMCCCIEATANI/EoDTGVEf+CVCCA5F8CqBGlB+CVA8B0COAoC0BmBM6F2C0GODADOCCCuBQD/CODsCRDdALuCIAWAM6CUATwEoIQCoCSAyB6BxDMC"
        "CCqCWAaKCCC+BPAoKkB+FAwCy5BnHmMtyCgGQ8iCy+DskB6tIwjBI8BS8ES6BT+C0BoBGkBxb0EGAwFu/LJqtCrBQ43IkSuBESGJ2YloC0GGYEQISxzIA2P"
        "4CiBAiK6BT2C1nBMCGCCCcCoM8pBGC0BCCCADDBQCGCDHAFHBCCCCADLBDDGCMCGCGCDBQCgBGECICgBlqE+tzChBwjII6NDioLPgzOghD6hBjvB00J",
    [LANG_MN] =
        "gY+G0IIqI4CCDBDBDpCUxBoBRAmDMDKDCCGkBAf0B8CU7BQKAZGCQCECIsBE9BOrBuBC+B4BDFOFAEMLCeA7BAFGJAVCbADC6BAFCFCDEEAfCEAMC6BAFIC"
        "CFAVCXKCA7BADDBEJAICMCfA+BANAzBAEA4BDBCGECGICMCeA7BADAHAGCVCdC6BCFGJAVCeApCAIECA7CADMNOjDADQMKrCCcF4BaCICCGUCmCKAnDGCKC"
        "CDCaCFERGOADCHAQAgWEzdEeCfCfChCCCMJADUKAuBECA2DCjBA3DEFCKAHE8GCDA7BDBKCDDOHSDAxBaCeyBGxBDBGCAGApBQNChBGDCCE5BDBAEDBC7BO"
        "DC5EECYCMFAHAECnG+DxWYFAEW//CEuEAhD+BrRGsDC1udAFShBCxCCxIAEAFAaCGA4ECbiBOAnBOaUvBExBADGDCoBAkCKDCDCNAJAwBA0BDBCDCGCCArB"
        "CJAvHADAFAx5TAiXeReueAjHA2EIn0BECCGGpBEFAmFC+RGkMC6EUyBG8DA3BcqBADCLEyBGDCIA+BElBICO/BANC1BQLGDAgDEDDBAHAhFAEOWC6BCEAmB"
        "MEIkGODECAYA1CKCAFCCCvHGHCCCcC2CODDBArDDDKCAmDEDGCIkIQCChICCAFAxEGDCFAhBSpBKDGJAKKDEvBYCC3MMCKCAzCqBDMCCCC7DKEDBDBKCApC"
        "CED8KC8/SI8BM5gBAgCGyCA5lTCizE6CDsBhRESODMfG1EE89BsDFiDJAPAXICcxqBMCgBDMCCCImIM4LA+BGhvBMuDM29lY+O",
    [LANG_MC] =
        "joCA4BADEJGCCzBC7BEHCDCLAsBA7BEjCA7BEJDBA2BC7BDHCDCLAnDCCCEECELAqBE+BG+BC7BDBGDCCCKCsBC7BEGECELArBCsCEHOTCrKCgCAsFCFAHA"
        "DCaCLEDMWCDKDALE5zBAfAiEAIOCC7KGDEFCCKhHC7BDKDBAJKyEAxBAGDBGCC+BAfAFCDA9BADECAECxBOJCsFAWA35EC0/dCDA5CCzBevECwBAxBCFCDE"
        "vDCDCZAuBDuDADCGAuHCCCCCCA0gZDgEAuBEFC0DAZC8BAxBEKCOA+CEECCArFEgBC7BCCGDCDEKALCyGEJCEArDEHDBEDAuHEHGDAyDEJCCAuDDBAHAqDC"
        "FAmIEKA4HKCCFADDvEEJGFA1CAeC/BA4MAPArDAIADA2GIFCCA/KC7iUsDpDC0rYCHK",
    [LANG_ME] = "okBC1xFA/wBGCEsshBE",
    [LANG_ND] =
        "wBSnxBSnESnGS9MS3DS3DS3DS3DS3DS3DS3DS3DS3DShDS3DSnCS3ISnCSn6BSnBStJShESnFSHS3FS3CSnESHSnuiBSnVSnBSnGSXS3CS3MS34USnsBSnk"
        "CStZShES9BSxES3IS3KS3DS3LSnDSnDSnNSnDS3XS3HSnCS3lTS3CSnES1jbiDhqCSnNS3yBS30ES",
    [LANG_NL] = "u3FEwzCkCDG/zDAaQPEs1dSxyWoDtOAJAnEIrhI8G",
    [LANG_NO] =
        "yFCGADE2pCK5LK5DEmEM6GMSQyNS2hBmB0jBShPA20BAEKHSnGeqBA3W2DvCqB3T6BqrBA1kBGrESfOCchBSoBcxrdKymW4CiCGSC2K0BlBG1pBOaMoBQsC"
        "IXKhFCDeD6ChCQ1BCfEsCIpDOZOqBMrKKhL8B/ESrBGxDMnEmB8LmBmqBCvNQobkB0aoBn8SM/YsBqiZmBtDwBvqFQid0DCECGtC4CCcjeY",
    [LANG_PC] = "/CAg/HCUA/u3BCZEwHA",
    [LANG_PD] = "tBA9qBA0BAiyDAmgBAqgCKiwDADAgBCFAdA/NAUAwDAxszBCmBALAqFAg9DA",
    [LANG_PS] = "oBAzBAgBA/1DD/6BA/rCAEAnBA4BAQA7TDfA/hBNxCAhBJ1MVhCDiBAmhBHaATHtNJEHDAipzBA4GAePEASFrFAzBAgBAEADA",
    [LANG_PE] = "pBA0BAgBA+1DD/6BAqtCA4BAQA7TDfA/hBNxCAhBJ1MVhCDiBAmhBHtBHtNJEHDC/ozBA6GAePEASFrFA0BAgBADADA",
    [LANG_PI] = "rFAt7HADCDAaApuDDFADAQAEA",
    [LANG_PF] = "7FA+6HAEAdApuDDFADAQAEA",
    [LANG_PO] =
        "hBECEDFBALCECcAlCAGAPCIA/VAJAzOKqBA3BADADAtBCVCCCODBCrCGnDAsBaqHE3BcgBAmICLAtEA5DA6DAnMANAwLA7CALCpFcCAxDArCIFCwDKsFAlT"
        "QmYA9DEoCC+EECEmBKCG6JC5GChEMCKtFMdC+DG8BI/BChCOMAjaCJOJQDGDEEUCDBQ7kDGCCxDAwECFEDADQCCCADCLICSDGCDBWDEtNE6BA+FAjgdCuIE"
        "kDALA0DK9LG3CCpBECAyBCwBAiDYRC9DG/DCRC6HAlxUMDAXAVCDGEECGIEHDBA2EECEDFBALCECcAlBADC7ME9UAxBA/MAoXAoGAgBAxIQnBAxDMjCM6CG"
        "5dItBG+FMuDCCG/DGxBCwCGFAODBC5CKsDAiNILCCApDA7HsBqDEdYtCAjEE9HApIE8EA9CO0CECI/MIrBCmUCnIAxjBI97CC8zOCmEAiCIJAzaGoKA9lTA"
        "ovHIz2DC",
    [LANG_SM] =
        "rBARE+BDuBAFAmBAgBA/XAwQE8xGAOAoBEOEsEAoBIHAlCIGCFADADAIAgBCDDgB2QhBC7CAfwBpBK2OAKA3BOwDAxKID8BLehIkIX8DF+BDiQxBoBDK9+z"
        "BA5ZDBClFARE+BDkEAHG121BAaAgBAaAgBAaAgBAaAgBAaAt5FC",
    [LANG_SC] = "kBA+DGqnBA8DAzPCzPCIA2HAoIAmSA8sCAlmCgC47hBAkuVAtDA7EA8GCEC3/HG/4wBAxtCA",
    [LANG_SK] = "+CDoCAHAFAEAqQGNaGMCDBe2DAPCjoBA15FDBCMEOEOEOC9kECkzdsBKCoDCxeAPCniUgB8bDjFA4g9BI",
    [LANG_SO] =
        "mFADAFDyeArICgECvGALAUC4HAkQA2LAjEKCAlEAwGAqBAoMEQDBCDKVFmEOCKCCGGmGCxXS0WAzWA+EiCiLSKQksBCCGCCLDBAHKCFFAMCPDBD7BCKIDGC"
        "CCCCMC8BDCCDB6BtIOFmBDMDgFC6BauCHoEaUyC6EXsLCQCqDJ8GCuPtB2ChC+PhQ+CWCHsCD+BCwGmHKmLCvByBCwFNqNbWJAOCNAWCHCxKCFShBmCd8BM"
        "6BJAQ+BLsCQ+ThuG+Dx0VsDibGLCCA+REn2UegEAuBElPAEAFCOC6JQ6BgBDECYEAwB4C7zBCwSA3jDA2kCOFgBr6SGGA3qUA01EmH9BqPLsCD2DGEXCI6B"
        "F4DWiEEA7FsFqlB+f4BGzBOCaCCp2BA96CAiEAyW2CFmGNcDcCcCoCYgK5B4BO2CFQICPK7E0PGutBGeEYEmHNwFIWFAQWFuDJSHuCJ6BDCvCmVNaDIEIEM"
        "K4BEUGKLSHOJMKkJCsD",
    [LANG_ZS] = "gBAgEAgvFAgsCUlBAwBAh9DA",
    [LANG_ZL] = "ohIA",
    [LANG_ZP] = "phIA",
    [LANG_CC] = "A+BgDgC",
    [LANG_CF] = "tFAzqBKXAhGAyBAhMCxCAs5DA9/BIbIyBICSw03BA6HEimEAQAj7IQojiBGwmFOn0rYAf+F",
    [LANG_CO] = "gg4B+vMh4hc6//DD6//D",
    [LANG_TO_LOWER] =
        "hCyBgCmDsBgCCMgCiBvBCCAvMCFCDPCDtBCCAzHBFCEAkNBDCCA8MBACCC6MBACDA+EBA0MBA2MBACCA6MBA+MCAmNBAiNBACEAmNBAqNCAsNBFCCA0NBAC"
        "CA0NDACCA0NBACCCyNBDCCA2NBACEACIAEBACCAEBACCAEBRCDRCDAEBDCCAjGBAxDBnBCCAlICRCIA2iVBACCAnKBAwiVDACCAnMBAqEBAuEBJCiJDCEAC"
        "JAoHHAsCCEqCCAgECC+DCgBgCCQgCkBAQJXCGA5DDACCAPBACDElIBegFB+BgCxBhBCK1BCCAeBNCD/CCDqCgDq6CqCgmOCAgmOGAgmOzW+Eg9rCBKQ7kC0"
        "Ch8FDEh8FhK1ECKA/7OC/CCKORJKRLORJORJKRMHRJORZORJORJORJCRBC1EBATMGtFBATMCRBCpGNCRBChHBAPMChIBC9HBATqJA71OEA/rQBAtkQHA4Bu"
        "BegBUACzZyB0Bx5B+CgDxBACCAv/UBAtuHBAv+UDFCCA5hVBA7/UBA/hVBA9hVCACDACJC/jVBjDCJDCFACuqetBCUbCoENCE9BCLDCCApglCBJCFACCAxy"
        "yCDDCETCCAp0yCBA/0yCBA30yCBAj0yCBAp0yCCAlxyCBA1yyCBArxyCBAg6BBPCCAhDBAn0yCBAxjlCBDCHACGDCdACs5VyBgCmmBuCwCpEmCwC9EUuCCc"
        "uCCMuCCCuCr3BkDgEu/C+BgChsV+BgCh1eiCkC",
};

/* What Python's re takes for equal to a lower-case character without regard to case, beside that itself. */
static const uint32_t lang__cases[][2] = {
    {0x69, 0x131}, {0x73, 0x17f}, {0xb5, 0x3bc}, {0x131, 0x69}, {0x17f, 0x73}, {0x345, 0x3b9}, {0x345, 0x1fbe}, {0x390,
    0x1fd3}, {0x3b0, 0x1fe3}, {0x3b2, 0x3d0}, {0x3b5, 0x3f5}, {0x3b8, 0x3d1}, {0x3b9, 0x345}, {0x3b9, 0x1fbe}, {0x3ba, 0x3f0},
    {0x3bc, 0xb5}, {0x3c0, 0x3d6}, {0x3c1, 0x3f1}, {0x3c2, 0x3c3}, {0x3c3, 0x3c2}, {0x3c6, 0x3d5}, {0x3d0, 0x3b2}, {0x3d1,
    0x3b8}, {0x3d5, 0x3c6}, {0x3d6, 0x3c0}, {0x3f0, 0x3ba}, {0x3f1, 0x3c1}, {0x3f5, 0x3b5}, {0x432, 0x1c80}, {0x434, 0x1c81},
    {0x43e, 0x1c82}, {0x441, 0x1c83}, {0x442, 0x1c84}, {0x442, 0x1c85}, {0x44a, 0x1c86}, {0x463, 0x1c87}, {0x1c80, 0x432},
    {0x1c81, 0x434}, {0x1c82, 0x43e}, {0x1c83, 0x441}, {0x1c84, 0x442}, {0x1c84, 0x1c85}, {0x1c85, 0x442}, {0x1c85, 0x1c84},
    {0x1c86, 0x44a}, {0x1c87, 0x463}, {0x1c88, 0xa64b}, {0x1e61, 0x1e9b}, {0x1e9b, 0x1e61}, {0x1fbe, 0x345}, {0x1fbe, 0x3b9},
    {0x1fd3, 0x390}, {0x1fe3, 0x3b0}, {0xa64b, 0x1c88}, {0xfb05, 0xfb06}, {0xfb06, 0xfb05}
};

/* Names of \p{...}: a category, or several that follow each other. */
static const struct { const char *name, *whole; lang_category first, last; } lang__categories[] = {
    {"L", "Letter", LANG_LU, LANG_LO}, {"LC", "Cased_Letter", LANG_LU, LANG_LT}, {"Lu", "Uppercase_Letter", LANG_LU, LANG_LU},
    {"Ll", "Lowercase_Letter", LANG_LL, LANG_LL}, {"Lt", "Titlecase_Letter", LANG_LT, LANG_LT},
    {"Lm", "Modifier_Letter", LANG_LM, LANG_LM}, {"Lo", "Other_Letter", LANG_LO, LANG_LO}, {"M", "Mark", LANG_MN, LANG_ME},
    {"Mn", "Nonspacing_Mark", LANG_MN, LANG_MN}, {"Mc", "Spacing_Mark", LANG_MC, LANG_MC},
    {"Me", "Enclosing_Mark", LANG_ME, LANG_ME}, {"N", "Number", LANG_ND, LANG_NO}, {"Nd", "Decimal_Number", LANG_ND, LANG_ND},
    {"Nl", "Letter_Number", LANG_NL, LANG_NL}, {"No", "Other_Number", LANG_NO, LANG_NO}, {"P", "Punctuation", LANG_PC, LANG_PO},
    {"Pc", "Connector_Punctuation", LANG_PC, LANG_PC}, {"Pd", "Dash_Punctuation", LANG_PD, LANG_PD},
    {"Ps", "Open_Punctuation", LANG_PS, LANG_PS}, {"Pe", "Close_Punctuation", LANG_PE, LANG_PE},
    {"Pi", "Initial_Punctuation", LANG_PI, LANG_PI}, {"Pf", "Final_Punctuation", LANG_PF, LANG_PF},
    {"Po", "Other_Punctuation", LANG_PO, LANG_PO}, {"S", "Symbol", LANG_SM, LANG_SO}, {"Sm", "Math_Symbol", LANG_SM, LANG_SM},
    {"Sc", "Currency_Symbol", LANG_SC, LANG_SC}, {"Sk", "Modifier_Symbol", LANG_SK, LANG_SK},
    {"So", "Other_Symbol", LANG_SO, LANG_SO}, {"Z", "Separator", LANG_ZS, LANG_ZP}, {"Zs", "Space_Separator", LANG_ZS, LANG_ZS},
    {"Zl", "Line_Separator", LANG_ZL, LANG_ZL}, {"Zp", "Paragraph_Separator", LANG_ZP, LANG_ZP},
    {"Cc", "Control", LANG_CC, LANG_CC}, {"Cf", "Format", LANG_CF, LANG_CF}, {"Co", "Private_Use", LANG_CO, LANG_CO},
};

static chars_range    lang__pool[3400];
static chars_table    lang__set[LANG_TABLES];
static pthread_once_t lang__unpacked = PTHREAD_ONCE_INIT;

typedef struct { uint32_t from, to; } lang_case;      /* code points that differ in case */
static lang_case lang__pair_of[2][1500];              /* [n_pair] by `from`: to lower case, and back */
static size_t    lang__n_pair;

static int lang__case_order(const void *a, const void *b) {
    const lang_case *x = a, *y = b;
    return x->from < y->from ? -1 : x->from > y->from;
}

static void lang__unpack(void) {
    const chars_table *t = &lang__set[LANG_TO_LOWER];
    chars_unpack(lang__set, lang__packed, LANG_TABLES, LANG_TO_LOWER, LANG_TABLES, lang__pool,
                 sizeof lang__pool / sizeof *lang__pool);
    for (size_t i = 0; i < t->n; i++)
        for (uint32_t c = t->at[i].at[0]; c <= t->at[i].at[1]; c += t->at[i].at[2]) {
            const uint32_t lower = c + t->at[i].at[3];
            ASSERT(lang__n_pair < sizeof lang__pair_of[0] / sizeof *lang__pair_of[0]);
            lang__pair_of[0][lang__n_pair] = (lang_case){c, lower}, lang__pair_of[1][lang__n_pair++] = (lang_case){lower, c};
        }
    for (int i = 0; i < 2; i++) qsort(lang__pair_of[i], lang__n_pair, sizeof *lang__pair_of[i], lang__case_order);
}

/* Adds the characters of some categories. */
static void lang__set_categories(lang_rx *x, lang_category first, lang_category last) {
    pthread_once(&lang__unpacked, lang__unpack);
    for (unsigned i = first; i <= (unsigned)last; i++)
        for (size_t k = 0; k < lang__set[i].n; k++) {
            const uint32_t *r = lang__set[i].at[k].at, step = r[2];
            for (uint32_t c = r[0]; step > 1 && c <= r[1]; c += step) lang__set_add(x, c, c);
            if (step == 1) lang__set_add(x, r[0], r[1]);
        }
}

/* \d \w \s, and what a dot does not take. */
static const gram_range lang__digits[] = {{'0', '9'}},
                        lang__words_of[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                        lang__blanks[] = {{9, 13}, {' ', ' '}},
                        lang__blanks_python[] = {{9, 13}, {28, 32}, {0x85, 0x85}, {0xa0, 0xa0}, {0x1680, 0x1680},
                                                 {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f},
                                                 {0x3000, 0x3000}},
                        lang__blanks_ecma[] = {{9, 13}, {' ', ' '}, {0xa0, 0xa0}, {0x1680, 0x1680}, {0x2000, 0x200a},
                                               {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000},
                                               {0xfeff, 0xfeff}},
                        lang__newline[] = {{'\n', '\n'}}, lang__newline_ecma[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

#define LANG__ALL_OF(r) (r), sizeof(r) / sizeof *(r)

static void lang__set_put(lang_rx *x, const gram_range *r, size_t n, bool negated) {
    const size_t first = x->n_set;
    for (size_t i = 0; i < n; i++) lang__set_add(x, r[i].lo, r[i].hi);
    if (negated) lang__set_negate(x, first);
}

/* Adds the other case of ASCII letters. */
static void lang__fold_ascii(lang_rx *x) {
    for (size_t i = 0, n = x->n_set; i < n; i++)
        for (uint32_t c = 'A'; c <= 'Z'; c++) {
            if (x->set[i].lo <= c && c <= x->set[i].hi) lang__set_add(x, c | 0x20, c | 0x20);
            if (x->set[i].lo <= (c | 0x20) && (c | 0x20) <= x->set[i].hi) lang__set_add(x, c, c);
        }
}

/* Adds what differs in case from characters of the first n ranges, which are sorted: their lower case, or (back) those
 * whose lower case they are. */
static void lang__fold_by(lang_rx *x, size_t n, bool back) {
    const lang_case *pair = lang__pair_of[back];
    for (size_t i = 0, k; i < n; i++) {
        const gram_range r = x->set[i];
        for (k = mem_u32_find(&pair->from, lang__n_pair, sizeof *pair, r.lo); k < lang__n_pair && pair[k].from <= r.hi; k++)
            lang__set_add(x, pair[k].to, pair[k].to);
    }
}

/* Where the flag says so, adds what differs in case alone: in Python, without the flag a, as its re has it. */
static void lang__set_fold(lang_rx *x) {
    if (!(x->flags & LANG_I)) return;
    if (!x->python || (x->flags & LANG_A)) {
        lang__fold_ascii(x);
        return;
    }
    pthread_once(&lang__unpacked, lang__unpack);
    lang__fold_by(x, x->n_set = gram_ranges_join(x->set, x->n_set), false);
    const size_t n = x->n_set = gram_ranges_join(x->set, x->n_set);
    for (size_t i = 0; i < sizeof lang__cases / sizeof *lang__cases; i++)
        if (lang__in_class(x->set, n, lang__cases[i][0])) lang__set_add(x, lang__cases[i][1], lang__cases[i][1]);
    lang__fold_by(x, x->n_set = gram_ranges_join(x->set, x->n_set), true);
}

/* The word characters of Python: letters, numbers and '_'. */
static void lang__set_words(lang_rx *x) {
    lang__set_categories(x, LANG_LU, LANG_LO);
    lang__set_categories(x, LANG_ND, LANG_NO);
    lang__set_add(x, '_', '_');
}

/* The class of an escape's letter: ASCII's in JSON Schema, but for blanks; Unicode's in Python, without the flag a. False:
 * the letter has none. */
static bool lang__set_letter(lang_rx *x, uint8_t c) {
    const bool   negated = c == 'D' || c == 'W' || c == 'S', wide = x->python && !(x->flags & LANG_A);
    const size_t first = x->n_set;
    switch (c | 0x20) {
    case 'd':
        if (wide) lang__set_categories(x, LANG_ND, LANG_ND);
        else lang__set_put(x, LANG__ALL_OF(lang__digits), false);
        break;
    case 'w':
        if (wide) lang__set_words(x);
        else lang__set_put(x, LANG__ALL_OF(lang__words_of), false);
        break;
    case 's':
        if (wide) lang__set_put(x, LANG__ALL_OF(lang__blanks_python), false);
        else if (x->python) lang__set_put(x, LANG__ALL_OF(lang__blanks), false);
        else lang__set_put(x, LANG__ALL_OF(lang__blanks_ecma), false);
        break;
    default: return false;
    }
    if (negated) lang__set_negate(x, first);
    return true;
}

static void lang__set_dot(lang_rx *x) {
    if (x->flags & LANG_S) lang__set_add(x, 0, 0x10ffff);
    else if (x->python) lang__set_put(x, LANG__ALL_OF(lang__newline), true);
    else lang__set_put(x, LANG__ALL_OF(lang__newline_ecma), true);
}

/* --- escapes --- */

static bool lang__more(const lang_rx *x) { return x->at < x->text.n; }
static uint8_t lang__peek(const lang_rx *x, size_t ahead) { return x->text.n - x->at > ahead ? x->text.p[x->at + ahead] : 0; }
static bool lang__take(lang_rx *x, char c) {
    const bool there = lang__more(x) && x->text.p[x->at] == (uint8_t)c;
    x->at += there;
    return there;
}

static bool lang__octal_digit(uint8_t c) { return c >= '0' && c <= '7'; }

/* Exactly n hexadecimal digits. */
static bool lang__hex(lang_rx *x, int n, uint32_t *code) {
    for (*code = 0; n > 0; n--, x->at++) {
        const int v = lang__more(x) ? bytes_hex_digit(x->text.p[x->at]) : -1;
        if (v < 0) return lang__bad(x, x->at, "a hexadecimal digit");
        *code = *code << 4 | (uint32_t)v;
    }
    return *code <= 0x10ffff || lang__bad(x, x->at - 1, "a code point up to 10ffff");
}

/* \u{...} */
static bool lang__hex_braces(lang_rx *x, uint32_t *code) {
    *code = 0;
    do {
        const int v = lang__more(x) ? bytes_hex_digit(x->text.p[x->at]) : -1;
        if (v < 0) return lang__bad(x, x->at, "a hexadecimal digit");
        *code = *code << 4 | (uint32_t)v;
        if (*code > 0x10ffff) return lang__bad(x, x->at, "a code point up to 10ffff");
        x->at++;
    } while (!lang__take(x, '}'));
    return true;
}

/* \uXXXX of ECMA; two of them may be one character. */
static bool lang__hex_pair(lang_rx *x, uint32_t *code) {
    if (lang__take(x, '{')) return lang__hex_braces(x, code);
    if (!lang__hex(x, 4, code)) return false;
    if ((*code & 0xfc00) != 0xd800 || lang__peek(x, 0) != '\\' || lang__peek(x, 1) != 'u' ||
        bytes_hex_digit(lang__peek(x, 2)) < 0)
        return true;
    const size_t before = x->at;
    uint32_t     low;
    x->at += 2;
    if (!lang__hex(x, 4, &low)) return false;
    if ((low & 0xfc00) == 0xdc00) *code = 0x10000 + ((*code & 0x3ff) << 10 | (low & 0x3ff));
    else x->at = before;
    return true;
}

/* Escapes that are one character in both kinds. */
static bool lang__control(uint8_t c, uint32_t *code) {
    static const char letter[] = "fnrtv";
    static const uint8_t is[] = {'\f', '\n', '\r', '\t', '\v'};
    const char *p = c ? strchr(letter, c) : NULL;
    if (p) *code = is[p - letter];
    return p != NULL;
}

/* A digit after a backslash, as Python reads it. */
static bool lang__python_number(lang_rx *x, size_t from, bool in_class, uint32_t *code) {
    const uint8_t a = lang__peek(x, 0), b = lang__peek(x, 1), c = lang__peek(x, 2);
    const bool    three = lang__octal_digit(a) && lang__octal_digit(b) && lang__octal_digit(c);
    if (a != '0' && !(in_class && lang__octal_digit(a)) && !three)
        return in_class ? lang__bad(x, x->at, "an octal digit") : lang__unheld(x, from, "a backreference");
    *code = 0;
    for (int i = 0; i < 3 && lang__octal_digit(lang__peek(x, 0)); i++) *code = *code * 8 + (uint32_t)(x->text.p[x->at++] - '0');
    return *code <= 0377 || err_set(x->e, EXIT_INPUT,
                                    "byte %zu: found an octal number above 377, expected a smaller one", from + 1);
}

static bool lang__python_escape(lang_rx *x, size_t from, bool in_class, uint32_t *code) {
    const uint8_t c = x->text.p[x->at];
    if (c >= '0' && c <= '9') return lang__python_number(x, from, in_class, code);
    x->at++;
    if (lang__control(c, code)) return true;
    switch (c) {
    case 'a': *code = 7; return true;
    case 'x': return lang__hex(x, 2, code);
    case 'u': return lang__hex(x, 4, code);
    case 'U': return lang__hex(x, 8, code);
    case 'N': return lang__unheld(x, from, "a character by its name (\\N)");
    default: *code = c; return !((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || lang__bad(x, x->at - 1, "an escape of Python's re");
    }
}

static bool lang__ecma_escape(lang_rx *x, size_t from, uint32_t *code) {
    const uint8_t c = x->text.p[x->at++];
    if (lang__control(c, code)) return true;
    if (c == 'x') return lang__hex(x, 2, code);
    if (c == 'u') return lang__hex_pair(x, code);
    if (c == 'k' || (c >= '1' && c <= '9')) return lang__unheld(x, from, "a backreference");
    if (c == '0' && (lang__peek(x, 0) < '0' || lang__peek(x, 0) > '9')) return *code = 0, true;
    if (c == 'c' && ((lang__peek(x, 0) | 0x20) >= 'a' && (lang__peek(x, 0) | 0x20) <= 'z'))
        return *code = x->text.p[x->at++] & 0x1f, true;
    *code = c;
    return (c != '0' && !((c | 0x20) >= 'a' && (c | 0x20) <= 'z')) ||
           lang__bad(x, c == 'c' ? x->at : x->at - 1, "an escape of ECMA-262");
}

/* One character of the expression that stands for itself. */
static bool lang__literal(lang_rx *x, uint32_t *code) {
    uint32_t  symbol;
    const int len = lang__read(x->text.p + x->at, x->text.n - x->at, &symbol);
    if (!len) return lang__bad(x, x->at, "UTF-8");
    *code = lang__code(symbol);
    x->at += (size_t)len;
    return true;
}

/* \p{...} and \P{...}: a general category. */
static bool lang__property(lang_rx *x, size_t from) {
    const bool   negated = x->text.p[x->at++] == 'P';
    const size_t first = x->n_set;
    bytes        name = bytes_slice(x->text, x->at + 1, x->text.n);
    const uint8_t *end = lang__take(x, '{') ? memchr(name.p, '}', name.n) : NULL;
    if (!end) return lang__bad(x, x->at, "a property of Unicode in braces");
    x->at = (size_t)(end - x->text.p) + 1;
    name.n = (size_t)(end - name.p);
    for (size_t i = 0; i < 2; i++) {
        const bytes before = bytes_of(i ? "General_Category=" : "gc=");
        if (bytes_begins(name, before)) name = bytes_slice(name, before.n, name.n);
    }
    size_t i = 0;
    while (i < sizeof lang__categories / sizeof *lang__categories && !bytes_is(name, lang__categories[i].name) &&
           !bytes_is(name, lang__categories[i].whole))
        i++;
    if (i == sizeof lang__categories / sizeof *lang__categories)
        return lang__unheld(x, from, "a property of Unicode (\\p) other than a general category");
    lang__set_categories(x, lang__categories[i].first, lang__categories[i].last);
    if (negated) lang__set_negate(x, first);
    return true;
}

/* What is after a backslash: a class, which is added to the set (*code UINT32_MAX), or a character. */
static bool lang__escape(lang_rx *x, bool in_class, uint32_t *code) {
    const size_t from = x->at - 1;
    if (!lang__more(x)) return lang__bad(x, x->at, "an escaped character");
    const uint8_t c = x->text.p[x->at];
    *code = UINT32_MAX;
    if (lang__set_letter(x, c)) return x->at++, true;
    if (in_class && c == 'b') return x->at++, *code = 8, true;
    if (c >= 0x80) return lang__literal(x, code);
    if ((c | 0x20) == 'p' && !x->python) return lang__property(x, from);
    return x->python ? lang__python_escape(x, from, in_class, code) : lang__ecma_escape(x, from, code);
}

/* One end of a range, or a class (*code UINT32_MAX). */
static bool lang__member(lang_rx *x, uint32_t *code) {
    if (!lang__more(x)) return lang__bad(x, x->at, "']'");
    return lang__take(x, '\\') ? lang__escape(x, true, code) : lang__literal(x, code);
}

/* One member of a class: a character, a range, a class. */
static bool lang__members(lang_rx *x) {
    const size_t from = x->at;
    uint32_t     lo, hi;
    if (!lang__member(x, &lo)) return false;
    if (lang__peek(x, 0) != '-' || lang__peek(x, 1) == ']' || x->text.n - x->at < 2) {
        if (lo != UINT32_MAX) lang__set_add(x, lo, lo);
        return true;
    }
    x->at++;
    if (!lang__member(x, &hi)) return false;
    if ((lo == UINT32_MAX || hi == UINT32_MAX) && x->python)
        return err_set(x->e, EXIT_INPUT, "byte %zu: found a class as an end of a range, expected a character", from + 1);
    if (lo == UINT32_MAX || hi == UINT32_MAX) {       /* in ECMA the hyphen is then a character */
        lang__set_add(x, '-', '-');
        if (lo != UINT32_MAX) lang__set_add(x, lo, lo);
        if (hi != UINT32_MAX) lang__set_add(x, hi, hi);
        return true;
    }
    lang__set_add(x, lo, hi);
    return lo <= hi || err_set(x->e, EXIT_INPUT,
                               "byte %zu: found a range that ends before it begins, expected the smaller end first", from + 1);
}

/* Whether the classes so far are too large: then e says so. An interrupt ends reading too. */
static bool lang__is_wide(lang_rx *x) {
    if (x->n_ranges <= LANG_RANGES && !g_interrupt) return false;
    return !err_set(x->e, EXIT_RESOURCE, "the classes of the expression have more than %d ranges of characters", LANG_RANGES);
}

/* A class in brackets, from after the first one. */
static bool lang__brackets(lang_rx *x) {
    const size_t from = x->at - 1;
    const bool   negated = lang__take(x, '^');
    bool         first = x->python;                   /* there a bracket that comes first is a character */
    for (; first || !lang__take(x, ']'); first = false) {
        if (!lang__more(x)) return err_set(x->e, EXIT_INPUT, "byte %zu: found a class without its ']', expected one", from + 1);
        if (!lang__members(x) || lang__is_wide(x)) return false;
    }
    lang__set_fold(x);
    if (negated) lang__set_negate(x, 0);
    return true;
}

/* --- parts, groups, counts --- */

/* Whether the empty text is one of a node's, wherever it is. */
static bool lang__nullable(const lang_rx *x, uint32_t node) {
    const lang_node *p = &x->node[node];
    bool             all = true, any = false;
    if (p->kind == LANG_EMPTY || (p->kind == LANG_REPEAT && (!p->min || x->node[p->child].nullable))) return true;
    for (uint32_t i = p->kind == LANG_CAT || p->kind == LANG_ALT ? p->child : 0; i; i = x->node[i].next)
        all &= x->node[i].nullable, any |= x->node[i].nullable;
    return (p->kind == LANG_CAT && all) || (p->kind == LANG_ALT && any);
}

static lang_open *lang__top(lang_rx *x) { return &x->open[x->n_open - 1]; }

/* A class with its count, as a part; false: the part is something else. */
static bool lang__counted_class(const lang_rx *x, uint32_t part, lang_node *count) {
    *count = x->node[part];
    if (count->kind == LANG_CLASS) count->min = count->max = 1;
    else if (count->kind == LANG_REPEAT && x->node[count->child].kind == LANG_CLASS) count->cls = x->node[count->child].cls;
    else return false;
    return true;
}

/* Makes two counts of one class in a row one count, in the place of the first: a+a? is a{1,}. A plain text stays as it is. */
static bool lang__join(lang_rx *x, uint32_t a, uint32_t b) {
    lang_node m, n;
    if (!lang__counted_class(x, a, &m) || !lang__counted_class(x, b, &n) || m.cls != n.cls || (m.min == m.max && n.min == n.max))
        return false;
    if (lang__sum(m.min, n.min, UINT64_MAX) == UINT64_MAX) return false;
    if (m.kind == LANG_CLASS) m.child = lang__node(x, LANG_CLASS, m.at), x->node[m.child].cls = m.cls;
    m.kind = LANG_REPEAT;
    m.min += n.min, m.max = lang__sum(m.max, n.max, UINT64_MAX);
    m.nullable = !m.min;
    x->node[a] = m;
    return true;
}

/* Puts the last part after those before; nothing counts it any more. */
static void lang__settle(lang_rx *x) {
    lang_open *o = lang__top(x);
    if (!o->part) return;
    if (o->last && lang__join(x, o->last, o->part)) {
        o->part = 0;
        return;
    }
    if (o->last) x->node[o->last].next = o->part;
    else o->first = o->part;
    o->last = o->part;
    o->part = 0;
}

static void lang__part(lang_rx *x, uint32_t node) {
    lang__settle(x);
    x->node[node].nullable = lang__nullable(x, node);
    lang__top(x)->part = node;
    lang__top(x)->was = LANG_ATOM;
}

/* The set as a part. */
static void lang__class_part(lang_rx *x, size_t at) {
    const uint32_t node = lang__node(x, LANG_CLASS, at);
    x->node[node].cls = lang__set_class(x);
    lang__part(x, node);
}

static void lang__place_part(lang_rx *x, lang_place place, size_t at) {
    const uint32_t node = lang__node(x, LANG_AT, at);
    x->node[node].place = place;
    x->n_at++;
    lang__part(x, node);
    lang__top(x)->was = LANG_PLACE;
}

/* Ends an alternative of the open group: its parts are one node. */
static void lang__close_alt(lang_rx *x) {
    lang__settle(x);
    lang_open *o = lang__top(x);
    uint32_t   node = o->first;
    if (!node || x->node[node].next) {
        node = lang__node(x, node ? LANG_CAT : LANG_EMPTY, node ? x->node[node].at : x->at);
        x->node[node].child = o->first;
        x->node[node].nullable = lang__nullable(x, node);
    }
    if (o->last_alt) x->node[o->last_alt].next = node;
    else o->first_alt = node;
    o->last_alt = node;
    o->first = o->last = 0;
}

/* Whether all alternatives are classes. */
static bool lang__one_class(const lang_rx *x, uint32_t alt) {
    for (; alt; alt = x->node[alt].next)
        if (x->node[alt].kind != LANG_CLASS) return false;
    return true;
}

/* The node of alternatives: (a|b|\d) is one class. */
static uint32_t lang__alternatives(lang_rx *x, uint32_t alt, size_t at) {
    const bool     one = lang__one_class(x, alt);
    const uint32_t node = lang__node(x, one ? LANG_CLASS : LANG_ALT, at);
    x->node[node].child = one ? 0 : alt;
    for (size_t n; one && alt; alt = x->node[alt].next) {
        const gram_range *r = lang__class(x, x->node[alt].cls, &n);
        for (size_t i = 0; i < n; i++) lang__set_add(x, lang__code(r[i].lo), lang__code(r[i].hi));
    }
    if (one) x->node[node].cls = lang__set_class(x);
    return node;
}

/* Ends the open group; returns its node. */
static uint32_t lang__close(lang_rx *x) {
    lang__close_alt(x);
    const lang_open o = *lang__top(x);
    uint32_t        node = o.first_alt;
    if (x->node[node].next) node = lang__alternatives(x, node, o.at);
    if (o.look) {
        const uint32_t child = node;
        node = lang__node(x, LANG_LOOK, o.at);
        x->node[node].child = child;
        x->node[node].negated = o.negated;
        x->n_look++;
    }
    x->flags = o.flags;
    x->n_open--;
    return node;
}

static void lang__open(lang_rx *x, size_t at, int flags) {
    MEM_PUSH(x->open, x->n_open, (lang_open){.flags = x->flags, .at = at});
    x->flags = flags;
}

/* A group's name up to `end`, which no other group has. */
static bool lang__name(lang_rx *x, char end) {
    const size_t from = x->at;
    while (lang__more(x) && x->text.p[x->at] != (uint8_t)end) {
        const uint8_t c = x->text.p[x->at];
        if (!(c >= 0x80 || c == '_' || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || (x->at > from && c >= '0' && c <= '9')))
            return lang__bad(x, x->at, "a letter of a group's name");
        x->at++;
    }
    if (x->at == from || !lang__more(x)) return lang__bad(x, x->at, "a group's name");
    uint32_t *name = mem_new(x->at - from, sizeof *name);
    for (size_t i = from; i < x->at; i++) name[i - from] = x->text.p[i];
    const uint32_t known = x->names.n, id = lang__seqs_add(&x->names, name, x->at - from);
    mem_free(name);
    x->at++;
    return id == known || err_set(x->e, EXIT_INPUT, "byte %zu: found the name of an earlier group, expected another", from + 1);
}

/* Letters of flags; false: none, or e is set. */
static bool lang__flag_letters(lang_rx *x, int *flags, const char *allowed) {
    static const char letter[] = "imsxau";
    const size_t      from = x->at;
    for (; lang__more(x) && !memchr(":)-", x->text.p[x->at], 3); x->at++) {
        const char  c = (char)x->text.p[x->at];
        const char *p = c ? strchr(letter, c) : NULL;
        if (!x->python && c != 'i') return lang__unheld(x, x->at, "a flag other than i");
        if (!p || !strchr(allowed, c)) return lang__bad(x, x->at, "a flag (a, i, m, s, u, x)");
        *flags |= 1 << (p - letter);
    }
    if ((*flags & LANG_A) && (*flags & LANG_U))
        return err_set(x->e, EXIT_INPUT, "byte %zu: found the flags a and u, expected one of them", from + 1);
    return x->at > from || lang__bad(x, x->at, "a flag (a, i, m, s, u, x)");
}

/* Flags for the whole expression are at its beginning. */
static bool lang__at_start(const lang_rx *x) {
    return x->n_open == 1 && !x->open->first_alt && !x->open->first && !x->open->part;
}

/* (?flags), (?flags:, (?flags-flags: from after the question mark. */
static bool lang__flags(lang_rx *x, size_t from) {
    int set = 0, clear = 0;
    if (lang__peek(x, 0) != '-' && !lang__flag_letters(x, &set, "aimsux")) return false;
    if (lang__take(x, ')')) {
        if (!lang__at_start(x))
            return err_set(x->e, EXIT_INPUT,
                           "byte %zu: found flags for the whole expression, expected them at its beginning", from + 1);
        x->flags |= set & ~LANG_U;
        x->ascii = x->flags & LANG_A;
        return true;
    }
    if (set & LANG_U) clear |= LANG_A;
    if (lang__take(x, '-') && !lang__flag_letters(x, &clear, "imsx")) return false;
    if (set & clear & ~LANG_A)
        return err_set(x->e, EXIT_INPUT, "byte %zu: found a flag that is set and cleared, expected one of both", from + 1);
    if (!lang__take(x, ':')) return lang__bad(x, x->at, "':'");
    lang__open(x, from, (x->flags | set) & ~(clear | LANG_U));
    return true;
}

static bool lang__look(lang_rx *x, size_t from, bool negated) {
    if (x->python) return lang__unheld(x, from, "a lookahead");
    if (x->n_look >= LANG_LOOKS) return err_set(x->e, EXIT_RESOURCE, "byte %zu: more than %d lookaheads", from + 1, LANG_LOOKS);
    lang__open(x, from, x->flags);
    lang__top(x)->look = true;
    lang__top(x)->negated = negated;
    return true;
}

static bool lang__comment(lang_rx *x, size_t from) {
    while (lang__more(x))
        if (x->text.p[x->at++] == ')') return true;
    return err_set(x->e, EXIT_INPUT, "byte %zu: found a comment without its ')', expected one", from + 1);
}

/* A group that begins with "(?P". */
static bool lang__python_group(lang_rx *x, size_t from) {
    if (lang__take(x, '=')) return lang__unheld(x, from, "a backreference");
    if (!lang__take(x, '<')) return lang__bad(x, x->at, "'<'");
    if (!lang__name(x, '>')) return false;
    lang__open(x, from, x->flags);
    return true;
}

/* A group, from after its "(?". */
static bool lang__special_group(lang_rx *x, size_t from) {
    const uint8_t next = lang__peek(x, 1);
    if (lang__take(x, ':')) return lang__open(x, from, x->flags), true;
    if (lang__take(x, '=')) return lang__look(x, from, false);
    if (lang__take(x, '!')) return lang__look(x, from, true);
    if (lang__take(x, '#')) return x->python ? lang__comment(x, from) : lang__bad(x, x->at - 1, "a group of ECMA-262");
    if (lang__take(x, 'P')) return lang__python_group(x, from);
    if (lang__take(x, '(')) return lang__unheld(x, from, "a conditional group");
    if (lang__take(x, '>')) return lang__unheld(x, from, "an atomic group");
    if (!lang__take(x, '<')) return lang__flags(x, from);
    if (next == '=' || next == '!') return lang__unheld(x, from, "a lookbehind");
    if (x->python) return lang__bad(x, x->at, "'=' or '!'");
    if (!lang__name(x, '>')) return false;
    lang__open(x, from, x->flags);
    return true;
}

static bool lang__group(lang_rx *x) {
    const size_t from = x->at - 1;
    if (lang__take(x, '?')) return lang__special_group(x, from);
    lang__open(x, from, x->flags);
    return true;
}

static bool lang__group_end(lang_rx *x) {
    if (x->n_open == 1)
        return err_set(x->e, EXIT_INPUT, "byte %zu: found ')' without its '(', expected a part of an expression", x->at);
    lang__part(x, lang__close(x));
    return true;
}

/* Decimal digits; true: there are some. Too large a number is an error. */
static bool lang__digits_of(lang_rx *x, size_t *at, uint64_t *n) {
    const size_t from = *at;
    for (*n = 0; *at < x->text.n && x->text.p[*at] >= '0' && x->text.p[*at] <= '9'; ++*at)
        if (__builtin_mul_overflow(*n, 10, n) || __builtin_add_overflow(*n, x->text.p[*at] - '0', n) || *n == UINT64_MAX)
            return err_set(x->e, EXIT_RESOURCE, "byte %zu: found a count of 2^64 - 1 or more, expected a smaller one", from + 1);
    return *at > from;
}

/* A count in braces, from after the first one; false: it is none, and stands for itself, or e is set. */
static bool lang__braces(lang_rx *x, uint64_t *min, uint64_t *max) {
    const size_t from = x->at - 1;
    size_t       at = x->at;
    const bool   low = lang__digits_of(x, &at, min);
    bool         comma = at < x->text.n && x->text.p[at] == ',', high = false;
    if (comma) at++, high = lang__digits_of(x, &at, max);
    if (x->e->code || at >= x->text.n || x->text.p[at] != '}' || (!low && !(x->python && comma))) return false;
    if (!comma) *max = *min;
    else if (!high) *max = UINT64_MAX;
    x->at = at + 1;
    return *min <= *max || err_set(x->e, EXIT_INPUT,
                                   "byte %zu: found a count whose least is above its most, expected at most that", from + 1);
}

/* A count of a count is one count, where no number between its least and its most is left out: (a{1,9}){2,4} is a{2,36}. */
static bool lang__counts_join(lang_node *p, uint64_t min, uint64_t max) {
    const uint64_t least = lang__times(p->min, min, UINT64_MAX), most = p->max && max ? lang__times(p->max, max, UINT64_MAX) : 0;
    /* the numbers for `min` rounds end at p->max * min; those for one round more begin at p->min * (min + 1) */
    const uint64_t more = lang__times(p->min, lang__sum(min, 1, UINT64_MAX), UINT64_MAX);
    const bool     joined = min == max || more <= lang__sum(lang__times(p->max, min, UINT64_MAX), 1, UINT64_MAX);
    if (!joined || least == UINT64_MAX) return false;
    p->min = least, p->max = most;
    return true;
}

/* The node of a count. */
static uint32_t lang__counted(lang_rx *x, uint32_t part, size_t at, uint64_t min, uint64_t max) {
    if (x->node[part].nullable) min = 0;
    if (x->node[part].kind == LANG_EMPTY || (min == 1 && max == 1)) return part;
    if (x->node[part].kind == LANG_REPEAT && lang__counts_join(&x->node[part], min, max)) return part;
    const uint32_t node = lang__node(x, LANG_REPEAT, at);
    x->node[node].child = part;
    x->node[node].min = min, x->node[node].max = max;
    return node;
}

/* A count after the last part. */
static bool lang__count_part(lang_rx *x, size_t from, uint64_t min, uint64_t max) {
    lang_open *o = lang__top(x);
    if (!o->part || o->was == LANG_PLACE || x->node[o->part].kind == LANG_LOOK)
        return lang__bad(x, from, "a part that can be repeated before it");
    if (o->was == LANG_COUNTED) return lang__bad(x, from, "no second count for one part");
    const bool lazy = lang__take(x, '?');             /* means the same texts */
    if (!lazy && x->python && lang__peek(x, 0) == '+') return lang__unheld(x, from, "a possessive count");
    o->part = lang__counted(x, o->part, from, min, max);
    x->node[o->part].nullable = lang__nullable(x, o->part);
    o->was = LANG_COUNTED;
    return true;
}

/* What a backslash begins outside of a class. */
static bool lang__escape_part(lang_rx *x) {
    static const struct { char letter; bool python_only; lang_place place; } places[] = {
        {'A', true, LANG_BEGIN}, {'Z', true, LANG_END}, {'b', false, LANG_EDGE}, {'B', false, LANG_NO_EDGE},
    };
    const size_t from = x->at - 1;
    uint32_t     code;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if ((x->python || !places[i].python_only) && lang__take(x, places[i].letter)) {
            if (places[i].place >= LANG_EDGE && x->ascii != !!(x->flags & LANG_A))
                return lang__unheld(x, from, "a word's edge under a flag a or u for a group");
            return lang__place_part(x, places[i].place, from), true;
        }
    if (!lang__escape(x, false, &code)) return false;
    if (code != UINT32_MAX) lang__set_add(x, code, code);
    lang__set_fold(x);
    lang__class_part(x, from);
    return true;
}

static bool lang__literal_part(lang_rx *x) {
    const size_t from = x->at;
    uint32_t     code;
    if (!lang__literal(x, &code)) return false;
    lang__set_add(x, code, code);
    lang__set_fold(x);
    lang__class_part(x, from);
    return true;
}

/* White space and comments under the flag x. */
static bool lang__skip(lang_rx *x) {
    const uint8_t c = lang__peek(x, 0);
    if (!(x->flags & LANG_X) || !c || !strchr(" \t\n\r\v\f#", c)) return false;
    x->at++;
    while (c == '#' && lang__more(x) && x->text.p[x->at - 1] != '\n') x->at++;
    return true;
}

static bool lang__next(lang_rx *x) {
    const size_t from = x->at;
    uint64_t     min = 0, max = UINT64_MAX;
    if (lang__skip(x)) return true;
    const uint8_t c = x->text.p[x->at++];
    switch (c) {
    case '|': return lang__close_alt(x), true;
    case '(': return lang__group(x);
    case ')': return lang__group_end(x);
    case '\\': return lang__escape_part(x);
    case '^': return lang__place_part(x, x->flags & LANG_M ? LANG_LINE_BEGIN : LANG_BEGIN, from), true;
    case '$': return lang__place_part(x, x->flags & LANG_M ? LANG_LINE_END : x->python ? LANG_LAST_LINE : LANG_END, from), true;
    case '.': return lang__set_dot(x), lang__class_part(x, from), true;
    case '[': return lang__brackets(x) && (lang__class_part(x, from), true);
    case '*': return lang__count_part(x, from, 0, max);
    case '+': return lang__count_part(x, from, 1, max);
    case '?': return lang__count_part(x, from, 0, 1);
    case '{':
        if (lang__braces(x, &min, &max)) return lang__count_part(x, from, min, max);
        break;
    default: break;
    }
    x->at = from;
    return !x->e->code && lang__literal_part(x);
}

static void lang__rx_drop(lang_rx *x) {
    mem_free(x->node);
    mem_free(x->open);
    mem_free(x->set);
    lang__seqs_drop(&x->classes);
    lang__seqs_drop(&x->names);
}

/* Reads an expression; 0: e says why not. Else its node. */
static uint32_t lang__rx_read(lang_rx *x) {
    if (x->text.n > LANG_TEXT_MAX)
        return err_set(x->e, EXIT_RESOURCE, "an expression of %zu bytes, expected at most %d", x->text.n, LANG_TEXT_MAX), 0;
    lang__open(x, 0, x->flags);
    while (lang__more(x))
        if (!lang__next(x) || lang__is_wide(x)) return 0;
    if (x->n_open > 1)
        return err_set(x->e, EXIT_INPUT, "byte %zu: found '(' without its ')', expected one", lang__top(x)->at + 1), 0;
    return lang__close(x);
}

/* The parts of a node that follow each other: those of a sequence, or itself. Returns their number. */
static size_t lang__parts(const lang_rx *x, uint32_t node, uint32_t **part) {
    size_t n = 0;
    *part = NULL;
    for (uint32_t i = x->node[node].kind == LANG_CAT ? x->node[node].child : node; i;
         i = x->node[node].kind == LANG_CAT ? x->node[i].next : 0)
        MEM_PUSH(*part, n, i);
    return n;
}

static bool lang__is_place(const lang_rx *x, uint32_t node, lang_place a, lang_place b, lang_place c) {
    const lang_node *p = &x->node[node];
    return p->kind == LANG_AT && (p->place == a || p->place == b || p->place == c);
}

/* Cuts places from both ends of n parts where they say nothing of a whole text: its begin at the begin, its end at
 * the end. Returns whether there was one at the begin (1), at the end (2). */
static int lang__strip(const lang_rx *x, uint32_t **part, size_t *n) {
    int found = 0;
    for (; *n && lang__is_place(x, **part, LANG_BEGIN, LANG_LINE_BEGIN, LANG_BEGIN); ++*part, --*n) found |= 1;
    for (; *n && lang__is_place(x, (*part)[*n - 1], LANG_END, LANG_LAST_LINE, LANG_LINE_END); --*n) found |= 2;
    return found;
}

/* --- expressions to languages: an automaton with several ways, then one with sets of its states --- */

enum { LANG__EPS = -1, LANG__AT = -2 };               /* an edge that reads nothing; one that asks for place LANG__AT - kind */

typedef struct { int32_t kind; uint32_t to, next; } lang_way;         /* kind: a class, or one of these */

typedef struct { uint32_t node, in, out; } lang_task;

typedef struct {
    lang_rx  *x;
    gram     *g;                                      /* states and ways are made there, counts stay numbers; NULL: here */
    uint32_t *head, n;                                /* [n] 1 + the first edge of a state */
    lang_way *way;
    uint32_t  n_way;
    lang_task *task;
    size_t    n_task;
    size_t    copies;                                 /* of nodes, those that counts make too */
    size_t    most;                                   /* copies at most */
    uint32_t  final;
    bool      ends_early;                             /* after the final state anything may follow */
    bool      full;                                   /* there would be more */
} lang_nfa;

static uint32_t lang__nfa_state(lang_nfa *a) {
    if (a->g) return (uint32_t)gram_state(a->g);
    return MEM_PUSH(a->head, a->n, 0);
}

/* A way of the gram: an expression there has no places. */
static void lang__gram_way(lang_nfa *a, uint32_t from, int32_t kind, uint32_t to) {
    size_t            n = 0;
    lang_out          o = {.g = a->g, .when = LANG_PLAIN};
    const gram_range *cls = kind == LANG__EPS ? NULL : lang__class(a->x, (uint32_t)kind, &n);
    if (!cls) gram_eps(a->g, (int32_t)from, (int32_t)to);
    else lang__out_class(&o, (int32_t)from, cls, n, (int32_t)to);
    lang__out_drop(&o);
}

static void lang__nfa_way(lang_nfa *a, uint32_t from, int32_t kind, uint32_t to) {
    if (a->g) {
        lang__gram_way(a, from, kind, to);
        return;
    }
    MEM_PUSH(a->way, a->n_way, (lang_way){kind, to, a->head[from]});
    a->head[from] = a->n_way;
}

static void lang__nfa_task(lang_nfa *a, uint32_t node, uint32_t in, uint32_t out) {
    if (++a->copies > a->most || (a->g && gram_failed(a->g))) a->full = true;
    if (!a->full) MEM_PUSH(a->task, a->n_task, (lang_task){node, in, out});
}

/* n copies in a row; returns the state after them. exit: the state that the copies may leave to, UINT32_MAX: none. */
static uint32_t lang__nfa_row(lang_nfa *a, uint32_t node, uint32_t in, uint64_t n, uint32_t leave) {
    for (uint64_t i = 0; i < n && !a->full; i++) {
        const uint32_t out = lang__nfa_state(a);
        if (leave != UINT32_MAX) lang__nfa_way(a, in, LANG__EPS, leave);
        lang__nfa_task(a, node, in, out);
        in = out;
    }
    return in;
}

/* The least number of copies in a row, then the optional ones, or a loop. In the gram: a rule that is counted. */
static void lang__nfa_repeat(lang_nfa *a, const lang_node *p, uint32_t in, uint32_t out) {
    if (a->g) {
        int32_t body, body_end;
        lang__out_count(a->g, p->min, p->max, (int32_t)in, (int32_t)out, &body, &body_end);
        lang__nfa_task(a, p->child, (uint32_t)body, (uint32_t)body_end);
        return;
    }
    const uint64_t least = p->max == UINT64_MAX && p->min ? p->min - 1 : p->min;
    in = lang__nfa_row(a, p->child, in, least, UINT32_MAX);
    if (p->max != UINT64_MAX) {
        in = lang__nfa_row(a, p->child, in, p->max - p->min, out);
        lang__nfa_way(a, in, LANG__EPS, out);
        return;
    }
    const uint32_t begin = lang__nfa_state(a), end = p->min ? lang__nfa_state(a) : begin;
    lang__nfa_way(a, in, LANG__EPS, begin);
    lang__nfa_task(a, p->child, begin, end);
    if (p->min) lang__nfa_way(a, end, LANG__EPS, begin);
    lang__nfa_way(a, end, LANG__EPS, out);
}

static void lang__nfa_one(lang_nfa *a, lang_task t) {
    const lang_node *node = a->x->node, *p = &node[t.node];
    switch (p->kind) {
    case LANG_EMPTY: lang__nfa_way(a, t.in, LANG__EPS, t.out); break;
    case LANG_CLASS: lang__nfa_way(a, t.in, (int32_t)p->cls, t.out); break;
    case LANG_AT: lang__nfa_way(a, t.in, LANG__AT - (int32_t)p->place, t.out); break;
    case LANG_REPEAT: lang__nfa_repeat(a, p, t.in, t.out); break;
    case LANG_ALT:
        for (uint32_t i = p->child; i; i = node[i].next) lang__nfa_task(a, i, t.in, t.out);
        break;
    case LANG_CAT:
        for (uint32_t i = p->child, in = t.in, out; i; i = node[i].next, in = out) {
            out = node[i].next ? lang__nfa_state(a) : t.out;
            lang__nfa_task(a, i, in, out);
        }
        break;
    case LANG_LOOK: ASSERT(!"a lookahead is no part of a row");
    }
}

/* n parts in a row from a state on; returns the state after them. */
static uint32_t lang__nfa_parts(lang_nfa *a, const uint32_t *part, size_t n, uint32_t in) {
    for (size_t i = 0; i < n; i++) {
        const uint32_t out = lang__nfa_state(a);
        lang__nfa_task(a, part[i], in, out);
        while (a->n_task && !a->full) lang__nfa_one(a, a->task[--a->n_task]);
        a->n_task = 0;
        in = out;
    }
    return in;
}

/* The words of a language, between two states. */
static void lang__nfa_lang(lang_nfa *a, const lang_dfa *d, uint32_t in, uint32_t out) {
    const uint32_t base = a->n;
    for (uint32_t s = 0; s < d->n; s++) lang__nfa_state(a);
    if (d->n) lang__nfa_way(a, in, LANG__EPS, base);
    for (uint32_t s = 0; s < d->n; s++) {
        if (d->ends[s]) lang__nfa_way(a, base + s, LANG__EPS, out);
        for (uint32_t k = d->first[s]; k < d->first[s + 1]; k++)
            lang__nfa_way(a, base + s, (int32_t)lang__class_of(a->x, &(gram_range){d->edge[k].lo, d->edge[k].hi}, 1),
                          base + d->edge[k].to);
    }
}

static void lang__nfa_drop(lang_nfa *a) {
    mem_free(a->head);
    mem_free(a->way);
    mem_free(a->task);
}

/* What may come next in a text, as bits: that is what a place that was passed still asks for. */
enum { LANG_N_END = 1, LANG_N_LAST = 2 /* a newline, then the end */, LANG_N_LINE = 4 /* a newline, then more */,
       LANG_N_WORD = 8, LANG_N_OTHER = 16, LANG_N_ALL = 31 };

/* What came before. */
typedef enum { LANG_P_BEGIN, LANG_P_LINE, LANG_P_WORD, LANG_P_OTHER } lang_before;

/* What may come next where a place is passed; 0: it is not there. */
static unsigned lang__allows(const lang_rx *x, lang_place place, lang_before before) {
    const bool edge = place == LANG_EDGE;
    switch (place) {
    case LANG_BEGIN: return before == LANG_P_BEGIN ? LANG_N_ALL : 0;
    case LANG_LINE_BEGIN: return before == LANG_P_BEGIN || before == LANG_P_LINE ? LANG_N_ALL : 0;
    case LANG_END: return LANG_N_END;
    case LANG_LAST_LINE: return LANG_N_END | LANG_N_LAST;
    case LANG_LINE_END: return LANG_N_END | LANG_N_LAST | LANG_N_LINE;
    default: break;
    }
    if (edge != (before == LANG_P_WORD)) return LANG_N_WORD;
    /* up to Python 3.13 an empty text has no place that is no edge */
    return LANG_N_ALL & ~(unsigned)LANG_N_WORD & ~(unsigned)(x->python && !edge && before == LANG_P_BEGIN ? LANG_N_END : 0);
}

typedef struct {                                      /* symbols that no class of an expression tells apart are an atom */
    uint32_t   *bound;                                /* [n_part + 1] where parts of the row of symbols begin */
    uint32_t   *atom_of;                              /* [n_part] */
    uint32_t    n_part, n;
    lang_seqs   classes;                              /* by atom: the classes that it is in */
    uint32_t   *first, *atom;                         /* by class: its atoms are atom[first[c]] .. atom[first[c + 1]] */
    lang_before *kind;                                /* [n] what the symbols are */
} lang_atoms;

static int lang__number_order(const void *a, const void *b) { return lang__compare(*(const uint32_t *)a, *(const uint32_t *)b); }

/* Where classes begin and end. */
static void lang__bounds(lang_atoms *t, const lang_seqs *c) {
    uint32_t n = 2, m = 0;
    t->bound = mem_new(2 + c->n_item, sizeof *t->bound);
    t->bound[0] = 0, t->bound[1] = LANG_SYMBOLS;
    for (size_t i = 0; i < c->n_item; i++) t->bound[n++] = c->item[i] + (i & 1);    /* lo, hi, lo, hi ... */
    qsort(t->bound, n, sizeof *t->bound, lang__number_order);
    for (uint32_t i = 0; i < n; i++)
        if (!m || t->bound[i] != t->bound[m - 1]) t->bound[m++] = t->bound[i];
    t->n_part = m - 1;
}

static uint32_t lang__part_of(const lang_atoms *t, uint32_t symbol) {
    return (uint32_t)mem_u32_find(t->bound, t->n_part, sizeof *t->bound, symbol);
}

/* The classes that each part is in: (*list)[head[i]] up to head[i + 1], in order. False: more than `most` in all. */
static bool lang__covers(const lang_atoms *t, const lang_seqs *c, size_t most, size_t *head, uint32_t **list) {
    size_t all = 0;
    for (size_t i = 0; i < c->n_item; i += 2) {
        all += lang__part_of(t, c->item[i + 1] + 1) - lang__part_of(t, c->item[i]);
        if (all > most) return false;
    }
    *list = mem_new(all, sizeof **list);
    for (int fill = 0; fill < 2; fill++) {
        for (uint32_t k = c->n; k-- > 0;)
            for (size_t i = c->first[k]; i < c->first[k + 1]; i += 2)
                for (uint32_t p = lang__part_of(t, c->item[i]); t->bound[p] <= c->item[i + 1]; p++) {
                    if (fill) (*list)[--head[p]] = k;
                    else head[p]++;
                }
        for (uint32_t p = 1; !fill && p < t->n_part; p++) head[p] += head[p - 1];
    }
    head[t->n_part] = all;
    return true;
}

/* The atoms of each class, from the classes of each atom. */
static void lang__turn(lang_atoms *t, uint32_t n_class) {
    t->first = mem_new((size_t)n_class + 1, sizeof *t->first);
    t->atom = mem_new(t->classes.n_item, sizeof *t->atom);
    for (size_t i = 0; i < t->classes.n_item; i++) t->first[t->classes.item[i]]++;
    for (uint32_t c = 1; c <= n_class; c++) t->first[c] += t->first[c - 1];
    for (uint32_t a = t->n; a-- > 0;)
        for (size_t i = t->classes.first[a]; i < t->classes.first[a + 1]; i++) t->atom[--t->first[t->classes.item[i]]] = a;
}

static bool lang__has_atom(const lang_atoms *t, uint32_t cls, uint32_t atom) {
    for (uint32_t i = t->first[cls]; i < t->first[cls + 1]; i++)
        if (t->atom[i] == atom) return true;
    return false;
}

/* The atoms of all classes of an expression. False: they are in more than `most` classes in all. */
static bool lang__atoms(lang_rx *x, size_t most, lang_atoms *t) {
    if (x->python && !x->ascii) lang__set_words(x);
    else lang__set_put(x, LANG__ALL_OF(lang__words_of), false);
    const uint32_t word = lang__set_class(x), line = lang__class_of(x, LANG__ALL_OF(lang__newline));
    uint32_t      *list = NULL;
    lang__bounds(t, &x->classes);
    size_t *head = mem_new((size_t)t->n_part + 1, sizeof *head);
    const bool ok = lang__covers(t, &x->classes, most, head, &list);
    t->atom_of = mem_new(t->n_part, sizeof *t->atom_of);
    for (uint32_t p = 0; ok && p < t->n_part; p++)
        t->atom_of[p] = lang__seqs_add(&t->classes, list + head[p], head[p + 1] - head[p]);
    t->n = t->classes.n;
    if (ok) lang__turn(t, x->classes.n);
    t->kind = mem_new(t->n, sizeof *t->kind);
    for (uint32_t a = 0; a < t->n; a++)
        t->kind[a] = lang__has_atom(t, word, a) ? LANG_P_WORD : lang__has_atom(t, line, a) ? LANG_P_LINE : LANG_P_OTHER;
    mem_free(head);
    mem_free(list);
    return ok;
}

static void lang__atoms_drop(lang_atoms *t) {
    mem_free(t->bound);
    mem_free(t->atom_of);
    mem_free(t->first);
    mem_free(t->atom);
    mem_free(t->kind);
    lang__seqs_drop(&t->classes);
}

/* The deterministic automaton: a state is what came before, if places ask for it, and a set of elements: a state of
 * the other automaton, and what may come next. An element is 32 * state + bits. */
typedef struct {
    const lang_nfa *a;
    lang_atoms      atoms;
    lang_seqs       sets;
    uint32_t       *closed;                           /* elements that are reached without reading */
    size_t          n_closed, cap_closed;
    uint32_t       *seen, *bits, round;               /* [n] of a state: in which round its bits were seen */
    uint32_t       *room[2], cap_room;                /* elements by atom */
    uint32_t       *fill;                             /* [atoms + 1] */
    unsigned        asks;                             /* which of lang_before places ask for, as bits */
    size_t          steps;
} lang_subsets;

static void lang__reach(lang_subsets *d, uint32_t state, unsigned bits) {
    if (d->seen[state] != d->round) d->seen[state] = d->round, d->bits[state] = 0;
    if (!bits || (d->bits[state] >> bits & 1)) return;
    d->bits[state] |= 1u << bits;
    if (d->n_closed == d->cap_closed) d->closed = mem_grow(d->closed, d->cap_closed = 2 * d->cap_closed + 64, sizeof *d->closed);
    d->closed[d->n_closed++] = state << 5 | bits;
    d->steps++;
}

/* Sets `closed` to all that a set reaches without reading. */
static void lang__closure(lang_subsets *d, const uint32_t *set, size_t n) {
    d->round++;
    d->n_closed = 0;
    for (size_t i = 1; i < n; i++) lang__reach(d, set[i] >> 5, set[i] & 31);
    for (size_t i = 0; i < d->n_closed; i++) {
        const uint32_t state = d->closed[i] >> 5;
        const unsigned bits = d->closed[i] & 31;
        for (uint32_t k = d->a->head[state]; k; k = d->a->way[k - 1].next) {
            const lang_way *w = &d->a->way[k - 1];
            if (w->kind == LANG__EPS) lang__reach(d, w->to, bits);
            else if (w->kind <= LANG__AT)
                lang__reach(d, w->to, bits & lang__allows(d->a->x, (lang_place)(LANG__AT - w->kind), (lang_before)set[0]));
        }
    }
}

/* What may come after a symbol of a kind; 0: the symbol may not come. */
static unsigned lang__after(unsigned bits, lang_before kind) {
    if (kind == LANG_P_WORD) return bits & LANG_N_WORD ? LANG_N_ALL : 0;
    if (kind == LANG_P_OTHER) return bits & LANG_N_OTHER ? LANG_N_ALL : 0;
    return (bits & LANG_N_LAST ? (unsigned)LANG_N_END : 0) | (bits & LANG_N_LINE ? LANG_N_ALL & ~(unsigned)LANG_N_END : 0);
}

/* Counts (put NULL) or puts the elements that the closed ones lead to, by atom. */
static void lang__read_all(lang_subsets *d, uint32_t *put) {
    for (size_t i = 0; i < d->n_closed; i++)
        for (uint32_t k = d->a->head[d->closed[i] >> 5]; k; k = d->a->way[k - 1].next) {
            const lang_way *w = &d->a->way[k - 1];
            for (uint32_t c = w->kind < 0 ? 0 : d->atoms.first[w->kind];
                 w->kind >= 0 && c < d->atoms.first[w->kind + 1]; c++, d->steps++) {
                const uint32_t atom = d->atoms.atom[c];
                const unsigned bits = lang__after(d->closed[i] & 31, d->atoms.kind[atom]);
                if (!bits) continue;
                if (put) put[--d->fill[atom]] = w->to << 5 | bits;
                else d->fill[atom]++;
            }
        }
}

/* The set of an atom's elements, as a state; UINT32_MAX: none. */
static uint32_t lang__subset(lang_subsets *d, uint32_t *element, size_t n, lang_before kind) {
    size_t m = 1;
    if (!n) return UINT32_MAX;
    qsort(element, n, sizeof *element, lang__number_order);
    uint32_t *set = d->room[1];
    set[0] = d->asks >> kind & 1 ? kind : LANG_P_OTHER;
    for (size_t i = 0; i < n; i++)
        if (!i || element[i] != element[i - 1]) set[m++] = element[i];
    return lang__seqs_add(&d->sets, set, m);
}

/* The edges of the state whose closure was made. */
static void lang__subset_edges(lang_subsets *d, lang_dfa *out) {
    const uint32_t n = d->atoms.n;
    memset(d->fill, 0, ((size_t)n + 1) * sizeof *d->fill);
    lang__read_all(d, NULL);
    for (uint32_t a = 1; a <= n; a++) d->fill[a] += d->fill[a - 1];
    if (d->fill[n] + 1 > d->cap_room) {
        d->cap_room = 2 * d->fill[n] + 64;
        for (int i = 0; i < 2; i++) d->room[i] = mem_grow(d->room[i], d->cap_room, sizeof *d->room[i]);
    }
    lang__read_all(d, d->room[0]);
    uint32_t *to = mem_new(n, sizeof *to);
    for (uint32_t a = 0; a < n; a++)
        to[a] = lang__subset(d, d->room[0] + d->fill[a], d->fill[a + 1] - d->fill[a], d->atoms.kind[a]);
    for (uint32_t p = 0; p < d->atoms.n_part; p++)
        if (to[d->atoms.atom_of[p]] != UINT32_MAX)
            lang__edge(out, d->atoms.bound[p], d->atoms.bound[p + 1] - 1, to[d->atoms.atom_of[p]]);
    d->steps += d->atoms.n_part / 8;
    mem_free(to);
}

/* The state of set s. */
static void lang__subset_state(lang_subsets *d, lang_dfa *out, uint32_t s) {
    size_t          n;
    const uint32_t *set = lang__seq(&d->sets, s, &n);
    bool            ends = false, every = false;
    lang__closure(d, set, n);
    for (size_t i = 0; i < d->n_closed; i++) {
        const bool final = d->closed[i] >> 5 == d->a->final;
        ends |= final && (d->closed[i] & LANG_N_END);
        every |= final && d->a->ends_early && (d->closed[i] & 31) == LANG_N_ALL;
    }
    lang__state(out, ends);
    if (every) lang__edge(out, 0, LANG_SYMBOLS - 1, s);
    else lang__subset_edges(d, out);
}

/* What places of the expression ask for of the symbol before. */
static unsigned lang__asks(const lang_rx *x) {
    unsigned asks = 0;
    for (uint32_t i = 1; i < x->n_node; i++) {
        if (x->node[i].kind != LANG_AT) continue;
        if (x->node[i].place == LANG_LINE_BEGIN) asks |= 1u << LANG_P_LINE;
        if (x->node[i].place == LANG_EDGE || x->node[i].place == LANG_NO_EDGE) asks |= 1u << LANG_P_WORD;
    }
    return asks;
}

/* The language between state 0 and the final one. NULL: e says which limit was reached. */
static const lang *lang__nfa_solve(lang_pool *p, const lang_nfa *a) {
    lang_subsets d = {.a = a, .asks = lang__asks(a->x)};
    lang_dfa     out = {0};
    const size_t most = LANG_WORK * p->budget;
    bool         ok = !a->full && lang__atoms(a->x, most, &d.atoms);
    d.seen = mem_new(a->n, sizeof *d.seen), d.bits = mem_new(a->n, sizeof *d.bits);
    d.fill = mem_new((size_t)d.atoms.n + 1, sizeof *d.fill);
    lang__seqs_add(&d.sets, (uint32_t[]){LANG_P_BEGIN, LANG_N_ALL}, 2);     /* state 0 is element LANG_N_ALL */
    for (uint32_t s = 0; ok && s < d.sets.n; s++) {
        lang__subset_state(&d, &out, s);
        ok = d.steps <= most && d.sets.n <= p->budget && d.sets.n_item <= most && !g_interrupt;
    }
    const lang *l = NULL;
    if (lang__work(p, d.steps / LANG_WORK) && ok) l = lang__intern(p, lang__minimal(out));
    else lang__dfa_drop(&out);
    if (!l)
        err_set(a->x->e, EXIT_RESOURCE,
                "the expression needs too many states: counts and alternatives make more than %zu steps", most);
    lang__atoms_drop(&d.atoms);
    lang__seqs_drop(&d.sets);
    for (int i = 0; i < 2; i++) mem_free(d.room[i]);
    mem_free(d.closed);
    mem_free(d.seen);
    mem_free(d.bits);
    mem_free(d.fill);
    return l;
}

/* The texts of n parts in a row, after them those of `tail` (NULL: nothing), any text before and after where that is
 * asked for. */
static const lang *lang__row(lang_pool *p, lang_rx *x, const uint32_t *part, size_t n, const lang *tail, bool before,
                             bool after) {
    lang_nfa        a = {.x = x, .ends_early = after, .most = p->budget / 2};
    const lang_dfa *d = tail ? lang__dfa(tail) : NULL;
    if (tail && !d) return NULL;
    const uint32_t any = lang__class_of(x, lang__every, 1), begin = lang__nfa_state(&a);
    uint32_t       in = begin;
    if (before) lang__nfa_way(&a, begin, (int32_t)any, begin);
    in = lang__nfa_parts(&a, part, n, in);
    a.final = lang__nfa_state(&a);
    if (d) lang__nfa_lang(&a, d, in, a.final);
    else lang__nfa_way(&a, in, LANG__EPS, a.final);
    if (after) lang__nfa_way(&a, a.final, (int32_t)any, a.final);
    const lang *l = lang__nfa_solve(p, &a);
    lang__nfa_drop(&a);
    return l;
}

/* Whether n parts are characters of one class alone: *span becomes their language. */
static bool lang__row_span(lang_pool *p, const lang_rx *x, uint32_t *part, size_t n, bool search, const lang **span) {
    const int places = lang__strip(x, &part, &n);
    if (n != 1 || (search && places != 3)) return false;
    const lang_node *q = &x->node[*part], *c = q->kind == LANG_REPEAT ? &x->node[q->child] : q;
    size_t           m;
    if (c->kind != LANG_CLASS) return false;
    const gram_range *r = lang__class(x, c->cls, &m);
    *span = lang__span(p, r, m, c == q ? 1 : q->min, c == q ? 1 : q->max);
    return true;
}

/* Lookaheads that are between the parts of a row. From the last one on: what follows it must be in its language too. */
static const lang *lang__row_look(lang_pool *p, lang_rx *x, const uint32_t *part, size_t n, bool search) {
    const lang *tail = NULL;
    for (size_t i = n; i-- > 0;) {
        const lang_node look = x->node[part[i]];
        uint32_t       *inner;
        if (look.kind != LANG_LOOK) continue;
        const size_t m = lang__parts(x, look.child, &inner);
        const lang  *ahead = lang__row(p, x, inner, m, NULL, false, true);
        mem_free(inner);
        tail = lang__row(p, x, part + i + 1, n - i - 1, tail, false, search && !tail);
        tail = lang_and(p, tail, look.negated ? lang_not(p, ahead) : ahead);
        if (!tail) return NULL;
        n = i;
    }
    return lang__row(p, x, part, n, tail, search, search && !tail);
}

/* Counts the lookaheads between the parts of a row. False: after one of them a place asks for what came before, and
 * the lookahead is not at the begin of the text. */
static bool lang__looks(lang_rx *x, const uint32_t *part, size_t n, bool search, uint32_t *found) {
    bool   begins = !search, places = true;           /* parts so far: there is a ^; they are places alone */
    size_t from = SIZE_MAX, to = n && x->node[part[n - 1]].next ? x->node[x->node[part[n - 1]].next].at : SIZE_MAX;
    for (size_t i = 0; i < n; i++) {
        const lang_node *p = &x->node[part[i]];
        begins |= lang__is_place(x, part[i], LANG_BEGIN, LANG_BEGIN, LANG_BEGIN);
        places &= p->kind == LANG_AT || p->kind == LANG_LOOK;
        if (p->kind != LANG_LOOK) continue;
        ++*found;
        if (from == SIZE_MAX && !(begins && places)) from = p->at;
    }
    for (uint32_t i = 1; i < x->n_node; i++)
        if (x->node[i].kind == LANG_AT && x->node[i].at > from && x->node[i].at < to &&
            !lang__is_place(x, i, LANG_END, LANG_LINE_END, LANG_LAST_LINE))
            return lang__unheld(x, x->node[i].at, "a place that asks for what came before a lookahead");
    return true;
}

/* The texts of one alternative. */
static const lang *lang__alternative(lang_pool *p, lang_rx *x, uint32_t node, bool search, uint32_t *found) {
    const lang *l = NULL;
    uint32_t   *part, before = *found;
    const size_t n = lang__parts(x, node, &part);
    if (!lang__looks(x, part, n, search, found)) l = NULL;
    else if (*found > before) l = lang__row_look(p, x, part, n, search);
    else if (!lang__row_span(p, x, part, n, search, &l)) l = lang__row(p, x, part, n, NULL, search, search);
    mem_free(part);
    return l;
}

/* The first lookahead that is not a part of an alternative of the whole expression. */
static void lang__look_inside(lang_rx *x, uint32_t top) {
    uint8_t *outside = mem_new(x->n_node, 1);
    for (uint32_t a = x->node[top].kind == LANG_ALT ? x->node[top].child : top; a;
         a = x->node[top].kind == LANG_ALT ? x->node[a].next : 0)
        for (uint32_t i = x->node[a].kind == LANG_CAT ? x->node[a].child : a; i;
             i = x->node[a].kind == LANG_CAT ? x->node[i].next : 0)
            outside[i] = 1;
    for (uint32_t i = 1; i < x->n_node; i++)
        if (x->node[i].kind == LANG_LOOK && !outside[i])
            lang__unheld(x, x->node[i].at, "a lookahead within a group or a repetition");
    mem_free(outside);
}

static const lang *lang__rx_lang(lang_pool *p, lang_rx *x, bool search) {
    const uint32_t top = lang__rx_read(x);
    uint32_t       found = 0;
    if (!top) return NULL;
    lang__look_inside(x, top);
    if (x->e->code) return NULL;
    const bool  apart = x->n_look && x->node[top].kind == LANG_ALT;
    const lang *l = apart ? lang_none(p) : lang__alternative(p, x, top, search, &found);
    for (uint32_t i = apart ? x->node[top].child : 0; i; i = x->node[i].next)
        l = lang_or(p, l, lang__alternative(p, x, i, search, &found));
    if (!l) err_set(x->e, EXIT_RESOURCE, "the expression needs more than %zu states and edges", p->budget);
    return l;
}

/* The texts that an expression of JSON Schema (ECMA-262) matches: anywhere in them (search), or as a whole. NULL: e
 * says why, with the byte of the expression. */
static const lang *lang_regex(lang_pool *p, bytes pattern, bool search, err_t *e) {
    lang_rx     x = {.text = pattern, .e = e};
    const lang *l = lang__rx_lang(p, &x, search);
    lang__rx_drop(&x);
    return l;
}

/* --- expressions as rules: counts stay numbers --- */

/* A row of parts without places. */
static void lang__rule_row(gram *g, lang_rx *x, const uint32_t *part, size_t n, int32_t from, int32_t to) {
    lang_nfa a = {.x = x, .g = g, .most = SIZE_MAX};
    gram_eps(g, (int32_t)lang__nfa_parts(&a, part, n, (uint32_t)from), to);
    lang__nfa_drop(&a);
}

/* An expression with places in the middle: its language, with counts as states. */
static bool lang__rule_lang(gram *g, lang_rx *x, const uint32_t *part, size_t n, int32_t from, int32_t to) {
    lang_pool  *p = lang_pool_new(LANG_STATES);
    const lang *l = lang__row(p, x, part, n, NULL, false, false);
    if (l) lang_emit(g, from, l, to);
    lang_pool_free(p);
    return l != NULL;
}

/* The texts that an expression matches as Python's re.fullmatch(pattern, text) does, as rules. False: e
 * says why, with the byte of the expression. */
static bool lang_regex_gram(gram *g, int32_t from, bytes pattern, int32_t to, err_t *e) {
    lang_rx        x = {.text = pattern, .python = true, .e = e};
    const uint32_t top = lang__rx_read(&x);
    uint32_t      *all = NULL;
    const size_t   n_all = top ? lang__parts(&x, top, &all) : 0;
    uint32_t      *part = all;
    size_t         n = n_all;
    if (top) lang__strip(&x, &part, &n);
    if (top && x.n_at > n_all - n) lang__rule_lang(g, &x, part, n, from, to);
    else if (top) lang__rule_row(g, &x, part, n, from, to);
    mem_free(all);
    lang__rx_drop(&x);
    return !e->code;
}
