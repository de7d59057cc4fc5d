/* Renders many snippets in one process, for tests/templates.py.
 * stdin: the variables as JSON, then snippets; each with its length in four bytes before it, lowest first.
 * stdout, for each snippet: its exit code in a byte, a length in four bytes, what was printed or the message. */
#include "program.h"

/* The next record of stdin; false: there is none. */
static bool sn_next(str *s) {
    uint8_t head[4];
    str_clear(s);
    if (fread(head, 1, sizeof head, stdin) != sizeof head) return false;
    size_t n = head[0] | head[1] << 8 | head[2] << 16 | (size_t)head[3] << 24;
    for (char part[4096]; s->n < n;) {
        size_t want = n - s->n < sizeof part ? n - s->n : sizeof part, got = fread(part, 1, want, stdin);
        if (!got) die(EXIT_INPUT, "snippets: a record ends early");
        str_add(s, part, got);
    }
    return true;
}

static void sn_answer(int code, bytes text) {
    uint8_t head[5] = {(uint8_t)code, (uint8_t)text.n, (uint8_t)(text.n >> 8), (uint8_t)(text.n >> 16), (uint8_t)(text.n >> 24)};
    fwrite(head, 1, sizeof head, stdout);
    if (text.n) fwrite(text.p, 1, text.n, stdout);
    fflush(stdout);                                   /* what was done before a crash arrives */
}

static void sn_render(bytes snippet, val vars) {
    err_t      e = {0};
    jinja_text out = {0};
    jinja     *t = jinja_parse(snippet, "snippet", &e);
    bool       ok = t && jinja_render(t, vars, &out, &e);
    sn_answer(ok ? EXIT_DONE : e.code, ok ? str_bytes(&out.text) : bytes_of(e.text));
    jinja_text_drop(&out);
    jinja_free(t);
}

int main(void) {
    str     s = {0}, json = {0};
    err_t   e = {0};
    val_env env;
    g_log_level = LOG_QUIET;
    val_env_init(&env, 0, 0, "variables");
    if (!sn_next(&json)) die(EXIT_INPUT, "snippets: no variables");
    chat__reading r = {.json = str_bytes(&json)};
    if (!val_run(&env, chat__read_json, &r, &e)) die(e.code, "%s", e.text);
    while (sn_next(&s)) sn_render(str_bytes(&s), r.v);
    val_env_drop(&env);
    str_drop(&json);
    str_drop(&s);
    return EXIT_DONE;
}
