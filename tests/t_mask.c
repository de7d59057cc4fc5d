/* Tests of [mask]: masks against every token stepped byte by byte, for random automata, random and real vocabularies,
 * every prefix of random texts. */
#include "program.h"
#include "check.h"
#include "t_tok.h"

typedef struct { uint64_t at; } tk_dice;

static uint64_t tk_roll(tk_dice *d, uint64_t n) { return rng_at(25, 7, 1, d->at++) % n; }

/* --- a vocabulary made of given texts; the first token ends a generation, the second is a control token --- */

typedef struct {
    tok_vocab v;
    str       all;
} tk_vocab;

static void tk_vocab_add(tk_vocab *k, int32_t id, uint8_t type, const void *p, size_t n) {
    k->v.type[id] = type;
    str_add(&k->all, p, n);
    k->v.piece_at[id + 1] = (uint32_t)k->all.n;
}

static const char *const tk_words[] = {"\"", "a", "b", "c", "1", "12", "abc", "ab", " ", " a", "  ", "\":", "\",\"",
                                       "{\"", "}", "\"}", "}}", "[", "]", "],[", ", ", ": ", "\n", "\\", "\\n", "\\u00",
                                       "é", "\xc3", "\xa9", "日本", "\xe6\x97", "\xa5", "🙂", "\xf0\x9f", "aaaa",
                                           "bbbbbbbb", "cab", "0", "-1", "x\"", "x\",", "true", "null", "a\"b",
                                           "abababababababababababab"};

/* Bytes, words, and random texts of a few letters; the same text twice, now and then. */
static void tk_vocab_open(tk_vocab *k, int32_t n, tk_dice *d) {
    *k = (tk_vocab){.v = {.n = n, .eos = 0, .bos = 1, .space_prefix = tk_roll(d, 2)}};
    k->v.type = mem_new((size_t)n, 1);
    k->v.text = mem_new((size_t)n, sizeof *k->v.text);
    k->v.piece_at = mem_new((size_t)n + 1, sizeof *k->v.piece_at);
    tk_vocab_add(k, 0, TOK_CONTROL | TOK_EOG, "", 0);
    tk_vocab_add(k, 1, TOK_CONTROL, "", 0);
    k->v.text[1] = bytes_of("<ab>");
    for (int32_t id = 2; id < n; id++) {
        const size_t w = (size_t)id - 258;
        char         text[12];
        size_t       len = 1 + tk_roll(d, 6);
        for (size_t i = 0; i < len; i++) text[i] = "abc1 \"\\,:\xc3\xa9{}"[tk_roll(d, 13)];
        if (id < 258) tk_vocab_add(k, id, TOK_BYTE, (const char[]){(char)(id - 2)}, 1);
        else if (w < sizeof tk_words / sizeof *tk_words) tk_vocab_add(k, id, TOK_NORMAL, tk_words[w], strlen(tk_words[w]));
        else tk_vocab_add(k, id, tk_roll(d, 20) ? TOK_NORMAL : TOK_USER, text, len);
    }
    k->v.piece = (uint8_t *)k->all.p;
}

static void tk_vocab_close(tk_vocab *k) {
    mem_free(k->v.type);
    mem_free(k->v.text);
    mem_free(k->v.piece_at);
    str_drop(&k->all);
}

/* --- random automata --- */

enum { TK_RULES = 5 };

typedef struct {
    gram    *g;
    tk_dice *d;
    int32_t  rule[TK_RULES];
    int      done;                                    /* rules that may be called: no cycle comes from them */
    bool     tokens;
} tk_maker;

static void tk_part(tk_maker *k, int32_t from, int32_t to, int deep);

static void tk_class(tk_maker *k, int32_t from, int32_t to) {
    static const gram_range sets[][3] = {{{'a', 'c'}}, {{' ', '!'}, {'#', '['}, {']', 0x10ffff}}, {{'0', '9'}},
                                         {{'a', 'a'}, {0xe9, 0xe9}}, {{0x80, 0x7ff}}, {{' ', '~'}}};
    static const size_t     n[] = {1, 3, 1, 2, 1, 1};
    const size_t            i = tk_roll(k->d, 6);
    lang_chars(k->g, from, sets[i], n[i], to);
}

/* A body whose words are no beginnings of each other. */
static int32_t tk_body(tk_maker *k) {
    const int32_t rule = gram_rule(k->g, NULL), a = gram_begin(k->g, rule), b = gram_end(k->g, rule);
    tk_class(k, a, b);
    if (tk_roll(k->d, 2)) gram_text(k->g, a, bytes_of("\\n"), b);
    return rule;
}

static void tk_loop(tk_maker *k, int32_t from, int32_t to, int deep) {
    const int32_t in = gram_state(k->g), out = gram_state(k->g);
    gram_eps(k->g, from, in);
    tk_part(k, in, out, deep - 1);
    gram_eps(k->g, out, in);
    gram_eps(k->g, tk_roll(k->d, 2) ? in : out, to);
}

static void tk_part(tk_maker *k, int32_t from, int32_t to, int deep) {
    static const char *const texts[] = {"a", "ab", "\"", "{\"a\":", "}", ", ", "[", "]", "cab", "é", "12"};
    switch (deep > 0 ? tk_roll(k->d, 10) : tk_roll(k->d, 3)) {
    case 0: case 1: gram_text(k->g, from, bytes_of(texts[tk_roll(k->d, 11)]), to); break;
    case 2: tk_class(k, from, to); break;
    case 3: case 4: {
        const int32_t mid = gram_state(k->g);
        tk_part(k, from, mid, deep - 1);
        tk_part(k, mid, to, deep - 1);
    } break;
    case 5:
        tk_part(k, from, to, deep - 1);
        tk_part(k, from, to, deep - 1);
        break;
    case 6: tk_loop(k, from, to, deep); break;
    case 7: {
        const uint64_t min = tk_roll(k->d, 4), max = min + tk_roll(k->d, 30);
        gram_repeat(k->g, from, tk_body(k), min, tk_roll(k->d, 5) ? max : UINT64_MAX, to);
    } break;
    case 8:
        if (k->tokens && !tk_roll(k->d, 3)) gram_token(k->g, from, (int32_t)tk_roll(k->d, 300), !tk_roll(k->d, 3), to);
        else tk_class(k, from, to);
        break;
    default: {                                        /* any rule after a byte, or one that is finished */
        const int32_t mid = gram_state(k->g);
        gram_text(k->g, from, bytes_of(tk_roll(k->d, 2) ? "(" : "a"), mid);
        gram_call(k->g, mid, k->rule[tk_roll(k->d, TK_RULES)], to);
    }
    }
}

/* NULL: nothing satisfies it. */
static gram *tk_gram(tk_dice *d, bool tokens) {
    tk_maker k = {.g = gram_new(), .d = d, .tokens = tokens};
    err_t    e = {0};
    for (int i = 0; i < TK_RULES; i++) k.rule[i] = gram_rule(k.g, NULL);
    for (int i = 0; i < TK_RULES; i++) tk_part(&k, gram_begin(k.g, k.rule[i]), gram_end(k.g, k.rule[i]), 4);
    if (gram_seal(k.g, k.rule[0], &e)) return k.g;
    gram_free(k.g);
    return NULL;
}

/* --- brute force --- */

static int32_t tk_walk(gram *g, int32_t set, bytes b) {
    if (!b.n) return GRAM_DEAD;
    for (size_t i = 0; i < b.n && set >= 0; i++) set = gram_step(g, set, b.p[i]);
    return set;
}

/* Whether a token may come: an end token where the text is whole; a token by its printed bytes; any token by name. */
static bool tk_may(gram *g, const tok_vocab *v, int32_t set, int32_t id, bool first) {
    if (tok_is_eog(v, id) && gram_complete(g, set)) return true;
    if (gram_has_tokens(g, set) && !tok_is_eog(v, id) && gram_step_token(g, set, id) >= 0) return true;
    bytes b = tok_piece(v, id);
    if (tok_is_control(v, id)) b = gram_is_free(g, set) && !tok_is_eog(v, id) ? tok_text(v, id) : (bytes){0};
    else if (first && v->space_prefix && b.n && b.p[0] == ' ' && tok__type(v, id) != TOK_USER) b.p++, b.n--;
    return !tok_is_eog(v, id) && tk_walk(g, set, b) >= 0;
}

/* Holds the mask of a set against brute force. Returns a token that may come, chosen by the dice; -1: none but an end. */
static int32_t tk_check(mask_cache *m, gram_track *t, const tok_vocab *v, bool first, tk_dice *d) {
    int32_t         pick = -1, n = 0, wrong = 0;
    const uint32_t *bits = mask_of(m, t->set, first);
    if (!CHECK(bits != NULL)) return -1;
    for (int32_t id = 0; id < v->n; id++) {
        const bool want = tk_may(t->g, v, t->set, id, first), got = bits[id >> 5] >> (id & 31) & 1;
        if (want != got && !wrong++)
            CHECKF(false, "token %d \"%.*s\": got %d, want %d", id, (int)tok_piece(v, id).n,
                   (const char *)tok_piece(v, id).p, got, want);
        if (want && !tok_is_eog(v, id) && tk_roll(d, (uint64_t)++n) == 0) pick = id;
    }
    return pick;
}

/* Random texts of tokens, from the beginning. Every other time with entries for states whose walk is short. */
static void tk_texts(gram *g, const tok_vocab *v, const mask_vocab *w, int texts, int steps, tk_dice *d) {
    mask_cache *m = mask_new(g, w);
    if (tk_roll(d, 2)) m->budget = (uint32_t)tk_roll(d, 9), m->large = 2;
    for (int i = 0; i < texts; i++) {
        gram_track t;
        gram_track_open(&t, g);
        bool first = v->space_prefix;
        for (int k = 0; k < steps && t.set >= 0; k++) {
            const int32_t id = tk_check(m, &t, v, first, d);
            if (id < 0) break;
            t.set = mask_accept(m, t.set, id, first);
            first = tok_strips(v, id, first);
            CHECK(t.set >= 0);
        }
        gram_track_close(&t);
    }
    mask_free(m);
}

static void tk_random(bool tokens, uint64_t seed) {
    tk_dice  d = {seed};
    tk_vocab k;
    int      made = 0;
    for (int turn = 0; turn < 6; turn++) {
        tk_vocab_open(&k, 512, &d);
        mask_vocab *w = mask_vocab_new(&k.v);
        for (int i = 0; i < 40; i++) {
            gram *g = tk_gram(&d, tokens);
            if (!g) continue;
            made++;
            tk_texts(g, &k.v, w, 3, 12, &d);
            gram_free(g);
        }
        mask_vocab_free(w);
        tk_vocab_close(&k);
    }
    CHECK(made > 100);
}

static void t_mask_random(void) { tk_random(false, 1); }
static void t_mask_named(void) { tk_random(true, 1000000); }

static void tk_real(const char *path) {
    tt_open o;
    tk_dice d = {77};
    if (!tt_open_file(&o, path, NULL)) return;
    mask_vocab *w = mask_vocab_new(o.v);
    for (int i = 0; i < 12; i++) {
        gram *g = tk_gram(&d, false);
        if (g) tk_texts(g, o.v, w, 1, 6, &d), gram_free(g);
    }
    mask_vocab_free(w);
    tt_close(&o);
}

static void t_mask_shipped(void) { tk_real(tt_shipped); }

static void t_mask_real(void) {
    if (!tt_shared("llama-bpe")) SKIP("no ../shared/data/vocab");
    tk_real(tt_shared("llama-bpe"));
    tk_real(tt_shared("llama-spm"));
}

/* A string of any length, one of at most 20 characters, and one of lower letters, each in quotes, in a list. */
static gram *tk_strings(uint64_t most) {
    static const gram_range plain[] = {{' ', '!'}, {'#', '['}, {']', 0x10ffff}};
    gram         *g = gram_new();
    err_t         e = {0};
    const int32_t root = gram_rule(g, "root"), s = gram_rule(g, "string"), body = gram_rule(g, "character"),
                  in = gram_state(g), item = gram_state(g), a = gram_begin(g, root);
    lang_chars(g, gram_begin(g, body), plain, 3, gram_end(g, body));
    gram_text(g, gram_begin(g, body), bytes_of("\\n"), gram_end(g, body));
    gram_text(g, gram_begin(g, s), bytes_of("\""), in);
    const int32_t out = gram_state(g);
    gram_repeat(g, in, body, 2, most, out);
    gram_text(g, out, bytes_of("\""), gram_end(g, s));
    gram_text(g, a, bytes_of("["), item);
    const int32_t after = gram_state(g);
    gram_call(g, item, s, after);
    gram_text(g, after, bytes_of(", "), item);
    gram_text(g, after, bytes_of("]"), gram_end(g, root));
    CHECKF(gram_seal(g, root, &e), "%s", e.text);
    return g;
}

/* A list of strings that all differ. */
static gram *tk_unique(void) {
    static const gram_op keep = {.kind = GRAM_APPEND}, differs = {.kind = GRAM_DISTINCT};
    gram         *g = gram_new();
    err_t         e = {0};
    const int32_t root = gram_rule(g, "root"), item = gram_state(g), in = gram_state(g), out = gram_state(g),
                  over = gram_state(g);
    gram_text(g, gram_begin(g, root), bytes_of("["), item);
    gram_text(g, item, bytes_of("\""), in);
    gram_byte_op(g, in, 'a', 'z', keep, in);
    gram_byte_op(g, in, ' ', ' ', keep, in);
    gram_text(g, in, bytes_of("\""), out);
    gram_op_edge(g, out, differs, over);
    gram_text(g, over, bytes_of(","), item);
    gram_text(g, over, bytes_of("]"), gram_end(g, root));
    CHECKF(gram_seal(g, root, &e), "%s", e.text);
    return g;
}

static void t_mask_unique(void) {
    tt_open  o;
    tk_vocab k;
    tk_dice  d = {6};
    gram    *g = tk_unique();
    tk_vocab_open(&k, 512, &d);
    mask_vocab *w = mask_vocab_new(&k.v);
    tk_texts(g, &k.v, w, 60, 12, &d);
    mask_vocab_free(w);
    tk_vocab_close(&k);
    if (tt_open_file(&o, tt_shipped, NULL)) {
        w = mask_vocab_new(o.v);
        tk_texts(g, o.v, w, 3, 10, &d);
        mask_vocab_free(w);
        tt_close(&o);
    }
    gram_free(g);
}

/* --- ends within a number of tokens --- */

static bool tk_has(const uint32_t *bits, int32_t id) { return bits[id >> 5] >> (id & 31) & 1; }

/* A token that is neither an end nor named alone, chosen by the dice; -1: there is none. */
static int32_t tk_pick(const uint32_t *bits, const tok_vocab *v, tk_dice *d) {
    int32_t pick = -1;
    for (int32_t id = 0, n = 0; id < v->n; id++)
        if (tk_has(bits, id) && !tok_is_eog(v, id) && tk_roll(d, (uint64_t)++n) == 0) pick = id;
    return pick;
}

/* A random text of at most `left` tokens, where a shortest one has fewer or as many: it ends. */
static void tk_close(mask_cache *m, gram *g, const tok_vocab *v, int64_t left, tk_dice *d) {
    gram_track t;
    gram_track_open(&t, g);
    for (; left > 0; left--) {
        const uint64_t  bytes_left = gram_least(g, t.set);
        uint64_t        units = 0;
        const uint32_t *bits = mask_closing(m, t.set, false, left, &units);
        if (!CHECK(bits != NULL)) break;
        const int32_t id = tk_pick(bits, v, d);
        if (gram_complete(g, t.set) && (id < 0 || tk_roll(d, 4) == 0)) break;
        if (!CHECKF(id >= 0, "no token with %lld left, %llu bytes to the end", (long long)left, (unsigned long long)bytes_left))
            break;
        for (int32_t other = 0; other < v->n; other++)
            if (tk_has(bits, other) && !tok_is_eog(v, other)) CHECK(tk_may(g, v, t.set, other, false));
        t.set = mask_accept(m, t.set, id, false);
    }
    CHECKF(gram_complete(g, t.set), "%lld left, %llu bytes to the end", (long long)left,
           (unsigned long long)gram_least(g, t.set));
    gram_track_close(&t);
}

static void t_mask_closing(void) {
    tk_dice  d = {31};
    tk_vocab k;
    int      made = 0;
    tk_vocab_open(&k, 512, &d);
    mask_vocab *w = mask_vocab_new(&k.v);
    for (int i = 0; i < 150; i++) {
        gram *g = i % 30 ? tk_gram(&d, false) : tk_unique();
        if (!g) continue;
        mask_cache *m = mask_new(g, w);
        gram_track  t;
        if (tk_roll(&d, 2)) m->budget = (uint32_t)tk_roll(&d, 9), m->large = 2;
        gram_track_open(&t, g);
        gram_hold(g, true);
        const int64_t least = (int64_t)mask__need_of(m, t.set);
        CHECK(least >= 0 && (uint64_t)least <= gram_least(g, t.set));
        gram_hold(g, false);
        gram_track_close(&t);
        for (int more = 0; more < 12; more++, made++) tk_close(m, g, &k.v, least + more, &d);
        mask_free(m);
        gram_free(g);
    }
    CHECK(made > 500);
    mask_vocab_free(w);
    tk_vocab_close(&k);
}

static void t_mask_spans(void) {
    tt_open o;
    tk_dice d = {5};
    if (!tt_open_file(&o, tt_shipped, NULL)) return;
    mask_vocab *w = mask_vocab_new(o.v);
    const uint64_t most[] = {2, 3, 5, 16, 17, 40, UINT64_MAX};
    for (size_t i = 0; i < sizeof most / sizeof *most; i++) {
        gram *g = tk_strings(most[i]);
        tk_texts(g, o.v, w, 3, 14, &d);
        gram_free(g);
    }
    mask_vocab_free(w);
    tt_close(&o);
}

static void t_mask_apply(void) {
    enum { N = 101 };
    float    l[N];
    uint32_t bits[4] = {0xffffffff, 0, 0x80000001, 0x13};
    for (int i = 0; i < N; i++) l[i] = (float)i;
    mask_apply(bits, l, N);
    for (int i = 0; i < N; i++) CHECKF(bits[i >> 5] >> (i & 31) & 1 ? l[i] == (float)i : isinf(l[i]) && l[i] < 0, "%d", i);
    EQ_INT(mask_count(bits, N), 32 + 2 + 3);
    EQ_INT(mask_count(bits, 33), 32);
}

static void t_mask_forced(void) {
    gram         *g = gram_new();
    err_t         e = {0};
    str           s = {0};
    tk_dice       d = {9};
    tk_vocab      k;
    const int32_t root = gram_rule(g, "root"), mid = gram_state(g);
    gram_text(g, gram_begin(g, root), bytes_of("{\"name\": "), mid);
    gram_text(g, mid, bytes_of("12}"), gram_end(g, root));
    gram_text(g, mid, bytes_of("1]"), gram_end(g, root));
    if (!CHECKF(gram_seal(g, root, &e), "%s", e.text)) return;
    tk_vocab_open(&k, 400, &d);
    mask_vocab *w = mask_vocab_new(&k.v);
    mask_cache *m = mask_new(g, w);
    gram_track  t;
    gram_track_open(&t, g);
    str_reserve(&s, 64);
    mem_freeze("masks");
    const bool some = mask_forced(m, t.set, 64, &s);
    mem_thaw();
    CHECK(some);
    EQ_STR(s.p, "{\"name\": 1");
    str_clear(&s);
    CHECK(mask_forced(m, t.set, 3, &s));
    EQ_STR(s.p, "{\"n");
    t.set = tk_walk(g, t.set, bytes_of("{\"name\": 1"));
    CHECK(!mask_forced(m, t.set, 64, &s));
    gram_track_close(&t);
    mask_free(m);
    mask_vocab_free(w);
    gram_free(g);
    tk_vocab_close(&k);
    str_drop(&s);
}

static const t_case t_mask_cases[] = {
    {"mask.apply", "a logit is -inf where the bit is clear", t_mask_apply},
    {"mask.forced", "bytes that have no alternative are found, and no others", t_mask_forced},
    {"mask.random", "masks of random automata equal brute force at every prefix", t_mask_random},
    {"mask.named", "the same with tokens that the automaton names", t_mask_named},
    {"mask.spans", "strings of bounded length, at every length", t_mask_spans},
    {"mask.unique", "strings of a list that all differ", t_mask_unique},
    {"mask.closing", "with --close a text of any number of tokens that can hold an end has one", t_mask_closing},
    {"mask.shipped", "random automata with the vocabulary that ships here", t_mask_shipped},
    {"mask.real", "random automata with 128,256 tokens, and with those of SentencePiece", t_mask_real},
};
static const t_suite t_mask_suite = SUITE(t_mask_cases);
