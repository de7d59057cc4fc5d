/* Fuzzes JSON Schemas with a text. The input is a schema, FF, a text. In each form a schema is held or refused with one line;
 * of one that is held the shortest text matches, and so do random ones; what the generating forms write matches --match. */
#include "program.h"
#include "constraint.h"
#include "shortest.h"

enum { FZ_TEXT = 200 };

static constrain *fz_schema_open(bytes text, const char *form) {
    err_t      e = {0};
    constrain *c = ct_open("schema", form, text, NULL, NULL, &e);
    ASSERT(c || ((e.code == EXIT_INPUT || e.code == EXIT_RESOURCE) && e.text[0]));
    return c;
}

/* Whether the text matches; -1: a limit was reached. */
static int fz_schema_match(constrain *c, bytes text) {
    size_t at = 0;
    err_t  e = {0};
    bool   ok = gram_match(c->g, text, &at, &e);
    ASSERT(!ok || !e.code);
    ASSERT(at <= text.n);
    return e.code ? -1 : ok;
}

/* A text that follows the input's bytes where they are allowed, ended the shortest way. */
static void fz_schema_write(constrain *c, bytes how, str *out) {
    gram_track t;
    gram_track_open(&t, c->g);
    for (size_t i = 0; i < how.n && out->n < FZ_TEXT; i++) {
        int32_t next = gram_step(c->g, t.set, how.p[i]);
        if (next < 0) continue;
        t.set = next;
        str_add(out, &how.p[i], 1);
    }
    bool ok = shortest_text(c->g, t.set, out);
    ASSERT(ok);
    gram_track_close(&t);
}

static void fz_schema_generated(constrain *c, constrain *loose, bytes how) {
    str least = {0}, text = {0};
    ASSERT(shortest_text(c->g, gram__first(c->g), &least));
    fz_schema_write(c, how, &text);
    ASSERT(fz_schema_match(c, str_bytes(&least)) != 0 && fz_schema_match(c, str_bytes(&text)) != 0);
    if (loose) ASSERT(fz_schema_match(loose, str_bytes(&least)) != 0 && fz_schema_match(loose, str_bytes(&text)) != 0);
    str_drop(&least), str_drop(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const forms[] = {"plain", "any", "blank", "lines"};
    const uint8_t *end = size ? memchr(data, 0xff, size) : NULL;
    bytes          schema = {data, end ? (size_t)(end - data) : size}, text = {end ? end + 1 : data, end ? size - schema.n - 1 : 0};
    g_log_level = LOG_QUIET;
    constrain     *loose = fz_schema_open(schema, "match");
    if (loose) fz_schema_match(loose, text);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        constrain *c = fz_schema_open(schema, forms[i]);
        if (c) fz_schema_generated(c, loose, text);
        constrain_close(c);
    }
    constrain_close(loose);
    return 0;
}
