/* Fuzzes regular expressions. The input up to the first NUL is an expression, the rest a text. The rules of the expression and
 * its language, made in another way, agree on the text, and so does the language as rules again; a language and its complement
 * hold every text once. As a pattern of JSON Schema: the same of the complement; as a number: in no set and its complement. */
#include "program.h"

static void fz_error(bool ok, const err_t *e) {
    ASSERT(ok ? !e->code : (e->code == EXIT_INPUT || e->code == EXIT_RESOURCE) && *e->text);
}

/* The sealed gram; NULL: nothing satisfies it, or a limit was reached, which *limit says. */
static gram *fz_seal(gram *g, int32_t root, bool *limit) {
    err_t e = {0};
    if (gram_seal(g, root, &e)) return g;
    *limit = e.code == EXIT_RESOURCE;
    gram_free(g);
    return NULL;
}

static void fz_same(gram *g, bytes text, bool want) {
    err_t      e = {0};
    size_t     at;
    const bool got = g && gram_match(g, text, &at, &e);
    ASSERT(e.code ? e.code == EXIT_RESOURCE : got == want);
    gram_free(g);
}

static void fz_complement(lang_pool *p, const lang *l, bytes text) {
    const lang *not = lang_not(p, l);
    if (!not) return;
    ASSERT(lang_not(p, not) == l || lang_over(p));
    ASSERT(!utf8_whole(text) ? !lang_has(l, text) && !lang_has(not, text) : lang_has(l, text) != lang_has(not, text));
}

static void fz_python(bytes pattern, bytes text) {
    err_t      e = {0}, e2 = {0};
    gram      *g = gram_new(), *again = gram_new();
    lang_pool *p = lang_pool_new(1 << 13);
    bool       limit = false;
    int32_t    root = gram_rule(g, "root"), root2 = gram_rule(again, "root");
    const bool ok = lang_regex_gram(g, gram_begin(g, root), pattern, gram_end(g, root), &e);
    fz_error(ok, &e);
    lang_rx     x = {.text = pattern, .python = true, .e = &e2};
    const lang *l = lang__rx_lang(p, &x, false);
    fz_error(l, &e2);
    ASSERT(ok || !l);
    lang__rx_drop(&x);
    if (ok) g = fz_seal(g, root, &limit);
    ASSERT(!ok || limit || !l || !g == lang_empty(l));
    if (l) {
        lang_emit(again, gram_begin(again, root2), l, gram_end(again, root2));
        again = fz_seal(again, root2, &limit);
        if (!limit) fz_same(g, text, lang_has(l, text)), fz_same(again, text, lang_has(l, text)), g = again = NULL;
        fz_complement(p, l, text);
    }
    gram_free(g), gram_free(again);
    lang_pool_free(p);
}

static void fz_schema(bytes pattern, bytes text) {
    lang_pool  *p = lang_pool_new(1 << 13);
    err_t       e = {0};
    const lang *l = lang_regex(p, pattern, true, &e), *few;
    fz_error(l, &e);
    if (l) fz_complement(p, l, text);
    if (l && (few = lang_and(p, l, lang_length(p, 0, 3)))) {
        str s = {0};
        ASSERT(lang_count(few, 100) == 0 ? lang_empty(few) : lang_nth(few, 0, &s) && lang_has(l, str_bytes(&s)));
        str_drop(&s);
    }
    lang_pool_free(p);
}

static void fz_number(bytes bound, bytes number) {
    lang_pool  *p = lang_pool_new(1 << 13);
    const lang *below = num_bound(p, bound, true, true), *from = num_bound(p, bound, false, false);
    num_dec     d;
    const bool  good = num_read(number, &d);
    num_drop(&d);
    if (below && from) ASSERT(good ? num_in(below, number) != num_in(from, number) : !num_in(below, number) && !num_in(from, number));
    lang_pool_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    const bytes    pattern = {data, end ? (size_t)(end - data) : size}, text = end ? (bytes){end + 1, size - pattern.n - 1} : bytes_of("");
    if (size > 4096) return 0;
    fz_python(pattern, text);
    fz_schema(pattern, text);
    fz_number(pattern, text);
    return 0;
}
