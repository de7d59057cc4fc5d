/* [gram]: random grammars against their languages, worked out from the definition for all short texts; counts, ambiguity, left recursion, what
 * nothing satisfies, operations on registers, collections in a small arena, nesting on a small stack. */

/* A grammar over the letters a and b, and its language, as sets of texts of at most TG_LEN letters. */
enum { TG_LEN = 7, TG_TEXTS = (2 << TG_LEN) - 1, TG_RULES = 5, TG_ALTS = 3, TG_ITEMS = 3 };
enum { TG_LETTER, TG_RULE, TG_REPEAT };
typedef struct { int kind; uint8_t lo, hi; int rule; uint64_t min, max; } tg_item;
typedef struct { int n_rule, n_alt[TG_RULES], n_item[TG_RULES][TG_ALTS]; tg_item item[TG_RULES][TG_ALTS][TG_ITEMS]; } tg_grammar;
typedef struct { bool has[TG_TEXTS]; } tg_set;        /* text of n letters with bits x: index (1 << n) - 1 + x */
typedef struct { tg_set whole[TG_RULES], begun[TG_RULES]; bool ends[TG_RULES]; } tg_language;

static int tg_length(int text) { return 31 - __builtin_clz((unsigned)text + 1); }

static int tg_concat(int a, int b) {
    const int na = tg_length(a), nb = tg_length(b);
    return na + nb > TG_LEN ? -1 : (1 << (na + nb)) - 1 + ((a + 1 - (1 << na)) << nb | (b + 1 - (1 << nb)));
}

static void tg_add(tg_set *to, const tg_set *a, const tg_set *b) {        /* to |= a b */
    for (int x = 0; x < TG_TEXTS; x++)
        for (int y = 0; a->has[x] && y < TG_TEXTS; y++)
            if (b->has[y] && tg_concat(x, y) >= 0) to->has[tg_concat(x, y)] = true;
}

static const tg_set tg_empty = {{true}};

static void tg_letters(const tg_item *it, tg_set *out) {
    *out = (tg_set){{false}};
    for (int c = it->lo; c <= it->hi; c++) out->has[1 + c - 'a'] = true;
}

/* Texts of an item, and beginnings of such texts (NULL: not asked for). More than TG_LEN + 1 runs of a body say nothing new about short texts. */
static void tg_item_texts(const tg_language *l, const tg_item *it, tg_set *whole, tg_set *begun) {
    tg_set power = tg_empty, one, next;
    *whole = (tg_set){{false}};
    if (begun) *begun = *whole;
    if (it->kind == TG_LETTER) tg_letters(it, whole);
    if (it->kind == TG_RULE) *whole = l->whole[it->rule];
    if (it->kind == TG_LETTER && begun) *begun = *whole, begun->has[0] = true;
    if (it->kind == TG_RULE && begun) *begun = l->begun[it->rule];
    if (it->kind != TG_REPEAT) return;
    one = l->whole[it->rule];
    const uint64_t min = it->min < TG_LEN + 1 ? it->min : TG_LEN + 1;
    for (uint64_t k = 0; k <= 2 * TG_LEN + 2 && k <= it->max; k++) {
        for (int x = 0; x < TG_TEXTS && k >= min; x++) whole->has[x] = whole->has[x] || power.has[x];
        if (begun && k < it->max && it->min <= it->max) tg_add(begun, &power, &l->begun[it->rule]);
        next = (tg_set){{false}};
        tg_add(&next, &power, &one);
        power = next;
    }
    if (begun && it->min == 0) begun->has[0] = true;
}

static bool tg_item_ends(const tg_language *l, const tg_item *it) {
    if (it->kind == TG_REPEAT) return it->min <= it->max && (it->min == 0 || l->ends[it->rule]);
    return it->kind == TG_LETTER || l->ends[it->rule];
}

/* One round of the fixpoint for one alternative. */
static void tg_alt(const tg_grammar *g, tg_language *l, int r, int a, bool begun) {
    tg_set done = tg_empty, whole, begins;
    bool   ends = true;
    for (int i = 0; i < g->n_item[r][a]; i++) ends = ends && tg_item_ends(l, &g->item[r][a][i]);
    l->ends[r] = l->ends[r] || ends;
    if (begun && ends) l->begun[r].has[0] = true;
    for (int i = 0; i < g->n_item[r][a]; i++) {
        tg_set next = {{false}};
        tg_item_texts(l, &g->item[r][a][i], &whole, begun ? &begins : NULL);
        if (begun && ends) tg_add(&l->begun[r], &done, &begins);
        tg_add(&next, &done, &whole);
        done = next;
    }
    for (int x = 0; x < TG_TEXTS; x++) l->whole[r].has[x] = l->whole[r].has[x] || done.has[x];
    if (begun && ends)
        for (int x = 0; x < TG_TEXTS; x++) l->begun[r].has[x] = l->begun[r].has[x] || done.has[x];
}

static void tg_solve(const tg_grammar *g, tg_language *l) {
    *l = (tg_language){0};
    for (int phase = 0; phase < 2; phase++)
        for (tg_language before = {.ends = {true}}; memcmp(&before, l, sizeof before) != 0;) {
            before = *l;
            for (int r = 0; r < g->n_rule; r++)
                for (int a = 0; a < g->n_alt[r]; a++) tg_alt(g, l, r, a, phase == 1);
        }
}

static bool tg_item_nullable(const tg_language *l, const tg_item *it) {
    return it->kind == TG_RULE ? l->whole[it->rule].has[0] : it->kind == TG_REPEAT && it->min <= it->max && (!it->min || l->whole[it->rule].has[0]);
}

/* Whether a rule that the root reaches can begin with itself. */
static bool tg_left_recursive(const tg_grammar *g, const tg_language *l) {
    bool left[TG_RULES][TG_RULES] = {{false}}, reach[TG_RULES] = {true};
    for (int turn = 0; turn < TG_RULES; turn++)
        for (int r = 0; r < g->n_rule; r++)
            for (int a = 0; reach[r] && a < g->n_alt[r]; a++)
                for (int i = 0; i < g->n_item[r][a]; i++) {
                    const tg_item *it = &g->item[r][a][i];
                    if (it->kind == TG_REPEAT && it->min > it->max) break;
                    if (it->kind == TG_RULE || (it->kind == TG_REPEAT && it->max)) reach[it->rule] = true;
                }
    for (int r = 0; r < g->n_rule; r++)
        for (int a = 0; a < g->n_alt[r]; a++)
            for (int i = 0; i < g->n_item[r][a]; i++) {
                const tg_item *it = &g->item[r][a][i];
                if (it->kind == TG_RULE || (it->kind == TG_REPEAT && it->max && it->min <= it->max)) left[r][it->rule] = true;
                if (!tg_item_nullable(l, it)) break;
            }
    for (int k = 0; k < TG_RULES; k++)
        for (int i = 0; i < TG_RULES; i++)
            for (int j = 0; j < TG_RULES; j++) left[i][j] = left[i][j] || (left[i][k] && left[k][j]);
    for (int r = 0; r < g->n_rule; r++)
        if (reach[r] && left[r][r]) return true;
    return false;
}

static gram *tg_build(const tg_grammar *t, int32_t *root) {
    static const char *names[TG_RULES] = {"r0", "r1", "r2", "r3", "r4"};
    gram   *g = gram_new();
    int32_t rule[TG_RULES];
    for (int r = 0; r < t->n_rule; r++) rule[r] = gram_rule(g, names[r]);
    for (int r = 0; r < t->n_rule; r++)
        for (int a = 0; a < t->n_alt[r]; a++) {
            int32_t at = gram_state(g);
            gram_eps(g, gram_begin(g, rule[r]), at);
            for (int i = 0; i < t->n_item[r][a]; i++) {
                const tg_item *it = &t->item[r][a][i];
                const int32_t  next = gram_state(g);
                if (it->kind == TG_LETTER) gram_byte(g, at, it->lo, it->hi, next);
                if (it->kind == TG_RULE) gram_call(g, at, rule[it->rule], next);
                if (it->kind == TG_REPEAT) gram_repeat(g, at, rule[it->rule], it->min, it->max, next);
                at = next;
            }
            gram_eps(g, at, gram_end(g, rule[r]));
        }
    *root = rule[0];
    return g;
}

static void tg_print(const tg_grammar *t) {
    for (int r = 0; r < t->n_rule; r++) {
        fprintf(stderr, "    r%d ::=", r);
        for (int a = 0; a < t->n_alt[r]; a++) {
            if (a) fprintf(stderr, " |");
            for (int i = 0; i < t->n_item[r][a]; i++) {
                const tg_item *it = &t->item[r][a][i];
                if (it->kind == TG_LETTER) fprintf(stderr, " [%c-%c]", it->lo, it->hi);
                else fprintf(stderr, " r%d", it->rule);
                if (it->kind == TG_REPEAT) fprintf(stderr, "{%llu,%llu}", (unsigned long long)it->min, (unsigned long long)it->max);
            }
        }
        fprintf(stderr, "\n");
    }
}

/* Walks all texts; a set is found once for each prefix. */
static bool tg_walk(gram *g, const tg_language *l) {
    gram_track at[TG_LEN + 1];
    bool       ok = true;
    for (int i = 0; i <= TG_LEN; i++) gram_track_open(&at[i], g);
    for (int n = 0; n <= TG_LEN; n++)
        for (int x = 0; x < 1 << n && ok; x++) {
            const int text = (1 << n) - 1 + x;
            for (int i = 0; i < n; i++) at[i + 1].set = gram_step(g, at[i].set, (uint8_t)('a' + (x >> (n - 1 - i) & 1)));
            const bool more = n < TG_LEN && (l->begun[0].has[2 * text + 1] || l->begun[0].has[2 * text + 2]);
            ok = CHECK((at[n].set > 0) == l->begun[0].has[text]) && CHECK(gram_complete(g, at[n].set) == l->whole[0].has[text])
                && (n == TG_LEN || CHECK(gram_closed(g, at[n].set) == (l->whole[0].has[text] && !more)));
            if (!ok) fprintf(stderr, "    text of %d letters, bits %x\n", n, (unsigned)x);
        }
    for (int i = 0; i <= TG_LEN; i++) gram_track_close(&at[i]);
    return ok;
}

/* Returns 0: walked, 1: left recursion, 2: nothing satisfies it. */
static int tg_compare(const tg_grammar *t, size_t mem) {
    tg_language l;
    err_t       e = {0};
    int32_t     root;
    gram       *g = tg_build(t, &root);
    int         what = 0;
    tg_solve(t, &l);
    g->mem = mem;
    const bool left = tg_left_recursive(t, &l), ok = gram_seal(g, root, &e);
    if (left) what = 1;
    else if (!l.ends[0]) what = 2;
    bool right = CHECKF(ok == !what, "sealed %d, want %d: %s", ok, what, e.text);
    if (what) right = right && CHECKF(e.code == EXIT_INPUT && strncmp(e.text, what == 1 ? "left recursion: " : "nothing satisfies", 15) == 0, "%s", e.text);
    else right = right && tg_walk(g, &l);
    if (!right) tg_print(t);
    gram_free(g);
    return what;
}

static uint32_t tg_draw(uint64_t *seed, uint32_t n) { return (uint32_t)((*seed = rng_mix(*seed)) >> 33) % n; }

static tg_grammar tg_random(uint64_t seed) {
    static const uint64_t most[] = {0, 1, 2, 3, 4, 5, 7, 1000000000000000000u, UINT64_MAX, UINT64_MAX};
    tg_grammar            t = {.n_rule = 1 + (int)tg_draw(&seed, TG_RULES)};
    for (int r = 0; r < t.n_rule; r++) {
        t.n_alt[r] = 1 + (int)tg_draw(&seed, TG_ALTS);
        for (int a = 0; a < t.n_alt[r]; a++) {
            t.n_item[r][a] = (int)tg_draw(&seed, TG_ITEMS + 1);
            for (int i = 0; i < t.n_item[r][a]; i++) {
                tg_item *it = &t.item[r][a][i];
                const uint32_t d = tg_draw(&seed, 10);
                *it = (tg_item){.kind = d < 5 ? TG_LETTER : d < 8 ? TG_RULE : TG_REPEAT, .lo = 'a', .hi = 'b', .rule = (int)tg_draw(&seed, (uint32_t)t.n_rule)};
                if (tg_draw(&seed, 3)) it->lo = it->hi = (uint8_t)('a' + tg_draw(&seed, 2));
                it->max = most[tg_draw(&seed, 10)];
                it->min = tg_draw(&seed, 20) ? tg_draw(&seed, 4) : it->max;
            }
        }
    }
    return t;
}

static void t_gram_random(void) {
    int what[3] = {0};
    for (uint64_t i = 0; i < 4000 && t_failed < 3; i++) {
        const tg_grammar t = tg_random(i);
        what[tg_compare(&t, i % 3 ? GRAM_MEM : 1 << 16)]++;
    }
    CHECKF(what[0] > 500 && what[1] > 200 && what[2] > 50, "%d walked, %d left recursive, %d empty", what[0], what[1], what[2]);
}

static const t_case t_gram_cases[] = {
    {"gram random", "random grammars lead to the texts of their languages, prefix by prefix; left recursion and emptiness are found", t_gram_random},
};
