/* [calls]: answers of models in every form of the table, read whole and cut at every byte; types of parameters; broken and hostile answers. */
#include "program.h"
#include "check.h"
#include "shortest.h"

/* The form of a row, as if a template had been rendered with its white space. */
static calls_form *tcall_form(const char *name) {
    calls_form *f = mem_new(1, sizeof *f);
    for (size_t i = 0; i < sizeof calls_rows / sizeof *calls_rows; i++)
        if (calls_rows[i].name && strcmp(calls_rows[i].name, name) == 0) return calls__take_row(f, &calls_rows[i]), f;
    CHECKF(false, "no form %s", name);
    mem_free(f);
    return NULL;
}

/* What was read: the content in brackets, then "name arguments" of each call, and its id where the answer has it. */
static void tcall_tell(const calls_form *f, bytes text, val tools, str *out) {
    str       content = {0};
    call_list calls;
    calls_read(f, text, tools, 0, &content, &calls);
    str_fmt(out, "(%.*s)", (int)content.n, content.n ? content.p : "");
    for (size_t i = 0; i < calls.n; i++) {
        const calls_call c = calls.at[i];
        str_fmt(out, " %.*s %.*s", (int)c.name.n, (const char *)c.name.p, (int)c.arguments.n, (const char *)c.arguments.p);
        if (bytes_find(text, 0, c.id) != SIZE_MAX) str_fmt(out, " #%.*s", (int)c.id.n, (const char *)c.id.p);
    }
    call_list_drop(&calls);
    str_drop(&content);
}

static const char tcall_tools[] = "[{\"type\": \"function\", \"function\": {\"name\": \"get\", \"parameters\": {\"type\": \"object\", \"properties\": {"
    "\"s\": {\"type\": \"string\"}, \"n\": {\"type\": \"integer\"}, \"b\": {\"type\": \"boolean\"}, \"l\": {\"type\": \"array\", \"items\": {\"type\": \"string\"}}, \"o\": {\"type\": \"object\"}, "
    "\"sn\": {\"type\": [\"string\", \"null\"]}, \"si\": {\"type\": [\"string\", \"integer\"]}, \"e\": {\"enum\": [\"1\", \"2\"]}, \"any\": {\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"null\"}]}, "
    "\"x\": {}, \"up\": {\"type\": \"STRING\"}, \"ty\": {\"type\": \"any\"}, \"nu\": {\"type\": \"str\", \"nullable\": true}, \"en\": {\"enum\": [\"a\", null]}}}}}, {\"name\": \"put\", \"parameters\": {\"properties\": {\"s\": {\"type\": \"string\"}, \"n\": {\"type\": \"integer\"}, \"b\": {\"type\": \"boolean\"}, "
    "\"l\": {\"type\": \"array\"}, \"o\": {\"type\": \"object\"}}}}]";

/* What templates get, which expect each tool as an object of type "function" with a description. */
static const char tcall_template_tools[] = "[{\"type\": \"function\", \"function\": {\"name\": \"get\", \"description\": \"d\", \"parameters\": {\"type\": \"object\", \"properties\": {"
    "\"s\": {\"type\": \"string\", \"description\": \"d\"}, \"n\": {\"type\": \"integer\", \"description\": \"d\"}}, \"required\": [\"s\"]}}}]";

#define TCALL_DB "<\xef\xbd\x9ctool\xe2\x96\x81" "calls\xe2\x96\x81" "begin\xef\xbd\x9c>"
#define TCALL_DE "<\xef\xbd\x9ctool\xe2\x96\x81" "calls\xe2\x96\x81" "end\xef\xbd\x9c>"
#define TCALL_CB "<\xef\xbd\x9ctool\xe2\x96\x81" "call\xe2\x96\x81" "begin\xef\xbd\x9c>"
#define TCALL_CE "<\xef\xbd\x9ctool\xe2\x96\x81" "call\xe2\x96\x81" "end\xef\xbd\x9c>"
#define TCALL_SEP "<\xef\xbd\x9ctool\xe2\x96\x81" "sep\xef\xbd\x9c>"
#define TCALL_ML "\xef\xbd\x9c" "DSML\xef\xbd\x9c"
#define TCALL_M3 "]<]minimax[>["

/* An answer in a form, and what is read. */
static const struct {
    const char *form, *text, *want;
} tcall_answers[] = {
    {"tool_call", "Hello", "(Hello)"},
    {"tool_call", "", "()"},
    {"tool_call", " \n", "( \n)"},
    {"tool_call", "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"s\": \"x\"}}\n</tool_call>", "() get {\"s\": \"x\"}"},
    {"tool_call", "One <tool_call>{\"name\": \"get\", \"arguments\": {}}</tool_call> two <tool_call>{\"arguments\": {\"a\": [1]}, \"name\": \"put\"}</tool_call> three\n",
     "(One  two  three\n) get {} put {\"a\": [1]}"},
    {"tool_call", "<tool_call>{\"name\": \"get\", \"arguments\": {}}</tool_call>\n\n<tool_call>\n{\"name\": \"put\", \"arguments\": {}}\n</tool_call>\n", "() get {} put {}"},
    {"tool_call", "<tool_call>{\"name\": \"get\", \"arguments\": \"{\\\"s\\\": \\\"\\\\u00e9\\\"}\"}</tool_call>",
     "() get {\"s\": \"\\u00e9\"}"},
    {"tool_call", "<tool_call>{\"name\": \"get\"}</tool_call>", "() get {}"},
    {"tool_call", "<tool_call>{\"name\": \"get\", \"arguments\": null}</tool_call>", "() get {}"},
    {"tool_call", "<tool_call>{\"id\": \"a1\", \"type\": \"function\", \"function\": {\"name\": \"get\", \"arguments\": {\"n\": 1}}}</tool_call>", "() get {\"n\": 1} #a1"},
    {"tool_call", "<tool_call>{\"name\": \"get\", \"arguments\": {\"s\": \"</tool_call> \\\" \xc3\xa9 {[\"}}</tool_call>",
     "() get {\"s\": \"</tool_call> \\\" \xc3\xa9 {[\"}"},
    {"tool_call", "<tool_call>{\"name\": \"get\", \"arguments\": {\"s\": \"a\nb\"}}</tool_call>",
     "() get {\"s\": \"a\\u000ab\"}"},
    {"tool_call", "<tool_call>{'name': 'get', 'arguments': {'s': 'it\\'s', 'b': True, 'l': (1, None)}}</tool_call>",
     "() get {\"s\": \"it's\", \"b\": true, \"l\": [1, null]}"},
    {"tool_call", "<tool_call>{\"name\": \"get\", \"arguments\": {}}", "() get {}"},
    {"tool_call", "<tool_call>{\"name\": \"get\", \"arguments\": {}}</tool_", "() get {}"},
    {"tool_call", "<tool_call>{\"name\": \"get\", \"arguments\": {}}<tool_call>{\"name\": \"put\", \"arguments\": {}}</tool_call>", "() get {} put {}"},
    {"tool_call", "<tool_call>{\"name\": \"get\", \"arguments\": {\"s\": \"x",
     "(<tool_call>{\"name\": \"get\", \"arguments\": {\"s\": \"x)"},
    {"tool_call", "<tool_call>{\"name\": \"get\", \"arguments\": {}} no",
     "(<tool_call>{\"name\": \"get\", \"arguments\": {}} no)"},
    {"tool_call", "<tool_call>{\"name\": 1, \"arguments\": {}}</tool_call>",
     "(<tool_call>{\"name\": 1, \"arguments\": {}}</tool_call>)"},
    {"tool_call", "<tool_call>{\"name\": \"get\", \"arguments\": [1]}</tool_call>",
     "(<tool_call>{\"name\": \"get\", \"arguments\": [1]}</tool_call>)"},
    {"tool_call", "The tag <tool_call> opens a call.", "(The tag <tool_call> opens a call.)"},
    {"tool_call", "<tool_call>\n[{\"name\": \"get\", \"arguments\": {}}, {\"name\": \"put\", \"arguments\": {}}]\n</tool_call>", "() get {} put {}"},
    {"tool_call-parameters",
     "Text\n\n<tool_call>\n<function=get>\n<parameter=s>\nan \"a\" & <b>\n</parameter>\n<parameter=n>\n17\n</parameter>\n</function>\n</tool_call>",
     "(Text\n\n) get {\"s\": \"an \\\"a\\\" & <b>\", \"n\": 17}"},
    {"tool_call-parameters", "<tool_call><function=get></function></tool_call>", "() get {}"},
    {"tool_call-parameters", "<tool_call><function=get><parameter=s>17</parameter></function></tool_call>",
     "() get {\"s\": \"17\"}"},
    {"tool_call-parameters",
     "<tool_call><function=get><parameter=s>\n\n</parameter><parameter=x>\n\n\n\n</parameter></function></tool_call>",
     "() get {\"s\": \"\", \"x\": \"\\n\\n\"}"},
    {"tool_call-parameters", "<tool_call><function=get><parameter=s>a</parameter>b</parameter></function></tool_call>",
     "() get {\"s\": \"a</parameter>b\"}"},
    {"tool_call-parameters", "<function=get>\n<parameter=n>\n1\n</parameter>\n</function>\n</tool_call>",
     "() get {\"n\": 1}"},
    {"tool_call-parameters", "<tool_call>\n<function=get>\n<parameter=n>\n1\n</parameter>\n</function>", "() get {\"n\": 1}"},
    {"tool_call-parameters", "<tool_call>\n<function=get>\n<parameter=n>\n1\n</parameter>\n",
     "(<tool_call>\n<function=get>\n<parameter=n>\n1\n</parameter>\n)"},
    {"seed", "<seed:tool_call>\n<function=get>\n<parameter=s>x</parameter>\n</function>\n</seed:tool_call>",
     "() get {\"s\": \"x\"}"},
    {"tool_call-keys", "<tool_call>get\n<arg_key>s</arg_key>\n<arg_value> a b </arg_value>\n<arg_key>l</arg_key>\n<arg_value>[\"a\"]</arg_value>\n</tool_call>", "() get {\"s\": \" a b \", \"l\": [\"a\"]}"},
    {"tool_call-keys", "<tool_call>get</tool_call>", "() get {}"},
    {"hunyuan", "<tool_calls:opensource>\n<tool_call:opensource>get<tool_sep:opensource>\n<arg_key:opensource>n</arg_key:opensource>\n<arg_value:opensource>5</arg_value:opensource>\n"
     "</tool_call:opensource>\n<tool_call:opensource>put<tool_sep:opensource>\n</tool_call:opensource>\n</tool_calls:opensource>", "() get {\"n\": 5} put {}"},
    {"hunyuan-json", "<tool_calls><tool_call>function<tool_sep>get\n```json\n{\"n\": 5}\n```</tool_call></tool_calls>",
     "() get {\"n\": 5}"},
    {"hunyuan-json", "<tool_calls><tool_call>get\n```json\n{}\n```</tool_call></tool_calls>", "() get {}"},
    {"tool_calls-list", "Yes.\n<tool_calls>[{\"name\": \"get\", \"arguments\": {\"n\": 1}}, {\"name\": \"put\", \"arguments\": {}}]</tool_calls>", "(Yes.\n) get {\"n\": 1} put {}"},
    {"tool_calls-list", "<tool_calls>[{\"name\": \"get\", \"arguments\": {}}, {\"name\": \"put\", \"arg",
     "(, {\"name\": \"put\", \"arg) get {}"},
    {"tool_calls-list", "<tool_calls>[]</tool_calls>", "(<tool_calls>[]</tool_calls>)"},
    {"mistral", "Text[TOOL_CALLS][{\"name\": \"get\", \"arguments\": {\"s\": \"]\"}, \"id\": \"abc123XYZ\"}]",
     "(Text) get {\"s\": \"]\"} #abc123XYZ"},
    {"mistral", "[TOOL_CALLS]get[ARGS]{\"s\": \"[ARGS]\"}[TOOL_CALLS]put[CALL_ID]abc123XYZ[ARGS]{}",
     "() get {\"s\": \"[ARGS]\"} put {} #abc123XYZ"},
    {"deepseek-r1", "Text" TCALL_DB TCALL_CB "function" TCALL_SEP "get\n```json\n{\"n\": 1}\n```" TCALL_CE "\n" TCALL_CB "function" TCALL_SEP "put\n```json\n{}\n```" TCALL_CE TCALL_DE, "(Text) get {\"n\": 1} put {}"},
    {"deepseek-v3.1", TCALL_DB TCALL_CB "get" TCALL_SEP "{\"n\": 1}" TCALL_CE TCALL_CB "put" TCALL_SEP "{}" TCALL_CE TCALL_DE, "() get {\"n\": 1} put {}"},
    {"deepseek-v3.1", TCALL_CB "get" TCALL_SEP "{\"n\": 1}" TCALL_CE, "() get {\"n\": 1}"},
    {"deepseek-v3.2", "<" TCALL_ML "function_calls>\n<" TCALL_ML "invoke name=\"get\">\n<" TCALL_ML "parameter name=\"s\" string=\"true\">17</" TCALL_ML "parameter>\n<" TCALL_ML "parameter name=\"x\" string=\"false\">[1]</"
     TCALL_ML "parameter>\n</" TCALL_ML "invoke>\n</" TCALL_ML "function_calls>", "() get {\"s\": \"17\", \"x\": [1]}"},
    {"deepseek-v4", "<" TCALL_ML "tool_calls>\n<" TCALL_ML "invoke name=\"get\">\n</" TCALL_ML "invoke>\n</" TCALL_ML "tool_calls>", "() get {}"},
    {"step3", "<\xef\xbd\x9ctool_calls_begin\xef\xbd\x9c><\xef\xbd\x9ctool_call_begin\xef\xbd\x9c>function<\xef\xbd\x9ctool_sep\xef\xbd\x9c><steptml:invoke name=\"get\"><steptml:parameter name=\"n\">5</steptml:parameter>"
     "</steptml:invoke><\xef\xbd\x9ctool_call_end\xef\xbd\x9c><\xef\xbd\x9ctool_calls_end\xef\xbd\x9c>", "() get {\"n\": 5}"},
    {"kimi", "Text<|tool_calls_section_begin|><|tool_call_begin|>functions.get:0<|tool_call_argument_begin|>{\"n\": 1}<|tool_call_end|><|tool_call_begin|>functions.put:1<|tool_call_argument_begin|>{}"
     "<|tool_call_end|><|tool_calls_section_end|>", "(Text) get {\"n\": 1} #functions.get:0 put {} #functions.put:1"},
    {"kimi", "<|tool_call_begin|>get:12<|tool_call_argument_begin|>{}<|tool_call_end|>", "() get {} #get:12"},
    {"kimi", "<|tool_calls_section_begin|><|tool_call_begin|>get<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>", "() get {} #get"},
    {"command-r7b", "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"get\", \"parameters\": {\"n\": 1}},\n    {\"tool_call_id\": \"1\", \"tool_name\": \"put\", \"parameters\": {}}\n]<|END_ACTION|>",
     "() get {\"n\": 1} #0 put {} #1"},
    {"command-r", "Action:\n```json\n[\n    {\n        \"tool_name\": \"get\",\n        \"parameters\": {\"n\": 1}\n    }\n]```", "() get {\"n\": 1}"},
    {"gpt-oss", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.get <|constrain|>json<|message|>{\"n\": 1}<|call|>",
     "(<|channel|>analysis<|message|>Hm.<|end|>) get {\"n\": 1}"},
    {"gpt-oss", "<|start|>assistant to=functions.get<|channel|>commentary json<|message|>{\"n\": 1}", "() get {\"n\": 1}"},
    {"gpt-oss", " to=functions.get<|channel|>commentary<|message|>{}<|call|><|start|>assistant<|channel|>commentary to=functions.put<|message|>{}<|call|>", "() get {} put {}"},
    {"gemma", "<|tool_call>call:get{s:<|\"|>a \"b\", {c}<|\"|>,n:-5,b:true,l:[<|\"|>x<|\"|>],o:{k:null}}<tool_call|><|tool_call>call:put{}<tool_call|>Text",
     "(Text) get {\"s\": \"a \\\"b\\\", {c}\", \"n\": -5, \"b\": true, \"l\": [\"x\"], \"o\": {\"k\": null}} put {}"},
    {"functiongemma", "<start_function_call>call:get{s:<escape>a<escape>}<end_function_call>", "() get {\"s\": \"a\"}"},
    {"lfm2", "<|tool_call_start|>[get(s=\"a\\n\\\"b\\\" \\u00e9\", n=-1.5e3, b=True, l=['x', \"y\"], o={'k': None}), put()]<|tool_call_end|>Text",
     "(Text) get {\"s\": \"a\\n\\\"b\\\" \xc3\xa9\", \"n\": -1.5e3, \"b\": true, \"l\": [\"x\", \"y\"], \"o\": {\"k\": null}} put {}"},
    {"lfm2", "<|tool_call_start|>[{\"name\": \"get\", \"arguments\": {\"n\": 1}}]<|tool_call_end|>", "() get {\"n\": 1}"},
    {"lfm2", "<|tool_call_start|>[get(\"positional\")]<|tool_call_end|>",
     "(<|tool_call_start|>[get(\"positional\")]<|tool_call_end|>)"},
    {"minicpm3", "<|tool_call_start|>\n```python\nget(s=\"x\",n=1)\nput()\n```\n<|tool_call_end|>\nText",
     "(\nText) get {\"s\": \"x\", \"n\": 1} put {}"},
    {"olmo3", "<function_calls>\nget(s=\"x\")\nput()\n</function_calls>", "() get {\"s\": \"x\"} put {}"},
    {"minimax-m2", "<minimax:tool_call>\n<invoke name=\"get\">\n<parameter name=\"s\">a\nb</parameter>\n<parameter name=\"b\">True</parameter>\n</invoke>\n<invoke name=\"put\">\n</invoke>\n</minimax:tool_call>",
     "() get {\"s\": \"a\\nb\", \"b\": true} put {}"},
    {"minimax-m3", TCALL_M3 "<tool_call>\n" TCALL_M3 "<invoke name=\"get\">" TCALL_M3 "<s>x" TCALL_M3 "</s>" TCALL_M3 "<l>" TCALL_M3 "<item>a" TCALL_M3 "</item>" TCALL_M3 "<item>b" TCALL_M3 "</item>" TCALL_M3 "</l>" TCALL_M3 "<o>" TCALL_M3
     "<k>1" TCALL_M3 "</k>" TCALL_M3 "</o>" TCALL_M3 "</invoke>\n" TCALL_M3 "</tool_call>",
     "() get {\"s\": \"x\", \"l\": [\"a\", \"b\"], \"o\": {\"k\": 1}}"},
    {"minicpm", "<function name=\"get\"><param name=\"s\"><![CDATA[<a>&</a>]]></param><param name=\"n\">5</param></function>", "() get {\"s\": \"<a>&</a>\", \"n\": 5}"},
    {"granite", "<|tool_call|>[{\"name\": \"get\", \"arguments\": {\"n\": 1}}, {\"name\": \"put\", \"arguments\": {}}]",
     "() get {\"n\": 1} put {}"},
    {"phi-4", "<|tool_call|>[{\"name\": \"get\", \"arguments\": {\"n\": 1}}]<|/tool_call|>", "() get {\"n\": 1}"},
    {"nemotron", "<TOOLCALL>[{\"name\": \"get\", \"arguments\": {\"n\": 1}}]</TOOLCALL>", "() get {\"n\": 1}"},
    {"apertus", "<|tools_prefix|>[{\"get\": {\"n\": 1}}, {\"put\": {}}]<|tools_suffix|>", "() get {\"n\": 1} put {}"},
    {"solar", "<|tool_calls|><|tool_call:begin|>id-7<|tool_call:name|>get<|tool_call:args|>{\"n\": 1}<|tool_call:end|><|calls|>", "() get {\"n\": 1} #id-7"},
    {"internlm", "Text<|action_start|><|plugin|>\n{\"name\": \"get\", \"parameters\": {\"n\": 1}}<|action_end|>",
     "(Text) get {\"n\": 1}"},
    {"gigachat", "<|function_call|>{\"name\": \"get\", \"arguments\": {\"n\": 1}}", "() get {\"n\": 1}"},
    {"gigachat-role", "Text<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"get\", \"arguments\": {\"n\": 1}}",
     "(Text) get {\"n\": 1}"},
    {"mcp", "<use_mcp_tool>\n<server_name>default</server_name>\n<tool_name>get</tool_name>\n<arguments>\n{\"n\": 1}\n</arguments>\n</use_mcp_tool>", "() get {\"n\": 1}"},
    {"functools", "functools[{\"name\": \"get\", \"arguments\": {\"n\": 1}}]", "() get {\"n\": 1}"},
    {"function-tag", "<function=get>{\"n\": 1}</function><function=put>{}</function>", "() get {\"n\": 1} put {}"},
    {"functions", "functions.get:\n{\"n\": 1}", "() get {\"n\": 1}"},
    {"functionary-v2", "<|content|>Text\n<|from|>assistant\n<|recipient|>get\n<|content|>{\"n\": 1}<|stop|>",
     "(<|content|>Text\n) get {\"n\": 1}"},
    {"functionary", "get\n{\"n\": 1}>>>put\n{}", "() get {\"n\": 1} put {}"},
    {"functionary", "Text>>>get\n{\"n\": 1}>>>put\n{}", "(Text) get {\"n\": 1} put {}"},
    {"functionary", "get\n{\"n\": 1}", "() get {\"n\": 1}"},
    {"functionary", "other\n{\"n\": 1}", "(other\n{\"n\": 1})"},
    {"llama", "{\"name\": \"get\", \"parameters\": {\"n\": 1}}", "() get {\"n\": 1}"},
    {"llama", "<|python_tag|>{\"name\": \"get\", \"parameters\": {\"n\": 1}}; {\"name\": \"put\", \"parameters\": {}}",
     "() get {\"n\": 1} put {}"},
    {"llama4", "<|python_start|>{\"name\": \"get\", \"parameters\": {\"n\": 1}}<|python_end|>", "() get {\"n\": 1}"},
    {"llama4", "<|python_start|>Text<|python_end|>{\"name\": \"get\", \"parameters\": {\"n\": 1}}{\"name\": \"put\", \"parameters\": {}}<|eot|>", "(<|python_start|>Text<|eot|>) get {\"n\": 1} put {}"},
    {"llama4", "<|python_start|>[get(n=1)]<|python_end|>", "() get {\"n\": 1}"},
    {"llama4", "{\"name\": \"get\", \"parameters\": {\"n\": 1}}", "() get {\"n\": 1}"},
    {"llama", "{\"name\": \"get\", \"parameters\": {\"n\": 1}}{\"name\": \"put\", \"parameters\": {}}",
     "() get {\"n\": 1} put {}"},
    {"llama", "{\"type\": \"function\", \"name\": \"get\", \"parameters\": {}}\n", "() get {}"},
    {"llama", "{\"name\": \"other\", \"parameters\": {}}", "({\"name\": \"other\", \"parameters\": {}})"},
    {"llama", "{\"name\": \"get\"}", "({\"name\": \"get\"})"},
    {"llama", "{\"name\": \"get\", \"parameters\": {}, \"price\": 1}",
     "({\"name\": \"get\", \"parameters\": {}, \"price\": 1})"},
    {"llama", "Use {\"name\": \"get\", \"parameters\": {}} here", "(Use {\"name\": \"get\", \"parameters\": {}} here)"},
    {"llama", "{\"name\": \"get\", \"parameters\": {}} is a call", "({\"name\": \"get\", \"parameters\": {}} is a call)"},
    {"json-in-tags", "<TAG>{\"name\": \"get\", \"arguments\": {}}</TAG>", "() get {}"},
    {"json-list", "[{\"name\": \"get\", \"arguments\": {\"n\": 1}}, {\"name\": \"put\", \"arguments\": {}}]",
     "() get {\"n\": 1} put {}"},
    {"json-list", "[1, 2, 3]", "([1, 2, 3])"},
    {"python-list", "[get(n=1), put()]", "() get {\"n\": 1} put {}"},
    {"python-list", "[other(n=1)]", "([other(n=1)])"},
    {"python-list", "<|python_start|>[get(n=1)]<|python_end|>", "() get {\"n\": 1}"},
};
enum { TCALL_ANSWERS = sizeof tcall_answers / sizeof *tcall_answers };

static val tcall_tools_of(val_env *env) {
    val_env_init(env, 0, 0, NULL);
    return val_json_read(env, bytes_of(tcall_tools), 0);
}

static void t_calls_read(void) {
    val_env   env;
    const val tools = tcall_tools_of(&env);
    for (int i = 0; i < TCALL_ANSWERS; i++) {
        calls_form *f = tcall_form(tcall_answers[i].form);
        str         got = {0};
        if (!f) continue;
        tcall_tell(f, bytes_of(tcall_answers[i].text), tools, &got);
        CHECKF(strcmp(got.p, tcall_answers[i].want) == 0, "%s: %s\n      got  %s\n      want %s", tcall_answers[i].form,
               tcall_answers[i].text, got.p, tcall_answers[i].want);
        str_drop(&got);
        calls_form_free(f);
    }
    val_env_drop(&env);
}

static void t_calls_rows(void) {
    for (size_t i = 0; i < sizeof calls_rows / sizeof *calls_rows; i++) {
        const char *name = calls_rows[i].name;
        bool        tried = !name;
        for (int k = 0; k < TCALL_ANSWERS; k++) tried |= name && strcmp(tcall_answers[k].form, name) == 0;
        CHECKF(tried, "no answer in the form %s", name);
        for (size_t k = 0; name && k < i; k++)
            CHECKF(!calls_rows[k].name || strcmp(calls_rows[k].name, name) != 0, "two rows %s", name);
    }
}

/* Whether `part` is text without some of its bytes. */
static bool tcall_within(bytes part, bytes text) {
    size_t k = 0;
    for (size_t i = 0; i < text.n && k < part.n; i++) k += text.p[i] == part.p[k];
    return k == part.n;
}

/* Where the first call of a whole answer begins: what calls_safe stops at when the answer is complete. */
static void tcall_cut(const calls_form *f, bytes text, val tools) {
    size_t    safe = 0;
    str       whole = {0};
    call_list calls;
    calls_read(f, text, tools, 0, &whole, &calls);
    for (size_t n = 0; n <= text.n; n++) {
        uint8_t    *copy = mem_new(n, 1);                  /* exactly n bytes, so that a sanitizer sees a read behind them */
        const bytes cut = {memcpy(copy, text.p, n), n};
        str         content = {0};
        call_list   some;
        const size_t from = safe, all = calls_safe(f, cut, 0);
        safe = calls_safe(f, cut, from);
        CHECKF(safe == all && safe >= from && safe <= n, "%zu bytes: %zu, %zu before, %zu from the beginning", n, safe,
               from, all);
        CHECKF(safe <= whole.n && (!safe || memcmp(whole.p, text.p, safe) == 0),
               "%zu bytes: %zu are content, but a call begins before: %.*s", n, safe, (int)text.n, (const char *)text.p);
        calls_read(f, cut, tools, 0, &content, &some);
        CHECKF(safe <= content.n && tcall_within(str_bytes(&content), cut), "%zu bytes: the content is no part of them", n);
        CHECKF(some.n > 0 || bytes_eq(str_bytes(&content), cut), "%zu bytes: lost without a call", n);
        call_list_drop(&some);
        str_drop(&content);
        mem_free(copy);
    }
    call_list_drop(&calls);
    str_drop(&whole);
}

static void t_calls_cut(void) {
    val_env   env;
    const val tools = tcall_tools_of(&env);
    for (int i = 0; i < TCALL_ANSWERS; i++) {
        calls_form *f = tcall_form(tcall_answers[i].form);
        str         more = {0};
        str_fmt(&more, "Some text. %s\n", tcall_answers[i].text);
        if (f) tcall_cut(f, bytes_of(tcall_answers[i].text), tools), tcall_cut(f, str_bytes(&more), tools);
        str_drop(&more);
        calls_form_free(f);
    }
    val_env_drop(&env);
}

/* Text that cannot become a call is content at once, but for what may be the beginning of an opening. */
static void t_calls_safe(void) {
    static const struct {
        const char *form, *text;
        size_t      safe;
    } cases[] = {
        {"tool_call", "Hello", 5}, {"tool_call", "Hello <", 6}, {"tool_call", "Hello <b", 8},
        {"tool_call", "Hello <tool_call>", 6}, {"tool_call", "<tool_call> opens", 17},
        {"tool_call", "  ", 0}, {"tool_call", "  a", 3}, {"mistral", "a [TOOL", 2}, {"mistral", "a [b", 4},
        {"llama", "Hello", 5}, {"llama", "{\"na", 0}, {"llama", "A {\"na", 6},
        {"llama", "{\"price\": 1}", 12}, {"llama", "{\"price\": [", 11}, {"llama", "{ \"na", 0},
        {"json-list", "[{\"price", 8}, {"json-list", "[{\"type\": 1", 0}, {"gpt-oss", "Go to", 2},
        {"gpt-oss", "Go to the", 9}, {"tool_call", "<tool_call>{\"name\": \"get\", \"arguments\": {}}</tool_call> and", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        calls_form  *f = tcall_form(cases[i].form);
        const size_t safe = f ? calls_safe(f, bytes_of(cases[i].text), 0) : 0;
        CHECKF(safe == cases[i].safe, "%s: %s: got %zu, want %zu", cases[i].form, cases[i].text, safe, cases[i].safe);
        calls_form_free(f);
    }
}

/* A tagged value becomes JSON by the type of its parameter. */
static void t_calls_types(void) {
    static const struct {
        const char *key, *value, *want;
    } cases[] = {
        {"s", "17", "\"17\""}, {"s", "null", "\"null\""}, {"s", "{}", "\"{}\""}, {"n", "17", "17"}, {"n", " 17 ", "17"},
        {"n", "many", "\"many\""}, {"b", "true", "true"}, {"b", "True", "true"},
        {"b", "yes", "\"yes\""}, {"l", "[\"a\"]", "[\"a\"]"}, {"l", "['a']", "[\"a\"]"}, {"l", "", "[]"}, {"o", "", "{}"},
        {"o", "{'a': None}", "{\"a\": null}"}, {"o", "{\"a\": {\"b\": 1e5}}", "{\"a\": {\"b\": 1e5}}"},
        {"sn", "a", "\"a\""}, {"sn", "5", "\"5\""}, {"si", "5", "5"}, {"si", "a", "\"a\""}, {"e", "1", "\"1\""},
        {"any", "1", "\"1\""}, {"x", "1", "1"}, {"sn", "null", "null"}, {"sn", "nul", "\"nul\""}, {"any", "null", "null"},
        {"up", "17", "\"17\""}, {"up", "null", "\"null\""}, {"ty", "17", "17"}, {"nu", "17", "\"17\""}, {"nu", "null", "null"},
        {"en", "null", "null"}, {"n", "null", "null"}, {"x", "a", "\"a\""}, {"x", "True", "\"True\""},
        {"unknown", "[1", "\"[1\""}, {"unknown", "01", "\"01\""}, {"unknown", "\"q\"", "\"q\""},
        {"s", "\xff\x01\x7f", "\"\xff\\u0001\\u007f\""}, {"s", "\xf0\x9f\x98\x80\xe2\x80\xa8",
                                                          "\"\xf0\x9f\x98\x80\xe2\x80\xa8\""},
    };
    val_env     env;
    const val   tools = tcall_tools_of(&env);
    calls_form *f = tcall_form("tool_call-parameters");
    for (size_t i = 0; f && i < sizeof cases / sizeof *cases; i++) {
        str text = {0}, got = {0}, want = {0};
        str_fmt(&text, "<tool_call><function=get><parameter=%s>\n%s\n</parameter></function></tool_call>", cases[i].key,
                cases[i].value);
        str_fmt(&want, "() get {\"%s\": %s}", cases[i].key, cases[i].want);
        tcall_tell(f, str_bytes(&text), tools, &got);
        EQ_STR(got.p, want.p);
        str_drop(&text), str_drop(&got), str_drop(&want);
    }
    calls_form_free(f);
    val_env_drop(&env);
}

/* Ids that an answer does not have are made: the same for the same salt, different for each call and each salt. */
static void t_calls_ids(void) {
    static const char text[] = "<tool_call>{\"name\": \"get\", \"arguments\": {}}</tool_call><tool_call>{\"name\": \"get\", \"arguments\": {}}</tool_call>";
    calls_form *f = tcall_form("tool_call"), *m = tcall_form("mistral");
    str         content = {0};
    call_list   a, b, c, d;
    if (!f || !m) return;
    calls_read(f, bytes_of(text), val_undef(NULL), 1, &content, &d);
    calls_read(f, bytes_of(text), val_undef(NULL), 0, &content, &a);
    calls_read(f, bytes_of(text), val_undef(NULL), 0, &content, &b);
    calls_read(m, bytes_of("[TOOL_CALLS]get[ARGS]{}"), val_undef(NULL), 0, &content, &c);
    if (CHECK(a.n == 2 && b.n == 2 && c.n == 1)) {
        CHECK(bytes_eq(a.at[0].id, b.at[0].id) && bytes_eq(a.at[1].id, b.at[1].id) && !bytes_eq(a.at[0].id, a.at[1].id));
        CHECK(d.n == 2 && !bytes_eq(a.at[0].id, d.at[0].id) && !bytes_eq(a.at[1].id, d.at[0].id));
        CHECK(a.at[0].id.n == 14 && memcmp(a.at[0].id.p, "call_", 5) == 0 && c.at[0].id.n == 9);
        for (size_t i = 0; i < 9; i++) CHECK(isalnum(c.at[0].id.p[i]));
    }
    call_list_drop(&a), call_list_drop(&b), call_list_drop(&c), call_list_drop(&d);
    str_drop(&content);
    calls_form_free(f), calls_form_free(m);
}

/* Answers whose reading could take a time that grows faster than they do, or a deep stack. */
static void t_calls_hostile(void) {
    static const char *const parts[] = {"<tool_call>", "<tool_call>{", "<tool_call>{\"a\":", "<tool_call>[",
                                        "<tool_call>{\"name\": \"get\", \"arguments\": {\"a\": \"",
                                        "<tool_call><function=a><parameter=b>",
                                        "<tool_call><function=a><parameter=b></parameter>", "</parameter><parameter=b>",
                                        "<|tool_call_start|>[f(a=[[[", "<|tool_call_start|>[f(a={'b':(",
                                        "<|tool_call>call:f{a:{", "<|tool_call>call:f{a:<|\"|>", "{\"name\": ", "[f(a=",
                                        "[TOOL_CALLS]", TCALL_M3 "<tool_call>" TCALL_M3 "<invoke name=\"f\">" TCALL_M3 "<a>", TCALL_M3 "<a>", "x"};
    const double from = t_cpu();
    for (size_t i = 0; i < sizeof calls_rows / sizeof *calls_rows; i++)
        for (size_t k = 0; calls_rows[i].name && k < sizeof parts / sizeof *parts; k++) {
            calls_form *f = tcall_form(calls_rows[i].name);
            str         text = {0}, content = {0};
            call_list   calls;
            while (text.n < 100000) str_put(&text, parts[k]);
            calls_read(f, str_bytes(&text), val_undef(NULL), 0, &content, &calls);
            CHECKF(calls.n == 0 && bytes_eq(str_bytes(&content), str_bytes(&text)), "%s: %s is no call",
                   calls_rows[i].name, parts[k]);
            calls_safe(f, str_bytes(&text), 0);
            call_list_drop(&calls);
            str_drop(&text), str_drop(&content);
            calls_form_free(f);
        }
    CHECKF(t_cpu() - from < 60, "%.1f s", t_cpu() - from);
}

/* Newlines without end, where the template writes one before a call: each of them could begin one. */
static void t_calls_newlines(void) {
    const double from = t_cpu();
    calls_form  *f = tcall_form("tool_call");
    str          text = {0}, content = {0};
    call_list    calls;
    if (!f) return;
    str_set(&f->lead, bytes_of("\n"));
    f->first['\n'] = true;
    while (text.n < 1000000) str_put(&text, "\n\n\n\n");
    calls_read(f, str_bytes(&text), val_undef(NULL), 0, &content, &calls);
    CHECK(calls.n == 0 && bytes_eq(str_bytes(&content), str_bytes(&text)));
    call_list_drop(&calls);
    str_put(&text, "<tool_call>{\"name\": \"get\", \"arguments\": {}}</tool_call>");
    calls_read(f, str_bytes(&text), val_undef(NULL), 0, &content, &calls);
    CHECK(calls.n == 1);
    CHECKF(t_cpu() - from < 60, "%.1f s", t_cpu() - from);
    call_list_drop(&calls);
    str_drop(&text), str_drop(&content);
    calls_form_free(f);
}

/* A required call: what the answer begins with is read back with what the model adds. */
static void t_calls_begin(void) {
    static const struct {
        const char *form, *want, *rest;
    } cases[] = {
        {"tool_call", "<tool_call>\n{\"name\": \"get\", \"arguments\": ", "{\"n\": 1}}\n</tool_call>"},
        {"tool_call-parameters", "<tool_call>\n<function=get>\n",
         "<parameter=n>\n1\n</parameter>\n</function>\n</tool_call>"},
        {"mistral", "[TOOL_CALLS]get[CALL_ID]", "abcdefghi[ARGS]{\"n\": 1}"},
        {"kimi", "<|tool_calls_section_begin|><|tool_call_begin|>functions.get:",
         "0<|tool_call_argument_begin|>{\"n\": 1}<|tool_call_end|><|tool_calls_section_end|>"},
        {"lfm2", "<|tool_call_start|>[get(", "n=1)]<|tool_call_end|>"},
        {"llama", "{\"name\": \"get\", \"arguments\": ", "{\"n\": 1}}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        calls_form *f = tcall_form(cases[i].form);
        jinja_text  text = {0};
        str         got = {0};
        if (!f) continue;
        calls_begin(f, bytes_of("get"), &text);
        EQ_STR(text.text.p, cases[i].want);
        CHECKF(text.from.n == 3 && text.from.at[1].input && text.from.at[1].end - text.from.at[0].end == 3 &&
               text.from.at[2].end == text.text.n, "%s: the origin of the name", cases[i].form);
        str_put(&text.text, cases[i].rest);
        tcall_tell(f, str_bytes(&text.text), val_undef(NULL), &got);
        CHECKF(strncmp(got.p, "() get {\"n\": 1}", 15) == 0, "%s", got.p);
        jinja_text_drop(&text), str_drop(&got);
        calls_form_free(f);
    }
}

/* --- templates: a call is rendered and read back --- */

static bool tcall_render(void *ctx, val vars, jinja_text *out, err_t *e) {
    val_put(vars.dict->env, vars.dict, "bos_token", val_str_of(vars.dict->env, "<s>"));
    val_put(vars.dict->env, vars.dict, "eos_token", val_str_of(vars.dict->env, "</s>"));
    return jinja_render(ctx, vars, out, e);
}

/* Arguments that a form must carry: kinds of values, Unicode, quotes, tags, white space. */
static const char *const tcall_arguments[] = {
    "{\"s\": \"Paris\"}",
    "{}",
    "{\"s\": \"a \\\"quoted\\\" it's \\\\ back\\nline\\ttab \xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80 {x} [y] <b>\", \"n\": -5, \"b\": true, \"l\": [\"a\", \"b, c\"], \"o\": {\"k\": 1, \"t\": \"x\"}}",
    "{\"s\": \"</tool_call>\", \"n\": 3}",
    "{\"s\": \"17\", \"b\": false}",
    "{\"s\": \"  spaces  \"}",
    "{\"s\": \"\\nlines\\n\"}",
    "{\"s\": \"\"}",
    "{\"l\": [], \"o\": {}}",
    "{\"s\": \"null\"}",
    "{\"s\": \"a</parameter>b\"}",
    "{\"s\": \"', \\\" and }\"}",
};
enum { TCALL_ARGUMENTS = sizeof tcall_arguments / sizeof *tcall_arguments };

/* A conversation whose last message has calls with these arguments. n 0: without calls. */
static void tcall_conversation(const calls_form *f, const char *content, const int *arguments, int n, str *json) {
    str_fmt(json, "{\"messages\": [{\"role\": \"user\", \"content\": \"Question\"}, {\"role\": \"assistant\", \"content\": \"%s\"", content);
    for (int i = 0; i < n; i++) {
        str text = {0};
        if (f->text_arguments) str_json_exact(&text, bytes_of(tcall_arguments[arguments[i]]));
        str_fmt(json, "%s{\"id\": \"call0000%d\", \"type\": \"function\", \"function\": {\"name\": \"%s\", \"arguments\": %s}}", i ? ", " : ", \"tool_calls\": [", i, i ? "put" : "get",
                f->text_arguments ? text.p : tcall_arguments[arguments[i]]);
        str_drop(&text);
    }
    str_fmt(json, "%s}], \"%s\": ", n ? "]" : "", f->tools_name);
    str_put(json, tcall_template_tools);
    str_put(json, "}");
}

static bool tcall_text(jinja *t, const calls_form *f, const char *content, const int *arguments, int n, str *out) {
    str        json = {0};
    jinja_text text = {0};
    val_env    env;
    err_t      e = {0};
    tcall_conversation(f, content, arguments, n, &json);
    val_env_init(&env, 0, 0, NULL);
    const bool ok = tcall_render(t, val_json_read(&env, str_bytes(&json), 0), &text, &e);
    if (ok) str_set(out, str_bytes(&text.text));
    jinja_text_drop(&text);
    val_env_drop(&env);
    str_drop(&json);
    return ok;
}

static bool tcall_equal(bytes got, const char *want) {
    val_env env;
    val_env_init(&env, 0, 0, NULL);
    const bool same = val_eq(&env, val_json_read(&env, got, 0), val_json_read(&env, bytes_of(want), 0));
    val_env_drop(&env);
    return same;
}

/* Renders n calls and reads them back. Returns false where the template does not take the conversation, or drops the calls. */
static bool tcall_round(jinja *t, const calls_form *f, const char *name, const char *content, const int *arguments, int n) {
    str         text = {0}, plain = {0}, rest = {0};
    val_env     env;
    const val   tools = tcall_tools_of(&env);
    call_list   calls = {0};
    bool        ok = tcall_text(t, f, content, arguments, n, &text);
    tcall_text(t, f, "xyz", NULL, 0, &plain);
    const size_t from = calls__differ(str_bytes(&text), str_bytes(&plain));
    const bytes  answer = bytes_slice(str_bytes(&text), from, text.n);
    ok = ok && bytes_find(answer, 0, bytes_of(n > 1 ? "put" : "get")) != SIZE_MAX;
    if (ok) calls_read(f, answer, tools, 0, &rest, &calls);
    bool same = calls.n == (size_t)n;
    for (int i = 0; ok && same && i < n; i++)
        same = bytes_is(calls.at[i].name, i ? "put" : "get") &&
               tcall_equal(calls.at[i].arguments, tcall_arguments[arguments[i]]);
    if (ok)
        CHECKF(same, "%s: %d calls, %.*s, from: %.*s", name, (int)calls.n, calls.n ? (int)calls.at[0].arguments.n : 0,
               calls.n ? (const char *)calls.at[0].arguments.p : "", (int)answer.n, (const char *)answer.p);
    if (ok)
        CHECKF(!*content || bytes_find(str_bytes(&rest), 0, bytes_of(content)) != SIZE_MAX ||
               bytes_find(answer, 0, bytes_of(content)) == SIZE_MAX, "%s: the content is lost", name);
    if (ok && n > 1) tcall_cut(f, answer, tools);
    call_list_drop(&calls);
    str_drop(&text), str_drop(&plain), str_drop(&rest);
    val_env_drop(&env);
    return ok;
}

/* All arguments in one call, and two calls in one message, with and without content. Returns how many were read back. */
static int tcall_rounds(jinja *t, const calls_form *f, const char *name) {
    int n = 0;
    for (int i = 0; i < TCALL_ARGUMENTS; i++) n += tcall_round(t, f, name, i % 2 ? "" : "Some text.", &i, 1);
    n += tcall_round(t, f, name, "", (const int[]){0, 2}, 2);
    return n + tcall_round(t, f, name, "Text", (const int[]){2, 0}, 2);
}

static void tcall_learned(bytes source, const char *name, const char *want, int least) {
    err_t  e = {0};
    jinja *t = jinja_parse(source, name, &e);
    if (!CHECKF(t != NULL, "%s", e.text)) return;
    calls_form *f = calls_learn(tcall_render, t);
    CHECKF(strcmp(f ? calls_form_name(f) : "none", want) == 0, "%s: the form is %s, want %s", name,
           f ? calls_form_name(f) : "none", want);
    const int n = f ? tcall_rounds(t, f, name) : 0;
    CHECKF(n >= least, "%s: %d conversations of %d were read back, want %d", name, n, TCALL_ARGUMENTS + 2, least);
    calls_form_free(f);
    jinja_free(t);
}

#define TCALL_Q                 "<|\"|>"
#define TCALL_EACH(call)        "{% for t in m.tool_calls %}{% set f = t.function %}" call "{% endfor %}"
#define TCALL_LIST(open, name, arguments, close) open "{% for t in m.tool_calls %}{% set f = t.function %}{{ ', ' if not loop.first }}{\"" name "\": \"{{ f.name }}\", \"" arguments "\": {{ f.arguments|tojson }}}{% endfor %}" close
#define TCALL_ONE(name, arguments) "{\"" name "\": \"{{ f.name }}\", \"" arguments "\": {{ f.arguments|tojson }}}"
#define TCALL_PARAMS(param)     "{% for k, v in f.arguments|items %}" param "{% endfor %}"
#define TCALL_V                 "{{ v if v is string else v|tojson }}"
#define TCALL_PY                "{{ f.name }}({% for k, v in f.arguments|items %}{{ ', ' if not loop.first }}{{ k }}={{ v|tojson }}{% endfor %})"
#define TCALL_QUOTED            "{% macro value(v) %}{% if v is string %}" TCALL_Q "{{ v }}" TCALL_Q "{% elif v is boolean %}{{ v|tojson }}{% elif v is mapping %}{{ '{' }}{% for k, w in v|items %}{{ ',' if not loop.first }}{{ k }}:{{ value(w) }}{% endfor %}" \
    "{{ '}' }}{% elif v is sequence %}[{% for w in v %}{{ ',' if not loop.first }}{{ value(w) }}{% endfor %}]{% else %}{{ v }}{% endif %}{% endmacro %}"

/* The calls of a message `m` in each form, as the template of a model would write them. */
static const struct {
    const char *form, *calls;
    int         least;                                /* conversations that are read back: fewer where the form has one call, or cannot tell values apart */
} tcall_templates[] = {
    {"tool_call", TCALL_EACH("{{ '\\n' }}<tool_call>\n" TCALL_ONE("name", "arguments") "\n</tool_call>"), 14},
    {"tool_call-parameters",
     TCALL_EACH("{{ '\\n' }}<tool_call>\n<function={{ f.name }}>\n" TCALL_PARAMS("<parameter={{ k }}>\n" TCALL_V "\n</parameter>\n") "</function>\n</tool_call>"), 14},
    {"tool_call-parameters",
     TCALL_EACH("<tool_call><function={{ f.name }}>" TCALL_PARAMS("<parameter={{ k }}>" TCALL_V "</parameter>") "</function></tool_call>"), 14},
    {"seed", TCALL_EACH("<seed:tool_call>\n<function={{ f.name }}>\n" TCALL_PARAMS("<parameter={{ k }}>" TCALL_V "</parameter>\n") "</function>\n</seed:tool_call>"), 14},
    {"tool_call-keys", TCALL_EACH("<tool_call>{{ f.name }}\n" TCALL_PARAMS("<arg_key>{{ k }}</arg_key>\n<arg_value>" TCALL_V "</arg_value>\n") "</tool_call>"), 14},
    {"hunyuan", "<tool_calls:opensource>\n" TCALL_EACH("<tool_call:opensource>{{ f.name }}<tool_sep:opensource>\n" TCALL_PARAMS("<arg_key:opensource>{{ k }}</arg_key:opensource>\n<arg_value:opensource>" TCALL_V "</arg_value:opensource>\n")
     "</tool_call:opensource>\n") "</tool_calls:opensource>", 14},
    {"hunyuan-json", "<tool_calls>" TCALL_EACH("<tool_call>function<tool_sep>{{ f.name }}\n```json\n{{ f.arguments|tojson }}\n```</tool_call>") "</tool_calls>", 14},
    {"tool_calls-list", TCALL_LIST("<tool_calls>[", "name", "arguments", "]</tool_calls>"), 14},
    {"mistral", TCALL_LIST("[TOOL_CALLS][", "name", "arguments", "]"), 14},
    {"mistral", TCALL_EACH("[TOOL_CALLS]{{ f.name }}[CALL_ID]{{ t.id }}[ARGS]{{ f.arguments|tojson }}"), 14},
    {"mistral", TCALL_EACH("[TOOL_CALLS]{{ f.name }}[ARGS]{{ f.arguments if f.arguments is string else f.arguments|tojson }}"), 14},
    {"deepseek-r1", TCALL_DB TCALL_EACH("{{ '\\n' if not loop.first }}" TCALL_CB "function" TCALL_SEP "{{ f.name }}\n```json\n{{ f.arguments|tojson }}\n```" TCALL_CE) TCALL_DE, 14},
    {"deepseek-r1", TCALL_DB TCALL_EACH(TCALL_CB "{{ t.type }}" TCALL_SEP "{{ f.name + '\\n```json\\n' + f.arguments + '\\n```' }}" TCALL_CE) TCALL_DE, 14},
    {"deepseek-v3.1", TCALL_DB TCALL_EACH(TCALL_CB "{{ f.name }}" TCALL_SEP "{{ f.arguments|tojson }}" TCALL_CE) TCALL_DE, 14},
    {"deepseek-v3.2", "<" TCALL_ML "function_calls>\n" TCALL_EACH("<" TCALL_ML "invoke name=\"{{ f.name }}\">\n" TCALL_PARAMS("<" TCALL_ML "parameter name=\"{{ k }}\" string=\"{{ (v is string)|tojson }}\">" TCALL_V "</" TCALL_ML "parameter>\n") "</" TCALL_ML "invoke>\n")
     "</" TCALL_ML "function_calls>", 14},
    {"deepseek-v4", "<" TCALL_ML "tool_calls>\n" TCALL_EACH("<" TCALL_ML "invoke name=\"{{ f.name }}\">\n" TCALL_PARAMS("<" TCALL_ML "parameter name=\"{{ k }}\" string=\"{{ (v is string)|tojson }}\">" TCALL_V "</" TCALL_ML "parameter>\n") "</" TCALL_ML "invoke>\n")
     "</" TCALL_ML "tool_calls>", 14},
    {"step3", "<\xef\xbd\x9ctool_calls_begin\xef\xbd\x9c>" TCALL_EACH("<\xef\xbd\x9ctool_call_begin\xef\xbd\x9c>function<\xef\xbd\x9ctool_sep\xef\xbd\x9c><steptml:invoke name=\"{{ f.name }}\">" TCALL_PARAMS("<steptml:parameter name=\"{{ k }}\">" TCALL_V
     "</steptml:parameter>") "</steptml:invoke><\xef\xbd\x9ctool_call_end\xef\xbd\x9c>") "<\xef\xbd\x9ctool_calls_end\xef\xbd\x9c>", 14},
    {"kimi", "<|tool_calls_section_begin|>" TCALL_EACH("<|tool_call_begin|>functions.{{ f.name }}:{{ loop.index0 }}<|tool_call_argument_begin|>{{ f.arguments|tojson }}<|tool_call_end|>") "<|tool_calls_section_end|>", 14},
    {"kimi", "<|tool_calls_section_begin|>" TCALL_EACH("<|tool_call_begin|>{{ t.id }}<|tool_call_argument_begin|>{{ f.arguments|tojson }}<|tool_call_end|>") "<|tool_calls_section_end|>", 0},
    {"command-r7b", TCALL_LIST("<|START_ACTION|>[\n    ", "tool_name", "parameters", "\n]<|END_ACTION|>"), 14},
    {"command-r", TCALL_LIST("Action:\n```json\n[", "tool_name", "parameters", "]```"), 14},
    {"gpt-oss", TCALL_EACH("<|start|>assistant<|channel|>commentary to=functions.{{ f.name }} <|constrain|>json<|message|>{{ f.arguments|tojson }}<|call|>"), 14},
    {"gemma", TCALL_EACH("<|tool_call>call:{{ f.name }}{{ value(f.arguments) }}<tool_call|>"), 14},
    {"functiongemma", TCALL_EACH("<start_function_call>call:{{ f.name }}{{ value(f.arguments)|replace('<|\"|>', '<escape>') }}<end_function_call>"), 14},
    {"lfm2", "<|tool_call_start|>[" TCALL_EACH("{{ ', ' if not loop.first }}" TCALL_PY) "]<|tool_call_end|>", 14},
    {"lfm2", "<|tool_call_start|>[" TCALL_EACH("{{ ', ' if not loop.first }}{{ f.name }}({% for k, v in f.arguments|items %}{{ ', ' if not loop.first }}{{ k }}={{ \"'\" + v + \"'\" if v is string else v }}{% endfor %})") "]<|tool_call_end|>", 13},
    {"minicpm3", "<|tool_call_start|>\n```python\n" TCALL_EACH(TCALL_PY "\n") "```\n<|tool_call_end|>\n", 14},
    {"olmo3", "<function_calls>\n" TCALL_EACH(TCALL_PY "\n") "</function_calls>", 14},
    {"minimax-m2", "<minimax:tool_call>\n" TCALL_EACH("<invoke name=\"{{ f.name }}\">\n" TCALL_PARAMS("<parameter name=\"{{ k }}\">" TCALL_V "</parameter>\n") "</invoke>\n") "</minimax:tool_call>", 14},
    {"minicpm", TCALL_EACH("<function name=\"{{ f.name }}\">" TCALL_PARAMS("<param name=\"{{ k }}\">{{ '<![CDATA[' + v + ']]>' if v is string and '<' in v else v }}</param>") "</function>"), 14},
    {"granite", TCALL_LIST("<|tool_call|>[", "name", "arguments", "]"), 14},
    {"phi-4", TCALL_LIST("<|tool_call|>[", "name", "arguments", "]<|/tool_call|>"), 14},
    {"nemotron", TCALL_LIST("<TOOLCALL>[", "name", "arguments", "]</TOOLCALL>"), 14},
    {"apertus", "<|tools_prefix|>[" TCALL_EACH("{{ ', ' if not loop.first }}{\"{{ f.name }}\": {{ f.arguments|tojson }}}") "]<|tools_suffix|>", 14},
    {"solar", "<|tool_calls|>" TCALL_EACH("<|tool_call:begin|>{{ t.id }}<|tool_call:name|>{{ f.name }}<|tool_call:args|>{{ f.arguments|tojson }}<|tool_call:end|>") "<|calls|>", 14},
    {"internlm", TCALL_EACH("<|action_start|><|plugin|>\n" TCALL_ONE("name", "parameters") "<|action_end|>"), 14},
    {"gigachat", "{% set f = m.tool_calls[0].function %}<|function_call|>" TCALL_ONE("name", "arguments"), 12},
    {"gigachat-role", "{% set f = m.tool_calls[0].function %}<|message_sep|>\n\nfunction call<|role_sep|>\n" TCALL_ONE("name", "arguments"), 12},
    {"mcp", "{% set f = m.tool_calls[0].function %}<use_mcp_tool>\n<server_name>default</server_name>\n<tool_name>{{ f.name }}</tool_name>\n<arguments>\n{{ f.arguments|tojson }}\n</arguments>\n</use_mcp_tool>", 12},
    {"functools", TCALL_LIST("functools[", "name", "arguments", "]"), 14},
    {"functions", TCALL_EACH("functions.{{ f.name }}:\n{{ f.arguments + '' }}\n"), 14},
    {"functionary-v2", TCALL_EACH("{{ '\\n' }}<|from|>assistant\n<|recipient|>{{ f.name }}\n<|content|>{{ f.arguments|tojson }}<|stop|>"), 14},
    {"function-tag", TCALL_EACH("<function={{ f.name }}>{{ f.arguments|tojson }}</function>"), 14},
    {"functionary", TCALL_EACH(">>>{{ f.name }}\n{{ f.arguments|tojson }}"), 14},
    {"llama", "{% set f = m.tool_calls[0].function %}{{ '\\n' if m.content }}" TCALL_ONE("name", "parameters"), 12},
    {"json-list", TCALL_LIST("{{ '\\n' if m.content }}[", "name", "arguments", "]"), 14},
    {"llama4", "<|python_start|><|python_end|>" TCALL_EACH(TCALL_ONE("name", "parameters")), 14},
    {"json-in-tags", TCALL_EACH("<function_call>" TCALL_ONE("name", "arguments") "</function_call>\n"), 14},
    {"json-in-tags", TCALL_EACH("[TOOL_REQUEST]" TCALL_ONE("name", "arguments") "[END_TOOL_REQUEST]"), 14},
    {"json-in-tags", TCALL_LIST("<|calls|>\n[", "tool_name", "parameters", "]\n<|calls_end|>"), 14},
    {"json-in-tags", TCALL_EACH("<|call|>" TCALL_ONE("name", "arguments")), 14},
    {"json-list", TCALL_LIST("[", "name", "arguments", "]"), 14},
    {"python-list", "{{ '\\n' if m.content }}[" TCALL_EACH("{{ ', ' if not loop.first }}" TCALL_PY) "]", 14},
};
enum { TCALL_TEMPLATES = sizeof tcall_templates / sizeof *tcall_templates };

static void t_calls_learn(void) {
    for (int i = 0; i < TCALL_TEMPLATES; i++) {
        str source = {0};
        str_put(&source, TCALL_QUOTED);
        str_fmt(&source, "{%% if tools %%}<|tools|>{{ tools|tojson }}<|end|>\n{%% endif %%}{%% for m in messages %%}<|%s|>\n{{ m.content or '' }}{%% if m.tool_calls %%}%s{%% endif %%}\n<|end|>\n{%% endfor %%}", "{{ m.role }}", tcall_templates[i].calls);
        tcall_learned(str_bytes(&source), tcall_templates[i].form, tcall_templates[i].form, tcall_templates[i].least);
        str_drop(&source);
    }
}

/* A template without calls has no form; one whose instructions alone tell of calls has the form of their words. */
static void t_calls_words(void) {
    tcall_learned(bytes_of("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"), "without calls", "none", 0);
    tcall_learned(bytes_of("{{ raise_exception('no') }}"), "refuses all", "none", 0);
    tcall_learned(bytes_of("{% if tools %}Answer with <|tool_call|> and a JSON list of: {{ tools }}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}"), "instructions", "granite", 0);
    tcall_learned(bytes_of("{% if xml_tools %}Write <tool_call></tool_call>.{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}"), "other variable", "tool_call", 0);
}

/* Templates whose renderings would take long to search. */
static void t_calls_hostile_templates(void) {
    static const char *const parts[] = {"{\\\"a\\\":", "<tool_call><function=a><parameter=b>", "qxfind {"};
    const double from = t_cpu();
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (int large = 0; large < 2; large++) {
            str   source = {0};
            err_t e = {0};
            str_fmt(&source, "{{ \"%s\" * %d }}{%% for m in messages %%}{{ m.content }}{%% if m.tool_calls %%}{{ m.tool_calls[0].function.name }}{%% endif %%}{%% endfor %%}", parts[i], large ? 100000 : 5000);
            jinja *t = jinja_parse(str_bytes(&source), "hostile", &e);
            if (CHECKF(t != NULL, "%s", e.text)) {
                calls_form *f = calls_learn(tcall_render, t);
                CHECKF(!f, "%s: the form is %s", parts[i], f ? calls_form_name(f) : "");
                calls_form_free(f);
            }
            jinja_free(t);
            str_drop(&source);
        }
    CHECKF(t_cpu() - from < 60, "%.1f s", t_cpu() - from);
}

/* The file of a template: one of tests/data/templates, else one of the shared ones; NULL: it is not there. */
static const char *t_template_file(const char *name) {
    static char own[160];
    char        path[160];
    snprintf(own, sizeof own, "tests/data/templates/%s.jinja", name);
    if (access(own, R_OK) == 0) return own;
    snprintf(path, sizeof path, "data/templates/%s.jinja", name);
    return t_shared(path);
}

/* Templates of models. */
static void t_calls_models(void) {
    static const struct {
        const char *file, *form;
        int         least;
    } models[] = {
        {"tags", "tool_call", 14}, {"channels", "gpt-oss", 14}, {"CohereForAI-c4ai-command-r7b-12-2024-tool_use",
                                                                 "command-r7b", 14}, {"GLM-4.6", "tool_call-keys", 14},
                                                                 {"Kimi-K2-Instruct", "kimi", 14}, {"LFM2-8B-A1B", "lfm2", 0},
        {"Mistral-Small-3.2-24B-Instruct-2506", "mistral", 14}, {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use",
                                                                 "tool_call", 14}, {"Qwen-Qwen2.5-7B-Instruct",
                                                                                    "tool_call", 14}, {"Qwen-Qwen3-0.6B",
                                                                                                       "tool_call", 14},
        {"Qwen3-Coder", "tool_call-parameters", 14}, {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "deepseek-r1", 0},
        {"deepseek-ai-DeepSeek-V3.1", "deepseek-v3.1", 14}, {"google-gemma-2-2b-it", "none", 0},
        {"google-gemma-4-31B-it", "gemma", 14}, {"ibm-granite-granite-3.3-2B-Instruct", "granite", 0},
        {"meta-llama-Llama-3.1-8B-Instruct", "llama", 12}, {"meta-llama-Llama-3.2-3B-Instruct", "llama", 12},
        {"microsoft-Phi-3.5-mini-instruct", "none", 0}, {"mistralai-Mistral-Nemo-Instruct-2407", "mistral", 14},
        {"openai-gpt-oss-120b", "gpt-oss", 12}, {"HuggingFaceTB-SmolLM3-3B", "none", 0},
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        size_t n;
        char  *text = t_read(t_template_file(models[i].file), &n);
        if (!text) continue;
        tcall_learned((bytes){(uint8_t *)text, n}, models[i].file, models[i].form, models[i].least);
        free(text);
    }
}

/* --- answers that keep to a form --- */

static const char tcall_held_tools[] = "[{\"type\": \"function\", \"function\": {\"name\": \"look\", \"parameters\": {\"type\": \"object\", \"properties\": {"
    "\"where\": {\"type\": \"string\", \"minLength\": 1}, \"n\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 5}, \"on\": {\"type\": [\"boolean\", \"null\"]}, "
    "\"list\": {\"type\": \"array\", \"items\": {\"enum\": [\"a\", \"b c\", 7]}, \"maxItems\": 3}}, \"required\": [\"where\", \"n\"]}}}, "
    "{\"name\": \"put_2\", \"parameters\": {\"properties\": {\"mode\": {\"enum\": [\"x\", \"<y>\", \"z\\nz\"]}, \"note\": {\"type\": [\"string\", \"null\"], \"maxLength\": 3}}, \"maxProperties\": 1}}]";

/* A constraint that matches arguments of one of these tools. */
static constrain *tcall_schema(val tools, size_t i) {
    const val            f = val_get(tools.list->at[i], "function"),
        schema = val_get(f.kind == VAL_DICT ? f : tools.list->at[i], "parameters");
    str                  text = {0};
    val_env              env;
    calls__writing       w = {schema, &text};
    err_t                e = {0};
    val_env_init(&env, 0, 0, NULL);
    CHECK(val_run(&env, calls__write_json, &w, &e));
    const constrain_spec o = {.kind = CONSTRAIN_SCHEMA, .text = str_bytes(&text), .path = "t", .form = {.loose = true}};
    constrain           *c = constrain_open(&o, NULL, NULL, &e);
    CHECKF(c, "%s", e.text);
    val_env_drop(&env);
    str_drop(&text);
    return c;
}

typedef struct {
    constrain *c;                                     /* keeps what the automaton needs */
    gram      *g;
} tcall_held;

static tcall_held tcall_hold(const calls_form *f, calls_want *w) {
    tcall_held    h = {mem_new(1, sizeof *h.c), gram_new()};
    const int32_t rule = gram_rule(h.g, NULL);
    err_t         e = {0};
    pthread_mutex_init(&h.c->lock, NULL);
    atomic_store(&h.c->users, 1);
    h.c->g = h.g;
    const bool ok = calls_hold(f, w, h.c, h.g, gram_begin(h.g, rule), gram_end(h.g, rule), &e) && gram_seal(h.g, rule, &e);
    CHECKF(ok, "%s: %s", f->row->name, e.text);
    return h;
}

/* Follows the text; false: it cannot stand there. */
static bool tcall_follow(gram_track *t, bytes text) {
    for (size_t i = 0; i < text.n && t->set >= 0; i++) t->set = gram_step(t->g, t->set, text.p[i]);
    return t->set >= 0;
}

/* Appends bytes that may come, at random, and then the shortest way to the end. */
static bool tcall_wander(gram_track *t, uint64_t *seed, str *out) {
    static const char likely[] = "\"}])><|e,\n";
    str               rest = {0};
    *seed = rng_mix(*seed);
    for (uint64_t n = *seed % 120; n && !gram_closed(t->g, t->set); n--) {
        uint8_t can[256 * 4];
        size_t  n_can = 0;
        for (int b = 0; b < 256; b++)
            for (int k = gram_step(t->g, t->set, (uint8_t)b) < 0 ? 4 : b && strchr(likely, b) ? 0 : 3; k < 4; k++)
                can[n_can++] = (uint8_t)b;
        if (!n_can) break;
        const uint8_t b = can[(*seed = rng_mix(*seed)) % n_can];
        str_add(out, &b, 1);
        t->set = gram_step(t->g, t->set, b);
    }
    const bool ends = shortest_text(t->g, t->set, &rest);
    str_add(out, rest.p, rest.n);
    str_drop(&rest);
    return ends;
}

/* What is said of calls while they are written stays true: at each byte, whole ones and the one that is open are among the calls of
 * the answer, in their order. Returns how often one was open. */
static int tcall_watched(const calls_form *f, bytes text, val tools, const call_list *all) {
    int    n_open = 0;
    size_t safe = 0;
    for (size_t n = 0; n <= text.n; n++) {
        uint8_t    *copy = mem_new(n, 1);
        const bytes cut = {memcpy(copy, text.p, n), n};
        calls_live  now;
        safe = calls_safe(f, cut, safe);
        calls_watch(f, cut, safe, tools, 5, &now);
        bool same = now.calls.n + now.open <= all->n;
        for (size_t i = 0; same && i < now.calls.n; i++)
            same = bytes_eq(now.calls.at[i].name, all->at[i].name) && bytes_eq(now.calls.at[i].id, all->at[i].id) &&
                   bytes_eq(now.calls.at[i].arguments, all->at[i].arguments);
        if (same && now.open) {
            const calls_call *c = &all->at[now.calls.n];
            same = bytes_eq(str_bytes(&now.name), c->name) && bytes_eq(str_bytes(&now.id), c->id) &&
                   bytes_begins(bytes_slice(text, now.args_at, text.n), (bytes){c->arguments.p, c->arguments.n});
            n_open++;
        }
        CHECKF(same, "%s: after %zu bytes of %.*s: %zu calls, open %d %s at %zu", f->row->name, n, (int)text.n, (const char *)text.p,
               now.calls.n, now.open, now.open ? now.name.p : "", now.args_at);
        calls_live_drop(&now);
        mem_free(copy);
    }
    return n_open;
}

/* Whether the calls of an answer are of the tools and as their schemas have it. */
static void tcall_check(const calls_form *f, bytes text, val tools, constrain *const *schema, bytes only, bool many) {
    str       content = {0};
    call_list calls;
    calls_read(f, text, tools, 5, &content, &calls);
    const int  n_open = tcall_watched(f, text, tools, &calls);
    const bool json = strstr(f->row->call, "%o") || strstr(f->row->call, "%a");
    if (json && strcmp(f->row->name, "mistral") != 0)
        CHECKF(n_open > 0, "%s: no call was seen before its end: %.*s", f->row->name, (int)text.n, (const char *)text.p);
    CHECKF(calls.n && (many || calls.n == 1) && calls__blank(str_bytes(&content)), "%s: %zu calls in %.*s", f->row->name,
           calls.n, (int)text.n, (const char *)text.p);
    for (size_t i = 0; i < calls.n; i++) {
        const int tool = bytes_is(calls.at[i].name, "look") ? 0 : bytes_is(calls.at[i].name, "put_2") ? 1 : -1;
        size_t    at;
        err_t     e = {0};
        CHECKF(tool >= 0 && (!only.n || bytes_eq(only, calls.at[i].name)), "%s: the name in %.*s", f->row->name,
               (int)text.n, (const char *)text.p);
        if (tool >= 0)
            CHECKF(constrain_match(schema[tool], calls.at[i].arguments, &at, &e), "%s: %.*s from %.*s", f->row->name,
                   (int)calls.at[i].arguments.n, (const char *)calls.at[i].arguments.p, (int)text.n, (const char *)text.p);
    }
    call_list_drop(&calls);
    str_drop(&content);
}

/* Answers at random behind the text that begins a call. */
static void tcall_answer(const calls_form *f, calls_want *w, constrain *const *schema) {
    const bool named = !w->required && calls__by_name(f->row);           /* there a name begins the call */

    tcall_held h = tcall_hold(f, w);
    uint64_t   seed = bytes_hash(w->many, bytes_of(f->row->name));
    jinja_text begin = {0};
    int        whole = 0;
    calls_begin(f, named ? bytes_of("look") : w->only, &begin);
    for (int i = 0; i < 8; i++) {
        gram_track t;
        str        text = {0};
        gram_track_open(&t, h.g);
        str_add(&text, begin.text.p, begin.text.n);
        if (!w->required)
            CHECKF(tcall_follow(&t, str_bytes(&begin.text)), "%s: not behind %.*s", f->row->name, (int)begin.text.n,
                   begin.text.p);
        const bool ends = t.set >= 0 && tcall_wander(&t, &seed, &text);
        CHECKF(ends, "%s: no end behind %.*s", f->row->name, (int)text.n, text.p);
        if (ends && text.n > begin.text.n) tcall_check(f, str_bytes(&text), w->tools, schema, w->only, w->many), whole++;
        gram_track_close(&t);
        str_drop(&text);
    }
    CHECKF(whole || !begin.text.n, "%s: no answer ends", f->row->name);
    jinja_text_drop(&begin);
    constrain_close(h.c);
}

static void t_calls_held(void) {
    val_env env;
    val_env_init(&env, 0, 0, NULL);
    const val  tools = val_json_read(&env, bytes_of(tcall_held_tools), VAL_JSON_INPUT);
    constrain *schema[2] = {tcall_schema(tools, 0), tcall_schema(tools, 1)};
    for (size_t i = 0; i < sizeof calls_rows / sizeof *calls_rows; i++) {
        if (!calls_rows[i].name || strstr(calls_rows[i].call, "TAG")) continue;
        calls_form *f = tcall_form(calls_rows[i].name);
        for (int k = 0; k < 4; k++) {
            calls_want w = {.tools = tools, .only = k == 2 ? bytes_of("look") : (bytes){0}, .required = k > 0,
                            .many = k != 3, .json = {.space = 2}};
            tcall_answer(f, &w, schema);
        }
        calls_form_free(f);
    }
    constrain_close(schema[0]), constrain_close(schema[1]);
    val_env_drop(&env);
}

/* A string that may be null is null where the text says so, in tags and between marks; another text of four letters is too long. */
static void t_calls_null(void) {
    static const char *const rows[][3] = {
        {"tool_call-parameters", "<tool_call>\n<function=put_2>\n<parameter=note>\n%s\n</parameter>\n</function>\n</tool_call>", "nult"},
        {"tool_call-keys", "<tool_call>put_2\n<arg_key>note</arg_key>\n<arg_value>%s</arg_value>\n</tool_call>", "nult"},
        {"gemma", "<|tool_call>call:put_2{note:%s}<tool_call|>", "nult"},
        {"minimax-m2", "<minimax:tool_call>\n<invoke name=\"put_2\">\n<parameter name=\"note\">%s</parameter>\n</invoke>\n</minimax:tool_call>", "Null"},
    };
    val_env env;
    val_env_init(&env, 0, 0, NULL);
    const val tools = val_json_read(&env, bytes_of(tcall_held_tools), VAL_JSON_INPUT);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int bad = 0; bad < 2; bad++) {
            calls_form *f = tcall_form(rows[i][0]);
            calls_want  w = {.tools = tools, .many = true, .json = {.space = 2}};
            tcall_held  h = tcall_hold(f, &w);
            gram_track  t;
            str         text = {0}, got = {0};
            str_fmt(&text, rows[i][1], bad ? rows[i][2] : "null");
            gram_track_open(&t, h.g);
            CHECKF(tcall_follow(&t, str_bytes(&text)) == !bad, "%s", text.p);
            tcall_tell(f, str_bytes(&text), tools, &got);
            if (!bad) EQ_STR(got.p, "() put_2 {\"note\": null}");
            gram_track_close(&t);
            constrain_close(h.c);
            calls_form_free(f);
            str_drop(&text), str_drop(&got);
        }
    val_env_drop(&env);
}

/* Schemas in the words of other vendors, and what they become. */
static void t_calls_meant(void) {
    static const char *const rows[][2] = {
        {"{\"type\": \"OBJECT\", \"properties\": {\"type\": {\"type\": \"STRING\"}, \"n\": {\"type\": \"Integer\"}}, \"required\": null}",
         "{\"type\": \"object\", \"properties\": {\"type\": {\"type\": \"string\"}, \"n\": {\"type\": \"integer\"}}}"},
        {"{\"type\": \"dict\", \"properties\": {\"a\": {\"type\": \"any\"}, \"b\": {\"type\": [\"str\", \"NULL\"]}, \"c\": {\"type\": [\"any\", \"null\"]}}}",
         "{\"type\": \"object\", \"properties\": {\"a\": {}, \"b\": {\"type\": [\"string\", \"null\"]}, \"c\": {}}}"},
        {"{\"items\": {\"type\": \"float\"}, \"anyOf\": [{\"type\": \"bool\"}, {\"items\": [{\"type\": \"int\"}]}], \"additionalProperties\": false}",
         "{\"items\": {\"type\": \"number\"}, \"anyOf\": [{\"type\": \"boolean\"}, {\"items\": [{\"type\": \"integer\"}]}], \"additionalProperties\": false}"},
        {"{\"const\": null, \"default\": null, \"enum\": [\"STRING\", null], \"description\": null, \"properties\": null}",
         "{\"const\": null, \"default\": null, \"enum\": [\"STRING\", null]}"},
        {"{\"type\": \"STRING\", \"nullable\": true, \"enum\": [\"a\"]}",
         "{\"type\": [\"string\", \"null\"], \"nullable\": true, \"enum\": [\"a\", null]}"},
        {"{\"type\": [\"string\", \"null\"], \"nullable\": true}", "{\"type\": [\"string\", \"null\"], \"nullable\": true}"},
        {"{\"type\": \"frob\", \"x\": {\"type\": \"STRING\"}}", "{\"type\": \"frob\", \"x\": {\"type\": \"STRING\"}}"},
        {"{\"type\": \"string\\u0000\"}", "{\"type\": \"string\\u0000\"}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        val_env        env;
        str            got = {0};
        err_t          e = {0};
        val_env_init(&env, 0, 0, NULL);
        calls__writing w = {calls__meant(&env, val_json_read(&env, bytes_of(rows[i][0]), VAL_JSON_INPUT)), &got};
        CHECK(val_run(&env, calls__write_json, &w, &e));
        EQ_STR(got.p, rows[i][1]);
        val_env_drop(&env);
        str_drop(&got);
    }
}

static const t_case t_calls_cases[] = {
    {"calls null", "a nullable string of tagged parameters is null, as numbers are numbers", t_calls_null},
    {"calls meant", "schemas of tools in the words of other vendors are read as JSON Schema writes them", t_calls_meant},
    {"calls held", "what an automaton of answers lets through is read back as calls of the tools, with arguments as their schemas have them, in every form", t_calls_held},
    {"calls rows", "each form of the table has an answer among these tests, and a name of its own", t_calls_rows},
    {"calls read", "answers in every form: calls, arguments and ids come out, the rest stays content, and so does what is no whole call", t_calls_read},
    {"calls cut", "the same answers, cut at every byte: nothing is lost, and no byte of a later call counts as content",
     t_calls_cut},
    {"calls safe", "text that cannot become a call is content at once", t_calls_safe},
    {"calls types", "values of tagged parameters become JSON by their types", t_calls_types},
    {"calls ids", "ids that an answer lacks are made from it", t_calls_ids},
    {"calls hostile", "openings without end and values inside each other are content, within seconds", t_calls_hostile},
    {"calls newlines", "newlines without end take a time in proportion, and a call behind them is read", t_calls_newlines},
    {"calls learn", "a template of each form: the form is found, and calls that it renders are read back, whole and cut at every byte", t_calls_learn},
    {"calls words", "templates that render no calls have the form that their instructions name, or none", t_calls_words},
    {"calls models", "templates of models: the form is found, and calls that they render are read back", t_calls_models},
    {"calls hostile templates", "templates that are made to take long are given up within a second",
     t_calls_hostile_templates},
    {"calls begin", "a required call begins as its form says, and what follows completes it", t_calls_begin},
};
static const t_suite t_calls_suite = SUITE(t_calls_cases);
