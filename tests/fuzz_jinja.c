/* Fuzzes templates. The input up to the first NUL is a template, the rest JSON for its variables; broken JSON: none. A template
 * that parses is rendered twice within small limits: both times the same text comes out, or the same error, and the variables stay
 * as they are. */
#include "program.h"

typedef struct {
    bytes json;
    val   vars;
    str   text;                                       /* the variables as JSON */
} fz_input;

static void fz_read(val_env *env, void *arg) {
    fz_input *in = arg;
    const val v = val_json_read(env, in->json, VAL_JSON_INPUT);
    if (v.kind == VAL_DICT) in->vars = v;
}

static void fz_write(val_env *env, void *arg) {
    fz_input *in = arg;
    val_buf  *b = val_buf_new(env);
    val_json_write(env, b, in->vars, NULL);
    val_utf8(val_buf_str(b), &in->text);
}

static void fz_render(const jinja *t, fz_input *in) {
    const jinja_limits most = {4 << 20, 30000};
    jinja_text         text[2];
    err_t              e[2] = {{0}, {0}};
    for (int i = 0; i < 2; i++) {
        const bool ok = jinja__render_within(t, in->vars, most, &text[i], &e[i]);
        ASSERT(ok ? !e[i].code : (e[i].code == EXIT_INPUT || e[i].code == EXIT_RESOURCE) && strncmp(e[i].text, "t:", 2) == 0);
        ASSERT(!text[i].from.n ? !text[i].text.n : text[i].from.at[text[i].from.n - 1].end == text[i].text.n);
    }
    ASSERT(e[0].code == e[1].code && bytes_eq(str_bytes(&text[0].text), str_bytes(&text[1].text)) && text[0].from.n == text[1].from.n);
    jinja_text_drop(&text[0]), jinja_text_drop(&text[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    const bytes    text = {data, end ? (size_t)(end - data) : size};
    val_env        env;
    err_t          e = {0}, none = {0};
    val_env_init(&env, 0, 0, NULL);
    fz_input in = {.json = end ? (bytes){end + 1, size - text.n - 1} : (bytes){0}, .vars = val_dict_new(&env)};
    val_run(&env, fz_read, &in, &none);
    val_run(&env, fz_write, &in, &none);
    str before = in.text;
    in.text = (str){0};
    jinja *t = jinja_parse(text, "t", &e);
    ASSERT(t ? !e.code : (e.code == EXIT_INPUT || e.code == EXIT_RESOURCE) && strncmp(e.text, "t:", 2) == 0);
    if (t) fz_render(t, &in);
    val_run(&env, fz_write, &in, &none);
    ASSERT(bytes_eq(str_bytes(&before), str_bytes(&in.text)));
    jinja_free(t);
    str_drop(&before), str_drop(&in.text);
    val_env_drop(&env);
    return 0;
}
