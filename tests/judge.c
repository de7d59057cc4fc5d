/* Constraints for the scripts that hold them against other programs: a command a line, a line of answer to each.
 *     build/test/judge [VOCABULARY.gguf] < COMMANDS
 *
 *   words words N, then N lines: `-` where a token has no bytes of its own, else they in hexadecimal after `=`, and a
 * last line: id of
 *                            each token that ends an answer
 *   tokens LEN               LEN bytes follow: a text -> its tokens | error CODE MESSAGE
 *   build KIND FORM LEN LEN bytes follow: a constraint. KIND: gbnf, regex, schema. FORM of JSON: match (every order,
 * blank and spelling), plain (the
 *                            schema's order of keys, no blanks), any (any order, no blanks), blank (schema's order, a
 * blank may come), lines
 *                            -> held MICROSECONDS | refused CODE MICROSECONDS MESSAGE
 *   match LEN                LEN bytes follow: a text -> yes | no BYTE | error CODE MESSAGE
 *   least                    the shortest text -> text LEN, bytes | none
 *   sample SEED BYTES        a random text, ended the shortest way after so many bytes -> text LEN, bytes | error
 *   walk SEED STEPS random tokens, each with the mask before it: `mask HEX` (bits of the ids, lowest first), `take
 * ID`, ..., `done`
 *   bytes SEED STEPS         the same of bytes in place of tokens
 *   close SEED TOKENS        random tokens that leave room for an end -> closed COUNT | cut COUNT
 * Bytes that follow a line end with a newline of their own. */
#include "program.h"
#include "constraint.h"
#include "shortest.h"

static gguf_file   jd_file;
static tok_vocab  *jd_vocab;
static mask_vocab *jd_words;

static uint32_t jd_random(uint64_t *r) { return (uint32_t)((*r = rng_mix(*r + 1)) >> 32); }

/* --- texts --- */

/* Bytes that may follow; returns their number. */
static int jd_next(gram *g, const gram_track *t, uint8_t out[256]) {
    int n = 0;
    for (int b = 0; b < 256; b++)
        if (gram_step(g, t->set, (uint8_t)b) >= 0) out[n++] = (uint8_t)b;
    return n;
}

/* One of the bytes: an end of a string or a list more often than another, so that texts stay short. */
static uint8_t jd_choose(const uint8_t *may, int n, uint64_t *r) {
    static const char ends[] = "\"]},:";
    if (jd_random(r) % 3 == 0)
        for (int i = 0; i < n; i++)
            if (strchr(ends, may[i]) && may[i]) return may[i];
    return may[jd_random(r) % (uint32_t)n];
}

/* Appends a random text of the constraint. false: a limit was reached. */
static bool jd_sample(constrain *c, uint64_t seed, size_t most, str *out) {
    gram_track t;
    uint64_t   r = seed;
    uint8_t    may[256];
    bool       ok = true;
    gram_track_open(&t, c->g);
    for (;;) {
        int n = jd_next(c->g, &t, may);
        if (gram_complete(c->g, t.set) && (!n || jd_random(&r) % 3 == 0)) break;
        if (!n || out->n >= most) {
            ok = shortest_text(c->g, t.set, out);
            break;
        }
        uint8_t byte = jd_choose(may, n, &r);
        str_add(out, &byte, 1);
        t.set = gram_step(c->g, t.set, byte);
    }
    gram_track_close(&t);
    return ok;
}

static void jd_put_text(bool ok, const str *s) {
    if (!ok) {
        puts("none");
        return;
    }
    printf("text %zu\n", s->n);
    if (s->n) fwrite(s->p, 1, s->n, stdout);
    putchar('\n');
}

static void jd_match(constrain *c, bytes text) {
    size_t at = 0;
    err_t  e = {0};
    if (gram_match(c->g, text, &at, &e)) puts("yes");
    else if (e.code) printf("error %d %s\n", e.code, e.text);
    else printf("no %zu\n", at);
}

/* --- tokens --- */

static bool jd_bit(const uint32_t *bits, int32_t id) { return bits[id / 32] >> (id % 32) & 1; }

/* One of the set bits that is no end of the answer; -1: there is none. */
static int32_t jd_token(const uint32_t *bits, uint64_t *r) {
    int32_t n = 0, which, n_vocab = tok_count(jd_vocab);
    for (int32_t id = 0; id < n_vocab; id++) n += jd_bit(bits, id) && !tok_is_eog(jd_vocab, id);
    which = n ? (int32_t)(jd_random(r) % (uint32_t)n) : 0;
    for (int32_t id = 0; n && id < n_vocab; id++)
        if (jd_bit(bits, id) && !tok_is_eog(jd_vocab, id) && which-- == 0) return id;
    return -1;
}

/* A mask agrees with the steps of its tokens. */
static void jd_agree(constrain *c, const uint32_t *bits, const gram_track *t, bool first) {
    for (int32_t id = 0; id < tok_count(jd_vocab); id++)
        if (!tok_is_eog(jd_vocab, id) && jd_bit(bits, id) != (mask_accept(c->m, t->set, id, first) >= 0))
            printf("differs %d %d\n", id, jd_bit(bits, id));
}

/* The mask of where t stands, in memory of its own: any other call may move what mask_of gives. NULL: a limit. */
static const uint32_t *jd_mask(constrain *c, const gram_track *t, bool first) {
    static uint32_t *own;
    const size_t     words = ((size_t)tok_count(jd_vocab) + 31) / 32;
    const uint32_t  *bits = mask_of(c->m, t->set, first);
    if (!own) own = mem_new(words, sizeof *own);
    if (bits) memcpy(own, bits, words * sizeof *own);
    return bits ? own : NULL;
}

static void jd_walk(constrain *c, uint64_t seed, int64_t steps) {
    gram_track t;
    uint64_t   r = seed;
    gram_track_open(&t, c->g);
    for (int64_t i = 0; i < steps; i++) {
        const uint32_t *bits = jd_mask(c, &t, i == 0);
        if (!bits) {
            puts("limit");
            break;
        }
        printf("mask ");
        for (int32_t w = 0; w < (tok_count(jd_vocab) + 31) / 32; w++) printf("%08x", bits[w]);
        int32_t id = jd_token(bits, &r);
        puts(gram_complete(c->g, t.set) ? " whole" : " open");
        jd_agree(c, bits, &t, i == 0);
        if (id < 0) break;
        printf("take %d\n", id);
        t.set = mask_accept(c->m, t.set, id, i == 0);
    }
    gram_track_close(&t);
    puts("done");
}

static void jd_bytes(constrain *c, uint64_t seed, int64_t steps) {
    gram_track t;
    uint64_t   r = seed;
    gram_track_open(&t, c->g);
    for (int64_t i = 0; i < steps; i++) {
        uint8_t  may[256];
        uint32_t bits[8] = {0};
        int      n = jd_next(c->g, &t, may);
        for (int k = 0; k < n; k++) bits[may[k] / 32] |= 1u << (may[k] % 32);
        printf("mask ");
        for (int w = 0; w < 8; w++) printf("%08x", bits[w]);
        puts(gram_complete(c->g, t.set) ? " whole" : " open");
        if (!n) break;
        uint8_t byte = jd_choose(may, n, &r);
        printf("take %d\n", byte);
        t.set = gram_step(c->g, t.set, byte);
    }
    gram_track_close(&t);
    puts("done");
}

static void jd_close(constrain *c, uint64_t seed, int64_t left) {
    gram_track t;
    uint64_t   r = seed;
    int64_t    n = 0;
    gram_track_open(&t, c->g);
    for (; n < left; n++) {
        uint64_t        units = 0;
        const uint32_t *bits = mask_closing(c->m, t.set, n == 0, left - n, &units);
        int32_t         id = bits ? jd_token(bits, &r) : -1;
        if (id < 0 || (gram_complete(c->g, t.set) && jd_random(&r) % 4 == 0)) break;
        t.set = mask_accept(c->m, t.set, id, n == 0);
    }
    printf("%s %lld\n", t.set >= 0 && gram_complete(c->g, t.set) ? "closed" : "cut", (long long)n);
    gram_track_close(&t);
}

static void jd_put_words(void) {
    printf("words %d\n", tok_count(jd_vocab));
    for (int32_t id = 0; id < tok_count(jd_vocab); id++) {
        bytes b = tok_piece(jd_vocab, id);
        putchar(b.n ? '=' : '-');
        for (size_t i = 0; i < b.n; i++) printf("%02x", b.p[i]);
        puts(tok_is_eog(jd_vocab, id) ? " end" : "");
    }
}

/* --- commands --- */

static void jd_read(str *s, size_t n) {
    s->n = 0;
    for (size_t i = 0; i <= n; i++) {
        int  c = getchar();
        char byte = (char)c;
        if (c == EOF) die(EXIT_INPUT, "judge: the input ends in a text");
        if (i < n) str_add(s, &byte, 1);
    }
}

static void jd_put_tokens(bytes text) {
    tok_ids ids = {0};
    err_t   e = {0};
    if (!tok_encode(jd_vocab, text, 0, &ids, &e)) printf("error %d %s", e.code, e.text);
    for (size_t i = 0; i < ids.n; i++) printf("%s%d", i ? " " : "", ids.id[i]);
    printf("\n");
    tok_ids_drop(&ids);
}

/* The constraint that a `build` describes; NULL: it is refused. */
static constrain *jd_build(const char *kind, const char *form, bytes text) {
    err_t      e = {0};
    double     t0 = clock_now();
    constrain *c = ct_open(kind, form, text, jd_vocab, jd_words, &e);
    double     us = (clock_now() - t0) * 1e6;
    if (c) printf("held %.0f\n", us);
    else printf("refused %d %.0f %s\n", e.code, us, e.text);
    return c;
}

/* A command on the constraint that is there. false: it is none. */
static bool jd_ask(constrain *c, const char *line) {
    unsigned long long x = 0, y = 0;
    str                text = {0};
    bool               ok = true;
    if (sscanf(line, "match %llu", &x) == 1) {
        jd_read(&text, x);
        jd_match(c, str_bytes(&text));
    } else if (!strcmp(line, "least")) jd_put_text(shortest_text(c->g, gram__first(c->g), &text), &text);
    else if (sscanf(line, "sample %llu %llu", &x, &y) == 2) jd_put_text(jd_sample(c, x, y, &text), &text);
    else if (sscanf(line, "bytes %llu %llu", &x, &y) == 2) jd_bytes(c, x, (int64_t)y);
    else if (c->m && sscanf(line, "walk %llu %llu", &x, &y) == 2) jd_walk(c, x, (int64_t)y);
    else if (c->m && sscanf(line, "close %llu %llu", &x, &y) == 2) jd_close(c, x, (int64_t)y);
    else ok = false;
    str_drop(&text);
    return ok;
}

static void jd_command(constrain **c, const char *line) {
    char               kind[20], form[20];
    unsigned long long n = 0;
    str                text = {0};
    if (!strcmp(line, "words")) jd_put_words();
    else if (jd_vocab && sscanf(line, "tokens %llu", &n) == 1) {
        jd_read(&text, n);
        jd_put_tokens(str_bytes(&text));
    } else if (sscanf(line, "build %19s %19s %llu", kind, form, &n) == 3) {
        jd_read(&text, n);
        constrain_close(*c);
        *c = jd_build(kind, form, str_bytes(&text));
    } else if (!*c || !jd_ask(*c, line)) die(EXIT_INPUT, "judge: %s", line);
    str_drop(&text);
}

static void jd_open(const char *path) {
    err_t e = {0};
    if (!gguf_open(&jd_file, path, &e) || !(jd_vocab = tok_load(&jd_file, NULL, &e))) die(e.code, "%s", e.text);
    jd_words = mask_vocab_new(jd_vocab);
}

int main(int argc, char **argv) {
    char       line[200];
    constrain *c = NULL;
    if (argc > 1) jd_open(argv[1]);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        jd_command(&c, line);
        fflush(stdout);
    }
    constrain_close(c);
    return 0;
}
