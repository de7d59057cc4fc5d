/* [calls]: answers of models in every form of the table, read whole and cut at every byte; types of parameters; broken and hostile answers. */

/* The form of a row, as if a template had been rendered with its white space. */
static calls_form *tc_form(const char *name) {
    calls_form *f = mem_new(1, sizeof *f);
    for (size_t i = 0; i < sizeof calls_rows / sizeof *calls_rows; i++)
        if (calls_rows[i].name && strcmp(calls_rows[i].name, name) == 0) return calls__take_row(f, &calls_rows[i]), f;
    CHECKF(false, "no form %s", name);
    mem_free(f);
    return NULL;
}

/* What was read: the content in brackets, then "name arguments" of each call, and its id where the answer has it. */
static void tc_tell(const calls_form *f, bytes text, val tools, str *out) {
    str       content = {0};
    call_list calls;
    calls_read(f, text, tools, &content, &calls);
    str_fmt(out, "(%.*s)", (int)content.n, content.n ? content.p : "");
    for (size_t i = 0; i < calls.n; i++) {
        const calls_call c = calls.at[i];
        str_fmt(out, " %.*s %.*s", (int)c.name.n, (const char *)c.name.p, (int)c.arguments.n, (const char *)c.arguments.p);
        if (calls__find(text, 0, c.id) != SIZE_MAX) str_fmt(out, " #%.*s", (int)c.id.n, (const char *)c.id.p);
    }
    call_list_drop(&calls);
    str_drop(&content);
}

static const char tc_tools[] = "[{\"type\": \"function\", \"function\": {\"name\": \"get\", \"parameters\": {\"type\": \"object\", \"properties\": {"
    "\"s\": {\"type\": \"string\"}, \"n\": {\"type\": \"integer\"}, \"b\": {\"type\": \"boolean\"}, \"l\": {\"type\": \"array\", \"items\": {\"type\": \"string\"}}, \"o\": {\"type\": \"object\"}, "
    "\"sn\": {\"type\": [\"string\", \"null\"]}, \"si\": {\"type\": [\"string\", \"integer\"]}, \"e\": {\"enum\": [\"1\", \"2\"]}, \"any\": {\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"null\"}]}, "
    "\"x\": {}}}}}, {\"name\": \"put\"}]";

#define TC_DB "<\xef\xbd\x9ctool\xe2\x96\x81" "calls\xe2\x96\x81" "begin\xef\xbd\x9c>"
#define TC_DE "<\xef\xbd\x9ctool\xe2\x96\x81" "calls\xe2\x96\x81" "end\xef\xbd\x9c>"
#define TC_CB "<\xef\xbd\x9ctool\xe2\x96\x81" "call\xe2\x96\x81" "begin\xef\xbd\x9c>"
#define TC_CE "<\xef\xbd\x9ctool\xe2\x96\x81" "call\xe2\x96\x81" "end\xef\xbd\x9c>"
#define TC_SEP "<\xef\xbd\x9ctool\xe2\x96\x81" "sep\xef\xbd\x9c>"
#define TC_ML "\xef\xbd\x9c" "DSML\xef\xbd\x9c"
#define TC_M3 "]<]minimax[>["

/* An answer in a form, and what is read. */
static const struct {
    const char *form, *text, *want;
} tc_answers[] = {
    {"tool_call", "Hello", "(Hello)"},
    {"tool_call", "", "()"},
    {"tool_call", " \n", "( \n)"},
    {"tool_call", "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"s\": \"x\"}}\n</tool_call>", "() get {\"s\": \"x\"}"},
    {"tool_call", "One <tool_call>{\"name\": \"get\", \"arguments\": {}}</tool_call> two <tool_call>{\"arguments\": {\"a\": [1]}, \"name\": \"put\"}</tool_call> three\n",
     "(One  two  three\n) get {} put {\"a\": [1]}"},
    {"tool_call", "<tool_call>{\"name\": \"get\", \"arguments\": {}}</tool_call>\n\n<tool_call>\n{\"name\": \"put\", \"arguments\": {}}\n</tool_call>\n", "() get {} put {}"},
    {"tool_call", "<tool_call>{\"name\": \"get\", \"arguments\": \"{\\\"s\\\": \\\"\\\\u00e9\\\"}\"}</tool_call>", "() get {\"s\": \"\\u00e9\"}"},
    {"tool_call", "<tool_call>{\"name\": \"get\"}</tool_call>", "() get {}"},
    {"tool_call", "<tool_call>{\"name\": \"get\", \"arguments\": null}</tool_call>", "() get {}"},
    {"tool_call", "<tool_call>{\"id\": \"a1\", \"type\": \"function\", \"function\": {\"name\": \"get\", \"arguments\": {\"n\": 1}}}</tool_call>", "() get {\"n\": 1} #a1"},
    {"tool_call", "<tool_call>{\"name\": \"get\", \"arguments\": {\"s\": \"</tool_call> \\\" \xc3\xa9 {[\"}}</tool_call>", "() get {\"s\": \"</tool_call> \\\" \xc3\xa9 {[\"}"},
    {"tool_call", "<tool_call>{\"name\": \"get\", \"arguments\": {\"s\": \"a\nb\"}}</tool_call>", "() get {\"s\": \"a\\u000ab\"}"},
    {"tool_call", "<tool_call>{'name': 'get', 'arguments': {'s': 'it\\'s', 'b': True, 'l': (1, None)}}</tool_call>", "() get {\"s\": \"it's\", \"b\": true, \"l\": [1, null]}"},
    {"tool_call", "<tool_call>{\"name\": \"get\", \"arguments\": {}}", "() get {}"},
    {"tool_call", "<tool_call>{\"name\": \"get\", \"arguments\": {}}</tool_", "() get {}"},
    {"tool_call", "<tool_call>{\"name\": \"get\", \"arguments\": {}}<tool_call>{\"name\": \"put\", \"arguments\": {}}</tool_call>", "() get {} put {}"},
    {"tool_call", "<tool_call>{\"name\": \"get\", \"arguments\": {\"s\": \"x", "(<tool_call>{\"name\": \"get\", \"arguments\": {\"s\": \"x)"},
    {"tool_call", "<tool_call>{\"name\": \"get\", \"arguments\": {}} no", "(<tool_call>{\"name\": \"get\", \"arguments\": {}} no)"},
    {"tool_call", "<tool_call>{\"name\": 1, \"arguments\": {}}</tool_call>", "(<tool_call>{\"name\": 1, \"arguments\": {}}</tool_call>)"},
    {"tool_call", "<tool_call>{\"name\": \"get\", \"arguments\": [1]}</tool_call>", "(<tool_call>{\"name\": \"get\", \"arguments\": [1]}</tool_call>)"},
    {"tool_call", "The tag <tool_call> opens a call.", "(The tag <tool_call> opens a call.)"},
    {"tool_call", "<tool_call>\n[{\"name\": \"get\", \"arguments\": {}}, {\"name\": \"put\", \"arguments\": {}}]\n</tool_call>", "() get {} put {}"},
    {"tool_call-parameters", "Text\n\n<tool_call>\n<function=get>\n<parameter=s>\nan \"a\" & <b>\n</parameter>\n<parameter=n>\n17\n</parameter>\n</function>\n</tool_call>",
     "(Text\n\n) get {\"s\": \"an \\\"a\\\" & <b>\", \"n\": 17}"},
    {"tool_call-parameters", "<tool_call><function=get></function></tool_call>", "() get {}"},
    {"tool_call-parameters", "<tool_call><function=get><parameter=s>17</parameter></function></tool_call>", "() get {\"s\": \"17\"}"},
    {"tool_call-parameters", "<tool_call><function=get><parameter=s>\n\n</parameter><parameter=x>\n\n\n\n</parameter></function></tool_call>", "() get {\"s\": \"\", \"x\": \"\\n\\n\"}"},
    {"tool_call-parameters", "<tool_call><function=get><parameter=s>a</parameter>b</parameter></function></tool_call>", "() get {\"s\": \"a</parameter>b\"}"},
    {"tool_call-parameters", "<function=get>\n<parameter=n>\n1\n</parameter>\n</function>\n</tool_call>", "() get {\"n\": 1}"},
    {"tool_call-parameters", "<tool_call>\n<function=get>\n<parameter=n>\n1\n</parameter>\n</function>", "() get {\"n\": 1}"},
    {"tool_call-parameters", "<tool_call>\n<function=get>\n<parameter=n>\n1\n</parameter>\n", "(<tool_call>\n<function=get>\n<parameter=n>\n1\n</parameter>\n)"},
    {"seed", "<seed:tool_call>\n<function=get>\n<parameter=s>x</parameter>\n</function>\n</seed:tool_call>", "() get {\"s\": \"x\"}"},
    {"tool_call-keys", "<tool_call>get\n<arg_key>s</arg_key>\n<arg_value> a b </arg_value>\n<arg_key>l</arg_key>\n<arg_value>[\"a\"]</arg_value>\n</tool_call>", "() get {\"s\": \" a b \", \"l\": [\"a\"]}"},
    {"tool_call-keys", "<tool_call>get</tool_call>", "() get {}"},
    {"hunyuan", "<tool_calls:opensource>\n<tool_call:opensource>get<tool_sep:opensource>\n<arg_key:opensource>n</arg_key:opensource>\n<arg_value:opensource>5</arg_value:opensource>\n"
     "</tool_call:opensource>\n<tool_call:opensource>put<tool_sep:opensource>\n</tool_call:opensource>\n</tool_calls:opensource>", "() get {\"n\": 5} put {}"},
    {"hunyuan-json", "<tool_calls><tool_call>function<tool_sep>get\n```json\n{\"n\": 5}\n```</tool_call></tool_calls>", "() get {\"n\": 5}"},
    {"hunyuan-json", "<tool_calls><tool_call>get\n```json\n{}\n```</tool_call></tool_calls>", "() get {}"},
    {"tool_calls-list", "Yes.\n<tool_calls>[{\"name\": \"get\", \"arguments\": {\"n\": 1}}, {\"name\": \"put\", \"arguments\": {}}]</tool_calls>", "(Yes.\n) get {\"n\": 1} put {}"},
    {"tool_calls-list", "<tool_calls>[{\"name\": \"get\", \"arguments\": {}}, {\"name\": \"put\", \"arg", "(, {\"name\": \"put\", \"arg) get {}"},
    {"tool_calls-list", "<tool_calls>[]</tool_calls>", "(<tool_calls>[]</tool_calls>)"},
    {"mistral", "Text[TOOL_CALLS][{\"name\": \"get\", \"arguments\": {\"s\": \"]\"}, \"id\": \"abc123XYZ\"}]", "(Text) get {\"s\": \"]\"} #abc123XYZ"},
    {"mistral", "[TOOL_CALLS]get[ARGS]{\"s\": \"[ARGS]\"}[TOOL_CALLS]put[CALL_ID]abc123XYZ[ARGS]{}", "() get {\"s\": \"[ARGS]\"} put {} #abc123XYZ"},
    {"deepseek-r1", "Text" TC_DB TC_CB "function" TC_SEP "get\n```json\n{\"n\": 1}\n```" TC_CE "\n" TC_CB "function" TC_SEP "put\n```json\n{}\n```" TC_CE TC_DE, "(Text) get {\"n\": 1} put {}"},
    {"deepseek-v3.1", TC_DB TC_CB "get" TC_SEP "{\"n\": 1}" TC_CE TC_CB "put" TC_SEP "{}" TC_CE TC_DE, "() get {\"n\": 1} put {}"},
    {"deepseek-v3.1", TC_CB "get" TC_SEP "{\"n\": 1}" TC_CE, "() get {\"n\": 1}"},
    {"deepseek-v3.2", "<" TC_ML "function_calls>\n<" TC_ML "invoke name=\"get\">\n<" TC_ML "parameter name=\"s\" string=\"true\">17</" TC_ML "parameter>\n<" TC_ML "parameter name=\"x\" string=\"false\">[1]</"
     TC_ML "parameter>\n</" TC_ML "invoke>\n</" TC_ML "function_calls>", "() get {\"s\": \"17\", \"x\": [1]}"},
    {"deepseek-v4", "<" TC_ML "tool_calls>\n<" TC_ML "invoke name=\"get\">\n</" TC_ML "invoke>\n</" TC_ML "tool_calls>", "() get {}"},
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
    {"lfm2", "<|tool_call_start|>[get(\"positional\")]<|tool_call_end|>", "(<|tool_call_start|>[get(\"positional\")]<|tool_call_end|>)"},
    {"olmo3", "<function_calls>\nget(s=\"x\")\nput()\n</function_calls>", "() get {\"s\": \"x\"} put {}"},
    {"minimax-m2", "<minimax:tool_call>\n<invoke name=\"get\">\n<parameter name=\"s\">a\nb</parameter>\n<parameter name=\"b\">True</parameter>\n</invoke>\n<invoke name=\"put\">\n</invoke>\n</minimax:tool_call>",
     "() get {\"s\": \"a\\nb\", \"b\": true} put {}"},
    {"minimax-m3", TC_M3 "<tool_call>\n" TC_M3 "<invoke name=\"get\">" TC_M3 "<s>x" TC_M3 "</s>" TC_M3 "<l>" TC_M3 "<item>a" TC_M3 "</item>" TC_M3 "<item>b" TC_M3 "</item>" TC_M3 "</l>" TC_M3 "<o>" TC_M3
     "<k>1" TC_M3 "</k>" TC_M3 "</o>" TC_M3 "</invoke>\n" TC_M3 "</tool_call>", "() get {\"s\": \"x\", \"l\": [\"a\", \"b\"], \"o\": {\"k\": 1}}"},
    {"minicpm", "<function name=\"get\"><param name=\"s\"><![CDATA[<a>&</a>]]></param><param name=\"n\">5</param></function>", "() get {\"s\": \"<a>&</a>\", \"n\": 5}"},
    {"granite", "<|tool_call|>[{\"name\": \"get\", \"arguments\": {\"n\": 1}}, {\"name\": \"put\", \"arguments\": {}}]", "() get {\"n\": 1} put {}"},
    {"phi-4", "<|tool_call|>[{\"name\": \"get\", \"arguments\": {\"n\": 1}}]<|/tool_call|>", "() get {\"n\": 1}"},
    {"nemotron", "<TOOLCALL>[{\"name\": \"get\", \"arguments\": {\"n\": 1}}]</TOOLCALL>", "() get {\"n\": 1}"},
    {"apertus", "<|tools_prefix|>[{\"get\": {\"n\": 1}}, {\"put\": {}}]<|tools_suffix|>", "() get {\"n\": 1} put {}"},
    {"solar", "<|tool_calls|><|tool_call:begin|>id-7<|tool_call:name|>get<|tool_call:args|>{\"n\": 1}<|tool_call:end|><|calls|>", "() get {\"n\": 1} #id-7"},
    {"internlm", "Text<|action_start|><|plugin|>\n{\"name\": \"get\", \"parameters\": {\"n\": 1}}<|action_end|>", "(Text) get {\"n\": 1}"},
    {"gigachat", "<|function_call|>{\"name\": \"get\", \"arguments\": {\"n\": 1}}", "() get {\"n\": 1}"},
    {"gigachat-role", "Text<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"get\", \"arguments\": {\"n\": 1}}", "(Text) get {\"n\": 1}"},
    {"mcp", "<use_mcp_tool>\n<server_name>default</server_name>\n<tool_name>get</tool_name>\n<arguments>\n{\"n\": 1}\n</arguments>\n</use_mcp_tool>", "() get {\"n\": 1}"},
    {"functools", "functools[{\"name\": \"get\", \"arguments\": {\"n\": 1}}]", "() get {\"n\": 1}"},
    {"function-tag", "<function=get>{\"n\": 1}</function><function=put>{}</function>", "() get {\"n\": 1} put {}"},
    {"functionary", "Text>>>get\n{\"n\": 1}>>>put\n{}", "(Text) get {\"n\": 1} put {}"},
    {"functionary", "get\n{\"n\": 1}", "() get {\"n\": 1}"},
    {"functionary", "other\n{\"n\": 1}", "(other\n{\"n\": 1})"},
    {"llama", "{\"name\": \"get\", \"parameters\": {\"n\": 1}}", "() get {\"n\": 1}"},
    {"llama", "<|python_tag|>{\"name\": \"get\", \"parameters\": {\"n\": 1}}; {\"name\": \"put\", \"parameters\": {}}", "() get {\"n\": 1} put {}"},
    {"llama", "{\"type\": \"function\", \"name\": \"get\", \"parameters\": {}}\n", "() get {}"},
    {"llama", "{\"name\": \"other\", \"parameters\": {}}", "({\"name\": \"other\", \"parameters\": {}})"},
    {"llama", "{\"name\": \"get\"}", "({\"name\": \"get\"})"},
    {"llama", "{\"name\": \"get\", \"parameters\": {}, \"price\": 1}", "({\"name\": \"get\", \"parameters\": {}, \"price\": 1})"},
    {"llama", "Use {\"name\": \"get\", \"parameters\": {}} here", "(Use {\"name\": \"get\", \"parameters\": {}} here)"},
    {"llama", "{\"name\": \"get\", \"parameters\": {}} is a call", "({\"name\": \"get\", \"parameters\": {}} is a call)"},
    {"json-list", "[{\"name\": \"get\", \"arguments\": {\"n\": 1}}, {\"name\": \"put\", \"arguments\": {}}]", "() get {\"n\": 1} put {}"},
    {"json-list", "[1, 2, 3]", "([1, 2, 3])"},
    {"python-list", "[get(n=1), put()]", "() get {\"n\": 1} put {}"},
    {"python-list", "[other(n=1)]", "([other(n=1)])"},
    {"python-list", "<|python_start|>[get(n=1)]<|python_end|>", "() get {\"n\": 1}"},
};
enum { TC_ANSWERS = sizeof tc_answers / sizeof *tc_answers };

static val tc_tools_of(val_env *env) {
    val_env_init(env, 0, 0, NULL);
    return val_json_read(env, bytes_of(tc_tools), 0);
}

static void t_calls_read(void) {
    val_env   env;
    const val tools = tc_tools_of(&env);
    for (int i = 0; i < TC_ANSWERS; i++) {
        calls_form *f = tc_form(tc_answers[i].form);
        str         got = {0};
        if (!f) continue;
        tc_tell(f, bytes_of(tc_answers[i].text), tools, &got);
        CHECKF(strcmp(got.p, tc_answers[i].want) == 0, "%s: %s\n      got  %s\n      want %s", tc_answers[i].form, tc_answers[i].text, got.p, tc_answers[i].want);
        str_drop(&got);
        calls_form_free(f);
    }
    val_env_drop(&env);
}

static void t_calls_rows(void) {
    for (size_t i = 0; i < sizeof calls_rows / sizeof *calls_rows; i++) {
        const char *name = calls_rows[i].name;
        bool        tried = !name;
        for (int k = 0; k < TC_ANSWERS; k++) tried |= name && strcmp(tc_answers[k].form, name) == 0;
        CHECKF(tried, "no answer in the form %s", name);
        for (size_t k = 0; name && k < i; k++) CHECKF(!calls_rows[k].name || strcmp(calls_rows[k].name, name) != 0, "two rows %s", name);
    }
}

/* Whether `part` is text without some of its bytes. */
static bool tc_within(bytes part, bytes text) {
    size_t k = 0;
    for (size_t i = 0; i < text.n && k < part.n; i++) k += text.p[i] == part.p[k];
    return k == part.n;
}

/* Where the first call of a whole answer begins: what calls_safe stops at when the answer is complete. */
static void tc_cut(const calls_form *f, bytes text, val tools) {
    size_t    safe = 0;
    str       whole = {0};
    call_list calls;
    calls_read(f, text, tools, &whole, &calls);
    for (size_t n = 0; n <= text.n; n++) {
        uint8_t    *copy = mem_new(n, 1);                  /* exactly n bytes, so that a sanitizer sees a read behind them */
        const bytes cut = {memcpy(copy, text.p, n), n};
        str         content = {0};
        call_list   some;
        const size_t from = safe, all = calls_safe(f, cut, 0);
        safe = calls_safe(f, cut, from);
        CHECKF(safe == all && safe >= from && safe <= n, "%zu bytes: %zu, %zu before, %zu from the beginning", n, safe, from, all);
        CHECKF(safe <= whole.n && memcmp(whole.p, text.p, safe) == 0, "%zu bytes: %zu are content, but a call begins before: %.*s", n, safe, (int)text.n, (const char *)text.p);
        calls_read(f, cut, tools, &content, &some);
        CHECKF(safe <= content.n && tc_within(str_bytes(&content), cut), "%zu bytes: the content is no part of them", n);
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
    const val tools = tc_tools_of(&env);
    for (int i = 0; i < TC_ANSWERS; i++) {
        calls_form *f = tc_form(tc_answers[i].form);
        str         more = {0};
        str_fmt(&more, "Some text. %s\n", tc_answers[i].text);
        if (f) tc_cut(f, bytes_of(tc_answers[i].text), tools), tc_cut(f, str_bytes(&more), tools);
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
        {"tool_call", "Hello", 5}, {"tool_call", "Hello <", 6}, {"tool_call", "Hello <b", 8}, {"tool_call", "Hello <tool_call>", 6}, {"tool_call", "<tool_call> opens", 17},
        {"tool_call", "  ", 0}, {"tool_call", "  a", 3}, {"mistral", "a [TOOL", 2}, {"mistral", "a [b", 4}, {"llama", "Hello", 5}, {"llama", "{\"na", 0}, {"llama", "A {\"na", 6},
        {"llama", "{\"price\": 1}", 12}, {"gpt-oss", "Go to", 2}, {"gpt-oss", "Go to the", 9}, {"tool_call", "<tool_call>{\"name\": \"get\", \"arguments\": {}}</tool_call> and", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        calls_form  *f = tc_form(cases[i].form);
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
        {"s", "17", "\"17\""}, {"s", "null", "\"null\""}, {"s", "{}", "\"{}\""}, {"n", "17", "17"}, {"n", " 17 ", "17"}, {"n", "many", "\"many\""}, {"b", "true", "true"}, {"b", "True", "true"},
        {"b", "yes", "\"yes\""}, {"l", "[\"a\"]", "[\"a\"]"}, {"l", "['a']", "[\"a\"]"}, {"l", "", "[]"}, {"o", "", "{}"}, {"o", "{'a': None}", "{\"a\": null}"}, {"o", "{\"a\": {\"b\": 1e5}}", "{\"a\": {\"b\": 1e5}}"},
        {"sn", "a", "\"a\""}, {"sn", "5", "\"5\""}, {"si", "5", "5"}, {"si", "a", "\"a\""}, {"e", "1", "\"1\""}, {"any", "1", "\"1\""}, {"x", "1", "1"}, {"x", "a", "\"a\""}, {"x", "True", "\"True\""},
        {"unknown", "[1", "\"[1\""}, {"unknown", "01", "\"01\""}, {"unknown", "\"q\"", "\"q\""}, {"s", "\xff\x01\x7f", "\"\xff\\u0001\\u007f\""}, {"s", "\xf0\x9f\x98\x80\xe2\x80\xa8", "\"\xf0\x9f\x98\x80\xe2\x80\xa8\""},
    };
    val_env     env;
    const val   tools = tc_tools_of(&env);
    calls_form *f = tc_form("tool_call-parameters");
    for (size_t i = 0; f && i < sizeof cases / sizeof *cases; i++) {
        str text = {0}, got = {0}, want = {0};
        str_fmt(&text, "<tool_call><function=get><parameter=%s>\n%s\n</parameter></function></tool_call>", cases[i].key, cases[i].value);
        str_fmt(&want, "() get {\"%s\": %s}", cases[i].key, cases[i].want);
        tc_tell(f, str_bytes(&text), tools, &got);
        EQ_STR(got.p, want.p);
        str_drop(&text), str_drop(&got), str_drop(&want);
    }
    calls_form_free(f);
    val_env_drop(&env);
}

/* Ids that an answer does not have are made from it: the same each time, different for each call. */
static void t_calls_ids(void) {
    static const char text[] = "<tool_call>{\"name\": \"get\", \"arguments\": {}}</tool_call><tool_call>{\"name\": \"get\", \"arguments\": {}}</tool_call>";
    calls_form *f = tc_form("tool_call"), *m = tc_form("mistral");
    str         content = {0};
    call_list   a, b, c;
    if (!f || !m) return;
    calls_read(f, bytes_of(text), val_undef(NULL), &content, &a);
    calls_read(f, bytes_of(text), val_undef(NULL), &content, &b);
    calls_read(m, bytes_of("[TOOL_CALLS]get[ARGS]{}"), val_undef(NULL), &content, &c);
    if (CHECK(a.n == 2 && b.n == 2 && c.n == 1)) {
        CHECK(bytes_eq(a.at[0].id, b.at[0].id) && bytes_eq(a.at[1].id, b.at[1].id) && !bytes_eq(a.at[0].id, a.at[1].id));
        CHECK(a.at[0].id.n == 14 && memcmp(a.at[0].id.p, "call_", 5) == 0 && c.at[0].id.n == 9);
        for (size_t i = 0; i < 9; i++) CHECK(isalnum(c.at[0].id.p[i]));
    }
    call_list_drop(&a), call_list_drop(&b), call_list_drop(&c);
    str_drop(&content);
    calls_form_free(f), calls_form_free(m);
}

/* Answers whose reading could take a time that grows faster than they do, or a deep stack. */
static void t_calls_hostile(void) {
    static const char *const parts[] = {"<tool_call>", "<tool_call>{", "<tool_call>{\"a\":", "<tool_call>[", "<tool_call>{\"name\": \"get\", \"arguments\": {\"a\": \"", "<tool_call><function=a><parameter=b>",
                                        "<tool_call><function=a><parameter=b></parameter>", "</parameter><parameter=b>", "<|tool_call_start|>[f(a=[[[", "<|tool_call_start|>[f(a={'b':(",
                                        "<|tool_call>call:f{a:{", "<|tool_call>call:f{a:<|\"|>", "{\"name\": ", "[f(a=", "[TOOL_CALLS]", TC_M3 "<tool_call>" TC_M3 "<invoke name=\"f\">" TC_M3 "<a>", TC_M3 "<a>", "x"};
    const double from = t_cpu();
    for (size_t i = 0; i < sizeof calls_rows / sizeof *calls_rows; i++)
        for (size_t k = 0; calls_rows[i].name && k < sizeof parts / sizeof *parts; k++) {
            calls_form *f = tc_form(calls_rows[i].name);
            str         text = {0}, content = {0};
            call_list   calls;
            while (text.n < 20000) str_put(&text, parts[k]);
            calls_read(f, str_bytes(&text), val_undef(NULL), &content, &calls);
            CHECKF(calls.n == 0 && bytes_eq(str_bytes(&content), str_bytes(&text)), "%s: %s is no call", calls_rows[i].name, parts[k]);
            calls_safe(f, str_bytes(&text), 0);
            call_list_drop(&calls);
            str_drop(&text), str_drop(&content);
            calls_form_free(f);
        }
    CHECKF(t_cpu() - from < 60, "%.1f s", t_cpu() - from);
}

/* A required call: what the answer begins with is read back with what the model adds. */
static void t_calls_begin(void) {
    static const struct {
        const char *form, *want, *rest;
    } cases[] = {
        {"tool_call", "<tool_call>\n{\"name\": \"get\", \"arguments\": ", "{\"n\": 1}}\n</tool_call>"},
        {"tool_call-parameters", "<tool_call>\n<function=get>\n", "<parameter=n>\n1\n</parameter>\n</function>\n</tool_call>"},
        {"mistral", "[TOOL_CALLS]get[CALL_ID]", "abcdefghi[ARGS]{\"n\": 1}"},
        {"kimi", "<|tool_calls_section_begin|><|tool_call_begin|>functions.get:", "0<|tool_call_argument_begin|>{\"n\": 1}<|tool_call_end|><|tool_calls_section_end|>"},
        {"lfm2", "<|tool_call_start|>[get(", "n=1)]<|tool_call_end|>"},
        {"llama", "{\"name\": \"get\", \"arguments\": ", "{\"n\": 1}}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        calls_form *f = tc_form(cases[i].form);
        str         text = {0}, got = {0};
        if (!f) continue;
        calls_begin(f, bytes_of("get"), &text);
        EQ_STR(text.p, cases[i].want);
        str_put(&text, cases[i].rest);
        tc_tell(f, str_bytes(&text), val_undef(NULL), &got);
        CHECKF(strncmp(got.p, "() get {\"n\": 1}", 15) == 0, "%s", got.p);
        str_drop(&text), str_drop(&got);
        calls_form_free(f);
    }
}

static const t_case t_calls_cases[] = {
    {"calls rows", "each form of the table has an answer among these tests, and a name of its own", t_calls_rows},
    {"calls read", "answers in every form: calls, arguments and ids come out, the rest stays content, and so does what is no whole call", t_calls_read},
    {"calls cut", "the same answers, cut at every byte: nothing is lost, and no byte of a later call counts as content", t_calls_cut},
    {"calls safe", "text that cannot become a call is content at once", t_calls_safe},
    {"calls types", "values of tagged parameters become JSON by their types", t_calls_types},
    {"calls ids", "ids that an answer lacks are made from it", t_calls_ids},
    {"calls hostile", "openings without end and values inside each other are content, within seconds", t_calls_hostile},
    {"calls begin", "a required call begins as its form says, and what follows completes it", t_calls_begin},
};
