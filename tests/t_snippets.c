/* Tests of [val], [filter] and [jinja] together: recorded snippets with what Jinja2 makes of them; see the head of
 * data/snippets.txt. */
#include "program.h"
#include "check.h"

/* Undoes \n \t \r \\ in place; the length. */
static size_t t_snippet_plain(char *s) {
    char *to = s;
    for (const char *p = s; *p; p++) {
        if (*p == '\\' && p[1]) p++, *to++ = *p == 'n' ? '\n' : *p == 't' ? '\t' : *p == 'r' ? '\r' : *p;
        else *to++ = *p;
    }
    *to = 0;
    return (size_t)(to - s);
}

/* `want`: "!" for a failure, else "=" and the text. */
static void t_snippet(char *text, char *want, val vars) {
    char      *shown = mem_new(strlen(text) + 1, 1);
    bytes      snippet;
    err_t      e = {0};
    jinja_text out = {0};
    strcpy(shown, text);
    snippet = (bytes){(const uint8_t *)text, t_snippet_plain(text)};
    bytes  result = {(const uint8_t *)want + 1, t_snippet_plain(want + 1)};
    jinja *t = jinja_parse(snippet, "snippet", &e);
    bool   ok = t && jinja_render(t, vars, &out, &e);
    const bool  right = *want == '!' ? !ok && e.code == EXIT_INPUT : ok && bytes_eq(str_bytes(&out.text), result);
    const bytes got = ok ? str_bytes(&out.text) : bytes_of(e.text);
    t__report(right, __FILE__, __LINE__, "%s: got %.*s, want %s", shown, (int)got.n, (const char *)got.p,
        *want == '!' ? "an error" : want + 1);
    jinja_text_drop(&out);
    jinja_free(t);
    mem_free(shown);
}

typedef struct {
    val_env *env;
    char    *json;
    val      vars;
} t_snippet_vars;

static void t_snippet_read_vars(val_env *env, void *arg) {
    t_snippet_vars *v = arg;
    v->vars = val_json_read(env, bytes_of(v->json), VAL_JSON_INPUT);
}

static void t_snippets_recorded(void) {
    char   *file = t_read("tests/data/snippets.txt", NULL), *rest = NULL;
    val_env env;
    err_t   e = {0};
    int     n = 0;
    if (!CHECK(file)) return;
    char *line = strtok_r(file, "\n", &rest);
    while (line && *line == '#') line = strtok_r(NULL, "\n", &rest);
    t_snippet_vars vars = {&env, line, val_none()};
    val_env_init(&env, 0, 0, "variables");
    if (CHECK(line && val_run(&env, t_snippet_read_vars, &vars, &e)))
        for (char *tab; (line = strtok_r(NULL, "\n", &rest)) && (tab = strchr(line, '\t')); n++) {
            *tab = 0;
            t_snippet(line, tab + 1, vars.vars);
        }
    CHECK(n >= 1000);
    val_env_drop(&env);
    mem_free(file);
}

static const t_case t_snippets_cases[] = {
    {"snippets", "recorded snippets of templates print what Jinja2 prints, or fail where it fails", t_snippets_recorded},
};
static const t_suite t_snippets_suite = SUITE(t_snippets_cases);
