/* Fuzzes grammars in GBNF. The input up to the first NUL is a grammar, the rest a text. A grammar is taken, or refused with a
 * message. What the automaton takes byte by byte is what it takes whole, and what can go on has a way to its end. */
#include "program.h"
#include "shortest.h"

static int32_t fz_id(void *ctx, bytes name) {
    (void)ctx;
    return name.n < 16 ? (int32_t)name.n : -1;
}

/* Follows the text; -1: it cannot go on, -2: a limit. */
static int32_t fz_walk(gram *g, gram_track *t, bytes text) {
    for (size_t i = 0; i < text.n && t->set >= 0; i++) t->set = gram_step(g, t->set, text.p[i]);
    return t->set;
}

static void fz_run(gram *g, bytes text) {
    gram_track t, end;
    str        way = {0};
    err_t      e = {0};
    size_t     at = 0;
    gram_track_open(&t, g);
    const bool whole = gram_match(g, text, &at, &e), ended = fz_walk(g, &t, text) >= 0;
    ASSERT(at <= text.n && (e.code || t.set == -2 || whole == (ended && gram_complete(g, t.set))));
    if (ended && shortest_text(g, t.set, &way)) {
        gram_track_open(&end, g);
        gram_track_copy(&end, &t);
        ASSERT(fz_walk(g, &end, str_bytes(&way)) == -2 || (end.set >= 0 && gram_complete(g, end.set)));
        gram_track_close(&end);
    }
    gram_track_close(&t);
    str_drop(&way);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t   *nul = size ? memchr(data, 0, size) : NULL;
    const bytes      text = {data, nul ? (size_t)(nul - data) : size}, input = nul ? (bytes){nul + 1, size - text.n - 1} : (bytes){0};
    const gbnf_words w = {NULL, fz_id, 16};
    const int        level = g_log_level;
    g_log_level = LOG_QUIET;
    for (int i = 0; i < 2; i++) {
        gram   *g = gram_new();
        err_t   e = {0};
        int32_t root = -1;
        const bool ok = gbnf_build(g, text, i ? &w : NULL, &root, &e) && gram_seal(g, root, &e);
        ASSERT(ok ? !e.code : (e.code == EXIT_INPUT || e.code == EXIT_RESOURCE) && e.text[0]);
        if (ok) fz_run(g, input);
        gram_free(g);
    }
    g_log_level = level;
    return 0;
}
