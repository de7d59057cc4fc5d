/* Records in other forms: tables, texts, a list. */
#include "program.h"
#include "check.h"

#define TF_RECORD(no, id, choices, more) \
    "{\"id\":\"batch_req_" no "_0000000000000001\",\"custom_id\":" id ",\"line\":" no ",\"response\":{\"status_code\":200,\"request_id\":\"req_1\"," \
    "\"body\":{\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"created\":1,\"model\":\"m\",\"system_fingerprint\":\"f\",\"choices\":[" choices \
    "],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4,\"total_tokens\":13}}},\"error\":null" more "}"
#define TF_TEXT(i, text, more) "{\"index\":" i ",\"text\":" text more ",\"logprobs\":null,\"finish_reason\":\"stop\",\"logprob\":-1.5}"
#define TF_CHAT(message) "{\"index\":0,\"message\":{\"role\":\"assistant\"," message ",\"refusal\":null},\"logprobs\":null,\"finish_reason\":\"length\"}"
#define TF_ERROR(no) "{\"id\":\"batch_req_" no "_0000000000000001\",\"custom_id\":null,\"line\":" no ",\"response\":null," \
                     "\"error\":{\"code\":\"c\",\"message\":\"bad, \\\"x\\\"\"}}"

static void tf_put(const forms_spec *f, const char *const *records, size_t n, str *out) {
    str_clear(out);
    forms_head(f, out);
    for (size_t i = 0; i < n; i++) forms_put(f, bytes_of(records[i]), !i, out);
    forms_tail(f, out);
}

static void t_forms_table(void) {
    static const char *const records[] = {
        TF_RECORD("2", "\"a,\\\"b\"", TF_TEXT("0", "\"x\\n\\u00e9\"", "") "," TF_TEXT("1", "\"y\\tz\"", ""),
                  ",\"prompt\":\"p\",\"seed\":-7,\"times\":{\"queued_s\":null,\"first_token_s\":0.5,\"total_s\":1},"
                  "\"fields\":{\"c d\":[1,\"x\"],\"text\":\"in\",\"n\":null}"),
        TF_RECORD("3", "null", TF_CHAT("\"content\":null,\"reasoning_content\":\"Hm\",\"tool_calls\":[{\"id\":\"i\"}]"),
                  ",\"prompt\":[5,6],\"seed\":9223372036854775807"),
        TF_RECORD("4", "null", TF_TEXT("0", "\"\"", "") "," TF_TEXT("1", "\"\"", ""), ",\"prompt\":[\"A\",[5,6]]"),
        TF_ERROR("5")};
    forms_spec f = {.parts = true, .fields = REQ_PROMPT | REQ_SEED | REQ_LOGPROB | REQ_TIMES};
    str        out = {0};
    forms_add(&f, bytes_of("c d"));
    forms_add(&f, bytes_of("text"));
    forms_add(&f, bytes_of("n"));
    tf_put(&f, records, 4, &out);
    EQ_STR(out.p, "line,custom_id,index,c d,input.text,n,text,finish_reason,prompt_tokens,completion_tokens,error,prompt,seed,logprob,"
                  "queued_s,first_token_s,total_s,reasoning_content,tool_calls\n"
                  "2,\"a,\"\"b\",0,\"[1,\"\"x\"\"]\",in,,\"x\n\xc3\xa9\",stop,9,4,,p,-7,-1.5,,0.5,1,,\n"
                  "2,\"a,\"\"b\",1,\"[1,\"\"x\"\"]\",in,,y\tz,stop,,,,p,-6,-1.5,,0.5,1,,\n"
                  "3,,0,,,,,length,9,4,,5 6,9223372036854775807,,,,,Hm,\"[{\"\"id\"\":\"\"i\"\"}]\"\n"
                  "4,,0,,,,,stop,9,4,,A,,-1.5,,,,,\n4,,1,,,,,stop,,,,5 6,,-1.5,,,,,\n"
                  "5,,,,,,,,,,\"c: bad, \"\"x\"\"\",,,,,,,,\n");
    forms_drop(&f);
    f = (forms_spec){.kind = FORMS_TSV, .files = true};
    tf_put(&f, records, 1, &out);
    EQ_STR(out.p, "line\tfile\tcustom_id\tindex\ttext\tfinish_reason\tprompt_tokens\tcompletion_tokens\terror\n"
                  "2\t\t\"a,\"\"b\"\t0\t\"x\n\xc3\xa9\"\tstop\t9\t4\t\n2\t\t\"a,\"\"b\"\t1\t\"y\tz\"\tstop\t\t\t\n");
    str_drop(&out);
}

/* A column for each key of the schema; an answer that is no object is in the error's column. */
static void t_forms_keys(void) {
    static const char *const records[] = {
        TF_RECORD("1", "null", TF_TEXT("0", "\" {\\\"name\\\": \\\"A, B\\\", \\\"n\\\":1.50,\\\"ok\\\":true,\\\"more\\\":{\\\"x\\\": [1]},\\\"line\\\":null}\"", ""),
                  ",\"fields\":{\"n\":\"7\"}"),
        TF_RECORD("2", "null", TF_TEXT("0", "\"{\\\"name\\\": \\\"A\"", ""), ""), TF_ERROR("3")};
    static const char *const schemas[] = {
        "{\"type\":\"object\",\"properties\":{\"name\":{},\"n\":{\"properties\":{\"z\":1}},\"o\\u006b\":{},\"more\":{},\"line\":{}}}",
        "{\"$ref\":\"#/$defs/A\",\"$defs\":{\"A\":{\"$ref\":\"#/definitions/B\"}},\"definitions\":{\"B\":"
        "{\"properties\":{\"name\":{},\"n\":{},\"ok\":{},\"more\":{},\"line\":true}}}}"};
    for (int i = 0; i < 2; i++) {
        forms_spec f = {.kind = FORMS_CSV};
        str        out = {0};
        forms_add(&f, bytes_of("n"));
        forms_add_keys(&f, bytes_of(schemas[i]));
        tf_put(&f, records, 3, &out);
        EQ_STR(out.p, "line,custom_id,index,input.n,name,n,ok,more,answer.line,finish_reason,prompt_tokens,completion_tokens,error\n"
                      "1,,0,7,\"A, B\",1.50,true,\"{\"\"x\"\": [1]}\",,stop,9,4,\n"
                      "2,,0,,,,,,,stop,9,4,\"no object: {\"\"name\"\": \"\"A\"\n"
                      "3,,,,,,,,,,,,\"c: bad, \"\"x\"\"\"\n");
        str_drop(&out);
        forms_drop(&f);
    }
    static const char *const none[] = {"{\"type\":\"array\"}", "true", "{\"$ref\":\"#\"}", "{\"$ref\":\"#/$defs/A\",\"$defs\":{\"A\":{\"$ref\":\"#/$defs/A\"}}}", ""};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        forms_spec f = {0};
        forms_add_keys(&f, bytes_of(none[i]));
        EQ_INT(f.keys.n, 0);
        forms_drop(&f);
    }
}

/* Exact bytes of an answer, its calls where it has no content; an error is an empty text. */
static void t_forms_text(void) {
    static const char *const records[] = {TF_RECORD("1", "null", TF_TEXT("0", "\"a\\n\\\"b\\\"\"", "") "," TF_TEXT("1", "\"\"", ""), ""),
                                          TF_RECORD("2", "null", TF_TEXT("0", "\"x\xef\xbf\xbd\"", ",\"bytes\":\"eP8=\""), ""), TF_ERROR("3"),
                                          TF_RECORD("4", "null", TF_CHAT("\"content\":\"c\",\"reasoning_content\":\"Hm\""), ""),
                                          TF_RECORD("5", "null", TF_CHAT("\"content\":null,\"tool_calls\":[{\"id\":\"i\"}]"), "")};
    forms_spec f = {.kind = FORMS_TEXT};
    str        out = {0};
    tf_put(&f, records, 5, &out);
    EQ_STR(out.p, "a\n\"b\"\n\nx\xff\n\nc\n[{\"id\":\"i\"}]\n");
    f.zero = true;
    tf_put(&f, records, 2, &out);
    EQ_INT(out.n, 10);
    EQ_MEM(out.p, "a\n\"b\"\0\0x\xff\0", 10);
    str_drop(&out);
}

static void t_forms_list(void) {
    static const char *const records[] = {TF_ERROR("1"), TF_ERROR("2")};
    forms_spec f = {.kind = FORMS_LIST};
    str        out = {0};
    tf_put(&f, records, 2, &out);
    EQ_STR(out.p, "[\n" TF_ERROR("1") ",\n" TF_ERROR("2") "\n]\n");
    tf_put(&f, records, 0, &out);
    EQ_STR(out.p, "[\n]\n");
    str_drop(&out);
}

/* A record that has another shape gives rows without values, not a crash. */
static void t_forms_odd(void) {
    static const char *const records[] = {
        "{\"id\":\"batch_req_1_0\",\"custom_id\":5,\"line\":1,\"response\":{\"body\":{\"choices\":7}},\"error\":[]}", "{}", "",
        "{\"response\":{\"body\":{\"choices\":[1,{\"message\":[]}],\"usage\":{}}},\"prompt\":[[],[]],\"seed\":{},\"fields\":3}"};
    forms_spec f = {.fields = REQ_PROMPT | REQ_SEED};
    str        out = {0};
    forms_add(&f, bytes_of("c"));
    tf_put(&f, records, 4, &out);
    EQ_STR(out.p, "line,custom_id,index,c,text,finish_reason,prompt_tokens,completion_tokens,error,prompt,seed\n"
                  "1,5,,,,,,,,,\n,,,,,,,,,,\n,,,,,,,,,,\n,,0,,,,,,,[],\n,,1,,,,,,,[],\n");
    str_drop(&out);
    forms_drop(&f);
}

static const t_case t_forms_cases[] = {
    {"forms table", "rows of CSV and TSV: completions, errors, columns of the input, prompts, seeds, times, parts of chats", t_forms_table},
    {"forms keys", "a column for each key of the objects that a schema describes", t_forms_keys},
    {"forms text", "answers alone are exact bytes, an error is an empty one", t_forms_text},
    {"forms list", "a list of records is JSON", t_forms_list},
    {"forms odd", "records of another shape", t_forms_odd},
};
static const t_suite t_forms_suite = SUITE(t_forms_cases);
