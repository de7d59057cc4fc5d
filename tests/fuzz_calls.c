/* Fuzzes the reader of tool calls. First byte: the form; second: whether tools are given, and where the answer is cut; the rest
 * is the answer. Arguments are JSON objects, content is the answer without some of its bytes, and content that was safe in the cut
 * answer is content of the whole one. */
#include "program.h"

static const char fz_tools[] = "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"type\": \"string\"}, \"b\": {\"type\": \"array\", \"items\": {\"type\": \"object\"}}}}}}]";

static calls_form *fz_form(uint8_t number) {
    const size_t n = sizeof calls_rows / sizeof *calls_rows;
    calls_form  *f = mem_new(1, sizeof *f);
    size_t       i = number % n;
    while (!calls_rows[i].name) i--;
    calls__take_row(f, &calls_rows[i]);
    f->raw_quote = number & 128 ? '\'' : 0;
    return f;
}

typedef struct {
    bytes json;
    bool  object;
} fz_json;

static void fz_object(val_env *env, void *arg) {
    fz_json *j = arg;
    j->object = val_json_read(env, j->json, 0).kind == VAL_DICT;
}

static void fz_calls(const call_list *l) {
    for (size_t i = 0; i < l->n; i++) {
        fz_json j = {l->at[i].arguments, false};
        val_env env;
        err_t   e = {0};
        val_env_init(&env, 0, 0, NULL);
        ASSERT(val_run(&env, fz_object, &j, &e) && j.object && l->at[i].name.n && l->at[i].id.n);
        val_env_drop(&env);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    const bytes  text = {data + 2, size - 2};
    const size_t cut = text.n * (data[1] & 127) / 127;
    calls_form  *f = fz_form(data[0]);
    val_env      env;
    str          content = {0};
    call_list    calls;
    size_t       k = 0;
    val_env_init(&env, 0, 0, NULL);
    calls_read(f, text, data[1] & 128 ? val_json_read(&env, bytes_of(fz_tools), 0) : val_undef(NULL), 0, &content, &calls);
    fz_calls(&calls);
    for (size_t i = 0; i < text.n && k < content.n; i++) k += text.p[i] == (uint8_t)content.p[k];
    ASSERT(k == content.n && (calls.n || content.n == text.n));
    const size_t some = calls_safe(f, (bytes){text.p, cut}, 0), all = calls_safe(f, text, some);
    ASSERT(some <= cut && some <= all && all == calls_safe(f, text, 0) && all <= content.n && (!all || memcmp(content.p, text.p, all) == 0));
    call_list_drop(&calls);
    str_drop(&content);
    val_env_drop(&env);
    calls_form_free(f);
    return 0;
}
