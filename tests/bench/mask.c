/* What masks of JSON schemas cost: compiling, each mask, each token, as lines for mask.py.
 *     build/main/mask VOCABULARY
 * reads commands from stdin: "schema FILE" compiles one, "text FILE" walks a text that it allows, "tokens" lists the vocabulary. Prints
 *     vocabulary TOKENS NODES MILLISECONDS
 *     schema MICROSECONDS, or: refused WHY
 *     token ID ALLOWED MASK_MICROSECONDS TOKEN_MICROSECONDS, one line for each token, then: done, or: stuck AT
 *     bytes KIND HEX for each token; KIND: e ends a generation, c another control token, t text */
#include "../program.h"

typedef struct {
    gguf_file   g;
    tok_vocab  *v;
    mask_vocab *w;
    lang_pool  *pool;
    schema_doc *doc;
    gram       *gram;
    mask_cache *mask;
} bench_mask;

static void mask_bench_close(bench_mask *b) {
    mask_free(b->mask);
    gram_free(b->gram);
    if (b->doc) schema_free(b->doc);
    if (b->pool) lang_pool_free(b->pool);
    b->mask = NULL, b->gram = NULL, b->doc = NULL, b->pool = NULL;
}

static bool mask_bench_compile(bench_mask *b, bytes text, const char *path, err_t *e) {
    const json_form form = {.space = 1};
    b->pool = lang_pool_new(1 << 18);
    b->doc = schema_open(text, path, b->pool, e);
    if (!b->doc) return false;
    b->gram = gram_new();
    const int32_t root = gram_rule(b->gram, "root");
    return json_build(b->gram, gram_begin(b->gram, root), b->doc, &form, gram_end(b->gram, root), e) && gram_seal(b->gram, root, e);
}

static void mask_bench_schema(bench_mask *b, const char *path) {
    str   text = {0};
    err_t e = {0};
    mask_bench_close(b);
    if (!str_read_file(&text, path, 0, 1 << 26, "a schema", &e)) die(e.code, "%s", e.text);
    const double began = clock_now();
    const bool   ok = mask_bench_compile(b, str_bytes(&text), path, &e);
    if (ok) b->mask = mask_new(b->gram, b->w);
    const double us = (clock_now() - began) * 1e6;
    if (ok) printf("schema %.1f\n", us);
    else printf("refused %s\n", e.text);
    str_drop(&text);
}

static void mask_bench_text(bench_mask *b, const char *path) {
    str        text = {0};
    err_t      e = {0};
    tok_ids    ids = {0};
    gram_track t;
    if (!str_read_file(&text, path, 0, 1 << 26, "a text", &e) || !tok_encode(b->v, str_bytes(&text), 0, &ids, &e)) die(e.code, "%s", e.text);
    gram_track_open(&t, b->gram);
    for (size_t i = 0; i <= ids.n && t.set >= 0; i++) {
        const double    began = clock_now();
        const uint32_t *bits = mask_of(b->mask, t.set, false);
        const double    made = clock_now();
        const int32_t   n = bits ? mask_count(bits, tok_count(b->v)) : -1;
        const double    counted = clock_now();
        if (i < ids.n) t.set = mask_accept(b->mask, t.set, ids.id[i], false);
        printf("token %d %d %.2f %.2f\n", i < ids.n ? ids.id[i] : -1, n, (made - began) * 1e6, (clock_now() - counted) * 1e6);
        if (t.set < 0) printf("stuck %zu\n", i);
    }
    if (t.set >= 0) printf(gram_complete(b->gram, t.set) ? "done\n" : "stuck end\n");
    gram_track_close(&t);
    tok_ids_drop(&ids);
    str_drop(&text);
}

static void mask_bench_tokens(const tok_vocab *v) {
    for (int32_t id = 0; id < tok_count(v); id++) {
        const bool  end = tok_is_eog(v, id), control = tok_is_control(v, id);
        const bytes t = end || control ? tok_text(v, id) : tok_piece(v, id);
        printf("bytes %c ", end ? 'e' : control ? 'c' : 't');
        for (size_t i = 0; i < t.n; i++) printf("%02x", t.p[i]);
        printf("\n");
    }
}

int main(int argc, char **argv) {
    char       line[4200];
    err_t      e = {0};
    bench_mask b = {0};
    if (argc != 2) return fprintf(stderr, "usage: mask VOCABULARY\n"), 2;
    if (!gguf_open(&b.g, argv[1], &e) || !(b.v = tok_load(&b.g, NULL, &e))) die(e.code, "%s", e.text);
    b.w = mask_vocab_new(b.v);
    printf("vocabulary %d %u %.2f\n", tok_count(b.v), b.w->all.n_node, b.w->seconds * 1e3);
    while (fflush(stdout), fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "schema ", 7) == 0) mask_bench_schema(&b, line + 7);
        else if (strcmp(line, "tokens") == 0) mask_bench_tokens(b.v);
        else if (strncmp(line, "text ", 5) == 0 && b.mask) mask_bench_text(&b, line + 5);
    }
    mask_bench_close(&b);
    mask_vocab_free(b.w);
    tok_free(b.v);
    return 0;
}
