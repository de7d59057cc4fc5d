/* [gram]: random grammars against their languages, worked out from the definition for all short texts; counts,
 * ambiguity, left recursion, what nothing satisfies, operations on registers, collections in a small arena, nesting
 * on a small stack. */
#include "program.h"
#include "check.h"
#include "shortest.h"

/* A grammar over the letters a and b, and its language, as sets of texts of at most TGR_LEN letters. */
enum { TGR_LEN = 6, TGR_TEXTS = (2 << TGR_LEN) - 1, TGR_RULES = 5, TGR_ALTS = 3, TGR_ITEMS = 3 };
enum { TGR_LETTER, TGR_RULE, TGR_REPEAT };
typedef struct { int kind; uint8_t lo, hi; int rule; uint64_t min, max; } tgr_item;
typedef struct { int n_rule, n_alt[TGR_RULES], n_item[TGR_RULES][TGR_ALTS];
                 tgr_item item[TGR_RULES][TGR_ALTS][TGR_ITEMS]; } tgr_grammar;
typedef struct { bool has[TGR_TEXTS]; } tgr_set;        /* text of n letters with bits x: index (1 << n) - 1 + x */
typedef struct { tgr_set whole[TGR_RULES], begun[TGR_RULES]; bool ends[TGR_RULES]; } tgr_language;

static int tgr_length(int text) { return 31 - __builtin_clz((unsigned)text + 1); }

static int tgr_concat(int a, int b) {
    const int na = tgr_length(a), nb = tgr_length(b);
    return na + nb > TGR_LEN ? -1 : (1 << (na + nb)) - 1 + ((a + 1 - (1 << na)) << nb | (b + 1 - (1 << nb)));
}

static void tgr_add(tgr_set *to, const tgr_set *a, const tgr_set *b) {        /* to |= a b */
    for (int x = 0; x < TGR_TEXTS; x++)
        for (int y = 0; a->has[x] && y < TGR_TEXTS; y++)
            if (b->has[y] && tgr_concat(x, y) >= 0) to->has[tgr_concat(x, y)] = true;
}

static const tgr_set tgr_empty = {{true}};

static void tgr_letters(const tgr_item *it, tgr_set *out) {
    *out = (tgr_set){{false}};
    for (int c = it->lo; c <= it->hi; c++) out->has[1 + c - 'a'] = true;
}

/* Texts of an item, and beginnings of such texts (NULL: not asked for). More than TGR_LEN + 1 runs of a body say
 * nothing new about short texts. */
static void tgr_item_texts(const tgr_language *l, const tgr_item *it, tgr_set *whole, tgr_set *begun) {
    tgr_set power = tgr_empty, one, next;
    *whole = (tgr_set){{false}};
    if (begun) *begun = *whole;
    if (it->kind == TGR_LETTER) tgr_letters(it, whole);
    if (it->kind == TGR_RULE) *whole = l->whole[it->rule];
    if (it->kind == TGR_LETTER && begun) *begun = *whole, begun->has[0] = true;
    if (it->kind == TGR_RULE && begun) *begun = l->begun[it->rule];
    if (it->kind != TGR_REPEAT) return;
    one = l->whole[it->rule];
    const uint64_t min = it->min < TGR_LEN + 1 ? it->min : TGR_LEN + 1;
    for (uint64_t k = 0; k <= 2 * TGR_LEN + 2 && k <= it->max; k++) {
        for (int x = 0; x < TGR_TEXTS && k >= min; x++) whole->has[x] = whole->has[x] || power.has[x];
        if (begun && k < it->max && it->min <= it->max) tgr_add(begun, &power, &l->begun[it->rule]);
        next = (tgr_set){{false}};
        tgr_add(&next, &power, &one);
        power = next;
    }
    if (begun && it->min == 0) begun->has[0] = true;
}

static bool tgr_item_ends(const tgr_language *l, const tgr_item *it) {
    if (it->kind == TGR_REPEAT) return it->min <= it->max && (it->min == 0 || l->ends[it->rule]);
    return it->kind == TGR_LETTER || l->ends[it->rule];
}

/* One round of the fixpoint for one alternative. */
static void tgr_alt(const tgr_grammar *g, tgr_language *l, int r, int a, bool begun) {
    tgr_set done = tgr_empty, whole, begins;
    bool   ends = true;
    for (int i = 0; i < g->n_item[r][a]; i++) ends = ends && tgr_item_ends(l, &g->item[r][a][i]);
    l->ends[r] = l->ends[r] || ends;
    if (begun && ends) l->begun[r].has[0] = true;
    for (int i = 0; i < g->n_item[r][a]; i++) {
        tgr_set next = {{false}};
        tgr_item_texts(l, &g->item[r][a][i], &whole, begun ? &begins : NULL);
        if (begun && ends) tgr_add(&l->begun[r], &done, &begins);
        tgr_add(&next, &done, &whole);
        done = next;
    }
    for (int x = 0; x < TGR_TEXTS; x++) l->whole[r].has[x] = l->whole[r].has[x] || done.has[x];
    if (begun && ends)
        for (int x = 0; x < TGR_TEXTS; x++) l->begun[r].has[x] = l->begun[r].has[x] || done.has[x];
}

static void tgr_solve(const tgr_grammar *g, tgr_language *l) {
    *l = (tgr_language){0};
    for (int phase = 0; phase < 2; phase++)
        for (tgr_language before = {.ends = {true}}; memcmp(&before, l, sizeof before) != 0;) {
            before = *l;
            for (int r = 0; r < g->n_rule; r++)
                for (int a = 0; a < g->n_alt[r]; a++) tgr_alt(g, l, r, a, phase == 1);
        }
}

static bool tgr_item_nullable(const tgr_language *l, const tgr_item *it) {
    return it->kind == TGR_RULE ? l->whole[it->rule].has[0]
           : it->kind == TGR_REPEAT && it->min <= it->max && (!it->min || l->whole[it->rule].has[0]);
}

/* Whether a rule that the root reaches can begin with itself. */
static bool tgr_left_recursive(const tgr_grammar *g, const tgr_language *l) {
    bool left[TGR_RULES][TGR_RULES] = {{false}}, reach[TGR_RULES] = {true};
    for (int turn = 0; turn < TGR_RULES; turn++)
        for (int r = 0; r < g->n_rule; r++)
            for (int a = 0; reach[r] && a < g->n_alt[r]; a++)
                for (int i = 0; i < g->n_item[r][a]; i++) {
                    const tgr_item *it = &g->item[r][a][i];
                    if (it->kind == TGR_REPEAT && it->min > it->max) break;
                    if (it->kind == TGR_RULE || (it->kind == TGR_REPEAT && it->max)) reach[it->rule] = true;
                }
    for (int r = 0; r < g->n_rule; r++)
        for (int a = 0; a < g->n_alt[r]; a++)
            for (int i = 0; i < g->n_item[r][a]; i++) {
                const tgr_item *it = &g->item[r][a][i];
                if (it->kind == TGR_RULE || (it->kind == TGR_REPEAT && it->max && it->min <= it->max)) left[r][it->rule] = true;
                if (!tgr_item_nullable(l, it)) break;
            }
    for (int k = 0; k < TGR_RULES; k++)
        for (int i = 0; i < TGR_RULES; i++)
            for (int j = 0; j < TGR_RULES; j++) left[i][j] = left[i][j] || (left[i][k] && left[k][j]);
    for (int r = 0; r < g->n_rule; r++)
        if (reach[r] && left[r][r]) return true;
    return false;
}

static gram *tgr_build(const tgr_grammar *t, int32_t *root) {
    static const char *names[TGR_RULES] = {"r0", "r1", "r2", "r3", "r4"};
    gram   *g = gram_new();
    int32_t rule[TGR_RULES];
    for (int r = 0; r < t->n_rule; r++) rule[r] = gram_rule(g, names[r]);
    for (int r = 0; r < t->n_rule; r++)
        for (int a = 0; a < t->n_alt[r]; a++) {
            int32_t at = gram_state(g);
            gram_eps(g, gram_begin(g, rule[r]), at);
            for (int i = 0; i < t->n_item[r][a]; i++) {
                const tgr_item *it = &t->item[r][a][i];
                const int32_t  next = gram_state(g);
                if (it->kind == TGR_LETTER) gram_byte(g, at, it->lo, it->hi, next);
                if (it->kind == TGR_RULE) gram_call(g, at, rule[it->rule], next);
                if (it->kind == TGR_REPEAT) gram_repeat(g, at, rule[it->rule], it->min, it->max, next);
                at = next;
            }
            gram_eps(g, at, gram_end(g, rule[r]));
        }
    *root = rule[0];
    return g;
}

static void tgr_print(const tgr_grammar *t) {
    for (int r = 0; r < t->n_rule; r++) {
        fprintf(stderr, "    r%d ::=", r);
        for (int a = 0; a < t->n_alt[r]; a++) {
            if (a) fprintf(stderr, " |");
            for (int i = 0; i < t->n_item[r][a]; i++) {
                const tgr_item *it = &t->item[r][a][i];
                if (it->kind == TGR_LETTER) fprintf(stderr, " [%c-%c]", it->lo, it->hi);
                else fprintf(stderr, " r%d", it->rule);
                if (it->kind == TGR_REPEAT)
                    fprintf(stderr, "{%llu,%llu}", (unsigned long long)it->min, (unsigned long long)it->max);
            }
        }
        fprintf(stderr, "\n");
    }
}

/* Whether texts of three letters are alive after one configuration, by a walk from it alone and what is after its stack. */
static void tgr_alone(gram *g, gram_config c, bool alive[15]) {
    const int32_t local = gram_local(g, c.state, c.data), after = gram_after(g, c.stack);
    for (int x = 0; x < 15; x++) {
        const int n = tgr_length(x);
        int32_t   in = local, out = GRAM_DEAD;
        for (int i = 0; i < n; i++) {
            const uint8_t b = (uint8_t)('a' + ((x + 1) >> (n - 1 - i) & 1));
            in = gram_step(g, in, b);
            out = gram_join(g, gram_step(g, out, b), gram_escaped(g, in) ? after : GRAM_DEAD);
        }
        size_t k = 0;
        gram_configs(g, in, &k);
        alive[x] = alive[x] || k || out > 0;
    }
}

static bool tgr_parts(gram *g, int32_t set) {
    bool               alive[15] = {false}, ok = true;
    size_t             n;
    gram_hold(g, true);
    const gram_config *c = gram_configs(g, set, &n);
    for (size_t i = 0; i < n; i++) tgr_alone(g, c[i], alive);
    for (int x = 0; x < 15 && ok; x++) {
        int32_t at = set;
        for (int len = tgr_length(x), i = 0; i < len; i++) at = gram_step(g, at, (uint8_t)('a' + ((x + 1) >> (len - 1 - i) & 1)));
        ok = (x == 0 && !n) || CHECKF((at > 0) == alive[x], "text %d after a set of %zu configurations", x, n);
    }
    gram_hold(g, false);
    return ok;
}

/* The shortest way to the end, where the whole text is short enough to be known, and the text of it. */
static bool tgr_least(gram *g, const tgr_language *l, int32_t set, int text) {
    const int      n = tgr_length(text);
    const uint64_t least = gram_least(g, set);
    int            want = TGR_LEN + 1;
    str            out = {0};
    for (int x = TGR_TEXTS; x-- > 0;)
        if (l->whole[0].has[x] && tgr_length(x) >= n && (x + 1) >> (tgr_length(x) - n) == text + 1) want = tgr_length(x);
    bool ok = CHECKF(want <= TGR_LEN ? least == (uint64_t)(want - n) : least > (uint64_t)(TGR_LEN - n),
                     "shortest way %llu, want %d", (unsigned long long)least, want - n);
    if (ok && want <= TGR_LEN && n % 2 == 0) {
        ok = CHECK(shortest_text(g, set, &out)) && EQ_INT(out.n, want - n);
        for (size_t i = 0; i < out.n; i++) text = 2 * text + 1 + (out.p[i] - 'a');
        ok = ok && CHECK(l->whole[0].has[text]);
    }
    str_drop(&out);
    return ok;
}

/* Walks all texts; a set is found once for each prefix. */
static bool tgr_walk(gram *g, const tgr_language *l) {
    gram_track at[TGR_LEN + 1];
    bool       ok = true;
    for (int i = 0; i <= TGR_LEN; i++) gram_track_open(&at[i], g);
    for (int n = 0; n <= TGR_LEN; n++)
        for (int x = 0; x < 1 << n && ok; x++) {
            const int text = (1 << n) - 1 + x;
            for (int i = 0; i < n; i++) at[i + 1].set = gram_step(g, at[i].set, (uint8_t)('a' + (x >> (n - 1 - i) & 1)));
            const bool more = n < TGR_LEN && (l->begun[0].has[2 * text + 1] || l->begun[0].has[2 * text + 2]);
            ok = CHECK((at[n].set > 0) == l->begun[0].has[text]) && CHECK(gram_complete(g, at[n].set) == l->whole[0].has[text])
                && (n == TGR_LEN || CHECK(gram_closed(g, at[n].set) == (l->whole[0].has[text] && !more)));
            if (ok && at[n].set > 0) ok = tgr_least(g, l, at[n].set, text);
            if (n < 4 && at[n].set > 0 && g->mem == GRAM_MEM) ok = ok && tgr_parts(g, at[n].set);
            if (!ok) fprintf(stderr, "    text of %d letters, bits %x\n", n, (unsigned)x);
        }
    for (int i = 0; i <= TGR_LEN; i++) gram_track_close(&at[i]);
    return ok;
}

/* Returns 0: walked, 1: left recursion, 2: nothing satisfies it. */
static int tgr_compare(const tgr_grammar *t, size_t mem) {
    tgr_language l;
    err_t       e = {0};
    int32_t     root;
    gram       *g = tgr_build(t, &root);
    int         what = 0;
    tgr_solve(t, &l);
    g->mem = mem;
    const bool left = tgr_left_recursive(t, &l), ok = gram_seal(g, root, &e);
    if (left) what = 1;
    else if (!l.ends[0]) what = 2;
    bool right = CHECKF(ok == !what, "sealed %d, want %d: %s", ok, what, e.text);
    if (what)
        right = right && CHECKF(e.code == EXIT_INPUT &&
                                strncmp(e.text, what == 1 ? "left recursion: " : "nothing satisfies", 15) == 0, "%s", e.text);
    else right = right && tgr_walk(g, &l);
    if (!right) tgr_print(t);
    gram_free(g);
    return what;
}

static uint32_t tgr_draw(uint64_t *seed, uint32_t n) { return (uint32_t)((*seed = rng_mix(*seed)) >> 33) % n; }

static tgr_grammar tgr_random(uint64_t seed) {
    static const uint64_t most[] = {0, 1, 2, 3, 4, 5, 7, 1000000000000000000u, UINT64_MAX, UINT64_MAX};
    tgr_grammar            t = {.n_rule = 1 + (int)tgr_draw(&seed, TGR_RULES)};
    for (int r = 0; r < t.n_rule; r++) {
        t.n_alt[r] = 1 + (int)tgr_draw(&seed, TGR_ALTS);
        for (int a = 0; a < t.n_alt[r]; a++) {
            t.n_item[r][a] = (int)tgr_draw(&seed, TGR_ITEMS + 1);
            for (int i = 0; i < t.n_item[r][a]; i++) {
                tgr_item *it = &t.item[r][a][i];
                const uint32_t d = tgr_draw(&seed, 10);
                *it = (tgr_item){.kind = d < 5 ? TGR_LETTER : d < 8 ? TGR_RULE : TGR_REPEAT, .lo = 'a', .hi = 'b',
                                 .rule = (int)tgr_draw(&seed, (uint32_t)t.n_rule)};
                if (tgr_draw(&seed, 3)) it->lo = it->hi = (uint8_t)('a' + tgr_draw(&seed, 2));
                it->max = most[tgr_draw(&seed, 10)];
                it->min = tgr_draw(&seed, 20) ? tgr_draw(&seed, 4) : it->max;
            }
        }
    }
    return t;
}

static void t_gram_random(void) {
    int what[3] = {0};
    for (uint64_t i = 0; i < 2500 && t_failed < 3; i++) {
        const tgr_grammar t = tgr_random(i);
        what[tgr_compare(&t, i % 3 ? GRAM_MEM : 1 << 16)]++;
    }
    CHECKF(what[0] > 500 && what[1] > 200 && what[2] > 30, "%d walked, %d left recursive, %d empty", what[0], what[1], what[2]);
}


/* --- single automata --- */

static bool tgr_seal(gram *g, int32_t root) {
    err_t e = {0};
    return CHECKF(gram_seal(g, root, &e), "%s", e.text);
}

/* The same for tests that keep ids: nothing is collected. */
static bool tgr_seal_held(gram *g, int32_t root) {
    const bool ok = tgr_seal(g, root);
    gram_hold(g, true);
    return ok;
}

/* 1: whole, 0: alive, -n - 1: dead at byte n. */
static int tgr_text(gram *g, const char *text) {
    err_t  e = {0};
    size_t at;
    if (gram_match(g, bytes_of(text), &at, &e)) return 1;
    CHECKF(!e.code, "%s", e.text);
    return at == strlen(text) ? 0 : -(int)at - 1;
}

/* A rule for one text. */
static int32_t tgr_word(gram *g, const char *text) {
    const int32_t r = gram_rule(g, NULL);
    gram_text(g, gram_begin(g, r), bytes_of(text), gram_end(g, r));
    return r;
}

static int32_t tgr_loop(gram *g, int32_t body, uint64_t min, uint64_t max) {
    const int32_t r = gram_rule(g, NULL);
    gram_repeat(g, gram_begin(g, r), body, min, max, gram_end(g, r));
    return r;
}

static void tgr_fill(str *s, const char *text, int n) {
    str_clear(s);
    for (int i = 0; i < n; i++) str_put(s, text);
}

/* (ab){2,5}; ((ab){2}){3}; x{10^18}; bodies that are not prefix-free. */
static void t_gram_counts(void) {
    static const struct { const char *body; uint64_t min, max, outer_min, outer_max; } rows[] = {
        {"ab", 2, 5, 1, 1}, {"ab", 2, 2, 3, 3}, {"ab", 0, 3, 2, 3}, {"ab", 3, UINT64_MAX, 1, 2},
        {"ab", 1, UINT64_MAX, 2, 2}, {"ab", 2, 3, 0, 1000000000000000000u}, {"ab", 7, 7, 0, UINT64_MAX},
    };
    str text = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gram *g = gram_new();
        bool  can[64] = {true}, sum[64] = {false};     /* numbers of bodies: sums of outer numbers from min to max */
        if (!tgr_seal(g, tgr_loop(g, tgr_loop(g, tgr_word(g, rows[i].body), rows[i].min, rows[i].max),
                                  rows[i].outer_min, rows[i].outer_max)))
            return;
        for (uint64_t k = 0; k <= 64 && k <= rows[i].outer_max; k++) {
            bool next[64] = {false};
            for (int n = 0; n < 64; n++) sum[n] = sum[n] || (can[n] && k >= rows[i].outer_min);
            for (int n = 0; n < 64; n++)
                for (uint64_t m = rows[i].min; can[n] && m <= rows[i].max && (uint64_t)n + m < 64; m++)
                    next[(uint64_t)n + m] = true;
            memcpy(can, next, sizeof can);
        }
        for (int n = 0; n < 32; n++) {
            tgr_fill(&text, rows[i].body, n), str_add(&text, "", 0);
            CHECKF((tgr_text(g, text.p) == 1) == sum[n], "row %zu, %d bodies", i, n);
        }
        gram_free(g);
    }
    gram *g = gram_new();
    if (!tgr_seal(g, tgr_loop(g, tgr_word(g, "ab"), 1000000000000000000u, 1000000000000000001u))) return;
    tgr_fill(&text, "ab", 300000);
    EQ_INT(tgr_text(g, text.p), 0);
    CHECK(LLMRUN_STRESS || g->n_collections < 20);
    gram_free(g), str_drop(&text);
}

/* Every text of n letters is one of S ::= a S S | a; palindromes over a and b: both ambiguous or not deterministic. */
static void t_gram_ambiguous(void) {
    gram         *g = gram_new();
    const int32_t s = gram_rule(g, "s"), mid = gram_state(g), more = gram_state(g);
    str           text = {0};
    gram_byte(g, gram_begin(g, s), 'a', 'a', mid);
    gram_eps(g, mid, gram_end(g, s)), gram_call(g, mid, s, more), gram_call(g, more, s, gram_end(g, s));
    if (!tgr_seal(g, s)) return;
    tgr_fill(&text, "a", 1999);
    const double t = t_cpu();
    EQ_INT(tgr_text(g, text.p), 1);
    str_put(&text, "a");
    EQ_INT(tgr_text(g, text.p), 0);
    CHECK(t_cpu() - t < 20);
    gram_free(g);
    g = gram_new();
    const int32_t p = gram_rule(g, "p");
    for (int c = 'a'; c <= 'b'; c++) {
        const int32_t in = gram_state(g), out = gram_state(g);
        gram_byte(g, gram_begin(g, p), (uint8_t)c, (uint8_t)c, in);
        gram_eps(g, in, gram_end(g, p)), gram_eps(g, in, out), gram_call(g, in, p, out);
        gram_byte(g, out, (uint8_t)c, (uint8_t)c, gram_end(g, p));
    }
    if (!tgr_seal(g, p)) return;
    EQ_INT(tgr_text(g, "abaaba"), 1), EQ_INT(tgr_text(g, "abab"), 0), EQ_INT(tgr_text(g, "abbaabba"), 1),
        EQ_INT(tgr_text(g, "abcba"), -3);
    gram_free(g), str_drop(&text);
}

/* The rule s ::= "a" | "a" s s: texts of an odd number of letters, in many ways. */
static gram *tgr_odd(void) {
    gram         *g = gram_new();
    const int32_t s = gram_rule(g, "s"), mid = gram_state(g), more = gram_state(g);
    gram_byte(g, gram_begin(g, s), 'a', 'a', mid);
    gram_eps(g, mid, gram_end(g, s)), gram_call(g, mid, s, more), gram_call(g, more, s, gram_end(g, s));
    tgr_seal(g, s);
    return g;
}

static void t_gram_stopped(void) {
    static const char letters[] = "aaaaaaaaaaaa";
    for (int64_t fuel = 1; fuel < 400; fuel++) {
        gram      *g = tgr_odd();
        gram_track t;
        gram_track_open(&t, g);
        g->text = (bytes){(const uint8_t *)letters, sizeof letters - 1};
        for (size_t i = 0; i + 1 < sizeof letters && t.set > 0; i++) {
            g->bank = fuel;
            const int32_t next = gram_step(g, t.set, 'a');
            if (next == GRAM_LIMIT) g->bank = GRAM_STEPS;
            t.set = next == GRAM_LIMIT ? gram_step(g, t.set, 'a') : next;
            EQ_INT(gram_complete(g, t.set), i % 2 == 0);
        }
        g->text = (bytes){0};
        gram_track_close(&t);
        for (size_t n = 1; n < sizeof letters; n++) EQ_INT(tgr_text(g, letters + sizeof letters - 1 - n), n % 2 ? 1 : 0);
        gram_free(g);
    }
}

static void t_gram_left(void) {
    static const struct { const char *rule[4]; const char *want; } rows[] = {      /* upper case: a rule, '-': nothing */
        {{"Aa", "", "", ""}, "left recursion: a -> a"}, {{"Ba|a", "Ab", "", ""}, "left recursion: a -> b -> a"},
        {{"BCa|a", "-|b", "Da", "AC|b"}, "left recursion: a -> c -> d -> a"},
        {{"aA|a", "", "", ""}, NULL}, {{"B", "aA", "", ""}, "nothing satisfies it"}, {{"a|B", "bB", "", ""}, NULL},
        {{"BB|a", "-", "", ""}, NULL}, {{"BA|a", "-", "", ""}, "left recursion: a -> a"},
        {{"a", "BB", "", ""}, NULL},
    };
    static const char *names[] = {"a", "b", "c", "d"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gram   *g = gram_new();
        err_t   e = {0};
        int32_t rule[4];
        for (int r = 0; r < 4; r++) rule[r] = gram_rule(g, names[r]);
        for (int r = 0; r < 4; r++) {
            int32_t at = gram_begin(g, rule[r]);
            for (const char *p = rows[i].rule[r]; *p; p++) {
                const int32_t next = gram_state(g);
                if (*p == '|') gram_eps(g, at, gram_end(g, rule[r])), at = gram_begin(g, rule[r]);
                else if (*p == '-') continue;
                else if (*p >= 'a') gram_byte(g, at, (uint8_t)*p, (uint8_t)*p, next), at = next;
                else gram_call(g, at, rule[*p - 'A'], next), at = next;
            }
            if (rows[i].rule[r][0]) gram_eps(g, at, gram_end(g, rule[r]));
        }
        const bool ok = gram_seal(g, rule[0], &e);
        CHECKF(ok == !rows[i].want, "row %zu", i);
        if (!ok) EQ_STR(e.text, rows[i].want ? rows[i].want : "");
        gram_free(g);
    }
}

/* Groups one in the other, 100,000 deep, as rules and as text, with little stack. */
static void *tgr_nest(void *unused) {
    enum { DEEP = 100000 };
    gram   *g = gram_new();
    int32_t inner = tgr_word(g, "x"), value = gram_rule(g, "value"), mid = gram_state(g), out = gram_state(g);
    str     text = {0};
    for (int i = 0; i < DEEP; i++) {
        const int32_t r = gram_rule(g, NULL), a = gram_state(g), b = gram_state(g);
        gram_byte(g, gram_begin(g, r), '(', '(', a), gram_call(g, a, inner, b), gram_byte(g, b, ')', ')', gram_end(g, r));
        inner = r;
    }
    gram_byte(g, gram_begin(g, value), '[', '[', mid), gram_call(g, mid, value, out), gram_call(g, mid, inner, out),
        gram_byte(g, out, ']', ']', gram_end(g, value));
    if (tgr_seal(g, value)) {
        for (int i = 0; i < DEEP; i++) str_put(&text, "[");
        for (int i = 0; i < DEEP; i++) str_put(&text, "(");
        EQ_INT(tgr_text(g, text.p), 0);
        str_put(&text, "x");
        for (int i = 0; i < DEEP; i++) str_put(&text, ")");
        for (int i = 0; i < DEEP; i++) str_put(&text, "]");
        EQ_INT(tgr_text(g, text.p), 1);
        str_put(&text, "]");
        EQ_INT(tgr_text(g, text.p), -4 * DEEP - 2);
    }
    str_drop(&text), gram_free(g);
    return unused;
}

static void tgr_small_stack(void *(*f)(void *)) {
    pthread_attr_t a;
    pthread_t      t;
    pthread_attr_init(&a);
    pthread_attr_setstacksize(&a, 256 << 10);
    if (CHECK(pthread_create(&t, &a, f, NULL) == 0)) pthread_join(t, NULL);
    pthread_attr_destroy(&a);
}

static void t_gram_deep(void) { tgr_small_stack(tgr_nest); }

/* A list of words in which no letter comes twice: bits a to c, and at the end all of a and b. */
static void t_gram_registers(void) {
    gram         *g = gram_new();
    const int32_t r = gram_rule(g, "list"), at = gram_begin(g, r);
    for (uint64_t i = 0; i < 3; i++) {
        const int32_t in = gram_state(g);
        gram_op_edge(g, at, (gram_op){GRAM_TAKE, 2, 100 + i, 0}, in);
        gram_byte(g, in, (uint8_t)('a' + i), (uint8_t)('a' + i), at);
    }
    gram_op_edge(g, at, (gram_op){GRAM_HAS, 2, 100, 101}, gram_end(g, r));
    if (!tgr_seal(g, r)) return;
    EQ_INT(tgr_text(g, "ab"), 1), EQ_INT(tgr_text(g, "ba"), 1), EQ_INT(tgr_text(g, "ac"), 0),
        EQ_INT(tgr_text(g, "acb"), 1), EQ_INT(tgr_text(g, "aca"), -3), EQ_INT(tgr_text(g, "abcb"), -4);
    gram_free(g);
}

/* Texts in quotes, none of them twice; `checker`: at the end the whole text is checked too. */
static gram *tgr_distinct(gram_checker checker) {
    gram         *g = gram_new();
    const int32_t r = gram_rule(g, "list"), at = gram_state(g), in = gram_state(g), out = gram_state(g);
    gram_op_edge(g, gram_begin(g, r), (gram_op){checker ? GRAM_MARK : GRAM_NOP, 7, 0, 0}, at);
    gram_byte(g, at, '<', '<', in);
    gram_byte_op(g, in, 'a', 'z', (gram_op){GRAM_APPEND, 0, 0, 0}, in);
    gram_byte(g, in, '>', '>', out);
    gram_op_edge(g, out, (gram_op){GRAM_DISTINCT, 0, 0, 0}, at);
    gram_op_edge(g, at, (gram_op){checker ? GRAM_CHECK : GRAM_NOP, 7, 5, 0}, gram_end(g, r));
    gram_checks(g, checker, NULL);
    tgr_seal(g, r);
    return g;
}

static bool tgr_even(void *ctx, uint64_t which, bytes text) { return (void)ctx, which == 5 && text.n % 2 == 0; }

static void t_gram_texts(void) {
    gram *g = tgr_distinct(NULL);
    EQ_INT(tgr_text(g, "<a><b><ab><ba>"), 1), EQ_INT(tgr_text(g, "<a><b><a>"), -9), EQ_INT(tgr_text(g, "<><>"), -4),
        EQ_INT(tgr_text(g, "<a><b><ab"), 0);
    gram_track t;
    size_t     n;
    gram_hold(g, true);
    gram_track_open(&t, g);
    for (const char *p = "<a><a"; *p; p++) t.set = gram_step(g, t.set, (uint8_t)*p);
    const gram_config c = gram_configs(g, t.set, &n)[0];
    const int32_t     twin = gram_unguarded(g, c.state);
    if (CHECK(n == 1 && twin >= 0)) {
        int32_t set = gram_local(g, twin, gram_bare(g, c.data));
        const int32_t same = set;
        set = gram_step(g, set, 'b');
        EQ_INT(set, same);                            /* appending does nothing there */
        set = gram_step(g, set, '>');
        CHECK(set > 0 && gram_escaped(g, set) && !gram_configs(g, set, &n)->state && !n);
        EQ_INT(gram_step(g, t.set, '>'), GRAM_DEAD);
    }
    gram_track_close(&t), gram_free(g);
    g = tgr_distinct(tgr_even);
    EQ_INT(tgr_text(g, "<a><b>"), 1), EQ_INT(tgr_text(g, "<a>"), 0), EQ_INT(tgr_text(g, "<a><b><ab><ba>"), 1),
        EQ_INT(tgr_text(g, "<a><ab><b>"), 1), EQ_INT(tgr_text(g, "<a><ab>"), 0);
    EQ_INT(gram_step(g, gram__first(g), '<'), GRAM_LIMIT);
    gram_free(g);
}

/* A span: its twin counts, without bounds, and is open at the end after every body. */
static void t_gram_spans(void) {
    gram            *g = gram_new();
    const gram_range r[] = {{'a', 'c'}, {0xe4, 0xe4}, {0x4e00, 0x9fff}};
    const int32_t    one = gram_rule(g, NULL), root = gram_rule(g, "root"), in = gram_state(g), out = gram_state(g);
    size_t           n;
    lang_chars(g, gram_begin(g, one), r, 3, gram_end(g, one));
    gram_byte(g, gram_begin(g, root), '"', '"', in), gram_repeat(g, in, one, 2, 4, out),
        gram_byte(g, out, '"', '"', gram_end(g, root));
    if (!tgr_seal_held(g, root)) return;
    int32_t set = gram_step(g, gram__first(g), '"');
    const gram_config *c = gram_configs(g, set, &n);
    if (!CHECK(n == 1)) return;
    const gram_span *s = gram_span_of(g, c->state);
    CHECK(s && s->min == 2 && s->max == 4 && gram_span_between(g, c->state) && gram_word(g, c->data, 0) == 0);
    int32_t local = gram_local(g, gram_unguarded(g, c->state), 0);
    CHECK(!gram_escaped(g, local));
    for (int i = 1; i <= 9; i++) {
        local = gram_step(g, gram_step(g, local, 0xc3), 0xa4);
        EQ_INT(gram_word(g, gram_configs(g, local, &n)->data, 0), i);
        CHECK(n == 1 && gram_escaped(g, local) && !gram_escaped(g, gram_step(g, local, 0xe5)));
        set = gram_step(g, gram_step(g, set, 0xc3), 0xa4);
        CHECKF((set > 0) == (i <= 4) && (gram_step(g, set, '"') > 0) == (i >= 2 && i <= 4), "%d bodies", i);
    }
    gram_free(g);
}

/* Control tokens: by id, and any other; their text is no way. */
static void t_gram_tokens(void) {
    gram         *g = gram_new();
    const int32_t r = gram_rule(g, "r"), a = gram_state(g), b = gram_state(g);
    gram_token(g, gram_begin(g, r), 7, false, a), gram_token(g, a, 9, true, b), gram_byte(g, b, 'x', 'x', gram_end(g, r));
    gram_free_state(g, b);
    if (!tgr_seal_held(g, r)) return;
    const int32_t first = gram__first(g), second = gram_step_token(g, first, 7), third = gram_step_token(g, second, 8);
    CHECK(gram_has_tokens(g, first) && gram_step(g, first, 'x') == GRAM_DEAD && gram_step_token(g, first, 8) == GRAM_DEAD);
    CHECK(second > 0 && gram_step_token(g, second, 9) == GRAM_DEAD && third > 0 && gram_step_token(g, third, 9) == GRAM_DEAD);
    CHECK(gram_is_free(g, third) && !gram_is_free(g, second) && gram_closed(g, gram_step(g, third, 'x')));
    gram_free(g);
}

/* Ways that depend on registers: counts that are large, bits that must be set, texts that must differ. */
static void t_gram_least(void) {
    gram *g = gram_new();
    if (!tgr_seal_held(g, tgr_loop(g, tgr_loop(g, tgr_word(g, "abc"), 1000000, UINT64_MAX), 1000000000000u, 2000000000000u)))
        return;
    EQ_INT(gram_least(g, gram__first(g)), 3000000000000000000);
    EQ_INT(gram_least(g, gram_step(g, gram__first(g), 'a')), 2999999999999999999);
    gram_free(g), g = gram_new();
    if (!tgr_seal_held(g, tgr_loop(g, tgr_loop(g, tgr_word(g, "abc"), 10000000000u, UINT64_MAX), 10000000000u, UINT64_MAX)))
        return;
    CHECK(gram_least(g, gram__first(g)) == UINT64_MAX);
    gram_free(g), g = gram_new();
    const int32_t r = gram_rule(g, "list"), at = gram_begin(g, r);
    for (uint64_t i = 0; i < 4; i++) {                /* aa, bbb, cccc, ddddd: a and c must come, each once */
        const int32_t in = gram_state(g);
        gram_op_edge(g, at, (gram_op){GRAM_TAKE, 0, i, 0}, in);
        gram_repeat(g, in, tgr_word(g, (const char *[]){"a", "b", "c", "d"}[i]), i + 2, i + 2, at);
    }
    const int32_t half = gram_state(g);
    gram_op_edge(g, at, (gram_op){GRAM_HAS, 0, 0, 0}, half), gram_op_edge(g, half, (gram_op){GRAM_HAS, 0, 2, 2}, gram_end(g, r));
    if (!tgr_seal_held(g, r)) return;
    int32_t set = gram__first(g);
    EQ_INT(gram_least(g, set), 6);
    set = gram_step(g, set, 'b');
    EQ_INT(gram_least(g, set), 8);
    str out = {0};
    CHECK(shortest_text(g, set, &out) && out.n == 8);
    set = gram__first(g), out.n = 0;
    for (const char *p = "ccccb"; *p; p++) set = gram_step(g, set, (uint8_t)*p);
    CHECK(shortest_text(g, set, &out));
    EQ_STR(out.p, "bbaa");
    gram_free(g), g = tgr_distinct(NULL);
    gram_hold(g, true);
    set = gram__first(g), out.n = 0;
    for (const char *p = "<><"; *p; p++) set = gram_step(g, set, (uint8_t)*p);
    EQ_INT(gram_least(g, set), 2);
    CHECK(shortest_text(g, set, &out));
    EQ_STR(out.p, "a>");
    gram_free(g), g = gram_new();                     /* 12 texts, none twice: the empty one, one letter, two */
    const int32_t top = gram_rule(g, "top"), one = gram_state(g), in = gram_state(g), kept = gram_state(g), count = gram_state(g);
    gram_eps(g, gram_begin(g, top), one), gram_byte(g, one, '<', '<', in), gram_byte(g, in, '>', '>', kept);
    gram_byte_op(g, in, 'a', 'c', (gram_op){GRAM_APPEND, 0, 0, 0}, in),
        gram_op_edge(g, kept, (gram_op){GRAM_DISTINCT, 0, 0, 0}, count);
    gram_op_edge(g, count, (gram_op){GRAM_ADD, 0, 1, 12}, one),
        gram_op_edge(g, one, (gram_op){GRAM_WITHIN, 0, 12, 12}, gram_end(g, top));
    if (!tgr_seal_held(g, top)) return;
    const double t = t_cpu();
    EQ_INT(gram_least(g, gram__first(g)), 12 * 2 + 3 + 8 * 2);
    CHECK(t_cpu() - t < 2);
    gram_free(g), str_drop(&out);
}

/* Units of work for the ways of a set and of those after it. */
static uint64_t tgr_units(gram *g, const char *text, uint64_t most, uint64_t *least) {
    int32_t set = gram__first(g);
    gram_meter(g, most);
    *least = gram_least(g, set);
    for (const char *p = text; *p; p++) {
        uint8_t byte;
        bool    known;
        set = gram_step(g, set, (uint8_t)*p);
        *least = gram_least(g, set);
        if (*least && *least != UINT64_MAX && gram_way(g, set, 0, &byte, &known) > 0) CHECK(!known);
    }
    return gram_metered(g);
}

/* A meter counts the same whatever was known before, each set once; it ends at the same set. What a search makes leaves the
 * arena. Ways from states without registers take no search. */
static void t_gram_meter(void) {
    static const char text[] = "<a><b><c><aa";
    uint64_t          cold, warm, part;
    gram             *g = tgr_distinct(NULL);
    gram_hold(g, true);
    gram_least(g, gram__first(g));
    const size_t   top = g->top;
    const uint64_t units = tgr_units(g, text, UINT64_MAX, &cold);
    CHECKF(units > 500 && cold == 1 && 8 * (g->top - top) < 16 * units + 4096, "%llu units, %zu bytes", (unsigned long long)units, 8 * (g->top - top));
    for (int i = 0; i < 2; i++) EQ_INT(tgr_units(g, text, UINT64_MAX, &warm), units), EQ_INT(warm, cold);
    gram_least(g, gram__first(g));
    const uint64_t again = gram_metered(g);
    gram_least(g, gram__first(g));
    EQ_INT(gram_metered(g), again);
    for (uint64_t most = 0; most < units; most += units / 7) {
        gram *fresh = tgr_distinct(NULL);
        gram_hold(fresh, true);
        EQ_INT(tgr_units(fresh, text, most, &part), most + 1);
        CHECK(gram_spent(fresh));
        EQ_INT(tgr_units(g, text, most, &part), most + 1);
        CHECK(gram_spent(g));
        gram_free(fresh);
    }
    gram_free(g), g = gram_new();
    const int32_t r = gram_rule(g, NULL);
    int32_t       at = gram_begin(g, r);
    for (int i = 0; i < 2000; i++) {
        const int32_t next = i < 1999 ? gram_state(g) : gram_end(g, r);
        gram_byte(g, at, 'a', 'b', next);
        at = next;
    }
    if (!tgr_seal_held(g, r)) return;
    int32_t set = gram__first(g);
    for (int i = 0; i < 2000; i++, set = gram_step(g, set, 'b')) EQ_INT(gram_least(g, set), 2000 - i);
    EQ_INT(g->n_searches, 0);
    gram_free(g);
}

/* A task of steps ends where its units are used up, and says how many they were. */
static void t_gram_work(void) {
    gram *g = tgr_distinct(NULL);
    gram_hold(g, true);
    const int32_t first = gram__first(g);
    gram_task_begin(g, 1000);
    const int32_t second = gram_step(g, first, '<');
    const uint64_t used = gram_task_end(g);
    CHECK(second > 0 && used > 0 && used < 1000);
    gram_task_begin(g, 0);
    EQ_INT(gram_step(g, first, '<'), second);         /* it is known */
    EQ_INT(gram_step(g, second, 'a'), GRAM_LIMIT);
    EQ_INT(gram_task_end(g), 0);
    CHECK(gram_step(g, second, 'a') > 0);
    g_interrupt = 2;
    CHECK(gram_step(g, second, 'b') > 0);
    gram_task_begin(g, UINT64_MAX);
    EQ_INT(gram_step(g, second, 'c'), GRAM_LIMIT);
    g_interrupt = 0;
    CHECK(gram_step(g, second, 'c') > 0);
    gram_task_end(g);
    gram_free(g);
}

/* --- random automata with operations, against a simulation that copies whole stacks --- */

/* in a rule, state 0 is the begin and 1 the end */
enum { TO_RULES = 3, TO_STATES = 4, TO_ARCS = 9, TO_DEEP = 40, TO_MOST = 4000 };
/* kind: 0 a byte, 1 a call, 2 an operation, 3 nothing */
typedef struct { int from, to, kind, rule; uint8_t byte; gram_op op; } to_arc;
typedef struct { int n_rule; to_arc arc[TO_RULES][TO_ARCS]; } to_automaton;
typedef struct { int rule, state; uint64_t w[2]; } to_frame;
typedef struct { int depth; to_frame f[TO_DEEP]; } to_config;
typedef struct { to_config *c; int n; bool whole, over; } to_set;

static to_automaton to_random(uint64_t seed) {
    static const gram_op_kind kinds[] = {GRAM_ADD, GRAM_ADD, GRAM_WITHIN, GRAM_WITHIN, GRAM_TAKE, GRAM_LACKS, GRAM_HAS, GRAM_NOP};
    to_automaton              t = {.n_rule = 1 + (int)tgr_draw(&seed, TO_RULES)};
    for (int r = 0; r < t.n_rule; r++)
        for (int i = 0; i < TO_ARCS; i++) {
            to_arc        *a = &t.arc[r][i];
            const uint32_t d = tgr_draw(&seed, 10);
            *a = (to_arc){(int)tgr_draw(&seed, TO_STATES), (int)tgr_draw(&seed, TO_STATES), d < 4 ? 0 : d < 6 ? 1 : 2,
                          (int)tgr_draw(&seed, (uint32_t)t.n_rule), (uint8_t)('a' + tgr_draw(&seed, 2)), {0}};
            a->op = (gram_op){kinds[tgr_draw(&seed, 8)], tgr_draw(&seed, 2), tgr_draw(&seed, 3), 0};
            a->op.b = a->op.a + tgr_draw(&seed, 3);
            if (a->op.kind == GRAM_ADD) a->op.b = 3;
            /* every state can reach the end, whatever the guards say */
            if (i < TO_STATES) *a = (to_arc){i, 1, i == 1 ? 0 : tgr_draw(&seed, 2) ? 3 : 0, 0, 'b', {0}};
        }
    return t;
}

static bool to_do(const gram_op *op, uint64_t *w) {
    uint64_t all = 0;
    for (uint64_t i = op->a; i <= op->b; i++) all |= 1ull << i;
    switch (op->kind) {
    case GRAM_ADD: w[op->k] = w[op->k] + op->a < op->b ? w[op->k] + op->a : op->b; return true;
    case GRAM_WITHIN: return op->a <= w[op->k] && w[op->k] <= op->b;
    case GRAM_TAKE:
        if (w[op->k] >> op->a & 1) return false;
        w[op->k] |= 1ull << op->a;
        return true;
    case GRAM_LACKS: return !(w[op->k] >> op->a & 1);
    case GRAM_HAS: return (w[op->k] & all) == all;
    default: return true;
    }
}

static void to_add(to_set *s, const to_config *c) {
    for (int i = 0; i < s->n; i++)
        if (s->c[i].depth == c->depth && memcmp(s->c[i].f, c->f, (size_t)c->depth * sizeof(to_frame)) == 0) return;
    if (s->n == TO_MOST || c->depth == TO_DEEP - 1) s->over = true;
    else s->c[s->n++] = *c;
}

/* All that is reached without a byte. Returning takes a frame away, a call adds one. */
static void to_close(const to_automaton *t, to_set *s) {
    for (int i = 0; i < s->n && !s->over; i++) {
        const to_config c = s->c[i];
        const to_frame  f = c.f[c.depth - 1];
        to_config       next = c;
        if (f.state == 1 && c.depth == 1) s->whole = true;
        if (f.state == 1 && c.depth > 1) next.depth--, to_add(s, &next);
        for (int k = 0; k < TO_ARCS; k++) {
            const to_arc *a = &t->arc[f.rule][k];
            next = c;
            if (a->from != f.state || a->kind == 0 || (a->kind == 2 && !to_do(&a->op, next.f[c.depth - 1].w))) continue;
            next.f[c.depth - 1].state = a->to;
            if (a->kind == 1) next.f[next.depth++] = (to_frame){a->rule, 0, {0}};
            to_add(s, &next);
        }
    }
}

static void to_step(const to_automaton *t, const to_set *from, to_set *to, uint8_t byte) {
    to->n = 0, to->whole = false, to->over = from->over;
    for (int i = 0; i < from->n; i++)
        for (int k = 0; k < TO_ARCS; k++) {
            to_config     c = from->c[i];
            to_frame     *f = &c.f[c.depth - 1];
            const to_arc *a = &t->arc[f->rule][k];
            if (a->from == f->state && a->kind == 0 && a->byte == byte) f->state = a->to, to_add(to, &c);
        }
    to_close(t, to);
}

static gram *to_build(const to_automaton *t, err_t *e) {
    gram   *g = gram_new();
    int32_t rule[TO_RULES] = {0}, state[TO_RULES][TO_STATES];
    for (int r = 0; r < t->n_rule; r++) {
        rule[r] = gram_rule(g, "r");
        state[r][0] = gram_begin(g, rule[r]), state[r][1] = gram_end(g, rule[r]);
        for (int i = 2; i < TO_STATES; i++) state[r][i] = gram_state(g);
    }
    for (int r = 0; r < t->n_rule; r++)
        for (int i = 0; i < TO_ARCS; i++) {
            const to_arc *a = &t->arc[r][i];
            const int32_t from = state[r][a->from], to = state[r][a->to];
            if (a->kind == 0) gram_byte(g, from, a->byte, a->byte, to);
            if (a->kind == 1) gram_call(g, from, rule[a->rule], to);
            if (a->kind == 2) gram_op_edge(g, from, a->op, to);
            if (a->kind == 3) gram_eps(g, from, to);
        }
    if (gram_seal(g, rule[0], e)) return g;
    gram_free(g);
    return NULL;
}

/* Follows random texts in both. False: left recursion, or too much for the simulation. */
static bool to_compare(const to_automaton *t, to_set at[2], uint64_t seed, bool collects) {
    err_t e = {0};
    gram *g = to_build(t, &e);
    if (!g) return !CHECKF(strncmp(e.text, "left recursion", 14) == 0, "%s", e.text);
    bool ok = true, over = false;
    for (int turn = 0; turn < 12 && ok && !over; turn++) {
        gram_track track;
        to_config  first = {.depth = 1};
        gram_track_open(&track, g);
        at[0].n = 0, at[0].over = at[0].whole = false;
        to_add(&at[0], &first), to_close(t, &at[0]);
        for (int n = 0; n < 8 && ok && !over; n++) {
            to_set *s = &at[n % 2];
            ok = (over = s->over) || (CHECK((track.set > 0) == (s->n > 0)) && CHECK(gram_complete(g, track.set) == s->whole));
            const uint8_t b = (uint8_t)('a' + tgr_draw(&seed, 2));
            track.set = gram_step(g, track.set, b);
            if (!over) to_step(t, s, &at[1 - n % 2], b);
            if (collects && tgr_draw(&seed, 3) == 0) gram_collect(g);
        }
        gram_track_close(&track);
    }
    gram_free(g);
    return !over;
}

static void t_gram_operations(void) {
    to_set at[2] = {{.c = mem_new(TO_MOST, sizeof(to_config))}, {.c = mem_new(TO_MOST, sizeof(to_config))}};
    int    done = 0;
    for (uint64_t i = 0; i < 800 && !t_failed; i++) {
        const to_automaton t = to_random(i);
        done += to_compare(&t, at, i, i % 2);
        if (t_failed) fprintf(stderr, "    automaton %d\n", (int)i);
    }
    CHECKF(done > 100, "%d automata", done);
    mem_free(at[0].c), mem_free(at[1].c);
}

static const t_case t_gram_cases[] = {
    {"gram operations",
     "random automata whose edges count and take bits, with calls that may be empty, against copies of whole stacks",
     t_gram_operations},
    {"gram least", "the shortest way to the end follows counts, bits and texts", t_gram_least},
    {"gram meter", "work for ways is counted by the sets alone, and ends at the same one whatever was known", t_gram_meter},
    {"gram work", "steps end where the units of a task are used up, and at an interrupt", t_gram_work},
    {"gram random",
     "random grammars lead to the texts of their languages, prefix by prefix; left recursion and emptiness are found; a set "
     "is its parts; shortest ways", t_gram_random},
    {"gram counts", "counts, counts within counts, and 10^18", t_gram_counts},
    {"gram ambiguous", "ambiguous grammars take time that is no more than a square", t_gram_ambiguous},
    {"gram stopped", "what a step has begun when its budget ends is not taken for its result later", t_gram_stopped},
    {"gram left", "left recursion is refused with its cycle, and what nothing satisfies", t_gram_left},
    {"gram deep", "100,000 nested groups need little stack", t_gram_deep},
    {"gram registers", "bits that are taken, and bits that must be set", t_gram_registers},
    {"gram texts", "texts that must differ, marks and checks, twins without texts", t_gram_texts},
    {"gram spans", "a counted loop over bytes has twins that count without bounds", t_gram_spans},
    {"gram tokens", "control tokens are steps of their own", t_gram_tokens},
};
static const t_suite t_gram_suite = SUITE(t_gram_cases);
